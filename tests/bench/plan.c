/* Bench of rm_plan_create: chains of equal and of different blocks, with costs still to be measured and with given ones.
   bench_plan [blocks ...]. Processor time, best of three up to 1,000 blocks. It measures; it asserts nothing. */
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"
#include <stdio.h>
#include <time.h>

static int none(const rm_call *c)
{
    (void)c;
    return 0;
}

static rm_kind kind(const char *name, uint64_t needs)
{
    rm_kind k;
    memset(&k, 0, sizeof k);
    k.name = name;
    k.forward = k.backward = none;
    k.needs = needs;
    return k;
}

/* A block of four ops with a residual around it; `vary`: sizes and costs differ from block to block. */
static rm_graph *chain(uint32_t blocks, int costs, int vary)
{
    rm_kind norm = kind("norm", RM_IN(0)), linear = kind("linear", RM_IN(0) | RM_IN(1)), act = kind("act", RM_IN(0)), add = kind("add", RM_NOTHING);
    rm_kind loss = kind("loss", RM_IN(0));
    rm_graph *g = rm_graph_create(NULL);
    rm_tensor x = rm_input_add(g, "x", 1 << 20, 0);
    uint64_t r = 1;
    uint32_t i, k;
    for (i = 0; i < blocks; i++) {
        rm_op_desc d;
        rm_param_desc p;
        rm_tensor w, y = x;
        rm_block_begin(g, "h");
        memset(&p, 0, sizeof p);
        p.name = "w";
        p.bytes = 1 << 16;
        p.update = none;
        w = rm_param_add(g, &p);
        for (k = 0; k < 4; k++) {
            static const char *const names[] = {"norm", "fc", "act", "add"};
            memset(&d, 0, sizeof d);
            d.name = names[k];
            d.in[0] = y;
            if (k == 1) d.in[1] = w;
            if (k == 3) d.in[1] = x;
            r = rmi_mix(r);
            d.out[0] = ((uint64_t)(k == 1 || k == 2 ? 4 : 1) << 20);
            if (vary && k != 3 && k != 0) d.out[0] += r % 1000 * 1024;
            if (costs) d.fwd_ns = 100000 + (vary ? r % 50000 : 0), d.bwd_ns = 2 * d.fwd_ns;
            y = rm_op_add(g, k == 0 ? &norm : k == 1 ? &linear : k == 2 ? &act : &add, &d);
        }
        rm_block_end(g);
        x = y;
    }
    {
        rm_op_desc d;
        memset(&d, 0, sizeof d);
        d.name = "loss";
        d.in[0] = x;
        d.out[0] = 4;
        if (costs) d.fwd_ns = d.bwd_ns = 1000;
        x = rm_op_add(g, &loss, &d);
        rm_output_add(g, x);
    }
    return g;
}

static double seconds(void) { return (double)clock() / CLOCKS_PER_SEC; }

static void measure(uint32_t blocks, int costs, int vary, uint32_t percent)
{
    rm_plan_desc d;
    rm_plan_info all, info;
    rm_plan *p = NULL;
    double best = 1e9, t;
    int k;
    rm_graph *g = chain(blocks, costs, vary);
    memset(&d, 0, sizeof d);
    d.info = &all;
    d.preset = "noremat";
    if (rm_plan_create(g, &d, &p) != RM_OK) {
        puts(rm_graph_error(g));
        exit(1);
    }
    rm_plan_destroy(p);
    d.device_bytes = all.arena_bytes / 100 * percent;
    d.preset = "rotor";
    d.info = &info;
    for (k = 0; k < (blocks > 1000 ? 1 : 3); k++) {
        t = seconds();
        if (rm_plan_create(g, &d, &p) != RM_OK) {
            puts(rm_graph_error(g));
            exit(1);
        }
        t = seconds() - t;
        if (t < best) best = t;
        if (k == 0)
            printf("%6u %-9s %-10s %3u%% %10.4f %14.4f  above bound %.2f %%", blocks, vary ? "different" : "equal", costs ? "given" : "unmeasured", percent,
                   (double)info.time_ns / (double)info.keep_all_ns, (double)info.arena_bytes / (double)d.device_bytes,
                   ((double)info.time_ns / (double)info.bound_ns - 1) * 100);
        rm_plan_destroy(p);
    }
    printf("  %8.1f ms\n", best * 1e3);
    rm_graph_destroy(g);
}

int main(int argc, char **argv)
{
    int i;
    printf("%6s %-9s %-10s %4s %10s %14s\n", "blocks", "", "costs", "of", "time/keep", "arena/budget");
    for (i = 1; i < argc; i++) {
        measure((uint32_t)atoi(argv[i]), 0, 0, 20);
        measure((uint32_t)atoi(argv[i]), 1, 0, 20);
    }
    if (argc > 1) return 0;
    measure(100, 0, 0, 20);
    measure(100, 1, 1, 20);
    measure(1000, 0, 0, 50);
    measure(1000, 0, 0, 20);
    measure(1000, 1, 0, 20);
    measure(1000, 1, 1, 20);
    measure(3000, 0, 0, 20);
    return 0;
}
