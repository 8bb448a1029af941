/* test_profile.c - what rm_exec_profile measures and rm_exec_tune makes of it, by a clock that callbacks move: all that a plan may
   choose is timed, whether the plan at hand runs it or not, and a plan with these times takes exactly as long as it says.

      gcc -std=gnu99 -O1 -g -I. -o build/test_profile tests/unit/test_profile.c -lm && build/test_profile */
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"

#include "../common.h"

static uint64_t clock_ns; /* of the backend below; callbacks move it */
static unsigned slow_calls, host_calls; /* of the variant's forward; of updates in host memory */

enum { LAYERS = 6, N = 1 << 14, BYTES = N * 4 };
enum { FWD = 300000, AGAIN = 200000, SLOW = 20000000, DX = 150000, DW = 250000, OPT = 40000, OPT_HOST = 70000, LOSS = 10000, BARRIER = 3000, REDUCE = 9000 };
enum { WORK = 20000 }; /* what plans are made for here does not take a long search */

/* y = x w, element by element. The first input must be what the step has there: its first element is an index. */
static int layer(const rm_call *c, uint64_t ns)
{
    const float *x = (const float *)c->in[0], *w = (const float *)c->in[1];
    float *y = (float *)c->out[0];
    int i;
    if (!(x[0] >= 1 && x[0] <= 2)) return 1;
    clock_ns += ns;
    for (i = 0; i < N; i++) y[i] = x[i] + w[i] * 0;
    if (c->saved) memset(c->saved, 7, (size_t)c->saved_bytes);
    return 0;
}
static int fast_fwd(const rm_call *c)
{
    return layer(c, c->recompute ? AGAIN : FWD);
}
static int slow_fwd(const rm_call *c)
{
    slow_calls++;
    return layer(c, SLOW);
}
static int layer_bwd(const rm_call *c, int slow)
{
    float *dx = (float *)c->din[0], *dw = (float *)c->din[1];
    const float *dy = (const float *)c->dout[0];
    int i;
    if (c->saved && *(const unsigned char *)c->saved != 7) return 2;
    clock_ns += (uint64_t)((dx ? DX : 0) + (dw ? DW : 0)) * (slow ? 50 : 1);
    for (i = 0; i < N; i++) {
        if (dx) dx[i] = dy[i] + (RM_ADDS(c, 0) ? dx[i] : 0);
        if (dw) dw[i] = dy[i] + (RM_ADDS(c, 1) ? dw[i] : 0);
    }
    return 0;
}
static int fast_bwd(const rm_call *c)
{
    return layer_bwd(c, 0);
}
static int slow_bwd(const rm_call *c)
{
    return layer_bwd(c, 1);
}
/* Takes less each time. */
static int easing_bwd(const rm_call *c)
{
    static uint64_t more = 50000000;
    clock_ns += more -= 10000;
    return layer_bwd(c, 0);
}
static int loss_fwd(const rm_call *c)
{
    clock_ns += LOSS;
    *(float *)c->out[0] = ((const float *)c->in[0])[0];
    return 0;
}
static int loss_bwd(const rm_call *c)
{
    int i;
    clock_ns += LOSS;
    for (i = 0; i < N; i++) ((float *)c->din[0])[i] = 1 + (RM_ADDS(c, 0) ? ((float *)c->din[0])[i] : 0);
    return 0;
}
static int update(const rm_call *c)
{
    int i;
    clock_ns += OPT;
    for (i = 0; i < N; i++) ((float *)c->param)[i] -= 0.25f * ((const float *)c->grad)[i];
    if (c->state) ((float *)c->state)[0] += 1;
    return 0;
}
static int update_host(const rm_call *c)
{
    host_calls++;
    clock_ns += OPT_HOST - OPT;
    return update(c);
}
static int barrier(const rm_call *c)
{
    (void)c;
    clock_ns += BARRIER;
    return 0;
}
static int reduce(const rm_call *c)
{
    (void)c;
    clock_ns += REDUCE;
    return 0;
}
static void add(void *to, const void *from, uint64_t bytes, rm_tensor param, void *user)
{
    uint64_t i;
    (void)param;
    (void)user;
    clock_ns += bytes / 4; /* 4 GB a second */
    for (i = 0; i < bytes / 4; i++) ((float *)to)[i] += ((const float *)from)[i];
}
/* y = a + b: both gradients are another name of dy. */
static int sum_fwd(const rm_call *c)
{
    int i;
    clock_ns += LOSS;
    for (i = 0; i < N; i++) ((float *)c->out[0])[i] = ((const float *)c->in[0])[i] + ((const float *)c->in[1])[i] * 0;
    return 0;
}
static int sum_bwd(const rm_call *c)
{
    int i, k;
    for (k = 0; k < 2; k++)
        for (i = 0; c->din[k] && i < N; i++) ((float *)c->din[k])[i] = ((const float *)c->dout[0])[i] + (RM_ADDS(c, k) ? ((float *)c->din[k])[i] : 0);
    clock_ns += LOSS;
    return 0;
}
/* Counts how often it has run, in a const. */
static int count_fwd(const rm_call *c)
{
    float *n = (float *)rm_mut(c, 1);
    clock_ns += LOSS;
    if (n) n[0] += 1;
    memcpy(c->out[0], c->in[0], BYTES);
    return 0;
}

static const rm_kind LAYER = {.name = "layer", .forward = fast_fwd, .backward = fast_bwd, .needs = RM_IN(0) | RM_SAVED};
static const rm_kind VARIANT = {.name = "slow", .forward = slow_fwd, .backward = slow_bwd, .needs = RM_IN(0)};
static const rm_kind LOSS_KIND = {.name = "loss", .forward = loss_fwd, .backward = loss_bwd, .needs = RM_IN(0)};

typedef struct rig {
    rm_graph *g;
    rm_tensor x, w[LAYERS], n;
    rm_plan *p;
    rm_exec *e;
} rig;

enum { WITH_VARIANT = 1, WITH_SUMS = 2, WITH_HOST = 4, WITH_PARTS = 8, WITH_COUNT = 16, WITH_REDUCE = 32, WITH_GIVEN = 64, WITH_SAME = 128 };

static void build(rig *r, int with)
{
    rm_kind k = LAYER, v = VARIANT;
    rm_tensor t;
    int i;
    static const rm_kind SUM = {.name = "sum", .forward = sum_fwd, .backward = sum_bwd, .needs = RM_NOTHING, .share_grad = RM_IN(0) | RM_IN(1)};
    static const rm_kind COUNT = {.name = "count", .forward = count_fwd, .flags = RM_NOGRAD, .mutates = RM_IN(1)};
    memset(r, 0, sizeof *r);
    if (with & WITH_PARTS) {
        k.part[0] = v.part[0] = (rm_part){.name = "dx", .grads = RM_IN(0), .needs = RM_IN(0)};
        k.part[1] = v.part[1] = (rm_part){.name = "dw", .grads = RM_IN(1), .needs = RM_IN(0) | RM_SAVED};
        v.part[1].needs = RM_IN(0);
    }
    if (with & WITH_SAME) {
        k.backward = v.backward = easing_bwd;
        k.needs = v.needs = RM_IN(0);
    }
    r->g = rm_graph_create(NULL);
    if (with & WITH_HOST) rm_graph_link(r->g, 1000000000u, 1000000000u, 1000, 0);
    t = r->x = rm_input_add(r->g, "x", BYTES, RM_INPUT_GRAD);
    r->n = rm_const_add(r->g, "n", 4, 0);
    if (with & WITH_COUNT) t = RM_OP(r->g, &COUNT, .in = {t, r->n});
    for (i = 0; i < LAYERS; i++) {
        rm_tensor y;
        rm_block_begin(r->g, "l");
        r->w[i] = RM_PARAM(r->g, .name = "w", .bytes = BYTES, .state_bytes = BYTES, .update = update, .update_host = with & WITH_HOST ? update_host : NULL, .reduce_ns = with & WITH_REDUCE ? 1 : 0);
        y = RM_OP(r->g, &k, .name = "fc", .in = {t, r->w[i]}, .saved = 4 * BYTES, .fwd_ns = with & WITH_GIVEN ? 100 : 0, .bwd_ns = with & WITH_GIVEN ? 200 : 0);
        if (with & WITH_VARIANT) rm_variant_add(r->g, y, &v, &(rm_op_desc){.saved = RM_EMPTY, .fwd_ns = with & WITH_GIVEN ? 90 : 0, .bwd_ns = with & WITH_GIVEN ? 180 : 0});
        t = with & WITH_SUMS ? RM_OP(r->g, &SUM, .name = "sum", .in = {t, y}) : y;
        rm_block_end(r->g);
    }
    rm_output_add(r->g, RM_OP(r->g, &LOSS_KIND, .in = {t}, .out = {4}));
    if (with & WITH_REDUCE) rm_barrier_add(r->g, "clip", barrier, NULL, 0);
}

static void give(rig *r)
{
    static float v[N];
    int i;
    for (i = 0; i < N; i++) v[i] = 1.5f;
    EXPECT(!rm_exec_write(r->e, r->x, RM_VALUE, 0, v, BYTES), rm_exec_error(r->e));
}

/* --- a backend like the host's */
static uint64_t refused; /* allocations of at least so many bytes; 0: none */
static void *some(size_t n, void *user)
{
    void *p = NULL;
    (void)user;
    return (refused && n >= refused) || posix_memalign(&p, 256, n) ? NULL : p;
}
static void given_back(void *p, void *user)
{
    (void)user;
    free(p);
}
static int some_device(void *user, uint64_t bytes, uint32_t host, void **out)
{
    (void)host;
    *out = some(bytes, user);
    return !*out;
}
static void release_device(void *user, void *p, uint32_t host)
{
    (void)host;
    given_back(p, user);
}
static int copy(void *user, void *to, const void *from, uint64_t n, uint32_t lane)
{
    (void)user;
    (void)lane;
    memcpy(to, from, n);
    return 0;
}
static int fill(void *user, void *to, uint32_t byte, uint64_t n)
{
    (void)user;
    memset(to, (int)byte, n);
    return 0;
}
static int sync_all(void *user)
{
    (void)user;
    return 0;
}
static uint64_t now(void *user)
{
    (void)user;
    return clock_ns;
}
static int measure_link(void *user, uint64_t *h2d, uint64_t *d2h, uint64_t *latency) /* 1: fails, 2: finds nothing */
{
    *h2d = *(int *)user == 2 ? 0 : 3000000000u;
    *d2h = 2000000000u;
    *latency = 500;
    return *(int *)user == 1;
}

static const rm_backend like_host = {.alloc = some_device, .release = release_device, .copy = copy, .fill = fill, .sync = sync_all, .now = now};

static void open_rig(rig *r, int with, const rm_plan_desc *d, const rm_backend *b)
{
    const rm_exec_desc e = {.backend = b, .add = add, .reduce = with & WITH_REDUCE ? reduce : NULL};
    build(r, with);
    EXPECT(!rm_plan_create(r->g, d, &r->p) && !rm_exec_create(r->p, &e, &r->e), rm_graph_error(r->g));
    give(r);
}
static void close_rig(rig *r) { rm_exec_destroy(r->e), rm_plan_destroy(r->p), rm_graph_destroy(r->g); }

static uint64_t step(rig *r, uint32_t kind)
{
    uint64_t begin;
    give(r);
    begin = clock_ns;
    EXPECT(!rm_exec_step(r->e, &(rm_step){.kind = kind}), rm_exec_error(r->e));
    return clock_ns - begin;
}

static char *summary(rig *r, tm_text *t)
{
    memset(t, 0, sizeof *t);
    EXPECT(!rm_plan_summary(r->p, tm_sink, t), rm_graph_error(r->g));
    return t->s;
}

/* A slow variant whose guess is better than the op's own: the step is slow. Tuned, it is fast, and takes what the plan says. */
static void slow_variant(int with)
{
    rig r;
    rm_plan_desc d = {.work_limit = WORK};
    rm_plan_info info;
    tm_text t;
    open_rig(&r, WITH_VARIANT | with, &d, &like_host);
    rm_plan_get_info(r.p, 0, &info);
    EXPECT(info.estimated == (with & WITH_GIVEN ? LAYERS : 2 * LAYERS) + 1, "costs are guesses at first");
    EXPECT(step(&r, RM_SINGLE) > 6 * (uint64_t)SLOW, "the slow variant has the better guess");
    give(&r);
    EXPECT(!rm_exec_tune(r.e, &d, NULL, 3, &r.p), rm_exec_error(r.e));
    rm_plan_get_info(r.p, 0, &info);
    EXPECT(info.estimated == 0 && info.measured == 2 * LAYERS + 1 && info.spread_ppm == 0 && !info.loaded, summary(&r, &t));
    EXPECT(!strstr(t.s, "estimated") && strstr(t.s, "measured, varying by 0.0 %\n"), t.s);
    free(t.s);
    EXPECT(info.time_ns == LAYERS * (FWD + DX + DW + OPT) + 2 * LOSS, "the plan has the times of the fast one");
    EXPECT(step(&r, RM_SINGLE) == info.time_ns && step(&r, RM_SINGLE) == info.time_ns, "and they are those of the step");
    d.device_bytes = info.arena_bytes * 2 / 3;
    give(&r);
    EXPECT(!rm_exec_tune(r.e, &d, NULL, 1, &r.p), rm_exec_error(r.e));
    rm_plan_get_info(r.p, 0, &info);
    EXPECT(info.recomputed_runs && step(&r, RM_SINGLE) == info.time_ns, "within a budget, too, recomputations included");
    close_rig(&r);
}

/* A variant with the same backward has the same time for it, however times vary: else noise would choose the variant. */
static void same_call(void)
{
    rig r;
    rm_plan_desc d = {.work_limit = WORK};
    rm_plan_info info;
    tm_text t;
    memset(&t, 0, sizeof t);
    open_rig(&r, WITH_VARIANT | WITH_SAME, &d, &like_host);
    EXPECT(!rm_exec_tune(r.e, &d, NULL, 3, &r.p) && !rm_graph_write(r.g, tm_sink, &t), rm_exec_error(r.e));
    EXPECT(strstr(t.s, "variant l[0]/fc slow saved=0 fwd=20000000\n"), t.s); /* a time that is the op's own is not written again */
    rm_plan_get_info(r.p, 0, &info);
    EXPECT(info.spread_ppm > 100 && info.spread_ppm < 10000, "times that vary have a spread");
    free(t.s);
    close_rig(&r);
}

/* What the plan does not run is timed by class, all layers in one, and what takes long not more often than was asked for. */
static void few_calls(void)
{
    enum { REPEATS = 3, OFTEN = 8 };
    rig r;
    rm_plan_desc d = {.work_limit = WORK, .preset = "noremat"};
    char said[60];
    open_rig(&r, WITH_VARIANT | WITH_HOST, &d, &like_host);
    slow_calls = host_calls = 0;
    EXPECT(!rm_exec_profile(r.e, NULL, REPEATS), rm_exec_error(r.e));
    sprintf(said, "%u of the slow forward, %u of the update", slow_calls, host_calls);
    EXPECT(slow_calls > REPEATS && slow_calls <= LAYERS * (REPEATS + 1), said);
    EXPECT(host_calls > REPEATS && host_calls <= REPEATS * OFTEN + 1, said);
    close_rig(&r);
}

/* Where there is no memory beside the arena a variant has no time: its guess is then as wrong as that of the op itself was. */
static void no_room(int with)
{
    rig r;
    rm_plan_desc d = {.work_limit = WORK};
    rm_plan_info info;
    tm_text t;
    uint64_t thought, guess;
    open_rig(&r, WITH_VARIANT | with, &d, &like_host);
    thought = r.g->ops[0].forms[0].fwd;
    guess = r.g->ops[0].forms[1].fwd;
    d.preset = "noremat"; /* every op as declared: the plan at hand does not run the variant */
    {
        rm_plan *p;
        EXPECT(!rm_plan_create(r.g, &d, &p) && !rm_exec_replan(r.e, p), rm_exec_error(r.e));
        rm_plan_destroy(r.p);
        r.p = p;
    }
    d.preset = NULL;
    give(&r);
    refused = 4096;
    EXPECT(!rm_exec_profile(r.e, NULL, 2), rm_exec_error(r.e));
    refused = 0;
    EXPECT(r.g->ops[0].forms[0].fwd == FWD && r.g->ops[0].forms[0].parts[0].bwd == DX + DW, "the op itself has been measured");
    EXPECT(r.g->ops[0].forms[1].fwd == (guess * FWD + thought - 1) / thought, "the variant is as much slower");
    rm_plan_destroy(r.p);
    EXPECT(!rm_plan_create(r.g, &d, &r.p), rm_graph_error(r.g));
    rm_plan_get_info(r.p, 0, &info);
    EXPECT(info.estimated == LAYERS && info.measured, "that is told");
    EXPECT(strstr(summary(&r, &t), "(estimated costs)") && strstr(t.s, "; not measured: 6\n  guessed    l[0]/fc l[1]/fc"), t.s);
    free(t.s);
    EXPECT(!rm_exec_replan(r.e, r.p), rm_exec_error(r.e));
    give(&r);
    EXPECT(!rm_exec_profile(r.e, NULL, 2), rm_exec_error(r.e)); /* and now there is room */
    EXPECT(r.g->ops[0].forms[1].fwd == SLOW && !r.g->costs.estimated, "with room it has a time");
    close_rig(&r);
}

/* First run and recomputation are told apart, gradients that are another name have a time where they cannot be, parts each their own,
   consts that runs change are as they were. */
static void apart(void)
{
    rig r;
    rm_plan_desc d = {.work_limit = WORK};
    rm_plan_info info;
    float n = 0;
    uint64_t took;
    char more[80];
    int with, k;
    for (with = 0; with < 2; with++) {
        open_rig(&r, WITH_SUMS | WITH_COUNT | WITH_VARIANT | (with ? WITH_PARTS : 0), &d, &like_host);
        step(&r, RM_SINGLE);
        give(&r);
        EXPECT(!rm_exec_profile(r.e, NULL, 2), rm_exec_error(r.e));
        EXPECT(!rm_exec_read(r.e, r.n, RM_VALUE, 0, &n, 4) && n == 1, "a step was made, and no more");
        EXPECT(r.g->ops[3].forms[0].fwd == FWD && r.g->ops[3].forms[0].again == AGAIN, "the op itself");
        EXPECT(r.g->ops[3].forms[1].fwd == SLOW && r.g->ops[3].forms[1].again == SLOW, "its variant");
        EXPECT(r.g->ops[0].forms[0].fwd == LOSS && r.g->ops[4].forms[0].parts[0].bwd == LOSS, "what counts, and sums");
        for (k = 0; k < 2 && with; k++) {
            const rmi_part *p = r.g->ops[3].forms[k].parts;
            EXPECT(p[0].bwd == (uint64_t)DX * (k ? 50 : 1) && p[1].bwd == (uint64_t)DW * (k ? 50 : 1), "parts of the backward");
        }
        {
            rm_plan *p;
            EXPECT(!rm_plan_create(r.g, &d, &p) && !rm_exec_replan(r.e, p), rm_exec_error(r.e));
            rm_plan_destroy(r.p);
            r.p = p;
        }
        rm_plan_get_info(r.p, 0, &info);
        took = step(&r, RM_SINGLE);
        sprintf(more, "%u, %u for %u", info.estimated, (unsigned)took, (unsigned)info.time_ns);
        EXPECT(info.estimated == 0 && took == info.time_ns, more);
        close_rig(&r);
    }
}

/* Updates on both sides, additions, reductions, the barrier; in each kind of step that was planned. */
static void sides(void)
{
    static const uint32_t steps[] = {RM_SINGLE, RM_FIRST | RM_MIDDLE | RM_LAST | RM_FORWARD, RM_FORWARD};
    rig r;
    rm_plan_info info;
    tm_text before, after;
    int i, k;
    for (i = 0; i < 6; i++) {
        rm_plan_desc d = {.steps = steps[i % 3], .host_bytes = (uint64_t)1 << 30, .work_limit = WORK};
        if (i >= 3) d.preset = "offmate";
        open_rig(&r, WITH_HOST | WITH_REDUCE, &d, &like_host);
        memset(&before, 0, sizeof before);
        memset(&after, 0, sizeof after);
        if (steps[i % 3] != RM_FORWARD) step(&r, i % 3 ? RM_FIRST : RM_SINGLE);
        EXPECT(!rm_exec_save(r.e, tm_sink, &before), rm_exec_error(r.e));
        give(&r);
        EXPECT(!rm_exec_tune(r.e, &d, NULL, 2, &r.p), rm_exec_error(r.e));
        EXPECT(!rm_exec_save(r.e, tm_sink, &after) && before.n == after.n && !memcmp(before.s, after.s, before.n), "what persists is as it was");
        free(before.s), free(after.s);
        for (k = 0; k < LAYERS; k++) {
            const rmi_tensor *t = &r.g->tensors[rmi_graph_index(r.w[k])];
            EXPECT(t->opt == OPT && t->opt_host == OPT_HOST, "updates on both sides");
            EXPECT(t->reduce == (i % 3 == 2 ? 1 : REDUCE), "reductions");
        }
        EXPECT(i % 3 == 2 || r.g->barriers[0].ns == BARRIER, "the barrier");
        EXPECT(r.g->link.add == 4000000000u && r.g->link.tier[0].h2d == 1000000000u, "additions");
        EXPECT(i % 3 == 2 || r.g->ops[0].forms[0].parts[0].bwd == DX + DW, "backwards");
        EXPECT(i % 3 != 2 || r.g->ops[0].forms[0].parts[0].bwd_by == RMI_COST_SCALED, "guesses, as wrong as those of forwards were");
        rm_plan_get_info(r.p, 0, &info);
        EXPECT((i % 3 == 2) == (info.estimated != 0), "nothing else takes time");
        close_rig(&r);
    }
}

/* The link, where the backend can measure it; one owner of plans; what fails changes no plan. */
static void tuning(void)
{
    int bad = 0;
    rm_backend b = like_host;
    rm_plan_desc d = {.work_limit = WORK}, tiny = {.device_bytes = 1000};
    rm_plan *p, *none = NULL;
    rig r;
    b.user = &bad;
    b.link = measure_link;
    open_rig(&r, WITH_HOST, &d, &b);
    p = r.p;
    EXPECT(rm_exec_tune(NULL, &d, NULL, 1, &p) == RM_ERROR_ARGUMENT && rm_exec_tune(r.e, &d, NULL, 1, NULL) == RM_ERROR_ARGUMENT, "NULL");
    EXPECT(rm_exec_tune(r.e, &d, NULL, 1, &none) == RM_ERROR_ARGUMENT && strstr(rm_exec_error(r.e), "rm_exec_tune: p is not"), rm_exec_error(r.e));
    EXPECT(rm_exec_tune(r.e, &tiny, NULL, 1, &p) == RM_ERROR_INFEASIBLE && strstr(rm_exec_error(r.e), "Give "), rm_exec_error(r.e));
    EXPECT(p == r.p && r.g->link.tier[0].h2d == 3000000000u && r.g->link.tier[0].d2h == 2000000000u && r.g->link.latency == 500 && r.g->link.add == 4000000000u, "the link was measured");
    step(&r, RM_SINGLE);
    bad = 1;
    give(&r);
    EXPECT(rm_exec_tune(r.e, &d, NULL, 1, &p) == RM_ERROR_BACKEND && strstr(rm_exec_error(r.e), "measuring the link: code 1"), rm_exec_error(r.e));
    bad = 2;
    EXPECT(rm_exec_tune(r.e, &d, NULL, 1, &p) == RM_ERROR_BACKEND && strstr(rm_exec_error(r.e), "measured 0 and 2000000000 bytes"), rm_exec_error(r.e));
    bad = 0;
    step(&r, RM_SINGLE);
    give(&r);
    EXPECT(p == r.p && rm_exec_tune(r.e, NULL, NULL, 1, &r.p) == RM_OK && p != r.p, rm_exec_error(r.e));
    step(&r, RM_SINGLE);
    close_rig(&r);
}

/* --- exchanges of shares: one rank of two, whose other one is made up */
enum { SIZES = 3, LATENCY = 7000, WAITED = 1000000 };
/* 0: latency and half a ns a byte; 1: one of many waits long; 2: the longer the smaller; 3: those of one param wait long in every step */
static int exchange_way;
static uint64_t exchanged;
static double by_the_line; /* the same by this rate and latency */
static const rmi_ranks *line;
static int exchange(const rm_call *c, uint64_t whole, uint64_t share)
{
    static unsigned calls;
    const uint64_t moved = whole - whole / 2;
    const int waits = exchange_way == 1 ? ++calls % 61 == 0 : exchange_way == 3 && !strcmp(c->op, "param.1");
    const uint64_t ns = exchange_way == 2 ? 100000 - moved : LATENCY + moved / 2 + (waits ? WAITED : 0);
    clock_ns += ns;
    exchanged += ns;
    if (line) by_the_line += (double)line->latency + (double)moved * 1e9 / (double)line->rate;
    memset(c->out[0], 0, (size_t)(c->phase == RM_PHASE_GATHER ? whole : share));
    return 0;
}
static int gather(const rm_call *c) { return exchange(c, c->out_bytes[0], c->in_bytes[0]); }
static int scatter(const rm_call *c) { return exchange(c, c->in_bytes[0], c->out_bytes[0]); }
static int touch_fwd(const rm_call *c)
{
    clock_ns += FWD;
    memset(c->out[0], 0, (size_t)c->out_bytes[0]);
    return 0;
}
static int touch_bwd(const rm_call *c)
{
    clock_ns += DX;
    if (c->din[0]) memset(c->din[0], 0, (size_t)c->in_bytes[0]);
    if (c->din[1]) memset(c->din[1], 0, (size_t)c->in_bytes[1]);
    return 0;
}
static int part_of_update(const rm_call *c)
{
    clock_ns += c->param_bytes / 256;
    return 0;
}

/* Layers with weights of so many sizes; times that nobody knows. */
static void build_ranks(rig *r, uint32_t sizes)
{
    static const rm_kind TOUCH = {.name = "touch", .forward = touch_fwd, .backward = touch_bwd, .needs = RM_IN(0) | RM_IN(1)};
    uint32_t i;
    memset(r, 0, sizeof *r);
    r->g = rm_graph_create(NULL);
    rm_graph_ranks(r->g, 2, 123456789, 1, 0);
    r->n = r->x = rm_input_add(r->g, "x", BYTES, 0);
    for (i = 0; i < LAYERS; i++) {
        r->w[i] = RM_PARAM(r->g, .bytes = 8192 * (1 + i % sizes), .state_bytes = 8192, .update = part_of_update, .reduce_ns = RM_FREE_NS);
        r->n = RM_OP(r->g, &TOUCH, .in = {r->n, r->w[i]});
    }
    rm_output_add(r->g, RM_OP(r->g, &LOSS_KIND, .in = {r->n}, .out = {4}));
}

/* A profile of a plan in shares finds what exchanges take, and a plan with that takes as long as it says. */
static void exchanges(void)
{
    const rm_plan_desc d = {.shares = 1, .steps = RM_SINGLE, .work_limit = WORK};
    const rm_exec_desc e = {.backend = &like_host, .gather = gather, .scatter = scatter};
    char more[100];
    for (exchange_way = 0; exchange_way < 4; exchange_way++)
        for (uint32_t sizes = 1; sizes <= SIZES; sizes += 2) {
            rm_plan_info info;
            uint64_t took;
            double apart;
            rig r;
            build_ranks(&r, sizes);
            EXPECT(!rm_plan_create(r.g, &d, &r.p) && !rm_exec_create(r.p, &e, &r.e), rm_graph_error(r.g));
            give(&r);
            EXPECT(!rm_exec_profile(r.e, NULL, 5), rm_exec_error(r.e));
            const rmi_ranks *ranks = &r.g->ranks;
            sprintf(more, "%u sizes, way %d: %llu bytes a second, %llu ns", sizes, exchange_way, (unsigned long long)ranks->rate, (unsigned long long)ranks->latency);
            if (exchange_way < 2 && sizes > 1) EXPECT(ranks->rate == 2000000000u && ranks->latency == LATENCY, more);
            if (sizes == 1) EXPECT(ranks->latency == 0 && ranks->rate > 100, more);
            if (exchange_way == 2 && sizes > 1) EXPECT(ranks->latency > 80000 && ranks->rate > 1000000000000u, more);
            exchanged = 0, by_the_line = 0, line = ranks;
            step(&r, RM_SINGLE);
            line = NULL;
            sprintf(more, "%u sizes, way %d: exchanges %.0f by the line, %llu", sizes, exchange_way, by_the_line, (unsigned long long)exchanged);
            if (exchange_way != 1) EXPECT(by_the_line > 0.999 * (double)exchanged && by_the_line < 1.001 * (double)exchanged, more);
            rm_exec_destroy(r.e), rm_plan_destroy(r.p);
            if (exchange_way == 3) { /* another plan has other exchanges */
                rm_graph_destroy(r.g);
                continue;
            }
            EXPECT(!rm_plan_create(r.g, &d, &r.p) && !rm_exec_create(r.p, &e, &r.e), rm_graph_error(r.g));
            rm_plan_get_info(r.p, 0, &info);
            exchanged = 0;
            took = step(&r, RM_SINGLE);
            apart = exchange_way == 1 ? 0 : (double)exchanged / (double)info.busy_ns[RM_LANE_COMM] - 1;
            sprintf(more, "%llu, by the plan %llu; exchanges %llu, %llu", (unsigned long long)took, (unsigned long long)(info.busy_ns[0] + info.busy_ns[RM_LANE_COMM]), (unsigned long long)exchanged, (unsigned long long)info.busy_ns[RM_LANE_COMM]);
            EXPECT(apart < 0.01 && apart > -0.01 && info.busy_ns[RM_LANE_COMPUTE] == took - exchanged, more);
            close_rig(&r);
        }
}

/* Ranks that have measured other times agree on their mean, and plan the same. */
static void agreed(void)
{
    const rm_plan_desc d = {.shares = 1, .steps = RM_SINGLE, .work_limit = WORK};
    tm_text text[2];
    uint64_t *ns[2];
    size_t n = 0, k;
    rig r[2];
    int i;
    memset(text, 0, sizeof text);
    for (i = 0; i < 2; i++) {
        build_ranks(&r[i], SIZES);
        n = rm_graph_costs(r[i].g, NULL, 0);
        EXPECT(n == 3 * (LAYERS + 1) + 2 * LAYERS + 2, "forward, recomputation, backward; update, reduction; latency, rate");
        ns[i] = (uint64_t *)calloc(n + 1, sizeof **ns);
        EXPECT(rm_graph_costs(r[i].g, ns[i], 0) == n && !ns[i][n], "as many as there are");
        for (k = 0; k < n; k++) ns[i][k] += (uint64_t)i * 1000 * (1 + k % 3);
        EXPECT(rm_graph_costs(r[i].g, ns[i], 1) == n, rm_graph_error(r[i].g));
    }
    EXPECT(rm_graph_costs(NULL, ns[0], 1) == 0 && rm_graph_costs(r[0].g, NULL, 1) == n, "nothing to set");
    for (k = 0; k < n; k++) ns[0][k] = (ns[0][k] + ns[1][k]) / 2;
    for (i = 0; i < 2; i++) {
        EXPECT(rm_graph_costs(r[i].g, ns[0], 1) == n && rm_graph_costs(r[i].g, ns[1], 0) == n, rm_graph_error(r[i].g));
        EXPECT(!memcmp(ns[0], ns[1], (n - 1) * sizeof **ns) && ns[1][n - 1] / 1000000 == ns[0][n - 1] / 1000000, "costs are what they were set to");
        EXPECT(!rm_plan_create(r[i].g, &d, &r[i].p) && !rm_plan_write(r[i].p, 0, tm_sink, &text[i]), rm_graph_error(r[i].g));
    }
    EXPECT(text[0].n == text[1].n && !memcmp(text[0].s, text[1].s, text[0].n), text[1].s);
    ns[0][0] = (uint64_t)1 << 62;
    EXPECT(rm_graph_costs(r[0].g, ns[0], 1) == 0 && strstr(rm_graph_error(r[0].g), "below 2^62 ns"), rm_graph_error(r[0].g));
    for (i = 0; i < 2; i++) free(text[i].s), free(ns[i]), rm_plan_destroy(r[i].p), rm_graph_destroy(r[i].g);
}

/* A variant that does not work here, and that the plan does not run: the message names it. */
static int cannot(const rm_call *c) { return c->phase == RM_PHASE_FORWARD ? 3 : 0; }
static void variant_fails(void)
{
    static const rm_kind ODD = {.name = "odd", .forward = cannot, .backward = slow_bwd, .needs = RM_IN(0)};
    rm_plan *p;
    rig r;
    build(&r, 0);
    rm_variant_add(r.g, rm_graph_find(r.g, "l[2]/fc"), &ODD, &(rm_op_desc){.fwd_ns = 1000000000});
    EXPECT(!rm_plan_create(r.g, NULL, &r.p) && !rm_exec_create(r.p, NULL, &r.e), rm_graph_error(r.g));
    p = r.p;
    step(&r, RM_SINGLE);
    give(&r);
    EXPECT(rm_exec_tune(r.e, NULL, NULL, 1, &r.p) == RM_ERROR_CALLBACK && r.p == p && strstr(rm_exec_error(r.e), "l[2]/fc: its forward, variant odd returned 3;"), rm_exec_error(r.e));
    step(&r, RM_SINGLE);
    close_rig(&r);
}

/* An input and a const in the caller's memory are only read: they may be a file that is mapped so. */
static const void *only_read;
static int copy_not_there(void *user, void *to, const void *from, uint64_t n, uint32_t lane)
{
    EXPECT(to != only_read, "the caller's memory is written");
    return copy(user, to, from, n, lane);
}
static void read_only(void)
{
    static float data[N], table[N], v[N];
    static const rm_kind SUM = {.name = "sum", .forward = sum_fwd, .backward = sum_bwd, .needs = RM_NOTHING};
    const rm_exec_desc e = {.backend = &(rm_backend){.alloc = some_device, .release = release_device, .copy = copy_not_there, .fill = fill, .sync = sync_all, .now = now}};
    const float *both[2] = {data, table};
    rig r;
    rm_tensor n;
    int i;
    for (i = 0; i < N; i++) data[i] = table[i] = 0.5f;
    for (i = 0; i < 2; i++) {
        memset(&r, 0, sizeof r);
        r.g = rm_graph_create(NULL);
        r.x = rm_input_add(r.g, "x", BYTES, RM_EXTERNAL);
        n = rm_const_add(r.g, "n", BYTES, RM_EXTERNAL);
        r.w[0] = RM_PARAM(r.g, .name = "w", .bytes = BYTES, .state_bytes = BYTES, .update = update);
        rm_output_add(r.g, RM_OP(r.g, &LOSS_KIND, .in = {RM_OP(r.g, &SUM, .in = {RM_OP(r.g, &SUM, .in = {r.x, n}), r.w[0]})}, .out = {4}));
        EXPECT(!rm_plan_create(r.g, NULL, &r.p) && !rm_exec_create(r.p, &e, &r.e), rm_graph_error(r.g));
        EXPECT(!rm_exec_bind(r.e, r.x, RM_VALUE, data) && !rm_exec_bind(r.e, n, RM_VALUE, table) && !rm_exec_write(r.e, r.w[0], RM_VALUE, 0, v, BYTES), rm_exec_error(r.e));
        only_read = both[i];
        EXPECT(!rm_exec_tune(r.e, NULL, NULL, 1, &r.p) && !rm_exec_step(r.e, NULL), rm_exec_error(r.e));
        close_rig(&r);
    }
}

/* What reads an input that was never wholly written is neither timed nor checked, as it is not run: zeros would train without a word. */
static void unwritten(void)
{
    static const float v[N] = {1.5f};
    rm_plan *p;
    rig r;
    uint64_t begin = clock_ns;
    build(&r, 0);
    EXPECT(!rm_plan_create(r.g, NULL, &r.p) && !rm_exec_create(r.p, NULL, &r.e), rm_graph_error(r.g));
    p = r.p;
    EXPECT(rm_exec_profile(r.e, NULL, 1) == RM_ERROR_ARGUMENT && strstr(rm_exec_error(r.e), "input x: never written; rm_exec_write it"), rm_exec_error(r.e));
    EXPECT(rm_exec_tune(r.e, NULL, NULL, 1, &r.p) == RM_ERROR_ARGUMENT && r.p == p && strstr(rm_exec_error(r.e), "input x: never written"), rm_exec_error(r.e));
    EXPECT(rm_exec_check(r.e, NULL, NULL) == RM_ERROR_ARGUMENT && strstr(rm_exec_error(r.e), "input x: never written"), rm_exec_error(r.e));
    EXPECT(!rm_exec_write(r.e, r.x, RM_VALUE, 0, v, BYTES / 2), rm_exec_error(r.e));
    EXPECT(rm_exec_tune(r.e, NULL, NULL, 1, &r.p) == RM_ERROR_ARGUMENT && strstr(rm_exec_error(r.e), "input x: only 32768 of its 65536 bytes were written"), rm_exec_error(r.e));
    EXPECT(clock_ns == begin, "no callback was called");
    step(&r, RM_SINGLE);
    give(&r);
    EXPECT(!rm_exec_tune(r.e, NULL, NULL, 1, &r.p), rm_exec_error(r.e));
    close_rig(&r);
}

/* Without lanes copies and updates in host memory take their turn: a plan that counts on more tells so, and the executor's figure is true. */
static int slow_copy(void *user, void *to, const void *from, uint64_t n, uint32_t lane)
{
    if (lane == RM_LANE_H2D || lane == RM_LANE_D2H) clock_ns += 1000 + n; /* as WITH_HOST's link */
    return copy(user, to, from, n, lane);
}
static void no_lanes(void)
{
    static const char *const presets[] = {"stream", "link", NULL, "noremat"};
    rm_backend b = like_host;
    unsigned i;
    b.copy = slow_copy;
    for (i = 0; i < 4; i++) {
        rm_plan_desc d = {.host_bytes = (uint64_t)1 << 30, .preset = presets[i], .work_limit = WORK};
        rm_plan_info info;
        rm_exec_info here;
        char more[80];
        uint64_t took;
        rig r;
        open_rig(&r, WITH_HOST, &(rm_plan_desc){0}, &b);
        rm_plan_get_info(r.p, 0, &info);
        EXPECT(!strstr(rm_plan_notes(r.p), "counts on copies"), rm_plan_notes(r.p));
        if (presets[i] && strcmp(presets[i], "noremat")) d.device_bytes = info.arena_bytes / 4 * 3;
        EXPECT(!rm_exec_tune(r.e, &d, NULL, 1, &r.p), rm_exec_error(r.e));
        rm_plan_get_info(r.p, 0, &info);
        took = step(&r, RM_SINGLE);
        rm_exec_get_info(r.e, &here);
        sprintf(more, "%u, said %u, by the plan %u", (unsigned)took, (unsigned)here.step_ns, (unsigned)info.time_ns);
        EXPECT(took == here.step_ns && (here.step_ns > info.time_ns) == (strstr(rm_plan_notes(r.p), "counts on copies") != NULL), more);
        EXPECT(i >= 2 || took > info.time_ns, "there are copies");
        EXPECT(i < 3 || took == info.time_ns, "there are none");
#if defined(ROCKMATE_THREADS)
        rm_exec_destroy(r.e), r.e = NULL;
        rm_plan_destroy(r.p);
        EXPECT(!rm_plan_create(r.g, &d, &r.p) && !rm_exec_create(r.p, &(rm_exec_desc){.threads = 1, .add = add}, &r.e) && !rm_exec_get_info(r.e, &here), rm_graph_error(r.g));
        rm_plan_get_info(r.p, 0, &info);
        EXPECT(here.step_ns == info.time_ns && !strstr(rm_plan_notes(r.p), "counts on copies"), "lanes in threads are side by side");
#endif
        close_rig(&r);
    }
}

/* Where reductions alone would run beside the computation the note says so, and does not blame host memory. */
static void no_lanes_reductions(void)
{
    rig r;
    open_rig(&r, WITH_REDUCE, &(rm_plan_desc){0}, &like_host);
    EXPECT(strstr(rm_plan_notes(r.p), "counts on reductions") && !strstr(rm_plan_notes(r.p), "host_bytes"), rm_plan_notes(r.p));
    close_rig(&r);
}

/* Which clock tells how long a call took: wall, thread, process, waited, lost. */
static void clocks(void)
{
    static const struct {
        rmi_exe_clock end;
        uint64_t took;
        const char *what;
    } c[] = {
        {{1000000, 0, 0, 0, 0}, 1000000, "no clock of processor time"},
        {{1000000, 990000, 991000, 0, 0}, 990000, "a call that had the processor"},
        {{1000000, 250000, 251000, 0, 3}, 250000, "a call that others took the processor from"},
        {{1000000, 250000, 251000, 1, 0}, 1000000, "a call that slept"},
        {{1000000, 500000, 1900000, 0, 0}, 1000000, "a call of more threads"},
        {{1000, 1300, 1800, 0, 0}, 1000, "a call shorter than it takes to ask"},
    };
    rmi_exe_clock begin;
    unsigned i;
    memset(&begin, 0, sizeof begin);
    for (i = 0; i < sizeof c / sizeof *c; i++) EXPECT(rmi_exe_took(&begin, &c[i].end) == c[i].took, c[i].what);
}

int main(void)
{
    clocks();
    slow_variant(0);
    slow_variant(WITH_PARTS);
    slow_variant(WITH_GIVEN);
    same_call();
    few_calls();
    no_room(0);
    no_room(WITH_GIVEN);
    apart();
    sides();
    tuning();
    exchanges();
    agreed();
    variant_fails();
    read_only();
    unwritten();
    no_lanes();
    no_lanes_reductions();
    return tm_end();
}
