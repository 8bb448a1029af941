/* train_gpt_nccl.cu - the model of train_gpt.cu, trained by several GPUs: one process each, NCCL adds the gradients up

   Build:  nvcc -O3 -arch=native -Xcompiler -fopenmp,-ffp-contract=off -o train_gpt_nccl examples/cuda/train_gpt_nccl.cu -lcublasLt -lnccl
   Run:    for r in 0 1; do RANK=$r WORLD_SIZE=2 ./train_gpt_nccl --batch 4 & done; wait       (one rank is right, too)

   --shard keeps weights, gradients and states in shares, one on each rank, as far as the budget asks for it (docs/ranks.md).

   --batch is that of one process. RANK, WORLD_SIZE and, if a machine has fewer GPUs than ranks, LOCAL_RANK come from the
   environment, as torchrun or `mpirun -x` set them. The processes find each other through the file that NCCL_ID_FILE names
   (default: nccl.id here), which rank 0 writes anew.

   Every rank plans the same step for the same budget (without --budget: what the fullest GPU has free), so the reductions are called in
   the same order on all; before the first step the ranks compare their plans. Each reduction is enqueued on the communication
   stream as soon as its gradient is complete, beside the backward of the layers below. It can be captured: the step is a graph.

   The arena is NCCL's memory (ncclMemAlloc) and, from NCCL 2.27 on, one symmetric window: each buffer has the same place in it on all ranks,
   because all run the same plan. With 2.28 gathers of equal parts take no multiprocessor where copy engines can make them. */

#define TRAIN_GPT_PARTS
#include "train_gpt.cu"

#include <nccl.h>

static void nccl_needs(ncclResult_t r, const char *what)
{
    if (r != ncclSuccess) fail(what, ncclGetErrorString(r));
}

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
#define WINDOWS
#endif

/* The processes. */
typedef struct team {
    ncclComm_t comm;
    int64_t rank, ranks;
    cudaStream_t stream;     /* of the communication lane */
    void *value;             /* 8 bytes on the device */
    unsigned char *arena;    /* the plan's, and behind it */
    bf16 *sums;              /* a share, if gradients of several micro-batches are added */
#ifdef WINDOWS
    ncclWindow_t window;     /* on it; NULL: NCCL has none here */
#endif
} team;

static int bad(ncclResult_t r) { return r != ncclSuccess; }

/* The hooks of rm_exec_desc: a gradient's sum, on all; */
static int reduce(const rm_call *c)
{
    return bad(ncclAllReduce(c->grad, c->grad, (size_t)(c->grad_bytes / 2), ncclBfloat16, ncclSum, ((const team *)c->user)->comm, stream_of(c)));
}

/* how many of a whole's bytes a rank has, in shares of so many, and from which one on. */
static uint64_t part_of(uint64_t whole, uint64_t share, int64_t rank, uint64_t *from)
{
    *from = (uint64_t)rank * share < whole ? (uint64_t)rank * share : whole;
    return whole - *from < share ? whole - *from : share;
}

/* A weight from all shares. Equal parts, of which there are exactly as many bytes as the weight has, are one call, which NCCL makes without
   a kernel where it can (NCCL_CTA_POLICY_ZERO); else each rank sends what it has. */
static int gather(const rm_call *c)
{
    const team *t = (const team *)c->user;
    const uint64_t whole = c->out_bytes[0], share = c->in_bytes[0];
    uint64_t from, bytes;
    int64_t r;
    int failed;
    if (share * (uint64_t)t->ranks == whole) return bad(ncclAllGather(c->in[0], c->out[0], (size_t)share, ncclUint8, t->comm, stream_of(c)));
    failed = bad(ncclGroupStart());
    for (r = 0; r < t->ranks && !failed; r++)
        if ((bytes = part_of(whole, share, r, &from)) != 0)
            failed = bad(ncclBroadcast(c->in[0], (char *)c->out[0] + from, (size_t)bytes, ncclUint8, (int)r, t->comm, stream_of(c)));
    return failed | bad(ncclGroupEnd());
}

/* This rank's share of the sum of a gradient; added to what is there of earlier micro-batches. */
static int scatter(const rm_call *c)
{
    const team *t = (const team *)c->user;
    const uint64_t whole = c->in_bytes[0], share = c->out_bytes[0];
    bf16 *to = c->accum ? t->sums : out_h(c);
    uint64_t from, bytes;
    int64_t r;
    int failed;
    if (share * (uint64_t)t->ranks == whole) failed = bad(ncclReduceScatter(c->in[0], to, (size_t)(share / 2), ncclBfloat16, ncclSum, t->comm, stream_of(c)));
    else {
        failed = bad(ncclGroupStart());
        for (r = 0; r < t->ranks && !failed; r++)
            if ((bytes = part_of(whole, share, r, &from)) != 0)
                failed = bad(ncclReduce((const char *)c->in[0] + from, to, (size_t)(bytes / 2), ncclBfloat16, ncclSum, (int)r, t->comm, stream_of(c)));
        failed |= bad(ncclGroupEnd());
    }
    bytes = part_of(whole, share, t->rank, &from);
    if (c->accum && bytes) add(out_h(c), out_h(c), to, (int64_t)(bytes / 2), stream_of(c));
    return failed || launched();
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

/* One value of each rank, put together. */
static uint64_t together(uint64_t mine, ncclDataType_t type, ncclRedOp_t how, const team *t)
{
    cuda_needs(cudaMemcpyAsync(t->value, &mine, sizeof mine, cudaMemcpyHostToDevice, t->stream), "a value for all ranks");
    nccl_needs(ncclAllReduce(t->value, t->value, 1, type, how, t->comm, t->stream), "a value for all ranks");
    cuda_needs(cudaMemcpyAsync(&mine, t->value, sizeof mine, cudaMemcpyDeviceToHost, t->stream), "a value of all ranks");
    cuda_needs(cudaStreamSynchronize(t->stream), "a value of all ranks");
    return mine;
}
static float sum_of(float mine, const team *t)
{
    union { float f; uint64_t u; } x;
    x.u = 0;
    x.f = mine;
    x.u = together(x.u, ncclFloat32, ncclSum, t);
    return x.f;
}
static int same_on_all(uint64_t mine, const team *t) { return together(mine, ncclUint64, ncclMin, t) == together(mine, ncclUint64, ncclMax, t); }

static void open_team(team *t, const char *path)
{
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.CTAPolicy = NCCL_CTA_POLICY_ZERO; /* copy engines instead of kernels where they will do: the computation has the multiprocessors */
    nccl_needs(ncclCommInitRankConfig(&t->comm, (int)t->ranks, common_id(t->rank, path), (int)t->rank, &config), "NCCL");
#else
    nccl_needs(ncclCommInitRank(&t->comm, (int)t->ranks, common_id(t->rank, path), (int)t->rank), "NCCL");
#endif
    cuda_needs(cudaMalloc(&t->value, sizeof(uint64_t)), "memory");
}

/* The arena, once and for all: every buffer of the plan has the same place in it on all ranks, so it is one symmetric window, registered before any
   step is captured. */
static void open_arena(team *t, uint64_t bytes, uint64_t sums, rm_exec_desc *d)
{
    const size_t all = (size_t)((bytes + 255) / 256 * 256 + sums);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 19, 0)
    nccl_needs(ncclMemAlloc((void **)&t->arena, all), "the arena");
#else
    cuda_needs(cudaMalloc((void **)&t->arena, all), "the arena");
#endif
#ifdef WINDOWS
    nccl_needs(ncclCommWindowRegister(t->comm, t->arena, all, &t->window, NCCL_WIN_COLL_SYMMETRIC), "a window on the arena");
#endif
    t->sums = (bf16 *)(t->arena + (all - (size_t)sums));
    d->device_memory = t->arena;
    d->device_memory_bytes = bytes;
}

/* Behind rm_cuda_destroy: graphs hold work of the communicator, which waits for them. */
static void close_team(team *t)
{
#ifdef WINDOWS
    if (t->window) nccl_needs(ncclCommWindowDeregister(t->comm, t->window), "the window");
#endif
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 19, 0)
    nccl_needs(ncclMemFree(t->arena), "the arena");
#else
    cudaFree(t->arena);
#endif
    cudaFree(t->value);
    ncclCommDestroy(t->comm);
}

/* Reductions in another order on another rank would wait for each other for ever. */
static uint64_t hash_of_plan(const trainer *t)
{
    uint64_t hash = 1469598103934665603u;
    uint32_t kind;
    for (kind = RM_SINGLE; kind <= RM_FORWARD; kind <<= 1) rm_plan_write(t->plan, kind, add_to_hash, &hash); /* those that it has */
    return hash;
}

static uint64_t hash_of_values(size_t weight, const uint16_t *value, int64_t first, int64_t n)
{
    uint64_t sum = 0;
    int64_t k;
    for (k = 0; k < n; k++) sum += random_bits((uint64_t)weight << 16 | value[k], first + k);
    return sum;
}

/* A hash of all weights, whatever the ranks have them in: whole ones must be the same on each. */
static uint64_t common_hash(trainer *t, const team *all)
{
    uint64_t whole = 0, parts = 0;
    size_t i;
    for (i = 0; i < t->model.n_weights; i++) {
        const weight *w = &t->model.weights[i];
        uint16_t *h = (uint16_t *)malloc(halves(w->count));
        int64_t first = 0, n = w->count;
        if (!h) fail("hash", "no memory");
        if (rm_exec_read(t->exec, w->tensor, RM_VALUE, 0, h, halves(n)) == RM_OK) whole += hash_of_values(i, h, 0, n);
        else if ((n = share_of(&t->model, n, &first)) > 0) {
            need(t, rm_exec_read(t->exec, w->tensor, RM_VALUE | RM_SHARE, 0, h, halves(n)), "hash");
            parts += hash_of_values(i, h, first, n);
        }
        free(h);
    }
    if (!same_on_all(whole, all)) fail("weights", "not the same on every rank");
    return whole + together(parts, ncclUint64, ncclSum, all);
}

/* Plan, compared with the other ranks', and then the executor. */
static void start_all(trainer *t, team *all, rm_plan_info *info)
{
    rm_exec_desc d = {};
    rm_plan_desc asked;
    uint64_t sums = 0;
    size_t i;
    t->o.untuned = 1; /* plans must be the same on all ranks, and measured times are not */
    if (find_arm(t->o.arm)->budget && !t->o.budget && !(t->o.percent > 0)) t->o.budget = together(rm_cuda_free_bytes(t->cuda, (uint64_t)1 << 30), ncclUint64, ncclMin, all);
    asked = plan_step(t, info);
    if (!same_on_all(hash_of_plan(t), all)) fail("plan", "not the same on every rank: give all of them the same options");
    for (i = 0; i < t->model.n_weights && t->model.shard && t->o.accumulate > 1; i++) sums = larger(sums, halves(largest_share(&t->model, t->model.weights[i].count)));
    open_arena(all, info->arena_bytes, sums, &d);
    d.reduce = reduce;
    d.gather = gather;
    d.scatter = scatter;
    d.rank = t->model.shard ? (uint32_t)all->rank : 0;
    d.reduce_user = all;
    start(t, asked, &d, info);
}

int main(int argc, char **argv)
{
    trainer t;
    team all;
    rm_plan_info info;
    rm_exec_info used;
    uint64_t hash;
    float loss = 0, first = 0;
    int64_t step;
    int devices = 0, i, n = 1;
    const char *path = getenv("NCCL_ID_FILE") ? getenv("NCCL_ID_FILE") : "nccl.id";

    memset(&t, 0, sizeof t);
    memset(&all, 0, sizeof all);
    all.rank = from_environment("RANK", 0);
    all.ranks = from_environment("WORLD_SIZE", 1);
    if (all.rank >= all.ranks) fail("RANK", "must be below WORLD_SIZE");
    if (!all.rank) remove(path); /* of an earlier run; start rank 0 first, or with the others */
    for (i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--shard")) argv[n++] = argv[i];
        else t.model.shard = 1;
    }
    t.o = parse_options(n, argv);
    if (t.model.shard && all.ranks < 2) fail("--shard", "wants two ranks or more (WORLD_SIZE)");
    if (t.model.shard && (t.o.preset || strcmp(t.o.arm, "remat"))) fail("--shard", "goes with no other --arm than remat, and no --preset");
    cuda_needs(cudaGetDeviceCount(&devices), "devices");
    cuda_needs(cudaSetDevice((int)(from_environment("LOCAL_RANK", all.rank) % devices)), "device");
    begin(&t);
    all.stream = rm_cuda_stream(t.cuda, RM_LANE_COMM);
    open_team(&all, path);
    t.model.reduced = 1;
    make_model(&t, all.rank, all.ranks);
    start_all(&t, &all, &info);
    if (!all.rank && !t.o.quiet) rm_plan_summary(t.plan, print, stdout);
    for (step = 0; step < t.o.steps; step++) {
        union { float f; uint32_t u; } bits;
        train_step(&t, step, 0);
        bits.f = loss = sum_of(t.loss, &all);
        if (!step) first = loss;
        if (!all.rank && t.o.digest) printf("loss %ld %08x\n", (long)step, bits.u);
        else if (!all.rank && !t.o.quiet) printf("step %4ld/%ld   loss %.4f\n", (long)step + 1, (long)t.o.steps, (double)loss);
    }
    hash = common_hash(&t, &all);
    rm_exec_get_info(t.exec, &used);
    used.touched_bytes = together(used.touched_bytes, ncclUint64, ncclMax, &all);
    if (!all.rank) {
        report(&t, &info, loss, (double)first);
        printf("%ld ranks, weights %016llx on each, %llu bytes of %llu planned\n", (long)all.ranks, (unsigned long long)hash, (unsigned long long)used.touched_bytes, (unsigned long long)info.arena_bytes);
    }
    finish(&t);
    close_team(&all);
    return 0;
}
