/* dry.c - what a program compiled by nvcc needs beside the stand-in for cudart to run without a card: launches that do nothing but take
   time, and cuBLAS likewise. For the dry run of gpu.sh (tests/cuda/dry.sh): train_gpt.cu, llmc.cu and llm.c's own trainer plan, profile,
   tune, capture and replay, and no line of the scripts is run for the first time on a card. It computes nothing: losses are zeros. */
#include "cudart_standin.h"
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_profiler_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KERNEL_NS 20000
#define PRODUCT_NS 60000

static struct {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
} configured; /* by <<<>>>, until the launch */

static int nothing(void *arg) { return (void)arg, 0; }

/* The card: 4 GiB (CARD_GIB=: so many), of which nothing is touched. */
__attribute__((constructor)) static void card(void)
{
    const char *gib = getenv("CARD_GIB");
    standin_device((uint64_t)(gib ? atoi(gib) : 4) << 30, (uint64_t)256 << 20);
    standin_order(STANDIN_LAZY, 0); /* else what holds a lane while ops are timed would hold the host */
    standin_idle(1);
    standin_races(0);
    standin_pageable(1);
}

void **__cudaRegisterFatBinary(void *binary) { return (void **)binary; }
void __cudaRegisterFatBinaryEnd(void **handle) { (void)handle; }
void __cudaUnregisterFatBinary(void **handle) { (void)handle; }
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int limit, uint3 *tid, uint3 *bid, dim3 *block, dim3 *grid, int *words)
{
    (void)handle, (void)host, (void)device, (void)name, (void)limit, (void)tid, (void)bid, (void)block, (void)grid, (void)words;
}
char __cudaInitModule(void **handle) { return (void)handle, 1; }
void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int ext, size_t bytes, int constant, int global)
{
    (void)handle, (void)host, (void)device, (void)name, (void)ext, (void)bytes, (void)constant, (void)global;
}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, struct CUstream_st *stream)
{
    configured.grid = grid;
    configured.block = block;
    configured.shared = shared;
    configured.stream = stream;
    return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream)
{
    *grid = configured.grid;
    *block = configured.block;
    *shared = configured.shared;
    *(cudaStream_t *)stream = configured.stream;
    return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host)
{
    *kernel = (cudaKernel_t)(void *)(uintptr_t)host;
    return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t stream)
{
    (void)kernel, (void)grid, (void)block, (void)args, (void)shared;
    return standin_launch(stream, nothing, NULL, 0, KERNEL_NS);
}
cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t stream)
{
    return __cudaLaunchKernel((cudaKernel_t)(void *)(uintptr_t)kernel, grid, block, args, shared, stream);
}

static cudaStream_t blas_stream;
cublasStatus_t cublasCreate_v2(cublasHandle_t *handle)
{
    *handle = (cublasHandle_t)(void *)&blas_stream;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) { return (void)handle, CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream)
{
    (void)handle;
    blas_stream = stream;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace, size_t bytes)
{
    (void)handle;
    return workspace && bytes ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const void *alpha, const void *a, cudaDataType type_a, int lda, long long stride_a, const void *b, cudaDataType type_b, int ldb, long long stride_b, const void *beta, void *c, cudaDataType type_c, int ldc, long long stride_c, int count, cublasComputeType_t compute, cublasGemmAlgo_t algo)
{
    (void)handle, (void)ta, (void)tb, (void)m, (void)n, (void)k, (void)alpha, (void)a, (void)type_a, (void)lda, (void)stride_a, (void)b, (void)type_b, (void)ldb, (void)stride_b, (void)beta, (void)c, (void)type_c, (void)ldc, (void)stride_c, (void)count, (void)compute, (void)algo;
    return standin_launch(blas_stream, nothing, NULL, 0, PRODUCT_NS) ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}

/* What llm.c calls besides: of the size of an H100. Calls without a stream go to the legacy one, and wait for it. */
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device)
{
    (void)device;
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "no card");
    p->major = 9;
    p->multiProcessorCount = 132;
    p->maxThreadsPerMultiProcessor = 2048;
    return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void *kernel, enum cudaFuncAttribute a, int value) { return (void)kernel, (void)a, (void)value, cudaSuccess; }
cudaError_t cudaStreamCreate(cudaStream_t *s) { return cudaStreamCreateWithFlags(s, cudaStreamDefault); }
cudaError_t cudaEventCreate(cudaEvent_t *e) { return cudaEventCreateWithFlags(e, cudaEventDefault); }
cudaError_t cudaMallocManaged(void **p, size_t bytes, unsigned flags) { return (void)flags, cudaMalloc(p, bytes); }
cudaError_t cudaMemAdvise(const void *p, size_t bytes, enum cudaMemoryAdvise a, struct cudaMemLocation at) { return (void)p, (void)bytes, (void)a, (void)at, cudaSuccess; }
cudaError_t cudaProfilerStart(void) { return cudaSuccess; }
cudaError_t cudaProfilerStop(void) { return cudaSuccess; }
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    cudaError_t e = cudaMemcpyAsync(to, from, bytes, kind, cudaStreamLegacy);
    return e ? e : cudaStreamSynchronize(cudaStreamLegacy);
}
cudaError_t cudaMemset(void *to, int byte, size_t bytes)
{
    cudaError_t e = cudaMemsetAsync(to, byte, bytes, cudaStreamLegacy);
    return e ? e : cudaStreamSynchronize(cudaStreamLegacy);
}

#ifndef DRY_PRODUCTS /* llmc_numbers.cpp has some that compute */
/* cuBLASLt: descriptions are not looked at, one heuristic fits all. */
cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    *handle = (cublasLtHandle_t)(void *)&blas_stream;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) { return (void)handle, CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *d, cublasComputeType_t compute, cudaDataType_t scale)
{
    (void)compute, (void)scale;
    *d = (cublasLtMatmulDesc_t)(void *)&blas_stream;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d) { return (void)d, CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t a, const void *value, size_t bytes)
{
    return (void)d, (void)a, value && bytes ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *l, cudaDataType type, uint64_t rows, uint64_t columns, int64_t stride)
{
    (void)type;
    *l = (cublasLtMatrixLayout_t)(void *)&blas_stream;
    return rows && columns && stride > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l) { return (void)l, CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t l, cublasLtMatrixLayoutAttribute_t a, const void *value, size_t bytes)
{
    return (void)l, (void)a, value && bytes ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *p)
{
    *p = (cublasLtMatmulPreference_t)(void *)&blas_stream;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p) { return (void)p, CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p, cublasLtMatmulPreferenceAttributes_t a, const void *value, size_t bytes)
{
    return (void)p, (void)a, value && bytes ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t d, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t out, cublasLtMatmulPreference_t p, int most, cublasLtMatmulHeuristicResult_t *result, int *n)
{
    (void)handle, (void)d, (void)a, (void)b, (void)c, (void)out, (void)p, (void)most;
    memset(result, 0, sizeof *result);
    result->workspaceSize = 65536;
    *n = 1;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t d, const void *alpha, const void *a, cublasLtMatrixLayout_t la, const void *b, cublasLtMatrixLayout_t lb, const void *beta, const void *c, cublasLtMatrixLayout_t lc, void *out, cublasLtMatrixLayout_t lout, const cublasLtMatmulAlgo_t *algo, void *workspace, size_t bytes, cudaStream_t stream)
{
    (void)handle, (void)d, (void)alpha, (void)a, (void)la, (void)b, (void)lb, (void)beta, (void)c, (void)lc, (void)lout, (void)algo;
    if (!a || !b || !c || !out || !workspace || !bytes) return CUBLAS_STATUS_INVALID_VALUE;
    return standin_launch(stream, nothing, NULL, 0, PRODUCT_NS) ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}
#endif
