/* test_wild.c - graphs that nobody would write: random ones whose declarations have been changed at random. Whatever they are, they
   are planned, or refused with a reason: never RM_ERROR_INTERNAL; and every plan is legal for the second referee.

      g++ -O1 -g -c tests/oracle/replay.cpp -o build/replay.o
      gcc -O1 -g -std=gnu99 -I. tests/property/test_wild.c build/replay.o -lstdc++ -lm -o build/test_wild
      build/test_wild [GRAPHS [FIRST-SEED [OPS]]]     one graph: it is printed, and what became of it */
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"

#include "../common.h"
#include <time.h>
#include "../oracle/plan.h"
#include "randgraph.h"

enum { MOST_LINES = 200, MOST_WORDS = 40, LONGEST = 1000 };

typedef struct line {
    char *word[MOST_WORDS];
    int n;
} line;

static struct {
    line line[MOST_LINES];
    int n;
    uint64_t bits;
    unsigned long planned, infeasible, refused, unread;
} wild;

static int below(int n)
{
    wild.bits = rmi_mix(wild.bits + 1);
    return n > 0 ? (int)((wild.bits >> 33) % (uint64_t)n) : 0;
}

static char *copy_of(const char *s, size_t n)
{
    char *c = (char *)malloc(n + 1);
    if (!c) exit(3);
    memcpy(c, s, n);
    c[n] = 0;
    return c;
}

static void take_apart(const char *text)
{
    wild.n = 0;
    while (*text && wild.n < MOST_LINES) {
        line *l = &wild.line[wild.n++];
        l->n = 0;
        while (*text && *text != '\n') {
            size_t n = strcspn(text, " \n");
            if (n && l->n < MOST_WORDS - 8) l->word[l->n++] = copy_of(text, n);
            text += n + (text[n] == ' ');
        }
        text += *text == '\n';
    }
}

static void put_together(tm_text *t)
{
    int i, k;
    for (i = 0; i < wild.n; i++) {
        for (k = 0; k < wild.line[i].n; k++) {
            if (k) tm_sink(t, " ", 1);
            tm_sink(t, wild.line[i].word[k], strlen(wild.line[i].word[k]));
            free(wild.line[i].word[k]);
        }
        tm_sink(t, "\n", 1);
    }
}

/* The word of the line that begins so, or -1. */
static int find_word(const line *l, const char *begins)
{
    int k;
    for (k = 1; k < l->n; k++)
        if (!strncmp(l->word[k], begins, strlen(begins)) && (strchr(begins, '=') || !l->word[k][strlen(begins)])) return k;
    return -1;
}

/* The word `key` (with = or without) becomes key + value; value NULL: it goes. */
static void set_word(line *l, const char *key, const char *value)
{
    int k = find_word(l, key);
    char *w;
    if (k < 0 && (!value || l->n == MOST_WORDS)) return;
    if (k < 0) k = l->n++;
    else free(l->word[k]);
    if (!value) {
        memmove(l->word + k, l->word + k + 1, (size_t)(--l->n - k) * sizeof l->word[0]);
        return;
    }
    w = (char *)malloc(strlen(key) + strlen(value) + 1);
    if (!w) exit(3);
    strcpy(w, key);
    strcat(w, value);
    l->word[k] = w;
}

/* One of the names in the line's in= (or out=), without its size; "" if there is none. */
static const char *one_of(const line *l, const char *key, char *name)
{
    int k = find_word(l, key), n = 0, which;
    const char *s = k < 0 ? "" : l->word[k] + strlen(key), *c;
    for (c = s; *c; c++) n += *c == ',';
    for (which = below(n + 1), c = s; which > 0; c++) which -= *c == ',';
    n = (int)strcspn(c, ",:");
    memcpy(name, c, (size_t)n);
    name[n] = 0;
    return name;
}

static const line *any_line(const char *statement)
{
    int tries, k = 0;
    for (tries = 0; tries < 50; tries++) {
        k = below(wild.n);
        if (wild.line[k].n > 2 && !strcmp(wild.line[k].word[0], statement)) return &wild.line[k];
    }
    return &wild.line[0];
}

static void list_of_own(const line *l, int most, int outs, char *list)
{
    char name[300];
    int n = below(most + 1);
    list[0] = 0;
    while (n-- > 0) {
        one_of(l, outs && below(2) ? "out=" : "in=", name);
        if (!name[0] || strlen(list) + strlen(name) + 8 > LONGEST) continue;
        if (list[0]) strcat(list, ",");
        strcat(list, name);
    }
    if (outs && below(3) == 0) strcat(list, list[0] ? ",saved" : "saved");
    if (!list[0]) strcpy(list, "none");
}

static const char *some_number(char *digits)
{
    static const int most[] = {1, 2, 9, 300, 300, 5000};
    sprintf(digits, "%d", below(most[below(6)]));
    return digits;
}

static void change_tensor(line *l)
{
    static const char *const kinds[] = {"input", "param", "const"};
    static const char *const flags[] = {"frozen", "external", "stays", "grad"};
    static const char *const keys[] = {"grad=", "state=", "opt=", "opt_host=", "reduce=", "opt_ws="};
    char digits[24];
    int what = below(12), k;
    if (what < 1) {
        free(l->word[2]);
        l->word[2] = copy_of(kinds[what = below(3)], 5);
        while (l->n > 4) free(l->word[--l->n]);
    } else if (what < 4) set_word(l, flags[below(4)], below(3) ? "" : NULL);
    else if (what < 9) set_word(l, keys[below(6)], below(4) ? some_number(digits) : NULL);
    else {
        k = 3;
        free(l->word[k]);
        some_number(digits);
        l->word[k] = copy_of(digits, strlen(digits));
    }
}

static void change_op(line *l)
{
    static const char *const flags[] = {"rng", "once", "nograd", "external", "stays"};
    static const char *const keys[] = {"fwd=", "bwd=", "again=", "fwd_ws=", "bwd_ws=", "saved=", "saved="};
    char digits[24], name[300], other[300], list[2 * LONGEST];
    const line *c;
    int k;
    switch (below(12)) {
    case 0: set_word(l, flags[below(5)], below(4) ? "" : NULL); break;
    case 1:
    case 2: set_word(l, keys[below(7)], below(4) ? some_number(digits) : NULL); break;
    case 3:
    case 4:
        list_of_own(l, 4, 1, list);
        set_word(l, "needs=", below(4) ? list : NULL);
        break;
    case 5:
        c = any_line("tensor");
        set_word(l, "mutates=", below(4) && c->n > 3 && (!strcmp(c->word[2], "const") || !below(20)) ? c->word[1] : NULL);
        break;
    case 6: set_word(l, "inplace=", below(4) ? one_of(l, "in=", name) : NULL); break;
    case 7:
        one_of(l, "in=", name);
        if (below(3)) strcat(strcat(name, ":"), below(3) ? one_of(l, below(2) ? "in=" : "out=", other) : "saved");
        set_word(l, "inplace_bwd=", below(5) ? name : NULL);
        break;
    case 8:
        list_of_own(l, 3, 0, list);
        set_word(l, "share_bwd=", below(4) ? list : NULL);
        break;
    case 9:
        one_of(l, "in=", name);
        if (below(3) == 0) strcat(strcat(name, "+"), some_number(digits));
        set_word(l, "view=", below(3) ? name : NULL);
        if (below(2)) {
            one_of(l, "out=", name);
            strcat(strcat(name, ":"), some_number(digits));
            set_word(l, "out=", name);
        }
        break;
    default: /* one more input, or the same twice */
        c = below(3) == 0 ? any_line("tensor") : l;
        k = find_word(l, "in=");
        if (k < 0 || strlen(l->word[k]) > LONGEST) return;
        strcpy(list, l->word[k] + 3);
        strcat(list, ",");
        strcat(list, c == l ? one_of(l, "in=", name) : c->n > 1 ? c->word[1] : "none");
        set_word(l, "in=", list);
        break;
    }
}

static void change(void)
{
    char name[300], digits[24];
    const line *c;
    line *l;
    if (below(10) == 0 && wild.n < MOST_LINES) { /* a statement at the end */
        l = &wild.line[wild.n++];
        l->n = 0;
        c = any_line("op");
        one_of(c, "out=", name);
        some_number(digits);
        switch (below(4)) {
        case 0: l->word[l->n++] = copy_of("anyorder", 8); break;
        case 1:
            l->word[l->n++] = copy_of("barrier", 7);
            l->word[l->n++] = copy_of("all", 3);
            l->word[l->n++] = copy_of("ns=5", 4);
            break;
        case 2:
            l->word[l->n++] = copy_of("output", 6);
            l->word[l->n++] = copy_of(name, strlen(name));
            break;
        default:
            l->word[l->n++] = copy_of("grad", 4);
            l->word[l->n++] = copy_of(name, strlen(name));
            l->word[l->n++] = copy_of(digits, strlen(digits));
            break;
        }
        return;
    }
    l = (line *)any_line(below(4) ? "op" : "tensor");
    if (!strcmp(l->word[0], "op")) change_op(l);
    else if (l->n > 3) change_tensor(l);
}

static void plan_it(rm_graph *g, const char *text, int tell)
{
    static const char *const presets[] = {"hiremate", "rockmate", "rotor", "noremat", "every-block", "sqrt", "greedy", "llmc-1",
                                          "llmc-2", "hilp", "checkmate", "search", "stream", "link", "blocks", "offmate"};
    rm_plan_desc d;
    rm_plan_info info, all;
    rm_plan *p = NULL;
    rm_result r;
    int round;
    clock_t start;
    memset((void *)&d, 0, sizeof d);
    memset(&all, 0, sizeof all);
    d.steps = below(3) ? 1u << below(5) : (uint32_t)below(31) + 1;
    d.align = 1u << below(9);
    d.work_limit = 20000;
    for (round = 0; round < 3; round++) {
        d.preset = presets[below(16)];
        if (round) d.device_bytes = all.min_bound_bytes + (uint64_t)below((int)rmi_min(rmi_sub(all.keep_all_bytes, all.min_bound_bytes) + 2, 1u << 30)) + 1;
        d.host_bytes = below(3) ? 0 : (uint64_t)below(20000) + 1;
        d.info = &info;
        p = NULL;
        memset(&info, 0, sizeof info);
        start = clock();
        r = rm_plan_create(g, &d, &p);
        start = clock() - start;
        if (getenv("WILD_SLOW") && start > CLOCKS_PER_SEC / 2) printf("slow: case %lu, %s, %s, steps %u: %.1f s\n", tm_case, d.preset, rm_result_name(r), d.steps, (double)start / CLOCKS_PER_SEC);
        if (tell) printf("%s, steps %u, align %u, budget %llu, host %llu: %s %s\n", d.preset, d.steps, d.align, (unsigned long long)d.device_bytes, (unsigned long long)d.host_bytes, rm_result_name(r), rm_graph_error(g));
        wild.planned += r == RM_OK;
        wild.infeasible += r == RM_ERROR_INFEASIBLE;
        wild.refused += r == RM_ERROR_GRAPH || r == RM_ERROR_ARGUMENT;
        EXPECT(r == RM_OK || r == RM_ERROR_INFEASIBLE || r == RM_ERROR_GRAPH || r == RM_ERROR_ARGUMENT, rm_graph_error(g));
        if (r == RM_OK) {
            const char *why = rmtest_plan(g, p, d.device_bytes, d.host_bytes ? d.host_bytes : 0);
            EXPECT(!why || !why[0], why);
            if (!round) all = info;
        }
        rm_plan_destroy(p);
        if (!all.keep_all_bytes) return;
    }
    (void)text;
}

int main(int argc, char **argv)
{
    unsigned long graphs = argc > 1 ? strtoul(argv[1], NULL, 10) : tm_amount(25, 100), first = argc > 2 ? strtoul(argv[2], NULL, 10) : 1, i;
    int most = argc > 3 ? atoi(argv[3]) : 14;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (i = 0; i < graphs && tm_more((unsigned long)i); i++) {
        rg_text random;
        tm_text text;
        rm_graph *g = NULL;
        int changes;
        memset(&text, 0, sizeof text);
        tm_case = first + i;
        wild.bits = first + i;
        rg_generate(&random, first + i, 2 + below(most), below(4) ? RG_ALL : (uint32_t)rmi_mix(first + i));
        if (!random.data) return 3;
        take_apart(random.data);
        for (changes = below(8); changes > 0; changes--) change();
        put_together(&text);
        rg_free(&random);
        if (graphs == 1) printf("%s", text.s);
        if (rm_graph_read(text.s, text.n, NULL, &g) == RM_OK) plan_it(g, text.s, graphs == 1);
        else {
            if (graphs == 1) printf("%s\n", rm_graph_error(g));
            wild.unread++;
        }
        rm_graph_destroy(g);
        tm_clear(&text);
    }
    printf("%lu plans, %lu infeasible, %lu refused, %lu graphs with errors\n", wild.planned, wild.infeasible, wild.refused, wild.unread);
    return tm_end();
}
