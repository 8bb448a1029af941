/* test_api.c - the builder: every mistake is named with its object, the fact and the remedy, and sticks; graphs at the edge of
   what is allowed can be planned and run.

      gcc -O1 -g -std=gnu99 -I. tests/unit/test_api.c -o build/test_api && build/test_api */
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"

#include "../property/toy.h"

static unsigned long passed, failed;

static int expect(int good, int line, const char *what, const char *more)
{
    if (good) passed++;
    else {
        failed++;
        printf("line %d: %s: %s\n", line, what, more ? more : "");
    }
    return good;
}
#define EXPECT(cond) expect((cond) != 0, __LINE__, #cond, g ? rm_graph_error(g) : NULL)

/* --- mistakes: each in a graph that is right without it */
static rm_graph *g;
static rm_kind K;
static rm_tensor x, w, c, h;
static int logged;

static void count_log(void *user, rm_result r, const char *message)
{
    (void)r;
    (void)message;
    ++*(int *)user;
}

static void begin(void)
{
    rm_graph_desc d;
    memset(&d, 0, sizeof d);
    d.log = count_log;
    d.log_user = &logged;
    logged = 0;
    g = rm_graph_create(&d);
    K = toy_kind("linear");
    x = rm_input_add(g, "x", 100, 0);
    w = RM_PARAM(g, .name = "w", .bytes = 50, .update = toy_update);
    c = rm_const_add(g, "c", 10, 0);
    h = RM_OP(g, &K, .name = "first", .in = {x, w}, .out = {80, 20});
}

/* The message has all three fragments; nothing changes it; nothing can be planned. */
static void verdict(int line, rm_result want, const char *object, const char *fact, const char *remedy)
{
    char before[RMI_ERR_TEXT];
    rm_plan_desc d;
    rm_plan *p = NULL;
    rm_result r;
    memset(&d, 0, sizeof d);
    r = rm_plan_create(g, &d, &p);
    strcpy(before, rm_graph_error(g));
    expect(r == want && !p && rm_graph_result(g) == want, line, rm_result_name(r), before);
    expect(strstr(before, object) && strstr(before, fact) && strstr(before, remedy), line, "the message", before);
    expect(logged >= 1, line, "the log got no message", before);
    expect(!rm_input_add(g, "more", 1, 0).id && !rm_param_add(g, NULL).id && !rm_op_output(g, h, 0).id, line, "a builder call after an error", NULL);
    rm_variant_add(g, h, NULL, NULL);
    rm_block_end(g);
    rm_output_add(g, x);
    expect(!strcmp(before, rm_graph_error(g)) && rm_graph_result(g) == want, line, "the first error does not stick", rm_graph_error(g));
    rm_graph_destroy(g);
}

#define WRONG(result, object, fact, remedy, ...)                     \
    do {                                                             \
        begin();                                                     \
        __VA_ARGS__;                                                 \
        verdict(__LINE__, result, object, fact, remedy);             \
    } while (0)
#define BIG ((uint64_t)1 << 62)

static void wrong_tensors(void)
{
    const rm_result G = RM_ERROR_GRAPH;
    char longname[300];
    memset(longname, 'n', sizeof longname);
    longname[299] = 0;
    WRONG(G, "tensor x", "declared twice", "another name", rm_input_add(g, "x", 1, 0));
    WRONG(G, "tensor w", "declared twice", "another name", rm_const_add(g, "w", 1, 0));
    WRONG(G, "tensor first", "declared twice", "another name", RM_PARAM(g, .name = "first", .bytes = 3));
    WRONG(G, "op w", "a tensor has this name", "another name", RM_OP(g, &K, .name = "w", .in = {h, w}));
    WRONG(G, "input y", "0 bytes", "RM_EMPTY", rm_input_add(g, "y", 0, 0));
    WRONG(G, "param y", "0 bytes", "RM_EMPTY", RM_PARAM(g, .name = "y", .update = toy_update));
    WRONG(G, "'a b'", "not a name", "A-Z a-z 0-9", rm_input_add(g, "a b", 1, 0));
    WRONG(G, "''", "not a name", "A-Z a-z 0-9", rm_input_add(g, "", 1, 0));
    WRONG(G, "'none'", "not a name", "neither 'none' nor 'saved'", rm_input_add(g, "none", 1, 0));
    WRONG(G, "'saved'", "not a name", "neither 'none' nor 'saved'", rm_const_add(g, "saved", 1, 0));
    WRONG(G, "'a,b'", "not a name", "A-Z a-z 0-9", rm_input_add(g, "a,b", 1, 0));
    WRONG(G, "nnn", "not a name", "1 to 255", rm_input_add(g, longname, 1, 0));
    WRONG(G, "tensor y", "4611686018427387904 bytes", "below 2^62", rm_input_add(g, "y", BIG, 0));
    WRONG(G, "tensor y", "bytes", "below 2^62", RM_PARAM(g, .name = "y", .bytes = UINT64_MAX - 1));
    WRONG(G, "param y", "state_bytes", "below 2^62", RM_PARAM(g, .name = "y", .bytes = 1, .state_bytes = BIG));
    WRONG(G, "param y", "update_ns", "below 2^62", RM_PARAM(g, .name = "y", .bytes = 1, .update_ns = BIG));
    WRONG(G, "param y", "grad_bytes", "below 2^62", RM_PARAM(g, .name = "y", .bytes = 1, .grad_bytes = BIG));
    WRONG(G, "input y", "a flag", "rm_input_add", rm_input_add(g, "y", 1, RM_FROZEN));
    WRONG(G, "const y", "a flag", "rm_const_add", rm_const_add(g, "y", 1, RM_INPUT_GRAD));
    WRONG(G, "param y", "a flag", "rm_param_add", RM_PARAM(g, .name = "y", .bytes = 1, .flags = RM_ONCE));
    WRONG(RM_ERROR_ARGUMENT, "rm_param_add", "NULL", "pass a rm_param_desc", rm_param_add(g, NULL));
    WRONG(G, "graph", "together", "unit of the largest", rm_input_add(g, "y", BIG - 1, 0), rm_input_add(g, "z", BIG - 1, 0));
}

static void wrong_ops(void)
{
    const rm_result G = RM_ERROR_GRAPH;
    rm_tensor none = {0}, far = {99};
    WRONG(RM_ERROR_ARGUMENT, "rm_op_add", "NULL", "use RM_OP", rm_op_add(g, NULL, NULL));
    WRONG(G, "op first", "declared twice", "another name", RM_OP(g, &K, .name = "first", .in = {x}));
    WRONG(G, "'a b'", "not a name", "A-Z", RM_OP(g, &K, .name = "a b", .in = {x}));
    WRONG(G, "op b", "no usable name", "set rm_kind.name", K.name = NULL, RM_OP(g, &K, .name = "b", .in = {x}));
    WRONG(G, "op b", "input 1 is none", "an earlier call returned", RM_OP(g, &K, .name = "b", .in = {x, none, w}));
    WRONG(G, "op b", "input 1 is none or of another graph", "an earlier call on this graph", RM_OP(g, &K, .name = "b", .in = {x, far}));
    WRONG(G, "op b", "input 1 is none", "an earlier call on this graph", RM_OP(g, &K, .name = "b", .in = {x}, .more_in = &none, .more_in_count = 1));
    WRONG(G, "op b", "no output size", "give .out", RM_OP(g, &K, .name = "b"));
    WRONG(G, "tensor b", "bytes", "below 2^62", RM_OP(g, &K, .name = "b", .in = {x}, .out = {BIG}));
    WRONG(G, "op b", "saved", "below 2^62", RM_OP(g, &K, .name = "b", .in = {x}, .saved = BIG));
    WRONG(G, "op b", "fwd_ns", "below 2^62", RM_OP(g, &K, .name = "b", .in = {x}, .fwd_ns = BIG));
    WRONG(G, "op b", "bwd_ws", "below 2^62", RM_OP(g, &K, .name = "b", .in = {x}, .bwd_ws = BIG));
    WRONG(G, "op b", "a flag", "RM_RNG", RM_OP(g, &K, .name = "b", .in = {x}, .flags = RM_FROZEN));
    WRONG(G, "op b", "RM_IN(2) in 'needs'", "give the input or correct the kind", K.needs = RM_IN(2), RM_OP(g, &K, .name = "b", .in = {x, w}));
    WRONG(G, "op b", "RM_OUT(1) in 'needs'", "give its size", K.needs = RM_OUT(1), RM_OP(g, &K, .name = "b", .in = {x, w}));
    WRONG(G, "op b", "mask 'needs'", "see rm_kind", K.needs = RM_IN(0) | RM_DOUT, RM_OP(g, &K, .name = "b", .in = {x, w}));
    WRONG(G, "op b", "RM_IN(1) in 'inplace'", "1 inputs", K.inplace = RM_IN(1), RM_OP(g, &K, .name = "b", .in = {x}));
    WRONG(G, "op b", "several tensors in 'inplace'", "one of RM_IN", K.inplace = RM_IN(0) | RM_IN(1), RM_OP(g, &K, .name = "b", .in = {x, w}));
    WRONG(G, "op b", "mask 'inplace'", "see rm_kind", K.inplace = RM_SAVED, RM_OP(g, &K, .name = "b", .in = {x, w}));
    WRONG(G, "op b", "RM_IN(3) in 'share_grad'", "correct the kind", K.share_grad = RM_IN(3), RM_OP(g, &K, .name = "b", .in = {x, w}));
    WRONG(G, "op b", "mask 'share_grad'", "see rm_kind", K.share_grad = RM_OUT(0), RM_OP(g, &K, .name = "b", .in = {x, w}));
    WRONG(G, "op b", "mutates w", "rm_const_add", K.mutates = RM_IN(1), RM_OP(g, &K, .name = "b", .in = {x, w}));
    WRONG(G, "op b", "'mutates'", "correct the kind", K.mutates = RM_IN(2), RM_OP(g, &K, .name = "b", .in = {x, c}));
    WRONG(G, "op b", "over.bytes_of", "takes one of RM_DOUT", K.over[0].grad_of = RM_IN(0), RM_OP(g, &K, .name = "b", .in = {h}));
    WRONG(G, "op b", "over.bytes_of", "takes one of RM_DOUT", K.over[0].grad_of = RM_IN(0), K.over[0].bytes_of = RM_DOUT | RM_SAVED, RM_OP(g, &K, .name = "b", .in = {h}));
    WRONG(G, "op b", "several tensors in 'over.grad_of'", "one of RM_IN", K.over[0].grad_of = RM_IN(0) | RM_IN(1), RM_OP(g, &K, .name = "b", .in = {h, w}));
    WRONG(G, "op b", "'view'", "correct the kind", K.view = RM_IN(1), RM_OP(g, &K, .name = "b", .in = {h}));
    WRONG(G, "op b", "ends at byte 90 of first, which has 80", "correct its offset", K.view = RM_IN(0), RM_OP(g, &K, .name = "b", .in = {h}, .out = {40}, .view_offset = 50));
    WRONG(G, "op b", "its view ends", "correct its offset", K.view = RM_IN(0), RM_OP(g, &K, .name = "b", .in = {h}, .out = {40}, .view_offset = UINT64_MAX - 3));
    WRONG(G, "op b", "a view has one output, this has 2", "give one size", K.view = RM_IN(0), RM_OP(g, &K, .name = "b", .in = {h}, .out = {40, 40}));
}

static void wrong_others(void)
{
    const rm_result G = RM_ERROR_GRAPH;
    rm_tensor none = {0};
    WRONG(G, "op b", "gradient of w stands in 0 parts", "exactly one", K.part[0].name = "dx", K.part[0].grads = RM_IN(0), RM_OP(g, &K, .name = "b", .in = {h, w}));
    WRONG(G, "op b", "gradient of w stands in 2 parts", "exactly one", K.part[0].name = "dx", K.part[0].grads = RM_IN(0) | RM_IN(1), K.part[1].name = "dw", K.part[1].grads = RM_IN(1), RM_OP(g, &K, .name = "b", .in = {h, w}));
    WRONG(G, "op b", "part dx is declared twice", "another name", K.part[0].name = "dx", K.part[0].grads = RM_IN(0), K.part[1].name = "dx", K.part[1].grads = RM_IN(1), RM_OP(g, &K, .name = "b", .in = {h, w}));
    WRONG(G, "op b", "part 0", "give it one", K.part[0].grads = RM_IN(0), RM_OP(g, &K, .name = "b", .in = {h}));
    WRONG(G, "op b", "RM_IN(1) in 'part.grads'", "correct the kind", K.part[0].name = "dx", K.part[0].grads = RM_IN(1), RM_OP(g, &K, .name = "b", .in = {h}));
    WRONG(G, "op b", "'part.needs'", "correct the kind", K.part[0].name = "dx", K.part[0].grads = RM_IN(0), K.part[0].needs = RM_OUT(3), RM_OP(g, &K, .name = "b", .in = {h}));
    WRONG(RM_ERROR_ARGUMENT, "rm_variant_add", "NULL", "pass the kind", rm_variant_add(g, h, NULL, NULL));
    WRONG(G, "rm_variant_add", "none or no op makes it", "pass an op's output", rm_variant_add(g, none, &K, NULL));
    WRONG(G, "rm_variant_add", "none or no op makes it", "pass an op's output", rm_variant_add(g, none, &K, &(rm_op_desc){.fwd_ns = 1}));
    WRONG(G, "rm_variant_add", "none or no op makes it", "pass an op's output", rm_variant_add(g, x, &K, &(rm_op_desc){.fwd_ns = 1}));
    WRONG(G, "op first", "variant 'linear' is there already", "rm_kind.name", rm_variant_add(g, h, &K, &(rm_op_desc){.fwd_ns = 1}), rm_variant_add(g, h, &K, &(rm_op_desc){.fwd_ns = 1}));
    WRONG(G, "op first", "RM_IN(2) in 'needs'", "correct the kind", K.name = "fast", K.needs = RM_IN(2), rm_variant_add(g, h, &K, &(rm_op_desc){.fwd_ns = 1}));
    WRONG(G, "rm_op_output", "no output 2", "give its size", rm_op_output(g, h, 2));
    WRONG(G, "rm_op_output", "no op makes", ".out", rm_op_output(g, x, 0));
    WRONG(G, "rm_output_add", "x is no activation", "what RM_OP returned", rm_output_add(g, x));
    WRONG(G, "rm_output_add", "none is no activation", "what RM_OP returned", rm_output_add(g, none));
    WRONG(G, "rm_grad_bytes", "w is no activation", "what RM_OP returned", rm_grad_bytes(g, w, 3));
    WRONG(G, "tensor first", "its gradient", "2^62", rm_grad_bytes(g, h, BIG));
    {
        rm_graph *g = rm_graph_create(NULL);
        rm_grad_bytes(g, RM_OP(g, &(rm_kind){.name = "op"}, .name = "first", .in = {rm_input_add(g, "x", 4, RM_INPUT_GRAD)}), BIG - 1);
        EXPECT(rm_graph_result(g) == RM_OK); /* the largest that is below */
        rm_graph_destroy(g);
    }
    WRONG(G, "block layer", "never ended", "rm_block_end", rm_block_begin(g, "layer"));
    WRONG(G, "block inner", "never ended", "rm_block_end", rm_block_begin(g, "layer"), rm_block_begin(g, "inner"));
    WRONG(G, "rm_block_end", "no block is open", "rm_block_begin", rm_block_end(g));
    WRONG(G, "block 'a b'", "not a name", "A-Z", rm_block_begin(g, "a b"));
    WRONG(G, "barrier clip", "declared twice", "another name", rm_barrier_add(g, "clip", toy_barrier, NULL, 1), rm_barrier_add(g, "clip", toy_barrier, NULL, 1));
    WRONG(G, "barrier 'a b'", "not a name", "2^62", rm_barrier_add(g, "a b", toy_barrier, NULL, 1));
    WRONG(G, "barrier 'clip'", "its time", "2^62", rm_barrier_add(g, "clip", toy_barrier, NULL, BIG));
    WRONG(G, "rm_graph_link", "h2d is 0", "bytes a second", rm_graph_link(g, 0, 1, 0, 0));
    WRONG(G, "rm_graph_link", "declared twice", "bytes a second", rm_graph_link(g, 1, 1, 0, 0), rm_graph_link(g, 1, 1, 0, 0));
    WRONG(G, "graph", "no op", "RM_OP", rm_graph_destroy(g), begin(), rm_graph_destroy(g), g = rm_graph_create(&(rm_graph_desc){.log = count_log, .log_user = &logged}), rm_input_add(g, "y", 1, 0));
}

/* --- what does not stick */
static int give(rm_exec *e);

static void plan_arguments(void)
{
    rm_plan *p = NULL, *late = NULL;
    rm_plan_info info;
    rm_exec *e = NULL;
    toy_world world;
    char byte = 0;
    begin();
    if (!toy_attach(&world, g, 0)) exit(3);
    EXPECT(rm_plan_create(g, &(rm_plan_desc){.preset = "best"}, &p) == RM_ERROR_ARGUMENT && !p && strstr(rm_graph_error(g), "'best' is not known; take one of hiremate"));
    EXPECT(rm_plan_create(g, &(rm_plan_desc){.align = 48}, &p) == RM_ERROR_ARGUMENT && strstr(rm_graph_error(g), "no power of two"));
    EXPECT(rm_plan_create(g, &(rm_plan_desc){.steps = 32}, &p) == RM_ERROR_ARGUMENT && strstr(rm_graph_error(g), "unknown bit"));
    EXPECT(rm_plan_create(g, &(rm_plan_desc){.device_bytes = BIG}, &p) == RM_ERROR_ARGUMENT && strstr(rm_graph_error(g), "2^62"));
    EXPECT(rm_plan_create(g, &(rm_plan_desc){.align = 1}, NULL) == RM_ERROR_ARGUMENT && strstr(rm_graph_error(g), "address of an rm_plan"));
    EXPECT(rm_plan_create(g, NULL, &p) == RM_OK && p); /* as zeros: no limit */
    rm_plan_destroy(p);
    p = NULL;
    EXPECT(rm_plan_create(g, &(rm_plan_desc){.device_bytes = 1 << 20, .device_percent = 50}, &p) == RM_ERROR_ARGUMENT && !p && strstr(rm_graph_error(g), "device_percent: device_bytes is set, too; take one"));
    {
        rm_point points[4];
        rm_plan_desc d = {.device_percent = 100, .align = 1, .preset = "rockmate", .info = &info};
        size_t n = 4;
        EXPECT(rm_plan_create(g, &d, &p) == RM_OK && p && info.budget_bytes == info.keep_all_bytes && info.time_ns == info.keep_all_ns);
        rm_plan_destroy(p);
        p = NULL;
        d.device_percent = 99;
        EXPECT(rm_plan_create(g, &d, &p) == (p ? RM_OK : RM_ERROR_INFEASIBLE) && info.budget_bytes == (99 * info.keep_all_bytes + 99) / 100 && info.arena_bytes <= info.budget_bytes);
        rm_plan_destroy(p);
        p = NULL;
        d.device_percent = 1;
        EXPECT(rm_plan_create(g, &d, &p) == RM_ERROR_INFEASIBLE && !p && info.min_bytes);
        d.device_percent = 100;
        EXPECT(rm_plan_curve(g, &d, points, &n) == RM_OK && n && points[n - 1].arena_bytes <= info.keep_all_bytes);
    }
    EXPECT(rm_plan_create(g, &(rm_plan_desc){.preset = "rockmate", .device_bytes = 1, .info = &info}, &p) == RM_ERROR_INFEASIBLE && !p && info.min_bytes && strstr(rm_graph_error(g), "Give"));
    EXPECT(rm_plan_create(g, &(rm_plan_desc){.preset = "rockmate", .device_bytes = info.min_bytes}, &p) == RM_OK && p);
    EXPECT(rm_plan_get_info(p, RM_LAST, &info) == RM_ERROR_ARGUMENT && strstr(rm_graph_error(g), "no program"));
    EXPECT(rm_plan_get_info(p, 0, &info) == RM_OK && info.step == RM_SINGLE && info.estimated);
    EXPECT(rm_exec_create(p, NULL, &e) == RM_OK && e);
    EXPECT(rm_exec_step(e, &(rm_step){.kind = RM_FIRST}) == RM_ERROR_ARGUMENT && strstr(rm_exec_error(e), "no program for steps of kind 'first'; name it in rm_plan_desc.steps"));
    EXPECT(rm_exec_step(e, &(rm_step){.kind = 3}) == RM_ERROR_ARGUMENT && strstr(rm_exec_error(e), "3 is no kind of step"));
    EXPECT(rm_exec_profile(e, &(rm_step){.kind = RM_LAST}, 1) == RM_ERROR_ARGUMENT && strstr(rm_exec_error(e), "rm_exec_profile: the plan has no program for steps of kind 'last'"));
    EXPECT(rm_exec_read(e, x, RM_GRAD, 0, &byte, 1) == RM_ERROR_ARGUMENT);
    EXPECT(give(e) && rm_exec_step(e, NULL) == RM_OK && rm_exec_read(e, x, RM_GRAD, 0, &byte, 1) == RM_ERROR_ARGUMENT && strstr(rm_exec_error(e), "RM_INPUT_GRAD"));
    EXPECT(rm_exec_read(e, h, RM_GRAD, 0, &byte, 1) == RM_ERROR_ARGUMENT && strstr(rm_exec_error(e), "params and inputs"));
    EXPECT(rm_exec_read(e, h, RM_VALUE, 0, &byte, 1) == RM_ERROR_ARGUMENT && strstr(rm_exec_error(e), "rm_output_add"));
    EXPECT(rm_exec_read(e, x, RM_VALUE, 0, &byte, 1) == RM_ERROR_ARGUMENT && strstr(rm_exec_error(e), "x is an input"));
    EXPECT(rm_exec_write(e, h, RM_VALUE, 0, &byte, 1) == RM_ERROR_ARGUMENT && strstr(rm_exec_error(e), "does not persist"));
    EXPECT(rm_exec_write(e, w, RM_VALUE, 50, &byte, 1) == RM_ERROR_ARGUMENT && strstr(rm_exec_error(e), "bytes 50 to 51"));
    EXPECT(rm_exec_write(e, w, RM_VALUE, UINT64_MAX, &byte, 2) == RM_ERROR_ARGUMENT);
    EXPECT(rm_exec_write(e, w, 7, 0, &byte, 1) == RM_ERROR_ARGUMENT && rm_exec_write(e, w, RM_VALUE, 0, NULL, 1) == RM_ERROR_ARGUMENT);
    EXPECT(rm_exec_bind(e, w, RM_VALUE, &byte) == RM_ERROR_ARGUMENT && strstr(rm_exec_error(e), "RM_EXTERNAL"));
    EXPECT(rm_exec_restore(e, "nonsense", 8) == RM_ERROR_TEXT && rm_exec_restore(e, NULL, 8) == RM_ERROR_ARGUMENT);
    EXPECT(rm_exec_replan(e, NULL) == RM_ERROR_ARGUMENT && rm_exec_pointer(e, w, RM_VALUE) != NULL);
    rm_exec_destroy(e);
    EXPECT(rm_exec_create(p, &(rm_exec_desc){.device_memory_bytes = 1 << 20}, &e) == RM_ERROR_ARGUMENT && !e && strstr(rm_graph_error(g), "device_memory: it is NULL"));
    EXPECT(rm_exec_create(p, &(rm_exec_desc){.host_memory_bytes = 1 << 20}, &e) == RM_ERROR_ARGUMENT && !e && strstr(rm_graph_error(g), "host_memory: it is NULL"));
    EXPECT(rm_exec_create(p, &(rm_exec_desc){.device_memory = &byte, .device_memory_bytes = 1}, &e) == RM_ERROR_ARGUMENT && !e && strstr(rm_graph_error(g), "1 were given"));
    /* a declaration after the plan would be missing from the next one: it sticks; what is there goes on */
    EXPECT(rm_exec_create(p, NULL, &e) == RM_OK && !rm_input_add(g, "late", 1, 0).id && rm_graph_result(g) == RM_ERROR_ARGUMENT && strstr(rm_graph_error(g), "sealed"));
    EXPECT(rm_plan_create(g, &(rm_plan_desc){.preset = "rockmate"}, &late) == RM_ERROR_ARGUMENT && !late && strstr(rm_graph_error(g), "the graph was sealed"));
    EXPECT(give(e) && rm_exec_step(e, NULL) == RM_OK);
    rm_exec_destroy(e);
    rm_plan_destroy(p);
    rm_graph_destroy(g);
    g = NULL;
    toy_detach(&world);
    EXPECT(rm_graph_result(NULL) == RM_ERROR_ARGUMENT && strstr(rm_graph_error(NULL), "the graph is NULL") && rm_exec_error(NULL)[0]);
    late = p;
    EXPECT(rm_plan_create(NULL, NULL, &late) == RM_ERROR_ARGUMENT && !late && rm_plan_read(NULL, "", 0, &late) == RM_ERROR_ARGUMENT);
    EXPECT(!rm_input_add(NULL, "x", 1, 0).id && !rm_op_add(NULL, NULL, NULL).id);
    rm_graph_destroy(NULL);
    rm_plan_destroy(NULL);
    rm_exec_destroy(NULL);
}

/* Handles of another graph are told from this one's, though their numbers are the same. */
static void foreign(void)
{
    rm_plan *p = NULL;
    rm_exec *e = NULL;
    rm_tensor there;
    rm_graph *other;
    char bytes[100] = {0};
    begin();
    other = g, there = x;
    WRONG(RM_ERROR_GRAPH, "op b", "input 1 is none or of another graph", "on this graph", RM_OP(g, &K, .name = "b", .in = {h, there}));
    WRONG(RM_ERROR_GRAPH, "rm_output_add", "a tensor of another graph", "what RM_OP returned", rm_output_add(g, there));
    begin();
    rm_output_add(g, h);
    EXPECT(!rm_tensor_bytes(g, there) && rm_tensor_bytes(other, there) == 100 && !strcmp(rm_tensor_name(g, there), ""));
    if (EXPECT(rm_plan_create(g, &(rm_plan_desc){.preset = "noremat"}, &p) == RM_OK) && EXPECT(rm_exec_create(p, NULL, &e) == RM_OK)) {
        EXPECT(rm_exec_write(e, there, RM_VALUE, 0, bytes, 100) == RM_ERROR_ARGUMENT && strstr(rm_exec_error(e), "of another graph"));
        EXPECT(rm_exec_write(e, x, RM_VALUE, 0, bytes, 100) == RM_OK && !rm_exec_pointer(e, there, RM_VALUE));
        EXPECT(rm_exec_write(e, (rm_tensor){.id = x.id}, RM_VALUE, 0, bytes, 100) == RM_OK); /* a bare number: of any */
    }
    rm_exec_destroy(e);
    rm_plan_destroy(p);
    rm_graph_destroy(g);
    rm_graph_destroy(other);
}

/* A callback that is missing is told when the executor is made. */
static void missing_callbacks(void)
{
    rm_kind k = toy_kind("bare");
    rm_plan *p = NULL;
    rm_exec *e = NULL;
    begin();
    k.backward = NULL;
    RM_OP(g, &k, .name = "b", .in = {h});
    EXPECT(rm_plan_create(g, &(rm_plan_desc){.preset = "rockmate", .align = 1}, &p) == RM_OK);
    EXPECT(rm_exec_create(p, NULL, &e) == RM_ERROR_ARGUMENT && strstr(rm_graph_error(g), "op b") && strstr(rm_graph_error(g), "RM_NOGRAD"));
    rm_plan_destroy(p);
    rm_graph_destroy(g);
}

/* --- the edge of what is allowed: planned at the least budget and run */
/* Gives every input anew: a step uses them up. */
static int give(rm_exec *e)
{
    static const char bytes[256];
    uint32_t i;
    for (i = 0; i < g->n_tensors; i++) {
        rm_tensor t;
        t.id = i + 1;
        if (g->tensors[i].kind == RMI_INPUT && !g->tensors[i].external && g->tensors[i].bytes <= sizeof bytes && rm_exec_write(e, t, RM_VALUE, 0, bytes, g->tensors[i].bytes)) return 0;
    }
    return 1;
}

static void works(int line)
{
    rm_plan *p = NULL;
    rm_exec *e = NULL;
    rm_plan_info info;
    toy_world world;
    memset(&info, 0, sizeof info);
    expect(rm_graph_result(g) == RM_OK, line, "the builder", rm_graph_error(g));
    if (!toy_attach(&world, g, 0)) exit(3);
    if (rm_plan_create(g, &(rm_plan_desc){.preset = "rockmate", .device_bytes = 1, .info = &info, .steps = 31}, &p) != RM_OK)
        expect(rm_plan_create(g, &(rm_plan_desc){.preset = "rockmate", .device_bytes = info.min_bytes, .steps = 31}, &p) == RM_OK, line, "a plan", rm_graph_error(g));
    if (p && expect(rm_exec_create(p, NULL, &e) == RM_OK, line, "an executor", rm_graph_error(g))) {
        expect(give(e) && rm_exec_step(e, NULL) == RM_OK, line, "a step", rm_exec_error(e));
        expect(give(e) && rm_exec_step(e, &(rm_step){.kind = RM_FORWARD}) == RM_OK, line, "a forward step", rm_exec_error(e));
        expect(give(e) && rm_exec_step(e, &(rm_step){.kind = RM_FIRST}) == RM_OK && give(e) && rm_exec_step(e, &(rm_step){.kind = RM_LAST}) == RM_OK, line, "an accumulation", rm_exec_error(e));
        expect(!world.wrong[0], line, "a kernel saw what it should not", world.wrong);
    }
    rm_exec_destroy(e);
    rm_plan_destroy(p);
    rm_graph_destroy(g);
    toy_detach(&world);
}

static void edges(void)
{
    rm_tensor t, many[100];
    int i;
    g = rm_graph_create(NULL);
    K = toy_kind("one");
    RM_OP(g, &K, .out = {RM_EMPTY}); /* one op of nothing, from nothing */
    works(__LINE__);
    g = rm_graph_create(NULL);
    RM_OP(g, &K, .in = {rm_input_add(g, NULL, 7, RM_INPUT_GRAD)}, .out = {1});
    works(__LINE__);
    g = rm_graph_create(NULL); /* nothing but a frozen weight: no backward at all */
    rm_output_add(g, RM_OP(g, &K, .in = {RM_PARAM(g, .bytes = 7, .flags = RM_FROZEN, .update = toy_update)}));
    works(__LINE__);
    begin(); /* zero bytes everywhere */
    t = RM_OP(g, &K, .in = {h, RM_PARAM(g, .bytes = RM_EMPTY, .grad_bytes = RM_EMPTY, .update = toy_update), rm_const_add(g, "z", RM_EMPTY, 0)}, .out = {RM_EMPTY, 4, RM_EMPTY}, .saved = RM_EMPTY);
    t = RM_OP(g, &K, .in = {t, rm_op_output(g, t, 1)}, .out = {RM_EMPTY});
    rm_output_add(g, t);
    works(__LINE__);
    begin(); /* a weight of many ops, of an op without backward first; another that nobody reads */
    RM_PARAM(g, .name = "lonely", .bytes = 9, .update = toy_update);
    t = RM_OP(g, &K, .in = {w}, .out = {5}, .flags = RM_NOGRAD);
    for (i = 0; i < 5; i++) h = RM_OP(g, &K, .in = {h, w, i == 3 ? t : w});
    works(__LINE__);
    begin(); /* the caller's memory of no bytes needs no binding; more outputs than fit the desc */
    for (i = 0; i < 100; i++) many[i] = i % 2 ? h : w;
    t = RM_OP(g, &K, .in = {rm_const_add(g, "e", RM_EMPTY, RM_EXTERNAL), h}, .out = {8}, .more_in = many, .more_in_count = 100, .more_out = (const uint64_t[]){1, 2, 3, 4, 5, 6, 7}, .more_out_count = 7);
    RM_OP(g, &K, .in = {rm_op_output(g, t, 7)}, .out = {4});
    works(__LINE__);
}

/* Names: blocks count their own names within the block that they stand in. */
static void names(void)
{
    rm_tensor t, b;
    begin();
    rm_block_begin(g, "h");
    RM_OP(g, &K, .name = "qkv", .in = {h});
    rm_block_end(g);
    rm_block_begin(g, "other");
    rm_block_begin(g, "h");
    t = RM_OP(g, &K, .name = "qkv", .in = {h});
    EXPECT(!strcmp(rm_tensor_name(g, t), "other[0]/h[0]/qkv"));
    rm_block_end(g);
    rm_block_end(g);
    rm_block_begin(g, "h");
    rm_block_begin(g, NULL);
    b = RM_OP(g, &K, .in = {t});
    EXPECT(!strncmp(rm_tensor_name(g, b), "h[1]/block[0]/linear.", 21));
    rm_block_end(g);
    rm_block_begin(g, "block");
    t = RM_OP(g, &K, .name = "qkv", .in = {b}, .out = {8, 9});
    EXPECT(!strcmp(rm_tensor_name(g, t), "h[1]/block[1]/qkv") && !strcmp(rm_tensor_name(g, rm_op_output(g, t, 1)), "h[1]/block[1]/qkv.1"));
    EXPECT(!strcmp(rm_tensor_name(g, RM_PARAM(g, .name = "w", .bytes = 1)), "h[1]/block[1]/w"));
    rm_block_end(g);
    rm_block_end(g);
    EXPECT(rm_graph_find(g, "h[1]/block[1]/qkv").id == t.id && !rm_graph_find(g, "qkv").id && !rm_graph_find(g, NULL).id);
    EXPECT(rm_graph_op_count(g) == 5 && rm_graph_tensor_count(g) == 11 && rm_tensor_bytes(g, t) == 8);
    EXPECT(!strcmp(rm_tensor_name(g, (rm_tensor){0}), "") && !strcmp(rm_tensor_name(g, (rm_tensor){77}), "") && rm_tensor_bytes(g, (rm_tensor){77}) == 0);
    works(__LINE__);
}

static void results(void)
{
    int i;
    g = NULL;
    for (i = 0; i < RM_RESULT_COUNT; i++) EXPECT(!strncmp(rm_result_name((rm_result)i), i ? "RM_ERROR_" : "RM_OK", i ? 9 : 5) && rm_result_text((rm_result)i)[0]);
    EXPECT(!strcmp(rm_result_name((rm_result)99), "RM_RESULT_UNKNOWN") && rm_result_text((rm_result)-1)[0]);
}

int main(void)
{
    wrong_tensors();
    wrong_ops();
    wrong_others();
    plan_arguments();
    missing_callbacks();
    foreign();
    edges();
    names();
    results();
    printf("%lu passed, %lu failed, 0 skipped\n", passed, failed);
    return failed != 0;
}
