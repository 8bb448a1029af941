/* Small random graphs with the default preset, each plan from a graph of its own: legal by the second referee with the same figures,
   within the budget, not below the bound; the memory that an infeasible budget is told works, and less than the bound on memory does
   not; where a plan is proven, no plan with less memory is faster, and none with more memory slower.
   Some graphs stand here whose plans were once slower than what a longer search found.
   test_small [GRAPHS [FIRST SEED]] */
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"
#include "../common.h"
#include "../oracle/replay.h"
#include "randgraph.h"
#include <stdio.h>

static unsigned passed, failed, proven, plans;
static void expect(int ok, unsigned long seed, uint64_t budget, const char *what, const char *detail)
{
    if (ok) passed++;
    else failed++;
    if (!ok) printf("seed %lu, budget %lu: %s: %s\n", seed, (unsigned long)budget, what, detail);
}

/* 1: there is a plan. */
static int one(unsigned long seed, const rg_text *t, uint64_t budget, int live, rm_plan_info *info)
{
    rm_plan_desc d;
    rm_plan *p = NULL;
    rm_graph *g = NULL;
    rmtest_result r;
    tm_text b = {0};
    int ok;
    memset(&d, 0, sizeof d);
    memset(info, 0, sizeof *info);
    d.device_bytes = budget;
    d.live_only = (uint32_t)live;
    d.info = info;
    if (rm_graph_read(t->data, t->size, NULL, &g)) {
        expect(0, seed, budget, "graph", g ? rm_graph_error(g) : "memory");
        rm_graph_destroy(g);
        return 0;
    }
    ok = rm_plan_create(g, &d, &p) == RM_OK;
    expect(ok || rm_graph_result(g) == RM_ERROR_INFEASIBLE, seed, budget, "plan", rm_graph_error(g));
    if (ok) {
        if (!live) rm_plan_write(p, RM_SINGLE, tm_sink, &b);
        if (!live) expect(RMTEST_LEGAL == rmtest_replay_c(t->data, t->size, b.s, b.n, RMTEST_NO_BUDGET, RMTEST_NO_BUDGET, &r), seed, budget, "legal", r.message);
        if (!live) expect(r.time_ns == info->time_ns && r.live_bytes == info->live_bytes, seed, budget, "figures", "differ from the second referee's");
        expect((!budget || (live ? info->live_bytes : info->arena_bytes) <= budget) && info->time_ns >= info->bound_ns, seed, budget, "budget and bound", "");
        plans++;
        proven += info->time_ns == info->bound_ns;
    }
    free(b.s);
    rm_plan_destroy(p);
    rm_graph_destroy(g);
    return ok;
}

static void graph(unsigned long seed, const rg_text *t, int live)
{
    rm_plan_info least, info, before;
    uint64_t k;
    memset(&before, 0, sizeof before);
    if (one(seed, t, 1, live, &least) || !least.min_bytes) return;
    expect(least.min_bound_bytes <= least.min_bytes, seed, 1, "least memory", "below its bound");
    expect(one(seed, t, least.min_bytes, live, &info), seed, least.min_bytes, "least memory", "does not work");
    if (least.min_bound_bytes > 1) expect(!one(seed, t, least.min_bound_bytes - 1, live, &info), seed, least.min_bound_bytes - 1, "less than the bound on memory", "works");
    for (k = 0; k < 5; k++) {
        if (!one(seed, t, least.min_bytes + (least.keep_all_bytes - least.min_bytes) / 5 * k, live, &info)) continue;
        if (before.time_ns) expect(info.bound_ns <= before.time_ns, seed, k, "bound", "above a plan with less memory");
        if (before.time_ns && info.time_ns == info.bound_ns) expect(info.time_ns <= before.time_ns, seed, k, "a proven plan", "slower than one with less memory");
        before = info;
    }
}

/* Each part of a backward takes the variant that is fastest for it. */
static void parts(void)
{
    static char text[] = "rockmate graph 1\ntensor x input 64 grad\ntensor w param 64\nop a in=x,w out=y:64 fwd=10\npart a dX grads=x needs=w bwd=10\npart a dW grads=w needs=x bwd=100\n"
                         "variant a v\npart a@v dX grads=x needs=w bwd=100\npart a@v dW grads=w needs=x bwd=10\nop loss in=y out=l:4 needs=y fwd=5 bwd=5\noutput l\n";
    rg_text t;
    rm_plan_info info;
    memset(&t, 0, sizeof t);
    t.data = text;
    t.size = sizeof text - 1;
    expect(one(0, &t, 0, 0, &info) && info.time_ns == 40 && info.bound_ns == 40, 0, 0, "parts in variants of their own", "");
}

/* What plans of some graphs take, found by searches of a hundred times the work: at little memory, where a list that fits is easily poor. */
static char diamond[] =
    "rockmate graph 1\ntensor x input 5242880 grad\nop o0 in=x out=o0.y:4194304 needs=o0.y fwd=10000 bwd=20000\n"
    "op o1 in=o0.y out=o1.y:4194304 needs=o1.y fwd=20000 bwd=40000\nop o2 in=o1.y out=o2.y:1048576 needs=o1.y fwd=50000 bwd=50000\n"
    "op o3 in=o2.y out=o3.y:8388608 needs=o2.y fwd=20000 bwd=20000\nop o4 in=o3.y,o1.y out=o4.y:1048576 needs=o4.y fwd=10000 bwd=20000\n"
    "op o5 in=o4.y out=o5.y:8388608 needs=o5.y fwd=200000 bwd=200000\nop o6 in=o5.y out=o6.y:1048576 needs=o6.y fwd=100000 bwd=100000\n"
    "op o7 in=o6.y out=o7.y:8388608 needs=o6.y fwd=100000 bwd=200000\nop o8 in=o7.y out=o8.y:1048576 needs=o8.y fwd=50000 bwd=100000\n"
    "op o9 in=o8.y out=o9.y:2097152 needs=o8.y fwd=100000 bwd=200000\nop o10 in=o9.y out=o10.y:1048576 needs=o10.y fwd=50000 bwd=100000\n"
    "op o11 in=o10.y out=o11.y:8388608 needs=o10.y fwd=200000 bwd=400000\nop o12 in=o11.y,o9.y out=o12.y:1048576 needs=o11.y,o9.y fwd=200000 bwd=200000\n"
    "op o13 in=o12.y out=o13.y:4194304 needs=o12.y fwd=20000 bwd=20000\nop o14 in=o13.y out=o14.y:8388608 needs=none fwd=20000 bwd=40000\n"
    "op o15 in=o14.y out=o15.y:2097152 needs=o14.y fwd=200000 bwd=400000\nop o16 in=o15.y out=o16.y:4194304 needs=o16.y fwd=200000 bwd=200000\n"
    "op o17 in=o16.y out=o17.y:1048576 needs=o16.y fwd=50000 bwd=50000\nop o18 in=o17.y out=o18.y:4194304 needs=none fwd=100000 bwd=200000\n"
    "op o19 in=o18.y out=o19.y:8388608 needs=none fwd=10000 bwd=10000\nop o20 in=o19.y out=o20.y:2097152 needs=o19.y fwd=20000 bwd=20000\n"
    "op loss in=o20.y,o7.y,x,o12.y,o5.y out=loss.y:4 needs=o20.y,o7.y,x,o12.y,o5.y fwd=5000 bwd=5000\n"
    "output loss.y\n";

static char dense[] =
    "rockmate graph 1\ntensor x input 802816 grad\nop o0 in=x out=o0.y:802816 needs=x,saved fwd=3204 bwd=4007 saved=512\n"
    "op o1 in=o0.y out=o1.y:802816 needs=o1.y fwd=2802 bwd=3204\nop o2 in=o1.y out=o2.y:401408 needs=o1.y fwd=2770 bwd=5540\n"
    "op o3 in=x,o2.y out=o3.y:1204224 needs=none fwd=3204 bwd=3204\nop o4 in=o3.y out=o4.y:1204224 needs=o3.y,saved fwd=3806 bwd=5010 saved=768\n"
    "op o5 in=o4.y out=o5.y:1204224 needs=o5.y fwd=3204 bwd=3806\nop o6 in=o5.y out=o6.y:401408 needs=o5.y fwd=3156 bwd=6312\n"
    "op o7 in=x,o2.y,o6.y out=o7.y:1605632 needs=none fwd=3605 bwd=3605\nop o8 in=o7.y out=o8.y:1605632 needs=o7.y,saved fwd=4408 bwd=6014 saved=1024\n"
    "op o9 in=o8.y out=o9.y:1605632 needs=o9.y fwd=3605 bwd=4408\nop o10 in=o9.y out=o10.y:401408 needs=o9.y fwd=3541 bwd=7082\n"
    "op o11 in=x,o2.y,o6.y,o10.y out=o11.y:2007040 needs=none fwd=4007 bwd=4007\nop loss in=o11.y out=loss.y:4 needs=o11.y fwd=3003 bwd=3003\n"
    "output loss.y\n";

static char inception[] =
    "rockmate graph 1\ntensor x input 4816896\ntensor w0 param 73728\nop o0 in=x,w0 out=o0.y:4816896 needs=x,w0 fwd=8165 bwd=16330\n"
    "op o1 in=o0.y out=o1.y:4816896 needs=o1.y fwd=6816 bwd=9225\nop o2 in=o1.y out=o2.y:1605632 needs=o1.y fwd=20496 bwd=40992\n"
    "op o3 in=o2.y out=o3.y:1605632 needs=o3.y fwd=3605 bwd=4408\nop o4 in=o3.y out=o4.y:802816 needs=o3.y fwd=2342 bwd=4684\n"
    "op o5 in=o4.y out=o5.y:802816 needs=o5.y fwd=2802 bwd=3204\nop o6 in=o1.y out=o6.y:4816896 needs=o1.y fwd=9225 bwd=11633\n"
    "op o7 in=o6.y out=o7.y:2408448 needs=o6.y fwd=5082 bwd=10164\nop o8 in=o7.y out=o8.y:2408448 needs=o8.y fwd=4408 bwd=5612\n"
    "op o9 in=o1.y out=o9.y:2408448 needs=o1.y fwd=29745 bwd=59490\nop o10 in=o9.y out=o10.y:2408448 needs=o10.y fwd=4408 bwd=5612\n"
    "op o11 in=o10.y out=o11.y:802816 needs=o10.y fwd=6624 bwd=13248\nop o12 in=o11.y out=o12.y:802816 needs=o12.y fwd=2802 bwd=3204\n"
    "op o13 in=o1.y out=o13.y:1605632 needs=o1.y fwd=4055 bwd=8110\nop o14 in=o13.y out=o14.y:1605632 needs=o14.y fwd=3605 bwd=4408\n"
    "op o15 in=o5.y,o8.y,o12.y,o14.y out=o15.y:5619712 needs=none fwd=7619 bwd=7619\nop loss in=o15.y out=loss.y:4 needs=o15.y fwd=4809 bwd=4809\n"
    "output loss.y\n";

/* Three levels of branches, whose least memory was once named a quarter too high. */
static char branches[] =
    "rockmate graph 1\n"
    "tensor x0 input 6291456 grad\n"
    "op o0 in=x0 out=o0.y:1048576 needs=x0 fwd=351000 bwd=526500 fwd_ws=4194304\n"
    "op o1 in=o0.y out=o1.y:3670016 needs=o1.y fwd=182000 bwd=273000 fwd_ws=2621440\n"
    "op o2 in=o1.y out=o2.y:3670016 needs=o1.y fwd=355000 bwd=710000 bwd_ws=1048576 inplace_bwd=o1.y\n"
    "op o3 in=x0 out=o3.y:4194304 needs=none fwd=329000 bwd=658000 bwd_ws=1048576\n"
    "op o4 in=o2.y,o3.y out=o4.y:7864320 needs=none fwd=26214 bwd=26214\n"
    "op o5 in=o4.y out=o5.y:1572864 needs=o4.y fwd=145000 bwd=435000\n"
    "op o6 in=o5.y out=o6.y:2621440 needs=o5.y fwd=282000 bwd=282000 fwd_ws=1048576 bwd_ws=3145728\n"
    "op o7 in=o6.y out=o7.y:3670016 needs=saved fwd=22000 bwd=66000 saved=1835008\n"
    "op o8 in=o7.y out=o8.y:3145728 needs=o7.y fwd=366000 bwd=1098000\n"
    "op o9 in=o4.y out=o9.y:1048576 needs=saved fwd=357000 bwd=357000 saved=786432\n"
    "op o10 in=o9.y out=o10.y:2621440 needs=o9.y fwd=146000 bwd=292000\n"
    "op o11 in=o10.y out=o11.y:1572864 needs=o11.y fwd=119000 bwd=357000\n"
    "op o12 in=o8.y,o11.y out=o12.y:4718592 needs=none fwd=15728 bwd=15728\n"
    "op o13 in=o12.y out=o13.y:3145728 needs=o12.y,saved fwd=47000 bwd=70500 saved=2097152\n"
    "op o14 in=o13.y out=o14.y:2097152 needs=o13.y,saved fwd=126000 bwd=189000 saved=1310720 again=66057\n"
    "op o15 in=o14.y out=o15.y:3145728 needs=o14.y fwd=314000 bwd=942000\n"
    "op o16 in=o12.y out=o16.y:524288 needs=o16.y fwd=272000 bwd=816000\n"
    "op o17 in=o16.y out=o17.y:1048576 needs=o16.y fwd=173000 bwd=346000\n"
    "op o18 in=o17.y out=o18.y:3670016 needs=o17.y fwd=223000 bwd=446000 bwd_ws=524288\n"
    "op o19 in=o12.y out=o19.y:2097152 needs=o12.y fwd=41000 bwd=82000 fwd_ws=4194304 again=20155\n"
    "op o20 in=o19.y out=o20.y:1048576 needs=o20.y fwd=285000 bwd=285000 bwd_ws=1572864\n"
    "op o21 in=o15.y,o18.y,o20.y out=o21.y:7864320 needs=none fwd=26214 bwd=26214\n"
    "op o22 in=o21.y out=o22.y:4 needs=o21.y fwd=50000 bwd=5000\n"
    "output o22.y\n";

static void known(const char *name, char *text, size_t size, uint64_t budget, uint64_t ns)
{
    rg_text t;
    rm_plan_info info;
    memset(&t, 0, sizeof t);
    t.data = text;
    t.size = size - 1;
    /* or so near its bound that the search has ended (rm_config.gap_ppm) */
    expect(one(0, &t, budget, 1, &info) && (info.time_ns <= ns || info.time_ns - info.bound_ns <= info.bound_ns / 1000), 0, budget, "slower than what is known", name);
}

/* The least memory, known from an exhaustive search: no bound is above it, and what is named works. */
static void least_memory(const char *name, char *text, size_t size, uint64_t bytes)
{
    rg_text t;
    rm_plan_info info, at;
    memset(&t, 0, sizeof t);
    t.data = text;
    t.size = size - 1;
    expect(!one(0, &t, 1, 1, &info), 0, 1, "works with one byte", name);
    expect(info.min_bound_bytes <= bytes && info.min_bytes >= bytes, 0, info.min_bytes, "least memory", name);
    expect(one(0, &t, info.min_bytes, 1, &at), 0, info.min_bytes, "the least memory does not work", name);
    expect(!one(0, &t, bytes - 1, 1, &at), 0, bytes, "less than the least memory works", name);
}

int main(int argc, char **argv)
{
    unsigned long graphs = argc > 1 ? strtoul(argv[1], NULL, 10) : tm_amount(2, 8), seed = argc > 2 ? strtoul(argv[2], NULL, 10) : 1, i;
    for (i = seed; i < seed + graphs && tm_more(i - seed); i++) {
        rg_text t;
        memset(&t, 0, sizeof t);
        rg_generate(&t, i, 3 + (int)(i % 9), i % 3 ? RG_ALL & ~(RG_LINK | RG_OPT_HOST) : RG_DAG | RG_RESIDUAL | RG_NEEDS | RG_SAVED | RG_WORKSPACE | RG_VARIANT);
        if (t.data) graph(i, &t, i % 2 == 0);
        rg_free(&t);
    }
    parts();
    known("diamond", diamond, sizeof diamond, 50331652, 5980000);
    known("dense", dense, sizeof dense, 8671798, 120106);
    known("inception", inception, sizeof inception, 24961028, 383691);
    least_memory("branches", branches, sizeof branches, 25427968);
    if (tm_amount(0, 1)) {
        known("dense", dense, sizeof dense, 7226372, 151462);
        known("inception", inception, sizeof inception, 28092008, 363219);
        least_memory("diamond", diamond, sizeof diamond, 50331648);
        least_memory("dense", dense, sizeof dense, 7226368);
        least_memory("inception", inception, sizeof inception, 24158208);
    }
    fprintf(stderr, "%u plans, %u proven to be the fastest\n", plans, proven);
    if (plans > 20 && proven * 8 < plans) printf("only %u of %u plans are proven\n", proven, plans), failed++;
    printf("%u passed, %u failed, 0 skipped\n", passed, failed);
    return failed != 0;
}
