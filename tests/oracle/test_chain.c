/* Oracle for >>chain: every persistent schedule of a small chain is written out and simulated byte by byte; the Pareto front
   of (peak, time) must be the solver's curve, point for point. Larger chains: properties, through an independent simulator. */
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"
#include "../common.h"
#include <stdio.h>

static uint64_t seed = 1;
static uint32_t rnd(uint32_t n)
{
    seed = rmi_mix(seed);
    return (uint32_t)(seed >> 33) % n;
}

static unsigned checks; /* groups that held */
#define CHECK(c)                                                                                   \
    do {                                                                                           \
        if (!(c)) {                                                                                \
            printf("%s:%d: %s (seed %llu)\n%u passed, 1 failed, 0 skipped\n", __FILE__, __LINE__, #c, (unsigned long long)seed, checks); \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#define MAX_N 2048
#define MAX_O 20
static rmi_chn_stage stages[MAX_N];
static rmi_chn_option options[MAX_N][MAX_O];

/* --- random chains */

/* read: 0 all options read the input, 1 none reads anything, 2 anything goes; size: numbers are below it */
static void random_stage(uint32_t i, uint64_t in, uint64_t out, uint32_t size, uint32_t read, uint32_t max_options)
{
    rmi_chn_stage *s = &stages[i];
    uint32_t o;
    memset(s, 0, sizeof *s);
    s->out_bytes = out;
    s->grad_bytes = rnd(size);
    s->grown = rnd(3) ? 0 : rnd(size);
    s->pass_peak[1] = in + s->out_bytes + rnd(size);
    s->pass_peak[0] = rmi_max(in, s->out_bytes) + rnd(size);
    s->pass_ns[0] = rnd(size);
    s->pass_ns[1] = rnd(4) ? s->pass_ns[0] : rnd(size);
    s->n_options = 1 + rnd(max_options);
    s->options = options[i];
    for (o = 0; o < s->n_options; o++) {
        rmi_chn_option *p = &options[i][o];
        memset(p, 0, sizeof *p);
        p->reads_in = read == 0 ? 1 : read == 1 ? 0 : rnd(2);
        p->reads_out = read == 2 ? rnd(2) : 0;
        p->saved = rnd(2) ? rnd(size * 2) : 0;
        p->fwd_peak[1] = in + s->out_bytes + p->saved + rnd(size);
        p->fwd_peak[0] = rmi_max(in, s->out_bytes + p->saved) + rnd(size);
        p->leaf_peak[1] = in + p->saved + rnd(size) + (p->reads_out ? s->out_bytes : 0);
        p->leaf_peak[0] = rmi_max(in, p->saved + (p->reads_out ? s->out_bytes : 0)) + rnd(size);
        p->fwd_ns[0] = s->pass_ns[0] + rnd(size);
        p->fwd_ns[1] = s->pass_ns[1] + rnd(size);
        p->leaf_ns[0] = rnd(size);
        p->leaf_ns[1] = rnd(size);
        p->bwd_ns = rnd(size);
        p->bwd_peak = p->saved + s->grad_bytes + s->grown + rnd(size) + (p->reads_in ? in : 0) +
                      (p->reads_out ? s->out_bytes : 0);
    }
}

static rmi_chn_chain random_chain(uint32_t n, uint32_t size, uint32_t read, uint32_t max_options)
{
    rmi_chn_chain c;
    uint32_t i, cycle = rnd(3) ? n : 1 + rnd(3); /* sometimes the same few stages again and again */
    uint64_t last_out = rnd(size), in;
    if (cycle > n) cycle = n;
    memset(&c, 0, sizeof c);
    c.n = n;
    c.stages = stages;
    c.in_bytes = rnd(2) ? last_out : rnd(size); /* if equal, the first cycle is like the others */
    for (i = 0; i < n; i++) {
        in = i ? stages[i - 1].out_bytes : c.in_bytes;
        if (i >= cycle && (i > cycle || c.in_bytes == last_out)) stages[i] = stages[i - cycle];
        else random_stage(i, in, i == cycle ? stages[0].out_bytes : (i + 1) % cycle ? rnd(size) : last_out, size, read, max_options);
    }
    if (cycle < n && rnd(2)) random_stage(n - 1, stages[n - 2].out_bytes, rnd(size), size, read, max_options);
    return c;
}

/* --- the oracle: all schedules, by explicit liveness */

#define SMALL 6
typedef struct state {
    uint8_t checkpoint[SMALL + 2], kept[SMALL + 2], passed[SMALL + 2], ran[SMALL + 2]; /* stages from 1; kept = option + 1 */
    uint32_t grad, front; /* the next backward; the stage whose input is in hand, 0 if none */
    uint64_t peak, ns;
} state;

static const rmi_chn_chain *chain;
static rmi_chn_point front[4096];
static uint32_t n_front;

static uint64_t size_of(uint32_t a) { return a ? chain->stages[a - 1].out_bytes : chain->in_bytes; }

/* Is a[x] on the device, going by who still needs it? a[0] always is. */
static int alive(const state *s, uint32_t x)
{
    if (x == 0 || s->front == x + 1) return 1;
    if (s->kept[x] && chain->stages[x - 1].options[s->kept[x] - 1].reads_out) return 1;
    if (s->kept[x + 1] && x + 1 <= chain->n && chain->stages[x].options[s->kept[x + 1] - 1].reads_in) return 1;
    return s->checkpoint[x + 1];
}

/* Bytes held for others while stage l runs; its peaks count its own things. Own: bit 0 its input, bit 1 its output. */
static uint64_t held(const state *s, uint32_t l, uint32_t own, int forward)
{
    uint64_t m = 0;
    uint32_t x;
    for (x = 1; x <= chain->n; x++) {
        if (alive(s, x) && !(x + 1 == l && (own & 1)) && !(x == l && (own & 2))) m += size_of(x);
        if (s->kept[x] && x != l) m += chain->stages[x - 1].options[s->kept[x] - 1].saved;
        if (x > s->grad) m += chain->stages[x - 1].grown;
    }
    if (forward && s->grad < chain->n) m += chain->stages[s->grad - 1].grad_bytes;
    return m;
}

static int dominated(const state *s)
{
    uint32_t i;
    for (i = 0; i < n_front; i++)
        if (front[i].bytes <= s->peak && front[i].ns <= s->ns) return 1;
    return 0;
}

static void note(const state *s)
{
    uint32_t i, n = 0;
    for (i = 0; i < n_front; i++)
        if (!(s->peak <= front[i].bytes && s->ns <= front[i].ns)) front[n++] = front[i];
    for (i = n; i > 0 && front[i - 1].bytes > s->peak; i--) front[i] = front[i - 1];
    front[i].bytes = s->peak;
    front[i].ns = s->ns;
    n_front = n + 1;
}

/* a[0] is part of what the first stage's peaks include, and not counted */
static uint64_t outside(uint32_t l) { return l == 1 ? chain->in_bytes : 0; }

static void explore(state s)
{
    uint32_t l, o, j = s.grad;
    const rmi_chn_stage *st;
    if (dominated(&s)) return;
    if (j == 0) {
        note(&s);
        return;
    }
    if (s.kept[j]) { /* its backward */
        const rmi_chn_option *p = &chain->stages[j - 1].options[s.kept[j] - 1];
        uint64_t m = p->bwd_peak - (p->reads_in ? outside(j) : 0);
        s.front = 0;
        m += held(&s, j, (p->reads_in ? 1u : 0u) | 2u, 0);
        CHECK(p->reads_out || !alive(&s, j));
        s.peak = rmi_max(s.peak, m);
        s.ns += p->bwd_ns;
        s.kept[j] = s.checkpoint[j] = s.passed[j] = 0;
        s.grad--;
        explore(s);
        return;
    }
    if (!s.front)
        for (s.front = j; !s.checkpoint[s.front]; s.front--) CHECK(s.front > 1);
    l = s.front;
    st = &chain->stages[l - 1];
    for (o = 0; o < st->n_options; o++) { /* keep */
        state t = s;
        const rmi_chn_option *p = &st->options[o];
        uint32_t stays;
        uint64_t before, m;
        before = held(&t, l, 1, 1);
        t.kept[l] = (uint8_t)(o + 1);
        t.checkpoint[l] = t.passed[l] = 0;
        t.front = l + 1;
        stays = (uint32_t)alive(&t, l - 1);
        if (l == j) t.front = 0;
        m = (l == j ? p->leaf_peak[stays] : p->fwd_peak[stays]) - (l == 1 ? chain->in_bytes : 0);
        t.peak = rmi_max(t.peak, m + before);
        t.ns += l == j ? p->leaf_ns[t.ran[l]] : p->fwd_ns[t.ran[l]];
        t.ran[l] = 1;
        explore(t);
    }
    if (l < j) { /* pass; the input stays as a checkpoint, or dies if an earlier one leads here and this is none */
        uint32_t stays;
        for (stays = 0; stays < 2; stays++) {
            state t = s;
            if (!stays && (s.checkpoint[l] || l == 1 || !s.passed[l - 1])) continue;
            t.peak = rmi_max(t.peak, st->pass_peak[stays] - outside(l) + held(&t, l, 1, 1));
            t.ns += st->pass_ns[t.ran[l]];
            t.ran[l] = t.passed[l] = 1;
            t.checkpoint[l] = (uint8_t)stays;
            t.front = l + 1;
            explore(t);
        }
    }
}

/* --- the simulator of a list of actions, for chains of any length */

static void simulate(const rmi_chn_chain *c, const rmi_chn_act *acts, size_t n, uint64_t *peak, uint64_t *ns)
{
    uint32_t L = c->n, l, grad = L;
    uint8_t *live = (uint8_t *)calloc(L + 2, 1), *ran = (uint8_t *)calloc(L + 2, 1);
    uint32_t *kept = (uint32_t *)calloc(L + 2, sizeof *kept);
    uint64_t held_bytes = 0; /* live a[1..], saved, grown */
    size_t k;
    *peak = *ns = 0;
    live[0] = 1;
    for (k = 0; k < n; k++) {
        const rmi_chn_act *a = &acts[k];
        const rmi_chn_stage *s = &c->stages[a->stage];
        uint32_t stays = a->flags & RMI_CHN_INPUT_STAYS ? 1 : 0, leaf = a->flags & RMI_CHN_LEAF ? 1 : 0;
        uint64_t in = a->stage ? c->stages[a->stage - 1].out_bytes : c->in_bytes, m, d;
        l = a->stage + 1;
        CHECK(l <= grad);
        d = grad < L ? c->stages[grad - 1].grad_bytes : 0;
        if (a->what == RMI_CHN_BACKWARD) {
            const rmi_chn_option *p = &s->options[a->option];
            CHECK(l == grad && kept[l] == a->option + 1 && (!p->reads_in || live[l - 1]) && (!p->reads_out || live[l]));
            CHECK(live[l] == (p->reads_out != 0)); /* nothing lives longer than it must */
            m = held_bytes + p->bwd_peak - p->saved - (p->reads_in ? in : 0) - (p->reads_out ? s->out_bytes : 0);
            *ns += p->bwd_ns;
            held_bytes -= p->saved + (p->reads_out ? s->out_bytes : 0);
            live[l] = 0;
            kept[l] = 0;
            if (l > 1 && live[l - 1] && !(kept[l - 1] && c->stages[l - 2].options[kept[l - 1] - 1].reads_out)) {
                live[l - 1] = 0;
                held_bytes -= in;
            }
            held_bytes += s->grown;
            grad--;
        } else {
            CHECK(live[l - 1] && !live[l] && !kept[l] && ran[l] == (a->flags & RMI_CHN_AGAIN ? 1 : 0));
            m = held_bytes + d - (l > 1 ? in : 0);
            if (a->what == RMI_CHN_PASS) {
                m += s->pass_peak[stays];
                *ns += s->pass_ns[ran[l]];
            } else {
                const rmi_chn_option *p = &s->options[a->option];
                CHECK(leaf == (l == grad));
                m += leaf ? p->leaf_peak[stays] : p->fwd_peak[stays];
                *ns += leaf ? p->leaf_ns[ran[l]] : p->fwd_ns[ran[l]];
                kept[l] = a->option + 1;
                held_bytes += p->saved;
            }
            if (!(leaf && !s->options[a->option].reads_out)) {
                live[l] = 1;
                held_bytes += s->out_bytes;
            }
            if (!stays && l > 1) {
                live[l - 1] = 0;
                held_bytes -= in;
            }
            ran[l] = 1;
        }
        if (a->what != RMI_CHN_BACKWARD && l == 1) m -= c->in_bytes;
        if (m > *peak) *peak = m;
    }
    CHECK(grad == 0);
    free(live);
    free(ran);
    free(kept);
}

/* Every breakpoint, just below it, and random budgets: the schedule fits and takes the promised time (or less). */
static void check_schedules(const rmi_chn_chain *c, const rmi_chn_table *t, uint32_t every)
{
    uint32_t i;
    for (i = 0; i < t->curve.n; i += i + every < t->curve.n ? every : i + 1 < t->curve.n ? t->curve.n - 1 - i : 1) {
        rmi_arena arena = rmi_arena_make(NULL);
        rmi_chn_act *acts;
        size_t n;
        uint64_t peak, ns, more = i + 1 < t->curve.n ? t->curve.at[i + 1].bytes - t->curve.at[i].bytes : 1000;
        CHECK(rmi_chn_schedule(&arena, t, t->curve.at[i].bytes, &acts, &n) == RM_OK);
        simulate(c, acts, n, &peak, &ns);
        CHECK(peak <= t->curve.at[i].bytes && ns <= t->curve.at[i].ns);
        if (!t->tolerance_ppm && t->reach == RMI_NONE) CHECK(peak == t->curve.at[i].bytes && ns == t->curve.at[i].ns);
        CHECK(rmi_chn_schedule(&arena, t, t->curve.at[i].bytes + rnd((uint32_t)rmi_min(more, 1u << 30)), &acts, &n) == RM_OK);
        simulate(c, acts, n, &peak, &ns);
        CHECK(ns <= t->curve.at[i].ns);
        if (i == 0 && t->curve.at[0].bytes)
            CHECK(rmi_chn_schedule(&arena, t, t->curve.at[0].bytes - 1, &acts, &n) == RM_ERROR_INFEASIBLE);
        rmi_arena_free(&arena);
    }
}

static void oracle(uint32_t rounds)
{
    uint32_t r, i;
    for (r = 0; r < rounds; r++) {
        rmi_arena arena = rmi_arena_make(NULL);
        rmi_chn_table *t;
        uint32_t n = 1 + rnd(5), size = rnd(3) ? 2 + rnd(12) : 1000;
        rmi_chn_chain c = random_chain(n, size, rnd(4), n < 4 ? 3 : 2);
        state s;
        memset(&s, 0, sizeof s);
        s.grad = c.n;
        s.front = 1;
        chain = &c;
        n_front = 0;
        explore(s);
        CHECK(rmi_chn_solve(&arena, &c, &t) == RM_OK);
        CHECK(t->curve.n == n_front);
        for (i = 0; i < n_front; i++)
            CHECK(t->curve.at[i].bytes == front[i].bytes && t->curve.at[i].ns == front[i].ns);
        check_schedules(&c, t, 1);
        rmi_arena_free(&arena);
    }
}


/* --- properties of larger chains */

static uint64_t curve_ns(const rmi_chn_table *t, uint64_t bytes)
{
    uint32_t k = rmi_chn_at(t->curve.at, t->curve.n, bytes);
    return k == RMI_NONE ? RMI_INF : t->curve.at[k].ns;
}

/* Long runs of equal stages, the first one apart, with cuts left out: the minimum and the fastest are kept, little is lost. */
static void long_runs(void)
{
    static const rmi_chn_way how[] = { { 500, 8, 0 }, { 0, 4, 0 } };
    static rmi_chn_stage run[120];
    rmi_chn_option option, first;
    rmi_arena arena = rmi_arena_make(NULL);
    rmi_chn_chain c = { 120, run, 700, 0 };
    rmi_chn_table *exact, *t;
    uint32_t i, w;
    memset(&option, 0, sizeof option);
    option.saved = 5000;
    option.fwd_peak[0] = option.fwd_peak[1] = option.leaf_peak[0] = option.leaf_peak[1] = 7000;
    option.fwd_ns[0] = option.fwd_ns[1] = option.leaf_ns[0] = option.leaf_ns[1] = 1000;
    option.reads_in = 1;
    option.bwd_peak = 8000;
    option.bwd_ns = 2000;
    first = option;
    first.saved = 2000;
    for (i = 0; i < 120; i++) {
        memset(&run[i], 0, sizeof run[i]);
        run[i].out_bytes = run[i].grad_bytes = 1000;
        run[i].pass_peak[0] = run[i].pass_peak[1] = 3000;
        run[i].pass_ns[0] = run[i].pass_ns[1] = 1000;
        run[i].n_options = 1;
        run[i].options = i ? &option : &first;
    }
    CHECK(rmi_chn_solve(&arena, &c, &exact) == RM_OK);
    for (w = 0; w < RMI_COUNT(how); w++) {
        CHECK(rmi_chn_attempt(&arena, &c, how[w], &t) == RM_OK);
        CHECK(t->curve.at[0].bytes == exact->curve.at[0].bytes && curve_ns(t, RMI_MAX) == curve_ns(exact, RMI_MAX));
        for (i = 0; i < exact->curve.n; i++) {
            uint64_t ns = curve_ns(t, exact->curve.at[i].bytes), best = exact->curve.at[i].ns;
            CHECK(ns >= best && ns - best <= best / 50);
        }
        check_schedules(&c, t, 1 + t->curve.n / 16);
    }
    rmi_arena_free(&arena);
}

/* The exact curve is never above the approximate one; what is promised is kept. */
static void approximations(uint32_t rounds)
{
    static const rmi_chn_way how[] = { { 2000, RMI_NONE, 0 }, { 50000, RMI_NONE, 0 }, { 0, 2, 0 }, { 20000, 1, 0 } };
    uint32_t r, w, i;
    for (r = 0; r < rounds; r++) {
        rmi_arena arena = rmi_arena_make(NULL);
        rmi_chn_table *exact, *t;
        rmi_chn_chain c = random_chain(2 + rnd(30), rnd(2) ? 10 : 100000, rnd(4), 3);
        CHECK(rmi_chn_solve(&arena, &c, &exact) == RM_OK);
        check_schedules(&c, exact, 1 + exact->curve.n / 16);
        for (w = 0; w < RMI_COUNT(how); w++) {
            rmi_arena own = rmi_arena_make(NULL);
            CHECK(rmi_chn_attempt(&own, &c, how[w], &t) == RM_OK);
            for (i = 0; i < exact->curve.n; i++) CHECK(curve_ns(t, exact->curve.at[i].bytes) >= exact->curve.at[i].ns);
            CHECK(how[w].reach != RMI_NONE || curve_ns(t, exact->curve.at[0].bytes) != RMI_INF); /* the minimum is kept */
            CHECK(how[w].reach != RMI_NONE || curve_ns(t, RMI_MAX) == curve_ns(exact, RMI_MAX));              /* and the fastest */
            check_schedules(&c, t, 1 + t->curve.n / 8);
            rmi_arena_free(&own);
        }
        rmi_arena_free(&arena);
    }
}

/* Sharing equal pieces changes nothing: a chain of equal stages against the same with numbers apart in what nobody reads. */
static void sharing(uint32_t rounds)
{
    uint32_t r, i, o;
    for (r = 0; r < rounds; r++) {
        rmi_arena arena = rmi_arena_make(NULL);
        rmi_chn_table *a, *b;
        rmi_chn_chain c = random_chain(2 + rnd(24), 50, rnd(4), 3);
        CHECK(rmi_chn_solve(&arena, &c, &a) == RM_OK);
        for (i = 0; i < c.n; i++) { /* an option that is never better, and different everywhere */
            rmi_chn_option copy[MAX_O];
            o = stages[i].n_options;
            memcpy(copy, stages[i].options, o * sizeof *copy);
            memcpy(options[i], copy, o * sizeof *copy);
            options[i][o] = options[i][0];
            options[i][o].bwd_ns += 1 + i;
            stages[i].options = options[i];
            stages[i].n_options++;
        }
        CHECK(rmi_chn_solve(&arena, &c, &b) == RM_OK);
        CHECK(b->n_classes == c.n && a->curve.n == b->curve.n);
        for (i = 0; i < a->curve.n; i++)
            CHECK(a->curve.at[i].bytes == b->curve.at[i].bytes && a->curve.at[i].ns == b->curve.at[i].ns);
        rmi_arena_free(&arena);
    }
}

static void equal_chain(rmi_chn_chain *c, uint32_t n, uint64_t size, uint64_t ns)
{
    uint32_t i;
    rmi_chn_option *p = &options[0][0];
    memset(p, 0, sizeof *p);
    p->saved = 4 * size;
    p->fwd_peak[0] = p->fwd_peak[1] = p->leaf_peak[0] = p->leaf_peak[1] = 6 * size;
    p->bwd_peak = 7 * size;
    p->fwd_ns[0] = p->fwd_ns[1] = p->leaf_ns[0] = p->leaf_ns[1] = ns;
    p->bwd_ns = 2 * ns;
    p->reads_in = 1;
    memset(&stages[0], 0, sizeof stages[0]);
    stages[0].out_bytes = stages[0].grad_bytes = size;
    stages[0].pass_peak[0] = stages[0].pass_peak[1] = 3 * size;
    stages[0].pass_ns[0] = stages[0].pass_ns[1] = ns;
    stages[0].n_options = 1;
    stages[0].options = p;
    for (i = 1; i < n; i++) stages[i] = stages[0];
    memset(c, 0, sizeof *c);
    c->n = n;
    c->stages = stages;
    c->in_bytes = size;
}

/* Nothing at all, enormous numbers, stages that cannot run. */
static void extremes(void)
{
    static const uint64_t sizes[] = { 0, 1, (uint64_t)1 << 40, (uint64_t)1 << 58, (uint64_t)1 << 59, (uint64_t)1 << 61, RMI_MAX };
    uint32_t n, s, z;
    for (n = 1; n < 9; n++)
        for (s = 0; s < RMI_COUNT(sizes); s++)
            for (z = 0; z < RMI_COUNT(sizes); z++) {
                rmi_arena arena = rmi_arena_make(NULL);
                rmi_chn_chain c;
                rmi_chn_table *t;
                rm_result r;
                equal_chain(&c, n, s < 4 ? sizes[s] : 1, sizes[z]);
                if (s >= 4) options[0][0].saved = stages[0].grown = sizes[s];
                r = rmi_chn_solve(&arena, &c, &t);
                CHECK(r == RM_OK || (r == RM_ERROR_INFEASIBLE && s >= 3 && !t));
                if (r == RM_OK && z < 3 && s < 4) check_schedules(&c, t, 1);
                rmi_arena_free(&arena);
            }
    {
        rmi_arena arena = rmi_arena_make(NULL);
        rmi_chn_chain c;
        rmi_chn_table *t;
        equal_chain(&c, 0, 1, 1);
        CHECK(rmi_chn_solve(&arena, &c, &t) == RM_ERROR_ARGUMENT && !t);
        equal_chain(&c, 3, 1, 1);
        stages[1].n_options = 0;
        CHECK(rmi_chn_solve(&arena, &c, &t) == RM_ERROR_INFEASIBLE && !t);
        rmi_arena_free(&arena);
    }
}

static void long_chain(void)
{
    rmi_arena arena = rmi_arena_make(NULL);
    rmi_chn_chain c;
    rmi_chn_table *t;
    equal_chain(&c, 2000, 1 << 20, 1000000);
    c.tolerance_ppm = RMI_CHN_AUTO;
    CHECK(rmi_chn_solve(&arena, &c, &t) == RM_OK);
    CHECK(t->curve.at[t->curve.n - 1].ns == (uint64_t)3 * 2000 * 1000000);
    check_schedules(&c, t, 1 + t->curve.n / 4);
    rmi_arena_free(&arena);
}

/* A chain of `n` stages that repeats `period` of them: every `apart`-th has up to `many` options, but at least half as many, the
   others up to `few`. */
static rmi_chn_chain mixed_chain(uint32_t n, uint32_t period, uint32_t apart, uint32_t many, uint32_t few)
{
    rmi_chn_chain c;
    uint32_t i;
    memset(&c, 0, sizeof c);
    c.n = n;
    c.stages = stages;
    c.in_bytes = 1000;
    for (i = 0; i < n; i++) {
        uint64_t out = (i + 1) % period ? 1000 + rnd(9000) : 1000;
        if (i >= period) stages[i] = stages[i - period];
        else {
            do random_stage(i, i ? stages[i - 1].out_bytes : c.in_bytes, out, 20000, 3, i % apart ? few : many);
            while (stages[i].n_options < (i % apart ? few : many) / 2);
        }
    }
    return c;
}

/* The automatic choice against the exact curve: it loses hardly anything where there is memory. */
static void automatic(void)
{
    static const struct { uint32_t n, period, apart, many, few; } how[] = {
        { 120, 120, 1, 3, 3 }, { 120, 120, 20, 18, 1 }, { 180, 6, 6, 2, 1 }, { 240, 5, 5, 4, 2 } };
    uint32_t w, i;
    for (w = 0; w < RMI_COUNT(how); w++) {
        rmi_arena arena = rmi_arena_make(NULL);
        rmi_chn_table *exact, *t;
        rmi_chn_chain c = mixed_chain(how[w].n, how[w].period, how[w].apart, how[w].many, how[w].few);
        CHECK(rmi_chn_solve(&arena, &c, &exact) == RM_OK);
        c.tolerance_ppm = RMI_CHN_AUTO;
        CHECK(rmi_chn_solve(&arena, &c, &t) == RM_OK);
        for (i = 0; i < exact->curve.n; i++) {
            uint64_t m = exact->curve.at[i].bytes, ns = curve_ns(t, m), best = exact->curve.at[i].ns;
            CHECK(ns >= best);
            if (m >= 2 * exact->curve.at[0].bytes) CHECK(ns - best <= best / 100);
        }
        check_schedules(&c, t, 1 + t->curve.n / 8);
        rmi_arena_free(&arena);
    }
}

/* A few stages with many options do not make a chain a costly one: it was solved with the fewest places, and plans of U-Nets got
   lost. Chains of stages with few options take fewer places before they drop more points. */
static void few_with_many(void)
{
    uint32_t w;
    for (w = 0; w < 2; w++) {
        rmi_arena arena = rmi_arena_make(NULL);
        rmi_chn_table *t;
        rmi_chn_chain c = mixed_chain(w ? 450 : 200, w ? 4 : 200, w ? 450 : 25, w ? 1 : 18, 1);
        c.tolerance_ppm = RMI_CHN_AUTO;
        CHECK(rmi_chn_solve(&arena, &c, &t) == RM_OK);
        CHECK(t->tolerance_ppm <= 200 && t->reach >= 2);
        rmi_arena_free(&arena);
    }
}

/* --- every allocation may fail */

static long fail_at, alive_blocks;
static void *failing_alloc(size_t bytes, void *user)
{
    (void)user;
    if (--fail_at == 0) return NULL;
    alive_blocks++;
    return malloc(bytes);
}
static void counting_free(void *p, void *user)
{
    (void)user;
    alive_blocks--;
    free(p);
}

static void out_of_memory(void)
{
    rm_allocator hooks;
    uint32_t tolerance[3] = { 0, 3000, RMI_CHN_AUTO }, w;
    long n;
    rm_result r = RM_ERROR_MEMORY;
    rmi_chn_chain c = random_chain(30, 100000, 3, 2);
    hooks.alloc = failing_alloc;
    hooks.free = counting_free;
    hooks.user = NULL;
    for (w = 0; w < 3; w++)
        for (n = 1, r = RM_ERROR_MEMORY; r != RM_OK; n++) {
            rmi_arena arena = rmi_arena_make(&hooks);
            rmi_chn_table *t;
            rmi_chn_act *acts = NULL;
            size_t n_acts;
            fail_at = n;
            c.tolerance_ppm = tolerance[w];
            r = rmi_chn_solve(&arena, &c, &t);
            CHECK((r == RM_OK) == (t != NULL));
            if (r == RM_OK) r = rmi_chn_schedule(&arena, t, t->curve.at[0].bytes, &acts, &n_acts);
            CHECK(r == RM_OK || (r == RM_ERROR_MEMORY && !acts));
            rmi_arena_free(&arena);
            CHECK(alive_blocks == 0);
            if (r == RM_OK) CHECK(fail_at > 0);
        }
}

int main(int argc, char **argv)
{
    uint32_t rounds = argc > 1 ? (uint32_t)atoi(argv[1]) : (uint32_t)tm_amount(200, 1500);
    oracle(rounds); checks++;
    long_runs(); checks++;
    approximations(rounds / 20); checks++;
    sharing(rounds / 10); checks++;
    extremes(); checks++;
    long_chain(); checks++;
    automatic(); checks++;
    few_with_many(); checks++;
    out_of_memory(); checks++;
    printf("%u passed, 0 failed, 0 skipped\n", checks);
    return 0;
}
