/* test_shares.c - weights, gradients and states in shares on ranks: plans written by hand (tests/oracle/shares.txt), what is planned for
   random graphs, and such plans with a line lost, doubled, moved or changed, by both referees.

      gcc -O1 -g -std=gnu99 -I. tests/property/test_shares.c build/tests/objects/replay.o -o build/test_shares -lstdc++ -lm
      test_shares [GRAPHS [FIRST SEED]] */
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"
#include "../common.h"
#include "../oracle/plan.h"
#include "randgraph.h"

static uint64_t random_state = 1;
static size_t below(size_t n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return n ? (size_t)(random_state >> 33) % n : 0;
}

/* Both referees see a plan for a graph. Verdicts, and figures of what is legal, must be the same; want: the verdict that they must
   have, or -1. Returns whether it is legal. */
static int both(rm_graph *g, const char *graph, size_t graph_n, const char *text, size_t n, int want, const uint64_t *figures)
{
    rm_plan *p = NULL;
    rm_plan_info info;
    rmtest_result r;
    char why[900];
    const int verdict = rm_plan_read(g, text, n, &p) == RM_OK ? RMTEST_LEGAL : RMTEST_ILLEGAL;
    memset(&info, 0, sizeof info);
    if (p) rm_plan_get_info(p, 0, &info);
    rmtest_replay_c(graph, graph_n, text, n, RMTEST_NO_BUDGET, RMTEST_NO_BUDGET, &r);
    snprintf(why, sizeof why, "library: %s; the tests' referee: %s\n%.*s", p ? "legal" : rm_graph_error(g), r.verdict ? r.message : "legal", (int)(n < 400 ? n : 400), text);
    EXPECT(verdict == r.verdict, why);
    if (want >= 0) EXPECT(verdict == want, why);
    if (!verdict && !r.verdict) EXPECT(info.time_ns == r.time_ns && info.first_ns == r.first_ns && info.live_bytes == r.live_bytes && info.host_bytes >= r.host_bytes, why);
    if (!verdict && figures) EXPECT(info.time_ns == figures[0] && info.first_ns == figures[1] && info.live_bytes == figures[2], why);
    if (!verdict) { /* what is written is the same plan */
        tm_text again = {0}, third = {0};
        rm_plan *q = NULL;
        rm_plan_write(p, 0, tm_sink, &again);
        if (EXPECT(rm_plan_read(g, again.s, again.n, &q) == RM_OK, rm_graph_error(g))) {
            rm_plan_write(q, 0, tm_sink, &third);
            EXPECT(!strcmp(again.s, third.s), "written, read, written");
        }
        rm_plan_destroy(q);
        free(again.s), free(third.s);
    }
    rm_plan_destroy(p);
    return !verdict;
}

static char *section(char *from) /* the next line that begins with @, or the end */
{
    char *at = strstr(from, "\n@");
    return at ? at + 1 : from + strlen(from);
}

static void by_hand(void)
{
    tm_text all = {0};
    char *at, *next;
    if (!EXPECT(tm_read("tests/oracle/shares.txt", &all), "tests run in the repository's root")) return;
    for (at = section(all.s); *at; at = next) {
        char name[120], graph[100], verdict[20], *line = strchr(at, '\n') + 1, *of, *end;
        unsigned long long fig[3] = {0, 0, 0};
        uint64_t figures[3];
        rm_graph *g = NULL;
        next = section(at);
        if (sscanf(at, "@plan %119s %99s %19s %llu %llu %llu", name, graph, verdict, &fig[0], &fig[1], &fig[2]) < 3) continue;
        snprintf(name, sizeof name, "@graph %s\n", graph);
        of = strstr(all.s, name);
        if (!EXPECT(of, name)) continue;
        of = strchr(of, '\n') + 1;
        end = section(of);
        figures[0] = fig[0], figures[1] = fig[1], figures[2] = fig[2];
        if (EXPECT(rm_graph_read(of, (size_t)(end - of), NULL, &g) == RM_OK, g ? rm_graph_error(g) : "-")) {
            const unsigned long failed = tm_failed;
            both(g, of, (size_t)(end - of), line, (size_t)(next - line), strcmp(verdict, "legal") != 0, verdict[0] == 'l' ? figures : NULL);
            if (tm_failed > failed) printf("that was %.60s\n", at);
        }
        rm_graph_destroy(g);
    }
    free(all.s);
}

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
        if (k == 0) d.host_bytes = 1000;
        if (k == 1) d.unified = 1;
        if (k == 2) d.live_only = 1;
        if (k == 3) d.like = p;
        EXPECT(rm_plan_create(g, &d, &q) == RM_ERROR_ARGUMENT && strstr(rm_graph_error(g), "rm_plan_desc.shares: plans in shares on ranks move nothing"), rm_graph_error(g));
    }
    memset(&d, 0, sizeof d);
    d.like = p;
    EXPECT(rm_plan_create(g, &d, &q) == RM_ERROR_ARGUMENT && strstr(rm_graph_error(g), "rm_plan_desc.like: that plan is in shares on ranks"), rm_graph_error(g));
    rm_plan_destroy(p);
    rm_graph_destroy(g);
}

/* A plan's text with a line lost, doubled, moved, or with another number or another line's buffer. */
static size_t change(const char *text, size_t n, char *out)
{
    const char *line[4000], *at = text;
    size_t lines = 0, i, k, m = 0, what = below(5), other;
    for (; at < text + n && lines < 4000; at = strchr(at, '\n') + 1) line[lines++] = at;
    if (lines < 6 || lines == 4000) return 0;
    i = 3 + below(lines - 3);
    other = 3 + below(lines - 3);
    for (k = 0; k < lines; k++) {
        size_t from = k, length;
        if (what == 0 && k == i) continue;
        if (what == 1 && (k == i || k == other)) from = k == i ? other : i;
        length = (size_t)((from + 1 < lines ? line[from + 1] : text + n) - line[from]);
        if (what >= 3 && k == i) { /* the last word, or the second, is the other line's */
            const char *mine = memchr(line[i], ' ', length), *theirs = strchr(line[other], ' ');
            if (what == 3 && mine) mine = strrchr(line[i], ' ') && strpbrk(mine + 1, " \n")[0] == ' ' ? strpbrk(mine + 1, " \n") : mine;
            if (!mine || !theirs || theirs > strchr(line[other], '\n')) return 0;
            memcpy(out + m, line[i], (size_t)(mine - line[i]));
            m += (size_t)(mine - line[i]);
            length = (size_t)(strpbrk(theirs + 1, " \n") - theirs);
            memcpy(out + m, theirs, length);
            m += length;
            out[m++] = '\n';
            continue;
        }
        memcpy(out + m, line[from], length);
        m += length;
        if (what == 2 && k == i) {
            memcpy(out + m, line[from], length);
            m += length;
        }
    }
    return m;
}

/* The graph with ranks, and reductions of those params that have an update on the device. */
static void with_ranks(const char *text, unsigned long seed, tm_text *out)
{
    const char *at = text, *next;
    char line[200];
    out->n = 0;
    for (; *at; at = next) {
        next = strchr(at, '\n') + 1;
        if (!strncmp(at, "link ", 5) && seed % 3) continue; /* shares and a link: some */
        if (!strncmp(at, "tensor ", 7) && strstr(at, " param ") && strstr(at, " param ") < next && !(strstr(at, "reduce=") && strstr(at, "reduce=") < next) && !(strstr(at, " frozen") && strstr(at, " frozen") < next) && below(8)) {
            tm_sink(out, at, (size_t)(next - at - 1));
            tm_sink(out, " reduce=100\n", 12);
        } else tm_sink(out, at, (size_t)(next - at));
        if (at == text) {
            snprintf(line, sizeof line, "ranks %d rate=%d000000 latency=%d grain=%d\n", (int)(2 + below(7)), (int)(50 + below(2000)), (int)below(200), 1 << below(7));
            tm_sink(out, line, strlen(line));
        }
    }
}

static unsigned long shared, infeasible, legal_changes, changes;

static void one(unsigned long seed)
{
    rg_text t;
    tm_text text = {0}, program = {0};
    rm_graph *g = NULL;
    rm_plan *p = NULL;
    rm_plan_desc d;
    rm_plan_info info;
    uint32_t kinds, k;
    memset(&d, 0, sizeof d);
    random_state = seed * 977 + 3;
    rg_generate(&t, seed, 4 + (int)(seed % 12), (RG_ALL & ~RG_OPT_HOST) | RG_STATE);
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
    if (rm_plan_create(g, &d, &p) != RM_OK) {
        EXPECT(strstr(rm_graph_error(g), "no param can be in shares"), rm_graph_error(g));
        goto end;
    }
    d.device_bytes = info.arena_bytes * (40 + below(60)) / 100;
    rm_plan_destroy(p);
    p = NULL;
    if (rm_plan_create(g, &d, &p) != RM_OK) { /* then a budget is named, and works */
        infeasible++;
        d.device_bytes = info.min_bytes;
        if (!EXPECT(strstr(rm_graph_error(g), "too small") && rm_plan_create(g, &d, &p) == RM_OK, rm_graph_error(g))) goto end;
    }
    shared++;
    EXPECT(!rmtest_plan(g, p, d.device_bytes, 0) || !*rmtest_plan(g, p, d.device_bytes, 0), rmtest_plan(g, p, d.device_bytes, 0));
    for (k = RM_SINGLE; k <= RM_FORWARD; k <<= 1) {
        char *changed;
        int turn;
        if (!(kinds & k)) continue;
        program.n = 0;
        rm_plan_write(p, k, tm_sink, &program);
        changed = (char *)malloc(2 * program.n + 400);
        for (turn = 0; turn < 40 && changed; turn++) {
            const size_t n = change(program.s, program.n, changed);
            if (!n) continue;
            changes++;
            legal_changes += (unsigned long)both(g, text.s, text.n, changed, n, -1, NULL);
        }
        free(changed);
    }
end:
    rm_plan_destroy(p);
    rm_graph_destroy(g);
    free(text.s), free(program.s);
}

int main(int argc, char **argv)
{
    unsigned long graphs = argc > 1 ? strtoul(argv[1], NULL, 10) : tm_amount(40, 120), first = argc > 2 ? strtoul(argv[2], NULL, 10) : 1, i;
    by_hand();
    words();
    refused();
    for (i = 0; i < graphs; i++) {
        tm_case = first + i;
        one(first + i);
    }
    tm_case = 0;
    printf("%lu plans in shares, %lu after a budget was named; %lu changed plans, %lu of them legal\n", shared, infeasible, changes, legal_changes);
    return tm_end();
}
