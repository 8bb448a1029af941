/* test_figures.c - a plan's figures and its legality, where they can be counted by hand or by the second referee: bytes copied by a
   plan read from text; that plan with each line left out, doubled, or put behind the next; the memory bound of a graph in one's head.

      sh tests/run.sh test_figures */
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"

#include "../common.h"
#include "../data/plan_text.h"
#include "../oracle/replay.h"

static rm_graph *graph_of(const char *text)
{
    rm_graph *g = NULL;
    EXPECT(rm_graph_read(text, strlen(text), NULL, &g) == RM_OK, g ? rm_graph_error(g) : "memory");
    return g;
}

/* Out: r (64 bytes), w and its gradient (32 each); in: r and w. */
static void copies(void)
{
    rm_graph *g = graph_of(plan_graph);
    rm_plan *p = NULL;
    rm_plan_info info;
    EXPECT(rm_plan_read(g, plan_single, strlen(plan_single), &p) == RM_OK, rm_graph_error(g));
    EXPECT(rm_plan_get_info(p, RM_SINGLE, &info) == RM_OK, "info");
    EXPECT(info.d2h_bytes == 128 && info.h2d_bytes == 96, "bytes copied");
    rm_plan_destroy(p);
    rm_graph_destroy(g);
}

/* Both referees think the same of a text. */
static int judged(const char *text, const char *why)
{
    rm_graph *g = graph_of(plan_graph);
    rm_plan *p = NULL;
    rm_plan_info info;
    rmtest_result r;
    char said[1200];
    int legal = rmtest_replay_c(plan_graph, strlen(plan_graph), text, strlen(text), RMTEST_NO_BUDGET, RMTEST_NO_BUDGET, &r) == RMTEST_LEGAL;
    int ours = rm_plan_read(g, text, strlen(text), &p) == RM_OK;
    snprintf(said, sizeof said, "%s: second referee '%s', library '%s'", why, legal ? "legal" : r.message, ours ? "legal" : rm_graph_error(g));
    EXPECT(legal == ours, said);
    if (ours && legal && rm_plan_get_info(p, RM_SINGLE, &info) == RM_OK) EXPECT(info.time_ns == r.time_ns && info.first_ns == r.first_ns && info.live_bytes == r.live_bytes, said);
    rm_plan_destroy(p);
    rm_graph_destroy(g);
    return legal;
}

/* Every line of the statements: left out (0), twice (1), behind the next one (2). */
static void lines(void)
{
    const char *at = strstr(plan_single, "step single\n") + strlen("step single\n");
    char text[2 * sizeof plan_single], why[100];
    unsigned way, legal = 0;
    for (; *at; at = strchr(at, '\n') + 1) {
        const char *next = strchr(at, '\n') + 1, *after = *next ? strchr(next, '\n') + 1 : next;
        for (way = 0; way < 3; way++) {
            snprintf(why, sizeof why, "way %u, line %.40s", way, at);
            why[strcspn(why, "\n")] = 0;
            tm_case = (unsigned long)(at - plan_single);
            snprintf(text, sizeof text, "%.*s%.*s%.*s%s", (int)(at - plan_single), plan_single, way == 0 ? 0 : (int)((way == 1 ? next : after) - (way == 1 ? at : next)), way == 1 ? at : next,
                     way == 0 ? 0 : (int)(next - at), at, way == 2 ? after : next);
            legal += (unsigned)judged(text, why);
        }
    }
    tm_case = 0;
    EXPECT(legal > 10, "some changes leave a plan legal");
}

/* Inputs that are read lie in the arena all the time, as do params and states; the bound does not count one that nobody reads. */
static void bound(void)
{
    rm_graph *g = graph_of("rockmate graph 1\n"
                           "tensor x1 input 4096\n"
                           "tensor x2 input 4096\n"
                           "tensor unread input 65536\n"
                           "tensor w param 512 state=1024 opt=5\n"
                           "op a in=x1,w out=p:256 needs=x1,w fwd=5 bwd=5\n"
                           "op b in=x2,p out=q:256 needs=none fwd=5 bwd=5\n"
                           "op loss in=q out=l:256 needs=q fwd=1 bwd=1\n"
                           "output l\n");
    rm_plan_desc d;
    rm_plan_info info;
    rm_plan *p = NULL;
    char said[100];
    memset(&d, 0, sizeof d);
    memset(&info, 0, sizeof info);
    d.info = &info;
    EXPECT(rm_plan_create(g, &d, &p) == RM_OK, rm_graph_error(g));
    snprintf(said, sizeof said, "bound %lu, arena %lu", (unsigned long)info.min_bound_bytes, (unsigned long)info.arena_bytes);
    EXPECT(info.min_bound_bytes >= 2 * 4096 + 512 + 1024 + 2 * 256 && info.min_bound_bytes < 16384, said); /* and p beside q */
    rm_plan_destroy(p);
    rm_graph_destroy(g);
}

/* What was declared to stay on the device is copied by no plan that is read, an output as little as a param; and the word is written. */
static void stays(void)
{
    static const char *const lines[] = {"op relu in=a out=r needs=r fwd=1 bwd=1 inplace=a inplace_bwd=a", "tensor w param 32 state=64 opt=5 opt_host=50 reduce=3",
                                        "tensor first param 16 opt=5 opt_ws=8", "op loss in=tv,out.w out=l:4 needs=tv,out.w fwd=4 bwd=4"};
    unsigned i;
    for (i = 0; i < 4; i++) {
        const char *end = strstr(plan_graph, lines[i]) + strlen(lines[i]);
        char text[2 * sizeof plan_graph];
        rm_graph *g;
        rm_plan *p = NULL;
        tm_text t = {0};
        snprintf(text, sizeof text, "%.*s stays%s", (int)(end - plan_graph), plan_graph, end);
        g = graph_of(text);
        EXPECT(!rm_graph_write(g, tm_sink, &t) && strstr(t.s, " stays\n"), "the word is lost");
        EXPECT((rm_plan_read(g, plan_single, strlen(plan_single), &p) == RM_OK) == (i > 1), lines[i]);
        if (i < 2) EXPECT(strstr(rm_graph_error(g), i ? "state:w was declared to stay" : "r was declared to stay") != NULL, rm_graph_error(g));
        rm_plan_destroy(p);
        rm_graph_destroy(g);
        tm_clear(&t);
    }
}

/* A sum of more than two: the gradients of those that come once are the sum's, of one that comes twice it is not. */
static void shares(void)
{
    const rm_kind sum = {.name = "sum", .needs = RM_NOTHING, .share_grad = RM_IN(0) | RM_IN(1) | RM_IN(2)}, op = {.name = "op", .needs = RM_IN(0)};
    unsigned i;
    for (i = 0; i < 2; i++) {
        rm_graph *g = rm_graph_create(NULL);
        rm_tensor x = rm_input_add(g, "x", 64, RM_INPUT_GRAD), a = RM_OP(g, &op, .name = "a", .in = {x}), b = RM_OP(g, &op, .name = "b", .in = {a}), c = RM_OP(g, &op, .name = "c", .in = {b});
        tm_text t = {0};
        rm_output_add(g, RM_OP(g, &sum, .name = "s", .in = {a, i ? a : b, c}));
        EXPECT(!rm_graph_write(g, tm_sink, &t) && strstr(t.s, i ? " share_bwd=c" : " share_bwd=a,b,c"), t.s);
        rm_graph_destroy(g);
        tm_clear(&t);
    }
}

/* A mask of gradients that arrive zeroed is in the text, of each form its own; beside a permission to lie over something it is a
   mistake, and RM_ZERO_GRADS takes that permission back, as a text without it would. */
static void zeros(void)
{
    const rm_over over = {RM_IN(0), RM_DOUT};
    unsigned i;
    for (i = 0; i < 4; i++) {
        const rm_kind op = {.name = "op", .needs = RM_IN(0), .over = {i < 2 ? (rm_over){0} : over}, .flags = i == 2 ? RM_ZERO_GRADS : 0, .zero_grads = i == 1 ? RM_IN(0) | RM_IN(1) : i == 3 ? RM_IN(0) : 0};
        const rm_kind other = {.name = "other", .needs = RM_IN(0), .zero_grads = RM_IN(1)};
        rm_graph *g = rm_graph_create(NULL), *again = NULL;
        rm_tensor x = rm_input_add(g, "x", 64, RM_INPUT_GRAD), w = RM_PARAM(g, .name = "w", .bytes = 64), y = RM_OP(g, &op, .name = "y", .in = {x, w});
        tm_text t = {0}, same = {0};
        rm_variant_add(g, y, &other, NULL);
        rm_output_add(g, y);
        EXPECT((rm_graph_write(g, tm_sink, &t) == RM_OK) == (i < 3), rm_graph_error(g));
        if (i == 3) EXPECT(strstr(rm_graph_error(g), "op y: the gradient of x arrives zeroed (zero_grads, in text zero_bwd), and zeros would destroy what it may lie over (over, inplace_bwd); drop one of the two") != NULL, rm_graph_error(g));
        if (i == 3) {
            rm_graph_destroy(g);
            break;
        }
        EXPECT(!strstr(t.s, "inplace_bwd") && !strstr(t.s, " zero_bwd=x,w\n") == (i != 1) && strstr(t.s, "variant y other zero_bwd=w\n"), t.s);
        EXPECT(rm_graph_read(t.s, t.n, NULL, &again) == RM_OK && rm_graph_write(again, tm_sink, &same) == RM_OK && !strcmp(t.s, same.s), same.s);
        rm_graph_destroy(again);
        rm_graph_destroy(g);
        tm_clear(&t);
        tm_clear(&same);
    }
}

/* A forward that leaves what it saves has a workspace of its own size: no statement tells it, both referees know it; in a step
   that only goes forward nothing is saved. Given none, it is that of any forward. */
static void saving(void)
{
    static const struct {
        uint64_t fwd, saving, while_saving; /* as in rm_op_desc; bytes then */
        const char *text;
    } sizes[] = {{4096, 256, 256, " fwd_ws=4096 saving_ws=256\n"}, {4096, RM_EMPTY, 0, " fwd_ws=4096 saving_ws=0\n"}, {4096, 0, 4096, " fwd_ws=4096\n"},
                 {0, 4096, 4096, " saving_ws=4096\n"}, {256, 8192, 8192, " fwd_ws=256 saving_ws=8192\n"}, {4096, 4096, 4096, " fwd_ws=4096\n"}};
    const rm_kind kind = {.name = "op", .needs = RM_SAVED}, loss = {.name = "loss", .needs = RM_IN(0)};
    unsigned i, k;
    for (i = 0; i < RMI_COUNT(sizes); i++) {
        rm_graph *g = rm_graph_create(NULL), *again = NULL;
        rm_tensor x = rm_input_add(g, "x", 256, 0), w = RM_PARAM(g, .name = "w", .bytes = 256), y;
        rm_plan_info info[2];
        rm_plan_desc d;
        rm_plan *p = NULL;
        tm_text t = {0}, same = {0}, plan = {0};
        y = RM_OP(g, &kind, .name = "y", .in = {x, w}, .saved = 256, .fwd_ws = sizes[i].fwd, .saving_ws = sizes[i].saving);
        rm_output_add(g, RM_OP(g, &loss, .name = "l", .in = {y}, .out = {256}));
        EXPECT(rm_graph_write(g, tm_sink, &t) == RM_OK && strstr(t.s, sizes[i].text), t.s);
        EXPECT(rm_graph_read(t.s, t.n, NULL, &again) == RM_OK && rm_graph_write(again, tm_sink, &same) == RM_OK && !strcmp(t.s, same.s), same.s);
        memset(&d, 0, sizeof d);
        d.steps = RM_SINGLE | RM_FORWARD;
        EXPECT(rm_plan_create(again, &d, &p) == RM_OK, rm_graph_error(again));
        for (k = 0; k < 2 && p; k++) {
            uint64_t ws = k ? sizes[i].fwd : sizes[i].while_saving;
            rmtest_result r;
            EXPECT(rm_plan_get_info(p, k ? RM_FORWARD : RM_SINGLE, &info[k]) == RM_OK, "");
            EXPECT(info[k].live_bytes == rmi_max(256 * (k ? 3u : 4u) + ws, 256u * (k ? 3 : 5)), sizes[i].text);
            plan.n = 0;
            EXPECT(rm_plan_write(p, k ? RM_FORWARD : RM_SINGLE, tm_sink, &plan) == RM_OK, "");
            EXPECT(rmtest_replay_c(t.s, t.n, plan.s, plan.n, RMTEST_NO_BUDGET, RMTEST_NO_BUDGET, &r) == RMTEST_LEGAL && r.live_bytes == info[k].live_bytes, r.message);
        }
        rm_plan_destroy(p);
        p = NULL;
        EXPECT(rm_plan_read(again, plan.s, plan.n, &p) == RM_OK && rm_plan_get_info(p, RM_FORWARD, &info[0]) == RM_OK && info[0].live_bytes == info[1].live_bytes, rm_graph_error(again));
        rm_plan_destroy(p);
        rm_graph_destroy(again);
        rm_graph_destroy(g);
        tm_clear(&t);
        tm_clear(&same);
        tm_clear(&plan);
    }
}

/* Two inputs' gradients in one, over that of the output or in bytes of its own; and what both referees refuse. */
static void twins(void)
{
    static const char graph[] = "rockmate graph 1\ntensor x input 100 grad\ntensor y input 100 grad\nop s in=x,y out=r:100,n:100 needs=none fwd=1 bwd=6 same_bwd=x,y inplace_bwd=x\n"
                                "op l in=r,n out=l:4 needs=r fwd=2 bwd=3\n";
    static const char plan[] = "rockmate plan 1\narena 1000 host 0\nresident x 0\nresident y 100\nalloc r 200\nalloc n 300\nrun fwd s\nalloc l 400\nrun fwd l\n"
                               "alloc grad:r 500\nalloc grad:n 600\n%srun bwd l\n%srun bwd s\n%s";
    static const struct {
        const char *early, *before, *after;
        int legal;
    } ways[] = {{"", "reuse grad:x grad:r\nalias grad:y grad:x\n", "", 1}, {"", "alloc grad:x 700\nalias grad:y grad:x\n", "free grad:r\n", 1}, {"alloc grad:y 700\nalias grad:x grad:y\n", "", "", 1},
                {"", "reuse grad:x grad:r\nalloc grad:y 700\n", "", 1}, {"", "alloc grad:x 700\nreuse grad:y grad:x\n", "", 0}, {"", "alloc grad:x 700\nalias grad:y grad:r\n", "", 0},
                {"", "alloc grad:x 700\nalias grad:y grad:n\n", "", 0}, {"", "alloc grad:x 700\nalias grad:y grad:x\n", "free grad:y\n", 0}, {"", "alloc grad:x 700\n", "alias grad:y grad:x\n", 0}};
    unsigned i;
    for (i = 0; i < RMI_COUNT(ways); i++) {
        rm_graph *g = graph_of(graph);
        rm_plan *p = NULL;
        rm_plan_info info;
        rmtest_result r;
        char text[1000];
        int legal, ours;
        snprintf(text, sizeof text, plan, ways[i].early, ways[i].before, ways[i].after);
        legal = rmtest_replay_c(graph, sizeof graph - 1, text, strlen(text), RMTEST_NO_BUDGET, RMTEST_NO_BUDGET, &r) == RMTEST_LEGAL;
        ours = rm_plan_read(g, text, strlen(text), &p) == RM_OK;
        EXPECT(legal == ways[i].legal, r.message);
        EXPECT(ours == ways[i].legal, ours ? ways[i].before : rm_graph_error(g));
        if (ours && legal) EXPECT(rm_plan_get_info(p, RM_SINGLE, &info) == RM_OK && info.time_ns == 12 && info.live_bytes == r.live_bytes, r.message);
        rm_plan_destroy(p);
        rm_graph_destroy(g);
    }
}

/* Each place that a gradient may be written over is in the text as it was declared. */
static void overs(void)
{
    static const struct {
        uint64_t over;
        const char *text;
    } places[] = {{RM_DOUT, " inplace_bwd=a\n"}, {RM_IN(0), " inplace_bwd=a:a\n"}, {RM_IN(1), " inplace_bwd=a:b\n"}, {RM_OUT(0), " inplace_bwd=a:y\n"}, {RM_SAVED, " inplace_bwd=a:saved\n"}};
    const rm_kind op = {.name = "op", .needs = RM_IN(0)};
    unsigned i;
    for (i = 0; i < RMI_COUNT(places); i++) {
        const rm_kind over = {.name = "over", .needs = RM_IN(0) | RM_IN(1) | RM_OUT(0) | RM_SAVED, .over = {{RM_IN(0), places[i].over}}};
        rm_graph *g = rm_graph_create(NULL), *again = NULL;
        rm_tensor x = rm_input_add(g, "x", 64, RM_INPUT_GRAD), a = RM_OP(g, &op, .name = "a", .in = {x}), b = RM_OP(g, &op, .name = "b", .in = {a});
        tm_text t = {0}, same = {0};
        rm_output_add(g, RM_OP(g, &over, .name = "y", .in = {a, b}, .saved = 64));
        EXPECT(!rm_graph_write(g, tm_sink, &t) && strstr(t.s, places[i].text), t.s ? t.s : rm_graph_error(g));
        EXPECT(t.s && !rm_graph_read(t.s, t.n, NULL, &again) && !rm_graph_write(again, tm_sink, &same) && !strcmp(t.s, same.s), "read and written, it is the same");
        rm_graph_destroy(g), rm_graph_destroy(again);
        tm_clear(&t), tm_clear(&same);
    }
}

/* Why there is no plan: a budget that is too small names what works, what no plan is below, and the op that is the largest; who stops
   the search is told so, and the graph keeps the result until the next call that succeeds. */
static int stop(void *user, const rm_progress *progress)
{
    (void)user;
    (void)progress;
    return 1;
}
static void refused(void)
{
    rm_graph *g = graph_of("rockmate graph 1\n"
                           "tensor x input 4096 grad\n"
                           "op small in=x out=a:64 fwd=5 bwd=5 needs=x\n"
                           "op giant in=a out=b:65536 fwd=5 bwd=5 needs=a fwd_ws=1048576\n"
                           "op loss in=b out=l:4 fwd=1 bwd=1 needs=b\n"
                           "output l\n");
    rm_plan_desc d;
    rm_plan_info info;
    rm_plan *p = NULL;
    char named[100];
    memset(&d, 0, sizeof d);
    memset(&info, 0, sizeof info);
    d.info = &info;
    d.device_bytes = 1000;
    EXPECT(rm_plan_create(g, &d, &p) == RM_ERROR_INFEASIBLE && !p && rm_graph_result(g) == RM_ERROR_INFEASIBLE, rm_graph_error(g));
    EXPECT(strstr(rm_graph_error(g), "budget of 1000 bytes: too small") && strstr(rm_graph_error(g), "make the largest op smaller (giant)"), rm_graph_error(g));
    snprintf(named, sizeof named, "works with %llu bytes", (unsigned long long)info.min_bytes);
    EXPECT(strstr(rm_graph_error(g), named), rm_graph_error(g));
    snprintf(named, sizeof named, "needs less than %llu.", (unsigned long long)info.min_bound_bytes);
    EXPECT(strstr(rm_graph_error(g), named) && info.min_bound_bytes > 1048576 + 65536, rm_graph_error(g));
    d.device_bytes = 0;
    d.progress = stop;
    EXPECT(rm_plan_create(g, &d, &p) == RM_OK && p, rm_graph_error(g)); /* first asked when there is a plan */
    rm_plan_destroy(p);
    d.device_bytes = 1000; /* nothing fits: first asked before there is one */
    EXPECT(rm_plan_create(g, &d, &p) == RM_ERROR_CANCELLED && rm_graph_result(g) == RM_ERROR_CANCELLED && !p, rm_graph_error(g));
    d.device_bytes = 0;
    d.progress = NULL;
    EXPECT(rm_plan_create(g, &d, &p) == RM_OK && rm_graph_result(g) == RM_OK && !rm_graph_error(g)[0], rm_graph_error(g));
    rm_plan_destroy(p);
    rm_graph_destroy(g);
}

/* Costs that forms of one op have in parts of another cut: the least of any part is a bound, and here it is the plan's. */
static void cut_otherwise(void)
{
    rm_graph *g = graph_of("rockmate graph 1\n"
                           "tensor x input 64 grad\n"
                           "tensor w param 64\n"
                           "op a in=x,w out=p:64 needs=x,w fwd=5 bwd=900\n"
                           "variant a cut\n"
                           "part a@cut dx grads=x needs=w bwd=800\n"
                           "part a@cut dw grads=w needs=x bwd=850\n"
                           "op loss in=p out=l:4 needs=p fwd=1 bwd=1\n"
                           "output l\n");
    rm_plan_desc d;
    rm_plan_info info;
    rm_plan *p = NULL;
    char said[100];
    memset(&d, 0, sizeof d);
    memset(&info, 0, sizeof info);
    d.info = &info;
    EXPECT(rm_plan_create(g, &d, &p) == RM_OK, rm_graph_error(g));
    snprintf(said, sizeof said, "bound %lu, time %lu", (unsigned long)info.bound_ns, (unsigned long)info.time_ns);
    EXPECT(info.time_ns == 5 + 1 + 1 + 900 && info.bound_ns >= 5 + 1 + 1 + 800, said);
    rm_plan_destroy(p);
    rm_graph_destroy(g);
}

/* What is said of a value: kept while nobody uses it, or away, never both of one stay; and no box of the picture is without a colour. */
static void told(void)
{
    rm_graph *g = graph_of("rockmate graph 1\n"
                           "tensor x input 4096 grad\n"
                           "op a in=x out=p:4096 fwd=10 bwd=20 needs=x\n"
                           "op b in=p out=q:4096 fwd=10 bwd=20 needs=p\n"
                           "op c in=q out=r:4096 fwd=10 bwd=20 needs=q\n"
                           "op d in=r out=s:4096 fwd=10 bwd=20 needs=r\n"
                           "op e in=s out=t:4096 fwd=10 bwd=20 needs=s\n"
                           "op loss in=t out=l:4 fwd=1 bwd=1 needs=t\n"
                           "output l\n");
    unsigned i;
    for (i = 0; i < 2; i++) {
        rm_plan_desc d;
        rm_plan_info info;
        rm_plan *p = NULL;
        tm_text t = {0}, svg = {0};
        const char *box;
        memset(&d, 0, sizeof d);
        d.info = &info;
        d.device_bytes = i ? 5 * 4096 : 0;
        EXPECT(rm_plan_create(g, &d, &p) == RM_OK && !info.recomputed_runs == !i, rm_graph_error(g));
        EXPECT(!rm_plan_explain(p, rm_graph_find(g, "p"), tm_sink, &t), rm_graph_error(g));
        EXPECT((strstr(t.s, "kept unused for") != NULL) == !i && (strstr(t.s, "away for") != NULL) == (i == 1), t.s);
        EXPECT(!rm_plan_svg(p, RM_SINGLE, tm_sink, &svg) && strstr(svg.s, " class=\""), rm_graph_error(g));
        for (box = svg.s; (box = strstr(box, "<rect x=")) != NULL && (box = strstr(box, " class=\"")) != NULL; box += 8)
            EXPECT(box[8] >= 'a' && box[8] <= 'z' && (box[9] == '"' || !strncmp(box + 9, " n\"", 3)), box);
        rm_plan_destroy(p);
        tm_clear(&t), tm_clear(&svg);
    }
    rm_graph_destroy(g);
}

int main(void)
{
    copies();
    lines();
    bound();
    stays();
    shares();
    cut_otherwise();
    overs();
    zeros();
    saving();
    twins();
    refused();
    told();
    return tm_end();
}
