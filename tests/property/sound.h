/* sound.h - bounds against plans: on random graphs with every feature, extreme sizes and times among them, no bound on time or memory
   may be above any legal plan within its limit, whichever preset, step kind, alignment or host memory the plan is of. A plan of a
   smaller budget is legal within a larger one, so n plans and their n sizes make about n * n / 2 comparisons.
   Wants ROCKMATE_IMPLEMENTATION, rockmate.h, randgraph.h and ../common.h. */
#ifndef RMTEST_SOUND_H
#define RMTEST_SOUND_H

#define SOUND_PLANS 4096
typedef struct sound_plan {
    uint64_t arena, live, time;
    uint32_t align;
    int moves; /* planned with host memory */
    const char *preset;
} sound_plan;

typedef struct sound_case {
    rm_graph *g;
    tm_text text;
    unsigned long seed;
    uint32_t step, n;
    sound_plan plan[SOUND_PLANS];
    uint64_t rng;
} sound_case;

static unsigned long long sound_compared, sound_wrong, sound_plans, sound_lists, sound_tight, sound_graphs;

static uint64_t sound_draw(sound_case *c, uint64_t n) { return (c->rng = rmi_mix(c->rng + 1)) % n; }

static void sound_fault(sound_case *c, const char *what, uint64_t bound, uint64_t limit, const sound_plan *p)
{
    static unsigned long last;
    if (sound_wrong++ >= 8 && last == c->seed) return;
    last = c->seed;
    printf("seed %lu, step %u: %s %llu within %llu, but preset %s, align %u%s has %llu ns, %llu bytes of arena, %llu live\n%s", c->seed, c->step, what, (unsigned long long)bound, (unsigned long long)limit,
           p->preset, p->align, p->moves ? ", host memory" : "", (unsigned long long)p->time, (unsigned long long)p->arena, (unsigned long long)p->live, c->text.s);
}

/* The text with some of its times, or of its workspaces, saved bytes and states, changed to 0, 1 or 2^40. */
static void sound_extreme(sound_case *c, const char *s, unsigned what)
{
    static const char *const times[] = {"fwd", "bwd", "again", "opt", "opt_host", "reduce", "ns", "latency"}, *const sizes[] = {"saved", "fwd_ws", "bwd_ws", "opt_ws", "state"};
    static const char *const values[] = {"0", "1", "1099511627776"};
    while (*s) {
        size_t key = strspn(s, "abcdefghijklmnopqrstuvwxyz_0123456789"), i;
        int change = 0;
        if (!key) {
            tm_sink(&c->text, s++, 1);
            continue;
        }
        if (s[key] == '=' && s[key + 1] >= '0' && s[key + 1] <= '9') {
            for (i = 0; i < RMI_COUNT(times) && what & 1; i++) change |= strlen(times[i]) == key && !memcmp(times[i], s, key);
            for (i = 0; i < RMI_COUNT(sizes) && what & 2; i++) change |= strlen(sizes[i]) == key && !memcmp(sizes[i], s, key);
        }
        if (!change || sound_draw(c, 4)) {
            tm_sink(&c->text, s, key);
            s += key;
            continue;
        }
        tm_sink(&c->text, s, key + 1);
        s += key + 1;
        s += strspn(s, "0123456789");
        i = (size_t)sound_draw(c, 3);
        tm_sink(&c->text, values[i], strlen(values[i]));
    }
}

/* A call that takes long has nothing to say here: what it has by then, or nothing, will do. */
static int sound_enough(void *user, const rm_progress *p)
{
    (void)p;
    return ++*(unsigned *)user > 3;
}

/* align 0: live bytes alone, which is quick. */
static void sound_plan_of(sound_case *c, const char *preset, uint32_t align, uint64_t host, uint64_t budget, rm_plan_info *info)
{
    rm_plan_desc d;
    rm_plan *p = NULL;
    sound_plan *x = &c->plan[c->n];
    unsigned asked = 0;
    memset(&d, 0, sizeof d);
    memset(info, 0, sizeof *info);
    d.preset = preset;
    d.align = align;
    d.live_only = !align;
    d.progress = sound_enough;
    d.progress_user = &asked;
    d.steps = c->step;
    d.host_bytes = host;
    d.device_bytes = budget;
    d.work_limit = 2000;
    d.info = info;
    if (c->n == SOUND_PLANS || rm_plan_create(c->g, &d, &p) != RM_OK) return;
    rm_plan_destroy(p);
    x->arena = info->arena_bytes;
    x->live = info->live_bytes;
    x->time = info->time_ns;
    x->align = align ? align : 1;
    x->moves = host != 0;
    x->preset = preset;
    c->n++;
    sound_plans++;
    sound_compared += 2;
    sound_tight += info->bound_ns == info->time_ns;
    if (info->bound_ns > info->time_ns) sound_fault(c, "its own bound is", info->bound_ns, budget, x);
    if (info->min_bound_bytes > info->arena_bytes) sound_fault(c, "its own bound on memory is", info->min_bound_bytes, budget, x);
}

/* Lists of runs that the search's moves make from everything once, each accepted whatever it costs, as plans: their live bytes and
   the time of their runs, which no plan of them can be below. That plans have these figures is test_search's business. */
static void sound_walk(sound_case *c, uint32_t steps)
{
    rmi_arena mem = rmi_arena_make(&c->g->mem.hooks);
    rmi_step m;
    rmi_ref_search s;
    uint32_t i;
    for (i = 0; i < c->g->n_tensors && rmi_low_has_update(c->step); i++) /* updates in host memory alone: no plan is without copies */
        if (c->g->tensors[i].updates && c->g->tensors[i].opt == RMI_INF) return;
    if (rmi_step_make(&mem, c->g, c->step, 1, 0, &m) != RM_OK || rmi_ref_search_make(&mem, &m, RMI_MAX, &s) != RM_OK) exit(2);
    s.search.random = c->rng;
    for (i = 0; i < steps && c->n < SOUND_PLANS; i++) {
        sound_plan *x = &c->plan[c->n];
        if (i % 256 == 0) {
            uint64_t peak;
            rmi_search_limit(&s.search, RMI_MAX, 0);
            rmi_ref_load(&s, 0);
            peak = s.search.costs.peak - m.resident;
            rmi_search_limit(&s.search, peak / 16 * (1 + sound_draw(c, 15)) + m.resident, 0);
            rmi_search_again(&s.search);
            if (i) rmi_ref_greedy(&s, 300 + (uint32_t)sound_draw(c, 600));
            if (!rmi_search_again(&s.search)) break;
        }
        s.search.heat = RMI_INF >> 24;
        rmi_search_once(&s.search);
        x->live = x->arena = s.search.costs.peak;
        x->time = s.search.costs.step_ns;
        x->align = 1;
        x->moves = 0;
        x->preset = "(a list of the search)";
        c->n++;
        sound_lists++;
    }
    rmi_arena_free(&mem);
}

/* Bounds within `limit` bytes, alive if granule is 1, of arena else, against all plans that stay within it. */
static void sound_at(sound_case *c, uint64_t limit, uint32_t granule, int moves)
{
    static const uint64_t works[] = {2000, 20000, 1000000};
    rmi_arena mem = rmi_arena_make(&c->g->mem.hooks);
    rmi_step m;
    uint64_t bound = 0, work = works[sound_draw(c, 3)];
    rm_plan_info once;
    uint32_t i, largest;
    rm_result r = rmi_step_make(&mem, c->g, c->step, granule, moves ? 2 : 0, &m);
    rmi_bnd_ask ask = {limit, work, work, RMI_INF};
    if (r == RM_OK) r = rmi_bnd_once(&mem, c->g, c->step, moves, &once, &largest);
    if (!moves && sound_draw(c, 2)) ask.more = 0;
    if (!moves) ask.bytes -= m.resident;
    if (r == RM_OK && (moves || limit >= m.resident)) r = rmi_bnd_bound(&mem, &m, &ask, &bound);
    if (r != RM_OK) exit(2);
    bound = rmi_max(bound, once.bound_ns);
    for (i = 0; i < c->n; i++) {
        const sound_plan *p = &c->plan[i];
        if (p->moves > moves || (granule > 1 || p->moves ? p->arena > limit || p->align % granule : p->live > limit)) continue;
        sound_compared++;
        if (bound > p->time) sound_fault(c, moves ? "with copies the bound is" : "the bound is", bound, limit, p);
        if (!moves && limit < m.resident) sound_fault(c, "what is always there takes", m.resident, limit, p);
    }
    rmi_arena_free(&mem);
}

/* Bounds on memory against all plans; moves: with host memory. */
static void sound_bytes(sound_case *c, int moves)
{
    rmi_arena mem = rmi_arena_make(&c->g->mem.hooks);
    rm_plan_info once;
    uint32_t i, largest;
    if (rmi_bnd_once(&mem, c->g, c->step, moves, &once, &largest) != RM_OK) exit(2);
    for (i = 0; i < c->n; i++) {
        if (c->plan[i].moves > moves) continue;
        sound_compared++;
        if (once.min_bound_bytes > c->plan[i].live) sound_fault(c, "the bound on memory is", once.min_bound_bytes, 0, &c->plan[i]);
    }
    rmi_arena_free(&mem);
}

static void sound_graph(unsigned long seed)
{
    static const char *const presets[] = {"noremat", "rotor", "rockmate", "sqrt", "greedy", "hilp", "checkmate", "hiremate", "llmc-1"}, *const moving[] = {"offmate", "stream", "link", "blocks"};
    static const uint32_t steps[] = {RM_SINGLE, RM_SINGLE, RM_MIDDLE, RM_FIRST, RM_LAST, RM_FORWARD};
    static sound_case c;
    rg_text text;
    rm_plan_info info;
    uint32_t i, n, align;
    memset(&text, 0, sizeof text);
    memset(&c, 0, sizeof c);
    c.seed = seed;
    c.rng = rmi_mix(seed) | 1;
    rg_ask_more(seed);
    rg_generate(&text, (uint32_t)seed, 2 + (int)sound_draw(&c, 7), sound_draw(&c, 3) ? RG_ALL : RG_ALL & ~(uint32_t)rmi_mix(seed + 7));
    if (!text.data) return;
    sound_extreme(&c, text.data, (unsigned)sound_draw(&c, 4));
    rg_free(&text);
    c.step = steps[sound_draw(&c, 6)];
    if (rm_graph_read(c.text.s, c.text.n, NULL, &c.g) == RM_OK) {
        uint64_t host = c.g->has_link && sound_draw(&c, 2) ? (uint64_t)1 << 42 : 0;
        for (align = 0; align <= 256; align += 256) {
            sound_plan_of(&c, "noremat", align, 0, 0, &info);
            for (i = 0; i < (align ? 1u : 3u); i++) {
                uint64_t span = info.keep_all_bytes - rmi_min(info.min_bound_bytes, info.keep_all_bytes);
                rm_plan_info own;
                sound_plan_of(&c, presets[sound_draw(&c, sound_draw(&c, 6) ? 5 : RMI_COUNT(presets))], align, 0, info.min_bound_bytes + span / 16 * (1 + sound_draw(&c, 14)), &own);
            }
            for (i = 0; i < 2 && host && !align; i++) {
                rm_plan_info own;
                sound_plan_of(&c, moving[sound_draw(&c, RMI_COUNT(moving))], 1, host, 1 + info.keep_all_bytes / 16 * (1 + sound_draw(&c, 14)), &own);
            }
        }
        n = c.n;
        sound_walk(&c, SOUND_PLANS);
        sound_bytes(&c, 0);
        if (host) sound_bytes(&c, 1);
        for (i = 0; i < n + 12 && c.n; i++) { /* at each plan's size, and at some lists' */
            const sound_plan *p = &c.plan[i < n ? i : sound_draw(&c, c.n)];
            if (!p->moves) sound_at(&c, p->live, 1, 0);
            if (host) sound_at(&c, p->arena, 1, 1);
            if (!p->moves && p->align > 1) sound_at(&c, p->arena, p->align, 0);
        }
        sound_graphs += n > 0;
    }
    rm_graph_destroy(c.g);
    tm_clear(&c.text);
}

#endif
