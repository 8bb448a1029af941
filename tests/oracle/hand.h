/* hand.h - plans as text before both referees: written by hand (shares.txt, disk.txt), and changed by chance. Wants rockmate.h, with the
   implementation, tests/common.h and replay.h above it.

      hand_plans("tests/oracle/disk.txt");                  // what both referees say of them, and what the file says
      hand_both(g, graph, graph_n, plan, plan_n, NULL); //     whatever it is, they say the same */
#ifndef RMTEST_HAND_H
#define RMTEST_HAND_H

static uint64_t hand_random = 1;
TM_FN size_t hand_below(size_t n)
{
    hand_random = hand_random * 6364136223846793005u + 1442695040888963407u;
    return n ? (size_t)(hand_random >> 33) % n : 0;
}

enum { HAND_TIME, HAND_FIRST, HAND_LIVE, HAND_HOST, HAND_DISK, HAND_FIGURES }; /* ns, ns, bytes: device, both host memories, disk */

typedef struct hand_want {
    int verdict;                    /* RMTEST_LEGAL, RMTEST_ILLEGAL, or -1: whichever, but the same */
    unsigned figures;               /* so many of them are known */
    uint64_t figure[HAND_FIGURES];
    const char *fact;               /* what the second referee says of an illegal one, among other words; NULL: whatever */
} hand_want;

/* Do both messages name the same statement? What is wrong at the end, or with what is declared, is told anywhere. */
TM_FN int hand_there(const char *library, const char *referee)
{
    const int declared = strstr(referee, ": home ") || strstr(referee, ": resident ") || strstr(referee, ": arena ");
    const unsigned long line = strncmp(referee, "line ", 5) ? 0 : strtoul(referee + 5, NULL, 10);
    return strstr(library, "the end of the text") ? !line || declared : declared || strtoul(library, NULL, 10) == line;
}

/* What is written of a plan is the same plan. */
TM_FN void hand_again(rm_graph *g, rm_plan *p)
{
    tm_text again = {0}, third = {0};
    rm_plan *q = NULL;
    rm_plan_write(p, 0, tm_sink, &again);
    if (EXPECT(rm_plan_read(g, again.s, again.n, &q) == RM_OK, rm_graph_error(g))) {
        rm_plan_write(q, 0, tm_sink, &third);
        EXPECT(!strcmp(again.s, third.s), "written, read, written");
    }
    rm_plan_destroy(q);
    free(again.s), free(third.s);
}

/* All that is said and drawn of a plan; it names the disk if anything is there. */
TM_FN void hand_views(rm_graph *g, rm_plan *p, int disk)
{
    tm_text t = {0};
    const char *at;
    uint32_t i, early = 0;
    EXPECT(rm_plan_summary(p, tm_sink, &t) == RM_OK && !strstr(t.s, "  disk ") == !disk, t.s);
    t.n = 0;
    EXPECT(rm_plan_svg(p, 0, tm_sink, &t) == RM_OK && rm_plan_trace(p, 0, tm_sink, &t) == RM_OK, "drawn");
    for (at = t.s; (at = strstr(at, "\"live bytes\",\"ts\":0.000,")) != NULL; at++) early++;
    EXPECT(early <= 1, "the trace has the live bytes of a later run at the beginning"); /* of an update in host memory it had */
    for (i = 0; i < g->n_tensors; i++) EXPECT(rm_plan_explain(p, rmi_graph_handle(g, i), tm_sink, &t) == RM_OK, "explained");
    free(t.s);
}

/* Both referees see a plan for a graph. Verdicts, and figures of what is legal, must be the same, and as is wanted (NULL: whatever they
   are). Returns whether it is legal. */
TM_FN int hand_both(rm_graph *g, const char *graph, size_t graph_n, const char *text, size_t n, const hand_want *want)
{
    rm_plan *p = NULL;
    rmtest_result r;
    char why[1200];
    const int verdict = rm_plan_read(g, text, n, &p) == RM_OK ? RMTEST_LEGAL : RMTEST_ILLEGAL;
    rmtest_replay_c(graph, graph_n, text, n, RMTEST_NO_BUDGET, RMTEST_NO_BUDGET, &r);
    snprintf(why, sizeof why, "library: %s; the tests' referee: %s\n%.*s", p ? "legal" : rm_graph_error(g), r.verdict ? r.message : "legal", (int)(n < 400 ? n : 400), text);
    EXPECT(verdict == r.verdict, why);
    if (want && want->verdict >= 0) EXPECT(verdict == want->verdict, why);
    if (want && want->fact && r.verdict) EXPECT(strstr(r.message, want->fact), why);
    if (want && want->fact && r.verdict && verdict) EXPECT(hand_there(rm_graph_error(g), r.message), why);
    if (!verdict && !r.verdict) {
        const rmi_figures *fig = &p->prog[0].fig;
        const uint64_t have[HAND_FIGURES] = {r.time_ns, r.first_ns, r.live_bytes, r.host_bytes + r.pageable_bytes, r.disk_bytes};
        const uint64_t lanes[RMI_LANES] = {r.compute_ns, r.h2d_ns, r.d2h_ns, r.host_ns, r.comm_ns, r.load_ns, r.store_ns};
        const uint64_t copied[4] = {r.h2d_bytes, r.d2h_bytes, r.load_bytes, r.store_bytes};
        rm_plan_info info;
        unsigned k;
        rm_plan_get_info(p, 0, &info);
        EXPECT(info.time_ns == r.time_ns && info.first_ns == r.first_ns && info.live_bytes == r.live_bytes, why);
        snprintf(why, sizeof why, "%llu %llu %llu bytes; the tests' referee: %llu %llu %llu", (unsigned long long)fig->host_top[RMI_PINNED], (unsigned long long)fig->host_top[RMI_PAGEABLE], (unsigned long long)fig->host_top[RMI_DISK], (unsigned long long)r.host_bytes, (unsigned long long)r.pageable_bytes, (unsigned long long)r.disk_bytes);
        EXPECT(fig->host_top[RMI_PINNED] == r.host_bytes && fig->host_top[RMI_PAGEABLE] == r.pageable_bytes && fig->host_top[RMI_DISK] == r.disk_bytes, why);
        for (k = 0; k < RMI_LANES; k++) EXPECT(info.busy_ns[k] == lanes[k], why);
        for (k = 0; k < 4; k++) EXPECT(fig->copied[k] == copied[k], why);
        for (k = 0; want && k < want->figures; k++) EXPECT(have[k] == want->figure[k], why);
        hand_again(g, p);
        if (want) hand_views(g, p, r.disk_bytes > 0);
    }
    rm_plan_destroy(p);
    return !verdict;
}

TM_FN char *hand_section(char *from) /* the next line that begins with @, or the end */
{
    char *at = strstr(from, "\n@");
    return at ? at + 1 : from + strlen(from);
}

/* All plans of a file: @graph NAME and a graph; @plan NAME GRAPH legal FIGURES..., or illegal [FACT], and a plan. */
TM_FN void hand_plans(const char *path)
{
    tm_text all = {0};
    char *at, *next;
    if (!EXPECT(tm_read(path, &all), "tests run in the repository's root")) return;
    for (at = hand_section(all.s); *at; at = next) {
        char name[120], graph[100], verdict[20], rest[200] = "", *line = strchr(at, '\n') + 1, *of, *end, *number = rest;
        const unsigned long failed = tm_failed;
        hand_want want = {RMTEST_LEGAL, 0, {0}, NULL};
        rm_graph *g = NULL;
        next = hand_section(at);
        if (sscanf(at, "@plan %119s %99s %19s%*[ ]%199[^\n]", name, graph, verdict, rest) < 3) continue;
        snprintf(name, sizeof name, "@graph %s\n", graph);
        of = strstr(all.s, name);
        if (!EXPECT(of, name)) continue;
        of = strchr(of, '\n') + 1;
        end = hand_section(of);
        if (strcmp(verdict, "legal")) {
            want.verdict = RMTEST_ILLEGAL;
            if (rest[0]) want.fact = rest;
        } else
            while (want.figures < HAND_FIGURES && *number) want.figure[want.figures++] = strtoull(number, &number, 10);
        if (EXPECT(rm_graph_read(of, (size_t)(end - of), NULL, &g) == RM_OK, g ? rm_graph_error(g) : "-")) hand_both(g, of, (size_t)(end - of), line, (size_t)(next - line), &want);
        if (tm_failed > failed) printf("that was %.60s\n", at);
        rm_graph_destroy(g);
    }
    free(all.s);
}

/* A plan's text with a line lost, doubled, moved, or with another number or another line's buffer. */
TM_FN size_t hand_change(const char *text, size_t n, char *out)
{
    const char *line[4000], *at = text;
    size_t lines = 0, i, k, m = 0, what = hand_below(5), other;
    for (; at < text + n && lines < 4000; at = strchr(at, '\n') + 1) line[lines++] = at;
    if (lines < 6 || lines == 4000) return 0;
    i = 3 + hand_below(lines - 3);
    other = 3 + hand_below(lines - 3);
    for (k = 0; k < lines; k++) {
        size_t from = k, length;
        if (what == 0 && k == i) continue;
        if (what == 1 && (k == i || k == other)) from = k == i ? other : i;
        length = (size_t)((from + 1 < lines ? line[from + 1] : text + n) - line[from]);
        if (what >= 3 && k == i) { /* the last word, or the second, is the other line's */
            const char *mine = memchr(line[i], ' ', length), *theirs = strchr(line[other], ' ');
            if (what == 3 && mine) mine = strrchr(line[i], ' ') && strpbrk(mine + 1, " \n")[0] == ' ' ? strpbrk(mine + 1, " \n") : mine;
            if (!mine || !theirs || theirs > strchr(line[other], '\n')) return 0;
            memcpy(out + m, line[i], (size_t)(mine - line[i]));
            m += (size_t)(mine - line[i]);
            length = (size_t)(strpbrk(theirs + 1, " \n") - theirs);
            memcpy(out + m, theirs, length);
            m += length;
            out[m++] = '\n';
            continue;
        }
        memcpy(out + m, line[from], length);
        m += length;
        if (what == 2 && k == i) {
            memcpy(out + m, line[from], length);
            m += length;
        }
    }
    return m;
}

#endif
