/* test_exec.c - executes plans of random graphs with toy kernels (toy.h): every plan gives the same bits as running every
   op once in memory of its own, whatever the budget, the preset, the kinds of steps, the memory it runs in; no byte outside is touched and nothing is allocated.

      g++ -std=c++17 -O2 -c -I. -o build/replay.o tests/oracle/replay.cpp && gcc -O1 -g -std=gnu99 -I. -c -o build/test_exec.o tests/property/test_exec.c &&
     g++ -o build/test_exec build/test_exec.o build/replay.o -lm && build/test_exec [GRAPHS [FIRST-SEED]] */
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"

#include "../common.h"
#include "../oracle/plan.h"
#include "randgraph.h"
#include "toy.h"

#if defined(__unix__) || defined(__APPLE__)
#include <sys/mman.h>
#define GUARD_PAGES 1
#endif

#define MOST_TOLD 25
#define CANARY 0xA5
#define EDGE 64

static unsigned long passed, failed, skipped, runs;
static char where[400];

static int expect(int good, const char *what, const char *more)
{
    if (good) passed++;
    else if (++failed <= MOST_TOLD) printf("%s: %s%s%s\n", where, what, more ? ": " : "", more ? more : "");
    return good;
}

/* --- an allocator that counts */
static long allocs, live_allocs;
static void *count_alloc(size_t n, void *user)
{
    (void)user;
    allocs++;
    live_allocs++;
    return malloc(n);
}
static void count_free(void *p, void *user)
{
    (void)user;
    if (p) live_allocs--;
    free(p);
}

/* --- memory for an arena, with pages (or canaries) around it that nobody may touch */
typedef struct guarded {
    unsigned char *base, *p;
    size_t total, size, from, to; /* canaries lie in [from, p) and [p + size, to) */
} guarded;

static int guard_make(guarded *m, size_t size, size_t align, int at_end)
{
    size_t page = 65536, body = (size + align + page - 1) / page * page, i;
    m->total = body + 2 * page;
    m->size = size;
#ifdef GUARD_PAGES
    m->base = (unsigned char *)mmap(NULL, m->total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
    if (m->base == (unsigned char *)MAP_FAILED) return 0;
    m->from = page;
    m->to = page + body;
#else
    m->base = (unsigned char *)malloc(m->total);
    if (!m->base) return 0;
    m->from = page / 2;
    m->to = page + body + page / 2;
#endif
    m->p = at_end ? m->base + page + body - size : m->base + page;
    m->p -= (uintptr_t)m->p % align;
    for (i = m->from; i < m->to; i++)
        if (m->base + i < m->p || m->base + i >= m->p + size) m->base[i] = CANARY;
#ifdef GUARD_PAGES
    mprotect(m->base, page, PROT_NONE);
    mprotect(m->base + page + body, page, PROT_NONE);
#endif
    return 1;
}

static int guard_whole(const guarded *m)
{
    size_t i;
    for (i = m->from; i < m->to; i++)
        if ((m->base + i < m->p || m->base + i >= m->p + m->size) && m->base[i] != CANARY) return 0;
    return 1;
}

static void guard_drop(guarded *m)
{
#ifdef GUARD_PAGES
    munmap(m->base, m->total);
#else
    free(m->base);
#endif
}

/* --- what is compared after every step */
typedef struct entry {
    uint32_t step, what, tensor;
    int result;
    uint64_t hash;
} entry;

typedef struct record {
    entry *at;
    size_t n, cap;
} record;

static entry *note_new(record *r, uint32_t step, uint32_t tensor, uint32_t what)
{
    entry *e;
    if (r->n == r->cap) {
        r->cap = r->cap ? 2 * r->cap : 256;
        r->at = (entry *)realloc(r->at, r->cap * sizeof(entry));
        if (!r->at) exit(3);
    }
    e = &r->at[r->n++];
    e->step = step;
    e->what = what;
    e->tensor = tensor;
    e->hash = 0;
    e->result = RM_OK;
    return e;
}

/* Is this buffer there after a step of this kind? */
static int looked_at(const rm_graph *g, uint32_t i, uint32_t what, uint32_t kind)
{
    const rmi_tensor *t = &g->tensors[i];
    if (what == RM_VALUE) return t->kind == RMI_PARAM || t->kind == RMI_CONST || t->is_output;
    if (what == RM_STATE) return t->kind == RMI_PARAM && t->state_bytes;
    return t->kind != RMI_ACT && t->consumers.n && kind != RM_FORWARD && (!t->updates || kind == RM_FIRST || kind == RM_MIDDLE);
}

static void note(record *r, rm_exec *x, uint32_t step, uint32_t tensor, uint32_t what, uint64_t bytes)
{
    static unsigned char room[8192];
    entry *e = note_new(r, step, tensor, what);
    rm_tensor t;
    t.id = tensor + 1;
    if (bytes > sizeof room) bytes = sizeof room;
    e->result = rm_exec_read(x, t, what, 0, room, bytes);
    if (e->result == RM_OK) e->hash = toy_hash(1, room, bytes);
}

static void compare(const rm_graph *g, const record *a, const record *b)
{
    static const char *const words[] = {"value", "gradient", "state"};
    char more[400];
    size_t i;
    if (!expect(a->n == b->n, "another number of results", NULL)) return;
    for (i = 0; i < a->n; i++) {
        const entry *x = &a->at[i], *y = &b->at[i];
        if (x->hash == y->hash && x->result == y->result) continue;
        snprintf(more, sizeof more, "after step %u: %s of %.200s (%s, %s)", x->step, words[x->what], g->tensors[x->tensor].name, rm_result_name((rm_result)x->result), rm_result_name((rm_result)y->result));
        expect(0, "another result than running everything plainly", more);
        return;
    }
    passed += (unsigned long)a->n;
}

/* --- running a script of steps */
typedef struct runner {
    rm_graph *g;
    toy_world *w;
    rm_exec *x;
    unsigned char **ext; /* by buffer: the caller's memory, edges around it */
    uint64_t seed;
    uint32_t done;       /* steps of the script so far */
} runner;

static void put_inputs(runner *r, uint32_t number)
{
    static unsigned char room[8192];
    uint32_t i;
    for (i = 0; i < r->g->n_tensors; i++) {
        rm_tensor t;
        t.id = i + 1;
        if (r->g->tensors[i].kind != RMI_INPUT || r->g->tensors[i].bytes > sizeof room) continue;
        toy_fill(room, r->g->tensors[i].bytes, rmi_mix(r->seed + 1000 * number) + i);
        expect(rm_exec_write(r->x, t, RM_VALUE, 0, room, r->g->tensors[i].bytes) == RM_OK, "writing an input", rm_exec_error(r->x));
    }
}

static void put_weights(runner *r)
{
    static unsigned char room[8192];
    uint32_t i, what;
    for (i = 0; i < r->g->n_tensors; i++)
        for (what = RM_VALUE; what <= RM_STATE; what += RM_STATE) {
            uint64_t n = rmi_low_bytes(r->g, rmi_low_buf(r->g, (rmi_buf_kind)what, i));
            rm_tensor t;
            t.id = i + 1;
            if (r->g->tensors[i].kind != RMI_PARAM && (r->g->tensors[i].kind != RMI_CONST || what)) continue;
            if (n > sizeof room) continue;
            toy_fill(room, n, rmi_mix(r->seed + 7) + 3 * i + what);
            expect(rm_exec_write(r->x, t, what, 0, room, n) == RM_OK, "writing a weight", rm_exec_error(r->x));
        }
}

static void look(runner *r, uint32_t kind, record *rec)
{
    uint32_t i, what;
    for (i = 0; i < r->g->n_tensors; i++)
        for (what = 0; what < 3; what++)
            if (looked_at(r->g, i, what, kind)) note(rec, r->x, r->done, i, what, rmi_low_bytes(r->g, rmi_low_buf(r->g, (rmi_buf_kind)what, i)));
}

static rm_result step(runner *r, uint32_t kind)
{
    rm_step s;
    memset(&s, 0, sizeof s);
    s.kind = kind;
    s.step = r->done / 2;
    s.micro = r->done;
    s.seed = r->seed;
    put_inputs(r, r->done);
    runs++;
    return rm_exec_step(r->x, &s);
}

static void run_script(runner *r, const uint32_t *kinds, uint32_t n, record *rec)
{
    uint32_t i;
    for (i = 0; i < n; i++) {
        long before = allocs;
        if (!expect(step(r, kinds[i]) == RM_OK, "a step", rm_exec_error(r->x))) return;
        expect(allocs == before, "a step allocated", NULL);
        look(r, kinds[i], rec);
        r->done++;
    }
}

/* --- the same without plan and executor: every tensor has bytes of its own, every op runs once */
typedef struct plainly {
    rm_graph *g;
    toy_world *w;
    unsigned char **buf; /* as rmi_low_buf numbers them */
    uint32_t *given;     /* by tensor: contributions that its gradient holds */
    uint64_t seed;
    uint32_t done;
    rm_step s;
} plainly;

static uint64_t size_of(const rm_graph *g, uint32_t b)
{
    uint32_t i;
    return rmi_low_kind(g, b, &i) == RMI_BUF_SAVED ? g->ops[i].forms[0].saved : rmi_low_bytes(g, b);
}

static void plain_open(plainly *q, rm_graph *g, toy_world *w, uint64_t seed)
{
    uint32_t b, n = rmi_low_buffers(g);
    memset(q, 0, sizeof *q);
    q->g = g;
    q->w = w;
    q->seed = seed;
    w->barrier = 0;
    q->buf = (unsigned char **)calloc(n, sizeof(unsigned char *));
    q->given = (uint32_t *)calloc(g->n_tensors, sizeof(uint32_t));
    for (b = 0; b < n; b++) {
        uint32_t i, what = rmi_low_kind(g, b, &i);
        q->buf[b] = (unsigned char *)calloc((size_t)size_of(g, b) + 1, 1);
        if ((what == RM_VALUE && (g->tensors[i].kind == RMI_PARAM || g->tensors[i].kind == RMI_CONST)) || (what == RM_STATE && g->tensors[i].kind == RMI_PARAM))
            toy_fill(q->buf[b], size_of(g, b), rmi_mix(seed + 7) + 3 * i + what);
    }
}

static void plain_close(plainly *q)
{
    uint32_t b;
    for (b = 0; b < rmi_low_buffers(q->g); b++) free(q->buf[b]);
    free(q->buf);
    free(q->given);
}

static void *plain_value(const plainly *q, uint32_t t)
{
    const rm_graph *g = q->g;
    uint64_t off = 0;
    for (; g->tensors[t].root != t; t = g->ops[g->tensors[t].maker].view) off += g->ops[g->tensors[t].maker].view_offset;
    return q->buf[t] + off;
}

static void *plain_grad(const plainly *q, uint32_t t) { return q->buf[rmi_low_buf(q->g, RMI_BUF_GRAD, t)]; }

/* The forward of an op, or part p of its backward. */
static void plain_op(plainly *q, uint32_t o, const rmi_part *p)
{
    const rm_graph *g = q->g;
    const rmi_op *op = &g->ops[o];
    const rmi_form *f = &op->forms[0];
    const void *in[64];
    void *out[64], *din[64];
    const void *dout[64];
    uint64_t in_bytes[64], out_bytes[64];
    rm_call c;
    uint32_t i, k;
    memset(&c, 0, sizeof c);
    memset(din, 0, sizeof din);
    for (i = 0; i < op->in.n; i++) {
        uint32_t t = op->in.at[i];
        in[i] = !p || rmi_list_has(&p->needs, t) ? plain_value(q, t) : NULL;
        in_bytes[i] = g->tensors[t].bytes;
        if (!p || !rmi_list_has(&op->grad_in, t) || !rmi_list_has(&p->grads, t)) continue;
        din[i] = plain_grad(q, t);
        for (k = 0; k < i && op->in.at[k] != t;) k++;
        if (k == i && !q->given[t] && rmi_low_zeroed(f, t)) memset(din[i], 0, (size_t)g->tensors[t].grad_bytes);
        if (k < i || q->given[t] || rmi_low_zeroed(f, t)) c.accum |= RM_IN(i);
    }
    for (i = 0; i < op->out.n; i++) {
        out[i] = !p || rmi_list_has(&p->needs, op->out.at[i]) ? plain_value(q, op->out.at[i]) : NULL;
        out_bytes[i] = g->tensors[op->out.at[i]].bytes;
        dout[i] = p && rmi_list_has(&op->grad_out, op->out.at[i]) ? plain_grad(q, op->out.at[i]) : NULL;
    }
    c.in = in, c.out = out, c.din = din, c.dout = dout, c.in_bytes = in_bytes, c.out_bytes = out_bytes;
    c.n_in = op->in.n, c.n_out = op->out.n;
    c.phase = p ? RM_PHASE_BACKWARD : RM_PHASE_FORWARD;
    c.seed = rmi_mix(rmi_mix(rmi_mix(rmi_mix(q->s.seed) ^ q->s.step) ^ q->s.micro) ^ o);
    c.user = op->user;
    c.step = &q->s;
    c.op = op->name;
    if (f->saved && (!p || p->needs_saved)) {
        c.saved = q->buf[rmi_low_buf(g, RMI_BUF_SAVED, o)];
        c.saved_bytes = f->saved;
    }
    if (p) toy_backward(&c);
    else toy_forward(&c);
    for (i = 0; p && i < op->grad_in.n; i++)
        if (rmi_list_has(&p->grads, op->grad_in.at[i])) q->given[op->grad_in.at[i]]++;
}

static void plain_updates(plainly *q)
{
    const rm_graph *g = q->g;
    const void **in = (const void **)calloc(g->n_tensors, sizeof(void *));
    uint64_t *in_bytes = (uint64_t *)calloc(g->n_tensors, sizeof(uint64_t));
    uint32_t i;
    rm_call c;
    memset(&c, 0, sizeof c);
    c.in = in;
    c.in_bytes = in_bytes;
    for (i = 0; i < g->n_tensors; i++) {
        const rmi_tensor *t = &g->tensors[i];
        if (t->kind != RMI_PARAM || !t->consumers.n) continue;
        c.grad = plain_grad(q, i);
        c.grad_bytes = t->grad_bytes;
        if (t->reduce != RMI_INF) toy_reduce(&c);
        in[c.n_in] = c.grad;
        in_bytes[c.n_in++] = t->grad_bytes;
    }
    for (i = 0; i < g->n_barriers; i++) {
        c.user = g->barriers[i].user;
        toy_barrier(&c);
    }
    for (i = 0; i < g->n_tensors; i++) {
        const rmi_tensor *t = &g->tensors[i];
        if (!t->updates) continue;
        c.user = t->user;
        c.param = q->buf[i];
        c.param_bytes = t->bytes;
        c.grad = plain_grad(q, i);
        c.grad_bytes = t->grad_bytes;
        c.state = t->state_bytes ? q->buf[rmi_low_buf(g, RMI_BUF_STATE, i)] : NULL;
        c.state_bytes = t->state_bytes;
        toy_update(&c);
    }
    free(in);
    free(in_bytes);
}

static void plain_note(plainly *q, record *rec, uint32_t i, uint32_t what)
{
    uint32_t b = rmi_low_buf(q->g, (rmi_buf_kind)what, i);
    entry *e = note_new(rec, q->done, i, what);
    e->hash = toy_hash(1, what == RM_VALUE ? plain_value(q, i) : q->buf[b], rmi_low_bytes(q->g, b));
}

static void plain_script(plainly *q, const uint32_t *kinds, uint32_t n, record *rec)
{
    const rm_graph *g = q->g;
    uint32_t i, k, p;
    for (k = 0; k < n; k++, q->done++) {
        q->s.kind = kinds[k];
        q->s.step = q->done / 2;
        q->s.micro = q->done;
        q->s.seed = q->seed;
        for (i = 0; i < g->n_tensors; i++) {
            if (g->tensors[i].kind == RMI_INPUT) toy_fill(q->buf[i], g->tensors[i].bytes, rmi_mix(q->seed + 1000 * q->done) + i);
            if (kinds[k] != RM_FORWARD && (g->tensors[i].kind != RMI_PARAM || !rmi_low_adds_to_earlier(kinds[k]))) q->given[i] = 0;
        }
        for (i = 0; i < g->n_ops; i++)
            if (g->ops[i].view == RMI_NONE) plain_op(q, i, NULL);
        for (i = g->n_ops; i-- > 0 && kinds[k] != RM_FORWARD;)
            for (p = 0; p < g->ops[i].forms[0].n_parts && g->ops[i].has_bwd; p++)
                if (rmi_low_part_wanted(&g->ops[i], &g->ops[i].forms[0].parts[p])) plain_op(q, i, &g->ops[i].forms[0].parts[p]);
        if (rmi_low_has_update(kinds[k])) plain_updates(q);
        for (i = 0; i < g->n_tensors; i++)
            for (p = 0; p < 3; p++)
                if (looked_at(g, i, p, kinds[k])) plain_note(q, rec, i, p);
    }
}

/* --- executors */
static void bind_all(runner *r)
{
    uint32_t b;
    for (b = 0; b < 3 * r->g->n_tensors; b++) {
        uint64_t n = rmi_low_bytes(r->g, b);
        rm_tensor t;
        uint32_t id, what = rmi_low_kind(r->g, b, &id);
        if (!rmi_low_external(r->g, b) || !n) continue; /* what has no bytes needs no memory */
        r->ext[b] = (unsigned char *)malloc((size_t)n + 2 * EDGE);
        memset(r->ext[b], CANARY, (size_t)n + 2 * EDGE);
        memset(r->ext[b] + EDGE, 0, (size_t)n);
        t.id = id + 1;
        expect(rm_exec_bind(r->x, t, what, r->ext[b] + EDGE) == RM_OK, "rm_exec_bind", rm_exec_error(r->x));
    }
}

static void check_edges(runner *r)
{
    uint32_t b, i;
    for (b = 0; b < 3 * r->g->n_tensors; b++) {
        uint64_t n = rmi_low_bytes(r->g, b);
        int whole = 1;
        if (!r->ext[b]) continue;
        for (i = 0; i < EDGE; i++) whole &= r->ext[b][i] == CANARY && r->ext[b][EDGE + n + i] == CANARY;
        expect(whole, "bytes beside the caller's memory were touched", r->g->tensors[b % r->g->n_tensors].name);
        free(r->ext[b]);
    }
    free(r->ext);
}

static void add_bytes(void *dst, const void *src, uint64_t bytes, rm_tensor param, void *user)
{
    uint64_t i;
    (void)param, (void)user;
    for (i = 0; i < bytes; i++) ((unsigned char *)dst)[i] = (unsigned char)(((unsigned char *)dst)[i] + ((const unsigned char *)src)[i]);
}

static int open_exec(runner *r, rm_graph *g, toy_world *w, uint64_t seed, rm_plan *p, const guarded *m, int poison)
{
    rm_exec_desc d;
    memset(&d, 0, sizeof d);
    memset(r, 0, sizeof *r);
    d.poison = (uint32_t)poison;
    d.reduce = toy_reduce;
    d.add = add_bytes;
    d.allocator.alloc = count_alloc;
    d.allocator.free = count_free;
    if (m) {
        d.device_memory = m->p;
        d.device_memory_bytes = m->size;
    }
    r->g = g;
    r->w = w;
    r->seed = seed;
    w->barrier = 0;
    if (!expect(rm_exec_create(p, &d, &r->x) == RM_OK, "rm_exec_create", rm_graph_error(g))) return 0;
    r->ext = (unsigned char **)calloc(3 * g->n_tensors, sizeof(unsigned char *));
    bind_all(r);
    put_weights(r);
    return 1;
}

static void close_exec(runner *r, const rm_plan *p)
{
    rm_exec_info info;
    (void)p;
    expect(rm_exec_get_info(r->x, &info) == RM_OK && info.touched_bytes <= info.arena_bytes, "rm_exec_get_info", NULL);
    expect(!r->w->wrong[0], "a kernel saw what it should not", r->w->wrong);
    r->w->wrong[0] = 0;
    rm_exec_destroy(r->x);
    check_edges(r);
}

static const uint32_t singles[] = {RM_SINGLE, RM_SINGLE, RM_SINGLE};
static const uint32_t mixed[] = {RM_FIRST, RM_FORWARD, RM_MIDDLE, RM_FORWARD, RM_LAST, RM_SINGLE, RM_FIRST, RM_LAST, RM_FORWARD, RM_SINGLE};
#define N(a) ((uint32_t)(sizeof(a) / sizeof((a)[0])))

static uint64_t with_host; /* memory there for plans that move something */

static rm_plan *plan(rm_graph *g, const char *preset, uint64_t budget, uint32_t steps, uint32_t align, uint64_t *min)
{
    rm_plan_desc d;
    rm_plan_info info;
    rm_plan *p = NULL;
    memset(&d, 0, sizeof d);
    memset(&info, 0, sizeof info);
    d.preset = preset ? preset : "rockmate"; /* the default searches for a second */
    d.host_bytes = with_host;
    d.device_bytes = budget;
    d.steps = steps;
    d.align = align;
    d.info = &info;
    rm_plan_create(g, &d, &p);
    if (p) {
        const char *why = rmtest_plan(g, p, budget, with_host);
        if (why) expect(!*why, "the second referee", why);
        else skipped++;
    }
    if (min) *min = info.min_bytes;
    return p;
}

static uint64_t arena_of(const rm_plan *p)
{
    uint64_t most = 0;
    uint32_t i;
    for (i = 0; i < p->n; i++) most = rmi_max(most, p->prog[i].arena);
    return most;
}

/* One plan, one kind of memory: the same as the reference. */
static void same(rm_graph *g, toy_world *w, uint64_t seed, rm_plan *p, uint32_t align, const uint32_t *kinds, uint32_t n, const record *reference, int memory)
{
    size_t k = strlen(where);
    record rec;
    runner r;
    guarded m;
    int given = memory % 3;
    memset(&rec, 0, sizeof rec);
    snprintf(where + k, sizeof where - k, ", memory %d", memory);
    if (given && !guard_make(&m, (size_t)arena_of(p), align, given == 2)) return;
    if (open_exec(&r, g, w, seed, p, given ? &m : NULL, memory & 1)) {
        run_script(&r, kinds, n, &rec);
        compare(g, reference, &rec);
        close_exec(&r, p);
    }
    if (given) {
        expect(guard_whole(&m), "bytes beside the arena were touched", NULL);
        guard_drop(&m);
    }
    free(rec.at);
    where[k] = 0;
}

typedef tm_text text;

/* Copies of what the caller owns, for save and restore do not know it. */
static void keep_external(const runner *r, unsigned char **copy, int back)
{
    uint32_t b;
    for (b = 0; b < 3 * r->g->n_tensors; b++) {
        size_t n = (size_t)rmi_low_bytes(r->g, b);
        if (!r->ext[b]) continue;
        if (!back) copy[b] = (unsigned char *)malloc(n + 1);
        memcpy(back ? r->ext[b] + EDGE : copy[b], back ? copy[b] : r->ext[b] + EDGE, n);
        if (back) free(copy[b]);
    }
}

/* A callback fails in the middle of the second step; then all goes back to where that began. */
static void interrupted(rm_graph *g, toy_world *w, uint64_t seed, rm_plan *p, const record *reference)
{
    record rec;
    runner r;
    text t;
    unsigned char **copy = (unsigned char **)calloc(3 * g->n_tensors, sizeof(unsigned char *));
    uint64_t calls, barrier;
    memset(&rec, 0, sizeof rec);
    memset(&t, 0, sizeof t);
    if (!open_exec(&r, g, w, seed, p, NULL, 1)) return;
    w->calls = 0;
    run_script(&r, singles, 1, &rec);
    calls = w->calls;
    barrier = w->barrier;
    expect(rm_exec_save(r.x, tm_sink, &t) == RM_OK, "rm_exec_save", rm_exec_error(r.x));
    keep_external(&r, copy, 0);
    w->calls = 0;
    w->fail_at = 1 + rmi_mix(seed) % calls;
    expect(step(&r, RM_SINGLE) == RM_ERROR_CALLBACK, "a failing callback stops the step", rm_exec_error(r.x));
    expect(strstr(rm_exec_error(r.x), w->failed_op) && strstr(rm_exec_error(r.x), w->failed_phase) && strstr(rm_exec_error(r.x), "7"), "the message names op, phase and code", rm_exec_error(r.x));
    expect(w->calls == w->fail_at, "nothing is called after the failure", NULL);
    w->fail_at = 0;
    w->barrier = barrier;
    expect(rm_exec_restore(r.x, t.s, t.n) == RM_OK, "rm_exec_restore", rm_exec_error(r.x));
    expect(t.n < 20 || rm_exec_restore(r.x, t.s, t.n - 1) == RM_ERROR_TEXT, "a state cut short", NULL);
    keep_external(&r, copy, 1);
    run_script(&r, singles, 2, &rec);
    compare(g, reference, &rec);
    close_exec(&r, p);
    free(rec.at);
    free(t.s);
    free(copy);
}

/* Another plan after every step. */
static void replanned(rm_graph *g, toy_world *w, uint64_t seed, rm_plan **plans, uint32_t n_plans, const record *reference)
{
    record rec;
    runner r;
    uint32_t i;
    memset(&rec, 0, sizeof rec);
    if (!open_exec(&r, g, w, seed, plans[0], NULL, 1)) return;
    for (i = 0; i < N(mixed); i++) {
        run_script(&r, mixed + i, 1, &rec);
        expect(rm_exec_replan(r.x, plans[(i + 1) % n_plans]) == RM_OK, "rm_exec_replan", rm_exec_error(r.x));
    }
    compare(g, reference, &rec);
    close_exec(&r, NULL);
    free(rec.at);
}

/* A state goes from one plan into another, into a fresh executor. */
static void moved(rm_graph *g, toy_world *w, uint64_t seed, rm_plan *from, rm_plan *to, const record *reference)
{
    record rec;
    runner r, q;
    text t;
    uint64_t barrier;
    uint32_t b;
    memset(&rec, 0, sizeof rec);
    memset(&t, 0, sizeof t);
    if (!open_exec(&r, g, w, seed, from, NULL, 0)) return;
    run_script(&r, singles, 2, &rec);
    barrier = w->barrier;
    expect(rm_exec_save(r.x, tm_sink, &t) == RM_OK, "rm_exec_save", rm_exec_error(r.x));
    if (open_exec(&q, g, w, seed, to, NULL, 1)) {
        w->barrier = barrier;
        expect(rm_exec_restore(q.x, t.s, t.n) == RM_OK, "rm_exec_restore", rm_exec_error(q.x));
        for (b = 0; b < 3 * g->n_tensors; b++)
            if (q.ext[b]) memcpy(q.ext[b] + EDGE, r.ext[b] + EDGE, (size_t)rmi_low_bytes(g, b));
        q.done = 2;
        run_script(&q, singles, 1, &rec);
        compare(g, reference, &rec);
        close_exec(&q, to);
    }
    close_exec(&r, from);
    free(rec.at);
    free(t.s);
}

/* Additions in host memory round once more, here: they are in another order. */
static int merges(const rm_plan *p)
{
    uint32_t i;
    size_t k;
    for (i = 0; i < p->n; i++)
        for (k = 0; k < p->prog[i].n; k++)
            if (p->prog[i].st[k].what == RMI_MERGE) return 1;
    return 0;
}

/* Plans with copies: half of what keeping everything takes, and less. */
static void moving(rm_graph *g, toy_world *w, uint64_t seed, const char *name, const record *rec)
{
    static const char *const presets[] = {"offmate", "stream", "blocks", "link"};
    uint32_t k, i;
    with_host = (uint64_t)1 << 30;
    for (k = 0; k < 2; k++)
        for (i = 0; i < N(presets); i++) {
            uint64_t min = 0;
            rm_plan *p = plan(g, presets[i], 1, k ? 31 : RM_SINGLE, 0, &min);
            if (!p && min) p = plan(g, presets[i], i ? min : min + min / 3, k ? 31 : RM_SINGLE, 0, NULL);
            sprintf(where, "%s, %s, steps %u, budget %llu", name, presets[i], k ? 31 : 1, (unsigned long long)min);
            if (!expect(p != NULL, "a plan", rm_graph_error(g))) continue;
            if (!k || g->any_order || !merges(p)) same(g, w, seed, p, 256, k ? mixed : singles, k ? N(mixed) : N(singles), &rec[k], (int)((seed + i) % 6));
            else skipped++;
            rm_plan_destroy(p);
        }
    with_host = 0;
}

/* --- all of it for one graph, which toy_attach has seen */
static void exercise(rm_graph *g, toy_world *w, uint64_t seed)
{
    static const char *const presets[] = {"rockmate", "rockmate", "rotor", "every-block", "sqrt", "noremat"};
    static const uint32_t aligns[] = {256, 16, 1, 64, 4096, 8};
    rm_plan *ref[2], *plans[6];
    record rec[2];
    plainly q;
    uint32_t i, k, n = 0;
    char name[120];
    strcpy(name, where);
    for (k = 0; k < 2; k++) { /* 0: three single steps; 1: everything in one plan */
        uint32_t steps = k ? 31 : RM_SINGLE;
        memset(&rec[k], 0, sizeof rec[k]);
        ref[k] = plan(g, "noremat", 0, steps, 0, NULL);
        if (!expect(ref[k] != NULL, "keeping everything", rm_graph_error(g))) return;
        plain_open(&q, g, w, seed);
        plain_script(&q, k ? mixed : singles, k ? N(mixed) : N(singles), &rec[k]);
        plain_close(&q);
        sprintf(where, "%s, keep all, steps %u", name, steps);
        same(g, w, seed, ref[k], 256, k ? mixed : singles, k ? N(mixed) : N(singles), &rec[k], (int)(seed / 6 % 6));
        for (i = 0; i < N(presets); i++) {
            uint32_t align = aligns[(seed + i) % 6];
            uint64_t min = 0, budget;
            rm_plan *p = plan(g, presets[i], 1, steps, align, &min);
            if (!p && min) {
                budget = min + (i == 1 || i == 2 ? (rmi_max(arena_of(ref[k]), min) - min) * i / 3 : 0);
                p = plan(g, presets[i], budget, steps, align, NULL);
            }
            sprintf(where, "%s, %s %u, steps %u, align %u, budget %llu", name, presets[i], i, steps, align, (unsigned long long)min);
            if (!expect(p != NULL, "a plan", rm_graph_error(g))) continue;
            same(g, w, seed, p, align, k ? mixed : singles, k ? N(mixed) : N(singles), &rec[k], (int)((seed + i) % 6));
            if (k == 0 && i == 0) interrupted(g, w, seed, p, &rec[0]);
            if (k == 0 && i == 1) moved(g, w, seed, p, ref[0], &rec[0]);
            if (k == 0) rm_plan_destroy(p);
            else plans[n++] = p;
        }
    }
    sprintf(where, "%s, replanned", name);
    if (n) replanned(g, w, seed, plans, n, &rec[1]);
    for (i = 0; i < n; i++) rm_plan_destroy(plans[i]);
    if (g->has_link && seed % 4 < 2) moving(g, w, seed, name, rec);
    for (k = 0; k < 2; k++) {
        rm_plan_destroy(ref[k]);
        free(rec[k].at);
    }
}

static void random_graph(uint64_t seed)
{
    uint64_t chance = rmi_mix(seed);
    int ops = (int)(1 + chance % 30);
    uint32_t features = chance >> 32 & 1 ? RG_ALL : (uint32_t)rmi_mix(chance);
    rg_text t;
    rm_graph *g = NULL;
    rm_graph_desc d;
    toy_world w;
    memset(&d, 0, sizeof d);
    d.allocator.alloc = count_alloc;
    d.allocator.free = count_free;
    sprintf(where, "seed %llu (%d ops, features %08x)", (unsigned long long)seed, ops, features & ~RG_OPT_HOST);
    rg_ask_more(seed);
    rg_generate(&t, seed, ops, features & ~RG_OPT_HOST);
    if (!t.data) return;
    if (expect(rm_graph_read(t.data, t.size, &d, &g) == RM_OK, "rm_graph_read", g ? rm_graph_error(g) : NULL)) {
        if (toy_attach(&w, g, seed % 3 ? 0 : seed)) exercise(g, &w, seed);
        toy_detach(&w);
    }
    rm_graph_destroy(g);
    expect(!live_allocs, "memory is lost", NULL);
    live_allocs = 0;
    rg_free(&t);
}

/* --- graphs from the builder */
static rm_tensor weight(rm_graph *g, uint64_t bytes, uint32_t flags)
{
    rm_param_desc d;
    memset(&d, 0, sizeof d);
    d.bytes = bytes;
    d.state_bytes = flags & RM_FROZEN ? 0 : bytes;
    d.update = toy_update;
    d.flags = flags;
    return rm_param_add(g, &d);
}

static rm_kind kind(const char *name, uint64_t needs, uint32_t flags)
{
    rm_kind k;
    memset(&k, 0, sizeof k);
    k.name = name;
    k.forward = toy_forward;
    k.backward = toy_backward;
    k.needs = needs;
    k.flags = flags;
    return k;
}

/* A residual network out of everything that kinds can say. */
static rm_tensor build_body(rm_graph *g, rm_tensor x, rm_tensor table)
{
    rm_kind linear = kind("linear", RM_IN(0) | RM_IN(1), RM_ZERO_GRADS), act = kind("act", RM_OUT(0), 0), drop = kind("drop", RM_SAVED, RM_RNG), add = kind("add", RM_NOTHING, 0);
    rm_kind mul = kind("mul", RM_IN(0) | RM_IN(1), 0), norm = kind("norm", 0, 0), head = kind("half", RM_NOTHING, 0), fast = kind("fast", RM_IN(0) | RM_IN(1) | RM_SAVED, 0);
    rm_tensor shared = weight(g, 500, 0);
    int i;
    linear.part[0].name = "dw";
    linear.part[0].grads = RM_IN(1);
    linear.part[0].needs = RM_IN(0) | RM_IN(1);
    linear.part[1].name = "dx";
    linear.part[1].grads = RM_IN(0);
    linear.part[1].needs = RM_IN(1);
    act.inplace = RM_IN(0);
    act.over[0].grad_of = RM_IN(0);
    act.over[0].bytes_of = RM_DOUT;
    act.over[1].grad_of = RM_IN(0);
    act.over[1].bytes_of = RM_OUT(0);
    drop.over[0].grad_of = RM_IN(0);
    drop.over[0].bytes_of = RM_SAVED;
    add.share_grad = RM_IN(0) | RM_IN(1);
    norm.mutates = RM_IN(1);
    norm.needs = RM_IN(0) | RM_SAVED;
    head.view = RM_IN(0);
    head.forward = NULL;
    for (i = 0; i < 4; i++) {
        rm_tensor h, r;
        rm_block_begin(g, "layer");
        h = RM_OP(g, &linear, .name = "fc", .in = {x, i & 1 ? shared : weight(g, 300, 0)}, .out = {600}, .fwd_ns = 100, .part_ns = {60, 70}, .part_ws = {128, 0}, .fwd_ws = 64);
        rm_variant_add(g, h, &fast, &(rm_op_desc){.fwd_ns = 50, .bwd_ns = 300, .saved = 2000});
        h = RM_OP(g, &act, .in = {h}, .fwd_ns = 10, .bwd_ns = 10);
        h = RM_OP(g, &drop, .in = {h}, .saved = 600, .fwd_ns = 10, .bwd_ns = 10);
        h = RM_OP(g, &norm, .in = {h, table}, .saved = 16, .fwd_ns = 20, .bwd_ns = 20);
        r = RM_OP(g, &mul, .in = {h, h}, .fwd_ns = 10, .bwd_ns = 10);
        x = RM_OP(g, &add, .in = {r, h}, .fwd_ns = 5, .bwd_ns = 5);
        x = RM_OP(g, &add, .in = {x, x}, .fwd_ns = 5, .bwd_ns = 5);
        r = RM_OP(g, &head, .in = {x}, .out = {300});
        h = RM_OP(g, &head, .in = {x}, .out = {300}, .view_offset = 300);
        x = RM_OP(g, &mul, .in = {r, h}, .out = {600}, .fwd_ns = 10, .bwd_ns = 10);
        rm_block_end(g);
    }
    return x;
}

static void built_graph(uint64_t seed)
{
    rm_graph *g = rm_graph_create(NULL);
    rm_kind wide = kind("wide", RM_IN(3) | RM_IN(31), RM_ZERO_GRADS), loss = kind("loss", RM_IN(0), 0), split = kind("split", RM_NOTHING, 0);
    rm_tensor x = rm_input_add(g, "x", 600, RM_INPUT_GRAD), table = rm_const_add(g, "stats", 64, 0), in[40], y;
    toy_world w;
    int i;
    sprintf(where, "built graph %llu", (unsigned long long)seed);
    x = build_body(g, x, table);
    for (i = 0; i < 40; i++) in[i] = i % 5 == 4 ? in[i / 2] : i % 3 ? weight(g, (uint64_t)(20 + i), i % 7 == 0 ? RM_FROZEN : 0) : x;
    y = RM_OP(g, &wide, .name = "wide", .more_in = in, .more_in_count = 40, .out = {200}, .fwd_ns = 50, .bwd_ns = 100);
    y = RM_OP(g, &split, .in = {y}, .out = {100, RM_EMPTY, 100}, .fwd_ns = 5, .bwd_ns = 5);
    y = RM_OP(g, &loss, .name = "loss", .in = {rm_op_output(g, y, 2), y}, .out = {4}, .flags = seed & 1 ? RM_EXTERNAL : 0, .fwd_ns = 5, .bwd_ns = 5);
    rm_output_add(g, y);
    rm_barrier_add(g, "clip", toy_barrier, NULL, RM_FREE_NS);
    if (seed & 2) rm_graph_any_order(g);
    if (!expect(rm_graph_result(g) == RM_OK, "the builder", rm_graph_error(g)) || !toy_attach(&w, g, 0)) return;
    exercise(g, &w, seed);
    toy_detach(&w);
    rm_graph_destroy(g);
}

int main(int argc, char **argv)
{
    const unsigned long usual = tm_amount(3, 12);
    unsigned long n = argc > 1 ? strtoul(argv[1], NULL, 10) : usual, i;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    for (i = 0; i < 4 && argc < 3; i += tm_amount(3, 1)) built_graph(i);
    for (i = 0; i < n && tm_more(i); i++) random_graph(first + i);
    printf("%lu graphs, %lu steps\n%lu passed, %lu failed, %lu skipped\n", n, runs, passed, failed, skipped);
    return failed != 0;
}
