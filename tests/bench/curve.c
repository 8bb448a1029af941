/* curve.c - what more memory brings: rm_plan_curve against separate plans, and what rm_plan_explain says against plans really made.

      cc -O2 -std=gnu99 -I. tests/bench/curve.c -o build/curve -lm && build/curve [--points N] [--host BYTES] [--most BYTES] [--no-fresh] [--explain] [--sweep N] WHAT...

   WHAT is a graph file, MODEL@DEVICE as rmplan knows them, or layered:OPS:EDGES:SEED, a random graph in layers. First a line with the processor time of the curve. Then a row for each
   point, and how much faster a plan is that a graph of its own has for the point's bytes (below 0: the curve's is faster). Then, at
   budgets between the least memory and keep-everything's, the milliseconds that explain says for a 64th more, and what two plans of graphs of
   their own differ by; --explain: these alone. --sweep: is more ever worse? A row for each graph instead: what is named for one byte and how
   long that took, then N budgets from there to keep-everything's, each in a graph of its own, and the same in one graph in a mixed
   order, against the best plan within less. It measures; it asserts nothing. */
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"
#include "examples/models.h"
#include <stdio.h>
#include <time.h>

typedef struct options {
    size_t points;
    int fresh, explain, sweep;
    uint64_t host, most;
} options;

static double milliseconds(clock_t since) { return (double)(clock() - since) * 1000.0 / CLOCKS_PER_SEC; }
static double percent_over(uint64_t a, uint64_t b) { return b ? 100.0 * (double)a / (double)b - 100.0 : 0.0; }
static int nowhere(void *user, const char *text, size_t n) { return user != NULL || !text || !n; }

/* Ops in layers of up to about the root of their number, whose backwards read all that they read. Each reads an op of the
   layer before; of the other edges half come from there, half from anywhere before. */
static rm_graph *layered(uint32_t n, uint32_t edges, uint64_t seed)
{
    rm_graph *g = rm_graph_create(NULL);
    rm_tensor *at = (rm_tensor *)calloc(n + 1, sizeof *at), x = rm_input_add(g, "x", 400, RM_INPUT_GRAD);
    uint8_t *read = (uint8_t *)calloc(n + 1, 1);
    uint32_t i, k, first = 0, end = 0, before = 0, most = 2;
    uint64_t r = seed;
    rm_op_desc d;
    rm_kind kind;
#define DRAW(range) ((r = rmi_mix(r + 1)) % (range))
    memset(&kind, 0, sizeof kind);
    kind.name = "op";
    while (most * most < 4 * n) most++;
    for (i = 0; i < n; i++) {
        uint32_t reads = edges / n + (DRAW(n) < edges % n), tries, n_in = 0;
        if (i == end) before = first, first = end, end += 1 + (uint32_t)DRAW(most);
        memset(&d, 0, sizeof d);
        if (!first) d.in[n_in++] = x;
        for (tries = 0; first && n_in < reads && n_in < RM_MAX_ARGS && tries < 4 * reads; tries++) {
            uint32_t from = tries && DRAW(2) ? (uint32_t)DRAW(first) : before + (uint32_t)DRAW(first - before);
            for (k = 0; k < n_in && d.in[k].id != at[from].id;) k++;
            if (k == n_in) d.in[n_in++] = at[from];
            read[from] = 1;
        }
        d.out[0] = 100 + DRAW(900);
        d.fwd_ns = 1000 + DRAW(9000);
        d.bwd_ns = 2 * d.fwd_ns;
        at[i] = rm_op_add(g, &kind, &d);
    }
#undef DRAW
    for (i = k = 0, memset(&d, 0, sizeof d); i < n; i++) { /* what nobody reads goes to the loss, in a few sums */
        if (read[i]) continue;
        d.in[k++] = at[i];
        if (k < RM_MAX_ARGS) continue;
        d.out[0] = 4, d.fwd_ns = 100, d.bwd_ns = 100;
        x = rm_op_add(g, &kind, &d);
        memset(&d, 0, sizeof d);
        d.in[0] = x;
        k = 1;
    }
    d.out[0] = 4, d.fwd_ns = 100, d.bwd_ns = 100;
    rm_output_add(g, rm_op_add(g, &kind, &d));
    free(at);
    free(read);
    return g;
}

static rm_graph *load(const char *what)
{
    unsigned ops, edges, seed;
    static char text[64 << 20];
    const char *at = strchr(what, '@');
    rm_graph *g = NULL;
    FILE *f;
    if (sscanf(what, "layered:%u:%u:%u", &ops, &edges, &seed) == 3 && ops && edges >= ops) g = layered(ops, edges, seed);
    else if (at) {
        models_desc d;
        char *name = strdup(what);
        memset(&d, 0, sizeof d);
        name[at - what] = 0;
        d.model = name;
        d.device = models_device_find(at + 1);
        if (d.device) g = models_build(&d);
        free(name);
    } else if ((f = fopen(what, "rb")) != NULL) {
        rm_graph_read(text, fread(text, 1, sizeof text, f), NULL, &g);
        fclose(f);
    }
    if (g && rm_graph_result(g) == RM_OK) return g;
    fprintf(stderr, "%s: %s\n", what, g ? rm_graph_error(g) : "no such file, model or device");
    exit(1);
}

/* The time of a plan of a graph of its own; 0: there is none. */
static uint64_t separate(const char *what, rm_plan_desc d, uint64_t bytes, double *ms)
{
    rm_graph *g = load(what);
    rm_plan_info info;
    rm_plan *p = NULL;
    clock_t start = clock();
    d.device_bytes = bytes;
    d.info = &info;
    memset(&info, 0, sizeof info);
    if (rm_plan_create(g, &d, &p) != RM_OK) info.time_ns = 0;
    *ms += milliseconds(start);
    rm_plan_destroy(p);
    rm_graph_destroy(g);
    return info.time_ns;
}

static void explained(const char *what, rm_plan_desc d, uint64_t bytes, uint64_t keep_all)
{
    rm_graph *g = load(what);
    rm_plan *p = NULL;
    rm_tensor first = {1};
    double ms = 0, said, made;
    d.device_bytes = bytes;
    if (rm_plan_create(g, &d, &p) == RM_OK && rm_plan_explain(p, first, nowhere, NULL) == RM_OK && p->asked->more_bytes) {
        said = (double)rmi_sub(p->asked->now.time_ns, p->asked->more.time_ns) / 1e6;
        made = (double)separate(what, d, bytes, &ms) / 1e6 - (double)separate(what, d, bytes + keep_all / 64, &ms) / 1e6;
        printf("  explain at %6.2f %%: %9.4f ms, plans differ by %9.4f ms%s\n", 100.0 * (double)bytes / (double)keep_all, said, made,
               said <= made * 1.2 && said >= made / 1.2 ? "" : "  NOT WITHIN A FIFTH");
    }
    rm_plan_destroy(p);
    rm_graph_destroy(g);
}

/* At four budgets between the least memory that is worth naming and keep-everything's. */
static void explain(const char *what, rm_plan_desc d)
{
    rm_graph *g = load(what);
    rm_plan_info info;
    rm_plan *p = NULL;
    uint64_t all, i;
    memset(&info, 0, sizeof info);
    d.info = &info;
    if (rm_plan_create(g, &d, &p) != RM_OK) printf("%s: %s\n", what, rm_graph_error(g));
    rm_plan_destroy(p);
    rm_graph_destroy(g);
    printf("%s: keep-everything %.3f GB, %.3f ms, least memory %.3f GB\n", what, (double)info.keep_all_bytes / 1e9, (double)info.keep_all_ns / 1e6, (double)info.min_bytes / 1e9);
    all = d.device_bytes && d.device_bytes < info.keep_all_bytes ? d.device_bytes : info.keep_all_bytes;
    d.info = NULL;
    for (i = 1; i < 5; i++) {
        explained(what, d, info.min_bytes + rmi_sub(all, info.min_bytes) / 5 * i, info.keep_all_bytes);
        fflush(stdout);
    }
}

/* How often a plan is slower than one within less (the best of them), by half a per cent or more, or refused. */
typedef struct worse {
    uint32_t plans, slower, much, refused;
    double most;
} worse;

static void compare(worse *w, const uint64_t *ns, size_t n)
{
    uint64_t best = 0;
    size_t i;
    for (i = 0; i < n; best = ns[i] && (!best || ns[i] < best) ? ns[i] : best, i++) {
        double over = ns[i] && best ? percent_over(ns[i], best) : 0;
        w->plans++;
        w->refused += !ns[i] && best;
        w->slower += over > 0;
        w->much += over > 0.5;
        w->most = over > w->most ? over : w->most;
    }
    printf("  %2u of %2u slower, %2u by > 0.5 %%, most %.2f %%, %u refused", w->slower, w->plans, w->much, w->most, w->refused);
}

static void sweep(const char *what, rm_plan_desc d, size_t n)
{
    uint64_t *ns = (uint64_t *)calloc(n, sizeof *ns), *own = (uint64_t *)calloc(n, sizeof *own), *at = (uint64_t *)calloc(n, sizeof *at);
    rm_graph *g = load(what);
    rm_plan_info info;
    double ms = 0, single;
    worse apart = {0, 0, 0, 0, 0};
    unsigned within = 0;
    size_t i, k, step = n / 6 * 2 + 1; /* no divisor in common with n, if that is a power of two */
    clock_t start = clock();
    d.info = &info;
    d.device_bytes = 1;
    memset(&info, 0, sizeof info);
    if (rm_plan_create(g, &d, &(rm_plan *){NULL}) != RM_ERROR_INFEASIBLE || !info.min_bytes) printf("%s: %s\n", what, rm_graph_error(g));
    single = milliseconds(start);
    for (i = 0; i < n; i++) at[i] = info.min_bytes + (uint64_t)((double)(info.keep_all_bytes - info.min_bytes) * (double)i / (double)n);
    printf("%-40s names %12lu of %12lu in %4.0f ms;", what, (unsigned long)info.min_bytes, (unsigned long)info.keep_all_bytes, single);
    for (i = 0; i < n; i++) own[i] = separate(what, d, at[i], &ms);
    compare(&apart, own, n);
    for (i = 0; i < n / 4; i++) { /* in one graph: a quarter of them, in a mixed order */
        rm_plan *p = NULL;
        k = i * step % (n / 4);
        d.device_bytes = at[4 * k];
        ns[k] = rm_plan_create(g, &d, &p) == RM_OK ? info.time_ns : RMI_INF;
        rm_plan_destroy(p);
        while (k-- > 0 && (!ns[k] || ns[k] >= ns[i * step % (n / 4)])) {}
        within += k != (size_t)-1;
    }
    printf("; in one graph %u of %u; %.0f ms a plan\n", within, (unsigned)(n / 4), ms / (double)n);
    fflush(stdout);
    free(ns);
    free(own);
    free(at);
    rm_graph_destroy(g);
}

static void measure(const char *what, const options *o)
{
    rm_graph *g;
    rm_point *at;
    rm_plan_desc d;
    rm_plan_info info;
    size_t n = o->points, i;
    double ms = 0, worst = -100, best = 100, sum = 0, over;
    clock_t start;
    uint64_t ns;
    memset(&d, 0, sizeof d);
    d.host_bytes = o->host;
    d.device_bytes = o->most;
    if (o->sweep) {
        sweep(what, d, (size_t)o->sweep);
        return;
    }
    if (o->explain) {
        explain(what, d);
        return;
    }
    g = load(what);
    at = (rm_point *)malloc(o->points * sizeof *at);
    start = clock();
    d.info = &info;
    if (!at || rm_plan_curve(g, &d, at, &n) != RM_OK) {
        printf("%s: %s\n", what, rm_graph_error(g));
        exit(1);
    }
    printf("%s: %u ops, %u points in %.0f ms of processor time, keep-everything %.3f GB, %.3f ms\n", what, (unsigned)rm_graph_op_count(g), (unsigned)n, milliseconds(start), (double)info.keep_all_bytes / 1e9, (double)info.keep_all_ns / 1e6);
    for (i = 0; i < n; i++) {
        printf("  %8.3f GB %7.2f %% %11.4f ms  over keep-everything %8.3f %%  over the bound %8.3f %%", (double)at[i].arena_bytes / 1e9, 100.0 * (double)at[i].arena_bytes / (double)info.keep_all_bytes, (double)at[i].time_ns / 1e6,
               percent_over(at[i].time_ns, info.keep_all_ns), percent_over(at[i].time_ns, at[i].bound_ns));
        ns = o->fresh ? separate(what, d, at[i].arena_bytes, &ms) : 0;
        over = percent_over(at[i].time_ns, ns);
        if (ns) printf("  over a plan of its own %+7.3f %%", over);
        else if (o->fresh) printf("  none of its own");
        printf("\n");
        if (ns && over > worst) worst = over;
        if (ns && over < best) best = over;
        sum += over;
    }
    if (o->fresh) printf("  over plans of their own: worst %+.3f %%, best %+.3f %%, mean %+.3f %%; those took %.0f ms\n", worst, best, sum / (double)n, ms);
    free(at);
    rm_graph_destroy(g);
    d.info = NULL;
    explain(what, d);
}

int main(int argc, char **argv)
{
    static const char *const usual[] = {"gpt2-124m@rtx4090", "resnet50@rtx4090", "unet@rtx4090"};
    options o = {16, 1, 0, 0, 0, 0};
    int i, some = 0;
    for (i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--points") && i + 1 < argc) o.points = strtoul(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--host") && i + 1 < argc) o.host = strtoull(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--most") && i + 1 < argc) o.most = strtoull(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--sweep") && i + 1 < argc) o.sweep = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--no-fresh")) o.fresh = 0;
        else if (!strcmp(argv[i], "--explain")) o.explain = 1;
        else measure(argv[i], &o), some = 1;
    }
    for (i = 0; i < 3 && !some; i++) measure(usual[i], &o);
    return 0;
}
