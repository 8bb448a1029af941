/* tests/oracle/test_place.c: addresses against brute force, against the eleven instances of minimalloc, and their properties. */
#include <stdio.h>
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"

#include "../common.h"
#include "../data/minimalloc.h"

static int failures;
#define CHECK(c)                                                       \
    do {                                                               \
        if (!(c)) {                                                    \
            printf("%s:%d: %s\n", __FILE__, __LINE__, #c);             \
            if (++failures > 20) exit(1);                              \
        }                                                              \
    } while (0)

static uint64_t seed = 1;
static uint64_t rnd(uint64_t below)
{
    seed++;
    return rmi_mix(seed) % below;
}

/* --- an allocator that counts, and fails at the n-th call */
typedef struct faulty {
    long live, calls, fail_at;
} faulty;
static void *faulty_alloc(size_t bytes, void *user)
{
    faulty *f = (faulty *)user;
    void *p;
    if (f->fail_at && ++f->calls == f->fail_at) return NULL;
    p = malloc(bytes);
    f->live += p != NULL;
    return p;
}
static void faulty_free(void *p, void *user)
{
    ((faulty *)user)->live--;
    free(p);
}

static rm_result place(rmi_plc_item *v, size_t n, uint64_t granule, uint64_t target, uint64_t limit, rmi_plc_info *info)
{
    rmi_arena a = rmi_arena_make(NULL);
    rmi_plc_info own;
    rm_result r;
    if (!info) info = &own;
    info->target = target;
    r = rmi_plc_place(&a, v, n, granule, limit, info);
    CHECK(a.blocks == NULL);
    rmi_arena_free(&a);
    return r;
}

static uint64_t rounded(const rmi_plc_item *a, uint64_t granule) { return (a->size + granule - 1) / granule * granule; }

/* Whether the placement is legal; *height is its height. */
static int legal(const rmi_plc_item *v, size_t n, uint64_t granule, uint64_t *height)
{
    size_t i, j;
    *height = 0;
    for (i = 0; i < n; i++) {
        if (v[i].offset % granule || (!v[i].size && v[i].offset)) return 0;
        if (v[i].size && v[i].offset + rounded(v + i, granule) > *height) *height = v[i].offset + rounded(v + i, granule);
        for (j = 0; j < i; j++) {
            const rmi_plc_item *a = v + i, *b = v + j;
            if (a->size && b->size && a->start < b->end && b->start < a->end && a->offset < b->offset + rounded(b, granule) &&
                b->offset < a->offset + rounded(a, granule))
                return 0;
        }
    }
    return 1;
}

static uint64_t live_bound(const rmi_plc_item *v, size_t n, uint64_t granule)
{
    uint64_t best = 0, sum;
    size_t i, j;
    for (i = 0; i < n; i++) {
        for (j = 0, sum = 0; j < n; j++) {
            if (v[j].start <= v[i].start && v[i].start < v[j].end) sum += rounded(v + j, granule);
        }
        if (sum > best) best = sum;
    }
    return best;
}

/* --- brute force: first fit in every order in which offsets never fall. An optimum with the least sum of offsets is one. */
static uint64_t brute_best, brute_floor; /* the search ends at the floor */
static void brute(rmi_plc_item *v, size_t n, uint32_t done, uint64_t high, uint64_t last)
{
    size_t i, j;
    if (high >= brute_best || brute_best == brute_floor) return;
    if (done == (1u << n) - 1) {
        brute_best = high;
        return;
    }
    for (i = 0; i < n; i++) {
        uint64_t off = 0, was;
        int again = 1;
        if (done >> i & 1) continue;
        while (again) {
            for (j = 0, again = 0; j < n; j++) {
                if (!(done >> j & 1) || v[i].end <= v[j].start || v[j].end <= v[i].start) continue;
                if (off >= v[j].offset + v[j].size || v[j].offset >= off + v[i].size) continue;
                off = v[j].offset + v[j].size;
                again = 1;
            }
        }
        if (off < last) continue;
        was = v[i].offset;
        v[i].offset = off;
        brute(v, n, done | 1u << i, high > off + v[i].size ? high : off + v[i].size, off);
        v[i].offset = was;
    }
}

static void random_items(rmi_plc_item *v, size_t n, uint32_t positions, uint64_t sizes)
{
    size_t i;
    memset(v, 0, n * sizeof *v);
    for (i = 0; i < n; i++) {
        v[i].start = (uint32_t)rnd(positions);
        v[i].end = v[i].start + 1 + (uint32_t)rnd(positions - v[i].start);
        v[i].size = 1 + rnd(sizes);
    }
}

/* Six boxes over six positions, each position filled up to the bound: the optimum is often above it. */
static size_t tight_items(rmi_plc_item *v)
{
    size_t n = 6, i, c;
    uint64_t bound, live;
    random_items(v, n, 6, 4);
    bound = live_bound(v, n, 1);
    for (c = 0; c < 6; c++) {
        for (i = 0, live = 0; i < 6; i++) live += v[i].start <= c && c < v[i].end ? v[i].size : 0;
        if (live == bound) continue;
        memset(v + n, 0, sizeof *v);
        v[n].start = (uint32_t)c;
        v[n].end = (uint32_t)c + 1;
        v[n++].size = bound - live;
    }
    return n;
}

/* The branch and bound alone, from a placement one on top of the other. */
static uint64_t search_alone(const rmi_plc_item *v, size_t n)
{
    rmi_arena mem = rmi_arena_make(NULL);
    rmi_plc p;
    size_t i;
    memset(&p, 0, sizeof p);
    p.mem = &mem;
    p.limit = RMI_PLC_WORK;
    CHECK(rmi_plc_check(&p, v, n, 1) == RM_OK && rmi_plc_columns(&p, p.mem, v, n, 1) == RM_OK && rmi_plc_measure(&p) == RM_OK);
    CHECK(rmi_plc_base(&p) == RM_OK && rmi_plc_sky_make(&p) == RM_OK);
    p.target = rmi_max(p.bound, p.fixed_top);
    for (i = 0; i < n; i++) p.height += v[i].size;
    p.height += p.fixed_top + 1;
    if (p.n) CHECK(rmi_plc_hard(&p) == RM_OK);
    rmi_arena_free(&mem);
    return p.n ? p.height : p.target;
}

static void test_oracle(void)
{
    int t, above = 0;
    for (t = 0; t < 1500; t++) {
        rmi_plc_item v[16];
        rmi_plc_info info;
        uint64_t height;
        uint32_t done = 0;
        size_t n = (size_t)(2 + rnd(8)), i;
        random_items(v, n, 4 + (uint32_t)rnd(6), 2 + rnd(4));
        if (t % 3 == 0) n = tight_items(v);
        if (t % 3 == 1) { /* a pyramid of fixed ones at the bottom */
            uint64_t off = 0;
            uint32_t end = 12;
            for (i = 0; i < 2 && i < n; i++) {
                v[i].fixed = 1;
                v[i].start = 0;
                v[i].end = end;
                v[i].offset = off;
                off += v[i].size;
                end = 1 + (uint32_t)rnd(end);
                done |= 1u << i;
            }
        }
        brute_best = RMI_INF;
        brute_floor = live_bound(v, n, 1);
        for (i = 0, height = 0; i < n; i++) {
            if (v[i].fixed) height = rmi_max(height, v[i].offset + v[i].size);
        }
        brute(v, n, done, height, 0);
        CHECK(place(v, n, 1, 0, 0, &info) == RM_OK);
        CHECK(legal(v, n, 1, &height) && height == info.height && height == brute_best);
        CHECK(info.bound == live_bound(v, n, 1) && info.bound <= info.height);
        CHECK(search_alone(v, n) == brute_best);
        above += brute_best > info.bound;
    }
    CHECK(above > 2); /* else the oracle tested the easy cases only */
}

static void test_floating(void)
{
    int t;
    for (t = 0; t < (int)tm_amount(1000, 3000); t++) {
        rmi_plc_item v[40], w[40];
        rmi_plc_info info;
        uint64_t height, granule = t % 3 ? 1 : 16;
        size_t n = (size_t)(2 + rnd(38)), i, fixed = (size_t)(1 + rnd(4));
        uint64_t off = 0;
        random_items(v, n, 4 + (uint32_t)rnd(30), 2 + rnd(90));
        for (i = 0; i < fixed && i < n; i++) { /* gaps between, never an overlap */
            off += granule * rnd(6);
            v[i].fixed = 1;
            v[i].offset = off;
            off += rounded(v + i, granule);
        }
        if (t % 5 == 0) v[n - 1].size = 0;
        memcpy(w, v, sizeof v);
        CHECK(place(v, n, granule, 0, 200000, &info) == RM_OK);
        CHECK(legal(v, n, granule, &height) && height == info.height);
        for (i = 0; i < n; i++) CHECK(!w[i].fixed || !w[i].size || w[i].offset == v[i].offset);
        CHECK(place(w, n, granule, 0, 200000, NULL) == RM_OK); /* the same again */
        for (i = 0; i < n; i++) CHECK(w[i].offset == v[i].offset);
    }
}

static void test_random(void)
{
    static rmi_plc_item v[1500];
    int t;
    for (t = 0; t < (int)tm_amount(20, 60); t++) {
        rmi_plc_info info, loose;
        uint64_t height, granule = t % 2 ? 256 : 1;
        size_t n = (size_t)(10 + rnd(t % 10 ? 200 : 1490));
        random_items(v, n, 8 + (uint32_t)rnd(2 * n), t % 3 ? 5000 : 8);
        CHECK(place(v, n, granule, 0, 2000000, &info) == RM_OK);
        CHECK(legal(v, n, granule, &height) && height == info.height && info.bound == live_bound(v, n, granule));
        CHECK(info.height >= info.bound);
        CHECK(place(v, n, granule, info.height, 2000000, &loose) == RM_OK);
        CHECK(loose.height <= info.height && loose.work <= info.work); /* a weaker target is never more work */
    }
}

/* Buffers that stay away from the edges' ones, which float. */
static void test_holes(void)
{
    static rmi_plc_item v[800];
    int t;
    for (t = 0; t < 12; t++) {
        rmi_plc_info info;
        uint64_t height, target;
        size_t n = (size_t)(300 + rnd(500)), i;
        random_items(v, n, (uint32_t)n, 500);
        for (i = 0; i < 20; i++) { /* there at both edges, away in between; what rests on nothing floats */
            v[i].fixed = v[i + 20].fixed = 1;
            v[i].offset = v[i + 20].offset = 600 * i;
            v[i].size = v[i + 20].size = 600;
            v[i].start = 0;
            v[i].end = 2 + (uint32_t)rnd(n / 4);
            v[i + 20].start = (uint32_t)(n / 2 + rnd(n / 3));
            v[i + 20].end = (uint32_t)n;
        }
        target = live_bound(v, n, 1) / 100 * (t % 2 ? 102 : 106);
        CHECK(place(v, n, 1, target, 4000000, &info) == RM_OK);
        CHECK(legal(v, n, 1, &height) && height == info.height && info.bound == live_bound(v, n, 1));
    }
}

static void test_nested(void)
{
    static rmi_plc_item v[2000];
    rmi_plc_info info;
    uint64_t height;
    uint32_t i;
    memset(v, 0, sizeof v);
    for (i = 0; i < 1000; i++) { /* kept activations, and a workspace inside each */
        v[i].start = 2 * i;
        v[i].end = 8000 - 2 * i;
        v[i].size = 1 + rnd(100000);
        v[1000 + i].start = 2 * i + 1;
        v[1000 + i].end = 2 * i + 2;
        v[1000 + i].size = 1 + rnd(100000);
    }
    CHECK(place(v, 2000, 256, 0, 0, &info) == RM_OK);
    CHECK(legal(v, 2000, 256, &height) && height == info.height && info.height == info.bound);
}

/* A chain of eight layers in its least memory: the orders miss the bound by a granule, the search needs 1.3 million steps of
   the two that plans of this size grant. The first is what persists, the second the batch. */
static void test_least_chain(void)
{
    static const uint32_t facts[][3] = {
        {0, 48, 14080}, {0, 30, 5000}, {0, 2, 4000}, {1, 3, 5000}, {2, 10, 6000}, {3, 5, 7000}, {4, 6, 4000},
        {5, 9, 5000}, {6, 8, 6000}, {7, 9, 6000}, {7, 37, 1156}, {8, 12, 5000}, {8, 47, 900}, {9, 14, 7000},
        {10, 12, 4000}, {11, 14, 4000}, {11, 46, 1412}, {13, 18, 7000}, {13, 43, 1156}, {14, 16, 4000},
        {15, 17, 5000}, {16, 18, 6000}, {17, 21, 6000}, {17, 44, 900}, {18, 20, 4000}, {19, 21, 5000}, {20, 24, 5000},
        {20, 45, 1412}, {22, 24, 4000}, {23, 30, 4000}, {23, 40, 1156}, {26, 28, 4000}, {27, 29, 5000},
        {28, 31, 6000}, {29, 42, 900}, {30, 32, 7000}, {31, 33, 4000}, {32, 34, 5000}, {33, 35, 6000}, {34, 48, 7000},
    };
    static rmi_plc_item v[RMI_COUNT(facts)];
    rmi_plc_info info;
    uint64_t height;
    size_t i;
    memset(v, 0, sizeof v);
    for (i = 0; i < RMI_COUNT(facts); i++) {
        v[i].start = facts[i][0];
        v[i].end = facts[i][1];
        v[i].size = facts[i][2];
    }
    v[0].fixed = v[1].fixed = 1;
    v[1].offset = 14080;
    CHECK(place(v, RMI_COUNT(facts), 256, 0, 2022000, &info) == RM_OK);
    CHECK(legal(v, RMI_COUNT(facts), 256, &height) && height == info.height && info.height == info.bound);
}

static void test_minimalloc(void)
{
    static rmi_plc_item v[512];
    size_t f, k;
    for (f = 0; f < MINIMALLOC_FILES; f++) {
        rmi_plc_info info;
        uint64_t height;
        size_t n = 0;
        memset(v, 0, sizeof v);
        for (k = minimalloc_first[f]; k < minimalloc_first[f + 1]; k++, n++) {
            v[n].start = minimalloc_facts[k][0];
            v[n].end = minimalloc_facts[k][1];
            v[n].size = minimalloc_facts[k][2];
        }
        CHECK(place(v, n, 1, 1048576, 0, &info) == RM_OK);
        CHECK(legal(v, n, 1, &height) && height == info.height && height <= 1048576);
    }
}

static void test_arguments(void)
{
    rmi_plc_item v[3];
    rmi_plc_info info;
    memset(v, 0, sizeof v);
    CHECK(place(v, 0, 256, 0, 0, &info) == RM_OK && info.height == 0 && info.bound == 0);
    v[0].end = v[1].end = v[2].end = UINT32_MAX;
    v[0].offset = 7;
    CHECK(place(v, 3, 256, 0, 0, &info) == RM_OK && info.height == 0 && v[0].offset == 0); /* nothing has a size */
    v[0].size = v[1].size = 100;
    CHECK(place(v, 3, 256, 0, 0, &info) == RM_OK && info.height == 512);
    CHECK(place(v, 3, 0, 0, 0, &info) == RM_ERROR_ARGUMENT);
    v[0].fixed = v[1].fixed = 1;
    v[0].offset = v[1].offset = 1024;
    CHECK(place(v, 3, 256, 0, 0, &info) == RM_ERROR_ARGUMENT); /* fixed ones overlap */
    v[1].offset = 1280;
    CHECK(place(v, 3, 256, 0, 0, &info) == RM_OK && info.height == 1536 && info.bound == 512);
    v[1].offset = 1281;
    CHECK(place(v, 3, 256, 0, 0, &info) == RM_ERROR_ARGUMENT);
    v[1].offset = 1280;
    v[2].start = v[2].end;
    CHECK(place(v, 3, 256, 0, 0, &info) == RM_ERROR_ARGUMENT);
    v[2].start = 5;
    v[2].size = (uint64_t)1 << 60;
    CHECK(place(v, 3, 256, 0, 0, &info) == RM_OK && v[2].offset == 1536);
    v[2].size = (uint64_t)1 << 62;
    CHECK(place(v, 3, 256, 0, 0, &info) == RM_ERROR_ARGUMENT);
    v[2].size = UINT64_MAX;
    CHECK(place(v, 3, 256, 0, 0, &info) == RM_ERROR_ARGUMENT);
}

/* Every allocation fails in turn: no leak, the items as they were. */
static void test_memory(void)
{
    static rmi_plc_item v[300], was[300];
    int kind;
    for (kind = 0; kind < 3; kind++) {
        long k = 1;
        size_t n = kind ? 300 : 20;
        rm_result r = RM_ERROR_MEMORY;
        random_items(v, n, 60, 5000);
        if (kind == 2) {
            v[0].fixed = v[1].fixed = 1;
            v[1].offset = 1 << 20;
        }
        for (k = 1; r == RM_ERROR_MEMORY; k++) {
            rmi_plc_info info;
            faulty f;
            rm_allocator hooks;
            rmi_arena a;
            memset(&f, 0, sizeof f);
            f.fail_at = k;
            hooks.alloc = faulty_alloc;
            hooks.free = faulty_free;
            hooks.user = &f;
            a = rmi_arena_make(&hooks);
            memcpy(was, v, sizeof v);
            info.target = 0;
            r = rmi_plc_place(&a, v, n, 1, 1000000, &info);
            CHECK(f.live == 0);
            CHECK(r == RM_OK || (r == RM_ERROR_MEMORY && !memcmp(was, v, sizeof v)));
            rmi_arena_free(&a);
        }
        CHECK(r == RM_OK && k > 2);
    }
}

int main(void)
{
    test_arguments();
    test_oracle();
    test_floating();
    test_random();
    test_holes();
    test_nested();
    test_memory();
    test_least_chain();
    test_minimalloc();
    printf("%d passed, %d failed, 0 skipped\n", 8 - (failures > 0), failures);
    return failures != 0;
}
