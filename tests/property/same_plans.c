/* same_plans.c - a line for each of many plans: what was planned and a hash of every byte of it. Built by several compilers, at
   several levels of optimisation, as C, C++ and for 32 bits, it must print the same (tests/run.sh compares).

      same_plans [GRAPHS]      C99 and C++11; with -DRMI_IMPLEMENTED linked with the library */
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"

#include "../common.h"
#include "randgraph.h"

#ifdef __cplusplus
#define ZEROS(type) type()
#else
#define ZEROS(type) { 0 }
#endif

static uint64_t state;
static uint64_t rnd(uint64_t n)
{
    state += 0x9E3779B97F4A7C15u;
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9u;
    state = (state ^ (state >> 27)) * 0x94D049BB133111EBu;
    return (state ^= state >> 31) % n;
}
static uint64_t hash(const tm_text *t)
{
    uint64_t h = 0xCBF29CE484222325u;
    size_t i;
    for (i = 0; i < t->n; i++) h = (h ^ (unsigned char)t->s[i]) * 0x100000001B3u;
    return h;
}

/* A U of n levels with skips, each op with a variant of its own costs, every number different. */
static rm_graph *u_net(int n)
{
    rm_kind k = ZEROS(rm_kind), slim = ZEROS(rm_kind), join = ZEROS(rm_kind);
    rm_graph *g = rm_graph_create(NULL);
    rm_tensor skip[32], t = rm_input_add(g, "x", 1 << 20, 0);
    int i, up;
    k.name = "conv", slim.name = "slim", join.name = "join";
    k.needs = RM_IN(0) | RM_IN(1);
    slim.needs = RM_IN(1) | RM_OUT(0);
    join.needs = RM_NOTHING;
    for (up = 0; up < 2; up++)
        for (i = 0; i < n; i++) {
            rm_param_desc w = ZEROS(rm_param_desc);
            uint64_t bytes = ((uint64_t)1 << 20) + rnd(1 << 19);
            rm_op_desc d = ZEROS(rm_op_desc);
            w.bytes = 1000 + rnd(5000);
            w.update_ns = 10;
            d.in[0] = t;
            d.in[1] = rm_param_add(g, &w);
            d.out[0] = bytes;
            d.fwd_ns = 1000 + rnd(100000);
            d.bwd_ns = 2 * d.fwd_ns + rnd(1000);
            d.fwd_ws = rnd(200000);
            t = rm_op_add(g, &k, &d);
            d.fwd_ns += rnd(d.fwd_ns);
            d.fwd_ws = 1;
            rm_variant_add(g, t, &slim, &d);
            if (!up) skip[i] = t;
            else {
                rm_op_desc j = ZEROS(rm_op_desc);
                j.in[0] = t;
                j.in[1] = skip[n - 1 - i];
                j.out[0] = bytes;
                j.fwd_ns = j.bwd_ns = 500 + rnd(5000);
                t = rm_op_add(g, &join, &j);
            }
        }
    rm_output_add(g, t);
    return g;
}

static void line(rm_graph *g, const char *name, const rm_config *c, uint64_t budget, uint32_t steps, uint64_t host, rm_plan_info *info)
{
    rm_plan_desc d = ZEROS(rm_plan_desc);
    rm_plan *p = NULL;
    tm_text t = {NULL, 0, 0};
    rm_result r;
    uint32_t i;
    char numbers[200];
    d.config = c;
    d.device_bytes = budget;
    d.host_bytes = host;
    d.steps = steps;
    d.info = info;
    r = rm_plan_create(g, &d, &p);
    for (i = 0; r == RM_OK && i < RM_STEP_KINDS; i++)
        if (steps >> i & 1) rm_plan_write(p, 1u << i, tm_sink, &t);
    if (r == RM_OK) rm_plan_summary(p, tm_sink, &t);
    else tm_sink(&t, rm_graph_error(g), strlen(rm_graph_error(g)));
    sprintf(numbers, "%.0f %.0f %.0f %.0f %d", (double)info->time_ns, (double)info->arena_bytes, (double)info->bound_ns, (double)info->min_bytes, (int)r);
    printf("%s %s %.0f: %s %08x%08x\n", name, c->name, (double)budget, numbers, (unsigned)(hash(&t) >> 32), (unsigned)hash(&t));
    rm_plan_destroy(p);
    tm_clear(&t);
}

static void graph(rm_graph *g, const char *name, uint32_t steps, uint64_t host)
{
    const char *preset;
    rm_plan_info all = ZEROS(rm_plan_info), info;
    rm_config c;
    size_t i;
    rm_config_preset("noremat", &c);
    line(g, name, &c, 0, steps, host, &all);
    for (i = 0; (preset = rm_preset_name(i, NULL)) != NULL; i++) {
        rm_config_preset(preset, &c);
        c.work = 30000;
        memset((void *)&info, 0, sizeof info);
        line(g, name, &c, all.keep_all_bytes * 3 / 4, steps, host, &info);
        line(g, name, &c, all.keep_all_bytes / 2, steps, host, &info);
        line(g, name, &c, info.min_bytes + (all.keep_all_bytes - info.min_bytes) / 8, steps, host, &info);
    }
}

int main(int argc, char **argv)
{
    unsigned long n = argc > 1 ? strtoul(argv[1], NULL, 10) : 20, seed;
    rm_graph *g;
    state = 7;
    g = u_net(6);
    graph(g, "u6", RM_SINGLE, 0);
    rm_graph_destroy(g);
    g = u_net(14);
    graph(g, "u14", RM_SINGLE, 0);
    rm_graph_destroy(g);
    for (seed = 1; seed <= n; seed++) {
        rg_text t;
        char name[32];
        rg_generate(&t, 1000 + seed, 4 + (int)(seed % 30), RG_ALL & ~(seed % 2 ? RG_OPT_HOST : RG_OPT_HOST | RG_LINK));
        if (!t.data || rm_graph_read(t.data, t.size, NULL, &g)) return 3;
        sprintf(name, "r%lu", seed);
        graph(g, name, seed % 3 ? RM_SINGLE : 31u, seed % 2 ? (uint64_t)1 << 30 : 0);
        rm_graph_destroy(g);
        rg_free(&t);
    }
    return 0;
}
