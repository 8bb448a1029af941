/* test_variants.c - what plans make of variants, and that a switch that takes a freedom away is honoured by every preset: plans
   with RM_NO_RECOMPUTE, RM_NO_VARIANTS, RM_NO_REORDER or RM_NO_INPLACE are looked at statement by statement, on random graphs and
   on a U-Net; variants whose backward has other parts than the op's are chosen where they help; presets of chain and groups use
   variants and are faster with them. Every plan goes through the second referee.

      test_variants [GRAPHS [FIRST SEED]] */
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"

#include "../common.h"
#include "../oracle/replay.h"
#include "randgraph.h"

/* --- plans, judged */
static rm_plan *make(rm_graph *g, const rg_text *t, const rm_config *c, uint64_t budget, uint64_t host, rm_plan_info *info)
{
    rm_plan_desc d;
    rm_plan *p = NULL;
    tm_text b = {NULL, 0, 0};
    rmtest_result r;
    memset(&d, 0, sizeof d);
    memset(info, 0, sizeof *info);
    d.config = c;
    d.device_bytes = budget;
    d.host_bytes = host;
    d.align = 1;
    d.info = info;
    if (rm_plan_create(g, &d, &p)) {
        EXPECT(rm_graph_result(g) == RM_ERROR_INFEASIBLE, rm_graph_error(g));
        return NULL;
    }
    rm_plan_write(p, RM_SINGLE, tm_sink, &b);
    EXPECT(rmtest_replay_c(t->data, t->size, b.s, b.n, budget ? budget : RMTEST_NO_BUDGET, host ? host : RMTEST_NO_BUDGET, &r) == RMTEST_LEGAL, r.message);
    EXPECT(r.time_ns == info->time_ns, c->name);
    tm_clear(&b);
    return p;
}

/* Runs of other than the op's own form. */
static uint32_t variants(const rm_plan *p)
{
    uint32_t n = 0;
    size_t i;
    for (i = 0; i < p->prog[0].n; i++) n += p->prog[0].st[i].what == RMI_RUN && p->prog[0].st[i].run.way <= RMI_BWD && p->prog[0].st[i].run.form;
    return n;
}

/* --- switches */
static void honoured(const rm_graph *g, const rm_plan *p, const rm_config *c)
{
    const rmi_program *q = &p->prog[0];
    uint32_t *forwards = (uint32_t *)calloc(g->n_ops + 1u, sizeof *forwards), last_fwd = 0, last_bwd = UINT32_MAX;
    size_t i, again = 0, forms = 0, late = 0, over = 0;
    for (i = 0; i < q->n && forwards; i++) {
        const rmi_stmt *s = &q->st[i];
        uint32_t id, old;
        if (s->what == RMI_RUN && s->run.way == RMI_FWD) {
            again += forwards[s->run.id]++ > 0;
            late += forwards[s->run.id] == 1 && s->run.id < last_fwd;
            if (forwards[s->run.id] == 1) last_fwd = s->run.id;
        }
        if (s->what == RMI_RUN && s->run.way == RMI_BWD) {
            late += s->run.id > last_bwd;
            last_bwd = s->run.id;
        }
        forms += s->what == RMI_RUN && s->run.way <= RMI_BWD && s->run.form;
        if (s->what != RMI_REUSE) continue;
        if (rmi_low_kind(g, s->buf, &id) == RMI_BUF_GRAD && rmi_low_kind(g, s->other, &old) == RMI_BUF_GRAD && g->tensors[old].maker != RMI_NONE) { /* a renaming is no writing over */
            const rmi_op *op = &g->ops[g->tensors[old].maker];
            over += !(rmi_list_has(&op->share, id) || op->view == id);
        } else over++;
    }
    if (c->off & RM_NO_RECOMPUTE) EXPECT(!again, c->name);
    if (c->off & RM_NO_VARIANTS) EXPECT(!forms, c->name);
    if (c->off & RM_NO_REORDER) EXPECT(!late, c->name);
    if (c->off & RM_NO_INPLACE) EXPECT(!over, c->name);
    free(forwards);
}

static void switches(rm_graph *g, const rg_text *t, uint64_t host)
{
    const char *preset;
    rm_config c;
    rm_plan_info all, info;
    size_t i;
    uint32_t off, k, turn = 0;
    rm_config_preset("noremat", &c);
    rm_plan_destroy(make(g, t, &c, 0, host, &all));
    for (i = 0; (preset = rm_preset_name(i, NULL)) != NULL; i++)
        for (off = 1; off <= 16; off *= 2, turn++) {
            if (turn % tm_amount(4, 1)) continue; /* five switches: each meets presets of every sort, and each preset some */
            rm_config_preset(preset, &c);
            c.work = 20000;
            c.off = off == 16 ? 15 : off;
            for (k = 0; k < 2; k++) {
                rm_plan *p = make(g, t, &c, k ? all.keep_all_bytes - (all.keep_all_bytes - all.min_bound_bytes) / 4 : 0, host, &info);
                if (p) honoured(g, p, &c);
                rm_plan_destroy(p);
            }
        }
}

/* --- a U with skips whose ops have variants: workspace, what the backward reads, a mask */
static void u_net(rg_text *t, int n)
{
    static char text[65536];
    char *s = text;
    int i, up;
    char in[16] = "x";
    s += sprintf(s, "rockmate graph 1\ntensor x input 1000000\n");
    for (up = 0; up < 2; up++)
        for (i = 0; i < n; i++) {
            int level = up ? n - 1 - i : i, bytes = 1000000 >> level;
            s += sprintf(s, "tensor w%d%d param 1000 opt=10\nop conv%d%d in=%s,w%d%d out=c%d%d:%d needs=%s,w%d%d fwd=%d bwd=%d\n", up, i, up, i, in, up, i, up, i, bytes, in, up, i, 40000 - level, 80000 - level);
            s += sprintf(s, "variant conv%d%d fast fwd=%d bwd=%d fwd_ws=%d bwd_ws=%d\n", up, i, 25000 + level, 60000 + level, bytes / 2, bytes);
            s += sprintf(s, "op relu%d%d in=c%d%d out=r%d%d:%d needs=c%d%d fwd=5000 bwd=7000\n", up, i, up, i, up, i, bytes, up, i);
            s += sprintf(s, "variant relu%d%d out needs=r%d%d inplace=c%d%d\nvariant relu%d%d mask needs=saved saved=%d fwd=6000 bwd=6500 inplace=c%d%d\n", up, i, up, i, up, i, up, i, bytes / 32, up, i);
            if (up && i) s += sprintf(s, "op add%d in=r1%d,r0%d out=s%d:%d needs=none fwd=4000 bwd=1\n", i, i, level, i, bytes);
            sprintf(in, up && i ? "s%d" : "r%d%d", up && i ? i : up, i);
        }
    s += sprintf(s, "op loss in=%s out=l:4 needs=%s fwd=1000 bwd=1000\noutput l\n", in, in);
    t->data = text;
    t->size = (size_t)(s - text);
}

/* Presets use variants, and are faster with them. */
static void used(rm_graph *g, const rg_text *t)
{
    static const char *const presets[] = {"rotor", "rockmate", "hilp", "hiremate", "search", "checkmate"};
    rm_plan_info all, info, without;
    rm_config c;
    uint32_t i, k;
    rm_config_preset("noremat", &c);
    rm_plan_destroy(make(g, t, &c, 0, 0, &all));
    for (i = 0; i < 6; i += (uint32_t)tm_amount(2, 1))
        for (k = (uint32_t)tm_amount(1, 0); k < tm_amount(2, 3); k++) {
            uint64_t budget = all.keep_all_bytes * (9 - 2 * k) / 10;
            rm_plan *p, *q;
            tm_case = i * 10 + k + 1;
            rm_config_preset(presets[i], &c);
            c.work = 200000;
            p = make(g, t, &c, budget, 0, &info);
            c.off = RM_NO_VARIANTS;
            q = make(g, t, &c, budget, 0, &without);
            EXPECT(p || !q, presets[i]);
            EXPECT(!p || variants(p) > 0, presets[i]);
            EXPECT(!p || !q || info.time_ns < without.time_ns, presets[i]);
            rm_plan_destroy(p);
            rm_plan_destroy(q);
        }
    tm_case = 0;
}

/* --- parts: one op's backward as a whole takes workspace; a variant's comes in two, and another's in three */
static void parts(void)
{
    static const char head[] = "rockmate graph 1\ntensor x input 1000\ntensor w1 param 100 opt=5\ntensor w2 param 100 opt=5\ntensor b2 param 50 opt=5\ntensor w3 param 100 opt=5\n"
                               "op a in=x,w1 out=h needs=x,w1 fwd=100 bwd=300\n";
    static const char tail[] = "op c in=r,w3 out=q needs=r,w3 fwd=100 bwd=300\nop loss in=q out=l:4 needs=q fwd=5 bwd=5\noutput l\n";
    static const char whole[] = "op b in=h,w2,b2 out=r needs=h,w2 fwd=100 bwd=200 bwd_ws=3000\n", two[] = "part b%s dx grads=h,b2 needs=w2 bwd=120\npart b%s dw grads=w2 needs=h bwd=120\n",
                      three[] = "part b%s dx grads=h needs=w2 bwd=110\npart b%s dw grads=w2 needs=h bwd=110\npart b%s db grads=b2 needs=none bwd=10\n";
    uint64_t best[4][40];
    const uint32_t step = (uint32_t)tm_amount(4, 2);
    uint32_t mixed = 0, i, k;
    for (i = 0; i < 4; i++) { /* 0: whole with both variants; 1: two with the whole as a variant; 2, 3: each alone */
        char text[4096], *s = text;
        rm_graph *g = NULL;
        rg_text t;
        rm_config c;
        s += sprintf(s, "%s%s", head, whole);
        if (i == 0) s += sprintf(s, "variant b two\n"), s += sprintf(s, two, "@two", "@two"), s += sprintf(s, "variant b three\n"), s += sprintf(s, three, "@three", "@three", "@three");
        if (i == 1) s += sprintf(s, two, "", ""), s += sprintf(s, "variant b whole\npart b@whole all grads=h,w2,b2 needs=h,w2 bwd=200 bwd_ws=3000\nvariant b three\n"), s += sprintf(s, three, "@three", "@three", "@three");
        if (i == 3) s += sprintf(s, three, "", "", "");
        s += sprintf(s, "%s", tail);
        t.data = text;
        t.size = (size_t)(s - text);
        tm_case = i + 1;
        if (!EXPECT(rm_graph_read(text, t.size, NULL, &g) == RM_OK, g ? rm_graph_error(g) : "")) continue;
        rm_config_preset("search", &c);
        for (k = 0; k < 40; k += step) {
            rm_plan_info info;
            rm_plan *p = make(g, &t, &c, 8000 - 100 * k, 0, &info);
            best[i][k] = p ? info.time_ns : RMI_INF;
            EXPECT(!k || best[i][k] >= best[i][k - step], "less memory, faster");
            if (i < 2 && p) mixed |= (variants(p) ? 2u : 1u) << (2 * i);
            rm_plan_destroy(p);
        }
        rm_graph_destroy(g);
    }
    for (k = 0; k < 40; k += step) { /* a choice is as good as the best of what there is to choose, whichever is the op's own */
        tm_case = k + 1;
        EXPECT(best[0][k] <= best[2][k] && best[0][k] <= best[3][k], "slower than a form alone");
        EXPECT(best[0][k] == best[1][k] || best[0][k] == RMI_INF || best[1][k] == RMI_INF || best[1][k] <= best[2][k], "another op's own form, another plan");
    }
    tm_case = 0;
    EXPECT((mixed & 11) == 11, "at some budgets the op's own form, at others a variant with other parts");
}

/* Random graphs of calls without backwards, as other planners' instances are: in them a first run that nobody reads before the value is
   made again would go, and the order with it. */
static void calls(unsigned long seed)
{
    static const char *const presets[] = {"hiremate", "checkmate", "offmate"};
    char text[8192], *s = text;
    uint32_t i, k, n = 30;
    uint64_t dice = seed;
    rm_graph *g = NULL;
    rg_text t;
    rm_config c;
    rm_plan_info all, info;
    s += sprintf(s, "rockmate graph 1\ntensor x input 0\n");
    for (i = 0; i < n; i++) {
        s += sprintf(s, "op o%u in=%s", i, i ? "" : "x");
        for (k = 0; i && k < 1 + (i > 3); k++) s += sprintf(s, "%sv%u", k ? "," : "", (unsigned)(rmi_mix(++dice) % (k ? i : i < 6 ? i : 6) + (k || i < 6 ? 0 : i - 6)));
        s += sprintf(s, " out=v%u:%u nograd fwd=%u\n", i, (unsigned)(100 + rmi_mix(++dice) % 900), (unsigned)(10 + rmi_mix(++dice) % 90));
    }
    s += sprintf(s, "output v%u\n", n - 1);
    t.data = text;
    t.size = (size_t)(s - text);
    tm_case = seed;
    if (!EXPECT(rm_graph_read(text, t.size, NULL, &g) == RM_OK, g ? rm_graph_error(g) : "")) return;
    rm_config_preset("noremat", &c);
    rm_plan_destroy(make(g, &t, &c, 0, 0, &all));
    for (i = 0; i < 3; i++)
        for (k = 0; k < 3; k++) {
            rm_plan *p;
            rm_config_preset(presets[i], &c);
            c.work = 20000;
            c.off = RM_NO_REORDER;
            p = make(g, &t, &c, all.keep_all_bytes * (9 - 2 * k) / 10, 0, &info);
            if (p) honoured(g, p, &c);
            rm_plan_destroy(p);
        }
    rm_graph_destroy(g);
}

int main(int argc, char **argv)
{
    unsigned long n = argc > 1 ? strtoul(argv[1], NULL, 10) : tm_amount(1, 2), first = argc > 2 ? strtoul(argv[2], NULL, 10) : 1, i;
    rg_text t;
    rm_graph *g = NULL;
    parts();
    u_net(&t, 5);
    if (EXPECT(rm_graph_read(t.data, t.size, NULL, &g) == RM_OK, g ? rm_graph_error(g) : "")) {
        used(g, &t);
        switches(g, &t, 0);
    }
    rm_graph_destroy(g);
    for (i = first; i < first + n && tm_more(i - first); i++) {
        g = NULL;
        rg_generate(&t, 7000 + i, 5 + (int)(i % 20), RG_ALL & ~(i % 2 ? RG_OPT_HOST : RG_OPT_HOST | RG_LINK));
        tm_case = i;
        if (EXPECT(t.data && rm_graph_read(t.data, t.size, NULL, &g) == RM_OK, "")) switches(g, &t, i % 2 ? (uint64_t)1 << 30 : 0);
        rm_graph_destroy(g);
        rg_free(&t);
    }
    for (i = 1; i <= tm_amount(6, 15) && tm_more(i); i++) calls(i);
    return tm_end();
}
