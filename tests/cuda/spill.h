/* spill.h - makes plans that move things: takes a plan's text, puts copies to and from host memory, homes there, updates on the
   host and merges at random into it, and keeps what rm_plan_read (and so the checker) accepts. For tests. */
#ifndef RMTEST_SPILL_H
#define RMTEST_SPILL_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPILL_LINE 320
#define SPILL_LINES 4000

typedef struct spill_text {
    char (*line)[SPILL_LINE];
    int n;
} spill_text;

static uint64_t spill_rng;
static uint32_t spill_below(uint32_t n)
{
    spill_rng += 0x9E3779B97F4A7C15u;
    return (uint32_t)(rmi_mix(spill_rng) % (n ? n : 1));
}

static int spill_open(spill_text *t)
{
    t->n = 0;
    t->line = (char(*)[SPILL_LINE])malloc((size_t)SPILL_LINES * SPILL_LINE);
    return t->line != NULL;
}
static void spill_close(spill_text *t) { free(t->line); }
static void spill_copy(spill_text *to, const spill_text *from)
{
    memcpy(to->line, from->line, (size_t)from->n * SPILL_LINE);
    to->n = from->n;
}
static void spill_put(spill_text *t, int at, const char *word, const char *name, uint64_t number, int with_number)
{
    int i;
    if (t->n >= SPILL_LINES - 1) return;
    for (i = t->n++; i > at; i--) memcpy(t->line[i], t->line[i - 1], SPILL_LINE);
    if (with_number) snprintf(t->line[at], SPILL_LINE, "%s %s %llu", word, name, (unsigned long long)number);
    else snprintf(t->line[at], SPILL_LINE, "%s %s", word, name);
}
static void spill_cut(spill_text *t, int at)
{
    int i;
    for (i = at; i + 1 < t->n; i++) memcpy(t->line[i], t->line[i + 1], SPILL_LINE);
    t->n--;
}

static int spill_sink(void *user, const char *s, size_t n)
{
    spill_text *t = (spill_text *)user;
    size_t i;
    static char part[SPILL_LINE];
    static size_t at;
    for (i = 0; i < n; i++) {
        if (s[i] != '\n') {
            if (at < SPILL_LINE - 1) part[at++] = s[i];
            continue;
        }
        part[at] = 0;
        at = 0;
        if (t->n >= SPILL_LINES) return 1;
        memcpy(t->line[t->n++], part, SPILL_LINE);
    }
    return 0;
}

/* The plan, or NULL if the checker does not like it. */
static rm_plan *spill_read(rm_graph *g, const spill_text *t)
{
    size_t n = 0, len;
    int i;
    rm_plan *p = NULL;
    char *s = (char *)malloc((size_t)t->n * SPILL_LINE + 1);
    if (!s) return NULL;
    for (i = 0; i < t->n; i++) {
        len = strlen(t->line[i]);
        memcpy(s + n, t->line[i], len);
        n += len;
        s[n++] = '\n';
    }
    if (rm_plan_read(g, s, n, &p) != RM_OK) p = NULL;
    free(s);
    return p;
}

/* The next line from `from` on that is `word NAME...`, or -1. */
static int spill_find(const spill_text *t, int from, const char *word, const char *name)
{
    char want[SPILL_LINE];
    int i;
    size_t len;
    snprintf(want, sizeof want, "%s %s", word, name);
    len = strlen(want);
    for (i = from; i < t->n; i++)
        if (!strncmp(t->line[i], want, len) && (t->line[i][len] == 0 || t->line[i][len] == ' ')) return i;
    return -1;
}

static int spill_body(const spill_text *t) /* the first statement after the preamble */
{
    int i;
    for (i = 0; i < t->n; i++)
        if (strncmp(t->line[i], "rockmate", 8) && strncmp(t->line[i], "graph ", 6) && strncmp(t->line[i], "arena ", 6) && strncmp(t->line[i], "step ", 5) && strncmp(t->line[i], "resident ", 9) && strncmp(t->line[i], "home ", 5)) return i;
    return t->n;
}

/* A buffer leaves for a while. */
static void spill_interval(spill_text *t, uint64_t *host, uint64_t bytes)
{
    char name[SPILL_LINE];
    unsigned long long off;
    int a = spill_body(t), tries, i, j, f;
    for (tries = 0; tries < 20; tries++) {
        i = a + (int)spill_below((uint32_t)(t->n - a));
        if (sscanf(t->line[i], "alloc %319s %llu", name, &off) == 2 && strncmp(name, "ws:", 3)) break;
    }
    if (tries == 20) return;
    f = spill_find(t, i, "free", name);
    if (f < 0) f = t->n;
    for (i = i + 1 + (spill_below(2) ? 0 : (int)spill_below((uint32_t)(f - i))); i < f && strncmp(t->line[i], "run ", 4);) i++;
    for (j = f - 1; j > i && strncmp(t->line[j], "run ", 4);) j--;
    while (j > i && spill_below(4) == 0)
        for (j--; j > i && strncmp(t->line[j], "run ", 4);) j--;
    if (j <= i) return;
    if (spill_below(3)) {
        spill_put(t, j, "drop_host", name, 0, 0);
        spill_put(t, j, "prefetch", name, 0, 0);
        spill_put(t, j, "alloc", name, off, 1);
        spill_put(t, i + 1, "free", name, 0, 0);
        spill_put(t, i + 1, "offload", name, *host, 1);
    } else { /* only a copy */
        spill_put(t, j, "drop_host", name, 0, 0);
        spill_put(t, i + 1, "offload", name, *host, 1);
    }
    *host += bytes;
}

/* What lives on the device the whole step comes from the host instead, and goes back. */
static void spill_home(spill_text *t, uint64_t *host, uint64_t bytes)
{
    char name[SPILL_LINE], of[SPILL_LINE];
    unsigned long long off;
    int a, i = (int)spill_below((uint32_t)spill_body(t)), j, u;
    if (sscanf(t->line[i], "resident %319s %llu", name, &off) != 2) return;
    snprintf(of, sizeof of, "%s", !strncmp(name, "state:", 6) ? name + 6 : name);
    u = spill_find(t, 0, "run opt", of);
    if (spill_below(2)) {
        snprintf(t->line[i], SPILL_LINE, "home %.280s %llu", name, (unsigned long long)*host);
        a = spill_body(t);
        j = strncmp(name, "state:", 6) ? a : a + (int)spill_below((uint32_t)(u > a ? u - a : 1));
        spill_put(t, j, "prefetch", name, 0, 0);
        spill_put(t, j, "alloc", name, off, 1);
        u = spill_find(t, 0, "run opt", of);
        if (spill_below(2)) u = t->n - 1;
        if (u < 0) u = t->n - 1;
        spill_put(t, u + 1, "free", name, 0, 0);
        if (spill_find(t, 0, "run opt", of) >= 0) spill_put(t, u + 1, "offload", name, *host, 1);
    } else { /* both homes */
        spill_put(t, i + 1, "home", name, *host, 1);
        u = spill_find(t, 0, "run opt", of);
        if (u >= 0) spill_put(t, u + 1, "offload", name, *host, 1);
    }
    *host += bytes;
}

/* An update in host memory; sometimes its gradient is put together there. */
static void spill_update(spill_text *t, uint64_t *host, uint64_t bytes)
{
    char name[SPILL_LINE], grad[SPILL_LINE], state[SPILL_LINE];
    unsigned long long off;
    int a = spill_body(t), i, tries, r, s, u;
    for (tries = 0; tries < 40; tries++) {
        i = a + (int)spill_below((uint32_t)(t->n - a));
        if (sscanf(t->line[i], "run opt %310s", name) == 1 && !strchr(name, '@')) break;
    }
    if (tries == 40) return;
    snprintf(grad, sizeof grad, "grad:%.300s", name);
    snprintf(state, sizeof state, "state:%.300s", name);
    r = spill_find(t, 0, "resident", name);
    s = spill_find(t, 0, "resident", state);
    if (r < 0) return;
    snprintf(t->line[i], SPILL_LINE, "run opt %.300s@host", name);
    spill_put(t, i + 1, "prefetch", name, 0, 0);
    if (spill_below(2)) spill_put(t, i + 1, "drop_host", grad, 0, 0);
    else spill_put(t, t->n, "drop_host", grad, 0, 0);
    spill_put(t, i, "offload", grad, *host, 1);
    *host += bytes;
    if (s >= 0) snprintf(t->line[s], SPILL_LINE, "home %.300s %llu", state, (unsigned long long)*host);
    *host += bytes;
    spill_put(t, r, "home", name, *host, 1);
    *host += bytes;
    if (spill_below(2)) return;
    /* merge: what is there at a moment leaves, the rest is added to it */
    a = spill_find(t, 0, "alloc", grad);
    u = spill_find(t, 0, "offload", grad);
    if (a < 0 || u < a + 3 || sscanf(t->line[a], "alloc %319s %llu", name, &off) != 2) return;
    i = a + 1 + (int)spill_below((uint32_t)(u - a - 1));
    while (i < u && strncmp(t->line[i], "run bwd", 7)) i++;
    if (i >= u) return;
    snprintf(state, sizeof state, "%.300s", t->line[u]); /* offload grad:w H */
    snprintf(t->line[u], SPILL_LINE, "merge %.290s %llu", grad, (unsigned long long)*host);
    spill_put(t, i + 1, "alloc", grad, off, 1);
    spill_put(t, i + 1, "free", grad, 0, 0);
    spill_put(t, i + 1, "x", "x", 0, 0);
    memcpy(t->line[i + 1], state, SPILL_LINE);
    *host += bytes;
}

/* Mutates the plan's program `tries` times; the plan of what was accepted (a new one, of one program), or NULL if nothing was. */
static rm_plan *spill(rm_graph *g, const rm_plan *p, uint32_t step, uint64_t seed, int tries, uint64_t most_bytes, int *moved)
{
    spill_text now, next;
    rm_plan *out = NULL, *q;
    uint64_t host = 0, before;
    unsigned long long now_arena = 0;
    int i, k;
    *moved = 0;
    spill_rng = seed;
    if (!spill_open(&now)) return NULL;
    if (!spill_open(&next)) {
        spill_close(&now);
        return NULL;
    }
    if (rm_plan_write(p, step, spill_sink, &now) != RM_OK) now.n = 0;
    for (i = 0; i < now.n; i++) { /* what the graph was is of no interest */
        unsigned long long arena;
        if (sscanf(now.line[i], "arena %llu", &arena) == 1) now_arena = arena;
        if (!strncmp(now.line[i], "graph ", 6)) spill_cut(&now, i--);
    }
    for (k = 0; k < tries && now.n && now.n < SPILL_LINES - 40; k++) {
        spill_copy(&next, &now);
        before = host;
        switch (spill_below(4)) {
        case 0: spill_home(&next, &host, most_bytes); break;
        case 1: spill_update(&next, &host, most_bytes); break;
        default: spill_interval(&next, &host, most_bytes); break;
        }
        if (host == before) continue;
        for (i = 0; strncmp(next.line[i], "arena ", 6);) i++;
        snprintf(next.line[i], SPILL_LINE, "arena %llu host %llu", now_arena, (unsigned long long)host);
        q = spill_read(g, &next);
        if (!q) {
            if (getenv("SPILL_TELL")) printf("%s\n", rm_graph_error(g));
            host = before;
            continue;
        }
        rm_plan_destroy(out);
        out = q;
        ++*moved;
        spill_copy(&now, &next);
    }
    spill_close(&now);
    spill_close(&next);
    return out;
}

#endif
