/* mpi.c - a step in shares on the processes of one machine: planned and measured

      mpicc -O3 -march=native -I. -o build/bench_mpi tests/bench/mpi.c -lm
      OMP_NUM_THREADS=1 mpirun -n 2 build/bench_mpi [options of train_gpt, --budget among them]

   Measured first: a gather and a scatter of 64 KiB and of 4 MiB, which give the rate and the latency that the graph says; then every op,
   on all processes at once. Process 0 plans with what it has measured, and all read its plan. A line for each of rm_plan_desc.shares 1, 2, 3:
   time of a step by the plan (without lanes: the sum of both), the median of 15 steps, the same for callbacks of computation and of exchanges
   (means of process 0), bytes of the arena by the plan and touched. */
#define main train_gpt_mpi_main
#include "../../examples/train_gpt_mpi.c"
#undef main

enum { STEPS = 15 };

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

/* Process 0's plan, on all. */
static rm_plan *common_plan(trainer *t, uint64_t budget, uint32_t shares, int rank, rm_plan_info *info)
{
    rm_plan_desc p = plan_desc(&t->o, budget, NULL);
    text_of_plan text = { NULL, 0 };
    rm_plan *plan = NULL;
    unsigned long n;
    char *line;
    p.shares = shares;
    p.host_bytes = 0;
    p.preset = NULL;
    p.steps = RM_SINGLE;
    if (!rank) {
        if (rm_plan_create(t->model.graph, &p, &plan) != RM_OK) fail("plan", rm_graph_error(t->model.graph));
        rm_plan_get_info(plan, 0, info);
        if (rm_plan_write(plan, 0, append, &text) != RM_OK) fail("plan", "cannot be written");
        rm_plan_destroy(plan);
        if ((line = strstr(text.at, "\ngraph ")) != NULL) line[1] = '#'; /* the hash is of a graph with process 0's times */
    }
    n = (unsigned long)text.n;
    must(MPI_Bcast(&n, 1, MPI_UNSIGNED_LONG, 0, MPI_COMM_WORLD), "plan");
    if (rank && !(text.at = (char *)malloc(n + 1))) fail("plan", "no memory");
    must(MPI_Bcast(text.at, (int)n, MPI_CHAR, 0, MPI_COMM_WORLD), "plan");
    if (rm_plan_read(t->model.graph, text.at, n, &plan) != RM_OK) fail("plan", rm_graph_error(t->model.graph));
    free(text.at);
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

static double median_step(trainer *t)
{
    double time[STEPS], start;
    int64_t i;
    for (i = -3; i < STEPS; i++) {
        must(MPI_Barrier(MPI_COMM_WORLD), "barrier");
        start = seconds();
        train_step(t, i + 3);
        need(t, rm_exec_wait(t->exec), "step");
        if (i >= 0) time[i] = seconds() - start;
        if (i < 0) exchanged = computed = 0;
    }
    qsort(time, STEPS, sizeof *time, ascending);
    return time[STEPS / 2];
}

int main(int argc, char **argv)
{
    trainer t;
    rm_plan_info info, kept;
    rm_exec_desc d;
    rm_plan_desc p;
    rm_step s;
    watch w = { NULL, NULL };
    int rank, ranks;
    uint32_t shares;
    uint64_t budget;
    double whole_ms;
    must(MPI_Init(&argc, &argv), "start");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    memset(&t, 0, sizeof t);
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
    p = plan_desc(&t.o, 0, NULL);
    p.preset = "noremat";
    p.steps = RM_SINGLE;
    p.info = &kept;
    if (rm_plan_create(t.model.graph, &p, &t.plan) != RM_OK) fail("plan", rm_graph_error(t.model.graph));
    open_exec(&t, t.plan, &d);
    init_weights(&t);
    s = training_batch(&t, 0, 0);
    write_inputs(&t);
    need(&t, rm_exec_profile(t.exec, &s, 3), "measuring");
    whole_ms = 1e3 * median_step(&t);
    rm_exec_destroy(t.exec);
    rm_plan_destroy(t.plan);
    if (rm_plan_create(t.model.graph, &p, &t.plan) != RM_OK) fail("plan", rm_graph_error(t.model.graph)); /* with what was measured */
    if (!rank)
        printf("whole on each: %.2f MiB, a step %.2f ms; computation %.2f ms by the plan, %.2f measured\n"
               "shares  planned ms  measured ms  ratio  computation        exchanges          arena bytes  touched\n",
               megabytes(kept.arena_bytes), whole_ms, 1e-6 * (double)kept.busy_ns[RM_LANE_COMPUTE], 1e3 * computed / STEPS);
    rm_plan_destroy(t.plan);
    for (shares = 1; shares <= 3; shares++) {
        rm_exec_info used;
        double planned, measured;
        t.plan = common_plan(&t, budget, shares, rank, &info);
        open_exec(&t, t.plan, &d);
        init_weights(&t);
        measured = 1e3 * median_step(&t);
        planned = 1e-6 * (double)(info.busy_ns[RM_LANE_COMPUTE] + info.busy_ns[RM_LANE_COMM]);
        rm_exec_get_info(t.exec, &used);
        if (!rank)
            printf("%6u  %10.2f  %11.2f  %5.3f  %7.2f  %7.2f   %7.2f  %7.2f  %11lu  %7lu\n", (unsigned)shares, planned, measured, measured / planned,
                   1e-6 * (double)info.busy_ns[RM_LANE_COMPUTE], 1e3 * computed / STEPS, 1e-6 * (double)info.busy_ns[RM_LANE_COMM], 1e3 * exchanged / STEPS, (unsigned long)info.arena_bytes,
                   (unsigned long)used.touched_bytes);
        rm_exec_destroy(t.exec);
        rm_plan_destroy(t.plan);
    }
    MPI_Finalize();
    return 0;
}
