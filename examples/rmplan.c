/* rmplan.c - plans the training step of a graph file (.rmg) into a memory budget, on the command line

   Build:  cc -O2 -o rmplan examples/rmplan.c -lm
   Run:    ./rmplan model.rmg --budget 40% --out model.rmp            (./rmplan --help, docs/rmplan.1)

   On a terminal the answer is for people. Into a pipe or a file it is key=value lines (--kv), or one JSON object
   (--json, docs/formats.md); --text is the answer for people there, too. Messages go to stderr. Exit status: 0 there is
   a plan, 2 wrong usage or an unreadable file (file:line:column says where), 3 the budget cannot be met, 1 anything
   else.

   In order: numbers and sizes; the options, all in one table; files; the three forms of figures; the live line; what
   lies in memory, read from the texts of a graph and its plan; planning; the answer for people; --curve and --compare;
   where the graph comes from; --place; --help. */

#define _POSIX_C_SOURCE 200809L /* clock_gettime, isatty */
#define ROCKMATE_IMPLEMENTATION
#include "../rockmate.h"
#include "models.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if defined(_WIN32)
#include <fcntl.h>
#include <io.h>
#define isatty _isatty
#define fileno _fileno
#else
#include <unistd.h>
#endif

#define MOST (((uint64_t)1 << 62) - 1) /* the largest quantity */
#define GIB ((uint64_t)1 << 30)
#define MODEL_HOST_BYTES (128 * GIB) /* host memory that a model is given which does not fit the device alone */
#define GO_ON (-1)                   /* in place of an exit status: no problem so far */
#define EXIT_OK 0
#define EXIT_OTHER 1
#define EXIT_USAGE 2
#define EXIT_TOO_SMALL 3

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

/* --- numbers and sizes */
typedef struct quantity { /* bytes, or millionths of what keeping everything takes */
    uint64_t bytes, share;
    int is_share;
} quantity;

/* digits[.digits] as whole and millionths; 0 if text is no such number or too large. *end: what follows it. */
static int parse_millionths(const char *text, uint64_t *whole, uint64_t *millionths, const char **end)
{
    const char *start = text;
    uint64_t unit = 100000;
    *whole = *millionths = 0;
    for (; *text >= '0' && *text <= '9'; text++) {
        uint64_t digit = (uint64_t)(*text - '0');
        if (*whole > (MOST - digit) / 10) return 0;
        *whole = *whole * 10 + digit;
    }
    if (text == start) return 0;
    if (*text == '.') {
        if (text[1] < '0' || text[1] > '9') return 0;
        for (text++; *text >= '0' && *text <= '9'; text++, unit /= 10) *millionths += unit * (uint64_t)(*text - '0');
    }
    *end = text;
    return 1;
}

/* a * b / c, rounded down, for b < 2^40 and c of a million at most; 0 in *ok if it does not fit. */
static uint64_t scale(uint64_t a, uint64_t b, uint64_t c, int *ok)
{
    uint64_t high = a / c, low = a % c;
    if (b >> 40 || (high && b > MOST / high)) *ok = 0;
    return *ok ? high * b + low * b / c : 0;
}

/* A number with a unit, K, M, G, T or P, of powers of `thousand` (1000 or 1024), up to a comma or the end. A fraction
   needs a unit. *end: what follows. */
static int parse_units(const char *text, uint64_t thousand, uint64_t *out, const char **end)
{
    static const char units[] = "KMGTP";
    uint64_t whole, millionths, unit = 1;
    const char *letter;
    int ok = 1;
    if (!parse_millionths(text, &whole, &millionths, end)) return 0;
    letter = **end ? strchr(units, **end) : NULL;
    if (letter) {
        for (; letter >= units; letter--) unit *= thousand;
        ++*end;
    }
    if ((**end && **end != ',') || (millionths && unit == 1) || whole > MOST / unit) return 0;
    *out = whole * unit + scale(unit, millionths, 1000000, &ok);
    return ok && *out <= MOST;
}

/* A size: bytes, with units of powers of 1024, or a percentage. */
static int parse_size(const char *text, quantity *out)
{
    uint64_t whole, millionths;
    const char *end;
    memset(out, 0, sizeof *out);
    if (parse_millionths(text, &whole, &millionths, &end) && !strcmp(end, "%")) {
        out->is_share = 1;
        out->share = whole <= 1000000 ? (whole * 1000000 + millionths) / 100 : 0;
        return whole <= 1000000;
    }
    return parse_units(text, 1024, &out->bytes, &end) && !*end;
}

/* A whole number and nothing else. */
static int parse_number(const char *text, uint64_t *out)
{
    uint64_t fraction;
    const char *end;
    return parse_millionths(text, out, &fraction, &end) && !*end && !strchr(text, '.');
}

/* How much more is `value` than `base`, in parts per million of it: upwards, so that a difference is never shown as
   none; 0 if there is no base; far off at most. */
static int64_t ppm_over(uint64_t value, uint64_t base)
{
    uint64_t difference = value > base ? value - base : base - value, whole, rest;
    int i;
    if (!base) return 0;
    whole = difference / base;
    rest = difference % base;
    for (; base >> 60; base >>= 1) rest >>= 1;
    for (i = 0; i < 6 && whole < (uint64_t)1 << 58; i++) {
        whole = whole * 10 + rest * 10 / base;
        rest = rest * 10 % base;
    }
    whole += rest != 0;
    return value >= base ? (int64_t)whole : -(int64_t)whole;
}

/* A size, a time for people: 20.7 GiB, 4.13 s. Each call of one statement needs its own room. */
typedef struct short_text {
    char text[32];
} short_text;

static const char *human_bytes(short_text *room, uint64_t bytes)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double size = (double)bytes;
    int i;
    for (i = 0; size >= 1023.95 && i < 6; i++) size /= 1024;
    if (i) size = (double)(uint64_t)(size * 10 + 0.5) / 10; /* halves up, as the summary has it */
    snprintf(room->text, sizeof room->text, i ? "%.1f %s" : "%.0f %s", size, units[i]);
    return room->text;
}

static const char *human_ns(short_text *room, uint64_t ns)
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    double time = (double)ns;
    int i;
    for (i = 0; time >= 999.995 && i < 3; i++) time /= 1000;
    snprintf(room->text, sizeof room->text, i ? "%.2f %s" : "%.0f %s", time, units[i]);
    return room->text;
}

/* "12.58 % slower", "as fast as" and such; than what, the caller says. */
static const char *human_slower(short_text *room, int64_t ppm)
{
    if (!ppm) return "as fast as";
    snprintf(room->text, sizeof room->text, "%.2f %% %s than", (double)(ppm < 0 ? -ppm : ppm) / 1e4,
             ppm < 0 ? "faster" : "slower");
    return room->text;
}

/* --- names that were meant */

/* How many letters must change, come or go to make one name the other; names of up to 40 letters. A * in `one` is any
   letters, for nothing. */
static size_t name_distance(const char *one, const char *other)
{
    size_t row[41], i, j, n = strlen(other);
    if (n > 40) return n;
    for (j = 0; j <= n; j++) row[j] = j;
    for (i = 0; one[i]; i++) {
        size_t corner = row[0];
        if (one[i] == '*') {
            for (j = 0; j < n; j++) row[j + 1] = row[j] < row[j + 1] ? row[j] : row[j + 1];
            continue;
        }
        row[0]++;
        for (j = 0; j < n; j++) {
            size_t change = corner + (one[i] != other[j]), least = row[j] < row[j + 1] ? row[j] + 1 : row[j + 1] + 1;
            corner = row[j + 1];
            row[j + 1] = change < least ? change : least;
        }
    }
    return row[n];
}

typedef struct nearest { /* the name that comes nearest to what was given */
    const char *given, *name;
    size_t cost;
} nearest;

static char small_letter(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

/* Is it short for the name: a piece of it, or do its letters, large or small, come there in order from the first one on? */
static int is_short_for(const char *given, const char *name)
{
    size_t n = strlen(given);
    if (n < 2 || (n == 2 && strncmp(given, name, 2))) return 0;
    if (strstr(name, given)) return 1;
    if (small_letter(*given) != small_letter(*name)) return 0;
    for (; *given && *name; name++) {
        given += *given == '*';
        given += small_letter(*given) == small_letter(*name);
    }
    return !*given || !strcmp(given, "*");
}

/* One of the names that it may be: one that the given one is short for is best, then one that differs in few letters, of
   those behind the last slash. */
static void nearest_try(nearest *best, const char *name)
{
    const char *slash = strrchr(best->given, '/');
    size_t n = strlen(slash ? slash + 1 : best->given), cost = name_distance(best->given, name);
    int is_short = is_short_for(best->given, name);
    if (!is_short && (cost > 1 + n / 4 || cost >= strlen(best->given))) return;
    if (!is_short) cost += 100;
    if (best->name && cost >= best->cost) return;
    best->name = name;
    best->cost = cost;
}

static int complain(const char *problem, const char *what, const char *meant)
{
    fprintf(stderr, "rmplan: %s%s%s", problem, what ? ": " : "", what ? what : "");
    if (meant) fprintf(stderr, "; did you mean %s?", meant);
    fprintf(stderr, "\nTry 'rmplan --help'.\n");
    return EXIT_USAGE;
}

static int usage(const char *problem, const char *what) { return complain(problem, what, NULL); }

/* --- the options */

/* What one call does, and why options of others mean nothing to it. */
enum { PLAN = 1, CURVE = 2, COMPARE = 4, CHECK = 8, EXPORT = 16, PLACE = 32, LIST = 64, FIT = 128 };
#define MAKES_PLANS (PLAN | CURVE | COMPARE)
#define HAS_BUDGET (MAKES_PLANS | FIT)
#define HAS_GRAPH (MAKES_PLANS | CHECK | EXPORT)
#define HAS_MODEL (HAS_GRAPH | FIT)

static const struct {
    uint32_t task;
    const char *option, *why;
} tasks[] = {
    {PLAN, "a plan for one budget", "--curve makes many, --compare one for every preset"},
    {CURVE, "--curve", "--curve makes many plans"},
    {COMPARE, "--compare", "--compare plans with every preset"},
    {CHECK, "--plan", "--plan looks at a plan that is there, and plans nothing"},
    {EXPORT, "--export", "--export without --budget writes the graph, and plans nothing"},
    {FIT, "--fit", "--fit tries many sizes of a --model"},
    {PLACE, "--place", "--place goes with --capacity, --align and --out only: there is no graph"},
    {LIST, "a list", "a list of names plans nothing"},
};

/* The questions that people come with; --help has the options by them. */
typedef enum question {
    ASK_FIT,
    ASK_MODEL,
    ASK_MORE,
    ASK_HOW,
    ASK_WHERE,
    ASK_PLAN,
    ASK_OWN,
    ASK_OUT,
    QUESTIONS
} question;

static const char *const questions[QUESTIONS] = {
    "Does it fit, and how fast is a step?",
    "What does a known model need?",
    "What would more memory, or less, bring?",
    "How is it planned?",
    "What fills the memory, and why is a tensor where it is?",
    "What is in a plan that I have?",
    "Where do buffers of my own go?",
    "How do I get the answer?",
};

/* What the value of an option looks like. Numbers: from least to most. */
typedef enum value_kind {
    TAKES_NOTHING,
    TAKES_TEXT,
    TAKES_SIZE,
    TAKES_BYTES,
    TAKES_COUNT,
    TAKES_ALIGN,
    TAKES_MARGIN,
    TAKES_POINTS,
    TAKES_SECONDS,
    TAKES_STEP,
    TAKES_FIT,
    TAKES_PERCENT,
    TAKES_OPTIMIZER,
    TAKES_LINK,
    TAKES_DISK,
    TAKES_RANKS,
    TAKES_DEVICE
} value_kind;

static const struct {
    const char *looks_like;
    uint64_t least, most;
} value_kinds[] = {
    {"takes no value", 0, 0},
    {"takes a name", 0, 0},
    {"takes a size such as 8589934592, 8G or 40%", 0, MOST},
    {"takes a size such as 1048576 or 1M", 0, MOST},
    {"takes a number from 1 to 2^32", 1, (uint64_t)1 << 32},
    {"takes a number of bytes from 1 to 2^31", 1, (uint64_t)1 << 31},
    {"takes a percentage from 0 to 90", 0, 90},
    {"takes a number from 2 to 10000", 2, 10000},
    {"takes a number such as 10 or 0.5", 0, 0},
    {"takes single, first, middle, last or forward", 0, 0},
    {"takes batch or sequence", 0, 0},
    {"takes a percentage from 0 to 10000", 0, 10000},
    {"takes adamw or slim", 0, 0},
    {"takes bytes a second, both ways (25G) or each (h2d=25G,d2h=20G); latency=NS, add=RATE, pageable=RATE (not above "
     "these) may follow", 0, 0},
    {"takes a size and, where the graph does not say them, rates: 2T,6G or 2T,in=7G,out=5G, behind which latency=NS may "
     "follow", 0, 0},
    {"takes how many (2 to 65535), and the bytes a second, above zero, that one gets from the others: 8,360G", 0, 0},
    {"takes a name ('rmplan --device list') or flops=RATE,bandwidth=RATE,memory=SIZE, or both", 0, 0},
};

/* All options: id, name, argument, question, kind of value, field of the request, tasks that use it, help. */
#define OPTIONS(X) \
    X(BUDGET, "--budget", "SIZE", ASK_FIT, TAKES_SIZE, budget, HAS_BUDGET, \
      "device memory that the plan may use; none given: no limit, or the memory of --device less 1G") \
    X(HOST, "--host", "SIZE", ASK_FIT, TAKES_SIZE, host, HAS_BUDGET, \
      "host memory that it may use, too, then with preset offmate if no other is named; none given: none") \
    X(PINNED, "--pinned", "SIZE", ASK_FIT, TAKES_SIZE, pinned, HAS_BUDGET, \
      "of --host, so much is pinned at most; the rest is pageable, with the rate of --link 25G,pageable=8G (default: " \
      "the graph's, or a third of a --device's link)") \
    X(DISK, "--disk", "SIZE", ASK_FIT, TAKES_DISK, disk, PLAN | CURVE | EXPORT, \
      "behind --host so much of a disk, too: 2T,6G, bytes a second both ways, or 2T,in=7G,out=5G; latency=NS a " \
      "transfer may follow; a graph that has a disk says its rates") \
    X(DEVICE, "--device", "NAME", ASK_FIT, TAKES_DEVICE, device, HAS_MODEL | LIST, \
      "on this card ('list' shows them): its memory, its link, and for --model its speed (default h200); " \
      "or flops=RATE,bandwidth=RATE,memory=SIZE,link=RATE,host=RATE, alone or behind a name; link and host: 25G, 60G; " \
      "'unified' in place of link: host and device are one pool of memory") \
    X(LINK, "--link", "RATE", ASK_FIT, TAKES_LINK, link, HAS_BUDGET | EXPORT | CHECK, \
      "bytes a second to host memory and back, instead of the graph's: 25G, or h2d=25G,d2h=20G; " \
      "latency=NS a copy, add=RATE (sums in host memory) and pageable=RATE (see --pinned) may follow") \
    X(SHARES, "--shares", NULL, ASK_FIT, TAKES_NOTHING, shares, PLAN | CURVE, \
      "weights, gradients and states in shares on the graph's ranks; with --host (of each rank, and --disk) weights " \
      "and states may be there, and updates; --preset zero1, zero2 or zero3: by these policies, to compare with") \
    X(MARGIN, "--margin", "PCT", ASK_FIT, TAKES_MARGIN, margin, HAS_BUDGET, \
      "count on that much less than the link's speed") \
    X(STEP, "--step", "KIND", ASK_FIT, TAKES_STEP, step, HAS_BUDGET, \
      "single (default); first, middle, last (of an accumulation); forward") \
    X(MODEL, "--model", "NAME", ASK_MODEL, TAKES_TEXT, model.model, HAS_MODEL | LIST, \
      "a well-known model ('list' shows them) instead of a file, with costs by analysis; if it does not fit alone, " \
      "128G of host memory are taken, too (--host 0 forbids that)") \
    X(TOKENS, "--tokens", "N", ASK_MODEL, TAKES_COUNT, model.tokens, HAS_GRAPH, \
      "of a step, for language models (default 8192)") \
    X(SEQUENCE, "--sequence", "N", ASK_MODEL, TAKES_COUNT, model.sequence, HAS_MODEL, \
      "of these, in one sequence (default 2048, or what the model can)") \
    X(IMAGES, "--images", "N", ASK_MODEL, TAKES_COUNT, model.images, HAS_GRAPH, \
      "of a step, for convolutional networks (default 32)") \
    X(OPTIMIZER, "--optimizer", "NAME", ASK_MODEL, TAKES_OPTIMIZER, model.slim, HAS_MODEL, \
      "adamw (default: 12 bytes of state a weight) or slim (two bf16 moments: 4 bytes)") \
    X(RANKS, "--ranks", "CARDS", ASK_MODEL, TAKES_RANKS, model.ranks, PLAN | CURVE | EXPORT, \
      "so many train together, with shares on each (--shares): 8,360G, bytes a second that one gets from the others") \
    X(FIT, "--fit", "WHAT", ASK_MODEL, TAKES_FIT, fit, FIT, \
      "the largest batch of the --model that fits, or with 'sequence' the longest sequence, and the fastest; the " \
      "same with --more memory; --seconds is of each of the two searches; none given: a fraction of one a size") \
    X(SLOWER, "--slower", "PCT", ASK_MODEL, TAKES_PERCENT, slower, FIT, \
      "a size fits only if a step is at most that much slower than with everything kept") \
    X(EXPORT, "--export", "FILE", ASK_MODEL, TAKES_TEXT, export_to, PLAN | CHECK | EXPORT, \
      "write the graph (.rmg) there, and plan it only if --budget is given as well") \
    X(CURVE, "--curve", NULL, ASK_MORE, TAKES_NOTHING, curve, CURVE, \
      "a table of plans from the least memory up to --budget, or to where more gains nothing; also --sweep") \
    X(MORE, "--more", "SIZE", ASK_MORE, TAKES_BYTES, more, PLAN | FIT, \
      "what that much more device memory would bring; with --fit 1G if it is not given") \
    X(POINTS, "--points", "N", ASK_MORE, TAKES_POINTS, points, CURVE, "so many of them, at most (default 16)") \
    X(PRESET, "--preset", "NAME", ASK_HOW, TAKES_TEXT, preset, PLAN | CURVE | FIT, \
      "what the planner does: one of the presets below") \
    X(CONFIG, "--config", "FILE", ASK_HOW, TAKES_TEXT, config, PLAN | CURVE | FIT, \
      "the same from a file of key=value lines (docs/formats.md)") \
    X(KEEP, "--keep", "PATTERNS", ASK_HOW, TAKES_TEXT, keep, PLAN | CURVE | FIT, \
      "what these ops leave is never made again; patterns are of names of ops, of their kinds and blocks, with commas " \
      "between them: 'h[*]/attn,*norm*'") \
    X(RECOMPUTE, "--recompute", "PATTERNS", ASK_HOW, TAKES_TEXT, recompute, PLAN | CURVE | FIT, \
      "what they leave is not kept for the backward but made again; not what --keep or --move names, too") \
    X(MOVE, "--move", "PATTERNS", ASK_HOW, TAKES_TEXT, move, PLAN | CURVE | FIT, \
      "what they leave waits in host memory for the backward; params, with their states, wait there between steps") \
    X(STAY, "--stay", "PATTERNS", ASK_HOW, TAKES_TEXT, stay, PLAN | CURVE | FIT, \
      "what they leave, and params and inputs of such names, are never in host memory") \
    X(COMPARE, "--compare", NULL, ASK_HOW, TAKES_NOTHING, compare, COMPARE, \
      "a table of plans by every preset; those that copy if there is --host") \
    X(SECONDS, "--seconds", "S", ASK_HOW, TAKES_SECONDS, milliseconds, HAS_BUDGET, \
      "stop looking for better plans after S seconds (0.5 is a number, too); at a terminal Ctrl-C does that") \
    X(ALIGN, "--align", "N", ASK_HOW, TAKES_ALIGN, align, HAS_BUDGET | PLACE, \
      "alignment of every buffer, a power of two (default 256); with --place of every offset, any number (default 1)") \
    X(LIVE, "--live", NULL, ASK_HOW, TAKES_NOTHING, live, HAS_BUDGET, \
      "the budget is for the sum of live bytes; no addresses") \
    X(LIKE, "--like", "FILE", ASK_HOW, TAKES_TEXT, like, MAKES_PLANS, \
      "what persists lies where this plan (.rmp) of another step kind has it") \
    X(PEAK, "--peak", NULL, ASK_WHERE, TAKES_NOTHING, peak, PLAN | CHECK, \
      "all that lies in memory at the fullest moment, largest first, and what would have to go for less") \
    X(TENSORS, "--tensors", NULL, ASK_WHERE, TAKES_NOTHING, tensors, PLAN | CHECK, \
      "all buffers of the step, largest first: how long each is there, how often it is made again or copied") \
    X(EXPLAIN, "--explain", "TENSOR", ASK_WHERE, TAKES_TEXT, explain, PLAN | CHECK, \
      "why it is kept, recomputed or moved, and what memory is worth") \
    X(SVG, "--svg", "FILE", ASK_WHERE, TAKES_TEXT, svg, PLAN | CHECK | CURVE, \
      "write a picture of the arena over time there; with --curve one of time over memory") \
    X(TRACE, "--trace", "FILE", ASK_WHERE, TAKES_TEXT, trace, PLAN | CHECK, \
      "write the simulated step there, for ui.perfetto.dev") \
    X(PLAN, "--plan", "FILE", ASK_PLAN, TAKES_TEXT, plan, CHECK, \
      "check this plan (.rmp) of the graph, edited by hand maybe, and give its figures as of one just made") \
    X(PLACE, "--place", "FILE", ASK_OWN, TAKES_TEXT, place, PLACE, \
      "place the buffers of a table with the columns id,lower,upper,size; each lives during [lower, upper)") \
    X(CAPACITY, "--capacity", "SIZE", ASK_OWN, TAKES_BYTES, capacity, PLACE, \
      "the height that is wanted; none given: as low as it gets") \
    X(OUT, "--out", "FILE", ASK_OUT, TAKES_TEXT, out, PLAN | CHECK | PLACE, \
      "write the plan (.rmp) there; with --place the table, with one column more: offset") \
    X(TEXT, "--text", NULL, ASK_OUT, TAKES_NOTHING, text, HAS_MODEL | PLACE, \
      "the answer for people, as on a terminal (default there)") \
    X(KV, "--kv", NULL, ASK_OUT, TAKES_NOTHING, kv, HAS_MODEL | PLACE, \
      "key=value lines (default when stdout is no terminal)") \
    X(JSON, "--json", NULL, ASK_OUT, TAKES_NOTHING, json, HAS_MODEL | PLACE, "one JSON object (docs/formats.md)") \
    X(HELP, "--help", NULL, ASK_OUT, TAKES_NOTHING, help, ~0u, "this text; also -h") \
    X(VERSION, "--version", NULL, ASK_OUT, TAKES_NOTHING, version, ~0u, "the version of rockmate.h")

#define OPTION_ID(id, name, argument, question, kind, field, tasks, help) OPTION_##id,
typedef enum option_id { OPTIONS(OPTION_ID) OPTION_COUNT } option_id;

typedef struct link_rates {
    uint64_t rate[5];
} link_rates; /* h2d, d2h, ns a copy, sums in host memory, pageable memory both ways */

typedef struct disk_asked {
    uint64_t bytes, rate[3]; /* from it, to it, ns a transfer; 0: as the graph has them */
} disk_asked;

enum { FIT_BATCH = 1, FIT_SEQUENCE = 2 };

typedef struct request { /* what the command line says; fields of options that are not given are zero */
    const char *graph, *place, *plan, *out, *preset, *config, *like, *explain, *trace, *svg, *export_to;
    const char *keep, *recompute, *move, *stay;
    quantity budget, host, pinned, capacity, more;
    int shares;
    link_rates link;
    disk_asked disk;
    models_device device;
    models_desc model;
    uint64_t align, milliseconds, points, margin, step, slower;
    int fit; /* FIT_BATCH or FIT_SEQUENCE */
    int live, curve, compare, peak, tensors, text, kv, json, help, version;
    int given[OPTION_COUNT];
    uint32_t task;
} request;

typedef struct option {
    const char *name, *argument; /* argument NULL: it has no value */
    question question;
    value_kind kind;
    size_t field;   /* in request */
    uint32_t tasks; /* that have a use for it */
    const char *help;
} option;

#define OPTION_ROW(id, name, argument, question, kind, field, tasks, help) \
    {name, argument, question, kind, offsetof(request, field), tasks, help},
static const option options[OPTION_COUNT] = {OPTIONS(OPTION_ROW)};

/* Pairs that contradict each other. */
static const struct {
    option_id one, other;
    const char *why;
} conflicts[] = {
    {OPTION_PRESET, OPTION_CONFIG, "both say what the planner does: take one, or preset=NAME in the file"},
    {OPTION_LIVE, OPTION_OUT, "--live plans without addresses, and a plan file has them"},
    {OPTION_LIVE, OPTION_TRACE, "--live plans without addresses, and a trace needs a plan with them"},
    {OPTION_LIVE, OPTION_SVG, "--live plans without addresses, and a picture shows them"},
    {OPTION_LIVE, OPTION_PEAK, "--live plans without addresses, and what lies in memory is read from a plan with them"},
    {OPTION_LIVE, OPTION_TENSORS,
     "--live plans without addresses, and what lies in memory is read from a plan with them"},
    {OPTION_LIVE, OPTION_ALIGN, "--live plans without addresses: there is nothing to align"},
    {OPTION_CURVE, OPTION_COMPARE, "two tables: take one"},
    {OPTION_FIT, OPTION_CURVE, "two tables: take one"},
    {OPTION_FIT, OPTION_COMPARE, "two tables: take one"},
    {OPTION_KV, OPTION_JSON, "two forms of one answer: take one"},
    {OPTION_TEXT, OPTION_JSON, "two forms of one answer: take one"},
    {OPTION_TEXT, OPTION_KV, "two forms of one answer: take one"},
};

/* --- reading the command line */

/* The keys of a list key=value,key=value; -1 for none of them. *value: behind it. */
static int find_key(const char *const *keys, int n, const char *text, const char **value)
{
    int k;
    for (k = 0; k < n; k++) {
        size_t length = strlen(keys[k]);
        if (strncmp(keys[k], text, length) || text[length] != '=') continue;
        *value = text + length + 1;
        return k;
    }
    return -1;
}

/* --link: one rate for both ways, or keys. */
static int parse_link(const char *text, link_rates *link)
{
    static const char *const keys[] = {"h2d", "d2h", "latency", "add", "pageable"};
    const char *value;
    if (parse_units(text, 1000, &link->rate[0], &text)) {
        link->rate[1] = link->rate[0];
        if (*text == ',') text++;
    }
    while (*text) {
        int k = find_key(keys, 5, text, &value);
        if (k < 0 || !parse_units(value, 1000, &link->rate[k], &text)) return 0;
        if (*text == ',') text++;
    }
    if (link->rate[4] > link->rate[0] || link->rate[4] > link->rate[1]) return 0;
    return link->rate[0] && link->rate[1];
}

/* --disk: a size, then one rate for both ways, or keys. */
static int parse_disk(const char *text, disk_asked *disk)
{
    static const char *const keys[] = {"in", "out", "latency"};
    const char *value;
    if (!parse_units(text, 1024, &disk->bytes, &text) || !disk->bytes) return 0;
    if (*text++ != ',') return text[-1] == 0;
    if (parse_units(text, 1000, &disk->rate[0], &value)) {
        disk->rate[1] = disk->rate[0];
        text = *value == ',' ? value + 1 : value;
    }
    while (*text) {
        int k = find_key(keys, 3, text, &value);
        if (k < 0 || !parse_units(value, 1000, &disk->rate[k], &text)) return 0;
        if (*text == ',') text++;
    }
    return disk->rate[0] && disk->rate[1];
}

static int parse_ranks(const char *text, uint64_t *ranks)
{
    return parse_units(text, 1, &ranks[0], &text) && *text++ == ',' && parse_units(text, 1000, &ranks[1], &text) &&
           !*text && ranks[0] >= 2 && ranks[0] < 65536 && ranks[1];
}

/* --device: a name, figures, or figures behind a name. Rates are in powers of 1000, memory is a size. */
static int parse_device(const char *text, models_device *device)
{
    static const char *const keys[] = {"flops", "bandwidth", "link", "host", "memory"};
    double *figures[5];
    size_t n = strcspn(text, ",");
    uint64_t figure;
    char name[32];
    const char *value;
    const models_device *known = NULL;
    memset(device, 0, sizeof *device);
    if (find_key(keys, 5, text, &value) < 0 && strncmp(text, "unified", n)) {
        if (n >= sizeof name) return 0;
        memcpy(name, text, n);
        name[n] = 0;
        if (!(known = models_device_find(name))) return 0;
        *device = *known;
        text += n + (text[n] == ',');
    } else {
        device->name = device->text = "the --device given";
        device->link = 25e9;
        device->host = 60e9;
    }
    figures[0] = &device->flops, figures[1] = &device->bandwidth, figures[2] = &device->link;
    figures[3] = &device->host, figures[4] = &device->bytes;
    while (*text) {
        int k = find_key(keys, 5, text, &value);
        n = strcspn(text, ",");
        if (n == 7 && !strncmp(text, "unified", n)) {
            device->link = 0;
            text += n;
        } else {
            if (k < 0 || !parse_units(value, k == 4 ? 1024 : 1000, &figure, &text) || !figure) return 0;
            *figures[k] = (double)figure;
        }
        if (*text == ',') text++;
    }
    return device->flops > 0 && device->bandwidth > 0 && device->bytes > 0;
}

static int parse_seconds(const char *text, uint64_t *milliseconds)
{
    uint64_t whole, millionths;
    const char *end;
    if (!parse_millionths(text, &whole, &millionths, &end) || *end || whole >= 1000000000) return 0;
    *milliseconds = whole * 1000 + millionths / 1000;
    return 1;
}

static int parse_step(const char *text, uint64_t *step)
{
    static const char *const kinds[] = {"single", "first", "middle", "last", "forward"};
    uint32_t k;
    for (k = 0; k < 5; k++)
        if (!strcmp(kinds[k], text)) *step = (uint64_t)1 << k;
    return *step != 0;
}

static int parse_fit(const char *text, int *fit)
{
    *fit = !strcmp(text, "batch") ? FIT_BATCH : !strcmp(text, "sequence") ? FIT_SEQUENCE : 0;
    return *fit != 0;
}

static int parse_optimizer(const char *text, int *slim)
{
    *slim = !strcmp(text, "slim");
    return *slim || !strcmp(text, "adamw");
}

/* Puts a value where it belongs in the request; 0: it is none for this option. */
static int take_value(request *r, const option *opt, const char *text)
{
    void *field = (char *)r + opt->field;
    uint64_t *number = (uint64_t *)field;
    switch (opt->kind) {
    case TAKES_NOTHING: *(int *)field = 1; return 1;
    case TAKES_TEXT: *(const char **)field = text; return *text != 0;
    case TAKES_SIZE: return parse_size(text, (quantity *)field);
    case TAKES_BYTES: return parse_size(text, (quantity *)field) && !((quantity *)field)->is_share;
    case TAKES_SECONDS: return parse_seconds(text, number);
    case TAKES_STEP: return parse_step(text, number);
    case TAKES_FIT: return parse_fit(text, (int *)field);
    case TAKES_OPTIMIZER: return parse_optimizer(text, (int *)field);
    case TAKES_LINK: return parse_link(text, (link_rates *)field);
    case TAKES_DISK: return parse_disk(text, (disk_asked *)field);
    case TAKES_RANKS: return parse_ranks(text, number);
    case TAKES_DEVICE: return !strcmp(text, "list") || parse_device(text, (models_device *)field);
    default:
        return parse_number(text, number) && *number >= value_kinds[opt->kind].least &&
               *number <= value_kinds[opt->kind].most;
    }
}

/* The name that was meant by a --device that is none. */
static const char *device_meant(const char *given)
{
    nearest best = {NULL, NULL, 0};
    size_t i;
    best.given = given;
    for (i = 0; i < LENGTH(models_devices); i++) nearest_try(&best, models_devices[i].name);
    return best.name;
}

/* 8G for 8GB, 8GiB, 8g; NULL if that would be no size either. */
static const char *size_meant(short_text *room, const option *opt, const char *given)
{
    size_t n = strcspn(given, "KMGTkmgt");
    quantity size;
    if ((opt->kind != TAKES_SIZE && opt->kind != TAKES_BYTES) || !given[n] || n + 2 > sizeof room->text) return NULL;
    memcpy(room->text, given, n);
    room->text[n] = given[n] > 'Z' ? (char)(given[n] - 'a' + 'A') : given[n];
    room->text[n + 1] = 0;
    return strspn(given + n + 1, "iBb") == strlen(given + n + 1) && parse_size(room->text, &size) ? room->text : NULL;
}

static int unknown_option(const char *arg, size_t name_length)
{
    nearest best = {NULL, NULL, 0};
    char name[32];
    int k;
    snprintf(name, sizeof name, "%.*s", (int)(name_length < 31 ? name_length : 31), arg);
    best.given = name;
    for (k = 0; k < OPTION_COUNT; k++) nearest_try(&best, options[k].name);
    return complain("unknown option", arg, best.name);
}

/* One option, argv[*i], with its value if it has one: --name value or --name=value. */
static int take_option(request *r, int argc, char **argv, int *i)
{
    const char *arg = argv[*i], *equals = strchr(arg, '='), *value = NULL;
    size_t n = equals ? (size_t)(equals - arg) : strlen(arg);
    char problem[256];
    short_text room;
    int k;
    for (k = 0; k < OPTION_COUNT; k++)
        if (strlen(options[k].name) == n && !strncmp(arg, options[k].name, n)) break;
    if (!strcmp(arg, "-h")) k = OPTION_HELP;
    if (!strcmp(arg, "--sweep")) k = OPTION_CURVE;
    if (k == OPTION_COUNT) return unknown_option(arg, n);
    if (equals && !options[k].argument) return usage("this option takes no value", arg);
    r->given[k] = 1;
    if (options[k].argument) {
        if (!equals && (*i + 1 >= argc || !strncmp(argv[*i + 1], "--", 2)))
            return usage("this option needs a value", options[k].name);
        value = equals ? equals + 1 : argv[++*i];
    }
    if (take_value(r, &options[k], value)) {
        if (k == OPTION_DEVICE && !strcmp(value, "list")) r->task = LIST;
        return GO_ON;
    }
    snprintf(problem, sizeof problem, "%s %s", options[k].name, value_kinds[options[k].kind].looks_like);
    return complain(problem, value, k == OPTION_DEVICE ? device_meant(value) : size_meant(&room, &options[k], value));
}

/* What the call is to do. */
static uint32_t task_of(const request *r)
{
    if (r->task) return r->task;
    if (r->model.model && !strcmp(r->model.model, "list")) return LIST;
    if (r->place) return PLACE;
    if (r->plan) return CHECK;
    if (r->fit) return FIT;
    if (r->compare) return COMPARE;
    if (r->curve) return CURVE;
    return r->export_to && !r->given[OPTION_BUDGET] ? EXPORT : PLAN;
}

/* Refuses options that the task has no use for, with the reason. */
static int check_task(const request *r)
{
    char problem[256];
    size_t k, t, own = 0;
    for (t = 0; t < LENGTH(tasks); t++)
        if (tasks[t].task == r->task) own = t;
    for (k = 0; k < LENGTH(conflicts); k++)
        if (r->given[conflicts[k].one] && r->given[conflicts[k].other]) {
            snprintf(problem, sizeof problem, "%s and %s: %s", options[conflicts[k].one].name,
                     options[conflicts[k].other].name, conflicts[k].why);
            return usage(problem, NULL);
        }
    for (k = 0; k < OPTION_COUNT; k++) {
        if (!r->given[k] || options[k].tasks & r->task) continue;
        for (t = 0; t < LENGTH(tasks) && tasks[t].task != options[k].tasks; t++) continue;
        if (t < LENGTH(tasks) && r->task != PLACE && strcmp(tasks[t].option, options[k].name))
            snprintf(problem, sizeof problem, "%s goes with %s", options[k].name, tasks[t].option);
        else snprintf(problem, sizeof problem, "%s does not apply here: %s", options[k].name, tasks[own].why);
        return usage(problem, NULL);
    }
    return GO_ON;
}

/* The figures of a language model; NULL for none of that name. */
static const models_lm *find_lm(const char *name)
{
    size_t i;
    for (i = 0; i < LENGTH(models_lms); i++)
        if (!strcmp(models_lms[i].name, name)) return &models_lms[i];
    return NULL;
}

/* Refuses options about the size of a model that are not of this model. */
static int check_model(const request *r)
{
    static const option_id model_only[] = {OPTION_TOKENS, OPTION_SEQUENCE, OPTION_IMAGES, OPTION_OPTIMIZER,
                                           OPTION_RANKS};
    size_t i;
    char problem[256];
    for (i = 0; i < LENGTH(model_only) && !r->model.model; i++)
        if (r->given[model_only[i]]) {
            snprintf(problem, sizeof problem, "%s describes a --model; a file has its sizes",
                     options[model_only[i]].name);
            return usage(problem, NULL);
        }
    for (i = 0; i < LENGTH(models_nets) && r->model.model; i++)
        if (!strcmp(models_nets[i], r->model.model) && (r->model.tokens || r->model.sequence))
            return usage("--tokens and --sequence are for language models; a convolutional network has --images",
                         r->model.model);
    if (r->model.model && r->model.images && find_lm(r->model.model))
        return usage("--images is for convolutional networks; a language model has --tokens", r->model.model);
    if (r->fit && !r->model.model) return usage("--fit asks for sizes of a --model; a graph has its sizes", NULL);
    if (r->fit && (r->budget.is_share || r->host.is_share || r->pinned.is_share))
        return usage("--fit needs sizes in bytes: what keeping everything takes grows with the batch", NULL);
    if (r->fit == FIT_SEQUENCE && (r->model.sequence || !find_lm(r->model.model)))
        return usage("--fit sequence is for language models, and looks for the --sequence itself", NULL);
    if (r->model.sequence && (r->model.tokens ? r->model.tokens : 8192) % r->model.sequence)
        return usage("--tokens is no multiple of --sequence: a step has whole sequences", NULL);
    return GO_ON;
}

static int is_dash(const char *path) { return path && !strcmp(path, "-"); }

/* stdin and stdout serve once each; the figures make room for a file on stdout. */
static int check_streams(const request *r)
{
    if (is_dash(r->graph) + is_dash(r->config) + is_dash(r->like) + is_dash(r->plan) + is_dash(r->place) > 1)
        return usage("stdin (-) can be one file only", NULL);
    if (is_dash(r->out) + is_dash(r->trace) + is_dash(r->svg) + is_dash(r->export_to) > 1)
        return usage("stdout (-) can be one file only", NULL);
    return GO_ON;
}

static int parse_command_line(request *r, int argc, char **argv)
{
    int i, status;
    memset(r, 0, sizeof *r);
    for (i = 1; i < argc; i++) {
        status = GO_ON;
        if (argv[i][0] == '-' && argv[i][1]) status = take_option(r, argc, argv, &i);
        else if (r->graph) return usage("one graph at a time; this is the second", argv[i]);
        else r->graph = argv[i];
        if (status != GO_ON) return status;
    }
    if (r->help || r->version) return GO_ON;
    r->task = task_of(r);
    status = check_task(r);
    if (status == GO_ON) status = check_model(r);
    if (status == GO_ON) status = check_streams(r);
    if (status != GO_ON || r->task == LIST) return status;
    if (r->place) return r->graph ? usage("--place takes no graph", r->graph) : GO_ON;
    if (r->graph && r->model.model) return usage("a graph or --model, not both", r->graph);
    if (r->model.model) r->graph = r->model.model;
    return r->graph ? GO_ON : usage("no graph given: name a file (.rmg), - for stdin, or --model NAME", NULL);
}

/* --- files, text in memory, time */
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

static const char *input_name(const char *path) { return is_dash(path) ? "stdin" : path; }
static const char *output_name(const char *path) { return is_dash(path) ? "stdout" : path; }

/* A text that grows; `at` ends with a zero byte. Zero at first. */
typedef struct text_buffer {
    char *at;
    size_t n, room;
} text_buffer;

/* Room for so many bytes more, and a zero; 0: no memory. */
static int text_room(text_buffer *text, size_t more)
{
    size_t room = text->room ? text->room : 1 << 12;
    char *at;
    if (text->n + more < text->room) return 1;
    while (room <= text->n + more) room *= 2;
    at = (char *)realloc(text->at, room);
    if (!at) return 0;
    text->at = at;
    text->room = room;
    return 1;
}

/* rm_write_fn: into a text_buffer, into a file. */
static int text_sink(void *user, const char *from, size_t n)
{
    text_buffer *text = (text_buffer *)user;
    if (!text_room(text, n)) return 1;
    memcpy(text->at + text->n, from, n);
    text->n += n;
    text->at[text->n] = 0;
    return 0;
}

static int file_sink(void *user, const char *text, size_t n) { return fwrite(text, 1, n, (FILE *)user) != n; }

static void text_free(text_buffer *text)
{
    free(text->at);
    memset(text, 0, sizeof *text);
}

/* The next line of a text, cut off by a zero; NULL at its end. */
static char *next_line(char **at)
{
    char *line = *at;
    if (!line || !*line) return NULL;
    *at += strcspn(line, "\n");
    if (**at) *(*at)++ = 0;
    return line;
}

static int no_memory(const char *path)
{
    fprintf(stderr, "rmplan: %s: no memory to read it\n", path);
    return EXIT_OTHER;
}

/* The whole of a file, or of stdin. */
static int read_file(const char *path, text_buffer *text)
{
    FILE *f;
    size_t got = 0;
    int bad;
    memset(text, 0, sizeof *text);
    errno = 0;
    f = is_dash(path) ? stdin : fopen(path, "rb");
#if defined(_WIN32)
    if (f == stdin) _setmode(_fileno(stdin), _O_BINARY);
#endif
    while (f && text_room(text, (size_t)1 << 16) && (got = fread(text->at + text->n, 1, (size_t)1 << 16, f)) > 0)
        text->n += got;
    bad = !f || ferror(f);
    if (bad) fprintf(stderr, "rmplan: %s: %s\n", input_name(path), errno ? strerror(errno) : "cannot be read");
    else if (got) bad = no_memory(input_name(path)); /* it ended for want of room */
    if (f && f != stdin) fclose(f);
    if (bad || !text->at) text_free(text);
    else text->at[text->n] = 0;
    return text->at ? GO_ON : EXIT_USAGE;
}

static int cannot_write(const char *path)
{
    fprintf(stderr, "rmplan: %s: %s; it is not written, or not whole\n", output_name(path),
            errno ? strerror(errno) : "cannot be written");
    return EXIT_USAGE;
}

static FILE *open_output(const char *path)
{
    errno = 0;
#if defined(_WIN32)
    if (is_dash(path)) _setmode(_fileno(stdout), _O_BINARY);
#endif
    return is_dash(path) ? stdout : fopen(path, "wb");
}

/* What is there after a failure stays: it may be a device. */
static int close_output(const char *path, FILE *f, int bad)
{
    bad |= f == stdout ? fflush(f) != 0 : fclose(f) != 0;
    return bad ? cannot_write(path) : EXIT_OK;
}

/* Says before the planning what would fail after it: a file that cannot be written. */
static int check_output(const char *path)
{
    FILE *there, *f;
    if (!path || is_dash(path)) return GO_ON;
    there = fopen(path, "rb");
    if (there) fclose(there);
    errno = 0;
    f = fopen(path, "ab");
    if (!f) return cannot_write(path);
    fclose(f);
    if (!there) remove(path);
    return GO_ON;
}

/* --- words of the library in words of the command line */
static const struct {
    const char *api, *option;
} words[] = {
    {"set rm_plan_desc.host_bytes", "give --host"},
    {"Set rm_plan_desc.host_bytes to more", "Give more --host"},
    {"declare the link to host memory (rm_graph_link)", "say how fast host memory is (--link)"},
    {"declare the link that takes it there (rm_graph_link)", "say how fast host memory is (--link)"},
    {"declare the link (rm_graph_link)", "say how fast host memory is (--link)"},
    {"nothing can be copied; declare it with rm_graph_link", "nothing can be copied; give --link 25G"},
    {"declare them with rm_graph_link_pageable", "give --link 25G,pageable=8G"},
    {"declare them (rm_graph_link_pageable)", "give --link 25G,pageable=8G"},
    {"RM_NO_MERGE (rm_config.off)", "off=merge in a --config file"},
    {"rm_plan_desc.device_bytes", "--budget"},
    {"rm_plan_desc.host_bytes", "--host"},
    {"rm_plan_desc.pageable_bytes", "--pinned"},
    {"declare it (rm_graph_disk)", "give its rates: --disk 2T,6G"},
    {"declare it with rm_graph_disk", "give --disk 2T,6G"},
    {"rm_plan_desc.disk_bytes", "--disk"},
    {"rm_graph_disk", "--disk"},
    {"rm_graph_link_pageable", "--link 25G,pageable=8G"},
    {"rm_plan_desc.unified", "a device with unified memory"},
    {"rm_plan_desc.shares", "--shares"},
    {"rm_graph_ranks", "'ranks' in the graph"},
    {"rm_param_desc.reduce_ns", "'reduce='"},
    {"rm_config.keep", "--keep"},
    {"rm_config.move", "--move"},
    {"rm_config.stay", "--stay"},
    {"rm_config.recompute", "--recompute"},
    {"rm_config.", "--config: "},
    {"rm_plan_desc.preset", "--preset"},
    {"rm_plan_desc.steps", "--step"},
    {"rm_plan_desc.align", "--align"},
    {"rm_plan_desc.like", "--like"},
    {"rm_plan_desc.link_margin_percent", "--margin"},
    {"take 256 or leave it 0", "take 256 or leave it out"},
    {"rm_plan_desc: ", ""},
    {"rm_plan_create: ", ""},
    {"rm_graph_link", "--link"},
    {"rm_graph_write", "--export"},
    {"RM_NOGRAD (nograd)", "nograd"}, /* of graph files */
    {"rm_param_desc.update (in text opt=), or drop state_bytes", "opt=, or drop state="},
    {"add rm_block_end (in text: an end)", "add an end"},
    {"rm_block_end, end:", "end:"},
    {" (rm_block_begin)", ""},
    {"add the layers with RM_OP first", "add its layers (op) first"},
    {"declare that with rm_const_add", "declare it as const"},
    {"rm_output_add", "output"},
    {"off has RM_NO_RECOMPUTE", "the configuration has off=recompute"},
    {"; set another (rm_kind.name)", "; give it another name"},
    {"(RM_FREE_NS, RM_EMPTY for none)", "(0 for none)"},
    {"; if it has none so large, set rm_fit_desc.most", ""},
    {"rm_fit_desc.slower_ppm", "--slower"},
    {"rm_fit: size ", "size "},
    {"RM_ONCE", "once"},
    {"RM_STAYS", "stays"},
    {"RM_COMM (lane=comm)", "lane=comm"},
    {"RM_EXTERNAL", "external"},
};

/* A text of the library with the names of options in place of fields and calls; as it is if there is no memory. */
static const char *in_options(text_buffer *room, const char *text)
{
    const char *whole = text;
    size_t k;
    room->n = 0;
    while (*text) {
        for (k = 0; k < LENGTH(words) && strncmp(text, words[k].api, strlen(words[k].api)); k++) continue;
        if (k == LENGTH(words) ? text_sink(room, text, 1) : text_sink(room, words[k].option, strlen(words[k].option)))
            return whole;
        text += k == LENGTH(words) ? 1 : strlen(words[k].api);
    }
    return room->n ? room->at : "";
}

static void print_in_options(FILE *to, const char *text)
{
    text_buffer room = {NULL, 0, 0};
    fputs(in_options(&room, text), to);
    text_free(&room);
}

#define NAME_ROOM 256 /* for a name of a graph, with its zero */

/* The name in the graph that comes nearest to a pattern of a policy. */
typedef struct meant {
    nearest best;
    char pattern[NAME_ROOM], name[NAME_ROOM];
} meant;

static void meant_try(meant *m, const char *name, size_t n)
{
    char word[NAME_ROOM];
    if (!n || n >= NAME_ROOM) return;
    memcpy(word, name, n);
    word[n] = 0;
    nearest_try(&m->best, word);
    if (m->best.name == word) m->best.name = strcpy(m->name, word);
}

/* What a pattern may name in a graph: the whole name of an op, param, input or const, its last word, a block. */
static void meant_try_parts(meant *m, const char *name, size_t n)
{
    size_t i, word = 0;
    for (i = 0; i < n; i++) {
        if (name[i] == '/') meant_try(m, name, i);
        if (name[i] == '/' || name[i] == '.') word = i + 1;
    }
    meant_try(m, name + word, n - word);
    meant_try(m, name, n);
}

/* Parts of the pattern between slashes that name the same part of the name stay: h[*]/gellu means h[*]/gelu. */
static void meant_keep_stars(meant *m)
{
    char out[2 * NAME_ROOM], part[NAME_ROOM], *name = m->name;
    const char *pattern = m->pattern;
    size_t n = 0, slashes = 0, i;
    for (i = 0; name[i]; i++) slashes += name[i] == '/';
    for (i = 0; pattern[i]; i++) slashes -= pattern[i] == '/';
    if (slashes) return;
    for (;;) {
        size_t name_n = strcspn(name, "/"), pattern_n = strcspn(pattern, "/");
        char name_end = name[name_n];
        snprintf(part, sizeof part, "%.*s", (int)pattern_n, pattern);
        name[name_n] = 0;
        n += (size_t)snprintf(out + n, sizeof out - n, "%s%c", name_distance(part, name) ? name : part, name_end);
        if (!name_end) break;
        name[name_n] = name_end;
        name += name_n + 1;
        pattern += pattern_n + 1;
    }
    if (n <= NAME_ROOM) memcpy(m->name, out, n);
}

/* The library says that a pattern of a policy names nothing: which one was meant? NULL: it says something else, or none is
   near. */
static const char *meant_find(meant *m, rm_graph *g, const char *message)
{
    const char *from = strstr(message, ": '"), *to = strstr(message, "' names no "), *name;
    text_buffer text = {NULL, 0, 0};
    char *at, *line;
    memset(m, 0, sizeof *m);
    if (!g || !from || !to || to < from + 3 || to - from > NAME_ROOM || strstr(to, " but such as ")) return NULL;
    snprintf(m->pattern, NAME_ROOM, "%.*s", (int)(to - from - 3), from + 3);
    m->best.given = m->pattern;
    if (rm_graph_write(g, text_sink, &text) != RM_OK) text_free(&text);
    for (at = text.at; (line = next_line(&at)) != NULL;) {
        if (!strncmp(line, "op ", 3)) name = line + 3;
        else if (!strncmp(line, "tensor ", 7) && strstr(to, " param")) name = line + 7;
        else continue;
        meant_try_parts(m, name, strcspn(name, " "));
    }
    text_free(&text);
    if (m->best.name) meant_keep_stars(m);
    return m->best.name;
}

/* What a wrong graph, a wrong option or a lack of memory means for the exit status, with the message. g: in which names are
   looked for, or NULL. */
static int refuse_with(const char *path, rm_graph *g, const char *why, rm_result r)
{
    text_buffer room = {NULL, 0, 0};
    const char *message = in_options(&room, why), *near_name;
    meant m;
    fprintf(stderr, r == RM_ERROR_TEXT || r == RM_ERROR_PLAN ? "%s:%s" : "rmplan: %s: %s", input_name(path), message);
    near_name = meant_find(&m, g, message);
    if (near_name) fprintf(stderr, "; did you mean '%s'?", near_name);
    fprintf(stderr, "\n");
    text_free(&room);
    return r == RM_ERROR_MEMORY || r == RM_ERROR_INTERNAL ? EXIT_OTHER : EXIT_USAGE;
}
static int refuse(const char *path, rm_graph *g, rm_result r) { return refuse_with(path, g, rm_graph_error(g), r); }

/* --- figures in three forms */
typedef enum answer_form { FORM_TEXT, FORM_KV, FORM_JSON } answer_form;

typedef struct printer {
    FILE *to;
    answer_form form;
    int begun; /* JSON: the object or list that is open has something in it */
} printer;

/* A JSON string, or a bare word of --kv. */
static void say_string(const printer *p, const char *text)
{
    if (p->form != FORM_JSON) {
        fputs(text, p->to);
        return;
    }
    putc('"', p->to);
    for (; *text; text++) {
        if (*text == '\n') fputs("\\n", p->to);
        else if ((unsigned char)*text < ' ') fprintf(p->to, "\\u%04x", (unsigned)(unsigned char)*text);
        else if (*text == '"' || *text == '\\') fprintf(p->to, "\\%c", *text);
        else putc(*text, p->to);
    }
    putc('"', p->to);
}

/* The comma and the key before a value; key NULL in a list. */
static void say_key(printer *p, const char *key)
{
    if (p->form == FORM_JSON) {
        fputs(p->begun ? "," : "", p->to);
        if (key) fprintf(p->to, "\"%s\":", key);
        p->begun = 1;
    } else fprintf(p->to, "%s=", key);
}

static void say_number(printer *p, const char *key, uint64_t number)
{
    say_key(p, key);
    fprintf(p->to, p->form == FORM_JSON ? "%" PRIu64 : "%" PRIu64 "\n", number);
}

static void say_text(printer *p, const char *key, const char *text)
{
    say_key(p, key);
    say_string(p, text);
    if (p->form != FORM_JSON) putc('\n', p->to);
}

/* Microseconds: solve_ms=1.234, "solve_us":1234. */
static void say_us(printer *p, const char *what, uint64_t us)
{
    char key[32];
    snprintf(key, sizeof key, p->form == FORM_JSON ? "%s_us" : "%s_ms", what);
    if (p->form == FORM_JSON) say_number(p, key, us);
    else fprintf(p->to, "%s=%" PRIu64 ".%03" PRIu64 "\n", key, us / 1000, us % 1000);
}

/* Parts per million: gap_pct=0.1234, "gap_ppm":1234. */
static void say_ppm(printer *p, const char *what, int64_t ppm)
{
    char key[32];
    snprintf(key, sizeof key, p->form == FORM_JSON ? "%s_ppm" : "%s_pct", what);
    if (p->form == FORM_JSON) say_number(p, key, (uint64_t)ppm);
    else fprintf(p->to, "%s=%" PRId64 ".%04" PRId64 "\n", key, ppm / 10000, ppm % 10000);
}

/* Braces and brackets of JSON; other forms have none. */
static void say_open(printer *p, const char *key, char bracket)
{
    if (p->form != FORM_JSON) return;
    if (key) say_key(p, key);
    else if (p->begun) putc(',', p->to);
    putc(bracket, p->to);
    p->begun = 0;
}

static void say_close(printer *p, char bracket)
{
    if (p->form != FORM_JSON) return;
    putc(bracket, p->to);
    p->begun = 1;
}

/* Tables: rows of cells under columns, for people with units, for --kv as bare numbers, as JSON lists of objects. */
typedef enum unit { UNIT_TEXT, UNIT_COUNT, UNIT_BYTES, UNIT_NS, UNIT_US, UNIT_PPM, UNIT_SHARE } unit;

typedef struct column {
    const char *key;   /* without the unit of UNIT_US (_ms, _us) and of UNIT_PPM and UNIT_SHARE (_pct, _ppm) */
    const char *title; /* for people; NULL: they do not see it */
    unit unit;
    int kv_width, text_width; /* negative: flush left; kv_width 0: in JSON alone */
    int decimals;             /* of a percentage in --kv */
} column;

typedef struct cell {
    int64_t number;
    const char *text; /* of UNIT_TEXT; in place of a number that is missing, "-" if NULL */
    int is_missing;
} cell;

/* The key of a column in this form. */
static const char *column_key(const printer *p, const column *c, short_text *room)
{
    static const char *const kv[] = {"", "", "", "", "_ms", "_pct", "_pct"}, *const json[] = {"",    "",     "",    "",
                                                                                              "_us", "_ppm", "_ppm"};
    snprintf(room->text, sizeof room->text, "%s%s", c->key, (p->form == FORM_JSON ? json : kv)[c->unit]);
    return room->text;
}

static void table_head(const printer *p, const column *columns, size_t n)
{
    short_text room;
    size_t i;
    for (i = 0; i < n && p->form != FORM_JSON; i++) {
        int width = p->form == FORM_TEXT ? columns[i].text_width : columns[i].kv_width;
        if (p->form == FORM_TEXT ? !columns[i].title : !columns[i].kv_width) continue;
        fprintf(p->to, i ? " %*s" : "%*s", width,
                p->form == FORM_TEXT ? columns[i].title : column_key(p, &columns[i], &room));
    }
    if (p->form != FORM_JSON) putc('\n', p->to);
}

/* A cell as text, in --kv bare and for people with its unit. */
static const char *cell_text(const printer *p, const column *c, const cell *x, short_text *room)
{
    int people = p->form == FORM_TEXT;
    if (x->is_missing) return x->text ? x->text : "-";
    switch (c->unit) {
    case UNIT_TEXT: return x->text;
    case UNIT_BYTES:
        if (people) return human_bytes(room, (uint64_t)x->number);
        break;
    case UNIT_NS:
        if (people) return human_ns(room, (uint64_t)x->number);
        break;
    case UNIT_US:
        if (people) return human_ns(room, (uint64_t)x->number * 1000);
        snprintf(room->text, sizeof room->text, "%" PRId64 ".%03" PRId64, x->number / 1000, x->number % 1000);
        return room->text;
    case UNIT_PPM:
        if (people && x->number < 0) { /* -12.58 % over something is a riddle */
            snprintf(room->text, sizeof room->text, "%.2f %% faster", (double)-x->number / 1e4);
            return room->text;
        } /* else as a share */
        /* fall through */
    case UNIT_SHARE:
        snprintf(room->text, sizeof room->text, people ? c->unit == UNIT_PPM ? "%+.*f %%" : "%.*f %%" : "%.*f",
                 people ? 2 : c->decimals, (double)x->number / 1e4);
        return room->text;
    default: break;
    }
    snprintf(room->text, sizeof room->text, "%" PRId64, x->number);
    return room->text;
}

static void table_row(printer *p, const column *columns, const cell *cells, size_t n)
{
    short_text room;
    size_t i;
    say_open(p, NULL, '{');
    for (i = 0; i < n; i++) {
        const column *c = &columns[i];
        int width = p->form == FORM_TEXT ? c->text_width : c->kv_width;
        if (p->form == FORM_JSON) {
            if (cells[i].is_missing) continue;
            say_key(p, column_key(p, c, &room));
            if (c->unit == UNIT_TEXT) say_string(p, cells[i].text);
            else fprintf(p->to, "%" PRId64, cells[i].number);
        } else if (p->form == FORM_KV ? c->kv_width : c->title != NULL)
            fprintf(p->to, i ? " %*s" : "%*s", width, cell_text(p, c, &cells[i], &room));
    }
    say_close(p, '}');
    if (p->form != FORM_JSON) putc('\n', p->to);
}

/* --- the live line, and Ctrl-C */
static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal_number)
{
    interrupted = 1;
    signal(signal_number, SIG_DFL); /* the second one ends the program */
}

typedef struct watch {
    uint64_t start_us, first_us, limit_us, shown_us;
    int has_first, has_limit;
    int is_live; /* there is a terminal to show it on */
    int was_shown;
    int is_curve;
    size_t points; /* of it, so far */
} watch;

static void watch_start(watch *w, const request *r, int is_live)
{
    memset(w, 0, sizeof *w);
    w->start_us = now_us();
    w->has_limit = r->given[OPTION_SECONDS];
    w->limit_us = r->milliseconds * 1000;
    w->is_live = is_live;
    w->is_curve = r->task == CURVE;
    if (is_live) signal(SIGINT, on_interrupt);
}

static void watch_clear_line(watch *w)
{
    if (w->was_shown) fprintf(stderr, "\r%100s\r", "");
    w->was_shown = 0;
    fflush(stderr);
}

/* Seconds so far, the best plan so far, how far it is at most from the best possible. */
static void watch_show(watch *w, const rm_progress *progress, uint64_t us)
{
    char line[128];
    short_text time;
    int n = snprintf(line, sizeof line, "planning, %.1f s: ", (double)us / 1e6);
    if (w->points) n += snprintf(line + n, sizeof line - (size_t)n, "%lu plans, ", (unsigned long)w->points);
    if (!progress->time_ns) snprintf(line + n, sizeof line - (size_t)n, "nothing fits so far");
    else if (!progress->bound_ns)
        snprintf(line + n, sizeof line - (size_t)n, "best so far %s", human_ns(&time, progress->time_ns));
    else
        snprintf(line + n, sizeof line - (size_t)n,
                 "best so far %s, at most %.2f %% from the best possible (Ctrl-C takes it)",
                 human_ns(&time, progress->time_ns), (double)ppm_over(progress->time_ns, progress->bound_ns) / 1e4);
    fprintf(stderr, "\r%-100.100s", line);
    fflush(stderr);
    w->was_shown = 1;
    w->shown_us = us;
}

static int on_progress(void *user, const rm_progress *progress)
{
    watch *w = (watch *)user;
    uint64_t us = now_us() - w->start_us;
    if (progress->time_ns && !w->has_first) {
        w->has_first = 1;
        w->first_us = us;
    }
    w->points += w->is_curve && !strcmp(progress->phase, "done");
    if (w->is_live && us >= w->shown_us + 200000) watch_show(w, progress, us);
    return interrupted || (w->has_limit && us >= w->limit_us);
}

/* --- what lies in memory: read from the texts of the graph and of its plan, by docs/formats.md */

/* Names with a number each: a hash table of open addresses, never more than half full. */
typedef struct names {
    char **key;
    uint64_t *number;
    size_t n, room;
} names;

/* Where a key stands, or would. */
static size_t names_slot(const names *t, const char *key)
{
    uint64_t hash = 14695981039346656037u;
    size_t slot;
    const char *c;
    for (c = key; *c; c++) hash = (hash ^ (unsigned char)*c) * 1099511628211u;
    for (slot = (size_t)(hash >> 16) & (t->room - 1); t->key[slot] && strcmp(t->key[slot], key);)
        slot = (slot + 1) & (t->room - 1);
    return slot;
}

static int names_grow(names *t)
{
    names wider;
    size_t i, slot;
    wider.n = t->n;
    wider.room = t->room ? 2 * t->room : 256;
    wider.key = (char **)calloc(wider.room, sizeof *wider.key);
    wider.number = (uint64_t *)calloc(wider.room, sizeof *wider.number);
    if (!wider.key || !wider.number) {
        free((void *)wider.key);
        free(wider.number);
        return 0;
    }
    for (i = 0; i < t->room; i++)
        if (t->key[i]) {
            slot = names_slot(&wider, t->key[i]);
            wider.key[slot] = t->key[i];
            wider.number[slot] = t->number[i];
        }
    free((void *)t->key);
    free(t->number);
    *t = wider;
    return 1;
}

/* The number of a name, to be read or set; a new name has `fresh`. NULL: no memory. */
static uint64_t *names_put(names *t, const char *key, uint64_t fresh)
{
    size_t slot, n = strlen(key) + 1;
    if (2 * (t->n + 1) > t->room && !names_grow(t)) return NULL;
    slot = names_slot(t, key);
    if (!t->key[slot]) {
        t->key[slot] = (char *)malloc(n);
        if (!t->key[slot]) return NULL;
        memcpy(t->key[slot], key, n);
        t->number[slot] = fresh;
        t->n++;
    }
    return &t->number[slot];
}

static const uint64_t *names_find(const names *t, const char *key)
{
    size_t slot = t->room ? names_slot(t, key) : 0;
    return t->room && t->key[slot] ? &t->number[slot] : NULL;
}

static void names_free(names *t)
{
    size_t i;
    for (i = 0; i < t->room; i++) free(t->key[i]);
    free((void *)t->key);
    free(t->number);
    memset(t, 0, sizeof *t);
}

#define NOWHERE SIZE_MAX

typedef struct statement {
    const char *word[3];
} statement; /* of a plan; words that are not there are "" */

typedef struct buffer {
    const char *name;
    size_t stretch;                           /* the bytes that it has in the arena now, or NOWHERE */
    uint64_t bytes;                           /* the most that it had */
    uint64_t since, there;                    /* run from which it is there; runs in which it was */
    uint64_t made, to_host, to_device;        /* how often */
    uint64_t peak_since, peak_until, at_peak; /* runs around the fullest one; its bytes there */
    int is_used;                              /* by the fullest run, under this name or another of its bytes */
} buffer;

typedef struct stretch { /* bytes of the arena; aliases have one together */
    uint64_t bytes;
    size_t names;
    int is_marked; /* in the list of what is there at the peak, under one of its names */
    int is_used;   /* by the fullest run */
} stretch;

typedef struct account {
    rm_graph *g;
    text_buffer graph_text, plan_text;
    names sizes;   /* grad:T, state:P, saved:OP[@V]; of workspaces "fwd OP[@V]", "bwd OP[:PART][@V]", "opt P",
                    "saving OP[@V]" (of forwards that leave saved:OP) */
    names kinds;   /* of tensors that no op makes: index into kind_words */
    names indices; /* of buffers, by name */
    names again;   /* of what an op makes: ns of its forward */
    names used;    /* buffers that the fullest run reads or writes */
    statement *program;
    buffer *buffers;
    stretch *stretches;
    size_t n, n_buffers, n_stretches;
    uint64_t ranks, grain; /* of the graph; 0: it has none */
    uint64_t runs, live, peak_bytes, peak_run;
    size_t peak_at;        /* the fullest moment is right before this statement: a run, or the first behind what is resident */
    const statement *peak; /* the run; NULL: it is the step's begin */
} account;

static const char *const kind_words[RM_BYTE_KINDS] = {"weight", "state",      "gradient", "const",
                                                      "input",  "activation", "saved",    "workspace"};

/* The next word of a line, cut off by a zero; "" at its end. */
static char *next_word(char **at)
{
    char *word = *at;
    word += strspn(word, " ");
    *at = word + strcspn(word, " ");
    if (**at) *(*at)++ = 0;
    return word;
}

/* Notes a size under "before name after". */
static int note_size(account *a, const char *before, const char *name, const char *after, const char *digits)
{
    char key[1024];
    uint64_t *size;
    if ((size_t)snprintf(key, sizeof key, "%s%s%s", before, name, after) >= sizeof key) return 0;
    size = names_put(&a->sizes, key, 0);
    if (size) *size = (uint64_t)strtoull(digits, NULL, 10);
    return size != NULL;
}

/* Notes the sizes among the keys of a statement about an op, a variant, a part or a param, which `name` names as plans
 * do. */
static int note_keys(account *a, const char *name, char *rest)
{
    static const struct {
        const char *key, *before;
    } sizes[] = {{"grad", "grad:"},  {"state", "state:"},    {"opt_ws", "opt "},        {"saved", "saved:"},
                 {"fwd_ws", "fwd "}, {"fwd_ws", "saving "}, {"saving_ws", "saving "}, {"bwd_ws", "bwd "}};
    const char *word;
    size_t k;
    while (*(word = next_word(&rest)))
        for (k = 0; k < LENGTH(sizes); k++) {
            size_t n = strlen(sizes[k].key);
            if (strncmp(word, sizes[k].key, n) || word[n] != '=') continue;
            if (!note_size(a, sizes[k].before, name, "", word + n + 1)) return 0;
        }
    return 1;
}

/* The next name of a list with commas, cut off by a zero, without a size behind a colon; NULL at its end. */
static char *next_item(char **list)
{
    char *item = *list, *end = item + strcspn(item, ",");
    if (!*item) return NULL;
    *list = end + (*end == ',');
    *end = 0;
    item[strcspn(item, ":")] = 0;
    return item;
}

/* Notes the time of an op's forward for what it makes: `rest` is what follows its name. 0: no memory. */
static int note_makers(account *a, const char *op, const char *rest)
{
    const char *out = strstr(rest, " out="), *again = strstr(rest, " again="), *fwd = strstr(rest, " fwd=");
    uint64_t ns = again ? (uint64_t)strtoull(again + 7, NULL, 10) : fwd ? (uint64_t)strtoull(fwd + 5, NULL, 10) : 0;
    text_buffer list = {NULL, 0, 0};
    char key[1024], *at, *item;
    uint64_t *of;
    size_t n = out ? strcspn(out + 5, " ") : 0;
    int ok = !n || !text_sink(&list, out + 5, n);
    snprintf(key, sizeof key, "saved:%s", op);
    of = names_put(&a->again, key, ns);
    for (at = list.at; ok && of && n && (item = next_item(&at)) != NULL;) of = names_put(&a->again, item, ns);
    text_free(&list);
    return ok && of;
}

/* Notes that the fullest run uses the buffers of a list behind a key, and with grads their gradients. */
static int note_used(account *a, const char *line, const char *key, int values, int grads)
{
    const char *found = strstr(line, key);
    text_buffer list = {NULL, 0, 0};
    char grad[1024], *at, *item;
    int ok = 1;
    if (!found) return 1;
    found += strlen(key);
    ok = !text_sink(&list, found, strcspn(found, " \n"));
    for (at = list.at; ok && (item = next_item(&at)) != NULL;) {
        snprintf(grad, sizeof grad, "grad:%s", item);
        ok = (!values || names_put(&a->used, item, 1)) && (!grads || names_put(&a->used, grad, 1));
    }
    text_free(&list);
    return ok;
}

/* The buffers that the fullest run uses. A backward without needs= reads all inputs and outputs; a part or a variant is
   taken to use what its op does. 0: no memory. */
static int read_used(account *a, const char *graph_text)
{
    const char *what = a->peak->word[1], *name = a->peak->word[2], *line, *needs;
    const size_t n = strcspn(name, "@:");
    text_buffer op = {NULL, 0, 0};
    char key[1024];
    int is_backward = !strcmp(what, "bwd"), ok;
    static const char *const own[] = {"saved:", "ws:", "grad:", "state:", "share:", "share:grad:", "share:state:", ""};
    size_t k;
    for (k = 0, ok = 1; k < LENGTH(own) && ok; k++) {
        snprintf(key, sizeof key, "%s%.*s", own[k], (int)n, name);
        ok = names_put(&a->used, key, 1) != NULL;
    }
    snprintf(key, sizeof key, "\nop %.*s ", (int)n, name);
    line = strcmp(what, "fwd") && !is_backward ? NULL : strstr(graph_text, key);
    if (!line) return ok;
    ok = ok && !text_sink(&op, line + 1, strcspn(line + 1, "\n"));
    needs = ok ? strstr(op.at, " needs=") : NULL;
    if (ok && needs) ok = note_used(a, op.at, " needs=", is_backward, 0);
    if (ok) ok = note_used(a, op.at, " in=", !is_backward || !needs, is_backward);
    if (ok) ok = note_used(a, op.at, " out=", !is_backward || !needs, is_backward);
    text_free(&op);
    return ok;
}

/* One statement of the graph. 0: no memory. */
static int read_graph_line(account *a, char *rest)
{
    const char *verb = next_word(&rest), *name = next_word(&rest), *second;
    char full[1024];
    size_t k, at = strcspn(name, "@");
    if (!strcmp(verb, "op")) return note_makers(a, name, rest) && note_keys(a, name, rest);
    if (!strcmp(verb, "ranks")) {
        const char *grain = strstr(rest, "grain=");
        a->ranks = (uint64_t)strtoull(name, NULL, 10);
        a->grain = grain ? (uint64_t)strtoull(grain + 6, NULL, 10) : 16;
    }
    second = !strcmp(verb, "tensor") || !strcmp(verb, "variant") || !strcmp(verb, "part") || !strcmp(verb, "grad")
                 ? next_word(&rest)
                 : "";
    if (!strcmp(verb, "grad")) return note_size(a, "grad:", name, "", second);
    if (!strcmp(verb, "tensor")) {
        k = !strcmp(second, "input") ? RM_INPUTS : !strcmp(second, "const") ? RM_CONSTS : RM_WEIGHTS;
        return names_put(&a->kinds, name, k) && note_keys(a, name, rest);
    }
    if (!strcmp(verb, "variant")) {
        snprintf(full, sizeof full, "%s@%s", name, second);
        return note_keys(a, full, rest);
    }
    if (!strcmp(verb, "part")) { /* a variant's part takes nothing over from the op's of the same name */
        snprintf(full, sizeof full, "%.*s:%s%s", (int)at, name, second, name + at);
        return note_size(a, "bwd ", full, "", "0") && note_keys(a, full, rest);
    }
    return 1;
}

/* A size by its key, or by the key without @VARIANT, whose sizes are the op's if it has none of its own. */
static uint64_t find_size(const account *a, const char *before, const char *name)
{
    char key[1024];
    const uint64_t *size;
    snprintf(key, sizeof key, "%s%s", before, name);
    size = names_find(&a->sizes, key);
    key[strcspn(key, "@")] = 0;
    if (!size) size = names_find(&a->sizes, key);
    return size ? *size : 0;
}

/* Does the forward that is statement i leave what it saves: is that allocated then? */
static int is_saving(const account *a, size_t i)
{
    const char *op = a->program[i].word[2];
    const size_t n = strcspn(op, "@");
    while (i-- > 0) {
        const char *const *word = a->program[i].word;
        const int ends = !strcmp(word[0], "free") || !strcmp(word[0], "reuse");
        const char *name = word[!strcmp(word[0], "reuse") ? 2 : 1];
        if (strncmp(name, "saved:", 6) || strncmp(name + 6, op, n) || name[6 + n]) continue;
        if (ends || !strcmp(word[0], "alloc")) return !ends;
    }
    return 0;
}

/* a * b / c, rounded up, for c below 2^62. */
static uint64_t times_over(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t whole = 0, rest = 0, more = a % c;
    int bit;
    for (bit = 63; bit >= 0; bit--) {
        whole = 2 * whole + (2 * rest >= c);
        rest = 2 * rest - (2 * rest >= c ? c : 0);
        if (!(b >> bit & 1)) continue;
        rest += more;
        whole += rest >= c;
        rest -= rest >= c ? c : 0;
    }
    return a / c * b + whole + (rest != 0);
}

/* The bytes of share:P, share:grad:P or share:state:P, by docs/formats.md. */
static uint64_t share_bytes(const account *a, const char *name)
{
    const char *of = name + strlen("share:"), *colon = strchr(of, ':'), *param = colon ? colon + 1 : of;
    const uint64_t value = rm_tensor_bytes(a->g, rm_graph_find(a->g, param)), grain = a->grain ? a->grain : 1;
    const uint64_t *size = names_find(&a->sizes, of);
    const uint64_t whole = size ? *size : value, ranks = a->ranks ? a->ranks : 1;
    uint64_t share = ((value + ranks - 1) / ranks + grain - 1) / grain * grain;
    if (colon) share = ((value ? times_over(whole, share, value) : (whole + ranks - 1) / ranks) + grain - 1) / grain * grain;
    return share;
}

/* The bytes of a buffer that is allocated at statement i. Of a workspace, and of what an op saves, the next run tells.
 */
static uint64_t buffer_bytes(const account *a, const char *name, size_t i)
{
    const char *of = strchr(name, ':');
    char verb[16];
    while (i < a->n && strcmp(a->program[i].word[0], "run")) i++;
    if (!of) return rm_tensor_bytes(a->g, rm_graph_find(a->g, name));
    if (!strncmp(name, "share:", 6)) return share_bytes(a, name);
    if (!strncmp(name, "grad:", 5)) {
        const uint64_t *size = names_find(&a->sizes, name);
        return size ? *size : rm_tensor_bytes(a->g, rm_graph_find(a->g, of + 1));
    }
    if (i < a->n && !strncmp(name, "saved:", 6)) return find_size(a, "saved:", a->program[i].word[2]);
    if (i < a->n && !strncmp(name, "ws:", 3)) {
        snprintf(verb, sizeof verb, "%s ",
                 !strcmp(a->program[i].word[1], "fwd") && is_saving(a, i) ? "saving" : a->program[i].word[1]);
        return find_size(a, verb, a->program[i].word[2]);
    }
    return find_size(a, "", name);
}

static buffer *find_buffer(account *a, const char *name) { return &a->buffers[*names_find(&a->indices, name)]; }

/* A buffer comes to have a stretch of the arena; NOWHERE: it is the caller's memory under another name. */
static void buffer_comes(account *a, buffer *b, size_t at)
{
    b->stretch = at;
    if (at == NOWHERE) return;
    b->since = a->runs;
    if (a->stretches[at].bytes > b->bytes) b->bytes = a->stretches[at].bytes;
}

static void buffer_goes(account *a, buffer *b)
{
    if (b->stretch == NOWHERE) return;
    if (b->at_peak && !b->peak_until) b->peak_until = a->runs;
    b->there += a->runs - b->since;
    b->stretch = NOWHERE;
}

/* The fullest moment: what is there? */
static void mark_peak(account *a)
{
    size_t i;
    for (i = 0; i < a->n_buffers; i++)
        if (a->buffers[i].stretch != NOWHERE && names_find(&a->used, a->buffers[i].name))
            a->stretches[a->buffers[i].stretch].is_used = 1;
    for (i = 0; i < a->n_buffers; i++) {
        buffer *b = &a->buffers[i];
        if (b->stretch == NOWHERE || a->stretches[b->stretch].is_marked) continue;
        a->stretches[b->stretch].is_marked = 1;
        b->is_used = a->stretches[b->stretch].is_used;
        b->at_peak = a->stretches[b->stretch].bytes;
        b->peak_since = b->since;
    }
}

/* One statement of the plan. */
static void account_statement(account *a, size_t i)
{
    const char *verb = a->program[i].word[0];
    buffer *b = !strcmp(verb, "run") ? NULL : find_buffer(a, a->program[i].word[1]), *old;
    size_t at = a->n_stretches;
    if (!b) a->runs++;
    else if (!strcmp(verb, "alloc") || !strcmp(verb, "resident")) {
        a->stretches[at].bytes = buffer_bytes(a, b->name, i);
        a->stretches[at].names = 1;
        a->stretches[at].is_marked = a->stretches[at].is_used = 0;
        a->n_stretches++;
        a->live += a->stretches[at].bytes;
        b->made += *verb == 'a';
        buffer_comes(a, b, at);
    } else if (!strcmp(verb, "alias") || !strcmp(verb, "reuse")) {
        old = find_buffer(a, a->program[i].word[2]);
        at = old->stretch;
        if (*verb == 'r') buffer_goes(a, old); /* in the next run */
        if (*verb == 'a' && at != NOWHERE) a->stretches[at].names++;
        b->made++;
        buffer_comes(a, b, at);
    } else if (!strcmp(verb, "free")) {
        at = b->stretch;
        buffer_goes(a, b);
        if (at != NOWHERE && !--a->stretches[at].names) a->live -= a->stretches[at].bytes;
    } else if (!strcmp(verb, "offload")) b->to_host++;
    else if (!strcmp(verb, "prefetch")) b->to_device++;
}

/* Walks through the plan: first to find the fullest run, then to see what is there in it. */
static void account_walk(account *a, int second)
{
    size_t i, begin = 0;
    while (begin < a->n && !strcmp(a->program[begin].word[0], "resident")) begin++;
    a->runs = a->live = 0;
    a->n_stretches = 0;
    for (i = 0; i < a->n_buffers; i++) {
        const char *name = a->buffers[i].name;
        memset(&a->buffers[i], 0, sizeof a->buffers[i]);
        a->buffers[i].name = name;
        a->buffers[i].stretch = NOWHERE;
    }
    for (i = 0; i < a->n; i++) {
        const int is_run = !strcmp(a->program[i].word[0], "run");
        if (second && i == a->peak_at) mark_peak(a);
        if (!second && (is_run || i == begin) &&
            (a->live > a->peak_bytes || (is_run && !a->peak && a->live == a->peak_bytes))) {
            a->peak = is_run ? &a->program[i] : NULL;
            a->peak_at = i;
            a->peak_bytes = a->live;
            a->peak_run = a->runs;
        }
        account_statement(a, i);
    }
    for (i = 0; i < a->n_buffers; i++)
        if (a->buffers[i].stretch != NOWHERE) buffer_goes(a, &a->buffers[i]);
}

/* The statements of the plan's text that matter, and the buffers that they name. 0: no memory. */
static int read_program(account *a)
{
    static const char *const verbs[] = {"alloc", "free", "alias", "reuse", "run", "offload", "prefetch", "resident"};
    char *at = a->plan_text.at, *line;
    size_t lines = 1, k, n;
    const char *c;
    uint64_t *index;
    for (c = at; *c; c++) lines += *c == '\n';
    a->program = (statement *)calloc(lines, sizeof *a->program);
    a->buffers = (buffer *)calloc(2 * lines, sizeof *a->buffers);
    a->stretches = (stretch *)calloc(lines, sizeof *a->stretches);
    if (!a->program || !a->buffers || !a->stretches) return 0;
    while ((line = next_line(&at)) != NULL) {
        statement *st = &a->program[a->n];
        for (k = 0; k < 3; k++) st->word[k] = next_word(&line);
        for (k = 0; k < LENGTH(verbs) && strcmp(verbs[k], st->word[0]); k++) continue;
        if (k == LENGTH(verbs)) continue;
        a->n++;
        n = *st->word[0] == 'r' && st->word[0][1] == 'u' ? 0 : st->word[0][1] == 'l' && st->word[0][2] == 'i' ? 2 : 1;
        if (!strcmp(st->word[0], "reuse")) n = 2;
        for (k = 1; k <= n; k++) {
            index = names_put(&a->indices, st->word[k], a->n_buffers);
            if (!index) return 0;
            if (*index == a->n_buffers) a->buffers[a->n_buffers++].name = st->word[k];
        }
    }
    return 1;
}

static void account_free(account *a)
{
    text_free(&a->graph_text);
    text_free(&a->plan_text);
    names_free(&a->sizes);
    names_free(&a->kinds);
    names_free(&a->indices);
    names_free(&a->again);
    names_free(&a->used);
    free(a->program);
    free(a->buffers);
    free(a->stretches);
    memset(a, 0, sizeof *a);
}

/* What lies in memory in each run of the plan's first program. 0: no memory. */
static int account_make(account *a, rm_graph *g, const rm_plan *plan)
{
    text_buffer graph = {NULL, 0, 0};
    char *at, *line;
    int ok;
    memset(a, 0, sizeof *a);
    a->g = g;
    if (rm_graph_write(g, text_sink, &a->graph_text) != RM_OK ||
        rm_plan_write(plan, 0, text_sink, &a->plan_text) != RM_OK)
        return 0;
    for (at = a->graph_text.at; (line = next_line(&at)) != NULL;)
        if (!read_graph_line(a, line)) return 0;
    if (!read_program(a)) return 0;
    account_walk(a, 0);
    ok = !a->peak || (rm_graph_write(g, text_sink, &graph) == RM_OK && read_used(a, graph.at)); /* the other is cut up */
    text_free(&graph);
    if (ok) account_walk(a, 1);
    return ok;
}

/* What kind of buffer has this name. */
static const char *buffer_kind(const account *a, const char *name)
{
    static const struct {
        const char *text;
        rm_bytes_are are;
    } before[] = {{"grad:", RM_GRADIENTS}, {"state:", RM_STATES}, {"saved:", RM_SAVED_DATA}, {"ws:", RM_WORKSPACES}};
    const uint64_t *kind;
    size_t k;
    if (!strncmp(name, "share:", 6)) name += 6;
    kind = names_find(&a->kinds, name);
    for (k = 0; k < LENGTH(before); k++)
        if (!strncmp(name, before[k].text, strlen(before[k].text))) return kind_words[before[k].are];
    return kind_words[kind ? *kind : RM_ACTIVATIONS];
}

/* --- planning */
typedef struct job {
    const request *r;
    rm_graph *g;
    const models_device *device; /* whose memory is the budget if none is given; NULL: none */
    rm_plan_desc desc;
    uint64_t pinned; /* bytes of host memory, at most, if --pinned is given */
    rm_config config;
    rm_plan_info info;
    rm_plan *like, *plan;
    rm_point *points; /* of --curve */
    size_t n_points;
    watch watch;
    uint64_t solve_us;
    printer out;
} job;

static int has_host(const job *j) { return (j->desc.host_bytes | j->desc.pageable_bytes) != 0; }

static void job_free(job *j)
{
    rm_plan_destroy(j->plan);
    rm_plan_destroy(j->like);
    free(j->points);
}

/* Where the answer goes and in which form. */
static printer answer_printer(const request *r)
{
    printer p;
    int taken = is_dash(r->out) || is_dash(r->trace) || is_dash(r->svg) || is_dash(r->export_to);
    p.to = taken ? stderr : stdout;
    p.form = r->json ? FORM_JSON : r->kv ? FORM_KV : r->text || isatty(fileno(p.to)) ? FORM_TEXT : FORM_KV;
    p.begun = 0;
    return p;
}

static int read_config(const char *path, rm_config *c)
{
    text_buffer text;
    char message[512];
    rm_result result;
    int status = read_file(path, &text);
    if (status != GO_ON) return status;
    result = rm_config_read(text.at, text.n, c, message, sizeof message);
    text_free(&text);
    return result == RM_OK ? GO_ON : refuse_with(path, NULL, message, result);
}

/* A plan file (.rmp) of the graph. */
static int read_plan(const char *path, rm_graph *g, rm_plan **out)
{
    text_buffer text;
    rm_result result;
    int status = read_file(path, &text);
    if (status != GO_ON) return status;
    result = rm_plan_read(g, text.at, text.n, out);
    text_free(&text);
    return result == RM_OK ? GO_ON : refuse(path, g, result);
}

/* Has the text of the graph these letters? Names have no blanks and no equals signs. */
static int graph_says(rm_graph *g, const char *letters)
{
    text_buffer text = {NULL, 0, 0};
    int has = rm_graph_write(g, text_sink, &text) == RM_OK && strstr(text.at, letters) != NULL;
    text_free(&text);
    return has;
}

/* Has the graph a link to host memory? */
static int graph_has_link(rm_graph *g) { return graph_says(g, "\nlink "); }

/* Has the device one pool of memory for host and device? */
static int is_unified(const models_device *device) { return device && !(device->link > 0); }

/* Says how fast pageable memory is: --link does, or it is a guess. */
static void link_pageable(const request *r, rm_graph *g, const models_device *device)
{
    uint64_t rate = r->link.rate[4];
    if (!rate && r->given[OPTION_PINNED] && !r->given[OPTION_LINK] && device && !graph_says(g, " pageable_h2d="))
        rate = (uint64_t)(device->link / 3);
    if (rate && graph_has_link(g)) rm_graph_link_pageable(g, rate, rate);
}

/* Does this preset copy to host memory? */
static int preset_copies(const char *name)
{
    static const uint32_t copying = RM_PASS_STREAM | RM_PASS_LINK | RM_PASS_BLOCKS | RM_PASS_OFFLOAD;
    rm_config c;
    return rm_config_preset(name, &c) == RM_OK && (c.passes & copying) != 0;
}

/* Refuses options about host memory where nothing is copied. A model may be given host memory without --host. */
static int check_host(const job *j)
{
    const request *r = j->r;
    int no_host = r->given[OPTION_HOST] && !r->host.bytes && !r->host.share;
    int none = no_host || (!r->given[OPTION_HOST] && !r->model.model);
    if (r->task == CHECK) return GO_ON;
    if ((r->shares || r->model.ranks[0]) && r->given[OPTION_PINNED])
        return usage("--pinned: what plans in shares on ranks have in host memory is all pinned; leave it out", NULL);
    if (r->shares && r->model.model && !r->model.ranks[0])
        return usage("--shares: a --model has no ranks of its own; say how many cards, and what one gets from the others: --ranks 8,360G", NULL);
    if (is_unified(j->device) && r->given[OPTION_HOST] && !no_host)
        return usage("--host: on this --device host and device are one pool of memory: what waited in host memory "
                     "would free nothing. Give all that the plan may use as --budget",
                     NULL);
    if (r->given[OPTION_DISK] && r->given[OPTION_PINNED])
        return usage("--disk is behind --host, which is all pinned then; leave out --pinned", NULL);
    if (is_unified(j->device)) return GO_ON;
    if (r->given[OPTION_DISK] && (none || !r->given[OPTION_HOST])) return usage("--disk is behind --host, and there is none; give --host 16G, say", NULL);
    if (r->given[OPTION_PINNED] && none) return usage("--pinned is a part of --host, and there is none", NULL);
    if (r->given[OPTION_PINNED] && !graph_says(j->g, " pageable_h2d="))
        return usage("--pinned: the graph does not say how fast pageable memory is; give --link 25G,pageable=8G (bytes "
                     "a second) or --device NAME",
                     NULL);
    if (none && !r->like && (r->given[OPTION_MARGIN] || (r->given[OPTION_LINK] && !r->export_to)))
        return usage(r->given[OPTION_MARGIN]
                         ? "--margin is about copies to host memory, and there are none without --host"
                         : "--link is about copies to host memory, and there are none without --host",
                     NULL);
    if (none && r->preset && preset_copies(r->preset))
        fprintf(stderr, "rmplan: --preset %s copies to host memory, and there is none without --host\n", r->preset);
    if (!none && !graph_has_link(j->g))
        return usage(
            "--host: the graph does not say how fast host memory is; give --link 25G (bytes a second) or --device NAME",
            NULL);
    return GO_ON;
}

/* The figures of keeping everything, whatever the budget, in the measure of the plan (arena or live bytes). */
static int keep_all(job *j, rm_plan_info *info)
{
    rm_plan_desc all = j->desc;
    rm_plan *plan = NULL;
    rm_result result;
    memset(info, 0, sizeof *info);
    all.device_bytes = all.host_bytes = all.pageable_bytes = all.disk_bytes = 0;
    all.preset = "noremat";
    all.config = NULL;
    all.keep = all.recompute = all.move = all.stay = NULL;
    all.info = info;
    all.progress = NULL;
    result = rm_plan_create(j->g, &all, &plan);
    rm_plan_destroy(plan);
    return result == RM_OK ? GO_ON : refuse(j->r->graph, j->g, result);
}

/* The planner may use so much host memory, of which --pinned says how much is pinned. */
static void give_host(job *j, uint64_t bytes)
{
    uint64_t pinned = j->r->given[OPTION_PINNED] && j->pinned < bytes ? j->pinned : bytes;
    j->desc.host_bytes = pinned;
    j->desc.pageable_bytes = bytes - pinned;
    j->desc.disk_bytes = bytes ? j->r->disk.bytes : 0;
}

/* Percentages are of what keeping everything takes. */
static int resolve_sizes(job *j)
{
    const request *r = j->r;
    rm_plan_info info;
    int ok = 1, status;
    if (r->budget.is_share || r->host.is_share || r->pinned.is_share) {
        status = keep_all(j, &info);
        if (status != GO_ON) return status;
        if (r->budget.is_share) j->desc.device_bytes = scale(info.keep_all_bytes, r->budget.share, 1000000, &ok);
        if (r->host.is_share) j->desc.host_bytes = scale(info.keep_all_bytes, r->host.share, 1000000, &ok);
        if (r->pinned.is_share) j->pinned = scale(info.keep_all_bytes, r->pinned.share, 1000000, &ok);
    }
    give_host(j, j->desc.host_bytes);
    if (!ok) return usage("a percentage that gives 2^62 bytes or more", NULL);
    if (r->given[OPTION_BUDGET] && !j->desc.device_bytes)
        return usage("a --budget of no bytes; leave it out to plan without a limit", NULL);
    if (r->given[OPTION_MORE] && !j->desc.device_bytes)
        return usage("--more is more than a --budget or the memory of a --device, and there is neither", NULL);
    if (j->desc.device_bytes + r->more.bytes > MOST) return usage("a --budget and --more of 2^62 bytes or more", NULL);
    return GO_ON;
}

/* A word about a budget that the device does not have. */
static void warn_of_budget(const job *j)
{
    short_text asked, has;
    if (!j->device || (double)j->desc.device_bytes <= j->device->bytes) return;
    fprintf(stderr,
            "rmplan: a budget of %s is more than the memory of the device (%s%s: %s); a plan of that size will not fit "
            "there\n",
            human_bytes(&asked, j->desc.device_bytes), j->device->text,
            j->r->given[OPTION_DEVICE] ? "" : ", if no --device is named",
            human_bytes(&has, (uint64_t)j->device->bytes));
}

/* What is asked of the planner. */
static int job_describe(job *j)
{
    const request *r = j->r;
    rm_plan_desc *d = &j->desc;
    uint64_t memory = j->device ? (uint64_t)j->device->bytes : 0;
    int status = r->config ? read_config(r->config, &j->config) : GO_ON;
    if (status == GO_ON && r->like) status = read_plan(r->like, j->g, &j->like);
    if (status != GO_ON) return status;
    d->device_bytes = r->given[OPTION_BUDGET] ? r->budget.bytes : memory > GIB ? memory - GIB : memory;
    d->host_bytes = r->host.bytes;
    d->unified = (uint32_t)is_unified(j->device);
    d->shares = r->shares || r->model.ranks[0];
    j->pinned = r->pinned.bytes;
    d->align = (uint32_t)r->align;
    d->preset = r->preset;
    d->config = r->config ? &j->config : NULL;
    d->keep = r->keep;
    d->recompute = r->recompute;
    d->move = r->move;
    d->stay = r->stay;
    d->live_only = (uint32_t)r->live;
    d->steps = (uint32_t)r->step;
    d->link_margin_percent = (uint32_t)r->margin;
    d->limit_ns = r->milliseconds * 1000000;
    d->like = j->like;
    d->info = &j->info;
    d->progress = on_progress;
    d->progress_user = &j->watch;
    return resolve_sizes(j);
}

/* The name that was meant by a --preset that is none. */
static int check_preset(const request *r)
{
    nearest best = {NULL, NULL, 0};
    const char *name;
    size_t i;
    best.given = r->preset;
    if (r->preset && !strncmp(r->preset, "zero", 4) && r->preset[4] >= '1' && r->preset[4] <= '3' && !r->preset[5])
        return r->shares || r->model.ranks[0]
                   ? GO_ON
                   : usage("--preset zero1, zero2, zero3: policies for shares on ranks; give --ranks or --shares as well", NULL);
    for (i = 0; r->preset && (name = rm_preset_name(i, NULL)) != NULL; i++) {
        if (!strcmp(name, r->preset)) return GO_ON;
        nearest_try(&best, name);
    }
    return r->preset ? complain("no such preset ('rmplan --help' lists them)", r->preset, best.name) : GO_ON;
}

/* The first output of an op of this name into out, of n > 0 bytes; 0: there is no such op. */
static int output_of(rm_graph *g, const char *op, char *out, size_t n)
{
    text_buffer text = {NULL, 0, 0};
    char start[600];
    const char *line = NULL;
    snprintf(start, sizeof start, "\nop %.500s ", op);
    if (rm_graph_write(g, text_sink, &text) == RM_OK) line = strstr(text.at, start);
    line = line ? strstr(line, " out=") : NULL;
    if (line) snprintf(out, n, "%.*s", (int)strcspn(line + 5, ":, \n"), line + 5);
    text_free(&text);
    return line != NULL;
}

/* The tensor that was meant by a --explain of none. */
static int check_tensor(const job *j)
{
    nearest best = {NULL, NULL, 0};
    char made[600];
    rm_tensor t;
    if (!j->r->explain || rm_graph_find(j->g, j->r->explain).id) return GO_ON;
    if (output_of(j->g, j->r->explain, made, sizeof made))
        return complain("--explain takes a tensor, and this is an op", j->r->explain, made);
    best.given = j->r->explain;
    for (t.id = 1; t.id <= rm_graph_tensor_count(j->g); t.id++) nearest_try(&best, rm_tensor_name(j->g, t));
    return complain("--explain: the graph has no such tensor", j->r->explain, best.name);
}

/* All that can be refused before planning. */
static int job_prepare(job *j)
{
    const request *r = j->r;
    int status = check_preset(r);
    if (status == GO_ON) status = check_output(r->out);
    if (status == GO_ON) status = check_output(r->svg);
    if (status == GO_ON) status = check_output(r->trace);
    if (status == GO_ON) status = check_tensor(j);
    if (status == GO_ON) status = check_host(j);
    if (status == GO_ON && r->task != CHECK) status = job_describe(j);
    if (status == GO_ON) warn_of_budget(j);
    return status;
}

static rm_result plan_once(job *j)
{
    size_t room = j->r->points ? (size_t)j->r->points : 16;
    if (j->r->task != CURVE) return rm_plan_create(j->g, &j->desc, &j->plan);
    if (!j->points) j->points = (rm_point *)malloc(room * sizeof *j->points);
    j->n_points = room;
    return j->points ? rm_plan_curve(j->g, &j->desc, j->points, &j->n_points) : RM_ERROR_MEMORY;
}

/* The plan or the curve. A model that does not fit alone is planned with host memory, unless something else was said.
 */
static rm_result plan_all(job *j)
{
    const request *r = j->r;
    short_text need;
    rm_result result;
    int may_take_host = r->model.model && !r->given[OPTION_HOST] && !r->preset && !r->config && !r->live &&
                        !is_unified(j->device) && !j->desc.shares;
    watch_start(&j->watch, r, j->out.form == FORM_TEXT && isatty(fileno(stderr)));
    result = plan_once(j);
    if (result == RM_ERROR_INFEASIBLE && may_take_host) {
        watch_clear_line(&j->watch);
        fprintf(stderr,
                "rmplan: %s: needs %s (%" PRIu64
                " bytes) on the device alone; planning with 128 GiB of host memory, too "
                "(--host says how much, 0 for none)\n",
                r->graph, human_bytes(&need, j->info.min_bytes), j->info.min_bytes);
        give_host(j, MODEL_HOST_BYTES);
        result = plan_once(j);
    }
    j->solve_us = now_us() - j->watch.start_us;
    watch_clear_line(&j->watch);
    signal(SIGINT, SIG_DFL);
    if (result == RM_OK && r->task == PLAN && may_take_host && !has_host(j) &&
        j->info.time_ns / 5 > j->info.keep_all_ns / 4)
        fprintf(stderr,
                "rmplan: %s: %.0f %% slower than with everything kept; host memory may be faster: --host 128G "
                "(0: none, and no such hint)\n",
                r->graph, (double)ppm_over(j->info.time_ns, j->info.keep_all_ns) / 1e4);
    return result;
}

/* --more: the plan with that much more device memory. Its figures; 0 in *fits: it does not fit then, either. */
static rm_result plan_more(job *j, rm_plan_info *info, int *fits)
{
    rm_plan_desc d = j->desc;
    rm_plan *plan = NULL;
    rm_result result;
    memset(info, 0, sizeof *info);
    d.device_bytes += j->r->more.bytes;
    d.info = info;
    watch_start(&j->watch, j->r, j->watch.is_live);
    result = rm_plan_create(j->g, &d, &plan);
    watch_clear_line(&j->watch);
    signal(SIGINT, SIG_DFL);
    rm_plan_destroy(plan);
    *fits = result == RM_OK;
    return result == RM_ERROR_INFEASIBLE || result == RM_ERROR_CANCELLED ? RM_OK : result;
}

/* Says it. has_plan: there is one without more memory, of the job's figures. */
static rm_result say_more(job *j, int has_plan)
{
    const rm_plan_info old = j->info;
    rm_plan_info info;
    short_text more, time, slower, need;
    printer *p = &j->out;
    int fits;
    const uint64_t first_us = j->watch.first_us;
    const int has_first = j->watch.has_first;
    rm_result result = plan_more(j, &info, &fits);
    j->watch.first_us = first_us; /* of the plan that was asked for */
    j->watch.has_first = has_first;
    if (result != RM_OK) return result;
    if (p->form != FORM_TEXT) {
        say_number(p, "more_bytes", j->r->more.bytes);
        say_number(p, fits ? "more_time_ns" : "more_min_bytes", fits ? info.time_ns : info.min_bytes);
        return RM_OK;
    }
    fprintf(p->to, "  %s more: ", human_bytes(&more, j->r->more.bytes));
    if (!fits) fprintf(p->to, "it does not fit then, either; %s would do\n", human_bytes(&need, info.min_bytes));
    else if (!has_plan) fprintf(p->to, "it fits, and a step takes %s\n", human_ns(&time, info.time_ns));
    else if (info.time_ns >= old.time_ns) fprintf(p->to, "no step is faster\n");
    else
        fprintf(p->to, "a step takes %s, %s now\n", human_ns(&time, info.time_ns),
                human_slower(&slower, ppm_over(info.time_ns, old.time_ns)));
    return RM_OK;
}

/* --- the figures of --kv and --json */
static void say_info(job *j, const char *status)
{
    static const char *const lanes[] = {"compute", "h2d", "d2h", "host", "comm", "load", "store"};
    const rm_plan_info *f = &j->info;
    printer *p = &j->out;
    char key[32];
    int ok = !strcmp(status, "ok"), lane;
    say_text(p, "status", status);
    say_number(p, "budget_bytes", f->budget_bytes);
    if (ok) say_number(p, "time_ns", f->time_ns);
    say_number(p, "keep_all_ns", f->keep_all_ns);
    if (ok) say_number(p, "recomputed_ns", f->recomputed_ns);
    say_number(p, "bound_ns", f->bound_ns);
    if (ok) {
        say_ppm(p, "gap", f->time_ns > f->bound_ns ? ppm_over(f->time_ns, f->bound_ns) : 0);
        say_number(p, "arena_bytes", f->arena_bytes);
        say_number(p, "live_bytes", f->live_bytes);
        say_number(p, "host_bytes", f->host_bytes);
        say_number(p, "pageable_bytes", f->pageable_bytes);
        say_number(p, "disk_bytes", f->disk_bytes[0]);
        say_number(p, "h2d_bytes", f->h2d_bytes);
        say_number(p, "d2h_bytes", f->d2h_bytes);
        say_number(p, "load_bytes", f->disk_bytes[1]);
        say_number(p, "store_bytes", f->disk_bytes[2]);
        for (lane = 0; lane < (int)LENGTH(lanes); lane++) {
            snprintf(key, sizeof key, "busy_%s_ns", lanes[lane]);
            say_number(p, key, f->busy_ns[lane]);
        }
    }
    say_number(p, "keep_all_bytes", f->keep_all_bytes);
    if (!ok) say_number(p, "min_bytes", f->min_bytes);
    say_number(p, "min_bound_bytes", f->min_bound_bytes);
    if (j->watch.has_first) say_us(p, "first", j->watch.first_us);
    if (j->r->task != CHECK) say_us(p, "solve", j->solve_us);
    if (p->form != FORM_JSON || !ok) return;
    say_number(p, "runs", f->runs);
    say_number(p, "recomputed_runs", f->recomputed_runs);
    say_number(p, "estimated", f->estimated);
}

/* JSON: the object's begin, with what was planned. */
static void say_begin(printer *p, const char *subject)
{
    say_open(p, NULL, '{');
    if (p->form != FORM_JSON) return;
    say_text(p, "rmplan", RM_VERSION);
    say_text(p, "of", input_name(subject));
}

static void say_end(printer *p)
{
    say_close(p, '}');
    if (p->form == FORM_JSON) putc('\n', p->to);
}

/* --- the answer for people */

/* Live bytes over the time of a step: at each run, from the counter of the trace. */
typedef struct history {
    uint64_t *ns, *bytes;
    size_t n;
} history;

static void history_free(history *h)
{
    free(h->ns);
    free(h->bytes);
}

/* 0: no memory. */
static int history_make(history *h, const rm_plan *plan)
{
    text_buffer trace = {NULL, 0, 0};
    char *at, *line, *time, *bytes;
    size_t lines = 1;
    int ok = rm_plan_trace(plan, 0, text_sink, &trace) == RM_OK;
    memset(h, 0, sizeof *h);
    for (at = trace.at; ok && *at; at++) lines += *at == '\n';
    h->ns = (uint64_t *)calloc(lines, sizeof *h->ns);
    h->bytes = (uint64_t *)calloc(lines, sizeof *h->bytes);
    ok = ok && h->ns && h->bytes;
    for (at = trace.at; ok && (line = next_line(&at)) != NULL;) {
        time = strstr(line, "\"ts\":");
        bytes = strstr(line, "{\"bytes\":");
        if (strncmp(line, "{\"ph\":\"C\"", 9) || !time || !bytes) continue;
        h->ns[h->n] = (uint64_t)(strtod(time + 5, NULL) * 1000 + 0.5);
        h->bytes[h->n++] = (uint64_t)strtoull(bytes + 9, NULL, 10);
    }
    text_free(&trace);
    return ok;
}

static int speaks_utf8(void)
{
    const char *locale = getenv("LC_ALL");
    if (!locale || !*locale) locale = getenv("LC_CTYPE");
    if (!locale || !*locale) locale = getenv("LANG");
    return locale &&
           (strstr(locale, "UTF-8") || strstr(locale, "utf8") || strstr(locale, "UTF8") || strstr(locale, "utf-8"));
}

#define SPARK_COLUMNS 60

/* A line of blocks: the most live bytes in each sixtieth of the step, on a scale from nothing to `top`. */
static void print_sparkline(FILE *to, const history *h, uint64_t step_ns, uint64_t top)
{
    static const char *const blocks[] = {" ",
                                         "\xe2\x96\x81",
                                         "\xe2\x96\x82",
                                         "\xe2\x96\x83",
                                         "\xe2\x96\x84",
                                         "\xe2\x96\x85",
                                         "\xe2\x96\x86",
                                         "\xe2\x96\x87",
                                         "\xe2\x96\x88"};
    static const char *const letters[] = {" ", "_", ".", ":", "-", "=", "+", "*", "#"};
    const char *const *ramp = speaks_utf8() ? blocks : letters;
    uint64_t most[SPARK_COLUMNS], last = h->n ? h->bytes[0] : 0; /* before the first run: as it finds it */
    size_t i, at;
    memset(most, 0, sizeof most);
    for (i = 0; i < h->n; i++) {
        at = step_ns && h->ns[i] < step_ns ? (size_t)((double)h->ns[i] / (double)step_ns * SPARK_COLUMNS)
                                           : SPARK_COLUMNS - 1;
        if (h->bytes[i] > most[at]) most[at] = h->bytes[i];
    }
    for (at = 0; at < SPARK_COLUMNS; at++) {
        if (most[at]) last = most[at];
        fputs(ramp[top ? (size_t)((double)last / (double)top * 7.999) + (last > 0) : 0], to);
    }
}

/* Memory over the step, and its fullest moment. */
static void print_history(job *j, const account *a)
{
    short_text top, live;
    history h;
    size_t i, peak = 0;
    if (history_make(&h, j->plan) && h.n) {
        if (!a->peak) { /* the trace begins with the first run */
            h.ns[h.n] = 0;
            h.bytes[h.n++] = a->peak_bytes;
        }
        for (i = 1; i < h.n; i++)
            if (h.bytes[i] > h.bytes[peak]) peak = i;
        fprintf(j->out.to, "  over the step  ");
        print_sparkline(j->out.to, &h, j->info.time_ns, h.bytes[peak]);
        fprintf(j->out.to, " 0 to %s\n", human_bytes(&top, h.bytes[peak]));
        if (a->peak)
            fprintf(j->out.to, "  fullest        %.0f %% into it, run %" PRIu64 " of %" PRIu64 " (%s %s): %s live%s\n",
                    j->info.time_ns ? 100.0 * (double)h.ns[peak] / (double)j->info.time_ns : 0.0, a->peak_run + 1,
                    a->runs, a->peak->word[1], a->peak->word[2], human_bytes(&live, a->peak_bytes),
                    j->r->peak ? "" : "; --peak lists it");
        else
            fprintf(j->out.to, "  fullest        the step's begin: %s live, of which some goes before the first run%s\n",
                    human_bytes(&live, a->peak_bytes), j->r->peak ? "" : "; --peak lists it");
    }
    history_free(&h);
}

/* Is there a policy by name, in options or in the configuration? */
static int has_policy(const job *j)
{
    const rm_plan_desc *d = &j->desc;
    const rm_config *c = d->config;
    return d->keep || d->recompute || d->move || d->stay ||
           (c && (*c->keep || *c->recompute || *c->move || *c->stay));
}

/* What the policy costs: the plan without it. */
static rm_result say_policy(job *j)
{
    rm_plan_desc d = j->desc;
    rm_plan_info info;
    rm_plan *plan = NULL;
    short_text time, slower, bytes;
    rm_result result;
    memset(&info, 0, sizeof info);
    d.keep = d.recompute = d.move = d.stay = "";
    d.info = &info;
    d.progress = NULL;
    result = rm_plan_create(j->g, &d, &plan);
    rm_plan_destroy(plan);
    if (result != RM_OK) return result == RM_ERROR_INFEASIBLE ? RM_OK : result;
    if (j->out.form != FORM_TEXT) {
        say_number(&j->out, "free_time_ns", info.time_ns);
        say_number(&j->out, "free_arena_bytes", info.arena_bytes);
        return RM_OK;
    }
    fprintf(j->out.to, "  policy         a step is %s without it, where it takes %s and %s of memory\n",
            human_slower(&slower, ppm_over(j->info.time_ns, info.time_ns)), human_ns(&time, info.time_ns),
            human_bytes(&bytes, info.arena_bytes));
    return RM_OK;
}

static void print_bytes_line(FILE *to, const char *label, uint64_t bytes, const char *more)
{
    short_text size;
    fprintf(to, "  %-14s %s", label, human_bytes(&size, bytes));
    if (bytes >= 1024) fprintf(to, " (%" PRIu64 " bytes)", bytes);
    fprintf(to, "%s\n", more);
}

/* How much a step of a model trains on, and of what: tokens or images. */
static uint64_t model_batch(const models_desc *m, const char **what)
{
    *what = find_lm(m->model) ? "tokens" : "images";
    return **what == 't' ? m->tokens ? m->tokens : 8192 : m->images ? m->images : 32;
}

/* What is planned, and where its costs are from if it is a model: "gpt2-124m, 8192 tokens a step, ...". */
static rm_result put_subject(const job *j, text_buffer *text)
{
    const models_desc *m = &j->r->model;
    const char *what, *name = input_name(j->r->graph);
    char line[256];
    uint64_t batch = m->model ? model_batch(m, &what) : 0;
    unsigned long ops = (unsigned long)rm_graph_op_count(j->g);
    int bad = text_sink(text, name, strlen(name));
    if (m->model)
        snprintf(line, sizeof line, ", %" PRIu64 " %s a step, %s, costs by analysis", batch, what,
                 m->slim ? "slim optimizer" : "AdamW");
    else snprintf(line, sizeof line, ", %lu op%s", ops, ops == 1 ? "" : "s");
    bad |= text_sink(text, line, strlen(line));
    if (j->device) {
        snprintf(line, sizeof line, ", on %s%s", j->device->text,
                 j->r->given[OPTION_DEVICE] ? "" : " (no --device given)");
        bad |= text_sink(text, line, strlen(line));
    }
    return bad ? RM_ERROR_MEMORY : RM_OK;
}

static void print_subject(const job *j)
{
    text_buffer text = {NULL, 0, 0};
    if (put_subject(j, &text) == RM_OK) fprintf(j->out.to, "%s\n", text.at);
    text_free(&text);
}

static void print_speed(const job *j)
{
    const char *what;
    uint64_t batch = model_batch(&j->r->model, &what);
    if (j->info.time_ns)
        fprintf(j->out.to, "  speed          %.0f %s a second\n", (double)batch * 1e9 / (double)j->info.time_ns, what);
}

/* Does it fit, and how fast is it? Then the summary. */
static rm_result print_answer(job *j, const account *a)
{
    const rm_plan_info *f = &j->info;
    short_text arena, budget, time, slower, keep;
    text_buffer summary = {NULL, 0, 0};
    FILE *to = j->out.to;
    rm_result result = rm_plan_summary(j->plan, text_sink, &summary);
    if (result == RM_OK) {
        print_subject(j);
        if (f->budget_bytes)
            fprintf(to, "It fits: %s of %s", human_bytes(&arena, f->arena_bytes),
                    human_bytes(&budget, f->budget_bytes));
        else fprintf(to, "It takes %s", human_bytes(&arena, f->arena_bytes));
        fprintf(to, ". A step takes %s", human_ns(&time, f->time_ns));
        if (!f->recomputed_runs && !f->h2d_bytes) fprintf(to, ": everything is kept.\n");
        else
            fprintf(to, ", %s keeping all %s.\n",
                    human_slower(&slower, ppm_over(f->time_ns, f->keep_all_ns)), human_bytes(&keep, f->keep_all_bytes));
        print_bytes_line(to, "device memory", f->arena_bytes, "");
        if (f->host_bytes) print_bytes_line(to, "host memory", f->host_bytes, f->pageable_bytes ? ": pinned" : "");
        if (f->pageable_bytes) print_bytes_line(to, "and pageable", f->pageable_bytes, "");
        if (f->disk_bytes[0]) print_bytes_line(to, "on disk", f->disk_bytes[0], "");
        if (j->r->model.model) print_speed(j);
        if (a->n) print_history(j, a);
        if (f->min_bound_bytes)
            print_bytes_line(to, "at least", f->min_bound_bytes, ": no plan takes less of the device");
        if (j->r->task != CHECK) fprintf(to, "  planned in     %s\n", human_ns(&time, j->solve_us * 1000));
        if (j->r->given[OPTION_MORE]) result = say_more(j, 1);
        if (result == RM_OK && has_policy(j)) result = say_policy(j);
        fprintf(to, "\n");
        print_in_options(to, summary.at);
    }
    text_free(&summary);
    return result;
}

/* It does not fit. */
static void print_no_answer(job *j, rm_result result)
{
    const rm_plan_info *f = &j->info;
    short_text budget;
    FILE *to = j->out.to;
    print_subject(j);
    if (result == RM_ERROR_CANCELLED)
        fprintf(to, "No plan yet: the time was up before anything fitted. More --seconds, or a larger --budget.\n");
    else fprintf(to, "It does not fit in %s.\n", human_bytes(&budget, j->desc.device_bytes));
    if (f->min_bytes) print_bytes_line(to, "would do", f->min_bytes, ": the smallest plan of the preset");
    print_bytes_line(to, "at least", f->min_bound_bytes, ": no plan takes less of the device");
    print_bytes_line(to, "keeping all", f->keep_all_bytes, "");
    if (is_unified(j->device))
        fprintf(to, "  host memory    is the device's: nothing could wait there\n");
    else if (!has_host(j) && graph_has_link(j->g))
        fprintf(to, "  host memory    none; what waits could wait there: --host 64G\n");
    if (j->r->given[OPTION_MORE]) say_more(j, 0);
}

/* --- --peak and --tensors */
static int by_bytes_at_peak(const void *one, const void *other)
{
    const buffer *a = (const buffer *)one, *b = (const buffer *)other;
    if (a->at_peak != b->at_peak) return a->at_peak < b->at_peak ? 1 : -1;
    return strcmp(a->name, b->name);
}

static int by_bytes(const void *one, const void *other)
{
    const buffer *a = (const buffer *)one, *b = (const buffer *)other;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
    return strcmp(a->name, b->name);
}

#define ROWS_FOR_PEOPLE 30

/* The rows that people do not see. */
static void print_rest(const job *j, uint64_t count, uint64_t bytes)
{
    short_text size;
    if (count)
        fprintf(j->out.to, "and %" PRIu64 " more with %s (all of them: --kv, --json)\n", count,
                human_bytes(&size, bytes));
}

/* Why is it there in the fullest run: that uses it; it is what the step begins with; it waits for a later run. */
static const char *peak_use(const account *a, const buffer *b)
{
    const char *kind = buffer_kind(a, b->name);
    if (b->is_used) return "used";
    return !strcmp(kind, "activation") || !strcmp(kind, "saved") || !strcmp(kind, "gradient") ? "kept" : "lasting";
}

/* A row of numbers behind a name and a kind. */
static void buffer_row(job *j, const account *a, const column *columns, size_t n, const buffer *b,
                       const uint64_t *numbers)
{
    cell cells[8];
    size_t i;
    memset(cells, 0, sizeof cells);
    cells[0].text = b->name;
    cells[1].text = buffer_kind(a, b->name);
    for (i = 2; i < n; i++)
        if (columns[i].unit == UNIT_TEXT) cells[i].text = peak_use(a, b);
        else cells[i].number = (int64_t)numbers[i - 2];
    table_row(&j->out, columns, cells, n);
}

/* What waits and can be made again, by the time that its own op takes for a byte: what goes first. */
typedef struct candidate {
    const buffer *b;
    uint64_t ns;
} candidate;

static int by_price(const void *one, const void *other)
{
    const candidate *a = (const candidate *)one, *b = (const candidate *)other;
    double first = (double)a->ns * (double)b->b->at_peak, second = (double)b->ns * (double)a->b->at_peak;
    if (first < second || first > second) return first < second ? -1 : 1;
    return strcmp(a->b->name, b->b->name);
}

/* What would have to go for a budget that is a sixteenth smaller, or as small as it gets. */
static void print_candidates(const job *j, const account *a)
{
    const uint64_t least = j->info.min_bound_bytes < a->peak_bytes ? j->info.min_bound_bytes : a->peak_bytes;
    const uint64_t wanted = a->peak_bytes / 16 < a->peak_bytes - least ? a->peak_bytes / 16 : a->peak_bytes - least;
    candidate *list = (candidate *)malloc((a->n_buffers + 1) * sizeof *list);
    uint64_t used = 0, kept = 0, bytes = 0, ns = 0, taken, shown = 0;
    short_text size, time, other;
    size_t i, n = 0;
    if (!list) return;
    for (i = 0; i < a->n_buffers && a->buffers[i].at_peak; i++) {
        const buffer *b = &a->buffers[i];
        const uint64_t *again = names_find(&a->again, b->name);
        if (b->is_used) used += b->at_peak;
        if (strcmp(peak_use(a, b), "kept")) continue;
        kept += b->at_peak;
        if (!again) continue;
        list[n].b = b;
        list[n++].ns = *again;
    }
    if (a->peak)
        fprintf(j->out.to, "This run itself uses %s; %s is kept for later runs.\n", human_bytes(&size, used),
                human_bytes(&other, kept));
    else
        fprintf(j->out.to, "A step begins with all of that: what lasts between steps, and its inputs, of which some go "
                           "before the first run.\n");
    if (wanted < a->peak_bytes / 1000) {
        fprintf(j->out.to, "No plan of this graph takes less than %s.\n", human_bytes(&size, least));
        n = 0;
    }
    qsort(list, n, sizeof *list, by_price);
    for (taken = 0; taken < n && bytes < wanted; taken++) {
        bytes += list[taken].b->at_peak;
        ns += list[taken].ns;
    }
    if (taken)
        fprintf(j->out.to, "For %s less some of that would have to go; cheapest to make again:\n ",
                human_bytes(&size, wanted));
    for (; shown < taken && shown < 4; shown++)
        fprintf(j->out.to, "%s %s (%s, %s)", shown ? "," : "", list[shown].b->name,
                human_bytes(&size, list[shown].b->at_peak), human_ns(&time, list[shown].ns));
    if (taken > shown) fprintf(j->out.to, ", and %" PRIu64 " more", taken - shown);
    if (taken)
        fprintf(j->out.to, ".\nThat is %s and takes %s at least. Why one of them is kept: --explain '%s'\n",
                human_bytes(&size, bytes), human_ns(&time, ns), list[0].b->name);
    free(list);
}

/* A line of the bytes by kind. */
static void print_kinds_at_peak(const job *j)
{
    short_text size;
    rm_plan_info info;
    size_t k, shown = 0;
    if (rm_plan_get_info(j->plan, 0, &info) != RM_OK) return;
    for (k = 0; k < RM_BYTE_KINDS; k++)
        if (info.peak_bytes[k])
            fprintf(j->out.to, "%s%s %s", shown++ ? ", " : "", kind_words[k], human_bytes(&size, info.peak_bytes[k]));
    fprintf(j->out.to, "\n");
}

/* How many that follow in the list are of the same kind and size, and there for the same reason. */
static uint64_t alike_at_peak(const account *a, size_t i)
{
    const buffer *b = &a->buffers[i];
    uint64_t n = 0;
    for (i++; i < a->n_buffers && a->buffers[i].at_peak == b->at_peak; i++, n++)
        if (buffer_kind(a, a->buffers[i].name) != buffer_kind(a, b->name) || peak_use(a, &a->buffers[i]) != peak_use(a, b))
            break;
    return n;
}

/* A row for them together. */
static void print_alike(const job *j, uint64_t n, uint64_t bytes, uint64_t all)
{
    short_text size;
    fprintf(j->out.to, "  and %" PRIu64 " more of this size%*s %10s %6.2f %%\n", n, n > 99 ? 18 : n > 9 ? 19 : 20, "",
            human_bytes(&size, bytes), 100.0 * (double)bytes / (double)all);
}

/* What lies in memory in the fullest run. */
static void say_peak(job *j, account *a)
{
    static const column columns[] = {
        {"buffer", "buffer", UNIT_TEXT, -32, -32, 0},  {"kind", "what", UNIT_TEXT, -10, -10, 0},
        {"bytes", "size", UNIT_BYTES, 16, 10, 0},      {"share", "share", UNIT_SHARE, 10, 8, 2},
        {"from_run", "from run", UNIT_COUNT, 9, 9, 0}, {"to_run", "to", UNIT_COUNT, 7, 7, 0},
        {"use", "why", UNIT_TEXT, 8, 8, 0}};
    printer *p = &j->out;
    uint64_t numbers[4], rest = 0, rest_bytes = 0, rows = 0, like, number = a->peak ? a->peak_run + 1 : 0;
    char run[600];
    size_t i;
    qsort(a->buffers, a->n_buffers, sizeof *a->buffers, by_bytes_at_peak);
    if (a->peak) snprintf(run, sizeof run, "%.15s %.512s", a->peak->word[1], a->peak->word[2]);
    else snprintf(run, sizeof run, "begin");
    say_open(p, "peak", '{');
    if (p->form == FORM_TEXT && a->peak)
        fprintf(p->to, "\nIn memory at the fullest moment, run %" PRIu64 " of %" PRIu64 " (%s):\n", number, a->runs, run);
    else if (p->form == FORM_TEXT) fprintf(p->to, "\nIn memory at the fullest moment, the step's begin:\n");
    else if (p->form == FORM_KV)
        fprintf(p->to, "\n# peak of run %" PRIu64 " of %" PRIu64 ": %s, %" PRIu64 " bytes\n", number, a->runs, run,
                a->peak_bytes);
    else {
        say_number(p, "run", number);
        say_number(p, "runs", a->runs);
        say_text(p, "what", run);
        say_number(p, "bytes", a->peak_bytes);
        say_open(p, "buffers", '[');
    }
    if (p->form == FORM_TEXT) print_kinds_at_peak(j);
    table_head(p, columns, LENGTH(columns));
    for (i = 0; i < a->n_buffers && a->buffers[i].at_peak; i++) {
        const buffer *b = &a->buffers[i];
        if (p->form == FORM_TEXT && rows >= ROWS_FOR_PEOPLE) {
            rest++;
            rest_bytes += b->at_peak;
            continue;
        }
        numbers[0] = b->at_peak;
        numbers[1] = (uint64_t)(1e6 * (double)b->at_peak / (double)a->peak_bytes + 0.5);
        numbers[2] = b->peak_since + 1;
        numbers[3] = b->peak_until;
        buffer_row(j, a, columns, LENGTH(columns), b, numbers);
        like = p->form == FORM_TEXT ? alike_at_peak(a, i) : 0;
        if (like > 1) {
            print_alike(j, like, like * b->at_peak, a->peak_bytes);
            i += like;
        }
        rows += like > 1 ? 2 : 1;
    }
    print_rest(j, rest, rest_bytes);
    say_close(p, ']');
    say_close(p, '}');
    if (p->form == FORM_TEXT) print_candidates(j, a);
}

/* Activations, and what an op saves: what is made again is recomputed. */
static int is_made_by_op(const account *a, const char *name)
{
    const char *kind = buffer_kind(a, name);
    return !strcmp(kind, "activation") || !strcmp(kind, "saved");
}

/* All buffers of the step. */
static void say_tensors(job *j, account *a)
{
    static const column columns[] = {{"buffer", "buffer", UNIT_TEXT, -32, -32, 0},
                                     {"kind", "what", UNIT_TEXT, -10, -10, 0},
                                     {"bytes", "size", UNIT_BYTES, 16, 10, 0},
                                     {"there", "there", UNIT_SHARE, 10, 9, 2},
                                     {"made_again", "made again", UNIT_COUNT, 10, 10, 0},
                                     {"to_host", "to host", UNIT_COUNT, 8, 8, 0},
                                     {"to_device", "and back", UNIT_COUNT, 9, 9, 0}};
    printer *p = &j->out;
    uint64_t numbers[5], rest = 0, rest_bytes = 0;
    size_t i;
    qsort(a->buffers, a->n_buffers, sizeof *a->buffers, by_bytes);
    say_open(p, "tensors", '[');
    if (p->form == FORM_TEXT)
        fprintf(p->to, "\nAll buffers of the step, and in how much of its %" PRIu64 " runs each is on the device:\n",
                a->runs);
    else if (p->form == FORM_KV) fprintf(p->to, "\n# buffers of %" PRIu64 " runs\n", a->runs);
    table_head(p, columns, LENGTH(columns));
    for (i = 0; i < a->n_buffers; i++) {
        const buffer *b = &a->buffers[i];
        if (p->form == FORM_TEXT && i >= ROWS_FOR_PEOPLE) {
            rest++;
            rest_bytes += b->bytes;
            continue;
        }
        numbers[0] = b->bytes;
        numbers[1] = a->runs ? (uint64_t)(1e6 * (double)b->there / (double)a->runs + 0.5) : 0;
        numbers[2] = is_made_by_op(a, b->name) && b->made > b->to_device + 1 ? b->made - b->to_device - 1 : 0;
        numbers[3] = b->to_host;
        numbers[4] = b->to_device;
        buffer_row(j, a, columns, LENGTH(columns), b, numbers);
    }
    print_rest(j, rest, rest_bytes);
    say_close(p, ']');
}

/* --- one plan */
static int write_form(const job *j, const char *path, rm_result (*form)(const rm_plan *, uint32_t, rm_write_fn, void *))
{
    FILE *f;
    rm_result result;
    int status;
    if (!path) return EXIT_OK;
    f = open_output(path);
    if (!f) return cannot_write(path);
    result = form(j->plan, 0, file_sink, f);
    status = close_output(path, f, result == RM_ERROR_WRITE);
    return status != EXIT_OK || result == RM_OK ? status : refuse(j->r->graph, j->g, result);
}

/* A text within XML. */
static void put_xml(FILE *f, const char *text)
{
    for (; *text; text++)
        if (*text == '<') fputs("&lt;", f);
        else if (*text == '&') fputs("&amp;", f);
        else putc(*text, f);
}

/* What the planner did: a preset, a configuration, or the plan that was there. */
static const char *planned_with(const job *j, const char **word)
{
    const request *r = j->r;
    *word = r->plan ? "plan" : r->config ? "configuration" : "preset";
    if (r->plan || r->config) return input_name(r->plan ? r->plan : r->config);
    return r->preset ? r->preset : has_host(j) || j->desc.shares ? "offmate" : rm_preset_name(0, NULL);
}

/* What is planned and how, before a title of a picture. */
static rm_result put_picture_title(const job *j, FILE *f)
{
    const char *word, *name = planned_with(j, &word);
    text_buffer subject = {NULL, 0, 0};
    rm_result result = put_subject(j, &subject);
    if (result == RM_OK) {
        const char *path = input_name(j->r->graph), *slash = strrchr(path, '/'); /* paths are too long for a title */
        put_xml(f, subject.at + (slash ? slash + 1 - path : 0));
        fprintf(f, ", %s ", word);
        put_xml(f, name);
    }
    text_free(&subject);
    return result;
}

/* The picture of the plan, with what is planned in its title. */
static int write_picture(const job *j)
{
    static const char title[] = ">Step (";
    text_buffer picture = {NULL, 0, 0};
    rm_result result;
    const char *at;
    FILE *f;
    int status = EXIT_OK;
    if (!j->r->svg) return EXIT_OK;
    result = rm_plan_svg(j->plan, 0, text_sink, &picture);
    if (result != RM_OK) status = refuse(j->r->graph, j->g, result);
    else if ((f = open_output(j->r->svg)) == NULL) status = cannot_write(j->r->svg);
    else {
        at = strstr(picture.at, title);
        at = at ? at + 1 : picture.at;
        fwrite(picture.at, 1, (size_t)(at - picture.at), f);
        put_picture_title(j, f);
        fputs(": ", f);
        fputs(at, f);
        status = close_output(j->r->svg, f, ferror(f));
    }
    text_free(&picture);
    return status;
}

/* The plan into the files that were asked for. */
static int write_files(const job *j)
{
    int status = write_form(j, j->r->trace, rm_plan_trace);
    if (status == EXIT_OK) status = write_picture(j);
    return status == EXIT_OK ? write_form(j, j->r->out, rm_plan_write) : status;
}

/* A text of the library as a JSON string. */
static void say_in_options(printer *p, const char *key, const char *text)
{
    text_buffer room = {NULL, 0, 0};
    say_text(p, key, in_options(&room, text));
    text_free(&room);
}

/* --explain. */
static rm_result say_explanation(job *j)
{
    text_buffer text = {NULL, 0, 0};
    rm_result result = rm_plan_explain(j->plan, rm_graph_find(j->g, j->r->explain), text_sink, &text);
    if (result == RM_OK && j->out.form == FORM_JSON) say_in_options(&j->out, "explain", text.at);
    else if (result == RM_OK) {
        putc('\n', j->out.to);
        print_in_options(j->out.to, text.at);
    }
    text_free(&text);
    return result;
}

/* The answer about a plan: the figures, and what was asked for besides. */
static int tell_plan(job *j)
{
    const request *r = j->r;
    rm_result result = RM_OK;
    account a;
    int status = write_files(j), wants_account = r->peak || r->tensors || (j->out.form == FORM_TEXT && !r->live);
    if (status != EXIT_OK) return status;
    memset(&a, 0, sizeof a);
    if (wants_account && !account_make(&a, j->g, j->plan)) result = RM_ERROR_MEMORY;
    if (result == RM_OK && j->out.form == FORM_TEXT) result = print_answer(j, &a);
    else if (result == RM_OK) {
        say_begin(&j->out, r->graph);
        say_info(j, "ok");
        if (j->out.form == FORM_JSON) say_in_options(&j->out, "notes", rm_plan_notes(j->plan));
        if (r->given[OPTION_MORE]) result = say_more(j, 1);
        if (result == RM_OK && has_policy(j)) result = say_policy(j);
    }
    if (result == RM_OK && r->peak) say_peak(j, &a);
    if (result == RM_OK && r->tensors) say_tensors(j, &a);
    if (result == RM_OK && r->explain) result = say_explanation(j);
    if (result == RM_OK && j->out.form == FORM_JSON) say_end(&j->out);
    account_free(&a);
    if (result == RM_ERROR_MEMORY) return no_memory(r->graph);
    return result == RM_OK ? EXIT_OK : refuse(r->graph, j->g, result);
}

/* The answer that there is no plan; the message has the remedies. */
static int tell_no_plan(job *j, rm_result result)
{
    text_buffer room = {NULL, 0, 0}; /* a further plan has another message */
    const char *message = in_options(&room, rm_graph_error(j->g));
    if (j->out.form == FORM_TEXT) print_no_answer(j, result);
    else {
        say_begin(&j->out, j->r->graph);
        say_info(j, result == RM_ERROR_INFEASIBLE ? "infeasible" : "timeout");
        if (j->out.form == FORM_JSON) say_text(&j->out, "message", message);
        if (j->r->given[OPTION_MORE]) say_more(j, 0);
        if (j->out.form == FORM_JSON) say_end(&j->out);
    }
    fprintf(stderr, "rmplan: %s: %s\n", input_name(j->r->graph), message);
    text_free(&room);
    return EXIT_TOO_SMALL;
}

/* --- tables of plans */

/* How much slower than, for a table. */
static cell ppm_cell(uint64_t value, uint64_t base)
{
    cell c = {0, NULL, 0};
    c.number = ppm_over(value, base);
    return c;
}

static cell number_cell(uint64_t number)
{
    cell c = {0, NULL, 0};
    c.number = (int64_t)number;
    return c;
}

static cell missing_cell(void)
{
    cell c = {0, NULL, 1};
    return c;
}

/* --- the picture of --curve: memory from left to right, time from below */
enum { PICTURE_LEFT = 90, PICTURE_TOP = 115, PICTURE_WIDE = 780, PICTURE_TALL = 400 };

#define BASELINES 96 /* at most */
#define BASELINE_BUDGETS 4

typedef struct baseline { /* a plan by a preset that does not search */
    const char *preset;
    uint64_t arena_bytes, time_ns;
} baseline;

typedef struct curve_picture {
    const job *j;
    FILE *f;
    baseline plans[BASELINES];
    size_t n;
    double bytes, low_ns, high_ns;  /* from 0 to bytes, from low_ns to high_ns */
    uint64_t least_bytes, least_ns; /* the plan that takes least of the device */
} curve_picture;

static double picture_x(const curve_picture *c, uint64_t bytes)
{
    return PICTURE_LEFT + PICTURE_WIDE * (double)bytes / c->bytes;
}

static double picture_y(const curve_picture *c, uint64_t ns)
{
    return PICTURE_TOP + PICTURE_TALL * (c->high_ns - (double)ns) / (c->high_ns - c->low_ns);
}

/* A plan by a preset within so many bytes, if there is one that was not there before. */
static void baseline_try(curve_picture *c, const char *preset, uint64_t budget)
{
    rm_plan_desc d = c->j->desc;
    rm_plan_info info;
    rm_plan *plan = NULL;
    size_t i;
    memset(&info, 0, sizeof info);
    d.preset = preset;
    d.config = NULL;
    d.keep = d.recompute = d.move = d.stay = NULL;
    d.device_bytes = budget;
    d.info = &info;
    if (rm_plan_create(c->j->g, &d, &plan) == RM_OK) {
        for (i = 0; i < c->n && (c->plans[i].arena_bytes != info.arena_bytes || c->plans[i].time_ns != info.time_ns ||
                                 strcmp(c->plans[i].preset, preset));)
            i++;
        if (i == c->n && c->n < BASELINES) {
            c->plans[i].preset = preset;
            c->plans[i].arena_bytes = info.arena_bytes;
            c->plans[i].time_ns = info.time_ns;
            c->n++;
        }
    }
    rm_plan_destroy(plan);
}

/* Plans by the presets that do not search, but for the one that keeps everything, within some budgets of the curve. */
static void make_baselines(curve_picture *c)
{
    const job *j = c->j;
    const char *name;
    rm_config config;
    size_t i, k;
    for (i = 0; (name = rm_preset_name(i, NULL)) != NULL; i++) {
        if (rm_config_preset(name, &config) != RM_OK || !config.passes || config.passes & (RM_PASS_SEARCH | RM_PASS_OFFLOAD))
            continue;
        if (!has_host(j) && preset_copies(name)) continue;
        for (k = 0; k < BASELINE_BUDGETS && !interrupted; k++)
            baseline_try(c, name, j->points[(j->n_points - 1) * k / BASELINE_BUDGETS].arena_bytes);
    }
}

#define PICTURE_SLOWEST 5.0 /* times keeping everything: what takes longer is told beside the picture */

/* The scale: the curve and keeping everything; of baselines what is not far slower. */
static void scale_picture(curve_picture *c)
{
    const job *j = c->j;
    const double most = PICTURE_SLOWEST * (double)j->info.keep_all_ns;
    double slowest = (double)j->info.keep_all_ns, fastest = slowest;
    uint64_t bytes = j->info.keep_all_bytes;
    size_t i;
    for (i = 0; i < j->n_points; i++) {
        const rm_point *point = &j->points[i];
        if ((double)point->time_ns > slowest && (double)point->time_ns < most) slowest = (double)point->time_ns;
        if ((double)point->bound_ns < fastest) fastest = (double)point->bound_ns;
        if (point->arena_bytes > bytes) bytes = point->arena_bytes;
    }
    c->high_ns = slowest;
    c->least_bytes = j->points[0].arena_bytes;
    c->least_ns = j->points[0].time_ns;
    for (i = 0; i < c->n; i++) {
        if (c->plans[i].arena_bytes < c->least_bytes && (double)c->plans[i].time_ns < 1.25 * slowest) {
            c->least_bytes = c->plans[i].arena_bytes;
            c->least_ns = c->plans[i].time_ns;
        }
        if ((double)c->plans[i].time_ns > c->high_ns && (double)c->plans[i].time_ns < 1.25 * slowest)
            c->high_ns = (double)c->plans[i].time_ns;
        if ((double)c->plans[i].time_ns < fastest) fastest = (double)c->plans[i].time_ns;
    }
    c->low_ns = fastest - 0.05 * (c->high_ns - fastest) - 1;
    c->high_ns += 0.05 * (c->high_ns - fastest) + 1;
    c->bytes = 1.06 * (double)bytes;
}

static void picture_text(const curve_picture *c, double x, double y, const char *anchor, const char *text)
{
    fprintf(c->f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
    put_xml(c->f, text);
    fputs("</text>\n", c->f);
}

static void picture_line(const curve_picture *c, const char *style, double x, double y, double x2, double y2)
{
    fprintf(c->f, "<path class=\"%s\" d=\"M%.1f %.1fL%.1f %.1f\"/>\n", style, x, y, x2, y2);
}

/* The next round number from a sixth of `most` up: of bytes a power of two, of time 1, 2 or 5 times a power of ten. */
static double round_step(double most, int is_bytes)
{
    double step = 1;
    int i;
    for (i = 0; most / step > 6; i++) step *= is_bytes || i % 3 != 1 ? 2 : 2.5;
    return step;
}

static void picture_axes(const curve_picture *c)
{
    const double below = PICTURE_TOP + PICTURE_TALL;
    double step = round_step(c->bytes, 1), at;
    short_text text;
    for (at = 0; at <= c->bytes; at += step) {
        double x = picture_x(c, (uint64_t)at);
        picture_line(c, "grid", x, PICTURE_TOP, x, below);
        picture_text(c, x, below + 20, "middle", at > 0 ? human_bytes(&text, (uint64_t)at) : "0");
    }
    step = round_step(c->high_ns - c->low_ns, 0);
    for (at = step * (double)(uint64_t)(c->low_ns / step + 1); at <= c->high_ns; at += step) {
        double y = picture_y(c, (uint64_t)at);
        picture_line(c, "grid", PICTURE_LEFT, y, PICTURE_LEFT + PICTURE_WIDE, y);
        picture_text(c, PICTURE_LEFT - 8, y + 4, "end", human_ns(&text, (uint64_t)at));
    }
    picture_text(c, PICTURE_LEFT + PICTURE_WIDE, below + 40, "end", "device memory");
    picture_text(c, PICTURE_LEFT - 8, PICTURE_TOP - 12, "end", "a step takes");
}

/* The fastest of all plans within so many bytes. */
static uint64_t fastest_within(const curve_picture *c, uint64_t bytes)
{
    uint64_t ns = UINT64_MAX;
    size_t i;
    for (i = 0; i < c->j->n_points; i++)
        if (c->j->points[i].arena_bytes <= bytes && c->j->points[i].time_ns < ns) ns = c->j->points[i].time_ns;
    for (i = 0; i < c->n; i++)
        if (c->plans[i].arena_bytes <= bytes && c->plans[i].time_ns < ns) ns = c->plans[i].time_ns;
    return ns;
}

static int by_size(const void *one, const void *other)
{
    const uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
    return (a > b) - (a < b);
}

/* Steps: the fastest plan within so much memory, of all that were made and are on the scale. 0: no memory. */
static int picture_plans(const curve_picture *c)
{
    size_t n = c->j->n_points + c->n, i, shown = 0;
    uint64_t *bytes = (uint64_t *)malloc((n + 1) * sizeof *bytes);
    if (!bytes) return 0;
    for (i = 0; i < n; i++)
        bytes[i] = i < c->n ? c->plans[i].arena_bytes : c->j->points[i - c->n].arena_bytes;
    qsort(bytes, n, sizeof *bytes, by_size);
    for (i = 0; i < n; i++) {
        double x = picture_x(c, bytes[i]), y = picture_y(c, fastest_within(c, bytes[i]));
        if ((double)fastest_within(c, bytes[i]) > c->high_ns) continue;
        if (!shown++) fprintf(c->f, "<path class=\"curve\" d=\"M%.1f %.1f", x, y);
        else fprintf(c->f, "H%.1fV%.1f", x, y);
    }
    fprintf(c->f, "H%.1f\"/>\n", (double)(PICTURE_LEFT + PICTURE_WIDE));
    free(bytes);
    return 1;
}

/* Steps: the bound. Between two points it is that of the right one. */
static void picture_bound(const curve_picture *c)
{
    const job *j = c->j;
    size_t i, shown = 0;
    for (i = 0; i < j->n_points; i++) {
        double x = picture_x(c, j->points[i].arena_bytes), y = picture_y(c, j->points[i].bound_ns);
        if ((double)j->points[i].bound_ns > c->high_ns) continue;
        if (!shown++) fprintf(c->f, "<path class=\"bound\" d=\"M%.1f %.1f", x, y);
        else fprintf(c->f, "V%.1fH%.1f", y, x);
    }
    fputs("\"/>\n", c->f);
}

/* A dot with a title for the mouse. */
static void picture_dot(const curve_picture *c, const char *style, const char *name, uint64_t bytes, uint64_t ns)
{
    short_text size, time;
    fprintf(c->f, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"><title>%s: %s, %s</title></circle>\n", style,
            picture_x(c, bytes), picture_y(c, ns), name, human_bytes(&size, bytes), human_ns(&time, ns));
}

/* The presets, each with its name beside the first of its dots; names go up until none lies over another. */
static void picture_presets(const curve_picture *c)
{
    double at_x[BASELINES + 1], at_y[BASELINES + 1];
    size_t i, k, placed = 1;
    at_x[0] = picture_x(c, c->least_bytes); /* that of the least memory */
    at_y[0] = picture_y(c, c->least_ns) - 10;
    for (i = 0; i < c->n; i++) {
        const baseline *b = &c->plans[i];
        double x = picture_x(c, b->arena_bytes) + 7, y = picture_y(c, b->time_ns) - 5;
        if ((double)b->time_ns > c->high_ns) continue;
        picture_dot(c, "preset", b->preset, b->arena_bytes, b->time_ns);
        for (k = 0; k < i && (strcmp(c->plans[k].preset, b->preset) || (double)c->plans[k].time_ns > c->high_ns);) k++;
        if (k < i) continue;
        for (k = 0; k < placed; k++)
            if (at_x[k] - x < 120 && x - at_x[k] < 120 && at_y[k] - y < 12 && y - at_y[k] < 12) {
                y = at_y[k] - 13;
                k = SIZE_MAX; /* look again at all */
            }
        at_x[placed] = x;
        at_y[placed++] = y;
        picture_text(c, x, y, "start", b->preset);
    }
}

/* What is too slow for the scale: the plan of the least memory, presets. */
static void picture_rest(const curve_picture *c)
{
    const double y = PICTURE_TOP + PICTURE_TALL + 60;
    char line[160], *at = line;
    short_text least, least_time;
    size_t i;
    *line = 0;
    if ((double)c->least_ns > c->high_ns)
        at += snprintf(at, 70, "too slow for this scale: the least memory, %s in %s", human_ns(&least_time, c->least_ns),
                       human_bytes(&least, c->least_bytes));
    for (i = 0; i < c->n && at - line < 100; i++) {
        short_text size, time;
        if ((double)c->plans[i].time_ns <= c->high_ns) continue;
        at += snprintf(at, 60, "%s%.16s %s in %s", at == line ? "too slow for this scale: " : ", ", c->plans[i].preset,
                       human_ns(&time, c->plans[i].time_ns), human_bytes(&size, c->plans[i].arena_bytes));
    }
    if (*line) picture_text(c, PICTURE_LEFT, y, "start", line);
}

static const char picture_style[] =
    "<style>svg{background:#fff}text{fill:#222;stroke:#fff;stroke-width:3;paint-order:stroke}.grid{stroke:#ddd}.curve{stroke:#509ee9;stroke-width:2.5;fill:none}"
    ".bound{stroke:#4f5659;stroke-dasharray:6 4;stroke-width:1.5;fill:none}.plan{fill:#509ee9}.preset{fill:#e0440c}"
    ".all{fill:#16a56f}.mark{stroke:#8b4f9e;stroke-width:1.5;stroke-dasharray:2 3}\n"
    "@media(prefers-color-scheme:dark){svg{background:#14161a}text{fill:#ddd;stroke:#14161a}.grid{stroke:#333}.bound{stroke:#c1c1cd}"
    ".mark{stroke:#c8a2d6}}</style>\n";

/* What the lines and dots are. */
static void picture_legend(const curve_picture *c)
{
    static const struct {
        const char *style, *words;
        int is_line, wide;
    } rows[] = {{"curve", "the fastest plan found within so much memory", 1, 336},
                {"bound", "no plan is faster", 1, 164},
                {"preset", "presets that do not search", 0, 0}};
    double x = PICTURE_LEFT;
    size_t i;
    for (i = 0; i < LENGTH(rows); i++) {
        if (rows[i].is_line) picture_line(c, rows[i].style, x, 68, x + 20, 68);
        else fprintf(c->f, "<circle class=\"%s\" cx=\"%.1f\" cy=\"68\" r=\"4\"/>\n", rows[i].style, x + 10);
        picture_text(c, x + 26, 72, "start", rows[i].words);
        x += rows[i].wide;
    }
}

/* The picture of the curve, of plans that were made: those of the table, and presets as they come. */
static int write_curve(job *j)
{
    const double below = PICTURE_TOP + PICTURE_TALL;
    curve_picture c;
    short_text bytes;
    char line[96];
    double x;
    size_t i;
    int bad;
    if (!j->r->svg) return EXIT_OK;
    memset(&c, 0, sizeof c);
    c.j = j;
    make_baselines(&c);
    scale_picture(&c);
    c.f = open_output(j->r->svg);
    if (!c.f) return cannot_write(j->r->svg);
    fprintf(c.f, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" "
            "font-size=\"12\">\n%s<text x=\"%d\" y=\"26\" font-size=\"15\" font-weight=\"bold\">What memory buys</text>\n"
            "<text x=\"%d\" y=\"46\">", PICTURE_LEFT + PICTURE_WIDE + 90, PICTURE_TOP + PICTURE_TALL + 75, picture_style,
            PICTURE_LEFT, PICTURE_LEFT);
    put_picture_title(j, c.f);
    fputs("</text>\n", c.f);
    picture_legend(&c);
    picture_axes(&c);
    x = picture_x(&c, j->info.min_bound_bytes);
    picture_line(&c, "mark", x, PICTURE_TOP, x, below);
    snprintf(line, sizeof line, "no plan takes less than %s", human_bytes(&bytes, j->info.min_bound_bytes));
    fprintf(c.f, "<text x=\"%.1f\" y=\"%.1f\" transform=\"rotate(-90 %.1f %.1f)\">%s</text>\n", x - 6, below - 8, x - 6,
            below - 8, line);
    picture_bound(&c);
    bad = !picture_plans(&c);
    picture_presets(&c);
    for (i = 0; i < j->n_points; i++)
        if ((double)j->points[i].time_ns <= c.high_ns)
            picture_dot(&c, "plan", "plan", j->points[i].arena_bytes, j->points[i].time_ns);
    snprintf(line, sizeof line, "least memory: %s", human_bytes(&bytes, c.least_bytes));
    x = picture_x(&c, c.least_bytes);
    if ((double)c.least_ns <= c.high_ns)
        picture_text(&c, x, picture_y(&c, c.least_ns) - 10, x > PICTURE_LEFT + PICTURE_WIDE - 60 ? "end" : "start", line);
    picture_dot(&c, "all", "keeping everything", j->info.keep_all_bytes, j->info.keep_all_ns);
    snprintf(line, sizeof line, "everything kept: %s", human_bytes(&bytes, j->info.keep_all_bytes));
    picture_text(&c, picture_x(&c, j->info.keep_all_bytes) + 70, picture_y(&c, j->info.keep_all_ns) + 20, "end", line);
    picture_rest(&c);
    fputs("</svg>\n", c.f);
    bad = close_output(j->r->svg, c.f, ferror(c.f)) != EXIT_OK ? EXIT_USAGE : bad ? no_memory(j->r->graph) : EXIT_OK;
    return bad;
}

/* The table of --curve. */
static int tell_curve(job *j)
{
    static const column columns[] = {
        {"arena_bytes", "device", UNIT_BYTES, 16, 10, 0},      {"keep_all", "of keeping all", UNIT_SHARE, 12, 15, 2},
        {"host_bytes", "host", UNIT_BYTES, 14, 10, 0},         {"time_ns", "a step takes", UNIT_NS, 16, 13, 0},
        {"overhead", "over keeping all", UNIT_PPM, 12, 17, 2}, {"bound_ns", NULL, UNIT_NS, 16, 0, 0},
        {"gap", "gap at most", UNIT_SHARE, 10, 12, 4}};
    printer *p = &j->out;
    short_text time;
    cell row[7];
    size_t i;
    int status = write_curve(j);
    if (status != EXIT_OK) return status;
    if (p->form == FORM_TEXT) print_subject(j);
    else if (p->form == FORM_KV)
        fprintf(p->to,
                "# keep_all_bytes=%" PRIu64 "\n# keep_all_ns=%" PRIu64 "\n# solve_ms=%" PRIu64 ".%03" PRIu64 "\n",
                j->info.keep_all_bytes, j->info.keep_all_ns, j->solve_us / 1000, j->solve_us % 1000);
    else {
        say_begin(p, j->r->graph);
        say_text(p, "status", "ok");
        say_number(p, "keep_all_bytes", j->info.keep_all_bytes);
        say_number(p, "keep_all_ns", j->info.keep_all_ns);
        say_us(p, "solve", j->solve_us);
        say_open(p, "curve", '[');
    }
    table_head(p, columns, LENGTH(columns));
    for (i = 0; i < j->n_points; i++) {
        const rm_point *point = &j->points[i];
        row[0] = number_cell(point->arena_bytes);
        row[1] = number_cell((uint64_t)(j->info.keep_all_bytes
                                            ? 1e6 * (double)point->arena_bytes / (double)j->info.keep_all_bytes + 0.5
                                            : 0));
        row[2] = number_cell(point->host_bytes);
        row[2].is_missing = p->form == FORM_TEXT && !point->host_bytes;
        row[3] = number_cell(point->time_ns);
        row[4] = ppm_cell(point->time_ns, j->info.keep_all_ns);
        row[5] = number_cell(point->bound_ns);
        row[6] = ppm_cell(point->time_ns, point->bound_ns);
        table_row(p, columns, row, 7);
    }
    say_close(p, ']');
    if (p->form == FORM_JSON) say_end(p);
    if (p->form == FORM_TEXT)
        fprintf(p->to, "planned in %s; sizes in bytes: --kv\n", human_ns(&time, j->solve_us * 1000));
    return EXIT_OK;
}

/* The row of one preset. What does not fit has no time, and instead of an arena the least memory that the preset needs.
 */
static int compare_one(job *j, const column *columns, const char *name)
{
    const rm_plan_info *f = &j->info;
    cell row[9];
    rm_result result;
    int i, ok;
    memset(&j->info, 0, sizeof j->info);
    watch_start(&j->watch, j->r, j->out.form == FORM_TEXT && isatty(fileno(stderr)));
    j->desc.preset = name;
    result = rm_plan_create(j->g, &j->desc, &j->plan);
    j->solve_us = now_us() - j->watch.start_us;
    watch_clear_line(&j->watch);
    rm_plan_destroy(j->plan);
    j->plan = NULL;
    if (result != RM_OK && result != RM_ERROR_INFEASIBLE && result != RM_ERROR_CANCELLED)
        return refuse(j->r->graph, j->g, result);
    ok = result == RM_OK;
    for (i = 0; i < 9; i++) row[i] = missing_cell();
    row[0].text = name;
    row[8].text = ok ? "ok" : result == RM_ERROR_CANCELLED ? "timeout" : "infeasible";
    row[0].is_missing = row[8].is_missing = 0;
    row[1] = number_cell(f->time_ns);
    row[1].text = result == RM_ERROR_INFEASIBLE && j->out.form == FORM_TEXT ? "does not fit" : row[8].text;
    row[1].is_missing = !ok;
    if (ok) row[2] = ppm_cell(f->time_ns, f->keep_all_ns);
    if (ok) row[3] = number_cell(f->arena_bytes);
    row[4] = number_cell(f->bound_ns);
    if (ok) row[5] = ppm_cell(f->time_ns, f->bound_ns);
    row[6] = number_cell(j->solve_us);
    if (!ok && f->min_bytes) row[7] = number_cell(f->min_bytes);
    table_row(&j->out, columns, row, 9);
    return GO_ON;
}

/* One table of all presets. */
static int compare(job *j)
{
    static const column columns[] = {{"preset", "preset", UNIT_TEXT, -12, -12, 0},
                                     {"time_ns", "a step takes", UNIT_NS, 16, 13, 0},
                                     {"overhead", "over keeping all", UNIT_PPM, 12, 17, 2},
                                     {"arena_bytes", "device", UNIT_BYTES, 14, 10, 0},
                                     {"bound_ns", NULL, UNIT_NS, 14, 0, 0},
                                     {"gap", "gap at most", UNIT_SHARE, 10, 12, 4},
                                     {"solve", "planned in", UNIT_US, 11, 11, 0},
                                     {"min_bytes", "or would need", UNIT_BYTES, 14, 14, 0},
                                     {"status", NULL, UNIT_TEXT, 0, 0, 0}};
    printer *p = &j->out;
    const char *name;
    size_t i;
    int left_out = 0, status = GO_ON;
    short_text budget;
    if (p->form == FORM_TEXT) {
        print_subject(j);
        if (j->desc.device_bytes)
            fprintf(p->to, "within %s (%" PRIu64 " bytes)\n", human_bytes(&budget, j->desc.device_bytes),
                    j->desc.device_bytes);
    } else if (p->form == FORM_KV) fprintf(p->to, "# budget_bytes=%" PRIu64 "\n", j->desc.device_bytes);
    say_begin(p, j->r->graph);
    if (p->form == FORM_JSON) say_text(p, "status", "ok");
    if (p->form == FORM_JSON) say_number(p, "budget_bytes", j->desc.device_bytes);
    say_open(p, "compare", '[');
    table_head(p, columns, LENGTH(columns));
    for (i = 0; (name = rm_preset_name(i, NULL)) != NULL && status == GO_ON && !interrupted; i++) {
        if (!has_host(j) && preset_copies(name)) left_out = 1;
        else status = compare_one(j, columns, name);
    }
    signal(SIGINT, SIG_DFL);
    say_close(p, ']');
    if (p->form == FORM_JSON) say_end(p);
    if (left_out && p->form != FORM_JSON)
        fprintf(p->to, "# without host memory (--host) the presets that copy are left out\n");
    return status == GO_ON ? EXIT_OK : status;
}

/* --plan: a plan that exists, as if it had just been made. */
static int check_plan(job *j)
{
    rm_plan_info all;
    int status = read_plan(j->r->plan, j->g, &j->plan);
    if (status != GO_ON) return status;
    if (rm_plan_get_info(j->plan, 0, &j->info) != RM_OK) return EXIT_OTHER;
    if (!j->info.keep_all_ns && keep_all(j, &all) == GO_ON) { /* a plan from text does not know */
        j->info.keep_all_ns = all.keep_all_ns;
        j->info.keep_all_bytes = all.keep_all_bytes;
    }
    return tell_plan(j);
}

/* All that is done with a graph. device: NULL for none. */
static int plan_graph(const request *r, rm_graph *g, const models_device *device)
{
    job j;
    rm_result result;
    int status;
    memset(&j, 0, sizeof j);
    j.r = r;
    j.g = g;
    j.device = device;
    j.out = answer_printer(r);
    status = job_prepare(&j);
    if (status == GO_ON && r->task == COMPARE) status = compare(&j);
    else if (status == GO_ON && r->task == CHECK) {
        status = check_plan(&j);
    } else if (status == GO_ON) {
        result = plan_all(&j);
        j.info.budget_bytes = j.desc.device_bytes;
        if (result == RM_ERROR_INFEASIBLE || result == RM_ERROR_CANCELLED) status = tell_no_plan(&j, result);
        else if (result != RM_OK) status = refuse(r->graph, g, result);
        else status = r->task == CURVE ? tell_curve(&j) : tell_plan(&j);
    }
    job_free(&j);
    return status;
}

/* --- where the graph comes from */
static int print_lists(void)
{
    size_t i;
    printf("language models:");
    for (i = 0; i < LENGTH(models_lms); i++) printf(" %s", models_lms[i].name);
    printf("\nconvolutional networks:");
    for (i = 0; i < LENGTH(models_nets); i++) printf(" %s", models_nets[i]);
    printf("\ndevices:\n");
    for (i = 0; i < LENGTH(models_devices); i++) {
        const models_device *d = &models_devices[i];
        printf("  %-12s %s: %.0f TFLOP/s, %.0f GB, %.2f TB/s", d->name, d->text, d->flops / 1e12, d->bytes / 1e9,
               d->bandwidth / 1e12);
        if (is_unified(d)) printf("\n");
        else printf(", link %.1f GB/s\n", d->link / 1e9);
    }
    return EXIT_OK;
}

static int export_graph(const request *r, rm_graph *g)
{
    FILE *f;
    rm_result result;
    int status;
    if (!r->export_to) return EXIT_OK;
    f = open_output(r->export_to);
    if (!f) return cannot_write(r->export_to);
    result = rm_graph_write(g, file_sink, f);
    status = close_output(r->export_to, f, result == RM_ERROR_WRITE);
    return status != EXIT_OK || result == RM_OK ? status : refuse(r->graph, g, result);
}

/* A graph that is whole: written, planned or both. */
static int run_graph(const request *r, rm_graph *g, const models_device *device)
{
    int status = export_graph(r, g);
    return status != EXIT_OK || r->task == EXPORT ? status : plan_graph(r, g, device);
}

/* --- --fit: the largest size of a model that fits */
#define FIT_UNIT 128 /* tokens that a sequence grows by */
#define FIT_WORK 1000 /* rm_plan_desc.work_limit of a size: a tenth of a second or two, and within 1 % of what seconds find */

typedef struct fit {
    const request *r;
    models_desc model;
    uint64_t items; /* tokens or images of a step, for each unit that rm_fit tries */
    uint64_t sizes; /* what a unit is called: sequences, images, FIT_UNIT tokens of one sequence */
    const char *what, *items_are;
    printer out;
} fit;

/* The model at so many units, for rm_fit. */
static rm_graph *fit_build(void *user, uint64_t units)
{
    fit *f = (fit *)user;
    models_desc model = f->model;
    rm_graph *g;
    if (f->r->fit == FIT_SEQUENCE) model.tokens = model.sequence = units * FIT_UNIT;
    else if (find_lm(model.model)) model.tokens = units * model.sequence;
    else model.images = units;
    g = models_build(&model);
    if (g) link_pageable(f->r, g, model.device);
    return g;
}

/* Tokens or images a second; 0: there is no such size. */
static uint64_t fit_speed(const fit *f, const rm_fit_size *t)
{
    return t ? (uint64_t)(t->per_second * (double)f->items) : 0;
}

/* In what people count; 0: there is no such size. */
static uint64_t fit_size(const fit *f, const rm_fit_size *t) { return t ? t->size * f->sizes : 0; }

static void fit_free(rm_fit_info *found)
{
    size_t i;
    for (i = 0; i < found->n; i++) {
        rm_plan_destroy(found->tried[i].plan);
        rm_graph_destroy(found->tried[i].graph);
    }
}

/* The table of what was tried. */
static void fit_table(fit *f, const rm_fit_info *found, const char *preset)
{
    static const column columns[] = {{"size", "size", UNIT_COUNT, 10, 10, 0},
                                     {"batch", "of a step", UNIT_COUNT, 12, 10, 0},
                                     {"time_ns", "a step takes", UNIT_NS, 16, 13, 0},
                                     {"overhead", "over keeping all", UNIT_PPM, 12, 17, 2},
                                     {"arena_bytes", "device", UNIT_BYTES, 16, 10, 0},
                                     {"per_second", "a second", UNIT_COUNT, 12, 10, 0},
                                     {"min_bytes", "or would need", UNIT_BYTES, 16, 14, 0}};
    cell row[7];
    size_t i, k;
    if (f->out.form == FORM_TEXT) fprintf(f->out.to, "sizes in %s, tried with preset %s:\n", f->what, preset);
    table_head(&f->out, columns, LENGTH(columns));
    for (i = 0; i < found->n; i++) {
        const rm_fit_size *t = &found->tried[i];
        for (k = 2; k < 7; k++) row[k] = missing_cell();
        row[0] = number_cell(fit_size(f, t));
        row[1] = number_cell(t->size * f->items);
        row[2].text = f->out.form == FORM_TEXT ? "does not fit" : "infeasible";
        if (t->info.arena_bytes) {
            row[2] = number_cell(t->info.time_ns);
            row[3] = ppm_cell(t->info.time_ns, t->info.keep_all_ns);
            row[4] = number_cell(t->info.arena_bytes);
            row[5] = number_cell(fit_speed(f, t));
        } else if (t->info.min_bytes) row[6] = number_cell(t->info.min_bytes);
        table_row(&f->out, columns, row, 7);
    }
}

/* What fits, for people. */
static void print_fit(const fit *f, const rm_fit_info *found, const rm_plan_desc *desc)
{
    short_text budget;
    fprintf(f->out.to, "%s, %s, costs by analysis, on %s%s\n", f->model.model,
            f->model.slim ? "slim optimizer" : "AdamW", f->model.device->text,
            f->r->given[OPTION_DEVICE] ? "" : " (no --device given)");
    human_bytes(&budget, desc->device_bytes);
    if (!found->largest) {
        fprintf(f->out.to, "Not one fits in %s.%s\n", budget.text,
                f->r->host.bytes || is_unified(f->model.device) ? "" : " With host memory one may: --host 128G.");
        return;
    }
    fprintf(f->out.to, "The largest that fits in %s: %" PRIu64 " %s", budget.text, fit_size(f, found->largest),
            f->what);
    if (f->items != f->sizes) fprintf(f->out.to, ", %" PRIu64 " tokens", found->largest->size * f->items);
    fprintf(f->out.to, ", at %" PRIu64 " %s a second.\n", fit_speed(f, found->largest), f->items_are);
    fprintf(f->out.to, "The fastest of those tried: %" PRIu64 " %s, at %" PRIu64 " %s a second.\n",
            fit_size(f, found->fastest), f->what, fit_speed(f, found->fastest), f->items_are);
}

/* What more memory brings, in a line for people. */
static void print_fit_more(const fit *f, const rm_fit_info *had, const rm_fit_info *found, uint64_t bytes)
{
    short_text size;
    if (!found->n) return; /* stopped before */
    fprintf(f->out.to, "With %s more: ", human_bytes(&size, bytes));
    if (!found->largest) fprintf(f->out.to, "not one fits, either.\n");
    else if (had->largest && found->largest->size == had->largest->size)
        fprintf(f->out.to, "no larger one of those tried fits.\n");
    else {
        fprintf(f->out.to, "%" PRIu64 " %s", fit_size(f, found->largest), f->what);
        if (had->largest)
            fprintf(f->out.to, ", %" PRIu64 " more", fit_size(f, found->largest) - fit_size(f, had->largest));
        fprintf(f->out.to, ", at %" PRIu64 " %s a second; the fastest %" PRIu64 ", at %" PRIu64 ".\n",
                fit_speed(f, found->largest), f->items_are, fit_size(f, found->fastest),
                fit_speed(f, found->fastest));
    }
}

/* The largest that fits, and the fastest; the same with more memory. */
static int tell_fit(fit *f, const rm_fit_info *found, const rm_fit_info *more, const rm_plan_desc *desc,
                    uint64_t more_bytes)
{
    printer *p = &f->out;
    say_begin(p, f->r->graph);
    if (p->form != FORM_TEXT) {
        say_text(p, "status", found->largest ? "ok" : "infeasible");
        say_number(p, "budget_bytes", desc->device_bytes);
        say_number(p, "largest", fit_size(f, found->largest));
        say_number(p, "fastest", fit_size(f, found->fastest));
        say_number(p, "more_bytes", more_bytes);
        say_number(p, "more_largest", fit_size(f, more->largest));
        say_number(p, "more_fastest", fit_size(f, more->fastest));
        say_number(p, "more_fastest_per_second", fit_speed(f, more->fastest));
        if (p->form == FORM_KV) putc('\n', p->to);
    } else {
        print_fit(f, found, desc);
        print_fit_more(f, found, more, more_bytes);
    }
    say_open(p, "fit", '[');
    fit_table(f, found, desc->preset ? desc->preset : f->r->config ? f->r->config
                                                     : desc->host_bytes | desc->pageable_bytes ? "offmate" : "hiremate");
    say_close(p, ']');
    if (p->form == FORM_JSON) say_end(p);
    return found->largest ? EXIT_OK : EXIT_TOO_SMALL;
}

/* Asks rm_fit. The message of a failure that is not one of size. */
static int fit_once(job *j, const rm_fit_desc *d, rm_fit_info *found)
{
    rm_result result;
    watch_start(&j->watch, j->r, j->out.form == FORM_TEXT && isatty(fileno(stderr)));
    result = rm_fit(d, found);
    watch_clear_line(&j->watch);
    if (result == RM_OK || result == RM_ERROR_INFEASIBLE || result == RM_ERROR_CANCELLED) return GO_ON;
    return refuse_with(j->r->graph, j->g, found->message, result);
}

/* g: the model at its usual size, for what can be refused beforehand. */
static int fit_model(const request *r, rm_graph *g, const models_desc *model)
{
    const models_lm *lm = find_lm(model->model);
    static rm_fit_info found, more; /* large, and all zero */
    uint64_t more_bytes = r->given[OPTION_MORE] ? r->more.bytes : GIB;
    rm_fit_desc d;
    fit f;
    job j;
    int status;
    memset(&f, 0, sizeof f);
    memset(&j, 0, sizeof j);
    memset(&d, 0, sizeof d);
    j.r = f.r = r;
    j.g = g;
    j.device = model->device;
    f.model = *model;
    f.out = j.out = answer_printer(r);
    f.what = f.items_are = lm ? "tokens" : "images";
    f.items = f.sizes = r->fit == FIT_SEQUENCE ? FIT_UNIT : 1;
    if (lm && r->fit == FIT_BATCH) {
        f.what = "sequences";
        f.items = f.model.sequence = model->sequence ? model->sequence : lm->positions ? lm->positions : 2048;
    }
    if (r->fit == FIT_SEQUENCE && lm->positions) d.most = lm->positions / FIT_UNIT;
    status = job_prepare(&j);
    d.plan = j.desc;
    if (!r->preset && !r->config && !r->milliseconds) d.plan.work_limit = FIT_WORK;
    d.build = fit_build;
    d.user = &f;
    if (r->given[OPTION_SLOWER] && r->slower < 4000) d.slower_ppm = r->slower ? (uint32_t)r->slower * 10000 : 1;
    if (status == GO_ON) status = fit_once(&j, &d, &found);
    if (status == GO_ON && !interrupted) {
        d.plan.device_bytes += more_bytes;
        d.less = &found;
        status = fit_once(&j, &d, &more);
        d.plan.device_bytes -= more_bytes;
    }
    signal(SIGINT, SIG_DFL);
    if (status == GO_ON) status = tell_fit(&f, &found, &more, &d.plan, more_bytes);
    fit_free(&more);
    fit_free(&found);
    job_free(&j);
    return status;
}

/* --model. */
static int run_model(const request *r)
{
    nearest best = {NULL, NULL, 0};
    models_desc model = r->model;
    rm_graph *g;
    size_t i;
    int status;
    model.device = r->given[OPTION_DEVICE] ? &r->device : &models_devices[0];
    model.link = r->given[OPTION_LINK] ? r->link.rate : NULL;
    g = models_build(&model);
    if (!g) {
        best.given = model.model;
        for (i = 0; i < LENGTH(models_lms); i++) nearest_try(&best, models_lms[i].name);
        for (i = 0; i < LENGTH(models_nets); i++) nearest_try(&best, models_nets[i]);
        return complain("no such model ('rmplan --model list' shows them)", model.model, best.name);
    }
    link_pageable(r, g, model.device);
    if (r->disk.rate[0]) rm_graph_disk(g, r->disk.rate[0], r->disk.rate[1], r->disk.rate[2], 0);
    if (rm_graph_result(g) != RM_OK) status = refuse(r->graph, g, rm_graph_result(g));
    else status = r->fit ? fit_model(r, g, &model) : run_graph(r, g, model.device);
    rm_graph_destroy(g);
    return status;
}

/* A graph file. */
static int run_file(const request *r)
{
    const models_device *device = r->given[OPTION_DEVICE] ? &r->device : NULL;
    text_buffer text;
    rm_graph *g = NULL;
    rm_result result;
    int status = read_file(r->graph, &text);
    if (status != GO_ON) return status;
    result = rm_graph_read(text.at, text.n, NULL, &g);
    text_free(&text);
    if (result == RM_OK && r->given[OPTION_LINK])
        rm_graph_link(g, r->link.rate[0], r->link.rate[1], r->link.rate[2], r->link.rate[3]);
    else if (result == RM_OK && device && !is_unified(device))
        rm_graph_link(g, (uint64_t)device->link, (uint64_t)device->link, 10000, (uint64_t)(device->host / 3));
    if (result == RM_OK) link_pageable(r, g, device);
    if (result == RM_OK && r->disk.rate[0]) rm_graph_disk(g, r->disk.rate[0], r->disk.rate[1], r->disk.rate[2], 0);
    status = result == RM_OK ? run_graph(r, g, device) : refuse(r->graph, g, result);
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

typedef struct place_in_text { /* for messages: line, and where it starts */
    const char *path, *start;
    size_t line;
} place_in_text;

static int table_wrong(const place_in_text *place, const char *at, const char *expected)
{
    size_t n = strcspn(at, ",\r\n");
    fprintf(stderr, "%s:%" PRIu64 ":%" PRIu64 ": found '%.*s', expected %s\n", input_name(place->path),
            (uint64_t)place->line, (uint64_t)(at - place->start + 1), (int)(n > 60 ? 60 : n), at, expected);
    return EXIT_USAGE;
}

/* id,lower,upper,size */
static int table_line(table *t, const place_in_text *place)
{
    const char *at = place->start + strcspn(place->start, ",\r\n"), *end;
    uint64_t value[3], fraction;
    size_t k;
    for (k = 0; k < 3; k++) {
        if (*at != ',') return table_wrong(place, at, "a comma: a row is id,lower,upper,size");
        at++;
        if (!parse_millionths(at, &value[k], &fraction, &end) || fraction || (*end && !strchr(",\r\n", *end)))
            return table_wrong(place, at, "an integer below 2^62");
        if (k == 1 && value[1] <= value[0])
            return table_wrong(place, at, "an upper above the lower: the buffer lives during [lower, upper)");
        at = end;
    }
    if (*at == ',') return table_wrong(place, at + 1, "the end of the row after id,lower,upper,size");
    if (!table_room(t)) return no_memory(input_name(place->path));
    t->id[t->n] = place->start;
    t->items[t->n].start = value[0];
    t->items[t->n].end = value[1];
    t->items[t->n].size = value[2];
    t->n++;
    return GO_ON;
}

static int table_read(table *t, const char *path, const text_buffer *text)
{
    static const char header[] = "id,lower,upper,size";
    place_in_text place;
    size_t length;
    int status;
    place.path = path;
    place.start = text->at;
    place.line = 1;
    if (strlen(text->at) != text->n) return table_wrong(&place, text->at, "text without zero bytes");
    for (; *place.start; place.line++) {
        const char *end;
        length = strcspn(place.start, "\r\n");
        if (place.line == 1 && (length != sizeof header - 1 || memcmp(place.start, header, length)))
            return table_wrong(&place, place.start, "the header id,lower,upper,size");
        status = place.line > 1 && length ? table_line(t, &place) : GO_ON;
        if (status != GO_ON) return status;
        end = place.start + length;
        place.start = end + (*end == '\r' && end[1] == '\n' ? 2 : *end != 0);
    }
    return place.line == 1 ? table_wrong(&place, place.start, "the header id,lower,upper,size") : GO_ON;
}

static int table_write(const table *t, const char *path)
{
    FILE *f = open_output(path);
    size_t i;
    int bad = 0;
    if (!f) return cannot_write(path);
    bad |= fprintf(f, "id,lower,upper,size,offset\n") < 0;
    for (i = 0; i < t->n; i++) {
        const rm_place_item *x = &t->items[i];
        size_t n = strcspn(t->id[i], ",");
        bad |= fwrite(t->id[i], 1, n, f) != n;
        bad |=
            fprintf(f, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n", x->start, x->end, x->size, x->offset) < 0;
    }
    return close_output(path, f, bad);
}

/* The figures of a placement. */
static void tell_place(const request *r, uint64_t height, uint64_t bound, uint64_t us, size_t n)
{
    printer p = answer_printer(r);
    int fits = !r->given[OPTION_CAPACITY] || height <= r->capacity.bytes;
    if (p.form == FORM_TEXT) {
        fprintf(p.to, "%s, %lu buffers: %" PRIu64 " high", input_name(r->place), (unsigned long)n, height);
        fprintf(p.to, height == bound ? ", which is as low as it gets\n" : "; none is lower than %" PRIu64 "\n", bound);
        return;
    }
    say_begin(&p, r->place);
    say_text(&p, "status", fits ? "ok" : "infeasible");
    say_number(&p, "height", height);
    say_number(&p, "bound", bound);
    say_us(&p, "solve", us);
    if (p.form == FORM_JSON) say_end(&p);
}

static int place_table(const request *r, table *t)
{
    uint64_t height, bound, start = now_us(), us;
    rm_result result = rm_place(NULL, t->items, t->n, r->align, r->capacity.bytes, &height, &bound);
    int fits = !r->given[OPTION_CAPACITY] || height <= r->capacity.bytes, status;
    us = now_us() - start;
    if (result != RM_OK) {
        fprintf(stderr, "rmplan: %s: %s\n", input_name(r->place),
                result == RM_ERROR_ARGUMENT ? "the sizes add up to 2^62 or more" : rm_result_text(result));
        return result == RM_ERROR_ARGUMENT ? EXIT_USAGE : EXIT_OTHER;
    }
    status = r->out && fits ? table_write(t, r->out) : EXIT_OK;
    if (status != EXIT_OK) return status;
    tell_place(r, height, bound, us, t->n);
    if (fits) return EXIT_OK;
    fprintf(stderr, "rmplan: %s: a capacity of %" PRIu64 " is %s; the lowest placement found is %" PRIu64 " high\n",
            input_name(r->place), r->capacity.bytes,
            bound > r->capacity.bytes ? "below the largest sum of what is alive together" : "not reached", height);
    return EXIT_TOO_SMALL;
}

static int run_place(const request *r)
{
    text_buffer text;
    table t;
    int status = read_file(r->place, &text);
    if (status != GO_ON) return status;
    memset(&t, 0, sizeof t);
    status = table_read(&t, r->place, &text);
    if (status == GO_ON) status = place_table(r, &t);
    free(t.items);
    free((void *)t.id);
    text_free(&text);
    return status;
}

/* --- --help */
static const char help_begin[] =
    "usage: rmplan GRAPH.rmg [options]\n"
    "       rmplan --model NAME [--device NAME] [options]\n"
    "       rmplan GRAPH.rmg --plan PLAN.rmp [options]\n"
    "       rmplan --place BUFFERS.csv [--capacity SIZE] [--align N] [--out FILE]\n"
    "\n"
    "Plans one training step of a graph: what to keep, what to recompute, what to move, and an address for every\n"
    "buffer.\n";

static const char help_end[] =
    "\n"
    "SIZE is bytes, or a number with K, M, G or T (powers of 1024): 512M, 1.5G. Of a graph also a percentage of the\n"
    "memory that keeping everything takes: 40%. RATE is something a second, with K, M, G, T or P (powers of 1000):\n"
    "25G, 989T. FILE may be - for stdin or stdout; while a file goes to stdout the figures go to stderr.\n"
    "\n"
    "Examples:\n"
    "  rmplan --model llama3-8b --device rtx4090                 does it train on my card?\n"
    "  rmplan --model gpt2-124m --device rtx4090 --fit batch     how large a batch?\n"
    "  rmplan --model gpt2-124m --device rtx4060ti --curve       what does each GiB bring? (--svg FILE: a picture)\n"
    "  rmplan --model gpt2-1.5b --device rtx4090 --more 4G       what would 4 GiB more bring?\n"
    "  rmplan --model gpt2-124m --budget 3G --peak               what fills the memory, and what could go?\n"
    "  rmplan model.rmg --budget 40% --out model.rmp             a plan file of my own graph\n"
    "  rmplan model.rmg --plan model.rmp --svg model.svg         a picture of it\n"
    "  rmplan model.rmg --budget 8G --compare                    what do the usual policies cost?\n"
    "  rmplan model.rmg --budget 8G --host 64G --link 25G        with host memory\n"
    "\n"
    "Figures of --kv and --json: status (ok or infeasible; timeout if --seconds ran out before any plan fitted),\n"
    "times in _ns, sizes in _bytes, gap (the plan's time over the lower bound of any plan's), first (to the first\n"
    "plan that fits), solve. Exit status: 0 a plan, 2 wrong usage or an unreadable file, 3 the budget (capacity)\n"
    "cannot be met, 1 anything else.\n"
    "\n"
    "Presets:\n";

#define HELP_COLUMN 20 /* where the texts of options begin */
#define HELP_WIDTH 112

/* An option with its text, broken into lines. */
static void print_option(const option *opt)
{
    const char *text = opt->help;
    int at = printf("  %s%s%s", opt->name, opt->argument ? " " : "", opt->argument ? opt->argument : "");
    while (*text) {
        int word = (int)strcspn(text, " "), is_first = text == opt->help;
        if (!is_first && at + 1 + word > HELP_WIDTH) {
            printf("\n");
            at = 0;
        }
        at += printf("%*s%.*s", at < HELP_COLUMN ? HELP_COLUMN - at : 1, "", word, text);
        text += word + (text[word] == ' ');
    }
    printf("\n");
}

static int print_help(void)
{
    const char *name, *text;
    size_t i, k;
    fputs(help_begin, stdout);
    for (k = 0; k < QUESTIONS; k++) {
        printf("\n%s\n", questions[k]);
        for (i = 0; i < OPTION_COUNT; i++)
            if (options[i].question == (question)k) print_option(&options[i]);
    }
    fputs(help_end, stdout);
    for (i = 0; (name = rm_preset_name(i, &text)) != NULL; i++)
        printf("  %-15s %s%s\n", name, text, i ? "" : " (default)");
    return EXIT_OK;
}

static int print_version(void)
{
    printf("rmplan %s\n", RM_VERSION);
    return EXIT_OK;
}

int main(int argc, char **argv)
{
    request r;
    int status = parse_command_line(&r, argc, argv);
    if (status == GO_ON)
        status = r.help           ? print_help()
                 : r.version      ? print_version()
                 : r.task == LIST ? print_lists()
                 : r.place        ? run_place(&r)
                 : r.model.model  ? run_model(&r)
                                  : run_file(&r);
    if (fflush(stdout) || ferror(stdout)) {
        fprintf(stderr, "rmplan: the figures could not be printed\n");
        if (status == EXIT_OK) status = EXIT_OTHER;
    }
    return status;
}
