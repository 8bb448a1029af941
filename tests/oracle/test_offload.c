/* Plans with copies against an exhaustive search: on small random chains every choice of keep, recompute and offload for every
   value becomes a program with addresses, on chains of up to 5 ops in every timing of its copies as well; preset offmate must be as
   fast as the fastest that fits in at least 99 of 100. Then
   what offmate must be besides: never slower than the plain presets, the same addresses for what persists in programs planned
   apart, errors that say what to change. test_offload [CHAINS [FIRST SEED]] */
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"
#include "../common.h"
#include "../placed.h"
#include <stdio.h>

static unsigned passed, failed, equal, worse, better, timings, improved;
static uint64_t tries;
static void expect(int ok, const char *what, const char *detail)
{
    if (ok) passed++;
    else failed++;
    if (!ok) printf("%s: %s\n", what, detail);
}

static unsigned draw(uint64_t *r, unsigned n) { return (unsigned)((*r = rmi_mix(*r)) >> 33) % n; }

/* A chain of n ops: sizes 1 ... 4 times 4096, times 1 ... 9 thousand, weights on some. */
static rm_graph *chain(uint64_t seed, uint32_t n)
{
    char text[8192];
    size_t at = 0;
    uint32_t i;
    rm_graph *g = NULL;
    uint64_t r = seed;
    at += (size_t)sprintf(text + at, "rockmate graph 1\nlink h2d=%u000000 d2h=%u000000\n", 500 + 250 * draw(&r, 8), 500 + 250 * draw(&r, 8));
    at += (size_t)sprintf(text + at, "tensor x input 4096\n");
    for (i = 0; i < n; i++) {
        static const char *const needs[] = {"in", "out", "both"};
        const char *what = needs[draw(&r, 3)];
        char in[16], out[16];
        sprintf(in, i ? "a%u" : "x", i - 1);
        sprintf(out, "a%u", i);
        at += (size_t)sprintf(text + at, "tensor w%u param 256\n", i);
        at += (size_t)sprintf(text + at, "op f%u in=%s,w%u out=%s:%u needs=%s%s%s fwd=%u000 bwd=%u000\n", i, in, i, out, i + 1 < n ? 4096 * (1 + draw(&r, 4)) : 256,
                              what[0] == 'o' ? "" : in, what[0] == 'b' ? "," : "", what[0] == 'i' ? "" : out, 1 + draw(&r, 9), 1 + draw(&r, 9));
    }
    sprintf(text + at, "output a%u\n", n - 1);
    if (rm_graph_read(text, strlen(text), NULL, &g)) {
        expect(0, "the chain", rm_graph_error(g));
        rm_graph_destroy(g);
        return NULL;
    }
    return g;
}

/* The values that may be kept, moved or made again; returns how many choices that makes. */
static uint64_t choices(const rm_graph *g, uint32_t values[12], uint32_t *n)
{
    uint64_t all = 1;
    uint32_t i;
    for (i = 0, *n = 0; i < g->n_tensors && *n < 12; i++)
        if (g->tensors[i].kind == RMI_ACT && !g->tensors[i].is_output) values[(*n)++] = i, all *= 3;
    return all;
}

static void choose(rmi_off_model *m, const uint32_t *values, uint32_t n, uint64_t code)
{
    uint32_t i;
    for (i = 0; i < n; i++, code /= 3) m->mode[values[i]] = (uint8_t)(code % 3);
    rmi_off_derive(m);
    rmi_off_eval(m, RMI_INF);
}

/* The fastest program within the budget of all 3^values choices; RMI_INF: none. */
static uint64_t exhaust(rm_graph *g, uint64_t budget)
{
    rmi_arena mem = rmi_arena_make(NULL);
    rmi_seq q;
    rmi_off_model m;
    uint32_t values[16], n;
    uint64_t best = RMI_INF, code, all;
    if (sequence_of(&q, g, &mem) || rmi_off_make(&mem, g, RM_SINGLE, 256, 100, &m)) return 0;
    all = choices(g, values, &n);
    for (code = 0; code < all; code++) {
        rmi_arena tmp = rmi_arena_make(NULL);
        rmi_seq_list list;
        rmi_program p;
        rm_result r;
        memset(&list, 0, sizeof list);
        memset(&p, 0, sizeof p);
        choose(&m, values, n, code);
        r = rmi_off_emit(&m, &tmp, &list);
        if (r == RM_OK) r = rmi_off_homes(&m, &tmp, &list);
        q.mem = q.lives = &tmp, q.step = RM_SINGLE, q.runs = list.runs, q.n = (uint32_t)list.n, q.homes = list.homes, q.n_homes = list.n_homes + list.n_late;
        if (r == RM_OK) r = rmi_seq_build(&q);
        if (r == RM_OK) r = placed(&q, &tmp, 256, budget, 0, &p);
        if (r == RM_OK) r = placed_kept(&q, &tmp, 256, &p);
        p.step = RM_SINGLE, p.st = q.st, p.n = q.n_st, p.homes = list.homes, p.n_homes = list.n_homes;
        if (r == RM_OK && p.arena <= budget) {
            r = rmi_sch_check(g, &p, &g->last, NULL);
            if (r == RM_OK && p.fig.time_ns < best) best = p.fig.time_ns;
        }
        expect(r == RM_OK, "a choice is a program", r == RM_ERROR_PLAN ? g->last.text : rm_result_name(r));
        rmi_arena_free(&tmp);
    }
    rmi_arena_free(&mem);
    return best;
}

/* --- the same with every timing: for each value that goes out, after which run its copy is asked for, until after which run its bytes
   stay, before which run it comes back */
typedef struct trip {
    uint32_t buf, made, before, after; /* runs: makes it, reads it last before the gap, reads it first after it */
    uint32_t out, hold, in;
} trip;

typedef struct timing {
    rm_graph *g;
    rmi_off_model *m;
    rmi_seq *q;
    const rmi_seq_list *plain;
    uint64_t budget, best, tries;
    trip trips[3];
    uint32_t n;
    uint64_t shortest; /* the runs alone */
} timing;

/* One timing as a program. */
static void time_it(timing *t)
{
    rmi_arena tmp = rmi_arena_make(NULL);
    rmi_run runs[256];
    rmi_program p;
    uint32_t i, k, n = 0;
    rm_result r;
    memset(&p, 0, sizeof p);
    for (i = 0; i < t->m->n; i++) {
        for (k = 0; k < t->n; k++)
            if (t->trips[k].in == i) runs[n++] = rmi_low_run(RMI_COPY_IN, t->trips[k].buf, 0, 0);
        for (k = 0; k < t->n; k++)
            if (t->trips[k].after == i) runs[n++] = rmi_low_run(RMI_COPY_DROP, t->trips[k].buf, 0, 0);
        runs[n++] = rmi_off_run(t->m, t->m->runs[i]);
        for (k = 0; k < t->n; k++)
            if (t->trips[k].out == i) runs[n++] = rmi_low_run(RMI_COPY_OUT, t->trips[k].buf, 0, 0);
        for (k = 0; k < t->n; k++)
            if (t->trips[k].hold == i) runs[n++] = rmi_low_run(RMI_HOLD, t->trips[k].buf, 0, 0);
    }
    t->q->mem = t->q->lives = &tmp, t->q->step = RM_SINGLE, t->q->runs = runs, t->q->n = n;
    t->q->homes = t->plain->homes, t->q->n_homes = t->plain->n_homes;
    r = rmi_seq_build(t->q);
    if (r == RM_OK) r = placed(t->q, &tmp, 256, t->budget, 0, &p);
    if (r == RM_OK) r = placed_kept(t->q, &tmp, 256, &p);
    p.step = RM_SINGLE, p.st = t->q->st, p.n = t->q->n_st, p.homes = t->plain->homes, p.n_homes = t->plain->n_homes;
    if (r == RM_OK && p.arena <= t->budget) {
        r = rmi_sch_check(t->g, &p, &t->g->last, NULL);
        if (r == RM_OK && p.fig.time_ns < t->best) t->best = p.fig.time_ns;
    }
    expect(r == RM_OK, "a timing is a program", r == RM_ERROR_PLAN ? t->g->last.text : rm_result_name(r));
    t->tries++;
    rmi_arena_free(&tmp);
}

static void all_timings(timing *t, uint32_t k)
{
    trip *x = &t->trips[k];
    if (t->best <= t->shortest) return;
    if (k == t->n) {
        time_it(t);
        return;
    }
    for (x->out = x->made; x->out < x->after; x->out += t->n > 1 ? 1 : x->after) /* alone, as early as can be */
        for (x->hold = x->out > x->before ? x->out : x->before; x->hold < x->after; x->hold++)
            for (x->in = x->hold + 1; x->in <= x->after; x->in++) all_timings(t, k + 1);
}

/* The trip of value b in the model's list: its longest gap between a use in the forward and one in the backward. */
static int find_trip(const rmi_off_model *m, uint32_t b, trip *x)
{
    rmi_arena mem = rmi_arena_make(NULL);
    rmi_access acc;
    uint32_t i, k, last = RMI_NONE, used;
    uint64_t now = 0, since = 0, gap = 0;
    x->buf = b;
    x->after = 0;
    if (rmi_low_access_make(m->g, &mem, &acc) != RM_OK) return 0;
    for (i = 0; i < m->n; i++) {
        rmi_low_access(m->g, rmi_off_run(m, m->runs[i]), 0, &acc);
        for (k = used = 0; k < acc.reads.n; k++) used |= acc.reads.at[k] == b;
        for (k = 0; k < acc.writes.n && last == RMI_NONE; k++)
            if (acc.writes.at[k] == b) x->made = last = i, since = now + rmi_low_ns(m->g, rmi_off_run(m, m->runs[i]), 0, 0);
        if (used && last != RMI_NONE && now - since >= gap && i > last) x->before = last, x->after = i, gap = now - since;
        now += rmi_low_ns(m->g, rmi_off_run(m, m->runs[i]), 0, 0);
        if (used) last = i, since = now;
    }
    rmi_arena_free(&mem);
    return x->after != 0;
}

/* The fastest program within the budget of all choices with at most two copies (and three where there are few), in all timings. */
static uint64_t exhaust_timings(rm_graph *g, uint64_t budget, uint64_t best, uint64_t *tried)
{
    rmi_arena mem = rmi_arena_make(NULL);
    rmi_seq q;
    rmi_off_model m;
    uint32_t values[16], n, i;
    uint64_t code, all;
    if (sequence_of(&q, g, &mem) || rmi_off_make(&mem, g, RM_SINGLE, 256, 100, &m)) return 0;
    all = choices(g, values, &n);
    for (code = 0; code < all; code++) {
        rmi_arena tmp = rmi_arena_make(NULL);
        rmi_seq_list list;
        timing t;
        int ok = 1;
        memset(&list, 0, sizeof list);
        memset(&t, 0, sizeof t);
        t.g = g, t.m = &m, t.q = &q, t.plain = &list, t.budget = budget, t.best = best;
        choose(&m, values, n, code);
        t.shortest = m.fig.ns;
        if (rmi_off_emit(&m, &tmp, &list) != RM_OK || rmi_off_homes(&m, &tmp, &list) != RM_OK) ok = 0;
        for (i = 0; i < n && ok; i++) {
            if (m.mode[values[i]] != RMI_OFF_OUT) continue;
            if (t.n == (n < 4 ? 3u : 2u) || !find_trip(&m, values[i], &t.trips[t.n])) ok = 0;
            else t.n++;
        }
        if (ok && t.n) all_timings(&t, 0);
        best = t.best;
        *tried += t.tries;
        rmi_arena_free(&tmp);
    }
    rmi_arena_free(&mem);
    return best;
}

static rm_result make(rm_graph *g, const char *preset, uint64_t budget, uint64_t host, uint32_t steps, const rm_plan *like, rm_plan_info *info, rm_plan **p)
{
    rm_plan_desc d;
    rm_plan_info unused;
    memset(&d, 0, sizeof d);
    memset(info ? info : &unused, 0, sizeof unused);
    d.preset = preset;
    d.device_bytes = budget;
    d.host_bytes = host;
    d.steps = steps;
    d.like = like;
    d.info = info ? info : &unused;
    *p = NULL;
    return rm_plan_create(g, &d, p);
}

static void compare(uint64_t seed)
{
    rm_graph *g = chain(seed, 3 + (uint32_t)(seed % 5));
    rm_plan_info all, info;
    rm_plan *p;
    uint32_t percent;
    if (!g) return;
    make(g, "noremat", 0, 0, RM_SINGLE, NULL, &all, &p);
    rm_plan_destroy(p);
    for (percent = 45; percent <= 85; percent += 20) {
        uint64_t budget = all.keep_all_bytes / 100 * percent, best = exhaust(g, budget);
        rm_result r;
        if (g->n_ops <= 5) {
            uint64_t timed = exhaust_timings(g, budget, best, &tries);
            timings++, improved += timed < best;
            best = timed;
        }
        r = make(g, "offmate", budget, 1 << 24, RM_SINGLE, NULL, &info, &p);
        if (best == RMI_INF && r != RM_OK) continue;
        if (r == RM_OK && info.time_ns <= best) equal++, better += info.time_ns < best;
        else worse++, printf("seed %lu, %u %%: %lu instead of %lu\n", (unsigned long)seed, percent, (unsigned long)info.time_ns, (unsigned long)best);
        expect(r != RM_OK || info.time_ns >= info.bound_ns, "the bound", "above the plan");
        rm_plan_destroy(p);
    }
    rm_graph_destroy(g);
}

/* Chains whose weights, gradients and states are most of the bytes, with updates on either side: no plan is below the bound, whichever
   lane is the longest. Gaps are added up in parts of 1000. */
static unsigned bounded;
static uint64_t gaps;
static void updates(uint64_t seed)
{
    char text[8192];
    size_t at = 0;
    uint32_t i, n = 3 + (uint32_t)(seed % 4), percent;
    rm_graph *g = NULL;
    rm_plan_info all, info;
    rm_plan *p;
    rm_result res;
    uint64_t r = seed + 1000;
    at += (size_t)sprintf(text + at, "rockmate graph 1\nlink h2d=%u000000 d2h=%u000000\ntensor x input 4096\n", 500 + 500 * draw(&r, 8), 500 + 500 * draw(&r, 8));
    for (i = 0; i < n; i++) {
        char in[16], sides[64];
        sprintf(in, i ? "a%u" : "x", i - 1);
        sprintf(sides, draw(&r, 8) ? "opt=%u000 opt_host=%u000" : "opt=%u000", 1 + draw(&r, 3), 2 + draw(&r, 16));
        at += (size_t)sprintf(text + at, "tensor w%u param %u state=%u %s\n", i, 4096 * (1 + draw(&r, 4)), 4096 * draw(&r, 9), sides);
        at += (size_t)sprintf(text + at, "op f%u in=%s,w%u%s out=a%u:%u needs=%s,w%u fwd=%u000 bwd=%u000\n", i, in, i, seed % 3 == 0 && i + 1 == n ? ",w0" : "", i, i + 1 < n ? 4096 : 256, in, i, 1 + draw(&r, 9), 1 + draw(&r, 9));
    }
    if (seed % 5 == 0) at += (size_t)sprintf(text + at, "barrier clip ns=1000\n");
    sprintf(text + at, "output a%u\n", n - 1);
    if (rm_graph_read(text, strlen(text), NULL, &g)) expect(0, "the chain", rm_graph_error(g));
    make(g, "noremat", 0, 0, seed % 2 ? RM_SINGLE : RM_LAST, NULL, &all, &p);
    rm_plan_destroy(p);
    for (percent = 30; percent <= 90; percent += 20) {
        res = make(g, "offmate", all.keep_all_bytes / 100 * percent, 1 << 24, seed % 2 ? RM_SINGLE : RM_LAST, NULL, &info, &p);
        if (res == RM_OK) expect(info.time_ns >= info.bound_ns, "updates: the bound", "above the plan"), bounded++, gaps += (info.time_ns - info.bound_ns) * 1000 / info.bound_ns;
        rm_plan_destroy(p);
    }
    rm_graph_destroy(g);
}

/* A weight that is read first, complete last and updated on the host alone: the step is the computation, copy, update and copy, whatever the
   memory, less what need not come before the last gradient: the last forward. */
static void tied(void)
{
    const char *text = "rockmate graph 1\nlink h2d=1000000000 d2h=1000000000 latency=700\ntensor x input 4096\n"
                       "tensor w0 param 65536 state=131072 opt_host=30000\ntensor w1 param 8192 state=16384 opt=2000 opt_host=3000\n"
                       "op f0 in=x,w0 out=a0:4096 needs=x fwd=9000 bwd=18000\nop f1 in=a0,w1 out=a1:4096 needs=a0,w1 fwd=9000 bwd=18000\n"
                       "op f2 in=a1,w0 out=a2:256 needs=a1,w0 fwd=9000 bwd=18000\noutput a2\n";
    rm_graph *g = NULL;
    rm_plan *p;
    rm_plan_info info;
    uint64_t budget, step = 72000 + 2 * (65536 + 700) + 30000;
    if (rm_graph_read(text, strlen(text), NULL, &g)) expect(0, "the chain", rm_graph_error(g));
    for (budget = 240 << 10; budget < 100 << 20; budget *= 8) {
        expect(make(g, "offmate", budget, 1 << 24, RM_SINGLE, NULL, &info, &p) == RM_OK, "a tied weight", rm_graph_error(g));
        expect(info.bound_ns <= info.time_ns && info.bound_ns <= step && info.bound_ns + 10 > step, "a tied weight", "the bound");
        rm_plan_destroy(p);
    }
    rm_graph_destroy(g);
}

/* A copy takes a hundred times as long as the step: there is a plan all the same, with one value copied once. */
static void slow_link(void)
{
    tm_text t;
    rm_graph *g = NULL;
    rm_plan *p = NULL;
    rm_plan_info info;
    memset(&t, 0, sizeof t);
    if (!tm_read("tests/data/regress/slow_link.rmg", &t) || rm_graph_read(t.s, t.n, NULL, &g)) expect(0, "slow_link.rmg", "cannot be read");
    else expect(make(g, "offmate", 215799270, 1 << 30, RM_SINGLE, NULL, &info, &p) == RM_OK && info.time_ns < 110000000, "a slow link", rm_graph_error(g));
    rm_plan_destroy(p);
    rm_graph_destroy(g);
    tm_clear(&t);
}

/* Gradients at home in host memory leave the device whichever step of an accumulation it is. */
static void first_step(void)
{
    static const uint32_t steps[] = {RM_FIRST, RM_MIDDLE};
    const char *text = "rockmate graph 1\nlink h2d=9000000000 d2h=9000000000\ntensor x input 4096\n"
                       "tensor w0 param 65536\ntensor w1 param 65536\ntensor w2 param 65536\ntensor w3 param 65536\n"
                       "op f0 in=x,w0 out=a0 needs=x,w0 fwd=9000 bwd=18000\nop f1 in=a0,w1 out=a1 needs=a0,w1 fwd=9000 bwd=18000\n"
                       "op f2 in=a1,w2 out=a2 needs=a1,w2 fwd=9000 bwd=18000\nop f3 in=a2,w3 out=a3:256 needs=a2,w3 fwd=9000 bwd=18000\noutput a3\n";
    rm_graph *g = NULL;
    rm_plan *p;
    uint32_t i;
    if (rm_graph_read(text, strlen(text), NULL, &g)) expect(0, "the chain", rm_graph_error(g));
    for (i = 0; i < 2; i++) {
        expect(make(g, "offmate", 300000, 1 << 24, steps[i], NULL, NULL, &p) == RM_OK, "weights and gradients do not wait in host memory", rm_graph_error(g));
        rm_plan_destroy(p);
    }
    rm_graph_destroy(g);
}

/* What leaves host memory makes room there: gradients of a step whose updates run on the host are there one after the other. */
static void host_peak(void)
{
    char text[4096];
    size_t at = (size_t)sprintf(text, "rockmate graph 1\nlink h2d=9000000000 d2h=9000000000\ntensor x input 4096\n");
    uint64_t lasting = 0, grads = 0, host;
    uint32_t i;
    rm_graph *g = NULL;
    rm_plan *p = NULL;
    for (i = 0; i < 8; i++) {
        at += (size_t)sprintf(text + at, "tensor w%u param 65536 state=131072 opt_host=2000\n", i);
        lasting += 65536 + 131072, grads += 65536;
        if (i) at += (size_t)sprintf(text + at, "op f%u in=a%u,w%u out=a%u:4096 needs=a%u,w%u fwd=20000 bwd=40000\n", i, i - 1, i, i, i - 1, i);
        else at += (size_t)sprintf(text + at, "op f0 in=x,w0 out=a0:4096 needs=x,w0 fwd=20000 bwd=40000\n");
    }
    sprintf(text + at, "output a7\n");
    if (rm_graph_read(text, strlen(text), NULL, &g)) expect(0, "the chain", rm_graph_error(g));
    for (host = lasting + grads; host >= lasting + grads / 2; host -= grads / tm_amount(4, 8)) {
        expect(make(g, "offmate", 600000, host, RM_SINGLE, NULL, NULL, &p) == RM_OK, "host memory for some of the gradients at a time", rm_graph_error(g));
        if (p) expect(p->prog[0].host[0] <= host, "host memory", "more than there is");
        rm_plan_destroy(p);
    }
    rm_graph_destroy(g);
}

/* What the plain presets do, offmate does as well or better; programs planned apart agree about what persists. */
static void agree(uint64_t seed)
{
    static const char *const plain[] = {"stream", "link", "blocks", "rotor", "every-block", "hiremate"};
    rm_graph *g = chain(seed, 6);
    rm_plan_info all, info, other;
    rm_plan *p, *like;
    uint32_t i, k;
    if (!g) return;
    make(g, "noremat", 0, 0, RM_SINGLE, NULL, &all, &p);
    rm_plan_destroy(p);
    make(g, "offmate", all.keep_all_bytes * 2 / 3, 1 << 24, RM_SINGLE, NULL, &info, &p);
    rm_plan_destroy(p);
    for (i = 0; i < RMI_COUNT(plain); i++) {
        if (make(g, plain[i], all.keep_all_bytes * 2 / 3, 1 << 24, RM_SINGLE, NULL, &other, &p) == RM_OK) expect(info.time_ns && info.time_ns <= other.time_ns, "slower than", plain[i]);
        rm_plan_destroy(p);
    }
    expect(make(g, "offmate", all.keep_all_bytes, 1 << 24, RM_LAST, NULL, NULL, &like) == RM_OK, "last", rm_graph_error(g));
    if (like && make(g, "offmate", 2 * all.keep_all_bytes, 1 << 24, RM_FIRST | RM_MIDDLE | RM_FORWARD, like, NULL, &p) == RM_OK) {
        for (k = 0; k < p->n; k++)
            for (i = 0; i < p->prog[k].n_homes; i++) {
                size_t j;
                const rmi_home *h = &p->prog[k].homes[i];
                for (j = 0; j < like->prog[0].n_homes && (like->prog[0].homes[j].buf != h->buf || like->prog[0].homes[j].host != h->host);) j++;
                expect(j < like->prog[0].n_homes && like->prog[0].homes[j].offset == h->offset, "like", "something that persists is elsewhere");
            }
        rm_plan_destroy(p);
    } else expect(0, "a plan like another", rm_graph_error(g));
    rm_plan_destroy(like);
    rm_graph_destroy(g);
}

/* What keeping everything takes is the same whatever moves, also for the kinds of step that find weights and gradients where another
   kind has put them; and the summary says where all is. */
static int keep_text(void *user, const char *text, size_t n)
{
    char *to = (char *)user;
    size_t at = strlen(to);
    if (at + n > 8000) return 0;
    memcpy(to + at, text, n);
    to[at + n] = 0;
    return 0;
}
static void yardsticks(uint64_t seed)
{
    static const uint32_t steps[] = {RM_FIRST, RM_MIDDLE, RM_LAST};
    rm_graph *g = chain(seed, 6);
    rm_plan_info all[3], info;
    rm_plan *p, *like;
    char text[9000];
    uint32_t i, host = 0;
    if (!g) return;
    for (i = 0; i < 3; i++) {
        expect(make(g, "noremat", 0, 0, steps[i], NULL, &all[i], &p) == RM_OK, "all kept", rm_graph_error(g));
        rm_plan_destroy(p);
    }
    if (make(g, "offmate", all[2].keep_all_bytes / 2, 1 << 24, RM_LAST, NULL, NULL, &like) == RM_OK && make(g, "offmate", all[2].keep_all_bytes / 2, 1 << 24, RM_FIRST, like, &info, &p) == RM_OK) expect(info.keep_all_bytes == all[0].keep_all_bytes && info.keep_all_ns == all[0].keep_all_ns, "like another", "another yardstick");
    if (like) rm_plan_destroy(p);
    rm_plan_destroy(like);
    if (make(g, "offmate", all[2].keep_all_bytes / 2, 1 << 24, RM_FIRST | RM_MIDDLE | RM_LAST, NULL, NULL, &p) == RM_OK) {
        for (i = 0; i < 3; i++) {
            expect(rm_plan_get_info(p, steps[i], &info) == RM_OK && info.keep_all_bytes == all[i].keep_all_bytes && info.keep_all_ns == all[i].keep_all_ns, "several kinds", "another yardstick");
            host += info.host_bytes != 0;
        }
        text[0] = 0;
        expect(rm_plan_summary(p, keep_text, text) == RM_OK && (!host || (strstr(text, "\n  host       ") && strstr(text, "\n  copies     "))), "the summary", text);
        rm_plan_destroy(p);
    }
    rm_graph_destroy(g);
}

/* With copies, too, more memory is never slower once a graph has been planned in less, and host memory that is not there is not used. */
static void more_memory(uint64_t seed)
{
    rm_graph *g = chain(seed, 7);
    rm_plan_info all, info, none;
    rm_plan *p;
    uint64_t last = RMI_INF, percent;
    if (!g) return;
    make(g, "noremat", 0, 0, RM_SINGLE, NULL, &all, &p);
    rm_plan_destroy(p);
    for (percent = 40; percent <= 90; percent += tm_amount(25, 5)) {
        if (make(g, "offmate", all.keep_all_bytes / 100 * percent, 1 << 24, RM_SINGLE, NULL, &info, &p) == RM_OK) {
            expect(info.time_ns <= last, "more memory", "is slower");
            last = info.time_ns;
        }
        rm_plan_destroy(p);
        if (make(g, "offmate", all.keep_all_bytes / 100 * percent, 4096, RM_SINGLE, NULL, &none, &p) == RM_OK) expect(p->prog[0].host[0] <= 4096, "a known plan", "takes more host memory than there is");
        rm_plan_destroy(p);
    }
    rm_graph_destroy(g);
}

static void refuses(const char *text, uint64_t budget, uint64_t host, const char *preset, rm_result want, const char *said)
{
    rm_graph *g = NULL;
    rm_plan *p = NULL;
    rm_result r = rm_graph_read(text, strlen(text), NULL, &g);
    if (r == RM_OK) r = make(g, preset, budget, host, RM_SINGLE, NULL, NULL, &p);
    expect(r == want && strstr(rm_graph_error(g), said), said, rm_graph_error(g));
    rm_plan_destroy(p);
    rm_graph_destroy(g);
}

/* What cannot be, in words that say what to change. */
#define HEAD "rockmate graph 1\n"
#define LINK "link h2d=1000000000 d2h=1000000000\n"
#define NET(w) "tensor x input 64\ntensor w param 6400 " w "\nop f in=x,w out=y:4 fwd=1000 bwd=1000\noutput y\n"
static void refusals(void)
{
    rm_graph *g;
    refuses(HEAD NET("opt_host=5"), 3000, 1 << 20, "offmate", RM_ERROR_ARGUMENT, "declare the link that takes it there (rm_graph_link)");
    refuses(HEAD LINK NET("opt_host=5"), 3000, 0, "offmate", RM_ERROR_ARGUMENT, "set rm_plan_desc.host_bytes");
    refuses(HEAD LINK NET("opt_host=5 stays"), 30000, 1 << 20, "offmate", RM_ERROR_ARGUMENT, "drop RM_STAYS");
    refuses(HEAD LINK NET("opt_host=5 external"), 30000, 1 << 20, "offmate", RM_ERROR_ARGUMENT, "drop RM_EXTERNAL");
    refuses(HEAD LINK NET("opt_host=5 state=8000"), 30000, 500, "offmate", RM_ERROR_INFEASIBLE, "Set rm_plan_desc.host_bytes to more");
    refuses(HEAD LINK NET("opt=5 state=8000 stays"), 10000, 1 << 20, "offmate", RM_ERROR_INFEASIBLE, "let weights move (RM_STAYS");
    refuses(HEAD LINK NET("opt=5 state=8000"), 10000, 0, "rotor", RM_ERROR_INFEASIBLE, "or let weights wait in host memory (rm_plan_desc.host_bytes)");
    refuses(HEAD LINK NET("opt=5 state=8000"), 10000, 500, "offmate", RM_ERROR_INFEASIBLE, "or more host memory (rm_plan_desc.host_bytes), which has no room for all weights and states: 14400 bytes");
    refuses(HEAD LINK NET("opt=5 state=8000"), 10000, 1 << 20, "link", RM_ERROR_INFEASIBLE, "take preset 'offmate'");
    refuses(HEAD NET("opt=5 state=8000"), 10000, 0, "rotor", RM_ERROR_INFEASIBLE, "or let weights and states, which take most of it, wait in host memory (rm_plan_desc.host_bytes, rm_graph_link)");
    refuses(HEAD "tensor x input 64\ntensor w param 64\nop f in=x,w out=y:40000 fwd=1 bwd=1\noutput y\n", 10000, 0, "rotor", RM_ERROR_INFEASIBLE, "or make the largest op smaller (f)");
    refuses(HEAD NET("opt=5 state=8000"), 10000, 1 << 20, NULL, RM_ERROR_INFEASIBLE, "or declare the link to host memory (rm_graph_link), without which rm_plan_desc.host_bytes is not used");
    refuses(HEAD "link h2d=0 d2h=1\n", 3000, 1 << 20, "offmate", RM_ERROR_TEXT, "'h2d=' above zero");
    g = rm_graph_create(NULL);
    rm_graph_link(g, 1, 0, 0, 0);
    expect(rm_graph_result(g) != RM_OK && strstr(rm_graph_error(g), "d2h is 0; give bytes a second"), "a link of zero", rm_graph_error(g));
    rm_graph_destroy(g);
}

static int sink(void *user, const char *s, size_t n)
{
    char *to = (char *)user;
    size_t at = strlen(to);
    if (at + n + 1 > 1 << 18) return 1;
    memcpy(to + at, s, n);
    to[at + n] = 0;
    return 0;
}

/* What was declared to stay is copied by no plan, and a plan that does so is refused; the word survives being written and read. */
static void stays(uint64_t seed)
{
    static char text[1 << 18], again[1 << 18];
    rm_graph *plain = chain(seed, 6), *g = NULL, *h = NULL;
    rm_plan *p = NULL, *q = NULL;
    rm_plan_info all;
    uint32_t percent, i, k, id, moved = 0;
    char *at;
    if (!plain) return;
    text[0] = again[0] = 0;
    for (i = 0; i < plain->n_tensors; i++) plain->tensors[i].stays = i % 2;
    for (i = 0; i < plain->n_ops; i++) /* as the builder has it: what an op makes stays or moves as a whole */
        if (plain->tensors[plain->ops[i].out.at[0]].stays) plain->ops[i].flags |= RM_STAYS;
    rm_graph_write(plain, sink, text);
    if (rm_graph_read(text, strlen(text), NULL, &g)) expect(0, "stays", "cannot be read");
    rm_graph_write(g, sink, again);
    expect(strstr(text, " stays") && !strcmp(text, again), "stays", "written differently when read again");
    make(g, "noremat", 0, 0, RM_SINGLE, NULL, &all, &p);
    rm_plan_destroy(p);
    for (percent = 40; percent < 100; percent += (uint32_t)tm_amount(30, 15))
        for (k = 0; k < 4; k++) {
            static const char *const presets[] = {"offmate", "stream", "link", "blocks"};
            size_t j;
            if (make(g, presets[k], all.keep_all_bytes / 100 * percent, 1 << 24, RM_SINGLE, NULL, NULL, &p) != RM_OK) continue;
            for (j = 0; j < p->prog[0].n; j++) {
                const rmi_stmt *st = &p->prog[0].st[j];
                rmi_buf_kind kind;
                if (st->what != RMI_OFFLOAD && st->what != RMI_MERGE) continue;
                kind = rmi_low_kind(g, st->buf, &id);
                moved++;
                expect(kind == RMI_BUF_SAVED || !g->tensors[id].stays, "stays", "it was moved");
            }
            for (j = 0; j < p->prog[0].n_homes; j++) {
                rmi_low_kind(g, p->prog[0].homes[j].buf, &id);
                expect(!p->prog[0].homes[j].host || !g->tensors[id].stays, "stays", "it is at home in host memory");
            }
            rm_plan_destroy(p);
        }
    /* a plan of the graph in which everything may move is refused where something stays */
    for (i = 0; i < plain->n_tensors; i++) plain->tensors[i].stays = 0;
    for (i = 0; i < plain->n_ops; i++) plain->ops[i].flags = 0;
    rm_graph_destroy(g);
    g = NULL;
    if (make(plain, "link", 0, 1 << 24, RM_SINGLE, NULL, NULL, &p) == RM_OK) {
        text[0] = again[0] = 0;
        rm_graph_write(plain, sink, text);
        rm_plan_write(p, RM_SINGLE, sink, again);
        at = strstr(again, "graph ");
        if (at) memmove(at, strchr(at, '\n') + 1, strlen(strchr(at, '\n'))); /* the graph's hash is not what is tested here */
        if (rm_graph_read(text, strlen(text), NULL, &g) == RM_OK && strstr(again, "offload a")) {
            for (i = 0; i < g->n_tensors; i++) g->tensors[i].stays = (g->tensors[i].kind == RMI_ACT);
            expect(rm_plan_read(g, again, strlen(again), &q) != RM_OK && strstr(rm_graph_error(g), "RM_STAYS"), "a plan that moves what stays", rm_graph_error(g));
            moved++;
        }
        rm_plan_destroy(p);
    }
    rm_graph_destroy(g);
    /* another link changes times; the plan still belongs to the text */
    text[0] = again[0] = 0;
    rm_graph_write(plain, sink, text);
    at = strstr(text, "output");
    if (at && rm_graph_read(text, strlen(text), NULL, &g) == RM_OK && rm_graph_read(text, strlen(text), NULL, &h) == RM_OK) {
        rm_graph_link(g, 123456789, 987654321, 5, 0);
        expect(make(g, "offmate", all.keep_all_bytes, 1 << 24, RM_SINGLE, NULL, NULL, &p) == RM_OK, "another link", rm_graph_error(g));
        rm_plan_write(p, RM_SINGLE, sink, again);
        expect(rm_plan_read(h, again, strlen(again), &q) == RM_OK, "a plan for another link", rm_graph_error(h));
        rm_plan_destroy(q);
        rm_plan_destroy(p);
        rm_graph_destroy(h);
    }
    rm_graph_destroy(g);
    rm_graph_destroy(plain);
    expect(moved > 0, "stays", "nothing moved: the test shows nothing");
}

int main(int argc, char **argv)
{
    unsigned long chains = argc > 1 ? strtoul(argv[1], NULL, 10) : tm_amount(1, 5), seed = argc > 2 ? strtoul(argv[2], NULL, 10) : 1, i;
    for (i = seed; i < seed + chains && tm_more(i - seed); i++) compare(i);
    compare(55); /* the only or the fastest plan waits for a copy */
    if (tm_amount(0, 1)) compare(171), compare(236), compare(290);
    for (i = seed; i < seed + chains && i < seed + 8 && tm_more(i - seed + 1); i++) agree(i);
    for (i = seed; i < seed + chains && i < seed + 4 && tm_more(i - seed + 1); i++) yardsticks(i);
    for (i = seed; i < seed + chains && i < seed + 3 && tm_more(i - seed + 1); i++) more_memory(i);
    for (i = seed; i < seed + chains && tm_more(i - seed + 1); i++) updates(i);
    for (i = seed; i < seed + tm_amount(1, 3) && tm_more(i - seed + 1); i++) stays(i);
    slow_link();
    first_step();
    tied();
    host_peak();
    refusals();
    printf("updates on either side: %u plans, %lu in 1000 above the bound on average\n", bounded, (unsigned long)(gaps / (bounded + !bounded)));
    printf("%u searches over all timings of copies, %lu programs; in %u of them a timing is faster than the evaluator's\n", timings, (unsigned long)tries, improved);
    printf("%u of %u as fast as the exhaustive search, %u of them faster\n", equal, equal + worse, better);
    expect(100 * equal >= 99 * (equal + worse), "as fast as the exhaustive search", "in less than 99 of 100");
    printf("%u passed, %u failed, 0 skipped\n", passed, failed);
    return failed != 0;
}
