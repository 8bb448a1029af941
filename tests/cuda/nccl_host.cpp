/* nccl_host.cpp - examples/cuda/train_gpt_nccl.cu as a program of the host, that several processes run together without a card

   Its kernels are compiled as host code (emulate.h), a launch is work of its stream (cudart_standin.h), matrix products are the loops below, and
   calls of NCCL go between processes (nccl_standin.c). So all of it computes, and weights can be compared bit for bit; what is
   enqueued runs in an order that STANDIN names: lazy (default), eager, starve:N, shuffle:SEED. */
#include <nccl.h>

#define EMULATED_RUNTIME
#include "emulate.h"

#include "cudart_standin.h"
#include <cublasLt.h>

/* --- launches: a copy of the kernel's arguments goes to the stream */
template <class... P> struct queued {
    void (*kernel)(P...);
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
    queued(void (*k)(P...), dim3 g, dim3 b, size_t bytes, cudaStream_t s) : kernel(k), grid(g), block(b), shared(bytes), stream(s) {}
    void operator()(P... a)
    {
        auto call = [k = kernel, g = grid, b = block, bytes = shared, a...] { emulated_kernel<void(P...)>(k, g, b, bytes)(a...); };
        typedef decltype(call) closure;
        standin_launch(stream, [](void *c) { return (*(closure *)c)(), 0; }, &call, sizeof call, 10000);
    }
};
#undef LAUNCH
#define LAUNCH(kernel, grid, block, shared, stream) queued((kernel), dim3(grid), dim3(block), (size_t)(shared), (stream))

#include "../../examples/cuda/train_gpt_nccl.cu"

__attribute__((constructor)) static void no_card(void)
{
    const char *order = getenv("STANDIN");
    standin_device((uint64_t)4 << 30, (uint64_t)256 << 20);
    standin_plain(1);
    standin_pageable(1);
    if (!order || !strcmp(order, "lazy")) standin_order(STANDIN_LAZY, 0);
    else if (!strncmp(order, "starve:", 7)) standin_order(STANDIN_STARVE, (uint64_t)atoi(order + 7));
    else if (!strncmp(order, "shuffle:", 8)) standin_order(STANDIN_SHUFFLE, (uint64_t)atoi(order + 8));
    emulated.order = 1;
}

extern "C" {
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int)
{
    memset((void *)p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "no card");
    return cudaSuccess;
}

/* --- cuBLASLt: products of bf16, columns first, as it has it; nothing is made along with them, so the trainer's own kernels are */
struct how {
    cublasOperation_t ta, tb;
    int along;
};
struct layout_of {
    int64_t rows, columns, ld;
};
cublasStatus_t cublasLtCreate(cublasLtHandle_t *h) { return *h = (cublasLtHandle_t)(void *)h, CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtDestroy(cublasLtHandle_t) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *d, cublasComputeType_t, cudaDataType_t) { return *d = (cublasLtMatmulDesc_t)(void *)new how(), CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d) { return delete (how *)(void *)d, CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t a, const void *value, size_t bytes)
{
    how *h = (how *)(void *)d;
    if (a == CUBLASLT_MATMUL_DESC_TRANSA) memcpy(&h->ta, value, bytes);
    if (a == CUBLASLT_MATMUL_DESC_TRANSB) memcpy(&h->tb, value, bytes);
    if (a == CUBLASLT_MATMUL_DESC_EPILOGUE) h->along = *(const cublasLtEpilogue_t *)value != CUBLASLT_EPILOGUE_DEFAULT;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *l, cudaDataType, uint64_t rows, uint64_t columns, int64_t ld)
{
    return *l = (cublasLtMatrixLayout_t)(void *)new layout_of{ (int64_t)rows, (int64_t)columns, ld }, CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l) { return delete (layout_of *)(void *)l, CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *p) { return *p = (cublasLtMatmulPreference_t)(void *)p, CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t, const void *, size_t) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t d, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatmulPreference_t, int, cublasLtMatmulHeuristicResult_t *result, int *n)
{
    memset((void *)result, 0, sizeof *result);
    *n = !((how *)(void *)d)->along;
    return CUBLAS_STATUS_SUCCESS;
}
struct matmul {
    const bf16 *a, *b;
    bf16 *out;
    int64_t m, n, k, step_a[2], step_b[2], ld; /* from one row or column of the result to the next, from one product to the next */
    int adds;
};
static int multiplies(void *arg)
{
    const matmul *p = (const matmul *)arg;
    for (int64_t j = 0; j < p->n; j++)
        for (int64_t i = 0; i < p->m; i++) {
            const bf16 *x = p->a + i * p->step_a[0], *y = p->b + j * p->step_b[0];
            bf16 *to = p->out + j * p->ld + i;
            float sum = p->adds ? float_of((uint32_t)to->bits << 16) : 0;
            for (int64_t k = 0; k < p->k; k++, x += p->step_a[1], y += p->step_b[1]) sum += float_of((uint32_t)x->bits << 16) * float_of((uint32_t)y->bits << 16);
            to->bits = (uint16_t)bf16_bits(sum);
        }
    return 0;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t d, const void *, const void *a, cublasLtMatrixLayout_t la, const void *b, cublasLtMatrixLayout_t lb, const void *beta, const void *c, cublasLtMatrixLayout_t, void *out, cublasLtMatrixLayout_t lout, const cublasLtMatmulAlgo_t *, void *, size_t, cudaStream_t stream)
{
    const how *h = (const how *)(void *)d;
    const layout_of *A = (const layout_of *)(void *)la, *B = (const layout_of *)(void *)lb, *Y = (const layout_of *)(void *)lout;
    const int ta = h->ta == CUBLAS_OP_T, tb = h->tb == CUBLAS_OP_T;
    matmul p = { (const bf16 *)a, (const bf16 *)b, (bf16 *)out, Y->rows, Y->columns, ta ? A->rows : A->columns, { ta ? A->ld : 1, ta ? 1 : A->ld }, { tb ? 1 : B->ld, tb ? B->ld : 1 }, Y->ld, *(const float *)beta != 0 };
    if (c != out || h->along || (ta ? A->columns : A->rows) != p.m || (tb ? B->rows : B->columns) != p.n || (tb ? B->columns : B->rows) != p.k) return CUBLAS_STATUS_INVALID_VALUE;
    return standin_launch(stream, multiplies, &p, sizeof p, 10000) == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
}
