/* test_config.c - presets and configurations: the list, the text there and back, every fault of a text, what the switches do. */
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"

#include <stdio.h>

static unsigned long passed, failed;
#define EXPECT(c)                                                      \
    do {                                                               \
        if (c) passed++;                                               \
        else failed++, printf("%s:%d: %s\n", __FILE__, __LINE__, #c);  \
    } while (0)

typedef struct text {
    char s[2048];
    size_t n;
} text;

static int sink(void *user, const char *s, size_t n)
{
    text *t = (text *)user;
    if (t->n + n >= sizeof t->s) return 1;
    memcpy(t->s + t->n, s, n);
    t->s[t->n += n] = 0;
    return 0;
}

static void there_and_back(const rm_config *c)
{
    rm_config d;
    text t, u;
    char message[200];
    t.n = u.n = 0;
    EXPECT(rm_config_write(c, sink, &t) == RM_OK);
    memset(&d, 0xAA, sizeof d);
    EXPECT(rm_config_read(t.s, t.n, &d, message, sizeof message) == RM_OK && !message[0]);
    EXPECT(!strcmp(c->name, d.name) && !strcmp(c->kinds, d.kinds) && c->passes == d.passes && c->off == d.off && c->segment == d.segment && c->gap_ppm == d.gap_ppm && c->work == d.work);
    EXPECT(rm_config_write(&d, sink, &u) == RM_OK && t.n == u.n && !memcmp(t.s, u.s, t.n));
}

static void list(void)
{
    const char *name, *help;
    rm_config c;
    size_t i, k;
    for (i = 0; (name = rm_preset_name(i, &help)) != NULL; i++) {
        EXPECT(help && *help && !strchr(help, '\n'));
        EXPECT(rm_config_preset(name, &c) == RM_OK && !strcmp(c.name, name));
        for (k = 0; k < i; k++) EXPECT(strcmp(rm_preset_name(k, NULL), name));
        there_and_back(&c);
    }
    EXPECT(i >= 9 && !rm_preset_name(i, &help) && !rm_preset_name((size_t)-1, NULL));
    EXPECT(rm_config_preset(NULL, &c) == RM_OK && !strcmp(c.name, rm_preset_name(0, NULL)));
    EXPECT(rm_config_preset("best", &c) == RM_ERROR_ARGUMENT && rm_config_preset("sqrt", NULL) == RM_ERROR_ARGUMENT);
    memset(&c, 0, sizeof c);
    there_and_back(&c);
    c.off = 31, c.passes = 31, c.segment = c.gap_ppm = UINT32_MAX, c.work = RMI_MAX;
    memset(c.kinds, '*', 255);
    memset(c.name, 'n', 31);
    there_and_back(&c);
    strcpy(c.keep, "h[*]/a.b,*");
    memset(c.move, ',', 255);
    strcpy(c.stay, "wte");
    memset(c.recompute, '*', 255);
    there_and_back(&c);
}

static void fault(const char *lines, const char *expected)
{
    static const char head[] = "rockmate config 1\n";
    char s[1200], message[600], tiny[4];
    rm_config c, old;
    size_t n = sizeof head - 1;
    memset(&c, 7, sizeof c);
    old = c;
    memcpy(s, head, n);
    strcpy(s + n, lines);
    n += strlen(lines);
    EXPECT(rm_config_read(s, n, &c, message, sizeof message) == RM_ERROR_TEXT && !memcmp(&c, &old, sizeof c));
    if (strncmp(message, expected, strlen(expected))) failed++, printf("'%s': %s, not %s\n", lines, message, expected);
    else passed++;
    EXPECT(rm_config_read(s, n, &c, tiny, sizeof tiny) == RM_ERROR_TEXT && strlen(tiny) == 3 && !memcmp(tiny, message, 3));
    EXPECT(rm_config_read(s, n, &c, NULL, 0) == RM_ERROR_TEXT);
}

static void faults(void)
{
    rm_config c;
    text t;
    char message[300];
    t.n = 0;
    fault("speed=9\n", "2:1: found 'speed=9', expected one of preset=");
    fault("\n# a comment\nwork\n", "4:1: found 'work', expected one of preset=");
    fault("work=4k\n", "2:6: found '4k', expected a decimal integer");
    fault("work=\n", "2:6: found nothing, expected a decimal integer");
    fault("segment=4294967296\n", "2:9: found '4294967296', expected a number below 2^32");
    fault("passes=chain,solve\n", "2:14: found 'solve', expected passes=none, or some of");
    fault("off=everything\n", "2:5: found 'everything', expected off=none, or some of");
    fault("preset=best\n", "2:8: found 'best', expected the name of a preset");
    fault("work=1 gap_ppm=2\n", "2:8: found 'gap_ppm=2', expected the end of the statement");
    fault("work=1\nwork=2\n", "3:1: found 'work=2', expected each key once");
    fault("work=1\npreset=sqrt\n", "3:1: found 'preset=sqrt', expected preset= before all other keys");
    fault("kinds=a,b?\n", "2:7: found 'a,b?', expected none, or up to 255");
    fault("kinds=\n", "2:7: found nothing, expected none, or up to 255");
    fault("keep=a b\n", "2:8: found 'b', expected the end of the statement");
    fault("recompute=a;b\n", "2:11: found 'a;b', expected none, or up to 255");
    fault("stay=none\nmove=\n", "3:6: found nothing, expected none, or up to 255");
    fault("move=a\nmove=b\n", "3:1: found 'move=b', expected each key once");
    fault("name=a234567890123456789012345678901234567890\n", "2:6: found ");
    EXPECT(rm_config_read("", 0, &c, message, sizeof message) == RM_ERROR_TEXT && strstr(message, "rockmate config 1"));
    EXPECT(rm_config_read("rockmate config 2\n", 18, &c, message, sizeof message) == RM_ERROR_TEXT && !strncmp(message, "1:17: ", 6));
    EXPECT(rm_config_read(NULL, 3, &c, message, sizeof message) == RM_ERROR_ARGUMENT && message[0]);
    EXPECT(rm_config_read("", 0, NULL, NULL, 0) == RM_ERROR_ARGUMENT);
    rm_config_preset("llmc-1", &c);
    EXPECT(rm_config_write(&c, NULL, NULL) == RM_ERROR_ARGUMENT && rm_config_write(NULL, sink, &t) == RM_ERROR_ARGUMENT);
    c.kinds[0] = '\n';
    EXPECT(rm_config_write(&c, sink, &t) == RM_ERROR_ARGUMENT && !t.n);
    EXPECT(rm_config_read("rockmate config 1\npreset=sqrt # and\nsegment=3\n", 46, &c, message, sizeof message) == RM_OK);
    EXPECT(c.passes == RM_PASS_SEGMENTS && c.segment == 3 && !strcmp(c.name, "sqrt"));
}

/* --- what a configuration does */
static const char model[] =
    "rockmate graph 1\n"
    "tensor x input 100 grad\n"
    "op h[0]/fc in=x out=a:100 needs=x,a fwd=10 bwd=20\n"
    "op h[0]/gelu in=a out=b:100 needs=a,b fwd=5 bwd=6 inplace=a inplace_bwd=a\n"
    "op h[1]/fc in=b out=c:100 needs=b,c fwd=10 bwd=20\n"
    "variant h[1]/fc fast fwd=4 bwd=8\n"
    "op h[1]/gelu2 in=c out=d:100 needs=c,d fwd=5 bwd=6\n"
    "op h[2]/fc in=d out=e:100 needs=d,e fwd=10 bwd=20\n"
    "op h[2]/norm in=e out=f:100 needs=e,f fwd=5 bwd=6\n"
    "op loss in=f out=l:4 needs=f fwd=1 bwd=1\n";

static rm_result plan(const rm_config *c, uint64_t budget, rm_plan **p, rm_plan_info *f)
{
    rm_plan_desc d;
    rm_graph *g;
    rm_result r;
    memset(&d, 0, sizeof d);
    d.config = c;
    d.device_bytes = budget;
    d.align = 1;
    d.info = f;
    if (rm_graph_read(model, sizeof model - 1, NULL, &g) != RM_OK) return RM_ERROR_INTERNAL;
    r = rm_plan_create(g, &d, p);
    if (r == RM_ERROR_ARGUMENT) printf("  (%s)\n", rm_graph_error(g));
    rm_plan_destroy(*p);
    *p = NULL;
    rm_graph_destroy(g);
    return r;
}

static void lists_of_kinds(void)
{
    static const struct { const char *kinds; uint64_t reruns; } t[] = {
        {"", 0}, {"gelu", 1}, {"gelu*", 2}, {"*gelu", 1}, {"h[1]/*", 2}, {"*", 6}, {"norm,gelu", 2}, {"n*r*m", 1}, {"*l*u*", 2}, {"**fc**", 3}, {",,", 0}};
    static const char *const unknown[] = {"*gelu,x", "x,*gelu", "gleu", "*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b"};
    rm_config c;
    rm_plan_info f;
    rm_plan *p = NULL;
    size_t i;
    for (i = 0; i < sizeof t / sizeof t[0]; i++) {
        memset(&c, 0, sizeof c);
        memset(&f, 0, sizeof f);
        c.passes = RM_PASS_KINDS;
        strcpy(c.kinds, t[i].kinds);
        /* just too little for everything once, where it makes a difference at all */
        EXPECT(plan(&c, 0, &p, &f) == RM_OK && f.time_ns == f.keep_all_ns);
        if (plan(&c, f.keep_all_bytes - 1, &p, &f) == RM_OK) EXPECT(f.recomputed_runs == t[i].reruns);
        else EXPECT(f.min_bytes >= f.min_bound_bytes);
    }
    for (i = 0; i < sizeof unknown / sizeof unknown[0]; i++) { /* of the caller's own lists; a preset's are for any graph */
        memset(&c, 0, sizeof c);
        strcpy(c.kinds, unknown[i]);
        EXPECT(plan(&c, 0, &p, &f) == RM_OK); /* the pass does not run */
        c.passes = RM_PASS_KINDS;
        EXPECT(plan(&c, 0, &p, &f) == RM_ERROR_ARGUMENT);
        EXPECT(rm_config_preset("llmc-2", &c) == RM_OK && strcpy(c.name, "mine") && plan(&c, 0, &p, &f) == RM_OK);
    }
}

static void switches(void)
{
    rm_config c;
    rm_plan_info f, all;
    rm_plan *p = NULL;
    uint64_t tight;
    rm_config_preset("search", &c);
    c.work = 200000;
    EXPECT(plan(&c, 0, &p, &all) == RM_OK);
    tight = all.keep_all_bytes * 9 / 10;
    EXPECT(plan(&c, tight, &p, &f) == RM_OK && f.recomputed_runs);
    c.off = RM_NO_RECOMPUTE;
    EXPECT(plan(&c, tight, &p, &f) == RM_ERROR_INFEASIBLE);
    EXPECT(plan(&c, 0, &p, &f) == RM_OK && !f.recomputed_runs);
    c.off = RM_NO_VARIANTS;
    EXPECT(plan(&c, 0, &p, &f) == RM_OK && f.time_ns >= all.time_ns && f.bound_ns >= all.bound_ns);
    c.off = RM_NO_INPLACE | RM_NO_REORDER;
    EXPECT(plan(&c, tight, &p, &f) == RM_OK && f.time_ns >= f.bound_ns);
    c.off = 32;
    EXPECT(plan(&c, 0, &p, &f) == RM_ERROR_ARGUMENT);
    c.off = 0, c.passes = 1u << 20;
    EXPECT(plan(&c, 0, &p, &f) == RM_ERROR_ARGUMENT);
    c.passes = 0, c.kinds[3] = '\t', memset(c.kinds, 'a', 3);
    EXPECT(plan(&c, 0, &p, &f) == RM_ERROR_ARGUMENT);
    memset(c.kinds, 'a', sizeof c.kinds);
    EXPECT(plan(&c, 0, &p, &f) == RM_ERROR_ARGUMENT);
    memset(&c, 0, sizeof c);
    memset(c.name, 'a', sizeof c.name);
    EXPECT(plan(&c, 0, &p, &f) == RM_ERROR_ARGUMENT);
}

/* --- policies */
static const char moving[] =
    "rockmate graph 1\n"
    "link h2d=1000000000 d2h=1000000000\n"
    "tensor x input 100\n"
    "tensor wte param 300 opt=10\n"
    "tensor wv param 400 opt=10 stays\n"
    "tensor wx param 400 opt=10 external\n"
    "tensor wh param 40 opt_host=10\n"
    "op h[0]/fc in=x,wte,wh out=a:100 needs=x,a fwd=10 bwd=20\n"
    "op h[0]/gelu in=a,wv,wx out=b:100 needs=a,b fwd=5 bwd=6\n"
    "op h[1]/fc in=b out=c:100 saved=50 fwd=10 bwd=20\n"
    "op h[1]/drop in=c out=d:100 needs=c,d fwd=5 bwd=6 once\n"
    "op flat in=d out=v:100 view=d\n"
    "op loss in=v out=l:4 needs=v fwd=1 bwd=1\n"
    "output l\n";

/* Plans with these policies, or in the configuration if `file`. Returns the message, "" if there is a plan. */
static const char *asked(rm_plan_desc *d, const char *keep, const char *recompute, const char *move, const char *stay, int file)
{
    static char message[1100];
    rm_config c;
    rm_graph *g;
    rm_plan *p = NULL;
    if (rm_graph_read(moving, sizeof moving - 1, NULL, &g) != RM_OK) return rm_graph_error(g);
    d->align = 1;
    d->work_limit = 20000;
    d->config = NULL;
    d->keep = keep, d->recompute = recompute, d->move = move, d->stay = stay;
    if (file && rm_config_preset(d->preset ? d->preset : "offmate", &c) == RM_OK) {
        if (keep) strcpy(c.keep, keep);
        if (recompute) strcpy(c.recompute, recompute);
        if (move) strcpy(c.move, move);
        if (stay) strcpy(c.stay, stay);
        d->config = &c;
        d->keep = d->recompute = d->move = d->stay = NULL;
    }
    rm_plan_create(g, d, &p);
    snprintf(message, sizeof message, "%s", p ? "" : rm_graph_error(g));
    rm_plan_destroy(p);
    rm_graph_destroy(g);
    d->config = NULL;
    return message;
}

static void policies(void)
{
    static const struct { const char *keep, *recompute, *move, *stay, *preset, *told; int no_host; } t[] = {
        {"h[0]", NULL, NULL, NULL, NULL, "", 0},
        {NULL, "fc,gelu", "wte", "x", NULL, "", 0},
        {NULL, NULL, "h[0]/fc,h[1]", NULL, NULL, "", 0}, /* gradients for the update in host memory want the link, too */
        {",h[0],,", ",", ",", ",", "hiremate", "", 0},
        {NULL, NULL, NULL, "wtf", NULL, "rm_config.stay: 'wtf' names no op, param, input or const;", 0},
        {NULL, NULL, "x", NULL, NULL, "rm_config.move: 'x' names no op or param;", 0},
        {"h[1]/drop", "h[*]", NULL, NULL, NULL, "", 0},
        {"h[0]/fcc", NULL, NULL, NULL, NULL, "rm_config.keep: 'h[0]/fcc' names no op; look up names in the graph's text (rm_graph_write)", 0},
        {"wte", NULL, NULL, NULL, NULL, "rm_config.keep: 'wte' names no op;", 0},
        {NULL, "h[0],flat", NULL, NULL, NULL, "rm_config.recompute: 'flat' names no op;", 0},
        {"h[*]", "fc", NULL, NULL, NULL, "rm_config.recompute: 'fc' names no op but such as keep or move name, too", 0},
        {NULL, "h[1]", NULL, NULL, NULL, "rm_config.recompute: h[1]/drop runs once a step (RM_ONCE); name it in keep, too", 0},
        {NULL, "h[0]", NULL, NULL, "sqrt", "rm_config.recompute: h[0]/fc needs a preset that searches: rockmate, hiremate or offmate", 0},
        {NULL, NULL, "h[0]", NULL, "hiremate", "rm_config.move: h[0]/fc needs a preset that searches what moves: offmate", 0},
        {NULL, NULL, "fc", "h[1]/fc", NULL, "rm_config.move: h[1]/fc is named by stay, too; leave it out of one", 0},
        {NULL, NULL, "wv", NULL, NULL, "rm_config.move: wv stays on the device (RM_STAYS)", 0},
        {NULL, NULL, "wx", NULL, NULL, "rm_config.move: wx is the caller's memory (RM_EXTERNAL)", 0},
        {NULL, NULL, NULL, "wh", NULL, "rm_config.stay: wh is updated in host memory only; leave it out, or give it an update", 0},
        {"none", NULL, NULL, NULL, NULL, "rm_config.keep is 'none', has no end within its 256 bytes, or a letter", 0},
        {"a?", NULL, NULL, NULL, NULL, "rm_config.keep is 'none', has no end within its 256 bytes, or a letter", 0}};
    rm_plan_desc d;
    char long_list[300];
    size_t i;
    int file;
    memset(&d, 0, sizeof d);
    for (i = 0; i < sizeof t / sizeof t[0]; i++)
        for (file = 0; file < 2; file++) {
            const char *told;
            d.host_bytes = 100000;
            d.preset = t[i].preset;
            told = asked(&d, t[i].keep, t[i].recompute, t[i].move, t[i].stay, file);
            if (*t[i].told ? strncmp(told, t[i].told, strlen(t[i].told)) : *told) failed++, printf("%s, not %s\n", told, t[i].told);
            else passed++;
        }
    memset(long_list, 'a', 256);
    long_list[256] = 0;
    EXPECT(strstr(asked(&d, long_list, NULL, NULL, NULL, 0), "has no end within its 256 bytes") != NULL);
    d.preset = NULL;
    d.device_bytes = 1300;
    EXPECT(!*asked(&d, NULL, NULL, NULL, NULL, 0));
    EXPECT(!strncmp(asked(&d, NULL, NULL, NULL, "x,wte,h[*]", 0), "budget of 1300 bytes: too small for step kind 'single'; preset 'offmate' works with ", 84));
    EXPECT(strstr(asked(&d, NULL, NULL, NULL, "x,wte,h[*]", 1), ". Without its policy (keep, move, stay, recompute) a plan takes ") != NULL);
    d.device_bytes = 500;
    EXPECT(strstr(asked(&d, NULL, "fc,gelu", NULL, "h[1]", 0), "Without its policy (keep, move, stay, recompute) ") != NULL);
    d.host_bytes = 10; /* the update in host memory has no room: that is not the policy's fault */
    EXPECT(strstr(asked(&d, "h[0]", NULL, NULL, NULL, 0), "host memory of 10 bytes") && !strstr(asked(&d, "h[0]", NULL, NULL, NULL, 0), "policy"));
}

int main(void)
{
    list();
    policies();
    faults();
    lists_of_kinds();
    switches();
    printf("%lu passed, %lu failed, 0 skipped\n", passed, failed);
    return failed != 0;
}
