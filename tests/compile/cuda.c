/* rockmate_cuda.h with both implementations in one file, as C, C++ and CUDA. Linked with the real runtime it runs anywhere: without
   a driver each call fails, and must say so. With a card (or the stand-in of tests/cuda) steps run that nothing makes wait, in streams and as
   graphs, and each must have found the values of its own. */
#define ROCKMATE_IMPLEMENTATION
#define ROCKMATE_CUDA_IMPLEMENTATION
#include "rockmate_cuda.h"

#include <stddef.h>

#define STEPS 32u /* and so many numbers in the param: what each step found, the last one at the end */
#define WORK ((size_t)16 << 20)

static int often = 4; /* so many fills of WORK bytes are some time; on a card 5 ms */

static int forward(const rm_call *c)
{
    cudaStream_t s = (cudaStream_t)c->stream;
    int i, bad = 0;
    for (i = 0; i < often && !bad; i++) bad = (int)cudaMemsetAsync(c->ws, i & 255, WORK, s); /* some time, for the host to run ahead */
    return bad ? bad : (int)cudaMemsetAsync(c->out[0], 0, 16, s);
}
static int backward(const rm_call *c) { return c->din[1] ? (int)cudaMemsetAsync(c->din[1], 0, sizeof(double), (cudaStream_t)c->stream) : 0; }
static int update(const rm_call *c)
{
    const size_t rest = (STEPS - 1) * sizeof(double);
    cudaStream_t s = (cudaStream_t)c->stream;
    int bad = (int)cudaMemcpyAsync(c->state, (const char *)c->param + sizeof(double), rest, cudaMemcpyDeviceToDevice, s);
    if (!bad) bad = (int)cudaMemcpyAsync(c->param, c->state, rest, cudaMemcpyDeviceToDevice, s);
    if (!bad) bad = (int)cudaMemcpyAsync((char *)c->param + rest, (const char *)c->device_step + offsetof(rm_step, lr), sizeof(double), cudaMemcpyDeviceToDevice, s);
    return bad;
}

static rm_graph *model(rm_tensor *input, rm_tensor *param)
{
    static rm_kind kind;
    rm_graph *g = rm_graph_create(NULL);
    rm_param_desc p;
    rm_op_desc d;
    memset((void *)&p, 0, sizeof p);
    memset((void *)&d, 0, sizeof d);
    kind.name = "work";
    kind.forward = forward;
    kind.backward = backward;
    p.name = "found";
    p.bytes = p.state_bytes = STEPS * sizeof(double);
    p.grad_bytes = sizeof(double);
    p.update = update;
    *input = rm_input_add(g, "x", 16, RM_EXTERNAL);
    *param = rm_param_add(g, &p);
    d.name = "work";
    d.in[0] = *input;
    d.in[1] = *param;
    d.out[0] = 16;
    d.fwd_ws = WORK;
    rm_output_add(g, rm_op_add(g, &kind, &d));
    return g;
}

/* 0, or what went wrong, told. */
static int steps(uint32_t graph)
{
    rm_tensor input, param;
    rm_graph *g = model(&input, &param);
    rm_cuda_desc cd;
    rm_plan_desc pd;
    rm_cuda_info info;
    rm_cuda *c = NULL;
    rm_plan *plan = NULL;
    rm_exec *x = NULL;
    void *memory = NULL;
    double found[STEPS];
    rm_step s;
    uint32_t i;
    int bad;
    memset((void *)&cd, 0, sizeof cd);
    memset((void *)&pd, 0, sizeof pd);
    memset((void *)&s, 0, sizeof s);
    memset(found, 0, sizeof found);
    memset((void *)&info, 0, sizeof info);
    cd.graph = graph;
    bad = rm_cuda_create(&cd, &c) != RM_OK || cudaMalloc(&memory, 16) != cudaSuccess || rm_plan_create(g, &pd, &plan) != RM_OK || rm_cuda_exec_create(c, plan, NULL, &x) != RM_OK ||
          rm_exec_bind(x, input, RM_VALUE, memory) != RM_OK;
    for (i = 0; i < STEPS && !bad; i++) {
        s.step = i;
        s.lr = i + 1;
        bad = rm_exec_step(x, &s) != RM_OK;
    }
    bad = bad || rm_exec_read(x, param, RM_VALUE, 0, found, sizeof found) != RM_OK || rm_cuda_get_info(c, &info) != RM_OK;
    if (bad) printf("steps: %s%s%s\n", rm_graph_error(g), x ? rm_exec_error(x) : "", rm_cuda_error(c));
    for (i = 0; i < STEPS && !bad; i++)
        if (found[i] < i + 0.5 || found[i] > i + 1.5) bad = printf("step %u of %s found the values of step %g\n", i, graph ? "a graph" : "streams", found[i] - 1);
    if (!bad && graph && info.replayed != STEPS - 2) bad = printf("no graph: %s\n", rm_cuda_note(c));
    if (!bad) printf("%s: %u steps, %.0f us each\n", graph ? "a graph" : "streams", STEPS, (double)info.step_ns / 1e3);
    rm_exec_destroy(x);
    rm_plan_destroy(plan);
    rm_graph_destroy(g);
    rm_cuda_destroy(c);
    cudaFree(memory);
    return bad;
}

/* What rockmate_cuda.h counts on: an event that a node of a graph records is pending from the launch on, not from when the node runs. Work
   stands before the node; the second launch is asked. */
static int taken(const rm_backend *b)
{
    cudaStream_t s = NULL;
    cudaEvent_t e = NULL;
    cudaGraph_t g = NULL;
    cudaGraphExec_t x = NULL;
    cudaError_t asked = cudaSuccess;
    void *memory = NULL;
    double begin = 0, waited = 0;
    int i, bad;
    bad = cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking) != cudaSuccess || cudaEventCreateWithFlags(&e, cudaEventDisableTiming) != cudaSuccess || cudaMalloc(&memory, WORK) != cudaSuccess ||
          cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal) != cudaSuccess;
    for (i = 0; i < often && !bad; i++) bad = cudaMemsetAsync(memory, i & 255, WORK, s) != cudaSuccess;
    bad = bad || cudaEventRecordWithFlags(e, s, cudaEventRecordExternal) != cudaSuccess || cudaStreamEndCapture(s, &g) != cudaSuccess || cudaGraphInstantiateWithFlags(&x, g, 0) != cudaSuccess;
    for (i = 0; i < 2 && !bad; i++) {
        bad = cudaGraphLaunch(x, s) != cudaSuccess;
        begin = (double)b->now(b->user) / 1e6;
        asked = cudaEventQuery(e);
        bad = bad || cudaEventSynchronize(e) != cudaSuccess;
        waited = (double)b->now(b->user) / 1e6 - begin;
        begin = (double)b->now(b->user) / 1e6;
        bad = bad || cudaStreamSynchronize(s) != cudaSuccess;
        begin = (double)b->now(b->user) / 1e6 - begin;
    }
    if (bad) printf("taken: a call failed: %s\n", cudaGetErrorName(cudaGetLastError()));
    else printf("an event in a graph: %s behind the launch, waited for %.2f ms, %.2f ms more for the stream\n", asked == cudaErrorNotReady ? "not ready" : "ready", waited, begin);
    if (!bad && begin > 1) bad = printf("FAILED: a launch does not count as a record of its nodes' events: replays may find the values of the next step\n");
    (void)cudaGetLastError();
    if (x) cudaGraphExecDestroy(x);
    if (g) cudaGraphDestroy(g);
    cudaFree(memory);
    cudaEventDestroy(e);
    cudaStreamDestroy(s);
    return bad != 0;
}

int main(void)
{
    rm_cuda *c = NULL;
    rm_cuda_info info;
    rm_cuda_link link;
    uint32_t flag;
    int bad = 0, card = 0;
    rm_result r = rm_cuda_create(NULL, &c);
    if (r == RM_OK) { /* a card is here */
        card = 1;
        printf("a device: %llu bytes free\n", (unsigned long long)rm_cuda_free_bytes(c, 0));
        bad |= rm_cuda_get_info(c, &info) != RM_OK || rm_cuda_backend(c) == NULL;
        if (!bad && info.total_bytes >> 30) often = 800; /* else it is the stand-in */
        bad |= rm_cuda_link_measure(c, NULL, NULL, &link) != RM_OK;
        if (!bad) printf("the link: %.1f GB/s there, %.1f back, %.1f us\n", (double)link.h2d / 1e9, (double)link.d2h / 1e9, (double)link.latency_ns / 1e3);
    } else {
        printf("%s\n", rm_cuda_error(c));
        bad |= r != RM_ERROR_BACKEND || c == NULL || strstr(rm_cuda_error(c), "cudaError") == NULL;
        bad |= rm_cuda_free_bytes(c, 0) != 0 || rm_cuda_backend(c) != NULL || rm_cuda_skip(c) != NULL;
        bad |= rm_cuda_get_info(c, &info) != RM_ERROR_ARGUMENT || rm_cuda_skipped(c, &flag) != RM_ERROR_ARGUMENT;
        bad |= rm_cuda_link_measure(c, NULL, NULL, &link) != RM_ERROR_ARGUMENT;
    }
    if (card) bad |= taken(rm_cuda_backend(c)) != 0;
    rm_cuda_destroy(c);
    if (card) bad |= steps(0) != 0 || steps(1) != 0;
    return bad;
}
