/* Lanes in threads: a chain whose activations all go to host memory and come back, with kernels that take a known time (they
   sleep) and copies held up to a link. Measured steps against the simulator's, with the link faster and slower than the
   computation. What the lanes do side by side shows in the sum of their times. It asserts nothing.

      cc -O2 -std=gnu99 -I. tests/bench/lanes.c -o build/bench_lanes && build/bench_lanes */
#define ROCKMATE_THREADS
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"
#include <stdio.h>

enum { LAYERS = 16, BYTES = 1 << 18, STEPS = 9 };
#define FWD_NS 2000000u
#define BWD_NS 4000000u

static void nap(uint64_t ns)
{
    struct timespec t;
    t.tv_sec = (time_t)(ns / 1000000000u);
    t.tv_nsec = (long)(ns % 1000000000u);
    nanosleep(&t, NULL);
}
static int take(const rm_call *c)
{
    uint64_t ns = c->phase == RM_PHASE_FORWARD ? FWD_NS : BWD_NS, now = rmi_thr_now();
    static uint64_t due; /* a sleep that was too long makes the next one shorter, as a device would not */
    if (due < now - 20000000u) due = now;
    due += ns;
    if (due > now) nap(due - now);
    else due = now;
    return 0;
}

static void put(rmi_stmt *st, size_t *n, size_t at, rmi_what what, uint32_t buf, uint64_t offset)
{
    memmove(st + at + 1, st + at, (*n - at) * sizeof *st);
    memset(&st[at], 0, sizeof *st);
    st[at].what = (uint8_t)what;
    st[at].buf = buf;
    st[at].offset = offset;
    ++*n;
}

static size_t run_of(const rmi_stmt *st, size_t n, rmi_way way, uint32_t op)
{
    size_t i;
    for (i = 0; i < n && !(st[i].what == RMI_RUN && st[i].run.way == (uint8_t)way && st[i].run.id == op);) i++;
    return i;
}

/* Every activation leaves when its reader has run, and comes back two ops before its next one. */
static void move_all(rm_plan *p, const rm_tensor *h)
{
    rmi_program *q = &p->prog[0];
    rmi_stmt *st = (rmi_stmt *)rmi_arena_get(&p->mem, q->n + 8 * LAYERS, sizeof *st);
    size_t n = q->n, i, k;
    rmi_error err;
    memset(&err, 0, sizeof err);
    memcpy(st, q->st, n * sizeof *st);
    for (i = 0; i + 4 < LAYERS; i++) {
        uint32_t b = h[i].id - 1, late = i + 3 < LAYERS ? (uint32_t)i + 3 : LAYERS - 1;
        uint64_t offset = 0;
        for (k = 0; k < n; k++)
            if (st[k].what == RMI_ALLOC && st[k].buf == b) offset = st[k].offset;
        k = run_of(st, n, RMI_BWD, late);
        put(st, &n, k, RMI_PREFETCH, b, 0);
        put(st, &n, k, RMI_ALLOC, b, offset);
        k = run_of(st, n, RMI_FWD, (uint32_t)i + 1) + 1;
        put(st, &n, k, RMI_FREE, b, 0);
        put(st, &n, k, RMI_OFFLOAD, b, i * BYTES);
    }
    q->st = st;
    q->n = n;
    q->host[0] = LAYERS * BYTES;
    if (rmi_sch_sizes(p->g, q) != RM_OK || rmi_sch_check(p->g, q, &err, NULL) != RM_OK) {
        printf("the plan is not legal: %s\n", err.text);
        exit(1);
    }
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void measure(double copy_ms, int threads)
{
    static const rm_kind KIND = { .name = "layer", .forward = take, .backward = take, .needs = RM_IN(0) | RM_IN(1) };
    rm_graph *g = rm_graph_create(NULL);
    rm_tensor h[LAYERS], x = rm_input_add(g, "x", BYTES, 0);
    rm_plan_desc d = { .preset = "noremat" };
    uint64_t rate = (uint64_t)(BYTES / copy_ms * 1000);
    rm_exec_desc e = { .threads = (uint32_t)threads, .h2d = rate, .d2h = rate };
    rm_plan *p;
    rm_exec *exec;
    double ms[STEPS];
    int i;
    for (i = 0; i < LAYERS; i++) {
        rm_tensor w = RM_PARAM(g, .bytes = 256);
        h[i] = RM_OP(g, &KIND, .in = { i ? h[i - 1] : x, w }, .out = { BYTES }, .fwd_ns = FWD_NS, .bwd_ns = BWD_NS);
    }
    rm_output_add(g, h[LAYERS - 1]);
    rm_graph_link(g, rate, rate, 0, 0);
    if (rm_plan_create(g, &d, &p)) puts(rm_graph_error(g)), exit(1);
    move_all(p, h);
    if (rm_exec_create(p, &e, &exec)) puts(rm_graph_error(g)), exit(1);
    for (i = 0; i < STEPS; i++) {
        static char batch[BYTES];
        uint64_t start = rmi_thr_now();
        if (rm_exec_write(exec, x, RM_VALUE, 0, batch, BYTES) || rm_exec_step(exec, NULL)) puts(rm_exec_error(exec)), exit(1);
        ms[i] = (double)(rmi_thr_now() - start) / 1e6;
    }
    qsort(ms, STEPS, sizeof ms[0], by_size);
    {
        const rmi_figures *f = &p->prog[0].fig;
        double sum = (double)(f->busy[RM_LANE_COMPUTE] + f->busy[RM_LANE_H2D] + f->busy[RM_LANE_D2H]) / 1e6;
        printf("copies of %.1f ms, %s: simulated %.1f ms, measured %.1f ms (%.3f), compute alone %.1f, lanes one after the other %.1f\n", copy_ms,
               threads ? "threads" : "no threads", (double)f->time_ns / 1e6, ms[STEPS / 2], ms[STEPS / 2] / ((double)f->time_ns / 1e6),
               (double)f->busy[RM_LANE_COMPUTE] / 1e6, sum);
    }
    rm_exec_destroy(exec);
    rm_plan_destroy(p);
    rm_graph_destroy(g);
}

int main(void)
{
    measure(1, 1);
    measure(2, 1);
    measure(4, 1);
    measure(6, 1);
    return 0;
}
