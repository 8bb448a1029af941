/* products.cuh - the matrix products of train_gpt.cu by cuBLASLt: with biases, gelu and sums of columns made in the same kernel

   Each product (a shape, its operands' order, what is made along with it) is prepared once, in products_prepare: cuBLASLt is asked for an
   algorithm, which is kept, and says what workspace it takes. That is told to the library with the op (fwd_ws, bwd_ws), so cuBLASLt
   has memory of the arena and none of its own. Where it knows no algorithm that makes something along, it is not usable, and the caller
   takes a plain product and a kernel of kernels.cuh. The same algorithm for the same product every time: the same bits. */
#ifndef TRAIN_GPT_PRODUCTS_CUH
#define TRAIN_GPT_PRODUCTS_CUH

#include "kernels.cuh"

#include <cublasLt.h>
#include <string.h>

/* What is made along with y. BIAS: y += bias. GELU: y = gelu(x w + bias), beside holds x w + bias. SLOPE: y times the slope of gelu at beside;
   SLOPE_SUMS: and bias = the sums of y's columns. DY_SUMS, of a product dy^T x: bias = the sums of dy's columns. */
typedef enum along { NOTHING, BIAS, GELU, SLOPE, SLOPE_SUMS, DY_SUMS } along;

/* FORWARD: y[rows][out] = x[rows][in] w[out][in]^T. TO_X: y[rows][in] = dy[rows][out] w[out][in]. TO_W: y[out][in] = dy^T x. All three in that order
   of operands: left, right. */
typedef enum way { FORWARD, TO_X, TO_W } way;

typedef struct product {
    way which;
    along with;
    int64_t rows, in, out;
    int adds; /* to y, which is then no operand of what is made along */
} product;

typedef struct prepared {
    product what;
    int usable;
    uint64_t workspace;
    cublasLtMatmulDesc_t how;
    cublasLtMatrixLayout_t a, b, y;
    cublasLtMatmulAlgo_t algo;
} prepared;

enum { PRODUCTS_MOST = 64 };
typedef struct products {
    cublasLtHandle_t lt;
    prepared list[PRODUCTS_MOST];
    int n;
} products;

/* As cuBLASLt sees it, column after column: y[m][n] = a[m][k] b[k][n], each of them maybe turned. */
typedef struct columns {
    cublasOperation_t turn_a, turn_b;
    int64_t m, n, k;
} columns;
static columns columns_of(const product *p)
{
    columns c = { CUBLAS_OP_T, CUBLAS_OP_N, p->out, p->rows, p->in };
    if (p->which == TO_X) c.turn_a = CUBLAS_OP_N, c.m = p->in, c.k = p->out;
    if (p->which == TO_W) c.turn_a = CUBLAS_OP_N, c.turn_b = CUBLAS_OP_T, c.m = p->in, c.n = p->out, c.k = p->rows;
    return c;
}
static int set(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t which, const void *value, size_t bytes) { return cublasLtMatmulDescSetAttribute(d, which, value, bytes) != CUBLAS_STATUS_SUCCESS; }
static int layout(cublasLtMatrixLayout_t *l, int64_t rows, int64_t columns) { return cublasLtMatrixLayoutCreate(l, CUDA_R_16BF, (uint64_t)rows, (uint64_t)columns, rows) != CUBLAS_STATUS_SUCCESS; }

/* Bias and what lies beside; on a card any address that is aligned will do to ask for an algorithm. */
static int set_pointers(const prepared *p, const void *bias, const void *beside)
{
    int bad = 0;
    if (p->what.with != NOTHING && p->what.with != SLOPE) bad |= set(p->how, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
    if (p->what.with == GELU || p->what.with == SLOPE || p->what.with == SLOPE_SUMS) bad |= set(p->how, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &beside, sizeof beside);
    return bad;
}
static int describe_product(prepared *p)
{
    static const cublasLtEpilogue_t epilogues[] = { CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_GELU_AUX_BIAS, CUBLASLT_EPILOGUE_DGELU,
                                                    CUBLASLT_EPILOGUE_DGELU_BGRAD, CUBLASLT_EPILOGUE_BGRADB };
    const columns c = columns_of(&p->what);
    const cudaDataType_t type = CUDA_R_16BF;
    const void *const somewhere = (const void *)(uintptr_t)4096;
    const int64_t width = c.m;
    return cublasLtMatmulDescCreate(&p->how, CUBLAS_COMPUTE_32F, CUDA_R_32F) != CUBLAS_STATUS_SUCCESS || set(p->how, CUBLASLT_MATMUL_DESC_TRANSA, &c.turn_a, sizeof c.turn_a) ||
           set(p->how, CUBLASLT_MATMUL_DESC_TRANSB, &c.turn_b, sizeof c.turn_b) || set(p->how, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogues[p->what.with], sizeof epilogues[0]) ||
           (p->what.with && set(p->how, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type, sizeof type)) ||
           (p->what.with && set(p->how, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &width, sizeof width)) || set_pointers(p, somewhere, somewhere) ||
           (c.turn_a == CUBLAS_OP_T ? layout(&p->a, c.k, c.m) : layout(&p->a, c.m, c.k)) || (c.turn_b == CUBLAS_OP_T ? layout(&p->b, c.n, c.k) : layout(&p->b, c.k, c.n)) ||
           layout(&p->y, c.m, c.n);
}
/* The product, prepared. NULL: there are too many. */
static const prepared *products_prepare(products *all, product what)
{
    const uint64_t most = (uint64_t)32 << 20;
    cublasLtMatmulPreference_t prefers = NULL;
    cublasLtMatmulHeuristicResult_t found;
    prepared *p;
    int i, n = 0;
    for (i = 0; i < all->n; i++) {
        const product *q = &all->list[i].what;
        if (q->which == what.which && q->with == what.with && q->rows == what.rows && q->in == what.in && q->out == what.out && q->adds == what.adds) return &all->list[i];
    }
    if (all->n == PRODUCTS_MOST) return NULL;
    p = &all->list[all->n++];
    p->what = what;
    if (describe_product(p) || cublasLtMatmulPreferenceCreate(&prefers) != CUBLAS_STATUS_SUCCESS) return p;
    if (cublasLtMatmulPreferenceSetAttribute(prefers, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most) == CUBLAS_STATUS_SUCCESS &&
        cublasLtMatmulAlgoGetHeuristic(all->lt, p->how, p->a, p->b, p->y, p->y, prefers, 1, &found, &n) == CUBLAS_STATUS_SUCCESS && n && found.state == CUBLAS_STATUS_SUCCESS) {
        p->usable = 1;
        p->algo = found.algo;
        p->workspace = found.workspaceSize;
    }
    cublasLtMatmulPreferenceDestroy(prefers);
    return p;
}
/* The bytes it takes of the workspace; 0 where it is not usable. */
static uint64_t product_bytes(products *all, product what)
{
    const prepared *p = products_prepare(all, what);
    return p && p->usable ? p->workspace : 0;
}
static int product_usable(products *all, product what)
{
    const prepared *p = products_prepare(all, what);
    return p && p->usable;
}
/* y = left right, or y += left right. ws: what product_bytes said, aligned to 256. Nonzero: it failed. */
static int multiply(products *all, product what, bf16 *y, const bf16 *left, const bf16 *right, const void *bias, const void *beside, void *ws, cudaStream_t s)
{
    const prepared *p = products_prepare(all, what);
    const float one = 1, beta = what.adds ? 1.f : 0.f;
    const bf16 *a = right, *b = left; /* turned, the order is the other one */
    if (!p || !p->usable || set_pointers(p, bias, beside)) return 1;
    return cublasLtMatmul(all->lt, p->how, &one, a, p->a, b, p->b, &beta, y, p->y, y, p->y, &p->algo, ws, p->workspace, s) != CUBLAS_STATUS_SUCCESS;
}
static void products_destroy(products *all)
{
    int i;
    for (i = 0; i < all->n; i++) {
        const prepared *p = &all->list[i];
        if (p->y) cublasLtMatrixLayoutDestroy(p->y);
        if (p->b) cublasLtMatrixLayoutDestroy(p->b);
        if (p->a) cublasLtMatrixLayoutDestroy(p->a);
        if (p->how) cublasLtMatmulDescDestroy(p->how);
    }
    if (all->lt) cublasLtDestroy(all->lt);
    memset((void *)all, 0, sizeof *all);
}
#endif
