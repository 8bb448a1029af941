/* rockmate.h - v0.1.0 - training in a memory budget: recompute, offload, run

   Do this:
      #define ROCKMATE_IMPLEMENTATION
   in *one* C99, C++11 or CUDA file before you include this one. Everywhere else just include it.
   Describe the layers with RM_OP, name a budget in rm_plan_desc, then rm_plan_create, rm_exec_create, rm_exec_step.
   No dependency but libc. Licence: MIT or public domain, at the end of this file.

   CONTENTS (search for the marker)
   >>manual    what it does, what it does not, concepts, a first model
   >>api       types and functions, grouped by the object that they act on
   >>cpp       conveniences for C++
   -- below this line lies the implementation --
   >>config    includes, overrides, warnings
   >>base      checked sizes, hashing, sorting, arenas over the allocator hooks, text sink
   >>error     result names, messages that stick
   >>graph     tensors, ops, variants, blocks; builder and validation
   >>lower     forward, backward and update tasks with their exact read and write sets
   >>shape     cut points, the chain of stages, classes of equal blocks
   >>schedule  the statements of a plan, the simulator of the lanes, the checker of legality
   >>sequence  a list of runs with repeats -> lifetimes and statements; the language solvers speak
   >>block     options of one stage: what to keep, with bytes, peaks and times
   >>chain     exact checkpointing of a chain of stages for every budget at once
   >>refine    lower bounds on memory and time
   >>place     addresses in one arena
   >>plan      passes of a preset, the plan and its figures
   >>text      .rmg and .rmp files, the summary
   >>exec      walks a plan through a backend; the host backend; profiling
   >>check     finds wrong declarations of kinds
   >>public    entry points: check arguments, delegate
   >>licence   MIT or public domain
*/
#ifndef ROCKMATE_H
#define ROCKMATE_H

#include <stddef.h>
#include <stdint.h>

/* =====================================================================================================================
   >>api - types and functions, grouped by the object that they act on

   Everywhere: sizes are bytes, times are nanoseconds, both integers below 2^62. Every field of a description struct may be
   left zero: zero is the safe default. Strings and description structs are copied; callbacks and `user` pointers are kept.
   Objects are independent of each other: different threads may use different graphs, plans and executors at the same time.
   ================================================================================================================== */

#define RM_VERSION_MAJOR 0
#define RM_VERSION_MINOR 1
#define RM_VERSION_PATCH 0
#define RM_VERSION "0.1.0"

#ifndef RMDEF
#ifdef ROCKMATE_STATIC
#define RMDEF static
#elif defined(__cplusplus)
#define RMDEF extern "C"
#else
#define RMDEF extern
#endif
#endif

/* In C++14 and later the fields of description structs start as zeros, so that a partial initialiser is complete. */
#if defined(__cplusplus) && __cplusplus >= 201402L
#define RM_ZERO {}
#else
#define RM_ZERO
#endif

/* --- results -------------------------------------------------------------------------------------------------------- */

/* The one list of results: X(name, what it means). The message that names object, fact and remedy is in the object. */
#define RM_RESULTS(X)                                                                        \
    X(RM_OK, "ok")                                                                           \
    X(RM_ERROR_ARGUMENT, "an argument of this call is unusable")                             \
    X(RM_ERROR_MEMORY, "the allocator gave no memory")                                       \
    X(RM_ERROR_GRAPH, "the graph is wrong")                                                  \
    X(RM_ERROR_INFEASIBLE, "the budget cannot be met; the message says which one can")       \
    X(RM_ERROR_TEXT, "a text could not be read; the message says line and column")           \
    X(RM_ERROR_PLAN, "the plan is not legal for this graph")                                 \
    X(RM_ERROR_CALLBACK, "a callback returned nonzero; the message names op and phase")      \
    X(RM_ERROR_CHECK, "rm_exec_check found a wrong declaration; the message names the op")   \
    X(RM_ERROR_BACKEND, "the backend failed")                                                \
    X(RM_ERROR_CANCELLED, "the progress callback asked to stop before there was a plan")     \
    X(RM_ERROR_WRITE, "the text sink returned nonzero")                                      \
    X(RM_ERROR_INTERNAL, "a fault of rockmate.h itself: please report it with the graph")

#define RM_RESULT_ENTRY(name, text) name,
typedef enum rm_result { RM_RESULTS(RM_RESULT_ENTRY) RM_RESULT_COUNT } rm_result;
#undef RM_RESULT_ENTRY

/* "RM_ERROR_MEMORY" and "the allocator gave no memory"; never NULL, static storage. */
RMDEF const char *rm_result_name(rm_result r);
RMDEF const char *rm_result_text(rm_result r);

/* --- handles and hooks ---------------------------------------------------------------------------------------------- */

typedef struct rm_graph rm_graph; /* a model: tensors and ops */
typedef struct rm_plan rm_plan;   /* what to run, keep, recompute and where, for one budget */
typedef struct rm_exec rm_exec;   /* memory and callbacks bound to a plan: runs training steps */

/* A tensor of a graph. {0} is "none": returned after an error, and passing it on does no harm (the first error sticks). */
typedef struct rm_tensor {
    uint32_t id;
} rm_tensor;

/* Both functions or neither (then RM_MALLOC, RM_FREE). alloc returns NULL when memory is out, else 16-byte aligned bytes. */
typedef struct rm_allocator {
    void *(*alloc)(size_t bytes, void *user);
    void (*free)(void *p, void *user);
    void *user;
} rm_allocator;

/* A text sink: n bytes of text, not terminated. Nonzero stops the writing (RM_ERROR_WRITE). */
typedef int (*rm_write_fn)(void *user, const char *text, size_t n);

/* --- what a callback sees --------------------------------------------------------------------------------------------- */

/* The kinds of a step, also bits of rm_plan_desc.steps. SINGLE: one batch, one update. An accumulation over N micro-batches
   is FIRST, MIDDLE N-2 times, LAST: gradients of weights add up and LAST updates. FORWARD: no backward, no update. */
#define RM_SINGLE 1u
#define RM_FIRST 2u
#define RM_MIDDLE 4u
#define RM_LAST 8u
#define RM_FORWARD 16u
#define RM_STEP_KINDS 5u

/* Values of one step, the caller's; copied by rm_exec_step and reached by every callback as c->step. */
typedef struct rm_step {
    uint32_t kind RM_ZERO;   /* one of RM_SINGLE ... RM_FORWARD; 0: RM_SINGLE */
    uint32_t micro RM_ZERO;  /* number of the micro-batch within an accumulation; goes into the random seeds */
    uint64_t step RM_ZERO;   /* number of the step; goes into the random seeds */
    uint64_t seed RM_ZERO;   /* of the whole training; goes into the random seeds */
    double lr RM_ZERO;       /* for the update callbacks; the library does not read it */
    double value[8] RM_ZERO; /* anything else that changes from step to step (loss scale, temperatures); not read either */
    void *user RM_ZERO;
} rm_step;

#define RM_MAX_ARGS 8

/* Phases in which a callback can be called. */
#define RM_PHASE_FORWARD 1u
#define RM_PHASE_BACKWARD 2u
#define RM_PHASE_UPDATE 3u
#define RM_PHASE_REDUCE 4u
#define RM_PHASE_BARRIER 5u

/* Everything one call may touch. Pointers are valid during the call only: the next run may find its data elsewhere.
   Forward:  read in[], write out[] whole, and saved if not NULL (NULL: this run's backward data is not wanted; skip it).
   Backward: read in[], out[], saved as the kind declared (others are NULL), and dout[] (NULL: no gradient comes from there;
             a loss seeds itself). For each i with din[i] != NULL give the gradient of in[i]: add it if accum has RM_IN(i),
             else write it whole. NULL: not wanted (now). If in[i] and in[k], i < k, are one tensor, din is the same pointer
             twice and the second has its accum bit set: give them in order.
   Update:   param, grad, state. Reduce: grad. Barrier: in[] are the gradients of all params that have one.
   ws is scratch: nothing survives in it. Return 0, or anything else to stop the step. */
typedef struct rm_call {
    const void *const *in;
    void *const *out;
    void *const *din;
    const void *const *dout;
    void *saved;
    void *ws;
    void *param, *grad, *state;
    const uint64_t *in_bytes, *out_bytes;
    uint64_t saved_bytes, ws_bytes, param_bytes, grad_bytes, state_bytes;
    uint64_t accum;       /* RM_IN(i): din[i] holds earlier contributions */
    uint32_t n_in, n_out;
    uint32_t phase;       /* RM_PHASE_FORWARD ... */
    uint32_t recompute;   /* 1: this forward has run before in this step; nothing but out[], saved and ws may change */
    uint64_t seed;        /* the same for every forward and backward of this op in this step; depends on step, micro, seed, op */
    int64_t arg[RM_MAX_ARGS];
    double farg[RM_MAX_ARGS];
    void *user;           /* rm_op_desc.user, rm_param_desc.user */
    const rm_step *step;
    void *stream;         /* the backend's; NULL on the host */
    const char *op;       /* full name of the op, param or barrier */
} rm_call;

typedef int (*rm_fn)(const rm_call *call);

/* --- kinds: behaviour, shared by any number of ops ------------------------------------------------------------------- */

/* Masks over an op's tensors. Inputs from number 31 on, and outputs from number 24 on, share the last bit. */
#define RM_IN(i) ((uint64_t)1 << ((i) < 31 ? (i) : 31))
#define RM_OUT(i) ((uint64_t)1 << (32 + ((i) < 24 ? (i) : 24)))
#define RM_SAVED ((uint64_t)1 << 60)
#define RM_DOUT ((uint64_t)1 << 61)    /* the gradient of output 0 (rm_over.bytes_of only) */
#define RM_NOTHING ((uint64_t)1 << 63) /* an empty mask where 0 means "everything" */

#define RM_MAX_PARTS 4
#define RM_MAX_OVERS 4

#define RM_RNG 1u         /* draws random numbers (from c->seed): documented in plans, recomputed with the same seed */
#define RM_ONCE 2u        /* runs exactly once a step: what others read of it is kept */
#define RM_NOGRAD 4u      /* has no backward; without this flag a missing backward callback is an error */
#define RM_ZERO_GRADS 8u  /* its backward always adds: what it would have to write arrives zeroed (accum is always set) */
#define RM_EXTERNAL 16u   /* the outputs are the caller's memory (rm_exec_bind), outside arena and budget */

/* The gradient of input `grad_of` (an RM_IN) may take over the bytes of `bytes_of`: RM_DOUT, or an RM_IN, RM_OUT or RM_SAVED
   that this backward reads and nobody reads after it (dlogits over logits). The callback then sees equal pointers. */
typedef struct rm_over {
    uint64_t grad_of RM_ZERO, bytes_of RM_ZERO;
} rm_over;

/* A backward in parts, each a call of its own with only its gradients in din (dX and dW, say). */
typedef struct rm_part {
    const char *name RM_ZERO;
    uint64_t grads RM_ZERO; /* RM_IN mask; every input that has a gradient stands in exactly one part */
    uint64_t needs RM_ZERO; /* what this part reads; 0: everything */
} rm_part;

typedef struct rm_kind {
    const char *name RM_ZERO;    /* 1-255 of A-Z a-z 0-9 _ . / - [ ] */
    rm_fn forward RM_ZERO;       /* NULL only for views, or if the graph is planned and never run */
    rm_fn backward RM_ZERO;
    uint64_t needs RM_ZERO;      /* what the backward reads of RM_IN, RM_OUT, RM_SAVED; 0: everything (safe); RM_NOTHING: only dout */
    uint32_t flags RM_ZERO;      /* RM_RNG | ... */
    uint64_t inplace RM_ZERO;    /* one RM_IN(i): output 0 may be written over input i when nobody needs that any more */
    uint64_t view RM_ZERO;       /* one RM_IN(i): output 0 is bytes of input i under another name, from rm_op_desc.view_offset on */
    uint64_t share_grad RM_ZERO; /* RM_IN mask: these inputs' gradients equal dout[0] (a residual addition): never computed, renamed */
    uint64_t mutates RM_ZERO;    /* RM_IN mask of consts that the first run changes (running statistics): write through rm_mut */
    rm_over over[RM_MAX_OVERS] RM_ZERO;
    rm_part part[RM_MAX_PARTS] RM_ZERO;
} rm_kind;

/* --- graph: tensors ---------------------------------------------------------------------------------------------------- */

/* hooks and log as wished; log (may be NULL) gets every message that also sticks to an object. */
typedef struct rm_graph_desc {
    rm_allocator allocator RM_ZERO;
    void (*log)(void *user, rm_result result, const char *message) RM_ZERO;
    void *log_user RM_ZERO;
} rm_graph_desc;

/* An empty graph; desc may be NULL. NULL when memory is out. Destroying NULL is nothing. Plans and executors made from a graph
   must be destroyed before it. The first plan seals the graph: afterwards only costs may change. */
RMDEF rm_graph *rm_graph_create(const rm_graph_desc *desc);
RMDEF void rm_graph_destroy(rm_graph *g);

/* The first error of the builder, which sticks: later builder calls do nothing, rm_plan_create returns it. If there is none,
   the message of the last failed call on this graph or "". Valid until the next call on the graph. */
RMDEF const char *rm_graph_error(const rm_graph *g);
RMDEF rm_result rm_graph_result(const rm_graph *g);

#define RM_EMPTY UINT64_MAX /* really zero bytes, where 0 means a default */
#define RM_FREE_NS UINT64_MAX /* really no time, where 0 means "to be measured" */

/* Given at every step (rm_exec_write before rm_exec_step). flags: RM_INPUT_GRAD: its gradient is wanted; RM_EXTERNAL. */
#define RM_INPUT_GRAD 256u
RMDEF rm_tensor rm_input_add(rm_graph *g, const char *name, uint64_t bytes, uint32_t flags);

/* Persistent and not trained: tables, masks, running statistics. flags: RM_EXTERNAL. */
RMDEF rm_tensor rm_const_add(rm_graph *g, const char *name, uint64_t bytes, uint32_t flags);

#define RM_FROZEN 512u
typedef struct rm_param_desc {
    const char *name RM_ZERO;      /* NULL: "param" and a number */
    uint64_t bytes RM_ZERO;
    uint64_t grad_bytes RM_ZERO;   /* 0: as bytes; RM_EMPTY: none */
    uint64_t state_bytes RM_ZERO;  /* optimizer state */
    rm_fn update RM_ZERO;          /* on the device; NULL, and update_host NULL: the caller updates after the step */
    rm_fn update_host RM_ZERO;     /* the same, all three buffers in host memory */
    uint64_t update_ns RM_ZERO, update_host_ns RM_ZERO; /* 0: to be measured */
    uint64_t update_ws RM_ZERO;    /* workspace bytes of the device's update */
    uint64_t reduce_ns RM_ZERO;    /* time of the reduction over ranks; RM_FREE_NS: reduced, no time known; 0: not reduced */
    uint32_t flags RM_ZERO;        /* RM_FROZEN: no gradient, no update; RM_EXTERNAL: param, gradient and state are the caller's memory */
    int64_t arg[RM_MAX_ARGS] RM_ZERO;
    double farg[RM_MAX_ARGS] RM_ZERO;
    void *user RM_ZERO;
} rm_param_desc;
RMDEF rm_tensor rm_param_add(rm_graph *g, const rm_param_desc *desc);

/* --- graph: ops ------------------------------------------------------------------------------------------------------ */

#define RM_MAX_IN 12
#define RM_MAX_OUT 6

/* One op. Order of the fields is the order in which C++ wants them named. */
typedef struct rm_op_desc {
    const char *name RM_ZERO;          /* NULL: the kind's name and a number. In block "h" for the fourth time: h[3]/name */
    rm_tensor in[RM_MAX_IN] RM_ZERO;   /* up to the first none; more: more_in, which follow these */
    uint64_t out[RM_MAX_OUT] RM_ZERO;  /* bytes, up to the first 0; RM_EMPTY for zero bytes. None at all: one output like input 0 */
    uint64_t saved RM_ZERO;            /* bytes that the forward leaves for the backward and nobody else */
    uint64_t fwd_ws RM_ZERO, bwd_ws RM_ZERO;   /* workspace bytes */
    int64_t arg[RM_MAX_ARGS] RM_ZERO;  /* handed to the callbacks by value */
    double farg[RM_MAX_ARGS] RM_ZERO;
    void *user RM_ZERO;
    uint64_t view_offset RM_ZERO;      /* kinds with view: bytes from the start of that input */
    uint64_t fwd_ns RM_ZERO, bwd_ns RM_ZERO;   /* 0: to be measured (estimated from bytes until then); RM_FREE_NS: nothing */
    uint64_t again_ns RM_ZERO;         /* of a recomputation; 0: as fwd_ns */
    uint64_t part_ns[RM_MAX_PARTS] RM_ZERO, part_ws[RM_MAX_PARTS] RM_ZERO; /* of the kind's parts */
    uint32_t flags RM_ZERO;            /* added to the kind's */
    const char *bits RM_ZERO;          /* variants of one `bits` class give the same bits; NULL: all do */
    const rm_tensor *more_in RM_ZERO;  /* more_in_count further inputs */
    size_t more_in_count RM_ZERO;
    const uint64_t *more_out RM_ZERO;  /* more_out_count further outputs */
    size_t more_out_count RM_ZERO;
} rm_op_desc;

/* Adds an op; its output 0, or none after an error. The kind is copied. RM_OP is the by-value form:
       rm_tensor y = RM_OP(g, &LINEAR, .name = "fc", .in = { x, w }, .out = { bytes }); */
RMDEF rm_tensor rm_op_add(rm_graph *g, const rm_kind *kind, const rm_op_desc *desc);

/* Output number i of the op that makes t. */
RMDEF rm_tensor rm_op_output(rm_graph *g, rm_tensor t, uint32_t i);

/* Another implementation of the op that makes t: `kind` gives its callbacks, needs, in-place and parts and, by its name, the
   variant's; of desc, costs, workspaces, saved and bits count (0: as the op itself). */
RMDEF void rm_variant_add(rm_graph *g, rm_tensor t, const rm_kind *kind, const rm_op_desc *desc);

/* The gradient of activation t has another size than t. */
RMDEF void rm_grad_bytes(rm_graph *g, rm_tensor t, uint64_t bytes);

/* t must be there when a step has ended (the loss, logits). */
RMDEF void rm_output_add(rm_graph *g, rm_tensor t);

/* Runs once in a step with updates, after all gradients of params are complete and before any update: clipping by global
   norm. Its callback gets all those gradients as in[]. */
RMDEF void rm_barrier_add(rm_graph *g, const char *name, rm_fn fn, void *user, uint64_t ns);

/* Blocks: nestable, names repeat. They name ops and order the summary; they never change what a plan may do. */
RMDEF void rm_block_begin(rm_graph *g, const char *name);
RMDEF void rm_block_end(rm_graph *g);

/* Gradient contributions may be added in any order (faster plans; bits then depend on the plan). */
RMDEF void rm_graph_any_order(rm_graph *g);

/* The copy engines: bytes a second each way, ns a transfer, bytes a second of additions in host memory (0: 2*10^10). */
RMDEF void rm_graph_link(rm_graph *g, uint64_t h2d, uint64_t d2h, uint64_t latency_ns, uint64_t add);

RMDEF size_t rm_graph_op_count(const rm_graph *g);
RMDEF size_t rm_graph_tensor_count(const rm_graph *g);
RMDEF rm_tensor rm_graph_find(const rm_graph *g, const char *tensor_name); /* none if there is no such tensor */
RMDEF const char *rm_tensor_name(const rm_graph *g, rm_tensor t);          /* "" for none */
RMDEF uint64_t rm_tensor_bytes(const rm_graph *g, rm_tensor t);

/* --- graph: text (.rmg, docs/formats.md) ------------------------------------------------------------------------------ */

/* Reads a whole graph. RM_ERROR_TEXT: *out is a graph that holds nothing but the message (line:column, found, expected) for
   rm_graph_error, to be destroyed as any; NULL only if memory is out. A graph from text can be planned, not run. */
RMDEF rm_result rm_graph_read(const char *text, size_t length, const rm_graph_desc *desc, rm_graph **out);
RMDEF rm_result rm_graph_write(rm_graph *g, rm_write_fn write, void *user);

/* --- plan -------------------------------------------------------------------------------------------------------------- */

typedef struct rm_progress {
    const char *phase;   /* "first", "solve", "place", "done" */
    uint64_t time_ns;    /* of the best legal plan so far; 0: none yet */
    uint64_t bound_ns;   /* no plan is faster */
    uint64_t arena_bytes;
} rm_progress;

/* Figures of one program (step kind) of a plan. After RM_ERROR_INFEASIBLE the first block is filled, the rest zero. */
typedef struct rm_plan_info {
    uint64_t budget_bytes;    /* as asked */
    uint64_t min_bytes;       /* the smallest arena found: a budget of this size works. 0: not looked for */
    uint64_t min_bound_bytes; /* no legal plan of this graph has a smaller arena */
    uint64_t keep_all_bytes;  /* arena of running every op once, in declaration order, freeing at last use */
    uint64_t keep_all_ns;
    uint64_t arena_bytes;     /* the plan's memory, exactly */
    uint64_t host_bytes;
    uint64_t live_bytes;      /* the largest sum of live buffers */
    uint64_t time_ns;         /* of a step in the steady state, simulated */
    uint64_t recomputed_ns;   /* of it, forwards that ran before */
    uint64_t bound_ns;        /* no plan within this budget is faster */
    uint64_t runs, recomputed_runs, statements;
    uint32_t blocks, classes; /* stages of the chain between cut points; how many differ */
    uint32_t step;            /* RM_SINGLE ... */
    uint32_t estimated;       /* 1: some costs were neither given nor measured */
} rm_plan_info;

typedef struct rm_plan_desc {
    uint64_t device_bytes RM_ZERO;  /* the budget: everything placed on the device. 0: no limit */
    uint64_t host_bytes RM_ZERO;    /* host memory that the plan may use; 0: none */
    uint32_t steps RM_ZERO;         /* RM_SINGLE | ...: the programs to make; they share the addresses of what persists. 0: RM_SINGLE */
    uint32_t align RM_ZERO;         /* of every buffer, a power of two; 0: 256 */
    const char *preset RM_ZERO;     /* "rotor" (NULL: this), "noremat" (every op once), "every-block" (checkpoint each stage),
                               "sqrt" (Chen: segments of about sqrt(stages)) */
    uint32_t live_only RM_ZERO;     /* 1: the budget is for the sum of live bytes, no addresses: to compare with the literature */
    uint32_t tolerance_ppm RM_ZERO; /* chain tables may lose this much time (parts per million). 0: exact while it is quick */
    rm_plan_info *info RM_ZERO;     /* filled if not NULL, also when the budget is infeasible */
    int (*progress)(void *user, const rm_progress *p) RM_ZERO; /* nonzero: stop, with the best plan so far */
    void *progress_user RM_ZERO;
} rm_plan_desc;

/* Plans every wanted step kind into the budget; each program has passed the simulator and the checker. On failure *out is NULL
   and rm_graph_error(g) tells; an infeasible budget or an unusable desc does not stick. The graph must outlive the plan. */
RMDEF rm_result rm_plan_create(rm_graph *g, const rm_plan_desc *desc, rm_plan **out);
RMDEF void rm_plan_destroy(rm_plan *p);

/* RM_ERROR_ARGUMENT if the plan has no program for this step kind (0: its first one). */
RMDEF rm_result rm_plan_get_info(const rm_plan *p, uint32_t step, rm_plan_info *info);

/* The whole trade-off found for the plan's first program: points of live bytes and time, more bytes and less time each. */
typedef struct rm_point {
    uint64_t bytes, ns;
} rm_point;
RMDEF size_t rm_plan_curve(const rm_plan *p, const rm_point **points);

/* How much time the tolerance may have cost, parts per million, at most (0: the curve is exact for its chain). */
RMDEF uint32_t rm_plan_curve_lost_ppm(const rm_plan *p);

/* A table for people, 100 columns. */
RMDEF rm_result rm_plan_summary(const rm_plan *p, rm_write_fn write, void *user);

/* .rmp (docs/formats.md): one program of the plan; or a plan of one program, checked against g before it is returned. */
RMDEF rm_result rm_plan_write(const rm_plan *p, uint32_t step, rm_write_fn write, void *user);
RMDEF rm_result rm_plan_read(rm_graph *g, const char *text, size_t length, rm_plan **out);

/* --- executor ---------------------------------------------------------------------------------------------------------- */

/* Which buffer of a tensor. */
#define RM_VALUE 0u
#define RM_GRAD 1u
#define RM_STATE 2u

/* How the executor reaches memory and lanes. Zero functions: the host backend. Each int is 0 for success.
   All policy is in the plan: a backend only does. */
typedef struct rm_backend {
    void *user RM_ZERO;
    int (*alloc)(void *user, uint64_t bytes, uint32_t host, void **out) RM_ZERO; /* host 0: the arena; 1: host memory. Once each */
    void (*release)(void *user, void *p, uint32_t host) RM_ZERO;
    int (*copy)(void *user, void *dst, const void *src, uint64_t bytes, uint32_t lane) RM_ZERO; /* RM_LANE_H2D, RM_LANE_D2H, RM_LANE_COMPUTE */
    int (*zero)(void *user, void *dst, uint64_t bytes) RM_ZERO;
    int (*sync)(void *user) RM_ZERO;
    void *stream RM_ZERO; /* handed to callbacks */
} rm_backend;
#define RM_LANE_COMPUTE 0u
#define RM_LANE_H2D 1u
#define RM_LANE_D2H 2u
#define RM_LANE_HOST 3u
#define RM_LANE_COMM 4u

typedef struct rm_exec_desc {
    void *device_memory RM_ZERO;       /* the arena: at least the plan's bytes, aligned to its alignment. NULL: the backend allocates */
    uint64_t device_memory_bytes RM_ZERO;
    void *host_memory RM_ZERO;         /* the same for host memory */
    uint64_t host_memory_bytes RM_ZERO;
    const rm_backend *backend RM_ZERO; /* NULL: the host backend */
    uint32_t poison RM_ZERO;           /* 1: freed and fresh buffers are filled with 0xFF (NaN in every float format): a debugging aid */
    rm_fn reduce RM_ZERO;              /* reduction of c->grad over ranks, for params that are reduced. NULL: one rank, nothing to do */
    void *reduce_user RM_ZERO;         /* c->user of reduce */
    void (*add)(void *dst, const void *src, uint64_t bytes, rm_tensor param, void *user) RM_ZERO; /* host additions of plans that merge */
    void *add_user RM_ZERO;
    rm_allocator allocator RM_ZERO;    /* of the executor's own tables and, on the host backend, of both memories */
} rm_exec_desc;

/* The plan must outlive the executor (or be replaced by rm_exec_replan). What persists starts as zeros. On failure *out is NULL
   and the reason is in rm_graph_error of the plan's graph. After this call the executor allocates nothing. */
RMDEF rm_result rm_exec_create(rm_plan *p, const rm_exec_desc *desc, rm_exec **out);
RMDEF void rm_exec_destroy(rm_exec *x);
RMDEF const char *rm_exec_error(const rm_exec *x); /* of the last call that failed, or "" */

/* Memory of what was declared RM_EXTERNAL; must stay valid until bound anew. */
RMDEF rm_result rm_exec_bind(rm_exec *x, rm_tensor t, uint32_t what, void *memory);

/* What persists (inputs, consts, params, states, gradients of params) and declared outputs, by handle, wherever they live:
   `bytes` bytes from `offset` on. Between steps only. rm_exec_read of an output or of a gradient: as the last step left it. */
RMDEF rm_result rm_exec_write(rm_exec *x, rm_tensor t, uint32_t what, uint64_t offset, const void *src, uint64_t bytes);
RMDEF rm_result rm_exec_read(rm_exec *x, rm_tensor t, uint32_t what, uint64_t offset, void *dst, uint64_t bytes);

/* Its address right now, valid until the next call on x; NULL if it is nowhere (rm_exec_error says why). */
RMDEF void *rm_exec_pointer(rm_exec *x, rm_tensor t, uint32_t what);

/* One step of kind s->kind, for which the plan must have a program. A callback's nonzero return stops it: RM_ERROR_CALLBACK,
   the message names op and phase; what the updates of that step already wrote stays written, and the next step starts clean. */
RMDEF rm_result rm_exec_step(rm_exec *x, const rm_step *s);

/* Params, consts and states, to a sink and back (any plan of the same graph, any budget). A restore is all or nothing. */
RMDEF rm_result rm_exec_save(rm_exec *x, rm_write_fn write, void *user);
RMDEF rm_result rm_exec_restore(rm_exec *x, const void *data, size_t bytes);

/* Goes on with another plan of the same graph: what persists is carried over. On failure x is as it was. */
RMDEF rm_result rm_exec_replan(rm_exec *x, rm_plan *p);

/* Runs `repeats` steps as s says (with the inputs as written), times every callback and stores medians, equal ops together,
   as the graph's costs; then puts back all that persists. Needs no more device memory than the plan: a model that does not
   fit is profiled under a plan of its smallest budget. Plan again afterwards, rm_exec_replan. Uses clock time. */
RMDEF rm_result rm_exec_profile(rm_exec *x, const rm_step *s, uint32_t repeats);

typedef struct rm_check_desc {
    uint32_t finite_differences RM_ZERO; /* compare this many elements of each param's gradient with differences of the loss; 0: none */
    uint32_t dtype RM_ZERO;              /* of params and loss: RM_F32 (0) or RM_F64 */
    rm_tensor loss RM_ZERO;              /* a declared output of one element */
    double epsilon RM_ZERO, tolerance RM_ZERO;   /* 0: by dtype (1e-2 and 5e-2 relative; 1e-5 and 1e-4) */
} rm_check_desc;
#define RM_F32 0u
#define RM_F64 1u

/* Finds wrong declarations, op by op, in host memory outside the budget (it keeps everything, with guard bytes around each
   buffer): reads of what was not declared, writes beyond the bytes or into inputs, results that differ between two runs, an
   ignored accum bit, a recomputation that differs; then compares the planned step with the keep-everything one, bit for bit.
   RM_ERROR_CHECK: rm_exec_error names op, fact and remedy. Leaves all that persists as it was. Host backend only. */
RMDEF rm_result rm_exec_check(rm_exec *x, const rm_step *s, const rm_check_desc *desc);

typedef struct rm_exec_info {
    uint64_t arena_bytes;   /* planned */
    uint64_t touched_bytes; /* one past the highest arena byte that any buffer of a step run so far had */
    uint64_t host_bytes;
    uint64_t steps;         /* finished */
} rm_exec_info;
RMDEF rm_result rm_exec_get_info(const rm_exec *x, rm_exec_info *info);

/* In a forward: the const in[i] to be changed, for kinds that declare it in `mutates`; NULL in a recomputation (leave it). */
RMDEF void *rm_mut(const rm_call *c, uint32_t i);
/* Must din[i] be added to? As c->accum, for any i. */
#define RM_ADDS(c, i) (((c)->accum & RM_IN(i)) != 0)

/* --- by value ------------------------------------------------------------------------------------------------------------ */

#ifdef __cplusplus
/* >>cpp - conveniences for C++: RM_OP through a const reference (C++20, or older compilers that take designated initialisers) */
static inline rm_tensor rm_op_by_ref(rm_graph *g, const rm_kind *kind, const rm_op_desc &desc) { return rm_op_add(g, kind, &desc); }
static inline rm_tensor rm_param_by_ref(rm_graph *g, const rm_param_desc &desc) { return rm_param_add(g, &desc); }
#define RM_OP(g, kind, ...) rm_op_by_ref((g), (kind), rm_op_desc{__VA_ARGS__})
#define RM_PARAM(g, ...) rm_param_by_ref((g), rm_param_desc{__VA_ARGS__})
inline bool operator==(rm_tensor a, rm_tensor b) { return a.id == b.id; }
inline bool operator!=(rm_tensor a, rm_tensor b) { return a.id != b.id; }
#else
#define RM_OP(g, kind, ...) rm_op_add((g), (kind), &(const rm_op_desc){__VA_ARGS__})
#define RM_PARAM(g, ...) rm_param_add((g), &(const rm_param_desc){__VA_ARGS__})
#endif

#endif /* ROCKMATE_H */

/* Stop here if you only want the API. */

/* =====================================================================================================================
   >>config - includes, overrides, warnings
   Overrides, all optional, defined before the implementation is included:
     RM_MALLOC(n), RM_FREE(p)  the default allocator (both or neither); rm_allocator in rm_graph_desc wins over it
     RM_ASSERT(c)              for our own bugs only: bad input never reaches one
   ================================================================================================================== */
#if defined(ROCKMATE_IMPLEMENTATION) && !defined(RMI_IMPLEMENTED)
#define RMI_IMPLEMENTED

#include <stdlib.h>
#include <string.h>

#if defined(RM_MALLOC) != defined(RM_FREE)
#error "rockmate.h: define both of RM_MALLOC and RM_FREE, or neither"
#endif
#ifndef RM_MALLOC
#define RM_MALLOC(n) malloc(n)
#define RM_FREE(p) free(p)
#endif
#ifndef RM_ASSERT
#include <assert.h>
#define RM_ASSERT(c) assert(c)
#endif

#if defined(__GNUC__) || defined(__clang__)
#define RMI_UNUSED __attribute__((unused))
#else
#define RMI_UNUSED
#endif
#if defined(_MSC_VER)
#pragma warning(push)
#pragma warning(disable : 4505) /* an unused static function */
#endif
#define RMI_FN RMI_UNUSED static

/* =====================================================================================================================
   >>base - checked sizes, hashing, sorting, arenas over the allocator hooks, text sink
   Sizes and times are uint64_t below 2^62 (RMI_MAX); RMI_INF means "cannot be". Additions saturate there, so that a sum
   of valid quantities never wraps. Every container lives in an rmi_arena: destroying is one walk, on success and failure alike.
   ================================================================================================================== */
#define RMI_MAX ((((uint64_t)1) << 62) - 1)
#define RMI_INF UINT64_MAX
#define RMI_NONE UINT32_MAX
#define RMI_COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Returns from the enclosing function when an allocation or a step failed. */
#define RMI_TRY(expr)                         \
    do {                                      \
        rm_result rmi_try_ = (expr);          \
        if (rmi_try_ != RM_OK) return rmi_try_; \
    } while (0)

RMI_FN uint64_t rmi_add(uint64_t a, uint64_t b) { return a > RMI_INF - b ? RMI_INF : a + b; }
RMI_FN uint64_t rmi_sub(uint64_t a, uint64_t b) { return a == RMI_INF ? RMI_INF : a > b ? a - b : 0; }
RMI_FN uint64_t rmi_mul(uint64_t a, uint64_t b) { return b && a > RMI_INF / b ? RMI_INF : a * b; }
RMI_FN uint64_t rmi_max(uint64_t a, uint64_t b) { return a > b ? a : b; }
RMI_FN uint64_t rmi_min(uint64_t a, uint64_t b) { return a < b ? a : b; }
RMI_FN uint64_t rmi_ceil_div(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }
RMI_FN uint64_t rmi_round_up(uint64_t a, uint64_t to) { return a > RMI_INF - (to - 1) ? RMI_INF : (a + to - 1) / to * to; }

/* ceil(a * b / c) without overflow of the product; RMI_INF if the quotient does not fit. c > 0. */
RMI_FN uint64_t rmi_mul_div_up(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t hi, lo, q = 0, r, al = a & 0xFFFFFFFFu, ah = a >> 32, bl = b & 0xFFFFFFFFu, bh = b >> 32, mid, t;
    int i;
    lo = al * bl;
    t = ah * bl + (lo >> 32);
    mid = (t & 0xFFFFFFFFu) + al * bh;
    hi = ah * bh + (t >> 32) + (mid >> 32);
    lo = (mid << 32) | (lo & 0xFFFFFFFFu);
    if (hi >= c) return RMI_INF;
    r = hi;
    for (i = 63; i >= 0; i--) { /* schoolbook long division, one bit at a time */
        uint64_t carry = r >> 63;
        r = (r << 1) | ((lo >> i) & 1);
        if (carry || r >= c) {
            r -= c;
            q |= (uint64_t)1 << i;
        }
    }
    return r ? rmi_add(q, 1) : q;
}

/* FNV-1a 64: the hash of formats.md, good enough for every table here (equality is always confirmed on the bytes). */
#define RMI_FNV_START 0xCBF29CE484222325u
RMI_FN uint64_t rmi_fnv(uint64_t h, const void *data, size_t bytes)
{
    const unsigned char *p = (const unsigned char *)data;
    size_t i;
    for (i = 0; i < bytes; i++) h = (h ^ p[i]) * 0x100000001B3u;
    return h;
}

/* One round of a counter-based generator (splitmix64): equal inputs, equal outputs, on any platform. */
RMI_FN uint64_t rmi_mix(uint64_t x)
{
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

/* --- arena: blocks from the allocator hooks, freed together */
typedef struct rmi_block {
    struct rmi_block *next;
    size_t used, size; /* bytes after the header */
} rmi_block;

typedef struct rmi_arena {
    rm_allocator hooks;
    rmi_block *blocks;
    size_t next_size;
} rmi_arena;

#define RMI_ALIGN ((size_t)16)
#define RMI_HEADER ((sizeof(rmi_block) + RMI_ALIGN - 1) / RMI_ALIGN * RMI_ALIGN)

RMI_FN void *rmi_default_alloc(size_t bytes, void *user)
{
    (void)user;
    return RM_MALLOC(bytes);
}
RMI_FN void rmi_default_free(void *p, void *user)
{
    (void)user;
    RM_FREE(p);
}

/* hooks may be NULL or zero: then RM_MALLOC and RM_FREE serve. */
RMI_FN rmi_arena rmi_arena_make(const rm_allocator *hooks)
{
    rmi_arena a;
    memset(&a, 0, sizeof a);
    if (hooks) a.hooks = *hooks;
    if (!a.hooks.alloc || !a.hooks.free) {
        a.hooks.alloc = rmi_default_alloc;
        a.hooks.free = rmi_default_free;
        a.hooks.user = NULL;
    }
    a.next_size = 4096;
    return a;
}

RMI_FN void rmi_arena_free(rmi_arena *a)
{
    while (a->blocks) {
        rmi_block *b = a->blocks;
        a->blocks = b->next;
        a->hooks.free(b, a->hooks.user);
    }
}

/* count * elem zeroed bytes, 16-byte aligned; NULL when memory is out or the product overflows. Never NULL for count 0. */
RMI_FN void *rmi_arena_get(rmi_arena *a, size_t count, size_t elem)
{
    size_t bytes, want;
    rmi_block *b = a->blocks;
    unsigned char *p;
    if (elem && count > (SIZE_MAX / 4) / elem) return NULL;
    bytes = (count * elem + RMI_ALIGN) / RMI_ALIGN * RMI_ALIGN;
    if (!b || b->size - b->used < bytes) {
        want = bytes > a->next_size ? bytes : a->next_size;
        b = (rmi_block *)a->hooks.alloc(RMI_HEADER + want, a->hooks.user);
        if (!b) return NULL;
        b->used = 0;
        b->size = want;
        if (a->blocks && bytes == want && a->blocks->size - a->blocks->used > RMI_ALIGN) {
            b->next = a->blocks->next; /* a large block of its own: go on filling the current one */
            a->blocks->next = b;
        } else {
            b->next = a->blocks;
            a->blocks = b;
        }
        if (a->next_size < ((size_t)1 << 20)) a->next_size *= 2;
    }
    p = (unsigned char *)b + RMI_HEADER + b->used;
    b->used += bytes;
    memset(p, 0, bytes);
    return p;
}
#define RMI_NEW(arena, type, count) ((type *)rmi_arena_get((arena), (size_t)(count), sizeof(type)))

/* Makes *array (cap elements of elem bytes, in the arena) hold at least need; what it held is kept, the rest is zero. */
RMI_FN int rmi_arena_grow(rmi_arena *a, void **array, size_t *cap, size_t need, size_t elem)
{
    size_t to = *cap ? *cap : 8;
    void *p;
    if (need <= *cap) return 1;
    while (to < need) to = to > SIZE_MAX / 2 ? need : to * 2;
    p = rmi_arena_get(a, to, elem);
    if (!p) return 0;
    if (*array && *cap) memcpy(p, *array, *cap * elem);
    *array = p;
    *cap = to;
    return 1;
}

/* --- sorting: heap sort, in place, no recursion, no allocation, the same order everywhere if cmp is a total order */
typedef int (*rmi_cmp)(const void *a, const void *b, void *user);

RMI_FN void rmi_swap_bytes(unsigned char *a, unsigned char *b, size_t n)
{
    while (n--) {
        unsigned char t = *a;
        *a++ = *b;
        *b++ = t;
    }
}

RMI_FN void rmi_sort(void *base, size_t n, size_t elem, rmi_cmp cmp, void *user)
{
    unsigned char *p = (unsigned char *)base;
    size_t start = n / 2, end = n, root, child;
    while (end > 1) {
        if (start) {
            start--;
        } else {
            end--;
            rmi_swap_bytes(p, p + end * elem, elem);
        }
        root = start;
        while ((child = root * 2 + 1) < end) {
            if (child + 1 < end && cmp(p + child * elem, p + (child + 1) * elem, user) < 0) child++;
            if (cmp(p + root * elem, p + child * elem, user) >= 0) break;
            rmi_swap_bytes(p + root * elem, p + child * elem, elem);
            root = child;
        }
    }
}

/* --- text sink: what is written goes to a caller's function; the first failure sticks */
typedef struct rmi_sink {
    rm_write_fn write;
    void *user;
    int failed;
} rmi_sink;

RMI_FN void rmi_put_n(rmi_sink *s, const char *text, size_t n)
{
    if (!s->failed && n && s->write(s->user, text, n)) s->failed = 1;
}
RMI_FN void rmi_put(rmi_sink *s, const char *text) { rmi_put_n(s, text, strlen(text)); }

/* Decimal digits of v into out (21 bytes at least); returns out. Own code: the same in every locale. */
RMI_FN char *rmi_u64_text(uint64_t v, char *out)
{
    char t[24];
    size_t n = 0, i;
    do {
        t[n++] = (char)('0' + (int)(v % 10));
        v /= 10;
    } while (v);
    for (i = 0; i < n; i++) out[i] = t[n - 1 - i];
    out[n] = 0;
    return out;
}
RMI_FN void rmi_put_u64(rmi_sink *s, uint64_t v)
{
    char t[24];
    rmi_put(s, rmi_u64_text(v, t));
}

/* =====================================================================================================================
   >>error - result names, messages that stick
   A message says object, fact and remedy. It is written into its object, so that reporting an error cannot fail.
   ================================================================================================================== */
#include <stdarg.h>

#define RMI_ERR_TEXT 1024

typedef struct rmi_error {
    rm_result result;
    char text[RMI_ERR_TEXT];
    void (*log)(void *user, rm_result result, const char *message);
    void *log_user;
} rmi_error;

#if defined(__cplusplus)
#define RMI_INIT {}
#else
#define RMI_INIT {0}
#endif

RMI_FN void rmi_err_clear(rmi_error *e)
{
    e->result = RM_OK;
    e->text[0] = 0;
}

/* fmt knows %s (const char *) and %u (uint64_t, cast at the call); what does not fit is cut. Returns r. */
RMI_FN rm_result rmi_err_vset(rmi_error *e, rm_result r, const char *fmt, va_list args)
{
    size_t n = 0;
    char digits[24];
    e->result = r;
    for (; *fmt && n + 1 < RMI_ERR_TEXT; fmt++) {
        const char *s = NULL;
        if (fmt[0] == '%' && fmt[1] == 's') s = va_arg(args, const char *);
        if (fmt[0] == '%' && fmt[1] == 'u') s = rmi_u64_text(va_arg(args, uint64_t), digits);
        if (!s) {
            e->text[n++] = *fmt;
            continue;
        }
        fmt++;
        while (*s && n + 1 < RMI_ERR_TEXT) e->text[n++] = *s++;
    }
    e->text[n] = 0;
    if (e->log) e->log(e->log_user, r, e->text);
    return r;
}

RMI_FN rm_result rmi_err_set(rmi_error *e, rm_result r, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    rmi_err_vset(e, r, fmt, args);
    va_end(args);
    return r;
}

RMI_FN rm_result rmi_err_memory(rmi_error *e)
{
    return rmi_err_set(e, RM_ERROR_MEMORY, "the allocator gave no memory for the library's own tables (not part of the budget)");
}

/* =====================================================================================================================
   >>graph - tensors, ops, variants, blocks; builder and validation
   In: builder calls or the text room. Out: a sealed graph: every derived fact (who has a gradient, who consumes it in which
   order, roots of views, versions of mutated consts) is computed once by rmi_graph_seal and never changes.
   Tensors and ops are numbered in declaration order, which is a valid execution order.
   ================================================================================================================== */
typedef enum rmi_tensor_kind { RMI_INPUT, RMI_PARAM, RMI_CONST, RMI_ACT } rmi_tensor_kind;

typedef struct rmi_list { /* of tensor ids (index, not handle) */
    uint32_t *at;
    uint32_t n;
} rmi_list;

typedef struct rmi_tensor {
    const char *name;
    uint64_t bytes, grad_bytes, state_bytes;
    uint64_t opt, opt_host, reduce; /* ns; RMI_INF: there is none */
    uint64_t opt_ws;
    rm_fn update, update_host;
    const int64_t *arg; /* RM_MAX_ARGS each, params only */
    const double *farg;
    void *user;
    uint8_t kind, want_grad, external, frozen, is_output, grad_sized, unmeasured, unmeasured_host;
    uint32_t maker;     /* op, or RMI_NONE */
    /* sealed */
    uint8_t has_grad;   /* something flows into it: op backwards give contributions */
    uint8_t updates;    /* a param that the library updates */
    uint32_t root;      /* of views; itself otherwise */
    rmi_list mutators;  /* of a const: the ops that change it, ascending */
    rmi_list consumers; /* ops with a backward that give it gradient, ascending */
} rmi_tensor;

typedef enum rmi_over_what { RMI_OVER_DOUT, RMI_OVER_TENSOR, RMI_OVER_SAVED } rmi_over_what;
typedef struct rmi_over {
    uint32_t grad_of, what, tensor;
} rmi_over;

typedef struct rmi_part { /* of a backward, or the whole of it */
    const char *name;
    rmi_list grads, needs;
    uint32_t needs_saved;
    uint64_t bwd, bwd_ws;
} rmi_part;

typedef struct rmi_form { /* one implementation of an op: the op itself, or a variant */
    const char *name; /* "" for the op itself */
    const char *bits;
    uint64_t fwd, bwd, again, fwd_ws, bwd_ws, saved;
    rmi_list needs;
    uint32_t needs_saved;
    uint32_t inplace; /* tensor, or RMI_NONE */
    rmi_over *overs;
    uint32_t n_overs;
    rmi_part *parts; /* sealed: at least one; a whole backward is one part without a name */
    uint32_t n_parts, own_parts;
    rm_fn forward, backward;
    uint32_t flags;
    uint8_t unmeasured_fwd, unmeasured_bwd, unmeasured_again;
} rmi_form;

typedef struct rmi_op {
    const char *name, *kind_name;
    rmi_list in, out, share, mutates;
    rmi_form *forms;
    uint32_t n_forms;
    uint32_t flags;       /* RM_RNG | RM_ONCE | RM_NOGRAD | RM_EXTERNAL */
    uint32_t view;        /* tensor, or RMI_NONE */
    uint64_t view_offset;
    const int64_t *arg;
    const double *farg;
    void *user;
    /* sealed */
    uint8_t has_bwd, pinned; /* pinned: its forward must not run a second time */
    rmi_list grad_in;        /* its inputs that have gradients, each once, in order of first appearance */
    rmi_list grad_out;       /* its outputs whose gradient is a buffer */
} rmi_op;

typedef struct rmi_barrier {
    const char *name;
    rm_fn fn;
    void *user;
    uint64_t ns;
} rmi_barrier;

typedef struct rmi_mark { /* a block's begin or end, before op number `op` */
    const char *name;     /* NULL: an end */
    uint32_t op;
    size_t prefix_n;      /* of a begin: length of the prefix before it */
} rmi_mark;

typedef struct rmi_link {
    uint64_t h2d, d2h, latency, add;
} rmi_link;

typedef struct rmi_map { /* names -> numbers, open addressing */
    uint32_t *slot;      /* number + 1 */
    size_t size, used;
} rmi_map;

struct rm_graph {
    rmi_arena mem;
    rmi_error sticky, last;
    rmi_tensor *tensors;
    rmi_op *ops;
    rmi_barrier *barriers;
    rmi_mark *marks;
    uint32_t n_tensors, n_ops, n_barriers, n_marks;
    size_t cap_tensors, cap_ops, cap_barriers, cap_marks;
    rmi_map tensor_map, op_map;
    rmi_link link;
    uint8_t has_link, any_order, sealed, estimated;
    uint32_t *open;    /* stack of open blocks: index of their begin mark */
    size_t n_open, cap_open;
    char *prefix;      /* "h[3]/" of the open blocks */
    size_t prefix_n, cap_prefix;
    uint64_t hash;     /* FNV-1a of the statements it was read from; valid if hashed */
    uint8_t hashed;
};

/* The first error sticks. */
RMI_FN rm_result rmi_graph_fail(rm_graph *g, rm_result r, const char *fmt, ...)
{
    va_list args;
    if (g->sticky.result != RM_OK) return g->sticky.result;
    va_start(args, fmt);
    rmi_err_vset(&g->sticky, r, fmt, args);
    va_end(args);
    return r;
}
RMI_FN rm_result rmi_graph_memory(rm_graph *g)
{
    if (g->sticky.result == RM_OK) rmi_err_memory(&g->sticky);
    return g->sticky.result;
}

RMI_FN char *rmi_graph_string_n(rm_graph *g, const char *a, size_t an, const char *b, size_t bn)
{
    char *s = RMI_NEW(&g->mem, char, an + bn + 1);
    if (!s) {
        rmi_graph_memory(g);
        return NULL;
    }
    if (an) memcpy(s, a, an);
    if (bn) memcpy(s + an, b, bn);
    return s;
}
RMI_FN char *rmi_graph_string(rm_graph *g, const char *s) { return rmi_graph_string_n(g, s, strlen(s), "", 0); }

RMI_FN int rmi_graph_name_ok(const char *s)
{
    size_t n = 0;
    if (!strcmp(s, "none") || !strcmp(s, "saved")) return 0;
    for (; s[n]; n++) {
        char c = s[n];
        int ok = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c && strchr("_./-[]", c));
        if (!ok || n >= 255) return 0;
    }
    return n > 0;
}

/* --- maps of names */
RMI_FN const char *rmi_graph_map_name(const rm_graph *g, const rmi_map *m, uint32_t i)
{
    return m == &g->tensor_map ? g->tensors[i].name : g->ops[i].name;
}

RMI_FN uint32_t rmi_graph_lookup_n(const rm_graph *g, const rmi_map *m, const char *name, size_t n)
{
    size_t i;
    if (!m->size) return RMI_NONE;
    for (i = (size_t)rmi_fnv(RMI_FNV_START, name, n) & (m->size - 1); m->slot[i]; i = (i + 1) & (m->size - 1)) {
        const char *other = rmi_graph_map_name(g, m, m->slot[i] - 1);
        if (!strncmp(other, name, n) && !other[n]) return m->slot[i] - 1;
    }
    return RMI_NONE;
}
RMI_FN uint32_t rmi_graph_lookup(const rm_graph *g, const rmi_map *m, const char *name)
{
    return rmi_graph_lookup_n(g, m, name, strlen(name));
}

RMI_FN void rmi_graph_map_put(const rm_graph *g, rmi_map *m, uint32_t number)
{
    const char *name = rmi_graph_map_name(g, m, number);
    size_t i = (size_t)rmi_fnv(RMI_FNV_START, name, strlen(name)) & (m->size - 1);
    while (m->slot[i]) i = (i + 1) & (m->size - 1);
    m->slot[i] = number + 1;
}

/* Room for one name more; rebuilt at half load. */
RMI_FN int rmi_graph_map_room(rm_graph *g, rmi_map *m)
{
    uint32_t i;
    if (m->used * 2 < m->size) {
        m->used++;
        return 1;
    }
    m->size = m->size ? m->size * 2 : 64;
    m->slot = RMI_NEW(&g->mem, uint32_t, m->size);
    if (!m->slot) {
        m->size = 0;
        return 0;
    }
    for (i = 0; i < (uint32_t)m->used; i++) rmi_graph_map_put(g, m, i);
    m->used++;
    return 1;
}

/* --- raw constructors, shared by the builder and the text room; names are full and copied */
RMI_FN uint32_t rmi_graph_new_tensor(rm_graph *g, const char *name, rmi_tensor_kind kind, uint64_t bytes)
{
    rmi_tensor *t;
    if (!rmi_graph_name_ok(name)) {
        rmi_graph_fail(g, RM_ERROR_GRAPH, "tensor '%s': not a name; take 1 to 255 of A-Z a-z 0-9 _ . / - [ ], and neither 'none' nor 'saved'", name);
        return RMI_NONE;
    }
    if (rmi_graph_lookup(g, &g->tensor_map, name) != RMI_NONE) {
        rmi_graph_fail(g, RM_ERROR_GRAPH, "tensor %s: declared twice; give the second another name", name);
        return RMI_NONE;
    }
    if (bytes > RMI_MAX) {
        rmi_graph_fail(g, RM_ERROR_GRAPH, "tensor %s: %u bytes; sizes are below 2^62", name, bytes);
        return RMI_NONE;
    }
    if (!rmi_arena_grow(&g->mem, (void **)&g->tensors, &g->cap_tensors, (size_t)g->n_tensors + 1, sizeof(rmi_tensor)) || !rmi_graph_map_room(g, &g->tensor_map)) {
        rmi_graph_memory(g);
        return RMI_NONE;
    }
    t = &g->tensors[g->n_tensors];
    t->name = rmi_graph_string(g, name);
    if (!t->name) return RMI_NONE;
    t->kind = (uint8_t)kind;
    t->bytes = t->grad_bytes = bytes;
    t->opt = t->opt_host = t->reduce = RMI_INF;
    t->maker = RMI_NONE;
    rmi_graph_map_put(g, &g->tensor_map, g->n_tensors);
    return g->n_tensors++;
}

RMI_FN uint32_t rmi_graph_new_op(rm_graph *g, const char *name)
{
    rmi_op *op;
    if (!rmi_graph_name_ok(name)) {
        rmi_graph_fail(g, RM_ERROR_GRAPH, "op '%s': not a name; take 1 to 255 of A-Z a-z 0-9 _ . / - [ ], and neither 'none' nor 'saved'", name);
        return RMI_NONE;
    }
    if (rmi_graph_lookup(g, &g->op_map, name) != RMI_NONE) {
        rmi_graph_fail(g, RM_ERROR_GRAPH, "op %s: declared twice; give the second another name, or put it in a block", name);
        return RMI_NONE;
    }
    if (!rmi_arena_grow(&g->mem, (void **)&g->ops, &g->cap_ops, (size_t)g->n_ops + 1, sizeof(rmi_op)) || !rmi_graph_map_room(g, &g->op_map)) {
        rmi_graph_memory(g);
        return RMI_NONE;
    }
    op = &g->ops[g->n_ops];
    op->name = rmi_graph_string(g, name);
    if (!op->name) return RMI_NONE;
    op->kind_name = op->name;
    op->view = RMI_NONE;
    rmi_graph_map_put(g, &g->op_map, g->n_ops);
    return g->n_ops++;
}

RMI_FN int rmi_graph_new_list(rm_graph *g, rmi_list *l, size_t n)
{
    l->n = 0;
    l->at = RMI_NEW(&g->mem, uint32_t, n);
    if (!l->at) rmi_graph_memory(g);
    return l->at != NULL;
}

RMI_FN int rmi_list_has(const rmi_list *l, uint32_t t)
{
    uint32_t i;
    for (i = 0; i < l->n; i++)
        if (l->at[i] == t) return 1;
    return 0;
}
RMI_FN void rmi_list_put(rmi_list *l, uint32_t t) { l->at[l->n++] = t; }
RMI_FN void rmi_list_put_once(rmi_list *l, uint32_t t)
{
    if (!rmi_list_has(l, t)) rmi_list_put(l, t);
}

/* One form more, a copy of form 0 if there is one. */
RMI_FN rmi_form *rmi_graph_new_form(rm_graph *g, uint32_t op, const char *name)
{
    rmi_op *o = &g->ops[op];
    rmi_form *forms = RMI_NEW(&g->mem, rmi_form, o->n_forms + 1);
    char *copy = rmi_graph_string(g, name);
    rmi_form *f;
    if (!forms || !copy) {
        rmi_graph_memory(g);
        return NULL;
    }
    if (o->n_forms) memcpy(forms, o->forms, o->n_forms * sizeof(rmi_form));
    f = &forms[o->n_forms];
    if (o->n_forms) *f = forms[0];
    f->name = copy;
    f->parts = NULL;
    f->n_parts = f->own_parts = 0;
    if (!o->n_forms) {
        f->bits = "";
        f->inplace = RMI_NONE;
    }
    o->forms = forms;
    o->n_forms++;
    return f;
}

RMI_FN uint32_t rmi_graph_find_form(const rmi_op *op, const char *name, size_t n)
{
    uint32_t i;
    for (i = 0; i < op->n_forms; i++)
        if (!strncmp(op->forms[i].name, name, n) && !op->forms[i].name[n]) return i;
    return RMI_NONE;
}

/* --- the builder: masks of a kind become lists of tensors */

/* The tensors of `list` that mask selects; bit `last` (and all beyond) by its last bit. */
RMI_FN void rmi_graph_select(const rmi_list *from, uint64_t mask, uint32_t shift, uint32_t last, rmi_list *to)
{
    uint32_t i;
    for (i = 0; i < from->n; i++)
        if ((mask >> (shift + (i < last ? i : last))) & 1) rmi_list_put_once(to, from->at[i]);
}

#define RMI_IN_BITS (((uint64_t)1 << 32) - 1)
#define RMI_OUT_BITS (RMI_OUT(24) | (RMI_OUT(24) - RMI_OUT(0)))
#define RMI_OUT(i) ((uint64_t)1 << (32 + (i)))

/* Does the mask name only what the op has? A bit beyond is a slip of the pen that would silently do nothing. */
RMI_FN int rmi_graph_mask_ok(rm_graph *g, const rmi_op *op, const char *kind, const char *what, uint64_t mask, uint64_t allowed)
{
    uint32_t i;
    if (mask & ~allowed) {
        rmi_graph_fail(g, RM_ERROR_GRAPH, "op %s: kind '%s' has a bit in its mask '%s' that means nothing there; see rm_kind", op->name, kind, what);
        return 0;
    }
    for (i = 0; i < 32; i++)
        if (((mask >> i) & 1) && i >= op->in.n) {
            rmi_graph_fail(g, RM_ERROR_GRAPH, "op %s: kind '%s' names RM_IN(%u) in '%s', but the op has %u inputs; give the input or correct the kind", op->name, kind, (uint64_t)i, what, (uint64_t)op->in.n);
            return 0;
        }
    for (i = 0; i < 25; i++)
        if (((mask >> (32 + i)) & 1) && i >= op->out.n) {
            rmi_graph_fail(g, RM_ERROR_GRAPH, "op %s: kind '%s' names RM_OUT(%u) in '%s', but the op has %u outputs; give its size or correct the kind", op->name, kind, (uint64_t)i, what, (uint64_t)op->out.n);
            return 0;
        }
    return 1;
}

/* The single tensor of a mask that allows one input; RMI_NONE for 0. */
RMI_FN int rmi_graph_one_input(rm_graph *g, const rmi_op *op, const char *kind, const char *what, uint64_t mask, uint32_t *t)
{
    uint32_t i;
    *t = RMI_NONE;
    if (!mask) return 1;
    if (!rmi_graph_mask_ok(g, op, kind, what, mask, RMI_IN_BITS)) return 0;
    if (mask & (mask - 1)) {
        rmi_graph_fail(g, RM_ERROR_GRAPH, "op %s: kind '%s' names several inputs in '%s'; it takes one RM_IN", op->name, kind, what);
        return 0;
    }
    for (i = 0; !((mask >> i) & 1);) i++;
    *t = op->in.at[i];
    return 1;
}

RMI_FN int rmi_graph_needs(rm_graph *g, const rmi_op *op, const char *kind, const char *what, uint64_t mask, rmi_list *needs, uint32_t *saved)
{
    if (!mask) mask = RM_SAVED | RMI_IN_BITS | RMI_OUT_BITS;
    else if (!rmi_graph_mask_ok(g, op, kind, what, mask & ~RM_NOTHING, RM_SAVED | RMI_IN_BITS | RMI_OUT_BITS)) return 0;
    if (!rmi_graph_new_list(g, needs, (size_t)op->in.n + op->out.n)) return 0;
    rmi_graph_select(&op->in, mask, 0, 31, needs);
    rmi_graph_select(&op->out, mask, 32, 24, needs);
    *saved = (mask & RM_SAVED) != 0;
    return 1;
}

RMI_FN int rmi_graph_kind_overs(rm_graph *g, const rmi_op *op, const rm_kind *k, rmi_form *f)
{
    uint32_t i, n = 0;
    f->overs = RMI_NEW(&g->mem, rmi_over, RM_MAX_OVERS);
    if (!f->overs) {
        rmi_graph_memory(g);
        return 0;
    }
    for (i = 0; i < RM_MAX_OVERS && k->over[i].grad_of; i++) {
        rmi_over *o = &f->overs[n];
        uint64_t from = k->over[i].bytes_of;
        rmi_list one;
        uint32_t slot = RMI_NONE;
        if (!rmi_graph_one_input(g, op, k->name, "over.grad_of", k->over[i].grad_of, &o->grad_of)) return 0;
        if (!from || (from & (from - 1)) || !rmi_graph_mask_ok(g, op, k->name, "over.bytes_of", from & ~RM_DOUT, RM_SAVED | RMI_IN_BITS | RMI_OUT_BITS)) {
            rmi_graph_fail(g, RM_ERROR_GRAPH, "op %s: kind '%s': over.bytes_of takes one of RM_DOUT, RM_SAVED, RM_IN(i), RM_OUT(i)", op->name, k->name);
            return 0;
        }
        one.at = &slot;
        one.n = 0;
        o->what = from == RM_DOUT ? RMI_OVER_DOUT : from == RM_SAVED ? RMI_OVER_SAVED : RMI_OVER_TENSOR;
        if (o->what == RMI_OVER_TENSOR) {
            rmi_graph_select(&op->in, from, 0, 31, &one);
            if (slot == RMI_NONE) rmi_graph_select(&op->out, from, 32, 24, &one);
        }
        o->tensor = slot;
        n++;
    }
    f->n_overs = n;
    return 1;
}

RMI_FN uint64_t rmi_graph_ns(uint64_t given, uint8_t *unmeasured)
{
    *unmeasured = given == 0;
    return given == RM_FREE_NS ? 0 : given;
}

RMI_FN int rmi_graph_kind_parts(rm_graph *g, const rmi_op *op, const rm_kind *k, const rm_op_desc *d, rmi_form *f)
{
    uint32_t i, n = 0;
    uint8_t unmeasured;
    while (n < RM_MAX_PARTS && k->part[n].grads) n++;
    if (!n) return 1;
    f->parts = RMI_NEW(&g->mem, rmi_part, n);
    if (!f->parts) {
        rmi_graph_memory(g);
        return 0;
    }
    f->n_parts = f->own_parts = n;
    for (i = 0; i < n; i++) {
        rmi_part *p = &f->parts[i];
        const char *name = k->part[i].name ? k->part[i].name : "";
        if (!rmi_graph_name_ok(name)) {
            rmi_graph_fail(g, RM_ERROR_GRAPH, "op %s: part %u of kind '%s' has no usable name; give it one ('dx')", op->name, (uint64_t)i, k->name);
            return 0;
        }
        p->name = rmi_graph_string(g, name);
        if (!p->name || !rmi_graph_mask_ok(g, op, k->name, "part.grads", k->part[i].grads, RMI_IN_BITS)) return 0;
        if (!rmi_graph_new_list(g, &p->grads, op->in.n) || !rmi_graph_needs(g, op, k->name, "part.needs", k->part[i].needs, &p->needs, &p->needs_saved)) return 0;
        rmi_graph_select(&op->in, k->part[i].grads, 0, 31, &p->grads);
        p->bwd = rmi_graph_ns(d->part_ns[i], &unmeasured);
        if (unmeasured) f->unmeasured_bwd = 1;
        p->bwd_ws = d->part_ws[i];
    }
    return 1;
}

/* What kind and desc say, into a fresh form of op. base: the op's own form, or NULL. */
RMI_FN int rmi_graph_kind_form(rm_graph *g, uint32_t op_id, const rm_kind *k, const rm_op_desc *d, rmi_form *f, const rmi_form *base)
{
    const rmi_op *op = &g->ops[op_id];
    f->forward = k->forward;
    f->backward = k->backward;
    f->flags = k->flags | d->flags;
    f->fwd = base && !d->fwd_ns ? base->fwd : rmi_graph_ns(d->fwd_ns, &f->unmeasured_fwd);
    f->bwd = base && !d->bwd_ns ? base->bwd : rmi_graph_ns(d->bwd_ns, &f->unmeasured_bwd);
    f->again = d->again_ns ? rmi_graph_ns(d->again_ns, &f->unmeasured_again) : base && !d->fwd_ns ? base->again : f->fwd;
    f->unmeasured_again = f->unmeasured_fwd && !d->again_ns;
    if (!base || d->fwd_ws) f->fwd_ws = d->fwd_ws == RM_EMPTY ? 0 : d->fwd_ws;
    if (!base || d->bwd_ws) f->bwd_ws = d->bwd_ws == RM_EMPTY ? 0 : d->bwd_ws;
    if (!base || d->saved) f->saved = d->saved == RM_EMPTY ? 0 : d->saved;
    if (d->bits) f->bits = rmi_graph_string(g, d->bits);
    if (!f->bits) return 0;
    if (f->fwd > RMI_MAX || f->bwd > RMI_MAX || f->again > RMI_MAX || f->fwd_ws > RMI_MAX || f->bwd_ws > RMI_MAX || f->saved > RMI_MAX) {
        rmi_graph_fail(g, RM_ERROR_GRAPH, "op %s: a cost or size is not below 2^62", op->name);
        return 0;
    }
    return rmi_graph_needs(g, op, k->name, "needs", k->needs, &f->needs, &f->needs_saved) &&
           rmi_graph_one_input(g, op, k->name, "inplace", k->inplace, &f->inplace) && rmi_graph_kind_overs(g, op, k, f) &&
           rmi_graph_kind_parts(g, op, k, d, f);
}

RMI_FN int rmi_graph_copy_args(rm_graph *g, const int64_t *arg, const double *farg, const int64_t **to, const double **fto)
{
    int64_t *a = RMI_NEW(&g->mem, int64_t, RM_MAX_ARGS);
    double *f = RMI_NEW(&g->mem, double, RM_MAX_ARGS);
    if (!a || !f) {
        rmi_graph_memory(g);
        return 0;
    }
    memcpy(a, arg, RM_MAX_ARGS * sizeof(int64_t));
    memcpy(f, farg, RM_MAX_ARGS * sizeof(double));
    *to = a;
    *fto = f;
    return 1;
}

/* May the builder go on? After an error it does nothing; after the first plan it is closed. */
RMI_FN int rmi_graph_open(rm_graph *g, const char *what)
{
    if (!g || g->sticky.result != RM_OK) return 0;
    if (g->sealed) {
        rmi_err_set(&g->last, RM_ERROR_ARGUMENT, "%s: the graph was sealed by its first plan, write or read; build a new one, or declare this before planning", what);
        return 0;
    }
    return 1;
}

/* prefix + name, or prefix + kind + number when there is no name. NULL after an error. */
RMI_FN char *rmi_graph_full_name(rm_graph *g, const char *name, const char *kind, uint32_t number)
{
    char auto_name[300], digits[24];
    size_t n;
    if (!name) {
        n = strlen(kind);
        if (n > 255) n = 255;
        memcpy(auto_name, kind, n);
        auto_name[n++] = '.';
        rmi_u64_text(number, digits);
        memcpy(auto_name + n, digits, strlen(digits) + 1);
        name = auto_name;
    }
    return rmi_graph_string_n(g, g->prefix ? g->prefix : "", g->prefix_n, name, strlen(name));
}

RMI_FN uint32_t rmi_graph_given(rm_graph *g, const char *name, rmi_tensor_kind kind, const char *word, uint64_t bytes, uint32_t flags, uint32_t allowed)
{
    char *full;
    uint32_t t;
    if (!rmi_graph_open(g, word)) return RMI_NONE;
    full = rmi_graph_full_name(g, name, word, g->n_tensors);
    if (!full) return RMI_NONE;
    if (flags & ~allowed) {
        rmi_graph_fail(g, RM_ERROR_GRAPH, "%s %s: a flag that means nothing there; see the declaration of rm_%s_add", word, full, word);
        return RMI_NONE;
    }
    t = rmi_graph_new_tensor(g, full, kind, bytes == RM_EMPTY ? 0 : bytes);
    if (t == RMI_NONE) return t;
    g->tensors[t].external = (flags & RM_EXTERNAL) != 0;
    g->tensors[t].want_grad = (flags & RM_INPUT_GRAD) != 0;
    g->tensors[t].frozen = (flags & RM_FROZEN) != 0;
    return t;
}

RMI_FN uint32_t rmi_graph_add_param(rm_graph *g, const rm_param_desc *d)
{
    uint32_t id = rmi_graph_given(g, d->name, RMI_PARAM, "param", d->bytes, d->flags, RM_FROZEN | RM_EXTERNAL);
    rmi_tensor *t;
    if (id == RMI_NONE) return id;
    t = &g->tensors[id];
    t->grad_bytes = d->grad_bytes == RM_EMPTY ? 0 : d->grad_bytes ? d->grad_bytes : t->bytes;
    t->state_bytes = d->state_bytes == RM_EMPTY ? 0 : d->state_bytes;
    t->opt_ws = d->update_ws == RM_EMPTY ? 0 : d->update_ws;
    t->update = d->update;
    t->update_host = d->update_host;
    if (d->update || d->update_ns) t->opt = rmi_graph_ns(d->update_ns, &t->unmeasured);
    if (d->update_host || d->update_host_ns) t->opt_host = rmi_graph_ns(d->update_host_ns, &t->unmeasured_host);
    if (d->reduce_ns) t->reduce = d->reduce_ns == RM_FREE_NS ? 0 : d->reduce_ns;
    t->user = d->user;
    if (t->grad_bytes > RMI_MAX || t->state_bytes > RMI_MAX || t->opt_ws > RMI_MAX || (t->reduce > RMI_MAX && t->reduce != RMI_INF) || (t->opt > RMI_MAX && t->opt != RMI_INF) || (t->opt_host > RMI_MAX && t->opt_host != RMI_INF)) {
        rmi_graph_fail(g, RM_ERROR_GRAPH, "param %s: a cost or size is not below 2^62", t->name);
        return RMI_NONE;
    }
    return rmi_graph_copy_args(g, d->arg, d->farg, &t->arg, &t->farg) ? id : RMI_NONE;
}

/* The inputs of desc, or an error that says which one is none. */
RMI_FN int rmi_graph_op_inputs(rm_graph *g, uint32_t op_id, const rm_op_desc *d)
{
    rmi_op *op = &g->ops[op_id];
    size_t n = 0, i;
    while (n < RM_MAX_IN && d->in[n].id) n++;
    for (i = n; i < RM_MAX_IN; i++)
        if (d->in[i].id) {
            rmi_graph_fail(g, RM_ERROR_GRAPH, "op %s: input %u is none, though input %u is given; pass the tensor that an earlier call returned", op->name, (uint64_t)n, (uint64_t)i);
            return 0;
        }
    if (!rmi_graph_new_list(g, &op->in, n + d->more_in_count)) return 0;
    for (i = 0; i < n + d->more_in_count; i++) {
        uint32_t id = i < n ? d->in[i].id : d->more_in[i - n].id;
        if (!id || id > g->n_tensors) {
            rmi_graph_fail(g, RM_ERROR_GRAPH, "op %s: input %u is none or of another graph; pass the tensor that an earlier call on this graph returned", op->name, (uint64_t)i);
            return 0;
        }
        rmi_list_put(&op->in, id - 1);
    }
    return 1;
}

RMI_FN int rmi_graph_op_outputs(rm_graph *g, uint32_t op_id, const rm_op_desc *d)
{
    size_t n = 0, i, total;
    rmi_list out;
    const char *name = g->ops[op_id].name;
    while (n < RM_MAX_OUT && d->out[n]) n++;
    total = n + d->more_out_count;
    if (!total && !g->ops[op_id].in.n) {
        rmi_graph_fail(g, RM_ERROR_GRAPH, "op %s: no output size and no input to take it from; give .out = { bytes }", name);
        return 0;
    }
    if (!rmi_graph_new_list(g, &out, total ? total : 1)) return 0;
    for (i = 0; i < (total ? total : 1); i++) {
        uint64_t bytes = !total ? g->tensors[g->ops[op_id].in.at[0]].bytes : i < n ? d->out[i] : d->more_out[i - n];
        char digits[24], *full = (char *)name;
        uint32_t t;
        if (i) {
            digits[0] = '.';
            rmi_u64_text((uint64_t)i, digits + 1);
            full = rmi_graph_string_n(g, name, strlen(name), digits, strlen(digits));
            if (!full) return 0;
        }
        t = rmi_graph_new_tensor(g, full, RMI_ACT, bytes == RM_EMPTY ? 0 : bytes);
        if (t == RMI_NONE) return 0;
        g->tensors[t].maker = op_id;
        g->tensors[t].external = (g->ops[op_id].flags & RM_EXTERNAL) != 0;
        rmi_list_put(&out, t);
    }
    g->ops[op_id].out = out;
    return 1;
}

RMI_FN uint32_t rmi_graph_add_op(rm_graph *g, const rm_kind *k, const rm_op_desc *d)
{
    const uint32_t known = RM_RNG | RM_ONCE | RM_NOGRAD | RM_ZERO_GRADS | RM_EXTERNAL;
    char *full;
    uint32_t id;
    rmi_op *op;
    rmi_form *f;
    if (!rmi_graph_open(g, "rm_op_add")) return RMI_NONE;
    if (!k->name || !rmi_graph_name_ok(k->name)) {
        rmi_graph_fail(g, RM_ERROR_GRAPH, "op %s: its kind has no usable name; set rm_kind.name", d->name ? d->name : "(unnamed)");
        return RMI_NONE;
    }
    full = rmi_graph_full_name(g, d->name, k->name, g->n_ops);
    id = full ? rmi_graph_new_op(g, full) : RMI_NONE;
    if (id == RMI_NONE) return id;
    op = &g->ops[id];
    op->kind_name = rmi_graph_string(g, k->name);
    op->flags = k->flags | d->flags;
    if (op->flags & ~known) {
        rmi_graph_fail(g, RM_ERROR_GRAPH, "op %s: a flag that means nothing there; see RM_RNG and its neighbours", op->name);
        return RMI_NONE;
    }
    op->user = d->user;
    op->view_offset = d->view_offset;
    if (!op->kind_name || !rmi_graph_op_inputs(g, id, d) || !rmi_graph_op_outputs(g, id, d)) return RMI_NONE;
    f = rmi_graph_new_form(g, id, "");
    if (!f || !rmi_graph_kind_form(g, id, k, d, f, NULL) || !rmi_graph_copy_args(g, d->arg, d->farg, &op->arg, &op->farg)) return RMI_NONE;
    if (!rmi_graph_one_input(g, op, k->name, "view", k->view, &op->view)) return RMI_NONE;
    if (!rmi_graph_mask_ok(g, op, k->name, "share_grad", k->share_grad, RMI_IN_BITS) || !rmi_graph_mask_ok(g, op, k->name, "mutates", k->mutates, RMI_IN_BITS)) return RMI_NONE;
    if (!rmi_graph_new_list(g, &op->share, op->in.n) || !rmi_graph_new_list(g, &op->mutates, op->in.n)) return RMI_NONE;
    rmi_graph_select(&op->in, k->share_grad, 0, 31, &op->share);
    rmi_graph_select(&op->in, k->mutates, 0, 31, &op->mutates);
    return op->out.at[0];
}

RMI_FN void rmi_graph_add_variant(rm_graph *g, rm_tensor t, const rm_kind *k, const rm_op_desc *d)
{
    uint32_t op;
    rmi_form *f;
    if (!rmi_graph_open(g, "rm_variant_add")) return;
    if (!t.id || t.id > g->n_tensors || g->tensors[t.id - 1].maker == RMI_NONE) {
        rmi_graph_fail(g, RM_ERROR_GRAPH, "rm_variant_add: the tensor is none or no op makes it; pass an op's output");
        return;
    }
    op = g->tensors[t.id - 1].maker;
    if (!k->name || !rmi_graph_name_ok(k->name) || rmi_graph_find_form(&g->ops[op], k->name, strlen(k->name)) != RMI_NONE) {
        rmi_graph_fail(g, RM_ERROR_GRAPH, "op %s: variant '%s' is there already or has no usable name; set rm_kind.name", g->ops[op].name, k->name ? k->name : "");
        return;
    }
    f = rmi_graph_new_form(g, op, k->name);
    if (f) rmi_graph_kind_form(g, op, k, d, f, &g->ops[op].forms[0]);
}

/* --- blocks */
RMI_FN void rmi_graph_mark(rm_graph *g, const char *name)
{
    char *copy = name ? rmi_graph_string(g, name) : NULL;
    if (name && !copy) return;
    if (!rmi_arena_grow(&g->mem, (void **)&g->marks, &g->cap_marks, (size_t)g->n_marks + 1, sizeof(rmi_mark))) {
        rmi_graph_memory(g);
        return;
    }
    g->marks[g->n_marks].name = copy;
    g->marks[g->n_marks].op = g->n_ops;
    g->marks[g->n_marks].prefix_n = g->prefix_n;
    g->n_marks++;
}

/* How many closed or open blocks of this name stand in the innermost open block. */
RMI_FN uint64_t rmi_graph_block_number(const rm_graph *g, const char *name)
{
    uint64_t n = 0;
    size_t i = g->n_open ? (size_t)g->open[g->n_open - 1] + 1 : 0, depth = 0;
    for (; i < g->n_marks; i++) {
        if (g->marks[i].name && depth++ == 0 && !strcmp(g->marks[i].name, name)) n++;
        if (!g->marks[i].name) depth--;
    }
    return n;
}

RMI_FN void rmi_graph_begin_block(rm_graph *g, const char *name)
{
    char digits[24];
    size_t n, need;
    if (!rmi_graph_name_ok(name)) {
        rmi_graph_fail(g, RM_ERROR_GRAPH, "block '%s': not a name; take 1 to 255 of A-Z a-z 0-9 _ . / - [ ]", name);
        return;
    }
    rmi_u64_text(rmi_graph_block_number(g, name), digits);
    n = strlen(name);
    need = g->prefix_n + n + strlen(digits) + 4;
    if (!rmi_arena_grow(&g->mem, (void **)&g->prefix, &g->cap_prefix, need, 1) || !rmi_arena_grow(&g->mem, (void **)&g->open, &g->cap_open, g->n_open + 1, sizeof(uint32_t))) {
        rmi_graph_memory(g);
        return;
    }
    g->open[g->n_open++] = g->n_marks;
    rmi_graph_mark(g, name);
    memcpy(g->prefix + g->prefix_n, name, n);
    g->prefix_n += n;
    g->prefix[g->prefix_n++] = '[';
    memcpy(g->prefix + g->prefix_n, digits, strlen(digits));
    g->prefix_n += strlen(digits);
    g->prefix[g->prefix_n++] = ']';
    g->prefix[g->prefix_n++] = '/';
}

RMI_FN void rmi_graph_end_block(rm_graph *g)
{
    if (!g->n_open) {
        rmi_graph_fail(g, RM_ERROR_GRAPH, "rm_block_end: no block is open; each end needs its rm_block_begin");
        return;
    }
    g->prefix_n = g->marks[g->open[--g->n_open]].prefix_n;
    rmi_graph_mark(g, NULL);
}

/* --- sealing: everything derived, and what only the whole graph can tell to be wrong */

/* How often const t has been changed when op reads it. */
RMI_FN uint32_t rmi_graph_version_for(const rm_graph *g, uint32_t t, uint32_t op)
{
    const rmi_list *m = &g->tensors[t].mutators;
    uint32_t lo = 0, hi = m->n;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (m->at[mid] < op) lo = mid + 1;
        else hi = mid;
    }
    return lo;
}

RMI_FN uint64_t rmi_graph_touched(const rm_graph *g, const rmi_op *op, const rmi_form *f)
{
    uint64_t sum = f->saved;
    uint32_t i;
    for (i = 0; i < op->in.n; i++) sum = rmi_add(sum, g->tensors[op->in.at[i]].bytes);
    for (i = 0; i < op->out.n; i++) sum = rmi_add(sum, g->tensors[op->out.at[i]].bytes);
    return sum;
}

/* Costs left to be measured are taken as 10 bytes a ns and a microsecond a call until they are. */
RMI_FN void rmi_graph_estimate(rm_graph *g)
{
    uint32_t i, k, p;
    g->estimated = 0;
    for (i = 0; i < g->n_ops; i++) {
        rmi_op *op = &g->ops[i];
        for (k = 0; k < op->n_forms; k++) {
            rmi_form *f = &op->forms[k];
            uint64_t ns = 1000 + rmi_graph_touched(g, op, f) / 10;
            if (op->view != RMI_NONE) ns = 0;
            if (f->unmeasured_fwd) f->fwd = ns;
            if (f->unmeasured_again) f->again = ns;
            if (f->unmeasured_bwd) {
                f->bwd = 2 * ns;
                for (p = 0; p < f->n_parts; p++) f->parts[p].bwd = 2 * ns / f->n_parts;
            }
            if (op->view == RMI_NONE && (f->unmeasured_fwd || (op->has_bwd && f->unmeasured_bwd))) g->estimated = 1;
        }
    }
    for (i = 0; i < g->n_tensors; i++) {
        rmi_tensor *t = &g->tensors[i];
        uint64_t ns = 1000 + (t->bytes + t->grad_bytes + t->state_bytes) / 10;
        if (t->unmeasured) t->opt = ns;
        if (t->unmeasured_host) t->opt_host = ns;
        if (t->unmeasured || t->unmeasured_host) g->estimated = 1;
    }
}

RMI_FN rm_result rmi_graph_seal_grads(rm_graph *g)
{
    uint32_t i, k;
    uint32_t *count = RMI_NEW(&g->mem, uint32_t, g->n_tensors);
    if (!count) return rmi_graph_memory(g);
    for (i = 0; i < g->n_tensors; i++) {
        rmi_tensor *t = &g->tensors[i];
        t->has_grad = (t->kind == RMI_PARAM && !t->frozen) || (t->kind == RMI_INPUT && t->want_grad);
        t->root = i;
        if (t->maker != RMI_NONE && g->ops[t->maker].view != RMI_NONE) t->root = g->tensors[g->ops[t->maker].view].root;
    }
    for (i = 0; i < g->n_ops; i++) {
        rmi_op *op = &g->ops[i];
        op->has_bwd = 0;
        if (!rmi_graph_new_list(g, &op->grad_in, op->in.n) || !rmi_graph_new_list(g, &op->grad_out, op->out.n)) return g->sticky.result;
        if (!(op->flags & RM_NOGRAD))
            for (k = 0; k < op->in.n; k++)
                if (g->tensors[op->in.at[k]].has_grad) op->has_bwd = 1;
        if (!op->has_bwd) continue;
        for (k = 0; k < op->in.n; k++)
            if (g->tensors[op->in.at[k]].has_grad) rmi_list_put_once(&op->grad_in, op->in.at[k]);
        for (k = 0; k < op->grad_in.n; k++) count[op->grad_in.at[k]]++;
        for (k = 0; k < op->out.n; k++) g->tensors[op->out.at[k]].has_grad = 1;
    }
    for (i = 0; i < g->n_tensors; i++)
        if (!rmi_graph_new_list(g, &g->tensors[i].consumers, count[i])) return g->sticky.result;
    for (i = 0; i < g->n_ops; i++)
        for (k = 0; k < g->ops[i].grad_in.n; k++) rmi_list_put(&g->tensors[g->ops[i].grad_in.at[k]].consumers, i);
    for (i = 0; i < g->n_ops; i++)
        for (k = 0; k < g->ops[i].out.n; k++)
            if (g->ops[i].has_bwd && g->tensors[g->ops[i].out.at[k]].consumers.n) rmi_list_put(&g->ops[i].grad_out, g->ops[i].out.at[k]);
    for (i = 0; i < g->n_tensors; i++) {
        rmi_tensor *t = &g->tensors[i];
        t->updates = t->kind == RMI_PARAM && !t->frozen && t->consumers.n && (t->opt != RMI_INF || t->opt_host != RMI_INF);
    }
    return RM_OK;
}

/* Versions of mutated consts, and ops whose second run would read the wrong one. */
RMI_FN rm_result rmi_graph_seal_consts(rm_graph *g)
{
    uint32_t i, k;
    uint32_t *count = RMI_NEW(&g->mem, uint32_t, g->n_tensors);
    if (!count) return rmi_graph_memory(g);
    for (i = 0; i < g->n_ops; i++)
        for (k = 0; k < g->ops[i].mutates.n; k++) count[g->ops[i].mutates.at[k]]++;
    for (i = 0; i < g->n_tensors; i++)
        if (!rmi_graph_new_list(g, &g->tensors[i].mutators, count[i])) return g->sticky.result;
    for (i = 0; i < g->n_ops; i++)
        for (k = 0; k < g->ops[i].mutates.n; k++) {
            if (g->tensors[g->ops[i].mutates.at[k]].kind != RMI_CONST)
                return rmi_graph_fail(g, RM_ERROR_GRAPH, "op %s: it mutates %s, which is no const; declare that with rm_const_add", g->ops[i].name, g->tensors[g->ops[i].mutates.at[k]].name);
            rmi_list_put(&g->tensors[g->ops[i].mutates.at[k]].mutators, i);
        }
    for (i = 0; i < g->n_ops; i++) {
        rmi_op *op = &g->ops[i];
        op->pinned = (op->flags & RM_ONCE) != 0;
        for (k = 0; k < op->in.n; k++) {
            uint32_t root = g->tensors[op->in.at[k]].root;
            const rmi_list *m = &g->tensors[root].mutators;
            if (m->n && m->at[m->n - 1] > i && !rmi_list_has(&op->mutates, root)) op->pinned = 1;
        }
    }
    return RM_OK;
}

RMI_FN rm_result rmi_graph_check_parts(rm_graph *g, const rmi_op *op, const rmi_form *f)
{
    uint32_t i, k, n;
    for (i = 0; i < op->grad_in.n && op->has_bwd; i++) {
        for (n = 0, k = 0; k < f->n_parts; k++) n += (uint32_t)rmi_list_has(&f->parts[k].grads, op->grad_in.at[i]);
        if (n != 1)
            return rmi_graph_fail(g, RM_ERROR_GRAPH, "op %s: the gradient of %s stands in %u parts of its backward; it must stand in exactly one", op->name, g->tensors[op->grad_in.at[i]].name, (uint64_t)n);
    }
    for (k = 0; k < f->n_parts; k++)
        for (i = 0; i < k; i++)
            if (!strcmp(f->parts[i].name, f->parts[k].name)) return rmi_graph_fail(g, RM_ERROR_GRAPH, "op %s: part %s is declared twice", op->name, f->parts[k].name);
    return RM_OK;
}

RMI_FN rm_result rmi_graph_check_own(rm_graph *g, const rmi_op *op, const rmi_list *l, const char *what, int inputs_only)
{
    uint32_t i;
    for (i = 0; i < l->n; i++)
        if (!rmi_list_has(&op->in, l->at[i]) && (inputs_only || !rmi_list_has(&op->out, l->at[i])))
            return rmi_graph_fail(g, RM_ERROR_GRAPH, "op %s: %s names %s, which is not one of its %s", op->name, what, g->tensors[l->at[i]].name, inputs_only ? "inputs" : "inputs and outputs");
    return RM_OK;
}

RMI_FN rm_result rmi_graph_check_form(rm_graph *g, const rmi_op *op, const rmi_form *f)
{
    uint32_t i;
    RMI_TRY(rmi_graph_check_own(g, op, &f->needs, "needs", 0));
    for (i = 0; i < f->own_parts; i++) {
        RMI_TRY(rmi_graph_check_own(g, op, &f->parts[i].needs, "a part's needs", 0));
        RMI_TRY(rmi_graph_check_own(g, op, &f->parts[i].grads, "a part's grads", 1));
    }
    if (f->inplace != RMI_NONE && !rmi_list_has(&op->in, f->inplace))
        return rmi_graph_fail(g, RM_ERROR_GRAPH, "op %s: inplace names %s, which is not one of its inputs", op->name, g->tensors[f->inplace].name);
    for (i = 0; i < f->n_overs; i++) {
        const rmi_over *o = &f->overs[i];
        if (!rmi_list_has(&op->in, o->grad_of) || (o->what == RMI_OVER_TENSOR && !rmi_list_has(&op->in, o->tensor) && !rmi_list_has(&op->out, o->tensor)))
            return rmi_graph_fail(g, RM_ERROR_GRAPH, "op %s: inplace_bwd names a tensor that is not its own", op->name);
    }
    return rmi_graph_check_parts(g, op, f);
}

/* Forms without parts of their own take the op's; an op without parts has one, the whole backward. */
RMI_FN rm_result rmi_graph_seal_parts(rm_graph *g, rmi_op *op)
{
    uint32_t k;
    for (k = 0; k < op->n_forms; k++) {
        rmi_form *f = &op->forms[k];
        if (f->own_parts) continue;
        if (k && op->forms[0].own_parts) {
            f->parts = op->forms[0].parts;
            f->n_parts = op->forms[0].n_parts;
            continue;
        }
        f->parts = RMI_NEW(&g->mem, rmi_part, 1);
        if (!f->parts) return rmi_graph_memory(g);
        f->n_parts = 1;
        f->parts[0].name = "";
        f->parts[0].grads = op->grad_in;
        f->parts[0].needs = f->needs;
        f->parts[0].needs_saved = f->needs_saved;
        f->parts[0].bwd = f->bwd;
        f->parts[0].bwd_ws = f->bwd_ws;
    }
    return RM_OK;
}

RMI_FN rm_result rmi_graph_check_op(rm_graph *g, rmi_op *op)
{
    uint32_t k;
    RMI_TRY(rmi_graph_check_own(g, op, &op->share, "share_bwd", 1));
    if (op->view != RMI_NONE) {
        const rmi_tensor *of = &g->tensors[op->view], *out = &g->tensors[op->out.at[0]];
        if (op->out.n != 1) return rmi_graph_fail(g, RM_ERROR_GRAPH, "op %s: a view has one output, this has %u", op->name, (uint64_t)op->out.n);
        if (!rmi_list_has(&op->in, op->view)) return rmi_graph_fail(g, RM_ERROR_GRAPH, "op %s: it is a view of %s, which is not one of its inputs", op->name, of->name);
        if (rmi_add(op->view_offset, out->bytes) > of->bytes)
            return rmi_graph_fail(g, RM_ERROR_GRAPH, "op %s: its view ends at byte %u of %s, which has %u", op->name, rmi_add(op->view_offset, out->bytes), of->name, of->bytes);
    }
    RMI_TRY(rmi_graph_seal_parts(g, op));
    for (k = 0; k < op->n_forms; k++) RMI_TRY(rmi_graph_check_form(g, op, &op->forms[k]));
    return RM_OK;
}

/* No sum of sizes, of times of a step may leave 62 bits: later rooms then need no checks. */
RMI_FN rm_result rmi_graph_check_sums(rm_graph *g)
{
    uint64_t bytes = 0, ns = 0;
    uint32_t i, k;
    for (i = 0; i < g->n_tensors; i++) {
        const rmi_tensor *t = &g->tensors[i];
        bytes = rmi_add(bytes, rmi_add(rmi_add(t->bytes, t->grad_bytes), rmi_add(t->state_bytes, t->opt_ws)));
        ns = rmi_add(ns, rmi_add(t->opt == RMI_INF ? 0 : t->opt, rmi_add(t->opt_host == RMI_INF ? 0 : t->opt_host, t->reduce == RMI_INF ? 0 : t->reduce)));
    }
    for (i = 0; i < g->n_ops; i++)
        for (k = 0; k < g->ops[i].n_forms; k++) {
            const rmi_form *f = &g->ops[i].forms[k];
            uint32_t p;
            bytes = rmi_add(bytes, rmi_add(f->saved, f->fwd_ws));
            ns = rmi_add(ns, rmi_add(rmi_max(f->fwd, f->again), f->bwd));
            for (p = 0; p < f->n_parts; p++) {
                bytes = rmi_add(bytes, f->parts[p].bwd_ws);
                ns = rmi_add(ns, f->parts[p].bwd);
            }
        }
    if (bytes > RMI_MAX) return rmi_graph_fail(g, RM_ERROR_GRAPH, "graph: all sizes together are not below 2^62 bytes; check the unit of the largest tensors");
    if (ns > RMI_MAX) return rmi_graph_fail(g, RM_ERROR_GRAPH, "graph: all times together are not below 2^62 ns; check the unit of the longest ops");
    return RM_OK;
}

/* Once per graph; afterwards only costs change. */
RMI_FN rm_result rmi_graph_seal(rm_graph *g)
{
    uint32_t i;
    if (g->sticky.result != RM_OK) return g->sticky.result;
    if (g->sealed) return RM_OK;
    if (!g->n_ops) return rmi_graph_fail(g, RM_ERROR_GRAPH, "graph: it has no op; add the layers with RM_OP first");
    if (g->n_open) return rmi_graph_fail(g, RM_ERROR_GRAPH, "block %s: it is never ended; add rm_block_end", g->marks[g->open[g->n_open - 1]].name);
    RMI_TRY(rmi_graph_seal_grads(g));
    RMI_TRY(rmi_graph_seal_consts(g));
    for (i = 0; i < g->n_ops; i++) RMI_TRY(rmi_graph_check_op(g, &g->ops[i]));
    rmi_graph_estimate(g);
    RMI_TRY(rmi_graph_check_sums(g));
    g->sealed = 1;
    return RM_OK;
}

/* =====================================================================================================================
   >>lower - forward, backward and update tasks with their exact read and write sets
   A task is named by a run: which way, of what, in which form (variant) and part. A buffer is a tensor's value, gradient or
   optimizer state, what an op's forward saved, or a workspace; all are numbered densely, so that tables are arrays.
   ================================================================================================================== */
typedef enum rmi_way { RMI_FWD, RMI_BWD, RMI_OPT, RMI_OPT_HOST, RMI_REDUCE, RMI_BARRIER } rmi_way;

typedef struct rmi_run {
    uint32_t id;   /* op; param of OPT, OPT_HOST, REDUCE; barrier */
    uint16_t form; /* of FWD, BWD */
    uint8_t way, part;
} rmi_run;

RMI_FN rmi_run rmi_low_run(rmi_way way, uint32_t id, uint32_t form, uint32_t part)
{
    rmi_run r;
    r.id = id;
    r.form = (uint16_t)form;
    r.way = (uint8_t)way;
    r.part = (uint8_t)part;
    return r;
}

/* Numbers of buffers: values, gradients, states by tensor; saved, workspace by op; workspace of updates by param. */
typedef enum rmi_buf_kind { RMI_BUF_VALUE, RMI_BUF_GRAD, RMI_BUF_STATE, RMI_BUF_SAVED, RMI_BUF_WS, RMI_BUF_OPT_WS } rmi_buf_kind;

RMI_FN uint32_t rmi_low_buffers(const rm_graph *g) { return 4 * g->n_tensors + 2 * g->n_ops; }
RMI_FN uint32_t rmi_low_buf(const rm_graph *g, rmi_buf_kind kind, uint32_t i)
{
    switch (kind) {
    case RMI_BUF_VALUE: return i;
    case RMI_BUF_GRAD: return g->n_tensors + i;
    case RMI_BUF_STATE: return 2 * g->n_tensors + i;
    case RMI_BUF_SAVED: return 3 * g->n_tensors + i;
    case RMI_BUF_WS: return 3 * g->n_tensors + g->n_ops + i;
    default: return 3 * g->n_tensors + 2 * g->n_ops + i;
    }
}
RMI_FN rmi_buf_kind rmi_low_kind(const rm_graph *g, uint32_t b, uint32_t *i)
{
    if (b < 3 * g->n_tensors) {
        *i = b % g->n_tensors;
        return (rmi_buf_kind)(b / g->n_tensors);
    }
    b -= 3 * g->n_tensors;
    if (b < 2 * g->n_ops) {
        *i = b % g->n_ops;
        return b < g->n_ops ? RMI_BUF_SAVED : RMI_BUF_WS;
    }
    *i = b - 2 * g->n_ops;
    return RMI_BUF_OPT_WS;
}

/* Bytes of a value, gradient or state. What a forward saves and workspaces depend on the run. */
RMI_FN uint64_t rmi_low_bytes(const rm_graph *g, uint32_t b)
{
    uint32_t i;
    switch (rmi_low_kind(g, b, &i)) {
    case RMI_BUF_VALUE: return g->tensors[i].bytes;
    case RMI_BUF_GRAD: return g->tensors[i].grad_bytes;
    case RMI_BUF_STATE: return g->tensors[i].state_bytes;
    default: return 0;
    }
}

/* Is the buffer the caller's memory? */
RMI_FN int rmi_low_external(const rm_graph *g, uint32_t b)
{
    uint32_t i;
    rmi_buf_kind k = rmi_low_kind(g, b, &i);
    if (k == RMI_BUF_VALUE) return g->tensors[i].external;
    return (k == RMI_BUF_GRAD || k == RMI_BUF_STATE) && g->tensors[i].kind == RMI_PARAM && g->tensors[i].external;
}

RMI_FN const rmi_form *rmi_low_form(const rm_graph *g, rmi_run r) { return &g->ops[r.id].forms[r.form]; }
RMI_FN const rmi_part *rmi_low_part(const rm_graph *g, rmi_run r) { return &rmi_low_form(g, r)->parts[r.part]; }

/* What one run touches. */
typedef struct rmi_access {
    uint32_t *reads, *writes; /* buffers; room for rmi_low_degree each */
    uint32_t n_reads, n_writes;
    uint32_t saved;           /* FWD: it can leave this buffer; else RMI_NONE (a backward that reads it has it in reads) */
    uint64_t saved_bytes;
    uint32_t ws;              /* workspace buffer */
    uint64_t ws_bytes;
} rmi_access;

RMI_FN rm_result rmi_low_access_make(const rm_graph *g, rmi_arena *mem, rmi_access *a)
{
    uint32_t i, n = 0, params = 0;
    for (i = 0; i < g->n_ops; i++) {
        uint32_t d = g->ops[i].in.n + g->ops[i].out.n * 2 + g->ops[i].mutates.n;
        if (d > n) n = d;
    }
    for (i = 0; i < g->n_tensors; i++) params += g->tensors[i].kind == RMI_PARAM;
    if (g->n_barriers && params > n) n = params;
    memset(a, 0, sizeof *a);
    a->reads = RMI_NEW(mem, uint32_t, n + 4);
    a->writes = RMI_NEW(mem, uint32_t, n + 4);
    return a->reads && a->writes ? RM_OK : RM_ERROR_MEMORY;
}

RMI_FN void rmi_low_put_once(uint32_t *list, uint32_t *n, uint32_t b)
{
    uint32_t i;
    for (i = 0; i < *n; i++)
        if (list[i] == b) return;
    list[(*n)++] = b;
}

RMI_FN void rmi_low_access_fwd(const rm_graph *g, rmi_run r, int again, rmi_access *a)
{
    const rmi_op *op = &g->ops[r.id];
    const rmi_form *f = &op->forms[r.form];
    uint32_t i;
    for (i = 0; i < op->in.n; i++) rmi_low_put_once(a->reads, &a->n_reads, op->in.at[i]);
    for (i = 0; i < op->mutates.n && !again; i++) {
        rmi_low_put_once(a->reads, &a->n_reads, op->mutates.at[i]);
        rmi_low_put_once(a->writes, &a->n_writes, op->mutates.at[i]);
    }
    for (i = 0; i < op->out.n; i++) a->writes[a->n_writes++] = op->out.at[i];
    if (f->saved) {
        a->saved = rmi_low_buf(g, RMI_BUF_SAVED, r.id);
        a->saved_bytes = f->saved;
    }
    a->ws = rmi_low_buf(g, RMI_BUF_WS, r.id);
    a->ws_bytes = op->view == RMI_NONE ? f->fwd_ws : 0;
}

RMI_FN void rmi_low_access_bwd(const rm_graph *g, rmi_run r, rmi_access *a)
{
    const rmi_op *op = &g->ops[r.id];
    const rmi_form *f = &op->forms[r.form];
    const rmi_part *p = &f->parts[r.part];
    uint32_t i;
    for (i = 0; i < p->needs.n; i++) a->reads[a->n_reads++] = p->needs.at[i];
    if (p->needs_saved && f->saved) a->reads[a->n_reads++] = rmi_low_buf(g, RMI_BUF_SAVED, r.id);
    for (i = 0; i < op->grad_out.n; i++) a->reads[a->n_reads++] = rmi_low_buf(g, RMI_BUF_GRAD, op->grad_out.at[i]);
    for (i = 0; i < op->grad_in.n; i++)
        if (rmi_list_has(&p->grads, op->grad_in.at[i])) a->writes[a->n_writes++] = rmi_low_buf(g, RMI_BUF_GRAD, op->grad_in.at[i]);
    a->ws = rmi_low_buf(g, RMI_BUF_WS, r.id);
    a->ws_bytes = p->bwd_ws;
}

/* again: this forward has run before in the step. */
RMI_FN void rmi_low_access(const rm_graph *g, rmi_run r, int again, rmi_access *a)
{
    uint32_t i;
    a->n_reads = a->n_writes = 0;
    a->saved = a->ws = RMI_NONE;
    a->saved_bytes = a->ws_bytes = 0;
    switch ((rmi_way)r.way) {
    case RMI_FWD: rmi_low_access_fwd(g, r, again, a); break;
    case RMI_BWD: rmi_low_access_bwd(g, r, a); break;
    case RMI_OPT:
    case RMI_OPT_HOST:
        a->reads[a->n_reads++] = r.id;
        a->reads[a->n_reads++] = rmi_low_buf(g, RMI_BUF_GRAD, r.id);
        if (g->tensors[r.id].state_bytes) a->reads[a->n_reads++] = rmi_low_buf(g, RMI_BUF_STATE, r.id);
        a->writes[a->n_writes++] = r.id;
        if (g->tensors[r.id].state_bytes) a->writes[a->n_writes++] = rmi_low_buf(g, RMI_BUF_STATE, r.id);
        a->ws = rmi_low_buf(g, RMI_BUF_OPT_WS, r.id);
        a->ws_bytes = r.way == RMI_OPT ? g->tensors[r.id].opt_ws : 0;
        break;
    case RMI_REDUCE: a->reads[a->n_reads++] = a->writes[a->n_writes++] = rmi_low_buf(g, RMI_BUF_GRAD, r.id); break;
    case RMI_BARRIER:
        for (i = 0; i < g->n_tensors; i++)
            if (g->tensors[i].kind == RMI_PARAM && g->tensors[i].consumers.n) a->reads[a->n_reads++] = rmi_low_buf(g, RMI_BUF_GRAD, i);
        break;
    }
}

/* Time of a run. again as above; free: a backward all of whose gradients are other names of dout. */
RMI_FN uint64_t rmi_low_ns(const rm_graph *g, rmi_run r, int again, int is_free)
{
    switch ((rmi_way)r.way) {
    case RMI_FWD: return g->ops[r.id].view != RMI_NONE ? 0 : again ? rmi_low_form(g, r)->again : rmi_low_form(g, r)->fwd;
    case RMI_BWD: return is_free ? 0 : rmi_low_part(g, r)->bwd;
    case RMI_OPT: return g->tensors[r.id].opt;
    case RMI_OPT_HOST: return g->tensors[r.id].opt_host;
    case RMI_REDUCE: return g->tensors[r.id].reduce;
    default: return g->barriers[r.id].ns;
    }
}

/* Does this part of op's backward give any gradient that is wanted? */
RMI_FN int rmi_low_part_wanted(const rmi_op *op, const rmi_part *p)
{
    uint32_t i;
    for (i = 0; i < op->grad_in.n; i++)
        if (rmi_list_has(&p->grads, op->grad_in.at[i])) return 1;
    return 0;
}

/* Which step kinds have a backward, update weights, start from earlier contributions, hand contributions on. */
RMI_FN int rmi_low_has_backward(uint32_t step) { return step != RM_FORWARD; }
RMI_FN int rmi_low_has_update(uint32_t step) { return step == RM_SINGLE || step == RM_LAST; }
RMI_FN int rmi_low_adds_to_earlier(uint32_t step) { return step == RM_MIDDLE || step == RM_LAST; }
RMI_FN int rmi_low_hands_on(uint32_t step) { return step == RM_FIRST || step == RM_MIDDLE; }
/* Are params' gradients at a fixed place from start to end? */
RMI_FN int rmi_low_grads_resident(uint32_t step) { return rmi_low_hands_on(step) || rmi_low_adds_to_earlier(step); }

/* =====================================================================================================================
   >>schedule - the statements of a plan, the simulator of the lanes, the checker of legality
   In: a program (docs/formats.md). Out: its figures, or the first offence. One pass does both, so that what is predicted is
   what was checked; it shares no code with the solvers and every program goes through it before anyone sees it.
   A stretch is a piece of memory with one or more buffer names; content says what a buffer holds. O(log n) a statement.
   ================================================================================================================== */
typedef enum rmi_what { RMI_ALLOC, RMI_FREE, RMI_ALIAS, RMI_REUSE, RMI_RUN, RMI_OFFLOAD, RMI_PREFETCH, RMI_MERGE, RMI_DROP_HOST } rmi_what;

typedef struct rmi_stmt {
    uint8_t what;
    rmi_run run;     /* of RUN */
    uint32_t buf;    /* of all others; NEW of ALIAS and REUSE */
    uint32_t other;  /* OLD */
    uint64_t offset; /* ALLOC: arena; OFFLOAD, MERGE: host */
    uint64_t bytes;  /* ALLOC, and copies of what a forward saved: size, filled by rmi_sch_sizes */
} rmi_stmt;

typedef struct rmi_home { /* where something is when the step starts and ends */
    uint32_t buf, host;   /* host 1: in host memory */
    uint64_t offset;
} rmi_home;

#define RMI_LANES 5

typedef struct rmi_figures {
    uint64_t time_ns, first_ns, recomputed_ns, arena_top, live_bytes, host_top, busy[RMI_LANES];
    uint64_t runs, recomputed_runs;
} rmi_figures;

typedef struct rmi_program {
    uint32_t step;
    rmi_stmt *st;
    size_t n;
    rmi_home *homes;
    size_t n_homes;
    uint64_t arena, host; /* bytes of both memories */
    rmi_figures fig;
} rmi_program;

/* The name of a buffer as in plans; out has room for 300. */
RMI_FN const char *rmi_sch_name(const rm_graph *g, uint32_t b, char *out)
{
    static const char *const head[] = {"", "grad:", "state:", "saved:", "ws:", "ws:"};
    uint32_t i;
    rmi_buf_kind k = rmi_low_kind(g, b, &i);
    const char *name = k == RMI_BUF_SAVED || k == RMI_BUF_WS ? g->ops[i].name : g->tensors[i].name;
    strcpy(out, head[k]);
    strncat(out, name, 260);
    return out;
}

/* Sizes of the ALLOCs of what forwards save and of workspaces: those of the run (or prefetch) that comes next. */
RMI_FN rm_result rmi_sch_sizes(const rm_graph *g, rmi_program *p)
{
    rmi_arena tmp = rmi_arena_make(&g->mem.hooks);
    uint64_t *ws = RMI_NEW(&tmp, uint64_t, 2 * (size_t)g->n_ops + g->n_tensors);
    uint64_t *saved = ws ? ws + g->n_ops : NULL, *opt = ws ? ws + 2 * (size_t)g->n_ops : NULL;
    uint64_t *left = RMI_NEW(&tmp, uint64_t, g->n_ops); /* size of what the latest forward left, for prefetches */
    size_t i;
    if (!ws || !left) {
        rmi_arena_free(&tmp);
        return RM_ERROR_MEMORY;
    }
    for (i = p->n; i-- > 0;) {
        rmi_stmt *s = &p->st[i];
        uint32_t id = s->run.id, k;
        if (s->what == RMI_RUN && s->run.way == RMI_FWD) {
            ws[id] = g->ops[id].forms[s->run.form].fwd_ws;
            saved[id] = g->ops[id].forms[s->run.form].saved;
        } else if (s->what == RMI_RUN && s->run.way == RMI_BWD) {
            ws[id] = rmi_low_part(g, s->run)->bwd_ws;
        } else if (s->what == RMI_RUN && s->run.way == RMI_OPT) {
            opt[id] = g->tensors[id].opt_ws;
        } else if (s->what == RMI_PREFETCH && rmi_low_kind(g, s->buf, &k) == RMI_BUF_SAVED) {
            saved[k] = RMI_INF; /* known on the way forward only */
        } else if (s->what == RMI_ALLOC) {
            rmi_buf_kind kind = rmi_low_kind(g, s->buf, &k);
            s->bytes = kind == RMI_BUF_SAVED ? saved[k] : kind == RMI_BUF_WS ? ws[k] : kind == RMI_BUF_OPT_WS ? opt[k] : rmi_low_bytes(g, s->buf);
        }
    }
    for (i = 0; i < p->n; i++) {
        rmi_stmt *s = &p->st[i];
        uint32_t k;
        if (s->what == RMI_RUN && s->run.way == RMI_FWD) left[s->run.id] = g->ops[s->run.id].forms[s->run.form].saved;
        if (s->what != RMI_RUN && (s->what != RMI_ALLOC || s->bytes == RMI_INF) && rmi_low_kind(g, s->buf, &k) == RMI_BUF_SAVED) s->bytes = left[k];
    }
    rmi_arena_free(&tmp);
    return RM_OK;
}

/* --- one memory: which bytes are live, and when the last user of freed bytes ends. A segment tree over the end points. */
typedef struct rmi_space {
    uint64_t *cut;       /* sorted end points */
    size_t n_cut, leaves;
    uint32_t *live, *live_max; /* live: marks on whole nodes; live_max: the largest sum below */
    uint64_t *freed, *freed_max;
    uint64_t size, top, sum, peak;
} rmi_space;

RMI_FN int rmi_sch_cmp_u64(const void *a, const void *b, void *user)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    (void)user;
    return x < y ? -1 : x > y;
}

RMI_FN rm_result rmi_sch_space_make(rmi_arena *mem, rmi_space *s)
{
    size_t i, n = 0;
    rmi_sort(s->cut, s->n_cut, sizeof(uint64_t), rmi_sch_cmp_u64, NULL);
    for (i = 0; i < s->n_cut; i++)
        if (!n || s->cut[n - 1] != s->cut[i]) s->cut[n++] = s->cut[i];
    s->n_cut = n;
    for (s->leaves = 1; s->leaves < n;) s->leaves *= 2;
    s->live = RMI_NEW(mem, uint32_t, s->leaves * 4);
    s->freed = RMI_NEW(mem, uint64_t, s->leaves * 4);
    if (!s->live || !s->freed) return RM_ERROR_MEMORY;
    s->live_max = s->live + s->leaves * 2;
    s->freed_max = s->freed + s->leaves * 2;
    return RM_OK;
}

RMI_FN size_t rmi_sch_cut(const rmi_space *s, uint64_t at)
{
    size_t lo = 0, hi = s->n_cut;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (s->cut[mid] < at) lo = mid + 1;
        else hi = mid;
    }
    return lo;
}

/* Over leaves [a, b): add to live, raise freed to `until`, and report the maxima found before. */
RMI_FN void rmi_sch_touch(rmi_space *s, size_t node, size_t lo, size_t hi, size_t a, size_t b, int add, uint64_t until, uint32_t *live, uint64_t *freed)
{
    size_t mid = lo + (hi - lo) / 2;
    if (a >= hi || b <= lo) return;
    if (a <= lo && hi <= b) {
        if (*live < s->live_max[node]) *live = s->live_max[node];
        if (*freed < s->freed_max[node]) *freed = s->freed_max[node];
        s->live[node] += (uint32_t)add;
        s->live_max[node] += (uint32_t)add;
        if (s->freed[node] < until) s->freed[node] = until;
        if (s->freed_max[node] < until) s->freed_max[node] = until;
        return;
    }
    {
        uint32_t below = 0;
        rmi_sch_touch(s, node * 2, lo, mid, a, b, add, until, &below, freed);
        rmi_sch_touch(s, node * 2 + 1, mid, hi, a, b, add, until, &below, freed);
        if (*live < below + s->live[node]) *live = below + s->live[node];
        if (*freed < s->freed[node]) *freed = s->freed[node];
    }
    s->live_max[node] = s->live[node] + (s->live_max[node * 2] > s->live_max[node * 2 + 1] ? s->live_max[node * 2] : s->live_max[node * 2 + 1]);
    s->freed_max[node] = rmi_max(s->freed[node], rmi_max(s->freed_max[node * 2], s->freed_max[node * 2 + 1]));
}

/* --- state of the simulation */
typedef struct rmi_stretch {
    uint64_t lo, hi, busy, ready;
    uint32_t first;   /* buffer whose name it is; further ones by next_name */
    uint32_t next;    /* free list */
    uint8_t host, fixed;
} rmi_stretch;

typedef struct rmi_content { /* nothing: a == b. A gradient: contributions [a, b). All else: b = a + 1, a is its version */
    uint32_t a, b;
} rmi_content;

typedef struct rmi_pending {
    uint32_t fresh, old, op; /* op: the one whose run it belongs to; RMI_NONE: of the next run */
    uint8_t way, reuse;
} rmi_pending;

typedef struct rmi_sim {
    const rm_graph *g;
    const rmi_program *p;
    rmi_arena mem;
    rmi_error *err;
    size_t at;
    uint32_t *dev, *hst;        /* stretch of a buffer, or RMI_NONE */
    uint32_t *next_name;
    rmi_content *value, *kept;
    rmi_stretch *str;
    uint32_t n_str, free_str;
    size_t cap_str;
    rmi_space space[2];
    uint64_t lane[RMI_LANES];
    rmi_pending *pend;
    size_t n_pend, cap_pend;
    uint32_t *dying;
    size_t n_dying, cap_dying;
    uint32_t *ws_live;          /* workspaces allocated now */
    size_t n_ws, cap_ws;
    uint8_t *ws_used;
    uint32_t *version;          /* by tensor */
    uint32_t *given;            /* contributions so far, by tensor */
    uint8_t *done;              /* by op and gradient */
    uint32_t *done_at;          /* first of op in done */
    uint32_t *ran, *left_by;    /* by op */
    const char **bits;
    uint8_t *updated, *reduced, *passed;
    uint64_t barrier_end;
    rmi_access acc;
    uint32_t *reads, *writes;   /* stretches of the current run */
    uint32_t n_reads, n_writes;
    rmi_figures fig;
} rmi_sim;

RMI_FN rm_result rmi_sim_fail(rmi_sim *s, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    rmi_err_vset(s->err, RM_ERROR_PLAN, fmt, args);
    va_end(args);
    return RM_ERROR_PLAN;
}
RMI_FN rm_result rmi_sim_fail_buf(rmi_sim *s, uint32_t b, const char *fact)
{
    char name[300];
    return rmi_sim_fail(s, "%s %s", rmi_sch_name(s->g, b, name), fact);
}
RMI_FN rm_result rmi_sim_fail_two(rmi_sim *s, uint32_t a, const char *fact, uint32_t b)
{
    char name[300], other[300];
    return rmi_sim_fail(s, "%s %s %s", rmi_sch_name(s->g, a, name), fact, rmi_sch_name(s->g, b, other));
}

RMI_FN rm_result rmi_sim_new_stretch(rmi_sim *s, uint32_t *out)
{
    uint32_t i = s->free_str;
    if (i != RMI_NONE) {
        s->free_str = s->str[i].next;
    } else {
        if (!rmi_arena_grow(&s->mem, (void **)&s->str, &s->cap_str, (size_t)s->n_str + 1, sizeof(rmi_stretch))) return RM_ERROR_MEMORY;
        i = s->n_str++;
    }
    memset(&s->str[i], 0, sizeof(rmi_stretch));
    s->str[i].first = RMI_NONE;
    *out = i;
    return RM_OK;
}

/* The live buffer that [lo, hi) overlaps, for the message. */
RMI_FN uint32_t rmi_sim_neighbour(const rmi_sim *s, uint32_t host, uint64_t lo, uint64_t hi)
{
    const uint32_t *at = host ? s->hst : s->dev;
    uint32_t b;
    for (b = 0; b < rmi_low_buffers(s->g); b++)
        if (at[b] != RMI_NONE && s->str[at[b]].lo < hi && lo < s->str[at[b]].hi) return b;
    return RMI_NONE;
}

RMI_FN rm_result rmi_sim_place(rmi_sim *s, uint32_t host, uint32_t b, uint64_t lo, uint64_t bytes, uint32_t *out)
{
    rmi_space *sp = &s->space[host];
    uint64_t hi = rmi_add(lo, bytes), freed = 0;
    uint32_t live = 0, str;
    char name[300], other[300];
    if (hi > sp->size)
        return rmi_sim_fail(s, "%s ends at byte %u, past the %u bytes of the %s", rmi_sch_name(s->g, b, name), hi, sp->size, host ? "host memory" : "arena");
    if (bytes) {
        rmi_sch_touch(sp, 1, 0, sp->leaves, rmi_sch_cut(sp, lo), rmi_sch_cut(sp, hi), 1, 0, &live, &freed);
        if (live) {
            uint32_t n = rmi_sim_neighbour(s, host, lo, hi);
            return rmi_sim_fail(s, "%s at [%u, %u) overlaps %s, which is live", rmi_sch_name(s->g, b, name), lo, hi, n == RMI_NONE ? "another buffer" : rmi_sch_name(s->g, n, other));
        }
    }
    RMI_TRY(rmi_sim_new_stretch(s, &str));
    s->str[str].lo = lo;
    s->str[str].hi = hi;
    s->str[str].busy = s->str[str].ready = freed;
    s->str[str].first = b;
    s->str[str].host = (uint8_t)host;
    if (!host) s->next_name[b] = RMI_NONE;
    sp->top = rmi_max(sp->top, hi);
    sp->sum += bytes;
    sp->peak = rmi_max(sp->peak, sp->sum);
    *out = str;
    return RM_OK;
}

RMI_FN void rmi_sim_release(rmi_sim *s, uint32_t str)
{
    rmi_stretch *t = &s->str[str];
    rmi_space *sp = &s->space[t->host];
    uint32_t live = 0;
    uint64_t freed = 0;
    if (t->hi > t->lo) rmi_sch_touch(sp, 1, 0, sp->leaves, rmi_sch_cut(sp, t->lo), rmi_sch_cut(sp, t->hi), -1, t->busy, &live, &freed);
    sp->sum -= t->hi - t->lo;
    t->next = s->free_str;
    s->free_str = str;
}

RMI_FN void rmi_sim_drop(rmi_sim *s, uint32_t b)
{
    uint32_t str = s->dev[b], *link = &s->str[str].first;
    while (*link != b) link = &s->next_name[*link];
    *link = s->next_name[b];
    s->dev[b] = RMI_NONE;
    s->value[b].a = s->value[b].b = 0;
    if (s->str[str].first == RMI_NONE) rmi_sim_release(s, str);
}
RMI_FN void rmi_sim_drop_kept(rmi_sim *s, uint32_t b)
{
    rmi_sim_release(s, s->hst[b]);
    s->hst[b] = RMI_NONE;
    s->kept[b].a = s->kept[b].b = 0;
}

/* --- contents */
RMI_FN rmi_content rmi_sim_content(uint32_t a, uint32_t b)
{
    rmi_content c;
    c.a = a;
    c.b = b;
    return c;
}
RMI_FN int rmi_sim_same(rmi_content x, rmi_content y) { return x.a == y.a && x.b == y.b; }
RMI_FN int rmi_sim_nothing(rmi_content x) { return x.a == x.b; }

/* Contributions that a complete gradient has; earlier steps' count as one. */
RMI_FN uint32_t rmi_sim_full(const rmi_sim *s, uint32_t t)
{
    return s->g->tensors[t].consumers.n + (s->g->tensors[t].kind == RMI_PARAM && rmi_low_adds_to_earlier(s->p->step) ? 1u : 0u);
}

/* What a buffer must hold to be read. */
RMI_FN rmi_content rmi_sim_right(const rmi_sim *s, uint32_t b)
{
    uint32_t i, v = 0;
    switch (rmi_low_kind(s->g, b, &i)) {
    case RMI_BUF_GRAD: return rmi_sim_content(0, rmi_sim_full(s, i));
    case RMI_BUF_VALUE:
    case RMI_BUF_STATE: v = s->version[i]; break;
    case RMI_BUF_SAVED: v = s->left_by[i]; break;
    default: break;
    }
    return rmi_sim_content(v, v + 1);
}

/* The stretch of b on the device; buffers of no bytes are always there. */
RMI_FN rm_result rmi_sim_at_device(rmi_sim *s, uint32_t b, uint32_t *str)
{
    uint32_t i;
    rmi_buf_kind k = rmi_low_kind(s->g, b, &i);
    if (s->dev[b] == RMI_NONE && k <= RMI_BUF_STATE && !rmi_low_bytes(s->g, b)) RMI_TRY(rmi_sim_place(s, 0, b, 0, 0, &s->dev[b]));
    if (s->dev[b] == RMI_NONE) return rmi_sim_fail_buf(s, b, "is not on the device");
    *str = s->dev[b];
    return RM_OK;
}

RMI_FN rm_result rmi_sim_need(rmi_sim *s, uint32_t b, uint32_t *str)
{
    RMI_TRY(rmi_sim_at_device(s, b, str));
    if (!rmi_sim_same(s->value[b], rmi_sim_right(s, b)))
        return rmi_sim_fail_buf(s, b, rmi_sim_nothing(s->value[b]) ? "is on the device and holds nothing yet" : "does not hold its whole, newest value");
    return RM_OK;
}

RMI_FN rm_result rmi_sim_read(rmi_sim *s, uint32_t b)
{
    uint32_t str;
    RMI_TRY(rmi_sim_need(s, b, &str));
    s->reads[s->n_reads++] = str;
    return RM_OK;
}
RMI_FN rm_result rmi_sim_write(rmi_sim *s, uint32_t b)
{
    uint32_t str;
    RMI_TRY(rmi_sim_at_device(s, b, &str));
    s->writes[s->n_writes++] = str;
    return RM_OK;
}

RMI_FN void rmi_sim_set(rmi_sim *s, uint32_t b, rmi_content c, uint64_t t)
{
    rmi_stretch *str = &s->str[s->dev[b]];
    s->value[b] = c;
    str->ready = rmi_max(str->ready, t);
    str->busy = rmi_max(str->busy, t);
}

/* A run or copy on a lane, with the reads and writes gathered: when does it end? */
RMI_FN uint64_t rmi_sim_work(rmi_sim *s, uint32_t lane, uint64_t ns, uint64_t not_before)
{
    uint64_t t = rmi_max(s->lane[lane], not_before);
    uint32_t i;
    for (i = 0; i < s->n_reads; i++) t = rmi_max(t, s->str[s->reads[i]].ready);
    for (i = 0; i < s->n_writes; i++) t = rmi_max(t, s->str[s->writes[i]].busy);
    t = rmi_add(t, ns);
    s->lane[lane] = t;
    s->fig.busy[lane] = rmi_add(s->fig.busy[lane], ns);
    for (i = 0; i < s->n_reads; i++) s->str[s->reads[i]].busy = rmi_max(s->str[s->reads[i]].busy, t);
    for (i = 0; i < s->n_writes; i++) {
        rmi_stretch *w = &s->str[s->writes[i]];
        w->busy = rmi_max(w->busy, t);
        w->ready = rmi_max(w->ready, t);
    }
    s->n_reads = s->n_writes = 0;
    return t;
}

/* --- statements about memory */
RMI_FN rm_result rmi_sim_alloc(rmi_sim *s, const rmi_stmt *st)
{
    uint32_t i, b = st->buf;
    rmi_buf_kind k = rmi_low_kind(s->g, b, &i);
    if (rmi_low_external(s->g, b)) return rmi_sim_fail_buf(s, b, "is the caller's memory: it is never allocated");
    if (s->dev[b] != RMI_NONE) return rmi_sim_fail_buf(s, b, "is allocated already");
    if (k == RMI_BUF_VALUE && s->g->tensors[i].maker != RMI_NONE && s->g->ops[s->g->tensors[i].maker].view != RMI_NONE) return rmi_sim_fail_buf(s, b, "is a view: it comes to be by an alias");
    if (k == RMI_BUF_WS || k == RMI_BUF_OPT_WS) {
        if (!rmi_arena_grow(&s->mem, (void **)&s->ws_live, &s->cap_ws, s->n_ws + 1, sizeof(uint32_t))) return RM_ERROR_MEMORY;
        s->ws_live[s->n_ws++] = b;
        s->ws_used[b - (3 * s->g->n_tensors + s->g->n_ops)] = 0;
    }
    return rmi_sim_place(s, 0, b, st->offset, st->bytes, &s->dev[b]);
}

RMI_FN rm_result rmi_sim_free(rmi_sim *s, uint32_t b)
{
    size_t i;
    if (rmi_low_external(s->g, b)) return rmi_sim_fail_buf(s, b, "is the caller's memory: it is never freed");
    if (s->dev[b] == RMI_NONE) return rmi_sim_fail_buf(s, b, "is not on the device");
    for (i = 0; i < s->n_ws; i++)
        if (s->ws_live[i] == b) s->ws_live[i] = s->ws_live[--s->n_ws];
    rmi_sim_drop(s, b);
    return RM_OK;
}

RMI_FN uint64_t rmi_sim_length(const rmi_sim *s, uint32_t b)
{
    uint32_t i;
    if (rmi_low_kind(s->g, b, &i) != RMI_BUF_SAVED) return rmi_low_bytes(s->g, b);
    return s->g->ops[i].forms[s->left_by[i]].saved;
}

/* The new name joins the bytes of the old one. */
RMI_FN rm_result rmi_sim_share(rmi_sim *s, uint32_t fresh, uint32_t old)
{
    uint32_t str;
    if (s->dev[fresh] != RMI_NONE) return rmi_sim_fail_buf(s, fresh, "is there already");
    RMI_TRY(rmi_sim_at_device(s, old, &str));
    if (rmi_low_bytes(s->g, fresh) > rmi_sim_length(s, old)) return rmi_sim_fail_two(s, fresh, "is larger than", old);
    s->next_name[fresh] = s->str[str].first;
    s->str[str].first = fresh;
    s->dev[fresh] = str;
    return RM_OK;
}

RMI_FN rm_result rmi_sim_pend(rmi_sim *s, uint32_t fresh, uint32_t old, rmi_way way, uint32_t op, int reuse)
{
    rmi_pending *p;
    if (!rmi_arena_grow(&s->mem, (void **)&s->pend, &s->cap_pend, s->n_pend + 1, sizeof(rmi_pending))) return RM_ERROR_MEMORY;
    p = &s->pend[s->n_pend++];
    p->fresh = fresh;
    p->old = old;
    p->op = op;
    p->way = (uint8_t)way;
    p->reuse = (uint8_t)reuse;
    return RM_OK;
}

RMI_FN rm_result rmi_sim_alias(rmi_sim *s, uint32_t fresh, uint32_t old)
{
    uint32_t i, of, str, maker;
    rmi_buf_kind k = rmi_low_kind(s->g, fresh, &i);
    if (k == RMI_BUF_GRAD) {
        const rmi_op *op;
        if (rmi_low_kind(s->g, old, &of) != RMI_BUF_GRAD || s->g->tensors[of].maker == RMI_NONE) return rmi_sim_fail_two(s, fresh, "may not share the bytes of", old);
        op = &s->g->ops[s->g->tensors[of].maker];
        if (op->out.at[0] != of || !rmi_list_has(&op->share, i)) return rmi_sim_fail_two(s, fresh, "may not share the bytes of", old);
        RMI_TRY(rmi_sim_share(s, fresh, old));
        return rmi_sim_pend(s, fresh, old, RMI_BWD, s->g->tensors[of].maker, 0);
    }
    maker = k == RMI_BUF_VALUE ? s->g->tensors[i].maker : RMI_NONE;
    if (maker == RMI_NONE || s->g->ops[maker].view != old) return rmi_sim_fail_two(s, fresh, "is no view of", old);
    RMI_TRY(rmi_sim_need(s, old, &str));
    RMI_TRY(rmi_sim_share(s, fresh, old));
    s->value[fresh] = rmi_sim_right(s, fresh);
    s->ran[maker]++;
    return RM_OK;
}

RMI_FN rm_result rmi_sim_reuse(rmi_sim *s, uint32_t fresh, uint32_t old)
{
    uint32_t i, str;
    rmi_buf_kind k = rmi_low_kind(s->g, fresh, &i);
    RMI_TRY(rmi_sim_at_device(s, old, &str));
    if (s->str[str].first != old || s->next_name[old] != RMI_NONE) return rmi_sim_fail_buf(s, old, "has bytes that another name shares");
    if (rmi_low_external(s->g, old)) return rmi_sim_fail_buf(s, old, "is the caller's memory: nothing takes it over");
    if (k != RMI_BUF_GRAD && (k != RMI_BUF_VALUE || s->g->tensors[i].maker == RMI_NONE)) return rmi_sim_fail_two(s, fresh, "may not take over the bytes of", old);
    RMI_TRY(rmi_sim_share(s, fresh, old));
    if (!rmi_arena_grow(&s->mem, (void **)&s->dying, &s->cap_dying, s->n_dying + 1, sizeof(uint32_t))) return RM_ERROR_MEMORY;
    s->dying[s->n_dying++] = old;
    return rmi_sim_pend(s, fresh, old, k == RMI_BUF_GRAD ? RMI_BWD : RMI_FWD, k == RMI_BUF_GRAD ? RMI_NONE : s->g->tensors[i].maker, 1);
}

RMI_FN int rmi_sim_is_dying(const rmi_sim *s, uint32_t b)
{
    size_t i;
    for (i = 0; i < s->n_dying; i++)
        if (s->dying[i] == b) return 1;
    return 0;
}

/* May gradient `fresh` of op take the bytes of `old` in this backward? */
RMI_FN int rmi_sim_over_ok(const rmi_sim *s, uint32_t op_id, const rmi_form *f, uint32_t fresh, uint32_t old)
{
    const rmi_op *op = &s->g->ops[op_id];
    uint32_t t, o, i;
    rmi_buf_kind ok = rmi_low_kind(s->g, old, &o);
    int is_dout;
    rmi_low_kind(s->g, fresh, &t);
    if (!rmi_list_has(&op->grad_in, t)) return 0;
    is_dout = ok == RMI_BUF_GRAD && o == op->out.at[0];
    if (is_dout && (op->view == t || rmi_list_has(&op->share, t)) && rmi_low_bytes(s->g, fresh) == rmi_low_bytes(s->g, old)) return 1;
    for (i = 0; i < f->n_overs; i++) {
        const rmi_over *v = &f->overs[i];
        if (v->grad_of != t) continue;
        if (v->what == RMI_OVER_DOUT && is_dout) return 1;
        if (v->what == RMI_OVER_SAVED && ok == RMI_BUF_SAVED && o == op_id) return 1;
        if (v->what == RMI_OVER_TENSOR && ok == RMI_BUF_VALUE && o == v->tensor) return 1;
    }
    return 0;
}

/* The reuses and shares said since the last run belong to this run: are they allowed? Aliases may wait for their part. */
RMI_FN rm_result rmi_sim_settle(rmi_sim *s, rmi_run r, const rmi_part *part, rmi_pending **moved, size_t *n_moved)
{
    const rmi_form *f = rmi_low_form(s->g, r);
    size_t i, keep = 0, total = s->n_pend;
    rmi_pending *all = s->pend;
    *n_moved = 0;
    for (i = 0; i < total; i++) { /* those that wait come first, those of this run after them */
        rmi_pending p = all[i];
        uint32_t t;
        int mine = p.way == r.way && (p.op == RMI_NONE || p.op == r.id);
        rmi_low_kind(s->g, p.fresh, &t);
        if (!p.reuse && mine && part && !rmi_list_has(&part->grads, t)) mine = 0;
        if (!mine && !p.reuse) {
            size_t k;
            for (k = i; k > keep; k--) all[k] = all[k - 1];
            all[keep++] = p;
            continue;
        }
        if (mine && r.way == RMI_FWD) mine = s->g->ops[r.id].out.at[0] == t && f->inplace == p.old;
        else if (mine) mine = rmi_sim_over_ok(s, r.id, f, p.fresh, p.old);
        if (!mine || s->dev[p.fresh] != s->dev[p.old]) return rmi_sim_fail_two(s, p.fresh, "may not take the bytes in this run of", p.old);
    }
    *moved = all + keep;
    *n_moved = total - keep;
    s->n_pend = keep;
    return RM_OK;
}

RMI_FN uint32_t rmi_sim_moved_from(const rmi_pending *moved, size_t n, uint32_t b)
{
    size_t i;
    for (i = 0; i < n; i++)
        if (moved[i].fresh == b) return moved[i].old;
    return RMI_NONE;
}

/* --- runs */
RMI_FN rm_result rmi_sim_workspace(rmi_sim *s, uint32_t ws, uint64_t bytes)
{
    char name[300];
    if (!bytes) return RM_OK;
    if (s->dev[ws] == RMI_NONE || s->str[s->dev[ws]].hi - s->str[s->dev[ws]].lo < bytes)
        return rmi_sim_fail(s, "%s of %u bytes is wanted by this run and not allocated", rmi_sch_name(s->g, ws, name), bytes);
    s->writes[s->n_writes++] = s->dev[ws];
    return RM_OK;
}

/* A const (or param) that this step has changed must not be read in its old place. */
RMI_FN rm_result rmi_sim_fresh(rmi_sim *s, uint32_t t, uint32_t op)
{
    uint32_t root = s->g->tensors[t].root;
    rmi_tensor_kind k = (rmi_tensor_kind)s->g->tensors[root].kind;
    if (k == RMI_ACT || k == RMI_INPUT) return RM_OK;
    if (s->version[root] != rmi_graph_version_for(s->g, root, op) && !rmi_list_has(&s->g->ops[op].mutates, root))
        return rmi_sim_fail_buf(s, root, "has been changed in this step, and this run wants its earlier value");
    return RM_OK;
}

/* Names on str besides b, the dying and (for a forward's output) views of it. */
RMI_FN uint32_t rmi_sim_other_name(const rmi_sim *s, uint32_t b, int forward)
{
    uint32_t n;
    for (n = s->str[s->dev[b]].first; n != RMI_NONE; n = s->next_name[n]) {
        uint32_t i;
        if (n == b || rmi_sim_is_dying(s, n)) continue;
        if (forward && rmi_low_kind(s->g, n, &i) == RMI_BUF_VALUE && s->g->tensors[i].root == b) continue;
        return n;
    }
    return RMI_NONE;
}

RMI_FN rm_result rmi_sim_fwd_allowed(rmi_sim *s, rmi_run r, int again)
{
    const rmi_op *op = &s->g->ops[r.id];
    const char *bits = rmi_low_form(s->g, r)->bits;
    uint32_t i, other;
    if (op->view != RMI_NONE) return rmi_sim_fail(s, "%s is a view: it runs by its alias", op->name);
    if (again && (op->flags & RM_ONCE)) return rmi_sim_fail(s, "%s runs once a step", op->name);
    if (s->bits[r.id] && strcmp(s->bits[r.id], bits)) return rmi_sim_fail(s, "%s has run in this step in a variant that gives other bits", op->name);
    s->bits[r.id] = bits;
    for (i = 0; i < op->in.n; i++) RMI_TRY(rmi_sim_fresh(s, op->in.at[i], r.id));
    for (i = 0; i < op->out.n; i++) {
        uint32_t str;
        RMI_TRY(rmi_sim_at_device(s, op->out.at[i], &str));
        other = rmi_sim_other_name(s, op->out.at[i], 1);
        if (other != RMI_NONE) return rmi_sim_fail_two(s, other, "shares the bytes of", op->out.at[i]);
    }
    return RM_OK;
}

RMI_FN rm_result rmi_sim_fwd(rmi_sim *s, rmi_run r)
{
    const rmi_op *op = &s->g->ops[r.id];
    int again = s->ran[r.id] > 0, keep;
    uint64_t ns = rmi_low_ns(s->g, r, again, 0), end;
    rmi_access *a = &s->acc;
    rmi_pending *moved;
    size_t n_moved;
    uint32_t i;
    RMI_TRY(rmi_sim_settle(s, r, NULL, &moved, &n_moved));
    RMI_TRY(rmi_sim_fwd_allowed(s, r, again));
    rmi_low_access(s->g, r, again, a);
    for (i = 0; i < a->n_reads; i++) RMI_TRY(rmi_sim_read(s, a->reads[i]));
    for (i = 0; i < a->n_writes; i++) RMI_TRY(rmi_sim_write(s, a->writes[i]));
    RMI_TRY(rmi_sim_workspace(s, a->ws, a->ws_bytes));
    keep = a->saved != RMI_NONE && s->dev[a->saved] != RMI_NONE;
    if (keep) {
        if (s->str[s->dev[a->saved]].hi - s->str[s->dev[a->saved]].lo < a->saved_bytes) return rmi_sim_fail_buf(s, a->saved, "is too small for what this variant leaves");
        RMI_TRY(rmi_sim_write(s, a->saved));
        s->left_by[r.id] = r.form;
    }
    end = rmi_sim_work(s, RM_LANE_COMPUTE, ns, 0);
    s->ran[r.id]++;
    s->fig.runs++;
    if (again) {
        s->fig.recomputed_ns = rmi_add(s->fig.recomputed_ns, ns);
        s->fig.recomputed_runs++;
    }
    for (i = 0; i < op->out.n; i++) rmi_sim_set(s, op->out.at[i], rmi_sim_right(s, op->out.at[i]), end);
    if (keep) rmi_sim_set(s, a->saved, rmi_sim_right(s, a->saved), end);
    for (i = 0; i < op->mutates.n && !again; i++) {
        s->version[op->mutates.at[i]]++;
        rmi_sim_set(s, op->mutates.at[i], rmi_sim_right(s, op->mutates.at[i]), end);
    }
    return RM_OK;
}

/* One contribution of op to the gradient of t: allowed now, and into which bytes? Gives what the buffer holds afterwards. */
RMI_FN rm_result rmi_sim_contribute(rmi_sim *s, uint32_t op_id, uint32_t t, const rmi_pending *moved, size_t n_moved, rmi_content *after)
{
    const rmi_list *c = &s->g->tensors[t].consumers;
    const rmi_op *op = &s->g->ops[op_id];
    uint32_t b = rmi_low_buf(s->g, RMI_BUF_GRAD, t), str, from, other, k, start, seq;
    rmi_content had;
    for (k = 0; op->grad_in.at[k] != t;) k++;
    if (s->done[s->done_at[op_id] + k]) return rmi_sim_fail_buf(s, b, "has got this op's contribution already");
    start = rmi_sim_full(s, t) - c->n;
    seq = start + s->given[t];
    if (!s->g->any_order && c->at[c->n - 1 - s->given[t]] != op_id)
        return rmi_sim_fail(s, "the gradient of %s gets its contributions in reverse order of declaration: %s comes first", s->g->tensors[t].name, s->g->ops[c->at[c->n - 1 - s->given[t]]].name);
    RMI_TRY(rmi_sim_at_device(s, b, &str));
    had = s->value[b];
    from = rmi_sim_moved_from(moved, n_moved, b);
    other = rmi_sim_other_name(s, b, 0);
    if (other != RMI_NONE && !(from != RMI_NONE && from == rmi_low_buf(s->g, RMI_BUF_GRAD, op->out.at[0]) && rmi_list_has(&op->share, t)))
        return rmi_sim_fail_two(s, other, "shares the bytes that this run writes of", b);
    if (from != RMI_NONE && !rmi_sim_nothing(had)) return rmi_sim_fail_buf(s, b, "holds earlier contributions and cannot take over other bytes");
    *after = rmi_sim_nothing(had) ? rmi_sim_content(seq, seq + 1) : had.b == seq ? rmi_sim_content(had.a, seq + 1) : rmi_sim_content(RMI_NONE - 1, RMI_NONE);
    s->writes[s->n_writes++] = str;
    return RM_OK;
}

RMI_FN int rmi_sim_is_free(const rmi_sim *s, const rmi_op *op, const rmi_part *p, const rmi_pending *moved, size_t n_moved)
{
    uint32_t i, dout = rmi_low_buf(s->g, RMI_BUF_GRAD, op->out.at[0]);
    for (i = 0; i < op->grad_in.n; i++) {
        uint32_t t = op->grad_in.at[i];
        if (!rmi_list_has(&p->grads, t)) continue;
        if (rmi_sim_moved_from(moved, n_moved, rmi_low_buf(s->g, RMI_BUF_GRAD, t)) != dout) return 0;
        if (!rmi_list_has(&op->share, t) && op->view != t) return 0;
    }
    return 1;
}

RMI_FN rm_result rmi_sim_bwd(rmi_sim *s, rmi_run r)
{
    const rmi_op *op = &s->g->ops[r.id];
    const rmi_part *p = rmi_low_part(s->g, r);
    rmi_access *a = &s->acc;
    rmi_pending *moved;
    rmi_content after;
    size_t n_moved;
    uint64_t end;
    uint32_t i, k;
    if (!op->has_bwd || !rmi_low_has_backward(s->p->step)) return rmi_sim_fail(s, "%s has no backward to run in this step", op->name);
    if (!rmi_low_part_wanted(op, p)) return rmi_sim_fail(s, "%s: nobody wants a gradient of this part", op->name);
    RMI_TRY(rmi_sim_settle(s, r, p, &moved, &n_moved));
    rmi_low_access(s->g, r, 1, a);
    for (i = 0; i < p->needs.n; i++) RMI_TRY(rmi_sim_fresh(s, p->needs.at[i], r.id));
    for (i = 0; i < a->n_reads; i++) {
        if (a->reads[i] == rmi_low_buf(s->g, RMI_BUF_SAVED, r.id) && s->left_by[r.id] != r.form) return rmi_sim_fail_buf(s, a->reads[i], "is what another variant left");
        RMI_TRY(rmi_sim_read(s, a->reads[i]));
    }
    /* the contents are decided before any changes, for targets may share bytes */
    for (i = 0; i < a->n_writes; i++) RMI_TRY(rmi_sim_contribute(s, r.id, a->writes[i] - s->g->n_tensors, moved, n_moved, &after));
    RMI_TRY(rmi_sim_workspace(s, a->ws, a->ws_bytes));
    end = rmi_sim_work(s, RM_LANE_COMPUTE, rmi_low_ns(s->g, r, 1, rmi_sim_is_free(s, op, p, moved, n_moved)), 0);
    s->fig.runs++;
    for (i = 0; i < a->n_writes; i++) {
        uint32_t t = a->writes[i] - s->g->n_tensors, n = s->n_writes;
        rm_result result;
        result = rmi_sim_contribute(s, r.id, t, moved, n_moved, &after);
        s->n_writes = n;
        if (result != RM_OK) return result;
        for (k = 0; op->grad_in.at[k] != t;) k++;
        s->done[s->done_at[r.id] + k] = 1;
        s->given[t]++;
        rmi_sim_set(s, a->writes[i], after, end);
    }
    return RM_OK;
}

RMI_FN rm_result rmi_sim_barrier(rmi_sim *s, uint32_t id)
{
    rmi_access *a = &s->acc;
    uint32_t i;
    if (s->passed[id] || !rmi_low_has_update(s->p->step)) return rmi_sim_fail(s, "barrier %s has run already, or this step has no updates", s->g->barriers[id].name);
    rmi_low_access(s->g, rmi_low_run(RMI_BARRIER, id, 0, 0), 0, a);
    for (i = 0; i < a->n_reads; i++) {
        uint32_t b = a->reads[i], t = b - s->g->n_tensors;
        rmi_content full = rmi_sim_content(0, rmi_sim_full(s, t));
        int there = s->dev[b] != RMI_NONE && rmi_sim_same(s->value[b], full), kept = s->hst[b] != RMI_NONE && rmi_sim_same(s->kept[b], full);
        if ((!there && !kept) || (s->g->tensors[t].reduce != RMI_INF && !s->reduced[t])) return rmi_sim_fail_buf(s, b, "is not complete (and reduced) before the barrier");
        s->reads[s->n_reads++] = there ? s->dev[b] : s->hst[b];
    }
    s->barrier_end = rmi_sim_work(s, RM_LANE_COMPUTE, s->g->barriers[id].ns, 0);
    s->passed[id] = 1;
    return RM_OK;
}

RMI_FN rm_result rmi_sim_reduce(rmi_sim *s, uint32_t w)
{
    uint32_t b = rmi_low_buf(s->g, RMI_BUF_GRAD, w);
    if (!rmi_low_has_update(s->p->step) || s->g->tensors[w].reduce == RMI_INF || s->reduced[w] || s->updated[w]) return rmi_sim_fail(s, "%s has no gradient to reduce (again) here", s->g->tensors[w].name);
    RMI_TRY(rmi_sim_read(s, b));
    RMI_TRY(rmi_sim_write(s, b));
    if (s->str[s->dev[b]].first != b || s->next_name[b] != RMI_NONE) return rmi_sim_fail_buf(s, b, "has bytes that another name shares");
    rmi_sim_work(s, RM_LANE_COMM, s->g->tensors[w].reduce, 0);
    s->kept[b] = rmi_sim_content(0, 0);
    s->reduced[w] = 1;
    return RM_OK;
}

/* Update in host memory: all three buffers are there, whole. */
RMI_FN rm_result rmi_sim_opt_host(rmi_sim *s, uint32_t w, uint64_t not_before)
{
    const rmi_tensor *t = &s->g->tensors[w];
    uint32_t own[3], i;
    own[0] = rmi_low_buf(s->g, RMI_BUF_GRAD, w);
    own[1] = w;
    own[2] = rmi_low_buf(s->g, RMI_BUF_STATE, w);
    for (i = 0; i < 3; i++) {
        if (!rmi_low_bytes(s->g, own[i])) {
            if (i == 0 && !rmi_sim_same(s->value[own[0]], rmi_sim_right(s, own[0]))) return rmi_sim_fail_buf(s, own[0], "is not complete");
            continue;
        }
        if (s->hst[own[i]] == RMI_NONE || !rmi_sim_same(s->kept[own[i]], rmi_sim_right(s, own[i]))) return rmi_sim_fail_buf(s, own[i], "is not whole in host memory, where this update runs");
        s->reads[s->n_reads++] = s->hst[own[i]];
        if (i) s->writes[s->n_writes++] = s->hst[own[i]];
    }
    rmi_sim_work(s, RM_LANE_HOST, t->opt_host, not_before);
    s->version[w]++;
    for (i = 1; i < 3; i++) {
        if (rmi_low_bytes(s->g, own[i])) s->kept[own[i]] = rmi_sim_right(s, own[i]);
        else s->value[own[i]] = rmi_sim_right(s, own[i]);
    }
    return RM_OK;
}

RMI_FN rm_result rmi_sim_opt(rmi_sim *s, rmi_run r)
{
    const rmi_tensor *t = &s->g->tensors[r.id];
    rmi_access *a = &s->acc;
    uint64_t end;
    uint32_t i;
    if (s->updated[r.id] || !t->updates || !rmi_low_has_update(s->p->step)) return rmi_sim_fail(s, "%s has no update to run here", t->name);
    if (t->reduce != RMI_INF && !s->reduced[r.id]) return rmi_sim_fail(s, "the gradient of %s is not reduced yet", t->name);
    for (i = 0; i < s->g->n_barriers; i++)
        if (!s->passed[i]) return rmi_sim_fail(s, "barrier %s comes before any update", s->g->barriers[i].name);
    s->updated[r.id] = 1;
    s->fig.runs++;
    if (r.way == RMI_OPT_HOST) {
        if (t->opt_host == RMI_INF) return rmi_sim_fail(s, "the update of %s cannot run on the host", t->name);
        return rmi_sim_opt_host(s, r.id, s->barrier_end);
    }
    if (t->opt == RMI_INF) return rmi_sim_fail(s, "the update of %s cannot run on the device", t->name);
    rmi_low_access(s->g, r, 0, a);
    for (i = 0; i < a->n_reads; i++) RMI_TRY(rmi_sim_read(s, a->reads[i]));
    for (i = 0; i < a->n_writes; i++) RMI_TRY(rmi_sim_write(s, a->writes[i]));
    RMI_TRY(rmi_sim_workspace(s, a->ws, a->ws_bytes));
    end = rmi_sim_work(s, RM_LANE_COMPUTE, t->opt, s->barrier_end);
    s->version[r.id]++;
    for (i = 0; i < a->n_writes; i++) rmi_sim_set(s, a->writes[i], rmi_sim_right(s, a->writes[i]), end);
    if (!t->state_bytes) s->value[rmi_low_buf(s->g, RMI_BUF_STATE, r.id)] = rmi_sim_content(s->version[r.id], s->version[r.id] + 1);
    return RM_OK;
}

RMI_FN rm_result rmi_sim_run(rmi_sim *s, rmi_run r)
{
    rm_result result;
    size_t i;
    uint32_t own = r.way == RMI_FWD || r.way == RMI_BWD ? rmi_low_buf(s->g, RMI_BUF_WS, r.id) : r.way == RMI_OPT ? rmi_low_buf(s->g, RMI_BUF_OPT_WS, r.id) : RMI_NONE;
    uint32_t base = 3 * s->g->n_tensors + s->g->n_ops;
    for (i = 0; i < s->n_ws; i++)
        if (s->ws_live[i] != own || s->ws_used[own - base]) return rmi_sim_fail_buf(s, s->ws_live[i], "is still allocated: a workspace is allocated right before its run and freed right after");
    for (i = 0; i < s->n_ws; i++) s->ws_used[s->ws_live[i] - base] = 1;
    s->n_reads = s->n_writes = 0;
    switch ((rmi_way)r.way) {
    case RMI_FWD: result = rmi_sim_fwd(s, r); break;
    case RMI_BWD: result = rmi_sim_bwd(s, r); break;
    case RMI_REDUCE: result = rmi_sim_reduce(s, r.id); break;
    case RMI_BARRIER: result = rmi_sim_barrier(s, r.id); break;
    default: result = rmi_sim_opt(s, r); break;
    }
    if (result != RM_OK) return result;
    for (i = 0; i < s->n_dying; i++)
        if (s->dev[s->dying[i]] != RMI_NONE) rmi_sim_drop(s, s->dying[i]);
    s->n_dying = 0;
    return RM_OK;
}

/* --- copies */
RMI_FN rm_result rmi_sim_copy_ns(rmi_sim *s, uint64_t bytes, uint64_t rate, uint64_t *ns)
{
    if (!s->g->has_link) return rmi_sim_fail(s, "the graph has no link: nothing can be copied; declare it with rm_graph_link");
    *ns = rmi_add(s->g->link.latency, rmi_mul_div_up(bytes, 1000000000u, rate));
    return RM_OK;
}

RMI_FN rm_result rmi_sim_offload(rmi_sim *s, const rmi_stmt *st)
{
    uint32_t b = st->buf, i, str;
    rmi_buf_kind k = rmi_low_kind(s->g, b, &i);
    uint64_t bytes, ns;
    if (rmi_low_external(s->g, b) || k == RMI_BUF_WS || k == RMI_BUF_OPT_WS) return rmi_sim_fail_buf(s, b, "does not move");
    RMI_TRY(rmi_sim_at_device(s, b, &str));
    if (rmi_sim_nothing(s->value[b])) return rmi_sim_fail_buf(s, b, "holds nothing that could be offloaded");
    bytes = rmi_sim_length(s, b);
    if (s->hst[b] != RMI_NONE && (s->str[s->hst[b]].lo != st->offset || s->str[s->hst[b]].hi != rmi_add(st->offset, bytes))) rmi_sim_drop_kept(s, b);
    if (s->hst[b] == RMI_NONE) RMI_TRY(rmi_sim_place(s, 1, b, st->offset, bytes, &s->hst[b]));
    s->n_reads = s->n_writes = 0;
    s->reads[s->n_reads++] = str;
    s->writes[s->n_writes++] = s->hst[b];
    RMI_TRY(rmi_sim_copy_ns(s, bytes, s->g->link.d2h, &ns));
    rmi_sim_work(s, RM_LANE_D2H, ns, 0);
    s->kept[b] = s->value[b];
    return RM_OK;
}

RMI_FN rm_result rmi_sim_prefetch(rmi_sim *s, uint32_t b)
{
    uint32_t i, str;
    uint64_t ns, end;
    if (s->hst[b] == RMI_NONE || rmi_sim_nothing(s->kept[b])) return rmi_sim_fail_buf(s, b, "is not in host memory");
    RMI_TRY(rmi_sim_at_device(s, b, &str));
    if (s->str[str].first != b || s->next_name[b] != RMI_NONE) return rmi_sim_fail_buf(s, b, "has bytes that another name shares");
    if (rmi_low_kind(s->g, b, &i) != RMI_BUF_GRAD && !rmi_sim_same(s->kept[b], rmi_sim_right(s, b))) return rmi_sim_fail_buf(s, b, "is stale in host memory");
    s->n_reads = s->n_writes = 0;
    s->reads[s->n_reads++] = s->hst[b];
    s->writes[s->n_writes++] = str;
    RMI_TRY(rmi_sim_copy_ns(s, rmi_sim_length(s, b), s->g->link.h2d, &ns));
    end = rmi_sim_work(s, RM_LANE_H2D, ns, 0);
    rmi_sim_set(s, b, s->kept[b], end);
    return RM_OK;
}

RMI_FN rm_result rmi_sim_merge(rmi_sim *s, const rmi_stmt *st)
{
    uint32_t b = st->buf, t, str, staging;
    rmi_content mine = s->value[b], theirs = s->kept[b];
    uint64_t bytes, ns;
    RMI_TRY(rmi_sim_at_device(s, b, &str));
    if (rmi_low_kind(s->g, b, &t) != RMI_BUF_GRAD || s->g->tensors[t].kind != RMI_PARAM || s->hst[b] == RMI_NONE || rmi_sim_nothing(mine) || rmi_sim_nothing(theirs) || (mine.a < theirs.b && theirs.a < mine.b))
        return rmi_sim_fail_buf(s, b, "cannot be merged: contributions on the device are added to other ones in host memory");
    bytes = rmi_sim_length(s, b);
    RMI_TRY(rmi_sim_copy_ns(s, bytes, s->g->link.d2h, &ns));
    RMI_TRY(rmi_sim_place(s, 1, b, st->offset, bytes, &staging));
    s->n_reads = s->n_writes = 0;
    s->reads[s->n_reads++] = str;
    s->writes[s->n_writes++] = staging;
    rmi_sim_work(s, RM_LANE_D2H, ns, 0);
    s->reads[s->n_reads++] = staging;
    s->writes[s->n_writes++] = s->hst[b];
    rmi_sim_work(s, RM_LANE_HOST, rmi_mul_div_up(bytes, 1000000000u, s->g->link.add), 0);
    rmi_sim_release(s, staging);
    s->kept[b] = mine.b == theirs.a ? rmi_sim_content(mine.a, theirs.b) : theirs.b == mine.a ? rmi_sim_content(theirs.a, mine.b) : rmi_sim_content(RMI_NONE - 1, RMI_NONE);
    s->value[b] = rmi_sim_content(0, 0);
    return RM_OK;
}

/* --- a step begins and ends */
RMI_FN void rmi_sim_begin(rmi_sim *s)
{
    const rm_graph *g = s->g;
    uint32_t i, n = g->n_tensors;
    size_t k;
    int adds = rmi_low_adds_to_earlier(s->p->step);
    memset(s->version, 0, n * sizeof(uint32_t));
    memset(s->given, 0, n * sizeof(uint32_t));
    memset(s->updated, 0, n);
    memset(s->reduced, 0, n);
    memset(s->ran, 0, g->n_ops * sizeof(uint32_t));
    memset(s->left_by, 0, g->n_ops * sizeof(uint32_t));
    memset((void *)s->bits, 0, g->n_ops * sizeof(char *));
    memset(s->done, 0, s->done_at[g->n_ops]);
    if (g->n_barriers) memset(s->passed, 0, g->n_barriers);
    s->barrier_end = 0;
    for (i = 0; i < n; i++) { /* the caller's memory, and what has no bytes, is there */
        const rmi_tensor *t = &g->tensors[i];
        uint32_t grad = rmi_low_buf(g, RMI_BUF_GRAD, i), state = rmi_low_buf(g, RMI_BUF_STATE, i);
        if (t->external || !t->bytes) s->value[i] = rmi_sim_content(0, t->kind == RMI_ACT ? 0 : 1);
        if (t->kind != RMI_PARAM) continue;
        if (t->external || !t->state_bytes) s->value[state] = rmi_sim_content(0, 1);
        if (t->external || !t->grad_bytes) s->value[grad] = rmi_sim_content(0, adds ? 1 : 0);
    }
    for (k = 0; k < s->p->n_homes; k++) {
        uint32_t b = s->p->homes[k].buf, id;
        rmi_content *c = s->p->homes[k].host ? &s->kept[b] : &s->value[b];
        *c = rmi_low_kind(g, b, &id) == RMI_BUF_GRAD ? rmi_sim_content(0, adds ? 1 : 0) : rmi_sim_content(0, 1);
    }
}

RMI_FN int rmi_sim_present(const rmi_sim *s, uint32_t b, rmi_content c)
{
    return (s->dev[b] != RMI_NONE && rmi_sim_same(s->value[b], c)) || (s->hst[b] != RMI_NONE && rmi_sim_same(s->kept[b], c));
}

RMI_FN rm_result rmi_sim_finish_ops(rmi_sim *s)
{
    const rm_graph *g = s->g;
    uint32_t i, k;
    for (i = 0; i < g->n_ops; i++) {
        const rmi_op *op = &g->ops[i];
        if (op->mutates.n && !s->ran[i]) return rmi_sim_fail(s, "%s never runs, and it has consts to bring up to date", op->name);
        if ((op->flags & RM_ONCE) && s->ran[i] != 1) return rmi_sim_fail(s, "%s must run exactly once", op->name);
        for (k = 0; k < op->grad_in.n && rmi_low_has_backward(s->p->step); k++)
            if (!s->done[s->done_at[i] + k]) return rmi_sim_fail(s, "the backward of %s never gives its contribution to the gradient of %s", op->name, g->tensors[op->grad_in.at[k]].name);
    }
    return RM_OK;
}

RMI_FN rm_result rmi_sim_finish_grads(rmi_sim *s)
{
    const rm_graph *g = s->g;
    uint32_t i;
    for (i = 0; i < g->n_tensors; i++) {
        const rmi_tensor *t = &g->tensors[i];
        uint32_t b = rmi_low_buf(g, RMI_BUF_GRAD, i);
        rmi_content full = rmi_sim_content(0, rmi_sim_full(s, i));
        if (t->is_output && (s->dev[i] == RMI_NONE || !rmi_sim_same(s->value[i], rmi_sim_right(s, i)))) return rmi_sim_fail_buf(s, i, "is an output and is not on the device at the end");
        if (!t->consumers.n || t->kind == RMI_ACT || !rmi_low_has_backward(s->p->step)) continue;
        if (t->kind == RMI_PARAM && rmi_low_has_update(s->p->step) && t->reduce != RMI_INF && !s->reduced[i]) return rmi_sim_fail_buf(s, b, "is never reduced");
        if (t->updates && rmi_low_has_update(s->p->step)) {
            if (!s->updated[i]) return rmi_sim_fail_buf(s, i, "is never updated");
            continue;
        }
        if (!rmi_sim_present(s, b, full)) return rmi_sim_fail_buf(s, b, "is not complete in one place at the end");
    }
    return RM_OK;
}

RMI_FN rm_result rmi_sim_finish_homes(rmi_sim *s, uint8_t *declared)
{
    const rm_graph *g = s->g;
    size_t k;
    uint32_t b, i, n = rmi_low_buffers(g);
    memset(declared, 0, n);
    for (k = 0; k < s->p->n_homes; k++) {
        const rmi_home *h = &s->p->homes[k];
        uint32_t str = h->host ? s->hst[h->buf] : s->dev[h->buf];
        rmi_content c = h->host ? s->kept[h->buf] : s->value[h->buf];
        rmi_buf_kind kind = rmi_low_kind(g, h->buf, &i);
        declared[h->buf] |= (uint8_t)(h->host ? 2 : 1);
        if (kind == RMI_BUF_VALUE && g->tensors[i].kind == RMI_INPUT) continue;
        if (str == RMI_NONE || s->str[str].lo != h->offset) return rmi_sim_fail_buf(s, h->buf, "is not at the end where it was at the start");
        if (kind == RMI_BUF_GRAD ? rmi_low_hands_on(s->p->step) && g->tensors[i].consumers.n && !rmi_sim_same(c, rmi_sim_right(s, h->buf)) : !rmi_sim_same(c, rmi_sim_right(s, h->buf)))
            return rmi_sim_fail_buf(s, h->buf, "is not whole and newest at the end where it was at the start");
    }
    for (i = 0; i < g->n_tensors && rmi_low_hands_on(s->p->step); i++) {
        const rmi_tensor *t = &g->tensors[i];
        b = rmi_low_buf(g, RMI_BUF_GRAD, i);
        if (t->kind == RMI_PARAM && t->consumers.n && !t->external && t->grad_bytes && !declared[b]) return rmi_sim_fail_buf(s, b, "has no place where the next step finds it");
    }
    for (b = 0; b < n; b++) {
        if (s->dev[b] != RMI_NONE && !(declared[b] & 1) && !rmi_low_external(g, b)) rmi_sim_drop(s, b);
        if (s->hst[b] != RMI_NONE && !(declared[b] & 2)) rmi_sim_drop_kept(s, b);
    }
    return RM_OK;
}

/* The next batch arrives where the last one did, when that one's last user has finished. */
RMI_FN rm_result rmi_sim_finish_inputs(rmi_sim *s)
{
    size_t k;
    uint32_t i, pass;
    for (pass = 0; pass < 2; pass++)
        for (k = 0; k < s->p->n_homes; k++) {
            const rmi_home *h = &s->p->homes[k];
            uint32_t *at = h->host ? &s->hst[h->buf] : &s->dev[h->buf];
            if (rmi_low_kind(s->g, h->buf, &i) != RMI_BUF_VALUE || s->g->tensors[i].kind != RMI_INPUT) continue;
            if (!pass && *at != RMI_NONE && s->str[*at].lo != h->offset) {
                if (h->host) rmi_sim_drop_kept(s, h->buf);
                else rmi_sim_drop(s, h->buf);
            }
            if (!pass) continue;
            if (*at == RMI_NONE) RMI_TRY(rmi_sim_place(s, h->host, h->buf, h->offset, rmi_low_bytes(s->g, h->buf), at));
            s->str[*at].ready = s->str[*at].busy;
        }
    return RM_OK;
}

RMI_FN rm_result rmi_sim_finish(rmi_sim *s, uint8_t *declared)
{
    if (s->n_dying || s->n_pend) return rmi_sim_fail(s, "a reuse or alias has no run that it belongs to");
    if (s->n_ws) return rmi_sim_fail_buf(s, s->ws_live[0], "is never freed");
    RMI_TRY(rmi_sim_finish_ops(s));
    RMI_TRY(rmi_sim_finish_grads(s));
    RMI_TRY(rmi_sim_finish_homes(s, declared));
    return rmi_sim_finish_inputs(s);
}

/* --- the whole program */
RMI_FN rm_result rmi_sim_tables(rmi_sim *s)
{
    const rm_graph *g = s->g;
    size_t nb = rmi_low_buffers(g), i, k, cuts[2] = {0, 0}, most;
    s->dev = RMI_NEW(&s->mem, uint32_t, nb);
    s->hst = RMI_NEW(&s->mem, uint32_t, nb);
    s->next_name = RMI_NEW(&s->mem, uint32_t, nb);
    s->value = RMI_NEW(&s->mem, rmi_content, nb);
    s->kept = RMI_NEW(&s->mem, rmi_content, nb);
    s->ws_used = RMI_NEW(&s->mem, uint8_t, (size_t)g->n_ops + g->n_tensors);
    s->version = RMI_NEW(&s->mem, uint32_t, g->n_tensors);
    s->given = RMI_NEW(&s->mem, uint32_t, g->n_tensors);
    s->updated = RMI_NEW(&s->mem, uint8_t, g->n_tensors);
    s->reduced = RMI_NEW(&s->mem, uint8_t, g->n_tensors);
    s->passed = RMI_NEW(&s->mem, uint8_t, g->n_barriers);
    s->ran = RMI_NEW(&s->mem, uint32_t, g->n_ops);
    s->left_by = RMI_NEW(&s->mem, uint32_t, g->n_ops);
    s->bits = RMI_NEW(&s->mem, const char *, g->n_ops);
    s->done_at = RMI_NEW(&s->mem, uint32_t, (size_t)g->n_ops + 1);
    if (!s->dev || !s->hst || !s->next_name || !s->value || !s->kept || !s->ws_used || !s->version || !s->given || !s->updated || !s->reduced || !s->passed || !s->ran || !s->left_by || !s->bits || !s->done_at) return RM_ERROR_MEMORY;
    for (i = 0; i < nb; i++) s->dev[i] = s->hst[i] = s->next_name[i] = RMI_NONE;
    for (i = 0; i < g->n_ops; i++) s->done_at[i + 1] = s->done_at[i] + g->ops[i].grad_in.n;
    s->done = RMI_NEW(&s->mem, uint8_t, s->done_at[g->n_ops]);
    RMI_TRY(rmi_low_access_make(g, &s->mem, &s->acc));
    for (most = g->n_tensors, i = 0; i < g->n_ops; i++)
        if ((size_t)g->ops[i].in.n + 2 * (size_t)g->ops[i].out.n > most) most = (size_t)g->ops[i].in.n + 2 * (size_t)g->ops[i].out.n;
    s->reads = RMI_NEW(&s->mem, uint32_t, 2 * most + 16);
    s->writes = RMI_NEW(&s->mem, uint32_t, 2 * most + 16);
    for (k = 0; k < 2; k++) {
        s->space[k].cut = RMI_NEW(&s->mem, uint64_t, 2 * (s->p->n + s->p->n_homes) + 2);
        if (!s->space[k].cut) return RM_ERROR_MEMORY;
        s->space[k].size = k ? s->p->host : s->p->arena;
    }
    if (!s->done || !s->reads || !s->writes) return RM_ERROR_MEMORY;
    for (i = 0; i < s->p->n_homes; i++) {
        const rmi_home *h = &s->p->homes[i];
        s->space[h->host].cut[cuts[h->host]++] = h->offset;
        s->space[h->host].cut[cuts[h->host]++] = rmi_add(h->offset, rmi_low_bytes(g, h->buf));
    }
    for (i = 0; i < s->p->n; i++) {
        const rmi_stmt *st = &s->p->st[i];
        uint32_t id;
        rmi_buf_kind kind;
        if (st->what != RMI_ALLOC && st->what != RMI_OFFLOAD && st->what != RMI_MERGE) continue;
        k = st->what != RMI_ALLOC;
        kind = rmi_low_kind(g, st->buf, &id);
        s->space[k].cut[cuts[k]++] = st->offset;
        s->space[k].cut[cuts[k]++] = rmi_add(st->offset, !k ? st->bytes : kind == RMI_BUF_SAVED ? st->bytes : rmi_low_bytes(g, st->buf));
    }
    for (k = 0; k < 2; k++) {
        s->space[k].n_cut = cuts[k];
        RMI_TRY(rmi_sch_space_make(&s->mem, &s->space[k]));
    }
    return RM_OK;
}

RMI_FN rm_result rmi_sim_homes(rmi_sim *s)
{
    size_t k;
    uint32_t b, i, nb = rmi_low_buffers(s->g);
    for (b = 0; b < nb; b++)
        if (rmi_low_external(s->g, b)) RMI_TRY(rmi_sim_place(s, 0, b, 0, 0, &s->dev[b]));
    for (k = 0; k < s->p->n_homes; k++) {
        const rmi_home *h = &s->p->homes[k];
        rmi_buf_kind kind = rmi_low_kind(s->g, h->buf, &i);
        uint32_t *at = h->host ? &s->hst[h->buf] : &s->dev[h->buf];
        if (rmi_low_external(s->g, h->buf) || kind > RMI_BUF_STATE || (kind == RMI_BUF_VALUE ? s->g->tensors[i].kind == RMI_ACT : s->g->tensors[i].kind != RMI_PARAM)) return rmi_sim_fail_buf(s, h->buf, "is not something that a step starts with");
        if (*at != RMI_NONE) return rmi_sim_fail_buf(s, h->buf, "is placed twice");
        RMI_TRY(rmi_sim_place(s, h->host, h->buf, h->offset, rmi_low_bytes(s->g, h->buf), at));
    }
    return RM_OK;
}

RMI_FN rm_result rmi_sim_statement(rmi_sim *s, const rmi_stmt *st)
{
    switch ((rmi_what)st->what) {
    case RMI_ALLOC: return rmi_sim_alloc(s, st);
    case RMI_FREE: return rmi_sim_free(s, st->buf);
    case RMI_ALIAS: return rmi_sim_alias(s, st->buf, st->other);
    case RMI_REUSE: return rmi_sim_reuse(s, st->buf, st->other);
    case RMI_RUN: return rmi_sim_run(s, st->run);
    case RMI_OFFLOAD: return rmi_sim_offload(s, st);
    case RMI_PREFETCH: return rmi_sim_prefetch(s, st->buf);
    case RMI_MERGE: return rmi_sim_merge(s, st);
    default:
        if (s->hst[st->buf] == RMI_NONE) return rmi_sim_fail_buf(s, st->buf, "is not in host memory");
        rmi_sim_drop_kept(s, st->buf);
        return RM_OK;
    }
}

RMI_FN rm_result rmi_sim_steps(rmi_sim *s)
{
    uint64_t ends[3] = {0, 0, 0};
    uint8_t *declared = RMI_NEW(&s->mem, uint8_t, rmi_low_buffers(s->g));
    uint32_t turn, turns = 1, k;
    size_t i;
    if (!declared) return RM_ERROR_MEMORY;
    for (i = 0; i < s->p->n; i++) { /* with the compute lane alone every step is the first one again */
        const rmi_stmt *st = &s->p->st[i];
        if (st->what >= RMI_OFFLOAD || (st->what == RMI_RUN && (st->run.way == RMI_OPT_HOST || st->run.way == RMI_REDUCE))) turns = 3;
    }
    for (turn = 0; turn < turns; turn++) {
        rmi_sim_begin(s);
        for (s->at = 0; s->at < s->p->n; s->at++) RMI_TRY(rmi_sim_statement(s, &s->p->st[s->at]));
        RMI_TRY(rmi_sim_finish(s, declared));
        for (k = 0; k < RMI_LANES; k++) ends[turn] = rmi_max(ends[turn], s->lane[k]);
        if (turn + 1 < turns) { /* figures are those of one step */
            for (k = 0; k < RMI_LANES; k++) s->fig.busy[k] = 0;
            s->fig.recomputed_ns = s->fig.recomputed_runs = s->fig.runs = 0;
        }
    }
    if (ends[turns - 1] > RMI_MAX) return rmi_sim_fail(s, "the times of the plan add up to 2^62 ns or more");
    s->fig.first_ns = ends[0];
    s->fig.time_ns = turns == 1 ? ends[0] : ends[2] - ends[1];
    return RM_OK;
}

/* Replays p. RM_OK: p->fig is filled. Else err holds the fact, and *at the statement (p->n: the end; RMI_NONE: the start). */
RMI_FN rm_result rmi_sch_check(const rm_graph *g, rmi_program *p, rmi_error *err, size_t *at)
{
    rmi_sim s;
    rm_result r;
    memset(&s, 0, sizeof s);
    s.g = g;
    s.p = p;
    s.err = err;
    s.mem = rmi_arena_make(&g->mem.hooks);
    s.free_str = RMI_NONE;
    s.at = (size_t)RMI_NONE;
    r = rmi_sim_tables(&s);
    if (r == RM_OK) r = rmi_sim_homes(&s);
    if (r == RM_OK) r = rmi_sim_steps(&s);
    s.fig.arena_top = s.space[0].top;
    s.fig.live_bytes = s.space[0].peak;
    s.fig.host_top = s.space[1].top;
    if (r == RM_OK) p->fig = s.fig;
    if (at) *at = s.at;
    if (r == RM_ERROR_MEMORY) rmi_err_memory(err);
    rmi_arena_free(&s.mem);
    return r;
}

/* =====================================================================================================================
   >>public - entry points: check arguments, delegate
   ================================================================================================================== */
RMDEF const char *rm_result_name(rm_result r)
{
#define RMI_RESULT_NAME(name, text) #name,
    static const char *const names[] = {RM_RESULTS(RMI_RESULT_NAME) "RM_RESULT_UNKNOWN"};
#undef RMI_RESULT_NAME
    return names[(unsigned)r < (unsigned)RM_RESULT_COUNT ? (unsigned)r : (unsigned)RM_RESULT_COUNT];
}

RMDEF const char *rm_result_text(rm_result r)
{
#define RMI_RESULT_TEXT(name, text) text,
    static const char *const texts[] = {RM_RESULTS(RMI_RESULT_TEXT) "no result of this library"};
#undef RMI_RESULT_TEXT
    return texts[(unsigned)r < (unsigned)RM_RESULT_COUNT ? (unsigned)r : (unsigned)RM_RESULT_COUNT];
}

RMI_FN rm_tensor rmi_handle(uint32_t id)
{
    rm_tensor t;
    t.id = id == RMI_NONE ? 0 : id + 1;
    return t;
}

RMDEF rm_graph *rm_graph_create(const rm_graph_desc *desc)
{
    rmi_arena mem = rmi_arena_make(desc ? &desc->allocator : NULL);
    rm_graph *g = RMI_NEW(&mem, rm_graph, 1);
    if (!g) {
        rmi_arena_free(&mem);
        return NULL;
    }
    g->mem = mem;
    g->sticky.log = g->last.log = desc ? desc->log : NULL;
    g->sticky.log_user = g->last.log_user = desc ? desc->log_user : NULL;
    return g;
}

RMDEF void rm_graph_destroy(rm_graph *g)
{
    rmi_arena mem;
    if (!g) return;
    mem = g->mem; /* the graph lives in its own arena */
    rmi_arena_free(&mem);
}

RMDEF const char *rm_graph_error(const rm_graph *g)
{
    if (!g) return "the graph is NULL: rm_graph_create found no memory";
    return g->sticky.result != RM_OK ? g->sticky.text : g->last.text;
}
RMDEF rm_result rm_graph_result(const rm_graph *g)
{
    if (!g) return RM_ERROR_MEMORY;
    return g->sticky.result != RM_OK ? g->sticky.result : g->last.result;
}

RMDEF rm_tensor rm_input_add(rm_graph *g, const char *name, uint64_t bytes, uint32_t flags)
{
    return rmi_handle(rmi_graph_given(g, name, RMI_INPUT, "input", bytes, flags, RM_INPUT_GRAD | RM_EXTERNAL));
}
RMDEF rm_tensor rm_const_add(rm_graph *g, const char *name, uint64_t bytes, uint32_t flags)
{
    return rmi_handle(rmi_graph_given(g, name, RMI_CONST, "const", bytes, flags, RM_EXTERNAL));
}
RMDEF rm_tensor rm_param_add(rm_graph *g, const rm_param_desc *desc)
{
    if (!desc) {
        if (rmi_graph_open(g, "rm_param_add")) rmi_graph_fail(g, RM_ERROR_ARGUMENT, "rm_param_add: desc is NULL; pass a rm_param_desc with at least bytes");
        return rmi_handle(RMI_NONE);
    }
    return rmi_handle(rmi_graph_add_param(g, desc));
}

RMDEF rm_tensor rm_op_add(rm_graph *g, const rm_kind *kind, const rm_op_desc *desc)
{
    if (!kind || !desc) {
        if (rmi_graph_open(g, "rm_op_add")) rmi_graph_fail(g, RM_ERROR_ARGUMENT, "rm_op_add: kind or desc is NULL; use RM_OP(g, &KIND, .in = { ... })");
        return rmi_handle(RMI_NONE);
    }
    return rmi_handle(rmi_graph_add_op(g, kind, desc));
}

RMDEF rm_tensor rm_op_output(rm_graph *g, rm_tensor t, uint32_t i)
{
    if (!g || g->sticky.result != RM_OK) return rmi_handle(RMI_NONE);
    if (!t.id || t.id > g->n_tensors || g->tensors[t.id - 1].maker == RMI_NONE || i >= g->ops[g->tensors[t.id - 1].maker].out.n) {
        rmi_graph_fail(g, RM_ERROR_GRAPH, "rm_op_output: no op makes the tensor, or the op has no output %u; give its size in .out", (uint64_t)i);
        return rmi_handle(RMI_NONE);
    }
    return rmi_handle(g->ops[g->tensors[t.id - 1].maker].out.at[i]);
}

RMDEF void rm_variant_add(rm_graph *g, rm_tensor t, const rm_kind *kind, const rm_op_desc *desc)
{
    if (kind && desc) rmi_graph_add_variant(g, t, kind, desc);
    else if (rmi_graph_open(g, "rm_variant_add")) rmi_graph_fail(g, RM_ERROR_ARGUMENT, "rm_variant_add: kind or desc is NULL");
}

/* An activation of an open graph, or an error in the name of `what`. */
RMI_FN rmi_tensor *rmi_activation(rm_graph *g, rm_tensor t, const char *what)
{
    if (!rmi_graph_open(g, what)) return NULL;
    if (!t.id || t.id > g->n_tensors || g->tensors[t.id - 1].kind != RMI_ACT) {
        rmi_graph_fail(g, RM_ERROR_GRAPH, "%s: %s is no activation; pass what RM_OP returned", what, !t.id || t.id > g->n_tensors ? "none" : g->tensors[t.id - 1].name);
        return NULL;
    }
    return &g->tensors[t.id - 1];
}

RMDEF void rm_grad_bytes(rm_graph *g, rm_tensor t, uint64_t bytes)
{
    rmi_tensor *a = rmi_activation(g, t, "rm_grad_bytes");
    if (!a) return;
    if (bytes != RM_EMPTY && bytes > RMI_MAX) {
        rmi_graph_fail(g, RM_ERROR_GRAPH, "tensor %s: its gradient of %u bytes is not below 2^62", a->name, bytes);
        return;
    }
    a->grad_bytes = bytes == RM_EMPTY ? 0 : bytes;
    a->grad_sized = 1;
}

RMDEF void rm_output_add(rm_graph *g, rm_tensor t)
{
    rmi_tensor *a = rmi_activation(g, t, "rm_output_add");
    if (a) a->is_output = 1;
}

RMDEF void rm_barrier_add(rm_graph *g, const char *name, rm_fn fn, void *user, uint64_t ns)
{
    char *full;
    uint32_t i;
    if (!rmi_graph_open(g, "rm_barrier_add")) return;
    full = rmi_graph_full_name(g, name, "barrier", g->n_barriers);
    if (!full) return;
    for (i = 0; i < g->n_barriers; i++)
        if (!strcmp(g->barriers[i].name, full)) rmi_graph_fail(g, RM_ERROR_GRAPH, "barrier %s: declared twice; give the second another name", full);
    if (!rmi_graph_name_ok(full) || (ns > RMI_MAX && ns != RM_FREE_NS)) rmi_graph_fail(g, RM_ERROR_GRAPH, "barrier '%s': not a name, or its time is not below 2^62 ns", full);
    if (g->sticky.result != RM_OK) return;
    if (!rmi_arena_grow(&g->mem, (void **)&g->barriers, &g->cap_barriers, (size_t)g->n_barriers + 1, sizeof(rmi_barrier))) {
        rmi_graph_memory(g);
        return;
    }
    g->barriers[g->n_barriers].name = full;
    g->barriers[g->n_barriers].fn = fn;
    g->barriers[g->n_barriers].user = user;
    g->barriers[g->n_barriers].ns = ns == RM_FREE_NS ? 0 : ns;
    g->n_barriers++;
}

RMDEF void rm_block_begin(rm_graph *g, const char *name)
{
    if (rmi_graph_open(g, "rm_block_begin")) rmi_graph_begin_block(g, name ? name : "block");
}
RMDEF void rm_block_end(rm_graph *g)
{
    if (rmi_graph_open(g, "rm_block_end")) rmi_graph_end_block(g);
}
RMDEF void rm_graph_any_order(rm_graph *g)
{
    if (rmi_graph_open(g, "rm_graph_any_order")) g->any_order = 1;
}

RMDEF void rm_graph_link(rm_graph *g, uint64_t h2d, uint64_t d2h, uint64_t latency_ns, uint64_t add)
{
    if (!rmi_graph_open(g, "rm_graph_link")) return;
    if (g->has_link || !h2d || !d2h || h2d > RMI_MAX || d2h > RMI_MAX || latency_ns > RMI_MAX || add > RMI_MAX) {
        rmi_graph_fail(g, RM_ERROR_GRAPH, "rm_graph_link: declared twice, or a rate is zero or not below 2^62; give both rates in bytes a second");
        return;
    }
    g->has_link = 1;
    g->link.h2d = h2d;
    g->link.d2h = d2h;
    g->link.latency = latency_ns;
    g->link.add = add ? add : 20000000000u;
}

RMDEF size_t rm_graph_op_count(const rm_graph *g) { return g ? g->n_ops : 0; }
RMDEF size_t rm_graph_tensor_count(const rm_graph *g) { return g ? g->n_tensors : 0; }
RMDEF rm_tensor rm_graph_find(const rm_graph *g, const char *tensor_name)
{
    return rmi_handle(g && tensor_name ? rmi_graph_lookup(g, &g->tensor_map, tensor_name) : RMI_NONE);
}
RMDEF const char *rm_tensor_name(const rm_graph *g, rm_tensor t) { return g && t.id && t.id <= g->n_tensors ? g->tensors[t.id - 1].name : ""; }
RMDEF uint64_t rm_tensor_bytes(const rm_graph *g, rm_tensor t) { return g && t.id && t.id <= g->n_tensors ? g->tensors[t.id - 1].bytes : 0; }

#if defined(_MSC_VER)
#pragma warning(pop)
#endif
#endif /* ROCKMATE_IMPLEMENTATION */
