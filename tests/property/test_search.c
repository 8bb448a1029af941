/* Plans of preset "search" for random graphs of every feature: legal by the second referee with the same figures, within the
   budget, not below the bound, not slower than rotor's. test_search [GRAPHS [FIRST SEED]] */
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"
#include "../common.h"
#include "../oracle/replay.h"
#include "randgraph.h"
#include <stdio.h>

typedef tm_text bytes;

static unsigned passed, failed;
static void expect(int ok, unsigned long seed, const char *what, const char *detail)
{
    if (ok) passed++;
    else failed++;
    if (!ok) printf("seed %lu: %s: %s\n", seed, what, detail);
}

static void one(unsigned long seed, rm_graph *g, const rg_text *t, uint32_t step, uint64_t budget)
{
    rm_plan_info chain, info;
    rm_plan_desc d;
    rm_plan *p = NULL, *q = NULL;
    rmtest_result r;
    bytes b = {0};
    memset(&d, 0, sizeof d);
    d.device_bytes = budget;
    d.preset = "rotor";
    d.steps = step;
    d.info = &chain;
    if (rm_plan_create(g, &d, &q)) memset(&chain, 0, sizeof chain);
    rm_plan_destroy(q);
    d.preset = "search";
    d.work_limit = rm_graph_op_count(g) > 100 ? 6000000 : 0; /* long lists */
    d.info = &info;
    if (rm_plan_create(g, &d, &p)) {
        expect(rm_graph_result(g) == RM_ERROR_INFEASIBLE && !chain.time_ns, seed, "a plan", rm_graph_error(g));
        return;
    }
    rm_plan_write(p, step, tm_sink, &b);
    expect(RMTEST_LEGAL == rmtest_replay_c(t->data, t->size, b.s, b.n, RMTEST_NO_BUDGET, RMTEST_NO_BUDGET, &r) && r.verdict == RMTEST_LEGAL, seed, "legal", r.message);
    expect(r.time_ns == info.time_ns && r.live_bytes == info.live_bytes, seed, "figures", "differ from the second referee's");
    expect(info.arena_bytes <= budget && info.time_ns >= info.bound_ns, seed, "budget and bound", "");
    expect(!chain.time_ns || info.time_ns <= chain.time_ns, seed, "time", "slower than rotor");
    rm_plan_destroy(p);
    free(b.s);
}

/* Forecasts of moves, against full evaluations: most are within a fiftieth. */
static void forecasts(unsigned long seed, rm_graph *g, uint32_t step, uint64_t limit)
{
    rmi_arena mem = rmi_arena_make(NULL);
    rmi_step m;
    rmi_search s;
    uint32_t k, told = 0, right = 0;
    if (rmi_step_make(&mem, g, step, 256, 0, &m) == RM_OK && rmi_search_make(&mem, &m, limit, 0, &s) == RM_OK && limit > m.resident) {
        rmi_cost_keep_all(&m, &s.candidate);
        for (k = 0; k < 3000; k++) {
            const rmi_search_move *move = &rmi_search_moves[k % RMI_COUNT(rmi_search_moves)];
            uint64_t guess, is;
            if (k % 64 == 0) {
                rmi_cost_keep_all(&m, &s.candidate);
                if (!rmi_search_start(&s, &s.candidate) || !s.current.n) break;
            }
            rmi_search_copy_choices(&m, &s.current, &s.candidate);
            rmi_search_clear(&s);
            if (!move->weight || !(move->propose ? move->propose(&s) : move->of_gap(&s, rmi_search_gap(&s, move->copied))) || s.edit.unsure || !rmi_search_apply(&s)) continue;
            guess = rmi_search_forecast(&s, rmi_search_prune(&s, &s.candidate));
            s.cost.enough = RMI_INF;
            if (!rmi_cost_eval(&s.cost, &s.candidate, &s.next)) continue;
            if (s.cost.comms) continue; /* forecasts know of one lane: with runs on another one they are not asked */
            told++;
            is = rmi_search_score(&s, &s.next, s.candidate.n);
            right += guess <= is + is / 50 && is <= guess + guess / 50;
            rmi_search_start(&s, &s.candidate);
        }
    }
    rmi_arena_free(&mem);
    if (getenv("RM_VERBOSE")) printf("seed %lu: %u of %u forecasts within 2 %%\n", seed, right, told);
    expect(right * 3 >= told, seed, "forecasts of moves", "most are wrong");
}

/* The joint search decides about the home of a param that is large, and of a small one if it can be updated in host memory, where that
   takes the device no time; never where there is nothing to decide. */
static void homes_decided(void)
{
    static const char text[] = "rockmate graph 1\nlink h2d=1000000000 d2h=1000000000 latency=100\ntensor x input 64 grad\n"
                               "tensor small.either param 64 state=128 opt=3000 opt_host=3000\ntensor small.device param 64 state=128 opt=3000\n"
                               "tensor large.device param 1048576 opt=3000\ntensor large.stays param 1048576 opt=3000 stays\n"
                               "op a in=x,small.either,small.device out=y:64 fwd=5 bwd=5\nop b in=y,large.device,large.stays out=l:4 fwd=5 bwd=5\noutput l\n";
    static const char *const names[] = {"small.either", "large.device"};
    rmi_arena mem = rmi_arena_make(NULL);
    rm_graph *g = NULL;
    rmi_step step;
    rmi_search s;
    uint32_t i;
    if (rm_graph_read(text, strlen(text), NULL, &g) || rmi_step_make(&mem, g, RM_SINGLE, 256, 1, &step) || rmi_search_make(&mem, &step, (uint64_t)1 << 30, (uint64_t)1 << 30, &s)) expect(0, 0, "a search", rm_graph_error(g));
    else {
        expect(s.n_params == 2, 0, "params whose homes are decided", "not two");
        for (i = 0; i < s.n_params && i < 2; i++) expect(!strcmp(g->tensors[step.params[s.params[i]].tensor].name, names[i]), 0, names[i], g->tensors[step.params[s.params[i]].tensor].name);
    }
    rmi_arena_free(&mem);
    rm_graph_destroy(g);
}

/* Prices of bytes are alike all over a long list: a transformer of 125 equal blocks is within 0.1 % of the best possible from a tenth of
   its memory on. What it takes is many small trades at once: attention kept in some 50 blocks for what the last blocks kept. */
static void long_list(uint64_t percent)
{
    tm_text t;
    char line[512];
    const char *x = "x";
    char out[8];
    rm_graph *g = NULL;
    rm_plan *p = NULL;
    rm_plan_desc d;
    rm_plan_info info;
    int i;
    memset(&t, 0, sizeof t);
    memset(&d, 0, sizeof d);
    tm_sink(&t, "rockmate graph 1\ntensor x input 12582912 grad\n", strlen("rockmate graph 1\ntensor x input 12582912 grad\n"));
    for (i = 0; i < 125; i++) {
        snprintf(line, sizeof line, "op h%d.n in=%s out=a%d:12582912 fwd=14582 bwd=27165 needs=%s,saved saved=65536\nop h%d.q in=a%d out=q%d:37748736 fwd=195273 bwd=386546 needs=a%d\n", i, x, i, x, i, i, i, i);
        tm_sink(&t, line, strlen(line));
        snprintf(line, sizeof line, "op h%d.at in=q%d out=t%d:12582912 fwd=173798 bwd=439495 needs=q%d,t%d,saved saved=393216\nop h%d.p in=t%d out=p%d:12582912 fwd=66424 bwd=128849 needs=t%d\n", i, i, i, i, i, i, i, i, i);
        tm_sink(&t, line, strlen(line));
        snprintf(line, sizeof line, "op h%d.r in=%s,p%d out=r%d:12582912 fwd=20874 bwd=14582 needs=none\nop h%d.m in=r%d out=m%d:12582912 fwd=14582 bwd=27165 needs=r%d,saved saved=65536\n", i, x, i, i, i, i, i, i);
        tm_sink(&t, line, strlen(line));
        snprintf(line, sizeof line, "op h%d.f in=m%d out=f%d:50331648 fwd=259698 bwd=515396 needs=m%d\nop h%d.g in=f%d out=g%d:50331648 fwd=52331 bwd=77497 needs=f%d\n", i, i, i, i, i, i, i, i);
        tm_sink(&t, line, strlen(line));
        snprintf(out, sizeof out, "y%d", i);
        snprintf(line, sizeof line, "op h%d.o in=g%d out=o%d:12582912 fwd=259698 bwd=515396 needs=g%d\nop h%d.s in=r%d,o%d out=%s:12582912 fwd=20874 bwd=14582 needs=none\n", i, i, i, i, i, i, i, out);
        tm_sink(&t, line, strlen(line));
        x = out;
    }
    snprintf(line, sizeof line, "op loss in=y124 out=l:4 fwd=8291 bwd=8291 needs=y124\noutput l\n");
    tm_sink(&t, line, strlen(line));
    d.preset = "search";
    d.info = &info;
    if (rm_graph_read(t.s, t.n, NULL, &g) || rm_plan_create(g, NULL, &p) || rm_plan_get_info(p, 0, &info)) expect(0, 0, "the transformer", rm_graph_error(g));
    rm_plan_destroy(p);
    d.device_bytes = info.keep_all_bytes / 100 * percent;
    if (rm_plan_create(g, &d, &p)) expect(0, 0, "its plan", rm_graph_error(g));
    else expect(info.time_ns - info.bound_ns <= info.bound_ns / 1000, percent, "the transformer", "more than 0.1 % above the bound");
    rm_plan_destroy(p);
    rm_graph_destroy(g);
    free(t.s);
}

/* A gradient of a weight whose fast form wants the room of 60 values, beside a chain of 70 that all are live then. In the end there is
   room: it waits, and no run is made again or slow. */
static void late_weight(void)
{
    static const char *const big = "op big in=a69,w out=y:1048576 needs=none fwd=100\npart big w grads=w needs=a69 bwd=100 bwd_ws=62914560\n"
                                   "part big x grads=a69 needs=none bwd=100\nvariant big slow fwd=100\npart big@slow w grads=w needs=a69 bwd=900 bwd_ws=0\n"
                                   "part big@slow x grads=a69 needs=none bwd=100\nop loss in=y out=l:4 needs=y fwd=10 bwd=10\noutput l\n";
    char text[16384];
    rm_plan_info info;
    rm_plan_desc d;
    rm_plan *p = NULL;
    rm_graph *g = NULL;
    size_t n = (size_t)sprintf(text, "rockmate graph 1\ntensor x const 1048576\ntensor w param 256\ntensor v param 256\nop a0 in=x,v out=a0:1048576 needs=x fwd=1000 bwd=1000\n");
    int k;
    for (k = 1; k < 70; k++) n += (size_t)sprintf(text + n, "op a%d in=a%d out=a%d:1048576 needs=a%d fwd=1000 bwd=1000\n", k, k - 1, k, k - 1);
    n += (size_t)sprintf(text + n, "%s", big);
    memset(&d, 0, sizeof d);
    d.device_bytes = (uint64_t)76 << 20;
    d.info = &info;
    if (rm_graph_read(text, n, NULL, &g) || rm_plan_create(g, &d, &p)) expect(0, 0, "a weight's gradient", rm_graph_error(g));
    else expect(info.time_ns == 2 * 70 * 1000 + 3 * 100 + 2 * 10, (unsigned long)info.time_ns, "a weight's gradient", "does not run late");
    rm_plan_destroy(p);
    rm_graph_destroy(g);
}

int main(int argc, char **argv)
{
    static const uint32_t steps[] = {RM_SINGLE, RM_FIRST, RM_LAST, RM_MIDDLE, RM_FORWARD};
    unsigned long graphs = argc > 1 ? strtoul(argv[1], NULL, 10) : tm_amount(2, 4), seed = argc > 2 ? strtoul(argv[2], NULL, 10) : 1, i;
    for (i = seed; i < seed + graphs && tm_more(i - seed); i++) {
        rm_plan_info info;
        rm_plan_desc d;
        rm_plan *p = NULL;
        rm_graph *g = NULL;
        rg_text t;
        uint32_t step = steps[i % 5];
        memset(&t, 0, sizeof t);
        memset(&d, 0, sizeof d);
        rg_ask_more(i);
        rg_generate(&t, i, (int)(i % 16 == 2 ? 260 + i % 100 : 4 + i % 30), (i % 2 ? (uint32_t)rmi_mix(i) : RG_ALL) & ~(uint32_t)RG_OPT_HOST);
        d.steps = step;
        d.info = &info;
        if (rm_graph_read(t.data, t.size, NULL, &g) || rm_plan_create(g, &d, &p)) {
            expect(0, i, "the graph", rm_graph_error(g));
        } else {
            uint64_t least = info.min_bound_bytes;
            rm_plan_destroy(p);
            forecasts(i, g, step, least + (info.keep_all_bytes - least) / 2);
            one(i, g, &t, step, info.keep_all_bytes);
            one(i, g, &t, step, least + (info.keep_all_bytes - least) * 2 / 3 / 256 * 256 + 1);
        }
        rm_graph_destroy(g);
        rg_free(&t);
    }
    if (argc == 1) homes_decided();
    if (argc == 1) late_weight();
    if (argc == 1) long_list(10);
    if (argc == 1 && tm_amount(0, 1)) long_list(30);
    printf("%u passed, %u failed, 0 skipped\n", passed, failed);
    return failed != 0;
}
