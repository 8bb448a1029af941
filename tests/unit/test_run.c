/* test_run.c - the executor as an impatient caller uses it: orders of steps that make no sense, failures in lanes, saving,
   restoring and replanning while copies are under way, two executors of one plan at once, executors that never ran. A small model
   with real numbers; all results are compared, as bits, with those of the plan that keeps everything and never leaves the device.

      g++ -std=c++17 -O2 -c -I. -o build/replay.o tests/oracle/replay.cpp && gcc -O1 -g -std=gnu99 -I. -c -o build/test_run.o tests/unit/test_run.c &&
      g++ -o build/test_run build/test_run.o build/replay.o -lm -lpthread && build/test_run
   (with -fsanitize=thread as well: tests/run.sh) */
#define ROCKMATE_IMPLEMENTATION
#define ROCKMATE_THREADS
#include "rockmate.h"

#include <math.h>
#include <pthread.h>
#include "../common.h"
#include "../oracle/plan.h"

enum { B = 8, D = 16, LAYERS = 6, NX = B * D, NW = D * D };

typedef struct model {
    rm_graph *g;
    rm_tensor x, want, loss, w[LAYERS];
    int fail_layer, fail_phase, clip; /* the callback of that layer in that phase returns 9 once */
    float scale;
} model;

typedef struct layer_of {
    model *m;
    int i;
} layer_of;
static layer_of layers[8][LAYERS];
static int n_models;

static int fails(const rm_call *c)
{
    const layer_of *l = (const layer_of *)c->user;
    int layer = l->i; /* atomic: updates run in two lanes at once */
    if (l->m->fail_phase != (int)c->phase) return 0;
    return __atomic_compare_exchange_n(&l->m->fail_layer, &layer, -1, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED) ? 9 : 0;
}

static int dense_fwd(const rm_call *c)
{
    const float *x = (const float *)c->in[0], *w = (const float *)c->in[1];
    float *y = (float *)c->out[0];
    int b, i, o;
    for (b = 0; b < B; b++)
        for (o = 0; o < D; o++) {
            float s = 0;
            for (i = 0; i < D; i++) s += x[b * D + i] * w[i * D + o];
            y[b * D + o] = s > 0 ? s : 0.1f * s;
        }
    return fails(c);
}
static int dense_bwd(const rm_call *c)
{
    const float *x = (const float *)c->in[0], *w = (const float *)c->in[1], *y = (const float *)c->out[0], *dy = (const float *)c->dout[0];
    float *dx = (float *)c->din[0], *dw = (float *)c->din[1];
    int b, i, o;
    for (b = 0; b < B && dx; b++)
        for (i = 0; i < D; i++) {
            float s = RM_ADDS(c, 0) ? dx[b * D + i] : 0;
            for (o = 0; o < D; o++) s += dy[b * D + o] * (y[b * D + o] > 0 ? 1.f : 0.1f) * w[i * D + o];
            dx[b * D + i] = s;
        }
    for (i = 0; i < D && dw; i++)
        for (o = 0; o < D; o++) {
            float s = 0;
            for (b = 0; b < B; b++) s += x[b * D + i] * dy[b * D + o] * (y[b * D + o] > 0 ? 1.f : 0.1f);
            s = rintf(s * 4096) / 4096; /* sums of such numbers are exact: added on the device or in host memory, the bits are the same */
            dw[i * D + o] = RM_ADDS(c, 1) ? dw[i * D + o] + s : s;
        }
    return fails(c);
}
static int mse_fwd(const rm_call *c)
{
    const float *y = (const float *)c->in[0], *t = (const float *)c->in[1];
    float s = 0;
    int i;
    for (i = 0; i < NX; i++) s += (y[i] - t[i]) * (y[i] - t[i]) / B;
    *(float *)c->out[0] = s;
    return 0;
}
static int mse_bwd(const rm_call *c)
{
    const float *y = (const float *)c->in[0], *t = (const float *)c->in[1];
    float *dy = (float *)c->din[0];
    int i;
    for (i = 0; i < NX; i++) dy[i] = (RM_ADDS(c, 0) ? dy[i] : 0) + 2 * (y[i] - t[i]) / B;
    return 0;
}
static int adam(const rm_call *c)
{
    const layer_of *l = (const layer_of *)c->user;
    float *p = (float *)c->param, *m = (float *)c->state, *v = m + NW;
    const float *g = (const float *)c->grad;
    int i;
    for (i = 0; i < NW; i++) {
        float gi = g[i] * (l->m->clip ? l->m->scale : 1);
        m[i] = 0.9f * m[i] + 0.1f * gi;
        v[i] = 0.99f * v[i] + 0.01f * gi * gi;
        p[i] -= (float)c->step->lr * m[i] / (sqrtf(v[i]) + 1e-3f);
    }
    return fails(c);
}
static int norm(const rm_call *c)
{
    model *m = (model *)c->user;
    float s = 0;
    uint32_t i, k;
    for (i = 0; i < c->n_in; i++)
        for (k = 0; k < c->in_bytes[i] / 4; k++) s += ((const float *)c->in[i])[k] * ((const float *)c->in[i])[k];
    m->scale = s > 1 ? 1 / sqrtf(s) : 1;
    return 0;
}
static void add(void *dst, const void *src, uint64_t bytes, rm_tensor param, void *user)
{
    uint64_t i;
    (void)param;
    (void)user;
    for (i = 0; i < bytes / 4; i++) ((float *)dst)[i] += ((const float *)src)[i];
}
static const rm_kind DENSE = {.name = "dense", .forward = dense_fwd, .backward = dense_bwd, .needs = RM_IN(0) | RM_IN(1) | RM_OUT(0)};
static const rm_kind MSE = {.name = "mse", .forward = mse_fwd, .backward = mse_bwd, .needs = RM_IN(0) | RM_IN(1)};

/* A link on which a layer's weights take about as long as its computation. */
static void build(model *m, int clip)
{
    rm_tensor x;
    int i;
    memset(m, 0, sizeof *m);
    m->clip = clip;
    m->fail_layer = -1;
    m->g = rm_graph_create(NULL);
    rm_graph_link(m->g, 100000000, 100000000, 100, 0);
    x = m->x = rm_input_add(m->g, "x", NX * 4, 0);
    m->want = rm_input_add(m->g, "want", NX * 4, 0);
    for (i = 0; i < LAYERS; i++) {
        layer_of *l = &layers[n_models][i];
        l->m = m;
        l->i = i;
        rm_block_begin(m->g, "h");
        m->w[i] = RM_PARAM(m->g, .name = "w", .bytes = NW * 4, .state_bytes = 2 * NW * 4, .update = adam, .update_host = adam, .update_ns = 2000, .update_host_ns = 4000, .user = l);
        x = RM_OP(m->g, &DENSE, .name = "fc", .in = {x, m->w[i]}, .out = {NX * 4}, .user = l, .fwd_ns = 10000, .bwd_ns = 20000);
        rm_block_end(m->g);
    }
    m->loss = RM_OP(m->g, &MSE, .name = "loss", .in = {x, m->want}, .out = {4}, .fwd_ns = 100, .bwd_ns = 100);
    rm_output_add(m->g, m->loss);
    if (clip) rm_barrier_add(m->g, "clip", norm, m, 100);
    n_models = (n_models + 1) % 8;
}

/* tight: as little device memory as host memory makes possible, else everything on the device. */
static rm_plan *plan(model *m, uint32_t steps, int tight)
{
    rm_plan_info info;
    rm_plan *p = NULL;
    rm_plan_desc d = {.steps = steps, .work_limit = 200000, .info = &info};
    memset(&info, 0, sizeof info);
    if (!tight) d.preset = "noremat";
    else {
        d.device_bytes = 1;
        d.host_bytes = 1 << 20;
        rm_plan_create(m->g, &d, &p);
        d.device_bytes = info.min_bytes + (tight > 1 ? info.min_bytes / 3 : 0);
    }
    EXPECT(rm_plan_create(m->g, &d, &p) == RM_OK, rm_graph_error(m->g));
    EXPECT(!*rmtest_plan(m->g, p, d.device_bytes, d.host_bytes), "the second referee");
    return p;
}

static void fill(float *v, int n, int seed)
{
    int i;
    for (i = 0; i < n; i++) v[i] = (float)((i * 37 + seed * 101) % 61 - 30) / 97.f;
}

static rm_exec *open_exec(model *m, rm_plan *p, int threads)
{
    rm_exec_desc d = {.threads = threads > 0, .poison = 1, .add = add};
    rm_exec *e = NULL;
    float w[NW];
    int i;
    if (threads > 1) d.h2d = d.d2h = 20000000, d.latency_ns = 20000; /* a copy of a weight lasts 70 us: it is under way when a step returns */
    if (!EXPECT(rm_exec_create(p, &d, &e) == RM_OK, rm_graph_error(m->g))) exit(3);
    for (i = 0; i < LAYERS; i++) {
        fill(w, NW, i);
        EXPECT(rm_exec_write(e, m->w[i], RM_VALUE, 0, w, sizeof w) == RM_OK, rm_exec_error(e));
    }
    return e;
}

static rm_result give(model *m, rm_exec *e, int seed)
{
    float v[NX];
    rm_result r;
    fill(v, NX, seed);
    r = rm_exec_write(e, m->x, RM_VALUE, 0, v, sizeof v);
    fill(v, NX, seed + 7);
    if (r == RM_OK) r = rm_exec_write(e, m->want, RM_VALUE, 0, v, sizeof v);
    memset(v, 0xEE, sizeof v);
    return r;
}
static rm_result step(model *m, rm_exec *e, uint32_t kind, int n)
{
    rm_step s = {.kind = kind, .step = (uint64_t)n, .lr = 0.01};
    rm_result r = give(m, e, n);
    return r == RM_OK ? rm_exec_step(e, &s) : r;
}
static void steps(model *m, rm_exec *e, uint32_t kind, int from, int to)
{
    for (; from < to; from++) EXPECT(step(m, e, kind, from) == RM_OK, rm_exec_error(e));
}

/* All that persists, as rm_exec_save writes it. */
static tm_text state(rm_exec *e)
{
    tm_text t;
    memset(&t, 0, sizeof t);
    EXPECT(rm_exec_save(e, tm_sink, &t) == RM_OK, rm_exec_error(e));
    return t;
}
static void equal(rm_exec *e, const tm_text *want, const char *what)
{
    tm_text t = state(e);
    EXPECT(t.n == want->n && !memcmp(t.s, want->s, t.n), what);
    free(t.s);
}

/* --- orders of steps */
static void orders(void)
{
    static const uint32_t adds[] = {RM_MIDDLE, RM_LAST};
    model m;
    rm_plan *p;
    rm_exec *e;
    int threads, i, tight;
    float grad[NW];
    tm_text s;
    build(&m, 0);
    for (tight = 0; tight < 2; tight++) {
        p = plan(&m, 31, tight);
        for (threads = 0; threads < 2; threads++) {
            e = open_exec(&m, p, threads);
            EXPECT(rm_exec_step(e, &(rm_step){.kind = RM_FIRST}) == RM_ERROR_ARGUMENT && strstr(rm_exec_error(e), "input x: never written"), rm_exec_error(e));
            fill(grad, NX, 1);
            EXPECT(rm_exec_write(e, m.x, RM_VALUE, 0, grad, NX * 4) == RM_OK && rm_exec_step(e, &(rm_step){.kind = RM_FORWARD}) == RM_ERROR_ARGUMENT && strstr(rm_exec_error(e), "input want: never written"), rm_exec_error(e));
            EXPECT(rm_exec_write(e, m.want, RM_VALUE, 0, grad, 8) == RM_OK && rm_exec_step(e, &(rm_step){.kind = RM_FORWARD}) == RM_ERROR_ARGUMENT && strstr(rm_exec_error(e), "input want: only 8 of its"), rm_exec_error(e));
            for (i = 0; i < 2; i++) EXPECT(step(&m, e, adds[i], 2) == RM_ERROR_ARGUMENT && strstr(rm_exec_error(e), "there was none; begin an accumulation with RM_FIRST"), rm_exec_error(e));
            steps(&m, e, RM_FIRST, 0, 1);
            steps(&m, e, RM_LAST, 1, 2);
            for (i = 0; i < 2; i++) EXPECT(step(&m, e, adds[i], 2) == RM_ERROR_ARGUMENT && strstr(rm_exec_error(e), "begin an accumulation with RM_FIRST"), rm_exec_error(e));
            steps(&m, e, RM_SINGLE, 2, 3);
            for (i = 0; i < 2; i++) EXPECT(step(&m, e, adds[i], 2) == RM_ERROR_ARGUMENT && strstr(rm_exec_error(e), "RM_FIRST"), rm_exec_error(e));
            steps(&m, e, RM_FIRST, 3, 4);
            steps(&m, e, RM_FORWARD, 4, 5); /* an evaluation in between changes nothing */
            EXPECT(rm_exec_write(e, m.x, RM_VALUE, 0, grad, NX * 4) == RM_OK && rm_exec_write(e, m.want, RM_VALUE, 0, grad, 8) == RM_OK && rm_exec_write(e, m.want, RM_VALUE, 8, grad, NX * 4 - 8) == RM_OK, rm_exec_error(e));
            EXPECT(rm_exec_step(e, &(rm_step){.kind = RM_FORWARD}) == RM_OK, rm_exec_error(e)); /* an input in parts */
            steps(&m, e, RM_MIDDLE, 5, 6);
            m.fail_layer = 3, m.fail_phase = RM_PHASE_BACKWARD; /* half of the gradients hold this micro-batch, half do not */
            EXPECT(step(&m, e, RM_MIDDLE, 6) == RM_ERROR_CALLBACK && strstr(rm_exec_error(e), "h[3]/fc: its backward returned 9"), rm_exec_error(e));
            EXPECT(step(&m, e, RM_LAST, 6) == RM_ERROR_ARGUMENT && strstr(rm_exec_error(e), "a step failed"), rm_exec_error(e));
            steps(&m, e, RM_FORWARD, 6, 7);
            EXPECT(step(&m, e, RM_LAST, 6) == RM_ERROR_ARGUMENT, rm_exec_error(e));
            steps(&m, e, RM_FIRST, 7, 8);
            s = state(e); /* another state comes, and what has been added up is not of it */
            EXPECT(rm_exec_restore(e, s.s, s.n) == RM_OK, rm_exec_error(e));
            free(s.s);
            for (i = 0; i < 2; i++) EXPECT(step(&m, e, adds[i], 8) == RM_ERROR_ARGUMENT && strstr(rm_exec_error(e), "was restored"), rm_exec_error(e));
            steps(&m, e, RM_FIRST, 7, 8);
            steps(&m, e, RM_LAST, 8, 9);
            fill(grad, NW, 5); /* who gives the gradients knows what he adds to */
            for (i = 0; i < LAYERS; i++) EXPECT(rm_exec_write(e, m.w[i], RM_GRAD, 0, grad, sizeof grad) == RM_OK, rm_exec_error(e));
            steps(&m, e, RM_LAST, 9, 10);
            EXPECT(rm_exec_wait(e) == RM_OK, rm_exec_error(e));
            rm_exec_destroy(e);
        }
        rm_plan_destroy(p);
    }
    rm_graph_destroy(m.g);
}

/* Of the kinds of step that have run so far, the one that has most at once; between steps what persists, and
   the outputs. kinds: FIRST, MIDDLE, LAST, then SINGLE, too. */
static void bytes_by_kind(const model *m, const rm_plan *p, const rm_exec *e, int run)
{
    rm_exec_info info;
    rm_plan_info of;
    uint64_t most = 0, peak = 0, between = 0, weights = 0, states = 0;
    uint32_t k, step;
    for (step = 0; step < RM_STEP_KINDS; step++)
        if ((run >= 3 ? step < 4 : step && step < (uint32_t)run + 2) && rm_plan_get_info(p, 1u << step, &of) == RM_OK && of.live_bytes > most) most = of.live_bytes;
    EXPECT(rm_exec_get_info(e, &info) == RM_OK, rm_exec_error(e));
    for (k = 0; k < RM_BYTE_KINDS; k++) peak += info.peak_bytes[k], between += info.now_bytes[k];
    EXPECT(peak == most, "the peak of the kinds of step that have run");
    for (k = 0; k < m->g->n_tensors; k++)
        if (m->g->tensors[k].kind == RMI_PARAM && !m->g->tensors[k].external) weights += m->g->tensors[k].bytes, states += m->g->tensors[k].state_bytes;
    EXPECT(info.now_bytes[RM_WEIGHTS] <= weights && info.now_bytes[RM_STATES] <= states, "what persists, there or in host memory");
    EXPECT(between <= peak && info.now_bytes[RM_WORKSPACES] == 0 && info.now_bytes[RM_SAVED_DATA] == 0, "and what is only of a step is not");
}

/* A check, and a profile, in the middle of an accumulation change nothing of it; nor do they begin one. */
static void looked_at(void)
{
    static const uint32_t kinds[] = {RM_FIRST, RM_MIDDLE, RM_LAST, RM_SINGLE, RM_FORWARD};
    model m;
    rm_plan *p, *q;
    rm_exec *e, *plain;
    tm_text want;
    int i;
    build(&m, 1);
    p = plan(&m, 31, 1);
    q = plan(&m, RM_SINGLE, 0);
    plain = open_exec(&m, p, 0);
    e = open_exec(&m, p, 0);
    for (i = 0; i < 5; i++) {
        rm_step s = {.kind = kinds[i], .step = 3, .lr = 0.5};
        EXPECT(give(&m, e, i) == RM_OK && rm_exec_check(e, &s, NULL) == RM_OK, rm_exec_error(e));
    }
    EXPECT(rm_exec_replan(e, q) == RM_OK && rm_exec_replan(e, p) == RM_OK, "no accumulation is under way");
    for (i = 0; i < 10; i++) {
        uint32_t kind = i % 5 < 3 ? kinds[i % 5] : RM_SINGLE;
        rm_step s = {.kind = kinds[(i + i / 5) % 5], .step = 3, .lr = 0.5};
        rm_exec_info info;
        steps(&m, plain, kind, i, i + 1);
        steps(&m, e, kind, i, i + 1);
        EXPECT(give(&m, e, i) == RM_OK && rm_exec_check(e, &s, NULL) == RM_OK, rm_exec_error(e));
        EXPECT(give(&m, e, i) == RM_OK && rm_exec_profile(e, &s, 1) == RM_OK, rm_exec_error(e));
        EXPECT(rm_exec_get_info(e, &info) == RM_OK && info.steps == (uint64_t)i + 1, "steps are those of the caller");
        bytes_by_kind(&m, p, e, i);
    }
    want = state(plain);
    equal(e, &want, "as if nobody had looked");
    free(want.s);
    rm_exec_destroy(e), rm_exec_destroy(plain);
    rm_plan_destroy(p), rm_plan_destroy(q);
    rm_graph_destroy(m.g);
}

/* A checkpoint amid an accumulation: what was saved and the gradients, in either order, into an executor that is new; it goes on as if nothing
   had been. Gradients that a plan in between has no place for are gone, and that is told. */
static void checkpoint(void)
{
    model m;
    rm_plan *p[2], *single;
    rm_exec *e;
    tm_text saved, want;
    float grad[LAYERS][NW];
    int i, k;
    build(&m, 0);
    p[0] = plan(&m, RM_SINGLE | RM_FIRST | RM_MIDDLE | RM_LAST, 0);
    p[1] = plan(&m, RM_SINGLE | RM_FIRST | RM_MIDDLE | RM_LAST, 1);
    single = plan(&m, RM_SINGLE, 0);
    e = open_exec(&m, p[0], 0);
    steps(&m, e, RM_SINGLE, 0, 2);
    steps(&m, e, RM_FIRST, 2, 3);
    for (i = 0; i < LAYERS; i++) EXPECT(rm_exec_read(e, m.w[i], RM_GRAD, 0, grad[i], sizeof grad[i]) == RM_OK, rm_exec_error(e));
    saved = state(e);
    steps(&m, e, RM_MIDDLE, 3, 4);
    steps(&m, e, RM_LAST, 4, 5);
    want = state(e);
    rm_exec_destroy(e);
    for (k = 0; k < 8; k++) {
        e = open_exec(&m, p[k & 1], k >> 2);
        if (k & 2) EXPECT(rm_exec_restore(e, saved.s, saved.n) == RM_OK, rm_exec_error(e));
        for (i = 0; i < LAYERS; i++) EXPECT(rm_exec_write(e, m.w[i], RM_GRAD, 0, grad[i], sizeof grad[i]) == RM_OK, rm_exec_error(e));
        if (!(k & 2)) EXPECT(rm_exec_restore(e, saved.s, saved.n) == RM_OK, rm_exec_error(e));
        EXPECT(rm_exec_replan(e, p[!(k & 1)]) == RM_OK, rm_exec_error(e));
        steps(&m, e, RM_MIDDLE, 3, 4);
        EXPECT(rm_exec_wait(e) == RM_OK && rm_exec_replan(e, p[k & 1]) == RM_OK, rm_exec_error(e));
        steps(&m, e, RM_LAST, 4, 5);
        equal(e, &want, "a step that was interrupted");
        for (i = 0; i < LAYERS; i++) EXPECT(rm_exec_write(e, m.w[i], RM_GRAD, 0, grad[i], sizeof grad[i]) == RM_OK, rm_exec_error(e));
        EXPECT(rm_exec_replan(e, single) == RM_OK && rm_exec_replan(e, p[k & 1]) == RM_OK, rm_exec_error(e));
        EXPECT(step(&m, e, RM_MIDDLE, 5) == RM_ERROR_ARGUMENT && strstr(rm_exec_error(e), "RM_FIRST"), "gradients that no plan has kept");
        rm_exec_destroy(e);
    }
    free(saved.s), free(want.s);
    rm_plan_destroy(p[0]), rm_plan_destroy(p[1]), rm_plan_destroy(single);
    rm_graph_destroy(m.g);
}

/* --- saving, restoring, replanning while copies and updates are under way */
static void in_flight(int clip)
{
    model m;
    rm_plan *all, *tight, *mid;
    rm_exec *e;
    tm_text after[9], t;
    int i, threads;
    build(&m, clip);
    all = plan(&m, RM_SINGLE | RM_FIRST | RM_LAST, 0);
    tight = plan(&m, RM_SINGLE | RM_FIRST | RM_LAST, 1);
    mid = plan(&m, RM_SINGLE | RM_FIRST | RM_LAST, 2);
    {
        rm_plan_info info;
        EXPECT(rm_plan_get_info(tight, RM_SINGLE, &info) == RM_OK && info.h2d_bytes && info.d2h_bytes, "the tight plan moves something");
    }
    e = open_exec(&m, all, 0);
    for (i = 0; i < 9; i++) {
        after[i] = state(e);
        if (i < 8) steps(&m, e, i < 5 ? RM_SINGLE : i == 6 ? RM_LAST : i == 5 ? RM_FIRST : RM_SINGLE, i, i + 1);
    }
    rm_exec_destroy(e);
    for (threads = 0; threads < 3; threads++) {
        e = open_exec(&m, tight, threads);
        steps(&m, e, RM_SINGLE, 0, 2);
        equal(e, &after[2], "saved at once after a step");
        steps(&m, e, RM_SINGLE, 2, 4);
        EXPECT(rm_exec_restore(e, after[2].s, after[2].n) == RM_OK, rm_exec_error(e)); /* into the middle of it */
        equal(e, &after[2], "restored at once after a step");
        EXPECT(rm_exec_restore(e, after[2].s, after[2].n - 1) == RM_ERROR_TEXT, rm_exec_error(e));
        steps(&m, e, RM_SINGLE, 2, 3);
        EXPECT(rm_exec_replan(e, mid) == RM_OK, rm_exec_error(e)); /* at once after a step */
        steps(&m, e, RM_SINGLE, 3, 5);
        EXPECT(rm_exec_replan(e, tight) == RM_OK, rm_exec_error(e));
        equal(e, &after[5], "after replanning twice");
        steps(&m, e, RM_FIRST, 5, 6);
        EXPECT(rm_exec_replan(e, mid) == RM_OK, rm_exec_error(e)); /* amid an accumulation */
        EXPECT(rm_exec_replan(e, all) == RM_OK && rm_exec_replan(e, tight) == RM_OK, rm_exec_error(e));
        steps(&m, e, RM_LAST, 6, 7);
        equal(e, &after[7], "after replanning amid an accumulation");
        steps(&m, e, RM_SINGLE, 7, 8);
        equal(e, &after[8], "and a step on");
        EXPECT(give(&m, e, 8) == RM_OK, rm_exec_error(e)); /* inputs in flight, no step */
        rm_exec_destroy(e);
    }
    e = open_exec(&m, tight, 2); /* never waited for */
    steps(&m, e, RM_SINGLE, 0, 3);
    rm_exec_destroy(e);
    if (EXPECT(rm_exec_create(tight, &(rm_exec_desc){.threads = 1, .add = add}, &e) == RM_OK, rm_graph_error(m.g))) rm_exec_destroy(e); /* never ran */
    EXPECT(rm_exec_create(tight, &(rm_exec_desc){.threads = 2, .add = add}, &e) == RM_ERROR_ARGUMENT && strstr(rm_graph_error(m.g), "no number of threads"), rm_graph_error(m.g));
    e = open_exec(&m, tight, 1);
    t = state(e);
    EXPECT(t.n == after[0].n && !memcmp(t.s, after[0].s, t.n), "before any step");
    free(t.s);
    rm_exec_destroy(e);
    for (i = 0; i < 9; i++) free(after[i].s);
    rm_plan_destroy(all), rm_plan_destroy(tight), rm_plan_destroy(mid);
    rm_graph_destroy(m.g);
}

/* --- a callback fails, wherever it runs; then the executor goes on from a saved state as if nothing had been */
static void failures(void)
{
    model m;
    rm_plan *p;
    rm_exec *e;
    int threads, k;
    uint32_t phase;
    build(&m, 1);
    p = plan(&m, RM_SINGLE, 1);
    for (threads = 0; threads < 3; threads++) {
        tm_text begin, good;
        e = open_exec(&m, p, threads);
        begin = state(e);
        steps(&m, e, RM_SINGLE, 0, 3);
        good = state(e);
        for (phase = RM_PHASE_FORWARD; phase <= RM_PHASE_UPDATE; phase++)
            for (k = 0; k < LAYERS; k += 2) {
                static const char *const words[] = {"", "fc: its forward", "fc: its backward", "w: its update"};
                char want[40];
                rm_result r;
                int i;
                snprintf(want, sizeof want, "h[%d]/%s returned 9", k, words[phase]);
                EXPECT(rm_exec_restore(e, begin.s, begin.n) == RM_OK, rm_exec_error(e));
                m.fail_layer = k, m.fail_phase = (int)phase;
                for (i = 0, r = RM_OK; i < 3 && r == RM_OK; i++) r = step(&m, e, RM_SINGLE, i);
                if (r == RM_OK) r = rm_exec_wait(e);
                EXPECT(r == RM_ERROR_CALLBACK && strstr(rm_exec_error(e), want), rm_exec_error(e));
                EXPECT(rm_exec_wait(e) == RM_OK, "told once");
                EXPECT(rm_exec_restore(e, begin.s, begin.n) == RM_OK, rm_exec_error(e));
                steps(&m, e, RM_SINGLE, 0, 3);
                equal(e, &good, "the same bits after a failure");
            }
        rm_exec_destroy(e);
        free(begin.s), free(good.s);
    }
    rm_plan_destroy(p);
    rm_graph_destroy(m.g);
}

/* --- two executors of one plan, each in a thread of its own */
typedef struct worker {
    model *m;
    rm_exec *e;
    int failed;
    tm_text end;
} worker;
static void *work(void *arg)
{
    worker *w = (worker *)arg;
    float v;
    int i;
    for (i = 0; i < 6; i++) {
        if (step(w->m, w->e, RM_SINGLE, i) != RM_OK) w->failed++;
        if (i % 2 && rm_exec_read(w->e, w->m->loss, RM_VALUE, 0, &v, 4) != RM_OK) w->failed++;
        if (rm_exec_read(w->e, w->m->x, RM_VALUE, 0, &v, 4) != RM_ERROR_ARGUMENT) w->failed++; /* messages are the executor's own */
    }
    if (rm_exec_save(w->e, tm_sink, &w->end) != RM_OK) w->failed++;
    return NULL;
}
static void together(void)
{
    model m;
    rm_plan *p;
    worker w[2];
    pthread_t id[2];
    int threads, i;
    build(&m, 0);
    p = plan(&m, RM_SINGLE, 1);
    for (threads = 0; threads < 3; threads++) {
        memset(w, 0, sizeof w);
        for (i = 0; i < 2; i++) {
            w[i].m = &m;
            w[i].e = open_exec(&m, p, threads);
        }
        for (i = 0; i < 2; i++) EXPECT(!pthread_create(&id[i], NULL, work, &w[i]), "");
        for (i = 0; i < 2; i++) pthread_join(id[i], NULL);
        EXPECT(!w[0].failed && !w[1].failed && w[0].end.n && w[0].end.n == w[1].end.n && !memcmp(w[0].end.s, w[1].end.s, w[0].end.n), "two executors at once");
        for (i = 0; i < 2; i++) {
            rm_exec_destroy(w[i].e);
            free(w[i].end.s);
        }
    }
    rm_plan_destroy(p);
    rm_graph_destroy(m.g);
}

/* --- planning that is stopped */
static int calls_left;
static int stop(void *user, const rm_progress *p)
{
    (void)user;
    (void)p;
    return calls_left-- <= 0;
}
static void cancelled(void)
{
    model m;
    rm_plan *p;
    rm_exec *e;
    tm_text want, got;
    int n;
    build(&m, 0);
    p = plan(&m, RM_SINGLE, 0);
    e = open_exec(&m, p, 0);
    steps(&m, e, RM_SINGLE, 0, 2);
    want = state(e);
    rm_exec_destroy(e);
    rm_plan_destroy(p);
    for (n = 0; n < 12; n++) {
        rm_plan_desc d = {.device_bytes = 22000, .host_bytes = 1 << 20, .progress = stop};
        rm_result r;
        calls_left = n;
        p = NULL;
        r = rm_plan_create(m.g, &d, &p);
        EXPECT((r == RM_OK) == (p != NULL) && (r == RM_OK || r == RM_ERROR_CANCELLED), rm_graph_error(m.g));
        if (!p) continue;
        e = open_exec(&m, p, 1);
        steps(&m, e, RM_SINGLE, 0, 2);
        got = state(e);
        EXPECT(got.n == want.n && !memcmp(got.s, want.s, got.n), "the best plan so far runs as any");
        free(got.s);
        rm_exec_destroy(e);
        rm_plan_destroy(p);
    }
    free(want.s);
    rm_graph_destroy(m.g);
}

/* Memory is out in the middle of a call: the next call finds the executor as it was before. A bind that failed is not taken for
   done; gradients that an update has used up are not taken for good because a check had no memory to begin with. */
static int out_of_memory;
static void *scarce(size_t bytes, void *user) { return (void)user, out_of_memory ? NULL : malloc(bytes); }
static void give_back(void *memory, void *user) { (void)user, free(memory); }
static int ones_fwd(const rm_call *c)
{
    memset(c->out[0], 0, (size_t)c->out_bytes[0]);
    return ((float *)c->out[0])[0] = ((const float *)c->in[0])[0], 0;
}
static int ones_bwd(const rm_call *c)
{
    size_t i;
    for (i = 0; i < c->n_in; i++)
        if (c->din[i] && !RM_ADDS(c, i)) memset(c->din[i], 0, (size_t)c->in_bytes[i]);
    return 0;
}
static int no_update(const rm_call *c) { return (void)c, 0; }
static void without_memory(void)
{
    static const rm_kind kind = {.name = "ones", .forward = ones_fwd, .backward = ones_bwd};
    float first[1024] = {1}, second[1024] = {2}, seen = 0;
    rm_graph *g = rm_graph_create(NULL);
    rm_tensor in = rm_input_add(g, "in", 4096, RM_EXTERNAL), h = in;
    rm_plan_desc d = {.device_bytes = 700 << 10, .host_bytes = 64 << 20, .steps = RM_FIRST | RM_LAST};
    rm_exec_desc desc = {.threads = 1, .allocator = {scarce, give_back, NULL}, .add = add};
    rm_step last = {.step = 0};
    rm_plan *p = NULL;
    rm_exec *x = NULL;
    int i;
    for (i = 0; i < 6; i++) {
        rm_tensor w = RM_PARAM(g, .bytes = 1 << 16, .state_bytes = 1 << 17, .update = no_update, .update_host = no_update, .update_ns = 1000, .update_host_ns = 10);
        h = RM_OP(g, &kind, .in = {h, w}, .out = {i == 5 ? 4 : 4096}, .fwd_ns = 100000, .bwd_ns = 100000);
    }
    rm_output_add(g, h);
    rm_graph_link(g, 10000000000u, 10000000000u, 10, 0);
    if (!EXPECT(rm_plan_create(g, &d, &p) == RM_OK && rm_exec_create(p, &desc, &x) == RM_OK, rm_graph_error(g))) return;
    EXPECT(rm_exec_bind(x, in, RM_VALUE, first) == RM_OK, rm_exec_error(x));
    last.kind = RM_FIRST;
    EXPECT(rm_exec_step(x, &last) == RM_OK, rm_exec_error(x));
    last.kind = RM_LAST;
    EXPECT(rm_exec_step(x, &last) == RM_OK && rm_exec_step(x, &last) != RM_OK, "gradients that are used up are added to");
    out_of_memory = 1;
    EXPECT(rm_exec_bind(x, in, RM_VALUE, second) != RM_OK, "a bind without memory");
    EXPECT(rm_exec_check(x, &last, NULL) == RM_ERROR_MEMORY, "a check without memory");
    out_of_memory = 0;
    EXPECT(rm_exec_step(x, &last) != RM_OK, "gradients that are used up are added to after a check that had no memory");
    EXPECT(rm_exec_bind(x, in, RM_VALUE, second) == RM_OK, rm_exec_error(x));
    last.kind = RM_FIRST;
    EXPECT(rm_exec_step(x, &last) == RM_OK && rm_exec_read(x, h, RM_VALUE, 0, &seen, 4) == RM_OK && seen == 2, rm_exec_error(x));
    rm_exec_destroy(x);
    rm_plan_destroy(p);
    rm_graph_destroy(g);
}

int main(void)
{
    without_memory();
    orders();
    looked_at();
    checkpoint();
    in_flight(0);
    in_flight(1);
    failures();
    together();
    cancelled();
    return tm_end();
}
