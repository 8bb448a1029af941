/* Random decisions (what stays, moves, runs again; where weights, gradients and states are at home; which updates run on the
   host) for random graphs: the list with its copies becomes a program that all referees call legal, with the same figures, and
   whose start is its end. test_copies [GRAPHS [FIRST SEED]] */
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"
#include "../common.h"
#include "../placed.h"
#include "../oracle/replay.h"
#include "randgraph.h"
#include <stdio.h>

static unsigned passed, failed, plans, copies, bounds;
static void expect(int ok, unsigned long seed, const char *what, const char *detail)
{
    if (ok) passed++;
    else failed++;
    if (!ok && failed < 20) printf("seed %lu: %s: %s\n", seed, what, detail);
}

static void decide(rmi_off_model *m, uint64_t *rng)
{
    const rm_graph *g = m->g;
    uint32_t b, i, stay = (uint32_t)((*rng = rmi_mix(*rng)) >> 33) % 3;
    for (b = 0; b < 3 * g->n_tensors + g->n_ops; b++) {
        rmi_buf_kind kind = rmi_low_kind(g, b, &i);
        uint32_t dice = (uint32_t)((*rng = rmi_mix(*rng)) >> 33) % 12;
        int value = kind == RMI_BUF_SAVED || (kind == RMI_BUF_VALUE && g->tensors[i].kind != RMI_PARAM && g->tensors[i].kind != RMI_CONST);
        m->mode[b] = 0;
        if (m->table.fixed[b] == 2 || (m->table.root[b] != b) || dice < 4 * stay) continue;
        if (value) {
            m->mode[b] = (uint8_t)(dice % 3);
            if (m->mode[b] == RMI_OFF_AGAIN && (m->table.fixed[b] || (kind == RMI_BUF_VALUE && g->tensors[i].kind != RMI_ACT))) m->mode[b] = RMI_OFF_OUT;
        } else if (g->tensors[i].kind == RMI_PARAM) m->mode[b] = (uint8_t)(kind == RMI_BUF_VALUE ? dice % 4 : dice % 2);
        if (kind == RMI_BUF_VALUE && g->tensors[i].kind == RMI_PARAM && g->tensors[i].opt_host != RMI_INF && g->tensors[i].updates && rmi_low_has_update(m->model.kind)) m->host_update[i] = g->tensors[i].opt == RMI_INF || dice % 3 == 0;
    }
    rmi_off_settle(m);
}

static int told;
static void tell(const rm_graph *g, const rmi_seq_list *list)
{
    static const char *const ways[] = {"fwd", "bwd", "opt", "opt@host", "reduce", "barrier", "out", "in", "merge", "drop", "hold"};
    char name[300];
    size_t i;
    for (i = 0; i < list->n_homes; i++) printf("%s %s %llu\n", list->homes[i].host ? "home" : "resident", rmi_sch_name(g, list->homes[i].buf, name), (unsigned long long)list->homes[i].offset);
    for (i = 0; i < list->n; i++) {
        rmi_run r = list->runs[i];
        printf("%s %s\n", ways[r.way], r.way >= RMI_COPY_OUT ? rmi_sch_name(g, r.id, name) : r.way <= RMI_BWD ? g->ops[r.id].name : r.way == RMI_BARRIER ? "-" : g->tensors[r.id].name);
    }
}

static void judge(unsigned long seed, rm_graph *g, const rg_text *t, uint32_t step, rmi_seq *q, rmi_off_model *m)
{
    rmi_arena tmp = rmi_arena_make(NULL);
    rmi_seq_list list;
    rmi_program prog;
    rmtest_result r;
    rmi_step model;
    rmi_bnd_ask ask = {0, 2000000, 0, RMI_INF};
    uint64_t bound = 0;
    rm_plan *p = rmi_plan_new(g);
    tm_text b = {0};
    rm_result result;
    memset(&list, 0, sizeof list);
    memset(&prog, 0, sizeof prog);
    result = rmi_off_emit(m, &tmp, &list);
    if (result == RM_OK) result = rmi_off_homes(m, &tmp, &list);
    q->mem = q->lives = &tmp;
    q->step = step;
    q->runs = list.runs;
    q->n = (uint32_t)list.n;
    q->homes = list.homes;
    q->n_homes = list.n_homes + list.n_late;
    rmi_err_clear(&g->last);
    if (result == RM_OK) result = rmi_seq_build(q);
    if (result == RM_OK) result = placed(q, &tmp, 256, 0, 1, &prog);
    if (result == RM_OK) result = placed_kept(q, &tmp, 256, &prog);
    prog.step = step;
    prog.st = q->st;
    prog.n = q->n_st;
    prog.homes = list.homes;
    prog.n_homes = list.n_homes;
    if (result == RM_OK) result = rmi_sch_check(g, &prog, &g->last, NULL);
    if (result != RM_OK && told) {
        tell(g, &list);
        if (result == RM_ERROR_PLAN) {
            p->prog[0] = prog;
            p->n = 1;
            p->info[0].step = step;
            rm_plan_write(p, step, tm_sink, &b);
            puts(b.s);
            p->n = 0;
        }
    }
    expect(result == RM_OK, seed, "the list is a program", result == RM_ERROR_PLAN ? g->last.text : rm_result_name(result));
    if (result == RM_OK) {
        uint32_t i;
        p->prog[0] = prog;
        p->n = 1;
        p->info[0].step = step;
        rm_plan_write(p, step, tm_sink, &b);
        rmtest_replay_c(t->data, t->size, b.s, b.n, RMTEST_NO_BUDGET, RMTEST_NO_BUDGET, &r);
        expect(r.verdict == RMTEST_LEGAL, seed, "legal", r.message);
        expect(r.time_ns == prog.fig.time_ns && r.live_bytes == prog.fig.live_bytes && r.host_bytes == prog.fig.host_top[0], seed, "figures", "differ from the second referee's");
        ask.bytes = prog.fig.live_bytes;
        if (rmi_step_make(&tmp, g, step, 1, 2, &model) == RM_OK && rmi_bnd_bound(&tmp, &model, &ask, &bound) == RM_OK) {
            expect(bound <= prog.fig.time_ns, seed, "the bound", "is above the time of a legal plan");
            bounds += bound > 0;
        }
        plans++;
        for (i = 0; i < list.n; i++) copies += list.runs[i].way >= RMI_COPY_OUT && list.runs[i].way <= RMI_COPY_MERGE;
    }
    rm_plan_destroy(p);
    free(b.s);
    rmi_arena_free(&tmp);
}

int main(int argc, char **argv)
{
    static const uint32_t steps[] = {RM_SINGLE, RM_FIRST, RM_LAST, RM_MIDDLE, RM_FORWARD};
    unsigned long graphs = argc > 1 ? strtoul(argv[1], NULL, 10) : tm_amount(10, 60), seed = argc > 2 ? strtoul(argv[2], NULL, 10) : 1, i;
    int k;
    for (i = seed; i < seed + graphs && tm_more(i - seed); i++) {
        rm_graph *g = NULL;
        rg_text t;
        rmi_arena mem = rmi_arena_make(NULL);
        rmi_seq q;
        rmi_off_model m;
        uint32_t step = steps[i % 5];
        uint64_t rng = i;
        memset(&t, 0, sizeof t);
        rg_ask_more(i);
        rg_generate(&t, i, (int)(4 + i % 30), (i % 2 ? (uint32_t)rmi_mix(i) : RG_ALL) | RG_LINK);
        if (rm_graph_read(t.data, t.size, NULL, &g) || sequence_of(&q, g, &mem) || rmi_off_make(&mem, g, step, 256, 100, &m)) {
            expect(0, i, "the graph", g ? rm_graph_error(g) : "-");
        } else {
            told = graphs == 1;
            if (told) puts(t.data);
            for (k = 0; k < 9; k++) {
                decide(&m, &rng);
                rmi_off_derive(&m);
                expect(rmi_off_eval(&m, RMI_INF) != RMI_INF, i, "evaluation", "tables too small");
                judge(i, g, &t, step, &q, &m);
            }
        }
        rmi_arena_free(&mem);
        rm_graph_destroy(g);
        rg_free(&t);
    }
    printf("%u plans with %u copies, %u within a bound\n%u passed, %u failed, 0 skipped\n", plans, copies, bounds, passed, failed);
    return failed != 0;
}
