/* roofline.h - what the ops of train_gpt.cu would take on paper, beside what they take; and how well the card is used

   On paper an op takes the longer of its arithmetic at the card's peak (bf16 in tensor cores, sums in float, no sparsity) and its bytes, each
   operand once, at the memory's. No op is that fast: a good matrix product reaches 60 to 80 % of it, a good pass over memory 85 to 95 %.

   Model FLOP utilisation counts 6 N + 12 L H Q T a token (Chowdhery et al. 2022): N weights but tables that are only looked up (positions,
   Llama's embedding), L layers, H heads of Q elements, T the context; neither recomputation nor that half the scores are masked counts. */
#ifndef TRAIN_GPT_ROOFLINE_H
#define TRAIN_GPT_ROOFLINE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct card {
    const char *name;    /* a part of what the driver calls it; the first that fits counts */
    double tflops, gb_s; /* data sheets: dense bf16, memory */
} card;
static const card CARDS[] = {
    { "H200", 989.4, 4800 }, { "H100 NVL", 835.5, 3938 }, { "H100 PCIe", 756, 2039 }, { "H100", 989.4, 3352 }, { "GH200", 989.4, 4000 }, { "B200", 2250, 7700 },
    { "A100-SXM4-40GB", 312, 1555 }, { "A100-PCIE-40GB", 312, 1555 }, { "A100", 312, 2039 }, { "L40S", 362, 864 }, { "RTX 4090", 165.2, 1008 }, { "RTX 3090", 71, 936 },
};
static card card_named(const char *name, double tflops, double gb_s) /* 0: by its name; what is not known stays 0 */
{
    card c = { name, 0, 0 };
    size_t i;
    for (i = 0; i < sizeof CARDS / sizeof CARDS[0] && !c.tflops; i++)
        if (strstr(name, CARDS[i].name)) c.tflops = CARDS[i].tflops, c.gb_s = CARDS[i].gb_s;
    if (tflops > 0) c.tflops = tflops;
    if (gb_s > 0) c.gb_s = gb_s;
    return c;
}

/* The model in doubles: tokens of a micro-batch, elements of rows. */
typedef struct sizes {
    double rows, width, queries, keys, ffn, vocab, context, state; /* keys: of all their heads; state: bytes of a weight's */
    int gpt2;
} sizes;
typedef struct work {
    double flops, bytes;
} work;
static work product_work(double rows, double in, double out)
{
    work w = { 2 * rows * in * out, 2 * (rows * in + in * out + rows * out) };
    return w;
}
static work sum_of_work(work a, work b)
{
    a.flops += b.flops;
    a.bytes += b.bytes;
    return a;
}
static work pass_over(double elements) /* of bf16 */
{
    work w = { 0, 2 * elements };
    return w;
}
static work linear_work(const sizes *s, double in, double out, int backward)
{
    const work w = product_work(s->rows, in, out);
    return backward ? sum_of_work(w, w) : w;
}
static work attention_work(const sizes *s, int backward)
{
    work w = { s->rows * s->context * s->queries * (backward ? 5 : 2), 0 }; /* products of which half is masked */
    w.bytes = 2 * s->rows * (backward ? 2 * (s->queries + 2 * s->keys) + 2 * s->queries : 2 * s->queries + 2 * s->keys) + 4 * s->rows;
    return w;
}
/* Of an op by its name, without its block's; zeros: it is not known. Backward of the loss: with the logits made again. */
static work work_of(const sizes *s, const char *op, int backward)
{
    const double rows = s->rows, row = rows * s->width, qkv = s->queries + 2 * s->keys;
    const struct { const char *name; double in, out; } linear[] = { { "qkv", s->width, qkv }, { "proj", s->queries, s->width }, { "fc", s->width, s->ffn },
        { "gate-up", s->width, 2 * s->ffn }, { "down", s->ffn, s->width } };
    const struct { const char *name; double forward, backward; } passes[] = { { "embed", 2 * row, 2 * row + s->vocab * s->width }, { "rope", 2 * rows * qkv, 2 * rows * qkv },
        { "gelu", 2 * rows * s->ffn, 3 * rows * s->ffn }, { "swiglu", 3 * rows * s->ffn, 5 * rows * s->ffn }, { "residual1", 3 * row, 0 }, { "residual2", 3 * row, 0 } };
    size_t i;
    for (i = 0; i < sizeof linear / sizeof linear[0]; i++)
        if (!strcmp(op, linear[i].name)) return linear_work(s, linear[i].in, linear[i].out, backward);
    for (i = 0; i < sizeof passes / sizeof passes[0]; i++)
        if (!strcmp(op, passes[i].name)) return pass_over(backward ? passes[i].backward : passes[i].forward);
    if (!strncmp(op, "norm", 4)) return pass_over((backward ? 3 : 2) * row);
    if (!strcmp(op, "attention")) return attention_work(s, backward);
    if (!strcmp(op, "mlp")) { /* both activations are written; in the backward dh is written and read, and the slope reads h */
        const work both = sum_of_work(linear_work(s, s->width, s->ffn, backward), linear_work(s, s->ffn, s->width, backward));
        return sum_of_work(both, pass_over(rows * s->ffn));
    }
    if (!strcmp(op, "loss")) {
        const work logits = product_work(rows, s->width, s->vocab);
        return backward ? sum_of_work(sum_of_work(sum_of_work(logits, logits), logits), pass_over(2 * rows * s->vocab)) : sum_of_work(logits, pass_over(rows * s->vocab));
    }
    return pass_over(0);
}
static double paper_us(card c, work w)
{
    const double arithmetic = c.tflops > 0 ? w.flops / c.tflops / 1e6 : 0, memory = c.gb_s > 0 ? w.bytes / c.gb_s / 1e3 : 0;
    return arithmetic > memory ? arithmetic : memory;
}

/* What was measured of ops of one name, taken together. */
typedef struct row {
    char name[64];
    int ops;
    double us[2]; /* forward, backward: all of them */
} row;
enum { ROWS = 32 };
typedef struct profile {
    row rows[ROWS];
    int n;
    double update_us, weights;
} profile;
static double value_of(const char *line, const char *key) /* " fwd=": 0 if it is not there */
{
    const char *at = strstr(line, key);
    return at ? strtod(at + strlen(key), NULL) : 0;
}
/* A line of a graph's text: an op, or a weight. */
static void profile_line(profile *p, const char *line)
{
    char name[256];
    double bytes;
    const char *last;
    int i;
    if (sscanf(line, "tensor %255s param %lf", name, &bytes) == 2) {
        p->weights += bytes / 2;
        p->update_us += value_of(line, " opt=") / 1e3;
        return;
    }
    if (sscanf(line, "op %255s", name) != 1) return;
    last = strrchr(name, '/') ? strrchr(name, '/') + 1 : name;
    for (i = 0; i < p->n && strcmp(p->rows[i].name, last) != 0; i++) {}
    if (i == ROWS) return;
    if (i == p->n) {
        p->n++;
        snprintf(p->rows[i].name, sizeof p->rows[i].name, "%.63s", last);
    }
    p->rows[i].ops++;
    p->rows[i].us[0] += value_of(line, " fwd=") / 1e3;
    p->rows[i].us[1] += value_of(line, " bwd=") / 1e3;
}
/* One line: what, how many, measured, on paper here, what part of the time that is, and on paper elsewhere. */
static void print_row(const char *name, const char *way, int ops, work w, double us, card here)
{
    const char *const others[] = { "H100", "H200", "RTX 4090" };
    const double paper = paper_us(here, w);
    size_t i;
    printf("   %-10s %-8s %4d %9.2f %9.2f %10.1f", name, way, ops, w.flops / 1e9, w.bytes / 1e6, us);
    if (paper > 0 && us > 0) printf(" %9.1f %4.0f%%", paper, 100 * paper / us);
    else printf(" %9s %5s", "-", "-");
    for (i = 0; i < 3; i++) printf(" %9.1f", paper_us(card_named(others[i], 0, 0), w));
    printf("\n");
}
/* text: of rm_graph_write, with measured times. Means of the ops of a name, and their sum over a step without recomputation. */
static void print_profile(char *text, const sizes *s, card here)
{
    static const char *const ways[] = { "forward", "backward" };
    profile p;
    work all = { 0, 0 }, update = { 0, 0 };
    double us, paper[4] = { 0, 0, 0, 0 };
    char *line;
    int i, k;
    card cards[4];
    memset(&p, 0, sizeof p);
    cards[0] = here;
    cards[1] = card_named("H100", 0, 0), cards[2] = card_named("H200", 0, 0), cards[3] = card_named("RTX 4090", 0, 0);
    for (line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) profile_line(&p, line);
    printf("profile of %s (%.1f TFLOPS, %.0f GB/s), us of one op beside the roofline's\n", here.name, here.tflops, here.gb_s);
    printf("   %-10s %-8s %4s %9s %9s %10s %9s %5s %9s %9s %9s\n", "op", "", "ops", "GFLOP", "MB", "measured", "paper", "part", "H100", "H200", "RTX 4090");
    us = p.update_us;
    update.bytes = p.weights * (6 + 2 * s->state); /* weight, gradient, states; weight and states go back */
    for (i = 0; i < p.n; i++)
        for (k = 0; k < 2; k++) {
            const row *r = &p.rows[i];
            const work w = work_of(s, r->name, k);
            int c;
            if (w.bytes <= 0) continue; /* a residual's gradients are names */
            us += r->us[k];
            for (c = 0; c < 4; c++) paper[c] += r->ops * paper_us(cards[c], w);
            all.flops += r->ops * w.flops, all.bytes += r->ops * w.bytes;
            print_row(r->name, ways[k], r->ops, w, r->us[k] / r->ops, here);
        }
    print_row("AdamW", "all", 1, update, p.update_us, here);
    for (k = 0; k < 4; k++) paper[k] += paper_us(cards[k], update);
    printf("   %-10s %-8s %4s %9.1f %9.1f %10.1f", "sum", "", "", all.flops / 1e9, (all.bytes + update.bytes) / 1e6, us);
    if (paper[0] > 0) printf(" %9.1f %4.0f%%", paper[0], us > 0 ? 100 * paper[0] / us : 0);
    else printf(" %9s %5s", "-", "-");
    printf(" %9.1f %9.1f %9.1f\n", paper[1], paper[2], paper[3]);
}
#endif
