/* Bench of >>chain: whole curves of several chains, against tables over 500 slots of memory that answer one budget each.
   bench_chain [repetitions]. Times are the median. It measures; it asserts nothing. */
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"
#include <stdio.h>
#include <time.h>

#define MAX_N 10000
#define MAX_O 33
#define SLOTS 500u
static rmi_chn_stage stages[MAX_N];
static rmi_chn_option options[MAX_N * 4 + 96 * MAX_O];
static uint64_t seed;
static int repetitions = 5;

static uint64_t rnd(uint64_t n)
{
    seed = rmi_mix(seed);
    return seed % n;
}

static double seconds(void) { return (double)clock() / CLOCKS_PER_SEC; }

/* A stage whose options trade saved bytes for backward time; all of them read the input. */
static rmi_chn_option *make_stage(rmi_chn_stage *s, rmi_chn_option *p, uint64_t in, uint64_t out, uint64_t saved, uint64_t fwd,
                                  uint64_t bwd, uint32_t n)
{
    uint32_t o;
    memset(s, 0, sizeof *s);
    s->out_bytes = s->grad_bytes = out;
    s->pass_peak[0] = s->pass_peak[1] = in + out + saved / 4;
    s->pass_ns[0] = s->pass_ns[1] = fwd;
    s->n_options = n;
    s->options = p;
    for (o = 0; o < n; o++, p++) {
        memset(p, 0, sizeof *p);
        p->saved = saved * (n - o) / n;
        p->fwd_peak[0] = p->fwd_peak[1] = p->leaf_peak[0] = p->leaf_peak[1] = in + out + saved;
        p->fwd_ns[0] = p->fwd_ns[1] = p->leaf_ns[0] = p->leaf_ns[1] = fwd;
        p->reads_in = 1;
        p->bwd_peak = in + saved + 2 * out;
        p->bwd_ns = bwd + fwd * o * o / ((uint64_t)n * n);
    }
    return p;
}

static rmi_chn_chain chain_of(uint32_t n, uint64_t in, uint32_t tolerance)
{
    rmi_chn_chain c;
    c.n = n;
    c.stages = stages;
    c.in_bytes = in;
    c.tolerance_ppm = tolerance;
    return c;
}

static rmi_chn_chain different(uint32_t n, uint32_t n_options, uint32_t tolerance)
{
    uint64_t first, in, out;
    uint32_t i;
    rmi_chn_option *p = options;
    seed = 7;
    first = in = 1000000 + rnd(10000000);
    for (i = 0; i < n; i++, in = out) {
        uint64_t saved, fwd, bwd;
        out = 1000000 + rnd(10000000);
        saved = 1000000 + rnd(40000000);
        fwd = 10000 + rnd(1000000);
        bwd = 20000 + rnd(2000000);
        p = make_stage(&stages[i], p, in, out, saved, fwd, bwd, n_options);
    }
    return chain_of(n, first, tolerance);
}

static rmi_chn_chain equal(uint32_t n, uint32_t n_options, uint32_t tolerance)
{
    uint32_t i;
    uint64_t a = (uint64_t)8 << 20;
    (void)make_stage(&stages[0], options, a, a, 5 * a, 1000000, 2000000, n_options);
    for (i = 1; i < n; i++) stages[i] = stages[0];
    return chain_of(n, a, tolerance);
}

static void sort_times(double *t, int n)
{
    int i, j;
    for (i = 1; i < n; i++)
        for (j = i; j > 0 && t[j] < t[j - 1]; j--) {
            double x = t[j];
            t[j] = t[j - 1];
            t[j - 1] = x;
        }
}

static uint64_t curve_ns(const rmi_chn_table *t, uint64_t bytes)
{
    uint32_t k = rmi_chn_at(t->curve.at, t->curve.n, bytes);
    return k == RMI_NONE ? RMI_INF : t->curve.at[k].ns;
}

static rmi_chn_table *measure(const char *name, rmi_arena *arena, const rmi_chn_chain *c, int times)
{
    double t[64], start, write;
    int i;
    rmi_chn_table *table = NULL;
    rmi_chn_act *acts;
    size_t n;
    for (i = 0; i < times; i++) {
        rmi_arena_free(arena);
        *arena = rmi_arena_make(NULL);
        start = seconds();
        if (rmi_chn_solve(arena, c, &table) != RM_OK) exit(1);
        t[i] = seconds() - start;
    }
    sort_times(t, times);
    start = seconds();
    if (rmi_chn_schedule(arena, table, table->curve.at[table->curve.n / 2].bytes, &acts, &n) != RM_OK) exit(1);
    write = seconds() - start;
    printf("%-34s %9.1f %8u %7u %6u %9.2f\n", name, t[times / 2] * 1e3, table->curve.n, table->tolerance_ppm, table->reach == RMI_NONE ? 0 : table->reach, write * 1e3);
    return table;
}

/* --- the same recursion over slots, as the papers' solvers do it. One option, which reads the input. */

static uint64_t *slot_table;
static uint64_t *slot_at(uint32_t n, uint32_t i, uint32_t j) { return slot_table + ((size_t)i * n + j) * (SLOTS + 1); }

static uint32_t slots_of(uint64_t bytes, uint64_t slot) { return (uint32_t)rmi_min((bytes + slot - 1) / slot, SLOTS + 1); }

static void slot_piece(const rmi_chn_chain *c, uint32_t i, uint32_t j, uint64_t slot)
{
    const rmi_chn_stage *s = &c->stages[i];
    const rmi_chn_option *p = s->options;
    uint64_t in = i ? c->stages[i - 1].out_bytes : c->in_bytes, d = j + 1 < c->n ? c->stages[j].grad_bytes : 0, need, fwd;
    uint64_t *to = slot_at(c->n, i, j);
    uint32_t m, k, from, down;
    for (m = 0; m <= SLOTS; m++) to[m] = RMI_INF;
    need = rmi_max((i == j ? p->leaf_peak[1] : p->fwd_peak[1]) + d - in, p->bwd_peak - in);
    if (i == j) {
        for (m = slots_of(need, slot); m <= SLOTS; m++) to[m] = p->leaf_ns[0] + p->bwd_ns;
        return;
    }
    down = slots_of(p->saved + s->out_bytes, slot);
    from = (uint32_t)rmi_max(slots_of(need, slot), down);
    for (m = from; m <= SLOTS; m++) {
        uint64_t sub = slot_at(c->n, i + 1, j)[m - down];
        if (sub != RMI_INF) to[m] = sub + p->fwd_ns[0] + p->bwd_ns;
    }
    need = s->pass_peak[1] + d - in;
    fwd = s->pass_ns[0];
    for (k = i + 1; k <= j; k++) {
        const uint64_t *f = slot_at(c->n, k, j), *g = slot_at(c->n, i, k - 1);
        down = slots_of(c->stages[k - 1].out_bytes, slot);
        from = (uint32_t)rmi_max(slots_of(need, slot), down);
        for (m = from; m <= SLOTS; m++)
            if (f[m - down] != RMI_INF && g[m] != RMI_INF && f[m - down] + g[m] + fwd < to[m]) to[m] = f[m - down] + g[m] + fwd;
        need = rmi_max(need, c->stages[k].pass_peak[0] + d);
        fwd += c->stages[k].pass_ns[0];
    }
}

static uint64_t slot_solve(const rmi_chn_chain *c, uint64_t budget, uint64_t *least)
{
    uint64_t slot = budget / SLOTS;
    uint32_t i, len, m = 0;
    uint64_t *top;
    for (len = 1; len <= c->n; len++)
        for (i = 0; i + len <= c->n; i++) slot_piece(c, i, i + len - 1, slot);
    top = slot_at(c->n, 0, c->n - 1);
    while (m <= SLOTS && top[m] == RMI_INF) m++;
    *least = m * slot;
    return top[SLOTS];
}

static void compare_slots(uint32_t n)
{
    rmi_arena arena = rmi_arena_make(NULL);
    rmi_chn_chain c = different(n, 1, 0);
    rmi_chn_table *t;
    uint64_t least, lo, hi, budget, ns, exact, above = 0;
    double start, time = 0, loss, worst = 0, sum = 0;
    uint32_t q, feasible = 0;
    if (rmi_chn_solve(&arena, &c, &t) != RM_OK) exit(1);
    slot_table = (uint64_t *)malloc((size_t)n * n * (SLOTS + 1) * sizeof *slot_table);
    if (!slot_table) exit(1);
    lo = t->curve.at[0].bytes;
    hi = t->curve.at[t->curve.n - 1].bytes;
    for (q = 0; q < 10; q++) {
        budget = lo + (hi - lo) / 400 * q * q * 4;
        start = seconds();
        ns = slot_solve(&c, budget, &least);
        time += seconds() - start;
        exact = curve_ns(t, budget);
        if (ns == RMI_INF) continue;
        feasible++;
        above = least; /* that of the largest budget */
        loss = (double)ns / (double)exact - 1;
        if (loss > worst) worst = loss;
        sum += loss;
    }
    printf("%4u stages: %8.1f ms a budget; of 10 budgets %u feasible, lost %.2f %% on average, %.2f %% at worst; "
           "smallest memory %.1f %% too high\n",
           n, time * 100, feasible, sum * 100 / feasible, worst * 100, ((double)above / (double)lo - 1) * 100);
    free(slot_table);
    rmi_arena_free(&arena);
}

int main(int argc, char **argv)
{
    rmi_arena a = rmi_arena_make(NULL);
    rmi_chn_chain c;
    if (argc > 1) repetitions = atoi(argv[1]) > 0 && atoi(argv[1]) < 64 ? atoi(argv[1]) : 5;
    printf("%-34s %9s %8s %7s %6s %9s\n", "whole curve", "ms", "points", "ppm", "reach", "list ms");
    c = different(25, 1, 0), measure("25 different, exact", &a, &c, repetitions);
    c = different(50, 1, 0), measure("50 different, exact", &a, &c, repetitions);
    c = different(50, 4, 0), measure("50 different x 4 options, exact", &a, &c, repetitions);
    c = different(100, 1, 0), measure("100 different, exact", &a, &c, repetitions);
    c = different(100, 1, RMI_CHN_AUTO), measure("100 different, auto", &a, &c, repetitions);
    c = different(200, 1, RMI_CHN_AUTO), measure("200 different, auto", &a, &c, repetitions);
    c = different(400, 1, RMI_CHN_AUTO), measure("400 different, auto", &a, &c, repetitions);
    c = different(1000, 1, RMI_CHN_AUTO), measure("1000 different, auto", &a, &c, repetitions);
    c = equal(100, 1, 0), measure("100 equal, exact", &a, &c, repetitions);
    c = equal(96, 33, 1000), measure("96 equal x 33 options, 0.1 %", &a, &c, repetitions);
    c = equal(96, 33, RMI_CHN_AUTO), measure("96 equal x 33 options, auto", &a, &c, repetitions);
    c = equal(1000, 1, RMI_CHN_AUTO), measure("1000 equal, auto", &a, &c, repetitions);
    c = equal(10000, 1, RMI_CHN_AUTO), measure("10000 equal, auto", &a, &c, repetitions < 2 ? repetitions : 2);
    rmi_arena_free(&a);
    printf("\n%u slots, one budget a solve\n", SLOTS);
    compare_slots(25);
    compare_slots(50);
    compare_slots(100);
    return 0;
}
