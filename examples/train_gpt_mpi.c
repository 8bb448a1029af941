/* train_gpt_mpi.c - the GPT of train_gpt.c, trained by several processes together

   Build:  mpicc -O3 -march=native -o train_gpt_mpi examples/train_gpt_mpi.c -lm
   Run:    mpirun -n 2 ./train_gpt_mpi --batch 8 --budget 40%          (the options are train_gpt's, and two more)

     --shard [WHAT]   weights, gradients and states in shares: 0 none, 1 or 2 weights are whole while a step uses them (ZeRO-1 and -2, of
                      which the library makes one: the bytes of a gradient that has been scattered are free), 3 gathered in the forward
                      and once more in the backward (ZeRO-3), auto (the default) as the plan finds it best, weight by weight
     --every N        with --save: after every N steps, too

   Every process has the whole model and a part of the batch, plans the same step into the same budget, and so calls its
   reductions in the same order. For that they measure each op and each exchange in steps of a first plan, take the mean of what all of
   them have measured, and plan again (--estimate: not). The library calls `reduce` for each gradient as soon as it is complete; with --host in a thread of its
   own, beside the backward, and the main program waits for the end of a step before it calls MPI itself. Process 0 adds the parts
   up and sends the sum to all, so that all have the same bits. At the start the gradients of the first step are compared
   with those of one process that has the whole batch, and at the end the weights of all processes with each other.

   With --shard weights, gradients and states are in shares, one on each process, as far as the budget asks for it: the library calls
   `scatter` where a gradient is complete, updates this process's share, and calls `gather` before a weight is used. With --host as well
   shares of states may wait in host memory. Sums are made in
   the same place and order as without, so the bits are the same. No sample is written: that is another process's work, which has all
   weights.

   A checkpoint is a file for each process, FILE.STEP.RANK, and FILE, which names the step and the number of processes. FILE is renamed to
   its name when all others have been written, and then those of the step before it are removed: whatever is killed when, there is a whole
   one. Any number of processes loads it, with or without --shard, and so is loaded what train_gpt has saved. */

#define TRAIN_GPT_PARTS
#include "train_gpt.c"

#include <mpi.h>

static void must(int code, const char *what)
{
    if (code != MPI_SUCCESS) fail(what, "MPI reports an error");
}

/* Processes of one machine: what one gets from the others goes through memory. A first guess. */
static void declare_ranks(trainer *t, int ranks) { rm_graph_ranks(t->model.graph, (uint32_t)ranks, 4000000000u, 5000, 0); }

/* What becomes of the gradients of one step; by the number of the weight. */
typedef struct watch {
    float **gradient; /* a copy of each, or NULL: not wanted */
    const gpt *model;
} watch;

static void keep_gradient(const watch *w, const rm_call *c)
{
    size_t i;
    for (i = 0; w->gradient && i < w->model->weight_count; i++)
        if (!strcmp(c->op, rm_tensor_name(w->model->graph, w->model->weights[i].tensor))) {
            const float *grad = (const float *)c->grad;
            size_t k;
            for (k = 0; k < (size_t)c->grad_bytes / sizeof(float); k++) w->gradient[i][k] = (c->accum ? w->gradient[i][k] : 0) + grad[k];
        }
}

/* The hook of rm_exec_desc. The sum is made in one place: an all-reduce may add in another order on each rank. */
static int reduce(const rm_call *c)
{
    const int n = (int)(c->grad_bytes / sizeof(float));
    int rank, code;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    code = MPI_Reduce(rank ? c->grad : MPI_IN_PLACE, rank ? NULL : c->grad, n, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (code == MPI_SUCCESS) code = MPI_Bcast(c->grad, n, MPI_FLOAT, 0, MPI_COMM_WORLD);
    keep_gradient((const watch *)c->user, c);
    return code;
}

enum { MOST_RANKS = 64 };

/* How many floats of so many bytes each process has, `slice` bytes but for the last, and from which one on. */
static void parts_of(uint64_t bytes, uint64_t slice, int *count, int *begin, int ranks)
{
    int r;
    for (r = 0; r < ranks; r++) {
        const uint64_t from = (uint64_t)r * slice < bytes ? (uint64_t)r * slice : bytes;
        begin[r] = (int)(from / sizeof(float));
        count[r] = (int)((bytes - from < slice ? bytes - from : slice) / sizeof(float));
    }
}

/* A weight from all processes' shares. */
static int gather(const rm_call *c)
{
    int rank, ranks, count[MOST_RANKS], begin[MOST_RANKS];
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    parts_of(c->out_bytes[0], c->in_bytes[0], count, begin, ranks);
    return MPI_Allgatherv(c->in[0], count[rank], MPI_FLOAT, c->out[0], count, begin, MPI_FLOAT, MPI_COMM_WORLD);
}

/* The sum of all processes' gradients, made in one place as in reduce; each keeps its share, or adds it to what is there. */
static int scatter(const rm_call *c)
{
    const watch *w = (const watch *)c->user;
    const int n = (int)(c->in_bytes[0] / sizeof(float));
    int rank, ranks, code, i, count[MOST_RANKS], begin[MOST_RANKS];
    float *sum = (float *)malloc((size_t)(2 * c->in_bytes[0])), *got = sum + n, *part = (float *)c->out[0];
    if (!sum) return MPI_ERR_NO_MEM;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    parts_of(c->in_bytes[0], c->out_bytes[0], count, begin, ranks);
    code = MPI_Reduce(c->in[0], sum, n, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (code == MPI_SUCCESS && w->gradient) { /* who looks sees the whole sum */
        rm_call seen = *c;
        code = MPI_Bcast(sum, n, MPI_FLOAT, 0, MPI_COMM_WORLD);
        seen.grad = sum;
        seen.grad_bytes = c->in_bytes[0];
        keep_gradient(w, &seen);
    }
    if (code == MPI_SUCCESS) code = MPI_Scatterv(sum, count, begin, MPI_FLOAT, c->accum ? got : part, count[rank], MPI_FLOAT, 0, MPI_COMM_WORLD);
    for (i = 0; i < count[rank] && c->accum; i++) part[i] += got[i];
    free(sum);
    return code;
}

/* One process: nothing to add, but the gradient passes by. */
static int look(const rm_call *c)
{
    keep_gradient((const watch *)c->user, c);
    return 0;
}

/* shard: rm_plan_desc.shares. */
static rm_plan_desc parallel_plan(const trainer *t, uint64_t budget, int shard)
{
    rm_plan_desc p = plan_desc(&t->o, budget, NULL);
    p.shares = (uint32_t)shard;
    if (shard) p.preset = NULL;
    return p;
}

static void open_parallel(trainer *t, uint64_t budget, rm_fn fn, int shard, watch *w, rm_plan_info *info)
{
    rm_exec_desc d = with_host(&t->o);
    const rm_plan_desc p = parallel_plan(t, budget, shard);
    rm_plan *plan;
    int level = MPI_THREAD_SINGLE;
    MPI_Query_thread(&level);
    if (level < MPI_THREAD_SERIALIZED) d.threads = 0;
    d.reduce = fn;
    d.reduce_user = w;
    w->model = &t->model;
    if (shard) {
        int rank;
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        d.rank = (uint32_t)rank;
        d.gather = gather;
        d.scatter = scatter;
    }
    if (rm_plan_create(t->model.graph, &p, &plan) != RM_OK) fail("plan", rm_graph_error(t->model.graph));
    rm_plan_get_info(plan, 0, info);
    open_exec(t, plan, &d);
    init_weights(t);
}

/* Measures every op, and every exchange with what it waits for others, in steps of the present plan. With the mean over all processes each
   makes the same plan, and goes on with that; if there is none in the budget with these costs, with the one that it has. */
static void tune_together(trainer *t, uint64_t budget, int shard, int ranks, rm_plan_info *info)
{
    const rm_step s = training_batch(t, 0, 0);
    const rm_plan_desc p = parallel_plan(t, budget, shard);
    uint64_t *ns;
    rm_plan *plan;
    rm_result result;
    size_t n, i;
    write_inputs(t);
    need(t, rm_exec_profile(t->exec, &s, 5), "measuring");
    n = rm_graph_costs(t->model.graph, NULL, 0);
    ns = (uint64_t *)malloc(n * sizeof *ns);
    if (!ns) fail("costs", "no memory");
    rm_graph_costs(t->model.graph, ns, 0);
    must(MPI_Allreduce(MPI_IN_PLACE, ns, (int)n, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD), "costs");
    for (i = 0; i < n; i++) ns[i] /= (uint64_t)ranks;
    if (rm_graph_costs(t->model.graph, ns, 1) != n) fail("costs", rm_graph_error(t->model.graph));
    free(ns);
    result = rm_plan_create(t->model.graph, &p, &plan);
    if (result == RM_ERROR_INFEASIBLE) return;
    if (result != RM_OK) fail("plan", rm_graph_error(t->model.graph));
    need(t, rm_exec_replan(t->exec, plan), "plan");
    rm_plan_destroy(t->plan);
    t->plan = plan;
    rm_plan_get_info(plan, 0, info);
}

static float **new_gradients(const gpt *m)
{
    float **g = (float **)malloc(m->weight_count * sizeof *g);
    size_t i;
    for (i = 0; g && i < m->weight_count; i++)
        if (!(g[i] = (float *)calloc((size_t)m->weights[i].count, sizeof(float)))) g = NULL;
    if (!g) fail("gradients", "no memory");
    return g;
}
static void free_gradients(const gpt *m, float **g)
{
    size_t i;
    for (i = 0; i < m->weight_count; i++) free(g[i]);
    free(g);
}

/* The largest difference between two gradients of one weight, relative to the largest value in it; the worst of all weights. */
static double difference(const gpt *m, float **a, float **b)
{
    double worst = 0;
    size_t i;
    for (i = 0; i < m->weight_count; i++) {
        double most = 1e-30, apart = 0;
        int64_t k;
        for (k = 0; k < m->weights[i].count; k++) {
            most = fmax(most, fabs((double)b[i][k]));
            apart = fmax(apart, fabs((double)a[i][k] - (double)b[i][k]));
        }
        worst = fmax(worst, apart / most);
    }
    return worst;
}

/* The gradients of the first step of one process that has the whole batch. Without dropout: its masks belong to a place in a batch. */
static float **gradients_alone(const trainer *t, int64_t ranks)
{
    trainer one = *t;
    rm_plan_info info;
    watch w = { NULL, NULL };
    one.o.batch *= ranks;
    make_model(&one, 0, 1);
    w.gradient = new_gradients(&one.model);
    open_parallel(&one, 0, look, 0, &w, &info);
    train_step(&one, 0);
    need(&one, rm_exec_wait(one.exec), "step");
    end_training(&one);
    return w.gradient;
}

/* The first step of all processes, by its gradients against the one above. Every process looks; the worst counts. */
static void compare_gradients(const options *o, const text *data, int shard, int rank, int ranks)
{
    trainer t;
    rm_plan_info info;
    watch w = { NULL, NULL };
    float **alone;
    double apart, worst;
    memset(&t, 0, sizeof t);
    t.o = *o;
    t.o.dropout = 0;
    t.data = *data;
    t.model.reduced = 1;
    alone = gradients_alone(&t, ranks);
    make_model(&t, rank, ranks);
    if (shard) declare_ranks(&t, ranks);
    w.gradient = new_gradients(&t.model);
    open_parallel(&t, choose_budget(&t), reduce, shard, &w, &info);
    train_step(&t, 0);
    need(&t, rm_exec_wait(t.exec), "step");
    apart = difference(&t.model, w.gradient, alone);
    must(MPI_Allreduce(&apart, &worst, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD), "compare");
    if (!rank) printf("gradients of %d processes against those of one: %.1e apart, relative to the largest\n", ranks, worst);
    if (worst > 1e-3) fail("gradients", "they differ by more than rounding");
    free_gradients(&t.model, w.gradient);
    free_gradients(&t.model, alone);
    end_training(&t);
}

/* A whole weight; what is in shares from all processes. */
static void read_weight(trainer *t, const weight *w, void *values, int rank, int ranks)
{
    const uint64_t all = floats(w->count), grains = (all + (uint64_t)ranks - 1) / (uint64_t)ranks, slice = (grains + 15) / 16 * 16;
    const uint64_t from = slice * (uint64_t)rank < all ? slice * (uint64_t)rank : all, bytes = all - from < slice ? all - from : slice;
    char *parts;
    if (rm_exec_read(t->exec, w->tensor, RM_VALUE, 0, values, all) == RM_OK) return;
    if (!(parts = (char *)malloc((size_t)(slice * (uint64_t)ranks)))) fail("weights", "no memory");
    need(t, rm_exec_read(t->exec, w->tensor, RM_VALUE | RM_SHARE, 0, parts + slice * (uint64_t)rank, bytes), "weights");
    must(MPI_Allgather(MPI_IN_PLACE, 0, MPI_BYTE, parts, (int)slice, MPI_BYTE, MPI_COMM_WORLD), "weights");
    memcpy(values, parts, (size_t)all);
    free(parts);
}

/* A hash of all weights; equal on every process, or the program fails. */
static uint64_t common_hash(trainer *t, int rank, int ranks)
{
    uint64_t hash = 1469598103934665603u, *all = (uint64_t *)malloc((size_t)ranks * sizeof hash);
    size_t i;
    int64_t k;
    int r;
    for (i = 0; i < t->model.weight_count; i++) {
        const weight *w = &t->model.weights[i];
        uint32_t *values = (uint32_t *)malloc(floats(w->count));
        if (!values) fail("hash", "no memory");
        read_weight(t, w, values, rank, ranks);
        for (k = 0; k < w->count; k++) hash = (hash ^ values[k]) * 1099511628211u;
        free(values);
    }
    if (!all) fail("hash", "no memory");
    must(MPI_Allgather(&hash, 1, MPI_UINT64_T, all, 1, MPI_UINT64_T, MPI_COMM_WORLD), "hash");
    for (r = 0; r < ranks; r++)
        if (all[r] != hash) fail("weights", "not the same on every process");
    free(all);
    return hash;
}

static const char *part_name(const char *file, int64_t step, int rank)
{
    static char name[1200];
    snprintf(name, sizeof name, "%.1100s.%ld.%d", file, (long)step, rank);
    return name;
}

/* A checkpoint in so many parts (1: the first process has all); *saved: the step of the one before it, or -1. Who fails ends all. */
static void save_all(trainer *t, int64_t step, int64_t *saved, int rank, int parts)
{
    const char *file = t->o.save;
    char fresh[1200];
    FILE *f;
    t->o.save = part_name(file, step, rank);
    if (rank < parts) save(t, step);
    t->o.save = file;
    must(MPI_Barrier(MPI_COMM_WORLD), file);
    if (!rank) {
        snprintf(fresh, sizeof fresh, "%.1100s.new", file);
        if (!(f = fopen(fresh, "wb"))) fail(fresh, "cannot be written");
        fprintf(f, "train_gpt_mpi step %ld of %d\n", (long)step, parts);
        if (fclose(f) || rename(fresh, file)) fail(file, "cannot be written");
    }
    must(MPI_Barrier(MPI_COMM_WORLD), file);
    if (*saved >= 0 && *saved != step) remove(part_name(file, *saved, rank));
    *saved = step;
}

/* The number of the step to go on with, after any number of processes have saved. *saved: of the checkpoint, if it is such a one. */
static int64_t load_all(trainer *t, int64_t *saved)
{
    size_t size[MOST_RANKS], skip;
    unsigned char *bytes[MOST_RANKS];
    const void *part[MOST_RANKS];
    const char *file = t->o.load;
    char head[64] = "", due[64];
    long step = 0;
    int of = 0, k;
    bytes[0] = read_file(file, size);
    memcpy(head, bytes[0], size[0] < sizeof head ? size[0] : sizeof head - 1);
    free(bytes[0]);
    if (sscanf(head, "train_gpt_mpi step %ld of %d", &step, &of) != 2) return load(t);
    if (of < 1 || of > MOST_RANKS) fail(file, "of too many processes");
    skip = (size_t)snprintf(due, sizeof due, "train_gpt step %ld\n", step);
    for (k = 0; k < of; k++) {
        bytes[k] = read_file(part_name(file, step, k), &size[k]);
        if (size[k] < skip || memcmp(bytes[k], due, skip)) fail(part_name(file, step, k), "is not of that step");
        part[k] = bytes[k] + skip;
        size[k] -= skip;
    }
    need(t, rm_exec_restore_ranks(t->exec, part, size, (uint32_t)of), file);
    for (k = 0; k < of; k++) free(bytes[k]);
    return *saved = step;
}

/* What stands behind --shard: rm_plan_desc.shares, or -1: another argument. */
static int shard_of(const char *word)
{
    static const char *const words[] = { "0", "auto", "2", "3", "1" };
    int k;
    for (k = 0; k < 5; k++)
        if (word && !strcmp(word, words[k])) return k < 4 ? k : 2;
    return -1;
}

int main(int argc, char **argv)
{
    trainer t;
    rm_plan_info info;
    watch w = { NULL, NULL };
    int rank, ranks, level, shard = 0, i, n = 1;
    int64_t step, first = 0, every = 0, saved = -1;
    uint64_t budget, hash;
    rm_exec_info used;
    double start, took = 0, now, part, loss;

    must(MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level), "start");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    memset(&t, 0, sizeof t);
    for (i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--every") && i + 1 < argc) every = whole(argv[i], argv[i + 1], 1), i++;
        else if (strcmp(argv[i], "--shard")) argv[n++] = argv[i];
        else if ((shard = shard_of(argv[i + 1])) >= 0) i++;
        else shard = 1;
    }
    t.o = parse_options(argc = n, argv);
    if (ranks == 1) shard = 0;
    if (shard) t.o.sample = 0;
    if (ranks > MOST_RANKS) fail("mpirun", "64 processes at most");
    if (t.o.check || t.o.compare) fail("options", "--check and --compare are train_gpt's alone");
    if (t.o.batch % ranks) fail("--batch", "must be a multiple of the number of processes");
    t.o.batch /= ranks;
    t.data = load_text(t.o.file, t.o.context);
    compare_gradients(&t.o, &t.data, shard, rank, ranks);

    t.model.reduced = 1;
    make_model(&t, rank, ranks);
    if (shard) declare_ranks(&t, ranks);
    budget = choose_budget(&t);
    open_parallel(&t, budget, reduce, shard, &w, &info);
    if (!t.o.estimate) tune_together(&t, budget, shard, ranks, &info);
    if (t.o.load) first = load_all(&t, &saved);
    if (!t.o.save || !t.o.load || strcmp(t.o.save, t.o.load)) saved = -1; /* another one's stays */
    if (!rank && !t.o.quiet) rm_plan_summary(t.plan, write_to_file, stdout);
    start = seconds();
    for (step = first; step < t.o.stop; step++) {
        now = seconds();
        part = train_step(&t, step);
        need(&t, rm_exec_wait(t.exec), "step");
        rm_exec_get_info(t.exec, &used);
        if (step > first) took += seconds() - now;
        must(MPI_Allreduce(&part, &loss, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD), "loss");
        if (!rank) print_progress(&t, step, first, loss, (seconds() - start) / ranks);
        if (t.o.save && every && (step + 1) % every == 0) save_all(&t, step + 1, &saved, rank, shard ? ranks : 1);
    }
    loss = evaluate(&t);
    hash = common_hash(&t, rank, ranks);
    if (t.o.save) save_all(&t, step, &saved, rank, shard ? ranks : 1);
    if (!rank && t.o.sample) write_sample(&t);
    if (!rank && took > 0 && t.o.accumulate == 1)
        printf("a step: %.2f ms by the plan, %.2f ms measured (mean of %ld)\n", (double)used.step_ns * 1e-6, took * 1e3 / (double)(step - first - 1), (long)(step - first - 1));
    if (!rank) printf("held-out loss %.6f\n%d processes, weights %016llx on each, %.2f MiB of %.2f MiB\n", loss, ranks, (unsigned long long)hash, megabytes(info.arena_bytes), megabytes(budget));
    end_training(&t);
    free(t.data.token);
    MPI_Finalize();
    return 0;
}
