/* cudart_standin.c - see cudart_standin.h. A test instrument. */
#define _GNU_SOURCE
#include "cudart_standin.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define QUEUES 160u
#define NONE 0xFFFFFFFFu

typedef struct clock_v {
    uint32_t at[QUEUES];
} clock_v;

typedef enum what { KERNEL, COPY, SET, HOST, RECORD, JOIN } what;

typedef struct work { /* what is enqueued, and a node of a graph */
    what kind;
    standin_fn fn;
    cudaHostFn_t host;
    void *arg; /* owned by the item or the node */
    size_t arg_bytes;
    void *dst;
    const void *src;
    size_t bytes;
    int value;
    uint64_t ns;
    struct CUevent_st *event; /* RECORD */
} work;

typedef struct item {
    work w;
    uint64_t *deps; /* numbers of items */
    uint32_t n_deps, queue, index;
    int done;
    clock_v clock;
    uint64_t not_before, end;
} item;

typedef struct node {
    work w;
    uint32_t *deps, n_deps, lane;
} node;

struct CUgraph_st {
    node *at;
    uint32_t n, cap, n_lanes;
    uint32_t lane_class[32];
    int valid, relaxed; /* relaxed: calls that may wait do no harm to it */
    struct CUgraph_st *next;
};

struct CUgraphExec_st {
    struct CUgraph_st g;
    uint32_t queue[32];
    uint64_t last; /* its previous launch: its end */
    uint64_t bytes; /* of the device, once it is there */
    int there;
    clock_v clock;
    struct CUgraphExec_st *next;
};

struct CUstream_st {
    uint32_t queue, cls;
    unsigned flags;
    int device;
    uint64_t last; /* item number, or 0 */
    uint64_t pending[64];
    uint32_t n_pending;
    clock_v clock; /* joined by waits, handed to the next item */
    /* capture */
    struct CUgraph_st *graph;
    int origin;
    uint32_t lane;
    uint32_t *front, n_front;
    struct CUstream_st *next;
};

struct CUevent_st {
    int timing, recorded, sleeps;
    uint32_t number; /* from 1, as they were made */
    uint64_t item;
    clock_v clock;
    uint64_t time;
    struct CUgraph_st *graph; /* recorded in this capture */
    uint32_t *front, n_front;
    struct CUevent_st *next;
};

typedef struct block {
    unsigned char *p, *real;
    size_t bytes, mapped;
    int kind; /* 0 device, 1 pinned, 2 registered */
    int device;
    struct block *next;
} block;

typedef struct access {
    const unsigned char *lo, *hi;
    int write;
    uint32_t queue, index;
    char name[48];
} access_t;

static struct {
    struct CUstream_st *streams, *legacy, *per_thread; /* the default streams are made when they are first used */
    struct CUevent_st *events;
    struct CUgraph_st *graphs;
    struct CUgraphExec_st *execs;
    block *blocks;
    item *items; /* numbers base .. base + n - 1 */
    uint64_t base;
    uint32_t n, cap, undone;
    uint64_t *queue_items[QUEUES];
    uint32_t q_head[QUEUES], q_n[QUEUES], q_cap[QUEUES], q_index[QUEUES], q_class[QUEUES];
    uint64_t q_end[QUEUES]; /* simulated time at which its last item ended */
    uint32_t n_queues, n_classes;
    clock_v host;
    access_t *acc;
    uint32_t n_acc, cap_acc;
    int order, no_races, pageable, in_item, in_host;
    uint64_t which, rng;
    uint32_t n_events;
    uint64_t calls, fail_call, waits, drop, created, live, findings;
    cudaError_t fail_code, sticky, last_error;
    int fail_sticky, device, devices;
    uint64_t syncs, drop_sync;
    item *now;
    char finding[300], name[48], call[48], failed_call[48], dropped[64];
    uint64_t total, taken, used, graph_bytes, pool, pool_used, h2d, d2h, latency, engine[2], clock_ns;
    uint32_t capturing, contend;
    uint64_t host_late, host_ns, spins;
    uint32_t host_contend, asked;
    int late_records, idle, plain;
} S;

static void *need(void *p)
{
    if (!p) abort();
    return p;
}

static void setup(void)
{
    if (S.n_queues) return;
    S.n_queues = 1; /* the host */
    S.base = 1;
    if (!S.total) S.total = (uint64_t)64 << 20;
    if (!S.h2d) {
        S.h2d = S.d2h = 10000000000u;
        S.latency = 1000;
    }
}

static void found(const char *fact, const char *more)
{
    if (!S.findings++) snprintf(S.finding, sizeof S.finding, "%s%s%s", fact, more ? ": " : "", more ? more : "");
}

/* Every call comes through here. */
static cudaError_t enter(const char *name)
{
    setup();
    S.calls++;
    snprintf(S.call, sizeof S.call, "%s", name);
    if (S.in_host) {
        found("a CUDA call inside a host function", name);
        return S.last_error = cudaErrorNotPermitted;
    }
    if (S.sticky) return S.last_error = S.sticky;
    if (S.fail_call && S.calls == S.fail_call) {
        if (S.fail_sticky) S.sticky = S.fail_code;
        snprintf(S.failed_call, sizeof S.failed_call, "%s", name);
        return S.last_error = S.fail_code;
    }
    return cudaSuccess;
}

static cudaError_t bad(cudaError_t e) { return S.last_error = e; }

#define ENTER(name)                    \
    do {                               \
        cudaError_t e_ = enter(name);  \
        if (e_) return e_;             \
    } while (0)

/* --- memory */
static block *block_of(const void *p)
{
    block *b;
    for (b = S.blocks; b; b = b->next)
        if ((const unsigned char *)p >= b->p && (const unsigned char *)p < b->p + (b->bytes ? b->bytes : 1)) return b;
    return NULL;
}

void *standin_at(const void *p)
{
    block *b = block_of(p);
    return b ? b->real + ((const unsigned char *)p - b->p) : NULL;
}

static uint32_t random_below(uint32_t n)
{
    S.rng = S.rng * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((S.rng >> 33) % n);
}

/* --- races */
static int ordered(const clock_v *c, const access_t *a) { return c->at[a->queue] >= a->index; }

static void check_access(const clock_v *c, uint32_t queue, uint32_t index, const char *name, const void *p, size_t bytes, int write)
{
    const unsigned char *lo = (const unsigned char *)p, *hi = lo + bytes;
    access_t *a;
    uint32_t i, k = 0;
    char text[200];
    for (i = 0; i < S.n_acc; i++) {
        int over = S.acc[i].lo < hi && lo < S.acc[i].hi, before = ordered(c, &S.acc[i]);
        a = &S.acc[i];
        if (over && (write || a->write) && !before) {
            snprintf(text, sizeof text, "%s (queue %u) and %s (queue %u), bytes %p to %p", a->name, a->queue, name, queue, (const void *)(a->lo > lo ? a->lo : lo), (const void *)(a->hi < hi ? a->hi : hi));
            found("a race", text);
        }
        if (over && before && lo <= a->lo && a->hi <= hi && (write || (!a->write && a->queue == queue))) continue; /* later ones meet this one */
        S.acc[k++] = *a;
    }
    S.n_acc = k;
    if (S.n_acc == S.cap_acc) S.acc = (access_t *)need(realloc(S.acc, (S.cap_acc = 2 * S.cap_acc + 64) * sizeof(access_t)));
    a = &S.acc[S.n_acc++];
    a->lo = lo;
    a->hi = hi;
    a->write = write;
    a->queue = queue;
    a->index = index;
    snprintf(a->name, sizeof a->name, "%s", name);
}

void standin_touch(const void *p, size_t bytes, int write)
{
    setup();
    if (!bytes) return;
    if (S.now && (!standin_at(p) || !standin_at((const unsigned char *)p + bytes - 1)) && !S.in_host) {
        found("bytes that are nobody's", S.name);
        return;
    }
    if (S.no_races) return;
    if (S.now) check_access(&S.now->clock, S.now->queue, S.now->index, S.name, p, bytes, write);
    else {
        S.host.at[0]++;
        check_access(&S.host, 0, S.host.at[0], "the host", p, bytes, write);
    }
}

void standin_name(const char *name) { snprintf(S.name, sizeof S.name, "%s", name); }

static void join_clock(clock_v *to, const clock_v *from)
{
    uint32_t i;
    for (i = 0; i < S.n_queues; i++)
        if (to->at[i] < from->at[i]) to->at[i] = from->at[i];
}

/* --- running */
static item *item_of(uint64_t number) { return number < S.base ? NULL : &S.items[number - S.base]; }

static int is_done(uint64_t number)
{
    item *t = item_of(number);
    return !t || t->done;
}

static void execute(item *t)
{
    uint64_t start = t->not_before, took = t->w.ns;
    uint32_t i;
    void *dst;
    const void *src;
    int engine = -1;
    for (i = 0; i < t->n_deps; i++) {
        item *d = item_of(t->deps[i]);
        if (d && d->end > start) start = d->end;
    }
    if (S.q_end[t->queue] > start) start = S.q_end[t->queue];
    S.now = t;
    if (t->w.kind == COPY) {
        block *from = block_of(t->w.src), *to = block_of(t->w.dst);
        if (from && to && from->kind && !to->kind) engine = 0;
        if (from && to && to->kind && !from->kind) engine = 1;
        if (engine >= 0) {
            if (S.engine[engine] > start) start = S.engine[engine];
            took = S.latency + (uint64_t)((double)t->w.bytes * 1e9 / (double)(engine ? S.d2h : S.h2d));
            if (S.engine[1 - engine] > start) took += took * S.contend / 100; /* both ways at once */
        }
        standin_name(engine == 0 ? "copy to the device" : engine == 1 ? "copy to the host" : "copy");
        standin_touch(t->w.src, t->w.bytes, 0);
        standin_touch(t->w.dst, t->w.bytes, 1);
        dst = standin_at(t->w.dst);
        src = standin_at(t->w.src);
        if (S.idle) {
            if (dst && engine == 1) memset(dst, 0, t->w.bytes); /* what the host reads of the device */
        } else if (t->w.bytes && dst && src) memmove(dst, src, t->w.bytes);
    } else if (t->w.kind == SET) {
        standin_name("memset");
        standin_touch(t->w.dst, t->w.bytes, 1);
        if (t->w.bytes && standin_at(t->w.dst) && !S.idle) memset(standin_at(t->w.dst), t->w.value, t->w.bytes);
    } else if (t->w.kind == KERNEL) {
        standin_name("kernel");
        if (t->w.fn(t->w.arg)) S.sticky = cudaErrorIllegalAddress;
    } else if (t->w.kind == HOST) {
        standin_name("host function");
        start += S.host_late;
        took = S.host_ns;
        if (S.engine[0] > start || S.engine[1] > start) took += took * S.host_contend / 100; /* they share the host's memory */
        S.in_host = 1;
        t->w.host(t->w.arg);
        S.in_host = 0;
    }
    S.now = NULL;
    t->end = start + took;
    S.q_end[t->queue] = t->end;
    if (engine >= 0) S.engine[engine] = t->end;
    if (t->w.kind == RECORD && t->w.event) t->w.event->time = t->end;
    if (t->w.kind == RECORD && t->w.event && S.late_records) {
        t->w.event->graph = NULL;
        t->w.event->recorded = 1;
        t->w.event->item = S.base + (uint64_t)(t - S.items);
        t->w.event->clock = t->clock;
    }
    t->done = 1;
    S.undone--;
    free(t->w.kind == KERNEL ? t->w.arg : NULL);
    t->w.arg = NULL;
    free(t->deps);
    t->deps = NULL;
    t->n_deps = 0;
}

static int runnable(const item *t)
{
    uint32_t i;
    for (i = 0; i < t->n_deps; i++)
        if (!is_done(t->deps[i])) return 0;
    return 1;
}

/* The first item of a queue that has not run, or NULL. */
static item *head(uint32_t q)
{
    while (S.q_head[q] < S.q_n[q] && is_done(S.queue_items[q][S.q_head[q]])) S.q_head[q]++;
    return S.q_head[q] < S.q_n[q] ? item_of(S.queue_items[q][S.q_head[q]]) : NULL;
}

/* Runs whatever can run in queues of other classes than `not_class`. */
static void run_free(uint32_t not_class)
{
    uint32_t q;
    int again = 1;
    while (again && S.undone)
        for (again = 0, q = 1; q < S.n_queues; q++) {
            item *t;
            if (S.q_class[q] == not_class) continue;
            while ((t = head(q)) != NULL && runnable(t)) {
                execute(t);
                again = 1;
            }
        }
}

static void run_needed(uint64_t number)
{
    item *t = item_of(number);
    uint32_t i, n;
    if (!t || t->done) return;
    n = t->n_deps;
    for (i = 0; i < n; i++) run_needed(t->deps[i]);
    execute(t);
}

static void run_shuffled(uint64_t target)
{
    while (!is_done(target)) {
        uint32_t q, n = 0, can[QUEUES];
        for (q = 1; q < S.n_queues; q++) {
            item *t = head(q);
            if (t && runnable(t)) can[n++] = q;
        }
        if (!n) abort();
        execute(head(can[random_below(n)]));
    }
}

static void run_starved(uint64_t target)
{
    while (!is_done(target)) {
        uint32_t q;
        run_free((uint32_t)S.which);
        if (is_done(target)) return;
        for (q = 1; q < S.n_queues; q++) {
            item *t = S.q_class[q] == (uint32_t)S.which ? head(q) : NULL;
            if (t && runnable(t)) {
                execute(t);
                break;
            }
        }
        if (q == S.n_queues) abort(); /* the edges have no circles */
    }
}

static void forget_done(void)
{
    uint32_t q;
    if (S.undone) return;
    S.base += S.n;
    S.n = 0;
    for (q = 0; q < S.n_queues; q++) S.q_head[q] = S.q_n[q] = 0;
}

static void run_until(uint64_t target)
{
    if (S.order == STANDIN_LAZY) run_needed(target);
    else if (S.order == STANDIN_SHUFFLE) run_shuffled(target);
    else if (S.order == STANDIN_STARVE) run_starved(target);
    else run_free(NONE);
}

static void enqueued(void)
{
    if (S.order == STANDIN_EAGER) run_free(NONE);
    if (S.order == STANDIN_STARVE) run_free((uint32_t)S.which);
}

static uint64_t add_item(uint32_t queue, const work *w, const uint64_t *deps, uint32_t n_deps)
{
    item *t;
    if (S.n == S.cap) S.items = (item *)need(realloc(S.items, (S.cap = 2 * S.cap + 64) * sizeof(item)));
    t = &S.items[S.n++];
    memset(t, 0, sizeof *t);
    t->w = *w;
    if (w->kind == KERNEL) {
        t->w.arg = need(malloc(w->arg_bytes + 1));
        if (w->arg_bytes) memcpy(t->w.arg, w->arg, w->arg_bytes);
    }
    t->deps = (uint64_t *)need(malloc((n_deps + 1) * sizeof(uint64_t)));
    if (n_deps) memcpy(t->deps, deps, n_deps * sizeof(uint64_t));
    t->n_deps = n_deps;
    t->queue = queue;
    t->index = ++S.q_index[queue];
    t->not_before = S.clock_ns;
    S.undone++;
    if (S.q_n[queue] == S.q_cap[queue]) S.queue_items[queue] = (uint64_t *)need(realloc(S.queue_items[queue], (S.q_cap[queue] = 2 * S.q_cap[queue] + 64) * sizeof(uint64_t)));
    S.queue_items[queue][S.q_n[queue]++] = S.base + S.n - 1;
    return S.base + S.n - 1;
}

/* --- capture */
static uint32_t add_node(struct CUstream_st *s, const work *w)
{
    struct CUgraph_st *g = s->graph;
    node *v;
    if (g->n == g->cap) g->at = (node *)need(realloc(g->at, (g->cap = 2 * g->cap + 32) * sizeof(node)));
    v = &g->at[g->n++];
    v->w = *w;
    if (w->kind == KERNEL) {
        v->w.arg = need(malloc(w->arg_bytes + 1));
        if (w->arg_bytes) memcpy(v->w.arg, w->arg, w->arg_bytes);
    }
    v->lane = s->lane;
    v->deps = s->front;
    v->n_deps = s->n_front;
    s->front = (uint32_t *)need(malloc(sizeof(uint32_t)));
    s->front[0] = g->n - 1;
    s->n_front = 1;
    return g->n - 1;
}

static void drop_nodes(struct CUgraph_st *g)
{
    uint32_t i;
    for (i = 0; i < g->n; i++) {
        free(g->at[i].deps);
        if (g->at[i].w.kind == KERNEL) free(g->at[i].w.arg);
    }
    free(g->at);
    g->at = NULL;
    g->n = g->cap = 0;
}

static void leave_capture(struct CUstream_st *s)
{
    s->graph = NULL;
    s->origin = 0;
    free(s->front);
    s->front = NULL;
    s->n_front = 0;
}

/* A call that capture does not allow: the capture is lost. */
static cudaError_t spoil(struct CUgraph_st *g, cudaError_t e)
{
    if (g) g->valid = 0;
    return bad(e);
}

static cudaError_t unsafe_call(void)
{
    struct CUstream_st *s;
    for (s = S.streams; s; s = s->next)
        if (s->graph && !s->graph->relaxed) return spoil(s->graph, cudaErrorStreamCaptureUnsupported);
    return cudaSuccess;
}

/* The same for an event's capture, if that still goes on. */
static cudaError_t spoil_event(cudaEvent_t v)
{
    struct CUstream_st *s;
    for (s = S.streams; s; s = s->next)
        if (s->graph == v->graph) return spoil(s->graph, cudaErrorCapturedEvent);
    return bad(cudaErrorCapturedEvent);
}

/* The stream behind a handle: 0 and 1 mean the legacy stream, 2 the per-thread one. */
static cudaStream_t behind(cudaStream_t s)
{
    struct CUstream_st **at = !s || s == cudaStreamLegacy ? &S.legacy : s == cudaStreamPerThread ? &S.per_thread : NULL;
    if (!at) return s;
    if (!*at) {
        if (S.n_queues == QUEUES) abort();
        *at = (struct CUstream_st *)need(calloc(1, sizeof **at));
        (*at)->queue = S.n_queues++;
        (*at)->cls = NONE - 1;
        (*at)->device = S.device;
        S.q_class[(*at)->queue] = (*at)->cls;
        (*at)->next = S.streams;
        S.streams = *at;
    }
    return *at;
}

static int blocking(const struct CUstream_st *s) { return s != S.legacy && !(s->flags & cudaStreamNonBlocking); }

static int known_stream(cudaStream_t s)
{
    struct CUstream_st *k;
    for (k = S.streams; k; k = k->next)
        if (k == s) return 1;
    return 0;
}

/* The legacy stream has to do with each that blocks with it: work there ends their captures. */
static int implicit(cudaStream_t s)
{
    struct CUstream_st *k;
    int any = 0;
    for (k = S.streams; k && s == S.legacy; k = k->next)
        if (k->graph && blocking(k)) any = 1, k->graph->valid = 0;
    return any;
}

/* Device work on a stream: enqueued or captured. */
static cudaError_t put(cudaStream_t s, const work *w)
{
    static uint64_t deps[QUEUES * 66];
    uint32_t n = 0, i;
    struct CUstream_st *k;
    item *t;
    s = behind(s);
    if (!known_stream(s)) return bad(cudaErrorInvalidResourceHandle);
    if (implicit(s)) return bad(cudaErrorStreamCaptureImplicit);
    if ((w->kind == KERNEL || w->kind == SET) && s->device != S.device) return bad(cudaErrorInvalidResourceHandle);
    if (s->graph) {
        if (!s->graph->valid) return bad(cudaErrorStreamCaptureInvalidated);
        add_node(s, w);
        return cudaSuccess;
    }
    if (s->last) deps[n++] = s->last;
    for (i = 0; i < s->n_pending; i++) deps[n++] = s->pending[i];
    s->n_pending = 0;
    for (k = S.streams; k && s == S.legacy; k = k->next)
        if (blocking(k)) { /* after all that they have been given */
            if (k->last) deps[n++] = k->last;
            for (i = 0; i < k->n_pending; i++) deps[n++] = k->pending[i];
            join_clock(&s->clock, &k->clock);
        }
    s->last = add_item(s->queue, w, deps, n);
    t = item_of(s->last);
    S.host.at[0]++;
    join_clock(&s->clock, &S.host);
    s->clock.at[s->queue] = t->index;
    t->clock = s->clock;
    for (k = S.streams; k && s == S.legacy; k = k->next)
        if (blocking(k)) { /* and before all that they get */
            if (k->n_pending == 64) abort();
            k->pending[k->n_pending++] = s->last;
            join_clock(&k->clock, &s->clock);
        }
    enqueued();
    return cudaSuccess;
}

static void drain(cudaStream_t s)
{
    struct CUstream_st *k;
    uint32_t i;
    for (k = S.streams; k && s == S.legacy; k = k->next)
        if (blocking(k)) drain(k);
    for (i = 0; i < s->n_pending; i++) run_until(s->pending[i]);
    run_until(s->last);
    if (S.q_end[s->queue] > S.clock_ns) S.clock_ns = S.q_end[s->queue];
    join_clock(&S.host, &s->clock);
    forget_done();
}

/* --- the runtime: errors and the device */
#define CODES(X)                                                                                                                                 \
    X(cudaSuccess, "no error") X(cudaErrorInvalidValue, "invalid argument") X(cudaErrorMemoryAllocation, "out of memory")                        \
    X(cudaErrorInvalidResourceHandle, "invalid resource handle") X(cudaErrorNotReady, "device not ready")                                        \
    X(cudaErrorInvalidDevice, "invalid device ordinal")                                                                                          \
    X(cudaErrorIllegalAddress, "an illegal memory access was encountered") X(cudaErrorNotPermitted, "operation not permitted")                   \
    X(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing")                                                     \
    X(cudaErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture")                                              \
    X(cudaErrorStreamCaptureMerge, "operation would result in a merge of separate capture sequences")                                            \
    X(cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began")                                                   \
    X(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work")                                                                      \
    X(cudaErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream")                                                \
    X(cudaErrorStreamCaptureImplicit, "operation would make the legacy stream depend on a capturing blocking stream")                            \
    X(cudaErrorCapturedEvent, "operation not permitted on an event last recorded in a capturing stream")                                         \
    X(cudaErrorHostMemoryAlreadyRegistered, "part or all of the requested memory range is already mapped")                                       \
    X(cudaErrorHostMemoryNotRegistered, "pointer does not correspond to a registered memory region") X(cudaErrorUnknown, "unknown error")

const char *cudaGetErrorName(cudaError_t e)
{
#define NAME(code, text) \
    if (e == code) return #code;
    CODES(NAME)
    return "unrecognized error code";
}
const char *cudaGetErrorString(cudaError_t e)
{
#define TEXT(code, text) \
    if (e == code) return text;
    CODES(TEXT)
    return "unrecognized error code";
}
cudaError_t cudaGetLastError(void)
{
    cudaError_t e = S.last_error;
    S.last_error = S.sticky;
    return e;
}
cudaError_t cudaPeekAtLastError(void) { return S.last_error; }

cudaError_t cudaGetDevice(int *d)
{
    ENTER("cudaGetDevice");
    *d = S.device;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int d)
{
    ENTER("cudaSetDevice");
    if (d < 0 || d > S.devices) return bad(cudaErrorInvalidDevice);
    S.device = d;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int *n)
{
    ENTER("cudaGetDeviceCount");
    *n = 1 + S.devices;
    return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int *v)
{
    ENTER("cudaRuntimeGetVersion");
    *v = CUDART_VERSION;
    return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int *v)
{
    ENTER("cudaDriverGetVersion");
    *v = CUDART_VERSION;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int *v, enum cudaDeviceAttr a, int d)
{
    ENTER("cudaDeviceGetAttribute");
    *v = a == cudaDevAttrAsyncEngineCount ? 2 : 9;
    return d ? bad(cudaErrorInvalidValue) : cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char *id, int bytes, int d)
{
    ENTER("cudaDeviceGetPCIBusId");
    snprintf(id, (size_t)bytes, "FFFF:FF:%02X.0", (unsigned)d); /* where no machine has one: its node is not known */
    return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t *f, size_t *t)
{
    uint64_t gone = S.used + S.taken + S.pool;
    ENTER("cudaMemGetInfo");
    *f = (size_t)(gone > S.total ? 0 : S.total - gone);
    *t = (size_t)S.total;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    ENTER("cudaDeviceGetStreamPriorityRange");
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize(void)
{
    struct CUstream_st *s;
    ENTER("cudaDeviceSynchronize");
    if (S.capturing && unsafe_call()) return S.last_error;
    for (s = S.streams; s; s = s->next) drain(s);
    return S.sticky ? bad(S.sticky) : cudaSuccess;
}

/* --- the runtime: memory */
static block *new_block(int kind, size_t bytes)
{
    block *b = (block *)need(calloc(1, sizeof(block)));
    b->kind = kind;
    b->bytes = bytes;
    b->device = S.device;
    b->next = S.blocks;
    S.blocks = b;
    S.live++;
    return b;
}
cudaError_t cudaMalloc(void **p, size_t bytes)
{
    block *b;
    cudaError_t e;
    ENTER("cudaMalloc");
    if (S.capturing && (e = unsafe_call()) != cudaSuccess) return e;
    if (bytes > S.total || S.used + S.taken + S.pool + bytes > S.total) return bad(cudaErrorMemoryAllocation);
    b = new_block(0, bytes);
    S.created++;
    b->real = (unsigned char *)need(S.plain ? aligned_alloc(256, bytes / 256 * 256 + 256) : malloc(bytes + 1));
    b->mapped = S.plain ? 0 : (bytes + 4096) / 4096 * 4096 + 4096;
    b->p = S.plain ? b->real : (unsigned char *)mmap(NULL, b->mapped, PROT_NONE, MAP_PRIVATE | MAP_ANON | MAP_NORESERVE, -1, 0);
    if (b->p == (unsigned char *)MAP_FAILED) abort();
    if (!S.idle) memset(b->real, 0xFF, bytes);
    S.used += bytes;
    *p = b->p;
    return cudaSuccess;
}
static cudaError_t pinned(void **p, size_t bytes)
{
    block *b;
    cudaError_t e;
    if (S.capturing && (e = unsafe_call()) != cudaSuccess) return e;
    b = new_block(1, bytes);
    S.created++;
    b->real = b->p = (unsigned char *)need(aligned_alloc(4096, (bytes + 4096) / 4096 * 4096));
    memset(b->p, 0xFF, bytes);
    *p = b->p;
    return cudaSuccess;
}
cudaError_t cudaMallocHost(void **p, size_t bytes)
{
    ENTER("cudaMallocHost");
    return pinned(p, bytes);
}
cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned int flags)
{
    ENTER("cudaHostAlloc");
    (void)flags;
    return pinned(p, bytes);
}
static void unlink_block(block *b)
{
    block **at;
    uint32_t i, k = 0;
    for (at = &S.blocks; *at != b;) at = &(*at)->next;
    *at = b->next;
    for (i = 0; i < S.n_acc; i++) /* its bytes may come back as somebody else's */
        if (!(S.acc[i].lo < b->p + b->bytes && b->p < S.acc[i].hi)) S.acc[k++] = S.acc[i];
    S.n_acc = k;
    if (b->kind == 0) {
        if (b->mapped) munmap(b->p, b->mapped);
        free(b->real);
        S.used -= b->bytes;
    } else if (b->kind == 1) free(b->p);
    free(b);
    S.live--;
}
static cudaError_t drop(void *p, int kind, cudaError_t code)
{
    block *b;
    cudaError_t e;
    struct CUstream_st *s;
    if (!p) return cudaSuccess;
    if (S.capturing && (e = unsafe_call()) != cudaSuccess) return e;
    b = block_of(p);
    if (!b || b->p != p || b->kind != kind) return bad(code);
    for (s = S.streams; s; s = s->next) drain(s); /* freeing waits for the device */
    unlink_block(b);
    return cudaSuccess;
}
cudaError_t cudaFree(void *p)
{
    ENTER("cudaFree");
    return drop(p, 0, cudaErrorInvalidValue);
}
cudaError_t cudaFreeHost(void *p)
{
    ENTER("cudaFreeHost");
    return drop(p, 1, cudaErrorInvalidValue);
}
cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned int flags)
{
    block *b;
    cudaError_t e;
    ENTER("cudaHostRegister");
    (void)flags;
    if (S.capturing && (e = unsafe_call()) != cudaSuccess) return e;
    if (!p || !bytes) return bad(cudaErrorInvalidValue);
    if (block_of(p) || block_of((unsigned char *)p + bytes - 1)) return bad(cudaErrorHostMemoryAlreadyRegistered);
    b = new_block(2, bytes);
    S.created++;
    b->p = b->real = (unsigned char *)p;
    return cudaSuccess;
}
cudaError_t cudaHostUnregister(void *p)
{
    ENTER("cudaHostUnregister");
    return drop(p, 2, cudaErrorHostMemoryNotRegistered);
}
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *a, const void *p)
{
    block *b;
    ENTER("cudaPointerGetAttributes");
    b = block_of(p);
    memset(a, 0, sizeof *a);
    a->type = !b ? cudaMemoryTypeUnregistered : b->kind ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
    a->device = b ? b->device : 0;
    if (b) a->devicePointer = (void *)(uintptr_t)p;
    if (b && b->kind) a->hostPointer = (void *)(uintptr_t)p;
    return cudaSuccess;
}

/* One pool, of which somebody uses a part. */
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device)
{
    ENTER("cudaDeviceGetDefaultMemPool");
    (void)device;
    *pool = (cudaMemPool_t)(void *)&S.pool;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *pool, int device)
{
    ENTER("cudaDeviceGetMemPool");
    (void)device;
    *pool = (cudaMemPool_t)(void *)&S.pool;
    return cudaSuccess;
}
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr a, void *value)
{
    ENTER("cudaMemPoolGetAttribute");
    if (pool != (cudaMemPool_t)(void *)&S.pool) return bad(cudaErrorInvalidValue);
    *(uint64_t *)value = a == cudaMemPoolAttrReservedMemCurrent ? S.pool : S.pool_used;
    return cudaSuccess;
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t bytes)
{
    ENTER("cudaMemPoolTrimTo");
    if (pool != (cudaMemPool_t)(void *)&S.pool) return bad(cudaErrorInvalidValue);
    if (S.pool > bytes) S.pool = S.pool_used > bytes ? S.pool_used : bytes;
    return cudaSuccess;
}

/* --- the runtime: streams and events */
static cudaError_t new_stream(cudaStream_t *out, unsigned flags)
{
    struct CUstream_st *s;
    cudaError_t e;
    if (S.capturing && (e = unsafe_call()) != cudaSuccess) return e;
    if (S.n_queues == QUEUES) abort();
    s = (struct CUstream_st *)need(calloc(1, sizeof *s));
    s->device = S.device;
    s->flags = flags;
    s->queue = S.n_queues++;
    s->cls = S.n_classes++;
    S.q_class[s->queue] = s->cls;
    s->next = S.streams;
    S.streams = s;
    S.created++;
    S.live++;
    *out = s;
    return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned int flags)
{
    ENTER("cudaStreamCreateWithFlags");
    return new_stream(s, flags);
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *s, unsigned int flags, int priority)
{
    ENTER("cudaStreamCreateWithPriority");
    (void)priority;
    return new_stream(s, flags);
}
cudaError_t cudaStreamGetFlags(cudaStream_t s, unsigned int *flags)
{
    ENTER("cudaStreamGetFlags");
    s = behind(s);
    if (!known_stream(s)) return bad(cudaErrorInvalidResourceHandle);
    *flags = s->flags;
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    struct CUstream_st **at;
    ENTER("cudaStreamDestroy");
    for (at = &S.streams; *at && *at != s;) at = &(*at)->next;
    if (!s || !*at) return bad(cudaErrorInvalidResourceHandle);
    if (s->graph) return spoil(s->graph, cudaErrorStreamCaptureUnsupported);
    drain(s);
    *at = s->next;
    free(s);
    S.live--;
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    ENTER("cudaStreamSynchronize");
    s = behind(s);
    if (!known_stream(s)) return bad(cudaErrorInvalidResourceHandle);
    if (s->graph) return spoil(s->graph, cudaErrorStreamCaptureUnsupported);
    S.spins += !is_done(s->last);
    drain(s);
    return S.sticky ? bad(S.sticky) : cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t s)
{
    ENTER("cudaStreamQuery");
    s = behind(s);
    if (!known_stream(s)) return bad(cudaErrorInvalidResourceHandle);
    if (s->graph) return spoil(s->graph, cudaErrorStreamCaptureUnsupported);
    if (!is_done(s->last)) return bad(cudaErrorNotReady);
    join_clock(&S.host, &s->clock);
    return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t s, enum cudaStreamCaptureStatus *status)
{
    ENTER("cudaStreamIsCapturing");
    s = behind(s);
    if (!known_stream(s)) return bad(cudaErrorInvalidResourceHandle);
    *status = !s->graph ? cudaStreamCaptureStatusNone : s->graph->valid ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusInvalidated;
    return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned int flags)
{
    struct CUevent_st *e;
    cudaError_t r;
    ENTER("cudaEventCreateWithFlags");
    if (S.capturing && (r = unsafe_call()) != cudaSuccess) return r;
    e = (struct CUevent_st *)need(calloc(1, sizeof *e));
    e->number = ++S.n_events;
    e->timing = !(flags & cudaEventDisableTiming);
    e->sleeps = (flags & cudaEventBlockingSync) != 0;
    e->next = S.events;
    S.events = e;
    S.created++;
    S.live++;
    *out = e;
    return cudaSuccess;
}
static int known_event(cudaEvent_t e)
{
    struct CUevent_st *k;
    for (k = S.events; k; k = k->next)
        if (k == e) return 1;
    return 0;
}
cudaError_t cudaEventDestroy(cudaEvent_t e)
{
    struct CUevent_st **at;
    ENTER("cudaEventDestroy");
    for (at = &S.events; *at && *at != e;) at = &(*at)->next;
    if (!e || !*at) return bad(cudaErrorInvalidResourceHandle);
    if (!e->graph && e->item) run_until(e->item);
    *at = e->next;
    free(e->front);
    free(e);
    S.live--;
    return cudaSuccess;
}
static cudaError_t record(cudaEvent_t e, cudaStream_t s, int external)
{
    work w;
    cudaError_t r;
    memset(&w, 0, sizeof w);
    w.kind = RECORD;
    w.event = e;
    s = behind(s);
    if (!known_event(e)) return bad(cudaErrorInvalidResourceHandle);
    if (known_stream(s) && s->graph && !external) { /* an edge, not a node */
        if (!s->graph->valid) return bad(cudaErrorStreamCaptureInvalidated);
        free(e->front);
        e->graph = s->graph;
        e->n_front = s->n_front;
        e->front = (uint32_t *)need(malloc((s->n_front + 1) * sizeof(uint32_t)));
        if (s->n_front) memcpy(e->front, s->front, s->n_front * sizeof(uint32_t));
        e->recorded = 1;
        return cudaSuccess;
    }
    if (external && known_stream(s) && !s->graph) return bad(cudaErrorInvalidValue);
    r = put(s, &w);
    if (r || (s->graph != NULL)) return r;
    e->graph = NULL;
    e->recorded = 1;
    e->item = s->last;
    e->clock = s->clock;
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
    ENTER("cudaEventRecord");
    return record(e, s, 0);
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t e, cudaStream_t s, unsigned int flags)
{
    ENTER("cudaEventRecordWithFlags");
    return record(e, s, (flags & cudaEventRecordExternal) != 0);
}
static void front_add(struct CUstream_st *s, const uint32_t *more, uint32_t n)
{
    uint32_t i, k;
    s->front = (uint32_t *)need(realloc(s->front, (s->n_front + n + 1) * sizeof(uint32_t)));
    for (i = 0; i < n; i++) {
        for (k = 0; k < s->n_front && s->front[k] != more[i];) k++;
        if (k == s->n_front) s->front[s->n_front++] = more[i];
    }
}
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned int flags)
{
    ENTER("cudaStreamWaitEvent");
    (void)flags;
    s = behind(s);
    if (!known_event(e) || !known_stream(s)) return bad(cudaErrorInvalidResourceHandle);
    if (++S.waits == S.drop) {
        snprintf(S.dropped, sizeof S.dropped, "stream %u waits for event %u%s", s->cls, e->number, s->graph || e->graph ? " in a capture" : "");
        return cudaSuccess;
    }
    if (s->graph) {
        if (!s->graph->valid) return bad(cudaErrorStreamCaptureInvalidated);
        if (!e->graph) return spoil(s->graph, cudaErrorStreamCaptureIsolation);
        if (e->graph != s->graph) {
            s->graph->valid = e->graph->valid = 0;
            return bad(cudaErrorStreamCaptureMerge);
        }
        front_add(s, e->front, e->n_front);
        return cudaSuccess;
    }
    if (e->graph) {
        struct CUstream_st *k;
        for (k = S.streams; k && k->graph != e->graph;) k = k->next;
        if (!k) return bad(cudaErrorCapturedEvent); /* that capture has ended */
        if (!e->graph->valid) return bad(cudaErrorStreamCaptureInvalidated);
        s->graph = e->graph; /* this stream joins the capture */
        s->lane = s->graph->n_lanes++;
        s->graph->lane_class[s->lane] = s->cls;
        s->origin = 0;
        front_add(s, e->front, e->n_front);
        return cudaSuccess;
    }
    if (!e->recorded) return cudaSuccess;
    if (s->n_pending == 64) abort();
    s->pending[s->n_pending++] = e->item;
    join_clock(&s->clock, &e->clock);
    return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
    ENTER("cudaEventSynchronize");
    if (!known_event(e)) return bad(cudaErrorInvalidResourceHandle);
    if (e->graph) return spoil_event(e);
    if (!e->recorded || ++S.syncs == S.drop_sync) return cudaSuccess;
    S.spins += !e->sleeps && !is_done(e->item);
    run_until(e->item);
    if (e->time > S.clock_ns) S.clock_ns = e->time;
    join_clock(&S.host, &e->clock);
    forget_done();
    return S.sticky ? bad(S.sticky) : cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t e)
{
    ENTER("cudaEventQuery");
    if (!known_event(e)) return bad(cudaErrorInvalidResourceHandle);
    if (e->graph) return spoil_event(e);
    if (S.capturing && unsafe_call()) return S.last_error;
    if (e->recorded && !is_done(e->item) && ++S.asked % 4) return bad(cudaErrorNotReady);
    if (e->recorded && !is_done(e->item)) { /* a card works on while it is asked */
        run_until(e->item);
        if (e->time > S.clock_ns) S.clock_ns = e->time;
    }
    if (e->recorded) join_clock(&S.host, &e->clock);
    return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t a, cudaEvent_t b)
{
    ENTER("cudaEventElapsedTime");
    if (!known_event(a) || !known_event(b) || !a->timing || !b->timing) return bad(cudaErrorInvalidResourceHandle);
    if ((a->graph && a->recorded) || (b->graph && b->recorded)) return bad(cudaErrorCapturedEvent);
    if (!is_done(a->item) || !is_done(b->item)) return cudaErrorNotReady;
    *ms = (float)(((double)b->time - (double)a->time) / 1e6);
    return cudaSuccess;
}

/* --- the runtime: work */
static cudaError_t copy_now(void *dst, const void *src, size_t bytes)
{
    void *d = block_of(dst) ? standin_at(dst) : dst;
    const void *s = block_of(src) ? standin_at(src) : src;
    if (block_of(src)) standin_touch(src, bytes, 0);
    if (block_of(dst)) standin_touch(dst, bytes, 1);
    if (!S.idle) memmove(d, s, bytes);
    else if (!block_of(dst)) memset(d, 0, bytes);
    return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t s)
{
    work w;
    block *d, *f;
    ENTER("cudaMemcpyAsync");
    (void)kind;
    d = block_of(dst);
    f = block_of(src);
    if (!d && !f) return bad(cudaErrorInvalidValue);
    if ((d && (unsigned char *)dst + bytes > d->p + d->bytes) || (f && (const unsigned char *)src + bytes > f->p + f->bytes)) return bad(cudaErrorInvalidValue);
    if ((!d || !f) && bytes) { /* pageable memory: the runtime reads it at once, and waits before it writes there */
        void *staged = NULL;
        cudaError_t code;
        if (!S.pageable) found("a copy of pageable memory on a stream", NULL);
        s = behind(s);
        if (!known_stream(s)) return bad(cudaErrorInvalidResourceHandle);
        if (implicit(s)) return bad(cudaErrorStreamCaptureImplicit);
        if (s->graph) return spoil(s->graph, cudaErrorStreamCaptureUnsupported);
        if (!f && (staged = malloc(bytes)) != NULL) memcpy(staged, src, bytes);
        drain(s);
        code = S.sticky ? bad(S.sticky) : copy_now(dst, staged ? staged : src, bytes);
        free(staged);
        return code;
    }
    memset(&w, 0, sizeof w);
    w.kind = COPY;
    w.dst = dst;
    w.src = src;
    w.bytes = bytes;
    return put(s, &w);
}
cudaError_t cudaMemsetAsync(void *dst, int value, size_t bytes, cudaStream_t s)
{
    work w;
    block *d;
    ENTER("cudaMemsetAsync");
    d = block_of(dst);
    if (!d || (unsigned char *)dst + bytes > d->p + d->bytes) return bad(cudaErrorInvalidValue);
    memset(&w, 0, sizeof w);
    w.kind = SET;
    w.dst = dst;
    w.bytes = bytes;
    w.value = value & 255;
    return put(s, &w);
}
cudaError_t cudaLaunchHostFunc(cudaStream_t s, cudaHostFn_t fn, void *user)
{
    work w;
    ENTER("cudaLaunchHostFunc");
    memset(&w, 0, sizeof w);
    w.kind = HOST;
    w.host = fn;
    w.arg = user;
    return fn ? put(s, &w) : bad(cudaErrorInvalidValue);
}
cudaError_t standin_launch(cudaStream_t s, standin_fn fn, const void *arg, size_t arg_bytes, uint64_t ns)
{
    work w;
    ENTER("standin_launch");
    memset(&w, 0, sizeof w);
    w.kind = KERNEL;
    w.fn = fn;
    w.arg = (void *)(uintptr_t)arg;
    w.arg_bytes = arg_bytes;
    w.ns = ns;
    return put(s, &w);
}

/* --- the runtime: graphs */
cudaError_t cudaStreamBeginCapture(cudaStream_t s, enum cudaStreamCaptureMode mode)
{
    struct CUgraph_st *g;
    ENTER("cudaStreamBeginCapture");
    s = behind(s);
    if (s == S.legacy) return bad(cudaErrorStreamCaptureUnsupported);
    if (!known_stream(s)) return bad(cudaErrorInvalidResourceHandle);
    if (s->graph) return bad(cudaErrorIllegalState);
    g = (struct CUgraph_st *)need(calloc(1, sizeof *g));
    g->valid = 1;
    g->relaxed = mode == cudaStreamCaptureModeRelaxed;
    g->n_lanes = 1;
    g->lane_class[0] = s->cls;
    g->next = S.graphs;
    S.graphs = g;
    s->graph = g;
    s->origin = 1;
    s->lane = 0;
    S.capturing++;
    return cudaSuccess;
}
static void free_graph(struct CUgraph_st *g)
{
    struct CUgraph_st **at;
    struct CUevent_st *e;
    for (at = &S.graphs; *at != g;) at = &(*at)->next;
    *at = g->next;
    for (e = S.events; e; e = e->next)
        if (e->graph == g) e->graph = (struct CUgraph_st *)&S; /* of a capture that is over */
    drop_nodes(g);
    free(g);
}
/* Does everything captured lead to the origin's last work? */
static int joined(const struct CUgraph_st *g, const struct CUstream_st *origin)
{
    unsigned char *seen = (unsigned char *)need(calloc(g->n + 1, 1));
    uint32_t i, k;
    int all = 1;
    for (i = 0; i < origin->n_front; i++) seen[origin->front[i]] = 1;
    for (i = g->n; i-- > 0;)
        if (seen[i])
            for (k = 0; k < g->at[i].n_deps; k++) seen[g->at[i].deps[k]] = 1;
    for (i = 0; i < g->n; i++) all &= seen[i];
    free(seen);
    return all;
}
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *out)
{
    struct CUgraph_st *g;
    struct CUstream_st *k;
    cudaError_t e = cudaSuccess;
    ENTER("cudaStreamEndCapture");
    s = behind(s);
    *out = NULL;
    if (!known_stream(s) || !s->graph) return bad(cudaErrorIllegalState);
    g = s->graph;
    if (!s->origin) return spoil(g, cudaErrorStreamCaptureUnmatched);
    if (!g->valid) e = cudaErrorStreamCaptureInvalidated;
    else if (!joined(g, s)) e = cudaErrorStreamCaptureUnjoined;
    for (k = S.streams; k; k = k->next)
        if (k->graph == g) leave_capture(k);
    S.capturing--;
    if (e) {
        free_graph(g);
        return bad(e);
    }
    S.created += g->n > 0;
    S.live++;
    *out = g;
    return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t g)
{
    ENTER("cudaGraphDestroy");
    if (!g) return bad(cudaErrorInvalidValue);
    free_graph(g);
    S.live--;
    return cudaSuccess;
}
cudaError_t cudaGraphGetNodes(cudaGraph_t g, cudaGraphNode_t *nodes, size_t *n)
{
    ENTER("cudaGraphGetNodes");
    if (nodes) return bad(cudaErrorInvalidValue); /* only the count is known here */
    *n = g->n;
    return cudaSuccess;
}
static cudaError_t instantiate(cudaGraphExec_t *out, cudaGraph_t g)
{
    struct CUgraphExec_st *x;
    uint32_t i;
    cudaError_t e;
    if (S.capturing && (e = unsafe_call()) != cudaSuccess) return e;
    x = (struct CUgraphExec_st *)need(calloc(1, sizeof *x));
    x->g.n = g->n;
    x->g.n_lanes = g->n_lanes;
    x->g.at = (node *)need(malloc((g->n + 1) * sizeof(node)));
    for (i = 0; i < g->n; i++) {
        const node *f = &g->at[i];
        node *t = &x->g.at[i];
        *t = *f;
        t->deps = (uint32_t *)need(malloc((f->n_deps + 1) * sizeof(uint32_t)));
        if (f->n_deps) memcpy(t->deps, f->deps, f->n_deps * sizeof(uint32_t));
        if (f->w.kind == KERNEL) {
            t->w.arg = need(malloc(f->w.arg_bytes + 1));
            memcpy(t->w.arg, f->w.arg, f->w.arg_bytes);
        }
    }
    for (i = 0; i < g->n_lanes; i++) {
        if (S.n_queues == QUEUES) abort();
        x->queue[i] = S.n_queues++;
        S.q_class[x->queue[i]] = g->lane_class[i];
    }
    x->next = S.execs;
    S.execs = x;
    S.created++;
    S.live++;
    *out = x;
    return cudaSuccess;
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *out, cudaGraph_t g, unsigned long long flags)
{
    ENTER("cudaGraphInstantiateWithFlags");
    (void)flags;
    return instantiate(out, g);
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t x)
{
    struct CUgraphExec_st **at;
    ENTER("cudaGraphExecDestroy");
    for (at = &S.execs; *at && *at != x;) at = &(*at)->next;
    if (!x || !*at) return bad(cudaErrorInvalidValue);
    run_until(x->last);
    S.used -= x->bytes;
    *at = x->next;
    drop_nodes(&x->g);
    free(x);
    S.live--;
    return cudaSuccess;
}
/* A graph takes its memory when it is uploaded, or else at its first launch. */
static cudaError_t upload(cudaGraphExec_t x)
{
    if (x->there) return cudaSuccess;
    if (S.used + S.taken + S.pool + S.graph_bytes > S.total) return bad(cudaErrorMemoryAllocation);
    x->there = 1;
    x->bytes = S.graph_bytes;
    S.used += x->bytes;
    return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t x, cudaStream_t s)
{
    ENTER("cudaGraphUpload");
    return x && known_stream(s) ? upload(x) : bad(cudaErrorInvalidValue);
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t x, cudaStream_t s)
{
    uint64_t *number, *deps, begin;
    uint32_t i, k;
    work w;
    cudaError_t e;
    ENTER("cudaGraphLaunch");
    if (!x || !known_stream(s)) return bad(cudaErrorInvalidValue);
    if (s->graph) return spoil(s->graph, cudaErrorStreamCaptureUnsupported);
    if ((e = upload(x)) != cudaSuccess) return e;
    memset(&w, 0, sizeof w);
    w.kind = JOIN;
    if (x->last) { /* a graph does not overlap with itself */
        s->pending[s->n_pending++] = x->last;
        join_clock(&s->clock, &x->clock);
    }
    e = put(s, &w);
    if (e) return e;
    begin = s->last;
    number = (uint64_t *)need(malloc((x->g.n + 1) * sizeof(uint64_t)));
    deps = (uint64_t *)need(malloc((x->g.n + 2) * sizeof(uint64_t)));
    for (i = 0; i < x->g.n; i++) {
        const node *v = &x->g.at[i];
        item *t;
        clock_v c = s->clock;
        deps[0] = begin;
        for (k = 0; k < v->n_deps; k++) {
            item *d;
            deps[k + 1] = number[v->deps[k]];
            d = item_of(deps[k + 1]);
            join_clock(&c, &d->clock);
        }
        number[i] = add_item(x->queue[v->lane], &v->w, deps, v->n_deps + 1);
        t = item_of(number[i]);
        c.at[t->queue] = t->index;
        t->clock = c;
        if (v->w.kind == RECORD && v->w.event && !S.late_records) { /* recorded by each launch */
            v->w.event->graph = NULL;
            v->w.event->recorded = 1;
            v->w.event->item = number[i];
            v->w.event->clock = c;
        }
    }
    for (i = 0; i < x->g.n; i++) {
        join_clock(&s->clock, &item_of(number[i])->clock);
        deps[i] = number[i];
    }
    deps[x->g.n] = begin;
    s->last = add_item(s->queue, &w, deps, x->g.n + 1);
    s->clock.at[s->queue] = item_of(s->last)->index;
    item_of(s->last)->clock = s->clock;
    x->last = s->last;
    x->clock = s->clock;
    free(number);
    free(deps);
    enqueued();
    return cudaSuccess;
}

/* --- the instrument */
void standin_order(int order, uint64_t which)
{
    S.order = order;
    S.which = which;
    S.rng = which * 2 + 1;
}
unsigned standin_streams(void) { return S.n_classes; }
void standin_races(int on) { S.no_races = !on; }
void standin_fail(uint64_t call, cudaError_t code, int sticky)
{
    S.fail_call = call;
    S.fail_code = code;
    S.fail_sticky = sticky;
}
uint64_t standin_calls(void) { return S.calls; }
void standin_drop_wait(uint64_t number) { S.drop = number; }
uint64_t standin_waits(void) { return S.waits; }
void standin_drop_sync(uint64_t number)
{
    S.drop_sync = number;
    S.syncs = 0;
}
uint64_t standin_syncs(void) { return S.syncs; }
void standin_devices(int more) { S.devices = more; }
const char *standin_failed_call(void) { return S.failed_call; }
const char *standin_wait_name(void) { return S.dropped; }
uint64_t standin_findings(void) { return S.findings; }
const char *standin_finding(void) { return S.finding; }
uint64_t standin_created(void) { return S.created; }
uint64_t standin_live(void) { return S.live; }
void standin_pageable(int allowed) { S.pageable = allowed; }
void standin_device(uint64_t total, uint64_t taken)
{
    setup();
    S.total = total;
    S.taken = taken;
}
void standin_contend(uint32_t percent) { S.contend = percent; }
void standin_host_late(uint64_t ns) { S.host_late = ns; }
void standin_host_work(uint64_t ns, uint32_t percent)
{
    S.host_ns = ns;
    S.host_contend = percent;
}
uint64_t standin_spins(void) { return S.spins; }
void standin_idle(int on) { S.idle = on; }
void standin_plain(int on) { S.plain = on; }
void standin_late_records(int on) { S.late_records = on; }
void standin_graphs(uint64_t bytes) { S.graph_bytes = bytes; }
void standin_pool(uint64_t bytes, uint64_t used)
{
    S.pool = bytes;
    S.pool_used = used;
}
void standin_link(uint64_t h2d, uint64_t d2h, uint64_t latency_ns)
{
    setup();
    S.h2d = h2d;
    S.d2h = d2h;
    S.latency = latency_ns;
}

size_t standin_reset(void)
{
    size_t live = (size_t)S.live;
    uint32_t i;
    for (i = 0; i < S.n; i++)
        if (!S.items[i].done) {
            if (S.items[i].w.kind == KERNEL) free(S.items[i].w.arg);
            free(S.items[i].deps);
        }
    while (S.execs) {
        struct CUgraphExec_st *x = S.execs;
        S.execs = x->next;
        drop_nodes(&x->g);
        free(x);
    }
    while (S.streams) {
        struct CUstream_st *s = S.streams;
        S.streams = s->next;
        free(s->front);
        free(s);
    }
    while (S.graphs) free_graph(S.graphs);
    while (S.events) {
        struct CUevent_st *e = S.events;
        S.events = e->next;
        free(e->front);
        free(e);
    }
    while (S.blocks) unlink_block(S.blocks);
    for (i = 0; i < QUEUES; i++) free(S.queue_items[i]);
    free(S.items);
    free(S.acc);
    memset(&S, 0, sizeof S);
    return live;
}
