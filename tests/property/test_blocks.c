/* test_blocks.c - what the chain is told of stages and their options is what plans are: for random graphs, points of the curve
   become runs, in whichever variants the options chose, and the sequence room says how long these take and how many bytes:
   never more than promised of either, and nearly always as long to the nanosecond. (A backward is free where all its gradients are
   other names of one; with values carried past stages, a name outside a stage can forbid that, and a point is late: seed 873.) */
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"

#include "randgraph.h"

static unsigned long passed, failed, skipped, exact, points, late, chosen;

/* One chain: stages, or groups of stages where long lives are carried. */
static void chain(rm_graph *g, uint64_t seed, uint32_t span)
{
    static rm_plan_desc d;
    rmi_arena mem = rmi_arena_make(NULL);
    rmi_planner w;
    rmi_shape shape;
    rm_plan plan;
    uint32_t j;
    memset((void *)&w, 0, sizeof w);
    memset((void *)&plan, 0, sizeof plan);
    w.g = g, w.p = &plan, w.d = &d, w.steps = w.step = RM_SINGLE, w.align = 1;
    plan.mem = rmi_arena_make(NULL);
    if (rmi_plan_layout(&w) != RM_OK || rmi_shp_make(&mem, g, span, &shape) != RM_OK) failed++;
    rmi_plan_step_homes(&w);
    if (rmi_blk_make(&mem, g, &shape, RM_SINGLE, 1, RMI_CHN_AUTO, 1, 1, &w.blk) != RM_OK || rmi_chn_solve(&mem, &w.blk.chain, &w.table) != RM_OK || rmi_seq_scratch(&w.seq, g, &mem) != RM_OK) {
        skipped++;
        goto done;
    }
    w.seq.step = RM_SINGLE;
    w.seq.homes = w.homes;
    w.seq.n_homes = w.n_homes;
    for (j = 0; j < w.table->curve.n; j += 1 + w.table->curve.n / 12) {
        rmi_chn_point p = w.table->curve.at[j];
        rmi_chn_act *acts;
        rmi_run *runs;
        size_t n_acts, n;
        uint64_t peak, end, ns;
        uint32_t tail;
        int ok = rmi_chn_schedule(&mem, w.table, p.bytes, &acts, &n_acts) == RM_OK && rmi_plan_expand(&w, &mem, acts, n_acts, &runs, &n) == RM_OK;
        w.seq.runs = runs;
        w.seq.n = (uint32_t)n;
        ok = ok && rmi_seq_build(&w.seq) == RM_OK && rmi_seq_peak(&w.seq, &peak, &end) == RM_OK;
        for (ns = w.seq.ns, tail = rmi_blk_tail(g, RM_SINGLE, runs); tail > 0;) ns -= rmi_low_ns(g, runs[--tail], 0, 0); /* barriers and what waits for them is no stage's */
        late += ok && ns > p.ns && span != RMI_NONE;
        if (!ok || peak > p.bytes + rmi_blk_carried(&w.blk) || (ns > p.ns && span == RMI_NONE)) {
            failed++;
            printf("seed %llu, span %u, point %u: %llu bytes promised, %llu needed; %llu ns promised, %llu taken\n", (unsigned long long)seed, span, j, (unsigned long long)(p.bytes + rmi_blk_carried(&w.blk)),
                   ok ? (unsigned long long)peak : 0, (unsigned long long)p.ns, ok ? (unsigned long long)ns : 0);
        } else passed++, points++, exact += ns == p.ns;
        for (; ok && n > 0; n--) chosen += runs[n - 1].way <= RMI_BWD && runs[n - 1].form;
    }
done:
    rmi_arena_free(&mem);
    rmi_arena_free(&plan.mem);
}

int main(int argc, char **argv)
{
    unsigned long n = argc > 1 ? strtoul(argv[1], NULL, 10) : 150, i;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    for (i = 0; i < n; i++) {
        rg_text t;
        rm_graph *g = NULL;
        rg_generate(&t, first + i, 1 + (int)(rmi_mix(first + i) % 50), (uint32_t)rmi_mix(first + i + 7));
        if (t.data && rm_graph_read(t.data, t.size, NULL, &g) == RM_OK && rmi_graph_seal(g) == RM_OK) {
            chain(g, first + i, RMI_NONE);
            chain(g, first + i, 10);
        } else skipped++;
        rm_graph_destroy(g);
        rg_free(&t);
    }
    if (late) failed++, printf("%lu of %lu points take longer than promised\n", late, points);
    if (exact * 10 < points * 9) failed++, printf("only %lu of %lu points to the nanosecond\n", exact, points);
    if (!chosen) failed++, printf("no variant was chosen\n");
    printf("%lu points, %lu of them to the nanosecond, %lu runs of variants\n%lu passed, %lu failed, %lu skipped\n", points, exact, chosen, passed, failed, skipped);
    return failed != 0;
}
