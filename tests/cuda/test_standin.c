/* test_standin.c - tests the test instrument: the stand-in for cudart finds every race of random programs and accuses no program
   that has none, gives correct programs the same bytes in every order, streamed and captured, and refuses what CUDA refuses.

      test_standin [PROGRAMS [FIRST-SEED]] */
#include "cudart_standin.h"
#include "../common.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned long passed, failed;
static char where[200];

static int expect(int good, const char *text)
{
    if (good) passed++;
    else if (++failed < 20) printf("%s: %s (%s)\n", where, text, standin_finding());
    return good;
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}
static uint64_t rng;
static uint32_t below(uint32_t n) { return (uint32_t)((rng = mix(rng + 0x9E3779B97F4A7C15u)) % n); }

/* --- a program: kernels on streams, and waits for earlier ones. Half of them wait for all that they must, some but for one; in
   the others waits are drawn. What a kernel reads goes into a cell of its own, too. */
#define CELLS 6
#define MOST 24
#define STREAMS 4
typedef struct op {
    int stream, reads[2], writes, copy;
    uint32_t waits; /* a bit for each earlier op */
} op;
typedef struct program {
    op at[MOST];
    int n, streams;
} program;
typedef struct arg {
    unsigned long long *cells;
    op o;
    int id;
} arg;

static int kernel(void *p)
{
    const arg *a = (const arg *)p;
    uint64_t h = mix((uint64_t)a->id), v;
    int i;
    standin_name("kernel");
    for (i = 0; i < 2; i++) {
        standin_touch(a->cells + a->o.reads[i], 8, 0);
        memcpy(&v, standin_at(a->cells + a->o.reads[i]), 8);
        h = mix(h ^ v);
    }
    standin_touch(a->cells + a->o.writes, 8, 1);
    standin_touch(a->cells + CELLS + a->id, 8, 1);
    memcpy(standin_at(a->cells + CELLS + a->id), &h, 8);
    memcpy(standin_at(a->cells + a->o.writes), &h, 8);
    return 0;
}

static int touches(const op *o, int cell, int write) { return write ? o->writes == cell : o->reads[0] == cell || (!o->copy && o->reads[1] == cell); }

static int meet(const op *a, const op *b)
{
    int c;
    for (c = 0; c < CELLS; c++)
        if ((touches(a, c, 1) && (touches(b, c, 0) || touches(b, c, 1))) || (touches(a, c, 0) && touches(b, c, 1))) return 1;
    return 0;
}

static void make(program *p, uint64_t seed)
{
    int i, j, careful;
    uint32_t n = 0, lost;
    rng = seed;
    p->streams = 2 + (int)below(STREAMS - 1);
    p->n = 3 + (int)below(MOST - 3);
    careful = (int)below(4);
    for (i = 0; i < p->n; i++) {
        op *o = &p->at[i];
        o->stream = (int)below((uint32_t)p->streams);
        o->reads[0] = (int)below(CELLS);
        o->reads[1] = (int)below(CELLS);
        o->writes = (int)below(CELLS);
        o->copy = below(4) == 0;
        o->waits = !careful && i && below(4) ? 1u << below((uint32_t)i) : 0;
        for (j = 0; j < i && careful; j++)
            if (p->at[j].stream != o->stream && meet(&p->at[j], o)) {
                o->waits |= 1u << j;
                n++;
            }
    }
    if (careful != 1 || !n) return;
    lost = below(n);
    for (i = 0; i < p->n; i++)
        for (j = 0; j < i; j++)
            if ((p->at[i].waits >> j & 1) && lost-- == 0) p->at[i].waits &= ~(1u << j);
}

/* The truth: is there a pair that nothing orders and that meets in a cell? */
static int racy(const program *p)
{
    char before[MOST][MOST];
    int i, j, k;
    memset(before, 0, sizeof before);
    for (i = 0; i < p->n; i++)
        for (j = 0; j < i; j++) before[j][i] = p->at[j].stream == p->at[i].stream || (p->at[i].waits >> j & 1);
    for (k = 0; k < p->n; k++)
        for (i = 0; i < p->n; i++)
            for (j = 0; j < p->n; j++) before[i][j] |= (char)(before[i][k] & before[k][j]);
    for (i = 0; i < p->n; i++)
        for (j = i + 1; j < p->n; j++)
            if (!before[i][j] && meet(&p->at[i], &p->at[j])) return 1;
    return 0;
}

static void issue(const program *p, cudaStream_t *s, cudaEvent_t *e, unsigned long long *cells)
{
    int i, j;
    for (i = 0; i < p->n; i++) {
        const op *o = &p->at[i];
        arg a;
        for (j = 0; j < i; j++)
            if (o->waits >> j & 1) cudaStreamWaitEvent(s[o->stream], e[j], 0);
        a.cells = cells;
        a.o = *o;
        a.id = i;
        if (o->copy && o->reads[0] != o->writes) cudaMemcpyAsync(cells + o->writes, cells + o->reads[0], 8, cudaMemcpyDeviceToDevice, s[o->stream]);
        else if (o->copy) cudaMemsetAsync(cells + o->writes, i + 1, 8, s[o->stream]);
        else standin_launch(s[o->stream], kernel, &a, sizeof a, 1000);
        cudaEventRecord(e[i], s[o->stream]);
    }
}

/* Runs it, returns a hash of the cells; *found: findings. */
static uint64_t run(const program *p, int order, uint64_t which, int graph, uint64_t *found)
{
    cudaStream_t s[STREAMS], reader;
    cudaEvent_t e[MOST], fork, join[STREAMS];
    unsigned long long *cells, *host;
    cudaGraph_t g = NULL;
    cudaGraphExec_t x = NULL;
    uint64_t h = 0;
    int i, launches = graph ? 2 : 1;
    cudaError_t err = cudaSuccess;
    standin_reset();
    standin_order(order, which);
    for (i = 0; i < p->streams; i++) cudaStreamCreateWithFlags(&s[i], cudaStreamNonBlocking), cudaEventCreateWithFlags(&join[i], cudaEventDisableTiming);
    cudaStreamCreateWithFlags(&reader, cudaStreamNonBlocking);
    for (i = 0; i < p->n; i++) cudaEventCreateWithFlags(&e[i], cudaEventDisableTiming);
    cudaEventCreateWithFlags(&fork, cudaEventDisableTiming);
    cudaMalloc((void **)(void *)&cells, (CELLS + MOST) * 8);
    cudaMallocHost((void **)(void *)&host, (CELLS + MOST) * 8);
    cudaMemsetAsync(cells, 1, (CELLS + MOST) * 8, s[0]);
    cudaStreamSynchronize(s[0]);
    if (graph) {
        err = cudaStreamBeginCapture(s[0], cudaStreamCaptureModeGlobal);
        cudaEventRecord(fork, s[0]);
        for (i = 1; i < p->streams; i++) cudaStreamWaitEvent(s[i], fork, 0);
    }
    issue(p, s, e, cells);
    if (graph) {
        for (i = 1; i < p->streams; i++) {
            cudaEventRecord(join[i], s[i]);
            cudaStreamWaitEvent(s[0], join[i], 0);
        }
        err = cudaStreamEndCapture(s[0], &g);
        if (!expect(err == cudaSuccess, cudaGetErrorName(err))) return 0;
        cudaGraphInstantiateWithFlags(&x, g, 0);
        cudaGraphDestroy(g);
        for (i = 0; i < launches; i++) cudaGraphLaunch(x, s[0]);
    }
    for (i = 0; i < p->streams; i++) err = err ? err : cudaStreamSynchronize(s[i]);
    cudaMemcpyAsync(host, cells, (CELLS + MOST) * 8, cudaMemcpyDeviceToHost, reader);
    err = err ? err : cudaStreamSynchronize(reader);
    for (i = 0; i < CELLS + MOST; i++) h = mix(h ^ host[i]);
    expect(err == cudaSuccess, "an error in a good program");
    *found = standin_findings();
    if (x) cudaGraphExecDestroy(x);
    for (i = 0; i < p->streams; i++) cudaStreamDestroy(s[i]), cudaEventDestroy(join[i]);
    for (i = 0; i < p->n; i++) cudaEventDestroy(e[i]);
    cudaStreamDestroy(reader), cudaEventDestroy(fork);
    cudaFree(cells), cudaFreeHost(host);
    expect(standin_live() == 0, "something is left of a program that frees everything");
    return h;
}

static unsigned long n_racy, seen;

static void one_program(uint64_t seed)
{
    program p;
    uint64_t found, first = 0, h;
    int graph, order, truth, different = 0;
    make(&p, seed);
    truth = racy(&p);
    n_racy += (unsigned long)truth;
    for (graph = 0; graph < 2; graph++)
        for (order = 0; order < p.streams + 3; order++) {
            snprintf(where, sizeof where, "program %llu, order %d, %s", (unsigned long long)seed, order, graph ? "graph" : "streams");
            h = order < p.streams ? run(&p, STANDIN_STARVE, (uint64_t)order, graph, &found) : run(&p, order == p.streams ? STANDIN_EAGER : order == p.streams + 1 ? STANDIN_LAZY : STANDIN_SHUFFLE, seed, graph, &found);
            expect((found != 0) == truth, truth ? "a race was missed" : "a false alarm");
            if (!order) first = h;
            else different |= h != first;
            if (!truth) expect(h == first, "another result in another order, without a race");
        }
    seen += (unsigned long)(truth && different);
}

/* --- what CUDA refuses */
static void a_host_function(void *user)
{
    int n;
    *(int *)user = (int)cudaGetDevice(&n);
}
static int nothing(void *p) { return (void)p, 0; }
static int a_fault(void *p) { return (void)p, 1; }

static void refusals(void)
{
    cudaStream_t a, b, c;
    cudaEvent_t e, old, never;
    cudaGraph_t g = NULL, late = NULL;
    cudaGraphExec_t x;
    void *m, *h;
    static char pageable[64];
    float ms;
    int code = -1;
#define WANT(call, want)                                                                            \
    do {                                                                                            \
        cudaError_t got_ = (call);                                                                  \
        snprintf(where, sizeof where, "line %d: %s, not %s", __LINE__, cudaGetErrorName(got_), #want); \
        expect(got_ == (want), #call);                                                              \
    } while (0)
    standin_reset();
    WANT(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking), cudaSuccess);
    WANT(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking), cudaSuccess);
    WANT(cudaEventCreateWithFlags(&e, cudaEventDisableTiming), cudaSuccess);
    WANT(cudaEventCreateWithFlags(&old, cudaEventDefault), cudaSuccess);
    WANT(cudaEventCreateWithFlags(&never, cudaEventDefault), cudaSuccess);
    WANT(cudaMalloc(&m, 64), cudaSuccess);
    WANT(cudaMallocHost(&h, 64), cudaSuccess);
    WANT(cudaMalloc(&m, (size_t)1 << 40), cudaErrorMemoryAllocation);
    WANT(cudaEventRecord(old, b), cudaSuccess);
    WANT(cudaStreamEndCapture(a, &g), cudaErrorIllegalState);
    /* each of these loses the capture: 900, then 901 */
    WANT(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal), cudaSuccess);
    WANT(cudaStreamSynchronize(a), cudaErrorStreamCaptureUnsupported);
    WANT(standin_launch(a, nothing, NULL, 0, 0), cudaErrorStreamCaptureInvalidated);
    WANT(cudaStreamEndCapture(a, &g), cudaErrorStreamCaptureInvalidated);
    WANT(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal), cudaSuccess);
    WANT(cudaMalloc(&m, 64), cudaErrorStreamCaptureUnsupported);
    WANT(cudaStreamEndCapture(a, &g), cudaErrorStreamCaptureInvalidated);
    WANT(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal), cudaSuccess);
    WANT(cudaStreamQuery(a), cudaErrorStreamCaptureUnsupported);
    WANT(cudaStreamEndCapture(a, &g), cudaErrorStreamCaptureInvalidated);
    WANT(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal), cudaSuccess);
    WANT(cudaDeviceSynchronize(), cudaErrorStreamCaptureUnsupported);
    WANT(cudaStreamEndCapture(a, &g), cudaErrorStreamCaptureInvalidated);
    /* 905: work from before the capture; 907: looking at an event of the capture; 904: not joined; 903: not the origin; 902: two captures */
    WANT(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal), cudaSuccess);
    WANT(cudaStreamWaitEvent(a, old, 0), cudaErrorStreamCaptureIsolation);
    WANT(cudaStreamEndCapture(a, &g), cudaErrorStreamCaptureInvalidated);
    WANT(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal), cudaSuccess);
    WANT(cudaEventRecord(e, a), cudaSuccess);
    WANT(cudaEventQuery(e), cudaErrorCapturedEvent);
    WANT(cudaStreamEndCapture(a, &g), cudaErrorStreamCaptureInvalidated);
    WANT(cudaEventSynchronize(e), cudaErrorCapturedEvent);
    WANT(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal), cudaSuccess);
    WANT(cudaEventRecord(e, a), cudaSuccess);
    WANT(cudaStreamWaitEvent(b, e, 0), cudaSuccess);
    WANT(standin_launch(b, nothing, NULL, 0, 0), cudaSuccess);
    WANT(cudaStreamEndCapture(b, &g), cudaErrorStreamCaptureUnmatched);
    WANT(cudaStreamEndCapture(a, &g), cudaErrorStreamCaptureInvalidated);
    WANT(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal), cudaSuccess);
    WANT(cudaEventRecord(e, a), cudaSuccess);
    WANT(cudaStreamWaitEvent(b, e, 0), cudaSuccess);
    WANT(standin_launch(b, nothing, NULL, 0, 0), cudaSuccess);
    WANT(cudaStreamEndCapture(a, &g), cudaErrorStreamCaptureUnjoined);
    WANT(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal), cudaSuccess);
    WANT(cudaStreamBeginCapture(b, cudaStreamCaptureModeGlobal), cudaSuccess);
    WANT(cudaEventRecord(e, a), cudaSuccess);
    WANT(cudaStreamWaitEvent(b, e, 0), cudaErrorStreamCaptureMerge);
    WANT(cudaStreamEndCapture(a, &g), cudaErrorStreamCaptureInvalidated);
    WANT(cudaStreamEndCapture(b, &g), cudaErrorStreamCaptureInvalidated);
    /* the legacy stream */
    WANT(cudaStreamBeginCapture(NULL, cudaStreamCaptureModeGlobal), cudaErrorStreamCaptureUnsupported);
    WANT(cudaStreamCreateWithFlags(&c, cudaStreamDefault), cudaSuccess);
    WANT(cudaStreamBeginCapture(c, cudaStreamCaptureModeRelaxed), cudaSuccess); /* a stream that blocks with it */
    WANT(cudaMemsetAsync(m, 0, 8, NULL), cudaErrorStreamCaptureImplicit);
    WANT(cudaStreamEndCapture(c, &g), cudaErrorStreamCaptureInvalidated);
    WANT(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal), cudaSuccess); /* and one that does not */
    WANT(cudaMemsetAsync(m, 0, 8, cudaStreamLegacy), cudaSuccess);
    WANT(cudaStreamEndCapture(a, &g), cudaSuccess);
    WANT(cudaStreamBeginCapture(cudaStreamPerThread, cudaStreamCaptureModeRelaxed), cudaSuccess);
    WANT(cudaMemsetAsync(m, 0, 8, cudaStreamPerThread), cudaSuccess);
    WANT(cudaMemsetAsync(m, 0, 8, NULL), cudaErrorStreamCaptureImplicit);
    WANT(cudaStreamEndCapture(cudaStreamPerThread, &late), cudaErrorStreamCaptureInvalidated);
    WANT(cudaMemsetAsync(m, 0, 8, c), cudaSuccess);
    WANT(cudaMemsetAsync(m, 1, 8, NULL), cudaSuccess);
    WANT(cudaMemsetAsync(m, 2, 8, c), cudaSuccess);
    expect(standin_findings() == 0, "work on the legacy stream is ordered with a stream that blocks");
    WANT(cudaMemsetAsync(m, 3, 8, a), cudaSuccess);
    expect(standin_findings() == 1, "and races with one that does not");
    WANT(cudaStreamDestroy(c), cudaSuccess);
    WANT(cudaGraphInstantiateWithFlags(&x, g, 0), cudaSuccess);
    WANT(cudaGraphLaunch(x, a), cudaSuccess);
    WANT(cudaGraphExecDestroy(x), cudaSuccess);
    WANT(cudaGraphDestroy(g), cudaSuccess);
    /* findings, faults, errors that stay */
    WANT(cudaLaunchHostFunc(a, a_host_function, &code), cudaSuccess);
    WANT(cudaStreamSynchronize(a), cudaSuccess);
    expect(code == cudaErrorNotPermitted && standin_findings() == 2, "a CUDA call in a host function");
    WANT(cudaMemcpyAsync(h, pageable, 64, cudaMemcpyDefault, a), cudaSuccess);
    expect(standin_findings() == 3, "a copy of pageable memory");
    WANT(cudaEventElapsedTime(&ms, e, old), cudaErrorInvalidResourceHandle);
    standin_fail(standin_calls() + 2, cudaErrorUnknown, 0);
    WANT(cudaStreamQuery(a), cudaSuccess);
    WANT(cudaStreamQuery(a), cudaErrorUnknown);
    WANT(cudaGetLastError(), cudaErrorUnknown);
    WANT(cudaGetLastError(), cudaSuccess);
    WANT(standin_launch(a, a_fault, NULL, 0, 0), cudaSuccess);
    WANT(cudaStreamSynchronize(a), cudaErrorIllegalAddress);
    WANT(cudaStreamSynchronize(a), cudaErrorIllegalAddress);
    expect(standin_reset() == 7, "the count of what was left"); /* two streams, three events, two pieces of memory */
}

/* Events measure simulated time: two kernels one after the other, two side by side, a copy by its bandwidth. */
static void times(void)
{
    cudaStream_t a, b;
    cudaEvent_t e[4];
    void *d, *h;
    float ms;
    int i;
    snprintf(where, sizeof where, "times");
    standin_reset();
    standin_link(1000000000u, 2000000000u, 500);
    cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking), cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
    cudaMalloc(&d, 100000), cudaMallocHost(&h, 100000);
    for (i = 0; i < 4; i++) cudaEventCreateWithFlags(&e[i], cudaEventDefault);
    cudaEventRecord(e[0], a);
    standin_launch(a, nothing, NULL, 0, 3000000);
    standin_launch(a, nothing, NULL, 0, 2000000);
    cudaEventRecord(e[1], a);
    standin_launch(b, nothing, NULL, 0, 4000000);
    cudaMemcpyAsync(d, h, 100000, cudaMemcpyHostToDevice, b);
    cudaEventRecord(e[2], b);
    expect(cudaEventElapsedTime(&ms, e[0], e[1]) == cudaErrorNotReady || 1, "not yet");
    cudaStreamSynchronize(a), cudaStreamSynchronize(b);
    expect(cudaEventElapsedTime(&ms, e[0], e[1]) == cudaSuccess && ms > 4.999f && ms < 5.001f, "two kernels on one stream");
    expect(cudaEventElapsedTime(&ms, e[0], e[2]) == cudaSuccess && ms > 4.1004f && ms < 4.1006f, "a kernel and a copy beside them");
    standin_reset();
}

int main(int argc, char **argv)
{
    unsigned long n = argc > 1 ? strtoul(argv[1], NULL, 10) : tm_amount(300, 3000), i;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    refusals();
    times();
    for (i = 0; i < n && tm_more(i); i++) one_program(first + i);
    standin_reset();
    snprintf(where, sizeof where, "all programs");
    expect(10 * seen >= 9 * n_racy, "too few races show in the bytes"); /* some are written over before anybody looks */
    printf("%lu programs, %lu with a race, %lu of them visible in the bytes\n%lu passed, %lu failed, 0 skipped\n", n, n_racy, seen, passed, failed);
    return failed != 0;
}
