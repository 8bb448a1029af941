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

static void build(uint64_t saved)
{
    rm_kind K = {.name = "dense", .forward = dense_fwd, .backward = dense_bwd, .needs = RM_IN(0) | RM_IN(1), .flags = RM_ZERO_GRADS};
    rm_tensor t;
    int i;
    if (saved) K.needs |= RM_SAVED;
    g = rm_graph_create(NULL);
    t = x = rm_input_add(g, "x", N * 4, 0);
    for (i = 0; i < 6; i++) {
        w[i] = RM_PARAM(g, .bytes = N * 4, .state_bytes = i ? 0 : MANY, .update = i == 3 ? NULL : sgd);
        t = RM_OP(g, &K, .in = {t, w[i]}, .saved = saved);
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
        EXPECT(rm_exec_step(e, NULL) == RM_ERROR_ARGUMENT && strstr(rm_exec_error(e), "never written") &&
                   !strstr(rm_exec_error(e), "rm_exec_desc.forget forgets what persists, and keeps inputs") == !forget, rm_exec_error(e));
        give(e, 4);
        EXPECT(rm_exec_step(e, &(rm_step){.kind = RM_MIDDLE}) == RM_ERROR_ARGUMENT && strstr(rm_exec_error(e), "there was none; begin an accumulation with RM_FIRST"), rm_exec_error(e));
        EXPECT(!rm_exec_step(e, &(rm_step){.kind = RM_FIRST}), rm_exec_error(e));
        give(e, 4);
        many = 0;
        EXPECT(!rm_exec_profile(e, &(rm_step){.kind = RM_SINGLE}, 2), rm_exec_error(e));
        EXPECT(!rm_exec_replan(e, small), rm_exec_error(e));
        EXPECT(forget ? many == 1 : many > 1, "of what was forgotten a copy was made");
        EXPECT((rm_exec_step(e, &(rm_step){.kind = RM_MIDDLE}) != RM_OK) == forget, "nothing is left of an accumulation that was forgotten");
        EXPECT(!forget || strstr(rm_exec_error(e), "rm_exec_desc.forget has forgotten them"), rm_exec_error(e));
        EXPECT((rm_exec_read(e, w[0], RM_GRAD, 0, v, sizeof v) != RM_OK) == forget, "nor can a gradient be read");
        EXPECT(!forget || strstr(rm_exec_error(e), "no step has been finished yet that leaves it; it was forgotten (rm_exec_desc.forget)"), rm_exec_error(e));
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

/* --- memory: one arena at a time, and nothing lost where none can be had */
typedef struct meter { /* an allocator with this much memory */
    size_t live, peak, room;
    int lost; /* what is given back somebody else takes */
} meter;
static void *metered(size_t bytes, void *user)
{
    meter *m = (meter *)user;
    size_t *p = bytes <= m->room && m->live <= m->room - bytes ? (size_t *)malloc(bytes + 16) : NULL;
    if (!p) return NULL;
    *p = bytes;
    m->live += bytes;
    if (m->live > m->peak) m->peak = m->live;
    return p + 16 / sizeof *p;
}
static void unmetered(void *p, void *user)
{
    size_t *at = (size_t *)p;
    if (!at) return;
    at -= 16 / sizeof *at;
    ((meter *)user)->live -= *at;
    if (((meter *)user)->lost) ((meter *)user)->room = ((meter *)user)->live;
    free(at);
}

static tm_text state(rm_exec *e)
{
    tm_text t;
    memset(&t, 0, sizeof t);
    EXPECT(!rm_exec_save(e, tm_sink, &t), rm_exec_error(e));
    return t;
}
/* Two states are the same bytes; both go. */
static void same_bytes(tm_text a, tm_text b, const char *what)
{
    EXPECT(a.n == b.n && !memcmp(a.s, b.s, a.n), what);
    tm_clear(&a), tm_clear(&b);
}
static rm_exec *metered_exec(rm_plan *p, meter *m)
{
    rm_exec *e = NULL;
    float v[N];
    int i, k;
    EXPECT(!rm_exec_create(p, &(rm_exec_desc){.allocator = {.alloc = metered, .free = unmetered, .user = m}}, &e), rm_graph_error(g));
    for (i = 0; i < 6; i++) {
        for (k = 0; k < N; k++) v[k] = (float)((i * 5 + k * 3) % 17) / 17.0f;
        rm_exec_write(e, w[i], RM_VALUE, 0, v, sizeof v);
        for (k = 0; !i && k < MANY; k += (int)sizeof v) rm_exec_write(e, w[i], RM_STATE, (uint64_t)k, v, sizeof v);
    }
    return e;
}
static uint64_t arena(const rm_plan *p)
{
    rm_plan_info info;
    uint64_t most = 0;
    uint32_t kind;
    for (kind = RM_SINGLE; kind <= RM_FORWARD; kind <<= 1)
        if (!rm_plan_get_info(p, kind, &info) && info.arena_bytes > most) most = info.arena_bytes;
    return most;
}

/* While a plan takes another one's place no more is held than the larger arena, what persists once, and tables. */
static void one_arena(rm_plan *from, rm_plan *to)
{
    const uint64_t larger = arena(from) > arena(to) ? arena(from) : arena(to), tables = 100000;
    const uint64_t persist = MANY + 6 * 2 * N * 4; /* a state, weights, gradients of an accumulation */
    meter m = {0, 0, SIZE_MAX, 0};
    rm_exec *e = metered_exec(from, &m);
    char more[100];
    step(e, RM_FIRST, 1);
    m.peak = m.live;
    EXPECT(!rm_exec_replan(e, to), rm_exec_error(e));
    sprintf(more, "%lu bytes at most, the larger arena has %lu, %lu persist", (unsigned long)m.peak, (unsigned long)larger, (unsigned long)persist);
    EXPECT(m.peak <= larger + persist + tables, more);
    step(e, RM_LAST, 2);
    rm_exec_destroy(e);
    EXPECT(m.live == 0, "memory is lost");
}

/* A plan that has no room: all stays, amid an accumulation, too. */
static void no_room(rm_plan *small, rm_plan *all)
{
    meter m = {0, 0, SIZE_MAX, 0};
    rm_exec *e = metered_exec(small, &m), *same = metered_exec(small, &m);
    tm_text a;
    step(e, RM_FIRST, 1), step(same, RM_FIRST, 1);
    a = state(e);
    m.room = m.live + 2u * MANY; /* for what persists, and for an arena as large as the one that goes */
    EXPECT(rm_exec_replan(e, all) == RM_ERROR_BACKEND && strstr(rm_exec_error(e), "for the arena"), rm_exec_error(e));
    m.room = SIZE_MAX;
    same_bytes(a, state(e), "what persists");
    step(e, RM_LAST, 2), step(same, RM_LAST, 2);
    same_bytes(state(e), state(same), "and what has been added up");
    rm_exec_destroy(e), rm_exec_destroy(same);
    EXPECT(m.live == 0, "memory is lost");
}

/* Even the old arena's memory is gone: what persists waits, can be saved and written, and goes on with the next plan that fits. */
static void parked(rm_plan *small, rm_plan *all)
{
    meter m = {0, 0, SIZE_MAX, 0};
    rm_exec *e = metered_exec(small, &m), *same = metered_exec(small, &m);
    tm_text a;
    rm_exec_info info;
    float v[N];
    step(e, RM_FIRST, 1), step(same, RM_FIRST, 1);
    give(e, 2), give(same, 2);
    a = state(e);
    EXPECT(!rm_exec_read(e, w[2], RM_VALUE, 0, v, sizeof v), rm_exec_error(e));
    m.lost = 1;
    EXPECT(rm_exec_replan(e, all) == RM_ERROR_BACKEND && !rm_exec_get_info(e, &info), rm_exec_error(e));
    EXPECT(!info.arena_bytes && strstr(rm_exec_error(e), "what persists waits in host memory"), rm_exec_error(e));
    EXPECT(rm_exec_step(e, &(rm_step){.kind = RM_LAST}) == RM_ERROR_ARGUMENT && strstr(rm_exec_error(e), "there is no arena"), rm_exec_error(e));
    EXPECT(rm_exec_replan(e, all) != RM_OK && rm_exec_replan(e, small) != RM_OK, "still no room");
    m.lost = 0, m.room = SIZE_MAX;
    EXPECT(rm_exec_profile(e, &(rm_step){.kind = RM_LAST}, 2) == RM_ERROR_ARGUMENT && strstr(rm_exec_error(e), "there is no arena"), rm_exec_error(e));
    same_bytes(a, state(e), "what persists");
    EXPECT(!rm_exec_write(e, w[2], RM_VALUE, 0, v, sizeof v), rm_exec_error(e));
    EXPECT(!rm_exec_replan(e, small), rm_exec_error(e));
    EXPECT(!rm_exec_step(e, &(rm_step){.kind = RM_LAST}) && !rm_exec_step(same, &(rm_step){.kind = RM_LAST}), "with the input as written");
    same_bytes(state(e), state(same), "goes on as if nothing had been");
    rm_exec_destroy(e), rm_exec_destroy(same);
    EXPECT(m.live == 0, "memory is lost");
}

/* In the caller's memory: a plan that fits there takes the other one's place, one that does not is refused. */
static void callers_memory(rm_plan *all, rm_plan *small)
{
    const uint64_t bytes = arena(all);
    unsigned char *raw = (unsigned char *)malloc(bytes + 64), *at = raw + (64 - (size_t)raw % 64) % 64;
    float v[N], u[N];
    rm_exec *e = NULL;
    rm_exec_info info;
    int k;
    EXPECT(!rm_exec_create(all, &(rm_exec_desc){.device_memory = at, .device_memory_bytes = bytes}, &e), rm_graph_error(g));
    for (k = 0; k < N; k++) v[k] = (float)k;
    EXPECT(!rm_exec_write(e, w[1], RM_VALUE, 0, v, sizeof v) && !rm_exec_replan(e, small), rm_exec_error(e));
    EXPECT(!rm_exec_get_info(e, &info) && info.arena_bytes == arena(small), "the small plan's arena");
    EXPECT(!rm_exec_read(e, w[1], RM_VALUE, 0, u, sizeof u) && !memcmp(u, v, sizeof u), "carried over");
    step(e, RM_SINGLE, 1);
    rm_exec_destroy(e);
    EXPECT(!rm_exec_create(small, &(rm_exec_desc){.device_memory = at, .device_memory_bytes = bytes - 64}, &e), rm_graph_error(g));
    EXPECT(!rm_exec_write(e, w[1], RM_VALUE, 0, v, sizeof v) && rm_exec_replan(e, all) == RM_ERROR_ARGUMENT && strstr(rm_exec_error(e), "were given"), rm_exec_error(e));
    EXPECT(!rm_exec_read(e, w[1], RM_VALUE, 0, u, sizeof u) && !memcmp(u, v, sizeof u), "as it was");
    step(e, RM_SINGLE, 1);
    rm_exec_destroy(e);
    free(raw);
}

int main(void)
{
    float plain[6][N], other[6][N], before[N], after[N];
    rm_plan *all, *small, *single, *rest, *first;
    rm_exec *e = NULL;
    rm_plan_info info;
    build(0);
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

    build(MANY); /* what keeps everything takes several times as much */
    all = plan(31, 0);
    rm_plan_get_info(all, RM_LAST, &info);
    small = plan(31, info.min_bytes);
    EXPECT(arena(all) > arena(small) + 4u * MANY, "the test's sizes");
    one_arena(all, small);
    one_arena(small, all);
    no_room(small, all);
    parked(small, all);
    callers_memory(all, small);
    rm_plan_destroy(all), rm_plan_destroy(small);
    rm_graph_destroy(g);
    return tm_end();
}
