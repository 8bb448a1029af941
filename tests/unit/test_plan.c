/* test_plan.c - rm_plan_create and what can be asked of a plan: stopping it, figures, texts.

      gcc -O1 -g -std=gnu99 -I. tests/unit/test_plan.c -o build/test_plan && build/test_plan */
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"

#include "../common.h"
#include "../property/randgraph.h"

static uint64_t random_state = 1;
static uint64_t rnd(uint64_t n) { return (random_state = rmi_mix(random_state)) % n; }

/* A chain of n ops, all different: the hard case of the chain solver. */
static rm_graph *chain(unsigned n)
{
    static const rm_kind K = {.name = "op", .needs = RM_IN(0)};
    rm_graph *g = rm_graph_create(NULL);
    rm_tensor t = rm_input_add(g, "x", 1 << 20, 0);
    while (n--) {
        uint64_t bytes = 100000 + rnd(1 << 20);
        rm_tensor w = RM_PARAM(g, .bytes = 256, .update_ns = 1);
        t = RM_OP(g, &K, .in = {t, w}, .out = {bytes}, .fwd_ns = 1000 + rnd(100000), .bwd_ns = 2000 + rnd(200000));
    }
    rm_output_add(g, t);
    return g;
}

/* --- stopping */
typedef struct asked {
    unsigned long n, stop_at, after, empty; /* calls; the one to stop at; calls after it; calls before there was a plan */
    const char *phase;
} asked;

static int ask(void *user, const rm_progress *p)
{
    asked *a = (asked *)user;
    a->n++;
    a->phase = p->phase;
    if (!p->time_ns) a->empty++;
    if (a->stop_at && a->n > a->stop_at) a->after++;
    return a->stop_at && a->n >= a->stop_at;
}

static void stopping(rm_graph *g, const char *preset, uint64_t budget)
{
    rm_plan_info info;
    rm_plan_desc d = {.device_bytes = budget, .preset = preset ? preset : "rockmate", .info = &info, .progress = ask, .work_limit = tm_amount(50000, 0)};
    unsigned long total, i;
    asked a = {0};
    rm_plan *p = NULL;
    rm_result r;
    d.progress_user = &a;
    r = rm_plan_create(g, &d, &p);
    rm_plan_destroy(p);
    EXPECT(r == RM_OK || r == RM_ERROR_INFEASIBLE, rm_graph_error(g));
    EXPECT(r != RM_OK || !strcmp(a.phase, "done"), a.phase);
    EXPECT(r == RM_OK || a.empty > 3, "the solvers never asked"); /* nothing fits: every call came before a plan */
    total = a.n;
    for (i = 1; i <= 5; i += tm_amount(4, 1)) {
        memset(&a, 0, sizeof a);
        tm_case = a.stop_at = i < 4 ? i : 1 + rnd(total / i + 1);
        p = NULL;
        r = rm_plan_create(g, &d, &p);
        EXPECT(!a.after, "called after it said stop");
        EXPECT(r == RM_OK ? p && info.arena_bytes <= budget : r == RM_ERROR_CANCELLED && !p, rm_graph_error(g));
        EXPECT(r == RM_OK || strstr(rm_graph_error(g), "progress callback"), rm_graph_error(g));
        EXPECT(a.n == a.stop_at || a.n == total, "fewer questions than the first time");
        rm_plan_destroy(p);
    }
    tm_case = 0;
}

static void stopping_all(void)
{
    rm_graph *g = chain(50);
    rm_plan_info info;
    rm_plan *p = NULL;
    memset(&info, 0, sizeof info);
    EXPECT(rm_plan_create(g, &(rm_plan_desc){.device_bytes = 1, .info = &info}, &p) == RM_ERROR_INFEASIBLE, "");
    stopping(g, "rotor", info.min_bytes - 1);
    stopping(g, "rotor", info.min_bytes * 2);
    stopping(g, "search", info.min_bytes * 2);
    rm_graph_destroy(g);
}

/* --- figures */

/* The least arena is told after success and failure alike, and a budget of it works. */
static void least(void)
{
    static const char *const presets[] = {"rockmate", "rotor", "noremat", "every-block", "sqrt"};
    unsigned long seed;
    for (seed = 1; seed <= tm_amount(25, 120); seed++) {
        rg_text t;
        rm_graph *g = NULL;
        rm_plan *p = NULL, *q = NULL;
        rm_plan_info info;
        uint64_t all;
        rm_plan_desc d = {.preset = presets[seed % 5], .info = &info, .align = 1u << seed % 9};
        tm_case = seed;
        rg_generate(&t, seed, 3 + (unsigned)seed % 20, RG_ALL & ~RG_OPT_HOST);
        if (EXPECT(!rm_graph_read(t.data, t.size, NULL, &g), "") && EXPECT(!rm_plan_create(g, &d, &p), rm_graph_error(g))) {
            all = info.arena_bytes;
            EXPECT(info.min_bytes && info.min_bytes <= all && info.min_bytes >= info.min_bound_bytes, "");
            d.device_bytes = info.min_bytes;
            EXPECT(!rm_plan_create(g, &d, &q) && info.arena_bytes <= d.device_bytes, rm_graph_error(g));
            EXPECT(info.min_bytes <= d.device_bytes, "");
            d.device_bytes = info.min_bound_bytes - 1;
            rm_plan_destroy(p);
            EXPECT(info.min_bound_bytes <= 1 || (rm_plan_create(g, &d, &p) == RM_ERROR_INFEASIBLE && info.min_bytes >= info.min_bound_bytes), "");
            rm_plan_destroy(q);
        } else rm_plan_destroy(p);
        rm_graph_destroy(g);
        rg_free(&t);
    }
    tm_case = 0;
}

/* Host memory and a link make no budget impossible; a plan of another kind is followed without them, too; the clock stops no
   kind before it has a plan; updates of external memory stay on the device. */
static void together(void)
{
    unsigned long seed;
    for (seed = 1; seed <= 3; seed++) {
        rg_text t;
        rm_graph *g = NULL;
        rm_plan *p = NULL, *q = NULL;
        rm_plan_info info;
        uint64_t least;
        rm_plan_desc d = {.info = &info, .work_limit = 100000, .device_bytes = 1};
        tm_case = seed;
        rg_generate(&t, seed, 4 + (int)seed, (RG_ALL | RG_LINK) & ~RG_OPT_HOST);
        EXPECT(!rm_graph_read(t.data, t.size, NULL, &g), rm_graph_error(g));
        if (rm_plan_create(g, &d, &p) == RM_ERROR_INFEASIBLE) {
            least = d.device_bytes = info.min_bytes;
            EXPECT(!rm_plan_create(g, &d, &p), rm_graph_error(g));
            d.host_bytes = 1 << 20;
            EXPECT(!rm_plan_create(g, &d, &q) && info.arena_bytes <= least, rm_graph_error(g));
            rm_plan_destroy(q);
            d.host_bytes = 0;
            d.device_bytes = 0;
            d.like = p;
            EXPECT(!rm_plan_create(g, &d, &q), rm_graph_error(g));
            rm_plan_destroy(q);
            d.like = NULL;
            d.steps = RM_FIRST | RM_LAST | RM_MIDDLE;
            d.device_bytes = 1;
            EXPECT(rm_plan_create(g, &d, &q) == RM_ERROR_INFEASIBLE, rm_graph_error(g));
            d.device_bytes = info.min_bytes;
            d.limit_ns = 1;
            EXPECT(!rm_plan_create(g, &d, &q), rm_graph_error(g));
            rm_plan_destroy(q);
        }
        rm_plan_destroy(p);
        rm_graph_destroy(g);
        rg_free(&t);
    }
    tm_case = 0;
}

static void hosts(void)
{
    static const char host_too_small[] = "rockmate graph 1\nlink h2d=1000 d2h=1000\ntensor x input 64\ntensor w param 4096 opt_host=5\nop f in=x,w out=y:64\noutput y\n";
    static const char external[] = "rockmate graph 1\nlink h2d=1000 d2h=1000\ntensor x input 64\ntensor w param 4096 opt_host=5 external\nop f in=x,w out=y:64\n";
    static const char both[] = "rockmate graph 1\nlink h2d=1000 d2h=1000\ntensor x input 64\ntensor w param 4096 opt=1 opt_host=5 external\nop f in=x,w out=y:64\n";
    rm_plan_info info;
    rm_plan *p = NULL;
    rm_graph *g = NULL;
    rm_plan_desc d = {.info = &info, .host_bytes = 64, .align = 1};
    EXPECT(!rm_graph_read(host_too_small, sizeof host_too_small - 1, NULL, &g), "");
    EXPECT(rm_plan_create(g, &d, &p) == RM_ERROR_INFEASIBLE && !info.min_bytes && strstr(rm_graph_error(g), "host memory of 64 bytes"), rm_graph_error(g));
    d.host_bytes = 1 << 20;
    EXPECT(!rm_plan_create(g, &d, &p), rm_graph_error(g));
    rm_plan_destroy(p);
    rm_graph_destroy(g);
    EXPECT(!rm_graph_read(external, sizeof external - 1, NULL, &g), "");
    EXPECT(rm_plan_create(g, &d, &p) == RM_ERROR_ARGUMENT && strstr(rm_graph_error(g), "drop RM_EXTERNAL"), rm_graph_error(g));
    rm_graph_destroy(g);
    EXPECT(!rm_graph_read(both, sizeof both - 1, NULL, &g), "");
    d.preset = "stream";
    EXPECT(!rm_plan_create(g, &d, &p), rm_graph_error(g));
    rm_plan_destroy(p);
    rm_graph_destroy(g);
}

/* A slow link makes plans slow; weights that need not stay need no more memory for it. Nor does it matter to what is not touched. */
static void slow(void)
{
    static const char *const rates[] = {"1000000000000", "100000000", "1000000"};
    uint64_t least[3];
    unsigned i, k;
    for (i = 0; i < 3; i++) {
        rm_graph *g = NULL;
        rm_plan *p = NULL;
        rm_plan_info info;
        rm_plan_desc d = {.info = &info, .host_bytes = 1 << 26, .device_bytes = 1, .work_limit = 100000};
        tm_text t = {0};
        char line[300];
        tm_sink(&t, line, (size_t)sprintf(line, "rockmate graph 1\nlink h2d=%s d2h=%s latency=1000\ntensor x0 input 65536\n", rates[i], rates[i]));
        for (k = 1; k <= 8; k++)
            tm_sink(&t, line, (size_t)sprintf(line, "tensor w%u param %u state=%u opt=100 opt_host=1000\nop f%u in=x%u,w%u out=x%u needs=x%u,w%u fwd=8000 bwd=16000\n", k, 65536u << k % 4, 131072u << k % 4, k, k - 1, k, k, k - 1, k));
        tm_sink(&t, "output x8\n", 10);
        EXPECT(!rm_graph_read(t.s, t.n, NULL, &g), rm_graph_error(g));
        EXPECT(rm_plan_create(g, &d, &p) == RM_ERROR_INFEASIBLE, rm_graph_error(g));
        least[i] = d.device_bytes = info.min_bytes;
        EXPECT(!rm_plan_create(g, &d, &p), rm_graph_error(g));
        EXPECT(least[i] <= 2 * least[0], rates[i]);
        rm_plan_destroy(p);
        d.steps = RM_MIDDLE; /* states that it does not touch wait in host memory at no cost */
        d.device_bytes = 0;
        EXPECT(!rm_plan_create(g, &d, &p), rm_graph_error(g));
        rm_plan_destroy(p);
        d.device_bytes = info.keep_all_bytes - 131072 * (1 + 2 + 4);
        EXPECT(!rm_plan_create(g, &d, &p) && info.time_ns == info.keep_all_ns, rates[i]);
        rm_plan_destroy(p);
        rm_graph_destroy(g);
        tm_clear(&t);
    }
}

/* Budgets between two multiples of the alignment hold the same plans, and give the same one. */
static void between(void)
{
    rm_graph *g[2] = {NULL, NULL};
    rm_plan_info info;
    rm_plan *p;
    uint64_t least = 0;
    unsigned i;
    tm_text t[2] = {{0}, {0}};
    rg_text r;
    rg_generate(&r, 77, (int)tm_amount(8, 20), RG_ALL & ~RG_OPT_HOST);
    for (i = 0; i < 2; i++) {
        rm_plan_desc d = {.info = &info, .work_limit = tm_amount(50000, 200000), .device_bytes = 1};
        if (!EXPECT(!rm_graph_read(r.data, r.size, NULL, &g[i]), "")) break;
        if (!i) {
            EXPECT(rm_plan_create(g[i], &d, &p) == RM_ERROR_INFEASIBLE, rm_graph_error(g[i]));
            least = info.min_bytes;
            EXPECT(least % 256 == 0, rm_graph_error(g[i]));
            rm_graph_destroy(g[i]);
            EXPECT(!rm_graph_read(r.data, r.size, NULL, &g[i]), "");
        }
        d.device_bytes = least + (i ? 255 : 0);
        if (!EXPECT(!rm_plan_create(g[i], &d, &p), rm_graph_error(g[i]))) break;
        EXPECT(info.budget_bytes == d.device_bytes && info.arena_bytes <= least, "");
        EXPECT(!rm_plan_write(p, 0, tm_sink, &t[i]), "");
        rm_plan_destroy(p);
    }
    EXPECT(t[0].n == t[1].n && t[0].n && !memcmp(t[0].s, t[1].s, t[0].n), "another plan for the same room");
    for (i = 0; i < 2; i++) {
        rm_graph_destroy(g[i]);
        tm_clear(&t[i]);
    }
    rg_free(&r);
}

/* --- what is refused, and what does not stick */
static void refusals(void)
{
    rm_graph *g = chain(4);
    rm_plan *p = NULL;
    rm_tensor last = {(uint32_t)rm_graph_tensor_count(g)};
    tm_text t = {0};
    EXPECT(!rm_plan_create(g, &(rm_plan_desc){.live_only = 1}, &p), rm_graph_error(g));
    EXPECT(rm_plan_write(p, 0, tm_sink, &t) == RM_ERROR_ARGUMENT && !t.n && strstr(rm_graph_error(g), "plan without rm_plan_desc.live_only"), rm_graph_error(g));
    EXPECT(!rm_plan_summary(p, tm_sink, &t) && t.n, rm_graph_error(g));
    rm_plan_destroy(p);
    tm_clear(&t);
    EXPECT((uint32_t)rm_op_output(g, last, 0).id == last.id, "an output of a sealed graph");
    EXPECT(!rm_op_output(g, last, 1).id && rm_graph_result(g) == RM_ERROR_ARGUMENT && strstr(rm_graph_error(g), "no output 1"), rm_graph_error(g));
    p = NULL;
    EXPECT(!rm_plan_create(g, &(rm_plan_desc){.align = 1}, &p) && rm_graph_result(g) == RM_OK, rm_graph_error(g));
    rm_plan_destroy(p);
    rm_graph_destroy(g);
}

/* --- builders of any size take time in proportion to it */
static void many(void)
{
    static const rm_kind K = {.name = "op", .needs = RM_IN(0)};
    rm_graph *g = rm_graph_create(NULL);
    rm_tensor t = rm_input_add(g, "x", 8, 0), first = RM_OP(g, &K, .name = "first", .in = {t}), u;
    rm_kind v = K;
    char name[32];
    int i, k;
    rm_block_begin(g, "all");
    for (i = 0; i < 100000; i++) {
        rm_block_begin(g, i % 2 ? "odd" : "even");
        if (i % 1000 == 0) t = RM_OP(g, &K, .name = "op", .in = {t});
        for (k = 0; k < i % 3; k++) {
            rm_block_begin(g, "in");
            rm_block_end(g);
        }
        rm_block_end(g);
    }
    rm_block_end(g);
    EXPECT(!strcmp(rm_tensor_name(g, t), "all[0]/even[49500]/op"), rm_tensor_name(g, t));
    rm_block_begin(g, "even");
    u = RM_OP(g, &K, .name = "op", .in = {t});
    EXPECT(!strcmp(rm_tensor_name(g, u), "even[0]/op"), rm_tensor_name(g, u));
    rm_block_end(g);
    v.name = name;
    for (i = 0; i < 60000; i++) {
        sprintf(name, "v%d", i * 7 % 60000);
        rm_variant_add(g, first, &v, &(rm_op_desc){.fwd_ns = 5});
    }
    EXPECT(rm_graph_result(g) == RM_OK, rm_graph_error(g));
    EXPECT(rmi_graph_lookup(g, RMI_FORMS, "v59999") != RMI_NONE && rmi_graph_lookup(g, RMI_FORMS, "v5") != RMI_NONE && rmi_graph_lookup(g, RMI_FORMS, "v60000") == RMI_NONE, "");
    rm_variant_add(g, first, &v, &(rm_op_desc){.fwd_ns = 5});
    EXPECT(rm_graph_result(g) == RM_ERROR_GRAPH && strstr(rm_graph_error(g), "is there already"), rm_graph_error(g));
    rm_graph_destroy(g);
}

/* --- looking at plans */

/* Brackets, quotes and tags of what is written close where they should. */
static int balanced(const char *s, int xml)
{
    char stack[64];
    int n = 0;
    for (; *s; s++) {
        if (*s == '"') {
            for (s++; *s && *s != '"'; s++) {}
            if (!*s) return 0;
        } else if (xml && *s == '<') {
            if (s[1] != '/') {
                if (n == 64) return 0;
                stack[n++] = s[1];
            } else if (!n || stack[--n] != s[2]) return 0;
        } else if (xml && *s == '/' && s[1] == '>') {
            n--;
        } else if (!xml && strchr("{[", *s)) {
            if (n == 64) return 0;
            stack[n++] = *s == '{' ? '}' : ']';
        } else if (!xml && strchr("}]", *s)) {
            if (!n || stack[--n] != *s) return 0;
        }
        if (n < 0) return 0;
    }
    return n == 0;
}

static unsigned long occurrences(const char *s, const char *what)
{
    unsigned long n = 0;
    for (; (s = strstr(s, what)) != NULL; s += strlen(what)) n++;
    return n;
}

/* What the names of buffers say of live bytes, statement by statement, is what the figures by kind are: at the fullest moment, of several
   the first, and after the step. Bytes with several names are of the oldest, or of what took them over from it. */
static void by_kind(const rm_plan *p, uint32_t i)
{
    static const char *const heads[] = {"grad:", "state:", "saved:", "ws:"};
    static const unsigned of_head[] = {RM_GRADIENTS, RM_STATES, RM_SAVED_DATA, RM_WORKSPACES}, of_tensor[] = {RM_INPUTS, RM_WEIGHTS, RM_CONSTS, RM_ACTIVATIONS};
    const rmi_program *program = &p->prog[i];
    uint32_t n = rmi_low_buffers(p->g), b;
    struct { size_t stretch, since; unsigned kind; } *there = calloc(n, sizeof *there); /* stretch 0: not there */
    struct { uint64_t bytes; uint32_t oldest; } *stretch = calloc(program->n_homes + program->n + 1, sizeof *stretch);
    uint64_t now[RM_BYTE_KINDS], peak[RM_BYTE_KINDS] = {0}, most = 0;
    size_t at, k;
    char name[300];
    for (b = 0; b < n; b++) {
        rmi_sch_name(p->g, b, name);
        for (k = 0; k < 4 && strncmp(name, heads[k], strlen(heads[k])); k++) {}
        there[b].kind = k < 4 ? of_head[k] : of_tensor[p->g->tensors[b].kind];
    }
    for (at = 1; at <= program->n_homes + program->n; at++) {
        const rmi_home *home = at <= program->n_homes ? &program->homes[at - 1] : NULL;
        const rmi_stmt *st = home ? NULL : &program->st[at - 1 - program->n_homes];
        uint64_t sum = 0;
        b = home ? home->buf : st->buf;
        if (home ? !home->host : st->what == RMI_ALLOC) {
            there[b].stretch = there[b].since = at;
            stretch[at].bytes = home ? rmi_low_bytes(p->g, b) : st->bytes;
        } else if (st && (st->what == RMI_ALIAS || st->what == RMI_REUSE)) {
            there[b].stretch = there[st->other].stretch;
            there[b].since = st->what == RMI_REUSE ? there[st->other].since : at;
            if (st->what == RMI_REUSE) there[st->other].stretch = 0;
        } else if (st && st->what == RMI_FREE) there[b].stretch = 0;
        memset(now, 0, sizeof now);
        for (k = 1; k <= at; k++) stretch[k].oldest = RMI_NONE;
        for (b = 0; b < n; b++) {
            uint32_t *oldest = &stretch[there[b].stretch].oldest;
            if (there[b].stretch && (*oldest == RMI_NONE || there[*oldest].since > there[b].since)) *oldest = b;
        }
        for (k = 1; k <= at; k++)
            if (stretch[k].oldest != RMI_NONE) now[there[stretch[k].oldest].kind] += stretch[k].bytes;
        for (k = 0; k < RM_BYTE_KINDS; k++) sum += now[k];
        if (sum > most) most = sum, memcpy(peak, now, sizeof peak);
    }
    EXPECT(most == p->info[i].live_bytes, "live bytes");
    EXPECT(!memcmp(peak, p->info[i].peak_bytes, sizeof peak), "the peak by kind");
    EXPECT(!memcmp(now, program->fig.at_end, sizeof now), "after a step by kind");
    free(stretch);
    free(there);
}

/* The counter's maximum is the plan's figure; every run and copy is an event; compute time adds up. */
static void trace(const rm_plan *p, uint32_t i)
{
    tm_text t = {0};
    const char *s;
    uint64_t most = 0, works = 0, sum = 0;
    size_t k;
    EXPECT(!rm_plan_trace(p, p->info[i].step, tm_sink, &t) && balanced(t.s, 0), t.s);
    for (s = t.s; (s = strstr(s, "{\"bytes\":")) != NULL; s++) {
        uint64_t v = strtoull(s + 9, NULL, 10);
        most = v > most ? v : most;
    }
    EXPECT(most == p->info[i].live_bytes, "live bytes");
    for (k = 0; k < p->prog[i].n; k++) {
        uint8_t what = p->prog[i].st[k].what;
        works += what == RMI_RUN || what == RMI_OFFLOAD || what == RMI_PREFETCH || what == RMI_MERGE;
        works += what == RMI_MERGE;
    }
    EXPECT(occurrences(t.s, "\"ph\":\"X\"") == works, "events");
    for (s = t.s; (s = strstr(s, "\"tid\":1,\"ts\"")) != NULL; s++) {
        uint64_t us, ns;
        const char *d = strstr(s, "\"dur\":");
        us = strtoull(d + 6, (char **)&d, 10);
        ns = strtoull(d + 1, NULL, 10);
        sum += us * 1000 + ns;
    }
    EXPECT(sum == p->prog[i].fig.busy[0], "compute time");
    tm_clear(&t);
}

static void look(const rm_plan *p, rm_graph *g)
{
    tm_text t = {0};
    uint32_t i;
    for (i = 0; i < p->n; i++) {
        trace(p, i);
        by_kind(p, i);
        EXPECT(!rm_plan_svg(p, p->info[i].step, tm_sink, &t) && balanced(t.s, 1), t.s);
        tm_clear(&t);
    }
    for (i = 0; i < g->n_tensors; i++) {
        rm_tensor x = {i + 1};
        const char *name = rm_tensor_name(g, x);
        EXPECT(!rm_plan_explain(p, x, tm_sink, &t) && !strncmp(t.s, name, strlen(name)), rm_graph_error(g));
        EXPECT(g->tensors[i].external || !g->tensors[i].bytes || strstr(t.s, "more memory: "), t.s);
        tm_clear(&t);
    }
}

static void looking(void)
{
    unsigned long seed;
    rm_graph *g;
    rm_plan *p = NULL;
    rm_tensor none = {0};
    tm_text t = {0};
    for (seed = 1; seed <= tm_amount(10, 60); seed++) {
        rg_text r;
        rm_plan_info info;
        rm_plan_desc d = {.steps = seed % 3 ? RM_SINGLE : 31, .preset = "rockmate", .info = &info, .host_bytes = seed % 2 << 30};
        tm_case = seed;
        p = NULL;
        rg_generate(&r, seed, 3 + (unsigned)seed % 25, RG_ALL & ~RG_OPT_HOST);
        if (!rm_graph_read(r.data, r.size, NULL, &g) && EXPECT(!rm_plan_create(g, &d, &p), rm_graph_error(g))) {
            look(p, g);
            rm_plan_destroy(p);
            d.device_bytes = info.min_bytes;
            p = NULL;
            if (!rm_plan_create(g, &d, &p)) look(p, g);
        }
        rm_plan_destroy(p);
        rm_graph_destroy(g);
        rg_free(&r);
    }
    tm_case = 0;
    g = chain(5);
    EXPECT(!rm_plan_create(g, &(rm_plan_desc){.live_only = 1}, &p), rm_graph_error(g));
    EXPECT(!rm_plan_explain(p, (rm_tensor){3}, tm_sink, &t), rm_graph_error(g));
    EXPECT(rm_plan_svg(p, 0, tm_sink, &t) == RM_ERROR_ARGUMENT && strstr(rm_graph_error(g), "live_only"), rm_graph_error(g));
    EXPECT(rm_plan_explain(p, none, tm_sink, &t) == RM_ERROR_ARGUMENT && strstr(rm_graph_error(g), "rm_graph_find"), rm_graph_error(g));
    EXPECT(rm_plan_explain(p, (rm_tensor){999}, tm_sink, &t) == RM_ERROR_ARGUMENT && rm_plan_explain(p, (rm_tensor){3}, NULL, NULL) == RM_ERROR_ARGUMENT, "");
    EXPECT(rm_plan_trace(NULL, 0, tm_sink, &t) == RM_ERROR_ARGUMENT && rm_plan_trace(p, RM_LAST, tm_sink, &t) == RM_ERROR_ARGUMENT, "");
    EXPECT(rm_plan_explain(p, (rm_tensor){3}, tm_full_sink, NULL) == RM_ERROR_WRITE && strstr(rm_graph_error(g), "rm_plan_explain: the sink"), rm_graph_error(g));
    rm_plan_destroy(p);
    rm_graph_destroy(g);
    tm_clear(&t);
}

/* A tensor that is dropped and made again: the words say so. */
static void words(void)
{
    rm_graph *g = chain(30);
    rm_plan *p = NULL;
    rm_plan_info info;
    tm_text t = {0};
    uint32_t i, again = 0, kept = 0;
    EXPECT(!rm_plan_create(g, &(rm_plan_desc){.info = &info}, &p), rm_graph_error(g));
    rm_plan_destroy(p);
    p = NULL;
    EXPECT(!rm_plan_create(g, &(rm_plan_desc){.device_bytes = info.keep_all_bytes / 2, .work_limit = tm_amount(50000, 0)}, &p), rm_graph_error(g));
    for (i = 0; i < g->n_tensors; i++) {
        EXPECT(!rm_plan_explain(p, (rm_tensor){i + 1}, tm_sink, &t), rm_graph_error(g));
        again += strstr(t.s, "recomputed 1 time") && strstr(t.s, "again from run") && strstr(t.s, "kept, it would");
        kept += strstr(t.s, "made once") && strstr(t.s, "kept unused for") && strstr(t.s, "without it there would be") && strstr(t.s, "for each MiB");
        EXPECT(strstr(t.s, "(a 64th of keeping everything) a step is faster by "), t.s);
        tm_clear(&t);
    }
    EXPECT(again > 5 && kept > 5, "");
    rm_plan_destroy(p);
    rm_graph_destroy(g);
}

/* --- work grows with the size of a graph, not with its square: counted, never timed */

static int nothing(const rm_call *c) { return c == NULL; }

/* n ops that all read one tensor (shape 0), or each a weight of its own that is updated (1). */
static rm_graph *wide(uint32_t n, int shape)
{
    rm_graph *g = rm_graph_create(NULL);
    rm_tensor x = rm_input_add(g, "x", 4096, RM_INPUT_GRAD), y = x;
    rm_kind k;
    uint32_t i;
    memset(&k, 0, sizeof k);
    k.name = "k";
    k.needs = RM_IN(0);
    for (i = 0; i < n; i++) {
        rm_op_desc d;
        rm_param_desc p;
        memset(&d, 0, sizeof d);
        memset(&p, 0, sizeof p);
        p.bytes = 1024;
        p.update = nothing;
        d.in[0] = shape ? y : x;
        if (shape) d.in[1] = rm_param_add(g, &p);
        else if (i) d.in[1] = y;
        d.out[0] = 4096;
        y = rm_op_add(g, &k, &d);
    }
    rm_output_add(g, y);
    return g;
}

static size_t orders(uint32_t n, int shape)
{
    rm_graph *g = wide(n, shape);
    rmi_arena mem = rmi_arena_make(NULL);
    rmi_step m;
    size_t deps = 0;
    uint32_t i;
    EXPECT(rmi_graph_seal(g) == RM_OK, rm_graph_error(g));
    EXPECT(rmi_step_make(&mem, g, RM_SINGLE, 256, 0, &m) == RM_OK, "the model");
    for (i = 0; i < m.n_tasks; i++) deps += m.tasks[i].after.n + m.tasks[i].until.n;
    rmi_arena_free(&mem);
    rm_graph_destroy(g);
    return deps;
}

/* n layers whose values live from the way there to the way back, temporaries at each. */
static uint64_t packing(uint32_t n)
{
    rmi_arena mem = rmi_arena_make(NULL);
    rmi_plc_item *it = RMI_NEW(&mem, rmi_plc_item, 6 * (size_t)n);
    rmi_plc_info info;
    uint32_t i, k = 0;
    memset(&info, 0, sizeof info);
    for (i = 0; it && i < n; i++) {
        uint32_t back = 4 * n - 2 * i;
        it[k].start = 2 * i, it[k].end = back, it[k++].size = 4096 * (1 + i % 5);
        it[k].start = 2 * i, it[k].end = back - 1, it[k++].size = 512 * (1 + i % 3);
        it[k].start = 2 * i, it[k].end = 2 * i + 1, it[k++].size = 8192;
        it[k].start = 2 * i + 1, it[k].end = 2 * i + 3, it[k++].size = 256 * (1 + i % 7);
        it[k].start = back - 1, it[k].end = back + 2, it[k++].size = 4096;
    }
    EXPECT(it && rmi_plc_place(&mem, it, k, 256, 0, &info) == RM_OK, "places");
    EXPECT(info.height == info.bound, "nested: at the bound");
    rmi_arena_free(&mem);
    return info.work;
}

/* n ops in a row, every other one's value wanted at the end: giving up the rest leaves long rows of forwards that nobody reads.
   Passes over the list until it fits as well as it can. */
static uint32_t passes(uint32_t n)
{
    rm_graph *g = rm_graph_create(NULL);
    rm_tensor x = rm_input_add(g, "x", 1 << 20, RM_INPUT_GRAD);
    rmi_arena mem = rmi_arena_make(NULL);
    rmi_step m;
    rmi_ref_search s;
    uint32_t i;
    for (i = 0; i < n; i++) {
        x = rm_op_add(g, &(rm_kind){.name = "k", .needs = RM_IN(0)}, &(rm_op_desc){.in = {x}, .out = {1 << 20}, .fwd_ns = 10000, .bwd_ns = 20000});
        if (i % 2) rm_output_add(g, x);
    }
    memset(&s, 0, sizeof s);
    EXPECT(rmi_graph_seal(g) == RM_OK && rmi_step_make(&mem, g, RM_SINGLE, 256, 0, &m) == RM_OK && rmi_ref_search_make(&mem, &m, 0, &s) == RM_OK, rm_graph_error(g));
    rmi_search_limit(&s.search, (((uint64_t)n / 20) << 20) + m.resident, 0); /* far too little: all that can be given up is */
    EXPECT(rmi_ref_load(&s, 0) && rmi_ref_greedy(&s, 500) == RM_OK, "evictions");
    rmi_arena_free(&mem);
    rm_graph_destroy(g);
    return s.search.cost.stamp;
}

/* What is fixed: the floor that rests on nothing but fixed boxes, against a look at every column. */
static void floors(void)
{
    uint64_t seed, r = 1;
    for (seed = 1; seed <= 400; seed++) {
        rmi_arena mem = rmi_arena_make(NULL);
        rmi_plc_box fix[24];
        uint64_t top[32], base[32], high[32];
        uint32_t n = 0, cols = 1 + (uint32_t)(seed % 32), i, k, c, floats = 0, order[24];
        rmi_plc p;
        memset(&p, 0, sizeof p);
        memset(high, 0, sizeof high);
        while (n < 24) { /* each on top of what is below it, or a little higher */
            rmi_plc_box *b = &fix[n];
            memset(b, 0, sizeof *b);
            r = rmi_mix(r);
            b->start = r % 3 ? 0 : (uint32_t)(r >> 8) % cols;
            b->end = b->start + 1 + (uint32_t)(r >> 20) % (cols - b->start);
            b->size = 1 + (r >> 32) % 5;
            b->item = n;
            for (c = b->start; c < b->end; c++) b->offset = rmi_max(b->offset, high[c]);
            if ((r >> 40) % 4 == 0) b->offset += 1 + (r >> 44) % 3;
            for (c = b->start; c < b->end; c++) high[c] = b->offset + b->size;
            n++;
        }
        p.mem = &mem;
        p.columns = cols;
        p.fixes = n;
        p.fix = RMI_NEW(&mem, rmi_plc_box, n);
        for (i = 0; i < n; i++) p.fix[i] = fix[n - 1 - i];
        EXPECT(rmi_plc_base(&p) == RM_OK, "no two overlap");
        for (i = 0; i < n; i++) /* lowest first */
            for (order[i] = i, k = i; k && fix[order[k - 1]].offset > fix[order[k]].offset; k--) c = order[k], order[k] = order[k - 1], order[k - 1] = c;
        memset(base, 0, sizeof base);
        memset(top, 0, sizeof top);
        for (i = 0; i < n; i++) {
            const rmi_plc_box *b = &fix[order[i]];
            int rests = 1;
            for (c = b->start; c < b->end; c++) rests &= base[c] == b->offset;
            for (c = b->start; c < b->end && rests; c++) base[c] = b->offset + b->size;
            floats += !rests;
        }
        for (c = 0; c < cols; c++) EXPECT(p.base[c] == base[c], "the floor");
        EXPECT(floats ? p.floats > 0 : !p.floats, "what does not rest on it");
        fix[0].offset += n > 1 && fix[1].start < fix[0].end && fix[0].start < fix[1].end; /* one into the other */
        for (i = 0; i < n; i++) p.fix[i] = fix[i];
        p.floats = 0;
        if (fix[0].offset > 0 && fix[1].offset < fix[0].offset + fix[0].size && fix[1].offset + fix[1].size > fix[0].offset && fix[1].start < fix[0].end && fix[0].start < fix[1].end) EXPECT(rmi_plc_base(&p) == RM_ERROR_ARGUMENT, "two overlap");
        rmi_arena_free(&mem);
    }
}

static void growing(void)
{
    uint64_t small, large;
    uint32_t i;
    int shape;
    for (shape = 0; shape < 2; shape++) {
        small = orders(500, shape), large = orders(2000, shape);
        EXPECT(small && large <= 5 * small, "four times the ops, about four times what is to be kept in order");
    }
    for (i = 2000; i <= 8000; i *= 4) {
        small = packing(i), large = packing(4 * i);
        EXPECT(large <= 6 * small, "four times the buffers, about four times the work");
    }
    small = passes(200), large = passes(1600);
    EXPECT(large <= 2 * small + 40, "eight times the ops, no more passes over them");
    floors();
}

/* Memory of a large graph's first plan, at the allocator. */
static size_t held, most_held, held_first;
static void *count_alloc(size_t bytes, void *user)
{
    size_t *p = (size_t *)malloc(bytes + 16);
    (void)user;
    if (!p) return NULL;
    *p = bytes;
    held += bytes;
    if (held > most_held) most_held = held;
    return (char *)p + 16;
}
static void count_free(void *at, void *user)
{
    size_t *p = at ? (size_t *)(void *)((char *)at - 16) : NULL;
    (void)user;
    if (p) held -= *p;
    free(p);
}
static int first_only(void *user, const rm_progress *p)
{
    (void)user;
    if (p->time_ns && !held_first) held_first = most_held;
    return p->time_ns != 0;
}

/* n ops in a row, every fourth adding what there was four ops before. */
static rm_graph *long_chain(uint32_t n)
{
    rm_graph *g = rm_graph_create(&(rm_graph_desc){.allocator = {count_alloc, count_free, NULL}});
    rm_tensor x = rm_input_add(g, "x", 1 << 20, 0), r = x;
    rm_tensor w = rm_param_add(g, &(rm_param_desc){.bytes = 4096});
    uint32_t i;
    for (i = 0; i < n; i++) {
        const rm_kind *k = i % 4 == 3 ? &(rm_kind){.name = "add", .needs = RM_NOTHING} : &(rm_kind){.name = "mul", .needs = RM_IN(0)};
        x = rm_op_add(g, k, &(rm_op_desc){.in = {x, i == 0 ? w : i % 4 == 3 ? r : (rm_tensor){0}}, .out = {1 << 20}, .fwd_ns = 1000 + i % 4 * 500, .bwd_ns = 2000});
        if (i % 4 == 3) r = x;
    }
    rm_output_add(g, rm_op_add(g, &(rm_kind){.name = "loss", .needs = RM_IN(0)}, &(rm_op_desc){.in = {x}, .out = {4}, .fwd_ns = 1000, .bwd_ns = 1000}));
    return g;
}

static void large_first(void)
{
    static const uint32_t percent[] = {40, 3};
    uint32_t n = 30000, i;
    for (i = 0; i < tm_amount(1, 2); i++) {
        rm_graph *g = long_chain(n);
        rm_plan_info info, all;
        rm_plan *p = NULL;
        memset(&info, 0, sizeof info);
        EXPECT(rm_plan_create(g, &(rm_plan_desc){.preset = "noremat", .info = &all}, &p) == RM_OK, rm_graph_error(g));
        rm_plan_destroy(p);
        p = NULL;
        held_first = 0;
        most_held = held;
        EXPECT(rm_plan_create(g, &(rm_plan_desc){.device_bytes = all.arena_bytes / 100 * percent[i], .preset = "search", .info = &info, .progress = first_only}, &p) == RM_OK, rm_graph_error(g));
        EXPECT(info.arena_bytes <= all.arena_bytes / 100 * percent[i], "fits");
        EXPECT(i || held_first / (2 * n) < 1450, "1.45 KB a task at most");
        rm_plan_destroy(p);
        rm_graph_destroy(g);
        EXPECT(!held, "nothing is left");
    }
}

/* A budget far too small for a long chain of equal ops, whose smallest points have lists of millions of runs: those are left out, so that
   memory and time stay bounded; the budget that is named works. */
static void long_chain_in_little(void)
{
    uint32_t n = (uint32_t)tm_amount(1000, 5000), i;
    rm_graph *g = rm_graph_create(&(rm_graph_desc){.allocator = {count_alloc, count_free, NULL}});
    rm_tensor x = rm_input_add(g, "x", 1 << 20, RM_INPUT_GRAD);
    rm_plan_info info;
    rm_plan *p = NULL;
    for (i = 0; i < n; i++) x = rm_op_add(g, &(rm_kind){.name = "mul", .needs = RM_IN(0)}, &(rm_op_desc){.in = {x}, .out = {1 << 20}, .fwd_ns = 1000, .bwd_ns = 2000});
    rm_output_add(g, x);
    most_held = held;
    EXPECT(rm_plan_create(g, &(rm_plan_desc){.device_bytes = 1, .preset = "rotor", .info = &info}, &p) == RM_ERROR_INFEASIBLE && !p, rm_graph_error(g));
    EXPECT(info.min_bytes >= info.min_bound_bytes && info.min_bytes <= 16u << 20, "names little: sixteen of thousands of values");
    EXPECT(most_held < 500u << 20, "memory");
    EXPECT(rm_plan_create(g, &(rm_plan_desc){.device_bytes = info.min_bytes, .preset = "rotor", .info = &info}, &p) == RM_OK, rm_graph_error(g));
    EXPECT(p && info.arena_bytes <= info.budget_bytes && info.runs < 60 * n, "within it, and no op runs dozens of times");
    EXPECT(most_held < 500u << 20, "memory, with a plan");
    rm_plan_destroy(p);
    rm_graph_destroy(g);
    EXPECT(!held, "nothing is left");
}

/* Where giving up values gets stuck, another mode of a backward makes room: a plan near the least memory with no search at all. */
static void stuck_modes(void)
{
    static const char graph[] = "rockmate graph 1\ntensor x input 100\ntensor w param 4\nop c0 in=x,w out=c0:1000 needs=x fwd=10 bwd=10\n"
        "op r0 in=c0 out=r0:1000 needs=c0 fwd=5 bwd=5 inplace_bwd=c0\nvariant r0 out needs=r0 fwd=5 bwd=5 inplace=c0 inplace_bwd=c0\n"
        "op c1 in=r0 out=c1:1000 needs=none fwd=40 bwd=40\n"
        "op r1 in=c1 out=r1:1000 needs=c1 fwd=5 bwd=5 inplace_bwd=c1\nvariant r1 mask needs=saved saved=32 fwd=9 bwd=9 inplace=c1 inplace_bwd=c1\n"
        "op p in=r1 out=p:250 needs=r1 fwd=5 bwd=20 bwd_ws=700\nvariant p index needs=saved saved=64 fwd=9 bwd=25\n"
        "op c2 in=p out=c2:250 needs=p fwd=20 bwd=20\nop c3 in=c2 out=c3:250 needs=c2 fwd=20 bwd=20\nop l in=c3 out=y:4 fwd=1 bwd=1\noutput y\n";
    uint64_t budget;
    for (budget = 2200; budget <= 4200; budget += 200) {
        rm_graph *g = NULL;
        rm_plan *p = NULL;
        rm_plan_info info;
        rm_config c;
        EXPECT(rm_graph_read(graph, sizeof graph - 1, NULL, &g) == RM_OK, rm_graph_error(g));
        EXPECT(rm_config_preset("search", &c) == RM_OK, "a preset");
        c.work = 1;
        EXPECT(rm_plan_create(g, &(rm_plan_desc){.device_bytes = budget, .align = 1, .config = &c, .info = &info}, &p) == RM_OK, rm_graph_error(g));
        EXPECT(p && info.arena_bytes <= budget && info.min_bound_bytes > 2000, "within it, and little less can do");
        rm_plan_destroy(p);
        rm_graph_destroy(g);
    }
}

/* A plan from text has no alignment of its own: it is followed if its addresses have the one that is asked for. */
static void like_from_text(void)
{
    static const char graph[] = "rockmate graph 1\ntensor x input 100\ntensor w param 100 opt=5\ntensor v param 60 opt=5\nop a in=x,w out=h:300 fwd=10 bwd=10\nop b in=h,v out=y:4 fwd=10 bwd=10\noutput y\n";
    static const uint32_t aligns[] = {1, 64, 256};
    rm_graph *g = NULL;
    uint32_t i, k;
    EXPECT(rm_graph_read(graph, sizeof graph - 1, NULL, &g) == RM_OK, rm_graph_error(g));
    for (i = 0; i < 3; i++) {
        rm_plan *p = NULL, *q = NULL, *l = NULL;
        tm_text t;
        memset(&t, 0, sizeof t);
        EXPECT(rm_plan_create(g, &(rm_plan_desc){.align = aligns[i], .preset = "noremat"}, &p) == RM_OK && rm_plan_write(p, 0, tm_sink, &t) == RM_OK, rm_graph_error(g));
        EXPECT(rm_plan_read(g, t.s, t.n, &q) == RM_OK, rm_graph_error(g));
        for (k = 0; k < 3; k++) {
            rm_result r = rm_plan_create(g, &(rm_plan_desc){.align = aligns[k], .preset = "noremat", .like = q, .steps = RM_FORWARD}, &l);
            EXPECT(k <= i ? r == RM_OK : r == RM_ERROR_ARGUMENT && strstr(rm_graph_error(g), "of another alignment"), rm_graph_error(g));
            rm_plan_destroy(l);
            l = NULL;
        }
        tm_clear(&t);
        rm_plan_destroy(p), rm_plan_destroy(q);
    }
    rm_graph_destroy(g);
}

/* ceil(a * b / c) against long division bit by bit, of numbers of all lengths. */
static void quotients(void)
{
    uint64_t r = 5;
    uint32_t n;
    for (n = 0; n < 40000; n++) {
        uint64_t a = (r = rmi_mix(r)) >> (n % 64), b = (r = rmi_mix(r)) >> (n / 64 % 64), c = (r = rmi_mix(r)) >> (n / 4096 * 6 + n % 7) | 1, rest = 0, want = 0, fits = 1;
        int i, k;
        if (n % 5 == 0) c |= (uint64_t)0xFFFFFFFFu << 32;
        if (n % 9 == 0) b = 1000000000u;
        for (i = 63; i >= 0; i--) { /* a * b: twice what there is, and b for a bit of a */
            for (k = 0; k < 2; k++) {
                uint64_t more = k ? (a >> i & 1 ? b % c : 0) : rest, q = k ? (a >> i & 1 ? b / c : 0) : want;
                if (want > UINT64_MAX - q) fits = 0;
                want += q;
                if (rest >= c - more && more) {
                    if (want == UINT64_MAX) fits = 0;
                    want++, rest -= c - more;
                } else rest += more;
            }
        }
        EXPECT(rmi_mul_div_up(a, b, c) == (!fits ? RMI_INF : rmi_add(want, rest != 0)), "quotients");
    }
}

/* --- little memory */

/* n ops of all sizes; each reads one or two of the last 16, sometimes one from far back. */
static rm_graph *scattered(unsigned n, uint64_t seed)
{
    rm_graph *g = rm_graph_create(NULL);
    rm_tensor last[16], far, y;
    unsigned i, k = 1;
    random_state = seed;
    far = y = last[0] = rm_input_add(g, "x", 4 << 20, RM_INPUT_GRAD);
    for (i = 0; i < n; i++) {
        rm_kind kind = {.name = "op", .needs = rnd(4) == 0 ? RM_OUT(0) : rnd(4) == 0 ? 0 : RM_IN(0)};
        uint64_t bytes = (1 + rnd(16)) << 20, ns = 20000 + rnd(400000);
        rm_tensor a = rnd(3) ? last[(k - 1) % 16] : last[rnd(k < 16 ? k : 16)], b = rnd(3) ? a : rnd(8) ? last[rnd(k < 16 ? k : 16)] : far;
        if (a.id == b.id) y = RM_OP(g, &kind, .in = {a}, .out = {bytes}, .fwd_ns = ns, .bwd_ns = 2 * ns);
        else y = RM_OP(g, &kind, .in = {a, b}, .out = {bytes}, .fwd_ns = ns, .bwd_ns = 2 * ns);
        if (rnd(32) == 0) far = y;
        last[k++ % 16] = y;
    }
    rm_output_add(g, y);
    return g;
}

/* Where addresses are hard to get, too, a budget near the least is named, and works. */
static void little(void)
{
    unsigned live;
    for (live = (unsigned)tm_amount(1, 0); live < 2; live++) {
        rm_graph *g = scattered(300, 1);
        rm_plan_info all, info;
        rm_plan *p = NULL;
        rm_plan_desc d = {.preset = "noremat", .info = &all};
        EXPECT(rm_plan_create(g, &d, &p) == RM_OK, rm_graph_error(g));
        rm_plan_destroy(p);
        p = NULL;
        d = (rm_plan_desc){.device_bytes = all.arena_bytes / 10, .live_only = live, .work_limit = 1, .info = &info};
        EXPECT(rm_plan_create(g, &d, &p) == RM_OK && info.arena_bytes <= d.device_bytes && info.time_ns < all.time_ns / 100 * 130, rm_graph_error(g));
        rm_plan_destroy(p);
        p = NULL;
        rm_graph_destroy(g);
        g = scattered(300, 1); /* what is known of the other plan is gone */
        d.device_bytes = all.arena_bytes / 100 * 5;
        EXPECT(rm_plan_create(g, &d, &p) == RM_ERROR_INFEASIBLE && info.min_bytes <= all.arena_bytes / 1000 * (live ? 80 : 88), rm_graph_error(g));
        rm_graph_destroy(g);
        g = scattered(300, 1);
        d.device_bytes = info.min_bytes;
        EXPECT(rm_plan_create(g, &d, &p) == RM_OK && info.arena_bytes <= d.device_bytes, rm_graph_error(g));
        rm_plan_destroy(p);
        rm_graph_destroy(g);
    }
}

/* --- budgets that are too small: how often the planner asks is a count of its steps */

static uint64_t n_asked;
static int count_asks(void *user, const rm_progress *p)
{
    n_asked++;
    return user && p->time_ns; /* the first plan will do */
}

/* n ops: read one tensor, then added up (shape 0); in a row, every other value wanted at the end (1); in a row that costs nothing (2);
   read what was made at random places before (3); views of one value, each added to a sum (4); in twenty rows, one after the other (5). */
static rm_graph *awkward(unsigned n, int shape)
{
    rm_graph *g = rm_graph_create(NULL);
    rm_tensor *all = (rm_tensor *)malloc((n + 1) * sizeof *all), x = all[0] = rm_input_add(g, "x", 1 << 20, RM_INPUT_GRAD), y = x;
    rm_kind one = {.name = "one", .needs = RM_IN(0)}, two = {.name = "two", .needs = RM_IN(0) | RM_IN(1)}, look = {.name = "look", .view = RM_IN(0)};
    unsigned i;
    random_state = 7;
    for (i = 1; i <= n; i++) {
        unsigned far = (unsigned)rnd(i), half = n / 2 + 1;
        if (shape == 0 && i >= half) y = i == half ? all[1] : RM_OP(g, &two, .in = {y, all[i - half + 1]}, .out = {1 << 20}, .fwd_ns = 1000, .bwd_ns = 2000);
        else if (shape == 0) y = RM_OP(g, &one, .in = {x}, .out = {1 << 20}, .fwd_ns = 10000, .bwd_ns = 20000);
        else if (shape == 2) y = RM_OP(g, &one, .in = {y}, .out = {1 << 20}, .fwd_ns = RM_FREE_NS, .bwd_ns = RM_FREE_NS);
        else if (shape == 4 && i % 2 == 0) y = RM_OP(g, &look, .in = {all[1]}, .out = {1 << 20});
        else if ((shape == 3 && far != i - 1) || (shape == 4 && i > 2)) y = RM_OP(g, &two, .in = {all[i - 1], all[shape == 3 ? far : i - 2]}, .out = {shape == 3 ? (1 + rnd(8)) << 18 : 1 << 20}, .fwd_ns = 10000, .bwd_ns = 20000);
        else if (shape == 5 && i > n - 19) y = RM_OP(g, &two, .in = {y, all[(i - (n - 19)) * ((n - 20) / 20)]}, .out = {1 << 20}, .fwd_ns = 1000, .bwd_ns = 2000);
        else y = RM_OP(g, &one, .in = {shape == 5 && i % ((n - 20) / 20) == 1 ? x : y}, .out = {1 << 20}, .fwd_ns = 10000, .bwd_ns = 20000);
        all[i] = y;
        if (shape == 1 && i % 2) rm_output_add(g, y);
    }
    if (shape != 1) rm_output_add(g, y);
    free(all);
    return g;
}

/* The answer to one byte, and to a budget between the bound and what works: soon, and true. */
static void too_little(void)
{
    static const unsigned sizes[] = {60, 240, 2000};
    unsigned k, shape, turn;
    for (shape = 0; shape < 6; shape += (unsigned)tm_amount(6, 2))
        for (k = 0; k < tm_amount(1, 2); k++) {
            uint64_t budget = 1, least = 0;
            for (turn = 0; turn < 3; turn++) { /* one byte; a little more than the bound, if that is not enough; what was named */
                rm_graph *g = awkward(sizes[k], (int)shape);
                rm_plan *p = NULL;
                rm_plan_info info;
                rm_plan_desc d = {.info = &info, .progress = count_asks, .device_bytes = budget, .work_limit = tm_amount(30000, 100000)};
                rm_result r;
                n_asked = 0;
                d.progress_user = turn == 2 ? &n_asked : NULL;
                if (k < 2 || !turn) {
                    r = rm_plan_create(g, &d, &p);
                    EXPECT(turn == 2 ? r == RM_OK && info.arena_bytes <= budget : r == RM_OK || r == RM_ERROR_INFEASIBLE, rm_graph_error(g));
                    EXPECT(r == RM_OK || (info.min_bytes >= info.min_bound_bytes && info.min_bytes > budget), "a budget");
                    EXPECT(turn || n_asked <= 150, "some 150 million steps, whatever the shape");
                    if (r != RM_OK) least = info.min_bytes;
                    budget = turn || !least ? least : info.min_bound_bytes + (least - info.min_bound_bytes) / 8;
                }
                rm_plan_destroy(p);
                rm_graph_destroy(g);
            }
        }
}

/* A batch of evictions that has no room for one more run ends there: nothing is written behind the list of insertions. */
static void full_batches(void)
{
    static const uint32_t rooms[] = {1, 5, 16, 50};
    unsigned shape, k, fits;
    for (shape = 0; shape < 5; shape++)
        for (k = 0; k < 4; k++) {
            rm_graph *g = awkward(240, (int)shape);
            rmi_arena mem = rmi_arena_make(NULL);
            rmi_step m;
            rmi_ref_search s;
            uint64_t *end;
            size_t i, n = 0;
            int whole = 1;
            rm_plan *p = NULL;
            EXPECT(rm_plan_create(g, &(rm_plan_desc){.preset = "noremat"}, &p) == RM_OK, rm_graph_error(g)); /* closes the graph */
            if (EXPECT(rmi_step_make(&mem, g, RM_SINGLE, 256, 0, &m) == RM_OK && rmi_ref_search_make(&mem, &m, RMI_MAX, &s) == RM_OK, "a search")) {
                rmi_ref_load(&s, 0);
                rmi_search_limit(&s.search, (s.search.costs.peak - m.resident) / 100 * 49 + m.resident, 0);
                n = s.cap_repeats - rooms[k];
                s.cap_repeats = rooms[k];
                end = s.repeats + rooms[k];
                for (i = 0; i < n; i++) end[i] = UINT64_MAX;
                rmi_ref_load(&s, 0);
                fits = !s.search.costs.excess;
                EXPECT(!fits && rmi_ref_greedy(&s, 500) == RM_OK, "evictions");
                for (i = 0; i < n; i++) whole &= end[i] == UINT64_MAX;
                EXPECT(n && whole, "written behind the end");
            }
            rmi_arena_free(&mem);
            rm_plan_destroy(p);
            rm_graph_destroy(g);
        }
}

/* A backward that declares nothing of what it reads, of an op that saves nothing, reads inputs and outputs: with copies, too, that
   is the same as declaring just these. */
static void nothing_saved(void)
{
    static const char *const presets[] = {"stream", "link", "offmate"};
    uint64_t ns[2], again[2];
    unsigned which, k, percent;
    for (which = 0; which < 3; which++)
        for (percent = which < 2 ? 90 : (unsigned)tm_amount(75, 40); percent <= 110; percent += (unsigned)tm_amount(70, 35)) {
            for (k = 0; k < 2; k++) {
                rm_kind op = {.name = "op", .needs = k ? RM_IN(0) | RM_IN(1) | RM_OUT(0) : 0}, end = {.name = "end", .needs = RM_IN(0)};
                rm_graph *g = rm_graph_create(NULL);
                rm_tensor x = rm_input_add(g, "x", 1 << 20, 0);
                rm_plan_desc d = {.preset = presets[which], .device_bytes = 0, .host_bytes = 1u << 30, .steps = RM_FIRST | RM_LAST, .work_limit = tm_amount(20000, 0)};
                rm_plan_info info;
                rm_plan *p = NULL;
                unsigned i;
                for (i = 0; i < 10; i++) {
                    rm_tensor w = RM_PARAM(g, .bytes = 1 << 18, .update_ns = 1000);
                    x = RM_OP(g, &op, .in = {x, w}, .out = {1 << 20}, .fwd_ns = 100000 + 1000 * i, .bwd_ns = 200000);
                }
                rm_output_add(g, RM_OP(g, &end, .in = {x}, .out = {4}, .fwd_ns = 1000, .bwd_ns = 1000));
                rm_graph_link(g, 20000000000u, 20000000000u, 1000, 0);
                d.device_bytes = (uint64_t)percent * ((11u << 20) + (5u << 20)) / 100;
                ns[k] = again[k] = 0;
                if (EXPECT(!rm_plan_create(g, &d, &p), rm_graph_error(g)) && EXPECT(!rm_plan_get_info(p, RM_FIRST, &info), "")) ns[k] = info.time_ns, again[k] = info.recomputed_ns;
                rm_plan_destroy(p);
                rm_graph_destroy(g);
            }
            EXPECT(ns[0] == ns[1] && again[0] == again[1], presets[which]);
        }
}

/* Outputs that a plan in little memory would drop and make once more at the end, when weights have been updated: no preset may offer
   that, nor may it be an error of the call. A budget is refused with one that works. */
static void outputs_again(void)
{
    static const uint8_t fwd[] = {5, 2, 5, 1, 8, 6, 5, 4, 2, 5, 7, 2, 7, 8, 4, 2, 4, 1};
    static const uint8_t bwd[] = {9, 8, 1, 3, 6, 1, 8, 7, 4, 2, 6, 6, 5, 2, 5, 1, 6, 2};
    rm_kind op = {.name = "op", .needs = RM_IN(0)}, first = {.name = "first", .needs = RM_IN(0) | RM_IN(1)};
    rm_graph *g = rm_graph_create(NULL);
    rm_tensor x = rm_input_add(g, "x", 1, 0), w = RM_PARAM(g, .bytes = 1, .state_bytes = 2, .update_ns = 1), t[18], none = {0};
    unsigned n;
    for (n = 0; n < 18; n++)
        t[n] = RM_OP(g, n ? &op : &first, .in = {n ? t[n - 1] : x, n ? n > 4 && n < 17 ? t[n - 4] : none : w}, .out = {n == 17 ? 4 : 1},
                     .fwd_ns = fwd[n], .bwd_ns = bwd[n]);
    rm_output_add(g, t[17]);
    for (n = 2816; n <= 2944; n += (unsigned)tm_amount(256, 128)) {
        rm_plan_info info;
        rm_plan *p = NULL, *q = NULL;
        rm_plan_desc d = {.preset = "hilp", .device_bytes = n, .info = &info};
        rm_result r = rm_plan_create(g, &d, &p);
        EXPECT(r == RM_OK || (r == RM_ERROR_INFEASIBLE && info.min_bytes > n), rm_graph_error(g));
        if (r == RM_ERROR_INFEASIBLE) {
            d.device_bytes = info.min_bytes;
            EXPECT(rm_plan_create(g, &d, &q) == RM_OK, rm_graph_error(g));
        }
        rm_plan_destroy(p), rm_plan_destroy(q);
    }
    rm_graph_destroy(g);
}

/* RM_NO_MERGE: gradients of micro-steps come to the device to be added to. */
static void merges(void)
{
    static const char *const presets[] = {"stream", "offmate"};
    unsigned i, off, which, found[2] = {0, 0};
    rm_kind op = {.name = "op", .needs = RM_IN(0) | RM_IN(1)};
    rm_graph *g = rm_graph_create(NULL);
    rm_tensor x = rm_input_add(g, "x", 1 << 16, 0);
    for (i = 0; i < 6; i++)
        x = RM_OP(g, &op, .in = {x, RM_PARAM(g, .bytes = 1 << 18, .state_bytes = 1 << 19, .update_ns = 1000, .update_host_ns = 9000)},
                  .out = {i < 5 ? 1 << 16 : 4}, .fwd_ns = 100000, .bwd_ns = 200000);
    rm_output_add(g, x);
    rm_graph_link(g, 20000000000u, 20000000000u, 1000, 0);
    for (which = 0; which < 2; which++)
        for (off = 0; off < 2; off++) {
            rm_config c;
            rm_plan *p = NULL;
            rm_plan_desc d = {.device_bytes = 2000000, .host_bytes = 1u << 30, .steps = RM_FIRST | RM_MIDDLE | RM_LAST, .config = &c};
            tm_text t = {0};
            EXPECT(!rm_config_preset(presets[which], &c), "");
            c.off = off ? RM_NO_MERGE : 0;
            if (EXPECT(!rm_plan_create(g, &d, &p), rm_graph_error(g)))
                for (i = RM_FIRST; i <= RM_LAST; i *= 2) {
                    t.n = 0;
                    EXPECT(!rm_plan_write(p, i, tm_sink, &t), "");
                    found[off] += strstr(t.s, "\nmerge ") != NULL;
                }
            tm_clear(&t);
            rm_plan_destroy(p);
        }
    EXPECT(found[0] && !found[1], "sums in host memory, and none where they are switched off");
    rm_graph_destroy(g);
}

/* Host memory that has room for a third of weights and states: the budget named is not one that keeps them all on the device. */
static void crowded(void)
{
    static const uint32_t steps[] = {RM_SINGLE, RM_LAST};
    rm_kind op = {.name = "op", .needs = RM_IN(0) | RM_IN(1)};
    rm_graph *g = rm_graph_create(NULL);
    rm_tensor x = rm_input_add(g, "x", 1 << 12, 0);
    unsigned i;
    for (i = 0; i < 24; i++)
        x = RM_OP(g, &op, .in = {x, RM_PARAM(g, .bytes = 1 << 20, .state_bytes = 1 << 21, .update_ns = 1000, .update_host_ns = 9000)},
                  .out = {i < 23 ? 1 << 12 : 4}, .fwd_ns = 100000, .bwd_ns = 200000);
    rm_output_add(g, x);
    rm_graph_link(g, 20000000000u, 20000000000u, 1000, 0);
    for (i = 0; i < tm_amount(1, 2); i++) {
        rm_plan_info info;
        rm_plan *p = NULL;
        rm_plan_desc d = {.device_bytes = 6 << 20, .host_bytes = 48 << 20, .steps = steps[i], .info = &info, .work_limit = tm_amount(50000, 0)};
        EXPECT(rm_plan_create(g, &d, &p) == RM_ERROR_INFEASIBLE && strstr(rm_graph_error(g), "more host memory"), rm_graph_error(g));
        EXPECT(info.min_bytes < (uint64_t)(i ? 86 : 56) << 20, "little more than what host memory has no room for");
        d.device_bytes = info.min_bytes;
        EXPECT(!rm_plan_create(g, &d, &p) && info.arena_bytes <= d.device_bytes, rm_graph_error(g));
        rm_plan_destroy(p);
    }
    rm_graph_destroy(g);
}

/* Updates in host memory that has no room for all weights: these rest on the device alone, and visit it for their update one after another. */
static void resting(void)
{
    static const char graph[] = "rockmate graph 1\nlink h2d=1800000000 d2h=1400000000 latency=4\ntensor x input 300\ntensor w0 param 200 state=200 opt_host=25\n"
                                "op f0 in=x,w0 out=a0:300 needs=x%s fwd=218 bwd=453\ntensor w1 param 100 state=200 opt_host=181\nop f1 in=a0,w1 out=a1:300 needs=a0 fwd=84 bwd=817\noutput a1\n";
    char text[sizeof graph + 8];
    unsigned i;
    for (i = 0; i < 6; i++) {
        const uint64_t host = 800 + 50 * (i / 2);
        rm_graph *g = NULL;
        rm_plan_info info = {0};
        rm_plan *p = NULL;
        rm_plan_desc d = {.device_bytes = 1800, .host_bytes = host, .align = 1, .work_limit = 100000, .info = &info};
        tm_text t = {0};
        EXPECT(!rm_graph_read(text, (size_t)sprintf(text, graph, i % 2 ? ",w0" : ""), NULL, &g), rm_graph_error(g));
        if (EXPECT(!rm_plan_create(g, &d, &p), rm_graph_error(g)) && EXPECT(!rm_plan_write(p, 0, tm_sink, &t), "")) {
            EXPECT(info.time_ns == 1860 && info.host_bytes <= host && info.arena_bytes <= 1800, t.s);
            EXPECT(host > 800 || (strstr(t.s, "resident w0") && !strstr(t.s, "home w") && strstr(t.s, "drop_host w0\n")), t.s);
        }
        tm_clear(&t);
        rm_plan_destroy(p);
        d.host_bytes = 799; /* states, and weight and gradient of w0, have no room */
        EXPECT(rm_plan_create(g, &d, &p) == RM_ERROR_INFEASIBLE && strstr(rm_graph_error(g), "host memory of 799 bytes: too small"), rm_graph_error(g));
        rm_graph_destroy(g);
    }
}

int main(void)
{
    resting();
    crowded();
    merges();
    outputs_again();
    nothing_saved();
    quotients();
    looking();
    words();
    stopping_all();
    least();
    together();
    hosts();
    slow();
    between();
    refusals();
    many();
    growing();
    large_first();
    long_chain_in_little();
    stuck_modes();
    like_from_text();
    little();
    too_little();
    full_batches();
    return tm_end();
}
