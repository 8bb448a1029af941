/* toy.h - toy kernels for tests of the executor: what they write is a hash of every byte that they may read, so that a stale,
   wrong or overwritten byte shows in all results. Any graph can have them, whether it was read or built: toy_attach before the
   first plan. Wants the implementation of rockmate.h above it. */
#ifndef RMTEST_TOY_H
#define RMTEST_TOY_H

#include <stdio.h>

struct toy_world;
typedef struct toy_op { /* c->user of an op, a param, a barrier */
    struct toy_world *w;
    uint32_t id;
} toy_op;

typedef struct toy_world {
    rm_graph *g;
    toy_op *of;            /* ops, then tensors, then barriers */
    uint64_t barrier;      /* what the barrier saw; updates mix it in */
    uint64_t calls, fail_at; /* the call of this number (from 1) returns 7 */
    void (*delay)(uint64_t); /* called with a random number before the work, if not NULL */
    char failed_op[300];
    const char *failed_phase;
    unsigned char *tmp;    /* room for any one gradient, and for one more: of ops on the comm lane */
    uint64_t room;
    char wrong[400];       /* the first thing that a kernel saw and should not have */
} toy_world;

static void toy_wrong(toy_world *w, const rm_call *c, const char *what)
{
    if (!w->wrong[0]) snprintf(w->wrong, sizeof w->wrong, "%.200s, phase %u%s: %s", c->op, c->phase, c->recompute ? " again" : "", what);
}

static uint64_t toy_hash(uint64_t h, const void *p, uint64_t n)
{
    const unsigned char *b = (const unsigned char *)p;
    uint64_t v, i;
    for (i = 0; i + 8 <= n; i += 8) {
        memcpy(&v, b + i, 8);
        h = (h ^ v) * 0x9E3779B97F4A7C15u;
        h ^= h >> 29;
    }
    for (v = n; i < n; i++) v = v << 8 | b[i];
    return rmi_mix(h ^ v);
}

/* Byte i of the stream of h. */
static unsigned char toy_byte(uint64_t h, uint64_t i) { return (unsigned char)(rmi_mix(h + (i >> 3)) >> (8 * (i & 7))); }

static void toy_fill(void *p, uint64_t n, uint64_t h)
{
    unsigned char *b = (unsigned char *)p;
    uint64_t i, v;
    for (i = 0; i + 8 <= n; i += 8) {
        v = rmi_mix(h + (i >> 3));
        memcpy(b + i, &v, 8);
    }
    for (; i < n; i++) b[i] = toy_byte(h, i);
}

static int toy_overlap(const void *a, uint64_t an, const void *b, uint64_t bn)
{
    uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
    return a && b && an && bn && x < y + bn && y < x + an;
}

/* Counts the call; 1: it must fail. */
static int toy_fails(toy_world *w, const rm_call *c)
{
    static const char *const phases[] = {"", "forward", "backward", "update", "reduction", "barrier"};
#if defined(__GNUC__)
    uint64_t n = __atomic_add_fetch(&w->calls, 1, __ATOMIC_RELAXED); /* lanes may be threads */
#else
    uint64_t n = ++w->calls;
#endif
    if (w->delay) w->delay(rmi_mix(n));
    if (n != w->fail_at) return 0;
    snprintf(w->failed_op, sizeof w->failed_op, "%s", c->op);
    w->failed_phase = phases[c->phase];
    return 1;
}

/* Scribbles over the workspace after looking at who else is there. */
static void toy_workspace(toy_world *w, const rm_call *c, const uint64_t *din_bytes)
{
    uint32_t i;
    const void *in;
    for (i = 0; i < c->n_in; i++) {
        in = c->in[i];
        if (toy_overlap(c->ws, c->ws_bytes, in, c->in_bytes[i]) || (din_bytes && toy_overlap(c->ws, c->ws_bytes, c->din[i], din_bytes[i]))) toy_wrong(w, c, "the workspace lies over an input or its gradient");
    }
    for (i = 0; i < c->n_out; i++)
        if (toy_overlap(c->ws, c->ws_bytes, c->out[i], c->out_bytes[i])) toy_wrong(w, c, "the workspace lies over an output");
    if (toy_overlap(c->ws, c->ws_bytes, c->saved, c->saved_bytes)) toy_wrong(w, c, "the workspace lies over saved");
    if (c->ws) toy_fill(c->ws, c->ws_bytes, 99);
}

static int toy_mutated(const rmi_op *op, uint32_t t) { return rmi_list_has(&op->mutates, t); }

static int toy_forward(const rm_call *c)
{
    const toy_op *t = (const toy_op *)c->user;
    toy_world *w = t->w;
    const rmi_op *op = &w->g->ops[t->id];
    uint64_t h = rmi_mix(t->id);
    uint32_t i, k;
    if (toy_fails(w, c)) return 7;
    for (i = 0; i < c->n_in; i++) {
        if (!c->in[i]) toy_wrong(w, c, "an input is NULL");
        else if (!toy_mutated(op, op->in.at[i])) h = toy_hash(h + i, c->in[i], c->in_bytes[i]);
    }
    if (op->flags & RM_RNG) h = rmi_mix(h ^ c->seed);
    for (k = 0; k < c->n_out; k++) {
        for (i = 0; i < c->n_in; i++)
            if (toy_overlap(c->out[k], c->out_bytes[k], c->in[i], c->in_bytes[i]) && (k || c->out[k] != c->in[i] || op->forms[0].inplace != op->in.at[i])) toy_wrong(w, c, "an output lies over an input");
        for (i = 0; i < k; i++)
            if (toy_overlap(c->out[k], c->out_bytes[k], c->out[i], c->out_bytes[i])) toy_wrong(w, c, "an output lies over another");
        if (toy_overlap(c->out[k], c->out_bytes[k], c->saved, c->saved_bytes)) toy_wrong(w, c, "an output lies over saved");
    }
    for (i = 0; i < c->n_in; i++)
        if (toy_overlap(c->saved, c->saved_bytes, c->in[i], c->in_bytes[i])) toy_wrong(w, c, "saved lies over an input");
    if (c->ws && op->n_forms == 1 && c->ws_bytes != (c->saved ? op->forms[0].saving_ws : op->forms[0].fwd_ws)) toy_wrong(w, c, "the workspace is not of the size that was asked for");
    toy_workspace(w, c, NULL);
    for (i = 0; i < c->n_in; i++) {
        void *m = toy_mutated(op, op->in.at[i]) ? rm_mut(c, i) : NULL;
        for (k = 0; k < i && op->in.at[k] != op->in.at[i];) k++;
        if (toy_mutated(op, op->in.at[i]) && !m != (c->recompute != 0)) toy_wrong(w, c, "rm_mut should be NULL in a recomputation, and nowhere else");
        if (m && k == i) toy_fill(m, c->in_bytes[i], toy_hash(h, m, c->in_bytes[i]));
    }
    for (k = 0; k < c->n_out; k++) toy_fill(c->out[k], c->out_bytes[k], rmi_mix(h + 1000 + k));
    if (c->saved) toy_fill(c->saved, c->saved_bytes, rmi_mix(h + 5000));
    return 0;
}

static int toy_may_lie_over(const rmi_op *op, uint32_t t, rmi_over_what what, uint32_t x)
{
    uint32_t i, k;
    for (k = 0; k < op->n_forms; k++)
        for (i = 0; i < op->forms[k].n_overs; i++) {
            const rmi_over *o = &op->forms[k].overs[i];
            if (o->grad_of == t && o->what == (uint32_t)what && (what != RMI_OVER_TENSOR || o->tensor == x)) return 1;
        }
    return 0;
}

/* Only what is declared may lie under a gradient. */
static void toy_targets(toy_world *w, const rm_call *c, const rmi_op *op)
{
    const rm_graph *g = w->g;
    uint32_t i, k;
    for (i = 0; i < c->n_in; i++) {
        uint32_t t = op->in.at[i];
        uint64_t n = g->tensors[t].grad_bytes;
        if (!c->din[i]) continue;
        for (k = 0; k < i; k++)
            if (op->in.at[k] == t ? c->din[k] != c->din[i] || !RM_ADDS(c, i) : toy_overlap(c->din[i], n, c->din[k], g->tensors[op->in.at[k]].grad_bytes)) toy_wrong(w, c, "a gradient lies over another, or a repeated input is not added");
        for (k = 0; k < c->n_in; k++)
            if (toy_overlap(c->din[i], n, c->in[k], c->in_bytes[k]) && !toy_may_lie_over(op, t, RMI_OVER_TENSOR, op->in.at[k])) toy_wrong(w, c, "a gradient lies over an input");
        for (k = 0; k < c->n_out; k++) {
            if (toy_overlap(c->din[i], n, c->out[k], c->out_bytes[k]) && !toy_may_lie_over(op, t, RMI_OVER_TENSOR, op->out.at[k])) toy_wrong(w, c, "a gradient lies over an output");
            if (toy_overlap(c->din[i], n, c->dout[k], g->tensors[op->out.at[k]].grad_bytes) && (k || !toy_may_lie_over(op, t, RMI_OVER_DOUT, 0))) toy_wrong(w, c, "a gradient lies over dout");
        }
        if (toy_overlap(c->din[i], n, c->saved, c->saved_bytes) && !toy_may_lie_over(op, t, RMI_OVER_SAVED, 0)) toy_wrong(w, c, "a gradient lies over saved");
    }
}

/* Which part of the backward is it? That of any gradient which is wanted. */
static const rmi_part *toy_part(const rm_call *c, const rmi_op *op)
{
    const rmi_form *f = &op->forms[0];
    uint32_t i, k;
    for (k = 0; k < f->n_parts; k++)
        for (i = 0; i < c->n_in; i++)
            if (c->din[i] && rmi_list_has(&f->parts[k].grads, op->in.at[i])) return &f->parts[k];
    return &f->parts[0];
}

static int toy_backward(const rm_call *c)
{
    const toy_op *t = (const toy_op *)c->user;
    toy_world *w = t->w;
    const rm_graph *g = w->g;
    const rmi_op *op = &g->ops[t->id];
    uint64_t h = rmi_mix(t->id + 77), dn = g->tensors[op->out.at[0]].grad_bytes, din_bytes[64], j;
    unsigned char *tmp = w->tmp + (op->flags & RM_COMM ? w->room : 0);
    uint32_t i;
    if (toy_fails(w, c)) return 7;
    for (i = 0; i < c->n_in; i++) din_bytes[i & 63] = g->tensors[op->in.at[i]].grad_bytes;
    if (op->n_forms == 1) { /* variants read different things and give the same bits */
        const rmi_part *p = toy_part(c, op);
        for (i = 0; i < c->n_in; i++)
            if (rmi_list_has(&p->needs, op->in.at[i])) h = toy_hash(h + i, c->in[i], c->in_bytes[i]);
        for (i = 0; i < c->n_out; i++)
            if (rmi_list_has(&p->needs, op->out.at[i])) h = toy_hash(h + 100 + i, c->out[i], c->out_bytes[i]);
        if (p->needs_saved && c->saved) h = toy_hash(h + 200, c->saved, c->saved_bytes);
        if (p->needs_saved && op->forms[0].saved && !c->saved) toy_wrong(w, c, "what the forward saved is NULL");
    }
    for (i = 0; i < c->n_out; i++)
        if (c->dout[i]) h = toy_hash(h + 300 + i, c->dout[i], g->tensors[op->out.at[i]].grad_bytes);
    if (op->flags & RM_RNG) h = rmi_mix(h ^ c->seed);
    if (c->dout[0] && dn) memcpy(tmp, c->dout[0], (size_t)dn);
    toy_targets(w, c, op);
    if (c->n_in <= 64) toy_workspace(w, c, din_bytes);
    for (i = 0; i < c->n_in; i++) {
        uint32_t id = op->in.at[i];
        uint64_t n = g->tensors[id].grad_bytes, off = op->view == id && n != dn ? op->view_offset : 0;
        uint64_t own = rmi_mix(h + 1000 + (rmi_list_has(&op->same, id) ? op->same.at[0] : 100000 + i));
        int copies = c->dout[0] && (op->view == id || rmi_list_has(&op->share, id)), add = RM_ADDS(c, i) || (i > 31 && (c->accum >> 31 & 1));
        unsigned char *d = (unsigned char *)c->din[i];
        for (j = 0; d && j < n; j++) {
            unsigned char v = !copies ? toy_byte(own, j) : j >= off && j - off < dn ? tmp[j - off] : 0;
            d[j] = (unsigned char)(add ? (g->any_order ? d[j] + v : d[j] * 31 + v) : v);
        }
    }
    return 0;
}

static int toy_update(const rm_call *c)
{
    const toy_op *t = (const toy_op *)c->user;
    toy_world *w = t->w;
    unsigned char *p = (unsigned char *)c->param;
    uint64_t h = rmi_mix(t->id + w->barrier), j;
    if (toy_fails(w, c)) return 7;
    h = toy_hash(h, c->param, c->param_bytes);
    h = toy_hash(h, c->grad, c->grad_bytes);
    if (c->state) h = toy_hash(h, c->state, c->state_bytes);
    if (c->ws) toy_fill(c->ws, c->ws_bytes, 98);
    for (j = 0; j < c->param_bytes; j++) p[j] = (unsigned char)(p[j] * 5 + toy_byte(h, j));
    if (c->state) toy_fill(c->state, c->state_bytes, h + 1);
    return 0;
}

RMI_UNUSED static rm_kind toy_kind(const char *name)
{
    rm_kind k;
    memset(&k, 0, sizeof k);
    k.name = name;
    k.forward = toy_forward;
    k.backward = toy_backward;
    return k;
}

RMI_UNUSED static int toy_reduce(const rm_call *c)
{
    unsigned char *p = (unsigned char *)c->grad;
    uint64_t j;
    for (j = 0; j < c->grad_bytes; j++) p[j] = (unsigned char)(p[j] * 3 + 1);
    return 0;
}

static int toy_barrier(const rm_call *c)
{
    const toy_op *t = (const toy_op *)c->user;
    uint64_t h = t->id;
    uint32_t i;
    if (toy_fails(t->w, c)) return 7;
    for (i = 0; i < c->n_in; i++) h = toy_hash(h + i, c->in[i], c->in_bytes[i]);
    t->w->barrier = h;
    return 0;
}

/* Gives every op, param and barrier of g the toy kernels. zero: some backwards always add (RM_ZERO_GRADS). 0: no memory. */
RMI_UNUSED static int toy_attach(toy_world *w, rm_graph *g, uint64_t zero)
{
    uint32_t i, k;
    uint64_t *most = &w->room;
    memset(w, 0, sizeof *w);
    w->g = g;
    *most = 16;
    w->of = (toy_op *)malloc((g->n_ops + g->n_tensors + g->n_barriers + 1) * sizeof(toy_op));
    if (!w->of) return 0;
    for (i = 0; i < g->n_ops + g->n_tensors + g->n_barriers; i++) {
        w->of[i].w = w;
        w->of[i].id = i < g->n_ops ? i : i - g->n_ops;
    }
    for (i = 0; i < g->n_ops; i++) {
        g->ops[i].user = &w->of[i];
        for (k = 0; k < g->ops[i].n_forms; k++) {
            if (g->ops[i].view == RMI_NONE) g->ops[i].forms[k].forward = toy_forward;
            g->ops[i].forms[k].backward = toy_backward;
            if (!zero || rmi_mix(zero + i) % 4) continue;
            g->ops[i].forms[k].flags |= RM_ZERO_GRADS;
            g->ops[i].forms[k].n_overs = 0; /* as in rmi_graph_seal */
        }
    }
    for (i = 0; i < g->n_tensors; i++) {
        rmi_tensor *t = &g->tensors[i];
        t->user = &w->of[g->n_ops + i];
        if (t->opt != RMI_INF) t->update = toy_update;
        *most = rmi_max(*most, rmi_max(t->bytes, t->grad_bytes));
    }
    for (i = 0; i < g->n_barriers; i++) {
        g->barriers[i].user = &w->of[g->n_ops + g->n_tensors + i];
        g->barriers[i].fn = toy_barrier;
    }
    w->tmp = (unsigned char *)malloc(2 * (size_t)*most);
    return w->tmp != NULL;
}

RMI_UNUSED static void toy_detach(toy_world *w)
{
    free(w->of);
    free(w->tmp);
}

#endif
