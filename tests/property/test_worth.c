/* test_worth.c - over well-known models, devices, budgets and step kinds: preset offmate is at least as fast as what is set by hand
   elsewhere (checkpoints at every block; what fits the link's free time moved; blocks recomputed from inputs in host memory; whole
   layers streamed with updates on the host) and as the default search without copies, wherever these fit; the bound is below it;
   the plan is legal by the second referee, and by that a link 5 % slower than the one it was made for costs at most 2.5 % of the
   computation, unless the link is what the step waits for all the time. Each plan is made from a graph of its own. test_worth [FIRST [COUNT]] of the cases. */
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"
#include "examples/models.h"
#include "../common.h"
#include "../oracle/replay.h"

static unsigned passed, failed;
static void expect(int ok, const char *where, const char *what, const char *detail)
{
    if (ok) passed++;
    else failed++, printf("%s: %s: %s\n", where, what, detail);
}

typedef struct scene {
    const char *model, *device;
    uint64_t amount; /* tokens or images */
    uint32_t percent, step; /* of what keeping everything takes */
    uint64_t host;
} scene;

#define GIB ((uint64_t)1 << 30)
static const scene scenes[] = {
    { "gpt2-124m", "rtx4060ti", 8192, 30, RM_SINGLE, 64 * GIB },   { "gpt2-124m", "h100", 16384, 20, RM_MIDDLE, 64 * GIB },
    { "resnet50", "rtx4060ti", 64, 40, RM_SINGLE, 64 * GIB },      { "unet", "rtx4090", 4, 25, RM_MIDDLE, 64 * GIB },
    { "llama3.2-1b", "rtx4060ti", 4096, 35, RM_SINGLE, 64 * GIB }, { "googlenet", "h200", 64, 30, RM_MIDDLE, 64 * GIB },
    { "gpt2-355m", "rtx4090", 8192, 50, RM_MIDDLE, 64 * GIB },     { "llama3.2-1b", "h100", 16384, 15, RM_LAST, 64 * GIB },
    { "vgg16", "rtx4060ti", 64, 60, RM_SINGLE, 64 * GIB },         { "mobilenetv2", "rtx4060ti", 64, 30, RM_SINGLE, 64 * GIB },
    { "gpt2-1.5b", "rtx4090", 8192, 20, RM_MIDDLE, 64 * GIB },     { "gpt2-1.5b", "rtx4090", 8192, 10, RM_SINGLE, 64 * GIB },
    { "llama3-8b", "rtx4090", 8192, 12, RM_SINGLE, 256 * GIB },    { "llama3-8b", "rtx4090", 8192, 8, RM_LAST, 256 * GIB },
    { "llama2-7b", "rtx4060ti", 8192, 10, RM_MIDDLE, 256 * GIB },  { "llama2-13b", "h100", 16384, 12, RM_SINGLE, 512 * GIB },
    { "llama2-13b", "h100", 16384, 20, RM_MIDDLE, 512 * GIB },     { "qwen2.5-32b", "h200", 16384, 10, RM_MIDDLE, 1024 * GIB },
    { "qwen2.5-32b", "h200", 16384, 8, RM_SINGLE, 1024 * GIB },    { "resnet50", "rtx4060ti", 256, 25, RM_MIDDLE, 64 * GIB },
};

static rm_graph *build(const scene *s)
{
    models_desc d;
    memset(&d, 0, sizeof d);
    d.model = s->model;
    d.device = models_device_find(s->device);
    d.tokens = d.images = s->amount;
    return models_build(&d);
}

/* The plan is replayed over the same graph with a slower link. */
static void slow_down(const scene *s, rm_graph *g, tm_text *plan, uint64_t budget, const rmtest_result *t, const char *where)
{
    tm_text slow = { 0 };
    rmtest_result r;
    double link = models_device_find(s->device)->link * 0.95, full = 0.9 * (double)t->time_ns;
    char *hash = strstr(plan->s, "\ngraph "), detail[80];
    if (hash) hash[1] = '#'; /* it is made for another graph */
    rm_graph_link(g, (uint64_t)link, (uint64_t)link, g->link.latency, g->link.add);
    rm_graph_write(g, tm_sink, &slow);
    rmtest_replay_c(slow.s, slow.n, plan->s, plan->n, budget, s->host, &r);
    sprintf(detail, "costs %.2f %% of the computation", 100 * ((double)r.time_ns - (double)t->time_ns) / (double)t->floor_ns);
    expect(r.verdict == RMTEST_LEGAL && (r.time_ns <= t->time_ns + t->floor_ns / 40 || (double)t->h2d_ns > full || (double)t->d2h_ns > full),
           where, "a link 5 % slower", detail);
    free(slow.s);
}

/* Time of the preset's plan, RMI_INF: none. */
static uint64_t plan(const scene *s, const char *preset, uint64_t budget, rm_plan_info *info, int judge, const char *where)
{
    rm_graph *g = build(s);
    rm_plan_desc d;
    rm_plan *p = NULL;
    rm_result r;
    memset(&d, 0, sizeof d);
    memset(info, 0, sizeof *info);
    d.preset = preset;
    d.device_bytes = budget;
    d.host_bytes = s->host;
    d.steps = s->step;
    d.info = info;
    r = rm_plan_create(g, &d, &p);
    expect(r == RM_OK || r == RM_ERROR_INFEASIBLE, where, preset, rm_graph_error(g));
    if (r == RM_OK && judge) {
        tm_text graph = { 0 }, program = { 0 };
        rmtest_result t;
        rm_graph_write(g, tm_sink, &graph);
        rm_plan_write(p, s->step, tm_sink, &program);
        rmtest_replay_c(graph.s, graph.n, program.s, program.n, budget, s->host, &t);
        expect(t.verdict == RMTEST_LEGAL && t.time_ns == info->time_ns, where, "the second referee", t.message);
        expect(info->bound_ns <= info->time_ns, where, "the bound", "above the plan");
        slow_down(s, g, &program, budget, &t, where);
        free(graph.s);
        free(program.s);
    }
    rm_plan_destroy(p);
    rm_graph_destroy(g);
    return r == RM_OK ? info->time_ns : RMI_INF;
}

int main(int argc, char **argv)
{
    static const char *const plain[] = { "every-block", "link", "blocks", "stream", "hiremate" };
    size_t i = argc > 1 ? (size_t)strtoul(argv[1], NULL, 10) : 0, k, end = i + (argc > 2 ? (size_t)strtoul(argv[2], NULL, 10) : tm_amount(1, 3));
    for (; i < end && i < RMI_COUNT(scenes); i++) {
        const scene *s = &scenes[i];
        rm_plan_info info, other;
        char where[100];
        uint64_t budget, ns;
        sprintf(where, "%s on %s at %u %%, step %u", s->model, s->device, (unsigned)s->percent, (unsigned)s->step);
        plan(s, "noremat", 0, &info, 0, where);
        budget = info.keep_all_bytes / 100 * s->percent;
        ns = plan(s, "offmate", budget, &info, 1, where);
        printf("%s: %s%.2f %% from the best possible\n", where, ns == RMI_INF ? "nothing fits " : "", ns == RMI_INF ? 0 : 100.0 * (double)(ns - info.bound_ns) / (double)info.bound_ns);
        for (k = 0; k < RMI_COUNT(plain); k++) {
            uint64_t t = plan(s, plain[k], budget, &other, 0, where);
            expect(ns <= t, where, "slower than preset", plain[k]);
        }
    }
    printf("%u passed, %u failed, 0 skipped\n", passed, failed);
    return failed != 0;
}
