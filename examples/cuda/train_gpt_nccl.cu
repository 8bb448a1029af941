/* train_gpt_nccl.cu - the model of train_gpt.cu, trained by several GPUs: one process each, NCCL adds the gradients up

   Build:  nvcc -O3 -arch=native -Xcompiler -fopenmp,-ffp-contract=off -o train_gpt_nccl examples/cuda/train_gpt_nccl.cu -lcublasLt -lnccl
   Run:    for r in 0 1; do RANK=$r WORLD_SIZE=2 ./train_gpt_nccl --batch 4 & done; wait       (one rank is right, too)

   --batch is that of one process. RANK, WORLD_SIZE and, if a machine has fewer GPUs than ranks, LOCAL_RANK come from the
   environment, as torchrun or `mpirun -x` set them. The processes find each other through the file that NCCL_ID_FILE names
   (default: nccl.id here), which rank 0 writes anew.

   Every rank plans the same step for the same budget (without --budget: what the fullest GPU has free), so the reductions are called in
   the same order on all; before the first step the ranks compare their plans. Each reduction is enqueued on the communication
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

/* One value of each rank, put together; `at` is 8 bytes on the device. */
static uint64_t together(uint64_t mine, ncclDataType_t type, ncclRedOp_t how, ncclComm_t comm, void *at, cudaStream_t s)
{
    cuda_needs(cudaMemcpyAsync(at, &mine, sizeof mine, cudaMemcpyHostToDevice, s), "a value for all ranks");
    nccl_needs(ncclAllReduce(at, at, 1, type, how, comm, s), "a value for all ranks");
    cuda_needs(cudaMemcpyAsync(&mine, at, sizeof mine, cudaMemcpyDeviceToHost, s), "a value of all ranks");
    cuda_needs(cudaStreamSynchronize(s), "a value of all ranks");
    return mine;
}
static float sum_of(float mine, ncclComm_t comm, void *at, cudaStream_t s)
{
    union { float f; uint64_t u; } x;
    x.u = 0;
    x.f = mine;
    x.u = together(x.u, ncclFloat32, ncclSum, comm, at, s);
    return x.f;
}
static int same_on_all(uint64_t mine, ncclComm_t comm, void *at, cudaStream_t s)
{
    return together(mine, ncclUint64, ncclMin, comm, at, s) == together(mine, ncclUint64, ncclMax, comm, at, s);
}

/* Reductions in another order on another rank would wait for each other for ever. */
static uint64_t hash_of_plan(const trainer *t)
{
    uint64_t hash = 1469598103934665603u;
    uint32_t kind;
    for (kind = RM_SINGLE; kind <= RM_FORWARD; kind <<= 1) rm_plan_write(t->plan, kind, add_to_hash, &hash); /* those that it has */
    return hash;
}

int main(int argc, char **argv)
{
    trainer t;
    rm_plan_info info;
    rm_exec_desc d = {};
    ncclComm_t comm;
    ncclUniqueId id;
    cudaStream_t s;
    void *at;
    uint64_t mine;
    float loss = 0, first = 0;
    int64_t step;
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
    s = rm_cuda_stream(t.cuda, RM_LANE_COMM);
    cuda_needs(cudaMalloc(&at, sizeof(uint64_t)), "memory");
    t.model.reduced = 1;
    make_model(&t, rank, ranks);
    d.reduce = reduce;
    d.reduce_user = &comm;
    t.o.untuned = 1; /* plans must be the same on all ranks, and measured times are not */
    if (find_arm(t.o.arm)->budget && !t.o.budget && !(t.o.percent > 0)) t.o.budget = together(rm_cuda_free_bytes(t.cuda, (uint64_t)1 << 30), ncclUint64, ncclMin, comm, at, s);
    start(&t, &d, &info);
    if (!same_on_all(hash_of_plan(&t), comm, at, s)) fail("plan", "not the same on every rank: give all of them the same options");
    if (!rank && !t.o.quiet) rm_plan_summary(t.plan, print, stdout);
    for (step = 0; step < t.o.steps; step++) {
        train_step(&t, step, 0);
        loss = sum_of(t.loss, comm, at, s);
        if (!step) first = loss;
        if (!rank && !t.o.quiet) printf("step %4ld/%ld   loss %.4f\n", (long)step + 1, (long)t.o.steps, (double)loss);
    }
    mine = hash_of_weights(&t);
    if (!same_on_all(mine, comm, at, s)) fail("weights", "not the same on every rank");
    if (!rank) {
        report(&t, &info, loss, (double)first);
        printf("%ld ranks, weights %016llx on each\n", (long)ranks, (unsigned long long)mine);
    }
    cudaFree(at);
    finish(&t); /* before the communicator, which waits for graphs that hold its work */
    ncclCommDestroy(comm);
    return 0;
}
