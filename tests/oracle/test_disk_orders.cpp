/* A disk behind too little host memory against an exhaustive search. test_disk takes a plan's statements as they are and looks at every
   choice of what is away; here there is no plan to begin with: on chains of 2 or 3 ops with a weight each, all of them updated in host
   memory, each weight is at home on the device, in host memory or on disk, each state in host memory or on disk, and loads, stores and
   copies are asked for in every order and at every address that host memory has room for. The referee (replay.cpp) times each such step:
   no bound may be above the fastest. Device memory has room for everything but states. Few searches end within their number of states
   (how many do not is told), but with thirty times as many the fastest steps are the same. Plans may do more: send gradients and values to
   disk, load a weight twice, run forwards after backwards; so one may be faster.
   test_disk_orders [GRAPHS [FIRST SEED]] */
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"
#include "../common.h"
#include "draw.h"
#include "replay.h"
#include <algorithm>
#include <cstdio>
#include <string>
#include <unordered_set>
#include <vector>

enum { UNIT = 100, MOST = 3 }; /* all sizes are multiples of that many bytes; params */

struct Param {
    unsigned weight, state, update; /* units, ns */
};

struct Net {
    std::vector<Param> params;
    unsigned value, latency[2];
    uint64_t rate[4]; /* to the device, from it, from disk, to it */
    std::vector<unsigned> fwd, bwd;
    std::string text;
    uint64_t device; /* bytes of all that is ever on the device, each in bytes of its own */
};

static Net draw_net(uint64_t seed)
{
    Rng r = {seed << 20 | 9};
    Net n;
    const unsigned ops = 2 + (unsigned)(seed % 4 == 3);
    n.value = 1 + r.below(3);
    n.latency[0] = r.below(20), n.latency[1] = r.below(60);
    for (int k = 0; k < 4; k++) n.rate[k] = 100000000u * (k < 2 ? 5 + r.below(16) : 2 + r.below(10));
    n.text = "rockmate graph 1\nlink h2d=" + std::to_string(n.rate[0]) + " d2h=" + std::to_string(n.rate[1]) + num("latency", n.latency[0]) + "\ntier disk rate_in=" + std::to_string(n.rate[2]) +
             " rate_out=" + std::to_string(n.rate[3]) + num("latency", n.latency[1]) + "\ntensor x input " + std::to_string(n.value * UNIT) + "\n";
    n.device = n.value * UNIT;
    for (unsigned i = 0; i < ops; i++) {
        const Param p = {1 + r.below(3), 1 + r.below(4), 20 + r.below(300)};
        const std::string k = std::to_string(i), in = i ? "a" + std::to_string(i - 1) : "x";
        n.params.push_back(p), n.fwd.push_back(50 + r.below(500)), n.bwd.push_back(50 + r.below(900));
        n.text += "tensor w" + k + " param " + std::to_string(p.weight * UNIT) + num("state", p.state * UNIT) + num("opt_host", p.update) + "\n";
        n.text += "op f" + k + " in=" + in + ",w" + k + " out=a" + k + ":" + std::to_string(n.value * UNIT) + " needs=" + in + (r.one_in(2) ? ",w" + k : "") + num("fwd", n.fwd[i]) + num("bwd", n.bwd[i]) + "\n";
        n.device += (2 * p.weight + n.value + (i ? n.value : 0)) * UNIT;
    }
    n.text += "output a" + std::to_string(ops - 1) + "\n";
    return n;
}

/* What is to be done for a param, in the order in which it can be. */
enum What { LOAD_W, FETCH_W, OUT_W, OUT_G, LOAD_S, OPT, BACK_W, STORE_W, STORE_S, WHATS };
enum Home { DEVICE, HOST, DISK };
/* Where something is: of each param. */
enum Place { W_DEVICE, W_HOST, W_DISK, G_DEVICE, G_HOST, S_HOST, S_DISK, PLACES };
enum Lane { COMPUTE, TO_DEVICE, FROM_DEVICE, HOSTED, FROM_DISK, TO_DISK, LANES };

struct Search {
    const Net *net;
    unsigned room;             /* units of host memory */
    size_t most;
    Home weight[MOST], state[MOST];
    unsigned travel, disk;     /* units: where host memory begins that is not of homes there; of the disk */
    uint64_t best = RMI_INF, orders = 0, wrong = 0, early = 0, states = 0;
    bool all = true, rest = true; /* rest: weights may be at home on the device alone, and visit host memory for their update */
    std::string fastest;
    std::unordered_set<std::string> seen;
    struct Step {
        unsigned param;
        What what;
        unsigned at; /* in host memory, of what comes there */
    };
    std::vector<Step> path;

    /* What has been done, and for each lane how long after its first statement began: lanes, places and units of host memory. 0: that
       does not depend on it. */
    struct State {
        uint32_t done = 0;
        unsigned forwards = 0, backwards = 0; /* so many have run */
        int at[MOST][3];                      /* in host memory: weight, gradient, state; -1: not there */
        std::string lane[LANES], unit[48];    /* what they had, in order */
        uint32_t end[LANES][LANES] = {}, ready[LANES][MOST][PLACES] = {}, busy[LANES][MOST][PLACES] = {}, bytes[LANES][48] = {}, value[LANES] = {};
    };

    unsigned n() const { return (unsigned)net->params.size(); }
    static uint32_t bit(unsigned p, What w) { return 1u << (p * WHATS + w); }
    bool wanted(unsigned p, What w) const
    {
        switch (w) {
        case LOAD_W: case FETCH_W: case STORE_W: return weight[p] == DISK;
        case OUT_W: return weight[p] != HOST;
        case BACK_W: return weight[p] != DISK;
        case LOAD_S: case STORE_S: return state[p] == DISK;
        default: return true;
        }
    }
    unsigned units(unsigned p, What w) const { return w == LOAD_S || w == STORE_S ? net->params[p].state : net->params[p].weight; }
    uint64_t ns(unsigned p, What w) const
    {
        static const int lanes[WHATS] = {2, 0, 1, 1, 2, -1, 0, 3, 3};
        const int l = lanes[w];
        if (l < 0) return net->params[p].update;
        return net->latency[l / 2] + ((uint64_t)units(p, w) * UNIT * 1000000000u + net->rate[l] - 1) / net->rate[l];
    }
    static Lane lane_of(What w)
    {
        static const Lane lanes[WHATS] = {FROM_DISK, TO_DEVICE, FROM_DEVICE, FROM_DEVICE, FROM_DISK, HOSTED, TO_DEVICE, TO_DISK, TO_DISK};
        return lanes[w];
    }
    uint64_t load(const State *s, int lane) const /* ns of what a lane has to do, s: and has not done */
    {
        uint64_t sum = 0;
        for (unsigned p = 0; p < n(); p++) {
            for (int w = 0; w < WHATS; w++)
                if (wanted(p, (What)w) && lane_of((What)w) == lane && !(s && s->done & bit(p, (What)w))) sum += ns(p, (What)w);
            if (lane == COMPUTE) sum += (s && p < s->forwards ? 0 : net->fwd[p]) + (s && p >= n() - s->backwards ? 0 : net->bwd[p]);
        }
        return sum;
    }
    /* No step is shorter than what a lane takes from its first statement to its last: it has the next step's behind these. */
    uint64_t least(const State &s) const
    {
        uint64_t most_ns = 0;
        uint32_t before = 0; /* when the forward that reads the weight began: it waits in the next step for the weight that comes back */
        for (int l = 0; l < LANES; l++) most_ns = std::max(most_ns, s.end[l][l] + load(&s, l));
        for (unsigned p = 0; p < n(); before += net->fwd[p++])
            if (weight[p] != DISK) most_ns = std::max<uint64_t>(most_ns, s.ready[COMPUTE][p][W_DEVICE] > before ? s.ready[COMPUTE][p][W_DEVICE] - before : 0);
        return most_ns;
    }
    /* One statement: it reads and writes places of param p, and units of host memory from `at` on if something new comes there. */
    void work(State &s, Lane l, uint64_t length, unsigned p, std::vector<Place> reads, std::vector<Place> writes, int at, unsigned size, bool chain = false) const
    {
        for (int from = 0; from < LANES; from++) {
            uint32_t start = s.end[from][l];
            for (Place x : reads) start = std::max(start, s.ready[from][p][x]);
            for (Place x : writes) start = std::max(start, std::max(s.ready[from][p][x], s.busy[from][p][x]));
            for (unsigned u = 0; at >= 0 && u < size; u++) start = std::max(start, s.bytes[from][(unsigned)at + u]);
            if (chain) start = std::max(start, s.value[from]);
            if (!start && from != l) continue;
            start += (uint32_t)length;
            s.end[from][l] = start;
            for (Place x : reads) s.busy[from][p][x] = std::max(s.busy[from][p][x], start);
            for (Place x : writes) s.ready[from][p][x] = s.busy[from][p][x] = start;
            if (chain) s.value[from] = start;
        }
    }
    void compute(State &s, unsigned backwards) const /* all forwards, and so many backwards */
    {
        for (; s.forwards < n(); s.forwards++) work(s, COMPUTE, net->fwd[s.forwards], s.forwards, {W_DEVICE}, {}, -1, 0, true);
        for (; s.backwards < backwards; s.backwards++) work(s, COMPUTE, net->bwd[n() - 1 - s.backwards], n() - 1 - s.backwards, {W_DEVICE}, {G_DEVICE}, -1, 0, true);
    }
    bool may(const State &s, unsigned p, What w) const
    {
        auto has = [&](What x) { return !wanted(p, x) || (s.done & bit(p, x)); };
        if (!wanted(p, w) || s.done & bit(p, w)) return false;
        switch (w) {
        case FETCH_W: return has(LOAD_W);
        case OUT_W: return has(FETCH_W);
        case OUT_G: /* all forwards want their weights before */
            for (unsigned q = 0; q < n(); q++)
                if (wanted(q, FETCH_W) && !(s.done & bit(q, FETCH_W))) return false;
            return true;
        case OPT: return has(OUT_W) && has(OUT_G) && has(LOAD_S);
        case BACK_W: case STORE_W: case STORE_S: return has(OPT);
        default: return true;
        }
    }
    void leave(State &s, unsigned p, int what, unsigned size, Place x) const /* its bytes in host memory are free */
    {
        for (int from = 0; from < LANES; from++)
            for (unsigned u = 0; u < size; u++) s.bytes[from][(unsigned)s.at[p][what] + u] = std::max(s.busy[from][p][x], s.ready[from][p][x]);
        s.at[p][what] = -1;
    }
    void put(State &s, unsigned p, What w, int what, unsigned at) const
    {
        s.at[p][what] = (int)at;
        for (unsigned u = 0; u < units(p, w); u++) s.unit[at + u] += (char)(1 + p * WHATS + w);
    }
    void take(State &s, unsigned p, What w, unsigned at) const
    {
        const Param &x = net->params[p];
        const Lane l = lane_of(w);
        const uint64_t t = ns(p, w);
        if (w == OUT_G) compute(s, n() - p);
        switch (w) {
        case LOAD_W: work(s, l, t, p, {W_DISK}, {W_HOST}, (int)at, x.weight), put(s, p, w, 0, at); break;
        case FETCH_W: work(s, l, t, p, {W_HOST}, {W_DEVICE}, -1, 0), leave(s, p, 0, x.weight, W_HOST); break;
        case OUT_W: work(s, l, t, p, {W_DEVICE}, {W_HOST}, (int)at, x.weight), put(s, p, w, 0, at); break;
        case OUT_G: work(s, l, t, p, {G_DEVICE}, {G_HOST}, (int)at, x.weight), put(s, p, w, 1, at); break;
        case LOAD_S: work(s, l, t, p, {S_DISK}, {S_HOST}, (int)at, x.state), put(s, p, w, 2, at); break;
        case OPT: work(s, l, t, p, {G_HOST}, {W_HOST, S_HOST}, -1, 0), leave(s, p, 1, x.weight, G_HOST); break;
        case BACK_W:
            work(s, l, t, p, {W_HOST}, {W_DEVICE}, -1, 0);
            if (weight[p] == DEVICE) leave(s, p, 0, x.weight, W_HOST);
            break;
        case STORE_W: work(s, l, t, p, {W_HOST}, {W_DISK}, -1, 0), leave(s, p, 0, x.weight, W_HOST); break;
        default: work(s, l, t, p, {S_HOST}, {S_DISK}, -1, 0), leave(s, p, 2, x.state, S_HOST); break;
        }
        s.done |= bit(p, w);
        s.lane[l] += (char)(1 + p * WHATS + w);
    }
    std::vector<unsigned> spots(const State &s, unsigned size) const /* at the borders of what is free */
    {
        std::vector<bool> full(room, false);
        std::vector<unsigned> out;
        for (unsigned p = 0; p < n(); p++)
            for (int k = 0; k < 3; k++)
                for (unsigned u = 0; s.at[p][k] >= 0 && u < (k == 2 ? net->params[p].state : net->params[p].weight); u++) full[(unsigned)s.at[p][k] + u] = true;
        for (unsigned a = travel; a + size <= room; a++) {
            bool good = true;
            for (unsigned u = 0; u < size; u++) good = good && !full[a + u];
            if (good && (a == travel || full[a - 1] || a + size == room || full[a + size])) out.push_back(a);
        }
        return out;
    }
    void visit(const State &s)
    {
        if (states >= most) all = false;
        if (!all || least(s) >= best) return;
        std::string key((const char *)&s.done, sizeof s.done);
        for (const std::string &l : s.lane) key += l + '\0';
        for (unsigned u = 0; u < room; u++) key += s.unit[u] + '\0';
        if (!seen.insert(key).second) return;
        states++;
        bool over = true;
        std::vector<std::pair<uint64_t, Step>> next; /* what looks fastest first */
        for (unsigned p = 0; p < n(); p++)
            for (int k = 0; k < WHATS; k++) {
                const What w = (What)k;
                over = over && (!wanted(p, w) || (s.done & bit(p, w)));
                if (!may(s, p, w)) continue;
                const bool comes = w == LOAD_W || w == OUT_W || w == OUT_G || w == LOAD_S;
                for (unsigned at : comes ? spots(s, units(p, w)) : std::vector<unsigned>(1, 0)) {
                    State then = s;
                    take(then, p, w, at);
                    next.emplace_back(least(then) * 2 + (comes ? 1 : 0), Step{p, w, at});
                }
            }
        if (over) time_it(least(s));
        std::stable_sort(next.begin(), next.end(), [](const std::pair<uint64_t, Step> &a, const std::pair<uint64_t, Step> &b) { return a.first < b.first; });
        for (const auto &x : next) {
            State then = s;
            if (x.first / 2 >= best) break;
            take(then, x.second.param, x.second.what, x.second.at);
            path.push_back(x.second);
            visit(then);
            path.pop_back();
        }
    }

    /* --- the path as a program */
    std::string program() const
    {
        std::string head, body;
        uint64_t top = 0, host = 0, on_disk = 0;
        unsigned forwards = 0, backwards = 0;
        auto say = [&](const std::string &line) { body += line + "\n"; };
        auto place = [&](const std::string &buffer, uint64_t bytes) { say("alloc " + buffer + " " + std::to_string(top)), top += bytes; };
        auto home = [&](Home where, const std::string &buffer, uint64_t bytes) {
            head += where == DEVICE ? "resident " + buffer + " " + std::to_string(top) : "home " + buffer + " " + std::to_string(where == HOST ? host : on_disk) + (where == DISK ? " disk" : "");
            head += "\n";
            (where == DEVICE ? top : where == HOST ? host : on_disk) += bytes;
        };
        home(DEVICE, "x", net->value * UNIT);
        for (unsigned p = 0; p < n(); p++) {
            const std::string w = "w" + std::to_string(p);
            if (weight[p] != DISK) home(DEVICE, w, net->params[p].weight * UNIT);
            if (weight[p] != DEVICE) home(weight[p], w, net->params[p].weight * UNIT);
            home(state[p], "state:" + w, net->params[p].state * UNIT);
        }
        for (const Step &s : path) {
            const std::string k = std::to_string(s.param), w = "w" + k, at = " " + std::to_string(s.at * UNIT);
            const uint64_t bytes = net->params[s.param].weight * UNIT, value = net->value * UNIT;
            for (; s.what == OUT_G && forwards < n(); forwards++) place("a" + std::to_string(forwards), value), say("run fwd f" + std::to_string(forwards));
            for (; s.what == OUT_G && backwards < n() - s.param; backwards++) {
                const unsigned b = n() - 1 - backwards;
                if (b) place("grad:a" + std::to_string(b - 1), value);
                place("grad:w" + std::to_string(b), net->params[b].weight * UNIT);
                say("run bwd f" + std::to_string(b));
            }
            switch (s.what) {
            case LOAD_W: say("load " + w + at); break;
            case FETCH_W: place(w, bytes), say("prefetch " + w), say("drop_host " + w); break;
            case OUT_W: say("offload " + w + at); break;
            case OUT_G: say("offload grad:" + w + at); break;
            case LOAD_S: say("load state:" + w + at); break;
            case OPT: say("run opt " + w + "@host"), say("drop_host grad:" + w); break;
            case BACK_W:
                say("prefetch " + w);
                if (weight[s.param] == DEVICE) say("drop_host " + w);
                break;
            default: {
                const std::string buffer = s.what == STORE_W ? w : "state:" + w, mark = "home " + buffer + " ";
                size_t from = head.rfind(mark) + mark.size();
                say("store " + buffer + " " + head.substr(from, head.find(' ', from) - from)), say("drop_host " + buffer);
            }
            }
        }
        return "rockmate plan 1\narena " + std::to_string(top) + " host " + std::to_string(room * UNIT) + " disk " + std::to_string(on_disk) + "\n" + head + body;
    }
    void time_it(uint64_t least_ns)
    {
        const std::string text = program();
        rmtest::Result r;
        orders++;
        rmtest_replay(net->text, text, rmtest::Options(), r);
        if (!r.legal) {
            if (!wrong++) printf("no step: %s\n%s%s", r.message.c_str(), net->text.c_str(), text.c_str());
            return;
        }
        if (r.figures.time_ns < least_ns && !early++) printf("early: %lu below %lu\n%s%s", (unsigned long)r.figures.time_ns, (unsigned long)least_ns, net->text.c_str(), text.c_str());
        if (r.figures.time_ns < best) best = r.figures.time_ns, fastest = text;
    }
    /* All homes, those first whose busiest lane has least to do. */
    void solve(unsigned host, uint64_t below)
    {
        room = host, best = below;
        std::vector<std::pair<uint64_t, unsigned>> codes;
        unsigned all_codes = 1;
        for (unsigned p = 0; p < n(); p++) all_codes *= 6;
        for (unsigned c = 0; c < all_codes; c++) {
            uint64_t ns_most = 0;
            homes(c);
            for (int l = 0; l < LANES; l++) ns_most = std::max(ns_most, load(NULL, l));
            codes.emplace_back(ns_most, c);
        }
        std::sort(codes.begin(), codes.end());
        for (const auto &c : codes) {
            State s;
            homes(c.second);
            if (c.first >= best || travel > room || (!rest && std::find(weight, weight + n(), DEVICE) != weight + n())) continue;
            unsigned at = 0;
            for (unsigned p = 0; p < n(); p++) {
                s.at[p][0] = s.at[p][1] = s.at[p][2] = -1;
                if (weight[p] == HOST) s.at[p][0] = (int)at, at += net->params[p].weight;
                if (state[p] == HOST) s.at[p][2] = (int)at, at += net->params[p].state;
            }
            seen.clear();
            visit(s);
        }
    }
    void homes(unsigned code)
    {
        travel = 0;
        for (unsigned p = 0; p < n(); p++, code /= 6) {
            weight[p] = (Home)(code % 3), state[p] = code % 6 < 3 ? HOST : DISK;
            travel += (weight[p] == HOST ? net->params[p].weight : 0) + (state[p] == HOST ? net->params[p].state : 0);
        }
    }
};

static unsigned long orders, states, unfinished, early, refused;
static Tally at_home, anywhere;

/* The fastest step that is found, of those with a host copy of each weight between steps or of all. */
static void search(const Net &net, unsigned room, bool rest, const rm_plan_info &info, bool planned, Tally *tally)
{
    Search s;
    char why[200];
    s.net = &net, s.most = tm_amount(20000, 100000), s.rest = rest;
    s.solve(room, RMI_INF);
    states += s.states, orders += s.orders, unfinished += !s.all, early += s.early;
    EXPECT(!s.wrong, "what the search takes for a step is none");
    if (s.best == RMI_INF) return;
    snprintf(why, sizeof why, "the plan takes %lu ns, its bound is %lu, the best found %lu; within %u bytes of host memory", (unsigned long)info.time_ns, (unsigned long)info.bound_ns, (unsigned long)s.best, room * UNIT);
    refused += !planned;
    if (!planned) return;
    EXPECT(info.bound_ns <= s.best, why);
    tally->add(info.time_ns, s.best);
    if (getenv("RMTEST_SHOW")) printf("case %lu: %s\n%s%s", tm_case, why, net.text.c_str(), s.fastest.c_str());
}

/* One chain in so many units of host memory. */
static void compare(const Net &net, unsigned room)
{
    rm_graph *g = NULL;
    rm_plan *p = NULL;
    rm_plan_info info;
    rm_plan_desc d;
    tm_text t = {};
    memset(&d, 0, sizeof d);
    memset(&info, 0, sizeof info);
    d.device_bytes = net.device, d.host_bytes = room * UNIT, d.disk_bytes = 1 << 24;
    d.align = 1, d.work_limit = 100000;
    d.info = &info;
    if (!EXPECT(rm_graph_read(net.text.data(), net.text.size(), NULL, &g) == RM_OK, g ? rm_graph_error(g) : "memory")) return rm_graph_destroy(g);
    const bool planned = rm_plan_create(g, &d, &p) == RM_OK;
    if (planned) {
        rmtest::Options o;
        rmtest::Result r;
        o.budget = net.device, o.host_budget = room * UNIT;
        rm_plan_write(p, RM_SINGLE, tm_sink, &t);
        rmtest_replay(net.text, t.s, o, r);
        EXPECT(r.legal && r.figures.time_ns == info.time_ns, r.message.c_str());
        EXPECT(info.bound_ns <= info.time_ns, "a plan is below its bound");
    }
    search(net, room, false, info, planned, &at_home);
    search(net, room, true, info, planned, &anywhere);
    free(t.s);
    rm_plan_destroy(p);
    rm_graph_destroy(g);
}

int main(int argc, char **argv)
{
    const unsigned long graphs = argc > 1 ? strtoul(argv[1], NULL, 10) : tm_amount(12, 100), seed = argc > 2 ? strtoul(argv[2], NULL, 10) : 1;
    unsigned long i;
    for (i = seed; i < seed + graphs && tm_more(i - seed); i++) {
        const Net net = draw_net(i);
        unsigned least = 0, total = 0, widest = 0; /* units: of the largest update; of all; of the largest gradient */
        for (const Param &p : net.params) least = std::max(least, 2 * p.weight + p.state), total += p.weight + p.state, widest = std::max(widest, p.weight);
        const unsigned more = total + widest > least ? total + widest - least : 0;
        tm_case = i;
        for (unsigned k = 0; k < 3; k++) compare(net, least + more * k / 3);
    }
    tm_case = 0;
    printf("%lu graphs, %lu states, %lu orders timed; %lu searches not ended; %lu orders below what a lane takes; %lu refused though there is a step\n", i - seed, states, orders, unfinished, early, refused);
    at_home.say("weights at home in host memory or on disk"), anywhere.say("and on the device alone");
    /* 12 graphs: 22 and 71 % before weights that host memory updates could rest on the device alone. Plans run some forwards late and load
       some weights twice. */
    if (at_home.cases >= 8) EXPECT(at_home.mean() < 0.4 && anywhere.mean() < 1.1, "plans are further from the best orders than they were");
    return tm_end();
}
