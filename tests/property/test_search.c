/* Plans of preset "search" for random graphs of every feature: legal by the second referee with the same figures, within the
   budget, not below the bound, not slower than rotor's. test_search [GRAPHS [FIRST SEED]] */
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"
#include "../common.h"
#include "../oracle/replay.h"
#include "randgraph.h"
#include <stdio.h>

typedef tm_text bytes;

static unsigned passed, failed;
static void expect(int ok, unsigned long seed, const char *what, const char *detail)
{
    if (ok) passed++;
    else failed++;
    if (!ok) printf("seed %lu: %s: %s\n", seed, what, detail);
}

static void one(unsigned long seed, rm_graph *g, const rg_text *t, uint32_t step, uint64_t budget)
{
    rm_plan_info chain, info;
    rm_plan_desc d;
    rm_plan *p = NULL, *q = NULL;
    rmtest_result r;
    bytes b = {0};
    memset(&d, 0, sizeof d);
    d.device_bytes = budget;
    d.preset = "rotor";
    d.steps = step;
    d.info = &chain;
    if (rm_plan_create(g, &d, &q)) memset(&chain, 0, sizeof chain);
    rm_plan_destroy(q);
    d.preset = "search";
    d.work_limit = rm_graph_op_count(g) > 100 ? 6000000 : 0; /* long lists are improved in windows */
    d.info = &info;
    if (rm_plan_create(g, &d, &p)) {
        expect(rm_graph_result(g) == RM_ERROR_INFEASIBLE && !chain.time_ns, seed, "a plan", rm_graph_error(g));
        return;
    }
    rm_plan_write(p, step, tm_sink, &b);
    expect(RMTEST_LEGAL == rmtest_replay_c(t->data, t->size, b.s, b.n, RMTEST_NO_BUDGET, RMTEST_NO_BUDGET, &r) && r.verdict == RMTEST_LEGAL, seed, "legal", r.message);
    expect(r.time_ns == info.time_ns && r.live_bytes == info.live_bytes, seed, "figures", "differ from the second referee's");
    expect(info.arena_bytes <= budget && info.time_ns >= info.bound_ns, seed, "budget and bound", "");
    expect(!chain.time_ns || info.time_ns <= chain.time_ns, seed, "time", "slower than rotor");
    rm_plan_destroy(p);
    free(b.s);
}

/* Forecasts of moves, against full evaluations: most are exact. */
static void forecasts(unsigned long seed, rm_graph *g, uint32_t step, uint64_t limit)
{
    rmi_arena mem = rmi_arena_make(NULL);
    rmi_ref_model m;
    rmi_ref_search s;
    uint32_t k, kind = 0, told = 0, right = 0;
    if (rmi_ref_make(&mem, g, step, 256, &m) == RM_OK && rmi_ref_search_make(&mem, &m, &s) == RM_OK && limit > m.base) {
        s.limit = limit - m.base;
        s.lambda = 1 << 10;
        rmi_ref_load(&s, NULL, 0, NULL);
        rmi_ref_greedy(&s, 700, 100);
        for (k = 0; k < 3000 && s.a->n; k++) {
            uint64_t guess, is;
            if (!rmi_ref_propose(&s, &kind)) continue;
            rmi_ref_sort_ins(&s);
            guess = rmi_ref_forecast(&s);
            if (!rmi_ref_apply(&s) || !guess) continue;
            is = rmi_ref_energy(&s, s.b) + 1;
            told++;
            right += guess == is;
            if (k % 4 == 0) rmi_ref_accept(&s);
        }
    }
    rmi_arena_free(&mem);
    if (getenv("RM_VERBOSE")) printf("seed %lu: %u of %u forecasts exact\n", seed, right, told);
    expect(right * 3 >= told, seed, "forecasts of moves", "most are wrong");
}

int main(int argc, char **argv)
{
    static const uint32_t steps[] = {RM_SINGLE, RM_FIRST, RM_LAST, RM_MIDDLE, RM_FORWARD};
    unsigned long graphs = argc > 1 ? strtoul(argv[1], NULL, 10) : 4, seed = argc > 2 ? strtoul(argv[2], NULL, 10) : 1, i;
    for (i = seed; i < seed + graphs; i++) {
        rm_plan_info info;
        rm_plan_desc d;
        rm_plan *p = NULL;
        rm_graph *g = NULL;
        rg_text t;
        uint32_t step = steps[i % 5];
        memset(&t, 0, sizeof t);
        memset(&d, 0, sizeof d);
        rg_generate(&t, i, (int)(i % 16 == 2 ? 260 + i % 100 : 4 + i % 30), (i % 2 ? (uint32_t)rmi_mix(i) : RG_ALL) & ~(uint32_t)RG_OPT_HOST);
        d.steps = step;
        d.info = &info;
        if (rm_graph_read(t.data, t.size, NULL, &g) || rm_plan_create(g, &d, &p)) {
            expect(0, i, "the graph", rm_graph_error(g));
        } else {
            uint64_t least = info.min_bound_bytes;
            rm_plan_destroy(p);
            forecasts(i, g, step, least + (info.keep_all_bytes - least) / 2);
            one(i, g, &t, step, info.keep_all_bytes);
            one(i, g, &t, step, least + (info.keep_all_bytes - least) * 2 / 3 / 256 * 256 + 1);
        }
        rm_graph_destroy(g);
        rg_free(&t);
    }
    printf("%u passed, %u failed, 0 skipped\n", passed, failed);
    return failed != 0;
}
