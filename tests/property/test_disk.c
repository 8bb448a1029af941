/* test_disk.c - a disk behind host memory: texts, messages, and plans of random graphs in less host memory than they want. What is
   away on disk is compared with every other choice where there are few.

      gcc -O1 -g -std=gnu99 -I. tests/property/test_disk.c build/tests/objects/replay.o -o build/test_disk -lstdc++ -lm
      test_disk [GRAPHS [FIRST SEED]] */
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"
#include "../common.h"
#include "../oracle/plan.h"
#include "randgraph.h"

static const char net[] = "rockmate graph 1\n"
                          "link h2d=1000000000 d2h=1000000000 latency=10\n"
                          "tier disk rate_in=500000000 rate_out=250000000 latency=100 room=10000\n"
                          "tensor x input 100\n"
                          "tensor w param 50 state=100 opt_host=40\n"
                          "op a in=x,w out=h needs=x,w fwd=300 bwd=500\n"
                          "op b in=h out=u needs=h fwd=200 bwd=200\n"
                          "op c in=u out=l:4 needs=u fwd=200 bwd=300\n"
                          "output l\n";

static const char steps[] = "rockmate plan 1\n"
                            "arena 554 host 600%s\n"
                            "resident x 50\nhome w 0 disk\nhome state:w 100 disk\n"
                            "load w 0\nalloc w 0\nprefetch w\nalloc h 150\nrun fwd a\nfree w\ndrop_host w\nalloc u 250\nrun fwd b\n"
                            "offload h 0\nfree h\nstore h %s\ndrop_host h\nalloc l 350\nrun fwd c\nalloc grad:u 150\nrun bwd c\nfree u\nalloc h 250\n"
                            "load h 0\nprefetch h\nalloc grad:h 454\nrun bwd b\nfree h\ndrop_host h\n%sfree grad:u\n"
                            "load w 0\nalloc w 0\nprefetch w\nalloc grad:w 150\nrun bwd a\nload state:w 100\noffload grad:w 200\n"
                            "run opt w@host\n%sstore state:w 100\n";

static void texts(void)
{
    static const struct {
        const char *disk, *where, *drop, *store, *says;
    } wrong[] = {
        {"", "200", "", "store w 0\n", "w ends at byte 50, past the 0 bytes of the disk"},
        {" disk 300", "250", "", "store w 0\n", "h ends at byte 350, past the 300 bytes of the disk"},
        {" disk 20000", "200", "", "store w 0\n", "the plan takes 20000 bytes of a disk that has 10000"},
        {" disk 1000", "20", "", "store w 0\n", "h at [20, 120) overlaps w, which is live"},
        {" disk 1000", "200", "drop_disk u\n", "store w 0\n", "u is not on disk"},
        {" disk 1000", "200", "store h 500\n", "store w 0\n", "h is not in host memory"},
        {" disk 1000", "200", "load u 0\n", "store w 0\n", "u is not on disk"},
        {" disk 1000", "200", "", "", "w is not whole and newest at the end where it was at the start"},
        {" disk 1000", "200", "", "load w 300\nstore w 0\n", "w is stale on disk"},
        {" disk 1000", "200", "", "store w 800\n", "w is not at the end where it was at the start"},
        {" disk 1000", "200 disk", "", "store w 0\n", "expected the end of the statement"},
    };
    char text[2048];
    rm_graph *g = NULL;
    rm_plan *p = NULL;
    tm_text t = {0};
    size_t i;
    EXPECT(rm_graph_read(net, strlen(net), NULL, &g) == RM_OK && rm_graph_write(g, tm_sink, &t) == RM_OK && !strcmp(t.s, net), t.s);
    snprintf(text, sizeof text, steps, " disk 1000", "200", "drop_disk h\n", "store w 0\n");
    if (EXPECT(rm_plan_read(g, text, strlen(text), &p) == RM_OK, rm_graph_error(g))) {
        rm_plan_info info;
        rm_exec *x = NULL;
        rm_plan_get_info(p, 0, &info);
        /* loads of w (200 each), h (300) and its state (300); stores of h (500), w (300) and its state (500) */
        EXPECT(info.busy_ns[RM_LANE_LOAD] == 1000 && info.busy_ns[RM_LANE_STORE] == 1300, "lanes");
        EXPECT(info.disk_bytes[0] == 1000 && info.disk_bytes[1] == 300 && info.disk_bytes[2] == 250, "bytes");
        t.n = 0;
        EXPECT(rm_plan_summary(p, tm_sink, &t) == RM_OK && strstr(t.s, "  disk       1000 bytes: weights 50 bytes, states 100 bytes, the rest 850 bytes\n") && strstr(t.s, "  from disk  300 bytes (busy "), t.s);
        t.n = 0;
        EXPECT(rm_plan_trace(p, 0, tm_sink, &t) == RM_OK && strstr(t.s, "\"from disk\"") && strstr(t.s, "\"store h\""), t.s);
        t.n = 0;
        EXPECT(rm_plan_svg(p, 0, tm_sink, &t) == RM_OK && strstr(t.s, "from disk") && strstr(t.s, "load h"), t.s);
        t.n = 0;
        EXPECT(rm_plan_explain(p, rm_graph_find(g, "w"), tm_sink, &t) == RM_OK && strstr(t.s, "the values on disk, the state on disk"), t.s);
        (void)x;
        rm_plan_destroy(p);
        p = NULL;
    }
    for (i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        tm_case = i + 1;
        snprintf(text, sizeof text, steps, wrong[i].disk, wrong[i].where, wrong[i].drop, wrong[i].store);
        EXPECT(rm_plan_read(g, text, strlen(text), &p) != RM_OK && strstr(rm_graph_error(g), wrong[i].says), rm_graph_error(g));
    }
    tm_case = 0;
    rm_graph_destroy(g);
    free(t.s);
}

static int nothing(const rm_call *c) { return (void)c, 0; }

static void refused(int disk, rm_plan_desc d, rm_result want, const char *says)
{
    static const rm_kind kind = {.name = "k", .forward = nothing, .backward = nothing};
    rm_graph *g = rm_graph_create(NULL);
    rm_plan *p = NULL;
    rm_tensor x = rm_input_add(g, "x", 4096, 0), w, y;
    rm_graph_link(g, 1000000000, 1000000000, 10, 0);
    if (disk) rm_graph_disk(g, 1000000000, 500000000, 0, disk > 1 ? 8192 : 0);
    w = RM_PARAM(g, .name = "w", .bytes = 4096, .state_bytes = 8192, .update_host = nothing, .update_host_ns = 20);
    y = RM_OP(g, &kind, .name = "a", .in = {x, w}, .out = {4096});
    rm_output_add(g, RM_OP(g, &kind, .name = "b", .in = {y}, .out = {4096}));
    rm_result got = rm_plan_create(g, &d, &p);
    EXPECT(got == want && strstr(got == RM_OK ? "" : rm_graph_error(g), says), got == RM_OK ? "planned" : rm_graph_error(g));
    rm_plan_destroy(p);
    rm_graph_destroy(g);
}

static void messages(void)
{
    rm_graph *g = rm_graph_create(NULL);
    refused(0, (rm_plan_desc){.disk_bytes = 1 << 20, .host_bytes = 1}, RM_ERROR_ARGUMENT, "the graph has no disk; declare it (rm_graph_disk)");
    refused(1, (rm_plan_desc){.disk_bytes = 1 << 20}, RM_ERROR_ARGUMENT, "goes through host memory; give host_bytes as well");
    refused(1, (rm_plan_desc){.disk_bytes = 1 << 20, .host_bytes = 1, .pageable_bytes = 1}, RM_ERROR_ARGUMENT, "no pageable memory");
    refused(1, (rm_plan_desc){.disk_bytes = 1 << 20, .host_bytes = 8192}, RM_ERROR_INFEASIBLE, "rm_plan_desc.host_bytes: 8192 bytes of host memory are too few for what is there at once; 16384 would do");
    refused(1, (rm_plan_desc){.disk_bytes = 1 << 20, .host_bytes = 16384}, RM_OK, "");
    refused(2, (rm_plan_desc){.disk_bytes = 4096, .host_bytes = 16384}, RM_OK, "");
    rm_graph_disk(g, 1, 0, 0, 0);
    EXPECT(strstr(rm_graph_error(g), "rm_graph_disk: give two rates above zero"), rm_graph_error(g));
    rm_graph_disk(NULL, 1, 1, 0, 0);
    rm_graph_destroy(g);
}

/* What host memory must hold at once is one update: gradients whose update there is over are of no more use. */
static void floor_of_host(void)
{
    static const char text[] = "rockmate graph 1\nlink h2d=1000000000 d2h=1000000000 latency=10\ntier disk rate_in=500000000 rate_out=250000000\n"
                               "tensor x input 100\ntensor w param 100000 state=100000 opt=40 opt_host=40\ntensor z param 100000 state=100000 opt_host=40 opt=40\n"
                               "tensor y param 100000 state=100000 opt_host=40 opt=40\nop a in=x,w out=h:1000 needs=x,w fwd=300 bwd=500\n"
                               "op b in=h,z out=u:1000 needs=h fwd=200 bwd=200\nop d in=u,y out=t:1000 needs=u fwd=200 bwd=200\n"
                               "op c in=t out=l:4 needs=t fwd=200 bwd=300\noutput l\n";
    rm_graph *g = NULL;
    rm_plan *p = NULL;
    rm_plan_desc d = {.device_bytes = 400000, .host_bytes = 300288, .disk_bytes = 10000000};
    EXPECT(rm_graph_read(text, strlen(text), NULL, &g) == RM_OK && rm_plan_create(g, &d, &p) == RM_OK, rm_graph_error(g));
    if (p) EXPECT(!*rmtest_plan(g, p, d.device_bytes, d.host_bytes), rmtest_plan(g, p, d.device_bytes, d.host_bytes));
    rm_plan_destroy(p);
    rm_graph_destroy(g);
}

static unsigned long plans, on_disk, refusals, wrong_named, slower, compared, optimal;
static double ratio;

static rm_plan *plan(rm_graph *g, rm_plan_desc d, rm_plan_info *info)
{
    rm_plan *p = NULL;
    const char *why;
    memset(info, 0, sizeof *info);
    d.info = info;
    if (rm_plan_create(g, &d, &p) != RM_OK) return NULL;
    why = rmtest_plan(g, p, d.device_bytes, d.host_bytes);
    EXPECT(!*why, why);
    EXPECT(info->host_bytes <= d.host_bytes && info->disk_bytes[0] <= d.disk_bytes && info->arena_bytes <= d.device_bytes, "budgets");
    EXPECT(info->bound_ns <= info->time_ns, "the bound");
    return p;
}

/* The least ns of transfers by any choice of what is away, at most `limit` bytes being in host memory; by >>disk's choice *chosen.
   0: there are too many choices, or none will do. */
static uint64_t best_away(rm_graph *g, const rm_plan *p, uint64_t limit, uint64_t *chosen)
{
    rmi_disk_cache cache = RMI_INIT;
    rmi_arena mem = rmi_arena_make(&g->hooks);
    rmi_program prog = p->prog[0];
    uint8_t *gap[12];
    uint64_t begins[4096], best = RMI_INF, least;
    uint32_t i, k, n = 0, choice;
    cache.graph = g, cache.mem = &mem, cache.program = &prog, cache.begin_ns = begins;
    for (i = 0; i <= prog.n && i < 4096; i++) begins[i] = 100 * i;
    if (prog.n >= 4096 || rmi_disk_read(&cache) != RM_OK ||
        RMI_TABLES(&mem, RMI_T(cache.live, prog.n + 2), RMI_T(cache.over_ns, prog.n + 3),
                   RMI_T(cache.option, (size_t)cache.n_touches + cache.n_stays + 1)) != RM_OK) n = 99;
    for (i = 0; i < cache.n_stays && n < 12; i++) {
        uint32_t id;
        cache.stay[i].fixed = rmi_low_kind(g, cache.stay[i].buf, &id) == RMI_BUF_VALUE && g->tensors[id].kind == RMI_INPUT && cache.stay[i].home;
        if (cache.stay[i].fixed) continue;
        if (cache.stay[i].home) gap[n++] = &cache.stay[i].away;
        for (k = cache.stay[i].first; k != RMI_NONE && cache.touch[k].next != RMI_NONE && n < 12; k = cache.touch[k].next) gap[n++] = &cache.touch[k].away;
    }
    for (choice = 0; n < 12 && choice < 1u << n; choice++) {
        uint64_t ns = 0;
        int ok = 1;
        for (i = 0; i < n; i++) *gap[i] = choice >> i & 1;
        for (i = 0; i < cache.n_stays; i++) { /* what is at home in host memory stays there */
            for (k = cache.stay[i].first; k != RMI_NONE; k = cache.touch[k].next) ok &= !(cache.touch[k].away && cache.stay[i].home && !cache.stay[i].away);
            ns += rmi_disk_walk(&cache, &cache.stay[i]);
        }
        rmi_disk_count(&cache, limit, &least);
        if (ok && least <= limit) best = rmi_min(best, ns);
    }
    for (i = 0; i < n && n < 12; i++) *gap[i] = 0;
    *chosen = 0;
    if (n < 12 && best != RMI_INF) {
        EXPECT(rmi_disk_choose(&cache, limit, &least), "a choice that there is");
        for (i = 0; i < cache.n_stays; i++) *chosen += rmi_disk_walk(&cache, &cache.stay[i]);
    }
    rmi_arena_free(&mem);
    return n < 12 && best != RMI_INF ? best : 0;
}

/* One graph and device budget: host memory in rising amounts before a disk. */
static void curve(unsigned long seed)
{
    rg_text t = {0};
    rm_graph *g = NULL;
    rm_plan_info all, info, more;
    rm_plan_desc d = {.preset = seed % 5 ? "offmate" : "stream", .host_bytes = 1 << 24, .work_limit = 60000};
    rm_plan *p = NULL, *q;
    uint64_t before = 0, chosen, best;
    uint32_t i;
    if (seed % 3 == 0) d.steps = RM_FIRST | RM_MIDDLE | RM_LAST | RM_FORWARD;
    rg_generate(&t, seed, (int)(4 + seed % (seed % 3 ? 8 : 24)), ((uint32_t)rmi_mix(seed) | RG_LINK) & ~RG_REDUCE);
    if (!t.data || rm_graph_read(t.data, t.size, NULL, &g) != RM_OK || !g->has_link || g->disk.in) { rm_graph_destroy(g); rg_free(&t); return; }
    g->disk.in = g->link.tier[0].h2d / (1 + seed % 4) + 1; /* text has it where the graph is written */
    g->disk.out = g->link.tier[0].d2h / (1 + seed % 3) + 1;
    g->disk.latency = seed % 50;
    d.device_bytes = 1;
    d.info = &all;
    rm_plan_create(g, &d, &p);
    rm_plan_destroy(p);
    d.device_bytes = all.min_bytes * (8 + seed % 5) / 8;
    d.disk_bytes = 0;
    p = all.min_bytes ? plan(g, d, &all) : NULL;
    for (i = 1; p && all.host_bytes && i <= 8; i++) {
        if (i < 8 && !d.steps && (best = best_away(g, p, all.host_bytes * i / 8, &chosen)) != 0) {
            compared++;
            optimal += chosen == best;
            ratio += (double)chosen / (double)best;
        }
        d.host_bytes = (all.host_bytes * i / 8 + 255) / 256 * 256;
        d.disk_bytes = 1 << 24;
        q = plan(g, d, &info);
        if (!q) {
            const char *named = strstr(rm_graph_error(g), "at once; ");
            EXPECT(!before || named, rm_graph_error(g));
            refusals++;
            if (named) {
                d.host_bytes = strtoull(named + 9, NULL, 10);
                EXPECT(d.host_bytes > all.host_bytes * i / 8, "what is named is more");
                q = plan(g, d, &more);
                wrong_named += !q;
                rm_plan_destroy(q);
            }
            continue;
        }
        plans++;
        on_disk += info.disk_bytes[0] != 0;
        slower += before && info.time_ns > before;
        before = info.time_ns;
        rm_plan_destroy(q);
    }
    rm_plan_destroy(p);
    rm_graph_destroy(g);
    rg_free(&t);
}

int main(int argc, char **argv)
{
    unsigned long graphs = argc > 1 ? strtoul(argv[1], NULL, 10) : tm_amount(5, 12), seed = argc > 2 ? strtoul(argv[2], NULL, 10) : 1, i;
    texts();
    messages();
    floor_of_host();
    for (i = seed; i < seed + graphs && tm_more(i - seed); i++) {
        tm_case = i;
        curve(i);
    }
    tm_case = 0;
    if (graphs >= 5 && i == seed + graphs) EXPECT(plans > 20 && on_disk > 4 && compared > 2, "too few plans on disk");
    printf("%lu plans, %lu on disk, %lu refused (%lu times what was named would not do); %lu times slower with more host memory; of %lu choices %lu are the best, on average %.3f times its transfers\n",
           plans, on_disk, refusals, wrong_named, slower, compared, optimal, compared ? ratio / (double)compared : 0.0);
    return tm_end();
}
