/* rm_exec_check: a model whose kinds keep their word passes, at several budgets and for all step kinds; then every mistake of a
   list, one at a time, must be found, with the name of the op and the remedy in the message; what persists stays as it was; each
   allocation fails once. */
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"
#include <math.h>
#include <stdio.h>

static int passed, failed;
static uint64_t recomputed; /* runs of all plans so far: the comparison must have something to compare */
#define EXPECT(cond, ...)                                                    \
    do {                                                                     \
        if (cond) passed++;                                                  \
        else {                                                               \
            failed++;                                                        \
            printf("%s:%d: %s; ", __FILE__, __LINE__, #cond);                \
            printf(__VA_ARGS__);                                             \
            printf("\n");                                                    \
        }                                                                    \
    } while (0)

enum fault {
    NONE,
    GELU_NEEDS, GELU_UNWRITTEN, GELU_BEYOND, GELU_BEFORE, GELU_WRITES_IN, GELU_READS_BEYOND, GELU_IGNORES_ACCUM, GELU_ALWAYS_ADDS, GELU_SKIPS_SOME_ACCUM,
    GELU_WRITES_DOUT, GELU_RANDOM_BWD, GELU_WRONG, GELU_RETURNS, GELU_BWD_RETURNS, GELU_REMEMBERS, GELU_OUT_ADDS, GELU_VARIANT_BITS, GELU_VARIANT_NEEDS,
    SIG_NEEDS, SIG_INPLACE, SIG_OVER, DROP_NEEDS, DROP_BEYOND_SAVED, DROP_RANDOM, DROP_NO_SAVED, DROP_RECOMPUTE, LIN_PART, LIN_WS, LIN_WS_UNINIT,
    LIN_DX_UNWRITTEN, LIN_DW_BEYOND, BN_MUTATES, BN_RECOMPUTE, BN_READS_STATS, RES_SHARE, RES_TWICE, RES_SAME, RES_OVER, EMB_ZERO, LN_SETS_DW, LN_ADDS_DB, LN_ZERO_DX, LN_WS_SAVING, LN_WS_ALONE, LN_NULL, LN_SAVED_UNWRITTEN, LN_WRITES_SAVED, CE_OVER_SAVED,
    ONCE_RANDOM, VIEW_GRAD, SGD_BEYOND, SGD_RANDOM, SGD_RETURNS, BARRIER_WRITES, REDUCE_BEYOND, BN_WRONG_BETA,
    FAULTS
};
static int fault, updates_seen, external; /* external: some tensors are the caller's memory */
static int streamed;                      /* the plan keeps params and gradients in host memory */
static int32_t outside_targets[2];
static float outside[3][64];
static unsigned noise;

enum { B = 4, D = 6, V = 7 };
#define FL(n) ((uint64_t)(n) * sizeof(float))

static const float *in_f(const rm_call *c, uint32_t i) { return (const float *)c->in[i]; }
static float *din_f(const rm_call *c, uint32_t i) { return (float *)c->din[i]; }
static void give(const rm_call *c, uint32_t i, size_t at, float v)
{
    float *d = din_f(c, i) + at;
    *d = RM_ADDS(c, i) ? *d + v : v;
}

/* in: ids, table */
static int emb_fwd(const rm_call *c)
{
    const int32_t *id = (const int32_t *)c->in[0];
    size_t r;
    for (r = 0; r < B; r++) memcpy((float *)c->out[0] + r * D, in_f(c, 1) + id[r] * D, FL(D));
    return 0;
}
static int emb_bwd(const rm_call *c)
{
    const int32_t *id = (const int32_t *)c->in[0];
    const float *dy = (const float *)c->dout[0];
    size_t r, i;
    if (c->din[1] && fault == EMB_ZERO) memset(c->din[1], 0, FL(V * D));
    for (r = 0; r < B && c->din[1]; r++)
        for (i = 0; i < D; i++) din_f(c, 1)[(size_t)id[r] * D + i] += dy[r * D + i];
    return 0;
}

/* in: x [rows][m], w [n][m]; arg: n; ws: a row */
static int lin_fwd(const rm_call *c)
{
    size_t n = (size_t)c->arg[0], m = c->in_bytes[1] / sizeof(float) / n, rows = c->in_bytes[0] / sizeof(float) / m, r, i, j;
    float *ws = (float *)c->ws;
    for (r = 0; r < rows; r++) {
        for (i = 0; i < n; i++) {
            float s = 0;
            for (j = 0; j < m; j++) s += in_f(c, 0)[r * m + j] * in_f(c, 1)[i * m + j];
            if (fault == LIN_WS_UNINIT) s += ws[i] * 1e-3f;
            ws[i] = s;
        }
        if (fault == LIN_WS) ws[n] = 0;
        memcpy((float *)c->out[0] + r * n, ws, FL(n));
    }
    return 0;
}
static int lin_bwd(const rm_call *c)
{
    size_t n = (size_t)c->arg[0], m = c->in_bytes[1] / sizeof(float) / n, rows = c->in_bytes[0] / sizeof(float) / m, r, i, j;
    const float *dy = (const float *)c->dout[0];
    for (r = 0; r < rows && c->din[0]; r++)
        for (j = 0; j < m; j++) {
            float s = 0;
            for (i = 0; i < n; i++) s += dy[r * n + i] * in_f(c, 1)[i * m + j];
            if (fault == LIN_DX_UNWRITTEN && r == 1 && j == 2) continue;
            give(c, 0, r * m + j, s);
        }
    for (i = 0; i < n && c->din[1]; i++)
        for (j = 0; j < m; j++) {
            float s = 0;
            for (r = 0; r < rows; r++) s += dy[r * n + i] * in_f(c, 0)[r * m + j];
            give(c, 1, i * m + j, s);
        }
    if (c->din[1] && fault == LIN_DW_BEYOND) din_f(c, 1)[n * m] = 0;
    return 0;
}

/* in: x, gamma, beta, mean, var (running); saved: mean, rstd */
static int bn_fwd(const rm_call *c)
{
    float *y = (float *)c->out[0], *run_m = (float *)rm_mut(c, 3), *run_v = (float *)rm_mut(c, 4), *saved = (float *)c->saved;
    size_t r, i;
    for (i = 0; i < D; i++) {
        float m = 0, v = 0, rstd;
        for (r = 0; r < B; r++) m += in_f(c, 0)[r * D + i] / B;
        for (r = 0; r < B; r++) v += (in_f(c, 0)[r * D + i] - m) * (in_f(c, 0)[r * D + i] - m) / B;
        rstd = 1 / sqrtf(v + 0.1f);
        for (r = 0; r < B; r++) y[r * D + i] = (in_f(c, 0)[r * D + i] - m) * rstd * in_f(c, 1)[i] + in_f(c, 2)[i] + (fault == BN_READS_STATS ? in_f(c, 3)[i] : 0);
        if (saved) saved[i] = m, saved[D + i] = rstd;
        if (fault == BN_RECOMPUTE) run_m = (float *)c->in[3];
        if (run_m) run_m[i] = 0.9f * run_m[i] + 0.1f * m;
        if (run_v) run_v[i] = 0.9f * run_v[i] + 0.1f * v;
    }
    return 0;
}
static int bn_bwd(const rm_call *c)
{
    const float *dy = (const float *)c->dout[0], *saved = (const float *)c->saved;
    size_t r, i;
    for (i = 0; i < D; i++) {
        float m = saved[i], rstd = saved[D + i], sum = 0, dot = 0;
        for (r = 0; r < B; r++) sum += dy[r * D + i], dot += dy[r * D + i] * (in_f(c, 0)[r * D + i] - m) * rstd;
        for (r = 0; r < B && c->din[0]; r++) give(c, 0, r * D + i, in_f(c, 1)[i] * rstd * (dy[r * D + i] - sum / B - (in_f(c, 0)[r * D + i] - m) * rstd * dot / B));
        if (c->din[1]) give(c, 1, i, dot);
        if (c->din[2]) give(c, 2, i, fault == BN_WRONG_BETA ? sum / 2 : sum);
    }
    return 0;
}

static float gelu(float x) { return 0.5f * x * (1 + tanhf(0.7978846f * (x + 0.044715f * x * x * x))); }
static int gelu_fwd(const rm_call *c)
{
    size_t n = c->in_bytes[0] / sizeof(float), i;
    float *y = (float *)c->out[0];
    for (i = 0; i < n; i++) {
        if (fault == GELU_UNWRITTEN && i == 3) continue;
        y[i] = (fault == GELU_OUT_ADDS ? y[i] : 0) + gelu(in_f(c, 0)[i]);
    }
    if (fault == GELU_BEYOND) y[n] = 1;
    if (fault == GELU_BEFORE) y[-1] = 1;
    if (fault == GELU_WRITES_IN) ((float *)c->in[0])[2] += 1;
    if (fault == GELU_READS_BEYOND) y[0] += in_f(c, 0)[n] > 10 ? 1.0f : 0.0f;
    if (fault == GELU_REMEMBERS && updates_seen) y[0] += 1, y[1] += 1, y[2] += 1; /* some are dropped */
    return fault == GELU_RETURNS ? 3 : 0;
}
static int gelu2_fwd(const rm_call *c)
{
    gelu_fwd(c);
    if (fault == GELU_VARIANT_BITS) ((float *)c->out[0])[4] += 0.001f;
    return 0;
}
static int gelu_bwd(const rm_call *c)
{
    size_t n = c->in_bytes[0] / sizeof(float), i;
    const float *dy = (const float *)c->dout[0];
    for (i = 0; i < n && c->din[0]; i++) {
        float x = in_f(c, 0)[i], u = 0.7978846f * (x + 0.044715f * x * x * x), t = tanhf(u);
        float d = (0.5f * (1 + t) + 0.5f * x * (1 - t * t) * 0.7978846f * (1 + 3 * 0.044715f * x * x)) * dy[i];
        if (fault == GELU_WRONG) d = 0.5f * (1 + t) * dy[i];
        if (fault == GELU_RANDOM_BWD) d += (float)(noise++ % 1000) * 1e-6f;
        if (fault == GELU_IGNORES_ACCUM || (fault == GELU_SKIPS_SOME_ACCUM && i / 2 == 4)) din_f(c, 0)[i] = d;
        else if (fault == GELU_ALWAYS_ADDS) din_f(c, 0)[i] += d;
        else give(c, 0, i, d);
    }
    if (fault == GELU_WRITES_DOUT) ((float *)c->dout[0])[1] = 0.1f;
    return fault == GELU_BWD_RETURNS ? -7 : 0;
}

static int sig_fwd(const rm_call *c)
{
    size_t n = c->in_bytes[0] / sizeof(float), i;
    for (i = 0; i < n; i++) ((float *)c->out[0])[i] = 1 / (1 + expf(-in_f(c, 0)[i])) + (fault == SIG_INPLACE && i ? 0.1f * in_f(c, 0)[i - 1] : 0);
    return 0;
}
static int sig_bwd(const rm_call *c)
{
    size_t n = c->in_bytes[0] / sizeof(float), i;
    const float *y = (const float *)c->out[0], *dy = (const float *)c->dout[0];
    for (i = 0; i < n; i++) give(c, 0, i, y[i] * (1 - y[i]) * dy[i] + (fault == SIG_OVER && i ? dy[i - 1] : 0));
    return 0;
}

/* saved: mask as bytes */
static int drop_fwd(const rm_call *c)
{
    size_t n = c->in_bytes[0] / sizeof(float), i;
    unsigned char *mask = (unsigned char *)c->saved;
    uint64_t seed = fault == DROP_RANDOM || fault == ONCE_RANDOM ? noise++ : c->seed + (fault == DROP_RECOMPUTE ? c->recompute : 0);
    for (i = 0; i < n; i++) {
        unsigned char keep = (seed * 6364136223846793005u + i * 1442695040888963407u) >> 61 != 0;
        ((float *)c->out[0])[i] = keep ? in_f(c, 0)[i] * (fault == DROP_NO_SAVED && !mask ? 1.0f : 8.0f / 7) : 0;
        if (mask) mask[i] = keep;
    }
    if (mask && fault == DROP_BEYOND_SAVED) mask[n] = 1;
    return 0;
}
static int drop_bwd(const rm_call *c)
{
    size_t n = c->in_bytes[0] / sizeof(float), i;
    const unsigned char *mask = (const unsigned char *)c->saved;
    for (i = 0; i < n; i++) give(c, 0, i, mask[i] ? ((const float *)c->dout[0])[i] * (8.0f / 7) : 0);
    return 0;
}

static int add_fwd(const rm_call *c)
{
    size_t n = c->in_bytes[0] / sizeof(float), i;
    for (i = 0; i < n; i++) ((float *)c->out[0])[i] = in_f(c, 0)[i] + in_f(c, 1)[i];
    return 0;
}
static int add_bwd(const rm_call *c)
{
    size_t n = c->in_bytes[0] / sizeof(float), i;
    uint32_t k;
    for (k = 0; k < 2; k++)
        for (i = 0; i < n && c->din[k]; i++) give(c, k, i, ((const float *)c->dout[0])[i] * (fault == RES_SHARE && k == 1 ? 2.0f : 1.0f));
    return 0;
}

/* in: x, gamma, beta; saved: mean, rstd of each row */
static int ln_fwd(const rm_call *c)
{
    float *saved = (float *)c->saved, *ws = (float *)c->ws; /* ws: three floats, but one is enough where the forward saves */
    size_t rows = c->in_bytes[0] / FL(D), r, i;
    if (c->ws_bytes != FL(saved ? 1 : fault == LN_WS_ALONE ? 2 : 3)) return 5;
    for (i = 0; i < (saved && fault != LN_WS_SAVING ? 1u : 3u); i++) ws[i] = 1;
    for (r = 0; r < rows; r++) {
        const float *x = in_f(c, 0) + r * D;
        float m = 0, v = 0, rstd;
        for (i = 0; i < D; i++) m += x[i] / D;
        for (i = 0; i < D; i++) v += (x[i] - m) * (x[i] - m) / D;
        rstd = 1 / sqrtf(v + 0.1f);
        for (i = 0; i < D; i++) ((float *)c->out[0])[r * D + i] = (x[i] - m) * rstd * in_f(c, 1)[i] + in_f(c, 2)[i];
        if (saved) {
            saved[2 * r] = m;
            if (fault != LN_SAVED_UNWRITTEN) saved[2 * r + 1] = rstd;
        }
    }
    return 0; /* one float of saved more is declared and never used: that only costs memory */
}
static int ln_bwd(const rm_call *c)
{
    size_t rows = c->in_bytes[0] / FL(D), r, i;
    float dg[D] = {0}, db[D] = {0};
    float *saved = (float *)c->saved;
    for (r = 0; r < rows; r++) {
        const float *x = in_f(c, 0) + r * D, *dy = (const float *)c->dout[0] + r * D;
        float m = saved[2 * r], rstd = saved[2 * r + 1], sum = 0, dot = 0;
        if (fault == LN_SAVED_UNWRITTEN && rstd != rstd) rstd = 1;
        for (i = 0; i < D; i++) {
            float h = (x[i] - m) * rstd, d = dy[i] * in_f(c, 1)[i];
            sum += d;
            dot += d * h;
            if (fault != LN_NULL || c->din[0]) dg[i] += dy[i] * h;
            db[i] += dy[i];
        }
        for (i = 0; i < D && c->din[0]; i++) give(c, 0, r * D + i, rstd * (dy[i] * in_f(c, 1)[i] - sum / D - (x[i] - m) * rstd * dot / D));
    }
    if (fault == LN_WRITES_SAVED) saved[0] += 1;
    for (i = 0; i < D; i++) {
        if (c->din[1]) din_f(c, 1)[i] = (fault == LN_SETS_DW ? 0 : din_f(c, 1)[i]) + dg[i];
        if (c->din[2]) din_f(c, 2)[i] += db[i];
    }
    return 0;
}

/* residual and normalisation at once: r = x + y, n = r without its mean. Both gradients are dr and what comes of dn; where one lies over
   dr it comes last, when nobody wants dr any more */
static int fused_fwd(const rm_call *c)
{
    size_t rows = c->in_bytes[0] / FL(D), r, i;
    for (r = 0; r < rows; r++) {
        float *sum = (float *)c->out[0] + r * D, *n = (float *)c->out[1] + r * D, mean = 0;
        for (i = 0; i < D; i++) sum[i] = in_f(c, 0)[r * D + i] + in_f(c, 1)[r * D + i];
        for (i = 0; i < D; i++) mean += sum[i] / D;
        for (i = 0; i < D; i++) n[i] = sum[i] - mean;
    }
    return 0;
}
static int fused_bwd(const rm_call *c)
{
    size_t rows = c->in_bytes[0] / FL(D), r, i;
    uint32_t k, first = c->dout[0] && c->din[0] == c->dout[0] && fault != RES_OVER ? 1 : 0;
    for (k = 0; k < 2; k++) {
        uint32_t to = k ^ first;
        for (r = 0; r < rows && c->din[to]; r++) {
            const float *dr = (const float *)c->dout[0] + (c->dout[0] ? r * D : 0), *dn = (const float *)c->dout[1] + r * D;
            float mean = 0;
            for (i = 0; i < D; i++) mean += dn[i] / D;
            for (i = 0; i < D; i++) give(c, to, r * D + i, (c->dout[0] ? dr[i] : 0) + dn[i] - mean + (fault == RES_SAME && to ? 0.25f : 0));
        }
    }
    return 0;
}

/* the second half of the rows */
static int half_bwd(const rm_call *c)
{
    size_t n = c->out_bytes[0] / sizeof(float), at = (c->in_bytes[0] - c->out_bytes[0]) / sizeof(float), i;
    for (i = 0; i < at; i++) give(c, 0, i, 0);
    for (i = 0; i < n; i++) give(c, 0, at + i, ((const float *)c->dout[0])[i]);
    return 0;
}
static int same_bwd(const rm_call *c)
{
    size_t n = c->out_bytes[0] / sizeof(float), i;
    for (i = 0; i < n; i++) give(c, 0, i, ((const float *)c->dout[0])[i] * (fault == VIEW_GRAD ? 1.5f : 1.0f));
    return 0;
}

/* in: logits, targets; saved: probabilities */
static int ce_fwd(const rm_call *c)
{
    const int32_t *target = (const int32_t *)c->in[1];
    size_t rows = c->in_bytes[0] / FL(V), r, i;
    float loss = 0;
    for (r = 0; r < rows; r++) {
        const float *x = in_f(c, 0) + r * V;
        float s = 0;
        for (i = 0; i < V; i++) s += expf(x[i]);
        for (i = 0; i < V && c->saved; i++) ((float *)c->saved)[r * V + i] = expf(x[i]) / s;
        loss += (logf(s) - x[target[r]]) / (float)rows;
    }
    *(float *)c->out[0] = loss;
    return 0;
}
static int ce_bwd(const rm_call *c)
{
    const int32_t *target = (const int32_t *)c->in[1];
    size_t rows = c->in_bytes[0] / FL(V), r, i;
    const float *p = (const float *)c->saved;
    for (r = 0; r < rows; r++)
        for (i = 0; i < V; i++) give(c, 0, r * V + i, (p[r * V + i] - ((size_t)target[r] == i ? 1.0f : 0.0f)) / (float)rows + (fault == CE_OVER_SAVED && i ? 0.01f * p[r * V + i - 1] : 0));
    return 0;
}

static int sgd(const rm_call *c)
{
    size_t n = c->param_bytes / sizeof(float), i;
    float *p = (float *)c->param, *g = (float *)c->grad, *m = (float *)c->state;
    for (i = 0; i < n; i++) {
        m[i] = 0.9f * m[i] + g[i];
        p[i] -= (float)c->step->lr * m[i] + (fault == SGD_RANDOM ? (float)(noise++ % 100) * 1e-4f : 0);
    }
    if (fault == SGD_BEYOND) m[n] = 0;
    updates_seen = 1;
    return fault == SGD_RETURNS ? 1 : 0;
}
static int norm(const rm_call *c)
{
    uint32_t i;
    size_t j;
    double sum = 0;
    for (i = 0; i < c->n_in; i++)
        for (j = 0; j < c->in_bytes[i] / sizeof(float); j++) sum += (double)in_f(c, i)[j] * (double)in_f(c, i)[j];
    if (fault == BARRIER_WRITES) ((float *)c->in[1])[0] *= 0.5f;
    return sum < 0;
}
static int reduce(const rm_call *c)
{
    size_t i;
    for (i = 0; i < c->grad_bytes / sizeof(float); i++) ((float *)c->grad)[i] *= 0.5f;
    if (fault == REDUCE_BEYOND) ((float *)c->grad)[i] = 0;
    return 0;
}

typedef struct model {
    rm_graph *g;
    rm_plan *p;
    rm_exec *x;
    rm_tensor ids, targets, loss, mean, var, param[16];
    uint32_t n_param;
} model;

static rm_tensor weight(model *m, const char *name, uint64_t n, int reduced)
{
    rm_tensor t = RM_PARAM(m->g, .name = name, .bytes = FL(n), .state_bytes = FL(n), .update = sgd, .reduce_ns = reduced ? RM_FREE_NS : 0, .flags = external && !strcmp(name, "table") ? RM_EXTERNAL : 0, .update_ns = streamed ? 1000 : 0, .update_host = streamed ? sgd : NULL, .update_host_ns = streamed ? 9000 : 0);
    m->param[m->n_param++] = t;
    return t;
}

static rm_tensor block(model *m, rm_tensor x)
{
    rm_graph *g = m->g;
    rm_kind lin = {.name = "linear", .forward = lin_fwd, .backward = lin_bwd, .part = {{"dx", RM_IN(0), RM_IN(1)}, {"dw", RM_IN(1), RM_IN(0)}}};
    rm_kind gel = {.name = "gelu", .forward = gelu_fwd, .backward = gelu_bwd, .needs = RM_IN(0)};
    rm_kind gel2 = {.name = "gelu_fast", .forward = gelu2_fwd, .backward = gelu_bwd, .needs = RM_IN(0)};
    rm_kind drop = {.name = "dropout", .forward = drop_fwd, .backward = drop_bwd, .needs = RM_SAVED, .flags = RM_RNG};
    rm_kind add = {.name = "add", .forward = add_fwd, .backward = add_bwd, .needs = RM_NOTHING, .share_grad = RM_IN(0) | RM_IN(1)};
    rm_kind ln = {.name = "layernorm", .forward = ln_fwd, .backward = ln_bwd, .needs = RM_IN(0) | RM_IN(1) | RM_SAVED, .zero_grads = RM_IN(1) | RM_IN(2)};
    rm_kind fused = {.name = "fused", .forward = fused_fwd, .backward = fused_bwd, .needs = RM_NOTHING, .over = {{RM_IN(0), RM_DOUT}}, .same_grad = RM_IN(0) | RM_IN(1)};
    rm_tensor h, w = {0};
    if (fault == LN_ADDS_DB) ln.zero_grads = RM_IN(1);
    if (fault == LN_ZERO_DX) ln.zero_grads = RM_IN(0) | RM_IN(1) | RM_IN(2);
    if (fault == LIN_PART) lin.part[1].needs = RM_NOTHING;
    if (fault == GELU_NEEDS) gel.needs = RM_OUT(0);
    if (fault == GELU_VARIANT_NEEDS) gel2.needs = RM_OUT(0);
    if (fault == ONCE_RANDOM) drop.flags |= RM_ONCE;
    if (fault == DROP_NEEDS) drop.needs = RM_IN(0);
    rm_block_begin(g, "h");
    w = weight(m, "ln.g", D, 0);
    h = RM_OP(g, &ln, .name = "ln", .in = {x, w, weight(m, "ln.b", D, 0)}, .out = {FL(B * D)}, .saved = FL(2 * B + 1), .fwd_ws = FL(fault == LN_WS_ALONE ? 2 : 3), .saving_ws = FL(1));
    h = RM_OP(g, &lin, .name = "fc", .in = {h, weight(m, "fc.w", D * D, 1)}, .out = {FL(B * D)}, .arg = {D}, .fwd_ws = FL(D));
    h = RM_OP(g, &gel, .name = "gelu", .in = {h});
    if (fault == GELU_VARIANT_BITS || fault == GELU_VARIANT_NEEDS) rm_variant_add(g, h, &gel2, &(const rm_op_desc){.fwd_ns = RM_FREE_NS});
    h = RM_OP(g, &drop, .name = "drop", .in = {h}, .saved = B * D);
    w = RM_OP(g, &fused, .name = "both", .in = {x, h}, .out = {FL(B * D), FL(B * D)});
    h = rm_op_output(g, w, 1);
    h = RM_OP(g, &add, .name = "res", .in = {fault == RES_TWICE ? h : w, h});
    rm_block_end(g);
    return h;
}

static void build(model *m)
{
    rm_kind emb = {.name = "embedding", .forward = emb_fwd, .backward = emb_bwd, .needs = RM_IN(0), .flags = RM_ZERO_GRADS};
    rm_kind bn = {.name = "batchnorm", .forward = bn_fwd, .backward = bn_bwd, .needs = RM_IN(0) | RM_IN(1) | RM_SAVED, .mutates = RM_IN(3) | RM_IN(4)};
    rm_kind sig = {.name = "sigmoid", .forward = sig_fwd, .backward = sig_bwd, .needs = RM_OUT(0), .inplace = RM_IN(0), .over = {{RM_IN(0), RM_DOUT}}};
    rm_kind half = {.name = "half", .backward = half_bwd, .needs = RM_NOTHING, .view = RM_IN(0)};
    rm_kind same = {.name = "reshape", .backward = same_bwd, .needs = RM_NOTHING, .view = RM_IN(0)};
    rm_kind lin = {.name = "head", .forward = lin_fwd, .backward = lin_bwd, .needs = RM_IN(0) | RM_IN(1)};
    rm_kind ce = {.name = "xent", .forward = ce_fwd, .backward = ce_bwd, .needs = RM_IN(1) | RM_SAVED, .over = {{RM_IN(0), RM_SAVED}}};
    rm_graph *g = m->g;
    rm_tensor h, gamma;
    int i;
    m->ids = rm_input_add(g, "ids", B * 4, 0);
    m->targets = rm_input_add(g, "targets", B / 2 * 4, external ? RM_EXTERNAL : 0);
    m->mean = rm_const_add(g, "bn.mean", FL(D), 0);
    m->var = rm_const_add(g, "bn.var", FL(D), 0);
    if (fault == SIG_NEEDS) sig.needs = RM_IN(0);
    if (fault == BN_MUTATES) bn.mutates = RM_IN(3);
    h = RM_OP(g, &emb, .name = "emb", .in = {m->ids, weight(m, "table", V * D, 0)}, .out = {FL(B * D)});
    for (i = 0; i < 2; i++) h = block(m, h);
    gamma = weight(m, "bn.g", D, 0);
    h = RM_OP(g, &bn, .name = "bn", .in = {h, gamma, weight(m, "bn.b", D, 0), m->mean, m->var}, .out = {FL(B * D)}, .saved = FL(2 * D));
    h = RM_OP(g, &same, .name = "reshape", .in = {h});
    h = RM_OP(g, &sig, .name = "sig", .in = {h});
    h = RM_OP(g, &half, .name = "half", .in = {h}, .out = {FL(B / 2 * D)}, .view_offset = FL(B / 2 * D));
    h = RM_OP(g, &lin, .name = "head", .in = {h, weight(m, "head.w", V * D, 0)}, .out = {FL(B / 2 * V)}, .arg = {V}, .fwd_ws = FL(V));
    m->loss = RM_OP(g, &ce, .name = "loss", .in = {h, m->targets}, .out = {sizeof(float)}, .saved = FL(B / 2 * V));
    rm_output_add(g, m->loss);
    rm_barrier_add(g, "norm", norm, NULL, 100);
}

static void inputs(model *m)
{
    const int32_t ids[B] = {3, 1, 3, 5}, targets[B / 2] = {2, 6};
    rm_exec_write(m->x, m->ids, RM_VALUE, 0, ids, sizeof ids);
    rm_exec_write(m->x, m->targets, RM_VALUE, 0, targets, sizeof targets);
}

static void add_up(void *dst, const void *src, uint64_t bytes, rm_tensor param, void *user)
{
    size_t i;
    (void)param, (void)user;
    for (i = 0; i < bytes / sizeof(float); i++) ((float *)dst)[i] += ((const float *)src)[i];
}

/* tight: the smallest budget that the preset finds. */
static int open_model(model *m, const char *preset, int tight, uint32_t steps, const rm_allocator *hooks)
{
    rm_plan_info info;
    rm_plan_desc d;
    rm_exec_desc e;
    uint32_t i, j, seed = 1;
    memset(m, 0, sizeof *m);
    memset(&d, 0, sizeof d);
    memset(&e, 0, sizeof e);
    memset(&info, 0, sizeof info);
    noise = 0;
    updates_seen = 0;
    m->g = rm_graph_create(NULL);
    build(m);
    d.preset = preset;
    d.steps = steps;
    d.info = &info;
    d.align = 16;
    d.work_limit = 20000; /* any plan will do */
    if (streamed) {
        rm_graph_link(m->g, 20000000000u, 20000000000u, 1000, 0);
        d.host_bytes = 1 << 20;
    }
    if (tight) {
        d.device_bytes = 1;
        rm_plan_create(m->g, &d, &m->p);
        d.device_bytes = info.min_bytes;
    }
    e.reduce = reduce;
    e.add = add_up;
    if (hooks) e.allocator = *hooks;
    if (rm_plan_create(m->g, &d, &m->p) != RM_OK || rm_exec_create(m->p, &e, &m->x) != RM_OK) {
        EXPECT(0, "no model: %s", rm_graph_error(m->g));
        return 0;
    }
    recomputed += info.recomputed_runs;
    if (external) {
        rm_exec_bind(m->x, m->targets, RM_VALUE, outside_targets);
        for (i = 0; i < 3; i++) rm_exec_bind(m->x, m->param[0], i, outside[i]);
        memset(outside, 0, sizeof outside);
    }
    for (i = 0; i < m->n_param; i++) {
        const char *name = rm_tensor_name(m->g, m->param[i]);
        float w[V * D];
        size_t n = (size_t)rm_tensor_bytes(m->g, m->param[i]) / sizeof(float);
        for (j = 0; j < n; j++) {
            seed = seed * 1664525u + 1013904223u;
            w[j] = (float)(seed >> 8) / 16777216.0f - 0.5f + (strstr(name, ".g") ? 1.0f : 0.0f);
        }
        rm_exec_write(m->x, m->param[i], RM_VALUE, 0, w, n * sizeof(float));
    }
    inputs(m);
    return 1;
}
static void close_model(model *m)
{
    rm_exec_destroy(m->x);
    rm_plan_destroy(m->p);
    rm_graph_destroy(m->g);
}

typedef struct text {
    unsigned char at[20000];
    size_t n;
} text;
static int put(void *user, const char *s, size_t n)
{
    text *t = (text *)user;
    if (t->n + n > sizeof t->at) return 1;
    memcpy(t->at + t->n, s, n);
    t->n += n;
    return 0;
}

/* Does the check leave all that persists, and the inputs, as they were? */
static rm_result checked(model *m, const rm_step *s, const rm_check_desc *d)
{
    static text before, after;
    float kept[3][64];
    int32_t ids[2][B];
    rm_result r;
    before.n = after.n = 0;
    rm_exec_save(m->x, put, &before);
    memcpy(ids[0], rm_exec_pointer(m->x, m->ids, RM_VALUE), sizeof ids[0]);
    memcpy(kept, outside, sizeof kept);
    r = rm_exec_check(m->x, s, d);
    EXPECT(!memcmp(kept, outside, sizeof kept), "the check changed the caller's memory (fault %d)", fault);
    memcpy(ids[1], rm_exec_pointer(m->x, m->ids, RM_VALUE), sizeof ids[0]);
    rm_exec_save(m->x, put, &after);
    EXPECT(before.n == after.n && !memcmp(before.at, after.at, before.n), "the check changed what persists (fault %d)", fault);
    EXPECT(!memcmp(ids[0], ids[1], sizeof ids[0]), "the check changed an input (fault %d)", fault);
    return r;
}

static void good(void)
{
    static const char *const presets[] = {"rockmate", "rotor", "noremat", "every-block", "sqrt"};
    const rm_check_desc d = {.finite_differences = 8};
    rm_check_desc with;
    size_t i;
    int tight;
    uint32_t k;
    for (i = 0; i < 5; i++)
        for (tight = 0; tight < 2; tight++) {
            model m, plain;
            rm_step s = {.lr = 0.1, .seed = 7, .step = 3};
            float loss[2] = {0, 1};
            if (!open_model(&m, presets[i], tight, 0, NULL)) continue;
            with = d;
            with.loss = m.loss;
            EXPECT(checked(&m, &s, &with) == RM_OK, "%s: %s", presets[i], rm_exec_error(m.x));
            EXPECT(checked(&m, NULL, NULL) == RM_OK, "%s: %s", presets[i], rm_exec_error(m.x));
            if (open_model(&plain, presets[i], tight, 0, NULL)) {
                rm_exec_info a, b;
                EXPECT(rm_exec_step(m.x, &s) == RM_OK && rm_exec_step(plain.x, &s) == RM_OK, "%s", rm_exec_error(m.x));
                rm_exec_read(m.x, m.loss, RM_VALUE, 0, &loss[0], 4);
                rm_exec_read(plain.x, plain.loss, RM_VALUE, 0, &loss[1], 4);
                EXPECT(!memcmp(&loss[0], &loss[1], 4), "a checked executor goes on differently");
                rm_exec_get_info(m.x, &a);
                rm_exec_get_info(plain.x, &b);
                EXPECT(a.steps == b.steps, "the check counts as a step");
                close_model(&plain);
            }
            close_model(&m);
        }
    {
        model m;
        external = 1;
        if (open_model(&m, NULL, 1, 0, NULL)) {
            with = d;
            with.loss = m.loss;
            EXPECT(checked(&m, NULL, &with) == RM_OK, "external: %s", rm_exec_error(m.x));
            EXPECT(rm_exec_step(m.x, NULL) == RM_OK, "%s", rm_exec_error(m.x));
        }
        close_model(&m);
        external = 0;
    }
    EXPECT(recomputed > 0, "no plan recomputes anything");
    {
        static const uint32_t kinds[] = {RM_FIRST, RM_MIDDLE, RM_LAST, RM_FORWARD};
        model m;
        if (!open_model(&m, NULL, 1, RM_FIRST | RM_MIDDLE | RM_LAST | RM_FORWARD, NULL)) return;
        for (k = 0; k < 4; k++) {
            rm_step s = {.kind = kinds[k], .micro = k, .lr = 0.1};
            with = d;
            with.loss = m.loss;
            inputs(&m);
            EXPECT(checked(&m, &s, kinds[k] == RM_FORWARD ? NULL : &with) == RM_OK, "kind %u: %s", (unsigned)kinds[k], rm_exec_error(m.x));
            EXPECT(rm_exec_step(m.x, &s) == RM_OK, "%s", rm_exec_error(m.x));
        }
        close_model(&m);
    }
}

/* Accumulations in plans that keep gradients of params in host memory, where some are merged and some updated: each kind
   of step is checked before it is run, the second and third upon what the steps before it added up. A wrong gradient is
   found there, too. */
static void in_host_memory(void)
{
    static const char *const presets[] = {"stream", "offmate"};
    static const uint32_t kinds[] = {RM_FIRST, RM_MIDDLE, RM_MIDDLE, RM_LAST};
    unsigned i, k, at_home = 0, merged = 0, on_host = 0;
    int wrong;
    streamed = 1;
    for (i = 0; i < 2; i++)
        for (wrong = 0; wrong < 2; wrong++) {
            rm_check_desc d = {.finite_differences = 8};
            model m;
            uint32_t j, t;
            fault = wrong ? BN_WRONG_BETA : NONE;
            if (!open_model(&m, presets[i], 1, RM_FIRST | RM_MIDDLE | RM_LAST, NULL)) continue;
            d.loss = m.loss;
            for (t = 0; t < m.n_param; t++) {
                uint32_t buf = rmi_low_buf(m.g, RMI_BUF_GRAD, rmi_graph_index(m.param[t]));
                at_home += m.x->memory[RMI_EXE_HOST].home[buf] != RMI_INF && m.x->memory[RMI_EXE_ARENA].home[buf] == RMI_INF;
            }
            for (j = 0; j < m.p->n; j++)
                for (t = 0; t < m.p->prog[j].n; t++) {
                    merged += m.p->prog[j].st[t].what == RMI_MERGE;
                    on_host += m.p->prog[j].st[t].what == RMI_RUN && m.p->prog[j].st[t].run.way == RMI_OPT_HOST;
                }
            for (k = 0; k < 4; k++) {
                rm_step s = {.kind = kinds[k], .micro = k, .lr = 0.1, .seed = 7};
                rm_result r;
                inputs(&m);
                r = checked(&m, &s, &d);
                EXPECT(r == (wrong ? RM_ERROR_CHECK : RM_OK), "%s, step %u: %s: %s", presets[i], k, rm_result_name(r), rm_exec_error(m.x));
                EXPECT(!wrong || strstr(rm_exec_error(m.x), "param bn.b: element") == rm_exec_error(m.x), "%s", rm_exec_error(m.x));
                EXPECT(rm_exec_step(m.x, &s) == RM_OK, "%s", rm_exec_error(m.x));
            }
            close_model(&m);
        }
    EXPECT(at_home && merged && on_host, "%u gradients at home in host memory, %u merged there, %u updates there", at_home, merged, on_host);
    streamed = 0;
    fault = NONE;
}

typedef struct mistake {
    int fault;
    rm_result result;
    const char *op, *says;
} mistake;

static const mistake mistakes[] = {
    {GELU_NEEDS, RM_ERROR_CHECK, "op h[1]/gelu: its backward", "reads input 0 (h[1]/fc), which kind 'gelu' does not declare in needs; add RM_IN(0)"},
    {GELU_UNWRITTEN, RM_ERROR_CHECK, "op h[0]/gelu: its forward", "leaves byte 12 of output 0 unwritten"},
    {GELU_BEYOND, RM_ERROR_CHECK, "op h[0]/gelu: its forward", "beyond the end of output 0, which has 96 bytes; write no more, or give its size in rm_op_desc.out"},
    {GELU_BEFORE, RM_ERROR_CHECK, "op h[0]/gelu: its forward", "before the start of output 0"},
    {GELU_WRITES_IN, RM_ERROR_CHECK, "op h[0]/gelu: its forward", "input 0 (h[0]/fc), which it may only read"},
    {GELU_READS_BEYOND, RM_ERROR_CHECK, "op h[0]/gelu: its forward", "reads beyond the 96 bytes of input 0 (h[0]/fc) (output 0 changes); stay within them, or declare more"},
    {GELU_IGNORES_ACCUM, RM_ERROR_CHECK, "op h[1]/gelu: its backward", "ignores accum"},
    {GELU_SKIPS_SOME_ACCUM, RM_ERROR_CHECK, "op h[1]/gelu: its backward", "ignores accum: what the gradient of input 0 (h[1]/fc) held is lost from byte 32 on; add to din[0] when RM_ADDS(c, 0)"},
    {GELU_ALWAYS_ADDS, RM_ERROR_CHECK, "op h[1]/gelu: its backward", "it adds though accum is clear"},
    {GELU_WRITES_DOUT, RM_ERROR_CHECK, "op h[1]/gelu: its backward", "writes to byte 4 of dout 0, which it may only read"},
    {GELU_RANDOM_BWD, RM_ERROR_CHECK, "op h[1]/gelu: its backward", "each time it runs"},
    {GELU_WRONG, RM_ERROR_CHECK, "param h[1]/fc.w: element", "but the loss changes by"},
    {GELU_RETURNS, RM_ERROR_CALLBACK, "op h[0]/gelu: its forward", "returned 3"},
    {GELU_BWD_RETURNS, RM_ERROR_CALLBACK, "op h[1]/gelu: its backward", "returned -7"},
    {GELU_REMEMBERS, RM_ERROR_CHECK, "tensor ", "after the planned step differs"},
    {GELU_OUT_ADDS, RM_ERROR_CHECK, "op h[0]/gelu: its forward", "reads output 0 before it has written that"},
    {GELU_VARIANT_BITS, RM_ERROR_CHECK, "op h[0]/gelu: its forward", "rm_op_desc.bits"},
    {GELU_VARIANT_NEEDS, RM_ERROR_CHECK, "op h[1]/gelu: its backward, variant gelu_fast", "kind 'gelu_fast' does not declare in needs; add RM_IN(0)"},
    {SIG_NEEDS, RM_ERROR_CHECK, "op sig: its backward", "add RM_OUT(0)"},
    {SIG_INPLACE, RM_ERROR_CHECK, "op sig: its forward", "declares in inplace"},
    {SIG_OVER, RM_ERROR_CHECK, "op sig: its backward", "lies over the bytes of dout 0, as kind 'sigmoid' declares in over"},
    {DROP_NEEDS, RM_ERROR_CHECK, "op h[1]/drop: its backward", "reads saved, which kind 'dropout' does not declare in needs; add RM_SAVED"},
    {DROP_BEYOND_SAVED, RM_ERROR_CHECK, "op h[0]/drop: its forward", "rm_op_desc.saved"},
    {DROP_RANDOM, RM_ERROR_CHECK, "op h[0]/drop: its forward", "take randomness from c->seed alone"},
    {ONCE_RANDOM, RM_OK, "", ""}, /* its right */
    {DROP_NO_SAVED, RM_ERROR_CHECK, "op h[0]/drop: its forward", "gives other bytes in output 0 when saved is NULL"},
    {DROP_RECOMPUTE, RM_ERROR_CHECK, "op h[0]/drop: its forward", "when it is recomputed"},
    {LIN_PART, RM_ERROR_CHECK, "op h[1]/fc: its backward, part dw", "does not declare in the part's needs; add RM_IN(0)"},
    {LIN_WS, RM_ERROR_CHECK, "op h[0]/fc: its forward", "beyond the end of its workspace, which has 24 bytes; use no more, or give its size in rm_op_desc (fwd_ws"},
    {LIN_WS_UNINIT, RM_ERROR_CHECK, "op h[0]/fc: its forward", "reads its workspace before it has written it"},
    {LIN_DX_UNWRITTEN, RM_ERROR_CHECK, "op head: its backward", "leaves byte 32 of the gradient of input 0 (half) unwritten though accum is clear"},
    {LIN_DW_BEYOND, RM_ERROR_CHECK, "op head: its backward", "beyond the end of the gradient of input 1 (head.w)"},
    {BN_MUTATES, RM_ERROR_CHECK, "op bn: its forward", "writes to input 4 (bn.var), which kind 'batchnorm' does not declare in mutates; add RM_IN(4) and write through rm_mut"},
    {BN_RECOMPUTE, RM_ERROR_CHECK, "op bn: its forward", "writes to input 3 (bn.mean) in a recomputation; write only through rm_mut(c, 3)"},
    {BN_READS_STATS, RM_ERROR_CHECK, "op bn: its forward", "must not depend on the consts that it mutates"},
    {BN_WRONG_BETA, RM_ERROR_CHECK, "param bn.b: element", "correct the backward of op bn, or"},
    {RES_SHARE, RM_ERROR_CHECK, "op h[1]/res: its backward", "drop RM_IN(1) from share_grad"},
    {RES_SAME, RM_ERROR_CHECK, "op h[1]/both: its backward", "computes the gradient of input 1 (h[1]/drop), which is not equal to the gradient of input 0 (h[0]/res), though kind 'fused' says so in same_grad; drop RM_IN(1) from same_grad"},
    {RES_OVER, RM_ERROR_CHECK, "op h[1]/both: its backward", "gives other bytes in the gradient of input 1 (h[1]/drop) when din[0] lies over the bytes of dout 0"},
    {RES_TWICE, RM_OK, "", ""}, /* x + x of a kind that shares: no mistake, its gradient is computed */
    {EMB_ZERO, RM_ERROR_CHECK, "op emb: its backward", "writes the gradient of input 1 (table), though kind 'embedding' promises to add (zero_grads, RM_ZERO_GRADS); add, or drop RM_IN(1)"},
    {LN_SETS_DW, RM_ERROR_CHECK, "op h[1]/ln: its backward", "writes the gradient of input 1 (h[1]/ln.g), though kind 'layernorm' promises to add"},
    {LN_ADDS_DB, RM_ERROR_CHECK, "op h[1]/ln: its backward", "adds though accum is clear; ask RM_ADDS(c, 2), or declare RM_IN(2) in zero_grads"},
    {LN_ZERO_DX, RM_OK, "", ""}, /* it asks: no mistake */
    {LN_WS_SAVING, RM_ERROR_CHECK, "op h[0]/ln: its forward", "beyond the end of its workspace, which has 4 bytes; use no more, or give its size in rm_op_desc (fwd_ws, of a forward that leaves saved saving_ws"},
    {LN_WS_ALONE, RM_ERROR_CHECK, "op h[0]/ln: its forward", "beyond the end of its workspace, which has 8 bytes"},
    {LN_NULL, RM_ERROR_CHECK, "op h[1]/ln: its backward", "gives other bytes in the gradient of input 1 (h[1]/ln.g) when din[0] is NULL"},
    {LN_SAVED_UNWRITTEN, RM_ERROR_CHECK, "op h[1]/ln: its backward", "reads bytes of saved that its forward leaves unwritten"},
    {LN_WRITES_SAVED, RM_ERROR_CHECK, "op h[1]/ln: its backward", "writes to byte"},
    {CE_OVER_SAVED, RM_ERROR_CHECK, "op loss: its backward", "lies over the bytes of saved"},
    {VIEW_GRAD, RM_ERROR_CHECK, "op reshape: its backward", "is a view; copy dout[0]"},
    {SGD_BEYOND, RM_ERROR_CHECK, "param ", "beyond the end of the state"},
    {SGD_RANDOM, RM_ERROR_CHECK, "param ", "gives other bytes in the param each time"},
    {SGD_RETURNS, RM_ERROR_CALLBACK, "param ", "its update returned 1"},
    {BARRIER_WRITES, RM_ERROR_CHECK, "barrier norm", "which it may only read"},
    {REDUCE_BEYOND, RM_ERROR_CHECK, "param h[", "its reduction writes beyond the end of the gradient"},
};

static void bad(int verbose)
{
    size_t i;
    for (i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
        const mistake *w = &mistakes[i];
        model m;
        rm_result r;
        rm_check_desc d = {.finite_differences = 4};
        const rm_step s = {.lr = 0.1, .seed = 7};
        fault = w->fault;
        if (open_model(&m, NULL, 0, 0, NULL)) {
            d.loss = m.loss;
            r = checked(&m, &s, &d);
            EXPECT(r == w->result && strstr(rm_exec_error(m.x), w->op) == rm_exec_error(m.x) && strstr(rm_exec_error(m.x), w->says), "mistake %d: %s: %s", w->fault, rm_result_name(r), rm_exec_error(m.x));
            if (verbose) printf("%s\n", rm_exec_error(m.x));
        }
        close_model(&m);
    }
    fault = NONE;
}

/* loss = sum of w^3 x in double; wrong 1: another slope */
static int cube_fwd(const rm_call *c)
{
    const double *x = (const double *)c->in[0], *w = (const double *)c->in[1];
    size_t i;
    double s = 0;
    for (i = 0; i < 5; i++) s += w[i] * w[i] * w[i] * x[i];
    *(double *)c->out[0] = s;
    return 0;
}
static int cube_bwd(const rm_call *c)
{
    const double *x = (const double *)c->in[0], *w = (const double *)c->in[1];
    size_t i;
    for (i = 0; i < 5; i++) ((double *)c->din[1])[i] = (RM_ADDS(c, 1) ? ((double *)c->din[1])[i] : 0) + (3 + (c->arg[0] ? 0.001 : 0)) * w[i] * w[i] * x[i];
    return 0;
}
static void doubles(void)
{
    static const rm_kind cube = {.name = "cube", .forward = cube_fwd, .backward = cube_bwd};
    int wrong;
    for (wrong = 0; wrong < 2; wrong++) {
        rm_graph *g = rm_graph_create(NULL);
        rm_tensor x = rm_input_add(g, "x", 40, 0), w = RM_PARAM(g, .name = "w", .bytes = 40), loss = RM_OP(g, &cube, .name = "cube", .in = {x, w}, .out = {8}, .arg = {wrong});
        rm_plan_desc pd = {.device_bytes = 0};
        rm_plan *p = NULL;
        rm_exec *e = NULL;
        rm_check_desc d = {.finite_differences = 5, .dtype = RM_F64, .loss = loss};
        const double values[5] = {0.5, -1.5, 2, 1e-3, 3};
        rm_backend none;
        rm_exec_desc ed = {.backend = &none};
        rm_step forward = {.kind = RM_FORWARD};
        rm_output_add(g, loss);
        EXPECT(rm_plan_create(g, &pd, &p) == RM_OK && rm_exec_create(p, NULL, &e) == RM_OK, "%s", rm_graph_error(g));
        rm_exec_write(e, x, RM_VALUE, 0, values, 40);
        rm_exec_write(e, w, RM_VALUE, 0, values, 40);
        EXPECT(rm_exec_check(e, NULL, &d) == (wrong ? RM_ERROR_CHECK : RM_OK), "%s", rm_exec_error(e));
        EXPECT(!wrong == !strstr(rm_exec_error(e), "param w: element"), "%s", rm_exec_error(e));
        d.dtype = 2;
        EXPECT(rm_exec_check(e, NULL, &d) == RM_ERROR_ARGUMENT && strstr(rm_exec_error(e), "dtype"), "%s", rm_exec_error(e));
        d.dtype = RM_F32;
        EXPECT(rm_exec_check(e, NULL, &d) == RM_ERROR_ARGUMENT && strstr(rm_exec_error(e), "rm_check_desc.loss"), "%s", rm_exec_error(e));
        EXPECT(rm_exec_check(e, &forward, NULL) == RM_ERROR_ARGUMENT && strstr(rm_exec_error(e), "steps of kind 'forward'"), "%s", rm_exec_error(e));
        EXPECT(rm_exec_check(NULL, NULL, NULL) == RM_ERROR_ARGUMENT, "NULL");
        rm_exec_destroy(e);
        memset(&none, 0, sizeof none);
        e = NULL;
        {
            static unsigned char arena[4096];
            rm_plan_info info;
            rm_plan_get_info(p, 0, &info);
            none.alloc = NULL;
            ed.device_memory = arena + (256 - (uintptr_t)arena % 256) % 256;
            ed.device_memory_bytes = info.arena_bytes;
            none.fill = rmi_exe_host_fill;
            none.copy = rmi_exe_host_copy;
            none.sync = rmi_exe_host_sync;
            EXPECT(rm_exec_create(p, &ed, &e) == RM_OK, "%s", rm_graph_error(g));
            EXPECT(rm_exec_check(e, NULL, NULL) == RM_ERROR_ARGUMENT && strstr(rm_exec_error(e), "backend"), "%s", rm_exec_error(e));
        }
        rm_exec_destroy(e);
        rm_plan_destroy(p);
        rm_graph_destroy(g);
    }
}

/* Forty inputs, of which those from the thirty-second on share an accum bit; one stands there twice, one has another reader.
   loss = sum of half the squares of what max(w, 0) leaves. */
enum { MANY_RIGHT, MANY_IGNORES, MANY_ADDS, MANY_SIGN, MANY_FAULTS };
static int many_fault;
static int many_fwd(const rm_call *c)
{
    uint32_t i;
    float s = 0;
    for (i = 0; i < c->n_in; i++) s += 0.5f * in_f(c, i)[0] * in_f(c, i)[0];
    *(float *)c->out[0] = s;
    return 0;
}
static int many_bwd(const rm_call *c)
{
    uint32_t i;
    for (i = 0; i < c->n_in; i++)
        if (din_f(c, i)) {
            float d = ((const float *)c->dout[0])[0] * in_f(c, i)[0];
            if (many_fault == MANY_IGNORES && i == 38) din_f(c, i)[0] = d;
            else if (many_fault == MANY_ADDS && i == 2) din_f(c, i)[0] += d;
            else give(c, i, 0, d);
        }
    return 0;
}
static int relu_fwd(const rm_call *c)
{
    ((float *)c->out[0])[0] = in_f(c, 0)[0] > 0 ? in_f(c, 0)[0] : 0;
    return 0;
}
static int relu_bwd(const rm_call *c) /* of an input that is not declared: its sign, with nothing but a step instead of zero */
{
    float x = in_f(c, 0) ? in_f(c, 0)[0] : 1;
    give(c, 0, 0, many_fault == MANY_SIGN && x > 0 ? 5 : ((const float *)c->out[0])[0] > 0 ? ((const float *)c->dout[0])[0] : 0);
    return 0;
}
static int seed_bwd(const rm_call *c)
{
    give(c, 0, 0, 1);
    return 0;
}
static void many(void)
{
    static const char *const says[] = {"", "op many: its backward ignores accum: what the gradient of input 38 (w38) held is lost",
                                       "op many: its backward reads the gradient of input 2 (w2) before it has written that",
                                       "op relu: its backward reads input 0 (w37), which kind 'relu' does not declare in needs; add RM_IN(0)"};
    static const rm_kind kind = {.name = "many", .forward = many_fwd, .backward = many_bwd}, relu = {.name = "relu", .forward = relu_fwd, .backward = relu_bwd, .needs = RM_OUT(0)};
    static const rm_kind seed = {.name = "seed", .forward = relu_fwd, .backward = seed_bwd, .needs = RM_NOTHING};
    for (many_fault = 0; many_fault < MANY_FAULTS; many_fault++) {
        rm_graph *g = rm_graph_create(NULL);
        rm_tensor w[40], in[41], l;
        rm_op_desc d;
        rm_plan *p = NULL;
        rm_exec *e = NULL;
        char name[8];
        unsigned i;
        memset(&d, 0, sizeof d);
        for (i = 0; i < 40; i++) {
            snprintf(name, sizeof name, "w%u", i);
            in[i] = w[i] = RM_PARAM(g, .name = name, .bytes = 4);
        }
        in[39] = RM_OP(g, &relu, .name = "relu", .in = {w[37]}, .out = {4});
        in[40] = w[33];
        d.name = "many";
        d.more_in = in;
        d.more_in_count = 41;
        d.out[0] = 4;
        l = rm_op_add(g, &kind, &d);
        rm_output_add(g, RM_OP(g, &seed, .name = "loss", .in = {l}, .out = {4}));
        EXPECT(rm_plan_create(g, NULL, &p) == RM_OK && rm_exec_create(p, NULL, &e) == RM_OK, "%s", rm_graph_error(g));
        for (i = 0; i < 40 && e; i++) {
            float v = (float)(i + 1) * (i == 37 ? -0.3f : 0.3f);
            rm_exec_write(e, w[i], RM_VALUE, 0, &v, 4);
        }
        EXPECT(rm_exec_check(e, NULL, NULL) == (many_fault ? RM_ERROR_CHECK : RM_OK) && strstr(rm_exec_error(e), says[many_fault]) == rm_exec_error(e),
               "fault %d: %s", many_fault, rm_exec_error(e));
        rm_exec_destroy(e);
        rm_plan_destroy(p);
        rm_graph_destroy(g);
    }
}

static long live, countdown;
static void *count_alloc(size_t n, void *user)
{
    (void)user;
    if (countdown >= 0 && countdown-- == 0) return NULL;
    live++;
    return malloc(n);
}
static void count_free(void *p, void *user)
{
    (void)user;
    live--;
    free(p);
}

static void memory(void)
{
    const rm_allocator hooks = {count_alloc, count_free, NULL};
    rm_check_desc d = {.finite_differences = 1};
    rm_result r = RM_ERROR_MEMORY;
    model m;
    long n, before, wrong = 0;
    countdown = -1;
    if (!open_model(&m, NULL, 1, 0, &hooks)) return;
    d.loss = m.loss;
    before = live;
    for (n = 0; r == RM_ERROR_MEMORY && n < 100000; n++) {
        countdown = n;
        r = rm_exec_check(m.x, NULL, &d);
        countdown = -1;
        if (live != before || (r != RM_OK && (r != RM_ERROR_MEMORY || !rm_exec_error(m.x)[0]))) wrong++;
    }
    EXPECT(r == RM_OK && n > 20 && !wrong, "after %ld failing allocations: %s, %ld wrong ends", n, rm_result_name(r), wrong);
    EXPECT(checked(&m, NULL, &d) == RM_OK, "%s", rm_exec_error(m.x));
    close_model(&m);
    EXPECT(live == 0, "%ld blocks leaked", live);
}

/* What a gradient has taken over is nowhere: the loss, run a second time after that, gets NULL for what it would save. */
static int again_saved;
static int twice_fwd(const rm_call *c)
{
    if (c->recompute) again_saved = c->saved != NULL;
    *(float *)c->out[0] = in_f(c, 0)[0];
    if (c->saved) memcpy(c->saved, c->in[0], FL(D));
    return 0;
}
static int twice_bwd(const rm_call *c)
{
    size_t i;
    for (i = 0; i < D; i++) give(c, 0, i, ((const float *)c->saved)[i]);
    return 0;
}
static int scale_fwd(const rm_call *c)
{
    size_t i;
    for (i = 0; i < D; i++) ((float *)c->out[0])[i] = in_f(c, 0)[i] * in_f(c, 1)[i];
    return 0;
}
static int scale_bwd(const rm_call *c)
{
    size_t i;
    for (i = 0; i < D; i++) give(c, 1, i, ((const float *)c->dout[0])[i] * in_f(c, 0)[i]);
    return 0;
}

static void taken_over(void)
{
    static const char rest[] = "arena 256 host 0\nstep single\nresident w 0\nresident state:w 32\nresident x 64\n"
                               "alloc y 96\nrun fwd y\nalloc loss 128\nalloc saved:loss 160\nrun fwd loss\nfree loss\n"
                               "reuse grad:y saved:loss\nrun bwd loss\nalloc grad:w 192\nrun bwd y\nfree grad:y\n"
                               "alloc loss 128\nrun fwd loss\nfree y\nrun opt w\nfree grad:w\n";
    const rm_kind loss = {.name = "twice", .forward = twice_fwd, .backward = twice_bwd, .needs = RM_SAVED, .over = {{RM_IN(0), RM_SAVED}}};
    const rm_kind scale = {.name = "scale", .forward = scale_fwd, .backward = scale_bwd, .needs = RM_IN(0)};
    float v[D] = {1, 2, 3, 4, 5, 6};
    rm_graph *g = rm_graph_create(NULL);
    rm_plan_desc d = {.preset = "noremat"};
    rm_plan *p = NULL, *q = NULL;
    rm_exec *x = NULL;
    rm_tensor in, w, y, l;
    text t = {.n = 0};
    char s[1000], *head;
    rm_step step = {.lr = 0.5};
    size_t i;
    fault = 0;
    in = rm_input_add(g, "x", FL(D), 0);
    w = RM_PARAM(g, .name = "w", .bytes = FL(D), .state_bytes = FL(D), .update = sgd);
    y = RM_OP(g, &scale, .name = "y", .in = {in, w}, .out = {FL(D)});
    l = RM_OP(g, &loss, .name = "loss", .in = {y}, .out = {sizeof(float)}, .saved = FL(D));
    rm_output_add(g, l);
    EXPECT(rm_plan_create(g, &d, &p) == RM_OK && rm_plan_write(p, RM_SINGLE, put, &t) == RM_OK, "%s", rm_graph_error(g));
    t.at[t.n] = 0;
    head = strstr((char *)t.at, "arena ");
    EXPECT(head != NULL, "no arena in a plan");
    if (head) snprintf(s, sizeof s, "%.*s%s", (int)(head - (char *)t.at), (char *)t.at, rest);
    EXPECT(head && rm_plan_read(g, s, strlen(s), &q) == RM_OK && rm_exec_create(q, NULL, &x) == RM_OK, "%s", rm_graph_error(g));
    again_saved = -1;
    if (x) {
        rm_exec_write(x, in, RM_VALUE, 0, v, sizeof v);
        rm_exec_write(x, w, RM_VALUE, 0, v, sizeof v);
        EXPECT(rm_exec_step(x, &step) == RM_OK, "%s", rm_exec_error(x));
        EXPECT(again_saved == 0, "a second run of the loss got %s", again_saved < 0 ? "no call" : "bytes to save into that a gradient took over");
        rm_exec_read(x, w, RM_VALUE, 0, v, sizeof v);
        for (i = 0; i < D; i++) EXPECT(v[i] == (float)(i + 1) - 0.5f * (float)((i + 1) * (i + 1) * (i + 1)), "w[%zu] is %g", i, (double)v[i]);
    }
    rm_exec_destroy(x);
    rm_plan_destroy(p);
    rm_plan_destroy(q);
    rm_graph_destroy(g);
}

/* A gradient that is the noise of its sum, as a bias of keys has before softmax: it is lost upon itself, not upon large numbers. */
static int hush_fwd(const rm_call *c)
{
    ((float *)c->out[0])[0] = in_f(c, 0)[0];
    return 0;
}
static int hush_bwd(const rm_call *c)
{
    give(c, 0, 0, 1.0f);
    din_f(c, 0)[0] += -1.0f + 1.0f / (1 << 24); /* 2^-24: upon that, 1 is 1 again */
    return 0;
}
static void noisy(void)
{
    static const rm_kind kind = {.name = "hush", .forward = hush_fwd, .backward = hush_bwd, .needs = RM_NOTHING};
    static const rm_kind seed = {.name = "seed", .forward = relu_fwd, .backward = seed_bwd, .needs = RM_NOTHING};
    rm_graph *g = rm_graph_create(NULL);
    rm_tensor w = RM_PARAM(g, .name = "w", .bytes = 4);
    rm_plan *p = NULL;
    rm_exec *e = NULL;
    float v = 1;
    rm_output_add(g, RM_OP(g, &seed, .name = "loss", .in = {RM_OP(g, &kind, .name = "hush", .in = {w}, .out = {4})}, .out = {4}));
    EXPECT(rm_plan_create(g, NULL, &p) == RM_OK && rm_exec_create(p, NULL, &e) == RM_OK, "%s", rm_graph_error(g));
    rm_exec_write(e, w, RM_VALUE, 0, &v, 4);
    EXPECT(rm_exec_check(e, NULL, NULL) == RM_OK, "%s", rm_exec_error(e));
    rm_exec_destroy(e);
    rm_plan_destroy(p);
    rm_graph_destroy(g);
}

/* A backward that gives all gradients without asking crashes where one is NULL: rm_check_desc.every_din. */
static int not_given;
static int pair_fwd(const rm_call *c)
{
    *(float *)c->out[0] = in_f(c, 0)[0] * in_f(c, 1)[0];
    return 0;
}
static int pair_bwd(const rm_call *c)
{
    int i;
    for (i = 0; i < 2; i++)
        if (c->din[i]) din_f(c, i)[0] += in_f(c, 1 - i)[0];
        else not_given++;
    return 0;
}
static void every_gradient(void)
{
    static const rm_kind kind = {.name = "pair", .forward = pair_fwd, .backward = pair_bwd, .needs = RM_IN(0) | RM_IN(1), .flags = RM_ZERO_GRADS};
    rm_graph *g = rm_graph_create(NULL);
    rm_tensor v = RM_PARAM(g, .name = "v", .bytes = 4), w = RM_PARAM(g, .name = "w", .bytes = 4);
    rm_tensor loss = RM_OP(g, &kind, .name = "loss", .in = {v, w}, .out = {4});
    rm_check_desc d = {.finite_differences = 1, .loss = loss};
    rm_plan *p = NULL;
    rm_exec *e = NULL;
    float two = 2;
    int i;
    rm_output_add(g, loss);
    EXPECT(rm_plan_create(g, NULL, &p) == RM_OK && rm_exec_create(p, NULL, &e) == RM_OK, "%s", rm_graph_error(g));
    rm_exec_write(e, v, RM_VALUE, 0, &two, 4);
    rm_exec_write(e, w, RM_VALUE, 0, &two, 4);
    for (i = 0; i < 2; i++) {
        d.every_din = (uint32_t)i;
        not_given = 0;
        EXPECT(rm_exec_check(e, NULL, &d) == RM_OK, "%s", rm_exec_error(e));
        EXPECT((not_given > 0) == !i, "every_din %d: %d gradients were NULL", i, not_given);
    }
    rm_exec_destroy(e);
    rm_plan_destroy(p);
    rm_graph_destroy(g);
}

int main(int argc, char **argv)
{
    (void)argv;
    good();
    every_gradient();
    noisy();
    in_host_memory();
    taken_over();
    bad(argc > 1);
    doubles();
    many();
    memory();
    printf("%d passed, %d failed, 0 skipped\n", passed, failed);
    return failed != 0;
}
