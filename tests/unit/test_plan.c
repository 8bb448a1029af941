/* test_plan.c - rm_plan_create and what can be asked of a plan: stopping it, figures, texts.

      gcc -O1 -g -std=gnu99 -I. tests/unit/test_plan.c -o build/test_plan && build/test_plan */
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"

#include "../common.h"

static uint64_t random_state = 1;
static uint64_t rnd(uint64_t n) { return (random_state = rmi_mix(random_state)) % n; }

/* A chain of n ops, all different: the hard case of the chain solver. */
static rm_graph *chain(unsigned n)
{
    static const rm_kind K = {.name = "op", .needs = RM_IN(0)};
    rm_graph *g = rm_graph_create(NULL);
    rm_tensor t = rm_input_add(g, "x", 1 << 20, 0);
    while (n--) {
        uint64_t bytes = 100000 + rnd(1 << 20);
        rm_tensor w = RM_PARAM(g, .bytes = 256, .update_ns = 1);
        t = RM_OP(g, &K, .in = {t, w}, .out = {bytes}, .fwd_ns = 1000 + rnd(100000), .bwd_ns = 2000 + rnd(200000));
    }
    rm_output_add(g, t);
    return g;
}

/* --- stopping */
typedef struct asked {
    unsigned long n, stop_at, after, empty; /* calls; the one to stop at; calls after it; calls before there was a plan */
    const char *phase;
} asked;

static int ask(void *user, const rm_progress *p)
{
    asked *a = (asked *)user;
    a->n++;
    a->phase = p->phase;
    if (!p->time_ns) a->empty++;
    if (a->stop_at && a->n > a->stop_at) a->after++;
    return a->stop_at && a->n >= a->stop_at;
}

static void stopping(rm_graph *g, const char *preset, uint64_t budget)
{
    rm_plan_info info;
    rm_plan_desc d = {.device_bytes = budget, .preset = preset, .info = &info, .progress = ask};
    unsigned long total, i;
    asked a = {0};
    rm_plan *p = NULL;
    rm_result r;
    d.progress_user = &a;
    r = rm_plan_create(g, &d, &p);
    rm_plan_destroy(p);
    EXPECT(r == RM_OK || r == RM_ERROR_INFEASIBLE, rm_graph_error(g));
    EXPECT(r != RM_OK || !strcmp(a.phase, "done"), a.phase);
    EXPECT(r == RM_OK || a.empty > 3, "the solvers never asked"); /* nothing fits: every call came before a plan */
    total = a.n;
    for (i = 1; i <= 6; i++) {
        memset(&a, 0, sizeof a);
        tm_case = a.stop_at = i < 4 ? i : 1 + rnd(total);
        p = NULL;
        r = rm_plan_create(g, &d, &p);
        EXPECT(!a.after, "called after it said stop");
        EXPECT(r == RM_OK ? p && info.arena_bytes <= budget : r == RM_ERROR_CANCELLED && !p, rm_graph_error(g));
        EXPECT(r == RM_OK || strstr(rm_graph_error(g), "progress callback"), rm_graph_error(g));
        EXPECT(a.n == a.stop_at || a.n == total, "fewer questions than the first time");
        rm_plan_destroy(p);
    }
    tm_case = 0;
}

static void stopping_all(void)
{
    rm_graph *g = chain(70);
    rm_plan_info info;
    rm_plan *p = NULL;
    memset(&info, 0, sizeof info);
    EXPECT(rm_plan_create(g, &(rm_plan_desc){.device_bytes = 1, .info = &info}, &p) == RM_ERROR_INFEASIBLE, "");
    stopping(g, "rotor", info.min_bytes - 1);
    stopping(g, "rotor", info.min_bytes * 2);
    stopping(g, "search", info.min_bytes * 2);
    rm_graph_destroy(g);
}

int main(void)
{
    stopping_all();
    return tm_end();
}
