/* test_tiers.c - pinned and pageable host memory, and devices where host and device are one pool: texts, what the referee refuses,
   messages, memories of the executor, and plans of random graphs, by both referees, against other choices of what is pinned.

      gcc -O1 -g -std=gnu99 -I. tests/property/test_tiers.c build/tests/objects/replay.o -o build/test_tiers -lstdc++ -lm
      test_tiers [GRAPHS [FIRST SEED]] */
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"
#include "../common.h"
#include "../oracle/plan.h"
#include "randgraph.h"

static const char net[] = "rockmate graph 1\n"
                          "link h2d=1000000000 d2h=1000000000 latency=10 pageable_h2d=250000000 pageable_d2h=500000000\n"
                          "tensor x input 100\n"
                          "tensor w param 50\n"
                          "op a in=x,w out=h needs=x,w fwd=300 bwd=500\n"
                          "op b in=h out=u needs=h fwd=200 bwd=200\n"
                          "op c in=u out=l:4 needs=u fwd=200 bwd=300\n"
                          "output l\n";

/* The example of docs/formats.md, with its copies where the two formats say. */
static const char steps[] = "rockmate plan 1\n"
                            "arena 454 host %s\n"
                            "resident w 0\nresident x 50\nalloc h 150\nrun fwd a\nalloc u 250\nrun fwd b\n"
                            "offload h %s\n"
                            "free h\nalloc l 350\nrun fwd c\nalloc grad:u 150\nrun bwd c\nfree u\nalloc h 250\n"
                            "prefetch h\nalloc grad:h 354\nrun bwd b\nfree h\nfree grad:u\nalloc grad:w 150\nrun bwd a\n";

static rm_graph *graph_of(const char *text)
{
    rm_graph *g = NULL;
    EXPECT(rm_graph_read(text, strlen(text), NULL, &g) == RM_OK, g ? rm_graph_error(g) : "-");
    return g;
}

/* A program with these words: its time, or 0 with rm_graph_error. */
static uint64_t time_of(rm_graph *g, const char *memory, const char *place, rm_plan_info *info)
{
    char text[1024];
    rm_plan *p = NULL;
    memset(info, 0, sizeof *info);
    snprintf(text, sizeof text, steps, memory, place);
    if (rm_plan_read(g, text, strlen(text), &p) != RM_OK) return 0;
    EXPECT(!*rmtest_plan(g, p, 0, 0), rmtest_plan(g, p, 0, 0));
    rm_plan_get_info(p, 0, info);
    rm_plan_destroy(p);
    return info->time_ns;
}

/* A link that says one rate of pageable memory, or more than pinned memory has, is refused by all readers. */
static void links(void)
{
    static const char *const wrong[] = {"pageable_h2d=250", "pageable_d2h=250", "pageable_h2d=1001 pageable_d2h=1", "pageable_h2d=1 pageable_d2h=1001"};
    char text[200];
    size_t i;
    for (i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        rm_graph *g = NULL;
        rmtest_result r;
        snprintf(text, sizeof text, "rockmate graph 1\nlink h2d=1000 d2h=1000 %s\ntensor x input 1\nop a in=x out=y:1\noutput y\n", wrong[i]);
        EXPECT(rm_graph_read(text, strlen(text), NULL, &g) == RM_ERROR_TEXT && g && strstr(rm_graph_error(g), "2:1: found 'link', expected both rates of pageable memory or none, at most those of pinned memory"), g ? rm_graph_error(g) : "read");
        rm_graph_destroy(g);
        rmtest_replay_c(text, strlen(text), "rockmate plan 1\narena 2\n", 25, RMTEST_NO_BUDGET, RMTEST_NO_BUDGET, &r);
        EXPECT(strstr(r.message, "both rates or none"), r.message);
    }
}

/* Trace, picture and the words for "why" say in which host memory something is. */
static void views(rm_plan *p, rm_graph *g)
{
    tm_text t = {0};
    EXPECT(rm_plan_trace(p, 0, tm_sink, &t) == RM_OK && strstr(t.s, "\"offload h (pageable)\"") && strstr(t.s, "\"prefetch h (pageable)\""), t.s);
    t.n = 0;
    EXPECT(rm_plan_svg(p, 0, tm_sink, &t) == RM_OK && strstr(t.s, "offload h (pageable), "), t.s);
    t.n = 0;
    EXPECT(rm_plan_explain(p, rm_graph_find(g, "w"), tm_sink, &t) == RM_OK && strstr(t.s, "the values on the device and in pageable host memory"), t.s);
    free(t.s);
}

static void texts(void)
{
    static const struct {
        const char *memory, *place, *says;
    } wrong[] = {
        {"100", "0 pageable", "9:1: 'offload h 0 pageable': h ends at byte 100, past the 0 bytes of the pageable memory"},
        {"0 pageable 100", "0", "past the 0 bytes of the host memory"},
        {"100 pageable 100", "1 pageable", "ends at byte 101, past the 100 bytes of the pageable memory"},
        {"100", "0 slow", "9:13: found 'slow', expected the end of the statement"},
        {"100", "0 pageable 0", "the end of the statement"},
        {"100 pageable", "0", "a decimal integer below 2^62"},
        {"100 paged 1", "0", "found 'paged', expected the end of the statement"},
        {"100\nresident w 0 pageable", "0", "the end of the statement"},
        {"200 pageable 100\nhome w 0 pageable", "0 pageable", "h at [0, 100) overlaps w, which is live"},
    };
    rm_graph *g = graph_of(net), *plain;
    rm_plan_info info;
    tm_text a = {0}, b = {0};
    rm_plan *p = NULL, *q = NULL;
    char text[1024];
    size_t i;
    EXPECT(rm_graph_write(g, tm_sink, &a) == RM_OK && !strcmp(a.s, net), a.s);
    free(a.s);
    memset(&a, 0, sizeof a);
    EXPECT(time_of(g, "100", "0", &info) == 1810 && info.host_bytes == 100 && !info.pageable_bytes, rm_graph_error(g));
    /* 10 + 100 bytes at 4 ns each: it comes back at 1410 instead of 1110; out at 2 ns each it is there at 510 */
    EXPECT(time_of(g, "0 pageable 100", "0 pageable", &info) == 2110 && !info.host_bytes && info.pageable_bytes == 100, rm_graph_error(g));
    EXPECT(time_of(g, "8 pageable 300", "200 pageable", &info) == 2110, rm_graph_error(g));
    for (i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        tm_case = i + 1;
        EXPECT(!time_of(g, wrong[i].memory, wrong[i].place, &info) && strstr(rm_graph_error(g), wrong[i].says), rm_graph_error(g));
    }
    tm_case = 0;
    snprintf(text, sizeof text, steps, "0 pageable 100\nhome w 0", "0 pageable");
    EXPECT(rm_plan_read(g, text, strlen(text), &p) != RM_OK && strstr(rm_graph_error(g), "w ends at byte 50, past the 0 bytes of the host"), rm_graph_error(g));
    snprintf(text, sizeof text, steps, "50 pageable 164\nhome w 8 pageable", "64 pageable");
    if (EXPECT(rm_plan_read(g, text, strlen(text), &p) == RM_OK, rm_graph_error(g))) {
        rm_plan_write(p, 0, tm_sink, &a);
        EXPECT(strstr(a.s, "arena 454 host 50 pageable 164\n") && strstr(a.s, "\nhome w 8 pageable\n") && strstr(a.s, "\noffload h 64 pageable\n"), a.s);
        if (EXPECT(rm_plan_read(g, a.s, a.n, &q) == RM_OK, rm_graph_error(g))) rm_plan_write(q, 0, tm_sink, &b);
        EXPECT(b.s && !strcmp(a.s, b.s), "written, read, written");
        b.n = 0;
        rm_plan_summary(q, tm_sink, &b);
        views(q, g);
        EXPECT(strstr(b.s, "  pageable   164 bytes: weights 50 bytes, the rest 114 bytes\n"), b.s);
    }
    rm_plan_destroy(p);
    rm_plan_destroy(q);
    rm_graph_destroy(g);
    links();
    snprintf(text, sizeof text, "%s", net);
    memmove(strstr(text, " pageable_h2d"), strstr(text, "\ntensor x"), strlen(strstr(text, "\ntensor x")) + 1);
    plain = graph_of(text);
    EXPECT(!time_of(plain, "0 pageable 100", "0 pageable", &info) && strstr(rm_graph_error(plain), "no rates of pageable memory"), rm_graph_error(plain));
    rm_graph_destroy(plain);
    free(a.s);
    free(b.s);
}

static int nothing(const rm_call *c) { return (void)c, 0; }
static rm_graph *built(int link, int host_only, const rm_graph_desc *own)
{
    static const rm_kind kind = {.name = "k", .forward = nothing, .backward = nothing};
    rm_graph *g = rm_graph_create(own);
    rm_tensor x = rm_input_add(g, "x", 4096, 0), y, w;
    if (link) rm_graph_link(g, 1000000000, 1000000000, 10, 0);
    if (link > 1) rm_graph_link_pageable(g, 300000000, 400000000);
    w = RM_PARAM(g, .name = "w", .bytes = 4096, .state_bytes = 8192, .update = host_only ? NULL : nothing, .update_host = nothing, .update_host_ns = 20);
    y = RM_OP(g, &kind, .name = "a", .in = {x, w}, .out = {4096});
    rm_output_add(g, RM_OP(g, &kind, .name = "b", .in = {y}, .out = {4096}));
    return g;
}

static void refused(int link, int host_only, rm_plan_desc d, rm_result want, const char *says)
{
    rm_graph *g = built(link, host_only, NULL);
    rm_plan *p = NULL;
    rm_result got = rm_plan_create(g, &d, &p);
    EXPECT(got == want && strstr(got == RM_OK ? rm_plan_notes(p) : rm_graph_error(g), says), got == RM_OK ? rm_plan_notes(p) : rm_graph_error(g));
    rm_plan_destroy(p);
    rm_graph_destroy(g);
}

static void messages(void)
{
    rm_graph *g = built(1, 0, NULL);
    rm_plan *p = NULL;
    rm_exec *x = NULL;
    tm_text t = {0};
    static unsigned char memory[1 << 16];
    rm_plan_desc unified = {.unified = 1, .device_bytes = 1 << 20};
    rm_exec_desc e = {0};
    rm_plan_info info;
    refused(1, 0, (rm_plan_desc){.pageable_bytes = 1 << 20}, RM_ERROR_ARGUMENT, "no rates of pageable memory; declare them (rm_graph_link_pageable)");
    refused(2, 0, (rm_plan_desc){.pageable_bytes = RMI_MAX, .host_bytes = 1}, RM_ERROR_ARGUMENT, "a budget is not below 2^62 bytes");
    refused(2, 0, (rm_plan_desc){.unified = 1, .host_bytes = 1}, RM_ERROR_ARGUMENT, "host and device are one pool of memory, so what waited in host memory would free nothing; leave rm_plan_desc.host_bytes 0");
    refused(2, 0, (rm_plan_desc){.unified = 1, .pageable_bytes = 1}, RM_ERROR_ARGUMENT, "leave rm_plan_desc.pageable_bytes 0");
    refused(2, 1, (rm_plan_desc){.unified = 1}, RM_ERROR_ARGUMENT, "param w: its update runs in host memory only, and with rm_plan_desc.unified");
    refused(0, 0, (rm_plan_desc){.pageable_bytes = 4096}, RM_OK, "4096 bytes of host memory are offered, and nothing moves there");
    refused(2, 0, (rm_plan_desc){.unified = 1, .device_bytes = 256}, RM_ERROR_INFEASIBLE, "make the largest op smaller");
    rm_graph_link_pageable(g, 2000000000, 1);
    EXPECT(strstr(rm_graph_error(g), "at most those of pinned memory"), rm_graph_error(g));
    rm_graph_destroy(g);
    g = built(0, 0, NULL);
    rm_graph_link_pageable(g, 1, 1);
    EXPECT(strstr(rm_graph_error(g), "call rm_graph_link first"), rm_graph_error(g));
    rm_graph_destroy(g);
    rm_graph_link_pageable(NULL, 1, 1);
    g = built(2, 0, NULL);
    EXPECT(rm_plan_create(g, &unified, &p) == RM_OK && rm_plan_summary(p, tm_sink, &t) == RM_OK && strstr(t.s, "one pool of memory"), t.s);
    rm_plan_destroy(p);
    p = NULL;
    rm_graph_destroy(g);
    g = built(2, 1, NULL); /* the update, and so weight and state, are in host memory: pageable, for there is no other */
    unified.unified = 0;
    unified.pageable_bytes = 1 << 20;
    if (EXPECT(rm_plan_create(g, &unified, &p) == RM_OK && rm_plan_get_info(p, 0, &info) == RM_OK && !info.host_bytes && info.pageable_bytes >= 12288, rm_graph_error(g))) {
        rm_exec_info seen;
        e.pageable_memory = memory;
        e.pageable_memory_bytes = 4096;
        EXPECT(rm_exec_create(p, &e, &x) == RM_ERROR_ARGUMENT && strstr(rm_graph_error(g), "rm_exec_desc.pageable_memory: the plan needs"), rm_graph_error(g));
        e.pageable_memory = NULL;
        EXPECT(rm_exec_create(p, &e, &x) == RM_ERROR_ARGUMENT && strstr(rm_graph_error(g), "rm_exec_desc.pageable_memory: it is NULL, though pageable_memory_bytes is 4096"), rm_graph_error(g));
        e.pageable_memory_bytes = sizeof memory - 256;
        e.pageable_memory = memory + (256 - (uintptr_t)memory % 256) % 256;
        if (EXPECT(rm_exec_create(p, &e, &x) == RM_OK && rm_exec_get_info(x, &seen) == RM_OK && seen.pageable_bytes == info.pageable_bytes && !seen.host_bytes, rm_graph_error(g))) {
            unsigned char *w = (unsigned char *)rm_exec_pointer(x, rm_graph_find(g, "w"), RM_STATE);
            EXPECT(w >= memory && w < memory + sizeof memory, "the state lies in the pageable memory given");
        }
        rm_exec_destroy(x);
    }
    rm_plan_destroy(p);
    rm_graph_destroy(g);
    free(t.s);
}

/* --- weights and states go from pageable to pinned memory, and back, with every allocation failing in turn */
static long allocations, fails;
static void *take(size_t bytes, void *user)
{
    (void)user;
    return ++allocations == fails ? NULL : malloc(bytes);
}
static void give(void *memory, void *user)
{
    (void)user;
    free(memory);
}

static void counts(rm_exec *x, rm_graph *g, int what)
{
    unsigned char got[8192], want[8192];
    memset(want, 7 + what, sizeof want);
    EXPECT(rm_exec_read(x, rm_graph_find(g, "w"), what ? RM_STATE : RM_VALUE, 0, got, what ? 8192 : 4096) == RM_OK && !memcmp(got, want, what ? 8192 : 4096), rm_exec_error(x));
}

/* The executor of plan p with w and its state written, then replanned (0), saved and restored into another one (1), or tuned (2). */
static rm_result go_over(rm_graph *g, rm_plan **p, rm_plan *to, rm_plan_desc *tuned, int how)
{
    unsigned char bytes[8192];
    rm_tensor w = rm_graph_find(g, "w");
    rm_exec *x = NULL, *y = NULL;
    tm_text t = {0};
    rm_step s = {.step = 1};
    rm_result result = rm_exec_create(*p, NULL, &x);
    if (result != RM_OK) return result;
    memset(bytes, 8, sizeof bytes);
    result = rm_exec_write(x, w, RM_STATE, 0, bytes, 8192);
    memset(bytes, 7, sizeof bytes);
    if (result == RM_OK) result = rm_exec_write(x, w, RM_VALUE, 0, bytes, 4096);
    if (result == RM_OK && how == 0) result = rm_exec_replan(x, to);
    if (result == RM_OK && how == 1) result = rm_exec_save(x, tm_sink, &t);
    if (result == RM_OK && how == 1) result = rm_exec_create(to, NULL, &y);
    if (result == RM_OK && how == 1) result = rm_exec_restore(y, t.s, t.n);
    if (result == RM_OK && how == 2) result = rm_exec_write(x, rm_graph_find(g, "x"), RM_VALUE, 0, bytes, 4096);
    if (result == RM_OK && how == 2) result = rm_exec_tune(x, tuned, &s, 1, p);
    counts(x, g, 0), counts(x, g, 1);
    if (result == RM_OK && y) counts(y, g, 0), counts(y, g, 1);
    rm_exec_destroy(y);
    rm_exec_destroy(x);
    free(t.s);
    return result;
}

static void moves_over(void)
{
    static const uint64_t memory[][2] = {{0, 1 << 20}, {1 << 20, 0}, {8192, 1 << 20}}; /* pinned, pageable */
    size_t from, how, i;
    for (from = 0; from < 3; from++)
        for (how = 0; how < 3; how++) {
            const rm_graph_desc own = {.allocator = {take, give, NULL}};
            rm_graph *g = built(2, 1, &own);
            rm_plan *p[3] = {NULL, NULL, NULL};
            rm_plan_desc d = {.device_bytes = 1 << 20, .work_limit = 1000};
            rm_result result;
            long last = 0;
            tm_case = 10 * from + how;
            for (i = 0; i < 3; i++) {
                d.host_bytes = memory[i][0], d.pageable_bytes = memory[i][1];
                EXPECT(rm_plan_create(g, &d, &p[i]) == RM_OK, rm_graph_error(g));
            }
            allocations = 0;
            result = go_over(g, &p[from], p[(from + 1) % 3], &d, (int)how);
            EXPECT(result == RM_OK, rm_result_name(result));
            last = how == 2 ? 60 : allocations; /* of tuning the first ones, and some */
            for (i = 1; i <= (size_t)last; i++) {
                allocations = 0, fails = (long)i;
                result = go_over(g, &p[from], p[(from + 1) % 3], &d, (int)how);
                fails = 0;
                EXPECT(result == RM_OK || result == RM_ERROR_MEMORY || result == RM_ERROR_BACKEND, rm_result_name(result));
            }
            for (i = 0; i < 3; i++) rm_plan_destroy(p[i]);
            rm_graph_destroy(g);
        }
    tm_case = 0;
}

/* The best time of a program of the plan by any choice of what is pinned, by buffer, of which there are at most eight; each choice
   gets offsets one after the other. 0: there are more. */
static uint64_t best_choice(const rm_plan *p, uint64_t pinned, uint64_t pageable)
{
    rmi_program prog = p->prog[0];
    uint32_t buf[8], n = 0, choice, i, k;
    uint64_t best = RMI_INF, size[8];
    prog.st = (rmi_stmt *)malloc((prog.n + 1) * sizeof *prog.st);
    prog.homes = (rmi_home *)malloc((prog.n_homes + 1) * sizeof *prog.homes);
    for (k = 0; k < prog.n + prog.n_homes; k++) {
        const rmi_stmt *st = &p->prog[0].st[k < prog.n ? k : 0];
        uint32_t b = k < prog.n ? st->buf : p->prog[0].homes[k - prog.n].buf;
        if (k < prog.n ? st->what != RMI_OFFLOAD && st->what != RMI_MERGE : !p->prog[0].homes[k - prog.n].host) continue;
        if (k < prog.n && st->what == RMI_MERGE) n = 9;
        for (i = 0; i < n && i < 8 && buf[i] != b;) i++;
        if (i < n && n <= 8) size[i] = rmi_max(size[i], k < prog.n ? st->bytes : 0);
        else if (n < 8) size[n] = rmi_max(k < prog.n ? st->bytes : 0, b < 3 * p->g->n_tensors ? rmi_low_bytes(p->g, b) : 0), buf[n++] = b;
        else n = 9;
    }
    for (choice = 0; n && n <= 8 && choice < 1u << n; choice++) {
        uint64_t top[2] = {0, 0}, at[8];
        rmi_error err = RMI_INIT;
        for (i = 0; i < n; i++) {
            at[i] = RMI_TIER(choice >> i & 1) + top[choice >> i & 1];
            top[choice >> i & 1] += rmi_round_up(size[i], 256);
        }
        if (top[0] > pinned || top[1] > pageable) continue;
        memcpy(prog.st, p->prog[0].st, prog.n * sizeof *prog.st);
        memcpy(prog.homes, p->prog[0].homes, prog.n_homes * sizeof *prog.homes);
        for (i = 0; i < n; i++) {
            for (k = 0; k < prog.n; k++)
                if (prog.st[k].what == RMI_OFFLOAD && prog.st[k].buf == buf[i]) prog.st[k].offset = at[i];
            for (k = 0; k < prog.n_homes; k++)
                if (prog.homes[k].host && prog.homes[k].buf == buf[i]) prog.homes[k].offset = at[i];
        }
        memcpy(prog.host, top, sizeof top);
        if (rmi_sch_check(p->g, &prog, &err, NULL) == RM_OK) best = rmi_min(best, prog.fig.time_ns);
    }
    free(prog.st);
    free(prog.homes);
    return n && n <= 8 && best != RMI_INF ? best : 0;
}

static unsigned long plans, mixed, chosen, worse, slower_alone;
static double ratio;

static rm_plan *plan(rm_graph *g, rm_plan_desc d, rm_plan_info *info)
{
    rm_plan *p = NULL;
    const char *why;
    memset(info, 0, sizeof *info);
    d.info = info;
    if (rm_plan_create(g, &d, &p) != RM_OK) return NULL;
    why = rmtest_plan(g, p, d.device_bytes, d.host_bytes ? d.host_bytes : 1);
    EXPECT(!*why, why);
    EXPECT(info->host_bytes <= d.host_bytes && info->pageable_bytes <= d.pageable_bytes && info->arena_bytes <= d.device_bytes, "budgets");
    EXPECT(info->bound_ns <= info->time_ns, "the bound");
    return p;
}

/* One graph and device budget: pinned memory in rising amounts beside pageable memory. */
static void curve(unsigned long seed)
{
    static const uint64_t shares[] = {0, 1, 2, 4, 8}; /* eighths of what all pinned takes */
    rg_text t = {0};
    rm_graph *g = NULL, *fresh;
    rm_plan_info all, info, none = {0};
    rm_plan_desc d = {.preset = seed % 7 ? "offmate" : "stream", .host_bytes = 1 << 24, .work_limit = 300000};
    rm_plan *p;
    uint64_t before = 0, choice, h2d, d2h;
    size_t i;
    none.time_ns = 0;
    rg_generate(&t, seed, (int)(4 + seed % (seed % 3 ? 8 : 24)), ((uint32_t)rmi_mix(seed) | RG_LINK) & ~RG_REDUCE);
    if (!t.data || rm_graph_read(t.data, t.size, NULL, &g) != RM_OK || !g->has_link) { rm_graph_destroy(g); rg_free(&t); return; }
    h2d = g->link.tier[0].h2d / (2 + seed % 3) + 1;
    d2h = g->link.tier[0].d2h / (1 + seed % 4) + (seed % 4 ? 1 : 0);
    d.device_bytes = 1;
    d.info = &all;
    p = NULL;
    rm_plan_create(g, &d, &p);
    rm_plan_destroy(p);
    d.device_bytes = all.min_bytes * (8 + seed % 5) / 8;
    p = all.min_bytes ? plan(g, d, &all) : NULL;
    if (p && all.host_bytes) {
        rm_graph_link_pageable(g, h2d, d2h);
        choice = best_choice(p, all.host_bytes / 2, 1 << 24);
        for (i = 0; i < sizeof shares / sizeof shares[0]; i++) {
            rm_plan *q;
            uint64_t alone = 0;
            d.host_bytes = (all.host_bytes * shares[i] / 8 + 255) / 256 * 256;
            d.pageable_bytes = 1 << 24;
            q = plan(g, d, &info);
            if (!q && before) EXPECT(0, rm_graph_error(g));
            if (!q) continue; /* it is the search's luck whether a tight budget has one */
            plans++;
            mixed += info.host_bytes && info.pageable_bytes;
            EXPECT(!before || info.time_ns <= before, "more pinned memory, and a slower plan");
            before = info.time_ns;
            rm_plan_destroy(q);
            fresh = NULL; /* a graph that has seen no other plan */
            if (seed % 4 == 0 && rm_graph_read(t.data, t.size, NULL, &fresh) == RM_OK) {
                rm_graph_link_pageable(fresh, h2d, d2h);
                q = plan(fresh, d, &info);
                if (q) alone = info.time_ns;
                rm_plan_destroy(q);
            }
            rm_graph_destroy(fresh);
            slower_alone += none.time_ns && alone > none.time_ns + none.time_ns / 100;
            none.time_ns = alone;
            if (shares[i] != 4 || !choice) continue;
            chosen++;
            ratio += (double)before / (double)choice;
            worse += before > choice + choice / 50;
            if (getenv("V") && before > choice + choice / 50) printf("seed %lu: %llu ns, another choice %llu, all pinned %llu\n", seed, (unsigned long long)before, (unsigned long long)choice, (unsigned long long)all.time_ns);
        }
    }
    rm_plan_destroy(p);
    rm_graph_destroy(g);
    rg_free(&t);
}

int main(int argc, char **argv)
{
    unsigned long graphs = argc > 1 ? strtoul(argv[1], NULL, 10) : tm_amount(5, 20), seed = argc > 2 ? strtoul(argv[2], NULL, 10) : 1, i;
    texts();
    messages();
    moves_over();
    for (i = seed; i < seed + graphs && tm_more(i - seed); i++) {
        tm_case = i;
        curve(i);
    }
    tm_case = 0;
    if (graphs >= 5 && i == seed + graphs) EXPECT(plans > 10 && mixed > 5 && chosen > 1, "too few plans with both memories");
    EXPECT(ratio <= 1.25 * (double)chosen, "other choices of what is pinned are better by far");
    printf("%lu plans, %lu in both memories; %lu small ones take %.3f of the best choice for the all-pinned plan, %lu of them 2 %% more; alone %lu times 1 %% slower with more pinned memory\n",
           plans, mixed, chosen, chosen ? ratio / (double)chosen : 0.0, worse, slower_alone);
    return tm_end();
}
