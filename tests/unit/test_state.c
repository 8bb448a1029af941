/* test_state.c - what rm_exec_save writes and rm_exec_restore believes: the format of docs/formats.md, 9, byte by byte; every
   flipped bit, every truncation, other graphs and other machines are refused with a message that names what, and change nothing.

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
    format();
    damage();
    other_graphs();
    if (argc > 1) from_file(argv[1]);
    return tm_end();
}
