/* train_gpt.cu - trains a GPT-2 or a Llama on the bytes of a text, in a memory budget, on an NVIDIA GPU

   Build:  nvcc -O3 -arch=native -Xcompiler -fopenmp,-ffp-contract=off -o train_gpt_cuda examples/cuda/train_gpt.cu -lcublasLt
           with cuDNN's attention: attention_cudnn.cuh says how
   Run:    ./train_gpt_cuda --model gpt2-124m --budget 4G              (--help lists the options)

   Weights, gradients and activations are bf16, sums are float. cuBLASLt multiplies matrices, with biases and gelu made along
   (products.cuh); everything else is a kernel of kernels.cuh, attention in tiles among them. In two parts: kinds and model, which is what
   you write for a network of your own; training. The losses and weights do not depend on the budget: --digest shows that. */

#define ROCKMATE_THREADS /* pins host memory by several */
#define ROCKMATE_IMPLEMENTATION
#define ROCKMATE_CUDA_IMPLEMENTATION
#include "../../rockmate_cuda.h"
#include "../stories.h"
#include "kernels.cuh"
#include "products.cuh"
#include "roofline.h"
#ifdef TRAIN_GPT_CUDNN
#include "attention_cudnn.cuh"
#endif

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "train_gpt: %s%s%s\n", what, why && *why ? ": " : "", why ? why : "");
    exit(1);
}

/* The card is too small: no fault, says the exit status, as of a budget that is. */
static void no_room(const char *what, const char *why)
{
    fprintf(stderr, "train_gpt: %s: %s\n", what, why);
    exit(3);
}

__host__ __device__ static inline adam adam_of(const rm_step *s, float decay)
{
    adam a;
    a.lr = (float)s->lr;
    a.decay = decay;
    a.fix1 = (float)s->value[0];
    a.fix2 = (float)s->value[1];
    a.grad_scale = 1;
    return a;
}
/* For a share from value `first` on; the same on all ranks, which have micro-batches of their own. */
__host__ __device__ static inline uint64_t update_seed(const rm_step *s, uint64_t key, int64_t first)
{
    rm_step common = *s;
    common.micro = 0;
    return seed_from(rm_seed(&common, key), first);
}
/* The values of the step come from the device's copy: right in a CUDA graph that is started again, too. */
__global__ static void adamw_kernel(uint16_t *param, const uint16_t *grad, void *state, int64_t n, int slim, int64_t first, float decay, const rm_step *s, uint64_t key)
{
    const int64_t i = element();
    if (i < n) adam_eight(adam_of(s, decay), param, grad, state, n, i, slim, slim ? update_seed(s, key, first) : 0);
}

/* =====================================================================================================================
   Kinds: what the library calls, and what each backward reads. Then the model.
   ================================================================================================================== */

typedef struct shape {
    const char *name;
    int width, layers, heads, kv_heads, head, ffn, vocab, gpt2;
} shape;
static const shape SHAPES[] = {
    { "gpt2-124m", 768, 12, 12, 12, 64, 3072, 50257, 1 },   { "gpt2-355m", 1024, 24, 16, 16, 64, 4096, 50257, 1 },
    { "gpt2-774m", 1280, 36, 20, 20, 64, 5120, 50257, 1 },  { "gpt2-1.5b", 1600, 48, 25, 25, 64, 6400, 50257, 1 },
    { "llama-1b", 2048, 16, 32, 8, 64, 8192, 128256, 0 },   { "llama-8b", 4096, 32, 32, 8, 128, 14336, 128256, 0 },
    { "gpt2-tiny", 128, 4, 4, 4, 32, 512, 512, 1 },         { "llama-tiny", 128, 4, 4, 2, 32, 384, 512, 0 },
};

typedef struct weight {
    rm_tensor tensor;
    int64_t count;
    float mean, deviation;
} weight;

typedef struct gpt {
    shape s;
    int64_t rows; /* batch * context */
    int context, padded, slim;
    int apart;    /* gelu is an op of its own */
    int64_t rank, ranks; /* this process, and how many share the batch: the loss is a part of the whole */
    int64_t accumulate;
    int reduced;      /* gradients go through rm_exec_desc.reduce */
    int shard;        /* weights, gradients and states are in shares on the ranks */
    products products;
    struct cudnn_attention *cudnn; /* compiled in, and it knows the shape; else NULL */
    rm_graph *graph;
    rm_tensor tokens, targets, loss;
    weight *weights;
    size_t n_weights;
} gpt;

static const gpt *model_of(const rm_call *c) { return (const gpt *)c->user; }
static cudaStream_t stream_of(const rm_call *c) { return (cudaStream_t)c->stream; }
static const bf16 *in_h(const rm_call *c, int i) { return (const bf16 *)c->in[i]; }
static bf16 *out_h(const rm_call *c) { return (bf16 *)c->out[0]; }
static bf16 *din_h(const rm_call *c, int i) { return (bf16 *)c->din[i]; }
static const bf16 *dout_h(const rm_call *c) { return (const bf16 *)c->dout[0]; }
static int64_t count_h(const rm_call *c) { return (int64_t)(c->out_bytes[0] / 2); }
static int launched(void) { return 0; } /* the backend looks for errors after each call, and has the words for them */

/* A product of this model, its workspace at ws. */
static int product_of(const rm_call *c, product what, bf16 *y, const bf16 *left, const bf16 *right, const void *bias, const void *beside, void *ws)
{
    return multiply(&((gpt *)c->user)->products, what, y, left, right, bias, beside, ws, stream_of(c));
}
static int usable(const rm_call *c, product what) { return product_usable(&((gpt *)c->user)->products, what); }
static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }
static uint64_t whole(uint64_t bytes) { return (bytes + 255) / 256 * 256; }

/* embed. in: tokens, wte, (wpe). */
static int embed_fwd(const rm_call *c)
{
    const gpt *m = model_of(c);
    embed(out_h(c), (const int32_t *)c->in[0], in_h(c, 1), c->n_in > 2 ? in_h(c, 2) : NULL, m->rows, m->s.width, m->context, stream_of(c));
    return launched();
}
static int embed_bwd(const rm_call *c)
{
    const gpt *m = model_of(c);
    if (c->din[1]) embed_grad(din_h(c, 1), dout_h(c), (const int32_t *)c->in[0], m->rows, m->padded, m->s.width, RM_ADDS(c, 1), stream_of(c));
    if (c->n_in > 2 && c->din[2]) positions_grad(din_h(c, 2), dout_h(c), m->rows, m->s.width, m->context, RM_ADDS(c, 2), stream_of(c));
    return launched();
}

/* norm. in: x, w, (b). */
static int norm_fwd(const rm_call *c)
{
    const gpt *m = model_of(c);
    norm(out_h(c), (float *)c->saved, in_h(c, 0), in_h(c, 1), c->n_in > 2 ? in_h(c, 2) : NULL, m->rows, m->s.width, stream_of(c));
    return launched();
}
static int norm_bwd(const rm_call *c)
{
    const gpt *m = model_of(c);
    const int layernorm = c->n_in > 2;
    const float *statistics = (const float *)c->saved;
    column_sums(din_h(c, 1), RM_ADDS(c, 1), layernorm ? din_h(c, 2) : NULL, layernorm ? RM_ADDS(c, 2) : 0, (float *)c->ws, dout_h(c), in_h(c, 0), statistics, m->rows, m->s.width, layernorm, stream_of(c));
    if (c->din[0]) norm_grad(din_h(c, 0), dout_h(c), in_h(c, 0), in_h(c, 1), statistics, m->rows, m->s.width, layernorm, RM_ADDS(c, 0), stream_of(c));
    return launched();
}

/* linear. in: x, w, (b); arg: in, out. ws: of one product, or sums of columns, whichever is larger. Where cuBLASLt cannot make a bias or its
   gradient along with a product, or the gradient is added, a kernel does. */
static product product_like(const gpt *m, way which, along with, int64_t in, int64_t out, int adds)
{
    product p = { which, with, m->rows, in, out, adds };
    return p;
}
static int forward_product(const rm_call *c, bf16 *y, const bf16 *x, const bf16 *w, const bf16 *b, int64_t in, int64_t out, void *ws)
{
    const gpt *m = model_of(c);
    const product with = product_like(m, FORWARD, BIAS, in, out, 0);
    if (b && usable(c, with)) return product_of(c, with, y, x, w, b, NULL, ws);
    if (product_of(c, product_like(m, FORWARD, NOTHING, in, out, 0), y, x, w, NULL, NULL, ws)) return 1;
    if (b) add_bias(y, b, m->rows, (int)out, stream_of(c));
    return 0;
}
/* Gradients of the weight and the bias, of which each may be NULL. */
static int weight_product(const rm_call *c, bf16 *dw, int dw_adds, bf16 *db, int db_adds, const bf16 *dy, const bf16 *x, int64_t in, int64_t out, void *ws)
{
    const gpt *m = model_of(c);
    const product sums = product_like(m, TO_W, DY_SUMS, in, out, dw_adds);
    if (dw && db && !db_adds && usable(c, sums)) return product_of(c, sums, dw, dy, x, db, NULL, ws);
    if (dw && product_of(c, product_like(m, TO_W, NOTHING, in, out, dw_adds), dw, dy, x, NULL, NULL, ws)) return 1;
    column_sums(NULL, 0, db, db_adds, (float *)ws, dy, NULL, NULL, m->rows, (int)out, 0, stream_of(c));
    return 0;
}
static int linear_fwd(const rm_call *c)
{
    return forward_product(c, out_h(c), in_h(c, 0), in_h(c, 1), c->n_in > 2 ? in_h(c, 2) : NULL, c->arg[0], c->arg[1], c->ws) || launched();
}
static int linear_bwd(const rm_call *c)
{
    const gpt *m = model_of(c);
    const int64_t in = c->arg[0], out = c->arg[1];
    const int bias = c->n_in > 2;
    if (c->din[0] && product_of(c, product_like(m, TO_X, NOTHING, in, out, RM_ADDS(c, 0)), din_h(c, 0), dout_h(c), in_h(c, 1), NULL, NULL, c->ws)) return 1;
    return weight_product(c, din_h(c, 1), RM_ADDS(c, 1), bias ? din_h(c, 2) : NULL, bias ? RM_ADDS(c, 2) : 0, dout_h(c), in_h(c, 0), in, out, c->ws) || launched();
}
/* What they take. cuBLASLt must know the plain products. */
static uint64_t forward_bytes(gpt *m, int64_t in, int64_t out, int bias)
{
    if (!product_usable(&m->products, product_like(m, FORWARD, NOTHING, in, out, 0))) fail("cuBLASLt", "no algorithm for a product");
    return larger(product_bytes(&m->products, product_like(m, FORWARD, NOTHING, in, out, 0)), bias ? product_bytes(&m->products, product_like(m, FORWARD, BIAS, in, out, 0)) : 0);
}
static uint64_t weight_bytes(gpt *m, int64_t in, int64_t out, int bias)
{
    uint64_t bytes = bias ? column_bytes(out, 0) : 0;
    int adds;
    for (adds = 0; adds < 2; adds++) {
        if (!product_usable(&m->products, product_like(m, TO_W, NOTHING, in, out, adds))) fail("cuBLASLt", "no algorithm for a product");
        bytes = larger(bytes, product_bytes(&m->products, product_like(m, TO_W, NOTHING, in, out, adds)));
        if (bias) bytes = larger(bytes, product_bytes(&m->products, product_like(m, TO_W, DY_SUMS, in, out, adds)));
    }
    return bytes;
}
static uint64_t input_bytes(gpt *m, int64_t in, int64_t out)
{
    uint64_t bytes = 0;
    int adds;
    for (adds = 0; adds < 2; adds++) {
        if (!product_usable(&m->products, product_like(m, TO_X, NOTHING, in, out, adds))) fail("cuBLASLt", "no algorithm for a product");
        bytes = larger(bytes, product_bytes(&m->products, product_like(m, TO_X, NOTHING, in, out, adds)));
    }
    return bytes;
}

/* mlp: fc, gelu, down as one op, so that gelu and its slope are made along with products. in: x, w, b of fc, w, b of down; out: y, and for the
   backward alone h (before gelu) and g (behind it). ws: of one product or sums of columns; backward: and the gradient of h behind it. The
   variant "again" reads neither h nor g: its backward makes both once more, behind that, by the same product. */
static int fc_product(const rm_call *c, bf16 *h, bf16 *g)
{
    const gpt *m = model_of(c);
    const product with = product_like(m, FORWARD, GELU, m->s.width, m->s.ffn, 0);
    if (usable(c, with)) return product_of(c, with, g, in_h(c, 0), in_h(c, 1), c->in[2], h, c->ws);
    if (forward_product(c, h, in_h(c, 0), in_h(c, 1), in_h(c, 2), m->s.width, m->s.ffn, c->ws)) return 1;
    gelu(g, h, m->rows * m->s.ffn, stream_of(c));
    return 0;
}
static int mlp_fwd(const rm_call *c)
{
    const gpt *m = model_of(c);
    bf16 *h = (bf16 *)c->out[1], *g = (bf16 *)c->out[2];
    return fc_product(c, h, g) || forward_product(c, out_h(c), g, in_h(c, 3), in_h(c, 4), m->s.ffn, m->s.width, c->ws) || launched();
}
/* The gradient of h, and where nothing is added to it that of fc's bias: *sums is set if it is made. */
static int slope_product(const rm_call *c, bf16 *dh, const bf16 *h, int *sums)
{
    const gpt *m = model_of(c);
    const product both = product_like(m, TO_X, SLOPE_SUMS, m->s.ffn, m->s.width, 0), slope = product_like(m, TO_X, SLOPE, m->s.ffn, m->s.width, 0);
    *sums = c->din[2] && !RM_ADDS(c, 2) && usable(c, both);
    if (*sums) return product_of(c, both, dh, dout_h(c), in_h(c, 3), c->din[2], h, c->ws);
    if (usable(c, slope)) return product_of(c, slope, dh, dout_h(c), in_h(c, 3), NULL, h, c->ws);
    if (product_of(c, product_like(m, TO_X, NOTHING, m->s.ffn, m->s.width, 0), dh, dout_h(c), in_h(c, 3), NULL, NULL, c->ws)) return 1;
    gelu_grad(dh, dh, h, m->rows * m->s.ffn, 0, stream_of(c));
    return 0;
}
static int mlp_grads(const rm_call *c, bf16 *dh, const bf16 *h, const bf16 *g)
{
    const gpt *m = model_of(c);
    const int64_t width = m->s.width, ffn = m->s.ffn;
    int sums;
    if (weight_product(c, din_h(c, 3), RM_ADDS(c, 3), din_h(c, 4), RM_ADDS(c, 4), dout_h(c), g, ffn, width, c->ws)) return 1;
    if (slope_product(c, dh, h, &sums)) return 1;
    if (weight_product(c, din_h(c, 1), RM_ADDS(c, 1), sums ? NULL : din_h(c, 2), RM_ADDS(c, 2), dh, in_h(c, 0), width, ffn, c->ws)) return 1;
    if (c->din[0] && product_of(c, product_like(m, TO_X, NOTHING, width, ffn, RM_ADDS(c, 0)), din_h(c, 0), dh, in_h(c, 1), NULL, NULL, c->ws)) return 1;
    return launched();
}
static bf16 *behind(const rm_call *c) { return (bf16 *)((char *)c->ws + c->arg[0]); } /* of a product's workspace */
static int mlp_bwd(const rm_call *c) { return mlp_grads(c, behind(c), (const bf16 *)c->out[1], (const bf16 *)c->out[2]); }
static int mlp_bwd_again(const rm_call *c)
{
    const int64_t n = (int64_t)(whole((uint64_t)(model_of(c)->rows * model_of(c)->s.ffn) * 2) / 2);
    bf16 *dh = behind(c), *h = dh + n, *g = h + n;
    return fc_product(c, h, g) || mlp_grads(c, dh, h, g);
}
static uint64_t mlp_bytes(gpt *m)
{
    const int64_t width = m->s.width, ffn = m->s.ffn;
    uint64_t bytes = larger(larger(forward_bytes(m, width, ffn, 1), forward_bytes(m, ffn, width, 1)), product_bytes(&m->products, product_like(m, FORWARD, GELU, width, ffn, 0)));
    bytes = larger(bytes, larger(weight_bytes(m, width, ffn, 1), weight_bytes(m, ffn, width, 1)));
    bytes = larger(bytes, larger(input_bytes(m, width, ffn), input_bytes(m, ffn, width)));
    bytes = larger(bytes, larger(product_bytes(&m->products, product_like(m, TO_X, SLOPE, ffn, width, 0)), product_bytes(&m->products, product_like(m, TO_X, SLOPE_SUMS, ffn, width, 0))));
    return whole(bytes);
}

/* rope. in: qkv. */
static int rope_call(const rm_call *c, bf16 *y, const bf16 *x, float sign, int adds)
{
    const gpt *m = model_of(c);
    const int turned = (m->s.heads + m->s.kv_heads) * m->s.head, row = turned + m->s.kv_heads * m->s.head;
    turn(y, x, m->rows, turned, row, m->s.head, m->context, sign, adds, stream_of(c));
    return launched();
}
static int rope_fwd(const rm_call *c) { return rope_call(c, out_h(c), in_h(c, 0), 1, 0); }
static int rope_bwd(const rm_call *c) { return c->din[0] ? rope_call(c, din_h(c, 0), dout_h(c), -1, RM_ADDS(c, 0)) : 0; }

/* attention. in: qkv; saved: logarithms of the sums; ws of the backward: as much. */
static attention attention_of(const gpt *m)
{
    attention a;
    a.sequences = (int)(m->rows / m->context);
    a.context = m->context;
    a.heads = m->s.heads;
    a.kv_heads = m->s.kv_heads;
    a.head = m->s.head;
    return a;
}
static int attention_fwd(const rm_call *c)
{
    const gpt *m = model_of(c);
#ifdef TRAIN_GPT_CUDNN /* which leaves lse in any case: behind its workspace if it is not saved */
    float *lse = c->saved ? (float *)c->saved : (float *)((char *)c->ws + whole(m->cudnn ? m->cudnn->forward_bytes : 0));
    if (m->cudnn) return cudnn_attend(m->cudnn, out_h(c), lse, in_h(c, 0), attention_of(m), c->ws, stream_of(c)) || launched();
#endif
    return attend(out_h(c), (float *)c->saved, in_h(c, 0), attention_of(m), stream_of(c)) || launched();
}
static int attention_bwd(const rm_call *c)
{
    const gpt *m = model_of(c);
    const bf16 *y = (const bf16 *)c->out[0];
    const float *lse = (const float *)c->saved;
    if (!c->din[0]) return 0;
#ifdef TRAIN_GPT_CUDNN
    if (m->cudnn && !RM_ADDS(c, 0)) return cudnn_attend_grad(m->cudnn, din_h(c, 0), in_h(c, 0), y, dout_h(c), lse, attention_of(m), c->ws, stream_of(c)) || launched();
#endif
    return attend_grad(din_h(c, 0), (float *)c->ws, in_h(c, 0), y, dout_h(c), lse, attention_of(m), RM_ADDS(c, 0), stream_of(c)) || launched();
}

static int gelu_fwd(const rm_call *c)
{
    gelu(out_h(c), in_h(c, 0), count_h(c), stream_of(c));
    return launched();
}
static int gelu_bwd(const rm_call *c)
{
    if (c->din[0]) gelu_grad(din_h(c, 0), dout_h(c), in_h(c, 0), count_h(c), RM_ADDS(c, 0), stream_of(c));
    return launched();
}
static int swiglu_fwd(const rm_call *c)
{
    const gpt *m = model_of(c);
    swiglu(out_h(c), in_h(c, 0), m->rows, m->s.ffn, stream_of(c));
    return launched();
}
static int swiglu_bwd(const rm_call *c)
{
    const gpt *m = model_of(c);
    if (c->din[0]) swiglu_grad(din_h(c, 0), dout_h(c), in_h(c, 0), m->rows, m->s.ffn, RM_ADDS(c, 0), stream_of(c));
    return launched();
}
static int residual_fwd(const rm_call *c)
{
    add(out_h(c), in_h(c, 0), in_h(c, 1), count_h(c), stream_of(c));
    return launched();
}
static int residual_bwd(const rm_call *c)
{
    uint32_t i;
    for (i = 0; i < 2; i++)
        if (c->din[i]) pass(din_h(c, (int)i), dout_h(c), count_h(c), RM_ADDS(c, i), stream_of(c));
    return launched();
}

/* head and loss, a piece of the rows at a time: no more than a piece of the logits exists. in: x, w, targets; arg: rows of a piece, and of ws
   the bytes of a product; ws: that, logits of a piece (forward: and the losses of all rows). The backward makes the logits again. */
static float loss_scale(const gpt *m) { return 1.f / (float)(m->rows * m->accumulate * m->ranks); }
static product head_product(const gpt *m, way which, int64_t n, int adds)
{
    product p = { which, NOTHING, n, m->s.width, m->padded, adds };
    return p;
}
static int head_fwd(const rm_call *c)
{
    const gpt *m = model_of(c);
    int64_t from;
    bf16 *logits = (bf16 *)((char *)c->ws + c->arg[1]);
    float *rows_loss = (float *)(logits + c->arg[0] * m->padded);
    for (from = 0; from < m->rows; from += c->arg[0]) {
        const int64_t n = m->rows - from < c->arg[0] ? m->rows - from : c->arg[0];
        if (product_of(c, head_product(m, FORWARD, n, 0), logits, in_h(c, 0) + from * m->s.width, in_h(c, 1), NULL, NULL, c->ws)) return 1;
        losses(rows_loss + from, logits, (const int32_t *)c->in[2] + from, n, m->s.vocab, m->padded, loss_scale(m), 0, stream_of(c));
    }
    total((float *)c->out[0], rows_loss, m->rows, stream_of(c));
    return launched();
}
static int head_bwd(const rm_call *c)
{
    const gpt *m = model_of(c);
    int64_t from;
    bf16 *logits = (bf16 *)((char *)c->ws + c->arg[1]);
    for (from = 0; from < m->rows; from += c->arg[0]) {
        const int64_t n = m->rows - from < c->arg[0] ? m->rows - from : c->arg[0];
        const bf16 *x = in_h(c, 0) + from * m->s.width;
        if (product_of(c, head_product(m, FORWARD, n, 0), logits, x, in_h(c, 1), NULL, NULL, c->ws)) return 1;
        losses(NULL, logits, (const int32_t *)c->in[2] + from, n, m->s.vocab, m->padded, loss_scale(m), 1, stream_of(c));
        if (c->din[0] && product_of(c, head_product(m, TO_X, n, RM_ADDS(c, 0)), din_h(c, 0) + from * m->s.width, logits, in_h(c, 1), NULL, NULL, c->ws)) return 1;
        if (c->din[1] && product_of(c, head_product(m, TO_W, n, RM_ADDS(c, 1) || from), din_h(c, 1), logits, x, NULL, NULL, c->ws)) return 1;
    }
    return launched();
}
static uint64_t head_bytes(gpt *m, int64_t piece)
{
    uint64_t bytes = 0;
    int which, adds, rest;
    for (which = FORWARD; which <= TO_W; which++)
        for (adds = 0; adds < 2; adds++)
            for (rest = 0; rest < 2; rest++) { /* the last piece may be a smaller one */
                const int64_t n = rest ? m->rows % piece : piece;
                if (!n || (which == FORWARD && adds)) continue;
                if (!product_usable(&m->products, head_product(m, (way)which, n, adds))) fail("cuBLASLt", "no algorithm for a product");
                bytes = larger(bytes, product_bytes(&m->products, head_product(m, (way)which, n, adds)));
            }
    return whole(bytes);
}

/* The updates, of whole weights or of this rank's shares; arg: slim, number of the first value; farg: weight decay. */
static int adamw(const rm_call *c)
{
    const int64_t n = (int64_t)(c->param_bytes / 2);
    LAUNCH(adamw_kernel, blocks_for(n), THREADS, 0, stream_of(c))((uint16_t *)c->param, (const uint16_t *)c->grad, c->state, n, (int)c->arg[0], c->arg[1], (float)c->farg[0], c->device_step, c->seed_key);
    return launched();
}
static int adamw_host(const rm_call *c)
{
    const int64_t n = (int64_t)(c->param_bytes / 2);
    const adam a = adam_of(c->step, (float)c->farg[0]);
    const int slim = (int)c->arg[0];
    const uint64_t seed = slim ? update_seed(c->step, c->seed_key, c->arg[1]) : 0;
    int64_t i;
#pragma omp parallel for schedule(static)
    for (i = 0; i < n; i += 8) adam_some(a, (uint16_t *)c->param, (const uint16_t *)c->grad, c->state, n, i, 8, slim, seed); /* counts are multiples of 8 */
    return 0;
}

/* Gradients that are put together in host memory: plans that accumulate there round once more than on the device. */
static void add_on_host(void *dst, const void *src, uint64_t bytes, rm_tensor param, void *user)
{
    uint16_t *to = (uint16_t *)dst;
    const uint16_t *from = (const uint16_t *)src;
    const int64_t n = (int64_t)(bytes / 2);
    int64_t i;
    (void)param;
    (void)user;
#pragma omp parallel for schedule(static)
    for (i = 0; i < n; i++) to[i] = to_bf16(to_float(to[i]) + to_float(from[i]), 0x8000);
}

typedef struct kinds {
    rm_kind embed, norm, linear, rope, attention, mlp, again, gelu, swiglu, residual, head;
} kinds;
static rm_kind kind(const char *name, rm_fn forward, rm_fn backward, uint64_t needs)
{
    rm_kind k = {};
    k.name = name;
    k.forward = forward;
    k.backward = backward;
    k.needs = needs;
    return k;
}
static kinds make_kinds(void)
{
    kinds k;
    k.embed = kind("embed", embed_fwd, embed_bwd, RM_IN(0));
    k.norm = kind("norm", norm_fwd, norm_bwd, RM_IN(0) | RM_IN(1) | RM_SAVED);
    k.linear = kind("linear", linear_fwd, linear_bwd, RM_IN(0) | RM_IN(1));
    k.rope = kind("rope", rope_fwd, rope_bwd, RM_NOTHING);
    k.rope.inplace = RM_IN(0);
    k.rope.over[0].grad_of = RM_IN(0);
    k.rope.over[0].bytes_of = RM_DOUT;
    k.attention = kind("attention", attention_fwd, attention_bwd, RM_IN(0) | RM_OUT(0) | RM_SAVED);
    k.mlp = kind("mlp", mlp_fwd, mlp_bwd, RM_IN(0) | RM_IN(1) | RM_IN(3) | RM_OUT(1) | RM_OUT(2));
    k.again = kind("again", mlp_fwd, mlp_bwd_again, RM_IN(0) | RM_IN(1) | RM_IN(2) | RM_IN(3));
    k.gelu = kind("gelu", gelu_fwd, gelu_bwd, RM_IN(0));
    k.gelu.over[0] = k.rope.over[0];
    k.swiglu = kind("swiglu", swiglu_fwd, swiglu_bwd, RM_IN(0));
    k.residual = kind("residual", residual_fwd, residual_bwd, RM_NOTHING);
    k.residual.inplace = RM_IN(1);
    k.residual.share_grad = RM_IN(0) | RM_IN(1);
    k.head = kind("head", head_fwd, head_bwd, RM_IN(0) | RM_IN(1) | RM_IN(2));
    return k;
}

static uint64_t halves(int64_t n) { return (uint64_t)n * 2; }
static uint64_t floats(int64_t n) { return (uint64_t)n * 4; }

enum { GRAIN = 16 }; /* shares are of whole 16 bytes, as kernels load and store them */
static int64_t largest_share(const gpt *m, int64_t count) { return ((count + m->ranks - 1) / m->ranks + GRAIN / 2 - 1) / (GRAIN / 2) * (GRAIN / 2); }
/* This rank's values of so many: from which on (*first), and how many. */
static int64_t share_of(const gpt *m, int64_t count, int64_t *first)
{
    const int64_t each = largest_share(m, count);
    *first = m->shard ? each * m->rank < count ? each * m->rank : count : 0;
    return !m->shard ? count : count - *first < each ? count - *first : each;
}

static rm_tensor add_weight(gpt *m, const char *layer, const char *what, int64_t count, float mean, float deviation)
{
    weight *w = &m->weights[m->n_weights++];
    rm_param_desc d = {};
    char name[64];
    int64_t first;
    share_of(m, count, &first);
    snprintf(name, sizeof name, "%s.%s", layer, what);
    d.name = name;
    d.bytes = halves(count);
    d.state_bytes = (uint64_t)count * (m->slim ? 4 : 12);
    d.state_rows = m->slim ? 2 : 3; /* all of one kind, then all of the next: a share has its part of each */
    d.update = adamw;
    d.update_host = adamw_host;
    d.reduce_ns = m->reduced ? 20000 + d.bytes / 100 : 0; /* a guess, 100 GB/s: with it updates wait while the backward goes on */
    d.arg[0] = m->slim;
    d.arg[1] = first;
    d.farg[0] = deviation > 0 ? 0.1 : 0;
    d.user = m;
    w->count = count;
    w->mean = mean;
    w->deviation = deviation;
    w->tensor = rm_param_add(m->graph, &d);
    return w->tensor;
}
static rm_op_desc op(gpt *m, const char *name, rm_tensor x, uint64_t out_bytes)
{
    rm_op_desc d = {};
    d.name = name;
    d.in[0] = x;
    d.out[0] = out_bytes;
    d.user = m;
    return d;
}
static rm_tensor add_norm(gpt *m, const kinds *k, const char *name, rm_tensor x)
{
    rm_op_desc d = op(m, name, x, halves(m->rows * m->s.width));
    d.in[1] = add_weight(m, name, "w", m->s.width, 1, 0);
    if (m->s.gpt2) d.in[2] = add_weight(m, name, "b", m->s.width, 0, 0);
    d.saved = floats(m->rows * (m->s.gpt2 ? 2 : 1));
    d.bwd_ws = column_bytes(m->s.width, m->s.gpt2);
    return rm_op_add(m->graph, &k->norm, &d);
}
static rm_tensor add_linear(gpt *m, const kinds *k, const char *name, rm_tensor x, int64_t in, int64_t out, float deviation)
{
    rm_op_desc d = op(m, name, x, halves(m->rows * out));
    d.in[1] = add_weight(m, name, "w", in * out, 0, deviation);
    if (m->s.gpt2) d.in[2] = add_weight(m, name, "b", out, 0, 0);
    d.fwd_ws = forward_bytes(m, in, out, m->s.gpt2);
    d.bwd_ws = larger(input_bytes(m, in, out), weight_bytes(m, in, out, m->s.gpt2));
    d.arg[0] = in;
    d.arg[1] = out;
    return rm_op_add(m->graph, &k->linear, &d);
}
static rm_tensor add_mlp(gpt *m, const kinds *k, rm_tensor x, float wide, float narrow)
{
    rm_op_desc d = op(m, "mlp", x, halves(m->rows * m->s.width)), again;
    rm_tensor y;
    d.in[1] = add_weight(m, "fc", "w", (int64_t)m->s.width * m->s.ffn, 0, wide);
    d.in[2] = add_weight(m, "fc", "b", m->s.ffn, 0, 0);
    d.in[3] = add_weight(m, "down", "w", (int64_t)m->s.width * m->s.ffn, 0, narrow);
    d.in[4] = add_weight(m, "down", "b", m->s.width, 0, 0);
    d.out[1] = d.out[2] = halves(m->rows * m->s.ffn);
    d.fwd_ws = mlp_bytes(m);
    d.arg[0] = (int64_t)d.fwd_ws;
    d.bwd_ws = d.fwd_ws + whole(d.out[1]);
    y = rm_op_add(m->graph, &k->mlp, &d);
    again = d;
    again.bwd_ws = d.fwd_ws + 3 * whole(d.out[1]);
    rm_variant_add(m->graph, y, &k->again, &again);
    return y;
}
static rm_tensor add_residual(gpt *m, const kinds *k, const char *name, rm_tensor x, rm_tensor y)
{
    rm_op_desc d = op(m, name, x, halves(m->rows * m->s.width));
    d.in[1] = y;
    return rm_op_add(m->graph, &k->residual, &d);
}

static void describe(gpt *m)
{
    const shape s = m->s;
    const kinds k = make_kinds();
    const int64_t rows = m->rows, width = s.width, q = (int64_t)s.heads * s.head, kv = (int64_t)s.kv_heads * s.head;
    const int64_t piece = rows < 2048 ? rows : 2048;
    const float wide = 0.02f, narrow = 0.02f / sqrtf(2.f * (float)s.layers);
    rm_graph *g = m->graph;
    rm_tensor x, y, wte, w;
    rm_op_desc d = {};
    int layer;

    rm_graph_link(g, 25000000000u, 25000000000u, 10000, 0); /* a PCIe link, until rm_cuda_tune has measured the real one */
    if (m->shard) rm_graph_ranks(g, (uint32_t)m->ranks, 100000000000u, 20000, GRAIN); /* a guess, as of reductions */
    m->tokens = rm_input_add(g, "tokens", floats(rows), 0);
    m->targets = rm_input_add(g, "targets", floats(rows), 0);
    wte = add_weight(m, "embed", "wte", (int64_t)m->padded * width, 0, wide);
    d = op(m, "embed", m->tokens, halves(rows * width));
    d.in[1] = wte;
    if (s.gpt2) d.in[2] = add_weight(m, "embed", "wpe", (int64_t)m->context * width, 0, wide);
    x = rm_op_add(g, &k.embed, &d);

    for (layer = 0; layer < s.layers; layer++) {
        rm_block_begin(g, "h");
        y = add_norm(m, &k, "norm1", x);
        y = add_linear(m, &k, "qkv", y, width, q + 2 * kv, wide);
        if (!s.gpt2) {
            d = op(m, "rope", y, halves(rows * (q + 2 * kv)));
            y = rm_op_add(g, &k.rope, &d);
        }
        d = op(m, "attention", y, halves(rows * q));
        d.saved = floats(rows * s.heads);
        d.bwd_ws = d.saved;
#ifdef TRAIN_GPT_CUDNN
        if (m->cudnn) {
            d.saving_ws = larger(m->cudnn->forward_bytes, 1);
            d.fwd_ws = whole(m->cudnn->forward_bytes) + d.saved;
            d.bwd_ws = larger(d.saved, m->cudnn->backward_bytes);
        }
#endif
        y = rm_op_add(g, &k.attention, &d);
        y = add_linear(m, &k, "proj", y, q, width, narrow);
        x = add_residual(m, &k, "residual1", x, y);
        y = add_norm(m, &k, "norm2", x);
        if (s.gpt2 && !m->apart) y = add_mlp(m, &k, y, wide, narrow);
        else {
            y = add_linear(m, &k, s.gpt2 ? "fc" : "gate-up", y, width, s.gpt2 ? s.ffn : 2 * s.ffn, wide);
            d = op(m, s.gpt2 ? "gelu" : "swiglu", y, halves(rows * s.ffn));
            y = rm_op_add(g, s.gpt2 ? &k.gelu : &k.swiglu, &d);
            y = add_linear(m, &k, "down", y, s.ffn, width, narrow);
        }
        x = add_residual(m, &k, "residual2", x, y);
        rm_block_end(g);
    }

    x = add_norm(m, &k, "norm", x);
    w = s.gpt2 ? wte : add_weight(m, "head", "w", (int64_t)m->padded * width, 0, wide);
    d = op(m, "loss", x, 4);
    d.in[1] = w;
    d.in[2] = m->targets;
    d.arg[0] = piece;
    d.arg[1] = (int64_t)head_bytes(m, piece);
    d.bwd_ws = (uint64_t)d.arg[1] + halves(piece * m->padded);
    d.fwd_ws = d.bwd_ws + floats(rows);
    m->loss = rm_op_add(g, &k.head, &d);
    rm_output_add(g, m->loss);
}

/* =====================================================================================================================
   Training.
   ================================================================================================================== */

typedef struct options {
    const char *file, *arm, *preset;
    const shape *model;
    uint64_t budget, host;
    double percent; /* of what keeping everything takes, if budget is 0 */
    int64_t batch, context, steps, accumulate;
    double lr, peak, bandwidth; /* TFLOPS and GB/s of the card, 0: by its name */
    uint64_t seed;
    int slim, apart, profile, streams, debug, untuned, check, link, digest, physical, quiet;
} options;

/* An arm of the comparison: a preset, and what it may use. */
typedef struct arm {
    const char *name, *preset, *text;
    int budget, host;
} arm;
static const arm ARMS[] = {
    { "all-resident", "noremat", "everything kept on the device, no budget", 0, 0 },
    { "every-block", "every-block", "a checkpoint at every block", 1, 0 },
    { "llmc-2", "llmc-2", "norms recomputed, with --apart activation functions, too, as llm.c does", 1, 0 },
    { "remat", NULL, "recomputation as the planner likes", 1, 0 },
    { "offload", "stream", "copies, no recomputation: layers streamed, updates on the host", 1, 1 },
    { "joint", "offmate", "recomputation and copies together", 1, 1 },
};

static const char HELP[] =
    "train_gpt [FILE] [options]        trains on the bytes of FILE (default: little stories)\n"
    "  --model NAME      gpt2-124m (default), -355m, -774m, -1.5b, llama-1b, llama-8b, gpt2-tiny, llama-tiny\n"
    "  --budget SIZE     device memory: 6G, 1500M, or 40% of what keeping everything takes (default: what is free, less 1G)\n"
    "  --host SIZE       pinned host memory for the arms that copy (default: 64G)\n"
    "  --arm NAME        all-resident, every-block, llmc-2, remat (default), offload, joint;  --preset NAME: any of rockmate.h's\n"
    "  --batch N  --context N  --accumulate N (micro-batches a step)  --steps N  --lr X  --seed N\n"
    "  --slim            bf16 moments and no float weights: 4 bytes of state a weight instead of 12\n"
    "  --apart           GPT-2: gelu is an op of its own, which can be recomputed alone, instead of a part of the matrix products\n"
    "  --streams         plain streams instead of a CUDA graph     --debug     wait after each op, name the one that fails\n"
    "  --untuned         plan with estimated costs                 --physical  occupy the rest of the card: the budget is real\n"
    "  --check           before training, compare replayed steps with steps in streams, bit for bit\n"
    "  --link            measure the link both ways, beside fills and beside matrix products, and end\n"
    "  --profile         each op's time, measured and on paper (roofline), here and on an H100, an H200 and an RTX 4090\n"
    "  --peak TFLOPS  --bandwidth GB/S   of the card (default: by its name), for --profile and model FLOP utilisation (mfu), which counts\n"
    "                    6 N + 12 L H Q T a token: N weights in products, L layers, H heads of Q, T the context\n"
    "  --digest          print losses and weights as hexadecimal, to compare runs bit for bit\n"
    "  --quiet           one line at the end\n";

static double number(const char *option, const char *text, double least, double most)
{
    char *end;
    const double x = strtod(text, &end);
    if (end == text || *end || !(x >= least && x <= most)) fail(option, "a number out of range, or none");
    return x;
}
static uint64_t size_of(const char *option, const char *text, double *percent)
{
    char *end;
    const double x = strtod(text, &end);
    const char *units = "KMG", *unit = *end ? strchr(units, *end) : NULL;
    if (end == text || !(x > 0) || x > 1e15) fail(option, "takes a size like 6G, 1500M or 40%");
    if (percent && !strcmp(end, "%")) {
        *percent = x;
        return 0;
    }
    if (*end && (!unit || end[1])) fail(option, "takes a size like 6G, 1500M or 40%");
    return (uint64_t)(unit ? x * (double)((uint64_t)1 << 10 * (unit - units + 1)) : x);
}

static const arm *find_arm(const char *name)
{
    size_t i;
    for (i = 0; i < sizeof ARMS / sizeof ARMS[0]; i++)
        if (!strcmp(ARMS[i].name, name)) return &ARMS[i];
    fail("--arm", "all-resident, every-block, llmc-2, remat, offload or joint");
    return NULL;
}

static int flag(options *o, const char *a)
{
    const struct { const char *name; int *at; } flags[] = {
        { "--slim", &o->slim }, { "--streams", &o->streams }, { "--debug", &o->debug }, { "--untuned", &o->untuned },
        { "--check", &o->check }, { "--link", &o->link }, { "--apart", &o->apart }, { "--profile", &o->profile },
        { "--digest", &o->digest }, { "--physical", &o->physical }, { "--quiet", &o->quiet } };
    size_t i;
    for (i = 0; i < sizeof flags / sizeof flags[0]; i++)
        if (!strcmp(flags[i].name, a)) return *flags[i].at = 1;
    return 0;
}

static options parse_options(int argc, char **argv)
{
    options o;
    size_t k;
    int i;
    memset(&o, 0, sizeof o);
    o.arm = "remat";
    o.model = &SHAPES[0];
    o.host = (uint64_t)64 << 30;
    o.batch = 8;
    o.context = 1024;
    o.steps = 20;
    o.accumulate = 1;
    o.lr = 3e-4;
    o.seed = 1;
    for (i = 1; i < argc; i++) {
        const char *a = argv[i], *v = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(a, "--help")) {
            fputs(HELP, stdout);
            exit(0);
        }
        if (flag(&o, a)) continue;
        if (a[0] != '-') {
            o.file = a;
            continue;
        }
        if (i + 1 >= argc) fail(a, "no such option, or its value is missing; --help lists them");
        i++;
        if (!strcmp(a, "--budget")) o.budget = size_of(a, v, &o.percent);
        else if (!strcmp(a, "--host")) o.host = size_of(a, v, NULL);
        else if (!strcmp(a, "--arm")) o.arm = find_arm(v)->name;
        else if (!strcmp(a, "--preset")) o.preset = v;
        else if (!strcmp(a, "--batch")) o.batch = (int64_t)number(a, v, 1, 1e6);
        else if (!strcmp(a, "--context")) o.context = (int64_t)number(a, v, 8, 1e6);
        else if (!strcmp(a, "--steps")) o.steps = (int64_t)number(a, v, 1, 1e9);
        else if (!strcmp(a, "--accumulate")) o.accumulate = (int64_t)number(a, v, 1, 1e6);
        else if (!strcmp(a, "--lr")) o.lr = number(a, v, 0, 1);
        else if (!strcmp(a, "--peak")) o.peak = number(a, v, 0.001, 1e6);
        else if (!strcmp(a, "--bandwidth")) o.bandwidth = number(a, v, 0.001, 1e6);
        else if (!strcmp(a, "--seed")) o.seed = (uint64_t)number(a, v, 0, 1e15);
        else if (!strcmp(a, "--model")) {
            for (o.model = NULL, k = 0; k < sizeof SHAPES / sizeof SHAPES[0]; k++)
                if (!strcmp(SHAPES[k].name, v)) o.model = &SHAPES[k];
            if (!o.model) fail("--model", "no such model; --help lists them");
        } else fail(a, "no such option; --help lists them");
    }
    if (o.profile && o.untuned) fail("--profile", "prints measured times: without --untuned");
    return o;
}

typedef struct trainer {
    options o;
    gpt model;
    rm_cuda *cuda;
    rm_plan *plan;
    rm_exec *exec;
    unsigned char *text;
    size_t text_size;
    int32_t *tokens, *targets; /* one micro-batch, pinned */
    float sum, loss;           /* losses of a step, of which the last ones are still on their way; of the last step that is had */
    int64_t had;               /* micro-batches whose losses are in */
    double plan_s, tune_s;     /* that planning and tuning took */
    char card_name[256];
    void *ballast;
    size_t ballast_bytes;      /* which are nobody's: outside of what is outside the arena */
} trainer;

static void cuda_needs(cudaError_t e, const char *what)
{
    if (e != cudaSuccess) fail(what, cudaGetErrorString(e));
}
static void need(trainer *t, rm_result r, const char *what)
{
    const char *why[3] = { rm_exec_error(t->exec), rm_graph_error(t->model.graph), rm_cuda_error(t->cuda) };
    if (r != RM_OK) fail(what, *why[0] ? why[0] : *why[1] ? why[1] : why[2]);
}
static double seconds(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static unsigned char *read_file(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    unsigned char *bytes;
    if (!f) fail(path, "cannot be opened");
    fseek(f, 0, SEEK_END);
    *size = (size_t)ftell(f);
    rewind(f);
    bytes = (unsigned char *)malloc(*size + 1);
    if (!bytes || fread(bytes, 1, *size, f) != *size) fail(path, "cannot be read");
    fclose(f);
    return bytes;
}
static void load_text(trainer *t)
{
    t->text = t->o.file ? read_file(t->o.file, &t->text_size) : make_stories(&t->text_size);
    if (!t->text) fail("text", "no memory to make it");
    if (t->text_size < (size_t)t->o.context + 2) fail(t->o.file ? t->o.file : "the stories", "shorter than --context");
}

static void make_model(trainer *t, int64_t rank, int64_t ranks)
{
    gpt *m = &t->model;
    m->rank = rank;
    m->s = *t->o.model;
    m->context = (int)t->o.context;
    m->rows = t->o.batch * t->o.context;
    m->padded = (m->s.vocab + 127) / 128 * 128;
    m->slim = t->o.slim;
    m->apart = t->o.apart;
    if (cublasLtCreate(&m->products.lt) != CUBLAS_STATUS_SUCCESS) fail("cuBLASLt", "cannot start");
    m->ranks = ranks;
    m->accumulate = t->o.accumulate;
    m->weights = (weight *)calloc((size_t)(16 * m->s.layers + 8), sizeof(weight));
    m->graph = rm_graph_create(NULL);
    cuda_needs(cudaMallocHost((void **)&t->tokens, floats(m->rows)), "batch");
    cuda_needs(cudaMallocHost((void **)&t->targets, floats(m->rows)), "batch");
    if (!m->weights) fail("model", "no memory");
#ifdef TRAIN_GPT_CUDNN
    m->cudnn = cudnn_attention_create(attention_of(m));
    if (!m->cudnn) fprintf(stderr, "note: cuDNN has no such attention; the kernel here is taken\n");
#endif
    describe(m);
}

static uint32_t step_kind(const options *o, int64_t micro)
{
    return o->accumulate == 1 ? RM_SINGLE : micro == 0 ? RM_FIRST : micro == o->accumulate - 1 ? RM_LAST : RM_MIDDLE;
}

static rm_plan *make_plan(trainer *t, const rm_plan_desc *d, rm_plan_info *info)
{
    rm_plan *p;
    if (rm_plan_create(t->model.graph, d, &p) != RM_OK) {
        fprintf(stderr, "train_gpt: %s\n", rm_graph_error(t->model.graph));
        exit(3);
    }
    rm_plan_get_info(p, 0, info);
    return p;
}

static rm_plan_desc choose(trainer *t)
{
    const arm *a = find_arm(t->o.arm);
    rm_plan_desc d = {}, all;
    rm_plan_info info;
    d.steps = t->o.accumulate == 1 ? RM_SINGLE : RM_FIRST | (t->o.accumulate > 2 ? RM_MIDDLE : 0) | RM_LAST;
    all = d;
    all.preset = "noremat";
    d.preset = t->o.preset ? t->o.preset : a->preset;
    if (a->host) d.host_bytes = t->o.host;
    d.shares = (uint32_t)t->model.shard;
    if (a->budget && t->o.percent > 0) {
        rm_plan_destroy(make_plan(t, &all, &info));
        d.device_bytes = (uint64_t)((double)info.keep_all_bytes * t->o.percent / 100);
    } else if (a->budget) {
        d.device_bytes = t->o.budget ? t->o.budget : rm_cuda_free_bytes(t->cuda, (uint64_t)1 << 30);
        if (!d.device_bytes) fail("--budget", "the device has no GiB free; name a size");
    }
    return d;
}

static void init_weights(trainer *t)
{
    size_t i;
    for (i = 0; i < t->model.n_weights; i++) {
        const weight *w = &t->model.weights[i];
        uint16_t *h = (uint16_t *)malloc(halves(w->count));
        float *f = (float *)malloc(floats(w->count));
        int64_t k;
        if (!h || !f) fail("weights", "no memory");
#pragma omp parallel for schedule(static)
        for (k = 0; k < w->count; k++) {
            const float u = (float)random_bits(t->o.seed * 1000003 + i, k) / 4294967296.f - 0.5f;
            f[k] = w->mean + w->deviation * 3.4641016f * u;
            h[k] = to_bf16(f[k], 0x8000);
        }
        need(t, rm_exec_write(t->exec, w->tensor, RM_VALUE, 0, h, halves(w->count)), "weights");
        if (!t->o.slim) need(t, rm_exec_write(t->exec, w->tensor, RM_STATE, 0, f, floats(w->count)), "weights");
        free(h);
        free(f);
    }
}

static rm_step batch_of(trainer *t, int64_t step, int64_t micro)
{
    rm_step s = {};
    const uint64_t room = t->text_size - (size_t)t->o.context - 1;
    int64_t row, k;
    s.kind = step_kind(&t->o, micro);
    s.micro = (uint32_t)(micro * t->model.ranks + t->model.rank);
    s.step = (uint64_t)step;
    s.seed = t->o.seed;
    s.lr = t->o.lr * (step < 10 ? (double)(step + 1) / 10 : 1);
    s.value[0] = 1 / (1 - pow(0.9, (double)step + 1)); /* the moments start at zero: AdamW's corrections */
    s.value[1] = 1 / (1 - pow(0.95, (double)step + 1));
    for (row = 0; row < t->o.batch; row++) {
        const uint64_t pick = (uint64_t)random_bits(t->o.seed ^ 0xDA7A, (step * t->o.accumulate + micro) * 65536 + row + t->model.rank * t->o.batch);
        const unsigned char *from = t->text + pick % room;
        for (k = 0; k < t->o.context; k++) {
            t->tokens[row * t->o.context + k] = from[k];
            t->targets[row * t->o.context + k] = from[k + 1];
        }
    }
    need(t, rm_exec_write(t->exec, t->model.tokens, RM_VALUE, 0, t->tokens, floats(t->model.rows)), "tokens");
    need(t, rm_exec_write(t->exec, t->model.targets, RM_VALUE, 0, t->targets, floats(t->model.rows)), "targets");
    return s;
}

/* The loss of a micro-batch; with the last one of a step, that of the step. */
static void add_loss(trainer *t, float loss)
{
    t->sum += loss;
    if (++t->had % t->o.accumulate) return;
    t->loss = t->sum;
    t->sum = 0;
}
static void last_loss(trainer *t)
{
    float loss;
    need(t, rm_exec_read(t->exec, t->model.loss, RM_VALUE, 0, &loss, sizeof loss), "loss");
    add_loss(t, loss);
}

/* late: losses come in a step late, so that the host does not wait for the device; the last one by last_loss. */
static void train_step(trainer *t, int64_t step, int late)
{
    int64_t micro;
    for (micro = 0; micro < t->o.accumulate; micro++) {
        const rm_step s = batch_of(t, step, micro);
        float loss;
        uint32_t there;
        need(t, rm_exec_step(t->exec, &s), "step");
        if (!late) last_loss(t);
        else if (rm_cuda_read_late(t->cuda, t->exec, t->model.loss, &loss, sizeof loss, &there) != RM_OK) fail("loss", rm_cuda_error(t->cuda));
        else if (there) add_loss(t, loss);
    }
}

static int add_to_hash(void *user, const char *bytes, size_t n)
{
    uint64_t *hash = (uint64_t *)user;
    size_t i;
    for (i = 0; i < n; i++) *hash = (*hash ^ (unsigned char)bytes[i]) * 1099511628211u;
    return 0;
}
static uint64_t hash_of_weights(trainer *t)
{
    uint64_t hash = 1469598103934665603u;
    need(t, rm_exec_save(t->exec, add_to_hash, &hash), "digest");
    return hash;
}

/* All that is left of the card but the arena to come and room for what cuBLASLt and CUDA load: what does not fit then, fails. */
static void occupy(trainer *t, uint64_t arena)
{
    size_t left, total, room = (size_t)768 << 20;
    cuda_needs(cudaMemGetInfo(&left, &total), "memory");
    if (left < arena + room) no_room("--physical", "the card has less free than the budget and 768 MiB");
    t->ballast_bytes = left - arena - room;
    cuda_needs(cudaMalloc(&t->ballast, t->ballast_bytes), "ballast");
}

static rm_plan_desc plan_step(trainer *t, rm_plan_info *info)
{
    const rm_plan_desc d = choose(t);
    const double clock = seconds();
    t->plan = make_plan(t, &d, info);
    t->plan_s = seconds() - clock;
    if (t->o.physical) occupy(t, info->arena_bytes > d.device_bytes ? info->arena_bytes : d.device_bytes);
    return d;
}

/* Executor, weights; then, unless --untuned, every op and the link are measured and the plan (d: how it was asked for) is made again. Weights are
   made once more after that: then no copy of them has to be kept meanwhile, for which a large model leaves no room. */
static void start(trainer *t, rm_plan_desc d, const rm_exec_desc *exec_desc, rm_plan_info *info)
{
    rm_exec_desc x;
    double clock;
    memset((void *)&x, 0, sizeof x);
    if (exec_desc) x = *exec_desc;
    x.add = add_on_host;
    x.forget = 1;
    if (rm_cuda_exec_create(t->cuda, t->plan, &x, &t->exec) != RM_OK) {
        const char *why = rm_graph_error(t->model.graph);
        if (strstr(why, "cudaErrorMemoryAllocation")) no_room("executor", why);
        fail("executor", why);
    }
    init_weights(t);
    if (!t->o.untuned) {
        const rm_step s = batch_of(t, 0, 0);
        clock = seconds();
        need(t, rm_cuda_tune(t->cuda, t->exec, t->model.graph, &d, &s, 3, &t->plan), "tuning");
        t->tune_s = seconds() - clock;
        init_weights(t);
    }
    rm_plan_get_info(t->plan, 0, info);
}

static void begin(trainer *t)
{
    rm_cuda_desc d = {};
    struct cudaDeviceProp card;
    int device;
    cuda_needs(cudaGetDevice(&device), "device");
    cuda_needs(cudaGetDeviceProperties(&card, device), "device");
    snprintf(t->card_name, sizeof t->card_name, "%.255s", card.name);
    d.stage_bytes = 2 * floats(t->o.batch * t->o.context) + 128; /* tokens and targets of one micro-batch */
    d.graph = !t->o.streams && !t->o.debug;
    d.debug = (uint32_t)t->o.debug;
    if (rm_cuda_create(&d, &t->cuda) != RM_OK) fail("CUDA", rm_cuda_error(t->cuda));
    load_text(t);
}

static void finish(trainer *t)
{
    rm_exec_destroy(t->exec);
    rm_plan_destroy(t->plan);
    rm_graph_destroy(t->model.graph);
    products_destroy(&t->model.products);
#ifdef TRAIN_GPT_CUDNN
    cudnn_attention_destroy(t->model.cudnn);
#endif
    rm_cuda_destroy(t->cuda);
    cudaFree(t->ballast);
    cudaFreeHost(t->tokens);
    cudaFreeHost(t->targets);
    free(t->model.weights);
    free(t->text);
}

static int print(void *file, const char *text, size_t n) { return fwrite(text, 1, n, (FILE *)file) != n; }

static card card_of(const trainer *t) { return card_named(t->card_name, t->o.peak, t->o.bandwidth); }

static double flops_of_token(const gpt *m)
{
    const double looked_up = (double)m->s.width * (m->s.gpt2 ? m->context : m->padded);
    double weights = 0;
    size_t i;
    for (i = 0; i < m->n_weights; i++) weights += (double)m->weights[i].count;
    return 6 * (weights - looked_up) + 12. * m->s.layers * m->s.heads * m->s.head * m->context;
}

/* A text that grows. */
typedef struct writing {
    char *text;
    size_t n, room;
} writing;
static int write_on(void *user, const char *bytes, size_t n)
{
    writing *w = (writing *)user;
    if (w->n + n + 1 > w->room) {
        w->room = 2 * (w->n + n + 1);
        w->text = (char *)realloc(w->text, w->room);
        if (!w->text) return 1;
    }
    memcpy(w->text + w->n, bytes, n);
    w->n += n;
    w->text[w->n] = 0;
    return 0;
}
static void print_times(trainer *t)
{
    const gpt *m = &t->model;
    writing w = {};
    sizes s = {};
    s.rows = (double)m->rows;
    s.width = m->s.width;
    s.queries = (double)m->s.heads * m->s.head;
    s.keys = (double)m->s.kv_heads * m->s.head;
    s.ffn = m->s.ffn;
    s.vocab = m->padded;
    s.context = m->context;
    s.state = m->slim ? 4 : 12;
    s.gpt2 = m->s.gpt2;
    need(t, rm_graph_write(m->graph, write_on, &w), "--profile");
    print_profile(w.text, &s, card_of(t));
    free(w.text);
}

/* The line that tests/bench/cuda.sh reads. */
static void report(trainer *t, const rm_plan_info *info, float loss, double first_loss)
{
    rm_cuda_info c;
    rm_exec_info x;
    const double tokens = (double)(t->model.rows * t->o.accumulate * t->model.ranks);
    const card here = card_of(t);
    double ms, per_s;
    char used[32] = "-";
    rm_cuda_get_info(t->cuda, &c);
    rm_exec_get_info(t->exec, &x);
    ms = (double)c.step_ns / 1e6;
    per_s = ms > 0 ? tokens / (double)t->o.accumulate / ms * 1e3 : 0;
    if (here.tflops > 0) snprintf(used, sizeof used, "%.1f%%", 100 * per_s * flops_of_token(&t->model) / (1e12 * here.tflops * (double)t->model.ranks));
    printf("model=%s arm=%s budget_mib=%.0f planned_mib=%.0f touched_mib=%.0f host_mib=%.0f outside_mib=%.0f step_ms=%.2f simulated_ms=%.2f busy_ms=%.2f tokens_per_s=%.0f mfu=%s "
           "plan_s=%.1f tune_s=%.1f pin_s=%.2f captured=%d nodes=%u first_loss=%.4f loss=%.4f\n",
           t->o.model->name, t->o.preset ? t->o.preset : t->o.arm, (double)info->budget_bytes / 1048576, (double)info->arena_bytes / 1048576, (double)x.touched_bytes / 1048576,
           (double)info->host_bytes / 1048576, (double)(c.outside_bytes > t->ballast_bytes ? c.outside_bytes - t->ballast_bytes : 0) / 1048576, ms, (double)(c.replayed ? info->first_ns : info->time_ns) / 1e6, (double)info->busy_ns[RM_LANE_COMPUTE] / 1e6,
           per_s, used, t->plan_s, t->tune_s, (double)c.pin_ns / 1e9, c.replayed > 0, c.graph_nodes, first_loss, (double)loss);
    if (*rm_cuda_note(t->cuda)) fprintf(stderr, "note: %s\n", rm_cuda_note(t->cuda));
}

#ifndef TRAIN_GPT_PARTS /* train_gpt_nccl.cu takes all but the main program */
/* Are steps as graphs those in streams? */
static int feed(void *user, rm_exec *x, uint32_t batch)
{
    (void)x;
    batch_of((trainer *)user, batch, 0);
    return 0;
}
static void check(trainer *t)
{
    rm_cuda_check_desc d = {};
    const rm_step s = batch_of(t, 0, 0);
    const double began = seconds();
    d.feed = feed;
    d.feed_user = t;
    d.output[0] = t->model.loss;
    if (rm_cuda_check(t->cuda, t->exec, t->model.graph, t->plan, &s, &d) != RM_OK) fail("--check", rm_cuda_error(t->cuda));
    printf("check: replays are right (%.1f s)\n", seconds() - began);
}

/* The link, beside fills of memory and beside matrix products. */
enum { PRODUCT = 4096, PRODUCTS = 24 }; /* some milliseconds */
static int load(void *user, cudaStream_t s)
{
    trainer *t = (trainer *)user;
    bf16 *x = (bf16 *)t->ballast;
    const int64_t n = (int64_t)PRODUCT * PRODUCT;
    const product square = { FORWARD, NOTHING, PRODUCT, PRODUCT, PRODUCT, 0 };
    int i, bad = 0;
    for (i = 0; i < PRODUCTS && !bad; i++) bad = multiply(&t->model.products, square, x + 2 * n, x, x + n, NULL, NULL, x + 3 * n, s);
    return bad;
}
static int measure_link(trainer *t)
{
    const product square = { FORWARD, NOTHING, PRODUCT, PRODUCT, PRODUCT, 0 };
    const uint64_t bytes = 3 * halves((int64_t)PRODUCT * PRODUCT);
    rm_cuda_link fills, products;
    cuda_needs(cudaMalloc(&t->ballast, bytes + product_bytes(&t->model.products, square)), "matrices");
    cuda_needs(cudaMemsetAsync(t->ballast, 0, bytes, rm_cuda_stream(t->cuda, RM_LANE_COMPUTE)), "matrices");
    need(t, rm_cuda_link_measure(t->cuda, NULL, NULL, &fills), "link");
    need(t, rm_cuda_link_measure(t->cuda, load, t, &products), "link");
    printf("link beside fills: h2d_gb_s=%.1f d2h_gb_s=%.1f latency_us=%.1f\n", (double)fills.h2d / 1e9, (double)fills.d2h / 1e9, (double)fills.latency_ns / 1e3);
    printf("link beside products: h2d_gb_s=%.1f d2h_gb_s=%.1f latency_us=%.1f\n", (double)products.h2d / 1e9, (double)products.d2h / 1e9, (double)products.latency_ns / 1e3);
    return 0;
}

/* A step whose loss is had. */
static void tell(trainer *t, int64_t step, double clock, float *first)
{
    union { float f; uint32_t u; } bits;
    if (step < 0) return;
    if (!step) *first = t->loss;
    bits.f = t->loss;
    if (t->o.digest) printf("loss %ld %08x\n", (long)step, bits.u);
    else if (!t->o.quiet) printf("step %4ld/%ld   loss %.4f   %.1f s\n", (long)step + 1, (long)t->o.steps, (double)t->loss, seconds() - clock);
}

int main(int argc, char **argv)
{
    trainer t;
    rm_plan_info info;
    rm_plan_desc d;
    rm_cuda_info ignored;
    float first = 0;
    double clock;
    int64_t step;
    const int64_t warm = 4; /* streams, capture, and what the driver loads */

    memset(&t, 0, sizeof t);
    t.o = parse_options(argc, argv);
    begin(&t);
    make_model(&t, 0, 1);
    if (t.o.link) return measure_link(&t);
    d = plan_step(&t, &info);
    start(&t, d, NULL, &info);
    if (!t.o.quiet) rm_plan_summary(t.plan, print, stdout);
    if (t.o.profile) print_times(&t);
    if (t.o.check) check(&t);
    clock = seconds();
    for (step = 0; step < t.o.steps; step++) {
        train_step(&t, step, 1);
        tell(&t, step - 1, clock, &first);
        if (step + 1 == warm && warm < t.o.steps) rm_cuda_get_info(t.cuda, &ignored), clock = seconds();
    }
    last_loss(&t);
    tell(&t, t.o.steps - 1, clock, &first);
    report(&t, &info, t.loss, (double)first);
    if (t.o.digest) printf("weights %016llx\n", (unsigned long long)hash_of_weights(&t));
    finish(&t);
    return 0;
}
#endif
