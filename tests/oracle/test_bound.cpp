/* Lower bounds against exhaustive search: for random graphs of up to 7 ops with variants, in-place runs, views, shared gradients,
   parts, reductions (beside the computation, which is all that is counted here) and several consumers the fastest step within a
   limit of live bytes is found by Dijkstra's algorithm over everything that can be resident, in any order of runs. No bound may be
   above it, on time or on bytes. Plans that move data are compared, too.
   test_bound [GRAPHS [FIRST SEED]] */
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"
#include "../common.h"
#include "draw.h"
#include <algorithm>
#include <cstdio>
#include <queue>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>

static unsigned joint;

/* A few ops, small numbers. Every op reads the latest value or an earlier one, so that there are several consumers and ends. */
static std::string graph_text(uint64_t seed, bool link = false)
{
    Rng r = {seed << 20};
    unsigned n = link ? 3 + r.below(8) : 2 + r.below(4), rich = r.below(4);
    if (seed % 7 == 3 && !link) n = 6 + seed / 7 % 2; /* most that the oracle can do */
    std::vector<std::string> value = {"x"}, needs;
    std::vector<unsigned> bytes = {1 + r.below(6)};
    std::vector<bool> grad = {false};
    Rng q = {seed << 20 | 7};
    std::string s = "rockmate graph 1\ntensor w param " + std::to_string(r.below(3)) + (r.one_in(2) ? num("grad", 1 + r.below(3)) : "") + (seed % 3 == 1 && !link ? num("reduce", (unsigned)(seed % 11)) : "") + "\ntensor x " + (r.one_in(3) ? "input " : "const ") +
                    std::to_string(bytes[0]) + "\n";
    if (link) s += "link h2d=" + std::to_string(10000000u << r.below(8)) + " d2h=" + std::to_string(10000000u << r.below(8)) + "\n";
    if (r.one_in(4)) s += "anyorder\n";
    for (unsigned i = 0; i < n; i++) {
        unsigned a = r.one_in(3) ? r.below((unsigned)value.size()) : (unsigned)value.size() - 1, b = r.below((unsigned)value.size());
        bool last = i + 1 == n, two = a != b && r.one_in(2), weight = i == 0 || r.one_in(3), view = rich > 1 && !last && a && r.one_in(6), add = two && bytes[a] == bytes[b] && r.one_in(2);
        std::string o = "o" + std::to_string(i), y = "y" + std::to_string(i), w = "w";
        unsigned size = last ? r.below(2) : view ? bytes[a] : r.one_in(3) ? bytes[a] : 1 + r.below(9);
        if (view) {
            s += "op " + o + " in=" + value[a] + " out=" + y + ":" + std::to_string(size) + " view=" + value[a] + "\n";
            value.push_back(y), bytes.push_back(size), grad.push_back(grad[a]);
            continue;
        }
        if (link && weight && !r.one_in(3)) { /* a weight of its own, as large as values, with or without an update on either side */
            w += std::to_string(i);
            s += "tensor " + w + " param " + std::to_string(1 + r.below(20)) + (r.one_in(3) ? num("grad", 1 + r.below(20)) : "") + (r.one_in(3) ? num("state", r.below(20)) : "");
            s += (r.one_in(2) ? num("opt", 1 + r.below(4)) : "") + (r.one_in(2) ? num("opt_host", 1 + r.below(20)) : "") + "\n";
        }
        for (unsigned f = 0; f < 1 + (rich > 0 && r.one_in(2)) + (rich > 0 && r.one_in(4)); f++) {
            unsigned saved = r.one_in(3) ? 1 + r.below(5) : 0;
            std::string list;
            const std::string from[] = {value[a], two ? value[b] : "", y, saved ? "saved" : "", weight ? w : ""};
            for (const std::string &t : from)
                if (!t.empty() && r.one_in(t == "saved" ? 1 : 2)) list += (list.empty() ? "" : ",") + t;
            if (!f) s += "op " + o + " in=" + value[a] + (two ? "," + value[b] : "") + (weight ? "," + w : "") + " out=" + y + ":" + std::to_string(size);
            else s += "variant " + o + " v" + std::to_string(f) + (r.one_in(3) ? " bits=b" : "");
            s += " needs=" + (list.empty() ? "none" : list) + num("saved", saved) + num("fwd", 1 + r.below(12)) + num("bwd", 1 + r.below(12));
            if (r.one_in(3)) s += num("again", 1 + r.below(12));
            if (r.one_in(3)) s += num("fwd_ws", r.below(6));
            if (r.one_in(3)) s += num("bwd_ws", r.below(6));
            if (rich > 1 && a && size <= bytes[a] && r.one_in(3)) s += " inplace=" + value[a];
            if (!f && add && r.one_in(2)) s += " share_bwd=" + value[a] + (r.one_in(2) ? "," + value[b] : "");
            else if (rich > 1 && a && bytes[a] <= size && r.one_in(3)) s += " inplace_bwd=" + value[a];
            else if (rich > 1 && a && r.one_in(4) && list.find(value[a]) != std::string::npos) s += " inplace_bwd=" + value[a] + ":" + value[a];
            s += "\n";
        }
        if (seed % 5 == 2 && !link && weight && (grad[a] || (two && grad[b]))) /* in two parts: that of the weight may run late */
            for (unsigned f = 0, alike = q.below(2); s.find("\nvariant " + o + " v" + std::to_string(f)) != std::string::npos || !f; f++)
                for (unsigned k = 0; k < 2 && (!f || alike); k++) {
                    const std::string in[] = {grad[a] ? value[a] : "", two && grad[b] ? value[b] : ""}, from[] = {value[a], y};
                    std::string list, of = k ? in[0] + (in[0].empty() || in[1].empty() ? "" : ",") + in[1] : "w";
                    for (const std::string &t : from)
                        if (q.one_in(2)) list += (list.empty() ? "" : ",") + t;
                    s += "part " + o + (f ? "@v" + std::to_string(f) : "") + (k ? " x" : " w") + " grads=" + of + " needs=" + (list.empty() ? "none" : list) + num("bwd", 1 + q.below(12)) + num("bwd_ws", q.below(6)) + "\n";
                }
        value.push_back(y), bytes.push_back(size), grad.push_back(weight || grad[a] || (two && grad[b]));
    }
    return s + "output " + value.back() + "\n";
}

struct Oracle {
    const rm_graph *g;
    uint64_t limit, base;
    uint32_t nb;
    struct Task {
        uint32_t op, part;
    };
    std::vector<Task> bwd;
    /* by buffer: 0 or 1 + the number of its stretch's first name; bytes of the stretch. Then: form that left saved, class of bits,
       has run (by op), done (by backward) */
    typedef std::string State;
    std::unordered_map<State, uint64_t> best;
    typedef std::pair<uint64_t, State> Entry;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> open;
    size_t most = 150000;

    uint32_t grad(uint32_t t) const { return g->n_tensors + t; }
    uint32_t saved(uint32_t o) const { return 2 * g->n_tensors + o; }
    static unsigned char &at(State &s, size_t i) { return (unsigned char &)s[i]; }
    unsigned char &label(State &s, uint32_t b) const { return at(s, b); }
    unsigned char &size(State &s, uint32_t b) const { return at(s, nb + b); }
    unsigned char &left(State &s, uint32_t o) const { return at(s, 2 * nb + o); }
    unsigned char &bits(State &s, uint32_t o) const { return at(s, 2 * nb + g->n_ops + o); }
    unsigned char &ran(State &s, uint32_t o) const { return at(s, 2 * nb + 2 * g->n_ops + o); }
    unsigned char &done(State &s, size_t t) const { return at(s, 2 * nb + 3 * g->n_ops + t); }

    bool always(uint32_t b) const { return b < g->n_tensors && (g->tensors[b].kind == RMI_PARAM || g->tensors[b].kind == RMI_CONST); }
    bool there(State &s, uint32_t b) const { return always(b) || label(s, b); }
    uint64_t live(State &s) const
    {
        uint64_t sum = 0;
        for (uint32_t b = 0; b < nb; b++)
            if (label(s, b) == b + 1) sum += size(s, b);
        return sum;
    }
    unsigned names(State &s, uint32_t b) const
    {
        unsigned n = 0;
        for (uint32_t i = 0; i < nb; i++) n += label(s, i) && label(s, i) == label(s, b);
        return n;
    }
    void relabel(State &s, unsigned char from) const /* the stretch's first name may be gone */
    {
        unsigned char to = 0;
        for (uint32_t b = 0; b < nb; b++)
            if (label(s, b) == from) {
                if (!to) to = (unsigned char)(b + 1);
                label(s, b) = to;
            }
    }
    void drop(State &s, uint32_t b) const
    {
        unsigned char l = label(s, b);
        label(s, b) = size(s, b) = 0;
        relabel(s, l);
        if (b >= saved(0)) left(s, b - saved(0)) = 0;
    }
    void put(State &s, uint32_t b, uint64_t bytes) const { label(s, b) = (unsigned char)(b + 1), size(s, b) = (unsigned char)bytes; }
    void take(State &s, uint32_t b, uint32_t old) const /* b takes old's stretch over */
    {
        unsigned char l = label(s, old), n = size(s, old);
        label(s, old) = size(s, old) = 0;
        if (old >= saved(0)) left(s, old - saved(0)) = 0;
        label(s, b) = l, size(s, b) = n;
        relabel(s, l);
    }
    void join(State &s, uint32_t b, uint32_t with) const
    {
        unsigned char l = label(s, with);
        label(s, b) = l, size(s, b) = size(s, with);
        relabel(s, l);
    }
    void push(uint64_t ns, const State &s)
    {
        auto it = best.find(s);
        if (it != best.end() && it->second <= ns) return;
        best[s] = ns;
        open.push(Entry(ns, s));
    }
    uint32_t class_of(uint32_t o, uint32_t f) const
    {
        uint32_t h = 0;
        while (std::string(g->ops[o].forms[h].bits) != g->ops[o].forms[f].bits) h++;
        return h;
    }
    bool task_done(State &s, uint32_t o, uint32_t t) const /* has op o given its contribution to t's gradient? */
    {
        for (size_t k = 0; k < bwd.size(); k++)
            if (bwd[k].op == o && rmi_list_has(&g->ops[o].forms[0].parts[bwd[k].part].grads, t)) return done(s, k);
        return true;
    }
    bool wanted(State &s, uint32_t b) const /* a gradient that must not go yet */
    {
        if (b < g->n_tensors || b >= saved(0)) return false;
        uint32_t t = b - g->n_tensors;
        if (g->tensors[t].kind != RMI_ACT) return true;
        for (size_t k = 0; k < bwd.size(); k++)
            if (bwd[k].op == g->tensors[t].maker && !done(s, k)) return true;
        return false;
    }
    void forwards(uint64_t ns, State s0, uint32_t o)
    {
        const rmi_op *op = &g->ops[o];
        uint32_t y = op->out.at[0];
        for (uint32_t k = 0; k < op->in.n; k++)
            if (!there(s0, op->in.at[k])) return;
        if (label(s0, y)) return;
        if (op->view != RMI_NONE) {
            if (always(op->view)) return;
            join(s0, y, op->view);
            ran(s0, o) = 1;
            return push(ns, s0);
        }
        for (uint32_t f = 0; f < op->n_forms; f++) {
            const rmi_form *x = &op->forms[f];
            if (bits(s0, o) && bits(s0, o) != class_of(o, f) + 1) continue;
            for (int keep = 0; keep < 2; keep++) {
                if (keep && (!x->saved || !op->has_bwd || label(s0, saved(o)))) continue;
                for (int over = 0; over < 2; over++) {
                    State s = s0;
                    if (over && (x->inplace == RMI_NONE || g->tensors[x->inplace].kind != RMI_ACT || !label(s, x->inplace) || names(s, x->inplace) > 1 || size(s, x->inplace) < g->tensors[y].bytes)) continue;
                    if (!keep && x->saved && label(s, saved(o)) && left(s, o) != f + 1) drop(s, saved(o)); /* it would be written over */
                    if (over) take(s, y, x->inplace);
                    else if (g->tensors[y].bytes) put(s, y, g->tensors[y].bytes);
                    else label(s, y) = (unsigned char)(y + 1);
                    if (keep) put(s, saved(o), x->saved), left(s, o) = (unsigned char)(f + 1);
                    if (live(s) + x->fwd_ws > limit) continue;
                    if (op->n_forms > 1) bits(s, o) = (unsigned char)(class_of(o, f) + 1);
                    ran(s, o) = 1;
                    push(ns + (ran(s0, o) ? x->again : x->fwd), s);
                }
            }
        }
    }
    /* The gradients of a backward one after another, each in all ways: added, new, over something, another name of dout. */
    void contribute(uint64_t ns, State s, size_t task, uint32_t f, uint32_t k, bool is_free, uint64_t held)
    {
        const rmi_op *op = &g->ops[bwd[task].op];
        const rmi_form *x = &op->forms[f];
        const rmi_part *p = &x->parts[bwd[task].part];
        uint32_t dout = op->grad_out.n ? grad(op->grad_out.at[0]) : RMI_NONE;
        while (k < op->grad_in.n && !rmi_list_has(&p->grads, op->grad_in.at[k])) k++;
        if (k == op->grad_in.n) {
            if (std::max(held, live(s) + 0) + p->bwd_ws > limit) return;
            done(s, task) = 1;
            return push(ns + (is_free ? 0 : p->bwd), s);
        }
        uint32_t t = op->grad_in.at[k], b = grad(t);
        uint64_t bytes = g->tensors[t].grad_bytes;
        if (!bytes) return contribute(ns, s, task, f, k + 1, false, held);
        if (label(s, b)) {
            if (names(s, b) == 1) contribute(ns, s, task, f, k + 1, false, held);
            return;
        }
        State n = s;
        put(n, b, bytes);
        contribute(ns, n, task, f, k + 1, false, held + bytes);
        bool equal = dout != RMI_NONE && label(s, dout) && bytes == g->tensors[op->out.at[0]].grad_bytes;
        if (equal && rmi_list_has(&op->share, t)) {
            n = s;
            join(n, b, dout);
            contribute(ns, n, task, f, k + 1, is_free, held);
        }
        if (equal && (rmi_list_has(&op->share, t) || op->view == t) && names(s, dout) == 1) {
            n = s;
            take(n, b, dout);
            contribute(ns, n, task, f, k + 1, is_free, held);
        }
        for (uint32_t v = 0; v < x->n_overs; v++) {
            const rmi_over *q = &x->overs[v];
            uint32_t old = q->what == RMI_OVER_DOUT ? dout : q->what == RMI_OVER_SAVED ? saved(bwd[task].op) : q->tensor;
            if (q->grad_of != t || old == RMI_NONE || (q->what == RMI_OVER_TENSOR && g->tensors[q->tensor].kind != RMI_ACT)) continue;
            if (!label(s, old) || names(s, old) > 1 || size(s, old) < bytes) continue;
            n = s;
            take(n, b, old);
            contribute(ns, n, task, f, k + 1, false, held);
        }
    }
    void backwards(uint64_t ns, State s, size_t task)
    {
        uint32_t o = bwd[task].op;
        const rmi_op *op = &g->ops[o];
        if (done(s, task)) return;
        for (uint32_t k = 0; k < op->grad_out.n; k++)
            for (uint32_t c = 0; c < g->tensors[op->grad_out.at[k]].consumers.n; c++)
                if (!task_done(s, g->tensors[op->grad_out.at[k]].consumers.at[c], op->grad_out.at[k])) return;
        for (uint32_t k = 0; k < op->grad_in.n && !g->any_order; k++) {
            const rmi_list *c = &g->tensors[op->grad_in.at[k]].consumers;
            if (!rmi_list_has(&op->forms[0].parts[bwd[task].part].grads, op->grad_in.at[k])) continue;
            for (uint32_t i = 0; i < c->n; i++)
                if (c->at[i] > o && !task_done(s, c->at[i], op->grad_in.at[k])) return;
        }
        for (uint32_t k = 0; k < op->grad_out.n; k++)
            if (g->tensors[op->grad_out.at[k]].grad_bytes && !label(s, grad(op->grad_out.at[k]))) return;
        for (uint32_t f = 0; f < op->n_forms; f++) {
            const rmi_part *p = &op->forms[f].parts[bwd[task].part];
            bool ok = true, is_free = op->grad_in.n > 0;
            for (uint32_t k = 0; k < p->needs.n; k++) ok = ok && there(s, p->needs.at[k]); /* of no bytes, too: it must have been made */
            if (p->needs_saved && op->forms[f].saved) ok = ok && left(s, o) == f + 1;
            if (ok) contribute(ns, s, task, f, 0, is_free, live(s));
        }
    }
    /* RMI_INF: infeasible; 0: too much work */
    uint64_t solve()
    {
        nb = 2 * g->n_tensors + g->n_ops;
        for (uint32_t i = 0; i < g->n_ops; i++)
            for (uint32_t p = 0; p < g->ops[i].forms[0].n_parts; p++)
                if (g->ops[i].has_bwd && rmi_low_part_wanted(&g->ops[i], &g->ops[i].forms[0].parts[p])) bwd.push_back(Task{i, p});
        State s(2 * nb + 3 * g->n_ops + bwd.size(), 0);
        for (uint32_t t = 0; t < g->n_tensors; t++)
            if (g->tensors[t].kind == RMI_INPUT && g->tensors[t].bytes) put(s, t, g->tensors[t].bytes);
        if (live(s) > limit) return RMI_INF;
        push(0, s);
        while (!open.empty()) {
            Entry e = open.top();
            open.pop();
            s = e.second;
            if (best[s] < e.first) continue;
            bool end = true;
            for (size_t k = 0; k < bwd.size(); k++) end = end && done(s, k);
            for (uint32_t t = 0; t < g->n_tensors; t++) end = end && (!g->tensors[t].is_output || there(s, t));
            if (end) return e.first;
            if (best.size() > most) return 0;
            for (uint32_t b = 0; b < nb; b++)
                if (label(s, b) && !wanted(s, b)) {
                    State n = s;
                    drop(n, b);
                    push(e.first, n);
                }
            for (uint32_t o = 0; o < g->n_ops; o++) forwards(e.first, s, o);
            for (size_t k = 0; k < bwd.size(); k++) backwards(e.first, s, k);
        }
        return RMI_INF;
    }
};

/* The whole bound on time within so many bytes. */
static rm_result bound_within(rmi_arena *mem, const rmi_step *m, uint64_t bytes, uint64_t work, uint64_t more, uint64_t *bound)
{
    rmi_bnd_ask ask = {bytes, work, more, RMI_INF};
    return rmi_bnd_bound(mem, m, &ask, bound);
}

/* The bound of one to six moments in a row, by chance, with any prices and any number of branchings. */
static uint64_t together(rmi_arena *mem, const rmi_step *m, uint64_t limit, uint64_t seed)
{
    Rng r = {seed << 20};
    rmi_bnd b;
    rmi_bnd_web web;
    uint64_t most = 0;
    if (rmi_bnd_make(mem, m, limit, &b) != RM_OK || rmi_bnd_web_begin(&b, 6, &web) != RM_OK) return 0;
    for (unsigned turn = 0; turn < 16; turn++) {
        rmi_bnd_pick p = {};
        uint32_t want = 1 + r.below(6);
        for (uint32_t i = r.one_in(2) ? m->n_forwards : 0; i < m->n_once && p.n < want; i++)
            if (m->tasks[m->once[i]].way <= RMI_BWD && !r.one_in(3)) p.at[p.n++] = i;
        for (uint64_t &price : p.price) price = r.one_in(3) ? 0 : (uint64_t)1 << r.below(60); /* any is safe */
        b.most_work = b.work + 2000000;
        if (p.n < 1) continue;
        rmi_bnd_solve(&web, &p, r.one_in(2) ? 1 : 64);
        joint += p.most > 0;
        most = std::max(most, p.most);
    }
    return most;
}

/* The same graph, of which nothing but params, gradients and states moves. */
static std::string values_stay(const std::string &text)
{
    std::istringstream in(text);
    std::string line, out;
    while (std::getline(in, line)) {
        if (!line.compare(0, 3, "op ") || line.find(" input ") != std::string::npos) line += " stays";
        out += line + "\n";
    }
    return out;
}

/* Plans that move data: none is faster than the bound that knows the link. */
static void moving(uint64_t seed, unsigned *passed, unsigned *failed)
{
    static const char *const presets[] = {"offmate", "stream", "link", "blocks"};
    static const uint32_t steps[] = {RM_SINGLE, RM_FIRST, RM_MIDDLE, RM_LAST};
    std::string text = graph_text(seed, true);
    if (seed % 2) text = values_stay(text);
    rm_graph *g = NULL;
    if (rm_graph_read(text.data(), text.size(), NULL, &g)) {
        printf("seed %lu: %s\n", (unsigned long)seed, g ? rm_graph_error(g) : "memory");
        ++*failed;
    } else
        for (unsigned k = 0; k < 8; k++) {
            rm_plan *p = NULL;
            rm_plan_desc d;
            rm_plan_info info;
            memset(&d, 0, sizeof d);
            memset(&info, 0, sizeof info);
            d.preset = presets[k % 4];
            d.steps = steps[seed % 4];
            d.align = 1;
            d.host_bytes = 1 << 20;
            d.info = &info;
            d.device_bytes = 0;
            if (rm_plan_create(g, &d, &p)) continue;
            rm_plan_destroy(p);
            p = NULL;
            d.device_bytes = info.min_bound_bytes + (info.keep_all_bytes - info.min_bound_bytes) * (k + 1) / 9;
            if (rm_plan_create(g, &d, &p)) continue;
            rm_plan_destroy(p);
            if (info.bound_ns <= info.time_ns) ++*passed;
            else {
                ++*failed;
                printf("seed %lu, preset %s, step %u, %llu bytes: %llu ns, the bound is %llu\n%s", (unsigned long)seed, d.preset, d.steps, (unsigned long long)d.device_bytes,
                       (unsigned long long)info.time_ns, (unsigned long long)info.bound_ns, text.c_str());
            }
        }
    rm_graph_destroy(g);
}

/* The least memory of a plan that the planner names: exhaustive search finds none within less than the bound, and one within it. */
static unsigned named, named_least;
static void least(unsigned long seed, const rm_graph *g, const rmi_step *m, const std::string &text, unsigned *passed, unsigned *failed)
{
    rm_graph *again = NULL;
    rm_plan *p = NULL;
    rm_plan_desc d;
    rm_plan_info info;
    memset(&d, 0, sizeof d);
    memset(&info, 0, sizeof info);
    d.live_only = 1;
    d.info = &info;
    d.align = 1;
    d.device_bytes = 1;
    if (rm_graph_read(text.data(), text.size(), NULL, &again) || rm_plan_create(again, &d, &p) == RM_OK || info.min_bytes <= m->resident) {
        rm_plan_destroy(p);
        rm_graph_destroy(again);
        return;
    }
    Oracle o, less;
    o.g = less.g = g;
    o.limit = info.min_bytes - m->resident;
    less.limit = o.limit - 1;
    if (o.solve() != RMI_INF) ++*passed;
    else {
        ++*failed;
        printf("seed %lu: named %llu bytes; exhaustive search finds no step within them\n%s", seed, (unsigned long long)info.min_bytes, text.c_str());
    }
    named++;
    named_least += o.limit > 0 && less.solve() == RMI_INF;
    rm_graph_destroy(again);
}

/* How near the bound comes. opt: the time of a plan within the limit; 0: by exhaustive search. */
static void near(const char *what, const std::string &text, uint64_t limit, uint64_t opt, double percent, unsigned *passed, unsigned *failed)
{
    rm_graph *g = NULL;
    uint64_t bound = 0;
    if (rm_graph_read(text.data(), text.size(), NULL, &g)) {
        printf("%s: %s\n", what, g ? rm_graph_error(g) : "memory");
        ++*failed;
    } else {
        rmi_arena mem = rmi_arena_make(&g->mem.hooks);
        rmi_step m;
        Oracle o;
        o.g = g;
        o.limit = limit;
        if (!opt) opt = o.solve();
        if (rmi_step_make(&mem, g, RM_SINGLE, 1, 0, &m) != RM_OK || bound_within(&mem, &m, limit, 20000000, 30000000, &bound) != RM_OK) exit(2);
        if (opt && opt != RMI_INF && bound <= opt && (double)bound * 100 >= (double)opt * percent) ++*passed;
        else {
            ++*failed;
            printf("%s: %llu ns are needed, the bound is %llu\n", what, (unsigned long long)opt, (unsigned long long)bound);
        }
        rmi_arena_free(&mem);
    }
    rm_graph_destroy(g);
}

/* GPT-2 of 12 equal layers whose loss holds most. */
static std::string gpt()
{
    static const char *const line[] = {"op n# in=y#,w out=n# needs=y#,saved saved=65536 fwd=33145 bwd=64291",
                                       "op q# in=n#,w out=q#:37748736 needs=n# fwd=294838 bwd=587677",
                                       "op a# in=q# out=a#:12582912 saved=393216 fwd=132150 bwd=327376 bwd_ws=25165824",
                                       "op p# in=a#,w out=p# needs=a# fwd=99612 bwd=197225",
                                       "op r# in=p#,y# out=r# needs=none fwd=48718 bwd=33145 inplace=p# share_bwd=p#,y#",
                                       "op m# in=r#,w out=m# needs=r#,saved saved=65536 fwd=33145 bwd=64291",
                                       "op f# in=m#,w out=f#:50331648 needs=m# fwd=392451 bwd=782903",
                                       "op g# in=f# out=g# needs=f# fwd=126583 bwd=188874",
                                       "op d# in=g#,w out=d#:12582912 needs=g# fwd=392451 bwd=782903",
                                       "op s# in=d#,r# out=y& needs=none fwd=48718 bwd=33145 inplace=d# share_bwd=d#,r#"};
    std::string s = "rockmate graph 1\ntensor w param 0\ntensor x const 32768\n"
                    "op embed in=x,w out=y0:12582912 needs=x fwd=33145 bwd=48718\n";
    for (unsigned i = 0; i < 12; i++)
        for (const char *l : line) {
            for (; *l; l++) s += *l == '#' ? std::to_string(i) : *l == '&' ? std::to_string(i + 1) : std::string(1, *l);
            s += "\n";
        }
    return s + "op norm in=y12,w out=norm needs=y12,saved saved=65536 fwd=33145 bwd=64291\n"
               "op head in=norm,w out=head:823410688 needs=norm fwd=6389670 bwd=12777341\n"
               "op loss in=head,x out=l:4 needs=head,x,saved saved=32768 fwd=1021072 bwd=2040145 inplace_bwd=head:head\n"
               "output l\n";
}

static void near_all(unsigned *passed, unsigned *failed)
{
    std::string s = "rockmate graph 1\ntensor x const 9\ntensor w param 0\n", in = "x,w";
    for (unsigned i = 0; i < 12; i++) { /* a chain in the least memory: each backward runs all before it again, 1 + 2 + ... + 11 runs */
        s += "op f" + std::to_string(i) + " in=" + in + " out=y" + std::to_string(i) + ":9 needs=" + (i ? in : "x") + " fwd=100 bwd=100\n";
        in = "y" + std::to_string(i);
    }
    near("a chain in the least memory", s + "op loss in=y11 out=l:4 needs=none fwd=0 bwd=0\noutput l\n", 31, 2400 + 6600, 83, passed, failed);
    near("workspaces in the forward and in the backward",
         "rockmate graph 1\ntensor x const 4\ntensor w param 0\nop a in=x,w out=p:4 needs=none fwd=50 bwd=1\nop b in=p out=q:1 needs=p fwd=10 bwd=10\nvariant b fast needs=p fwd=4 bwd=4 fwd_ws=6 bwd_ws=6\n"
         "op c in=q out=r:4 needs=q fwd=50 bwd=1\nop d in=r out=s:1 needs=r fwd=10 bwd=10\nvariant d fast needs=r fwd=4 bwd=4 fwd_ws=6 bwd_ws=6\nop loss in=s out=l:1 needs=s fwd=1 bwd=1\noutput l\n",
         11, 0, 98, passed, failed);
    near("the best moment is three runs from the one where most is missing", gpt(), 1444790528, 87091088, 99.95, passed, failed);
    near("nothing fits beside the best moment, others count", gpt(), 848609536, 105241684, 98, passed, failed);
}

/* Chains, some with a skip, whose values and saved bytes are mostly of one size, within few of them: the bound of the path alone, and
   the whole one, against exhaustive search. */
static unsigned paths, path_tight;
static std::string chain_text(Rng &r)
{
    unsigned n = 2 + r.below(4), c = 2 + r.below(3), what = r.below(4), small = r.below(2);
    std::string s = "rockmate graph 1\ntensor w param 0\ntensor x0 " + std::string(r.one_in(2) ? "input " : "const ") + std::to_string(c) + "\n";
    for (unsigned i = 1; i <= n; i++) {
        unsigned kind = what == 3 ? r.below(3) : what, skip = i > 2 && r.one_in(5) ? 1 + r.below(i - 2) : 0;
        std::string x = "x" + std::to_string(i - 1), y = "x" + std::to_string(i), needs = kind == 0 ? "saved" : kind == 1 ? x : y;
        s += "op f" + std::to_string(i) + " in=" + x + (skip ? ",x" + std::to_string(skip) : "") + ",w out=" + y + ":" + std::to_string(i == n && small ? 0 : r.one_in(8) ? 2 * c : c) + " needs=" + needs +
             (r.one_in(5) ? "," + std::string(kind == 1 ? y : x) : "") + (kind == 0 ? " saved=" + std::to_string(r.one_in(6) ? 1 : c) : "") + num("fwd", r.one_in(2) ? 10 : 1 + r.below(20)) + " bwd=1";
        if (i > 1 && r.one_in(3)) s += " inplace=" + x;
        if (i > 1 && r.one_in(3)) s += " inplace_bwd=" + x;
        s += "\n";
    }
    return s + "output x" + std::to_string(n) + "\n";
}

static void chains(unsigned long graphs, unsigned long seed, unsigned *passed, unsigned *failed, unsigned *skipped)
{
    for (unsigned long n = 0; n <= graphs; n++) {
        if (n < graphs && !tm_more(n)) n = graphs;
        unsigned long i = n < graphs ? seed + n : 1406; /* what f3 saves is best made before the backward of f4, which wants one byte only */
        Rng r = {(uint64_t)i << 24 | 5};
        std::string text = chain_text(r);
        rm_graph *g = NULL;
        if (rm_graph_read(text.data(), text.size(), NULL, &g)) {
            printf("chain %lu: %s\n%s", i, g ? rm_graph_error(g) : "memory", text.c_str());
            ++*failed;
        } else
            for (unsigned limit = 6; limit < 40; limit += 1 + r.below(6)) {
                rmi_arena mem = rmi_arena_make(&g->mem.hooks);
                rmi_step m;
                rmi_bnd b;
                Oracle o;
                uint64_t path = 0, bound = 0, opt;
                o.g = g;
                o.limit = limit;
                o.most = 40000;
                if (rmi_step_make(&mem, g, RM_SINGLE, 1, 0, &m) != RM_OK || rmi_bnd_make(&mem, &m, limit, &b) != RM_OK) exit(2);
                b.most_work = 1000000;
                opt = o.solve();
                if (rmi_bnd_path_bound(&b, &path) != RM_OK || bound_within(&mem, &m, limit, 1000000, 1000000, &bound) != RM_OK) exit(2);
                if (!opt || opt == RMI_INF) ++*skipped;
                else if (std::max(path, bound) <= opt) {
                    ++*passed;
                    paths++;
                    path_tight += path == opt;
                } else {
                    ++*failed;
                    printf("chain %lu: within %u bytes %llu ns are enough, the bound is %llu, that of the path %llu\n%s", i, limit, (unsigned long long)opt, (unsigned long long)bound,
                           (unsigned long long)path, text.c_str());
                }
                rmi_arena_free(&mem);
            }
        rm_graph_destroy(g);
    }
}

/* n equal stages whose saved bytes are as large as a value, within so many values beside 4 bytes: the fastest plan makes `runs` forward
   runs (but one, in the second), and the bound says so. */
static void equal_chain(unsigned n, unsigned values, uint64_t runs, uint64_t proven, unsigned *passed, unsigned *failed)
{
    std::string s = "rockmate graph 1\ntensor w param 0\ntensor x0 input 1024\n";
    for (unsigned i = 1; i <= n; i++)
        s += "op f" + std::to_string(i) + " in=x" + std::to_string(i - 1) + ",w out=x" + std::to_string(i) + (i < n ? ":1024" : ":4") + " needs=saved saved=1024 fwd=1000 bwd=1\n";
    s += "output x" + std::to_string(n) + "\n";
    rm_graph *g = NULL;
    rm_plan *p = NULL;
    rm_plan_desc d;
    rm_plan_info info;
    memset(&d, 0, sizeof d);
    memset(&info, 0, sizeof info);
    d.live_only = d.align = 1;
    d.device_bytes = 1024 * values + 4;
    d.info = &info;
    if (!rm_graph_read(s.data(), s.size(), NULL, &g) && !rm_plan_create(g, &d, &p) && info.time_ns <= 1000 * runs + n && info.bound_ns == 1000 * proven + n) ++*passed;
    else {
        ++*failed;
        printf("%u equal stages, %u values: %llu ns, the bound is %llu\n", n, values, (unsigned long long)info.time_ns, (unsigned long long)info.bound_ns);
    }
    rm_plan_destroy(p);
    rm_graph_destroy(g);
}

int main(int argc, char **argv)
{
    unsigned long graphs = argc > 1 ? strtoul(argv[1], NULL, 10) : tm_amount(8, 36), seed = argc > 2 ? strtoul(argv[2], NULL, 10) : 1, i, n;
    unsigned passed = 0, failed = 0, skipped = 0, tight = 0, compared = 0;
    double ratio = 0;
    for (n = 0; n < graphs + (argc < 2); n++) {
        if (n < graphs && !tm_more(n)) n = graphs;
        i = n < graphs ? seed + n : 50360; /* its fastest plan drops a value and makes it again over what it is made of */
        std::string text = graph_text(i);
        rm_graph *g = NULL;
        rm_plan *p = NULL;
        rm_plan_desc d;
        rm_plan_info info;
        memset(&d, 0, sizeof d);
        memset(&info, 0, sizeof info);
        d.preset = "noremat";
        d.live_only = 1;
        d.info = &info;
        d.align = 1;
        if (rm_graph_read(text.data(), text.size(), NULL, &g) || rm_plan_create(g, &d, &p)) {
            printf("seed %lu: %s\n%s", i, g ? rm_graph_error(g) : "memory", text.c_str());
            failed++;
            rm_graph_destroy(g);
            continue;
        }
        rm_plan_destroy(p);
        for (unsigned k = 0; k < 4; k++) {
            rmi_arena mem = rmi_arena_make(&g->mem.hooks);
            rmi_step m;
            uint64_t bound = 0, budget = info.min_bound_bytes + (info.keep_all_bytes - info.min_bound_bytes) * k / 4, opt;
            if (rmi_step_make(&mem, g, RM_SINGLE, 1, 0, &m) != RM_OK) return 2;
            if (budget >= m.resident) {
                Oracle o;
                o.g = g;
                o.limit = budget - m.resident;
                opt = o.solve();
                if (bound_within(&mem, &m, o.limit, 20000000, i % 2 ? 20000000 : 0, &bound) != RM_OK) return 2;
                if (opt && opt != RMI_INF) bound = std::max(bound, together(&mem, &m, o.limit, i + 1000003 * k));
                if (opt == 0 || opt == RMI_INF) skipped++;
                else if (bound <= opt) {
                    passed++;
                    tight += bound == opt;
                    compared++;
                    ratio += (double)opt / (double)(bound ? bound : 1);
                } else {
                    failed++;
                    printf("seed %lu: within %llu bytes (base %llu) %llu ns are enough, the bound is %llu\n%s", i, (unsigned long long)budget, (unsigned long long)m.resident, (unsigned long long)opt,
                           (unsigned long long)bound, text.c_str());
                }
            }
            rmi_arena_free(&mem);
        }
        { /* no step within less than the bound on bytes */
            Oracle o;
            rmi_arena mem = rmi_arena_make(&g->mem.hooks);
            rmi_step m;
            if (rmi_step_make(&mem, g, RM_SINGLE, 1, 0, &m) != RM_OK) return 2;
            if (info.min_bound_bytes > m.resident) {
                uint64_t opt;
                o.g = g;
                o.limit = info.min_bound_bytes - m.resident - 1;
                opt = o.solve();
                if (opt == RMI_INF) passed++;
                else if (!opt) skipped++;
                else failed++, printf("seed %lu: %llu bytes are enough, the bound is %llu\n%s", i, (unsigned long long)(info.min_bound_bytes - 1), (unsigned long long)info.min_bound_bytes, text.c_str());
            }
            least(i, g, &m, text, &passed, &failed);
            rmi_arena_free(&mem);
        }
        rm_graph_destroy(g);
        if (i % 6 == 0) moving(i, &passed, &failed);
    }
    near_all(&passed, &failed);
    equal_chain(10, 6, 20, 20, &passed, &failed);
    equal_chain(50, 7, 200, 199, &passed, &failed);
    equal_chain(100, 8, 412, 412, &passed, &failed);
    equal_chain(100, 14, 233, 233, &passed, &failed);
    chains(5 * graphs, seed, &passed, &failed, &skipped);
    if (path_tight * 2 < paths) {
        failed++;
        printf("the path's bound is the optimum of %u of %u chains only\n", path_tight, paths);
    } else passed++;
    fprintf(stderr, "chains: %u compared, at the optimum by their path %u\n", paths, path_tight);
    fprintf(stderr, "memory named: %u, the least there is: %u\n", named, named_least);
    fprintf(stderr, "tight %u, moments by chance %u, mean optimum / bound %.4f\n", tight, joint, ratio / (compared ? compared : 1));
    printf("%u passed, %u failed, %u skipped\n", passed, failed, skipped);
    return failed != 0;
}
