/* Bench of preset "search": plans for generated models of 800 to 100,000 tasks and, if the folder of instances is given, for
   the published profiles in it.  bench_plans [part] [instances]
   part: scale, huge, hierarchy (presets side by side where groups are nested; a model's name may follow), monet, small, models, or all (the
   default). Times are of one core; ms1: to the first plan that fits. It measures; it asserts nothing. */
#define _POSIX_C_SOURCE 200809L
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

static double now_ms(void) /* of this process: other work on the machine does not count */
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static uint64_t state = 1;
static uint64_t rnd(uint64_t n)
{
    state = rmi_mix(state + 1);
    return state % n;
}

/* --- models */
static rm_tensor op(rm_graph *g, const char *name, rm_tensor a, rm_tensor b, uint64_t out, uint64_t needs, uint64_t saved, uint64_t fwd, uint64_t bwd)
{
    rm_kind k;
    rm_op_desc d;
    memset(&k, 0, sizeof k);
    memset(&d, 0, sizeof d);
    k.name = name;
    k.needs = needs ? needs : RM_NOTHING;
    d.in[0] = a;
    d.in[1] = b;
    d.out[0] = out;
    d.saved = saved;
    d.fwd_ns = fwd;
    d.bwd_ns = bwd;
    return rm_op_add(g, &k, &d);
}

static rm_tensor none(void)
{
    rm_tensor t;
    t.id = 0;
    return t;
}

/* bf16 at 150 TFLOP/s and 2 TB/s, 2 us a kernel. */
static uint64_t mm(uint64_t n, uint64_t k, uint64_t m) { return 2000 + 2 * n * k * m / 150000; }
static uint64_t mem(uint64_t bytes) { return 2000 + bytes / 2000; }

static void gpt(rm_graph *g, uint32_t layers)
{
    uint64_t n = 8192, c = 768, e = 2 * n * c;
    rm_tensor x = rm_input_add(g, "x", e, RM_INPUT_GRAD), t, r, z = none();
    uint32_t i;
    for (i = 0; i < layers; i++) {
        rm_block_begin(g, "h");
        t = op(g, "ln1", x, z, e, RM_IN(0) | RM_SAVED, 8 * n, mem(2 * e), mem(4 * e));
        t = op(g, "qkv", t, z, 3 * e, RM_IN(0), 0, mm(n, c, 3 * c), 2 * mm(n, c, 3 * c));
        t = op(g, "attn", t, z, e, RM_IN(0) | RM_OUT(0) | RM_SAVED, 48 * n, mm(n, c, 2048), 5 * mm(n, c, 1024));
        t = op(g, "proj", t, z, e, RM_IN(0), 0, mm(n, c, c), 2 * mm(n, c, c));
        r = op(g, "res1", x, t, e, 0, 0, mem(3 * e), mem(2 * e));
        t = op(g, "ln2", r, z, e, RM_IN(0) | RM_SAVED, 8 * n, mem(2 * e), mem(4 * e));
        t = op(g, "fc", t, z, 4 * e, RM_IN(0), 0, mm(n, c, 4 * c), 2 * mm(n, c, 4 * c));
        t = op(g, "gelu", t, z, 4 * e, RM_IN(0), 0, mem(8 * e), mem(12 * e));
        t = op(g, "fcproj", t, z, e, RM_IN(0), 0, mm(n, c, 4 * c), 2 * mm(n, c, 4 * c));
        x = op(g, "res2", r, t, e, 0, 0, mem(3 * e), mem(2 * e));
        rm_block_end(g);
    }
    rm_output_add(g, op(g, "loss", x, z, 4, RM_IN(0), 0, mem(e), mem(e)));
}

static rm_tensor conv(rm_graph *g, rm_tensor x, uint64_t pixels, uint64_t in, uint64_t out, uint64_t k, int relu)
{
    uint64_t e = 2 * pixels * out;
    x = op(g, "conv", x, none(), e, RM_IN(0), 0, mm(pixels, in * k * k, out), 2 * mm(pixels, in * k * k, out));
    x = op(g, "bn", x, none(), e, RM_IN(0) | RM_SAVED, 16 * out, mem(3 * e), mem(5 * e));
    return relu ? op(g, "relu", x, none(), e, RM_OUT(0), 0, mem(2 * e), mem(3 * e)) : x;
}

/* Bottleneck blocks in four stages. */
static void resnet(rm_graph *g, uint32_t blocks)
{
    uint64_t pixels = 32 * 56 * 56, c = 64, stage, i;
    rm_tensor x = rm_input_add(g, "x", 2 * pixels * 4 * 3 * 4, 0), in;
    rm_param_desc w;
    memset(&w, 0, sizeof w);
    w.bytes = 4096;
    x = op(g, "stem", x, rm_param_add(g, &w), 2 * pixels * 4 * c, RM_IN(0), 0, mm(pixels * 4, 147, c), mm(pixels * 4, 147, c));
    x = op(g, "pool", x, none(), 2 * pixels * 4 * c, RM_IN(0), 0, mem(10 * pixels * c), mem(14 * pixels * c));
    for (stage = 0; stage < 4; stage++, pixels /= 4, c *= 2)
        for (i = 0; i < blocks / 4; i++) {
            in = i ? x : conv(g, x, pixels, 4 * c, 4 * c, 1, 0);
            x = conv(g, conv(g, conv(g, in, pixels, 4 * c, c, 1, 1), pixels, c, c, 3, 1), pixels, c, 4 * c, 1, 0);
            x = op(g, "add", in, x, 8 * pixels * c, 0, 0, mem(24 * pixels * c), mem(16 * pixels * c));
            x = op(g, "relu", x, none(), 8 * pixels * c, RM_OUT(0), 0, mem(16 * pixels * c), mem(24 * pixels * c));
        }
    rm_output_add(g, op(g, "loss", x, none(), 4, RM_IN(0), 0, mem(8 * pixels * c), mem(8 * pixels * c)));
}

static rm_tensor level(rm_graph *g, rm_tensor x, uint64_t pixels, uint64_t c, uint32_t depth, uint32_t width)
{
    rm_tensor skip;
    uint32_t i;
    for (i = 0; i < width; i++) x = conv(g, x, pixels, c, c, 3, 1);
    if (!depth) return x;
    skip = x;
    x = op(g, "pool", x, none(), pixels * c / 2, RM_IN(0) | RM_OUT(0), 0, mem(pixels * c * 5 / 2), mem(pixels * c * 4));
    x = level(g, conv(g, x, pixels / 4, c, 2 * c, 3, 1), pixels / 4, 2 * c, depth - 1, width);
    x = op(g, "up", x, none(), 4 * pixels * c, 0, 0, mem(5 * pixels * c), mem(5 * pixels * c));
    x = op(g, "cat", skip, x, 6 * pixels * c, 0, 0, mem(12 * pixels * c), mem(12 * pixels * c));
    x = conv(g, x, pixels, 3 * c, c, 3, 1);
    for (i = 0; i < width; i++) x = conv(g, x, pixels, c, c, 3, 1);
    return x;
}

/* U-Nets one after the other, of so many pixels: with more than one, stages that are large. */
static void unets(rm_graph *g, uint64_t pixels, uint32_t depth, uint32_t width, uint32_t many)
{
    rm_param_desc w;
    rm_tensor x;
    memset(&w, 0, sizeof w);
    w.bytes = 4096;
    x = op(g, "stem", rm_input_add(g, "x", 6 * pixels, 0), rm_param_add(g, &w), 128 * pixels, RM_IN(0), 0, mm(pixels, 27, 64), mm(pixels, 27, 64));
    while (many--) x = level(g, x, pixels, 64, depth, width);
    rm_output_add(g, op(g, "loss", x, none(), 4, RM_IN(0), 0, mem(128 * pixels), mem(128 * pixels)));
}
static void unet(rm_graph *g, uint32_t width) { unets(g, 8 * 512 * 512, 4, width, 1); }

/* Each op reads one or two of the last 16, sometimes one from far back. */
static void random_graph(rm_graph *g, uint32_t n)
{
    rm_tensor last[16], x = rm_input_add(g, "x", 4 << 20, RM_INPUT_GRAD), far = x, y;
    uint32_t i, n_last = 1;
    last[0] = x;
    for (i = 0; i < n; i++) {
        uint64_t bytes = (1 + rnd(16)) << 20, ns = 20000 + rnd(400000);
        rm_tensor a = rnd(3) ? last[(n_last - 1) % 16] : last[rnd(n_last < 16 ? n_last : 16)], b = rnd(3) ? none() : rnd(8) ? last[rnd(n_last < 16 ? n_last : 16)] : far;
        if (b.id == a.id) b = none();
        y = op(g, "op", a, b, bytes, rnd(4) == 0 ? RM_OUT(0) : rnd(4) == 0 ? 0 : RM_IN(0), 0, ns, 2 * ns);
        if (rnd(32) == 0) far = y;
        last[n_last++ % 16] = y;
    }
    rm_output_add(g, op(g, "loss", last[(n_last - 1) % 16], none(), 4, RM_IN(0), 0, 3000, 3000));
}

/* Four ops of attention and a sum; other: what keys and values are read from, too. */
static rm_tensor attention(rm_graph *g, rm_tensor x, rm_tensor other, uint64_t n, uint64_t c)
{
    uint64_t e = 2 * n * c;
    rm_tensor t = op(g, "ln", x, none(), e, RM_IN(0) | RM_SAVED, 8 * n, mem(2 * e), mem(4 * e));
    t = op(g, "qkv", t, other, 3 * e, RM_IN(0) | (other.id ? RM_IN(1) : 0), 0, mm(n, c, 3 * c), 2 * mm(n, c, 3 * c));
    t = op(g, "attn", t, none(), e, RM_IN(0) | RM_OUT(0) | RM_SAVED, 48 * n, mm(n, c, 2048), 5 * mm(n, c, 1024));
    t = op(g, "proj", t, none(), e, RM_IN(0), 0, mm(n, c, c), 2 * mm(n, c, c));
    return op(g, "res", x, t, e, 0, 0, mem(3 * e), mem(2 * e));
}

static rm_tensor perceptron(rm_graph *g, rm_tensor x, uint64_t n, uint64_t c)
{
    uint64_t e = 2 * n * c;
    rm_tensor t = op(g, "ln", x, none(), e, RM_IN(0) | RM_SAVED, 8 * n, mem(2 * e), mem(4 * e));
    t = op(g, "fc", t, none(), 4 * e, RM_IN(0), 0, mm(n, c, 4 * c), 2 * mm(n, c, 4 * c));
    t = op(g, "gelu", t, none(), 4 * e, RM_IN(0), 0, mem(8 * e), mem(12 * e));
    t = op(g, "fcproj", t, none(), e, RM_IN(0), 0, mm(n, c, 4 * c), 2 * mm(n, c, 4 * c));
    return op(g, "res", x, t, e, 0, 0, mem(3 * e), mem(2 * e));
}

/* Every layer of the decoder reads the encoder's end. named: each layer is a block of the user. */
static void encoder_decoder(rm_graph *g, uint32_t layers, int named)
{
    uint64_t n = 8192, c = 768;
    rm_tensor x = rm_input_add(g, "x", 2 * n * c, RM_INPUT_GRAD), y = rm_input_add(g, "y", 2 * n * c, RM_INPUT_GRAD);
    uint32_t i;
    for (i = 0; i < 2 * layers; i++) {
        if (named) rm_block_begin(g, "layer");
        if (i < layers) x = perceptron(g, attention(g, x, none(), n, c), n, c);
        else y = perceptron(g, attention(g, attention(g, y, none(), n, c), x, n, c), n, c);
        if (named) rm_block_end(g);
    }
    rm_output_add(g, op(g, "loss", y, none(), 4, RM_IN(0), 0, mem(2 * n * c), mem(2 * n * c)));
}

/* Transformer blocks in the shape of a U: block i of the second half reads the end of block `layers - 1 - i`, too. */
static void skips(rm_graph *g, uint32_t layers)
{
    uint64_t n = 8192, c = 768, e = 2 * n * c;
    rm_tensor x = rm_input_add(g, "x", e, RM_INPUT_GRAD), ends[64];
    uint32_t i;
    for (i = 0; i < layers; i++) {
        if (i >= layers / 2) x = op(g, "join", op(g, "cat", x, ends[layers - 1 - i], 2 * e, 0, 0, mem(4 * e), mem(4 * e)), none(), e, RM_IN(0), 0, mm(n, 2 * c, c), 2 * mm(n, 2 * c, c));
        ends[i] = x = perceptron(g, attention(g, x, none(), n, c), n, c);
    }
    rm_output_add(g, op(g, "loss", x, none(), 4, RM_IN(0), 0, mem(e), mem(e)));
}

/* 8 blocks of 12 layers; each layer adds up all before it in its block. */
static void dense(rm_graph *g, int named)
{
    uint64_t e = 16 << 20;
    rm_tensor x = rm_input_add(g, "x", e, RM_INPUT_GRAD), ends[13], t;
    uint32_t i, k, b;
    for (b = 0; b < 8; b++) {
        if (named) rm_block_begin(g, "dense");
        ends[0] = x;
        for (i = 1; i <= 12; i++) {
            for (t = x, k = 1; k < i; k++) t = op(g, "add", t, ends[k], e, 0, 0, mem(3 * e), mem(2 * e));
            t = op(g, "norm", t, none(), e, RM_IN(0) | RM_SAVED, 65536, mem(2 * e), mem(4 * e));
            ends[i] = op(g, "conv", t, none(), e, RM_IN(0), 0, 150000, 300000);
        }
        x = op(g, "down", ends[12], none(), e, RM_IN(0), 0, 150000, 300000);
        if (named) rm_block_end(g);
    }
    rm_output_add(g, op(g, "loss", x, none(), 4, RM_IN(0), 0, mem(e), mem(e)));
}

/* --- one plan */
typedef struct watch {
    double start, first, stop_after;
} watch;

static int tell(void *user, const rm_progress *p)
{
    watch *w = (watch *)user;
    double ms = now_ms() - w->start;
    if (w->first < 0 && p->time_ns) w->first = ms;
    return w->stop_after > 0 && w->first >= 0 && ms > w->stop_after;
}

typedef struct outcome {
    double ms, first;
    rm_result r;
    rm_plan_info info;
} outcome;

/* stop_ms: then the best plan so far will do; 0: when the planner ends */
static outcome plan(rm_graph *g, uint64_t budget, int live, const char *preset, double stop_ms)
{
    outcome o;
    rm_plan_desc d;
    rm_plan *p = NULL;
    watch w;
    memset(&d, 0, sizeof d);
    memset(&o, 0, sizeof o);
    d.device_bytes = budget;
    d.live_only = (uint32_t)live;
    d.preset = preset;
    d.info = &o.info;
    d.progress = tell;
    d.progress_user = &w;
    w.first = -1;
    w.stop_after = stop_ms;
    w.start = now_ms();
    o.r = rm_plan_create(g, &d, &p);
    o.ms = now_ms() - w.start;
    o.first = w.first;
    rm_plan_destroy(p);
    return o;
}

static double ratio(uint64_t a, uint64_t b) { return b ? (double)a / (double)b : 0; }

static void scale_row(const char *name, rm_graph *g, const uint32_t *percent, uint32_t n, double stop_ms)
{
    rm_plan_info all;
    uint32_t i;
    outcome o = plan(g, 0, 0, "noremat", 0);
    all = o.info;
    if (o.r) {
        printf("%s: %s\n", name, rm_graph_error(g));
        return;
    }
    printf("%-14s %6u tasks, keep everything %.3f ms, %.2f GiB; that plan in %.1f ms\n", name, (unsigned)all.runs, 1e-6 * (double)all.time_ns, ratio(all.arena_bytes, 1 << 30), o.ms);
    for (i = 0; i < n; i++) {
        o = plan(g, all.arena_bytes / 100 * percent[i], 0, "search", stop_ms);
        if (o.r) printf("  %3u %%  %s (ms %.1f)\n", percent[i], rm_graph_error(g), o.ms);
        else printf("  %3u %%  x %.5f  gap %6.3f %%  arena %.4f of budget  first %8.1f ms  %8.1f ms\n", percent[i], ratio(o.info.time_ns, all.time_ns), 100 * ratio(o.info.time_ns, o.info.bound_ns) - 100,
                    ratio(o.info.arena_bytes, o.info.budget_bytes), o.first, o.ms);
        fflush(stdout);
    }
}

static void scale(const char *what)
{
    static const uint32_t percent[] = {50, 30, 20, 10, 5, 3};
    struct rusage use;
    uint32_t i, huge = !strcmp(what, "huge");
    for (i = 0; i < (huge ? 3u : 5u); i++) {
        rm_graph *g = rm_graph_create(NULL);
        static const char *const names[2][5] = {{"gpt 12", "gpt 125", "unet", "resnet", "random 1250"}, {"gpt 500", "gpt 5000", "random 50000", "", ""}};
        if (huge) i == 0 ? gpt(g, 500) : i == 1 ? gpt(g, 5000) : random_graph(g, 50000);
        else i == 0 ? gpt(g, 12) : i == 1 ? gpt(g, 125) : i == 2 ? unet(g, 7) : i == 3 ? resnet(g, 40) : random_graph(g, 1250);
        scale_row(names[huge][i], g, percent, huge ? 2 : 6, huge ? 0.001 : 0);
        rm_graph_destroy(g);
    }
    getrusage(RUSAGE_SELF, &use);
    printf("most memory: %.1f MiB\n", (double)use.ru_maxrss / 1024);
}

/* Presets side by side on graphs whose parts have parts. */
static void hierarchy(const char *only)
{
    static const char *const names[] = {"dense", "dense, blocks", "encoder-decoder", "encoder-decoder, blocks", "skips", "unet", "unets", "resnet", "random 1250", "gpt 500"};
    static const char *const presets[] = {"rockmate", "hilp", "search", "hiremate"};
    static const uint32_t percent[] = {50, 30, 15};
    uint32_t i, k, p;
    for (i = 0; i < 10; i++) {
        rm_plan_info all = {0};
        if (only && strcmp(only, names[i])) continue;
        for (k = 0; k < 4; k++)
            for (p = 0; p < 4; p++) { /* each in a graph of its own: nothing is known from calls before */
                rm_graph *g = rm_graph_create(NULL);
                outcome o;
                state = 1;
                i < 2 ? dense(g, i == 1) : i < 4 ? encoder_decoder(g, 24, i == 3) : i == 4 ? skips(g, 24) : i == 5 ? unet(g, 7) : i == 6 ? unets(g, 4 * 256 * 256, 3, 2, 6) : i == 7 ? resnet(g, 40) : i == 8 ? random_graph(g, 1250) : gpt(g, 500);
                if (!k) {
                    o = plan(g, 0, 0, "noremat", 0);
                    all = o.info;
                    if (!p) printf("%s, %u tasks: times over keeping everything's, gap, ms\n%8s", names[i], (unsigned)all.runs, "");
                    printf("%*s%s", p ? 20 : 2, presets[p], p == 3 ? "\n" : "");
                } else {
                    o = plan(g, all.arena_bytes / 100 * percent[k - 1], 0, presets[p], 0);
                    if (!p) printf("  %3u %% ", percent[k - 1]);
                    if (o.r) printf("  no plan      %5.0f", o.ms);
                    else printf("  %.4f %5.2f %5.0f", ratio(o.info.time_ns, all.time_ns), 100 * ratio(o.info.time_ns, o.info.bound_ns) - 100, o.ms);
                    if (p == 3) printf("\n");
                }
                fflush(stdout);
                rm_graph_destroy(g);
            }
    }
}

/* --- instances from files */
static rm_graph *load(const char *dir, const char *sub, const char *name)
{
    char path[1024], *text;
    FILE *f;
    long size;
    rm_graph *g = NULL;
    snprintf(path, sizeof path, "%s/%s/%s.rmg", dir, sub, name);
    f = fopen(path, "rb");
    if (!f) return NULL;
    fseek(f, 0, SEEK_END);
    size = ftell(f);
    rewind(f);
    text = (char *)malloc((size_t)size + 1);
    if (text && fread(text, 1, (size_t)size, f) == (size_t)size && rm_graph_read(text, (size_t)size, NULL, &g)) {
        rm_graph_destroy(g);
        g = NULL;
    }
    free(text);
    fclose(f);
    return g;
}

/* Rows of a table: instance, tab, budget, further columns. part 0: monet, 1: small, 2: models. */
static void table(const char *dir, int part, const char *only)
{
    static const char *const sub[] = {"monet", "small", "models"}, *const file[] = {"published.tsv", "optima.tsv", "checkpoint_every_block.tsv"};
    char path[1024], line[1024], name[256], last[256] = "", c[4][64];
    FILE *f;
    rm_graph *g = NULL;
    snprintf(path, sizeof path, "%s/%s/%s", dir, sub[part], file[part]);
    f = fopen(path, "r");
    if (!f) return;
    printf("instance              budget    ms of a step  published    ratio   gap %%   arena/budget   ms1     ms\n");
    while (fgets(line, sizeof line, f)) {
        unsigned long long budget, b, t;
        outcome o;
        double known;
        memset(c, 0, sizeof c);
        if (sscanf(line, "%255s %63s %63s %63s %63s", name, c[0], c[1], c[2], c[3]) < 4 || !strcmp(name, "instance") || (only && !strstr(name, only))) continue;
        if (strcmp(name, last)) {
            rm_graph_destroy(g);
            g = load(dir, sub[part], name);
            strcpy(last, name);
        }
        if (!g) continue;
        budget = strtoull(c[part == 2 ? 3 : 0], NULL, 10);
        if (part == 2 && sscanf(line, "%*s %*s %*s %*s %llu %llu", &b, &t) == 2) {
            budget = b;
            known = 1e-6 * (double)t;
        } else known = strtod(c[part == 1 && c[2][0] != '-' ? 2 : 1], NULL) * (part == 1 ? 1e-6 : 1);
        o = plan(g, budget, part == 1, "search", 0);
        if (o.r) printf("%-20s %8.2fM  none (%.0f ms)\n", name, ratio(budget, 1 << 20), o.ms);
        else printf("%-20s %8.2fM  %12.4f %10.4f  %.5f  %6.3f  %.4f  %7.1f %7.0f%s\n", name, ratio(budget, 1 << 20), 1e-6 * (double)o.info.time_ns, known, known > 0 ? 1e-6 * (double)o.info.time_ns / known : 0,
                    100 * ratio(o.info.time_ns, o.info.bound_ns) - 100, ratio(o.info.arena_bytes, budget), o.first, o.ms, part == 1 && known > 0 && 1e-6 * (double)o.info.time_ns > known + 1e-9 ? "  above" : "");
        fflush(stdout);
    }
    rm_graph_destroy(g);
    fclose(f);
}

int main(int argc, char **argv)
{
    const char *part = argc > 1 ? argv[1] : "all", *dir = argc > 2 ? argv[2] : NULL, *only = argc > 3 ? argv[3] : NULL;
    int all = !strcmp(part, "all");
    if (all || !strcmp(part, "scale")) scale("scale");
    if (all || !strcmp(part, "huge")) scale("huge");
    if (all || !strcmp(part, "hierarchy")) hierarchy(all ? NULL : dir);
    if (dir && (all || !strcmp(part, "monet"))) table(dir, 0, only);
    if (dir && (all || !strcmp(part, "small"))) table(dir, 1, only);
    if (dir && (all || !strcmp(part, "models"))) table(dir, 2, only);
    return 0;
}
