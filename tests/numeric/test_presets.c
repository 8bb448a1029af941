/* test_presets.c - a small network of residual blocks (real kernels: dense layers, dropout, a weight that two layers share, AdamW,
   a clip by the global norm) trained ten steps by every preset, those with copies too: losses, weights and states are those of
   keeping everything on the device, bit for bit. With the clip and without, updates on the device, on the host, on either, each
   step of one batch or of four accumulated ones, budgets below the weights' size where there is such a plan, with and without threads.

      g++ -std=c++17 -O2 -c -I. -o build/replay.o tests/oracle/replay.cpp && gcc -O1 -g -std=gnu99 -I. -c -o build/test_presets.o tests/numeric/test_presets.c &&
      g++ -o build/test_presets build/test_presets.o build/replay.o -lm -lpthread && build/test_presets */
#define ROCKMATE_IMPLEMENTATION
#define ROCKMATE_THREADS
#include "rockmate.h"

#include <math.h>

#include "../common.h"
#include "../oracle/plan.h"

enum { B = 4, D = 8, H = 16, BLOCKS = 7, STEPS = 10, MICRO = 4, PARAMS = 2 * BLOCKS };

/* --- kernels; c->arg: inputs, outputs of a dense layer */
static int dense_fwd(const rm_call *c)
{
    const float *x = (const float *)c->in[0], *w = (const float *)c->in[1];
    float *y = (float *)c->out[0];
    int64_t b, i, o, n = c->arg[0], m = c->arg[1];
    for (b = 0; b < B; b++)
        for (o = 0; o < m; o++) {
            float s = 0;
            for (i = 0; i < n; i++) s += x[b * n + i] * w[i * m + o];
            y[b * m + o] = s;
        }
    return 0;
}
static int dense_bwd(const rm_call *c)
{
    const float *x = (const float *)c->in[0], *w = (const float *)c->in[1], *dy = (const float *)c->dout[0];
    float *dx = (float *)c->din[0], *dw = (float *)c->din[1];
    int64_t b, i, o, n = c->arg[0], m = c->arg[1];
    for (b = 0; b < B && dx; b++)
        for (i = 0; i < n; i++) {
            float s = 0;
            for (o = 0; o < m; o++) s += dy[b * m + o] * w[i * m + o];
            dx[b * n + i] = RM_ADDS(c, 0) ? dx[b * n + i] + s : s;
        }
    for (i = 0; i < n && dw; i++)
        for (o = 0; o < m; o++) {
            float s = RM_ADDS(c, 1) ? dw[i * m + o] : 0; /* row by row: where gradients are put together, the bits tell */
            for (b = 0; b < B; b++) s += x[b * n + i] * dy[b * m + o];
            dw[i * m + o] = s;
        }
    return 0;
}
static int act_fwd(const rm_call *c)
{
    const float *x = (const float *)c->in[0];
    float *y = (float *)c->out[0];
    uint64_t i;
    for (i = 0; i < c->out_bytes[0] / 4; i++) y[i] = x[i] > 0 ? x[i] : 0.1f * x[i];
    return 0;
}
static int act_bwd(const rm_call *c)
{
    const float *y = (const float *)c->out[0], *dy = (const float *)c->dout[0];
    float *dx = (float *)c->din[0];
    uint64_t i;
    for (i = 0; i < c->out_bytes[0] / 4; i++) {
        float v = y[i] > 0 ? dy[i] : 0.1f * dy[i];
        dx[i] = RM_ADDS(c, 0) ? dx[i] + v : v;
    }
    return 0;
}
static float keep(const rm_call *c, uint64_t i) { return rmi_mix(c->seed + i) % 8 ? 8.f / 7 : 0; }
static int drop_fwd(const rm_call *c)
{
    uint64_t i;
    for (i = 0; i < c->out_bytes[0] / 4; i++) ((float *)c->out[0])[i] = ((const float *)c->in[0])[i] * keep(c, i);
    return 0;
}
static int drop_bwd(const rm_call *c)
{
    float *dx = (float *)c->din[0];
    uint64_t i;
    for (i = 0; i < c->out_bytes[0] / 4; i++) {
        float v = ((const float *)c->dout[0])[i] * keep(c, i);
        dx[i] = RM_ADDS(c, 0) ? dx[i] + v : v;
    }
    return 0;
}
static int sum_fwd(const rm_call *c)
{
    uint64_t i;
    for (i = 0; i < c->out_bytes[0] / 4; i++) ((float *)c->out[0])[i] = ((const float *)c->in[0])[i] + ((const float *)c->in[1])[i];
    return 0;
}
static int sum_bwd(const rm_call *c)
{
    const float *dy = (const float *)c->dout[0];
    uint32_t k;
    uint64_t i;
    for (k = 0; k < 2; k++) {
        float *dx = (float *)c->din[k];
        for (i = 0; dx && i < c->out_bytes[0] / 4; i++) dx[i] = RM_ADDS(c, k) ? dx[i] + dy[i] : dy[i];
    }
    return 0;
}
static int loss_fwd(const rm_call *c)
{
    const float *y = (const float *)c->in[0], *t = (const float *)c->in[1];
    float s = 0;
    int i;
    for (i = 0; i < B * D; i++) s += (y[i] - t[i]) * (y[i] - t[i]) / B;
    *(float *)c->out[0] = s;
    return 0;
}
static int loss_bwd(const rm_call *c)
{
    const float *y = (const float *)c->in[0], *t = (const float *)c->in[1];
    float *dy = (float *)c->din[0];
    int i;
    for (i = 0; i < B * D; i++) {
        float v = 2 * (y[i] - t[i]) / B;
        dy[i] = RM_ADDS(c, 0) ? dy[i] + v : v;
    }
    return 0;
}
static int adamw(const rm_call *c)
{
    const float *g = (const float *)c->grad, *scale = (const float *)c->user;
    float *p = (float *)c->param, *m = (float *)c->state, *v = m + c->param_bytes / 4;
    uint64_t i;
    for (i = 0; i < c->param_bytes / 4; i++) {
        float gi = g[i] * *scale;
        m[i] = 0.9f * m[i] + 0.1f * gi;
        v[i] = 0.99f * v[i] + 0.01f * gi * gi;
        p[i] -= (float)c->step->lr * (m[i] / (sqrtf(v[i]) + 1e-4f) + 0.01f * p[i]);
    }
    return 0;
}
static int clip(const rm_call *c) /* the norm of all gradients; updates read what it leaves */
{
    float s = 0;
    uint32_t i;
    uint64_t k;
    for (i = 0; i < c->n_in; i++)
        for (k = 0; k < c->in_bytes[i] / 4; k++) s += ((const float *)c->in[i])[k] * ((const float *)c->in[i])[k];
    *(float *)c->user = s > 0.25f ? 0.5f / sqrtf(s) : 1;
    return 0;
}
static void host_add(void *dst, const void *src, uint64_t bytes, rm_tensor param, void *user)
{
    uint64_t i;
    (void)param, (void)user;
    for (i = 0; i < bytes / 4; i++) ((float *)dst)[i] += ((const float *)src)[i];
}

static const rm_kind DENSE = {.name = "dense", .forward = dense_fwd, .backward = dense_bwd, .needs = RM_IN(0) | RM_IN(1)};
static const rm_kind ACT = {.name = "act", .forward = act_fwd, .backward = act_bwd, .needs = RM_OUT(0), .inplace = RM_IN(0)};
static const rm_kind DROP = {.name = "dropout", .forward = drop_fwd, .backward = drop_bwd, .needs = RM_NOTHING, .flags = RM_RNG};
static const rm_kind SUM = {.name = "sum", .forward = sum_fwd, .backward = sum_bwd, .needs = RM_NOTHING};
static const rm_kind LOSS = {.name = "loss", .forward = loss_fwd, .backward = loss_bwd, .needs = RM_IN(0) | RM_IN(1)};

/* --- the model */
enum { ON_DEVICE = 1, ON_HOST = 2 };
typedef struct model {
    rm_graph *g;
    rm_tensor x, want, loss, w[PARAMS];
    float scale;
    uint64_t weights;
} model;

static rm_tensor dense(model *m, rm_tensor x, rm_tensor w, int64_t in, int64_t out)
{
    return RM_OP(m->g, &DENSE, .in = {x, w}, .out = {(uint64_t)(B * out) * 4}, .arg = {in, out}, .fwd_ns = 4000, .bwd_ns = 8000);
}

/* The first layer of the first block and of the last one have one weight. Copies take about as long as what they feed. */
static void build(model *m, int clipped, int side)
{
    rm_tensor x, h;
    int i, n = 0;
    memset(m, 0, sizeof *m);
    m->scale = 1;
    m->g = rm_graph_create(NULL);
    rm_graph_link(m->g, 200000000, 200000000, 200, 0);
    x = m->x = rm_input_add(m->g, "x", B * D * 4, 0);
    m->want = rm_input_add(m->g, "want", B * D * 4, 0);
    for (i = 0; i < PARAMS; i++, n++) {
        rm_param_desc d = {.bytes = D * H * 4, .state_bytes = 2 * D * H * 4, .user = &m->scale};
        if (side & ON_DEVICE) d.update = adamw, d.update_ns = 1500;
        if (side & ON_HOST) d.update_host = adamw, d.update_host_ns = 3000;
        m->w[i] = i == PARAMS - 2 ? m->w[0] : rm_param_add(m->g, &d);
        m->weights += i == PARAMS - 2 ? 0 : d.bytes;
    }
    for (i = 0; i < BLOCKS; i++) {
        rm_block_begin(m->g, "h");
        h = dense(m, x, m->w[2 * i], D, H);
        h = RM_OP(m->g, &ACT, .name = "act", .in = {h}, .fwd_ns = 500, .bwd_ns = 500);
        h = dense(m, h, m->w[2 * i + 1], H, D);
        h = RM_OP(m->g, &DROP, .name = "drop", .in = {h}, .fwd_ns = 500, .bwd_ns = 500);
        x = RM_OP(m->g, &SUM, .name = "sum", .in = {x, h}, .fwd_ns = 500, .bwd_ns = 500);
        rm_block_end(m->g);
    }
    m->loss = RM_OP(m->g, &LOSS, .name = "loss", .in = {x, m->want}, .out = {4}, .fwd_ns = 100, .bwd_ns = 100);
    rm_output_add(m->g, m->loss);
    if (clipped) rm_barrier_add(m->g, "clip", clip, &m->scale, 800);
}

static void fill(float *v, int n, uint64_t seed, float most)
{
    int i;
    for (i = 0; i < n; i++) v[i] = most * ((float)(rmi_mix(seed * 4096 + (uint64_t)i) % 2001) / 1000.f - 1);
}

/* --- ten steps */
typedef struct outcome {
    float loss[STEPS * MICRO];
    tm_text state; /* weights and AdamW's, as rm_exec_save writes them */
} outcome;

static void train(model *m, rm_plan *p, int micro, int threads, outcome *o)
{
    rm_exec *e = NULL;
    rm_exec_info info;
    float v[D * H];
    int i, k, n = 0;
    memset(o, 0, sizeof *o);
    m->scale = 1;
    if (!EXPECT(rm_exec_create(p, &(rm_exec_desc){.poison = 1, .threads = (uint32_t)threads, .add = host_add}, &e) == RM_OK, rm_graph_error(m->g))) return;
    for (i = 0; i < PARAMS; i++) {
        fill(v, D * H, (uint64_t)i + 1, 0.4f);
        if (i != PARAMS - 2) EXPECT(rm_exec_write(e, m->w[i], RM_VALUE, 0, v, sizeof v) == RM_OK, rm_exec_error(e));
    }
    for (i = 0; i < STEPS; i++)
        for (k = 0; k < micro; k++, n++) {
            rm_step s = {.step = (uint64_t)i, .micro = (uint32_t)k, .lr = 0.01, .seed = 5};
            s.kind = micro == 1 ? RM_SINGLE : k == 0 ? RM_FIRST : k < micro - 1 ? RM_MIDDLE : RM_LAST;
            fill(v, B * D, 100 + (uint64_t)k, 1);
            EXPECT(rm_exec_write(e, m->x, RM_VALUE, 0, v, B * D * 4) == RM_OK, rm_exec_error(e));
            fill(v, B * D, 200 + (uint64_t)k, 1);
            EXPECT(rm_exec_write(e, m->want, RM_VALUE, 0, v, B * D * 4) == RM_OK, rm_exec_error(e));
            EXPECT(rm_exec_step(e, &s) == RM_OK, rm_exec_error(e));
            EXPECT(rm_exec_read(e, m->loss, RM_VALUE, 0, &o->loss[n], 4) == RM_OK, rm_exec_error(e));
        }
    EXPECT(rm_exec_save(e, tm_sink, &o->state) == RM_OK, rm_exec_error(e));
    rm_exec_get_info(e, &info);
    EXPECT(info.touched_bytes <= info.arena_bytes, "bytes beyond the plan");
    rm_exec_destroy(e);
}

/* What a plan does, beside being a plan. */
enum { COPIES = 1, HOST_UPDATES = 2, MERGES = 4 };
static int does(const rm_plan *p)
{
    uint32_t i;
    size_t k;
    int found = 0;
    for (i = 0; i < p->n; i++)
        for (k = 0; k < p->prog[i].n; k++) {
            const rmi_stmt *s = &p->prog[i].st[k];
            if (s->what >= RMI_OFFLOAD) found |= COPIES;
            if (s->what == RMI_MERGE) found |= MERGES;
            if (s->what == RMI_RUN && s->run.way == RMI_OPT_HOST) found |= HOST_UPDATES;
        }
    return found;
}

/* Where the contributions of an accumulation are put together: for each kind of step, a bit for each param that is merged on the host. */
static uint64_t places(const rm_plan *p)
{
    uint64_t h = 1;
    uint32_t i, w;
    size_t k;
    for (i = 0; i < p->n; i++) {
        uint64_t merged = 0;
        for (k = 0; k < p->prog[i].n; k++)
            if (p->prog[i].st[k].what == RMI_MERGE && rmi_low_kind(p->g, p->prog[i].st[k].buf, &w) == RMI_BUF_GRAD) merged |= (uint64_t)1 << w % 64;
        h = rmi_mix(h ^ merged);
    }
    return h;
}

/* --- results by where gradients are put together: those of one place must be equal. The first is that of all on the device. */
typedef struct known {
    uint64_t place;
    outcome o;
} known;
static known seen[64];
static int n_seen;

static unsigned long plans, copying, on_host, merging, below, groups;

static void compare(uint64_t place, outcome *o, int losses)
{
    int i;
    for (i = 0; i < n_seen && seen[i].place != place; i++) continue;
    if (i == n_seen && EXPECT(n_seen < 64, "too many places")) {
        EXPECT(n_seen == 0 || fabsf(o->loss[losses - 1] - seen[0].o.loss[losses - 1]) < 1e-3f * fabsf(seen[0].o.loss[losses - 1]), "losses far off");
        seen[n_seen].place = place;
        seen[n_seen++].o = *o;
        groups++;
        return;
    }
    EXPECT(!memcmp(o->loss, seen[i].o.loss, (size_t)losses * sizeof(float)), "losses");
    EXPECT(o->state.n && o->state.n == seen[i].o.state.n && !memcmp(o->state.s, seen[i].o.state.s, o->state.n), "weights and states");
    tm_clear(&o->state);
}

static void one_plan(model *m, rm_plan *p, const rm_plan_desc *d, int micro)
{
    const char *why = rmtest_plan(m->g, p, d->device_bytes, d->host_bytes);
    rm_plan_info info;
    outcome o;
    int what = does(p), threads;
    EXPECT(!*why, why);
    rm_plan_get_info(p, 0, &info);
    plans++;
    copying += (what & COPIES) != 0;
    on_host += (what & HOST_UPDATES) != 0;
    merging += (what & MERGES) != 0;
    below += info.arena_bytes < m->weights;
    for (threads = 0; threads < 2; threads++) {
        if (threads && !(what & COPIES)) break;
        train(m, p, micro, threads, &o);
        compare(places(p), &o, STEPS * micro);
    }
}

static void preset(model *m, const char *name, int micro)
{
    rm_plan_info info;
    rm_config c;
    uint32_t i;
    rm_plan_desc d = {.config = &c, .info = &info, .host_bytes = 1 << 20, .steps = micro > 1 ? RM_FIRST | RM_MIDDLE | RM_LAST : RM_SINGLE};
    uint64_t least;
    rm_config_preset(name, &c);
    c.work = 2000;
    memset(&info, 0, sizeof info);
    for (i = 0; i < 3; i++) {
        rm_plan *p = NULL;
        d.device_bytes = i == 0 ? 1 : i == 1 ? info.min_bytes : least + least / 2;
        if (rm_plan_create(m->g, &d, &p) != RM_OK) {
            EXPECT(i == 0 && rm_graph_result(m->g) == RM_ERROR_INFEASIBLE, rm_graph_error(m->g));
            if (i) return;
        }
        if (i == 1) least = d.device_bytes;
        if (p) one_plan(m, p, &d, micro);
        rm_plan_destroy(p);
    }
}

/* All on the device, nothing moved, no threads. Updates that run on the host only have no such plan: those of the device count. */
static void reference(int clipped, int micro)
{
    rm_plan *p = NULL;
    rm_plan_desc d = {.preset = "noremat", .steps = micro > 1 ? RM_FIRST | RM_MIDDLE | RM_LAST : RM_SINGLE};
    outcome o;
    model m;
    build(&m, clipped, ON_DEVICE);
    if (EXPECT(rm_plan_create(m.g, &d, &p) == RM_OK, rm_graph_error(m.g))) {
        train(&m, p, micro, 0, &o);
        EXPECT(o.loss[STEPS * micro - 1] < 0.95f * o.loss[micro - 1], "it learns");
        compare(places(p), &o, STEPS * micro);
    }
    rm_plan_destroy(p);
    rm_graph_destroy(m.g);
}

int main(int argc, char **argv)
{
    static const int sides[] = {ON_DEVICE, ON_HOST, ON_DEVICE | ON_HOST};
    const char *name;
    int clipped, micro, side;
    size_t i;
    for (clipped = 0; clipped < 2; clipped++)
        for (micro = 1; micro <= MICRO; micro += MICRO - 1) {
            reference(clipped, micro);
            for (side = (int)tm_amount(2, 0); side < 3; side++)
                for (i = 0; (name = rm_preset_name(i, NULL)) != NULL; i++) {
                    model m;
                    if ((i + (size_t)clipped) % 2) continue; /* each preset clipped or not */
                    if (argc > 1 && strcmp(argv[1], name)) continue;
                    tm_case = (unsigned long)(clipped * 10000 + micro * 1000 + side * 100 + (int)i + 1);
                    build(&m, clipped, sides[side]);
                    preset(&m, name, micro);
                    rm_graph_destroy(m.g);
                }
            while (n_seen) tm_clear(&seen[--n_seen].o.state);
        }
    tm_case = 0;
    EXPECT(argc > 1 || tm_amount(1, 0) || (copying > 50 && on_host > 30 && merging > 10 && below > 20), "kinds of plans");
    printf("%lu plans: %lu with copies, %lu with updates on the host, %lu that merge gradients there, %lu in less than the weights take; %lu ways to put gradients together\n", plans, copying, on_host, merging, below, groups);
    return tm_end();
}
