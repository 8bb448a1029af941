/* Small random graphs with the default preset, each plan from a graph of its own: legal by the second referee with the same figures,
   within the budget, not below the bound; the memory that an infeasible budget is told works, and less than the bound on memory does
   not; where a plan is proven, no plan with less memory is faster, and none with more memory slower.
   test_small [GRAPHS [FIRST SEED]] */
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"
#include "../common.h"
#include "../oracle/replay.h"
#include "randgraph.h"
#include <stdio.h>

static unsigned passed, failed, proven, plans;
static void expect(int ok, unsigned long seed, uint64_t budget, const char *what, const char *detail)
{
    if (ok) passed++;
    else failed++;
    if (!ok) printf("seed %lu, budget %lu: %s: %s\n", seed, (unsigned long)budget, what, detail);
}

/* 1: there is a plan. */
static int one(unsigned long seed, const rg_text *t, uint64_t budget, int live, rm_plan_info *info)
{
    rm_plan_desc d;
    rm_plan *p = NULL;
    rm_graph *g = NULL;
    rmtest_result r;
    tm_text b = {0};
    int ok;
    memset(&d, 0, sizeof d);
    memset(info, 0, sizeof *info);
    d.device_bytes = budget;
    d.live_only = (uint32_t)live;
    d.info = info;
    if (rm_graph_read(t->data, t->size, NULL, &g)) {
        expect(0, seed, budget, "graph", g ? rm_graph_error(g) : "memory");
        rm_graph_destroy(g);
        return 0;
    }
    ok = rm_plan_create(g, &d, &p) == RM_OK;
    expect(ok || rm_graph_result(g) == RM_ERROR_INFEASIBLE, seed, budget, "plan", rm_graph_error(g));
    if (ok) {
        if (!live) rm_plan_write(p, RM_SINGLE, tm_sink, &b);
        if (!live) expect(RMTEST_LEGAL == rmtest_replay_c(t->data, t->size, b.s, b.n, RMTEST_NO_BUDGET, RMTEST_NO_BUDGET, &r), seed, budget, "legal", r.message);
        if (!live) expect(r.time_ns == info->time_ns && r.live_bytes == info->live_bytes, seed, budget, "figures", "differ from the second referee's");
        expect((!budget || (live ? info->live_bytes : info->arena_bytes) <= budget) && info->time_ns >= info->bound_ns, seed, budget, "budget and bound", "");
        plans++;
        proven += info->time_ns == info->bound_ns;
    }
    free(b.s);
    rm_plan_destroy(p);
    rm_graph_destroy(g);
    return ok;
}

static void graph(unsigned long seed, const rg_text *t, int live)
{
    rm_plan_info least, info, before;
    uint64_t k;
    memset(&before, 0, sizeof before);
    if (one(seed, t, 1, live, &least) || !least.min_bytes) return;
    expect(least.min_bound_bytes <= least.min_bytes, seed, 1, "least memory", "below its bound");
    expect(one(seed, t, least.min_bytes, live, &info), seed, least.min_bytes, "least memory", "does not work");
    if (least.min_bound_bytes > 1) expect(!one(seed, t, least.min_bound_bytes - 1, live, &info), seed, least.min_bound_bytes - 1, "less than the bound on memory", "works");
    for (k = 0; k < 5; k++) {
        if (!one(seed, t, least.min_bytes + (least.keep_all_bytes - least.min_bytes) / 5 * k, live, &info)) continue;
        if (before.time_ns) expect(info.bound_ns <= before.time_ns, seed, k, "bound", "above a plan with less memory");
        if (before.time_ns && info.time_ns == info.bound_ns) expect(info.time_ns <= before.time_ns, seed, k, "a proven plan", "slower than one with less memory");
        before = info;
    }
}

/* Each part of a backward takes the variant that is fastest for it. */
static void parts(void)
{
    static char text[] = "rockmate graph 1\ntensor x input 64 grad\ntensor w param 64\nop a in=x,w out=y:64 fwd=10\npart a dX grads=x needs=w bwd=10\npart a dW grads=w needs=x bwd=100\n"
                         "variant a v\npart a@v dX grads=x needs=w bwd=100\npart a@v dW grads=w needs=x bwd=10\nop loss in=y out=l:4 needs=y fwd=5 bwd=5\noutput l\n";
    rg_text t;
    rm_plan_info info;
    memset(&t, 0, sizeof t);
    t.data = text;
    t.size = sizeof text - 1;
    expect(one(0, &t, 0, 0, &info) && info.time_ns == 40 && info.bound_ns == 40, 0, 0, "parts in variants of their own", "");
}

int main(int argc, char **argv)
{
    unsigned long graphs = argc > 1 ? strtoul(argv[1], NULL, 10) : 8, seed = argc > 2 ? strtoul(argv[2], NULL, 10) : 1, i;
    for (i = seed; i < seed + graphs; i++) {
        rg_text t;
        memset(&t, 0, sizeof t);
        rg_generate(&t, i, 3 + (int)(i % 9), i % 3 ? RG_ALL & ~(RG_LINK | RG_OPT_HOST) : RG_DAG | RG_RESIDUAL | RG_NEEDS | RG_SAVED | RG_WORKSPACE | RG_VARIANT);
        if (t.data) graph(i, &t, i % 2 == 0);
        rg_free(&t);
    }
    parts();
    fprintf(stderr, "%u plans, %u proven to be the fastest\n", plans, proven);
    if (plans > 20 && proven * 8 < plans) printf("only %u of %u plans are proven\n", proven, plans), failed++;
    printf("%u passed, %u failed, 0 skipped\n", passed, failed);
    return failed != 0;
}
