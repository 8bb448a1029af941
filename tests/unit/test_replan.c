/* test_replan.c - rm_exec_replan amid an accumulation: gradients go on, or it is refused before anything is lost.

      g++ -std=c++17 -O2 -c -I. -o build/replay.o tests/oracle/replay.cpp && gcc -O1 -g -std=gnu99 -I. -c -o build/test_replan.o tests/unit/test_replan.c &&
      g++ -o build/test_replan build/test_replan.o build/replay.o && build/test_replan */
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"

#include "../common.h"
#include "../oracle/plan.h"

enum { N = 64, MANY = 1 << 20 };

static int dense_fwd(const rm_call *c)
{
    int i;
    for (i = 0; i < N; i++) ((float *)c->out[0])[i] = ((const float *)c->in[0])[i] * ((const float *)c->in[1])[i] + 0.5f;
    return 0;
}
static int dense_bwd(const rm_call *c)
{
    int i;
    for (i = 0; i < N; i++) {
        float dy = c->dout[0] ? ((const float *)c->dout[0])[i] : 1.0f;
        if (c->din[0]) ((float *)c->din[0])[i] += dy * ((const float *)c->in[1])[i];
        if (c->din[1]) ((float *)c->din[1])[i] += dy * ((const float *)c->in[0])[i];
    }
    return 0;
}
static int sgd(const rm_call *c)
{
    int i;
    for (i = 0; i < N; i++) ((float *)c->param)[i] -= 0.01f * ((const float *)c->grad)[i];
    return 0;
}

static rm_graph *g;
static rm_tensor x, w[6];

static void build(void)
{
    static const rm_kind K = {.name = "dense", .forward = dense_fwd, .backward = dense_bwd, .needs = RM_IN(0) | RM_IN(1), .flags = RM_ZERO_GRADS};
    rm_tensor t;
    int i;
    g = rm_graph_create(NULL);
    t = x = rm_input_add(g, "x", N * 4, 0);
    for (i = 0; i < 6; i++) {
        w[i] = RM_PARAM(g, .bytes = N * 4, .state_bytes = i ? 0 : MANY, .update = i == 3 ? NULL : sgd);
        t = RM_OP(g, &K, .in = {t, w[i]});
    }
}

static rm_plan *plan(uint32_t steps, uint64_t budget)
{
    rm_plan *p = NULL;
    EXPECT(!rm_plan_create(g, &(rm_plan_desc){.steps = steps, .device_bytes = budget, .align = 64}, &p), rm_graph_error(g));
    EXPECT(!*rmtest_plan(g, p, budget, 0), "the second referee");
    return p;
}

static void give(rm_exec *e, int seed)
{
    float v[N];
    int i;
    for (i = 0; i < N; i++) v[i] = (float)((i * 7 + seed * 13) % 11) / 11.0f;
    EXPECT(!rm_exec_write(e, x, RM_VALUE, 0, v, sizeof v), rm_exec_error(e));
}

static void step(rm_exec *e, uint32_t kind, int seed)
{
    give(e, seed);
    EXPECT(!rm_exec_step(e, &(rm_step){.kind = kind}), rm_exec_error(e));
}

/* The weights after an accumulation of three; p[k]: a plan to go on with after step k. */
static void run(rm_plan *const p[4], float out[6][N])
{
    static const uint32_t kinds[3] = {RM_FIRST, RM_MIDDLE, RM_LAST};
    rm_exec *e = NULL;
    float v[N];
    int i, k;
    EXPECT(!rm_exec_create(p[0], NULL, &e), rm_graph_error(g));
    for (i = 0; i < 6; i++) {
        for (k = 0; k < N; k++) v[k] = (float)((i * 5 + k * 3) % 17) / 17.0f;
        rm_exec_write(e, w[i], RM_VALUE, 0, v, sizeof v);
    }
    for (k = 0; k < 3; k++) {
        step(e, kinds[k], k);
        if (p[k + 1]) EXPECT(!rm_exec_replan(e, p[k + 1]), rm_exec_error(e));
    }
    for (i = 0; i < 6; i++) EXPECT(!rm_exec_read(e, w[i], RM_VALUE, 0, out[i], sizeof out[i]), rm_exec_error(e));
    rm_exec_destroy(e);
}

/* rm_exec_desc.forget: profiling and replanning make no copy of what persists, keep inputs, and leave an executor like a new one. */
static int many; /* allocations that can hold the states */
static void *counted(size_t bytes, void *user)
{
    (void)user;
    many += bytes >= MANY;
    return malloc(bytes);
}
static void freed(void *p, void *user)
{
    (void)user;
    free(p);
}
static void forgetful(rm_plan *all, rm_plan *small)
{
    float v[N], out[2][N];
    rm_exec *e = NULL;
    int i, k, forget;
    for (forget = 0; forget < 2; forget++) {
        EXPECT(!rm_exec_create(all, &(rm_exec_desc){.forget = (uint32_t)forget, .allocator = {.alloc = counted, .free = freed}}, &e), rm_graph_error(g));
        for (i = 0; i < 6; i++) {
            for (k = 0; k < N; k++) v[k] = (float)((i * 5 + k * 3) % 17) / 17.0f;
            rm_exec_write(e, w[i], RM_VALUE, 0, v, sizeof v);
        }
        give(e, 4);
        EXPECT(rm_exec_step(e, &(rm_step){.kind = RM_MIDDLE}) == RM_ERROR_ARGUMENT && strstr(rm_exec_error(e), "there was none; begin an accumulation with RM_FIRST"), rm_exec_error(e));
        EXPECT(!rm_exec_step(e, &(rm_step){.kind = RM_FIRST}), rm_exec_error(e));
        give(e, 4);
        many = 0;
        EXPECT(!rm_exec_profile(e, &(rm_step){.kind = RM_SINGLE}, 2), rm_exec_error(e));
        EXPECT(!rm_exec_replan(e, small), rm_exec_error(e));
        EXPECT(forget ? many == 1 : many > 1, "of what was forgotten a copy was made");
        EXPECT((rm_exec_step(e, &(rm_step){.kind = RM_MIDDLE}) != RM_OK) == forget, "nothing is left of an accumulation that was forgotten");
        for (i = 0; i < 6; i++) {
            for (k = 0; k < N; k++) v[k] = (float)((i * 5 + k * 3) % 17) / 17.0f;
            rm_exec_write(e, w[i], RM_VALUE, 0, v, sizeof v);
        }
        give(e, 4);
        EXPECT(!rm_exec_step(e, &(rm_step){.kind = RM_SINGLE}) && !rm_exec_read(e, w[0], RM_VALUE, 0, out[forget], sizeof v), rm_exec_error(e));
        rm_exec_destroy(e);
    }
    EXPECT(!memcmp(out[0], out[1], sizeof v), "written anew, it is the same training");
}

int main(void)
{
    float plain[6][N], other[6][N], before[N], after[N];
    rm_plan *all, *small, *single, *rest, *first;
    rm_exec *e = NULL;
    rm_plan_info info;
    build();
    all = plan(31, 0);
    single = plan(RM_SINGLE | RM_FORWARD, 0);
    rest = plan(RM_MIDDLE | RM_LAST, 0);
    first = plan(RM_FIRST, 0);
    rm_plan_get_info(all, RM_LAST, &info);
    small = plan(31, info.min_bytes);
    run((rm_plan *const[4]){all}, plain);
    run((rm_plan *const[4]){all, small, all, single}, other);
    EXPECT(!memcmp(plain, other, sizeof plain), "another plan after each micro-step");
    run((rm_plan *const[4]){first, rest, small}, other);
    EXPECT(!memcmp(plain, other, sizeof plain), "plans of fewer step kinds");

    EXPECT(!rm_exec_create(all, NULL, &e), rm_graph_error(g));
    step(e, RM_FIRST, 1);
    EXPECT(!rm_exec_read(e, w[2], RM_GRAD, 0, before, sizeof before), rm_exec_error(e));
    EXPECT(rm_exec_replan(e, single) == RM_ERROR_ARGUMENT && strstr(rm_exec_error(e), "grad:") && strstr(rm_exec_error(e), "RM_LAST"), rm_exec_error(e));
    EXPECT(rm_exec_replan(e, first) == RM_ERROR_ARGUMENT, "a plan that could not go on");
    EXPECT(!rm_exec_read(e, w[2], RM_GRAD, 0, after, sizeof after) && !memcmp(before, after, sizeof after), "as it was");
    step(e, RM_FORWARD, 1); /* an evaluation in between changes nothing */
    EXPECT(rm_exec_replan(e, single) == RM_ERROR_ARGUMENT, "still accumulating");
    EXPECT(!rm_exec_replan(e, rest), rm_exec_error(e));
    EXPECT(rm_exec_replan(e, single) == RM_ERROR_ARGUMENT, "still accumulating after a replan");
    step(e, RM_LAST, 2);
    EXPECT(!rm_exec_replan(e, single), rm_exec_error(e));
    step(e, RM_SINGLE, 2);
    rm_exec_destroy(e);
    forgetful(all, small);
    rm_plan_destroy(all), rm_plan_destroy(small), rm_plan_destroy(single), rm_plan_destroy(rest), rm_plan_destroy(first);
    rm_graph_destroy(g);
    return tm_end();
}
