/* test_reduce.c - plans with reductions over ranks: the backward goes on while they run, within any budget, and both referees agree.

      g++ -std=c++17 -O2 -c -I. -o build/replay.o tests/oracle/replay.cpp && gcc -O1 -g -std=gnu99 -I. -c -o build/test_reduce.o tests/unit/test_reduce.c &&
      g++ -o build/test_reduce build/test_reduce.o build/replay.o && build/test_reduce */
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"

#include "../common.h"
#include "../oracle/plan.h"

enum { MOST = 8 };

/* Search that changes none of this: by default little. */
static uint64_t work(void) { return tm_amount(20000, 200000); }

static uint64_t random_state = 1;
static uint64_t rnd(uint64_t n) { return (random_state = rmi_mix(random_state)) % n; }

typedef struct layer {
    uint64_t fwd, bwd, update, reduce;
} layer;

/* A chain; reduced 0: the same without reductions. */
static rm_graph *chain(const layer *l, unsigned n, int reduced)
{
    static const rm_kind K = {.name = "op", .needs = RM_IN(0)};
    rm_graph *g = rm_graph_create(NULL);
    rm_tensor t = rm_input_add(g, "x", 5000, 0);
    unsigned i;
    for (i = 0; i < n; i++) {
        rm_tensor w = RM_PARAM(g, .bytes = 900 + 256 * (i % 3), .state_bytes = 512, .update_ns = l[i].update, .reduce_ns = reduced ? l[i].reduce : 0);
        t = RM_OP(g, &K, .in = {t, w}, .out = {4000 + 1000 * (i % 4)}, .fwd_ns = l[i].fwd, .bwd_ns = l[i].bwd);
    }
    rm_output_add(g, t);
    return g;
}

/* Everything kept, no budget: the device goes on with the oldest update whose reduction has ended, else with the backward; when that
   is over, it waits. One reduction at a time. */
static uint64_t ideal(const layer *l, unsigned n)
{
    uint64_t now = 0, link = 0, end[MOST];
    unsigned i, backward = n, update = n;
    for (i = 0; i < n; i++) now += l[i].fwd;
    while (update) {
        if (update > backward && end[update - 1] <= now) now += l[--update].update;
        else if (backward) {
            now += l[--backward].bwd;
            link = (link > now ? link : now) + l[backward].reduce;
            end[backward] = link;
        } else now = end[update - 1];
    }
    return now;
}

static uint64_t planned(rm_graph *g, uint64_t budget, rm_plan_info *info)
{
    rm_plan *p = NULL;
    const char *why;
    rm_result r = rm_plan_create(g, &(rm_plan_desc){.device_bytes = budget, .info = info, .work_limit = work()}, &p);
    EXPECT(r == RM_OK || r == RM_ERROR_INFEASIBLE, rm_graph_error(g));
    if (r != RM_OK) return 0;
    why = rmtest_plan(g, p, budget, 0);
    EXPECT(why && !*why, why);
    rm_plan_destroy(p);
    return info->time_ns;
}

/* Layers whose activations go to host memory; the device updates the weights. */
static rm_graph *stack(int reduced, uint64_t state)
{
    static const rm_kind K = {.name = "op", .needs = RM_IN(0)};
    rm_graph *g = rm_graph_create(NULL);
    rm_tensor t = rm_input_add(g, "x", 64 << 20, 0);
    unsigned i;
    rm_graph_link(g, 25000000000u, 25000000000u, 10000, 0);
    for (i = 0; i < 24; i++) {
        rm_tensor w = RM_PARAM(g, .bytes = 4 << 20, .state_bytes = state, .update_ns = 200000, .reduce_ns = reduced ? 800000 : 0);
        t = RM_OP(g, &K, .in = {t, w}, .out = {(uint64_t)(i % 4 == 2 ? 256 : 64) << 20}, .fwd_ns = 2000000, .bwd_ns = 4000000);
    }
    rm_output_add(g, t);
    return g;
}

/* Plans with copies: the backward does not wait for reductions there either, and the second referee agrees. */
static void moved(void)
{
    static const char *const presets[] = {"offmate", "link", "stream"};
    unsigned p, percent, state, plans = 0, hidden = 0; /* at 30 % there is hardly room for one more gradient */
    for (state = 1; state <= 24; state *= 24)
        for (p = 0; p < 3; p++)
            for (percent = 30; percent <= 80; percent += (unsigned)tm_amount(50, 25)) {
                rm_plan_info a[2];
                rm_result r[2] = {RM_OK, RM_OK};
                unsigned reduced;
                for (reduced = 0; reduced < 2; reduced++) {
                    rm_graph *g = stack((int)reduced, (uint64_t)state << 20);
                    rm_plan *plan = NULL;
                    rm_plan_desc d = {.preset = "noremat", .work_limit = work(), .info = &a[reduced]};
                    EXPECT(rm_plan_create(g, &d, &plan) == RM_OK, rm_graph_error(g));
                    rm_plan_destroy(plan);
                    d.preset = presets[p];
                    d.device_bytes = a[reduced].keep_all_bytes / 100 * percent;
                    d.host_bytes = (uint64_t)64 << 30;
                    plan = NULL;
                    r[reduced] = rm_plan_create(g, &d, &plan);
                    if (r[reduced] == RM_OK) {
                        const char *why = rmtest_plan(g, plan, d.device_bytes, 0);
                        EXPECT(why && !*why, why);
                    }
                    rm_plan_destroy(plan);
                    rm_graph_destroy(g);
                }
                EXPECT(r[0] == r[1], "a budget that works, works with reductions");
                if (r[0] != RM_OK || r[1] != RM_OK || !a[1].d2h_bytes) continue;
                plans++;
                EXPECT(a[1].time_ns <= a[0].time_ns + 24 * 800000, "slower than with nothing beside each other");
                hidden += a[1].time_ns <= a[0].time_ns + 24 * 800000 / 5;
                if (state == 1 && percent > 30) EXPECT(a[1].time_ns <= a[0].time_ns + 24 * 800000 / 5, "the backward waits for reductions");
            }
    EXPECT(plans >= 6 && hidden >= 4, "plans with copies whose reductions are beside the backward");
}

int main(void)
{
    unsigned turn, i, hidden = 0;
    for (turn = 0; turn < tm_amount(8, 24); turn++) {
        unsigned n = 2 + (unsigned)rnd(MOST - 1);
        uint64_t most = turn % 3 ? 3000 : 30000, serial = 0, all, least, free_of, with, budget;
        layer l[MOST];
        rm_plan_info a, b;
        rm_graph *g, *h;
        for (i = 0; i < n; i++) {
            l[i].fwd = 500 + rnd(2000), l[i].bwd = 1000 + rnd(3000), l[i].update = 50 + rnd(500), l[i].reduce = 1 + rnd(most);
            serial += l[i].reduce;
        }
        g = chain(l, n, 1);
        h = chain(l, n, 0);
        all = planned(g, 0, &a);
        free_of = planned(h, 0, &b);
        EXPECT(all <= ideal(l, n), "slower than one update after the other as reductions end");
        EXPECT(all >= free_of && all <= free_of + serial, "a step with reductions, and without");
        hidden += all < free_of + serial / 2;
        EXPECT(a.keep_all_bytes == b.keep_all_bytes, "reductions take no memory");
        planned(g, 1, &a), planned(h, 1, &b); /* a budget that is too small is answered with the least that works */
        least = a.min_bytes;
        EXPECT(least && a.min_bytes == b.min_bytes, "nor does the smallest plan need more");
        for (i = 0; i < 4; i++) {
            budget = least + (a.keep_all_bytes - least) * i / 3;
            with = planned(g, budget, &a);
            free_of = planned(h, budget, &b);
            EXPECT(with && free_of && with <= free_of + serial, "slower than with nothing beside each other");
            EXPECT(a.arena_bytes <= budget, "more than the budget");
            EXPECT(a.bound_ns >= b.bound_ns, "a reduction makes it harder to prove what is least");
        }
        rm_graph_destroy(g), rm_graph_destroy(h);
    }
    EXPECT(hidden > tm_amount(3, 12), "most reductions run beside the backward");
    moved();
    return tm_end();
}
