/* models.h - well-known models, described for planning

   models_build(name, ...) gives a graph with the parameters, optimizer states, tensors and costs of one training step of the model on
   a named device: what rm_plan_create needs to say whether and how it trains there. The kinds have no callbacks: such a graph is
   planned and written as text, not run. Costs are analytic: the larger of arithmetic and memory traffic, at a usual share of the
   device's peak, and 2 us a kernel. Profile the real kernels before you believe more than the first digit.

   Everything is bf16 with float statistics. The optimizer is AdamW: per weight a float master copy and two float moments
   (12 bytes); with slim != 0 two bf16 moments only (4 bytes). Include it after rockmate.h; C99. */

#ifndef MODELS_H
#define MODELS_H

#include <stdio.h>
#include <string.h>

typedef struct models_device {
    const char *name;
    double flops;        /* bf16, dense, accumulated in float: peak operations a second */
    double bytes;        /* of memory */
    double bandwidth;    /* of memory, bytes a second */
    double link;         /* to the host, each way, bytes a second in practice; 0: host and device are one pool of memory */
    double host;         /* host memory as an optimizer sees it, bytes a second */
    const char *text;
} models_device;

/* By the makers' data sheets. The first one is the default. fp16: the card has no bf16. */
static const models_device models_devices[] = {
    { "h200",        989e12, 141e9, 4.80e12, 55e9,   200e9, "H200 SXM, PCIe 5 x16" },
    { "b200",       2250e12, 180e9, 7.70e12, 55e9,   200e9, "B200 SXM, PCIe 5 x16" },
    { "h100",        989e12,  80e9, 3.35e12, 55e9,   200e9, "H100 SXM, PCIe 5 x16" },
    { "h100-pcie",   756e12,  80e9, 2.00e12, 55e9,   200e9, "H100 PCIe, PCIe 5 x16" },
    { "mi300x",     1307e12, 192e9, 5.30e12, 55e9,   200e9, "MI300X, PCIe 5 x16" },
    { "a100",        312e12,  80e9, 2.04e12, 25e9,   200e9, "A100 SXM 80 GB, PCIe 4 x16" },
    { "a100-40gb",   312e12,  40e9, 1.55e12, 25e9,   200e9, "A100 SXM 40 GB, PCIe 4 x16" },
    { "v100",        125e12,  32e9, 0.90e12, 12e9,   100e9, "V100 SXM2 32 GB (fp16), PCIe 3 x16" },
    { "l40s",        362e12,  48e9, 0.86e12, 25e9,   200e9, "L40S, PCIe 4 x16" },
    { "l4",          121e12,  24e9, 0.30e12, 25e9,   200e9, "L4, PCIe 4 x16" },
    { "a10",         125e12,  24e9, 0.60e12, 25e9,   200e9, "A10, PCIe 4 x16" },
    { "t4",           65e12,  16e9, 0.32e12, 12e9,   100e9, "T4 (fp16), PCIe 3 x16" },
    { "rtxpro6000",  504e12,  96e9, 1.79e12, 55e9,    80e9, "RTX PRO 6000 Blackwell, PCIe 5 x16" },
    { "rtx6000ada",  364e12,  48e9, 0.96e12, 25e9,    80e9, "RTX 6000 Ada, PCIe 4 x16" },
    { "a6000",       155e12,  48e9, 0.77e12, 25e9,    80e9, "RTX A6000, PCIe 4 x16" },
    { "rtx5090",     210e12,  32e9, 1.79e12, 55e9,    60e9, "RTX 5090, PCIe 5 x16" },
    { "rtx5080",     113e12,  16e9, 0.96e12, 55e9,    60e9, "RTX 5080, PCIe 5 x16" },
    { "rtx5070ti",    88e12,  16e9, 0.90e12, 55e9,    60e9, "RTX 5070 Ti, PCIe 5 x16" },
    { "rtx4090",     165e12,  24e9, 1.01e12, 25e9,    60e9, "RTX 4090, PCIe 4 x16" },
    { "rtx4080",      97e12,  16e9, 0.72e12, 25e9,    60e9, "RTX 4080, PCIe 4 x16" },
    { "rtx4070",      58e12,  12e9, 0.50e12, 25e9,    60e9, "RTX 4070, PCIe 4 x16" },
    { "rtx4060ti",    44e12,  16e9, 0.29e12, 12.5e9,  50e9, "RTX 4060 Ti 16 GB, PCIe 4 x8" },
    { "rtx4060",      30e12,   8e9, 0.27e12, 12.5e9,  50e9, "RTX 4060, PCIe 4 x8" },
    { "rtx3090",      71e12,  24e9, 0.94e12, 25e9,    50e9, "RTX 3090, PCIe 4 x16" },
    { "rtx3060",      25e12,  12e9, 0.36e12, 25e9,    50e9, "RTX 3060 12 GB, PCIe 4 x16" },
    { "gb10",        125e12, 128e9, 0.27e12,    0,   270e9, "GB10 (DGX Spark), unified memory" },
    { "orin-64gb",    42e12,  64e9, 0.20e12,    0,   200e9, "Jetson AGX Orin 64 GB (fp16), unified memory" },
    { "m4max",        18e12, 128e9, 0.55e12,    0,   400e9, "Apple M4 Max 40 cores (fp16), unified memory" },
};

/* What a model is to be built for. Zeros: 8,192 tokens or 32 images; sequences of 2,048 or what the model can; AdamW. */
typedef struct models_desc {
    const char *model;
    const models_device *device;
    uint64_t tokens;   /* of a transformer: all of a step */
    uint64_t sequence; /* of these, in one sequence */
    uint64_t images;   /* of a convolutional network */
    int slim;          /* small optimizer states */
    uint64_t ranks[2]; /* how many cards train together, and bytes a second that one gets from the others; 0: this one alone */
    const uint64_t *link; /* bytes a second to the device and back, ns a copy, bytes a second of additions; NULL: the device's */
} models_desc;

/* --- transformers: the figures of the published models */
typedef struct models_lm {
    const char *name;
    uint64_t width, layers, heads, kv_heads, head, ffn, vocab;
    uint64_t positions; /* > 0: a GPT-2 with learned positions, layernorm, gelu and biases; 0: a Llama with RoPE, RMSnorm, swiglu */
    int tied;           /* the head is the embedding */
    int qkv_bias;
} models_lm;

static const models_lm models_lms[] = {
    { "gpt2-124m",     768, 12, 12, 12,  64,  3072,  50257, 1024, 1, 1 },
    { "gpt2-355m",    1024, 24, 16, 16,  64,  4096,  50257, 1024, 1, 1 },
    { "gpt2-774m",    1280, 36, 20, 20,  64,  5120,  50257, 1024, 1, 1 },
    { "gpt2-1.5b",    1600, 48, 25, 25,  64,  6400,  50257, 1024, 1, 1 },
    { "qwen2.5-0.5b",  896, 24, 14,  2,  64,  4864, 151936, 0, 1, 1 },
    { "llama3.2-1b",  2048, 16, 32,  8,  64,  8192, 128256, 0, 1, 0 },
    { "qwen2.5-1.5b", 1536, 28, 12,  2, 128,  8960, 151936, 0, 1, 1 },
    { "llama3.2-3b",  3072, 28, 24,  8, 128,  8192, 128256, 0, 1, 0 },
    { "qwen2.5-3b",   2048, 36, 16,  2, 128, 11008, 151936, 0, 1, 1 },
    { "llama2-7b",    4096, 32, 32, 32, 128, 11008,  32000, 0, 0, 0 },
    { "qwen2.5-7b",   3584, 28, 28,  4, 128, 18944, 152064, 0, 0, 1 },
    { "llama3-8b",    4096, 32, 32,  8, 128, 14336, 128256, 0, 0, 0 },
    { "llama2-13b",   5120, 40, 40, 40, 128, 13824,  32000, 0, 0, 0 },
    { "qwen2.5-14b",  5120, 48, 40,  8, 128, 13824, 152064, 0, 0, 1 },
    { "qwen2.5-32b",  5120, 64, 40,  8, 128, 27648, 152064, 0, 0, 1 },
    { "llama3-70b",   8192, 80, 64,  8, 128, 28672, 128256, 0, 0, 0 },
    { "qwen2.5-72b",  8192, 80, 64,  8, 128, 29568, 152064, 0, 0, 1 },
};

static const char *const models_nets[] = { "resnet50", "resnet101", "densenet121", "vgg16", "unet", "mobilenetv2", "googlenet" };

/* --- kinds: what each backward reads. No callbacks: planned, not run */
static const rm_kind MODELS_EMBED = { .name = "embed", .needs = RM_IN(0) };
static const rm_kind MODELS_NORM = { .name = "norm", .needs = RM_IN(0) | RM_IN(1) | RM_SAVED };
static const rm_kind MODELS_LINEAR = { .name = "linear", .needs = RM_IN(0) | RM_IN(1) };
static const rm_kind MODELS_ROPE = { .name = "rope", .needs = RM_NOTHING, .inplace = RM_IN(0), .over = { { RM_IN(0), RM_DOUT } } };
static const rm_kind MODELS_ATTENTION = { .name = "attention", .needs = RM_IN(0) | RM_OUT(0) | RM_SAVED };
static const rm_kind MODELS_ATTENTION_PIECES[] = {
    { .name = "backward-in-4", .needs = RM_IN(0) | RM_OUT(0) | RM_SAVED },
    { .name = "backward-in-16", .needs = RM_IN(0) | RM_OUT(0) | RM_SAVED },
};
static const rm_kind MODELS_GELU = { .name = "gelu", .needs = RM_IN(0) };
static const rm_kind MODELS_SWIGLU = { .name = "swiglu", .needs = RM_IN(0) };
static const rm_kind MODELS_ADD = { .name = "add", .needs = RM_NOTHING, .inplace = RM_IN(0), .share_grad = RM_IN(0) | RM_IN(1) };
static const rm_kind MODELS_CHUNKED = { .name = "head-and-loss", .needs = RM_IN(0) | RM_IN(1) | RM_IN(2) };
static const rm_kind MODELS_CHUNKED_PIECES[] = {
    { .name = "pieces-of-512", .needs = RM_IN(0) | RM_IN(1) | RM_IN(2) },
    { .name = "pieces-of-128", .needs = RM_IN(0) | RM_IN(1) | RM_IN(2) },
};
static const rm_kind MODELS_LOSS = { .name = "loss", .needs = RM_IN(0) | RM_IN(1) | RM_SAVED, .over = { { RM_IN(0), RM_IN(0) } } };
static const rm_kind MODELS_CONV = { .name = "conv", .needs = RM_IN(0) | RM_IN(1) };
static const rm_kind MODELS_BATCHNORM = { .name = "batchnorm", .needs = RM_IN(0) | RM_IN(1) | RM_SAVED, .mutates = RM_IN(2) };
static const rm_kind MODELS_RELU = { .name = "relu", .needs = RM_OUT(0), .inplace = RM_IN(0), .over = { { RM_IN(0), RM_DOUT } } };
static const rm_kind MODELS_MAXPOOL = { .name = "maxpool", .needs = RM_SAVED };
static const rm_kind MODELS_MEAN = { .name = "mean", .needs = RM_NOTHING };
static const rm_kind MODELS_CONCAT = { .name = "concat", .needs = RM_NOTHING };
static const rm_kind MODELS_DROPOUT = { .name = "dropout", .needs = RM_SAVED, .flags = RM_RNG, .inplace = RM_IN(0), .over = { { RM_IN(0), RM_DOUT } } };

/* --- costs */
#define MODELS_GEMM_SHARE 0.6    /* of the peak that large matrix products reach */
#define MODELS_MEMORY_SHARE 0.8  /* of the bandwidth that streaming kernels reach */
#define MODELS_KERNEL_NS 2000.0
#define MODELS_EXCHANGE_NS 20000 /* between cards, before the first byte */

typedef struct models {
    rm_graph *g;
    const models_device *device;
    int slim;
    const uint64_t *ranks; /* as models_desc.ranks; NULL: none */
    rm_tensor targets;
} models;

/* ns of a kernel that computes and moves so much. */
static uint64_t models_ns(const models *m, double flops, double bytes)
{
    double compute = flops / (m->device->flops * MODELS_GEMM_SHARE), move = bytes / (m->device->bandwidth * MODELS_MEMORY_SHARE);
    return (uint64_t)((compute > move ? compute : move) * 1e9 + MODELS_KERNEL_NS);
}

/* Marks a param as one that the step updates; a plan never calls it. */
static int models_not_run(const rm_call *c)
{
    (void)c;
    return 1;
}

/* AdamW reads gradient, weight and states, and writes the last two. */
static rm_tensor models_param(models *m, const char *op, const char *what, uint64_t count)
{
    char name[128];
    uint64_t state = m->slim ? 4 * count : 12 * count;
    double bytes = 2.0 * (double)count * 3 + 2.0 * (double)state;
    int ranks = m->ranks && m->ranks[0];
    double others = ranks ? 2.0 * (double)count * (1 - 1 / (double)m->ranks[0]) : 0; /* of each gather, scatter */
    snprintf(name, sizeof name, "%s.%s", op, what);
    return RM_PARAM(m->g, .name = name, .bytes = 2 * count, .state_bytes = state, .update = models_not_run, .update_host = models_not_run,
                    .update_ns = models_ns(m, 0, bytes), .update_host_ns = (uint64_t)(bytes / m->device->host * 1e9 + MODELS_KERNEL_NS),
                    .reduce_ns = ranks ? (uint64_t)(2 * others / (double)m->ranks[1] * 1e9) + MODELS_EXCHANGE_NS : 0);
}

/* y[rows][out] = x[rows][in] w + b; the backward is two products of that size. */
static rm_tensor models_linear(models *m, const char *name, rm_tensor x, uint64_t rows, uint64_t in, uint64_t out, int bias)
{
    double flops = 2.0 * (double)rows * (double)in * (double)out, bytes = 2.0 * ((double)rows * (double)(in + out) + (double)in * (double)out);
    rm_tensor w = models_param(m, name, "w", in * out), b = { 0 };
    if (bias) b = models_param(m, name, "b", out);
    return RM_OP(m->g, &MODELS_LINEAR, .name = name, .in = { x, w, b }, .out = { 2 * rows * out },
                 .fwd_ns = models_ns(m, flops, bytes), .bwd_ns = models_ns(m, 2 * flops, 2 * bytes));
}

static rm_tensor models_norm(models *m, const char *name, rm_tensor x, uint64_t rows, uint64_t width, int layernorm)
{
    double bytes = 2.0 * (double)rows * (double)width;
    rm_tensor w = models_param(m, name, "w", width), b = { 0 };
    if (layernorm) b = models_param(m, name, "b", width);
    return RM_OP(m->g, &MODELS_NORM, .name = name, .in = { x, w, b }, .saved = rows * (layernorm ? 8 : 4),
                 .fwd_ns = models_ns(m, 0, 2 * bytes), .bwd_ns = models_ns(m, 0, 4 * bytes));
}

/* Flash attention, causal: half of the score matrix is computed; the backward makes it again (5 products instead of 2) and adds
   up the gradient of the queries in float. Of a Llama, as variants, in 4 or 16 pieces of sequences and heads, so that only a piece
   of that sum is there at a time. */
static rm_tensor models_attention(models *m, const models_lm *a, rm_tensor qkv, uint64_t rows, uint64_t sequence)
{
    uint64_t width = a->heads * a->head, most = rows / sequence * a->kv_heads, i, pieces = 4;
    double flops = 2.0 * (double)rows * (double)sequence * (double)width;
    double bytes = 2.0 * (double)rows * (double)(2 * width + 2 * a->kv_heads * a->head);
    rm_tensor y = RM_OP(m->g, &MODELS_ATTENTION, .name = "attention", .in = { qkv }, .out = { 2 * rows * width },
                        .saved = 4 * rows * a->heads, .bwd_ws = 4 * rows * width,
                        .fwd_ns = models_ns(m, flops, bytes), .bwd_ns = models_ns(m, 2.5 * flops, 3 * bytes));
    for (i = 0; i < 2 && !a->positions && pieces <= most; i++, pieces *= 4) {
        rm_op_desc d = { .bwd_ws = 4 * rows * width / pieces };
        d.bwd_ns = pieces * models_ns(m, 2.5 * flops / (double)pieces, 3 * bytes / (double)pieces);
        rm_variant_add(m->g, y, &MODELS_ATTENTION_PIECES[i], &d);
    }
    return y;
}

static rm_tensor models_add(models *m, const char *name, rm_tensor y, rm_tensor x)
{
    double bytes = (double)rm_tensor_bytes(m->g, x);
    return RM_OP(m->g, &MODELS_ADD, .name = name, .in = { y, x }, .fwd_ns = models_ns(m, 0, 3 * bytes), .bwd_ns = models_ns(m, 0, 2 * bytes));
}

static rm_tensor models_layer(models *m, const models_lm *a, rm_tensor x, uint64_t rows, uint64_t sequence)
{
    uint64_t q = a->heads * a->head, kv = a->kv_heads * a->head;
    int gpt = a->positions > 0;
    rm_tensor y;
    rm_block_begin(m->g, "h");
    y = models_norm(m, "norm1", x, rows, a->width, gpt);
    y = models_linear(m, "qkv", y, rows, a->width, q + 2 * kv, a->qkv_bias);
    if (!gpt) {
        double bytes = 4.0 * (double)rows * (double)(q + kv);
        y = RM_OP(m->g, &MODELS_ROPE, .name = "rope", .in = { y }, .fwd_ns = models_ns(m, 0, bytes), .bwd_ns = models_ns(m, 0, bytes));
    }
    y = models_attention(m, a, y, rows, sequence);
    y = models_linear(m, "proj", y, rows, q, a->width, gpt);
    x = models_add(m, "residual1", y, x);
    y = models_norm(m, "norm2", x, rows, a->width, gpt);
    y = models_linear(m, gpt ? "fc" : "gate-up", y, rows, a->width, gpt ? a->ffn : 2 * a->ffn, gpt);
    if (gpt) {
        double bytes = 2.0 * (double)rows * (double)a->ffn;
        y = RM_OP(m->g, &MODELS_GELU, .name = "gelu", .in = { y }, .fwd_ns = models_ns(m, 0, 2 * bytes), .bwd_ns = models_ns(m, 0, 3 * bytes));
    } else {
        double bytes = 2.0 * (double)rows * (double)a->ffn;
        y = RM_OP(m->g, &MODELS_SWIGLU, .name = "swiglu", .in = { y }, .out = { 2 * rows * a->ffn },
                  .fwd_ns = models_ns(m, 0, 3 * bytes), .bwd_ns = models_ns(m, 0, 5 * bytes));
    }
    y = models_linear(m, "down", y, rows, a->ffn, a->width, gpt);
    x = models_add(m, "residual2", y, x);
    rm_block_end(m->g);
    return x;
}

/* Costs of a head and a loss in pieces of so many rows: no more than a piece of the logits ever exists, and the backward makes them
   again. Each piece reads the weights (twice in the backward, which reads and writes their gradient, too). */
static rm_op_desc models_pieces(const models *m, const models_lm *a, uint64_t rows, uint64_t piece)
{
    uint64_t n = (rows + piece - 1) / piece;
    double size = (double)a->width * (double)a->vocab, flops = 2.0 * (double)piece * size, bytes = 2.0 * (double)piece * (double)a->vocab;
    rm_op_desc d = { .fwd_ws = 2 * piece * a->vocab, .bwd_ws = 2 * piece * a->vocab };
    d.fwd_ns = n * models_ns(m, flops, 2 * bytes + 2 * size);
    d.bwd_ns = n * models_ns(m, 3 * flops, 4 * bytes + 8 * size);
    return d;
}

/* The head and the loss: of a Llama in pieces, as variants in smaller ones. A GPT-2 keeps its logits, which its loss's gradient takes
   over. */
static rm_tensor models_head(models *m, const models_lm *a, rm_tensor x, rm_tensor wte, uint64_t rows)
{
    uint64_t piece = rows < 2048 ? rows : 2048, logits = 2 * rows * a->vocab, i;
    double flops = 2.0 * (double)rows * (double)a->width * (double)a->vocab, bytes = (double)logits;
    rm_tensor w = a->tied ? wte : models_param(m, "head", "w", a->vocab * a->width);
    if (!a->positions) {
        rm_op_desc d = models_pieces(m, a, rows, piece);
        d.name = "loss";
        d.in[0] = x;
        d.in[1] = w;
        d.in[2] = m->targets;
        d.out[0] = 4;
        x = rm_op_add(m->g, &MODELS_CHUNKED, &d);
        for (i = 0, piece = 512; i < 2 && piece < rows; i++, piece /= 4) {
            d = models_pieces(m, a, rows, piece);
            rm_variant_add(m->g, x, &MODELS_CHUNKED_PIECES[i], &d);
        }
        return x;
    }
    x = RM_OP(m->g, &MODELS_LINEAR, .name = "head", .in = { x, w }, .out = { logits }, .fwd_ns = models_ns(m, flops, bytes), .bwd_ns = models_ns(m, 2 * flops, 2 * bytes));
    return RM_OP(m->g, &MODELS_LOSS, .name = "loss", .in = { x, m->targets }, .out = { 4 }, .saved = 4 * rows,
                 .fwd_ns = models_ns(m, 0, bytes), .bwd_ns = models_ns(m, 0, 2 * bytes));
}

static void models_lm_build(models *m, const models_lm *a, uint64_t rows, uint64_t sequence)
{
    rm_tensor tokens = rm_input_add(m->g, "tokens", 4 * rows, 0), wte, wpe = { 0 }, x;
    double bytes = 2.0 * (double)rows * (double)a->width;
    uint64_t i;
    m->targets = rm_input_add(m->g, "targets", 4 * rows, 0);
    wte = models_param(m, "embed", "wte", a->vocab * a->width);
    if (a->positions) wpe = models_param(m, "embed", "wpe", a->positions * a->width);
    x = RM_OP(m->g, &MODELS_EMBED, .name = "embed", .in = { tokens, wte, wpe }, .out = { 2 * rows * a->width },
              .fwd_ns = models_ns(m, 0, 2 * bytes), .bwd_ns = models_ns(m, 0, 3 * bytes));
    for (i = 0; i < a->layers; i++) x = models_layer(m, a, x, rows, sequence);
    x = models_norm(m, "norm", x, rows, a->width, a->positions > 0);
    rm_output_add(m->g, models_head(m, a, x, wte, rows));
}

/* --- convolutional networks */
typedef struct models_map { /* images x channels x height x width */
    rm_tensor t;
    uint64_t n, c, h, w;
} models_map;

static double models_elements(models_map x) { return (double)(x.n * x.c) * (double)(x.h * x.w); }
static uint64_t models_map_bytes(models_map x) { return 2 * x.n * x.c * x.h * x.w; }

typedef struct models_filter {
    uint64_t channels, size, stride, groups;
    int bias;
} models_filter;

static models_map models_conv(models *m, const char *name, models_map x, models_filter f)
{
    models_map y = x;
    uint64_t in = x.c / f.groups, weights = f.channels * in * f.size * f.size;
    rm_tensor w = models_param(m, name, "w", weights), b = { 0 };
    double flops, bytes;
    if (f.bias) b = models_param(m, name, "b", f.channels);
    y.c = f.channels;
    y.h = (x.h + f.stride - 1) / f.stride;
    y.w = (x.w + f.stride - 1) / f.stride;
    flops = 2 * models_elements(y) * (double)(in * f.size * f.size);
    bytes = 2 * (models_elements(x) + models_elements(y) + (double)weights);
    y.t = RM_OP(m->g, &MODELS_CONV, .name = name, .in = { x.t, w, b }, .out = { models_map_bytes(y) },
                .fwd_ns = models_ns(m, flops, bytes), .bwd_ns = models_ns(m, 2 * flops, 2 * bytes));
    return y;
}

static models_map models_relu(models *m, const char *name, models_map x)
{
    double bytes = 2 * models_elements(x);
    x.t = RM_OP(m->g, &MODELS_RELU, .name = name, .in = { x.t }, .fwd_ns = models_ns(m, 0, 2 * bytes), .bwd_ns = models_ns(m, 0, 3 * bytes));
    return x;
}

/* Batch norm with running statistics. */
static models_map models_norm2d(models *m, const char *name, models_map x)
{
    rm_tensor w, b, running;
    double bytes = 2 * models_elements(x);
    char part[64];
    snprintf(part, sizeof part, "%s.bn", name);
    w = models_param(m, part, "w", x.c);
    b = models_param(m, part, "b", x.c);
    snprintf(part, sizeof part, "%s.running", name);
    running = rm_const_add(m->g, part, 8 * x.c, 0);
    snprintf(part, sizeof part, "%s.bn", name);
    x.t = RM_OP(m->g, &MODELS_BATCHNORM, .name = part, .in = { x.t, w, running, b }, .saved = 8 * x.c,
                .fwd_ns = models_ns(m, 0, 3 * bytes), .bwd_ns = models_ns(m, 0, 5 * bytes));
    return x;
}

/* Convolution, batch norm and (if wanted) relu: the brick of most of these networks. */
static models_map models_brick(models *m, const char *name, models_map x, uint64_t channels, uint64_t size, uint64_t stride, uint64_t groups, int relu)
{
    models_filter f = { channels, size, stride, groups, 0 };
    char part[64];
    x = models_norm2d(m, name, models_conv(m, name, x, f));
    snprintf(part, sizeof part, "%s.relu", name);
    return relu ? models_relu(m, part, x) : x;
}

/* A pooling leaves the place of each maximum, a byte an element. */
static models_map models_pool(models *m, const char *name, models_map x, uint64_t size, uint64_t stride)
{
    models_map y = x;
    double bytes = 2 * models_elements(x);
    (void)size;
    y.h = (x.h + stride - 1) / stride;
    y.w = (x.w + stride - 1) / stride;
    y.t = RM_OP(m->g, &MODELS_MAXPOOL, .name = name, .in = { x.t }, .out = { models_map_bytes(y) }, .saved = models_map_bytes(y) / 2,
                .fwd_ns = models_ns(m, 0, bytes + 2 * models_elements(y)), .bwd_ns = models_ns(m, 0, bytes + 2 * models_elements(y)));
    return y;
}

static models_map models_concat(models *m, const char *name, const models_map *x, int n)
{
    models_map y = x[0];
    rm_op_desc d = { .name = name };
    int i;
    for (i = 1; i < n; i++) y.c += x[i].c;
    for (i = 0; i < n; i++) d.in[i] = x[i].t;
    d.out[0] = models_map_bytes(y);
    d.fwd_ns = d.bwd_ns = models_ns(m, 0, 4 * models_elements(y));
    y.t = rm_op_add(m->g, &MODELS_CONCAT, &d);
    return y;
}

static rm_tensor models_dropout(models *m, const char *name, rm_tensor x)
{
    double bytes = (double)rm_tensor_bytes(m->g, x);
    return RM_OP(m->g, &MODELS_DROPOUT, .name = name, .in = { x }, .saved = rm_tensor_bytes(m->g, x) / 16 + 1,
                 .fwd_ns = models_ns(m, 0, 2 * bytes), .bwd_ns = models_ns(m, 0, 2 * bytes));
}

static void models_loss(models *m, rm_tensor logits, uint64_t rows)
{
    double bytes = (double)rm_tensor_bytes(m->g, logits);
    rm_output_add(m->g, RM_OP(m->g, &MODELS_LOSS, .name = "loss", .in = { logits, m->targets }, .out = { 4 }, .saved = 4 * rows,
                              .fwd_ns = models_ns(m, 0, bytes), .bwd_ns = models_ns(m, 0, 2 * bytes)));
}

/* Mean over the image, then a linear layer to 1,000 classes. */
static void models_classify(models *m, models_map x, int dropout)
{
    double bytes = 2 * models_elements(x);
    rm_tensor y = RM_OP(m->g, &MODELS_MEAN, .name = "mean", .in = { x.t }, .out = { 2 * x.n * x.c }, .fwd_ns = models_ns(m, 0, bytes), .bwd_ns = models_ns(m, 0, bytes));
    if (dropout) y = models_dropout(m, "dropout", y);
    models_loss(m, models_linear(m, "classes", y, x.n, x.c, 1000, 1), x.n);
}

/* ResNet-50 and -101 (arXiv 1512.03385; `third`: bottleneck blocks of the third stage, 6 or 23), the stride in the 3 x 3
   convolution. */
static void models_resnet(models *m, models_map x, uint64_t third)
{
    uint64_t depth[] = { 3, 4, 6, 3 }, s, b;
    depth[2] = third;
    x = models_brick(m, "stem", x, 64, 7, 2, 1, 1);
    x = models_pool(m, "pool", x, 3, 2);
    for (s = 0; s < 4; s++)
        for (b = 0; b < depth[s]; b++) {
            uint64_t c = (uint64_t)64 << s, stride = s && !b ? 2 : 1;
            models_map y;
            rm_block_begin(m->g, "block");
            y = models_brick(m, "c1", x, c, 1, 1, 1, 1);
            y = models_brick(m, "c2", y, c, 3, stride, 1, 1);
            y = models_brick(m, "c3", y, 4 * c, 1, 1, 1, 0);
            if (!b) x = models_brick(m, "shortcut", x, 4 * c, 1, stride, 1, 0);
            y.t = models_add(m, "add", y.t, x.t);
            x = models_relu(m, "relu", y);
            rm_block_end(m->g);
        }
    models_classify(m, x, 0);
}

/* The mean of each 2 x 2 square. */
static models_map models_halve(models *m, const char *name, models_map x)
{
    models_map y = x;
    double bytes = 2 * models_elements(x);
    y.h /= 2;
    y.w /= 2;
    y.t = RM_OP(m->g, &MODELS_MEAN, .name = name, .in = { x.t }, .out = { models_map_bytes(y) }, .fwd_ns = models_ns(m, 0, bytes),
                .bwd_ns = models_ns(m, 0, bytes));
    return y;
}

/* Batch norm, relu, convolution: DenseNet's order. */
static models_map models_preact(models *m, const char *name, models_map x, uint64_t channels, uint64_t size)
{
    models_filter f = { channels, size, 1, 1, 0 };
    char part[64];
    x = models_norm2d(m, name, x);
    snprintf(part, sizeof part, "%s.relu", name);
    x = models_relu(m, part, x);
    return models_conv(m, name, x, f);
}

/* DenseNet-121 (arXiv 1608.06993): growth 32, each layer reads what all before it in its block have made, side by side. */
static void models_densenet121(models *m, models_map x)
{
    static const uint64_t depth[] = { 6, 12, 24, 16 };
    uint64_t s, b;
    x = models_brick(m, "stem", x, 64, 7, 2, 1, 1);
    x = models_pool(m, "pool", x, 3, 2);
    for (s = 0; s < 4; s++) {
        for (b = 0; b < depth[s]; b++) {
            models_map pair[2];
            rm_block_begin(m->g, "layer");
            pair[0] = x;
            pair[1] = models_preact(m, "c1", x, 128, 1);
            pair[1] = models_preact(m, "c2", pair[1], 32, 3);
            x = models_concat(m, "concat", pair, 2);
            rm_block_end(m->g);
        }
        if (s == 3) break;
        rm_block_begin(m->g, "transition");
        x = models_preact(m, "half", x, x.c / 2, 1);
        x = models_halve(m, "pool", x);
        rm_block_end(m->g);
    }
    x = models_norm2d(m, "last", x);
    models_classify(m, models_relu(m, "last.relu", x), 0);
}

/* VGG-16 (arXiv 1409.1556). */
static void models_vgg16(models *m, models_map x)
{
    static const uint64_t convs[] = { 2, 2, 3, 3, 3 }, channels[] = { 64, 128, 256, 512, 512 };
    uint64_t s, k;
    rm_tensor y;
    for (s = 0; s < 5; s++) {
        rm_block_begin(m->g, "stage");
        for (k = 0; k < convs[s]; k++) {
            models_filter f = { channels[s], 3, 1, 1, 1 };
            char name[16];
            snprintf(name, sizeof name, "conv%u", (unsigned)k);
            x = models_conv(m, name, x, f);
            snprintf(name, sizeof name, "relu%u", (unsigned)k);
            x = models_relu(m, name, x);
        }
        x = models_pool(m, "pool", x, 2, 2);
        rm_block_end(m->g);
    }
    y = x.t;
    for (k = 0; k < 2; k++) {
        models_map z = { { 0 }, x.n, 4096, 1, 1 };
        char name[16];
        snprintf(name, sizeof name, "fc%u", (unsigned)k);
        z.t = models_linear(m, name, y, x.n, k ? 4096 : x.c * x.h * x.w, 4096, 1);
        snprintf(name, sizeof name, "fc%u.relu", (unsigned)k);
        z = models_relu(m, name, z);
        snprintf(name, sizeof name, "fc%u.drop", (unsigned)k);
        y = models_dropout(m, name, z.t);
    }
    models_loss(m, models_linear(m, "classes", y, x.n, 4096, 1000, 1), x.n);
}

/* U-Net (arXiv 1505.04597) with batch norm and padded convolutions; learned up-convolutions; two classes a pixel. */
static void models_unet(models *m, models_map x)
{
    models_map skip[4], pair[2];
    uint64_t d, k;
    for (d = 0; d < 5; d++) {
        uint64_t c = (uint64_t)64 << d;
        rm_block_begin(m->g, "down");
        if (d) x = models_pool(m, "pool", skip[d - 1], 2, 2);
        x = models_brick(m, "c1", x, c, 3, 1, 1, 1);
        x = models_brick(m, "c2", x, c, 3, 1, 1, 1);
        if (d < 4) skip[d] = x;
        rm_block_end(m->g);
    }
    for (k = 0; k < 4; k++) {
        uint64_t c = (uint64_t)512 >> k;
        models_map y = skip[3 - k];
        rm_tensor w, b;
        double flops, bytes;
        rm_block_begin(m->g, "up");
        w = models_param(m, "grow", "w", x.c * c * 4);
        b = models_param(m, "grow", "b", c);
        flops = 2 * models_elements(y) * (double)x.c;
        bytes = 2 * (models_elements(x) + models_elements(y));
        pair[0] = y;
        pair[1] = y;
        pair[1].t = RM_OP(m->g, &MODELS_CONV, .name = "grow", .in = { x.t, w, b }, .out = { models_map_bytes(y) },
                          .fwd_ns = models_ns(m, flops, bytes), .bwd_ns = models_ns(m, 2 * flops, 2 * bytes));
        x = models_concat(m, "concat", pair, 2);
        x = models_brick(m, "c1", x, c, 3, 1, 1, 1);
        x = models_brick(m, "c2", x, c, 3, 1, 1, 1);
        rm_block_end(m->g);
    }
    {
        models_filter f = { 2, 1, 1, 1, 1 };
        x = models_conv(m, "classes", x, f);
        models_loss(m, x.t, x.n * x.h * x.w);
    }
}

/* MobileNetV2 (arXiv 1801.04381). */
static void models_mobilenetv2(models *m, models_map x)
{
    static const uint64_t stage[][4] = { { 1, 16, 1, 1 }, { 6, 24, 2, 2 }, { 6, 32, 3, 2 }, { 6, 64, 4, 2 }, { 6, 96, 3, 1 }, { 6, 160, 3, 2 }, { 6, 320, 1, 1 } };
    uint64_t s, k;
    x = models_brick(m, "stem", x, 32, 3, 2, 1, 1);
    for (s = 0; s < 7; s++)
        for (k = 0; k < stage[s][2]; k++) {
            models_map y = x;
            uint64_t wide = x.c * stage[s][0];
            rm_block_begin(m->g, "block");
            if (stage[s][0] > 1) y = models_brick(m, "expand", y, wide, 1, 1, 1, 1);
            y = models_brick(m, "depthwise", y, wide, 3, k ? 1 : stage[s][3], wide, 1);
            y = models_brick(m, "project", y, stage[s][1], 1, 1, 1, 0);
            if (k) y.t = models_add(m, "add", y.t, x.t);
            x = y;
            rm_block_end(m->g);
        }
    x = models_brick(m, "last", x, 1280, 1, 1, 1, 1);
    models_classify(m, x, 1);
}

/* GoogLeNet (arXiv 1409.4842) with batch norm and without the auxiliary heads; 3 x 3 in place of 5 x 5, as is usual. */
static void models_googlenet(models *m, models_map x)
{
    static const uint64_t size[][6] = { { 64, 96, 128, 16, 32, 32 }, { 128, 128, 192, 32, 96, 64 }, { 192, 96, 208, 16, 48, 64 },
                                        { 160, 112, 224, 24, 64, 64 }, { 128, 128, 256, 24, 64, 64 }, { 112, 144, 288, 32, 64, 64 },
                                        { 256, 160, 320, 32, 128, 128 }, { 256, 160, 320, 32, 128, 128 }, { 384, 192, 384, 48, 128, 128 } };
    uint64_t k;
    x = models_brick(m, "conv1", x, 64, 7, 2, 1, 1);
    x = models_pool(m, "pool1", x, 3, 2);
    x = models_brick(m, "conv2", x, 64, 1, 1, 1, 1);
    x = models_brick(m, "conv3", x, 192, 3, 1, 1, 1);
    x = models_pool(m, "pool2", x, 3, 2);
    for (k = 0; k < 9; k++) {
        models_map way[4];
        if (k == 2 || k == 7) x = models_pool(m, k == 2 ? "pool3" : "pool4", x, 3, 2);
        rm_block_begin(m->g, "inception");
        way[0] = models_brick(m, "one", x, size[k][0], 1, 1, 1, 1);
        way[1] = models_brick(m, "three.reduce", x, size[k][1], 1, 1, 1, 1);
        way[1] = models_brick(m, "three", way[1], size[k][2], 3, 1, 1, 1);
        way[2] = models_brick(m, "five.reduce", x, size[k][3], 1, 1, 1, 1);
        way[2] = models_brick(m, "five", way[2], size[k][4], 3, 1, 1, 1);
        way[3] = models_pool(m, "pool", x, 3, 1);
        way[3] = models_brick(m, "pool.project", way[3], size[k][5], 1, 1, 1, 1);
        x = models_concat(m, "concat", way, 4);
        rm_block_end(m->g);
    }
    models_classify(m, x, 1);
}

static int models_net_build(models *m, const char *name, uint64_t images)
{
    models_map x = { { 0 }, images, 3, 224, 224 };
    if (!strcmp(name, "unet")) x.h = 416, x.w = 608;
    x.t = rm_input_add(m->g, "images", models_map_bytes(x), 0);
    m->targets = rm_input_add(m->g, "targets", 4 * images * (strcmp(name, "unet") ? 1 : x.h * x.w), 0);
    if (!strcmp(name, "resnet50")) models_resnet(m, x, 6);
    else if (!strcmp(name, "resnet101")) models_resnet(m, x, 23);
    else if (!strcmp(name, "densenet121")) models_densenet121(m, x);
    else if (!strcmp(name, "vgg16")) models_vgg16(m, x);
    else if (!strcmp(name, "unet")) models_unet(m, x);
    else if (!strcmp(name, "mobilenetv2")) models_mobilenetv2(m, x);
    else if (!strcmp(name, "googlenet")) models_googlenet(m, x);
    else return 0;
    return 1;
}

/* --- by name */
static const models_device *models_device_find(const char *name)
{
    size_t i;
    for (i = 0; i < sizeof models_devices / sizeof models_devices[0]; i++)
        if (!strcmp(models_devices[i].name, name)) return &models_devices[i];
    return NULL;
}

/* The graph of d->model, to be destroyed by the caller; NULL if there is no such model, or no memory. A tensor beyond 2^62
   bytes is an error in rm_graph_result, as of any graph; tokens that are no whole sequences only give other times. */
static rm_graph *models_build(const models_desc *d)
{
    models m = { NULL, d->device ? d->device : &models_devices[0], d->slim, d->ranks, { 0 } };
    size_t i;
    int known = 0;
    m.g = rm_graph_create(NULL);
    if (!m.g) return NULL;
    if (d->ranks[0]) rm_graph_ranks(m.g, (uint32_t)d->ranks[0], d->ranks[1], MODELS_EXCHANGE_NS, 256);
    if (d->link) rm_graph_link(m.g, d->link[0], d->link[1], d->link[2], d->link[3]);
    else if (m.device->link > 0) rm_graph_link(m.g, (uint64_t)m.device->link, (uint64_t)m.device->link, 10000, (uint64_t)(m.device->host / 3));
    for (i = 0; i < sizeof models_lms / sizeof models_lms[0]; i++)
        if (!strcmp(models_lms[i].name, d->model)) {
            uint64_t tokens = d->tokens ? d->tokens : 8192, most = models_lms[i].positions ? models_lms[i].positions : 2048;
            uint64_t sequence = d->sequence ? d->sequence : tokens < most ? tokens : most;
            models_lm_build(&m, &models_lms[i], tokens, sequence);
            known = 1;
        }
    if (!known) known = models_net_build(&m, d->model, d->images ? d->images : 32);
    if (!known) {
        rm_graph_destroy(m.g);
        m.g = NULL;
    }
    return m.g;
}

#endif
