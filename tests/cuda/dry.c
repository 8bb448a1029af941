/* dry.c - what a program compiled by nvcc needs beside the stand-in for cudart to run without a card: launches that do nothing but take
   time, and cuBLAS likewise. For the dry run of gpu.sh (tests/cuda/dry.sh): train_gpt.cu plans, profiles, tunes, captures and replays, and
   no line of the scripts is run for the first time on a card. It computes nothing: losses are zeros. */
#include "cudart_standin.h"
#include <cublas_v2.h>

#define KERNEL_NS 20000
#define PRODUCT_NS 60000

static struct {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
} configured; /* by <<<>>>, until the launch */

static int nothing(void *arg) { return (void)arg, 0; }

/* The card: 4 GiB, of which nothing is touched. */
__attribute__((constructor)) static void card(void)
{
    standin_device((uint64_t)4 << 30, (uint64_t)256 << 20);
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
