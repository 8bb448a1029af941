/* Overhead of the host executor: a net of dense layers trained by a loop written by hand, and by a keep-everything plan of the
   same kernels. Instructions:  valgrind --tool=callgrind ./exec hand 20   and   ./exec plan 20
   bench_exec [hand|plan STEPS]   without arguments: times of both in turn, medians of 15, and their ratio. It asserts nothing. */
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"
#include <stdio.h>

#if defined(__GNUC__)
#define KERNEL __attribute__((noinline)) static /* as the same code for both: inlined, one of them would know more of its arrays */
#else
#define KERNEL static
#endif

enum { LAYERS = 24, ROWS = 16, WIDTH = 64, ACT = ROWS * WIDTH, W = WIDTH * WIDTH, ROUNDS = 15 };

KERNEL void dense(float *y, const float *x, const float *w)
{
    int r, i, o;
    for (r = 0; r < ROWS; r++) {
        for (o = 0; o < WIDTH; o++) y[r * WIDTH + o] = 0;
        for (i = 0; i < WIDTH; i++)
            for (o = 0; o < WIDTH; o++) y[r * WIDTH + o] += x[r * WIDTH + i] * w[i * WIDTH + o];
        for (o = 0; o < WIDTH; o++) y[r * WIDTH + o] = y[r * WIDTH + o] > 0 ? y[r * WIDTH + o] : 0.01f * y[r * WIDTH + o];
    }
}
KERNEL void dense_back(float *dx, float *dw, const float *dy, const float *x, const float *w, const float *y)
{
    int r, i, o;
    memset(dx, 0, ACT * sizeof *dx);
    memset(dw, 0, W * sizeof *dw);
    for (r = 0; r < ROWS; r++)
        for (i = 0; i < WIDTH; i++)
            for (o = 0; o < WIDTH; o++) {
                float g = dy[r * WIDTH + o] * (y[r * WIDTH + o] > 0 ? 1.0f : 0.01f);
                dx[r * WIDTH + i] += g * w[i * WIDTH + o];
                dw[i * WIDTH + o] += g * x[r * WIDTH + i];
            }
}
KERNEL void loss_of(float *l, const float *y)
{
    int i;
    for (*l = 0, i = 0; i < ACT; i++) *l += y[i] * y[i];
}
KERNEL void loss_back(float *dy, const float *y)
{
    int i;
    for (i = 0; i < ACT; i++) dy[i] = 2 * y[i];
}
KERNEL void descend(float *w, const float *dw)
{
    int i;
    for (i = 0; i < W; i++) w[i] -= 1e-6f * dw[i];
}

/* --- by hand */
static float x[LAYERS + 1][ACT], w[LAYERS][W], dx[2][ACT], dw[W], loss;
static void hand_step(void)
{
    int l;
    for (l = 0; l < LAYERS; l++) dense(x[l + 1], x[l], w[l]);
    loss_of(&loss, x[LAYERS]);
    loss_back(dx[LAYERS & 1], x[LAYERS]);
    for (l = LAYERS; l-- > 0;) {
        dense_back(dx[l & 1], dw, dx[(l + 1) & 1], x[l], w[l], x[l + 1]);
        descend(w[l], dw);
    }
}

/* --- the same kernels as ops */
static int f_dense(const rm_call *c)
{
    dense((float *)c->out[0], (const float *)c->in[0], (const float *)c->in[1]);
    return 0;
}
static int b_dense(const rm_call *c)
{
    dense_back((float *)c->din[0], (float *)c->din[1], (const float *)c->dout[0], (const float *)c->in[0], (const float *)c->in[1], (const float *)c->out[0]);
    return 0;
}
static int f_loss(const rm_call *c)
{
    loss_of((float *)c->out[0], (const float *)c->in[0]);
    return 0;
}
static int b_loss(const rm_call *c)
{
    loss_back((float *)c->din[0], (const float *)c->in[0]);
    return 0;
}
static int update(const rm_call *c)
{
    descend((float *)c->param, (const float *)c->grad);
    return 0;
}

static rm_graph *g;
static rm_plan *p;
static rm_exec *e;
static rm_tensor in, out;

static int make(void)
{
    static const rm_kind DENSE = {.name = "dense", .forward = f_dense, .backward = b_dense};
    static const rm_kind LOSS = {.name = "loss", .forward = f_loss, .backward = b_loss, .needs = RM_IN(0)};
    rm_plan_desc d = {.preset = "noremat"};
    rm_tensor t;
    int l;
    g = rm_graph_create(NULL);
    t = in = rm_input_add(g, "x", sizeof x[0], RM_INPUT_GRAD);
    for (l = 0; l < LAYERS; l++) t = RM_OP(g, &DENSE, .in = {t, RM_PARAM(g, .bytes = sizeof w[0], .update = update)});
    out = RM_OP(g, &LOSS, .in = {t}, .out = {sizeof(float)});
    rm_output_add(g, out);
    if (rm_plan_create(g, &d, &p) || rm_exec_create(p, NULL, &e)) return puts(rm_graph_error(g)), 1;
    for (l = 0; l < LAYERS; l++) {
        char name[32];
        snprintf(name, sizeof name, "param.%d", 2 * l + 1);
        if (rm_exec_write(e, rm_graph_find(g, name), RM_VALUE, 0, w[l], sizeof w[l])) return puts(rm_exec_error(e)), 1;
    }
    return rm_exec_write(e, in, RM_VALUE, 0, x[0], sizeof x[0]) != RM_OK;
}

static void fill(void)
{
    uint32_t s = 1, i;
    float *v = &w[0][0];
    for (i = 0; i < LAYERS * W; i++) v[i] = (float)((s = s * 1664525u + 1013904223u) >> 8) / (1 << 24) * 0.25f - 0.125f;
    for (i = 0; i < ACT; i++) x[0][i] = (float)((s = s * 1664525u + 1013904223u) >> 8) / (1 << 24) - 0.5f;
}

static int by_time(const void *a, const void *b) { return *(const double *)a < *(const double *)b ? -1 : *(const double *)a > *(const double *)b; }

int main(int argc, char **argv)
{
    double hand[ROUNDS], plan[ROUNDS], ratio[ROUNDS];
    int i, k, n = argc > 2 ? atoi(argv[2]) : 20;
    fill();
    if (make()) return 1;
    if (argc > 1) {
        for (k = 0; k < n; k++)
            if (!strcmp(argv[1], "hand")) hand_step();
            else if (rm_exec_write(e, in, RM_VALUE, 0, x[0], sizeof x[0]) || rm_exec_step(e, NULL)) return puts(rm_exec_error(e)), 1;
        return 0;
    }
    for (i = 0; i < ROUNDS; i++) {
        uint64_t t = rmi_exe_host_now(NULL);
        for (k = 0; k < n; k++) hand_step();
        hand[i] = (double)(rmi_exe_host_now(NULL) - t) / n;
        t = rmi_exe_host_now(NULL);
        for (k = 0; k < n; k++)
            if (rm_exec_write(e, in, RM_VALUE, 0, x[0], sizeof x[0]) || rm_exec_step(e, NULL)) return puts(rm_exec_error(e)), 1;
        plan[i] = (double)(rmi_exe_host_now(NULL) - t) / n;
        ratio[i] = plan[i] / hand[i];
    }
    qsort(hand, ROUNDS, sizeof *hand, by_time);
    qsort(plan, ROUNDS, sizeof *plan, by_time);
    qsort(ratio, ROUNDS, sizeof *ratio, by_time);
    printf("%d dense layers, %d x %d: by hand %.1f us, executor %.1f us a step; ratio of pairs: median %.4f (%.4f to %.4f)\n", LAYERS, ROWS, WIDTH, hand[ROUNDS / 2] / 1e3, plan[ROUNDS / 2] / 1e3, ratio[ROUNDS / 2], ratio[0], ratio[ROUNDS - 1]);
    rm_exec_destroy(e);
    rm_plan_destroy(p);
    rm_graph_destroy(g);
    return 0;
}
