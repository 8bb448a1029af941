/* mpi.c - a step in shares on the processes of one machine: planned and measured

      mpicc -O3 -march=native -I. -o build/bench_mpi tests/bench/mpi.c -lm
      OMP_NUM_THREADS=1 mpirun -n 2 build/bench_mpi [options of train_gpt, --budget among them]

   Measured first: a gather and a scatter of 64 KiB and of 4 MiB in a loop, and every op in steps with whole weights (rm_exec_profile); all
   processes plan with the mean of that. Two lines for each of rm_plan_desc.shares 1, 2, 3: the plan with those costs; then, with ops and
   exchanges measured in its steps, another one. In a line: the median of 15 steps (without lanes, so it is the sum of both); the computation
   in them by the plan and measured; the same of exchanges; then what a step takes by the plan over what it has
   taken, for costs from the loop and whole weights; from the first plan's steps those of process 0, means of all processes, for each cost
   the largest, and the largest but for exchanges, of which the smallest; bytes of the arena by the plan and touched. */
#define main train_gpt_mpi_main
#include "../../examples/train_gpt_mpi.c"
#undef main

enum { STEPS = 15, REPEATS = 8 };

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Seconds that a gather and a scatter of so many bytes take, half of both together: the median of 15. */
static double exchange_seconds(uint64_t bytes, int ranks)
{
    const uint64_t slice = bytes / (uint64_t)ranks / 16 * 16, all = slice * (uint64_t)ranks;
    float *whole_value = (float *)calloc(1, (size_t)all), *share = (float *)calloc(1, (size_t)slice);
    double time[STEPS];
    watch w = { NULL, NULL };
    const void *in[1];
    void *out[1];
    int i;
    if (!whole_value || !share) fail("exchange", "no memory");
    for (i = 0; i < STEPS; i++) {
        rm_call c;
        memset(&c, 0, sizeof c);
        c.in = in, c.out = out, c.user = &w;
        must(MPI_Barrier(MPI_COMM_WORLD), "barrier");
        time[i] = seconds();
        in[0] = share, out[0] = whole_value, c.in_bytes = &slice, c.out_bytes = &all;
        must(gather(&c), "gather");
        in[0] = whole_value, out[0] = share, c.in_bytes = &all, c.out_bytes = &slice;
        must(scatter(&c), "scatter");
        time[i] = (seconds() - time[i]) / 2;
    }
    qsort(time, STEPS, sizeof *time, ascending);
    free(whole_value);
    free(share);
    return time[STEPS / 2];
}

/* Declares the ranks with rate and latency as process 0 has measured them. */
static void declare_measured(trainer *t, int rank, int ranks)
{
    const double small = exchange_seconds(65536, ranks), large = exchange_seconds(4 << 20, ranks);
    const double others = (double)((4 << 20) - 65536) * (ranks - 1) / ranks;
    double figures[2];
    figures[0] = others / (large > small ? large - small : 1e-9);
    figures[1] = fmax(small - 65536.0 * (ranks - 1) / ranks / figures[0], 0);
    must(MPI_Bcast(figures, 2, MPI_DOUBLE, 0, MPI_COMM_WORLD), "figures");
    if (!rank) printf("exchanges: %.2f GB/s, %.1f us (a gather and a scatter, half of both)\n", figures[0] / 1e9, figures[1] * 1e6);
    rm_graph_ranks(t->model.graph, (uint32_t)ranks, (uint64_t)figures[0], (uint64_t)(figures[1] * 1e9), 0);
}

/* Costs by which a plan is told how long it takes. */
enum { LOOP, FIRST, MEAN, LARGEST, LARGEST_BUT, WAYS };
typedef struct costs {
    uint64_t *ns[WAYS];
    size_t n;
} costs;

static void use(const trainer *t, const costs *c, int way)
{
    if (rm_graph_costs(t->model.graph, c->ns[way], 1) != c->n) fail("costs", rm_graph_error(t->model.graph));
}

/* What all processes have measured, in each of these ways but LOOP. */
static void agree(const trainer *t, costs *c, int ranks)
{
    uint64_t *least;
    size_t i;
    int way, n = (int)(c->n = rm_graph_costs(t->model.graph, NULL, 0));
    for (way = 0; way < WAYS; way++)
        if (!(c->ns[way] = c->ns[way] ? c->ns[way] : (uint64_t *)malloc(c->n * sizeof(uint64_t)))) fail("costs", "no memory");
    least = c->ns[LARGEST_BUT];
    for (way = FIRST; way < WAYS; way++) rm_graph_costs(t->model.graph, c->ns[way], 0);
    must(MPI_Bcast(c->ns[FIRST], n, MPI_UINT64_T, 0, MPI_COMM_WORLD), "costs");
    must(MPI_Allreduce(MPI_IN_PLACE, c->ns[MEAN], n, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD), "costs");
    must(MPI_Allreduce(MPI_IN_PLACE, c->ns[LARGEST], n, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD), "costs");
    must(MPI_Allreduce(MPI_IN_PLACE, least, n, MPI_UINT64_T, MPI_MIN, MPI_COMM_WORLD), "costs");
    for (i = 0; i < c->n; i++) c->ns[MEAN][i] /= (uint64_t)ranks;
    for (i = 0; i + 2 < c->n; i++) least[i] = c->ns[LARGEST][i]; /* the last two are of exchanges */
}

typedef struct text_of_plan {
    char *at;
    size_t n;
} text_of_plan;

static int append(void *user, const char *text, size_t n)
{
    text_of_plan *to = (text_of_plan *)user;
    char *more = (char *)realloc(to->at, to->n + n + 1);
    if (!more) return 1;
    memcpy(more + to->n, text, n);
    to->at = more;
    more[to->n += n] = 0;
    return 0;
}

/* Milliseconds of a step by a plan, with each of these costs. */
static void predict(const trainer *t, const costs *c, double *ms)
{
    text_of_plan text = { NULL, 0 };
    rm_plan_info info;
    rm_plan *plan;
    char *line;
    int way;
    if (rm_plan_write(t->plan, 0, append, &text) != RM_OK) fail("plan", "cannot be written");
    if ((line = strstr(text.at, "\ngraph ")) != NULL) line[1] = '#'; /* the hash is of a graph with other costs */
    for (way = 0; way < WAYS; way++) {
        use(t, c, way);
        if (rm_plan_read(t->model.graph, text.at, text.n, &plan) != RM_OK) fail("plan", rm_graph_error(t->model.graph));
        rm_plan_get_info(plan, 0, &info);
        ms[way] = 1e-6 * (double)(info.busy_ns[RM_LANE_COMPUTE] + info.busy_ns[RM_LANE_COMM]);
        rm_plan_destroy(plan);
    }
    free(text.at);
}

static rm_plan *plan_of(trainer *t, uint64_t budget, uint32_t shares, const char *preset, rm_plan_info *info)
{
    rm_plan_desc p = plan_desc(&t->o, budget, NULL);
    rm_plan *plan;
    p.shares = shares;
    p.host_bytes = 0;
    p.preset = preset;
    p.steps = RM_SINGLE;
    if (rm_plan_create(t->model.graph, &p, &plan) != RM_OK) fail("plan", rm_graph_error(t->model.graph));
    rm_plan_get_info(plan, 0, info);
    return plan;
}

/* Seconds in callbacks of exchanges, and in all others. */
static double exchanged, computed, began;
static int before_call(void *user, const rm_call *c)
{
    (void)user, (void)c;
    began = seconds();
    return 0;
}
static int after_call(void *user, const rm_call *c)
{
    (void)user;
    *(c->phase == RM_PHASE_GATHER || c->phase == RM_PHASE_SCATTER || c->phase == RM_PHASE_REDUCE ? &exchanged : &computed) += seconds() - began;
    return 0;
}

/* Milliseconds, medians of 15: a step, its callbacks of computation, those of exchanges; of the last two the mean of all processes. */
typedef struct figures {
    double step, computed, exchanged;
} figures;

static double median(double *of)
{
    qsort(of, STEPS, sizeof *of, ascending);
    return 1e3 * of[STEPS / 2];
}

static figures measure(trainer *t, int ranks)
{
    double time[STEPS], parts[2][STEPS], begin, all[2];
    figures f;
    int i;
    for (i = -3; i < STEPS; i++) {
        must(MPI_Barrier(MPI_COMM_WORLD), "barrier");
        exchanged = computed = 0;
        begin = seconds();
        train_step(t, i + 3);
        need(t, rm_exec_wait(t->exec), "step");
        if (i < 0) continue;
        time[i] = seconds() - begin;
        parts[0][i] = computed;
        parts[1][i] = exchanged;
    }
    for (i = 0; i < 2; i++) all[i] = median(parts[i]) / ranks;
    must(MPI_Allreduce(MPI_IN_PLACE, all, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD), "medians");
    f.step = median(time);
    f.computed = all[0];
    f.exchanged = all[1];
    return f;
}

/* Measures every op, and what ranks exchange, in steps of the plan at hand. */
static void profile(trainer *t)
{
    rm_step s = training_batch(t, 0, 0);
    write_inputs(t);
    need(t, rm_exec_profile(t->exec, &s, REPEATS), "measuring");
}

static void start(trainer *t, rm_plan *plan, const rm_exec_desc *d)
{
    t->plan = plan;
    open_exec(t, plan, d);
    init_weights(t);
}
static void stop(trainer *t)
{
    rm_exec_destroy(t->exec);
    rm_plan_destroy(t->plan);
}

static void row(uint32_t shares, const char *with, const rm_plan_info *info, const figures *f, const trainer *t, const double *ms)
{
    rm_exec_info used = { 0 };
    int way;
    rm_exec_get_info(t->exec, &used);
    printf("%6u %-5s  %8.2f  %7.2f %7.2f  %7.2f %7.2f", (unsigned)shares, with, f->step, 1e-6 * (double)info->busy_ns[RM_LANE_COMPUTE], f->computed,
           1e-6 * (double)info->busy_ns[RM_LANE_COMM], f->exchanged);
    for (way = 0; ms && way < WAYS; way++) printf("  %6.3f", ms[way] / f->step);
    printf("  %lu %lu\n", (unsigned long)info->arena_bytes, (unsigned long)used.touched_bytes);
}

/* A plan with the loop's costs, then one with what was measured in its steps. */
static void compare(trainer *t, const rm_exec_desc *d, uint64_t budget, uint32_t shares, costs *c, int ranks)
{
    rm_plan_info info[2];
    figures f[2];
    double ms[WAYS];
    use(t, c, LOOP);
    start(t, plan_of(t, budget, shares, NULL, &info[0]), d);
    f[0] = measure(t, ranks);
    profile(t);
    agree(t, c, ranks);
    predict(t, c, ms);
    if (!d->rank) row(shares, "loop", &info[0], &f[0], t, ms);
    stop(t);
    use(t, c, MEAN);
    if (!d->rank)
        printf("exchanges in steps: %.2f GB/s, %.1f us\n", 1.073741824 / (1e-9 * (double)c->ns[MEAN][c->n - 1]), 1e-3 * (double)c->ns[MEAN][c->n - 2]);
    start(t, plan_of(t, budget, shares, NULL, &info[1]), d);
    f[1] = measure(t, ranks);
    predict(t, c, ms);
    if (!d->rank) row(shares, "steps", &info[1], &f[1], t, ms);
    stop(t);
}

int main(int argc, char **argv)
{
    trainer t;
    rm_plan_info info;
    rm_exec_desc d;
    watch w = { NULL, NULL };
    figures f;
    costs c;
    int rank, ranks;
    uint32_t shares;
    uint64_t budget;
    must(MPI_Init(&argc, &argv), "start");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    memset(&t, 0, sizeof t);
    memset(&c, 0, sizeof c);
    memset(&info, 0, sizeof info);
    t.o = parse_options(argc, argv);
    t.o.batch /= ranks;
    t.data = load_text(t.o.file, t.o.context);
    t.model.reduced = 1;
    make_model(&t, rank, ranks);
    declare_measured(&t, rank, ranks);
    budget = choose_budget(&t);
    d = with_host(&t.o);
    d.threads = 0;
    d.reduce = reduce;
    d.reduce_user = &w;
    d.gather = gather;
    d.scatter = scatter;
    d.rank = (uint32_t)rank;
    d.before = before_call;
    d.after = after_call;
    w.model = &t.model;
    start(&t, plan_of(&t, 0, 0, "noremat", &info), &d);
    profile(&t);
    agree(&t, &c, ranks);
    memcpy(c.ns[LOOP], c.ns[MEAN], c.n * sizeof *c.ns[LOOP]);
    use(&t, &c, LOOP);
    f = measure(&t, ranks);
    rm_plan_destroy(plan_of(&t, 0, 0, "noremat", &info)); /* what it takes with these costs */
    info.busy_ns[RM_LANE_COMM] = 0; /* reductions are not planned here */
    if (!rank)
        printf("shares, costs      step  computation      exchanges        by the plan over measured, costs: loop, process 0, mean, max, max but min  arena\n");
    if (!rank) row(0, "whole", &info, &f, &t, NULL);
    stop(&t);
    for (shares = 1; shares <= 3; shares++) compare(&t, &d, budget, shares, &c, ranks);
    MPI_Finalize();
    return 0;
}
