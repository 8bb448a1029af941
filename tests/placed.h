/* placed.h - a sequence that a test builds by itself, and addresses for it. Wants the implementation above it. */
#ifndef RMTEST_PLACED_H
#define RMTEST_PLACED_H

#include <string.h>

/* A sequence of the graph, to be built in mem. Returns 0. */
static int sequence_of(rmi_seq *q, const rm_graph *g, rmi_arena *mem)
{
    memset(q, 0, sizeof *q);
    q->graph = g;
    q->mem = q->lives = mem;
    return 0;
}

/* target: 0, or the arena that is wanted; only_quick: without a long search for it. */
static rm_result placed(const rmi_seq *q, rmi_arena *mem, uint32_t align, uint64_t target, int only_quick, rmi_program *out)
{
    rmi_planner w;
    memset(&w, 0, sizeof w);
    w.seq = *q;
    w.align = align;
    return rmi_plan_place(&w, mem, target, only_quick, 0, out);
}

/* What it has in host memory, all of it pinned. */
static rm_result placed_kept(const rmi_seq *q, rmi_arena *mem, uint32_t align, rmi_program *out)
{
    const rm_plan_desc desc = RMI_INIT;
    rmi_planner w;
    memset(&w, 0, sizeof w);
    w.desc = &desc;
    w.graph = (rm_graph *)q->graph;
    w.seq = *q;
    w.align = align;
    return rmi_plan_place_kept(&w, mem, (rmi_home *)q->homes, out);
}

#endif
