/* nccl_standin.c - a test instrument: the calls of NCCL that examples/cuda/train_gpt_nccl.cu makes, between processes of one machine, on the
   stand-in for cudart

   Never linked into an example, and no substitute for cards: it knows what NCCL's manual promises and asks for. Processes meet in a file
   that all of them map, which the unique id names. A call is device work of its stream (captured, too), so nothing moves before the
   stand-in runs it; then the process waits for the others. What is wrong is told on stderr, and ends all ranks: calls that differ
   between ranks, buffers that overlap and are not in place, memory that is nobody's, buffers in a symmetric window at places that differ
   between ranks, or on some ranks only, windows on other memory than ncclMemAlloc's, or of other sizes, memory that goes before its window. Sums are
   made in the order of ranks, in the type of the values, the same in all calls that add: so they have the same bits. At the end rank 0
   says how many calls there were, and how many of them were in a window.
   NCCL_WIN_ENABLE=0: there are no windows, as where NCCL cannot make them. NCCL_STANDIN_WAIT=S: seconds that a rank waits for the others. */
#define _GNU_SOURCE
#include "cudart_standin.h"
#include <errno.h>
#include <fcntl.h>
#include <nccl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { MOST_RANKS = 8, ROOM = 32 << 20, PAGE = 4096, MOST_PIECES = 64, CALL_NS = 20000 };

typedef enum kind { JOIN, LEAVE, WINDOW, NO_WINDOW, ALL_REDUCE, BROADCAST, REDUCE, ALL_GATHER, REDUCE_SCATTER } kind;
static const char *const names[] = { "ncclCommInitRank", "ncclCommDestroy", "ncclCommWindowRegister", "ncclCommWindowDeregister", "ncclAllReduce", "ncclBroadcast", "ncclReduce",
                                     "ncclAllGather", "ncclReduceScatter" };

typedef struct call {
    kind what;
    int type, op, root;
    uint64_t count;
    int64_t send, recv; /* from the beginning of a window; -1: in none, -2: not asked for */
} call;

typedef struct meeting { /* in the file, and behind it ROOM bytes for each rank */
    pthread_mutex_t lock;
    pthread_cond_t turned;
    int n, there, lost;
    uint64_t turn;
    call said[MOST_RANKS];
} meeting;

struct ncclWindow_vidmem {
    unsigned char *p;
    size_t bytes;
    struct ncclWindow_vidmem *next;
};
struct ncclComm {
    meeting *at;
    int rank, n;
    struct ncclWindow_vidmem *windows;
    uint64_t calls, windowed;
    char path[NCCL_UNIQUE_ID_BYTES];
};

typedef struct job {
    call call;
    const void *send;
    void *recv;
    ncclComm_t comm;
    cudaStream_t stream;
} job;

static struct {
    unsigned char *p, *base;
    size_t bytes;
} pieces[MOST_PIECES]; /* of ncclMemAlloc */
static job waiting[1024];
static int depth, n_waiting;

static int wrong(ncclComm_t c, const char *where, const char *what)
{
    fprintf(stderr, "nccl_standin: rank %d, %s: %s\n", c->rank, where, what);
    pthread_mutex_lock(&c->at->lock);
    c->at->lost = 1;
    pthread_cond_broadcast(&c->at->turned);
    pthread_mutex_unlock(&c->at->lock);
    return 1;
}

/* All ranks are here. Nonzero: they will not all be. */
static int meet(ncclComm_t c, const char *where)
{
    meeting *m = c->at;
    const char *seconds = getenv("NCCL_STANDIN_WAIT");
    struct timespec until;
    uint64_t turn;
    int late = 0, lost;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += seconds ? atoi(seconds) : 120;
    pthread_mutex_lock(&m->lock);
    turn = m->turn;
    if (++m->there == c->n) {
        m->there = 0;
        m->turn++;
        pthread_cond_broadcast(&m->turned);
    }
    while (turn == m->turn && !m->lost && !late) late = pthread_cond_timedwait(&m->turned, &m->lock, &until) == ETIMEDOUT;
    lost = m->lost;
    pthread_mutex_unlock(&m->lock);
    return late ? wrong(c, where, "the other ranks did not come") : lost;
}

static size_t size_of(int type) { return type == ncclUint8 || type == ncclInt8 ? 1 : type == ncclBfloat16 || type == ncclFloat16 ? 2 : type == ncclFloat32 || type == ncclInt32 || type == ncclUint32 ? 4 : 8; }
static unsigned char *room_of(ncclComm_t c, int rank) { return (unsigned char *)c->at + (sizeof(meeting) + PAGE - 1) / PAGE * PAGE + (size_t)rank * ROOM; }

static int64_t in_window(ncclComm_t c, const void *p, size_t bytes)
{
    const struct ncclWindow_vidmem *w;
    for (w = c->windows; w; w = w->next)
        if ((const unsigned char *)p >= w->p && (const unsigned char *)p + bytes <= w->p + w->bytes) return (const unsigned char *)p - w->p;
    return -1;
}

/* Everybody has said what it calls: is it the same? */
static int agreed(ncclComm_t c, const call *mine)
{
    int r;
    for (r = 0; r < c->n; r++) {
        const call *other = &c->at->said[r];
        char text[200];
        if (other->what != mine->what || other->type != mine->type || other->op != mine->op || other->root != mine->root || other->count != mine->count) {
            snprintf(text, sizeof text, "rank %d calls %s of %llu, this rank %s of %llu (or with other arguments)", r, names[other->what], (unsigned long long)other->count, names[mine->what], (unsigned long long)mine->count);
            return !wrong(c, names[mine->what], text);
        }
        if (other->recv >= -1 && mine->recv >= -1 && other->recv != mine->recv) return !wrong(c, names[mine->what], "the receive buffer lies elsewhere in the window of another rank, or not in it");
        if (other->send >= -1 && mine->send >= -1 && other->send != mine->send) return !wrong(c, names[mine->what], "the send buffer lies elsewhere in the window of another rank, or not in it");
    }
    return 1;
}

static uint16_t add_bf16(uint16_t x, uint16_t y)
{
    union { uint32_t u; float f; } a, b;
    a.u = (uint32_t)x << 16;
    b.u = (uint32_t)y << 16;
    a.f += b.f;
    if (a.f != a.f) return 0x7FFF;
    return (uint16_t)((a.u + 0x7FFF + (a.u >> 16 & 1)) >> 16);
}
static void put_together(unsigned char *to, const unsigned char *more, uint64_t n, int type, int op)
{
    uint64_t i;
    for (i = 0; i < n; i++) {
        uint16_t *h = (uint16_t *)(void *)to + i;
        float *f = (float *)(void *)to + i;
        uint64_t *u = (uint64_t *)(void *)to + i, v = type == ncclUint64 ? ((const uint64_t *)(const void *)more)[i] : 0;
        if (type == ncclBfloat16) *h = add_bf16(*h, ((const uint16_t *)(const void *)more)[i]);
        else if (type == ncclFloat32) *f += ((const float *)(const void *)more)[i];
        else if (op == ncclSum) *u += v;
        else if (op == ncclMin ? v < *u : v > *u) *u = v;
    }
}
static void sum(ncclComm_t c, unsigned char *to, uint64_t from, const call *what)
{
    const uint64_t bytes = what->count * size_of(what->type);
    int r;
    memcpy(to, room_of(c, 0) + from, bytes);
    for (r = 1; r < c->n; r++) put_together(to, room_of(c, r) + from, what->count, what->type, what->op);
}

/* What a rank gives and gets, in bytes. */
static void sizes_of(const job *j, uint64_t *gives, uint64_t *gets)
{
    const uint64_t one = j->call.count * size_of(j->call.type), all = one * (uint64_t)j->comm->n;
    const int root = j->call.root == j->comm->rank;
    *gives = j->call.what == REDUCE_SCATTER ? all : j->call.what == BROADCAST && !root ? 0 : one;
    *gets = j->call.what == ALL_GATHER ? all : j->call.what == REDUCE && !root ? 0 : one;
}

static int run(void *arg)
{
    const job *j = (const job *)arg;
    const ncclComm_t c = j->comm;
    const char *name = names[j->call.what];
    const uint64_t one = j->call.count * size_of(j->call.type);
    uint64_t gives, gets;
    unsigned char *from, *to;
    int r;
    sizes_of(j, &gives, &gets);
    from = gives ? (unsigned char *)standin_at(j->send) : NULL;
    to = gets ? (unsigned char *)standin_at(j->recv) : NULL;
    if ((gives && (!from || !standin_at((const char *)j->send + gives - 1))) || (gets && (!to || !standin_at((char *)j->recv + gets - 1)))) return wrong(c, name, "bytes that are nobody's");
    standin_name(name);
    standin_touch(j->send, gives, 0);
    if (gives) memcpy(room_of(c, c->rank), from, gives);
    c->at->said[c->rank] = j->call;
    if (meet(c, name) || !agreed(c, &j->call)) return 1;
    standin_touch(j->recv, gets, 1);
    switch (j->call.what) {
    case ALL_REDUCE: sum(c, to, 0, &j->call); break;
    case REDUCE_SCATTER: sum(c, to, (uint64_t)c->rank * one, &j->call); break;
    case REDUCE: if (gets) sum(c, to, 0, &j->call); break;
    case BROADCAST: memcpy(to, room_of(c, j->call.root), one); break;
    default:
        for (r = 0; r < c->n; r++) memcpy(to + (uint64_t)r * one, room_of(c, r), one);
    }
    c->calls++;
    c->windowed += j->call.recv >= 0 || j->call.send >= 0;
    return meet(c, name);
}

static ncclResult_t launch(const job *j)
{
    return standin_launch(j->stream, run, j, sizeof *j, CALL_NS) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

/* Are the two the same where that is in place, or else apart? */
static int apart(const job *j, uint64_t gives, uint64_t gets)
{
    const unsigned char *send = (const unsigned char *)j->send, *recv = (const unsigned char *)j->recv;
    const uint64_t shift = (uint64_t)j->comm->rank * j->call.count * size_of(j->call.type);
    if (!gives || !gets || send + gives <= recv || recv + gets <= send) return 1;
    return j->call.what == ALL_GATHER ? send == recv + shift : j->call.what == REDUCE_SCATTER ? recv == send + shift : send == recv;
}

static ncclResult_t enqueue(kind what, const void *send, void *recv, size_t count, int type, int op, int root, ncclComm_t comm, cudaStream_t stream)
{
    job j;
    uint64_t gives, gets;
    memset(&j, 0, sizeof j);
    j.call.what = what;
    j.call.type = type;
    j.call.op = op;
    j.call.root = root;
    j.call.count = count;
    j.send = send;
    j.recv = recv;
    j.comm = comm;
    j.stream = stream;
    if (!comm || root < 0 || root >= comm->n) return ncclInvalidArgument;
    sizes_of(&j, &gives, &gets);
    if (gives > ROOM || gets / (uint64_t)comm->n > ROOM) return wrong(comm, names[what], "more bytes than the stand-in has room for"), ncclInvalidArgument;
    if (!apart(&j, gives, gets)) return wrong(comm, names[what], "the buffers overlap, and are not in place"), ncclInvalidUsage;
    /* a place counts on the ranks that use it; in place, only the whole has to lie in the same place everywhere */
    j.call.send = !gives || what == BROADCAST ? -2 : in_window(comm, send, gives);
    j.call.recv = !gets || what == REDUCE ? -2 : in_window(comm, recv, gets);
    if (what == ALL_GATHER && j.call.recv >= 0 && send == (unsigned char *)recv + (uint64_t)comm->rank * gives) j.call.send = -2;
    if (what == REDUCE_SCATTER && j.call.send >= 0 && recv == (unsigned char *)send + (uint64_t)comm->rank * gets) j.call.recv = -2;
    if (!depth) return launch(&j);
    if (n_waiting == (int)(sizeof waiting / sizeof waiting[0])) return ncclInternalError;
    waiting[n_waiting++] = j;
    return ncclSuccess;
}

/* --- the calls */
const char *ncclGetErrorString(ncclResult_t r)
{
    static const char *const words[] = { "no error", "unhandled cuda error", "unhandled system error", "internal error", "invalid argument", "invalid usage", "remote process exited", "in progress" };
    return (size_t)r < sizeof words / sizeof words[0] ? words[r] : "unknown result code";
}
ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    const size_t bytes = (sizeof(meeting) + PAGE - 1) / PAGE * PAGE + (size_t)MOST_RANKS * ROOM;
    const char *folder = getenv("TMPDIR");
    pthread_mutexattr_t shared;
    pthread_condattr_t too;
    meeting *m;
    int f;
    memset(id, 0, sizeof *id);
    snprintf(id->internal, sizeof id->internal, "%.80s/nccl_standin.XXXXXX", folder ? folder : "/tmp");
    f = mkstemp(id->internal);
    if (f < 0 || ftruncate(f, (off_t)bytes)) return ncclSystemError;
    m = (meeting *)mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0);
    close(f);
    if (m == (meeting *)MAP_FAILED) return ncclSystemError;
    pthread_mutexattr_init(&shared);
    pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&m->lock, &shared);
    pthread_condattr_init(&too);
    pthread_condattr_setpshared(&too, PTHREAD_PROCESS_SHARED);
    pthread_cond_init(&m->turned, &too);
    munmap(m, bytes);
    return ncclSuccess;
}
static ncclResult_t join(ncclComm_t *out, int n, ncclUniqueId id, int rank)
{
    const size_t bytes = (sizeof(meeting) + PAGE - 1) / PAGE * PAGE + (size_t)MOST_RANKS * ROOM;
    ncclComm_t c = (ncclComm_t)calloc(1, sizeof *c);
    int f = open(id.internal, O_RDWR);
    if (!c || f < 0) return ncclSystemError;
    if (n < 1 || n > MOST_RANKS || rank < 0 || rank >= n) return ncclInvalidArgument;
    c->at = (meeting *)mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0);
    close(f);
    if (c->at == (meeting *)MAP_FAILED) return ncclSystemError;
    c->rank = rank;
    c->n = n;
    memcpy(c->path, id.internal, sizeof c->path);
    if (meet(c, names[JOIN])) return ncclSystemError;
    if (!rank) unlink(c->path);
    *out = c;
    return ncclSuccess;
}
ncclResult_t ncclCommInitRank(ncclComm_t *out, int n, ncclUniqueId id, int rank) { return join(out, n, id, rank); }
ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int n, ncclUniqueId id, int rank, ncclConfig_t *config)
{
    if (config && (config->magic != 0xcafebeef || config->size != sizeof *config)) return ncclInvalidArgument;
    return join(out, n, id, rank);
}
/* What all ranks do together, on the host, with one number that must be the same. */
static ncclResult_t all_do(ncclComm_t c, kind what, uint64_t count)
{
    call mine;
    memset(&mine, 0, sizeof mine);
    mine.what = what;
    mine.count = count;
    c->at->said[c->rank] = mine;
    return meet(c, names[what]) || !agreed(c, &mine) || meet(c, names[what]) ? ncclInvalidUsage : ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t c)
{
    if (c->windows) return wrong(c, names[LEAVE], "a window is left"), ncclInvalidUsage;
    if (all_do(c, LEAVE, c->calls)) return ncclInvalidUsage;
    if (standin_findings()) return wrong(c, "the stand-in for cudart", standin_finding()), ncclInternalError;
    if (!c->rank) fprintf(stderr, "nccl_standin: %llu calls, %llu of them in a symmetric window\n", (unsigned long long)c->calls, (unsigned long long)c->windowed);
    free(c);
    return ncclSuccess;
}

ncclResult_t ncclMemAlloc(void **p, size_t bytes)
{
    void *base;
    int i;
    for (i = 0; i < MOST_PIECES && pieces[i].p;) i++;
    if (i == MOST_PIECES || cudaMalloc(&base, bytes + PAGE) != cudaSuccess) return ncclUnhandledCudaError;
    pieces[i].base = (unsigned char *)base;
    pieces[i].p = pieces[i].base + (PAGE - (uintptr_t)base % PAGE) % PAGE;
    pieces[i].bytes = bytes;
    *p = pieces[i].p;
    return ncclSuccess;
}
ncclResult_t ncclMemFree(void *p)
{
    int i;
    for (i = 0; i < MOST_PIECES && (!pieces[i].p || pieces[i].p != p);) i++;
    if (i == MOST_PIECES || cudaFree(pieces[i].base) != cudaSuccess) return ncclInvalidArgument;
    memset(&pieces[i], 0, sizeof pieces[i]);
    return ncclSuccess;
}
ncclResult_t ncclCommWindowRegister(ncclComm_t c, void *p, size_t bytes, ncclWindow_t *out, int flags)
{
    const char *on = getenv("NCCL_WIN_ENABLE");
    ncclWindow_t w;
    void *maps;
    int i;
    *out = NULL;
    if (cudaMalloc(&maps, 1) != cudaSuccess || cudaFree(maps) != cudaSuccess) return ncclUnhandledCudaError; /* capture forbids it */
    for (i = 0; i < MOST_PIECES && !(pieces[i].p && pieces[i].p <= (unsigned char *)p && (unsigned char *)p + bytes <= pieces[i].p + pieces[i].bytes);) i++;
    if (i == MOST_PIECES || (uintptr_t)p % PAGE || flags != NCCL_WIN_COLL_SYMMETRIC) return wrong(c, names[WINDOW], "memory that is not ncclMemAlloc's or not aligned, or a window of another kind"), ncclInvalidArgument;
    if (on && !atoi(on)) return ncclSuccess;
    if (all_do(c, WINDOW, bytes)) return ncclInvalidUsage;
    w = (ncclWindow_t)calloc(1, sizeof *w);
    if (!w) return ncclSystemError;
    w->p = (unsigned char *)p;
    w->bytes = bytes;
    w->next = c->windows;
    *out = c->windows = w;
    return ncclSuccess;
}
ncclResult_t ncclCommWindowDeregister(ncclComm_t c, ncclWindow_t w)
{
    ncclWindow_t *at;
    int i, there = 0;
    for (at = &c->windows; *at && *at != w;) at = &(*at)->next;
    if (!*at) return ncclInvalidArgument;
    for (i = 0; i < MOST_PIECES; i++) there |= pieces[i].p && pieces[i].p <= w->p && w->p < pieces[i].p + pieces[i].bytes;
    if (!there) return wrong(c, names[NO_WINDOW], "its memory was freed before"), ncclInvalidUsage;
    *at = w->next;
    i = all_do(c, NO_WINDOW, w->bytes) != ncclSuccess;
    free(w);
    return i ? ncclInvalidUsage : ncclSuccess;
}

ncclResult_t ncclGroupStart(void) { return depth++, ncclSuccess; }
ncclResult_t ncclGroupEnd(void)
{
    ncclResult_t result = ncclSuccess;
    int i;
    if (!depth) return ncclInvalidUsage;
    if (--depth) return ncclSuccess;
    for (i = 0; i < n_waiting && result == ncclSuccess; i++) result = launch(&waiting[i]);
    n_waiting = 0;
    return result;
}
ncclResult_t ncclAllReduce(const void *send, void *recv, size_t n, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm, cudaStream_t s) { return enqueue(ALL_REDUCE, send, recv, n, type, op, 0, comm, s); }
ncclResult_t ncclBroadcast(const void *send, void *recv, size_t n, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t s) { return enqueue(BROADCAST, send, recv, n, type, 0, root, comm, s); }
ncclResult_t ncclReduce(const void *send, void *recv, size_t n, ncclDataType_t type, ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t s) { return enqueue(REDUCE, send, recv, n, type, op, root, comm, s); }
ncclResult_t ncclAllGather(const void *send, void *recv, size_t n, ncclDataType_t type, ncclComm_t comm, cudaStream_t s) { return enqueue(ALL_GATHER, send, recv, n, type, 0, 0, comm, s); }
ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t n, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm, cudaStream_t s) { return enqueue(REDUCE_SCATTER, send, recv, n, type, op, 0, comm, s); }
