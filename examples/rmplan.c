/* rmplan.c - plans the training step of a graph file (.rmg) into a memory budget, on the command line

   Build:  cc -O2 -o rmplan examples/rmplan.c -lm
   Run:    ./rmplan model.rmg --budget 40% --out model.rmp            (./rmplan --help lists the options)

   Figures go to stdout as key=value lines, messages to stderr. Exit status: 0 there is a plan, 2 wrong usage or an unreadable
   file (file:line:column says where), 3 the budget cannot be met, 1 anything else. */

#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#define ROCKMATE_IMPLEMENTATION
#include "../rockmate.h"
#include "models.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST (((uint64_t)1 << 62) - 1) /* the largest quantity */
#define EXIT_OK 0
#define EXIT_OTHER 1
#define EXIT_USAGE 2
#define EXIT_TOO_SMALL 3

static const char help[] =
    "usage: rmplan GRAPH.rmg [options]\n"
    "       rmplan --model NAME [--device NAME] [--tokens N] [options]\n"
    "       rmplan --place BUFFERS.csv [--capacity SIZE] [--align N] [--out FILE]\n"
    "\n"
    "Plans one training step of a graph: what to keep, what to recompute, and an address for every buffer.\n"
    "\n"
    "  --budget SIZE   device memory the plan may use; none given: no limit\n"
    "  --host SIZE     host memory the plan may use, then with preset offmate if no other is named; none given: none\n"
    "  --step KIND     single (default), first, middle, last (of an accumulation), forward\n"
    "  --like FILE     what persists lies where this plan (.rmp) of another step kind has it\n"
    "  --link h2d=N,d2h=N  bytes a second each way, instead of the graph's; latency=NS and add=N may follow\n"
    "  --margin PCT    count on that much less than the link's speed\n"
    "  --preset NAME   what the planner does: one of the presets below\n"
    "  --config FILE   the same from a file of key=value lines (docs/formats.md)\n"
    "  --compare       plan with every preset and print one table of them; those that copy if there is --host\n"
    "  --seconds S     stop looking for better plans after S seconds (0.5 is a number, too)\n"
    "  --align N       alignment of every buffer, a power of two (default 256)\n"
    "  --live          the budget is for the sum of live bytes; no addresses\n"
    "  --out FILE      write the plan (.rmp) there\n"
    "  --explain T     tell of tensor T why it is kept, recomputed or moved, and what memory is worth\n"
    "  --trace FILE    write the simulated step there, for ui.perfetto.dev\n"
    "  --svg FILE      write a picture of the arena over time there\n"
    "  --curve         plan from the least memory up to --budget, or to where more gains nothing, and print one table of the plans\n"
    "  --points N      so many of them, at most (default 16)\n"
    "\n"
    "  --model NAME    plan a well-known model instead of a file, with analytic costs; '--model list' shows them all\n"
    "  --device NAME   on this device: h200 (default), h100, rtx4090, rtx4060ti; without --budget its memory less 1G is the budget\n"
    "  --tokens N      of a step, for language models (default 8192); --sequence N: of these, in one sequence\n"
    "                  A model that does not fit its budget alone is planned with 128G of host memory; --host 0 forbids that\n"
    "  --images N      of a step, for convolutional networks (default 32)\n"
    "  --optimizer O   adamw (default: 12 bytes of state a weight) or slim (two bf16 moments: 4 bytes)\n"
    "  --export FILE   write the graph (.rmg) there, and plan it only if --budget is given as well\n"
    "\n"
    "  --place FILE    place the buffers of a table with the columns id,lower,upper,size; each lives during [lower, upper)\n"
    "  --capacity SIZE the height that is wanted; none given: as low as it gets\n"
    "  --align N       alignment of every offset (default 1)\n"
    "  --out FILE      write the table there, with one column more: offset\n"
    "\n"
    "  --help, --version\n"
    "\n"
    "SIZE is bytes, or a number with K, M, G or T (powers of 1024): 512M, 1.5G. Of a graph also a percentage of the memory\n"
    "that keeping everything takes: 40%.\n"
    "\n"
    "Prints key=value lines: status (ok or infeasible; timeout if --seconds ran out before any plan fitted), times in _ns, sizes\n"
    "in _bytes, gap_pct (the plan's time over the lower bound of any plan's), first_ms (to the first plan that fits), solve_ms.\n"
    "Exit status: 0 a plan, 2 wrong usage or an unreadable file, 3 the budget (capacity) cannot be met, 1 anything else.\n"
    "\n"
    "Presets:\n";

/* --- options */
typedef struct quantity { /* bytes, or millionths of something else */
    uint64_t bytes, share;
    int is_share;
} quantity;

typedef struct options {
    const char *graph, *place, *out, *preset, *config, *like, *explain, *trace, *svg;
    uint64_t link[4], margin; /* h2d, d2h, latency, add */
    uint32_t step;
    int has_link;
    quantity budget, host, capacity;
    uint64_t align, milliseconds, points;
    int has_budget, has_host, has_capacity, has_align, has_seconds, live, curve, compare;
    const char *export_to;
    models_desc model;
    int has_model_option; /* one that goes with --model only */
} options;

static int usage(const char *problem, const char *what)
{
    fprintf(stderr, "rmplan: %s%s%s\nTry 'rmplan --help'.\n", problem, what ? ": " : "", what ? what : "");
    return EXIT_USAGE;
}

/* digits[.digits] as millionths; 0 if s is no such number or too large. *end: what follows it. */
static int parse_millionths(const char *s, uint64_t *whole, uint64_t *millionths, const char **end)
{
    const char *start = s;
    uint64_t unit = 100000;
    *whole = *millionths = 0;
    for (; *s >= '0' && *s <= '9'; s++) {
        uint64_t digit = (uint64_t)(*s - '0');
        if (*whole > (MOST - digit) / 10) return 0;
        *whole = *whole * 10 + digit;
    }
    if (s == start) return 0;
    if (*s == '.') {
        if (s[1] < '0' || s[1] > '9') return 0;
        for (s++; *s >= '0' && *s <= '9'; s++, unit /= 10) *millionths += unit * (uint64_t)(*s - '0');
    }
    *end = s;
    return 1;
}

/* a * b / c, rounded down, for b <= c or small results; 0 in *ok if it does not fit. */
static uint64_t scale(uint64_t a, uint64_t b, uint64_t c, int *ok)
{
    uint64_t high = a / c, low = a % c; /* c is a million here and b below 2^40: low * b fits */
    if (b >> 40 || (high && b > MOST / high)) *ok = 0;
    return *ok ? high * b + low * b / c : 0;
}

static int parse_quantity(const char *s, quantity *q)
{
    static const char units[] = "KMGT";
    uint64_t whole, millionths;
    const char *end, *unit;
    int shift = 0, ok = 1;
    memset(q, 0, sizeof *q);
    if (!parse_millionths(s, &whole, &millionths, &end)) return 0;
    if (!strcmp(end, "%")) {
        q->is_share = 1;
        if (whole > 1000000) return 0;
        q->share = (whole * 1000000 + millionths) / 100;
        return 1;
    }
    unit = *end ? strchr(units, *end) : NULL;
    if (unit) shift = 10 * (int)(unit - units + 1), end++;
    if (*end || (millionths && !shift) || whole > (MOST >> shift)) return 0;
    q->bytes = (whole << shift) + scale((uint64_t)1 << shift, millionths, 1000000, &ok);
    return ok && q->bytes <= MOST;
}

/* The value of option `name` if argv[*i] is it, as `--name value` or `--name=value`. 0: it is another; -1: it has no value. */
static int value_of(const char *name, int argc, char **argv, int *i, const char **value)
{
    size_t n = strlen(name);
    if (strncmp(argv[*i], name, n)) return 0;
    if (argv[*i][n] == '=') {
        *value = argv[*i] + n + 1;
        return 1;
    }
    if (argv[*i][n]) return 0;
    if (*i + 1 >= argc) {
        usage("this option needs a value", name);
        return -1;
    }
    *value = argv[++*i];
    return 1;
}

static int parse_number(const char *s, uint64_t *out)
{
    uint64_t fraction;
    const char *end;
    return parse_millionths(s, out, &fraction, &end) && !*end && !strchr(s, '.');
}

/* Options with a value. */
typedef enum option_id { OPT_BUDGET, OPT_HOST, OPT_CAPACITY, OPT_ALIGN, OPT_SECONDS, OPT_PRESET, OPT_OUT, OPT_CONFIG, OPT_PLACE, OPT_MODEL, OPT_DEVICE, OPT_TOKENS, OPT_SEQUENCE, OPT_IMAGES, OPT_OPTIMIZER, OPT_EXPORT, OPT_STEP, OPT_LIKE, OPT_LINK, OPT_MARGIN, OPT_EXPLAIN, OPT_TRACE, OPT_SVG, OPT_POINTS, OPT_COUNT } option_id;
static const char *const option_names[] = {"--budget", "--host", "--capacity", "--align", "--seconds", "--preset", "--out", "--config", "--place", "--model", "--device", "--tokens", "--sequence", "--images", "--optimizer", "--export", "--step", "--like", "--link", "--margin", "--explain", "--trace", "--svg", "--points"};

static int parse_seconds(options *o, const char *value)
{
    uint64_t whole, millionths;
    const char *end;
    o->has_seconds = parse_millionths(value, &whole, &millionths, &end) && !*end && whole < 1000000000;
    o->milliseconds = o->has_seconds ? whole * 1000 + millionths / 1000 : 0;
    return o->has_seconds ? -1 : usage("--seconds takes a number such as 10 or 0.5", value);
}

static int parse_count(const char *value, uint64_t *out, const char *problem)
{
    return parse_number(value, out) && *out && *out <= (uint64_t)1 << 32 ? -1 : usage(problem, value);
}

/* The options that describe a model. */
static int parse_model(options *o, option_id id, const char *value)
{
    o->has_model_option |= id != OPT_MODEL;
    switch (id) {
    case OPT_MODEL: o->model.model = value; return -1;
    case OPT_DEVICE: return (o->model.device = models_device_find(value)) != NULL ? -1 : usage("--device takes h200, h100, rtx4090 or rtx4060ti", value);
    case OPT_TOKENS: return parse_count(value, &o->model.tokens, "--tokens takes a number from 1 to 2^32");
    case OPT_SEQUENCE: return parse_count(value, &o->model.sequence, "--sequence takes a number from 1 to 2^32");
    case OPT_IMAGES: return parse_count(value, &o->model.images, "--images takes a number from 1 to 2^32");
    default: o->model.slim = !strcmp(value, "slim"); return o->model.slim || !strcmp(value, "adamw") ? -1 : usage("--optimizer takes adamw or slim", value);
    }
}

static int parse_step(options *o, const char *value)
{
    static const char *const kinds[] = {"single", "first", "middle", "last", "forward"};
    uint32_t k;
    for (k = 0; k < 5; k++)
        if (!strcmp(kinds[k], value)) o->step = 1u << k;
    return o->step ? -1 : usage("--step takes single, first, middle, last or forward", value);
}

/* key=number, with commas. */
static int parse_link(options *o, const char *value)
{
    static const char *const keys[] = {"h2d=", "d2h=", "latency=", "add="};
    const char *s = value;
    uint64_t millionths;
    size_t k;
    while (*s) {
        for (k = 0; k < 4 && strncmp(s, keys[k], strlen(keys[k]));) k++;
        if (k == 4 || !parse_millionths(s + strlen(keys[k]), &o->link[k], &millionths, &s) || (*s && *s != ',')) break;
        s += *s == ',';
    }
    o->has_link = 1;
    return !*s && o->link[0] && o->link[1] ? -1 : usage("--link takes h2d=BYTES,d2h=BYTES a second, both above 0", value);
}

/* The exit status in case of a problem, -1 for a good one. */
static int parse_value(options *o, option_id id, const char *value)
{
    switch (id) {
    case OPT_BUDGET: return (o->has_budget = parse_quantity(value, &o->budget)) != 0 ? -1 : usage("--budget takes a size such as 8589934592, 8G or 40%", value);
    case OPT_HOST: return (o->has_host = parse_quantity(value, &o->host)) != 0 ? -1 : usage("--host takes a size such as 8589934592, 8G or 40%", value);
    case OPT_CAPACITY: return (o->has_capacity = parse_quantity(value, &o->capacity)) != 0 && !o->capacity.is_share ? -1 : usage("--capacity takes a size such as 1048576 or 1M", value);
    case OPT_ALIGN: return (o->has_align = parse_number(value, &o->align)) != 0 && o->align && o->align <= (uint32_t)1 << 31 ? -1 : usage("--align takes a number of bytes from 1 on", value);
    case OPT_SECONDS: return parse_seconds(o, value);
    case OPT_PRESET: o->preset = value; return -1;
    case OPT_OUT: o->out = value; return -1;
    case OPT_CONFIG: o->config = value; return -1;
    case OPT_PLACE: o->place = value; return -1;
    case OPT_EXPORT: o->export_to = value; return -1;
    case OPT_STEP: return parse_step(o, value);
    case OPT_LIKE: o->like = value; return -1;
    case OPT_LINK: return parse_link(o, value);
    case OPT_MARGIN: return parse_number(value, &o->margin) && o->margin <= 90 ? -1 : usage("--margin takes a percentage from 0 to 90", value);
    case OPT_EXPLAIN: o->explain = value; return -1;
    case OPT_TRACE: o->trace = value; return -1;
    case OPT_SVG: o->svg = value; return -1;
    case OPT_POINTS: return parse_number(value, &o->points) && o->points >= 2 && o->points <= 10000 ? -1 : usage("--points takes a number from 2 to 10000", value);
    default: return parse_model(o, id, value);
    }
}

/* One argument, and its value if it has one; the exit status in case of a problem, -1 for a good one. */
static int parse_one(options *o, int argc, char **argv, int *i)
{
    const char *arg = argv[*i], *value = NULL;
    int k, has = 0;
    if (!strcmp(arg, "--live") || !strcmp(arg, "--curve") || !strcmp(arg, "--compare")) {
        *(arg[2] == 'l' ? &o->live : arg[3] == 'u' ? &o->curve : &o->compare) = 1;
        return -1;
    }
    for (k = 0; k < OPT_COUNT && !has; k++) has = value_of(option_names[k], argc, argv, i, &value);
    if (has < 0) return EXIT_USAGE;
    if (has) return parse_value(o, (option_id)(k - 1), value);
    if (arg[0] == '-') return usage("unknown option", arg);
    if (o->graph) return usage("one graph at a time; this is the second", arg);
    o->graph = arg;
    return -1;
}

static int parse_options(options *o, int argc, char **argv)
{
    int i, status;
    memset(o, 0, sizeof *o);
    for (i = 1; i < argc; i++) {
        status = parse_one(o, argc, argv, &i);
        if (status >= 0) return status;
    }
    if (o->place) {
        if (o->graph) return usage("--place takes no graph", o->graph);
        if (o->has_budget || o->has_host || o->preset || o->has_seconds || o->live || o->curve || o->points || o->config || o->compare || o->export_to || o->explain || o->trace || o->svg || o->model.model) return usage("--place goes with --capacity, --align and --out only", NULL);
        return -1;
    }
    if (o->graph && o->model.model) return usage("a graph or --model, not both", o->graph);
    if (o->model.model) o->graph = o->model.model;
    else if (o->has_model_option) return usage("--device, --tokens, --sequence, --images and --optimizer go with --model", NULL);
    if (o->model.sequence && (o->model.tokens ? o->model.tokens : 8192) % o->model.sequence) return usage("--tokens is no multiple of --sequence: a step has whole sequences", NULL);
    if (!o->graph) return usage("no graph given", NULL);
    if (o->has_capacity) return usage("--capacity goes with --place; of a graph it is --budget", NULL);
    if (o->preset && o->config) return usage("--preset and --config both say what the planner does: take one, or preset=NAME in the file", NULL);
    if (o->points && !o->curve) return usage("--points goes with --curve", NULL);
    if (o->curve && (o->out || o->explain || o->trace || o->svg)) return usage("--curve makes many plans: no --out, --explain, --trace or --svg", NULL);
    if (o->compare && (o->preset || o->config || o->out || o->curve || o->explain || o->trace || o->svg)) return usage("--compare plans with every preset: no --preset, --config, --curve, --out, --explain, --trace or --svg", NULL);
    if (o->live && (o->out || o->trace || o->svg)) return usage("--live plans without addresses, and --out, --trace and --svg write them: take one", NULL);
    return -1;
}

/* --- files and time */
static uint64_t now_us(void)
{
#if defined(_WIN32)
    return (uint64_t)clock() * 1000000 / CLOCKS_PER_SEC; /* counts real time there */
#else
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
#endif
}

/* The whole of a file, with a zero byte behind it; NULL and a message if it cannot be read. */
static char *read_file(const char *path, size_t *length)
{
    size_t n = 0, room = 1 << 16, got;
    char *text = (char *)malloc(room + 1), *more;
    FILE *f;
    errno = 0;
    f = fopen(path, "rb");
    if (!f) fprintf(stderr, "rmplan: %s: %s\n", path, errno ? strerror(errno) : "cannot be opened");
    while (f && text) {
        got = fread(text + n, 1, room - n, f);
        n += got;
        if (!got) break;
        if (n < room) continue;
        more = (char *)realloc(text, 2 * room + 1);
        if (!more) free(text);
        text = more;
        room *= 2;
    }
    if (f && !text) fprintf(stderr, "rmplan: %s: no memory to read it\n", path);
    if (f && text && ferror(f)) {
        fprintf(stderr, "rmplan: %s: %s\n", path, errno ? strerror(errno) : "cannot be read");
        free(text);
        text = NULL;
    }
    if (!f) {
        free(text);
        return NULL;
    }
    fclose(f);
    if (text) text[n] = 0;
    *length = n;
    return text;
}

static int file_sink(void *user, const char *text, size_t n) { return fwrite(text, 1, n, (FILE *)user) != n; }

static int cannot_write(const char *path)
{
    fprintf(stderr, "rmplan: %s: %s; it is not written, or not whole\n", path, errno ? strerror(errno) : "cannot be written");
    return EXIT_USAGE;
}

/* --- planning */
typedef struct watch {
    uint64_t start_us, first_us, limit_us;
    int has_first, has_limit;
} watch;

static int on_progress(void *user, const rm_progress *p)
{
    watch *w = (watch *)user;
    uint64_t t = now_us() - w->start_us;
    if (p->time_ns && !w->has_first) {
        w->has_first = 1;
        w->first_us = t;
    }
    return w->has_limit && t >= w->limit_us;
}

static void print_ms(const char *before, const char *key, uint64_t us) { printf("%s%s=%" PRIu64 ".%03" PRIu64 "\n", before, key, us / 1000, us % 1000); }

/* (time - bound) / bound in percent, rounded up at the fourth decimal: a gap that is not zero is never shown as zero. Of a graph in
   which nothing is wanted, whose bound is 0, there is nothing to be slower than. */
static void print_gap(uint64_t time, uint64_t bound)
{
    uint64_t rest, whole;
    int i;
    if (!bound || time < bound) {
        printf("gap_pct=0.0000\n");
        return;
    }
    whole = (time - bound) / bound;
    rest = (time - bound) % bound;
    for (; bound >> 60; bound >>= 1) rest >>= 1;
    for (i = 0; i < 6; i++) {
        if (whole > UINT64_MAX / 20) break;
        whole = whole * 10 + rest * 10 / bound;
        rest = rest * 10 % bound;
    }
    whole += rest != 0;
    printf("gap_pct=%" PRIu64 ".%04" PRIu64 "\n", whole / 10000, whole % 10000);
}

static void print_info(const char *status, const rm_plan_info *f, const watch *w, uint64_t solve_us)
{
    static const char *const lanes[] = {"compute", "h2d", "d2h", "host", "comm"};
    int ok = !strcmp(status, "ok"), lane;
    printf("status=%s\n", status);
    printf("budget_bytes=%" PRIu64 "\n", f->budget_bytes);
    if (ok) printf("time_ns=%" PRIu64 "\n", f->time_ns);
    printf("keep_all_ns=%" PRIu64 "\n", f->keep_all_ns);
    if (ok) printf("recomputed_ns=%" PRIu64 "\n", f->recomputed_ns);
    printf("bound_ns=%" PRIu64 "\n", f->bound_ns);
    if (ok) {
        print_gap(f->time_ns, f->bound_ns);
        printf("arena_bytes=%" PRIu64 "\nlive_bytes=%" PRIu64 "\nhost_bytes=%" PRIu64 "\n", f->arena_bytes, f->live_bytes, f->host_bytes);
        printf("h2d_bytes=%" PRIu64 "\nd2h_bytes=%" PRIu64 "\n", f->h2d_bytes, f->d2h_bytes);
        for (lane = 0; lane < 5; lane++) printf("busy_%s_ns=%" PRIu64 "\n", lanes[lane], f->busy_ns[lane]);
    }
    printf("keep_all_bytes=%" PRIu64 "\n", f->keep_all_bytes);
    if (!ok) printf("min_bytes=%" PRIu64 "\n", f->min_bytes);
    printf("min_bound_bytes=%" PRIu64 "\n", f->min_bound_bytes);
    if (w->has_first) print_ms("", "first_ms", w->first_us);
    print_ms("", "solve_ms", solve_us);
}

/* What a wrong graph, a wrong option or a lack of memory means for the exit status, with the message. */
static int refuse(const char *path, const rm_graph *g, rm_result r)
{
    const char *message = rm_graph_error(g);
    fprintf(stderr, r == RM_ERROR_TEXT ? "%s:%s\n" : "rmplan: %s: %s\n", path, message);
    return r == RM_ERROR_MEMORY || r == RM_ERROR_INTERNAL || r == RM_ERROR_PLAN ? EXIT_OTHER : EXIT_USAGE;
}

/* Percentages are of what keeping everything takes, in the same measure (arena or live bytes). */
static int resolve(rm_graph *g, const options *o, rm_plan_desc *d)
{
    rm_plan_desc all = *d;
    rm_plan_info info;
    rm_plan *plan = NULL;
    rm_result r;
    int ok = 1;
    d->device_bytes = o->budget.bytes;
    d->host_bytes = o->host.bytes;
    if (o->budget.is_share || o->host.is_share) {
        memset(&info, 0, sizeof info);
        all.preset = "noremat";
        all.config = NULL;
        all.info = &info;
        all.progress = NULL;
        r = rm_plan_create(g, &all, &plan);
        rm_plan_destroy(plan);
        if (r != RM_OK) return refuse(o->graph, g, r);
        if (o->budget.is_share) d->device_bytes = scale(info.keep_all_bytes, o->budget.share, 1000000, &ok);
        if (o->host.is_share) d->host_bytes = scale(info.keep_all_bytes, o->host.share, 1000000, &ok);
    }
    if (!ok) return usage("a percentage that gives 2^62 bytes or more", NULL);
    if (o->has_budget && !d->device_bytes) return usage("a --budget of no bytes; leave it out to plan without a limit", NULL);
    return -1;
}

/* The plan into a file, in one of its forms. */
static int write_plan(const options *o, const char *path, rm_result (*form)(const rm_plan *, uint32_t, rm_write_fn, void *), const rm_graph *g, const rm_plan *plan)
{
    FILE *f;
    rm_result r;
    errno = 0;
    f = fopen(path, "wb");
    if (!f) return cannot_write(path);
    r = form(plan, 0, file_sink, f);
    if (fclose(f) || r == RM_ERROR_WRITE) return cannot_write(path); /* what is there stays: it may be a device */
    return r == RM_OK ? EXIT_OK : refuse(o->graph, g, r);
}

/* What was asked for besides the figures. */
static int tell_more(const options *o, rm_graph *g, const rm_plan *plan)
{
    int status = EXIT_OK;
    if (o->explain) {
        rm_tensor t = rm_graph_find(g, o->explain);
        rm_result r;
        if (!t.id) return usage("--explain: the graph has no such tensor", o->explain);
        printf("\n");
        r = rm_plan_explain(plan, t, file_sink, stdout);
        if (r != RM_OK) return refuse(o->graph, g, r);
    }
    if (o->trace) status = write_plan(o, o->trace, rm_plan_trace, g, plan);
    if (o->svg && status == EXIT_OK) status = write_plan(o, o->svg, rm_plan_svg, g, plan);
    return o->out && status == EXIT_OK ? write_plan(o, o->out, rm_plan_write, g, plan) : status;
}

/* One table of all presets. */
static int compare(const options *o, rm_graph *g, rm_plan_desc d)
{
    size_t i;
    const char *name;
    int left_out = 0;
    printf("# budget_bytes=%" PRIu64 "\n%-12s %16s %12s %14s %14s %10s %11s\n", d.device_bytes, "preset", "time_ns", "overhead_pct", "arena_bytes", "bound_ns", "gap_pct", "solve_ms");
    for (i = 0; (name = rm_preset_name(i, NULL)) != NULL; i++) {
        rm_plan *plan = NULL;
        rm_plan_info f;
        watch w;
        rm_result r;
        uint64_t us;
        rm_config c;
        if (rm_config_preset(name, &c) == RM_OK && !d.host_bytes && c.passes & (RM_PASS_STREAM | RM_PASS_LINK | RM_PASS_BLOCKS | RM_PASS_OFFLOAD)) {
            left_out = 1;
            continue;
        }
        memset(&f, 0, sizeof f);
        memset(&w, 0, sizeof w);
        w.has_limit = o->has_seconds;
        w.limit_us = o->milliseconds * 1000;
        w.start_us = now_us();
        d.preset = name;
        d.info = &f;
        d.progress_user = &w;
        r = rm_plan_create(g, &d, &plan);
        us = now_us() - w.start_us;
        rm_plan_destroy(plan);
        if (r != RM_OK && r != RM_ERROR_INFEASIBLE && r != RM_ERROR_CANCELLED) return refuse(o->graph, g, r);
        printf("%-12s ", name);
        if (r == RM_OK)
            printf("%16" PRIu64 " %12.2f %14" PRIu64 " %14" PRIu64 " %10.4f", f.time_ns, f.keep_all_ns ? 100.0 * ((double)f.time_ns / (double)f.keep_all_ns - 1) : 0.0, f.arena_bytes, f.bound_ns,
                   f.bound_ns ? 100.0 * ((double)f.time_ns / (double)f.bound_ns - 1) : 0.0);
        else printf("%16s %12s %14" PRIu64 " %14" PRIu64 " %10s", r == RM_ERROR_INFEASIBLE ? "infeasible" : "timeout", "-", f.min_bytes, f.bound_ns, "-");
        printf(" %7" PRIu64 ".%03" PRIu64 "\n", us / 1000, us % 1000);
    }
    if (left_out) printf("# without host memory (--host) the presets that copy are left out\n");
    return EXIT_OK;
}

/* 100 * a / b, and by how many percent a is more than b; 0 if there is no b. */
static double percent(uint64_t a, uint64_t b) { return b ? 100.0 * (double)a / (double)b : 0.0; }
static double percent_over(uint64_t a, uint64_t b) { return b ? percent(a, b) - 100.0 : 0.0; }

/* The table of --curve. f: what the call of rm_plan_curve filled. */
static int print_curve(const rm_plan_info *f, const rm_point *points, size_t n, uint64_t solve_us)
{
    size_t i;
    printf("# keep_all_bytes=%" PRIu64 "\n# keep_all_ns=%" PRIu64 "\n", f->keep_all_bytes, f->keep_all_ns);
    print_ms("# ", "solve_ms", solve_us);
    printf("%16s %12s %14s %16s %12s %16s %10s\n", "arena_bytes", "keep_all_pct", "host_bytes", "time_ns", "overhead_pct", "bound_ns", "gap_pct");
    for (i = 0; i < n; i++)
        printf("%16" PRIu64 " %12.2f %14" PRIu64 " %16" PRIu64 " %12.2f %16" PRIu64 " %10.4f\n", points[i].arena_bytes, percent(points[i].arena_bytes, f->keep_all_bytes), points[i].host_bytes, points[i].time_ns,
               percent_over(points[i].time_ns, f->keep_all_ns), points[i].bound_ns, percent_over(points[i].time_ns, points[i].bound_ns));
    return EXIT_OK;
}

static int read_config(const char *path, rm_config *c)
{
    size_t n;
    char message[512], *text = read_file(path, &n);
    rm_result r;
    if (!text) return EXIT_USAGE;
    r = rm_config_read(text, n, c, message, sizeof message);
    free(text);
    if (r == RM_OK) return -1;
    fprintf(stderr, r == RM_ERROR_TEXT ? "%s:%s\n" : "rmplan: %s: %s\n", path, message);
    return r == RM_ERROR_TEXT ? EXIT_USAGE : EXIT_OTHER;
}

/* The plan that --like names. */
static int read_like(const options *o, rm_graph *g, rm_plan **out)
{
    size_t n;
    char *text = read_file(o->like, &n);
    rm_result r;
    if (!text) return EXIT_USAGE;
    r = rm_plan_read(g, text, n, out);
    free(text);
    return r == RM_OK ? -1 : refuse(o->like, g, r);
}

static int plan_graph(const options *o, rm_graph *g)
{
    static rm_plan_desc zeros; /* the fields that are not named below */
    rm_plan_desc d = zeros;
    rm_plan_info info;
    rm_plan *plan = NULL, *like = NULL;
    rm_point *points = NULL;
    watch w;
    rm_result r;
    uint64_t solve_us;
    size_t n = o->points ? (size_t)o->points : 16;
    rm_config config;
    int status = o->config ? read_config(o->config, &config) : -1;
    if (status >= 0) return status;
    memset(&info, 0, sizeof info);
    memset(&w, 0, sizeof w);
    d.align = (uint32_t)o->align;
    d.preset = o->preset;
    d.config = o->config ? &config : NULL;
    d.live_only = (uint32_t)o->live;
    d.steps = o->step;
    d.link_margin_percent = (uint32_t)o->margin;
    d.info = &info;
    d.progress = on_progress;
    d.progress_user = &w;
    if (o->has_link && !o->model.model) rm_graph_link(g, o->link[0], o->link[1], o->link[2], o->link[3]);
    status = o->like ? read_like(o, g, &like) : -1;
    if (status >= 0) return status;
    d.like = like;
    status = resolve(g, o, &d);
    if (status >= 0) return status;
    if (o->compare) return compare(o, g, d);
    w.has_limit = o->has_seconds;
    w.limit_us = o->milliseconds * 1000;
    d.limit_ns = o->milliseconds * 1000000;
    w.start_us = now_us();
    if (o->curve && (points = (rm_point *)malloc(n * sizeof *points)) == NULL) return EXIT_OTHER;
    r = o->curve ? rm_plan_curve(g, &d, points, &n) : rm_plan_create(g, &d, &plan);
    if (r == RM_ERROR_INFEASIBLE && o->model.model && !o->has_host && !o->preset && !o->config && !o->live) {
        fprintf(stderr, "rmplan: %s: needs %" PRIu64 " bytes on the device alone; planning with 128 GiB of host memory, too (--host says how much, 0 for none)\n", o->graph, info.min_bytes);
        d.host_bytes = (uint64_t)128 << 30;
        n = o->points ? (size_t)o->points : 16;
        r = o->curve ? rm_plan_curve(g, &d, points, &n) : rm_plan_create(g, &d, &plan);
    }
    if (r == RM_OK && !o->curve && o->model.model && !o->has_host && !d.host_bytes && !o->preset && !o->config && !o->live && info.time_ns / 5 > info.keep_all_ns / 4)
        fprintf(stderr, "rmplan: %s: %" PRIu64 " %% slower than with everything kept; host memory may be faster: --host 128G (0: none, and no such hint)\n", o->graph, (info.time_ns - info.keep_all_ns) / (info.keep_all_ns / 100 + 1));
    solve_us = now_us() - w.start_us;
    rm_plan_destroy(like);
    if (r == RM_OK && o->curve) status = print_curve(&info, points, n, solve_us);
    free(points);
    if (r != RM_OK && r != RM_ERROR_INFEASIBLE && r != RM_ERROR_CANCELLED) return refuse(o->graph, g, r);
    if (status == EXIT_OK) return status;
    info.budget_bytes = d.device_bytes;
    print_info(r == RM_OK ? "ok" : r == RM_ERROR_INFEASIBLE ? "infeasible" : "timeout", &info, &w, solve_us);
    if (r != RM_OK) {
        fprintf(stderr, "rmplan: %s: %s\n", o->graph, rm_graph_error(g));
        return EXIT_TOO_SMALL;
    }
    status = tell_more(o, g, plan);
    rm_plan_destroy(plan);
    return status;
}

/* --- where the graph comes from */
static void list_models(void)
{
    size_t i;
    printf("language models:");
    for (i = 0; i < sizeof models_lms / sizeof models_lms[0]; i++) printf(" %s", models_lms[i].name);
    printf("\nconvolutional networks:");
    for (i = 0; i < sizeof models_nets / sizeof models_nets[0]; i++) printf(" %s", models_nets[i]);
    printf("\ndevices:\n");
    for (i = 0; i < sizeof models_devices / sizeof models_devices[0]; i++) {
        const models_device *d = &models_devices[i];
        printf("  %-10s %s: %.0f TFLOP/s, %.0f GB, %.2f TB/s, link %.1f GB/s\n", d->name, d->text, d->flops / 1e12, d->bytes / 1e9, d->bandwidth / 1e12, d->link / 1e9);
    }
}

static int export_graph(const options *o, rm_graph *g)
{
    FILE *f;
    rm_result r;
    errno = 0;
    f = fopen(o->export_to, "wb");
    if (!f) return cannot_write(o->export_to);
    r = rm_graph_write(g, file_sink, f);
    if (fclose(f) || r == RM_ERROR_WRITE) return cannot_write(o->export_to);
    return r == RM_OK ? EXIT_OK : refuse(o->graph, g, r);
}

static int plan_or_export(const options *o, rm_graph *g)
{
    int status = o->export_to ? export_graph(o, g) : EXIT_OK;
    return status != EXIT_OK || (o->export_to && !o->has_budget) ? status : plan_graph(o, g);
}

static int run_model(const options *o)
{
    options x = *o;
    rm_graph *g;
    int status;
    if (!strcmp(x.model.model, "list")) {
        list_models();
        return EXIT_OK;
    }
    if (!x.model.device) x.model.device = &models_devices[0];
    if (!x.has_budget && !x.export_to) {
        x.has_budget = 1;
        x.budget.bytes = (uint64_t)x.model.device->bytes - ((uint64_t)1 << 30);
    }
    if (x.has_link) x.model.link = x.link;
    g = models_build(&x.model);
    if (!g) return usage("no such model ('rmplan --model list' shows them)", x.model.model);
    status = rm_graph_result(g) != RM_OK ? refuse(x.graph, g, rm_graph_result(g)) : plan_or_export(&x, g);
    rm_graph_destroy(g);
    return status;
}

static int run_graph(const options *o)
{
    size_t n;
    char *text = read_file(o->graph, &n);
    rm_graph *g = NULL;
    rm_result r;
    int status;
    if (!text) return EXIT_USAGE;
    r = rm_graph_read(text, n, NULL, &g);
    free(text);
    status = r != RM_OK ? refuse(o->graph, g, r) : plan_or_export(o, g);
    rm_graph_destroy(g);
    return status;
}

/* --- placing a table of buffers */
typedef struct table {
    rm_place_item *items;
    const char **id; /* into the text, up to the comma */
    size_t n, room;
} table;

static int table_room(table *t)
{
    size_t room = t->room ? 2 * t->room : 256;
    rm_place_item *items;
    const char **id;
    if (t->n < t->room) return 1;
    items = (rm_place_item *)realloc(t->items, room * sizeof *items);
    if (items) t->items = items;
    id = (const char **)realloc((void *)t->id, room * sizeof *id);
    if (id) t->id = id;
    if (!items || !id) return 0;
    t->room = room;
    return 1;
}

static int table_wrong(const char *path, size_t line, const char *start, const char *at, const char *expected)
{
    size_t n = strcspn(at, ",\r\n");
    fprintf(stderr, "%s:%" PRIu64 ":%" PRIu64 ": found '%.*s', expected %s\n", path, (uint64_t)line, (uint64_t)(at - start + 1), (int)(n > 60 ? 60 : n), at, expected);
    return EXIT_USAGE;
}

/* id,lower,upper,size */
static int table_row(table *t, const char *path, size_t line, const char *start)
{
    const char *at = start + strcspn(start, ",\r\n"), *end;
    uint64_t value[3], fraction;
    size_t k;
    for (k = 0; k < 3; k++) {
        if (*at != ',') return table_wrong(path, line, start, at, "a comma: a row is id,lower,upper,size");
        at++;
        if (!parse_millionths(at, &value[k], &fraction, &end) || fraction || (*end && !strchr(",\r\n", *end))) return table_wrong(path, line, start, at, "an integer below 2^62");
        if (k == 1 && value[1] <= value[0]) return table_wrong(path, line, start, at, "an upper above the lower: the buffer lives during [lower, upper)");
        at = end;
    }
    if (*at == ',') return table_wrong(path, line, start, at + 1, "the end of the row after id,lower,upper,size");
    if (!table_room(t)) {
        fprintf(stderr, "rmplan: %s: no memory to read it\n", path);
        return EXIT_OTHER;
    }
    t->id[t->n] = start;
    t->items[t->n].start = value[0];
    t->items[t->n].end = value[1];
    t->items[t->n].size = value[2];
    t->n++;
    return -1;
}

static int table_read(table *t, const char *path, const char *text, size_t n)
{
    static const char header[] = "id,lower,upper,size";
    const char *at = text;
    size_t line = 1, len;
    int status;
    if (strlen(text) != n) return table_wrong(path, 1, text, text, "text without zero bytes");
    for (; *at; line++) {
        len = strcspn(at, "\r\n");
        if (line == 1 && (len != sizeof header - 1 || memcmp(at, header, len))) return table_wrong(path, 1, at, at, "the header id,lower,upper,size");
        status = line > 1 && len ? table_row(t, path, line, at) : -1;
        if (status >= 0) return status;
        at += len;
        at += *at == '\r' && at[1] == '\n' ? 2 : *at != 0;
    }
    return line == 1 ? table_wrong(path, 1, at, at, "the header id,lower,upper,size") : -1;
}

static int table_write(const table *t, const char *path)
{
    FILE *f;
    size_t i;
    int bad = 0;
    errno = 0;
    f = fopen(path, "wb");
    if (!f) return cannot_write(path);
    bad |= fprintf(f, "id,lower,upper,size,offset\n") < 0;
    for (i = 0; i < t->n; i++) {
        const rm_place_item *x = &t->items[i];
        size_t n = strcspn(t->id[i], ",");
        bad |= fwrite(t->id[i], 1, n, f) != n;
        bad |= fprintf(f, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n", x->start, x->end, x->size, x->offset) < 0;
    }
    bad |= fclose(f) != 0;
    return bad ? cannot_write(path) : EXIT_OK;
}

static int place_table(const options *o, table *t)
{
    uint64_t height, bound, start = now_us(), us;
    rm_result r = rm_place(NULL, t->items, t->n, o->align, o->capacity.bytes, &height, &bound);
    int fits = !o->has_capacity || height <= o->capacity.bytes;
    us = now_us() - start;
    if (r != RM_OK) {
        fprintf(stderr, "rmplan: %s: %s\n", o->place, r == RM_ERROR_ARGUMENT ? "the sizes add up to 2^62 or more" : rm_result_text(r));
        return r == RM_ERROR_ARGUMENT ? EXIT_USAGE : EXIT_OTHER;
    }
    printf("status=%s\nheight=%" PRIu64 "\nbound=%" PRIu64 "\n", fits ? "ok" : "infeasible", height, bound);
    print_ms("", "solve_ms", us);
    if (!fits) {
        fprintf(stderr, "rmplan: %s: a capacity of %" PRIu64 " is %s; the lowest placement found is %" PRIu64 " high\n", o->place, o->capacity.bytes,
                bound > o->capacity.bytes ? "below the largest sum of what is alive together" : "not reached", height);
        return EXIT_TOO_SMALL;
    }
    return o->out ? table_write(t, o->out) : EXIT_OK;
}

static int run_place(const options *o)
{
    size_t n;
    char *text = read_file(o->place, &n);
    table t;
    int status;
    if (!text) return EXIT_USAGE;
    memset(&t, 0, sizeof t);
    status = table_read(&t, o->place, text, n);
    if (status < 0) status = place_table(o, &t);
    free(t.items);
    free((void *)t.id);
    free(text);
    return status;
}

static int print_help(void)
{
    size_t i;
    const char *name, *text;
    int bad = fputs(help, stdout) < 0;
    for (i = 0; (name = rm_preset_name(i, &text)) != NULL; i++) bad |= printf("  %-15s %s%s\n", name, text, i ? "" : " (default)") < 0;
    return bad ? EXIT_OTHER : EXIT_OK;
}

int main(int argc, char **argv)
{
    options o;
    int i, status;
    for (i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) return print_help();
        if (!strcmp(argv[i], "--version")) return printf("rmplan %s\n", RM_VERSION) < 0 ? EXIT_OTHER : EXIT_OK;
    }
    status = parse_options(&o, argc, argv);
    if (status >= 0) return status;
    status = o.place ? run_place(&o) : o.model.model ? run_model(&o) : run_graph(&o);
    if (fflush(stdout) || ferror(stdout)) {
        fprintf(stderr, "rmplan: the figures could not be printed\n");
        if (status == EXIT_OK) status = EXIT_OTHER;
    }
    return status;
}
