/* rockmate_cuda.h with ROCKMATE_CUDA_NVTX: the steps of cuda.c with functions of nvtx3 that write down what a tool would see. Ranges are
   closed in the order in which they were opened, and have the ops' names. With REAL_NVTX: nvtx3's own functions, which do nothing here. */
#define ROCKMATE_CUDA_NVTX
#if !defined(REAL_NVTX)
#define NVTX_NO_IMPL
#endif
#define main steps_main
#include "cuda.c"
#undef main

#if !defined(REAL_NVTX)
static int depth, wrong, forwards, updates, steps_seen, domains;
NVTX_DECLSPEC nvtxDomainHandle_t NVTX_API nvtxDomainCreateA(const char *name)
{
    wrong |= strcmp(name, "rockmate") != 0;
    domains++;
    return (nvtxDomainHandle_t)(void *)&domains;
}
NVTX_DECLSPEC void NVTX_API nvtxDomainDestroy(nvtxDomainHandle_t domain) { domains -= domain == (nvtxDomainHandle_t)(void *)&domains; }
NVTX_DECLSPEC void NVTX_API nvtxDomainNameCategoryA(nvtxDomainHandle_t domain, uint32_t category, const char *name)
{
    wrong |= !domain || !category || !*name;
}
NVTX_DECLSPEC int NVTX_API nvtxDomainRangePushEx(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *a)
{
    const char *name = a->message.ascii;
    wrong |= !domain || a->messageType != NVTX_MESSAGE_TYPE_ASCII;
    forwards += !strcmp(name, "work forward") && a->category == RM_LANE_COMPUTE + 1;
    updates += !strcmp(name, "found update");
    steps_seen += !strncmp(name, "step", 4);
    return depth++;
}
NVTX_DECLSPEC int NVTX_API nvtxDomainRangePop(nvtxDomainHandle_t domain)
{
    wrong |= !domain || !depth;
    return --depth;
}
#endif

int main(void)
{
    int bad = steps_main();
#if !defined(REAL_NVTX)
    /* streams: each step; a graph: the first one and the one that was captured */
    if (steps_seen && (bad || wrong || depth || domains || forwards != (int)STEPS + 2 || updates != (int)STEPS + 2 || steps_seen != 2 * (int)STEPS))
        bad = printf("ranges: wrong %d, depth %d, domains %d, %d forwards, %d updates, %d steps\n", wrong, depth, domains, forwards, updates, steps_seen);
#endif
    return bad;
}
