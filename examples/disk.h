/* disk.h - a file for what rockmate.h keeps on disk (rm_exec_desc.disk_read, disk_write, disk_end), which no crash leaves half written

   Weights and states stand in the file by name, whatever the plan: each has a stretch of blocks of its own, in two areas. A map says for
   each block in which of the two it is as of the last whole step. What is written goes to the other area and changes nothing until
   disk_commit, which waits until it is on the medium, then writes the map of this step beside the one before (there is room for two; each
   has a number, a checksum and the hash of the model's buffers). A process or machine that dies at any moment leaves the file as of the
   last commit. Behind the areas is scratch, for what a plan has on disk within a step only; nobody looks at it afterwards.

   Linux: with -DWITH_URING and -luring transfers go through liburing, past the page cache (O_DIRECT) where the file system can; it
   wants host memory aligned to 4096 (rm_plan_desc.align), all else goes through a buffer. Otherwise pread and pwrite.

      disk_part parts[] = {{"w", 4096}, {"state:w", 8192}};          // all that is to outlive the process, under the names of plans
      disk *d = disk_open("model.disk", parts, 2, 0, why, sizeof why);
      disk_plan(d, text);                                            // a plan, as rm_plan_write has it: where it has them
      rm_exec_desc desc = {.disk_read = disk_read, .disk_write = disk_write, .disk_user = d};
      ... a step, rm_exec_wait, disk_put of each part that the plan does not have on disk, disk_commit(d, step) ...
      disk_close(d);

   If a plan has all parts on disk, desc.disk_end = disk_end commits each step behind its last store, while the next one begins.
   One thread reads, one writes and commits. Functions that return int: 0, or not, and disk_error has the words; d is then to be closed. */
#ifndef DISK_H
#define DISK_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#if defined(WITH_URING)
#include <liburing.h>
#endif

#if defined(__GNUC__) || defined(__clang__)
#define DISK_FN static __attribute__((unused))
#else
#define DISK_FN static
#endif
#ifndef DISK_PWRITE /* tests put theirs here */
#define DISK_PWRITE pwrite
#define DISK_SYNC fdatasync
#endif

enum { DISK_PAGE = 4096, DISK_BLOCK = 65536, DISK_PIECE = 1 << 20, DISK_DEPTH = 8 };
#define DISK_NO_STEP UINT64_MAX /* disk.step of a file that no step was committed to */

typedef struct disk_part {
    const char *name; /* as in plans: "w", "state:w" */
    uint64_t bytes;
} disk_part;

typedef struct disk_range { /* of a plan's disk, in order: where it lies in an area */
    uint64_t at, bytes, to;
} disk_range;

typedef struct disk_head { /* of a map, which follows: a bit for each block, 1: area 1 has it */
    char magic[16];
    uint64_t sequence, step, model, blocks, sum; /* sum: of all this, itself 0, and the map */
} disk_head;

typedef struct disk_lane { /* of one thread */
    unsigned char *piece; /* DISK_PIECE bytes, aligned */
#if defined(WITH_URING)
    struct io_uring ring;
    int has_ring;
#endif
} disk_lane;

typedef struct disk {
    int fd, direct;
    char *path, error[400];
    disk_part *parts;
    uint64_t *part_at; /* in an area */
    size_t n_parts, n_ranges;
    disk_range *ranges;
    uint64_t model, sequence, step; /* hash of the parts; of the last commit */
    uint64_t blocks, map_bytes, scratch, scratch_bytes, limit; /* map_bytes: of one map; scratch: where it begins */
    unsigned char *now, *kept; /* by block: its area, as written, and as of the last commit */
    unsigned char *map;        /* map_bytes, aligned */
    disk_lane lane[2];         /* reads; writes */
    pthread_mutex_t lock;      /* of `now` and `error` */
} disk;

DISK_FN const char *disk_error(const disk *d) { return d->error; }

/* The first failure is the one that is told. */
DISK_FN int disk_fail(disk *d, const char *what, int code)
{
    pthread_mutex_lock(&d->lock);
    if (!d->error[0]) snprintf(d->error, sizeof d->error, "%.200s: %s%s%s", d->path, what, code > 0 ? ": " : "", code > 0 ? strerror(code) : "");
    pthread_mutex_unlock(&d->lock);
    return code ? code : -1;
}

DISK_FN uint64_t disk_sum(uint64_t sum, const void *bytes, size_t n)
{
    const unsigned char *p = (const unsigned char *)bytes;
    size_t i;
    for (i = 0; i < n; i++) sum = (sum ^ p[i]) * 0x100000001B3u;
    return sum ^ sum >> 29;
}
DISK_FN uint64_t disk_up(uint64_t bytes, uint64_t to) { return (bytes + to - 1) / to * to; }

/* --- bytes to and from the file: aligned ones at once, all others through the lane's piece */

#if defined(WITH_URING)
/* Pieces of one stretch, DISK_DEPTH of them at work. */
DISK_FN int disk_ring(disk *d, disk_lane *lane, int write, unsigned char *bytes, uint64_t n, uint64_t at)
{
    uint64_t next = 0, done = 0;
    unsigned busy = 0;
    int code = 0, got;
    while ((next < n && !code) || busy) {
        struct io_uring_cqe *cqe;
        for (; next < n && busy < DISK_DEPTH && !code; busy++) {
            struct io_uring_sqe *sqe = io_uring_get_sqe(&lane->ring);
            const uint64_t size = n - next < DISK_PIECE ? n - next : (uint64_t)DISK_PIECE;
            if (write) io_uring_prep_write(sqe, d->fd, bytes + next, (unsigned)size, at + next);
            else io_uring_prep_read(sqe, d->fd, bytes + next, (unsigned)size, at + next);
            io_uring_sqe_set_data(sqe, (void *)(uintptr_t)size);
            next += size;
        }
        do got = io_uring_submit_and_wait(&lane->ring, 1);
        while (got == -EINTR || got == -EAGAIN); /* a signal: what is at work in these bytes is waited for all the same */
        if (got >= 0)
            do got = io_uring_wait_cqe(&lane->ring, &cqe);
            while (got == -EINTR);
        if (got < 0) return EIO;
        if (cqe->res < 0) code = -cqe->res;
        else if ((uint64_t)cqe->res != (uint64_t)(uintptr_t)io_uring_cqe_get_data(cqe)) code = write ? ENOSPC : -1; /* -1: it is cut short */
        else done += (uint64_t)cqe->res;
        io_uring_cqe_seen(&lane->ring, cqe);
        busy--;
    }
    return code;
}
#endif

DISK_FN int disk_raw(disk *d, disk_lane *lane, int write, void *memory, uint64_t n, uint64_t at)
{
    unsigned char *bytes = (unsigned char *)memory;
#if defined(WITH_URING)
    if (lane->has_ring) return disk_ring(d, lane, write, bytes, n, at);
#endif
    (void)lane;
    while (n) {
        const ssize_t got = write ? DISK_PWRITE(d->fd, bytes, (size_t)n, (off_t)at) : pread(d->fd, bytes, (size_t)n, (off_t)at);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return got < 0 ? errno : write ? ENOSPC : -1;
        bytes += got, at += (uint64_t)got, n -= (uint64_t)got;
    }
    return 0;
}

/* who: 0 the thread that reads, 1 the one that writes. */
DISK_FN int disk_move(disk *d, int who, int write, void *memory, uint64_t n, uint64_t at)
{
    disk_lane *lane = &d->lane[who];
    unsigned char *bytes = (unsigned char *)memory;
    int code = 0;
    while (n && !code) {
        uint64_t size = n, lead = at % DISK_PAGE, room;
        if (!d->direct) code = disk_raw(d, lane, write, bytes, n, at);
        else if (!lead && n >= DISK_PAGE && (uintptr_t)bytes % DISK_PAGE == 0) {
            size = n / DISK_PAGE * DISK_PAGE;
            code = disk_raw(d, lane, write, bytes, size, at);
        } else {
            if (size > DISK_PIECE - lead) size = DISK_PIECE - lead;
            room = disk_up(lead + size, DISK_PAGE);
            if (!write || lead || room != size) code = disk_raw(d, lane, 0, lane->piece, room, at - lead);
            if (write) memcpy(lane->piece + lead, bytes, (size_t)size);
            if (write && !code) code = disk_raw(d, lane, 1, lane->piece, room, at - lead);
            if (!write) memcpy(bytes, lane->piece + lead, (size_t)size);
        }
        bytes += size, at += size, n -= size;
    }
    if (code) return disk_fail(d, write ? "writing" : code < 0 ? "reading: the file is cut short; take a copy of it" : "reading", code);
    return 0;
}

/* --- an area: blocks, of which one is current */

DISK_FN uint64_t disk_at(const disk *d, uint64_t block, int area)
{
    return 2 * d->map_bytes + ((uint64_t)area * d->blocks + block) * DISK_BLOCK;
}

/* Bytes of a part, from `at` on in an area; the part ends at `end`. */
DISK_FN int disk_blocks(disk *d, int write, unsigned char *bytes, uint64_t n, uint64_t at, uint64_t end)
{
    while (n) {
        const uint64_t block = at / DISK_BLOCK, lead = at % DISK_BLOCK;
        const uint64_t left = DISK_BLOCK - lead;
        uint64_t size = n < left ? n : left, next = block + 1, more;
        const int piece = write && (lead || (size < DISK_BLOCK && at + size < end)); /* of a block, the rest of which stays */
        int area, fresh, code = 0;
        pthread_mutex_lock(&d->lock);
        area = write ? !d->kept[block] : d->now[block];
        fresh = d->now[block] == d->kept[block];
        for (; !piece && size < n; size += more, next++) { /* blocks behind it in the same area */
            more = n - size < DISK_BLOCK ? n - size : (uint64_t)DISK_BLOCK;
            if ((write ? !d->kept[next] : d->now[next]) != area || (write && more < DISK_BLOCK && at + size + more < end)) break;
        }
        pthread_mutex_unlock(&d->lock);
        if (piece && fresh) {
            unsigned char *rest = (unsigned char *)malloc(DISK_BLOCK);
            code = rest ? disk_move(d, 1, 0, rest, DISK_BLOCK, disk_at(d, block, !area)) : disk_fail(d, "no memory", 0);
            if (!code) code = disk_move(d, 1, 1, rest, DISK_BLOCK, disk_at(d, block, area));
            free(rest);
        }
        if (!code) code = disk_move(d, write, write, bytes, size, disk_at(d, block, area) + lead);
        if (code) return code;
        pthread_mutex_lock(&d->lock);
        if (write) memset(d->now + block, area, (size_t)(next - block));
        pthread_mutex_unlock(&d->lock);
        bytes += size, at += size, n -= size;
    }
    return 0;
}

/* Bytes of a plan's disk: parts of the model, and scratch between them. */
DISK_FN int disk_plan_bytes(disk *d, int write, unsigned char *bytes, uint64_t n, uint64_t at)
{
    size_t i = 0;
    while (n) {
        uint64_t size = n;
        int code;
        while (i < d->n_ranges && d->ranges[i].at + d->ranges[i].bytes <= at) i++;
        if (i < d->n_ranges && d->ranges[i].at <= at) {
            const disk_range *r = &d->ranges[i];
            if (size > r->at + r->bytes - at) size = r->at + r->bytes - at;
            code = disk_blocks(d, write, bytes, size, r->to + (at - r->at), r->to + r->bytes);
        } else {
            if (i < d->n_ranges && size > d->ranges[i].at - at) size = d->ranges[i].at - at;
            if (at + size > d->scratch_bytes) return disk_fail(d, "beyond the plan's disk (disk_plan)", 0);
            code = disk_move(d, write, write, bytes, size, d->scratch + at);
        }
        if (code) return code;
        bytes += size, at += size, n -= size;
    }
    return 0;
}

/* --- hooks of rm_exec_desc */
DISK_FN int disk_read(void *user, uint64_t offset, void *dst, uint64_t bytes)
{
    return disk_plan_bytes((disk *)user, 0, (unsigned char *)dst, bytes, offset);
}
DISK_FN int disk_write(void *user, uint64_t offset, const void *src, uint64_t bytes)
{
    return disk_plan_bytes((disk *)user, 1, (unsigned char *)(uintptr_t)src, bytes, offset);
}

/* All that was written so far is as of this step, and stays, whatever happens from now on. */
DISK_FN int disk_commit(disk *d, uint64_t step)
{
    disk_head head;
    uint64_t i;
    int code;
    pthread_mutex_lock(&d->lock);
    code = d->error[0];
    pthread_mutex_unlock(&d->lock);
    if (code) return -1; /* something of it was not written */
    memset(&head, 0, sizeof head);
    memset(d->map, 0, (size_t)d->map_bytes);
    memcpy(head.magic, "rockmate disk 1", 16);
    head.sequence = d->sequence + 1;
    head.step = step;
    head.model = d->model;
    head.blocks = d->blocks;
    for (i = 0; i < d->blocks; i++) d->map[sizeof head + i / 8] |= (unsigned char)(d->now[i] << i % 8);
    memcpy(d->map, &head, sizeof head);
    head.sum = disk_sum(1, d->map, (size_t)d->map_bytes);
    memcpy(d->map, &head, sizeof head);
    if (DISK_SYNC(d->fd)) return disk_fail(d, "writing it to the medium", errno);
    code = disk_raw(d, &d->lane[1], 1, d->map, d->map_bytes, head.sequence % 2 * d->map_bytes);
    if (code) return disk_fail(d, "writing its map", code);
    if (DISK_SYNC(d->fd)) return disk_fail(d, "writing its map to the medium", errno);
    pthread_mutex_lock(&d->lock);
    memcpy(d->kept, d->now, (size_t)d->blocks);
    pthread_mutex_unlock(&d->lock);
    d->sequence++;
    d->step = step;
    return 0;
}
DISK_FN int disk_end(void *user)
{
    disk *d = (disk *)user;
    return disk_commit(d, d->step == DISK_NO_STEP ? 1 : d->step + 1);
}

/* A part, by number, whether a plan has it or not. */
DISK_FN int disk_get(disk *d, size_t part, void *dst)
{
    return disk_blocks(d, 0, (unsigned char *)dst, d->parts[part].bytes, d->part_at[part], d->part_at[part] + d->parts[part].bytes);
}
DISK_FN int disk_put(disk *d, size_t part, const void *src)
{
    return disk_blocks(d, 1, (unsigned char *)(uintptr_t)src, d->parts[part].bytes, d->part_at[part], d->part_at[part] + d->parts[part].bytes);
}

/* Has the plan of disk_plan this part on disk? */
DISK_FN int disk_has(const disk *d, size_t part)
{
    size_t i;
    for (i = 0; i < d->n_ranges; i++)
        if (d->ranges[i].to == d->part_at[part] && d->parts[part].bytes) return 1;
    return 0;
}

DISK_FN void disk_close(disk *d)
{
    int i;
    if (!d) return;
    for (i = 0; i < 2; i++) {
#if defined(WITH_URING)
        if (d->lane[i].has_ring) io_uring_queue_exit(&d->lane[i].ring);
#endif
        free(d->lane[i].piece);
    }
    if (d->fd >= 0) close(d->fd); /* and the lock goes with it */
    pthread_mutex_destroy(&d->lock);
    free(d->path);
    free(d->parts);
    free(d->part_at);
    free(d->ranges);
    free(d->now);
    free(d->kept);
    free(d->map);
    free(d);
}

/* --- opening */

/* Room in the file, taken now: a disk that is full says so here, not amid a step. */
DISK_FN int disk_room(disk *d, uint64_t bytes)
{
    char text[120];
    int code;
    snprintf(text, sizeof text, "it wants %llu bytes, %llu are allowed", (unsigned long long)bytes, (unsigned long long)d->limit);
    if (d->limit && bytes > d->limit) return disk_fail(d, text, 0);
#if defined(__linux__)
    code = posix_fallocate(d->fd, 0, (off_t)bytes);
#else
    code = ftruncate(d->fd, (off_t)bytes) ? errno : 0;
#endif
    snprintf(text, sizeof text, "it wants %llu bytes", (unsigned long long)bytes);
    return code ? disk_fail(d, text, code) : 0;
}

/* Reads the map in slot i; 0 if it is one of this model (-1 of another one), later than what is known, and whole. */
DISK_FN int disk_slot(disk *d, int slot)
{
    disk_head head;
    uint64_t sum, i;
    if (disk_raw(d, &d->lane[0], 0, d->map, d->map_bytes, (uint64_t)slot * d->map_bytes)) return 1;
    memcpy(&head, d->map, sizeof head);
    sum = head.sum;
    if (memcmp(head.magic, "rockmate disk 1", 16)) return 1;
    if (head.model != d->model || head.blocks != d->blocks) return -1;
    head.sum = 0;
    memcpy(d->map, &head, sizeof head);
    if (disk_sum(1, d->map, (size_t)d->map_bytes) != sum || head.sequence <= d->sequence) return 1;
    d->sequence = head.sequence;
    d->step = head.step;
    for (i = 0; i < d->blocks; i++) d->now[i] = d->kept[i] = d->map[sizeof head + i / 8] >> i % 8 & 1;
    return 0;
}

/* Nothing but zeros, and not too many: a file that is new, or whose making was cut short. */
DISK_FN int disk_is_new(disk *d, uint64_t size, uint64_t most)
{
    uint64_t i, at, n;
    for (at = 0; at < size && size <= most; at += n) {
        n = size - at < d->map_bytes ? size - at : d->map_bytes;
        memset(d->map, 0, (size_t)d->map_bytes);
        if (disk_raw(d, &d->lane[0], 0, d->map, n, at)) return 0;
        for (i = 0; i < n; i++)
            if (d->map[i]) return 0;
    }
    return size <= most;
}

/* The name of a new file is on the medium, too: that of the directory it stands in. */
DISK_FN int disk_sync_directory(const disk *d)
{
    const char *slash = strrchr(d->path, '/');
    char *name = (char *)malloc(strlen(d->path) + 2);
    int fd, code;
    if (!name) return ENOMEM;
    strcpy(name, slash ? d->path : ".");
    if (slash) name[slash == d->path ? 1 : slash - d->path] = 0;
    fd = open(name, O_RDONLY);
    free(name);
    if (fd < 0) return errno;
    code = fsync(fd) && errno != EINVAL ? errno : 0; /* EINVAL: a file system without such a thing */
    close(fd);
    return code;
}

DISK_FN int disk_begin(disk *d)
{
    struct stat st;
    int i, code, found = 0, others = 0;
    const uint64_t least = 2 * d->map_bytes + 2 * d->blocks * DISK_BLOCK;
    char text[120];
    int flags = O_RDWR | O_CREAT;
#if defined(WITH_URING) && defined(O_DIRECT)
    d->fd = open(d->path, flags | O_DIRECT, 0666);
    d->direct = d->fd >= 0;
#endif
    if (d->fd < 0) d->fd = open(d->path, flags, 0666);
    if (d->fd < 0) return disk_fail(d, "cannot be opened", errno);
    if (flock(d->fd, LOCK_EX | LOCK_NB)) return disk_fail(d, errno == EWOULDBLOCK ? "is in use by another process" : "cannot be locked", errno == EWOULDBLOCK ? 0 : errno);
    if (fstat(d->fd, &st)) return disk_fail(d, "has no size", errno);
    for (i = 0; i < 2; i++) {
        void *piece = NULL;
        if (posix_memalign(&piece, DISK_PAGE, DISK_PIECE)) return disk_fail(d, "no memory", 0);
        d->lane[i].piece = (unsigned char *)piece;
#if defined(WITH_URING)
        d->lane[i].has_ring = !io_uring_queue_init(2 * DISK_DEPTH, &d->lane[i].ring, 0); /* or the kernel does not want to: pread, pwrite */
#endif
    }
    d->scratch = least;
    if (disk_is_new(d, (uint64_t)st.st_size, least)) {
        if ((code = disk_room(d, least)) != 0) {
            if (ftruncate(d->fd, st.st_size)) (void)disk_fail(d, "giving back its room", errno);
            return code;
        }
        code = disk_sync_directory(d);
        return code ? disk_fail(d, "writing its name to the medium", code) : disk_commit(d, DISK_NO_STEP);
    }
    for (i = 0; i < 2; i++) {
        code = disk_slot(d, i);
        found |= !code;
        others |= code < 0;
    }
    if (!found && others) return disk_fail(d, "holds another model (names and sizes of what it keeps are others)", 0);
    if (!found) return disk_fail(d, "was not written by this program, or both of its maps are damaged", 0);
    snprintf(text, sizeof text, "is cut short: it has %llu bytes of %llu; take a copy of it", (unsigned long long)st.st_size, (unsigned long long)least);
    if ((uint64_t)st.st_size < least) return disk_fail(d, text, 0);
    return 0;
}

/* limit: bytes that the file may have; 0: any. NULL: `why` has the words, and a file that was there is as it was. */
DISK_FN disk *disk_open(const char *path, const disk_part *parts, size_t n, uint64_t limit, char *why, size_t why_bytes)
{
    disk *d = (disk *)calloc(1, sizeof *d);
    void *map = NULL;
    size_t i;
    snprintf(why, why_bytes, "%.200s: no memory", path);
    if (!d) return NULL;
    d->fd = -1;
    d->limit = limit;
    pthread_mutex_init(&d->lock, NULL);
    d->path = (char *)malloc(strlen(path) + 1);
    d->parts = (disk_part *)malloc((n + 1) * sizeof *d->parts);
    d->part_at = (uint64_t *)malloc((n + 1) * sizeof *d->part_at);
    d->ranges = (disk_range *)malloc((n + 1) * sizeof *d->ranges);
    if (!d->path || !d->parts || !d->part_at || !d->ranges) return disk_close(d), (disk *)NULL;
    strcpy(d->path, path);
    memcpy(d->parts, parts, n * sizeof *parts);
    d->n_parts = n;
    d->model = disk_sum(1, "65536", 5);
    for (i = 0; i < n; i++) {
        d->part_at[i] = d->blocks * DISK_BLOCK;
        d->blocks += disk_up(parts[i].bytes, DISK_BLOCK) / DISK_BLOCK;
        d->model = disk_sum(disk_sum(d->model, parts[i].name, strlen(parts[i].name) + 1), &parts[i].bytes, sizeof parts[i].bytes);
    }
    d->map_bytes = disk_up(sizeof(disk_head) + d->blocks / 8 + 1, DISK_PAGE);
    d->step = DISK_NO_STEP;
    d->now = (unsigned char *)calloc(1, (size_t)d->blocks + 1);
    d->kept = (unsigned char *)calloc(1, (size_t)d->blocks + 1);
    if (!d->now || !d->kept || posix_memalign(&map, DISK_PAGE, (size_t)d->map_bytes)) return disk_close(d), (disk *)NULL;
    d->map = (unsigned char *)map;
    if (!disk_begin(d)) return d;
    snprintf(why, why_bytes, "%s", d->error);
    disk_close(d);
    return NULL;
}

DISK_FN int disk_by_place(const void *a, const void *b)
{
    const disk_range *x = (const disk_range *)a, *y = (const disk_range *)b;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* From now on offsets are those of this plan, in the text of rm_plan_write (of any of its step kinds: what persists has the same places in
   all). bytes: rm_plan_info.disk_bytes[0]. */
DISK_FN int disk_plan(disk *d, const char *text, uint64_t bytes)
{
    const char *line;
    size_t i;
    d->n_ranges = 0;
    for (line = text; line && (line = strstr(line, "\nhome ")) != NULL; line++) {
        char name[300], where[10] = "";
        unsigned long long at;
        if (sscanf(line, " home %299s %llu%*1[ ]%9[^\n]", name, &at, where) != 3 || strcmp(where, "disk")) continue;
        for (i = 0; i < d->n_parts && strcmp(d->parts[i].name, name);) i++;
        if (i == d->n_parts || d->n_ranges == d->n_parts) continue; /* the model does not want to find it again */
        d->ranges[d->n_ranges].at = at;
        d->ranges[d->n_ranges].bytes = d->parts[i].bytes;
        d->ranges[d->n_ranges++].to = d->part_at[i];
    }
    qsort(d->ranges, d->n_ranges, sizeof *d->ranges, disk_by_place);
    d->scratch_bytes = disk_up(bytes, DISK_PAGE);
    return disk_room(d, d->scratch + d->scratch_bytes);
}

DISK_FN double disk_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Bytes a second to the file (onto the medium) and from it, of transfers of `bytes`, in its scratch; ns that a transfer takes besides,
   of the mean of some small ones. */
DISK_FN int disk_rates(disk *d, uint64_t bytes, uint64_t *in, uint64_t *out, uint64_t *latency_ns)
{
    const uint32_t transfers = 32; /* small ones */
    const uint64_t pages = bytes / DISK_PAGE + !(bytes / DISK_PAGE);
    void *memory = NULL;
    double start, took[2];
    uint64_t k;
    int i, code;
    bytes = pages * DISK_PAGE;
    code = disk_room(d, d->scratch + bytes);
    if (!code && posix_memalign(&memory, DISK_PAGE, (size_t)bytes)) code = disk_fail(d, "no memory", 0);
    if (!code) memset(memory, 1, (size_t)bytes);
    for (i = 1; i >= 0 && !code; i--) {
        start = disk_seconds();
        code = disk_move(d, i, i, memory, bytes, d->scratch);
        if (!code && i && DISK_SYNC(d->fd)) code = disk_fail(d, "writing it to the medium", errno);
#if defined(POSIX_FADV_DONTNEED)
        if (!code && i) (void)posix_fadvise(d->fd, (off_t)d->scratch, (off_t)bytes, POSIX_FADV_DONTNEED); /* it is read from there */
#endif
        took[i] = disk_seconds() - start;
    }
    start = disk_seconds();
    for (k = 0; k < transfers && !code; k++) code = disk_move(d, (int)(k & 1), (int)(k & 1), memory, DISK_PAGE, d->scratch + k * 7919 % pages * DISK_PAGE);
    *latency_ns = (uint64_t)((disk_seconds() - start) * 1e9 / transfers);
    free(memory);
    if (code) return code;
    *in = (uint64_t)((double)bytes / (took[0] + 1e-9)) + 1;
    *out = (uint64_t)((double)bytes / (took[1] + 1e-9)) + 1;
    return 0;
}

#endif
