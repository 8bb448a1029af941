/* train_resnet.c - a residual network learns to take noise off stripes: with everything kept, and in half the memory. C99.
   cc -O3 -o train_resnet examples/train_resnet.c -lm && ./train_resnet        (or another share: ./train_resnet 40)

   Beyond the first model of the manual: blocks in a loop, a backward in parts, a residual, an evaluation, measured costs, a
   variant: a convolution may leave its patches to its backward, quicker and nine times the memory; the plan says which do. */
#define ROCKMATE_IMPLEMENTATION
#include "../rockmate.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IMAGES = 16, SIDE = 16, WIDTH = 8, BLOCKS = 6, STEPS = 30 };
enum { PIXELS = IMAGES * SIDE * SIDE, MAP = PIXELS * WIDTH * 4 }; /* MAP: bytes of a feature map, [pixel][channel] */
enum { PATCH = 9 * WIDTH, WEIGHTS = PATCH * WIDTH };               /* of a convolution: [patch][channel] */
#define EACH(i, n) for (int i = 0; i < (n); i++)

/* --- kernels. RM_ZERO_GRADS in their kinds: gradients arrive zeroed or begun, a backward only adds */
static void patch_at(float *patch, float *map, int pixel, int back) { /* the 3 x 3 neighbours; or gradients back */
    EACH(k, 9) {
        int up = k / 3 - 1, left = k % 3 - 1, y = pixel / SIDE % SIDE + up, x = pixel % SIDE + left;
        float *at = y < 0 || y == SIDE || x < 0 || x == SIDE ? NULL : map + (pixel + up * SIDE + left) * WIDTH;
        EACH(o, WIDTH)
            if (!back) patch[k * WIDTH + o] = at ? at[o] : 0;
            else if (at) at[o] += patch[k * WIDTH + o];
    }
}
static int conv_fwd(const rm_call *c) { /* saved, where the variant runs and its backward wants it: all patches */
    const float *w = c->in[1];
    float *y = c->out[0], *saved = c->saved, local[PATCH];
    EACH(p, PIXELS) {
        float *patch = saved ? saved + p * PATCH : local;
        patch_at(patch, (float *)c->in[0], p, 0);
        EACH(o, WIDTH) y[p * WIDTH + o] = 0;
        EACH(k, PATCH) EACH(o, WIDTH) y[p * WIDTH + o] += patch[k] * w[k * WIDTH + o];
    }
    return 0;
}
static int conv_bwd(const rm_call *c) { /* of both parts and variants: what this call does not give or read is NULL */
    const float *w = c->in[1], *dy = c->dout[0], *saved = c->saved;
    float *dx = c->din[0], *dw = c->din[1], local[PATCH];
    for (int p = 0; p < PIXELS; p++, dy += WIDTH) {
        const float *patch = saved ? saved + p * PATCH : local;
        if (dw && !saved) patch_at(local, (float *)c->in[0], p, 0);
        if (dw) EACH(k, PATCH) EACH(o, WIDTH) dw[k * WIDTH + o] += patch[k] * dy[o];
        if (!dx) continue;
        memset(local, 0, sizeof local);
        EACH(k, PATCH) EACH(o, WIDTH) local[k] += dy[o] * w[k * WIDTH + o];
        patch_at(local, dx, p, 1);
    }
    return 0;
}
static int relu_fwd(const rm_call *c) { /* relu(a + b), or relu(a); y may be the same bytes as a */
    const float *a = c->in[0], *b = c->n_in > 1 ? c->in[1] : NULL;
    EACH(i, PIXELS * WIDTH) ((float *)c->out[0])[i] = fmaxf(0, a[i] + (b ? b[i] : 0));
    return 0;
}
static int relu_bwd(const rm_call *c) {
    const float *y = c->out[0], *dy = c->dout[0];
    EACH(j, (int)c->n_in) EACH(i, c->din[j] ? PIXELS * WIDTH : 0) ((float *)c->din[j])[i] += y[i] > 0 ? dy[i] : 0;
    return 0;
}
static int loss_fwd(const rm_call *c) { /* the mean of squared differences */
    const float *y = c->in[0], *want = c->in[1];
    double sum = 0;
    EACH(i, PIXELS * WIDTH) sum += (y[i] - want[i]) * (y[i] - want[i]);
    *(float *)c->out[0] = (float)(sum / (PIXELS * WIDTH));
    return 0;
}
static int loss_bwd(const rm_call *c) { /* a loss seeds itself */
    const float *y = c->in[0], *want = c->in[1];
    EACH(i, PIXELS * WIDTH) ((float *)c->din[0])[i] += 2 * (y[i] - want[i]) / (PIXELS * WIDTH);
    return 0;
}
static int momentum(const rm_call *c) {
    float *w = c->param, *speed = c->state;
    EACH(i, WEIGHTS) w[i] -= (float)c->step->lr * (speed[i] = 0.9f * speed[i] + ((const float *)c->grad)[i]);
    return 0;
}

/* --- kinds: what a backward does not read need not be kept for it */
#define PARTS(dw_reads) .part = {{"dx", RM_IN(0), RM_IN(1)}, {"dw", RM_IN(1), dw_reads}}, .flags = RM_ZERO_GRADS
static const rm_kind CONV = {"conv", conv_fwd, conv_bwd, PARTS(RM_IN(0))};
static const rm_kind PATCHES = {"patches", conv_fwd, conv_bwd, PARTS(RM_SAVED)};
static const rm_kind RELU = {"relu", relu_fwd, relu_bwd, RM_OUT(0), RM_ZERO_GRADS, .inplace = RM_IN(0)};
static const rm_kind LOSS = {"loss", loss_fwd, loss_bwd, RM_IN(0) | RM_IN(1), .flags = RM_ZERO_GRADS};

/* --- the model, data, training */
static rm_tensor noisy, wanted, loss, weight[1 + 2 * BLOCKS];
static int n_weights;
static rm_tensor conv(rm_graph *g, rm_tensor x) {
    rm_tensor w = RM_PARAM(g, .bytes = WEIGHTS * 4, .state_bytes = WEIGHTS * 4, .update = momentum);
    rm_tensor y = RM_OP(g, &CONV, .in = {x, weight[n_weights++] = w});
    rm_variant_add(g, y, &PATCHES, &(rm_op_desc){.saved = PIXELS * PATCH * 4});
    return y;
}
static float noise(unsigned *seed) { return (float)((*seed = *seed * 1664525u + 1013904223u) >> 8) / (1 << 23) - 1; }
static void draw(rm_exec *x, unsigned seed) { /* stripes down or across; noise goes over what the network sees */
    static float seen[PIXELS * WIDTH], clean[PIXELS * WIDTH];
    EACH(i, PIXELS * WIDTH) {
        int p = i / WIDTH, across = p / (SIDE * SIDE) % 2;
        clean[i] = (float)((across ? p / SIDE : p) / 2 % 2);
        seen[i] = clean[i] + 2 * noise(&seed);
    }
    rm_exec_write(x, noisy, RM_VALUE, 0, seen, sizeof seen);
    rm_exec_write(x, wanted, RM_VALUE, 0, clean, sizeof clean);
}
static void train(rm_exec *x, float *losses) { /* of STEPS steps, and of an evaluation */
    static float w[WEIGHTS];
    unsigned seed = 1;
    EACH(k, n_weights) {
        EACH(i, WEIGHTS) w[i] = noise(&seed) * (k % 2 ? 0.05f : 0.15f);
        rm_exec_write(x, weight[k], RM_VALUE, 0, w, sizeof w);
    }
    EACH(i, STEPS + 1) {
        rm_step s = {.kind = i < STEPS ? RM_SINGLE : RM_FORWARD, .step = (uint64_t)i, .lr = 0.05};
        draw(x, 1000u + (unsigned)i);
        if (rm_exec_step(x, &s) || rm_exec_read(x, loss, RM_VALUE, 0, &losses[i], 4)) puts(rm_exec_error(x)), exit(1);
    }
}
static int print(void *user, const char *text, size_t n) { return fwrite(text, 1, n, (FILE *)user) != n; }

int main(int argc, char **argv) {
    static float losses[2][STEPS + 1];
    rm_plan *plan;
    rm_exec *x;
    rm_graph *g = rm_graph_create(NULL);
    rm_tensor h = noisy = rm_input_add(g, "noisy", MAP, 0);
    wanted = rm_input_add(g, "wanted", MAP, 0);
    EACH(i, BLOCKS) {
        rm_block_begin(g, "block");
        rm_tensor branch = RM_OP(g, &RELU, .in = {conv(g, h)});
        h = RM_OP(g, &RELU, .in = {conv(g, branch), h});
        rm_block_end(g);
    }
    rm_output_add(g, loss = RM_OP(g, &LOSS, .in = {conv(g, h), wanted}, .out = {sizeof(float)}));
    EACH(run, 2) { /* with everything kept; then by the default preset, a search, in a share of the memory of that */
        rm_plan_desc desc = {.preset = run ? NULL : "noremat", .steps = RM_SINGLE | RM_FORWARD};
        if (run) desc.device_percent = argc > 1 ? atoi(argv[1]) : 50;
        if (rm_plan_create(g, &desc, &plan) || rm_exec_create(plan, NULL, &x)) return puts(rm_graph_error(g)), 1;
        draw(x, 1);
        if (rm_exec_tune(x, &desc, NULL, 3, &plan)) return puts(rm_exec_error(x)), 1; /* measure, plan again */
        if (run) rm_plan_summary(plan, print, stdout);
        train(x, losses[run]);
        rm_exec_destroy(x), rm_plan_destroy(plan);
    }
    EACH(i, 4) printf("step %2d   loss %.6f %.6f%s\n", 10 * i, losses[0][10 * i], losses[1][10 * i], i < 3 ? "" : ", held out");
    puts(memcmp(losses[0], losses[1], sizeof losses[0]) ? "the losses differ" : "all losses equal, bit for bit");
    return memcmp(losses[0], losses[1], sizeof losses[0]) != 0;
}
