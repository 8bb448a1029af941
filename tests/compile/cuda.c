/* rockmate_cuda.h with both implementations in one file, as C, C++ and CUDA. Linked with the real runtime it runs anywhere: without
   a driver each call fails, and must say so. */
#define ROCKMATE_IMPLEMENTATION
#define ROCKMATE_CUDA_IMPLEMENTATION
#include "rockmate_cuda.h"

int main(void)
{
    rm_cuda *c = NULL;
    rm_cuda_info info;
    rm_cuda_link link;
    uint32_t flag;
    int bad = 0;
    rm_result r = rm_cuda_create(NULL, &c);
    if (r == RM_OK) { /* a card is here */
        printf("a device: %llu bytes free\n", (unsigned long long)rm_cuda_free_bytes(c, 0));
        bad |= rm_cuda_get_info(c, &info) != RM_OK || rm_cuda_backend(c) == NULL;
    } else {
        printf("%s\n", rm_cuda_error(c));
        bad |= r != RM_ERROR_BACKEND || c == NULL || strstr(rm_cuda_error(c), "cudaError") == NULL;
        bad |= rm_cuda_free_bytes(c, 0) != 0 || rm_cuda_backend(c) != NULL || rm_cuda_skip(c) != NULL;
        bad |= rm_cuda_get_info(c, &info) != RM_ERROR_ARGUMENT || rm_cuda_skipped(c, &flag) != RM_ERROR_ARGUMENT;
        bad |= rm_cuda_link_measure(c, NULL, NULL, &link) != RM_ERROR_ARGUMENT;
    }
    rm_cuda_destroy(c);
    return bad;
}
