/* Small random graphs that go the way of large ones, where memory counts more than time: states that share their tables, a model that
   makes room for a program and comes back, scratch that is there for a build alone. Plans are legal by both referees and within
   their budget; the search decides the same whether its states share tables or not; whichever allocation fails, that is said and
   nothing is left behind.
   test_large [FIRST_SEED [GRAPHS]], built by tests/run.sh test_large */
#include "../linked.h"
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"
#include "../common.h"
#include "../oom/heap.h"
#include "../oracle/replay.h"
#include "randgraph.h"

static void plans(const rg_text *t)
{
    tm_text text;
    rm_graph *g = NULL;
    rm_plan_desc d;
    rm_plan_info all, info;
    rmtest_result judged;
    int i;
    memset(&text, 0, sizeof text);
    memset(&d, 0, sizeof d);
    if (!EXPECT(rm_graph_read(t->data, t->size, NULL, &g) == RM_OK, rm_graph_error(g))) return;
    for (i = 0; i < 4; i++) {
        rm_plan *p = NULL;
        rm_result r;
        d.preset = i % 2 ? "hiremate" : "search";
        d.work_limit = 300000;
        d.info = i ? &info : &all;
        d.device_bytes = i ? all.min_bound_bytes + (all.arena_bytes - all.min_bound_bytes) / 4 * (uint64_t)i : 0;
        r = rm_plan_create(g, &d, &p);
        EXPECT(r == RM_OK || (i && r == RM_ERROR_INFEASIBLE), rm_graph_error(g));
        if (!p) continue;
        text.n = 0;
        EXPECT(rm_plan_write(p, RM_SINGLE, tm_sink, &text) == RM_OK, rm_graph_error(g));
        EXPECT(rmtest_replay_c(t->data, t->size, text.s, text.n, i ? d.device_bytes : RMTEST_NO_BUDGET, 0, &judged) == RMTEST_LEGAL, judged.message);
        EXPECT(judged.time_ns == d.info->time_ns, "time");
        rm_plan_destroy(p);
    }
    free(text.s);
    rm_graph_destroy(g);
}

static void without_memory(const rg_text *t)
{
    rm_graph_desc gd;
    rm_plan_info all;
    long calls = 0, i, n = 40;
    memset(&gd, 0, sizeof gd);
    memset(&all, 0, sizeof all);
    gd.allocator.alloc = heap_alloc;
    gd.allocator.free = heap_free;
    for (i = -1; i <= n; i++) {
        rm_graph *g = NULL;
        rm_plan *p = NULL;
        rm_plan_desc d;
        rm_result r;
        memset(&d, 0, sizeof d);
        d.preset = "search";
        d.work_limit = 20000;
        if (i < 0) d.info = &all;
        else d.device_bytes = all.min_bound_bytes + (all.arena_bytes - all.min_bound_bytes) / 2;
        memset(&heap, 0, sizeof heap);
        heap.fail_at = i > 0 ? calls * i / n : 0;
        heap.failing = i & 1;
        r = rm_graph_read(t->data, t->size, &gd, &g);
        if (r == RM_OK) r = rm_plan_create(g, &d, &p);
        if (heap.fail_at && heap.calls >= heap.fail_at) EXPECT(r == RM_ERROR_MEMORY, "told");
        else EXPECT(r == RM_OK || r == RM_ERROR_INFEASIBLE, g ? rm_graph_error(g) : "a graph");
        if (!i) calls = heap.calls;
        rm_plan_destroy(p);
        rm_graph_destroy(g);
        EXPECT(heap.live == 0, "left behind");
    }
}

int main(int argc, char **argv)
{
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    int graphs = argc > 2 ? atoi(argv[2]) : (int)tm_amount(2, 16), i;
    rmtest_limits.ref_large = 10, rmtest_limits.plan_many = 5;
    for (i = 0; i < graphs && tm_more((unsigned long)i); i++) {
        rg_text t;
        uint32_t features = (uint32_t)rmi_mix(seed + (uint64_t)i) & RG_ALL & ~(uint32_t)(RG_LINK | RG_OPT_HOST | RG_EXTERNAL);
        tm_case = (unsigned long)(seed + (uint64_t)i);
        if (i % 3) features &= ~(uint32_t)(RG_VARIANT | RG_BITS | RG_PART);
        rg_generate(&t, seed + (uint64_t)i, 12 + i % 5 * 12, features);
        plans(&t);
        if (i % 10 == 0) without_memory(&t);
        free(t.data);
    }
    return tm_end();
}
