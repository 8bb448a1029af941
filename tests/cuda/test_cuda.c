/* test_cuda.c - plans of random graphs run by rockmate_cuda.h on the stand-in for cudart, as streams and as graphs, in adversarial
   orders: they give the bits of the host executor, without a race, without an allocation after creation, and leave nothing behind.
   Each wait is needed: leaving any one out is found (but for joins from streams to a graph, which are made once). Each call that fails is reported.

      test_cuda [GRAPHS [FIRST-SEED [MORE]]]     (MORE: so many more plans with random copies for each graph) */
#define ROCKMATE_IMPLEMENTATION
#define ROCKMATE_CUDA_IMPLEMENTATION
#include "rockmate_cuda.h"

#include "cudart_standin.h"
#include "../common.h"
#include "../oracle/plan.h"
#include "randgraph.h"
#include "toy.h"
#include "spill.h"
#include "disks.h"

#define MOST_TOLD 15
#define STEPS 4

static unsigned long more; /* plans with random copies for each graph, beside the first */
static unsigned long passed, failed, skipped, runs, waits_dropped, waits_left, moves, on_disk, plans, borders;
static char where[500];

static int expect(int good, const char *what, const char *more)
{
    if (good) passed++;
    else if (++failed <= MOST_TOLD) printf("%s: %s%s%s\n", where, what, more ? ": " : "", more ? more : "");
    return good;
}

/* --- kernels: the toys, enqueued. What they may touch is told to the race checker, pointers become the bytes behind them */
typedef struct packed {
    rm_call c;
    rm_fn fn;
    uint64_t din_bytes[1]; /* n_in of them, dout's, and then six arrays of what rm_call points to; see pack */
} packed;

static toy_world *world;

/* An update that sees the values of its step. */
static int step_update(const rm_call *c)
{
    if (c->param_bytes) *(unsigned char *)c->param ^= (unsigned char)(c->step->micro * 5 + 1);
    return toy_update(c);
}

static void *real(const void *p, uint64_t n)
{
    static unsigned char nothing[16];
    void *r = p ? standin_at(p) : NULL;
    if (p && !r && !n) return nothing;
    if (p && !r) toy_wrong(world, &(rm_call){.op = "?"}, "a pointer into nobody's bytes");
    return r;
}

static void touch(const void *p, uint64_t n, int write)
{
    if (p && n) standin_touch(p, (size_t)n, write);
}

static int run_packed(void *arg)
{
    packed *k = (packed *)arg;
    rm_call *c = &k->c;
    uint32_t i;
    uint64_t *din_bytes = k->din_bytes, *dout_bytes = din_bytes + c->n_in;
    const void **in = (const void **)(void *)(dout_bytes + c->n_out), **out = in + c->n_in, **din = out + c->n_out, **dout = din + c->n_in;
    uint64_t *in_bytes = (uint64_t *)(void *)(dout + c->n_out), *out_bytes = in_bytes + c->n_in;
    int back = c->phase == RM_PHASE_BACKWARD, fwd = c->phase == RM_PHASE_FORWARD;
    rm_step step;
    standin_name(c->op);
    touch(c->ws, c->ws_bytes, 1);
    for (i = 0; i < c->n_in; i++) touch(in[i], in_bytes[i], 0);
    for (i = 0; i < c->n_out; i++) touch(out[i], out_bytes[i], fwd);
    for (i = 0; i < c->n_in && back; i++) touch(din[i], din_bytes[i], 1);
    for (i = 0; i < c->n_out && back; i++) touch(dout[i], dout_bytes[i], 0);
    touch(c->saved, c->saved_bytes, fwd);
    touch(c->param, c->param_bytes, 1);
    touch(c->grad, c->grad_bytes, c->phase == RM_PHASE_REDUCE);
    touch(c->state, c->state_bytes, 1);
    if (c->phase == RM_PHASE_UPDATE || c->phase == RM_PHASE_BARRIER) touch(&world->barrier, sizeof world->barrier, c->phase == RM_PHASE_BARRIER);
    if (fwd && !c->recompute) {
        const rmi_op *op = &world->g->ops[((const toy_op *)c->user)->id];
        for (i = 0; i < c->n_in; i++)
            if (toy_mutated(op, op->in.at[i])) touch(in[i], in_bytes[i], 1);
    }
    touch(c->device_step, sizeof step, 0);
    memcpy((void *)&step, real(c->device_step, 1), sizeof step);
    for (i = 0; i < c->n_in; i++) in[i] = real(in[i], in_bytes[i]), din[i] = real(din[i], din_bytes[i]);
    for (i = 0; i < c->n_out; i++) out[i] = real(out[i], out_bytes[i]), dout[i] = real(dout[i], dout_bytes[i]);
    c->in = in, c->out = (void *const *)out, c->din = (void *const *)din, c->dout = dout;
    c->in_bytes = in_bytes, c->out_bytes = out_bytes;
    c->saved = real(c->saved, c->saved_bytes), c->ws = real(c->ws, c->ws_bytes), c->param = real(c->param, c->param_bytes), c->grad = real(c->grad, c->grad_bytes), c->state = real(c->state, c->state_bytes);
    c->step = &step;
    c->seed = rm_seed(&step, c->seed_key);
    return k->fn(c) != 0;
}

static uint64_t kernel_ns;
static int launch(const rm_call *c, rm_fn fn)
{
    static union {
        packed k;
        unsigned char room[16384];
    } u;
    const rm_graph *g = world->g;
    packed *k = &u.k;
    uint64_t *din_bytes = k->din_bytes, *dout_bytes = din_bytes + c->n_in;
    const void **in = (const void **)(void *)(dout_bytes + c->n_out), **out = in + c->n_in, **din = out + c->n_out, **dout = din + c->n_in;
    uint64_t *in_bytes = (uint64_t *)(void *)(dout + c->n_out), *out_bytes = in_bytes + c->n_in;
    const rmi_op *op = c->phase <= RM_PHASE_BACKWARD ? &g->ops[((const toy_op *)c->user)->id] : NULL;
    uint32_t i;
    if ((size_t)((unsigned char *)(out_bytes + c->n_out) - u.room) > sizeof u.room) exit(4);
    k->c = *c;
    k->fn = fn;
    for (i = 0; i < c->n_in; i++) {
        din_bytes[i] = op ? g->tensors[op->in.at[i]].grad_bytes : 0;
        in[i] = c->in[i];
        din[i] = c->phase == RM_PHASE_BACKWARD ? c->din[i] : NULL;
        in_bytes[i] = c->in_bytes[i];
    }
    for (i = 0; i < c->n_out; i++) {
        dout_bytes[i] = op ? g->tensors[op->out.at[i]].grad_bytes : 0;
        out[i] = c->out[i];
        dout[i] = c->phase == RM_PHASE_BACKWARD ? c->dout[i] : NULL;
        out_bytes[i] = c->out_bytes[i];
    }
    return (int)standin_launch((cudaStream_t)c->stream, run_packed, k, (size_t)((unsigned char *)(out_bytes + c->n_out) - u.room), kernel_ns);
}
static int cu_forward(const rm_call *c) { return launch(c, toy_forward); }
static int cu_backward(const rm_call *c) { return launch(c, toy_backward); }
static int cu_update(const rm_call *c) { return launch(c, step_update); }
static int cu_reduce(const rm_call *c) { return launch(c, toy_reduce); }
static int cu_barrier(const rm_call *c) { return launch(c, toy_barrier); }

static int host_update(const rm_call *c)
{
    standin_name(c->op);
    touch(&world->barrier, sizeof world->barrier, 0);
    touch(c->param, c->param_bytes, 1);
    touch(c->grad, c->grad_bytes, 0);
    touch(c->state, c->state_bytes, 1);
    return step_update(c);
}
static void host_add(void *dst, const void *src, uint64_t bytes, rm_tensor param, void *user)
{
    uint64_t i;
    (void)user;
    (void)param;
    standin_name("addition");
    touch(src, bytes, 0);
    touch(dst, bytes, 1);
    for (i = 0; i < bytes; i++) ((unsigned char *)dst)[i] = (unsigned char)(((unsigned char *)dst)[i] * 7 + ((const unsigned char *)src)[i]);
}
static void plain_add(void *dst, const void *src, uint64_t bytes, rm_tensor param, void *user)
{
    uint64_t i;
    (void)user;
    (void)param;
    for (i = 0; i < bytes; i++) ((unsigned char *)dst)[i] = (unsigned char)(((unsigned char *)dst)[i] * 7 + ((const unsigned char *)src)[i]);
}

static void set_kernels(rm_graph *g, int cuda)
{
    uint32_t i, k;
    for (i = 0; i < g->n_ops; i++)
        for (k = 0; k < g->ops[i].n_forms; k++) {
            if (g->ops[i].view == RMI_NONE) g->ops[i].forms[k].forward = cuda ? cu_forward : toy_forward;
            g->ops[i].forms[k].backward = cuda ? cu_backward : toy_backward;
        }
    for (i = 0; i < g->n_tensors; i++) {
        if (g->tensors[i].opt != RMI_INF) g->tensors[i].update = cuda ? cu_update : step_update;
        if (g->tensors[i].opt_host != RMI_INF) g->tensors[i].update_host = cuda ? host_update : step_update;
    }
    for (i = 0; i < g->n_barriers; i++) g->barriers[i].fn = cuda ? cu_barrier : toy_barrier;
}

/* --- a life: create, write, steps, read, destroy; the hash of all that was read */
typedef struct life {
    rm_graph *g;
    toy_world *w;
    rm_plan *p;
    uint64_t seed;
    const uint32_t *kinds;
    uint32_t n;
    int read_each; /* read after each step, else after the last alone */
    int watch;     /* of three steps two op by op: rm_exec_trace, rm_exec_find_nan */
    rm_plan *next; /* goes on with this one halfway, or NULL */
    rm_cuda *cu;   /* NULL: the host */
    rm_exec *x;
    unsigned char *inputs; /* pinned: for each step */
    void **ext;
    const char *failed;    /* the call that failed, or NULL */
    rm_result result;
    char message[400];
    int gave_up;           /* a capture */
    rm_cuda_info info;
} life;

static int done(life *f, rm_result r, const char *call)
{
    if (r == RM_OK || f->failed) return r == RM_OK;
    f->failed = call;
    f->result = r;
    snprintf(f->message, sizeof f->message, "%s", f->x ? rm_exec_error(f->x) : rm_graph_error(f->g));
    if (!f->message[0] && f->cu) snprintf(f->message, sizeof f->message, "%s", rm_cuda_error(f->cu));
    return 0;
}

static void put_inputs(life *f, uint32_t number, uint64_t per_step)
{
    uint64_t at = number * per_step;
    uint32_t i;
    for (i = 0; i < f->g->n_tensors && !f->failed; i++) {
        rm_tensor t;
        t.id = i + 1;
        if (f->g->tensors[i].kind != RMI_INPUT || rmi_low_external(f->g, i)) continue;
        toy_fill(f->inputs + at, f->g->tensors[i].bytes, rmi_mix(f->seed + 1000 * number) + i);
        done(f, rm_exec_write(f->x, t, RM_VALUE, 0, f->inputs + at, f->g->tensors[i].bytes), "rm_exec_write");
        at += f->g->tensors[i].bytes;
    }
}

static void put_weights(life *f)
{
    static unsigned char room[8192];
    uint32_t i, what;
    standin_pageable(1);
    for (i = 0; i < f->g->n_tensors; i++)
        for (what = RM_VALUE; what <= RM_STATE && !f->failed; what += RM_STATE) {
            uint64_t n = rmi_low_bytes(f->g, rmi_low_buf(f->g, (rmi_buf_kind)what, i));
            rm_tensor t;
            t.id = i + 1;
            if ((f->g->tensors[i].kind != RMI_PARAM && (f->g->tensors[i].kind != RMI_CONST || what)) || n > sizeof room) continue;
            toy_fill(room, n, rmi_mix(f->seed + 7) + 3 * i + what);
            done(f, rm_exec_write(f->x, t, what, 0, room, n), "rm_exec_write");
        }
    standin_pageable(0);
}

/* Is this buffer there after a step of this kind? */
static int looked_at(const rm_graph *g, uint32_t i, uint32_t what, uint32_t kind)
{
    const rmi_tensor *t = &g->tensors[i];
    if (what == RM_VALUE) return t->kind == RMI_PARAM || t->kind == RMI_CONST || t->is_output;
    if (what == RM_STATE) return t->kind == RMI_PARAM && t->state_bytes;
    return t->kind != RMI_ACT && t->consumers.n && kind != RM_FORWARD && (!t->updates || kind == RM_FIRST || kind == RM_MIDDLE);
}

static uint64_t look(life *f, uint32_t kind)
{
    static unsigned char room[8192];
    uint64_t h = 1;
    uint32_t i, what;
    standin_pageable(1);
    for (i = 0; i < f->g->n_tensors; i++)
        for (what = 0; what < 3 && !f->failed; what++) {
            uint64_t n = rmi_low_bytes(f->g, rmi_low_buf(f->g, (rmi_buf_kind)what, i));
            rm_tensor t;
            t.id = i + 1;
            if (!looked_at(f->g, i, what, kind) || n > sizeof room) continue;
            if (done(f, rm_exec_read(f->x, t, what, 0, room, n), "rm_exec_read")) h = toy_hash(h, room, n);
        }
    standin_pageable(0);
    return h;
}

static void bind_all(life *f)
{
    uint32_t b;
    f->ext = (void **)calloc(3 * (size_t)f->g->n_tensors + 1, sizeof(void *));
    for (b = 0; b < 3 * f->g->n_tensors && !f->failed; b++) {
        uint64_t n = rmi_low_bytes(f->g, b);
        rm_tensor t;
        uint32_t id, what = rmi_low_kind(f->g, b, &id);
        if (!rmi_low_external(f->g, b) || !n) continue;
        t.id = id + 1;
        if (f->cu) {
            if (!done(f, cudaMalloc(&f->ext[b], (size_t)n) ? RM_ERROR_BACKEND : RM_OK, "cudaMalloc in the test")) return;
            memset(standin_at(f->ext[b]), 0, (size_t)n);
        } else f->ext[b] = calloc((size_t)n, 1);
        done(f, rm_exec_bind(f->x, t, what, f->ext[b]), "rm_exec_bind");
    }
}

/* --- a disk in memory: host functions in streams of their own */
static unsigned char *disk;
static unsigned long disk_ends;
static int disk_read(void *card, uint64_t offset, void *dst, uint64_t bytes)
{
    if (card) standin_name("load"), touch(dst, bytes, 1);
    return memcpy(dst, disk + offset, (size_t)bytes), 0;
}
static int disk_write(void *card, uint64_t offset, const void *src, uint64_t bytes)
{
    if (card) standin_name("store"), touch(src, bytes, 0);
    return memcpy(disk + offset, src, (size_t)bytes), 0;
}
static int disk_end(void *user) { return (void)user, disk_ends++, 0; }

static uint64_t created_after; /* by steps */
static volatile uint64_t touched;
static uint64_t waits_before;

static int nowhere(void *user, const char *text, size_t n) { return (void)user, (void)text, (void)n, 0; }
static uint64_t no_numbers(void *user, rm_tensor t, uint32_t what, const void *bytes, uint64_t n)
{
    uint64_t i;
    (void)user, (void)t, (void)what;
    for (i = 0; i < n; i++) touched += ((const unsigned char *)bytes)[i];
    return n;
}

/* A step, or one that is watched op by op. */
static rm_result make_step(life *f, const rm_step *s, uint32_t i)
{
    rm_result r;
    if (!f->watch || i % 3 == 0) return rm_exec_step(f->x, s);
    standin_pageable(1); /* what is looked at goes to plain memory */
    r = i % 3 == 1 ? rm_exec_trace(f->x, s, nowhere, NULL) : rm_exec_find_nan(f->x, s, no_numbers, NULL);
    standin_pageable(0);
    return r;
}

static uint64_t live_it(life *f, const rm_cuda_desc *d, rm_exec_desc *xd)
{
    uint64_t h = 0, per_step = 0, created = 0;
    uint32_t i;
    void *pinned = NULL;
    f->w->barrier = 0;
    world = f->w;
    set_kernels(f->g, d != NULL);
    for (i = 0; i < f->g->n_tensors; i++)
        if (f->g->tensors[i].kind == RMI_INPUT) per_step += f->g->tensors[i].bytes;
    xd->reduce = d ? cu_reduce : toy_reduce;
    xd->add = d ? host_add : plain_add;
    if (f->p->prog[0].host[RMI_DISK]) { /* on one is what is on the other from the start */
        disk = (unsigned char *)realloc(disk, (size_t)f->p->prog[0].host[RMI_DISK]);
        memset(disk, 0x5A, (size_t)f->p->prog[0].host[RMI_DISK]);
        xd->disk_read = disk_read;
        xd->disk_write = disk_write;
        xd->disk_end = f->seed % 2 ? disk_end : NULL;
        xd->disk_user = d ? f : NULL;
    }
    if (d) {
        cudaHostRegister(&f->w->barrier, sizeof f->w->barrier, 0); /* a word that kernels and host functions share */
        if (cudaMallocHost(&pinned, per_step * f->n + 1)) pinned = NULL;
        if (!done(f, rm_cuda_create(d, &f->cu), "rm_cuda_create")) snprintf(f->message, sizeof f->message, "%s", rm_cuda_error(f->cu));
        standin_pageable(disk != NULL); /* what is on disk and on the device comes through plain memory */
        if (!f->failed) done(f, rm_cuda_exec_create(f->cu, f->p, xd, &f->x), "rm_cuda_exec_create");
        standin_pageable(0);
    } else {
        pinned = malloc(per_step * f->n + 1);
        done(f, rm_exec_create(f->p, xd, &f->x), "rm_exec_create");
    }
    f->inputs = (unsigned char *)pinned;
    if (!pinned) done(f, RM_ERROR_BACKEND, "pinned memory of the test");
    if (!f->failed) bind_all(f);
    if (!f->failed) put_weights(f);
    if (!f->failed && d) created = standin_created();
    waits_before = standin_waits();
    for (i = 0; i < f->n && !f->failed; i++) {
        rm_step s;
        memset((void *)&s, 0, sizeof s);
        if (f->next && i == f->n / 2) {
            standin_pageable(1); /* what persists may wait in plain memory */
            done(f, rm_exec_replan(f->x, f->next), "rm_exec_replan");
            standin_pageable(0);
            if (f->failed) break;
        }
        s.kind = f->kinds[i];
        s.step = i / 2;
        s.micro = i;
        s.seed = f->seed;
        put_inputs(f, i, per_step);
        if (!f->failed) done(f, make_step(f, &s, i), "rm_exec_step");
        runs++;
        if (f->read_each || i + 1 == f->n) h = rmi_mix(h ^ look(f, s.kind));
    }
    if (!f->failed && d) {
        if (done(f, rm_cuda_get_info(f->cu, &f->info), "rm_cuda_get_info")) created_after = f->next || f->watch ? 0 : standin_created() - created - 2 * f->info.captured; /* a graph and what is made of it */
    }
    if (f->cu) f->gave_up = strstr(rm_cuda_note(f->cu), "could not be made") != NULL;
    rm_exec_destroy(f->x);
    rm_cuda_destroy(f->cu);
    for (i = 0; i < 3 * f->g->n_tensors && f->ext; i++) {
        if (f->ext[i] && d) cudaFree(f->ext[i]);
        else if (!d) free(f->ext[i]);
    }
    free(f->ext);
    if (d) cudaFreeHost(pinned), cudaHostUnregister(&f->w->barrier);
    else free(pinned);
    return h;
}

static life fresh(rm_graph *g, toy_world *w, rm_plan *p, uint64_t seed, const uint32_t *kinds, uint32_t n)
{
    life f;
    memset(&f, 0, sizeof f);
    f.g = g, f.w = w, f.p = p, f.seed = seed, f.kinds = kinds, f.n = n;
    f.read_each = (int)(rmi_mix(seed) % 3 == 0);
    return f;
}

static uint64_t on_host(rm_graph *g, toy_world *w, rm_plan *p, uint64_t seed, const uint32_t *kinds, uint32_t n)
{
    life f = fresh(g, w, p, seed, kinds, n);
    rm_exec_desc xd;
    uint64_t h;
    memset((void *)&xd, 0, sizeof xd);
    h = live_it(&f, NULL, &xd);
    expect(!f.failed, f.failed ? f.failed : "", f.message);
    expect(!w->wrong[0], "a kernel saw what it should not, on the host", w->wrong);
    w->wrong[0] = 0;
    return h;
}

static uint64_t on_cuda(life *f, uint32_t graph, int order, uint64_t which, uint64_t drop)
{
    rm_cuda_desc d;
    rm_exec_desc xd;
    memset((void *)&d, 0, sizeof d);
    memset((void *)&xd, 0, sizeof xd);
    static unsigned char room[(1 << 20) + 256], *host;
    host = room + (256 - (uintptr_t)room % 256) % 256; /* as plans are aligned */
    d.graph = graph;
    if (f->seed % 4 == 1) { /* the caller's, registered while it is in use */
        memset(host, 0x5A, 1 << 20);
        d.host_memory = host;
        d.host_memory_bytes = 1 << 20;
    }
    standin_reset();
    standin_order(order, which);
    standin_drop_wait(drop);
    return live_it(f, &d, &xd);
}

static void after_life(life *f, uint64_t h, uint64_t want, const char *name)
{
    char t[700];
    snprintf(t, sizeof t, "%s: %s", name, f->failed ? f->message : standin_finding());
    expect(!f->failed, f->failed ? f->failed : "", t);
    if (!f->failed) expect(h == want, "other bits than the host executor", name);
    expect(standin_findings() == 0, "the stand-in found something", t);
    expect(!f->w->wrong[0], "a kernel saw what it should not", f->w->wrong);
    if (!f->failed) expect(created_after == 0, "something was made in a step", name);
    expect(standin_live() == 0, "something was left behind", name);
    f->w->wrong[0] = 0;
}

/* All orders, streams and graphs. */
static void all_orders(rm_graph *g, toy_world *w, rm_plan *p, uint64_t seed, const uint32_t *kinds, uint32_t n, uint64_t want)
{
    uint32_t graph, order;
    char name[60];
    kernel_ns = 1000;
    for (graph = 0; graph < 2; graph++)
        for (order = 0; order < 9; order++) { /* five streams to starve, and three more; the last once more with steps watched */
            life f = fresh(g, w, p, seed, kinds, n);
            uint64_t h;
            f.watch = order == 8;
            h = on_cuda(&f, graph, order < 5 ? STANDIN_STARVE : order == 5 ? STANDIN_LAZY : order == 6 ? STANDIN_EAGER : STANDIN_SHUFFLE, order < 5 ? order : seed, 0);
            snprintf(name, sizeof name, "%s, order %u", graph ? "graph" : "streams", order);
            after_life(&f, h, want, name);
            expect(!f.gave_up, "a step that could not be a graph", name);
            if (!f.failed && graph && n > 2 && kinds[0] == kinds[n - 1] && !f.watch) expect(f.info.captured == 1 && f.info.replayed == n - 2, "steps were not replayed", name);
        }
}

/* From one plan to another halfway: what persists moves with it, wherever the two keep it, and nothing overtakes the clearing of the new arena. */
static void exchanged(rm_graph *g, toy_world *w, rm_plan *p, rm_plan *next, uint64_t seed)
{
    static const uint32_t steps[] = {RM_SINGLE, RM_SINGLE, RM_SINGLE, RM_SINGLE, RM_SINGLE, RM_SINGLE};
    uint32_t graph, order;
    uint64_t want, h;
    char name[60];
    life f = fresh(g, w, p, seed, steps, 6);
    rm_exec_desc xd;
    memset((void *)&xd, 0, sizeof xd);
    f.next = next;
    want = live_it(&f, NULL, &xd);
    expect(!f.failed, f.failed ? f.failed : "", f.message);
    w->wrong[0] = 0;
    for (graph = 0; graph < 2; graph++)
        for (order = 0; order < 7; order++) {
            f = fresh(g, w, p, seed, steps, 6);
            f.next = next;
            h = on_cuda(&f, graph, order < 5 ? STANDIN_STARVE : order == 5 ? STANDIN_LAZY : STANDIN_SHUFFLE, order < 5 ? order : seed, 0);
            snprintf(name, sizeof name, "another plan halfway, %s, order %u", graph ? "graph" : "streams", order);
            after_life(&f, h, want, name);
        }
}

/* Each wait left out in turn: somebody must notice. */
static void each_wait(rm_graph *g, toy_world *w, rm_plan *p, uint64_t seed, const uint32_t *kinds, uint32_t n, uint64_t want, uint32_t graph)
{
    life f = fresh(g, w, p, seed, kinds, n);
    uint64_t total, first, k;
    uint32_t nodes;
    char more[300];
    on_cuda(&f, graph, STANDIN_EAGER, 0, 0);
    nodes = f.info.graph_nodes;
    total = standin_waits();
    first = waits_before + 1;
    for (k = first; k <= total; k++) {
        uint32_t order;
        int seen = 0;
        for (order = 0; order < 7 && !seen; order++) {
            uint64_t h;
            f = fresh(g, w, p, seed, kinds, n);
            h = on_cuda(&f, graph, order == 0 ? STANDIN_EAGER : order == 1 ? STANDIN_LAZY : STANDIN_STARVE, order < 2 ? 0 : order - 2, k);
            seen = f.failed || h != want || standin_findings() || f.gave_up || f.info.graph_nodes != nodes; /* or not captured */
        }
        waits_dropped++;
        /* before a graph all lanes are joined, whatever it touches; behind inputs (event 2, RMC_DONE) each lane begins anew */
        if (!seen && !strstr(standin_wait_name(), "capture") && (graph || strstr(standin_wait_name(), "event 2"))) {
            borders++;
            continue;
        }
        snprintf(more, sizeof more, "%s, wait %llu of %llu: %s", graph ? "graph" : "streams", (unsigned long long)(k - first + 1), (unsigned long long)(total - first + 1), standin_wait_name());
        if (!expect(seen, "a wait that nobody misses", more)) waits_left++;
        w->wrong[0] = 0;
    }
}

/* Each call of the runtime fails in turn, once or for good: it is told, with its name, and nothing is left behind. */
static void each_call(rm_graph *g, toy_world *w, rm_plan *p, uint64_t seed, const uint32_t *kinds, uint32_t n, uint64_t want, uint32_t graph, int sticky)
{
    uint64_t calls, k;
    life f;
    rm_cuda_desc d;
    rm_exec_desc xd;
    char more[700];
    memset((void *)&d, 0, sizeof d);
    d.graph = graph;
    memset((void *)&xd, 0, sizeof xd);
    f = fresh(g, w, p, seed, kinds, n);
    on_cuda(&f, graph, STANDIN_LAZY, 0, 0);
    calls = standin_calls();
    for (k = 1; k <= calls; k++) {
        uint64_t h;
        f = fresh(g, w, p, seed, kinds, n);
        standin_reset();
        standin_order(STANDIN_LAZY, 0);
        standin_fail(k, sticky ? cudaErrorIllegalAddress : cudaErrorMemoryAllocation, sticky);
        h = live_it(&f, &d, &xd);
        snprintf(more, sizeof more, "%s, call %llu of %llu (%s)%s: %s", graph ? "graph" : "streams", (unsigned long long)k, (unsigned long long)calls, standin_failed_call(), sticky ? ", for good" : "", f.message);
        if (f.failed) expect(strstr(f.message, sticky ? "700" : "cudaErrorMemoryAllocation (2)") != NULL || strstr(f.message, "returned 2") || strstr(f.failed, "test"), "an error without its name", more);
        else expect(h == want, "a failure that changed the result and was not told", more); /* of a call that frees, or of a capture that went to streams instead */
        if (!sticky) expect(standin_live() <= 1, "something was left behind", more); /* what the failing call should have freed */
        w->wrong[0] = 0;
    }
}

/* Host updates everywhere, so that plans can move them; all of it before the first plan. */
static void more_host_updates(rm_graph *g)
{
    uint32_t i;
    for (i = 0; i < g->n_tensors; i++) {
        rmi_tensor *t = &g->tensors[i];
        if (t->opt == RMI_INF && t->opt_host != RMI_INF) t->opt = t->opt_host;
        else if (t->opt != RMI_INF && t->opt_host == RMI_INF && !rmi_low_external(g, i)) t->opt_host = 2 * t->opt;
    }
}

static const uint32_t singles[] = {RM_SINGLE, RM_SINGLE, RM_SINGLE, RM_SINGLE};
static const uint32_t mixed[] = {RM_FIRST, RM_MIDDLE, RM_LAST, RM_FORWARD, RM_SINGLE, RM_FIRST, RM_MIDDLE, RM_LAST, RM_SINGLE, RM_FORWARD, RM_FIRST, RM_MIDDLE, RM_LAST, RM_SINGLE};
#define COUNT(a) ((uint32_t)(sizeof(a) / sizeof *(a)))

static void one_plan(rm_graph *g, toy_world *w, rm_plan *p, uint64_t seed, const uint32_t *kinds, uint32_t n, int deep)
{
    const char *why = rmtest_plan(g, p, 0, 0);
    uint64_t want = on_host(g, w, p, seed, kinds, n);
    expect(!*why, "the second referee", why);
    plans++;
    all_orders(g, w, p, seed, kinds, n, want);
    if (!deep) return;
    each_wait(g, w, p, seed, kinds, n, want, 0);
    each_wait(g, w, p, seed, kinds, n, want, 1);
    if (deep < 2) return;
    each_call(g, w, p, seed, kinds, 3, on_host(g, w, p, seed, kinds, 3), 0, 0);
    each_call(g, w, p, seed, kinds, 3, on_host(g, w, p, seed, kinds, 3), 1, 0);
    each_call(g, w, p, seed, kinds, 3, on_host(g, w, p, seed, kinds, 3), 1, 1);
}

static rm_plan *plan(rm_graph *g, const char *preset, uint64_t budget, uint32_t steps, uint64_t host, uint64_t *min)
{
    rm_plan_desc d;
    rm_plan_info info;
    rm_plan *p = NULL;
    memset((void *)&d, 0, sizeof d);
    d.device_bytes = budget;
    d.host_bytes = host;
    d.steps = steps;
    d.preset = preset ? preset : "rockmate";
    d.info = &info;
    rm_plan_create(g, &d, &p);
    if (min) *min = info.min_bytes;
    return p;
}

static void exercise(rm_graph *g, toy_world *w, uint64_t seed, int ops)
{
    uint64_t min = 0;
    unsigned long i;
    int moved = 0, deep = ops <= 8 ? (seed % 20 == 0 ? 2 : seed % 4 == 0) : 0;
    char name[300];
    rm_plan *all = plan(g, "noremat", 0, RM_SINGLE, 0, NULL), *p, *q;
    snprintf(name, sizeof name, "%.200s", where);
    if (!expect(all != NULL, "keeping everything", rm_graph_error(g))) return;
    p = plan(g, "rotor", 1, RM_SINGLE, 0, &min);
    if (!p && min) p = plan(g, "rotor", min + rmi_mix(seed) % 3 * 4096, RM_SINGLE, 0, NULL);
    snprintf(where, sizeof where, "%s, recomputing", name);
    if (p) one_plan(g, w, p, seed, singles, STEPS, deep == 1);
    for (i = 0; i <= more; i++) {
        q = spill(g, (seed + i) & 1 && p ? p : all, RM_SINGLE, i ? rmi_mix(seed + i) : seed, 30, 4096, &moved);
        moves += (unsigned long)moved;
        snprintf(where, sizeof where, "%s, %d moves, the %lu.", name, moved, i);
        if (q) one_plan(g, w, q, seed, singles, STEPS, i ? 0 : deep);
        rm_plan_destroy(q);
    }
    rm_plan_destroy(p);
    if (seed % 3 == 0) {
        p = plan(g, "rotor", 1, 31, 0, &min);
        if (!p && min) p = plan(g, "rotor", min, 31, 0, NULL);
        snprintf(where, sizeof where, "%s, all kinds of steps", name);
        if (p) one_plan(g, w, p, seed, mixed, COUNT(mixed), 0);
        rm_plan_destroy(p);
    }
    {
        static const char *const copies[] = {"stream", "link", "blocks", "offmate"};
        const char *preset = copies[rmi_mix(seed + 5) % 4];
        uint32_t steps = seed % 5 ? RM_SINGLE : 31;
        p = plan(g, preset, 1, steps, 1 << 20, &min);
        if (!p && min) p = plan(g, preset, min + rmi_mix(seed + 3) % 3 * 2048, steps, 1 << 20, NULL);
        snprintf(where, sizeof where, "%s, %s, steps %u", name, preset, steps);
        if (p) one_plan(g, w, p, seed, steps == 31 ? mixed : singles, steps == 31 ? COUNT(mixed) : STEPS, deep == 1 && steps != 31);
        if (p && p->prog[0].host[0]) { /* and with a disk behind host memory */
            rm_plan *behind = plan(g, preset, p->info[0].budget_bytes, steps, 1 << 20, NULL);
            on_disk += behind ? disks_insert(behind, seed, 20, 1) : 0;
            snprintf(where, sizeof where, "%s, %s and a disk, steps %u", name, preset, steps);
            if (behind) one_plan(g, w, behind, seed, steps == 31 ? mixed : singles, steps == 31 ? COUNT(mixed) : STEPS, 0);
            rm_plan_destroy(behind);
            snprintf(where, sizeof where, "%s, %s, steps %u", name, preset, steps);
        }
        if (p && seed % 4 != 1) { /* 1: memory of the caller, which no other plan can have */
            exchanged(g, w, p, all, seed);
            exchanged(g, w, all, p, seed);
        }
        rm_plan_destroy(p);
    }
    rm_plan_destroy(all);
}

/* The same graph, its inputs being the caller's memory: then no call between the steps waits, and only the plan's own waits order them. */
static char *with_bound_inputs(const char *text)
{
    char *to = (char *)malloc(2 * strlen(text) + 1), *w = to;
    const char *end;
    for (; to && *text; text = end + 1) {
        end = strchr(text, '\n');
        memcpy(w, text, (size_t)(end - text));
        w += end - text;
        *w = 0;
        if (!strncmp(text, "tensor ", 7) && strstr(w - (end - text), " input ") && !strstr(w - (end - text), " external")) w += sprintf(w, " external");
        *w++ = '\n';
        *w = 0;
    }
    return to;
}

static void random_graph(uint64_t seed)
{
    uint64_t chance = rmi_mix(seed);
    int ops = (int)(1 + chance % (seed % 4 ? 24 : 8));
    uint32_t features = (chance >> 32 & 1 ? RG_ALL : (uint32_t)rmi_mix(chance)) | RG_LINK;
    rg_text t;
    rm_graph *g = NULL;
    char *text;
    toy_world w;
    snprintf(where, sizeof where, "seed %llu (%d ops, features %08x)", (unsigned long long)seed, ops, features);
    rg_ask_more(seed);
    rg_generate(&t, seed, ops, features);
    if (!t.data) return;
    text = ops <= 8 && seed % 4 == 0 ? with_bound_inputs(t.data) : NULL;
    if (expect(rm_graph_read(text ? text : t.data, text ? strlen(text) : t.size, NULL, &g) == RM_OK, "rm_graph_read", g ? rm_graph_error(g) : NULL)) {
        more_host_updates(g);
        if (toy_attach(&w, g, seed % 3 ? 0 : seed)) exercise(g, &w, seed, ops);
        toy_detach(&w);
    }
    rm_graph_destroy(g);
    free(text);
    rg_free(&t);
}

int main(int argc, char **argv)
{
    const unsigned long usual = tm_amount(3, 28);
    unsigned long n = argc > 1 ? strtoul(argv[1], NULL, 10) : usual, i;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    more = argc > 3 ? strtoul(argv[3], NULL, 10) : 0;
    for (i = 0; i < n && tm_more(i); i++) random_graph(first + i);
    standin_reset();
    printf("%lu graphs, %lu plans, %lu steps, %lu moves of data, %lu of them to disk; %lu waits left out in turn, %lu not missed (and %lu before a graph)\n%lu passed, %lu failed, %lu skipped\n", n, plans, runs, moves, on_disk, waits_dropped, waits_left, borders, passed, failed, skipped);
    return failed != 0;
}
