/* test_kernels.cpp - the kernels of examples/cuda/train_gpt.cu against plain references in double, on the host (emulate.h)

   Every kernel runs with its threads forwards, backwards and in shuffled orders, with the same bits in all: no barrier is missing, and
   no sum depends on who comes first. Shapes are those that hurt: contexts that are no multiple of a tile, heads of 32, 64 and 128,
   shared keys, rows that leave threads idle, gradients that are added. Errors are those of bf16, of the largest value. */
#include "emulate.h"

#include "../../examples/cuda/kernels.cuh"
#include "../common.h"

#include <string>

static uint64_t seed = 1;
static double uniform(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(seed >> 40) / 16777216. - 0.5;
}
static float value(bf16 x) { return float_of((uint32_t)x.bits << 16); }
static bf16 rounded(double x)
{
    bf16 y = { (uint16_t)bf16_bits((float)x) };
    return y;
}
typedef std::vector<bf16> halves;
typedef std::vector<float> floats;
typedef std::vector<double> doubles;
static halves some(size_t n, double wide, double middle = 0)
{
    halves x(n);
    for (auto &v : x) v = rounded(middle + wide * uniform());
    return x;
}
static const char *kernel; /* that is tested */
static std::string shape;

/* Each value is within `share` of the largest of the reference. */
template <class T, class R> static void near(const char *what, const std::vector<T> &x, const R &reference, double share)
{
    double most = 0, worst = 0;
    char text[200];
    for (size_t i = 0; i < x.size(); i++) most = fmax(most, fabs((double)reference[i]));
    for (size_t i = 0; i < x.size(); i++) {
        double v;
        if constexpr (sizeof(T) == 2) v = value(x[i]);
        else v = (double)x[i];
        const double d = fabs(v - (double)reference[i]);
        if (!(d <= worst)) worst = d; /* a NaN is the worst */
    }
    snprintf(text, sizeof text, "%s %s, %s: %.3g off, of %.3g", kernel, shape.c_str(), what, worst, most);
    EXPECT(worst <= share * most, text);
    if (getenv("VERBOSE")) printf("%s (%.4f)\n", text, worst / (most + 1e-30));
}
template <class T> static bool same(const std::vector<T> &a, const std::vector<T> &b) { return !a.size() || !memcmp((const void *)a.data(), (const void *)b.data(), a.size() * sizeof(T)); }

/* Runs f, which fills `out` from nothing, in several orders of the threads: the same bits. */
template <class T, class F> static void in_orders(std::vector<T> &out, F f)
{
    const std::vector<T> before = out;
    std::vector<T> first;
    const int orders = 3;
    for (int order = 0; order < orders; order++) {
        emulated.order = order;
        out = before;
        f();
        if (!order) first = out;
        else EXPECT(same(first, out), (std::string(kernel) + " " + shape + ": other bits in another order of threads").c_str());
    }
}
static void name(const char *k, const char *format, ...) __attribute__((format(printf, 2, 3)));
#include <stdarg.h>
static void name(const char *k, const char *format, ...)
{
    char text[200];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    kernel = k;
    shape = text;
}

/* --- attention */
struct attended {
    doubles y, lse, dqkv;
};
static attended attention_reference(const attention s, const halves &qkv, const halves &dy)
{
    const size_t d = (size_t)s.head, width = (size_t)(s.heads + 2 * s.kv_heads) * d, y_width = (size_t)s.heads * d, t = (size_t)s.context;
    const double scale = 1 / sqrt((double)s.head);
    attended r = { doubles((size_t)s.sequences * t * y_width), doubles((size_t)s.sequences * (size_t)s.heads * t), doubles(qkv.size()) };
    doubles p(t), dp(t);
    for (size_t b = 0; b < (size_t)s.sequences; b++)
        for (size_t h = 0; h < (size_t)s.heads; h++) {
            const size_t kv = h / (size_t)(s.heads / s.kv_heads), k_at = ((size_t)s.heads + kv) * d, v_at = k_at + (size_t)s.kv_heads * d;
            auto in = [&](size_t row, size_t at, size_t i) { return (double)value(qkv[(b * t + row) * width + at + i]); };
            auto grad = [&](size_t row, size_t at, size_t i) -> double & { return r.dqkv[(b * t + row) * width + at + i]; };
            for (size_t q = 0; q < t; q++) {
                double most = -1e300, sum = 0, delta = 0;
                double *y = &r.y[(b * t + q) * y_width + h * d];
                for (size_t k = 0; k <= q; k++) {
                    p[k] = 0;
                    for (size_t i = 0; i < d; i++) p[k] += in(q, h * d, i) * in(k, k_at, i);
                    p[k] *= scale;
                    most = fmax(most, p[k]);
                }
                for (size_t k = 0; k <= q; k++) sum += exp(p[k] - most);
                r.lse[(b * (size_t)s.heads + h) * t + q] = most + log(sum);
                for (size_t k = 0; k <= q; k++) p[k] = exp(p[k] - most) / sum;
                for (size_t k = 0; k <= q; k++)
                    for (size_t i = 0; i < d; i++) y[i] += p[k] * in(k, v_at, i);
                for (size_t k = 0; k <= q; k++) {
                    dp[k] = 0;
                    for (size_t i = 0; i < d; i++) {
                        const double g = value(dy[(b * t + q) * y_width + h * d + i]);
                        dp[k] += g * in(k, v_at, i);
                        grad(k, v_at, i) += p[k] * g;
                    }
                    delta += dp[k] * p[k];
                }
                for (size_t k = 0; k <= q; k++)
                    for (size_t i = 0; i < d; i++) {
                        grad(q, h * d, i) += p[k] * (dp[k] - delta) * scale * in(k, k_at, i);
                        grad(k, k_at, i) += p[k] * (dp[k] - delta) * scale * in(q, h * d, i);
                    }
            }
        }
    return r;
}
static void one_attention(attention s, double wide, int adds)
{
    const size_t rows = (size_t)s.sequences * (size_t)s.context, width = (size_t)(s.heads + 2 * s.kv_heads) * (size_t)s.head;
    const halves qkv = some(rows * width, wide), dy = some(rows * (size_t)(s.heads * s.head), 1), was = some(rows * width, 0.5);
    attended r = attention_reference(s, qkv, dy);
    halves y(rows * (size_t)(s.heads * s.head)), alone(y.size()), dqkv = was;
    floats lse(rows * (size_t)s.heads), delta(lse.size());
    name("attention", "%d x %d, %d heads of %d, %d of keys, inputs to %g%s", s.sequences, s.context, s.heads, s.head, s.kv_heads, wide / 2, adds ? ", added" : "");
    in_orders(y, [&] { EXPECT(!attend(y.data(), lse.data(), qkv.data(), s, 0), "attend"); });
    EXPECT(!attend(alone.data(), NULL, qkv.data(), s, 0) && same(alone, y), "without lse: other bits");
    near("y", y, r.y, 0.01);
    near("lse", lse, r.lse, 1e-4);
    in_orders(dqkv, [&] { EXPECT(!attend_grad(dqkv.data(), delta.data(), qkv.data(), y.data(), dy.data(), lse.data(), s, adds, 0), "attend_grad"); });
    for (size_t i = 0; adds && i < was.size(); i++) r.dqkv[i] += value(was[i]);
    const char *const part[] = { "dq", "dk", "dv" };
    const size_t from[] = { 0, (size_t)(s.heads * s.head), (size_t)((s.heads + s.kv_heads) * s.head), width };
    for (int which = 0; which < 3; which++) {
        halves x;
        doubles reference;
        for (size_t row = 0; row < rows; row++)
            for (size_t i = from[which]; i < from[which + 1]; i++) x.push_back(dqkv[row * width + i]), reference.push_back(r.dqkv[row * width + i]);
        near(part[which], x, reference, 0.02);
    }
}
static void attentions(void)
{
    const attention shapes[] = { { 1, 64, 1, 1, 64 }, { 2, 100, 2, 2, 64 }, { 1, 130, 4, 2, 32 }, { 1, 97, 2, 1, 128 }, { 3, 8, 1, 1, 64 }, { 1, 200, 1, 1, 64 }, { 1, 65, 1, 1, 128 } };
    const attention more[] = { { 1, 333, 2, 1, 128 }, { 2, 256, 2, 2, 64 }, { 1, 511, 3, 1, 64 }, { 1, 192, 4, 1, 128 }, { 2, 33, 4, 4, 32 }, { 1, 1, 1, 1, 64 } };
    int i = 0;
    for (const attention &s : shapes) one_attention(s, i % 3 ? 4 : 12, i % 2), i++;
    for (size_t k = 0; k < tm_amount(0, 1); k++) one_attention(more[k], k % 3 ? 4 : 12, k % 2);
    EXPECT(attend(NULL, NULL, NULL, attention{ 1, 8, 1, 1, 48 }, 0), "heads of 48 are refused");
}

/* --- rows */
static void one_norm(size_t rows, size_t width, int layernorm, int adds)
{
    const halves x = some(rows * width, 3, 1), w = some(width, 1, 1), b = some(width, 1), dy = some(rows * width, 1), was = some(rows * width, 1), was_w = some(width, 1);
    halves y(rows * width), dx = was, dw = was_w, db = was_w;
    floats statistics(rows * (layernorm ? 2 : 1)), ws(column_bytes((int64_t)width, layernorm) / 4);
    doubles ry(y.size()), rdx(y.size()), rdw(width), rdb(width);
    for (size_t row = 0; row < rows; row++) {
        double mean = 0, square = 0, sum = 0, product = 0;
        for (size_t k = 0; k < width && layernorm; k++) mean += value(x[row * width + k]) / (double)width;
        for (size_t k = 0; k < width; k++) square += pow(value(x[row * width + k]) - mean, 2) / (double)width;
        const double scale = 1 / sqrt(square + 1e-5);
        auto normal = [&](size_t k) { return (value(x[row * width + k]) - mean) * scale; };
        for (size_t k = 0; k < width; k++) {
            const double g = value(dy[row * width + k]);
            ry[row * width + k] = normal(k) * value(w[k]) + (layernorm ? value(b[k]) : 0);
            rdw[k] += g * normal(k);
            rdb[k] += g;
            sum += layernorm ? g * value(w[k]) / (double)width : 0;
            product += g * value(w[k]) * normal(k) / (double)width;
        }
        for (size_t k = 0; k < width; k++) rdx[row * width + k] = (value(dy[row * width + k]) * value(w[k]) - sum - normal(k) * product) * scale + (adds ? value(was[row * width + k]) : 0);
    }
    for (size_t k = 0; k < width && adds; k++) rdw[k] += value(was_w[k]), rdb[k] += value(was_w[k]);
    name(layernorm ? "layernorm" : "rmsnorm", "%zu x %zu%s", rows, width, adds ? ", added" : "");
    in_orders(y, [&] { norm(y.data(), statistics.data(), x.data(), w.data(), layernorm ? b.data() : NULL, (int64_t)rows, (int)width, 0); });
    near("y", y, ry, 0.005);
    in_orders(dx, [&] { norm_grad(dx.data(), dy.data(), x.data(), w.data(), statistics.data(), (int64_t)rows, (int)width, layernorm, adds, 0); });
    near("dx", dx, rdx, 0.005);
    in_orders(dw, [&] {
        if (layernorm) db = was_w;
        column_sums(dw.data(), adds, layernorm ? db.data() : NULL, adds, ws.data(), dy.data(), x.data(), statistics.data(), (int64_t)rows, (int)width, layernorm, 0);
    });
    near("dw", dw, rdw, 0.005);
    if (layernorm) near("db", db, rdb, 0.005);
    db = was_w;
    in_orders(db, [&] { column_sums(NULL, 0, db.data(), adds, ws.data(), dy.data(), NULL, NULL, (int64_t)rows, (int)width, 0, 0); });
    near("db alone", db, rdb, 0.005);
}
static void one_activation(size_t rows, size_t width, int adds)
{
    const size_t n = rows * width;
    const halves x = some(n, 8), x2 = some(2 * n, 8), dy = some(n, 1), was = some(2 * n, 1), bias = some(width, 1);
    halves y(n), dx(was.begin(), was.begin() + (long)n), dx2 = was;
    doubles r(n), rdx(n), rsum(n), rpass(n), rs(n), rds(2 * n), rb(n);
    for (size_t i = 0; i < n; i++) {
        const double v = value(x[i]), g = value(dy[i]), t = tanh(sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)), more = adds ? value(was[i]) : 0;
        const size_t row = i / width, k = i % width, at = row * 2 * width + k;
        const double gate = value(x2[at]), up = value(x2[at + width]), s = 1 / (1 + exp(-gate));
        r[i] = 0.5 * v * (1 + t);
        rdx[i] = g * (0.5 * (1 + t) + 0.5 * v * (1 - t * t) * sqrt(2 / M_PI) * (1 + 3 * 0.044715 * v * v)) + more;
        rsum[i] = v + g;
        rpass[i] = g + more;
        rs[i] = gate * s * up;
        rds[at] = g * up * s * (1 + gate * (1 - s)) + (adds ? value(was[at]) : 0);
        rds[at + width] = g * gate * s + (adds ? value(was[at + width]) : 0);
        rb[i] = v + value(bias[k]);
    }
    name("elementwise", "%zu x %zu%s", rows, width, adds ? ", added" : "");
    in_orders(y, [&] { gelu(y.data(), x.data(), (int64_t)n, 0); });
    near("gelu", y, r, 0.004);
    in_orders(dx, [&] { gelu_grad(dx.data(), dy.data(), x.data(), (int64_t)n, adds, 0); });
    near("its gradient", dx, rdx, 0.005);
    halves over = dy; /* a gradient over the one it is made from */
    gelu_grad(over.data(), over.data(), x.data(), (int64_t)n, 0, 0);
    if (!adds) EXPECT(same(over, dx), "in place: other bits");
    add(y.data(), x.data(), dy.data(), (int64_t)n, 0);
    near("sum", y, rsum, 0.004);
    dx.assign(was.begin(), was.begin() + (long)n);
    pass(dx.data(), dy.data(), (int64_t)n, adds, 0);
    near("passed on", dx, rpass, 0.005);
    in_orders(y, [&] { swiglu(y.data(), x2.data(), (int64_t)rows, (int)width, 0); });
    near("swiglu", y, rs, 0.004);
    in_orders(dx2, [&] { swiglu_grad(dx2.data(), dy.data(), x2.data(), (int64_t)rows, (int)width, adds, 0); });
    near("its gradient", dx2, rds, 0.005);
    y = x;
    add_bias(y.data(), bias.data(), (int64_t)rows, (int)width, 0);
    near("bias", y, rb, 0.004);
}
static void one_rope(int sequences, int context, int heads, int kv_heads, int head, int adds)
{
    const int turned = (heads + kv_heads) * head, width = turned + kv_heads * head;
    const size_t rows = (size_t)(sequences * context);
    const halves x = some(rows * (size_t)width, 4), was = some(x.size(), 1);
    halves y = was;
    doubles r(x.size());
    for (size_t row = 0; row < rows; row++)
        for (int k = 0; k < width; k++) {
            const int half = head / 2, i = k % head % half, first = k % head < half;
            const size_t at = row * (size_t)width + (size_t)k;
            const double angle = k < turned ? (double)(row % (size_t)context) * pow(500000, -2. * i / head) : 0, partner = value(x[first ? at + (size_t)half : at - (size_t)half]);
            r[at] = value(x[at]) * cos(angle) + (first ? -partner : partner) * sin(angle) + (adds ? value(was[at]) : 0);
        }
    name("rope", "%d x %d, %d heads of %d%s", sequences, context, heads, head, adds ? ", added" : "");
    in_orders(y, [&] { turn(y.data(), x.data(), (int64_t)rows, turned, width, head, context, 1, adds, 0); });
    near("y", y, r, 0.005);
    if (adds) return;
    turn(y.data(), y.data(), (int64_t)rows, turned, width, head, context, -1, 0, 0);
    near("and back", y, [&] { doubles back; for (bf16 v : x) back.push_back(value(v)); return back; }(), 0.01);
}
static void one_embedding(size_t rows, size_t tokens, size_t width, size_t context, int positions, int adds)
{
    std::vector<int32_t> token(rows);
    const halves wte = some(tokens * width, 1), wpe = some(context * width, 1), dy = some(rows * width, 1), was = some(tokens * width, 1), was_wpe = some(context * width, 1);
    halves y(rows * width), dwte = was, dwpe = was_wpe;
    doubles r(y.size()), rdwte(was.size()), rdwpe(was_wpe.size());
    for (size_t row = 0; row < rows; row++) token[row] = (int32_t)((uniform() + 0.5) * (uniform() + 0.5) * (double)(tokens - 1));
    for (size_t i = 0; i < was.size() && adds; i++) rdwte[i] = value(was[i]);
    for (size_t i = 0; i < was_wpe.size() && adds; i++) rdwpe[i] = value(was_wpe[i]);
    for (size_t i = 0; i < y.size(); i++) {
        const size_t row = i / width, k = i % width;
        r[i] = value(wte[(size_t)token[row] * width + k]) + (positions ? value(wpe[row % context * width + k]) : 0);
        rdwte[(size_t)token[row] * width + k] += value(dy[i]);
        rdwpe[row % context * width + k] += value(dy[i]);
    }
    name("embedding", "%zu x %zu of %zu%s", rows, width, tokens, adds ? ", added" : "");
    in_orders(y, [&] { embed(y.data(), token.data(), wte.data(), positions ? wpe.data() : NULL, (int64_t)rows, (int)width, (int)context, 0); });
    near("y", y, r, 0.005);
    in_orders(dwte, [&] { embed_grad(dwte.data(), dy.data(), token.data(), (int64_t)rows, (int)tokens, (int)width, adds, 0); });
    near("dwte", dwte, rdwte, 0.005);
    in_orders(dwpe, [&] { positions_grad(dwpe.data(), dy.data(), (int64_t)rows, (int)width, (int)context, adds, 0); });
    near("dwpe", dwpe, rdwpe, 0.005);
}
static void one_loss(size_t rows, size_t vocab, size_t padded, double wide)
{
    const halves logits = some(rows * padded, wide);
    std::vector<int32_t> target(rows);
    halves at = logits;
    floats loss(rows), alone(rows), all(1);
    doubles r(rows), g(rows * padded);
    const double scale = 1. / (double)rows;
    double sum_of_all = 0;
    for (size_t row = 0; row < rows; row++) {
        const size_t aim = (size_t)(target[row] = (int32_t)((uniform() + 0.5) * (double)(vocab - 1)));
        double most = -1e300, sum = 0;
        for (size_t k = 0; k < vocab; k++) most = fmax(most, value(logits[row * padded + k]));
        for (size_t k = 0; k < vocab; k++) sum += exp(value(logits[row * padded + k]) - most);
        for (size_t k = 0; k < vocab; k++) g[row * padded + k] = (exp(value(logits[row * padded + k]) - most) / sum - (k == aim)) * scale;
        r[row] = (log(sum) + most - value(logits[row * padded + aim])) * scale;
        sum_of_all += r[row];
    }
    name("cross entropy", "%zu x %zu of %zu", rows, vocab, padded);
    in_orders(at, [&] { losses(loss.data(), at.data(), target.data(), (int64_t)rows, (int)vocab, (int)padded, (float)scale, 1, 0); });
    near("losses", loss, r, 1e-4);
    near("gradient", at, g, 0.005);
    at = logits;
    losses(alone.data(), at.data(), target.data(), (int64_t)rows, (int)vocab, (int)padded, (float)scale, 0, 0);
    EXPECT(same(alone, loss) && same(at, logits), "the loss alone");
    in_orders(all, [&] { total(all.data(), loss.data(), (int64_t)rows, 0); });
    near("total", all, doubles(1, sum_of_all), 1e-4);
}

/* --- AdamW: eight at a time, as one at a time on the host, and as in double */
static void adam_kernel(adam a, uint16_t *param, const uint16_t *grad, void *state, int64_t n, int slim, uint64_t key)
{
    const int64_t i = element();
    if (i < n) adam_eight(a, param, grad, state, n, i, slim, key);
}
static void one_adam(size_t n, int slim)
{
    const adam a = { 1e-2f, 0.1f, 1.5f, 1.2f, 1 };
    std::vector<uint16_t> param(n), grad(n), first, host;
    floats state(slim ? n : 3 * n), state_host;
    uint16_t *const h = (uint16_t *)(void *)state.data();
    doubles r(n), rm(n);
    for (size_t i = 0; i < n; i++) {
        const double w = uniform(), g = uniform(), m = uniform() * 0.1, v = (uniform() + 0.5) * 0.1;
        param[i] = (uint16_t)bf16_bits((float)w), grad[i] = (uint16_t)bf16_bits((float)g);
        if (slim) h[i] = (uint16_t)bf16_bits((float)m), h[n + i] = (uint16_t)bf16_bits((float)v);
        else state[i] = (float)w, state[n + i] = (float)m, state[2 * n + i] = (float)v;
        const double was = slim ? to_float(param[i]) : state[i], m0 = slim ? to_float(h[i]) : state[n + i], v0 = slim ? to_float(h[n + i]) : state[2 * n + i], g0 = to_float(grad[i]);
        rm[i] = 0.9 * m0 + 0.1 * g0;
        r[i] = was - 1e-2 * (rm[i] * 1.5 / (sqrt((0.95 * v0 + 0.05 * g0 * g0) * 1.2) + 1e-8) + 0.1 * was);
    }
    host = param;
    state_host = state;
    name("AdamW", "%zu, %s", n, slim ? "slim" : "full");
    adam_some(a, host.data(), grad.data(), state_host.data(), (int64_t)n, 0, (int)n, slim, 77);
    emulated.order = 2;
    LAUNCH(adam_kernel, blocks_for((int64_t)n), THREADS, 0, 0)(a, param.data(), (const uint16_t *)grad.data(), (void *)state.data(), (int64_t)n, slim, (uint64_t)77);
    EXPECT(param == host && same(state, state_host), "not the bits of the host");
    floats w(n), m(n);
    for (size_t i = 0; i < n; i++) w[i] = slim ? to_float(param[i]) : state[i], m[i] = slim ? to_float(h[i]) : state[n + i];
    near("w", w, r, slim ? 0.01 : 1e-5);
    near("m", m, rm, slim ? 0.01 : 1e-5);
}

int main(void)
{
    attentions();
    for (int i = 0; i < 4; i++) {
        one_norm(i < 2 ? 13 : 70, i % 2 ? 768 : 40, i != 1, i & 1);
        one_activation(3, i < 2 ? 24 : 2056, i & 1);
        one_embedding(i < 2 ? 70 : 600, 9, i < 2 ? 64 : 2080, i < 2 ? 35 : 60, i != 1, i & 1);
        one_loss(3, i < 2 ? 300 : 5001, i < 2 ? 384 : 5120, i % 2 ? 4 : 30);
        one_adam(i < 2 ? 24 : 4096, i & 1);
    }
    one_rope(2, 9, 4, 2, 32, 0);
    one_rope(1, 70, 2, 1, 128, 1);
    one_rope(1, 33, 3, 3, 64, 0);
    return tm_end();
}
