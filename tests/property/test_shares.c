/* test_shares.c - weights, gradients and states in shares on ranks: plans written by hand (tests/oracle/shares.txt; comm.txt: ops on the comm lane), what is planned for
   random graphs, and such plans with a line lost, doubled, moved or changed, by both referees.

      gcc -O1 -g -std=gnu99 -I. tests/property/test_shares.c build/tests/objects/replay.o -o build/test_shares -lstdc++ -lm
      test_shares [GRAPHS [FIRST SEED]] */
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"
#include "../common.h"
#include "../oracle/plan.h"
#include "../oracle/hand.h"
#include "randgraph.h"

static void words(void)
{
    static const struct {
        const char *line, *says;
    } wrong[] = {
        {"ranks 1 rate=5", "2:7: found '1', expected 2 to 65535 ranks, a grain of at most 2^20"},
        {"ranks 65536 rate=5", "2 to 65535 ranks"},
        {"ranks 4", "expected 'rate=' above zero"},
        {"ranks 4 rate=0", "'rate=' above zero"},
        {"ranks 4 rate=5 grain=0", "'grain=' above zero"},
        {"ranks 4 rate=5 grain=1048577", "a grain of at most 2^20"},
        {"ranks 4 rate=5\nranks 4 rate=5", "3:1: found 'ranks', expected ranks once only"},
        {"ranks 4 rate=5 add=3", "one of rate= latency= grain="},
    };
    static const char right[] = "rockmate graph 1\nranks 4 rate=5 latency=7 grain=32\ntensor x input 1\nop a in=x out=y:1 needs=none\noutput y\n";
    char text[200];
    size_t i;
    rm_graph *g = NULL;
    tm_text a = {0};
    for (i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        rmtest_result r;
        g = NULL;
        snprintf(text, sizeof text, "rockmate graph 1\n%s\ntensor x input 1\nop a in=x out=y:1\noutput y\n", wrong[i].line);
        EXPECT(rm_graph_read(text, strlen(text), NULL, &g) == RM_ERROR_TEXT && g && strstr(rm_graph_error(g), wrong[i].says), g ? rm_graph_error(g) : "read");
        rm_graph_destroy(g);
        rmtest_replay_c(text, strlen(text), "rockmate plan 1\narena 2\n", 25, RMTEST_NO_BUDGET, RMTEST_NO_BUDGET, &r);
        EXPECT(r.verdict == RMTEST_UNREADABLE, text);
    }
    g = NULL;
    if (EXPECT(rm_graph_read(right, strlen(right), NULL, &g) == RM_OK, g ? rm_graph_error(g) : "-")) EXPECT(rm_graph_write(g, tm_sink, &a) == RM_OK && strstr(a.s, "\nranks 4 rate=5 latency=7 grain=32\n"), a.s);
    free(a.s);
    rm_graph_destroy(g);
    g = rm_graph_create(NULL);
    if (EXPECT(g, "-")) {
        rm_graph_ranks(g, 1, 5, 0, 0);
        EXPECT(strstr(rm_graph_error(g), "rm_graph_ranks: call it once"), rm_graph_error(g));
    }
    rm_graph_destroy(g);
}

/* What plans in shares are not, yet: refused by name. */
static void refused(void)
{
    static const char net[] = "rockmate graph 1\nlink h2d=1000 d2h=1000\nranks 4 rate=1000\ntensor x input 64\n"
                              "tensor w param 256 state=512 opt=400 reduce=100\nop fc in=x,w out=l:4 needs=x,w fwd=300 bwd=500\noutput l\n";
    rm_graph *g = NULL;
    rm_plan *p = NULL, *q = NULL;
    rm_plan_desc d;
    int k;
    if (!EXPECT(rm_graph_read(net, strlen(net), NULL, &g) == RM_OK, "-")) return;
    memset(&d, 0, sizeof d);
    d.shares = 1;
    EXPECT(rm_plan_create(g, &d, &p) == RM_OK, rm_graph_error(g));
    for (k = 0; k < 4; k++) {
        memset(&d, 0, sizeof d);
        d.shares = 1;
        if (k == 0) d.pageable_bytes = 1000;
        if (k == 1) d.unified = 1;
        if (k == 2) d.live_only = 1;
        if (k == 3) d.like = p;
        EXPECT(rm_plan_create(g, &d, &q) == RM_ERROR_ARGUMENT && strstr(rm_graph_error(g), "rm_plan_desc.shares: plans in shares on ranks have no pageable memory"), rm_graph_error(g));
    }
    for (k = 0; k < 2; k++) { /* an update that runs in host memory only */
        static const char host[] = "rockmate graph 1\nlink h2d=1000 d2h=1000\nranks 4 rate=1000\ntensor x input 64\ntensor v param 256 opt=400 reduce=100\n"
                                   "tensor w param 256 state=512 opt_host=400 reduce=100\nop fc in=x,v,w out=l:4 needs=x,v,w fwd=300 bwd=500\noutput l\n";
        rm_graph *other = NULL;
        memset(&d, 0, sizeof d);
        d.shares = 1;
        d.host_bytes = k ? 100000 : 0;
        if (EXPECT(rm_graph_read(host, strlen(host), NULL, &other) == RM_OK, "-"))
            EXPECT(k ? rm_plan_create(other, &d, &q) == RM_OK : rm_plan_create(other, &d, &q) == RM_ERROR_ARGUMENT && strstr(rm_graph_error(other), "param w: its update runs in host memory only; set rm_plan_desc.host_bytes"), rm_graph_error(other));
        if (k && q) EXPECT(!*rmtest_plan(other, q, 0, 100000), rmtest_plan(other, q, 0, 100000));
        rm_plan_destroy(q);
        q = NULL;
        d.host_bytes = 600; /* a share of a state, of a weight, of the only gradient on its way: of 256 bytes, the alignment */
        if (k) EXPECT(rm_plan_create(other, &d, &q) == RM_ERROR_INFEASIBLE && strstr(rm_graph_error(other), "too few for shares whose updates run there only; 768 would do"), rm_graph_error(other));
        rm_graph_destroy(other);
    }
    memset(&d, 0, sizeof d);
    d.like = p;
    EXPECT(rm_plan_create(g, &d, &q) == RM_ERROR_ARGUMENT && strstr(rm_graph_error(g), "rm_plan_desc.like: that plan is in shares on ranks"), rm_graph_error(g));
    rm_plan_destroy(p);
    rm_graph_destroy(g);
}

#define DISK "tier disk rate_in=700000000 rate_out=500000000 latency=50\n"

/* The graph with ranks, a disk behind host memory, and reductions of those params that have an update on the device. */
static void with_ranks(const char *text, unsigned long seed, tm_text *out)
{
    const char *at = text, *next;
    char line[200];
    out->n = 0;
    for (; *at; at = next) {
        next = strchr(at, '\n') + 1;
        if (!strncmp(at, "link ", 5) && seed % 3 == 1) continue; /* shares and a link: most */
        if (!strncmp(at, "tensor ", 7) && strstr(at, " param ") && strstr(at, " param ") < next && !(strstr(at, "reduce=") && strstr(at, "reduce=") < next) && !(strstr(at, " frozen") && strstr(at, " frozen") < next) && hand_below(8)) {
            tm_sink(out, at, (size_t)(next - at - 1));
            tm_sink(out, " reduce=100\n", 12);
        } else tm_sink(out, at, (size_t)(next - at));
        if (at == text) {
            snprintf(line, sizeof line, "ranks %d rate=%d000000 latency=%d grain=%d\n", (int)(2 + hand_below(7)), (int)(50 + hand_below(2000)), (int)hand_below(200), 1 << hand_below(7));
            tm_sink(out, line, strlen(line));
        }
        if (!strncmp(at, "link ", 5)) tm_sink(out, DISK, sizeof DISK - 1);
    }
}

static unsigned long shared, away, updated_there, weights_away, values_away, too_few, on_disk, named_with_disk, infeasible, legal_changes, changes;

/* What plans have in host memory, of a step as text. */
static void count_away(rm_plan *p)
{
    tm_text program = {0};
    if (EXPECT(rm_plan_write(p, 0, tm_sink, &program) == RM_OK, "write")) {
        updated_there += strstr(program.s, "@share@host") != NULL;
        const char *copy = program.s;
        weights_away += strstr(program.s, "\nprefetch share:w") != NULL || strstr(program.s, "\nprefetch share:p") != NULL;
        while ((copy = strstr(copy, "\nprefetch ")) != NULL && !strncmp(copy += 10, "share", 5)) continue;
        values_away += copy != NULL;
    }
    free(program.s);
}


/* Of the host memory that a plan in shares uses there are two thirds, and a disk behind it: there is a plan, or so much host memory is named
   with which there is. */
static void with_disk(rm_graph *g, rm_plan_desc d)
{
    rm_plan *p = NULL;
    rm_plan_info info;
    d.host_bytes = d.info->host_bytes * 2 / 3 + 1;
    d.info = &info;
    d.disk_bytes = 1u << 30;
    if (rm_plan_create(g, &d, &p) != RM_OK) {
        const char *would = strstr(rm_graph_error(g), "too few for what is there at once; ");
        named_with_disk++;
        if (!EXPECT(would, rm_graph_error(g))) return;
        d.host_bytes = strtoull(would + 35, NULL, 10);
        EXPECT(rm_plan_create(g, &d, &p) == RM_OK, rm_graph_error(g));
    }
    if (!p) return;
    on_disk += info.disk_bytes[0] != 0;
    EXPECT(info.host_bytes <= d.host_bytes, "more host memory than there is");
    EXPECT(!rmtest_plan(g, p, d.device_bytes, d.host_bytes) || !*rmtest_plan(g, p, d.device_bytes, d.host_bytes), rmtest_plan(g, p, d.device_bytes, d.host_bytes));
    rm_plan_destroy(p);
}

/* Changed programs of a step of the plan: the library and the referee say the same of each. */
static void change(rm_graph *g, rm_plan *p, uint32_t step, const tm_text *text)
{
    tm_text program = {0};
    char *changed = rm_plan_write(p, step, tm_sink, &program) == RM_OK ? (char *)malloc(2 * program.n + 400) : NULL;
    int turn;
    for (turn = 0; turn < 40 && changed; turn++) {
        const size_t n = hand_change(program.s, program.n, changed);
        if (!n) continue;
        changes++;
        legal_changes += (unsigned long)hand_both(g, text->s, text->n, changed, n, NULL);
    }
    free(changed), free(program.s);
}

static void one(unsigned long seed)
{
    rg_text t;
    tm_text text = {0};
    rm_graph *g = NULL;
    rm_plan *p = NULL;
    rm_plan_desc d;
    rm_plan_info info;
    uint32_t kinds, k;
    const int hosted = seed % 2 && seed % 3 != 1; /* updates may, or must, run in host memory */
    memset(&d, 0, sizeof d);
    hand_random = seed * 977 + 3;
    rg_generate(&t, seed, 4 + (int)(seed % 12), (hosted ? RG_ALL : RG_ALL & ~RG_OPT_HOST) | RG_STATE | RG_LINK);
    if (!t.data) return;
    with_ranks(t.data, seed, &text);
    rg_free(&t);
    if (!EXPECT(rm_graph_read(text.s, text.n, NULL, &g) == RM_OK, g ? rm_graph_error(g) : "-")) goto end;
    kinds = seed % 8 == 7 ? RM_SINGLE | RM_FIRST | RM_LAST : seed % 4 == 1 ? RM_FIRST | RM_MIDDLE | RM_LAST : seed % 4 == 2 ? RM_SINGLE | RM_FORWARD : RM_SINGLE;
    d.shares = 1;
    d.steps = kinds;
    d.info = &info;
    d.align = 64;
    d.work_limit = 20000;
    d.host_bytes = hosted ? 1u << 30 : 0;
    if (rm_plan_create(g, &d, &p) != RM_OK) {
        EXPECT(strstr(rm_graph_error(g), "no param can be in shares") || strstr(rm_graph_error(g), "in plans in shares on ranks that is for shares"), rm_graph_error(g));
        goto end;
    }
    d.device_bytes = info.arena_bytes * (40 + hand_below(60)) / 100;
    d.host_bytes = strstr(text.s, "\nlink ") ? info.arena_bytes / 4 * (seed % 2 ? 1 + seed % 7 : 0) : 0;
    rm_plan_destroy(p);
    p = NULL;
    if (rm_plan_create(g, &d, &p) == RM_ERROR_INFEASIBLE && strstr(rm_graph_error(g), "too few for shares whose updates run there only")) {
        too_few++;
        d.host_bytes = strtoull(strstr(rm_graph_error(g), "there only; ") + 12, NULL, 10);
        if (rm_plan_create(g, &d, &p) != RM_OK) EXPECT(strstr(rm_graph_error(g), "budget of"), rm_graph_error(g));
    }
    if (!p) { /* then a budget is named, and works */
        infeasible++;
        d.device_bytes = info.min_bytes;
        if (!EXPECT(strstr(rm_graph_error(g), "too small") && rm_plan_create(g, &d, &p) == RM_OK, rm_graph_error(g))) goto end;
    }
    shared++;
    away += info.host_bytes != 0;
    count_away(p);
    EXPECT(info.host_bytes <= d.host_bytes, "more host memory than there is");
    EXPECT(!rmtest_plan(g, p, d.device_bytes, 0) || !*rmtest_plan(g, p, d.device_bytes, 0), rmtest_plan(g, p, d.device_bytes, 0));
    for (k = RM_SINGLE; k <= RM_FORWARD; k <<= 1) {
        if (!(kinds & k)) continue;
        change(g, p, k, &text);
    }
    if (info.host_bytes) with_disk(g, d);
end:
    rm_plan_destroy(p);
    rm_graph_destroy(g);
    free(text.s);
}

/* A view has no run that a lane could have; another lane cannot be named. */
static void views(void)
{
    static const char *const text[] = {"rockmate graph 1\ntensor x input 64\nop v in=x out=y:32 view=x lane=comm\nop l in=y out=z\noutput z\n",
                                       "rockmate graph 1\ntensor x input 64\nop v in=x out=y lane=host\noutput y\n"};
    static const char *const why[] = {"op v: it is a view, which has no run for a lane", "found 'lane=host', expected one of"};
    int i;
    for (i = 0; i < 2; i++) {
        rm_graph *g = NULL;
        EXPECT(rm_graph_read(text[i], strlen(text[i]), NULL, &g) == RM_ERROR_TEXT && g && strstr(rm_graph_error(g), why[i]), g ? rm_graph_error(g) : "-");
        rm_graph_destroy(g);
    }
}

/* What stays on the device may be in shares there, by each of the policies. */
static void stays(void)
{
    static const char text[] = "rockmate graph 1\nranks 2 rate=1000000000 latency=100000\ntensor x input 1000\n"
                               "tensor w param 1000 opt=10 reduce=10 stays\ntensor v param 1000 opt=10 reduce=10\n"
                               "op a in=x,v out=h:1000 needs=x,v fwd=300 bwd=500\nop b in=h,w out=u:1000 needs=h fwd=300 bwd=300\n"
                               "op c in=u out=l:4 needs=u fwd=200 bwd=300\noutput l\n";
    uint32_t k;
    for (k = 1; k <= 3; k++) {
        rm_graph *g = NULL;
        rm_plan *p = NULL;
        rm_plan_desc d = {.shares = k};
        EXPECT(rm_graph_read(text, strlen(text), NULL, &g) == RM_OK && rm_plan_create(g, &d, &p) == RM_OK, rm_graph_error(g));
        if (p) EXPECT(rmi_plan_is_shared(p) && !*rmtest_plan(g, p, 0, 0), rmtest_plan(g, p, 0, 0));
        if (p && k > 1) { /* by name */
            tm_text one_plan = {0}, other = {0};
            rm_plan *named = NULL;
            d.shares = k % 2;
            d.preset = k == 2 ? "zero2" : "zero3";
            if (EXPECT(rm_plan_create(g, &d, &named) == RM_OK, rm_graph_error(g)))
                EXPECT(rm_plan_write(p, 0, tm_sink, &one_plan) == RM_OK && rm_plan_write(named, 0, tm_sink, &other) == RM_OK && !strcmp(one_plan.s, other.s), d.preset);
            rm_plan_destroy(named);
            free(one_plan.s), free(other.s);
        }
        rm_plan_destroy(p);
        rm_graph_destroy(g);
    }
}

/* Host memory that has room for nothing is as none, where updates may run there and need not; a step without updates wants none where they must. */
static void little_host(void)
{
    uint32_t only, i;
    for (only = 0; only < 2; only++) {
        tm_text text = {0};
        char line[300];
        rm_graph *g = NULL;
        rm_plan *p = NULL;
        rm_plan_info info = {0};
        rm_plan_desc d = {.shares = 1, .info = &info, .align = 64, .work_limit = 20000, .steps = only ? RM_FORWARD : RM_SINGLE};
        snprintf(line, sizeof line, "rockmate graph 1\nlink h2d=1000000000 d2h=800000000 latency=100\nranks 4 rate=1000000000 latency=100\ntensor h0 input 4000\n");
        tm_sink(&text, line, strlen(line));
        for (i = 0; i < 4; i++) {
            snprintf(line, sizeof line, "tensor w%u param 2000 state=16000 %sopt_host=4000 reduce=100\nop f%u in=h%u,w%u out=h%u:4000 needs=h%u,w%u fwd=9000 bwd=20000\n", i, only ? "" : "opt=4000 ", i, i, i, i + 1, i, i);
            tm_sink(&text, line, strlen(line));
        }
        snprintf(line, sizeof line, "op l in=h4 out=l:4 needs=h4 fwd=10 bwd=10\noutput l\n");
        tm_sink(&text, line, strlen(line));
        if (!EXPECT(rm_graph_read(text.s, text.n, NULL, &g) == RM_OK, g ? rm_graph_error(g) : "-")) exit(1);
        for (i = 0; i < 5; i++) { /* without a limit; then within what that took */
            const uint64_t ns = info.time_ns;
            d.device_bytes = i ? info.arena_bytes : 0;
            d.host_bytes = i < 2 ? 0 : i == 2 ? 1 : 1000 * (i - 2);
            rm_plan_destroy(p), p = NULL;
            if (!EXPECT(rm_plan_create(g, &d, &p) == RM_OK, rm_graph_error(g))) break;
            EXPECT(info.host_bytes <= d.host_bytes && (i < 2 || info.time_ns <= ns), "slower with a little host memory");
        }
        rm_plan_destroy(p);
        rm_graph_destroy(g);
        free(text.s);
    }
}

/* A chain whose states are most of what it takes: as far as host memory has room they wait there, all the fewer bytes are wanted on the
   device, and a plan for more of either is none slower. */
static void states(void)
{
    static const uint32_t kinds[] = {RM_SINGLE, RM_FIRST | RM_LAST, RM_SINGLE | RM_FORWARD};
    uint64_t least[2] = {0, 0};
    uint32_t k, i, host, barrier;
    for (barrier = 0; barrier < 2; barrier++)
        for (k = 0; k < 3; k++) {
            if ((barrier + k) % tm_amount(2, 1)) continue;
            tm_text text = {0};
            rm_graph *g = NULL;
            rm_plan_info info;
            rm_plan_desc d = {.shares = 1, .info = &info, .align = 64, .work_limit = 20000, .steps = kinds[k]};
            char line[300];
            snprintf(line, sizeof line, "rockmate graph 1\nlink h2d=1000000000 d2h=800000000 latency=100\nranks 4 rate=1000000000 latency=100\ntensor h0 input 4000\n%s", barrier ? "barrier norm ns=500\n" : "");
            tm_sink(&text, line, strlen(line));
            for (i = 0; i < 9; i++) {
                snprintf(line, sizeof line, "tensor w%u param %u state=%u opt=4000 opt_ws=%u reduce=100\nop f%u in=h%u,w%u out=h%u:4000 needs=h%u,w%u fwd=%u bwd=%u\n", i, 2000 + 500 * (i % 3), 16000 + 4000 * (i % 3), 100 * (i % 2), i, i, i, i + 1, i, i, 9000 + i, 20000 - i);
                tm_sink(&text, line, strlen(line));
            }
            snprintf(line, sizeof line, "op l in=h9 out=l:4 needs=h9 fwd=10 bwd=10\noutput l\n");
            tm_sink(&text, line, strlen(line));
            if (!EXPECT(rm_graph_read(text.s, text.n, NULL, &g) == RM_OK, "-")) puts(rm_graph_error(g)), exit(1);
            for (host = 0; host < 5; host++) { /* none, a part, a half, more than all */
                static const uint64_t room[] = {0, 9000, 24000, 46000, 1000000};
                rm_plan *p = NULL;
                d.host_bytes = room[host];
                d.device_bytes = 1000;
                EXPECT(rm_plan_create(g, &d, &p) == RM_ERROR_INFEASIBLE, rm_graph_error(g));
                d.device_bytes = info.min_bytes;
                if (!EXPECT(!host || d.device_bytes <= least[1], "more host memory, and more is wanted on the device")) printf("%u %u %llu %llu\n", k, host, (unsigned long long)least[1], (unsigned long long)d.device_bytes);
                least[1] = d.device_bytes;
                if (!host) least[0] = d.device_bytes;
                if (!EXPECT(rm_plan_create(g, &d, &p) == RM_OK, rm_graph_error(g))) continue;
                EXPECT(info.host_bytes <= room[host] && !host == !info.host_bytes, "host memory");
                EXPECT(!rmtest_plan(g, p, d.device_bytes, 0) || !*rmtest_plan(g, p, d.device_bytes, 0), rmtest_plan(g, p, d.device_bytes, 0));
                change(g, p, 0, &text);
                rm_plan_destroy(p);
            }
            EXPECT(least[1] * 100 < least[0] * 70, "states in host memory leave the device to others");
            printf("%u, %s: %llu bytes of the device without host memory, %llu with it\n", kinds[k], barrier ? "barrier" : "no barrier", (unsigned long long)least[0], (unsigned long long)least[1]);
            rm_graph_destroy(g);
            free(text.s);
        }
}

/* Whoever stops the planner gets the fastest plan there is by then: once there is one, stopping later does not lose it; in shares and
   with a disk. */
static unsigned long stop_at, asked;
static int stops(void *user, const rm_progress *now) { return (void)user, (void)now, ++asked >= stop_at; }
static void stopped(void)
{
    tm_text text = {0};
    rm_graph *g = NULL;
    char line[300];
    uint32_t i, disk;
    snprintf(line, sizeof line, "rockmate graph 1\nlink h2d=1000000000 d2h=1000000000 latency=10\ntier disk rate_in=500000000 rate_out=500000000\nranks 4 rate=1000000000 latency=100\ntensor h0 input 4000\n");
    tm_sink(&text, line, strlen(line));
    for (i = 0; i < 5; i++) {
        snprintf(line, sizeof line, "tensor w%u param 4000 state=16000 opt=4000 reduce=100\nop f%u in=h%u,w%u out=h%u:4000 needs=h%u,w%u fwd=9000 bwd=20000\n", i, i, i, i, i + 1, i, i);
        tm_sink(&text, line, strlen(line));
    }
    snprintf(line, sizeof line, "op l in=h5 out=l:4 needs=h5 fwd=10 bwd=10\noutput l\n");
    tm_sink(&text, line, strlen(line));
    if (!EXPECT(rm_graph_read(text.s, text.n, NULL, &g) == RM_OK, "-")) puts(rm_graph_error(g)), exit(1);
    for (disk = 0; disk < 2; disk++) {
        rm_plan_info info;
        rm_plan *p = NULL;
        rm_plan_desc d = {.info = &info, .align = 64, .work_limit = 20000, .steps = disk ? RM_SINGLE : RM_SINGLE | RM_MIDDLE, .progress = stops, .shares = !disk};
        int had = 0;
        if (disk) d.host_bytes = 40000, d.disk_bytes = 1000000;
        stop_at = (unsigned long)-1;
        EXPECT(rm_plan_create(g, &d, &p) == RM_OK, rm_graph_error(g));
        rm_plan_destroy(p);
        d.device_bytes = disk ? 40000 : info.arena_bytes * 7 / 10;
        p = NULL;
        if (rm_plan_create(g, &d, &p) != RM_OK) d.device_bytes = info.min_bytes;
        rm_plan_destroy(p);
        for (stop_at = 1; stop_at < 40; stop_at++) {
            rm_result r;
            p = NULL;
            asked = 0;
            r = rm_plan_create(g, &d, &p);
            if (!EXPECT(r == RM_OK || (r == RM_ERROR_CANCELLED && !had), rm_graph_error(g))) printf("disk %u, stopped at %lu: %d\n", disk, stop_at, r);
            had |= r == RM_OK;
            if (p) EXPECT(!rmtest_plan(g, p, d.device_bytes, d.host_bytes) || !*rmtest_plan(g, p, d.device_bytes, d.host_bytes), rmtest_plan(g, p, d.device_bytes, d.host_bytes));
            rm_plan_destroy(p);
        }
        EXPECT(had, "no stop was late enough");
    }
    rm_graph_destroy(g);
    free(text.s);
}

/* Chains of params that all are in shares, some values read again later: no plan that lies within a budget is faster than what was said
   to be the bound of that budget, whatever the policy, and whether or not states may be in host memory. */
static unsigned long bounds_within, bounds_above; /* 3 % */
static void bounds(unsigned long seed)
{
    struct {
        uint64_t budget, arena, ns, bound, host;
    } plan[12];
    tm_text text = {0};
    rm_graph *g = NULL;
    rm_plan_info info;
    rm_plan_desc d = {.info = &info, .align = 16, .work_limit = 20000};
    char line[300];
    uint32_t i, k, n = 0, ops;
    uint64_t most = 0;
    hand_random = seed * 991 + 5;
    ops = 3 + (uint32_t)hand_below(8);
    snprintf(line, sizeof line, "rockmate graph 1\nlink h2d=%u d2h=%u latency=10\nranks %u rate=%u latency=%u\ntensor h0 input 4000\n", (uint32_t)1 << (27 + seed % 5), (uint32_t)1 << (27 + seed % 4),
             2 + (uint32_t)hand_below(4), (uint32_t)1 << (26 + (uint32_t)hand_below(8) % 6), (uint32_t)hand_below(300));
    tm_sink(&text, line, strlen(line));
    for (i = 0; i < ops; i++) {
        uint32_t bytes = 64 + (uint32_t)hand_below(6000), older = (uint32_t)hand_below(i + 1);
        snprintf(line, sizeof line, "tensor w%u param %u state=%u opt=%u reduce=100\nop f%u in=h%u,w%u", i, bytes, i + 1 < ops || seed % 2 ? 4 * bytes : 40000, (uint32_t)hand_below(9000), i, i, i);
        if (seed / 2 % 2 && i % 3) { /* some updates may run in host memory, in less time or in more */
            char *at = strstr(line, " reduce=");
            const size_t used = (size_t)(at - line), rest = strlen(at);
            char last[200];
            memcpy(last, at, rest + 1);
            snprintf(line + used, sizeof line - used, " opt_host=%u%s", (uint32_t)hand_below(20000), last);
        }
        tm_sink(&text, line, strlen(line));
        if (older && older < i) snprintf(line, sizeof line, ",h%u", older), tm_sink(&text, line, strlen(line));
        snprintf(line, sizeof line, " out=h%u:%u needs=h%u,w%u fwd=%u bwd=%u\n", i + 1, 500 + (uint32_t)hand_below(8000), i, i, 100 + (uint32_t)hand_below(9000), 100 + (uint32_t)hand_below(20000));
        tm_sink(&text, line, strlen(line));
    }
    snprintf(line, sizeof line, "op l in=h%u out=l:4 needs=h%u fwd=10 bwd=10\noutput l\n", ops, ops);
    tm_sink(&text, line, strlen(line));
    if (!EXPECT(rm_graph_read(text.s, text.n, NULL, &g) == RM_OK, "-")) puts(rm_graph_error(g)), exit(1);
    for (i = 0; i < 12; i++) { /* ever less memory, until there is no plan */
        rm_plan *p = NULL;
        d.shares = i < 6 ? 1 + i / 2 : 1 + (uint32_t)hand_below(3);
        d.device_bytes = i < 6 ? 0 : most * (31 - 2 * i + hand_below(2)) / 20;
        d.host_bytes = i % 2 ? seed % 3 ? 1 << 20 : 21000 : 0; /* of two ranks the large one and no other has room */
        if (rm_plan_create(g, &d, &p) != RM_OK) break;
        plan[n].budget = d.device_bytes ? d.device_bytes : UINT64_MAX, plan[n].host = d.host_bytes;
        plan[n].arena = info.arena_bytes, plan[n].ns = info.time_ns, plan[n++].bound = info.bound_ns;
        count_away(p);
        if (i < 6 && info.arena_bytes > most) most = info.arena_bytes;
        if (info.time_ns <= info.bound_ns + info.bound_ns * 3 / 100) bounds_within++;
        else bounds_above++;
        rm_plan_destroy(p);
    }
    for (i = 0; i < n; i++)
        for (k = 0; k < n; k++)
            if (plan[k].arena <= plan[i].budget && plan[k].host <= plan[i].host)
                if (!EXPECT(plan[k].ns >= plan[i].bound, text.s))
                    printf("%llu ns in %llu bytes, and %llu are the bound of %llu\n", (unsigned long long)plan[k].ns, (unsigned long long)plan[k].arena, (unsigned long long)plan[i].bound,
                           (unsigned long long)plan[i].budget);
    rm_graph_destroy(g);
    free(text.s);
}

int main(int argc, char **argv)
{
    unsigned long graphs = argc > 1 ? strtoul(argv[1], NULL, 10) : tm_amount(40, 120), first = argc > 2 ? strtoul(argv[2], NULL, 10) : 1, i;
    hand_plans("tests/oracle/shares.txt");
    hand_plans("tests/oracle/comm.txt");
    views();
    words();
    refused();
    stays();
    little_host();
    states();
    stopped();
    for (i = 0; i < graphs && tm_more((unsigned long)i); i++) {
        tm_case = first + i;
        one(first + i);
        bounds(first + i);
    }
    tm_case = 0;
    EXPECT(i < 40 || values_away >= 10, "activations are never in host memory");
    printf("%lu plans within 3 %% of their bound, %lu above\n", bounds_within, bounds_above);
    printf("%lu plans in shares, %lu with host memory (%lu update there, %lu with weights there, %lu with activations there, %lu after more of it was named), %lu with a disk (%lu after more host memory was named), %lu after a budget was named; %lu changed plans, %lu of them legal\n", shared, away, updated_there, weights_away, values_away, too_few, on_disk, named_with_disk, infeasible, changes, legal_changes);
    return tm_end();
}
