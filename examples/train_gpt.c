/* train_gpt.c - trains a GPT on a text, byte by byte, in a memory budget, with rockmate.h

   Build:  cc -O3 -fopenmp -o train_gpt examples/train_gpt.c -lm          (the same file is also C++20 and CUDA host code:
           c++ -x c++ -std=c++20 -O3 -fopenmp ..., nvcc -x cu -std=c++20 -O3 -Xcompiler -fopenmp ...)
   Run:    ./train_gpt [FILE] [--budget 20M] [--steps 300] ...            (./train_gpt --help lists the options)

   In this order: kernels, kinds, model, options, data, training. To write a trainer of your own, copy the section "model":
   it is all that the library needs to know of a network. The kernels are plain C and know nothing of memory planning.

   The same seed gives the same losses, digit for digit, whatever the budget and however many threads there are. */

#if defined(WITH_URING) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* --disk past the page cache; link with -luring */
#endif
#define _POSIX_C_SOURCE 200809L /* isatty, clock_gettime */
#define ROCKMATE_THREADS        /* --host: copies and updates beside the computation (glibc before 2.34: link with -lpthread) */
#define ROCKMATE_IMPLEMENTATION
#include "../rockmate.h"
#include "stories.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if defined(_WIN32)
#include <io.h>
#else
#include <sys/resource.h>
#include <unistd.h>
#include "disk.h"
#endif

/* =====================================================================================================================
   Kernels. float32, row-major. `adds` says whether a gradient is added to what is there. Every element of a result belongs
   to one thread, which sums in a fixed order: the bits do not depend on the number of threads.
   ================================================================================================================== */

#if defined(_OPENMP)
#define PARALLEL_FOR _Pragma("omp parallel for schedule(static)")
#define PARALLEL_ELEMENTS _Pragma("omp parallel for simd schedule(static)") /* buffers may be equal, not overlap otherwise */
#else
#define PARALLEL_FOR
#define PARALLEL_ELEMENTS
#endif
#define RESTRICT __restrict

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* e^x to about two units in the last place, |x| clamped to 87. No branch and no call: loops over it become vector code. */
static inline float fast_exp(float x)
{
    int32_t bits, size, k;
    float r, p, scale;
    memcpy(&bits, &x, sizeof bits);
    size = bits & 0x7FFFFFFF;
    size = size < 0x42AE0000 ? size : 0x42AE0000; /* 87.0f */
    bits = (bits & INT32_MIN) | size;
    memcpy(&x, &bits, sizeof x);
    k = (int32_t)(x * 1.44269504f + 128.5f) - 128; /* e^x = 2^k e^r, |r| <= ln 2 / 2 */
    r = (x - (float)k * 0.693359375f) + (float)k * 2.12194440e-4f;
    p = 1 + r * (1 + r * (0.5f + r * (1.0f / 6 + r * (1.0f / 24 + r * (1.0f / 120 + r * (1.0f / 720))))));
    bits = (k + 127) * (1 << 23);
    memcpy(&scale, &bits, sizeof scale);
    return p * scale;
}

static float dot(const float *a, const float *b, int64_t n)
{
    float s[8] = {0};
    int64_t i, k;
    for (i = 0; i + 8 <= n; i += 8)
        for (k = 0; k < 8; k++) s[k] += a[i + k] * b[i + k];
    for (; i < n; i++) s[0] += a[i] * b[i];
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

/* y += a[0] * (row 0 of b) + a[step] * (row 1 of b) + ..., eight rows or one at a time: the heart of every matrix product. */
static void add_8_rows(float *RESTRICT y, const float *a, int64_t step, const float *RESTRICT b, int64_t n)
{
    const float a0 = a[0], a1 = a[step], a2 = a[2 * step], a3 = a[3 * step];
    const float a4 = a[4 * step], a5 = a[5 * step], a6 = a[6 * step], a7 = a[7 * step];
    const float *b1 = b + n, *b2 = b1 + n, *b3 = b2 + n, *b4 = b3 + n, *b5 = b4 + n, *b6 = b5 + n, *b7 = b6 + n;
    int64_t j;
    for (j = 0; j < n; j++)
        y[j] += a0 * b[j] + a1 * b1[j] + a2 * b2[j] + a3 * b3[j] + a4 * b4[j] + a5 * b5[j] + a6 * b6[j] + a7 * b7[j];
}
static void add_row(float *RESTRICT y, float a, const float *RESTRICT b, int64_t n)
{
    int64_t j;
    for (j = 0; j < n; j++) y[j] += a * b[j];
}

/* y[rows][n] = or += a . b[depth][n] (+ bias), where element (i, k) of a stands at a[i * row + k * step]: a as it is with
   row = depth, step = 1, transposed with row = 1, step = rows. */
static void matmul(float *y, const float *a, int64_t row, int64_t step, const float *b, const float *bias, int64_t rows,
                   int64_t depth, int64_t n, int adds)
{
    enum { ROWS = 16, DEPTH = 32 }; /* a block of b stays in the cache for all rows of a block of y */
    int64_t i0;
    PARALLEL_FOR
    for (i0 = 0; i0 < rows; i0 += ROWS) {
        const int64_t i1 = smaller(i0 + ROWS, rows);
        int64_t i, k, k0;
        for (i = i0; i < i1; i++) {
            if (bias) memcpy(y + i * n, bias, (size_t)n * sizeof *y);
            else if (!adds) memset(y + i * n, 0, (size_t)n * sizeof *y);
        }
        for (k0 = 0; k0 < depth; k0 += DEPTH) {
            const int64_t k1 = smaller(k0 + DEPTH, depth);
            for (i = i0; i < i1; i++) {
                for (k = k0; k + 8 <= k1; k += 8) add_8_rows(y + i * n, a + i * row + k * step, step, b + k * n, n);
                for (; k < k1; k++) add_row(y + i * n, a[i * row + k * step], b + k * n, n);
            }
        }
    }
}

static void transpose(float *y, const float *x, int64_t rows, int64_t columns) /* of x */
{
    int64_t i, j;
    for (i = 0; i < rows; i++)
        for (j = 0; j < columns; j++) y[j * rows + i] = x[i * columns + j];
}

static void add_column_sums(float *sum, const float *x, int64_t rows, int64_t columns)
{
    int64_t i;
    for (i = 0; i < rows; i++) add_row(sum, 1.0f, x + i * columns, columns);
}

static void embedding_forward(float *y, const int32_t *token, const float *wte, const float *wpe, int64_t rows, int64_t context, int64_t channels)
{
    int64_t i, j;
    for (i = 0; i < rows; i++) {
        const float *t = wte + token[i] * channels, *p = wpe + i % context * channels;
        for (j = 0; j < channels; j++) y[i * channels + j] = t[j] + p[j];
    }
}

/* Row i of dy is added to row index(i) of the table: its token, or its position. */
static void embedding_backward(float *table, const float *dy, const int32_t *token, int64_t rows, int64_t context, int64_t channels)
{
    int64_t i;
    for (i = 0; i < rows; i++) add_row(table + (token ? token[i] : i % context) * channels, 1.0f, dy + i * channels, channels);
}

/* statistics: mean and 1/deviation of each row, or NULL. */
static void layernorm_forward(float *y, const float *x, const float *gain, const float *bias, float *statistics, int64_t rows, int64_t channels)
{
    int64_t i;
    PARALLEL_FOR
    for (i = 0; i < rows; i++) {
        const float *xi = x + i * channels;
        float mean = 0, variance = 0, rstd;
        int64_t j;
        for (j = 0; j < channels; j++) mean += xi[j];
        mean /= (float)channels;
        for (j = 0; j < channels; j++) variance += (xi[j] - mean) * (xi[j] - mean);
        rstd = 1 / sqrtf(variance / (float)channels + 1e-5f);
        for (j = 0; j < channels; j++) y[i * channels + j] = (xi[j] - mean) * rstd * gain[j] + bias[j];
        if (statistics) {
            statistics[2 * i] = mean;
            statistics[2 * i + 1] = rstd;
        }
    }
}

/* The gradients of gain and bias are added to, and come first: dx may be written over dy. */
static void layernorm_backward(float *dx, float *dgain, float *dbias, const float *dy, const float *x, const float *gain,
                               const float *statistics, int64_t rows, int64_t channels, int adds)
{
    int64_t i, j;
    if (dgain)
        for (i = 0; i < rows; i++)
            for (j = 0; j < channels; j++) dgain[j] += dy[i * channels + j] * ((x[i * channels + j] - statistics[2 * i]) * statistics[2 * i + 1]);
    if (dbias) add_column_sums(dbias, dy, rows, channels);
    if (!dx) return;
    PARALLEL_FOR
    for (i = 0; i < rows; i++) {
        const float *xi = x + i * channels, *dyi = dy + i * channels;
        const float mean = statistics[2 * i], rstd = statistics[2 * i + 1];
        float *dxi = dx + i * channels, sum = 0, sum_x = 0;
        int64_t k;
        for (k = 0; k < channels; k++) {
            sum += gain[k] * dyi[k];
            sum_x += gain[k] * dyi[k] * (xi[k] - mean) * rstd;
        }
        sum /= (float)channels;
        sum_x /= (float)channels;
        for (k = 0; k < channels; k++) {
            const float d = (gain[k] * dyi[k] - sum - (xi[k] - mean) * rstd * sum_x) * rstd;
            dxi[k] = adds ? dxi[k] + d : d;
        }
    }
}

/* Causal attention in tiles of queries and keys, with running maxima (flash attention): the T x T probabilities never exist.
   qkv[batch][context][3][heads][size]; lse[batch][heads][context], the logarithms of the softmax sums, or NULL. */
enum { QUERIES = 16, KEYS = 32, MAX_HEAD_SIZE = 128 };

static void load_transposed(float *RESTRICT tile, const float *RESTRICT x, int64_t stride, int64_t keys, int64_t size)
{
    int64_t i, j;
    for (i = 0; i < size; i++)
        for (j = 0; j < KEYS; j++) tile[i * KEYS + j] = j < keys ? x[j * stride + i] : 0;
}
static void tile_scores(float *RESTRICT s, const float *RESTRICT q, const float *RESTRICT tile, int64_t size) /* of one query */
{
    int64_t i, j;
    float sum[KEYS] = {0};
    for (i = 0; i < size; i++)
        for (j = 0; j < KEYS; j++) sum[j] += q[i] * tile[i * KEYS + j];
    for (j = 0; j < KEYS; j++) s[j] = sum[j];
}

static void attention_forward(float *y, float *lse, const float *qkv, int64_t batch, int64_t context, int64_t channels, int64_t heads)
{
    const int64_t size = channels / heads, stride = 3 * channels;
    const float scale = 1 / sqrtf((float)size);
    int64_t bh;
    PARALLEL_FOR
    for (bh = 0; bh < batch * heads; bh++) {
        const float *q = qkv + bh / heads * context * stride + bh % heads * size, *k = q + channels, *v = k + channels;
        float *yb = y + bh / heads * context * channels + bh % heads * size;
        float tile[MAX_HEAD_SIZE * KEYS], s[KEYS], top[QUERIES], sum[QUERIES];
        int64_t q0, k0, i, j, n;
        for (q0 = 0; q0 < context; q0 += QUERIES) {
            const int64_t q1 = smaller(q0 + QUERIES, context);
            for (i = q0; i < q1; i++) {
                memset(yb + i * channels, 0, (size_t)size * sizeof *y);
                top[i - q0] = -1e30f;
                sum[i - q0] = 0;
            }
            for (k0 = 0; k0 < q1; k0 += KEYS) {
                load_transposed(tile, k + k0 * stride, stride, smaller(KEYS, context - k0), size);
                for (i = q0; i < q1; i++) {
                    const int64_t keys = smaller(KEYS, i + 1 - k0);
                    const float before = top[i - q0];
                    float m = before, shrink, total = 0;
                    tile_scores(s, q + i * stride, tile, size);
                    for (j = 0; j < keys; j++) m = s[j] * scale > m ? s[j] * scale : m;
                    for (j = 0; j < KEYS; j++) s[j] = fast_exp(s[j] * scale - m);
                    for (j = 0; j < keys; j++) total += s[j];
                    shrink = fast_exp(before - m);
                    top[i - q0] = m;
                    sum[i - q0] = sum[i - q0] * shrink + total;
                    for (n = 0; n < size; n++) yb[i * channels + n] *= shrink;
                    for (j = 0; j < keys; j++) add_row(yb + i * channels, s[j], v + (k0 + j) * stride, size);
                }
            }
            for (i = q0; i < q1; i++) {
                for (n = 0; n < size; n++) yb[i * channels + n] /= sum[i - q0];
                if (lse) lse[bh * context + i] = top[i - q0] + logf(sum[i - q0]);
            }
        }
    }
}

static void attention_backward(float *dqkv, const float *dy, const float *qkv, const float *y, const float *lse, int64_t batch,
                               int64_t context, int64_t channels, int64_t heads, int adds)
{
    const int64_t size = channels / heads, stride = 3 * channels;
    const float scale = 1 / sqrtf((float)size);
    int64_t bh;
    if (!adds) memset(dqkv, 0, (size_t)(batch * context * stride) * sizeof *dqkv);
    PARALLEL_FOR
    for (bh = 0; bh < batch * heads; bh++) {
        const int64_t at = bh / heads * context * stride + bh % heads * size, at_y = bh / heads * context * channels + bh % heads * size;
        const float *q = qkv + at, *k = q + channels, *v = k + channels, *yb = y + at_y, *dyb = dy + at_y;
        float *dq = dqkv + at, *dk = dq + channels, *dv = dk + channels;
        float k_tile[MAX_HEAD_SIZE * KEYS], v_tile[MAX_HEAD_SIZE * KEYS], p[KEYS], ds[KEYS];
        int64_t q0, k0, i, j;
        for (q0 = 0; q0 < context; q0 += QUERIES) {
            const int64_t q1 = smaller(q0 + QUERIES, context);
            for (k0 = 0; k0 < q1; k0 += KEYS) {
                load_transposed(k_tile, k + k0 * stride, stride, smaller(KEYS, context - k0), size);
                load_transposed(v_tile, v + k0 * stride, stride, smaller(KEYS, context - k0), size);
                for (i = q0; i < q1; i++) {
                    const int64_t keys = smaller(KEYS, i + 1 - k0);
                    const float own = dot(dyb + i * channels, yb + i * channels, size), l = lse[bh * context + i];
                    tile_scores(p, q + i * stride, k_tile, size);
                    tile_scores(ds, dyb + i * channels, v_tile, size);
                    for (j = 0; j < KEYS; j++) {
                        p[j] = fast_exp(p[j] * scale - l);
                        ds[j] = p[j] * (ds[j] - own) * scale;
                    }
                    for (j = 0; j < keys; j++) {
                        add_row(dv + (k0 + j) * stride, p[j], dyb + i * channels, size);
                        add_row(dk + (k0 + j) * stride, ds[j], q + i * stride, size);
                        add_row(dq + i * stride, ds[j], k + (k0 + j) * stride, size);
                    }
                }
            }
        }
    }
}

/* x * sigmoid(2u), u = sqrt(2 / pi) (x + 0.044715 x^3): the tanh form of GELU. */
static void gelu_forward(float *y, const float *x, int64_t n)
{
    int64_t i;
    PARALLEL_ELEMENTS
    for (i = 0; i < n; i++) y[i] = x[i] / (1 + fast_exp(-1.59576912f * (x[i] + 0.044715f * x[i] * x[i] * x[i])));
}
static inline float gelu_slope(float x)
{
    const float s = 1 / (1 + fast_exp(-1.59576912f * (x + 0.044715f * x * x * x)));
    return s + x * s * (1 - s) * 1.59576912f * (1 + 0.134145f * x * x);
}
static void gelu_backward(float *dx, const float *dy, const float *x, int64_t n, int adds)
{
    int64_t i;
    if (adds) {
        PARALLEL_ELEMENTS
        for (i = 0; i < n; i++) dx[i] += dy[i] * gelu_slope(x[i]);
    } else {
        PARALLEL_ELEMENTS
        for (i = 0; i < n; i++) dx[i] = dy[i] * gelu_slope(x[i]);
    }
}

/* A random 32-bit number that depends on nothing but its arguments, so that a mask need not be stored to be had again. */
static inline uint32_t random_bits(uint64_t seed, uint32_t i)
{
    uint32_t x = (uint32_t)seed + i * 0x9E3779B9u;
    x = (x ^ (x >> 16)) * 0x7FEB352Du;
    x = (x ^ (x >> 15) ^ (uint32_t)(seed >> 32)) * 0x846CA68Bu;
    return x ^ (x >> 16);
}

/* y = base + x * mask / (1 - rate), base may be NULL; y may be any of them. dropout(dx, dx or NULL, dy) is its own backward. */
static void dropout(float *y, const float *base, const float *x, int64_t n, double rate, uint64_t seed)
{
    const uint32_t below = (uint32_t)(rate * 4294967296.0);
    const float scale = (float)(1 / (1 - rate));
    int64_t i;
    if (base) {
        PARALLEL_ELEMENTS
        for (i = 0; i < n; i++) y[i] = base[i] + x[i] * (random_bits(seed, (uint32_t)i) >= below ? scale : 0.0f);
    } else {
        PARALLEL_ELEMENTS
        for (i = 0; i < n; i++) y[i] = x[i] * (random_bits(seed, (uint32_t)i) >= below ? scale : 0.0f);
    }
}

/* The mean of -log softmax(logits)[target]; lse may be NULL. */
static float cross_entropy_forward(float *lse, const float *logits, const int32_t *target, int64_t rows, int64_t vocab)
{
    double loss = 0;
    int64_t i, j;
    for (i = 0; i < rows; i++) {
        const float *x = logits + i * vocab;
        float top = x[0], sum = 0;
        for (j = 1; j < vocab; j++) top = x[j] > top ? x[j] : top;
        for (j = 0; j < vocab; j++) sum += fast_exp(x[j] - top);
        sum = top + logf(sum);
        if (lse) lse[i] = sum;
        loss += (double)(sum - x[target[i]]);
    }
    return (float)(loss / (double)rows);
}
static void cross_entropy_backward(float *dlogits, const float *lse, const float *logits, const int32_t *target, int64_t rows,
                                   int64_t vocab, float scale, int adds)
{
    int64_t i;
    PARALLEL_FOR
    for (i = 0; i < rows; i++) {
        int64_t j;
        for (j = 0; j < vocab; j++) { /* dlogits may be written over logits */
            const float d = (fast_exp(logits[i * vocab + j] - lse[i]) - (j == target[i] ? 1.0f : 0.0f)) * scale;
            dlogits[i * vocab + j] = adds ? dlogits[i * vocab + j] + d : d;
        }
    }
}

/* =====================================================================================================================
   Kinds. A kind is a pair of callbacks and what the library may know of them: above all, what the backward reads.
   ================================================================================================================== */

static const float *in_f(const rm_call *c, int i) { return (const float *)c->in[i]; }
static const int32_t *in_i(const rm_call *c, int i) { return (const int32_t *)c->in[i]; }
static float *out_f(const rm_call *c) { return (float *)c->out[0]; }
static float *din_f(const rm_call *c, int i) { return (float *)c->din[i]; }
static const float *dout_f(const rm_call *c) { return (const float *)c->dout[0]; }
static int64_t count_f(const rm_call *c) { return (int64_t)(c->out_bytes[0] / sizeof(float)); }

/* embedding: y = wte[token] + wpe[position]. in: tokens, wte, wpe; arg: rows, context, channels. The tables' gradients arrive
   zeroed where nothing has been added to them yet (zero_grads): the backward only adds. */
static int embedding_fwd(const rm_call *c)
{
    embedding_forward(out_f(c), in_i(c, 0), in_f(c, 1), in_f(c, 2), c->arg[0], c->arg[1], c->arg[2]);
    return 0;
}
static int embedding_bwd(const rm_call *c)
{
    if (c->din[1]) embedding_backward(din_f(c, 1), dout_f(c), in_i(c, 0), c->arg[0], c->arg[1], c->arg[2]);
    if (c->din[2]) embedding_backward(din_f(c, 2), dout_f(c), NULL, c->arg[0], c->arg[1], c->arg[2]);
    return 0;
}
static const rm_kind EMBEDDING = {
    .name = "embedding", .forward = embedding_fwd, .backward = embedding_bwd, .needs = RM_IN(0), .zero_grads = RM_IN(1) | RM_IN(2),
};

/* layernorm. in: x, gain, bias; arg: rows, channels; saved: mean and 1/deviation of each row. */
static int layernorm_fwd(const rm_call *c)
{
    layernorm_forward(out_f(c), in_f(c, 0), in_f(c, 1), in_f(c, 2), (float *)c->saved, c->arg[0], c->arg[1]);
    return 0;
}
static int layernorm_bwd(const rm_call *c)
{
    layernorm_backward(din_f(c, 0), din_f(c, 1), din_f(c, 2), dout_f(c), in_f(c, 0), in_f(c, 1), (const float *)c->saved,
                       c->arg[0], c->arg[1], RM_ADDS(c, 0));
    return 0;
}
static const rm_kind LAYERNORM = {
    .name = "layernorm", .forward = layernorm_fwd, .backward = layernorm_bwd,
    .needs = RM_IN(0) | RM_IN(1) | RM_SAVED,
    .over = { { .grad_of = RM_IN(0), .bytes_of = RM_DOUT } },
    .zero_grads = RM_IN(1) | RM_IN(2),
};

/* linear: y = x . w + bias. in: x, w, bias; arg: rows, inputs, outputs. In two parts: dx needs w alone, dw needs x alone. */
static int linear_fwd(const rm_call *c)
{
    const int64_t rows = c->arg[0], inputs = c->arg[1], outputs = c->arg[2];
    matmul(out_f(c), in_f(c, 0), inputs, 1, in_f(c, 1), in_f(c, 2), rows, inputs, outputs, 0);
    return 0;
}
static int linear_bwd(const rm_call *c)
{
    const int64_t rows = c->arg[0], inputs = c->arg[1], outputs = c->arg[2];
    if (c->din[0]) {
        float *w = (float *)c->ws; /* transposed: the product then runs along rows */
        transpose(w, in_f(c, 1), inputs, outputs);
        matmul(din_f(c, 0), dout_f(c), outputs, 1, w, NULL, rows, outputs, inputs, RM_ADDS(c, 0));
    }
    if (c->din[1]) matmul(din_f(c, 1), in_f(c, 0), 1, inputs, dout_f(c), NULL, inputs, rows, outputs, RM_ADDS(c, 1));
    if (c->din[2]) add_column_sums(din_f(c, 2), dout_f(c), rows, outputs);
    return 0;
}
static const rm_kind LINEAR = {
    .name = "linear", .forward = linear_fwd, .backward = linear_bwd,
    .part = { { .name = "dx", .grads = RM_IN(0), .needs = RM_IN(1) },
              { .name = "dw", .grads = RM_IN(1) | RM_IN(2), .needs = RM_IN(0) } },
    .zero_grads = RM_IN(2),
};

/* attention. in: qkv; arg: batch, context, channels, heads; saved: the logarithm of each softmax's sum. */
static int attention_fwd(const rm_call *c)
{
    attention_forward(out_f(c), (float *)c->saved, in_f(c, 0), c->arg[0], c->arg[1], c->arg[2], c->arg[3]);
    return 0;
}
static int attention_bwd(const rm_call *c)
{
    if (c->din[0])
        attention_backward(din_f(c, 0), dout_f(c), in_f(c, 0), out_f(c), (const float *)c->saved, c->arg[0], c->arg[1], c->arg[2],
                           c->arg[3], RM_ADDS(c, 0));
    return 0;
}
static const rm_kind ATTENTION = {
    .name = "attention", .forward = attention_fwd, .backward = attention_bwd, .needs = RM_IN(0) | RM_OUT(0) | RM_SAVED,
};

/* gelu. in: x. Element by element: the output may take the place of x, the gradient that of dy or of x. */
static int gelu_fwd(const rm_call *c)
{
    gelu_forward(out_f(c), in_f(c, 0), count_f(c));
    return 0;
}
static int gelu_bwd(const rm_call *c)
{
    if (c->din[0]) gelu_backward(din_f(c, 0), dout_f(c), in_f(c, 0), count_f(c), RM_ADDS(c, 0));
    return 0;
}
static const rm_kind GELU = {
    .name = "gelu", .forward = gelu_fwd, .backward = gelu_bwd, .needs = RM_IN(0), .inplace = RM_IN(0),
    .over = { { .grad_of = RM_IN(0), .bytes_of = RM_DOUT }, { .grad_of = RM_IN(0), .bytes_of = RM_IN(0) } },
};

/* dropout. in: x; farg: rate. The mask is a function of c->seed: nothing to save, and a recomputation draws the same one. */
static double dropout_rate(const rm_call *c) { return c->step->kind == RM_FORWARD ? 0 : c->farg[0]; }

static int dropout_fwd(const rm_call *c)
{
    dropout(out_f(c), NULL, in_f(c, 0), count_f(c), dropout_rate(c), c->seed);
    return 0;
}
static int dropout_bwd(const rm_call *c)
{
    if (c->din[0]) dropout(din_f(c, 0), RM_ADDS(c, 0) ? din_f(c, 0) : NULL, dout_f(c), count_f(c), dropout_rate(c), c->seed);
    return 0;
}
static const rm_kind DROPOUT = {
    .name = "dropout", .forward = dropout_fwd, .backward = dropout_bwd, .needs = RM_NOTHING, .flags = RM_RNG, .inplace = RM_IN(0),
    .over = { { .grad_of = RM_IN(0), .bytes_of = RM_DOUT } },
};

/* residual: y = x + dropout(branch). in: x, branch; farg: rate. The gradient of x is the gradient of y, so it costs nothing. */
static int residual_fwd(const rm_call *c)
{
    dropout(out_f(c), in_f(c, 0), in_f(c, 1), count_f(c), dropout_rate(c), c->seed);
    return 0;
}
static int residual_bwd(const rm_call *c)
{
    if (c->din[1]) dropout(din_f(c, 1), RM_ADDS(c, 1) ? din_f(c, 1) : NULL, dout_f(c), count_f(c), dropout_rate(c), c->seed);
    if (c->din[0]) dropout(din_f(c, 0), RM_ADDS(c, 0) ? din_f(c, 0) : NULL, dout_f(c), count_f(c), 0, 0);
    return 0;
}
static const rm_kind RESIDUAL = {
    .name = "residual", .forward = residual_fwd, .backward = residual_bwd, .needs = RM_NOTHING, .flags = RM_RNG, .inplace = RM_IN(1),
    .share_grad = RM_IN(0),
};

/* head: logits = x . transpose(wte), the table of the embedding once more. in: x, wte; arg: rows, channels, vocabulary. */
static int head_fwd(const rm_call *c)
{
    const int64_t rows = c->arg[0], channels = c->arg[1], vocab = c->arg[2];
    transpose((float *)c->ws, in_f(c, 1), vocab, channels);
    matmul(out_f(c), in_f(c, 0), channels, 1, (const float *)c->ws, NULL, rows, channels, vocab, 0);
    return 0;
}
static int head_bwd(const rm_call *c)
{
    const int64_t rows = c->arg[0], channels = c->arg[1], vocab = c->arg[2];
    if (c->din[0]) matmul(din_f(c, 0), dout_f(c), vocab, 1, in_f(c, 1), NULL, rows, vocab, channels, RM_ADDS(c, 0));
    if (c->din[1]) matmul(din_f(c, 1), dout_f(c), 1, vocab, in_f(c, 0), NULL, vocab, rows, channels, RM_ADDS(c, 1));
    return 0;
}
static const rm_kind HEAD = {
    .name = "head", .forward = head_fwd, .backward = head_bwd,
    .part = { { .name = "dx", .grads = RM_IN(0), .needs = RM_IN(1) }, { .name = "dw", .grads = RM_IN(1), .needs = RM_IN(0) } },
};

/* loss: mean cross entropy. in: logits, targets; arg: rows, vocabulary; farg: weight of this micro-batch. It seeds the
   backward: nobody gives it a dout. Its gradient may overwrite the logits. */
static int loss_fwd(const rm_call *c)
{
    out_f(c)[0] = (float)c->farg[0] * cross_entropy_forward((float *)c->saved, in_f(c, 0), in_i(c, 1), c->arg[0], c->arg[1]);
    return 0;
}
static int loss_bwd(const rm_call *c)
{
    const float scale = (float)(c->farg[0] / (double)c->arg[0]);
    if (c->din[0])
        cross_entropy_backward(din_f(c, 0), (const float *)c->saved, in_f(c, 0), in_i(c, 1), c->arg[0], c->arg[1], scale, RM_ADDS(c, 0));
    return 0;
}
static const rm_kind LOSS = {
    .name = "loss", .forward = loss_fwd, .backward = loss_bwd, .needs = RM_IN(0) | RM_IN(1) | RM_SAVED,
    .over = { { .grad_of = RM_IN(0), .bytes_of = RM_IN(0) } },
};

/* pick: the logits of one row, whose number comes with the step: what the sampler reads. No backward. */
static int pick_fwd(const rm_call *c)
{
    const int64_t vocab = count_f(c);
    memcpy(c->out[0], in_f(c, 0) + (int64_t)c->step->value[0] * vocab, (size_t)vocab * sizeof(float));
    return 0;
}
static const rm_kind PICK = { .name = "pick", .forward = pick_fwd, .flags = RM_NOGRAD };

/* AdamW, the update of every param. state: first and second moments; farg: weight decay. */
static int adamw(const rm_call *c)
{
    const int64_t n = (int64_t)(c->param_bytes / sizeof(float));
    const double t = (double)c->step->step + 1, beta1 = 0.9, beta2 = 0.95;
    const float b1 = (float)beta1, b2 = (float)beta2, fix1 = (float)(1 / (1 - pow(beta1, t))), fix2 = (float)(1 / (1 - pow(beta2, t)));
    const float lr = (float)c->step->lr, decay = (float)c->farg[0];
    float *w = (float *)c->param, *m = (float *)c->state, *v = m + n;
    const float *grad = (const float *)c->grad;
    int64_t i;
    PARALLEL_ELEMENTS
    for (i = 0; i < n; i++) {
        m[i] = b1 * m[i] + (1 - b1) * grad[i];
        v[i] = b2 * v[i] + (1 - b2) * grad[i] * grad[i];
        w[i] -= lr * (m[i] * fix1 / (sqrtf(v[i] * fix2) + 1e-8f) + decay * w[i]);
    }
    return 0;
}

/* =====================================================================================================================
   Model. This is what you write for a network of your own.
   ================================================================================================================== */

typedef struct weight { /* what its initial values need to know */
    rm_tensor tensor;
    int64_t count;
    double mean, deviation;
} weight;

enum { DEVICE = 1, HOST = 2 };

typedef struct gpt {
    int64_t layers, channels, heads, context, batch, vocab, micro_batches;
    int64_t ranks; /* processes that train together, each on its own part of the batch: their gradients are added up */
    int reduced;   /* gradients go through rm_exec_desc.reduce */
    double dropout;
    int update_on; /* where AdamW may run: bits DEVICE, HOST */
    rm_graph *graph;
    rm_tensor tokens, targets, picked, loss; /* in and out of every step */
    weight *weights;
    size_t weight_count;
} gpt;

static uint64_t floats(int64_t n) { return (uint64_t)n * sizeof(float); }
static uint64_t ints(int64_t n) { return (uint64_t)n * sizeof(int32_t); }

/* Matrices decay, gains and biases (which start without deviation) do not. */
static rm_tensor add_weight(gpt *m, const char *layer, const char *what, int64_t count, double mean, double deviation)
{
    weight *w = &m->weights[m->weight_count++];
    char name[64];
    snprintf(name, sizeof name, "%s.%s", layer, what);
    w->count = count;
    w->mean = mean;
    w->deviation = deviation;
    w->tensor = RM_PARAM(m->graph, .name = name, .bytes = floats(count), .state_bytes = 2 * floats(count), .state_rows = 2, .update = m->update_on & DEVICE ? adamw : NULL,
                         .update_host = m->update_on & HOST ? adamw : NULL, .reduce_ns = m->reduced ? RM_FREE_NS : 0, .farg = { deviation > 0 ? 0.1 : 0 });
    return w->tensor;
}

static rm_tensor add_layernorm(gpt *m, const char *name, rm_tensor x)
{
    const int64_t rows = m->batch * m->context, channels = m->channels;
    const rm_tensor gain = add_weight(m, name, "gain", channels, 1, 0), bias = add_weight(m, name, "bias", channels, 0, 0);
    return RM_OP(m->graph, &LAYERNORM, .name = name, .in = { x, gain, bias },
                 .out = { floats(rows * channels) }, .saved = floats(2 * rows), .arg = { rows, channels });
}

static rm_tensor add_linear(gpt *m, const char *name, rm_tensor x, int64_t inputs, int64_t outputs, double deviation)
{
    const int64_t rows = m->batch * m->context;
    const rm_tensor w = add_weight(m, name, "w", inputs * outputs, 0, deviation), bias = add_weight(m, name, "bias", outputs, 0, 0);
    return RM_OP(m->graph, &LINEAR, .name = name, .in = { x, w, bias }, .out = { floats(rows * outputs) },
                 .arg = { rows, inputs, outputs }, .part_ws = { floats(inputs * outputs) });
}

static void describe_gpt(gpt *m)
{
    const int64_t batch = m->batch, context = m->context, rows = batch * context;
    const int64_t channels = m->channels, heads = m->heads, vocab = m->vocab;
    const double wide = 1 / sqrt((double)channels), narrow = wide / sqrt(2.0 * (double)m->layers); /* initial weights */
    rm_graph *g = m->graph;
    rm_tensor x, y, logits, wte, wpe;
    int64_t layer;

    m->tokens = rm_input_add(g, "tokens", ints(rows), 0);
    m->targets = rm_input_add(g, "targets", ints(rows), 0);

    wte = add_weight(m, "embedding", "wte", vocab * channels, 0, 0.05);
    wpe = add_weight(m, "embedding", "wpe", context * channels, 0, 0.02);
    x = RM_OP(g, &EMBEDDING, .name = "embedding", .in = { m->tokens, wte, wpe }, .out = { floats(rows * channels) },
              .arg = { rows, context, channels });
    x = RM_OP(g, &DROPOUT, .name = "dropout", .in = { x }, .farg = { m->dropout });

    for (layer = 0; layer < m->layers; layer++) {
        rm_block_begin(g, "h"); /* messages will say h[3]/fc */
        y = add_layernorm(m, "ln1", x);
        y = add_linear(m, "qkv", y, channels, 3 * channels, wide);
        y = RM_OP(g, &ATTENTION, .name = "attention", .in = { y }, .out = { floats(rows * channels) },
                  .saved = floats(rows * heads), .arg = { batch, context, channels, heads });
        y = add_linear(m, "proj", y, channels, channels, narrow);
        x = RM_OP(g, &RESIDUAL, .name = "residual1", .in = { x, y }, .farg = { m->dropout });
        y = add_layernorm(m, "ln2", x);
        y = add_linear(m, "fc", y, channels, 4 * channels, wide);
        y = RM_OP(g, &GELU, .name = "gelu", .in = { y });
        y = add_linear(m, "fcproj", y, 4 * channels, channels, narrow);
        x = RM_OP(g, &RESIDUAL, .name = "residual2", .in = { x, y }, .farg = { m->dropout });
        rm_block_end(g);
    }

    x = add_layernorm(m, "ln", x);
    logits = RM_OP(g, &HEAD, .name = "head", .in = { x, wte }, .out = { floats(rows * vocab) },
                   .fwd_ws = floats(channels * vocab), .arg = { rows, channels, vocab });
    m->picked = RM_OP(g, &PICK, .name = "pick", .in = { logits }, .out = { floats(vocab) });
    m->loss = RM_OP(g, &LOSS, .name = "loss", .in = { logits, m->targets }, .out = { sizeof(float) },
                    .saved = floats(rows), .arg = { rows, vocab }, .farg = { 1.0 / (double)(m->micro_batches * m->ranks) });
    rm_output_add(g, m->picked);
    rm_output_add(g, m->loss);
}

/* =====================================================================================================================
   Options.
   ================================================================================================================== */

typedef struct options {
    const char *file, *save, *load;
    uint64_t budget;       /* bytes; 0: */
    double budget_percent; /* of what keeping everything takes; 0: a third, or the least that works */
    uint64_t host, link;   /* host memory that the plan may use, bytes a second between there and the arena */
    char disk[1024];       /* a file for what host memory has no room for; "": none */
    uint64_t disk_size;    /* its bytes at most; 0: any */
    int64_t keep;          /* it is brought up to date every so many steps */
    int update_on;
    int64_t layers, channels, heads, context, batch, steps, stop, accumulate, sample;
    double dropout, lr;
    uint64_t seed;
    int estimate, check, compare, quiet;
} options;

static const char HELP[] =
    "train_gpt [FILE] [options]        trains a GPT on the bytes of FILE (default: little stories), in a memory budget\n"
    "  --budget SIZE     bytes, or with K, M, G, or % of what keeping everything takes   (default: a third)\n"
    "  --host SIZE       memory beside the budget, where weights, states and activations may wait (\"host memory\")\n"
    "  --link SIZE       bytes a second that copies to and from there take              (default 1G)\n"
    "  --disk FILE[:SIZE] what host memory has no room for waits in this file, of at most SIZE bytes; weights and states are in\n"
    "                    it as of the last whole step, whatever happens: the next training with it goes on from there\n"
    "  --keep N          every N steps instead of every step\n"
    "  --update WHERE    device, host or either: where AdamW runs, with --host          (default either)\n"
    "  --steps N         --accumulate N (micro-batches a step)    --lr X     --seed N    --dropout P\n"
    "  --layers N        --channels N    --heads N    --context N    --batch N           the model\n"
    "  --save FILE       --load FILE     weights and optimizer states; a loaded training goes on where it was saved\n"
    "  --stop N          stop after step N of --steps (to save, and go on another time)\n"
    "  --sample N        bytes of text to write at the end                               (default 200)\n"
    "  --estimate        plan with times estimated from bytes; else every op is measured first\n"
    "  --check           first look for kinds that declare wrongly what they read and write\n"
    "  --compare         take the first steps in turn with one that keeps everything: same losses? how much slower?\n"
    "  --quiet           only the held-out loss and the memory\n";

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "train_gpt: %s%s%s\n", what, why && *why ? ": " : "", why ? why : "");
    exit(1);
}

static double number(const char *option, const char *text, double least, double most)
{
    char *end;
    const double x = strtod(text, &end);
    if (end == text || *end || !(x >= least && x <= most)) fail(option, "a number out of range, or none");
    return x;
}
static int64_t whole(const char *option, const char *text, double least) { return (int64_t)number(option, text, least, 1e9); }

/* Bytes, with K, M or G or without; where percent is given also that. */
static uint64_t size_of(const char *option, const char *text, double *percent)
{
    char *end;
    const double x = strtod(text, &end);
    const char *unit = strchr("KkMmGg", *end), *units = "KkMmGg";
    if (end == text || !(x > 0) || x > 1e15) fail(option, "a size like 500000, 800K, 24M, 1.5G or 40%");
    if (percent && !strcmp(end, "%")) *percent = x;
    else if (!*end) return (uint64_t)x;
    else if (unit && !end[1]) return (uint64_t)(x * (double)(1 << 10 * ((strchr(units, *end) - units) / 2 + 1)));
    else fail(option, "a size like 500000, 800K, 24M, 1.5G or 40%");
    return 0;
}

/* FILE or FILE:SIZE. */
static void disk_of(options *o, const char *text)
{
    const char *colon = strrchr(text, ':');
    if (strlen(text) >= sizeof o->disk || !*text) fail("--disk", "the name of a file");
    strcpy(o->disk, text);
    if (!colon || strchr(colon, '/')) return;
    o->disk_size = size_of("--disk", colon + 1, NULL);
    o->disk[colon - text] = 0;
}

static int side(const char *text)
{
    if (!strcmp(text, "device")) return DEVICE;
    if (!strcmp(text, "host")) return HOST;
    if (strcmp(text, "either")) fail("--update", "device, host or either");
    return DEVICE | HOST;
}

static options parse_options(int argc, char **argv)
{
    options o;
    int i;
    memset(&o, 0, sizeof o);
    o.layers = 8;
    o.channels = 96;
    o.heads = 4;
    o.context = 128;
    o.batch = 8;
    o.steps = 300;
    o.accumulate = 1;
    o.keep = 1;
    o.stop = -1;
    o.sample = -1;
    o.dropout = 0.1;
    o.lr = 2e-3;
    o.seed = 1;
    o.link = (uint64_t)1 << 30;
    o.update_on = DEVICE | HOST;
    for (i = 1; i < argc; i++) {
        const char *a = argv[i], *v = i + 1 < argc ? argv[i + 1] : "";
        int takes_value = 1;
        if (!strcmp(a, "--budget")) o.budget = size_of(a, v, &o.budget_percent);
        else if (!strcmp(a, "--host")) o.host = size_of(a, v, NULL);
        else if (!strcmp(a, "--disk")) disk_of(&o, v);
        else if (!strcmp(a, "--keep")) o.keep = whole(a, v, 1);
        else if (!strcmp(a, "--link")) o.link = size_of(a, v, NULL);
        else if (!strcmp(a, "--update")) o.update_on = side(v);
        else if (!strcmp(a, "--steps")) o.steps = whole(a, v, 0);
        else if (!strcmp(a, "--layers")) o.layers = whole(a, v, 1);
        else if (!strcmp(a, "--channels")) o.channels = whole(a, v, 1);
        else if (!strcmp(a, "--heads")) o.heads = whole(a, v, 1);
        else if (!strcmp(a, "--context")) o.context = whole(a, v, 1);
        else if (!strcmp(a, "--batch")) o.batch = whole(a, v, 1);
        else if (!strcmp(a, "--stop")) o.stop = whole(a, v, 0);
        else if (!strcmp(a, "--accumulate")) o.accumulate = whole(a, v, 1);
        else if (!strcmp(a, "--sample")) o.sample = whole(a, v, 0);
        else if (!strcmp(a, "--seed")) o.seed = (uint64_t)whole(a, v, 0);
        else if (!strcmp(a, "--dropout")) o.dropout = number(a, v, 0, 0.99);
        else if (!strcmp(a, "--lr")) o.lr = number(a, v, 0, 1e3);
        else if (!strcmp(a, "--save")) o.save = v;
        else if (!strcmp(a, "--load")) o.load = v;
        else {
            takes_value = 0;
            if (!strcmp(a, "--estimate")) o.estimate = 1;
            else if (!strcmp(a, "--check")) o.check = 1;
            else if (!strcmp(a, "--compare")) o.compare = 1;
            else if (!strcmp(a, "--quiet")) o.quiet = 1;
            else if (!strcmp(a, "--help") || !strcmp(a, "-h")) {
                fputs(HELP, stdout);
                exit(0);
            } else if (a[0] == '-') fail(a, "no such option; --help lists them");
            else o.file = a;
        }
        if (takes_value && ++i >= argc) fail(a, "a value is missing");
    }
    if (o.stop < 0 || o.stop > o.steps) o.stop = o.steps;
    if (o.sample < 0) o.sample = o.quiet ? 0 : 200;
    if (!o.host) o.update_on = DEVICE;
    if (o.disk[0] && !o.host) fail("--disk", "wants host memory to stand behind (--host): all that goes to the file passes through it");
    if (o.disk[0]) o.sample = 0; /* the graph that samples would share memory with a plan on disk */
    if (o.update_on == HOST && (!o.budget || o.compare)) fail("--update host", "wants a --budget in bytes and no --compare: without --host it has no plan to compare with");
    if (o.channels % o.heads || o.channels / o.heads > MAX_HEAD_SIZE) fail("--channels", "must be a multiple of --heads, at most 128 a head");
    return o;
}

/* =====================================================================================================================
   Data: the bytes of a file or of stories that this program makes, numbered in order of value. The last tenth is held out.
   ================================================================================================================== */

typedef struct text {
    int32_t *token;
    int64_t count, train; /* [0, train) to train on, [train, count) held out */
    int64_t vocab;
    unsigned char byte_of[256];
} text;

static unsigned char *read_file(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    unsigned char *bytes = NULL;
    size_t capacity = 0, n = 0, got;
    if (!f) fail(path, "cannot be opened");
    do {
        if (n == capacity) {
            capacity = capacity ? capacity * 2 : 1 << 16;
            bytes = (unsigned char *)realloc(bytes, capacity);
            if (!bytes) fail("text", "no memory to read it");
        }
        got = fread(bytes + n, 1, capacity - n, f);
        n += got;
    } while (got);
    if (ferror(f)) fail(path, "cannot be read");
    fclose(f);
    *size = n;
    return bytes;
}

static double draw_unit(uint64_t seed, uint64_t a, uint64_t b) { return (double)(draw(seed, a, b) >> 11) / 9007199254740992.0; }

/* path NULL: the stories. */
static text load_text(const char *path, int64_t context)
{
    text t;
    int32_t token_of[256];
    size_t size, i;
    unsigned char *bytes = path ? read_file(path, &size) : make_stories(&size);
    int seen[256] = {0}, b;
    if (!bytes) fail("text", "no memory to make it");
    memset(&t, 0, sizeof t);
    for (i = 0; i < size; i++) seen[bytes[i]] = 1;
    for (b = 0; b < 256; b++) {
        token_of[b] = (int32_t)t.vocab;
        if (seen[b]) t.byte_of[t.vocab++] = (unsigned char)b;
    }
    t.count = (int64_t)size;
    t.train = t.count - t.count / 10;
    if (t.count - t.train < context + 2) fail(path ? path : "the stories", "too short: a tenth of it must be longer than --context");
    t.token = (int32_t *)malloc(size * sizeof *t.token);
    if (!t.token) fail("text", "no memory to read it");
    for (i = 0; i < size; i++) t.token[i] = token_of[bytes[i]];
    free(bytes);
    return t;
}

/* =====================================================================================================================
   Training.
   ================================================================================================================== */

typedef struct trainer {
    options o;
    text data;
    gpt model;
    rm_plan *plan;
    rm_exec *exec;
    int32_t *tokens, *targets; /* one batch */
    int64_t rank;              /* of model.ranks */
} trainer;

static double seconds(void)
{
    struct timespec t;
#if defined(_WIN32)
    timespec_get(&t, TIME_UTC);
#else
    clock_gettime(CLOCK_MONOTONIC, &t);
#endif
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
static int is_terminal(void)
{
#if defined(_WIN32)
    return _isatty(_fileno(stdout));
#else
    return isatty(fileno(stdout));
#endif
}

static int write_to_file(void *file, const char *bytes, size_t n) { return fwrite(bytes, 1, n, (FILE *)file) != n; }
static double megabytes(uint64_t bytes) { return (double)bytes / 1048576; }

static void need(trainer *t, rm_result r, const char *what)
{
    if (r != RM_OK) fail(what, rm_exec_error(t->exec));
}

/* The step kinds that this training uses; the program of FORWARD evaluates and samples. */
static uint32_t step_kinds(const options *o)
{
    if (o->accumulate == 1) return RM_SINGLE | RM_FORWARD;
    return RM_FIRST | (o->accumulate > 2 ? RM_MIDDLE : 0) | RM_LAST | RM_FORWARD;
}
static uint32_t step_kind(const options *o, int64_t micro)
{
    return o->accumulate == 1 ? RM_SINGLE : micro == 0 ? RM_FIRST : micro == o->accumulate - 1 ? RM_LAST : RM_MIDDLE;
}

/* A plan for `bytes` (0: no limit). */
static rm_plan_desc plan_desc(const options *o, uint64_t bytes, const char *preset)
{
    const int with_disk = o->disk[0] && !preset;
    const rm_plan_desc d = { .device_bytes = bytes, .host_bytes = preset ? 0 : o->host, .disk_bytes = with_disk ? o->disk_size : 0, .steps = step_kinds(o),
                             .align = with_disk ? 4096u : 0u, .preset = !preset && o->host ? "offmate" : preset };
    return d;
}

/* A budget that cannot be met ends the program with the message that names one that can. */
static rm_plan *make_plan(trainer *t, uint64_t bytes, const char *preset, rm_plan_info *info)
{
    const rm_plan_desc d = plan_desc(&t->o, bytes, preset);
    rm_plan *p;
    const rm_result r = rm_plan_create(t->model.graph, &d, &p);
    if (r != RM_OK) {
        fprintf(stderr, "train_gpt: %s\n", rm_graph_error(t->model.graph));
        exit(r == RM_ERROR_INFEASIBLE ? 3 : 1);
    }
    rm_plan_get_info(p, 0, info);
    return p;
}

/* Bytes, as the options say. Without a word, a third of what keeping everything takes, or the least that works. */
static uint64_t choose_budget(trainer *t)
{
    rm_plan_info info;
    rm_plan_desc d = plan_desc(&t->o, 0, NULL);
    rm_plan *p;
    double percent = t->o.budget_percent;
    if (t->o.budget) return t->o.budget;
    rm_plan_destroy(make_plan(t, 0, "noremat", &info));
    d.info = &info;
    d.device_bytes = (uint64_t)((double)info.keep_all_bytes * (percent > 0 ? percent : 100.0 / 3) / 100);
    if (percent > 0) return d.device_bytes;
    if (rm_plan_create(t->model.graph, &d, &p) == RM_ERROR_INFEASIBLE) return info.min_bytes;
    rm_plan_destroy(p);
    return d.device_bytes;
}

static void open_exec(trainer *t, rm_plan *p, const rm_exec_desc *d)
{
    t->plan = p;
    if (rm_exec_create(p, d, &t->exec) != RM_OK) fail("executor", rm_graph_error(t->model.graph));
}

static void init_weights(trainer *t)
{
    size_t i;
    for (i = 0; i < t->model.weight_count; i++) {
        const weight *w = &t->model.weights[i];
        float *values = (float *)malloc(floats(w->count));
        int64_t k;
        if (!values) fail("weights", "no memory");
        for (k = 0; k < w->count; k++) values[k] = (float)(w->mean + w->deviation * 3.4641016 * (draw_unit(t->o.seed, i, (uint64_t)k) - 0.5));
        need(t, rm_exec_write(t->exec, w->tensor, RM_VALUE, 0, values, floats(w->count)), "weights");
        free(values);
    }
}

static void save(trainer *t, int64_t step)
{
    FILE *f = fopen(t->o.save, "wb");
    if (!f) fail(t->o.save, "cannot be written");
    fprintf(f, "train_gpt step %ld\n", (long)step);
    need(t, rm_exec_save(t->exec, write_to_file, f), t->o.save);
    if (fclose(f)) fail(t->o.save, "cannot be written");
}

/* The number of the step to go on with. Whatever the budget of the training that saved. */
static int64_t load(trainer *t)
{
    size_t size, head = 0;
    long step = 0;
    unsigned char *bytes = read_file(t->o.load, &size);
    while (head < size && bytes[head] != '\n') head++;
    if (head == size || head > 40 || sscanf((const char *)bytes, "train_gpt step %ld", &step) != 1) fail(t->o.load, "was not written by --save");
    head++;
    need(t, rm_exec_restore(t->exec, bytes + head, size - head), t->o.load);
    free(bytes);
    return step;
}

/* Row `row` of the batch: context tokens from `at` on, and what follows each. */
static void put_row(trainer *t, int64_t row, int64_t at)
{
    const int64_t n = t->o.context;
    memcpy(t->tokens + row * n, t->data.token + at, ints(n));
    memcpy(t->targets + row * n, t->data.token + at + 1, ints(n));
}

/* The inputs live until the step that reads them has ended: their memory is part of the plan. */
static void write_inputs(trainer *t)
{
    const uint64_t bytes = ints(t->o.batch * t->o.context);
    need(t, rm_exec_write(t->exec, t->model.tokens, RM_VALUE, 0, t->tokens, bytes), "tokens");
    need(t, rm_exec_write(t->exec, t->model.targets, RM_VALUE, 0, t->targets, bytes), "targets");
}

static double run_step(trainer *t, const rm_step *s)
{
    float loss = 0;
    write_inputs(t);
    need(t, rm_exec_step(t->exec, s), "step");
    need(t, rm_exec_read(t->exec, t->model.loss, RM_VALUE, 0, &loss, sizeof loss), "loss");
    return (double)loss;
}

/* Warm-up over a twentieth of the training, then half a cosine down to a tenth. */
static double learning_rate(const options *o, int64_t step)
{
    const double warm = 1 + (double)(o->steps / 20), x = (double)step;
    if (x < warm) return o->lr * (x + 1) / warm;
    return o->lr * (0.55 + 0.45 * cos(3.14159265358979 * (x - warm) / ((double)o->steps - warm + 1)));
}

static rm_step training_batch(trainer *t, int64_t step, int64_t micro)
{
    const rm_step s = { .kind = step_kind(&t->o, micro), .micro = (uint32_t)(micro * t->model.ranks + t->rank), .step = (uint64_t)step, .seed = t->o.seed, .lr = learning_rate(&t->o, step) };
    const uint64_t room = (uint64_t)(t->data.train - t->o.context - 1), batch = (uint64_t)(step * t->o.accumulate + micro);
    int64_t row;
    for (row = 0; row < t->o.batch; row++) put_row(t, row, (int64_t)(draw(t->o.seed ^ 0xDA7A, batch, (uint64_t)(row + t->rank * t->o.batch)) % room));
    return s;
}

static double train_step(trainer *t, int64_t step)
{
    double loss = 0;
    int64_t micro;
    for (micro = 0; micro < t->o.accumulate; micro++) {
        const rm_step s = training_batch(t, step, micro);
        loss += run_step(t, &s);
    }
    return loss;
}

/* The mean loss of rows evenly spaced over the held-out text: the same ones every time. */
static double evaluate(trainer *t)
{
    const int64_t batches = 4 * t->model.ranks, rows = batches * t->o.batch; /* of the whole batch, whoever looks */
    const rm_step s = { .kind = RM_FORWARD };
    const int64_t room = t->data.count - t->data.train - t->o.context - 1;
    double loss = 0;
    int64_t row;
    for (row = 0; row < rows; row++) {
        put_row(t, row % t->o.batch, t->data.train + room * row / rows);
        if ((row + 1) % t->o.batch == 0) loss += run_step(t, &s) * (double)(t->o.accumulate * t->model.ranks) / (double)batches;
    }
    return loss;
}

static void print_progress(const trainer *t, int64_t step, int64_t first, double loss, double elapsed)
{
    const double done = (double)(step + 1 - first), left = elapsed / done * (double)(t->o.stop - step - 1);
    const double tokens = done * (double)(t->o.batch * t->o.context * t->o.accumulate);
    const int terminal = is_terminal();
    if (t->o.quiet) return;
    printf("%sstep %5ld/%ld   loss %.6f   %7.0f tokens/s   %2ld:%02ld left%s", terminal ? "\r" : "", (long)step + 1, (long)t->o.steps, loss, tokens / elapsed,
           (long)(left / 60), (long)left % 60, terminal && step + 1 < t->o.stop ? "  " : "\n");
    fflush(stdout);
}

/* The model of the options, as one of `ranks` processes has it. */
static void make_model(trainer *t, int64_t rank, int64_t ranks)
{
    t->rank = rank;
    t->tokens = (int32_t *)malloc(ints(t->o.batch * t->o.context));
    t->targets = (int32_t *)malloc(ints(t->o.batch * t->o.context));
    t->model.weights = (weight *)malloc((size_t)(12 * t->o.layers + 4) * sizeof(weight));
    if (!t->tokens || !t->targets || !t->model.weights) fail("start", "no memory");
    t->model.layers = t->o.layers;
    t->model.channels = t->o.channels;
    t->model.heads = t->o.heads;
    t->model.context = t->o.context;
    t->model.batch = t->o.batch;
    t->model.vocab = t->data.vocab;
    t->model.micro_batches = t->o.accumulate;
    t->model.ranks = ranks;
    t->model.dropout = t->o.dropout;
    t->model.update_on = t->o.update_on;
    t->model.graph = rm_graph_create(NULL);
    if (t->o.host) rm_graph_link(t->model.graph, t->o.link, t->o.link, 0, 0);
    describe_gpt(&t->model);
}

static void end_training(trainer *t)
{
    rm_exec_destroy(t->exec);
    rm_plan_destroy(t->plan);
    rm_graph_destroy(t->model.graph);
    free(t->model.weights);
    free(t->tokens);
    free(t->targets);
}

/* Gradients that a plan adds up in host memory. */
static void add_floats(void *to, const void *from, uint64_t bytes, rm_tensor param, void *user)
{
    const float *x = (const float *)from;
    float *y = (float *)to;
    uint64_t i;
    (void)param;
    (void)user;
    for (i = 0; i < bytes / sizeof(float); i++) y[i] += x[i];
}

/* With host memory: copies as slow as the link, and they and the host's updates beside the computation. */
static rm_exec_desc with_host(const options *o)
{
    const rm_exec_desc d = { .add = add_floats, .threads = o->host > 0, .h2d = o->link, .d2h = o->link };
    return d;
}

/* The same model for one row: a graph of its own, a plan like that of the training, an executor in its memory, on its
   weights. */
static void open_writer(trainer *writer, const trainer *training)
{
    rm_exec_info used;
    rm_exec_desc d = with_host(&training->o);
    rm_plan_desc like = { .steps = RM_FORWARD, .preset = training->o.host ? "offmate" : "rockmate", .like = training->plan };
    rm_plan *p;
    rm_exec_get_info(training->exec, &used);
    like.device_bytes = used.arena_bytes;
    like.host_bytes = used.host_bytes;
    d.share = training->exec;
    *writer = *training;
    memset(&writer->model, 0, sizeof writer->model);
    writer->o.batch = 1;
    make_model(writer, 0, 1);
    if (rm_plan_create(writer->model.graph, &like, &p) != RM_OK) fail("sample", rm_graph_error(writer->model.graph));
    open_exec(writer, p, &d);
}

/* Goes on with the held-out text, byte after byte, at temperature 0.8. */
static void write_sample(const trainer *training)
{
    const int64_t context = training->o.context, vocab = training->model.vocab, prompt = smaller(32, context / 2);
    float *logits = (float *)malloc(floats(vocab));
    int64_t n = prompt, i, k;
    trainer writer, *t = &writer;
    if (!logits) fail("sample", "no memory");
    open_writer(t, training);
    memset(t->tokens, 0, ints(context));
    memset(t->targets, 0, ints(context));
    memcpy(t->tokens, t->data.token + t->data.train, ints(prompt));
    for (i = 0; i < prompt; i++) putchar(t->data.byte_of[t->tokens[i]]);
    for (i = 0; i < t->o.sample; i++) {
        const rm_step s = { .kind = RM_FORWARD, .value = { (double)(n - 1) } };
        double sum = 0, u;
        run_step(t, &s);
        need(t, rm_exec_read(t->exec, t->model.picked, RM_VALUE, 0, logits, floats(vocab)), "logits");
        for (k = 0; k < vocab; k++) sum += exp((double)logits[k] / 0.8);
        u = draw_unit(t->o.seed ^ 0x5A3B1E, (uint64_t)i, 0) * sum;
        for (k = 0; k < vocab - 1 && u > 0; k++) u -= exp((double)logits[k] / 0.8);
        if (k > 0 && u <= 0) k--;
        if (n == context) memmove(t->tokens, t->tokens + 1, ints(--n));
        t->tokens[n++] = (int32_t)k;
        putchar(t->data.byte_of[k]);
        fflush(stdout);
    }
    printf("\n\n");
    free(logits);
    end_training(t);
}

#ifndef TRAIN_GPT_PARTS /* examples/train_gpt_mpi.c takes all but the main program */
/* --disk: the file (examples/disk.h) has the values and states of all weights, by name, whichever of them the plan has on disk. */
#if !defined(_WIN32)
typedef struct disk_file {
    disk *file;
    disk_part *parts; /* of each weight its values, then its states */
    size_t n;
    uint64_t in, out, latency; /* bytes a second; ns a transfer */
} disk_file;

static void need_disk(const disk_file *f, int code)
{
    if (code) fail("disk", disk_error(f->file));
}

/* Opens it and measures it, before the graph is planned. */
static void open_disk(disk_file *f, trainer *t)
{
    const uint64_t none = (uint64_t)1 << 40;
    char why[600];
    size_t i;
    f->n = 2 * t->model.weight_count;
    f->parts = (disk_part *)malloc(f->n * sizeof *f->parts);
    if (!f->parts) fail("disk", "no memory");
    for (i = 0; i < f->n; i++) {
        const weight *w = &t->model.weights[i / 2];
        const char *name = rm_tensor_name(t->model.graph, w->tensor);
        char *own = (char *)malloc(strlen(name) + 7);
        if (!own) fail("disk", "no memory");
        sprintf(own, "%s%s", i % 2 ? "state:" : "", name);
        f->parts[i].name = own;
        f->parts[i].bytes = floats(w->count) * (i % 2 ? 2 : 1);
    }
    f->file = disk_open(t->o.disk, f->parts, f->n, t->o.disk_size, why, sizeof why);
    if (!f->file) fail("disk", why);
    need_disk(f, disk_rates(f->file, t->o.disk_size && t->o.disk_size - f->file->scratch < 32u << 20 ? t->o.disk_size - f->file->scratch : 32u << 20, &f->in, &f->out, &f->latency));
    rm_graph_disk(t->model.graph, f->in, f->out, f->latency, 0);
    t->o.disk_size = t->o.disk_size ? t->o.disk_size - f->file->scratch : none; /* for the plan, from now on */
    if (!t->o.quiet) printf("disk: %s, %.0f MiB/s from it, %.0f MiB/s to it, %.0f us a transfer\n", t->o.disk, megabytes(f->in), megabytes(f->out), (double)f->latency * 1e-3);
}

static void disk_hooks(const disk_file *f, rm_exec_desc *d)
{
    d->disk_read = disk_read;
    d->disk_write = disk_write;
    d->disk_user = f->file;
}

/* Text that grows. */
typedef struct growing {
    char *bytes;
    size_t n;
} growing;
static int grow(void *user, const char *bytes, size_t n)
{
    growing *g = (growing *)user;
    char *more = (char *)realloc(g->bytes, g->n + n + 1);
    if (!more) return 1;
    memcpy(more + g->n, bytes, n);
    more[g->n += n] = 0;
    g->bytes = more;
    return 0;
}

/* The plan that is to run next says where in the file its weights and states are. */
static void plan_on_disk(disk_file *f, rm_plan *p)
{
    growing written = { NULL, 0 };
    rm_plan_info info;
    rm_plan_get_info(p, 0, &info);
    if (rm_plan_write(p, 0, grow, &written) != RM_OK) fail("disk", "no memory");
    need_disk(f, disk_plan(f->file, written.bytes, info.disk_bytes[0]));
    free(written.bytes);
}

/* Values and states that the plan has elsewhere, from the file (write 0) or to it. */
static void others_on_disk(disk_file *f, trainer *t, int write)
{
    size_t i;
    for (i = 0; i < f->n; i++) {
        const rm_tensor w = t->model.weights[i / 2].tensor;
        void *bytes;
        if (disk_has(f->file, i)) continue;
        bytes = malloc((size_t)f->parts[i].bytes);
        if (!bytes) fail("disk", "no memory");
        if (write) {
            need(t, rm_exec_read(t->exec, w, i % 2 ? RM_STATE : RM_VALUE, 0, bytes, f->parts[i].bytes), "disk");
            need_disk(f, disk_put(f->file, i, bytes));
        } else {
            need_disk(f, disk_get(f->file, i, bytes));
            need(t, rm_exec_write(t->exec, w, i % 2 ? RM_STATE : RM_VALUE, 0, bytes, f->parts[i].bytes), "disk");
        }
        free(bytes);
    }
}

/* So many steps are done. */
static void keep_on_disk(disk_file *f, trainer *t, int64_t steps)
{
    need(t, rm_exec_wait(t->exec), "step");
    others_on_disk(f, t, 1);
    need_disk(f, disk_commit(f->file, (uint64_t)steps));
}

static void close_disk(disk_file *f)
{
    size_t i;
    for (i = 0; i < f->n; i++) free((void *)(uintptr_t)f->parts[i].name);
    free(f->parts);
    disk_close(f->file);
}

/* What tune does, before there is anything to keep: times from an executor that is let go, whose weights are in the file's scratch. */
static void tune_on_disk(disk_file *f, trainer *t, uint64_t budget, rm_plan_info *info)
{
    rm_exec_desc d = with_host(&t->o);
    const rm_step s = training_batch(t, 0, 0);
    d.forget = 1;
    disk_hooks(f, &d);
    need_disk(f, disk_plan(f->file, NULL, info->disk_bytes[0]));
    open_exec(t, t->plan, &d);
    init_weights(t);
    write_inputs(t);
    need(t, rm_exec_profile(t->exec, &s, 3), "tuning");
    rm_exec_destroy(t->exec);
    rm_plan_destroy(t->plan);
    t->plan = make_plan(t, budget, NULL, info);
}

/* An executor of a plan that may have weights on disk; the number of the step to go on with. */
static int64_t begin_on_disk(disk_file *f, trainer *t, uint64_t budget, rm_plan_info *info)
{
    rm_exec_desc d = with_host(&t->o);
    t->plan = make_plan(t, budget, NULL, info);
    if (!t->o.estimate) tune_on_disk(f, t, budget, info);
    plan_on_disk(f, t->plan);
    disk_hooks(f, &d);
    open_exec(t, t->plan, &d);
    if (f->file->step == DISK_NO_STEP) {
        init_weights(t);
        return 0;
    }
    if (t->o.compare) fail("--compare", "begins at step 1; take a new file");
    others_on_disk(f, t, 0);
    if (!t->o.quiet) printf("goes on behind step %ld, as of which %s is\n", (long)f->file->step, t->o.disk);
    return (int64_t)f->file->step;
}
#endif

/* --compare: a second executor, which keeps everything, takes the first steps in turn with the planned one, batch for batch. */
enum { COMPARED = 7 };
typedef struct comparison {
    trainer all;                                      /* the same model and data, a plan and an executor of its own */
    double time[COMPARED], all_time[COMPARED];        /* seconds a step */
    double peak;                                      /* MiB resident, at most, before that executor was there; 0: unknown */
    int64_t steps, different;
} comparison;

/* The most that this process has had in memory, its program and all tables included, in MiB; 0 where nobody tells. */
static double peak_resident(void)
{
#if defined(_WIN32)
    return 0;
#else
    struct rusage r;
    if (getrusage(RUSAGE_SELF, &r)) return 0;
#if defined(__APPLE__)
    return (double)r.ru_maxrss / 1048576;
#else
    return (double)r.ru_maxrss / 1024;
#endif
#endif
}

static void begin_comparison(comparison *c, const trainer *t)
{
    rm_plan_info info;
    memset(c, 0, sizeof *c);
    c->peak = peak_resident();
    c->all = *t;
    open_exec(&c->all, make_plan(&c->all, 0, "noremat", &info), NULL);
    init_weights(&c->all);
    if (t->o.load) load(&c->all);
}

/* The step that the planned executor has just made, in `time` and with this loss, once more. */
static void compare_step(comparison *c, int64_t step, double loss, double time)
{
    const double start = seconds(), same = train_step(&c->all, step);
    c->all_time[c->steps] = seconds() - start;
    c->time[c->steps++] = time;
    c->different += memcmp(&same, &loss, sizeof loss) != 0;
    if (c->steps < COMPARED) return;
    rm_exec_destroy(c->all.exec);
    rm_plan_destroy(c->all.plan);
    c->all.exec = NULL;
    c->all.plan = NULL;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void print_comparison(comparison *c, const rm_plan_info *info)
{
    const int64_t n = c->steps;
    rm_exec_destroy(c->all.exec);
    rm_plan_destroy(c->all.plan);
    if (!n) return;
    qsort(c->time, (size_t)n, sizeof(double), by_size);
    qsort(c->all_time, (size_t)n, sizeof(double), by_size);
    printf("first %ld losses %s those of keeping everything, step by step in turn\n", (long)n, c->different ? "DIFFER FROM" : "equal bit for bit");
    printf("time of a step: %.2f x by the plan, %.2f x measured (medians: %.1f ms, keeping everything %.1f ms)\n", (double)info->time_ns / (double)info->keep_all_ns,
           c->time[n / 2] / c->all_time[n / 2], 1e3 * c->time[n / 2], 1e3 * c->all_time[n / 2]);
    if (c->peak > 0) printf("resident: at most %.1f MiB, program and tables included, before anything was kept for the comparison\n", c->peak);
    if (c->different) exit(1);
}

/* Measures every op under the present plan, plans again with the measured times, and goes on with the new plan. */
static void tune(trainer *t, uint64_t budget, rm_plan_info *info)
{
    const rm_plan_desc d = plan_desc(&t->o, budget, NULL);
    const rm_step s = training_batch(t, 0, 0);
    write_inputs(t);
    need(t, rm_exec_tune(t->exec, &d, &s, 3, &t->plan), "tuning");
    rm_plan_get_info(t->plan, 0, info);
}

static void check(trainer *t)
{
    const rm_step s = training_batch(t, 0, 0);
    const rm_check_desc d = { .finite_differences = 2, .loss = t->model.loss, .epsilon = 3e-3 };
    write_inputs(t);
    need(t, rm_exec_check(t->exec, &s, &d), "check");
    printf("check: every kind keeps its word\n");
}

int main(int argc, char **argv)
{
    trainer t;
    rm_plan_info info;
    rm_exec_info used;
    rm_exec_desc desc;
    comparison with_all;
#if !defined(_WIN32)
    disk_file file;
#endif
    uint64_t budget;
    int64_t step, first = 0;
    double start, took = 0;

    memset(&t, 0, sizeof t);
    memset(&with_all, 0, sizeof with_all);
    t.o = parse_options(argc, argv);
    t.data = load_text(t.o.file, t.o.context);

    /* 1. The model, as a graph. */
    make_model(&t, 0, 1);
#if !defined(_WIN32)
    memset(&file, 0, sizeof file);
    if (t.o.disk[0]) open_disk(&file, &t);
#else
    if (t.o.disk[0]) fail("--disk", "examples/disk.h does not know this system");
#endif

    /* 2. A plan of it for the budget. */
    budget = choose_budget(&t);

    /* 3. An executor of the plan. It allocates here, and never again. */
    desc = with_host(&t.o);
#if !defined(_WIN32)
    if (t.o.disk[0]) first = begin_on_disk(&file, &t, budget, &info);
#endif
    if (!t.exec) {
        open_exec(&t, make_plan(&t, budget, NULL, &info), &desc);
        init_weights(&t);
    }
    if (t.o.load) first = load(&t);
    if (t.o.check) check(&t);
    if (!t.o.estimate && !t.o.disk[0]) tune(&t, budget, &info);
    if (!t.o.quiet) rm_plan_summary(t.plan, write_to_file, stdout);
    if (t.o.compare) begin_comparison(&with_all, &t);

    /* 4. Steps. */
    start = seconds();
    for (step = first; step < t.o.stop; step++) {
        const double now = seconds(), loss = train_step(&t, step);
        if (step > first) took += seconds() - now; /* the first fills what the next ones find */
        if (t.o.compare && with_all.steps < COMPARED) {
            compare_step(&with_all, step, loss, seconds() - now);
            start += with_all.all_time[with_all.steps - 1];
        }
        print_progress(&t, step, first, loss, seconds() - start);
#if !defined(_WIN32)
        if (t.o.disk[0] && ((step + 1) % t.o.keep == 0 || step + 1 == t.o.stop)) keep_on_disk(&file, &t, step + 1);
#endif
    }
    printf("held-out loss %.6f\n", evaluate(&t));
    if (t.o.save) save(&t, step);
    if (t.o.sample) write_sample(&t);

    /* 5. What was promised, and what was used. */
    rm_exec_get_info(t.exec, &used);
    printf("memory: budget %.2f MiB, planned %.2f MiB, used %.2f MiB, keeping everything %.2f MiB\n", megabytes(budget), megabytes(info.arena_bytes),
           megabytes(used.touched_bytes), megabytes(info.keep_all_bytes));
    if (t.o.host) printf("host memory: %.2f MiB; copied in a step: %.2f MiB there, %.2f MiB back\n", megabytes(info.host_bytes), megabytes(info.d2h_bytes), megabytes(info.h2d_bytes));
#if !defined(_WIN32)
    if (t.o.disk[0]) printf("disk: %.2f MiB of the plan; in a step %.2f MiB from it, %.2f MiB to it; resident: at most %.1f MiB\n", megabytes(info.disk_bytes[0]), megabytes(info.disk_bytes[1]), megabytes(info.disk_bytes[2]), peak_resident());
#endif
    printf("time: %.2f x keeping everything, by the plan%s\n", (double)info.time_ns / (double)info.keep_all_ns, t.o.estimate ? " (costs estimated)" : "");
    if (took > 0 && t.o.accumulate == 1)
        printf("a step: %.2f ms by the plan, %.2f ms measured (mean of %.0f)\n", (double)info.time_ns * 1e-6, took * 1e3 / (double)(step - first - 1), (double)(step - first - 1));
    if (t.o.compare) print_comparison(&with_all, &info);

    end_training(&t);
#if !defined(_WIN32)
    if (t.o.disk[0]) close_disk(&file);
#endif
    free(t.data.token);
    return 0;
}
#endif
