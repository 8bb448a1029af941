/* test_late.c - lanes in threads that lag: copies that their thread takes up late begin when the link was free and catch up, so that a
   slow host does not look like a slow link; one that nothing held up begins now. Bits are those of a step without threads.

      gcc -O1 -g -std=gnu99 -I. tests/unit/test_late.c -o build/test_late -lm -lpthread && build/test_late */
#define ROCKMATE_THREADS
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"

#include "../common.h"

enum { COPIES = 12, BYTES = 1000, NS = 50000, LATENCY = 700 }; /* ns a copy on the link */

static void nap(uint64_t ns)
{
    struct timespec t;
    t.tv_sec = (time_t)(ns / 1000000000u);
    t.tv_nsec = (long)(ns % 1000000000u);
    nanosleep(&t, NULL);
}
/* A lane's hooks: one holds it until all commands have been given, one is slow and notes when the link is free. */
typedef struct held {
    rmi_thr *threads;
    int go;
    uint64_t free_at;
} held;
static int hold(void *arg)
{
    held *h = (held *)arg;
    int go = 0;
    while (!go) {
        nap(200000);
        rmi_thr_enter(&h->threads->lock);
        go = h->go;
        rmi_thr_leave(&h->threads->lock);
    }
    return 0;
}
static int dawdle(void *arg)
{
    held *h = (held *)arg;
    h->free_at = h->threads->lane[RM_LANE_H2D].free_at;
    nap(2 * COPIES * (uint64_t)NS);
    return 0;
}

static void catches_up(void)
{
    static unsigned char from[COPIES + 2][BYTES], to[COPIES + 2][BYTES];
    rmi_arena mem = rmi_arena_make(NULL);
    rmi_thr *t = rmi_thr_make(&mem, BYTES * 1000000000ull / NS, BYTES * 1000000000ull / NS, LATENCY);
    held h;
    uint64_t before;
    unsigned i, k;
    const uint32_t used = 1u << RM_LANE_H2D;
    char said[120];
    if (t) t->used = &used;
    if (!EXPECT(t && !rmi_thr_reserve(&t, 4, 2 * COPIES), "threads")) return;
    memset(&h, 0, sizeof h);
    h.threads = t;
    for (i = 0; i < COPIES + 2; i++)
        for (k = 0; k < BYTES; k++) from[i][k] = (unsigned char)(i * 7 + k);
    EXPECT(!rmi_thr_call(&t, RM_LANE_H2D, hold, &h), "a call");
    EXPECT(!rmi_thr_copy(&t, to[0], from[0], BYTES, RM_LANE_H2D) && !rmi_thr_call(&t, RM_LANE_H2D, dawdle, &h), "a copy, then the thread is slow");
    for (i = 1; i <= COPIES; i++) EXPECT(!rmi_thr_copy(&t, to[i], from[i], BYTES, RM_LANE_H2D), "copies behind it");
    rmi_thr_enter(&t->lock);
    h.go = 1;
    rmi_thr_leave(&t->lock);
    EXPECT(!rmi_thr_sync(&t), "all is done");
    snprintf(said, sizeof said, "the link was free at %llu, then at %llu", (unsigned long long)h.free_at, (unsigned long long)t->lane[RM_LANE_H2D].free_at);
    EXPECT(t->lane[RM_LANE_H2D].free_at == h.free_at + COPIES * (uint64_t)(NS + LATENCY), said);
    nap(10 * NS);
    before = rmi_thr_now(); /* the lane sleeps: no copy begins in the past */
    EXPECT(!rmi_thr_copy(&t, to[COPIES + 1], from[COPIES + 1], BYTES, RM_LANE_H2D) && !rmi_thr_sync(&t), "a copy after a pause");
    EXPECT(t->lane[RM_LANE_H2D].free_at >= before + NS + LATENCY && rmi_thr_now() >= t->lane[RM_LANE_H2D].free_at, "it takes its time");
    EXPECT(!memcmp(from, to, sizeof from), "the bytes");
    rmi_thr_free(t);
    rmi_arena_free(&mem);
}

/* --- a training whose host lane and link are slow in turns */
static int slow_update;
static int fwd(const rm_call *c)
{
    unsigned i;
    for (i = 0; i < 64; i++) ((unsigned char *)c->out[0])[i] = (unsigned char)(((const unsigned char *)c->in[0])[i] * 3 + ((const unsigned char *)c->in[1])[i]);
    return 0;
}
static int bwd(const rm_call *c)
{
    unsigned i, k;
    for (k = 0; k < 2; k++)
        for (i = 0; i < 64 && c->din[k]; i++)
            ((unsigned char *)c->din[k])[i] = (unsigned char)(((const unsigned char *)c->in[k])[i] + i + (c->dout[0] ? ((const unsigned char *)c->dout[0])[i] : 1));
    return 0;
}
static int update(const rm_call *c)
{
    unsigned i;
    if (slow_update) nap((uint64_t)((const unsigned char *)c->grad)[0] * 5000);
    for (i = 0; i < 64; i++) ((unsigned char *)c->param)[i] = (unsigned char)(((unsigned char *)c->param)[i] + ((unsigned char *)c->grad)[i] + ++((unsigned char *)c->state)[i]);
    return 0;
}

static void train(rm_graph *g, rm_plan *p, rm_tensor x, const rm_exec_desc *d, tm_text *state)
{
    rm_exec *e = NULL;
    unsigned char batch[64];
    int i;
    EXPECT(rm_exec_create(p, d, &e) == RM_OK, rm_graph_error(g));
    for (i = 0; i < 4 && e; i++) {
        memset(batch, 7 * i + 1, sizeof batch);
        EXPECT(!rm_exec_write(e, x, RM_VALUE, 0, batch, sizeof batch) && !rm_exec_step(e, NULL), rm_exec_error(e));
    }
    EXPECT(e && !rm_exec_save(e, tm_sink, state), "a state");
    rm_exec_destroy(e);
}

static void lagging(void)
{
    enum { LAYERS = 24 };
    const rm_kind kind = {.name = "op", .forward = fwd, .backward = bwd, .needs = RM_IN(0) | RM_IN(1)};
    static const uint64_t rates[] = {0, 100000000, 2000000};
    rm_graph *g = rm_graph_create(NULL);
    rm_tensor x = rm_input_add(g, "x", 64, 0), h = x;
    rm_plan *all = NULL, *p = NULL;
    rm_plan_info info;
    rm_plan_desc d = {.preset = "noremat", .align = 64, .info = &info};
    tm_text want = {0}, got = {0};
    unsigned i;
    rm_graph_link(g, 1000000000, 1000000000, 0, 0);
    for (i = 0; i < LAYERS; i++) {
        rm_tensor w = RM_PARAM(g, .bytes = 64, .state_bytes = 64, .update = update, .update_host = update, .update_ns = 1000, .update_host_ns = 100);
        h = RM_OP(g, &kind, .in = {h, w}, .out = {64}, .fwd_ns = 1000, .bwd_ns = 1000);
    }
    rm_output_add(g, h);
    EXPECT(!rm_plan_create(g, &d, &all), rm_graph_error(g));
    train(g, all, x, NULL, &want);
    d.preset = "stream";
    d.device_bytes = info.arena_bytes / 2;
    d.host_bytes = 1 << 20;
    EXPECT(!rm_plan_create(g, &d, &p) && info.h2d_bytes && info.d2h_bytes, rm_graph_error(g));
    EXPECT(p && !rm_plan_write(p, RM_SINGLE, tm_sink, &got) && strstr(got.s, "@host"), "updates on the host");
    for (i = 0; i < RMI_COUNT(rates) && p; i++) {
        got.n = 0;
        slow_update = 1;
        train(g, p, x, &(rm_exec_desc){.threads = 1, .h2d = rates[i], .d2h = rates[RMI_COUNT(rates) - 1 - i]}, &got);
        slow_update = 0;
        EXPECT(got.n == want.n && !memcmp(got.s, want.s, got.n), "other weights or states when a lane lags");
    }
    tm_clear(&want), tm_clear(&got);
    rm_plan_destroy(p);
    rm_plan_destroy(all);
    rm_graph_destroy(g);
}

int main(void)
{
    catches_up();
    lagging();
    return tm_end();
}
