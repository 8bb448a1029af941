/* tests/bench/place.c: how close to the bound, and how fast, the addresses of many kinds of schedule are found.
   Usage: place [kind [buffers]]; prints one line an instance. It measures, it asserts nothing but legality. */
#include <stdio.h>
#include <time.h>
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"
#include "../data/minimalloc.h"

typedef struct list {
    rmi_plc_item *v;
    size_t n, cap;
    uint32_t now; /* the position of the next event */
    uint64_t seed;
} list;

static uint64_t rnd(list *l, uint64_t below)
{
    l->seed++;
    return rmi_mix(l->seed) % below;
}

static uint32_t open_one(list *l, uint64_t size)
{
    rmi_plc_item it;
    memset(&it, 0, sizeof it);
    it.start = l->now++;
    it.size = size;
    if (l->n == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 1024;
        l->v = (rmi_plc_item *)realloc(l->v, l->cap * sizeof *l->v);
        if (!l->v) exit(2);
    }
    l->v[l->n] = it;
    return (uint32_t)l->n++;
}

static void close_one(list *l, uint32_t id) { l->v[id].end = l->now++; }

/* --- nested forward and backward: act kept, workspaces and gradients come and go */
static void gen_nested(list *l, size_t buffers)
{
    size_t layers = buffers / 4, i;
    uint32_t *act = (uint32_t *)malloc(layers * sizeof *act), g, h, w;
    for (i = 0; i < layers; i++) {
        act[i] = open_one(l, 256 * (1 + rnd(l, 4000)));
        w = open_one(l, 256 * (1 + rnd(l, 500)));
        close_one(l, w);
    }
    g = open_one(l, 1024);
    for (i = layers; i-- > 0;) {
        w = open_one(l, 256 * (1 + rnd(l, 500)));
        h = open_one(l, l->v[act[i]].size);
        close_one(l, w);
        close_one(l, g);
        close_one(l, act[i]);
        g = h;
    }
    close_one(l, g);
    free(act);
}

/* --- checkpointing: stage i of a chain has a size; [i, j) is run with its input alive; leaf segments keep everything */
typedef struct chain {
    uint64_t *size;
    uint32_t *act;
    uint32_t grad;
} chain;

static void backward_one(list *l, chain *c, size_t i)
{
    uint32_t w = open_one(l, c->size[i] / 3 + 256), g = open_one(l, c->size[i]);
    close_one(l, w);
    close_one(l, c->grad);
    c->grad = g;
}

static void run_segment(list *l, chain *c, size_t from, size_t to, size_t leaf, size_t ways)
{
    size_t i, k;
    if (to - from <= leaf) {
        uint32_t *keep = (uint32_t *)malloc((to - from) * sizeof *keep);
        for (i = from; i < to; i++) keep[i - from] = open_one(l, c->size[i]);
        for (i = to; i-- > from;) {
            backward_one(l, c, i);
            close_one(l, keep[i - from]);
        }
        free(keep);
        return;
    }
    {
        uint32_t *ck = (uint32_t *)malloc(ways * sizeof *ck);
        for (k = 0; k + 1 < ways; k++) { /* the forward up to the last checkpoint, dropping what lies between */
            size_t a = from + (to - from) * k / ways, b = from + (to - from) * (k + 1) / ways;
            uint32_t last = RMI_NONE;
            for (i = a; i < b; i++) {
                uint32_t o = open_one(l, c->size[i]);
                if (last != RMI_NONE) close_one(l, last);
                last = o;
            }
            ck[k] = last;
        }
        for (k = ways; k-- > 0;) {
            size_t a = from + (to - from) * k / ways, b = from + (to - from) * (k + 1) / ways;
            run_segment(l, c, a, b, leaf, ways);
            if (k) close_one(l, ck[k - 1]);
        }
        free(ck);
    }
}

static void gen_checkpoint(list *l, size_t stages, size_t leaf, size_t ways)
{
    chain c;
    size_t i;
    c.size = (uint64_t *)malloc(stages * sizeof *c.size);
    for (i = 0; i < stages; i++) c.size[i] = 256 * (1 + rnd(l, 2000));
    c.grad = open_one(l, 256);
    run_segment(l, &c, 0, stages, leaf, ways);
    close_one(l, c.grad);
    free(c.size);
}

/* --- a transformer: ten activations a block; some recomputed in the backward; some blocks keep their input only */
static const uint32_t BLOCK_SIZE[10] = {4, 12, 5, 4, 4, 4, 16, 16, 4, 4}, BLOCK_KEEP[10] = {0, 1, 1, 0, 1, 0, 1, 0, 0, 1};

static void block_forward(list *l, uint32_t *id, uint32_t mask, uint64_t unit)
{
    uint32_t k, last = RMI_NONE;
    for (k = 0; k < 10; k++) {
        uint32_t o = open_one(l, unit * BLOCK_SIZE[k]);
        id[k] = o;
        if (last != RMI_NONE) {
            close_one(l, last);
            last = RMI_NONE;
        }
        if (!(mask >> k & 1)) {
            last = o;
            id[k] = RMI_NONE;
        }
    }
    if (last != RMI_NONE) close_one(l, last);
}

static void block_backward(list *l, uint32_t *id, uint32_t *grad, uint64_t unit)
{
    uint32_t k;
    for (k = 10; k-- > 0;) {
        uint32_t g, w, again = RMI_NONE;
        if (id[k] == RMI_NONE) again = open_one(l, unit * BLOCK_SIZE[k]);
        w = open_one(l, unit * (k % 3) + 512);
        g = open_one(l, unit * BLOCK_SIZE[k]);
        close_one(l, w);
        close_one(l, *grad);
        *grad = g;
        close_one(l, again == RMI_NONE ? id[k] : again);
    }
}

static void gen_transformer(list *l, size_t buffers)
{
    size_t blocks = buffers / 45 + 1, b;
    uint32_t *id = (uint32_t *)malloc(blocks * 10 * sizeof *id), *mode = (uint32_t *)malloc(blocks * sizeof *mode), grad, k;
    uint64_t unit = 256 * (100 + rnd(l, 1000));
    for (b = 0; b < blocks; b++) {
        uint32_t mask = 0;
        mode[b] = (uint32_t)rnd(l, 3);
        for (k = 0; k < 10; k++) mask |= (uint32_t)(BLOCK_KEEP[k] && rnd(l, 5)) << k;
        if (mode[b] == 0) mask = 1u << 9; /* keep the output alone */
        if (mode[b] == 1) mask = 1023;
        block_forward(l, id + 10 * b, mask, unit);
    }
    grad = open_one(l, unit * 4);
    for (b = blocks; b-- > 0;) {
        if (mode[b] == 0) {
            uint32_t out = id[10 * b + 9];
            block_forward(l, id + 10 * b, 511, unit);
            id[10 * b + 9] = out;
        }
        block_backward(l, id + 10 * b, &grad, unit);
    }
    close_one(l, grad);
    free(id);
    free(mode);
}

/* --- random eviction: values of a chain of random ops; when memory is full, a random value is dropped, and comes back
   when it is needed. Memory stays at the budget nearly always: the hard case. */
static void gen_churn(list *l, size_t buffers, uint32_t sizes, uint32_t keep)
{
    size_t values = buffers / 3 + 8, i;
    uint32_t *cur = (uint32_t *)malloc(values * sizeof *cur), *alive = (uint32_t *)malloc(values * sizeof *alive);
    uint64_t *size = (uint64_t *)malloc(values * sizeof *size), live = 0, budget = 0;
    size_t lives = 0;
    for (i = 0; i < values; i++) {
        size[i] = 256 * (1 + (sizes == 1 ? rnd(l, 8) * 512 : sizes == 2 ? rnd(l, 4096) : (uint64_t)1 << rnd(l, 12)));
        budget += size[i];
        cur[i] = RMI_NONE;
    }
    budget = budget * keep / 100;
    while (l->n < buffers || lives) {
        int full = l->n < buffers;
        uint64_t v = rnd(l, values);
        while (lives && (!full || live + size[v] > budget)) {
            size_t k = (size_t)rnd(l, lives);
            uint32_t out = alive[k];
            alive[k] = alive[--lives];
            live -= size[out];
            close_one(l, cur[out]);
            cur[out] = RMI_NONE;
        }
        if (!full || cur[v] != RMI_NONE || size[v] > budget) continue;
        cur[v] = open_one(l, size[v]);
        alive[lives++] = (uint32_t)v;
        live += size[v];
    }
    free(cur);
    free(alive);
    free(size);
}

/* --- a chain with random eviction: whenever memory is full, a random activation goes; the backward brings back what it
   misses from the nearest one before it. Memory stays at the budget from the middle of the forward to that of the backward. */
typedef struct evictor {
    uint64_t *size, live, budget;
    uint32_t *cur, *held; /* the buffer of each stage, the stages in memory */
    size_t held_n, lo, hi; /* stages lo and hi are in use */
} evictor;

static void bring(list *l, evictor *v, size_t i)
{
    while (v->live + v->size[i] > v->budget) {
        size_t k, at = 0, from = (size_t)rnd(l, v->held_n + 1), found = 0;
        for (k = 0; k < v->held_n && !found; k++) {
            at = (from + k) % v->held_n;
            found = v->held[at] != v->lo && v->held[at] != v->hi && v->held[at];
        }
        if (!found) break;
        k = v->held[at];
        v->held[at] = v->held[--v->held_n];
        v->live -= v->size[k];
        close_one(l, v->cur[k]);
        v->cur[k] = RMI_NONE;
    }
    v->cur[i] = open_one(l, v->size[i]);
    v->held[v->held_n++] = (uint32_t)i;
    v->live += v->size[i];
}

static void gen_evict(list *l, size_t buffers, uint32_t percent)
{
    evictor v;
    size_t n = buffers / 4, i, k;
    uint32_t grad, g, w;
    memset(&v, 0, sizeof v);
    v.size = (uint64_t *)malloc(n * sizeof *v.size);
    v.cur = (uint32_t *)malloc(n * sizeof *v.cur);
    v.held = (uint32_t *)malloc(n * sizeof *v.held);
    for (i = 0; i < n; i++) {
        v.size[i] = 256 * (1 + (rnd(l, 2) ? rnd(l, 8) * 256 : rnd(l, 2000)));
        v.budget += v.size[i];
        v.cur[i] = RMI_NONE;
    }
    v.budget = v.budget / 100 * percent;
    for (i = 0; i < n; i++) {
        v.lo = i ? i - 1 : 0;
        v.hi = i;
        bring(l, &v, i);
    }
    grad = open_one(l, v.size[n - 1]);
    for (i = n; i-- > 1;) {
        size_t need[2];
        need[0] = i - 1;
        need[1] = i;
        for (k = 0; k < 2; k++) {
            size_t j = need[k];
            while (v.cur[j] == RMI_NONE) { /* from the nearest one in memory, step by step */
                size_t s = j;
                while (v.cur[s - 1] == RMI_NONE) s--;
                v.lo = s - 1;
                v.hi = k ? i - 1 : s - 1;
                bring(l, &v, s);
            }
        }
        w = open_one(l, v.size[i] / 4 + 256);
        g = open_one(l, v.size[i - 1]);
        close_one(l, w);
        close_one(l, grad);
        grad = g;
        close_one(l, v.cur[i]);
        v.live -= v.size[i];
        for (k = 0; v.held[k] != i;) k++;
        v.held[k] = v.held[--v.held_n];
    }
    close_one(l, grad);
    close_one(l, v.cur[0]);
    free(v.size);
    free(v.cur);
    free(v.held);
}

static double now_s(void) { return (double)clock() / CLOCKS_PER_SEC; }

/* All pairs: for n up to 10,000 only. */
static int legal(const list *l)
{
    size_t i, j;
    for (i = 0; i < l->n; i++) {
        for (j = 0; j < i; j++) {
            const rmi_plc_item *a = l->v + i, *b = l->v + j;
            if (a->start < b->end && b->start < a->end && a->offset < b->offset + b->size && b->offset < a->offset + a->size)
                return 0;
        }
    }
    return 1;
}

static double total_s;
static void report(const char *kind, list *l, uint64_t granule, uint64_t target, uint64_t limit)
{
    rmi_arena a = rmi_arena_make(NULL);
    rmi_plc_info info;
    double t = now_s();
    rm_result r;
    info.target = target;
    r = rmi_plc_place(&a, l->v, l->n, granule, limit, &info);
    t = now_s() - t;
    total_s += t;
    if (r) {
        printf("%-16s n=%-7lu FAILED %d\n", kind, (unsigned long)l->n, (int)r);
    } else {
        printf("%-16s n=%-7lu %9.2f ms  over the bound %7.4f %%  work %10lu %s\n", kind, (unsigned long)l->n, 1e3 * t,
               100.0 * ((double)info.height / (double)info.bound - 1.0),
               (unsigned long)info.work, l->n > 20000 ? "" : legal(l) ? "legal" : "ILLEGAL");
    }
    fflush(stdout);
    rmi_arena_free(&a);
}

static const char *const KINDS[] = {"nested", "sqrt", "recursive2", "recursive4", "transformer", "churn8", "churnU", "churnP",
                                    "evict60", "evict30", "evict10"};

static void generate(list *l, size_t kind, size_t n)
{
    size_t root = 1;
    while (root * root < n / 4) root++;
    if (kind == 0) gen_nested(l, n);
    else if (kind == 1) gen_checkpoint(l, n / 4, root, root);
    else if (kind == 2) gen_checkpoint(l, n / 8, 4, 2);
    else if (kind == 3) gen_checkpoint(l, n / 6, 3, 4);
    else if (kind == 4) gen_transformer(l, n);
    else if (kind < 8) gen_churn(l, n, (uint32_t)(kind - 4), 20);
    else gen_evict(l, n, kind == 8 ? 60 : kind == 9 ? 30 : 10);
}

static void minimalloc(uint64_t limit)
{
    size_t f, k;
    for (f = 0; f < MINIMALLOC_FILES; f++) {
        list l;
        char name[32];
        memset(&l, 0, sizeof l);
        for (k = minimalloc_first[f]; k < minimalloc_first[f + 1]; k++) {
            uint32_t id = open_one(&l, (uint64_t)minimalloc_facts[k][2]);
            l.v[id].start = minimalloc_facts[k][0];
            l.v[id].end = minimalloc_facts[k][1];
        }
        sprintf(name, "minimalloc %c", (int)('A' + f));
        report(name, &l, 1, 1048576, limit);
        free(l.v);
    }
}

int main(int argc, char **argv)
{
    size_t n, k, only = argc > 2 ? (size_t)strtoul(argv[2], NULL, 10) : 0;
    uint64_t s, limit = argc > 3 ? (uint64_t)strtoul(argv[3], NULL, 10) : 0;
    if (argc < 2 || !strcmp(argv[1], "minimalloc")) minimalloc(limit);
    for (k = 0; k < sizeof KINDS / sizeof KINDS[0]; k++) {
        for (n = 1000; n <= 100000; n *= 10) {
            for (s = 0; s < (n < 100000 ? 3 : 1); s++) {
                list l;
                if ((argc > 1 && strncmp(argv[1], KINDS[k], strlen(argv[1]))) || (only && n != only)) continue;
                memset(&l, 0, sizeof l);
                l.seed = s * 1000003 + k * 7919 + 1;
                generate(&l, k, n);
                report(KINDS[k], &l, 256, 0, limit);
                free(l.v);
            }
        }
    }
    printf("total %.3f s\n", total_s);
    return 0;
}
