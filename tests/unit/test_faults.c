/* test_faults.c - what once went wrong, each under its name: small graphs in tests/data/regress, and short programs.

      g++ -O1 -g -c tests/oracle/replay.cpp -o build/replay.o
      gcc -O1 -g -std=gnu99 -I. tests/unit/test_faults.c build/replay.o -lstdc++ -lm -o build/test_faults     (from the root) */
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"

#include "../common.h"
#include "../oracle/plan.h"

static rm_graph *graph_of(const char *text)
{
    rm_graph *g = NULL;
    rm_result r = rm_graph_read(text, strlen(text), NULL, &g);
    EXPECT(r == RM_OK, rm_graph_error(g));
    return g;
}

static rm_graph *graph_in(const char *name)
{
    char path[200];
    tm_text t;
    rm_graph *g;
    memset(&t, 0, sizeof t);
    snprintf(path, sizeof path, "tests/data/regress/%s.rmg", name);
    EXPECT(tm_read(path, &t), path);
    g = graph_of(t.s ? t.s : "");
    tm_clear(&t);
    return g;
}

/* Plans g with a preset (NULL: the default) for the steps and the budget; a plan is legal for the second referee. */
static rm_result planned(rm_graph *g, const char *preset, uint32_t steps, uint64_t budget, rm_plan_info *info)
{
    rm_plan_desc d;
    rm_plan *p = NULL;
    rm_result r;
    memset((void *)&d, 0, sizeof d);
    d.preset = preset;
    d.steps = steps;
    d.device_bytes = budget;
    d.align = 1;
    d.info = info;
    d.work_limit = 20000;
    r = rm_plan_create(g, &d, &p);
    if (r == RM_OK) {
        const char *why = rmtest_plan(g, p, budget, 0);
        EXPECT(why && !why[0], why);
    }
    rm_plan_destroy(p);
    return r;
}

static int says(const rm_graph *g, const char *words) { return strstr(rm_graph_error(g), words) != NULL; }

/* --- no RM_ERROR_INTERNAL from a graph that can be read */

static void mutated_const(void) /* a backward reads a const that a later op changes: it comes first, where it can */
{
    rm_graph *g = graph_in("internal_mutated_const");
    const char *preset;
    size_t i;
    for (i = 0; (preset = rm_preset_name(i, NULL)) != NULL; i++)
        EXPECT(planned(g, preset, RM_SINGLE | RM_FIRST | RM_MIDDLE | RM_LAST | RM_FORWARD, 0, NULL) == RM_OK, rm_graph_error(g));
    rm_graph_destroy(g);
    g = graph_in("internal_mutated_late");
    for (i = 0; (preset = rm_preset_name(i, NULL)) != NULL; i++) {
        EXPECT(planned(g, preset, RM_SINGLE, 0, NULL) == RM_ERROR_GRAPH, preset);
        EXPECT(says(g, "op a: its backward reads c") && says(g, "op b") && says(g, "leave c out of its needs"), rm_graph_error(g));
    }
    EXPECT(planned(g, NULL, RM_FORWARD, 0, NULL) == RM_OK, rm_graph_error(g));
    rm_graph_destroy(g);
    g = graph_of("rockmate graph 1\ntensor x input 8 grad\ntensor c const 4\nop a in=x,c out=h:8 mutates=c\nop b in=h,c out=l:4 mutates=c\noutput l\n");
    EXPECT(planned(g, NULL, RM_SINGLE, 0, NULL) == RM_OK, rm_graph_error(g)); /* what an op changes itself it does not depend on */
    rm_graph_destroy(g);
}

static void view_saved(void) /* a view has no forward that could leave anything, or change anything */
{
    static const char mutating[] = "rockmate graph 1\ntensor x input 8\ntensor c const 4\nop v in=x,c out=v:8 view=x mutates=c\n";
    rm_graph *g = graph_in("internal_view_saved");
    rm_result r;
    EXPECT(planned(g, NULL, RM_SINGLE, 0, NULL) == RM_ERROR_GRAPH && says(g, "op v") && says(g, "drop saved"), rm_graph_error(g));
    EXPECT(planned(g, NULL, RM_FORWARD, 0, NULL) == RM_OK, rm_graph_error(g));
    rm_graph_destroy(g);
    g = graph_of("rockmate graph 1\ntensor x input 170 grad\nop v in=x out=v:9 view=x saved=236 needs=none\n");
    EXPECT(planned(g, NULL, RM_SINGLE, 0, NULL) == RM_OK, rm_graph_error(g));
    rm_graph_destroy(g);
    g = NULL;
    r = rm_graph_read(mutating, sizeof mutating - 1, NULL, &g);
    EXPECT(r == RM_ERROR_TEXT && says(g, "op v") && says(g, "drop mutates"), rm_graph_error(g));
    rm_graph_destroy(g);
}

/* A view reads nothing of its further inputs: what makes them alone for it need not run (an internal error). */
static void view_with_inputs(void)
{
    rm_graph *g = graph_in("internal_view_of_const");
    uint64_t budget;
    for (budget = 2000; budget >= 1700; budget -= 100) EXPECT(planned(g, "checkmate", RM_SINGLE, budget, NULL) == RM_OK, rm_graph_error(g));
    rm_graph_destroy(g);
}

/* The referee of plans from text: ops that change a const do so in the order of declaration. */
static void mutators_change_places(void)
{
    static const char plan[] = "rockmate plan 1\narena 24\nresident c 0\nresident x 8\nstep forward\nalloc h 16\nalloc l 20\nrun fwd b\nrun fwd a\n";
    rm_graph *g = graph_of("rockmate graph 1\ntensor x input 8\ntensor c const 4\nop a in=x,c out=h:4 mutates=c\nop b in=x,c out=l:4 mutates=c\noutput l\n");
    rm_plan *p = NULL;
    EXPECT(rm_plan_read(g, plan, sizeof plan - 1, &p) == RM_ERROR_PLAN && says(g, "wants its earlier value"), rm_graph_error(g));
    rm_plan_destroy(p);
    rm_graph_destroy(g);
}

/* --- figures */

static int nothing(const rm_call *c)
{
    (void)c;
    return 0;
}

static rm_kind kind_of(const char *name)
{
    rm_kind k;
    memset((void *)&k, 0, sizeof k);
    k.name = name;
    k.forward = nothing;
    k.backward = nothing;
    return k;
}

/* Two dense layers, a loss; flags of the first. */
static rm_graph *small_model(rm_fn update, uint64_t state, int output)
{
    rm_kind dense = kind_of("dense"), loss = kind_of("loss");
    rm_graph *g = rm_graph_create(NULL);
    rm_tensor x = rm_input_add(g, "x", 256, 0), h, l;
    rm_param_desc w;
    memset((void *)&w, 0, sizeof w);
    w.name = "w";
    w.bytes = 512;
    w.update = update;
    w.state_bytes = state;
    h = RM_OP(g, &dense, .name = "fc", .in = {x, rm_param_add(g, &w)});
    w.name = "v";
    h = RM_OP(g, &dense, .name = "fd", .in = {h, rm_param_add(g, &w)});
    l = RM_OP(g, &loss, .name = "loss", .in = {h}, .out = {4});
    if (output) rm_output_add(g, l);
    return g;
}

static void arena_of_all_steps(void) /* rm_plan_info.arena_bytes of any step kind is enough for an executor of all */
{
    rm_graph *g = small_model(nothing, 64, 1);
    rm_plan_desc d;
    rm_exec_desc ed;
    rm_plan_info first, info;
    rm_plan *p = NULL;
    rm_exec *e = NULL;
    uint64_t most = 0;
    uint32_t k;
    void *arena;
    memset((void *)&d, 0, sizeof d);
    memset((void *)&ed, 0, sizeof ed);
    d.steps = RM_SINGLE | RM_FIRST | RM_MIDDLE | RM_LAST | RM_FORWARD;
    d.info = &first;
    EXPECT(rm_plan_create(g, &d, &p) == RM_OK, rm_graph_error(g));
    for (k = RM_SINGLE; k <= RM_FORWARD; k <<= 1) {
        EXPECT(rm_plan_get_info(p, k, &info) == RM_OK && info.arena_bytes == first.arena_bytes && info.step_bytes <= info.arena_bytes, "one arena");
        if (info.step_bytes > most) most = info.step_bytes;
    }
    EXPECT(first.arena_bytes == most && first.step_bytes < most, "a single step takes less than an accumulation");
    ed.device_memory_bytes = first.arena_bytes;
    ed.device_memory = arena = malloc((size_t)first.arena_bytes + 256);
    if (!arena) exit(3);
    ed.device_memory = (unsigned char *)arena + (256 - (uintptr_t)arena % 256);
    EXPECT(rm_exec_create(p, &ed, &e) == RM_OK, rm_graph_error(g));
    rm_exec_destroy(e);
    ed.device_memory_bytes--;
    EXPECT(rm_exec_create(p, &ed, &e) == RM_ERROR_ARGUMENT, "a byte less");
    free(arena);
    rm_plan_destroy(p);
    rm_graph_destroy(g);
}

static void destroyed_in_any_order(void) /* what an executor uses stays until it is destroyed */
{
    rm_graph *g = small_model(nothing, 64, 1);
    rm_plan *p = NULL, *q = NULL, *r = NULL;
    rm_exec *e = NULL, *f = NULL;
    rm_step s;
    unsigned char x[256] = {0};
    rm_tensor in = rm_graph_find(g, "x");
    memset((void *)&s, 0, sizeof s);
    EXPECT(rm_plan_create(g, NULL, &p) == RM_OK && rm_plan_create(g, NULL, &q) == RM_OK && rm_plan_create(g, NULL, &r) == RM_OK, rm_graph_error(g));
    EXPECT(rm_exec_create(p, NULL, &e) == RM_OK && rm_exec_create(p, NULL, &f) == RM_OK, rm_graph_error(g));
    rm_plan_destroy(p);
    rm_graph_destroy(g);
    EXPECT(rm_exec_write(e, in, RM_VALUE, 0, x, sizeof x) == RM_OK && rm_exec_step(e, &s) == RM_OK, rm_exec_error(e));
    EXPECT(rm_exec_replan(e, q) == RM_OK && rm_exec_replan(e, q) == RM_OK, rm_exec_error(e));
    rm_plan_destroy(q);
    EXPECT(rm_exec_write(e, in, RM_VALUE, 0, x, sizeof x) == RM_OK && rm_exec_step(e, &s) == RM_OK, rm_exec_error(e));
    EXPECT(rm_exec_write(f, in, RM_VALUE, 0, x, sizeof x) == RM_OK && rm_exec_step(f, &s) == RM_OK, rm_exec_error(f));
    rm_exec_destroy(e);
    rm_exec_destroy(f);
    rm_plan_destroy(r); /* the last one that keeps the graph */
}

/* --- notes */

static int notes(rm_graph *g, const char *first, const char *second)
{
    rm_plan *p = NULL;
    tm_text t;
    int good;
    memset(&t, 0, sizeof t);
    EXPECT(rm_plan_create(g, NULL, &p) == RM_OK, rm_graph_error(g));
    EXPECT(rm_plan_summary(p, tm_sink, &t) == RM_OK, rm_graph_error(g));
    good = first ? strstr(rm_plan_notes(p), first) && strstr(rm_plan_notes(p), second) && strstr(t.s, "\nnote: ") : !rm_plan_notes(p)[0] && !strstr(t.s, "note: ");
    if (!good) printf("%s", rm_plan_notes(p));
    tm_clear(&t);
    rm_plan_destroy(p);
    rm_graph_destroy(g);
    return good;
}

static unsigned logged;
static void log_notes(void *user, rm_result r, const char *message)
{
    (void)user;
    logged += r == RM_OK && strstr(message, "op loss: its backward starts the gradients") != NULL;
}

static void told(void)
{
    static const char unseen[] = "rockmate graph 1\ntensor w param 8\nop loss in=w out=l:4\n";
    rm_graph_desc gd;
    rm_graph *g = NULL;
    rm_kind k;
    rm_plan *p = NULL;
    rm_exec *e = NULL;
    EXPECT(notes(small_model(nothing, 64, 1), NULL, NULL), "nothing to tell");
    EXPECT(notes(small_model(nothing, 64, 0), "op loss: its backward starts the gradients", "rm_output_add"), "a loss that nobody outputs");
    EXPECT(notes(small_model(NULL, 64, 1), "param w (and 1 more): it has 64 bytes of state", "no update"), "state without update");
    EXPECT(notes(small_model(NULL, 0, 1), NULL, NULL), "the caller updates");
    /* a residual addition without a backward: w gets no gradient from the loss */
    EXPECT(notes(graph_of("rockmate graph 1\ntensor x input 8\ntensor w param 8 opt=1\ntensor v param 8 opt=1\nop a in=x,w out=a\n"
                          "op add in=x,a out=b nograd\nop c in=b,v out=c\nop loss in=c out=l:4\noutput l\n"),
                 "op a: no gradient comes back to its backward, for op add", "nograd"), "cut by nograd");
    EXPECT(notes(graph_of("rockmate graph 1\ntensor x input 8\ntensor w param 8\nop a in=x,w out=a\nop loss in=a out=l:4\nop log in=l,a out=m:4 nograd\noutput l m\n"), NULL, NULL), "a figure of a declared loss");
    memset((void *)&gd, 0, sizeof gd);
    gd.log = log_notes;
    EXPECT(rm_graph_read(unseen, sizeof unseen - 1, &gd, &g) == RM_OK, "");
    EXPECT(planned(g, NULL, RM_SINGLE, 0, NULL) == RM_OK && planned(g, NULL, RM_SINGLE, 0, NULL) == RM_OK && logged == 1, "once in the log");
    rm_graph_destroy(g);
    /* callbacks: all told at once when an executor is made */
    g = small_model(nothing, 0, 1);
    k = kind_of("bare");
    k.forward = k.backward = NULL;
    (void)RM_OP(g, &k, .name = "more", .in = {rm_graph_find(g, "fc"), rm_graph_find(g, "w")}, .out = {4});
    rm_output_add(g, rm_graph_find(g, "more"));
    EXPECT(rm_plan_create(g, NULL, &p) == RM_OK, rm_graph_error(g));
    EXPECT(rm_exec_create(p, NULL, &e) == RM_ERROR_ARGUMENT && says(g, "op more: its kind 'bare' has no forward callback; set rm_kind.forward") && says(g, "Missing as well: backward of more"), rm_graph_error(g));
    rm_plan_destroy(p);
    rm_graph_destroy(g);
}

static void host_memory_without_link_is_told(void)
{
    rm_graph *g = small_model(nothing, 64, 1);
    rm_plan_desc desc;
    rm_plan *p = NULL;
    memset((void *)&desc, 0, sizeof desc);
    desc.host_bytes = 4096;
    EXPECT(rm_plan_create(g, &desc, &p) == RM_OK, rm_graph_error(g));
    EXPECT(strstr(rm_plan_notes(p), "plan: 4096 bytes of host memory are offered") && strstr(rm_plan_notes(p), "rm_graph_link"), rm_plan_notes(p));
    rm_plan_destroy(p);
    rm_graph_link(g, 1000000000, 1000000000, 0, 0);
    p = NULL;
    EXPECT(rm_plan_create(g, &desc, &p) == RM_OK, rm_graph_error(g));
    EXPECT(!rm_plan_notes(p)[0], rm_plan_notes(p));
    rm_plan_destroy(p);
    rm_graph_destroy(g);
}

static void merges_are_told(void)
{
    static const char plan[] = "rockmate plan 1\narena 40 host 16\nstep middle\nresident w 0\nresident x 8\nhome grad:w 0\n"
                               "alloc l 16\nrun fwd a\nalloc grad:w 24\nrun bwd a\nmerge grad:w 8\nfree grad:w\n";
    rm_graph *g = graph_of("rockmate graph 1\nlink h2d=1000000000 d2h=1000000000\ntensor x input 8\ntensor w param 8 opt=1000\nop a in=x,w out=l:4\noutput l\n");
    rm_plan_info info;
    rm_plan *p = NULL;
    EXPECT(rm_plan_read(g, plan, sizeof plan - 1, &p) == RM_OK, rm_graph_error(g));
    EXPECT(rm_plan_get_info(p, 0, &info) == RM_OK && info.merges == 1, rm_graph_error(g));
    EXPECT(strstr(rm_plan_notes(p), "1 times a step a gradient is added up in host memory") && strstr(rm_plan_notes(p), "RM_NO_MERGE"), rm_plan_notes(p));
    rm_plan_destroy(p);
    rm_graph_destroy(g);
}

/* --- forward and backward of a chain of n ops as forwards, as captured from a framework: op i makes a[i], op b[i] reads a[i] late */

static rm_graph *joint_chain(int n)
{
    tm_text t;
    rm_graph *g;
    char line[200];
    int i;
    memset(&t, 0, sizeof t);
    strcpy(line, "rockmate graph 1\ntensor x input 1000\ntensor w const 100\n");
    tm_sink(&t, line, strlen(line));
    for (i = 0; i < n; i++) {
        sprintf(line, i ? "op a%d in=a%d,w out=a%d:1000 fwd=1000 nograd\n" : "op a%d in=x,w out=a%d:1000 fwd=1000 nograd\n", i, i ? i - 1 : i, i);
        tm_sink(&t, line, strlen(line));
    }
    for (i = n; i-- > 0;) {
        if (i + 1 < n) sprintf(line, "op b%d in=b%d,a%d,w out=b%d:1000 fwd=2000 inplace=b%d\n", i, i + 1, i, i, i + 1);
        else sprintf(line, "op b%d in=a%d,w out=b%d:1000 fwd=2000\n", i, i, i);
        tm_sink(&t, line, strlen(line));
    }
    tm_sink(&t, "output b0\n", 10);
    g = graph_of(t.s);
    tm_clear(&t);
    return g;
}

static void joint_graphs(void)
{
    rm_graph *g = joint_chain(12);
    rm_plan_info all, info;
    const char *preset;
    size_t i;
    for (i = 0; (preset = rm_preset_name(i, NULL)) != NULL; i++) {
        rm_config c;
        uint64_t budget;
        EXPECT(rm_config_preset(preset, &c) == RM_OK, preset);
        EXPECT(planned(g, preset, RM_SINGLE, 0, &all) == RM_OK && all.time_ns == 36000 && all.arena_bytes == 13100, rm_graph_error(g));
        for (budget = all.arena_bytes / 10 * 6; budget > all.arena_bytes / 10; budget -= all.arena_bytes / 10 * 2) {
            rm_result r = planned(g, preset, RM_SINGLE, budget, &info);
            if (c.passes & RM_PASS_SEARCH) EXPECT(r == RM_OK || (r == RM_ERROR_INFEASIBLE && budget < all.arena_bytes / 3), rm_graph_error(g));
            else if (!(c.passes & RM_PASS_OFFLOAD)) EXPECT(r == RM_ERROR_INFEASIBLE && (says(g, "'hiremate'") || says(g, "host_bytes")), rm_graph_error(g));
        }
    }
    rm_graph_destroy(g);
}

int main(void)
{
    mutated_const();
    view_saved();
    view_with_inputs();
    mutators_change_places();
    arena_of_all_steps();
    destroyed_in_any_order();
    told();
    host_memory_without_link_is_told();
    merges_are_told();
    joint_graphs();
    return tm_end();
}
