/* The CUDA backend as an object that the test programs link, as tests/linked.c is for the rest. */
#define ROCKMATE_CUDA_IMPLEMENTATION
#include "rockmate_cuda.h"
