/* test_oom_plans.c - planning in which allocation n fails, for every preset, with and without host memory: memory that is out is
   told as such, and never answered with another plan than the one there would have been. Nothing is lost.

      gcc -O1 -g -std=gnu99 -I. tests/oom/test_oom_plans.c -o build/test_oom_plans && build/test_oom_plans [EVERY]
   EVERY: each so-manieth allocation is tried (1: all); without it the first twelve of a case and twelve of the rest. */
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"

#include "../common.h"
#include "heap.h"

/* Layers with a branch, variants, parts, saved bytes, states; link: updates on either side. The builder's own failures are tested elsewhere. */
static rm_graph *build(int layers, int link)
{
    rm_graph_desc gd;
    rm_graph *g;
    rm_kind fc, act, two, quick;
    rm_tensor x, y, l;
    int i;
    long fail_at = heap.fail_at;
    memset(&gd, 0, sizeof gd);
    memset(&fc, 0, sizeof fc);
    memset(&act, 0, sizeof act);
    memset(&two, 0, sizeof two);
    gd.allocator.alloc = heap_alloc;
    gd.allocator.free = heap_free;
    heap.fail_at = 0;
    fc.name = "fc", fc.needs = RM_IN(0) | RM_IN(1);
    fc.part[0].name = "dx", fc.part[0].grads = RM_IN(0), fc.part[0].needs = RM_IN(1);
    fc.part[1].name = "dw", fc.part[1].grads = RM_IN(1), fc.part[1].needs = RM_IN(0);
    act.name = "act", act.needs = RM_IN(0), act.inplace = RM_IN(0);
    act.over[0].grad_of = RM_IN(0), act.over[0].bytes_of = RM_DOUT;
    quick = act;
    quick.name = "quick", quick.needs = RM_OUT(0);
    two.name = "add", two.needs = RM_NOTHING, two.share_grad = RM_IN(0) | RM_IN(1);
    g = rm_graph_create(&gd);
    if (link) rm_graph_link(g, 1000000000u, 1000000000u, 100, 0);
    if (link > 1) rm_graph_disk(g, 500000000u, 400000000u, 100, 0);
    x = rm_input_add(g, "x", 3000, 0);
    for (i = 0; i < layers; i++) {
        rm_block_begin(g, "h");
        y = RM_OP(g, &fc, .name = "fc", .in = {x, RM_PARAM(g, .name = "w", .bytes = 2048 + (uint64_t)(i % 3) * 512, .state_bytes = 4096, .update_ns = 300, .update_host_ns = link ? 900 : 0)}, .out = {6000}, .bwd_ws = 512, .fwd_ns = 2000, .part_ns = {2000, 2000});
        y = RM_OP(g, &act, .name = "act", .in = {y}, .saved = 700, .fwd_ns = 100, .bwd_ns = 150);
        rm_variant_add(g, y, &quick, &(rm_op_desc){.fwd_ns = 130, .bwd_ns = 120, .fwd_ws = 1024});
        y = RM_OP(g, &fc, .name = "out", .in = {y, RM_PARAM(g, .name = "v", .bytes = 1024, .state_bytes = 2048, .update_ns = 200, .update_host_ns = link ? 700 : 0)}, .out = {3000}, .fwd_ns = 1500, .part_ns = {1500, 1500});
        x = RM_OP(g, &two, .name = "sum", .in = {x, y}, .fwd_ns = 60, .bwd_ns = 60);
        rm_block_end(g);
    }
    l = RM_OP(g, &act, .name = "loss", .in = {x}, .out = {4}, .fwd_ns = 10, .bwd_ns = 10);
    rm_output_add(g, l);
    heap.fail_at = fail_at;
    return g;
}

/* The plans of one try as text: every kind of step; or what was said instead. */
static rm_result plans(const char *preset, int layers, int link, uint64_t budget, uint32_t steps, uint64_t work, tm_text *to, rm_plan_info *info, char *said)
{
    rm_graph *g = build(layers, link);
    rm_plan *p = NULL;
    rm_plan_desc d = {.preset = preset, .device_bytes = budget, .steps = steps, .work_limit = work, .info = info, .host_bytes = link > 1 ? 22528 : link ? 1 << 20 : 0, .disk_bytes = link > 1 ? 1 << 20 : 0};
    rm_result r;
    uint32_t k;
    heap.calls = 0;
    r = rm_plan_create(g, &d, &p);
    {
        long fail_at = heap.fail_at;
        heap.fail_at = 0;
        for (k = 1; k <= RM_FORWARD && r == RM_OK; k <<= 1)
            if (steps & k) rm_plan_write(p, k, tm_sink, to);
        snprintf(said, 300, "%.290s", rm_graph_error(g));
        heap.fail_at = fail_at;
    }
    rm_plan_destroy(p);
    rm_graph_destroy(g);
    EXPECT(heap.live == 0, "memory is lost");
    return r;
}

static long every;

static void one(const char *preset, int layers, int link, int percent, uint32_t steps, uint64_t work)
{
    tm_text want, got;
    rm_plan_info info;
    char said[300], where[400];
    uint64_t budget;
    long n, calls, stride;
    memset(&want, 0, sizeof want);
    memset(&got, 0, sizeof got);
    memset(&info, 0, sizeof info);
    heap.fail_at = 0;
    if (!EXPECT(plans(preset, layers, link, 1, steps, work, &want, &info, said) == RM_ERROR_INFEASIBLE && info.min_bytes, said)) return;
    budget = info.min_bytes + (info.keep_all_bytes > info.min_bytes ? info.keep_all_bytes - info.min_bytes : 0) * (uint64_t)percent / 100;
    want.n = 0;
    if (!EXPECT(plans(preset, layers, link, budget, steps, work, &want, &info, said) == RM_OK, said)) return;
    calls = heap.calls;
    stride = every ? every : 1 + (calls > 12 ? (calls - 12) / (long)tm_amount(2, 5) : 0);
    for (n = 1; n <= calls; n += every || n > (long)tm_amount(2, 7) ? stride : 1) {
        rm_result r;
        got.n = 0;
        heap.fail_at = n;
        r = plans(preset, layers, link, budget, steps, work, &got, &info, said);
        snprintf(where, sizeof where, "%s, %d layers, link %d, steps %u, allocation %ld of %ld: %s %s", preset, layers, link, (unsigned)steps, n, calls, rm_result_name(r), said);
        if (r == RM_OK) {
            EXPECT(got.n == want.n && !memcmp(got.s, want.s, got.n), where);
        } else EXPECT(r == RM_ERROR_MEMORY, where);
    }
    heap.fail_at = 0;
    free(want.s), free(got.s);
}

int main(int argc, char **argv)
{
    const char *name;
    size_t i;
    every = argc > 1 ? atol(argv[1]) : 0;
    one("offmate", 3, 2, 0, RM_SINGLE, 2000);
    one("offmate", 3, 2, 0, RM_FIRST | RM_LAST, 2000);
    for (i = 0; (name = rm_preset_name(i, NULL)) != NULL; i += tm_amount(6, 1)) {
        one(name, 4, 0, 30, RM_SINGLE, 5000);
        one(name, 3, 0, 0, RM_FIRST | RM_LAST, 2000);
        one(name, 3, 1, 0, RM_SINGLE, 5000);
        one(name, 2, 1, 20, RM_MIDDLE | RM_LAST, 2000);
    }
    return tm_end();
}
