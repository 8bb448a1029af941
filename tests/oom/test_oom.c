/* test_oom.c - a whole life of a model in which allocation n fails, for every n: the right result, nothing lost, no crash, and
   once memory is back the same call works.

      gcc -O1 -g -std=gnu99 -I. tests/oom/test_oom.c -o build/test_oom && build/test_oom */
#define ROCKMATE_THREADS
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"

#include "../common.h"
#include "../property/toy.h"
#include "heap.h"

static unsigned long passed, failed;

static int expect(int good, const char *what, const char *more)
{
    if (good) passed++;
    else if (++failed < 25) printf("allocation %ld: %s%s%s\n", heap.fail_at, what, more ? ": " : "", more ? more : "");
    return good;
}

typedef struct text {
    char s[200000];
    size_t n;
} text;
static text state, written, planned;

static int sink(void *user, const char *s, size_t n)
{
    text *t = (text *)user;
    if (t->n + n > sizeof t->s) return 1;
    memcpy(t->s + t->n, s, n);
    t->n += n;
    return 0;
}

typedef struct life {
    rm_graph *g, *h;
    rm_plan *p, *q, *r;
    rm_exec *x;
    toy_world w;
    rm_tensor in, loss;
} life;

/* --- the steps of a life; each can be called again after it failed */
static rm_result make_graph(life *l)
{
    rm_graph_desc d;
    memset(&d, 0, sizeof d);
    d.allocator.alloc = heap_alloc;
    d.allocator.free = heap_free;
    rm_graph_destroy(l->g);
    l->g = rm_graph_create(&d);
    return l->g ? RM_OK : RM_ERROR_MEMORY;
}

static rm_result build(life *l)
{
    static const char *const names[] = {"linear", "act", "loss", "norm"};
    rm_kind k[4];
    rm_tensor x, stats;
    int i;
    memset(k, 0, sizeof k);
    for (i = 0; i < 4; i++) {
        k[i].name = names[i];
        k[i].forward = toy_forward;
        k[i].backward = toy_backward;
    }
    k[0].part[0].name = "dw";
    k[0].part[0].grads = RM_IN(1);
    k[0].part[1].name = "dx";
    k[0].part[1].grads = RM_IN(0);
    k[1].over[0].grad_of = RM_IN(0);
    k[1].over[0].bytes_of = RM_DOUT;
    k[1].inplace = RM_IN(0);
    k[1].needs = RM_OUT(0);
    k[3].mutates = RM_IN(1);
    k[3].needs = RM_IN(0);
    x = l->in = rm_input_add(l->g, "x", 200, RM_INPUT_GRAD);
    stats = rm_const_add(l->g, "stats", 40, 0);
    for (i = 0; i < 3; i++) {
        rm_block_begin(l->g, "layer");
        x = RM_OP(l->g, &k[0], .name = "fc", .in = {x, RM_PARAM(l->g, .bytes = 100, .state_bytes = 50, .update = toy_update, .reduce_ns = 10)}, .out = {400, 8}, .saved = 30);
        rm_variant_add(l->g, x, &k[1], &(rm_op_desc){.fwd_ns = 3});
        x = RM_OP(l->g, &k[1], .in = {x});
        x = RM_OP(l->g, &k[3], .in = {x, stats}, .flags = i == 1 ? RM_RNG : 0);
        rm_block_end(l->g);
    }
    l->loss = RM_OP(l->g, &k[2], .name = "loss", .in = {x}, .out = {4});
    rm_output_add(l->g, l->loss);
    rm_barrier_add(l->g, "clip", toy_barrier, NULL, 10);
    toy_detach(&l->w);
    memset(&l->w, 0, sizeof l->w);
    if (rm_graph_result(l->g) == RM_OK && !toy_attach(&l->w, l->g, 0)) exit(3);
    return rm_graph_result(l->g);
}

static rm_result make_plan(life *l, rm_plan **p, uint64_t budget)
{
    rm_plan_desc d;
    memset(&d, 0, sizeof d);
    d.steps = RM_SINGLE | RM_FIRST | RM_LAST | RM_FORWARD;
    d.device_bytes = budget;
    d.preset = "rockmate";
    return rm_plan_create(l->g, &d, p);
}
static rm_result plan_large(life *l) { return make_plan(l, &l->p, 0); }
static rm_result plan_small(life *l)
{
    rm_plan_info info;
    rm_plan_get_info(l->p, 0, &info);
    return make_plan(l, &l->q, info.arena_bytes * 4 / 5);
}
static rm_result write_graph(life *l)
{
    written.n = 0;
    return rm_graph_write(l->g, sink, &written);
}
static rm_result read_graph(life *l)
{
    rm_graph_desc d;
    memset(&d, 0, sizeof d);
    d.allocator.alloc = heap_alloc;
    d.allocator.free = heap_free;
    rm_graph_destroy(l->h);
    return rm_graph_read(written.s, written.n, &d, &l->h);
}
static rm_result write_plan(life *l)
{
    planned.n = 0;
    return rm_plan_write(l->p, RM_SINGLE, sink, &planned);
}
static rm_result read_plan(life *l)
{
    rm_plan_destroy(l->r);
    return rm_plan_read(l->g, planned.s, planned.n, &l->r);
}
static rm_result summary(life *l)
{
    static text t;
    t.n = 0;
    return rm_plan_summary(l->p, sink, &t);
}
static uint32_t threads;
static long exec_from; /* the first allocation of the executor */
static rm_result make_exec(life *l)
{
    rm_exec_desc d;
    memset(&d, 0, sizeof d);
    d.threads = threads;
    d.reduce = toy_reduce;
    d.poison = 1;
    return rm_exec_create(l->p, &d, &l->x);
}
static rm_result give(life *l)
{
    static const unsigned char x[200] = {1, 2, 3};
    return rm_exec_write(l->x, l->in, RM_VALUE, 0, x, sizeof x);
}
static rm_result run(life *l)
{
    static const uint32_t kinds[] = {RM_SINGLE, RM_FIRST, RM_FORWARD, RM_LAST};
    rm_step s;
    int i;
    memset(&s, 0, sizeof s);
    for (i = 0; i < 4; i++) {
        s.kind = kinds[i];
        RMI_TRY(give(l));
        RMI_TRY(rm_exec_step(l->x, &s));
    }
    return RM_OK;
}
static rm_result save(life *l)
{
    state.n = 0;
    return rm_exec_save(l->x, sink, &state);
}
static rm_result restore(life *l) { return rm_exec_restore(l->x, state.s, state.n); }
static rm_result replan(life *l) { return rm_exec_replan(l->x, l->q); }
static rm_result profile(life *l)
{
    RMI_TRY(give(l));
    return rm_exec_profile(l->x, NULL, 2);
}
static rm_result tune(life *l)
{
    rm_plan_desc d;
    memset(&d, 0, sizeof d);
    d.preset = "noremat";
    d.steps = RM_SINGLE | RM_FIRST | RM_LAST | RM_FORWARD;
    RMI_TRY(give(l));
    return rm_exec_tune(l->x, &d, NULL, 1, &l->q);
}
static rm_result check(life *l)
{
    RMI_TRY(give(l));
    return rm_exec_check(l->x, NULL, NULL);
}

static const struct {
    const char *name;
    rm_result (*fn)(life *l);
} stages[] = {
    {"rm_graph_create", make_graph}, {"building", build}, {"rm_plan_create", plan_large}, {"rm_plan_create, small", plan_small},
    {"rm_graph_write", write_graph}, {"rm_graph_read", read_graph}, {"rm_plan_write", write_plan}, {"rm_plan_read", read_plan},
    {"rm_plan_summary", summary}, {"rm_exec_create", make_exec}, {"steps", run}, {"rm_exec_save", save}, {"rm_exec_restore", restore},
    {"rm_exec_replan", replan}, {"more steps", run}, {"rm_exec_profile", profile}, {"rm_exec_tune", tune}, {"rm_exec_check", check}, {"the last steps", run}};

/* One life; returns whether an allocation failed in it. */
static int live(void)
{
    life l;
    size_t i;
    int hit = 0;
    memset(&l, 0, sizeof l);
    heap.calls = heap.live = 0;
    for (i = 0; i < sizeof stages / sizeof stages[0]; i++) {
        long before = heap.calls;
        int inside;
        if (stages[i].fn == make_exec) exec_from = before + 1;
        rm_result r = stages[i].fn(&l);
        inside = heap.fail_at > before && heap.fail_at <= heap.calls;
        hit |= inside;
        if (inside && r != RM_OK) {
            long fail_at = heap.fail_at;
            expect(r == RM_ERROR_MEMORY || (r == RM_ERROR_BACKEND && (stages[i].fn == make_exec || stages[i].fn == replan || stages[i].fn == tune)), stages[i].name, rm_result_name(r));
            if (stages[i].fn != make_graph) expect(rm_graph_error(stages[i].fn == read_graph ? l.h : l.g)[0] || (l.x && rm_exec_error(l.x)[0]), "no message", stages[i].name);
            heap.fail_at = 0;
            if (rm_graph_result(l.g) == RM_ERROR_MEMORY && l.g && l.g->sticky.result != RM_OK) { /* a half-built graph is given up */
                rm_graph_destroy(l.g);
                l.g = NULL;
                expect(make_graph(&l) == RM_OK && build(&l) == RM_OK, "a graph once memory is back", l.g ? rm_graph_error(l.g) : NULL);
                if (stages[i].fn != build && stages[i].fn != make_graph) expect(stages[i].fn(&l) == RM_OK, "once memory is back", stages[i].name);
            } else expect(stages[i].fn(&l) == RM_OK, "once memory is back", stages[i].name);
            heap.fail_at = fail_at;
            heap.calls = fail_at + 1000000; /* it does not fail again */
        } else if (r != RM_OK) {
            expect(0, stages[i].name, l.x ? rm_exec_error(l.x) : rm_graph_error(l.g));
            break;
        } else passed++;
    }
    rm_exec_destroy(l.x);
    rm_plan_destroy(l.r);
    rm_plan_destroy(l.q);
    rm_plan_destroy(l.p);
    rm_graph_destroy(l.h);
    rm_graph_destroy(l.g);
    toy_detach(&l.w);
    expect(heap.live == 0, "memory is lost", NULL);
    return hit;
}

int main(void)
{
    long n = 1;
    for (; threads < 2; threads++)
        for (n = threads ? exec_from : 1;; n += n > 20 ? (long)tm_amount(23, 3) : 1) { /* with lanes in threads: only from the executor on is it another life */
            heap.fail_at = n;
            if (!live()) break;
        }
    printf("%ld allocations\n%lu passed, %lu failed, 0 skipped\n", n - 1, passed, failed);
    return failed != 0;
}
