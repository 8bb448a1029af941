/* worth.c - what each mechanism of the planner is worth: plans with it and without it, over instances, budgets, links and seeds.

      cc -O2 -std=gnu99 -I. tests/bench/worth.c -o build/worth -lm && build/worth [OPTION...] [MECHANISM...] [GRAPH.rmg...]

      --seeds N      of the searches' generators (3)
      --links LIST   none, or GB/s each way (none,25); with a link there are 64 GiB of host memory
      --budgets LIST per cent of the way from the least memory of preset rockmate to keeping everything (10,30,60)
      --preset NAME  (the default's)
      --disk IN,OUT  GB/s of a disk behind host memory, of which there is half as much as the plan without a disk takes
      --rows         each instance, too

   A mechanism is the word inside one of the header's RMI_WITHOUT(...), search_ and a move's name, or one of the configurations below. First the planner as it
   is: overhead over keeping everything, its spread over seeds, processor time. Then a row for each mechanism: points of overhead
   that plans lose without it (positive: it pays), mean over all cases and seeds, standard error of that mean, median, extremes, and
   processor time with it over without. Without MECHANISM: all of them. Work is counted, so the machine's load changes times only.
   A mechanism whose mean is within the spread of seeds does not pay. */
#include <stdint.h>
static uint64_t worth_seed = 1;
static const char *worth_off = "";
static int worth_without(const char *mechanism), worth_without_move(const char *name);
#define RMI_SEED worth_seed
#define RMI_WITHOUT(mechanism) worth_without(#mechanism)
#define RMI_WITHOUT_MOVE(name) worth_without_move(name)
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"
#include "examples/models.h"
#include <math.h>
#include <stdio.h>

static int worth_without(const char *mechanism) { return worth_off[0] == mechanism[0] && !strcmp(worth_off, mechanism); }
static int worth_without_move(const char *name) { return !strncmp(worth_off, "search_", 7) && !strcmp(worth_off + 7, name); }

#define SEEDS 16
#define CASES 512

typedef struct instance {
    const char *name, *path;
    uint64_t images, tokens;
} instance;

/* What is planned where no graph is given: transformers with and without weights that matter, conv nets, a U-Net. */
static const instance INSTANCES[] = {
    { "gpt2-124m", NULL, 0, 8192 },  { "gpt2-1.5b", NULL, 0, 8192 }, { "llama3-8b", NULL, 0, 8192 },  { "qwen2.5-0.5b", NULL, 0, 16384 },
    { "resnet50", NULL, 184, 0 },    { "resnet101", NULL, 128, 0 },  { "densenet121", NULL, 128, 0 }, { "mobilenetv2", NULL, 272, 0 },
    { "googlenet", NULL, 320, 0 },   { "unet", NULL, 11, 0 },        { "vgg16", NULL, 176, 0 },
};

/* Freedoms that the public configuration switches. */
static const struct {
    const char *name;
    uint32_t passes_off, off;
} CONFIGURATIONS[] = {
    { "chain", RM_PASS_CHAIN | RM_PASS_OPTIONS, 0 }, { "options", RM_PASS_OPTIONS, 0 }, { "search", RM_PASS_SEARCH, 0 },
    { "offload", RM_PASS_OFFLOAD, 0 },               { "variants", 0, RM_NO_VARIANTS },
    { "reorder", 0, RM_NO_REORDER },                 { "inplace", 0, RM_NO_INPLACE },
};

/* Words inside RMI_WITHOUT(...) of the header. */
static const char *const MECHANISMS[] = { "anneal", "search_order", "search_cheapest", "search_swap",
                                           "search_again", "search_remove", "search_copy", "search_no_copy", "search_convert",
                                           "search_exchange", "search_shift", "search_mode", "search_home", "search_homes", "search_spare",
                                           "disk_rounds", "disk_parts", "disk_ahead", "disk_early" };

typedef struct one_case { /* an instance at a budget with a link */
    instance what;
    uint64_t link, budget, host; /* host: bytes before a disk; 0: not known yet */
    double time[SEEDS], cpu; /* per cent over keeping everything; seconds, the mean over seeds. NAN: no plan */
} one_case;

static one_case cases[CASES];
static size_t n_cases;
static int n_seeds = 3, show_rows;
static const char *preset;
static double disk_in, disk_out; /* bytes a second; 0: no disk */

static char *load(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    char *s = NULL;
    long size;
    *n = 0;
    if (!f) return NULL;
    if (!fseek(f, 0, SEEK_END) && (size = ftell(f)) > 0 && !fseek(f, 0, SEEK_SET) && (s = (char *)malloc((size_t)size)) != NULL)
        *n = fread(s, 1, (size_t)size, f);
    fclose(f);
    return s;
}

/* The graph of an instance; link: bytes a second each way, or 0: that of the device, which nobody uses without host memory. */
static rm_graph *graph_of(const instance *what, uint64_t link)
{
    rm_graph *g = NULL;
    if (what->path) {
        size_t n;
        char *text = load(what->path, &n);
        if (!text || rm_graph_read(text, n, NULL, &g) != RM_OK) fprintf(stderr, "%s: %s\n", what->path, g ? rm_graph_error(g) : "cannot be read");
        free(text);
    } else {
        models_desc d;
        models_device device = *models_device_find("h100");
        memset(&d, 0, sizeof d);
        if (link) device.link = (double)link;
        d.model = what->name;
        d.device = &device;
        d.images = what->images;
        d.tokens = what->tokens;
        d.slim = 1;
        g = models_build(&d);
    }
    return g;
}

/* Overhead of the plan in per cent of keeping everything; NAN if there is none. A fresh graph: nothing is known from earlier calls. */
static double overhead(one_case *c, const char *mechanism, double *cpu)
{
    rm_graph *g = graph_of(&c->what, c->link);
    rm_plan_desc d;
    rm_plan_info info;
    rm_config config;
    rm_plan *p = NULL;
    clock_t start = clock();
    double result = NAN;
    size_t i;
    memset(&d, 0, sizeof d);
    memset((void *)&info, 0, sizeof info);
    d.info = &info;
    d.device_bytes = c->budget;
    if (c->link) {
        if (c->what.path) rm_graph_link(g, c->link, c->link, 10000, (uint64_t)60e9);
        d.host_bytes = (uint64_t)64 << 30;
    }
    if (c->link && disk_in > 0) {
        rm_graph_disk(g, (uint64_t)disk_in, (uint64_t)disk_out, 100000, 0);
        if (!c->host && rm_plan_create(g, &d, &p) == RM_OK) {
            c->host = info.host_bytes / 2 + 1;
            rm_plan_destroy(p);
            p = NULL;
        }
        d.host_bytes = c->host;
        d.disk_bytes = (uint64_t)1 << 40;
        start = clock();
    }
    if (rm_config_preset(preset ? preset : c->link ? "offmate" : "hiremate", &config) != RM_OK) {
        fprintf(stderr, "no preset %s\n", preset);
        exit(2);
    }
    d.config = &config;
    worth_off = mechanism ? mechanism : "";
    for (i = 0; mechanism && i < sizeof CONFIGURATIONS / sizeof CONFIGURATIONS[0]; i++)
        if (!strcmp(mechanism, CONFIGURATIONS[i].name)) {
            config.passes &= ~CONFIGURATIONS[i].passes_off;
            config.off |= CONFIGURATIONS[i].off;
        }
    if (rm_plan_create(g, &d, &p) == RM_OK) result = 100 * ((double)info.time_ns / (double)info.keep_all_ns - 1);
    worth_off = "";
    *cpu += (double)(clock() - start) / CLOCKS_PER_SEC;
    rm_plan_destroy(p);
    rm_graph_destroy(g);
    return result;
}

/* The cases of an instance: its budgets lie between the least memory of a quick preset and keeping everything. */
static void add_cases(const instance *what, const char *links, const char *budgets)
{
    rm_graph *g = graph_of(what, 0);
    rm_plan_desc d;
    rm_plan_info info;
    rm_plan *p = NULL;
    uint64_t least;
    const char *link, *budget;
    if (!g) return;
    memset(&d, 0, sizeof d);
    memset((void *)&info, 0, sizeof info);
    d.preset = "rockmate";
    d.info = &info;
    if (rm_plan_create(g, &d, &p) != RM_OK) {
        fprintf(stderr, "%s: %s\n", what->name, rm_graph_error(g));
        exit(1);
    }
    rm_plan_destroy(p);
    rm_graph_destroy(g);
    least = info.min_bytes;
    for (link = links; *link; link += strcspn(link, ","), link += *link == ',')
        for (budget = budgets; *budget; budget += strcspn(budget, ","), budget += *budget == ',') {
            one_case *c = &cases[n_cases];
            if (n_cases == CASES) return;
            n_cases++;
            c->what = *what;
            c->link = strncmp(link, "none", 4) ? (uint64_t)(1e9 * atof(link)) : 0;
            c->budget = least + (uint64_t)((double)(info.keep_all_bytes - least) * atof(budget) / 100);
        }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Mean, its standard error, median, extremes of n values, which are sorted. */
static void statistics(double *v, size_t n)
{
    double sum = 0, squares = 0, mean;
    size_t i;
    if (!n) {
        printf("  no plans");
        return;
    }
    for (i = 0; i < n; i++) sum += v[i];
    mean = sum / (double)n;
    for (i = 0; i < n; i++) squares += (v[i] - mean) * (v[i] - mean);
    qsort(v, n, sizeof *v, by_value);
    printf(" %+8.3f %7.3f %+8.3f %+8.2f %+8.2f", mean, n > 1 ? sqrt(squares / (double)(n - 1) / (double)n) : 0, v[n / 2], v[0], v[n - 1]);
}

static void as_it_is(void)
{
    static double all[CASES * SEEDS], spread[CASES];
    size_t i, n = 0, m = 0;
    double cpu = 0;
    int s;
    if (show_rows) printf("%-16s %5s %9s  %s\n", "instance", "GB/s", "MiB", "overhead % by seed, processor seconds");
    for (i = 0; i < n_cases; i++) {
        one_case *c = &cases[i];
        double least = INFINITY, most = -INFINITY;
        for (s = 0; s < n_seeds; s++) {
            worth_seed = (uint64_t)s * 1000003 + 1;
            c->time[s] = overhead(c, NULL, &c->cpu);
            if (isnan(c->time[s])) continue;
            all[n++] = c->time[s];
            if (c->time[s] < least) least = c->time[s];
            if (c->time[s] > most) most = c->time[s];
        }
        if (most >= least) spread[m++] = most - least;
        cpu += c->cpu;
        if (!show_rows) continue;
        printf("%-16s %5.0f %9.1f ", c->what.name, (double)c->link / 1e9, (double)c->budget / 1048576);
        for (s = 0; s < n_seeds; s++) printf(" %7.3f", c->time[s]);
        printf("  %.2f s\n", c->cpu / n_seeds);
        fflush(stdout);
    }
    printf("%-16s %8s %7s %8s %8s %8s %8s\n", "", "mean", "+-", "median", "least", "most", "cpu s");
    printf("%-16s", "overhead %");
    statistics(all, n);
    printf(" %8.1f\n%-16s", cpu / n_seeds, "spread of seeds");
    statistics(spread, m);
    printf("\n");
    fflush(stdout);
}

static void without(const char *mechanism)
{
    static double loss[CASES * SEEDS];
    size_t i, n = 0, lost = 0, k;
    double cpu = 0, base = 0, sum;
    int s;
    for (i = 0; i < n_cases; i++) {
        one_case *c = &cases[i];
        base += c->cpu;
        for (sum = 0, k = 0, s = 0; s < n_seeds; s++) {
            double t;
            worth_seed = (uint64_t)s * 1000003 + 1;
            t = overhead(c, mechanism, &cpu);
            if (isnan(t) && !isnan(c->time[s])) lost++;
            if (isnan(t) || isnan(c->time[s])) continue;
            loss[n++] = t - c->time[s];
            sum += t - c->time[s];
            k++;
        }
        if (show_rows && k) printf("  %-14s %-16s %5.0f %9.1f %+8.3f\n", mechanism, c->what.name, (double)c->link / 1e9, (double)c->budget / 1048576, sum / (double)k);
    }
    printf("%-16s", mechanism);
    statistics(loss, n);
    printf(" %8.2f", cpu / base);
    if (lost) printf("  no plan without it: %u", (unsigned)lost);
    printf("\n");
    fflush(stdout);
}

/* Is it one of the words that an option's place may hold? */
static int is_mechanism(const char *word)
{
    size_t i;
    for (i = 0; i < sizeof CONFIGURATIONS / sizeof CONFIGURATIONS[0]; i++)
        if (!strcmp(word, CONFIGURATIONS[i].name)) return 1;
    for (i = 0; i < sizeof MECHANISMS / sizeof MECHANISMS[0]; i++)
        if (!strcmp(word, MECHANISMS[i])) return 1;
    return 0;
}

int main(int argc, char **argv)
{
    const char *links = "none,25", *budgets = "10,30,60", *wanted[64];
    instance given[64];
    size_t n_given = 0, n_wanted = 0, i;
    int k;
    for (k = 1; k < argc; k++) {
        size_t len = strlen(argv[k]);
        if (!strcmp(argv[k], "--seeds") && k + 1 < argc) n_seeds = atoi(argv[++k]);
        else if (!strcmp(argv[k], "--links") && k + 1 < argc) links = argv[++k];
        else if (!strcmp(argv[k], "--budgets") && k + 1 < argc) budgets = argv[++k];
        else if (!strcmp(argv[k], "--preset") && k + 1 < argc) preset = argv[++k];
        else if (!strcmp(argv[k], "--disk") && k + 1 < argc && sscanf(argv[k + 1], "%lf,%lf", &disk_in, &disk_out) == 2) disk_in *= 1e9, disk_out *= 1e9, k++;
        else if (!strcmp(argv[k], "--rows")) show_rows = 1;
        else if (len > 4 && !strcmp(argv[k] + len - 4, ".rmg") && n_given < 64) {
            const char *slash = strrchr(argv[k], '/');
            memset(&given[n_given], 0, sizeof given[n_given]);
            given[n_given].name = slash ? slash + 1 : argv[k];
            given[n_given++].path = argv[k];
        } else if (is_mechanism(argv[k]) && n_wanted < 64) wanted[n_wanted++] = argv[k];
        else if (!strcmp(argv[k], "nothing")) n_wanted = 64; /* the planner as it is, no more */
        else return fprintf(stderr, "worth: '%s' is no option, mechanism or graph; see the head of tests/bench/worth.c\n", argv[k]), 2;
    }
    if (n_seeds < 1 || n_seeds > SEEDS) return fprintf(stderr, "worth: --seeds takes 1 to %d\n", SEEDS), 2;
    for (i = 0; i < n_given; i++) add_cases(&given[i], links, budgets);
    for (i = 0; !n_given && i < sizeof INSTANCES / sizeof INSTANCES[0]; i++) add_cases(&INSTANCES[i], links, budgets);
    printf("%u cases, %d seeds\n", (unsigned)n_cases, n_seeds);
    as_it_is();
    if (n_wanted == 64) return 0;
    printf("%-16s %8s %7s %8s %8s %8s %8s\n", "points lost without", "mean", "+-", "median", "least", "most", "cpu");
    for (i = 0; i < n_wanted; i++) without(wanted[i]);
    for (i = 0; !n_wanted && i < sizeof CONFIGURATIONS / sizeof CONFIGURATIONS[0]; i++) without(CONFIGURATIONS[i].name);
    for (i = 0; !n_wanted && i < sizeof MECHANISMS / sizeof MECHANISMS[0]; i++) without(MECHANISMS[i]);
    return 0;
}
