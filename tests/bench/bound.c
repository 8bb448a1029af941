/* How far from the best possible plans are at most, and what proving it takes: gap between preset search and the lower bound.
   bound            a transformer of 2,500 tasks at 50, 30, 10, 5, 3 % of the memory of keeping everything, one of 100,000
   bound DIRECTORY  besides, DIRECTORY/models/<name>.rmg at the memory of checkpointing every block
                    (checkpoint_every_block.tsv) and 70, 50, 30 %; DIRECTORY/small/optima.tsv: optimum over bound */
#define _POSIX_C_SOURCE 200809L
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* The bound alone, of one moment at a time or with more. */
static uint64_t bound_of(rm_graph *g, uint64_t budget, uint64_t more, double *ms)
{
    rmi_arena mem = rmi_arena_make(&g->mem.hooks);
    rmi_step m;
    uint64_t bound = 0;
    double t = now_ms();
    if (rmi_step_make(&mem, g, RM_SINGLE, 1, 0, &m) == RM_OK && budget >= m.resident) {
        rmi_bnd_ask ask = {budget - m.resident, RMI_PLAN_BOUND_WORK, more, RMI_INF};
        rmi_bnd_bound(&mem, &m, &ask, &bound);
    }
    *ms = now_ms() - t;
    rmi_arena_free(&mem);
    return bound;
}

static uint64_t keep_all(rm_graph *g)
{
    rm_plan_desc d;
    rm_plan_info info;
    rm_plan *p = NULL;
    memset(&d, 0, sizeof d);
    d.preset = "noremat";
    d.info = &info;
    if (rm_plan_create(g, &d, &p)) return 0;
    rm_plan_destroy(p);
    return info.keep_all_bytes;
}

static void row(rm_graph *g, const char *name, uint64_t budget, uint64_t all, int plan)
{
    rm_plan_desc d;
    rm_plan_info info;
    rm_plan *p = NULL;
    double ms, more_ms;
    uint64_t cut, bound;
    memset(&d, 0, sizeof d);
    memset(&info, 0, sizeof info);
    d.preset = plan ? "search" : "noremat";
    d.device_bytes = budget;
    d.info = &info;
    rm_plan_create(g, &d, &p);
    rm_plan_destroy(p);
    cut = bound_of(g, budget, 0, &ms);
    bound = bound_of(g, budget, RMI_PLAN_BOUND_WORK / 2 * 3, &more_ms);
    printf("| %s | %.1f %% | ", name, 100.0 * (double)budget / (double)all);
    if (!plan || !p) printf("%s | ", plan ? "does not fit" : "");
    else printf("%.3f %% | ", 100.0 * ((double)info.time_ns / (double)rmi_max(bound, info.bound_ns) - 1));
    if (!plan || !p) printf("| %.1f ms | %.1f ms |\n", ms, more_ms);
    else printf("%.3f %% | %.1f ms | %.1f ms |\n", 100.0 * ((double)info.time_ns / (double)cut - 1), ms, more_ms);
    fflush(stdout);
}

static rm_graph *transformer(unsigned layers)
{
    static const char *const line[] = {"op h%u.ln1 in=%s out=h%u.a:12582912 needs=%s,saved saved=65536 fwd=14583 bwd=29166\n",
                                       "op h%u.qkv in=h%u.a out=h%u.q:37748736 needs=h%u.a fwd=195274 bwd=390547\n",
                                       "op h%u.attn in=h%u.q out=h%u.o:12582912 needs=h%u.q,h%u.o,saved saved=393216 fwd=105079 bwd=263698 bwd_ws=25165824\n",
                                       "op h%u.proj in=h%u.o out=h%u.p:12582912 needs=h%u.o fwd=66425 bwd=132849\n",
                                       "op h%u.res1 in=%s,h%u.p out=h%u.r:12582912 needs=none fwd=20874 bwd=14583 inplace=%s\n",
                                       "op h%u.ln2 in=h%u.r out=h%u.b:12582912 needs=h%u.r,saved saved=65536 fwd=14583 bwd=29166\n",
                                       "op h%u.fc in=h%u.b out=h%u.f:50331648 needs=h%u.b fwd=259698 bwd=519396\n",
                                       "op h%u.gelu in=h%u.f out=h%u.g:50331648 needs=h%u.f fwd=52332 bwd=77497\n",
                                       "op h%u.fcproj in=h%u.g out=h%u.m:12582912 needs=h%u.g fwd=259698 bwd=519396\n",
                                       "op h%u.res2 in=h%u.r,h%u.m out=h%u.y:12582912 needs=none fwd=20874 bwd=14583 inplace=h%u.r\n"};
    size_t cap = (size_t)layers * 1600 + 1000, n;
    char *s = (char *)malloc(cap), x[32] = "emb";
    rm_graph *g = NULL;
    unsigned l, k;
    if (!s) exit(3);
    n = (size_t)sprintf(s, "rockmate graph 1\ntensor ids const 65536\ntensor w param 0\nop embed in=ids,w out=emb:12582912 needs=ids fwd=14583 bwd=20874\n");
    for (l = 0; l < layers; l++) {
        for (k = 0; k < 10; k++) {
            if (k == 0) n += (size_t)sprintf(s + n, line[k], l, x, l, x);
            else if (k == 4) n += (size_t)sprintf(s + n, line[k], l, x, l, l, x);
            else n += (size_t)sprintf(s + n, line[k], l, l, l, l, l);
        }
        sprintf(x, "h%u.y", l);
    }
    n += (size_t)sprintf(s + n, "op loss in=%s out=l:4 needs=%s fwd=20000 bwd=40000\noutput l\n", x, x);
    if (rm_graph_read(s, n, NULL, &g)) {
        puts(g ? rm_graph_error(g) : "memory");
        exit(1);
    }
    free(s);
    return g;
}

static rm_graph *from_file(const char *dir, const char *sub, const char *name)
{
    char path[1024];
    rm_graph *g = NULL;
    char *s;
    size_t n;
    FILE *f;
    snprintf(path, sizeof path, "%s/%s/%s.rmg", dir, sub, name);
    f = fopen(path, "rb");
    s = (char *)malloc((size_t)1 << 24);
    if (!f || !s) {
        printf("%s: not there\n", path);
        exit(1);
    }
    n = fread(s, 1, (size_t)1 << 24, f);
    fclose(f);
    if (rm_graph_read(s, n, NULL, &g)) {
        puts(g ? rm_graph_error(g) : "memory");
        exit(1);
    }
    free(s);
    return g;
}

static void models(const char *dir)
{
    char path[1024], line[1024], name[256];
    unsigned long long ops, all, all_ns, block, block_ns;
    FILE *f;
    snprintf(path, sizeof path, "%s/models/checkpoint_every_block.tsv", dir);
    f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) {
        static const unsigned percent[] = {70, 50, 30};
        rm_graph *g;
        unsigned k;
        if (sscanf(line, "%255s %llu %llu %llu %llu %llu", name, &ops, &all, &all_ns, &block, &block_ns) != 6) continue;
        g = from_file(dir, "models", name);
        row(g, name, block, all, 1);
        for (k = 0; k < 3; k++) row(g, name, all / 100 * percent[k], all, 1);
        rm_graph_destroy(g);
    }
    if (f) fclose(f);
}

/* Optimum over bound where the optimum is proven; budgets are live bytes, so the bound is compared alone. */
static void small(const char *dir)
{
    char path[1024], line[1024], name[256], fraction[32], best[32], least[32];
    unsigned long long budget, all_ns;
    double sum[2] = {0, 0}, worst[2] = {0, 0}, ms, ms_sum = 0;
    int proven, n[2] = {0, 0};
    FILE *f;
    snprintf(path, sizeof path, "%s/small/optima.tsv", dir);
    f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) {
        rm_graph *g;
        double gap;
        int tight;
        if (sscanf(line, "%255s %llu %31s %31s %31s %llu %d", name, &budget, fraction, best, least, &all_ns, &proven) != 7 || !proven) continue;
        g = from_file(dir, "small", name);
        tight = atof(fraction) < 0.1;
        if (keep_all(g)) {
            gap = 100.0 * (atof(best) / (double)bound_of(g, budget, RMI_PLAN_BOUND_WORK / 2 * 3, &ms) - 1);
            ms_sum += ms;
            sum[tight] += gap;
            n[tight]++;
            if (gap > worst[tight]) worst[tight] = gap;
        }
        rm_graph_destroy(g);
    }
    if (f) fclose(f);
    if (n[0] && n[1])
        printf("\nproven optima of small graphs over the bound: %.2f %% on average, %.2f %% at most; at the least memory %.2f %%, %.2f %%; %.1f ms each\n", sum[0] / n[0], worst[0], sum[1] / n[1], worst[1],
               ms_sum / (n[0] + n[1]));
}

int main(int argc, char **argv)
{
    static const unsigned percent[] = {50, 30, 10, 5, 3};
    rm_graph *g = transformer(125);
    uint64_t all = keep_all(g);
    unsigned k;
    puts("| graph | budget, of keep-everything | gap | gap to the bound of one moment | that | and several |\n|---|---|---|---|---|---|");
    for (k = 0; k < 5; k++) row(g, "transformer, 2,500 tasks", all / 100 * percent[k], all, 1);
    rm_graph_destroy(g);
    g = transformer(5000);
    all = keep_all(g);
    row(g, "transformer, 100,000 tasks", all / 10, all, 0);
    rm_graph_destroy(g);
    if (argc > 1) models(argv[1]);
    if (argc > 1) small(argv[1]);
    return 0;
}
