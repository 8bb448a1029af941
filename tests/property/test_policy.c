/* test_policy.c - plans under policies by name (rm_config.keep, recompute, move, stay) on random graphs: policies drawn at random are
   obeyed, which is looked up in the plan's statements here, with reads of its own; what cannot be obeyed is an error that says so; a
   budget that a policy is too large for is told with what it needs, and that works. The second referee finds every plan legal, so that
   a run leaves the bits that it leaves without a policy.

      test_policy [FIRST_SEED [GRAPHS]] */
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"
#include "../common.h"
#include "../oracle/replay.h"
#include "randgraph.h"

enum { KEEP = 1, RECOMPUTE = 2, MOVE = 4, STAY = 8 };

typedef struct policy {
    char list[4][256];
    uint8_t *op, *tensor; /* sums of the above, as named */
    int wrong;            /* it names what cannot be so */
} policy;

static uint64_t dice_state;
static uint32_t dice(uint32_t n)
{
    dice_state += 0x9E3779B97F4A7C15u;
    return n ? (uint32_t)(rmi_mix(dice_state) % n) : 0;
}

static void name_it(policy *p, int which, const char *name, uint8_t *mark)
{
    char *list = p->list[which];
    if (strlen(list) + strlen(name) + 2 > 256) return;
    if (*list) strcat(list, ",");
    strcat(list, name);
    *mark |= (uint8_t)(1 << which);
}

/* May this be asked of the op? */
static int op_may(const rm_graph *g, const rmi_op *op, int mark, int host)
{
    const rmi_tensor *out = &g->tensors[op->out.at[0]];
    if (mark & (KEEP | MOVE)) mark &= ~RECOMPUTE;
    if (mark & RECOMPUTE && (op->pinned || out->external)) return 0;
    return !(mark & MOVE) || (host && !(mark & STAY) && !out->stays && !out->external);
}

static int param_may(const rm_graph *g, uint32_t t, int mark, int host)
{
    const rmi_tensor *row = &g->tensors[t];
    if (mark & STAY && row->updates && row->opt == RMI_INF) return 0;
    return !(mark & MOVE) || (host && !(mark & STAY) && !row->stays && !row->external && !rmi_step_is_viewed(g, t));
}

/* A few names for each policy; sane: none that cannot be. */
static void draw(policy *p, const rm_graph *g, int host, int sane)
{
    uint32_t i, mark, n = 1 + dice(6);
    memset(p->list, 0, sizeof p->list);
    memset(p->op, 0, g->n_ops);
    memset(p->tensor, 0, g->n_tensors);
    for (p->wrong = 0; n; n--) {
        int which = (int)dice(4), param = dice(3) == 0 && which >= 2;
        i = dice(param ? g->n_tensors : g->n_ops);
        if (param ? g->tensors[i].kind != RMI_PARAM : g->ops[i].view != RMI_NONE) continue;
        mark = (param ? p->tensor[i] : p->op[i]) | 1u << which;
        if (!param && which < 2 && p->op[i] & (KEEP | RECOMPUTE | MOVE)) continue; /* a list without effect is tried elsewhere */
        if (sane && !(param ? param_may(g, i, (int)mark, host) : op_may(g, &g->ops[i], (int)mark, host))) continue;
        if (!param && which == 2 && p->op[i] & RECOMPUTE) continue;
        name_it(p, which, param ? g->tensors[i].name : g->ops[i].name, param ? &p->tensor[i] : &p->op[i]);
    }
    for (i = 0; i < g->n_ops; i++) p->wrong |= !op_may(g, &g->ops[i], p->op[i], host);
    for (i = 0; i < g->n_tensors; i++) p->wrong |= !param_may(g, i, p->tensor[i], host);
}

typedef struct held {
    long used;       /* number of the run that used it last */
    int old, leaves; /* made in the forward pass and not replaced since; RECOMPUTE or MOVE: then it must not be used late */
} held;

static int reading(held *of, long number, int late)
{
    int bad = late && of->old && of->leaves && of->used + 1 < number;
    of->used = number;
    return bad;
}

/* Statement by statement. Returns what is wrong, or "". */
static const char *obeyed(const rm_graph *g, const rmi_program *q, const policy *p)
{
    uint32_t n_buf = rmi_low_buffers(g), i, k, id;
    held *b = (held *)calloc(n_buf + 1, sizeof *b);
    uint8_t *ran = (uint8_t *)calloc(g->n_ops + 1u, 1);
    size_t at, turn = 0;
    long number = 1;
    const char *wrong = "";
    for (at = 0; at < q->n && !(q->st[at].what == RMI_RUN && q->st[at].run.way == RMI_BWD); at++)
        if (q->st[at].what == RMI_RUN && q->st[at].run.way == RMI_FWD && !ran[q->st[at].run.id]) ran[q->st[at].run.id] = 1, turn = at;
    if (at == q->n) turn = at;
    memset(ran, 0, g->n_ops);
    for (i = 0; i < g->n_ops; i++) {
        int mark = p->op[i];
        for (k = 0; k <= g->ops[i].out.n; k++)
            b[k < g->ops[i].out.n ? g->ops[i].out.at[k] : rmi_low_buf(g, RMI_BUF_SAVED, i)].leaves = mark & MOVE ? MOVE : mark & KEEP ? 0 : mark & RECOMPUTE;
    }
    for (i = 0; i < g->n_tensors; i++)
        if (g->tensors[i].is_output || !g->tensors[g->tensors[i].root].bytes) b[g->tensors[i].root].leaves = 0;
    for (at = 0; at < q->n; at++) {
        const rmi_stmt *s = &q->st[at];
        const rmi_op *op;
        const rmi_form *form;
        int late;
        rmi_buf_kind kind = s->what == RMI_RUN ? RMI_BUF_VALUE : rmi_low_kind(g, s->buf, &id);
        if (s->what == RMI_OFFLOAD || s->what == RMI_PREFETCH) {
            uint32_t maker = kind == RMI_BUF_SAVED ? id : kind == RMI_BUF_VALUE ? g->tensors[id].maker : RMI_NONE;
            if (maker != RMI_NONE && (p->op[maker] & STAY || (p->op[maker] & RECOMPUTE && !(p->op[maker] & (KEEP | MOVE)) ))) wrong = "copied, though it stays or is made again";
            if (kind <= RMI_BUF_STATE && g->tensors[id].kind == RMI_PARAM && p->tensor[id] & STAY) wrong = "a param moves that stays";
        }
        if (s->what == RMI_PREFETCH) b[s->buf].old = 0;
        if (s->what != RMI_RUN) continue;
        if (s->run.way > RMI_BWD) {
            number++;
            continue;
        }
        op = &g->ops[s->run.id];
        form = &op->forms[s->run.form];
        if (s->run.way == RMI_FWD && op->view != RMI_NONE) continue;
        late = at > turn && (s->run.way == RMI_BWD || ran[s->run.id]);
        if (s->run.way == RMI_FWD) {
            if (ran[s->run.id] && p->op[s->run.id] & (KEEP | MOVE)) wrong = "made again, though it is kept";
            for (i = 0; i < op->in.n; i++)
                if (reading(&b[g->tensors[op->in.at[i]].root], number, late)) {
                    for (k = 0; k < i && g->tensors[op->in.at[k]].root != g->tensors[op->in.at[i]].root;) k++;
                    if (k == i) wrong = "a repeat reads what is not kept";
                }
            for (k = 0; k <= op->out.n; k++) {
                held *out = &b[k < op->out.n ? op->out.at[k] : rmi_low_buf(g, RMI_BUF_SAVED, s->run.id)];
                out->old = !ran[s->run.id] || at <= turn;
                out->used = number;
            }
            ran[s->run.id] = 1;
        } else {
            const rmi_list *needs = &form->parts[s->run.part].needs;
            for (i = 0; i < needs->n; i++)
                if (reading(&b[g->tensors[needs->at[i]].root], number, late)) wrong = "a backward reads what is not kept";
            if (form->parts[s->run.part].needs_saved && form->saved && reading(&b[rmi_low_buf(g, RMI_BUF_SAVED, s->run.id)], number, late))
                wrong = "a backward reads what was saved and is not kept";
        }
        number++;
    }
    for (i = 0; i < g->n_tensors; i++) {
        size_t home;
        uint32_t part;
        if (g->tensors[i].kind != RMI_PARAM || g->tensors[i].reader == RMI_NONE || !g->tensors[i].bytes) continue;
        for (home = 0; home < q->n_homes && p->tensor[i] & STAY; home++)
            for (part = 0; part < 3; part++)
                if (q->homes[home].buf == rmi_low_buf(g, (rmi_buf_kind)part, i) && q->homes[home].host) wrong = "a param that stays is at home in host memory";
        for (home = 0; home < q->n_homes && p->tensor[i] & MOVE && !(q->homes[home].buf == i && q->homes[home].host == 1);) home++;
        if (p->tensor[i] & MOVE && home == q->n_homes) wrong = "a param that is to move is at home on the device";
    }
    free(b);
    free(ran);
    return wrong;
}

/* Plans under the policy and judges the plan; 0: infeasible. */
static int planned(rm_graph *g, const rg_text *t, const policy *p, rm_plan_desc *d, rm_plan_info *info, uint32_t steps)
{
    rm_plan *plan = NULL;
    rm_config config;
    rm_result r;
    uint32_t i;
    const char *wrong;
    rm_config_preset(d->preset, &config);
    memcpy(config.keep, p->list[0], sizeof config.keep);
    memcpy(config.recompute, p->list[1], sizeof config.recompute);
    memcpy(config.move, p->list[2], sizeof config.move);
    memcpy(config.stay, p->list[3], sizeof config.stay);
    d->config = &config;
    d->info = info;
    d->steps = steps;
    r = rm_plan_create(g, d, &plan);
    d->config = NULL;
    if (p->wrong) {
        EXPECT(r == RM_ERROR_ARGUMENT && (strstr(rm_graph_error(g), "rm_config.")), r ? rm_graph_error(g) : "a plan");
        rm_plan_destroy(plan);
        return 0;
    }
    if (r) {
        EXPECT(r == RM_ERROR_INFEASIBLE && d->device_bytes, rm_graph_error(g));
        return 0;
    }
    for (i = 0; i < plan->n; i++) {
        wrong = obeyed(g, &plan->prog[i], p);
        if (!EXPECT(!*wrong, wrong))
            printf("   preset %s, budget %llu, step %u: keep=%s recompute=%s move=%s stay=%s\n", d->preset, (unsigned long long)d->device_bytes,
                   plan->prog[i].step, p->list[0], p->list[1], p->list[2], p->list[3]);
    }
    if (steps == RM_SINGLE) {
        rmtest_result judged;
        tm_text b = {NULL, 0, 0};
        rm_plan_write(plan, RM_SINGLE, tm_sink, &b);
        EXPECT(rmtest_replay_c(t->data, t->size, b.s, b.n, d->device_bytes ? d->device_bytes : RMTEST_NO_BUDGET, d->host_bytes ? d->host_bytes : RMTEST_NO_BUDGET, &judged) == RMTEST_LEGAL, judged.message);
        EXPECT(judged.time_ns == info->time_ns, d->preset);
        tm_clear(&b);
    }
    rm_plan_destroy(plan);
    return 1;
}

static unsigned long feasible, infeasible, refused;

static void one(uint64_t seed)
{
    static const char *const presets[] = {"hiremate", "rockmate", "checkmate", "search", "rotor", "hilp"};
    rg_text t;
    rm_graph *g = NULL;
    rm_plan_desc d;
    rm_plan_info all, info, less;
    policy p;
    uint32_t turn, host = seed % 3 == 0, features;
    dice_state = seed;
    tm_case = (unsigned long)seed;
    features = seed % 2 ? (uint32_t)rmi_mix(seed) : RG_ALL & ~(uint32_t)RG_OPT_HOST;
    features = host ? features | RG_LINK : features & ~(uint32_t)(RG_LINK | RG_OPT_HOST);
    rg_generate(&t, seed, 6 + (int)(seed % 24), features & ~(uint32_t)RG_EXTERNAL);
    if (!EXPECT(rm_graph_read(t.data, t.size, NULL, &g) == RM_OK, rm_graph_error(g))) return;
    memset(&d, 0, sizeof d);
    d.align = 1;
    d.work_limit = 100000;
    d.host_bytes = host ? (uint64_t)1 << 50 : 0;
    d.info = &all;
    if (EXPECT(rmi_graph_seal(g) == RM_OK, rm_graph_error(g))) {
        p.op = (uint8_t *)calloc(g->n_ops + 1u, 1);
        p.tensor = (uint8_t *)calloc(g->n_tensors + 1u, 1);
        for (turn = 0; turn < 4; turn++) {
            rm_plan *plan = NULL;
            uint32_t steps = turn == 3 ? RM_FIRST | RM_LAST | RM_FORWARD : RM_SINGLE;
            draw(&p, g, (int)host, turn != 2);
            d.preset = host ? "offmate" : presets[dice(6)];
            d.device_bytes = 0;
            if (!planned(g, &t, &p, &d, &info, steps)) {
                refused++;
                continue;
            }
            EXPECT(rm_plan_create(g, &d, &plan) == RM_OK, rm_graph_error(g));
            all = plan->info[0];
            rm_plan_destroy(plan);
            d.device_bytes = all.min_bound_bytes + (info.arena_bytes - all.min_bound_bytes) * (1 + dice(8)) / 8;
            if (!d.device_bytes) continue;
            if (planned(g, &t, &p, &d, &info, steps)) {
                feasible++;
                d.device_bytes += d.device_bytes / 8 + 1; /* what fits less under the same policy is known */
                EXPECT(planned(g, &t, &p, &d, &less, steps) && (steps != RM_SINGLE || less.time_ns <= info.time_ns), "more memory, and slower");
            } else if (steps == RM_SINGLE) { /* what is named works */
                infeasible++;
                if (!info.min_bytes) continue;
                d.device_bytes = info.min_bytes;
                EXPECT(planned(g, &t, &p, &d, &less, steps), "the budget named works");
            }
        }
        free(p.op);
        free(p.tensor);
    }
    rm_graph_destroy(g);
    rg_free(&t);
}

/* Nothing is kept of what takes no bytes: a search for what could make it again found no plan. */
static void no_bytes(void)
{
    static const char text[] = "rockmate graph 1\ntensor x input 64\ntensor w param 64\nop a in=x,w out=ta:64 needs=x fwd=10 bwd=10\n"
                               "op b in=ta out=tb:0 needs=ta,tb fwd=10 bwd=10\nop c in=tb out=tc:64 needs=tc fwd=10 bwd=10\n"
                               "op loss in=tc out=l:4 needs=tc fwd=10 bwd=10\noutput l\n";
    rm_graph *g = NULL;
    rm_plan *p = NULL;
    rm_plan_desc d;
    memset(&d, 0, sizeof d);
    d.preset = "checkmate";
    d.recompute = "b";
    if (EXPECT(rm_graph_read(text, sizeof text - 1, NULL, &g) == RM_OK, "the graph of no_bytes")) EXPECT(rm_plan_create(g, &d, &p) == RM_OK, rm_graph_error(g));
    rm_plan_destroy(p);
    rm_graph_destroy(g);
}

static int into_text(void *user, const char *bytes, size_t n)
{
    tm_sink((tm_text *)user, bytes, n);
    return 0;
}

/* A repeat between the last forward and the first backward reads what the forward pass has left, and belongs to neither. */
static void between_the_passes(const char *update)
{
    static const char head[] = "rockmate graph 1\ntensor x input 64\ntensor w param 64", ops[] = "\nop a in=x,w out=ta:64 needs=x fwd=10 bwd=10\n"
                               "op b in=ta out=tb:64 needs=ta,tb fwd=10 bwd=10\nop loss in=tb out=l:4 needs=tb fwd=10 bwd=10\noutput l\n";
    static const char where[] = "run fwd loss\n";
    rm_graph *g = NULL;
    rm_plan *p = NULL, *q = NULL;
    rm_plan_desc d;
    tm_text plain, more;
    const char *at, *line;
    char alloc[100], text[600];
    int n = sprintf(text, "%s%s%s", head, update, ops);
    memset(&d, 0, sizeof d);
    memset(&plain, 0, sizeof plain);
    memset(&more, 0, sizeof more);
    d.preset = "noremat";
    if (!EXPECT(rm_graph_read(text, (size_t)n, NULL, &g) == RM_OK && rm_plan_create(g, &d, &p) == RM_OK && rm_plan_write(p, 0, into_text, &plain) == RM_OK, "the plan of between_the_passes")) return;
    at = strstr(plain.s, where) + sizeof where - 1;
    line = strstr(plain.s, "alloc tb ");
    tm_sink(&more, plain.s, (size_t)(at - plain.s));
    tm_sink(&more, alloc, (size_t)sprintf(alloc, "free tb\n%.*srun fwd b\n", (int)(strchr(line, '\n') + 1 - line), line));
    tm_sink(&more, at, plain.n - (size_t)(at - plain.s));
    g->tensors[g->ops[0].out.at[0]].leaves = RMI_LEAVES_AGAIN;
    EXPECT(rm_plan_read(g, more.s, more.n, &q) == RM_OK && q->prog[0].fig.breaks == 2, q ? "not two breaks" : rm_graph_error(g));
    rm_plan_destroy(p);
    rm_plan_destroy(q);
    rm_graph_destroy(g);
    tm_clear(&plain);
    tm_clear(&more);
}

int main(int argc, char **argv)
{
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    int graphs = argc > 2 ? atoi(argv[2]) : (int)tm_amount(12, 40), i;
    no_bytes();
    between_the_passes("");
    between_the_passes(" opt=5 reduce=3"); /* lanes side by side: three steps are simulated, and the last one's breaks count */
    for (i = 0; i < graphs && tm_more((unsigned long)i); i++) one(seed + (uint64_t)i);
    printf("%lu plans, %lu without, %lu refused\n", feasible, infeasible, refused);
    return tm_end();
}
