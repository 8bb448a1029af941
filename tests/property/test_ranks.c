/* test_ranks.c - training in shares on ranks, which are threads here: weights have the same bits as with whole gradients reduced, whatever
   the budget, with sizes that no number of ranks divides, accumulation, a barrier, lanes as threads, and a state saved and restored; the
   states of all ranks together are that of one that has all, bit for bit, whether rows of moments lie in them or elements.

      gcc -O1 -g -std=gnu99 -I. tests/property/test_ranks.c -o build/test_ranks -lm -lpthread
      test_ranks [CASES [FIRST SEED]] */
#define ROCKMATE_THREADS
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"
#include "../common.h"
#include <math.h>
#include <pthread.h>

enum { MOST = 4, LAYERS = 5, WIDTH = 60, STEPS = 3 };

typedef struct group { /* of ranks: what they show each other */
    pthread_barrier_t gate;
    const void *shown[MOST];
    float found[MOST];
    int n;
} group;

typedef struct rank {
    group *all;
    int number, shares, micro, barrier, threads, host, disk; /* disk: behind little host memory; host: states may be in host memory, and with 2 all the rest and updates of some, too */
    size_t weights[LAYERS];
    int layers;
    uint64_t budget;
    float norm;          /* what the barrier has found */
    /* out */
    float *weight[LAYERS];
    uint64_t arena;
    tm_text state;       /* when all steps are done */
    char why[1200];
    rm_plan_info info;
} rank;

static void together(group *all) { pthread_barrier_wait(&all->gate); }

/* --- kernels: out[k] = in[k] * w[k mod n] */
static int scale_fwd(const rm_call *c)
{
    const float *x = (const float *)c->in[0], *w = (const float *)c->in[1];
    float *y = (float *)c->out[0];
    size_t n = (size_t)c->in_bytes[1] / 4, k;
    for (k = 0; k < WIDTH; k++) y[k] = x[k] * w[k % n];
    return 0;
}
static int scale_bwd(const rm_call *c)
{
    const float *x = (const float *)c->in[0], *w = (const float *)c->in[1], *dy = (const float *)c->dout[0];
    float *dx = (float *)c->din[0], *dw = (float *)c->din[1];
    size_t n = (size_t)c->in_bytes[1] / 4, k;
    if (dx)
        for (k = 0; k < WIDTH; k++) dx[k] = (c->accum & RM_IN(0) ? dx[k] : 0) + dy[k] * w[k % n];
    if (dw && !(c->accum & RM_IN(1))) memset(dw, 0, 4 * n);
    for (k = 0; k < WIDTH && dw; k++) dw[k % n] += x[k] * dy[k];
    return 0;
}
static int loss_fwd(const rm_call *c)
{
    const float *x = (const float *)c->in[0];
    float sum = 0;
    size_t k;
    for (k = 0; k < WIDTH; k++) sum += (x[k] - 1) * (x[k] - 1);
    *(float *)c->out[0] = sum;
    return 0;
}
static int loss_bwd(const rm_call *c)
{
    const float *x = (const float *)c->in[0];
    float *dx = (float *)c->din[0];
    size_t k;
    for (k = 0; k < WIDTH; k++) dx[k] = 2 * (x[k] - 1);
    return 0;
}
/* Momentum, and a second moment that nothing reads; of a share: as many as there are. arg: rows of the state, 0: no second moment. */
static int update(const rm_call *c)
{
    const rank *r = (const rank *)c->user;
    const size_t n = (size_t)c->param_bytes / 4, each = c->arg[0] == 1 ? 2 : 1;
    float *w = (float *)c->param, *m = (float *)c->state, *v = c->arg[0] == 1 ? m + 1 : m + n;
    const float *g = (const float *)c->grad, by = r->barrier ? 1 / (1 + r->norm) : 1;
    size_t k;
    for (k = 0; k < n; k++) {
        m[k * each] = 0.9f * m[k * each] + g[k] * by;
        if (c->arg[0]) v[k * each] += g[k] * g[k];
        w[k] -= 0.01f * m[k * each];
    }
    return 0;
}

/* --- between ranks: sums in their order, so that all ways give the same bits */
static int reduce(const rm_call *c)
{
    rank *r = (rank *)c->user;
    size_t n = (size_t)c->grad_bytes / 4, k;
    float *sum = (float *)malloc(4 * n + 4);
    int i;
    r->all->shown[r->number] = c->grad;
    together(r->all);
    for (k = 0; k < n; k++)
        for (sum[k] = 0, i = 0; i < r->all->n; i++) sum[k] += ((const float *)r->all->shown[i])[k];
    together(r->all);
    memcpy(c->grad, sum, 4 * n);
    free(sum);
    return 0;
}
static void add(void *dst, const void *src, uint64_t bytes, rm_tensor param, void *user) /* without shares: of gradients in host memory */
{
    size_t k;
    (void)param, (void)user;
    for (k = 0; k < bytes / 4; k++) ((float *)dst)[k] += ((const float *)src)[k];
}
static int gather(const rm_call *c)
{
    rank *r = (rank *)c->user;
    size_t all = (size_t)c->out_bytes[0], part = (size_t)c->in_bytes[0];
    int i;
    if (c->phase != RM_PHASE_GATHER || c->n_in != 1 || c->n_out != 1) return 7;
    r->all->shown[r->number] = c->in[0];
    together(r->all);
    for (i = 0; i < r->all->n && (size_t)i * part < all; i++) memcpy((char *)c->out[0] + (size_t)i * part, r->all->shown[i], all - (size_t)i * part < part ? all - (size_t)i * part : part);
    together(r->all);
    return 0;
}
static int scatter(const rm_call *c)
{
    rank *r = (rank *)c->user;
    size_t all = (size_t)c->in_bytes[0] / 4, part = (size_t)c->out_bytes[0] / 4, k, from = part * (size_t)r->number;
    float *share = (float *)c->out[0];
    int i;
    if (c->phase != RM_PHASE_SCATTER || c->n_in != 1 || c->n_out != 1) return 7;
    r->all->shown[r->number] = c->in[0];
    together(r->all);
    for (k = from; k < all && k < from + part; k++) {
        float sum = 0;
        for (i = 0; i < r->all->n; i++) sum += ((const float *)r->all->shown[i])[k];
        share[k - from] = (c->accum ? share[k - from] : 0) + sum;
    }
    together(r->all);
    return 0;
}
static int largest(const rm_call *c) /* of all gradients on all ranks: whole ones, or this rank's parts */
{
    rank *r = (rank *)c->user;
    float most = 0;
    uint32_t i;
    size_t k;
    for (i = 0; i < c->n_in; i++)
        for (k = 0; k < c->in_bytes[i] / 4; k++) most = fmaxf(most, fabsf(((const float *)c->in[i])[k]));
    r->all->found[r->number] = most;
    together(r->all);
    for (i = 0; i < (uint32_t)r->all->n; i++) most = fmaxf(most, r->all->found[i]);
    together(r->all);
    r->norm = most;
    return 0;
}

static float drawn(uint64_t seed)
{
    seed = (seed + 1) * 0x9E3779B97F4A7C15u;
    seed = (seed ^ seed >> 29) * 0xBF58476D1CE4E5B9u;
    return 0.5f + (float)((seed ^ seed >> 32) & 1023) / 1024;
}

static rm_graph *net(rank *r, rm_tensor *x, rm_tensor *w)
{
    static const rm_kind scale = { .name = "scale", .forward = scale_fwd, .backward = scale_bwd, .needs = RM_IN(0) | RM_IN(1) };
    static const rm_kind loss = { .name = "loss", .forward = loss_fwd, .backward = loss_bwd, .needs = RM_IN(0) };
    rm_graph *g = rm_graph_create(NULL);
    rm_tensor h;
    char name[20];
    int i;
    rm_graph_ranks(g, (uint32_t)r->all->n, 1000000000u, 1000, 0);
    rm_graph_link(g, 2000000000u, 2000000000u, 500, 0);
    rm_graph_disk(g, 1000000000u, 1000000000u, 500, 0);
    h = *x = rm_input_add(g, "x", 4 * WIDTH, 0);
    for (i = 0; i < r->layers; i++) {
        snprintf(name, sizeof name, "w%d", i);
        w[i] = RM_PARAM(g, .name = name, .bytes = 4 * r->weights[i], .state_bytes = 4 * r->weights[i] * (i % 3 ? 2 : 1), .state_rows = (uint32_t)(i % 3), .update = r->host == 2 && i % 3 == 2 ? NULL : update, .update_ns = r->host == 2 && i % 3 == 2 ? 0 : 1000, .update_host = r->host == 2 && i % 3 ? update : NULL, .update_host_ns = r->host == 2 && i % 3 ? 500 : 0, .reduce_ns = 2000, .arg = {i % 3}, .user = r);
        h = RM_OP(g, &scale, .in = { h, w[i] }, .out = { 4 * WIDTH }, .fwd_ns = 3000, .bwd_ns = 6000);
    }
    h = RM_OP(g, &loss, .in = { h }, .out = { 4 }, .fwd_ns = 1000, .bwd_ns = 1000);
    rm_output_add(g, h);
    if (r->barrier) rm_barrier_add(g, "largest", largest, r, 500);
    return g;
}

static int fault(rank *r, const char *what, const char *why)
{
    snprintf(r->why, sizeof r->why, "%s: %s", what, why);
    return 1;
}

static int in_memory(void *user, const char *text, size_t n) { return tm_sink(user, text, n); }

/* A whole weight, of shares from all ranks. */
static int read_weight(rank *r, rm_exec *e, rm_tensor t, size_t n, float *out)
{
    size_t part = ((4 * n + (size_t)r->all->n - 1) / (size_t)r->all->n + 15) / 16 * 16, from = part * (size_t)r->number, bytes;
    char mine[4 * WIDTH + 64];
    int i;
    if (rm_exec_read(e, t, RM_VALUE, 0, out, 4 * n) == RM_OK) return 0;
    bytes = from >= 4 * n ? 0 : 4 * n - from < part ? 4 * n - from : part;
    if (rm_exec_read(e, t, RM_VALUE | RM_SHARE, 0, mine, bytes) != RM_OK) return fault(r, "read", rm_exec_error(e));
    r->all->shown[r->number] = mine;
    together(r->all);
    for (i = 0; i < r->all->n && (size_t)i * part < 4 * n; i++) memcpy((char *)out + (size_t)i * part, r->all->shown[i], 4 * n - (size_t)i * part < part ? 4 * n - (size_t)i * part : part);
    together(r->all);
    return 0;
}

/* Steps of one rank; a failure of one would leave the others at a gate, so plans are made before any of them runs. */
static int train(rank *r, rm_graph *g, rm_exec **e, rm_plan *p, rm_exec_desc *d, rm_tensor x, rm_tensor *w)
{
    float in[WIDTH];
    int step, micro, i;
    size_t k;
    for (i = 0; i < r->layers; i++) {
        for (k = 0; k < r->weights[i]; k++) r->weight[i][k] = drawn(1000 * (uint64_t)i + k);
        if (rm_exec_write(*e, w[i], RM_VALUE, 0, r->weight[i], 4 * r->weights[i]) != RM_OK) return fault(r, "write", rm_exec_error(*e));
    }
    for (step = 0; step < STEPS; step++) {
        for (micro = 0; micro < r->micro; micro++) {
            rm_step s;
            memset(&s, 0, sizeof s);
            s.step = (uint64_t)step + 5;
            s.kind = r->micro == 1 ? RM_SINGLE : micro == 0 ? RM_FIRST : micro + 1 < r->micro ? RM_MIDDLE : RM_LAST;
            for (k = 0; k < WIDTH; k++) in[k] = drawn(7 + (uint64_t)(step * 64 + micro * 16 + r->number) * WIDTH + k);
            if (rm_exec_write(*e, x, RM_VALUE, 0, in, sizeof in) != RM_OK || rm_exec_step(*e, &s) != RM_OK) return fault(r, "step", rm_exec_error(*e));
        }
        if (rm_exec_wait(*e) != RM_OK) return fault(r, "wait", rm_exec_error(*e));
        if (step == 0 && r->shares) { /* what is saved goes on elsewhere, on the same rank */
            tm_text state = {0}, again = {0};
            rm_exec *other = NULL;
            rm_exec_desc od = *d;
            od.rank = (uint32_t)(r->number + 1) % (uint32_t)r->all->n;
            int bad = rm_exec_save(*e, in_memory, &state) != RM_OK ? fault(r, "save", rm_exec_error(*e)) : 0;
            rm_exec_destroy(*e);
            *e = NULL;
            if (!bad && (rm_exec_create(p, d, e) != RM_OK || rm_exec_restore(*e, state.s, state.n) != RM_OK)) bad = fault(r, "restore", *e ? rm_exec_error(*e) : rm_graph_error(g));
            if (!bad && (rm_exec_save(*e, in_memory, &again) != RM_OK || again.n != state.n || memcmp(again.s, state.s, state.n))) bad = fault(r, "save", "what was restored is saved otherwise: another step, say");
            if (!bad && rm_exec_create(p, &od, &other) == RM_OK && r->weights[0] > 16 && rm_exec_restore(other, state.s, state.n) == RM_OK) bad = fault(r, "restore", "another rank took it");
            if (!bad && rm_exec_check(*e, NULL, NULL) == RM_OK) bad = fault(r, "check", "a plan in shares");
            rm_exec_destroy(other);
            free(state.s), free(again.s);
            if (bad) return 1;
        }
    }
    for (i = 0; i < r->layers; i++)
        if (read_weight(r, *e, w[i], r->weights[i], r->weight[i])) return 1;
    if (rm_exec_save(*e, in_memory, &r->state) != RM_OK) return fault(r, "save", rm_exec_error(*e));
    return 0;
}

/* A disk that is memory. */
static int disk_read(void *user, uint64_t offset, void *dst, uint64_t bytes) { return memcpy(dst, (char *)user + offset, (size_t)bytes) == NULL; }
static int disk_write(void *user, uint64_t offset, const void *src, uint64_t bytes) { return memcpy((char *)user + offset, src, (size_t)bytes) == NULL; }

/* How often a weight is gathered: once where it is whole from its first use to its last; else as often, or twice. */
static void gathers(rank *r, rm_plan *p)
{
    tm_text t;
    char line[20];
    int i, n;
    memset(&t, 0, sizeof t);
    if (rm_plan_write(p, 0, in_memory, &t) != RM_OK) fault(r, "plan", "cannot be written");
    for (i = 0; i < r->layers && t.s; i++) {
        const char *at = t.s;
        snprintf(line, sizeof line, "\ngather w%d\n", i);
        for (n = 0; (at = strstr(at, line)) != NULL; at++) n++;
        if (n != 1 && (r->shares == 2 || n != 2)) snprintf(line, sizeof line, "w%d: %d gathers", i, n), fault(r, r->shares == 2 ? "shares 2" : "shares 3", line);
    }
    free(t.s);
}

static unsigned long values; /* plans in shares with activations in host memory */

/* Does the plan copy an activation from host memory? */
static int has_values_away(rank *r, rm_plan *p)
{
    tm_text t;
    const char *at;
    memset(&t, 0, sizeof t);
    if (rm_plan_write(p, 0, in_memory, &t) != RM_OK) fault(r, "plan", "cannot be written");
    for (at = t.s; at && (at = strstr(at, "\nprefetch ")) != NULL && !strncmp(at += 10, "share", 5);) continue;
    free(t.s);
    return at != NULL;
}

static void *of_rank(void *arg)
{
    rank *r = (rank *)arg;
    rm_tensor x, w[LAYERS];
    rm_graph *g = net(r, &x, w);
    rm_plan_desc d;
    rm_exec_desc ed;
    rm_plan *p = NULL;
    rm_exec *e = NULL;
    char *file = NULL;
    int i, ready;
    memset(&d, 0, sizeof d);
    memset(&ed, 0, sizeof ed);
    d.device_bytes = r->budget;
    d.shares = (uint32_t)r->shares;
    d.host_bytes = (r->shares && r->host) || r->host == 2 ? 1 << 20 : 0;
    d.steps = r->micro == 1 ? RM_SINGLE : r->micro == 2 ? RM_FIRST | RM_LAST : RM_FIRST | RM_MIDDLE | RM_LAST;
    d.align = 64;
    d.work_limit = 20000;
    d.info = &r->info;
    ed.reduce = reduce;
    ed.add = add;
    if (r->shares) ed.gather = gather, ed.scatter = scatter;
    ed.rank = (uint32_t)r->number;
    ed.reduce_user = r;
    ed.poison = 1;
    ed.threads = (uint32_t)r->threads;
    if (r->shares && r->disk) { /* as little host memory as there can be */
        const char *would;
        d.disk_bytes = 1 << 17;
        d.host_bytes = 64;
        ed.disk_user = file = (char *)calloc(1, (size_t)d.disk_bytes);
        ed.disk_read = disk_read, ed.disk_write = disk_write;
        for (i = 0; i < 3 && rm_plan_create(g, &d, &p) != RM_OK && (would = strstr(rm_graph_error(g), " would do")); i++) {
            while (would[-1] >= '0' && would[-1] <= '9') would--;
            d.host_bytes = strtoull(would, NULL, 10);
        }
    }
    if ((!p && rm_plan_create(g, &d, &p) != RM_OK) || rm_exec_create(p, &ed, &e) != RM_OK) fault(r, "plan", rm_graph_error(g));
    r->arena = p ? r->info.arena_bytes : 0;
    if (p && r->shares > 1) gathers(r, p);
    if (p && r->shares && !r->number) values += (unsigned long)has_values_away(r, p);
    r->all->found[r->number] = (float)!e;
    together(r->all);
    for (ready = 1, i = 0; i < r->all->n; i++) ready &= r->all->found[i] == 0;
    together(r->all);
    if (ready) train(r, g, &e, p, &ed, x, w);
    rm_exec_destroy(e);
    rm_plan_destroy(p);
    rm_graph_destroy(g);
    free(file);
    return NULL;
}

/* What states of so many ranks say together, in one rank that has all, or (take 1 ...) one of so many in shares. */
static tm_text joined(const rank *like, const tm_text *state, int n, int take, int of)
{
    const void *data[MOST];
    size_t bytes[MOST];
    group all;
    rank r = *like;
    rm_tensor x, w[LAYERS];
    rm_graph *g;
    rm_plan *p = NULL;
    rm_exec *e = NULL;
    rm_plan_desc d;
    rm_exec_desc ed;
    tm_text out;
    int i;
    memset(&d, 0, sizeof d);
    memset(&ed, 0, sizeof ed);
    memset(&out, 0, sizeof out);
    memset(&all, 0, sizeof all);
    all.n = of ? of : n;
    r.all = &all;
    for (i = 0; i < n; i++) data[i] = state[i].s, bytes[i] = state[i].n;
    g = net(&r, &x, w);
    d.work_limit = 20000;
    d.align = 64;
    d.shares = of > 0;
    if (like->host == 2) d.host_bytes = 1 << 20;
    ed.rank = (uint32_t)take;
    if (of) ed.gather = gather, ed.scatter = scatter;
    if (rm_plan_create(g, &d, &p) != RM_OK || rm_exec_create(p, &ed, &e) != RM_OK) EXPECT(0, rm_graph_error(g));
    else EXPECT(rm_exec_restore_ranks(e, data, bytes, (uint32_t)n) == RM_OK && rm_exec_save(e, in_memory, &out) == RM_OK, rm_exec_error(e));
    rm_exec_destroy(e);
    rm_plan_destroy(p);
    rm_graph_destroy(g);
    return out;
}

/* States of n ranks are one whole state, by way of other numbers of ranks, too. */
static void join(const rank *like, const tm_text *state, int n, const tm_text *whole)
{
    tm_text one = joined(like, state, n, 0, 0), part[MOST];
    int of, i;
    EXPECT(one.n == whole->n && !memcmp(one.s, whole->s, one.n), "all ranks' states are not that of one without shares");
    for (of = 2; of <= MOST; of++) {
        tm_text again;
        for (i = 0; i < of; i++) part[i] = of & 1 ? joined(like, whole, 1, i, of) : joined(like, state, n, i, of);
        again = joined(like, part, of, 0, 0);
        EXPECT(again.n == whole->n && !memcmp(again.s, whole->s, again.n), "not the same by way of another number of ranks");
        for (i = 0; i < of; i++) free(part[i].s);
        free(again.s);
    }
    free(one.s);
}

/* All ranks of a case, with that budget; weights of rank 0 to out, and states. 0: none of them has a plan. */
static int run(const rank *like, int n, int shares, uint64_t budget, int threads, float out[LAYERS][WIDTH], rm_plan_info *info, tm_text *state)
{
    group all;
    rank r[MOST];
    pthread_t thread[MOST];
    static float weight[MOST][LAYERS][WIDTH];
    int i, k, ok;
    memset(&all, 0, sizeof all);
    memset(weight, 0, sizeof weight);
    all.n = n;
    pthread_barrier_init(&all.gate, NULL, (unsigned)n);
    for (i = 0; i < n; i++) {
        r[i] = *like;
        memset(&r[i].state, 0, sizeof r[i].state);
        r[i].all = &all;
        r[i].number = i;
        r[i].shares = shares;
        r[i].budget = budget;
        r[i].threads = threads;
        for (k = 0; k < LAYERS; k++) r[i].weight[k] = weight[i][k];
        pthread_create(&thread[i], NULL, of_rank, &r[i]);
    }
    for (i = 0; i < n; i++) pthread_join(thread[i], NULL);
    pthread_barrier_destroy(&all.gate);
    *info = r[0].info;
    ok = r[0].arena != 0;
    for (i = 0; i < n && ok; i++) {
        EXPECT(!r[i].why[0], r[i].why);
        EXPECT(!memcmp(weight[i], weight[0], sizeof weight[0]), "ranks have other weights");
        EXPECT(!budget || r[i].arena <= budget, "over the budget");
    }
    memcpy(out, weight[0], sizeof weight[0]);
    for (i = 0; i < n; i++) free(state[i].s), state[i] = r[i].state;
    return ok;
}

static unsigned long tight, beyond, away, on_disk;

static void one(unsigned long seed)
{
    float whole[LAYERS][WIDTH], shared[LAYERS][WIDTH];
    rank like;
    rm_plan_info info, small;
    tm_text state[2][MOST];
    int n = 2 + (int)(seed % (MOST - 1)), i, turn;
    uint64_t budget = 0;
    size_t k;
    memset(&like, 0, sizeof like);
    memset(state, 0, sizeof state);
    like.layers = 1 + (int)(seed / 3 % LAYERS);
    like.micro = seed % 4 == 3 ? 1 + (int)(seed / 4 % 3) : 1;
    like.barrier = seed % 5 == 2;
    like.host = (int)(seed % 3);
    like.disk = like.host != 0 && seed % 4 > 0;
    for (i = 0; i < like.layers; i++) like.weights[i] = 1 + (size_t)(drawn(seed * 31 + (uint64_t)i) * 40) % (WIDTH - 1);
    if (!run(&like, n, 0, 0, 0, whole, &info, state[0])) return;
    for (turn = 0; turn < 3; turn++) {
        const int shares = 1 + (int)(seed + (unsigned long)turn) % 3;
        if (turn == 1) budget = info.min_bytes / 2 + 64 * (seed % 9);
        if (!run(&like, n, shares, budget, (int)(seed + (unsigned long)turn) % 2, shared, &small, state[1])) { /* then a budget is named */
            budget = small.min_bytes;
            if (!EXPECT(turn && budget && run(&like, n, shares, budget, 0, shared, &small, state[1]), "no plan within the budget that is named")) continue;
            tight++;
        }
        beyond += budget && budget < info.min_bytes;
        away += small.host_bytes != 0;
        on_disk += small.disk_bytes[0] != 0;
        for (i = 0; i < like.layers; i++)
            for (k = 0; k < like.weights[i]; k++) {
                if (like.micro == 1) EXPECT(shared[i][k] == whole[i][k], "other bits than with whole gradients");
                else EXPECT(fabsf(shared[i][k] - whole[i][k]) < 1e-4f, "far from the weights with whole gradients"); /* the sum is built elsewhere */
            }
        if (turn == 1 && like.micro == 1 && state[1][0].n) join(&like, state[1], n, &state[0][0]);
        budget = small.min_bytes;
    }
    for (i = 0; i < n; i++) free(state[0][i].s), free(state[1][i].s);
}

int main(int argc, char **argv)
{
    unsigned long cases = argc > 1 ? strtoul(argv[1], NULL, 10) : tm_amount(20, 60), first = argc > 2 ? strtoul(argv[2], NULL, 10) : 1, i;
    for (i = 0; i < cases && tm_more(i); i++) {
        tm_case = first + i;
        one(first + i);
    }
    tm_case = 0;
    EXPECT(cases < 20 || i < cases || (tight > 5 && beyond > 5 && away > 5 && on_disk > 3 && values > 1), "budgets are not tight, or nothing is in host memory or on disk");
    printf("%lu runs in a budget that was named, %lu in less than whole weights and states need, %lu with host memory, %lu of them with activations there, %lu with a disk\n", tight, beyond, away, values, on_disk);
    return tm_end();
}
