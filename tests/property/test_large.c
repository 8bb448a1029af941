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

/* Evictions, and repeats dropped again: lists, times, work. */
static void lean(const rg_text *t)
{
    rm_graph *g = NULL;
    rmi_arena mem = rmi_arena_make(NULL);
    rmi_step m;
    rmi_ref_search s[2];
    uint32_t i, lo = 0;
    uint64_t whole = 0;
    if (!EXPECT(rm_graph_read(t->data, t->size, NULL, &g) == RM_OK && rmi_graph_seal(g) == RM_OK && rmi_step_make(&mem, g, RM_SINGLE, 256, 0, &m) == RM_OK, "a model")) return;
    for (i = 0; i < 6; i++) { /* limits, downwards */
        for (lo = 0; lo < 2; lo++) {
            rmi_ref_search *x = &s[lo];
            EXPECT(rmi_ref_search_tables(&mem, &m, x) == RM_OK, "tables");
            m.n_choosing += lo; /* with variants states have tables of their own */
            EXPECT(rmi_ref_search_rooms(x, &mem, 3) == RM_OK, "rooms");
            m.n_choosing -= lo;
            EXPECT(x->lean == (!lo && !m.n_choosing), "lean");
            x->limit = RMI_MAX;
            if (!rmi_ref_load(x, NULL, 0, NULL)) break;
            whole = x->a->peak;
            x->limit = whole / 10 * (9 - i);
            rmi_ref_restart(x, &x->best);
            x->best.n = 0;
            EXPECT(rmi_ref_greedy(x, 300 + 100 * i, 20) == RM_OK, "greedy");
            rmi_ref_fill(x, 0, 8);
        }
        if (lo < 2) continue; /* no such list */
        EXPECT(s[0].work == s[1].work && s[0].a->n == s[1].a->n && s[0].a->ns == s[1].a->ns && s[0].a->peak == s[1].a->peak && s[0].a->over == s[1].a->over, "figures");
        EXPECT(s[0].a->n == s[1].a->n && !memcmp(s[0].a->list, s[1].a->list, s[0].a->n * sizeof(uint32_t)), "lists");
        EXPECT(s[0].best.n == s[1].best.n && (!s[0].best.n || s[0].best.ns == s[1].best.ns), "the best");
    }
    rmi_arena_free(&mem);
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
    for (i = 0; i < graphs; i++) {
        rg_text t;
        uint32_t features = (uint32_t)rmi_mix(seed + (uint64_t)i) & RG_ALL & ~(uint32_t)(RG_LINK | RG_OPT_HOST | RG_EXTERNAL);
        tm_case = (unsigned long)(seed + (uint64_t)i);
        if (i % 3) features &= ~(uint32_t)(RG_VARIANT | RG_BITS | RG_PART);
        rg_generate(&t, seed + (uint64_t)i, 12 + i % 5 * 12, features);
        plans(&t);
        lean(&t);
        if (i % 10 == 0) without_memory(&t);
        free(t.data);
    }
    return tm_end();
}
