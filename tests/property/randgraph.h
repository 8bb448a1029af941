/* randgraph.h - random graphs (.rmg texts) that are always valid, for the property tests.

      rg_text t;
      rg_generate(&t, 42, 30, RG_ALL & ~RG_EXTERNAL);
      if (t.data) use(t.data, t.size);
      rg_free(&t);

   Every graph has a plan: what the forward changes is not read by a backward, and an update has a place to run.
   The same seed, number of ops and features give the same text on every platform. With no feature the graph is a chain of
   ops with a weight each. A feature lets something happen, it does not force it. C99 and C++11; nothing is kept between calls. */
#ifndef RMTEST_RANDGRAPH_H
#define RMTEST_RANDGRAPH_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RG_RESIDUAL    (1u << 0)  /* additions of an earlier activation of the same size */
#define RG_DAG         (1u << 1)  /* inputs from anywhere, several consumers, ends that nobody reads */
#define RG_MULTI       (1u << 2)  /* ops with several outputs */
#define RG_SHARED      (1u << 3)  /* weights of several ops */
#define RG_FROZEN      (1u << 4)
#define RG_STATE       (1u << 5)  /* optimizer state, updates on the device, their workspace */
#define RG_OPT_HOST    (1u << 6)  /* wants RG_STATE or RG_LINK */
#define RG_REDUCE      (1u << 7)
#define RG_CONST       (1u << 8)
#define RG_MUTATES     (1u << 9)  /* wants RG_CONST */
#define RG_RNG         (1u << 10)
#define RG_ONCE        (1u << 11)
#define RG_NOGRAD      (1u << 12)
#define RG_VIEW        (1u << 13)
#define RG_INPLACE     (1u << 14)
#define RG_INPLACE_BWD (1u << 15)
#define RG_SHARE_BWD   (1u << 16) /* wants RG_RESIDUAL */
#define RG_SAVED       (1u << 17)
#define RG_WORKSPACE   (1u << 18)
#define RG_ZERO        (1u << 19) /* tensors of no bytes, runs of no time */
#define RG_VARIANT     (1u << 20)
#define RG_PART        (1u << 21)
#define RG_BITS        (1u << 22) /* wants RG_VARIANT */
#define RG_GRAD_SIZE   (1u << 23) /* gradients of another size than their tensor */
#define RG_INPUT_GRAD  (1u << 24)
#define RG_OUTPUT      (1u << 25) /* outputs beside the loss */
#define RG_BARRIER     (1u << 26)
#define RG_ANYORDER    (1u << 27)
#define RG_BLOCK       (1u << 28)
#define RG_LINK        (1u << 29)
#define RG_EXTERNAL    (1u << 30)
#define RG_NEEDS       (1u << 31) /* backwards that read less than everything */
#define RG_ALL         0xFFFFFFFFu

#if defined(__GNUC__)
#define RG_UNUSED __attribute__((unused))
#else
#define RG_UNUSED
#endif

/* Features that tests ask for by rg_more; with none of them a seed gives the text that it gave before there were any. */
#define RG_MORE_ZERO   (1u << 0)  /* backwards that only add to some gradients */
#define RG_MORE_SAVING (1u << 1)  /* forwards whose workspace is another if they leave what they save */
#define RG_MORE_SAME   (1u << 2)  /* inputs whose gradients are equal */
#define RG_MORE_COMM   (1u << 3)  /* ops whose runs are on the comm lane */
#define RG_MORE_ALL    15u
static uint32_t rg_more = 0;

/* For a test of many seeds: each of these features in half of the graphs, whatever the others. */
RG_UNUSED static void rg_ask_more(uint64_t seed) { rg_more = (uint32_t)((seed + 5) * 0x9E3779B97F4A7C15u >> 48) & RG_MORE_ALL; }

typedef struct rg_text {
    char *data; /* ends with a zero; NULL if memory ran out */
    size_t size, room;
} rg_text;

enum { RG_INPUT_KIND, RG_PARAM_KIND, RG_CONST_KIND, RG_ACT_KIND };
enum { RG_MOST_INS = 8, RG_MOST_OUTS = 3, RG_MOST_LINE = 1024 };

typedef struct rg_tensor {
    int kind, has_grad, readers, output, external;
    int moving; /* a const that ops may change, or a view of one */
    uint64_t bytes, grad_bytes;
} rg_tensor;

typedef struct rg_state {
    rg_text *out;
    uint64_t bits; /* of the generator, never 0 */
    uint32_t features;
    rg_tensor *tensors;
    int count, room, failed;
    int last;  /* the activation (or input) at the chain's end */
    int depth; /* of open blocks */
    int op, ops;
} rg_state;

typedef struct rg_op {
    int ins[RG_MOST_INS], n_ins, outs[RG_MOST_OUTS], n_outs;
    int grads[RG_MOST_INS], n_grads; /* inputs that have a gradient, each once */
    int needs[RG_MOST_INS + RG_MOST_OUTS], n_needs, needs_saved;
    uint64_t saved;
    int over[RG_MOST_INS], n_over; /* inputs whose gradients may lie over something */
    int view, share, inplace, nograd, parts;
} rg_op;

/* ---- text ---- */

static void rg_put(rg_state *s, const char *text)
{
    rg_text *t = s->out;
    const size_t n = strlen(text);
    if (s->failed) return;
    if (t->size + n + 1 > t->room) {
        const size_t room = (t->size + n + 1) * 2;
        char *grown = (char *)realloc(t->data, room);
        if (!grown) {
            s->failed = 1;
            return;
        }
        t->data = grown;
        t->room = room;
    }
    memcpy(t->data + t->size, text, n + 1);
    t->size += n;
}

static void rg_put_number(rg_state *s, const char *before, uint64_t n)
{
    char digits[24];
    size_t at = sizeof digits - 1;
    digits[at] = 0;
    do {
        digits[--at] = (char)('0' + (int)(n % 10));
        n /= 10;
    } while (n);
    rg_put(s, before);
    rg_put(s, digits + at);
}

static void rg_put_name(rg_state *s, const char *before, int t)
{
    static const char *const letter[] = {"x", "w", "c[", "a."};
    const int kind = s->tensors[t].kind;
    rg_put(s, before);
    rg_put_number(s, letter[kind], (uint64_t)t);
    if (kind == RG_CONST_KIND) rg_put(s, "]");
}

static void rg_put_list(rg_state *s, const char *before, const int *list, int n, int saved)
{
    int i;
    rg_put(s, before);
    for (i = 0; i < n; ++i) rg_put_name(s, i ? "," : "", list[i]);
    if (saved) rg_put(s, n ? ",saved" : "saved");
    if (!n && !saved) rg_put(s, "none");
}

static void rg_put_op_name(rg_state *s, const char *before, int op)
{
    rg_put(s, before);
    rg_put_number(s, "op-", (uint64_t)op);
}

/* ---- chance ---- */

static uint64_t rg_next(rg_state *s) /* xorshift64* */
{
    s->bits ^= s->bits >> 12;
    s->bits ^= s->bits << 25;
    s->bits ^= s->bits >> 27;
    return s->bits * 0x2545F4914F6CDD1Du;
}

static int rg_below(rg_state *s, int n) { return (int)((rg_next(s) >> 33) % (uint64_t)n); }

/* Does the feature happen here, once in `in` times? */
static int rg_chance(rg_state *s, uint32_t feature, int in)
{
    const int hit = rg_below(s, in) == 0;
    return hit && (!feature || (s->features & feature));
}

static uint64_t rg_bytes(rg_state *s)
{
    static const uint64_t common[] = {64, 128, 256, 256, 512, 1024};
    if (rg_chance(s, RG_ZERO, 16)) return 0;
    if (rg_chance(s, 0, 4)) return 1 + (uint64_t)rg_below(s, 2000);
    return common[rg_below(s, 6)];
}

static uint64_t rg_ns(rg_state *s)
{
    if (rg_chance(s, RG_ZERO, 12)) return 0;
    return 1 + (uint64_t)rg_below(s, rg_chance(s, 0, 4) ? 5000 : 200);
}

/* ---- tensors ---- */

static int rg_declare(rg_state *s, int kind, uint64_t bytes)
{
    rg_tensor *t;
    if (s->count == s->room) { /* never the first: rg_generate begins with room */
        const int room = s->room * 2 + 64;
        rg_tensor *grown = (rg_tensor *)realloc(s->tensors, (size_t)room * sizeof *grown);
        if (!grown) {
            s->failed = 1;
            return s->count - 1;
        }
        s->tensors = grown;
        s->room = room;
    }
    t = &s->tensors[s->count];
    memset(t, 0, sizeof *t);
    t->kind = kind;
    t->bytes = t->grad_bytes = bytes;
    return s->count++;
}

static int rg_input(rg_state *s, uint64_t bytes)
{
    const int t = rg_declare(s, RG_INPUT_KIND, bytes);
    rg_put_name(s, "tensor ", t);
    rg_put_number(s, " input ", bytes);
    if (rg_chance(s, RG_INPUT_GRAD, 3)) {
        s->tensors[t].has_grad = 1;
        rg_put(s, " grad");
    }
    if (rg_chance(s, RG_EXTERNAL, 6)) {
        s->tensors[t].external = 1;
        rg_put(s, " external");
    }
    rg_put(s, "\n");
    return t;
}

static uint64_t rg_weights = 1; /* weights are so many times as large; for tests to set */

static int rg_param(rg_state *s)
{
    const uint64_t bytes = rg_bytes(s) * rg_weights;
    const int t = rg_declare(s, RG_PARAM_KIND, bytes), external = rg_chance(s, RG_EXTERNAL, 10);
    int device = 0;
    rg_put_name(s, "tensor ", t);
    rg_put_number(s, " param ", bytes);
    s->tensors[t].has_grad = 1;
    if (rg_chance(s, RG_GRAD_SIZE, 6)) rg_put_number(s, " grad=", s->tensors[t].grad_bytes = rg_bytes(s));
    if (rg_chance(s, RG_STATE, 2)) rg_put_number(s, " state=", 2 * bytes);
    if (rg_chance(s, RG_STATE, 2)) {
        device = 1;
        rg_put_number(s, " opt=", rg_ns(s));
        if (rg_chance(s, RG_WORKSPACE, 3)) rg_put_number(s, " opt_ws=", rg_bytes(s));
    }
    if (rg_chance(s, RG_OPT_HOST, 2) && (device || (!external && (s->features & RG_LINK)))) rg_put_number(s, " opt_host=", 3 * rg_ns(s));
    if (rg_chance(s, RG_REDUCE, 2)) rg_put_number(s, " reduce=", rg_ns(s));
    if (rg_chance(s, RG_FROZEN, 5)) {
        s->tensors[t].has_grad = 0;
        rg_put(s, " frozen");
    }
    if (external) {
        s->tensors[t].external = 1;
        rg_put(s, " external");
    }
    rg_put(s, "\n");
    return t;
}

static int rg_const(rg_state *s)
{
    const uint64_t bytes = rg_bytes(s);
    const int t = rg_declare(s, RG_CONST_KIND, bytes);
    s->tensors[t].moving = rg_chance(s, RG_MUTATES, 2);
    rg_put_name(s, "tensor ", t);
    rg_put_number(s, " const ", bytes);
    if (rg_chance(s, RG_EXTERNAL, 6)) {
        s->tensors[t].external = 1;
        rg_put(s, " external");
    }
    rg_put(s, "\n");
    return t;
}

/* One of a kind that is there already, of `bytes` if that is not 0; -1: none was met. */
static int rg_any(rg_state *s, int kind, uint64_t bytes)
{
    int tries;
    for (tries = 0; tries < 12; ++tries) {
        const int t = rg_below(s, s->count);
        if (s->tensors[t].kind == kind && (!bytes || s->tensors[t].bytes == bytes)) return t;
    }
    return -1;
}

/* ---- ops ---- */

static int rg_in_list(const int *list, int n, int t)
{
    int i;
    for (i = 0; i < n; ++i)
        if (list[i] == t) return 1;
    return 0;
}

static void rg_add_in(rg_state *s, rg_op *o, int t)
{
    if (t < 0 || o->n_ins == RG_MOST_INS) return;
    if (rg_in_list(o->ins, o->n_ins, t) && !rg_chance(s, RG_DAG, 8)) return;
    if (s->tensors[t].has_grad && !rg_in_list(o->grads, o->n_grads, t)) o->grads[o->n_grads++] = t;
    o->ins[o->n_ins++] = t;
    ++s->tensors[t].readers;
}

static void rg_choose_ins(rg_state *s, rg_op *o)
{
    const int here = s->last;
    int other = -1, i;
    if (rg_chance(s, RG_RESIDUAL, 4) && s->tensors[here].bytes) other = rg_any(s, RG_ACT_KIND, s->tensors[here].bytes);
    if (other >= 0 && other != here) {
        o->share = 1;
        rg_add_in(s, o, here);
        rg_add_in(s, o, other);
        return;
    }
    rg_add_in(s, o, rg_chance(s, RG_DAG, 3) ? rg_any(s, RG_ACT_KIND, 0) : here);
    if (!o->n_ins) rg_add_in(s, o, here);
    if (rg_chance(s, RG_DAG, 3))
        for (i = 1 + rg_below(s, 3); i > 0; --i) rg_add_in(s, o, rg_any(s, RG_ACT_KIND, 0));
    if (rg_chance(s, RG_DAG, 16)) rg_add_in(s, o, rg_input(s, rg_bytes(s)));
    if (!rg_chance(s, 0, 3)) {
        const int w = rg_chance(s, RG_SHARED, 3) ? rg_any(s, RG_PARAM_KIND, 0) : -1;
        rg_add_in(s, o, w >= 0 ? w : rg_param(s));
    }
    if (rg_chance(s, RG_CONST, 4)) {
        const int c = rg_chance(s, 0, 2) ? rg_any(s, RG_CONST_KIND, 0) : -1;
        rg_add_in(s, o, c >= 0 ? c : rg_const(s));
    }
}

static void rg_choose_needs(rg_state *s, rg_op *o)
{
    const int all = !rg_chance(s, RG_NEEDS, 1) || rg_chance(s, 0, 6);
    int i;
    o->n_needs = 0;
    for (i = 0; i < o->n_ins; ++i)
        if (!s->tensors[o->ins[i]].moving && (all || rg_below(s, 2)) && !rg_in_list(o->needs, o->n_needs, o->ins[i])) o->needs[o->n_needs++] = o->ins[i];
    for (i = 0; i < o->n_outs; ++i)
        if (all || rg_below(s, 3) == 0) o->needs[o->n_needs++] = o->outs[i];
    o->needs_saved = o->saved ? !rg_chance(s, 0, 8) : all;
}

static int rg_wide_enough(const rg_state *s, int under, int over)
{
    return s->tensors[under].kind >= RG_ACT_KIND && s->tensors[under].bytes >= s->tensors[over].grad_bytes && !s->tensors[under].external;
}

/* Gradients that a backward only adds to, of those that lie over nothing. */
static void rg_put_zero_bwd(rg_state *s, const rg_op *o)
{
    int i, n = 0;
    if (!(rg_more & RG_MORE_ZERO) || o->nograd) return;
    for (i = 0; i < o->n_grads; ++i)
        if (!rg_in_list(o->over, o->n_over, o->grads[i]) && rg_chance(s, 0, 3)) rg_put_name(s, n++ ? "," : " zero_bwd=", o->grads[i]);
}

/* Gradients of inputs over the gradient of output 0, over something the backward reads, over saved. */
static void rg_put_inplace_bwd(rg_state *s, rg_op *o)
{
    int i, n = 0;
    for (i = 0; i < o->n_grads; ++i) {
        const int t = o->grads[i], x = o->n_needs && !o->parts ? o->needs[rg_below(s, o->n_needs)] : -1;
        int way = rg_below(s, 4);
        if (way == 0 && s->tensors[t].grad_bytes > s->tensors[o->outs[0]].grad_bytes) way = 3;
        if (way == 1 && (x < 0 || !rg_wide_enough(s, x, t))) way = 3;
        if (way == 2 && (o->parts || !o->needs_saved || o->saved < s->tensors[t].grad_bytes)) way = 3;
        if (way == 3) continue;
        rg_put_name(s, n++ ? "," : " inplace_bwd=", t);
        o->over[o->n_over++] = t;
        if (way == 1) rg_put_name(s, ":", x);
        if (way == 2) rg_put(s, ":saved");
    }
}

static void rg_put_times(rg_state *s, const rg_op *o)
{
    rg_put_number(s, " fwd=", rg_ns(s));
    if (!o->nograd) rg_put_number(s, " bwd=", rg_ns(s));
    if (rg_chance(s, 0, 8)) rg_put_number(s, " again=", rg_ns(s));
    if (rg_chance(s, RG_WORKSPACE, 4)) rg_put_number(s, " fwd_ws=", rg_bytes(s));
    if (rg_chance(s, RG_WORKSPACE, 4) && !o->nograd) rg_put_number(s, " bwd_ws=", rg_bytes(s));
    if (rg_more & RG_MORE_SAVING && o->saved && !rg_chance(s, 0, 3)) rg_put_number(s, " saving_ws=", rg_below(s, 2) ? rg_bytes(s) : 0);
}

static void rg_put_parts(rg_state *s, const rg_op *o, int op, int variant)
{
    int i, cut = 1 + rg_below(s, o->n_grads), part;
    for (part = 0; part < 2; ++part) {
        const int from = part ? cut : 0, to = part ? o->n_grads : cut;
        rg_op p = *o;
        if (from == to) continue;
        rg_choose_needs(s, &p);
        rg_put_op_name(s, "part ", op);
        if (variant >= 0) rg_put_number(s, "@v", (uint64_t)variant);
        rg_put(s, part ? " dW" : " dX");
        for (i = from; i < to; ++i) rg_put_name(s, i > from ? "," : " grads=", o->grads[i]);
        rg_put_list(s, " needs=", p.needs, p.n_needs, p.needs_saved);
        rg_put_number(s, " bwd=", rg_ns(s));
        if (rg_chance(s, RG_WORKSPACE, 4)) rg_put_number(s, " bwd_ws=", rg_bytes(s));
        rg_put(s, "\n");
    }
}

static void rg_put_variants(rg_state *s, const rg_op *o, int op)
{
    const int n = 1 + rg_below(s, 2);
    int v;
    for (v = 0; v < n; ++v) {
        rg_op own = *o;
        rg_put_op_name(s, "variant ", op);
        rg_put_number(s, " v", (uint64_t)v);
        if (rg_chance(s, 0, 2)) rg_put_number(s, " fwd=", rg_ns(s));
        if (rg_chance(s, 0, 2) && !o->nograd) rg_put_number(s, " bwd=", rg_ns(s));
        if (rg_chance(s, 0, 4)) rg_put_number(s, " again=", rg_ns(s));
        if (rg_chance(s, RG_WORKSPACE, 3)) rg_put_number(s, " fwd_ws=", rg_bytes(s));
        if (rg_chance(s, RG_SAVED, 2) && !o->nograd) {
            rg_put_number(s, " saved=", own.saved = rg_bytes(s));
            own.parts = own.parts || rg_chance(s, RG_PART, 4);
            rg_choose_needs(s, &own);
            rg_put_list(s, " needs=", own.needs, own.n_needs, own.needs_saved);
            rg_put(s, " inplace_bwd=none");
            own.n_over = 0;
            rg_put_zero_bwd(s, &own);
            if (rg_more & RG_MORE_SAVING && rg_below(s, 2)) rg_put_number(s, " saving_ws=", rg_bytes(s));
        }
        if (rg_chance(s, RG_BITS, 3)) rg_put_number(s, " bits=b", (uint64_t)rg_below(s, 2));
        rg_put(s, "\n");
        if (own.n_grads && !own.nograd && rg_chance(s, RG_PART, 3)) rg_put_parts(s, &own, op, v);
    }
}

static void rg_declare_outs(rg_state *s, rg_op *o, int n, int loss)
{
    int i;
    for (i = 0; i < n; ++i) {
        const uint64_t first = s->tensors[o->ins[0]].bytes;
        const uint64_t bytes = loss ? 4 : o->share || !rg_chance(s, 0, 3) ? first : rg_bytes(s);
        const int t = rg_declare(s, RG_ACT_KIND, bytes);
        s->tensors[t].has_grad = !o->nograd && o->n_grads > 0;
        o->outs[o->n_outs++] = t;
        rg_put_name(s, i ? "," : " out=", t);
        if (bytes != first || rg_chance(s, 0, 3)) rg_put_number(s, ":", bytes);
    }
}

static void rg_put_flags(rg_state *s, rg_op *o, int loss)
{
    int i;
    if (rg_chance(s, RG_MUTATES, 3)) {
        const int c = rg_any(s, RG_CONST_KIND, 0);
        if (c >= 0 && s->tensors[c].moving) rg_put_name(s, " mutates=", c);
    }
    if (rg_chance(s, RG_RNG, 6)) rg_put(s, " rng");
    if (rg_chance(s, RG_ONCE, 8)) rg_put(s, " once");
    if (o->nograd) rg_put(s, " nograd");
    if (rg_more & RG_MORE_COMM && rg_below(s, 3) == 0) rg_put(s, " lane=comm");
    if (!loss && rg_chance(s, RG_EXTERNAL, 16)) {
        rg_put(s, " external");
        for (i = 0; i < o->n_outs; ++i) s->tensors[o->outs[i]].external = 1;
    }
}

static void rg_put_op(rg_state *s, int loss)
{
    rg_op o;
    int i, t, moving = 0;
    memset(&o, 0, sizeof o);
    o.inplace = -1;
    if (loss) {
        for (t = s->count - 1; t >= 0; --t)
            if (s->tensors[t].kind == RG_ACT_KIND && !s->tensors[t].readers && (t == s->last || !rg_chance(s, RG_DAG, 6))) rg_add_in(s, &o, t);
        rg_add_in(s, &o, s->last);
        if (rg_chance(s, RG_DAG, 2)) rg_add_in(s, &o, rg_input(s, rg_bytes(s)));
    } else {
        rg_choose_ins(s, &o);
    }
    o.nograd = !loss && rg_chance(s, RG_NOGRAD, 10);
    rg_put_op_name(s, "op ", s->op);
    rg_put_list(s, " in=", o.ins, o.n_ins, 0);
    rg_declare_outs(s, &o, loss || !rg_chance(s, RG_MULTI, 5) ? 1 : 2 + rg_below(s, 2), loss);
    o.saved = rg_chance(s, RG_SAVED, 3) && !o.nograd ? rg_bytes(s) : 0;
    o.parts = o.n_grads && !o.nograd && rg_chance(s, RG_PART, 4);
    rg_choose_needs(s, &o);
    if (o.saved) rg_put_number(s, " saved=", o.saved);
    for (i = 0; i < o.n_ins; ++i) moving += s->tensors[o.ins[i]].moving;
    if (!o.nograd && (moving || rg_chance(s, RG_NEEDS, 1))) rg_put_list(s, " needs=", o.needs, o.n_needs, o.needs_saved);
    else if (!o.nograd) o.needs_saved = 1;
    rg_put_times(s, &o);
    t = o.ins[0];
    if (rg_chance(s, RG_INPLACE, 2) && s->tensors[t].kind != RG_CONST_KIND && s->tensors[t].bytes >= s->tensors[o.outs[0]].bytes) rg_put_name(s, " inplace=", t);
    if (rg_chance(s, RG_INPLACE_BWD, 2) && !o.nograd) rg_put_inplace_bwd(s, &o);
    rg_put_zero_bwd(s, &o);
    if (o.share && o.n_grads && !o.nograd && rg_chance(s, RG_SHARE_BWD, 1) && !(rg_more & RG_MORE_SAME && rg_below(s, 2)))
        for (i = 0; i < o.n_grads; ++i) rg_put_name(s, i ? "," : " share_bwd=", o.grads[i]);
    if (rg_more & RG_MORE_SAME && !o.nograd && o.n_grads > 1 && rg_below(s, 2)) {
        int n = 0;
        for (i = 0; i < o.n_grads; ++i)
            if (o.share || rg_below(s, 4)) rg_put_name(s, n++ ? "," : " same_bwd=", o.grads[i]);
    }
    rg_put_flags(s, &o, loss);
    rg_put(s, "\n");
    if (o.parts) rg_put_parts(s, &o, s->op, -1);
    if (rg_chance(s, RG_VARIANT, 4)) rg_put_variants(s, &o, s->op);
    for (i = 0; i < o.n_outs; ++i)
        if (rg_chance(s, RG_GRAD_SIZE, 12)) {
            t = o.outs[i];
            rg_put_name(s, "grad ", t);
            rg_put_number(s, " ", s->tensors[t].grad_bytes = rg_bytes(s));
            rg_put(s, "\n");
        }
    s->last = o.outs[rg_below(s, o.n_outs)];
    ++s->op;
}

static void rg_put_view(rg_state *s)
{
    const int from_any = rg_chance(s, RG_DAG, 3), t = from_any ? rg_below(s, s->count) : s->last;
    const uint64_t bytes = s->tensors[t].bytes, cut = rg_chance(s, 0, 2) ? 0 : (uint64_t)rg_below(s, (int)bytes + 1);
    const uint64_t size = cut && rg_chance(s, 0, 2) ? (bytes - cut) / 2 : bytes - cut;
    int v;
    if (!size && !rg_chance(s, RG_ZERO, 1)) return;
    rg_put_op_name(s, "op ", s->op);
    rg_put_name(s, " in=", t);
    v = rg_declare(s, RG_ACT_KIND, size);
    ++s->tensors[t].readers;
    s->tensors[v].moving = s->tensors[t].moving;
    s->tensors[v].has_grad = s->tensors[t].has_grad;
    rg_put_name(s, " out=", v);
    rg_put_number(s, ":", size);
    rg_put(s, " needs=none");
    rg_put_name(s, " view=", t);
    if (cut) rg_put_number(s, "+", cut);
    rg_put_number(s, " bwd=", rg_ns(s));
    if (rg_chance(s, RG_INPLACE_BWD, 3) && s->tensors[t].has_grad && s->tensors[t].grad_bytes <= size) rg_put_name(s, " inplace_bwd=", t);
    rg_put(s, "\n");
    s->last = v;
    ++s->op;
}

/* ---- the graph ---- */

static void rg_put_blocks(rg_state *s)
{
    if (rg_chance(s, RG_BLOCK, 5)) {
        rg_put_number(s, "block layer", (uint64_t)rg_below(s, 3));
        rg_put(s, "\n");
        ++s->depth;
    } else if (s->depth && rg_chance(s, 0, 4)) {
        rg_put(s, "end\n");
        --s->depth;
    }
}

static void rg_put_end(rg_state *s)
{
    int t, first = 1;
    while (s->depth-- > 0) rg_put(s, "end\n");
    s->tensors[s->last].output = 1;
    for (t = 0; t < s->count; ++t) {
        const int more = s->tensors[t].kind == RG_ACT_KIND && rg_chance(s, RG_OUTPUT, 12);
        if (!s->tensors[t].output && !more) continue;
        rg_put_name(s, first ? "output " : " ", t);
        first = 0;
    }
    rg_put(s, "\n");
    if (rg_chance(s, RG_BARRIER, 3)) rg_put_number(s, "barrier clip ns=", rg_ns(s));
    rg_put(s, "\n");
    if (rg_chance(s, RG_ANYORDER, 4)) rg_put(s, "anyorder\n");
}

/* About `ops` ops (2 or more) and a loss. */
RG_UNUSED static void rg_generate(rg_text *out, uint64_t seed, int ops, uint32_t features)
{
    rg_state s;
    int i;
    memset(&s, 0, sizeof s);
    memset(out, 0, sizeof *out);
    s.out = out;
    s.bits = (seed + 0x9E3779B97F4A7C15u) * 0xBF58476D1CE4E5B9u | 1;
    s.features = features;
    s.ops = ops < 2 ? 2 : ops;
    for (i = 0; i < 8; ++i) (void)rg_next(&s);
    s.tensors = (rg_tensor *)malloc(64 * sizeof *s.tensors);
    s.room = s.tensors ? 64 : 0;
    s.failed = !s.tensors;
    if (!s.failed) {
        rg_put_number(&s, "rockmate graph 1  # seed ", seed);
        rg_put(&s, "\n");
        if (rg_chance(&s, RG_LINK, 1)) {
            rg_put_number(&s, "link h2d=", 500000000u + 1000000u * (uint64_t)rg_below(&s, 2000));
            rg_put_number(&s, " d2h=", 500000000u + 1000000u * (uint64_t)rg_below(&s, 2000));
            if (rg_chance(&s, 0, 2)) rg_put_number(&s, " latency=", (uint64_t)rg_below(&s, 100));
            if (rg_chance(&s, 0, 2)) rg_put_number(&s, " add=", 900000000u + (uint64_t)rg_below(&s, 1000000));
            rg_put(&s, "\n");
        }
        s.last = rg_input(&s, 256);
        while (s.op < s.ops && !s.failed) {
            rg_put_blocks(&s);
            if (rg_chance(&s, RG_VIEW, 8)) rg_put_view(&s);
            rg_put_op(&s, 0);
        }
        rg_put_op(&s, 1);
        rg_put_end(&s);
    }
    free(s.tensors);
    if (!s.failed) return;
    free(out->data);
    memset(out, 0, sizeof *out);
}

RG_UNUSED static void rg_free(rg_text *t)
{
    free(t->data);
    memset(t, 0, sizeof *t);
}

#endif
