/* test_floors.c - how good plans, bounds and least budgets are, at least, for small graphs of a few kinds: what a search or a bound
   finds less of is told here, where legality alone says nothing. Times and bounds are counted work, the same on every machine; a change
   that makes them better lowers the floors, one that makes them worse has to say why. test_floors print: the table as it is now.

      sh tests/run.sh test_floors */
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"

#include <stdarg.h>

#include "../common.h"
#include "randgraph.h"

static void put(tm_text *t, const char *format, ...)
{
    char line[700];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    tm_sink(t, line, strlen(line));
}

/* n layers of a transformer, nine ops each; with a link of so many MB a second (0: none) updates run on either side, and host memory
   adds as many (0: the format's default). */
static void transformer(tm_text *t, unsigned n, unsigned link, unsigned add)
{
    const char *update = link ? "state=16384 opt=3000 opt_host=9000" : "state=16384 opt=3000";
    char x[16] = "x";
    unsigned i;
    put(t, "rockmate graph 1\n");
    if (link) put(t, "link h2d=%u000000 d2h=%u000000 latency=500", link, link);
    if (link && add) put(t, " add=%u000000", add);
    if (link) put(t, "\n");
    put(t, "tensor x input 8192 grad\n");
    for (i = 0; i < n; i++) {
        put(t, "tensor wq%u param 12288 %s\ntensor wp%u param 4096 %s\ntensor wf%u param 16384 %s\n", i, update, i, update, i, update);
        put(t, "op n%u in=%s out=a%u:8192 fwd=1400 bwd=2700 needs=%s,saved saved=128\n", i, x, i, x);
        put(t, "op q%u in=a%u,wq%u out=b%u:24576 fwd=19500 bwd=38600 needs=a%u,wq%u\n", i, i, i, i, i, i);
        put(t, "part q%u dx grads=a%u needs=wq%u bwd=19300\npart q%u dw grads=wq%u needs=a%u bwd=19300\n", i, i, i, i, i, i);
        put(t, "op t%u in=b%u out=c%u:8192 fwd=17300 bwd=43900 needs=b%u,c%u,saved saved=1024 fwd_ws=4096\n", i, i, i, i, i);
        if (i % 3 == 1) put(t, "variant t%u fast fwd=12000 bwd=33000 saved=16384\n", i);
        put(t, "op p%u in=c%u,wp%u out=d%u:8192 fwd=6600 bwd=12900 needs=c%u,wp%u\n", i, i, i, i, i, i);
        put(t, "op r%u in=%s,d%u out=e%u:8192 fwd=2000 bwd=1400 needs=none share_bwd=%s,d%u\n", i, x, i, i, x, i);
        put(t, "op f%u in=e%u,wf%u out=h%u:32768 fwd=26000 bwd=51500 needs=e%u,wf%u\n", i, i, i, i, i, i);
        put(t, "op g%u in=h%u out=k%u:32768 fwd=5200 bwd=7700 needs=h%u inplace_bwd=h%u\n", i, i, i, i, i);
        put(t, "op o%u in=k%u out=l%u:8192 fwd=26000 bwd=51500 needs=k%u bwd_ws=8192\n", i, i, i, i);
        put(t, "op s%u in=e%u,l%u out=y%u:8192 fwd=2000 bwd=1400 needs=none\n", i, i, i, i);
        snprintf(x, sizeof x, "y%u", i);
    }
    put(t, "op loss in=%s out=loss:4 fwd=800 bwd=800 needs=%s\noutput loss\n", x, x);
}

/* Any graph with these features. */
static void any(tm_text *t, unsigned long seed, int ops, uint32_t features)
{
    rg_text text;
    rg_generate(&text, seed, ops, features);
    tm_sink(t, text.data, text.size);
    rg_free(&text);
}

#define CHAIN (RG_RESIDUAL | RG_STATE | RG_INPLACE | RG_NEEDS | RG_SAVED | RG_WORKSPACE | RG_SHARE_BWD)
#define EACH (RG_ALL & ~(RG_EXTERNAL | RG_OPT_HOST | RG_LINK))
#define HOST (CHAIN | RG_LINK | RG_OPT_HOST)

static const struct {
    const char *name;
    unsigned layers, link; /* a transformer; or 0, and a seed */
    unsigned long seed;
    int ops;
    uint32_t features;
    const char *preset;
    uint64_t budget, time, bound, named, least; /* the time, at most (none within budget 1), the bound, at least, the budget named, at most,
                                          and the bytes that no plan is below, at least:
                                          a little more, or less, than what they were when they were noted down */
} rows[] = {
    {"layers", 8, 0, 0, 0, 0, NULL, 800000, 3722860, 3270488, 777354, 746127},
    {"layers", 8, 0, 0, 0, 0, NULL, 900000, 3083631, 3012715, 777354, 746127},
    {"layers", 8, 0, 0, 0, 0, "rockmate", 1000000, 2973137, 2918013, 777354, 746127},
    {"layers", 8, 0, 0, 0, 0, "hilp", 900000, 3074272, 3012715, 899202, 746127},
    {"layers", 8, 0, 0, 0, 0, "search", 1000000, 2984853, 2918013, 810777, 746127},
    {"linked", 8, 2000, 0, 0, 0, "offmate", 150000, 3185000, 2475152, 150666, 81100},
    {"linked", 8, 700, 0, 0, 0, "offmate", 200000, 2647000, 2516059, 150666, 81100},
    {"linked", 8, 700, 0, 0, 0, "offmate", 400000, 2588832, 2484159, 150666, 81100},
    {"linked", 8, 250, 0, 0, 0, "offmate", 300000, 2989911, 2745347, 250936, 81100},
    {"linked", 8, 250, 0, 0, 0, "offmate", 600000, 2720435, 2547289, 251197, 81100},
    {"linked", 4, 500, 0, 0, 0, "offmate", 200000, 1380973, 1269875, 159022, 81100},
    {"linked", 8, 2000, 0, 0, 0, "offmate", 67108864, 2525795, 2475152, 151971, 81100},
    {"linked", 8, 500, 0, 0, 0, "link", 800000, 2612344, 2475152, 690923, 81100},
    {"linked", 8, 500, 0, 0, 0, "stream", 1100000, 2612114, 2475152, 1088609, 81100},
    {"linked", 8, 500, 0, 0, 0, "blocks", 800000, 3283966, 2475152, 167639, 81100},
    {"linked", 3, 2, 0, 0, 0, "offmate", 180000, 123100000, 52500000, 123200, 81900}, /* prices of so slow a link have room */
    {"linked, a middle step, slow additions", 4, 900, 0, 0, 0, "offmate", 500902, 1370000, 1240000, 175000, 81100},
    {"linked", 8, 500, 0, 0, 0, "offmate", 1, 0, 2622457, 123200, 81100},
    {"chain", 0, 0, 2, 22, CHAIN, NULL, 20500, 40574, 35815, 20106, 15882},
    {"chain", 0, 0, 2, 22, CHAIN, NULL, 24000, 39650, 35429, 20106, 15882},
    {"each", 0, 0, 3, 22, EACH, NULL, 17000, 25443, 18552, 17233, 10451},
    {"each", 0, 0, 1, 22, EACH, "hilp", 36000, 20450, 15269, 33100, 16519},
    {"each", 0, 0, 42, 12, EACH, NULL, 13337, 9000, 6500, 13400, 10000},
    {"each", 0, 0, 43, 12, EACH, NULL, 14176, 7430, 4900, 14100, 11500},
    {"each", 0, 0, 43, 30, EACH, NULL, 21051, 28650, 18294, 20300, 12034},
    {"each", 0, 0, 45, 30, EACH, NULL, 30352, 51500, 40522, 28900, 18655},
    {"layers", 6, 0, 0, 0, 0, NULL, 660249, 2470000, 2337500, 610237, 589824},
    {"layers", 3, 0, 0, 0, 0, NULL, 377241, 1249000, 1185000, 359000, 344064},
    {"layers", 3, 0, 0, 0, 0, NULL, 543129, 1021000, 1010000, 359000, 344064},
    {"host", 0, 0, 2, 12, HOST, "offmate", 7200, 25200, 20303, 6300, 5605},
    {"host", 0, 0, 6, 12, HOST, "offmate", 13000, 17867, 11352, 9710, 8640},
    {"host", 0, 0, 6, 12, HOST, "offmate", 15000, 17065, 11350, 9710, 8640},
};

int main(int argc, char **argv)
{
    size_t i;
    int print = argc > 1 && !strcmp(argv[1], "print");
    for (i = 0; i < RMI_COUNT(rows); i++) {
        tm_text t;
        rm_graph *g = NULL;
        rm_plan *p = NULL;
        rm_plan_desc d;
        rm_plan_info info;
        rm_result r;
        char said[200];
        memset(&t, 0, sizeof t);
        memset(&d, 0, sizeof d);
        memset(&info, 0, sizeof info);
        if (rows[i].layers) transformer(&t, rows[i].layers, rows[i].link, strstr(rows[i].name, "slow additions") ? 9 : 0);
        else any(&t, rows[i].seed, rows[i].ops, rows[i].features);
        d.info = &info;
        d.work_limit = 5000;
        d.preset = rows[i].preset;
        d.device_bytes = rows[i].budget;
        if (strstr(rows[i].name, "middle step")) d.steps = RM_MIDDLE;
        if (rows[i].link || !strcmp(rows[i].name, "host")) d.host_bytes = (uint64_t)1 << 30;
        r = rm_graph_read(t.s, t.n, NULL, &g);
        if (r == RM_OK) r = rm_plan_create(g, &d, &p);
        snprintf(said, sizeof said, "%s, preset %s, budget %llu: time %llu, bound %llu, named %llu, least %llu%s%s", rows[i].name, rows[i].preset ? rows[i].preset : "default", (unsigned long long)rows[i].budget,
                 (unsigned long long)info.time_ns, (unsigned long long)info.bound_ns, (unsigned long long)info.min_bytes, (unsigned long long)info.min_bound_bytes, r ? ": " : "", r && d.device_bytes != 1 ? rm_graph_error(g) : "");
        if (print) puts(said);
        EXPECT((r == RM_OK) == (rows[i].budget > 1) && info.time_ns <= rows[i].time, said);
        EXPECT(info.bound_ns >= rows[i].bound, said);
        EXPECT(info.min_bytes <= rows[i].named, said);
        EXPECT(info.min_bound_bytes >= rows[i].least, said);
        rm_plan_destroy(p);
        rm_graph_destroy(g);
        tm_clear(&t);
    }
    return tm_end();
}
