/* test_hostile.c - an unkind user: descriptions that contradict themselves, pointers and functions that are missing, sizes at the
   end of the number line. Each is refused with a message that names the object, or does what the header says.

      gcc -O1 -g -std=gnu99 -I. tests/unit/test_hostile.c -o build/test_hostile && build/test_hostile */
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"

#include "../property/toy.h"

static unsigned long passed, failed;
static rm_graph *g;
static rm_kind K;
static rm_tensor x, w, h;

static void expect(int good, int line, const char *what)
{
    if (good) passed++;
    else {
        failed++;
        printf("line %d: %s: %s\n", line, what, g ? rm_graph_error(g) : "");
    }
}
#define EXPECT(cond) expect((cond) != 0, __LINE__, #cond)

static void begin(void)
{
    g = rm_graph_create(NULL);
    K = toy_kind("k");
    x = rm_input_add(g, "x", 100, 0);
    w = RM_PARAM(g, .name = "w", .bytes = 50, .update = toy_update);
    h = RM_OP(g, &K, .name = "first", .in = {x, w}, .out = {80});
}

static rm_plan *plan(uint32_t align, uint32_t live_only, rm_result want, const char *fragment, int line)
{
    rm_plan *p = NULL;
    rm_result r = rm_plan_create(g, &(rm_plan_desc){.align = align, .live_only = live_only}, &p);
    expect(r == want && !p == (want != RM_OK) && strstr(rm_graph_error(g), fragment), line, "rm_plan_create");
    return p;
}

static void refused(const char *fragment, int line)
{
    rm_plan_destroy(plan(0, 0, RM_ERROR_GRAPH, fragment, line));
    rm_graph_destroy(g);
}

static void wrong_ops(void)
{
    int i;
    char name[16];
    begin();
    K.view = RM_IN(0);
    RM_OP(g, &K, .name = "v", .in = {h}, .flags = RM_EXTERNAL);
    refused("op v: it is a view, so its bytes are those of first; drop RM_EXTERNAL", __LINE__);
    begin();
    RM_OP(g, &K, .name = "b", .in = {h}, .more_in_count = 1);
    refused("op b: more_in_count is 1", __LINE__);
    begin();
    RM_OP(g, &K, .name = "b", .in = {h, w}, .more_in = &h, .more_in_count = SIZE_MAX);
    refused("op b: more_in_count", __LINE__);
    begin();
    RM_OP(g, &K, .name = "b", .in = {h}, .more_out_count = 2);
    refused("op b: more_out_count is 2", __LINE__);
    begin();
    RM_OP(g, &K, .name = "b", .in = {h}, .out = {1, 1}, .more_out = &(uint64_t){1}, .more_out_count = SIZE_MAX);
    refused("op b: more_out_count", __LINE__);
    begin();
    for (i = 0; i <= UINT16_MAX; i++) { /* names are compared with all others: not through the builder's front door */
        if (i > 9 && i < UINT16_MAX - 3) {
            rmi_form *form;
            snprintf(name, sizeof name, "filler%d", i);
            if (rmi_graph_new_form(g, 0, name, &form) != RM_OK) exit(3);
            continue;
        }
        snprintf(name, sizeof name, "v%d", i);
        K.name = name;
        rm_variant_add(g, h, &K, &(rm_op_desc){.fwd_ns = 1});
    }
    EXPECT(strstr(rm_graph_error(g), "op first: it has 65535 variants already"));
    rm_graph_destroy(g);
}

/* Sizes that are legal alone and not when each is rounded up, or counted as often as it lies in memory. */
static void large(void)
{
    begin();
    RM_OP(g, &K, .in = {h, RM_PARAM(g, .name = "huge", .bytes = ((uint64_t)1 << 62) - 4096, .grad_bytes = RM_EMPTY)});
    plan(0, 0, RM_ERROR_ARGUMENT, "are not below 2^62; check the unit", __LINE__);
    plan((uint32_t)1 << 31, 0, RM_ERROR_ARGUMENT, "rounded up to 2147483648 bytes", __LINE__);
    rm_graph_destroy(g);
}

/* Times that are legal alone: a step of them, or three of them, may not be below 2^62 ns any more, and that is no fault of the library. */
static void long_times(void)
{
    static const char *const presets[] = {"noremat", "rotor", "rockmate", "hiremate", "every-block", "link", "blocks", "stream", "offmate"};
    const uint64_t limit = (uint64_t)1 << 62;
    size_t i;
    int k;
    for (i = 0; i < sizeof presets / sizeof presets[0]; i++) {
        rm_tensor t;
        begin();
        K.needs = RM_IN(0);
        t = h;
        for (k = 0; k < 6; k++) t = RM_OP(g, &K, .in = {t}, .out = {4096}, .fwd_ns = limit / 20, .bwd_ns = limit / 20);
        rm_graph_link(g, 1, 1, limit / 32, 0);
        for (k = 0; k < 2; k++) {
            rm_plan *p = NULL;
            rm_plan_info info;
            rm_plan_desc d = {.preset = presets[i], .host_bytes = 1 << 20, .work_limit = 5000, .info = &info};
            rm_result r;
            memset(&info, 0, sizeof info);
            d.device_bytes = k;
            r = rm_plan_create(g, &d, &p);
            if (r == RM_ERROR_INFEASIBLE && info.min_bytes) d.device_bytes = info.min_bytes, r = rm_plan_create(g, &d, &p);
            EXPECT(r == RM_OK ? p && info.time_ns >= info.bound_ns && info.time_ns < limit : r == RM_ERROR_ARGUMENT && strstr(rm_graph_error(g), "2^62 ns or more; check the unit"));
            rm_plan_destroy(p);
        }
        rm_graph_destroy(g);
    }
}

/* Times of parts stand as given, whatever else is unknown. */
static void part_times(void)
{
    rm_plan *p;
    rm_plan_info info;
    begin();
    K.part[0].name = "dx", K.part[0].grads = RM_IN(0);
    K.part[1].name = "dw", K.part[1].grads = RM_IN(1);
    RM_OP(g, &K, .name = "b", .in = {h, w}, .fwd_ns = 1000, .part_ns = {10, 20}, .part_ws = {RM_EMPTY});
    RM_OP(g, &K, .name = "c", .in = {h, w}, .fwd_ns = 1000, .part_ns = {10});
    p = plan(0, 0, RM_OK, "", __LINE__);
    EXPECT(g->ops[1].forms[0].parts[0].bwd == 10 && g->ops[1].forms[0].parts[1].bwd == 20 && g->ops[1].forms[0].whole.bwd == 30);
    EXPECT(g->ops[2].forms[0].parts[0].bwd == 10 && g->ops[2].forms[0].parts[1].bwd > 100);
    EXPECT(rm_plan_get_info(p, 0, &info) == RM_OK && info.estimated);
    rm_plan_destroy(p);
    rm_graph_destroy(g);
}

/* --- gradients of float sums: din[i] += dout, for every input */
static int sum_forward(const rm_call *c)
{
    uint32_t i;
    float s = 0;
    for (i = 0; i < c->n_in; i++) s += *(const float *)c->in[i];
    *(float *)c->out[0] = s;
    return 0;
}
static int sum_backward(const rm_call *c)
{
    uint32_t i;
    for (i = 0; i < c->n_in; i++) {
        float *d = (float *)c->din[i], v = c->dout[0] ? *(const float *)c->dout[0] : 1;
        if (d) *d = RM_ADDS(c, i) ? *d + v : v;
    }
    return 0;
}

/* 40 inputs, of which number 35 has another reader, and number 38 is number 33 again: those from 31 on share a bit. */
static void many_inputs(uint32_t flags, uint64_t zeros)
{
    rm_tensor in[40];
    rm_plan *p;
    rm_exec *e = NULL;
    float v = 1;
    int i;
    g = rm_graph_create(NULL);
    K = toy_kind("sum");
    K.forward = sum_forward;
    K.backward = sum_backward;
    for (i = 0; i < 40; i++) in[i] = i == 38 ? in[33] : rm_input_add(g, NULL, sizeof v, RM_INPUT_GRAD);
    K.zero_grads = zeros;
    h = RM_OP(g, &K, .in = {in[0]}, .out = {sizeof v}, .more_in = in + 1, .more_in_count = 39, .flags = flags);
    K.zero_grads = 0;
    rm_output_add(g, RM_OP(g, &K, .in = {h, in[35]}, .out = {sizeof v}));
    p = plan(0, 0, RM_OK, "", __LINE__);
    EXPECT(rm_exec_create(p, &(rm_exec_desc){.poison = 1}, &e) == RM_OK);
    for (i = 0; i < 40; i++) EXPECT(rm_exec_write(e, in[i], RM_VALUE, 0, &v, sizeof v) == RM_OK);
    EXPECT(rm_exec_step(e, NULL) == RM_OK);
    for (i = 0; i < 40; i++) EXPECT(rm_exec_read(e, in[i], RM_GRAD, 0, &v, sizeof v) == RM_OK && v == (i == 33 || i == 35 || i == 38 ? 2 : 1));
    v = 1;
    for (i = 0; i < 40; i++) EXPECT(rm_exec_write(e, in[i], RM_VALUE, 0, &v, sizeof v) == RM_OK);
    EXPECT(rm_exec_check(e, NULL, NULL) == RM_OK);
    rm_exec_destroy(e);
    rm_plan_destroy(p);
    rm_graph_destroy(g);
}

/* y + y, of a kind that shares its gradients: each share is dout, their sum is not. */
static void repeated_share(void)
{
    rm_tensor in;
    rm_plan *p;
    rm_exec *e = NULL;
    float v = 1;
    g = rm_graph_create(NULL);
    K = toy_kind("sum");
    K.forward = sum_forward;
    K.backward = sum_backward;
    in = rm_input_add(g, "x", sizeof v, RM_INPUT_GRAD);
    h = RM_OP(g, &K, .in = {in});
    K.share_grad = RM_IN(0) | RM_IN(1);
    h = RM_OP(g, &K, .in = {h, h});
    rm_output_add(g, RM_OP(g, &K, .in = {h, in}));
    p = plan(0, 0, RM_OK, "", __LINE__);
    EXPECT(rm_exec_create(p, NULL, &e) == RM_OK && rm_exec_write(e, in, RM_VALUE, 0, &v, sizeof v) == RM_OK);
    EXPECT(rm_exec_step(e, NULL) == RM_OK && rm_exec_read(e, in, RM_GRAD, 0, &v, sizeof v) == RM_OK && v == 3);
    v = 1;
    EXPECT(rm_exec_write(e, in, RM_VALUE, 0, &v, sizeof v) == RM_OK && rm_exec_check(e, NULL, NULL) == RM_OK);
    rm_exec_destroy(e);
    rm_plan_destroy(p);
    rm_graph_destroy(g);
}

/* --- executors */
static void *streamed;
static int note_stream(const rm_call *c)
{
    streamed = c->stream;
    return toy_forward(c);
}
/* Memory aligned as plans want it; where it begins stands before it. */
static int own_alloc(void *user, uint64_t bytes, uint32_t host, void **out)
{
    char *p = (char *)malloc((size_t)bytes + 512), *at;
    (void)user;
    (void)host;
    if (!p) return 1;
    at = p + 512 - (uintptr_t)p % 256;
    ((void **)(void *)at)[-1] = p;
    *out = at;
    return 0;
}
static void own_release(void *user, void *p, uint32_t host)
{
    (void)user;
    (void)host;
    free(((void **)p)[-1]);
}

/* An executor of p on backend b, which is gone when it returns. */
static rm_exec *on_backend(rm_plan *p, rm_backend b, rm_result want, int line)
{
    rm_exec *e = NULL;
    rm_backend *copy = (rm_backend *)malloc(sizeof b);
    rm_exec_desc d;
    if (!copy) exit(3);
    *copy = b;
    memset(&d, 0, sizeof d);
    d.backend = copy;
    expect(rm_exec_create(p, &d, &e) == want && !e == (want != RM_OK), line, "rm_exec_create");
    free(copy);
    return e;
}

static void backends(void)
{
    toy_world world;
    rm_backend b;
    rm_exec *e;
    rm_plan *p, *q;
    rm_step forward;
    memset(&b, 0, sizeof b);
    memset(&forward, 0, sizeof forward);
    forward.kind = RM_FORWARD;
    begin();
    if (!toy_attach(&world, g, 0)) exit(3);
    g->ops[0].forms[0].forward = note_stream;
    p = plan(64, 0, RM_OK, "", __LINE__);
    EXPECT(rm_plan_create(g, &(rm_plan_desc){.steps = RM_SINGLE | RM_FORWARD}, &q) == RM_OK);
    b.stream = &b; /* no functions: the host's, with this stream, after a replan as well */
    e = on_backend(p, b, RM_OK, __LINE__);
    EXPECT(rm_exec_write(e, x, RM_VALUE, 0, &world, 100) == RM_OK && rm_exec_step(e, NULL) == RM_OK && streamed == &b);
    streamed = NULL;
    EXPECT(rm_exec_replan(e, q) == RM_OK && rm_exec_write(e, x, RM_VALUE, 0, &world, 100) == RM_OK);
    EXPECT(rm_exec_step(e, &forward) == RM_OK && streamed == &b);
    EXPECT(rm_exec_write(e, x, RM_VALUE, 0, &world, 100) == RM_OK && rm_exec_profile(e, &forward, 1) == RM_OK);
    rm_exec_destroy(e);
    b.copy = rmi_exe_host_copy;
    on_backend(p, b, RM_ERROR_ARGUMENT, __LINE__);
    EXPECT(strstr(rm_graph_error(g), "set alloc, release, copy, fill and sync"));
    b.alloc = own_alloc;
    b.release = own_release;
    b.fill = rmi_exe_host_fill;
    b.sync = rmi_exe_host_sync;
    e = on_backend(p, b, RM_OK, __LINE__);
    EXPECT(rm_exec_replan(e, q) == RM_OK && rm_exec_replan(e, p) == RM_OK);
    EXPECT(rm_exec_write(e, x, RM_VALUE, 0, &world, 100) == RM_OK && rm_exec_step(e, NULL) == RM_OK);
    EXPECT(rm_exec_profile(e, NULL, 1) == RM_ERROR_ARGUMENT && strstr(rm_exec_error(e), "no clock"));
    rm_exec_destroy(e);
    rm_plan_destroy(q);
    rm_plan_destroy(p);
    rm_graph_destroy(g);
    toy_detach(&world);
}

static void live_only(void)
{
    rm_plan *p, *q;
    rm_exec *e = NULL, *f = NULL;
    toy_world world;
    begin();
    if (!toy_attach(&world, g, 0)) exit(3);
    p = plan(0, 1, RM_OK, "", __LINE__);
    q = plan(0, 0, RM_OK, "", __LINE__);
    EXPECT(rm_exec_create(p, NULL, &e) == RM_ERROR_ARGUMENT && !e && strstr(rm_graph_error(g), "plan without rm_plan_desc.live_only"));
    EXPECT(rm_exec_create(q, NULL, &f) == RM_OK && rm_exec_replan(f, p) == RM_ERROR_ARGUMENT && strstr(rm_exec_error(f), "live_only"));
    EXPECT(rm_exec_write(f, x, RM_VALUE, 0, &world, 100) == RM_OK && rm_exec_step(f, NULL) == RM_OK);
    rm_exec_destroy(f);
    rm_plan_destroy(p);
    rm_plan_destroy(q);
    rm_graph_destroy(g);
    toy_detach(&world);
}

int main(void)
{
    wrong_ops();
    large();
    long_times();
    part_times();
    many_inputs(0, 0);
    many_inputs(RM_ZERO_GRADS, 0);
    many_inputs(0, RM_IN(31) | RM_IN(3));
    many_inputs(0, RM_IN(30));
    repeated_share();
    backends();
    live_only();
    printf("%lu passed, %lu failed, 0 skipped\n", passed, failed);
    return failed != 0;
}
