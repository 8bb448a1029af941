/* llmc_cuda13.h - for llm.c under CUDA 13, whose cudaMemAdvise takes a struct where llm.c names a device. Before anything of llm.c's:
   examples/cuda/llmc.cu includes it; llm.c itself compiles with `nvcc -include examples/cuda/llmc_cuda13.h`. */
#ifndef LLMC_CUDA13_H
#define LLMC_CUDA13_H
#include <cuda_runtime.h>
#if CUDART_VERSION >= 13000
static inline cudaError_t cudaMemAdvise(const void *p, size_t bytes, enum cudaMemoryAdvise advice, int device)
{
    struct cudaMemLocation at;
    at.type = device == cudaCpuDeviceId ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice;
    at.id = device;
    return cudaMemAdvise(p, bytes, advice, at);
}
#endif
#endif
