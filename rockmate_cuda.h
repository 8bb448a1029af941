/* rockmate_cuda.h - v0.1.0 - runs plans of rockmate.h on an NVIDIA GPU

   Do this:
      #define ROCKMATE_IMPLEMENTATION
      #define ROCKMATE_CUDA_IMPLEMENTATION
   in *one* C99, C++11 or CUDA file before you include this one (it includes rockmate.h). Everywhere else just include it.
   With ROCKMATE_CUDA_NVTX defined there, steps, ops and copies are ranges for Nsight (header-only nvtx3; manual, 8).
   Link with -lcudart (or -lcudart_static -lpthread -ldl -lrt). Nothing else of CUDA is used; CUDA 11.4 or newer.
   Licence: MIT or public domain, at the end.

   CONTENTS (search for the marker)
   >>manual    what it does, memory, streams, graphs, callbacks, errors
   >>api       types and functions
   -- below this line lies the implementation --
   >>device    codes and words of the runtime, what the card has free, a clock
   >>memory    arena, pinned memory, the step's values
   >>stream    lanes, events, calls on the host
   >>profile   times of ops, the link
   >>graph     capture and replay
   >>check     a replay against streams
   >>public    entry points
   >>licence   MIT or public domain
*/
/* ==========================================================================================================
   >>manual - what it does, memory, streams, graphs, callbacks, errors

   1. Use
      rm_cuda *cu;
      rm_cuda_desc d = { .graph = 1 };                      // steps as CUDA graphs
      rm_plan_desc budget = { .host_bytes = (uint64_t)64 << 30 };
      if (rm_cuda_create(&d, &cu)) return puts(rm_cuda_error(cu)), 1;
      budget.device_bytes = rm_cuda_free_bytes(cu, 512 << 20);  // what the card has, less a margin
      rm_plan_create(g, &budget, &plan);
      rm_cuda_exec_create(cu, plan, NULL, &x);
      rm_exec_write(x, ...); rm_exec_step(x, &s); rm_exec_read(x, ...);   // as on the host
      rm_exec_destroy(x); rm_cuda_destroy(cu);
   One rm_cuda serves one executor at a time, on the device that is current when it is made.

   2. Memory
   The arena is one cudaMalloc of exactly rm_plan_info.arena_bytes (or rm_exec_desc.device_memory, which is asked for when the plan is
   known, as ncclMemAlloc wants it; or rm_cuda_desc.device_memory), what the
   plan keeps in host memory is one pinned piece (or rm_cuda_desc.host_memory, which is registered). Pinning
   takes seconds for tens of GiB (rm_cuda_info.pin_ns), so it is done once: the piece stays until rm_cuda_destroy, for tuning, other plans
   and other executors, and is made anew only if a plan wants more; with ROCKMATE_THREADS, under Linux (in C with _GNU_SOURCE), by several
   threads, on the NUMA node of the card. Small pieces for the
   values of a step and for inputs on their way are made with the rm_cuda.
   What a plan has in pageable memory (rm_plan_desc.pageable_bytes) is one piece that is not pinned. CUDA stages copies from and to it, and
   reads it when the call is made: the host waits for the lane before each, so it issues later what comes behind, steps stay in streams
   (with a note), and the time of the plan, which counts on copies beside all else, is the least. Plans pin what is copied most.
   Memory of yours must be aligned as the plan is (rm_plan_desc.align, 256 unless you say otherwise).
   After rm_cuda_exec_create a step allocates nothing but its CUDA graph, once. What else lies on the card
   (the context, a workspace of cuBLAS, CUDA graphs) is outside the arena and thus outside the budget:
   rm_cuda_get_info tells how much it is and whose, and with
   rm_cuda_desc.limit_bytes a step fails with a message when arena and all of that exceed the limit: each
   step asks the device before it issues anything (cudaMemGetInfo, some microseconds; nothing is waited for).
   A card that is full is no failure: a CUDA graph for which there is no room, on the card or under the limit, is not made, its steps stay
   in streams, and a note says so; before an arena is refused, memory pools give back what nobody uses, and the message says who has what.

   3. Streams
   compute (yours or its own), h2d, d2h, host and comm. The legacy stream is never used; its own compute and comm
   block with it: a callback that launches there by mistake (a stream forgotten in <<<...>>>, cudaMemcpy) gives right
   bits in streams, slowly, and cannot be captured, so that the op is named (5); the others do not block.
   They wait for each other by events without timing, where the plan needs it and other waits do not imply
   it. Updates on the host are host functions of a stream of their own: they overlap, and may not call CUDA.

   4. Callbacks
   c->stream is the cudaStream_t to launch on. Enqueue and return; do not synchronise, do not allocate.
   cuBLAS: create the handle, then cublasSetStream with rm_cuda_stream(cu, RM_LANE_COMPUTE), then
   cublasSetWorkspace, all once, before the first step: cublasSetStream in a callback would take the
   workspace away again, and cuBLAS then allocates.
   Take the values of the step in kernels from c->device_step (lr, step, value[]) and the seed from
   rm_seed(c->device_step, c->seed_key): both are right in a replayed graph, in which c->step and c->seed
   are those of the step that was captured. A callback that cannot do so needs plain streams: graph = 0.

   5. Graphs
   With rm_cuda_desc.graph the first step of each kind runs in streams (libraries load their kernels then),
   the second is captured, and from then on a step is one cudaGraphLaunch, whose first node copies rm_step from a
   pinned block to c->device_step: nothing is captured again until rm_exec_replan or another rm_exec_bind. The next
   step's values wait on the host until the step before has begun, so one step is at work and one is launched. If a callback does what capture does
   not allow, that kind of step stays in streams, and rm_cuda_note tells which op it was and why. In that one step its callbacks are called
   twice, up to the op at fault: once for the graph that was not made, whose work never runs, and once in streams. So a callback
   changes nothing on the host that a second call would change again (counters, generators, lists that grow).
   What a callback launches on the default stream is found while a step is captured. On the legacy stream: as above. A step that cannot be
   right, for its work went to the per-thread default stream, or to the legacy one while a stream of yours does not block with it,
   fails and names the op.
   Values that were frozen at capture (a learning rate or seed by value, a grid size that follows the batch, a copy from a host
   buffer that is used again) make replays wrong without a word: rm_cuda_check finds them. Run it once, after rm_cuda_tune.

   6. Steps without a gap
   rm_exec_write of an input copies it to pinned memory (for two batches of rm_cuda_desc.stage_bytes) and waits for nothing; what
   does not fit there waits for the steps before, and a note says so. With RM_SRC_STAYS it is copied from where it lies, which is pinned
   memory of yours: nothing waits, and nothing is copied twice. rm_exec_step returns when the step before the last one has ended: one
   is at work, one is launched. rm_exec_read of a loss would wait for the step; rm_cuda_read_late, called behind each
   step instead, gives the value of the step before without a wait for the last one. The host sleeps where it waits for a step: its cores
   belong to updates there. A step that begins with inputs begins in all lanes behind the end of the computation of
   the one before; one that is a graph, behind its end in all lanes (rm_plan_info.first_ns is its time, time_ns that of steps in streams).

   7. Skipping an update (loss scaling)
   rm_cuda_skip is the address of a flag on the device, 0 at the start of each SINGLE or FIRST step. A kernel
   that sees an overflow sets it to 1, and update kernels return if it is set: no host is asked, so it works
   in graphs. Let a barrier (rm_barrier_add) look at all gradients, so that no update runs before: in one launch, with rm_cuda_list_in.
   Where the host decides (an outlier of the loss), it does so amid the step: behind its kernels the barrier copies what they found to
   pinned memory, enqueues cudaLaunchHostFunc, and copies the flag that this sets in pinned memory to rm_cuda_skip. All three are captured.
   Updates in host memory do not see the flag: give such params no update_host.

   8. Profiling
   rm_exec_profile times callbacks with events, which begin when all of an op has been enqueued. An update on the host is timed with what
   its host function takes to begin, so planners leave small params on the device where that is more than it is worth; and while copies run both
   ways, as they do in steps, for they share the host's memory with it (8 MiB of the device and 128 MiB of pinned memory until the next step; where
   there is no room it runs alone, and a note says so). rm_cuda_link_measure times the link both ways while compute and the other way are busy. rm_exec_tune is: profile, link, into the graph (rm_graph_write saves it), plan
   again, go on with the new plan. What the plan at hand does not run (other variants, recomputations) is timed in
   device memory beside the arena, one op at a time: where the arena takes the whole card, tune under a smaller
   budget first, or rm_plan_summary names what could not be measured. Tune before weights are written for good, with rm_exec_desc.forget: else
   all that persists is set aside in host memory meanwhile. Compare rm_cuda_info.step_ns with rm_plan_info.time_ns (first_ns: of graphs).
   Compiled with ROCKMATE_CUDA_NVTX, each step, op (with its phase), copy and call on the host is a range of the domain "rockmate" with its
   lane as category: `nsys profile -t cuda,nvtx`. A replayed graph is one range: for its ops, graph = 0.

   9. Several GPUs
   One process and one rm_cuda each, the same graph and budget on all: then the plans are the same, and
   rm_exec_desc.reduce is called for the same params in the same order, with the comm stream in c->stream.
   Give params a rm_param_desc.reduce_ns above 0, a guess will do: with it updates wait for reductions while the
   backward goes on. Plan on estimates, or one rank plans for all: rockmate.h, manual, 5. Between machines NCCL has host functions of its own, which CUDA may run
   behind an update on the host: params without update_host keep reductions free of that.
   Destroy the executor before the communicator: captured steps hold NCCL's work, and ncclCommDestroy waits,
   with two ranks for ever, until they are gone.

   10. Errors
   Messages (rm_exec_error) have op or buffer, the failing call, and CUDA's name, code and words. CUDA
   tells of a failing kernel late: rm_cuda_desc.debug waits after each op and names the one that failed.

   11. Bringing over a trainer
   Your stream: rm_cuda_desc.compute (not the default stream). Your cuBLAS handle: as in 4.
   Each kernel launch of yours becomes a callback: pointers that were offsets into your buffers come from
   c->in, c->out, c->din, c->dout, what the forward keeps for the backward (mean, rstd, logsumexp) from
   c->saved, scratch from c->ws. A backward adds to c->din[i] if RM_ADDS(c, i), else it overwrites: kernels
   that always add want rm_kind.zero_grads. Your gradient clipping, or a check of the loss scale, is a barrier.
   Batches go in by rm_exec_write, or are RM_EXTERNAL and bound once. What a kernel always writes, wanted or not, is better an output than
   saved. Checks of yours that end the process keep the op from being named: let them return. examples/cuda/from_llmc.md ports a trainer.

   12. Threads
   As rockmate.h: one object in one thread at a time. The device on which the rm_cuda was made must be current in the
   thread that calls (a new thread begins with device 0): steps and calls that allocate fail and say so if another one is.
   While a step is captured, the second of each kind, work on the legacy stream fails in every thread (cudaErrorStreamCaptureImplicit): of
   cudaMemcpy and the like use the forms with a stream, or set rm_cuda_desc.unwatched: then streams do not block and nothing is found.

   13. A disk
   rm_exec_desc.disk_read, disk_write and disk_end are host functions in two more streams, in captured steps, too. CUDA may run the host functions of
   all streams one after the other: a transfer then stands behind an update on the host, and loads behind stores. Of a plan
   that counts on a disk busy all the time measure rm_cuda_info.step_ns before you trust rm_plan_info.time_ns. After a transfer that failed no
   host function runs any more until the failure is told: nothing is stored of what was not loaded.
   ======================================================================================================== */

#ifndef ROCKMATE_CUDA_H
#define ROCKMATE_CUDA_H

#include "rockmate.h"

#if defined(__GNUC__) && !defined(__CUDACC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wundef"
#pragma GCC diagnostic ignored "-Wshadow"
#endif
#include <cuda_runtime_api.h>
#if defined(ROCKMATE_CUDA_NVTX)
#include <nvtx3/nvToolsExt.h>
#endif
#if defined(__GNUC__) && !defined(__CUDACC__)
#pragma GCC diagnostic pop
#endif

/* =====================================================================================================================
   >>api - types and functions
   Sizes are bytes, times are nanoseconds. Every field of a description may be left zero: zero is the safe default.
   ================================================================================================================== */

typedef struct rm_cuda rm_cuda; /* streams, memory and graphs of one device: the backend of one executor */

typedef struct rm_cuda_desc {
    uint32_t graph RM_ZERO;                /* 1: each kind of step becomes a CUDA graph */
    uint32_t debug RM_ZERO;                /* 1: wait after each op, so that the one that failed is named; no graphs */
    uint32_t unwatched RM_ZERO;            /* 1: other threads use the legacy stream at any time; work that a callback leaves there is not found */
    cudaStream_t compute RM_ZERO;          /* yours, not the legacy stream; 0: its own */
    cudaStream_t comm RM_ZERO;             /* for reductions over ranks; 0: its own, of the highest priority */
    void *device_memory RM_ZERO;           /* the arena, of this device; NULL: one cudaMalloc. At least the plan's bytes, aligned to its alignment */
    uint64_t device_memory_bytes RM_ZERO;
    void *host_memory RM_ZERO;             /* instead of one cudaHostAlloc, aligned likewise; if it is not pinned, registered with CUDA until rm_cuda_destroy */
    uint64_t host_memory_bytes RM_ZERO;
    uint64_t stage_bytes RM_ZERO;          /* of the inputs of one batch, that rm_exec_write does not wait for: pinned, twice; 0: 1 MiB */
    uint64_t limit_bytes RM_ZERO;          /* of all that is taken on the device from rm_cuda_create on, arena or not: the step that finds more fails; 0: none */
    void (*log)(void *user, const char *message) RM_ZERO; /* gets what rm_cuda_note tells, when it comes up */
    void *log_user RM_ZERO;
    rm_allocator allocator RM_ZERO;        /* of its tables */
} rm_cuda_desc;

/* desc may be NULL. On failure *out holds nothing but the words for rm_cuda_error, to be destroyed as any; NULL only if memory is
   out. Destroy the executor before its rm_cuda. */
RMDEF rm_result rm_cuda_create(const rm_cuda_desc *desc, rm_cuda **out);
RMDEF void rm_cuda_destroy(rm_cuda *c);

/* The call, CUDA's name, code and words of the last failure here, or "". */
RMDEF const char *rm_cuda_error(const rm_cuda *c);

/* What is worth knowing and no error: why a step is not a graph, memory outside the arena. The last such remark, or "". */
RMDEF const char *rm_cuda_note(const rm_cuda *c);

/* A budget: what the device has free now, less margin, in whole MiB; 0 if that is nothing or the device does not answer. */
RMDEF uint64_t rm_cuda_free_bytes(rm_cuda *c, uint64_t margin_bytes);

/* For rm_exec_desc.backend, where the executor needs more than rm_cuda_exec_create passes on. Lives as long as c. */
RMDEF const rm_backend *rm_cuda_backend(rm_cuda *c);

/* rm_exec_create with this backend. desc may be NULL; its backend and host memories are not looked at, its device_memory, made after c and
   freed after the executor, is the arena and counted as such. RM_ERROR_ARGUMENT, words in rm_cuda_error: c has an executor already. */
RMDEF rm_result rm_cuda_exec_create(rm_cuda *c, rm_plan *p, const rm_exec_desc *desc, rm_exec **out);

/* RM_LANE_COMPUTE ... RM_LANE_STORE. Work of yours on the compute stream between steps is ordered with them. */
RMDEF cudaStream_t rm_cuda_stream(const rm_cuda *c, uint32_t lane);

/* Called behind each rm_exec_step: an output t, of at most 64 bytes, of the step before that one, without waiting for that one, whose value
   is copied meanwhile. *there: 1; 0 after the first step, and after the first one behind rm_exec_replan, rm_exec_tune or rm_exec_bind:
   then dst is as it was. The last step's value is had by rm_exec_read. One output (a loss, with what else is to be told beside it). */
RMDEF rm_result rm_cuda_read_late(rm_cuda *c, rm_exec *x, rm_tensor t, void *dst, uint64_t bytes, uint32_t *there);

/* A flag on the device (see the manual, 7), and its value now: waits for the device. */
RMDEF uint32_t *rm_cuda_skip(rm_cuda *c);
RMDEF rm_result rm_cuda_skipped(rm_cuda *c, uint32_t *flag);

/* Buffers as one argument of a kernel, by value: with it one launch sees all gradients that a barrier has in in[], wherever they lie (pinned
   memory, too, has addresses of the device). Their places are the plan's: right in a replayed graph. The other arguments: at most 64 bytes. */
#define RM_CUDA_LIST 250u
typedef struct rm_cuda_list {
    const void *at[RM_CUDA_LIST];
    uint64_t bytes[RM_CUDA_LIST];
    uint32_t n;
} rm_cuda_list;
/* Takes in[] from number `from` on, as many as there is room for, and returns how many: 0, and an empty list, behind the last. */
RMDEF uint32_t rm_cuda_list_in(const rm_call *call, uint32_t from, rm_cuda_list *list);

/* Bytes a second each way and the ns of a short copy, while `load` (NULL: fills of device memory) keeps the compute stream busy
   and copies go the other way, too. It enqueues some milliseconds of work; nonzero stops. Takes up to 128 MiB of device and of
   pinned memory for as long as it runs, less if there is less. Between steps only. */
typedef struct rm_cuda_link {
    uint64_t h2d, d2h, latency_ns;
} rm_cuda_link;
typedef int (*rm_cuda_load)(void *user, cudaStream_t stream);
RMDEF rm_result rm_cuda_link_measure(rm_cuda *c, rm_cuda_load load, void *user, rm_cuda_link *out);

/* rm_exec_tune, which with this backend measures the link as well, by rm_cuda_link_measure. g: the graph of *p. */
RMDEF rm_result rm_cuda_tune(rm_cuda *c, rm_exec *x, rm_graph *g, const rm_plan_desc *desc, const rm_step *s, uint32_t repeats, rm_plan **p);

/* Are replays right? Runs the kinds of step that p, the plan of x, has (g: its graph; s: the step's values, of any kind): twice in streams and once as graphs, from the same state with
   the same inputs, but other inputs and values of the step than those that the graphs were made with. RM_ERROR_CHECK: rm_cuda_error names
   the first output, param or state that differs, or the op that cannot be in a graph. Then all that persists is as it was; an accumulation
   has ended. With rm_cuda_desc.graph 0 graphs are made for as long as it runs. Takes twice the bytes of rm_exec_save in host memory. */
typedef struct rm_cuda_check_desc {
    /* writes all inputs, by rm_exec_write or to the memory bound; batch 0 and 1: two that differ; nonzero stops. NULL: they stay as written */
    int (*feed)(void *user, rm_exec *x, uint32_t batch) RM_ZERO;
    void *feed_user RM_ZERO;
    rm_tensor output[8] RM_ZERO; /* declared outputs to be compared after each step, up to the first that is none */
} rm_cuda_check_desc;
RMDEF rm_result rm_cuda_check(rm_cuda *c, rm_exec *x, const rm_graph *g, const rm_plan *p, const rm_step *s, const rm_cuda_check_desc *desc);

typedef struct rm_cuda_info {
    uint64_t total_bytes, free_bytes; /* of the device, now */
    uint64_t arena_bytes;             /* allocated for executors, now */
    uint64_t pinned_bytes;            /* of host memory for executors, in use or kept for the next one */
    uint64_t pin_ns;                  /* that pinning it has taken so far */
    uint64_t outside_bytes;           /* taken on the device since rm_cuda_create by whoever it was, arena not counted: */
    uint64_t graph_bytes;             /* by CUDA graphs; */
    uint64_t library_bytes;           /* while a kind of step ran for the first time: kernels, workspaces; */
    uint64_t other_bytes;             /* by others, or at other times */
    uint64_t before_bytes;            /* taken before rm_cuda_create: the context, other processes, memory of yours */
    uint64_t pool_bytes;              /* of all this, what lies in memory pools (cudaMallocAsync) */
    uint64_t step_ns;                 /* mean length of the steps since the last rm_cuda_get_info, one after the other; 0: none */
    uint64_t steps;                   /* those */
    uint64_t streamed, captured, replayed; /* steps so far: given to streams, made a graph, started as a graph */
    uint32_t graph_nodes;             /* of the graph captured last */
} rm_cuda_info;

/* Waits for the device. */
RMDEF rm_result rm_cuda_get_info(rm_cuda *c, rm_cuda_info *info);

#endif /* ROCKMATE_CUDA_H */

/* Stop here if you only want the API. */

#ifdef ROCKMATE_CUDA_IMPLEMENTATION
#ifndef ROCKMATE_CUDA_IMPLEMENTED
#define ROCKMATE_CUDA_IMPLEMENTED

/* =====================================================================================================================
   >>device - codes and words of the runtime, what the card has free, a clock
   Owns the object. Every call of the runtime goes through rmc_did, which keeps the words of the first call that failed.
   ================================================================================================================== */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if defined(ROCKMATE_THREADS) && defined(__linux__) && defined(_GNU_SOURCE) /* large host memory is made by several threads */
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#define RMC_MAPS
#endif

#if defined(__GNUC__) || defined(__clang__)
#define RMC_FN static __attribute__((unused))
#else
#define RMC_FN static
#endif

#define RMC_LANES 7u
#define RMC_RING 4u       /* steps in streams whose values may wait in pinned memory; no more than two are in flight */
#define RMC_READ RMC_RING /* behind them: a block that is read into, and the one that graphs copy from */
#define RMC_GRAPH (RMC_RING + 1u)
#define RMC_BLOCKS (RMC_RING + 2u)
#define RMC_CPU (-700)    /* a failure that is not CUDA's; the words are in the object */
#define RMC_ARENAS 4u
#define RMC_STAGE ((uint64_t)1 << 20)
#ifndef RMC_MAPPED
#define RMC_MAPPED ((uint64_t)64 << 20) /* from so many bytes on threads pay */
#endif
#define RMC_PIECE ((size_t)4 << 20) /* of copies beside an update of the host's that is timed: one of the device each way, */
#define RMC_PIECES 16u    /* and so many of pinned memory, more than caches hold */
#define RMC_PAGE 4096u
#define RMC_TOUCHERS 16u
#define RMC_LATE 64u      /* bytes of an output that is read a step late */
#if CUDART_VERSION >= 11070 /* reductions keep the priority of their stream: they go before kernels that wait for room */
#define RMC_INSTANTIATE cudaGraphInstantiateFlagUseNodePriority
#else
#define RMC_INSTANTIATE 0
#endif

typedef struct rmc_block { /* what of a step the device sees */
    rm_step step;
    uint32_t skip;
} rmc_block;

typedef struct rmc_slot { /* a call on the host, waiting for its turn in a stream */
    struct rm_cuda *c;
    int (*fn)(void *arg);
    void *arg;
} rmc_slot;

typedef struct rmc_seen { /* how much of each lane has been done for certain */
    uint64_t lane[RMC_LANES];
} rmc_seen;

enum { RMC_NOWHERE, RMC_LEGACY, RMC_PER_THREAD }; /* work of a callback that is not on its stream */
enum { RMC_AS_TOLD, RMC_STREAMS, RMC_GRAPHS };

typedef struct rmc_program { /* a kind of step */
    cudaGraphExec_t exec;
    uint64_t steps;
    int streams_only;
    uint32_t kind, n_slots;
} rmc_program;

/* Its own events: where a captured step begins; the last graph has been launched; it has taken its values; a half of the staging memory has been copied; so has an
   output that is read late; what each lane has been given; copies beside an update of the host's that is timed. From RMC_FIRST on with times: the steps that are timed begin, they end; an op, begins and ends. */
enum { RMC_FORK, RMC_DONE, RMC_TAKEN, RMC_STAGED, RMC_READ_LATE = RMC_STAGED + 2, RMC_TAIL = RMC_READ_LATE + 2, RMC_PACE = RMC_TAIL + RMC_LANES, RMC_FIRST = RMC_PACE + 2, RMC_LAST, RMC_MARK, RMC_OWN = RMC_MARK + 2 };

struct rm_cuda {
    rm_cuda_desc d;
    rm_backend table;
    char text[640], note[800];
    int code;              /* that text belongs to */
    int host_code;         /* of a host call that failed; written by CUDA's thread */
    int entered;           /* 0, or why the lane of the callback that is called is not where it should be */
    int host_failed;       /* one has, and what was issued before that was told is still at work; by that thread, too */
    int held;              /* a lane waits while what is timed in it is enqueued; read by CUDA's thread */
    uint64_t free_at_start;
    struct {
        void *p;
        uint64_t bytes;
        int host;
    } piece[RMC_ARENAS];
    uint64_t device_bytes, pinned_bytes, pin_ns;
    void *lent;            /* rm_exec_desc.device_memory, and its bytes */
    uint64_t lent_bytes;
    void *spare;           /* pinned memory that no executor has now, for the next one; and its bytes */
    uint64_t spare_bytes;
    struct { /* of it and of the pieces, what is mapped and registered, not allocated by CUDA */
        void *p;
        uint64_t bytes;
    } map[RMC_ARENAS + 1];
    int registered;        /* rm_cuda_desc.host_memory is, by this */
    rmc_block *on_device, *ring;
    uint32_t ring_at;
    struct { /* copies both ways beside an update of the host's that is timed */
        unsigned char *dev, *host; /* two pieces; twice RMC_PIECES of them */
        size_t piece;
        uint32_t n;            /* pairs of copies so far */
        int none;              /* there is no room for them, and that has been told */
    } traffic;
    struct { /* inputs on their way: two halves, of which one is filled; behind them, two outputs that are read late */
        unsigned char *p;
        uint64_t half_bytes, at;
        uint32_t half;
        int claimed, told;     /* the half is known to be free; what does not fit has been told */
    } stage;
    struct {
        rm_exec *x;
        uint64_t id;           /* of the tensor */
        uint32_t n;            /* values so far */
        void *at[RM_STEP_KINDS]; /* the output, by program */
    } late;
    uint32_t last_program;
    int device;            /* that it was made on */
    int launches;          /* a graph has been launched: `taken` says whether it has its values */
    cudaStream_t stream[RMC_LANES];
    uint32_t own_streams;  /* bits */
    cudaEvent_t *event, own[RMC_OWN]; /* those of the plan, by number; its own: RMC_FORK ... */
    rmc_seen *event_seen, seen[RMC_LANES], fork_seen;
    uint32_t n_events, calls;
    uint64_t given[RMC_LANES]; /* things given to each lane */
    uint64_t given_before[RMC_LANES]; /* and as it was before a capture */
    rmc_seen seen_before[RMC_LANES];
    uint64_t launched;         /* given[COMPUTE] at the last graph launch */
    uint32_t behind;           /* lanes that have not waited for that graph */
    rmc_slot *slot;
    uint32_t slot_at[RMC_LANES];
    rmc_program program[RM_STEP_KINDS], *capturing;
    int watching;              /* the per-thread default stream is captured, too: what gets there is nobody's */
    int astray;                /* what did */
    void *domain;              /* of ranges for Nsight, */
    uint32_t ranges;           /* and how many are open */
    int steered;               /* rm_cuda_check: all steps to streams, or as rm_cuda_desc.graph says */
    uint32_t in_capture;       /* lanes */
    uint64_t timed, streamed, captured, replayed;
    uint32_t nodes;
    uint64_t outside_told;
    uint64_t graph_bytes, library_bytes, left_then; /* taken by graphs; while callbacks ran for the first time; free before such a step */
    int checked;               /* what lies outside the arena: 0: no step yet, 1: to be looked at, 2: told */
};

/* 0, or the code with its words kept. Errors that do not stick to the context are taken from the runtime. */
RMC_FN int rmc_did(rm_cuda *c, cudaError_t e, const char *call)
{
    if (e == cudaSuccess) return 0;
    snprintf(c->text, sizeof c->text, "%s: %s (%d): %s", call, cudaGetErrorName(e), (int)e, cudaGetErrorString(e));
    c->code = (int)e;
    (void)cudaGetLastError();
    return (int)e;
}
#define RMC_DO(c, call, args)                                  \
    do {                                                       \
        int did_ = rmc_did((c), call args, #call);             \
        if (did_) return did_;                                 \
    } while (0)

RMC_FN const char *rmc_error_text(void *user, int code)
{
    rm_cuda *c = (rm_cuda *)user;
    return code && code == c->code ? c->text : NULL;
}

RMC_FN void rmc_remark(rm_cuda *c, const char *text)
{
    snprintf(c->note, sizeof c->note, "%s", text);
    if (c->d.log) c->d.log(c->d.log_user, c->note);
}

/* Ranges for Nsight, on request. They are a stack of the thread; category: a lane, from 1. */
RMC_FN void rmc_range(rm_cuda *c, uint32_t category, const char *name)
{
#if defined(ROCKMATE_CUDA_NVTX)
    nvtxEventAttributes_t a;
    memset((void *)&a, 0, sizeof a);
    a.version = NVTX_VERSION;
    a.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    a.category = category;
    a.messageType = NVTX_MESSAGE_TYPE_ASCII;
    a.message.ascii = name;
    nvtxDomainRangePushEx((nvtxDomainHandle_t)c->domain, &a);
    c->ranges++;
#else
    (void)c, (void)category, (void)name;
#endif
}
RMC_FN void rmc_range_end(rm_cuda *c, uint32_t but) /* all but so many */
{
#if defined(ROCKMATE_CUDA_NVTX)
    for (; c->ranges > but; c->ranges--) (void)nvtxDomainRangePop((nvtxDomainHandle_t)c->domain);
#else
    (void)c, (void)but;
#endif
}
RMC_FN void rmc_domain(rm_cuda *c, int make)
{
#if defined(ROCKMATE_CUDA_NVTX)
    static const char *const lanes[] = {"compute", "h2d", "d2h", "host", "comm", "load", "store"};
    uint32_t i;
    if (!make && c->domain) nvtxDomainDestroy((nvtxDomainHandle_t)c->domain);
    if (!make) return;
    c->domain = (void *)nvtxDomainCreateA("rockmate");
    for (i = 0; i < RMC_LANES; i++) nvtxDomainNameCategoryA((nvtxDomainHandle_t)c->domain, i + 1, lanes[i]);
#else
    (void)c, (void)make;
#endif
}

/* What is made, launched and asked for belongs to the thread's current device: that must be the one of the streams. */
RMC_FN int rmc_here(rm_cuda *c)
{
    int d = c->device;
    RMC_DO(c, cudaGetDevice, (&d));
    if (d == c->device) return 0;
    snprintf(c->text, sizeof c->text, "device %d is current in this thread and the rm_cuda was made on device %d: call cudaSetDevice(%d) before", d, c->device, c->device);
    return c->code = RMC_CPU;
}

RMC_FN int rmc_free(rm_cuda *c, uint64_t *free_bytes, uint64_t *total)
{
    size_t f = 0, t = 0;
    int code = rmc_here(c);
    if (code) return code;
    RMC_DO(c, cudaMemGetInfo, (&f, &t));
    *free_bytes = f;
    *total = t;
    return 0;
}

/* A clock of the host, for what runs there. */
RMC_FN uint64_t rmc_now(void *user)
{
    (void)user;
#if defined(RM_NOW_NS)
    return RM_NOW_NS();
#elif defined(CLOCK_MONOTONIC)
    {
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    }
#elif defined(TIME_UTC)
    {
        struct timespec t;
        timespec_get(&t, TIME_UTC);
        return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    }
#else
    return (uint64_t)((double)clock() * (1e9 / (double)CLOCKS_PER_SEC));
#endif
}

/* What others have taken since the start: it is in no budget. */
RMC_FN int rmc_outside(rm_cuda *c, uint64_t *bytes, uint64_t *free_bytes, uint64_t *total)
{
    int code = rmc_free(c, free_bytes, total);
    uint64_t known;
    if (code) return code;
    known = *free_bytes + c->device_bytes + (c->traffic.dev ? 2 * c->traffic.piece : 0);
    *bytes = c->free_at_start > known ? c->free_at_start - known : 0;
    return 0;
}

/* Free bytes, for differences; 0: the device does not answer. */
RMC_FN uint64_t rmc_left(void)
{
    size_t f = 0, t = 0;
    if (cudaMemGetInfo(&f, &t) == cudaSuccess) return f;
    (void)cudaGetLastError();
    return 0;
}

/* What the device's memory pools (cudaMallocAsync) hold; trim: after they have given back what nobody uses. */
RMC_FN uint64_t rmc_pools(rm_cuda *c, int trim)
{
    cudaMemPool_t pool[2] = {NULL, NULL};
    uint64_t sum = 0, bytes = 0;
    int i;
    if (cudaDeviceGetDefaultMemPool(&pool[0], c->device) != cudaSuccess) pool[0] = NULL;
    if (cudaDeviceGetMemPool(&pool[1], c->device) != cudaSuccess || pool[1] == pool[0]) pool[1] = NULL;
    for (i = 0; i < 2; i++) {
        if (pool[i] && trim) (void)cudaMemPoolTrimTo(pool[i], 0);
        if (pool[i] && cudaMemPoolGetAttribute(pool[i], cudaMemPoolAttrReservedMemCurrent, &bytes) == cudaSuccess) sum += bytes;
    }
    (void)cudaGetLastError();
    return sum;
}

/* After the first steps, when libraries have taken what they take, and before each step, if there is a limit: is it kept, and does
   somebody want to know? */
RMC_FN int rmc_check_memory(rm_cuda *c)
{
    uint64_t outside, left, total;
    char t[400];
    int code = rmc_outside(c, &outside, &left, &total);
    if (c->checked == 1) c->checked = 2;
    if (code) return code;
    if (c->d.limit_bytes && outside + c->device_bytes > c->d.limit_bytes) {
        snprintf(c->text, sizeof c->text, "the arena has %llu bytes and %llu more were taken on the device outside of it (libraries, workspaces, graphs): more than limit_bytes, %llu; plan with a budget of %llu", (unsigned long long)c->device_bytes, (unsigned long long)outside, (unsigned long long)c->d.limit_bytes, (unsigned long long)(c->d.limit_bytes > outside ? c->d.limit_bytes - outside : 0));
        return c->code = RMC_CPU;
    }
    if (outside > c->outside_told + ((uint64_t)1 << 20)) {
        snprintf(t, sizeof t, "%llu bytes of the device were taken outside of the arena (%llu) since rm_cuda_create, by libraries, workspaces or graphs; %llu are free", (unsigned long long)outside, (unsigned long long)c->device_bytes, (unsigned long long)left);
        rmc_remark(c, t);
        c->outside_told = outside;
    }
    return 0;
}

/* =====================================================================================================================
   >>memory - arena, pinned memory, the step's values
   ================================================================================================================== */
RMC_FN void *rmc_table(rm_cuda *c, uint64_t n, size_t size)
{
    void *p;
    if (n > SIZE_MAX / 2 / size) return NULL;
    p = c->d.allocator.alloc ? c->d.allocator.alloc((size_t)n * size + 1, c->d.allocator.user) : malloc((size_t)n * size + 1);
    if (p) memset(p, 0, (size_t)n * size + 1);
    return p;
}
RMC_FN void rmc_table_free(rm_cuda *c, void *p)
{
    if (!p) return;
    if (c->d.allocator.alloc) c->d.allocator.free(p, c->d.allocator.user);
    else free(p);
}

/* The caller's memory, of one side, and its bytes. NULL: none. */
RMC_FN void *rmc_callers(const rm_cuda *c, int host, uint64_t *bytes)
{
    *bytes = host ? c->d.host_memory_bytes : c->lent ? c->lent_bytes : c->d.device_memory_bytes;
    return host ? c->d.host_memory : c->lent ? c->lent : c->d.device_memory;
}

/* Is it what it should be, and all of it? Host memory is pinned now if it is not, so that copies from and to it do not wait. */
RMC_FN int rmc_given(rm_cuda *c, int host)
{
    uint64_t bytes;
    unsigned char *p = (unsigned char *)rmc_callers(c, host, &bytes);
    struct cudaPointerAttributes a, z; /* of its two ends */
    int wrong;
    memset(&a, 0, sizeof a);
    memset(&z, 0, sizeof z);
    RMC_DO(c, cudaPointerGetAttributes, (&a, p));
    RMC_DO(c, cudaPointerGetAttributes, (&z, p + (size_t)(bytes - 1)));
    wrong = a.type != z.type;
    if (host) wrong |= a.type == cudaMemoryTypeDevice;
    else wrong |= (a.type != cudaMemoryTypeDevice && a.type != cudaMemoryTypeManaged) || a.device != c->device || z.device != c->device;
    if (wrong) {
        snprintf(c->text, sizeof c->text, host ? "rm_cuda_desc.host_memory is memory of a device, or pinned in part: give host memory that is pinned as a whole or not at all" : "%s.device_memory is not memory of device %d from end to end: cudaMalloc it there, or leave it NULL", c->lent ? "rm_exec_desc" : "rm_cuda_desc", c->device);
        return c->code = RMC_CPU;
    }
    if (host && a.type == cudaMemoryTypeUnregistered) {
        uint64_t begin = rmc_now(NULL);
        RMC_DO(c, cudaHostRegister, (p, (size_t)bytes, cudaHostRegisterPortable));
        c->pin_ns += rmc_now(NULL) - begin;
        c->registered = 1;
    }
    return 0;
}

#if defined(RMC_MAPS)
/* The NUMA node that the card is on, or -1. */
RMC_FN int rmc_node(rm_cuda *c)
{
    char path[64] = "/sys/bus/pci/devices/", *at = path + strlen(path);
    FILE *f;
    int node = -1;
    if (cudaDeviceGetPCIBusId(at, 20, c->device) != cudaSuccess) return (void)cudaGetLastError(), -1;
    for (; *at; at++)
        if (*at >= 'A' && *at <= 'F') *at = (char)(*at - 'A' + 'a');
    strcat(path, "/numa_node");
    f = fopen(path, "r");
    if (f && fscanf(f, "%d", &node) != 1) node = -1;
    if (f) fclose(f);
    return node;
}

typedef struct rmc_toucher { /* a thread that touches pages first */
    volatile unsigned char *from;
    uint64_t bytes;
    pthread_t thread;
    int runs;
} rmc_toucher;
RMC_FN void *rmc_touch(void *arg)
{
    rmc_toucher *t = (rmc_toucher *)arg;
    uint64_t i;
    for (i = 0; i < t->bytes; i += RMC_PAGE) t->from[(size_t)i] = 0;
    return NULL;
}
RMC_FN void rmc_touch_all(unsigned char *p, uint64_t bytes)
{
    rmc_toucher t[RMC_TOUCHERS];
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t n = cores < 1 ? 1 : cores > (long)RMC_TOUCHERS ? RMC_TOUCHERS : (uint32_t)cores, i;
    uint64_t each = (bytes / n + RMC_PAGE - 1) / RMC_PAGE * RMC_PAGE, at = 0;
    for (i = 0; i < n; i++, at += each) {
        t[i].from = p + (size_t)(at < bytes ? at : bytes);
        t[i].bytes = at >= bytes ? 0 : bytes - at < each ? bytes - at : each;
        t[i].runs = i + 1 < n && !pthread_create(&t[i].thread, NULL, rmc_touch, &t[i]);
        if (!t[i].runs) (void)rmc_touch(&t[i]);
    }
    for (i = 0; i < n; i++)
        if (t[i].runs) (void)pthread_join(t[i].thread, NULL);
}

/* Zeros in host memory: on the card's NUMA node where there is room, its pages made by several threads, then registered. cudaHostAlloc makes
   them with one, wherever the process happens to be. NULL: it cannot be had so. */
RMC_FN void *rmc_map(rm_cuda *c, uint64_t bytes)
{
    unsigned long mask;
    int node = rmc_node(c);
    uint32_t i;
    void *p;
    for (i = 0; i <= RMC_ARENAS && c->map[i].p;) i++;
    if (i > RMC_ARENAS || bytes < RMC_MAPPED || bytes > SIZE_MAX) return NULL;
    p = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return NULL;
    mask = node >= 0 && node < 63 ? 1ul << node : 0;
    if (mask) (void)syscall(SYS_mbind, p, (size_t)bytes, 1 /* preferred */, &mask, 64ul, 0);
    rmc_touch_all((unsigned char *)p, bytes);
    if (cudaHostRegister(p, (size_t)bytes, cudaHostRegisterPortable) != cudaSuccess) {
        (void)cudaGetLastError();
        (void)munmap(p, (size_t)bytes);
        return NULL;
    }
    c->map[i].bytes = bytes;
    return c->map[i].p = p;
}
#else
#define rmc_map(c, bytes) NULL
#endif

/* Pinned memory of executors goes. */
RMC_FN cudaError_t rmc_unpin(rm_cuda *c, void *p)
{
    cudaError_t e;
    uint32_t i;
    for (i = 0; i <= RMC_ARENAS && c->map[i].p != p;) i++;
    if (i > RMC_ARENAS) return cudaFreeHost(p);
    e = cudaHostUnregister(p);
#if defined(RMC_MAPS)
    (void)munmap(p, (size_t)c->map[i].bytes);
#endif
    c->map[i].p = NULL;
    return e;
}

/* Pinning takes seconds for tens of GiB: what an executor gives back is kept for the next one, and only grows. */
RMC_FN int rmc_pinned(rm_cuda *c, uint64_t *bytes, void **out)
{
    uint64_t begin;
    if (c->spare && c->spare_bytes < *bytes) {
        (void)rmc_unpin(c, c->spare);
        c->pinned_bytes -= c->spare_bytes;
        c->spare = NULL;
    }
    if (!c->spare) {
        begin = rmc_now(NULL);
        *out = rmc_map(c, *bytes);
        if (!*out) RMC_DO(c, cudaHostAlloc, (out, (size_t)*bytes, cudaHostAllocPortable));
        c->pin_ns += rmc_now(NULL) - begin;
        c->pinned_bytes += *bytes;
        return 0;
    }
    *out = c->spare;
    *bytes = c->spare_bytes;
    c->spare = NULL;
    return 0;
}
RMC_FN void rmc_keep_pinned(rm_cuda *c, void *p, uint64_t bytes)
{
    void *less = c->spare && c->spare_bytes >= bytes ? p : c->spare;
    if (less == p) c->pinned_bytes -= bytes;
    else if (less) c->pinned_bytes -= c->spare_bytes;
    if (less) rmc_did(c, rmc_unpin(c, less), "cudaFreeHost");
    if (less == p) return;
    c->spare = p;
    c->spare_bytes = bytes;
}

/* Memory for copies beside what is timed goes: a step begins, or others want it. */
RMC_FN void rmc_calm(rm_cuda *c)
{
    if (c->traffic.dev) (void)cudaFree(c->traffic.dev);
    if (c->traffic.host) (void)cudaFreeHost(c->traffic.host);
    if (c->traffic.dev) (void)cudaGetLastError();
    memset((void *)&c->traffic, 0, sizeof c->traffic);
}

/* There is no room for an arena: who holds it? */
RMC_FN int rmc_device_full(rm_cuda *c, uint64_t bytes)
{
    uint64_t left = 0, total = 0, outside = 0;
    char was[130];
    int code = c->code;
    snprintf(was, sizeof was, "%.120s", c->text);
    if (rmc_outside(c, &outside, &left, &total)) return code;
    snprintf(c->text, sizeof c->text, "%s; the arena has %llu bytes, the device has %llu free of %llu: %llu were taken before rm_cuda_create (the context, other processes), %llu since then outside of arenas (libraries, workspaces, graphs), %llu by arenas; memory pools hold %llu of it, and gave back what nobody uses", was, (unsigned long long)bytes, (unsigned long long)left, (unsigned long long)total, (unsigned long long)(total - c->free_at_start), (unsigned long long)outside, (unsigned long long)c->device_bytes, (unsigned long long)rmc_pools(c, 0));
    return c->code = code;
}

RMC_FN int rmc_alloc(void *user, uint64_t bytes, uint32_t host, void **out)
{
    rm_cuda *c = (rm_cuda *)user;
    uint64_t given_bytes;
    void *p = NULL, *given = rmc_callers(c, host != 0, &given_bytes);
    uint32_t i, k;
    int code;
    if (host == 2) given = NULL;
    for (i = 0; i < RMC_ARENAS && c->piece[i].p;) i++;
    for (k = 0; k < RMC_ARENAS && given; k++)
        if (c->piece[k].p == given) i = RMC_ARENAS;
    if (i == RMC_ARENAS || (given && given_bytes < bytes) || bytes > SIZE_MAX) {
        snprintf(c->text, sizeof c->text, "%s memory: %llu bytes are needed, %llu were given%s", host ? "host" : "device", (unsigned long long)bytes, (unsigned long long)given_bytes, i == RMC_ARENAS ? ", and they are in use" : "");
        return c->code = RMC_CPU;
    }
    if (!host && c->d.limit_bytes && c->device_bytes + bytes > c->d.limit_bytes) {
        snprintf(c->text, sizeof c->text, "device memory: %llu bytes are needed besides %llu, limit_bytes is %llu", (unsigned long long)bytes, (unsigned long long)c->device_bytes, (unsigned long long)c->d.limit_bytes);
        return c->code = RMC_CPU;
    }
    if ((code = given ? rmc_given(c, host != 0) : rmc_here(c)) != 0) return code;
    if (given) p = given;
    else if (host == 2) { /* page by page; the address that goes back lies before it */
        unsigned char *raw = (unsigned char *)rmc_table(c, bytes < SIZE_MAX / 4 ? bytes + 8192 : SIZE_MAX, 1);
        if (!raw) {
            snprintf(c->text, sizeof c->text, "no %llu bytes of pageable memory", (unsigned long long)bytes);
            return c->code = RMC_CPU;
        }
        p = raw + 8192 - (uintptr_t)raw % 4096;
        memcpy((unsigned char *)p - sizeof raw, &raw, sizeof raw);
    }
    else if (host) {
        if ((code = rmc_pinned(c, &bytes, &p)) != 0) return code;
    }
    else if (cudaMalloc(&p, (size_t)bytes) != cudaSuccess) {
        (void)cudaGetLastError();
        rmc_calm(c);
        (void)rmc_pools(c, 1);
        if (rmc_did(c, cudaMalloc(&p, (size_t)bytes), "cudaMalloc")) return rmc_device_full(c, bytes);
    }
    c->piece[i].p = p;
    c->piece[i].bytes = bytes;
    c->piece[i].host = (int)host;
    if (!host && (!given || given == c->lent)) c->device_bytes += bytes;
    *out = p;
    return 0;
}

/* Graphs have the arena's addresses in them, and bytes of the device. */
RMC_FN void rmc_drop_graphs(rm_cuda *c)
{
    uint32_t i;
    for (i = 0; i < RM_STEP_KINDS; i++) {
        if (c->program[i].exec) (void)cudaGraphExecDestroy(c->program[i].exec);
        memset(&c->program[i], 0, sizeof c->program[i]);
    }
    c->graph_bytes = 0;
    c->launches = 0;
}

RMC_FN void rmc_release(void *user, void *p, uint32_t host)
{
    rm_cuda *c = (rm_cuda *)user;
    uint32_t i;
    if (!host) rmc_drop_graphs(c);
    rmc_calm(c);
    for (i = 0; i < RMC_ARENAS && (c->piece[i].p != p || c->piece[i].host != (int)host);) i++;
    if (i == RMC_ARENAS) return;
    if (host == 2) {
        void *raw;
        memcpy(&raw, (unsigned char *)p - sizeof raw, sizeof raw);
        rmc_table_free(c, raw);
    }
    else if (host && p != c->d.host_memory) rmc_keep_pinned(c, p, c->piece[i].bytes);
    else if (!host && p != c->d.device_memory) {
        if (p != c->lent) rmc_did(c, cudaFree(p), "cudaFree");
        c->device_bytes -= c->piece[i].bytes;
    }
    memset(&c->piece[i], 0, sizeof c->piece[i]);
}

/* =====================================================================================================================
   >>stream - lanes, events, calls on the host
   A lane is a stream. What each lane knows to be done of the others is counted, so that joins at the borders of a graph are
   made only where the waits of the plan do not imply them.
   ================================================================================================================== */
RMC_FN void rmc_learn(rmc_seen *to, const rmc_seen *from)
{
    uint32_t i;
    for (i = 0; i < RMC_LANES; i++)
        if (to->lane[i] < from->lane[i]) to->lane[i] = from->lane[i];
}

RMC_FN int rmc_wait_for(rm_cuda *c, uint32_t lane, cudaEvent_t e, const rmc_seen *seen)
{
    RMC_DO(c, cudaStreamWaitEvent, (c->stream[lane], e, 0));
    rmc_learn(&c->seen[lane], seen);
    return 0;
}

/* Before a lane gets anything: within a capture it must belong to it, after a graph it must come after it. */
RMC_FN int rmc_enter(rm_cuda *c, uint32_t lane)
{
    uint32_t bit = 1u << lane;
    int code;
    if (lane == RM_LANE_COMPUTE) return 0;
    if (c->capturing) {
        if (c->in_capture & bit) return 0;
        code = rmc_wait_for(c, lane, c->own[RMC_FORK], &c->fork_seen);
        c->in_capture |= bit;
        return code;
    }
    if (!(c->behind & bit)) return 0;
    c->behind &= ~bit;
    return rmc_wait_for(c, lane, c->own[RMC_DONE], &c->seen[RM_LANE_COMPUTE]);
}

/* A lane has been given something. Debug mode: see it done. */
RMC_FN int rmc_gave(rm_cuda *c, uint32_t lane)
{
    c->seen[lane].lane[lane] = ++c->given[lane];
    if (c->d.debug) RMC_DO(c, cudaStreamSynchronize, (c->stream[lane]));
    return 0;
}

/* Compute waits for what the lane has been given, unless that is known to be done. */
RMC_FN int rmc_join(rm_cuda *c, uint32_t lane)
{
    if (c->seen[RM_LANE_COMPUTE].lane[lane] >= c->given[lane]) return 0;
    RMC_DO(c, cudaEventRecord, (c->own[RMC_TAIL + lane], c->stream[lane]));
    return rmc_wait_for(c, RM_LANE_COMPUTE, c->own[RMC_TAIL + lane], &c->seen[lane]);
}

/* Is it in the plan's pageable memory? */
RMC_FN int rmc_is_pageable(const rm_cuda *c, const void *p)
{
    uint32_t i;
    for (i = 0; i < RMC_ARENAS; i++)
        if (c->piece[i].p && c->piece[i].host == 2 && (uintptr_t)p - (uintptr_t)c->piece[i].p < c->piece[i].bytes) return 1;
    return 0;
}

/* The host sleeps until a lane has done what it was given: cudaStreamSynchronize would take a core, which updates there want. */
RMC_FN int rmc_rest(rm_cuda *c, uint32_t lane)
{
    RMC_DO(c, cudaEventRecord, (c->own[RMC_TAIL + lane], c->stream[lane]));
    RMC_DO(c, cudaEventSynchronize, (c->own[RMC_TAIL + lane]));
    return 0;
}

/* CUDA may read pageable memory when the call is made, before what its lane waits for has written there, and returns from a copy
   into it when that is done: so the lane is waited for first. */
RMC_FN int rmc_copy(void *user, void *dst, const void *src, uint64_t bytes, uint32_t lane)
{
    rm_cuda *c = (rm_cuda *)user;
    enum cudaMemcpyKind kind = lane == RM_LANE_H2D ? cudaMemcpyHostToDevice : lane == RM_LANE_D2H ? cudaMemcpyDeviceToHost : cudaMemcpyDefault;
    int code = rmc_enter(c, lane);
    if (code || !bytes) return code;
    if (lane != RM_LANE_COMPUTE && rmc_is_pageable(c, lane == RM_LANE_H2D ? src : dst) && (code = rmc_rest(c, lane)) != 0) return code;
    rmc_range(c, lane + 1, lane == RM_LANE_H2D ? "copy to the device" : lane == RM_LANE_D2H ? "copy to the host" : "copy");
    code = rmc_did(c, cudaMemcpyAsync(dst, src, (size_t)bytes, kind, c->stream[lane]), "cudaMemcpyAsync");
    rmc_range_end(c, c->ranges - (c->ranges != 0));
    return code ? code : rmc_gave(c, lane);
}

RMC_FN int rmc_fill(void *user, void *dst, uint32_t byte, uint64_t bytes)
{
    rm_cuda *c = (rm_cuda *)user;
    if (!bytes) return 0;
    RMC_DO(c, cudaMemsetAsync, (dst, (int)byte, (size_t)bytes, c->stream[RM_LANE_COMPUTE]));
    return rmc_gave(c, RM_LANE_COMPUTE);
}

RMC_FN int rmc_record(void *user, uint32_t event, uint32_t lane)
{
    rm_cuda *c = (rm_cuda *)user;
    /* of a lane that nothing was given after the border, and of which compute knows the end, compute's place is one */
    int nothing = !c->capturing && (c->behind >> lane & 1) && c->seen[RM_LANE_COMPUTE].lane[lane] >= c->given[lane];
    uint32_t at = nothing ? RM_LANE_COMPUTE : lane;
    int code = at == lane ? rmc_enter(c, lane) : 0;
    if (code) return code;
    RMC_DO(c, cudaEventRecord, (c->event[event], c->stream[at]));
    c->event_seen[event] = c->seen[at];
    return 0;
}

#if defined(__GNUC__) || defined(__clang__)
#define RMC_LOAD(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define RMC_STORE(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
#else
#define RMC_LOAD(p) (*(volatile int *)(p))
#define RMC_STORE(p, v) (*(volatile int *)(p) = (v))
#endif

/* The result of a host call that failed, once. */
RMC_FN int rmc_host_result(rm_cuda *c)
{
    int code = RMC_LOAD(&c->host_code);
    if (code) {
        RMC_STORE(&c->host_code, 0);
        c->code = 0; /* the words are not CUDA's */
    }
    return code;
}

RMC_FN int rmc_wait(void *user, uint32_t event, uint32_t lane)
{
    rm_cuda *c = (rm_cuda *)user;
    uint32_t i, bit = 1u << lane;
    if (lane == RM_LANE_CALLER) {
        RMC_DO(c, cudaEventSynchronize, (c->event[event]));
        for (i = 0; i < RMC_LANES; i++) rmc_learn(&c->seen[i], &c->event_seen[event]); /* what is given from now on comes later */
        return rmc_host_result(c);
    }
    if (c->capturing) c->in_capture |= bit; /* the wait is the fork */
    else if (c->event_seen[event].lane[RM_LANE_COMPUTE] >= c->launched) c->behind &= ~bit;
    i = (uint32_t)rmc_enter(c, lane);
    return i ? (int)i : rmc_wait_for(c, lane, c->event[event], &c->event_seen[event]);
}

RMC_FN void CUDART_CB rmc_on_host(void *arg)
{
    rmc_slot *s = (rmc_slot *)arg;
    int code = RMC_LOAD(&s->c->host_failed) ? 0 : s->fn(s->arg); /* what an earlier one was to bring is not there */
    if (code) RMC_STORE(&s->c->host_failed, 1);
    if (code && !RMC_LOAD(&s->c->host_code)) RMC_STORE(&s->c->host_code, code);
}

/* In a stream a slot comes round again when no call that it held can be in flight; a graph keeps its own. */
RMC_FN int rmc_host_call(void *user, uint32_t lane, int (*fn)(void *arg), void *arg)
{
    rm_cuda *c = (rm_cuda *)user;
    rmc_slot *s;
    int code = rmc_enter(c, lane);
    if (code) return code;
    if (c->capturing) s = &c->slot[(size_t)c->calls * RMC_LANES * (1u + (uint32_t)(c->capturing - c->program)) + c->capturing->n_slots++ % (c->calls * RMC_LANES)];
    else s = &c->slot[(size_t)c->calls * lane + c->slot_at[lane]++ % c->calls];
    s->c = c;
    s->fn = fn;
    s->arg = arg;
    rmc_range(c, lane + 1, "call on the host");
    code = rmc_did(c, cudaLaunchHostFunc(c->stream[lane], rmc_on_host, s), "cudaLaunchHostFunc");
    rmc_range_end(c, c->ranges - (c->ranges != 0));
    return code ? code : rmc_gave(c, lane);
}

RMC_FN int rmc_sync(void *user)
{
    rm_cuda *c = (rm_cuda *)user;
    uint32_t i;
    int code;
    RMC_STORE(&c->held, 0); /* of an op that failed while it was timed */
    for (i = 0; i < RMC_LANES; i++)
        if ((code = rmc_rest(c, i)) != 0) return code;
    for (i = 0; i < RMC_LANES * RMC_LANES; i++) c->seen[i / RMC_LANES].lane[i % RMC_LANES] = c->given[i % RMC_LANES];
    c->behind = 0;
    RMC_STORE(&c->host_failed, 0); /* all is at rest */
    if (c->checked == 1 && (code = rmc_check_memory(c)) != 0) return code;
    return rmc_host_result(c);
}

/* =====================================================================================================================
   >>profile - times of ops, the link
   ================================================================================================================== */
#define RMC_HOLD_NS 5000000u /* an op that takes longer to enqueue is timed with the rest of its launch */
/* Holds a lane until rmc_mark lets it go; not for good, if a callback waits for the device, which waits for this. */
RMC_FN void CUDART_CB rmc_hold(void *arg)
{
    rm_cuda *c = (rm_cuda *)arg;
    uint64_t begin = rmc_now(NULL);
    while (RMC_LOAD(&c->held) && rmc_now(NULL) - begin < RMC_HOLD_NS) {}
}

RMC_FN int rmc_hold_lane(rm_cuda *c, cudaStream_t s)
{
    cudaError_t e;
    RMC_STORE(&c->held, 1);
    e = cudaLaunchHostFunc(s, rmc_hold, c);
    if (e) RMC_STORE(&c->held, 0);
    return rmc_did(c, e, "cudaLaunchHostFunc");
}

/* A copy each way, from and to the next pieces of pinned memory. */
RMC_FN int rmc_pair(rm_cuda *c)
{
    const size_t piece = c->traffic.piece, at = c->traffic.n % RMC_PIECES * piece;
    const uint32_t odd = c->traffic.n++ % 2;
    RMC_DO(c, cudaMemcpyAsync, (c->traffic.dev, c->traffic.host + at, piece, cudaMemcpyHostToDevice, c->stream[RM_LANE_H2D]));
    RMC_DO(c, cudaMemcpyAsync, (c->traffic.host + RMC_PIECES * piece + at, c->traffic.dev + piece, piece, cudaMemcpyDeviceToHost, c->stream[RM_LANE_D2H]));
    RMC_DO(c, cudaEventRecord, (c->own[RMC_PACE + odd], c->stream[odd ? RM_LANE_D2H : RM_LANE_H2D]));
    return 0;
}

/* Copies begin both ways, as steps have them: an update of the host's shares its memory with them. */
RMC_FN int rmc_traffic(rm_cuda *c)
{
    uint64_t outside, left, total;
    size_t piece = RMC_PIECE;
    void *dev = NULL, *host = NULL;
    int code = rmc_outside(c, &outside, &left, &total);
    if (code || c->traffic.none) return code;
    while (piece > total / 1024 && piece > RMC_PAGE) piece /= 2;
    if (!c->traffic.dev) {
        c->traffic.none = (c->d.limit_bytes && outside + c->device_bytes + 2 * piece > c->d.limit_bytes) || cudaMalloc(&dev, 2 * piece) != cudaSuccess ||
                          cudaHostAlloc(&host, 2 * RMC_PIECES * piece, cudaHostAllocPortable) != cudaSuccess;
        if (c->traffic.none) {
            (void)cudaGetLastError();
            if (dev) (void)cudaFree(dev);
            rmc_remark(c, "updates on the host are timed without copies beside them, for which there is no room: in steps they may be slower");
            return 0;
        }
        c->traffic.dev = (unsigned char *)dev;
        c->traffic.host = (unsigned char *)host;
        c->traffic.piece = piece;
    }
    code = rmc_pair(c);
    return code ? code : rmc_pair(c);
}

/* They go on until the second mark: two pairs are in flight, and the host sleeps meanwhile, for its cores belong to the update. */
RMC_FN int rmc_traffic_on(rm_cuda *c)
{
    cudaError_t e;
    int code;
    while (!c->traffic.none && (e = cudaEventQuery(c->own[RMC_MARK + 1])) != cudaSuccess) {
        if (e != cudaErrorNotReady) return rmc_did(c, e, "cudaEventQuery");
        (void)cudaGetLastError(); /* no failure */
        RMC_DO(c, cudaEventSynchronize, (c->own[RMC_PACE + c->traffic.n % 2]));
        if ((code = rmc_pair(c)) != 0) return code;
    }
    return 0;
}

/* Mark 0 and mark 1 stand around an op. The device gets to mark 0 when all of the op has been enqueued: else the time that the host
   takes to launch it, several microseconds, would count as the op's. */
RMC_FN int rmc_mark(void *user, uint32_t i, uint32_t lane)
{
    rm_cuda *c = (rm_cuda *)user;
    cudaStream_t s = c->stream[lane];
    cudaError_t e;
    int code = !i && lane == RM_LANE_HOST ? rmc_traffic(c) : 0;
    if (!code && !i && !c->d.debug) code = rmc_hold_lane(c, s); /* in debug mode each op is waited for */
    if (code) return code;
    e = cudaEventRecord(c->own[RMC_MARK + i], s);
    if (i || e) RMC_STORE(&c->held, 0);
    return e || !i || lane != RM_LANE_HOST ? rmc_did(c, e, "cudaEventRecord") : rmc_traffic_on(c);
}

RMC_FN int rmc_elapsed(rm_cuda *c, cudaEvent_t from, cudaEvent_t to, uint64_t *ns)
{
    float ms = 0;
    RMC_DO(c, cudaEventElapsedTime, (&ms, from, to));
    *ns = ms > 0 ? (uint64_t)((double)ms * 1e6 + 0.5) : 0;
    return 0;
}

RMC_FN int rmc_marked(void *user, uint64_t *ns)
{
    rm_cuda *c = (rm_cuda *)user;
    return rmc_elapsed(c, c->own[RMC_MARK], c->own[RMC_MARK + 1], ns);
}

typedef struct rmc_probe {
    unsigned char *dev, *host; /* two halves each */
    size_t half;
    rm_cuda_load load;
    void *user;
} rmc_probe;

#define RMC_PROBES 5

RMC_FN void rmc_sort(uint64_t *v, uint32_t n)
{
    uint32_t i, k;
    for (i = 1; i < n; i++)
        for (k = i; k && v[k - 1] > v[k]; k--) {
            uint64_t t = v[k];
            v[k] = v[k - 1];
            v[k - 1] = t;
        }
}

/* One copy of `bytes` in the wanted direction between two marks, compute and the other direction busy. */
RMC_FN int rmc_probe_once(rm_cuda *c, const rmc_probe *p, uint32_t lane, size_t bytes, uint64_t *ns)
{
    uint32_t other = lane == RM_LANE_H2D ? RM_LANE_D2H : RM_LANE_H2D, i;
    cudaStream_t compute = c->stream[RM_LANE_COMPUTE], s = c->stream[lane];
    enum cudaMemcpyKind kind = lane == RM_LANE_H2D ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
    enum cudaMemcpyKind back = lane == RM_LANE_H2D ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice;
    int code;
    if (p->load && p->load(p->user, compute)) {
        snprintf(c->text, sizeof c->text, "rm_cuda_link_measure: the load returned nonzero");
        return c->code = RMC_CPU;
    }
    for (i = 0; i < 256 && !p->load; i++) RMC_DO(c, cudaMemsetAsync, (p->dev + p->half, (int)i, p->half / 2, compute)); /* longer than the copy */
    for (i = 0; i < 3; i++) RMC_DO(c, cudaMemcpyAsync, (other == RM_LANE_H2D ? p->dev + p->half + p->half / 2 : p->host + p->half, other == RM_LANE_H2D ? p->host + p->half : p->dev + p->half + p->half / 2, p->half / 2, back, c->stream[other]));
    if ((code = rmc_hold_lane(c, s)) != 0) return code; /* as ops: what the host takes to enqueue it is not the link's */
    RMC_DO(c, cudaEventRecord, (c->own[RMC_MARK], s));
    RMC_DO(c, cudaMemcpyAsync, (lane == RM_LANE_H2D ? p->dev : p->host, lane == RM_LANE_H2D ? p->host : p->dev, bytes, kind, s));
    RMC_DO(c, cudaEventRecord, (c->own[RMC_MARK + 1], s));
    RMC_STORE(&c->held, 0);
    for (i = 0; i < RMC_LANES; i++) RMC_DO(c, cudaStreamSynchronize, (c->stream[i]));
    return rmc_marked(c, ns);
}

/* The median of copies of `bytes`. */
RMC_FN int rmc_probe_median(rm_cuda *c, const rmc_probe *p, uint32_t lane, size_t bytes, uint64_t *out)
{
    uint64_t ns[RMC_PROBES];
    uint32_t i;
    int code;
    for (i = 0; i < RMC_PROBES; i++)
        if ((code = rmc_probe_once(c, p, lane, bytes, &ns[i])) != 0) return code;
    rmc_sort(ns, RMC_PROBES);
    *out = ns[RMC_PROBES / 2] ? ns[RMC_PROBES / 2] : 1;
    return 0;
}

RMC_FN uint64_t rmc_bandwidth(size_t bytes, uint64_t ns, uint64_t latency) { return (uint64_t)((double)bytes * 1e9 / (double)(ns > latency ? ns - latency : 1)); }

RMC_FN int rmc_link(rm_cuda *c, rm_cuda_load load, void *user, rm_cuda_link *out)
{
    rmc_probe p;
    int code;
    void *dev = NULL, *host = NULL;
    uint64_t h2d = 0, d2h = 0;
    memset(&p, 0, sizeof p);
    p.load = load;
    p.user = user;
    code = rmc_sync(c);
    if (!code) code = rmc_here(c);
    if (code) return code;
    rmc_calm(c);
    for (p.half = (size_t)64 << 20; p.half >= (size_t)1 << 16; p.half /= 2) { /* what there is room for */
        code = rmc_did(c, cudaMalloc(&dev, 2 * p.half), "cudaMalloc");
        if (code == (int)cudaErrorMemoryAllocation) continue;
        break;
    }
    if (!code) code = rmc_did(c, cudaHostAlloc(&host, 2 * p.half, cudaHostAllocPortable), "cudaHostAlloc");
    p.dev = (unsigned char *)dev;
    p.host = (unsigned char *)host;
    if (!code) memset(host, 0, 2 * p.half);
    if (!code) code = rmc_probe_median(c, &p, RM_LANE_H2D, 64, &out->latency_ns); /* a copy of a few bytes is all latency */
    if (!code) code = rmc_probe_median(c, &p, RM_LANE_H2D, p.half, &h2d);
    if (!code) code = rmc_probe_median(c, &p, RM_LANE_D2H, p.half, &d2h);
    out->h2d = rmc_bandwidth(p.half, h2d, out->latency_ns);
    out->d2h = rmc_bandwidth(p.half, d2h, out->latency_ns);
    RMC_STORE(&c->held, 0); /* of a probe that failed */
    if (host) (void)cudaFreeHost(host);
    if (dev) (void)cudaFree(dev);
    return code;
}

RMC_FN int rmc_measure_link(void *user, uint64_t *h2d, uint64_t *d2h, uint64_t *latency_ns)
{
    rm_cuda_link link;
    int code = rmc_link((rm_cuda *)user, NULL, NULL, &link);
    if (code) return code;
    *h2d = link.h2d;
    *d2h = link.d2h;
    *latency_ns = link.latency_ns;
    return 0;
}

/* =====================================================================================================================
   >>graph - capture and replay
   The values of a step are copied in front of what it does, from pinned memory that changes with each step: in a graph by its
   first node, always from the same block. That is all a replay needs. A program is issued to streams once, captured, then started.
   ================================================================================================================== */
RMC_FN int rmc_values(rm_cuda *c, rmc_block *b, const rm_step *s)
{
    int fresh = s->kind == RM_SINGLE || s->kind == RM_FIRST || !s->kind; /* an overflow counts for all of an accumulation */
    b->step = *s;
    b->skip = 0;
    RMC_DO(c, cudaMemcpyAsync, (c->on_device, b, fresh ? sizeof(rmc_block) : sizeof(rm_step), cudaMemcpyHostToDevice, c->stream[RM_LANE_COMPUTE]));
    return rmc_gave(c, RM_LANE_COMPUTE);
}

/* The block that graphs copy from is free when the one launched last has copied it: as soon as that step has begun. */
RMC_FN int rmc_graph_values(rm_cuda *c, const rm_step *s)
{
    if (c->launches) RMC_DO(c, cudaEventSynchronize, (c->own[RMC_TAKEN]));
    c->ring[RMC_GRAPH].step = *s;
    c->ring[RMC_GRAPH].skip = 0;
    return 0;
}

/* While the per-thread default stream is captured, what is launched there is kept, and work on the legacy stream is an error. */
RMC_FN void rmc_watch(rm_cuda *c)
{
    if (c->d.unwatched) return;
    c->watching = cudaStreamBeginCapture(cudaStreamPerThread, cudaStreamCaptureModeRelaxed) == cudaSuccess;
    if (!c->watching) (void)cudaGetLastError(); /* somebody else captures there */
}

/* The end of it: has anything gone to a default stream since it began? */
RMC_FN int rmc_watched(rm_cuda *c)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cudaGraph_t g = NULL;
    size_t n = 0;
    int legacy;
    cudaError_t e;
    if (!c->watching) return RMC_NOWHERE;
    c->watching = 0;
    e = cudaStreamEndCapture(cudaStreamPerThread, &g);
    legacy = e >= cudaErrorStreamCaptureUnsupported && e <= cudaErrorStreamCaptureWrongThread; /* else it failed for reasons of its own, which others find */
    if (e && cudaStreamIsCapturing(cudaStreamPerThread, &status) == cudaSuccess && status != cudaStreamCaptureStatusNone) (void)cudaStreamEndCapture(cudaStreamPerThread, &g);
    if (g && cudaGraphGetNodes(g, NULL, &n) != cudaSuccess) n = 0;
    if (g) (void)cudaGraphDestroy(g);
    (void)cudaGetLastError();
    return n ? RMC_PER_THREAD : legacy ? RMC_LEGACY : RMC_NOWHERE;
}

/* Something went to a default stream. Returns the code of these words. */
RMC_FN int rmc_went_astray(rm_cuda *c, int where)
{
    c->astray = where;
    snprintf(c->text, sizeof c->text, "it used the %s default stream (a launch without a stream, or a call without one, like cudaMemcpy): give it c->stream", where == RMC_LEGACY ? "legacy" : "per-thread");
    return c->code = RMC_CPU;
}

/* Do its own bits come out right in streams all the same? Work on the legacy stream is ordered with streams that block with it. */
RMC_FN int rmc_ordered(rm_cuda *c)
{
    unsigned int flags = cudaStreamNonBlocking, more = cudaStreamNonBlocking;
    if (c->astray == RMC_NOWHERE) return 1;
    if (c->astray == RMC_PER_THREAD || cudaStreamGetFlags(c->stream[RM_LANE_COMPUTE], &flags) != cudaSuccess || cudaStreamGetFlags(c->stream[RM_LANE_COMM], &more) != cudaSuccess) return 0;
    return !((flags | more) & cudaStreamNonBlocking);
}

/* Everything that was given to any lane comes before what compute gets next. A lane whose end another lane's end comes after
   needs no wait of its own. */
RMC_FN int rmc_gather(rm_cuda *c)
{
    uint32_t lane, k, open = 0;
    int code;
    for (lane = 1; lane < RMC_LANES; lane++)
        if (c->seen[RM_LANE_COMPUTE].lane[lane] < c->given[lane]) open |= 1u << lane;
    for (lane = 1; lane < RMC_LANES; lane++) {
        for (k = 1; k < RMC_LANES; k++)
            if (k != lane && (open >> k & 1) && c->seen[k].lane[lane] >= c->given[lane]) break;
        if (k == RMC_LANES && (code = rmc_join(c, lane)) != 0) return code;
    }
    return 0;
}

/* What any lane gets next comes after all that compute has been given. */
RMC_FN int rmc_border(rm_cuda *c)
{
    c->launched = c->seen[RM_LANE_COMPUTE].lane[RM_LANE_COMPUTE] = ++c->given[RM_LANE_COMPUTE];
    RMC_DO(c, cudaEventRecord, (c->own[RMC_DONE], c->stream[RM_LANE_COMPUTE]));
    c->behind = (1u << RMC_LANES) - 2u; /* all but compute */
    return 0;
}

/* The next half of the staging memory is free when its copies, of two steps ago, have been made. */
RMC_FN int rmc_claim(rm_cuda *c)
{
    if (c->stage.claimed) return 0;
    RMC_DO(c, cudaEventSynchronize, (c->own[RMC_STAGED + c->stage.half]));
    c->stage.claimed = 1;
    return 0;
}

/* A step begins: its inputs are on their way, the next one's go to the other half. */
RMC_FN int rmc_staged(rm_cuda *c)
{
    if (!c->stage.at) return 0;
    RMC_DO(c, cudaEventRecord, (c->own[RMC_STAGED + c->stage.half], c->stream[RM_LANE_COMPUTE]));
    c->stage.half ^= 1;
    c->stage.at = 0;
    c->stage.claimed = 0;
    return 0;
}

/* An input goes through pinned memory, if it fits there; else the host waits for the copy, and so for the steps before. */
RMC_FN int rmc_feed(void *user, void *dst, const void *src, uint64_t bytes)
{
    rm_cuda *c = (rm_cuda *)user;
    cudaStream_t compute = c->stream[RM_LANE_COMPUTE];
    int fits = bytes <= c->stage.half_bytes && c->stage.at <= c->stage.half_bytes - bytes, code;
    char t[300];
    if (bytes && fits) {
        unsigned char *to = c->stage.p + (size_t)(c->stage.half * c->stage.half_bytes + c->stage.at);
        if ((code = rmc_claim(c)) != 0) return code;
        memcpy(to, src, (size_t)bytes);
        c->stage.at += (bytes + 63) / 64 * 64;
        RMC_DO(c, cudaMemcpyAsync, (dst, to, (size_t)bytes, cudaMemcpyHostToDevice, compute));
    } else if (bytes) {
        RMC_DO(c, cudaMemcpyAsync, (dst, src, (size_t)bytes, cudaMemcpyDefault, compute));
        RMC_DO(c, cudaEventRecord, (c->own[RMC_DONE], compute));
        RMC_DO(c, cudaEventSynchronize, (c->own[RMC_DONE]));
    }
    if (bytes && !fits && !c->stage.told) {
        c->stage.told = 1;
        snprintf(t, sizeof t, "an input of %llu bytes, with those written before it for the same step, exceeds rm_cuda_desc.stage_bytes, %llu: writing it waits for the steps before", (unsigned long long)bytes, (unsigned long long)c->stage.half_bytes);
        rmc_remark(c, t);
    }
    if (bytes && (code = rmc_gave(c, RM_LANE_COMPUTE)) != 0) return code;
    return rmc_border(c);
}

/* Is it in host memory of an executor? */
RMC_FN int rmc_in_host(const rm_cuda *c, const void *p)
{
    const unsigned char *at = (const unsigned char *)p;
    uint32_t i;
    for (i = 0; i < RMC_ARENAS; i++)
        if (c->piece[i].p && c->piece[i].host && at >= (unsigned char *)c->piece[i].p && at < (unsigned char *)c->piece[i].p + (size_t)c->piece[i].bytes) return 1;
    return 0;
}

/* The value of the step before, while that of the last one is copied, behind compute and what may have brought the output where it is; what
   any lane gets next comes after that copy. */
RMC_FN int rmc_read_late(rm_cuda *c, const void *at, void *dst, size_t bytes, uint32_t *there)
{
    unsigned char *room = c->stage.p + (size_t)(2 * c->stage.half_bytes);
    uint32_t now = c->late.n & 1;
    int code = rmc_join(c, RM_LANE_H2D);
    if (!code && rmc_in_host(c, at)) code = rmc_join(c, RM_LANE_D2H);
    if (code) return code;
    RMC_DO(c, cudaMemcpyAsync, (room + now * RMC_LATE, at, bytes, cudaMemcpyDefault, c->stream[RM_LANE_COMPUTE]));
    RMC_DO(c, cudaEventRecord, (c->own[RMC_READ_LATE + now], c->stream[RM_LANE_COMPUTE]));
    if ((code = rmc_border(c)) != 0) return code;
    *there = c->late.n++ != 0;
    if (!*there) return 0;
    RMC_DO(c, cudaEventSynchronize, (c->own[RMC_READ_LATE + (now ^ 1)]));
    memcpy(dst, room + (now ^ 1) * RMC_LATE, bytes);
    return rmc_host_result(c);
}

RMC_FN int rmc_launch(rm_cuda *c, rmc_program *p)
{
    RMC_DO(c, cudaGraphLaunch, (p->exec, c->stream[RM_LANE_COMPUTE]));
    c->launches = 1;
    return rmc_border(c);
}

RMC_FN int rmc_capture(rm_cuda *c, rmc_program *p, const rm_step *s)
{
    int code = rmc_gather(c);
    c->astray = RMC_NOWHERE;
    if (code) return code;
    memcpy(c->given_before, c->given, sizeof c->given);
    memcpy(c->seen_before, c->seen, sizeof c->seen);
    RMC_DO(c, cudaStreamBeginCapture, (c->stream[RM_LANE_COMPUTE], cudaStreamCaptureModeThreadLocal));
    c->capturing = p;
    c->in_capture = 1u << RM_LANE_COMPUTE;
    p->n_slots = 0;
    if ((code = rmc_values(c, &c->ring[RMC_GRAPH], s)) != 0) return code;
    RMC_DO(c, cudaEventRecordWithFlags, (c->own[RMC_TAKEN], c->stream[RM_LANE_COMPUTE], cudaEventRecordExternal)); /* a node: each launch records it */
    c->fork_seen = c->seen[RM_LANE_COMPUTE];
    RMC_DO(c, cudaEventRecord, (c->own[RMC_FORK], c->stream[RM_LANE_COMPUTE]));
    rmc_watch(c);
    return 0;
}

/* What was captured is let go, and this kind of step stays in streams, if it is right there. Nothing of it has run; all lanes come after
   what was gathered for it, and no event says more than that. */
RMC_FN int rmc_give_up(rm_cuda *c, rmc_program *p, const char *failed)
{
    static const char *const kinds[] = {"single", "first", "middle", "last", "forward"};
    char t[600];
    uint32_t i;
    cudaGraph_t g = NULL;
    int where = rmc_watched(c), code; /* of a callback that failed */
    if (where) rmc_went_astray(c, where);
    if (c->capturing && cudaStreamEndCapture(c->stream[RM_LANE_COMPUTE], &g) == cudaSuccess && g) (void)cudaGraphDestroy(g);
    (void)cudaGetLastError();
    c->capturing = NULL;
    memcpy(c->given, c->given_before, sizeof c->given);
    memcpy(c->seen, c->seen_before, sizeof c->seen);
    for (i = 0; i < c->n_events; i++) memset(&c->event_seen[i], 0, sizeof(rmc_seen));
    if (!rmc_ordered(c)) return (code = rmc_border(c)) != 0 ? code : (c->code = RMC_CPU);
    p->streams_only = 1;
    for (i = 0; i < RM_STEP_KINDS - 1 && p->kind >> (i + 1);) i++;
    snprintf(t, sizeof t, "%s steps stay in streams, they could not be made a CUDA graph: %.150s%s%.200s", kinds[i], failed ? failed : "", failed ? ": " : "", c->code ? c->text : "it failed while it was captured");
    rmc_remark(c, t);
    return rmc_border(c);
}

/* Makes a graph of what was captured, with all that it takes on the device, and within the limit; or nothing stays of it. */
RMC_FN int rmc_instantiate(rm_cuda *c, rmc_program *p, cudaGraph_t g)
{
    uint64_t left = rmc_left(), now, outside = 0, total = 0;
    int code = rmc_did(c, cudaGraphInstantiateWithFlags(&p->exec, g, RMC_INSTANTIATE), "cudaGraphInstantiateWithFlags");
    if (code) {
        p->exec = NULL;
        return code;
    }
    code = rmc_did(c, cudaGraphUpload(p->exec, c->stream[RM_LANE_COMPUTE]), "cudaGraphUpload");
    if (!code) code = rmc_outside(c, &outside, &now, &total);
    if (!code && c->d.limit_bytes && outside + c->device_bytes > c->d.limit_bytes) {
        snprintf(c->text, sizeof c->text, "it takes %llu bytes of the device, more than limit_bytes leaves", (unsigned long long)(left > now ? left - now : 0));
        code = c->code = RMC_CPU;
    }
    if (!code) {
        if (left > now) c->graph_bytes += left - now;
        return 0;
    }
    (void)cudaGraphExecDestroy(p->exec);
    (void)cudaGetLastError();
    p->exec = NULL;
    return code;
}

/* The end of a step that was captured: it becomes a graph, which runs. What fails here has not run: it goes to streams. */
RMC_FN int rmc_keep(rm_cuda *c, rmc_program *p, uint32_t *answer, const char *failed)
{
    cudaGraph_t g = NULL;
    size_t n = 0;
    int code = failed ? 1 : rmc_gather(c);
    if (!code && (c->astray = rmc_watched(c)) != RMC_NOWHERE) code = rmc_went_astray(c, c->astray);
    if (!code) {
        code = rmc_did(c, cudaStreamEndCapture(c->stream[RM_LANE_COMPUTE], &g), "cudaStreamEndCapture");
        if (!code) c->capturing = NULL;
    }
    if (!code) code = rmc_did(c, cudaGraphGetNodes(g, NULL, &n), "cudaGraphGetNodes");
    if (!code) code = rmc_instantiate(c, p, g);
    if (g) (void)cudaGraphDestroy(g);
    if (code) {
        code = rmc_give_up(c, p, failed);
        if (!code) *answer = RM_ISSUE;
        return code;
    }
    c->nodes = (uint32_t)n;
    c->captured++;
    c->checked = 1;
    return rmc_launch(c, p);
}

RMC_FN int rmc_begin(void *user, uint32_t program, const rm_step *s, uint32_t *answer)
{
    rm_cuda *c = (rm_cuda *)user;
    rmc_program *p = &c->program[program];
    uint32_t i;
    int code;
    c->code = 0;
    rmc_range_end(c, 0);
    (void)cudaGetLastError(); /* of others: no op here is to blame for it */
    if (answer) rmc_calm(c); /* a profile has ended */
    if ((code = rmc_here(c)) != 0 || (code = rmc_staged(c)) != 0) return code;
    if ((c->d.limit_bytes || c->checked == 1) && (code = rmc_check_memory(c)) != 0) return code;
    if (!answer) return rmc_values(c, &c->ring[c->ring_at++ % RMC_RING], s); /* a step of rm_exec_profile */
    rmc_range(c, 0, p->exec ? "step, a graph" : "step");
    if (!c->timed) RMC_DO(c, cudaEventRecord, (c->own[RMC_FIRST], c->stream[RM_LANE_COMPUTE]));
    p->kind = s->kind;
    for (i = 0; i < RMC_ARENAS && c->d.graph && !p->streams_only; i++)
        if (c->piece[i].host == 2) {
            p->streams_only = 1;
            rmc_remark(c, "steps stay in streams: the plan has bytes in pageable memory, and the host waits for copies of them");
        }
    if (c->steered == RMC_STREAMS || (!c->steered && (!c->d.graph || c->d.debug)) || p->streams_only || !p->steps) { /* the first step goes to streams: libraries load what they need */
        *answer = RM_ISSUE;
        if (!p->steps) c->left_then = rmc_left();
        return rmc_values(c, &c->ring[c->ring_at++ % RMC_RING], s);
    }
    if ((code = rmc_graph_values(c, s)) != 0) return code;
    *answer = p->exec ? RM_REPLAY : RM_CAPTURE;
    if (p->exec || (code = rmc_capture(c, p, s)) == 0) return 0;
    *answer = RM_ISSUE;
    if (c->capturing && (code = rmc_give_up(c, p, NULL)) == 0) code = rmc_values(c, &c->ring[c->ring_at++ % RMC_RING], s);
    return code;
}

RMC_FN int rmc_end(void *user, uint32_t program, uint32_t *answer, const char *failed)
{
    rm_cuda *c = (rm_cuda *)user;
    rmc_program *p = &c->program[program];
    int code = 0;
    rmc_range_end(c, 0); /* a callback that failed has one open */
    if (*answer == RM_CAPTURE) {
        code = rmc_keep(c, p, answer, failed);
        if (code || *answer == RM_ISSUE) return code; /* it will be begun again */
    } else if (*answer == RM_REPLAY) {
        code = rmc_gather(c);
        if (!code) code = rmc_launch(c, p);
        c->replayed += !code;
    } else c->streamed += !failed;
    if (!p->steps && c->left_then) { /* libraries load kernels and make workspaces when they are first called */
        uint64_t left = rmc_left();
        if (left && left < c->left_then) c->library_bytes += c->left_then - left;
        c->left_then = 0;
    }
    if (code || failed) return code;
    RMC_DO(c, cudaEventRecord, (c->own[RMC_LAST], c->stream[RM_LANE_COMPUTE]));
    c->timed++;
    if (!p->steps++ && !c->checked) c->checked = 1;
    c->last_program = program;
    return 0;
}

/* Before each callback: a gather may be the first work of its lane in a step, and wait for nothing. */
RMC_FN void rmc_before(void *user, uint32_t lane, const rm_call *call)
{
    rm_cuda *c = (rm_cuda *)user;
#if defined(ROCKMATE_CUDA_NVTX)
    static const char *const phases[] = {"", "forward", "backward", "update", "reduction", "barrier", "gather", "scatter"};
    char name[160];
    snprintf(name, sizeof name, "%.120s %s%s", call->op, call->recompute ? "recomputed " : "", call->phase < sizeof phases / sizeof phases[0] ? phases[call->phase] : "");
    rmc_range(c, lane + 1, name);
#endif
    (void)call;
    c->entered = rmc_enter(c, lane);
}

/* After each callback: did it launch what cannot be launched, do what capture does not allow, and, in debug mode, does it run? */
RMC_FN int rmc_after(void *user, uint32_t lane, const rm_call *call)
{
    rm_cuda *c = (rm_cuda *)user;
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusActive;
    int where = rmc_watched(c);
    (void)call;
    rmc_range_end(c, c->ranges - (c->ranges != 0));
    if (where) return rmc_went_astray(c, where);
    if (c->entered) return c->code = c->entered;
    if (cudaPeekAtLastError() == cudaErrorNotReady) (void)cudaGetLastError(); /* it asked whether something has been done: no failure */
    RMC_DO(c, cudaPeekAtLastError, ());
    if (c->capturing) {
        RMC_DO(c, cudaStreamIsCapturing, (c->stream[lane], &status));
        if (status != cudaStreamCaptureStatusActive) return rmc_did(c, cudaErrorStreamCaptureInvalidated, "what it called");
        rmc_watch(c);
    }
    return rmc_gave(c, lane);
}

/* Nothing is made in a step: events and slots are made here, and graphs of old addresses dropped. */
RMC_FN int rmc_reserve(void *user, uint32_t events, uint32_t calls)
{
    rm_cuda *c = (rm_cuda *)user;
    uint32_t i;
    int code = rmc_here(c);
    if (code) return code;
    rmc_drop_graphs(c);
    memset((void *)&c->late, 0, sizeof c->late);
    if (events > c->n_events) {
        cudaEvent_t *more = (cudaEvent_t *)rmc_table(c, events, sizeof(cudaEvent_t));
        rmc_seen *seen = (rmc_seen *)rmc_table(c, events, sizeof(rmc_seen));
        if (more && c->n_events) memcpy(more, c->event, c->n_events * sizeof(cudaEvent_t));
        rmc_table_free(c, more ? (void *)c->event : NULL);
        if (more) c->event = more;
        rmc_table_free(c, seen ? (void *)c->event_seen : NULL);
        if (seen) c->event_seen = seen;
        if (!more || !seen) return rmc_did(c, cudaErrorMemoryAllocation, "the allocator (host memory)");
        for (; c->n_events < events; c->n_events++) RMC_DO(c, cudaEventCreateWithFlags, (&c->event[c->n_events], cudaEventDisableTiming | cudaEventBlockingSync));
    }
    for (i = 0; i < c->n_events; i++) memset(&c->event_seen[i], 0, sizeof(rmc_seen));
    if (!calls) calls = 1;
    if (calls > c->calls) { /* a lane's turn in streams, and as many for each program that is a graph */
        rmc_slot *slot = (rmc_slot *)rmc_table(c, (uint64_t)calls * RMC_LANES * (RM_STEP_KINDS + 1), sizeof(rmc_slot));
        if (!slot) return rmc_did(c, cudaErrorMemoryAllocation, "the allocator (host memory)");
        rmc_table_free(c, c->slot);
        c->slot = slot;
        c->calls = calls;
    }
    return 0;
}

/* =====================================================================================================================
   >>check - a replay against streams
   The state before is kept as rm_exec_save writes it, and so is the state after the first run in streams; of the runs that follow each
   byte is compared as it comes.
   ================================================================================================================== */
#define RMC_NOT_SEEN UINT64_MAX
#define RMC_OUTPUTS 8

typedef struct rmc_image { /* bytes of rm_exec_save, or of outputs */
    unsigned char *p;      /* NULL: they are only counted */
    uint64_t bytes, at;
    int compare;           /* with what is there; else they are put there */
    uint64_t differs;      /* the first byte that does, or RMC_NOT_SEEN */
} rmc_image;

typedef struct rmc_trial {
    rm_cuda *c;
    rm_exec *x;
    const rm_graph *g;
    rm_cuda_check_desc d;
    rm_step values;
    uint32_t kind[RM_STEP_KINDS], n;
    rmc_image before, after, outputs;
} rmc_trial;

RMC_FN int rmc_take(void *user, const char *bytes, size_t n)
{
    rmc_image *m = (rmc_image *)user;
    uint64_t from = m->at;
    size_t i;
    m->at += n;
    if (!m->p) return 0;
    if (n > m->bytes || from > m->bytes - n) return 1;
    if (!m->compare) memcpy(m->p + (size_t)from, bytes, n);
    else if (m->differs == RMC_NOT_SEEN && memcmp(m->p + (size_t)from, bytes, n)) {
        for (i = 0; m->p[(size_t)from + i] == (unsigned char)bytes[i];) i++;
        m->differs = from + i;
    }
    return 0;
}

RMC_FN rm_result rmc_check_says(rm_cuda *c, rm_result r, const char *what, const char *more)
{
    snprintf(c->text, sizeof c->text, "rm_cuda_check: %.180s%s%.190s", what, *more ? ": " : "", more);
    return r;
}

/* The values of a step: as given with batch 0, all others with batch 1. */
RMC_FN rm_step rmc_values_of(const rmc_trial *t, uint32_t batch, uint32_t k)
{
    rm_step s = t->values;
    uint32_t i;
    s.kind = t->kind[k];
    s.micro += k;
    if (!batch) return s;
    s.step += 7;
    s.seed = s.seed * 6364136223846793005u + 1442695040888963407u;
    s.lr *= 0.625;
    for (i = 0; i < sizeof s.value / sizeof s.value[0]; i++) s.value[i] = s.value[i] * 0.875 + 0.0625;
    return s;
}

/* One step of each kind from the state before; compare: outputs and state against those of the run that was kept. */
RMC_FN rm_result rmc_trial_run(rmc_trial *t, uint32_t batch, int steered, int keep)
{
    rm_result r = rm_exec_restore(t->x, t->before.p, (size_t)t->before.bytes);
    uint32_t k, i;
    t->c->steered = steered;
    t->outputs.at = t->after.at = 0;
    for (k = 0; k < t->n && r == RM_OK; k++) {
        const rm_step s = rmc_values_of(t, batch, k);
        if (t->d.feed && t->d.feed(t->d.feed_user, t->x, batch)) return rmc_check_says(t->c, RM_ERROR_CALLBACK, "feed returned nonzero", rm_exec_error(t->x));
        r = rm_exec_step(t->x, &s);
        for (i = 0; i < RMC_OUTPUTS && t->d.output[i].id && r == RM_OK && keep; i++) {
            uint64_t bytes = rm_tensor_bytes(t->g, t->d.output[i]);
            unsigned char *last = t->outputs.p + (size_t)(t->outputs.bytes - bytes); /* behind what is kept there is room for one */
            r = rm_exec_read(t->x, t->d.output[i], RM_VALUE, 0, last, bytes);
            if (r == RM_OK) (void)rmc_take(&t->outputs, (const char *)last, (size_t)bytes);
        }
    }
    if (r == RM_OK) r = keep ? rm_exec_save(t->x, rmc_take, &t->after) : rm_exec_wait(t->x);
    t->c->steered = RMC_AS_TOLD;
    return r == RM_OK ? r : rmc_check_says(t->c, r, "a step failed", rm_exec_error(t->x));
}

RMC_FN uint64_t rmc_number(const unsigned char *p)
{
    uint64_t n = 0;
    int i;
    for (i = 8; i-- > 0;) n = n << 8 | p[i];
    return n;
}

/* What differs between the run that was kept and the last one; docs/formats.md, 9, has the layout of a state. */
RMC_FN rm_result rmc_differs(rmc_trial *t, const char *how)
{
    char what[300];
    uint64_t at = 40, length = 0, bytes = 0, size = 0, from = 0;
    uint32_t i;
    if (t->outputs.differs != RMC_NOT_SEEN) {
        for (i = 0; i < RMC_OUTPUTS && t->d.output[i].id; i++) size += rm_tensor_bytes(t->g, t->d.output[i]);
        for (at = t->outputs.differs % size, i = 0; at >= rm_tensor_bytes(t->g, t->d.output[i]); i++) at -= rm_tensor_bytes(t->g, t->d.output[i]);
        snprintf(what, sizeof what, "output %.150s, byte %llu, %s", rm_tensor_name(t->g, t->d.output[i]), (unsigned long long)at, how);
        return rmc_check_says(t->c, RM_ERROR_CHECK, what, "");
    }
    if (t->after.differs == RMC_NOT_SEEN) return RM_OK;
    for (; at + 16 <= t->after.bytes; at = from + bytes + 8) {
        length = rmc_number(t->after.p + (size_t)at);
        bytes = rmc_number(t->after.p + (size_t)(at + 8 + length));
        from = at + 8 + length + 16;
        if (t->after.differs < from + bytes) break;
    }
    snprintf(what, sizeof what, "%.*s, byte %llu, %s", (int)(length < 150 ? length : 150), (const char *)t->after.p + (size_t)(at + 8), (unsigned long long)(t->after.differs - from), how);
    return rmc_check_says(t->c, RM_ERROR_CHECK, what, "");
}

/* Two runs in streams and one as graphs, with values that no graph has seen. */
RMC_FN rm_result rmc_compare(rmc_trial *t)
{
    uint64_t replayed;
    int i;
    rm_result r = RM_OK;
    for (i = 0; i < 2 && r == RM_OK; i++) r = rmc_trial_run(t, 0, RMC_GRAPHS, 0); /* in streams, captured */
    if (r == RM_OK) r = rmc_trial_run(t, 1, RMC_STREAMS, 1);
    t->outputs.compare = t->after.compare = 1;
    if (r == RM_OK) r = rmc_trial_run(t, 1, RMC_STREAMS, 1);
    if (r == RM_OK) r = rmc_differs(t, "differs from run to run in streams (atomics, or bytes that nobody wrote?): nothing can be said of graphs");
    if (r == RM_OK) r = rmc_trial_run(t, 0, RMC_STREAMS, 0); /* buffers on the host that a graph reads hold another step's bytes */
    replayed = t->c->replayed;
    if (r == RM_OK) r = rmc_trial_run(t, 1, RMC_GRAPHS, 1);
    if (r == RM_OK) r = rmc_differs(t, "is another in a replay than in streams: an op has frozen a value when it was captured (lr, a seed, a grid size, an address that changes), see the manual, 4");
    if (r == RM_OK && t->c->replayed - replayed != t->n) r = rmc_check_says(t->c, RM_ERROR_CHECK, "not every step could be a graph", t->c->note);
    return r;
}

/* Room for the state, twice, and outputs; then the trial, and the state again as it was. */
RMC_FN rm_result rmc_check(rmc_trial *t)
{
    rm_cuda *c = t->c;
    uint64_t largest = 0;
    uint32_t i, debug = c->d.debug;
    rm_result r = rm_exec_save(t->x, rmc_take, &t->before), back;
    if (r != RM_OK) return rmc_check_says(c, r, "the state cannot be saved", rm_exec_error(t->x));
    t->before.bytes = t->after.bytes = t->before.at;
    t->before.at = 0;
    for (i = 0; i < RMC_OUTPUTS && t->d.output[i].id; i++) {
        uint64_t bytes = rm_tensor_bytes(t->g, t->d.output[i]);
        t->outputs.bytes += bytes * t->n;
        if (largest < bytes) largest = bytes;
    }
    t->outputs.bytes += largest;
    t->before.p = (unsigned char *)rmc_table(c, t->before.bytes, 1);
    t->after.p = (unsigned char *)rmc_table(c, t->after.bytes, 1);
    t->outputs.p = (unsigned char *)rmc_table(c, t->outputs.bytes, 1);
    if (!t->before.p || !t->after.p || !t->outputs.p) r = rmc_check_says(c, RM_ERROR_MEMORY, "no host memory for the state, twice", "");
    if (r == RM_OK && rm_exec_save(t->x, rmc_take, &t->before) != RM_OK) r = rmc_check_says(c, RM_ERROR_BACKEND, "the state cannot be saved", rm_exec_error(t->x));
    c->d.debug = 0;
    if (r == RM_OK) {
        char text[sizeof c->text];
        r = rmc_compare(t);
        c->steered = RMC_AS_TOLD;
        memcpy(text, c->text, sizeof text);
        back = rm_exec_restore(t->x, t->before.p, (size_t)t->before.bytes);
        memcpy(c->text, text, sizeof text);
        if (r == RM_OK && back != RM_OK) r = rmc_check_says(c, back, "the state cannot be put back", rm_exec_error(t->x));
        if (!c->d.graph || debug) rmc_drop_graphs(c);
    }
    c->d.debug = debug;
    rmc_table_free(c, t->before.p);
    rmc_table_free(c, t->after.p);
    rmc_table_free(c, t->outputs.p);
    return r;
}

/* =====================================================================================================================
   >>public - entry points
   ================================================================================================================== */
RMC_FN void rmc_fill_table(rm_cuda *c)
{
    rm_backend *b = &c->table;
    b->user = c;
    b->alloc = rmc_alloc;
    b->release = rmc_release;
    b->copy = rmc_copy;
    b->fill = rmc_fill;
    b->feed = rmc_feed;
    b->sync = rmc_sync;
    b->stream = (void *)c->stream[RM_LANE_COMPUTE];
    b->reserve = rmc_reserve;
    b->record = rmc_record;
    b->wait = rmc_wait;
    b->host_call = rmc_host_call;
    b->comm_stream = (void *)c->stream[RM_LANE_COMM];
    b->begin = rmc_begin;
    b->end = rmc_end;
    b->after = rmc_after;
    b->before = rmc_before;
    b->device_step = &c->on_device->step;
    b->now = rmc_now;
    b->mark = rmc_mark;
    b->marked = rmc_marked;
    b->link = rmc_measure_link;
    b->error_text = rmc_error_text;
}

/* cudaStreamLegacy, which cannot be captured, and cudaStreamPerThread, which waits for it and is another one in each thread. */
RMC_FN int rmc_default_stream(cudaStream_t s) { return (uintptr_t)(void *)s == 1 || (uintptr_t)(void *)s == 2; }

RMC_FN int rmc_open(rm_cuda *c)
{
    uint32_t i;
    int least = 0, greatest = 0;
    uint64_t total;
    void *p = NULL;
    if (rmc_default_stream(c->d.compute) || rmc_default_stream(c->d.comm)) return rmc_did(c, cudaErrorInvalidResourceHandle, "rm_cuda_desc.compute and comm must not be a default stream");
    RMC_DO(c, cudaGetDevice, (&c->device));
    RMC_DO(c, cudaDeviceGetStreamPriorityRange, (&least, &greatest));
    for (i = 0; i < RMC_LANES; i++) {
        cudaStream_t given = i == RM_LANE_COMPUTE ? c->d.compute : i == RM_LANE_COMM ? c->d.comm : NULL;
        if (given) c->stream[i] = given;
        else RMC_DO(c, cudaStreamCreateWithPriority, (&c->stream[i], (i == RM_LANE_COMPUTE || i == RM_LANE_COMM) && !c->d.unwatched ? cudaStreamDefault : cudaStreamNonBlocking, i == RM_LANE_COMPUTE ? least : greatest));
        if (!given) c->own_streams |= 1u << i;
    }
    for (i = 0; i < RMC_OWN; i++)
        RMC_DO(c, cudaEventCreateWithFlags, (&c->own[i], i < RMC_FIRST ? cudaEventDisableTiming | cudaEventBlockingSync : cudaEventDefault));
    RMC_DO(c, cudaMalloc, (&p, sizeof(rmc_block)));
    c->on_device = (rmc_block *)p;
    RMC_DO(c, cudaHostAlloc, (&p, RMC_BLOCKS * sizeof(rmc_block), cudaHostAllocPortable));
    c->ring = (rmc_block *)p;
    memset((void *)c->ring, 0, RMC_BLOCKS * sizeof(rmc_block));
    c->stage.half_bytes = c->d.stage_bytes ? (c->d.stage_bytes + 63) / 64 * 64 : RMC_STAGE;
    RMC_DO(c, cudaHostAlloc, (&p, (size_t)(2 * c->stage.half_bytes + 2 * RMC_LATE), cudaHostAllocPortable));
    c->stage.p = (unsigned char *)p;
    RMC_DO(c, cudaMemcpyAsync, (c->on_device, c->ring, sizeof(rmc_block), cudaMemcpyHostToDevice, c->stream[RM_LANE_COMPUTE]));
    RMC_DO(c, cudaStreamSynchronize, (c->stream[RM_LANE_COMPUTE]));
    rmc_fill_table(c);
    rmc_domain(c, 1);
    return rmc_free(c, &c->free_at_start, &total);
}

RMC_FN void rmc_close(rm_cuda *c)
{
    uint32_t i;
    rmc_drop_graphs(c);
    rmc_calm(c);
    rmc_domain(c, 0);
    for (i = 0; i < c->n_events; i++) (void)cudaEventDestroy(c->event[i]);
    for (i = 0; i < RMC_OWN; i++)
        if (c->own[i]) (void)cudaEventDestroy(c->own[i]);
    for (i = 0; i < RMC_LANES; i++)
        if (c->own_streams >> i & 1) (void)cudaStreamDestroy(c->stream[i]);
    if (c->on_device) (void)cudaFree(c->on_device);
    if (c->ring) (void)cudaFreeHost(c->ring);
    if (c->stage.p) (void)cudaFreeHost(c->stage.p);
    if (c->spare) (void)rmc_unpin(c, c->spare);
    if (c->registered) (void)cudaHostUnregister(c->d.host_memory);
    rmc_table_free(c, c->event);
    rmc_table_free(c, c->event_seen);
    rmc_table_free(c, c->slot);
    (void)cudaGetLastError();
}

RMDEF rm_result rm_cuda_create(const rm_cuda_desc *desc, rm_cuda **out)
{
    rm_cuda *c, blank;
    if (!out) return RM_ERROR_ARGUMENT;
    *out = NULL;
    memset((void *)&blank, 0, sizeof blank);
    if (desc) blank.d = *desc;
    c = (rm_cuda *)rmc_table(&blank, 1, sizeof(rm_cuda));
    if (!c) return RM_ERROR_MEMORY;
    *c = blank;
    *out = c;
    if (!rmc_open(c)) return RM_OK;
    {
        char text[sizeof c->text];
        memcpy(text, c->text, sizeof text);
        rmc_close(c);
        memset((void *)c, 0, sizeof *c);
        c->d.allocator = blank.d.allocator;
        memcpy(c->text, text, sizeof text);
    }
    return RM_ERROR_BACKEND;
}

RMDEF void rm_cuda_destroy(rm_cuda *c)
{
    rm_cuda keep;
    if (!c) return;
    rmc_close(c);
    keep = *c;
    rmc_table_free(&keep, c);
}

RMDEF const char *rm_cuda_error(const rm_cuda *c) { return c ? c->text : "rm_cuda_create: the allocator gave no memory"; }
RMDEF const char *rm_cuda_note(const rm_cuda *c) { return c ? c->note : ""; }
RMDEF const rm_backend *rm_cuda_backend(rm_cuda *c) { return c && c->ring ? &c->table : NULL; }
RMDEF cudaStream_t rm_cuda_stream(const rm_cuda *c, uint32_t lane) { return c && lane < RMC_LANES ? c->stream[lane] : NULL; }
RMDEF uint32_t *rm_cuda_skip(rm_cuda *c) { return c && c->on_device ? &c->on_device->skip : NULL; }

RMDEF uint64_t rm_cuda_free_bytes(rm_cuda *c, uint64_t margin_bytes)
{
    uint64_t left = 0, total = 0;
    if (!c || !c->ring || rmc_free(c, &left, &total) || left <= margin_bytes) return 0;
    return (left - margin_bytes) >> 20 << 20;
}

RMDEF rm_result rm_cuda_exec_create(rm_cuda *c, rm_plan *p, const rm_exec_desc *desc, rm_exec **out)
{
    rm_exec_desc d;
    uint32_t i;
    if (!out) return RM_ERROR_ARGUMENT;
    *out = NULL;
    if (!c || !c->ring || !p) return RM_ERROR_ARGUMENT;
    for (i = 0; i < RMC_ARENAS; i++)
        if (c->piece[i].p && !c->piece[i].host) return snprintf(c->text, sizeof c->text, "rm_cuda_exec_create: an rm_cuda serves one executor at a time; destroy the other one before, or make an rm_cuda for this one"), RM_ERROR_ARGUMENT;
    if (desc) d = *desc;
    else memset((void *)&d, 0, sizeof d);
    d.backend = &c->table;
    c->lent = d.device_memory;
    c->lent_bytes = d.device_memory_bytes;
    d.device_memory = d.host_memory = NULL;
    d.device_memory_bytes = d.host_memory_bytes = 0;
    return rm_exec_create(p, &d, out);
}

RMDEF rm_result rm_cuda_read_late(rm_cuda *c, rm_exec *x, rm_tensor t, void *dst, uint64_t bytes, uint32_t *there)
{
    void **at;
    if (!c || !c->ring || !x || !dst || !there || !bytes) return RM_ERROR_ARGUMENT;
    *there = 0;
    if (bytes > RMC_LATE) return snprintf(c->text, sizeof c->text, "rm_cuda_read_late: %llu bytes, at most %u", (unsigned long long)bytes, RMC_LATE), RM_ERROR_ARGUMENT;
    if (c->late.x != x || c->late.id != t.id) memset((void *)&c->late, 0, sizeof c->late);
    c->late.x = x;
    c->late.id = t.id;
    at = &c->late.at[c->last_program];
    if (!*at) *at = rm_exec_pointer(x, t, RM_VALUE); /* waits, once for each kind of step */
    if (!*at) return snprintf(c->text, sizeof c->text, "rm_cuda_read_late: %.600s", rm_exec_error(x)), RM_ERROR_ARGUMENT;
    return rmc_read_late(c, *at, dst, (size_t)bytes, there) ? RM_ERROR_BACKEND : RM_OK;
}

RMDEF uint32_t rm_cuda_list_in(const rm_call *call, uint32_t from, rm_cuda_list *list)
{
    memset((void *)list, 0, sizeof *list);
    for (; from < call->n_in && list->n < RM_CUDA_LIST; from++) {
        list->at[list->n] = call->in[from];
        list->bytes[list->n++] = call->in_bytes[from];
    }
    return list->n;
}

RMDEF rm_result rm_cuda_skipped(rm_cuda *c, uint32_t *flag)
{
    rmc_block *to;
    if (!c || !c->ring || !flag) return RM_ERROR_ARGUMENT;
    to = &c->ring[RMC_READ];
    if (rmc_did(c, cudaMemcpyAsync(&to->skip, &c->on_device->skip, sizeof to->skip, cudaMemcpyDeviceToHost, c->stream[RM_LANE_COMPUTE]), "cudaMemcpyAsync") || rmc_sync(c)) return RM_ERROR_BACKEND;
    *flag = to->skip;
    return RM_OK;
}

RMDEF rm_result rm_cuda_link_measure(rm_cuda *c, rm_cuda_load load, void *user, rm_cuda_link *out)
{
    if (!c || !c->ring || !out) return RM_ERROR_ARGUMENT;
    memset(out, 0, sizeof *out);
    return rmc_link(c, load, user, out) ? RM_ERROR_BACKEND : RM_OK;
}

RMDEF rm_result rm_cuda_tune(rm_cuda *c, rm_exec *x, rm_graph *g, const rm_plan_desc *desc, const rm_step *s, uint32_t repeats, rm_plan **p)
{
    return c && x && g && desc && p && *p ? rm_exec_tune(x, desc, s, repeats, p) : RM_ERROR_ARGUMENT;
}

RMDEF rm_result rm_cuda_check(rm_cuda *c, rm_exec *x, const rm_graph *g, const rm_plan *p, const rm_step *s, const rm_cuda_check_desc *desc)
{
    static const uint32_t kinds[] = {RM_FIRST, RM_MIDDLE, RM_LAST, RM_SINGLE, RM_FORWARD};
    rmc_trial t;
    rm_plan_info info;
    uint32_t i;
    if (!c || !c->ring || !x || !g || !p || !s) return RM_ERROR_ARGUMENT;
    memset((void *)&t, 0, sizeof t);
    t.c = c;
    t.x = x;
    t.g = g;
    if (desc) t.d = *desc;
    t.values = *s;
    t.outputs.differs = t.after.differs = t.before.differs = RMC_NOT_SEEN;
    for (i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (rm_plan_get_info(p, kinds[i], &info) == RM_OK) t.kind[t.n++] = kinds[i];
    return rmc_check(&t);
}

RMDEF rm_result rm_cuda_get_info(rm_cuda *c, rm_cuda_info *info)
{
    if (!c || !c->ring || !info) return RM_ERROR_ARGUMENT;
    memset(info, 0, sizeof *info);
    if (rmc_sync(c) || rmc_outside(c, &info->outside_bytes, &info->free_bytes, &info->total_bytes)) return RM_ERROR_BACKEND;
    if (c->timed && rmc_elapsed(c, c->own[RMC_FIRST], c->own[RMC_LAST], &info->step_ns)) return RM_ERROR_BACKEND;
    info->steps = c->timed;
    if (c->timed) info->step_ns /= c->timed;
    c->timed = 0;
    info->graph_bytes = c->graph_bytes;
    info->library_bytes = c->library_bytes;
    info->other_bytes = info->outside_bytes > c->graph_bytes + c->library_bytes ? info->outside_bytes - c->graph_bytes - c->library_bytes : 0;
    info->before_bytes = info->total_bytes - c->free_at_start;
    info->pool_bytes = rmc_pools(c, 0);
    info->arena_bytes = c->device_bytes;
    info->pinned_bytes = c->pinned_bytes;
    info->pin_ns = c->pin_ns;
    info->streamed = c->streamed;
    info->captured = c->captured;
    info->replayed = c->replayed;
    info->graph_nodes = c->nodes;
    return RM_OK;
}

#endif /* ROCKMATE_CUDA_IMPLEMENTED */
#endif /* ROCKMATE_CUDA_IMPLEMENTATION */

/* =====================================================================================================================
   >>licence - MIT or public domain

   This software is available under two licences. Choose the one that you prefer.

   ------------------------------------------------------------------------------
   ALTERNATIVE A - MIT License

   Copyright (c) 2026 the authors of rockmate.h

   Permission is hereby granted, free of charge, to any person obtaining a copy of
   this software and associated documentation files (the "Software"), to deal in
   the Software without restriction, including without limitation the rights to
   use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies
   of the Software, and to permit persons to whom the Software is furnished to do
   so, subject to the following conditions:

   The above copyright notice and this permission notice shall be included in all
   copies or substantial portions of the Software.

   THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
   IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
   FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
   AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
   LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
   OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE
   SOFTWARE.

   ------------------------------------------------------------------------------
   ALTERNATIVE B - Public Domain (www.unlicense.org)

   This is free and unencumbered software released into the public domain.

   Anyone is free to copy, modify, publish, use, compile, sell, or distribute this
   software, either in source code form or as a compiled binary, for any purpose,
   commercial or non-commercial, and by any means.

   In jurisdictions that recognize copyright laws, the author or authors of this
   software dedicate any and all copyright interest in the software to the public
   domain. We make this dedication for the benefit of the public at large and to
   the detriment of our heirs and successors. We intend this dedication to be an
   overt act of relinquishment in perpetuity of all present and future rights to
   this software under copyright law.

   THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
   IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
   FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
   AUTHORS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN
   ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION
   WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
   ================================================================================================================== */
