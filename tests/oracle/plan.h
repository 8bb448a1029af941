/* plan.h - all programs of a plan before the second referee (tests/oracle/replay.cpp), and with it before judge.py: legal, within the
   budgets, with the figures that the library tells. Wants rockmate.h and tests/common.h above it. */
#ifndef RMTEST_PLAN_H
#define RMTEST_PLAN_H

#include "replay.h"

/* "" or what is wrong, in static memory; NULL: text cannot say what the graph is, and nothing was judged. Budgets 0: none. */
TM_FN const char *rmtest_plan(rm_graph *g, const rm_plan *p, uint64_t budget, uint64_t host)
{
    static char why[700];
    tm_text graph, program;
    uint32_t k;
    memset(&graph, 0, sizeof graph);
    memset(&program, 0, sizeof program);
    why[0] = 0;
    if (rm_graph_write(g, tm_sink, &graph) != RM_OK) {
        snprintf(why, sizeof why, "rm_graph_write: %s", rm_graph_error(g));
        free(graph.s);
        return strstr(why, "text holds one") ? NULL : why;
    }
    for (k = RM_SINGLE; k <= RM_FORWARD && !why[0]; k <<= 1) {
        rm_plan_info info;
        rmtest_result r;
        char *line;
        if (rm_plan_get_info(p, k, &info) != RM_OK) continue;
        program.n = 0;
        if (rm_plan_write(p, k, tm_sink, &program) != RM_OK) {
            snprintf(why, sizeof why, "rm_plan_write");
            break;
        }
        line = strstr(program.s, "\ngraph ");
        if (line) line[1] = '#'; /* of the text that g was read from, not of the canonical one */
        if (rmtest_replay_c(graph.s, graph.n, program.s, program.n, budget ? budget : RMTEST_NO_BUDGET, host ? host : RMTEST_NO_BUDGET, &r) != RMTEST_LEGAL) snprintf(why, sizeof why, "step kind %u: %s", (unsigned)k, r.message);
        else if (r.time_ns != info.time_ns || r.live_bytes != info.live_bytes || r.arena_bytes > info.arena_bytes || r.host_bytes > info.host_bytes || r.pageable_bytes > info.pageable_bytes || r.disk_bytes > info.disk_bytes[0] || r.load_bytes != info.disk_bytes[1] || r.store_bytes != info.disk_bytes[2]) snprintf(why, sizeof why, "step kind %u: other figures", (unsigned)k);
    }
    free(graph.s), free(program.s);
    return why;
}

#endif
