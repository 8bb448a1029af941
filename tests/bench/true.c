/* Is it as planned? Predicted against measured: a GPT, a residual conv net and a U-Net with batch norm (real kernels, one thread),
   each at 100, 60 and 40 % of what keeping everything takes and at the least, alone and with host memory behind a link as slow as
   told (the copy threads of ROCKMATE_THREADS). Each executor is a process of its own, so that its peak of resident memory is its own:
   it plans, profiles, plans again and replans within the budget, as a user would. Another process keeps everything. They take turns,
   some steps each; medians. Without a link the time is the thread's own (other programs do not count), with one the clock's.

      gcc -O3 -march=native -o true_bench tests/bench/true.c -lm -lpthread        (from the root; POSIX)
      ./true_bench [MODEL [PERCENT [LINK]]] [--rounds N]        all; or one model, budget (0: the least), bytes a second (0: no link)
   It asserts nothing. */
#define TRAIN_GPT_PARTS
#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wunused-function"
#endif
#include "../../examples/train_gpt.c"

#include <fcntl.h>
#include <sys/wait.h>

/* --- convolutions: c->arg: channels in, channels out, height = width, images */
#define CIN (c->arg[0])
#define COUT (c->arg[1])
#define SIDE (c->arg[2])
#define PIX (SIDE * SIDE)
#define IMAGES (c->arg[3])

/* cols[channels * 9][pixels] of one image: its 3 x 3 neighbourhoods. */
static void to_columns(float *cols, const float *x, int64_t channels, int64_t side)
{
    int64_t k, r, s, y, n = side;
    for (k = 0; k < channels; k++)
        for (r = -1; r <= 1; r++)
            for (s = -1; s <= 1; s++, cols += n * n)
                for (y = 0; y < n; y++) {
                    const float *from = x + (k * n + y + r) * n + s;
                    float *to = cols + y * n;
                    if (y + r < 0 || y + r >= n) memset(to, 0, (size_t)n * sizeof *to);
                    else memcpy(to + (s < 0), from + (s < 0), (size_t)(n - (s != 0)) * sizeof *to), to[s < 0 ? 0 : n - 1] = s ? 0 : to[s < 0 ? 0 : n - 1];
                }
}
static void from_columns(float *x, const float *cols, int64_t channels, int64_t side)
{
    int64_t k, r, s, y, z, n = side;
    for (k = 0; k < channels; k++)
        for (r = -1; r <= 1; r++)
            for (s = -1; s <= 1; s++, cols += n * n)
                for (y = 0; y < n; y++)
                    for (z = s < 0; z < n - (s > 0) && y + r >= 0 && y + r < n; z++) x[(k * n + y + r) * n + z + s] += cols[y * n + z];
}

static int conv_fwd(const rm_call *c)
{
    float *cols = (float *)c->ws;
    int64_t b;
    for (b = 0; b < IMAGES; b++) {
        to_columns(cols, in_f(c, 0) + b * CIN * PIX, CIN, SIDE);
        matmul(out_f(c) + b * COUT * PIX, in_f(c, 1), 9 * CIN, 1, cols, NULL, COUT, 9 * CIN, PIX, 0);
    }
    return 0;
}
/* The same without workspace: row by row of each plane. */
static int conv_direct_fwd(const rm_call *c)
{
    const int64_t n = SIDE;
    int64_t b, o, k, y, r, s;
    for (b = 0; b < IMAGES; b++)
        for (o = 0; o < COUT; o++) {
            float *out = out_f(c) + (b * COUT + o) * PIX;
            memset(out, 0, (size_t)PIX * sizeof *out);
            for (k = 0; k < CIN; k++)
                for (y = 0; y < n; y++)
                    for (r = -1; r <= 1; r++) {
                        const float *x = in_f(c, 0) + ((b * CIN + k) * n + y + r) * n, *w = in_f(c, 1) + (o * CIN + k) * 9 + 3 * (r + 1) + 1;
                        for (s = -1; s <= 1 && y + r >= 0 && y + r < n; s++) add_row(out + y * n + (s < 0), w[s], x + (s > 0), n - (s != 0));
                    }
        }
    return 0;
}
static int conv_bwd(const rm_call *c)
{
    float *cols = (float *)c->ws, *turned = cols + 9 * CIN * PIX;
    int64_t b;
    if (c->din[0] && !RM_ADDS(c, 0)) memset(c->din[0], 0, (size_t)c->in_bytes[0]);
    for (b = 0; b < IMAGES; b++) {
        const float *dy = dout_f(c) + b * COUT * PIX;
        if (c->din[0]) {
            matmul(cols, in_f(c, 1), 1, 9 * CIN, dy, NULL, 9 * CIN, COUT, PIX, 0);
            from_columns(din_f(c, 0) + b * CIN * PIX, cols, CIN, SIDE);
        }
        if (c->din[1]) {
            to_columns(cols, in_f(c, 0) + b * CIN * PIX, CIN, SIDE);
            transpose(turned, cols, 9 * CIN, PIX);
            matmul(din_f(c, 1), dy, PIX, 1, turned, NULL, COUT, PIX, 9 * CIN, b > 0 || RM_ADDS(c, 1));
        }
    }
    return 0;
}
static const rm_kind CONV = {
    .name = "conv", .forward = conv_fwd, .backward = conv_bwd,
    .part = { { .name = "dx", .grads = RM_IN(0), .needs = RM_IN(1) }, { .name = "dw", .grads = RM_IN(1), .needs = RM_IN(0) } },
};
static const rm_kind CONV_DIRECT = {
    .name = "direct", .forward = conv_direct_fwd, .backward = conv_bwd,
    .part = { { .name = "dx", .grads = RM_IN(0), .needs = RM_IN(1) }, { .name = "dw", .grads = RM_IN(1), .needs = RM_IN(0) } },
};

/* Batch norm: x, gain, running means (a const that the forward changes); saved: mean and 1 / deviation of each channel. */
static int norm_fwd(const rm_call *c)
{
    float *saved = (float *)c->saved, *running = (float *)rm_mut(c, 2);
    const float n = (float)(IMAGES * PIX);
    int64_t k, b, p;
    for (k = 0; k < COUT; k++) {
        float mean = 0, variance = 0, rstd;
        for (b = 0; b < IMAGES; b++)
            for (p = 0; p < PIX; p++) mean += in_f(c, 0)[(b * COUT + k) * PIX + p];
        mean /= n;
        for (b = 0; b < IMAGES; b++)
            for (p = 0; p < PIX; p++) {
                const float d = in_f(c, 0)[(b * COUT + k) * PIX + p] - mean;
                variance += d * d;
            }
        rstd = 1 / sqrtf(variance / n + 1e-5f);
        for (b = 0; b < IMAGES; b++)
            for (p = 0; p < PIX; p++) out_f(c)[(b * COUT + k) * PIX + p] = (in_f(c, 0)[(b * COUT + k) * PIX + p] - mean) * rstd * in_f(c, 1)[k];
        if (saved) saved[2 * k] = mean, saved[2 * k + 1] = rstd;
        if (running) running[k] = 0.9f * running[k] + 0.1f * mean;
    }
    return 0;
}
static int norm_bwd(const rm_call *c)
{
    const float *saved = (const float *)c->saved, n = (float)(IMAGES * PIX);
    int64_t k, b, p;
    for (k = 0; k < COUT; k++) {
        const float mean = saved[2 * k], rstd = saved[2 * k + 1];
        float sum = 0, sum_x = 0;
        for (b = 0; b < IMAGES; b++)
            for (p = 0; p < PIX; p++) {
                const int64_t i = (b * COUT + k) * PIX + p;
                sum += dout_f(c)[i];
                sum_x += dout_f(c)[i] * (in_f(c, 0)[i] - mean) * rstd;
            }
        if (c->din[1]) din_f(c, 1)[k] = (RM_ADDS(c, 1) ? din_f(c, 1)[k] : 0) + sum_x;
        for (b = 0; b < IMAGES && c->din[0]; b++)
            for (p = 0; p < PIX; p++) {
                const int64_t i = (b * COUT + k) * PIX + p;
                const float d = in_f(c, 1)[k] * rstd * (dout_f(c)[i] - sum / n - (in_f(c, 0)[i] - mean) * rstd * sum_x / n);
                din_f(c, 0)[i] = RM_ADDS(c, 0) ? din_f(c, 0)[i] + d : d;
            }
    }
    return 0;
}
static const rm_kind NORM = {
    .name = "norm", .forward = norm_fwd, .backward = norm_bwd, .needs = RM_IN(0) | RM_IN(1) | RM_SAVED, .mutates = RM_IN(2),
    .over = { { .grad_of = RM_IN(0), .bytes_of = RM_DOUT } },
};

static int relu_fwd(const rm_call *c)
{
    int64_t i;
    for (i = 0; i < count_f(c); i++) out_f(c)[i] = in_f(c, 0)[i] > 0 ? in_f(c, 0)[i] : 0;
    return 0;
}
static int relu_bwd(const rm_call *c)
{
    const float *y = (const float *)c->out[0];
    int64_t i;
    for (i = 0; i < count_f(c); i++) din_f(c, 0)[i] = (RM_ADDS(c, 0) ? din_f(c, 0)[i] : 0) + (y[i] > 0 ? dout_f(c)[i] : 0);
    return 0;
}
static const rm_kind RELU = {
    .name = "relu", .forward = relu_fwd, .backward = relu_bwd, .needs = RM_OUT(0), .inplace = RM_IN(0),
    .over = { { .grad_of = RM_IN(0), .bytes_of = RM_DOUT } },
};

/* 2 x 2 maxima. SIDE: of the input. */
static int64_t corner(int64_t side, int64_t q, int64_t j) { return (q / (side / 2) * 2 + j / 2) * side + q % (side / 2) * 2 + j % 2; }
static int64_t largest(const float *x, int64_t side, int64_t q)
{
    int64_t j, best = corner(side, q, 0);
    for (j = 1; j < 4; j++) best = x[corner(side, q, j)] > x[best] ? corner(side, q, j) : best;
    return best;
}
static int pool_fwd(const rm_call *c)
{
    int64_t k, q;
    for (k = 0; k < IMAGES * CIN; k++)
        for (q = 0; q < PIX / 4; q++) out_f(c)[k * PIX / 4 + q] = in_f(c, 0)[k * PIX + largest(in_f(c, 0) + k * PIX, SIDE, q)];
    return 0;
}
static int pool_bwd(const rm_call *c)
{
    int64_t k, q;
    if (!RM_ADDS(c, 0)) memset(c->din[0], 0, (size_t)c->in_bytes[0]);
    for (k = 0; k < IMAGES * CIN; k++)
        for (q = 0; q < PIX / 4; q++) din_f(c, 0)[k * PIX + largest(in_f(c, 0) + k * PIX, SIDE, q)] += dout_f(c)[k * PIX / 4 + q];
    return 0;
}
static const rm_kind POOL = { .name = "pool", .forward = pool_fwd, .backward = pool_bwd, .needs = RM_IN(0) };

/* Twice the size, beside the skip: CIN channels of x, COUT of the skip; SIDE of the output. */
static int up_fwd(const rm_call *c)
{
    int64_t b, k, p;
    for (b = 0; b < IMAGES; b++) {
        float *y = out_f(c) + b * (CIN + COUT) * PIX;
        for (k = 0; k < CIN; k++)
            for (p = 0; p < PIX; p++) y[k * PIX + p] = in_f(c, 0)[(b * CIN + k) * PIX / 4 + p / SIDE / 2 * (SIDE / 2) + p % SIDE / 2];
        memcpy(y + CIN * PIX, in_f(c, 1) + b * COUT * PIX, (size_t)(COUT * PIX) * sizeof *y);
    }
    return 0;
}
static int up_bwd(const rm_call *c)
{
    int64_t b, k, p;
    for (k = 0; k < 2; k++)
        if (c->din[k] && !RM_ADDS(c, k)) memset(c->din[k], 0, (size_t)c->in_bytes[k]);
    for (b = 0; b < IMAGES; b++) {
        const float *dy = dout_f(c) + b * (CIN + COUT) * PIX;
        for (k = 0; k < CIN && c->din[0]; k++)
            for (p = 0; p < PIX; p++) din_f(c, 0)[(b * CIN + k) * PIX / 4 + p / SIDE / 2 * (SIDE / 2) + p % SIDE / 2] += dy[k * PIX + p];
        if (c->din[1]) add_row(din_f(c, 1) + b * COUT * PIX, 1, dy + CIN * PIX, COUT * PIX);
    }
    return 0;
}
static const rm_kind UP = { .name = "up", .forward = up_fwd, .backward = up_bwd, .needs = RM_NOTHING };

/* The mean square of y - want. */
static int square_fwd(const rm_call *c)
{
    const int64_t n = (int64_t)(c->in_bytes[0] / sizeof(float));
    float sum = 0;
    int64_t i;
    for (i = 0; i < n; i++) sum += (in_f(c, 0)[i] - in_f(c, 1)[i]) * (in_f(c, 0)[i] - in_f(c, 1)[i]);
    out_f(c)[0] = sum / (float)n;
    return 0;
}
static int square_bwd(const rm_call *c)
{
    const int64_t n = (int64_t)(c->in_bytes[0] / sizeof(float));
    int64_t i;
    for (i = 0; i < n; i++) din_f(c, 0)[i] = (RM_ADDS(c, 0) ? din_f(c, 0)[i] : 0) + 2 * (in_f(c, 0)[i] - in_f(c, 1)[i]) / (float)n;
    return 0;
}
static const rm_kind SQUARE = { .name = "square", .forward = square_fwd, .backward = square_bwd, .needs = RM_IN(0) | RM_IN(1) };

/* --- conv nets: a trainer's graph, with `tokens` as the images and `targets` as what is wanted of them */
static rm_tensor conv_norm(trainer *t, rm_tensor x, int64_t in, int64_t out, int64_t side, int active)
{
    gpt *m = &t->model;
    char name[32];
    rm_tensor y, w, gain, running;
    snprintf(name, sizeof name, "c%ld", (long)m->weight_count);
    w = add_weight(m, name, "w", 9 * in * out, 0, 1 / sqrt(9.0 * (double)in));
    gain = add_weight(m, name, "gain", out, 1, 0);
    running = rm_const_add(m->graph, NULL, floats(out), 0);
    y = RM_OP(m->graph, &CONV, .in = { x, w }, .out = { floats(m->batch * out * side * side) }, .arg = { in, out, side, m->batch },
              .fwd_ws = floats(9 * in * side * side), .part_ws = { floats(18 * in * side * side), floats(18 * in * side * side) });
    rm_variant_add(m->graph, y, &CONV_DIRECT, &(rm_op_desc){ .part_ws = { floats(18 * in * side * side), floats(18 * in * side * side) } });
    y = RM_OP(m->graph, &NORM, .in = { y, gain, running }, .saved = floats(2 * out), .arg = { out, out, side, m->batch });
    return active ? RM_OP(m->graph, &RELU, .in = { y }) : y;
}
static rm_tensor pool(trainer *t, rm_tensor x, int64_t channels, int64_t side)
{
    return RM_OP(t->model.graph, &POOL, .in = { x }, .out = { floats(t->model.batch * channels * side * side / 4) }, .arg = { channels, channels, side, t->model.batch });
}
static void finish_net(trainer *t, rm_tensor y, uint64_t bytes)
{
    t->model.targets = rm_input_add(t->model.graph, "want", bytes, 0);
    t->model.loss = RM_OP(t->model.graph, &SQUARE, .name = "loss", .in = { y, t->model.targets }, .out = { sizeof(float) });
    rm_output_add(t->model.graph, t->model.loss);
}

static void describe_resnet(trainer *t)
{
    gpt *m = &t->model;
    int64_t side = 32, channels = 16, stage, block;
    rm_tensor x, y;
    m->batch = 8;
    m->tokens = rm_input_add(m->graph, "images", floats(m->batch * 3 * side * side), 0);
    x = conv_norm(t, m->tokens, 3, channels, side, 1);
    for (stage = 0; stage < 3; stage++) {
        for (block = 0; block < 4; block++) {
            y = conv_norm(t, x, channels, channels, side, 1);
            y = conv_norm(t, y, channels, channels, side, 0);
            x = RM_OP(m->graph, &RESIDUAL, .in = { x, y });
            x = RM_OP(m->graph, &RELU, .in = { x });
        }
        if (stage == 2) break;
        x = pool(t, x, channels, side);
        side /= 2;
        x = conv_norm(t, x, channels, 2 * channels, side, 1);
        channels *= 2;
    }
    finish_net(t, x, floats(m->batch * channels * side * side));
}

static void describe_unet(trainer *t)
{
    enum { LEVELS = 4 };
    gpt *m = &t->model;
    int64_t side = 64, channels = 8, level;
    rm_tensor x, skip[LEVELS];
    m->batch = 4;
    m->tokens = rm_input_add(m->graph, "images", floats(m->batch * 3 * side * side), 0);
    x = conv_norm(t, m->tokens, 3, channels, side, 1);
    for (level = 0; level < LEVELS - 1; level++) {
        skip[level] = conv_norm(t, x, channels, channels, side, 1);
        x = pool(t, skip[level], channels, side);
        side /= 2;
        x = conv_norm(t, x, channels, 2 * channels, side, 1);
        channels *= 2;
    }
    x = conv_norm(t, x, channels, channels, side, 1);
    while (level--) {
        side *= 2;
        x = RM_OP(m->graph, &UP, .in = { x, skip[level] }, .out = { floats(m->batch * (channels + channels / 2) * side * side) }, .arg = { channels, channels / 2, side, m->batch });
        x = conv_norm(t, x, channels + channels / 2, channels / 2, side, 1);
        channels /= 2;
        x = conv_norm(t, x, channels, channels, side, 1);
    }
    finish_net(t, x, floats(m->batch * channels * side * side));
}

/* --- one executor, in a process of its own */
typedef struct result { /* of a step, or of all at the end */
    double wall, own; /* seconds: by the clock, of the calling thread */
} result;
typedef struct summary {
    uint64_t time_ns, keep_all_ns, planned, used, host, moved, keep_all_bytes;
    uint64_t peak, before; /* KiB resident: at most, and before the first plan */
    uint32_t estimated;
} summary;

static double own_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
/* A line of /proc/self/status, in KiB; 0 where there is none. */
static uint64_t resident(const char *line)
{
    char text[256];
    unsigned long kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(text, sizeof text, f))
        if (!strncmp(text, line, strlen(line))) kib = strtoul(text + strlen(line), NULL, 10);
    if (f) fclose(f);
    return kib;
}

/* One batch for all steps: what it holds costs no time. */
static void *batch[2];
static void make_inputs(trainer *t)
{
    const rm_tensor x[2] = { t->model.tokens, t->model.targets };
    uint64_t k, i;
    for (k = 0; k < 2; k++) {
        const uint64_t n = rm_tensor_bytes(t->model.graph, x[k]) / 4;
        batch[k] = malloc(4 * n);
        for (i = 0; batch[k] && i < n; i++) {
            if (t->data.vocab) ((int32_t *)batch[k])[i] = (int32_t)(draw(3, k, i) % (uint64_t)t->data.vocab);
            else ((float *)batch[k])[i] = (float)(draw_unit(7, k, i) - 0.5);
        }
        if (!batch[k]) fail("batch", "no memory");
    }
}
static void write_batch(trainer *t)
{
    need(t, rm_exec_write(t->exec, t->model.tokens, RM_VALUE, 0, batch[0], rm_tensor_bytes(t->model.graph, t->model.tokens)), "input");
    need(t, rm_exec_write(t->exec, t->model.targets, RM_VALUE, 0, batch[1], rm_tensor_bytes(t->model.graph, t->model.targets)), "input");
}

/* What a worker is to run. percent: of keep-all's arena; 0: the least; negative: keeps everything. */
typedef struct task {
    int model;
    double percent;
    uint64_t link;
} task;
static const char *const MODELS[] = { "gpt", "resnet", "unet" };

/* What a copy takes beside its bytes: a thread wakes to make it, sleeps as long as the link would take, and another one wakes. */
#define WAKE_NS 40000u

static void begin_model(trainer *t, const task *job)
{
    memset(t, 0, sizeof *t);
    t->o.layers = 6, t->o.channels = 128, t->o.heads = 4, t->o.context = 128, t->o.batch = 6, t->o.accumulate = 1, t->o.seed = 1;
    t->o.lr = 1e-4, t->o.dropout = 0.1, t->o.link = job->link;
    t->o.update_on = job->link ? DEVICE | HOST : DEVICE;
    t->data.vocab = job->model == 0 ? 96 : 0;
    if (job->model == 0) make_model(t, 0, 1);
    else {
        t->model.ranks = t->model.micro_batches = 1;
        t->model.update_on = t->o.update_on;
        t->model.weights = (weight *)malloc(256 * sizeof(weight));
        t->model.graph = rm_graph_create(NULL);
        if (!t->model.weights || !t->model.graph) fail("start", "no memory");
        (job->model == 1 ? describe_resnet : describe_unet)(t);
    }
    if (!job->link) return;
    t->o.host = (uint64_t)1 << 40;
    rm_graph_link(t->model.graph, job->link, job->link, WAKE_NS, 0);
}

/* The first plan; d becomes what it was made by. */
static rm_plan *planned(trainer *t, const task *job, rm_plan_desc *d, rm_plan_info *info)
{
    rm_plan *p = NULL;
    rm_result r;
    memset((void *)d, 0, sizeof *d);
    d->info = info;
    d->preset = "noremat";
    if (rm_plan_create(t->model.graph, d, &p) != RM_OK) fail("keeping everything", rm_graph_error(t->model.graph));
    if (job->percent < 0) return p;
    rm_plan_destroy(p);
    d->preset = NULL;
    d->host_bytes = t->o.host;
    d->device_bytes = job->percent > 0 ? (uint64_t)((double)info->keep_all_bytes * job->percent / 100) : 1;
    r = rm_plan_create(t->model.graph, d, &p);
    if (r == RM_ERROR_INFEASIBLE) {
        d->device_bytes = info->min_bytes;
        r = rm_plan_create(t->model.graph, d, &p);
    }
    if (r != RM_OK) fail("plan", rm_graph_error(t->model.graph));
    return p;
}

/* Plan, profile, plan again, go on: then steps, some for each line that comes in. */
enum { TIMED = 3 };
static int work(const task *job)
{
    trainer t;
    rm_plan_info info;
    rm_exec_info used;
    rm_plan_desc budget;
    summary s;
    char line[16];
    uint64_t step = 0;
    int i;
    memset(&s, 0, sizeof s);
    begin_model(&t, job);
    s.before = resident("VmRSS:");
    {
        const rm_exec_desc d = with_host(&t.o);
        open_exec(&t, planned(&t, job, &budget, &info), &d);
    }
    init_weights(&t);
    make_inputs(&t);
    write_batch(&t);
    if (job->percent >= 0) {
        need(&t, rm_exec_tune(t.exec, &budget, &(rm_step){ .kind = RM_SINGLE, .lr = t.o.lr }, 5, &t.plan), "tuning");
        rm_plan_get_info(t.plan, 0, &info);
    }
    while (fgets(line, sizeof line, stdin)) { /* a step to get going, then some as in training: what lanes still do ends in the next one */
        result r = { 0, 0 };
        for (i = 0; i <= TIMED; i++) {
            const rm_step v = { .kind = RM_SINGLE, .step = step++, .lr = t.o.lr };
            write_batch(&t);
            need(&t, rm_exec_step(t.exec, &v), "step");
            if (i == 0) r.wall = -seconds(), r.own = -own_seconds();
        }
        r.wall = (r.wall + seconds()) / TIMED, r.own = (r.own + own_seconds()) / TIMED;
        need(&t, rm_exec_wait(t.exec), "wait");
        if (fwrite(&r, sizeof r, 1, stdout) != 1 || fflush(stdout)) return 1;
    }
    rm_exec_get_info(t.exec, &used);
    s.time_ns = used.step_ns, s.keep_all_ns = info.keep_all_ns, s.planned = info.arena_bytes, s.used = used.touched_bytes;
    s.host = info.host_bytes, s.moved = info.h2d_bytes + info.d2h_bytes, s.keep_all_bytes = info.keep_all_bytes;
    s.estimated = info.estimated;
    s.peak = resident("VmHWM:");
    if (fwrite(&s, sizeof s, 1, stdout) != 1 || fflush(stdout)) return 1;
    end_training(&t);
    return 0;
}

/* --- the parent: two workers that take turns */
typedef struct worker {
    pid_t id;
    FILE *to, *from;
} worker;

static worker hire(const char *self, const task *job)
{
    char model[16], percent[32], link[32];
    int down[2], up[2];
    worker w;
    snprintf(model, sizeof model, "%d", job->model);
    snprintf(percent, sizeof percent, "%.17g", job->percent);
    snprintf(link, sizeof link, "%llu", (unsigned long long)job->link);
    if (pipe(down) || pipe(up)) fail("pipe", "");
    fcntl(down[1], F_SETFD, FD_CLOEXEC), fcntl(up[0], F_SETFD, FD_CLOEXEC); /* or the next worker would hold this one's input open */
    w.id = fork();
    if (w.id < 0) fail("fork", "");
    if (!w.id) {
        dup2(down[0], 0), dup2(up[1], 1);
        close(down[0]), close(up[1]);
        execl(self, self, "--work", model, percent, link, (char *)NULL);
        _exit(127);
    }
    close(down[0]), close(up[1]);
    w.to = fdopen(down[1], "w"), w.from = fdopen(up[0], "r");
    return w;
}
static result turn(worker *w)
{
    result r = { 0, 0 };
    if (fputs("step\n", w->to) < 0 || fflush(w->to) || fread(&r, sizeof r, 1, w->from) != 1) fail("worker", "it has ended");
    return r;
}
static summary dismiss(worker *w)
{
    summary s;
    int status;
    memset(&s, 0, sizeof s);
    fclose(w->to);
    if (fread(&s, sizeof s, 1, w->from) != 1) fail("worker", "it has ended");
    fclose(w->from);
    waitpid(w->id, &status, 0);
    return s;
}

static int by_size(const void *a, const void *b) { return *(const double *)a < *(const double *)b ? -1 : *(const double *)a > *(const double *)b; }
static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, by_size);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

enum { MOST_ROUNDS = 1000 };
static void compare(const char *self, const task *job, int rounds)
{
    static double all[MOST_ROUNDS], plan[MOST_ROUNDS], ratio[MOST_ROUNDS], own[MOST_ROUNDS];
    const task keep = { job->model, -1, 0 };
    worker a = hire(self, &keep), b = hire(self, job);
    summary s, k;
    char budget[16], link[24];
    double measured, predicted, low, high;
    int i;
    turn(&a), turn(&b); /* pages and caches */
    for (i = 0; i < rounds; i++) {
        const result x = turn(&a), y = turn(&b);
        all[i] = job->link ? x.wall : x.own;
        plan[i] = job->link ? y.wall : y.own;
        ratio[i] = plan[i] / all[i];
        own[i] = y.own / x.own;
    }
    k = dismiss(&a), s = dismiss(&b);
    predicted = (double)s.time_ns / (double)s.keep_all_ns;
    measured = median(ratio, rounds);
    low = ratio[rounds / 4], high = ratio[rounds - 1 - rounds / 4];
    snprintf(budget, sizeof budget, job->percent > 0 ? "%.0f %%" : "least", job->percent);
    snprintf(link, sizeof link, job->link ? "%.0f MB/s" : "-", (double)job->link / 1e6);
    printf("| %s | %s | %s | %.3f | %.3f (%.3f-%.3f) | %+.1f | %.3f | %.1f / %.1f | %.1f / %.1f | %llu | %s | %.1f | %.1f | %.1f | %.1f |%s\n", MODELS[job->model], budget, link, predicted,
           measured, low, high, 100 * (measured - predicted), median(own, rounds), (double)s.keep_all_ns / 1e6, 1e3 * median(all, rounds), (double)s.time_ns / 1e6,
           1e3 * median(plan, rounds), (unsigned long long)s.planned, s.used == s.planned ? "equal" : "OTHER", megabytes(s.host), megabytes(s.moved), (double)(s.peak - s.before) / 1024,
           (double)(k.peak - k.before) / 1024, s.estimated ? " estimated" : "");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static const double budgets[] = { 100, 60, 40, 0 };
    task job;
    int rounds = 21, i, n = 0, only_model = -1, k;
    double only_percent = -2;
    long long only_link = -1;
    if (argc == 5 && !strcmp(argv[1], "--work")) {
        job.model = atoi(argv[2]), job.percent = atof(argv[3]), job.link = strtoull(argv[4], NULL, 10);
        return work(&job);
    }
    for (i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--rounds") && i + 1 < argc) rounds = (int)whole("--rounds", argv[++i], 1);
        else if (n == 0 && ++n)
            for (k = 0; k < 3; k++) only_model = strcmp(argv[i], MODELS[k]) ? only_model : k;
        else if (n == 1 && ++n) only_percent = number("PERCENT", argv[i], 0, 1000);
        else only_link = (long long)number("LINK", argv[i], 0, 1e12);
    }
    if (rounds > MOST_ROUNDS) rounds = MOST_ROUNDS;
    printf("| model | budget | link | predicted | measured (middle half) | points apart | thread's own | keep-all ms: plan, here | planned ms: plan, here | arena | used | host MiB | copied MiB | peak MiB | of keep-all |\n"
           "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
    for (job.model = 0; job.model < 3; job.model++)
        for (k = 0; k < 2; k++)
            for (i = 0; i < 4; i++) {
                job.percent = only_percent >= 0 ? only_percent : budgets[i];
                job.link = only_link >= 0 ? (uint64_t)only_link : k ? 1000000000u : 0;
                if ((only_model >= 0 && job.model != only_model) || (only_percent >= 0 && i) || (only_link >= 0 && k)) continue;
                compare(argv[0], &job, rounds);
            }
    return 0;
}
