/* test_watch.c - looking into a real step: callbacks around each op, a trace of what each took, the first op that leaves a NaN.
   The watched step leaves the same bits as any other, with lanes in threads and host memory, too.

      gcc -O1 -g -std=gnu99 -I. -o build/test_watch tests/unit/test_watch.c -lm -lpthread && build/test_watch */
#define ROCKMATE_IMPLEMENTATION
#define ROCKMATE_THREADS
#include "rockmate.h"

#include <float.h>
#include <math.h>
#include "../common.h"

enum { N = 64, LAYERS = 5 };

typedef struct model {
    rm_graph *g;
    rm_tensor x, loss, w[LAYERS];
    int bad_layer, bad_phase; /* that layer writes a NaN, or (phase + 10) an infinity, at element 5 */
} model;

static void spoil(const rm_call *c, float *v)
{
    const model *m = (const model *)c->user;
    if (c->arg[0] != m->bad_layer || (int)c->phase != m->bad_phase % 10) return;
    v[5] = m->bad_phase < 10 ? (float)NAN : (float)-INFINITY;
}
static int scale_fwd(const rm_call *c)
{
    const float *x = (const float *)c->in[0], *w = (const float *)c->in[1];
    float *y = (float *)c->out[0];
    int i;
    for (i = 0; i < N; i++) y[i] = tanhf(x[i] * w[i]);
    spoil(c, y);
    return 0;
}
static int scale_bwd(const rm_call *c)
{
    const float *x = (const float *)c->in[0], *w = (const float *)c->in[1], *y = (const float *)c->out[0], *dy = (const float *)c->dout[0];
    float *dx = (float *)c->din[0], *dw = (float *)c->din[1];
    int i;
    for (i = 0; i < N; i++) {
        float d = dy[i] * (1 - y[i] * y[i]);
        if (dx) dx[i] = (RM_ADDS(c, 0) ? dx[i] : 0) + d * w[i];
        if (dw) dw[i] = (RM_ADDS(c, 1) ? dw[i] : 0) + d * x[i];
    }
    if (dx) spoil(c, dx);
    return 0;
}
static int sum_fwd(const rm_call *c)
{
    float s = 0;
    int i;
    for (i = 0; i < N; i++) s += ((const float *)c->in[0])[i];
    *(float *)c->out[0] = s;
    return 0;
}
static int sum_bwd(const rm_call *c)
{
    int i;
    for (i = 0; i < N; i++) ((float *)c->din[0])[i] = (RM_ADDS(c, 0) ? ((float *)c->din[0])[i] : 0) + 1;
    return 0;
}
static int update(const rm_call *c)
{
    float *w = (float *)c->param, *m = (float *)c->state;
    int i;
    for (i = 0; i < N; i++) m[i] = 0.9f * m[i] + ((const float *)c->grad)[i], w[i] -= (float)c->step->lr * m[i];
    spoil(c, w);
    return 0;
}
static const rm_kind SCALE = {.name = "scale", .forward = scale_fwd, .backward = scale_bwd, .needs = RM_IN(0) | RM_IN(1) | RM_OUT(0)};
static const rm_kind SUM = {.name = "sum", .forward = sum_fwd, .backward = sum_bwd, .needs = RM_NOTHING};

static void build(model *m)
{
    rm_tensor x;
    int i;
    memset(m, 0, sizeof *m);
    m->bad_layer = -1;
    m->g = rm_graph_create(NULL);
    rm_graph_link(m->g, 100000000, 100000000, 100, 0);
    x = m->x = rm_input_add(m->g, "x", N * 4, 0);
    for (i = 0; i < LAYERS; i++) {
        rm_block_begin(m->g, "h");
        m->w[i] = RM_PARAM(m->g, .name = "w", .bytes = N * 4, .state_bytes = N * 4, .update = update, .update_host = update,
                           .update_ns = 500, .update_host_ns = 700, .user = m, .arg = {i});
        x = RM_OP(m->g, &SCALE, .name = "s", .in = {x, m->w[i]}, .out = {N * 4}, .user = m, .arg = {i}, .fwd_ns = 2000, .bwd_ns = 4000);
        rm_block_end(m->g);
    }
    m->loss = RM_OP(m->g, &SUM, .name = "loss", .in = {x}, .out = {4}, .fwd_ns = 100, .bwd_ns = 100);
    rm_output_add(m->g, m->loss);
}

/* mode 0: everything kept; 1: recomputation; 2: host memory, lanes in threads. */
static rm_exec *open_exec(model *m, int mode, const rm_exec_desc *with, rm_plan **p)
{
    rm_plan_info info;
    rm_plan_desc d = {.work_limit = 100000, .info = &info, .align = 64};
    rm_exec_desc e = {0};
    rm_exec *x = NULL;
    float v[N];
    int i, k;
    memset(&info, 0, sizeof info);
    if (mode == 0) d.preset = "noremat";
    if (mode == 1) d.device_bytes = 1;
    if (mode == 2) d.device_bytes = 1, d.host_bytes = 1 << 20;
    if (mode) {
        rm_plan_create(m->g, &d, p);
        d.device_bytes = info.min_bytes + 256;
    }
    EXPECT(rm_plan_create(m->g, &d, p) == RM_OK, rm_graph_error(m->g));
    EXPECT(mode != 2 || info.h2d_bytes, "copies");
    if (with) e = *with;
    e.threads = mode == 2;
    EXPECT(rm_exec_create(*p, &e, &x) == RM_OK, rm_graph_error(m->g));
    for (k = 0; k < LAYERS; k++) {
        for (i = 0; i < N; i++) v[i] = 0.5f + (float)((i * 7 + k * 13) % 29) / 31.f;
        EXPECT(rm_exec_write(x, m->w[k], RM_VALUE, 0, v, sizeof v) == RM_OK, rm_exec_error(x));
    }
    return x;
}

static void give_input(model *m, rm_exec *x)
{
    float v[N];
    int i;
    for (i = 0; i < N; i++) v[i] = (float)(i % 17) / 19.f - 0.4f;
    EXPECT(rm_exec_write(x, m->x, RM_VALUE, 0, v, sizeof v) == RM_OK, rm_exec_error(x));
}

static void close_exec(model *m, rm_exec *x, rm_plan *p)
{
    rm_exec_destroy(x);
    rm_plan_destroy(p);
    rm_graph_destroy(m->g);
}

/* --- callbacks around ops */
typedef struct seen {
    int before, after, stop_at, order;
    char last[64];
} seen;
static int before(void *user, const rm_call *c)
{
    seen *s = (seen *)user;
    snprintf(s->last, sizeof s->last, "%s", c->op);
    return ++s->before == s->stop_at ? 7 : 0;
}
static int after(void *user, const rm_call *c)
{
    seen *s = (seen *)user;
    s->after++;
    s->order |= strcmp(s->last, c->op) != 0;
    return 0;
}

static void hooks(void)
{
    model m;
    seen s = {0};
    rm_plan *p;
    rm_plan_info info;
    rm_step step = {.lr = 0.01};
    rm_exec_desc d = {.before = before, .after = after, .watch_user = &s};
    rm_exec *x;
    build(&m);
    x = open_exec(&m, 1, &d, &p);
    rm_plan_get_info(p, 0, &info);
    give_input(&m, x);
    EXPECT(rm_exec_step(x, &step) == RM_OK, rm_exec_error(x));
    EXPECT(s.before == s.after && s.before >= (int)info.runs && !s.order, "around every callback, in order");
    s.before = 0, s.stop_at = 4;
    give_input(&m, x);
    EXPECT(rm_exec_step(x, &step) == RM_ERROR_CALLBACK && strstr(rm_exec_error(x), "h[3]/s: its forward returned 7"), rm_exec_error(x));
    s.stop_at = 0;
    give_input(&m, x);
    EXPECT(rm_exec_step(x, &step) == RM_OK, rm_exec_error(x));
    close_exec(&m, x, p);
}

/* --- steps that are watched are steps */
static int refuse(void *user, const char *text, size_t n) { return (void)user, (void)text, (void)n, 1; }

static void same_bits(int mode)
{
    model m, watched;
    rm_plan *p, *q;
    rm_exec *x, *y;
    rm_step step = {.lr = 0.01};
    float one[N], other[N];
    tm_text trace = {0};
    rm_exec_info info;
    int i, n = 0;
    const char *at;
    build(&m), build(&watched);
    x = open_exec(&m, mode, NULL, &p), y = open_exec(&watched, mode, NULL, &q);
    for (i = 0; i < 4; i++) {
        step.step = (uint64_t)i;
        give_input(&m, x), give_input(&watched, y);
        EXPECT(rm_exec_step(x, &step) == RM_OK, rm_exec_error(x));
        trace.n = 0;
        EXPECT((i % 2 ? rm_exec_find_nan(y, &step, NULL, NULL) : rm_exec_trace(y, &step, tm_sink, &trace)) == RM_OK, rm_exec_error(y));
        if (i == 1) give_input(&m, x), give_input(&watched, y), EXPECT(rm_exec_step(x, &step) == RM_OK && rm_exec_step(y, &step) == RM_OK, "a plain one between");
    }
    for (i = 0; i < LAYERS; i++) {
        EXPECT(rm_exec_read(x, m.w[i], RM_VALUE, 0, one, sizeof one) == RM_OK && rm_exec_read(y, watched.w[i], RM_VALUE, 0, other, sizeof other) == RM_OK, "read");
        EXPECT(!memcmp(one, other, sizeof one), "bits of weights");
    }
    EXPECT(rm_exec_get_info(y, &info) == RM_OK && info.steps == 5, "they count");
    trace.n = 0;
    give_input(&watched, y);
    EXPECT(rm_exec_trace(y, &step, tm_sink, &trace) == RM_OK, rm_exec_error(y));
    for (at = trace.s; (at = strstr(at, "\"pid\":2,\"tid\"")) != NULL; at++) n += strncmp(at - 9, "\"ph\":\"X\",", 9) == 0;
    EXPECT(strstr(trace.s, "rockmate plan, simulated") && strstr(trace.s, "rockmate step, measured op by op"), "both processes");
    EXPECT(strstr(trace.s, "planned_us") && n >= 3 * LAYERS && !strcmp(trace.s + trace.n - 4, "\n]}\n"), "slices, and the end");
    EXPECT(mode != 2 || strstr(trace.s, "\"pid\":2,\"tid\":2,"), "copies");
    give_input(&watched, y);
    EXPECT(rm_exec_trace(y, &step, refuse, NULL) == RM_ERROR_WRITE && strstr(rm_exec_error(y), "rm_exec_trace"), rm_exec_error(y));
    EXPECT(rm_exec_trace(y, &step, NULL, NULL) == RM_ERROR_ARGUMENT, "no sink");
    step.kind = RM_FIRST;
    EXPECT(rm_exec_trace(y, &step, tm_sink, &trace) == RM_ERROR_ARGUMENT && strstr(rm_exec_error(y), "'first'"), rm_exec_error(y));
    EXPECT(rm_exec_find_nan(y, &step, NULL, NULL) == RM_ERROR_ARGUMENT && strstr(rm_exec_error(y), "'first'"), rm_exec_error(y));
    free(trace.s);
    close_exec(&m, x, p), close_exec(&watched, y, q);
}

/* --- the first op that leaves a NaN */
static uint64_t no_weights(void *user, rm_tensor t, uint32_t what, const void *bytes, uint64_t n)
{
    const model *m = (const model *)user;
    int i;
    for (i = 0; i < LAYERS; i++)
        if (what == RM_VALUE && !strcmp(rm_tensor_name(m->g, t), rm_tensor_name(m->g, m->w[i]))) return n;
    return rm_find_nan(RM_F32, bytes, n);
}

static void found(int mode, int layer, int phase, const char *message, const char *reason)
{
    model m;
    rm_plan *p;
    rm_exec *x;
    rm_step step = {.lr = 0.01};
    build(&m);
    x = open_exec(&m, mode, NULL, &p);
    give_input(&m, x);
    EXPECT(rm_exec_find_nan(x, &step, no_weights, &m) == RM_OK, rm_exec_error(x));
    m.bad_layer = layer, m.bad_phase = phase;
    give_input(&m, x);
    EXPECT(rm_exec_find_nan(x, &step, NULL, NULL) == RM_ERROR_CHECK, rm_exec_error(x));
    EXPECT(strstr(rm_exec_error(x), message) && strstr(rm_exec_error(x), reason), rm_exec_error(x));
    if (phase % 10 == RM_PHASE_UPDATE) { /* the weight is bad from now on: told as what was there before */
        m.bad_layer = -1;
        give_input(&m, x);
        EXPECT(rm_exec_find_nan(x, &step, NULL, NULL) == RM_ERROR_CHECK && strstr(rm_exec_error(x), "it has read one in h[2]/w, which was there before the step"), rm_exec_error(x));
    } else {
        m.bad_layer = -1;
        give_input(&m, x);
        EXPECT(rm_exec_find_nan(x, &step, NULL, NULL) == RM_OK, rm_exec_error(x));
    }
    close_exec(&m, x, p);
}

/* A tensor of several pieces: a NaN behind the first; one that was written over what was read is not blamed on that. */
static int big_fwd(const rm_call *c)
{
    float *y = (float *)c->out[0];
    memset(y, 0, c->out_bytes[0]);
    y[(5 << 20) / 4] = (float)NAN;
    return 0;
}
static const rm_kind BIG = {.name = "big", .forward = big_fwd, .inplace = RM_IN(0), .flags = RM_NOGRAD};
static void pieces(void)
{
    rm_graph *g = rm_graph_create(NULL);
    rm_tensor x = rm_input_add(g, "x", 9 << 20, 0), y;
    rm_plan *p;
    rm_exec *e;
    float *zero = (float *)calloc(9 << 20, 1);
    rm_step s = {.kind = RM_FORWARD};
    rm_plan_desc d = {.steps = RM_FORWARD};
    y = RM_OP(g, &BIG, .name = "big", .in = {x}, .out = {9 << 20});
    rm_output_add(g, y);
    EXPECT(rm_plan_create(g, &d, &p) == RM_OK && rm_exec_create(p, NULL, &e) == RM_OK, rm_graph_error(g));
    EXPECT(rm_exec_write(e, x, RM_VALUE, 0, zero, 9 << 20) == RM_OK, rm_exec_error(e));
    EXPECT(rm_exec_find_nan(e, &s, NULL, NULL) == RM_ERROR_CHECK && strstr(rm_exec_error(e), "in big, at byte 5242880 of 9437184; nothing that it reads"), rm_exec_error(e));
    rm_exec_destroy(e), rm_plan_destroy(p), rm_graph_destroy(g);
    free(zero);
}

static void elements(void)
{
    float f[3] = {1, FLT_MAX, -INFINITY};
    double d[3] = {1, NAN, 2};
    uint16_t half[4] = {0x3C00, 0x7BFF, 0x7C00, 0xFE00}, brain[4] = {0x3F80, 0x7F7F, 0x7F80, 0xFFC0};
    EXPECT(rm_find_nan(RM_F32, f, 12) == 8 && rm_find_nan(RM_F32, f, 8) == 8 && rm_find_nan(RM_F32, f, 0) == 0, "float");
    EXPECT(rm_find_nan(RM_F64, d, 24) == 8 && rm_find_nan(RM_F64, d, 15) == 15, "double; a rest that is no element");
    EXPECT(rm_find_nan(RM_F16, half, 8) == 4 && rm_find_nan(RM_F16, half + 3, 2) == 0 && rm_find_nan(RM_F16, half, 4) == 4, "half");
    EXPECT(rm_find_nan(RM_BF16, brain, 8) == 4 && rm_find_nan(RM_BF16, brain + 3, 2) == 0, "bfloat16");
    EXPECT(rm_find_nan(99, f, 12) == 12, "no type");
}

int main(void)
{
    int mode;
    hooks();
    elements();
    pieces();
    for (mode = 0; mode < 3; mode++) {
        same_bits(mode);
        found(mode, 3, RM_PHASE_FORWARD, "h[3]/s: its forward left NaN or infinity in h[3]/s, at byte 20 of 256", "nothing that it reads and leaves has one");
        found(mode, 1, 10 + RM_PHASE_BACKWARD, "h[1]/s: its backward left NaN or infinity in ", "nothing that it reads and leaves has one");
        found(mode, 2, RM_PHASE_UPDATE, "h[2]/w: its update left NaN or infinity in h[2]/w, at byte 20", "nothing that it reads and leaves has one");
    }
    return tm_end();
}
