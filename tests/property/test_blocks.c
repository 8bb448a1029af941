/* test_blocks.c - what the chain is told of stages and their options is what plans are: for random graphs, points of the curve
   become runs, in whichever variants the options chose, and their sequence says how long these take and how many bytes:
   never more than promised of either, and nearly always as long to the nanosecond.
   Then: options of a stage with too many choices to measure them all, against all choices.
   test_blocks [GRAPHS [FIRST SEED]] */
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"

#include "../common.h"
#include "randgraph.h"

static unsigned long passed, failed, skipped, exact, points, chosen;

/* The most live bytes of a sequence, homes not counted. */
static uint64_t most(const rmi_seq *q)
{
    uint64_t peak = 0;
    uint32_t p, i;
    for (p = 0; p <= q->n; p++) {
        uint64_t live = 0;
        for (i = 0; i < q->n_str; i++)
            if (q->str[i].first_pos <= p && p < q->str[i].end_pos && !q->str[i].home) live += q->str[i].bytes;
        peak = rmi_max(peak, live);
    }
    return peak;
}

/* How long the runs of a sequence take, one after the other. A backward all of whose gradients are other names of its output's takes
   no time. */
static uint64_t time_of(const rmi_seq *q)
{
    uint8_t *ran = (uint8_t *)calloc(q->graph->n_ops + 1, 1);
    uint64_t ns = 0;
    uint32_t i, named = 0, t, k;
    for (i = 0; i < q->n_st; i++) {
        const rmi_stmt *st = &q->st[i];
        rmi_run next;
        if ((st->what == RMI_ALIAS || st->what == RMI_REUSE) && rmi_low_kind(q->graph, st->buf, &t) == RMI_BUF_GRAD) {
            for (k = i; q->st[k].what != RMI_RUN;) k++;
            next = q->st[k].run;
            if (st->other == rmi_low_buf(q->graph, RMI_BUF_GRAD, q->graph->ops[next.id].out.at[0]))
                named += rmi_list_has(&q->graph->ops[next.id].share, t) || q->graph->ops[next.id].view == t;
        }
        if (st->what != RMI_RUN) continue;
        rmi_low_access(q->graph, st->run, 1, (rmi_access *)&q->touched);
        ns += rmi_low_ns(q->graph, st->run, st->run.way == RMI_FWD && ran[st->run.id], named && named == q->touched.writes.n);
        if (st->run.way == RMI_FWD) ran[st->run.id] = 1;
        named = 0;
    }
    free(ran);
    return ns;
}

/* The chain of a graph. */
static void chain(rm_graph *g, uint64_t seed)
{
    static rm_plan_desc d;
    rmi_arena mem = rmi_arena_make(NULL);
    rmi_planner w;
    rmi_shape shape;
    rmi_step model;
    rm_plan plan;
    uint32_t j;
    memset((void *)&w, 0, sizeof w);
    memset((void *)&plan, 0, sizeof plan);
    w.graph = g, w.plan = &plan, w.desc = &d, w.steps = w.step = RM_SINGLE, w.align = 1;
    plan.mem = rmi_arena_make(NULL);
    if (rmi_plan_layout(&w) != RM_OK || rmi_shp_make(&mem, g, &shape) != RM_OK) failed++;
    rmi_plan_step_homes(&w);
    if (rmi_step_make(&mem, g, RM_SINGLE, 1, 0, &model) != RM_OK || rmi_blk_make(&mem, &model, &shape, 1, 1, &w.chain.blk) != RM_OK || rmi_chn_solve(&mem, &w.chain.blk.chain, &w.chain.table) != RM_OK) {
        skipped++;
        goto done;
    }
    w.seq.graph = g;
    w.seq.mem = w.seq.lives = &mem;
    w.seq.step = RM_SINGLE;
    w.seq.homes = w.homes.at;
    w.seq.n_homes = w.homes.n;
    for (j = 0; j < w.chain.table->curve.n; j += 1 + w.chain.table->curve.n / 12) {
        rmi_chn_point p = w.chain.table->curve.at[j];
        rmi_chn_act *acts;
        rmi_seq_list list;
        size_t n_acts, n;
        uint64_t ns, peak;
        uint32_t tail;
        int ok = rmi_chn_schedule(&mem, w.chain.table, p.bytes, &acts, &n_acts) == RM_OK && rmi_plan_expand(&w, &mem, acts, n_acts, &list) == RM_OK;
        w.seq.runs = list.runs;
        w.seq.n = (uint32_t)(n = list.n);
        ok = ok && rmi_seq_build(&w.seq) == RM_OK;
        peak = ok ? most(&w.seq) : 0;
        for (ns = ok ? time_of(&w.seq) : 0, tail = rmi_step_tail(g, RM_SINGLE, list.runs); tail > 0;) ns -= rmi_low_ns(g, list.runs[--tail], 0, 0); /* barriers and what waits for them is no stage's */
        if (!ok || peak > p.bytes + rmi_blk_carried(&w.chain.blk) || ns > p.ns) {
            failed++;
            printf("seed %llu, point %u: %llu bytes promised, %llu needed; %llu ns promised, %llu taken\n", (unsigned long long)seed, j, (unsigned long long)(p.bytes + rmi_blk_carried(&w.chain.blk)),
                   (unsigned long long)peak, (unsigned long long)p.ns, ok ? (unsigned long long)ns : 0);
        } else passed++, points++, exact += ns == p.ns;
        for (; ok && n > 0; n--) chosen += list.runs[n - 1].way <= RMI_BWD && list.runs[n - 1].form;
    }
done:
    rmi_arena_free(&mem);
    rmi_arena_free(&plan.mem);
}

/* --- a residual stage of n triples convolution, norm (which saves a little), relu and a sum: n * 3 + 1 ops */
static void put(rg_text *t, const char *line)
{
    size_t n = strlen(line);
    if (t->size + n + 1 > t->room) t->data = (char *)realloc(t->data, t->room = 2 * t->room + n + 4096);
    memcpy(t->data + t->size, line, n + 1);
    t->size += n;
}

static uint64_t fwd_ns[32], out_bytes[32];

static rm_graph *residual(uint32_t n, uint64_t seed)
{
    rg_text t = {0};
    rm_graph *g = NULL;
    char line[256], before[16] = "s", self[16];
    uint32_t i;
    put(&t, "rockmate graph 1\ntensor x const 1000\ntensor w param 0\nop stem in=x,w out=s:4000 needs=x fwd=100 bwd=100\n");
    for (i = 0; i < 3 * n; i++) {
        static const char *const letter = "cnr";
        uint64_t z = rmi_mix(seed * 64 + i);
        out_bytes[i] = i % 3 ? out_bytes[i - 1] : 1000 + z % 3000;
        fwd_ns[i] = i % 3 ? 100 + z % 200 : 1000 + z % 4000;
        snprintf(self, sizeof self, "%c%u", letter[i % 3], i / 3);
        snprintf(line, sizeof line, "op %s in=%s out=%s:%llu needs=%s%s fwd=%llu bwd=1000\n", self, before, self, (unsigned long long)out_bytes[i], i % 3 == 2 ? self : before, i % 3 == 1 ? ",saved saved=8" : "",
                 (unsigned long long)fwd_ns[i]);
        put(&t, line);
        memcpy(before, self, sizeof before);
    }
    fwd_ns[3 * n] = 150, out_bytes[3 * n] = 4000;
    snprintf(line, sizeof line, "op sum in=s,%s out=sum:4000 needs=none fwd=150 bwd=1000\nop loss in=sum out=l:4 needs=sum fwd=10 bwd=10\n", before);
    put(&t, line);
    if (!t.data || rm_graph_read(t.data, t.size, NULL, &g) != RM_OK || rmi_graph_seal(g) != RM_OK) failed++, printf("residual: %s\n", g ? rm_graph_error(g) : "?");
    free(t.data);
    return g;
}

/* By hand: what a backward that keeps what `set` makes holds, and how long its reruns take. Value i is what op i makes; -1 the input. */
static void by_hand(uint32_t n, uint32_t set, uint64_t *bytes, uint64_t *ns)
{
    uint32_t fresh = 0, held = 0, i, k;
    *bytes = *ns = 0;
    for (i = 3 * n; i-- > 0;) { /* of the sum nothing is read */
        uint32_t from;
        int v = i % 3 == 2 ? (int)i : (int)i - 1; /* what this backward reads */
        if (i % 3 == 1 && !(fresh >> i & 1)) { /* and what a norm has saved */
            if (set >> i & 1) *bytes += 8;
            else {
                for (from = i; from > 0 && !((fresh | set) >> (from - 1) & 1);) from--;
                if (from && !(fresh >> (from - 1) & 1)) held |= 1u << (from - 1);
                for (k = from; k <= i; k++) *ns += fwd_ns[k], fresh |= 1u << k;
            }
        }
        if (v < 0 || (fresh >> v & 1)) continue;
        if (set >> v & 1) {
            held |= 1u << v;
            continue;
        }
        for (from = (uint32_t)v; from > 0 && !((fresh | set) >> (from - 1) & 1);) from--;
        if (from && !(fresh >> (from - 1) & 1)) held |= 1u << (from - 1);
        for (k = from; k <= (uint32_t)v; k++) *ns += fwd_ns[k], fresh |= 1u << k;
    }
    for (i = 0; i < 3 * n; i++) *bytes += held >> i & 1 ? out_bytes[i] : 0;
}

/* No choice may be much better than every option: by a 10th of what there is to keep and to rerun. */
static void descent(uint32_t n, uint64_t seed)
{
    rmi_arena mem = rmi_arena_make(NULL);
    rm_graph *g = residual(n, seed);
    rmi_shape shape;
    rmi_step model;
    rmi_blk b;
    uint32_t set, k, missed = 0, at = 0;
    uint64_t bytes, ns, all, most, none;
    if (!g || rmi_shp_make(&mem, g, &shape) != RM_OK || rmi_step_make(&mem, g, RM_SINGLE, 1, 0, &model) != RM_OK || rmi_blk_make(&mem, &model, &shape, 1, 1, &b) != RM_OK) failed++;
    else {
        while (at < shape.n && shape.stages[at].hi - shape.stages[at].lo != 3 * n + 1) at++;
        by_hand(n, (1u << 3 * n) - 1, &all, &none);
        by_hand(n, 0, &bytes, &most);
        if (at == shape.n || none) failed++, printf("descent: %u stages, none of %u ops\n", shape.n, 3 * n + 1);
        else if (b.options[at][0].saved != all) failed++, printf("descent: keeping all holds %llu, by hand %llu\n", (unsigned long long)b.options[at][0].saved, (unsigned long long)all);
        else for (set = 0; set < 1u << 3 * n; set++) {
            by_hand(n, set, &bytes, &ns);
            for (k = 0; k < b.stages[at].n_options && (b.options[at][k].saved > bytes + all / 10 || b.options[at][k].bwd_ns - b.options[at][0].bwd_ns > ns + most / 10);) k++;
            missed += k == b.stages[at].n_options;
        }
        if (missed) failed++, printf("descent: seed %llu: %u of %u choices are better than every option\n", (unsigned long long)seed, missed, 1u << 3 * n);
        else passed++;
    }
    rmi_arena_free(&mem);
    rm_graph_destroy(g);
}

/* --- blocks of the user */

int main(int argc, char **argv)
{
    unsigned long n = argc > 1 ? strtoul(argv[1], NULL, 10) : tm_amount(15, 150), i;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    for (i = 0; i < n && tm_more(i); i++) {
        rg_text t;
        rm_graph *g = NULL;
        rg_ask_more(first + i);
        rg_generate(&t, first + i, 1 + (int)(rmi_mix(first + i) % 50), (uint32_t)rmi_mix(first + i + 7));
        if (t.data && rm_graph_read(t.data, t.size, NULL, &g) == RM_OK && rmi_graph_seal(g) == RM_OK) {
            chain(g, first + i);
        } else skipped++;
        rm_graph_destroy(g);
        rg_free(&t);
    }
    for (i = 0; i < 6; i++) descent(4, first + i);
    if (exact * 10 < points * 9) failed++, printf("only %lu of %lu points to the nanosecond\n", exact, points);
    if (!chosen) failed++, printf("no variant was chosen\n");
    printf("%lu points, %lu of them to the nanosecond, %lu runs of variants\n%lu passed, %lu failed, %lu skipped\n", points, exact, chosen, passed, failed, skipped);
    return failed != 0;
}
