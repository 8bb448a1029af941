/* llmc.cu - trains llm.c's GPT-2 with llm.c's own kernels, in a memory budget (examples/cuda/from_llmc.md)

   Build:  nvcc -O3 -std=c++17 --use_fast_math -arch=native -isystem LLMC -o llmc_port examples/cuda/llmc.cu -lcublas -lcublasLt
           LLMC: a checkout of github.com/karpathy/llm.c, in which no line is changed and of which nothing is copied here
   Run:    ./llmc_port -e d12 -i "LLMC/dev/data/tinyshakespeare/tiny_shakespeare_train.bin" --budget 50%      (--help lists the options)

   Weights, gradients and activations are bf16, master weights and moments float. The options of one letter are llm.c's. */

#define ROCKMATE_THREADS /* pins host memory by several */
#define ROCKMATE_IMPLEMENTATION
#define ROCKMATE_CUDA_IMPLEMENTATION
#include "../../rockmate_cuda.h"
#include "../stories.h"

#include "llmc_cuda13.h"
#include "llmc/utils.h"
#include "llmc/dataloader.h"
#include "llmc/rand.h"
#include "llmc/schedulers.h"
#include "llmc/outlier_detector.h"

/* What llm.c checks after a launch ends the process; here it ends the callback, so that the library names the op, and lives. */
struct failed_check {};
#define exit(status) throw failed_check()
#include "llmc/cuda_common.h"
#include "llmc/cuda_utils.cuh"

/* The seed of the encoder's rounding is an argument, which a CUDA graph keeps: what makes it another one in each step, kernels read. */
__device__ const rm_step *step_here;
__device__ static unsigned seed_of_step(unsigned seed) { return seed + (unsigned)rm_seed(step_here, 0); }
#define stochastic_rounding(in, out, seed) stochastic_rounding(in, out, seed_of_step(seed))
#include "llmc/encoder.cuh"
#undef stochastic_rounding

#include "llmc/layernorm.cuh"
#include "llmc/matmul.cuh"
#ifdef ENABLE_CUDNN
#include "llmc/cudnn_att.h"
#else
#ifndef LLMC_AS_IT_IS
/* One launch there names no stream, and so goes to the legacy one. This gives it the stream that its function has. */
#define dim3(x, y)                                                     \
    dim3(x, y), 256, 0, stream >>> (datt, att, B, T, C, scale);        \
    if (0) softmax_autoregressive_backward_inplace_kernel <<< dim3(x, y)
#endif
#include "llmc/attention.cuh"
#undef dim3
#endif
#include "llmc/fused_classifier.cuh"
#include "llmc/adamw.cuh"
#include "llmc/global_norm.cuh"
#undef exit

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

cudaDeviceProp deviceProp; /* llm.c's launchers ask it */

enum { TENSORS = 16, MOST_LAYERS = 128, MOST_SUMS = 1024 };

/* llm.c's sixteen tensors, in the order of its files. */
static const struct { const char *name; int layered, matrix; } TENSOR[TENSORS] = {
    { "wte", 0, 1 }, { "wpe", 0, 1 }, { "ln1.w", 1, 0 }, { "ln1.b", 1, 0 }, { "qkv.w", 1, 1 }, { "qkv.b", 1, 0 }, { "attproj.w", 1, 1 }, { "attproj.b", 1, 0 },
    { "ln2.w", 1, 0 }, { "ln2.b", 1, 0 }, { "fc.w", 1, 1 }, { "fc.b", 1, 0 }, { "fcproj.w", 1, 1 }, { "fcproj.b", 1, 0 }, { "lnf.w", 0, 0 }, { "lnf.b", 0, 0 } };
enum { WTE, WPE, LN1W, LN1B, QKVW, QKVB, ATTPROJW, ATTPROJB, LN2W, LN2B, FCW, FCB, FCPROJW, FCPROJB, LNFW, LNFB };

typedef struct options {
    const char *model, *data, *save, *load, *schedule, *preset, *make_tokens;
    int B, T, accumulate, steps, warmup, gelu_fusion;
    float lr, final_lr, decay, skip_loss, skip_norm;
    uint64_t budget, host;
    double percent; /* of what keeping everything takes, if budget is 0 */
    int pieces, streams, untuned, check, quiet;
} options;

/* What a step finds out on the device: outside of the arena, some kilobytes. */
typedef struct findings {
    float norm, scale, loss; /* of all gradients; what they are multiplied by; of the micro-batches so far */
    float sums[MOST_SUMS];
} findings;

/* Memory of the host, pinned: kernels write norms there; what a host function amid a step is told, and what it decides. */
enum { NORMS = 4 }; /* no more than two steps are in flight */
typedef struct told {
    float norm[NORMS]; /* by step */
    struct {
        float norm, scale, loss;
    } found;
    uint32_t skip;
} told;

typedef struct port {
    options o;
    int max_t, vocab, padded, layers, heads, channels, groups; /* groups of channels, of the encoder's backward */
    rm_graph *graph;
    rm_plan *plan;
    rm_exec *exec;
    rm_cuda *cuda;
    rm_tensor weight[TENSORS][MOST_LAYERS];
    rm_tensor tokens, targets, buckets, items, loss;
    findings *found;
    told *told;
    OutlierDetector losses, norms;
    DataLoader loader;
    LearningRateScheduler schedule;
    int4 *bucket;      /* of the batch at hand */
    int *item, *count;
    std::vector<int> *order;
    double plan_s, tune_s;
    double sum, mean, first;   /* losses of a step as far as they are had; of the last step that is had, of the first */
    int64_t had, first_step;   /* micro-batches; where a training that is gone on with begins */
} port;

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "llmc: %s%s%s\n", what, *why ? ": " : "", why);
    exit(1);
}
static void need(port *p, rm_result r, const char *what)
{
    const char *why[3] = { rm_exec_error(p->exec), rm_graph_error(p->graph), rm_cuda_error(p->cuda) };
    if (r != RM_OK) fail(what, *why[0] ? why[0] : *why[1] ? why[1] : why[2]);
}
static double seconds(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* =====================================================================================================================
   Callbacks: a call of llm.c's each, on the stream of the step.
   ================================================================================================================== */
static const port *of(const rm_call *c) { return (const port *)c->user; }
static cudaStream_t on(const rm_call *c) { return (cudaStream_t)c->stream; }
#define SIZES of(c)->o.B, of(c)->o.T
static int rows_of(const rm_call *c) { return of(c)->o.B * of(c)->o.T; }
template <rm_fn CALL> static int caught(const rm_call *c)
{
    try {
        return CALL(c);
    } catch (const failed_check &) {
        return 1;
    }
}

/* in: tokens, wte, wpe, buckets, items. The backward's launches are here, not encoder_backward: that sorts tokens into buckets in the
   middle of it, and how many there are is then the size of a grid. Here there are as many as there can be, empty ones at the end. */
static int encode_fwd(const rm_call *c)
{
    encoder_forward(rm_out<floatX>(c, 0), rm_in<const int>(c, 0), rm_in<const floatX>(c, 1), rm_in<const floatX>(c, 2), SIZES, of(c)->channels, on(c));
    return 0;
}
static int encode_bwd(const rm_call *c)
{
    const port *p = of(c);
    const int T = p->o.T, C = p->channels;
    const floatX *dout = rm_dout<const floatX>(c, 0);
    const int *tokens = rm_in<const int>(c, 0);
    wpe_backward_kernel<<<CEIL_DIV(T * C / (int)x128::size, 256), 256, 0, on(c)>>>(rm_din<floatX>(c, 2), dout, tokens, p->o.B, T, C, (unsigned)c->seed_key);
    wte_backward_kernel<256><<<rows_of(c) * p->groups, 256, 0, on(c)>>>(rm_din<floatX>(c, 1), rm_in<const int4>(c, 3), rm_in<const int>(c, 4), dout, tokens,
                                                                       (unsigned)c->seed_key + 1, p->o.B, T, C);
    return 0;
}

/* What layernorm_backward wants. */
static uint64_t norm_ws(const port *p) { return (32 + 2 * (uint64_t)p->channels * 2 * (uint64_t)deviceProp.multiProcessorCount) * sizeof(float); }

/* in: x, w, b; out: y, and mean and rstd, which the kernel always writes: so they are an output and not what is saved. */
static int norm_fwd(const rm_call *c)
{
    float *mean = rm_out<float>(c, 1);
    layernorm_forward(rm_out<floatX>(c, 0), mean, mean + rows_of(c), rm_in<floatX>(c, 0), rm_in<const floatX>(c, 1), rm_in<const floatX>(c, 2), SIZES, of(c)->channels, on(c));
    return 0;
}
static int norm_bwd(const rm_call *c)
{
    const float *mean = rm_out<const float>(c, 1);
    layernorm_backward(rm_din<floatX>(c, 0), rm_din<floatX>(c, 1), rm_din<floatX>(c, 2), (float *)c->ws, rm_dout<const floatX>(c, 0), rm_in<const floatX>(c, 0),
                       rm_in<const floatX>(c, 1), mean, mean + rows_of(c), SIZES, of(c)->channels, on(c));
    return 0;
}

/* Residual and norm in one. in: x, y, w, b; out: their sum, its norm, mean and rstd. Both gradients are that of the sum and what the norm
   adds: in a step they are one, which lies over dout; rm_cuda_tune may want them apart. */
static int resnorm_fwd(const rm_call *c)
{
    float *mean = rm_out<float>(c, 2);
    fused_residual_forward5(rm_out<floatX>(c, 0), rm_out<floatX>(c, 1), mean, mean + rows_of(c), rm_in<const floatX>(c, 0), rm_in<const floatX>(c, 1),
                            rm_in<const floatX>(c, 2), rm_in<const floatX>(c, 3), rows_of(c), of(c)->channels, on(c));
    return 0;
}
static int resnorm_bwd(const rm_call *c)
{
    const int C = of(c)->channels;
    const float *mean = rm_out<const float>(c, 2);
    floatX *dw = rm_din<floatX>(c, 2), *db = rm_din<floatX>(c, 3), *rest = (floatX *)((char *)c->ws + norm_ws(of(c)));
    uint32_t i;
    for (i = 0; i < 2; i++) {
        floatX *dx = rm_din<floatX>(c, i);
        if (!dx) continue;
        if (c->dout[0] && RM_ADDS(c, i)) residual_forward(dx, dx, rm_dout<const floatX>(c, 0), rows_of(c) * C, on(c));
        else if (c->dout[0] && c->dout[0] != dx) cudaMemcpyAsync(dx, c->dout[0], c->out_bytes[0], cudaMemcpyDeviceToDevice, on(c));
        else if (!c->dout[0] && !RM_ADDS(c, i)) cudaMemsetAsync(dx, 0, c->out_bytes[0], on(c)); /* nobody but the norm reads the sum */
        layernorm_backward(dx, dw, db, (float *)c->ws, rm_dout<const floatX>(c, 1), rm_out<const floatX>(c, 0), rm_in<const floatX>(c, 2), mean, mean + rows_of(c), SIZES, C, on(c));
        dw = rest; /* they have been added to */
        db = rest + C;
    }
    return 0;
}

/* in: x, w, b; arg: channels in, channels out. */
static int matmul_fwd(const rm_call *c)
{
    matmul_forward_cublaslt(rm_out<floatX>(c, 0), rm_in<floatX>(c, 0), rm_in<floatX>(c, 1), rm_in<floatX>(c, 2), SIZES, (int)c->arg[0], (int)c->arg[1], on(c));
    return 0;
}
static int matmul_bwd(const rm_call *c) /* of fc, too */
{
    matmul_backward(rm_din<floatX>(c, 0), rm_din<floatX>(c, 1), rm_din<floatX>(c, 2), rm_dout<floatX>(c, 0), rm_in<floatX>(c, 0), rm_in<floatX>(c, 1),
                    (float *)c->ws, SIZES, (int)c->arg[0], (int)c->arg[1], on(c));
    return 0;
}

/* fc: out: before gelu, and behind it; only the first has a gradient. fcproj: in: before gelu, w, b, behind it. */
static int fc_fwd(const rm_call *c)
{
    matmul_forward_cublaslt(rm_out<floatX>(c, 1), rm_in<floatX>(c, 0), rm_in<floatX>(c, 1), rm_in<floatX>(c, 2), SIZES, (int)c->arg[0], (int)c->arg[1], on(c),
                            rm_out<floatX>(c, 0), of(c)->o.gelu_fusion);
    return 0;
}
static int fcproj_fwd(const rm_call *c)
{
    matmul_forward_cublaslt(rm_out<floatX>(c, 0), rm_in<floatX>(c, 3), rm_in<floatX>(c, 1), rm_in<floatX>(c, 2), SIZES, (int)c->arg[0], (int)c->arg[1], on(c));
    return 0;
}
static int fcproj_with(const rm_call *c, floatX *gelu)
{
    matmul_backward(rm_din<floatX>(c, 0), rm_din<floatX>(c, 1), rm_din<floatX>(c, 2), rm_dout<floatX>(c, 0), gelu, rm_in<floatX>(c, 1), (float *)c->ws, SIZES,
                    (int)c->arg[0], (int)c->arg[1], on(c), rm_in<floatX>(c, 0), of(c)->o.gelu_fusion);
    return 0;
}
static int fcproj_bwd(const rm_call *c) { return fcproj_with(c, rm_in<floatX>(c, 3)); }
static int fcproj_again_bwd(const rm_call *c) /* llm.c's -r 1; arg 2: where in the workspace gelu goes */
{
    floatX *gelu = (floatX *)((char *)c->ws + c->arg[2]);
    gelu_forward(gelu, rm_in<floatX>(c, 0), rows_of(c) * (int)c->arg[0], on(c));
    return fcproj_with(c, gelu);
}

#ifdef ENABLE_CUDNN /* in: qkv; out: y, and statistics */
static int attention_fwd(const rm_call *c)
{
    attention_forward_cudnn(rm_out<floatX>(c, 0), rm_out<float>(c, 1), rm_in<floatX>(c, 0), SIZES, of(c)->heads, of(c)->channels, on(c));
    return 0;
}
static int attention_bwd(const rm_call *c)
{
    attention_backward_cudnn(rm_din<floatX>(c, 0), rm_dout<floatX>(c, 0), rm_in<floatX>(c, 0), rm_out<floatX>(c, 0), rm_out<float>(c, 1), SIZES, of(c)->heads, of(c)->channels, on(c));
    return 0;
}
#else /* in: qkv; out: y, qkv by heads, probabilities. llm.c's forward writes over its input, and wants zeros where no probability goes. */
static int attention_fwd(const rm_call *c)
{
    cudaMemcpyAsync(c->ws, c->in[0], c->in_bytes[0], cudaMemcpyDeviceToDevice, on(c));
    cudaMemsetAsync(c->out[2], 0, c->out_bytes[2], on(c));
    attention_forward(rm_out<floatX>(c, 0), rm_out<floatX>(c, 1), rm_out<floatX>(c, 2), (floatX *)c->ws, SIZES, of(c)->channels, of(c)->heads, on(c));
    return 0;
}
static int attention_bwd(const rm_call *c)
{
    floatX *dqkvr = (floatX *)c->ws, *datt = dqkvr + c->out_bytes[1] / sizeof(floatX), *scratch = datt + c->out_bytes[2] / sizeof(floatX);
    attention_backward(rm_din<floatX>(c, 0), dqkvr, datt, scratch, rm_dout<const floatX>(c, 0), rm_out<const floatX>(c, 1), rm_out<const floatX>(c, 2), SIZES,
                       of(c)->channels, of(c)->heads, on(c));
    return 0;
}
#endif

/* in: x, wte, targets; out: the loss; saved: the gradient of the logits, over them. Or in pieces: then no more than a piece of the logits
   exists, and the backward makes it again. Workspace: losses of all rows, and behind them what logits are not saved. */
__global__ static void add_loss(float *out, findings *found, float share, int recomputed, const rm_step *s)
{
    *out *= share;
    if (!recomputed) found->loss = (s->micro ? found->loss : 0) + *out;
}
#ifndef LLMC_PIECE
#define LLMC_PIECE 2048
#endif
enum { PIECE = LLMC_PIECE }; /* rows */
static uint64_t losses_ws(int rows) { return ((uint64_t)rows * sizeof(float) + 255) / 256 * 256; }
static float share_of(const rm_call *c) { return 1.f / (float)(rows_of(c) * of(c)->o.accumulate); }
static void classify_rows(const rm_call *c, floatX *logits, int from, int rows) /* leaves their gradient */
{
    const port *p = of(c);
    const size_t C = (size_t)p->channels;
    matmul_forward_cublaslt(logits, rm_in<floatX>(c, 0) + (size_t)from * C, rm_in<floatX>(c, 1), NULL, 1, rows, p->channels, p->padded, on(c));
    fused_classifier(logits, (float *)c->ws + from, share_of(c), rm_in<const int>(c, 2) + from, 1, rows, p->vocab, p->padded, True, on(c));
}
static int sum_losses(const rm_call *c)
{
    global_sum_deterministic(rm_out<float>(c, 0), (const float *)c->ws, rows_of(c), on(c));
    add_loss<<<1, 1, 0, on(c)>>>(rm_out<float>(c, 0), of(c)->found, share_of(c), (int)c->recompute, c->device_step);
    return 0;
}
static floatX *behind_losses(const rm_call *c) { return (floatX *)((char *)c->ws + losses_ws(rows_of(c))); }
static int classify_fwd(const rm_call *c)
{
    cudaMemsetAsync(c->ws, 0, losses_ws(rows_of(c)), on(c));
    classify_rows(c, c->saved ? (floatX *)c->saved : behind_losses(c), 0, rows_of(c));
    return sum_losses(c);
}
static int classify_bwd(const rm_call *c)
{
    matmul_backward(rm_din<floatX>(c, 0), rm_din<floatX>(c, 1), NULL, (floatX *)c->saved, rm_in<floatX>(c, 0), rm_in<floatX>(c, 1), NULL, SIZES, of(c)->channels, of(c)->padded, on(c));
    return 0;
}
static int pieces_fwd(const rm_call *c)
{
    int from;
    cudaMemsetAsync(c->ws, 0, losses_ws(rows_of(c)), on(c));
    for (from = 0; from < rows_of(c); from += PIECE) classify_rows(c, behind_losses(c), from, std::min((int)PIECE, rows_of(c) - from));
    return sum_losses(c);
}
static int pieces_bwd(const rm_call *c)
{
    const port *p = of(c);
    const size_t C = (size_t)p->channels;
    int from;
    for (from = 0; from < rows_of(c); from += PIECE) {
        const int rows = std::min((int)PIECE, rows_of(c) - from);
        classify_rows(c, behind_losses(c), from, rows);
        matmul_backward(rm_din<floatX>(c, 0) + (size_t)from * C, rm_din<floatX>(c, 1), NULL, behind_losses(c), rm_in<floatX>(c, 0) + (size_t)from * C, rm_in<floatX>(c, 1), NULL,
                        1, rows, p->channels, p->padded, on(c));
    }
    return 0;
}

/* Clipping: the norm of all gradients in one launch. Then, if updates may be skipped for outliers, llm.c's detectors, which are code of
   the host, in a host function of the stream: no thread waits, and all of it is in the CUDA graph. */
__global__ static void add_squares(float *sums, rm_cuda_list grads)
{
    const size_t first = blockIdx.x * blockDim.x + threadIdx.x, step = blockDim.x * gridDim.x;
    float sum = 0;
    uint32_t i;
    for (i = 0; i < grads.n; i++) {
        const floatX *g = (const floatX *)grads.at[i];
        size_t k;
        for (k = first; k < grads.bytes[i] / sizeof *g; k += step) sum += (float)g[k] * (float)g[k];
    }
    sum = blockReduce<warpReduceSum>(sum);
    if (!threadIdx.x) sums[blockIdx.x] += sum;
}
__global__ static void choose_scale(findings *found, told *t, const rm_step *s)
{
    found->norm = sqrtf(found->norm);
    found->scale = found->norm > 1.f ? 1.f / found->norm : 1.f;
    t->norm[s->step % NORMS] = found->norm;
}
static void CUDART_CB judge(void *user)
{
    port *p = (port *)user;
    told *t = p->told;
    const float zloss = (float)update_detector(&p->losses, t->found.loss), znorm = (float)update_detector(&p->norms, t->found.norm);
    t->skip = (isfinite(zloss) && p->o.skip_loss != 0 && zloss > p->o.skip_loss) || (isfinite(znorm) && p->o.skip_norm != 0 && znorm > p->o.skip_norm);
}
static int clip(const rm_call *c)
{
    port *p = (port *)c->user;
    const int blocks = deviceProp.maxThreadsPerMultiProcessor * deviceProp.multiProcessorCount / 512;
    rm_cuda_list grads;
    uint32_t from;
    cudaMemsetAsync(p->found->sums, 0, sizeof p->found->sums, on(c));
    for (from = 0; rm_cuda_list_in(c, from, &grads); from += grads.n) add_squares<<<blocks, 512, 0, on(c)>>>(p->found->sums, grads);
    global_sum_deterministic(&p->found->norm, p->found->sums, blocks, on(c));
    choose_scale<<<1, 1, 0, on(c)>>>(p->found, p->told, c->device_step);
    if (p->o.skip_loss == 0 && p->o.skip_norm == 0) return 0;
    cudaMemcpyAsync(&p->told->found, p->found, sizeof p->told->found, cudaMemcpyDeviceToHost, on(c));
    cudaLaunchHostFunc(on(c), judge, p);
    cudaMemcpyAsync(rm_cuda_skip(p->cuda), &p->told->skip, sizeof p->told->skip, cudaMemcpyHostToDevice, on(c));
    return 0;
}

/* AdamW: llm.c's for one element; what changes from step to step is read from the device's copy. state: master weights, m, v. */
__global__ static void adamw_kernel(floatX *param, const floatX *grad, float *state, size_t n, float decay, const rm_step *s, uint64_t key, const findings *found, const uint32_t *skip)
{
    if (*skip) return;
    adamw_update(param, state, grad, state + n, state + 2 * n, n, (float)s->lr, 0.9f, 0.95f, (float)s->value[0], (float)s->value[1], 1e-8f, decay, found->scale, (unsigned)rm_seed(s, key));
}
static int adamw(const rm_call *c)
{
    const size_t n = c->param_bytes / sizeof(floatX);
    adamw_kernel<<<(unsigned)CEIL_DIV(n, 512), 512, 0, on(c)>>>((floatX *)c->param, (const floatX *)c->grad, (float *)c->state, n, (float)c->farg[0], c->device_step, c->seed_key,
                                                             of(c)->found, rm_cuda_skip(of(c)->cuda));
    return 0;
}

/* Gradients of micro-batches that a plan adds up in host memory. */
static void add_on_host(void *to, const void *from, uint64_t bytes, rm_tensor param, void *user)
{
    const int64_t n = (int64_t)(bytes / sizeof(floatX));
    int64_t i;
    (void)param, (void)user;
#pragma omp parallel for schedule(static)
    for (i = 0; i < n; i++) ((floatX *)to)[i] = (floatX)((float)((floatX *)to)[i] + (float)((const floatX *)from)[i]);
}

/* =====================================================================================================================
   Kinds, and the model.
   ================================================================================================================== */
typedef struct kinds {
    rm_kind encode, norm, resnorm, matmul, fc, behind_gelu, fcproj, fcproj_again, attention, classify, pieces;
} kinds;
static rm_kind kind(const char *name, rm_fn forward, rm_fn backward, uint64_t needs, uint64_t adds)
{
    rm_kind k = {};
    k.name = name;
    k.forward = forward;
    k.backward = backward;
    k.needs = needs;
    k.zero_grads = adds;
    return k;
}
static kinds make_kinds(void)
{
    kinds k;
    k.encode = kind("encode", caught<encode_fwd>, caught<encode_bwd>, RM_IN(0) | RM_IN(3) | RM_IN(4), RM_IN(1) | RM_IN(2));
    k.norm = kind("norm", caught<norm_fwd>, caught<norm_bwd>, RM_IN(0) | RM_IN(1) | RM_OUT(1), RM_IN(0) | RM_IN(1) | RM_IN(2));
    k.resnorm = kind("resnorm", caught<resnorm_fwd>, caught<resnorm_bwd>, RM_IN(2) | RM_OUT(0) | RM_OUT(2), RM_IN(2) | RM_IN(3));
    k.resnorm.same_grad = RM_IN(0) | RM_IN(1);
    k.resnorm.over[0].grad_of = RM_IN(0);
    k.resnorm.over[0].bytes_of = RM_DOUT;
    k.matmul = kind("matmul", caught<matmul_fwd>, caught<matmul_bwd>, RM_IN(0) | RM_IN(1), RM_IN(1) | RM_IN(2));
    k.fc = kind("fc", caught<fc_fwd>, caught<matmul_bwd>, RM_IN(0) | RM_IN(1), RM_IN(1) | RM_IN(2));
    k.behind_gelu = kind("behind_gelu", NULL, NULL, 0, 0); /* its gradient is not wanted: fcproj gives that of what is before gelu */
    k.behind_gelu.view = RM_IN(0);
    k.behind_gelu.flags = RM_NOGRAD;
    k.fcproj = kind("fcproj", caught<fcproj_fwd>, caught<fcproj_bwd>, RM_IN(0) | RM_IN(1) | RM_IN(3), RM_IN(1) | RM_IN(2));
    k.fcproj_again = kind("gelu_again", caught<fcproj_fwd>, caught<fcproj_again_bwd>, RM_IN(0) | RM_IN(1), RM_IN(1) | RM_IN(2));
#ifdef ENABLE_CUDNN
    k.attention = kind("attention", caught<attention_fwd>, caught<attention_bwd>, RM_IN(0) | RM_OUT(0) | RM_OUT(1), 0);
#else
    k.attention = kind("attention", caught<attention_fwd>, caught<attention_bwd>, RM_OUT(1) | RM_OUT(2), 0);
    k.attention.over[0].grad_of = RM_IN(0); /* written by the last kernel, which reads workspace alone */
    k.attention.over[0].bytes_of = RM_OUT(1);
#endif
    k.classify = kind("classify", caught<classify_fwd>, caught<classify_bwd>, RM_IN(0) | RM_IN(1) | RM_SAVED, RM_IN(1));
    k.pieces = kind("pieces", caught<pieces_fwd>, caught<pieces_bwd>, RM_IN(0) | RM_IN(1) | RM_IN(2), RM_IN(1));
    return k;
}

static size_t elements(const port *p, int which)
{
    const size_t C = (size_t)p->channels;
    switch (which) {
    case WTE: return (size_t)p->padded * C;
    case WPE: return (size_t)p->max_t * C;
    case QKVW: return 3 * C * C;
    case QKVB: return 3 * C;
    case ATTPROJW: return C * C;
    case FCW: case FCPROJW: return 4 * C * C;
    case FCB: return 4 * C;
    default: return C;
    }
}
static rm_tensor weight(port *p, int which, int layer)
{
    rm_param_desc d = {};
    d.name = TENSOR[which].name;
    d.bytes = elements(p, which) * sizeof(floatX);
    d.state_bytes = 3 * elements(p, which) * sizeof(float);
    d.update = caught<adamw>;
    d.farg[0] = TENSOR[which].matrix ? p->o.decay : 0;
    d.user = p;
    return p->weight[which][layer] = rm_param_add(p->graph, &d);
}
static rm_op_desc op(port *p, const char *name, rm_tensor x, size_t width) /* width: of a row of what it makes */
{
    rm_op_desc d = {};
    d.name = name;
    d.in[0] = x;
    d.out[0] = (size_t)p->o.B * (size_t)p->o.T * width * sizeof(floatX);
    d.user = p;
    return d;
}

/* What matmul_backward wants. */
static uint64_t bias_ws(int out)
{
    const int block = deviceProp.maxThreadsPerMultiProcessor == 1536 ? 768 : 1024, wide = CEIL_DIV(out, 8 * (int)x128::size);
    const int high = deviceProp.maxThreadsPerMultiProcessor * deviceProp.multiProcessorCount / (block * wide);
    return (uint64_t)(high > 1 ? high : 1) * (uint64_t)out * sizeof(float);
}

static rm_tensor norm(port *p, const kinds *k, const char *name, rm_tensor x, int w, int layer)
{
    rm_op_desc d = op(p, name, x, (size_t)p->channels);
    d.in[1] = weight(p, w, layer);
    d.in[2] = weight(p, w + 1, layer);
    d.out[1] = 2 * (uint64_t)p->o.B * (uint64_t)p->o.T * sizeof(float);
    d.bwd_ws = norm_ws(p);
    return rm_op_add(p->graph, &k->norm, &d);
}
static rm_op_desc matmul(port *p, const char *name, rm_tensor x, int w, int layer, int from, int to)
{
    rm_op_desc d = op(p, name, x, (size_t)to);
    d.in[1] = weight(p, w, layer);
    d.in[2] = weight(p, w + 1, layer);
    d.bwd_ws = bias_ws(to);
    d.arg[0] = from;
    d.arg[1] = to;
    return d;
}
static rm_tensor attention(port *p, const kinds *k, rm_tensor qkv)
{
    rm_op_desc d = op(p, "attention", qkv, (size_t)p->channels);
#ifdef ENABLE_CUDNN
    d.out[1] = (uint64_t)p->o.B * (uint64_t)p->heads * (uint64_t)p->o.T * sizeof(float);
#else
    const uint64_t y = d.out[0], squares = (uint64_t)p->o.B * (uint64_t)p->heads * (uint64_t)p->o.T * (uint64_t)p->o.T * sizeof(floatX);
    d.out[1] = 3 * y;
    d.out[2] = squares;
    d.fwd_ws = squares > 3 * y ? squares : 3 * y;
    d.bwd_ws = 4 * y + squares;
#endif
    return rm_op_add(p->graph, &k->attention, &d);
}
/* Returns the norm; *x: the sum before, and behind. */
static rm_tensor resnorm(port *p, const kinds *k, const char *name, rm_tensor *x, rm_tensor y, int w, int layer)
{
    rm_op_desc d = op(p, name, *x, (size_t)p->channels);
    d.in[1] = y;
    d.in[2] = weight(p, w, layer);
    d.in[3] = weight(p, w + 1, layer);
    d.out[1] = d.out[0];
    d.out[2] = 2 * (uint64_t)p->o.B * (uint64_t)p->o.T * sizeof(float);
    d.bwd_ws = norm_ws(p) + 2 * (uint64_t)p->channels * sizeof(floatX);
    *x = rm_op_add(p->graph, &k->resnorm, &d);
    return rm_op_output(p->graph, *x, 1);
}
static rm_tensor feed_forward(port *p, const kinds *k, rm_tensor y, int layer)
{
    const int C = p->channels;
    rm_op_desc d = matmul(p, "fc", y, FCW, layer, C, 4 * C), again = {};
    d.out[1] = d.out[0];
    y = rm_op_add(p->graph, &k->fc, &d);
    again = op(p, "behind_gelu", rm_op_output(p->graph, y, 1), (size_t)C * 4);
    d = matmul(p, "fcproj", y, FCPROJW, layer, 4 * C, C);
    d.in[3] = rm_op_add(p->graph, &k->behind_gelu, &again);
    d.arg[2] = (int64_t)((d.bwd_ws + 255) / 256 * 256);
    y = rm_op_add(p->graph, &k->fcproj, &d);
    again = d;
    again.bwd_ws = (uint64_t)d.arg[2] + 4 * d.out[0];
    rm_variant_add(p->graph, y, &k->fcproj_again, &again);
    return y;
}

static void describe(port *p)
{
    const kinds k = make_kinds();
    const uint64_t rows = (uint64_t)p->o.B * (uint64_t)p->o.T;
    const int C = p->channels;
    rm_graph *g = p->graph = rm_graph_create(NULL);
    rm_op_desc d;
    rm_tensor x, y, wte;
    int l;
    rm_graph_link(g, 25000000000u, 25000000000u, 10000, 0); /* a PCIe link, until rm_cuda_tune has measured the real one */
    p->tokens = rm_input_add(g, "tokens", rows * sizeof(int), 0);
    p->targets = rm_input_add(g, "targets", rows * sizeof(int), 0);
    p->buckets = rm_input_add(g, "buckets", rows * (uint64_t)p->groups * sizeof(int4), 0);
    p->items = rm_input_add(g, "items", rows * sizeof(int), 0);
    wte = weight(p, WTE, 0);
    d = op(p, "encode", p->tokens, (size_t)C);
    d.in[1] = wte;
    d.in[2] = weight(p, WPE, 0);
    d.in[3] = p->buckets;
    d.in[4] = p->items;
    x = rm_op_add(g, &k.encode, &d);
    y = norm(p, &k, "ln1", x, LN1W, 0);
    for (l = 0; l < p->layers; l++) { /* a block ends with the norm that the next one begins with */
        rm_block_begin(g, "h");
        d = matmul(p, "qkv", y, QKVW, l, C, 3 * C);
        y = attention(p, &k, rm_op_add(g, &k.matmul, &d));
        d = matmul(p, "attproj", y, ATTPROJW, l, C, C);
        y = resnorm(p, &k, "ln2", &x, rm_op_add(g, &k.matmul, &d), LN2W, l);
        y = feed_forward(p, &k, y, l);
        if (l + 1 < p->layers) y = resnorm(p, &k, "ln1", &x, y, LN1W, l + 1);
        rm_block_end(g);
    }
    y = resnorm(p, &k, "lnf", &x, y, LNFW, 0);
    d = op(p, "classify", y, (size_t)p->padded);
    d.in[1] = wte;
    d.in[2] = p->targets;
    d.saved = d.out[0]; /* the logits */
    d.out[0] = sizeof(float);
    d.saving_ws = losses_ws((int)rows);
    d.fwd_ws = d.saving_ws + d.saved;
    p->loss = rm_op_add(g, &k.classify, &d);
    d.fwd_ws = d.bwd_ws = d.saving_ws + std::min<uint64_t>(rows, PIECE) * (uint64_t)p->padded * sizeof(floatX);
    d.saved = RM_EMPTY;
    d.saving_ws = 0;
    d.bits = "pieces"; /* the sum of dwte is rounded once a piece */
    if (p->o.pieces && rows > PIECE) rm_variant_add(g, p->loss, &k.pieces, &d);
    rm_output_add(g, p->loss);
    rm_barrier_add(g, "clip", caught<clip>, p, 0);
}

/* =====================================================================================================================
   Training.
   ================================================================================================================== */
static const char HELP[] =
    "llmc_port [options]               those of one letter are llm.c's\n"
    "  -e dN|FILE        a GPT-2 of N layers (6, 12, 24, 36, 48) with random weights, or llm.c's checkpoint (default: d12)\n"
    "  -i PATTERN        files of tokens, as llm.c's dev/data makes them\n"
    "  -b N  -t N        sequences, and tokens in each (default: 4, 1024)      -d N  tokens of a step (default: one batch)\n"
    "  -x N  steps (20)  -l X  learning rate (3e-4)  -u N  warmup steps  -q X  final fraction of the rate  -k cosine|linear|constant|wsd\n"
    "  -c X  weight decay  -sl X  -sg X  skip updates whose loss, norm of gradients is an outlier  -ge 0|1|2  gelu fused into matmuls\n"
    "  --budget SIZE     device memory: 6G, 1500M, or 40% of what keeping everything takes (default: no limit)\n"
    "  --host SIZE       host memory that plans may use (default: none: no copies)     --preset NAME\n"
    "  --pieces          plans may make the logits a piece at a time, twice (the gradient of wte is then rounded once a piece)\n"
    "  --save FILE       all that persists, at the end      --load FILE   go on from there\n"
    "  --streams         plain streams instead of a CUDA graph     --untuned   plan with estimated costs\n"
    "  --check           before training, compare replayed steps with steps in streams, bit for bit     --quiet  one line at the end\n"
    "  --make-tokens F   write a file of tokens (little stories, by byte), and end\n";

static uint64_t size_of(const char *option, const char *text, double *percent)
{
    char *end;
    const double x = strtod(text, &end);
    const char *units = "KMG", *unit = *end ? strchr(units, *end) : NULL;
    if (end == text || !(x > 0) || x > 1e15) fail(option, "takes a size like 6G, 1500M or 40%");
    if (percent && !strcmp(end, "%")) return *percent = x, 0;
    if (*end && (!unit || end[1])) fail(option, "takes a size like 6G, 1500M or 40%");
    return (uint64_t)(unit ? x * (double)((uint64_t)1 << 10 * (unit - units + 1)) : x);
}
static options parse_options(int argc, char **argv)
{
    options o = {};
    int i, total = 0;
    o.model = "d12";
    o.schedule = "cosine";
    o.B = 4;
    o.T = 1024;
    o.steps = 20;
    o.lr = 3e-4f;
    o.final_lr = 1;
    o.gelu_fusion = -1;
    for (i = 1; i < argc; i++) {
        const char *a = argv[i], *v = i + 1 < argc ? argv[i + 1] : "";
        const struct { const char *name; int *at; } flags[] = { { "--pieces", &o.pieces }, { "--streams", &o.streams }, { "--untuned", &o.untuned }, { "--check", &o.check }, { "--quiet", &o.quiet } };
        const struct { const char *name; int *at; } numbers[] = { { "-b", &o.B }, { "-t", &o.T }, { "-d", &total }, { "-x", &o.steps }, { "-u", &o.warmup }, { "-ge", &o.gelu_fusion } };
        const struct { const char *name; float *at; } floats[] = { { "-l", &o.lr }, { "-q", &o.final_lr }, { "-c", &o.decay }, { "-sl", &o.skip_loss }, { "-sg", &o.skip_norm } };
        const struct { const char *name; const char **at; } words[] = { { "-e", &o.model }, { "-i", &o.data }, { "-k", &o.schedule }, { "--preset", &o.preset }, { "--save", &o.save },
                                                                       { "--load", &o.load }, { "--make-tokens", &o.make_tokens } };
        int known = 0;
        if (!strcmp(a, "--help")) fputs(HELP, stdout), exit(0);
        for (const auto &f : flags)
            if (!strcmp(a, f.name)) *f.at = known = 1;
        if (known) continue;
        if (i + 1 >= argc) fail(a, "no such option, or its value is missing; --help lists them");
        for (const auto &n : numbers)
            if (!strcmp(a, n.name)) *n.at = atoi(v), known = 1;
        for (const auto &f : floats)
            if (!strcmp(a, f.name)) *f.at = (float)atof(v), known = 1;
        for (const auto &w : words)
            if (!strcmp(a, w.name)) *w.at = v, known = 1;
        if (!strcmp(a, "--budget")) o.budget = size_of(a, v, &o.percent), known = 1;
        if (!strcmp(a, "--host")) o.host = size_of(a, v, NULL), known = 1;
        if (!known) fail(a, "no such option; --help lists them");
        i++;
    }
    if (o.B < 1 || o.T < 4 || o.T % 4) fail("-b, -t", "at least one sequence, of a multiple of 4 tokens");
    o.accumulate = total > 0 ? total / (o.B * o.T) : 1;
    if (total > 0 && total != o.accumulate * o.B * o.T) fail("-d", "not a multiple of the tokens of a batch");
    return o;
}

/* A file of tokens as llm.c's data loader reads them, from the stories of the other examples. */
static int make_tokens(const char *path)
{
    size_t n, i;
    unsigned char *text = make_stories(&n);
    int header[HEADER_SIZE] = { 20240520, 1, (int)n };
    FILE *f = fopenCheck(path, "wb");
    if (!text) fail("stories", "no memory");
    fwrite(header, sizeof(int), HEADER_SIZE, f);
    for (i = 0; i < n; i++) {
        const uint16_t token = text[i];
        fwrite(&token, sizeof token, 1, f);
    }
    fcloseCheck(f);
    free(text);
    return 0;
}

/* Shapes: of dN, as llm.c's gpt2_set_hyperparameters, or from the header of a checkpoint. Returns the open checkpoint, or NULL. */
static FILE *read_shape(port *p)
{
    static const int shapes[][3] = { { 6, 384, 6 }, { 12, 768, 12 }, { 24, 1024, 16 }, { 36, 1280, 20 }, { 48, 1600, 25 }, { 60, 1920, 30 }, { 72, 2880, 30 }, { 84, 3456, 36 } };
    const char *m = p->o.model;
    int header[256];
    FILE *f;
    p->max_t = 1024;
    p->vocab = 50257;
    p->padded = 50304;
    for (const auto &s : shapes)
        if (m[0] == 'd' && atoi(m + 1) == s[0]) p->layers = s[0], p->channels = s[1], p->heads = s[2];
    if (p->layers) return NULL;
    f = fopenCheck(m, "rb");
    freadCheck(header, sizeof(int), 256, f);
    if (header[0] != 20240326 || header[1] != (PRECISION_MODE == PRECISION_BF16 ? 5 : 3)) fail(m, "not a checkpoint of llm.c in this precision (…_bf16.bin)");
    p->max_t = header[2];
    p->vocab = header[3];
    p->layers = header[4];
    p->heads = header[5];
    p->channels = header[6];
    p->padded = header[7];
    return f;
}

static void write_weight(port *p, int which, int layer, const floatX *values)
{
    const size_t n = elements(p, which);
    float *master = (float *)mallocCheck(n * sizeof(float));
    size_t i;
    for (i = 0; i < n; i++) master[i] = (float)values[i];
    need(p, rm_exec_write(p->exec, p->weight[which][layer], RM_VALUE, 0, values, n * sizeof(floatX)), "weights");
    need(p, rm_exec_write(p->exec, p->weight[which][layer], RM_STATE, 0, master, n * sizeof(float)), "weights");
    free(master);
}
static int layers_of(const port *p, int which) { return TENSOR[which].layered ? p->layers : 1; }
static void draw_weight(const port *p, int which, floatX *values, mt19937_state *rng)
{
    const size_t n = elements(p, which), drawn = which == WTE ? (size_t)p->vocab * (size_t)p->channels : n;
    const float deviation = which == ATTPROJW || which == FCPROJW ? 0.02f / sqrtf(2.f * (float)p->layers) : 0.02f;
    float *f = (float *)mallocCheck(n * sizeof(float));
    size_t i;
    for (i = 0; i < n; i++) f[i] = which == LN1W || which == LN2W || which == LNFW;
    if (TENSOR[which].matrix) normal_(f, (unsigned)drawn, 0.f, deviation, rng);
    for (i = 0; i < n; i++) values[i] = (floatX)f[i];
    free(f);
}
/* From the checkpoint, or drawn in the order in which llm.c (and PyTorch) draws them: the same weights. */
static void init_weights(port *p, FILE *checkpoint)
{
    mt19937_state rng;
    size_t most = 0;
    floatX *values;
    int which, layer;
    for (which = 0; which < TENSORS; which++) most = std::max(most, elements(p, which));
    values = (floatX *)mallocCheck(most * sizeof(floatX));
    manual_seed(&rng, 42);
    for (layer = 0; layer < p->layers && !checkpoint; layer++)
        for (which = 0; which < TENSORS; which++) {
            if (layer >= layers_of(p, which)) continue;
            draw_weight(p, which, values, &rng);
            write_weight(p, which, layer, values);
        }
    if (checkpoint) fseekCheck(checkpoint, 256 * sizeof(int), SEEK_SET);
    for (which = 0; which < TENSORS && checkpoint; which++)
        for (layer = 0; layer < layers_of(p, which); layer++) {
            freadCheck(values, sizeof(floatX), elements(p, which), checkpoint);
            write_weight(p, which, layer, values);
        }
    free(values);
}

/* For the encoder's backward: the places of each token in a row (items), and for each token and group of channels where they are: the
   tokens that come most often first. */
static void sort_tokens(port *p)
{
    const int rows = p->o.B * p->o.T;
    std::vector<int> &order = *p->order;
    int i, k, n = 0, from = 0;
    memset(p->count, 0, (size_t)p->vocab * sizeof(int));
    memset(p->bucket, 0, (size_t)rows * (size_t)p->groups * sizeof(int4));
    order.clear();
    for (i = 0; i < rows; i++)
        if (!p->count[p->loader.inputs[i]]++) order.push_back(p->loader.inputs[i]);
    std::sort(order.begin(), order.end(), [p](int a, int b) { return p->count[a] != p->count[b] ? p->count[a] > p->count[b] : a < b; });
    for (int token : order) {
        const int times = p->count[token];
        for (k = 0; k < p->groups; k++) p->bucket[n++] = make_int4(from, times, token, k);
        p->count[token] = from; /* from here on: where its next place goes */
        from += times;
    }
    for (i = 0; i < rows; i++) p->item[p->count[p->loader.inputs[i]]++] = i;
}
static void next_batch(port *p)
{
    const size_t rows = (size_t)p->o.B * (size_t)p->o.T;
    dataloader_next_batch(&p->loader);
    tokenCheck(p->loader.inputs, (int)rows, p->vocab);
    tokenCheck(p->loader.targets, (int)rows, p->vocab);
    sort_tokens(p);
    need(p, rm_exec_write(p->exec, p->tokens, RM_VALUE, 0, p->loader.inputs, rows * sizeof(int)), "tokens");
    need(p, rm_exec_write(p->exec, p->targets, RM_VALUE, 0, p->loader.targets, rows * sizeof(int)), "targets");
    need(p, rm_exec_write(p->exec, p->buckets, RM_VALUE, 0, p->bucket, rows * (size_t)p->groups * sizeof(int4)), "buckets");
    need(p, rm_exec_write(p->exec, p->items, RM_VALUE, 0, p->item, rows * sizeof(int)), "items");
}
static rm_step values_of(port *p, int64_t step, int micro)
{
    rm_step s = {};
    const int n = p->o.accumulate;
    s.kind = n == 1 ? RM_SINGLE : micro == 0 ? RM_FIRST : micro == n - 1 ? RM_LAST : RM_MIDDLE;
    s.micro = (uint32_t)micro;
    s.step = (uint64_t)step;
    s.seed = 13371337;
    s.lr = get_learning_rate(&p->schedule, (int)step);
    s.value[0] = 1.f - powf(0.9f, (float)(step + 1));
    s.value[1] = 1.f - powf(0.95f, (float)(step + 1));
    return s;
}

/* The loss of a micro-batch is had, and so is the norm of its step, if it was the last one. */
static void hear(port *p, float loss)
{
    const int64_t step = p->first_step + p->had / p->o.accumulate;
    p->sum += (double)loss;
    if (++p->had % p->o.accumulate) return;
    if (step == p->first_step) p->first = p->sum;
    p->mean = p->sum;
    p->sum = 0;
    if (!p->o.quiet) printf("step %4ld/%d | loss %7.6f | norm %6.4f | lr %.2e\n", (long)step + 1, p->o.steps, p->mean, (double)p->told->norm[step % NORMS], (double)get_learning_rate(&p->schedule, (int)step));
}
static void train(port *p)
{
    float loss;
    rm_cuda_info ignored;
    uint32_t there;
    int64_t step;
    int micro;
    for (step = p->first_step; step < p->o.steps; step++) {
        for (micro = 0; micro < p->o.accumulate; micro++) {
            const rm_step s = values_of(p, step, micro);
            next_batch(p);
            need(p, rm_exec_step(p->exec, &s), "step");
            if (rm_cuda_read_late(p->cuda, p->exec, p->loss, &loss, sizeof loss, &there) != RM_OK) fail("loss", rm_cuda_error(p->cuda));
            if (there) hear(p, loss);
        }
        if (step == p->first_step + 3 && step + 1 < p->o.steps) rm_cuda_get_info(p->cuda, &ignored); /* streams, capture, what the driver loads */
    }
    if (p->first_step >= p->o.steps) return;
    need(p, rm_exec_read(p->exec, p->loss, RM_VALUE, 0, &loss, sizeof loss), "loss");
    hear(p, loss);
}

static rm_plan *make_plan(port *p, const rm_plan_desc *d, rm_plan_info *info)
{
    rm_plan *plan;
    if (rm_plan_create(p->graph, d, &plan) != RM_OK) {
        fprintf(stderr, "llmc: %s\n", rm_graph_error(p->graph));
        exit(3);
    }
    rm_plan_get_info(plan, 0, info);
    return plan;
}
static rm_plan_desc choose(port *p)
{
    rm_plan_desc d = {}, all;
    rm_plan_info info;
    d.steps = p->o.accumulate == 1 ? RM_SINGLE : RM_FIRST | (p->o.accumulate > 2 ? RM_MIDDLE : 0) | RM_LAST;
    all = d;
    all.preset = "noremat";
    d.preset = p->o.preset ? p->o.preset : p->o.budget || p->o.percent > 0 ? NULL : "noremat";
    d.host_bytes = p->o.host;
    d.device_bytes = p->o.budget;
    if (p->o.percent > 0) {
        rm_plan_destroy(make_plan(p, &all, &info));
        d.device_bytes = (uint64_t)((double)info.keep_all_bytes * p->o.percent / 100);
    }
    return d;
}

/* A file of ours: step and place in the data, then what rm_exec_save writes. */
static int put(void *file, const char *bytes, size_t n) { return fwrite(bytes, 1, n, (FILE *)file) != n; }
static void save(port *p, int64_t step)
{
    const uint64_t head[3] = { (uint64_t)step, p->loader.current_shard_idx, p->loader.current_sample_idx };
    FILE *f = fopenCheck(p->o.save, "wb");
    if (fwrite(head, sizeof head, 1, f) != 1) fail(p->o.save, "cannot be written");
    need(p, rm_exec_save(p->exec, put, f), p->o.save);
    fcloseCheck(f);
}
static void load(port *p)
{
    uint64_t head[3];
    FILE *f = fopenCheck(p->o.load, "rb");
    long size;
    char *bytes;
    fseekCheck(f, 0, SEEK_END);
    size = ftell(f) - (long)sizeof head;
    if (size < 0) fail(p->o.load, "is cut short");
    fseekCheck(f, 0, SEEK_SET);
    freadCheck(head, sizeof head, 1, f);
    bytes = (char *)mallocCheck((size_t)size + 1);
    freadCheck(bytes, 1, (size_t)size, f);
    fcloseCheck(f);
    need(p, rm_exec_restore(p->exec, bytes, (size_t)size), p->o.load);
    free(bytes);
    p->first_step = (int64_t)head[0];
    dataloader_resume(&p->loader, (size_t)head[1], (size_t)head[2]);
}

__global__ static void point_at_step(const rm_step *s) { step_here = s; }

/* The device, cuBLASLt with its workspace, and the few kilobytes of ours. */
static void begin(port *p)
{
    const uint64_t rows = (uint64_t)p->o.B * (uint64_t)p->o.T;
    rm_cuda_desc d = {};
    void *m;
    int device;
    cudaCheck(cudaGetDevice(&device));
    cudaCheck(cudaGetDeviceProperties(&deviceProp, device));
    if (p->o.gelu_fusion < 0) p->o.gelu_fusion = deviceProp.major >= 9 ? 2 : 0;
    p->groups = CEIL_DIV(p->channels, (int)(WARP_SIZE * x128::size));
    d.graph = !p->o.streams;
    d.stage_bytes = rows * (3 * sizeof(int) + (uint64_t)p->groups * sizeof(int4)) + 256;
    if (rm_cuda_create(&d, &p->cuda) != RM_OK) fail("CUDA", rm_cuda_error(p->cuda));
    point_at_step<<<1, 1, 0, rm_cuda_stream(p->cuda, RM_LANE_COMPUTE)>>>(rm_cuda_backend(p->cuda)->device_step);
    cublasCheck(cublasLtCreate(&cublaslt_handle));
    cudaCheck(cudaMalloc(&cublaslt_workspace, cublaslt_workspace_size));
    cudaCheck(cudaMalloc(&m, sizeof(findings)));
    p->found = (findings *)m;
    cudaCheck(cudaMemsetAsync(p->found, 0, sizeof(findings), rm_cuda_stream(p->cuda, RM_LANE_COMPUTE)));
    cudaCheck(cudaHostAlloc(&m, sizeof(told), cudaHostAllocPortable));
    p->told = (told *)m;
    memset((void *)p->told, 0, sizeof(told));
    p->bucket = (int4 *)mallocCheck(rows * (uint64_t)p->groups * sizeof(int4));
    p->item = (int *)mallocCheck(rows * sizeof(int));
    p->count = (int *)mallocCheck((size_t)p->vocab * sizeof(int));
    p->order = new std::vector<int>;
#ifdef ENABLE_CUDNN
    create_cudnn();
#endif
}

static int print(void *file, const char *text, size_t n) { return fwrite(text, 1, n, (FILE *)file) != n; }

static int feed(void *user, rm_exec *x, uint32_t batch)
{
    port *p = (port *)user;
    (void)x;
    dataloader_reset(&p->loader);
    if (batch) dataloader_next_batch(&p->loader);
    next_batch(p);
    return 0;
}
static void check(port *p)
{
    rm_cuda_check_desc d = {};
    const rm_step s = values_of(p, 0, 0);
    const double began = seconds();
    d.feed = feed;
    d.feed_user = p;
    d.output[0] = p->loss;
    if (rm_cuda_check(p->cuda, p->exec, p->graph, p->plan, &s, &d) != RM_OK) fail("--check", rm_cuda_error(p->cuda));
    printf("check: replays are right (%.1f s)\n", seconds() - began);
}

/* Plan, executor; every op and the link measured, and planned again; then weights. */
static void start(port *p, FILE *checkpoint, rm_plan_info *info)
{
    const rm_plan_desc d = choose(p);
    rm_exec_desc x = {};
    double clock = seconds();
    x.add = add_on_host;
    x.forget = 1;
    p->plan = make_plan(p, &d, info);
    p->plan_s = seconds() - clock;
    if (rm_cuda_exec_create(p->cuda, p->plan, &x, &p->exec) != RM_OK) fail("executor", rm_graph_error(p->graph));
    if (!p->o.untuned) {
        const rm_step s = values_of(p, 0, 0);
        next_batch(p);
        clock = seconds();
        need(p, rm_cuda_tune(p->cuda, p->exec, p->graph, &d, &s, 3, &p->plan), "tuning");
        p->tune_s = seconds() - clock;
    }
    rm_plan_get_info(p->plan, 0, info);
    init_weights(p, checkpoint);
    if (p->o.check) check(p);
    dataloader_reset(&p->loader);
    if (p->o.load) load(p);
    init_detector(&p->losses);
    init_detector(&p->norms);
}

/* The line that tests/bench/cuda.sh reads. */
static void report(port *p, const rm_plan_info *info)
{
    rm_cuda_info c;
    rm_exec_info x;
    double ms;
    rm_cuda_get_info(p->cuda, &c);
    rm_exec_get_info(p->exec, &x);
    ms = (double)c.step_ns / 1e6;
    printf("model=%s arm=port budget_mib=%.0f planned_mib=%.0f touched_mib=%.0f host_mib=%.0f outside_mib=%.0f step_ms=%.2f simulated_ms=%.2f busy_ms=%.2f tokens_per_s=%.0f "
           "plan_s=%.1f tune_s=%.1f pin_s=%.2f captured=%d nodes=%u first_loss=%.4f loss=%.4f\n",
           p->o.model, (double)info->budget_bytes / 1048576, (double)info->arena_bytes / 1048576, (double)x.touched_bytes / 1048576, (double)info->host_bytes / 1048576,
           (double)c.outside_bytes / 1048576, ms, (double)(c.replayed ? info->first_ns : info->time_ns) / 1e6, (double)info->busy_ns[RM_LANE_COMPUTE] / 1e6, ms > 0 ? (double)p->o.B * p->o.T / ms * 1e3 : 0,
           p->plan_s, p->tune_s, (double)c.pin_ns / 1e9, c.replayed > 0, c.graph_nodes, p->first, p->mean);
    if (*rm_cuda_note(p->cuda)) fprintf(stderr, "note: %s\n", rm_cuda_note(p->cuda));
}

static void finish(port *p)
{
    rm_exec_destroy(p->exec);
    rm_plan_destroy(p->plan);
    rm_graph_destroy(p->graph);
    cublasCheck(cublasLtDestroy(cublaslt_handle));
    rm_cuda_destroy(p->cuda);
    cudaCheck(cudaFree(cublaslt_workspace));
    cudaCheck(cudaFree(p->found));
    cudaCheck(cudaFreeHost(p->told));
    dataloader_free(&p->loader);
    free(p->bucket);
    free(p->item);
    free(p->count);
    delete p->order;
}

static int run(port *p)
{
    rm_plan_info info;
    FILE *checkpoint;
    if (p->o.make_tokens) return make_tokens(p->o.make_tokens);
    if (!p->o.data) fail("-i", "files of tokens, as llm.c's dev/data makes them; --make-tokens makes one");
    checkpoint = read_shape(p);
    if (p->layers > MOST_LAYERS || p->o.T > p->max_t || ((int64_t)p->o.B * p->o.T * p->channels) % 2048) fail("-b, -t", "more tokens than the model has places, or B T C is no multiple of 2048");
    if (p->vocab < 1024 * (int)x128::size) fail("-e", "fewer tokens than llm.c's classifier has places for in a block: it would not end");
    begin(p);
    describe(p);
    dataloader_init(&p->loader, p->o.data, (size_t)p->o.B, (size_t)p->o.T, 0, 1, 0);
    lr_scheduler_init(&p->schedule, p->o.schedule, p->o.lr, p->o.warmup, p->o.steps, p->o.final_lr);
    start(p, checkpoint, &info);
    if (!p->o.quiet) rm_plan_summary(p->plan, print, stdout);
    train(p);
    report(p, &info);
    if (p->o.save) save(p, p->o.steps);
    finish(p);
    return 0;
}

int main(int argc, char **argv)
{
    static port p;
    p.o = parse_options(argc, argv);
    try {
        return run(&p);
    } catch (const failed_check &) { /* it has printed why */
        return 1;
    }
}
