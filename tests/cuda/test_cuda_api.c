/* test_cuda_api.c - what rockmate_cuda.h promises beside right bits, on the stand-in for cudart: budgets and limits, memory that is
   given, streams that are given, graphs and why there is none, the skip flag, debug mode, times of ops, steps and the link, tuning. */
#define ROCKMATE_IMPLEMENTATION
#define ROCKMATE_CUDA_IMPLEMENTATION
#include "rockmate_cuda.h"

#include "cudart_standin.h"
#include <inttypes.h>
#include "../common.h"
#include "../oracle/plan.h"

static unsigned long passed, failed;
static const char *part = "";

static int expect(int good, const char *what, const char *more)
{
    if (good) passed++;
    else {
        failed++;
        printf("%s: %s%s%s\n", part, what, more ? ": " : "", more ? more : "");
    }
    return good;
}

/* --- a chain of dense layers on bytes: y = x + w, one kernel each of known length */
#define BYTES 4096
#define LAYERS 6
enum { FWD_NS = 50000, BWD_NS = 110000, OPT_NS = 20000 };

typedef struct add {
    unsigned char *to;
    const unsigned char *a, *b;
    const rm_step *step;
    const uint32_t *skip;
    int fault;
    unsigned char factor; /* 0: 1, or the step's lr */
} add;

static unsigned updates; /* that have run */
static int add_kernel(void *arg)
{
    const add *k = (const add *)arg;
    unsigned char *to = (unsigned char *)standin_at(k->to);
    const unsigned char *a = (const unsigned char *)standin_at(k->a), *b = (const unsigned char *)standin_at(k->b);
    unsigned char lr = k->step ? (unsigned char)((const rm_step *)standin_at(k->step))->lr : k->factor ? k->factor : 1;
    int i;
    standin_touch(k->a, BYTES, 0);
    standin_touch(k->b, BYTES, 0);
    standin_touch(k->to, BYTES, 1);
    updates += k->step != NULL;
    if (k->skip) standin_touch(k->skip, 4, 0);
    if (k->skip && *(const uint32_t *)standin_at(k->skip)) return 0;
    for (i = 0; i < BYTES; i++) to[i] = (unsigned char)(a[i] + b[i] * lr);
    return k->fault;
}

static int sync_in_op, fault_in_op, fail_in_op, slow_in_op, ask_in_op;
static int stray_in_op; /* l[2] launches on: 1 the legacy stream, 2 the per-thread one; 3, 4: and hides that this failed */
static int frozen;      /* 1: lr by value; 2: a copy from a host buffer that is used again; 3: what it computes differs from run to run */
static int forwards;    /* so often was the first op called */
static unsigned char *scratch;
static int library_in_op; /* the first op takes memory when it is first called */
static void *workspace;
static const uint32_t *skip_flag;

static int overflow; /* the next step will have one, */
static int host_sees; /* and the host will say so, no kernel */
static int look_kernel(void *arg)
{
    (void)arg;
    standin_touch(skip_flag, 4, 1);
    if (overflow && !host_sees) *(uint32_t *)standin_at(skip_flag) = 1;
    return 0;
}

static int launch_add(const rm_call *c, void *to, const void *a, const void *b, int update, uint64_t ns)
{
    cudaStream_t s = (cudaStream_t)c->stream;
    add k;
    int code;
    memset(&k, 0, sizeof k);
    if (stray_in_op && strstr(c->op, "l[2]") && !update) s = stray_in_op % 2 ? cudaStreamLegacy : cudaStreamPerThread;
    k.to = (unsigned char *)to;
    k.a = (const unsigned char *)a;
    k.b = (const unsigned char *)b;
    if (update) k.step = c->device_step, k.skip = skip_flag;
    k.fault = fault_in_op && strstr(c->op, "l[3]") != NULL;
    if (frozen == 1 && update && strstr(c->op, "l[4]")) k.step = NULL, k.factor = (unsigned char)c->step->lr;
    if (frozen == 3 && !update && strstr(c->op, "l[1]")) k.factor = (unsigned char)++forwards;
    code = (int)standin_launch(s, add_kernel, &k, sizeof k, ns);
    if (stray_in_op > 2) (void)cudaGetLastError();
    return stray_in_op > 2 ? 0 : code;
}
/* The callback of this number does what capture forbids: 1: waits; 2: asks for memory; 3: waits for an event; 4: it fails, this once. */
static unsigned called, bad_call, bad_how;
static cudaEvent_t some_event;
static int trouble(const rm_call *c)
{
    void *memory;
    if (++called != bad_call) return 0;
    if (bad_how == 1) cudaStreamSynchronize((cudaStream_t)c->stream);
    if (bad_how == 2 && cudaMalloc(&memory, 64) == cudaSuccess) cudaFree(memory);
    if (bad_how == 3) cudaEventRecord(some_event, (cudaStream_t)c->stream), cudaEventSynchronize(some_event);
    return bad_how == 4 ? 5 : 0;
}
static int fwd(const rm_call *c)
{
    if (trouble(c)) return 5;
    if (sync_in_op && strstr(c->op, "l[2]")) cudaStreamSynchronize((cudaStream_t)c->stream);
    if (fail_in_op && strstr(c->op, "l[4]")) return 5;
    if (strstr(c->op, "l[0]") && !forwards++ && library_in_op) cudaMalloc(&workspace, 200000);
    if (frozen == 2 && strstr(c->op, "l[3]")) { /* the buffer has the next step's number when the device copies it */
        memset(scratch, (int)c->step->lr, BYTES);
        return (int)cudaMemcpyAsync(c->out[0], scratch, BYTES, cudaMemcpyHostToDevice, (cudaStream_t)c->stream);
    }
    if (ask_in_op) {
        int code = launch_add(c, c->out[0], c->in[0], c->in[1], 0, FWD_NS);
        cudaStreamQuery((cudaStream_t)c->stream); /* is it done? */
        return code;
    }
    return launch_add(c, c->out[0], c->in[0], c->in[1], 0, slow_in_op ? 3 * FWD_NS : FWD_NS);
}
static int bwd(const rm_call *c)
{
    const void *d = c->dout[0] ? c->dout[0] : c->in[0];
    int code = trouble(c) ? 5 : skip_flag && !c->dout[0] ? (int)standin_launch((cudaStream_t)c->stream, look_kernel, NULL, 0, 1) : 0;
    if (c->din[1] && !code) code = launch_add(c, c->din[1], d, c->in[0], 0, BWD_NS / 2);
    if (c->din[0] && !code) code = launch_add(c, c->din[0], d, c->in[1], 0, BWD_NS / 2);
    return code;
}
static int opt(const rm_call *c) { return trouble(c) ? 5 : launch_add(c, c->param, c->param, c->grad, 1, OPT_NS); }
static int host_fails;
static int opt_host(const rm_call *c)
{
    unsigned i;
    if (host_fails) return 7;
    for (i = 0; i < BYTES; i++) ((unsigned char *)c->param)[i] = (unsigned char)(((unsigned char *)c->param)[i] + ((unsigned char *)c->grad)[i]);
    return 0;
}
static int slow_fwd(const rm_call *c) { return launch_add(c, c->out[0], c->in[0], c->in[1], 0, 40 * FWD_NS); }
static int slow_bwd(const rm_call *c)
{
    int code = bwd(c);
    return code ? code : launch_add(c, c->ws, c->in[0], c->in[1], 0, 40 * BWD_NS);
}
/* y = a + b, and both gradients are another name of dy. */
static int sum_bwd(const rm_call *c)
{
    int i, code = 0;
    for (i = 0; i < 2 && !code; i++)
        if (c->din[i]) code = launch_add(c, c->din[i], c->dout[0], c->dout[0], 0, FWD_NS);
    return code;
}

static uint32_t input_flags;
static uint64_t reduce_ns; /* of params; 0: they are not reduced */
/* A barrier that lets the host decide amid the step, as manual 7 says: what the device found goes to pinned memory, the answer to the flag. */
static uint32_t *asked;
static int decides, decisions;
static void CUDART_CB judge(void *user)
{
    (void)user;
    decisions++;
    standin_touch(asked, 4, 1);
    *asked = (uint32_t)overflow;
}
static int decide(const rm_call *c)
{
    cudaStream_t s = (cudaStream_t)c->stream;
    return cudaMemcpyAsync(asked, skip_flag, 4, cudaMemcpyDeviceToHost, s) || cudaLaunchHostFunc(s, judge, NULL) || cudaMemcpyAsync((void *)(uintptr_t)skip_flag, asked, 4, cudaMemcpyHostToDevice, s);
}
static int with_choices;   /* updates on either side, a slow variant of each op, sums */
static rm_graph *model(void)
{
    static rm_kind k;
    rm_graph *g = rm_graph_create(NULL);
    rm_tensor x = rm_input_add(g, "x", BYTES, input_flags);
    int i;
    k.name = "add";
    k.forward = fwd;
    k.backward = bwd;
    k.needs = RM_IN(0) | RM_IN(1);
    rm_graph_link(g, 1000000000u, 1000000000u, 1000, 0);
    for (i = 0; i < LAYERS; i++) {
        rm_block_begin(g, "l");
        x = RM_OP(g, &k, .name = "add", .in = {x, RM_PARAM(g, .name = "w", .bytes = BYTES, .reduce_ns = reduce_ns, .update = opt, .update_host = with_choices ? opt_host : NULL)});
        if (with_choices) {
            rm_kind v = k, sum = k;
            rm_tensor in = i ? x : rm_graph_find(g, "x");
            v.name = "slow";
            v.forward = slow_fwd;
            v.backward = slow_bwd;
            rm_variant_add(g, x, &v, &(rm_op_desc){.bwd_ws = BYTES, .fwd_ns = 1, .bwd_ns = 1});
            sum.name = "sum";
            sum.backward = sum_bwd;
            sum.needs = RM_NOTHING;
            sum.share_grad = RM_IN(0) | RM_IN(1);
            if (i + 1 < LAYERS) x = RM_OP(g, &sum, .name = "sum", .in = {x, in});
        }
        rm_block_end(g);
    }
    rm_output_add(g, x);
    if (decides) rm_barrier_add(g, "decide", decide, NULL, 1);
    return g;
}

static rm_plan *plan_of(rm_graph *g, uint64_t budget)
{
    rm_plan_desc d = {0};
    rm_plan *p = NULL;
    d.device_bytes = budget;
    rm_plan_create(g, &d, &p);
    expect(p != NULL, "a plan", rm_graph_error(g));
    if (p) expect(!*rmtest_plan(g, p, budget, 0), "the second referee", NULL);
    return p;
}

typedef struct rig {
    rm_graph *g;
    rm_plan *p;
    rm_cuda *c;
    rm_exec *x;
    unsigned char *pinned;
} rig;

static char logged[800];
static void on_log(void *user, const char *message)
{
    (void)user;
    snprintf(logged, sizeof logged, "%s", message);
}

static int open_rig(rig *r, const char *name, const rm_cuda_desc *d)
{
    part = name;
    memset(r, 0, sizeof *r);
    sync_in_op = fault_in_op = fail_in_op = slow_in_op = ask_in_op = stray_in_op = frozen = forwards = 0;
    skip_flag = NULL;
    called = bad_call = 0;
    logged[0] = 0;
    r->g = model();
    r->p = plan_of(r->g, 0);
    if (!expect(rm_cuda_create(d, &r->c) == RM_OK, "rm_cuda_create", rm_cuda_error(r->c))) return 0;
    if (!expect(rm_cuda_exec_create(r->c, r->p, NULL, &r->x) == RM_OK, "rm_cuda_exec_create", rm_graph_error(r->g))) return 0;
    return cudaMallocHost((void **)(void *)&r->pinned, BYTES) == cudaSuccess;
}

static rm_result step_rig(rig *r, int number, double lr)
{
    rm_step s = {0};
    rm_tensor x = rm_graph_find(r->g, "x");
    rm_result e;
    s.step = (uint64_t)number;
    s.lr = lr;
    memset(r->pinned, number + 1, BYTES);
    e = rm_exec_write(r->x, x, RM_VALUE, 0, r->pinned, BYTES);
    return e ? e : rm_exec_step(r->x, &s);
}

static unsigned weight(rig *r, const char *name)
{
    unsigned char b = 0;
    standin_pageable(1);
    expect(rm_exec_read(r->x, rm_graph_find(r->g, name), RM_VALUE, 0, &b, 1) == RM_OK, "rm_exec_read", rm_exec_error(r->x));
    standin_pageable(0);
    return b;
}

static void close_rig(rig *r)
{
    rm_exec_destroy(r->x);
    rm_cuda_destroy(r->c);
    rm_plan_destroy(r->p);
    rm_graph_destroy(r->g);
    cudaFreeHost(r->pinned);
    expect(standin_live() == 0, "something was left behind", NULL);
    standin_reset();
}

/* The arena is one allocation of the planned bytes; what is free, and what others take, is told. */
static void memory(void)
{
    rm_cuda_desc d = {0};
    rm_cuda_info info;
    rm_plan_info plan;
    uint64_t before, created;
    void *other = NULL;
    rig r = {0};
    d.log = on_log;
    standin_device(64u << 20, 10u << 20);
    if (!open_rig(&r, "memory", &d)) return;
    rm_plan_get_info(r.p, 0, &plan);
    expect(rm_cuda_get_info(r.c, &info) == RM_OK && info.arena_bytes == plan.arena_bytes && info.outside_bytes == 0 && info.total_bytes == 64u << 20, "rm_cuda_get_info", rm_cuda_error(r.c));
    before = info.free_bytes;
    expect(rm_cuda_free_bytes(r.c, 1u << 20) == (before - (1u << 20)) >> 20 << 20, "rm_cuda_free_bytes", NULL);
    expect(rm_cuda_free_bytes(r.c, (uint64_t)1 << 40) == 0, "a margin larger than the card", NULL);
    created = standin_created();
    expect(step_rig(&r, 0, 1) == RM_OK && step_rig(&r, 1, 1) == RM_OK, "steps", rm_exec_error(r.x));
    expect(standin_created() == created, "something was made in a step", NULL);
    cudaMalloc(&other, 3u << 20); /* a workspace of somebody */
    expect(rm_cuda_get_info(r.c, &info) == RM_OK && info.outside_bytes == 3u << 20, "memory outside the arena", NULL);
    cudaFree(other);
    close_rig(&r);
    /* too much for the card: both figures are told */
    part = "a card that is too small";
    standin_device(64u << 20, (64u << 20) - 20000);
    r.g = model();
    r.p = plan_of(r.g, 0);
    expect(rm_cuda_create(NULL, &r.c) == RM_OK, "rm_cuda_create", rm_cuda_error(r.c));
    expect(rm_cuda_exec_create(r.c, r.p, NULL, &r.x) == RM_ERROR_BACKEND && strstr(rm_graph_error(r.g), "cudaErrorMemoryAllocation (2)") && strstr(rm_graph_error(r.g), "free of 67108864"), "a message with the figures", rm_graph_error(r.g));
    rm_cuda_destroy(r.c), rm_plan_destroy(r.p), rm_graph_destroy(r.g);
    expect(standin_reset() == 0, "something was left behind", NULL);
}

/* A card that is full: a graph without room stays in streams and leaves nothing; pools give back what they have; whose the bytes are. */
static void full(void)
{
    rm_cuda_desc d = {0};
    rm_cuda_info info;
    rm_plan_info plan;
    rig r = {0};
    unsigned why, i;
    uint64_t live;
    for (why = 0; why < 3; why++) { /* room; none on the card; none under the limit */
        memset(&d, 0, sizeof d);
        d.graph = 1;
        d.limit_bytes = why == 2 ? 1u << 20 : 0;
        standin_device(4u << 20, 1u << 20);
        standin_graphs(why == 1 ? 4u << 20 : 1u << 20);
        if (!open_rig(&r, why ? "no room for a graph" : "room for a graph", &d)) return;
        library_in_op = why == 0;
        live = standin_live();
        for (i = 0; i < 4; i++) expect(step_rig(&r, (int)i, 1) == RM_OK, "a step", rm_exec_error(r.x));
        expect(rm_cuda_get_info(r.c, &info) == RM_OK && info.before_bytes >> 12 == 1u << 8, "rm_cuda_get_info", rm_cuda_error(r.c));
        if (!why) {
            expect(info.replayed == 2 && info.graph_bytes == 1u << 20 && info.library_bytes == 200000 && info.outside_bytes == (1u << 20) + 200000 && info.other_bytes == 0, "what took it", NULL);
            cudaFree(workspace);
        } else {
            expect(info.replayed == 0 && info.streamed == 4 && info.outside_bytes == 0 && info.graph_bytes == 0 && standin_live() == live, "nothing stays of it", NULL);
            expect(strstr(rm_cuda_note(r.c), "stay in streams") && strstr(rm_cuda_note(r.c), why == 1 ? "cudaGraphUpload: cudaErrorMemoryAllocation" : "1048576 bytes of the device, more than limit_bytes"), "a note", rm_cuda_note(r.c));
        }
        library_in_op = 0;
        close_rig(&r);
    }
    for (why = 0; why < 2; why++) { /* a pool has it: some of it is in use, or all */
        part = "a pool has the memory";
        standin_device(4u << 20, 0);
        r.g = model();
        r.p = plan_of(r.g, 0);
        r.x = NULL;
        rm_plan_get_info(r.p, 0, &plan);
        expect(rm_cuda_create(NULL, &r.c) == RM_OK, "rm_cuda_create", rm_cuda_error(r.c));
        standin_pool((4u << 20) - plan.arena_bytes / 2, why ? (4u << 20) - plan.arena_bytes / 2 : 4096);
        expect(rm_cuda_exec_create(r.c, r.p, NULL, &r.x) == (why ? RM_ERROR_BACKEND : RM_OK), "an executor", rm_graph_error(r.g));
        if (why) expect(strstr(rm_graph_error(r.g), "taken before rm_cuda_create") && strstr(rm_graph_error(r.g), "memory pools hold"), "who has it", rm_graph_error(r.g));
        else expect(rm_cuda_get_info(r.c, &info) == RM_OK && info.pool_bytes == 4096, "what a pool keeps", NULL);
        rm_exec_destroy(r.x), rm_cuda_destroy(r.c), rm_plan_destroy(r.p), rm_graph_destroy(r.g);
        expect(standin_reset() == 0, "something was left behind", NULL);
    }
}

static void limit(void)
{
    rm_cuda_desc d = {0};
    void *other = NULL;
    rig r = {0};
    rm_result e = RM_OK;
    int i;
    d.limit_bytes = 2u << 20;
    d.log = on_log;
    if (!open_rig(&r, "limit_bytes", &d)) return;
    cudaMalloc(&other, 4u << 20); /* as a library would, at first use */
    e = step_rig(&r, 0, 1);
    expect(e == RM_ERROR_BACKEND && strstr(rm_exec_error(r.x), "limit_bytes") && strstr(rm_exec_error(r.x), "4194304"), "the limit", rm_exec_error(r.x));
    cudaFree(other);
    close_rig(&r);
    for (d.graph = 0; d.graph < 2; d.graph++) { /* a loop that never waits: the first step that finds too much fails, none before, all after */
        if (!open_rig(&r, d.graph ? "limit_bytes, graphs" : "limit_bytes, streams", &d)) return;
        for (i = 0; i < 12; i++) {
            if (i == 6) cudaMalloc(&other, 4u << 20);
            if (i == 8) cudaFree(other);
            e = step_rig(&r, i, 1);
            expect(e == (i == 6 || i == 7 ? RM_ERROR_BACKEND : RM_OK) && (e == RM_OK || strstr(rm_exec_error(r.x), "limit_bytes")), "the limit in a loop", rm_exec_error(r.x));
        }
        close_rig(&r);
    }
    d.graph = 0;
    d.limit_bytes = 0;
    if (!open_rig(&r, "a remark on memory", &d)) return;
    cudaMalloc(&other, 4u << 20);
    expect(step_rig(&r, 0, 1) == RM_OK && step_rig(&r, 1, 1) == RM_OK, "steps", rm_exec_error(r.x));
    expect(strstr(rm_cuda_note(r.c), "outside") != NULL && !strcmp(logged, rm_cuda_note(r.c)), "a remark", rm_cuda_note(r.c));
    cudaFree(other);
    close_rig(&r);
}

/* This device memory is not taken, and the message has these words. */
static void refused(rig *r, rm_cuda_desc d, void *memory, uint64_t bytes, const char *words, rm_result code)
{
    rm_cuda *c = NULL;
    rm_exec *x = NULL;
    d.device_memory = memory;
    d.device_memory_bytes = bytes;
    expect(rm_cuda_create(&d, &c) == RM_OK, "rm_cuda_create", rm_cuda_error(c));
    expect(rm_cuda_exec_create(c, r->p, NULL, &x) == code && strstr(rm_graph_error(r->g), words) != NULL, "memory that cannot be used", rm_graph_error(r->g));
    rm_exec_destroy(x);
    rm_cuda_destroy(c);
}

/* Memory and streams of the caller. */
static void given(void)
{
    rm_cuda_desc d = {0};
    rm_cuda_info info;
    static unsigned char room[(1 << 16) + 256], *host;
    void *dev = NULL;
    cudaStream_t s;
    rig r = {0};
    host = room + (256 - (uintptr_t)room % 256) % 256;
    cudaMalloc(&dev, 1u << 20);
    cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
    d.device_memory = dev;
    d.device_memory_bytes = 1u << 20;
    d.host_memory = host;
    d.host_memory_bytes = 1 << 16;
    d.compute = s;
    d.graph = 1;
    if (!open_rig(&r, "given", &d)) return;
    expect(rm_cuda_stream(r.c, RM_LANE_COMPUTE) == s && rm_cuda_stream(r.c, 9) == NULL, "the stream", NULL);
    expect(step_rig(&r, 0, 1) == RM_OK && step_rig(&r, 1, 1) == RM_OK && step_rig(&r, 2, 1) == RM_OK, "steps", rm_exec_error(r.x));
    expect(rm_cuda_get_info(r.c, &info) == RM_OK && info.arena_bytes == 0 && info.replayed == 1, "no arena of its own", NULL);
    rm_exec_destroy(r.x);
    r.x = NULL;
    d.device_memory_bytes = 100;
    rm_cuda_destroy(r.c);
    expect(rm_cuda_create(&d, &r.c) == RM_OK, "rm_cuda_create", NULL);
    expect(rm_cuda_exec_create(r.c, r.p, NULL, &r.x) == RM_ERROR_BACKEND && strstr(rm_graph_error(r.g), "100 were given"), "too little memory", rm_graph_error(r.g));
    refused(&r, d, (unsigned char *)dev + 8, (1u << 20) - 8, "no multiple of 256", RM_ERROR_ARGUMENT);
    refused(&r, d, room, 1 << 16, "not memory of device 0", RM_ERROR_BACKEND);
    refused(&r, d, dev, 2u << 20, "not memory of device 0 from end to end", RM_ERROR_BACKEND);
    cudaFree(dev), cudaStreamDestroy(s);
    close_rig(&r);
}

/* The arena is the caller's, asked for when the plan is known: counted as the arena, left to the caller; one too small, or no memory of the
   device, is refused; the next executor has its own again. */
static void lent(void)
{
    rm_cuda_desc d = {0};
    rm_exec_desc xd = {0};
    rm_cuda_info own, info;
    static unsigned char room[1 << 16];
    uint64_t live;
    unsigned bits;
    rig r = {0};
    d.graph = 1;
    if (!open_rig(&r, "an arena of the caller's", &d)) return;
    expect(step_rig(&r, 0, 1) == RM_OK && step_rig(&r, 1, 1) == RM_OK && step_rig(&r, 2, 1) == RM_OK, "steps", rm_exec_error(r.x));
    bits = weight(&r, "l[5]/w");
    expect(rm_cuda_get_info(r.c, &own) == RM_OK && own.arena_bytes > 0, "an arena of its own", NULL);
    rm_exec_destroy(r.x);
    cudaMalloc(&xd.device_memory, (size_t)own.arena_bytes);
    live = standin_live();
    xd.device_memory_bytes = own.arena_bytes - 1;
    expect(rm_cuda_exec_create(r.c, r.p, &xd, &r.x) == RM_ERROR_BACKEND && strstr(rm_graph_error(r.g), "were given"), "too little memory", rm_graph_error(r.g));
    xd.device_memory_bytes = own.arena_bytes;
    expect(rm_cuda_exec_create(r.c, r.p, &xd, &r.x) == RM_OK, "rm_cuda_exec_create", rm_graph_error(r.g));
    expect(step_rig(&r, 0, 1) == RM_OK && step_rig(&r, 1, 1) == RM_OK && step_rig(&r, 2, 1) == RM_OK, "steps there", rm_exec_error(r.x));
    expect(weight(&r, "l[5]/w") == bits, "other weights", NULL);
    expect((unsigned char *)rm_exec_pointer(r.x, rm_graph_find(r.g, "l[5]/w"), RM_VALUE) - (unsigned char *)xd.device_memory < (ptrdiff_t)own.arena_bytes, "not there", NULL);
    expect(rm_cuda_get_info(r.c, &info) == RM_OK && info.arena_bytes == own.arena_bytes && info.outside_bytes == own.outside_bytes && info.replayed == own.replayed + 1, "what is counted", NULL);
    rm_exec_destroy(r.x);
    expect(standin_live() == live, "freed, though it is the caller's, or graphs are left", NULL);
    expect(cudaFree(xd.device_memory) == cudaSuccess, "the caller's no more", NULL);
    xd.device_memory = room;
    expect(rm_cuda_exec_create(r.c, r.p, &xd, &r.x) == RM_ERROR_BACKEND && strstr(rm_graph_error(r.g), "rm_exec_desc.device_memory is not memory of device 0"), "host memory", rm_graph_error(r.g));
    expect(rm_cuda_exec_create(r.c, r.p, NULL, &r.x) == RM_OK && step_rig(&r, 0, 1) == RM_OK, "its own again", rm_graph_error(r.g));
    expect(rm_cuda_get_info(r.c, &info) == RM_OK && info.arena_bytes == own.arena_bytes, "its own is not counted", NULL);
    close_rig(&r);
}

/* --- shares on ranks, of which this is the first of two */
typedef struct move {
    unsigned char *to;
    const unsigned char *from;
    size_t bytes, twice; /* twice: bytes are written a second time, behind the first */
    int adds;
} move;
static int move_kernel(void *arg)
{
    const move *m = (const move *)arg;
    unsigned char *to = (unsigned char *)standin_at(m->to);
    const unsigned char *from = (const unsigned char *)standin_at(m->from);
    size_t i;
    standin_touch(m->from, m->bytes, 0);
    standin_touch(m->to, m->bytes + m->twice, 1);
    for (i = 0; i < m->bytes + m->twice; i++) to[i] = (unsigned char)((m->adds ? to[i] : 0) + from[i % m->bytes] + i / m->bytes);
    return 0;
}
static int moved(const rm_call *c, void *to, const void *from, uint64_t bytes, uint64_t twice, int adds)
{
    move m;
    memset(&m, 0, sizeof m);
    m.to = (unsigned char *)to;
    m.from = (const unsigned char *)from;
    m.bytes = (size_t)bytes;
    m.twice = (size_t)twice;
    m.adds = adds;
    return (int)standin_launch((cudaStream_t)c->stream, move_kernel, &m, sizeof m, 1000);
}
static unsigned gathers;
static int gather_two(const rm_call *c) { return gathers++, moved(c, c->out[0], c->in[0], c->in_bytes[0], c->out_bytes[0] - c->in_bytes[0], 0); }
static int scatter_two(const rm_call *c) { return moved(c, c->out[0], c->in[0], c->out_bytes[0], 0, c->accum != 0); }
static int opt_share(const rm_call *c) { return moved(c, c->param, c->grad, c->param_bytes, 0, 1); }

/* A gather that is the first work of its lane in a step, which waits for nothing: within a capture it belongs to the graph, behind a graph it
   comes after it; the weights are those of steps in streams. */
static void shared(void)
{
    static unsigned char want[LAYERS][BYTES / 2], got[BYTES / 2];
    rm_plan_desc pd = {0};
    rm_exec_desc xd = {0};
    rm_plan_info pi;
    rm_step s = {0};
    rm_kind k = {0};
    unsigned order, graph;
    part = "shares on ranks";
    k.name = "add";
    k.forward = fwd;
    k.backward = bwd;
    k.needs = RM_IN(0) | RM_IN(1);
    xd.gather = gather_two;
    xd.scatter = scatter_two;
    pd.shares = 1;
    pd.steps = RM_SINGLE | RM_FORWARD;
    pd.work_limit = 20000;
    standin_pageable(1);
    for (order = 0; order < 4; order++)
        for (graph = order != 0; graph < 2; graph++) {
            rm_graph *g = rm_graph_create(NULL);
            rm_tensor x = rm_input_add(g, "x", BYTES, 0), w[LAYERS];
            rm_cuda_desc d = {0};
            rm_cuda_info info;
            rm_plan *p = NULL;
            rm_cuda *c = NULL;
            rm_exec *e = NULL;
            unsigned i, step, number, comm;
            rm_graph_ranks(g, 2, 1000000000u, 1000, 0);
            for (i = 0; i < LAYERS; i++) {
                rm_block_begin(g, "l");
                w[i] = RM_PARAM(g, .name = "w", .bytes = BYTES, .reduce_ns = 1000, .update = opt_share);
                x = RM_OP(g, &k, .in = {x, w[i]});
                rm_block_end(g);
            }
            rm_output_add(g, x);
            d.graph = graph;
            pd.device_bytes = 1;
            pd.info = &pi;
            rm_plan_create(g, &pd, &p);
            pd.device_bytes = pi.min_bytes;
            expect(rm_plan_create(g, &pd, &p) == RM_OK, "a plan in shares", rm_graph_error(g));
            number = standin_streams();
            expect(rm_cuda_create(&d, &c) == RM_OK && rm_cuda_exec_create(c, p, &xd, &e) == RM_OK, "an executor", rm_graph_error(g));
            comm = number + RM_LANE_COMM;
            standin_order(order == 0 ? STANDIN_LAZY : order == 1 ? STANDIN_EAGER : order == 2 ? STANDIN_STARVE : STANDIN_SHUFFLE, order == 2 ? comm : 7);
            for (i = 0; i < LAYERS; i++) {
                memset(got, (int)i + 1, sizeof got);
                expect(rm_exec_write(e, w[i], RM_VALUE | RM_SHARE, 0, got, sizeof got) == RM_OK, "a share is written", rm_exec_error(e));
            }
            for (step = 0; step < 8; step++) { /* steps of the other kind are the first ones behind a graph */
                static unsigned char data[BYTES];
                memset(data, (int)step + 3, sizeof data);
                s.step = step;
                s.kind = step == 5 ? RM_FORWARD : RM_SINGLE;
                expect(rm_exec_write(e, rm_graph_find(g, "x"), RM_VALUE, 0, data, sizeof data) == RM_OK && rm_exec_step(e, &s) == RM_OK, "a step", rm_exec_error(e));
            }
            for (i = 0; i < LAYERS; i++) {
                expect(rm_exec_read(e, w[i], RM_VALUE | RM_SHARE, 0, graph ? got : want[i], sizeof got) == RM_OK, "a share", rm_exec_error(e));
                expect(!graph || !memcmp(got, want[i], sizeof got), "other weights as graphs", NULL);
            }
            expect(rm_cuda_get_info(c, &info) == RM_OK && info.captured == graph && info.replayed == 5 * graph, "graphs", rm_cuda_note(c));
            expect(gathers > 0 && standin_findings() == 0, "a race", standin_finding());
            rm_exec_destroy(e), rm_cuda_destroy(c), rm_plan_destroy(p), rm_graph_destroy(g);
        }
    standin_order(STANDIN_EAGER, 0);
    standin_pageable(0);
    standin_reset();
}

/* Host memory that is pinned in part, or is no host memory, of a plan that has bytes there. */
static void given_host(void)
{
    rm_cuda_desc d = {0};
    rm_plan_desc pd = {0};
    static unsigned char room[(1 << 18) + 256], *host;
    void *dev = NULL;
    unsigned k, whole = 0, asked = 0;
    char more[900] = "";
    rig r = {0};
    int i;
    host = room + (256 - (uintptr_t)room % 256) % 256;
    part = "host memory that is given";
    memset(&r, 0, sizeof r);
    r.g = model();
    pd.preset = "stream";
    pd.device_bytes = 1;
    pd.host_bytes = 1 << 18;
    pd.info = (rm_plan_info *)calloc(1, sizeof *pd.info);
    expect(rm_plan_create(r.g, &pd, &r.p) == RM_ERROR_INFEASIBLE, "a budget too small", rm_graph_error(r.g));
    pd.device_bytes = pd.info->min_bytes;
    expect(rm_plan_create(r.g, &pd, &r.p) == RM_OK && pd.info->host_bytes, "a plan with copies", rm_graph_error(r.g));
    cudaMalloc(&dev, 1 << 18);
    cudaHostRegister(host, 4096, 0);
    for (i = 0; i < 3; i++) {
        d.host_memory = i == 0 ? host : i == 1 ? (unsigned char *)dev : host + 4096 + 1;
        d.host_memory_bytes = (1 << 18) - (i == 2 ? 4097 : 0);
        expect(rm_cuda_create(&d, &r.c) == RM_OK, "rm_cuda_create", rm_cuda_error(r.c));
        expect(rm_cuda_exec_create(r.c, r.p, NULL, &r.x) == (i < 2 ? RM_ERROR_BACKEND : RM_ERROR_ARGUMENT) && strstr(rm_graph_error(r.g), i < 2 ? "pinned in part" : "no multiple of 256"), "host memory that cannot be used", rm_graph_error(r.g));
        rm_cuda_destroy(r.c);
    }
    cudaHostUnregister(host);
    cudaFree(dev);
    d.device_memory_bytes = 1 << 20;
    d.host_memory = host;
    d.host_memory_bytes = 1 << 18;
    for (k = 1; k < 200 && !whole; k++) { /* each call fails in turn, until none is left that could */
        rm_result e;
        uint64_t from;
        standin_reset();
        cudaMalloc(&d.device_memory, 1 << 20);
        from = standin_calls();
        standin_fail(from + k, cudaErrorUnknown, 0);
        e = rm_cuda_create(&d, &r.c);
        if (e == RM_OK) e = rm_cuda_exec_create(r.c, r.p, NULL, &r.x);
        whole = standin_calls() < from + k;
        standin_fail(0, cudaSuccess, 0);
        if (!whole) {
            asked += !strcmp(standin_failed_call(), "cudaPointerGetAttributes");
            snprintf(more, sizeof more, "call %u, %s: %s%s", k, standin_failed_call(), rm_cuda_error(r.c), rm_graph_error(r.g));
            expect(e == RM_ERROR_BACKEND && (strstr(rm_cuda_error(r.c), "999") || strstr(rm_graph_error(r.g), "999")), "a failure without its code", more);
        } else expect(e == RM_OK, "nothing fails", rm_graph_error(r.g));
        rm_exec_destroy(r.x);
        rm_cuda_destroy(r.c);
        r.x = NULL;
        expect(standin_live() == 1, "something was left behind", more);
    }
    expect(whole && asked == 4, "both ends of both memories", NULL);
    free(pd.info);
    cudaFree(d.device_memory);
    r.c = NULL;
    close_rig(&r);
}

/* Host memory is pinned once: for other executors, other plans, tuning; anew only for a plan that wants more; and it starts as zeros where
   something persists. */
extern uint64_t rmtest_mapped; /* tests/cuda/linked.c */
static void pinned_once(int mapped)
{
    const uint64_t usual = rmtest_mapped;
    rm_cuda_desc d = {0};
    rm_plan_desc pd = {0};
    rm_plan_info plan;
    rm_cuda_info info, now;
    rm_step s = {0};
    rig r = {0};
    unsigned k, i;
    char name[20];
    standin_device(16u << 20, 0);
    if (mapped) rmtest_mapped = 1;
    if (!open_rig(&r, mapped ? "pinned once, by threads" : "pinned once", &d)) return;
    rm_exec_destroy(r.x), rm_plan_destroy(r.p), rm_graph_destroy(r.g);
    with_choices = 1;
    r.g = model();
    with_choices = 0;
    r.p = NULL, r.x = NULL;
    pd.preset = "stream";
    pd.host_bytes = 1 << 20;
    pd.device_bytes = 12 * BYTES;
    expect(rm_plan_create(r.g, &pd, &r.p) == RM_OK && rm_plan_get_info(r.p, 0, &plan) == RM_OK && plan.host_bytes, "a plan with copies", rm_graph_error(r.g));
    for (k = 0; k < 3; k++) {
        expect(rm_cuda_exec_create(r.c, r.p, NULL, &r.x) == RM_OK && rm_cuda_get_info(r.c, &now) == RM_OK, "rm_cuda_exec_create", rm_graph_error(r.g));
        if (!k) info = now;
        expect(now.pinned_bytes == plan.host_bytes && info.pin_ns && now.pin_ns == info.pin_ns, "nothing is pinned again", NULL);
        for (i = 0; i < LAYERS; i++) {
            snprintf(name, sizeof name, "l[%u]/w", i);
            expect(weight(&r, name) == 0, "weights start as zeros", NULL);
        }
        expect(step_rig(&r, 0, 1) == RM_OK && step_rig(&r, 1, 1) == RM_OK && rm_exec_wait(r.x) == RM_OK, "steps", rm_exec_error(r.x));
        if (k < 2) rm_exec_destroy(r.x);
    }
    pd.work_limit = 1000;
    s.lr = 1;
    standin_pageable(1);
    rm_exec_write(r.x, rm_graph_find(r.g, "x"), RM_VALUE, 0, r.pinned, BYTES);
    expect(rm_exec_tune(r.x, &pd, &s, 1, &r.p) == RM_OK && rm_cuda_get_info(r.c, &now) == RM_OK && rm_plan_get_info(r.p, 0, &plan) == RM_OK, "rm_exec_tune", rm_exec_error(r.x));
    expect((now.pin_ns == info.pin_ns) == (plan.host_bytes <= info.pinned_bytes) && now.pinned_bytes == (plan.host_bytes > info.pinned_bytes ? plan.host_bytes : info.pinned_bytes), "anew only for more", NULL);
    rm_exec_destroy(r.x), rm_plan_destroy(r.p);
    r.x = NULL, r.p = NULL;
    pd.preset = "noremat"; /* needs none, and one that needs more than there is */
    pd.device_bytes = 0;
    expect(rm_plan_create(r.g, &pd, &r.p) == RM_OK && rm_cuda_exec_create(r.c, r.p, NULL, &r.x) == RM_OK && rm_cuda_get_info(r.c, &info) == RM_OK && info.pinned_bytes == now.pinned_bytes, "kept meanwhile", rm_graph_error(r.g));
    expect(step_rig(&r, 0, 1) == RM_OK && rm_exec_wait(r.x) == RM_OK, "a step", rm_exec_error(r.x));
    standin_pageable(0);
    expect(standin_findings() == 0, standin_finding(), NULL);
    close_rig(&r);
    rmtest_mapped = usual;
}

/* Host memory in two pieces: what the plan wants pinned is pinned, and no more; a plan with copies of both leaves the bits of keeping
   everything, whatever the order of the streams, and stays in streams with a word. The stand-in reads pageable memory when a copy is
   called for, as CUDA may: before it comes there from the device, if the lane is not waited for. */
static void two_tiers(void)
{
    const struct { int order; uint64_t which; } orders[] = {{STANDIN_EAGER, 0}, {STANDIN_LAZY, 0}, {STANDIN_STARVE, 1}, {STANDIN_STARVE, 2}, {STANDIN_SHUFFLE, 7}, {STANDIN_SHUFFLE, 8}};
    rm_cuda_desc d = {0};
    rm_plan_desc pd = {0};
    rm_plan_info plan;
    rm_cuda_info info;
    unsigned kept[LAYERS], i, k, turn, moved;
    char name[20];
    rig r = {0};
    d.graph = 1;
    d.log = on_log;
    for (turn = 0; turn <= RMI_COUNT(orders); turn++) {
        with_choices = 1;
        if (!open_rig(&r, "pinned and pageable memory", &d)) return;
        rm_exec_destroy(r.x), rm_plan_destroy(r.p);
        r.x = NULL, r.p = NULL;
        if (turn) {
            rm_graph_link_pageable(r.g, 300000000u, 300000000u);
            standin_order(orders[turn - 1].order, orders[turn - 1].which);
            pd.device_bytes = 12 * BYTES;
            pd.host_bytes = 2 * BYTES;
            pd.move = "w";
            pd.pageable_bytes = 1 << 20;
            pd.work_limit = 1000;
        }
        if (!expect(rm_plan_create(r.g, &pd, &r.p) == RM_OK && rm_plan_get_info(r.p, 0, &plan) == RM_OK, "a plan", rm_graph_error(r.g))) return;
        for (i = moved = 0; i < r.p->prog[0].n; i++)
            if (r.p->prog[0].st[i].what == RMI_OFFLOAD) moved |= 1u << RMI_TIER_OF(r.p->prog[0].st[i].offset);
        expect(!turn || (plan.host_bytes && plan.pageable_bytes && moved == 3), "it copies to and from both", NULL);
        standin_pageable(1);
        expect(rm_cuda_exec_create(r.c, r.p, NULL, &r.x) == RM_OK && rm_cuda_get_info(r.c, &info) == RM_OK, "rm_cuda_exec_create", rm_graph_error(r.g));
        expect(info.pinned_bytes == plan.host_bytes, "only the pinned part is pinned", NULL);
        for (k = 0; k < 4; k++) expect(step_rig(&r, (int)k, 1) == RM_OK, "a step", rm_exec_error(r.x));
        expect(rm_exec_wait(r.x) == RM_OK, "rm_exec_wait", rm_exec_error(r.x));
        expect(!turn == !strstr(logged, "steps stay in streams: the plan has bytes in pageable memory"), "a word about streams", logged);
        for (i = 0; i < LAYERS; i++) {
            snprintf(name, sizeof name, "l[%u]/w", i);
            if (!turn) kept[i] = weight(&r, name);
            else expect(weight(&r, name) == kept[i], "other bits than those of keeping everything", name);
        }
        expect(kept[0] || kept[1] || kept[LAYERS - 1], "weights that changed", NULL);
        standin_pageable(0);
        expect(standin_findings() == 0, standin_finding(), NULL);
        close_rig(&r);
        with_choices = 0;
    }
}

/* Another device is current in the thread: nothing is made or launched there, and the message says what to do. */
static void elsewhere(void)
{
    rm_cuda_desc d = {0};
    rm_cuda_info info;
    rm_cuda_link link;
    rig r = {0};
    void *there = NULL;
    uint64_t created;
    d.graph = 1;
    standin_devices(1);
    if (!open_rig(&r, "another device is current", &d)) return;
    expect(step_rig(&r, 0, 1) == RM_OK && step_rig(&r, 1, 1) == RM_OK && rm_exec_wait(r.x) == RM_OK, "steps", rm_exec_error(r.x));
    cudaSetDevice(1);
    created = standin_created();
    expect(step_rig(&r, 2, 1) == RM_ERROR_BACKEND && strstr(rm_exec_error(r.x), "call cudaSetDevice(0)"), "a step", rm_exec_error(r.x));
    expect(rm_cuda_free_bytes(r.c, 0) == 0 && strstr(rm_cuda_error(r.c), "device 1 is current"), "free bytes of the wrong card", rm_cuda_error(r.c));
    expect(rm_cuda_get_info(r.c, &info) == RM_ERROR_BACKEND && rm_cuda_link_measure(r.c, NULL, NULL, &link) == RM_ERROR_BACKEND, "figures of the wrong card", NULL);
    expect(standin_created() == created, "something was made there", NULL);
    rm_exec_destroy(r.x);
    r.x = NULL;
    expect(rm_cuda_exec_create(r.c, r.p, NULL, &r.x) == RM_ERROR_BACKEND && strstr(rm_graph_error(r.g), "call cudaSetDevice(0)"), "an executor", rm_graph_error(r.g));
    cudaMalloc(&there, 1 << 20);
    cudaSetDevice(0);
    refused(&r, d, there, 1 << 20, "not memory of device 0", RM_ERROR_BACKEND);
    cudaFree(there);
    expect(rm_cuda_exec_create(r.c, r.p, NULL, &r.x) == RM_OK && step_rig(&r, 3, 1) == RM_OK && rm_exec_wait(r.x) == RM_OK, "and it goes on", rm_exec_error(r.x));
    close_rig(&r);
}

/* Graphs: the same weights as streams, lr by the step, nothing captured twice; and why there is none. */
static void graphs(void)
{
    rm_cuda_desc d = {0};
    rm_cuda_info info;
    rig r = {0};
    unsigned w[2][6], i;
    for (d.graph = 0; d.graph < 2; d.graph++) {
        if (!open_rig(&r, d.graph ? "graphs" : "streams", &d)) return;
        for (i = 0; i < 6; i++) {
            expect(step_rig(&r, (int)i, i + 1) == RM_OK, "a step", rm_exec_error(r.x));
            w[d.graph][i] = weight(&r, "l[5]/w");
        }
        rm_cuda_get_info(r.c, &info);
        expect(d.graph ? info.streamed == 1 && info.captured == 1 && info.replayed == 4 && info.graph_nodes >= LAYERS * 3 : info.streamed == 6 && !info.captured, "how steps ran", NULL);
        expect(standin_findings() == 0, standin_finding(), NULL);
        close_rig(&r);
    }
    expect(!memcmp(w[0], w[1], sizeof w[0]), "a graph follows lr", NULL);
    d.graph = 1;
    d.log = on_log;
    if (!open_rig(&r, "an op that synchronises", &d)) return;
    sync_in_op = 1;
    for (i = 0; i < 4; i++) expect(step_rig(&r, (int)i, i + 1) == RM_OK, "a step", rm_exec_error(r.x));
    rm_cuda_get_info(r.c, &info);
    expect(strstr(rm_cuda_note(r.c), "l[2]/add") && strstr(rm_cuda_note(r.c), "single") && info.streamed == 4 && !info.captured && !strcmp(logged, rm_cuda_note(r.c)), "the op is named", rm_cuda_note(r.c));
    expect(weight(&r, "l[5]/w") == w[0][3], "and the bits are right", NULL);
    close_rig(&r);
}

/* Work of a callback on a default stream. On the legacy one it is right in streams, which block with it, and no graph is made of it; on
   others the step fails. Whoever says that it is not to be watched has streams that do not block. */
static void astray(void)
{
    rm_cuda_desc d = {0};
    rm_cuda_info info;
    cudaStream_t own = NULL;
    unsigned want = 0, i, stray;
    rig r = {0};
    for (stray = 0; stray < 5; stray++) {
        memset(&d, 0, sizeof d);
        d.graph = stray > 0;
        if (!open_rig(&r, "work on a default stream", &d)) return;
        stray_in_op = (int)stray;
        for (i = 0; i < 3; i++) {
            rm_result e = step_rig(&r, (int)i, i + 1);
            if (stray % 2 || !stray || !i) expect(e == RM_OK, "a step", rm_exec_error(r.x));
            else expect(e == RM_ERROR_BACKEND && strstr(rm_exec_error(r.x), "l[2]") && strstr(rm_exec_error(r.x), "per-thread default stream"), "the op is named", rm_exec_error(r.x));
        }
        rm_cuda_get_info(r.c, &info);
        if (!stray) want = weight(&r, "l[5]/w");
        if (stray % 2) {
            expect(info.streamed == 3 && !info.captured && strstr(rm_cuda_note(r.c), "l[2]") && strstr(rm_cuda_note(r.c), "legacy default stream"), "the op is named", rm_cuda_note(r.c));
            expect(weight(&r, "l[5]/w") == want && standin_findings() == 0, "and the bits are right", standin_finding());
            expect(forwards == 4, "callbacks run twice in the step that could not be captured", NULL);
        } else expect(!stray || standin_findings() != 0, "a race, which only the stand-in sees", NULL);
        close_rig(&r);
    }
    for (i = 0; i < 2; i++) { /* a stream of the caller's that does not block; nobody watches */
        memset(&d, 0, sizeof d);
        d.graph = 1;
        d.unwatched = i;
        cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking);
        d.compute = i ? NULL : own;
        if (!open_rig(&r, i ? "nobody watches" : "a stream that does not block", &d)) return;
        stray_in_op = 1;
        expect(step_rig(&r, 0, 1) == RM_OK, "a step in streams", rm_exec_error(r.x));
        if (!i) expect(step_rig(&r, 1, 1) != RM_OK && strstr(rm_exec_error(r.x), "l[2]") && strstr(rm_cuda_error(r.c), "legacy"), "the op is named", rm_exec_error(r.x));
        else expect(step_rig(&r, 1, 1) == RM_OK, "and nothing is found", rm_exec_error(r.x));
        expect(standin_findings() != 0, "a race", NULL);
        rm_exec_destroy(r.x);
        r.x = NULL;
        rm_cuda_destroy(r.c);
        r.c = NULL;
        cudaStreamDestroy(own);
        close_rig(&r);
    }
}

/* rm_cuda_check: what was frozen at capture, what cannot be captured, what is another from run to run; in streams and as graphs; the state
   is as it was. */
static unsigned char *batches;
static int feed(void *user, rm_exec *x, uint32_t batch)
{
    memset(batches + batch * BYTES, 3 + 5 * (int)batch, BYTES);
    return rm_exec_write(x, *(rm_tensor *)user, RM_VALUE, 0, batches + batch * BYTES, BYTES) != RM_OK;
}
static void checking(void)
{
    static const char *const says[] = {"", "l[4]/w", "l[0]/w", "from run to run", "l[2]/add"};
    rm_cuda_desc d = {0};
    rm_cuda_check_desc cd = {0};
    rm_cuda_info info;
    rm_step s = {0};
    rm_tensor x;
    rig r = {0};
    unsigned what, before;
    rm_result e;
    s.lr = 16;
    for (d.graph = 0; d.graph < 2; d.graph++)
        for (what = 0; what < 6; what++) {
            standin_order(STANDIN_LAZY, 0);
            if (!open_rig(&r, d.graph ? "rm_cuda_check, graphs" : "rm_cuda_check, streams", &d)) return;
            cudaMallocHost((void **)(void *)&batches, 2 * BYTES);
            cudaMallocHost((void **)(void *)&scratch, BYTES);
            x = rm_graph_find(r.g, "x");
            cd.feed = feed;
            cd.feed_user = &x;
            cd.output[0] = rm_graph_find(r.g, "l[5]/add");
            expect(step_rig(&r, 0, 1) == RM_OK && step_rig(&r, 1, 1) == RM_OK && step_rig(&r, 2, 1) == RM_OK, "steps", rm_exec_error(r.x));
            before = weight(&r, "l[4]/w");
            frozen = what < 4 ? (int)what : 0;
            sync_in_op = what == 4;
            stray_in_op = what == 5;
            if (d.graph && what) rm_exec_destroy(r.x), rm_cuda_exec_create(r.c, r.p, NULL, &r.x), before = 0; /* captured anew */
            standin_pageable(1);
            e = rm_cuda_check(r.c, r.x, r.g, r.p, &s, &cd);
            standin_pageable(0);
            if (!what) expect(e == RM_OK, "nothing is wrong", rm_cuda_error(r.c));
            else expect(e == RM_ERROR_CHECK && strstr(rm_cuda_error(r.c), what == 2 ? "l[5]/add" : says[what > 4 ? 4 : what]), "what is wrong is named", rm_cuda_error(r.c));
            if (what == 1 || what == 2) expect(strstr(rm_cuda_error(r.c), "frozen") != NULL, "and why", rm_cuda_error(r.c));
            expect(weight(&r, "l[4]/w") == before, "the state is as it was", NULL);
            frozen = sync_in_op = stray_in_op = 0;
            expect(step_rig(&r, 3, 1) == RM_OK && rm_exec_wait(r.x) == RM_OK, "and steps go on", rm_exec_error(r.x));
            rm_cuda_get_info(r.c, &info);
            cudaFreeHost(batches), cudaFreeHost(scratch);
            close_rig(&r);
        }
}

/* A graph for each kind of step, with lanes of copies that begin by themselves: right bits and no race whatever the device does first,
   and no more waits between lanes than the plan has and the graph's own fork and ends need. */
static void add_bytes(void *to, const void *from, uint64_t bytes, rm_tensor param, void *user)
{
    uint64_t i;
    (void)param;
    (void)user;
    for (i = 0; i < bytes; i++) ((unsigned char *)to)[i] = (unsigned char)(((unsigned char *)to)[i] + ((const unsigned char *)from)[i]);
}
static void two_kinds(void)
{
    const rm_exec_desc xd = {.add = add_bytes};
    static const uint32_t kinds[] = {RM_FIRST, RM_LAST};
    rm_plan_desc pd = {.preset = "stream", .steps = RM_FIRST | RM_LAST, .device_bytes = 12 * BYTES, .host_bytes = 1 << 20, .work_limit = 1000};
    rm_plan_info plan;
    rm_cuda_desc d = {0};
    rm_cuda_info info;
    rig r = {0};
    unsigned order, i, k, w[4][LAYERS];
    uint64_t waits[4];
    char name[20];
    for (order = 0; order < 4; order++) { /* the first one in streams */
        d.graph = order > 0;
        standin_order(order < 2 ? STANDIN_LAZY : STANDIN_SHUFFLE, order);
        if (!open_rig(&r, d.graph ? "two kinds, graphs" : "two kinds, streams", &d)) return;
        rm_exec_destroy(r.x), rm_plan_destroy(r.p), r.p = NULL;
        rm_graph_destroy(r.g);
        with_choices = 1;
        r.g = model();
        with_choices = 0;
        expect(rm_plan_create(r.g, &pd, &r.p) == RM_OK && rm_plan_get_info(r.p, RM_LAST, &plan) == RM_OK && plan.h2d_bytes && plan.d2h_bytes && rm_cuda_exec_create(r.c, r.p, &xd, &r.x) == RM_OK, "rm_cuda_exec_create", rm_graph_error(r.g));
        waits[order] = standin_waits();
        for (i = 0; i < 8; i++) {
            rm_step s = {.kind = kinds[i % 2], .lr = 1};
            memset(r.pinned, (int)i + 1, BYTES);
            expect(rm_exec_write(r.x, rm_graph_find(r.g, "x"), RM_VALUE, 0, r.pinned, BYTES) == RM_OK && rm_exec_step(r.x, &s) == RM_OK, "a step", rm_exec_error(r.x));
            if (i == 3) waits[order] = standin_waits() - waits[order]; /* each kind in streams, and captured */
        }
        expect(rm_exec_wait(r.x) == RM_OK, "rm_exec_wait", rm_exec_error(r.x));
        for (k = 0; k < LAYERS; k++) snprintf(name, sizeof name, "l[%u]/w", k), w[order][k] = weight(&r, name);
        rm_cuda_get_info(r.c, &info);
        expect(d.graph ? info.captured == 2 && info.replayed == 4 : info.streamed == 8, "how steps ran", NULL);
        expect(!memcmp(w[0], w[order], sizeof w[0]), "the same weights", NULL);
        for (i = 0; i < 4; i++) { /* an update on the host that fails is told once, by its code; the next accumulation goes */
            rm_step s = {.kind = kinds[i % 2], .lr = 1};
            rm_result told;
            host_fails = i == 1;
            expect(rm_exec_write(r.x, rm_graph_find(r.g, "x"), RM_VALUE, 0, r.pinned, BYTES) == RM_OK, "rm_exec_write", rm_exec_error(r.x));
            told = rm_exec_step(r.x, &s);
            if (told == RM_OK) told = rm_exec_wait(r.x);
            expect((told != RM_OK) == (i == 1), "a failing update on the host", rm_exec_error(r.x));
            if (i == 1) expect(strstr(rm_exec_error(r.x), "7") != NULL, "its code", rm_exec_error(r.x));
        }
        expect(standin_findings() == 0, standin_finding(), NULL);
        snprintf(logged, sizeof logged, "%llu, in streams %llu", (unsigned long long)waits[order], (unsigned long long)waits[0]);
        expect(waits[order] <= waits[0] + 2 * 4, "waits between lanes", logged);
        close_rig(&r);
    }
    standin_order(STANDIN_EAGER, 0);
}

/* Two executors, each with streams of its own, in one arena: steps in turn leave the weights that one alone leaves. */
static void sharing(void)
{
    rm_cuda_desc d = {0};
    rig a, b, alone;
    unsigned graph, i, k, w[2][LAYERS];
    char name[20];
    for (graph = 0; graph < 2; graph++) {
        rm_plan_desc like = {0};
        rm_exec_desc share = {0};
        d.graph = graph;
        standin_order(STANDIN_LAZY, 0);
        if (!open_rig(&alone, "sharing", &d)) return;
        for (i = 0; i < 9; i++) expect(step_rig(&alone, (int)i, 1) == RM_OK, "a step", rm_exec_error(alone.x));
        for (k = 0; k < LAYERS; k++) snprintf(name, sizeof name, "l[%u]/w", k), w[0][k] = weight(&alone, name);
        close_rig(&alone);
        standin_order(STANDIN_LAZY, 0);
        if (!open_rig(&a, graph ? "sharing, graphs" : "sharing, streams", &d)) return;
        memset(&b, 0, sizeof b);
        b.g = model();
        like.like = a.p;
        share.share = a.x;
        expect(rm_plan_create(b.g, &like, &b.p) == RM_OK && rm_cuda_create(&d, &b.c) == RM_OK, "the second", rm_graph_error(b.g));
        expect(rm_cuda_exec_create(b.c, b.p, &share, &b.x) == RM_OK, "rm_cuda_exec_create", rm_graph_error(b.g));
        expect(cudaMallocHost((void **)(void *)&b.pinned, BYTES) == cudaSuccess, "cudaMallocHost", NULL);
        for (i = 0; i < 9; i++) expect(step_rig(i % 3 == 2 ? &a : &b, (int)i, 1) == RM_OK, "a step", rm_exec_error(i % 3 == 2 ? a.x : b.x));
        for (k = 0; k < LAYERS; k++) snprintf(name, sizeof name, "l[%u]/w", k), w[1][k] = weight(&a, name);
        expect(!memcmp(w[0], w[1], sizeof w[0]), "the same weights", NULL);
        expect(standin_findings() == 0, standin_finding(), NULL);
        rm_exec_destroy(b.x), rm_cuda_destroy(b.c), rm_plan_destroy(b.p), rm_graph_destroy(b.g);
        cudaFreeHost(b.pinned);
        close_rig(&a);
    }
    standin_order(STANDIN_EAGER, 0);
}

/* A callback that asks whether something is done has not failed if it is not. */
static void asking(void)
{
    rm_cuda_desc d = {0};
    rig r = {0};
    standin_order(STANDIN_LAZY, 0);
    if (!open_rig(&r, "an op that asks", &d)) return;
    ask_in_op = 1;
    expect(step_rig(&r, 0, 1) == RM_OK && rm_exec_wait(r.x) == RM_OK, "a step", rm_exec_error(r.x));
    close_rig(&r);
}

/* Steps that nothing makes wait: each has its own values, though all graphs copy them from one block, because the host waits until the
   step before has taken its own. Without one of those waits the weights are others. */
static void values_of_steps(void)
{
    rm_cuda_desc d = {0};
    rm_cuda_info info;
    rm_step s = {0};
    rig r = {0};
    void *batch;
    unsigned want = 0, seen = 0, order, i;
    uint64_t drop, syncs = 0;
    input_flags = RM_EXTERNAL;
    for (order = 0; order < 3; order++) /* streams, graphs, graphs of which one wait is left out */
        for (drop = 0; drop <= (order == 2 ? syncs : 0); drop++) {
            d.graph = order > 0;
            standin_order(STANDIN_LAZY, 0);
            if (!open_rig(&r, "values of steps", &d)) return;
            cudaMalloc(&batch, BYTES);
            memset(standin_at(batch), 3, BYTES);
            rm_exec_bind(r.x, rm_graph_find(r.g, "x"), RM_VALUE, batch);
            standin_drop_sync(drop);
            for (i = 0; i < 9; i++) {
                s.lr = i + 1;
                s.step = i;
                expect(rm_exec_step(r.x, &s) == RM_OK, "a step", rm_exec_error(r.x));
            }
            if (order == 1) syncs = standin_syncs();
            standin_drop_sync(0);
            if (!order) want = weight(&r, "l[0]/w");
            else if (!drop) expect(weight(&r, "l[0]/w") == want, "the weights of steps in streams", NULL);
            else seen += weight(&r, "l[0]/w") != want;
            rm_cuda_get_info(r.c, &info);
            expect(info.replayed == (order ? 7 : 0), "how steps ran", NULL);
            rm_exec_destroy(r.x);
            expect(rm_cuda_exec_create(r.c, r.p, NULL, &r.x) == RM_OK, "another executor", rm_graph_error(r.g));
            cudaFree(batch);
            close_rig(&r);
        }
    expect(seen >= 5, "waits for values that nobody misses", NULL);
    standin_order(STANDIN_LAZY, 0); /* if a launch did not count as a record: this would show */
    d.graph = 1;
    if (!open_rig(&r, "an event that the launch of a graph does not record", &d)) return;
    standin_late_records(1);
    cudaMalloc(&batch, BYTES);
    memset(standin_at(batch), 3, BYTES);
    rm_exec_bind(r.x, rm_graph_find(r.g, "x"), RM_VALUE, batch);
    for (i = 0; i < 9; i++) {
        s.lr = i + 1;
        s.step = i;
        expect(rm_exec_step(r.x, &s) == RM_OK, "a step", rm_exec_error(r.x));
    }
    expect(weight(&r, "l[0]/w") != want, "values of other steps", NULL);
    rm_exec_destroy(r.x), rm_cuda_exec_create(r.c, r.p, NULL, &r.x);
    cudaFree(batch);
    close_rig(&r);
    input_flags = 0;
}

/* Steps follow each other: inputs are written and losses are read without a wait for the last step, the host is no more than two steps ahead,
   and the values are those of steps that are waited for. Without one of the waits for staging memory they are others. */
static void without_gaps(void)
{
    rm_cuda_desc d = {0};
    rm_tensor out;
    rig r = {0};
    unsigned char want[12], got;
    unsigned i, mode, seen = 0, right;
    uint32_t there;
    uint64_t drop, syncs = 0, spins;
    for (mode = 0; mode < 5; mode++) /* waiting; in streams; as graphs; inputs that do not fit; in streams, a wait is left out */
        for (drop = 0; drop <= (mode == 4 ? syncs : 0); drop++) {
            d.graph = mode == 2;
            d.stage_bytes = mode == 3 ? 64 : BYTES;
            standin_order(STANDIN_LAZY, 0);
            if (!open_rig(&r, "steps without a gap", &d)) return;
            out = rm_graph_find(r.g, "l[5]/add");
            standin_pageable(1);
            standin_drop_sync(drop);
            spins = standin_spins();
            updates = 0;
            for (i = 0, right = 1; i < 12; i++) {
                expect(step_rig(&r, (int)i, i + 1) == RM_OK, "a step", rm_exec_error(r.x));
                if (mode == 1 || mode == 2) expect(i < 3 || updates <= LAYERS * (i - 1), "the host waited for the step before", NULL);
                if (!mode) expect(rm_exec_read(r.x, out, RM_VALUE, 0, &want[i], 1) == RM_OK, "rm_exec_read", rm_exec_error(r.x));
                if (!mode || mode == 4) continue;
                expect(rm_cuda_read_late(r.c, r.x, out, &got, 1, &there) == RM_OK && there == (i > 0), "rm_cuda_read_late", rm_cuda_error(r.c));
                if (there) expect(got == want[i - 1], "a value of the step before", NULL);
                expect(i < 2 || updates <= LAYERS * i, "the host waited for the last step", NULL);
            }
            if (mode == 1) syncs = standin_syncs();
            standin_drop_sync(0);
            if (mode) expect(rm_exec_read(r.x, out, RM_VALUE, 0, &got, 1) == RM_OK, "rm_exec_read", rm_exec_error(r.x));
            if (mode == 4) seen += got != want[11];
            else if (mode) expect(got == want[11], "the last value", NULL);
            if (mode == 3) expect(strstr(rm_cuda_note(r.c), "stage_bytes, 64") != NULL, "a note", rm_cuda_note(r.c));
            expect(step_rig(&r, 12, 1) == RM_OK && rm_exec_wait(r.x) == RM_OK && standin_spins() == spins, "the host sleeps where it waits", rm_exec_error(r.x));
            if (mode < 4) expect(standin_findings() == 0, standin_finding(), NULL);
            standin_pageable(0);
            close_rig(&r);
        }
    expect(seen >= 5, "waits that nobody misses", NULL);
}

/* Batches from where they lie (RM_SRC_STAYS), three in turn, too large for the staging memory: nothing waits, in streams and as graphs, and
   the values are those of steps that are waited for. Of one place that is written anew each time they are not. */
static void batches_that_stay(void)
{
    rm_cuda_desc d = {0};
    rm_tensor out, x;
    rm_step s = {0};
    rig r = {0};
    unsigned char want[12], got, *batch;
    unsigned i, mode, other = 0;
    uint32_t there;
    for (mode = 0; mode < 4; mode++) { /* waiting; in streams; as graphs; in streams, one place for all */
        d.graph = mode == 2;
        d.stage_bytes = 64;
        standin_order(STANDIN_LAZY, 0);
        if (!open_rig(&r, "batches that stay", &d)) return;
        out = rm_graph_find(r.g, "l[5]/add");
        x = rm_graph_find(r.g, "x");
        cudaHostAlloc((void **)&batch, 3 * BYTES, cudaHostAllocPortable);
        standin_pageable(1);
        updates = 0;
        for (i = 0; i < 12; i++) {
            unsigned char *place = batch + (mode < 3 ? i % 3 * BYTES : 0);
            memset(place, (int)i + 1, BYTES);
            s.step = i;
            s.lr = i + 1;
            expect(rm_exec_write(r.x, x, mode ? RM_VALUE | RM_SRC_STAYS : RM_VALUE, 0, place, BYTES) == RM_OK && rm_exec_step(r.x, &s) == RM_OK, "a step", rm_exec_error(r.x));
            if (!mode) expect(rm_exec_read(r.x, out, RM_VALUE, 0, &want[i], 1) == RM_OK, "rm_exec_read", rm_exec_error(r.x));
            if (!mode) continue;
            expect(i < 3 || updates <= LAYERS * (i - 1), "the host waited for the step before", NULL);
            if (mode == 3) continue;
            expect(rm_cuda_read_late(r.c, r.x, out, &got, 1, &there) == RM_OK && there == (i > 0), "rm_cuda_read_late", rm_cuda_error(r.c));
            if (there) expect(got == want[i - 1], "a value of the step before", NULL);
        }
        expect(rm_exec_read(r.x, out, RM_VALUE, 0, &got, 1) == RM_OK, "rm_exec_read", rm_exec_error(r.x));
        if (mode < 3) expect(got == want[11], "the last value", NULL);
        else other += weight(&r, "l[0]/w");
        if (mode == 1) other -= weight(&r, "l[0]/w");
        if (mode) expect(!strstr(rm_cuda_note(r.c), "stage_bytes"), "a note", rm_cuda_note(r.c));
        if (mode < 3) expect(standin_findings() == 0, standin_finding(), NULL);
        standin_pageable(0);
        cudaFreeHost(batch);
        close_rig(&r);
    }
    expect(other != 0, "a batch that is overwritten, and nobody misses it", NULL);
}

/* A graph goes with its executor: it has the arena's addresses and takes memory of the device. */
static void graphs_go(void)
{
    rm_cuda_desc d = {0};
    rig r = {0};
    uint64_t live;
    int i;
    d.graph = 1;
    if (!open_rig(&r, "a graph goes with its executor", &d)) return;
    live = standin_live();
    for (i = 0; i < 3; i++) expect(step_rig(&r, i, 1) == RM_OK, "a step", rm_exec_error(r.x));
    expect(standin_live() == live + 1, "a graph", NULL);
    rm_exec_destroy(r.x);
    r.x = NULL;
    expect(standin_live() == live - 1, "neither arena nor graph", NULL);
    close_rig(&r);
}

/* Each callback in turn does what capture forbids, or fails, in the step that is captured: that step and all others are right, and
   the op is named. */
static void each_op_captured(void)
{
    rm_cuda_desc d = {0};
    rm_cuda_info info;
    rig r = {0};
    unsigned i, how, k, calls = 0, want = 0;
    d.graph = 1;
    for (how = 0; how < 5; how++)
        for (k = 1; k <= (how ? calls : 1); k += (unsigned)tm_amount(4, 1)) {
            standin_order(STANDIN_LAZY, 0);
            if (!open_rig(&r, "each op, captured", &d)) return;
            cudaEventCreateWithFlags(&some_event, cudaEventDisableTiming);
            for (i = 0; i < 5; i++) {
                if (i == 1) called = 0, bad_call = k, bad_how = how;
                expect(step_rig(&r, (int)i, i + 1) == RM_OK, "a step", rm_exec_error(r.x));
                if (i == 1 && !how) calls = called;
            }
            if (!how) want = weight(&r, "l[5]/w");
            expect(weight(&r, "l[5]/w") == want, "the same weights", NULL);
            rm_cuda_get_info(r.c, &info);
            expect(how ? info.streamed == 5 && !info.captured && strstr(rm_cuda_note(r.c), "l[") : info.replayed == 3, "how steps ran", rm_cuda_note(r.c));
            expect(standin_findings() == 0, standin_finding(), NULL);
            cudaEventDestroy(some_event);
            close_rig(&r);
        }
    standin_order(STANDIN_EAGER, 0);
}

/* Hooks of the executor that fail, before or after each callback in turn, in streams and while a step is captured: told, and the next step runs. */
static unsigned hooked, bad_hook, hook_after;
static int hook(void *user, const rm_call *c)
{
    (void)c;
    return *(const unsigned *)user == hook_after && ++hooked == bad_hook ? 9 : 0;
}
static void hooks(void)
{
    static const unsigned sides[] = {0, 1};
    rm_cuda_desc d = {0};
    rm_exec_desc xd = {0};
    rig r = {0};
    unsigned i, k, calls;
    for (d.graph = 0; d.graph < 2; d.graph++)
        for (hook_after = 0; hook_after < 2; hook_after++)
            for (k = 1, calls = 1; k <= calls; k += (unsigned)tm_amount(5, 1)) {
                standin_order(STANDIN_LAZY, 0);
                if (!open_rig(&r, d.graph ? "hooks, graphs" : "hooks, streams", &d)) return;
                rm_exec_destroy(r.x);
                xd.before = hook_after ? NULL : hook;
                xd.after = hook_after ? hook : NULL;
                xd.watch_user = (void *)(uintptr_t)&sides[hook_after];
                expect(rm_cuda_exec_create(r.c, r.p, &xd, &r.x) == RM_OK, "rm_cuda_exec_create", rm_graph_error(r.g));
                for (i = 0; i < 4; i++) {
                    rm_result e;
                    hooked = 0;
                    bad_hook = i == 1 ? k : 0;
                    e = step_rig(&r, (int)i, 1);
                    if (i == 1) calls = calls < 3 ? hooked : calls;
                    /* what failed while it was captured has not run, and is issued once more */
                    expect((e == RM_ERROR_CALLBACK) == (i == 1 && !d.graph), "a hook that fails", rm_exec_error(r.x));
                    if (i == 1 && !d.graph) expect(strstr(rm_exec_error(r.x), "9") != NULL, "its code", rm_exec_error(r.x));
                }
                expect(rm_exec_wait(r.x) == RM_OK && standin_findings() == 0, standin_finding(), NULL);
                close_rig(&r);
            }
    standin_order(STANDIN_EAGER, 0);
}

/* Executors and their rm_cuda go while steps are at work, with copies and updates on the host: nothing uses what is gone, nothing stays. */
static void amid_steps(void)
{
    rm_cuda_desc d = {0};
    rm_plan_desc pd = {.preset = "stream", .device_bytes = 12 * BYTES, .host_bytes = 1 << 20, .work_limit = 1000};
    rig r = {0};
    unsigned order, i, steps;
    for (order = 0; order < 6; order++)
        for (steps = 1; steps < 5; steps++) {
            d.graph = order % 2;
            standin_order(order < 2 ? STANDIN_LAZY : order < 4 ? STANDIN_SHUFFLE : STANDIN_STARVE, order < 4 ? order : 3); /* 3: the host's lane */
            if (!open_rig(&r, d.graph ? "destroyed amid steps, graphs" : "destroyed amid steps, streams", &d)) return;
            rm_exec_destroy(r.x), rm_plan_destroy(r.p), r.p = NULL;
            rm_graph_destroy(r.g);
            with_choices = 1;
            r.g = model();
            with_choices = 0;
            expect(rm_plan_create(r.g, &pd, &r.p) == RM_OK && rm_cuda_exec_create(r.c, r.p, NULL, &r.x) == RM_OK, "an executor", rm_graph_error(r.g));
            for (i = 0; i < steps; i++) expect(step_rig(&r, (int)i, 1) == RM_OK, "a step", rm_exec_error(r.x));
            rm_exec_destroy(r.x);
            r.x = NULL;
            if (steps % 2) expect(rm_cuda_exec_create(r.c, r.p, NULL, &r.x) == RM_OK && step_rig(&r, 0, 1) == RM_OK, "another executor", rm_graph_error(r.g));
            expect(standin_findings() == 0, standin_finding(), NULL);
            close_rig(&r);
        }
    standin_order(STANDIN_EAGER, 0);
}

/* A second executor on the same rm_cuda is refused: their kinds of step would be each other's graphs. */
static void two_at_once(void)
{
    rm_cuda_desc d = {0};
    rm_exec *other = NULL;
    rig r = {0};
    unsigned before;
    d.graph = 1;
    if (!open_rig(&r, "two executors on one rm_cuda", &d)) return;
    expect(step_rig(&r, 0, 1) == RM_OK && step_rig(&r, 1, 1) == RM_OK && step_rig(&r, 2, 1) == RM_OK, "steps", rm_exec_error(r.x));
    expect(rm_cuda_exec_create(r.c, r.p, NULL, &other) == RM_ERROR_ARGUMENT && !other && strstr(rm_cuda_error(r.c), "one executor at a time"), "a second one", rm_cuda_error(r.c));
    before = weight(&r, "l[5]/w");
    expect(step_rig(&r, 3, 1) == RM_OK && weight(&r, "l[5]/w") != before, "the first goes on", rm_exec_error(r.x));
    rm_exec_destroy(r.x);
    expect(rm_cuda_exec_create(r.c, r.p, NULL, &r.x) == RM_OK && step_rig(&r, 0, 1) == RM_OK, "behind it another", rm_graph_error(r.g));
    close_rig(&r);
}

/* A flag on the device skips the update, in streams and in graphs; the next step begins without it. */
static void skipping(int by_host)
{
    rm_cuda_desc d = {0};
    rig r = {0};
    unsigned before, after;
    uint32_t flag = 7;
    int i;
    d.graph = 1;
    decides = host_sees = by_host;
    decisions = 0;
    if (!open_rig(&r, by_host ? "skip, says the host" : "skip", &d)) return;
    decides = 0;
    expect(cudaHostAlloc((void **)&asked, 4, cudaHostAllocPortable) == cudaSuccess, "pinned memory", NULL);
    skip_flag = rm_cuda_skip(r.c);
    for (i = 0; i < 6; i++) { /* streamed, captured, replayed */
        overflow = i % 2;
        before = weight(&r, "l[0]/w");
        expect(step_rig(&r, i, 1) == RM_OK && rm_cuda_skipped(r.c, &flag) == RM_OK && flag == (uint32_t)overflow, "the flag of a step", rm_exec_error(r.x));
        after = weight(&r, "l[0]/w");
        expect((after == before) == overflow, "an update, or none", NULL);
    }
    overflow = host_sees = 0;
    expect(decisions == (by_host ? 6 : 0), "a decision in each step, captured or not", NULL);
    expect(standin_findings() == 0, standin_finding(), NULL);
    cudaFreeHost(asked);
    close_rig(&r);
}

static void debug(void)
{
    rm_cuda_desc d = {0};
    rm_cuda_info info;
    rig r = {0};
    rm_result e;
    d.debug = 1;
    d.graph = 1;
    if (!open_rig(&r, "debug", &d)) return;
    fault_in_op = 1;
    e = step_rig(&r, 0, 1);
    expect(e == RM_ERROR_BACKEND || e == RM_ERROR_CALLBACK, "a fault is told at once", rm_result_name(e));
    expect(strstr(rm_exec_error(r.x), "l[3]/add") && strstr(rm_exec_error(r.x), "cudaErrorIllegalAddress (700)"), "by the op that failed", rm_exec_error(r.x));
    expect(rm_cuda_get_info(r.c, &info) == RM_ERROR_BACKEND && strstr(rm_cuda_error(r.c), "700"), "an error that sticks", rm_cuda_error(r.c));
    rm_exec_destroy(r.x), rm_cuda_destroy(r.c), rm_plan_destroy(r.p), rm_graph_destroy(r.g);
    standin_reset();
    d.debug = 0;
    standin_order(STANDIN_LAZY, 0); /* nothing runs before somebody waits */
    if (!open_rig(&r, "a fault", &d)) return;
    fault_in_op = 1;
    e = step_rig(&r, 0, 1);
    if (e == RM_OK) e = rm_exec_wait(r.x);
    expect(e == RM_ERROR_BACKEND && strstr(rm_exec_error(r.x), "cudaErrorIllegalAddress (700)"), "without debug the code comes later", rm_exec_error(r.x));
    rm_exec_destroy(r.x), rm_cuda_destroy(r.c), rm_plan_destroy(r.p), rm_graph_destroy(r.g);
    standin_reset();
    if (!open_rig(&r, "a callback that fails", &d)) return;
    fail_in_op = 1;
    expect(step_rig(&r, 0, 1) == RM_ERROR_CALLBACK && strstr(rm_exec_error(r.x), "l[4]/add") && strstr(rm_exec_error(r.x), "5"), "its op and code", rm_exec_error(r.x));
    fail_in_op = 0;
    expect(step_rig(&r, 1, 1) == RM_OK && rm_exec_wait(r.x) == RM_OK, "and the next step runs", rm_exec_error(r.x));
    close_rig(&r);
}

/* What was measured is in the graph's text: a plan of that, elsewhere, has the same times. */
static char text[1 << 16];
static size_t text_bytes;
static int put_text(void *user, const char *s, size_t n)
{
    (void)user;
    if (n > sizeof text - text_bytes) return 1;
    memcpy(text + text_bytes, s, n);
    text_bytes += n;
    return 0;
}
static void saved_figures(rm_graph *g, uint64_t step)
{
    rm_graph *h = NULL;
    rm_plan *p = NULL;
    rm_plan_info info;
    rm_plan_desc d = {0};
    uint64_t h2d = 0, d2h = 0;
    const char *link;
    text_bytes = 0;
    expect(rm_graph_write(g, put_text, NULL) == RM_OK && text_bytes + 1 < sizeof text, "rm_graph_write", rm_graph_error(g));
    text[text_bytes] = 0;
    link = strstr(text, "\nlink ");
    expect(link && sscanf(link, " link h2d=%" SCNu64 " d2h=%" SCNu64, &h2d, &d2h) == 2 && h2d > 3960000000u && h2d < 4040000000u && d2h > 1980000000u && d2h < 2020000000u, "the link in the text", link);
    expect(rm_graph_read(text, text_bytes, NULL, &h) == RM_OK, "rm_graph_read", h ? rm_graph_error(h) : NULL);
    expect(rm_plan_create(h, &d, &p) == RM_OK, "a plan of the text", rm_graph_error(h));
    expect(rm_plan_get_info(p, 0, &info) == RM_OK && info.time_ns == step, "the times in the text", NULL);
    rm_plan_destroy(p);
    rm_graph_destroy(h);
}

/* Times: of ops into the graph, of the link, of steps against the plan. */
static void timing(void)
{
    rm_cuda_desc d = {0};
    rm_cuda_link link;
    rm_cuda_info info;
    rm_plan_info plan;
    rm_plan_desc pd = {0};
    rm_step s = {0};
    rig r = {0};
    rm_tensor x;
    const uint64_t step = LAYERS * (FWD_NS + BWD_NS + OPT_NS) - BWD_NS / 2; /* nobody wants the input's gradient */
    standin_device(16u << 20, 0);
    standin_order(STANDIN_LAZY, 0); /* an op that is timed is held back until all of it has been enqueued */
    standin_link(4000000000u, 2000000000u, 700);
    if (!open_rig(&r, "times", &d)) return;
    expect(rm_cuda_link_measure(r.c, NULL, NULL, &link) == RM_OK && link.latency_ns >= 700 && link.latency_ns < 800, "latency", rm_cuda_error(r.c));
    expect(link.h2d > 3960000000u && link.h2d < 4040000000u && link.d2h > 1980000000u && link.d2h < 2020000000u, "bandwidths", NULL);
    x = rm_graph_find(r.g, "x");
    memset(r.pinned, 1, BYTES);
    rm_exec_write(r.x, x, RM_VALUE, 0, r.pinned, BYTES);
    s.lr = 1;
    standin_pageable(1); /* what persists is set aside in plain memory */
    expect(rm_cuda_tune(r.c, r.x, r.g, &pd, &s, 3, &r.p) == RM_OK, "rm_cuda_tune", rm_exec_error(r.x));
    expect(rm_plan_get_info(r.p, 0, &plan) == RM_OK && !plan.estimated && plan.time_ns == step, "the plan has the measured times", NULL);
    standin_pageable(0);
    saved_figures(r.g, step);
    rm_cuda_get_info(r.c, &info);
    expect(step_rig(&r, 0, 1) == RM_OK && step_rig(&r, 1, 1) == RM_OK, "steps with the new plan", rm_exec_error(r.x));
    expect(rm_cuda_get_info(r.c, &info) == RM_OK && info.steps == 2 && info.step_ns >= step && info.step_ns < step + step / 20, "the measured step is the simulated one", NULL);
    expect(standin_findings() == 0, standin_finding(), NULL);
    close_rig(&r);
}

/* Of an accumulation the updates are measured, too. */
static void tuned_parts(void)
{
    rm_cuda_desc d = {0};
    rm_plan_desc pd = {0};
    rm_plan_info info;
    rm_step s = {0};
    rig r = {0};
    standin_device(16u << 20, 0);
    standin_order(STANDIN_LAZY, 0);
    if (!open_rig(&r, "tuning an accumulation", &d)) return;
    rm_exec_destroy(r.x);
    r.x = NULL;
    rm_plan_destroy(r.p);
    pd.steps = RM_FIRST | RM_LAST;
    expect(rm_plan_create(r.g, &pd, &r.p) == RM_OK && rm_cuda_exec_create(r.c, r.p, NULL, &r.x) == RM_OK, "an executor", rm_graph_error(r.g));
    rm_plan_get_info(r.p, RM_LAST, &info);
    expect(info.estimated == 2 * LAYERS, "costs are estimated at first", NULL);
    standin_pageable(1);
    memset(r.pinned, 1, BYTES);
    rm_exec_write(r.x, rm_graph_find(r.g, "x"), RM_VALUE, 0, r.pinned, BYTES);
    s.kind = RM_FIRST;
    expect(rm_cuda_tune(r.c, r.x, r.g, &pd, &s, 2, &r.p) == RM_OK, "rm_cuda_tune", rm_exec_error(r.x));
    standin_pageable(0);
    rm_plan_get_info(r.p, RM_LAST, &info);
    expect(info.estimated == 0 && info.time_ns == LAYERS * (FWD_NS + BWD_NS + OPT_NS) - BWD_NS / 2, "and measured then", NULL);
    expect(standin_findings() == 0, standin_finding(), NULL);
    close_rig(&r);
}

/* Whatever the plan at hand runs: other variants, updates on the other side and gradients that it never computes have times. */
static void tuned_choices(void)
{
    rm_cuda_desc d = {0};
    rm_plan_desc pd = {0};
    rm_plan_info info;
    rm_step s = {0};
    unsigned host, i;
    rig r = {0};
    pd.work_limit = 20000; /* any plan will do */
    for (host = 0; host < 3; host++) { /* 2: copies contend, host nodes are late */
        standin_device(16u << 20, 0);
        standin_order(STANDIN_LAZY, 0);
        standin_contend(host == 2 ? 60 : 0);
        standin_host_late(host == 2 ? 30000 : 0);
        with_choices = 1;
        if (!open_rig(&r, host ? host == 2 ? "tuning choices, copies contend" : "tuning choices, updates on the host" : "tuning choices", &d)) return;
        if (host) { /* weights live there, and their updates run there, for all that is known */
            rm_exec_destroy(r.x);
            r.x = NULL;
            rm_plan_destroy(r.p);
            pd.host_bytes = 1u << 30;
            pd.device_bytes = 24 * BYTES;
            expect(rm_plan_create(r.g, &pd, &r.p) == RM_OK && rm_cuda_exec_create(r.c, r.p, NULL, &r.x) == RM_OK, "an executor", rm_graph_error(r.g));
        }
        standin_pageable(1);
        memset(r.pinned, 1, BYTES);
        rm_exec_write(r.x, rm_graph_find(r.g, "x"), RM_VALUE, 0, r.pinned, BYTES);
        s.lr = 1;
        expect(rm_exec_tune(r.x, &pd, &s, 2, &r.p) == RM_OK, "rm_exec_tune", rm_exec_error(r.x));
        standin_pageable(0);
        rm_plan_get_info(r.p, 0, &info);
        if (host) expect(r.g->link.tier[0].d2h > (host == 2 ? 6200000000u : 9900000000u) && r.g->link.tier[0].d2h < (host == 2 ? 6300000000u : 10100000000u), "the link, under copies the other way", NULL);
        expect(info.estimated == 0 && info.measured == 3 * LAYERS - 1, "nothing is guessed", NULL);
        for (i = 0; i < r.g->n_tensors; i++)
            if (r.g->tensors[i].kind == RMI_PARAM) expect(r.g->tensors[i].opt == OPT_NS && r.g->tensors[i].opt_host_by == RMI_COST_MEASURED, "updates on both sides", r.g->tensors[i].name);
        for (i = 0; i < r.g->n_ops; i++) {
            const rmi_form *f = r.g->ops[i].forms;
            expect(f->fwd == FWD_NS && f->again == FWD_NS, "forwards and recomputations", r.g->ops[i].name);
            if (i % 2) expect(f->parts[0].bwd == (i > 1 ? 2 : 1) * FWD_NS, "sums whose gradients are other names", r.g->ops[i].name);
            else expect(f->parts[0].bwd == (i ? 2 : 1) * BWD_NS / 2 && f[1].fwd == 40 * FWD_NS && f[1].parts[0].bwd == (i ? 2 : 1) * BWD_NS / 2 + 40 * BWD_NS, "variants", r.g->ops[i].name);
        }
        expect(step_rig(&r, 0, 1) == RM_OK && step_rig(&r, 1, 1) == RM_OK && rm_exec_wait(r.x) == RM_OK, "steps with the new plan", rm_exec_error(r.x));
        expect(standin_findings() == 0, standin_finding(), NULL);
        close_rig(&r);
    }
    with_choices = 0;
}

/* An update on the host is timed with what its function takes to begin, while copies run both ways, for in steps they share its memory; where
   there is no room for copies it is timed alone, and a note says so. Nothing of that is there when a step begins. */
static void beside_copies(void)
{
    enum { LATE = 30000, WORK = 200000 };
    rm_cuda_desc d = {0};
    rm_plan_desc pd = {0};
    rm_plan_info plan;
    rm_cuda_info info;
    rm_step s = {0};
    unsigned how, i;
    uint64_t want, live;
    rig r = {0};
    for (how = 0; how < 3; how++) { /* copies take nothing from the host; they take half as much again; no room */
        standin_device(16u << 20, 0);
        standin_order(STANDIN_LAZY, 0);
        with_choices = 1;
        memset(&d, 0, sizeof d);
        memset(&r, 0, sizeof r);
        part = how ? how == 2 ? "updates on the host, timed alone" : "updates on the host, timed beside copies" : "updates on the host";
        r.g = model();
        memset(&pd, 0, sizeof pd);
        pd.host_bytes = 1u << 30;
        pd.device_bytes = 24 * BYTES;
        expect(rm_plan_create(r.g, &pd, &r.p) == RM_OK && rm_plan_get_info(r.p, 0, &plan) == RM_OK, "a plan", rm_graph_error(r.g));
        if (how == 2) d.limit_bytes = plan.arena_bytes + BYTES;
        expect(rm_cuda_create(&d, &r.c) == RM_OK, "rm_cuda_create", rm_cuda_error(r.c));
        expect(rm_cuda_exec_create(r.c, r.p, NULL, &r.x) == RM_OK && cudaMallocHost((void **)(void *)&r.pinned, BYTES) == cudaSuccess, "an executor", rm_graph_error(r.g));
        standin_host_late(LATE);
        standin_host_work(WORK, how ? 50 : 0);
        standin_link(100000000u, 100000000u, 1000); /* a copy is still at work when the function begins */
        standin_pageable(1);
        memset(r.pinned, 1, BYTES);
        rm_exec_write(r.x, rm_graph_find(r.g, "x"), RM_VALUE, 0, r.pinned, BYTES);
        s.lr = 1;
        live = standin_live();
        expect(rm_exec_profile(r.x, &s, 2) == RM_OK, "rm_exec_profile", rm_exec_error(r.x));
        want = LATE + WORK + (how == 1 ? WORK / 2 : 0);
        for (i = 0; i < r.g->n_tensors; i++)
            if (r.g->tensors[i].kind == RMI_PARAM) expect(r.g->tensors[i].opt_host_by == RMI_COST_MEASURED && r.g->tensors[i].opt_host >= want && r.g->tensors[i].opt_host <= want + 100, "the time of an update", r.g->tensors[i].name);
        expect((strstr(rm_cuda_note(r.c), "without copies beside them") != NULL) == (how == 2), "a note", rm_cuda_note(r.c));
        standin_host_late(0);
        standin_host_work(0, 0);
        expect(rm_cuda_get_info(r.c, &info) == RM_OK && info.outside_bytes == 0, "it is not counted as somebody's", NULL);
        expect(step_rig(&r, 0, 1) == RM_OK && rm_exec_wait(r.x) == RM_OK && standin_live() == live, "and a step finds nothing of it", rm_exec_error(r.x));
        standin_pageable(0);
        expect(standin_findings() == 0, standin_finding(), NULL);
        close_rig(&r);
    }
    with_choices = 0;
}

/* Small params go to the host as long as nobody knows what a host function takes to begin; once that is measured they stay on the device. */
static void late_functions(void)
{
    rm_cuda_desc d = {0};
    rm_plan_desc pd = {0};
    rm_plan_info before, after;
    rm_step s = {0};
    char more[100];
    rig r = {0};
    standin_device(16u << 20, 0);
    standin_order(STANDIN_LAZY, 0);
    with_choices = 1;
    if (!open_rig(&r, "host functions that begin late", &d)) return;
    rm_exec_destroy(r.x);
    r.x = NULL;
    rm_plan_destroy(r.p);
    pd.host_bytes = 1u << 30;
    pd.device_bytes = 24 * BYTES;
    expect(rm_plan_create(r.g, &pd, &r.p) == RM_OK && rm_plan_get_info(r.p, 0, &before) == RM_OK && rm_cuda_exec_create(r.c, r.p, NULL, &r.x) == RM_OK, "an executor", rm_graph_error(r.g));
    standin_host_late(5000000);
    standin_pageable(1);
    memset(r.pinned, 1, BYTES);
    rm_exec_write(r.x, rm_graph_find(r.g, "x"), RM_VALUE, 0, r.pinned, BYTES);
    s.lr = 1;
    expect(rm_exec_tune(r.x, &pd, &s, 1, &r.p) == RM_OK && rm_plan_get_info(r.p, 0, &after) == RM_OK, "rm_exec_tune", rm_exec_error(r.x));
    standin_pageable(0);
    snprintf(more, sizeof more, "%llu ns before, %llu behind, of %llu", (unsigned long long)before.busy_ns[RM_LANE_HOST], (unsigned long long)after.busy_ns[RM_LANE_HOST], (unsigned long long)after.time_ns);
    expect(before.busy_ns[RM_LANE_HOST] && !after.busy_ns[RM_LANE_HOST] && after.time_ns < 5000000, "the host's lane", more);
    expect(step_rig(&r, 0, 1) == RM_OK && rm_exec_wait(r.x) == RM_OK, "a step", rm_exec_error(r.x));
    close_rig(&r);
    with_choices = 0;
}

/* A card that holds one arena and not two: plans are exchanged all the same, or the old one goes on. */
static void tight(void)
{
    rm_cuda_desc d = {0};
    rm_plan_info info;
    rm_plan *other;
    rm_plan_desc pd = {0};
    unsigned before;
    void *ballast = NULL;
    uint64_t free_bytes;
    size_t f, t;
    rig r = {0};
    d.graph = 1;
    if (!open_rig(&r, "one arena at a time", &d)) return;
    expect(step_rig(&r, 0, 1) == RM_OK && step_rig(&r, 1, 3) == RM_OK && step_rig(&r, 2, 5) == RM_OK, "steps", rm_exec_error(r.x));
    before = weight(&r, "l[2]/w");
    pd.preset = "every-block";
    expect(rm_plan_create(r.g, &pd, &other) == RM_OK, "another plan", rm_graph_error(r.g));
    rm_plan_get_info(other, 0, &info);
    cudaMemGetInfo(&f, &t);
    free_bytes = f;
    cudaMalloc(&ballast, (size_t)(free_bytes - 1000));
    standin_pageable(1);
    expect(rm_exec_replan(r.x, other) == RM_OK, "rm_exec_replan", rm_exec_error(r.x));
    standin_pageable(0);
    rm_plan_destroy(r.p);
    r.p = other;
    expect(weight(&r, "l[2]/w") == before, "weights are carried over", NULL);
    expect(step_rig(&r, 3, 1) == RM_OK && step_rig(&r, 4, 1) == RM_OK && step_rig(&r, 5, 1) == RM_OK && rm_exec_wait(r.x) == RM_OK, "and it goes on", rm_exec_error(r.x));
    before = weight(&r, "l[2]/w");
    pd.preset = "noremat";
    pd.align = 4096 * 16; /* larger, so that it does not fit */
    expect(rm_plan_create(r.g, &pd, &other) == RM_OK, "a third plan", rm_graph_error(r.g));
    standin_pageable(1);
    expect(rm_exec_replan(r.x, other) == RM_ERROR_BACKEND && strstr(rm_exec_error(r.x), "out of memory"), "a plan that does not fit", rm_exec_error(r.x));
    standin_pageable(0);
    expect(weight(&r, "l[2]/w") == before && step_rig(&r, 6, 1) == RM_OK && rm_exec_wait(r.x) == RM_OK, "the old one goes on", rm_exec_error(r.x));
    expect(standin_findings() == 0, standin_finding(), NULL);
    rm_plan_destroy(other);
    cudaFree(ballast);
    close_rig(&r);
}

/* A callback that waits for the device is no reason to hang while ops are timed. */
static void waiting(void)
{
    rm_cuda_desc d = {0};
    rm_step s = {0};
    rig r = {0};
    standin_order(STANDIN_LAZY, 0);
    if (!open_rig(&r, "an op that waits while it is timed", &d)) return;
    sync_in_op = 1;
    s.lr = 1;
    standin_pageable(1);
    rm_exec_write(r.x, rm_graph_find(r.g, "x"), RM_VALUE, 0, r.pinned, BYTES);
    expect(rm_exec_profile(r.x, &s, 2) == RM_OK, "rm_exec_profile", rm_exec_error(r.x));
    standin_pageable(0);
    close_rig(&r);
}

/* Reductions over ranks: in a lane of their own beside the backward, in the same order on every rank, in streams and in graphs, and
   each update after its own. */
static char reduced[400];
static int reduce_kernel(void *arg)
{
    const rm_call *c = (const rm_call *)arg;
    unsigned char *grad = (unsigned char *)standin_at(c->grad);
    standin_touch(c->grad, BYTES, 1);
    *grad = (unsigned char)(*grad * 3 + 1);
    snprintf(reduced + strlen(reduced), sizeof reduced - strlen(reduced), "%s ", c->op);
    return 0;
}
static int reduce(const rm_call *c) { return (int)standin_launch((cudaStream_t)c->stream, reduce_kernel, c, sizeof *c, reduce_ns); }
static void reductions(void)
{
    rm_cuda_desc d = {0};
    rm_exec_desc xd = {0};
    rm_cuda_info info;
    const uint64_t alone = LAYERS * (FWD_NS + BWD_NS + OPT_NS) - BWD_NS / 2;
    char first[400] = "";
    unsigned weights = 0;
    uint32_t rank, i;
    rig r = {0};
    reduce_ns = BWD_NS / 2;
    xd.reduce = reduce;
    for (rank = 0; rank < 4; rank++) { /* two of them with graphs */
        d.graph = rank & 1;
        standin_order(rank < 2 ? STANDIN_LAZY : STANDIN_SHUFFLE, rank);
        if (!open_rig(&r, "reductions", &d)) return;
        rm_exec_destroy(r.x);
        expect(rm_cuda_exec_create(r.c, r.p, &xd, &r.x) == RM_OK, "rm_cuda_exec_create", rm_graph_error(r.g));
        for (i = 0; i < 4; i++) {
            reduced[0] = 0;
            expect(step_rig(&r, (int)i, 1) == RM_OK && rm_exec_wait(r.x) == RM_OK, "a step", rm_exec_error(r.x));
            if (!*first) snprintf(first, sizeof first, "%s", reduced);
            expect(*first && !strcmp(first, reduced), "another order", reduced);
        }
        if (!rank) weights = weight(&r, "l[0]/w");
        expect(weight(&r, "l[0]/w") == weights, "other weights", NULL);
        rm_cuda_get_info(r.c, &info);
        if (rank < 2) expect(info.step_ns < alone + 2 * reduce_ns, "reductions beside the backward", NULL); /* one by one: six */
        expect(standin_findings() == 0, standin_finding(), NULL);
        close_rig(&r);
    }
    reduce_ns = 0;
}

static rm_result measured(rig *r, int what, const rm_plan_desc *pd, const rm_step *s, rm_cuda_link *link)
{
    rm_tensor x = rm_graph_find(r->g, "x");
    rm_cuda_check_desc cd = {.feed = feed, .feed_user = &x};
    if (!what) return rm_cuda_link_measure(r->c, NULL, NULL, link);
    if (what == 1) return rm_cuda_tune(r->c, r->x, r->g, pd, s, 1, &r->p);
    return rm_cuda_check(r->c, r->x, r->g, r->p, s, &cd);
}

/* Each call of the runtime within a measurement, a tuning and a check fails in turn: told, nothing lost, and it goes on. */
static void failing(void)
{
    rm_cuda_desc d = {0};
    rm_cuda_link link;
    rm_plan_desc pd = {0};
    rm_step s = {0};
    uint64_t from, calls, live, k;
    int what;
    char more[200];
    rig r = {0};
    pd.work_limit = 20000;
    standin_device(768u << 10, 0); /* a failing cudaFree leaves less for the next */
    standin_order(STANDIN_LAZY, 0);
    if (!open_rig(&r, "calls that fail", &d)) return;
    cudaMallocHost((void **)(void *)&batches, 2 * BYTES);
    s.lr = 1;
    standin_pageable(1);
    expect(step_rig(&r, 0, 1) == RM_OK && rm_exec_wait(r.x) == RM_OK, "a step", rm_exec_error(r.x));
    for (what = 0; what < 3; what++) {
        from = standin_calls();
        rm_exec_write(r.x, rm_graph_find(r.g, "x"), RM_VALUE, 0, r.pinned, BYTES);
        expect(measured(&r, what, &pd, &s, &link) == RM_OK, "a measurement", rm_exec_error(r.x));
        calls = standin_calls() - from;
        live = standin_live();
        for (k = 1; k <= calls; k += 2 * (what == 1 ? 11 + calls / 100 : 3 + calls / 200)) {
            rm_result e;
            rm_exec_write(r.x, rm_graph_find(r.g, "x"), RM_VALUE, 0, r.pinned, BYTES);
            from = standin_calls();
            standin_fail(from + k, cudaErrorUnknown, 0);
            e = measured(&r, what, &pd, &s, &link);
            standin_fail(0, cudaSuccess, 0);
            if (standin_calls() < from + k) continue; /* less memory, fewer calls */
            snprintf(more, sizeof more, "call %llu, %s: %.80s", (unsigned long long)k, standin_failed_call(), what ? rm_exec_error(r.x) : rm_cuda_error(r.c));
            /* a wait before the old arena goes may fail: that arena goes all the same; without memory beside a step (cudaGetDevice, cudaMalloc) there is no time;
               free bytes asked for around a step tell what libraries took: unknown then (rmc_left), and the tuning goes on */
            if (e == RM_OK && what == 2 && (!strcmp(standin_failed_call(), "cudaGraphGetNodes") || strstr(standin_failed_call(), "Capture"))) continue; /* nobody watches the default stream then */
            if (e != RM_OK) expect(strstr(rm_exec_error(r.x), "999") || strstr(rm_cuda_error(r.c), "999") || strstr(rm_exec_error(r.x), "returned"), "a failure without its code", more);
            else expect(!strncmp(standin_failed_call(), "cudaFree", 8) || !strcmp(standin_failed_call(), "cudaMalloc") || (what && !strcmp(standin_failed_call(), "cudaGetDevice")) || strstr(standin_failed_call(), "Destroy") || (what && (!strcmp(standin_failed_call(), "cudaStreamSynchronize") || !strcmp(standin_failed_call(), "cudaMemGetInfo"))), "a failure that was not told", more);
            expect(standin_live() <= live + 1, "something was left behind", more);
            live = standin_live();
        }
    }
    standin_pageable(0);
    expect(step_rig(&r, 1, 1) == RM_OK && rm_exec_wait(r.x) == RM_OK, "and it goes on", rm_exec_error(r.x));
    rm_exec_destroy(r.x), rm_cuda_destroy(r.c), rm_plan_destroy(r.p), rm_graph_destroy(r.g);
    cudaFreeHost(batches);
    standin_reset();
}

/* Memory of the caller, bound anew while steps are graphs: the new bytes are read, and it becomes a graph again. */
static void rebound(void)
{
    rm_cuda_desc d = {0};
    rm_cuda_info info;
    rm_step s = {0};
    rig r = {0};
    void *batch[2];
    unsigned w[2][8], i, mode;
    for (mode = 0; mode < 2; mode++) {
        d.graph = mode;
        input_flags = RM_EXTERNAL;
        if (!open_rig(&r, mode ? "bound anew, graphs" : "bound anew, streams", &d)) return;
        for (i = 0; i < 2; i++) {
            cudaMalloc(&batch[i], BYTES);
            memset(standin_at(batch[i]), (int)(i + 3), BYTES);
        }
        for (i = 0; i < 8; i++) {
            if (i % 4 == 0) expect(rm_exec_bind(r.x, rm_graph_find(r.g, "x"), RM_VALUE, batch[i / 4]) == RM_OK, "rm_exec_bind", rm_exec_error(r.x));
            s.lr = i + 1;
            expect(rm_exec_step(r.x, &s) == RM_OK, "a step", rm_exec_error(r.x));
            w[mode][i] = weight(&r, "l[0]/w");
        }
        rm_cuda_get_info(r.c, &info);
        expect(mode ? info.captured == 2 && info.replayed == 4 && info.streamed == 2 : info.streamed == 8, "how steps ran", NULL);
        expect(standin_findings() == 0, standin_finding(), NULL);
        for (i = 0; i < 2; i++) cudaFree(batch[i]);
        close_rig(&r);
    }
    expect(!memcmp(w[0], w[1], sizeof w[0]), "the same weights", NULL);
    input_flags = 0;
}

static long tables; /* of an allocator of the caller's */
static void *counted(size_t bytes, void *user)
{
    long *p = (long *)malloc(bytes + 16);
    (void)user;
    tables++;
    return p ? p + 2 : NULL;
}
static void released(void *p, void *user)
{
    (void)user;
    if (!p) return;
    tables--;
    free((long *)p - 2);
}

/* A barrier's gradients as arguments of kernels: all of them, in order, in as few pieces as there can be. */
static void lists(void)
{
    enum { MANY = 2 * RM_CUDA_LIST + 7 };
    static const void *in[MANY];
    static uint64_t bytes[MANY];
    static rm_cuda_list list;
    rm_call c;
    uint32_t i, from = 0, pieces = 0, wrong = 0;
    part = "lists";
    memset(&c, 0, sizeof c);
    for (i = 0; i < MANY; i++) in[i] = &bytes[i], bytes[i] = i + 1;
    c.in = in, c.in_bytes = bytes, c.n_in = MANY;
    for (; rm_cuda_list_in(&c, from, &list); from += list.n, pieces++)
        for (i = 0; i < list.n; i++) wrong += list.at[i] != in[from + i] || list.bytes[i] != bytes[from + i];
    expect(pieces == 3 && from == MANY && !wrong && list.n == 0, "all, in three pieces", NULL);
    expect(sizeof list + 64 <= 4096, "room for other arguments of a kernel", NULL);
}

static void arguments(void)
{
    rm_exec *x = NULL;
    rm_cuda_info info;
    part = "arguments";
    expect(rm_cuda_create(NULL, NULL) == RM_ERROR_ARGUMENT && rm_cuda_get_info(NULL, &info) == RM_ERROR_ARGUMENT && rm_cuda_skipped(NULL, NULL) == RM_ERROR_ARGUMENT, "NULL", NULL);
    expect(rm_cuda_exec_create(NULL, NULL, NULL, &x) == RM_ERROR_ARGUMENT && rm_cuda_free_bytes(NULL, 0) == 0 && rm_cuda_backend(NULL) == NULL, "NULL", NULL);
    expect(rm_cuda_tune(NULL, NULL, NULL, NULL, NULL, 0, NULL) == RM_ERROR_ARGUMENT && rm_cuda_stream(NULL, 0) == NULL && *rm_cuda_note(NULL) == 0 && *rm_cuda_error(NULL), "NULL", NULL);
    rm_cuda_destroy(NULL);
    {
        rm_cuda_desc d = {0};
        rm_cuda *c = NULL;
        int k;
        for (k = 0; k < 4; k++) { /* cudaStreamLegacy, cudaStreamPerThread: neither lane may be one */
            d.allocator.alloc = counted, d.allocator.free = released;
            d.compute = k < 2 ? (cudaStream_t)(uintptr_t)(k + 1) : NULL;
            d.comm = k < 2 ? NULL : (cudaStream_t)(uintptr_t)(k - 1);
            expect(rm_cuda_create(&d, &c) == RM_ERROR_BACKEND && strstr(rm_cuda_error(c), "default stream"), "a default stream", rm_cuda_error(c));
            rm_cuda_destroy(c);
            expect(!tables, "what the allocator gave it got back", NULL);
        }
    }
}

int main(void)
{
    arguments();
    lists();
    memory();
    full();
    limit();
    given();
    lent();
    shared();
    given_host();
    pinned_once(0);
    pinned_once(1);
    two_tiers();
    elsewhere();
    graphs();
    astray();
    checking();
    two_kinds();
    sharing();
    asking();
    values_of_steps();
    without_gaps();
    batches_that_stay();
    graphs_go();
    each_op_captured();
    hooks();
    amid_steps();
    two_at_once();
    skipping(0);
    skipping(1);
    debug();
    timing();
    tuned_parts();
    tuned_choices();
    beside_copies();
    late_functions();
    tight();
    failing();
    rebound();
    waiting();
    reductions();
    printf("%lu passed, %lu failed, 0 skipped\n", passed, failed);
    return failed != 0;
}
