/* test_fit.c - rm_fit: the largest size that fits and the fastest are those of trying every size, with and without a limit of time,
   host memory, several kinds of step; more memory is never worse; mistakes are named; memory that is out, at any allocation, and a
   caller who stops are told, and nothing is lost.

      gcc -O1 -g -std=gnu99 -I. tests/unit/test_fit.c -o build/test_fit && build/test_fit */
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"
#include "../common.h"
#include "../oom/heap.h"

/* A chain whose activations grow with the size, over weights that do not; each op takes so much, and so much more for each unit. */
typedef struct model {
    int layers;
    uint64_t fixed_ns, unit_ns;
    int link;
    int fail;         /* build gives no graph from this size on */
    int wrong;        /* an op without a time that is one */
    int odd;          /* sizes that are odd take three times as much */
    unsigned long built;
    uint64_t sizes[RM_FIT_TRIES];
} model;

static rm_graph *build(void *user, uint64_t size)
{
    model *m = (model *)user;
    rm_graph_desc gd;
    rm_graph *g;
    rm_kind k;
    rm_tensor h, l;
    int i;
    memset(&gd, 0, sizeof gd);
    memset(&k, 0, sizeof k);
    gd.allocator.alloc = heap_alloc;
    gd.allocator.free = heap_free;
    k.name = "fc";
    k.needs = RM_IN(0) | RM_IN(1);
    if (m->built < RM_FIT_TRIES) m->sizes[m->built] = size;
    m->built++;
    if (m->fail && size >= (uint64_t)m->fail) return NULL;
    g = rm_graph_create(&gd);
    if (!g) return NULL;
    if (m->odd && size % 2) size *= 3;
    if (m->link) rm_graph_link(g, 1000000000u, 1000000000u, 100, 0);
    h = rm_input_add(g, "x", 1000 * size, 0);
    for (i = 0; i < m->layers; i++)
        h = RM_OP(g, &k, .name = m->wrong ? "a name" : NULL, .in = {h, RM_PARAM(g, .bytes = 2000, .update_ns = 100)}, .out = {(1000 + 100 * (uint64_t)(i % 5)) * size}, .fwd_ns = m->fixed_ns + m->unit_ns * size, .bwd_ns = 2 * (m->fixed_ns + m->unit_ns * size));
    k.needs = RM_IN(0);
    l = RM_OP(g, &k, .name = "loss", .in = {h}, .out = {4}, .fwd_ns = 10, .bwd_ns = 10);
    rm_output_add(g, l);
    return g;
}

static void destroy(rm_fit_info *found)
{
    size_t i;
    for (i = 0; i < found->n; i++) {
        rm_plan_destroy(found->tried[i].plan);
        rm_graph_destroy(found->tried[i].graph);
    }
    EXPECT(heap.live == 0, "memory is lost");
}

/* What planning one size says. */
static int fits(model *m, const rm_fit_desc *d, uint64_t size, double *speed)
{
    rm_graph *g = build(m, size);
    rm_plan *p = NULL;
    rm_plan_desc plan = d->plan;
    rm_plan_info info;
    rm_result r;
    memset(&info, 0, sizeof info);
    plan.info = &info;
    r = rm_plan_create(g, &plan, &p);
    EXPECT(r == RM_OK || r == RM_ERROR_INFEASIBLE, rm_graph_error(g));
    rm_plan_destroy(p);
    rm_graph_destroy(g);
    *speed = r == RM_OK ? (double)size * 1e9 / (double)info.time_ns : 0;
    return r == RM_OK && (!d->slower_ppm || (double)info.time_ns <= (double)info.keep_all_ns * (1 + (double)d->slower_ppm / 1e6));
}

/* Every size, one after the other: the largest below the first that does not fit, and the best speed of these. */
static uint64_t each(model *m, const rm_fit_desc *d, double *best)
{
    uint64_t size, largest = 0;
    double speed;
    *best = 0;
    for (size = d->least ? d->least : 1; size <= d->most && fits(m, d, size, &speed); size++) {
        largest = size;
        if (speed > *best) *best = speed;
    }
    return largest;
}

static void tried_are(const rm_fit_info *found, const rm_fit_desc *d)
{
    size_t i;
    for (i = 0; i < found->n; i++) {
        const rm_fit_size *t = &found->tried[i];
        EXPECT(!i || t->size > found->tried[i - 1].size, "by rising size, none twice");
        EXPECT((t->graph != NULL) == (t->plan != NULL) && (t->plan != NULL) == (t == found->largest || t == found->fastest), "graphs and plans of the two");
        EXPECT(!t->fits || (t->info.arena_bytes && t->info.arena_bytes <= d->plan.device_bytes), "what fits does");
        EXPECT(t->fits || t->per_second > 0 || t->info.min_bytes > d->plan.device_bytes, "and what does not needs more");
        EXPECT(!found->largest || t->size <= found->largest->size || !t->fits, "the largest");
        EXPECT(!found->fastest || !t->fits || t->per_second <= found->fastest->per_second, "the fastest");
    }
    if (found->largest && found->largest->size < d->most) EXPECT(found->largest[1].size == found->largest->size + 1 && !found->largest[1].fits, "one more does not fit");
}

static void search(model *m, rm_fit_desc *d)
{
    rm_fit_info found, more;
    double best;
    uint64_t largest;
    rm_result r;
    d->build = build;
    d->user = m;
    m->built = 0;
    r = rm_fit(d, &found);
    EXPECT(m->built == found.n, "each size is built once");
    largest = each(m, d, &best);
    EXPECT(r == (largest ? RM_OK : RM_ERROR_INFEASIBLE), found.message);
    EXPECT((found.message[0] == 0) == (r == RM_OK), found.message);
    tried_are(&found, d);
    if (!largest) {
        destroy(&found);
        return;
    }
    if (!EXPECT(found.largest && found.fastest, "both")) return;
    EXPECT(found.largest->size == largest, "the largest of all sizes");
    EXPECT(found.fastest->per_second >= best * 0.995, "the fastest of all sizes");
    if (rm_graph_op_count(found.largest->graph) == 0) EXPECT(0, "the graph is there");
    d->less = &found;
    d->plan.device_bytes += d->plan.device_bytes / 3;
    r = rm_fit(d, &more);
    EXPECT(r == RM_OK && more.largest->size >= found.largest->size && more.fastest->per_second >= found.fastest->per_second, more.message);
    tried_are(&more, d);
    EXPECT(more.largest->size == each(m, d, &best), "the largest with more");
    d->plan.device_bytes = d->plan.device_bytes / 4 * 3;
    d->less = NULL;
    m->built = 0;
    { /* destroyed in any order */
        size_t i;
        for (i = 0; i < found.n; i++) rm_graph_destroy(found.tried[i].graph), rm_plan_destroy(found.tried[i].plan);
    }
    destroy(&more);
}

static void right(void)
{
    static const uint32_t slower[] = {0, 1, 100000, 250000};
    static const char *const presets[] = {"rockmate", "hiremate", "offmate"};
    int layers, i, k;
    for (layers = 3; layers <= (int)tm_amount(6, 9); layers += 3)
        for (i = 0; i < 4; i++)
            for (k = 0; k < (layers == 3 && i % 2 == 0 ? 3 : 2); k++) {
                model m;
                rm_fit_desc d;
                memset(&m, 0, sizeof m);
                memset(&d, 0, sizeof d);
                m.layers = layers;
                m.fixed_ns = k == 1 ? 0 : 20000;
                m.unit_ns = 1000;
                m.link = k == 2;
                d.plan.preset = presets[k];
                d.plan.work_limit = 2000;
                d.plan.host_bytes = k == 2 ? 1 << 20 : 0;
                d.plan.device_bytes = (uint64_t)layers * 6000 + (uint64_t)layers * 5000u * (uint64_t)(i + 1);
                d.plan.align = 16;
                d.slower_ppm = slower[i];
                d.most = i == 3 ? 6 : k == 2 ? 10 : 24;
                d.least = k == 1 ? 2 : 0;
                if (layers == 9 && k == 0) d.plan.steps = RM_FIRST | RM_LAST | RM_FORWARD;
                search(&m, &d);
            }
}

static int stop_at;
static int stop(void *user, const rm_progress *p)
{
    (void)user;
    (void)p;
    return stop_at && --stop_at == 0;
}

static void wrong(rm_fit_desc *d, rm_result want, const char *object, const char *fact)
{
    static rm_fit_info found;
    EXPECT(rm_fit(d, &found) == want && !found.largest && !found.fastest, found.message);
    EXPECT(strstr(found.message, object) && strstr(found.message, fact), found.message);
    destroy(&found);
}

static void mistakes(void)
{
    model m;
    rm_fit_desc d;
    rm_fit_info found;
    char need[32];
    int n;
    memset(&m, 0, sizeof m);
    memset(&d, 0, sizeof d);
    m.layers = 4, m.fixed_ns = 1000;
    EXPECT(rm_fit(&d, NULL) == RM_ERROR_ARGUMENT, "nowhere to go");
    d.less = &found;
    EXPECT(rm_fit(&d, &found) == RM_ERROR_ARGUMENT, "what was found before is not written over");
    d.less = NULL;
    wrong(NULL, RM_ERROR_ARGUMENT, "rm_fit_desc.build", "is NULL; give a function");
    wrong(&d, RM_ERROR_ARGUMENT, "rm_fit_desc.build", "is NULL; give a function");
    d.build = build, d.user = &m;
    wrong(&d, RM_ERROR_ARGUMENT, "rm_fit_desc.plan.device_bytes", "0");
    d.plan.device_bytes = 200000;
    d.least = 5, d.most = 4;
    wrong(&d, RM_ERROR_ARGUMENT, "rm_fit_desc.least", "above most");
    d.most = RM_EMPTY;
    wrong(&d, RM_ERROR_ARGUMENT, "most", "2^62");
    d.least = 0, d.most = 0;
    d.plan.preset = "none such";
    wrong(&d, RM_ERROR_ARGUMENT, "size 1", "none such");
    d.plan.preset = "rockmate";
    m.wrong = 1;
    wrong(&d, RM_ERROR_GRAPH, "size 1", "'a name'");
    m.wrong = 0, m.fail = 4;
    wrong(&d, RM_ERROR_MEMORY, "size 4", "no graph");
    m.fail = 0;
    d.plan.device_bytes = 5000; /* the weights alone take more: the least memory is named, and does */
    EXPECT(rm_fit(&d, &found) == RM_ERROR_INFEASIBLE && found.n == 1 && found.tried[0].info.min_bytes, found.message);
    snprintf(need, sizeof need, "%lu", (unsigned long)found.tried[0].info.min_bytes);
    EXPECT(strstr(found.message, "size 1") && strstr(found.message, need), found.message);
    d.plan.device_bytes = found.tried[0].info.min_bytes;
    EXPECT(rm_fit(&d, &found) == RM_OK && found.largest->size == 1 && found.n == 2, found.message);
    destroy(&found);
    d.slower_ppm = 1;
    wrong(&d, RM_ERROR_INFEASIBLE, "size 1", "rm_fit_desc.slower_ppm");
    d.slower_ppm = 0;
    d.plan.device_bytes = 200000;
    d.plan.progress = stop;
    for (n = 1; n < 40; n++) { /* whatever was found before stands */
        rm_result r;
        stop_at = n;
        r = rm_fit(&d, &found);
        EXPECT(found.largest ? r == RM_OK : r == RM_ERROR_CANCELLED, found.message);
        if (n == 1) EXPECT(found.n == 1, "it goes on after a stop");
        destroy(&found);
    }
}

/* Sizes that fit and do not in no order, and what was found for other sizes, or can no longer be had. */
static void disorder(void)
{
    model m;
    rm_fit_desc d;
    rm_fit_info found, more;
    size_t i;
    memset(&m, 0, sizeof m);
    memset(&d, 0, sizeof d);
    m.layers = 4, m.fixed_ns = 1000, m.unit_ns = 100, m.odd = 1;
    d.build = build, d.user = &m;
    d.plan.device_bytes = 40000;
    d.plan.preset = "rockmate";
    d.most = 50;
    EXPECT(rm_fit(&d, &found) == RM_OK, found.message);
    for (i = 1; i < found.n; i++) EXPECT(found.tried[i].size > found.tried[i - 1].size, "none twice");
    d.less = &found;
    d.least = d.most = 1; /* below all that was found but the first */
    m.built = 0;
    EXPECT(rm_fit(&d, &more) == RM_OK && more.largest->size == 1 && more.n == 1 && m.built <= 1, more.message);
    while (more.n--) rm_plan_destroy(more.tried[more.n].plan), rm_graph_destroy(more.tried[more.n].graph);
    d.least = 1, d.most = 50;
    d.plan.device_bytes = 20000; /* and less memory than then */
    EXPECT(rm_fit(&d, &more) != RM_ERROR_INTERNAL, more.message);
    for (i = 1; i < more.n; i++) EXPECT(more.tried[i].size > more.tried[i - 1].size, "none twice");
    while (more.n--) rm_plan_destroy(more.tried[more.n].plan), rm_graph_destroy(more.tried[more.n].graph);
    destroy(&found);
}

static void no_memory(void)
{
    model m;
    rm_fit_desc d;
    rm_fit_info all, found;
    rm_result r;
    long n, calls;
    memset(&m, 0, sizeof m);
    memset(&d, 0, sizeof d);
    m.layers = 4, m.fixed_ns = 1000, m.unit_ns = 100;
    d.build = build, d.user = &m;
    d.plan.device_bytes = 100000;
    d.plan.preset = "rockmate";
    heap.calls = 0;
    EXPECT(rm_fit(&d, &all) == RM_OK, all.message);
    calls = heap.calls;
    for (n = 1; n <= calls; n += 1 + n / 50) {
        heap.calls = 0;
        heap.fail_at = n;
        r = rm_fit(&d, &found);
        heap.fail_at = 0;
        if (r == RM_OK) EXPECT(found.n == all.n && found.largest->size == all.largest->size && found.fastest->size == all.fastest->size, "another answer");
        else EXPECT(r == RM_ERROR_MEMORY && !found.largest && found.message[0], found.message);
        while (found.n--) rm_plan_destroy(found.tried[found.n].plan), rm_graph_destroy(found.tried[found.n].graph);
    }
    destroy(&all);
}

int main(void)
{
    right();
    mistakes();
    disorder();
    no_memory();
    return tm_end();
}
