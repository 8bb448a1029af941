/* llmc_numbers.cpp - the port of llm.c (examples/cuda/llmc.cu) against llm.c's own reference on the CPU (train_gpt2.c), number by number

   llm.c's kernels and launchers, and the port's, are compiled as host code (tests/run.sh turns kernel<<<...>>>(...) into calls of emulate.h
   in a copy that it makes of LLMC's sources) in float, with memory that is the host's (cudart_standin.h) and cuBLASLt by the
   loops below. A small GPT-2 trains some steps under several plans: with everything kept, with recomputation, with copies, with
   micro-batches, with the logits in pieces, with gelu in the products and apart. At each step all gradients are compared with the reference's, and
   losses and weights with those of the first plan, bit for bit where it promises that. So a buffer that is read too early, written
   where it should be added to, or taken for another, shows here and not on a card. */
#define EMULATED_RUNTIME
#include "emulate.h"

#include "cudart_standin.h"
#include <cublasLt.h>
#include <cublas_v2.h>

#define ROCKMATE_THREADS
#define ROCKMATE_IMPLEMENTATION
#define ROCKMATE_CUDA_IMPLEMENTATION
#include "rockmate_cuda.h"
static int after_call(void *user, const rm_call *c);
static rm_result watched_exec_create(rm_cuda *c, rm_plan *plan, const rm_exec_desc *desc, rm_exec **x)
{
    rm_exec_desc d = *desc;
    d.after = after_call;
    return rm_cuda_exec_create(c, plan, &d, x);
}
#define rm_cuda_exec_create watched_exec_create
#define main port_main
#include "llmc_host.cu" /* the copy of examples/cuda/llmc.cu */
#undef main
#undef rm_cuda_exec_create
#include "../common.h"

#include <map>
#include <string>

/* --- cuBLASLt: columns first, as it has it */
struct product_of {
    cublasOperation_t ta, tb;
    cublasLtEpilogue_t epilogue;
    float *bias, *aux;
    int64_t aux_ld;
};
struct layout {
    uint64_t rows, columns;
    int64_t ld, stride;
    int count;
};
extern "C" {
cublasStatus_t cublasLtCreate(cublasLtHandle_t *h) { return *h = (cublasLtHandle_t)(void *)h, CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtDestroy(cublasLtHandle_t) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *d, cublasComputeType_t, cudaDataType_t)
{
    *d = (cublasLtMatmulDesc_t)(void *)new product_of();
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d) { return delete (product_of *)(void *)d, CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t a, const void *value, size_t bytes)
{
    product_of *p = (product_of *)(void *)d;
    switch (a) {
    case CUBLASLT_MATMUL_DESC_TRANSA: memcpy(&p->ta, value, bytes); break;
    case CUBLASLT_MATMUL_DESC_TRANSB: memcpy(&p->tb, value, bytes); break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE: memcpy(&p->epilogue, value, bytes); break;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: memcpy(&p->bias, value, bytes); break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER: memcpy(&p->aux, value, bytes); break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD: memcpy(&p->aux_ld, value, bytes); break;
    default: break;
    }
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *l, cudaDataType, uint64_t rows, uint64_t columns, int64_t ld)
{
    *l = (cublasLtMatrixLayout_t)(void *)new layout{ rows, columns, ld, 0, 1 };
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l) { return delete (layout *)(void *)l, CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t l, cublasLtMatrixLayoutAttribute_t a, const void *value, size_t bytes)
{
    layout *to = (layout *)(void *)l;
    if (a == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) memcpy(&to->count, value, bytes);
    else memcpy(&to->stride, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *p) { return *p = (cublasLtMatmulPreference_t)(void *)p, CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t, const void *, size_t) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatmulPreference_t, int, cublasLtMatmulHeuristicResult_t *result, int *n)
{
    memset((void *)result, 0, sizeof *result);
    *n = 1;
    return CUBLAS_STATUS_SUCCESS;
}
static float gelu_of(float x) { return 0.5f * x * (1 + tanhf(sqrtf(2 / (float)M_PI) * (x + 0.044715f * x * x * x))); }
static float slope_of(float x)
{
    const float s = sqrtf(2 / (float)M_PI), t = tanhf(s * (x + 0.044715f * x * x * x));
    return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * s * (1 + 3 * 0.044715f * x * x);
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t d, const void *, const void *a, cublasLtMatrixLayout_t la, const void *b, cublasLtMatrixLayout_t lb, const void *beta, const void *c, cublasLtMatrixLayout_t, void *out, cublasLtMatrixLayout_t lout, const cublasLtMatmulAlgo_t *, void *, size_t, cudaStream_t)
{
    const product_of *p = (const product_of *)(void *)d;
    const layout *A = (const layout *)(void *)la, *B = (const layout *)(void *)lb, *D = (const layout *)(void *)lout;
    const uint64_t n = p->ta == CUBLAS_OP_T ? A->rows : A->columns;
    if (c != out || (p->ta == CUBLAS_OP_T ? A->columns : A->rows) != D->rows || (p->tb == CUBLAS_OP_T ? B->rows : B->columns) != D->columns ||
        (p->tb == CUBLAS_OP_T ? B->columns : B->rows) != n) return CUBLAS_STATUS_INVALID_VALUE;
    for (int batch = 0; batch < D->count; batch++)
        for (uint64_t j = 0; j < D->columns; j++)
            for (uint64_t i = 0; i < D->rows; i++) {
                const float *x = (const float *)a + batch * A->stride, *y = (const float *)b + batch * B->stride;
                float *to = (float *)out + batch * D->stride + (int64_t)j * D->ld + (int64_t)i, sum = *(const float *)beta != 0 ? *to : 0;
                for (uint64_t k = 0; k < n; k++)
                    sum += x[p->ta == CUBLAS_OP_T ? (int64_t)i * A->ld + (int64_t)k : (int64_t)k * A->ld + (int64_t)i] *
                           y[p->tb == CUBLAS_OP_T ? (int64_t)k * B->ld + (int64_t)j : (int64_t)j * B->ld + (int64_t)k];
                float *aux = p->aux ? p->aux + (int64_t)j * p->aux_ld + (int64_t)i : NULL;
                switch (p->epilogue) {
                case CUBLASLT_EPILOGUE_DEFAULT: break;
                case CUBLASLT_EPILOGUE_BIAS: sum += p->bias[i]; break;
                case CUBLASLT_EPILOGUE_GELU_AUX_BIAS: sum += p->bias[i]; /* fall through */
                case CUBLASLT_EPILOGUE_GELU_AUX: *aux = sum, sum = gelu_of(sum); break;
                case CUBLASLT_EPILOGUE_DGELU: sum *= slope_of(*aux); break;
                default: return CUBLAS_STATUS_NOT_SUPPORTED;
                }
                *to = sum;
            }
    return CUBLAS_STATUS_SUCCESS;
}

/* --- llm.c's reference: tests/cuda/llmc_reference.c */
void reference_open(const char *checkpoint);
void reference_begin(void);                                     /* a step: gradients are zeros */
float reference_micro(int *tokens, int *targets, int B, int T); /* its loss; gradients are added */
void reference_update(float lr, int step, float share);         /* gradients are multiplied by share, and a copy of them is clipped and used */
const float *reference_grad(int which, int layer);
float *reference_weight(int which, int layer);
void reference_close(void);
}

/* --- a training, watched */
static port *now;
static std::map<std::string, std::pair<int, int>> names; /* of weights */
static std::vector<float> losses, kept_losses;
static std::vector<unsigned char> ended; /* bits that all weights, one after the other, were left with by each step */
static std::vector<unsigned char> kept;
static double worst[3]; /* of losses, gradients, weights */
static std::string worst_of[3];
static int micro, step, updates, recomputed;

static void note(int what, double off, const char *of)
{
    if (off <= worst[what]) return;
    worst[what] = off; /* a NaN, too */
    worst_of[what] = of;
}
/* The largest difference, of the largest number of the reference, or of `least`. */
static double off(const float *x, const float *reference, size_t n, double least)
{
    double most = 0, largest = least;
    for (size_t i = 0; i < n; i++) {
        const double d = fabs((double)x[i] - (double)reference[i]);
        if (!(d <= most)) most = d;
        largest = fmax(largest, fabs((double)reference[i]));
    }
    return most / largest;
}
static int after_call(void *, const rm_call *c)
{
    port *p = now;
    const float share = 1.f / (float)p->o.accumulate;
    recomputed += (int)c->recompute;
    const int first = names.empty();
    for (int which = 0; which < TENSORS && first; which++)
        for (int layer = 0; layer < layers_of(p, which); layer++) names[rm_tensor_name(p->graph, p->weight[which][layer])] = std::make_pair(which, layer);
    if (c->phase == RM_PHASE_FORWARD && strstr(c->op, "classify") && !c->recompute) {
        if (!micro) reference_begin();
        const float loss = reference_micro(p->loader.inputs, p->loader.targets, p->o.B, p->o.T) * share;
        losses.push_back(*rm_out<float>(c, 0));
            note(0, fabs((double)loss - (double)losses.back()) / (double)loss, c->op);
        micro = (micro + 1) % p->o.accumulate;
    }
    if (c->phase != RM_PHASE_UPDATE) return 0;
    if (!(updates++ % (int)names.size())) reference_update(get_learning_rate(&p->schedule, step), step, share), step++;
    const auto at = names.at(c->op);
    const size_t n = c->param_bytes / sizeof(float);
    note(1, off((const float *)c->grad, reference_grad(at.first, at.second), n, 1e-5), c->op);
    note(2, off((const float *)c->param, reference_weight(at.first, at.second), n, 1e-2), c->op);
    ended.insert(ended.end(), (const unsigned char *)c->param, (const unsigned char *)c->param + c->param_bytes);
    return 0;
}

/* --- a small GPT-2 and its text */
enum { CONTEXT = 32, LAYERS = 2, HEADS = 2, WIDTH = 64, TOKENS = 4096, VOCABULARY = 4101, PADDED = 4224 };
static std::string checkpoint, data;
static uint64_t seed = 1;
static double uniform(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(seed >> 40) / 16777216. - 0.5;
}
static void write_file(const std::string &path, const int *header, const void *bytes, size_t n)
{
    FILE *f = fopen(path.c_str(), "wb");
    if (!f || fwrite(header, sizeof(int), 256, f) != 256 || fwrite(bytes, 1, n, f) != n) exit(2);
    fclose(f);
}
static void write_files(const std::string &folder)
{
    int model[256] = { 20240326, 3, CONTEXT, VOCABULARY, LAYERS, HEADS, WIDTH, PADDED }, text[256] = { 20240520, 1, TOKENS };
    std::vector<float> weights;
    std::vector<uint16_t> tokens;
    port p = {};
    p.max_t = CONTEXT, p.vocab = VOCABULARY, p.padded = PADDED, p.layers = LAYERS, p.heads = HEADS, p.channels = WIDTH;
    for (int which = 0; which < TENSORS; which++)
        for (int layer = 0; layer < layers_of(&p, which); layer++)
            for (size_t i = 0; i < elements(&p, which); i++) /* zeros for tokens that there are not, as in llm.c's files */
                weights.push_back(which == WTE && i >= (size_t)VOCABULARY * WIDTH ? 0 : (float)((which == LN1W || which == LN2W || which == LNFW) + 0.3 * uniform()));
    for (int i = 0; i < TOKENS; i++) tokens.push_back((uint16_t)((uniform() + 0.5) * VOCABULARY));
    checkpoint = folder + "/llmc_small.bin";
    data = folder + "/llmc_tokens.bin";
    write_file(checkpoint, model, weights.data(), weights.size() * sizeof(float));
    write_file(data, text, tokens.data(), tokens.size() * sizeof(uint16_t));
}

/* A training of some steps with these options; bits: are they those of the run that was kept? */
static void train_with(const char *name, std::vector<std::string> options, int keep, int bits, int repeats)
{
    static port p;
    std::vector<char *> words;
    char text[300];
    options.insert(options.begin(), { "llmc", "-e", checkpoint, "-i", data, "-b", "2", "-t", "32", "-x", "2", "-l", "1e-3", "--untuned", "--quiet", "--streams" });
    for (auto &o : options) words.push_back(&o[0]);
    memset((void *)&p, 0, sizeof p);
    p.o = parse_options((int)words.size(), words.data());
    now = &p;
    names.clear(), losses.clear(), ended.clear();
    for (int i = 0; i < 3; i++) worst[i] = 0, worst_of[i] = "";
    micro = step = updates = recomputed = 0;
    standin_reset();
    standin_device((uint64_t)1 << 30, 0);
    standin_order(STANDIN_EAGER, 0);
    standin_races(0);
    standin_pageable(1);
    standin_plain(1);
    reference_open(checkpoint.c_str());
    EXPECT(run(&p) == 0, name);
    reference_close();
    snprintf(text, sizeof text, "%s: losses %.2g off (%s), gradients %.2g (%s), weights %.2g (%s); %d steps, %d forwards again", name, worst[0], worst_of[0].c_str(), worst[1], worst_of[1].c_str(), worst[2],
             worst_of[2].c_str(), step, recomputed);
    EXPECT(step == 2 && worst[0] < 1e-5 && worst[1] < 2e-4 && worst[2] < 1e-2, text);
    EXPECT(repeats < 0 || !repeats == !recomputed, text);
    if (getenv("VERBOSE")) printf("%s\n", text);
    if (keep) kept_losses = losses, kept = ended;
    EXPECT(!bits || (losses == kept_losses && ended == kept), name);
    EXPECT(standin_reset() == 0, "something was left behind");
}

int main(int argc, char **argv)
{
    write_files(argc > 1 ? argv[1] : ".");
    train_with("all", {}, 1, 0, 0);
    train_with("recomputed", { "--budget", "94%" }, 0, 1, 1);
    if (tm_amount(0, 1)) { /* each takes some seconds */
        train_with("gelu apart", { "-ge", "0" }, 0, 0, 0);
        train_with("gelu's slope apart", { "-ge", "1" }, 0, 0, 0);
        train_with("recomputed, copies", { "--budget", "66%", "--host", "1G" }, 0, 1, -1);
        train_with("pieces", { "--pieces", "--budget", "94%" }, 0, 0, -1);
        train_with("micro-batches", { "-d", "128" }, 1, 0, 0);
        train_with("micro-batches, copies", { "-d", "128", "--budget", "66%", "--host", "1G" }, 0, 0, -1);
    }
    train_with("micro-batches, recomputed", { "-d", "128", "--budget", "94%" }, 0, tm_amount(0, 1) != 0, 1);
    return tm_end();
}
