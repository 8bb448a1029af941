/* placed.h - addresses for a sequence that a test has built by itself. Wants the implementation above it. */
#ifndef RMTEST_PLACED_H
#define RMTEST_PLACED_H

#include <string.h>

/* target: 0, or the arena that is wanted; only_quick: without a long search for it. */
static rm_result placed(const rmi_seq *q, rmi_arena *mem, uint32_t align, uint64_t target, int only_quick, rmi_program *out)
{
    rmi_planner w;
    memset(&w, 0, sizeof w);
    w.seq = *q;
    w.align = align;
    return rmi_plan_place(&w, mem, target, only_quick, 0, out);
}

#endif
