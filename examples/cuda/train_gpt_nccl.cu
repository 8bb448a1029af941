/* train_gpt_nccl.cu - the model of train_gpt.cu, trained by several GPUs: one process each, NCCL adds the gradients up

   Build:  nvcc -O3 -arch=native -Xcompiler -fopenmp,-ffp-contract=off -o train_gpt_nccl examples/cuda/train_gpt_nccl.cu -lcublas -lnccl
   Run:    for r in 0 1; do RANK=$r WORLD_SIZE=2 ./train_gpt_nccl --batch 4 & done; wait       (one rank is right, too)

   --batch is that of one process. RANK, WORLD_SIZE and, if a machine has fewer GPUs than ranks, LOCAL_RANK come from the
   environment, as torchrun or `mpirun -x` set them. The processes find each other through the file that NCCL_ID_FILE names
   (default: nccl.id here), which rank 0 writes anew.

   Every rank plans the same step for the same budget (without --budget: what the fullest GPU has free), so the reductions are called in
   the same order on all. Each is enqueued on the communication
   stream as soon as its gradient is complete, beside the backward of the layers below. It can be captured: the step is a graph. */

#define TRAIN_GPT_PARTS
#include "train_gpt.cu"

#include <nccl.h>

static void nccl_needs(ncclResult_t r, const char *what)
{
    if (r != ncclSuccess) fail(what, ncclGetErrorString(r));
}

static int reduce(const rm_call *c)
{
    return ncclAllReduce(c->grad, c->grad, (size_t)(c->grad_bytes / 2), ncclBfloat16, ncclSum, *(ncclComm_t *)c->user, stream_of(c)) != ncclSuccess;
}

static int64_t from_environment(const char *name, int64_t otherwise)
{
    const char *v = getenv(name);
    return v && *v ? (int64_t)number(name, v, 0, 1e6) : otherwise;
}

/* Rank 0 writes the id to a new file and renames it, so that nobody reads half of one. */
static ncclUniqueId common_id(int64_t rank, const char *path)
{
    ncclUniqueId id;
    char draft[1024];
    FILE *f;
    int tries;
    if (!rank) {
        snprintf(draft, sizeof draft, "%s.new", path);
        nccl_needs(ncclGetUniqueId(&id), "NCCL");
        f = fopen(draft, "wb");
        if (!f || fwrite(&id, sizeof id, 1, f) != 1 || fclose(f) || rename(draft, path)) fail(path, "cannot be written");
        return id;
    }
    for (tries = 0; tries < 600; tries++) {
        const struct timespec tenth = { 0, 100000000 };
        nanosleep(&tenth, NULL);
        f = fopen(path, "rb");
        if (!f) continue;
        tries = fread(&id, sizeof id, 1, f) == 1 ? 1000 : tries;
        fclose(f);
    }
    if (tries < 1000) fail(path, "rank 0 has not written it within a minute");
    return id;
}

/* The least of what the ranks have. */
static uint64_t least(uint64_t mine, ncclComm_t comm, cudaStream_t s)
{
    void *at;
    cuda_needs(cudaMalloc(&at, sizeof mine), "memory");
    cuda_needs(cudaMemcpy(at, &mine, sizeof mine, cudaMemcpyHostToDevice), "memory");
    nccl_needs(ncclAllReduce(at, at, 1, ncclUint64, ncclMin, comm, s), "budget");
    cuda_needs(cudaStreamSynchronize(s), "budget");
    cuda_needs(cudaMemcpy(&mine, at, sizeof mine, cudaMemcpyDeviceToHost), "memory");
    cudaFree(at);
    return mine;
}

int main(int argc, char **argv)
{
    trainer t;
    rm_plan_info info;
    rm_exec_desc d = {};
    ncclComm_t comm;
    ncclUniqueId id;
    uint64_t *hashes, mine;
    float *sum, loss = 0, first = 0;
    int64_t step, r;
    int devices = 0;
    const int64_t rank = from_environment("RANK", 0), ranks = from_environment("WORLD_SIZE", 1);
    const char *path = getenv("NCCL_ID_FILE") ? getenv("NCCL_ID_FILE") : "nccl.id";

    if (rank >= ranks) fail("RANK", "must be below WORLD_SIZE");
    if (!rank) remove(path); /* of an earlier run; start rank 0 first, or with the others */
    memset(&t, 0, sizeof t);
    t.o = parse_options(argc, argv);
    cuda_needs(cudaGetDeviceCount(&devices), "devices");
    cuda_needs(cudaSetDevice((int)(from_environment("LOCAL_RANK", rank) % devices)), "device");
    begin(&t);
    id = common_id(rank, path);
    nccl_needs(ncclCommInitRank(&comm, (int)ranks, id, (int)rank), "NCCL");
    t.model.reduced = 1;
    make_model(&t, rank, ranks);
    d.reduce = reduce;
    d.reduce_user = &comm;
    t.o.untuned = 1; /* plans must be the same on all ranks, and measured times are not */
    if (find_arm(t.o.arm)->budget && !t.o.budget && !(t.o.percent > 0)) t.o.budget = least(rm_cuda_free_bytes(t.cuda, (uint64_t)1 << 30), comm, rm_cuda_stream(t.cuda, RM_LANE_COMM));
    start(&t, &d, &info);
    if (!rank && !t.o.quiet) rm_plan_summary(t.plan, print, stdout);
    cuda_needs(cudaMallocManaged((void **)&sum, sizeof *sum), "memory");
    cuda_needs(cudaMallocManaged((void **)&hashes, (size_t)ranks * sizeof *hashes), "memory");
    for (step = 0; step < t.o.steps; step++) {
        *sum = train_step(&t, step);
        nccl_needs(ncclAllReduce(sum, sum, 1, ncclFloat32, ncclSum, comm, rm_cuda_stream(t.cuda, RM_LANE_COMM)), "loss");
        cuda_needs(cudaStreamSynchronize(rm_cuda_stream(t.cuda, RM_LANE_COMM)), "loss");
        loss = *sum;
        if (!step) first = loss;
        if (!rank && !t.o.quiet) printf("step %4ld/%ld   loss %.4f\n", (long)step + 1, (long)t.o.steps, (double)loss);
    }
    mine = hash_of_weights(&t);
    hashes[rank] = mine;
    nccl_needs(ncclAllGather(&hashes[rank], hashes, 1, ncclUint64, comm, rm_cuda_stream(t.cuda, RM_LANE_COMM)), "digest");
    cuda_needs(cudaStreamSynchronize(rm_cuda_stream(t.cuda, RM_LANE_COMM)), "digest");
    for (r = 0; r < ranks; r++)
        if (hashes[r] != mine) fail("weights", "not the same on every rank");
    if (!rank) {
        report(&t, &info, loss, (double)first);
        printf("%ld ranks, weights %016llx on each\n", (long)ranks, (unsigned long long)mine);
    }
    cudaFree(sum);
    cudaFree(hashes);
    ncclCommDestroy(comm);
    finish(&t);
    return 0;
}
