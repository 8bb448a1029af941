/* What an infeasible call says: a budget that is named works, tried in a graph of its own with the same preset, steps, alignment and
   host memory. Random graphs with everything, and the graphs in tests/data/regress on which a bound or a named budget was wrong.
   test_named [GRAPHS [FIRST SEED]] */
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"

#include "../common.h"
#include "../oracle/plan.h"
#include "randgraph.h"

static unsigned named, asked; /* asked: progress calls of the last plan, one for each so many steps of work */
static char said[2000];

static int count(void *user, const rm_progress *p)
{
    (void)user;
    (void)p;
    asked++;
    return 0;
}

/* Plans the text in a graph of its own; RM_OK: the plan is legal and not below its bound. */
static rm_result one(const tm_text *t, const rm_plan_desc *desc, rm_plan_info *info)
{
    rm_plan_desc d = *desc;
    rm_plan *p = NULL;
    rm_graph *g = NULL;
    rm_result r = rm_graph_read(t->s, t->n, NULL, &g);
    d.info = info;
    d.progress = count;
    asked = 0;
    memset(info, 0, sizeof *info);
    if (r == RM_OK) r = rm_plan_create(g, &d, &p);
    snprintf(said, sizeof said, "%s", g ? rm_graph_error(g) : "memory");
    if (r == RM_OK) {
        const char *why = d.live_only ? NULL : rmtest_plan(g, p, d.device_bytes, d.host_bytes);
        EXPECT(!why || !why[0], why);
        EXPECT(info->bound_ns <= info->time_ns, "the bound is above the plan");
        EXPECT(info->min_bound_bytes <= info->arena_bytes, "the bound on memory is above the plan");
    }
    rm_plan_destroy(p);
    rm_graph_destroy(g);
    return r;
}

/* What is named for d works, and so does more. Returns it; 0: nothing is named. */
static uint64_t names(const char *what, const tm_text *t, const rm_plan_desc *d)
{
    rm_plan_desc again = *d;
    rm_plan_info info, then;
    rm_result r = one(t, d, &info);
    int k;
    if (r == RM_OK) return 0;
    EXPECT(r == RM_ERROR_INFEASIBLE || r == RM_ERROR_ARGUMENT, said);
    if (r != RM_ERROR_INFEASIBLE || !info.min_bytes) return 0;
    EXPECT(info.min_bound_bytes <= info.min_bytes, what);
    EXPECT(info.min_bytes > d->device_bytes, what);
    again.device_bytes = info.min_bytes;
    r = one(t, &again, &then);
    if (r != RM_OK) printf("%s: preset %s, steps %u, align %u, %lu bytes: %s\n", what, d->preset ? d->preset : "(default)", d->steps, d->align, (unsigned long)d->device_bytes, said);
    EXPECT(r == RM_OK, "what was named is refused");
    for (k = (int)(named % 3); k < 3; k += (int)tm_amount(3, 1)) { /* and so does more */
        again.device_bytes = info.min_bytes + (k == 0 ? 256 : info.min_bytes / (k == 1 ? 50 : 8));
        r = one(t, &again, &then);
        if (r != RM_OK) printf("%s: preset %s, steps %u, align %u: %lu named, %lu refused\n", what, d->preset ? d->preset : "(default)", d->steps, d->align, (unsigned long)info.min_bytes, (unsigned long)again.device_bytes);
        EXPECT(r == RM_OK, "more than what was named is refused");
    }
    named++;
    return info.min_bytes;
}

static void random_graph(unsigned long seed)
{
    static const char *const presets[] = {NULL, "rotor", "rockmate", "noremat", "checkmate", "hilp", "offmate", "sqrt"};
    static const uint32_t steps[] = {RM_SINGLE, RM_MIDDLE, RM_FIRST, RM_LAST, RM_FORWARD, RM_FIRST | RM_MIDDLE | RM_LAST}, align[] = {1, 8, 256};
    rm_plan_desc d;
    rm_plan_info all;
    rg_text text;
    tm_text t;
    memset(&text, 0, sizeof text);
    memset(&t, 0, sizeof t);
    rg_generate(&text, (uint32_t)seed, 3 + (int)(seed % 9), seed % 3 ? RG_ALL : RG_ALL & ~(RG_LINK | RG_OPT_HOST));
    if (!text.data) return;
    tm_sink(&t, text.data, text.size);
    tm_case = seed;
    memset(&d, 0, sizeof d);
    d.preset = presets[rmi_mix(seed) % 8];
    d.steps = steps[rmi_mix(seed + 1) % (seed % 5 ? 5 : 6)];
    d.align = align[rmi_mix(seed + 2) % 3];
    d.host_bytes = seed % 3 && rmi_mix(seed + 3) % 3 == 0 ? (uint64_t)1 << 20 << rmi_mix(seed + 4) % 10 : 0;
    d.live_only = rmi_mix(seed + 5) % 4 == 0;
    if (d.live_only) d.align = 0;
    d.work_limit = seed % 4 ? tm_amount(20000, 100000) : 0;
    d.device_bytes = 1;
    names("one byte", &t, &d);
    d.device_bytes = 0;
    if (one(&t, &d, &all) == RM_OK) {
        d.device_bytes = all.min_bound_bytes + (all.keep_all_bytes - rmi_min(all.keep_all_bytes, all.min_bound_bytes)) * (1 + rmi_mix(seed + 6) % 5) / 10;
        names("between", &t, &d);
    }
    rg_free(&text);
    tm_clear(&t);
}

static const struct { const char *name, *preset; uint64_t budget, host; uint32_t steps, align; uint64_t most; } known[] = { /* most: named, if not 0 */
    {"min_bytes_refused", NULL, 7024, 0, RM_SINGLE, 8, 0}, /* named 7,768 and refused it */
    {"min_bytes_3265", NULL, 141, 0, RM_MIDDLE, 8, 0},
    {"min_bytes_3312", NULL, 23581, 0, RM_FIRST, 1, 0},
    {"min_bytes_3335", NULL, 13710, 0, RM_MIDDLE, 256, 0},
    {"named_above", NULL, 1, 0, RM_SINGLE, 256, 44800},    /* named 45,824 and refused 46,080 */
    {"named_high", NULL, 1, 0, RM_SINGLE, 256, 96338176},  /* named 3 % more, and 96,338,176 worked */
    {"slow_host", NULL, 11516, (uint64_t)1 << 30, RM_SINGLE, 1, 0}, /* took minutes */
    {"slow_infeasible_host", NULL, 11516, (uint64_t)1 << 30, RM_SINGLE, 1, 0},
    {"slow_infeasible_host", NULL, 5, (uint64_t)1 << 30, RM_SINGLE, 1, 0},
};

static void known_graphs(void)
{
    size_t i;
    for (i = 0; i < RMI_COUNT(known); i++) {
        char path[200];
        tm_text t;
        rm_plan_desc d;
        uint64_t least;
        memset(&t, 0, sizeof t);
        memset(&d, 0, sizeof d);
        snprintf(path, sizeof path, "tests/data/regress/%s.rmg", known[i].name);
        if (!EXPECT(tm_read(path, &t), path)) continue;
        d.preset = known[i].preset;
        d.device_bytes = known[i].budget;
        d.host_bytes = known[i].host;
        d.steps = known[i].steps;
        d.align = known[i].align;
        least = names(known[i].name, &t, &d);
        EXPECT(!known[i].most || (least && least <= known[i].most), known[i].name);
        EXPECT(asked < 2000, known[i].name); /* an answer in bounded time: steps are counted, not seconds */
        tm_clear(&t);
    }
}

/* Live bytes of a plan with copies are counted in the order of statements, and its time is that of any addresses: a bound that thinks
   of an arena was above it. one() compares. */
static void live_with_copies(void)
{
    tm_text t;
    rm_plan_desc d;
    rm_plan_info info;
    memset(&t, 0, sizeof t);
    memset(&d, 0, sizeof d);
    EXPECT(tm_read("tests/data/regress/link_bound_above.rmg", &t), "link_bound_above");
    d.preset = "link";
    d.steps = RM_LAST;
    d.device_bytes = 4558;
    d.host_bytes = (uint64_t)1 << 42;
    d.live_only = 1;
    EXPECT(one(&t, &d, &info) == RM_OK, said);
    tm_clear(&t);
}

/* Legal plans that lie beside a graph: no bound is above their time or bytes. */
static void beside(const char *graph, const char *plan, uint64_t budget)
{
    char path[200];
    tm_text t, p;
    rm_plan_desc d;
    rm_plan_info info;
    rmtest_result r;
    memset(&t, 0, sizeof t);
    memset(&p, 0, sizeof p);
    memset(&d, 0, sizeof d);
    snprintf(path, sizeof path, "tests/data/regress/%s.rmg", graph);
    EXPECT(tm_read(path, &t), path);
    snprintf(path, sizeof path, "tests/data/regress/%s.rmp", plan);
    EXPECT(tm_read(path, &p), path);
    EXPECT(rmtest_replay_c(t.s, t.n, p.s, p.n, budget, RMTEST_NO_BUDGET, &r) == RMTEST_LEGAL, r.message);
    d.device_bytes = budget;
    d.align = 1;
    EXPECT(one(&t, &d, &info) == RM_OK, said); /* the plan fits, so there is one */
    EXPECT(info.bound_ns <= r.time_ns, graph);
    EXPECT(info.min_bound_bytes <= r.arena_bytes, graph);
    tm_clear(&t);
    tm_clear(&p);
}

int main(int argc, char **argv)
{
    unsigned long graphs = argc > 1 ? strtoul(argv[1], NULL, 10) : tm_amount(3, 12), seed = argc > 2 ? strtoul(argv[2], NULL, 10) : 1, i;
    known_graphs();
    live_with_copies();
    beside("bound_above_time", "bound_above_time", 3704939890u);
    beside("bound_above_time_small", "bound_above_time_small", 3655674318u);
    beside("claims_optimal", "claims_optimal_faster", 3655674318u);
    beside("unused_input_infeasible", "unused_input_infeasible", 23);
    for (i = seed; i < seed + graphs && tm_more(i - seed); i++) random_graph(i);
    fprintf(stderr, "%u budgets named\n", named);
    return tm_end();
}
