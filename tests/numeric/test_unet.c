/* test_unet.c - a small U-Net with real kernels: skips, a shared weight, batch norm with running statistics, dropout, and ops in
   several variants (what the backward reads, what the forward saves, workspace against time, in place). Trained under the host
   executor by plans of whole-graph search at five budgets, it has the losses and the weights of keeping everything, bit for bit.

      g++ -std=c++17 -O2 -c -I. -o build/replay.o tests/oracle/replay.cpp && gcc -O1 -g -std=gnu99 -I. -c -o build/test_unet.o tests/numeric/test_unet.c &&
     g++ -o build/test_unet build/test_unet.o build/replay.o -lm && build/test_unet */
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"

#include <math.h>

#include "../common.h"
#include "../oracle/plan.h"

enum { B = 2, STEPS = 5, MOST_PARAMS = 32 };
typedef const float *in_t;

/* --- kernels. Variants give the same bits: they share what adds up. c->arg: channels in, channels out, height = width. */
#define CIN (c->arg[0])
#define COUT (c->arg[1])
#define H (c->arg[2])
#define PIX (H * H)

#if defined(__GNUC__)
__attribute__((noinline))
#endif
static float dot(const float *a, const float *b, int64_t n)
{
    float s = 0;
    int64_t i;
    for (i = 0; i < n; i++) s += a[i] * b[i];
    return s;
}

/* The 3 x 3 neighbourhood of pixel p of image b, all channels. */
static void patch(const rm_call *c, const float *x, int64_t b, int64_t p, float *out)
{
    int64_t k, dy, dx, y = p / H, z = p % H;
    for (k = 0; k < CIN; k++)
        for (dy = -1; dy <= 1; dy++)
            for (dx = -1; dx <= 1; dx++) *out++ = y + dy < 0 || y + dy >= H || z + dx < 0 || z + dx >= H ? 0 : x[(b * CIN + k) * PIX + (y + dy) * H + z + dx];
}

static int conv_fwd(const rm_call *c) /* with workspace: all patches first */
{
    in_t x = (in_t)c->in[0], w = (in_t)c->in[1];
    float one[9 * 64], *y = (float *)c->out[0];
    int64_t b, p, o, n = 9 * CIN;
    for (b = 0; b < B; b++)
        for (p = 0; p < PIX; p++) {
            float *to = c->ws ? (float *)c->ws + (b * PIX + p) * n : one;
            patch(c, x, b, p, to);
            for (o = 0; o < COUT; o++) y[(b * COUT + o) * PIX + p] = dot(to, w + o * n, n);
        }
    return 0;
}

static int conv_bwd(const rm_call *c)
{
    in_t x = (in_t)c->in[0], w = (in_t)c->in[1], dy = (in_t)c->dout[0];
    float *dx = (float *)c->din[0], *dw = (float *)c->din[1], one[9 * 64];
    int64_t b, p, o, k, r, s, n = 9 * CIN;
    for (b = 0; b < B; b++)
        for (p = 0; p < PIX; p++) {
            if (dw) patch(c, x, b, p, one);
            for (o = 0; o < COUT; o++) {
                float g = dy[(b * COUT + o) * PIX + p];
                for (k = 0; k < n && dw; k++) dw[o * n + k] += g * one[k];
                for (k = 0; k < CIN && dx; k++)
                    for (r = -1; r <= 1; r++)
                        for (s = -1; s <= 1; s++) {
                            int64_t py = p / H + r, px = p % H + s;
                            if (py >= 0 && py < H && px >= 0 && px < H) dx[(b * CIN + k) * PIX + py * H + px] += g * w[o * n + k * 9 + (r + 1) * 3 + s + 1];
                        }
            }
        }
    return 0;
}

static int64_t floats(const rm_call *c) { return (int64_t)(c->out_bytes[0] / 4); }

static int relu_fwd(const rm_call *c)
{
    in_t x = (in_t)c->in[0];
    float *y = (float *)c->out[0];
    int64_t i, n = floats(c);
    if (c->saved) memset(c->saved, 0, (size_t)c->saved_bytes);
    for (i = 0; i < n; i++) {
        int on = x[i] > 0;
        y[i] = on ? x[i] : 0;
        if (c->saved && on) ((unsigned char *)c->saved)[i / 8] |= (unsigned char)(1 << i % 8);
    }
    return 0;
}
static int relu_back(const rm_call *c, in_t sign, const unsigned char *mask)
{
    in_t dy = (in_t)c->dout[0];
    float *dx = (float *)c->din[0];
    int64_t i, n = floats(c);
    for (i = 0; i < n; i++) {
        int on = mask ? mask[i / 8] >> i % 8 & 1 : sign[i] > 0;
        float v = on ? dy[i] : 0;
        dx[i] = RM_ADDS(c, 0) ? dx[i] + v : v;
    }
    return 0;
}
static int relu_bwd(const rm_call *c) { return relu_back(c, (in_t)c->out[0], NULL); }
static int relu_in_bwd(const rm_call *c) { return relu_back(c, (in_t)c->in[0], NULL); }
static int relu_mask_bwd(const rm_call *c) { return relu_back(c, NULL, (const unsigned char *)c->saved); }

static int keep_bit(uint64_t seed, int64_t i) { return rmi_mix(seed + (uint64_t)i) % 10 != 0; }
static int drop_fwd(const rm_call *c)
{
    in_t x = (in_t)c->in[0];
    float *y = (float *)c->out[0];
    int64_t i, n = floats(c);
    for (i = 0; i < n; i++) {
        int on = keep_bit(c->seed, i);
        y[i] = on ? x[i] / 0.9f : 0;
        if (c->saved) ((unsigned char *)c->saved)[i] = (unsigned char)on;
    }
    return 0;
}
static int drop_back(const rm_call *c, const unsigned char *mask)
{
    in_t dy = (in_t)c->dout[0];
    float *dx = (float *)c->din[0];
    int64_t i, n = floats(c);
    for (i = 0; i < n; i++) {
        float v = (mask ? mask[i] : keep_bit(c->seed, i)) ? dy[i] / 0.9f : 0;
        dx[i] = RM_ADDS(c, 0) ? dx[i] + v : v;
    }
    return 0;
}
static int drop_bwd(const rm_call *c) { return drop_back(c, NULL); }
static int drop_mask_bwd(const rm_call *c) { return drop_back(c, (const unsigned char *)c->saved); }

/* Batch norm: in x, scale, running statistics; saved: mean and 1 / deviation of each channel. */
static int norm_fwd(const rm_call *c)
{
    in_t x = (in_t)c->in[0], scale = (in_t)c->in[1];
    float *y = (float *)c->out[0], *saved = (float *)c->saved, *run = (float *)rm_mut(c, 2);
    int64_t k, b, p;
    for (k = 0; k < COUT; k++) {
        float mean = 0, var = 0, r;
        for (b = 0; b < B; b++)
            for (p = 0; p < PIX; p++) mean += x[(b * COUT + k) * PIX + p];
        mean /= (float)(B * PIX);
        for (b = 0; b < B; b++)
            for (p = 0; p < PIX; p++) var += (x[(b * COUT + k) * PIX + p] - mean) * (x[(b * COUT + k) * PIX + p] - mean);
        r = 1 / sqrtf(var / (float)(B * PIX) + 1e-3f);
        for (b = 0; b < B; b++)
            for (p = 0; p < PIX; p++) y[(b * COUT + k) * PIX + p] = (x[(b * COUT + k) * PIX + p] - mean) * r * scale[k];
        if (saved) saved[2 * k] = mean, saved[2 * k + 1] = r;
        if (run) run[k] = 0.9f * run[k] + 0.1f * mean;
    }
    return 0;
}
static int norm_bwd(const rm_call *c)
{
    in_t x = (in_t)c->in[0], scale = (in_t)c->in[1], dy = (in_t)c->dout[0], saved = (in_t)c->saved;
    float *dx = (float *)c->din[0], *ds = (float *)c->din[1], n = (float)(B * PIX);
    int64_t k, b, p, i;
    for (k = 0; k < COUT; k++) {
        float mean = saved[2 * k], r = saved[2 * k + 1], s1 = 0, s2 = 0;
        for (b = 0; b < B; b++)
            for (p = 0; p < PIX; p++) {
                i = (b * COUT + k) * PIX + p;
                s1 += dy[i];
                s2 += dy[i] * (x[i] - mean) * r;
            }
        if (ds) ds[k] += s2;
        for (b = 0; b < B && dx; b++)
            for (p = 0; p < PIX; p++) {
                i = (b * COUT + k) * PIX + p;
                dx[i] += scale[k] * r * (dy[i] - s1 / n - (x[i] - mean) * r * s2 / n);
            }
    }
    return 0;
}

/* 2 x 2 maxima; saved (if that variant runs): which of the four. H: of the input. */
static int64_t corner(int64_t h, int64_t q, int64_t j) { return (q / (h / 2) * 2 + j / 2) * h + q % (h / 2) * 2 + j % 2; }
static int pool_fwd(const rm_call *c)
{
    in_t x = (in_t)c->in[0];
    float *y = (float *)c->out[0];
    int64_t k, q, j, quarter = PIX / 4;
    for (k = 0; k < B * CIN; k++)
        for (q = 0; q < quarter; q++) {
            int64_t best = 0;
            for (j = 1; j < 4; j++)
                if (x[k * PIX + corner(H, q, j)] > x[k * PIX + corner(H, q, best)]) best = j;
            y[k * quarter + q] = x[k * PIX + corner(H, q, best)];
            if (c->saved) ((unsigned char *)c->saved)[k * quarter + q] = (unsigned char)best;
        }
    return 0;
}
static int pool_back(const rm_call *c, in_t x, const unsigned char *which)
{
    in_t dy = (in_t)c->dout[0];
    float *dx = (float *)c->din[0];
    int64_t k, q, j, quarter = PIX / 4;
    for (k = 0; k < B * CIN; k++)
        for (q = 0; q < quarter; q++) {
            int64_t best = which ? which[k * quarter + q] : 0;
            for (j = 1; j < 4 && !which; j++)
                if (x[k * PIX + corner(H, q, j)] > x[k * PIX + corner(H, q, best)]) best = j;
            dx[k * PIX + corner(H, q, best)] += dy[k * quarter + q];
        }
    return 0;
}
static int pool_bwd(const rm_call *c) { return pool_back(c, (in_t)c->in[0], NULL); }
static int pool_which_bwd(const rm_call *c) { return pool_back(c, NULL, (const unsigned char *)c->saved); }

/* Twice the size, beside the skip: out channels = CIN + COUT, H of the output. */
static int up_fwd(const rm_call *c)
{
    in_t x = (in_t)c->in[0], skip = (in_t)c->in[1];
    float *y = (float *)c->out[0];
    int64_t b, k, p;
    for (b = 0; b < B; b++)
        for (k = 0; k < CIN + COUT; k++)
            for (p = 0; p < PIX; p++)
                y[(b * (CIN + COUT) + k) * PIX + p] = k < CIN ? x[(b * CIN + k) * PIX / 4 + p / H / 2 * (H / 2) + p % H / 2] : skip[(b * COUT + k - CIN) * PIX + p];
    return 0;
}
static int up_bwd(const rm_call *c)
{
    in_t dy = (in_t)c->dout[0];
    float *dx = (float *)c->din[0], *ds = (float *)c->din[1];
    int64_t b, k, p;
    for (b = 0; b < B; b++)
        for (k = 0; k < CIN + COUT; k++)
            for (p = 0; p < PIX; p++) {
                float g = dy[(b * (CIN + COUT) + k) * PIX + p];
                if (k < CIN && dx) dx[(b * CIN + k) * PIX / 4 + p / H / 2 * (H / 2) + p % H / 2] += g;
                if (k >= CIN && ds) ds[(b * COUT + k - CIN) * PIX + p] += g;
            }
    return 0;
}

static int loss_fwd(const rm_call *c)
{
    in_t y = (in_t)c->in[0], want = (in_t)c->in[1];
    int64_t i, n = (int64_t)(c->in_bytes[0] / 4);
    float s = 0;
    for (i = 0; i < n; i++) s += (y[i] - want[i]) * (y[i] - want[i]);
    *(float *)c->out[0] = s / (float)n;
    return 0;
}
static int loss_bwd(const rm_call *c)
{
    in_t y = (in_t)c->in[0], want = (in_t)c->in[1];
    int64_t i, n = (int64_t)(c->in_bytes[0] / 4);
    for (i = 0; i < n; i++) ((float *)c->din[0])[i] += 2 * (y[i] - want[i]) / (float)n;
    return 0;
}
static int sgd(const rm_call *c)
{
    float *w = (float *)c->param, *m = (float *)c->state;
    in_t g = (in_t)c->grad;
    uint64_t i;
    for (i = 0; i < c->param_bytes / 4; i++) {
        m[i] = 0.9f * m[i] + g[i];
        w[i] -= (float)c->step->lr * m[i];
    }
    return 0;
}

/* --- the model */
#define KIND(id, text, f, b, n, fl) static const rm_kind id = {.name = text, .forward = f, .backward = b, .needs = n, .flags = fl}
KIND(CONV, "conv", conv_fwd, conv_bwd, RM_IN(0) | RM_IN(1), RM_ZERO_GRADS);
KIND(PATCHES, "patches", conv_fwd, conv_bwd, RM_IN(0) | RM_IN(1), RM_ZERO_GRADS);
static const rm_kind RELU = {.name = "relu", .forward = relu_fwd, .backward = relu_bwd, .needs = RM_OUT(0), .inplace = RM_IN(0)};
KIND(RELU_IN, "from-input", relu_fwd, relu_in_bwd, RM_IN(0), 0);
KIND(RELU_MASK, "mask", relu_fwd, relu_mask_bwd, RM_SAVED, 0);
KIND(DROP, "dropout", drop_fwd, drop_bwd, RM_NOTHING, RM_RNG);
KIND(DROP_MASK, "mask", drop_fwd, drop_mask_bwd, RM_SAVED, RM_RNG);
static const rm_kind NORM = {.name = "norm", .forward = norm_fwd, .backward = norm_bwd, .needs = RM_IN(0) | RM_IN(1) | RM_SAVED, .mutates = RM_IN(2), .flags = RM_ZERO_GRADS};
KIND(POOL, "pool", pool_fwd, pool_bwd, RM_IN(0), RM_ZERO_GRADS);
KIND(POOL_WHICH, "which", pool_fwd, pool_which_bwd, RM_SAVED, RM_ZERO_GRADS);
KIND(UP, "up", up_fwd, up_bwd, RM_NOTHING, RM_ZERO_GRADS);
KIND(LOSS, "loss", loss_fwd, loss_bwd, RM_IN(0) | RM_IN(1), RM_ZERO_GRADS);

typedef struct unet {
    rm_graph *g;
    rm_tensor x, want, loss, param[MOST_PARAMS], stats[MOST_PARAMS];
    uint64_t param_bytes[MOST_PARAMS];
    int n_params, n_stats;
} unet;

static uint64_t bytes_of(int64_t channels, int64_t h) { return (uint64_t)(B * channels * h * h) * 4; }

static rm_tensor weight(unet *u, int64_t n)
{
    u->param_bytes[u->n_params] = (uint64_t)n * 4;
    return u->param[u->n_params++] = RM_PARAM(u->g, .bytes = (uint64_t)n * 4, .state_bytes = (uint64_t)n * 4, .update = sgd, .update_ns = (uint64_t)n);
}

/* Costs are given, so that plans are the same on every machine; of the patches' variant the faster one is a lie, which is allowed. */
static rm_tensor conv(unet *u, rm_tensor t, rm_tensor w, int64_t in, int64_t out, int64_t h)
{
    uint64_t ns = (uint64_t)(in * out * h * h);
    rm_tensor y = RM_OP(u->g, &CONV, .in = {t, w}, .out = {bytes_of(out, h)}, .arg = {in, out, h}, .fwd_ns = 5 * ns, .bwd_ns = 9 * ns);
    rm_variant_add(u->g, y, &PATCHES, &(rm_op_desc){.fwd_ns = 3 * ns, .bwd_ns = 9 * ns, .fwd_ws = (uint64_t)(B * h * h * 9 * in) * 4});
    return y;
}

static rm_tensor stage(unet *u, rm_tensor t, int64_t in, int64_t out, int64_t h, rm_tensor shared)
{
    uint64_t bytes = bytes_of(out, h), n = bytes / 4;
    rm_tensor y = conv(u, t, shared.id ? shared : weight(u, 9 * in * out), in, out, h);
    u->stats[u->n_stats] = rm_const_add(u->g, NULL, (uint64_t)out * 4, 0);
    y = RM_OP(u->g, &NORM, .in = {y, weight(u, out), u->stats[u->n_stats++]}, .saved = (uint64_t)out * 8, .arg = {out, out, h}, .fwd_ns = 6 * n, .bwd_ns = 9 * n);
    y = RM_OP(u->g, &RELU, .in = {y}, .fwd_ns = n, .bwd_ns = n);
    rm_variant_add(u->g, y, &RELU_IN, &(rm_op_desc){.fwd_ns = n});
    rm_variant_add(u->g, y, &RELU_MASK, &(rm_op_desc){.fwd_ns = n + n / 4, .saved = (n + 7) / 8});
    return y;
}

static void build(unet *u)
{
    rm_tensor skip[3], t, shared, none = {0};
    int64_t h = 16, ch = 4;
    int i;
    memset(u, 0, sizeof *u);
    u->g = rm_graph_create(NULL);
    t = u->x = rm_input_add(u->g, "x", bytes_of(2, h), 0);
    u->want = rm_input_add(u->g, "want", bytes_of(1, h), 0);
    for (i = 0; i < 3; i++, h /= 2, ch *= 2) {
        rm_block_begin(u->g, "down");
        t = skip[i] = stage(u, t, i ? ch / 2 : 2, ch, h, none);
        t = RM_OP(u->g, &POOL, .in = {t}, .out = {bytes_of(ch, h / 2)}, .arg = {ch, ch, h}, .fwd_ns = bytes_of(ch, h), .bwd_ns = bytes_of(ch, h));
        rm_variant_add(u->g, t, &POOL_WHICH, &(rm_op_desc){.fwd_ns = bytes_of(ch, h) + 10, .saved = bytes_of(ch, h / 2) / 4});
        rm_block_end(u->g);
    }
    ch /= 2;
    shared = weight(u, 9 * ch * ch); /* the bottom: one weight, twice */
    t = stage(u, t, ch, ch, h, shared);
    t = RM_OP(u->g, &DROP, .in = {t}, .fwd_ns = 4 * bytes_of(ch, h), .bwd_ns = 4 * bytes_of(ch, h));
    rm_variant_add(u->g, t, &DROP_MASK, &(rm_op_desc){.fwd_ns = 4 * bytes_of(ch, h), .bwd_ns = bytes_of(ch, h), .saved = bytes_of(ch, h) / 4});
    t = stage(u, t, ch, ch, h, shared);
    for (i = 3; i-- > 0;) {
        int64_t here = 4 << i;
        rm_block_begin(u->g, "up");
        h *= 2;
        t = RM_OP(u->g, &UP, .in = {t, skip[i]}, .out = {bytes_of(ch + here, h)}, .arg = {ch, here, h}, .fwd_ns = bytes_of(ch, h), .bwd_ns = bytes_of(ch, h));
        t = stage(u, t, ch + here, i ? here / 2 : 4, h, none);
        ch = i ? here / 2 : 4;
        rm_block_end(u->g);
    }
    t = conv(u, t, weight(u, 9 * ch), ch, 1, h);
    u->loss = RM_OP(u->g, &LOSS, .in = {t, u->want}, .out = {4}, .fwd_ns = 1000, .bwd_ns = 1000);
    rm_output_add(u->g, u->loss);
}

/* --- training */
typedef struct outcome {
    float loss[STEPS];
    tm_text state; /* weights, momenta, running statistics */
} outcome;

static void give(const unet *u, rm_exec *e, uint64_t seed)
{
    static float v[B * 2 * 256];
    size_t i;
    for (i = 0; i < B * 2 * 256; i++) v[i] = (float)(rmi_mix(seed * 10000 + i) % 2001) / 1000.0f - 1.0f;
    EXPECT(!rm_exec_write(e, u->x, RM_VALUE, 0, v, rm_tensor_bytes(u->g, u->x)) && !rm_exec_write(e, u->want, RM_VALUE, 0, v, rm_tensor_bytes(u->g, u->want)), rm_exec_error(e));
}

static rm_exec *start(const unet *u, rm_plan *p)
{
    rm_exec *e = NULL;
    static float v[9 * 64 * 64];
    int i;
    size_t k;
    if (!EXPECT(!rm_exec_create(p, &(rm_exec_desc){.poison = 1}, &e), rm_graph_error(u->g))) return NULL;
    for (i = 0; i < u->n_params; i++) {
        for (k = 0; k < u->param_bytes[i] / 4; k++) v[k] = (float)(rmi_mix((uint64_t)i * 100000 + k) % 2001) / 1000.0f - 1.0f;
        for (k = 0; k < u->param_bytes[i] / 4; k++) v[k] *= u->param_bytes[i] > 400 ? 0.2f : 1.0f;
        EXPECT(!rm_exec_write(e, u->param[i], RM_VALUE, 0, v, u->param_bytes[i]), rm_exec_error(e));
    }
    return e;
}

static void train(const unet *u, rm_plan *p, outcome *o)
{
    rm_exec *e = start(u, p);
    rm_exec_info info;
    rm_plan_info planned;
    int i;
    for (i = 0; i < STEPS && e; i++) {
        give(u, e, 1); /* the same batch again and again: the loss falls */
        EXPECT(!rm_exec_step(e, &(rm_step){.step = (uint64_t)i, .lr = 0.02}), rm_exec_error(e));
        EXPECT(!rm_exec_read(e, u->loss, RM_VALUE, 0, &o->loss[i], 4), rm_exec_error(e));
    }
    EXPECT(e && !rm_exec_save(e, tm_sink, &o->state), "");
    rm_exec_get_info(e, &info);
    rm_plan_get_info(p, 0, &planned);
    EXPECT(info.touched_bytes <= planned.arena_bytes, "bytes beyond the plan");
    rm_exec_destroy(e);
}

/* Runs of other than the op's own form, by the plan. */
static uint32_t variants(const rm_plan *p)
{
    uint32_t n = 0;
    size_t i;
    for (i = 0; i < p->prog[0].n; i++) n += p->prog[0].st[i].what == RMI_RUN && p->prog[0].st[i].run.way <= RMI_BWD && p->prog[0].st[i].run.form;
    return n;
}

int main(void)
{
    static const char *const presets[] = {"search", "checkmate", "hiremate", "rockmate", "hilp", "rotor"};
    unet u;
    rm_plan *p = NULL;
    rm_plan_info all, info;
    rm_exec *e;
    rm_config c;
    outcome want;
    const char *why;
    uint32_t i, k, used = 0, again = 0, plans[6] = {0};
    memset(&want, 0, sizeof want);
    build(&u);
    if (!EXPECT(!rm_plan_create(u.g, &(rm_plan_desc){.preset = "noremat", .info = &all}, &p), rm_graph_error(u.g))) return tm_end();
    train(&u, p, &want);
    EXPECT(want.loss[STEPS - 1] < 0.9f * want.loss[0] && want.loss[0] == want.loss[0], "it learns");
    e = start(&u, p);
    give(&u, e, 3);
    EXPECT(!rm_exec_check(e, &(rm_step){.lr = 0.01}, &(rm_check_desc){.finite_differences = 4, .loss = u.loss}), rm_exec_error(e));
    rm_exec_destroy(e);
    rm_plan_destroy(p);
    for (k = 0; k < 6; k++) {
        rm_config_preset(presets[k], &c);
        c.work = 2000000;
        for (i = 0; i < 5; i += (uint32_t)tm_amount(2, 1)) {
            outcome o;
            uint64_t least = all.min_bound_bytes + (all.keep_all_bytes - all.min_bound_bytes) / 3;
            rm_plan_desc d = {.config = &c, .info = &info};
            memset(&o, 0, sizeof o);
            tm_case = k * 10 + i + 1;
            d.device_bytes = least + (all.keep_all_bytes - least) * i / 4;
            p = NULL;
            if (rm_plan_create(u.g, &d, &p)) { /* a chain of few cut points reaches less far */
                EXPECT(k >= 3 && rm_graph_result(u.g) == RM_ERROR_INFEASIBLE, rm_graph_error(u.g));
                continue;
            }
            why = rmtest_plan(u.g, p, d.device_bytes, 0);
            EXPECT(!*why, why);
            EXPECT(variants(p) > 0, "a plan without variants"); /* the fastest ones are none of the ops' own */
            used += variants(p);
            plans[k]++;
            again += info.recomputed_runs > 0;
            train(&u, p, &o);
            EXPECT(!memcmp(o.loss, want.loss, sizeof o.loss), "losses");
            EXPECT(o.state.n == want.state.n && !memcmp(o.state.s, want.state.s, o.state.n), "weights, momenta, running statistics");
            e = start(&u, p);
            give(&u, e, 4);
            EXPECT(i || !rm_exec_check(e, &(rm_step){.lr = 0.01}, NULL), rm_exec_error(e));
            rm_exec_destroy(e);
            tm_clear(&o.state);
            rm_plan_destroy(p);
        }
    }
    tm_case = 0;
    for (k = 0; k < 6; k++) EXPECT(plans[k] >= (k < 3 ? tm_amount(3, 5) : tm_amount(1, 2)), presets[k]);
    EXPECT(used > tm_amount(30, 60), "variants");
    EXPECT(again >= tm_amount(6, 12), "recomputation");
    printf("%u runs of variants, %u plans that recompute, losses %g to %g\n", used, again, (double)want.loss[0], (double)want.loss[STEPS - 1]);
    tm_clear(&want.state);
    rm_graph_destroy(u.g);
    return tm_end();
}
