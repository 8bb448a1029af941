/* test_plans.c - plans of random graphs: each is legal and has the figures that it claims, by a checker of its own; a budget
   is kept or refused with one that works; more budget is never slower; the same call gives the same plan.

      g++ -O1 -g -c tests/oracle/replay.cpp -o build/replay.o
      gcc -O1 -g -std=gnu99 -I. tests/property/test_plans.c build/replay.o -lstdc++ -o build/test_plans
      build/test_plans [GRAPHS [FIRST-SEED]]          one graph: it is printed, and every plan of it that is wrong
      build/test_plans copies [GRAPHS [FIRST-SEED]]   small graphs with heavy weights, presets that move things, little search
      build/test_plans many [GRAPHS [FIRST-SEED]]     all presets, step kinds and switches in turn, four budgets each, links and
                                                      host memory of any size; 10,000 graphs: half an hour or so at -O2

   Where ../shared/tools/replay.py is, tests/run.sh has it judge these plans as well (tests/oracle/judge.py). */
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"

#include "../common.h"
#include "../oracle/replay.h"
#include "randgraph.h"

#define MOST_TOLD 25

typedef tm_text text;

static unsigned long passed, failed, skipped, plans, with_copies, below_weights, host_refused, one_graph;

static struct { /* what is being tested: to tell where something failed */
    uint64_t seed;
    int ops;
    uint32_t features, align;
    rm_graph *g;
    const rg_text *text;
    rm_plan_desc d;
} at;

static void fail(const char *what, const char *more)
{
    failed++;
    if (failed > MOST_TOLD) return;
    printf("seed %llu (%d ops, features %08x), steps %u, preset %s, align %u, budget %llu%s: %s%s%s\n", (unsigned long long)at.seed, at.ops, at.features,
           at.d.steps, at.d.preset ? at.d.preset : "-", at.d.align, (unsigned long long)at.d.device_bytes, at.d.live_only ? " live" : "", what, more ? ": " : "", more ? more : "");
}

static int expect(int good, const char *what, const char *more)
{
    if (good) passed++;
    else fail(what, more);
    return good;
}

/* --- a plan's program as text (docs/formats.md), without the library's own writer */

static void put_run(text *t, const rm_graph *g, rmi_run r)
{
    static const char *const ways[] = {"run fwd ", "run bwd ", "run opt ", "run opt ", "run reduce ", "run barrier "};
    tm_sink(t, ways[r.way], strlen(ways[r.way]));
    if (r.way <= RMI_BWD) {
        const rmi_op *op = &g->ops[r.id];
        const rmi_form *f = &op->forms[r.form];
        tm_sink(t, op->name, strlen(op->name));
        if (r.way == RMI_BWD && f->parts[r.part].name[0]) {
            tm_sink(t, ":", 1);
            tm_sink(t, f->parts[r.part].name, strlen(f->parts[r.part].name));
        }
        if (f->name[0]) {
            tm_sink(t, "@", 1);
            tm_sink(t, f->name, strlen(f->name));
        }
    } else {
        const char *name = r.way == RMI_BARRIER ? g->barriers[r.id].name : g->tensors[r.id].name;
        tm_sink(t, name, strlen(name));
        if (r.way == RMI_OPT_HOST) tm_sink(t, "@host", 5);
    }
    tm_sink(t, "\n", 1);
}

static void put_plan(text *t, const rm_graph *g, const rmi_program *p)
{
    static const char *const heads[] = {"alloc", "free", "alias", "reuse", "run", "offload", "prefetch", "merge", "drop_host"};
    static const char *const kinds[] = {"single", "first", "middle", "last", "forward"};
    char line[1024], name[300], other[300];
    size_t i;
    uint32_t k;
    for (k = 0; !(p->step >> k & 1);) k++;
    tm_sink(t, line, (size_t)sprintf(line, "rockmate plan 1\narena %llu host %llu\nstep %s\n", (unsigned long long)p->arena, (unsigned long long)p->host[0], kinds[k]));
    for (i = 0; i < p->n_homes; i++)
        tm_sink(t, line, (size_t)sprintf(line, "%s %s %llu\n", p->homes[i].host ? "home" : "resident", rmi_sch_name(g, p->homes[i].buf, name), (unsigned long long)p->homes[i].offset));
    for (i = 0; i < p->n; i++) {
        const rmi_stmt *s = &p->st[i];
        if (s->what == RMI_RUN) {
            put_run(t, g, s->run);
            continue;
        }
        tm_sink(t, line, (size_t)sprintf(line, "%s %s", heads[s->what], rmi_sch_name(g, s->buf, name)));
        if (s->what == RMI_ALIAS || s->what == RMI_REUSE) tm_sink(t, line, (size_t)sprintf(line, " %s", rmi_sch_name(g, s->other, other)));
        if (s->what == RMI_ALLOC || s->what == RMI_OFFLOAD || s->what == RMI_MERGE) tm_sink(t, line, (size_t)sprintf(line, " %llu", (unsigned long long)s->offset));
        tm_sink(t, "\n", 1);
    }
}

/* --- judging a plan */

static int moves(const rmi_program *prog)
{
    size_t k;
    for (k = 0; k < prog->n; k++)
        if (prog->st[k].what >= RMI_OFFLOAD) return 1;
    return 0;
}

/* Counts what moves something, and what has less arena than the weights would take that the plan may place. */
static void count(const rm_graph *g, const rmi_program *prog)
{
    uint64_t weights = 0;
    uint32_t i;
    for (i = 0; i < g->n_tensors; i++)
        if (g->tensors[i].kind == RMI_PARAM && !rmi_low_external(g, i)) weights += g->tensors[i].bytes;
    plans++;
    with_copies += (unsigned long)moves(prog);
    below_weights += prog->arena < weights;
}

/* One program of a plan. */
static void judge(const rm_plan *p, uint32_t index, uint64_t budget)
{
    const rmi_program *prog = &p->prog[index];
    rm_plan_info info;
    rmtest_result r;
    text t;
    char more[700];
    int verdict;
    memset(&t, 0, sizeof t);
    put_plan(&t, at.g, prog);
    count(at.g, prog);
    if (!expect(rm_plan_get_info(p, prog->step, &info) == RM_OK, "rm_plan_get_info", rm_graph_error(at.g))) return;
    verdict = rmtest_replay_c(at.text->data, at.text->size, t.s, t.n, at.d.live_only ? RMTEST_NO_BUDGET : budget, at.d.host_bytes, &r);
    if (expect(verdict == RMTEST_LEGAL, "not legal", r.message)) {
        sprintf(more, "kind %u, time %llu but %llu, live %llu but %llu, arena %llu but %llu, again %llu but %llu, bounds %llu %llu", prog->step, (unsigned long long)info.time_ns, (unsigned long long)r.time_ns,
                (unsigned long long)info.live_bytes, (unsigned long long)r.live_bytes, (unsigned long long)info.arena_bytes, (unsigned long long)r.arena_bytes,
                (unsigned long long)info.recomputed_ns, (unsigned long long)r.recomputed_ns, (unsigned long long)info.min_bound_bytes, (unsigned long long)info.bound_ns);
        expect(info.time_ns == r.time_ns && info.live_bytes == r.live_bytes && info.recomputed_ns == r.recomputed_ns, "figures", more);
        if (!at.d.live_only) expect(info.step_bytes >= r.arena_bytes && info.step_bytes <= rmi_round_up(r.arena_bytes, p->align), "the arena's figure", more);
        expect(info.arena_bytes <= budget, "over the budget", more);
        expect(info.bound_ns <= info.time_ns, "faster than the bound", more);
        expect(info.min_bound_bytes <= (at.d.live_only || at.align == 1 ? info.live_bytes : info.arena_bytes), "smaller than the bound", more); /* which counts what alignment takes */
        if (!moves(prog) || !(at.d.steps & (at.d.steps - 1))) /* what persists may live in host memory for another kind's sake */
            expect(info.time_ns <= info.keep_all_ns || budget < info.keep_all_bytes, "slower than keeping everything, which fits", more);
    } else if (one_graph) printf("%s", t.s);
    free(t.s);
}

/* Makes and judges a plan; NULL if it is infeasible, with *min. */
static rm_plan *make(uint64_t budget, uint64_t *min)
{
    rm_plan *p = NULL;
    rm_plan_info info;
    rm_result r;
    uint32_t i;
    memset(&info, 0, sizeof info);
    at.d.device_bytes = budget;
    at.d.info = &info;
    r = rm_plan_create(at.g, &at.d, &p);
    at.d.info = NULL;
    *min = info.min_bytes;
    if (r == RM_ERROR_INFEASIBLE && at.d.host_bytes && !info.min_bytes) { /* it is host memory that is too small */
        expect(!p && strstr(rm_graph_error(at.g), "host") != NULL, "infeasible without a word on host memory", rm_graph_error(at.g));
        host_refused++;
        return NULL;
    }
    if (r == RM_ERROR_INFEASIBLE) {
        expect(!p && info.min_bytes > budget && budget, "infeasible without a budget that could work", rm_graph_error(at.g));
        expect(info.min_bound_bytes <= info.min_bytes, "the smallest arena is below the bound", NULL);
        return NULL;
    }
    if (!expect(r == RM_OK && p, rm_result_name(r), rm_graph_error(at.g))) return NULL;
    for (i = 0; i < p->n; i++) judge(p, i, budget ? budget : RMTEST_NO_BUDGET);
    return p;
}

static void dump(text *t, const rm_plan *p)
{
    uint32_t i;
    memset(t, 0, sizeof *t);
    for (i = 0; i < p->n; i++) put_plan(t, at.g, &p->prog[i]);
}

/* The same call once more gives the same text. */
static void repeat(const rm_plan *p)
{
    rm_plan *q = NULL;
    text a, b;
    if (!expect(rm_plan_create(at.g, &at.d, &q) == RM_OK, "the same call fails", rm_graph_error(at.g))) return;
    dump(&a, p);
    dump(&b, q);
    expect(a.n == b.n && !memcmp(a.s, b.s, a.n), "the same call, another plan", NULL);
    free(a.s);
    free(b.s);
    rm_plan_destroy(q);
}

static uint64_t largest(const rm_plan *p)
{
    uint64_t most = 0;
    uint32_t i;
    for (i = 0; i < p->n; i++) most = rmi_max(most, p->info[i].arena_bytes);
    return most;
}

/* A budget that an infeasible call names works. */
static rm_plan *at_least(uint64_t budget)
{
    uint64_t min, again;
    rm_plan *p = make(budget, &min);
    if (p || !min) return p;
    p = make(min, &again);
    if (!p) fail("the budget that should work does not", rm_graph_error(at.g));
    return p;
}

/* Every preset, and now and then without some freedom. */
static void presets(void)
{
    static rm_config c;
    const char *name;
    size_t i;
    for (i = 0; (name = rm_preset_name(i, NULL)) != NULL; i++) {
        rm_plan *p;
        if (!one_graph && i % 3 != at.seed / 3 % 3) continue;
        rm_config_preset(name, &c);
        c.work = 60000;
        if ((at.seed / 3 + i) % 4 == 0) c.off = (uint32_t)(rmi_mix(at.seed + i) & 15);
        at.d.preset = name;
        at.d.config = &c;
        p = at_least(0);
        rm_plan_destroy(p);
        p = at_least(1);
        if (p) repeat(p);
        rm_plan_destroy(p);
    }
    at.d.preset = "rockmate"; /* what promises that more budget is never slower */
    at.d.config = NULL;
}

/* No kind of step takes longer than in less memory (before, which becomes what it takes), where that is promised. */
static void not_slower(const rm_plan *p, uint64_t *before, int promised)
{
    uint32_t k;
    for (k = 0; k < p->n; k++) {
        char more[200];
        sprintf(more, "kind %u, %llu ns, before %llu ns", p->info[k].step, (unsigned long long)p->info[k].time_ns, (unsigned long long)before[k]);
        if (promised) expect(p->info[k].time_ns <= before[k], "slower with more", more);
        before[k] = p->info[k].time_ns;
    }
}

/* Budgets from the least that works up to all that could be used: never slower. */
static void budgets(int points)
{
    uint64_t before[RM_STEP_KINDS], min = 0, most;
    rm_plan *p = make(0, &min);
    int i;
    uint32_t k;
    if (!p) return;
    most = largest(p);
    repeat(p);
    rm_plan_destroy(p);
    for (k = 0; k < RM_STEP_KINDS; k++) before[k] = RMI_INF;
    p = at_least(1);
    if (!p) return;
    min = at.d.device_bytes;
    rm_plan_destroy(p);
    if (min > 2) rm_plan_destroy(at_least(min - 1));
    if (points > 2 && !tm_more(2)) points = 2;
    for (i = 0; i <= points; i++) {
        uint64_t low, budget = min + (most - rmi_min(min, most)) * (uint64_t)i / (uint64_t)points;
        if (i && budget == at.d.device_bytes) continue;
        p = make(budget, &low);
        if (!p) {
            fail("more than the smallest budget does not work", rm_graph_error(at.g));
            return;
        }
        not_slower(p, before, 1);
        if (i == points / 2) repeat(p);
        rm_plan_destroy(p);
    }
}

/* Reads the graph anew (step kinds do not change it, but a test should not rest on that) and plans it. */
static void plan_graph(uint64_t seed, uint32_t steps, uint32_t align, int points)
{
    rm_plan *p = NULL;
    memset(&at.d, 0, sizeof at.d);
    at.g = NULL;
    at.d.preset = "rockmate";
    at.d.steps = steps;
    at.d.align = align;
    at.d.host_bytes = seed % 5 ? 0 : 1 << 20;
    at.d.work_limit = at.d.host_bytes ? 300000 : 0; /* little search with copies: it is the figures that are looked at */
    if (!expect(rm_graph_read(at.text->data, at.text->size, NULL, &at.g) == RM_OK, "rm_graph_read", at.g ? rm_graph_error(at.g) : NULL)) {
        rm_graph_destroy(at.g);
        return;
    }
    if (rm_plan_create(at.g, &at.d, &p) == RM_ERROR_ARGUMENT && strstr(rm_graph_error(at.g), "in host memory only")) skipped++;
    else {
        budgets(points);
        if (seed % 3 == 0) presets();
        if (seed % 3 == 1) {
            static const char *const names[] = {"rotor", "rotor", "greedy", "llmc-2"};
            at.d.preset = names[seed / 3 % 4];
            budgets(points);
            at.d.preset = "rockmate"; /* what promises that more budget is never slower */
        }
        if (seed % 7 == 0) {
            at.d.live_only = 1;
            at.d.align = 0;
            budgets(2);
        }
    }
    rm_plan_destroy(p);
    rm_graph_destroy(at.g);
}

/* Plans that move, of graphs whose weights are the larger part: the least memory, less than the weights take as often as not, and
   some above it. Plans with copies promise less: a budget may be slower than a smaller one. */
static void moved(uint64_t seed, uint32_t steps, int ops, uint64_t work)
{
    static const char *const names[] = {"offmate", "stream", "link", "blocks"};
    static rm_config c;
    uint64_t chance = rmi_mix(seed + 1), min, low;
    const char *name = names[chance % 4];
    rm_plan *p;
    rg_text t;
    int i;
    rg_weights = 16;
    rg_generate(&t, seed, (int)(2 + (chance >> 8) % (uint64_t)ops), (chance >> 16 & 1 ? RG_ALL : (uint32_t)(chance >> 20)) | RG_LINK);
    rg_weights = 1;
    memset(&at.d, 0, sizeof at.d);
    at.text = &t;
    at.g = NULL;
    at.d.steps = steps;
    at.d.align = chance >> 17 & 1 ? 1 : 0;
    at.d.host_bytes = 1 << 24;
    rm_config_preset(name, &c);
    c.work = work;
    at.d.preset = name;
    at.d.config = &c;
    if (expect(rm_graph_read(t.data, t.size, NULL, &at.g) == RM_OK, "rm_graph_read", at.g ? rm_graph_error(at.g) : NULL)) {
        p = at_least(1);
        min = at.d.device_bytes;
        for (i = 1; i < 4 && p; i++) {
            if (i == 1 && chance >> 18 & 1) repeat(p);
            rm_plan_destroy(p);
            p = make(min + min * (uint64_t)(i * i) / 8, &low);
            if (!p) fail("more than the smallest budget does not work", rm_graph_error(at.g));
        }
        rm_plan_destroy(p);
    }
    rm_graph_destroy(at.g);
    rg_free(&t);
}

static void one(uint64_t seed)
{
    static const uint32_t steps[] = {RM_SINGLE, RM_FIRST, RM_MIDDLE, RM_LAST, RM_FORWARD, RM_FIRST | RM_MIDDLE | RM_LAST, RM_SINGLE | RM_FORWARD, 31};
    static const uint32_t aligns[] = {0, 1, 16, 4096};
    uint64_t chance = rmi_mix(seed);
    rg_text t;
    at.seed = seed;
    at.ops = (int)(1 + chance % 60);
    if (chance >> 60 & 1) at.ops = 1 + at.ops / 5;
    switch (chance >> 32 & 3) {
    case 0: at.features = RG_ALL; break;
    case 1: at.features = (uint32_t)rmi_mix(chance); break;
    case 2: at.features = (uint32_t)(rmi_mix(chance) & rmi_mix(chance + 1)); break;
    default: at.features = ~(uint32_t)(rmi_mix(chance) & rmi_mix(chance + 1) & rmi_mix(chance + 2)); break;
    }
    if (chance >> 40 & 3) at.features &= ~RG_OPT_HOST; /* such graphs are often refused */
    rg_ask_more(seed);
    rg_generate(&t, seed, at.ops, at.features);
    if (!t.data) return;
    at.text = &t;
    if (one_graph) printf("%s", t.data);
    plan_graph(seed, steps[chance >> 8 & 7], aligns[chance >> 16 & 3], 4);
    if (chance >> 20 & 1) plan_graph(seed, RM_SINGLE, 1, 8);
    moved(seed, steps[chance >> 8 & 7], 50, 3000);
    rg_free(&t);
}

/* Graphs that a plan was wrong for, or a call, before it was put right. */
static const uint64_t once_wrong[] = {608, 725, 1200, 1495, 2223, 3118, 7035, 9049, 23305, 5000183, 5000384, 5000639, 90027, 21};
static const uint64_t turn_wrong[] = {60, 74, 128, 185, 201104, 202121, 205369, 90010}; /* the bound had no end; aligned without addresses; named what does not work;
                                                                               seconds for few boxes; a proof without a repeat; a view of another group */

/* Small graphs, little search: many of them in little time. */
static void small(uint64_t seed)
{
    static const uint32_t steps[] = {RM_SINGLE, RM_FIRST, RM_MIDDLE, RM_LAST, RM_FORWARD, RM_FIRST | RM_MIDDLE | RM_LAST, RM_SINGLE | RM_FORWARD, 31};
    at.seed = seed;
    moved(seed, steps[rmi_mix(seed + 2) & 7], rmi_mix(seed) & 7 ? 7 : 20, 50);
}

/* One graph of many: everything that a caller may choose takes its turn, from the least memory up to all that is of use. */
static void turn(uint64_t seed)
{
    static const uint32_t steps[] = {RM_SINGLE, RM_FIRST, RM_MIDDLE, RM_LAST, RM_FORWARD, RM_FIRST | RM_MIDDLE | RM_LAST, RM_SINGLE | RM_FORWARD, 31};
    static const uint32_t aligns[] = {0, 1, 16, 4096};
    static rm_config c;
    uint64_t chance = rmi_mix(seed + 3), before[RM_STEP_KINDS], min, most, low;
    const char *name;
    size_t presets = 0;
    rm_plan *p = NULL;
    rg_text t;
    int i, copies;
    uint32_t k;
    while (rm_preset_name(presets, NULL)) presets++;
    name = rm_preset_name(seed % presets, NULL);
    rm_config_preset(name, &c);
    c.work = seed / presets % 16 ? 4000 : 60000;
    c.off = seed / presets % 3 ? 0 : (uint32_t)((chance >> 4 & 15) | (chance >> 46 & 1) * RM_NO_MERGE);
    copies = (c.passes & (RM_PASS_STREAM | RM_PASS_LINK | RM_PASS_BLOCKS | RM_PASS_OFFLOAD)) != 0;
    memset(&at.d, 0, sizeof at.d);
    at.seed = seed;
    at.ops = (int)(1 + (chance >> 8) % (chance >> 16 & 7 ? 16 : chance >> 19 & 7 ? 60 : 150));
    at.features = chance >> 22 & 1 ? RG_ALL : (uint32_t)(chance >> 23 & 1 ? rmi_mix(chance) : rmi_mix(chance) & rmi_mix(chance + 1));
    if (chance >> 24 & 3) at.features &= ~RG_OPT_HOST; /* such graphs are often refused */
    if (copies) at.features |= RG_LINK;
    at.g = NULL;
    at.d.steps = steps[seed / presets % 8];
    at.d.align = aligns[chance >> 26 & 3];
    at.d.live_only = !copies && (chance >> 28) % 11 == 0;
    at.d.host_bytes = copies && chance >> 32 & 3 ? 1 << 24 : copies ? 1 + (chance >> 34) % (1 << 18) : chance >> 32 & 7 ? 0 : 1 << 20;
    at.d.preset = name;
    at.d.config = &c;
    rg_weights = chance >> 52 & 1 ? 16 : 1;
    rg_ask_more(seed);
    rg_generate(&t, seed, at.ops, at.features);
    rg_weights = 1;
    if (!t.data) return;
    at.text = &t;
    if (one_graph) printf("%s", t.data);
    for (k = 0; k < RM_STEP_KINDS; k++) before[k] = RMI_INF;
    if (expect(rm_graph_read(t.data, t.size, NULL, &at.g) == RM_OK, "rm_graph_read", at.g ? rm_graph_error(at.g) : NULL)) {
        if (rm_plan_create(at.g, &at.d, &p) == RM_ERROR_ARGUMENT && strstr(rm_graph_error(at.g), "in host memory only")) skipped++;
        else if (p || rm_graph_result(at.g) == RM_ERROR_INFEASIBLE) {
            most = p ? largest(p) : 0;
            rm_plan_destroy(p);
            p = NULL;
            rm_plan_destroy(make(0, &low));
            p = at_least(1);
            min = at.d.device_bytes;
            if (p && min > 2) rm_plan_destroy(at_least(min - 1));
            for (i = 0; i < 3 && p; i++) {
                uint64_t budget = min + (most > min ? (most - min) * (uint64_t)(i * i + i) / 6 : min / 4 * (uint64_t)i);
                rm_plan_destroy(p);
                p = make(budget, &low);
                if (!p) {
                    fail("more than the smallest budget does not work", rm_graph_error(at.g));
                    break;
                }
                for (k = 0; k < p->n; k++) copies |= moves(&p->prog[k]); /* updates that run in host memory only */
                not_slower(p, before, !copies && !c.off);                /* searches for what to move promise less */
                if (i == 1 && chance >> 55 & 1) repeat(p);
            }
        } else fail("no plan without a limit", rm_graph_error(at.g));
        rm_plan_destroy(p);
    }
    rm_graph_destroy(at.g);
    rg_free(&t);
}

int main(int argc, char **argv)
{
    const unsigned long usual = tm_amount(0, 5); /* beside those that were wrong once */
    const char *mode = argc > 1 && !(argv[1][0] >= '0' && argv[1][0] <= '9') ? argv[1] : "";
    int named = mode[0] != 0;
    unsigned long n = argc > 1 + named ? strtoul(argv[1 + named], NULL, 10) : usual, i;
    uint64_t first = argc > 2 + named ? strtoull(argv[2 + named], NULL, 10) : 1;
    one_graph = n == 1;
    for (i = 0; i < (argc < 2 ? tm_amount(5, 24) : !strcmp(mode, "copies") ? n : 0) && tm_more(i); i++) small(first + i);
    for (i = 0; i < sizeof turn_wrong / sizeof turn_wrong[0] && argc < 2; i += tm_amount(4, 1)) turn(turn_wrong[i]);
    for (i = 0; i < (argc < 2 ? tm_amount(2, 8) : !strcmp(mode, "many") ? n : 0) && tm_more(i); i++) {
        turn(first + i);
        if (i % 100 == 99 && argc > 1) printf("%lu graphs, %lu plans, %lu passed, %lu failed\n", i + 1, plans, passed, failed), fflush(stdout);
    }
    for (i = 0; i < sizeof once_wrong / sizeof once_wrong[0] && argc < 2; i += tm_amount(7, 1)) one(once_wrong[i]);
    for (i = 0; i < n && !named && tm_more(i); i++) one(first + i);
    printf("%lu graphs, %lu plans, %lu with copies, %lu in less than the weights take, %lu times too little host memory\n", n, plans, with_copies, below_weights, host_refused);
    printf("%lu passed, %lu failed, %lu skipped\n", passed, failed, skipped);
    return failed != 0;
}
