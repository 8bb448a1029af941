/* test_state.c - what rm_exec_save writes and rm_exec_restore believes: the format of docs/formats.md, 9, byte by byte; every
   flipped bit, every truncation, other graphs and other machines are refused with a message that names what, and change nothing; states of
   some ranks restore into other numbers of ranks.

      gcc -std=gnu99 -O1 -g -I. -o build/test_state tests/unit/test_state.c && build/test_state [FILE]
   FILE: written if it is not there, else restored: for a machine of the other order of bytes (tests/unit/state_order.sh) */
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"
#include "../common.h"

typedef struct model {
    rm_graph *g;
    rm_plan *p;
    rm_exec *x;
    rm_tensor w, v, table;
} model;

static int nothing(const rm_call *c) { return (void)c, 0; }

/* Two params, one with a state, and a const; no size is a multiple of 8 but one. */
static void build(model *m, const char *name, uint64_t bytes)
{
    rm_kind kind = {.name = "op", .forward = nothing, .backward = nothing};
    rm_tensor x, y;
    m->g = rm_graph_create(NULL);
    x = rm_input_add(m->g, "x", 8, 0);
    m->table = rm_const_add(m->g, "table", 5, 0);
    m->w = RM_PARAM(m->g, .name = name, .bytes = bytes, .state_bytes = 11, .update = nothing, .update_ns = 1);
    m->v = RM_PARAM(m->g, .name = "v", .bytes = 8, .update = nothing, .update_ns = 1);
    y = RM_OP(m->g, &kind, .name = "mix", .in = {x, m->w, m->v, m->table}, .out = {8}, .fwd_ns = 1, .bwd_ns = 1);
    rm_output_add(m->g, y);
    EXPECT(rm_plan_create(m->g, NULL, &m->p) == RM_OK && rm_exec_create(m->p, NULL, &m->x) == RM_OK, rm_graph_error(m->g));
}
static void drop(model *m)
{
    rm_exec_destroy(m->x);
    rm_plan_destroy(m->p);
    rm_graph_destroy(m->g);
}
static void give(model *m, int from)
{
    unsigned char t[32];
    int i;
    for (i = 0; i < 32; i++) t[i] = (unsigned char)(from + 7 * i);
    EXPECT(!rm_exec_write(m->x, m->w, RM_VALUE, 0, t, 13) && !rm_exec_write(m->x, m->w, RM_STATE, 0, t + 1, 11), rm_exec_error(m->x));
    EXPECT(!rm_exec_write(m->x, m->v, RM_VALUE, 0, t + 2, 8) && !rm_exec_write(m->x, m->table, RM_VALUE, 0, t + 3, 5), rm_exec_error(m->x));
}
static tm_text state(model *m)
{
    tm_text t;
    memset(&t, 0, sizeof t);
    EXPECT(rm_exec_save(m->x, tm_sink, &t) == RM_OK, rm_exec_error(m->x));
    return t;
}

/* Refuses the state, in a piece of exactly its size, and is as it was. */
static int refused(model *m, const char *bytes, size_t n, const char *word, const tm_text *was)
{
    char *exact = (char *)malloc(n ? n : 1);
    tm_text now;
    int good;
    memcpy(exact, bytes, n);
    good = rm_exec_restore(m->x, exact, n) == RM_ERROR_TEXT && strstr(rm_exec_error(m->x), word) != NULL;
    free(exact);
    now = state(m);
    good = good && now.n == was->n && !memcmp(now.s, was->s, now.n);
    free(now.s);
    return good;
}

/* --- the format, written once more from its description */
static uint64_t sum_of(uint64_t s, const unsigned char *p, size_t n)
{
    size_t i;
    for (i = 0; i < n; i += 8) {
        uint64_t v = 0;
        int k;
        for (k = 0; k < 8 && i + (size_t)k < n; k++) v |= (uint64_t)p[i + (size_t)k] << (8 * k);
        s = (s ^ v) * 0x9E3779B97F4A7C15u;
        s ^= s >> 32;
    }
    return s;
}
static void number(tm_text *t, uint64_t v)
{
    char b[8];
    int i;
    for (i = 0; i < 8; i++) b[i] = (char)(v >> (8 * i));
    tm_sink(t, b, 8);
}
static uint64_t part(tm_text *t, size_t begin, uint64_t s)
{
    s = sum_of(s, (const unsigned char *)t->s + begin, t->n - begin);
    number(t, s);
    return s;
}
static int little(void)
{
    const uint32_t one = 1;
    return *(const unsigned char *)&one == 1;
}
static tm_text described(int from)
{
    static const struct {
        const char *name;
        uint64_t bytes;
        int first;
    } buffer[] = {{"table", 5, 3}, {"w", 13, 0}, {"v", 8, 2}, {"state:w", 11, 1}};
    uint64_t s = 0x726F636B6D617465u, i, k;
    size_t at;
    tm_text t;
    memset(&t, 0, sizeof t);
    tm_sink(&t, little() ? "rockmate state 2 little\n" : "rockmate state 2 big   \n", 24);
    number(&t, 4);
    s = part(&t, 0, s);
    for (i = 0; i < 4; i++) {
        at = t.n;
        number(&t, strlen(buffer[i].name));
        tm_sink(&t, buffer[i].name, strlen(buffer[i].name));
        number(&t, buffer[i].bytes);
        s = part(&t, at, s);
        at = t.n;
        for (k = 0; k < buffer[i].bytes; k++) {
            char c = (char)(from + 7 * (buffer[i].first + (int)k));
            tm_sink(&t, &c, 1);
        }
        s = part(&t, at, s);
    }
    return t;
}

/* A model whose values begin at `from`, and its state. */
static tm_text given(model *m, int from)
{
    build(m, "w", 13);
    give(m, from);
    return state(m);
}

static void format(void)
{
    model m;
    tm_text want = described(40), got = given(&m, 40);
    EXPECT(got.n == want.n && !memcmp(got.s, want.s, got.n), "the bytes are those that docs/formats.md tells");
    free(got.s);
    free(want.s);
    drop(&m);
}

static void damage(void)
{
    model m;
    tm_text good, was;
    size_t i, bits = 0, cut = 0;
    char message[80];
    good = given(&m, 1);
    give(&m, 99);
    was = state(&m);
    for (i = 0; i < 8 * good.n; i++) {
        good.s[i / 8] = (char)(good.s[i / 8] ^ 1 << i % 8);
        bits += (size_t)refused(&m, good.s, good.n, "rm_exec_restore: ", &was);
        good.s[i / 8] = (char)(good.s[i / 8] ^ 1 << i % 8);
    }
    for (i = 0; i < good.n; i++) cut += (size_t)refused(&m, good.s, i, i < 24 ? "not what rm_exec_save writes" : "cut short or damaged; it has ", &was);
    sprintf(message, "%d of %d flipped bits, %d of %d truncations are refused", (int)bits, (int)(8 * good.n), (int)cut, (int)good.n);
    EXPECT(bits == 8 * good.n && cut == good.n, message);
    EXPECT(refused(&m, good.s, good.n + 1, "1 bytes are left over", &was), rm_exec_error(m.x)); /* the sink ends it with a zero */
    good.s[good.n - 20] ^= 4; /* a state's last bytes */
    EXPECT(refused(&m, good.s, good.n, "state:w, bytes ", &was) && strstr(rm_exec_error(m.x), "damaged"), rm_exec_error(m.x));
    good.s[good.n - 20] ^= 4;
    EXPECT(refused(&m, "rockmate state 1\n and so on", 27, "version 2", &was), rm_exec_error(m.x));
    memcpy(good.s + 17, little() ? "big   \n" : "little\n", 7);
    EXPECT(refused(&m, good.s, good.n, little() ? "(big-endian)" : "(little-endian)", &was), rm_exec_error(m.x));
    memcpy(good.s + 17, little() ? "little\n" : "big   \n", 7);
    EXPECT(rm_exec_restore(m.x, good.s, good.n) == RM_OK, rm_exec_error(m.x));
    free(was.s);
    was = state(&m);
    EXPECT(was.n == good.n && !memcmp(was.s, good.s, good.n), "restored");
    free(good.s);
    free(was.s);
    drop(&m);
}

static void other_graphs(void)
{
    model m, name, size;
    tm_text good, was;
    good = given(&m, 1);
    build(&name, "weight", 13);
    build(&size, "w", 14);
    was = state(&name);
    EXPECT(refused(&name, good.s, good.n, "the state has 13 bytes of w at byte ", &was) && strstr(rm_exec_error(name.x), "this graph has 13 bytes of weight there"), rm_exec_error(name.x));
    free(was.s);
    was = state(&size);
    EXPECT(refused(&size, good.s, good.n, "the state has 13 bytes of w at byte ", &was), rm_exec_error(size.x));
    free(was.s);
    free(good.s);
    drop(&m);
    drop(&name);
    drop(&size);
}

/* --- states of ranks. Sizes that no number of ranks divides: the last ranks have little of them, or nothing */
enum { MOST = 4, PARAMS = 5 };
static const struct {
    uint64_t bytes, state;
    uint32_t rows;
} param[PARAMS] = {{100, 200, 2}, {20, 20, 0}, {16, 48, 3}, {400, 800, 1}, {64, 0, 0}};

typedef struct ranked {
    rm_graph *g;
    rm_plan *p;
    rm_exec *x;
    rm_tensor w[PARAMS], input;
} ranked;

/* One of n ranks (1: nothing in shares). blind: the rows of w0's state are not told. */
static void build_ranked(ranked *r, uint32_t rank, uint32_t n, int blind)
{
    rm_kind kind = {.name = "op", .forward = nothing, .backward = nothing};
    rm_plan_desc d = {.shares = n > 1, .align = 16};
    rm_exec_desc e = {.rank = rank, .gather = nothing, .scatter = nothing, .reduce = nothing};
    rm_tensor x;
    char name[8];
    int i;
    r->g = rm_graph_create(NULL);
    if (n > 1) rm_graph_ranks(r->g, n, 1000000000, 0, 0);
    x = r->input = rm_input_add(r->g, "x", 8, 0);
    for (i = 0; i < PARAMS; i++) {
        sprintf(name, "w%d", i);
        r->w[i] = RM_PARAM(r->g, .name = name, .bytes = param[i].bytes, .state_bytes = param[i].state, .state_rows = blind && !i ? 0 : param[i].rows,
                           .update = nothing, .update_ns = 1, .reduce_ns = 1);
        x = RM_OP(r->g, &kind, .in = {x, r->w[i]}, .out = {8}, .fwd_ns = 1, .bwd_ns = 1);
    }
    rm_output_add(r->g, x);
    EXPECT(rm_plan_create(r->g, &d, &r->p) == RM_OK && rm_exec_create(r->p, &e, &r->x) == RM_OK, rm_graph_error(r->g));
}
static void drop_ranked(ranked *r)
{
    rm_exec_destroy(r->x);
    rm_plan_destroy(r->p);
    rm_graph_destroy(r->g);
}
static tm_text state_of(rm_exec *x)
{
    tm_text t;
    memset(&t, 0, sizeof t);
    EXPECT(rm_exec_save(x, tm_sink, &t) == RM_OK, rm_exec_error(x));
    return t;
}
static void make_step(ranked *r, uint64_t number)
{
    rm_step s = {.step = number};
    EXPECT(!rm_exec_write(r->x, r->input, RM_VALUE, 0, "nothing", 8) && !rm_exec_step(r->x, &s), rm_exec_error(r->x));
}
static unsigned char letter(int i, int what, uint64_t at) { return (unsigned char)(31 * i + 101 * what + (int)(at % 251)); }

/* A rank's value or state is what docs/formats.md says of a whole one: of each row, its grains. */
static int has_its_part(ranked *r, int i, int what, uint64_t rank, uint64_t n)
{
    uint64_t b = param[i].bytes, s = ((b + n - 1) / n + 15) / 16 * 16, rows = what && param[i].rows ? param[i].rows : 1;
    uint64_t all = (what ? param[i].state : b) / rows, t = (all * s + b - 1) / b, from = t * rank < all ? t * rank : all, has = all - from < t ? all - from : t, k, row;
    unsigned char got[800];
    if (rm_exec_read(r->x, r->w[i], (what ? RM_STATE : RM_VALUE) | RM_SHARE, 0, got, rows * has) != RM_OK) return 0;
    for (row = 0; row < rows; row++)
        for (k = 0; k < has; k++)
            if (got[row * has + k] != letter(i, what, row * all + from + k)) return 0;
    return 1;
}

static int refuses(ranked *r, const tm_text *state, uint32_t n, rm_result result, const char *word)
{
    const void *data[MOST + 1];
    size_t bytes[MOST + 1];
    tm_text was = state_of(r->x), now;
    uint32_t k;
    int good;
    for (k = 0; k < n; k++) data[k] = state[k].s, bytes[k] = state[k].n;
    good = rm_exec_restore_ranks(r->x, data, bytes, n) == result && strstr(rm_exec_error(r->x), word) != NULL;
    now = state_of(r->x);
    good = good && now.n == was.n && !memcmp(now.s, was.s, now.n);
    free(was.s);
    free(now.s);
    if (!good) printf("not refused: %s\n", rm_exec_error(r->x));
    return good;
}

/* What n ranks saved, into one of m. */
static void restored(ranked *r, const tm_text *state, uint32_t n)
{
    const void *data[MOST];
    size_t bytes[MOST];
    uint32_t k;
    for (k = 0; k < n; k++) data[k] = state[k].s, bytes[k] = state[k].n;
    EXPECT(rm_exec_restore_ranks(r->x, data, bytes, n) == RM_OK, rm_exec_error(r->x));
}

static void ranks(void)
{
    ranked one, r, blind;
    tm_text whole, got, state[MOST + 1][MOST], bad[MOST + 1];
    unsigned char bytes[800];
    uint32_t n, m, k;
    int i, what;
    build_ranked(&one, 0, 1, 0);
    for (i = 0; i < PARAMS; i++)
        for (what = 0; what < 2; what++) {
            uint64_t size = what ? param[i].state : param[i].bytes, at;
            for (at = 0; at < size; at++) bytes[at] = letter(i, what, at);
            EXPECT(!rm_exec_write(one.x, one.w[i], what ? RM_STATE : RM_VALUE, 0, bytes, size), rm_exec_error(one.x));
        }
    whole = state_of(one.x);
    for (n = 2; n <= MOST; n++)
        for (k = 0; k < n; k++) { /* a whole state into shares */
            build_ranked(&r, k, n, 0);
            make_step(&r, 7);
            restored(&r, &whole, 1);
            for (i = 0; i < PARAMS; i++) EXPECT(has_its_part(&r, i, 0, k, n) && (!param[i].state || has_its_part(&r, i, 1, k, n)), rm_exec_error(r.x));
            state[n][k] = state_of(r.x);
            drop_ranked(&r);
        }
    for (n = 2; n <= MOST; n++) {
        for (m = 2; m <= MOST; m++)
            for (k = 0; k < m; k++) {
                build_ranked(&r, k, m, 0);
                restored(&r, state[n], n);
                for (i = 0; i < PARAMS; i++) EXPECT(has_its_part(&r, i, 0, k, m) && (!param[i].state || has_its_part(&r, i, 1, k, m)), rm_exec_error(r.x));
                if (m == n) EXPECT(rm_exec_restore(r.x, state[n][k].s, state[n][k].n) == RM_OK, rm_exec_error(r.x));
                else EXPECT(refuses(&r, &state[n][k % n], 1, RM_ERROR_TEXT, "rm_exec_restore_ranks takes"), "a share of other ranks");
                drop_ranked(&r);
            }
        build_ranked(&r, 0, 1, 0);
        restored(&r, state[n], n);
        got = state_of(r.x);
        EXPECT(got.n == whole.n && !memcmp(got.s, whole.s, got.n), "all ranks' states are the whole one");
        free(got.s);
        drop_ranked(&r);
    }
    /* mixed up */
    build_ranked(&r, 1, 3, 0);
    for (k = 0; k < MOST; k++) bad[k] = state[4][k];
    bad[MOST] = bad[3];
    EXPECT(refuses(&r, bad, 3, RM_ERROR_TEXT, "rank 0: the state has 32 bytes of w0 of rank 0 of 4 at step 7 at byte 40, due are 32 bytes of w0 of rank 0 of 3 at step 7 there; "), "one is missing");
    EXPECT(refuses(&r, bad, 5, RM_ERROR_TEXT, "rank 0: "), "one too many");
    bad[1] = bad[2];
    EXPECT(refuses(&r, bad, 4, RM_ERROR_TEXT, "rank 1: the state has 32 bytes of w0 of rank 2 of 4 at step 7 at byte 40, due are 32 bytes of w0 of rank 1 of 4"), "one twice");
    bad[1] = whole;
    EXPECT(refuses(&r, bad, 4, RM_ERROR_TEXT, "rank 1: the state has 100 bytes of w0 at byte 40, due are"), "a whole one between");
    EXPECT(refuses(&r, state[2], 1, RM_ERROR_TEXT, "the state has 64 bytes of w0 of rank 0 of 2 at step 7 at byte 40, due are 48 bytes of w0 of rank 1 of 3"), "of two ranks, alone");
    EXPECT(refuses(&one, state[2], 1, RM_ERROR_TEXT, "due are 100 bytes of w0 there; rm_exec_restore_ranks takes the states of all ranks, in order, of one step"), "one of two, into all");
    make_step(&r, 8);
    bad[1] = state_of(r.x);
    restored(&r, state[4], 4);
    got = state_of(r.x);
    EXPECT(got.n == state[3][1].n && !memcmp(got.s, state[3][1].s, got.n), "what was restored is of the step that it is of");
    free(got.s);
    got = bad[1];
    for (k = 0; k < 3; k++) bad[k] = state[3][k];
    bad[1] = got;
    EXPECT(refuses(&r, bad, 3, RM_ERROR_TEXT, "rank 1: the state has 48 bytes of w0 of rank 1 of 3 at step 8 at byte 40, due are 48 bytes of w0 of rank 1 of 3 at step 7"), "another step");
    free(got.s);
    bad[1] = state[3][1];
    bad[2].n--;
    EXPECT(refuses(&r, bad, 3, RM_ERROR_TEXT, "rm_exec_restore_ranks, rank 2: "), "cut short");
    bad[2].n++;
    bad[1].s[bad[1].n - 9] ^= 1;
    EXPECT(refuses(&r, bad, 3, RM_ERROR_TEXT, "rm_exec_restore_ranks, rank 1: "), "a flipped bit");
    bad[1].s[bad[1].n - 9] ^= 1;
    bad[1].s = NULL;
    EXPECT(refuses(&r, bad, 3, RM_ERROR_TEXT, "rm_exec_restore_ranks, rank 1: "), "none");
    EXPECT(rm_exec_restore_ranks(r.x, NULL, NULL, 3) == RM_ERROR_ARGUMENT, "NULL");
    build_ranked(&blind, 1, 3, 1); /* nobody knows what a state of more bytes than the param looks like */
    EXPECT(refuses(&blind, state[2], 2, RM_ERROR_ARGUMENT, "nothing says how the 200 bytes of state:w0 are cut"), "states of two ranks");
    EXPECT(refuses(&blind, &whole, 1, RM_ERROR_ARGUMENT, "give rm_param_desc.state_rows"), "a whole state");
    EXPECT(rm_exec_restore(blind.x, state[3][1].s, state[3][1].n) == RM_OK, rm_exec_error(blind.x));
    drop_ranked(&blind);
    drop_ranked(&r);
    drop_ranked(&one);
    for (n = 2; n <= MOST; n++)
        for (k = 0; k < n; k++) free(state[n][k].s);
    free(whole.s);
    blind.g = rm_graph_create(NULL);
    RM_PARAM(blind.g, .name = "w", .bytes = 8, .state_bytes = 16, .state_rows = 3);
    EXPECT(strstr(rm_graph_error(blind.g), "param w: its state has 16 bytes, which are not state_rows (3)"), rm_graph_error(blind.g));
    rm_graph_destroy(blind.g);
}

/* Writes the state to a new file, or looks at what another machine wrote there. */
static void from_file(const char *path)
{
    model m;
    tm_text t, was;
    FILE *f;
    memset(&t, 0, sizeof t);
    build(&m, "w", 13);
    if (tm_read(path, &t)) {
        was = state(&m);
        EXPECT(refused(&m, t.s, t.n, "the other order of bytes", &was), rm_exec_error(m.x));
        printf("%s\n", rm_exec_error(m.x));
        free(was.s);
    } else {
        give(&m, 1);
        t = state(&m);
        f = fopen(path, "wb");
        EXPECT(f && fwrite(t.s, 1, t.n, f) == t.n && fclose(f) == 0, path);
    }
    free(t.s);
    drop(&m);
}

int main(int argc, char **argv)
{
    if (argc < 3) { /* FILE and any word more: only that */
        format();
        damage();
        other_graphs();
        ranks();
    }
    if (argc > 1) from_file(argv[1]);
    return tm_end();
}
