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
    EXPECT(rm_graph_read(text, strlen(text), NULL, &g) == RM_OK, rm_graph_error(g));
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
    d.work_limit = 100000;
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
    EXPECT(planned(g, NULL, RM_SINGLE, 0, NULL) == RM_ERROR_GRAPH && says(g, "op v") && says(g, "drop saved"), rm_graph_error(g));
    EXPECT(planned(g, NULL, RM_FORWARD, 0, NULL) == RM_OK, rm_graph_error(g));
    rm_graph_destroy(g);
    g = graph_of("rockmate graph 1\ntensor x input 170 grad\nop v in=x out=v:9 view=x saved=236 needs=none\n");
    EXPECT(planned(g, NULL, RM_SINGLE, 0, NULL) == RM_OK, rm_graph_error(g));
    rm_graph_destroy(g);
    EXPECT(rm_graph_read(mutating, sizeof mutating - 1, NULL, &g) == RM_ERROR_TEXT && says(g, "op v") && says(g, "drop mutates"), rm_graph_error(g));
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

int main(void)
{
    mutated_const();
    view_saved();
    mutators_change_places();
    return tm_end();
}
