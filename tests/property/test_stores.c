/* test_stores.c - a disk behind host memory: plans written by hand (tests/oracle/disk.txt); plans of random graphs, with copies and in shares,
   into which stores, loads, drops and homes on disk are put at random places, some legal and some not; and such plans with a line lost,
   doubled, moved or changed. Both referees must say the same. And the waits of such programs (>>lanes): none is missing, each is needed.

      gcc -O1 -g -std=gnu99 -I. tests/property/test_stores.c build/tests/objects/replay.o -o build/test_stores -lstdc++ -lm
      test_stores [GRAPHS [FIRST SEED]] */
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"
#include "../common.h"
#include "../oracle/plan.h"
#include "../oracle/hand.h"
#include "randgraph.h"
#include "copies.h"

static void words(void)
{
    static const struct {
        const char *line, *says, *referee;
    } wrong[] = {
        {"tier disk", "expected 'rate_in=' above zero", "rate_in and rate_out above zero"},
        {"tier disk rate_in=5", "expected 'rate_out=' above zero", "rate_in and rate_out above zero"},
        {"tier disk rate_out=5", "expected 'rate_in=' above zero", "rate_in and rate_out above zero"},
        {"tier disk rate_in=0 rate_out=5", "expected 'rate_in=' above zero", "rate_in and rate_out above zero"},
        {"tier disk rate_in=5 rate_out=0", "expected 'rate_out=' above zero", "rate_in and rate_out above zero"},
        {"tier disk rate_in=5 rate_out=5 rate_in=5", "only once", "stands twice"},
        {"tier disk rate_in=5 rate_out=5 add=3", "one of rate_in= rate_out= latency= room=", "unknown here"},
        {"tier disk rate_in=5 rate_out=5\ntier disk rate_in=5 rate_out=5", "3:1: found 'tier', expected one disk only", "declared twice"},
        {"tier tape rate_in=5 rate_out=5", "2:6: found 'tape', expected the tier disk", "tier disk"},
        {"tier", "2:5: found the end of the statement, expected the tier disk", "a name is missing"},
    };
    static const char right[] = "rockmate graph 1\ntier disk rate_in=5 rate_out=6 latency=7 room=8\ntensor x input 1\nop a in=x out=y needs=none\noutput y\n";
    size_t i;
    rm_graph *g = NULL;
    tm_text a = {0};
    for (i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char text[200];
        rmtest_result r;
        tm_case = i + 1;
        g = NULL;
        snprintf(text, sizeof text, "rockmate graph 1\n%s\ntensor x input 1\nop a in=x out=y:1\noutput y\n", wrong[i].line);
        EXPECT(rm_graph_read(text, strlen(text), NULL, &g) == RM_ERROR_TEXT && g && strstr(rm_graph_error(g), wrong[i].says), g ? rm_graph_error(g) : "read");
        rm_graph_destroy(g);
        rmtest_replay_c(text, strlen(text), "rockmate plan 1\narena 2\n", 25, RMTEST_NO_BUDGET, RMTEST_NO_BUDGET, &r);
        EXPECT(r.verdict == RMTEST_UNREADABLE && strstr(r.message, wrong[i].referee), r.message);
    }
    tm_case = 0;
    g = NULL;
    if (EXPECT(rm_graph_read(right, strlen(right), NULL, &g) == RM_OK, g ? rm_graph_error(g) : "-")) EXPECT(rm_graph_write(g, tm_sink, &a) == RM_OK && !strcmp(a.s, right), a.s);
    free(a.s);
    rm_graph_destroy(g);
    for (i = 0; i < 4; i++) {
        g = rm_graph_create(NULL);
        if (!EXPECT(g, "-")) return;
        if (i == 3) rm_graph_disk(g, 5, 5, 0, 0);
        EXPECT(*rm_graph_error(g) == 0, rm_graph_error(g));
        rm_graph_disk(g, i == 0 ? 0 : 6, i == 1 ? 0 : 6, i == 2 ? (uint64_t)1 << 62 : 0, 0);
        if (i < 3) EXPECT(strstr(rm_graph_error(g), "rm_graph_disk: give two rates above zero"), rm_graph_error(g));
        else EXPECT(*rm_graph_error(g) == 0 && g->disk.in == 6 && g->disk.out == 6, "the last call counts");
        rm_graph_destroy(g);
    }
}

static int nothing(const rm_call *c) { return (void)c, 0; }

/* No executor without hooks runs such a plan, neither a new one nor one that has another plan, whichever of its steps has something on disk. */
static void refused(void)
{
    static const rm_kind kind = {.name = "k", .forward = nothing, .backward = nothing};
    static const char on_disk[] = "rockmate plan 1\narena 1024 host 64 disk 64\nstep forward\nresident x 0\nhome w 0 disk\nload w 0\nalloc w 64\nprefetch w\nalloc a 128\nrun fwd a\n";
    rm_graph *g = rm_graph_create(NULL);
    rm_plan *all = NULL, *disk = NULL;
    rm_exec *x = NULL, *y = NULL;
    rm_plan_desc d;
    rm_tensor in = rm_input_add(g, "x", 64, 0), w = RM_PARAM(g, .name = "w", .bytes = 64, .update = nothing);
    memset(&d, 0, sizeof d);
    d.steps = RM_SINGLE | RM_FORWARD;
    rm_graph_link(g, 1000000000, 1000000000, 0, 0);
    rm_graph_disk(g, 1000000000, 1000000000, 0, 0);
    rm_output_add(g, RM_OP(g, &kind, .name = "a", .in = {in, w}, .out = {64}));
    if (EXPECT(rm_plan_create(g, &d, &all) == RM_OK && rm_exec_create(all, NULL, &x) == RM_OK && rm_plan_read(g, on_disk, strlen(on_disk), &disk) == RM_OK, rm_graph_error(g))) {
        const rmi_program forward = all->prog[1];
        EXPECT(rm_exec_replan(x, disk) == RM_ERROR_ARGUMENT && strstr(rm_exec_error(x), "the plan has something on disk; set rm_exec_desc.disk_read and disk_write"), rm_exec_error(x));
        all->prog[1] = disk->prog[0];
        EXPECT(rm_exec_create(all, NULL, &y) == RM_ERROR_ARGUMENT && strstr(rm_graph_error(g), "the plan has something on disk; set rm_exec_desc.disk_read and disk_write"), rm_graph_error(g));
        d.like = all;
        rm_plan_destroy(disk);
        disk = NULL;
        EXPECT(rm_plan_create(g, &d, &disk) == RM_ERROR_ARGUMENT && strstr(rm_graph_error(g), "rm_plan_desc.like: that plan has something on disk"), rm_graph_error(g));
        all->prog[1] = forward;
        EXPECT(rm_exec_step(x, NULL) == RM_OK || strstr(rm_exec_error(x), "input"), rm_exec_error(x));
    }
    rm_exec_destroy(x);
    rm_plan_destroy(disk);
    rm_plan_destroy(all);
    rm_graph_destroy(g);
}

/* --- a plan as lines */
enum { LINE = 400 }; /* names are short here */
typedef struct sheet {
    char (*line)[LINE];
    size_t n, cap, body; /* body: the first statement of the program */
} sheet;

static void sheet_put(sheet *s, size_t at, const char *verb, const char *buffer, const char *rest)
{
    if (s->n == s->cap) s->line = (char (*)[LINE])realloc(s->line, (s->cap = 2 * s->cap + 64) * sizeof *s->line);
    if (!s->line) exit(3);
    memmove(s->line + at + 1, s->line + at, (s->n - at) * sizeof *s->line);
    snprintf(s->line[at], sizeof s->line[at], "%s%s%s%s%s", verb, buffer ? " " : "", buffer ? buffer : "", rest ? " " : "", rest ? rest : "");
    s->n++;
}

static int sheet_is(const sheet *s, size_t at, const char *verb, char *buffer, char *rest) /* buffer, rest: what follows */
{
    char word[40];
    *rest = 0;
    return sscanf(s->line[at], "%39s %299s %59[^\n]", word, buffer, rest) >= 2 && !strcmp(word, verb);
}

static void sheet_text(const sheet *s, tm_text *t)
{
    size_t i;
    t->n = 0;
    for (i = 0; i < s->n; i++) {
        tm_sink(t, s->line[i], strlen(s->line[i]));
        tm_sink(t, "\n", 1);
    }
}

/* A plan's text as lines, with so many bytes of each memory. */
static void sheet_of(sheet *s, const char *text)
{
    static const char *const preamble[] = {"rockmate", "arena", "step", "resident", "home"};
    const char *end;
    s->n = s->body = 0;
    for (; *text; text = end + 1) {
        char line[LINE], more[100];
        size_t k;
        end = strchr(text, '\n');
        snprintf(line, sizeof line, "%.*s", (int)(end - text), text);
        if (!strncmp(line, "graph ", 6)) continue; /* it is another graph now */
        snprintf(more, sizeof more, " host %d pageable %d disk %d", 1 << 17, 1 << 17, 1 << 17);
        if (!strncmp(line, "arena ", 6)) {
            line[6 + strspn(line + 6, "0123456789")] = 0;
            sheet_put(s, s->n, line, NULL, more + 1);
        } else sheet_put(s, s->n, line, NULL, NULL);
        for (k = 0; k < sizeof preamble / sizeof preamble[0]; k++)
            if (!strncmp(line, preamble[k], strlen(preamble[k])) && line[strlen(preamble[k])] == ' ') s->body = s->n;
    }
}

static void sheet_copy(sheet *to, const sheet *from)
{
    size_t i;
    to->n = 0;
    for (i = 0; i < from->n; i++) sheet_put(to, i, from->line[i], NULL, NULL);
    to->body = from->body;
}

/* --- what chance puts in */
static const char *some_place(int disk) /* often where something is, or was */
{
    static char text[8][60];
    static unsigned turn;
    static uint64_t used;
    char *t = text[turn++ % 8];
    const uint64_t at = hand_below(2) ? hand_below(8) * 256 : (used += 2048) % (1 << 17);
    snprintf(t, sizeof text[0], "%llu%s", (unsigned long long)at, !disk && hand_below(3) == 0 ? " pageable" : "");
    return t;
}

static size_t from_to(size_t from, size_t to) { return from >= to ? from : from + hand_below(to - from + 1); } /* to as well */

/* A line of this verb, by chance; s->n: there is none. */
static size_t some_line(const sheet *s, const char *verb, char *buffer, char *rest)
{
    const size_t start = hand_below(s->n);
    size_t i;
    for (i = 0; i < s->n; i++)
        if (sheet_is(s, (start + i) % s->n, verb, buffer, rest)) return (start + i) % s->n;
    return s->n;
}

/* What waits in host memory waits on disk, for a while or all the time. */
static void wait_on_disk(sheet *s)
{
    char buffer[300], rest[60], other[300], none[60];
    size_t i = some_line(s, "offload", buffer, rest), back, at;
    if (i == s->n) return;
    for (back = i + 1; back < s->n && !(sheet_is(s, back, "prefetch", other, none) && !strcmp(buffer, other));) back++;
    at = from_to(i + 1, back);
    if (back < s->n) {
        if (hand_below(3) == 0) sheet_put(s, from_to(back, s->n), "drop_disk", buffer, NULL);
        sheet_put(s, from_to(at, back), "load", buffer, hand_below(2) ? rest : some_place(0));
    }
    if (hand_below(2)) sheet_put(s, at, "drop_host", buffer, NULL);
    sheet_put(s, at, "store", buffer, some_place(1));
}

/* What is at home in host memory (resident 0), or on the device, is at home on disk, too or instead. */
static void at_home(sheet *s, int resident)
{
    char buffer[300], rest[60], disk[80];
    const char *place = some_place(1);
    size_t i = some_line(s, resident ? "resident" : "home", buffer, rest), last;
    int too = hand_below(3) == 0;
    if (i == s->n || strstr(rest, "disk")) return;
    snprintf(disk, sizeof disk, "%s disk", place);
    if (!too) {
        memmove(s->line + i, s->line + i + 1, (s->n - i - 1) * sizeof *s->line);
        s->n--;
        s->body--;
    }
    sheet_put(s, s->body, "home", buffer, disk);
    s->body++;
    last = hand_below(2) ? s->n : from_to(s->body + (s->n - s->body) / 2, s->n);
    if (hand_below(4)) sheet_put(s, last, "store", buffer, place);
    if (resident) {
        const char *host = some_place(0);
        if (hand_below(4)) sheet_put(s, last, "offload", buffer, host);
        if (!too) sheet_put(s, s->body, "prefetch", buffer, NULL);
        if (!too) sheet_put(s, s->body, "alloc", buffer, rest);
        sheet_put(s, s->body, "load", buffer, host);
    } else if (hand_below(5)) sheet_put(s, from_to(s->body, s->body + hand_below(2) * (s->n - s->body) / 4), "load", buffer, hand_below(4) ? rest : some_place(0));
}

/* An activation, a gradient, what was saved: out to disk and back between two statements of its life. */
static void away(sheet *s)
{
    char buffer[300], rest[60], other[300], none[60];
    const char *host = some_place(0);
    size_t i = some_line(s, "alloc", buffer, rest), end, a, b;
    if (i == s->n) return;
    for (end = i + 1; end < s->n && !(sheet_is(s, end, "free", other, none) && !strcmp(buffer, other));) end++;
    a = from_to(i + 1, end);
    b = from_to(a, end);
    if (hand_below(3)) {
        sheet_put(s, b, "prefetch", buffer, NULL);
        sheet_put(s, b, "alloc", buffer, rest);
        sheet_put(s, from_to(a, b), "load", buffer, hand_below(2) ? host : some_place(0));
        sheet_put(s, a, "free", buffer, NULL);
    }
    if (hand_below(2)) sheet_put(s, a, "drop_host", buffer, NULL);
    sheet_put(s, a, "store", buffer, some_place(1));
    sheet_put(s, a, "offload", buffer, host);
}

/* Any statement about disks, or copies, of any buffer, anywhere. */
static void anything(sheet *s)
{
    static const char *const verbs[] = {"store", "load", "drop_disk", "drop_host", "store", "load", "offload", "prefetch", "merge"};
    static const char *const of[] = {"offload", "home", "resident", "alloc", "store"};
    char buffer[300], rest[60];
    const size_t verb = hand_below(9);
    size_t near = some_line(s, of[hand_below(5)], buffer, rest);
    if (near == s->n) return;
    near = hand_below(2) ? from_to(near + 1, near + 6) : from_to(s->body, s->n);
    near = near < s->body ? s->body : near > s->n ? s->n : near;
    sheet_put(s, near, verbs[verb], buffer, strstr(verbs[verb], "drop") || verb == 7 ? NULL : hand_below(4) ? some_place(verb == 0 || verb == 4) : rest);
}

/* --- the waits of such a program: which bytes each of its operations uses, counted here */
typedef struct used {
    const rm_graph *g;
    uint64_t (*lo)[3], (*size)[3]; /* by buffer: on the device, in host memory, on disk; lo RMI_INF: not there */
    uint64_t ws[8][2];             /* workspaces that the next run writes */
    uint32_t n_ws;
    rmi_arena mem;
    rmi_lan_prog prog;
    size_t cap;
} used;

static uint32_t used_op(used *u, uint32_t lane)
{
    if (!RMI_GROW(&u->mem, u->prog.lane, u->cap, (size_t)u->prog.n + 1)) exit(3);
    u->prog.lane[u->prog.n] = (uint8_t)lane;
    return u->prog.n++;
}

static void used_bytes(used *u, uint32_t buf, uint32_t memory, int write)
{
    if (u->lo[buf][memory] != RMI_INF && rmi_lan_touch(&u->mem, &u->prog, u->lo[buf][memory], u->size[buf][memory], u->prog.n - 1, write) != RM_OK) exit(3);
}

static void used_copy(used *u, uint32_t lane, uint32_t buf, uint32_t from, uint32_t to, uint64_t at)
{
    used_op(u, lane);
    used_bytes(u, buf, from, 0);
    if (at != RMI_INF) u->lo[buf][to] = at, u->size[buf][to] = u->size[buf][from];
    used_bytes(u, buf, to, 1);
}

static void used_run(used *u, rmi_run run, const uint8_t *ran)
{
    rmi_access a;
    uint32_t k;
    const uint32_t memory = run.way == RMI_OPT_HOST;
    used_op(u, memory ? RM_LANE_HOST : run.way == RMI_REDUCE ? RM_LANE_COMM : RM_LANE_COMPUTE);
    if (rmi_low_access_make(u->g, &u->mem, &a) != RM_OK) exit(3);
    rmi_low_access(u->g, run, run.way == RMI_FWD && ran[run.id], &a);
    for (k = 0; k < a.reads.n; k++) used_bytes(u, a.reads.at[k], run.way == RMI_BARRIER && u->lo[a.reads.at[k]][0] == RMI_INF ? 1 : memory, 0);
    for (k = 0; k < a.writes.n; k++) used_bytes(u, a.writes.at[k], memory, 1);
    if (a.saved != RMI_NONE) used_bytes(u, a.saved, 0, 1);
    for (k = 0; k < u->n_ws; k++) rmi_lan_touch(&u->mem, &u->prog, u->ws[k][0], u->ws[k][1], u->prog.n - 1, 1);
    u->n_ws = 0;
}

static void used_statement(used *u, const rmi_stmt *st, uint8_t *ran)
{
    const uint32_t b = st->buf;
    const uint64_t device = RMI_TIER(3); /* behind all that is beside it */
    uint32_t id;
    switch ((rmi_what)st->what) {
    case RMI_ALLOC:
        u->lo[b][0] = device + st->offset;
        u->size[b][0] = st->bytes;
        if (rmi_low_kind(u->g, b, &id) == RMI_BUF_WS || rmi_low_kind(u->g, b, &id) == RMI_BUF_OPT_WS) u->ws[u->n_ws % 8][0] = u->lo[b][0], u->ws[u->n_ws++ % 8][1] = st->bytes;
        break;
    case RMI_FREE: u->lo[b][0] = RMI_INF; break;
    case RMI_ALIAS:
    case RMI_REUSE: u->lo[b][0] = u->lo[st->other][0], u->size[b][0] = u->size[st->other][0]; break;
    case RMI_RUN:
        used_run(u, st->run, ran);
        if (st->run.way == RMI_FWD) ran[st->run.id] = 1;
        break;
    case RMI_OFFLOAD: used_copy(u, RM_LANE_D2H, b, 0, 1, st->offset); break;
    case RMI_PREFETCH: used_copy(u, RM_LANE_H2D, b, 1, 0, RMI_INF); break;
    case RMI_STORE: used_copy(u, RM_LANE_STORE, b, 1, 2, st->offset); break;
    case RMI_LOAD: used_copy(u, RM_LANE_LOAD, b, 2, 1, st->offset); break;
    case RMI_MERGE:
        used_op(u, RM_LANE_D2H);
        used_bytes(u, b, 0, 0);
        rmi_lan_touch(&u->mem, &u->prog, st->offset, u->size[b][0], u->prog.n - 1, 1);
        used_op(u, RM_LANE_HOST);
        rmi_lan_touch(&u->mem, &u->prog, st->offset, u->size[b][0], u->prog.n - 1, 0);
        used_bytes(u, b, 1, 1);
        break;
    case RMI_DROP_HOST: u->lo[b][1] = RMI_INF; break;
    case RMI_DROP_DISK: u->lo[b][2] = RMI_INF; break;
    case RMI_GATHER:
    case RMI_SCATTER:
        used_op(u, RM_LANE_COMM);
        used_bytes(u, b, 0, st->what == RMI_GATHER);
        used_bytes(u, rmi_low_kind(u->g, b, &id) == RMI_BUF_GRAD ? rmi_low_buf(u->g, RMI_BUF_SHARE_GRAD, id) : rmi_low_buf(u->g, RMI_BUF_SHARE, id), 0, st->what == RMI_SCATTER);
        break;
    default: break;
    }
}

static void used_make(used *u, const rm_graph *g, const rmi_program *q)
{
    const uint32_t n = rmi_low_buffers(g);
    uint8_t *ran;
    uint32_t b, k;
    size_t i;
    memset(u, 0, sizeof *u);
    u->g = g;
    u->mem = rmi_arena_make(NULL);
    if (RMI_TABLES(&u->mem, RMI_T(u->lo, n), RMI_T(u->size, n), RMI_T(ran, g->n_ops + 1)) != RM_OK) exit(3);
    memset(ran, 0, g->n_ops + 1);
    for (b = 0; b < n; b++) {
        for (k = 0; k < 3; k++) u->lo[b][k] = RMI_INF;
        if (rmi_low_external(g, b)) u->lo[b][0] = RMI_TIER(3) + ((uint64_t)(b + 1) << 40), u->size[b][0] = rmi_low_bytes(g, b);
    }
    for (i = 0; i < q->n_homes; i++) {
        const uint32_t memory = !q->homes[i].host ? 0 : RMI_TIER_OF(q->homes[i].offset) == RMI_DISK ? 2 : 1;
        u->lo[q->homes[i].buf][memory] = q->homes[i].offset + (memory ? 0 : RMI_TIER(3));
        u->size[q->homes[i].buf][memory] = rmi_low_bytes(g, q->homes[i].buf);
    }
    for (i = 0; i < q->n; i++) used_statement(u, &q->st[i], ran);
}

/* After a program's waits, and those of the same program before it (n_before ops; 0: it is alone), without number `drop` of its waits:
   known[i][l] is the number + 1 of the last op of lane l that has ended when op i begins, or is i. */
static void known_by(const rmi_lan_prog *prog, const rmi_lan_waits *own, const rmi_lan_waits *waits, uint32_t n_before, size_t drop, uint32_t (*known)[RMI_LANES])
{
    uint32_t last[RMI_LANES], i, k;
    size_t w = 0, at;
    for (k = 0; k < RMI_LANES; k++) last[k] = 0;
    for (i = 0; i < n_before + prog->n; i++) {
        const rmi_lan_waits *of = i < n_before ? own : waits;
        const uint32_t op = i < n_before ? i : i - n_before, lane = prog->lane[op];
        if (i == n_before) w = 0;
        for (k = 0; k < RMI_LANES; k++) known[i][k] = last[lane] ? known[last[lane] - 1][k] : 0;
        for (; w < of->n && of->wait[w].op == op; w++)
            for (k = 0, at = of->wait[w].on; k < RMI_LANES && (i < n_before || w != drop); k++)
                if (known[i][k] < known[at][k]) known[i][k] = known[at][k];
        known[i][lane] = last[lane] = i + 1;
    }
}

static int conflict(const rmi_lan_prog *prog, const size_t *first, uint32_t x, uint32_t y)
{
    size_t i, k;
    for (i = first[x]; i < first[x + 1]; i++)
        for (k = first[y]; k < first[y + 1]; k++)
            if ((prog->use[i].write || prog->use[k].write) && prog->use[i].lo < prog->use[k].hi && prog->use[k].lo < prog->use[i].hi) return 1;
    return 0;
}

static unsigned long waits_of[RMI_LANES], conflicts;

/* Whatever uses the same bytes in two lanes is in order, and every wait is needed for that. */
static void in_order(const rmi_lan_prog *prog, const rmi_lan_waits *own, const rmi_lan_waits *waits, uint32_t n_before)
{
    const uint32_t n = n_before + prog->n;
    uint32_t (*known)[RMI_LANES] = (uint32_t (*)[RMI_LANES])calloc(n + 1, sizeof *known), (*pair)[2] = NULL, i, k;
    size_t *first = (size_t *)calloc(prog->n + 2, sizeof *first), pairs = 0, cap = 0, w, at, races = 0;
    if (!known || !first) exit(3);
    for (i = 0, at = 0; i <= prog->n; first[i++] = at)
        while (at < prog->n_use && prog->use[at].op < i) at++;
    known_by(prog, own, waits, n_before, (size_t)-1, known);
    for (i = n_before; i < n; i++)
        for (k = 0; k < i; k++) {
            const uint32_t x = k % prog->n, y = i - n_before;
            if (prog->lane[x] == prog->lane[y] || !conflict(prog, first, x, y)) continue;
            if (pairs == cap) pair = (uint32_t (*)[2])realloc(pair, (cap = 2 * cap + 256) * sizeof *pair);
            if (!pair) exit(3);
            pair[pairs][0] = k, pair[pairs++][1] = i;
            races += known[i][prog->lane[x]] < k + 1;
        }
    EXPECT(!races, "a wait is missing");
    conflicts += pairs;
    for (w = 0; w < waits->n && !races; w++) {
        known_by(prog, own, waits, n_before, w, known);
        for (at = 0; at < pairs && known[pair[at][1]][prog->lane[pair[at][0] % prog->n]] >= pair[at][0] + 1;) at++;
        EXPECT(at < pairs, "a wait is not needed");
        waits_of[prog->lane[waits->wait[w].op]]++;
    }
    free(known), free(first), free(pair);
}

/* Of one step alone and of one step after another. */
static void waits_of_plan(const rm_graph *g, const rmi_program *q)
{
    used u;
    rmi_lan lan;
    rmi_lan_waits own, after;
    memset(&lan, 0, sizeof lan);
    used_make(&u, g, q);
    if (!u.prog.n) return;
    if (rmi_lan_prepare(&u.mem, &lan, &u.prog, 1) != RM_OK || rmi_lan_after(&u.mem, &lan, NULL, &u.prog, &own) != RM_OK) exit(3);
    in_order(&u.prog, &own, &own, 0);
    if (rmi_lan_after(&u.mem, &lan, &u.prog, &u.prog, &after) != RM_OK) exit(3);
    in_order(&u.prog, &own, &after, u.prog.n);
    rmi_arena_free(&u.mem);
}

static unsigned long judged, legal, with_disk, loads, stores, changes, legal_changes;

/* One program: forty times something is put in; what is legal stays. Then lines are changed. */
static void program(rm_graph *g, const tm_text *graph, const char *text)
{
    sheet s = {0}, next = {0};
    tm_text t = {0};
    char *changed, buffer[300], rest[60];
    unsigned turn, kept = 0;
    size_t i;
    rm_plan *p = NULL;
    sheet_of(&s, text);
    for (turn = 0; turn < 40; turn++) {
        const size_t what = hand_below(8);
        sheet_copy(&next, &s);
        if (what < 2) away(&next);
        else if (what == 2) wait_on_disk(&next);
        else if (what < 5) at_home(&next, what == 3);
        else anything(&next);
        if (next.n == s.n && !memcmp(next.line, s.line, s.n * sizeof *s.line)) continue;
        sheet_text(&next, &t);
        judged++;
        if (!hand_both(g, graph->s, graph->n, t.s, t.n, NULL)) continue;
        legal++;
        kept++;
        sheet_copy(&s, &next);
    }
    with_disk += kept > 0;
    for (i = 0; i < s.n; i++) {
        loads += (unsigned long)sheet_is(&s, i, "load", buffer, rest);
        stores += (unsigned long)sheet_is(&s, i, "store", buffer, rest);
    }
    sheet_text(&s, &t);
    if (kept && EXPECT(rm_plan_read(g, t.s, t.n, &p) == RM_OK, rm_graph_error(g))) waits_of_plan(g, &p->prog[0]);
    rm_plan_destroy(p);
    changed = (char *)malloc(2 * t.n + LINE);
    for (turn = 0; turn < 40 && changed; turn++) {
        const size_t n = hand_change(t.s, t.n, changed);
        if (!n) continue;
        changes++;
        legal_changes += (unsigned long)hand_both(g, graph->s, graph->n, changed, n, NULL);
    }
    free(changed);
    free(s.line), free(next.line), free(t.s);
}

/* The graph's text with a disk, and where there are to be shares with ranks. */
static void with_disk_and_ranks(const char *text, int ranks, tm_text *out)
{
    const char *at = text, *next;
    char line[200];
    for (; *at; at = next) {
        next = strchr(at, '\n') + 1;
        if (ranks && !strncmp(at, "tensor ", 7) && strstr(at, " param ") && strstr(at, " param ") < next && !(strstr(at, "reduce=") && strstr(at, "reduce=") < next) && !(strstr(at, " frozen") && strstr(at, " frozen") < next)) {
            tm_sink(out, at, (size_t)(next - at - 1));
            tm_sink(out, " reduce=100\n", 12);
        } else tm_sink(out, at, (size_t)(next - at));
        if (at != text) continue;
        if (ranks) {
            snprintf(line, sizeof line, "ranks %d rate=%d000000 latency=%d grain=%d\n", (int)(2 + hand_below(7)), (int)(50 + hand_below(2000)), (int)hand_below(200), 1 << hand_below(7));
            tm_sink(out, line, strlen(line));
        }
        snprintf(line, sizeof line, "tier disk rate_in=%d000000 rate_out=%d000000 latency=%d", (int)(50 + hand_below(3000)), (int)(50 + hand_below(2000)), (int)hand_below(300));
        if (hand_below(4) == 0) snprintf(line + strlen(line), sizeof line - strlen(line), " room=%d", 1 << 17);
        tm_sink(out, line, strlen(line));
        tm_sink(out, "\n", 1);
    }
}

static unsigned long planned;

/* A plan of the planner for less host memory than it wants, before a disk; NULL if it finds none. */
static rm_plan *with_a_disk(rm_graph *g, rm_plan_desc d)
{
    rm_plan *p = NULL;
    rm_plan_info info;
    const char *why;
    memset(&info, 0, sizeof info);
    d.preset = hand_below(2) ? "offmate" : "stream";
    d.info = &info;
    d.host_bytes = 1 << 17;
    d.device_bytes = 1;
    if (!g->has_link || rm_plan_create(g, &d, &p) == RM_OK) return p;
    d.device_bytes = info.min_bytes * (8 + hand_below(4)) / 8;
    if (rm_plan_create(g, &d, &p) != RM_OK || !info.host_bytes) return p;
    rm_plan_destroy(p);
    p = NULL;
    d.host_bytes = info.host_bytes * (3 + hand_below(6)) / 8 + 64;
    d.disk_bytes = 1 << 17;
    if (rm_plan_create(g, &d, &p) != RM_OK) return NULL;
    why = rmtest_plan(g, p, d.device_bytes, d.host_bytes);
    EXPECT(!why || !*why, why);
    planned += info.disk_bytes[0] > 0;
    return p;
}

static void one(unsigned long seed)
{
    rg_text t;
    tm_text text = {0}, graph = {0}, plan = {0};
    rm_graph *g = NULL, *again = NULL;
    rm_plan *p = NULL;
    rm_plan_desc d;
    uint32_t k;
    const int ranks = seed % 4 == 3;
    int made;
    memset(&d, 0, sizeof d);
    hand_random = seed * 977 + 5;
    rg_ask_more(seed);
    rg_generate(&t, seed, 3 + (int)(seed % 14), ((uint32_t)rmi_mix(seed) | RG_STATE | RG_LINK) & ~RG_OPT_HOST);
    if (!t.data) return;
    with_disk_and_ranks(t.data, ranks, &text);
    rg_free(&t);
    if (!EXPECT(rm_graph_read(text.s, text.n, NULL, &g) == RM_OK, g ? rm_graph_error(g) : "-")) goto end;
    for (k = 0; k < g->n_tensors && !ranks; k++) /* updates in host memory, too */
        if (g->tensors[k].kind == RMI_PARAM && g->tensors[k].opt != RMI_INF && rmi_mix(seed + k) % 2) g->tensors[k].opt_host = 300;
    d.shares = (uint32_t)ranks;
    d.steps = seed % 5 == 4 ? RM_SINGLE | RM_FORWARD : seed % 5 == 1 ? RM_FIRST | RM_MIDDLE | RM_LAST : RM_SINGLE;
    d.align = 64;
    d.work_limit = 20000;
    d.preset = ranks ? NULL : seed % 2 ? "noremat" : "every-block";
    made = !ranks && seed % 4 == 2 && (p = with_a_disk(g, d)) != NULL;
    if (!made && rm_plan_create(g, &d, &p) != RM_OK) {
        EXPECT(ranks && strstr(rm_graph_error(g), "no param can be in shares"), rm_graph_error(g));
        goto end;
    }
    if (!ranks && !made) copies_insert(p, seed, 40, 1);
    EXPECT(rm_graph_write(g, tm_sink, &graph) == RM_OK && rm_graph_read(graph.s, graph.n, NULL, &again) == RM_OK, again ? rm_graph_error(again) : rm_graph_error(g));
    for (k = RM_SINGLE; k <= RM_FORWARD && again; k <<= 1) {
        if (!(d.steps & k)) continue;
        plan.n = 0;
        rm_plan_write(p, k, tm_sink, &plan);
        program(again, &graph, plan.s);
    }
end:
    rm_plan_destroy(p);
    rm_graph_destroy(g);
    rm_graph_destroy(again);
    free(text.s), free(graph.s), free(plan.s);
}

int main(int argc, char **argv)
{
    unsigned long graphs = argc > 1 ? strtoul(argv[1], NULL, 10) : tm_amount(30, 60), first = argc > 2 ? strtoul(argv[2], NULL, 10) : 1, i;
    hand_plans("tests/oracle/disk.txt");
    words();
    refused();
    for (i = 0; i < graphs && tm_more((unsigned long)i); i++) {
        tm_case = first + i;
        one(first + i);
    }
    tm_case = 0;
    if (graphs >= 20 && i == graphs) EXPECT(planned > 2 && loads > 50 && stores > 50 && waits_of[RM_LANE_LOAD] > 50, "too few of them");
    printf("%lu plans judged, %lu of them legal; %lu programs, %lu of them with a disk from the planner, with %lu loads and %lu stores; %lu changed plans, %lu of them legal\n", judged, legal, with_disk, planned, loads, stores, changes, legal_changes);
    printf("%lu pairs of operations in order by waits: %lu of loads, %lu of stores, %lu of others\n", conflicts, waits_of[RM_LANE_LOAD], waits_of[RM_LANE_STORE],
           waits_of[RM_LANE_COMPUTE] + waits_of[RM_LANE_H2D] + waits_of[RM_LANE_D2H] + waits_of[RM_LANE_HOST] + waits_of[RM_LANE_COMM]);
    return tm_end();
}
