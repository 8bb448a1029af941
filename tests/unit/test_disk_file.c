/* test_disk_file.c - examples/disk.h: what is committed is there whatever happens: processes killed at random moments, machines that lose
   what was not yet on the medium, full disks, files cut short, of other models, or in use.

      gcc -O1 -g -std=gnu99 -I. tests/unit/test_disk_file.c -o build/test_disk_file -lpthread [-DWITH_URING -luring] */
#if defined(WITH_URING) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

static ssize_t test_pwrite(int fd, const void *bytes, size_t n, off_t at);
static int test_sync(int fd);
#define DISK_PWRITE test_pwrite
#define DISK_SYNC test_sync
#include "examples/disk.h"
#include "../common.h"

static uint64_t mix(uint64_t x)
{
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

/* --- a medium that forgets: writes since the last sync can be undone */
static struct {
    struct undo {
        unsigned char *bytes;
        size_t n;
        off_t at;
    } undo[4096];
    size_t n;
    unsigned long calls, fail_at, full_at; /* call number: the machine stops; there is no room */
    uint64_t rng;
    int keeps; /* undos are kept */
} medium;

static void machine_stops(int fd)
{
    size_t i;
    for (i = medium.n; i-- > 0;) { /* what was not synced is on the medium or not, or in part */
        const uint64_t dice = medium.rng = mix(medium.rng);
        const size_t n = dice % 3 ? medium.undo[i].n : medium.undo[i].n * (size_t)(dice >> 8 & 7) / 8 / 512 * 512;
        if (dice % 3 == 0 || dice >> 32 & 1)
            if (pwrite(fd, medium.undo[i].bytes, n, medium.undo[i].at) != (ssize_t)n) _exit(9);
    }
    kill(getpid(), SIGKILL);
}
static ssize_t test_pwrite(int fd, const void *bytes, size_t n, off_t at)
{
    if (++medium.calls == medium.full_at) return errno = ENOSPC, -1;
    if (medium.keeps && medium.n < 4096) {
        struct undo *u = &medium.undo[medium.n++];
        u->bytes = (unsigned char *)calloc(1, n);
        u->n = n;
        u->at = at;
        if (pread(fd, u->bytes, n, at) < 0) return -1;
    }
    if (medium.calls == medium.fail_at) {
        if (pwrite(fd, bytes, n / 2, at) < 0) return -1;
        machine_stops(fd);
    }
    return pwrite(fd, bytes, n, at);
}
static int test_sync(int fd)
{
    if (++medium.calls == medium.fail_at) machine_stops(fd);
    while (medium.n) free(medium.undo[--medium.n].bytes);
    return fdatasync(fd);
}

/* --- a model whose parts all say which step they are of */
enum { PARTS = 6 };
static const disk_part parts[PARTS] = {{"w", 5000}, {"state:w", 200000}, {"grad/x", 65536}, {"state:b", 0}, {"b", 70000}, {"c", 131072 + 9}};
static const char plan_text[] = "rockmate plan 1\ngraph 0\narena 1 host 2 disk 999\nstep single\nresident b 0\nhome w 8192 disk\nhome c 400000 disk\nhome state:w 16384 disk\nhome b 3\n";
static const uint64_t plan_at[PARTS] = {8192, 16384, 0, 0, 0, 400000};
static char path[200];

static void fill(unsigned char *bytes, size_t part, uint64_t step)
{
    size_t i;
    for (i = 0; i < parts[part].bytes; i++) bytes[i] = step ? (unsigned char)(mix(step * 8 + part) >> i % 50 ^ i) : 0;
}

static disk *opened(uint64_t limit)
{
    char why[500];
    disk *d = disk_open(path, parts, PARTS, limit, why, sizeof why);
    if (!EXPECT(d != NULL, why)) return NULL;
    EXPECT(!disk_plan(d, plan_text, 700000), disk_error(d));
    return d;
}

/* A step: some parts by the plan's offsets, some by name; in pieces, now and then; and scratch. */
static int write_step(disk *d, uint64_t step)
{
    static unsigned char bytes[200000], more[1000];
    size_t part, at, n;
    for (part = 0; part < PARTS; part++) {
        fill(bytes, part, step);
        if (!disk_has(d, part)) {
            if (disk_put(d, part, bytes)) return 1;
            continue;
        }
        for (at = 0; at < parts[part].bytes; at += n) {
            n = parts[part].bytes - at;
            if (mix(step + part) % 3 == 0 && n > 30000) n = 1 + (size_t)(mix(step + at) % 30000);
            if (disk_write(d, plan_at[part] + at, bytes + at, n)) return 1;
        }
    }
    return disk_write(d, 650000, more, sizeof more);
}

/* All parts are as of this step. */
static int is_step(disk *d, uint64_t step)
{
    static unsigned char bytes[200000], want[200000];
    size_t part;
    int same = 1;
    for (part = 0; part < PARTS; part++) {
        fill(want, part, step);
        memset(bytes, 0xEE, sizeof bytes);
        EXPECT(!(disk_has(d, part) ? disk_read(d, plan_at[part], bytes, parts[part].bytes) : disk_get(d, part, bytes)), disk_error(d));
        same &= !memcmp(bytes, want, (size_t)parts[part].bytes);
    }
    return same;
}

static uint64_t step_of(const disk *d) { return d->step == DISK_NO_STEP ? 0 : d->step; }

static void as_written(void)
{
    disk *d;
    uint64_t in, out, latency, i;
    unsigned char bytes[100];
    unlink(path);
    if (!(d = opened(0))) return;
    EXPECT(d->step == DISK_NO_STEP && is_step(d, 0), "a new file is zeros");
    EXPECT(disk_has(d, 0) && disk_has(d, 1) && !disk_has(d, 2) && !disk_has(d, 4) && disk_has(d, 5), "homes of the plan");
    EXPECT(!disk_rates(d, 1 << 20, &in, &out, &latency) && in > 1 && out > 1 && latency && latency < 1000000000, disk_error(d));
    EXPECT(!write_step(d, 1) && is_step(d, 1) && !disk_end(d) && d->step == 1 && is_step(d, 1), disk_error(d));
    disk_close(d);
    for (i = 2; i < 9; i++) {
        if (!(d = opened(0))) return;
        EXPECT(d->step == i - 1 && is_step(d, i - 1), "as of the last commit");
        EXPECT(!write_step(d, 77) && !write_step(d, i) && is_step(d, i), disk_error(d));
        if (i % 3 == 0) { /* not committed: as before */
            disk_close(d);
            if (!(d = opened(0))) return;
            EXPECT(d->step == i - 1 && is_step(d, i - 1), "what was not committed is gone");
            EXPECT(!write_step(d, i), disk_error(d));
        }
        EXPECT(!disk_commit(d, i), disk_error(d));
        disk_close(d);
    }
    if (!(d = opened(0))) return;
    EXPECT(!disk_plan(d, "x\nhome c 0 disk\nhome w 200000 disk\n", 300000) && !disk_read(d, 3, bytes, 100) && !disk_read(d, 200000, bytes, 100), disk_error(d)); /* another plan */
    EXPECT(disk_read(d, 303100, bytes, 100) && strstr(disk_error(d), "beyond the plan's disk"), disk_error(d));
    EXPECT(disk_commit(d, 99), "after a failure nothing is committed");
    disk_close(d);
}

/* The file after a child went: of step `least` or one that it said it had committed since, whole. */
static void whole_after(uint64_t least, const char *how)
{
    disk *d = opened(0);
    char text[100];
    if (!d) return;
    snprintf(text, sizeof text, "%s: step %lu, at least %lu", how, (unsigned long)step_of(d), (unsigned long)least);
    EXPECT(step_of(d) >= least && is_step(d, step_of(d)), text);
    disk_close(d);
}

/* A child that makes steps and dies: at call number `at` with the machine, or, 0, after so many microseconds. */
static uint64_t dies(unsigned long at, unsigned us, uint64_t seed)
{
    int said[2], status;
    uint64_t step = 0, last = 0;
    pid_t child;
    if (pipe(said)) exit(3);
    fflush(stdout);
    if ((child = fork()) == 0) {
        char why[500];
        disk *d;
        medium.keeps = at != 0;
        medium.calls = 0;
        medium.fail_at = at;
        medium.rng = seed;
        d = disk_open(path, parts, PARTS, 0, why, sizeof why);
        if (!d || disk_plan(d, plan_text, 700000)) _exit(8);
        for (step = step_of(d) + 1;; step++) {
            if (write_step(d, step) || disk_commit(d, step)) _exit(7);
            if (write(said[1], &step, sizeof step) != sizeof step) _exit(6);
        }
    }
    close(said[1]);
    if (us) {
        usleep(us);
        kill(child, SIGKILL);
    }
    waitpid(child, &status, 0);
    EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "a child that was to be killed");
    while (read(said[0], &last, sizeof last) == sizeof last) step = last;
    close(said[0]);
    return step;
}

static void crashes(void)
{
    unsigned long i, n = tm_amount(60, 400);
    uint64_t step = 0, got;
    unlink(path);
    for (i = 1; i < n; i++) { /* the first ones while the file is made */
        tm_case = i;
        got = dies(i % 48 + 1, 0, i);
        if (got) step = got;
        whole_after(step, "the machine stopped");
        if (i == 40) unlink(path), step = 0;
    }
    for (i = 0; i < n / 2; i++) {
        tm_case = i;
        got = dies(0, 500 + (unsigned)(mix(i) % 20000), i);
        if (got) step = got;
        whole_after(step, "killed");
    }
    tm_case = 0;
}

static void refused(const char *says, const disk_part *p, size_t n, uint64_t limit)
{
    char why[500];
    disk *d = disk_open(path, p, n, limit, why, sizeof why);
    EXPECT(!d && strstr(why, says), d ? "opened" : why);
    disk_close(d);
}

static void errors(void)
{
    disk_part others[PARTS];
    disk *d, *copy;
    struct rlimit limit, small;
    struct stat st;
    FILE *f;
    char command[500];
    unsigned long i;
    unlink(path);
    refused("it wants", parts, PARTS, 100000);
    EXPECT(!stat(path, &st) && !st.st_size, "nothing is left of a file that was not allowed");
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &limit);
    small = limit;
    small.rlim_cur = 300000;
    setrlimit(RLIMIT_FSIZE, &small);
    refused("File too large", parts, PARTS, 0);
    setrlimit(RLIMIT_FSIZE, &limit);
    EXPECT(!stat(path, &st) && !st.st_size, "nothing is left of a file that had no room");
    if (!(d = opened(0))) return;
    refused("is in use by another process", parts, PARTS, 0);
    EXPECT(!write_step(d, 1) && !disk_commit(d, 1), disk_error(d));
    disk_close(d);
    refused("cannot be opened: Not a directory", parts, (snprintf(path + strlen(path), 9, "/x"), (size_t)PARTS), 0);
    path[strlen(path) - 2] = 0;
    memcpy(others, parts, sizeof others);
    others[1].bytes++;
    refused("holds another model", others, PARTS, 0);
    others[1].bytes--;
    others[1].name = "state:v";
    refused("holds another model", others, PARTS, 0);
    for (i = 1; i < 20; i++) { /* no room, at any write: told, and the file is as of step 1 */
        int code;
        if (!(d = opened(0))) return;
        medium.calls = 0;
        medium.full_at = i;
        code = write_step(d, 2) || disk_commit(d, 2);
        medium.full_at = 0;
        if (!code) { /* there were not so many writes */
            disk_close(d);
            break;
        }
        EXPECT(strstr(disk_error(d), "No space left on device"), disk_error(d));
        EXPECT(disk_commit(d, 3), "what was not written is not committed");
        disk_close(d);
        if (!(copy = opened(0))) return;
        EXPECT(copy->step == 1 && is_step(copy, 1), "as of the last commit");
        disk_close(copy);
    }
#if !defined(WITH_URING)
    EXPECT(i > 6, "writes that failed");
#endif
    snprintf(command, sizeof command, "%s.short", path);
    if (!stat(path, &st) && !truncate(path, st.st_size / 3)) refused("is cut short: it has", parts, PARTS, 0);
    if (!truncate(path, 4096)) refused("is cut short: it has 4096 bytes", parts, PARTS, 0);
    f = fopen(path, "w");
    if (f) fputs("a text of somebody", f), fclose(f);
    refused("was not written by this program", parts, PARTS, 0);
    f = fopen(path, "r");
    EXPECT(f && fgetc(f) == 'a' && fgetc(f) == ' ', "and is left alone");
    if (f) fclose(f);
}

/* A damaged map: the one before counts. */
static void damaged(void)
{
    disk *d;
    uint64_t at;
    int fd;
    unlink(path);
    if (!(d = opened(0))) return;
    EXPECT(!write_step(d, 1) && !disk_commit(d, 1) && !write_step(d, 2) && !disk_commit(d, 2), disk_error(d));
    at = d->sequence % 2 * d->map_bytes + 60;
    disk_close(d);
    fd = open(path, O_RDWR);
    EXPECT(pwrite(fd, "x", 1, (off_t)at) == 1, "-");
    close(fd);
    if (!(d = opened(0))) return;
    EXPECT(d->step == 1 && is_step(d, 1), "the step before");
    disk_close(d);
}

int main(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/rockmate-disk-%ld", tmp ? tmp : "/tmp", (long)getpid());
    as_written();
    damaged();
    errors();
#if !defined(WITH_URING) /* its writes go past the medium of this test */
    crashes();
#endif
    unlink(path);
    return tm_end();
}
