/* train_gpt_mpi.c - the GPT of train_gpt.c, trained by several processes together

   Build:  mpicc -O3 -march=native -o train_gpt_mpi examples/train_gpt_mpi.c -lm
   Run:    mpirun -n 2 ./train_gpt_mpi --batch 8 --budget 40%          (the options are train_gpt's)

   Every process has the whole model and a part of the batch, plans the same step into the same budget, and so calls its
   reductions in the same order: the library calls `reduce` for each gradient as soon as it is complete; with --host in a thread of its
   own, beside the backward, and the main program waits for the end of a step before it calls MPI itself. Process 0 adds the parts
   up and sends the sum to all, so that all have the same bits. At the start the gradients of the first step are compared
   with those of one process that has the whole batch, and at the end the weights of all processes with each other. */

#define TRAIN_GPT_PARTS
#include "train_gpt.c"

#include <mpi.h>

static void must(int code, const char *what)
{
    if (code != MPI_SUCCESS) fail(what, "MPI reports an error");
}

/* What becomes of the gradients of one step; by the number of the weight. */
typedef struct watch {
    float **gradient; /* a copy of each, or NULL: not wanted */
    const gpt *model;
} watch;

static void keep_gradient(const watch *w, const rm_call *c)
{
    size_t i;
    for (i = 0; w->gradient && i < w->model->weight_count; i++)
        if (!strcmp(c->op, rm_tensor_name(w->model->graph, w->model->weights[i].tensor))) memcpy(w->gradient[i], c->grad, (size_t)c->grad_bytes);
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

/* One process: nothing to add, but the gradient passes by. */
static int look(const rm_call *c)
{
    keep_gradient((const watch *)c->user, c);
    return 0;
}

static void open_parallel(trainer *t, uint64_t budget, rm_fn fn, watch *w, rm_plan_info *info)
{
    rm_exec_desc d = with_host(&t->o);
    int level = MPI_THREAD_SINGLE;
    MPI_Query_thread(&level);
    if (level < MPI_THREAD_SERIALIZED) d.threads = 0;
    d.reduce = fn;
    d.reduce_user = w;
    w->model = &t->model;
    open_exec(t, make_plan(t, budget, NULL, info), &d);
    init_weights(t);
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
    open_parallel(&one, 0, look, &w, &info);
    train_step(&one, 0);
    need(&one, rm_exec_wait(one.exec), "step");
    end_training(&one);
    return w.gradient;
}

/* The first step of all processes, by its gradients against the one above. Every process looks; the worst counts. */
static void compare_gradients(const options *o, const text *data, int rank, int ranks)
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
    w.gradient = new_gradients(&t.model);
    open_parallel(&t, choose_budget(&t), reduce, &w, &info);
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

/* A hash of all weights; equal on every process, or the program fails. */
static uint64_t common_hash(trainer *t, int ranks)
{
    uint64_t hash = 1469598103934665603u, *all = (uint64_t *)malloc((size_t)ranks * sizeof hash);
    size_t i;
    int64_t k;
    int r;
    for (i = 0; i < t->model.weight_count; i++) {
        const weight *w = &t->model.weights[i];
        uint32_t *values = (uint32_t *)malloc(floats(w->count));
        if (!values) fail("hash", "no memory");
        need(t, rm_exec_read(t->exec, w->tensor, RM_VALUE, 0, values, floats(w->count)), "weights");
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

int main(int argc, char **argv)
{
    trainer t;
    rm_plan_info info;
    watch w = { NULL, NULL };
    int rank, ranks, level;
    int64_t step, first = 0;
    uint64_t budget, hash;
    double start, part, loss;

    must(MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level), "start");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    memset(&t, 0, sizeof t);
    t.o = parse_options(argc, argv);
    if (t.o.check || t.o.compare) fail("options", "--check and --compare are train_gpt's alone");
    if (t.o.batch % ranks) fail("--batch", "must be a multiple of the number of processes");
    t.o.batch /= ranks;
    t.data = load_text(t.o.file, t.o.context);
    compare_gradients(&t.o, &t.data, rank, ranks);

    t.model.reduced = 1;
    make_model(&t, rank, ranks);
    budget = choose_budget(&t);
    open_parallel(&t, budget, reduce, &w, &info);
    if (t.o.load) first = load(&t);
    if (!rank && !t.o.quiet) rm_plan_summary(t.plan, write_to_file, stdout);
    start = seconds();
    for (step = first; step < t.o.stop; step++) {
        part = train_step(&t, step);
        need(&t, rm_exec_wait(t.exec), "step");
        must(MPI_Allreduce(&part, &loss, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD), "loss");
        if (!rank) print_progress(&t, step, first, loss, (seconds() - start) / ranks);
    }
    loss = evaluate(&t);
    hash = common_hash(&t, ranks);
    if (!rank && t.o.save) save(&t, step);
    if (!rank && t.o.sample) write_sample(&t);
    if (!rank) printf("held-out loss %.6f\n%d processes, weights %016llx on each, %.2f MiB of %.2f MiB\n", loss, ranks, (unsigned long long)hash, megabytes(info.arena_bytes), megabytes(budget));
    end_training(&t);
    free(t.data.token);
    MPI_Finalize();
    return 0;
}
