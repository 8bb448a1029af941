/* Random schedules of random graphs: runs repeated, read values that arrive by copies, other modes and homes. >>cost must tell
   the referee's time and live bytes of each to the ns and byte; and with addresses in a limited memory, where copies wait for
   bytes, a time that the program keeps. The same on graphs in tests/data/regress on which it was another time.
   test_cost [GRAPHS [FIRST SEED]], or test_cost GRAPH.rmg STEP_KIND FIRST_SEED SCHEDULES */
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"
#include "../common.h"
#include "../placed.h"
#include "randgraph.h"
#include <stdio.h>

static unsigned passed, failed, exact, copies, lasting, repeats, waited, late, unfit;
static unsigned spaced; /* with addresses, an eighth slower than told: others got the workspace of a run on the comm lane */

static void expect(int ok, unsigned long seed, const char *what, const char *detail)
{
    if (ok) passed++;
    else failed++;
    if (!ok && failed < 20) printf("seed %lu: %s: %s\n", seed, what, detail);
}

static uint32_t dice(uint64_t *random, uint32_t n) { return (uint32_t)(((*random = rmi_mix(*random)) >> 32) * n >> 32); }

/* One random change of schedule `h`, which may be none, or illegal. */
static void change(const rmi_cost *c, uint64_t *random, rmi_schedule *h)
{
    const rmi_step *s = c->step;
    uint32_t p = dice(random, h->n), what = dice(random, 8), k, o;
    const rmi_step_access *a = rmi_step_access_of(s, h->events[p].task, h->mode);
    if (what < 3 && a->reads.n) h->events[p].copied ^= (uint64_t)1 << dice(random, a->reads.n < 64 ? a->reads.n : 64);
    else if (what < 6 && a->reads.n && h->n < c->cap_events) {
        uint32_t maker = s->buffers[s->pool[a->reads.at + dice(random, a->reads.n)]].maker;
        if (maker == RMI_NONE || s->tasks[maker].once || s->graph->ops[maker].view != RMI_NONE) return;
        memmove(h->events + p + 1, h->events + p, (h->n - p) * sizeof *h->events);
        h->events[p].task = maker;
        h->events[p].copied = 0;
        h->n++;
    } else if (what == 6 && s->choosing.n) {
        o = s->choosing.at[dice(random, s->choosing.n)];
        h->mode[o] = (uint8_t)dice(random, s->ops[o].n_modes);
    } else if (what == 7 && s->n_params) {
        o = dice(random, s->n_params);
        k = dice(random, RMI_HOMES);
        if (s->params[o].allowed >> k & 1) h->home[o] = (uint8_t)k;
    }
}

static void copy_schedule(const rmi_step *s, const rmi_schedule *from, rmi_schedule *to)
{
    memcpy(to->events, from->events, from->n * sizeof *from->events);
    memcpy(to->mode, from->mode, s->graph->n_ops);
    memcpy(to->home, from->home, s->n_params);
    to->n = from->n;
}

static void tell(const rm_graph *g, const rmi_seq_list *list)
{
    static const char *const ways[] = {"fwd", "bwd", "opt", "opt@host", "reduce", "barrier", "out", "in", "merge", "drop", "hold"};
    char name[300];
    size_t i;
    for (i = 0; i < list->n_homes + list->n_late; i++)
        printf("home %u %s until %u\n", list->homes[i].host, rmi_sch_name(g, list->homes[i].buf, name), list->homes[i].until);
    for (i = 0; i < list->n; i++) {
        rmi_run r = list->runs[i];
        printf("%s %s form %u\n", ways[r.way], r.way >= RMI_COPY_OUT ? rmi_sch_name(g, r.id, name) : r.way <= RMI_BWD ? g->ops[r.id].name : r.way == RMI_BARRIER ? "-" : g->tensors[r.id].name, r.form);
    }
}

/* Has some op on the comm lane a workspace? It is freed behind its run, as others are, and who gets the bytes waits for that run. */
static int comm_workspace(const rm_graph *g)
{
    uint32_t i, k, part;
    for (i = 0; i < g->n_ops; i++)
        for (k = 0; k < g->ops[i].n_forms && g->ops[i].flags & RM_COMM; k++) {
            const rmi_form *f = &g->ops[i].forms[k];
            if (f->fwd_ws | f->saving_ws) return 1;
            for (part = 0; part < f->n_parts; part++)
                if (f->parts[part].bwd_ws) return 1;
        }
    return 0;
}

/* The program of a schedule that has just been evaluated: with addresses, or each buffer in bytes of its own. */
static void judge(unsigned long seed, rm_graph *g, rmi_cost *c, const rmi_schedule *h, rmi_costs *x, int addresses, int told)
{
    rmi_arena tmp = rmi_arena_make(NULL);
    rmi_seq_list list;
    rmi_program program;
    rmi_seq q;
    int wraps = 0, inexact = 0;
    char text[200];
    uint32_t i;
    uint64_t peak = x->peak, ns = x->step_ns;
    rm_result r = rmi_event_write(&tmp, c, h, x, 1, &list);
    memset(&program, 0, sizeof program);
    sequence_of(&q, g, &tmp);
    q.step = program.step = c->step->kind;
    q.runs = list.runs;
    q.n = (uint32_t)list.n;
    q.homes = list.homes;
    q.n_homes = list.n_homes + list.n_late;
    if (told) tell(g, &list);
    if (r == RM_OK) r = rmi_seq_build(&q);
    expect(r == RM_OK, seed, "the list is a sequence", rm_result_name(r));
    if (r == RM_OK && addresses) r = placed(&q, &tmp, c->step->granule, 0, 1, &program);
    else if (r == RM_OK) {
        uint64_t top = 0;
        for (i = 0; i < q.n_homes; i++) top += rmi_low_bytes(g, q.homes[i].buf) + q.homes[i].offset;
        rmi_plan_spread(&q, rmi_round_up(top, 4096), &program);
    }
    if (r == RM_OK) r = placed_kept(&q, &tmp, c->step->granule, &program);
    program.st = q.st;
    program.n = q.n_st;
    program.homes = list.homes;
    program.n_homes = list.n_homes;
    if (r == RM_OK) r = rmi_sch_check(g, &program, &g->last, NULL);
    expect(r == RM_OK, seed, "the program is legal", r == RM_ERROR_PLAN ? g->last.text : rm_result_name(r));
    if (r == RM_OK) {
        sprintf(text, "%llu ns, %llu bytes; the referee says %llu, %llu", (unsigned long long)ns, (unsigned long long)peak,
                (unsigned long long)program.fig.time_ns, (unsigned long long)program.fig.live_bytes);
        for (i = 0; i < x->n_ins; i++) { /* a copy that is not made, of bytes in a larger stretch: what is told is that of the copy */
            const rmi_life *l = &x->lives[x->ins[i].life];
            if (x->ins[i].stays && l->previous != RMI_NONE && c->stretches[x->lives[l->previous].stretch].room > l->room) inexact = 1;
        }
        for (i = 0; i < x->n_outs; i++) wraps |= x->outs[i].wraps && !x->outs[i].stays;
        wraps |= c->comms; /* nor what a run on the comm lane may still use when a list cannot say so */
        /* what the step before still copies out is not alive to the referee */
        expect(inexact || wraps ? inexact || program.fig.live_bytes <= peak : program.fig.live_bytes == peak, seed, "live bytes", text);
        /* addresses that cross the step's edge may cost a little */
        /* a run on the comm lane is told as if it waited for all that the compute lane was given before it, at the step's end, too */
        if (addresses && comm_workspace(g)) spaced += (unsigned)(program.fig.time_ns > ns + ns / 8);
        else expect(addresses ? program.fig.time_ns <= ns + ns / 8 : c->comms ? program.fig.time_ns <= ns : program.fig.time_ns == ns, seed, addresses ? "time, placed" : "time", text);
        late += (unsigned)(addresses && program.fig.time_ns > ns);
        exact += (unsigned)!addresses;
        waited += (unsigned)addresses;
        for (i = 0; i < x->n_ins; i++) copies += !x->ins[i].stays;
        for (i = 0; i < x->n_ins; i++) lasting += x->ins[i].edge && !x->ins[i].stays;
        repeats += (unsigned)(program.fig.recomputed_runs != 0);
    }
    rmi_arena_free(&tmp);
}

/* Six schedules of a graph, each more random than the one before. */
static void try_graph(unsigned long seed, const tm_text *text, uint32_t kind, int moves, int told)
{
    rmi_arena mem = rmi_arena_make(NULL);
    rm_graph *g = NULL;
    rmi_step s;
    rmi_cost c;
    rmi_costs x;
    rmi_schedule h, kept;
    uint64_t random = seed, least = 0;
    int turn, k;
    if (rm_graph_read(text->s, text->n, NULL, &g) || rmi_step_make(&mem, g, kind, 1, moves != 0, &s) ||
        rmi_cost_make(&mem, &s, 4, &c) || rmi_cost_make_costs(&mem, &c, &x) || rmi_cost_make_schedule(&mem, &c, &h) ||
        rmi_cost_make_schedule(&mem, &c, &kept)) {
        expect(0, seed, "the graph", g ? rm_graph_error(g) : "-");
        return;
    }
    rmi_cost_keep_all(&s, &h);
    unfit += s.unfit != 0;
    expect(s.unfit || rmi_cost_eval(&c, &h, &x), seed, "everything once", "is not legal");
    for (turn = 0; turn < 6 && !s.unfit; turn++) {
        c.limit = RMI_INF;
        c.held = 0;
        for (k = 0; k < 4 * turn; k++) {
            copy_schedule(&s, &h, &kept);
            change(&c, &random, &h);
            if (!rmi_cost_eval(&c, &h, &x)) copy_schedule(&s, &kept, &h);
        }
        if (!rmi_cost_eval(&c, &h, &x)) break;
        least = x.peak;
        judge(seed, g, &c, &h, &x, 0, told);
        if (!s.moves) continue;
        c.limit = least - least / 64;
        c.held = 1;
        if (rmi_cost_eval(&c, &h, &x)) judge(seed, g, &c, &h, &x, 1, told);
    }
    rm_graph_destroy(g);
    rmi_arena_free(&mem);
}

/* Random schedules of a graph in a file, with copies. */
static void try_file(const char *path, uint32_t kind, unsigned long first, unsigned long schedules)
{
    tm_text text;
    unsigned long i;
    memset(&text, 0, sizeof text);
    if (!tm_read(path, &text)) expect(0, 0, path, "cannot be read");
    for (i = first; text.s && i < first + schedules; i++) try_graph(i, &text, kind, 1, 0);
    tm_clear(&text);
}

static void try_random(unsigned long seed, uint32_t kind, int told)
{
    rg_text t;
    tm_text text;
    memset(&t, 0, sizeof t);
    memset(&text, 0, sizeof text);
    rg_ask_more(seed);
    rg_generate(&t, seed, (int)(4 + seed % 30), (seed % 3 ? (uint32_t)rmi_mix(seed) : RG_ALL) | RG_LINK);
    tm_sink(&text, t.data, t.size);
    if (told) puts(text.s);
    try_graph(seed, &text, kind, (int)(seed % 4), told);
    rg_free(&t);
    tm_clear(&text);
}

/* Bytes that are the caller's tell nothing of who writes them: a schedule in which their reader runs first was taken for legal,
   and the plan ended as RM_ERROR_INTERNAL. */
static void before_its_maker(void)
{
    static const char text[] = "rockmate graph 1\ntensor w param 64\nop first in=w out=a:64 fwd=10 external\nop second in=a out=b:64 fwd=10 bwd=20\n";
    rmi_arena mem = rmi_arena_make(NULL);
    rm_graph *g = NULL;
    rmi_step s;
    rmi_cost c;
    rmi_costs x;
    rmi_schedule h;
    if (rm_graph_read(text, sizeof text - 1, NULL, &g) || rmi_step_make(&mem, g, RM_SINGLE, 1, 0, &s) || rmi_cost_make(&mem, &s, 4, &c) ||
        rmi_cost_make_costs(&mem, &c, &x) || rmi_cost_make_schedule(&mem, &c, &h)) {
        expect(0, 0, "the graph of before_its_maker", g ? rm_graph_error(g) : "-");
        return;
    }
    rmi_cost_keep_all(&s, &h);
    expect(rmi_cost_eval(&c, &h, &x), 0, "everything once", "is not legal");
    h.events[0].task = 1;
    h.events[1].task = 0;
    expect(!rmi_cost_eval(&c, &h, &x), 0, "second before first", "is legal");
    rm_graph_destroy(g);
    rmi_arena_free(&mem);
}

/* Nothing of a forward step reads the targets, which are there when it begins. */
static void unread_input(void)
{
    static const char unread[] = "rockmate graph 1\nlink h2d=1000000000 d2h=1000000000\ntensor x input 64\ntensor targets input 1000\nop a in=x out=y:64 fwd=10 bwd=10\noutput y\n";
    tm_text text;
    memset(&text, 0, sizeof text);
    tm_sink(&text, unread, sizeof unread - 1);
    try_graph(1, &text, RM_FORWARD, 1, 0);
    tm_clear(&text);
}

int main(int argc, char **argv)
{
    static const uint32_t kinds[] = {RM_SINGLE, RM_FIRST, RM_SINGLE, RM_LAST, RM_SINGLE, RM_MIDDLE, RM_FORWARD};
    static const struct { const char *name; uint32_t kind; unsigned long first, schedules; } known[] = {
        {"late_reduction", RM_SINGLE, 1, 20}, {"late_external", RM_SINGLE, 1, 20}, {"late_copy", RM_SINGLE, 1, 30},
        {"early_reduction", RM_SINGLE, 1, 20}, {"joined_copy", RM_MIDDLE, 1629, 1}, {"weight_in_use", RM_FORWARD, 5102, 1},
        {"input_twice", RM_FORWARD, 454, 1}, {"other_name", RM_SINGLE, 2086, 10},
    };
    unsigned long graphs = argc > 1 ? strtoul(argv[1], NULL, 10) : tm_amount(100, 1000), seed = argc > 2 ? strtoul(argv[2], NULL, 10) : 1, i;
    if (argc > 4) try_file(argv[1], (uint32_t)atoi(argv[2]), strtoul(argv[3], NULL, 10), strtoul(argv[4], NULL, 10));
    for (i = seed; i < seed + graphs && argc <= 4 && tm_more(i - seed); i++) try_random(i, kinds[i % 7], graphs == 1);
    before_its_maker();
    unread_input();
    if (argc <= 4) try_random(7113, kinds[7113 % 7], 0); /* a gradient of the step before that is over in the event that writes its bytes */
    for (i = 0; i < RMI_COUNT(known) && argc <= 4; i++) {
        char path[200];
        snprintf(path, sizeof path, "tests/data/regress/cost_%s.rmg", known[i].name);
        try_file(path, known[i].kind, known[i].first, known[i].schedules);
    }
    printf("%u exact, %u placed (%u of them slower than told), with %u copies, %u of them of what lasts, %u with repeats; %u graphs are none for >>step\n", exact, waited, late, copies, lasting, repeats,
           unfit);
    printf("%u where a run on the comm lane has a workspace that others get meanwhile\n", spaced);
    printf("%u passed, %u failed, 0 skipped\n", passed, failed);
    return failed != 0;
}
