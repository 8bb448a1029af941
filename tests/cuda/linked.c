/* The CUDA backend as an object that the test programs link, as tests/linked.c is for the rest. */
#define _GNU_SOURCE
#define ROCKMATE_THREADS
#include <stdint.h>
uint64_t rmtest_mapped = (uint64_t)64 << 20;
#define RMC_MAPPED rmtest_mapped /* a test may have small pieces made as large ones are */
#define ROCKMATE_CUDA_IMPLEMENTATION
#include "rockmate_cuda.h"
