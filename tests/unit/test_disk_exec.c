/* test_disk_exec.c - the executor with plans that have a disk: what its hooks are given and when, homes there by every call, messages.

      gcc -O1 -g -std=gnu99 -I. tests/unit/test_disk_exec.c -o build/test_disk_exec -lpthread */
#define ROCKMATE_THREADS
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"
#include "../common.h"

enum { BYTES = 64, DISK = 4096 * 4 };

static struct file {
    unsigned char at[DISK];
    char log[4000];
    int fail; /* countdown: the call that returns 5 */
} file;

static int note(struct file *f, const char *what, uint64_t offset, uint64_t bytes)
{
    size_t n = strlen(f->log);
    snprintf(f->log + n, sizeof f->log - n, "%s %lu+%lu;", what, (unsigned long)offset, (unsigned long)bytes);
    return f->fail && !--f->fail ? 5 : 0;
}
static int f_read(void *user, uint64_t offset, void *dst, uint64_t bytes)
{
    memcpy(dst, ((struct file *)user)->at + offset, (size_t)bytes);
    return note((struct file *)user, "r", offset, bytes);
}
static int f_write(void *user, uint64_t offset, const void *src, uint64_t bytes)
{
    int code = note((struct file *)user, "w", offset, bytes);
    if (!code) memcpy(((struct file *)user)->at + offset, src, (size_t)bytes);
    return code;
}
static int f_end(void *user) { return note((struct file *)user, "end", 0, 0); }

static int fwd(const rm_call *c)
{
    for (int i = 0; i < BYTES; i++) ((unsigned char *)c->out[0])[i] = (unsigned char)(((const unsigned char *)c->in[0])[i] + 3 * ((const unsigned char *)c->in[1])[i]);
    return 0;
}
static int bwd(const rm_call *c)
{
    for (int i = 0; i < BYTES; i++) {
        if (c->din[0]) ((unsigned char *)c->din[0])[i] = (unsigned char)i;
        if (c->din[1]) ((unsigned char *)c->din[1])[i] = ((const unsigned char *)c->in[0])[i];
    }
    return 0;
}
static int update(const rm_call *c)
{
    for (int i = 0; i < BYTES; i++) ((unsigned char *)c->param)[i] = (unsigned char)(((unsigned char *)c->param)[i] + ((unsigned char *)c->grad)[i] + ++((unsigned char *)c->state)[i]);
    return 0;
}

static const char plan_text[] = "rockmate plan 1\n"
                                "arena 512 host 256 disk 16384\n"
                                "step single\n"
                                "resident x 0\n"
                                "home w 4096 disk\nhome state:w 8192 disk\n"
                                "load w 0\nalloc w 64\nprefetch w\nalloc op 128\nrun fwd op\n"
                                "alloc grad:w 192\nrun bwd op\nfree w\noffload grad:w 64\nfree grad:w\n"
                                "load state:w 128\nrun opt w@host\n"
                                "store w 4096\nstore state:w 8192\n";
static const char calls[] = "r 4096+64;r 8192+64;w 4096+64;w 8192+64;";

static rm_graph *graph(void)
{
    static const rm_kind kind = {.name = "op", .forward = fwd, .backward = bwd, .needs = RM_IN(0)};
    rm_graph *g = rm_graph_create(NULL);
    rm_tensor x, w;
    rm_graph_link(g, 1000000000, 1000000000, 0, 0);
    rm_graph_disk(g, 100000000, 100000000, 0, DISK);
    x = rm_input_add(g, "x", BYTES, 0);
    w = RM_PARAM(g, .name = "w", .bytes = BYTES, .state_bytes = BYTES, .update = update, .update_host = update, .update_ns = 1, .update_host_ns = 1);
    rm_output_add(g, RM_OP(g, &kind, .name = "op", .in = {x, w}, .out = {BYTES}, .fwd_ns = 10, .bwd_ns = 10));
    return g;
}

static rm_plan *read_plan(rm_graph *g, const char *text)
{
    rm_plan *p = NULL;
    EXPECT(rm_plan_read(g, text, strlen(text), &p) == RM_OK, rm_graph_error(g));
    return p;
}

static void fill(unsigned char *bytes, int with)
{
    for (int i = 0; i < BYTES; i++) bytes[i] = (unsigned char)(i * 5 + with);
}

static void step(rm_exec *x, rm_graph *g, int with, rm_result want)
{
    unsigned char bytes[BYTES];
    rm_result got;
    fill(bytes, with);
    EXPECT(rm_exec_write(x, rm_graph_find(g, "x"), RM_VALUE, 0, bytes, BYTES) == RM_OK, rm_exec_error(x));
    got = rm_exec_step(x, NULL);
    if (got == RM_OK) got = rm_exec_wait(x);
    EXPECT(got == want, rm_exec_error(x));
}

/* What two steps leave in w and its state, with everything on the device. */
static void plainly(rm_graph *g, unsigned char *w, unsigned char *state)
{
    rm_plan *p = NULL;
    rm_exec *x = NULL;
    unsigned char bytes[BYTES];
    EXPECT(rm_plan_create(g, NULL, &p) == RM_OK && rm_exec_create(p, NULL, &x) == RM_OK, rm_graph_error(g));
    fill(bytes, 9);
    rm_exec_write(x, rm_graph_find(g, "w"), RM_VALUE, 0, bytes, BYTES);
    fill(bytes, 77);
    rm_exec_write(x, rm_graph_find(g, "w"), RM_STATE, 0, bytes, BYTES);
    step(x, g, 1, RM_OK), step(x, g, 2, RM_OK);
    rm_exec_read(x, rm_graph_find(g, "w"), RM_VALUE, 0, w, BYTES);
    rm_exec_read(x, rm_graph_find(g, "w"), RM_STATE, 0, state, BYTES);
    rm_exec_destroy(x);
    rm_plan_destroy(p);
}

/* What is on disk is not cleared; all calls reach it, in parts, too; transfers come in program order, the end behind them. */
static void reached(int threads, int ends)
{
    rm_graph *g = graph();
    rm_plan *p = read_plan(g, plan_text), *q = NULL;
    rm_tensor w = rm_graph_find(g, "w");
    rm_exec_desc d = {.threads = (uint32_t)threads, .disk_read = f_read, .disk_write = f_write, .disk_end = ends ? f_end : NULL, .disk_user = &file};
    rm_exec *x = NULL;
    rm_exec_info info;
    tm_text state = {0}, trace = {0};
    unsigned char want[2][BYTES], got[BYTES];
    char calls_end[100];
    plainly(g, want[0], want[1]);
    snprintf(calls_end, sizeof calls_end, "%s%s", calls, ends ? "end 0+0;" : "");
    memset(&file, 0, sizeof file);
    fill(file.at + 4096, 9);
    if (!EXPECT(rm_exec_create(p, &d, &x) == RM_OK, rm_graph_error(g))) return;
    EXPECT(rm_exec_get_info(x, &info) == RM_OK && info.disk_bytes == DISK && info.host_bytes == 256, "info");
    EXPECT(rm_exec_read(x, w, RM_VALUE, 0, got, BYTES) == RM_OK && !memcmp(got, file.at + 4096, BYTES), "what the file holds persists");
    EXPECT(!rm_exec_pointer(x, w, RM_STATE) && strstr(rm_exec_error(x), "w persists on disk: use rm_exec_write and rm_exec_read"), rm_exec_error(x));
    fill(got, 77);
    EXPECT(rm_exec_write(x, w, RM_STATE, 0, got, 10) == RM_OK && rm_exec_write(x, w, RM_STATE, 10, got + 10, BYTES - 10) == RM_OK && !memcmp(file.at + 8192, got, BYTES), "written in parts");
    EXPECT(rm_exec_read(x, w, RM_STATE, 7, got, 3) == RM_OK && !memcmp(file.at + 8192 + 7, got, 3), "read in part");
    file.log[0] = 0;
    step(x, g, 1, RM_OK);
    if (!threads) EXPECT(!strcmp(file.log, calls_end), file.log);
    EXPECT(strstr(file.log, ends ? "w 4096+64;w 8192+64;end 0+0;" : "w 4096+64;w 8192+64;"), file.log);
    EXPECT(rm_exec_save(x, tm_sink, &state) == RM_OK, rm_exec_error(x));
    file.log[0] = 0;
    EXPECT(rm_exec_profile(x, NULL, 2) == RM_OK && !strstr(file.log, "end") && strstr(file.log, "r 8192"), rm_exec_error(x)); /* puts all back */
    step(x, g, 2, RM_OK);
    EXPECT(!memcmp(file.at + 4096, want[0], BYTES) && !memcmp(file.at + 8192, want[1], BYTES), "other bits than with everything on the device");
    for (file.fail = 1; file.fail <= 4 + ends; ) { /* each transfer fails in turn */
        static const char *const says[] = {"the disk: loading w returned 5; the step was stopped there", "the disk: loading state:w returned 5", "the disk: storing w returned 5", "the disk: storing state:w returned 5", "the disk: ending a step returned 5"};
        const int which = file.fail;
        step(x, g, 2, RM_ERROR_CALLBACK);
        EXPECT(strstr(rm_exec_error(x), says[which - 1]), rm_exec_error(x));
        EXPECT(rm_exec_restore(x, state.s, state.n) == RM_OK, rm_exec_error(x));
        step(x, g, 2, RM_OK);
        EXPECT(!memcmp(file.at + 4096, want[0], BYTES) && !memcmp(file.at + 8192, want[1], BYTES), says[which - 1]);
        file.fail = which + 1;
    }
    file.fail = 0;
    fill(got, 2);
    EXPECT(rm_exec_restore(x, state.s, state.n) == RM_OK && rm_exec_write(x, rm_graph_find(g, "x"), RM_VALUE, 0, got, BYTES) == RM_OK && rm_exec_trace(x, NULL, tm_sink, &trace) == RM_OK, rm_exec_error(x));
    EXPECT(strstr(trace.s, "\"load state:w\"") && strstr(trace.s, "\"store w\"") && !strstr(trace.s, "\"disk_end\"") == !ends && strstr(trace.s, "\"from disk\""), trace.s);
    file.fail = 1;
    EXPECT(rm_exec_read(x, w, RM_STATE, 0, got, 1) == RM_ERROR_CALLBACK && strstr(rm_exec_error(x), "the disk: reading state:w returned 5"), rm_exec_error(x));
    file.fail = 1;
    EXPECT(rm_exec_write(x, w, RM_VALUE, 0, got, 1) == RM_ERROR_CALLBACK && strstr(rm_exec_error(x), "the disk: writing w returned 5"), rm_exec_error(x));
    EXPECT(rm_exec_check(x, NULL, NULL) == RM_ERROR_ARGUMENT && strstr(rm_exec_error(x), "rm_exec_check: the plan has something on disk"), rm_exec_error(x));
    EXPECT(rm_exec_restore(x, state.s, state.n) == RM_OK && rm_plan_create(g, NULL, &q) == RM_OK && rm_exec_replan(x, q) == RM_OK, rm_exec_error(x));
    step(x, g, 2, RM_OK); /* on the device now, and the disk is left alone */
    EXPECT(rm_exec_read(x, w, RM_VALUE, 0, got, BYTES) == RM_OK && !memcmp(got, want[0], BYTES), "after rm_exec_replan");
    EXPECT(rm_exec_replan(x, p) == RM_OK && !memcmp(file.at + 8192, want[1], BYTES), "and back");
    free(state.s), free(trace.s);
    rm_exec_destroy(x);
    rm_plan_destroy(p), rm_plan_destroy(q);
    rm_graph_destroy(g);
}

/* A weight that is at home on the device and on disk is on the device what it is on disk from the start. */
static void both(void)
{
    static const char text[] = "rockmate plan 1\narena 512 host 256 disk 16384\nstep forward\nresident x 0\nresident w 64\nhome w 64 disk\nhome state:w 8192 disk\nalloc op 128\nrun fwd op\n";
    rm_graph *g = graph();
    rm_plan *p = read_plan(g, text);
    rm_exec_desc d = {.disk_read = f_read, .disk_write = f_write, .disk_user = &file};
    rm_exec *x = NULL, *other = NULL;
    unsigned char got[BYTES], want[BYTES];
    rm_step s = {.kind = RM_FORWARD};
    memset(&file, 0, sizeof file);
    fill(file.at + 64, 33);
    if (!EXPECT(rm_exec_create(p, &d, &x) == RM_OK, rm_graph_error(g))) return;
    EXPECT(!rm_exec_pointer(x, rm_graph_find(g, "w"), RM_VALUE) && strstr(rm_exec_error(x), "persists on disk"), rm_exec_error(x));
    fill(got, 1);
    EXPECT(rm_exec_write(x, rm_graph_find(g, "x"), RM_VALUE, 0, got, BYTES) == RM_OK && rm_exec_step(x, &s) == RM_OK, rm_exec_error(x));
    for (int i = 0; i < BYTES; i++) want[i] = (unsigned char)(got[i] + 3 * file.at[64 + i]);
    EXPECT(rm_exec_read(x, rm_graph_find(g, "op"), RM_VALUE, 0, got, BYTES) == RM_OK && !memcmp(got, want, BYTES), "the weight of the file");
    d.share = x;
    EXPECT(rm_exec_create(p, &d, &other) == RM_OK, rm_graph_error(g)); /* the same places in one file */
    EXPECT(rm_exec_write(x, rm_graph_find(g, "w"), RM_VALUE, 5, want, 7) == RM_OK && !memcmp(file.at + 69, want, 7), "written to both");
    EXPECT(rm_exec_read(other, rm_graph_find(g, "w"), RM_VALUE, 5, got, 7) == RM_OK && !memcmp(got, want, 7), "shared");
    d.share = NULL;
    rm_exec_destroy(other), rm_exec_destroy(x);
    file.fail = 1;
    x = NULL;
    EXPECT(rm_exec_create(p, &d, &x) == RM_ERROR_CALLBACK && !x && strstr(rm_graph_error(g), "the disk: reading w returned 5"), rm_graph_error(g));
    rm_plan_destroy(p);
    rm_graph_destroy(g);
}

static void refused(void)
{
    rm_graph *g = graph();
    rm_plan *p = read_plan(g, plan_text);
    rm_exec_desc d = {.disk_read = f_read};
    rm_exec *x = NULL;
    EXPECT(rm_exec_create(p, NULL, &x) == RM_ERROR_ARGUMENT && strstr(rm_graph_error(g), "the plan has something on disk; set rm_exec_desc.disk_read and disk_write, or plan without rm_plan_desc.disk_bytes"), rm_graph_error(g));
    EXPECT(rm_exec_create(p, &d, &x) == RM_ERROR_ARGUMENT, "only one hook");
    rm_plan_destroy(p);
    rm_graph_destroy(g);
}

int main(void)
{
    for (int i = 0; i < 4; i++) {
        tm_case = (size_t)i;
        reached(i & 1, i >> 1);
    }
    both();
    refused();
    return tm_end();
}
