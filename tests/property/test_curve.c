/* test_curve.c - rm_plan_curve on random graphs, with presets, step kinds, and host memory: points rise in bytes, fall in time and
   in bound; a graph of its own has a plan within each point's bytes, legal by the second referee, that is not clearly faster;
   the graph that the curve was made of gives the point's time or less when it is asked for its bytes; the ends are the least memory that
   an infeasible budget is told (without copies), and the time without a limit. And what rm_plan_explain says of more memory is what plans say.
   test_curve [GRAPHS [FIRST SEED]] */
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"
#include "../common.h"
#include "../oracle/plan.h"
#include "randgraph.h"
#include <time.h>

#define MOST 7u /* points */

static unsigned long points, faster; /* of all; of those, where a fresh plan is faster by more than a little */

static rm_graph *fresh(const rg_text *t)
{
    rm_graph *g = NULL;
    EXPECT(!rm_graph_read(t->data, t->size, NULL, &g), g ? rm_graph_error(g) : "memory");
    return g;
}

/* The time of a step of each kind that p has. */
static uint64_t time_of(const rm_plan *p, uint32_t steps)
{
    rm_plan_info info;
    uint64_t ns = 0;
    uint32_t k;
    for (k = 1; k <= RM_FORWARD; k *= 2)
        if (steps & k && !rm_plan_get_info(p, k, &info)) ns += info.time_ns;
    return ns;
}

/* The time of a plan within so many bytes; 0: there is none, which must be an error if `must`. */
static uint64_t plan_within(rm_graph *g, rm_plan_desc d, uint64_t bytes, int must)
{
    rm_plan *p = NULL;
    const char *why;
    uint64_t ns;
    rm_result r;
    d.device_bytes = bytes;
    r = rm_plan_create(g, &d, &p);
    EXPECT(r == RM_OK || (!must && r == RM_ERROR_INFEASIBLE), rm_graph_error(g));
    if (!p) return 0;
    why = d.live_only ? NULL : rmtest_plan(g, p, bytes, d.host_bytes);
    EXPECT(!why || !why[0], why);
    ns = time_of(p, d.steps ? d.steps : RM_SINGLE);
    rm_plan_destroy(p);
    return ns;
}

static void ends(const rg_text *t, rm_plan_desc d, const rm_point *at, size_t n)
{
    rm_graph *g = fresh(t);
    rm_plan_info info;
    rm_plan *p = NULL;
    uint64_t ns;
    memset(&info, 0, sizeof info);
    d.info = &info;
    d.device_bytes = 0;
    EXPECT(!rm_plan_create(g, &d, &p), rm_graph_error(g));
    ns = time_of(p, d.steps ? d.steps : RM_SINGLE);
    EXPECT(at[n - 1].time_ns <= ns + ns / 200, "slower than without a limit");
    rm_plan_destroy(p);
    d.device_bytes = 1;
    if (!d.steps && !d.host_bytes && rm_plan_create(g, &d, &p) == RM_ERROR_INFEASIBLE && info.min_bytes) EXPECT(at[0].arena_bytes <= info.min_bytes, rm_graph_error(g));
    rm_graph_destroy(g);
}

/* same: what fits less is known when more is asked for. */
static void curve(const rg_text *t, rm_plan_desc d, int same)
{
    rm_graph *g = fresh(t), *other;
    rm_plan_info last;
    rm_point at[MOST];
    size_t n = MOST, i;
    uint64_t ns;
    rm_result r;
    d.info = &last;
    r = rm_plan_curve(g, &d, at, &n);
    d.info = NULL;
    if (r == RM_ERROR_INFEASIBLE && d.host_bytes) { /* it is host memory that is too small */
        rm_graph_destroy(g);
        return;
    }
    if (!EXPECT(r == RM_OK && n && n <= MOST, rm_graph_error(g))) n = 0;
    for (i = 0; i < n; i++) {
        EXPECT(at[i].bound_ns <= at[i].time_ns && at[i].host_bytes <= d.host_bytes, "bound and host memory");
        EXPECT(!i || (at[i].arena_bytes > at[i - 1].arena_bytes && at[i].time_ns < at[i - 1].time_ns && at[i].bound_ns <= at[i - 1].bound_ns), "monotone");
        ns = plan_within(g, d, at[i].arena_bytes, same);
        EXPECT(!same || (ns && ns <= at[i].time_ns), "asked for again");
        other = fresh(t);
        ns = plan_within(other, d, at[i].arena_bytes, 0);
        points++;
        faster += ns && ns + ns / 200 < at[i].time_ns;
        if (getenv("V") && ns && ns + ns / 200 < at[i].time_ns) fprintf(stderr, "   fresh %lu at %lu: %lu\n", (long)ns, (long)at[i].arena_bytes, (long)at[i].time_ns);
        rm_graph_destroy(other);
    }
    if (n && !d.steps) EXPECT(last.arena_bytes == at[n - 1].arena_bytes && last.host_bytes == at[n - 1].host_bytes && last.time_ns == at[n - 1].time_ns && last.bound_ns <= at[n - 1].bound_ns, "the info is of the last point");
    if (n) EXPECT(last.min_bytes <= at[0].arena_bytes && last.min_bound_bytes <= at[0].arena_bytes, "the info names the least memory");
    if (n) ends(t, d, at, n);
    rm_graph_destroy(g);
}

/* The words of rm_plan_explain, and the difference of two plans. */
static void explained(const rg_text *t, const char *preset)
{
    rm_graph *g = fresh(t), *other = fresh(t);
    rm_plan_info info;
    rm_plan_desc d;
    rm_plan *p = NULL;
    tm_text text = {0};
    uint64_t now, more;
    memset(&d, 0, sizeof d);
    memset(&info, 0, sizeof info);
    d.preset = preset;
    d.info = &info;
    EXPECT(!rm_plan_create(g, &d, &p), rm_graph_error(g));
    rm_plan_destroy(p);
    p = NULL;
    d.device_bytes = (info.min_bytes + info.arena_bytes) / 2;
    if (!rm_plan_create(g, &d, &p)) {
        plan_within(other, d, 0, 1); /* the same calls: what is known of a graph may lead to other plans */
        now = plan_within(other, d, d.device_bytes, 1);
        more = plan_within(other, d, d.device_bytes + (info.keep_all_bytes / 64 + 1 + 255) / 256 * 256, 1);
        EXPECT(!rm_plan_explain(p, (rm_tensor){1}, tm_sink, &text), rm_graph_error(g));
        if (strstr(text.s, "more memory: ")) EXPECT((now > more) == (strstr(text.s, "a step is faster by ") != NULL), text.s);
        tm_clear(&text);
    }
    rm_plan_destroy(p);
    rm_graph_destroy(g);
    rm_graph_destroy(other);
}

/* --- allocation n fails, for every n */
static long calls, fail_at, alive;

static void *failing_alloc(size_t n, void *user)
{
    (void)user;
    if (++calls == fail_at) return NULL;
    alive++;
    return malloc(n);
}

static void counting_free(void *p, void *user)
{
    (void)user;
    alive -= p != NULL;
    free(p);
}

static int into_nothing(void *user, const char *text, size_t n) { return user != NULL || !text || !n; }

static void memory_out(void)
{
    rg_text t;
    int hit = 1;
    long n;
    memset(&t, 0, sizeof t);
    rg_generate(&t, 2, 8, RG_ALL & ~(RG_LINK | RG_OPT_HOST));
    for (n = 1; hit; n += (long)tm_amount(2, 1)) {
        rm_graph_desc hooks = {.allocator = {.alloc = failing_alloc, .free = counting_free}};
        rm_plan_desc d = {.preset = "rotor"};
        rm_point at[3];
        size_t room = 3;
        rm_graph *g = NULL;
        rm_plan *p = NULL;
        rm_result r;
        fail_at = 0;
        EXPECT(!rm_graph_read(t.data, t.size, &hooks, &g), rm_graph_error(g));
        calls = 0, fail_at = n;
        r = rm_plan_curve(g, &d, at, &room);
        hit = calls >= n;
        EXPECT(r == RM_OK || (hit && r == RM_ERROR_MEMORY && !room), rm_graph_error(g));
        fail_at = 0, room = 3;
        EXPECT(!rm_plan_curve(g, &d, at, &room), rm_graph_error(g));
        d.device_bytes = at[0].arena_bytes;
        EXPECT(!rm_plan_create(g, &d, &p), rm_graph_error(g));
        calls = 0, fail_at = n;
        r = rm_plan_explain(p, (rm_tensor){1}, into_nothing, NULL);
        hit |= calls >= n;
        EXPECT(r == RM_OK || (hit && r == RM_ERROR_MEMORY), rm_graph_error(g));
        fail_at = 0;
        EXPECT(!rm_plan_explain(p, (rm_tensor){1}, into_nothing, NULL), rm_graph_error(g));
        rm_plan_destroy(p);
        rm_graph_destroy(g);
        EXPECT(!alive, "blocks left");
    }
    rg_free(&t);
}

static void arguments(void)
{
    rg_text t;
    rm_graph *g;
    rm_point at[3];
    size_t n = 3;
    memset(&t, 0, sizeof t);
    rg_generate(&t, 1, 9, 0);
    g = fresh(&t);
    EXPECT(rm_plan_curve(NULL, NULL, at, &n) == RM_ERROR_ARGUMENT && !n, "no graph");
    EXPECT(rm_plan_curve(g, NULL, at, &n) == RM_ERROR_ARGUMENT && strstr(rm_graph_error(g), "room"), rm_graph_error(g));
    n = 3;
    EXPECT(rm_plan_curve(g, NULL, NULL, &n) == RM_ERROR_ARGUMENT && rm_plan_curve(g, NULL, at, NULL) == RM_ERROR_ARGUMENT, "");
    n = 1;
    EXPECT(!rm_plan_curve(g, NULL, at, &n) && n == 1, rm_graph_error(g));
    rm_graph_destroy(g);
    rg_free(&t);
}

/* A random graph, with what its number chooses. */
static void one(unsigned long i)
{
    static const char *const presets[] = {NULL, "rockmate", "rotor", "checkmate", "sqrt", "noremat"};
    static const char *const moving[] = {"stream", "link", NULL, "blocks"};
    rg_text t;
    rm_plan_desc d;
    int link = i % 6 == 3;
    memset(&t, 0, sizeof t);
    memset(&d, 0, sizeof d);
    tm_case = i;
    rg_generate(&t, i, 3 + (int)(i % 12), link ? RG_ALL & ~RG_OPT_HOST : RG_ALL & ~(RG_LINK | RG_OPT_HOST));
    if (!t.data) return;
    if (link) d.host_bytes = 1 << 22;
    d.preset = link ? moving[i / 6 % 4] : presets[i / 2 % 6];
    d.live_only = i % 5 == 1;
    d.work_limit = 300000; /* plans of their own have as much */
    d.steps = i % 7 == 2 ? RM_FIRST | RM_LAST | RM_FORWARD : 0;
    if (getenv("V")) fprintf(stderr, "seed %lu %s live %u steps %u host %lu t %ld\n", i, d.preset ? d.preset : "-", d.live_only, d.steps, (long)d.host_bytes, (long)clock());
    curve(&t, d, !link && !d.steps);
    explained(&t, d.preset);
    rg_free(&t);
}

int main(int argc, char **argv)
{
    unsigned long graphs = argc > 1 ? strtoul(argv[1], NULL, 10) : tm_amount(1, 12), seed = argc > 2 ? strtoul(argv[2], NULL, 10) : 1, i;
    arguments();
    memory_out();
    one(8); /* its last point is not the plan of the largest budget */
    for (i = seed; i < seed + graphs && tm_more(i - seed); i++) one(i);
    printf("%lu points; a plan of a graph of its own was faster by more than 0.5 %% for %lu of them\n", points, faster);
    EXPECT(faster * 10 <= points, "plans of their own are faster");
    return tm_end();
}
