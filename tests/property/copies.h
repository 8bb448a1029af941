/* copies.h - puts copies into the programs of a plan by chance: activations out and back, weights that live in host memory,
   updates on the host, gradients that are added up there. What the checker refuses is taken back, so every plan stays legal.
   It is no planner: the plans are slow and strange, which is what tests of executors want. Wants the implementation above it.

      copies_insert(p, 42, 60);   // 60 attempts at each program; the graph gets a link if it has none
*/
#ifndef RMTEST_COPIES_H
#define RMTEST_COPIES_H

#include <stdlib.h>
#include <string.h>

typedef struct copies {
    rm_plan *p;
    uint64_t rng, arena, host, host_used;
    rmi_stmt *st; /* the program at hand, to be */
    size_t n;
    rmi_home *homes;
    size_t n_homes;
    unsigned long taken;
} copies;

static uint64_t copies_rnd(copies *c, uint64_t n)
{
    c->rng = rmi_mix(c->rng);
    return n ? (c->rng >> 11) % n : 0;
}

static uint64_t copies_host(copies *c, uint64_t bytes)
{
    uint64_t at, tier = RMI_TIER(copies_rnd(c, 2));
    if (copies_rnd(c, 3) == 0 && c->host_used) return tier + copies_rnd(c, c->host_used / 256) * 256; /* where something else was, or is */
    at = c->host_used;
    c->host_used += (bytes + 255) / 256 * 256;
    return tier + at;
}

static void copies_open(copies *c, const rmi_program *q)
{
    c->n = q->n;
    c->n_homes = q->n_homes;
    memcpy(c->st, q->st, q->n * sizeof(rmi_stmt));
    memcpy(c->homes, q->homes, q->n_homes * sizeof(rmi_home));
}

static void copies_put(copies *c, size_t at, rmi_what what, uint32_t buf, uint64_t offset)
{
    memmove(c->st + at + 1, c->st + at, (c->n - at) * sizeof(rmi_stmt));
    memset(&c->st[at], 0, sizeof(rmi_stmt));
    c->st[at].what = (uint8_t)what;
    c->st[at].buf = buf;
    c->st[at].offset = offset;
    c->n++;
}

/* The program at hand as program number i, if it is legal. commit 0: only a look. */
static int copies_legal(copies *c, uint32_t i, int commit, rmi_program *keep)
{
    rmi_program q = c->p->prog[i];
    rmi_error err;
    memset(&err, 0, sizeof err);
    q.st = (rmi_stmt *)rmi_arena_get(&c->p->mem, c->n + 1, sizeof(rmi_stmt));
    q.homes = (rmi_home *)rmi_arena_get(&c->p->mem, c->n_homes + 1, sizeof(rmi_home));
    if (!q.st || !q.homes) return 0;
    memcpy(q.st, c->st, c->n * sizeof(rmi_stmt));
    memcpy(q.homes, c->homes, c->n_homes * sizeof(rmi_home));
    q.n = c->n;
    q.n_homes = c->n_homes;
    q.arena = c->arena;
    q.host[0] = q.host[1] = c->host;
    if (rmi_sch_sizes(c->p->g, &q) != RM_OK || rmi_sch_check(c->p->g, &q, &err, NULL) != RM_OK) return 0;
    if (commit) c->p->prog[i] = q;
    else *keep = q;
    return 1;
}

/* A buffer leaves for a while, or a copy of it is made. */
static void copies_gap(copies *c, uint32_t i)
{
    size_t at = copies_rnd(c, c->n ? c->n : 1), end, a, b, x;
    uint32_t buf;
    uint64_t offset, host;
    copies_open(c, &c->p->prog[i]);
    if (c->st[at].what != RMI_ALLOC) return;
    buf = c->st[at].buf;
    offset = c->st[at].offset;
    for (end = at + 1; end < c->n && !(c->st[end].what == RMI_FREE && c->st[end].buf == buf);) end++;
    if (end == c->n || end < at + 2) return;
    a = at + 1 + copies_rnd(c, end - at);
    b = at + 1 + copies_rnd(c, end - at);
    x = a < b ? a : b;
    b = a < b ? b : a;
    a = x;
    host = copies_host(c, c->st[at].bytes);
    if (copies_rnd(c, 2)) offset = copies_rnd(c, c->arena / 256 + 1) * 256;
    if (copies_rnd(c, 4)) {
        if (copies_rnd(c, 2)) copies_put(c, b, RMI_DROP_HOST, buf, 0);
        copies_put(c, b, RMI_PREFETCH, buf, 0);
        copies_put(c, b, RMI_ALLOC, buf, offset);
        copies_put(c, a, RMI_FREE, buf, 0);
    }
    copies_put(c, a, RMI_OFFLOAD, buf, host);
    c->taken += (unsigned long)copies_legal(c, i, 1, NULL);
}

static rmi_home *copies_home(copies *c, uint32_t buf)
{
    size_t k;
    for (k = 0; k < c->n_homes; k++)
        if (c->homes[k].buf == buf && !c->homes[k].host) return &c->homes[k];
    return NULL;
}

/* First (last 0) or one past the last run that touches buffer b; RMI_NONE: none. */
static size_t copies_use(copies *c, uint32_t b, int last)
{
    size_t i, found = (size_t)-1;
    uint32_t k;
    rmi_access a;
    rmi_arena tmp = rmi_arena_make(NULL);
    if (rmi_low_access_make(c->p->g, &tmp, &a) == RM_OK)
        for (i = 0; i < c->n; i++) {
            int hit = 0;
            if (c->st[i].what == RMI_ALIAS || c->st[i].what == RMI_REUSE) hit = c->st[i].other == b || c->st[i].buf == b;
            if (c->st[i].what >= RMI_OFFLOAD) hit = c->st[i].buf == b;
            if (c->st[i].what == RMI_RUN) {
                rmi_low_access(c->p->g, c->st[i].run, 0, &a);
                for (k = 0; k < a.reads.n; k++) hit |= a.reads.at[k] == b;
                for (k = 0; k < a.writes.n; k++) hit |= a.writes.at[k] == b;
            }
            if (!hit) continue;
            if (!last || found == (size_t)-1 || i >= found) found = i + (last ? 1 : 0);
            if (!last) break;
        }
    rmi_arena_free(&tmp);
    return found;
}

static size_t copies_find(copies *c, rmi_way way, uint32_t id)
{
    size_t i;
    for (i = 0; i < c->n; i++)
        if (c->st[i].what == RMI_RUN && c->st[i].run.way == (uint8_t)way && c->st[i].run.id == id) return i;
    return (size_t)-1;
}

typedef enum copies_kind { COPIES_STREAM, COPIES_UPDATE, COPIES_MERGE } copies_kind;

/* The weight (or its state) lives in host memory, comes before its first use and goes after its last one. */
static void copies_stream_one(copies *c, uint32_t buf, uint64_t host)
{
    rmi_home *h = copies_home(c, buf);
    uint64_t offset = h->offset;
    uint32_t id = buf % c->p->g->n_tensors;
    size_t from = copies_use(c, buf, 0), to, opt = copies_find(c, RMI_OPT, id);
    h->host = 1;
    h->offset = host;
    if (from == (size_t)-1) return;
    to = copies_use(c, buf, 1);
    to += copies_rnd(c, c->n - to + 1);
    copies_put(c, to, RMI_FREE, buf, 0);
    if (opt != (size_t)-1) copies_put(c, opt + 1 + copies_rnd(c, to - opt), RMI_OFFLOAD, buf, host);
    from = copies_rnd(c, from + 1);
    copies_put(c, from, RMI_PREFETCH, buf, 0);
    copies_put(c, from - copies_rnd(c, from + 1), RMI_ALLOC, buf, offset);
}

/* State at home in host memory, the weight in both: the update runs there. */
static void copies_update_one(copies *c, uint32_t w, uint64_t host, uint64_t state, uint64_t grad)
{
    const rm_graph *g = c->p->g;
    size_t opt = copies_find(c, RMI_OPT, w);
    uint32_t s = rmi_low_buf(g, RMI_BUF_STATE, w), d = rmi_low_buf(g, RMI_BUF_GRAD, w);
    rmi_home *h = copies_home(c, s), both;
    if (h) {
        h->host = 1;
        h->offset = state;
    }
    both.buf = w;
    both.host = 1;
    both.offset = host;
    c->homes[c->n_homes++] = both;
    if (opt == (size_t)-1) return;
    if (opt && c->st[opt - 1].what == RMI_ALLOC && rmi_low_kind(g, c->st[opt - 1].buf, &w) == RMI_BUF_OPT_WS) { /* its workspace */
        memmove(c->st + opt - 1, c->st + opt, (c->n - opt) * sizeof(rmi_stmt));
        opt--;
        c->n--;
        memmove(c->st + opt + 1, c->st + opt + 2, (c->n - opt - 2) * sizeof(rmi_stmt));
        c->n--;
    }
    w = c->st[opt].run.id;
    c->st[opt].run.way = RMI_OPT_HOST;
    copies_put(c, opt + 1 + copies_rnd(c, c->n - opt), RMI_PREFETCH, w, 0);
    copies_put(c, opt, RMI_OFFLOAD, d, grad);
}

/* Contributions of several steps are added up in host memory. */
static void copies_merge_one(copies *c, uint32_t w, uint32_t step, uint64_t host, uint64_t staging)
{
    uint32_t d = rmi_low_buf(c->p->g, RMI_BUF_GRAD, w);
    rmi_home *h = copies_home(c, d);
    uint64_t offset;
    size_t opt = copies_find(c, RMI_OPT, w), red = copies_find(c, RMI_REDUCE, w), at = opt == (size_t)-1 ? c->n : opt, i;
    if (step == RM_FORWARD || step == RM_SINGLE || !h) return;
    offset = h->offset;
    h->host = 1;
    h->offset = host;
    if (red != (size_t)-1) at = red;
    for (i = 0; i < c->n && i < at; i++)
        if (c->st[i].what == RMI_RUN && c->st[i].run.way == RMI_BARRIER) at = i;
    if (opt == (size_t)-1 && red == (size_t)-1) copies_put(c, c->n, RMI_FREE, d, 0);
    else copies_put(c, (opt == (size_t)-1 ? red : opt) + 1, RMI_FREE, d, 0);
    if (step != RM_FIRST && (opt != (size_t)-1 || red != (size_t)-1)) copies_put(c, at, RMI_PREFETCH, d, 0);
    copies_put(c, at, step == RM_FIRST ? RMI_OFFLOAD : RMI_MERGE, d, step == RM_FIRST ? host : staging);
    copies_put(c, 0, RMI_ALLOC, d, offset);
}

/* One such change in all programs, or in none: what persists has the same places in all. */
static void copies_param(copies *c, uint32_t w, copies_kind kind)
{
    const rm_graph *g = c->p->g;
    rmi_program found[RM_STEP_KINDS];
    uint32_t i, s = rmi_low_buf(g, RMI_BUF_STATE, w), d = rmi_low_buf(g, RMI_BUF_GRAD, w);
    uint64_t used = c->host_used, a = copies_host(c, g->tensors[w].bytes), b = copies_host(c, g->tensors[w].state_bytes), e = copies_host(c, g->tensors[w].grad_bytes), f;
    int state = kind == COPIES_STREAM && g->tensors[w].state_bytes && copies_rnd(c, 2);
    f = copies_host(c, g->tensors[w].grad_bytes);
    for (i = 0; i < c->p->n; i++) {
        copies_open(c, &c->p->prog[i]);
        if (kind == COPIES_STREAM && !copies_home(c, state ? s : w)) break;
        if (kind == COPIES_UPDATE && !copies_home(c, w)) break;
        if (kind == COPIES_MERGE && c->p->prog[i].step != RM_FORWARD && c->p->prog[i].step != RM_SINGLE && !copies_home(c, d)) break;
        if (kind == COPIES_STREAM) copies_stream_one(c, state ? s : w, state ? b : a);
        else if (kind == COPIES_UPDATE) copies_update_one(c, w, a, b, e);
        else copies_merge_one(c, w, c->p->prog[i].step, e, f);
        if (!copies_legal(c, i, 0, &found[i])) break;
    }
    if (i < c->p->n) {
        c->host_used = used;
        return;
    }
    for (i = 0; i < c->p->n; i++) c->p->prog[i] = found[i];
    c->taken++;
}

/* merges: additions in host memory are allowed (other bits than adding on the device). How many changes were made. */
RMI_UNUSED static unsigned long copies_insert(rm_plan *p, uint64_t seed, uint32_t attempts, int merges)
{
    copies c;
    rm_graph *g = p->g;
    uint32_t i, k, turn;
    size_t most = 0, homes = 0;
    uint64_t bytes = 0;
    memset(&c, 0, sizeof c);
    c.p = p;
    c.rng = seed;
    if (!g->has_link) {
        g->has_link = 1;
        g->link.tier[0].h2d = g->link.tier[0].d2h = 1000000000u;
        g->link.add = 1000000000u;
    }
    g->link.tier[1].h2d = g->link.tier[0].h2d / 3 + 1;
    g->link.tier[1].d2h = g->link.tier[0].d2h / 2 + 1;
    for (i = 0; i < p->n; i++) {
        c.arena = rmi_max(c.arena, p->prog[i].arena);
        most = p->prog[i].n > most ? p->prog[i].n : most;
        homes = p->prog[i].n_homes > homes ? p->prog[i].n_homes : homes;
    }
    for (i = 0; i < g->n_tensors; i++) bytes += g->tensors[i].bytes + g->tensors[i].grad_bytes + g->tensors[i].state_bytes + 1024;
    c.arena = (c.arena * 9 / 8 + 255) / 256 * 256;
    c.host = (8 * bytes + 255) / 256 * 256;
    c.st = (rmi_stmt *)malloc((most + 8 * (size_t)attempts + 16 * (size_t)g->n_tensors + 8) * sizeof(rmi_stmt));
    c.homes = (rmi_home *)malloc((homes + 2 * (size_t)g->n_tensors + 1) * sizeof(rmi_home));
    if (!c.st || !c.homes) exit(3);
    for (turn = 0; turn < 2; turn++)
        for (k = 0; k < g->n_tensors; k++) {
            uint64_t chance = copies_rnd(&c, 6);
            if (g->tensors[k].kind != RMI_PARAM || g->tensors[k].external) continue;
            if (chance < 2) copies_param(&c, k, COPIES_STREAM);
            if (chance == 2) copies_param(&c, k, COPIES_UPDATE);
            if (chance == 3 && merges) copies_param(&c, k, COPIES_MERGE);
        }
    for (i = 0; i < p->n; i++)
        for (k = 0; k < attempts && c.host_used + 65536 < c.host; k++) {
            c.n = p->prog[i].n;
            copies_gap(&c, i);
        }
    for (i = 0; i < p->n; i++) { /* the untouched ones too: one arena, one piece of host memory */
        p->prog[i].arena = c.arena;
        p->prog[i].host[0] = p->prog[i].host[1] = c.host;
        p->info[i].arena_bytes = c.arena;
        p->info[i].host_bytes = p->info[i].pageable_bytes = c.host;
        p->info[i].time_ns = p->prog[i].fig.time_ns;
        p->info[i].live_bytes = p->prog[i].fig.live_bytes;
    }
    free(c.st);
    free(c.homes);
    return c.taken;
}

#endif
