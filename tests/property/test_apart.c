/* Plans of random graphs while every table of the planner is an allocation of its own, of just its bytes: a sanitizer sees reads and
   writes past its end, which the planner's arenas hide.
   test_apart [FIRST_SEED [GRAPHS [OPS]]], built by tests/run.sh test_apart */
#include "../linked.h"
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"
#include "../common.h"
#include "randgraph.h"

static void one(uint64_t seed, int ops, const char *preset)
{
    rg_text t;
    rm_graph *g = NULL;
    rm_plan *p = NULL;
    rm_plan_desc d;
    rm_plan_info all, info;
    rm_result r;
    rg_generate(&t, seed, ops, seed % 2 ? 0 : (uint32_t)rmi_mix(seed) & RG_ALL & ~(uint32_t)RG_LINK);
    memset(&d, 0, sizeof d);
    memset(&all, 0, sizeof all);
    memset(&info, 0, sizeof info);
    d.preset = preset;
    d.work_limit = 6000000;
    tm_case = (unsigned long)seed;
    if (EXPECT(rm_graph_read(t.data, t.size, NULL, &g) == RM_OK, rm_graph_error(g))) {
        d.info = &all;
        EXPECT(rm_plan_create(g, &d, &p) == RM_OK, rm_graph_error(g));
        rm_plan_destroy(p);
        p = NULL;
        d.info = &info;
        d.device_bytes = all.min_bound_bytes + (all.arena_bytes - all.min_bound_bytes) / 2;
        r = rm_plan_create(g, &d, &p);
        EXPECT(r == RM_OK || r == RM_ERROR_INFEASIBLE, rm_graph_error(g));
        EXPECT(r != RM_OK || (info.arena_bytes <= d.device_bytes && info.bound_ns <= info.time_ns), "budget and bound");
        rm_plan_destroy(p);
    }
    rm_graph_destroy(g);
    free(t.data);
}

int main(int argc, char **argv)
{
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 16;
    int graphs = argc > 2 ? atoi(argv[2]) : (int)tm_amount(1, 2), ops = argc > 3 ? atoi(argv[3]) : 260, i;
    rmtest_limits.apart = 1;
    for (i = 0; i < graphs && tm_more((unsigned long)i); i++) {
        one(seed + (uint64_t)i, ops, i % 2 ? "hiremate" : "search");
        one(seed + (uint64_t)i, 40, "hiremate");
    }
    return tm_end();
}
