/* test_share.c - several sizes of a model in one memory: graphs of other batches with the same params, plans that are like the plan
   of the largest, executors that take turns. All bits are those of one executor for each size, between which weights and states
   are copied.

      gcc -O1 -g -std=gnu99 -I. -o build/test_share tests/unit/test_share.c -lm -lpthread && build/test_share */
#define ROCKMATE_IMPLEMENTATION
#define ROCKMATE_THREADS
#include "rockmate.h"

#include <math.h>
#include "../common.h"

enum { D = 24, LAYERS = 5, SIZES = 3, NW = D * D };
static const int batch[SIZES] = {16, 5, 9};

typedef struct model {
    rm_graph *g;
    rm_tensor x, loss, table, w[LAYERS];
    int batch;
} model;

static int dense_fwd(const rm_call *c)
{
    const float *x = (const float *)c->in[0], *w = (const float *)c->in[1], *table = (const float *)c->in[2];
    float *y = (float *)c->out[0];
    int b, i, o;
    for (b = 0; b < c->arg[0]; b++)
        for (o = 0; o < D; o++) {
            float s = table[o];
            for (i = 0; i < D; i++) s += x[b * D + i] * w[i * D + o];
            y[b * D + o] = tanhf(s);
        }
    return 0;
}
static int dense_bwd(const rm_call *c)
{
    const float *x = (const float *)c->in[0], *w = (const float *)c->in[1], *y = (const float *)c->out[0], *dy = (const float *)c->dout[0];
    float *dx = (float *)c->din[0], *dw = (float *)c->din[1];
    int b, i, o;
    if (dw && !RM_ADDS(c, 1)) memset(dw, 0, NW * 4);
    if (dx && !RM_ADDS(c, 0)) memset(dx, 0, (size_t)c->arg[0] * D * 4);
    for (b = 0; b < c->arg[0]; b++)
        for (o = 0; o < D; o++) {
            float d = dy[b * D + o] * (1 - y[b * D + o] * y[b * D + o]);
            for (i = 0; i < D && dx; i++) dx[b * D + i] += d * w[i * D + o];
            for (i = 0; i < D && dw; i++) dw[i * D + o] += d * x[b * D + i];
        }
    return 0;
}
static int sum_fwd(const rm_call *c)
{
    float s = 0;
    int i;
    for (i = 0; i < c->arg[0] * D; i++) s += ((const float *)c->in[0])[i] * ((const float *)c->in[0])[i];
    *(float *)c->out[0] = s;
    return 0;
}
static int sum_bwd(const rm_call *c)
{
    int i;
    for (i = 0; i < c->arg[0] * D; i++) ((float *)c->din[0])[i] = (RM_ADDS(c, 0) ? ((float *)c->din[0])[i] : 0) + 2 * ((const float *)c->in[0])[i];
    return 0;
}
static int update(const rm_call *c)
{
    float *w = (float *)c->param, *m = (float *)c->state;
    int i;
    for (i = 0; i < NW; i++) m[i] = 0.9f * m[i] + ((const float *)c->grad)[i], w[i] -= 0.001f * m[i];
    return 0;
}
static const rm_kind DENSE = {.name = "dense", .forward = dense_fwd, .backward = dense_bwd, .needs = RM_IN(0) | RM_IN(1) | RM_OUT(0)};
static const rm_kind SUM = {.name = "sum", .forward = sum_fwd, .backward = sum_bwd, .needs = RM_IN(0)};

/* odd 1: the last weight is smaller; 2: there is none; 3: the params are declared in another order. */
static void build(model *m, int size, int odd)
{
    rm_tensor x;
    uint64_t bytes = (uint64_t)size * D * 4;
    int i, k;
    memset(m, 0, sizeof *m);
    m->batch = size;
    m->g = rm_graph_create(NULL);
    rm_graph_link(m->g, 200000000, 200000000, 100, 0);
    x = m->x = rm_input_add(m->g, "x", bytes, 0);
    m->table = rm_const_add(m->g, "table", D * 4, 0);
    for (k = 0; k < LAYERS - (odd == 2); k++) {
        char name[16];
        i = odd == 3 ? LAYERS - 1 - k : k;
        snprintf(name, sizeof name, "w%d", i);
        m->w[i] = RM_PARAM(m->g, .name = name, .bytes = odd == 1 && i == 4 ? NW * 4 - 4 : NW * 4, .state_bytes = NW * 4, .update = update,
                           .update_host = update, .update_ns = 2000, .update_host_ns = 4000);
    }
    for (i = 0; i < LAYERS - (odd == 2); i++)
        x = RM_OP(m->g, &DENSE, .in = {x, m->w[i], m->table}, .out = {bytes}, .arg = {size}, .fwd_ns = 5000, .bwd_ns = 10000);
    m->loss = RM_OP(m->g, &SUM, .name = "loss", .in = {x}, .out = {4}, .arg = {size}, .fwd_ns = 100, .bwd_ns = 100);
    rm_output_add(m->g, m->loss);
}

/* mode 0: everything kept; 1: recomputation; 2: host memory, lanes in threads. */
static rm_plan *plan(model *m, int mode, uint32_t steps, const rm_plan *like, uint64_t *device_bytes)
{
    rm_plan_info info;
    rm_plan *p = NULL;
    rm_plan_desc d = {.work_limit = 100000, .info = &info, .steps = steps, .like = like};
    memset(&info, 0, sizeof info);
    d.host_bytes = mode == 2 ? 1 << 20 : 0;
    if (!mode) d.preset = "noremat";
    else if (!*device_bytes) {
        d.device_bytes = 1;
        rm_plan_create(m->g, &d, &p);
        *device_bytes = info.min_bytes + 1024;
    }
    d.device_bytes = *device_bytes;
    EXPECT(rm_plan_create(m->g, &d, &p) == RM_OK, rm_graph_error(m->g));
    if (!like) *device_bytes = info.arena_bytes; /* the others have as much */
    return p;
}

static rm_exec *open_exec(rm_graph *g, rm_plan *p, int mode, rm_exec *share)
{
    rm_exec_desc d = {.threads = mode == 2, .share = share, .poison = 1};
    rm_exec *x = NULL;
    EXPECT(rm_exec_create(p, &d, &x) == RM_OK, rm_graph_error(g));
    return x;
}

static void give_input(const model *m, rm_exec *x, int seed)
{
    float v[16 * D];
    int i;
    for (i = 0; i < m->batch * D; i++) v[i] = (float)((i * 31 + seed * 7) % 23) / 29.f - 0.3f;
    EXPECT(rm_exec_write(x, m->x, RM_VALUE, 0, v, (uint64_t)m->batch * D * 4) == RM_OK, rm_exec_error(x));
}

static void give_weights(const model *m, rm_exec *x)
{
    float v[NW];
    int i, k;
    for (k = 0; k < LAYERS; k++) {
        for (i = 0; i < NW; i++) v[i] = (float)((i * 13 + k * 5) % 37 - 18) / 90.f;
        EXPECT(rm_exec_write(x, m->w[k], RM_VALUE, 0, v, sizeof v) == RM_OK, rm_exec_error(x));
    }
    for (i = 0; i < D; i++) v[i] = (float)i / 100;
    EXPECT(rm_exec_write(x, m->table, RM_VALUE, 0, v, D * 4) == RM_OK, rm_exec_error(x));
}

/* What persists goes from one executor to another, by hand. */
static void copy(const model *from, rm_exec *x, const model *to, rm_exec *y)
{
    float v[NW];
    uint32_t k, what;
    for (k = 0; k < LAYERS; k++)
        for (what = RM_VALUE; what <= RM_STATE; what += RM_STATE - RM_VALUE) {
            EXPECT(rm_exec_read(x, from->w[k], what, 0, v, sizeof v) == RM_OK, rm_exec_error(x));
            EXPECT(rm_exec_write(y, to->w[k], what, 0, v, sizeof v) == RM_OK, rm_exec_error(y));
        }
}

static void turns(int mode)
{
    static const int order[] = {0, 0, 1, 2, 1, 1, 0, 2, 0, 1};
    model m[SIZES], alone[SIZES];
    rm_plan *p[SIZES], *q[SIZES];
    rm_exec *x[SIZES], *y[SIZES];
    uint64_t device_bytes = 0, own;
    float loss, wanted, one[NW], other[NW];
    rm_step step = {0};
    rm_exec_info info;
    tm_text saved = {0};
    size_t i;
    int k, s, last = 0;
    for (k = 0; k < SIZES; k++) {
        build(&m[k], batch[k], k == 2 && mode < 2 ? 3 : 0) /* with copies the least memory is too tight for what is declared otherwise */, build(&alone[k], batch[k], 0);
        p[k] = plan(&m[k], mode, k == 1 ? RM_SINGLE | RM_FORWARD : RM_SINGLE, k ? p[0] : NULL, &device_bytes);
        x[k] = open_exec(m[k].g, p[k], mode, k ? x[k - 1] : NULL);
        own = 0;
        q[k] = plan(&alone[k], 0, k == 1 ? RM_SINGLE | RM_FORWARD : RM_SINGLE, NULL, &own);
        y[k] = open_exec(alone[k].g, q[k], 0, NULL);
        give_weights(&alone[k], y[k]);
    }
    give_weights(&m[1], x[1]); /* it is all one */
    for (i = 0; i < sizeof order / sizeof *order; i++) {
        s = order[i];
        step.step = i;
        step.kind = i == 5 ? RM_FORWARD : RM_SINGLE;
        give_input(&m[s], x[s], (int)i), give_input(&alone[s], y[s], (int)i);
        if (s != last) copy(&alone[last], y[last], &alone[s], y[s]);
        last = s;
        EXPECT(rm_exec_step(x[s], &step) == RM_OK && rm_exec_step(y[s], &step) == RM_OK, rm_exec_error(x[s]));
        if (i % 3) continue; /* lanes may still be at work when the next one's turn comes */
        EXPECT(rm_exec_read(x[s], m[s].loss, RM_VALUE, 0, &loss, 4) == RM_OK && rm_exec_read(y[s], alone[s].loss, RM_VALUE, 0, &wanted, 4) == RM_OK, rm_exec_error(x[s]));
        EXPECT(!memcmp(&loss, &wanted, 4), "bits of the loss");
    }
    for (k = 0; k < LAYERS; k++) /* by any of them */
        for (s = 0; s < SIZES; s++) {
            EXPECT(rm_exec_read(x[s], m[s].w[k], RM_VALUE, 0, one, sizeof one) == RM_OK && rm_exec_read(y[last], alone[last].w[k], RM_VALUE, 0, other, sizeof other) == RM_OK, rm_exec_error(x[s]));
            EXPECT(!memcmp(one, other, sizeof one), "bits of weights");
            EXPECT(rm_exec_read(x[s], m[s].w[k], RM_STATE, 0, one, sizeof one) == RM_OK && rm_exec_read(y[last], alone[last].w[k], RM_STATE, 0, other, sizeof other) == RM_OK, rm_exec_error(x[s]));
            EXPECT(!memcmp(one, other, sizeof one), "bits of states");
        }
    EXPECT(rm_exec_get_info(x[1], &info) == RM_OK && (!mode || info.arena_bytes <= device_bytes), "one memory");
    /* what only one of them has is gone after another's turn */
    EXPECT(rm_exec_read(x[last], m[last].loss, RM_VALUE, 0, &loss, 4) == RM_OK, rm_exec_error(x[last]));
    give_input(&m[0], x[0], 1);
    EXPECT(rm_exec_read(x[last], m[last].loss, RM_VALUE, 0, &loss, 4) == RM_ERROR_ARGUMENT, "an output that is gone");
    step.kind = RM_SINGLE;
    EXPECT(rm_exec_step(x[1], &step) == RM_ERROR_ARGUMENT && strstr(rm_exec_error(x[1]), "input x") && strstr(rm_exec_error(x[1]), "another executor in its memory"), rm_exec_error(x[1]));
    give_input(&m[0], x[0], 1);
    EXPECT(rm_exec_step(x[0], &step) == RM_OK, rm_exec_error(x[0]));
    /* a checkpoint by one is restored by another */
    EXPECT(rm_exec_save(x[1], tm_sink, &saved) == RM_OK, rm_exec_error(x[1]));
    EXPECT(rm_exec_restore(x[0], saved.s, saved.n) == RM_OK && rm_exec_restore(y[0], saved.s, saved.n) == RM_OK, rm_exec_error(x[0]));
    EXPECT(rm_exec_replan(x[0], p[0]) == RM_ERROR_ARGUMENT && strstr(rm_exec_error(x[0]), "shared"), rm_exec_error(x[0]));
    EXPECT(rm_exec_replan(x[1], p[1]) == RM_ERROR_ARGUMENT, "nor a guest");
    /* the owner may go first; a guest may come later */
    rm_exec_destroy(x[0]);
    give_input(&m[1], x[1], 3);
    EXPECT(rm_exec_step(x[1], &step) == RM_OK, rm_exec_error(x[1]));
    rm_exec_destroy(x[1]);
    x[1] = open_exec(m[1].g, p[1], mode, x[2]);
    give_input(&m[1], x[1], 3);
    EXPECT(rm_exec_step(x[1], &step) == RM_OK, rm_exec_error(x[1]));
    rm_exec_destroy(x[2]);
    rm_exec_destroy(x[1]);
    for (k = 0; k < SIZES; k++) {
        rm_exec_destroy(y[k]);
        rm_plan_destroy(p[k]), rm_plan_destroy(q[k]);
        rm_graph_destroy(m[k].g), rm_graph_destroy(alone[k].g);
    }
    free(saved.s);
}

static void refusals(void)
{
    model m, small, odd;
    rm_plan *p, *q;
    rm_plan_desc d = {.preset = "noremat"};
    rm_exec_desc e = {0};
    rm_exec *x, *y = NULL;
    uint64_t none = 0;
    build(&m, 16, 0), build(&small, 5, 0);
    q = plan(&small, 0, RM_SINGLE, NULL, &none);
    x = open_exec(small.g, q, 0, NULL);
    d.like = q;
    EXPECT(rm_plan_create(m.g, &d, &p) == RM_OK, rm_graph_error(m.g));
    e.share = x;
    EXPECT(rm_exec_create(p, &e, &y) == RM_ERROR_ARGUMENT && strstr(rm_graph_error(m.g), "rm_exec_desc.share: the plan needs"), rm_graph_error(m.g));
    rm_plan_destroy(p);
    rm_exec_destroy(x);
    d.like = NULL;
    EXPECT(rm_plan_create(m.g, &d, &p) == RM_OK, rm_graph_error(m.g));
    x = open_exec(m.g, p, 0, NULL);
    rm_exec_destroy(x);
    rm_plan_destroy(p);
    d.align = 1 << 16; /* no address that was not asked for is a multiple of that */
    EXPECT(rm_plan_create(m.g, &d, &p) == RM_OK, rm_graph_error(m.g));
    x = open_exec(m.g, p, 0, NULL);
    EXPECT(rm_exec_replan(x, p) == RM_OK, rm_exec_error(x)); /* what waited in host memory meanwhile is no memory to share */
    rm_plan_destroy(q);
    d.like = p;
    EXPECT(rm_plan_create(small.g, &d, &q) == RM_OK, rm_graph_error(small.g));
    e.share = x;
    EXPECT(rm_exec_create(q, &e, &y) == RM_OK, rm_graph_error(small.g));
    rm_exec_destroy(y);
    y = NULL;
    d.like = NULL;
    e.device_memory = &small, e.device_memory_bytes = sizeof small;
    EXPECT(rm_exec_create(p, &e, &y) == RM_ERROR_ARGUMENT && strstr(rm_graph_error(m.g), "leave it NULL"), rm_graph_error(m.g));
    e.device_memory = NULL, e.device_memory_bytes = 0;
    rm_exec_destroy(x);
    rm_plan_destroy(p);
    d.align = 0;
    EXPECT(rm_plan_create(m.g, &d, &p) == RM_OK, rm_graph_error(m.g));
    x = open_exec(m.g, p, 0, NULL);
    build(&odd, 5, 3); /* another order of params: other places */
    rm_plan_destroy(q);
    EXPECT(rm_plan_create(odd.g, &d, &q) == RM_OK, rm_graph_error(odd.g));
    e.share = x;
    EXPECT(rm_exec_create(q, &e, &y) == RM_ERROR_ARGUMENT && strstr(rm_graph_error(odd.g), "is not the same in both plans"), rm_graph_error(odd.g));
    rm_graph_destroy(odd.g);
    rm_plan_destroy(q);
    build(&odd, 5, 2); /* what only the other one has is not to be written over */
    EXPECT(rm_plan_create(odd.g, &d, &q) == RM_OK, rm_graph_error(odd.g));
    EXPECT(rm_exec_create(q, &e, &y) == RM_ERROR_ARGUMENT && strstr(rm_graph_error(odd.g), "is not the same in both plans"), rm_graph_error(odd.g));
    rm_graph_destroy(odd.g);
    rm_plan_destroy(q);
    d.like = p;
    build(&odd, 5, 1);
    EXPECT(rm_plan_create(odd.g, &d, &q) == RM_ERROR_ARGUMENT && strstr(rm_graph_error(odd.g), "its graph has w4, of 2304 bytes"), rm_graph_error(odd.g));
    rm_graph_destroy(odd.g);
    build(&odd, 5, 2);
    EXPECT(rm_plan_create(odd.g, &d, &q) == RM_ERROR_ARGUMENT && strstr(rm_graph_error(odd.g), "its graph has w4, of 2304 bytes"), rm_graph_error(odd.g));
    rm_param_add(odd.g, NULL);
    rm_graph_destroy(odd.g);
    build(&odd, 5, 0);
    rm_const_add(odd.g, "one_more", 64, 0);
    EXPECT(rm_plan_create(odd.g, &d, &q) == RM_ERROR_ARGUMENT && strstr(rm_graph_error(odd.g), "its graph has 1 params and consts less"), rm_graph_error(odd.g));
    rm_graph_destroy(odd.g);
    rm_exec_destroy(x);
    rm_plan_destroy(p);
    rm_graph_destroy(m.g);
    rm_graph_destroy(small.g);
}

int main(void)
{
    int mode;
    for (mode = 0; mode < 3; mode++) turns(mode);
    refusals();
    return tm_end();
}
