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
   >>shape     cut points, the chain of stages, groups of ops, classes of equal ones
   >>schedule  the statements of a plan, the simulator of the lanes, the checker of legality
   >>sequence  a list of runs with repeats -> lifetimes and statements; the language solvers speak
   >>chain     exact checkpointing of a chain of stages for every budget at once
   >>block     options of one stage or group: what to keep, with bytes, peaks, times
   >>place     addresses in one arena
   >>refine    whole-graph search: runs with repeats, faster within a limit
   >>bound     lower bounds on memory and time
   >>offload   what to keep, recompute, and move to host memory
   >>plan      passes of a preset, the plan and its figures
   >>lanes     which waits between lanes a program needs, and no more
   >>text      .rmg and .rmp files, the summary
   >>view      a plan for people to look at: why a tensor is where it is, a trace, a picture of memory
   >>threads   the lanes of the host backend as threads (ROCKMATE_THREADS)
   >>exec      walks a plan through a backend; the host backend; profiling
   >>check     finds wrong declarations of kinds
   >>public    entry points: check arguments, delegate
   >>licence   MIT or public domain
*/
/* ==========================================================================================================
   >>manual - what it does, what it does not, concepts, a first model

   1. A first model (C99; compiles and runs as it stands)

      #define ROCKMATE_IMPLEMENTATION
      #include "rockmate.h"
      #include <stdio.h>
      enum { B = 32, D = 16 };                        // batch and width; everything is float
      #define FOR(i, n) for (int i = 0; i < (n); i++)
      static int dense_fwd(const rm_call *c) {        // y = relu(x w)
         const float *x = c->in[0], *w = c->in[1];
         float *y = c->out[0];
         FOR(b, B) FOR(o, D) { float s = 0; FOR(i, D) s += x[b*D+i] * w[i*D+o]; y[b*D+o] = s > 0 ? s : 0; }
         return 0;
      }
      static int dense_bwd(const rm_call *c) {        // din[i] is NULL if nobody wants it
         const float *x = c->in[0], *w = c->in[1], *y = c->out[0], *dy = c->dout[0];
         float *dx = c->din[0], *dw = c->din[1];
         FOR(b, B) FOR(o, D) if (y[b*D+o] > 0) FOR(i, D) {
            if (dx) dx[b*D+i] += dy[b*D+o] * w[i*D+o];
            if (dw) dw[i*D+o] += dy[b*D+o] * x[b*D+i];
         }
         return 0;
      }
      static int mse_fwd(const rm_call *c) {
         const float *y = c->in[0], *t = c->in[1];
         float s = 0;
         FOR(i, B*D) s += (y[i] - t[i]) * (y[i] - t[i]) / B;
         *(float *)c->out[0] = s;
         return 0;
      }
      static int mse_bwd(const rm_call *c) {          // a loss has no dout: it seeds itself
         const float *y = c->in[0], *t = c->in[1];
         FOR(i, B*D) ((float *)c->din[0])[i] += 2 * (y[i] - t[i]) / B;
         return 0;
      }
      static int sgd(const rm_call *c) {
         FOR(i, D*D) ((float *)c->param)[i] -= (float)c->step->lr * ((float *)c->grad)[i];
         return 0;
      }
      static const rm_kind DENSE = { .name = "dense", .forward = dense_fwd, .backward = dense_bwd,
                                     .needs = RM_IN(0) | RM_IN(1) | RM_OUT(0), .flags = RM_ZERO_GRADS };
      static const rm_kind MSE = { .name = "mse", .forward = mse_fwd, .backward = mse_bwd,
                                   .needs = RM_IN(0) | RM_IN(1), .flags = RM_ZERO_GRADS };
      int main(void) {
         float a[B*D], loss;
         rm_plan *p;
         rm_exec *x;
         rm_graph *g = rm_graph_create(NULL);
         rm_tensor in = rm_input_add(g, "in", sizeof a, 0), want = rm_input_add(g, "want", sizeof a, 0);
         rm_tensor w1 = RM_PARAM(g, .name = "w1", .bytes = D*D*4, .update = sgd);
         rm_tensor w2 = RM_PARAM(g, .name = "w2", .bytes = D*D*4, .update = sgd);
         rm_tensor h = RM_OP(g, &DENSE, .name = "fc1", .in = { in, w1 });
         rm_tensor y = RM_OP(g, &DENSE, .name = "fc2", .in = { h, w2 });
         rm_tensor l = RM_OP(g, &MSE, .name = "loss", .in = { y, want }, .out = { sizeof loss });
         rm_output_add(g, l);
         rm_plan_desc budget = { .device_bytes = 16 << 10 };
         if (rm_plan_create(g, &budget, &p) || rm_exec_create(p, NULL, &x)) return puts(rm_graph_error(g)), 1;
         FOR(i, B*D) a[i] = (float)(i * 37 % 19 - 7) / 19;
         rm_exec_write(x, w1, RM_VALUE, 0, a, D*D*4);
         rm_exec_write(x, w2, RM_VALUE, 0, a + 7, D*D*4);
         FOR(n, 100) {
            rm_step s = { .step = (uint64_t)n, .lr = 0.01 };
            rm_exec_write(x, in, RM_VALUE, 0, a, sizeof a);
            rm_exec_write(x, want, RM_VALUE, 0, a, sizeof a);
            if (rm_exec_step(x, &s)) return puts(rm_exec_error(x)), 1;
            rm_exec_read(x, l, RM_VALUE, 0, &loss, sizeof loss);
            if (n % 33 == 0) printf("step %d: loss %g\n", n, loss);
         }
         rm_exec_destroy(x), rm_plan_destroy(p), rm_graph_destroy(g);
         return 0;
      }

   2. What it does not do
   It has no kernels, no tensor arithmetic and no automatic differentiation: forward, backward and update
   are your callbacks. Shapes and types are unknown to it; it counts bytes. Graphs are static: no branches,
   one set of sizes. Only presets with the search (the default is one) run variants; plans with copies do not
   look for a better order of the ops, nor make a value more than once in a backward. One device;
   reductions over ranks are a callback.

   3. Concepts
   tensor   bytes with a name: an input, a param, a const, or what an op makes
   op       a forward and its backward; a kind is its behaviour, shared by any number of ops
   block    a named stretch of ops: names in messages and in the summary, nothing else
   plan     what to run, keep and recompute, and at which address, for one budget; one program for each
            kind of step
   step     one walk over a program: SINGLE, or FIRST, MIDDLE ..., LAST of an accumulation, or FORWARD
   arena    the one piece of device memory in which all lies; its size is the plan's memory, exactly
   lane     what works side by side: compute, copies each way, host, reductions
   Graph, plan, executor: made in this order, destroyed in the reverse one.

   4. Declaring ops
   What saves memory is optional: 0 is the safe default, and leaving it out costs memory, never correctness.
   What a backward did not declare in `needs` arrives as NULL.
   needs       what the backward reads of inputs, outputs, saved. The field that saves most: RM_OUT(0) for
               a relu
   saved       (op) bytes that the forward leaves for its backward: a mask, statistics. Skip them if
               c->saved is NULL
   inplace     output 0 may lie over an input;  over: a gradient over dout or over what its backward reads
               last
   view        output 0 is bytes of an input; no callback. share_grad: gradients equal to dout (a residual
               addition)
   part        the backward in pieces (dX, dW) that run apart, each called with its own gradients in din
   mutates     consts that the first run changes: running statistics. Write through rm_mut, which is NULL
               in a recomputation
   RM_RNG      random numbers: derive them from c->seed, and forward, recomputation, backward agree
   RM_ONCE     never recomputed.   RM_NOGRAD: no backward.   RM_ZERO_GRADS: din arrives zeroed, the
               callback only adds
   Without RM_ZERO_GRADS: din[i] is to be added to if RM_ADDS(c, i), else written whole; it may be NULL
   (not wanted). A forward runs again with c->recompute = 1 and must give the same bits. Do not keep
   pointers from call to call.

   5. Costs and profiling
   Times are in ns: fwd_ns, bwd_ns, again_ns, update_ns. 0 is "to be measured": estimated from bytes until
   rm_exec_profile has timed each callback; RM_FREE_NS is really nothing. Then rm_plan_create again and
   rm_exec_replan: weights are carried over. A model that does not fit is profiled under the plan of its
   smallest budget.

   6. Planning
   rm_plan_desc.device_bytes is the budget for all that lies on the device: weights, states, inputs and
   activations. 0: no limit. Too small: RM_ERROR_INFEASIBLE, with min_bytes in rm_plan_info and in the
   message, a budget that works. A preset says what the planner does: "hiremate" if none is named, which
   searches for up to about a second; others are for less time (rockmate: tens of milliseconds) or to compare
   with (rotor, checkmate, every-block, sqrt ...).
   With rm_plan_desc.host_bytes and a link (rm_graph_link) the default is "offmate", which also moves:
   activations out and back, weights, gradients and states that live in host memory, updates on either side,
   all beside the computation; weights need not fit on the device. link_margin_percent makes its plans bear a slower link.
   rm_preset_name lists them; rm_config is a preset in pieces, to change, switch things off, save and load.
   rm_plan_curve gives the whole trade-off of bytes and time, rm_plan_summary a table for people,
   rm_plan_explain the reasons about one tensor, rm_plan_svg a picture, rm_plan_trace a timeline. The same
   graph and desc give the same plan, everywhere; with the search, after the same calls: what it found with
   less memory stays a candidate. steps = RM_FIRST | RM_MIDDLE | RM_LAST | RM_FORWARD plans accumulation and
   evaluation together; all programs share the addresses of what persists.

   7. Running
   rm_exec_write the inputs before every step, rm_exec_step, rm_exec_read the outputs. What a step needs
   to know (kind, number, lr, seed, your values) goes in with rm_step and is c->step in every callback.
   Accumulate N micro-batches: RM_FIRST, RM_MIDDLE N - 2 times, RM_LAST, which updates; count them in
   rm_step.micro. After an update, or a step that failed, only RM_FIRST begins another. Evaluate: RM_FORWARD,
   also in between. The update of a param may run in the middle of the backward; a
   barrier (rm_barrier_add) waits for all gradients first. rm_exec_save and rm_exec_restore work across
   plans.

   8. Memory
   A step allocates nothing. Give rm_exec_create your own arena in rm_exec_desc (at least
   rm_plan_info.arena_bytes, aligned as the plan: rm_plan_desc.align, 256 by default), or the backend
   allocates one. RM_EXTERNAL tensors are yours (rm_exec_bind) and outside the budget. rm_allocator serves
   the library's own tables, of graph, plan and executor; these are not in the budget.

   9. Checking
   Every plan has passed a checker. Your declarations have not: run rm_exec_check once after changing a
   kind. It finds undeclared reads, writes beyond the bytes, ignored accumulation, recomputations that
   differ, wrong gradients. rm_exec_desc.poison fills dead bytes with NaN.

   10. Text
   rm_graph_write and rm_graph_read: .rmg; rm_plan_write and rm_plan_read: .rmp (docs/formats.md). Both
   can be read and edited by people; a plan from text is checked before it is returned. A graph from text
   has no callbacks: it is planned, not run.

   11. Errors
   Builder mistakes stick to the graph: later calls do nothing, rm_plan_create returns the first,
   rm_graph_error tells it with the op's name. So loops that build models need no checks. All else returns
   rm_result; messages are in rm_graph_error, rm_exec_error. The library neither prints nor aborts, and
   has no global state.

   12. Threads
   Different objects may be used in different threads at once; one object, in one thread at a time.
   rm_plan_create and rm_exec_create write messages to their graph, rm_exec_profile its costs: they count
   as a use of it. Callbacks run in the thread that calls rm_exec_step. With rm_exec_desc.threads copies,
   update_host, add and reduce run in threads of the executor; a step may then end after rm_exec_step has
   returned, and rm_exec_wait waits for it.

   13. Overrides, before the implementation
   ROCKMATE_THREADS: rm_exec_desc.threads may ask for lanes in threads (pthreads or Windows).
   RM_MALLOC(n) and RM_FREE(p) together; RM_ASSERT(c); ROCKMATE_STATIC for static functions, RMDEF for
   another linkage.
   ======================================================================================================== */

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
#if defined(ROCKMATE_STATIC) && (defined(__GNUC__) || defined(__clang__))
#define RMDEF static __attribute__((unused))
#elif defined(ROCKMATE_STATIC)
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

/* Also code of the device, where the compiler knows such a thing. */
#if defined(__CUDACC__)
#define RM_DEVICE_FN static __host__ __device__ inline
#else
#define RM_DEVICE_FN static inline
#endif

/* The random seed of an op in a step; its key is rm_call.seed_key. The host finds it in rm_call.seed. A kernel of a step that a
   device replays by itself (a CUDA graph) computes the same bits from rm_call.device_step. Four rounds of splitmix64. */
RM_DEVICE_FN uint64_t rm_seed(const rm_step *s, uint64_t seed_key)
{
    uint64_t word[4], x = 0;
    int i;
    word[0] = s->seed;
    word[1] = s->step;
    word[2] = s->micro;
    word[3] = seed_key;
    for (i = 0; i < 4; i++) {
        x = (x ^ word[i]) + 0x9E3779B97F4A7C15u;
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
        x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
        x = x ^ (x >> 31);
    }
    return x;
}

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
    uint64_t accum;       /* RM_IN(i): din[i] holds earlier contributions, or zeros */
    uint32_t n_in, n_out;
    uint32_t phase;       /* RM_PHASE_FORWARD ... */
    uint32_t recompute;   /* 1: this forward has run before in this step; nothing but out[], saved and ws may change */
    uint64_t seed;        /* the same for every forward and backward of this op in this step; depends on step, micro, seed, op */
    uint64_t seed_key;    /* this op's own: seed is rm_seed(step, seed_key) */
    int64_t arg[RM_MAX_ARGS];
    double farg[RM_MAX_ARGS];
    void *user;           /* rm_op_desc.user, rm_param_desc.user */
    const rm_step *step;
    const rm_step *device_step; /* the same values where kernels read them, at an address that never changes (rm_backend); NULL on the host */
    void *stream;         /* the backend's, of the lane that this call runs in; NULL on the host */
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
    uint64_t share_grad RM_ZERO; /* RM_IN mask: these inputs' gradients equal dout[0] (a residual addition): never computed, renamed, but computed for x + x */
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
   must be destroyed before it. The first plan seals the graph: afterwards only costs may change, a later declaration is an error that
   sticks (no further plan would have it), and what was planned goes on. */
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

/* The copy engines: bytes a second each way, ns a transfer, bytes a second of additions in host memory (0: 2*10^10). A cost: once
   more after planning, when it has been measured (add 0 then: as it was). */
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
    uint64_t min_bytes;       /* the smallest arena found, be it slow: a budget of this size works (above 1,000 ops, after success: up to twice as slow). 0 after RM_ERROR_INFEASIBLE: it is host memory that is too small */
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
    uint64_t h2d_bytes, d2h_bytes; /* copied in a step */
    uint64_t busy_ns[5];           /* of each lane, by RM_LANE_COMPUTE ..., in a step */
    uint32_t blocks, classes; /* stages of the chain between cut points; how many differ */
    uint32_t step;            /* RM_SINGLE ... */
    uint32_t estimated;       /* 1: some costs were neither given nor measured */
} rm_plan_info;

/* Passes of the planner: each gives candidates, the fastest that fits wins. Everything once is always one of them. */
#define RM_PASS_SEGMENTS 1u /* checkpoints at the borders of segments of rm_config.segment stages (Chen et al. 2016) */
#define RM_PASS_GREEDY 2u   /* a checkpoint whenever what is kept since the last one reaches a threshold; many thresholds (Chen) */
#define RM_PASS_KINDS 4u    /* ops that match rm_config.kinds are recomputed before their backward, all others kept */
#define RM_PASS_CHAIN 8u    /* the best checkpoints between cut points, for every budget at once (rotor) */
#define RM_PASS_SEARCH 16u  /* whole-graph search: single values, variants, any order; from the other passes' plans */
#define RM_PASS_OPTIONS 32u /* as RM_PASS_CHAIN, and a stage may keep part of what its backward reads (rk-rotor) */
#define RM_PASS_STREAM 64u  /* weights, gradients, states at home in host memory, streamed layer by layer; updates there where they can be */
#define RM_PASS_LINK 128u    /* what fits the link's free time goes to host memory and comes back; nothing is recomputed */
#define RM_PASS_BLOCKS 256u  /* every stage recomputed from its input, which goes to host memory */
#define RM_PASS_GROUPS 1024u /* neighbouring ops that belong together, with options, as one op with variants; search over these */
#define RM_PASS_OFFLOAD 512u /* search for what to keep, recompute and move, of every tensor; where weights live, where updates run */

/* Switches, to see what a freedom is worth. The bounds in rm_plan_info are then those of plans without it. */
#define RM_NO_RECOMPUTE 1u /* every op once */
#define RM_NO_VARIANTS 2u  /* every op as declared */
#define RM_NO_REORDER 4u   /* ops run for the first time in the order of declaration, backwards in reverse */
#define RM_NO_INPLACE 8u   /* no output over an input, no gradient over dead bytes (rm_kind.inplace, over) */

/* What the planner does: start from a preset (rm_config_preset) and change what you like. A plain struct: it owns nothing. */
typedef struct rm_config {
    char name[32] RM_ZERO;    /* of the preset it came from, for messages */
    uint32_t passes RM_ZERO;  /* RM_PASS_CHAIN | ...; 0: every op once */
    uint32_t off RM_ZERO;     /* RM_NO_RECOMPUTE | ... */
    uint32_t segment RM_ZERO; /* stages in a segment; 0: about the root of their number */
    uint32_t group RM_ZERO;   /* ops in a group, at most; 0: 12 */
    uint32_t gap_ppm RM_ZERO; /* the search stops that close to the bound (parts per million) */
    uint64_t work RM_ZERO;    /* of the search: runs that it may look at, some 25 ns each; a list of n runs costs up to 2 n. 0: 90,000 for each
                               run of keep-everything, four times that with variants, but at most 40 million, about a second */
    char kinds[256] RM_ZERO;  /* patterns, with commas: of a kind's name, an op's, or the last word of an op's; * is any text */
} rm_config;

/* Sets all of *c to a preset; RM_ERROR_ARGUMENT if there is none of that name. rm_preset_name lists them: NULL after the last;
   *help (may be NULL) gets one line about it. */
RMDEF rm_result rm_config_preset(const char *name, rm_config *c);
RMDEF const char *rm_preset_name(size_t i, const char **help);

/* The text form (docs/formats.md): "rockmate config 1", then key=value lines; preset=NAME may come first and sets all of them.
   Writing and reading gives the same struct. RM_ERROR_TEXT: *c is as it was, and message (message_bytes long with its zero; may be NULL) says line:column, found, expected. */
RMDEF rm_result rm_config_read(const char *text, size_t length, rm_config *c, char *message, size_t message_bytes);
RMDEF rm_result rm_config_write(const rm_config *c, rm_write_fn write, void *user);

typedef struct rm_plan_desc {
    uint64_t device_bytes RM_ZERO;  /* the budget: everything placed on the device. 0: no limit */
    uint64_t host_bytes RM_ZERO;    /* host memory that the plan may use; 0: none */
    uint32_t steps RM_ZERO;         /* RM_SINGLE | ...: the programs to make; they share the addresses of what persists. 0: RM_SINGLE */
    uint32_t align RM_ZERO;         /* of every buffer, a power of two; 0: 256 */
    const char *preset RM_ZERO;     /* a name that rm_preset_name lists; NULL: "hiremate", or "offmate" if
                               there is host memory and a link (rm_graph_link) */
    const rm_config *config RM_ZERO; /* instead of a preset; read during the call only */
    uint32_t live_only RM_ZERO;     /* 1: the budget is for the sum of live bytes, no addresses: to compare with the literature, not to run */
    uint32_t tolerance_ppm RM_ZERO; /* chain tables may lose this much time (parts per million). 0: exact while it is quick */
    rm_plan_info *info RM_ZERO;     /* filled if not NULL, also when the budget is infeasible */
    int (*progress)(void *user, const rm_progress *p) RM_ZERO; /* called now and then, every 10 ms or so while solvers work, and with every better
                               plan. Nonzero: stop, with the best plan so far or RM_ERROR_CANCELLED; then it is not called again */
    void *progress_user RM_ZERO;
    uint64_t work_limit RM_ZERO; /* instead of rm_config.work; 0: that */
    const rm_plan *like RM_ZERO; /* a plan of the same graph: what persists is where its first program has it (micro-steps planned apart). NULL: free */
    uint32_t link_margin_percent RM_ZERO; /* plans with copies count on that much less than the link's speed (0 to 90): 5 costs little, and
                               a link that is 5 % slower than declared then stalls nothing */
    uint64_t limit_ns RM_ZERO; /* of the search: wall-clock time to end after, once there is a plan; work 0 is then no limit.
                               With a clock the same call may give different plans. 0: none */
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

/* About one tensor, in the plan's first program, a few lines for people: when it is on the device, how often it is recomputed or
   copied and what that costs, what else is there at the fullest moment that it spans, what letting go of it there would save and
   cost, or keeping it; and what a byte more is worth (from the curve: the next point's time gained, by its bytes). */
RMDEF rm_result rm_plan_explain(const rm_plan *p, rm_tensor t, rm_write_fn write, void *user);

/* One program over time, in the steady state, as simulated. A trace: JSON that ui.perfetto.dev and chrome://tracing show, a track
   for each lane and a counter of live bytes. A picture: SVG, time by address in the arena, coloured by what is there; a browser
   shows names under the pointer. step 0: the first program. */
RMDEF rm_result rm_plan_trace(const rm_plan *p, uint32_t step, rm_write_fn write, void *user);
RMDEF rm_result rm_plan_svg(const rm_plan *p, uint32_t step, rm_write_fn write, void *user);

/* .rmp (docs/formats.md): one program of the plan; or a plan of one program, checked against g before it is returned. */
RMDEF rm_result rm_plan_write(const rm_plan *p, uint32_t step, rm_write_fn write, void *user);
RMDEF rm_result rm_plan_read(rm_graph *g, const char *text, size_t length, rm_plan **out);

/* --- addresses alone --------------------------------------------------------------------------------------------------- */

/* Something that lives during [start, end), in any unit, and takes size bytes at offset. */
typedef struct rm_place_item {
    uint64_t start, end;
    uint64_t size;
    uint64_t offset; /* out */
} rm_place_item;

/* Gives n items offsets, multiples of align (any number; 0: 1), so that what lives at the same time does not overlap, and looks for
   a small height. It stops as soon as that is at most `capacity` (0: the bound, the largest sum of what is alive together: no
   placement is lower) or when its fixed number of steps is used up: compare *height with the capacity. height and bound may be
   NULL, and so may hooks. RM_ERROR_ARGUMENT: an interval is empty, or the sizes add up to 2^62 or more. */
RMDEF rm_result rm_place(const rm_allocator *hooks, rm_place_item *items, size_t n, uint64_t align, uint64_t capacity, uint64_t *height, uint64_t *bound);

/* --- executor ---------------------------------------------------------------------------------------------------------- */

/* Which buffer of a tensor. */
#define RM_VALUE 0u
#define RM_GRAD 1u
#define RM_STATE 2u

/* What works side by side, each in the order in which it is given work. COMPUTE: forwards, backwards, updates, fills. H2D, D2H:
   copies. HOST: updates and additions in host memory. COMM: reductions. CALLER is the thread that calls the executor. */
#define RM_LANE_COMPUTE 0u
#define RM_LANE_H2D 1u
#define RM_LANE_D2H 2u
#define RM_LANE_HOST 3u
#define RM_LANE_COMM 4u
#define RM_LANE_CALLER 5u /* rm_backend.wait only */

/* What rm_backend.begin answers. */
#define RM_ISSUE 0u   /* the step is issued to the lanes */
#define RM_CAPTURE 1u /* it is issued, and the backend keeps it: end() starts it */
#define RM_REPLAY 2u  /* it is not issued: end() starts what was kept of this program */

/* How the executor reaches memory and lanes. All policy is in the plan: a backend only does. Each int is 0 for success.
   alloc and release (needless where rm_exec_desc gives the memory), copy, fill and sync; none of them: the host backend.

   Lanes. reserve, record and wait, or none of them: without them each call has done its work when it returns. With them copy, fill
   and callbacks may return at once, their work being done later and in order, lane by lane. Between lanes only what the executor
   says is enforced: `record` marks an event behind what its lane has been given so far, `wait` holds back what its lane (or the
   caller) is given from now on until the event, as it was last recorded, has happened. Each wait is needed: what program order and
   other waits imply is left out. The executor waits for the end of the step before last before it issues one, so no more than
   two steps are in flight, and takes care of what one step leaves to the next in bytes that both use.
   COMM callbacks are called as they are issued, with comm_stream; HOST ones (and others that call_lanes names) go through host_call.

   Steps. begin and end stand around what a step issues; a backend may keep (capture) that and start it again later: calls have the
   same arguments each time, but for rm_step: kernels find it at device_step, which begin brings up to date. In a step that is kept
   no wait refers to what was recorded before begin. Before and after such a step the backend joins all lanes: nothing of it
   starts before what was issued earlier is done, nothing issued after end starts before it is done. */
typedef struct rm_backend {
    void *user RM_ZERO;
    int (*alloc)(void *user, uint64_t bytes, uint32_t host, void **out) RM_ZERO; /* host 0: the arena; 1: host memory. Once each */
    void (*release)(void *user, void *p, uint32_t host) RM_ZERO;
    /* RM_LANE_H2D, RM_LANE_D2H, RM_LANE_COMPUTE. One side may be the caller's memory: then sync, or a wait of CALLER,
       follows before it is used again */
    int (*copy)(void *user, void *dst, const void *src, uint64_t bytes, uint32_t lane) RM_ZERO;
    int (*fill)(void *user, void *dst, uint32_t byte, uint64_t bytes) RM_ZERO; /* on the device, in the compute lane */
    int (*sync)(void *user) RM_ZERO;                                          /* everything issued has been done, in every lane */
    uint64_t (*now)(void *user) RM_ZERO;                                      /* ns, for rm_exec_profile; may be NULL */
    void *stream RM_ZERO; /* handed to callbacks in the compute lane */
    /* Lanes */
    /* events 0 to events - 1 will be used, and no lane has more than `calls` calls (copy, fill, wait, host_call) in
       flight. Again after rm_exec_replan and rm_exec_bind, when all lanes are idle: what was kept of programs is void
       then */
    int (*reserve)(void *user, uint32_t events, uint32_t calls) RM_ZERO;
    int (*record)(void *user, uint32_t event, uint32_t lane) RM_ZERO;
    int (*wait)(void *user, uint32_t event, uint32_t lane) RM_ZERO;
    /* calls fn on the host, in lane order. Its nonzero result comes back from a later call here (sync at the latest),
       which forgets it then. Needed if a plan uses the host lane */
    int (*host_call)(void *user, uint32_t lane, int (*fn)(void *arg), void *arg) RM_ZERO;
    uint32_t call_lanes RM_ZERO;  /* 1u << RM_LANE_COMM, 1u << RM_LANE_COMPUTE: callbacks of that lane go through host_call as well */
    void *comm_stream RM_ZERO;    /* handed to reductions */
    /* Steps; all optional */
    /* program: its number in the plan. *answer comes in as RM_ISSUE. NULL: this step (of rm_exec_profile) is issued in
       any case */
    int (*begin)(void *user, uint32_t program, const rm_step *s, uint32_t *answer) RM_ZERO;
    /* *answer: begin's; failed: the op or buffer at which issuing stopped, or NULL. What could not be kept, and has
       not run, is begun and issued again if *answer is set to RM_ISSUE */
    int (*end)(void *user, uint32_t program, uint32_t *answer, const char *failed) RM_ZERO;
    int (*after)(void *user, uint32_t lane, const rm_call *call) RM_ZERO; /* a callback that is not called through host_call has returned 0; nonzero blames its op */
    const rm_step *device_step RM_ZERO;
    /* Time; optional, both or neither: record and read the time of two points in the compute lane, for rm_exec_profile */
    int (*mark)(void *user, uint32_t i) RM_ZERO;         /* i: 0 or 1 */
    int (*marked)(void *user, uint64_t *ns) RM_ZERO;     /* from mark 0 to mark 1, after sync */
    const char *(*error_text)(void *user, int code) RM_ZERO; /* the backend's words for a code that it returned; they go into messages */
} rm_backend;

typedef struct rm_exec_desc {
    void *device_memory RM_ZERO;       /* the arena: at least the plan's bytes, aligned to its alignment. NULL: the backend allocates */
    uint64_t device_memory_bytes RM_ZERO;
    void *host_memory RM_ZERO;         /* the same for host memory */
    uint64_t host_memory_bytes RM_ZERO;
    const rm_backend *backend RM_ZERO; /* copied; NULL: the host backend */
    uint32_t poison RM_ZERO;           /* 1: freed and fresh buffers are filled with 0xFF (NaN in every float format): a debugging aid */
    rm_fn reduce RM_ZERO;              /* reduction of c->grad over ranks, for params that are reduced. NULL: one rank, nothing to do */
    void *reduce_user RM_ZERO;         /* c->user of reduce */
    void (*add)(void *dst, const void *src, uint64_t bytes, rm_tensor param, void *user) RM_ZERO; /* host additions of plans that merge */
    void *add_user RM_ZERO;
    rm_allocator allocator RM_ZERO;    /* of the executor's own tables and, on the host backend, of both memories */
    uint32_t threads RM_ZERO;          /* host backend, with ROCKMATE_THREADS: 1: the lanes of copies, host and comm are threads; reduce, add and update_host are called there */
    uint64_t h2d RM_ZERO, d2h RM_ZERO; /* with threads: copies take as long as on a link of so many bytes a second; 0: as memory does */
    uint64_t latency_ns RM_ZERO;       /* and so much more each, where h2d or d2h is given */
} rm_exec_desc;

/* The plan must outlive the executor (or be replaced by rm_exec_replan). What persists starts as zeros. On failure *out is NULL
   and the reason is in rm_graph_error of the plan's graph. Steps, reads and writes allocate nothing afterwards; rm_exec_profile, rm_exec_check and rm_exec_replan do, for as long as they run. */
RMDEF rm_result rm_exec_create(rm_plan *p, const rm_exec_desc *desc, rm_exec **out);
RMDEF void rm_exec_destroy(rm_exec *x);
RMDEF const char *rm_exec_error(const rm_exec *x); /* of the last call that failed, or "" */

/* Memory of what was declared RM_EXTERNAL; must stay valid until bound anew. */
RMDEF rm_result rm_exec_bind(rm_exec *x, rm_tensor t, uint32_t what, void *memory);

/* What persists (consts, params, states, gradients of params), inputs, and declared outputs, by handle, wherever they live:
   `bytes` bytes from `offset` on. Between steps only. rm_exec_read of an output or of a gradient: as the last step left it; a gradient
   that this step has used for an update is gone. */
RMDEF rm_result rm_exec_write(rm_exec *x, rm_tensor t, uint32_t what, uint64_t offset, const void *src, uint64_t bytes);
RMDEF rm_result rm_exec_read(rm_exec *x, rm_tensor t, uint32_t what, uint64_t offset, void *dst, uint64_t bytes);

/* Its address right now, valid until the next call on x; NULL if it is nowhere (rm_exec_error says why). An input counts as
   written by this call: a step uses inputs up, and one that is not given anew is an error of the next step. */
RMDEF void *rm_exec_pointer(rm_exec *x, rm_tensor t, uint32_t what);

/* One step of kind s->kind, for which the plan must have a program; s NULL: a step of zeros. A callback's nonzero return stops it:
   RM_ERROR_CALLBACK, the message names op and phase; what the updates of that step already wrote stays written, and the next step
   starts clean. RM_MIDDLE and RM_LAST after an update, or after a step that failed, have nothing to add to: RM_ERROR_ARGUMENT, unless
   gradients were given with rm_exec_write.
   With a backend that has lanes the step may still be at work when this returns; a failure in a lane is then returned by a later
   call. rm_exec_write of an input and rm_exec_read of an output wait for the compute lane, all other calls for everything. */
RMDEF rm_result rm_exec_step(rm_exec *x, const rm_step *s);

/* Waits until every lane has finished, and returns the first failure that no call has returned yet. */
RMDEF rm_result rm_exec_wait(rm_exec *x);

/* Params, consts and states, to a sink and back (any plan of the same graph, any budget). A restore is all or nothing. */
RMDEF rm_result rm_exec_save(rm_exec *x, rm_write_fn write, void *user);
RMDEF rm_result rm_exec_restore(rm_exec *x, const void *data, size_t bytes);

/* Goes on with another plan of the same graph: what persists is carried over, and amid an accumulation the gradients added up so
   far (the plan must then have a program for RM_MIDDLE or RM_LAST). On failure x is as it was. Where the backend has no room for both
   arenas at once, what persists waits in the library's own memory. */
RMDEF rm_result rm_exec_replan(rm_exec *x, rm_plan *p);

/* Runs `repeats` steps as s says (with the inputs as written), times every callback and stores medians, equal ops together,
   as the graph's costs; then puts back all that persists. An update without a cost that the plan runs on the other side only is
   timed on zeros in host memory of its own (a device's own update is not). Needs no more device memory than the plan: a model that does not
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
   RM_ERROR_CHECK: rm_exec_error names op, fact and remedy. Leaves all that persists as it was. Host backend only. What a callback
   does through a NULL pointer it cannot catch: a forward that writes c->saved, or a backward din[i], without asking whether it is
   NULL crashes in the check as it would in a step. A debugger then names it. What is not declared is there, but other: a backward
   that chooses by which pointers are NULL is taken for one that reads it; give variants callbacks of their own. */
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
#include <time.h>

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
#define RMI_COLD __attribute__((unused, noinline)) static /* called rarely from many places: compiled once */
#else
#define RMI_UNUSED
#define RMI_COLD static
#endif
#if defined(_MSC_VER)
#pragma warning(push)
#pragma warning(disable : 4505) /* an unused static function */
#endif
#define RMI_FN RMI_UNUSED static
#define RMI_INLINE RMI_UNUSED static inline /* small, and called where time is spent */

/* Compilers would spend seconds at -O2 on what gains nothing by it. Solvers get what makes their loops fast, which is little
   more than -O1; rooms that run once a model less, rooms of text and calls nothing. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__OPTIMIZE__) && !defined(__CUDACC__)
#define RMI_SOLVERS_BEGIN _Pragma("GCC push_options") _Pragma("GCC optimize (\"O1,inline-small-functions,strict-aliasing,tree-loop-vectorize,tree-slp-vectorize\")")
#define RMI_SOLVERS_END _Pragma("GCC pop_options")
#define RMI_PLAIN_BEGIN _Pragma("GCC push_options") _Pragma("GCC optimize (\"O1,no-inline-functions-called-once\")")
#define RMI_PLAIN_END _Pragma("GCC pop_options")
#define RMI_TEXT_BEGIN _Pragma("GCC push_options") _Pragma("GCC optimize (\"O0\")")
#define RMI_TEXT_END _Pragma("GCC pop_options")
#elif defined(__clang__) && defined(__OPTIMIZE__)
#define RMI_PLAIN_BEGIN _Pragma("clang optimize off")
#define RMI_PLAIN_END _Pragma("clang optimize on")
#define RMI_TEXT_BEGIN RMI_PLAIN_BEGIN
#define RMI_TEXT_END RMI_PLAIN_END
#else
#define RMI_PLAIN_BEGIN
#define RMI_PLAIN_END
#endif
#ifndef RMI_TEXT_BEGIN
#define RMI_TEXT_BEGIN
#define RMI_TEXT_END
#endif
#ifndef RMI_SOLVERS_BEGIN
#define RMI_SOLVERS_BEGIN
#define RMI_SOLVERS_END
#endif
RMI_SOLVERS_BEGIN

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
RMI_COLD uint64_t rmi_mul_div_up(uint64_t a, uint64_t b, uint64_t c)
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
RMI_COLD uint64_t rmi_fnv(uint64_t h, const void *data, size_t bytes)
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

/* A clock: monotonic where the headers offer one, else what C99 has. */
RMI_FN uint64_t rmi_now_ns(void)
{
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

/* --- being asked to stop: a solver tells what work it has done, and every so often the caller's question is put. When the
   answer is yes it ends with what it has, or RM_ERROR_CANCELLED. NULL: a caller who never stops anything. */
#define RMI_STOP_EVERY 1000000u /* steps of about 10 ns */
typedef struct rmi_stop {
    int (*ask)(void *user); /* nonzero: stop */
    void *user;
    uint64_t done;          /* steps since the last question */
    int stopped;
} rmi_stop;

RMI_COLD int rmi_stopped(rmi_stop *s, uint64_t steps)
{
    if (!s || s->stopped) return s != NULL;
    s->done += steps;
    if (s->done < RMI_STOP_EVERY) return 0;
    s->done = 0;
    return s->stopped = s->ask(s->user) != 0;
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
    rmi_stop *stop; /* goes with the hooks to a solver that is lent the arena; may be NULL */
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
RMI_COLD rmi_arena rmi_arena_make(const rm_allocator *hooks)
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

RMI_COLD void rmi_arena_free(rmi_arena *a)
{
    while (a->blocks) {
        rmi_block *b = a->blocks;
        a->blocks = b->next;
        a->hooks.free(b, a->hooks.user);
    }
}

/* Empties the arena for the next round of the same work: what took many blocks comes in one from then on, which is kept. */
RMI_FN void rmi_arena_clear(rmi_arena *a)
{
    size_t sum = 0;
    rmi_block *b = a->blocks;
    if (!b) return;
    if (!b->next) {
        b->used = 0;
        return;
    }
    for (; b; b = b->next) sum += b->size;
    rmi_arena_free(a);
    a->next_size = sum;
}

/* count * elem zeroed bytes, 16-byte aligned; NULL when memory is out or the product overflows. Never NULL for count 0. */
RMI_COLD void *rmi_arena_get(rmi_arena *a, size_t count, size_t elem)
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

RMI_COLD int rmi_arena_grow_to(rmi_arena *a, void **array, size_t *cap, size_t need, size_t elem)
{
    size_t to = *cap ? *cap : 8;
    void *p;
    while (to < need) to = to > SIZE_MAX / 2 ? need : to * 2;
    p = rmi_arena_get(a, to, elem);
    if (!p) return 0;
    if (*array && *cap) memcpy(p, *array, *cap * elem);
    *array = p;
    *cap = to;
    return 1;
}

/* Makes *array (cap elements of elem bytes, in the arena) hold at least need; what it held is kept, the rest is zero. */
RMI_INLINE int rmi_arena_grow(rmi_arena *a, void **array, size_t *cap, size_t need, size_t elem)
{
    return need <= *cap || rmi_arena_grow_to(a, array, cap, need, elem);
}

/* --- lists of numbers, of a size known when they are made */
typedef struct rmi_list {
    uint32_t *at;
    uint32_t n;
} rmi_list;

RMI_COLD int rmi_list_has(const rmi_list *l, uint32_t t)
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

/* --- sorting: heap sort, in place, no recursion, no allocation, the same order everywhere if cmp is a total order */
typedef int (*rmi_cmp)(const void *a, const void *b, void *user);

RMI_COLD void rmi_swap_bytes(unsigned char *a, unsigned char *b, size_t n)
{
    while (n--) {
        unsigned char t = *a;
        *a++ = *b;
        *b++ = t;
    }
}

RMI_COLD void rmi_sort(void *base, size_t n, size_t elem, rmi_cmp cmp, void *user)
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

RMI_COLD void rmi_put_n(rmi_sink *s, const char *text, size_t n)
{
    if (!s->failed && n && s->write(s->user, text, n)) s->failed = 1;
}
RMI_COLD void rmi_put(rmi_sink *s, const char *text) { rmi_put_n(s, text, strlen(text)); }

/* Decimal digits of v into out (21 bytes at least); returns out. Own code: the same in every locale. */
RMI_COLD char *rmi_u64_text(uint64_t v, char *out)
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
RMI_COLD void rmi_put_u64(rmi_sink *s, uint64_t v)
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
RMI_COLD rm_result rmi_err_vset(rmi_error *e, rm_result r, const char *fmt, va_list args)
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

RMI_COLD rm_result rmi_err_set(rmi_error *e, rm_result r, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    rmi_err_vset(e, r, fmt, args);
    va_end(args);
    return r;
}

RMI_COLD rm_result rmi_err_memory(rmi_error *e)
{
    return rmi_err_set(e, RM_ERROR_MEMORY, "the allocator gave no memory for the library's own tables (not part of the budget)");
}

RMI_TEXT_BEGIN

/* =====================================================================================================================
   >>graph - tensors, ops, variants, blocks; builder and validation
   In: builder calls or the text room. Out: a sealed graph: every derived fact (who has a gradient, who consumes it in which
   order, roots of views, versions of mutated consts) is computed once by rmi_graph_seal and never changes.
   Tensors and ops are numbered in declaration order, which is a valid execution order.
   ================================================================================================================== */
typedef enum rmi_tensor_kind { RMI_INPUT, RMI_PARAM, RMI_CONST, RMI_ACT } rmi_tensor_kind;

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
    uint32_t reader;    /* first op that reads it, itself or through views; RMI_NONE */
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
    uint8_t unmeasured;
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
    uint32_t *form_slot; /* once there are many forms: their names, hashed; form_slots a power of two */
    uint32_t form_slots;
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
    uint32_t outer;       /* of a begin: 1 + the begin mark of the block that it stands in, or 0; of an end: its begin mark */
    uint32_t number;      /* of a begin: blocks of the same name before it in the same block */
    size_t prefix_n;      /* of a begin: length of the prefix before it */
} rmi_mark;

typedef struct rmi_link {
    uint64_t h2d, d2h, latency, add;
} rmi_link;

typedef struct rmi_map { /* names -> numbers, open addressing */
    uint32_t *slot;      /* number + 1 */
    size_t size, used;
} rmi_map;

typedef struct rmi_known { /* a program found before; what it is belongs to the planner */
    struct rmi_known *next;
    rmi_arena mem;
    uint64_t key, bytes, ns;
    void *program;
} rmi_known;

struct rm_graph {
    rmi_arena mem;
    rmi_known *known;
    rmi_error sticky, last;
    rmi_tensor *tensors;
    rmi_op *ops;
    rmi_barrier *barriers;
    rmi_mark *marks;
    uint32_t n_tensors, n_ops, n_barriers, n_marks;
    size_t cap_tensors, cap_ops, cap_barriers, cap_marks;
    rmi_map tensor_map, op_map, block_map; /* block_map: of each name in each block, the latest begin mark */
    rmi_link link;
    uint8_t has_link, any_order, sealed, estimated;
    uint8_t fixed_order; /* of the planner's copy: first runs in the order of declaration, backwards in reverse */
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

/* Where the form of this name stands in the op's map, or would. */
RMI_FN uint32_t *rmi_graph_form_slot(const rmi_op *op, const char *name, size_t n)
{
    size_t i = (size_t)rmi_fnv(RMI_FNV_START, name, n) & (op->form_slots - 1);
    for (; op->form_slot[i]; i = (i + 1) & (op->form_slots - 1)) {
        const char *other = op->forms[op->form_slot[i] - 1].name;
        if (!strncmp(other, name, n) && !other[n]) break;
    }
    return &op->form_slot[i];
}

RMI_FN uint32_t rmi_graph_find_form(const rmi_op *op, const char *name, size_t n)
{
    uint32_t i;
    if (op->form_slots) return *rmi_graph_form_slot(op, name, n) - 1; /* 0 - 1: RMI_NONE */
    for (i = 0; i < op->n_forms; i++)
        if (!strncmp(op->forms[i].name, name, n) && !op->forms[i].name[n]) return i;
    return RMI_NONE;
}

/* Form k is new: few are looked for one by one, many in a map of twice their room. */
RMI_FN int rmi_graph_name_form(rm_graph *g, rmi_op *op, uint32_t k)
{
    uint32_t i = k;
    if (k < 15) return 1;
    if (k >= op->form_slots / 2) {
        op->form_slots = op->form_slots ? 2 * op->form_slots : 64;
        op->form_slot = RMI_NEW(&g->mem, uint32_t, op->form_slots);
        i = 0;
    }
    if (!op->form_slot) op->form_slots = 0;
    for (; i <= k && op->form_slots; i++) *rmi_graph_form_slot(op, op->forms[i].name, strlen(op->forms[i].name)) = i + 1;
    return op->form_slots != 0;
}

/* One form more, a copy of form 0 if there is one. The array doubles whenever its length is a power of two. */
RMI_FN rmi_form *rmi_graph_new_form(rm_graph *g, uint32_t op, const char *name)
{
    rmi_op *o = &g->ops[op];
    uint32_t n = o->n_forms;
    rmi_form *forms = n & (n - 1) ? o->forms : RMI_NEW(&g->mem, rmi_form, n ? 2 * (size_t)n : 1);
    char *copy = rmi_graph_string(g, name);
    rmi_form *f;
    if (!forms || !copy) {
        rmi_graph_memory(g);
        return NULL;
    }
    if (n && forms != o->forms) memcpy(forms, o->forms, n * sizeof(rmi_form));
    f = &forms[n];
    if (n) *f = forms[0];
    f->name = copy;
    f->parts = NULL;
    f->n_parts = f->own_parts = 0;
    if (!n) {
        f->bits = "";
        f->inplace = RMI_NONE;
    }
    o->forms = forms;
    if (!rmi_graph_name_form(g, o, o->n_forms++)) {
        rmi_graph_memory(g);
        return NULL;
    }
    return f;
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
    while (n < RM_MAX_PARTS && k->part[n].grads) n++;
    if (!n) return 1;
    f->parts = RMI_NEW(&g->mem, rmi_part, n);
    if (!f->parts) {
        rmi_graph_memory(g);
        return 0;
    }
    f->n_parts = f->own_parts = n;
    f->unmeasured_bwd = 0;
    if (!d->bwd_ns) f->bwd = 0;
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
        p->bwd = rmi_graph_ns(d->part_ns[i], &p->unmeasured);
        p->bwd_ws = d->part_ws[i] == RM_EMPTY ? 0 : d->part_ws[i];
        f->unmeasured_bwd |= p->unmeasured;
        if (!d->bwd_ns) f->bwd = rmi_add(f->bwd, p->bwd);
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
        rmi_graph_fail(g, RM_ERROR_ARGUMENT, "%s: the graph was sealed by its first plan, write or read, and what it has stands; build a new one, or declare this before planning", what);
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
    if (d->more_in_count > RMI_NONE / 2 || (d->more_in_count && !d->more_in)) {
        rmi_graph_fail(g, RM_ERROR_GRAPH, "op %s: more_in_count is %u, but more_in does not point to so many; set both or neither", op->name, (uint64_t)d->more_in_count);
        return 0;
    }
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
    if (d->more_out_count > RMI_NONE / 2 || (d->more_out_count && !d->more_out)) {
        rmi_graph_fail(g, RM_ERROR_GRAPH, "op %s: more_out_count is %u, but more_out does not point to so many; set both or neither", name, (uint64_t)d->more_out_count);
        return 0;
    }
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

/* x + x: neither share is the gradient of x, only their sum. */
RMI_FN void rmi_graph_drop_repeated(const rmi_list *in, rmi_list *share)
{
    uint32_t i, j, n = 0, seen;
    for (i = 0; i < share->n; i++) {
        for (j = 0, seen = 0; j < in->n; j++) seen += in->at[j] == share->at[i];
        if (seen == 1) share->at[n++] = share->at[i];
    }
    share->n = n;
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
    rmi_graph_drop_repeated(&op->in, &op->share);
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
    if (g->ops[op].n_forms > UINT16_MAX) {
        rmi_graph_fail(g, RM_ERROR_GRAPH, "op %s: it has 65535 variants already; no run can name more", g->ops[op].name);
        return;
    }
    f = rmi_graph_new_form(g, op, k->name);
    if (f) rmi_graph_kind_form(g, op, k, d, f, &g->ops[op].forms[0]);
}

/* --- blocks */
RMI_FN uint32_t rmi_graph_mark(rm_graph *g, const char *name)
{
    char *copy = name ? rmi_graph_string(g, name) : NULL;
    rmi_mark *m;
    if (name && !copy) return RMI_NONE;
    if (!rmi_arena_grow(&g->mem, (void **)&g->marks, &g->cap_marks, (size_t)g->n_marks + 1, sizeof(rmi_mark))) {
        rmi_graph_memory(g);
        return RMI_NONE;
    }
    m = &g->marks[g->n_marks];
    m->name = copy;
    m->op = g->n_ops;
    m->prefix_n = g->prefix_n;
    return g->n_marks++;
}

/* Where the latest block of this name within block `outer` stands in the map of blocks, or would. */
RMI_FN uint32_t *rmi_graph_block_slot(const rm_graph *g, const char *name, uint32_t outer)
{
    const rmi_map *m = &g->block_map;
    size_t i = (size_t)rmi_mix(rmi_fnv(RMI_FNV_START, name, strlen(name)) ^ outer) & (m->size - 1);
    while (m->slot[i] && (g->marks[m->slot[i] - 1].outer != outer || strcmp(g->marks[m->slot[i] - 1].name, name))) i = (i + 1) & (m->size - 1);
    return &m->slot[i];
}

/* Numbers a block that has just begun among those of its name in the block around it. */
RMI_FN int rmi_graph_number_block(rm_graph *g, uint32_t mark)
{
    rmi_map *m = &g->block_map;
    rmi_mark *b = &g->marks[mark];
    uint32_t *slot;
    if (m->used * 2 >= m->size) {
        rmi_map old = *m;
        size_t i;
        m->size = old.size ? old.size * 2 : 64;
        m->slot = RMI_NEW(&g->mem, uint32_t, m->size);
        if (!m->slot) {
            *m = old;
            return 0;
        }
        for (i = 0; i < old.size; i++)
            if (old.slot[i]) *rmi_graph_block_slot(g, g->marks[old.slot[i] - 1].name, g->marks[old.slot[i] - 1].outer) = old.slot[i];
    }
    slot = rmi_graph_block_slot(g, b->name, b->outer);
    b->number = *slot ? g->marks[*slot - 1].number + 1 : 0;
    m->used += !*slot;
    *slot = mark + 1;
    return 1;
}

RMI_FN void rmi_graph_begin_block(rm_graph *g, const char *name)
{
    char digits[24];
    size_t n = strlen(name);
    uint32_t mark;
    if (!rmi_graph_name_ok(name)) {
        rmi_graph_fail(g, RM_ERROR_GRAPH, "block '%s': not a name; take 1 to 255 of A-Z a-z 0-9 _ . / - [ ], and neither 'none' nor 'saved'", name);
        return;
    }
    mark = rmi_graph_mark(g, name);
    if (mark == RMI_NONE) return;
    g->marks[mark].outer = g->n_open ? g->open[g->n_open - 1] + 1 : 0;
    if (!rmi_graph_number_block(g, mark) || !rmi_arena_grow(&g->mem, (void **)&g->prefix, &g->cap_prefix, g->prefix_n + n + sizeof digits + 4, 1) ||
        !rmi_arena_grow(&g->mem, (void **)&g->open, &g->cap_open, g->n_open + 1, sizeof(uint32_t))) {
        rmi_graph_memory(g);
        return;
    }
    rmi_u64_text(g->marks[mark].number, digits);
    g->open[g->n_open++] = mark;
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
    uint32_t begin, end;
    if (!g->n_open) {
        rmi_graph_fail(g, RM_ERROR_GRAPH, "rm_block_end: no block is open; each end needs its rm_block_begin");
        return;
    }
    begin = g->open[--g->n_open];
    g->prefix_n = g->marks[begin].prefix_n;
    end = rmi_graph_mark(g, NULL);
    if (end != RMI_NONE) g->marks[end].outer = begin;
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
                for (p = 0; p < f->n_parts; p++)
                    if (f->parts[p].unmeasured) f->parts[p].bwd = 2 * ns / f->n_parts;
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
        t->reader = RMI_NONE;
        if (t->maker != RMI_NONE && g->ops[t->maker].view != RMI_NONE) t->root = g->tensors[g->ops[t->maker].view].root;
    }
    for (i = 0; i < g->n_ops; i++) {
        rmi_op *op = &g->ops[i];
        op->has_bwd = 0;
        for (k = 0; k < op->in.n; k++) {
            rmi_tensor *of = &g->tensors[g->tensors[op->in.at[k]].root];
            if (of->reader == RMI_NONE) of->reader = i;
        }
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
            if (m->n && m->at[m->n - 1] > i) op->pinned = 1; /* even if it changes the const itself: a third value is neither old nor new */
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
            if (!strcmp(f->parts[i].name, f->parts[k].name)) return rmi_graph_fail(g, RM_ERROR_GRAPH, "op %s: part %s is declared twice; give the second another name", op->name, f->parts[k].name);
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
        f->parts[0].unmeasured = f->unmeasured_bwd;
    }
    return RM_OK;
}

RMI_FN rm_result rmi_graph_check_op(rm_graph *g, rmi_op *op)
{
    uint32_t k;
    RMI_TRY(rmi_graph_check_own(g, op, &op->share, "share_bwd", 1));
    if (op->view != RMI_NONE) {
        const rmi_tensor *of = &g->tensors[op->view], *out = &g->tensors[op->out.at[0]];
        if (op->out.n != 1) return rmi_graph_fail(g, RM_ERROR_GRAPH, "op %s: a view has one output, this has %u; give one size", op->name, (uint64_t)op->out.n);
        if (out->external) return rmi_graph_fail(g, RM_ERROR_GRAPH, "op %s: it is a view, so its bytes are those of %s; drop RM_EXTERNAL, or declare %s with it", op->name, of->name, of->name);
        if (!rmi_list_has(&op->in, op->view)) return rmi_graph_fail(g, RM_ERROR_GRAPH, "op %s: it is a view of %s, which is not one of its inputs", op->name, of->name);
        if (rmi_add(op->view_offset, out->bytes) > of->bytes)
            return rmi_graph_fail(g, RM_ERROR_GRAPH, "op %s: its view ends at byte %u of %s, which has %u; correct its offset or its size", op->name, rmi_add(op->view_offset, out->bytes), of->name, of->bytes);
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

RMI_TEXT_END
RMI_PLAIN_BEGIN

/* =====================================================================================================================
   >>lower - forward, backward and update tasks with their exact read and write sets
   A task is named by a run: which way, of what, in which form (variant) and part. A buffer is a tensor's value, gradient or
   optimizer state, what an op's forward saved, or a workspace; all are numbered densely, so that tables are arrays.
   ================================================================================================================== */
typedef enum rmi_way { RMI_FWD, RMI_BWD, RMI_OPT, RMI_OPT_HOST, RMI_REDUCE, RMI_BARRIER,
               RMI_COPY_OUT, RMI_COPY_IN, RMI_COPY_MERGE, RMI_COPY_DROP, RMI_HOLD } rmi_way; /* the last five: of >>sequence's lists only */

typedef struct rmi_run {
    uint32_t id;   /* op; param of OPT, OPT_HOST, REDUCE; barrier; buffer of copies and HOLD */
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
    default: break;
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

RMI_FN int rmi_low_same_list(const rmi_list *a, const rmi_list *b)
{
    uint32_t i;
    for (i = 0; i < a->n; i++)
        if (!rmi_list_has(b, a->at[i])) return 0;
    return a->n == b->n;
}

RMI_FN int rmi_low_reads_saved(const rmi_op *op, const rmi_form *f)
{
    uint32_t p;
    for (p = 0; p < f->n_parts && f->saved; p++)
        if (f->parts[p].needs_saved && rmi_low_part_wanted(op, &f->parts[p])) return 1;
    return 0;
}

/* Have two forms the same parts? */
RMI_FN int rmi_low_same_parts(const rmi_form *a, const rmi_form *b)
{
    uint32_t p;
    if (a->n_parts != b->n_parts) return 0;
    for (p = 0; p < a->n_parts; p++)
        if (!rmi_low_same_list(&a->parts[p].grads, &b->parts[p].grads)) return 0;
    return 1;
}

/* Do two backwards touch the same, so that they differ in time and workspace only? */
RMI_FN int rmi_low_same_mode(const rmi_op *op, const rmi_form *a, const rmi_form *b)
{
    uint32_t i;
    if (a == b) return 1;
    if (rmi_low_reads_saved(op, a) || rmi_low_reads_saved(op, b) || !rmi_low_same_parts(a, b)) return 0;
    for (i = 0; i < a->n_parts; i++)
        if (!rmi_low_same_list(&a->parts[i].needs, &b->parts[i].needs)) return 0;
    if (a->n_overs != b->n_overs || ((a->flags ^ b->flags) & RM_ZERO_GRADS)) return 0;
    for (i = 0; i < a->n_overs; i++)
        if (a->overs[i].grad_of != b->overs[i].grad_of || a->overs[i].what != b->overs[i].what || (a->overs[i].what == RMI_OVER_TENSOR && a->overs[i].tensor != b->overs[i].tensor)) return 0;
    return 1;
}

/* In form f, has the op's backward a part p that gives something? */
RMI_FN int rmi_low_has_part(const rmi_op *op, uint32_t f, uint32_t p) { return p < op->forms[f].n_parts && rmi_low_part_wanted(op, &op->forms[f].parts[p]); }

/* Parts of the form that has most. */
RMI_FN uint32_t rmi_low_parts(const rmi_op *op)
{
    uint32_t f, n = 0;
    for (f = 0; f < op->n_forms; f++) n = op->forms[f].n_parts > n ? op->forms[f].n_parts : n;
    return n;
}

/* Which step kinds have a backward, update weights, start from earlier contributions, hand contributions on. */
RMI_FN int rmi_low_has_backward(uint32_t step) { return step != RM_FORWARD; }
RMI_FN int rmi_low_has_update(uint32_t step) { return step == RM_SINGLE || step == RM_LAST; }
RMI_FN int rmi_low_adds_to_earlier(uint32_t step) { return step == RM_MIDDLE || step == RM_LAST; }
RMI_FN int rmi_low_hands_on(uint32_t step) { return step == RM_FIRST || step == RM_MIDDLE; }
/* Are params' gradients at a fixed place from start to end? */
RMI_FN int rmi_low_grads_resident(uint32_t step) { return rmi_low_hands_on(step) || rmi_low_adds_to_earlier(step); }

/* What files and messages call a kind of step; NULL: it is none. */
RMI_COLD const char *rmi_low_step_name(uint32_t step)
{
    static const char *const names[RM_STEP_KINDS] = {"single", "first", "middle", "last", "forward"};
    uint32_t i;
    for (i = 0; i < RM_STEP_KINDS && step != RM_SINGLE << i;) i++;
    return i < RM_STEP_KINDS ? names[i] : NULL;
}

/* =====================================================================================================================
   >>shape - cut points, the chain of stages, groups of ops, classes of equal ones
   A cut lies between two ops where a single activation with a gradient crosses; the ops between two cuts are a stage. Values
   that cannot or need not be made twice (outputs, of ops that run once, without gradient and crossing a cut) are carried:
   once made, they stay. Graphs with few cuts are made chains by carrying what lives long as well: skip connections.
   In: a sealed graph. Out: stages, or groups of neighbouring ops; which are equal by structure, sizes and costs, never by names.
   O(ops + edges); groups: O(ops^2) at worst.
   ================================================================================================================== */
typedef struct rmi_stage {
    uint32_t lo, hi;  /* ops [lo, hi) */
    uint32_t in, out; /* the activations that cross before and after it, or RMI_NONE */
    uint32_t cls;     /* stages of one class are equal */
} rmi_stage;

typedef struct rmi_shape {
    rmi_stage *stages;
    uint32_t n, n_classes;
    uint8_t *carried;       /* by buffer: values and saved */
    uint32_t *carried_list;
    uint32_t n_carried;
    uint32_t *last_use;     /* by tensor: the last op that reads it forward; its maker if none does */
    uint8_t *skips;         /* by tensor: an activation with a gradient that is carried because it lives long */
} rmi_shape;


/* --- equality: a run of ops as a row of numbers that mentions no name */
typedef struct rmi_row {
    uint64_t *at;
    size_t n, cap;
} rmi_row;

RMI_FN rm_result rmi_shp_put(rmi_arena *mem, rmi_row *row, uint64_t v)
{
    if (!rmi_arena_grow(mem, (void **)&row->at, &row->cap, row->n + 1, sizeof(uint64_t))) return RM_ERROR_MEMORY;
    row->at[row->n++] = v;
    return RM_OK;
}

/* What tensor t is to the ops [lo, hi): where it comes from, relative to lo, and its sizes. number: of tensors met so far. */
RMI_FN rm_result rmi_shp_put_tensor(rmi_arena *mem, rmi_row *row, const rm_graph *g, uint32_t t, uint32_t lo, uint32_t hi, uint32_t *met, uint32_t *n_met)
{
    const rmi_tensor *x = &g->tensors[t];
    uint64_t flags = (uint64_t)x->kind | (uint64_t)x->external << 4 | (uint64_t)x->has_grad << 5 | (uint64_t)x->is_output << 6 | (uint64_t)x->updates << 7;
    if (!met[t]) met[t] = ++*n_met;
    RMI_TRY(rmi_shp_put(mem, row, met[t]));
    flags |= (uint64_t)(x->maker != RMI_NONE && x->maker >= lo && x->maker < hi) << 8;
    if (x->consumers.n) { /* who contributes before and after these ops decides when its gradient lives */
        flags |= (uint64_t)(x->consumers.at[0] < lo) << 9;
        flags |= (uint64_t)(x->consumers.at[x->consumers.n - 1] >= hi) << 10;
        flags |= (uint64_t)(x->reader < lo) << 11;
    }
    RMI_TRY(rmi_shp_put(mem, row, flags));
    RMI_TRY(rmi_shp_put(mem, row, x->bytes));
    RMI_TRY(rmi_shp_put(mem, row, x->grad_bytes));
    if (x->kind != RMI_PARAM) return RM_OK;
    RMI_TRY(rmi_shp_put(mem, row, x->opt));
    RMI_TRY(rmi_shp_put(mem, row, x->opt_ws));
    return rmi_shp_put(mem, row, x->reduce);
}

RMI_FN rm_result rmi_shp_put_list(rmi_arena *mem, rmi_row *row, const rmi_list *l, const uint32_t *met)
{
    uint32_t i;
    RMI_TRY(rmi_shp_put(mem, row, l->n));
    for (i = 0; i < l->n; i++) RMI_TRY(rmi_shp_put(mem, row, met[l->at[i]]));
    return RM_OK;
}

RMI_FN rm_result rmi_shp_put_form(rmi_arena *mem, rmi_row *row, const rmi_form *f, const uint32_t *met)
{
    uint32_t i;
    uint64_t v[8];
    v[0] = f->fwd, v[1] = f->bwd, v[2] = f->again, v[3] = f->fwd_ws, v[4] = f->bwd_ws, v[5] = f->saved;
    v[6] = f->needs_saved | f->n_parts << 1 | f->n_overs << 16;
    v[7] = f->inplace == RMI_NONE ? 0 : met[f->inplace];
    for (i = 0; i < 8; i++) RMI_TRY(rmi_shp_put(mem, row, v[i]));
    for (i = 0; i < f->n_parts; i++) {
        const rmi_part *p = &f->parts[i];
        RMI_TRY(rmi_shp_put_list(mem, row, &p->needs, met));
        RMI_TRY(rmi_shp_put_list(mem, row, &p->grads, met));
        RMI_TRY(rmi_shp_put(mem, row, p->bwd));
        RMI_TRY(rmi_shp_put(mem, row, p->bwd_ws));
        RMI_TRY(rmi_shp_put(mem, row, p->needs_saved));
    }
    for (i = 0; i < f->n_overs; i++)
        RMI_TRY(rmi_shp_put(mem, row, (uint64_t)met[f->overs[i].grad_of] << 34 | (uint64_t)f->overs[i].what << 32 | (f->overs[i].tensor == RMI_NONE ? 0 : met[f->overs[i].tensor])));
    return RM_OK;
}

/* The row of ops [lo, hi). met: by tensor, all 0, and so again afterwards. */
RMI_FN rm_result rmi_shp_row(rmi_arena *mem, rmi_row *row, const rm_graph *g, uint32_t lo, uint32_t hi, uint32_t *met)
{
    uint32_t i, k, n_met = 0;
    rm_result r = RM_OK;
    row->n = 0;
    for (i = lo; i < hi && r == RM_OK; i++) {
        const rmi_op *op = &g->ops[i];
        r = rmi_shp_put(mem, row, (uint64_t)op->in.n | (uint64_t)op->out.n << 20 | (uint64_t)op->n_forms << 40);
        for (k = 0; k < op->in.n && r == RM_OK; k++) r = rmi_shp_put_tensor(mem, row, g, op->in.at[k], lo, hi, met, &n_met);
        for (k = 0; k < op->out.n && r == RM_OK; k++) r = rmi_shp_put_tensor(mem, row, g, op->out.at[k], lo, hi, met, &n_met);
        for (k = 0; k < op->n_forms && r == RM_OK; k++) r = rmi_shp_put_form(mem, row, &op->forms[k], met);
        if (r == RM_OK) r = rmi_shp_put(mem, row, (uint64_t)(op->flags & ~(uint32_t)RM_RNG) | (uint64_t)op->pinned << 32 | (uint64_t)(op->view == RMI_NONE ? 0 : met[op->view]) << 33);
        if (r == RM_OK) r = rmi_shp_put(mem, row, op->view_offset);
        if (r == RM_OK) r = rmi_shp_put_list(mem, row, &op->share, met);
        if (r == RM_OK) r = rmi_shp_put(mem, row, op->mutates.n);
    }
    for (i = lo; i < hi; i++) {
        for (k = 0; k < g->ops[i].in.n; k++) met[g->ops[i].in.at[k]] = 0;
        for (k = 0; k < g->ops[i].out.n; k++) met[g->ops[i].out.at[k]] = 0;
    }
    return r;
}

/* Classes of n runs of ops [range[2i], range[2i+1]): cls[i] numbers them in order of appearance. Hash first, numbers decide. */
RMI_FN rm_result rmi_shp_classes(rmi_arena *mem, const rm_graph *g, const uint32_t *range, uint32_t n, uint32_t *cls, uint32_t *n_classes)
{
    rmi_arena tmp = rmi_arena_make(&mem->hooks);
    rmi_row row, *rows = RMI_NEW(&tmp, rmi_row, n);
    uint32_t *met = RMI_NEW(&tmp, uint32_t, g->n_tensors), *slot, i, size = 1;
    rm_result r = rows && met ? RM_OK : RM_ERROR_MEMORY;
    memset(&row, 0, sizeof row);
    while (size < 2 * n) size *= 2;
    slot = RMI_NEW(&tmp, uint32_t, size);
    if (!slot) r = RM_ERROR_MEMORY;
    *n_classes = 0;
    for (i = 0; i < n && r == RM_OK; i++) {
        size_t at;
        r = rmi_shp_row(&tmp, &row, g, range[2 * i], range[2 * i + 1], met);
        if (r != RM_OK) break;
        for (at = (size_t)rmi_fnv(RMI_FNV_START, row.at, row.n * sizeof(uint64_t)) & (size - 1); slot[at]; at = (at + 1) & (size - 1)) {
            const rmi_row *o = &rows[slot[at] - 1];
            if (o->n == row.n && !memcmp(o->at, row.at, row.n * sizeof(uint64_t))) break;
        }
        if (!slot[at]) {
            rows[*n_classes] = row;
            slot[at] = ++*n_classes;
            memset(&row, 0, sizeof row);
        }
        cls[i] = slot[at] - 1;
    }
    rmi_arena_free(&tmp);
    return r;
}

/* --- cuts */
RMI_FN void rmi_shp_carry(rmi_shape *s, const rm_graph *g, uint32_t b)
{
    uint32_t t;
    if (rmi_low_kind(g, b, &t) == RMI_BUF_VALUE && g->tensors[t].root != t) rmi_shp_carry(s, g, g->tensors[t].root);
    if (rmi_low_kind(g, b, &t) == RMI_BUF_VALUE && g->tensors[t].kind != RMI_ACT) return;
    if (s->carried[b]) return;
    s->carried[b] = 1;
    s->carried_list[s->n_carried++] = b;
}

/* Where exactly one activation with a gradient crosses, made since the last cut, and no view. */
RMI_FN void rmi_shp_cut(rmi_shape *s, const rm_graph *g)
{
    uint32_t i, k, open = 0, lo = 0, in = RMI_NONE, crossing = RMI_NONE;
    int begun = 0;
    for (i = 0; i < g->n_ops; i++) {
        const rmi_op *op = &g->ops[i];
        begun |= op->has_bwd;
        for (k = 0; k < op->out.n; k++)
            if (g->tensors[op->out.at[k]].has_grad && s->last_use[op->out.at[k]] > i && !s->skips[op->out.at[k]]) {
                open++;
                crossing = op->out.at[k];
            }
        for (k = 0; k < op->in.n; k++) {
            uint32_t t = op->in.at[k], e;
            if (g->tensors[t].kind != RMI_ACT || !g->tensors[t].has_grad || s->last_use[t] != i || s->skips[t]) continue;
            for (e = 0; e < k && op->in.at[e] != t;) e++;
            if (e == k) open--; /* each tensor once */
        }
        if (i + 1 < g->n_ops && !(begun && open == 1 && crossing != RMI_NONE && g->tensors[crossing].maker >= lo && s->last_use[crossing] > i && g->tensors[crossing].root == crossing)) continue;
        s->stages[s->n].lo = lo;
        s->stages[s->n].hi = i + 1;
        s->stages[s->n].in = in;
        s->stages[s->n].out = i + 1 < g->n_ops ? crossing : RMI_NONE;
        in = s->stages[s->n].out;
        lo = i + 1;
        s->n++;
    }
}

RMI_FN void rmi_shp_carry_all(rmi_shape *s, const rm_graph *g)
{
    uint32_t i, k, stage = 0;
    for (i = 0; i < g->n_ops; i++) {
        const rmi_op *op = &g->ops[i];
        while (i >= s->stages[stage].hi) stage++;
        for (k = 0; k < op->out.n; k++) {
            uint32_t t = op->out.at[k];
            if (g->tensors[t].is_output || op->pinned || ((!g->tensors[t].has_grad || s->skips[t]) && s->last_use[t] >= s->stages[stage].hi)) rmi_shp_carry(s, g, t);
        }
        if (op->pinned && op->has_bwd) rmi_shp_carry(s, g, rmi_low_buf(g, RMI_BUF_SAVED, i));
    }
}

RMI_FN rm_result rmi_shp_tables(rmi_arena *mem, const rm_graph *g, rmi_shape *s)
{
    uint32_t i, k;
    memset(s, 0, sizeof *s);
    s->stages = RMI_NEW(mem, rmi_stage, g->n_ops);
    s->carried = RMI_NEW(mem, uint8_t, rmi_low_buffers(g));
    s->carried_list = RMI_NEW(mem, uint32_t, (size_t)g->n_tensors + g->n_ops);
    s->last_use = RMI_NEW(mem, uint32_t, g->n_tensors);
    s->skips = RMI_NEW(mem, uint8_t, g->n_tensors);
    if (!s->stages || !s->carried || !s->carried_list || !s->last_use || !s->skips) return RM_ERROR_MEMORY;
    for (i = 0; i < g->n_tensors; i++) s->last_use[i] = g->tensors[i].maker;
    for (i = 0; i < g->n_ops; i++)
        for (k = 0; k < g->ops[i].in.n; k++) s->last_use[g->ops[i].in.at[k]] = i;
    return RM_OK;
}

/* Carried values and classes of the stages. */
RMI_FN rm_result rmi_shp_finish(rmi_arena *mem, const rm_graph *g, rmi_shape *s)
{
    uint32_t i, *range = RMI_NEW(mem, uint32_t, 2 * (size_t)s->n), *cls = RMI_NEW(mem, uint32_t, s->n);
    if (!range || !cls) return RM_ERROR_MEMORY;
    rmi_shp_carry_all(s, g);
    for (i = 0; i < s->n; i++) {
        range[2 * i] = s->stages[i].lo;
        range[2 * i + 1] = s->stages[i].hi;
    }
    RMI_TRY(rmi_shp_classes(mem, g, range, s->n, cls, &s->n_classes));
    for (i = 0; i < s->n; i++) s->stages[i].cls = cls[i];
    return RM_OK;
}

/* The chain of stages of g, with activations that are read more than `span` ops later carried (RMI_NONE: none); all in mem. */
RMI_FN rm_result rmi_shp_make(rmi_arena *mem, const rm_graph *g, uint32_t span, rmi_shape *s)
{
    uint32_t i;
    RMI_TRY(rmi_shp_tables(mem, g, s));
    for (i = 0; i < g->n_tensors; i++) s->skips[i] = g->tensors[i].kind == RMI_ACT && g->tensors[i].has_grad && s->last_use[i] - g->tensors[i].maker > span;
    rmi_shp_cut(s, g);
    return rmi_shp_finish(mem, g, s);
}

/* --- groups: any graph as neighbouring ops that belong together */

/* Bytes that cross into ops [lo, hi) and out of them, times the root of their number: small is good (HiRemate's score). */
RMI_FN uint64_t rmi_shp_score(const rmi_shape *s, const rm_graph *g, uint32_t lo, uint32_t hi, uint32_t *stamp, uint32_t now)
{
    uint64_t bytes = 0;
    uint32_t i, k, root = 0;
    for (i = lo; i < hi; i++) {
        for (k = 0; k < g->ops[i].in.n; k++) {
            uint32_t t = g->ops[i].in.at[k];
            if (g->tensors[t].kind != RMI_ACT || g->tensors[t].maker >= lo || stamp[t] == now) continue;
            stamp[t] = now;
            bytes = rmi_add(bytes, g->tensors[t].bytes);
        }
        for (k = 0; k < g->ops[i].out.n; k++)
            if (s->last_use[g->ops[i].out.at[k]] >= hi) bytes = rmi_add(bytes, g->tensors[g->ops[i].out.at[k]].bytes);
    }
    while ((uint64_t)(root + 1) * (root + 1) <= (uint64_t)(hi - lo) << 16) root++;
    return rmi_mul(bytes >> 8, root) + root; /* bytes rarely differ by less */
}

/* Groups of at most `most` ops, as stages without input and output: all that crosses between them is carried. Merges the
   neighbours with the best score until none fit, O(ops^2). */
RMI_FN rm_result rmi_shp_groups(rmi_arena *mem, const rm_graph *g, uint32_t most, rmi_shape *s)
{
    uint32_t i, k, n = g->n_ops, now = 0, *end, *stamp = RMI_NEW(mem, uint32_t, g->n_tensors); /* end: by first op of a group */
    uint64_t *score = RMI_NEW(mem, uint64_t, (size_t)n + 1);                                   /* of a group with its next one */
    end = RMI_NEW(mem, uint32_t, (size_t)n + 1);
    RMI_TRY(rmi_shp_tables(mem, g, s));
    if (!stamp || !score || !end) return RM_ERROR_MEMORY;
    for (i = 0; i < n; i++) end[i] = i + 1;
    for (i = 0; i + 1 < n; i++) score[i] = rmi_shp_score(s, g, i, i + 2, stamp, ++now);
    for (;;) {
        uint32_t best = RMI_NONE, before = RMI_NONE, at = RMI_NONE;
        for (i = 0; i < n && end[i] < n; k = i, i = end[i], at = k)
            if (end[end[i]] - i <= most && (best == RMI_NONE || score[i] < score[best])) best = i, before = at;
        if (best == RMI_NONE) break;
        end[best] = end[end[best]];
        if (end[best] < n) score[best] = rmi_shp_score(s, g, best, end[end[best]], stamp, ++now);
        if (before != RMI_NONE) score[before] = rmi_shp_score(s, g, before, end[best], stamp, ++now);
    }
    for (i = 0; i < n; i = end[i], s->n++) {
        s->stages[s->n].lo = i;
        s->stages[s->n].hi = end[i];
        s->stages[s->n].in = s->stages[s->n].out = RMI_NONE;
    }
    for (k = 0; k < s->n; k++)
        for (i = s->stages[k].lo; i < s->stages[k].hi; i++) {
            uint32_t e;
            for (e = 0; e < g->ops[i].out.n; e++) {
                uint32_t t = g->ops[i].out.at[e];
                s->skips[t] = g->tensors[t].has_grad && s->last_use[t] >= s->stages[k].hi;
            }
        }
    return rmi_shp_finish(mem, g, s);
}

RMI_PLAIN_END

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
    uint32_t buf, host;   /* host 1: in host memory; 2: not at home, but its last life has this address (>>sequence) */
    uint64_t offset;
    uint32_t until;       /* host 2: a copy of the step before may read it until after this position */
} rmi_home;

#define RMI_LANES 5

typedef struct rmi_figures {
    uint64_t time_ns, first_ns, recomputed_ns, arena_top, live_bytes, host_top, busy[RMI_LANES], copied[2]; /* copied: to the device, to the host */
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
RMI_COLD const char *rmi_sch_name(const rm_graph *g, uint32_t b, char *out)
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
typedef struct rmi_span { /* when something ran, in the last of the steps that were simulated */
    uint64_t start, end;
    uint32_t lane, ran; /* ran 0: it was not a run or copy */
} rmi_span;

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
    rmi_span *spans; /* two by statement, the second of the host lane; or NULL */
} rmi_sim;

RMI_COLD rm_result rmi_sim_fail(rmi_sim *s, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    rmi_err_vset(s->err, RM_ERROR_PLAN, fmt, args);
    va_end(args);
    return RM_ERROR_PLAN;
}
RMI_COLD rm_result rmi_sim_fail_buf(rmi_sim *s, uint32_t b, const char *fact)
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
    uint32_t str = 0;
    RMI_TRY(rmi_sim_need(s, b, &str));
    s->reads[s->n_reads++] = str;
    return RM_OK;
}
RMI_FN rm_result rmi_sim_write(rmi_sim *s, uint32_t b)
{
    uint32_t str = 0;
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
    if (s->spans) {
        rmi_span *span = &s->spans[2 * s->at + (lane == RM_LANE_HOST)];
        span->start = t;
        span->end = rmi_add(t, ns);
        span->lane = lane;
        span->ran = 1;
    }
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
    uint32_t str = 0;
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
        if ((!rmi_list_has(&op->share, t) && op->view != t) || s->g->tensors[t].grad_bytes != rmi_low_bytes(s->g, dout)) return 0;
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
    uint64_t bytes, ns = 0;
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
    s->fig.copied[1] += bytes;
    s->kept[b] = s->value[b];
    return RM_OK;
}

RMI_FN rm_result rmi_sim_prefetch(rmi_sim *s, uint32_t b)
{
    uint32_t i, str;
    uint64_t ns = 0, end;
    if (s->hst[b] == RMI_NONE || rmi_sim_nothing(s->kept[b])) return rmi_sim_fail_buf(s, b, "is not in host memory");
    RMI_TRY(rmi_sim_at_device(s, b, &str));
    if (s->str[str].first != b || s->next_name[b] != RMI_NONE) return rmi_sim_fail_buf(s, b, "has bytes that another name shares");
    if (rmi_low_kind(s->g, b, &i) != RMI_BUF_GRAD && !rmi_sim_same(s->kept[b], rmi_sim_right(s, b))) return rmi_sim_fail_buf(s, b, "is stale in host memory");
    s->n_reads = s->n_writes = 0;
    s->reads[s->n_reads++] = s->hst[b];
    s->writes[s->n_writes++] = str;
    RMI_TRY(rmi_sim_copy_ns(s, rmi_sim_length(s, b), s->g->link.h2d, &ns));
    end = rmi_sim_work(s, RM_LANE_H2D, ns, 0);
    s->fig.copied[0] += rmi_sim_length(s, b);
    rmi_sim_set(s, b, s->kept[b], end);
    return RM_OK;
}

RMI_FN rm_result rmi_sim_merge(rmi_sim *s, const rmi_stmt *st)
{
    uint32_t b = st->buf, t, str, staging;
    rmi_content mine = s->value[b], theirs = s->kept[b];
    uint64_t bytes, ns = 0;
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
    s->fig.copied[1] += bytes;
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
            s->fig.recomputed_ns = s->fig.recomputed_runs = s->fig.runs = s->fig.copied[0] = s->fig.copied[1] = 0;
        }
    }
    if (ends[turns - 1] > RMI_MAX) return rmi_sim_fail(s, "the times of the plan add up to 2^62 ns or more");
    s->fig.first_ns = ends[0];
    s->fig.time_ns = turns == 1 ? ends[0] : ends[2] - ends[1];
    return RM_OK;
}

/* Replays p. RM_OK: p->fig is filled, and spans, if not NULL (see rmi_sim). Else err holds the fact, and *at the statement
   (p->n: the end; RMI_NONE: the start). */
RMI_FN rm_result rmi_sch_replay(const rm_graph *g, rmi_program *p, rmi_error *err, size_t *at, rmi_span *spans)
{
    rmi_sim s;
    rm_result r;
    memset(&s, 0, sizeof s);
    s.g = g;
    s.p = p;
    s.err = err;
    s.spans = spans;
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
RMI_FN rm_result rmi_sch_check(const rm_graph *g, rmi_program *p, rmi_error *err, size_t *at) { return rmi_sch_replay(g, p, err, at, NULL); }

/* =====================================================================================================================
   >>sequence - a list of runs with repeats -> lifetimes and statements; the language solvers speak
   A solver says in which order tasks run, a forward as often as it likes; everything else follows: an instance of a buffer
   lives from the run that makes it to its last use before it is made again; bytes go on under another name (in place, view,
   shared gradient) wherever the kinds allow it and nobody needs the old content. In: runs. Out: statements whose offsets are
   still numbers of stretches, and the stretches for >>place. Part of a step can be looked at alone (entry, exit), which is how
   stages get their peaks: one rule for prediction and plan. Copies are said in the list, too: COPY_OUT (to host memory, from where
   what the host lacks is made), COPY_IN (a new instance on the device; the old one ended at its last use), COPY_MERGE (a gradient,
   added to its host copy; the device's is gone), COPY_DROP; HOLD makes an instance live until there, as the source of a copy
   must while that lasts (form 1: the staging bytes of its merge; 2: they,
   or those of its copy, are nobody else's, for they are in use when the next step begins). A home on the device that is copied in again ends as any other; the last instance is at the home's
   address. Host copies live from the first COPY_OUT to COPY_DROP or the end, and are stretches of their own. O(accesses).
   ================================================================================================================== */
typedef struct rmi_seq_inst { /* one life of one buffer */
    uint32_t buf, first, last;
    uint32_t again;   /* second write into it, or RMI_NONE */
    uint32_t stretch; /* RMI_NONE: takes no bytes of its own (the caller's, or counted elsewhere) */
    uint32_t sibling; /* further instance on the same stretch */
    uint32_t place;   /* index into homes + 1, or 0: it begins or ends there */
    uint64_t bytes, off;
    uint8_t home;     /* 1: persists; 2: an input; 3: there, and counted elsewhere */
    uint8_t gone;     /* its bytes went on under another name */
    uint8_t spent;    /* merged: its bytes are a copy's source and hold nothing */
    uint32_t staged;  /* where it was merged from, in host memory */
    uint8_t entry;    /* there when the sequence starts */
} rmi_seq_inst;

typedef struct rmi_seq_stretch {
    uint32_t first_pos, end_pos; /* positions of runs, half open */
    uint32_t head;               /* first instance */
    uint32_t home;               /* index into homes + 1, or 0 */
    uint64_t bytes;
} rmi_seq_stretch;

typedef struct rmi_seq_kept { /* one life in host memory, positions [first, end) */
    uint32_t buf, first, end;
    uint32_t home; /* index into homes + 1, or 0 */
    uint64_t bytes;
} rmi_seq_kept;

typedef struct rmi_seq {
    const rm_graph *g;
    rmi_arena *mem;
    uint32_t step, granule;
    const rmi_run *runs;
    uint32_t n;
    /* what is there at the start without being counted (homes), counted (entry), wanted at the end (exit); buffers */
    const rmi_home *homes;
    size_t n_homes;
    const uint32_t *entry, *uncounted, *exit;
    const uint64_t *entry_bytes; /* of the stretches that the entries are in */
    uint32_t n_entry, n_uncounted, n_exit;
    int partial; /* not a whole step: what persists is there and not counted; only exit is wanted at the end */
    int reran;   /* partial: forwards count as recomputations */
    uint32_t *cur; /* per buffer, all RMI_NONE; and so again afterwards */
    uint32_t *ran; /* per op, all 0; and so again afterwards */
    uint32_t *hst; /* per buffer: its life in host memory, all RMI_NONE; and so again afterwards */
    rmi_access acc;
    /* out */
    rmi_seq_inst *inst;
    uint32_t n_inst;
    size_t cap_inst;
    rmi_seq_stretch *str;
    uint32_t n_str;
    size_t cap_str;
    rmi_stmt *st;
    size_t n_st, cap_st;
    rmi_seq_kept *kept; /* host memory */
    uint32_t n_kept;
    size_t cap_kept;
    uint64_t ns;
    /* scratch */
    uint32_t *kept_at; /* by position: the life in host memory that a copy there begins or goes to */
    uint32_t *head_free, *next_free;
    uint32_t n_start; /* instances that are there at the start */
} rmi_seq;

/* Takes no bytes here: the caller's memory, nothing at all, or in a part of a step what persists. Views are names and stay. */
RMI_FN int rmi_seq_ignored(const rmi_seq *q, uint32_t b)
{
    const rm_graph *g = q->g;
    uint32_t i;
    rmi_buf_kind k = rmi_low_kind(g, b, &i);
    if (rmi_low_external(g, b)) return 1;
    if (q->partial) {
        if (k == RMI_BUF_STATE || (k == RMI_BUF_VALUE && g->tensors[i].kind != RMI_ACT)) return 1;
        if (k == RMI_BUF_GRAD && g->tensors[i].kind == RMI_PARAM && rmi_low_grads_resident(q->step)) return 1;
    }
    if (k > RMI_BUF_STATE || rmi_low_bytes(g, b)) return 0;
    return !(k == RMI_BUF_VALUE && g->tensors[i].root != i);
}

RMI_FN rm_result rmi_seq_new_inst(rmi_seq *q, uint32_t b, uint32_t at, uint64_t bytes)
{
    rmi_seq_inst *s;
    if (!rmi_arena_grow(q->mem, (void **)&q->inst, &q->cap_inst, (size_t)q->n_inst + 1, sizeof(rmi_seq_inst))) return RM_ERROR_MEMORY;
    s = &q->inst[q->n_inst];
    s->buf = b;
    s->first = s->last = at;
    s->again = s->stretch = s->sibling = RMI_NONE;
    s->bytes = bytes;
    q->cur[b] = q->n_inst++;
    return RM_OK;
}

RMI_INLINE rm_result rmi_seq_use(rmi_seq *q, uint32_t b, uint32_t at)
{
    if (rmi_seq_ignored(q, b)) return RM_OK;
    if (q->cur[b] == RMI_NONE) return RM_ERROR_INTERNAL; /* a solver's sequence reads what is not there */
    q->inst[q->cur[b]].last = at;
    return RM_OK;
}

RMI_FN rm_result rmi_seq_new_kept(rmi_seq *q, uint32_t b, uint32_t first, uint32_t end, uint64_t bytes)
{
    rmi_seq_kept *k;
    if (!rmi_arena_grow(q->mem, (void **)&q->kept, &q->cap_kept, (size_t)q->n_kept + 1, sizeof(rmi_seq_kept))) return RM_ERROR_MEMORY;
    k = &q->kept[q->n_kept++];
    k->buf = b;
    k->first = first;
    k->end = end;
    k->home = 0;
    k->bytes = bytes;
    return RM_OK;
}

/* Everything that is there when the sequence starts. */
RMI_FN rm_result rmi_seq_start(rmi_seq *q)
{
    size_t i;
    for (i = 0; i < q->n_homes; i++) {
        uint32_t b = q->homes[i].buf, id;
        int input = rmi_low_kind(q->g, b, &id) == RMI_BUF_VALUE && q->g->tensors[id].kind == RMI_INPUT;
        if (q->homes[i].host == 2) continue;
        if (q->homes[i].host) {
            q->hst[b] = q->n_kept;
            RMI_TRY(rmi_seq_new_kept(q, b, 0, q->n + 1, rmi_low_bytes(q->g, b)));
            q->kept[q->n_kept - 1].home = (uint32_t)i + 1;
            continue;
        }
        RMI_TRY(rmi_seq_new_inst(q, b, 0, rmi_low_bytes(q->g, b)));
        q->inst[q->n_inst - 1].home = (uint8_t)(input ? 2 : 1);
        q->inst[q->n_inst - 1].place = (uint32_t)i + 1;
        q->inst[q->n_inst - 1].last = RMI_NONE;
    }
    for (i = 0; i < q->n_uncounted; i++)
        if (!rmi_seq_ignored(q, q->uncounted[i]) && q->cur[q->uncounted[i]] == RMI_NONE) {
            RMI_TRY(rmi_seq_new_inst(q, q->uncounted[i], 0, 0));
            q->inst[q->n_inst - 1].home = 3;
        }
    for (i = 0; i < q->n_entry; i++) {
        uint32_t b = q->entry[i];
        if (rmi_seq_ignored(q, b) || q->cur[b] != RMI_NONE) continue;
        RMI_TRY(rmi_seq_new_inst(q, b, 0, q->entry_bytes[i]));
        q->inst[q->n_inst - 1].entry = 1;
    }
    return RM_OK;
}

RMI_FN int rmi_seq_absent(const rmi_seq *q, uint32_t b) { return q->cur[b] == RMI_NONE || q->inst[q->cur[b]].spent; }

RMI_FN rm_result rmi_seq_use_kept(rmi_seq *q, uint32_t b, uint32_t at)
{
    if (rmi_seq_ignored(q, b)) return RM_OK;
    if (q->hst[b] == RMI_NONE) return RM_ERROR_INTERNAL;
    if (q->kept[q->hst[b]].end <= at) q->kept[q->hst[b]].end = at + 1;
    return RM_OK;
}

/* A copy (or HOLD) at position p. */
RMI_FN rm_result rmi_seq_life_copy(rmi_seq *q, uint32_t p)
{
    uint32_t b = q->runs[p].id, c = q->cur[b], k = q->hst[b], home;
    uint64_t bytes;
    switch ((rmi_way)q->runs[p].way) {
    case RMI_COPY_OUT:
        RMI_TRY(rmi_seq_use(q, b, p));
        if (c != RMI_NONE && k == RMI_NONE) {
            q->hst[b] = k = q->n_kept;
            RMI_TRY(rmi_seq_new_kept(q, b, p, p + 1, q->inst[c].bytes));
        }
        q->kept_at[p] = k;
        return rmi_seq_use_kept(q, b, p);
    case RMI_COPY_IN:
        RMI_TRY(rmi_seq_use_kept(q, b, p));
        bytes = k == RMI_NONE ? 0 : q->kept[k].bytes;
        home = c != RMI_NONE && q->inst[c].home == 1 ? q->inst[c].place : 0;
        if (c != RMI_NONE && q->inst[c].last == RMI_NONE) q->inst[c].last = 0;
        RMI_TRY(rmi_seq_new_inst(q, b, p, bytes));
        q->inst[q->n_inst - 1].home = home != 0; /* if it is the last one */
        q->inst[q->n_inst - 1].place = home;
        return RM_OK;
    case RMI_COPY_MERGE:
        RMI_TRY(rmi_seq_use(q, b, p));
        RMI_TRY(rmi_seq_use_kept(q, b, p));
        if (c != RMI_NONE) q->inst[c].spent = 1;
        q->kept_at[p] = q->n_kept;
        if (c != RMI_NONE) q->inst[c].staged = q->n_kept;
        return rmi_seq_new_kept(q, b, p, p + 1, k == RMI_NONE ? 0 : q->kept[k].bytes);
    case RMI_COPY_DROP:
        RMI_TRY(rmi_seq_use_kept(q, b, p));
        q->hst[b] = RMI_NONE;
        return RM_OK;
    default:
        if (!q->runs[p].form) return rmi_seq_use(q, b, p);
        if ((c == RMI_NONE || !q->inst[c].spent) && q->runs[p].form == 2 && k != RMI_NONE) q->kept[k].first = 0;
        if (c == RMI_NONE || !q->inst[c].spent) return RM_OK;
        q->kept[q->inst[c].staged].end = q->runs[p].form == 2 ? q->n + 1 : p + 1;
        if (q->runs[p].form == 2) q->kept[q->inst[c].staged].first = 0;
        return RM_OK;
    }
}

RMI_FN rm_result rmi_seq_life(rmi_seq *q, uint32_t p)
{
    rmi_run r = q->runs[p];
    rmi_access *a = &q->acc;
    uint32_t i;
    int again = r.way == RMI_FWD && q->ran[r.id]++ > 0;
    if (r.way >= RMI_COPY_OUT) return rmi_seq_life_copy(q, p);
    rmi_low_access(q->g, r, again, a);
    for (i = 0; i < a->n_reads; i++) {
        uint32_t b = a->reads[i];
        int kept = (r.way == RMI_OPT_HOST || (r.way == RMI_BARRIER && rmi_seq_absent(q, b))) && q->hst[b] != RMI_NONE;
        RMI_TRY(kept ? rmi_seq_use_kept(q, b, p) : rmi_seq_use(q, b, p));
    }
    if (r.way == RMI_OPT_HOST) return RM_OK;
    for (i = 0; i < a->n_writes; i++) {
        uint32_t b = a->writes[i], c = q->cur[b];
        if (rmi_seq_ignored(q, b)) continue;
        if (c != RMI_NONE && q->inst[c].home == 3) continue;
        if ((r.way == RMI_FWD && q->g->tensors[b].kind == RMI_ACT) || (r.way == RMI_BWD && rmi_seq_absent(q, b))) {
            RMI_TRY(rmi_seq_new_inst(q, b, p, rmi_low_bytes(q->g, b)));
            continue;
        }
        if (c == RMI_NONE) return RM_ERROR_INTERNAL;
        if (q->inst[c].again == RMI_NONE) q->inst[c].again = p;
        q->inst[c].last = p;
    }
    if (a->saved != RMI_NONE && (q->cur[a->saved] == RMI_NONE || q->inst[q->cur[a->saved]].home != 3)) RMI_TRY(rmi_seq_new_inst(q, a->saved, p, a->saved_bytes));
    return RM_OK;
}

/* Does the step leave this gradient (complete) to whoever comes after it? */
RMI_INLINE int rmi_seq_grad_stays(const rm_graph *g, uint32_t step, uint32_t t)
{
    const rmi_tensor *x = &g->tensors[t];
    if (!x->consumers.n || x->kind == RMI_ACT || !rmi_low_has_backward(step)) return 0;
    return !(x->updates && rmi_low_has_update(step));
}

RMI_FN void rmi_seq_clean(rmi_seq *q)
{
    uint32_t i;
    for (i = 0; i < q->n_inst; i++) q->cur[q->inst[i].buf] = RMI_NONE;
    for (i = 0; i < q->n_kept; i++) q->hst[q->kept[i].buf] = RMI_NONE;
    for (i = 0; i < q->n; i++)
        if (q->runs[i].way == RMI_FWD) q->ran[q->runs[i].id] = 0;
}

/* First pass: who lives from when to when. */
RMI_FN rm_result rmi_seq_lives(rmi_seq *q)
{
    uint32_t p, i;
    RMI_TRY(rmi_seq_start(q));
    q->n_start = q->n_inst;
    for (p = 0; p < q->n; p++) RMI_TRY(rmi_seq_life(q, p));
    for (i = 0; i < q->n_inst; i++) { /* inputs may die early, weights not, unless they are copied in again */
        rmi_seq_inst *s = &q->inst[i];
        if (s->last == RMI_NONE || s->home == 3 || (s->home == 1 && q->cur[s->buf] == i)) s->last = q->n; /* an input that nobody reads stays where it is */
        else if (s->home == 1 && s->first) s->home = 0, s->place = 0;
    }
    for (i = 0; i < q->n_homes; i++)
        if (q->homes[i].host == 2 && q->cur[q->homes[i].buf] != RMI_NONE && !q->inst[q->cur[q->homes[i].buf]].place) q->inst[q->cur[q->homes[i].buf]].place = i + 1;
    for (i = 0; i < q->n_kept; i++) /* what is not dropped stays */
        if (q->hst[q->kept[i].buf] == i) q->kept[i].end = q->n + 1;
    for (i = 0; i < q->n_exit; i++) RMI_TRY(rmi_seq_use(q, q->exit[i], q->n));
    for (i = 0; i < q->g->n_tensors && !q->partial; i++) {
        if (q->g->tensors[i].is_output) RMI_TRY(rmi_seq_use(q, i, q->n));
        if (rmi_seq_grad_stays(q->g, q->step, i)) {
            uint32_t b = rmi_low_buf(q->g, RMI_BUF_GRAD, i);
            RMI_TRY(rmi_seq_absent(q, b) && q->hst[b] != RMI_NONE ? rmi_seq_use_kept(q, b, q->n) : rmi_seq_use(q, b, q->n));
        }
    }
    rmi_seq_clean(q);
    return RM_OK;
}

/* --- second pass: bytes that go on under another name */

/* Is every other name on the stretch of instance i dead before run p (and none of them its successor)? */
RMI_FN int rmi_seq_alone(const rmi_seq *q, uint32_t i, uint32_t p)
{
    uint32_t k;
    if (q->inst[i].stretch == RMI_NONE || q->inst[i].gone || q->inst[i].off) return 0;
    for (k = q->str[q->inst[i].stretch].head; k != RMI_NONE; k = q->inst[k].sibling)
        if (k != i && !q->inst[k].gone && q->inst[k].last >= p) return 0;
    return 1;
}

RMI_FN void rmi_seq_join(rmi_seq *q, uint32_t i, uint32_t stretch)
{
    rmi_seq_stretch *s = &q->str[stretch];
    q->inst[i].stretch = stretch;
    q->inst[i].sibling = s->head;
    s->head = i;
    if (q->inst[i].last + 1 > s->end_pos) s->end_pos = q->inst[i].last + 1;
}

RMI_FN rm_result rmi_seq_new_stretch(rmi_seq *q, uint32_t first, uint32_t end, uint64_t bytes, uint32_t *out)
{
    rmi_seq_stretch *s;
    if (!rmi_arena_grow(q->mem, (void **)&q->str, &q->cap_str, (size_t)q->n_str + 1, sizeof(rmi_seq_stretch))) return RM_ERROR_MEMORY;
    s = &q->str[q->n_str];
    s->first_pos = first;
    s->end_pos = end;
    s->head = RMI_NONE;
    s->home = 0;
    s->bytes = bytes;
    *out = q->n_str++;
    return RM_OK;
}

RMI_FN rm_result rmi_seq_say(rmi_seq *q, rmi_what what, uint32_t buf, uint32_t other, uint64_t offset, uint64_t bytes)
{
    rmi_stmt *s;
    if (!rmi_arena_grow(q->mem, (void **)&q->st, &q->cap_st, q->n_st + 1, sizeof(rmi_stmt))) return RM_ERROR_MEMORY;
    s = &q->st[q->n_st++];
    memset(s, 0, sizeof *s);
    s->what = (uint8_t)what;
    s->buf = buf;
    s->other = other;
    s->offset = offset;
    s->bytes = bytes;
    return RM_OK;
}

/* Instance i takes over the bytes of `from`, whose last use is this run. */
RMI_FN rm_result rmi_seq_take_over(rmi_seq *q, uint32_t i, uint32_t from)
{
    q->inst[from].gone = 1;
    rmi_seq_join(q, i, q->inst[from].stretch);
    return rmi_seq_say(q, RMI_REUSE, q->inst[i].buf, q->inst[from].buf, 0, 0);
}

/* May the new gradient i be one more name of dout's bytes? Nobody may write them while another name is alive. */
RMI_FN int rmi_seq_can_share(const rmi_seq *q, uint32_t i, uint32_t dout, uint32_t p)
{
    uint32_t k;
    if (q->inst[dout].stretch == RMI_NONE || q->inst[dout].gone || q->inst[dout].off) return 0;
    for (k = q->str[q->inst[dout].stretch].head; k != RMI_NONE; k = q->inst[k].sibling) {
        const rmi_seq_inst *o = &q->inst[k];
        if (o->gone || o->last < p) continue;
        if (q->inst[i].again != RMI_NONE && o->last >= q->inst[i].again) return 0;
        if (o->again != RMI_NONE && o->again > p && q->inst[i].last >= o->again) return 0;
    }
    return 1;
}

/* The current instance of buffer b if its last use is run p and its bytes are an activation's (or gradient's, or saved). */
RMI_FN uint32_t rmi_seq_dying(const rmi_seq *q, uint32_t b, uint32_t p)
{
    uint32_t i = q->cur[b];
    if (i == RMI_NONE || q->inst[i].home || q->inst[i].last != p || !rmi_seq_alone(q, i, p)) return RMI_NONE;
    return i;
}

RMI_FN rm_result rmi_seq_join_fwd(rmi_seq *q, rmi_run r, uint32_t i, uint32_t p)
{
    const rmi_op *op = &q->g->ops[r.id];
    const rmi_form *f = &op->forms[r.form];
    uint32_t from;
    if (q->inst[i].buf != op->out.at[0]) return RM_OK;
    if (op->view != RMI_NONE) {
        uint32_t of = q->cur[op->view];
        if (of != RMI_NONE && q->inst[of].stretch != RMI_NONE) {
            q->inst[i].off = q->inst[of].off + op->view_offset;
            rmi_seq_join(q, i, q->inst[of].stretch);
        }
        return rmi_seq_say(q, RMI_ALIAS, q->inst[i].buf, op->view, 0, 0);
    }
    if (f->inplace == RMI_NONE || !q->inst[i].bytes) return RM_OK;
    from = rmi_seq_dying(q, f->inplace, p);
    if (from == RMI_NONE || q->g->tensors[f->inplace].kind != RMI_ACT || q->inst[i].bytes > q->inst[from].bytes) return RM_OK;
    return rmi_seq_take_over(q, i, from);
}

/* Does the op read t more than once? Then it contributes to the gradient of t more than once as well (x + x gives 2 dout), and
   what it reads must outlive the first of these writes. */
RMI_FN int rmi_seq_repeated(const rmi_op *op, uint32_t t)
{
    uint32_t i, n = 0;
    for (i = 0; i < op->in.n; i++) n += op->in.at[i] == t;
    return n > 1;
}

/* A gradient's first contribution: another name of dout, dout's bytes, or bytes of what this backward reads last. */
RMI_FN rm_result rmi_seq_join_bwd(rmi_seq *q, rmi_run r, uint32_t i, uint32_t p, int *renamed)
{
    const rmi_op *op = &q->g->ops[r.id];
    const rmi_form *f = &op->forms[r.form];
    uint32_t t = q->inst[i].buf - q->g->n_tensors, dout_buf = rmi_low_buf(q->g, RMI_BUF_GRAD, op->out.at[0]), k, from;
    uint32_t dout = q->g->tensors[op->out.at[0]].consumers.n ? q->cur[dout_buf] : RMI_NONE;
    *renamed = 0;
    if (!q->inst[i].bytes || rmi_seq_repeated(op, t)) return RM_OK;
    if (dout != RMI_NONE && q->inst[dout].bytes == q->inst[i].bytes && !q->inst[dout].home) {
        if (rmi_list_has(&op->share, t) && rmi_seq_can_share(q, i, dout, p)) {
            *renamed = 1;
            rmi_seq_join(q, i, q->inst[dout].stretch);
            return rmi_seq_say(q, RMI_ALIAS, q->inst[i].buf, dout_buf, 0, 0);
        }
        if ((rmi_list_has(&op->share, t) || op->view == t) && rmi_seq_dying(q, dout_buf, p) != RMI_NONE) {
            *renamed = 1;
            return rmi_seq_take_over(q, i, dout);
        }
    }
    for (k = 0; k < f->n_overs && !(f->flags & RM_ZERO_GRADS); k++) { /* what must arrive zeroed cannot hold what is read */
        const rmi_over *o = &f->overs[k];
        uint32_t b = o->what == RMI_OVER_DOUT ? dout_buf : o->what == RMI_OVER_SAVED ? rmi_low_buf(q->g, RMI_BUF_SAVED, r.id) : o->tensor;
        if (o->grad_of != t || (o->what == RMI_OVER_TENSOR && q->g->tensors[o->tensor].kind != RMI_ACT)) continue;
        from = rmi_seq_dying(q, b, p);
        if (from == RMI_NONE || q->inst[i].bytes > q->inst[from].bytes) continue;
        return rmi_seq_take_over(q, i, from);
    }
    return RM_OK;
}

/* The stretch that a view which is there at the start lies in: that of another name of its root, or RMI_NONE. */
RMI_FN uint32_t rmi_seq_root_stretch(const rmi_seq *q, uint32_t i)
{
    uint32_t t, other, k;
    if (rmi_low_kind(q->g, q->inst[i].buf, &t) != RMI_BUF_VALUE) return RMI_NONE;
    for (k = 0; k < i; k++)
        if (rmi_low_kind(q->g, q->inst[k].buf, &other) == RMI_BUF_VALUE && q->g->tensors[other].root == q->g->tensors[t].root) return q->inst[k].stretch;
    return RMI_NONE;
}

RMI_FN rm_result rmi_seq_start_stretches(rmi_seq *q)
{
    uint32_t i;
    for (i = 0; i < q->n_start; i++) {
        rmi_seq_inst *s = &q->inst[i];
        uint32_t str = RMI_NONE;
        if (!s->bytes) continue;
        if (s->entry) str = rmi_seq_root_stretch(q, i);
        if (str == RMI_NONE) {
            RMI_TRY(rmi_seq_new_stretch(q, 0, s->last + 1, s->bytes, &str));
            q->str[str].home = s->place;
        }
        rmi_seq_join(q, i, str);
    }
    return RM_OK;
}

/* Statements of the copy at p; i: its new instance. */
RMI_FN rm_result rmi_seq_emit_copy(rmi_seq *q, uint32_t p, uint32_t i)
{
    uint32_t b = q->runs[p].id, str;
    if (rmi_seq_ignored(q, b)) return RM_OK;
    switch ((rmi_way)q->runs[p].way) {
    case RMI_COPY_OUT: return rmi_seq_say(q, RMI_OFFLOAD, b, 0, q->kept_at[p], q->kept[q->kept_at[p]].bytes);
    case RMI_COPY_MERGE: return rmi_seq_say(q, RMI_MERGE, b, 0, q->kept_at[p], q->kept[q->kept_at[p]].bytes);
    case RMI_COPY_DROP: return rmi_seq_say(q, RMI_DROP_HOST, b, 0, 0, 0);
    case RMI_COPY_IN:
        RMI_TRY(rmi_seq_new_stretch(q, p, q->inst[i].last + 1, q->inst[i].bytes, &str));
        q->str[str].home = q->inst[i].place;
        rmi_seq_join(q, i, str);
        q->cur[b] = i;
        RMI_TRY(rmi_seq_say(q, RMI_ALLOC, b, 0, str, q->inst[i].bytes));
        return rmi_seq_say(q, RMI_PREFETCH, b, 0, 0, q->inst[i].bytes);
    default: return RM_OK;
    }
}

/* Statements of run p; its new instances are inst[lo, hi). */
RMI_FN rm_result rmi_seq_emit_run(rmi_seq *q, uint32_t p, uint32_t lo, uint32_t hi)
{
    rmi_run r = q->runs[p];
    rmi_access *a = &q->acc;
    uint32_t i, str, targets = 0, renamed = 0;
    int again = q->partial ? q->reran : 0, one;
    if (r.way >= RMI_COPY_OUT) return rmi_seq_emit_copy(q, p, lo);
    if (r.way == RMI_FWD) again |= q->ran[r.id]++ > 0;
    rmi_low_access(q->g, r, again, a);
    if (a->ws_bytes) {
        RMI_TRY(rmi_seq_new_stretch(q, p, p + 1, a->ws_bytes, &str));
        RMI_TRY(rmi_seq_say(q, RMI_ALLOC, a->ws, 0, str, a->ws_bytes));
    }
    for (i = lo; i < hi; i++) {
        rmi_seq_inst *s = &q->inst[i];
        uint32_t id;
        if (rmi_low_kind(q->g, s->buf, &id) == RMI_BUF_SAVED && s->last == p) {
            s->gone = 1; /* nobody reads what this forward would save: it is not asked to */
            continue;
        }
        if (r.way == RMI_FWD) RMI_TRY(rmi_seq_join_fwd(q, r, i, p));
        else {
            RMI_TRY(rmi_seq_join_bwd(q, r, i, p, &one));
            renamed += (uint32_t)one;
        }
        s = &q->inst[i];
        if (s->stretch != RMI_NONE || !s->bytes || (r.way == RMI_FWD && q->g->ops[r.id].view != RMI_NONE)) continue;
        RMI_TRY(rmi_seq_new_stretch(q, p, s->last + 1, s->bytes, &str));
        q->str[str].home = s->place;
        rmi_seq_join(q, i, str);
        RMI_TRY(rmi_seq_say(q, RMI_ALLOC, s->buf, 0, str, s->bytes));
    }
    for (i = lo; i < hi; i++)
        if (!q->inst[i].gone || q->inst[i].last != p) q->cur[q->inst[i].buf] = i;
    if (r.way == RMI_BWD) targets = a->n_writes;
    q->ns = rmi_add(q->ns, rmi_low_ns(q->g, r, again, r.way == RMI_BWD && targets && renamed == targets));
    if (r.way == RMI_FWD && q->g->ops[r.id].view != RMI_NONE) return RM_OK;
    RMI_TRY(rmi_seq_say(q, RMI_RUN, RMI_NONE, RMI_NONE, 0, 0));
    q->st[q->n_st - 1].run = r;
    return a->ws_bytes ? rmi_seq_say(q, RMI_FREE, a->ws, 0, 0, 0) : RM_OK;
}

RMI_FN rm_result rmi_seq_emit(rmi_seq *q)
{
    uint32_t p, i;
    q->head_free = RMI_NEW(q->mem, uint32_t, (size_t)q->n + 1);
    q->next_free = RMI_NEW(q->mem, uint32_t, (size_t)q->n_inst + 1);
    if (!q->head_free || !q->next_free) return RM_ERROR_MEMORY;
    for (i = q->n_inst; i-- > 0;) { /* instances by the run after which they are freed */
        uint32_t last = q->inst[i].last;
        q->next_free[i] = q->head_free[last];
        q->head_free[last] = i + 1;
    }
    RMI_TRY(rmi_seq_start_stretches(q));
    for (i = 0; i < q->n_start; i++) q->cur[q->inst[i].buf] = i;
    for (p = 0; p < q->n; p++) {
        uint32_t lo = i, k;
        while (i < q->n_inst && q->inst[i].first == p) i++;
        RMI_TRY(rmi_seq_emit_run(q, p, lo, i));
        for (k = q->head_free[p]; k; k = q->next_free[k - 1]) {
            const rmi_seq_inst *s = &q->inst[k - 1];
            uint32_t id;
            if (s->gone || s->home == 3) continue;
            if (!s->bytes && !(rmi_low_kind(q->g, s->buf, &id) == RMI_BUF_VALUE && q->g->tensors[id].root != id)) continue;
            RMI_TRY(rmi_seq_say(q, RMI_FREE, s->buf, 0, 0, 0));
        }
    }
    rmi_seq_clean(q);
    return RM_OK;
}

/* Scratch that any number of builds share: memory for cur, ran, acc. */
RMI_FN rm_result rmi_seq_scratch(rmi_seq *q, const rm_graph *g, rmi_arena *mem)
{
    uint32_t b, nb = rmi_low_buffers(g);
    memset(q, 0, sizeof *q);
    q->g = g;
    q->mem = mem;
    q->granule = 1;
    q->cur = RMI_NEW(mem, uint32_t, nb);
    q->ran = RMI_NEW(mem, uint32_t, g->n_ops);
    q->hst = RMI_NEW(mem, uint32_t, nb);
    if (!q->cur || !q->ran || !q->hst) return RM_ERROR_MEMORY;
    for (b = 0; b < nb; b++) q->cur[b] = q->hst[b] = RMI_NONE;
    return rmi_low_access_make(g, mem, &q->acc);
}

/* Lifetimes and statements of q->runs; the results live in q->mem. RM_ERROR_INTERNAL: a run reads what is not there. */
RMI_FN rm_result rmi_seq_build(rmi_seq *q)
{
    uint32_t p;
    size_t was_inst = q->n_inst, was_str = q->n_str, was_st = q->n_st;
    q->inst = NULL;
    q->str = NULL;
    q->st = NULL;
    q->n_inst = q->n_str = q->n_start = 0;
    q->cap_inst = q->cap_str = q->n_st = q->cap_st = q->cap_kept = 0;
    q->kept = NULL;
    q->n_kept = 0;
    q->ns = 0;
    for (p = 0; p < q->n && q->runs[p].way < RMI_COPY_OUT;) p++;
    q->kept_at = p < q->n ? RMI_NEW(q->mem, uint32_t, q->n) : NULL;
    if (p < q->n && !q->kept_at) return RM_ERROR_MEMORY;
    /* room for what the last one took: lists much alike are built in a row */
    if (!rmi_arena_grow(q->mem, (void **)&q->inst, &q->cap_inst, was_inst, sizeof(rmi_seq_inst)) || !rmi_arena_grow(q->mem, (void **)&q->str, &q->cap_str, was_str, sizeof(rmi_seq_stretch)) || !rmi_arena_grow(q->mem, (void **)&q->st, &q->cap_st, was_st, sizeof(rmi_stmt))) return RM_ERROR_MEMORY;
    RMI_TRY(rmi_seq_lives(q));
    return rmi_seq_emit(q);
}

/* Bytes of the stretch that buffer b is in after the last run; 0 if it is in none. */
RMI_FN uint64_t rmi_seq_bytes_at_end(const rmi_seq *q, uint32_t b)
{
    uint32_t i;
    for (i = q->n_inst; i-- > 0;)
        if (q->inst[i].buf == b && !q->inst[i].gone && q->inst[i].stretch != RMI_NONE) return q->str[q->inst[i].stretch].bytes;
    return 0;
}

/* The largest sum of live bytes (rounded to the granule) over positions [0, n), homes not counted; *at_end: the sum of what is
   wanted after the last run. */
RMI_FN rm_result rmi_seq_peak(const rmi_seq *q, uint64_t *peak, uint64_t *at_end)
{
    uint64_t *up = RMI_NEW(q->mem, uint64_t, (size_t)q->n + 2), *down = RMI_NEW(q->mem, uint64_t, (size_t)q->n + 2), sum = 0;
    uint32_t i, p;
    if (!up || !down) return RM_ERROR_MEMORY;
    for (i = 0; i < q->n_str; i++) {
        const rmi_seq_stretch *s = &q->str[i];
        uint64_t bytes = rmi_round_up(s->bytes, q->granule);
        if (s->home) continue;
        up[s->first_pos] += bytes;
        down[s->end_pos] += bytes;
    }
    *peak = 0;
    for (p = 0; p <= q->n; p++) {
        sum = sum + up[p] - down[p];
        *peak = rmi_max(*peak, sum);
    }
    *at_end = sum;
    return RM_OK;
}
/* =====================================================================================================================
   >>chain - the best way to run a chain of stages, for every budget at once
   Owns      exact step functions time(memory) of every piece i..j of the chain
   In        stages with options (a way to run the stage forward keeping what its backward reads, and that backward)
   Out       the whole curve (bytes, ns); for any budget on it the straight list of forwards and backwards
   Paper     rotor (arXiv 1911.13214) and rk-rotor (arXiv 2307.01236): optimal persistent schedules. Theirs cut memory into
             slots and answer one budget; here each table is its list of breakpoints, so that nothing is rounded.
   Cost      O(L^3) pairs of curves if all stages differ, most of them looked at in a grid only (see RMI_CHN_CELLS). Equal
             pieces share one curve: O(L^2) for a run of equal stages. RMI_CHN_AUTO bounds the work: it drops points and long
             pieces, and says what that may have lost.

   P(i,j,h)(m): the least time to run stages i..j forward and backward inside m bytes. On entry a[i-1], the input, is on the
   device, and d[j], the gradient of a[j], if j is not the last stage; it ends with d[i-1]. h = 1: the input is somebody
   else's, and not counted; h = 0: the piece owns its input, counts it and may let it die.
     keep:        F(i,o) + P(i+1,j,o.reads_out)(m - what o holds) + B(i,o)                        (Fe, then B)
     checkpoint:  sum of F(i..k-1) + P(k,j,0)(m - a[i-1] if owned) + P(i,k-1,h)(m - grown(k..j))   (Fck Fn .. Fn)
   Both terms of a checkpoint take the same m, so its curve is a merge of two lists. Pieces that end with the last stage run for
   the first time in the step, all others are recomputations: "first" needs no place in the state.
   ================================================================================================================== */
typedef struct rmi_chn_option { /* a way to run a stage forward keeping what its backward reads, and that backward */
    uint64_t saved;              /* bytes held from its forward to its backward, besides input and output */
    uint64_t fwd_peak[2];        /* [0] the input may die during the forward, [1] the input stays; the output is made and kept */
    uint64_t leaf_peak[2];       /* the same when the output is wanted by nobody later (unless reads_out) */
    uint64_t fwd_ns[2];          /* [0] first run in the step, [1] a recomputation; with output */
    uint64_t leaf_ns[2];         /* the same when the output is wanted by nobody later */
    uint64_t bwd_peak, bwd_ns;
    uint32_t reads_in, reads_out; /* the backward reads the stage's input, its output: then bwd_peak includes them */
} rmi_chn_option;

typedef struct rmi_chn_stage {
    uint64_t out_bytes, grad_bytes; /* of the output a[i]; of its gradient d[i] */
    uint64_t grown;                 /* bytes its backward leaves behind until the end of the step; bwd_peak includes them */
    uint64_t pass_peak[2];          /* forward that saves nothing: [0] the input dies (Fn), [1] it stays (Fck) */
    uint64_t pass_ns[2];            /* [0] first run in the step, [1] a recomputation */
    uint32_t n_options;
    const rmi_chn_option *options;
} rmi_chn_stage;

typedef struct rmi_chn_chain {
    uint32_t n;
    const rmi_chn_stage *stages;
    uint64_t in_bytes;      /* of the chain's input; it is always on the device, held by the caller and not counted here */
    uint32_t tolerance_ppm; /* 0: exact; RMI_CHN_AUTO: as exact as a bounded amount of work allows */
} rmi_chn_chain;

#define RMI_CHN_AUTO UINT32_MAX

typedef struct rmi_chn_point {
    uint64_t bytes, ns;
} rmi_chn_point;

/* what an action does */
#define RMI_CHN_PASS 0u     /* forward, saving nothing */
#define RMI_CHN_KEEP 1u     /* forward with an option, saving what its backward reads */
#define RMI_CHN_BACKWARD 2u /* the backward of that option */
/* flags of an action */
#define RMI_CHN_INPUT_STAYS 1u /* forwards: the input is alive afterwards */
#define RMI_CHN_AGAIN 2u       /* forwards: the stage has run in this step before */
#define RMI_CHN_LEAF 4u        /* KEEP: the stage's backward is next, nobody else wants its output */

typedef struct rmi_chn_act {
    uint32_t what, stage, option, flags; /* stage from 0; option indexes the stage's options */
} rmi_chn_act;

typedef struct rmi_chn_best { /* a point, and which candidate it is of */
    uint64_t bytes, ns;
    uint32_t choice;
} rmi_chn_best;

typedef struct rmi_chn_curve {
    const rmi_chn_point *at; /* bytes rising, ns falling, both strictly; after the last one of RMI_MAX + 1 bytes */
    uint64_t least_bytes, least_ns;
    uint32_t n;
    const uint32_t *grid, *first; /* times at the borders of cells, see RMI_CHN_CELLS; points up to the beginning of a block */
    const uint32_t *choice;       /* by point: the option, or n_options - 1 + k - i for a checkpoint and its cut before stage k */
} rmi_chn_curve;

/* A class is a stage by its numbers: equal stages share one. */
typedef struct rmi_chn_class {
    rmi_chn_stage stage;
    uint64_t in_bytes;
    uint32_t forms; /* which h need a curve of their own: bit 0 for h = 0, bit 1 for h = 1 */
} rmi_chn_class;

/* Pieces are shared too: i..j reads the curve of the earliest equal piece. Step s of start i says that pieces up to length
   `len` are equal to those that start at `start`; longer than the last step's, the piece i..j is the first of its sort. */
typedef struct rmi_chn_step {
    uint32_t len, start;
} rmi_chn_step;

typedef struct rmi_chn_table {
    uint32_t n, n_classes;
    uint32_t tolerance_ppm; /* points closer in time than this were dropped, in every piece */
    uint32_t dense;         /* 0, or pieces longer than this are not solved at all places */
    uint32_t lost_ppm;      /* proven: no ns of the curve is further above the optimum; RMI_NONE if beyond 4294 times */
    rmi_chn_curve curve;    /* the whole chain: from the smallest memory to the fastest schedule; only `at` and `n` matter */
    rmi_chn_curve low;      /* no persistent schedule is below this one; the curve itself if that is exact */
    rmi_chn_class *classes;
    uint32_t *class_of;  /* per stage */
    uint64_t *grown_sum; /* n + 1 prefix sums */
    rmi_chn_step *steps;
    size_t *first_step;       /* per start */
    uint32_t *shared, *lent;  /* per start: the length up to which pieces are somebody else's; up to which others use its own */
    uint32_t *level;          /* per start: how good a place it is to cut long pieces, see rmi_chn_is_solved */
    uint32_t **lens, *n_lens; /* per start: how many pieces are its own to solve; if dense, of which lengths, rising */
    rmi_chn_curve **row[2];   /* per h and start: curves of the pieces that end before the last stage */
    rmi_chn_curve *tail[2];   /* per h and start: curves of the pieces that end with the last stage */
    uint64_t work;            /* steps taken, about 10 ns each: a measure of time that is the same everywhere */
} rmi_chn_table;

#define RMI_CHN_OWNED 1u
#define RMI_CHN_HELD 2u

/* --- classes */

RMI_FN uint64_t rmi_chn_cap(uint64_t v) { return rmi_min(v, RMI_MAX); }

/* Takes a stage over: numbers below 2^62, and peaks at least what they are said to include, so that nothing wraps later. */
RMI_FN rm_result rmi_chn_copy_stage(rmi_arena *arena, const rmi_chn_stage *from, uint64_t in_bytes, rmi_chn_class *to)
{
    rmi_chn_option *o;
    uint32_t i, b, readers = 0;
    to->stage = *from;
    to->in_bytes = in_bytes;
    to->stage.out_bytes = rmi_chn_cap(from->out_bytes);
    to->stage.grad_bytes = rmi_chn_cap(from->grad_bytes);
    to->stage.grown = rmi_chn_cap(from->grown);
    for (b = 0; b < 2; b++) {
        to->stage.pass_peak[b] = rmi_chn_cap(rmi_max(from->pass_peak[b], b ? in_bytes : 0));
        to->stage.pass_ns[b] = rmi_chn_cap(from->pass_ns[b]);
    }
    if (!(o = RMI_NEW(arena, rmi_chn_option, from->n_options))) return RM_ERROR_MEMORY;
    for (i = 0; i < from->n_options; i++) {
        const rmi_chn_option *f = &from->options[i];
        o[i].saved = rmi_chn_cap(f->saved);
        for (b = 0; b < 2; b++) {
            o[i].fwd_peak[b] = rmi_chn_cap(rmi_max(f->fwd_peak[b], b ? in_bytes : 0));
            o[i].leaf_peak[b] = rmi_chn_cap(rmi_max(f->leaf_peak[b], b ? in_bytes : 0));
            o[i].fwd_ns[b] = rmi_chn_cap(f->fwd_ns[b]);
            o[i].leaf_ns[b] = rmi_chn_cap(f->leaf_ns[b]);
        }
        o[i].reads_in = f->reads_in != 0;
        o[i].reads_out = f->reads_out != 0;
        o[i].bwd_peak = rmi_chn_cap(rmi_max(f->bwd_peak, o[i].reads_in ? in_bytes : 0));
        o[i].bwd_ns = rmi_chn_cap(f->bwd_ns);
        readers += o[i].reads_in;
    }
    to->stage.options = o;
    /* If every option reads the input, it never dies: owning it is holding it in a memory that much smaller. */
    to->forms = readers == from->n_options ? RMI_CHN_HELD : RMI_CHN_OWNED;
    return RM_OK;
}

RMI_FN uint64_t rmi_chn_hash_stage(const rmi_chn_stage *s, uint64_t in_bytes, uint32_t held)
{
    uint64_t h = rmi_fnv(RMI_FNV_START, s, offsetof(rmi_chn_stage, n_options));
    h = rmi_fnv(h, &in_bytes, sizeof in_bytes);
    h = rmi_fnv(h, &held, sizeof held);
    return s->n_options ? rmi_fnv(h, s->options, s->n_options * sizeof *s->options) : h;
}

RMI_FN int rmi_chn_same_stage(const rmi_chn_stage *a, const rmi_chn_stage *b)
{
    return memcmp(a, b, offsetof(rmi_chn_stage, n_options)) == 0 && a->n_options == b->n_options &&
           (!a->n_options || memcmp(a->options, b->options, a->n_options * sizeof *a->options) == 0);
}

/* Can somebody else hold the input of stage i during a piece that starts there? */
RMI_FN uint32_t rmi_chn_may_be_held(const rmi_chn_chain *chain, uint32_t i)
{
    uint32_t o;
    if (i == 0) return 1;
    for (o = 0; o < chain->stages[i - 1].n_options; o++)
        if (chain->stages[i - 1].options[o].reads_out) return 1;
    return 0;
}

/* Fills classes and class_of. Stages are compared as the caller gave them; `first` is the stage that made the class. */
RMI_FN rm_result rmi_chn_intern(rmi_arena *arena, rmi_arena *temp, const rmi_chn_chain *chain, rmi_chn_table *t)
{
    size_t slots = 8, at;
    uint32_t *slot, *first, *held, i, c;
    while (slots < (size_t)chain->n * 2) slots *= 2;
    slot = RMI_NEW(temp, uint32_t, slots); /* class + 1 */
    first = RMI_NEW(temp, uint32_t, chain->n);
    held = RMI_NEW(temp, uint32_t, chain->n);
    t->classes = RMI_NEW(arena, rmi_chn_class, chain->n);
    t->class_of = RMI_NEW(arena, uint32_t, chain->n);
    if (!slot || !first || !held || !t->classes || !t->class_of) return RM_ERROR_MEMORY;
    for (i = 0; i < chain->n; i++) {
        uint64_t in_bytes = rmi_chn_cap(i ? chain->stages[i - 1].out_bytes : chain->in_bytes);
        held[i] = rmi_chn_may_be_held(chain, i);
        at = (size_t)rmi_chn_hash_stage(&chain->stages[i], in_bytes, held[i]) & (slots - 1);
        for (; slot[at]; at = (at + 1) & (slots - 1)) {
            c = slot[at] - 1;
            if (t->classes[c].in_bytes == in_bytes && held[first[c]] == held[i] &&
                rmi_chn_same_stage(&chain->stages[first[c]], &chain->stages[i]))
                break;
        }
        if (!slot[at]) {
            c = t->n_classes++;
            RMI_TRY(rmi_chn_copy_stage(arena, &chain->stages[i], in_bytes, &t->classes[c]));
            if (t->classes[c].forms == RMI_CHN_OWNED && held[i]) t->classes[c].forms |= RMI_CHN_HELD;
            first[c] = i;
            slot[at] = c + 1;
        }
        t->class_of[i] = slot[at] - 1;
    }
    return RM_OK;
}

/* --- pieces */

/* Finds, for every start, the earlier starts of equal pieces. The last stage is left out: it ends only its own pieces.
   run[p] = length of the longest equal pieces at i and p, from the one at i + 1 and p + 1. O(n^2) steps of a few cycles. */
RMI_FN rm_result rmi_chn_share(rmi_arena *arena, rmi_arena *temp, rmi_chn_table *t)
{
    uint32_t inner = t->n - 1, i, p, best, *run = RMI_NEW(temp, uint32_t, t->n + 1);
    size_t n_steps = 0, cap = 0;
    t->shared = RMI_NEW(arena, uint32_t, t->n + 1);
    t->first_step = RMI_NEW(arena, size_t, t->n + 1);
    t->lent = RMI_NEW(arena, uint32_t, t->n + 1);
    if (!run || !t->shared || !t->lent || !t->first_step) return RM_ERROR_MEMORY;
    for (i = inner; i-- > 0;) {
        t->first_step[i] = n_steps;
        best = 0;
        for (p = 0; p < i; p++) {
            run[p] = t->class_of[p] == t->class_of[i] ? run[p + 1] + 1 : 0;
            if (run[p] <= best) continue;
            best = run[p];
            if (t->lent[p] < best) t->lent[p] = best;
            if (!rmi_arena_grow(arena, (void **)&t->steps, &cap, n_steps + 1, sizeof *t->steps)) return RM_ERROR_MEMORY;
            t->steps[n_steps].len = best;
            t->steps[n_steps++].start = p;
        }
        t->shared[i] = best;
    }
    return RM_OK;
}

/* Where the curve of the piece of length len at i is, if it is the first of its sort; NULL if that piece is not solved. */
RMI_FN rmi_chn_curve *rmi_chn_slot(const rmi_chn_table *t, uint32_t i, uint32_t len, uint32_t h)
{
    uint32_t lo = 0, hi = t->n_lens[i], mid;
    if (!t->dense) return &t->row[h][i][len - 1 - t->shared[i]];
    while (lo < hi) {
        mid = lo + (hi - lo) / 2;
        if (t->lens[i][mid] < len) lo = mid + 1;
        else hi = mid;
    }
    return lo < t->n_lens[i] && t->lens[i][lo] == len ? &t->row[h][i][lo] : NULL;
}

static const rmi_chn_curve rmi_chn_unsolved = { NULL, 0, 0, 0, NULL, NULL, NULL };

/* The curve of P(i,j,h), and what is to be added to its bytes. */
RMI_FN const rmi_chn_curve *rmi_chn_find(const rmi_chn_table *t, uint32_t i, uint32_t j, uint32_t h, uint64_t *shift)
{
    const rmi_chn_class *c = &t->classes[t->class_of[i]];
    const rmi_chn_curve *curve;
    const rmi_chn_step *s;
    uint32_t len = j - i + 1;
    *shift = 0;
    if (!(c->forms >> h & 1)) { /* owning an input that stays anyway */
        *shift = c->in_bytes;
        h = 1;
    }
    if (j + 1 == t->n) return &t->tail[h][i];
    if (len <= t->shared[i]) {
        for (s = &t->steps[t->first_step[i]]; s->len < len; s++) continue;
        i = s->start;
    }
    curve = rmi_chn_slot(t, i, len, h);
    return curve ? curve : &rmi_chn_unsolved;
}

/* The last point within `bytes`, or RMI_NONE. */
RMI_FN uint32_t rmi_chn_at(const rmi_chn_point *p, uint32_t n, uint64_t bytes)
{
    uint32_t lo = 0, hi = n, mid;
    while (lo < hi) {
        mid = lo + (hi - lo) / 2;
        if (p[mid].bytes <= bytes) lo = mid + 1;
        else hi = mid;
    }
    return lo - 1; /* RMI_NONE for 0 */
}

/* --- the envelope: the least of all candidates for a piece */

/* Most candidates win nowhere, or in a few stretches. To see where without walking along them, memory is cut into cells of
   2^cell_log bytes, and every curve has its times at their borders in 32 bits: rounded down where it is a candidate's part, up
   in the envelope. In a cell a candidate is at least what its parts are at the cell's end, the envelope at most what it is at
   its beginning. Cells only choose where to look: what is computed there is exact. */
#define RMI_CHN_CELLS 512u            /* at most; a multiple of the block */
#define RMI_CHN_BLOCK 8u              /* cells that are looked at together */
#define RMI_CHN_GRID_MAX 0x1FFFFFFFu  /* three of them, less RMI_CHN_GRID_NONE, keep their sign in 32 bits */
#define RMI_CHN_GRID_NONE 0x7FFFFFFFu /* the envelope where nothing is feasible yet */

/* A candidate: f and g read at memory less f_shift and g_shift, both plus ns, from `bytes` on. */
typedef struct rmi_chn_sum {
    const rmi_chn_curve *f, *g;
    uint64_t f_shift, g_shift, bytes, ns;
    uint32_t choice;           /* as in rmi_chn_curve */
    uint64_t begin, least_ns;  /* where all of it is feasible; the least it comes to */
    uint32_t f_cells, g_cells; /* the shifts, in cells */
    uint32_t f_at, g_at;       /* points, no later than where the search has come to */
    uint32_t rest;             /* cells to leave out after the next one in which it is not the least */
} rmi_chn_sum;

/* What the search for candidates that may win looks at. */
typedef struct rmi_chn_view {
    const uint32_t *f, *g;     /* grids */
    uint32_t f_cells, g_cells; /* shifts less one: the grids are read at the cell's end */
    uint32_t ns;               /* in the grid's units */
    uint32_t cell;             /* the next where it falls; first that of `begin` */
} rmi_chn_view;

typedef struct rmi_chn_solver {
    rmi_arena *arena, *temp;
    rmi_chn_table *t;
    rmi_chn_best *env, *seg; /* the envelope; a stretch of it being made anew */
    size_t env_cap, seg_cap;
    uint32_t n_env, cell_log, ns_log, n_cells;
    uint32_t slack_ppm;  /* gains smaller than this are left alone */
    uint32_t down;       /* drop points downwards: the curves are then bounds from below */
    uint64_t work_limit; /* RM_ERROR_CANCELLED beyond, or if a candidate is expected to take work_each, and that is too much */
    uint32_t work_each;
    rmi_stop *stop;
    uint64_t told;     /* work that stop knows of */
    rmi_chn_sum *sums; /* all candidates of a piece */
    rmi_chn_view *views;
    uint32_t n_sums, n_keeps, fastest, *near_by, *list, *least;
    uint64_t *pass_ns, *pass_need; /* per k: of the forwards up to stage k - 1 */
} rmi_chn_solver;

static const rmi_chn_point rmi_chn_nothing_at[2] = { { 0, 0 }, { RMI_MAX + 1, 0 } };
static const uint32_t rmi_chn_nothing_grid[RMI_CHN_CELLS + 1] = { 0 };
static const rmi_chn_curve rmi_chn_nothing = { rmi_chn_nothing_at, 0, 0, 1, rmi_chn_nothing_grid, rmi_chn_nothing_grid, NULL };

/* Adds a candidate, unless it is feasible nowhere. */
RMI_FN void rmi_chn_consider(rmi_chn_solver *s, const rmi_chn_sum *candidate)
{
    rmi_chn_sum *c = &s->sums[s->n_sums];
    rmi_chn_view *v = &s->views[s->n_sums];
    if (!candidate->f->n || !candidate->g->n) return;
    *c = *candidate;
    c->begin = rmi_max(c->bytes, rmi_max(c->f->least_bytes + c->f_shift, c->g->least_bytes + c->g_shift));
    if (c->begin > RMI_MAX) return;
    c->least_ns = c->ns + c->f->least_ns + c->g->least_ns;
    c->f_cells = (uint32_t)rmi_min(c->f_shift >> s->cell_log, s->n_cells);
    c->g_cells = (uint32_t)rmi_min(c->g_shift >> s->cell_log, s->n_cells);
    c->f_at = c->g_at = c->rest = 0;
    v->f = c->f->grid;
    v->g = c->g->grid;
    v->f_cells = c->f_cells - 1; /* wraps, and back */
    v->g_cells = c->g_cells - 1;
    v->ns = (uint32_t)rmi_min(c->ns >> s->ns_log, RMI_CHN_GRID_MAX);
    v->cell = (uint32_t)rmi_min(c->begin >> s->cell_log, s->n_cells);
    s->n_sums++;
}

/* The last point of a curve within `bytes`, from point `at` on; not before `cell`. */
RMI_INLINE const rmi_chn_point *rmi_chn_seek(const rmi_chn_curve *c, uint32_t *at, uint64_t bytes, uint32_t cell)
{
    uint32_t first = c->first[cell / RMI_CHN_BLOCK];
    const rmi_chn_point *p = c->at + (first > *at + 1 ? first - 1 : *at);
    while (p[1].bytes <= bytes) p++;
    *at = (uint32_t)(p - c->at);
    return p;
}

typedef struct rmi_chn_walk { /* stands on a step of a candidate */
    const rmi_chn_point *f, *g;
    uint64_t f_shift, g_shift, bytes, ns, plus;
    uint32_t choice;
} rmi_chn_walk;

RMI_INLINE void rmi_chn_walk_from(rmi_chn_walk *w, rmi_chn_sum *c, uint64_t bytes, uint32_t cell)
{
    w->f = rmi_chn_seek(c->f, &c->f_at, bytes - c->f_shift, cell > c->f_cells ? cell - c->f_cells - 1 : 0);
    w->g = rmi_chn_seek(c->g, &c->g_at, bytes - c->g_shift, cell > c->g_cells ? cell - c->g_cells - 1 : 0);
    w->bytes = bytes;
    w->f_shift = c->f_shift;
    w->g_shift = c->g_shift;
    w->plus = c->ns;
    w->choice = c->choice;
    w->ns = w->plus + w->f->ns + w->g->ns;
}

/* To the next step before `end`; 0 if there is none: then only `bytes` moves. */
RMI_FN int rmi_chn_walk_on(rmi_chn_walk *w, uint64_t end)
{
    uint64_t f = w->f[1].bytes + w->f_shift, g = w->g[1].bytes + w->g_shift;
    w->bytes = f < g ? f : g;
    if (w->bytes >= end) return 0;
    w->f += f <= g;
    w->g += g <= f;
    w->ns = w->plus + w->f->ns + w->g->ns;
    return 1;
}

/* The candidate's time just before `end`, where the next search will begin; *next: where it falls after that. */
RMI_FN uint64_t rmi_chn_walk_to(const rmi_chn_walk *w, rmi_chn_sum *c, uint64_t end, uint64_t *next)
{
    const rmi_chn_point *f = w->f, *g = w->g;
    while (f[1].bytes + w->f_shift < end) f++;
    while (g[1].bytes + w->g_shift < end) g++;
    c->f_at = (uint32_t)(f - c->f->at);
    c->g_at = (uint32_t)(g - c->g->at);
    *next = rmi_min(f[1].bytes + w->f_shift, g[1].bytes + w->g_shift);
    return w->plus + f->ns + g->ns;
}

/* Merges the walk into the envelope from its place on, where it is the less, and before `end`. e: the first point of the
   envelope not before that place. room: points that may come. */
RMI_FN rm_result rmi_chn_merge(rmi_chn_solver *s, rmi_chn_walk *w, uint32_t e, uint64_t end, size_t room)
{
    uint64_t last = RMI_INF;
    uint32_t from = e, more = 1;
    rmi_chn_best *out;
    room += s->n_env - e + 2;
    if (room > RMI_NONE / 2 - e) return RM_ERROR_MEMORY;
    if (!rmi_arena_grow(s->temp, (void **)&s->env, &s->env_cap, e + room, sizeof *s->env)) return RM_ERROR_MEMORY;
    if (!rmi_arena_grow(s->temp, (void **)&s->seg, &s->seg_cap, room, sizeof *s->seg)) return RM_ERROR_MEMORY;
    out = s->seg;
    while (more) {
        for (; s->env[e].bytes < w->bytes; e++) {
            if (s->env[e].ns >= last) continue;
            *out++ = s->env[e];
            last = s->env[e].ns;
        }
        if (w->ns < last && !(s->env[e].bytes == w->bytes && s->env[e].ns <= w->ns)) {
            out->bytes = w->bytes;
            out->choice = w->choice;
            (out++)->ns = last = rmi_chn_cap(w->ns);
        }
        s->t->work++;
        more = (uint32_t)rmi_chn_walk_on(w, end);
    }
    for (; e < s->n_env; e++)
        if (s->env[e].ns < last) *out++ = s->env[e];
    memcpy(s->env + from, s->seg, (size_t)(out - s->seg) * sizeof *s->env);
    s->n_env = from + (uint32_t)(out - s->seg);
    s->env[s->n_env].bytes = RMI_MAX + 1;
    return RM_OK;
}

/* What a candidate must be below where the envelope is at `ns`: with a tolerance, by so much that it is worth it. The
   one that is fastest in the end need not: so the envelope ends where it should. */
RMI_FN uint64_t rmi_chn_worth(const rmi_chn_solver *s, uint32_t which, uint64_t ns)
{
    return which < s->n_keeps || which == s->fastest || ns == RMI_INF ? ns : ns - (ns >> 20) * s->slack_ppm;
}

/* With a tolerance, a candidate that has lost in cell after cell is looked at more and more rarely, where the envelope is flat:
   `from` is what it was at the cell's beginning. Among equal stages most candidates are as good as the best there. */
RMI_FN void rmi_chn_rest(rmi_chn_solver *s, rmi_chn_sum *c, uint32_t which, uint32_t cell, uint64_t from)
{
    if (!s->slack_ppm || which < s->n_keeps || which == s->fastest || from == RMI_INF || from - s->env[s->n_env - 1].ns > from / 256) return;
    if (s->views[which].cell < cell + 1 + c->rest) s->views[which].cell = cell + 1 + c->rest;
    c->rest = c->rest < 31 ? c->rest * 2 + 1 : c->rest;
}

/* env = min(env, candidate) from `begin`, in `cell`, to `end`, which is the end of the envelope so far; e: no later than the
   first of its points after begin. */
RMI_FN rm_result rmi_chn_improve(rmi_chn_solver *s, uint32_t which, uint64_t begin, uint64_t end, uint32_t cell, uint32_t e)
{
    rmi_chn_sum *c = &s->sums[which];
    const rmi_chn_best *env = s->env + e;
    uint64_t now = e ? env[-1].ns : RMI_INF, next = 0, was;
    int won;
    rmi_chn_walk w;
    if (rmi_chn_worth(s, which, now) <= c->least_ns) {
        s->views[which].cell = RMI_NONE;
        return RM_OK;
    }
    rmi_chn_walk_from(&w, c, begin, cell);
    for (; env->bytes <= begin; env++) now = env->ns;
    was = now;
    if (rmi_chn_walk_to(&w, c, end, &next) >= rmi_chn_worth(s, which, now)) { /* not even at the end */
        s->views[which].cell = (uint32_t)rmi_min(next >> s->cell_log, RMI_NONE);
        rmi_chn_rest(s, c, which, cell, now);
        s->t->work++;
        return RM_OK;
    }
    for (next = 0;;) {
        for (; env->bytes <= w.bytes; env++) now = env->ns;
        if (w.ns < rmi_chn_worth(s, which, now)) break;
        s->t->work++;
        if (!rmi_chn_walk_on(&w, end)) {
            next = w.bytes;
            break;
        }
    }
    won = !next;
    if (!next) {
        c->rest = 0;
        e = (uint32_t)(env - s->env);
        if (e && env[-1].bytes == w.bytes) e--;
        RMI_TRY(rmi_chn_merge(s, &w, e, end,
                              (size_t)(c->f->at + c->f->n - w.f) + (size_t)(c->g->at + c->g->n - w.g)));
        next = w.bytes;
    }
    s->views[which].cell = (uint32_t)rmi_min(next >> s->cell_log, RMI_NONE);
    if (!won) rmi_chn_rest(s, c, which, cell, was);
    return RM_OK;
}

/* Fills in a curve's grid. */
RMI_FN void rmi_chn_sample(const rmi_chn_solver *s, const rmi_chn_curve *c, uint32_t *grid, uint32_t *first)
{
    uint32_t i, at = 0;
    for (i = 0; i <= s->n_cells; i++) {
        while (at < c->n && c->at[at].bytes <= (uint64_t)i << s->cell_log) at++;
        grid[i] = at ? (uint32_t)rmi_min(c->at[at - 1].ns >> s->ns_log, RMI_CHN_GRID_MAX) : RMI_CHN_GRID_MAX;
        if (i % RMI_CHN_BLOCK == 0) first[i / RMI_CHN_BLOCK] = at;
    }
}

/* The most the envelope can be from its end on, in the grid's units. */
RMI_FN uint32_t rmi_chn_most(const rmi_chn_solver *s, uint32_t which)
{
    if (!s->n_env) return RMI_CHN_GRID_NONE;
    return (uint32_t)rmi_min((rmi_chn_worth(s, which, s->env[s->n_env - 1].ns) >> s->ns_log) + 1, RMI_CHN_GRID_NONE);
}

/* Lists the candidates that may win in the block of cells that begins with `cell`. */
RMI_FN uint32_t rmi_chn_near(rmi_chn_solver *s, uint32_t cell)
{
    uint32_t i, b, n = 0, any, most = rmi_chn_most(s, s->fastest), much = rmi_chn_most(s, RMI_NONE - 1);
    for (i = 0; i < s->n_sums; i++) {
        const rmi_chn_view *v = &s->views[i];
        if (v->cell >= cell + RMI_CHN_BLOCK) continue;
        any = RMI_NONE;
        if (v->cell <= cell) {
            const uint32_t *f = v->f + (cell - v->f_cells), *g = v->g + (cell - v->g_cells);
            uint32_t less = v->ns - (i < s->n_keeps || i == s->fastest ? most : much);
            for (b = 0, any = 0; b < RMI_CHN_BLOCK; b++) any |= f[b] + g[b] + less;
        }
        if (any >> 31) s->near_by[n++] = i;
    }
    return n;
}

/* The envelope within a cell, from the candidates near by; the one that looks best first, so that the others find it there. */
RMI_FN rm_result rmi_chn_cell(rmi_chn_solver *s, uint32_t cell, uint32_t n_near)
{
    uint32_t i, n = 0, ns, best = 0, e = s->n_env, most = rmi_chn_most(s, s->fastest), much = rmi_chn_most(s, RMI_NONE - 1);
    uint64_t begin = (uint64_t)cell << s->cell_log, end = (uint64_t)(cell + 1) << s->cell_log;
    for (i = 0; i < n_near; i++) {
        const rmi_chn_view *v = &s->views[s->near_by[i]];
        if (v->cell > cell) continue;
        ns = v->f[cell - v->f_cells] + v->g[cell - v->g_cells] + v->ns;
        if (ns >= (s->near_by[i] < s->n_keeps || s->near_by[i] == s->fastest ? most : much)) continue;
        if (n && ns < s->least[best]) best = n;
        s->list[n] = s->near_by[i];
        s->least[n++] = ns;
    }
    for (i = 0; i < n; i++) {
        uint32_t k = s->list[i == 0 ? best : i == best ? 0 : i];
        RMI_TRY(rmi_chn_improve(s, k, rmi_max(s->sums[k].begin, begin), end, cell, e));
    }
    return RM_OK;
}

RMI_FN rm_result rmi_chn_envelope(rmi_chn_solver *s)
{
    uint32_t i, cell, n = 0, from = s->n_cells;
    uint64_t end = (uint64_t)s->n_cells << s->cell_log;
    s->n_env = 0;
    s->env[0].bytes = RMI_MAX + 1;
    for (i = s->fastest = 0; i < s->n_sums; i++) {
        if (s->sums[i].least_ns < s->sums[s->fastest].least_ns) s->fastest = i;
        if (s->views[i].cell < from) from = s->views[i].cell;
    }
    for (cell = from; cell < s->n_cells; cell++) {
        if (cell == from || cell % RMI_CHN_BLOCK == 0) n = rmi_chn_near(s, cell / RMI_CHN_BLOCK * RMI_CHN_BLOCK);
        RMI_TRY(rmi_chn_cell(s, cell, n));
    }
    for (i = 0, n = s->n_env; i < s->n_sums && end <= RMI_MAX; i++) /* beyond the cells */
        RMI_TRY(rmi_chn_improve(s, i, rmi_max(s->sums[i].begin, end), RMI_MAX + 1, s->n_cells, n));
    return RM_OK;
}

/* --- the recursion */

/* The candidate that runs stage i with option o. d is the gradient's size that waits during the forward. */
RMI_FN rmi_chn_sum rmi_chn_keep(const rmi_chn_table *t, uint32_t i, uint32_t j, uint32_t h, uint32_t o, uint64_t d)
{
    const rmi_chn_class *c = &t->classes[t->class_of[i]];
    const rmi_chn_option *p = &c->stage.options[o];
    uint32_t hold = h | p->reads_in, again = j + 1 < t->n;
    uint64_t outside = h ? c->in_bytes : 0, bwd = p->bwd_peak - (p->reads_in ? outside : 0), fwd;
    rmi_chn_sum s;
    memset(&s, 0, sizeof s);
    s.f = s.g = &rmi_chn_nothing;
    if (i == j) {
        fwd = p->leaf_peak[hold];
        s.ns = p->leaf_ns[again] + p->bwd_ns;
    } else {
        fwd = p->fwd_peak[hold];
        s.ns = p->fwd_ns[again] + p->bwd_ns;
        s.f = rmi_chn_find(t, i + 1, j, p->reads_out, &s.f_shift);
        s.f_shift = rmi_add(s.f_shift, rmi_add(p->saved, p->reads_out ? c->stage.out_bytes : 0));
        if (!h && p->reads_in) s.f_shift = rmi_add(s.f_shift, c->in_bytes);
        s.f_shift = rmi_min(s.f_shift, RMI_MAX + 1); /* too much for any memory, but no more than can be added to */
        bwd += t->grown_sum[j + 1] - t->grown_sum[i + 1];
    }
    s.bytes = rmi_max(fwd + d - outside, bwd);
    s.ns = rmi_chn_cap(s.ns);
    s.choice = o;
    return s;
}

/* The candidate that keeps the input of stage i and runs on to stage k; pass_ns and pass_need hold what the way costs. */
RMI_FN rmi_chn_sum rmi_chn_checkpoint(const rmi_chn_table *t, uint32_t i, uint32_t j, uint32_t h, uint32_t k, uint64_t pass_ns,
                                      uint64_t pass_need)
{
    const rmi_chn_class *c = &t->classes[t->class_of[i]];
    rmi_chn_sum s;
    memset(&s, 0, sizeof s);
    s.f = rmi_chn_find(t, k, j, 0, &s.f_shift);
    s.g = rmi_chn_find(t, i, k - 1, h, &s.g_shift);
    s.f_shift += h ? 0 : c->in_bytes;
    s.g_shift += t->grown_sum[j + 1] - t->grown_sum[k];
    s.ns = pass_ns;
    s.bytes = pass_need;
    s.choice = c->stage.n_options - 1 + k - i;
    return s;
}

/* What running from stage i to stage k - 1 without saving costs and needs, for every k in (i, j]. */
RMI_FN void rmi_chn_passes(const rmi_chn_table *t, uint32_t i, uint32_t j, uint32_t h, uint64_t d, uint64_t *ns, uint64_t *need)
{
    const rmi_chn_class *c = &t->classes[t->class_of[i]];
    uint32_t k, again = j + 1 < t->n;
    uint64_t in_bytes = c->in_bytes, time = c->stage.pass_ns[again];
    uint64_t bytes = c->stage.pass_peak[1] - (h ? in_bytes : 0) + d;
    for (k = i + 1; k <= j; k++) {
        ns[k] = time;
        need[k] = bytes;
        c = &t->classes[t->class_of[k]];
        time = rmi_chn_cap(time + c->stage.pass_ns[again]);
        bytes = rmi_max(bytes, c->stage.pass_peak[0] + d + (h ? 0 : in_bytes));
    }
}

/* Drops points while the first of them is within the tolerance. Upwards: that one stays, so that what remains can be had; the
   ends stay too. Downwards: it gets the time of the last, so that what remains is a bound from below. */
RMI_FN void rmi_chn_thin(rmi_chn_solver *s)
{
    uint32_t r, n = 0, ppm = s->t->tolerance_ppm;
    uint64_t ns = RMI_INF, now;
    if (!ppm) return;
    for (r = 0; r < s->n_env; r++) {
        now = s->env[r].ns;
        if (n && ns - now <= now / 1000000u * ppm + now % 1000000u * ppm / 1000000u && (s->down || r + 1 < s->n_env)) {
            if (s->down) s->env[n - 1].ns = now;
            continue;
        }
        s->env[n++] = s->env[r];
        ns = now;
    }
    s->n_env = n;
}

/* Is i..j a piece to take care of? All are, unless the chain is too long for that: then of long pieces only those that begin or
   end at a good place, the better the longer; some `dense` lengths for each start and doubling of length. */
RMI_FN int rmi_chn_is_good(const rmi_chn_table *t, uint32_t i, uint32_t j)
{
    uint32_t level = 0, len = j - i + 1;
    if (!t->dense || len < t->dense * 2) return 1;
    for (len /= t->dense * 2; len; len /= 2) level++;
    return t->level[i] >= level || (j + 1 < t->n && t->level[j + 1] >= level);
}

/* Is it solved? Those that begin with the first stage are, at least with a few cuts: the smallest memory of all is theirs. */
RMI_FN int rmi_chn_is_solved(const rmi_chn_table *t, uint32_t i, uint32_t j) { return i == 0 || rmi_chn_is_good(t, i, j); }

/* Makes room for the curves. */
RMI_FN rm_result rmi_chn_make_rows(rmi_arena *arena, rmi_chn_table *t)
{
    uint32_t h, i, len, n, inner = t->n - 1;
    t->lens = RMI_NEW(arena, uint32_t *, t->n);
    t->n_lens = RMI_NEW(arena, uint32_t, t->n);
    for (h = 0; h < 2; h++) {
        t->row[h] = RMI_NEW(arena, rmi_chn_curve *, t->n);
        t->tail[h] = RMI_NEW(arena, rmi_chn_curve, t->n);
    }
    if (!t->lens || !t->n_lens || !t->row[0] || !t->row[1] || !t->tail[0] || !t->tail[1]) return RM_ERROR_MEMORY;
    for (i = 0; i < inner; i++) {
        n = inner - i > t->shared[i] ? inner - i - t->shared[i] : 0;
        if (t->dense) {
            for (n = 0, len = t->shared[i] + 1; len <= inner - i; len++)
                n += len <= t->lent[i] || rmi_chn_is_solved(t, i, i + len - 1);
            if (!(t->lens[i] = RMI_NEW(arena, uint32_t, n))) return RM_ERROR_MEMORY;
            for (n = 0, len = t->shared[i] + 1; len <= inner - i; len++)
                if (len <= t->lent[i] || rmi_chn_is_solved(t, i, i + len - 1)) t->lens[i][n++] = len;
        }
        t->n_lens[i] = n;
        for (h = 0; h < 2; h++)
            if (t->classes[t->class_of[i]].forms >> h & 1 && !(t->row[h][i] = RMI_NEW(arena, rmi_chn_curve, n)))
                return RM_ERROR_MEMORY;
    }
    return RM_OK;
}

/* Is k looked at in i..j? Equal pieces are there at all places: then k's distance from the nearer end says it. */
RMI_FN int rmi_chn_may_cut(const rmi_chn_table *t, uint32_t i, uint32_t k, uint32_t j)
{
    uint32_t left = k - i, right = j + 1 - k, near = left < right ? left : right, step = 1;
    int last = j + 1 == t->n, few = i == 0 && !last && !rmi_chn_is_good(t, i, j);
    if (few || (left <= rmi_max(t->shared[i], t->lent[i]) && (last || right <= rmi_max(t->shared[k], t->lent[k])))) {
        while (near / (few && t->dense > 4 ? t->dense / 2 : t->dense) >= step * 2) step *= 2;
        if (near % step) return 0;
        if (!few) return 1;
    }
    return rmi_chn_is_solved(t, i, k - 1) && (last || rmi_chn_is_solved(t, k, j));
}

/* A place of level p is the best of 2^p neighbours: the one with the smallest input. */
RMI_FN rm_result rmi_chn_make_levels(rmi_arena *arena, rmi_arena *temp, rmi_chn_table *t)
{
    uint32_t i, n, m = t->n, p, *best = RMI_NEW(temp, uint32_t, t->n);
    t->level = RMI_NEW(arena, uint32_t, t->n);
    if (!best || !t->level) return RM_ERROR_MEMORY;
    for (i = 0; i < m; i++) best[i] = i;
    for (p = 1; m > 1; p++) {
        for (i = n = 0; i < m; i += 2) {
            uint32_t a = best[i], b = i + 1 < m ? best[i + 1] : a;
            best[n] = t->classes[t->class_of[b]].in_bytes < t->classes[t->class_of[a]].in_bytes ? b : a;
            t->level[best[n++]] = p;
        }
        m = n;
    }
    t->level[0] = 0; /* nothing ends there, and a piece that begins there is wanted only by those that do */
    return RM_OK;
}

/* The curve of P(i,j,h), from those of all shorter pieces. */
RMI_FN rm_result rmi_chn_fill(rmi_chn_solver *s, uint32_t i, uint32_t j, uint32_t h, rmi_chn_curve *to)
{
    const rmi_chn_table *t = s->t;
    const rmi_chn_class *c = &t->classes[t->class_of[i]];
    uint64_t d = j + 1 < t->n ? t->classes[t->class_of[j]].stage.grad_bytes : 0;
    rmi_chn_point *p;
    rmi_chn_sum sum;
    uint32_t o, k, *grid, *first, *choice;
    s->n_sums = 0;
    for (o = 0; o < c->stage.n_options; o++) {
        sum = rmi_chn_keep(t, i, j, h, o, d);
        rmi_chn_consider(s, &sum);
    }
    s->n_keeps = s->n_sums;
    rmi_chn_passes(t, i, j, h, d, s->pass_ns, s->pass_need);
    for (k = j; k > i; k--) {
        if (t->dense && !rmi_chn_may_cut(t, i, k, j)) continue;
        sum = rmi_chn_checkpoint(t, i, j, h, k, s->pass_ns[k], s->pass_need[k]);
        rmi_chn_consider(s, &sum);
    }
    s->t->work += 15 * (uint64_t)s->n_sums + s->n_cells / RMI_CHN_BLOCK * (uint64_t)(1 + s->n_sums / 2);
    if (s->t->work > s->work_limit || rmi_stopped(s->stop, s->t->work - s->told)) return RM_ERROR_CANCELLED;
    s->told = s->t->work;
    RMI_TRY(rmi_chn_envelope(s));
    rmi_chn_thin(s);
    p = RMI_NEW(s->arena, rmi_chn_point, (size_t)s->n_env + 1);
    grid = RMI_NEW(s->arena, uint32_t, s->n_cells + 1);
    first = RMI_NEW(s->arena, uint32_t, s->n_cells / RMI_CHN_BLOCK + 1);
    choice = RMI_NEW(s->arena, uint32_t, s->n_env);
    if (!p || !grid || !first || !choice) return RM_ERROR_MEMORY;
    for (k = 0; k < s->n_env; k++) {
        p[k].bytes = s->env[k].bytes;
        p[k].ns = s->env[k].ns;
        choice[k] = s->env[k].choice;
    }
    p[s->n_env].bytes = RMI_MAX + 1;
    to->at = p;
    to->least_bytes = p[0].bytes;
    to->least_ns = s->n_env ? p[s->n_env - 1].ns : 0;
    to->n = s->n_env;
    to->grid = grid;
    to->first = first;
    to->choice = choice;
    rmi_chn_sample(s, to, grid, first);
    return RM_OK;
}

/* Chooses the cells: by the memory and the time of keeping everything, each stage with its fastest option. */
RMI_FN rm_result rmi_chn_make_grid(rmi_chn_solver *s, uint32_t cells)
{
    const rmi_chn_table *t = s->t;
    uint64_t bytes = 0, peak = 0, ns = 0, now, best;
    uint32_t i, o, most = 0;
    for (i = 0; i < t->n; i++) {
        const rmi_chn_class *c = &t->classes[t->class_of[i]];
        const rmi_chn_option *p, *fast = NULL;
        best = RMI_INF;
        if (c->stage.n_options > most) most = c->stage.n_options;
        for (o = 0; o < c->stage.n_options; o++) {
            p = &c->stage.options[o];
            now = p->fwd_ns[0] + p->bwd_ns;
            if (now > best || (now == best && p->saved >= fast->saved)) continue;
            best = now;
            fast = p;
        }
        if (!fast) continue;
        peak = rmi_max(peak, rmi_max(fast->fwd_peak[1], fast->bwd_peak));
        bytes = rmi_add(bytes, fast->saved + c->stage.grown + (fast->reads_in ? c->in_bytes : 0));
        if (fast->reads_out) bytes = rmi_add(bytes, c->stage.out_bytes);
        ns = rmi_add(ns, best);
    }
    bytes = rmi_chn_cap(rmi_add(bytes, peak));
    while (bytes >> s->cell_log >= cells) s->cell_log++;
    while (ns >> s->ns_log >= 1u << 24) s->ns_log++;
    s->n_cells = ((uint32_t)(bytes >> s->cell_log) + RMI_CHN_BLOCK) / RMI_CHN_BLOCK * RMI_CHN_BLOCK;
    s->sums = RMI_NEW(s->temp, rmi_chn_sum, (size_t)t->n + most);
    s->views = RMI_NEW(s->temp, rmi_chn_view, (size_t)t->n + most);
    s->near_by = RMI_NEW(s->temp, uint32_t, (size_t)t->n + most);
    s->list = RMI_NEW(s->temp, uint32_t, (size_t)t->n + most);
    s->least = RMI_NEW(s->temp, uint32_t, (size_t)t->n + most);
    if (!rmi_arena_grow(s->temp, (void **)&s->env, &s->env_cap, 1, sizeof *s->env)) return RM_ERROR_MEMORY;
    return s->sums && s->views && s->near_by && s->list && s->least ? RM_OK : RM_ERROR_MEMORY;
}

/* All pieces, short ones first, then those that end with the last stage. */
RMI_FN rm_result rmi_chn_fill_all(rmi_chn_solver *s)
{
    rmi_chn_table *t = s->t;
    rmi_chn_curve *to;
    uint32_t i, len, h, inner = t->n - 1, *next = RMI_NEW(s->temp, uint32_t, t->n);
    if (!next) return RM_ERROR_MEMORY;
    for (len = 1; len <= inner; len++) {
        /* Work grows at least with the square of the length: stop early if it is going to be too much. */
        if (!t->dense && len > inner / 8 && t->work / len > rmi_mul(s->work_limit, 2 * len) / inner / inner)
            return RM_ERROR_CANCELLED;
        for (i = 0; i + len <= inner; i++) {
            if (next[i] == t->n_lens[i] || len != (t->dense ? t->lens[i][next[i]] : t->shared[i] + 1 + next[i])) continue;
            for (h = 0; h < 2; h++) {
                to = t->row[h][i] ? &t->row[h][i][next[i]] : NULL;
                if (to) RMI_TRY(rmi_chn_fill(s, i, i + len - 1, h, to));
            }
            next[i]++;
        }
    }
    for (i = t->n; i-- > 0;)
        for (h = 0; h < 2; h++)
            if (t->classes[t->class_of[i]].forms >> h & 1) RMI_TRY(rmi_chn_fill(s, i, inner, h, &t->tail[h][i]));
    return RM_OK;
}

/* About the number of pieces of the chain to be solved; *candidates: for all of them together. */
RMI_FN uint64_t rmi_chn_count(const rmi_chn_table *t, uint64_t *candidates)
{
    uint64_t n = t->n, own, cuts, most = RMI_INF;
    uint32_t i, inner = t->n - 1, logs = 1;
    if (t->dense) {
        while ((uint64_t)t->dense << logs < t->n) logs++;
        most = (uint64_t)t->dense * 2 * logs;
    }
    *candidates = (uint64_t)t->n * t->n / 2;
    for (i = 0; i < inner; i++) {
        own = rmi_sub(inner - i, t->shared[i]);
        cuts = (inner - i + t->shared[i]) / 2;
        *candidates += own * rmi_min(cuts, most);
        n += rmi_min(own, rmi_add(most, rmi_sub(t->lent[i], t->shared[i])));
    }
    return n;
}

/* One attempt. The arena is the table's. */
RMI_FN rm_result rmi_chn_solve_once(rmi_chn_solver *s, const rmi_chn_chain *chain)
{
    rmi_chn_table *t = s->t;
    uint64_t pieces, candidates, most = 1;
    uint32_t i, cells = RMI_CHN_CELLS;
    t->n = chain->n;
    RMI_TRY(rmi_chn_intern(s->arena, s->temp, chain, t));
    RMI_TRY(rmi_chn_share(s->arena, s->temp, t));
    RMI_TRY(rmi_chn_make_levels(s->arena, s->temp, t));
    pieces = rmi_chn_count(t, &candidates);
    for (i = 0; i < t->n_classes; i++) most = rmi_max(most, t->classes[i].stage.n_options);
    /* more options, longer curves */
    if (rmi_mul(rmi_mul(candidates, s->work_each), most > 4 ? most / 4 : 1) > s->work_limit) return RM_ERROR_CANCELLED;
    if (t->n < 64 || t->tolerance_ppm) cells /= 2;
    while (cells > 64 && pieces * cells > (uint64_t)1 << 24) cells /= 2;
    t->grown_sum = RMI_NEW(s->arena, uint64_t, (size_t)t->n + 1);
    s->pass_ns = RMI_NEW(s->temp, uint64_t, t->n);
    s->pass_need = RMI_NEW(s->temp, uint64_t, t->n);
    if (!t->grown_sum || !s->pass_ns || !s->pass_need) return RM_ERROR_MEMORY;
    for (i = 0; i < t->n; i++)
        t->grown_sum[i + 1] = rmi_add(t->grown_sum[i], t->classes[t->class_of[i]].stage.grown);
    if (t->grown_sum[t->n] > RMI_MAX) return RM_ERROR_INFEASIBLE; /* they are all there at the end of the step */
    RMI_TRY(rmi_chn_make_rows(s->arena, t));
    RMI_TRY(rmi_chn_make_grid(s, cells));
    RMI_TRY(rmi_chn_fill_all(s));
    t->curve = t->tail[1][0];
    return t->curve.n ? RM_OK : RM_ERROR_INFEASIBLE;
}

/* What RMI_CHN_AUTO tries, one after the other; the last has no limit. Leaving out pieces costs less than dropping points:
   at L = 100 dense = 16 loses nothing, 8 loses 0.05 %, 4 loses 0.7 %, where 0.5 % of tolerance may lose 5 %. */
#define RMI_CHN_WORK ((uint64_t)60000000)
typedef struct rmi_chn_way {
    uint32_t ppm, dense, work_each;
} rmi_chn_way;
static const rmi_chn_way rmi_chn_ways[] = { { 0, 0, 100 },   { 500, 16, 50 },  { 500, 8, 50 }, { 1000, 8, 20 },
                                            { 1000, 4, 20 }, { 2000, 4, 12 }, { 2000, 2, 12 }, { 5000, 2, 6 } };

/* Solves with a tolerance into an arena that is empty but for *out. */
RMI_FN rm_result rmi_chn_attempt(rmi_arena *arena, const rmi_chn_chain *chain, rmi_chn_way way, uint32_t down,
                                 uint64_t work_limit, rmi_chn_table **out)
{
    rmi_arena temp = rmi_arena_make(&arena->hooks);
    rmi_chn_solver s;
    rm_result r = RM_ERROR_MEMORY;
    memset(&s, 0, sizeof s);
    s.arena = arena;
    s.temp = &temp;
    s.down = down;
    s.work_limit = work_limit;
    s.work_each = way.work_each;
    s.slack_ppm = down ? 0 : way.ppm / 2;
    s.stop = arena->stop;
    if ((s.t = RMI_NEW(arena, rmi_chn_table, 1)) != NULL) {
        s.t->tolerance_ppm = (uint32_t)rmi_min(way.ppm, 500000);
        s.t->dense = way.dense;
        r = rmi_chn_solve_once(&s, chain);
    }
    rmi_arena_free(&temp);
    *out = s.t;
    return r;
}

/* No schedule is faster: every stage runs forward and backward, at best keeping in its first run. */
RMI_FN uint64_t rmi_chn_least_time(const rmi_chn_table *t)
{
    uint64_t sum = 0, best, fwd;
    uint32_t i, o;
    for (i = 0; i < t->n; i++) {
        const rmi_chn_stage *s = &t->classes[t->class_of[i]].stage;
        for (o = 0, best = RMI_INF; o < s->n_options; o++) {
            const rmi_chn_option *p = &s->options[o];
            fwd = rmi_min(rmi_min(p->fwd_ns[0], p->leaf_ns[0]), s->pass_ns[0] + rmi_min(p->fwd_ns[1], p->leaf_ns[1]));
            best = rmi_min(best, fwd + p->bwd_ns);
        }
        sum = rmi_add(sum, best);
    }
    return rmi_chn_cap(sum);
}

/* No persistent schedule within `bytes` takes less than this. */
RMI_FN uint64_t rmi_chn_bound(const rmi_chn_table *t, uint64_t bytes)
{
    uint32_t k = rmi_chn_at(t->low.at, t->low.n, bytes);
    return k == RMI_NONE ? RMI_INF : t->low.at[k].ns;
}

/* By how much the curve can be too slow, in parts per million, rounded up. */
RMI_FN uint32_t rmi_chn_loss(const rmi_chn_table *t)
{
    uint64_t worst = 0, bound;
    uint32_t i, n = t->curve.n;
    for (i = 0; i < n; i++) { /* worst just before the next point */
        bound = rmi_chn_bound(t, i + 1 < n ? t->curve.at[i + 1].bytes - 1 : RMI_MAX);
        if (t->curve.at[i].ns <= bound) continue;
        worst = rmi_max(worst, bound ? rmi_mul_div_up(t->curve.at[i].ns - bound, 1000000, bound) : RMI_INF);
    }
    return (uint32_t)rmi_min(worst, RMI_NONE);
}

/* What the tolerance may have cost: the chain again, with points dropped downwards and all pieces solved, if that is not too
   much work; otherwise the least time alone. */
RMI_FN rm_result rmi_chn_prove(rmi_arena *arena, const rmi_chn_chain *chain, rmi_chn_table *t, uint64_t work_limit)
{
    rmi_arena temp = rmi_arena_make(&arena->hooks);
    rmi_chn_table *low = NULL;
    rmi_chn_point *p;
    uint64_t least_ns = rmi_chn_least_time(t);
    uint32_t i, n = 1;
    rmi_chn_way way = { 1000, 0, 100 };
    rm_result r;
    temp.stop = arena->stop;
    if (t->tolerance_ppm) way.ppm = t->tolerance_ppm;
    t->low = t->curve;
    if (!t->tolerance_ppm && !t->dense) return RM_OK;
    /* with pieces left out the proof would be the work that was to be saved: keep-everything's time is the bound then */
    r = t->dense && work_limit != RMI_INF ? RM_ERROR_CANCELLED : rmi_chn_attempt(&temp, chain, way, 1, work_limit, &low);
    if (r == RM_OK) n = low->curve.n;
    if (r == RM_ERROR_CANCELLED) {
        r = RM_OK;
        low = NULL;
    }
    p = RMI_NEW(arena, rmi_chn_point, (size_t)n + 1);
    if (r == RM_OK && p) {
        for (i = 0; low && i < n; i++) {
            p[i] = low->curve.at[i];
            p[i].ns = rmi_max(p[i].ns, least_ns);
        }
        if (!low) p[0].ns = least_ns;
        t->low.at = p;
        t->low.n = n;
        t->lost_ppm = rmi_chn_loss(t);
    }
    rmi_arena_free(&temp);
    return r != RM_OK ? r : p ? RM_OK : RM_ERROR_MEMORY;
}

/* Solves a chain for all budgets. The table lives in the arena and does not point into the chain.
   RM_ERROR_INFEASIBLE: some stage has no option, or what must be held adds up to 2^62 bytes. RM_ERROR_CANCELLED: the arena's
   stop said so; a proof that it interrupts is done without. */
RMI_FN rm_result rmi_chn_solve(rmi_arena *arena, const rmi_chn_chain *chain, rmi_chn_table **out)
{
    rmi_arena own = rmi_arena_make(&arena->hooks);
    rmi_block **end = &own.blocks;
    rmi_chn_table *t = NULL;
    rm_result r = RM_ERROR_CANCELLED;
    rmi_chn_way way = { 0, 0, 1 };
    uint32_t i = chain->n > 256 ? 2 : chain->n > 128 ? 1 : 0, n = RMI_COUNT(rmi_chn_ways); /* longer chains exceed the first ways */
    *out = NULL;
    if (chain->n == 0) return RM_ERROR_ARGUMENT;
    own.stop = arena->stop;
    way.ppm = chain->tolerance_ppm;
    if (way.ppm != RMI_CHN_AUTO) r = rmi_chn_attempt(&own, chain, way, 0, RMI_INF, &t);
    for (; i < n && r == RM_ERROR_CANCELLED && !rmi_stopped(arena->stop, 0); i++) {
        rmi_arena_free(&own);
        r = rmi_chn_attempt(&own, chain, rmi_chn_ways[i], 0, i + 1 < n ? RMI_CHN_WORK : RMI_INF, &t);
    }
    if (r == RM_OK) r = rmi_chn_prove(&own, chain, t, chain->tolerance_ppm == RMI_CHN_AUTO ? RMI_CHN_WORK : RMI_INF);
    if (r != RM_OK) {
        rmi_arena_free(&own);
        return r;
    }
    while (*end) end = &(*end)->next; /* the table's blocks become the caller's */
    *end = arena->blocks;
    arena->blocks = own.blocks;
    *out = t;
    return RM_OK;
}

/* --- the schedule */

typedef struct rmi_chn_todo { /* a piece to run in `bytes`; or the backward of stage i with option o */
    uint32_t i, j, h, o;
    uint64_t bytes;
} rmi_chn_todo;

typedef struct rmi_chn_writer {
    rmi_arena *arena, *temp;
    const rmi_chn_table *t;
    rmi_chn_act *acts;
    rmi_chn_todo *stack;
    size_t n_acts, acts_cap, n_stack, stack_cap;
} rmi_chn_writer;

RMI_FN rm_result rmi_chn_put(rmi_chn_writer *w, uint32_t what, uint32_t stage, uint32_t option, uint32_t flags)
{
    rmi_chn_act *a;
    if (!rmi_arena_grow(w->arena, (void **)&w->acts, &w->acts_cap, w->n_acts + 1, sizeof *a)) return RM_ERROR_MEMORY;
    a = &w->acts[w->n_acts++];
    a->what = what;
    a->stage = stage;
    a->option = option;
    a->flags = flags;
    return RM_OK;
}

RMI_FN rm_result rmi_chn_push(rmi_chn_writer *w, uint32_t i, uint32_t j, uint32_t h, uint32_t o, uint64_t bytes)
{
    rmi_chn_todo *d;
    if (!rmi_arena_grow(w->temp, (void **)&w->stack, &w->stack_cap, w->n_stack + 1, sizeof *d)) return RM_ERROR_MEMORY;
    d = &w->stack[w->n_stack++];
    d->i = i;
    d->j = j;
    d->h = h;
    d->o = o;
    d->bytes = bytes;
    return RM_OK;
}

/* Writes a piece: what its curve does in these bytes, and pushes what that is made of, last first. */
RMI_FN rm_result rmi_chn_write_piece(rmi_chn_writer *w, rmi_chn_todo p)
{
    const rmi_chn_table *t = w->t;
    const rmi_chn_class *c = &t->classes[t->class_of[p.i]];
    uint32_t again = p.j + 1 < t->n ? RMI_CHN_AGAIN : 0, n = c->stage.n_options, choice, k, l, at;
    uint64_t shift;
    const rmi_chn_curve *curve = rmi_chn_find(t, p.i, p.j, p.h, &shift);
    at = p.bytes < shift ? RMI_NONE : rmi_chn_at(curve->at, curve->n, p.bytes - shift);
    if (at == RMI_NONE) return RM_ERROR_INFEASIBLE;
    choice = curve->choice[at];
    if (choice < n) {
        const rmi_chn_option *q = &c->stage.options[choice];
        RMI_TRY(rmi_chn_put(w, RMI_CHN_KEEP, p.i, choice,
                            again | (p.h | q->reads_in ? RMI_CHN_INPUT_STAYS : 0) | (p.i == p.j ? RMI_CHN_LEAF : 0)));
        RMI_TRY(rmi_chn_push(w, p.i, p.i, RMI_NONE, choice, 0));
        if (p.i == p.j) return RM_OK;
        shift = rmi_add(p.h || !q->reads_in ? 0 : c->in_bytes, q->reads_out ? c->stage.out_bytes : 0);
        return rmi_chn_push(w, p.i + 1, p.j, q->reads_out, 0, p.bytes - q->saved - shift);
    }
    k = p.i + choice + 1 - n;
    for (l = p.i; l < k; l++)
        RMI_TRY(rmi_chn_put(w, RMI_CHN_PASS, l, 0, again | (l == p.i ? RMI_CHN_INPUT_STAYS : 0)));
    RMI_TRY(rmi_chn_push(w, p.i, k - 1, p.h, 0, p.bytes - (t->grown_sum[p.j + 1] - t->grown_sum[k])));
    return rmi_chn_push(w, k, p.j, 0, 0, p.bytes - (p.h ? 0 : c->in_bytes));
}

/* The actions, in order, of the best schedule within `bytes`; in the arena. RM_ERROR_INFEASIBLE: the curve begins above. */
RMI_FN rm_result rmi_chn_schedule(rmi_arena *arena, const rmi_chn_table *t, uint64_t bytes, rmi_chn_act **acts, size_t *n)
{
    rmi_arena temp = rmi_arena_make(&arena->hooks);
    rmi_chn_writer w;
    rm_result r;
    memset(&w, 0, sizeof w);
    w.arena = arena;
    w.temp = &temp;
    w.t = t;
    r = rmi_chn_push(&w, 0, t->n - 1, 1, 0, rmi_chn_cap(bytes));
    while (r == RM_OK && w.n_stack) {
        rmi_chn_todo d = w.stack[--w.n_stack];
        r = d.h == RMI_NONE ? rmi_chn_put(&w, RMI_CHN_BACKWARD, d.i, d.o, 0) : rmi_chn_write_piece(&w, d);
    }
    rmi_arena_free(&temp);
    *acts = r == RM_OK ? w.acts : NULL;
    *n = r == RM_OK ? w.n_acts : 0;
    return r;
}

RMI_PLAIN_BEGIN

/* =====================================================================================================================
   >>block - options of one stage or group: what to keep, with bytes, peaks, times
   In: a stage of the chain. Out: what the chain solver needs to know of it. A stage keeps only what its backward reads, and
   reruns only what that needs. An option is a set of ops whose values are kept; what else the backward reads is rerun right
   before it (rk-rotor's options, arXiv 2307.01236). It also says of each op whose backward runs (its mode: what that reads,
   MONeT, arXiv 2010.14501), and how much workspace a run may take: among forms that differ in nothing else the fastest within
   that runs. Up to RMI_BLK_CODES choices of all that: every one; more: one change after the other, the cheapest a byte first.
   Pareto sets by saved bytes, peaks and times. Peaks come from >>sequence, so that they are those of the plan. Equal stages are
   measured once.
   ================================================================================================================== */
#define RMI_BLK_CODES 512u
#define RMI_BLK_MANY 64u   /* changes; more: their prices are found once */
#define RMI_BLK_MOST 2048u /* more: no options */
#define RMI_BLK_OPTIONS 24u /* of a stage, at most */
#define RMI_BLK_LEVELS 4u  /* of workspace: any, a quarter of the most that is asked for, a 16th, the least */
#define RMI_BLK_MODES 128u /* forms of an op that can be a mode */

typedef struct rmi_blk { /* the chain as the solver sees it, and how to turn its actions into runs */
    const rm_graph *g;
    const rmi_shape *shape;
    rmi_arena *mem;
    uint32_t step, granule;
    rmi_chn_chain chain;
    rmi_chn_stage *stages;
    rmi_chn_option **options;  /* by stage */
    const uint8_t **kept;      /* by stage: for each option a code, see below. Option 0 keeps all */
    int many;                  /* options that do not keep all */
    uint32_t *mode_at, *modes; /* by op: where its forms begin in modes; NULL: ops run as declared. By form: the first of its mode */
    uint64_t *most_ws;         /* by stage: of all forms */
    uint8_t *pass_level;       /* by stage: workspace of forwards that keep nothing */
    uint8_t *fresh, *todo;     /* by op: scratch: rerun in this backward; to be rerun next, all 0 */
    uint32_t *like;            /* by class: scratch: the stage that was measured last, + 1 */
    uint8_t *wanted;     /* by buffer: scratch, all 0 */
    uint8_t *rerun;      /* by op: bit 0: to make the output; bit 1: to make what the backward reads; bit 2: both */
    uint8_t *begun;      /* by tensor: a later stage has begun its gradient */
    uint64_t *in_bytes;  /* by stage: of the stretch that its input lies in */
    uint64_t *dout_bytes; /* by stage: of the stretch that its output's gradient lies in */
    uint64_t *grown;     /* by stage */
    rmi_seq seq;
    rmi_run *runs;       /* scratch: the runs of one stage */
    uint32_t *keep, *exit, *uncounted, *entry; /* scratch lists of buffers */
    uint64_t *entry_bytes;
    uint32_t n_keep;
    uint64_t tail_ws;    /* largest workspace of updates after a barrier */
} rmi_blk;

#define RMI_BLK_OUT 1u
#define RMI_BLK_KEEP 2u
#define RMI_BLK_BOTH 4u

/* The code of an option of a stage of m ops: a byte an op (bit 0: what it makes is kept; the rest: the form that stands for its
   mode), and one byte more: the level of workspace. */
RMI_FN size_t rmi_blk_code(const rmi_stage *s) { return (size_t)(s->hi - s->lo) + 1; }
RMI_FN const uint8_t *rmi_blk_code_of(const rmi_blk *b, uint32_t stage, uint32_t option) { return b->kept[stage] + option * rmi_blk_code(&b->shape->stages[stage]); }
RMI_FN uint32_t rmi_blk_mode(const rmi_stage *s, const uint8_t *kept, uint32_t op) { return kept[op - s->lo] >> 1; }

RMI_FN uint64_t rmi_blk_cap(const rmi_blk *b, const rmi_stage *s, uint32_t level)
{
    return !level ? RMI_INF : level + 1 == RMI_BLK_LEVELS ? 0 : b->most_ws[s - b->shape->stages] >> (2 * level);
}

/* Is a form that takes ns and ws to be preferred to one that takes old_ns and old_ws? */
RMI_FN int rmi_blk_prefers(uint64_t ns, uint64_t ws, uint64_t old_ns, uint64_t old_ws, uint64_t cap)
{
    uint64_t over = ws > cap ? ws : 0, old_over = old_ws > cap ? old_ws : 0;
    return over != old_over ? over < old_over : ns != old_ns ? ns < old_ns : ws < old_ws;
}

/* The form of a forward of which only the output counts. All forwards are of the bits of form 0. */
RMI_FN uint32_t rmi_blk_fwd_form(const rmi_blk *b, uint32_t i, int again, uint64_t cap)
{
    const rmi_op *op = &b->g->ops[i];
    uint32_t f, best = 0;
    for (f = 1; f < op->n_forms && b->mode_at && !op->pinned; f++) {
        const rmi_form *x = &op->forms[f], *y = &op->forms[best];
        if (b->modes[b->mode_at[i] + f] != RMI_NONE && rmi_blk_prefers(again ? x->again : x->fwd, x->fwd_ws, again ? y->again : y->fwd, y->fwd_ws, cap)) best = f;
    }
    return best;
}

RMI_FN uint32_t rmi_blk_bwd_form(const rmi_blk *b, uint32_t i, uint32_t mode, uint32_t part, uint64_t cap)
{
    const rmi_op *op = &b->g->ops[i];
    uint32_t f, best = mode;
    for (f = mode + 1; f < op->n_forms && b->mode_at; f++) {
        const rmi_part *x = &op->forms[f].parts[part], *y = &op->forms[best].parts[part];
        if (b->modes[b->mode_at[i] + f] == mode && rmi_blk_prefers(x->bwd, x->bwd_ws, y->bwd, y->bwd_ws, cap)) best = f;
    }
    return best;
}

/* The form of a forward under an option (NULL: one that keeps nothing). */
RMI_FN uint32_t rmi_blk_form(const rmi_blk *b, const rmi_stage *s, const uint8_t *kept, uint32_t i, int again)
{
    const rmi_op *op = &b->g->ops[i];
    if (!b->mode_at || op->n_forms == 1 || op->pinned) return 0;
    if (!kept) return rmi_blk_fwd_form(b, i, again, rmi_blk_cap(b, s, b->pass_level[s - b->shape->stages]));
    if (op->has_bwd && rmi_low_reads_saved(op, &op->forms[rmi_blk_mode(s, kept, i)])) return rmi_blk_mode(s, kept, i);
    return rmi_blk_fwd_form(b, i, again, rmi_blk_cap(b, s, kept[s->hi - s->lo]));
}

/* --- which runs */
RMI_FN int rmi_blk_inner(const rmi_blk *b, const rmi_stage *s, uint32_t t)
{
    const rmi_tensor *x = &b->g->tensors[t];
    return x->kind == RMI_ACT && x->maker >= s->lo && x->maker < s->hi && !b->shape->carried[t];
}

/* Marks with `bit` the ops of the stage that must run to make everything in list (and out, if asked). */
RMI_FN void rmi_blk_mark(rmi_blk *b, const rmi_stage *s, int out, int keep, uint8_t bit)
{
    const rm_graph *g = b->g;
    uint32_t i, k;
    if (out && s->out != RMI_NONE) b->wanted[s->out] = 1;
    for (i = 0; i < b->n_keep && keep; i++) b->wanted[b->keep[i]] = 1;
    for (i = s->hi; i-- > s->lo;) {
        const rmi_op *op = &g->ops[i];
        int need = b->wanted[rmi_low_buf(g, RMI_BUF_SAVED, i)];
        for (k = 0; k < op->out.n; k++) need |= b->wanted[op->out.at[k]];
        if (!need || op->pinned) continue;
        b->rerun[i] |= bit;
        for (k = 0; k < op->in.n; k++)
            if (rmi_blk_inner(b, s, op->in.at[k])) b->wanted[op->in.at[k]] = 1;
    }
    for (i = s->lo; i < s->hi; i++) {
        b->wanted[rmi_low_buf(g, RMI_BUF_SAVED, i)] = 0;
        for (k = 0; k < g->ops[i].out.n; k++) b->wanted[g->ops[i].out.at[k]] = 0;
        for (k = 0; k < g->ops[i].in.n; k++) b->wanted[g->ops[i].in.at[k]] = 0;
    }
}

/* Forward runs of a stage under an option (NULL: keeping nothing); bits 0: all of them (the first time). */
RMI_FN uint32_t rmi_blk_forward(const rmi_blk *b, const rmi_stage *s, const uint8_t *kept, uint8_t bits, rmi_run *runs)
{
    uint32_t i, n = 0;
    for (i = s->lo; i < s->hi; i++)
        if (!bits || (b->rerun[i] & bits)) runs[n++] = rmi_low_run(RMI_FWD, i, rmi_blk_form(b, s, kept, i, bits != 0), 0);
    return n;
}

/* Updates after the backward of op: of those params that it is the first to read. Earlier ops do not want the old value. */
RMI_FN uint32_t rmi_blk_updates(const rm_graph *g, uint32_t op, rmi_run *runs)
{
    const rmi_list *in = &g->ops[op].in;
    uint32_t i, k, n = 0;
    for (i = 0; i < in->n; i++) {
        uint32_t w = g->tensors[in->at[i]].root;
        if (!g->tensors[w].updates || g->tensors[w].reader != op) continue;
        for (k = 0; k < i && g->tensors[in->at[k]].root != w;) k++;
        if (k == i) runs[n++] = rmi_low_run(g->tensors[w].opt == RMI_INF ? RMI_OPT_HOST : RMI_OPT, w, 0, 0);
    }
    return n;
}

/* The backward of op i in a mode, each param's reduction as soon as its gradient is complete, its update as soon as nobody reads
   it any more. b: NULL, or who picks among the forms of the mode. */
RMI_FN uint32_t rmi_blk_backward_op(const rmi_blk *b, const rm_graph *g, uint32_t step, uint32_t i, uint32_t mode, uint64_t cap, rmi_run *runs)
{
    const rmi_op *op = &g->ops[i];
    const rmi_form *f = &op->forms[mode];
    uint32_t k, p, n = 0;
    for (p = 0; p < f->n_parts && op->has_bwd; p++) {
        if (!rmi_low_part_wanted(op, &f->parts[p])) continue;
        runs[n++] = rmi_low_run(RMI_BWD, i, b ? rmi_blk_bwd_form(b, i, mode, p, cap) : mode, p);
        for (k = 0; k < op->grad_in.n && rmi_low_has_update(step); k++) {
            uint32_t w = op->grad_in.at[k];
            const rmi_tensor *t = &g->tensors[w];
            if (t->kind != RMI_PARAM || t->consumers.at[0] != i || !rmi_list_has(&f->parts[p].grads, w)) continue;
            if (t->reduce != RMI_INF) runs[n++] = rmi_low_run(RMI_REDUCE, w, 0, 0);
        }
    }
    if (rmi_low_has_update(step) && !g->n_barriers) n += rmi_blk_updates(g, i, runs + n);
    return n;
}

/* Backward runs of ops [lo, hi) as declared, in reverse order. */
RMI_FN uint32_t rmi_blk_backward(const rm_graph *g, uint32_t step, uint32_t lo, uint32_t hi, rmi_run *runs)
{
    uint32_t i, n = 0;
    for (i = hi; i-- > lo;) n += rmi_blk_backward_op(NULL, g, step, i, 0, 0, runs + n);
    return n;
}

/* What comes after the whole backward: barriers, and the updates that waited for them. */
RMI_FN uint32_t rmi_blk_tail(const rm_graph *g, uint32_t step, rmi_run *runs)
{
    uint32_t i, n = 0;
    if (!rmi_low_has_update(step) || !g->n_barriers) return 0;
    for (i = 0; i < g->n_barriers; i++) runs[n++] = rmi_low_run(RMI_BARRIER, i, 0, 0);
    for (i = g->n_tensors; i-- > 0;)
        if (g->tensors[i].updates) runs[n++] = rmi_low_run(g->tensors[i].opt == RMI_INF ? RMI_OPT_HOST : RMI_OPT, i, 0, 0);
    return n;
}

/* --- what an option runs */

/* Is what op i makes kept? A view goes with what it looks at. */
RMI_FN int rmi_blk_is_kept(const rmi_blk *b, const rmi_stage *s, const uint8_t *kept, uint32_t i)
{
    const rm_graph *g = b->g;
    if (g->ops[i].view != RMI_NONE) {
        uint32_t root = g->tensors[g->ops[i].view].root;
        if (!rmi_blk_inner(b, s, root)) return 1;
        i = g->tensors[root].maker;
    }
    return kept[i - s->lo] & 1;
}

RMI_FN void rmi_blk_put_keep(rmi_blk *b, uint32_t buf)
{
    if (b->wanted[buf]) return;
    b->wanted[buf] = 1;
    b->keep[b->n_keep++] = buf;
}

/* Something reads tensor t during the backward: notes it if it is kept; 0: it has to be rerun. */
RMI_FN int rmi_blk_there(rmi_blk *b, const rmi_stage *s, const uint8_t *kept, uint32_t t, rmi_chn_option *o)
{
    uint32_t root = b->g->tensors[t].root;
    if (s->in != RMI_NONE && root == s->in) o->reads_in = 1;
    if (s->out != RMI_NONE && root == s->out && b->shape->carried[root]) o->reads_out = 1;
    if (!rmi_blk_inner(b, s, t) || b->fresh[b->g->tensors[t].maker]) return 1;
    if (!rmi_blk_is_kept(b, s, kept, b->g->tensors[t].maker)) return 0;
    if (root == s->out) o->reads_out = 1;
    if (t != s->out) rmi_blk_put_keep(b, t);
    return 1;
}

/* Reruns op `last`, and before it whatever it reads that is not there. */
RMI_FN uint32_t rmi_blk_rerun(rmi_blk *b, const rmi_stage *s, const uint8_t *kept, uint32_t last, rmi_chn_option *o, rmi_run *runs)
{
    const rm_graph *g = b->g;
    uint32_t i, k, lo = last, n = 0;
    b->todo[last] = 1;
    for (i = last + 1; i-- > lo;)
        for (k = 0; k < g->ops[i].in.n && b->todo[i]; k++) {
            uint32_t t = g->ops[i].in.at[k];
            if (rmi_blk_there(b, s, kept, t, o)) continue;
            b->todo[g->tensors[t].maker] = 1;
            if (g->tensors[t].maker < lo) lo = g->tensors[t].maker;
        }
    for (i = lo; i <= last; i++) {
        if (!b->todo[i]) continue;
        b->todo[i] = 0;
        b->fresh[i] = 1;
        runs[n++] = rmi_low_run(RMI_FWD, i, rmi_blk_form(b, s, kept, i, 1), 0);
    }
    return n;
}

/* The backward runs of stage s when it keeps what the ops in `kept` make; the list keep: what of that is read; whether input
   and output are. */
RMI_FN uint32_t rmi_blk_way(rmi_blk *b, const rmi_stage *s, const uint8_t *kept, rmi_chn_option *o, rmi_run *runs)
{
    const rm_graph *g = b->g;
    uint32_t i, k, p, n = 0;
    b->n_keep = 0;
    o->reads_in = o->reads_out = 0;
    memset(b->fresh + s->lo, 0, s->hi - s->lo);
    for (i = s->hi; i-- > s->lo;) {
        const rmi_op *op = &g->ops[i];
        const rmi_form *f = &op->forms[rmi_blk_mode(s, kept, i)];
        uint32_t saved = rmi_low_buf(g, RMI_BUF_SAVED, i);
        for (p = 0; p < f->n_parts && op->has_bwd; p++) {
            if (!rmi_low_part_wanted(op, &f->parts[p])) continue;
            if (f->parts[p].needs_saved && f->saved && !b->shape->carried[saved] && !b->fresh[i]) {
                if (kept[i - s->lo] & 1) rmi_blk_put_keep(b, saved);
                else n += rmi_blk_rerun(b, s, kept, i, o, runs + n);
            }
            for (k = 0; k < f->parts[p].needs.n; k++) {
                uint32_t t = f->parts[p].needs.at[k];
                if (!rmi_blk_there(b, s, kept, t, o)) n += rmi_blk_rerun(b, s, kept, g->tensors[t].maker, o, runs + n);
            }
        }
        n += rmi_blk_backward_op(b, g, b->step, i, rmi_blk_mode(s, kept, i), rmi_blk_cap(b, s, kept[s->hi - s->lo]), runs + n);
    }
    for (i = 0; i < b->n_keep; i++) b->wanted[b->keep[i]] = 0;
    return n;
}

/* Makes option k of stage i the one that the marks of rerun and the list keep are about. */
RMI_FN void rmi_blk_select(rmi_blk *b, uint32_t i, uint32_t k)
{
    const rmi_stage *s = &b->shape->stages[i];
    uint32_t op;
    rmi_chn_option o;
    rmi_blk_way(b, s, rmi_blk_code_of(b, i, k), &o, b->runs);
    for (op = s->lo; op < s->hi; op++) b->rerun[op] &= RMI_BLK_OUT;
    rmi_blk_mark(b, s, 0, 1, RMI_BLK_KEEP);
    rmi_blk_mark(b, s, 1, 1, RMI_BLK_BOTH);
}

/* --- how much */

/* Runs the scratch runs through >>sequence: peak, bytes at the end, time. */
RMI_FN rm_result rmi_blk_measure(rmi_blk *b, uint32_t n_runs, uint32_t n_entry, uint32_t n_exit, int reran, uint64_t *peak, uint64_t *at_end, uint64_t *ns)
{
    rmi_seq *q = &b->seq;
    q->runs = b->runs;
    q->n = n_runs;
    q->entry = b->entry;
    q->entry_bytes = b->entry_bytes;
    q->n_entry = n_entry;
    q->exit = b->exit;
    q->n_exit = n_exit;
    q->reran = reran;
    RMI_TRY(rmi_seq_build(q));
    RMI_TRY(rmi_seq_peak(q, peak, at_end));
    *ns = q->ns;
    return RM_OK;
}

/* One forward of the stage: from its input, with what is in exit wanted afterwards (and the input too, if hold). */
RMI_FN rm_result rmi_blk_forward_peak(rmi_blk *b, const rmi_stage *s, uint32_t stage, const uint8_t *kept, uint8_t bits, uint32_t n_exit, int hold, uint64_t *peak, uint64_t *at_end, uint64_t *ns)
{
    uint32_t n = rmi_blk_forward(b, s, kept, bits, b->runs), n_entry = 0;
    uint64_t idle = 0;
    if (s->in != RMI_NONE && !b->shape->carried[s->in]) {
        b->entry[n_entry] = s->in;
        b->entry_bytes[n_entry++] = b->in_bytes[stage];
        if (hold) b->exit[n_exit++] = s->in;
        idle = rmi_round_up(b->in_bytes[stage], b->granule);
    }
    RMI_TRY(rmi_blk_measure(b, n, n_entry, n_exit, bits != 0, peak, at_end, ns));
    *peak = rmi_max(*peak, idle); /* a stage that has nothing to run still starts with its input */
    return RM_OK;
}

RMI_FN uint64_t rmi_blk_rounded_at_end(const rmi_blk *b, uint32_t t) { return rmi_round_up(rmi_seq_bytes_at_end(&b->seq, t), b->granule); }

/* Forward that saves nothing, first and again, input dying and staying. */
RMI_FN rm_result rmi_blk_pass_at(rmi_blk *b, uint32_t i, uint32_t level, rmi_chn_stage *c)
{
    const rmi_stage *s = &b->shape->stages[i];
    uint32_t hold, again;
    b->pass_level[i] = (uint8_t)level;
    for (again = 0; again < 2; again++)
        for (hold = 0; hold < 2; hold++) {
            uint64_t peak, at_end;
            uint32_t n_exit = 0;
            if (s->out != RMI_NONE) b->exit[n_exit++] = s->out;
            RMI_TRY(rmi_blk_forward_peak(b, s, i, NULL, again ? RMI_BLK_OUT : 0, n_exit, (int)hold, &peak, &at_end, &c->pass_ns[again]));
            c->pass_peak[hold] = rmi_max(c->pass_peak[hold], peak);
            if (s->out != RMI_NONE && !b->shape->carried[s->out]) c->out_bytes = rmi_max(c->out_bytes, rmi_blk_rounded_at_end(b, s->out));
        }
    return RM_OK;
}

/* The same with the level of workspace that has the least peak. */
RMI_FN rm_result rmi_blk_pass(rmi_blk *b, uint32_t i)
{
    rmi_chn_stage *c = &b->stages[i], now;
    uint32_t level, best = 0;
    RMI_TRY(rmi_blk_pass_at(b, i, 0, c));
    for (level = 1; level < RMI_BLK_LEVELS && b->most_ws[i]; level++) {
        memset(&now, 0, sizeof now);
        RMI_TRY(rmi_blk_pass_at(b, i, level, &now));
        if (now.pass_peak[1] >= c->pass_peak[1]) continue;
        best = level;
        *c = now;
    }
    b->pass_level[i] = (uint8_t)best;
    return RM_OK;
}

/* Forward that keeps what the backward of option `which` reads. */
RMI_FN rm_result rmi_blk_keep(rmi_blk *b, uint32_t i, uint32_t which)
{
    const rmi_stage *s = &b->shape->stages[i];
    rmi_chn_stage *c = &b->stages[i];
    rmi_chn_option *o = &b->options[i][which];
    const uint8_t *kept = rmi_blk_code_of(b, i, which);
    uint32_t hold, again, leaf, k;
    rmi_blk_select(b, i, which);
    for (leaf = 0; leaf < 2; leaf++)
        for (again = 0; again < 2; again++)
            for (hold = 0; hold < 2; hold++) {
                uint64_t peak, at_end, *ns = leaf ? &o->leaf_ns[again] : &o->fwd_ns[again], *to = leaf ? &o->leaf_peak[hold] : &o->fwd_peak[hold];
                uint32_t n_exit = 0;
                int out = s->out != RMI_NONE && (!leaf || o->reads_out);
                for (k = 0; k < b->n_keep; k++) b->exit[n_exit++] = b->keep[k];
                if (out) b->exit[n_exit++] = s->out;
                RMI_TRY(rmi_blk_forward_peak(b, s, i, kept, !again ? 0 : out ? RMI_BLK_BOTH : RMI_BLK_KEEP, n_exit, (int)(hold | o->reads_in), &peak, &at_end, ns));
                *to = rmi_max(*to, peak);
                if (leaf) continue;
                if (out && !b->shape->carried[s->out]) {
                    c->out_bytes = rmi_max(c->out_bytes, rmi_blk_rounded_at_end(b, s->out));
                    at_end = rmi_sub(at_end, rmi_blk_rounded_at_end(b, s->out));
                }
                if ((hold || o->reads_in) && s->in != RMI_NONE && !b->shape->carried[s->in]) at_end = rmi_sub(at_end, rmi_blk_rounded_at_end(b, s->in));
                o->saved = rmi_max(o->saved, at_end);
            }
    return RM_OK;
}

RMI_FN void rmi_blk_enter(rmi_blk *b, uint32_t *n, uint32_t buf, uint64_t bytes)
{
    b->entry[*n] = buf;
    b->entry_bytes[(*n)++] = bytes;
}

/* Does a backward of op `from` or a later one give tensor t gradient? Where long lives are carried, all of it may come from before. */
RMI_FN int rmi_blk_given_from(const rm_graph *g, uint32_t t, uint32_t from)
{
    const rmi_list *c = &g->tensors[t].consumers;
    return c->n && c->at[c->n - 1] >= from;
}

/* The backward of the stage with an option: from what was kept and the output's gradient to the input's gradient and those of
   weights that stay. *din, *grown: at least the bytes of the input's gradient, and of what else it leaves. */
RMI_FN rm_result rmi_blk_back(rmi_blk *b, uint32_t i, const uint8_t *kept, rmi_chn_option *o, uint64_t *din, uint64_t *grown)
{
    const rm_graph *g = b->g;
    const rmi_stage *s = &b->shape->stages[i];
    uint32_t k, j, n_entry = 0, n_exit = 0, n = rmi_blk_way(b, s, kept, o, b->runs), t;
    uint64_t at_end, left;
    if (o->reads_in && s->in != RMI_NONE && !b->shape->carried[s->in]) rmi_blk_enter(b, &n_entry, s->in, b->in_bytes[i]);
    if (o->reads_out && s->out != RMI_NONE && !b->shape->carried[s->out]) rmi_blk_enter(b, &n_entry, s->out, b->stages[i].out_bytes);
    for (k = 0; k < b->n_keep; k++) {
        uint64_t bytes = rmi_low_kind(g, b->keep[k], &t) == RMI_BUF_SAVED ? g->ops[t].forms[rmi_blk_mode(s, kept, t)].saved : g->tensors[g->tensors[t].root].bytes;
        rmi_blk_enter(b, &n_entry, b->keep[k], bytes);
    }
    if (s->out != RMI_NONE && rmi_blk_given_from(g, s->out, s->hi)) rmi_blk_enter(b, &n_entry, rmi_low_buf(g, RMI_BUF_GRAD, s->out), b->dout_bytes[i]);
    if (s->in != RMI_NONE && rmi_blk_given_from(g, s->in, s->lo) && g->ops[g->tensors[s->in].maker].has_bwd) b->exit[n_exit++] = rmi_low_buf(g, RMI_BUF_GRAD, s->in);
    b->seq.n_uncounted = b->shape->n_carried;
    for (k = s->lo; k < s->hi; k++)
        for (j = 0; j < g->ops[k].out.n; j++)
            if (b->shape->skips[g->ops[k].out.at[j]]) b->uncounted[b->seq.n_uncounted++] = rmi_low_buf(g, RMI_BUF_GRAD, g->ops[k].out.at[j]);
    for (k = s->lo; k < s->hi; k++)
        for (j = 0; j < g->ops[k].in.n; j++) {
            t = g->ops[k].in.at[j];
            if (b->shape->skips[t]) b->uncounted[b->seq.n_uncounted++] = rmi_low_buf(g, RMI_BUF_GRAD, t);
            t = g->tensors[t].root;
            if (g->tensors[t].kind == RMI_ACT || (rmi_low_grads_resident(b->step) && g->tensors[t].kind == RMI_PARAM)) continue;
            if (b->begun[t]) b->uncounted[b->seq.n_uncounted++] = rmi_low_buf(g, RMI_BUF_GRAD, t);
            else if (!rmi_list_has(&g->ops[k].grad_in, t)) continue;
            else if (g->tensors[t].reader < s->lo || g->n_barriers || rmi_seq_grad_stays(g, b->step, t)) b->exit[n_exit++] = rmi_low_buf(g, RMI_BUF_GRAD, t);
        }
    RMI_TRY(rmi_blk_measure(b, n, n_entry, n_exit, 1, &o->bwd_peak, &at_end, &o->bwd_ns));
    b->seq.n_uncounted = b->shape->n_carried;
    left = i && s->in != RMI_NONE ? rmi_seq_bytes_at_end(&b->seq, rmi_low_buf(g, RMI_BUF_GRAD, s->in)) : 0;
    *grown = rmi_max(*grown, rmi_sub(at_end, rmi_round_up(left, b->granule)));
    *din = rmi_max(*din, left);
    return RM_OK;
}

/* --- which options */
typedef struct rmi_blk_list { /* candidates of a stage, codes of m bytes */
    rmi_chn_option *at;
    uint8_t *kept;
    size_t cap, cap_kept, m;
    uint32_t n;
} rmi_blk_list;

/* Bytes of the list keep, under an option. */
RMI_FN uint64_t rmi_blk_kept_bytes(const rmi_blk *b, const rmi_stage *s, const uint8_t *kept)
{
    const rm_graph *g = b->g;
    uint64_t sum = 0;
    uint32_t k, e, t, u;
    for (k = 0; k < b->n_keep; k++) {
        int saved = rmi_low_kind(g, b->keep[k], &t) == RMI_BUF_SAVED;
        for (e = 0; e < k && !saved; e++) /* views of one root count once */
            if (rmi_low_kind(g, b->keep[e], &u) == RMI_BUF_VALUE && g->tensors[u].root == g->tensors[t].root) break;
        if (saved || e == k) sum = rmi_add(sum, rmi_round_up(saved ? g->ops[t].forms[rmi_blk_mode(s, kept, t)].saved : g->tensors[g->tensors[t].root].bytes, b->granule));
    }
    return sum;
}

RMI_FN rm_result rmi_blk_add(rmi_blk *b, rmi_arena *mem, uint32_t i, rmi_blk_list *l, const uint8_t *kept)
{
    rmi_arena tmp = rmi_arena_make(&mem->hooks), *before = b->seq.mem;
    const rmi_stage *s = &b->shape->stages[i];
    rmi_chn_option *o;
    uint64_t din = 0, grown = 0;
    rm_result r;
    if (!rmi_arena_grow(mem, (void **)&l->at, &l->cap, (size_t)l->n + 1, sizeof *l->at) || !rmi_arena_grow(mem, (void **)&l->kept, &l->cap_kept, ((size_t)l->n + 1) * l->m, 1)) return RM_ERROR_MEMORY;
    o = &l->at[l->n];
    memset(o, 0, sizeof *o);
    memcpy(l->kept + (size_t)l->n * l->m, kept, l->m);
    b->seq.mem = &tmp;
    r = rmi_blk_back(b, i, kept, o, &din, &grown);
    o->saved = rmi_blk_kept_bytes(b, s, kept);
    if (r == RM_OK && b->mode_at) { /* forwards differ, too */
        uint64_t at_end;
        uint32_t k, n = 0;
        for (k = 0; k < b->n_keep; k++) b->exit[n++] = b->keep[k];
        if (s->out != RMI_NONE) b->exit[n++] = s->out;
        r = rmi_blk_forward_peak(b, s, i, kept, 0, n, 1, &o->fwd_peak[1], &at_end, &o->fwd_ns[0]);
    }
    rmi_arena_free(&tmp);
    b->seq.mem = before;
    l->n++;
    return r;
}

/* Is x as good as y in everything, give or take slack / 256 of what option 0 takes? */
RMI_FN int rmi_blk_covers(const rmi_chn_option *x, const rmi_chn_option *y, const rmi_chn_option *all, uint64_t slack)
{
    return x->reads_in <= y->reads_in && x->reads_out <= y->reads_out && x->saved <= y->saved + all->saved / 256 * slack &&
           x->bwd_peak <= y->bwd_peak + all->bwd_peak / 256 * slack && x->bwd_ns <= y->bwd_ns + all->bwd_ns / 1024 * slack &&
           x->fwd_peak[1] <= y->fwd_peak[1] + all->fwd_peak[1] / 256 * slack && x->fwd_ns[0] <= y->fwd_ns[0] + all->fwd_ns[0] / 1024 * slack;
}

/* Leaves a Pareto set of at most RMI_BLK_OPTIONS, option 0 in front. */
RMI_FN void rmi_blk_pareto(rmi_blk_list *l)
{
    uint64_t slack;
    for (slack = 0; slack < 256; slack = slack * 3 / 2 + 1) {
        uint32_t i, k, n = 1;
        for (i = 1; i < l->n; i++) {
            for (k = 0; k < n && !rmi_blk_covers(&l->at[k], &l->at[i], &l->at[0], slack);) k++;
            if (k < n) continue;
            for (k = i + 1; k < l->n && !slack && !rmi_blk_covers(&l->at[k], &l->at[i], &l->at[0], 0);) k++;
            if (k < l->n && !slack && !rmi_blk_covers(&l->at[i], &l->at[k], &l->at[0], 0)) continue;
            l->at[n] = l->at[i];
            memmove(l->kept + (size_t)n * l->m, l->kept + (size_t)i * l->m, l->m);
            n++;
        }
        l->n = n;
        if (n <= RMI_BLK_OPTIONS) return;
    }
    l->n = (uint32_t)rmi_min(l->n, RMI_BLK_OPTIONS);
}

typedef struct rmi_blk_change { /* of a code: byte op becomes that of another mode, or (mode RMI_NONE) its bit 0 is cleared */
    uint64_t price;
    uint32_t op, mode;
} rmi_blk_change;

/* The byte after the change; as it is if the change is none. */
RMI_FN uint8_t rmi_blk_changed(const rmi_blk_change *x, uint8_t code) { return (uint8_t)(x->mode == RMI_NONE ? code & ~1u : (code & 1u) | x->mode << 1); }

/* What a change costs in time a byte, from candidate `last` on; RMI_MAX: it frees nothing. */
RMI_FN uint64_t rmi_blk_price(rmi_blk *b, uint32_t i, const rmi_chn_option *last, uint8_t *kept, const rmi_blk_change *x)
{
    const rmi_stage *s = &b->shape->stages[i];
    rmi_chn_option o;
    uint64_t ns = 0, bytes;
    uint32_t runs, p;
    uint8_t was = kept[x->op];
    kept[x->op] = rmi_blk_changed(x, was);
    if (kept[x->op] == was) return RMI_INF;
    runs = rmi_blk_way(b, s, kept, &o, b->runs);
    bytes = rmi_add(rmi_blk_kept_bytes(b, s, kept), o.reads_out > last->reads_out ? b->stages[i].out_bytes : 0);
    for (p = 0; p < runs; p++) ns = rmi_add(ns, rmi_low_ns(b->g, b->runs[p], 1, 0));
    if (x->mode != RMI_NONE) {
        runs = rmi_blk_forward(b, s, kept, 0, b->runs);
        for (p = 0; p < runs; p++) ns = rmi_add(ns, rmi_low_ns(b->g, b->runs[p], 0, 0));
    } else ns = rmi_add(ns, last->fwd_ns[0]);
    kept[x->op] = was;
    if (bytes >= last->saved) return RMI_MAX;
    return rmi_min(rmi_mul_div_up(rmi_sub(ns, rmi_min(ns, last->bwd_ns + last->fwd_ns[0])), (uint64_t)1 << 20, last->saved - bytes), RMI_MAX);
}

RMI_FN int rmi_blk_cmp_change(const void *a, const void *b, void *user)
{
    const rmi_blk_change *x = (const rmi_blk_change *)a, *y = (const rmi_blk_change *)b;
    (void)user;
    if (x->price != y->price) return x->price < y->price ? -1 : 1;
    return x->op != y->op ? (x->op < y->op ? -1 : 1) : x->mode < y->mode ? -1 : x->mode > y->mode;
}

/* One change after the other, that which costs least time a byte first; of many, in the order of their first prices. */
RMI_FN rm_result rmi_blk_descend(rmi_blk *b, rmi_arena *mem, uint32_t i, rmi_blk_list *l, uint8_t *kept, rmi_blk_change *x, uint32_t n)
{
    uint32_t k, done, which;
    if (n > RMI_BLK_MANY) {
        if (n > RMI_BLK_MOST) return RM_OK;
        for (k = 0; k < n; k++) x[k].price = rmi_blk_price(b, i, &l->at[0], kept, &x[k]);
        rmi_sort(x, n, sizeof *x, rmi_blk_cmp_change, NULL);
    }
    for (done = 0; done < n; done++) {
        const rmi_chn_option *last = &l->at[l->n - 1];
        rmi_blk_change next;
        which = RMI_NONE;
        for (k = done; k < n && (n <= RMI_BLK_MANY || k == done); k++) {
            if (n <= RMI_BLK_MANY || x[k].mode != RMI_NONE) x[k].price = rmi_blk_price(b, i, last, kept, &x[k]);
            if (x[k].mode != RMI_NONE && x[k].price >= RMI_MAX) continue; /* another mode that helps nothing */
            if (which == RMI_NONE || x[k].price < x[which].price) which = k;
        }
        if (which == RMI_NONE && n <= RMI_BLK_MANY) return RM_OK;
        if (which != RMI_NONE) {
            next = x[which];
            kept[next.op] = rmi_blk_changed(&next, kept[next.op]);
            x[which] = x[done];
            x[done] = next;
        }
        if (n > RMI_BLK_MANY && (done + 1) % (n / 32)) continue;
        RMI_TRY(rmi_blk_add(b, mem, i, l, kept));
    }
    return RM_OK;
}

/* Time of op i in a mode, forward and backward, at best. */
RMI_FN uint64_t rmi_blk_mode_ns(const rmi_blk *b, uint32_t i, uint32_t mode)
{
    const rmi_op *op = &b->g->ops[i];
    const rmi_form *f = &op->forms[mode];
    uint64_t ns = rmi_low_reads_saved(op, f) ? f->fwd : op->forms[rmi_blk_fwd_form(b, i, 0, RMI_INF)].fwd;
    uint32_t p;
    for (p = 0; p < f->n_parts; p++)
        if (rmi_low_part_wanted(op, &f->parts[p])) ns = rmi_add(ns, op->forms[rmi_blk_bwd_form(b, i, mode, p, RMI_INF)].parts[p].bwd);
    return ns;
}

/* The modes of op i that an option may choose from, the fastest first; their number, at least 1. */
RMI_FN uint32_t rmi_blk_modes(const rmi_blk *b, uint32_t i, uint8_t *modes)
{
    const rmi_op *op = &b->g->ops[i];
    uint32_t f, n = 0, best = 0;
    uint64_t least = RMI_INF;
    modes[0] = 0;
    if (!b->mode_at || op->pinned || !op->has_bwd || op->view != RMI_NONE) return 1;
    for (f = 0; f < op->n_forms && f < RMI_BLK_MODES; f++) {
        if (b->modes[b->mode_at[i] + f] != f) continue;
        if (rmi_blk_mode_ns(b, i, f) < least) {
            least = rmi_blk_mode_ns(b, i, f);
            best = n;
        }
        modes[n++] = (uint8_t)f;
    }
    for (f = modes[best]; best > 0; best--) modes[best] = modes[best - 1];
    modes[0] = (uint8_t)f;
    return n;
}

/* Code number `at` of stage s: all kept, fastest modes; then every other one. Returns how many there are, at most RMI_BLK_CODES + 1. */
RMI_FN uint32_t rmi_blk_number(const rmi_blk *b, const rmi_stage *s, uint32_t at, uint8_t *kept)
{
    uint8_t modes[RMI_BLK_MODES];
    uint32_t i, total = 1;
    for (i = s->lo; i < s->hi; i++) {
        const rmi_op *op = &b->g->ops[i];
        uint32_t drops = b->many && op->view == RMI_NONE && !op->pinned ? 2 : 1, n = rmi_blk_modes(b, i, modes);
        kept[i - s->lo] = (uint8_t)((at % drops ? 0u : 1u) | (uint32_t)modes[at / drops % n] << 1);
        at /= drops * n;
        total = (uint32_t)rmi_min((uint64_t)total * drops * n, RMI_BLK_CODES + 1);
    }
    return total;
}

/* Candidates of stage i. */
RMI_FN rm_result rmi_blk_candidates(rmi_blk *b, rmi_arena *mem, uint32_t i, rmi_blk_list *l, uint8_t *kept)
{
    const rmi_stage *s = &b->shape->stages[i];
    uint8_t modes[RMI_BLK_MODES];
    uint32_t k, e, n = 0, codes = rmi_blk_number(b, s, 0, kept), level;
    rmi_blk_change *x;
    RMI_TRY(rmi_blk_add(b, mem, i, l, kept));
    for (k = 1; k < codes && codes <= RMI_BLK_CODES; k++) {
        rmi_blk_number(b, s, k, kept);
        RMI_TRY(rmi_blk_add(b, mem, i, l, kept));
    }
    if (codes > RMI_BLK_CODES) {
        for (k = s->lo; k < s->hi; k++) n += rmi_blk_modes(b, k, modes);
        if (!(x = RMI_NEW(mem, rmi_blk_change, n))) return RM_ERROR_MEMORY;
        for (n = 0, k = s->lo; k < s->hi; k++) {
            uint32_t n_modes = rmi_blk_modes(b, k, modes);
            if (b->many && b->g->ops[k].view == RMI_NONE && !b->g->ops[k].pinned) {
                x[n].mode = RMI_NONE;
                x[n++].op = k - s->lo;
            }
            for (e = 1; e < n_modes; e++) {
                x[n].mode = modes[e];
                x[n++].op = k - s->lo;
            }
        }
        RMI_TRY(rmi_blk_descend(b, mem, i, l, kept, x, n));
    }
    rmi_blk_pareto(l);
    for (level = 1, n = l->n; level < RMI_BLK_LEVELS && b->most_ws[i]; level++)
        for (k = 0; k < n; k++) {
            memcpy(kept, l->kept + k * l->m, l->m);
            kept[l->m - 1] = (uint8_t)level;
            RMI_TRY(rmi_blk_add(b, mem, i, l, kept));
        }
    if (l->n > n) rmi_blk_pareto(l);
    return RM_OK;
}

/* The options of stage i, without figures of their forwards. */
RMI_FN rm_result rmi_blk_choose(rmi_blk *b, uint32_t i)
{
    rmi_arena mem = rmi_arena_make(&b->mem->hooks);
    rmi_blk_list l;
    uint8_t *kept, *mine;
    rm_result r;
    memset(&l, 0, sizeof l);
    l.m = rmi_blk_code(&b->shape->stages[i]);
    kept = RMI_NEW(&mem, uint8_t, l.m);
    r = kept ? rmi_blk_candidates(b, &mem, i, &l, kept) : RM_ERROR_MEMORY;
    if (r == RM_OK) {
        b->options[i] = RMI_NEW(b->mem, rmi_chn_option, l.n);
        mine = RMI_NEW(b->mem, uint8_t, l.n * l.m);
        if (!b->options[i] || !mine) r = RM_ERROR_MEMORY;
        else memcpy(mine, l.kept, l.n * l.m);
        b->kept[i] = mine;
        b->stages[i].n_options = l.n;
    }
    rmi_arena_free(&mem);
    return r;
}

RMI_FN rm_result rmi_blk_scratch(rmi_blk *b)
{
    const rm_graph *g = b->g;
    uint32_t i, k, most = 0, n = b->shape->n;
    size_t nb = rmi_low_buffers(g), lists;
    for (i = 0; i < n; i++) {
        uint32_t runs = 0;
        for (k = b->shape->stages[i].lo; k < b->shape->stages[i].hi; k++) runs += 2 * (g->ops[k].grad_in.n + g->ops[k].in.n + g->ops[k].out.n) + rmi_low_parts(&g->ops[k]) + 3;
        if (runs > most) most = runs;
    }
    lists = (size_t)most + b->shape->n_carried + 8;
    b->stages = RMI_NEW(b->mem, rmi_chn_stage, n);
    b->options = RMI_NEW(b->mem, rmi_chn_option *, n);
    b->kept = RMI_NEW(b->mem, const uint8_t *, n);
    b->most_ws = RMI_NEW(b->mem, uint64_t, n);
    b->pass_level = RMI_NEW(b->mem, uint8_t, n);
    b->fresh = RMI_NEW(b->mem, uint8_t, g->n_ops);
    b->todo = RMI_NEW(b->mem, uint8_t, g->n_ops);
    b->like = RMI_NEW(b->mem, uint32_t, b->shape->n_classes);
    b->wanted = RMI_NEW(b->mem, uint8_t, nb);
    b->rerun = RMI_NEW(b->mem, uint8_t, g->n_ops);
    b->begun = RMI_NEW(b->mem, uint8_t, g->n_tensors);
    b->in_bytes = RMI_NEW(b->mem, uint64_t, n);
    b->dout_bytes = RMI_NEW(b->mem, uint64_t, n);
    b->runs = RMI_NEW(b->mem, rmi_run, lists);
    b->keep = RMI_NEW(b->mem, uint32_t, lists);
    b->exit = RMI_NEW(b->mem, uint32_t, lists);
    b->uncounted = RMI_NEW(b->mem, uint32_t, lists);
    b->entry = RMI_NEW(b->mem, uint32_t, lists);
    b->entry_bytes = RMI_NEW(b->mem, uint64_t, lists);
    if (!b->options || !b->kept || !b->fresh || !b->todo || !b->like || !b->most_ws || !b->pass_level) return RM_ERROR_MEMORY;
    if (!b->stages || !b->wanted || !b->rerun || !b->begun || !b->in_bytes || !b->dout_bytes || !b->runs || !b->keep || !b->exit || !b->uncounted || !b->entry || !b->entry_bytes) return RM_ERROR_MEMORY;
    memcpy(b->uncounted, b->shape->carried_list, b->shape->n_carried * sizeof(uint32_t));
    return RM_OK;
}

/* Are two stages of one class the same in all that their figures depend on? */
RMI_FN int rmi_blk_alike(const rmi_blk *b, uint32_t i, uint32_t j)
{
    const rm_graph *g = b->g;
    const rmi_stage *s = &b->shape->stages[i], *t = &b->shape->stages[j];
    uint32_t k, e;
    if ((s->in == RMI_NONE) != (t->in == RMI_NONE) || (s->out == RMI_NONE) != (t->out == RMI_NONE) || s->hi - s->lo != t->hi - t->lo) return 0;
    if (b->in_bytes[i] != b->in_bytes[j] || b->dout_bytes[i] != b->dout_bytes[j] || !i || !j) return 0;
    for (k = 0; k < s->hi - s->lo; k++) {
        const rmi_op *x = &g->ops[s->lo + k], *y = &g->ops[t->lo + k];
        if (b->shape->carried[rmi_low_buf(g, RMI_BUF_SAVED, s->lo + k)] != b->shape->carried[rmi_low_buf(g, RMI_BUF_SAVED, t->lo + k)]) return 0;
        for (e = 0; e < x->in.n; e++)
            if ((x->in.at[e] == s->in) != (y->in.at[e] == t->in) || b->shape->carried[x->in.at[e]] != b->shape->carried[y->in.at[e]]) return 0;
        for (e = 0; e < x->out.n; e++)
            if ((x->out.at[e] == s->out) != (y->out.at[e] == t->out) || b->shape->carried[x->out.at[e]] != b->shape->carried[y->out.at[e]]) return 0;
    }
    return 1;
}

/* Forward figures of stage i that no option changes, and those of keeping all. */
RMI_FN rm_result rmi_blk_stage(rmi_blk *b, uint32_t i)
{
    const rmi_stage *s = &b->shape->stages[i];
    uint8_t *all = RMI_NEW(b->mem, uint8_t, rmi_blk_code(s));
    b->options[i] = RMI_NEW(b->mem, rmi_chn_option, 1);
    if (!all || !b->options[i]) return RM_ERROR_MEMORY;
    rmi_blk_number(b, s, 0, all);
    b->kept[i] = all;
    b->in_bytes[i] = i ? b->stages[i - 1].out_bytes : 0;
    rmi_blk_way(b, s, all, &b->options[i][0], b->runs);
    rmi_blk_mark(b, s, 1, 0, RMI_BLK_OUT);
    RMI_TRY(rmi_blk_pass(b, i));
    return rmi_blk_keep(b, i, 0);
}

/* The options of stage i with all their figures. A stage like one before is not measured again. */
RMI_FN rm_result rmi_blk_options(rmi_blk *b, uint32_t i)
{
    const rmi_stage *s = &b->shape->stages[i];
    rmi_chn_stage *c = &b->stages[i];
    uint64_t din = 0, grown = 0;
    uint32_t k, *like = &b->like[s->cls];
    if (*like && rmi_blk_alike(b, i, *like - 1)) {
        const rmi_chn_stage *o = &b->stages[*like - 1];
        b->kept[i] = b->kept[*like - 1];
        c->n_options = o->n_options;
        c->grown = o->grown;
        b->options[i] = RMI_NEW(b->mem, rmi_chn_option, o->n_options);
        if (!b->options[i]) return RM_ERROR_MEMORY;
        memcpy(b->options[i], b->options[*like - 1], o->n_options * sizeof(rmi_chn_option));
        din = b->dout_bytes[*like - 2];
    } else {
        RMI_TRY(rmi_blk_choose(b, i));
        for (k = 0; k < c->n_options; k++) {
            rmi_chn_option *o = &b->options[i][k];
            rmi_arena_free(b->seq.mem);
            RMI_TRY(rmi_blk_back(b, i, rmi_blk_code_of(b, i, k), o, &din, &grown));
            o->saved = 0;
            RMI_TRY(rmi_blk_keep(b, i, k));
        }
        c->grown = grown;
    }
    *like = i + 1;
    c->options = b->options[i];
    if (!i) return RM_OK;
    b->dout_bytes[i - 1] = din;
    b->stages[i - 1].grad_bytes = rmi_round_up(din, b->granule);
    return RM_OK;
}

/* Which forms ops may run in, as modes. */
RMI_FN rm_result rmi_blk_find_modes(rmi_blk *b)
{
    const rm_graph *g = b->g;
    uint32_t i, f, e, p, stage = 0;
    size_t n = 0;
    for (i = 0; i < g->n_ops; i++) n += g->ops[i].n_forms;
    if (n == g->n_ops) return RM_OK; /* no variants */
    b->mode_at = RMI_NEW(b->mem, uint32_t, g->n_ops);
    b->modes = RMI_NEW(b->mem, uint32_t, n);
    if (!b->mode_at || !b->modes) return RM_ERROR_MEMORY;
    for (i = 0, n = 0; i < g->n_ops; n += g->ops[i++].n_forms) {
        const rmi_op *op = &g->ops[i];
        while (i >= b->shape->stages[stage].hi) stage++;
        b->mode_at[i] = (uint32_t)n;
        for (f = 0; f < op->n_forms; f++) {
            const rmi_form *x = &op->forms[f];
            b->modes[n + f] = RMI_NONE;
            if (f >= RMI_BLK_MODES || strcmp(x->bits, op->forms[0].bits)) continue;
            for (e = 0; e < f && (b->modes[n + e] != e || !rmi_low_same_mode(op, &op->forms[e], x));) e++;
            b->modes[n + f] = e;
            if (op->n_forms == 1) continue;
            b->most_ws[stage] = rmi_max(b->most_ws[stage], x->fwd_ws);
            for (p = 0; p < x->n_parts && op->has_bwd; p++) b->most_ws[stage] = rmi_max(b->most_ws[stage], x->parts[p].bwd_ws);
        }
    }
    return RM_OK;
}

/* The chain of g's stages for one kind of step with a backward; many: each with options that do not keep all; vary: and with
   variants, else ops run as declared. Bytes are rounded up to the granule;
   what persists, inputs and carried values are not in it. */
RMI_FN rm_result rmi_blk_make(rmi_arena *mem, const rm_graph *g, const rmi_shape *shape, uint32_t step, uint32_t granule, uint32_t tolerance_ppm, int many, int vary, rmi_blk *b)
{
    rmi_arena tmp = rmi_arena_make(&mem->hooks);
    uint32_t i, k, e;
    rm_result r;
    memset(b, 0, sizeof *b);
    b->g = g;
    b->shape = shape;
    b->mem = mem;
    b->step = step;
    b->granule = granule;
    b->many = many;
    r = rmi_blk_scratch(b);
    if (r == RM_OK && vary) r = rmi_blk_find_modes(b);
    if (r == RM_OK) r = rmi_seq_scratch(&b->seq, g, mem);
    b->seq.step = step;
    b->seq.granule = granule;
    b->seq.partial = 1;
    b->seq.uncounted = b->uncounted;
    b->seq.n_uncounted = shape->n_carried;
    b->seq.mem = &tmp;
    for (i = 0; i < shape->n && r == RM_OK; i++) {
        r = rmi_blk_stage(b, i);
        rmi_arena_free(&tmp);
    }
    for (i = shape->n; i-- > 0 && r == RM_OK;) {
        r = rmi_blk_options(b, i);
        for (k = shape->stages[i].lo; k < shape->stages[i].hi; k++)
            for (e = 0; e < g->ops[k].grad_in.n; e++) b->begun[g->ops[k].grad_in.at[e]] = 1;
    }
    rmi_arena_free(&tmp);
    b->seq.mem = mem;
    if (r != RM_OK) return r;
    if (g->n_barriers && rmi_low_has_update(step)) { /* updates after the barrier: all gradients are there, and a workspace */
        for (i = 0; i < g->n_tensors; i++)
            if (g->tensors[i].updates) b->tail_ws = rmi_max(b->tail_ws, rmi_round_up(g->tensors[i].opt_ws, granule));
        for (k = 0; k < b->stages[0].n_options; k++) b->options[0][k].bwd_peak = rmi_max(b->options[0][k].bwd_peak, b->stages[0].grown + b->tail_ws);
    }
    b->chain.n = shape->n;
    b->chain.stages = b->stages;
    b->chain.tolerance_ppm = tolerance_ppm;
    return RM_OK;
}

/* --- a graph of groups: what the group options are to its groups, forms are to its ops */

RMI_FN rm_result rmi_blk_new_list(rmi_arena *mem, rmi_list *l, size_t room)
{
    l->n = 0;
    l->at = RMI_NEW(mem, uint32_t, room);
    return l->at ? RM_OK : RM_ERROR_MEMORY;
}

/* Form k of group i: what its backward with option k reads from outside, and its figures. */
RMI_FN rm_result rmi_blk_coarse_form(rmi_blk *b, uint32_t i, uint32_t k, const rmi_op *op, rmi_form *f)
{
    const rm_graph *g = b->g;
    const rmi_stage *s = &b->shape->stages[i];
    const rmi_chn_option *o = &b->options[i][k];
    uint32_t n, r, e;
    rmi_chn_option same;
    memset(f, 0, sizeof *f);
    f->name = f->bits = "";
    f->fwd = o->fwd_ns[0];
    for (r = s->lo; r < s->hi; r++) f->again = rmi_add(f->again, g->ops[r].pinned ? 0 : rmi_low_ns(g, rmi_low_run(RMI_FWD, r, rmi_blk_form(b, s, rmi_blk_code_of(b, i, k), r, 1), 0), 1, 0));
    f->saved = o->saved;
    f->needs_saved = o->saved != 0;
    f->fwd_ws = rmi_max(rmi_sub(o->fwd_peak[1], rmi_min(o->saved, o->fwd_peak[1])), b->stages[i].pass_peak[1]);
    f->inplace = RMI_NONE;
    f->parts = RMI_NEW(b->mem, rmi_part, 1);
    if (!f->parts) return RM_ERROR_MEMORY;
    f->n_parts = 1;
    f->parts[0].name = "";
    f->parts[0].grads = op->grad_in;
    f->parts[0].needs_saved = f->needs_saved;
    f->parts[0].bwd = f->bwd = o->bwd_ns;
    f->parts[0].bwd_ws = f->bwd_ws = rmi_sub(o->bwd_peak, rmi_min(o->saved, o->bwd_peak));
    RMI_TRY(rmi_blk_new_list(b->mem, &f->needs, (size_t)op->in.n + op->out.n));
    n = rmi_blk_way(b, s, rmi_blk_code_of(b, i, k), &same, b->runs);
    for (r = 0; r < n; r++) {
        const rmi_list *l = b->runs[r].way == RMI_FWD ? &g->ops[b->runs[r].id].in : b->runs[r].way == RMI_BWD ? &rmi_low_part(g, b->runs[r])->needs : NULL;
        for (e = 0; l && e < l->n; e++) {
            uint32_t t = g->tensors[l->at[e]].root;
            if (rmi_list_has(&op->in, t) || rmi_list_has(&op->out, t)) rmi_list_put_once(&f->needs, t);
        }
    }
    f->parts[0].needs = f->needs;
    return RM_OK;
}

/* Group i as an op of v; tensors are those of g, views go by their roots. */
RMI_FN rm_result rmi_blk_coarse_op(rmi_blk *b, rm_graph *v, uint32_t i)
{
    const rm_graph *g = b->g;
    const rmi_stage *s = &b->shape->stages[i];
    rmi_op *op = &v->ops[i];
    uint32_t r, e, k, most = 0;
    memset(op, 0, sizeof *op);
    op->name = g->ops[s->lo].name;
    op->kind_name = "group";
    op->view = RMI_NONE;
    for (r = s->lo; r < s->hi; r++) most += g->ops[r].in.n + g->ops[r].out.n + g->ops[r].mutates.n;
    RMI_TRY(rmi_blk_new_list(b->mem, &op->in, most));
    RMI_TRY(rmi_blk_new_list(b->mem, &op->out, most));
    RMI_TRY(rmi_blk_new_list(b->mem, &op->mutates, most));
    RMI_TRY(rmi_blk_new_list(b->mem, &op->grad_in, most));
    RMI_TRY(rmi_blk_new_list(b->mem, &op->grad_out, most));
    for (r = s->lo; r < s->hi; r++) {
        const rmi_op *x = &g->ops[r];
        op->pinned |= x->pinned;
        op->has_bwd |= x->has_bwd;
        op->flags |= x->flags & RM_ONCE;
        for (e = 0; e < x->in.n; e++) {
            uint32_t t = g->tensors[x->in.at[e]].root;
            if (g->tensors[t].kind == RMI_ACT && g->tensors[t].maker >= s->lo) continue;
            rmi_list_put_once(&op->in, t);
            if (x->has_bwd && g->tensors[t].has_grad && rmi_list_has(&x->grad_in, x->in.at[e])) rmi_list_put_once(&op->grad_in, t);
        }
        for (e = 0; e < x->mutates.n; e++) rmi_list_put_once(&op->mutates, x->mutates.at[e]);
        for (e = 0; e < x->out.n; e++) {
            uint32_t t = x->out.at[e], root = g->tensors[t].root;
            if (!b->shape->carried[t] || (!g->tensors[t].is_output && b->shape->last_use[t] < s->hi)) continue;
            if (g->tensors[root].kind == RMI_ACT && g->tensors[root].maker >= s->lo) rmi_list_put_once(&op->out, root);
            v->tensors[root].is_output |= g->tensors[t].is_output;
        }
    }
    op->forms = RMI_NEW(b->mem, rmi_form, b->stages[i].n_options);
    if (!op->forms) return RM_ERROR_MEMORY;
    op->n_forms = b->stages[i].n_options;
    for (k = 0; k < op->n_forms; k++) RMI_TRY(rmi_blk_coarse_form(b, i, k, op, &op->forms[k]));
    return RM_OK;
}

/* The graph whose ops are the groups of b's shape, with the options as variants; in b->mem. What is inside a group takes no
   part in it. Forwards keep their order, so that runs of groups are runs of ops one after the other. */
RMI_FN rm_result rmi_blk_coarse(rmi_blk *b, rm_graph *v)
{
    const rm_graph *g = b->g;
    uint32_t i, k, n = b->shape->n;
    size_t *room;
    *v = *g;
    v->n_ops = n;
    v->fixed_order = 1;
    v->ops = RMI_NEW(b->mem, rmi_op, n);
    v->tensors = RMI_NEW(b->mem, rmi_tensor, g->n_tensors);
    room = RMI_NEW(b->mem, size_t, g->n_tensors);
    if (!v->ops || !v->tensors || !room) return RM_ERROR_MEMORY;
    for (i = 0; i < g->n_tensors; i++) {
        rmi_tensor *t = &v->tensors[i];
        *t = g->tensors[i];
        t->consumers.n = t->mutators.n = 0;
        t->reader = RMI_NONE;
        if (t->kind == RMI_ACT) t->is_output = 0;
    }
    for (i = 0; i < n; i++) {
        RMI_TRY(rmi_blk_coarse_op(b, v, i));
        for (k = 0; k < v->ops[i].grad_in.n; k++) room[v->ops[i].grad_in.at[k]]++;
    }
    for (i = 0; i < g->n_tensors; i++) {
        rmi_tensor *t = &v->tensors[i];
        RMI_TRY(rmi_blk_new_list(b->mem, &t->consumers, room[i]));
        RMI_TRY(rmi_blk_new_list(b->mem, &t->mutators, g->tensors[i].mutators.n));
        if (t->kind != RMI_ACT) continue;
        t->maker = RMI_NONE; /* until a group makes it */
        t->bytes = t->grad_bytes = 0;
        t->root = i;
    }
    for (i = 0; i < n; i++) {
        rmi_op *op = &v->ops[i];
        for (k = 0; k < op->in.n; k++)
            if (v->tensors[op->in.at[k]].reader == RMI_NONE) v->tensors[op->in.at[k]].reader = i;
        for (k = 0; k < op->mutates.n; k++) rmi_list_put(&v->tensors[op->mutates.at[k]].mutators, i);
        for (k = 0; k < op->grad_in.n; k++) rmi_list_put(&v->tensors[op->grad_in.at[k]].consumers, i);
        for (k = 0; k < op->out.n; k++) {
            uint32_t t = op->out.at[k];
            v->tensors[t].maker = i;
            v->tensors[t].bytes = g->tensors[t].bytes;
            v->tensors[t].grad_bytes = g->tensors[t].grad_bytes;
        }
    }
    for (i = 0; i < n; i++)
        for (k = 0; k < v->ops[i].out.n; k++)
            if (v->tensors[v->ops[i].out.at[k]].consumers.n) rmi_list_put(&v->ops[i].grad_out, v->ops[i].out.at[k]);
    return RM_OK;
}

/* Bytes of carried values, which are there all the time as far as the chain is concerned. */
RMI_FN uint64_t rmi_blk_carried(const rmi_blk *b)
{
    uint64_t sum = 0;
    uint32_t i, t;
    for (i = 0; i < b->shape->n_carried; i++) {
        uint32_t buf = b->shape->carried_list[i];
        int saved = rmi_low_kind(b->g, buf, &t) == RMI_BUF_SAVED;
        if (!saved && (b->g->tensors[t].root != t || b->g->tensors[t].external)) continue;
        sum += rmi_round_up(saved ? b->g->ops[t].forms[0].saved : b->g->tensors[t].bytes, b->granule);
        if (!saved && b->shape->skips[t]) sum += rmi_round_up(b->g->tensors[t].grad_bytes, b->granule);
    }
    return sum;
}
RMI_PLAIN_END

/* =====================================================================================================================
   >>place - addresses in one arena: dynamic storage allocation
   Owns: the offsets of the buffers of a plan. In: lifetimes and sizes, some offsets already given. Out: offsets such that
   buffers alive together never overlap, and the height of the arena.

   Time is first reduced to columns, the maximal sets of buffers alive together; one column per run of allocations that a
   free follows. Everything after that knows boxes, columns and granules only. Then, until the height is good enough:
   1. A skyline over a portfolio of orders. The lowest segment of the skyline takes the first box of the order that lives
      within the segment, or rises to its lower neighbour. Training schedules are nested and end here, at the bound, nearly
      always with the first order. About n log n an order: a search tree over the starts finds the box.
   2. A branch and bound over canonical placements, bottom up, in many short runs that learn from each other where the
      trouble is. O(boxes alive) a node; up to 2,048 boxes. What it exhausts is proven.
   3. The skyline again and again, with what came out too high earlier in the order.
   Node and work limits, never clocks: equal input, equal output.
   Papers: Burke, Kendall, Whitwell, "A new placement heuristic for the orthogonal stock-cutting problem" (Operations
   Research 2004), here with the x coordinates given; Moffitt, "MiniMalloc" (ASPLOS 2023), for canonical placements; boxes
   of the same columns in rank order, parts solved apart and learned ranks are our own additions.
   ================================================================================================================== */
typedef struct rmi_plc_item {
    uint32_t start, end; /* positions [start, end), start < end */
    uint64_t size;       /* bytes; 0 is allowed, takes offset 0 and no room */
    uint64_t offset;     /* out; in, if fixed: a multiple of the granule */
    uint32_t fixed;      /* 1: offset is given and stays */
} rmi_plc_item;

typedef struct rmi_plc_info {
    uint64_t height; /* bytes: the highest end of a buffer */
    uint64_t bound;  /* bytes: the largest sum of live buffers; no placement is lower */
    uint64_t work;   /* steps done, a few ns each; the same on every machine */
    uint32_t method; /* what found the placement: rmi_plc_method_name */
} rmi_plc_info;

#define RMI_PLC_BY_LIFETIME 0u /* the orders of the skyline ... */
#define RMI_PLC_BY_TOTAL 1u
#define RMI_PLC_BY_AREA 2u
#define RMI_PLC_BY_SIZE 3u
#define RMI_PLC_BY_START 4u
#define RMI_PLC_BY_END 5u
#define RMI_PLC_ORDERS 6u
#define RMI_PLC_BY_REPEAT 6u         /* ... the skyline again ... */
#define RMI_PLC_BY_SEARCH 7u         /* ... and the branch and bound */
#define RMI_PLC_SEARCH_MAX 2048u     /* boxes: beyond, the branch and bound finds nothing in its time */
#define RMI_PLC_MEMBERS_MAX 1000000u /* boxes times columns crossed */
#define RMI_PLC_WORK 110000000u      /* the default limit: about half a second */

RMI_FN const char *rmi_plc_method_name(uint32_t method)
{
    static const char *const names[] = {"lifetime", "total", "area", "size", "start", "end", "repeat", "search"};
    return method < RMI_COUNT(names) ? names[method] : "none";
}

/* --- the problem in columns and granules */
typedef struct rmi_plc_box {
    uint32_t s, e; /* columns [s, e) */
    uint32_t item; /* index into the caller's array */
    uint32_t life; /* positions from start to end */
    uint64_t size; /* granules, > 0 */
    uint64_t off;  /* granules; given, for what is fixed */
} rmi_plc_box;

typedef struct rmi_plc_key {
    uint64_t key;
    uint32_t id;
} rmi_plc_key;

typedef struct rmi_plc_node { /* over the boxes by start: the smallest end and rank below */
    uint32_t e, rank;
} rmi_plc_node;

typedef struct rmi_plc {
    rmi_arena *mem;
    rmi_plc_box *box; /* movable, by start */
    rmi_plc_box *fix; /* fixed, by offset; those that float above a gap first[0 .. floats) after rmi_plc_base */
    uint32_t n, fixes, floats, cols;
    uint64_t *live;   /* per column: sum of sizes */
    uint64_t *base;   /* per column: top of the fixed boxes that rest on the floor or on each other */
    uint32_t *first;  /* per column, and cols: the first box that starts there or later */
    uint64_t *best;   /* offsets of the best placement so far; height RMI_INF: none yet */
    uint64_t bound, target, height, fixed_top, work, limit; /* limit 0: stopped */
    rmi_stop *stop;
    uint32_t method;
    rmi_plc_key *key, *key2; /* n: an order, and room to sort */
    rmi_plc_node *tree;      /* 2 * leaves */
    uint32_t leaves;
    uint64_t *seg_h;   /* per column: height of the segment that starts here, RMI_INF: none does */
    uint32_t *seg_end, *seg_prev;
    rmi_plc_key *heap; /* (height, start), stale entries included */
    size_t heap_n, heap_cap;
} rmi_plc;

/* Stable radix sort by key, ascending; digits in which all keys agree are skipped. */
RMI_FN void rmi_plc_sort(rmi_plc_key *a, rmi_plc_key *room, size_t n)
{
    uint64_t all = 0;
    rmi_plc_key *from = a, *to = room, *t;
    uint32_t count[256];
    uint32_t shift, d, sum, c;
    size_t i;
    for (i = 1; i < n; i++) all |= a[i].key ^ a[0].key;
    for (shift = 0; shift < 64; shift += 8) {
        if (!((all >> shift) & 255u)) continue;
        memset(count, 0, sizeof count);
        for (i = 0; i < n; i++) count[(from[i].key >> shift) & 255u]++;
        for (d = 0, sum = 0; d < 256; d++) {
            c = count[d];
            count[d] = sum;
            sum += c;
        }
        for (i = 0; i < n; i++) to[count[(from[i].key >> shift) & 255u]++] = from[i];
        t = from;
        from = to;
        to = t;
    }
    if (from != a) memcpy(a, from, n * sizeof *a);
}

/* Checks the items and counts what has a size. */
RMI_FN rm_result rmi_plc_check(rmi_plc *p, const rmi_plc_item *items, size_t n, uint64_t granule)
{
    uint64_t sum = 0, top = 0;
    size_t i;
    if (!granule || n > RMI_NONE / 4) return RM_ERROR_ARGUMENT;
    for (i = 0; i < n; i++) {
        const rmi_plc_item *it = items + i;
        if (it->start >= it->end) return RM_ERROR_ARGUMENT;
        if (!it->size) continue;
        sum = rmi_add(sum, rmi_round_up(it->size, granule));
        if (it->fixed) {
            if (it->offset % granule) return RM_ERROR_ARGUMENT;
            top = rmi_max(top, rmi_add(it->offset, rmi_round_up(it->size, granule)));
            p->fixes++;
        } else {
            p->n++;
        }
    }
    if (rmi_add(sum, top) > RMI_MAX) return RM_ERROR_ARGUMENT; /* so no sum of sizes or offsets below can wrap */
    p->fixed_top = top / granule;
    return RM_OK;
}

/* Columns: a new one begins with every start that follows an end. Boxes come out in the order of their starts. */
RMI_FN rm_result rmi_plc_columns(rmi_plc *p, const rmi_plc_item *items, size_t n, uint64_t granule)
{
    size_t i, events = 0, k, m = (size_t)p->n + p->fixes;
    rmi_plc_key *ev = RMI_NEW(p->mem, rmi_plc_key, 2 * m), *room = RMI_NEW(p->mem, rmi_plc_key, 2 * m);
    rmi_plc_box **of = RMI_NEW(p->mem, rmi_plc_box *, n);
    uint32_t col = 0, movable = 0, fixed = 0;
    int ended = 0;
    p->box = RMI_NEW(p->mem, rmi_plc_box, p->n);
    p->fix = RMI_NEW(p->mem, rmi_plc_box, p->fixes);
    if (!ev || !room || !of || !p->box || !p->fix) return RM_ERROR_MEMORY;
    for (i = 0; i < n; i++) {
        if (!items[i].size) continue;
        ev[events].key = (uint64_t)items[i].start * 2 + 1; /* at one position ends come first */
        ev[events++].id = (uint32_t)i;
        ev[events].key = (uint64_t)items[i].end * 2;
        ev[events++].id = (uint32_t)i;
    }
    rmi_plc_sort(ev, room, events);
    for (k = 0; k < events; k++) {
        i = ev[k].id;
        if (ev[k].key & 1) {
            rmi_plc_box *b = items[i].fixed ? p->fix + fixed++ : p->box + movable++;
            col += (uint32_t)ended;
            ended = 0;
            b->s = col;
            b->item = (uint32_t)i;
            b->life = items[i].end - items[i].start;
            b->size = rmi_ceil_div(items[i].size, granule);
            b->off = items[i].fixed ? items[i].offset / granule : 0;
            of[i] = b;
        } else {
            of[i]->e = col + 1;
            ended = 1;
        }
    }
    p->cols = events ? col + 1 : 0;
    return RM_OK;
}

/* live, first and the bound. */
RMI_FN rm_result rmi_plc_measure(rmi_plc *p)
{
    uint32_t i, c;
    p->live = RMI_NEW(p->mem, uint64_t, p->cols + 1);
    p->first = RMI_NEW(p->mem, uint32_t, p->cols + 1);
    if (!p->live || !p->first) return RM_ERROR_MEMORY;
    for (i = 0; i < p->n; i++) {
        p->live[p->box[i].s] += p->box[i].size;
        p->live[p->box[i].e] -= p->box[i].size; /* wraps, and wraps back in the running sum */
    }
    for (i = 0; i < p->fixes; i++) {
        p->live[p->fix[i].s] += p->fix[i].size;
        p->live[p->fix[i].e] -= p->fix[i].size;
    }
    for (c = 0, i = 0; c <= p->cols; c++) {
        if (c) p->live[c] += p->live[c - 1];
        p->bound = rmi_max(p->bound, p->live[c]);
        while (i < p->n && p->box[i].s < c) i++;
        p->first[c] = i;
    }
    return RM_OK;
}

/* --- what is fixed: a profile for what rests on the floor, a list of what floats above a gap */
RMI_FN rm_result rmi_plc_base(rmi_plc *p)
{
    rmi_plc_key *key = RMI_NEW(p->mem, rmi_plc_key, p->fixes), *room = RMI_NEW(p->mem, rmi_plc_key, p->fixes);
    rmi_plc_box *old = RMI_NEW(p->mem, rmi_plc_box, p->fixes);
    uint64_t *top = RMI_NEW(p->mem, uint64_t, p->cols);
    uint32_t i, c;
    p->base = RMI_NEW(p->mem, uint64_t, p->cols);
    if (!key || !room || !old || !top || !p->base) return RM_ERROR_MEMORY;
    if (!p->fixes) return RM_OK;
    for (i = 0; i < p->fixes; i++) {
        key[i].key = p->fix[i].off;
        key[i].id = i;
        old[i] = p->fix[i];
    }
    rmi_plc_sort(key, room, p->fixes);
    for (i = 0; i < p->fixes; i++) {
        rmi_plc_box *b = old + key[i].id;
        uint64_t low = RMI_INF;
        for (; i + 1 < p->fixes && key[i + 1].key == b->off + b->size; i++) { /* what persists is one piece */
            const rmi_plc_box *next = old + key[i + 1].id;
            if (next->s != b->s || next->e != b->e) break;
            b->size += next->size;
        }
        for (c = b->s; c < b->e; c++) {
            if (top[c] > b->off) return RM_ERROR_ARGUMENT; /* two fixed buffers overlap */
            low = rmi_min(low, p->base[c]);
            top[c] = b->off + b->size;
        }
        if (low == b->off) {
            for (c = b->s; c < b->e; c++) p->base[c] = top[c];
        } else {
            p->fix[p->floats++] = *b;
        }
    }
    return RM_OK;
}

/* The bottom of the lowest floating box that reaches above height h in columns [s, e); RMI_INF if there is none. */
RMI_FN uint64_t rmi_plc_ceiling(rmi_plc *p, uint32_t s, uint32_t e, uint64_t h)
{
    uint32_t i;
    for (i = 0; i < p->floats; i++) {
        const rmi_plc_box *f = p->fix + i;
        p->work++;
        if (f->s < e && s < f->e && f->off + f->size > h) return f->off;
    }
    return RMI_INF;
}

/* --- the orders */

/* Largest live sum over the columns of each box, into out: a sparse table would cost more memory than it saves time. */
RMI_FN rm_result rmi_plc_totals(rmi_plc *p, uint64_t *out)
{
    uint32_t leaves = 1, i, a, b;
    uint64_t *t, m;
    while (leaves < p->cols) leaves *= 2;
    t = RMI_NEW(p->mem, uint64_t, 2 * (size_t)leaves);
    if (!t) return RM_ERROR_MEMORY;
    memcpy(t + leaves, p->live, p->cols * sizeof *t);
    for (i = leaves - 1; i; i--) t[i] = rmi_max(t[2 * i], t[2 * i + 1]);
    for (i = 0; i < p->n; i++) {
        for (m = 0, a = p->box[i].s + leaves, b = p->box[i].e + leaves; a < b; a /= 2, b /= 2) {
            if (a & 1) m = rmi_max(m, t[a++]);
            if (b & 1) m = rmi_max(m, t[--b]);
        }
        out[i] = m;
    }
    return RM_OK;
}

/* total^4 * conflicts: total in 1/2048 of the bound, conflicts in 1/2^20 of n; what is alive when memory is full, and much. */
RMI_FN rm_result rmi_plc_key_total(rmi_plc *p, uint64_t *out)
{
    uint32_t *ended = RMI_NEW(p->mem, uint32_t, p->cols + 1), i, c, shift = 0;
    if (!ended) return RM_ERROR_MEMORY;
    RMI_TRY(rmi_plc_totals(p, out));
    while (p->bound >> shift > 2047) shift++;
    for (i = 0; i < p->n; i++) ended[p->box[i].e]++;
    for (c = 1; c <= p->cols; c++) ended[c] += ended[c - 1];
    for (i = 0; i < p->n; i++) {
        uint64_t t = out[i] >> shift, conflicts = p->first[p->box[i].e] - ended[p->box[i].s];
        out[i] = t * t * t * t * ((conflicts << 19) / p->n);
    }
    return RM_OK;
}

/* The larger the key, the earlier the box. */
RMI_FN rm_result rmi_plc_order_keys(rmi_plc *p, uint32_t order, uint64_t *out)
{
    uint32_t i;
    if (order == RMI_PLC_BY_TOTAL) return rmi_plc_key_total(p, out);
    for (i = 0; i < p->n; i++) {
        const rmi_plc_box *b = p->box + i;
        if (order == RMI_PLC_BY_LIFETIME) out[i] = b->e - b->s;
        else if (order == RMI_PLC_BY_AREA) out[i] = rmi_mul(b->size, b->e - b->s);
        else if (order == RMI_PLC_BY_SIZE) out[i] = b->size;
        else if (order == RMI_PLC_BY_START) out[i] = p->cols - b->s;
        else out[i] = b->e;
    }
    return RM_OK;
}

/* p->key becomes the order by value, larger first; ties by size, then by start. */
RMI_FN void rmi_plc_rank(rmi_plc *p, const uint64_t *value)
{
    uint32_t i;
    for (i = 0; i < p->n; i++) {
        p->key[i].key = RMI_INF - p->box[i].size;
        p->key[i].id = i;
    }
    rmi_plc_sort(p->key, p->key2, p->n);
    for (i = 0; i < p->n; i++) p->key[i].key = RMI_INF - value[p->key[i].id];
    rmi_plc_sort(p->key, p->key2, p->n);
}

/* --- the skyline */
RMI_FN rm_result rmi_plc_sky_make(rmi_plc *p)
{
    for (p->leaves = 1; p->leaves < p->n;) p->leaves *= 2;
    p->key = RMI_NEW(p->mem, rmi_plc_key, p->n);
    p->key2 = RMI_NEW(p->mem, rmi_plc_key, p->n);
    p->tree = RMI_NEW(p->mem, rmi_plc_node, 2 * (size_t)p->leaves);
    p->best = RMI_NEW(p->mem, uint64_t, p->n);
    p->seg_h = RMI_NEW(p->mem, uint64_t, p->cols);
    p->seg_end = RMI_NEW(p->mem, uint32_t, p->cols);
    p->seg_prev = RMI_NEW(p->mem, uint32_t, p->cols + 1);
    if (!p->key || !p->key2 || !p->tree || !p->best || !p->seg_h || !p->seg_end || !p->seg_prev) return RM_ERROR_MEMORY;
    return RM_OK;
}

RMI_FN rmi_plc_node rmi_plc_join(rmi_plc_node a, rmi_plc_node b)
{
    rmi_plc_node r;
    r.e = a.e < b.e ? a.e : b.e;
    r.rank = a.rank < b.rank ? a.rank : b.rank;
    return r;
}

/* The tree with every box in it, ranked by p->key. */
RMI_FN void rmi_plc_tree_fill(rmi_plc *p)
{
    uint32_t i;
    for (i = 0; i < p->n; i++) {
        p->tree[p->leaves + p->key[i].id].rank = i;
        p->tree[p->leaves + i].e = p->box[i].e;
    }
    for (i = p->n; i < p->leaves; i++) p->tree[p->leaves + i].e = p->tree[p->leaves + i].rank = RMI_NONE;
    for (i = p->leaves - 1; i; i--) p->tree[i] = rmi_plc_join(p->tree[2 * i], p->tree[2 * i + 1]);
    p->work += p->n;
}

RMI_FN void rmi_plc_tree_drop(rmi_plc *p, uint32_t i)
{
    rmi_plc_node v;
    i += p->leaves;
    p->tree[i].e = p->tree[i].rank = RMI_NONE;
    while (i > 1) {
        i /= 2;
        v = rmi_plc_join(p->tree[2 * i], p->tree[2 * i + 1]);
        if (v.e == p->tree[i].e && v.rank == p->tree[i].rank) break;
        p->tree[i] = v;
    }
}

/* The first box of the order among those left within columns [a, b) that fits at height h; RMI_NONE if none does. */
RMI_FN uint32_t rmi_plc_tree_find(rmi_plc *p, uint32_t a, uint32_t b, uint64_t h)
{
    uint32_t stack[128], tail[32], top = 0, tails = 0, best = RMI_NONE;
    uint32_t lo = p->first[a] + p->leaves, hi = p->first[b] + p->leaves;
    for (; lo < hi; lo /= 2, hi /= 2) { /* the nodes that cover the range; those in tail lie from right to left */
        if (lo & 1) stack[top++] = lo++;
        if (hi & 1) tail[tails++] = --hi;
    }
    while (tails) stack[top++] = tail[--tails];
    while (top) {
        uint32_t v = stack[--top], left, right;
        p->work++;
        if (p->tree[v].e > b || p->tree[v].rank >= best) continue;
        if (v >= p->leaves) {
            const rmi_plc_box *x = p->box + (v - p->leaves);
            if (!p->floats || rmi_plc_ceiling(p, x->s, x->e, h) - h >= x->size) best = p->tree[v].rank;
            continue;
        }
        left = 2 * v;
        right = 2 * v + 1;
        if (p->tree[left].rank < p->tree[right].rank) { /* the better one on top */
            stack[top++] = right;
            stack[top++] = left;
        } else {
            stack[top++] = left;
            stack[top++] = right;
        }
    }
    return best == RMI_NONE ? RMI_NONE : p->key[best].id;
}

/* A binary heap of (height, start), the lowest and then leftmost segment first. */
RMI_FN int rmi_plc_heap_less(const rmi_plc_key *a, const rmi_plc_key *b)
{
    return a->key < b->key || (a->key == b->key && a->id < b->id);
}

RMI_FN int rmi_plc_heap_push(rmi_plc *p, uint64_t h, uint32_t start)
{
    size_t i = p->heap_n, up;
    rmi_plc_key v;
    void *grown = p->heap;
    if (!rmi_arena_grow(p->mem, &grown, &p->heap_cap, p->heap_n + 1, sizeof *p->heap)) return 0;
    p->heap = (rmi_plc_key *)grown;
    p->heap_n++;
    v.key = h;
    v.id = start;
    while (i && rmi_plc_heap_less(&v, p->heap + (up = (i - 1) / 2))) {
        p->heap[i] = p->heap[up];
        i = up;
    }
    p->heap[i] = v;
    return 1;
}

RMI_FN rmi_plc_key rmi_plc_heap_pop(rmi_plc *p)
{
    rmi_plc_key out = p->heap[0], v = p->heap[--p->heap_n];
    size_t i = 0, child;
    while ((child = 2 * i + 1) < p->heap_n) {
        if (child + 1 < p->heap_n && rmi_plc_heap_less(p->heap + child + 1, p->heap + child)) child++;
        if (!rmi_plc_heap_less(p->heap + child, &v)) break;
        p->heap[i] = p->heap[child];
        i = child;
    }
    p->heap[i] = v;
    return out;
}

/* Columns [s, e) of the segment at a rise to h; equal neighbours become one. Returns the start of what stands there now. */
RMI_FN uint32_t rmi_plc_seg_raise(rmi_plc *p, uint32_t a, uint32_t s, uint32_t e, uint64_t h)
{
    uint32_t b = p->seg_end[a], prev = p->seg_prev[a];
    uint64_t old = p->seg_h[a];
    if (e < b) { /* a piece to the right keeps its height */
        p->seg_h[e] = old;
        p->seg_end[e] = b;
        p->seg_prev[e] = s;
        p->seg_prev[b] = e;
    } else if (b < p->cols && p->seg_h[b] == h) {
        e = p->seg_end[b];
        p->seg_h[b] = RMI_INF;
        p->seg_prev[e] = s;
    } else {
        p->seg_prev[b] = s;
    }
    if (s > a) {
        p->seg_end[a] = s;
        prev = a;
    } else if (a && p->seg_h[prev] == h) {
        p->seg_h[a] = RMI_INF;
        s = prev;
        prev = p->seg_prev[s];
        p->seg_prev[e] = s;
    }
    p->seg_h[s] = h;
    p->seg_end[s] = e;
    p->seg_prev[s] = prev;
    return s;
}

/* Raises columns [s, e) of the segment at a, which has left the heap, to h, and enters what stands there now. */
RMI_FN int rmi_plc_rise(rmi_plc *p, uint32_t a, uint32_t s, uint32_t e, uint64_t h)
{
    uint32_t b = p->seg_end[a], mid = rmi_plc_seg_raise(p, a, s, e, h);
    p->work += 4;
    if (s > a && !rmi_plc_heap_push(p, p->seg_h[a], a)) return 0;
    if (e < b && !rmi_plc_heap_push(p, p->seg_h[e], e)) return 0;
    return rmi_plc_heap_push(p, h, mid);
}

RMI_FN int rmi_plc_sky_start(rmi_plc *p)
{
    uint32_t c, a = 0;
    p->heap_n = 0;
    for (c = 0; c < p->cols; c++) {
        p->seg_h[c] = RMI_INF;
        if (c && p->base[c] == p->base[a]) {
            p->seg_end[a] = c + 1;
            continue;
        }
        p->seg_prev[c] = a;
        a = c;
        p->seg_h[c] = p->base[c];
        p->seg_end[c] = c + 1;
    }
    for (c = 0; c < p->cols; c = p->seg_end[c]) {
        if (!rmi_plc_heap_push(p, p->seg_h[c], c)) return 0;
    }
    return 1;
}

/* A segment that found no box rises to its lower neighbour, or to the floating box above it. */
RMI_FN uint64_t rmi_plc_lift(rmi_plc *p, uint32_t a)
{
    uint32_t b = p->seg_end[a];
    uint64_t to = rmi_plc_ceiling(p, a, b, p->seg_h[a]);
    if (a) to = rmi_min(to, p->seg_h[p->seg_prev[a]]);
    if (b < p->cols) to = rmi_min(to, p->seg_h[b]);
    return to;
}

/* The floating box that the segment at a touches from below, as an index; RMI_NONE if there is none. */
RMI_FN uint32_t rmi_plc_touch(rmi_plc *p, uint32_t a)
{
    uint32_t i;
    for (i = 0; i < p->floats && p->fix[i].off <= p->seg_h[a]; i++) {
        p->work++;
        if (p->fix[i].s < p->seg_end[a] && a < p->fix[i].e && p->fix[i].off + p->fix[i].size > p->seg_h[a]) return i;
    }
    return RMI_NONE;
}

/* One packing by the order in p->key, into box[].off. *height is RMI_INF if it would not get below stop. */
RMI_FN rm_result rmi_plc_sky(rmi_plc *p, uint64_t stop, uint64_t *height)
{
    uint32_t left = p->n;
    uint64_t high = p->fixed_top;
    *height = RMI_INF;
    rmi_plc_tree_fill(p);
    if (!rmi_plc_sky_start(p)) return RM_ERROR_MEMORY;
    if (rmi_stopped(p->stop, 16 * (uint64_t)p->n)) p->limit = 0;
    while (left) {
        rmi_plc_key low = rmi_plc_heap_pop(p);
        uint32_t a = low.id, i;
        int ok;
        if (p->seg_h[a] != low.key) continue;
        if ((i = rmi_plc_touch(p, a)) != RMI_NONE) {
            const rmi_plc_box *f = p->fix + i;
            uint32_t s = f->s > a ? f->s : a, e = f->e < p->seg_end[a] ? f->e : p->seg_end[a];
            ok = rmi_plc_rise(p, a, s, e, f->off + f->size);
        } else if ((i = rmi_plc_tree_find(p, a, p->seg_end[a], low.key)) == RMI_NONE) {
            uint64_t to = rmi_plc_lift(p, a);
            if (to == RMI_INF) return RM_ERROR_INTERNAL;
            ok = rmi_plc_rise(p, a, a, p->seg_end[a], to);
        } else {
            rmi_plc_box *x = p->box + i;
            x->off = low.key;
            high = rmi_max(high, low.key + x->size);
            if (high >= stop) return RM_OK;
            rmi_plc_tree_drop(p, i);
            left--;
            ok = rmi_plc_rise(p, a, x->s, x->e, low.key + x->size);
        }
        if (!ok) return RM_ERROR_MEMORY;
    }
    *height = high;
    return RM_OK;
}

RMI_FN void rmi_plc_keep(rmi_plc *p, uint64_t height, uint32_t method)
{
    uint32_t i;
    for (i = 0; i < p->n; i++) p->best[i] = p->box[i].off;
    p->height = height;
    p->method = method;
}

RMI_FN rm_result rmi_plc_orders(rmi_plc *p)
{
    uint64_t *value = RMI_NEW(p->mem, uint64_t, p->n), height;
    uint32_t order;
    if (!value) return RM_ERROR_MEMORY;
    for (order = 0; order < RMI_PLC_ORDERS && p->height > p->target; order++) {
        if (order && p->work >= p->limit) break;
        RMI_TRY(rmi_plc_order_keys(p, order, value));
        rmi_plc_rank(p, value);
        RMI_TRY(rmi_plc_sky(p, p->height, &height));
        if (height < p->height) rmi_plc_keep(p, height, order);
    }
    return RM_OK;
}

/* Packs again and again, `share` steps long: what came out in the upper third above the target goes up in the order by a
   tenth of it. From each of the orders in turn. */
RMI_FN rm_result rmi_plc_improve(rmi_plc *p, uint64_t share)
{
    uint64_t *value = RMI_NEW(p->mem, uint64_t, p->n), height, start = p->work, high;
    uint32_t order, i;
    if (!value) return RM_ERROR_MEMORY;
    for (order = 0; order < RMI_PLC_ORDERS; order++) {
        RMI_TRY(rmi_plc_order_keys(p, order, value));
        rmi_plc_rank(p, value);
        for (i = 0; i < p->n; i++) value[p->key[i].id] = p->n - i;
        while (p->height > p->target && p->work < p->limit && p->work - start < share / RMI_PLC_ORDERS * (order + 1)) {
            rmi_plc_rank(p, value);
            RMI_TRY(rmi_plc_sky(p, RMI_INF, &height));
            if (height < p->height) rmi_plc_keep(p, height, RMI_PLC_BY_REPEAT);
            high = height - (height - p->target) / 3;
            for (i = 0; i < p->n; i++) {
                if (p->box[i].off + p->box[i].size > high) value[i] += p->n / 10 + 1;
            }
            p->work += p->n * 4;
        }
    }
    return RM_OK;
}

/* --- the branch and bound: is there a placement of height cap, and which one?
   Boxes are placed bottom up. A box goes to its lowest place above what is placed (lo), offsets never fall along a branch,
   and what could have gone below without moving anything is pruned: only canonical placements are visited. A column with
   the sum rem of its unplaced boxes, none of which can be below floor, needs floor + rem <= cap. When no unplaced box
   crosses a border between two columns, the two sides are solved apart, and a failure of one undoes both. */
typedef struct rmi_plc_part {
    uint32_t s, e;
    uint32_t rank, twin, next, prev, placed; /* twin: the same box one rank before, or RMI_NONE */
    uint32_t group, group_rank; /* group: the first box of the same columns; there: the one placed last, and its top */
    uint64_t size, low, lo, off, found, group_top; /* low: the fixed boxes below it */
} rmi_plc_part;

typedef struct rmi_plc_col {
    uint64_t rem, floor; /* floor: lo of watch, the lowest of the unplaced boxes of the column */
    uint64_t solved;     /* where what is connected starts: the height for which found holds, or RMI_INF */
    uint64_t weight, fails; /* how often the column ended a branch: past runs, this run */
    uint32_t watch, member, cross; /* member: where its boxes begin; cross: unplaced boxes over the border to the column before */
} rmi_plc_col;

typedef struct rmi_plc_undo { /* kind 0: lo of a box; 1: floor, watch of a column; 2: a box placed, and its group's top, rank */
    uint64_t old;
    uint32_t id, kind, watch;
} rmi_plc_undo;

typedef struct rmi_plc_range { /* one connected stretch of columns, and how far its boxes were tried */
    uint32_t a, e, i0, i1, before; /* before: the box placed last, RMI_NONE at the root */
    uint32_t x, part;              /* the box placed here, RMI_NONE: none; the columns from part on are still to be solved */
    uint32_t tried_rank, began;
    uint64_t last, below, tried; /* offsets from last on, less than below; tried, and tried_rank at that offset */
    size_t mark;                 /* to undo x */
} rmi_plc_range;

typedef struct rmi_plc_search {
    rmi_plc *p;
    rmi_plc_part *part; /* n, as the room's boxes, and the head of the list of the unplaced ones */
    rmi_plc_col *col;   /* cols, and one for the ends */
    uint32_t *member;   /* per column from col.member: its boxes */
    uint64_t *total;    /* per box: the largest live sum of its columns */
    uint32_t n, cols;
    uint64_t cap, nodes, limit;
    rmi_plc_range *stack; /* n + 1 */
    rmi_plc_undo *undo;
    size_t undos, undo_cap;
} rmi_plc_search;

#define RMI_PLC_NO 0
#define RMI_PLC_YES 1
#define RMI_PLC_STOP 2 /* the limit is reached */
#define RMI_PLC_FAIL 3 /* out of memory */

/* member and the members themselves, by start. */
RMI_FN void rmi_plc_search_members(rmi_plc_search *q)
{
    uint32_t c, i, sum = 0;
    for (i = 0; i < q->n; i++) {
        for (c = q->part[i].s; c < q->part[i].e; c++) q->col[c].watch++;
    }
    for (c = 0; c <= q->cols; c++) {
        q->col[c].member = sum;
        sum += q->col[c].watch;
        q->col[c].watch = q->col[c].member;
    }
    for (i = 0; i < q->n; i++) {
        for (c = q->part[i].s; c < q->part[i].e; c++) q->member[q->col[c].watch++] = i;
    }
}

/* q->n is 0 if the problem is too large for the search. */
RMI_FN rm_result rmi_plc_search_make(rmi_plc_search *q, rmi_plc *p)
{
    size_t members = 0;
    uint32_t i, c;
    memset(q, 0, sizeof *q);
    q->p = p;
    for (i = 0; i < p->n; i++) members += p->box[i].e - p->box[i].s;
    if (p->floats || p->n > RMI_PLC_SEARCH_MAX || members > RMI_PLC_MEMBERS_MAX) return RM_OK;
    q->n = p->n;
    q->cols = p->cols;
    q->part = RMI_NEW(p->mem, rmi_plc_part, q->n + 1);
    q->col = RMI_NEW(p->mem, rmi_plc_col, q->cols + 1);
    q->member = RMI_NEW(p->mem, uint32_t, members);
    q->total = RMI_NEW(p->mem, uint64_t, q->n);
    q->stack = RMI_NEW(p->mem, rmi_plc_range, q->n + 1);
    if (!q->part || !q->col || !q->member || !q->total || !q->stack) return RM_ERROR_MEMORY;
    for (i = 0; i < q->n; i++) {
        rmi_plc_part *b = q->part + i;
        b->s = p->box[i].s;
        b->e = p->box[i].e;
        b->size = p->box[i].size;
        for (c = b->s; c < b->e; c++) b->low = rmi_max(b->low, p->base[c]);
    }
    for (c = 0; c <= q->cols; c++) q->col[c].solved = RMI_INF;
    rmi_plc_search_members(q);
    return rmi_plc_totals(p, q->total);
}

/* The lowest unplaced box of a column anew; whether the column can still hold its boxes. */
RMI_FN int rmi_plc_rewatch(rmi_plc_search *q, uint32_t c)
{
    rmi_plc_col *col = q->col + c;
    rmi_plc_undo *u = q->undo + q->undos++;
    uint32_t k, best = RMI_NONE;
    u->kind = 1;
    u->id = c;
    u->old = col->floor;
    u->watch = col->watch;
    for (k = col->member; k < col[1].member; k++) {
        uint32_t i = q->member[k];
        if (!q->part[i].placed && (best == RMI_NONE || q->part[i].lo < q->part[best].lo)) best = i;
    }
    q->p->work += (col[1].member - col->member) / 2;
    col->watch = best;
    if (best == RMI_NONE) return 1;
    col->floor = q->part[best].lo;
    if (col->floor + col->rem <= q->cap) return 1;
    col->fails++;
    return 0;
}

/* Places box x of the range at its lo. NO: a column can no longer hold its boxes; the caller undoes. */
RMI_FN int rmi_plc_put(rmi_plc_search *q, const rmi_plc_range *r, uint32_t x)
{
    rmi_plc_part *b = q->part + x;
    uint64_t top = b->lo + b->size;
    uint32_t c, i;
    size_t from, to;
    void *grown = q->undo;
    if (!rmi_arena_grow(q->p->mem, &grown, &q->undo_cap, q->undos + 1 + (r->i1 - r->i0) + (r->e - r->a), sizeof *q->undo))
        return RMI_PLC_FAIL;
    q->undo = (rmi_plc_undo *)grown;
    q->undo[q->undos].kind = 2;
    q->undo[q->undos].id = x;
    q->undo[q->undos].old = q->part[b->group].group_top;
    q->undo[q->undos++].watch = q->part[b->group].group_rank;
    q->part[b->group].group_top = top;
    q->part[b->group].group_rank = b->rank;
    b->placed = 1;
    b->off = b->lo;
    q->part[b->prev].next = b->next;
    q->part[b->next].prev = b->prev;
    for (c = b->s; c < b->e; c++) q->col[c].rem -= b->size;
    for (c = b->s + 1; c < b->e; c++) q->col[c].cross--;
    from = q->undos;
    for (i = q->part[r->i0].placed ? q->part[r->i0].next : r->i0; i < r->i1 && q->part[i].s < b->e; i = q->part[i].next) {
        rmi_plc_part *o = q->part + i;
        q->p->work++;
        if (o->e <= b->s || o->lo >= top) continue;
        q->undo[q->undos].kind = 0;
        q->undo[q->undos].id = i;
        q->undo[q->undos++].old = o->lo;
        o->lo = top;
    }
    to = q->undos;
    for (c = b->s; c < b->e; c++) {
        if (!rmi_plc_rewatch(q, c)) return RMI_PLC_NO;
    }
    for (; from < to; from++) {
        i = q->undo[from].id;
        for (c = q->part[i].s; c < q->part[i].e; c++) {
            if (q->col[c].watch == i && q->col[c].floor < q->part[i].lo && !rmi_plc_rewatch(q, c)) return RMI_PLC_NO;
        }
        q->p->work += (q->part[i].e - q->part[i].s) / 2;
    }
    return RMI_PLC_YES;
}

RMI_FN void rmi_plc_take_back(rmi_plc_search *q, size_t mark)
{
    while (q->undos > mark) {
        const rmi_plc_undo *u = q->undo + --q->undos;
        if (u->kind == 0) {
            q->part[u->id].lo = u->old;
        } else if (u->kind == 1) {
            q->col[u->id].floor = u->old;
            q->col[u->id].watch = u->watch;
        } else {
            rmi_plc_part *b = q->part + u->id;
            uint32_t c;
            for (c = b->s; c < b->e; c++) q->col[c].rem += b->size;
            for (c = b->s + 1; c < b->e; c++) q->col[c].cross++;
            b->placed = 0;
            q->part[b->group].group_top = u->old;
            q->part[b->group].group_rank = u->watch;
            q->part[b->prev].next = u->id;
            q->part[b->next].prev = u->id;
        }
    }
}

/* The range of columns [a, e) after box before was placed; 0 if nothing is left to place there. */
RMI_FN int rmi_plc_range_make(rmi_plc_search *q, rmi_plc_range *r, uint32_t a, uint32_t e, uint32_t before, uint64_t last)
{
    uint32_t i, c;
    uint64_t rem = 0;
    r->a = a;
    r->e = e;
    r->i1 = q->p->first[e];
    r->before = before;
    r->x = RMI_NONE;
    r->mark = q->undos;
    r->last = last;
    r->began = 0;
    r->below = RMI_INF;
    for (i = q->p->first[a]; i < r->i1 && q->part[i].placed;) i++;
    r->i0 = i;
    if (i >= r->i1) return 0;
    for (; i < r->i1; i = q->part[i].next) { /* an offset from the lowest possible top on would leave room below that box */
        r->below = rmi_min(r->below, q->part[i].lo + q->part[i].size);
        q->p->work++;
    }
    for (c = a; c < e; c++) rem = rmi_max(rem, q->col[c].rem);
    r->below = rem > q->cap ? 0 : rmi_min(r->below, q->cap - rem + 1); /* all that is left will be at this offset or above */
    q->p->work += (e - a) / 4;
    return 1;
}

/* The next box to try: by offset, then by rank. RMI_NONE: all were tried. */
RMI_FN uint32_t rmi_plc_pick(rmi_plc_search *q, rmi_plc_range *r)
{
    uint32_t i, x = RMI_NONE;
    uint64_t best = r->below;
    for (i = r->i0; i < r->i1; i = q->part[i].next) {
        const rmi_plc_part *b = q->part + i;
        q->p->work++;
        if (b->lo < r->last || b->lo > best || b->lo >= r->below) continue;
        if (x != RMI_NONE && b->lo == best && b->rank > q->part[x].rank) continue;
        if (r->began && (b->lo < r->tried || (b->lo == r->tried && b->rank <= r->tried_rank))) continue;
        if (r->before != RMI_NONE && b->lo == r->last && b->rank < q->part[r->before].rank) continue;
        if (b->twin != RMI_NONE && !q->part[b->twin].placed) continue;
        if (q->part[b->group].group_top == b->lo && b->rank < q->part[b->group].group_rank) continue;
        x = i;
        best = b->lo;
    }
    if (x != RMI_NONE) {
        r->began = 1;
        r->tried = best;
        r->tried_rank = q->part[x].rank;
    }
    return x;
}

/* Places everything in columns [a, e): a stack of ranges, each with the box it has placed and the parts left to solve. */
RMI_FN int rmi_plc_descend(rmi_plc_search *q, uint32_t a, uint32_t e)
{
    size_t depth = 1;
    if (!rmi_plc_range_make(q, q->stack, a, e, RMI_NONE, 0)) return RMI_PLC_YES;
    while (depth) {
        rmi_plc_range *r = q->stack + depth - 1;
        int got;
        if (r->x != RMI_NONE) { /* the next part, of all that x has left; after the last one the range is done */
            uint32_t s = r->part, c = s + 1;
            if (s == r->e) {
                depth--;
                continue;
            }
            while (c < r->e && q->col[c].cross) c++;
            r->part = c;
            if (rmi_plc_range_make(q, r + 1, s, c, r->x, q->part[r->x].off)) depth++;
            continue;
        }
        r->x = rmi_plc_pick(q, r);
        r->part = r->a;
        if (r->x == RMI_NONE) { /* nothing left to try: the box below has to go */
            if (!--depth) return RMI_PLC_NO;
            r--;
            got = RMI_PLC_NO;
        } else {
            if (rmi_stopped(q->p->stop, 16)) q->p->limit = 0;
            if (++q->nodes > q->limit || q->p->work > q->p->limit) return RMI_PLC_STOP;
            got = rmi_plc_put(q, r, r->x);
        }
        if (got == RMI_PLC_FAIL) return got;
        if (got == RMI_PLC_NO) {
            rmi_plc_take_back(q, r->mark);
            r->x = RMI_NONE;
        }
    }
    return RMI_PLC_YES;
}

/* Everything unplaced; floors, watches and twins for the ranks as they are. NO: a column cannot hold its boxes. */
RMI_FN int rmi_plc_search_start(rmi_plc_search *q)
{
    uint32_t i, j, c, k;
    q->undos = 0;
    q->nodes = 0;
    for (c = 0; c <= q->cols; c++) q->col[c].rem = q->col[c].fails = q->col[c].cross = 0;
    for (i = 0; i < q->n; i++) {
        rmi_plc_part *b = q->part + i;
        b->lo = b->low;
        b->placed = 0;
        b->next = i + 1;
        b->prev = i ? i - 1 : q->n;
        b->twin = RMI_NONE;
        for (c = b->s; c < b->e; c++) {
            q->col[c].rem += b->size;
            q->col[c].cross += c > b->s;
        }
        b->group_top = 0;
        b->group_rank = 0;
        b->group = RMI_NONE;
        for (j = q->p->first[b->s]; j < q->n && q->part[j].s == b->s; j++) {
            const rmi_plc_part *o = q->part + j;
            if (o->e == b->e && b->group == RMI_NONE) b->group = j;
            if (o->e != b->e || o->size != b->size || o->rank >= b->rank) continue;
            if (b->twin == RMI_NONE || q->part[b->twin].rank < o->rank) b->twin = j;
        }
    }
    q->part[q->n].next = 0;
    q->part[q->n].prev = q->n - 1;
    for (c = 0; c < q->cols; c++) {
        q->col[c].watch = RMI_NONE;
        q->col[c].floor = 0;
        for (k = q->col[c].member; k < q->col[c + 1].member; k++) {
            i = q->member[k];
            if (q->col[c].watch != RMI_NONE && q->part[i].lo >= q->col[c].floor) continue;
            q->col[c].watch = i;
            q->col[c].floor = q->part[i].lo;
        }
        if (q->col[c].watch != RMI_NONE && q->col[c].floor + q->col[c].rem > q->cap) return RMI_PLC_NO;
    }
    q->p->work += q->n + (uint64_t)q->col[q->cols].member * 3;
    return RMI_PLC_YES;
}

/* What a run ranks by, larger first: the largest live sum, the area, the end, or how much trouble the box's columns made in
   the earlier runs that ranked by trouble, at most or on average. */
#define RMI_PLC_RANK_TOTAL 0u
#define RMI_PLC_RANK_AREA 1u
#define RMI_PLC_RANK_END 2u
#define RMI_PLC_RANK_WORST 3u
#define RMI_PLC_RANK_MEAN 4u

RMI_FN uint64_t rmi_plc_search_value(rmi_plc_search *q, const rmi_plc_part *b, uint32_t rank)
{
    uint64_t worst = 0, sum = 0;
    uint32_t c;
    if (rank == RMI_PLC_RANK_TOTAL) return q->total[b - q->part];
    if (rank == RMI_PLC_RANK_AREA) return rmi_mul(b->size, b->e - b->s);
    if (rank == RMI_PLC_RANK_END) return b->e;
    for (c = b->s; c < b->e; c++) {
        worst = rmi_max(worst, q->col[c].weight);
        sum += q->col[c].weight;
    }
    q->p->work += b->e - b->s;
    return rank == RMI_PLC_RANK_WORST ? worst : sum / (b->e - b->s);
}

/* Ranks for a run; ties by lifetime, then by size. */
RMI_FN void rmi_plc_search_rank(rmi_plc_search *q, uint32_t rank)
{
    rmi_plc_key *key = q->p->key;
    uint32_t i, pass;
    for (i = 0; i < q->n; i++) key[i].id = i;
    for (pass = 0; pass < 3; pass++) {
        for (i = 0; i < q->n; i++) {
            const rmi_plc_part *b = q->part + key[i].id;
            uint64_t v = b->size;
            if (pass == 1) v = rank == RMI_PLC_RANK_TOTAL ? q->p->box[key[i].id].life : b->e - b->s;
            if (pass == 2) v = rmi_plc_search_value(q, b, rank);
            key[i].key = RMI_INF - v;
        }
        rmi_plc_sort(key, q->p->key2, q->n);
    }
    for (i = 0; i < q->n; i++) q->part[key[i].id].rank = i;
}

/* --- the search's rounds: many short runs with different ranks, then longer ones */

/* One run: what is not connected is solved apart, and once for all runs; each gets `limit` nodes. YES: all boxes have an
   offset in found; NO: there is no placement of height cap. */
RMI_FN int rmi_plc_run(rmi_plc_search *q, uint32_t rank, uint64_t cap, uint64_t limit)
{
    uint32_t c, s, i;
    uint64_t nodes = 1;
    int got, all = RMI_PLC_YES;
    q->cap = cap;
    q->limit = limit;
    rmi_plc_search_rank(q, rank);
    if (rmi_plc_search_start(q) == RMI_PLC_NO) return RMI_PLC_NO;
    for (s = 0, c = 1; c <= q->cols; c++) {
        if (c < q->cols && q->col[c].cross) continue;
        if (q->col[s].solved > cap) {
            q->nodes = 0;
            got = rmi_plc_descend(q, s, c);
            nodes += q->nodes;
            if (got == RMI_PLC_NO || got == RMI_PLC_FAIL) return got;
            if (got == RMI_PLC_STOP) all = got;
            for (i = q->p->first[s]; got == RMI_PLC_YES && i < q->p->first[c]; i++) q->part[i].found = q->part[i].off;
            if (got == RMI_PLC_YES) q->col[s].solved = cap;
        }
        s = c;
    }
    for (c = 0; c < q->cols && rank >= RMI_PLC_RANK_WORST; c++)
        q->col[c].weight = q->col[c].weight / 2 + (q->col[c].fails << 20) / nodes;
    return all;
}

RMI_FN void rmi_plc_take(rmi_plc *p, const rmi_plc_search *q)
{
    uint32_t i;
    uint64_t high = p->fixed_top;
    for (i = 0; i < q->n; i++) {
        p->box[i].off = q->part[i].found;
        high = rmi_max(high, p->box[i].off + p->box[i].size);
    }
    if (high < p->height) rmi_plc_keep(p, high, RMI_PLC_BY_SEARCH);
}

/* One round for one height: the first run that finds it, or rules it out, ends it. The time a run takes has a heavy tail:
   many short runs with different ranks beat a long one. */
RMI_FN rm_result rmi_plc_try_height(rmi_plc_search *q, uint64_t cap, uint64_t limit)
{
    static const unsigned char ranks[] = {RMI_PLC_RANK_TOTAL, RMI_PLC_RANK_AREA, RMI_PLC_RANK_END, RMI_PLC_RANK_WORST,
        RMI_PLC_RANK_WORST, RMI_PLC_RANK_WORST, RMI_PLC_RANK_WORST, RMI_PLC_RANK_WORST, RMI_PLC_RANK_MEAN,
        RMI_PLC_RANK_WORST, RMI_PLC_RANK_WORST, RMI_PLC_RANK_WORST, RMI_PLC_RANK_WORST};
    rmi_plc *p = q->p;
    size_t k;
    int got;
    for (k = 0; k < RMI_COUNT(ranks); k++) {
        got = rmi_plc_run(q, ranks[k], cap, limit);
        if (got == RMI_PLC_FAIL) return RM_ERROR_MEMORY;
        if (got == RMI_PLC_YES) rmi_plc_take(p, q);
        if (got == RMI_PLC_NO) p->target = rmi_max(p->target, cap + 1);
        if (p->height <= cap || p->target > cap || p->work > p->limit) return RM_OK;
    }
    return RM_OK;
}

/* First the target, for two fifths of the work; then better packings; then heights between the target and what there is,
   halving what is left. `from` rises past what was not found, and falls back to the target when nothing is left between. */
RMI_FN rm_result rmi_plc_hard(rmi_plc *p)
{
    rmi_plc_search q;
    uint64_t limit, least = rmi_max(600, p->n + p->n / 4), from, cap, first = p->target;
    RMI_TRY(rmi_plc_search_make(&q, p));
    if (!q.n) return rmi_plc_improve(p, p->limit / 3);
    for (limit = least; p->height > p->target && p->target == first && p->work < p->limit / 5 * 2;) {
        RMI_TRY(rmi_plc_try_height(&q, p->target, limit));
        limit = rmi_min(limit, RMI_MAX / 16) * 9 / 5;
    }
    if (p->height > p->target && p->target == first) RMI_TRY(rmi_plc_improve(p, p->limit / 8));
    for (limit = least, from = p->target; p->height > p->target && p->work < p->limit;) {
        if (from + p->height / 512 >= p->height) {
            from = p->target;
            limit = rmi_min(limit, RMI_MAX / 16) * 9 / 5;
        }
        from = rmi_max(from, p->target);
        cap = from + (p->height - 1 - from) / 2;
        RMI_TRY(rmi_plc_try_height(&q, cap, limit));
        if (p->height > cap) from = cap + 1;
    }
    return RM_OK;
}

/* --- the whole */
RMI_FN rm_result rmi_plc_solve(rmi_plc *p, rmi_plc_item *items, size_t n, uint64_t granule, uint64_t target)
{
    uint32_t i;
    RMI_TRY(rmi_plc_check(p, items, n, granule));
    p->height = p->bound = p->fixed_top;
    if (p->n + p->fixes) {
        RMI_TRY(rmi_plc_columns(p, items, n, granule));
        p->bound = 0;
        RMI_TRY(rmi_plc_measure(p));
        RMI_TRY(rmi_plc_base(p));
    }
    p->target = rmi_max(rmi_max(target / granule, p->bound), p->fixed_top);
    if (p->n) {
        p->height = RMI_INF;
        RMI_TRY(rmi_plc_sky_make(p));
        RMI_TRY(rmi_plc_orders(p));
        if (p->height > p->target) RMI_TRY(rmi_plc_hard(p));
    }
    for (i = 0; i < n; i++) {
        if (!items[i].size) items[i].offset = 0;
    }
    for (i = 0; i < p->n; i++) items[p->box[i].item].offset = p->best[i] * granule;
    return RM_OK;
}

/* Gives every item an offset, a multiple of the granule, such that items alive together do not overlap, sizes rounded up
   to the granule. Stops as soon as the height is at most target (0: the bound), or after work_limit steps (0: a default).
   RM_ERROR_ARGUMENT: an empty interval, granule 0, a fixed offset off the granule, fixed items that overlap, sums beyond
   RMI_MAX. On failure the items are unchanged. The arena lends its hooks only: nothing stays in it; once its stop says so,
   the best placement so far is good enough. */
RMI_FN rm_result rmi_plc_place(rmi_arena *arena, rmi_plc_item *items, size_t n, uint64_t granule, uint64_t target,
                               uint64_t work_limit, rmi_plc_info *info)
{
    rmi_arena mem = rmi_arena_make(&arena->hooks);
    rmi_plc p;
    rm_result r;
    memset(&p, 0, sizeof p);
    p.mem = &mem;
    p.method = RMI_NONE;
    p.limit = work_limit ? work_limit : RMI_PLC_WORK;
    p.stop = arena->stop;
    if (info) memset(info, 0, sizeof *info);
    r = rmi_plc_solve(&p, items, n, granule, target);
    if (r == RM_OK && info) {
        info->height = p.height * granule;
        info->bound = p.bound * granule;
        info->work = p.work;
        info->method = p.method;
    }
    rmi_arena_free(&mem);
    return r;
}

/* Items of the API, whose times are any 64-bit numbers: the placer counts positions in 32 bits. at: the sorted times, `times` of them, each once. */
RMI_FN uint32_t rmi_plc_time_rank(const uint64_t *at, size_t times, uint64_t t)
{
    size_t lo = 0, hi = times;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (at[mid] < t) lo = mid + 1;
        else hi = mid;
    }
    return (uint32_t)lo;
}

RMI_FN rm_result rmi_plc_place_times(rmi_arena *mem, rm_place_item *items, size_t n, uint64_t align, uint64_t capacity, rmi_plc_info *info)
{
    uint64_t *at = RMI_NEW(mem, uint64_t, 2 * n);
    rmi_plc_item *ranked = RMI_NEW(mem, rmi_plc_item, n);
    size_t i, times = 0;
    if (!at || !ranked) return RM_ERROR_MEMORY;
    for (i = 0; i < n; i++) {
        if (items[i].start >= items[i].end) return RM_ERROR_ARGUMENT;
        at[2 * i] = items[i].start;
        at[2 * i + 1] = items[i].end;
    }
    rmi_sort(at, 2 * n, sizeof *at, rmi_sch_cmp_u64, NULL);
    for (i = 0; i < 2 * n; i++)
        if (!times || at[times - 1] != at[i]) at[times++] = at[i];
    for (i = 0; i < n; i++) {
        int as_given = times && at[times - 1] < RMI_NONE; /* lengths say more to the orders than ranks do */
        ranked[i].start = as_given ? (uint32_t)items[i].start : rmi_plc_time_rank(at, times, items[i].start);
        ranked[i].end = as_given ? (uint32_t)items[i].end : rmi_plc_time_rank(at, times, items[i].end);
        ranked[i].size = items[i].size;
    }
    RMI_TRY(rmi_plc_place(mem, ranked, n, align, capacity, 0, info));
    for (i = 0; i < n; i++) items[i].offset = ranked[i].offset;
    return RM_OK;
}

/* =====================================================================================================================
   >>refine - whole-graph search: the fastest list of runs whose live bytes stay within a limit
   In: a sealed graph, a limit. Out: a list of runs with repeats, and the form of each.
   A state is the list of tasks in execution order, forwards as often as it likes, and for each op the mode of its backward
   (what that reads). All else follows in one pass over the list, as in >>sequence: lives, bytes that go on under another name,
   and for each run the fastest form whose workspace fits, so that algorithms need no search. O(accesses) an evaluation.
   All decisions are taken in integers, with an own generator and counted work: the same everywhere.
   ================================================================================================================== */

typedef struct rmi_ref_choice { /* a form that a run may take */
    uint32_t form, inplace;     /* inplace: buffer that output 0 may take over, or RMI_NONE */
    uint64_t ns, ws;
} rmi_ref_choice;

typedef struct rmi_ref_target { /* a gradient that a backward contributes to */
    uint32_t buf, over0, n_over;
    uint8_t share, rename;      /* may be another name of dout; may take dout over */
} rmi_ref_target;

typedef struct rmi_ref_acc {    /* what a task touches, in one mode of its op; ranges of the model's pools */
    uint32_t read0, n_read, write0, n_write;
    uint32_t targets;           /* BWD: all gradients it writes, tracked or not */
    uint32_t saved;             /* FWD: the buffer that the mode's backward reads; BWD: none */
    uint32_t dout, view;        /* buffers, or RMI_NONE */
    uint32_t free0[2], n_free[2]; /* choices, by time, of a first run and of a repeat */
    uint32_t kept0[2], n_kept;  /* the same where what it saves is read */
    uint64_t view_offset, saved_bytes, saved_room;
    uint8_t may_be_free;        /* BWD: all its gradients may be names of dout */
} rmi_ref_acc;

typedef struct rmi_ref_task {
    uint8_t way, part;
    uint16_t fixed;             /* runs once: not an op's forward, or pinned */
    uint32_t id, acc0;          /* op (or param, barrier); of mode 0 */
    uint32_t dep0, n_dep;       /* tasks that must have run before, beside what reads tell */
    uint32_t ban0, n_ban;       /* tasks that must not have run before: they change what this one reads */
    uint64_t ns;                /* of tasks without choices */
} rmi_ref_task;

typedef struct rmi_ref_model {
    const rm_graph *g;
    rmi_arena *mem;
    uint32_t step, granule;
    rmi_ref_task *tasks;        /* forwards by op; then everything else */
    uint32_t n_tasks;
    uint32_t *bwd0;             /* by op: its first backward task, n_bwd of them */
    uint8_t *n_bwd, *n_modes, *must; /* by op */
    uint32_t *op_task;          /* by op: forward task, the op itself */
    rmi_ref_acc *accs;
    rmi_ref_choice *choices;
    rmi_ref_target *targets;
    uint32_t *pool, *deps;
    size_t n_accs, cap_accs, n_choices, cap_choices, n_targets, cap_targets, n_pool, cap_pool, n_deps, cap_deps;
    uint32_t *compact;          /* >>lower's buffers -> ours, or RMI_NONE: takes no bytes that change */
    uint32_t n_buf;
    uint64_t *bytes, *room;     /* by our buffer: as declared, rounded */
    uint32_t *maker;            /* by our buffer: op whose forward makes it, or RMI_NONE */
    uint32_t *stay, n_stay;     /* wanted at the end */
    uint32_t *start, n_start;   /* inputs: there at the start */
    uint64_t base;              /* of what is always there */
    uint64_t mean_ns;
    uint32_t most_degree;
    uint32_t *keep, n_keep;     /* the list that runs everything once */
    uint8_t *keep_mode;         /* by op: fastest */
    uint32_t *moded, n_moded;   /* ops with more than one mode */
} rmi_ref_model;

RMI_PLAIN_BEGIN
/* --- the model */

#define RMI_REF_PUSH(m, array, n, cap, type) (rmi_arena_grow((m)->mem, (void **)&(m)->array, &(m)->cap, (m)->n + 1, sizeof(type)) ? &(m)->array[(m)->n++] : NULL)

/* Buffers whose bytes come and go; the others are the caller's, empty, or always there. */
RMI_FN int rmi_ref_tracked(const rm_graph *g, uint32_t step, uint32_t b)
{
    uint32_t i;
    rmi_buf_kind k = rmi_low_kind(g, b, &i);
    if (k == RMI_BUF_SAVED) return g->ops[i].has_bwd;
    if (k != RMI_BUF_VALUE && k != RMI_BUF_GRAD) return 0;
    if (rmi_low_external(g, b)) return 0;
    if (!rmi_low_bytes(g, b)) return k == RMI_BUF_VALUE && g->tensors[i].root != i;
    if (k == RMI_BUF_VALUE) return g->tensors[i].kind == RMI_ACT || g->tensors[i].kind == RMI_INPUT;
    return !(g->tensors[i].kind == RMI_PARAM && rmi_low_grads_resident(step));
}

RMI_FN rm_result rmi_ref_buffers(rmi_ref_model *m)
{
    const rm_graph *g = m->g;
    uint32_t b, i, nb = rmi_low_buffers(g) + 1; /* one more than there are: whatever takes no bytes of its own */
    m->compact = RMI_NEW(m->mem, uint32_t, nb);
    m->bytes = RMI_NEW(m->mem, uint64_t, nb);
    m->room = RMI_NEW(m->mem, uint64_t, nb);
    m->maker = RMI_NEW(m->mem, uint32_t, nb);
    m->stay = RMI_NEW(m->mem, uint32_t, nb);
    m->start = RMI_NEW(m->mem, uint32_t, g->n_tensors);
    if (!m->compact || !m->bytes || !m->room || !m->maker || !m->stay || !m->start) return RM_ERROR_MEMORY;
    for (b = 0; b + 1 < nb; b++) {
        rmi_buf_kind k = rmi_low_kind(g, b, &i);
        m->compact[b] = RMI_NONE;
        if (!rmi_ref_tracked(g, m->step, b)) {
            int home = (k == RMI_BUF_VALUE && g->tensors[i].kind != RMI_ACT) || (k == RMI_BUF_STATE && g->tensors[i].kind == RMI_PARAM) ||
                       (k == RMI_BUF_GRAD && g->tensors[i].kind == RMI_PARAM && g->tensors[i].consumers.n && rmi_low_grads_resident(m->step));
            if (home && !rmi_low_external(g, b)) m->base += rmi_round_up(rmi_low_bytes(g, b), m->granule);
            continue;
        }
        m->bytes[m->n_buf] = rmi_low_bytes(g, b);
        m->room[m->n_buf] = rmi_round_up(m->bytes[m->n_buf], m->granule);
        m->maker[m->n_buf] = k == RMI_BUF_SAVED ? i : k == RMI_BUF_VALUE ? g->tensors[i].maker : RMI_NONE;
        if (k == RMI_BUF_VALUE && g->tensors[i].kind == RMI_INPUT) m->start[m->n_start++] = m->n_buf;
        if (k == RMI_BUF_VALUE && g->tensors[i].is_output) m->stay[m->n_stay++] = m->n_buf;
        if (k == RMI_BUF_GRAD && rmi_seq_grad_stays(g, m->step, i)) m->stay[m->n_stay++] = m->n_buf;
        m->compact[b] = m->n_buf++;
    }
    m->maker[m->n_buf] = RMI_NONE;
    return RM_OK;
}

RMI_FN rm_result rmi_ref_put(rmi_ref_model *m, uint32_t b, uint32_t *n)
{
    uint32_t *p, i, c = m->compact[b];
    if (c == RMI_NONE) return RM_OK;
    for (i = 0; i < *n; i++)
        if (m->pool[m->n_pool - 1 - i] == c) return RM_OK;
    p = RMI_REF_PUSH(m, pool, n_pool, cap_pool, uint32_t);
    if (!p) return RM_ERROR_MEMORY;
    *p = c;
    ++*n;
    return RM_OK;
}

/* One choice more; the range stays sorted by time, then workspace, then form. */
RMI_FN rm_result rmi_ref_put_choice(rmi_ref_model *m, uint32_t first, uint32_t *n, uint32_t form, uint32_t inplace, uint64_t ns, uint64_t ws)
{
    rmi_ref_choice *c = RMI_REF_PUSH(m, choices, n_choices, cap_choices, rmi_ref_choice);
    uint32_t i;
    if (!c) return RM_ERROR_MEMORY;
    for (i = first + *n; i > first && (m->choices[i - 1].ns > ns || (m->choices[i - 1].ns == ns && m->choices[i - 1].ws > ws)); i--) m->choices[i] = m->choices[i - 1];
    m->choices[i].form = form;
    m->choices[i].inplace = inplace;
    m->choices[i].ns = ns;
    m->choices[i].ws = rmi_round_up(ws, m->granule);
    ++*n;
    return RM_OK;
}

/* The mode of op named by form f and bits class of form h exists if they are the first of their kinds. */
RMI_FN int rmi_ref_is_mode(const rm_graph *g, uint32_t o, uint32_t f, uint32_t h)
{
    const rmi_op *op = &g->ops[o];
    uint32_t i;
    for (i = 0; i < f; i++)
        if (rmi_low_same_mode(op, &op->forms[i], &op->forms[f])) return 0;
    for (i = 0; i < h; i++)
        if (!strcmp(op->forms[i].bits, op->forms[h].bits)) return 0;
    if (op->has_bwd && rmi_low_reads_saved(op, &op->forms[f])) return !strcmp(op->forms[f].bits, op->forms[h].bits);
    return op->has_bwd || !f;
}

/* The mode of op that form stands for. */
RMI_FN uint32_t rmi_ref_mode_of(const rm_graph *g, uint32_t o, uint32_t form)
{
    const rmi_op *op = &g->ops[o];
    uint32_t f, h, n = 0;
    for (f = 0; f < op->n_forms; f++)
        for (h = 0; h < op->n_forms; h++) {
            if (n == 255 || !rmi_ref_is_mode(g, o, f, h)) continue;
            if (rmi_low_same_mode(op, &op->forms[f], &op->forms[form]) && !strcmp(op->forms[h].bits, op->forms[form].bits)) return n;
            n++;
        }
    return 0;
}

RMI_FN rm_result rmi_ref_fwd_acc(rmi_ref_model *m, uint32_t o, uint32_t mode_form, uint32_t bits_form)
{
    const rm_graph *g = m->g;
    const rmi_op *op = &g->ops[o];
    const rmi_form *mf = &op->forms[mode_form];
    rmi_ref_acc a;
    uint32_t i, again;
    memset(&a, 0, sizeof a);
    a.saved = a.dout = a.view = RMI_NONE;
    a.read0 = (uint32_t)m->n_pool;
    for (i = 0; i < op->in.n; i++) RMI_TRY(rmi_ref_put(m, op->in.at[i], &a.n_read));
    a.write0 = (uint32_t)m->n_pool;
    for (i = 0; i < op->out.n; i++) RMI_TRY(rmi_ref_put(m, op->out.at[i], &a.n_write));
    if (op->has_bwd && rmi_low_has_backward(m->step) && rmi_low_reads_saved(op, mf)) {
        a.saved = m->compact[rmi_low_buf(g, RMI_BUF_SAVED, o)];
        a.saved_bytes = mf->saved;
        a.saved_room = rmi_round_up(mf->saved, m->granule);
    }
    if (op->view != RMI_NONE) {
        a.view = m->compact[op->view];
        a.view_offset = op->view_offset;
    }
    for (again = 0; again < 2; again++) {
        a.free0[again] = (uint32_t)m->n_choices;
        for (i = 0; i < op->n_forms; i++) {
            const rmi_form *f = &op->forms[i];
            uint64_t ns = op->view != RMI_NONE ? 0 : again ? f->again : f->fwd;
            if (strcmp(f->bits, op->forms[bits_form].bits)) continue;
            RMI_TRY(rmi_ref_put_choice(m, a.free0[again], &a.n_free[again], i, f->inplace == RMI_NONE ? RMI_NONE : m->compact[f->inplace], ns, op->view != RMI_NONE ? 0 : f->fwd_ws));
        }
        a.kept0[again] = (uint32_t)m->n_choices;
        a.n_kept = 0;
        RMI_TRY(rmi_ref_put_choice(m, a.kept0[again], &a.n_kept, mode_form, mf->inplace == RMI_NONE ? RMI_NONE : m->compact[mf->inplace], op->view != RMI_NONE ? 0 : again ? mf->again : mf->fwd, op->view != RMI_NONE ? 0 : mf->fwd_ws));
    }
    if (!rmi_arena_grow(m->mem, (void **)&m->accs, &m->cap_accs, m->n_accs + 1, sizeof(rmi_ref_acc))) return RM_ERROR_MEMORY;
    m->accs[m->n_accs++] = a;
    return RM_OK;
}

RMI_FN rm_result rmi_ref_target_put(rmi_ref_model *m, const rmi_op *op, uint32_t o, const rmi_form *f, uint32_t t)
{
    const rm_graph *g = m->g;
    uint32_t k, n, buf;
    rmi_ref_target *x = RMI_REF_PUSH(m, targets, n_targets, cap_targets, rmi_ref_target);
    if (!x) return RM_ERROR_MEMORY;
    memset(x, 0, sizeof *x);
    x->buf = m->compact[rmi_low_buf(g, RMI_BUF_GRAD, t)];
    x->share = (uint8_t)rmi_list_has(&op->share, t);
    x->rename = (uint8_t)(x->share || op->view == t);
    x->over0 = (uint32_t)m->n_pool;
    for (k = 0; k < f->n_overs && !(f->flags & RM_ZERO_GRADS); k++) {
        const rmi_over *v = &f->overs[k];
        if (v->grad_of != t || (v->what == RMI_OVER_TENSOR && g->tensors[v->tensor].kind != RMI_ACT)) continue;
        buf = v->what == RMI_OVER_DOUT ? rmi_low_buf(g, RMI_BUF_GRAD, op->out.at[0]) : v->what == RMI_OVER_SAVED ? rmi_low_buf(g, RMI_BUF_SAVED, o) : v->tensor;
        n = 0;
        RMI_TRY(rmi_ref_put(m, buf, &n));
        x->n_over += n;
    }
    return RM_OK;
}

RMI_FN rm_result rmi_ref_bwd_acc(rmi_ref_model *m, uint32_t o, uint32_t part, uint32_t mode_form)
{
    const rm_graph *g = m->g;
    const rmi_op *op = &g->ops[o];
    const rmi_form *mf = &op->forms[mode_form];
    const rmi_part *p = &mf->parts[part];
    rmi_ref_acc a;
    uint32_t i;
    memset(&a, 0, sizeof a);
    a.saved = a.view = RMI_NONE;
    a.dout = g->tensors[op->out.at[0]].consumers.n ? m->compact[rmi_low_buf(g, RMI_BUF_GRAD, op->out.at[0])] : RMI_NONE;
    a.read0 = (uint32_t)m->n_pool;
    for (i = 0; i < p->needs.n; i++) RMI_TRY(rmi_ref_put(m, p->needs.at[i], &a.n_read));
    if (p->needs_saved && mf->saved) RMI_TRY(rmi_ref_put(m, rmi_low_buf(g, RMI_BUF_SAVED, o), &a.n_read));
    for (i = 0; i < op->grad_out.n; i++) RMI_TRY(rmi_ref_put(m, rmi_low_buf(g, RMI_BUF_GRAD, op->grad_out.at[i]), &a.n_read));
    a.write0 = (uint32_t)m->n_targets;
    a.may_be_free = 1;
    for (i = 0; i < op->grad_in.n; i++) {
        if (!rmi_list_has(&p->grads, op->grad_in.at[i])) continue;
        a.targets++;
        if (!rmi_list_has(&op->share, op->grad_in.at[i]) && op->view != op->grad_in.at[i]) a.may_be_free = 0;
        if (m->compact[rmi_low_buf(g, RMI_BUF_GRAD, op->grad_in.at[i])] == RMI_NONE) continue;
        RMI_TRY(rmi_ref_target_put(m, op, o, mf, op->grad_in.at[i]));
        a.n_write++;
    }
    a.free0[0] = (uint32_t)m->n_choices;
    for (i = 0; i < op->n_forms; i++)
        if (rmi_low_same_mode(op, mf, &op->forms[i])) RMI_TRY(rmi_ref_put_choice(m, a.free0[0], &a.n_free[0], i, RMI_NONE, op->forms[i].parts[part].bwd, op->forms[i].parts[part].bwd_ws));
    if (!rmi_arena_grow(m->mem, (void **)&m->accs, &m->cap_accs, m->n_accs + 1, sizeof(rmi_ref_acc))) return RM_ERROR_MEMORY;
    m->accs[m->n_accs++] = a;
    return RM_OK;
}

/* Reductions, updates, barriers. */
RMI_FN rm_result rmi_ref_other_acc(rmi_ref_model *m, rmi_run r, rmi_access *low)
{
    rmi_ref_acc a;
    uint32_t i;
    memset(&a, 0, sizeof a);
    a.saved = a.view = a.dout = RMI_NONE;
    rmi_low_access(m->g, r, 0, low);
    a.read0 = (uint32_t)m->n_pool;
    for (i = 0; i < low->n_reads; i++) RMI_TRY(rmi_ref_put(m, low->reads[i], &a.n_read));
    a.free0[0] = (uint32_t)m->n_choices;
    RMI_TRY(rmi_ref_put_choice(m, a.free0[0], &a.n_free[0], 0, RMI_NONE, r.way == RMI_REDUCE || r.way == RMI_OPT_HOST ? 0 : rmi_low_ns(m->g, r, 0, 0), low->ws_bytes));
    if (!rmi_arena_grow(m->mem, (void **)&m->accs, &m->cap_accs, m->n_accs + 1, sizeof(rmi_ref_acc))) return RM_ERROR_MEMORY;
    m->accs[m->n_accs++] = a;
    return RM_OK;
}

RMI_FN rmi_ref_task *rmi_ref_new_task(rmi_ref_model *m, rmi_way way, uint32_t id, uint32_t part)
{
    rmi_ref_task *t = &m->tasks[m->n_tasks++];
    t->way = (uint8_t)way;
    t->part = (uint8_t)part;
    t->id = id;
    t->acc0 = (uint32_t)m->n_accs;
    t->fixed = way != RMI_FWD || m->g->ops[id].pinned;
    return t;
}

/* The fastest mode of each op. */
RMI_FN void rmi_ref_fast_mode(rmi_ref_model *m, uint32_t o)
{
    uint64_t best = RMI_INF;
    uint32_t mode, p;
    for (mode = 0; mode < m->n_modes[o]; mode++) {
        const rmi_ref_acc *a = &m->accs[m->tasks[o].acc0 + mode];
        uint64_t ns = m->choices[a->saved == RMI_NONE ? a->free0[0] : a->kept0[0]].ns;
        for (p = 0; p < m->n_bwd[o]; p++) ns += m->choices[m->accs[m->tasks[m->bwd0[o] + p].acc0 + mode].free0[0]].ns;
        if (ns >= best) continue;
        best = ns;
        m->keep_mode[o] = (uint8_t)mode;
    }
}

/* May part p of the op contribute to the gradient of t? */
RMI_FN int rmi_ref_gives(const rmi_op *op, uint32_t p, uint32_t t)
{
    uint32_t f;
    for (f = 0; f < op->n_forms; f++)
        if (p < op->forms[f].n_parts && rmi_list_has(&op->forms[f].parts[p].grads, t)) return 1;
    return 0;
}

/* A part that this mode's backward does not have: nothing runs. */
RMI_FN rm_result rmi_ref_no_acc(rmi_ref_model *m, uint32_t f)
{
    rmi_ref_acc a;
    memset(&a, 0, sizeof a);
    a.saved = a.view = a.dout = RMI_NONE;
    a.free0[0] = (uint32_t)m->n_choices;
    RMI_TRY(rmi_ref_put_choice(m, a.free0[0], &a.n_free[0], f, RMI_NONE, 0, 0));
    if (!rmi_arena_grow(m->mem, (void **)&m->accs, &m->cap_accs, m->n_accs + 1, sizeof(rmi_ref_acc))) return RM_ERROR_MEMORY;
    m->accs[m->n_accs++] = a;
    return RM_OK;
}

/* Where forms differ in parts, a task stands for the p-th one of each, which of some may be none. */
RMI_FN rm_result rmi_ref_op_tasks(rmi_ref_model *m, uint32_t o, int backward)
{
    const rmi_op *op = &m->g->ops[o];
    uint32_t f, h, p;
    rmi_ref_task *t;
    for (p = 0; p < (backward ? rmi_low_parts(op) : 1); p++) {
        uint32_t n = 0;
        for (f = 0; f < op->n_forms && backward && !rmi_low_has_part(op, f, p);) f++;
        if (backward && f == op->n_forms) continue;
        t = rmi_ref_new_task(m, backward ? RMI_BWD : RMI_FWD, o, p);
        if (backward && !m->n_bwd[o]++) m->bwd0[o] = m->n_tasks - 1;
        for (f = 0; f < op->n_forms; f++)
            for (h = 0; h < op->n_forms; h++) {
                if (n == 255 || !rmi_ref_is_mode(m->g, o, f, h)) continue;
                if (backward && !rmi_low_has_part(op, f, p)) RMI_TRY(rmi_ref_no_acc(m, f));
                else if (backward) RMI_TRY(rmi_ref_bwd_acc(m, o, p, f));
                else RMI_TRY(rmi_ref_fwd_acc(m, o, f, h));
                n++;
            }
        m->n_modes[o] = (uint8_t)n;
        t->ns = m->choices[m->accs[t->acc0].free0[0]].ns;
    }
    return RM_OK;
}

/* Tasks that must come before a backward: contributions to its outputs' gradients, and to its inputs' in the fixed order. */
RMI_FN rm_result rmi_ref_deps(rmi_ref_model *m, uint32_t task)
{
    const rm_graph *g = m->g;
    rmi_ref_task *t = &m->tasks[task];
    const rmi_op *op = &g->ops[t->id];
    uint32_t i, k, p, pass;
    for (pass = 0; pass < 2; pass++) {
        const rmi_list *l = pass ? &op->grad_in : &op->grad_out;
        for (i = 0; i < l->n; i++) {
            const rmi_list *c = &g->tensors[l->at[i]].consumers;
            if (pass && !rmi_ref_gives(op, t->part, l->at[i])) continue;
            for (k = 0; k < c->n; k++) {
                uint32_t o = c->at[k];
                if (pass && (o <= t->id || g->any_order)) continue;
                for (p = 0; p < m->n_bwd[o]; p++) {
                    uint32_t x = m->bwd0[o] + p, *d;
                    if (x == task || !rmi_ref_gives(&g->ops[o], m->tasks[x].part, l->at[i])) continue;
                    d = RMI_REF_PUSH(m, deps, n_deps, cap_deps, uint32_t);
                    if (!d) return RM_ERROR_MEMORY;
                    *d = x;
                    m->tasks[task].n_dep++;
                }
            }
        }
    }
    return RM_OK;
}

RMI_FN rm_result rmi_ref_put_dep(rmi_ref_model *m, uint32_t dep, uint32_t *n)
{
    uint32_t *d = RMI_REF_PUSH(m, deps, n_deps, cap_deps, uint32_t);
    if (!d) return RM_ERROR_MEMORY;
    *d = dep;
    ++*n;
    return RM_OK;
}

/* Order that bytes do not show, of task reading tensor t: makers of what takes no bytes, versions of consts. */
RMI_FN rm_result rmi_ref_order_read(rmi_ref_model *m, uint32_t task, uint32_t t, const uint32_t *update, int bans)
{
    const rm_graph *g = m->g;
    const rmi_tensor *x = &g->tensors[t];
    rmi_ref_task *k = &m->tasks[task];
    uint32_t i;
    if (!bans) {
        if (x->kind == RMI_ACT && m->compact[t] == RMI_NONE && !(k->way == RMI_FWD && k->id == x->maker)) RMI_TRY(rmi_ref_put_dep(m, x->maker, &k->n_dep));
        for (i = 0; i < x->mutators.n && k->way == RMI_FWD; i++)
            if (x->mutators.at[i] < k->id) RMI_TRY(rmi_ref_put_dep(m, x->mutators.at[i], &k->n_dep));
        return RM_OK;
    }
    t = x->root;
    if (update[t] != RMI_NONE) RMI_TRY(rmi_ref_put_dep(m, update[t], &k->n_ban));
    for (i = 0; i < g->tensors[t].mutators.n && k->way == RMI_FWD; i++)
        if (g->tensors[t].mutators.at[i] > k->id) RMI_TRY(rmi_ref_put_dep(m, g->tensors[t].mutators.at[i], &k->n_ban));
    return RM_OK;
}

/* The same for all that a forward or backward may read, in any mode. */
RMI_FN rm_result rmi_ref_order(rmi_ref_model *m, uint32_t task, const uint32_t *update, int bans)
{
    const rm_graph *g = m->g;
    rmi_ref_task *t = &m->tasks[task];
    const rmi_op *op = &g->ops[t->id];
    uint32_t i, f;
    if (bans) t->ban0 = (uint32_t)m->n_deps;
    for (i = 0; i < op->in.n && t->way == RMI_FWD; i++) RMI_TRY(rmi_ref_order_read(m, task, op->in.at[i], update, bans));
    for (i = 0; i < op->mutates.n && t->way == RMI_FWD; i++)
        if (!rmi_list_has(&op->in, op->mutates.at[i])) RMI_TRY(rmi_ref_order_read(m, task, op->mutates.at[i], update, bans));
    for (f = 0; f < op->n_forms && t->way == RMI_BWD; f++) {
        const rmi_list *l;
        if (t->part >= op->forms[f].n_parts) continue;
        l = &op->forms[f].parts[t->part].needs;
        for (i = 0; i < l->n; i++) RMI_TRY(rmi_ref_order_read(m, task, l->at[i], update, bans));
    }
    return RM_OK;
}

/* Everything once: forwards in order, backwards in reverse, reductions and updates as >>block does. */
RMI_FN rm_result rmi_ref_once(rmi_ref_model *m)
{
    const rm_graph *g = m->g;
    uint32_t i, k, n = 0, most = 2 * g->n_tensors + g->n_barriers + 8, *slot, *update;
    rmi_run *runs;
    rmi_access low;
    for (i = 0; i < g->n_ops; i++) most += 1 + rmi_low_parts(&g->ops[i]);
    m->tasks = RMI_NEW(m->mem, rmi_ref_task, most);
    m->keep = RMI_NEW(m->mem, uint32_t, most);
    runs = RMI_NEW(m->mem, rmi_run, most);
    slot = RMI_NEW(m->mem, uint32_t, g->n_ops);
    if (!m->tasks || !m->keep || !runs || !slot) return RM_ERROR_MEMORY;
    RMI_TRY(rmi_low_access_make(g, m->mem, &low));
    for (i = 0; i < g->n_ops; i++) {
        RMI_TRY(rmi_ref_op_tasks(m, i, 0));
        m->keep[m->n_keep++] = i;
    }
    for (i = 0; i < g->n_ops && rmi_low_has_backward(m->step); i++)
        if (g->ops[i].has_bwd) RMI_TRY(rmi_ref_op_tasks(m, i, 1));
    if (rmi_low_has_backward(m->step)) n = rmi_blk_backward(g, m->step, 0, g->n_ops, runs);
    n += rmi_blk_tail(g, m->step, runs + n);
    for (i = 0; i < n; i++) {
        if (runs[i].way == RMI_BWD) { /* with the first part all, if forms differ in parts */
            const rmi_op *op = &g->ops[runs[i].id];
            uint32_t end = slot[runs[i].id] + 1;
            for (k = 1; k < op->n_forms; k++)
                if (!rmi_low_same_parts(&op->forms[0], &op->forms[k])) end = m->n_bwd[runs[i].id];
            for (; slot[runs[i].id] < end; slot[runs[i].id]++) m->keep[m->n_keep++] = m->bwd0[runs[i].id] + slot[runs[i].id];
            continue;
        }
        m->keep[m->n_keep++] = m->n_tasks;
        rmi_ref_new_task(m, (rmi_way)runs[i].way, runs[i].id, 0);
        RMI_TRY(rmi_ref_other_acc(m, runs[i], &low));
    }
    update = RMI_NEW(m->mem, uint32_t, g->n_tensors);
    if (!update) return RM_ERROR_MEMORY;
    for (i = 0; i < g->n_tensors; i++) update[i] = RMI_NONE;
    for (i = 0; i < m->n_tasks; i++)
        if (m->tasks[i].way == RMI_OPT || m->tasks[i].way == RMI_OPT_HOST) update[m->tasks[i].id] = i;
    for (i = 0; i < m->n_tasks; i++) {
        m->tasks[i].dep0 = (uint32_t)m->n_deps;
        if (m->tasks[i].way == RMI_BWD) RMI_TRY(rmi_ref_deps(m, i));
        if (m->tasks[i].way <= RMI_BWD) RMI_TRY(rmi_ref_order(m, i, update, 0));
        if (m->tasks[i].way <= RMI_BWD) RMI_TRY(rmi_ref_order(m, i, update, 1));
    }
    /* a reduction, update or barrier after all that it stands behind in this list and that touches its gradient */
    for (i = g->n_ops; i < m->n_keep; i++) {
        uint32_t task = m->keep[i], *d;
        rmi_ref_task *t = &m->tasks[task];
        if (t->way == RMI_BWD) continue;
        t->dep0 = (uint32_t)m->n_deps;
        for (k = g->n_ops; k < i; k++) {
            const rmi_ref_task *x = &m->tasks[m->keep[k]];
            int before = x->way == RMI_BWD ? t->way == RMI_BARRIER || rmi_list_has(&g->ops[x->id].grad_in, t->id) : t->way == RMI_BARRIER || x->way == RMI_BARRIER || x->id == t->id;
            if (!before) continue;
            d = RMI_REF_PUSH(m, deps, n_deps, cap_deps, uint32_t);
            if (!d) return RM_ERROR_MEMORY;
            *d = m->keep[k];
            t = &m->tasks[task];
            t->n_dep++;
        }
    }
    return RM_OK;
}

RMI_FN rm_result rmi_ref_make(rmi_arena *mem, const rm_graph *g, uint32_t step, uint32_t granule, rmi_ref_model *m)
{
    uint32_t i;
    uint64_t sum = 0;
    memset(m, 0, sizeof *m);
    m->g = g;
    m->mem = mem;
    m->step = step;
    m->granule = granule;
    m->bwd0 = RMI_NEW(mem, uint32_t, g->n_ops);
    m->n_bwd = RMI_NEW(mem, uint8_t, g->n_ops);
    m->n_modes = RMI_NEW(mem, uint8_t, g->n_ops);
    m->must = RMI_NEW(mem, uint8_t, g->n_ops);
    m->keep_mode = RMI_NEW(mem, uint8_t, g->n_ops);
    m->moded = RMI_NEW(mem, uint32_t, g->n_ops);
    if (!m->bwd0 || !m->n_bwd || !m->n_modes || !m->must || !m->keep_mode || !m->moded) return RM_ERROR_MEMORY;
    RMI_TRY(rmi_ref_buffers(m));
    for (i = 0; i < g->n_ops; i++) { /* what takes no bytes is made once and stays */
        uint32_t k;
        m->must[i] = g->ops[i].mutates.n || (g->ops[i].flags & RM_ONCE);
        for (k = 0; k < g->ops[i].out.n; k++) m->must[i] |= m->compact[g->ops[i].out.at[k]] == RMI_NONE;
    }
    RMI_TRY(rmi_ref_once(m));
    for (i = 0; i < g->n_ops; i++) {
        rmi_ref_fast_mode(m, i);
        if (m->n_modes[i] > 1) m->moded[m->n_moded++] = i;
        if (m->accs[m->tasks[i].acc0].n_write + 2 > m->most_degree) m->most_degree = m->accs[m->tasks[i].acc0].n_write + 2;
        sum += m->tasks[i].ns;
    }
    m->mean_ns = sum / g->n_ops + 1;
    for (i = 0; i < m->n_accs; i++)
        if (m->accs[i].n_write + 2 > m->most_degree) m->most_degree = m->accs[i].n_write + 2;
    return RM_OK;
}

RMI_PLAIN_END

/* --- one state and what follows from it */
typedef struct rmi_ref_inst { /* one life of one buffer */
    uint32_t buf, first, last, again, str, sibling;
    uint32_t prev;            /* life of the same buffer before */
    uint32_t next_free;       /* next one whose last use is the same */
    uint8_t gone, home, off;  /* off: a view that does not start where its stretch does */
} rmi_ref_inst;

typedef struct rmi_ref_str {
    uint32_t head, refs;
    uint64_t room;
} rmi_ref_str;

typedef struct rmi_ref_state {
    uint32_t *list, n;
    uint8_t *mode;     /* by op */
    uint64_t ns, peak, over; /* over: sum over positions of what is above the limit; 0: it fits */
    uint64_t fast_ns;  /* with the fastest form everywhere */
    uint64_t least_ns; /* the same, gradients that may be names of others' bytes counted as such */
    /* by position */
    uint64_t *live;    /* bytes there, with the run's workspace */
    uint16_t *form;
    uint8_t *rank;     /* of the form among the choices */
    uint64_t *cost;    /* ns */
    uint32_t *inst0, *free_head;
    rmi_ref_inst *inst;
    uint32_t n_inst;
    rmi_ref_str *str;
    uint32_t n_str;
    uint32_t *inst_use; /* by life: its latest use in the list of uses; filled by rmi_ref_record */
    uint32_t *use_pos, *use_prev, n_use;
    uint32_t *cur;     /* by buffer: the life at the end */
    uint32_t *dead, n_dead; /* forwards that nobody reads */
    uint32_t *reps, n_reps; /* repeats */
} rmi_ref_state;

/* Parts of a list that do not change while the rest is improved: each is one entry of the list, number n_tasks and up. What lies
   in folds alone is a number; buffers that the rest of the list may touch are followed through them. */
typedef struct rmi_ref_touch {
    uint32_t buf, with;    /* a use: the buffer. A birth: also the one whose bytes it shares, or RMI_NONE */
    uint8_t ends, gone;    /* use: the last one there was; its bytes were taken over */
    uint8_t writes, takes; /* use or birth: a contribution follows the first. Birth: takes over the bytes of `with` */
    uint8_t grad, off;
    uint64_t room;
} rmi_ref_touch;

typedef struct rmi_ref_fold {
    uint32_t lo, hi;       /* positions of the whole list */
    uint32_t use0, n_use, birth0, n_birth;
    uint64_t above;        /* the most in it, above what is there when it begins */
    int64_t rest;          /* bytes in no followed buffer: how many more there are after it */
    uint64_t ns;
} rmi_ref_fold;

typedef struct rmi_ref_folds {
    rmi_ref_fold *at;
    uint32_t n;
    rmi_ref_touch *touch;
    uint32_t *in;          /* by task: the first fold that it runs in, or RMI_NONE */
    uint32_t *start, n_start, *stay, n_stay; /* as the model's, of followed buffers */
    uint64_t rest;         /* bytes in no followed buffer at the start */
} rmi_ref_folds;

typedef struct rmi_ref_search {
    const rmi_ref_model *m;
    const rmi_ref_folds *folds; /* NULL: none */
    uint32_t passed;     /* folds so far, in the first pass */
    int bad;             /* found in the second pass: not legal */
    int odd;             /* the edit is more than repeats that come or go */
    rmi_arena *mem;
    uint64_t limit;      /* of live bytes, base not counted */
    uint32_t cap, cap_inst, cap_use;
    uint32_t *count, *done; /* by op; by task: stamp of the evaluation it ran in */
    uint32_t stamp;
    uint32_t *now;       /* by buffer: second pass's current life */
    uint64_t *size;      /* by buffer: bytes; those of what forwards save follow the modes */
    rmi_ref_state *a, *b, best; /* current, candidate */
    uint64_t tried;      /* time of the best list that has got addresses */
    uint64_t rng, work, told, least_ns; /* told: work that the caller's stop knows of */
    int recorded;        /* the uses of a are known */
    /* edits: insert task at position (before what stands there), drop position */
    uint64_t *ins;       /* position << 32 | task; sorted when applied */
    uint32_t n_ins, cap_ins;
    uint8_t *drop;
    uint32_t *above;     /* by position: how many positions before it are above the limit; for the greedy */
    uint64_t most_ns;    /* a closure that takes longer is of no use */
    uint64_t extended;   /* bytes (in 256) times positions above the limit that the last closure's longer lives take */
    uint32_t *touched, n_touched; /* stretches that the last closure reads where they are */
    uint8_t *busy;       /* by stretch: 1 read by, 2 given up by what a batch has chosen */
    uint8_t *mark;       /* by task: scratch */
    uint32_t *stack, *stack_runs;
    uint64_t lambda;     /* ns a byte above the limit, 2^-20 */
    uint64_t most_lambda;
    uint64_t stop;       /* an evaluation may give up above this energy */
    uint64_t counts[16][2];
} rmi_ref_search;

/* What a state is kept by: list, modes, forms. */
RMI_FN rm_result rmi_ref_kept_make(rmi_ref_search *s, rmi_ref_state *x)
{
    memset(x, 0, sizeof *x);
    x->list = RMI_NEW(s->mem, uint32_t, s->cap);
    x->mode = RMI_NEW(s->mem, uint8_t, s->m->g->n_ops);
    x->form = RMI_NEW(s->mem, uint16_t, s->cap);
    return x->list && x->mode && x->form ? RM_OK : RM_ERROR_MEMORY;
}

/* Uses are of the current state alone: `uses` lends their tables. */
RMI_FN rm_result rmi_ref_state_make(rmi_ref_search *s, rmi_ref_state *x, const rmi_ref_state *uses)
{
    RMI_TRY(rmi_ref_kept_make(s, x));
    x->live = RMI_NEW(s->mem, uint64_t, s->cap + 1);
    x->rank = RMI_NEW(s->mem, uint8_t, s->cap);
    x->cost = RMI_NEW(s->mem, uint64_t, s->cap);
    x->inst0 = RMI_NEW(s->mem, uint32_t, s->cap + 1);
    x->free_head = RMI_NEW(s->mem, uint32_t, s->cap + 1);
    x->inst = RMI_NEW(s->mem, rmi_ref_inst, s->cap_inst);
    x->str = RMI_NEW(s->mem, rmi_ref_str, s->cap_inst);
    x->inst_use = uses ? uses->inst_use : RMI_NEW(s->mem, uint32_t, s->cap_inst);
    x->use_pos = uses ? uses->use_pos : RMI_NEW(s->mem, uint32_t, s->cap_use);
    x->use_prev = uses ? uses->use_prev : RMI_NEW(s->mem, uint32_t, s->cap_use);
    x->cur = RMI_NEW(s->mem, uint32_t, s->m->n_buf);
    x->dead = RMI_NEW(s->mem, uint32_t, s->cap);
    x->reps = RMI_NEW(s->mem, uint32_t, s->cap);
    if (x->cur) memset(x->cur, 0xFF, s->m->n_buf * sizeof(uint32_t));
    return x->inst_use && x->cost && x->dead && x->reps && x->live && x->rank && x->inst0 && x->free_head && x->inst && x->str && x->use_pos && x->use_prev && x->cur ? RM_OK : RM_ERROR_MEMORY;
}

RMI_FN rm_result rmi_ref_search_make(rmi_arena *mem, const rmi_ref_model *m, rmi_ref_search *s)
{
    uint32_t i, k, w = 0, r = 0, times = m->n_tasks > 50000 ? 2 : m->n_tasks > 5000 ? 3 : 5; /* the lists may be so many times as long as everything once */
    rmi_ref_state *two;
    memset(s, 0, sizeof *s);
    s->m = m;
    s->mem = mem;
    s->rng = 1;
    s->stop = s->most_ns = RMI_INF;
    s->cap = times * m->n_tasks + 64;
    for (i = 0; i < m->n_tasks; i++) {
        uint32_t most_w = 0, most_r = 0;
        for (k = 0; k < (m->tasks[i].way <= RMI_BWD ? m->n_modes[m->tasks[i].id] : 1u); k++) {
            const rmi_ref_acc *a = &m->accs[m->tasks[i].acc0 + k];
            most_w = (uint32_t)rmi_max(most_w, a->n_write + (a->saved != RMI_NONE));
            most_r = (uint32_t)rmi_max(most_r, a->n_read);
        }
        w += most_w;
        r += most_r;
    }
    s->cap_inst = times * w + 256 + m->n_start;
    s->cap_use = times * (r + w) + 1024;
    s->cap_ins = s->cap;
    s->count = RMI_NEW(mem, uint32_t, m->g->n_ops);
    s->done = RMI_NEW(mem, uint32_t, m->n_tasks);
    s->now = RMI_NEW(mem, uint32_t, m->n_buf);
    s->size = RMI_NEW(mem, uint64_t, m->n_buf);
    s->ins = RMI_NEW(mem, uint64_t, s->cap_ins);
    s->drop = RMI_NEW(mem, uint8_t, s->cap + 1);
    s->mark = RMI_NEW(mem, uint8_t, m->n_tasks);
    s->stack = RMI_NEW(mem, uint32_t, m->g->n_ops + 8);
    s->stack_runs = RMI_NEW(mem, uint32_t, s->cap);
    s->above = RMI_NEW(mem, uint32_t, s->cap + 2);
    s->touched = RMI_NEW(mem, uint32_t, s->cap_use);
    s->busy = RMI_NEW(mem, uint8_t, s->cap_inst);
    two = RMI_NEW(mem, rmi_ref_state, 2);
    if (!s->count || !s->done || !s->now || !s->ins || !s->drop || !s->mark || !s->stack || !s->stack_runs || !two || !s->size || !s->above || !s->touched || !s->busy) return RM_ERROR_MEMORY;
    memcpy(s->size, m->bytes, m->n_buf * sizeof(uint64_t));
    memset(s->now, 0xFF, m->n_buf * sizeof(uint32_t));
    s->a = &two[0];
    s->b = &two[1];
    RMI_TRY(rmi_ref_state_make(s, s->a, NULL));
    RMI_TRY(rmi_ref_state_make(s, s->b, s->a));
    return rmi_ref_kept_make(s, &s->best);
}

RMI_FN const rmi_ref_acc *rmi_ref_acc_of(const rmi_ref_model *m, const rmi_ref_state *x, uint32_t task)
{
    const rmi_ref_task *t = &m->tasks[task];
    return &m->accs[t->acc0 + (t->way <= RMI_BWD ? x->mode[t->id] : 0u)];
}

RMI_FN void rmi_ref_use(rmi_ref_state *x, uint32_t i, uint32_t p)
{
    x->use_pos[x->n_use] = p;
    x->use_prev[x->n_use] = x->inst_use[i];
    x->inst_use[i] = x->n_use++;
}

RMI_FN void rmi_ref_birth(rmi_ref_state *x, uint32_t b, uint32_t p)
{
    rmi_ref_inst *i = &x->inst[x->n_inst];
    i->buf = b;
    i->first = i->last = p;
    i->again = i->str = RMI_NONE;
    i->prev = x->cur[b];
    i->gone = i->home = i->off = 0;
    x->cur[b] = x->n_inst++;
}

/* Has the task run? */
RMI_FN int rmi_ref_ran(const rmi_ref_search *s, uint32_t task) { return s->done[task] == s->stamp || (s->folds && s->folds->in[task] < s->passed); }

/* Is the next run of op a repeat? Counts it. */
RMI_FN uint32_t rmi_ref_again(rmi_ref_search *s, uint32_t op) { return s->count[op]++ > 0 || (s->folds && s->folds->in[op] < s->passed); }

/* The first pass through a fold. */
RMI_FN int rmi_ref_fold_lives(rmi_ref_search *s, rmi_ref_state *x, uint32_t p, uint32_t fold)
{
    const rmi_ref_fold *f = &s->folds->at[fold];
    uint32_t i;
    if (fold != s->passed++ || x->n_inst + f->n_birth + 2 > s->cap_inst) return 0;
    for (i = 0; i < f->n_use; i++) {
        const rmi_ref_touch *u = &s->folds->touch[f->use0 + i];
        uint32_t c = x->cur[u->buf];
        if (c == RMI_NONE) return 0;
        x->inst[c].last = p;
        if (u->writes && x->inst[c].again == RMI_NONE) x->inst[c].again = p;
    }
    for (i = 0; i < f->n_birth; i++) {
        const rmi_ref_touch *b = &s->folds->touch[f->birth0 + i];
        if (b->grad && x->cur[b->buf] != RMI_NONE) return 0;
        rmi_ref_birth(x, b->buf, p);
        if (b->writes) x->inst[x->n_inst - 1].again = p;
        x->inst[x->n_inst - 1].off = b->off;
    }
    s->least_ns += f->ns;
    return 1;
}

/* What a task touches, in the first pass. */
RMI_FN int rmi_ref_task_lives(rmi_ref_search *s, rmi_ref_state *x, uint32_t p, uint32_t task)
{
    const rmi_ref_model *m = s->m;
    const rmi_ref_task *t = &m->tasks[task];
    const rmi_ref_acc *a = rmi_ref_acc_of(m, x, task);
    const uint32_t *reads = m->pool + a->read0;
    uint32_t i;
    for (i = 0; i < t->n_dep; i++)
        if (!rmi_ref_ran(s, m->deps[t->dep0 + i])) return 0;
    for (i = 0; i < t->n_ban; i++)
        if (rmi_ref_ran(s, m->deps[t->ban0 + i])) return 0;
    s->done[task] = s->stamp;
    for (i = 0; i < a->n_read; i++) {
        if (x->cur[reads[i]] == RMI_NONE) return 0;
        x->inst[x->cur[reads[i]]].last = p;
    }
    if (t->way == RMI_FWD) {
        s->least_ns += m->choices[a->free0[rmi_ref_again(s, t->id)]].ns;
        for (i = 0; i < a->n_write; i++) rmi_ref_birth(x, m->pool[a->write0 + i], p);
        if (a->saved != RMI_NONE) {
            rmi_ref_birth(x, a->saved, p);
            s->size[a->saved] = a->saved_bytes;
        }
        return 1;
    }
    s->least_ns += a->may_be_free ? 0 : m->choices[a->free0[0]].ns;
    for (i = 0; i < a->n_write; i++) {
        uint32_t b = m->targets[a->write0 + i].buf, c = x->cur[b];
        if (c == RMI_NONE) {
            rmi_ref_birth(x, b, p);
            continue;
        }
        if (x->inst[c].again == RMI_NONE) x->inst[c].again = p;
        x->inst[c].last = p;
    }
    return 1;
}

/* No op has run yet. */
RMI_FN void rmi_ref_uncount(rmi_ref_search *s, const rmi_ref_state *x)
{
    uint32_t p;
    for (p = 0; p < x->n; p++)
        if (x->list[p] < s->m->g->n_ops) s->count[x->list[p]] = 0; /* forwards are the first tasks */
    s->passed = 0;
}

/* First pass: lives. 0: something is read that is not there, or runs too early; or the tables are full. */
RMI_FN int rmi_ref_lives(rmi_ref_search *s, rmi_ref_state *x)
{
    const rmi_ref_model *m = s->m;
    const uint32_t *start = s->folds ? s->folds->start : m->start, *stay = s->folds ? s->folds->stay : m->stay;
    uint32_t n_start = s->folds ? s->folds->n_start : m->n_start, n_stay = s->folds ? s->folds->n_stay : m->n_stay;
    uint32_t p, i, uses = 0, order = 0, back = RMI_NONE;
    s->stamp++;
    for (i = 0; i < x->n_inst; i++) x->cur[x->inst[i].buf] = RMI_NONE;
    x->n_inst = 0;
    s->least_ns = 0;
    rmi_ref_uncount(s, x);
    for (i = 0; i < n_start; i++) {
        rmi_ref_birth(x, start[i], 0);
        x->inst[i].home = 1;
        x->inst[i].last = RMI_NONE;
    }
    for (p = 0; p < x->n; p++) {
        uint32_t task = x->list[p];
        const rmi_ref_task *t;
        x->inst0[p] = x->n_inst;
        if (task >= m->n_tasks) {
            uses += s->folds->at[task - m->n_tasks].n_use;
            if (uses + n_stay + 2 > s->cap_use || !rmi_ref_fold_lives(s, x, p, task - m->n_tasks)) return 0;
            continue;
        }
        t = &m->tasks[task];
        if (m->g->fixed_order && t->way == RMI_FWD && !s->count[t->id]) {
            if (t->id < order || back != RMI_NONE) return 0;
            order = t->id;
        }
        if (m->g->fixed_order && t->way == RMI_BWD) {
            if (t->id > back) return 0;
            back = t->id;
        }
        i = rmi_ref_acc_of(m, x, task)->n_write;
        if (x->n_inst + i + 2 > s->cap_inst || (uses += rmi_ref_acc_of(m, x, task)->n_read + i) + n_stay + 2 > s->cap_use) return 0;
        if (!rmi_ref_task_lives(s, x, p, task)) return 0;
    }
    x->inst0[x->n] = x->n_inst;
    for (i = 0; i < n_start; i++)
        if (x->inst[i].last == RMI_NONE) x->inst[i].last = x->n;
    for (i = 0; i < n_stay; i++) {
        if (x->cur[stay[i]] == RMI_NONE) return 0;
        x->inst[x->cur[stay[i]]].last = x->n;
    }
    return !s->folds || s->passed == s->folds->n;
}

RMI_FN uint32_t rmi_ref_dying(const rmi_ref_search *s, const rmi_ref_state *x, uint32_t b, uint32_t p)
{
    uint32_t i = b == RMI_NONE ? RMI_NONE : s->now[b];
    const rmi_ref_inst *k;
    if (i == RMI_NONE) return RMI_NONE;
    k = &x->inst[i];
    if (k->home || k->last != p || k->gone || k->off || k->str == RMI_NONE || x->str[k->str].refs != 1) return RMI_NONE;
    return i;
}

RMI_FN void rmi_ref_join(rmi_ref_state *x, uint32_t i, uint32_t str)
{
    x->inst[i].str = str;
    x->inst[i].sibling = x->str[str].head;
    x->str[str].head = i;
    x->str[str].refs++;
}

RMI_FN void rmi_ref_stretch(rmi_ref_state *x, uint32_t i, uint64_t room)
{
    x->str[x->n_str].head = RMI_NONE;
    x->str[x->n_str].refs = 0;
    x->str[x->n_str].room = room;
    rmi_ref_join(x, i, x->n_str++);
}

RMI_FN void rmi_ref_take_over(rmi_ref_state *x, uint32_t i, uint32_t from)
{
    x->inst[from].gone = 1;
    x->str[x->inst[from].str].refs--;
    rmi_ref_join(x, i, x->inst[from].str);
}

RMI_FN int rmi_ref_can_share(const rmi_ref_state *x, uint32_t i, uint32_t dout, uint32_t p)
{
    uint32_t k;
    if (x->inst[dout].str == RMI_NONE || x->inst[dout].gone || x->inst[dout].off) return 0;
    for (k = x->str[x->inst[dout].str].head; k != RMI_NONE; k = x->inst[k].sibling) {
        const rmi_ref_inst *o = &x->inst[k];
        if (o->gone || o->last < p) continue;
        if (x->inst[i].again != RMI_NONE && o->last >= x->inst[i].again) return 0;
        if (o->again != RMI_NONE && o->again > p && x->inst[i].last >= o->again) return 0;
    }
    return 1;
}

/* Takes the fastest choice that fits in what is left; if none does, the one that takes least. over_of: by choice, the life
   that output 0 takes over, worth `gain` bytes. Returns its index; *size: what it adds. */
RMI_FN uint32_t rmi_ref_choose(const rmi_ref_search *s, const rmi_ref_state *x, const rmi_ref_choice *c, uint32_t n, uint64_t live, uint64_t fresh, uint64_t gain, uint64_t out_bytes, uint32_t p, uint64_t *size, uint32_t *from)
{
    uint32_t i, best = RMI_NONE, best_from = RMI_NONE;
    uint64_t least = RMI_INF;
    for (i = 0; i < n; i++) {
        uint32_t f = RMI_NONE;
        uint64_t want;
        if (c[i].inplace != RMI_NONE && out_bytes) {
            f = rmi_ref_dying(s, x, c[i].inplace, p);
            if (f != RMI_NONE && (s->m->maker[c[i].inplace] == RMI_NONE || out_bytes > s->size[x->inst[f].buf])) f = RMI_NONE;
        }
        want = fresh + c[i].ws - (f != RMI_NONE ? gain : 0);
        if (want < least) {
            least = want;
            best = i;
            best_from = f;
        }
        if (live + want <= s->limit) {
            *size = want;
            *from = f;
            return i;
        }
    }
    *size = least;
    *from = best_from;
    return best;
}

RMI_FN uint64_t rmi_ref_forward(rmi_ref_search *s, rmi_ref_state *x, uint32_t p, uint64_t *live)
{
    const rmi_ref_model *m = s->m;
    const rmi_ref_acc *a = rmi_ref_acc_of(m, x, x->list[p]);
    uint32_t op = m->tasks[x->list[p]].id, lo = x->inst0[p], hi = x->inst0[p + 1], i, again = rmi_ref_again(s, op), kept = 0, from, pick, n;
    uint64_t fresh = 0, size, out0 = 0, gain = 0, top;
    const rmi_ref_choice *c;
    int read = 0, first_out = a->n_write && lo < hi && x->inst[lo].buf == m->compact[m->g->ops[op].out.at[0]];
    for (i = lo; i < hi && !read; i++) read = x->inst[i].last > p;
    if (again) x->reps[x->n_reps++] = p;
    if (!read && (again || !m->must[op])) x->dead[x->n_dead++] = p;
    if (a->view != RMI_NONE || m->g->ops[op].view != RMI_NONE) {
        if (lo < hi) {
            uint32_t of = a->view == RMI_NONE ? RMI_NONE : s->now[a->view];
            if (of != RMI_NONE && x->inst[of].str != RMI_NONE) {
                x->inst[lo].off = (uint8_t)(x->inst[of].off || a->view_offset);
                rmi_ref_join(x, lo, x->inst[of].str);
            }
            s->now[x->inst[lo].buf] = lo;
        }
        x->form[p] = 0;
        x->rank[p] = 0;
        return *live;
    }
    for (i = lo; i < hi; i++) {
        if (x->inst[i].buf == a->saved) {
            if (x->inst[i].last == p) {
                x->inst[i].gone = 1;
                continue;
            }
            kept = 1;
            fresh += a->saved_room;
        } else fresh += m->room[x->inst[i].buf];
    }
    if (first_out) {
        out0 = s->size[x->inst[lo].buf];
        gain = m->room[x->inst[lo].buf];
    }
    c = m->choices + (kept ? a->kept0[again] : a->free0[again]);
    n = kept ? a->n_kept : a->n_free[again];
    pick = rmi_ref_choose(s, x, c, n, *live, fresh, gain, out0, p, &size, &from);
    x->form[p] = (uint16_t)c[pick].form;
    x->rank[p] = (uint8_t)pick;
    x->ns += c[pick].ns;
    x->fast_ns += c[0].ns;
    top = *live + size;
    for (i = lo; i < hi; i++) {
        if (x->inst[i].gone) continue;
        if (i == lo && from != RMI_NONE) rmi_ref_take_over(x, lo, from);
        else rmi_ref_stretch(x, i, x->inst[i].buf == a->saved ? a->saved_room : m->room[x->inst[i].buf]);
        s->now[x->inst[i].buf] = i;
    }
    *live += size - c[pick].ws;
    return top;
}

RMI_FN uint64_t rmi_ref_backward(rmi_ref_search *s, rmi_ref_state *x, uint32_t p, uint64_t *live)
{
    const rmi_ref_model *m = s->m;
    const rmi_ref_acc *a = rmi_ref_acc_of(m, x, x->list[p]);
    uint32_t i, k, w, renamed = 0, from, pick;
    uint64_t size;
    const rmi_ref_choice *c = m->choices + a->free0[0];
    for (i = x->inst0[p], w = 0; i < x->inst0[p + 1]; i++) {
        const rmi_ref_target *t;
        uint32_t dout = a->dout == RMI_NONE ? RMI_NONE : s->now[a->dout];
        while (m->targets[a->write0 + w].buf != x->inst[i].buf) w++;
        t = &m->targets[a->write0 + w];
        if (dout != RMI_NONE && m->bytes[a->dout] == m->bytes[x->inst[i].buf]) {
            if (t->share && rmi_ref_can_share(x, i, dout, p)) {
                renamed++;
                rmi_ref_join(x, i, x->inst[dout].str);
                continue;
            }
            if (t->rename && rmi_ref_dying(s, x, a->dout, p) != RMI_NONE) {
                renamed++;
                rmi_ref_take_over(x, i, dout);
                continue;
            }
        }
        for (k = 0; k < t->n_over; k++) {
            from = rmi_ref_dying(s, x, m->pool[t->over0 + k], p);
            if (from == RMI_NONE || s->size[x->inst[i].buf] > s->size[x->inst[from].buf]) continue;
            rmi_ref_take_over(x, i, from);
            break;
        }
        if (k < t->n_over) continue;
        rmi_ref_stretch(x, i, m->room[x->inst[i].buf]);
        *live += m->room[x->inst[i].buf];
    }
    for (i = x->inst0[p]; i < x->inst0[p + 1]; i++) s->now[x->inst[i].buf] = i;
    pick = rmi_ref_choose(s, x, c, a->n_free[0], *live, 0, 0, 0, p, &size, &from);
    x->form[p] = (uint16_t)c[pick].form;
    x->rank[p] = (uint8_t)pick;
    if (!(a->targets && renamed == a->targets)) {
        x->ns += c[pick].ns;
        x->fast_ns += c[0].ns;
    }
    return *live + size;
}

/* The second pass through a fold. */
RMI_FN uint64_t rmi_ref_fold_run(rmi_ref_search *s, rmi_ref_state *x, uint32_t p, uint64_t *live)
{
    const rmi_ref_fold *f = &s->folds->at[x->list[p] - s->m->n_tasks];
    uint64_t top = *live + f->above;
    uint32_t i, k = x->inst0[p];
    s->passed++;
    for (i = 0; i < f->n_use; i++) {
        const rmi_ref_touch *u = &s->folds->touch[f->use0 + i];
        if (!u->ends || x->inst[s->now[u->buf]].last == p) continue;
        if (u->gone) s->bad = 1; /* it cannot live on: its bytes are another's */
        top += u->room;
    }
    for (i = 0; i < f->n_birth; i++, k++) {
        const rmi_ref_touch *b = &s->folds->touch[f->birth0 + i];
        uint32_t w = b->with == RMI_NONE ? RMI_NONE : s->now[b->with];
        if (b->with != RMI_NONE && (w == RMI_NONE || x->inst[w].str == RMI_NONE || x->inst[w].gone)) {
            s->bad = 1;
            return top;
        }
        if (b->with == RMI_NONE) {
            rmi_ref_stretch(x, k, b->room);
            *live += b->room;
        } else if (b->takes) rmi_ref_take_over(x, k, w);
        else rmi_ref_join(x, k, x->inst[w].str);
        s->now[b->buf] = k;
    }
    *live += (uint64_t)f->rest;
    x->ns += f->ns;
    x->fast_ns += f->ns;
    x->form[p] = 0;
    x->rank[p] = 0;
    return top;
}

RMI_FN uint64_t rmi_ref_excess(const rmi_ref_search *s, const rmi_ref_state *x) { return x->peak > s->limit ? x->peak - s->limit + x->over / 16 : 0; }

/* a * b >> 20 without overflow. */
RMI_INLINE uint64_t rmi_ref_scale(uint64_t a, uint64_t b)
{
    return rmi_add(rmi_mul(a >> 20, b), ((a & 0xFFFFFu) * (b >> 20)) + (((a & 0xFFFFFu) * (b & 0xFFFFFu)) >> 20));
}

/* Second pass: bytes, forms, time. 0: it gives up. */
RMI_FN int rmi_ref_bytes(rmi_ref_search *s, rmi_ref_state *x)
{
    const rmi_ref_model *m = s->m;
    uint32_t p, i, n_start = s->folds ? s->folds->n_start : m->n_start;
    uint64_t live = s->folds ? s->folds->rest : 0;
    for (i = 0; i < n_start; i++) {
        s->now[x->inst[i].buf] = i;
        rmi_ref_stretch(x, i, m->room[x->inst[i].buf]);
        live += m->room[x->inst[i].buf];
    }
    for (p = 0; p < x->n; p++) {
        uint64_t before = x->ns, top;
        if (x->list[p] >= m->n_tasks) top = rmi_ref_fold_run(s, x, p, &live);
        else top = x->list[p] < m->g->n_ops ? rmi_ref_forward(s, x, p, &live) : rmi_ref_backward(s, x, p, &live);
        x->cost[p] = x->ns - before;
        x->live[p] = top;
        if (s->bad) return 0;
        if (top > x->peak) x->peak = top;
        if (top > s->limit) {
            x->over += top - s->limit;
            if (s->stop != RMI_INF && s->least_ns + (x->ns - x->fast_ns) + rmi_ref_scale(rmi_ref_excess(s, x), s->lambda) > s->stop) {
                s->work -= x->n - p; /* not looked at */
                return 0;
            }
        }
        for (i = x->free_head[p]; i != RMI_NONE; i = x->inst[i].next_free) {
            rmi_ref_inst *k = &x->inst[i];
            if (!k->gone && k->str != RMI_NONE && !--x->str[k->str].refs) live -= x->str[k->str].room;
        }
    }
    x->live[x->n] = live;
    if (live > x->peak) x->peak = live;
    return 1;
}

/* Everything about x->list, x->mode. 0: the list is not legal. */
RMI_FN int rmi_ref_eval(rmi_ref_search *s, rmi_ref_state *x)
{
    uint32_t p, i;
    int ok;
    s->work += x->n;
    x->ns = x->fast_ns = x->over = x->peak = 0;
    x->n_dead = x->n_reps = 0;
    x->n_str = 0;
    s->bad = 0;
    if (!rmi_ref_lives(s, x) || s->least_ns > s->stop) return 0;
    s->work += x->n;
    for (p = 0; p <= x->n; p++) x->free_head[p] = RMI_NONE;
    for (i = x->n_inst; i-- > 0;) {
        x->inst[i].next_free = x->free_head[x->inst[i].last];
        x->free_head[x->inst[i].last] = i;
    }
    rmi_ref_uncount(s, x);
    x->least_ns = s->least_ns;
    ok = rmi_ref_bytes(s, x);
    for (i = 0; i < x->n_inst; i++) s->now[x->inst[i].buf] = RMI_NONE;
    return ok;
}

/* The runs of a state, with their forms. */
/* The state as runs; returns how many. */
RMI_FN uint32_t rmi_ref_runs(const rmi_ref_search *s, const rmi_ref_state *x, rmi_run *runs)
{
    uint32_t p, n = 0;
    for (p = 0; p < x->n; p++) {
        const rmi_ref_task *t = &s->m->tasks[x->list[p]];
        if (t->way == RMI_BWD && !rmi_low_has_part(&s->m->g->ops[t->id], x->form[p], t->part)) continue;
        runs[n++] = rmi_low_run((rmi_way)t->way, t->id, t->way <= RMI_BWD ? x->form[p] : 0, t->part);
    }
    return n;
}

RMI_FN void rmi_ref_copy(const rmi_ref_search *s, const rmi_ref_state *from, rmi_ref_state *to)
{
    memcpy(to->list, from->list, from->n * sizeof(uint32_t));
    memcpy(to->mode, from->mode, s->m->g->n_ops);
    memcpy(to->form, from->form, from->n * sizeof(uint16_t));
    to->n = from->n;
    to->ns = from->ns;
    to->over = from->over;
    to->peak = from->peak;
    to->fast_ns = from->fast_ns;
}

/* The uses of every life of the current state. */
RMI_FN void rmi_ref_record(rmi_ref_search *s)
{
    const rmi_ref_model *m = s->m;
    rmi_ref_state *a = s->a;
    uint32_t p, i, n_start = s->folds ? s->folds->n_start : m->n_start, n_stay = s->folds ? s->folds->n_stay : m->n_stay;
    if (s->recorded) return;
    s->recorded = 1;
    s->work += a->n / 2;
    a->n_use = 0;
    for (i = 0; i < a->n_inst; i++) a->inst_use[i] = RMI_NONE;
    for (i = 0; i < n_start; i++) s->now[a->inst[i].buf] = i;
    for (p = 0; p < a->n; p++) {
        if (a->list[p] >= m->n_tasks) {
            const rmi_ref_fold *f = &s->folds->at[a->list[p] - m->n_tasks];
            for (i = 0; i < f->n_use; i++) rmi_ref_use(a, s->now[s->folds->touch[f->use0 + i].buf], p);
        } else {
            const rmi_ref_acc *c = rmi_ref_acc_of(m, a, a->list[p]);
            for (i = 0; i < c->n_read; i++) rmi_ref_use(a, s->now[m->pool[c->read0 + i]], p);
            for (i = 0; i < c->n_write && m->tasks[a->list[p]].way == RMI_BWD; i++) {
                uint32_t k = s->now[m->targets[c->write0 + i].buf];
                if (k != RMI_NONE) rmi_ref_use(a, k, p);
            }
        }
        for (i = a->inst0[p]; i < a->inst0[p + 1]; i++) s->now[a->inst[i].buf] = i;
    }
    for (i = 0; i < n_stay; i++) rmi_ref_use(a, s->now[s->folds ? s->folds->stay[i] : m->stay[i]], a->n);
    for (i = 0; i < a->n_inst; i++) s->now[a->inst[i].buf] = RMI_NONE;
}

/* --- edits: the candidate b is the current a with insertions and drops */

RMI_FN uint32_t rmi_ref_rand(rmi_ref_search *s, uint32_t n)
{
    s->rng++;
    return (uint32_t)(((rmi_mix(s->rng) >> 32) * n) >> 32);
}

RMI_FN void rmi_ref_insert(rmi_ref_search *s, uint32_t pos, uint32_t task) { s->ins[s->n_ins++] = (uint64_t)pos << 32 | task; }

RMI_FN void rmi_ref_begin(rmi_ref_search *s)
{
    rmi_ref_record(s);
    s->n_ins = s->n_touched = 0;
    s->odd = 0;
    memset(s->drop, 0, s->a->n + 1);
    memcpy(s->b->mode, s->a->mode, s->m->g->n_ops);
}

/* Forwards that nobody reads go, until there are none. */
RMI_FN int rmi_ref_clean(rmi_ref_search *s, rmi_ref_state *x)
{
    while (x->n_dead) {
        uint32_t i, k = 0, d = 0;
        for (i = 0; i < x->n; i++) {
            if (d < x->n_dead && x->dead[d] == i) d++;
            else x->list[k++] = x->list[i];
        }
        x->n = k;
        if (!rmi_ref_eval(s, x)) return 0;
    }
    return 1;
}

RMI_FN int rmi_ref_cmp_ins(const void *x, const void *y, void *user)
{
    uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;
    (void)user;
    return a < b ? -1 : a > b;
}

/* Insertions by position, then by task, each once. */
RMI_FN void rmi_ref_sort_ins(rmi_ref_search *s)
{
    uint32_t i, k, n = 0;
    if (s->n_ins > 24) rmi_sort(s->ins, s->n_ins, sizeof(uint64_t), rmi_ref_cmp_ins, NULL);
    else
        for (i = 1; i < s->n_ins; i++) {
            uint64_t x = s->ins[i];
            for (k = i; k > 0 && s->ins[k - 1] > x; k--) s->ins[k] = s->ins[k - 1];
            s->ins[k] = x;
        }
    for (i = 0; i < s->n_ins; i++)
        if (!n || s->ins[n - 1] != s->ins[i]) s->ins[n++] = s->ins[i];
    s->n_ins = n;
}

/* Is b sure to take longer than s->stop? Its fastest forms tell, where only repeats come and go. */
RMI_FN int rmi_ref_too_slow(const rmi_ref_search *s)
{
    const rmi_ref_state *a = s->a;
    const rmi_ref_model *m = s->m;
    uint64_t ns = a->least_ns, less = 0;
    uint32_t i;
    if (s->stop == RMI_INF || s->odd) return 0;
    for (i = 0; i < s->n_ins; i++) ns += m->choices[rmi_ref_acc_of(m, a, (uint32_t)s->ins[i])->free0[1]].ns;
    for (i = 0; i < a->n_reps; i++)
        if (s->drop[a->reps[i]]) less += m->choices[rmi_ref_acc_of(m, a, a->list[a->reps[i]])->free0[1]].ns;
    return ns > less && ns - less > s->stop;
}

/* Builds and evaluates b. 0: it is not legal. */
RMI_FN int rmi_ref_apply(rmi_ref_search *s)
{
    const rmi_ref_state *a = s->a;
    rmi_ref_state *b = s->b;
    uint32_t p, k = 0, n = 0;
    rmi_ref_sort_ins(s);
    if (a->n + s->n_ins > s->cap || rmi_ref_too_slow(s)) return 0;
    for (p = 0; p <= a->n; p++) {
        while (k < s->n_ins && s->ins[k] >> 32 == p) b->list[n++] = (uint32_t)s->ins[k++];
        if (p < a->n && !s->drop[p]) b->list[n++] = a->list[p];
    }
    b->n = n;
    return rmi_ref_eval(s, b) && rmi_ref_clean(s, b);
}

RMI_FN void rmi_ref_accept(rmi_ref_search *s)
{
    rmi_ref_state *t = s->a;
    s->a = s->b;
    s->b = t;
    s->recorded = 0;
    if (!s->a->over && (!s->best.n || s->a->ns < s->best.ns || (s->a->ns == s->best.ns && s->a->peak < s->best.peak))) rmi_ref_copy(s, s->a, &s->best);
}

/* --- evictions */

/* The life of buffer u that a run inserted before position b would read; RMI_NONE: there is none. */
RMI_FN uint32_t rmi_ref_life_at(const rmi_ref_state *a, uint32_t u, uint32_t b)
{
    uint32_t i = a->cur[u];
    while (i != RMI_NONE && a->inst[i].first >= b && !a->inst[i].home) i = a->inst[i].prev;
    return i;
}

/* First use of life i after position t (a->n: the end); RMI_NONE if none. */
RMI_FN uint32_t rmi_ref_next_use(const rmi_ref_state *a, uint32_t i, uint32_t t)
{
    uint32_t u = a->inst_use[i], next = RMI_NONE;
    while (u != RMI_NONE && a->use_pos[u] > t) {
        next = a->use_pos[u];
        u = a->use_prev[u];
    }
    return next;
}

/* Is life i used at or after first, at t exactly? */
RMI_FN int rmi_ref_used_at(const rmi_ref_state *a, uint32_t i, uint32_t t)
{
    uint32_t u = a->inst_use[i];
    while (u != RMI_NONE && a->use_pos[u] > t) u = a->use_prev[u];
    return a->inst[i].first == t || (u != RMI_NONE && a->use_pos[u] == t);
}

#define RMI_REF_EXTEND 0u   /* dead inputs of a recomputation live longer */
#define RMI_REF_CROSSING 1u /* those whose longer life would cross t are recomputed, too */
#define RMI_REF_DEAD 2u     /* all dead ones are */
#define RMI_REF_MIXED 3u    /* each by chance */
#define RMI_REF_LEVELS 3u

/* Inserts op before b with what level says of its inputs. 0: it cannot be. Adds its time to *ns. Marks stay until
   rmi_ref_clear_marks. */
RMI_FN int rmi_ref_closure(rmi_ref_search *s, uint32_t op, uint32_t t, uint32_t b, uint32_t level, uint64_t *ns)
{
    const rmi_ref_model *m = s->m;
    const rmi_ref_state *a = s->a;
    uint32_t top = 0, k, ok = 1;
    if (m->tasks[op].fixed) return 0;
    if (!s->mark[op]) {
        s->mark[op] = 1;
        s->stack[top++] = op;
    }
    while (top) {
        uint32_t o = s->stack[--top];
        const rmi_ref_acc *acc = &m->accs[m->tasks[o].acc0];
        *ns += m->choices[acc->free0[1]].ns;
        if (*ns > s->most_ns || s->n_ins == s->cap_ins) {
            for (s->mark[o] = 0; top;) s->mark[s->stack[--top]] = 0;
            return 0;
        }
        rmi_ref_insert(s, b, o);
        for (k = 0; k < acc->n_read; k++) {
            uint32_t u = m->pool[acc->read0 + k], i = rmi_ref_life_at(a, u, b), mk = m->maker[u];
            int again;
            uint32_t touched;
            if (mk != RMI_NONE && s->mark[mk]) continue;
            if (i == RMI_NONE) {
                if (mk == RMI_NONE || m->tasks[mk].fixed) ok = 0;
                else {
                    s->mark[mk] = 1;
                    s->stack[top++] = mk;
                }
                continue;
            }
            touched = s->n_touched < s->cap_use && a->inst[i].str != RMI_NONE;
            if (touched) s->touched[s->n_touched++] = a->inst[i].str;
            if (a->inst[i].last >= b) continue;
            s->extended += (m->room[u] >> 8) * (s->above[b] - s->above[a->inst[i].last + 1]);
            if (mk == RMI_NONE || m->tasks[mk].fixed) continue;
            again = level == RMI_REF_DEAD || (level == RMI_REF_CROSSING && a->inst[i].last <= t) || (level == RMI_REF_MIXED && rmi_ref_rand(s, 2));
            if (!again) continue;
            s->extended -= (m->room[u] >> 8) * (s->above[b] - s->above[a->inst[i].last + 1]);
            s->n_touched -= touched;
            s->mark[mk] = 1;
            s->stack[top++] = mk;
        }
    }
    return (int)ok;
}

/* Can the bytes of stretch k of a be given up across position t? *b: the first use after t, *from: the last one before. */
RMI_FN int rmi_ref_gap(const rmi_ref_search *s, uint32_t k, uint32_t t, uint32_t *from, uint32_t *b)
{
    const rmi_ref_model *m = s->m;
    const rmi_ref_state *a = s->a;
    uint32_t i, any = 0;
    *b = RMI_NONE;
    *from = 0;
    for (i = a->str[k].head; i != RMI_NONE; i = a->inst[i].sibling) {
        const rmi_ref_inst *x = &a->inst[i];
        uint32_t next, mk = m->maker[x->buf], u;
        if (x->last < t || x->first > t) {
            if (x->last < t && x->last > *from) *from = x->last;
            continue;
        }
        if (x->gone && x->last <= t) return 0;
        if (mk == RMI_NONE || m->tasks[mk].fixed || rmi_ref_used_at(a, i, t)) return 0;
        next = rmi_ref_next_use(a, i, t);
        if (next < *b) *b = next;
        for (u = a->inst_use[i]; u != RMI_NONE && a->use_pos[u] > t; u = a->use_prev[u]) {}
        *from = (uint32_t)rmi_max(*from, u == RMI_NONE ? x->first : a->use_pos[u]);
        any = 1;
    }
    return any && *b != RMI_NONE;
}

/* Insertions that give up stretch k across t, at position at (RMI_NONE: at its next use). 0: they cannot be. */
RMI_FN int rmi_ref_evict(rmi_ref_search *s, uint32_t k, uint32_t t, uint32_t at, uint32_t level, uint64_t *ns)
{
    const rmi_ref_state *a = s->a;
    uint32_t i, b, from, ok = 1;
    if (!rmi_ref_gap(s, k, t, &from, &b)) return 0;
    if (at != RMI_NONE && at > t && at < b) b = at;
    for (i = a->str[k].head; i != RMI_NONE && ok; i = a->inst[i].sibling)
        if (a->inst[i].first < t && a->inst[i].last > t) ok = (uint32_t)rmi_ref_closure(s, s->m->maker[a->inst[i].buf], t, b, level, ns);
    return (int)ok;
}

/* Where an input of the makers of stretch k dies between t and b: there a recomputation is cheaper. RMI_NONE: nowhere. */
RMI_FN uint32_t rmi_ref_hoist(const rmi_ref_search *s, uint32_t k, uint32_t t, uint32_t b)
{
    const rmi_ref_model *m = s->m;
    const rmi_ref_state *a = s->a;
    uint32_t i, r, at = RMI_NONE;
    for (i = a->str[k].head; i != RMI_NONE; i = a->inst[i].sibling) {
        const rmi_ref_acc *acc;
        if (a->inst[i].first >= t || a->inst[i].last <= t) continue;
        acc = &m->accs[m->tasks[m->maker[a->inst[i].buf]].acc0];
        for (r = 0; r < acc->n_read; r++) {
            uint32_t u = rmi_ref_life_at(a, m->pool[acc->read0 + r], b);
            if (u == RMI_NONE || a->inst[u].last >= b || a->inst[u].last <= t) continue;
            if (a->inst[u].last < at) at = a->inst[u].last;
        }
    }
    return at;
}

/* Sets the current state to a list and modes (NULL: everything once, fastest). */
RMI_FN int rmi_ref_load(rmi_ref_search *s, const uint32_t *list, uint32_t n, const uint8_t *mode)
{
    if (!list) {
        list = s->m->keep;
        n = s->m->n_keep;
        mode = s->m->keep_mode;
    }
    if (n > s->cap) return 0;
    memcpy(s->b->list, list, n * sizeof(uint32_t));
    memcpy(s->b->mode, mode, s->m->g->n_ops);
    s->b->n = n;
    if (!rmi_ref_eval(s, s->b) || !rmi_ref_clean(s, s->b)) return 0;
    rmi_ref_accept(s);
    return 1;
}

/* --- improvement: annealing */

/* Of the insertions from number `from` on. */
RMI_FN void rmi_ref_clear_marks(rmi_ref_search *s, uint32_t from)
{
    uint32_t i;
    for (i = from; i < s->n_ins; i++) s->mark[(uint32_t)s->ins[i]] = 0;
}

/* A random stretch that can be given up across t is. */
RMI_FN int rmi_ref_random_evict(rmi_ref_search *s, uint32_t t)
{
    const rmi_ref_state *a = s->a;
    uint32_t try_, from, b;
    uint64_t ns = 0;
    for (try_ = 0; try_ < 24; try_++) {
        uint32_t i = rmi_ref_rand(s, a->n_inst), at = RMI_NONE, level;
        const rmi_ref_inst *x = &a->inst[i];
        if (x->first >= t || x->last <= t || x->str == RMI_NONE || x->gone || !rmi_ref_gap(s, x->str, t, &from, &b)) continue;
        level = rmi_ref_rand(s, 4);
        if (rmi_ref_rand(s, 3) == 0) at = rmi_ref_hoist(s, x->str, t, b);
        return rmi_ref_evict(s, x->str, t, at, level, &ns);
    }
    return 0;
}

/* A position to make room at: the worst if there is one above the limit, else one of the fullest of a few. */
RMI_FN uint32_t rmi_ref_moment(rmi_ref_search *s)
{
    const rmi_ref_state *a = s->a;
    uint32_t p = rmi_ref_rand(s, a->n), i;
    uint32_t n = a->over ? 8 : 2;
    for (i = 0; i < n; i++) {
        uint32_t q = rmi_ref_rand(s, a->n);
        if (a->live[q] > a->live[p]) p = q;
    }
    if (a->over && rmi_ref_rand(s, 2))
        for (i = 0; i < a->n; i++)
            if (a->live[i] > a->live[p]) p = i;
    return p;
}

/* The run of neighbouring repeats around a random one: [*lo, *hi). */
RMI_FN int rmi_ref_repeats(rmi_ref_search *s, uint32_t *lo, uint32_t *hi)
{
    const rmi_ref_state *a = s->a;
    uint32_t k, l, h, most;
    if (!a->n_reps) return 0;
    k = l = rmi_ref_rand(s, a->n_reps);
    h = k + 1;
    most = rmi_ref_rand(s, 3) ? 1 + rmi_ref_rand(s, 3) : 16;
    while (h < a->n_reps && a->reps[h] == a->reps[h - 1] + 1 && h - l < most) h++;
    while (l > 0 && a->reps[l - 1] + 1 == a->reps[l] && h - l < most) l--;
    *lo = a->reps[l];
    *hi = a->reps[h - 1] + 1;
    return 1;
}

RMI_FN int rmi_ref_move_delete(rmi_ref_search *s)
{
    uint32_t lo, hi;
    if (!rmi_ref_repeats(s, &lo, &hi)) return 0;
    while (lo < hi) s->drop[lo++] = 1;
    return 1;
}

RMI_FN int rmi_ref_move_mode(rmi_ref_search *s)
{
    const rmi_ref_model *m = s->m;
    uint32_t op;
    if (!m->n_moded) return 0;
    op = m->moded[rmi_ref_rand(s, m->n_moded)];
    if (s->folds) { /* all its runs must be in sight */
        uint32_t k;
        if (s->folds->in[op] != RMI_NONE) return 0;
        for (k = 0; k < m->n_bwd[op]; k++)
            if (s->folds->in[m->bwd0[op] + k] != RMI_NONE) return 0;
    }
    s->odd = 1;
    s->b->mode[op] = (uint8_t)((s->a->mode[op] + 1 + rmi_ref_rand(s, m->n_modes[op] - 1u)) % m->n_modes[op]);
    return 1;
}

/* Moves repeats [lo, hi) (any: a single run) to before another position. */
RMI_FN int rmi_ref_move_run(rmi_ref_search *s, int any)
{
    const rmi_ref_state *a = s->a;
    uint32_t lo, hi, i, to, d;
    if (any) {
        lo = rmi_ref_rand(s, a->n);
        hi = lo + 1;
        if (a->list[lo] >= s->m->n_tasks) return 0;
        s->odd = 1;
    } else if (!rmi_ref_repeats(s, &lo, &hi)) return 0;
    d = 1 + rmi_ref_rand(s, 1u << (1 + rmi_ref_rand(s, 6)));
    if (rmi_ref_rand(s, 2)) to = lo > d ? lo - d : 0;
    else to = hi + d < a->n ? hi + d : a->n;
    if (to == lo) return 0;
    for (i = lo; i < hi; i++) {
        s->drop[i] = 1;
        rmi_ref_insert(s, to, a->list[i]);
    }
    return 1;
}

/* The form that run p took, as a range of choices that are faster: n of them from *c on; c[n] is the one taken. */
RMI_FN uint32_t rmi_ref_faster(const rmi_ref_search *s, uint32_t p, const rmi_ref_choice **c)
{
    const rmi_ref_model *m = s->m;
    const rmi_ref_state *a = s->a;
    const rmi_ref_acc *x = rmi_ref_acc_of(m, a, a->list[p]);
    uint32_t i, again = 0;
    for (i = 0; i < a->n_reps; i++) again |= a->reps[i] == p;
    *c = m->choices + x->free0[again]; /* one choice alone never leaves rank 0 */
    return a->rank[p];
}

/* What giving up stretch k across p would cost, in ns; RMI_INF: it cannot be. */
RMI_FN uint64_t rmi_ref_price(rmi_ref_search *s, uint32_t k, uint32_t p, uint32_t at, uint32_t level)
{
    uint32_t n = s->n_ins;
    uint64_t ns = 1;
    int ok;
    s->ins += n; /* a list of its own, behind the one in use */
    s->cap_ins -= n;
    s->n_ins = 0;
    s->extended = 0;
    s->n_touched = 0;
    ok = rmi_ref_evict(s, k, p, at, level, &ns);
    rmi_ref_clear_marks(s, 0);
    s->ins -= n;
    s->cap_ins += n;
    s->n_ins = n;
    return ok ? ns : RMI_INF;
}

/* Gives up stretches across p until `need` bytes are free: of a few random ones that which is cheapest per byte. */
RMI_FN int rmi_ref_free_bytes(rmi_ref_search *s, uint32_t p, uint64_t need)
{
    const rmi_ref_state *a = s->a;
    uint32_t from, b, chosen[24], n = 0, sample = 1 + rmi_ref_rand(s, 8);
    uint64_t got = 0;
    while (n < 24 && got < need) {
        uint32_t best = RMI_NONE, tries = 0, found = 0, i, best_level = 0;
        uint64_t best_ns = 1, ns;
        while (tries++ < 40 * sample && found < sample) {
            const rmi_ref_inst *x = &a->inst[rmi_ref_rand(s, a->n_inst)];
            uint32_t level = RMI_REF_CROSSING;
            if (x->first >= p || x->last <= p || x->str == RMI_NONE || x->gone) continue;
            for (i = 0; i < n && chosen[i] != x->str; i++) {}
            if (i < n || !rmi_ref_gap(s, x->str, p, &from, &b)) continue;
            found++;
            if (!rmi_ref_rand(s, 4)) level = RMI_REF_DEAD;
            ns = rmi_ref_price(s, x->str, p, RMI_NONE, level);
            if (ns == RMI_INF || (best != RMI_NONE && (a->str[x->str].room >> 8) * best_ns <= (a->str[best].room >> 8) * ns)) continue;
            best = x->str;
            best_ns = ns;
            best_level = level;
        }
        if (best == RMI_NONE) break;
        ns = 0;
        if (!rmi_ref_evict(s, best, p, RMI_NONE, best_level, &ns)) n = 24;
        rmi_ref_clear_marks(s, 0);
        if (n == 24) return 0;
        chosen[n++] = best;
        got += a->str[best].room;
    }
    return n > 0;
}

/* A run that is not on its fastest form gets room for a faster one. */
RMI_FN int rmi_ref_make_room(rmi_ref_search *s)
{
    const rmi_ref_state *a = s->a;
    uint32_t try_, p = RMI_NONE, n, found = 0, most = 1 + rmi_ref_rand(s, 4);
    uint64_t loss = 0, rest;
    const rmi_ref_choice *c;
    for (try_ = 0; try_ < 256 && found < most; try_++) {
        uint32_t q = rmi_ref_rand(s, a->n);
        if (!a->rank[q]) continue;
        found++;
        n = rmi_ref_faster(s, q, &c);
        if (p == RMI_NONE || c[n].ns - c[0].ns > loss) {
            p = q;
            loss = c[n].ns - c[0].ns;
        }
    }
    if (p == RMI_NONE) return 0;
    n = rmi_ref_faster(s, p, &c);
    rest = rmi_sub(a->live[p], c[n].ws) + c[rmi_ref_rand(s, n)].ws;
    return rmi_ref_free_bytes(s, p, rmi_max(1, rmi_sub(rest, s->limit)));
}

RMI_FN int rmi_ref_propose(rmi_ref_search *s, uint32_t *kind)
{
    uint32_t r = rmi_ref_rand(s, 100);
    int ok;
    rmi_ref_begin(s);
    if (r < 28) *kind = 0, ok = rmi_ref_rand(s, 2) ? rmi_ref_random_evict(s, rmi_ref_moment(s)) : rmi_ref_free_bytes(s, rmi_ref_moment(s), 1);
    else if (r < 48) *kind = 1, ok = rmi_ref_move_delete(s);
    else if (r < 60) *kind = 2, ok = rmi_ref_move_mode(s);
    else if (r < 68) *kind = 3, ok = rmi_ref_move_run(s, 0);
    else if (r < 76) *kind = 4, ok = rmi_ref_make_room(s);
    else if (r < 80) *kind = 5, ok = rmi_ref_move_run(s, 1);
    else { /* one for another */
        *kind = 6;
        ok = rmi_ref_move_delete(s);
        ok = rmi_ref_free_bytes(s, rmi_ref_moment(s), 1) && ok;
    }
    rmi_ref_clear_marks(s, 0);
    return ok;
}

/* -ln of a uniform number, in 1/65536: the place of the leading bit and a straight line below it. */
RMI_FN uint64_t rmi_ref_exponential(rmi_ref_search *s)
{
    uint64_t x, whole = 0;
    s->rng++;
    x = rmi_mix(s->rng) | 1;
    while (!(x >> 63)) {
        x <<= 1;
        whole++;
    }
    return ((whole << 16) + (0xFFFFu - ((x >> 47) & 0xFFFFu))) * 45426u >> 16;
}


RMI_FN uint64_t rmi_ref_energy(const rmi_ref_search *s, const rmi_ref_state *x) { return rmi_add(x->ns, rmi_ref_scale(rmi_ref_excess(s, x), s->lambda)); }

RMI_FN void rmi_ref_restart(rmi_ref_search *s)
{
    rmi_ref_copy(s, &s->best, s->a);
    rmi_ref_eval(s, s->a);
    s->recorded = 0;
}

/* The largest r with r * r <= x. */
RMI_FN uint64_t rmi_ref_root(uint64_t x)
{
    uint64_t r = 0, bit = (uint64_t)1 << 31;
    for (; bit; bit >>= 1)
        if ((r | bit) * (r | bit) <= x) r |= bit;
    return r;
}

/* One cycle from temperature hot to cold (ns), `work` runs evaluated. */
/* Has the caller had enough? */
RMI_FN int rmi_ref_told(rmi_ref_search *s)
{
    uint64_t steps = 2 * (s->work - s->told);
    s->told = s->work;
    return rmi_stopped(s->mem->stop, steps);
}

RMI_FN void rmi_ref_cycle(rmi_ref_search *s, uint64_t hot, uint64_t cold, uint64_t work)
{
    uint64_t start = s->work, t = hot, ratio = rmi_min(rmi_mul_div_up(cold, (uint64_t)1 << 32, hot), 0xFFFFFFFFu);
    uint32_t i, tried = 0, feasible = 0, phase = 0;
    for (i = 0; i < 6; i++) ratio = rmi_ref_root(ratio << 32); /* the 64th root: t falls by it 64 times */
    ratio >>= 12;
    while (s->work - start < work) {
        uint32_t kind = 0;
        uint64_t was, is;
        uint32_t at = (uint32_t)(((s->work - start) * 64) / work);
        for (; phase < at; phase++) t = rmi_ref_scale(t, ratio);
        s->work += 8; /* a proposal costs, too */
        if (rmi_ref_told(s)) return;
        if (!rmi_ref_propose(s, &kind)) continue;
        s->counts[kind][0]++;
        was = rmi_ref_energy(s, s->a);
        s->stop = was + ((t * rmi_ref_exponential(s)) >> 16);
        is = rmi_ref_apply(s) ? rmi_ref_energy(s, s->b) : RMI_INF;
        if (is <= s->stop && is != RMI_INF) {
            s->counts[kind][1]++;
            rmi_ref_accept(s);
        }
        s->stop = RMI_INF;
        tried++;
        feasible += !s->a->over;
        if (tried == 200) {
            if (feasible * 2 < tried) s->lambda = rmi_min(s->lambda + s->lambda / 8 + 1, s->most_lambda); /* else nothing would move */
            else s->lambda -= s->lambda / 9;
            tried = feasible = 0;
        }
    }
}

/* One more cycle of about `work` runs. The first, longer, is from what is there; every fifth, too, from everything once; the others
   from the best, every second one hotter. */
RMI_FN void rmi_ref_improve(rmi_ref_search *s, uint64_t work, uint32_t round)
{
    int anew = round % 5 == 1;
    uint64_t mean = s->m->mean_ns, hot = anew || !round ? mean : round % 2 ? mean / 2 : mean / 6;
    if (!s->lambda) {
        uint64_t bytes = 0;
        uint32_t i;
        for (i = 0; i < s->m->n_buf; i++) bytes += s->m->room[i];
        bytes = bytes / (s->m->n_buf + 1) + 1;
        s->lambda = (mean << 20) / bytes + 1;
        s->most_lambda = rmi_mul(s->lambda, 2048);
    }
    if (anew) rmi_ref_load(s, NULL, 0, NULL);
    else if (round && s->best.n) rmi_ref_restart(s);
    rmi_ref_cycle(s, hot + 1, mean / 250 + 1, anew || !round ? 2 * work : work);
}

/* --- windows: a long list is improved a part at a time; the rest is folded, so that an evaluation takes as long as the part */
#define RMI_REF_WINDOWS 4u
#define RMI_REF_DEPTH 2u /* inputs of inputs that a part may ask for again are followed, too */

typedef struct rmi_ref_windows {
    rmi_ref_search in;   /* the search inside */
    rmi_ref_folds folds;
    uint8_t *open, *follow, *seen; /* by position: not folded; by buffer: followed, met in this fold */
    int64_t *all, *mine; /* by position: bytes before it; of followed stretches */
    uint32_t *list, n;   /* the folded list */
    uint32_t *home;      /* by buffer: its current life */
    uint32_t n_touch, cap_touch, cap;
} rmi_ref_windows;

RMI_FN rm_result rmi_ref_windows_make(rmi_ref_search *s, uint32_t size, rmi_ref_windows *w)
{
    const rmi_ref_model *m = s->m;
    rmi_ref_state *two = RMI_NEW(s->mem, rmi_ref_state, 2);
    memset(w, 0, sizeof *w);
    w->in = *s;
    w->cap_touch = 16 * size + 512;
    w->cap = size;
    w->in.cap = 4 * size + 64;
    w->in.cap_inst = (uint32_t)rmi_min(s->cap_inst, 64 * (uint64_t)size + 2048);
    w->in.cap_use = (uint32_t)rmi_min(s->cap_use, 64 * (uint64_t)size + 2048);
    w->in.cap_ins = w->in.cap;
    w->folds.at = RMI_NEW(s->mem, rmi_ref_fold, RMI_REF_WINDOWS + 2);
    w->folds.touch = RMI_NEW(s->mem, rmi_ref_touch, w->cap_touch);
    w->folds.in = RMI_NEW(s->mem, uint32_t, m->n_tasks);
    w->folds.start = RMI_NEW(s->mem, uint32_t, m->n_start + 1u);
    w->folds.stay = RMI_NEW(s->mem, uint32_t, m->n_stay + 1u);
    w->open = RMI_NEW(s->mem, uint8_t, s->cap + 1);
    w->follow = RMI_NEW(s->mem, uint8_t, m->n_buf + 1u);
    w->seen = RMI_NEW(s->mem, uint8_t, m->n_buf + 1u);
    w->home = RMI_NEW(s->mem, uint32_t, m->n_buf + 1u);
    w->all = RMI_NEW(s->mem, int64_t, s->cap + 2);
    w->mine = RMI_NEW(s->mem, int64_t, s->cap + 2);
    w->list = RMI_NEW(s->mem, uint32_t, size + RMI_REF_WINDOWS + 2);
    w->in.done = RMI_NEW(s->mem, uint32_t, m->n_tasks);
    w->in.drop = RMI_NEW(s->mem, uint8_t, w->in.cap + 1);
    if (!two || !w->in.done || !w->in.drop || !w->folds.at || !w->folds.touch || !w->folds.in || !w->folds.start || !w->folds.stay || !w->open || !w->follow || !w->seen || !w->home || !w->all || !w->mine || !w->list) return RM_ERROR_MEMORY;
    w->in.a = &two[0];
    w->in.b = &two[1];
    w->in.folds = &w->folds;
    w->in.stamp = 0;
    RMI_TRY(rmi_ref_state_make(&w->in, w->in.a, NULL));
    RMI_TRY(rmi_ref_state_make(&w->in, w->in.b, w->in.a));
    return rmi_ref_kept_make(&w->in, &w->in.best);
}

RMI_FN void rmi_ref_open(const rmi_ref_search *s, rmi_ref_windows *w, uint32_t at, uint32_t width)
{
    uint32_t p = at > width / 2 ? at - width / 2 : 0, end = (uint32_t)rmi_min(s->a->n, (uint64_t)p + width);
    for (; p < end; p++) w->open[p] = 1;
}

/* Some places, and where the ops there have their other runs. */
RMI_FN void rmi_ref_open_some(rmi_ref_search *s, rmi_ref_windows *w)
{
    const rmi_ref_state *a = s->a;
    uint32_t k, i, p, width = w->cap / (RMI_REF_WINDOWS + 1);
    memset(w->open, 0, a->n + 1);
    for (k = 0; k < RMI_REF_WINDOWS / 2; k++) {
        const rmi_ref_task *t;
        p = rmi_ref_rand(s, a->n);
        rmi_ref_open(s, w, p, width);
        t = &s->m->tasks[a->list[p]];
        if (t->way > RMI_BWD) continue;
        for (i = 0; i < a->n; i++)
            if (s->m->tasks[a->list[i]].way <= RMI_BWD && s->m->tasks[a->list[i]].id == t->id && (i + width < p || i > p + width)) break;
        if (i < a->n) rmi_ref_open(s, w, i, width);
    }
}

/* Buffers that runs of a task may touch, in any mode. */
RMI_FN void rmi_ref_follow(rmi_ref_windows *w, uint32_t task)
{
    const rmi_ref_model *m = w->in.m;
    const rmi_ref_task *t = &m->tasks[task];
    uint32_t k, i;
    for (k = 0; k < (t->way <= RMI_BWD ? m->n_modes[t->id] : 1u); k++) {
        const rmi_ref_acc *a = &m->accs[t->acc0 + k];
        for (i = 0; i < a->n_read; i++) w->follow[m->pool[a->read0 + i]] = 1;
        for (i = 0; i < a->n_write; i++) w->follow[t->way == RMI_FWD ? m->pool[a->write0 + i] : m->targets[a->write0 + i].buf] = 1;
        if (a->saved != RMI_NONE) w->follow[a->saved] = 1;
        if (a->view != RMI_NONE) w->follow[a->view] = 1;
        if (a->dout != RMI_NONE) w->follow[a->dout] = 1;
    }
}

/* All buffers that are followed: what lies in one stretch is followed together. */
RMI_FN void rmi_ref_follow_all(const rmi_ref_search *s, rmi_ref_windows *w)
{
    const rmi_ref_model *m = s->m;
    const rmi_ref_state *a = s->a;
    uint32_t p, i, k, more = 1;
    memset(w->follow, 0, m->n_buf + 1u);
    for (p = 0; p < a->n; p++)
        if (w->open[p]) rmi_ref_follow(w, a->list[p]);
    for (k = 0; k < RMI_REF_DEPTH; k++) {
        memcpy(w->seen, w->follow, m->n_buf);
        for (i = 0; i < m->n_buf; i++)
            if (w->seen[i] && m->maker[i] != RMI_NONE && !m->tasks[m->maker[i]].fixed) rmi_ref_follow(w, m->maker[i]);
    }
    while (more) {
        more = 0;
        for (k = 0; k < a->n_str; k++) {
            uint32_t any = 0, every = 1;
            for (i = a->str[k].head; i != RMI_NONE; i = a->inst[i].sibling) {
                any |= w->follow[a->inst[i].buf];
                every &= w->follow[a->inst[i].buf];
            }
            if (!any || every) continue;
            for (i = a->str[k].head; i != RMI_NONE; i = a->inst[i].sibling) w->follow[a->inst[i].buf] = 1;
            more = 1;
        }
    }
}

/* Bytes there before each position: of all stretches, and of those that are followed. */
RMI_FN void rmi_ref_levels(const rmi_ref_search *s, rmi_ref_windows *w)
{
    const rmi_ref_state *a = s->a;
    uint32_t k, i, p;
    memset(w->all, 0, (a->n + 2) * sizeof(int64_t));
    memset(w->mine, 0, (a->n + 2) * sizeof(int64_t));
    for (k = 0; k < a->n_str; k++) {
        uint32_t first = RMI_NONE, last = 0, mine = 0;
        int64_t room = (int64_t)a->str[k].room;
        for (i = a->str[k].head; i != RMI_NONE; i = a->inst[i].sibling) {
            uint32_t from = a->inst[i].home ? 0 : a->inst[i].first + 1;
            first = (uint32_t)rmi_min(first, from);
            last = (uint32_t)rmi_max(last, a->inst[i].last + 1u);
            mine |= w->follow[a->inst[i].buf];
        }
        if (first >= last) continue; /* gone when its run ends */
        w->all[first] += room;
        w->all[last] -= room;
        w->mine[first] += mine ? room : 0;
        w->mine[last] -= mine ? room : 0;
    }
    for (p = 1; p <= a->n; p++) {
        w->all[p] += w->all[p - 1];
        w->mine[p] += w->mine[p - 1];
    }
}

/* The buffer whose bytes life i, born in the fold [lo, hi), takes or shares; RMI_NONE: it has its own. */
RMI_FN void rmi_ref_fold_with(const rmi_ref_state *a, uint32_t i, uint32_t lo, uint32_t hi, rmi_ref_touch *b)
{
    uint32_t j, kind, best = 3;
    b->with = RMI_NONE;
    for (j = a->str[a->inst[i].str].head; j != RMI_NONE; j = a->inst[j].sibling) {
        const rmi_ref_inst *x = &a->inst[j];
        int before = x->first < lo || x->home;
        if (j == i || (before && x->last < lo)) continue;
        if (before && x->last >= lo) kind = x->gone && x->last < hi ? 2 : 0;
        else if (x->first < hi && x->last >= hi && j < i) kind = 1;
        else continue;
        if (kind >= best) continue;
        best = kind;
        b->with = x->buf;
        b->takes = kind == 2;
    }
}

/* Notes that life i is used at a position of the fold f. 0: no room. */
RMI_FN int rmi_ref_fold_use(const rmi_ref_state *a, rmi_ref_windows *w, rmi_ref_fold *f, uint32_t buf, uint32_t p, int writes)
{
    uint32_t i = w->home[buf];
    rmi_ref_touch *u;
    if (!w->follow[buf] || i == RMI_NONE || (a->inst[i].first >= f->lo && !a->inst[i].home)) return 1;
    if (w->seen[buf]) {
        for (u = w->folds.touch + f->use0; u->buf != buf; u++) {}
        u->writes |= (uint8_t)writes;
        return 1;
    }
    if (w->n_touch == w->cap_touch) return 0;
    w->seen[buf] = 1;
    u = &w->folds.touch[w->n_touch++];
    memset(u, 0, sizeof *u);
    u->buf = buf;
    u->writes = (uint8_t)writes;
    u->ends = a->inst[i].last < f->hi;
    u->gone = u->ends && a->inst[i].gone;
    u->room = a->inst[i].str == RMI_NONE ? 0 : a->str[a->inst[i].str].room;
    f->n_use++;
    (void)p;
    return 1;
}

/* Folds positions [lo, hi). 0: it cannot be. */
RMI_FN int rmi_ref_fold_one(const rmi_ref_search *s, rmi_ref_windows *w, uint32_t lo, uint32_t hi)
{
    const rmi_ref_model *m = s->m;
    const rmi_ref_state *a = s->a;
    uint32_t p, i, number = w->folds.n;
    rmi_ref_fold *f = &w->folds.at[w->folds.n++];
    memset(f, 0, sizeof *f);
    memset(w->seen, 0, m->n_buf);
    f->lo = lo;
    f->hi = hi;
    f->use0 = w->n_touch;
    for (p = lo; p < hi; p++) {
        const rmi_ref_task *t = &m->tasks[a->list[p]];
        const rmi_ref_acc *c = rmi_ref_acc_of(m, a, a->list[p]);
        f->ns += a->cost[p];
        if ((int64_t)a->live[p] - w->all[lo] > (int64_t)f->above) f->above = a->live[p] - (uint64_t)w->all[lo];
        w->folds.in[a->list[p]] = (uint32_t)rmi_min(w->folds.in[a->list[p]], number);
        for (i = 0; i < c->n_read; i++)
            if (!rmi_ref_fold_use(a, w, f, m->pool[c->read0 + i], p, 0)) return 0;
        for (i = 0; i < c->n_write && t->way == RMI_BWD; i++)
            if (!rmi_ref_fold_use(a, w, f, m->targets[c->write0 + i].buf, p, 1)) return 0;
        for (i = a->inst0[p]; i < a->inst0[p + 1]; i++) w->home[a->inst[i].buf] = i;
    }
    f->birth0 = w->n_touch;
    for (i = a->inst0[lo]; i < a->inst0[hi]; i++) {
        rmi_ref_touch *b = &w->folds.touch[w->n_touch];
        if (!w->follow[a->inst[i].buf] || a->inst[i].last < hi) continue;
        if (w->n_touch == w->cap_touch || a->inst[i].str == RMI_NONE) return 0;
        memset(b, 0, sizeof *b);
        b->buf = a->inst[i].buf;
        b->writes = a->inst[i].again != RMI_NONE && a->inst[i].again < hi;
        b->grad = m->maker[b->buf] == RMI_NONE;
        b->off = a->inst[i].off;
        b->room = a->str[a->inst[i].str].room;
        rmi_ref_fold_with(a, i, lo, hi, b);
        w->n_touch++;
        f->n_birth++;
    }
    f->rest = (w->all[hi] - w->mine[hi]) - (w->all[lo] - w->mine[lo]);
    w->list[w->n++] = m->n_tasks + number;
    return 1;
}

/* The folded list of the current state. 0: it cannot be. */
RMI_FN int rmi_ref_fold_list(rmi_ref_search *s, rmi_ref_windows *w)
{
    const rmi_ref_model *m = s->m;
    const rmi_ref_state *a = s->a;
    uint32_t p, q, i;
    rmi_ref_follow_all(s, w);
    rmi_ref_levels(s, w);
    w->n = w->n_touch = w->folds.n = w->folds.n_start = w->folds.n_stay = 0;
    memset(w->folds.in, 0xFF, m->n_tasks * sizeof(uint32_t));
    memset(w->home, 0xFF, m->n_buf * sizeof(uint32_t));
    for (i = 0; i < m->n_start; i++) {
        w->home[m->start[i]] = i;
        if (w->follow[m->start[i]]) w->folds.start[w->folds.n_start++] = m->start[i];
    }
    for (i = 0; i < m->n_stay; i++)
        if (w->follow[m->stay[i]]) w->folds.stay[w->folds.n_stay++] = m->stay[i];
    w->folds.rest = (uint64_t)(w->all[0] - w->mine[0]);
    for (p = 0; p < a->n; p = q) {
        for (q = p; q < a->n && w->open[q] == w->open[p]; q++) {}
        if (!w->open[p]) {
            if (w->folds.n == RMI_REF_WINDOWS + 2 || !rmi_ref_fold_one(s, w, p, q)) return 0;
            continue;
        }
        if (w->n + (q - p) > w->cap) return 0;
        for (i = a->inst0[p]; i < a->inst0[q]; i++) w->home[a->inst[i].buf] = i;
        for (i = p; i < q; i++) w->list[w->n++] = a->list[i];
    }
    for (i = 0; i < m->g->n_ops; i++) { /* what forwards in folds have saved */
        const rmi_ref_acc *c = &m->accs[m->tasks[i].acc0 + a->mode[i]];
        if (c->saved != RMI_NONE) s->size[c->saved] = c->saved_bytes;
    }
    return 1;
}

/* The list of the inner search's best, unfolded, becomes the candidate; 0: it is not better. */
RMI_FN int rmi_ref_unfold(rmi_ref_search *s, const rmi_ref_windows *w)
{
    const rmi_ref_state *x = &w->in.best;
    uint32_t p, q, n = 0;
    for (p = 0; p < x->n; p++) {
        const rmi_ref_fold *f;
        if (x->list[p] < s->m->n_tasks) {
            if (n == s->cap) return 0;
            s->b->list[n++] = x->list[p];
            continue;
        }
        f = &w->folds.at[x->list[p] - s->m->n_tasks];
        for (q = f->lo; q < f->hi && n < s->cap; q++) s->b->list[n++] = s->a->list[q];
        if (q < f->hi) return 0;
    }
    s->b->n = n;
    memcpy(s->b->mode, x->mode, s->m->g->n_ops);
    return rmi_ref_eval(s, s->b) && rmi_ref_clean(s, s->b) && !s->b->over && s->b->ns <= s->a->ns;
}

/* Anneals `times` windows of the best list, about `work` runs each. */
RMI_FN void rmi_ref_improve_windows(rmi_ref_search *s, rmi_ref_windows *w, uint64_t work, uint32_t times)
{
    rmi_ref_search *in = &w->in;
    uint64_t mean = s->m->mean_ns;
    in->lambda = s->lambda;
    in->most_lambda = s->most_lambda;
    if (s->best.n) rmi_ref_restart(s);
    for (; times-- && s->best.n && !rmi_ref_told(s); s->work += 4 * s->a->n) {
        rmi_ref_open_some(s, w);
        if (!rmi_ref_fold_list(s, w)) continue;
        in->limit = s->limit;
        in->work = in->told = 0;
        in->rng = s->rng += 1000003;
        in->recorded = 0;
        in->best.n = 0;
        if (!rmi_ref_load(in, w->list, w->n, s->a->mode) || in->a->over || in->a->ns != s->a->ns) continue;
        rmi_ref_cycle(in, (rmi_ref_rand(s, 2) ? mean / 3 : mean / 8) + 1, mean / 250 + 1, work);
        s->work += in->work;
        if (in->best.ns < s->a->ns && rmi_ref_unfold(s, w)) rmi_ref_accept(s);
    }
}

/* --- greedy: evictions by bytes over the limit a ns, many at a time */
typedef struct rmi_ref_pick {
    uint64_t score;
    uint32_t str, t, at, level, from, b;
} rmi_ref_pick;

/* a / b in 2^-20, good to some 40 bits. */
RMI_FN uint64_t rmi_ref_ratio(uint64_t a, uint64_t b)
{
    while (a >> 44) {
        a >>= 4;
        b >>= 4;
    }
    return (a << 20) / (b ? b : 1);
}

RMI_FN int rmi_ref_cmp_pick(const void *x, const void *y, void *user)
{
    const rmi_ref_pick *a = (const rmi_ref_pick *)x, *b = (const rmi_ref_pick *)y;
    (void)user;
    if (a->score != b->score) return a->score > b->score ? -1 : 1;
    if (a->str != b->str) return a->str < b->str ? -1 : 1;
    return a->t < b->t ? -1 : a->t > b->t;
}

/* The best way to give up stretch k across t. */
RMI_FN void rmi_ref_best_way(rmi_ref_search *s, uint32_t k, uint32_t t, rmi_ref_pick *pick)
{
    uint32_t level, from, b, hoist;
    pick->score = 0;
    if (!rmi_ref_gap(s, k, t, &from, &b)) return;
    hoist = rmi_ref_hoist(s, k, t, b);
    for (level = 0; level < (hoist == RMI_NONE ? 3u : 4u); level++) {
        uint32_t at = level == 3 ? hoist : RMI_NONE, to = level == 3 ? hoist : b;
        uint64_t ns, gain = (s->a->str[k].room >> 8) * (s->above[to] - s->above[from + 1]), score;
        s->most_ns = pick->score ? rmi_ref_ratio(gain, pick->score) + 1 : RMI_INF;
        ns = rmi_ref_price(s, k, t, at, level == 3 ? RMI_REF_CROSSING : level);
        s->most_ns = RMI_INF;
        if (ns == RMI_INF || gain <= s->extended) continue;
        gain -= s->extended;
        score = rmi_ref_ratio(gain, ns);
        if (score <= pick->score) continue;
        pick->score = score;
        pick->str = k;
        pick->t = t;
        pick->at = at;
        pick->level = level == 3 ? RMI_REF_CROSSING : level;
        pick->from = from;
        pick->b = to;
    }
}

/* One candidate for every gap between uses that spans a position above the limit; those nearly as good as the best, best first. */
RMI_FN uint32_t rmi_ref_picks(rmi_ref_search *s, rmi_ref_pick *picks, uint32_t cap, uint32_t permille)
{
    const rmi_ref_model *m = s->m;
    const rmi_ref_state *a = s->a;
    uint32_t i, k, n = 0, u, prev, next;
    uint64_t best = 0;
    for (i = 0; i < a->n_inst; i++) {
        const rmi_ref_inst *x = &a->inst[i];
        if (x->str == RMI_NONE || x->home || x->gone || m->maker[x->buf] == RMI_NONE || m->tasks[m->maker[x->buf]].fixed) continue;
        next = RMI_NONE;
        for (u = a->inst_use[i]; n < cap; u = a->use_prev[u]) {
            prev = u == RMI_NONE ? x->first : a->use_pos[u];
            if (next != RMI_NONE && next > prev + 1 && s->above[next] > s->above[prev + 1]) {
                uint32_t lo = prev + 1, hi = next - 1; /* the first position above the limit: where above[p + 1] grows */
                while (lo < hi) {
                    uint32_t mid = lo + (hi - lo) / 2;
                    if (s->above[mid + 1] > s->above[prev + 1]) hi = mid;
                    else lo = mid + 1;
                }
                rmi_ref_best_way(s, x->str, lo, &picks[n]);
                best = rmi_max(best, picks[n].score);
                n += picks[n].score > best / 1000 * permille;
            }
            if (u == RMI_NONE) break;
            next = prev;
        }
    }
    for (i = k = 0; i < n; i++)
        if (picks[i].score > best / 1000 * permille) picks[k++] = picks[i];
    rmi_sort(picks, k, sizeof(rmi_ref_pick), rmi_ref_cmp_pick, NULL);
    return k;
}

/* Bytes by position, as a tree: added to ranges, asked for their most. max of a node holds what was added to all of it. */
typedef struct rmi_ref_tree {
    uint32_t leaves;
    int64_t *max, *add;
} rmi_ref_tree;

RMI_FN rm_result rmi_ref_tree_make(rmi_arena *mem, const uint64_t *at, uint32_t n, rmi_ref_tree *t)
{
    uint32_t i;
    for (t->leaves = 1; t->leaves < n; t->leaves *= 2) {}
    t->max = RMI_NEW(mem, int64_t, 2 * (size_t)t->leaves);
    t->add = RMI_NEW(mem, int64_t, t->leaves + (size_t)1);
    if (!t->max || !t->add) return RM_ERROR_MEMORY;
    for (i = 0; i < n; i++) t->max[t->leaves + i] = (int64_t)at[i];
    for (i = t->leaves; i-- > 1;) t->max[i] = t->max[2 * i] > t->max[2 * i + 1] ? t->max[2 * i] : t->max[2 * i + 1];
    return RM_OK;
}

/* Adds to positions [lo, hi). */
RMI_FN void rmi_ref_tree_add(rmi_ref_tree *t, uint32_t lo, uint32_t hi, int64_t bytes)
{
    uint32_t l = t->leaves + lo, r = t->leaves + hi, side, i;
    if (lo >= hi) return;
    for (; l < r; l /= 2, r /= 2) {
        for (side = 0; side < 2; side++) {
            if (!((side ? r : l) & 1)) continue;
            i = side ? --r : l++;
            t->max[i] += bytes;
            if (i < t->leaves) t->add[i] += bytes;
        }
    }
    for (side = 0; side < 2; side++)
        for (i = (t->leaves + (side ? hi - 1 : lo)) / 2; i; i /= 2) t->max[i] = (t->max[2 * i] > t->max[2 * i + 1] ? t->max[2 * i] : t->max[2 * i + 1]) + t->add[i];
}

/* The most in positions [lo, hi); 0 if there are none. */
RMI_FN int64_t rmi_ref_tree_most(const rmi_ref_tree *t, uint32_t lo, uint32_t hi)
{
    uint32_t l = t->leaves + lo, r = t->leaves + hi - 1;
    int64_t a, b;
    if (lo >= hi) return 0;
    a = t->max[l];
    b = t->max[r];
    for (; l / 2 != r / 2; l /= 2, r /= 2) { /* a: of [lo, end of l's subtree); b: of [start of r's, hi) */
        if (!(l & 1) && t->max[l + 1] > a) a = t->max[l + 1];
        if ((r & 1) && t->max[r - 1] > b) b = t->max[r - 1];
        a += t->add[l / 2];
        b += t->add[r / 2];
    }
    if (b > a) a = b;
    for (l /= 2; l; l /= 2) a += t->add[l];
    return a;
}

/* Takes the picks that still help. est: by position, bytes. */
RMI_FN uint32_t rmi_ref_choose_picks(rmi_ref_search *s, const rmi_ref_pick *picks, uint32_t n, rmi_ref_tree *est)
{
    const rmi_ref_state *a = s->a;
    uint32_t i, k, taken = 0;
    memset(s->busy, 0, a->n_str);
    for (i = 0; i < n; i++) {
        const rmi_ref_pick *c = &picks[i];
        uint64_t ns = 0;
        uint32_t from = s->n_ins;
        int free_ = !s->busy[c->str];
        if (!free_ || rmi_ref_tree_most(est, c->from + 1, c->b) <= (int64_t)s->limit) continue;
        if (rmi_ref_price(s, c->str, c->t, c->at, c->level) == RMI_INF) continue;
        for (k = 0; k < s->n_touched && free_; k++) free_ = s->busy[s->touched[k]] != 2;
        if (!free_) continue;
        for (k = 0; k < s->n_touched; k++) s->busy[s->touched[k]] |= 1;
        s->busy[c->str] = 2;
        rmi_ref_evict(s, c->str, c->t, c->at, c->level, &ns);
        rmi_ref_clear_marks(s, from);
        rmi_ref_tree_add(est, c->from + 1, c->b, -(int64_t)a->str[c->str].room);
        taken++;
    }
    return taken;
}

/* Evicts until the current state fits, or nothing helps. permille: how much worse than the best a pick of a batch may be. */
RMI_FN rm_result rmi_ref_greedy(rmi_ref_search *s, uint32_t permille, uint32_t rounds)
{
    uint32_t n, p, stuck = 0;
    uint64_t least = RMI_INF;
    while (s->a->over && rounds-- && stuck < 6 && !rmi_ref_told(s)) {
        rmi_arena tmp = rmi_arena_make(&s->mem->hooks);
        rmi_ref_tree est;
        rmi_ref_pick *picks;
        int on = 0;
        rmi_ref_begin(s);
        for (p = 0; p <= s->a->n; p++) s->above[p + 1] = s->above[p] + (p < s->a->n && s->a->live[p] > s->limit);
        picks = RMI_NEW(&tmp, rmi_ref_pick, s->a->n_use + (size_t)1);
        if (!picks || rmi_ref_tree_make(&tmp, s->a->live, s->a->n + 1, &est) != RM_OK) {
            rmi_arena_free(&tmp);
            return RM_ERROR_MEMORY;
        }
        n = rmi_ref_picks(s, picks, s->a->n_use, permille);
        s->work += 4 * (uint64_t)n;
        on = n && rmi_ref_choose_picks(s, picks, n, &est) && rmi_ref_apply(s);
        rmi_arena_free(&tmp);
        if (!on) break;
        rmi_ref_accept(s);
        stuck = s->a->over < least ? 0 : stuck + 1;
        least = rmi_min(least, s->a->over);
    }
    memset(s->above, 0, (s->cap + 2) * sizeof(uint32_t));
    return RM_OK;
}

/* --- repeats that need not be are dropped, dearest first by time per byte and position, while the rest fits */
typedef struct rmi_ref_spare {
    uint64_t score;
    uint32_t p;
} rmi_ref_spare;

RMI_FN int rmi_ref_cmp_spare(const void *x, const void *y, void *user)
{
    const rmi_ref_spare *a = (const rmi_ref_spare *)x, *b = (const rmi_ref_spare *)y;
    (void)user;
    if (a->score != b->score) return a->score > b->score ? -1 : 1;
    return a->p < b->p ? -1 : a->p > b->p;
}

/* Without the repeat at p, life i of what it makes goes on from its predecessor: through positions [*from, p). 0: it cannot. */
RMI_FN int rmi_ref_bridge(const rmi_ref_state *a, uint32_t i, uint32_t *from)
{
    uint32_t j = a->inst[i].prev;
    if (j == RMI_NONE || a->inst[i].last <= a->inst[i].first) return 0;
    *from = a->inst[j].last + !a->inst[j].gone; /* gone: taken over in its last use, which then has to have bytes of its own */
    return 1;
}

/* What the repeat at p costs per byte that dropping it would hold. */
RMI_FN uint64_t rmi_ref_spare_score(const rmi_ref_search *s, uint32_t p)
{
    const rmi_ref_state *a = s->a;
    const rmi_ref_acc *c = rmi_ref_acc_of(s->m, a, a->list[p]);
    uint32_t i, from;
    uint64_t held = 1, ns = s->m->choices[c->free0[1] + rmi_min(a->rank[p], c->n_free[1] - 1u)].ns;
    for (i = a->inst0[p]; i < a->inst0[p + 1]; i++)
        if (rmi_ref_bridge(a, i, &from)) held += (s->m->room[a->inst[i].buf] >> 8) * (p - from + 1);
    return rmi_ref_ratio(ns << 10, held);
}

/* Holds in the tree what dropping the repeat at p holds; 0: it does not fit, and the tree is as before. */
RMI_FN int rmi_ref_hold(const rmi_ref_search *s, rmi_ref_tree *t, uint32_t p)
{
    const rmi_ref_state *a = s->a;
    uint32_t i, from, least = p, end = a->inst0[p + 1];
    int ok = 1, pass;
    for (pass = 0; pass < 2 && (!pass || !ok); pass++) {
        for (i = a->inst0[p]; i < end; i++) {
            int64_t room = (int64_t)s->m->room[a->inst[i].buf];
            if (!rmi_ref_bridge(a, i, &from)) continue;
            rmi_ref_tree_add(t, from, p, pass ? -room : room);
            if (from < least) least = from;
        }
        if (!pass) ok = rmi_ref_tree_most(t, least, p) <= (int64_t)s->limit;
    }
    return ok;
}

/* Drops as many repeats at once as the tree allows; what the tree does not know of (bytes under other names) is found by the
   evaluation, then fewer are dropped. Returns how many were. */
RMI_FN uint32_t rmi_ref_fill_many(rmi_ref_search *s, rmi_arena *mem)
{
    uint32_t i, k = 0, p, n = s->a->n_reps;
    rmi_ref_spare *spare = RMI_NEW(mem, rmi_ref_spare, n);
    rmi_ref_tree t;
    if (!spare || rmi_ref_tree_make(mem, s->a->live, s->a->n + 1, &t) != RM_OK) return 0;
    for (i = 0; i < n; i++) {
        spare[i].p = s->a->reps[i];
        spare[i].score = rmi_ref_spare_score(s, spare[i].p);
    }
    rmi_sort(spare, n, sizeof(rmi_ref_spare), rmi_ref_cmp_spare, NULL);
    for (i = 0; i < n; i++)
        if (rmi_ref_hold(s, &t, spare[i].p)) spare[k++] = spare[i];
    for (; k; k /= 2) {
        rmi_ref_begin(s);
        for (p = 0; p < k; p++) s->drop[spare[p].p] = 1;
        if (rmi_ref_apply(s) && !s->b->over && s->b->ns < s->a->ns) {
            rmi_ref_accept(s);
            return k;
        }
    }
    return 0;
}

/* Many at once, then one by one (`each` of them, last first) with exact evaluations. */
RMI_FN void rmi_ref_fill(rmi_ref_search *s, uint32_t each)
{
    uint32_t k, round, n = 1;
    for (round = 0; round < 12 && n && !s->a->over && !rmi_ref_told(s); round++) {
        rmi_arena tmp = rmi_arena_make(&s->mem->hooks);
        n = rmi_ref_fill_many(s, &tmp);
        rmi_arena_free(&tmp);
    }
    for (k = s->a->n_reps; k-- > 0 && each-- && !s->a->over && !rmi_ref_told(s);) {
        if (k >= s->a->n_reps) continue;
        rmi_ref_begin(s);
        s->drop[s->a->reps[k]] = 1;
        if (rmi_ref_apply(s) && !s->b->over && s->b->ns < s->a->ns) rmi_ref_accept(s);
    }
}

/* Sets the current state to runs of another solver; the modes are those of its backwards, or the fastest. */
RMI_FN int rmi_ref_load_runs(rmi_ref_search *s, const rmi_run *runs, uint32_t n, int fast)
{
    const rmi_ref_model *m = s->m;
    uint32_t p, i, t, k = 0, *list = s->stack_runs;
    memset(s->b->mode, 0, m->g->n_ops);
    for (p = 0; p < n; p++) {
        t = runs[p].id;
        if (runs[p].way == RMI_BWD) {
            const rmi_op *op = &m->g->ops[t];
            int first = 1;
            for (i = 0; i < runs[p].part; i++) first &= !rmi_low_has_part(op, runs[p].form, i);
            s->b->mode[t] = (uint8_t)rmi_ref_mode_of(m->g, t, runs[p].form);
            for (i = 0; i < m->n_bwd[t]; i++) { /* parts that only other forms have run with the first one */
                uint32_t part = m->tasks[m->bwd0[t] + i].part;
                if (part != runs[p].part && !(first && !rmi_low_has_part(op, runs[p].form, part))) continue;
                if (k == s->cap) return 0;
                list[k++] = m->bwd0[t] + i;
            }
            continue;
        }
        if (runs[p].way != RMI_FWD)
            for (t = m->n_tasks; t-- > 0 && (m->tasks[t].way != runs[p].way || m->tasks[t].id != runs[p].id);) {}
        if (t == RMI_NONE || k == s->cap) return 0;
        list[k++] = t;
    }
    if (fast) memcpy(s->b->mode, m->keep_mode, m->g->n_ops);
    memcpy(s->b->list, list, k * sizeof(uint32_t));
    s->b->n = k;
    if (!rmi_ref_eval(s, s->b) || !rmi_ref_clean(s, s->b)) return 0;
    rmi_ref_accept(s);
    return 1;
}

RMI_PLAIN_BEGIN

/* =====================================================================================================================
   >>bound - lower bounds on memory and time
   In: a sealed graph, a limit. Out: numbers that no legal plan can be below, whatever it recomputes, whichever variants it takes.
   Memory: what persists, and the most that one run needs at once. Time: at the tightest moments of a step, the least that must be
   made again since it does not fit beside what runs; the limit is priced (Lagrange), and for one price that is a minimum cut
   (Hochbaum, Megiddo, Naor, Tamir 1993), by Dinic's algorithm. Any flow is a bound, so limits on work are safe. O(ops + edges) a
   moment to look at, some cuts a moment that is priced.
   ================================================================================================================== */

/* Which forwards every plan must run: those that outputs, backwards and ops with lasting effects cannot do without. */
RMI_FN void rmi_bnd_must_run(const rm_graph *g, uint32_t step, uint8_t *must, uint8_t *read)
{
    uint32_t i, k, f, p;
    for (i = 0; i < g->n_tensors; i++) read[i] = g->tensors[i].is_output;
    for (i = 0; i < g->n_ops && rmi_low_has_backward(step); i++) {
        const rmi_op *op = &g->ops[i];
        for (k = 0; k < op->out.n + op->in.n && op->has_bwd; k++) { /* read by every form of this backward */
            uint32_t t = k < op->out.n ? op->out.at[k] : op->in.at[k - op->out.n];
            int always = 1;
            for (f = 0; f < op->n_forms; f++) {
                int reads = 0;
                for (p = 0; p < op->forms[f].n_parts; p++) reads |= rmi_low_part_wanted(op, &op->forms[f].parts[p]) && rmi_list_has(&op->forms[f].parts[p].needs, t);
                always &= reads;
            }
            if (always) read[t] = 1;
        }
    }
    for (i = g->n_ops; i-- > 0;) {
        const rmi_op *op = &g->ops[i];
        must[i] = op->mutates.n || (op->flags & RM_ONCE);
        for (k = 0; k < op->out.n; k++) must[i] |= read[op->out.at[k]];
        for (k = 0; k < op->in.n && must[i]; k++) read[op->in.at[k]] = 1;
    }
}

RMI_FN int rmi_bnd_part_free(const rm_graph *g, const rmi_op *op, const rmi_part *p)
{
    uint32_t i;
    for (i = 0; i < op->grad_in.n; i++) {
        uint32_t t = op->grad_in.at[i];
        if (rmi_list_has(&p->grads, t) && ((!rmi_list_has(&op->share, t) && op->view != t) || g->tensors[t].grad_bytes != g->tensors[op->out.at[0]].grad_bytes)) return 0;
    }
    return 1;
}

/* Time that no step of this kind can be below: everything that must run, once, at its cheapest. */
RMI_FN rm_result rmi_bnd_time(rmi_arena *mem, const rm_graph *g, uint32_t step, uint64_t *bound)
{
    uint8_t *must = RMI_NEW(mem, uint8_t, g->n_ops), *read = RMI_NEW(mem, uint8_t, g->n_tensors);
    uint32_t i, f, p;
    *bound = 0;
    if (!must || !read) return RM_ERROR_MEMORY;
    rmi_bnd_must_run(g, step, must, read);
    for (i = 0; i < g->n_ops; i++) {
        const rmi_op *op = &g->ops[i];
        uint64_t fwd = RMI_INF, bwd = RMI_INF;
        for (f = 0; f < op->n_forms; f++) {
            uint64_t sum = 0;
            fwd = rmi_min(fwd, op->forms[f].fwd);
            for (p = 0; p < op->forms[f].n_parts; p++)
                if (rmi_low_part_wanted(op, &op->forms[f].parts[p]) && !rmi_bnd_part_free(g, op, &op->forms[f].parts[p])) sum += op->forms[f].parts[p].bwd;
            bwd = rmi_min(bwd, sum);
        }
        if (must[i] && op->view == RMI_NONE) *bound += fwd;
        if (op->has_bwd && rmi_low_has_backward(step)) *bound += bwd;
    }
    for (i = 0; i < g->n_tensors && rmi_low_has_update(step); i++)
        if (g->tensors[i].updates && g->tensors[i].opt_host == RMI_INF) *bound += g->tensors[i].opt;
    for (i = 0; i < g->n_barriers && rmi_low_has_update(step); i++) *bound += g->barriers[i].ns;
    return RM_OK;
}

/* Sums the bytes of distinct roots; scratch: by tensor, all 0 and so again after rmi_bnd_forget. */
typedef struct rmi_bnd_set {
    const rm_graph *g;
    uint8_t *in;
    uint32_t *list, n;
    int persistent; /* weights count as well (they cannot leave the device) and are in the base */
    uint64_t bytes;
} rmi_bnd_set;

RMI_FN void rmi_bnd_add(rmi_bnd_set *s, uint32_t t)
{
    const rmi_tensor *x;
    t = s->g->tensors[t].root;
    x = &s->g->tensors[t];
    if (s->in[t] || x->external || (s->persistent && x->kind != RMI_ACT && x->kind != RMI_INPUT)) return;
    s->in[t] = 1;
    s->list[s->n++] = t;
    s->bytes += x->bytes;
}
RMI_FN uint64_t rmi_bnd_forget(rmi_bnd_set *s)
{
    uint64_t bytes = s->bytes;
    while (s->n) s->in[s->list[--s->n]] = 0;
    s->bytes = 0;
    return bytes;
}

RMI_FN uint64_t rmi_bnd_fwd_bytes(rmi_bnd_set *s, const rmi_op *op)
{
    uint64_t best = RMI_INF;
    uint32_t f, k;
    for (f = 0; f < op->n_forms; f++) {
        const rmi_form *x = &op->forms[f];
        uint64_t bytes, over = 0;
        for (k = 0; k < op->in.n; k++) rmi_bnd_add(s, op->in.at[k]);
        for (k = 0; k < op->out.n; k++) rmi_bnd_add(s, op->out.at[k]);
        bytes = rmi_bnd_forget(s) + x->fwd_ws;
        if (x->inplace != RMI_NONE) over = rmi_min(s->g->tensors[op->out.at[0]].bytes, s->g->tensors[x->inplace].bytes);
        best = rmi_min(best, rmi_sub(bytes, over));
    }
    return best;
}

/* May the gradient of t be one of several names of the same bytes? Of such gradients only the largest surely takes bytes. */
RMI_FN int rmi_bnd_shared(const rm_graph *g, uint32_t t)
{
    const rmi_list *c = &g->tensors[t].consumers;
    uint32_t i;
    for (i = 0; i < c->n; i++)
        if (rmi_list_has(&g->ops[c->at[i]].share, t)) return 1;
    return 0;
}

RMI_FN void rmi_bnd_add_grad(const rm_graph *g, uint32_t t, uint64_t *sum, uint64_t *shared)
{
    uint64_t bytes = g->tensors[t].grad_bytes;
    if (!rmi_bnd_shared(g, t)) *sum += bytes;
    else *shared = rmi_max(*shared, bytes);
}

RMI_FN uint64_t rmi_bnd_bwd_bytes(rmi_bnd_set *s, const rmi_op *op, uint32_t step)
{
    uint64_t best = RMI_INF;
    uint32_t f, k, p;
    for (f = 0; f < op->n_forms; f++) {
        const rmi_form *x = &op->forms[f];
        uint64_t most = 0;
        for (p = 0; p < x->n_parts; p++) {
            const rmi_part *q = &x->parts[p];
            uint64_t grads = 0, shared = 0, bytes;
            if (!rmi_low_part_wanted(op, q)) continue;
            for (k = 0; k < q->needs.n; k++) rmi_bnd_add(s, q->needs.at[k]);
            bytes = rmi_bnd_forget(s) + q->bwd_ws + (q->needs_saved ? x->saved : 0);
            for (k = 0; k < op->grad_out.n; k++) rmi_bnd_add_grad(s->g, op->grad_out.at[k], &bytes, &shared);
            for (k = 0; k < op->grad_in.n; k++) {
                const rmi_tensor *t = &s->g->tensors[op->grad_in.at[k]];
                if (!rmi_list_has(&q->grads, op->grad_in.at[k]) || (t->external && t->kind == RMI_PARAM)) continue;
                if (s->persistent && t->kind == RMI_PARAM && rmi_low_grads_resident(step)) continue; /* in the base */
                if (!x->n_overs && !op->share.n && op->view == RMI_NONE) grads += t->grad_bytes; /* else it may lie over other bytes */
            }
            most = rmi_max(most, bytes + shared + grads);
        }
        best = rmi_min(best, most);
    }
    return best;
}

/* An arena that no legal plan can be below. moves: buffers may be copied to host memory and back. */
RMI_FN rm_result rmi_bnd_bytes(rmi_arena *mem, const rm_graph *g, uint32_t step, int moves, uint64_t *bound)
{
    uint8_t *must = RMI_NEW(mem, uint8_t, g->n_ops), *read = RMI_NEW(mem, uint8_t, g->n_tensors);
    uint64_t base = 0, most = 0, inputs = 0, grads = 0, shared = 0;
    rmi_bnd_set s;
    uint32_t i;
    memset(&s, 0, sizeof s);
    s.g = g;
    s.persistent = !moves;
    s.in = RMI_NEW(mem, uint8_t, g->n_tensors);
    s.list = RMI_NEW(mem, uint32_t, g->n_tensors);
    if (!must || !read || !s.in || !s.list) return RM_ERROR_MEMORY;
    rmi_bnd_must_run(g, step, must, read);
    for (i = 0; i < g->n_tensors && !moves; i++) {
        const rmi_tensor *t = &g->tensors[i];
        int updates = t->updates && rmi_low_has_update(step);
        if (t->external) continue;
        if ((t->kind == RMI_PARAM || t->kind == RMI_CONST) && (read[i] || updates)) base += t->bytes;
        if (updates) base += t->state_bytes;
        if (t->kind == RMI_INPUT && read[i]) inputs += t->bytes;
        if (t->kind == RMI_PARAM && t->consumers.n && rmi_low_has_backward(step)) {
            if (rmi_low_grads_resident(step)) base += t->grad_bytes;
            else if (g->n_barriers || !updates) rmi_bnd_add_grad(g, i, &grads, &shared);
        }
    }
    most = rmi_max(inputs, grads + shared);
    for (i = 0; i < g->n_ops; i++) {
        if (must[i] && g->ops[i].view == RMI_NONE) most = rmi_max(most, rmi_bnd_fwd_bytes(&s, &g->ops[i]));
        if (g->ops[i].has_bwd && rmi_low_has_backward(step)) most = rmi_max(most, rmi_bnd_bwd_bytes(&s, &g->ops[i], step));
    }
    *bound = base + most;
    return RM_OK;
}

RMI_PLAIN_END

/* --- a lower bound on time within a limit, for every plan: any order, any recomputation, any variants.
   Let x be a run that every plan makes once (a backward) or the first of its kind (a forward). What surely comes before and
   after it follows from reads alone. When x runs, a value made before x and read after it is there, or is made again:

       least sum of  again(o) c_o  +  cost of the backwards after x in the modes they take
       over a_u (u is there after x), c_o (o runs again after x), modes, in {0, 1}, subject to
            c_o <= a_w                 for what o reads
            a_u = 1                    for what a backward after x reads in all its modes, or in the one that it takes
            sum of bytes(u) over u with a_u = 1, c_maker(u) = 0   <=   limit - what x itself holds.

   The limit is priced: lambda ns a byte (Lagrange). For each lambda the rest is a problem in 0-1 variables in which every term
   has two of them. Its linear relaxation is half-integral and is a minimum cut in a network with a node for each variable
   and one for its negation (Hochbaum, Megiddo, Naor and Tamir, "Tight bounds and 2-approximation algorithms for integer
   programs with two variables per inequality", 1993); without variants in two modes it is a closure, and exact without the
   negations. The value is concave in lambda. Any flow is a lower bound on the cut, so all roundings go down and the work may
   stop at any moment. */
typedef struct rmi_bnd_arc { /* arc i runs against arc i ^ 1 */
    uint32_t to, next;
    uint64_t ns, bytes;      /* its price is ns + lambda * bytes; RMI_INF: never cut */
    uint64_t cap;
} rmi_bnd_arc;

typedef struct rmi_bnd_node { /* of the branching: one literal more is true than in its parent */
    uint64_t value, price;
    uint32_t parent, literal, branch, own; /* branch: the variable to go on with, or RMI_NONE; own: choice of x */
    int open;
} rmi_bnd_node;

typedef struct rmi_bnd {
    const rmi_ref_model *m;
    rmi_arena *mem;
    uint64_t limit;
    /* of the model */
    uint32_t *root, *group;      /* by buffer: its root's, or n_buf; gradients that may be one piece of memory */
    uint8_t *is_grad, *stays;    /* by buffer; is_grad 2: of a param */
    int link;                    /* buffers may move to host memory and back; persistent ones are not resident for sure */
    uint64_t *bytes;             /* by buffer: surely taken */
    uint8_t *must;               /* by op: runs in every plan */
    uint64_t *first, *again;     /* by op: least time of a run, of a repeat */
    uint64_t *ns;                /* by access: least time of a backward in this mode; RMI_INF: does not fit */
    uint32_t *pred0, *pred;      /* by task: what surely runs before, directly */
    size_t n_pred, cap_pred;
    /* of moment x */
    uint32_t x;
    uint8_t *before, *after;     /* by task */
    const uint8_t *upto;         /* by task: of what comes after x only these read anything; or NULL */
    uint8_t *there, *flag;       /* by buffer: x reads it; scratch */
    uint64_t *most;              /* by buffer: scratch */
    uint32_t *stamp, turn;       /* by buffer */
    uint64_t common, forced, wanted; /* ns of all plans; bytes that x holds; bytes that are read later */
    /* the network: node 0 is the source, 1 the sink, 2 + 2v variable v, 3 + 2v its negation */
    rmi_bnd_arc *arc;
    size_t n_arc, cap_arc, cap_head, cap_level, cap_at;
    uint32_t *head, *level, *at, *queue, *path;
    size_t cap_queue, cap_path;
    uint32_t n_node, *a_var, *c_var; /* by buffer, by op: variables, or RMI_NONE */
    int twice;                   /* there are negations */
    int up, down;                /* a unit is 2^-up or 2^down ns */
    uint64_t price, most_price, work, most_work; /* prices: 2^-20 units a byte; work: arcs looked at */
    uint64_t beat;               /* twice the units that a moment must get above to matter */
    uint64_t all, own_ns, own_ws; /* units of all arcs; of the choice that x takes */
    uint8_t *left, *right;       /* by node pair: twice the variable in the last cuts that took too many bytes, and that did not */
    uint32_t *fix;               /* by node pair: its first arc for fixing it, or RMI_NONE */
    size_t cap_left, cap_right, cap_fix;
    const struct rmi_bnd_node *node; /* the current one of the branching */
    uint32_t here;
} rmi_bnd;

/* Bytes that task surely holds while it runs in this mode, beside workspace and gradients that others leave. */
RMI_FN uint64_t rmi_bnd_held(rmi_bnd *w, uint32_t task, uint32_t mode)
{
    const rmi_ref_model *m = w->m;
    const rmi_ref_task *t = &m->tasks[task];
    const rmi_ref_acc *a = &m->accs[t->acc0 + mode];
    uint64_t sum = 0, shared = 0;
    uint32_t q;
    w->turn++;
    for (q = 0; q < a->n_read + (t->way == RMI_FWD ? a->n_write : 0); q++) {
        uint32_t u = q < a->n_read ? m->pool[a->read0 + q] : m->pool[a->write0 + q - a->n_read];
        if (!w->is_grad[u]) u = w->root[u];
        if (w->stamp[u] == w->turn) continue;
        w->stamp[u] = w->turn;
        if (w->group[u] != RMI_NONE) shared = rmi_max(shared, w->bytes[u]);
        else sum += w->bytes[u];
    }
    for (q = 0; q < a->n_write && t->way == RMI_BWD; q++) {
        const rmi_ref_target *y = &m->targets[a->write0 + q];
        if (!y->n_over && !y->rename && w->group[y->buf] == RMI_NONE && w->stamp[y->buf] != w->turn) sum += w->bytes[y->buf];
        w->stamp[y->buf] = w->turn;
    }
    return sum + shared;
}

/* Least times, of what fits within the limit at all. */
RMI_FN void rmi_bnd_times(rmi_bnd *w)
{
    const rmi_ref_model *m = w->m;
    uint32_t i, k, q, r;
    for (i = 0; i < m->n_tasks; i++) {
        const rmi_ref_task *t = &m->tasks[i];
        uint64_t any[2] = {RMI_INF, RMI_INF}, fits[2] = {RMI_INF, RMI_INF};
        for (k = 0; k < (t->way <= RMI_BWD ? m->n_modes[t->id] : 1u); k++) {
            const rmi_ref_acc *a = &m->accs[t->acc0 + k];
            uint64_t held = rmi_bnd_held(w, i, k);
            if (t->way != RMI_FWD) any[0] = fits[0] = RMI_INF;
            for (r = 0; r < (t->way == RMI_FWD ? 2u : 1u); r++)
                for (q = 0; q < a->n_free[r]; q++) {
                    const rmi_ref_choice *c = &m->choices[a->free0[r] + q];
                    uint64_t bytes = t->way == RMI_FWD && c->inplace != RMI_NONE && a->n_write ? rmi_sub(held, m->bytes[m->pool[a->write0]]) : held;
                    any[r] = rmi_min(any[r], c->ns);
                    if (bytes + c->ws <= w->limit) fits[r] = rmi_min(fits[r], c->ns);
                }
            if (t->way != RMI_FWD) w->ns[t->acc0 + k] = t->way == RMI_BWD && a->may_be_free ? 0 : fits[0] != RMI_INF || (t->way == RMI_BWD && m->n_modes[t->id] > 1) ? fits[0] : any[0];
        }
        for (r = 0; r < 2 && t->way == RMI_FWD; r++) (r ? w->again : w->first)[t->id] = m->g->ops[t->id].view != RMI_NONE ? 0 : fits[r] != RMI_INF ? fits[r] : any[r];
    }
}

RMI_FN int rmi_bnd_reads(const rmi_bnd *w, const rmi_ref_acc *a, uint32_t u)
{
    uint32_t q;
    for (q = 0; q < a->n_read; q++)
        if (w->root[w->m->pool[a->read0 + q]] == u) return 1;
    return 0;
}

/* Is value u (a root) read by the task in every mode? */
RMI_FN int rmi_bnd_always(const rmi_bnd *w, uint32_t task, uint32_t u)
{
    const rmi_ref_task *t = &w->m->tasks[task];
    uint32_t k;
    for (k = 0; t->way == RMI_BWD && k < w->m->n_modes[t->id]; k++)
        if (w->ns[t->acc0 + k] != RMI_INF && !rmi_bnd_reads(w, &w->m->accs[t->acc0 + k], u)) return 0;
    return 1;
}

/* A forward that leaves what this mode reads may be a slower one. */
RMI_FN uint64_t rmi_bnd_mode_ns(const rmi_bnd *w, uint32_t task, uint32_t mode)
{
    const rmi_ref_model *m = w->m;
    const rmi_ref_task *t = &m->tasks[task];
    const rmi_ref_acc *f = &m->accs[m->tasks[t->id].acc0 + mode];
    uint64_t ns = w->ns[t->acc0 + mode];
    if (ns == RMI_INF || w->link || m->n_bwd[t->id] > 1 || f->saved == RMI_NONE || m->g->ops[t->id].view != RMI_NONE) return ns;
    return ns + rmi_min(rmi_sub(m->choices[f->kept0[0]].ns, w->first[t->id]), rmi_sub(m->choices[f->kept0[1]].ns, w->again[t->id]));
}

/* Least time of a task that is no forward. */
RMI_FN uint64_t rmi_bnd_least(const rmi_bnd *w, uint32_t task)
{
    const rmi_ref_task *t = &w->m->tasks[task];
    uint64_t least = RMI_INF;
    uint32_t k;
    if (w->link && t->way == RMI_OPT && w->m->g->tensors[t->id].opt_host != RMI_INF) return 0;
    if (t->way != RMI_BWD) return w->ns[t->acc0];
    for (k = 0; k < w->m->n_modes[t->id]; k++) least = rmi_min(least, rmi_bnd_mode_ns(w, task, k));
    return least == RMI_INF ? 0 : least;
}

RMI_FN rm_result rmi_bnd_put_pred(rmi_bnd *w, uint32_t p)
{
    if (!rmi_arena_grow(w->mem, (void **)&w->pred, &w->cap_pred, w->n_pred + 1, sizeof(uint32_t))) return RM_ERROR_MEMORY;
    w->pred[w->n_pred++] = p;
    return RM_OK;
}

#define RMI_BND_UP 48u

/* A backward that reads one thing in one mode and another in another: the forwards from which all of them come. */
RMI_FN rm_result rmi_bnd_either(rmi_bnd *w, uint32_t task)
{
    const rmi_ref_model *m = w->m;
    const rmi_ref_task *t = &m->tasks[task];
    uint32_t up[RMI_BND_UP], n, i, k, q, z, all[RMI_BND_UP], n_all = 0, mode;
    for (mode = 0, k = 0; k < m->n_modes[t->id]; k++) {
        const rmi_ref_acc *a = &m->accs[t->acc0 + k];
        if (w->ns[t->acc0 + k] == RMI_INF) continue;
        for (n = q = 0, i = 0; q < a->n_read || i < n;) {
            uint32_t from = RMI_NONE, p0 = 0, p1 = 1;
            if (q < a->n_read) {
                uint32_t u = m->pool[a->read0 + q++];
                if (!w->is_grad[u]) from = m->maker[u];
                if (from == RMI_NONE) continue;
            } else {
                p0 = w->pred0[up[i]];
                p1 = w->pred0[up[i++] + 1];
            }
            for (; p0 < p1; p0++) {
                uint32_t o = from != RMI_NONE ? from : w->pred[p0];
                for (z = 0; z < n && up[z] != o; z++) {}
                if (z == n && n < RMI_BND_UP) up[n++] = o;
            }
        }
        for (i = 0, z = 0; mode && i < n_all; i++) /* what all modes so far come from */
            for (q = 0; q < n; q++)
                if (all[i] == up[q]) {
                    all[z++] = all[i];
                    break;
                }
        if (mode) n_all = z;
        else memcpy(all, up, (n_all = n) * sizeof *up);
        mode = 1;
    }
    for (i = 0; i < n_all; i++) RMI_TRY(rmi_bnd_put_pred(w, all[i]));
    return RM_OK;
}

/* What surely runs before each task, directly. */
RMI_FN rm_result rmi_bnd_preds(rmi_bnd *w)
{
    const rmi_ref_model *m = w->m;
    uint32_t i, q, k;
    for (i = 0; i < m->n_tasks; i++) {
        const rmi_ref_task *t = &m->tasks[i];
        const rmi_ref_acc *a = &m->accs[t->acc0];
        w->pred0[i] = (uint32_t)w->n_pred;
        for (k = 0; k < t->n_dep; k++) /* a backward's deps among forwards are of some modes only */
            if (t->way != RMI_BWD || m->tasks[m->deps[t->dep0 + k]].way != RMI_FWD) RMI_TRY(rmi_bnd_put_pred(w, m->deps[t->dep0 + k]));
        for (q = 0; q < a->n_read && t->way <= RMI_BWD; q++) {
            uint32_t u = m->pool[a->read0 + q];
            if (w->is_grad[u] || m->maker[u] == RMI_NONE || (t->way == RMI_BWD && !rmi_bnd_always(w, i, w->root[u]))) continue;
            if (w->root[u] != m->n_buf && m->maker[w->root[u]] != RMI_NONE) RMI_TRY(rmi_bnd_put_pred(w, m->maker[w->root[u]]));
            if (m->maker[u] != i && t->way == RMI_FWD) RMI_TRY(rmi_bnd_put_pred(w, m->maker[u]));
        }
        if (t->way == RMI_BWD && m->n_modes[t->id] > 1) RMI_TRY(rmi_bnd_either(w, i));
    }
    w->pred0[i] = (uint32_t)w->n_pred;
    return RM_OK;
}

RMI_FN uint32_t rmi_bnd_find(uint32_t *group, uint32_t b)
{
    while (group[b] != b) b = group[b] = group[group[b]];
    return b;
}

/* By buffer: roots, bytes, gradients that may be names of the same bytes. */
RMI_FN void rmi_bnd_buffers(rmi_bnd *w)
{
    const rmi_ref_model *m = w->m;
    const rm_graph *g = m->g;
    uint32_t i, k, q, b;
    for (b = 0; b <= m->n_buf; b++) {
        w->root[b] = w->group[b] = b;
        w->bytes[b] = b < m->n_buf ? m->bytes[b] : 0;
    }
    for (i = 0; i < g->n_tensors; i++) {
        if ((b = m->compact[rmi_low_buf(g, RMI_BUF_GRAD, i)]) != RMI_NONE) w->is_grad[b] = g->tensors[i].kind == RMI_PARAM ? 2 : 1;
        if ((b = m->compact[i]) != RMI_NONE) w->root[b] = m->compact[g->tensors[i].root] == RMI_NONE ? m->n_buf : m->compact[g->tensors[i].root];
    }
    for (i = 0; i < m->n_tasks; i++) {
        const rmi_ref_task *t = &m->tasks[i];
        for (k = 0; k < (t->way <= RMI_BWD ? m->n_modes[t->id] : 0u); k++) {
            const rmi_ref_acc *a = &m->accs[t->acc0 + k];
            if (a->saved != RMI_NONE) w->bytes[a->saved] = w->bytes[a->saved] ? rmi_min(w->bytes[a->saved], a->saved_bytes) : a->saved_bytes;
            for (q = 0; q < a->n_write && t->way == RMI_BWD; q++) {
                const rmi_ref_target *y = &m->targets[a->write0 + q];
                if (y->share && a->dout != RMI_NONE) w->group[rmi_bnd_find(w->group, y->buf)] = rmi_bnd_find(w->group, a->dout);
            }
        }
    }
    memset(w->flag, 0, m->n_buf + 1u);
    for (b = 0; b < m->n_buf; b++)
        if (rmi_bnd_find(w->group, b) != b) w->flag[b] = w->flag[rmi_bnd_find(w->group, b)] = 1;
    for (b = 0; b < m->n_buf; b++) w->group[b] = rmi_bnd_find(w->group, b);
    for (b = 0; b <= m->n_buf; b++)
        if (!w->flag[b]) w->group[b] = RMI_NONE;
    memset(w->flag, 0, m->n_buf + 1u);
    for (i = 0; i < m->n_stay; i++) w->stays[m->stay[i]] = 1;
}

/* RM_ERROR_GRAPH: parts or modes that the model does not know in full, or numbers near the limit; nothing is said then. */
RMI_FN rm_result rmi_bnd_make(rmi_arena *mem, const rmi_ref_model *m, uint64_t limit, rmi_bnd *w)
{
    const rm_graph *g = m->g;
    uint8_t *read = RMI_NEW(mem, uint8_t, g->n_tensors);
    uint32_t nb = m->n_buf + 1, i, f;
    uint64_t sum = 0;
    memset(w, 0, sizeof *w);
    w->m = m;
    w->mem = mem;
    w->limit = limit;
    w->root = RMI_NEW(mem, uint32_t, nb);
    w->group = RMI_NEW(mem, uint32_t, nb);
    w->is_grad = RMI_NEW(mem, uint8_t, nb);
    w->stays = RMI_NEW(mem, uint8_t, nb);
    w->bytes = RMI_NEW(mem, uint64_t, nb);
    w->must = RMI_NEW(mem, uint8_t, g->n_ops);
    w->first = RMI_NEW(mem, uint64_t, g->n_ops);
    w->again = RMI_NEW(mem, uint64_t, g->n_ops);
    w->ns = RMI_NEW(mem, uint64_t, m->n_accs);
    w->pred0 = RMI_NEW(mem, uint32_t, m->n_tasks + 1u);
    w->before = RMI_NEW(mem, uint8_t, m->n_tasks);
    w->after = RMI_NEW(mem, uint8_t, m->n_tasks);
    w->there = RMI_NEW(mem, uint8_t, nb);
    w->flag = RMI_NEW(mem, uint8_t, nb);
    w->most = RMI_NEW(mem, uint64_t, nb);
    w->stamp = RMI_NEW(mem, uint32_t, nb);
    w->a_var = RMI_NEW(mem, uint32_t, nb);
    w->c_var = RMI_NEW(mem, uint32_t, g->n_ops);
    if (!read || !w->root || !w->group || !w->is_grad || !w->stays || !w->bytes || !w->must || !w->first || !w->again || !w->ns || !w->pred0) return RM_ERROR_MEMORY;
    if (!w->before || !w->after || !w->there || !w->flag || !w->most || !w->stamp || !w->a_var || !w->c_var) return RM_ERROR_MEMORY;
    for (i = 0; i < g->n_ops; i++) {
        for (f = 1; f < g->ops[i].n_forms; f++)
            if (g->ops[i].has_bwd && !rmi_low_same_parts(&g->ops[i].forms[0], &g->ops[i].forms[f])) return RM_ERROR_GRAPH;
        if (m->n_modes[i] == 255) return RM_ERROR_GRAPH;
    }
    for (i = 0; i < m->n_choices; i++) sum = rmi_add(sum, rmi_add(m->choices[i].ns, m->choices[i].ws));
    for (i = 0; i < m->n_buf; i++) sum = rmi_add(sum, m->bytes[i]);
    if (sum >= RMI_MAX / 4) return RM_ERROR_GRAPH; /* sums below need not be watched */
    rmi_bnd_must_run(g, m->step, w->must, read);
    rmi_bnd_buffers(w);
    rmi_bnd_times(w);
    return rmi_bnd_preds(w);
}

/* --- one moment */

/* What surely comes before and after run x. */
RMI_FN void rmi_bnd_around(rmi_bnd *w, uint32_t x)
{
    const rmi_ref_model *m = w->m;
    uint32_t i, k;
    w->x = x;
    memset(w->after, 0, m->n_tasks);
    memset(w->before, 0, m->n_tasks);
    w->before[x] = w->after[x] = 1;
    for (i = 0; i < m->n_keep; i++) {
        uint32_t t = m->keep[i];
        for (k = w->pred0[t]; k < w->pred0[t + 1] && !w->after[t]; k++) w->after[t] = w->after[w->pred[k]];
    }
    for (i = m->n_keep; i-- > 0;) {
        uint32_t t = m->keep[i];
        for (k = w->pred0[t]; k < w->pred0[t + 1] && w->before[t]; k++) w->before[w->pred[k]] = 1;
    }
    w->before[x] = w->after[x] = 0;
}

/* Gradients that are there when x runs: begun before and read later; those that x reads, and those that lie over nothing. */
RMI_FN uint64_t rmi_bnd_grads(rmi_bnd *w)
{
    const rmi_ref_model *m = w->m;
    uint32_t i, q, k, b;
    uint64_t sum = 0;
    memset(w->flag, 0, m->n_buf + 1u);
    for (i = m->g->n_ops; i < m->n_keep; i++) { /* bit 0: begun; bit 1: read later; bit 2: there */
        uint32_t task = m->keep[i];
        const rmi_ref_task *t = &m->tasks[task];
        const rmi_ref_acc *a = &m->accs[t->acc0];
        for (q = 0; q < a->n_read && (w->after[task] || task == w->x); q++)
            if (w->is_grad[b = m->pool[a->read0 + q]]) w->flag[b] |= task == w->x ? 4 : 2;
        for (q = 0; q < a->n_write && t->way == RMI_BWD && w->before[task]; q++) w->flag[m->targets[a->write0 + q].buf] |= 1;
        for (q = 0; q < a->n_write && t->way == RMI_BWD && task == w->x; q++) {
            int own = 1;
            for (k = 0; k < m->n_modes[t->id]; k++) {
                const rmi_ref_target *y = &m->targets[m->accs[t->acc0 + k].write0 + q];
                own &= !y->n_over && !y->rename;
            }
            if (own) w->flag[m->targets[a->write0 + q].buf] |= 4;
        }
    }
    memset(w->most, 0, (m->n_buf + 1u) * sizeof(uint64_t));
    for (b = 0; b < m->n_buf; b++) {
        if (!(w->flag[b] & 4) && w->link && w->is_grad[b] == 2) continue;
        if (!(w->flag[b] & 4) && !((w->flag[b] & 1) && ((w->flag[b] & 2) || w->stays[b]))) continue;
        if (w->group[b] == RMI_NONE) sum += w->bytes[b];
        else {
            uint64_t *most = &w->most[w->group[b]];
            sum += rmi_sub(w->bytes[b], *most);
            *most = rmi_max(*most, w->bytes[b]);
        }
    }
    return sum;
}

/* Is it a question whether value u (a root) is there after x? It was made before, and x does not hold it. */
RMI_FN int rmi_bnd_open(const rmi_bnd *w, uint32_t u)
{
    return u != w->m->n_buf && w->bytes[u] && !w->there[u] && !w->is_grad[u] && (w->m->maker[u] == RMI_NONE || w->before[w->m->maker[u]]);
}

/* Does the task surely run after x, reading values? */
RMI_FN int rmi_bnd_later(const rmi_bnd *w, uint32_t task)
{
    const rmi_ref_task *t = &w->m->tasks[task];
    return w->after[task] && (!w->upto || w->upto[task]) && (t->way == RMI_BWD || (t->way == RMI_FWD && w->must[t->id] && w->m->g->ops[t->id].view == RMI_NONE));
}

/* Looks at moment x: what is before and after, what it holds, what is read later. 0: it is no moment of every plan. */
RMI_FN int rmi_bnd_look(rmi_bnd *w, uint32_t x)
{
    const rmi_ref_model *m = w->m;
    const rmi_ref_task *t = &m->tasks[x];
    const rmi_ref_acc *a = &m->accs[t->acc0];
    uint32_t i, q, f;
    uint64_t over = 0;
    if (t->way > RMI_BWD || (t->way == RMI_FWD && (!w->must[t->id] || m->g->ops[t->id].view != RMI_NONE))) return 0;
    rmi_bnd_around(w, x);
    memset(w->there, 0, m->n_buf + 1u);
    w->forced = rmi_bnd_grads(w);
    for (q = 0; q < a->n_read + (t->way == RMI_FWD ? a->n_write : 0); q++) {
        uint32_t u = w->root[q < a->n_read ? m->pool[a->read0 + q] : m->pool[a->write0 + q - a->n_read]];
        if (w->there[u] || w->is_grad[u] || !rmi_bnd_always(w, x, u) || (q >= a->n_read && u == m->n_buf)) continue;
        w->there[u] = 1;
        w->forced += w->bytes[u];
    }
    for (f = 0; f < m->g->ops[t->id].n_forms && t->way == RMI_FWD; f++) { /* output 0 may take over an input */
        uint32_t in = m->g->ops[t->id].forms[f].inplace;
        if (in != RMI_NONE) over = rmi_max(over, rmi_min(m->g->tensors[in].bytes, m->g->tensors[m->g->ops[t->id].out.at[0]].bytes));
    }
    w->forced = rmi_sub(w->forced, over);
    w->wanted = 0;
    w->turn++;
    for (i = 0; i < m->n_keep; i++) {
        if (!rmi_bnd_later(w, m->keep[i])) continue;
        a = &m->accs[m->tasks[m->keep[i]].acc0];
        for (q = 0; q < a->n_read; q++) {
            uint32_t u = w->root[m->pool[a->read0 + q]];
            if (w->stamp[u] == w->turn || !rmi_bnd_open(w, u)) continue;
            w->stamp[u] = w->turn;
            w->wanted += w->bytes[u];
        }
    }
    return 1;
}

/* --- the network of one moment */

RMI_FN rm_result rmi_bnd_link(rmi_bnd *w, uint32_t from, uint32_t to, uint64_t ns, uint64_t bytes)
{
    uint32_t k;
    if (!rmi_arena_grow(w->mem, (void **)&w->arc, &w->cap_arc, w->n_arc + 2, sizeof(rmi_bnd_arc))) return RM_ERROR_MEMORY;
    for (k = 0; k < 2; k++) {
        rmi_bnd_arc *a = &w->arc[w->n_arc];
        uint32_t at = k ? to : from;
        a->to = k ? from : to;
        a->ns = k ? 0 : ns;
        a->bytes = k ? 0 : bytes;
        a->next = w->head[at];
        w->head[at] = (uint32_t)w->n_arc++;
    }
    return RM_OK;
}

/* A term: (ns + lambda * bytes) if literal p is true and literal q is not. Literal 0 is true, 1 is false. */
RMI_FN rm_result rmi_bnd_term(rmi_bnd *w, uint32_t p, uint32_t q, uint64_t ns, uint64_t bytes)
{
    RMI_TRY(rmi_bnd_link(w, p, q, ns, bytes));
    return w->twice ? rmi_bnd_link(w, q ^ 1, p ^ 1, ns, bytes) : RM_OK;
}

RMI_FN rm_result rmi_bnd_new_var(rmi_bnd *w, uint32_t *var)
{
    *var = w->n_node;
    w->n_node += 2;
    if (!rmi_arena_grow(w->mem, (void **)&w->head, &w->cap_head, w->n_node, sizeof(uint32_t))) return RM_ERROR_MEMORY;
    w->head[*var] = w->head[*var + 1] = RMI_NONE;
    if (!rmi_arena_grow(w->mem, (void **)&w->left, &w->cap_left, w->n_node / 2, 1) || !rmi_arena_grow(w->mem, (void **)&w->right, &w->cap_right, w->n_node / 2, 1)) return RM_ERROR_MEMORY;
    if (!rmi_arena_grow(w->mem, (void **)&w->fix, &w->cap_fix, w->n_node / 2, sizeof(uint32_t))) return RM_ERROR_MEMORY;
    w->fix[*var / 2] = RMI_NONE;
    return RM_OK;
}

/* Does every mode of a pair read what the other reads? */
RMI_FN int rmi_bnd_covers(const rmi_bnd *w, const rmi_ref_acc *more, const rmi_ref_acc *less)
{
    uint32_t q;
    for (q = 0; q < less->n_read; q++) {
        uint32_t u = w->root[w->m->pool[less->read0 + q]];
        if (rmi_bnd_open(w, u) && !rmi_bnd_reads(w, more, u)) return 0;
    }
    return 1;
}

/* The two modes of a backward that are kept apart, the best one (of rank 0), and the best of those that read anything else; and
   the least time of all others, which then read nothing. */
RMI_FN void rmi_bnd_modes(const rmi_bnd *w, uint32_t task, uint32_t *mode, uint64_t *ns)
{
    const rmi_ref_model *m = w->m;
    const rmi_ref_task *t = &m->tasks[task];
    uint32_t k, r, z;
    for (r = 0; r < 3; r++) {
        mode[r] = RMI_NONE;
        ns[r] = RMI_INF;
        for (k = 0; k < m->n_modes[t->id]; k++) {
            uint64_t least = rmi_bnd_mode_ns(w, task, k);
            int plain = least >= ns[r];
            for (z = 0; z < r && !plain && mode[z] != RMI_NONE; z++) plain = mode[z] == k || rmi_bnd_covers(w, &m->accs[t->acc0 + k], &m->accs[t->acc0 + mode[z]]);
            if (plain) continue;
            mode[r] = k;
            ns[r] = least;
        }
    }
}

/* What a later backward reads. Two modes: z false takes the first, true the second; y before z is true without z in a third. */
RMI_FN rm_result rmi_bnd_demand(rmi_bnd *w, uint32_t task)
{
    const rmi_ref_model *m = w->m;
    const rmi_ref_task *t = &m->tasks[task];
    uint32_t mode[3] = {0, RMI_NONE, RMI_NONE}, q, r, y = 0, z = 0;
    uint64_t ns[3] = {0, RMI_INF, RMI_INF};
    if (t->way == RMI_BWD) rmi_bnd_modes(w, task, mode, ns);
    if (mode[0] == RMI_NONE) return RM_OK;
    w->common += ns[0];
    if (mode[1] != RMI_NONE) {
        RMI_TRY(rmi_bnd_new_var(w, &y));
        z = y;
        if (mode[2] != RMI_NONE) RMI_TRY(rmi_bnd_new_var(w, &z));
        if (mode[2] != RMI_NONE) RMI_TRY(rmi_bnd_term(w, y, z, ns[2] - ns[0], 0));
        RMI_TRY(rmi_bnd_term(w, z, 1, ns[1] - ns[0], 0));
    }
    for (r = 0; r < 2 && mode[r] != RMI_NONE; r++) {
        const rmi_ref_acc *a = &m->accs[t->acc0 + mode[r]];
        w->turn++;
        for (q = 0; q < a->n_read; q++) {
            uint32_t u = w->root[m->pool[a->read0 + q]];
            if (w->stamp[u] == w->turn || !rmi_bnd_open(w, u)) continue;
            w->stamp[u] = w->turn;
            if (rmi_bnd_always(w, task, u)) {
                if (!r) RMI_TRY(rmi_bnd_term(w, 0, w->a_var[u], RMI_INF, 0));
            } else RMI_TRY(rmi_bnd_term(w, r ? z : y ^ 1, w->a_var[u], RMI_INF, 0));
        }
    }
    return RM_OK;
}

/* Op o, made before x: a repeat takes time and wants what it reads; what it makes is kept, unless it repeats. */
RMI_FN rm_result rmi_bnd_repeat(rmi_bnd *w, uint32_t o)
{
    const rmi_ref_model *m = w->m;
    const rmi_ref_acc *a = &m->accs[m->tasks[o].acc0];
    uint32_t q, saved = m->compact[rmi_low_buf(m->g, RMI_BUF_SAVED, o)], c = 1;
    if (!m->tasks[o].fixed) {
        RMI_TRY(rmi_bnd_new_var(w, &w->c_var[o]));
        c = w->c_var[o];
        RMI_TRY(rmi_bnd_term(w, c, 1, w->again[o], 0));
    }
    for (q = 0; q <= a->n_write; q++) {
        uint32_t u = q < a->n_write ? w->root[m->pool[a->write0 + q]] : saved;
        if (u == RMI_NONE || !rmi_bnd_open(w, u)) continue;
        RMI_TRY(rmi_bnd_new_var(w, &w->a_var[u]));
        RMI_TRY(rmi_bnd_term(w, w->a_var[u], c, 0, w->bytes[u]));
    }
    w->turn++;
    for (q = 0; q < a->n_read && c != 1; q++) {
        uint32_t u = w->root[m->pool[a->read0 + q]];
        if (w->stamp[u] == w->turn || !rmi_bnd_open(w, u)) continue;
        w->stamp[u] = w->turn;
        RMI_TRY(rmi_bnd_term(w, c, w->a_var[u], RMI_INF, 0));
    }
    return RM_OK;
}

RMI_FN rm_result rmi_bnd_net(rmi_bnd *w)
{
    const rmi_ref_model *m = w->m;
    uint32_t i, k;
    uint64_t sum = 0, bytes = 0;
    w->n_arc = 0;
    w->twice = 0;
    w->n_node = 0;
    RMI_TRY(rmi_bnd_new_var(w, &k)); /* true and false */
    for (i = 0; i < m->n_keep; i++) w->twice |= w->after[m->keep[i]] && m->tasks[m->keep[i]].way == RMI_BWD && m->n_modes[m->tasks[m->keep[i]].id] > 1;
    w->common = 0;
    for (i = 0; i < m->n_keep; i++) {
        uint32_t task = m->keep[i], o = m->tasks[task].id;
        if (task == w->x) continue;
        if (m->tasks[task].way == RMI_FWD) w->common += w->before[task] || w->must[o] ? w->first[o] : 0;
        else if (m->tasks[task].way != RMI_BWD || !rmi_bnd_later(w, task)) w->common += rmi_bnd_least(w, task);
    }
    for (k = 0; k < m->n_start; k++) {
        uint32_t u = w->root[m->start[k]];
        if (!rmi_bnd_open(w, u)) continue;
        RMI_TRY(rmi_bnd_new_var(w, &w->a_var[u]));
        RMI_TRY(rmi_bnd_term(w, w->a_var[u], 1, 0, w->bytes[u]));
    }
    for (i = 0; i < m->n_keep; i++) {
        uint32_t task = m->keep[i];
        if (m->tasks[task].way == RMI_FWD && w->before[task] && m->g->ops[m->tasks[task].id].view == RMI_NONE) RMI_TRY(rmi_bnd_repeat(w, m->tasks[task].id));
    }
    for (i = 0; i < m->n_keep; i++)
        if (rmi_bnd_later(w, m->keep[i])) RMI_TRY(rmi_bnd_demand(w, m->keep[i]));
    for (i = 0; i < m->n_stay && !w->upto; i++) {
        uint32_t u = w->root[m->stay[i]];
        if (rmi_bnd_open(w, u)) RMI_TRY(rmi_bnd_term(w, 0, w->a_var[u], RMI_INF, 0));
    }
    for (i = 0; i < w->n_arc; i++) {
        if (w->arc[i].ns != RMI_INF) sum = rmi_add(sum, w->arc[i].ns);
        bytes += w->arc[i].bytes;
    }
    for (w->up = 0; sum && sum << w->up < (uint64_t)1 << 44; ) w->up++;
    for (w->down = 0; sum >> w->down >= (uint64_t)1 << 50; ) w->down++;
    w->most_price = (((uint64_t)1 << 58) / ((bytes >> 20) + 1));
    w->all = sum >> w->down << w->up;
    return rmi_arena_grow(w->mem, (void **)&w->level, &w->cap_level, w->n_node, sizeof(uint32_t)) && rmi_arena_grow(w->mem, (void **)&w->at, &w->cap_at, w->n_node, sizeof(uint32_t)) &&
                   rmi_arena_grow(w->mem, (void **)&w->queue, &w->cap_queue, w->n_node, sizeof(uint32_t)) && rmi_arena_grow(w->mem, (void **)&w->path, &w->cap_path, w->n_node, sizeof(uint32_t))
               ? RM_OK
               : RM_ERROR_MEMORY;
}

/* Distances from the source over arcs with room. */
RMI_FN int rmi_bnd_levels(rmi_bnd *w)
{
    uint32_t i, n = 0, e;
    for (i = 0; i < w->n_node; i++) w->level[i] = RMI_NONE;
    w->level[0] = 0;
    w->queue[n++] = 0;
    for (i = 0; i < n && w->level[1] == RMI_NONE; i++)
        for (e = w->head[w->queue[i]]; e != RMI_NONE; e = w->arc[e].next) {
            w->work++;
            if (!w->arc[e].cap || w->level[w->arc[e].to] != RMI_NONE) continue;
            w->level[w->arc[e].to] = w->level[w->queue[i]] + 1;
            w->queue[n++] = w->arc[e].to;
        }
    return w->level[1] != RMI_NONE;
}

/* Maximum flow (Dinic). */
RMI_FN uint64_t rmi_bnd_flow(rmi_bnd *w)
{
    uint64_t total = 0;
    while (w->work <= w->most_work && rmi_bnd_levels(w)) {
        uint32_t v = 0, depth = 0, k;
        memcpy(w->at, w->head, w->n_node * sizeof(uint32_t));
        for (;;) {
            uint32_t e = w->at[v];
            while (v != 1 && e != RMI_NONE && (!w->arc[e].cap || w->level[w->arc[e].to] != w->level[v] + 1)) {
                w->work++;
                e = w->at[v] = w->arc[e].next;
            }
            if (v == 1) {
                uint64_t least = RMI_INF;
                for (k = 0; k < depth; k++) least = rmi_min(least, w->arc[w->path[k]].cap);
                if (least >= (uint64_t)1 << 60) return RMI_INF;
                total += least;
                for (k = depth; k-- > 0;) {
                    w->arc[w->path[k]].cap -= least;
                    w->arc[w->path[k] ^ 1].cap += least;
                    if (!w->arc[w->path[k]].cap) depth = k;
                }
                w->work += depth;
                v = w->arc[w->path[depth] ^ 1].to;
            } else if (e == RMI_NONE) {
                if (!depth) break;
                w->level[v] = RMI_NONE;
                v = w->arc[w->path[--depth] ^ 1].to;
            } else {
                w->path[depth++] = e;
                v = w->arc[e].to;
            }
        }
    }
    return total;
}

RMI_FN uint64_t rmi_bnd_units(const rmi_bnd *w, uint64_t ns) { return ns >> w->down << w->up; }

/* One price, in 2^-20 units a byte: a tangent of the value, units + bytes * price, twice; returns the value itself, twice. */
typedef struct rmi_bnd_line {
    uint64_t units, bytes;
} rmi_bnd_line;

RMI_FN uint64_t rmi_bnd_at(rmi_bnd *w, uint64_t price, rmi_bnd_line *line)
{
    uint64_t flow;
    uint32_t i;
    for (i = 0; i < w->n_arc; i++) {
        rmi_bnd_arc *a = &w->arc[i];
        a->cap = a->ns == RMI_INF ? (uint64_t)1 << 62 : rmi_bnd_units(w, a->ns) + (a->bytes ? rmi_ref_scale(a->bytes, price) : 0);
    }
    for (i = w->here; w->node && w->node[i].parent != RMI_NONE; i = w->node[i].parent) {
        uint32_t v = w->node[i].literal, e = w->fix[v / 2] + (v & 1 ? 2u << w->twice : 0);
        w->arc[e].cap = (uint64_t)1 << 62;
        if (w->twice) w->arc[e + 2].cap = (uint64_t)1 << 62;
    }
    flow = rmi_bnd_flow(w);
    line->units = line->bytes = 0;
    if (flow == RMI_INF) return flow;
    for (i = 0; i < w->n_arc; i += 2)
        if (w->level[w->arc[i + 1].to] != RMI_NONE && w->level[w->arc[i].to] == RMI_NONE) {
            line->units += rmi_bnd_units(w, w->arc[i].ns);
            line->bytes += w->arc[i].bytes;
        }
    if (!w->twice) {
        flow *= 2;
        line->units *= 2;
        line->bytes *= 2;
    }
    return flow;
}

/* Twice the variables of the last cut. */
RMI_FN void rmi_bnd_note(const rmi_bnd *w, uint8_t *to)
{
    uint32_t i;
    for (i = 1; i < w->n_node / 2; i++) to[i] = (uint8_t)(w->twice ? (w->level[2 * i] != RMI_NONE) + (w->level[2 * i + 1] == RMI_NONE) : 2 * (w->level[2 * i] != RMI_NONE));
}

/* The best price: the value is concave, so where two tangents meet is the next one to try. Twice the value, in units, RMI_INF if
   nothing fits; w->price is the price. *exact: the value is that of a choice of variables that fits. */
RMI_FN uint64_t rmi_bnd_prices(rmi_bnd *w, uint64_t room, uint32_t turns, int *exact)
{
    uint64_t price = w->price ? w->price : 1, v, best = 0, top = RMI_INF;
    rmi_bnd_line left, right, now;
    int has_right = 0;
    left.units = right.units = right.bytes = 0;
    left.bytes = RMI_INF;
    *exact = 0;
    while (turns--) {
        v = rmi_bnd_at(w, price, &now);
        if (v == RMI_INF) return v;
        v = rmi_sub(v, rmi_mul(rmi_add(rmi_ref_scale(room, price), 1), 2));
        if (v > best) w->price = price;
        best = rmi_max(best, v);
        if (best > 2 * w->all + 4) return RMI_INF;
        if (w->work > w->most_work) break;
        if (now.bytes > 2 * room) { /* the price is too low */
            if (has_right && left.bytes != RMI_INF && now.units <= left.units && now.bytes >= left.bytes) break;
            left = now;
            rmi_bnd_note(w, w->left);
            if (!has_right) {
                if (price >= w->most_price) break;
                price = rmi_min(price * 8, w->most_price);
                continue;
            }
        } else {
            if (has_right && now.units >= right.units && now.bytes <= right.bytes) break;
            right = now;
            rmi_bnd_note(w, w->right);
            has_right = 1;
            if (left.bytes == RMI_INF) {
                if (price == 1 || !now.units || price >= top) break;
                top = price;
                price = price / 8 + 1;
                continue;
            }
        }
        if (right.units <= left.units || left.bytes <= right.bytes) break;
        v = rmi_mul_div_up(right.units - left.units, (uint64_t)1 << 20, left.bytes - right.bytes);
        if (v == price || v > w->most_price || left.units + rmi_ref_scale(left.bytes - 2 * room, v) < w->beat) break;
        price = rmi_max(v, 1);
    }
    if (left.bytes == RMI_INF) memcpy(w->left, w->right, w->n_node / 2);
    if (!has_right) memcpy(w->right, w->left, w->n_node / 2);
    *exact = has_right && right.units <= best + best / 65536; /* as good as: what is left is rounding */
    return best;
}

/* --- branching: the relaxation leaves variables between 0 and 1, and the price lets parts of values be there */

/* The variable in doubt that is worth most. */
RMI_FN uint32_t rmi_bnd_doubt(const rmi_bnd *w)
{
    uint32_t i, e, best = RMI_NONE;
    uint64_t most = 0;
    for (i = 1; i < w->n_node / 2; i++) {
        uint64_t worth = 1;
        if (w->left[i] == w->right[i] && w->left[i] != 1) continue;
        for (e = w->head[2 * i]; e != RMI_NONE; e = w->arc[e].next)
            if (!(e & 1) && w->arc[e].to == 1 && w->arc[e].ns != RMI_INF) worth += rmi_bnd_units(w, w->arc[e].ns) + rmi_ref_scale(w->arc[e].bytes, w->price);
        if (worth <= most) continue;
        most = worth;
        best = 2 * i;
    }
    return best;
}

/* What x takes of time and workspace: only choices that are not worse in both. */
RMI_FN uint32_t rmi_bnd_own(const rmi_bnd *w, uint32_t skip, uint64_t *ns, uint64_t *ws)
{
    const rmi_ref_model *m = w->m;
    const rmi_ref_task *t = &m->tasks[w->x];
    uint64_t last = RMI_INF;
    uint32_t n, k, q;
    for (n = 0;; n++) { /* the n-th fastest of those with less workspace than all that are faster */
        *ns = *ws = RMI_INF;
        for (k = 0; k < m->n_modes[t->id]; k++) {
            const rmi_ref_acc *a = &m->accs[t->acc0 + k];
            for (q = 0; q < a->n_free[0]; q++) {
                const rmi_ref_choice *c = &m->choices[a->free0[0] + q];
                uint64_t t_ns = t->way == RMI_BWD && a->may_be_free ? 0 : c->ns;
                if (c->ws >= last || t_ns > *ns || (t_ns == *ns && c->ws >= *ws)) continue;
                *ns = t_ns;
                *ws = c->ws;
            }
        }
        if (*ns == RMI_INF) return 0;
        last = *ws;
        if (n == skip) return 1;
    }
}

RMI_FN rm_result rmi_bnd_visit(rmi_bnd *w, rmi_bnd_node *node, uint32_t i, uint32_t turns)
{
    uint64_t ns, ws, room;
    uint32_t v;
    int exact = 0;
    w->node = node;
    w->here = i;
    rmi_bnd_own(w, node[i].own, &ns, &ws);
    w->price = node[i].price;
    room = rmi_sub(w->limit, w->forced + ws);
    v = node[i].parent == RMI_NONE ? RMI_NONE : node[i].literal;
    if (v != RMI_NONE && w->fix[v / 2] == RMI_NONE) {
        w->fix[v / 2] = (uint32_t)w->n_arc;
        RMI_TRY(rmi_bnd_term(w, 0, v & ~1u, 0, 0));
        RMI_TRY(rmi_bnd_term(w, v & ~1u, 1, 0, 0));
    }
    node[i].value = w->forced + ws > w->limit ? RMI_INF : rmi_add(rmi_bnd_prices(w, room, turns, &exact), 2 * rmi_bnd_units(w, ns));
    if (v != RMI_NONE) node[i].value = rmi_max(node[i].value, node[node[i].parent].value);
    node[i].price = w->price;
    node[i].branch = exact || node[i].value == RMI_INF ? RMI_NONE : rmi_bnd_doubt(w);
    node[i].open = 1;
    return RM_OK;
}

#define RMI_BND_NODES 2048u

/* The bound at moment x, in ns; nodes: how many branchings it may take, work allowing. */
RMI_FN rm_result rmi_bnd_moment(rmi_bnd *w, uint32_t x, uint32_t nodes, rmi_bnd_node *node, const uint64_t *best, uint64_t *bound)
{
    uint64_t ns, ws, hint = w->price;
    uint32_t n = 0, i, k, at = 0;
    *bound = 0;
    if (!rmi_bnd_look(w, x)) return RM_OK;
    RMI_TRY(rmi_bnd_net(w));
    for (k = 0; k < 8 && rmi_bnd_own(w, k, &ns, &ws); k++) {
        node[n].parent = RMI_NONE;
        node[n].own = k;
        node[n].price = hint;
        w->beat = rmi_sub(2 * rmi_bnd_units(w, rmi_sub(*best, w->common)), 2 * rmi_bnd_units(w, ns));
        RMI_TRY(rmi_bnd_visit(w, node, n, 40));
        if (node[n].value != RMI_INF) hint = node[n].price;
        n++;
    }
    if (!n) return RM_OK;
    if (k == 8) node[k - 1].value = rmi_min(node[k - 1].value, 2 * rmi_bnd_units(w, rmi_bnd_least(w, x))); /* more choices than looked at */
    for (;;) {
        for (i = 0, at = RMI_NONE; i < n; i++)
            if (node[i].open && (at == RMI_NONE || node[i].value < node[at].value)) at = i;
        if (node[at].branch == RMI_NONE || n + 2 > nodes || w->work > w->most_work) break;
        node[at].open = 0;
        for (k = 0; k < 2; k++, n++) {
            node[n].parent = at;
            node[n].own = node[at].own;
            node[n].price = node[at].price;
            node[n].literal = node[at].branch | k;
            w->beat = 0;
            RMI_TRY(rmi_bnd_visit(w, node, n, 6));
        }
    }
    w->price = hint;
    w->beat = 0;
    *bound = node[at].value == RMI_INF ? 0 : w->common + ((node[at].value / 2) >> w->up << w->down);
    return RM_OK;
}

/* Bytes, the model's base included, that no plan can do with less of: at each moment what its run holds, gradients that are begun
   and read later, and what is read later and cannot be made again. Of large graphs the moments whose runs hold most. */
RMI_FN rm_result rmi_bnd_least_bytes(rmi_arena *mem, const rmi_ref_model *m, uint64_t *bytes)
{
    rmi_bnd w;
    uint32_t i, k, q, step = m->n_keep / (m->n_keep > 2000 ? 64 : 256) + 1;
    rm_result r = rmi_bnd_make(mem, m, RMI_MAX, &w);
    if (r != RM_OK) return r == RM_ERROR_GRAPH ? RM_OK : r;
    for (i = 0; i < m->n_keep; i += step) {
        uint32_t at = i;
        uint64_t most = 0, ns, ws, least = RMI_INF, kept = 0;
        for (k = i; k < i + step && k < m->n_keep; k++) {
            uint64_t held = rmi_bnd_held(&w, m->keep[k], 0);
            if (held > most) at = k;
            most = rmi_max(most, held);
        }
        if (!rmi_bnd_look(&w, m->keep[at])) continue;
        for (k = 0; rmi_bnd_own(&w, k, &ns, &ws); k++) least = ws;
        w.turn++;
        for (k = 0; k < m->n_keep; k++) {
            uint32_t task = m->keep[k];
            const rmi_ref_acc *a = &m->accs[m->tasks[task].acc0];
            for (q = 0; q < a->n_read && rmi_bnd_later(&w, task); q++) {
                uint32_t u = w.root[m->pool[a->read0 + q]];
                if (w.stamp[u] == w.turn || !rmi_bnd_open(&w, u) || (m->maker[u] != RMI_NONE && !m->tasks[m->maker[u]].fixed) || !rmi_bnd_always(&w, task, u)) continue;
                w.stamp[u] = w.turn;
                kept += w.bytes[u];
            }
        }
        if (least != RMI_INF) *bytes = rmi_max(*bytes, m->base + w.forced + least + kept);
    }
    return RM_OK;
}

/* --- with a link. Values that are read after x and not made again are on the device when x starts, or went out over d2h before x
   in this step and come back over h2d after it. Params that are read after x are on the device then or come in after x; those that
   do not fit at the start come in for the forward as well. What a backward changes for the next step (a gradient that is handed on,
   a param that gets an update) is on the device when the next x starts, or it, or the gradient that it comes from, went out. With y, a
   run that is surely after x, repeats count that what comes before y reads; what y and later runs change went out between y and the
   next x, as values did. Steps do not overlap on the compute lane: of a step's time T, at least the runs between x and y and the
   repeats lie between x and y; x starts W after its step does, V >= what follows it is left, W + V = T.
   By linear duality, with prices b1, b2, c1, c2 on the links' capacities and a = b1 + b2 + c1 + c2 on the device,
       T (1 + b2 d2h + (c1 + c2) h2d) >= time(a) - a (limit - held) + (c1 + c2) params + c2 excess of params + b2 changed
                                         + b1 changed from y on - b1 d2h (all but x to y) + c1 h2d (all that surely precedes x)
   if b1 d2h <= 1 + c1 h2d. A price that is wrong costs tightness only. */
typedef struct rmi_bnd_traffic {
    uint64_t before, may; /* ns of compute that surely precede x; that may lie outside x to y */
    uint64_t params, start; /* bytes: read after x; read before x, above the limit */
    uint64_t grads, late;   /* changed for the next step: all; from y on */
} rmi_bnd_traffic;

/* Bytes of what persists that x holds: params and consts that it reads in every form, gradients of params that are no buffers of
   the model. seen: those params. */
RMI_FN uint64_t rmi_bnd_held_home(const rmi_bnd *w, uint8_t *seen)
{
    const rm_graph *g = w->m->g;
    const rmi_ref_task *t = &w->m->tasks[w->x];
    const rmi_op *op = &g->ops[t->id];
    uint64_t sum = 0;
    uint32_t k, f, v;
    memset(seen, 0, g->n_tensors);
    for (k = 0; k < op->in.n; k++) {
        uint32_t id = op->in.at[k];
        const rmi_tensor *x = &g->tensors[id];
        int reads = 1, grad = t->way == RMI_BWD && x->kind == RMI_PARAM && rmi_low_grads_resident(w->m->step);
        if ((x->kind != RMI_PARAM && x->kind != RMI_CONST) || x->external || seen[id]) continue;
        for (f = 0; f < op->n_forms && t->way == RMI_BWD; f++) {
            const rmi_part *p = &op->forms[f].parts[t->part];
            reads &= rmi_list_has(&p->needs, id);
            grad &= rmi_list_has(&p->grads, id) && !rmi_list_has(&op->share, id) && op->view != id;
            for (v = 0; v < op->forms[f].n_overs; v++) grad &= op->forms[f].overs[v].grad_of != id;
        }
        seen[id] = 1;
        sum += (reads ? x->bytes : 0) + (grad ? x->grad_bytes : 0);
    }
    return sum;
}

/* Bytes that are changed for the next step, beside those of params that x touches (seen); late: by what surely starts with y or
   after it (past), or NULL for all. */
RMI_FN uint64_t rmi_bnd_changed(const rmi_bnd *w, const uint8_t *seen, const uint8_t *past)
{
    const rmi_ref_model *m = w->m;
    const rm_graph *g = m->g;
    uint64_t sum = 0;
    uint32_t i, k, b;
    for (i = 0; i < g->n_tensors; i++) {
        const rmi_tensor *t = &g->tensors[i];
        int late = !past;
        if (t->kind != RMI_PARAM || !t->consumers.n || t->external || seen[i] || (m->step != RM_MIDDLE && !(t->updates && rmi_low_has_update(m->step)))) continue;
        for (k = 0; k < t->consumers.n && past; k++) {
            uint32_t o = t->consumers.at[k];
            for (b = 0; b < m->n_bwd[o]; b++) late |= past[m->bwd0[o] + b] && rmi_list_has(&g->ops[o].forms[0].parts[m->tasks[m->bwd0[o] + b].part].grads, i);
        }
        if (late) sum += m->step == RM_MIDDLE ? t->grad_bytes : rmi_min(t->grad_bytes, t->bytes);
    }
    return sum;
}

/* Bytes of params that are surely read after x, or by forwards before it. */
RMI_FN uint64_t rmi_bnd_params(const rmi_bnd *w, uint8_t *seen, int after)
{
    const rmi_ref_model *m = w->m;
    const rm_graph *g = m->g;
    uint64_t sum = 0;
    uint32_t i, k, f;
    memset(seen, 0, g->n_tensors);
    for (i = 0; i < m->n_keep; i++) {
        const rmi_ref_task *t = &m->tasks[m->keep[i]];
        const rmi_op *op;
        if (t->way != (after ? RMI_BWD : RMI_FWD) || !(after ? w->after : w->before)[m->keep[i]]) continue;
        op = &g->ops[t->id];
        for (k = 0; k < op->in.n; k++) {
            const rmi_tensor *x = &g->tensors[op->in.at[k]];
            if (x->kind != RMI_PARAM || x->external || seen[op->in.at[k]]) continue;
            for (f = 0; f < op->n_forms && (!after || rmi_list_has(&op->forms[f].parts[t->part].needs, op->in.at[k])); f++) {}
            if (f < op->n_forms) continue;
            seen[op->in.at[k]] = 1;
            sum += x->bytes;
        }
    }
    return sum;
}

/* Bytes that a lane moves in ns, at most. */
RMI_FN uint64_t rmi_bnd_moves(uint64_t ns, uint64_t per_second) { return rmi_mul_div_up(ns, per_second, 1000000000u); }

/* The best T for one price, over splits of it in quarters. */
RMI_FN uint64_t rmi_bnd_link_at(rmi_bnd *w, uint64_t price, const rmi_bnd_traffic *b)
{
    const rmi_link *l = &w->m->g->link;
    uint64_t ns, ws, own = RMI_INF, best = 0, time, unit = (uint64_t)1 << w->up, room;
    uint64_t in = rmi_min(rmi_sub(rmi_bnd_moves(b->before, l->h2d), 1), RMI_MAX / 64), out = rmi_bnd_moves(b->may, l->d2h);
    uint32_t k;
    rmi_bnd_line line;
    for (k = 0; k < 8 && rmi_bnd_own(w, k, &ns, &ws); k++) own = rmi_min(own, rmi_add(rmi_bnd_units(w, ns), rmi_ref_scale(ws, price)));
    if (k == 8) own = rmi_bnd_units(w, rmi_bnd_least(w, w->x));
    time = rmi_bnd_at(w, price, &line) / 2 + own;
    if (w->down || w->common >= ((uint64_t)1 << 60) >> w->up) return 0;
    time += w->common * unit;
    for (k = 0; k < 125; k++) { /* quarters: b1, b2, c1; the rest is c2 */
        uint64_t b1 = k % 5, b2 = k / 5 % 5, c1 = k / 25, c2, speed, gain, top, den;
        if (b1 + b2 + c1 > 4) continue;
        c2 = 4 - b1 - b2 - c1;
        if (b1 && rmi_mul_div_up(price, l->d2h / 4 * b1 + 4, 1000000000u) > rmi_mul(unit, 1u << 20)) continue;
        room = rmi_add(rmi_ref_scale(rmi_add(w->limit, rmi_mul(out / 4 + 1, b1)), price), 1);
        speed = l->d2h / 4 * b2 + l->h2d / 4 * (c1 + c2) + 8;
        gain = rmi_ref_scale((b->grads * b2 + in * c1 + b->params * (c1 + c2) + b->start * c2 + b->late * b1) / 4 + w->forced, price);
        top = rmi_sub(rmi_add(time, gain), room);
        den = rmi_add(rmi_mul(unit, 1u << 20), rmi_mul_div_up(price, speed, 1000000000u));
        if (den == RMI_INF || top >= (uint64_t)1 << 62) continue;
        best = rmi_max(best, rmi_sub(rmi_mul_div_up(top, 1u << 20, den), 1));
    }
    return best;
}

/* Prices moment x, with y or (RMI_NONE) without. scratch: two rows by task. */
RMI_FN rm_result rmi_bnd_link_moment(rmi_bnd *w, uint32_t x, uint32_t y, uint8_t *seen, uint8_t *scratch, uint64_t *bound)
{
    const rmi_ref_model *m = w->m;
    uint64_t price, best = 0, at = 0, within = 0, hi, lo;
    uint8_t *upto = scratch, *past = scratch + m->n_tasks;
    rmi_bnd_traffic b;
    uint32_t i;
    int exact;
    memset(&b, 0, sizeof b);
    w->upto = NULL;
    if (y != RMI_NONE) {
        rmi_bnd_around(w, y);
        if (!w->before[x]) return RM_OK;
        memcpy(upto, w->before, m->n_tasks);
        memcpy(past, w->after, m->n_tasks);
        past[y] = 1;
        w->upto = upto;
    }
    if (!rmi_bnd_look(w, x)) return RM_OK;
    for (i = 0; i < m->n_keep; i++) {
        uint32_t t = m->keep[i];
        uint64_t ns = m->tasks[t].way == RMI_FWD ? (w->must[m->tasks[t].id] || w->before[t] ? w->first[m->tasks[t].id] : 0) : rmi_bnd_least(w, t);
        if (w->before[t]) b.before += ns;
        if ((w->after[t] && (!w->upto || upto[t])) || t == x) within += ns;
        b.may += ns;
    }
    b.may = rmi_sub(b.may, within);
    b.params = rmi_bnd_params(w, seen, 1);
    b.start = rmi_sub(rmi_bnd_params(w, seen, 0), w->limit);
    w->forced += rmi_bnd_held_home(w, seen);
    b.grads = rmi_bnd_changed(w, seen, NULL);
    if (w->upto) b.late = rmi_bnd_changed(w, seen, past);
    b.params = rmi_min(b.params, RMI_MAX / 64);
    b.start = rmi_min(b.start, RMI_MAX / 64);
    b.grads = rmi_min(b.grads, RMI_MAX / 64);
    b.late = rmi_min(b.late, RMI_MAX / 64);
    RMI_TRY(rmi_bnd_net(w));
    w->node = NULL;
    w->beat = 0;
    rmi_bnd_prices(w, rmi_sub(rmi_add(w->limit, rmi_bnd_moves(b.may, m->g->link.d2h)), w->forced + b.late), 12, &exact);
    price = rmi_min(rmi_mul(rmi_mul_div_up((uint64_t)1 << w->up, 1000000000u, rmi_min(m->g->link.h2d, m->g->link.d2h)), 1u << 20), w->most_price); /* a byte costs the link's time */
    lo = rmi_min(w->price ? w->price : price, price) / 16 + 1;
    hi = rmi_min(rmi_mul(rmi_max(w->price, price), 64), w->most_price);
    for (price = lo; price <= hi && w->work <= w->most_work; price += price / 4 * 3 + 1) {
        uint64_t v = rmi_bnd_link_at(w, price, &b);
        if (v > best) at = price;
        best = rmi_max(best, v);
    }
    for (lo = at / 7 * 4, hi = rmi_min(at / 4 * 7, w->most_price); at && hi - lo > at / 256 && w->work <= w->most_work;) { /* ever narrower around the best */
        uint64_t third = (hi - lo) / 3, p = rmi_bnd_link_at(w, lo + third, &b), q = rmi_bnd_link_at(w, hi - third, &b);
        best = rmi_max(best, rmi_max(p, q));
        if (p < q) lo += third;
        else hi -= third;
    }
    *bound = rmi_max(*bound, best);
    return RM_OK;
}

typedef struct rmi_bnd_try {
    uint64_t key;  /* first what is missing: wanted + held - limit; then the bound */
    uint32_t at;   /* in keep */
} rmi_bnd_try;

RMI_FN int rmi_bnd_cmp(const void *a, const void *b, void *user)
{
    const rmi_bnd_try *x = (const rmi_bnd_try *)a, *y = (const rmi_bnd_try *)b;
    (void)user;
    return x->key != y->key ? (x->key > y->key ? -1 : 1) : x->at < y->at ? -1 : x->at > y->at;
}

#define RMI_BND_MOMENTS 48u
#define RMI_BND_PRICED 8u
#define RMI_BND_NEAR 32u

/* Bytes that are there at each place of the list that runs everything once. */
RMI_FN rm_result rmi_bnd_profile(rmi_bnd *w, uint64_t *live)
{
    const rmi_ref_model *m = w->m;
    uint32_t i, k, q, pass, *last = RMI_NEW(w->mem, uint32_t, m->n_buf + 1u), *first = RMI_NEW(w->mem, uint32_t, m->n_buf + 1u);
    if (!last || !first) return RM_ERROR_MEMORY;
    for (q = 0; q <= m->n_buf; q++) first[q] = RMI_NONE;
    for (i = 0; i < m->n_keep; i++) {
        const rmi_ref_task *t = &m->tasks[m->keep[i]];
        const rmi_ref_acc *a = &m->accs[t->acc0 + (t->way <= RMI_BWD ? m->keep_mode[t->id] : 0u)];
        uint64_t ws = a->n_free[0] ? m->choices[a->free0[0]].ws : 0;
        for (pass = 0; pass < 3; pass++)
            for (q = 0; q < (pass == 0 ? a->n_read : pass == 1 ? a->n_write : 1); q++) {
                uint32_t u = pass == 0 ? m->pool[a->read0 + q] : pass == 2 ? a->saved : t->way == RMI_FWD ? m->pool[a->write0 + q] : m->targets[a->write0 + q].buf;
                if (u == RMI_NONE) continue;
                u = w->root[u];
                if (first[u] == RMI_NONE) first[u] = m->maker[u] == RMI_NONE && !w->is_grad[u] ? 0 : i;
                last[u] = i;
            }
        live[i] += ws;
        live[i + 1] -= ws;
    }
    for (k = 0; k < m->n_stay; k++) last[w->root[m->stay[k]]] = m->n_keep - 1;
    for (q = 0; q < m->n_buf; q++) {
        if (first[q] == RMI_NONE) continue;
        live[first[q]] += w->bytes[q];
        live[last[q] + 1] -= w->bytes[q];
    }
    for (i = 1; i < m->n_keep; i++) live[i] += live[i - 1];
    return RM_OK;
}

/* Prices the moments where most is missing, of a sample, then neighbours of the best. tries: those that were priced, n of them. */
RMI_FN rm_result rmi_bnd_sample(rmi_bnd *w, rmi_bnd_node *node, rmi_bnd_try *tries, uint32_t *n_tries, uint64_t *bound)
{
    const rmi_ref_model *m = w->m;
    uint32_t i, k, n = 0, large = m->n_keep > 20000, step = m->n_keep / (large ? 12 : RMI_BND_MOMENTS) + 1, best = 0;
    uint64_t ns, ws, *live = RMI_NEW(w->mem, uint64_t, m->n_keep + 1u);
    if (!live) return RM_ERROR_MEMORY;
    RMI_TRY(rmi_bnd_profile(w, live));
    for (i = 0; i < m->n_keep; i += step) { /* of each stretch the moment at which keeping everything takes most */
        uint32_t at = i;
        for (k = i; k < i + step && k < m->n_keep; k++)
            if (live[k] > live[at]) at = k;
        if (!rmi_bnd_look(w, m->keep[at]) || !rmi_bnd_own(w, 0, &ns, &ws)) continue;
        tries[n].at = at;
        tries[n++].key = rmi_sub(w->wanted + w->forced + ws, w->limit);
    }
    rmi_sort(tries, n, sizeof *tries, rmi_bnd_cmp, NULL);
    for (k = 0; k < n && k < (large ? 2 : RMI_BND_PRICED) && w->work < w->most_work / 2 && (!k || tries[k].key); k++) {
        RMI_TRY(rmi_bnd_moment(w, m->keep[tries[k].at], 1, node, bound, &ns));
        if (tries[k].key == 0) step = 0; /* all fits everywhere */
        tries[k].key = ns;
        if (ns <= *bound) continue;
        *bound = ns;
        best = tries[k].at;
    }
    *n_tries = k;
    for (n = k, step = large ? 0 : (step + 1) / 2; step && w->work < w->most_work && n < k + RMI_BND_NEAR; step = (step + 1) / 2) {
        uint32_t from = best;
        for (i = 0; i < 2; i++) {
            uint32_t at = i ? from + step : from - step;
            if (at >= m->n_keep) continue;
            RMI_TRY(rmi_bnd_moment(w, m->keep[at], 1, node, bound, &ns));
            tries[n].at = at;
            tries[n++].key = ns;
            if (ns <= *bound) continue;
            *bound = ns;
            best = at;
        }
        *n_tries = n;
        if (step == 1 && best == from) break;
    }
    return RM_OK;
}

/* No plan within limit bytes of device memory, all that persists included, is faster, with any amount of host memory. */
RMI_FN rm_result rmi_bnd_link_bound(rmi_arena *mem, const rmi_ref_model *m, uint64_t limit, uint64_t work, uint64_t *bound)
{
    rmi_bnd w;
    uint8_t *seen = RMI_NEW(mem, uint8_t, m->g->n_tensors), *scratch = RMI_NEW(mem, uint8_t, 2 * (size_t)m->n_tasks);
    uint64_t *live = RMI_NEW(mem, uint64_t, m->n_keep + 1u), most = 0, value;
    uint32_t i, k, top = 0, step = (m->n_keep - m->g->n_ops) / 12 + 1, x = RMI_NONE;
    rm_result r = rmi_bnd_make(mem, m, limit, &w);
    if (r != RM_OK) return r == RM_ERROR_GRAPH ? RM_OK : r;
    if (!seen || !scratch || !live) return RM_ERROR_MEMORY;
    w.link = 1;
    w.most_work = work;
    for (k = 0; k < m->n_start; k++) w.bytes[m->start[k]] = 0; /* may be at home in host memory */
    RMI_TRY(rmi_bnd_profile(&w, live));
    for (i = m->g->n_ops; i < m->n_keep && w.work < work / 2; i += step) {
        uint32_t at = i;
        for (k = i; k < i + step && k < m->n_keep; k++)
            if (live[k] > live[at]) at = k;
        value = 0;
        RMI_TRY(rmi_bnd_link_moment(&w, m->keep[at], RMI_NONE, seen, scratch, &value));
        if (value > most || (!most && (x == RMI_NONE || live[at] > live[top]))) x = m->keep[top = at];
        most = rmi_max(most, value);
    }
    for (k = 1; x != RMI_NONE && k <= m->n_keep - m->g->n_ops && w.work < work; k = k * 3 / 2 + 1) /* y: ever earlier from the end */
        RMI_TRY(rmi_bnd_link_moment(&w, x, m->keep[m->n_keep - k], seen, scratch, &most));
    *bound = rmi_max(*bound, most);
    return RM_OK;
}

/* No plan whose live bytes (beside the model's base) stay within limit is faster. work: arcs to look at; more: the same for
   branching at the best moments, which counts whole values instead of parts. */
RMI_FN rm_result rmi_bnd_bound(rmi_arena *mem, const rmi_ref_model *m, uint64_t limit, uint64_t work, uint64_t more, uint64_t *bound)
{
    rmi_bnd w;
    rmi_bnd_try *tries = RMI_NEW(mem, rmi_bnd_try, 2 * RMI_BND_MOMENTS + RMI_BND_NEAR);
    rmi_bnd_node *node = RMI_NEW(mem, rmi_bnd_node, RMI_BND_NODES);
    uint64_t ns, end;
    uint32_t k, n = 0;
    rm_result r = rmi_bnd_make(mem, m, limit, &w);
    *bound = 0;
    if (r == RM_ERROR_GRAPH) return RM_OK;
    RMI_TRY(r);
    if (!tries || !node) return RM_ERROR_MEMORY;
    w.most_work = work;
    RMI_TRY(rmi_bnd_sample(&w, node, tries, &n, bound));
    rmi_sort(tries, n, sizeof *tries, rmi_bnd_cmp, NULL);
    end = w.work + more;
    for (k = 0; k < n && w.work < end; k++) {
        if (k && tries[k].at == tries[k - 1].at) continue;
        w.most_work = w.work + (k + 1 < n ? 3 * (end - w.work) / 4 : end - w.work);
        RMI_TRY(rmi_bnd_moment(&w, m->keep[tries[k].at], RMI_BND_NODES, node, bound, &ns));
        *bound = rmi_max(*bound, ns);
    }
    return RM_OK;
}

/* =====================================================================================================================
   >>offload - what to keep, recompute, and move to host memory: decisions, a timed evaluator, emission, search
   A decision says of every value whether it stays, goes to host memory and comes back, or is made again in the backward; of
   every param whether it leaves the device between its uses; of gradients and states where they are at home. Decisions give a
   list of runs. Its times are running sums (compute never waits in a good plan); copies out start in the order in which their
   content is ready, as early as they can; copies in end when they are needed, as late as they can (POFO, NeurIPS 2021, has the
   same two queues). That gives every life a position where it begins and ends, and so the memory at every run, in one pass.
   In: graph, limit, link. Out: a list for >>sequence, with copies in simulated time order: lives in program order are then the
   timed ones and addresses cost no waits. O(accesses) an evaluation.
   ================================================================================================================== */
typedef enum rmi_off_mode { RMI_OFF_KEEP, RMI_OFF_OUT, RMI_OFF_AGAIN } rmi_off_mode; /* of values */
/* Of params: leaves the device in the longest gap between its uses; from its last use to the next step's first. */
#define RMI_OFF_GAP 1u
#define RMI_OFF_EDGE 2u
/* Of gradients and states: at home in host memory. */
#define RMI_OFF_HOME 1u

typedef struct rmi_off_task {
    uint32_t read, n_reads, write, n_writes; /* into the pool; of each write two buffers that it may take over, or RMI_NONE */
    uint32_t saved;
    uint8_t way, view;
    uint64_t saved_bytes, ws_bytes, ns, again;
} rmi_off_task;

typedef struct rmi_off_inst { /* one life of one buffer; positions of runs */
    uint32_t buf, first, last;
    uint32_t written;       /* the last write */
    uint32_t before, after; /* the uses around the longest gap; after 0: there is none */
    uint32_t from[2];       /* instances whose bytes it may take over, or RMI_NONE */
    uint32_t taken;         /* the instance that shares this one's bytes, or RMI_NONE */
    uint32_t out, in, edge; /* copies: numbers + 1 */
    uint64_t gap, bytes;
} rmi_off_inst;

typedef struct rmi_off_copy {
    uint32_t inst, pos, at, next; /* pos: ready after (needed by) this run; at: over during (begins during) that one */
    uint32_t added;               /* of a merge: its addition is over during this run; n: in the next step */
    uint8_t way, wraps;           /* wraps: begins in the step before */
    uint64_t ns, start, end;
} rmi_off_copy;

typedef struct rmi_off_job { /* of the host lane: an addition, or an update */
    uint64_t ready;
    uint32_t id, pos; /* copy (param); not before this run */
    uint32_t key;     /* of those that are ready the least comes first */
} rmi_off_job;

typedef struct rmi_off_model {
    const rm_graph *g;
    rmi_arena *mem;
    uint32_t step, granule, n_buf;
    rmi_off_task *tasks;
    uint32_t *pool, *fwd_at, *bwd_at; /* by op: task of form 0; of form 0's first part */
    uint32_t reduce_at, opt_at, host_at, barrier_at;
    uint64_t *room, *out_ns, *in_ns, *add_ns; /* by buffer */
    uint32_t *root;                   /* by buffer: of views; itself otherwise; RMI_NONE: takes no bytes */
    uint32_t *of, *lasting, n_lasting; /* by buffer: tensor or op; values, gradients, states of params that take bytes */
    uint8_t *kind;
    uint8_t *mode, *fixed;            /* decisions by buffer; 1: not to be changed */
    uint8_t *host_update;             /* by tensor */
    uint8_t *edge;                    /* by buffer: given by another step's program: 1 on the device, 2 in host memory; 0: free */
    const rmi_home *given;
    size_t n_given;
    int waiting;                      /* gradients of an accumulation wait while this forward runs */
    int steady;                       /* other programs come before and after: no copy crosses the step's edge */
    rmi_run *order;                   /* backward, reductions, updates of a step without recomputation */
    uint32_t n_order;
    uint64_t limit, base, host_limit; /* base: of what is there all the time */
    uint64_t slack;                   /* so much less than limit, except around the turn from forward to backward: room for packing */
    /* a list of runs and what follows from it */
    rmi_run *runs;
    uint32_t n, cap;
    rmi_off_inst *inst;
    rmi_off_copy *copy;
    uint32_t n_inst, n_copy, cap_inst, cap_copy;
    uint32_t *cur, *ran, *head_out, *head_in;
    uint64_t *start; /* of run p; start[n]: the end */
    uint64_t *up, *down, *ws;
    uint64_t *host_end; /* by tensor: of its update on the host */
    uint32_t *host_pos; /* by tensor: after this run it is said */
    rmi_off_job *jobs;
    uint32_t *heap, *host_order, n_jobs, n_host; /* host_order: params updated on the host */
    uint8_t *there, *wanted;
    uint64_t ns, late_ns, peak, over, host_bytes, d2h_ns, h2d_ns, host_ns, d2h_carry, h2d_lead;
    uint32_t peak_at, late_of; /* late_of: the param whose update on the host is waited for longest, or RMI_NONE */
    /* found */
    uint8_t *best_mode, *best_host;
    uint32_t *stack;
} rmi_off_model;

RMI_PLAIN_BEGIN
/* --- tables */

RMI_FN void rmi_off_task_of(rmi_off_model *m, rmi_access *a, rmi_run r, rmi_off_task *t, uint32_t *used)
{
    const rm_graph *g = m->g;
    uint32_t i, k, n = *used;
    rmi_low_access(g, r, 0, a);
    t->way = r.way;
    t->saved = a->saved;
    t->saved_bytes = rmi_round_up(a->saved_bytes, m->granule);
    t->ws_bytes = rmi_round_up(a->ws_bytes, m->granule);
    t->ns = rmi_low_ns(g, r, 0, 0);
    t->again = rmi_low_ns(g, r, 1, 0);
    t->view = r.way == RMI_FWD && g->ops[r.id].view != RMI_NONE;
    t->read = n;
    for (i = 0; i < a->n_reads; i++)
        if (m->root[a->reads[i]] != RMI_NONE) m->pool[n++] = m->root[a->reads[i]];
    t->n_reads = n - t->read;
    t->write = n;
    for (i = 0; i < a->n_writes && !t->view; i++) {
        uint32_t b = a->writes[i], from[2] = {RMI_NONE, RMI_NONE}, n_from = 0, tensor, dout;
        const rmi_form *f = r.way <= RMI_BWD ? rmi_low_form(g, r) : NULL;
        if (m->root[b] == RMI_NONE) continue;
        if (r.way == RMI_FWD && b == g->ops[r.id].out.at[0] && f->inplace != RMI_NONE && g->tensors[f->inplace].kind == RMI_ACT) from[n_from++] = m->root[f->inplace];
        if (r.way == RMI_BWD) {
            const rmi_op *op = &g->ops[r.id];
            rmi_low_kind(g, b, &tensor);
            dout = rmi_low_buf(g, RMI_BUF_GRAD, op->out.at[0]);
            if ((rmi_list_has(&op->share, tensor) || op->view == tensor) && m->room[dout] == m->room[b]) from[n_from++] = dout;
            for (k = 0; k < f->n_overs && n_from < 2; k++)
                if (f->overs[k].grad_of == tensor)
                    from[n_from++] = f->overs[k].what == RMI_OVER_DOUT ? dout : f->overs[k].what == RMI_OVER_SAVED ? rmi_low_buf(g, RMI_BUF_SAVED, r.id) : m->root[f->overs[k].tensor];
        }
        m->pool[n++] = m->root[b];
        m->pool[n++] = from[0];
        m->pool[n++] = from[1];
        t->n_writes++;
    }
    *used = n;
}

/* Bytes, copies' lengths, roots. percent: of the link's speed to count on. */
RMI_FN rm_result rmi_off_buffers(rmi_off_model *m, uint32_t percent)
{
    const rm_graph *g = m->g;
    uint32_t b, i, k, n = m->n_buf;
    m->room = RMI_NEW(m->mem, uint64_t, n);
    m->out_ns = RMI_NEW(m->mem, uint64_t, n);
    m->in_ns = RMI_NEW(m->mem, uint64_t, n);
    m->add_ns = RMI_NEW(m->mem, uint64_t, n);
    m->root = RMI_NEW(m->mem, uint32_t, n);
    m->of = RMI_NEW(m->mem, uint32_t, n);
    m->lasting = RMI_NEW(m->mem, uint32_t, n);
    m->kind = RMI_NEW(m->mem, uint8_t, n);
    m->mode = RMI_NEW(m->mem, uint8_t, n);
    m->best_mode = RMI_NEW(m->mem, uint8_t, n);
    m->fixed = RMI_NEW(m->mem, uint8_t, n);
    m->there = RMI_NEW(m->mem, uint8_t, n);
    m->wanted = RMI_NEW(m->mem, uint8_t, g->n_ops);
    m->cur = RMI_NEW(m->mem, uint32_t, n);
    m->host_update = RMI_NEW(m->mem, uint8_t, g->n_tensors);
    m->edge = RMI_NEW(m->mem, uint8_t, n);
    m->host_end = RMI_NEW(m->mem, uint64_t, g->n_tensors);
    m->host_pos = RMI_NEW(m->mem, uint32_t, g->n_tensors);
    m->best_host = RMI_NEW(m->mem, uint8_t, g->n_tensors);
    m->jobs = RMI_NEW(m->mem, rmi_off_job, 2 * (size_t)g->n_tensors);
    m->heap = RMI_NEW(m->mem, uint32_t, 2 * (size_t)g->n_tensors);
    m->host_order = RMI_NEW(m->mem, uint32_t, g->n_tensors);
    if (!m->room || !m->out_ns || !m->in_ns || !m->add_ns || !m->of || !m->lasting || !m->kind || !m->root || !m->mode || !m->best_mode || !m->fixed || !m->there || !m->wanted || !m->cur || !m->edge || !m->host_update || !m->host_end || !m->host_pos || !m->best_host || !m->jobs || !m->heap || !m->host_order) return RM_ERROR_MEMORY;
    for (b = 0; b < n; b++) {
        rmi_buf_kind kind = rmi_low_kind(g, b, &i);
        uint64_t bytes = rmi_low_bytes(g, b);
        for (k = 0; kind == RMI_BUF_SAVED && k < g->ops[i].n_forms; k++) bytes = rmi_max(bytes, g->ops[i].forms[k].saved);
        m->root[b] = kind == RMI_BUF_VALUE ? g->tensors[i].root : b;
        if (rmi_low_external(g, m->root[b]) || (!bytes && m->root[b] == b)) m->root[b] = RMI_NONE;
        m->room[b] = rmi_round_up(bytes, m->granule);
        m->kind[b] = (uint8_t)kind;
        m->of[b] = i;
        if (kind <= RMI_BUF_STATE && g->tensors[i].kind == RMI_PARAM && m->root[b] != RMI_NONE && (kind != RMI_BUF_GRAD || g->tensors[i].consumers.n)) m->lasting[m->n_lasting++] = b;
        if (!g->has_link) continue;
        m->add_ns[b] = rmi_mul_div_up(bytes, 1000000000u, rmi_max(1, g->link.add));
        m->out_ns[b] = rmi_add(g->link.latency, rmi_mul_div_up(bytes, 1000000000u, rmi_max(1, g->link.d2h / 100 * percent)));
        m->in_ns[b] = rmi_add(g->link.latency, rmi_mul_div_up(bytes, 1000000000u, rmi_max(1, g->link.h2d / 100 * percent)));
    }
    return RM_OK;
}

RMI_FN rm_result rmi_off_tasks(rmi_off_model *m)
{
    const rm_graph *g = m->g;
    uint32_t i, k, p, n = 0, used = 0;
    size_t room = 64, tasks = 3 * (size_t)g->n_tensors + g->n_barriers;
    rmi_access a;
    RMI_TRY(rmi_low_access_make(g, m->mem, &a));
    for (i = 0; i < g->n_ops; i++)
        for (k = 0; k < g->ops[i].n_forms; k++) {
            tasks += 1 + g->ops[i].forms[k].n_parts;
            room += (1 + (size_t)g->ops[i].forms[k].n_parts) * 4 * ((size_t)g->ops[i].in.n + 2 * g->ops[i].out.n + g->ops[i].mutates.n + 4);
        }
    room += 32 * (size_t)g->n_tensors + (size_t)g->n_barriers * g->n_tensors;
    m->tasks = RMI_NEW(m->mem, rmi_off_task, tasks);
    m->pool = RMI_NEW(m->mem, uint32_t, room);
    m->fwd_at = RMI_NEW(m->mem, uint32_t, g->n_ops);
    m->bwd_at = RMI_NEW(m->mem, uint32_t, g->n_ops);
    if (!m->tasks || !m->pool || !m->fwd_at || !m->bwd_at) return RM_ERROR_MEMORY;
    for (i = 0; i < g->n_ops; i++) {
        m->fwd_at[i] = n;
        for (k = 0; k < g->ops[i].n_forms; k++) rmi_off_task_of(m, &a, rmi_low_run(RMI_FWD, i, k, 0), &m->tasks[n++], &used);
        m->bwd_at[i] = n;
        for (k = 0; k < g->ops[i].n_forms; k++)
            for (p = 0; p < g->ops[i].forms[k].n_parts; p++) rmi_off_task_of(m, &a, rmi_low_run(RMI_BWD, i, k, p), &m->tasks[n++], &used);
    }
    m->reduce_at = n;
    for (i = 0; i < g->n_tensors; i++, n++)
        if (g->tensors[i].kind == RMI_PARAM) rmi_off_task_of(m, &a, rmi_low_run(RMI_REDUCE, i, 0, 0), &m->tasks[n], &used);
    m->opt_at = n;
    for (i = 0; i < g->n_tensors; i++, n++)
        if (g->tensors[i].kind == RMI_PARAM) rmi_off_task_of(m, &a, rmi_low_run(RMI_OPT, i, 0, 0), &m->tasks[n], &used);
    m->host_at = n;
    for (i = 0; i < g->n_tensors; i++, n++) {
        m->tasks[n].way = RMI_OPT_HOST;
        m->tasks[n].saved = RMI_NONE;
    }
    m->barrier_at = n;
    for (i = 0; i < g->n_barriers; i++) rmi_off_task_of(m, &a, rmi_low_run(RMI_BARRIER, i, 0, 0), &m->tasks[n++], &used);
    return RM_OK;
}

RMI_FN const rmi_off_task *rmi_off_task_at(const rmi_off_model *m, rmi_run r)
{
    uint32_t k, at;
    switch ((rmi_way)r.way) {
    case RMI_FWD: return &m->tasks[m->fwd_at[r.id] + r.form];
    case RMI_BWD:
        for (at = m->bwd_at[r.id], k = 0; k < r.form; k++) at += m->g->ops[r.id].forms[k].n_parts;
        return &m->tasks[at + r.part];
    case RMI_REDUCE: return &m->tasks[m->reduce_at + r.id];
    case RMI_OPT: return &m->tasks[m->opt_at + r.id];
    case RMI_BARRIER: return &m->tasks[m->barrier_at + r.id];
    default: return &m->tasks[m->host_at + r.id];
    }
}

RMI_PLAIN_END

/* --- the evaluator: lives, copies, memory */

RMI_FN rmi_buf_kind rmi_off_kind(const rmi_off_model *m, uint32_t b, uint32_t *i)
{
    *i = m->of[b];
    return (rmi_buf_kind)m->kind[b];
}

/* Is b, of what persists, on the device all the time? */
RMI_FN int rmi_off_stays(const rmi_off_model *m, uint32_t b, rmi_buf_kind kind, uint32_t i)
{
    const rmi_tensor *t = &m->g->tensors[i];
    if (kind == RMI_BUF_VALUE) return t->kind == RMI_CONST || (t->kind == RMI_PARAM && !m->mode[b]);
    if (kind == RMI_BUF_GRAD) return t->kind == RMI_PARAM && t->consumers.n && rmi_low_grads_resident(m->step) && !m->mode[b];
    return kind == RMI_BUF_STATE && !m->mode[b];
}

/* Does the gradient of param w get its earlier contributions in host memory (else they come to the device first)? */
RMI_FN int rmi_off_merges(const rmi_off_model *m, uint32_t w)
{
    if (!rmi_low_adds_to_earlier(m->step)) return 0;
    return m->step == RM_MIDDLE || (m->g->tensors[w].reduce == RMI_INF && m->host_update[w]);
}

RMI_FN uint32_t rmi_off_new_inst(rmi_off_model *m, uint32_t b, uint32_t p, uint64_t bytes)
{
    rmi_off_inst *s = &m->inst[m->n_inst];
    if (m->n_inst >= m->cap_inst) return RMI_NONE;
    s->buf = b;
    s->first = s->last = s->written = p;
    s->before = s->after = s->out = s->in = s->edge = 0;
    s->from[0] = s->from[1] = s->taken = RMI_NONE;
    s->gap = 0;
    s->bytes = bytes;
    m->cur[b] = m->n_inst;
    return m->n_inst++;
}

RMI_FN uint32_t rmi_off_touch(rmi_off_model *m, uint32_t b, uint32_t p)
{
    uint32_t c = m->cur[b];
    rmi_off_inst *s;
    uint64_t gap;
    if (c == RMI_NONE) return rmi_off_new_inst(m, b, p, m->room[b]); /* params, consts, inputs, earlier gradients */
    s = &m->inst[c];
    gap = m->start[p] - m->start[s->last + (s->last < p)];
    if (gap > s->gap) {
        s->gap = gap;
        s->before = s->last;
        s->after = p;
    }
    s->last = p;
    return c;
}

RMI_FN void rmi_off_scan_writes(rmi_off_model *m, const rmi_off_task *t, uint32_t p)
{
    uint32_t i, k, c;
    for (i = 0; i < t->n_writes; i++) {
        const uint32_t *w = &m->pool[t->write + 3 * i];
        int fresh = t->way == RMI_FWD ? m->g->tensors[w[0]].kind == RMI_ACT : m->cur[w[0]] == RMI_NONE;
        uint32_t from[2];
        if (fresh) {
            for (k = 0; k < 2; k++) from[k] = w[k + 1] == RMI_NONE ? RMI_NONE : m->cur[w[k + 1]];
            c = rmi_off_new_inst(m, w[0], p, m->room[w[0]]);
            if (c == RMI_NONE) return;
            m->inst[c].from[0] = from[0];
            m->inst[c].from[1] = from[1];
        } else c = rmi_off_touch(m, w[0], p);
        if (c != RMI_NONE) m->inst[c].written = p;
    }
    if (t->saved != RMI_NONE && t->way == RMI_FWD) rmi_off_new_inst(m, t->saved, p, t->saved_bytes);
}

/* Lives of the list. 0: an instance too many. */
RMI_FN int rmi_off_scan(rmi_off_model *m)
{
    const rm_graph *g = m->g;
    uint32_t p, i, b;
    uint64_t now = 0;
    m->n_inst = 0;
    memset(m->cur, 0xFF, m->n_buf * sizeof(uint32_t));
    memset(m->ran, 0, g->n_ops * sizeof(uint32_t));
    for (p = 0; p < m->n; p++) {
        const rmi_off_task *t = rmi_off_task_at(m, m->runs[p]);
        m->start[p] = now;
        m->ws[p] = t->ws_bytes;
        for (i = 0; i < t->n_reads; i++) {
            b = m->pool[t->read + i];
            if (t->way == RMI_BARRIER && m->cur[b] == RMI_NONE) continue;
            if (t->way == RMI_BARRIER && m->mode[b] && rmi_off_merges(m, b - g->n_tensors)) continue;
            rmi_off_touch(m, b, p);
        }
        rmi_off_scan_writes(m, t, p);
        if (t->way == RMI_OPT_HOST || t->way == RMI_REDUCE) continue;
        now += t->way == RMI_FWD && m->ran[m->runs[p].id]++ ? t->again : t->ns;
    }
    m->start[m->n] = m->ns = now;
    for (i = 0; i < g->n_tensors && m->n; i++) {
        uint32_t grad = rmi_low_buf(g, RMI_BUF_GRAD, i);
        if (g->tensors[i].is_output && m->root[i] != RMI_NONE && m->cur[m->root[i]] != RMI_NONE) rmi_off_touch(m, m->root[i], m->n - 1);
        if (m->cur[grad] != RMI_NONE && !m->mode[grad] && rmi_seq_grad_stays(g, m->step, i)) rmi_off_touch(m, grad, m->n - 1);
    }
    return m->n_inst < m->cap_inst;
}

/* Notes a copy; it is chained at its position. Its number + 1. */
RMI_FN uint32_t rmi_off_ask(rmi_off_model *m, rmi_way way, uint32_t inst, uint32_t pos)
{
    rmi_off_copy *c = &m->copy[m->n_copy];
    uint32_t *head = way == RMI_COPY_IN ? &m->head_in[pos] : &m->head_out[pos], b = m->inst[inst].buf;
    if (m->n_copy >= m->cap_copy) return 0;
    c->inst = inst;
    c->pos = c->at = pos;
    c->way = (uint8_t)way;
    c->wraps = 0;
    c->ns = way == RMI_COPY_IN ? m->in_ns[b] : m->out_ns[b];
    c->next = *head;
    return *head = ++m->n_copy;
}

/* The copies that instance i of something that persists wants. */
RMI_FN void rmi_off_ask_lasting(rmi_off_model *m, uint32_t i, rmi_buf_kind kind, uint32_t w)
{
    rmi_off_inst *s = &m->inst[i];
    uint8_t mode = m->mode[s->buf];
    int changed;
    if (!mode) return;
    if (kind == RMI_BUF_GRAD) {
        const rmi_tensor *t = &m->g->tensors[w];
        int merges = rmi_off_merges(m, w), updated = t->updates && rmi_low_has_update(m->step) && !m->host_update[w];
        if (rmi_low_adds_to_earlier(m->step) && !merges) s->in = rmi_off_ask(m, RMI_COPY_IN, i, s->first);
        if (!updated) s->out = rmi_off_ask(m, merges ? RMI_COPY_MERGE : RMI_COPY_OUT, i, s->written);
        else if (!s->in && s->before == s->written && s->gap > 2 * (m->out_ns[s->buf] + m->in_ns[s->buf])) {
            s->out = rmi_off_ask(m, RMI_COPY_OUT, i, s->before);
            s->in = rmi_off_ask(m, RMI_COPY_IN, i, s->after);
        }
        return;
    }
    changed = rmi_low_has_update(m->step) && m->g->tensors[w].updates && !m->host_update[w];
    if (kind == RMI_BUF_STATE || (mode & RMI_OFF_EDGE)) s->edge = rmi_off_ask(m, RMI_COPY_IN, i, s->first);
    if (kind == RMI_BUF_VALUE && (mode & RMI_OFF_GAP) && s->after && s->gap > m->in_ns[s->buf]) s->in = rmi_off_ask(m, RMI_COPY_IN, i, s->after);
    if (changed) s->out = rmi_off_ask(m, RMI_COPY_OUT, i, s->last);
}

RMI_FN void rmi_off_ask_all(rmi_off_model *m)
{
    uint32_t i, w;
    m->n_copy = 0;
    memset(m->head_out, 0, m->n * sizeof(uint32_t));
    memset(m->head_in, 0, m->n * sizeof(uint32_t));
    for (i = 0; i < m->n_inst; i++) {
        rmi_off_inst *s = &m->inst[i];
        rmi_buf_kind kind = rmi_off_kind(m, s->buf, &w);
        int lasts = (kind == RMI_BUF_GRAD || kind == RMI_BUF_VALUE) ? m->g->tensors[w].kind == RMI_PARAM : kind == RMI_BUF_STATE;
        if (lasts) {
            rmi_off_ask_lasting(m, i, kind, w);
            continue;
        }
        if (kind == RMI_BUF_GRAD || m->mode[s->buf] != RMI_OFF_OUT || !s->after || s->gap < m->out_ns[s->buf] + m->in_ns[s->buf]) continue;
        s->out = rmi_off_ask(m, RMI_COPY_OUT, i, s->first);
        s->in = rmi_off_ask(m, RMI_COPY_IN, i, s->after);
    }
}

/* The last run that starts by then. */
RMI_INLINE uint32_t rmi_off_run_at(const rmi_off_model *m, uint64_t t)
{
    uint32_t lo = 0, hi = m->n - 1;
    while (lo < hi) {
        uint32_t mid = (lo + hi + 1) / 2;
        if (m->start[mid] <= t) lo = mid;
        else hi = mid - 1;
    }
    return lo;
}

/* The host lane: additions as they come; of the updates whose gradients are there, the one whose param the next step reads first,
   so that what the backward leaves last, and the next step wants first, does not wait for all that came before it. */
RMI_FN void rmi_off_time_host(rmi_off_model *m)
{
    uint64_t t = 0;
    uint32_t i = 0, n = 0, k, pos = 0, w;
    m->n_host = 0;
    while (i < m->n_jobs || n) {
        rmi_off_job j;
        if (!n) t = rmi_max(t, m->jobs[i].ready);
        for (; i < m->n_jobs && m->jobs[i].ready <= t; i++) {
            for (k = n++; k && m->jobs[m->heap[(k - 1) / 2]].key > m->jobs[i].key; k = (k - 1) / 2) m->heap[k] = m->heap[(k - 1) / 2];
            m->heap[k] = i;
        }
        j = m->jobs[m->heap[0]];
        for (n--, k = 0; 2 * k + 1 < n; k = w) {
            w = 2 * k + 1;
            w += w + 1 < n && m->jobs[m->heap[w + 1]].key < m->jobs[m->heap[w]].key;
            if (m->jobs[m->heap[n]].key <= m->jobs[m->heap[w]].key) break;
            m->heap[k] = m->heap[w];
        }
        m->heap[k] = m->heap[n];
        if (j.pos > pos) pos = j.pos;
        if (j.key < m->n) { /* an addition */
            rmi_off_copy *c = &m->copy[j.id];
            t += m->add_ns[m->inst[c->inst].buf];
            c->added = t > m->ns ? m->n : (uint32_t)rmi_max(c->at, rmi_off_run_at(m, t));
            continue;
        }
        t += m->g->tensors[j.id].opt_host;
        m->host_end[j.id] = t;
        m->host_pos[j.id] = pos;
        m->host_order[m->n_host++] = j.id;
    }
}

RMI_FN void rmi_off_put_job(rmi_off_model *m, uint64_t ready, uint32_t id, uint32_t pos, uint32_t key, uint64_t ns)
{
    uint32_t k = m->n_jobs++;
    for (; k && m->jobs[k - 1].ready > ready; k--) m->jobs[k] = m->jobs[k - 1];
    m->jobs[k].ready = ready;
    m->jobs[k].id = id;
    m->jobs[k].pos = pos;
    m->jobs[k].key = key;
    m->host_ns += ns;
}

/* Copies out, first come first served, and what the host does. */
RMI_FN void rmi_off_time_out(rmi_off_model *m)
{
    uint64_t lane = m->d2h_carry;
    uint32_t p, k, at = 0, busy = 0, w;
    m->d2h_ns = m->host_ns = 0;
    m->n_jobs = 0;
    for (p = 0; p < m->n; p++) {
        for (k = m->head_out[p]; k; k = m->copy[k - 1].next) {
            rmi_off_copy *c = &m->copy[k - 1];
            rmi_off_inst *s = &m->inst[c->inst];
            if (lane < m->start[p + 1]) lane = m->start[p + 1];
            c->start = lane;
            lane += c->ns;
            m->d2h_ns += c->ns;
            c->end = lane;
            while (at + 1 < m->n && m->start[at + 1] < lane) at++;
            c->at = at < p ? p : at;
            if (rmi_off_kind(m, s->buf, &w) == RMI_BUF_GRAD && m->g->tensors[w].kind == RMI_PARAM) m->host_end[w] = lane;
            if (c->way == RMI_COPY_MERGE) rmi_off_put_job(m, lane, k - 1, p, p, m->add_ns[s->buf]);
            busy = 1;
        }
        if (m->runs[p].way != RMI_OPT_HOST) continue;
        w = m->runs[p].id;
        k = m->cur[w] == RMI_NONE ? m->n - 1 : m->inst[m->cur[w]].first;
        rmi_off_put_job(m, rmi_max(m->host_end[w], m->start[p]), w, p, m->n + k, m->g->tensors[w].opt_host);
    }
    m->d2h_carry = busy && lane > m->ns && !m->steady ? rmi_min(lane - m->ns, m->ns / 2) : 0;
    rmi_off_time_host(m);
}

/* Where instance i ends, at the latest of its last use and its copy out. */
RMI_INLINE uint32_t rmi_off_end(const rmi_off_model *m, const rmi_off_inst *s)
{
    if (!s->out || m->copy[s->out - 1].pos < s->last) return s->last;
    return m->copy[s->out - 1].at > s->last ? m->copy[s->out - 1].at : s->last;
}

/* Copies in, from the last need to the first, each as late as it can; what begins before the step begins in the one before. */
RMI_FN void rmi_off_time_in(rmi_off_model *m)
{
    uint64_t T = m->ns, lane = 2 * T - rmi_min(m->h2d_lead, T); /* times are T later, so that none is negative */
    uint32_t p, k, at = m->n, w = 0;
    int edge, hosted;
    uint64_t ready;
    m->h2d_ns = m->late_ns = m->h2d_lead = 0;
    m->late_of = RMI_NONE;
    for (p = m->n; p-- > 0;)
        for (k = m->head_in[p]; k; k = m->copy[k - 1].next) {
            rmi_off_copy *c = &m->copy[k - 1];
            rmi_off_inst *s = &m->inst[c->inst];
            c->end = rmi_min(lane, T + m->start[p]);
            lane = rmi_sub(c->end, c->ns);
            c->start = lane;
            m->h2d_ns += c->ns;
            edge = s->edge && c == &m->copy[s->edge - 1];
            hosted = edge && rmi_off_kind(m, s->buf, &w) == RMI_BUF_VALUE && m->host_update[w] && rmi_low_has_update(m->step);
            ready = hosted ? rmi_max(lane, m->host_end[w]) : lane;
            if (ready - lane > m->late_ns) m->late_ns = ready - lane, m->late_of = w;
            c->wraps = ready < T && !m->steady && m->fixed[s->buf] != 2 && edge;
            if (lane < T && m->steady) m->late_ns = rmi_max(m->late_ns, T - lane);
            if (lane < T && !m->steady) m->h2d_lead = rmi_max(m->h2d_lead, T - lane);
            if (!c->wraps) {
                while (at > 0 && (at == m->n || T + m->start[at] > lane)) at--;
                c->at = ready > lane ? rmi_off_run_at(m, rmi_sub(ready, T)) : at;
                c->at = c->at < p ? c->at : p;
                if (s->out && m->copy[s->out - 1].pos < p && c->at <= m->copy[s->out - 1].pos) c->at = m->copy[s->out - 1].pos + 1;
            } else {
                c->at = rmi_off_run_at(m, ready); /* not after its last use: then it stays (rmi_off_idle) */
                if (!hosted) continue;
                if (c->at <= s->last) c->at = s->last + 1;
                if (c->at <= m->host_pos[w]) c->at = m->host_pos[w] + 1;
            }
        }
}

RMI_INLINE void rmi_off_live(rmi_off_model *m, uint32_t from, uint32_t to, uint64_t bytes) /* runs from ... to */
{
    m->up[from] += bytes;
    m->down[to + 1 < m->n ? to + 1 : m->n] += bytes;
}

/* Bytes over time of an instance of something that persists: it may be there at the step's edge. */
RMI_FN void rmi_off_live_param(rmi_off_model *m, rmi_off_inst *s)
{
    const rmi_off_copy *edge = s->edge ? &m->copy[s->edge - 1] : NULL, *in = s->in ? &m->copy[s->in - 1] : NULL;
    uint32_t first = edge && !edge->wraps ? edge->at : 0, last = edge ? rmi_off_end(m, s) : m->n - 1;
    if (edge && edge->wraps && edge->at <= last) last = m->n - 1;
    else if (edge && edge->wraps && edge->at < m->n) rmi_off_live(m, edge->at, m->n - 1, s->bytes);
    if (in && in->at > s->before) {
        rmi_off_live(m, first, s->before, s->bytes);
        first = in->at;
    }
    rmi_off_live(m, first, last, s->bytes);
}

/* Does instance i begin in the bytes of another one that ends there? */
RMI_FN void rmi_off_take_over(rmi_off_model *m, uint32_t i)
{
    rmi_off_inst *s = &m->inst[i];
    uint32_t k, j, end;
    for (k = 0; k < 2; k++) {
        rmi_off_inst *o;
        j = s->from[k];
        if (j == RMI_NONE) continue;
        o = &m->inst[j];
        end = rmi_off_end(m, o);
        if (end != s->first || o->bytes < s->bytes || o->taken != RMI_NONE || o->first >= s->first) continue;
        o->taken = i;
        m->down[s->first < m->n ? s->first : m->n] += o->bytes; /* ends one run earlier */
        m->up[s->first + 1 < m->n ? s->first + 1 : m->n] += o->bytes;
        s->bytes = o->bytes;
        return;
    }
}

/* Live bytes at every run. */
RMI_FN void rmi_off_memory(rmi_off_model *m)
{
    const rm_graph *g = m->g;
    uint32_t i, w, p;
    uint64_t sum = m->base, host = 0, staging = 0, turn = m->start[rmi_min(g->n_ops, m->n)], window = m->ns / 100;
    memset(m->up, 0, ((size_t)m->n + 2) * sizeof(uint64_t));
    memset(m->down, 0, ((size_t)m->n + 2) * sizeof(uint64_t));
    for (i = 0; i < m->n_lasting; i++) {
        uint32_t b = m->lasting[i];
        rmi_buf_kind kind = rmi_off_kind(m, b, &w);
        if (kind == RMI_BUF_GRAD && !(m->waiting || rmi_low_grads_resident(m->step))) continue;
        if (!m->mode[b]) sum += kind == RMI_BUF_VALUE && m->cur[b] != RMI_NONE ? 0 : m->room[b];
        else host += m->room[b];
    }
    for (i = 0; i < m->n_inst; i++) {
        rmi_off_inst *s = &m->inst[i];
        const rmi_off_copy *in = s->in ? &m->copy[s->in - 1] : NULL, *out = s->out ? &m->copy[s->out - 1] : NULL;
        rmi_buf_kind kind = rmi_off_kind(m, s->buf, &w);
        uint32_t end = rmi_off_end(m, s), first = s->first;
        if (kind == RMI_BUF_SAVED && s->last == s->first) continue; /* nobody asks for it */
        if (kind != RMI_BUF_SAVED && rmi_off_stays(m, s->buf, kind, w) && g->tensors[w].kind != RMI_ACT) {
            if (kind == RMI_BUF_VALUE && g->tensors[w].kind == RMI_PARAM) rmi_off_live(m, 0, m->n - 1, s->bytes);
            continue;
        }
        if (kind == RMI_BUF_STATE || (kind == RMI_BUF_VALUE && g->tensors[w].kind == RMI_PARAM)) {
            rmi_off_live_param(m, s);
            continue;
        }
        if (kind == RMI_BUF_VALUE && g->tensors[w].kind == RMI_INPUT) first = 0;
        if (s->from[0] != RMI_NONE || s->from[1] != RMI_NONE) rmi_off_take_over(m, i);
        if (in && in->pos == s->first) first = in->at; /* earlier contributions come first */
        else if (in && out && in->at > rmi_max(s->before, out->at)) {
            rmi_off_live(m, first, (uint32_t)rmi_max(s->before, out->at), s->bytes);
            first = in->at;
            end = s->last;
        }
        if (out && out->way == RMI_COPY_MERGE) staging = rmi_max(staging, s->bytes);
        else if (out) host += s->bytes;
        rmi_off_live(m, first, end, s->bytes);
    }
    for (i = 0; i < m->n_copy; i++) /* what the step before still copies out */
        if (m->copy[i].way != RMI_COPY_IN && m->copy[i].end > m->ns) rmi_off_live(m, 0, rmi_off_run_at(m, m->copy[i].end - m->ns), m->inst[m->copy[i].inst].bytes);
    m->host_bytes = host + 2 * staging;
    m->peak = m->over = 0;
    for (p = 0; p < m->n; p++) {
        uint64_t live;
        sum = sum + m->up[p] - m->down[p];
        live = sum + m->ws[p];
        if (m->start[p] > turn + window || m->start[p + 1] + window < turn) live = rmi_add(live, m->slack);
        if (live > m->peak) m->peak = live, m->peak_at = p;
        if (live > m->limit) m->over += (live - m->limit) >> 10;
    }
}

/* Where another lane has more to do than the computation, that must wait somewhere: up to `idle` at the step's end, and all runs are
   taken to last as much longer as is left. What could wait at the end. */
RMI_FN uint64_t rmi_off_stretch(rmi_off_model *m, uint64_t idle)
{
    uint64_t lane[3] = {0, 0, 0}, most, ratio;
    uint32_t i;
    for (i = 0; i < m->n_copy; i++) {
        lane[m->copy[i].way == RMI_COPY_IN] += m->copy[i].ns;
        if (m->copy[i].way == RMI_COPY_MERGE) lane[2] += m->add_ns[m->inst[m->copy[i].inst].buf];
    }
    for (i = 0; i < m->n; i++)
        if (m->runs[i].way == RMI_OPT_HOST) lane[2] += m->g->tensors[m->runs[i].id].opt_host;
    most = rmi_max(lane[0], rmi_max(lane[1], lane[2]));
    if (most <= m->ns || most > RMI_MAX >> 12) return 0;
    idle = rmi_min(idle, most - m->ns);
    ratio = (most - idle) * 1024 / (m->ns + 1) + 8;
    most -= m->ns;
    for (i = 0; i <= m->n; i++) m->start[i] = rmi_min(m->start[i] / 1024 * ratio, RMI_MAX / 4);
    m->ns = m->start[m->n] + idle;
    return most;
}

/* Time, lateness, memory of m->runs under m->mode. 0: does not fit the tables. */
RMI_FN int rmi_off_eval(rmi_off_model *m)
{
    uint64_t before, idle = 0, may;
    uint32_t k, round;
    for (round = 0; round < 2; round++) {
        if (!rmi_off_scan(m)) return 0;
        rmi_off_ask_all(m);
        may = rmi_off_stretch(m, idle);
        m->d2h_carry = m->h2d_lead = 0;
        for (k = 0; k < 4; k++) { /* what crosses the step's edge delays the other end; it settles at once or nearly */
            before = m->d2h_carry;
            rmi_off_time_out(m);
            if (m->d2h_carry == before) break;
        }
        for (k = 0; k < 4; k++) {
            before = m->h2d_lead;
            rmi_off_time_in(m);
            if (m->h2d_lead == before) break;
        }
        if (!may || !m->late_ns || m->steady) break;
        idle = m->late_ns; /* who waits anyway can wait for this */
    }
    rmi_off_memory(m);
    return 1;
}

RMI_PLAIN_BEGIN
/* --- decisions -> runs */

/* Makes buffer b be there for the backward run that comes next: what must run again for it is marked, lo ... hi. */
RMI_FN void rmi_off_want(rmi_off_model *m, uint32_t b, uint32_t *lo, uint32_t *hi)
{
    const rm_graph *g = m->g;
    uint32_t n = 0, i, t;
    m->stack[n++] = b;
    while (n) {
        rmi_buf_kind kind;
        uint32_t op;
        b = m->stack[--n];
        kind = rmi_low_kind(g, b, &t);
        if (m->there[b] || (kind == RMI_BUF_VALUE && g->tensors[t].kind != RMI_ACT) || (kind != RMI_BUF_VALUE && kind != RMI_BUF_SAVED)) continue;
        op = kind == RMI_BUF_SAVED ? t : g->tensors[t].maker;
        m->there[b] = 1;
        if (m->wanted[op]) continue;
        m->wanted[op] = 1;
        if (op < *lo) *lo = op;
        if (op >= *hi) *hi = op + 1;
        for (i = 0; i < g->ops[op].in.n; i++)
            if (!m->there[g->ops[op].in.at[i]]) m->stack[n++] = g->ops[op].in.at[i];
    }
}

/* The list of runs that the decisions mean: everything once; in the backward, what is not there is made right before its need. */
RMI_FN void rmi_off_derive(rmi_off_model *m)
{
    const rm_graph *g = m->g;
    uint32_t i, k, q, lo, hi;
    m->n = 0;
    for (i = 0; i < g->n_ops; i++) m->runs[m->n++] = rmi_low_run(RMI_FWD, i, 0, 0);
    for (i = 0; i < m->n_buf; i++) m->there[i] = m->mode[i] != RMI_OFF_AGAIN;
    for (i = 0; i < g->n_ops; i++)
        if (g->ops[i].view != RMI_NONE && m->root[g->ops[i].view] != RMI_NONE) m->there[g->ops[i].out.at[0]] = !m->mode[m->root[g->ops[i].view]];
    for (q = 0; q < m->n_order; q++) {
        rmi_run r = m->order[q];
        if (r.way == RMI_BWD) {
            const rmi_part *part = rmi_low_part(g, r);
            lo = g->n_ops, hi = 0;
            for (k = 0; k < part->needs.n; k++)
                if (!m->there[part->needs.at[k]]) rmi_off_want(m, part->needs.at[k], &lo, &hi);
            k = rmi_low_buf(g, RMI_BUF_SAVED, r.id);
            if (part->needs_saved && !m->there[k]) rmi_off_want(m, k, &lo, &hi);
            for (i = lo; i < hi; i++) {
                if (!m->wanted[i]) continue;
                m->wanted[i] = 0;
                m->runs[m->n++] = rmi_low_run(RMI_FWD, i, 0, 0);
            }
        }
        m->runs[m->n++] = r;
    }
}

/* --- emission */

typedef struct rmi_off_list { /* what >>sequence gets */
    rmi_run *runs;
    size_t n;
    uint32_t *at;    /* position in it of run p of the model */
    rmi_home *homes; /* n_homes of the program, then n_late of >>sequence alone */
    size_t n_homes, n_late;
} rmi_off_list;

/* A copy for a gap that the copies themselves fill: it is not made. */
RMI_FN int rmi_off_idle(const rmi_off_model *m, const rmi_off_copy *c)
{
    const rmi_off_inst *s = &m->inst[c->inst];
    const rmi_off_copy *in = s->in ? &m->copy[s->in - 1] : NULL, *out = s->out ? &m->copy[s->out - 1] : NULL;
    if (s->edge && c == &m->copy[s->edge - 1]) return c->wraps && c->at <= rmi_off_end(m, s);
    if (!in || in->pos == s->first || (c != in && c != out)) return 0;
    if (out && out->pos < in->pos) return in->at <= rmi_max(s->before, out->at);
    return c == in && in->at <= s->before;
}

/* Is it on the device when the step begins? */
RMI_FN int rmi_off_at_edge(const rmi_off_model *m, const rmi_off_inst *s)
{
    uint32_t w;
    rmi_buf_kind kind = rmi_off_kind(m, s->buf, &w);
    if (kind != RMI_BUF_STATE && (kind != RMI_BUF_VALUE || m->g->tensors[w].kind != RMI_PARAM)) return 0;
    return (s->edge && m->copy[s->edge - 1].wraps) || (kind == RMI_BUF_VALUE && !(m->mode[s->buf] & RMI_OFF_EDGE));
}

/* The list with its copies: before run p the copies in that begin then, after it the copies out of what is ready and the ends
   of copies that are over. */
RMI_FN rm_result rmi_off_emit(const rmi_off_model *m, rmi_arena *mem, rmi_off_list *out)
{
    uint32_t p, k, *begin = RMI_NEW(mem, uint32_t, (size_t)m->n + 1), *over = RMI_NEW(mem, uint32_t, (size_t)m->n + 1);
    uint32_t *next = RMI_NEW(mem, uint32_t, (size_t)m->n_copy + 1), *added = RMI_NEW(mem, uint32_t, (size_t)m->n + 1);
    uint32_t *then = RMI_NEW(mem, uint32_t, (size_t)m->n_copy + 1), pass, w, host = 0;
    uint32_t *done = RMI_NEW(mem, uint32_t, (size_t)m->n + 1), *done_next = RMI_NEW(mem, uint32_t, m->g->n_tensors);
    out->runs = RMI_NEW(mem, rmi_run, 2 * (size_t)m->n + 4 * (size_t)m->n_copy + 1);
    out->at = RMI_NEW(mem, uint32_t, (size_t)m->n + 1);
    out->n = 0;
    if (!out->at || !begin || !over || !next || !added || !then || !done || !done_next || !out->runs) return RM_ERROR_MEMORY;
    for (pass = 0; pass < 3; pass++) /* chains are stacks: what begins first is put last, after all that wraps */
        for (p = m->n; p-- > 0;)
            for (k = pass ? m->head_in[p] : m->head_out[p]; k; k = m->copy[k - 1].next) {
                uint32_t *head = pass ? &begin[m->copy[k - 1].at] : &over[m->copy[k - 1].at];
                if ((pass && (pass == 1) != m->copy[k - 1].wraps) || rmi_off_idle(m, &m->copy[k - 1])) continue;
                next[k - 1] = *head;
                *head = k;
                if (!pass && m->copy[k - 1].way == RMI_COPY_OUT && m->copy[k - 1].end > m->ns && rmi_off_at_edge(m, &m->inst[m->copy[k - 1].inst])) {
                    uint32_t *late = &added[rmi_off_run_at(m, m->copy[k - 1].end - m->ns)]; /* what is there when the step begins, and still read by it */
                    then[k - 1] = *late;
                    *late = k;
                }
                if (m->copy[k - 1].way != RMI_COPY_MERGE) continue;
                then[k - 1] = added[m->copy[k - 1].added];
                added[m->copy[k - 1].added] = k;
            }
    for (p = 0; p < m->n; p++) { /* gradients in host memory, by the run during which their update ends there; n: in the next step */
        if (m->runs[p].way != RMI_OPT_HOST || rmi_low_grads_resident(m->step) || !m->g->tensors[m->runs[p].id].consumers.n) continue;
        w = m->runs[p].id;
        k = m->host_end[w] > m->ns ? m->n : (uint32_t)rmi_max(m->host_pos[w], rmi_off_run_at(m, m->host_end[w]));
        done_next[w] = done[k];
        done[k] = w + 1;
    }
    for (p = 0; p <= m->n; p++) {
        for (k = begin[p]; k; k = next[k - 1]) out->runs[out->n++] = rmi_low_run(RMI_COPY_IN, m->inst[m->copy[k - 1].inst].buf, 0, 0);
        for (k = p == m->n ? added[p] : 0; k; k = then[k - 1]) out->runs[out->n++] = rmi_low_run(RMI_HOLD, m->inst[m->copy[k - 1].inst].buf, 2, 0);
        for (k = p == m->n ? done[p] : 0; k; k = done_next[k - 1]) out->runs[out->n++] = rmi_low_run(RMI_HOLD, rmi_low_buf(m->g, RMI_BUF_GRAD, k - 1), 2, 0);
        if (p == m->n) break;
        for (k = m->head_in[p]; k; k = m->copy[k - 1].next) { /* a copy of a value has been read when its need comes */
            uint32_t b = m->inst[m->copy[k - 1].inst].buf;
            rmi_buf_kind kind = rmi_low_kind(m->g, b, &w);
            int value = kind == RMI_BUF_SAVED || (kind == RMI_BUF_VALUE && m->g->tensors[w].kind != RMI_PARAM);
            if (value && !rmi_off_idle(m, &m->copy[k - 1])) out->runs[out->n++] = rmi_low_run(RMI_COPY_DROP, b, 0, 0);
        }
        out->at[p] = (uint32_t)out->n;
        if (m->runs[p].way != RMI_OPT_HOST) out->runs[out->n++] = m->runs[p];
        for (k = m->head_out[p]; k; k = m->copy[k - 1].next)
            if (!rmi_off_idle(m, &m->copy[k - 1])) out->runs[out->n++] = rmi_low_run((rmi_way)m->copy[k - 1].way, m->inst[m->copy[k - 1].inst].buf, 0, 0);
        for (k = added[p]; k; k = then[k - 1]) out->runs[out->n++] = rmi_low_run(RMI_HOLD, m->inst[m->copy[k - 1].inst].buf, m->copy[k - 1].way == RMI_COPY_MERGE, 0);
        for (k = over[p]; k; k = next[k - 1])
            if (m->copy[k - 1].at > m->copy[k - 1].pos) out->runs[out->n++] = rmi_low_run(RMI_HOLD, m->inst[m->copy[k - 1].inst].buf, 0, 0);
        for (; host < m->n_host && m->host_pos[m->host_order[host]] == p; host++) out->runs[out->n++] = rmi_low_run(RMI_OPT_HOST, m->host_order[host], 0, 0);
        for (k = done[p]; k; k = done_next[k - 1]) out->runs[out->n++] = rmi_low_run(RMI_COPY_DROP, rmi_low_buf(m->g, RMI_BUF_GRAD, k - 1), 0, 0);
    }
    return RM_OK;
}

/* --- the model of one step */

/* fixed 1: values that may not be made again (their op runs once, or changes something); 2: no decisions (outputs; params with views,
   which would keep the old bytes; gradients that nobody has). */
RMI_FN void rmi_off_fix(rmi_off_model *m)
{
    const rm_graph *g = m->g;
    uint32_t i, k;
    for (i = 0; i < g->n_ops; i++)
        for (k = 0; k < g->ops[i].out.n && g->ops[i].pinned; k++) m->fixed[g->ops[i].out.at[k]] = m->fixed[rmi_low_buf(g, RMI_BUF_SAVED, i)] = 1;
    for (i = 0; i < g->n_tensors; i++) {
        uint32_t grad = rmi_low_buf(g, RMI_BUF_GRAD, i);
        if (g->tensors[i].is_output) m->fixed[m->root[i] == RMI_NONE ? i : m->root[i]] = 2;
        if (m->root[i] != RMI_NONE && m->root[i] != i && g->tensors[m->root[i]].kind == RMI_PARAM) m->fixed[m->root[i]] = 2;
        if (g->tensors[i].kind != RMI_PARAM) continue;
        m->host_update[i] = rmi_low_has_update(m->step) && g->tensors[i].updates && g->tensors[i].opt == RMI_INF;
        if (!g->tensors[i].consumers.n && !rmi_low_grads_resident(m->step)) m->fixed[grad] = 2;
    }
}

/* percent: of the link's speed to count on. */
RMI_FN rm_result rmi_off_make(rmi_arena *mem, const rm_graph *g, uint32_t step, uint32_t granule, uint32_t percent, rmi_off_model *m)
{
    size_t room = 64, i, k;
    memset(m, 0, sizeof *m);
    m->g = g;
    m->mem = mem;
    m->step = step;
    m->granule = granule;
    m->n_buf = rmi_low_buffers(g);
    RMI_TRY(rmi_off_buffers(m, percent));
    RMI_TRY(rmi_off_tasks(m));
    rmi_off_fix(m);
    for (i = 0; i < g->n_ops; i++)
        for (k = 0; k < g->ops[i].n_forms; k++) room += g->ops[i].forms[k].n_parts;
    m->order = RMI_NEW(mem, rmi_run, room + 4 * (size_t)g->n_tensors + g->n_barriers);
    if (!m->order) return RM_ERROR_MEMORY;
    if (rmi_low_has_backward(step)) {
        m->n_order = rmi_blk_backward(g, step, 0, g->n_ops, m->order);
        m->n_order += rmi_blk_tail(g, step, m->order + m->n_order);
    }
    for (i = 0, m->cap = m->n_order + g->n_ops + 64; i < g->n_ops; i++) m->cap += g->ops[i].out.n + 1; /* nothing is made again twice */
    for (i = 0, room = 64 + 2 * (size_t)m->n_buf; i < m->barrier_at; i++) room += 3 * ((size_t)m->tasks[i].n_writes + 1);
    m->cap_inst = (uint32_t)rmi_min(room, RMI_NONE / 4);
    m->cap_copy = 3 * m->cap_inst;
    m->runs = RMI_NEW(mem, rmi_run, m->cap);
    m->inst = RMI_NEW(mem, rmi_off_inst, m->cap_inst);
    m->copy = RMI_NEW(mem, rmi_off_copy, m->cap_copy);
    m->start = RMI_NEW(mem, uint64_t, (size_t)m->cap + 1);
    m->up = RMI_NEW(mem, uint64_t, (size_t)m->cap + 2);
    m->down = RMI_NEW(mem, uint64_t, (size_t)m->cap + 2);
    m->ws = RMI_NEW(mem, uint64_t, m->cap);
    m->ran = RMI_NEW(mem, uint32_t, g->n_ops);
    m->head_out = RMI_NEW(mem, uint32_t, m->cap);
    m->head_in = RMI_NEW(mem, uint32_t, m->cap);
    for (i = 0, room = 8; i < g->n_ops; i++) room += g->ops[i].in.n;
    m->stack = RMI_NEW(mem, uint32_t, room);
    if (!m->runs || !m->inst || !m->copy || !m->start || !m->up || !m->down || !m->ws || !m->ran || !m->head_out || !m->head_in || !m->stack) return RM_ERROR_MEMORY;
    for (i = 0; i < g->n_tensors; i++) {
        const rmi_tensor *t = &g->tensors[i];
        if (m->root[i] == i && (t->kind == RMI_CONST || (t->kind == RMI_INPUT && t->reader == RMI_NONE))) m->base += m->room[i];
    }
    m->limit = m->host_limit = RMI_INF;
    return RM_OK;
}

/* Runs the updates of `order` where the decisions put them. */
RMI_FN void rmi_off_settle(rmi_off_model *m)
{
    uint32_t q, w;
    for (q = 0; q < m->n_order; q++) {
        rmi_run *r = &m->order[q];
        if (r->way != RMI_OPT && r->way != RMI_OPT_HOST) continue;
        w = r->id;
        r->way = (uint8_t)(m->host_update[w] ? RMI_OPT_HOST : RMI_OPT);
        if (!m->host_update[w]) continue;
        m->mode[w] |= RMI_OFF_EDGE;
        m->mode[rmi_low_buf(m->g, RMI_BUF_GRAD, w)] = RMI_OFF_HOME;
        m->mode[rmi_low_buf(m->g, RMI_BUF_STATE, w)] = RMI_OFF_HOME;
    }
}

/* What another program has at the step's edge: homes of its own, n of them. Decisions about it are taken. */
RMI_FN void rmi_off_join(rmi_off_model *m, const rmi_home *homes, size_t n)
{
    size_t k;
    uint32_t b, i;
    for (k = 0; k < n; k++) m->edge[homes[k].buf] |= homes[k].host ? 2 : 1;
    m->given = homes;
    m->n_given = n;
    m->steady = 1;
    for (b = 0; b < 3 * m->g->n_tensors; b++) {
        rmi_buf_kind kind = rmi_low_kind(m->g, b, &i);
        if (m->g->tensors[i].kind != RMI_PARAM || m->root[b] == RMI_NONE || !m->edge[b]) continue;
        m->mode[b] = (uint8_t)(m->edge[b] == 1 ? 0 : kind != RMI_BUF_VALUE ? RMI_OFF_HOME : m->edge[b] == 2 ? RMI_OFF_GAP | RMI_OFF_EDGE : RMI_OFF_GAP);
        if (kind != RMI_BUF_VALUE || m->edge[b] != 2) m->fixed[b] = 2;
    }
}

/* Where a given home is, or where the next one goes. */
RMI_FN uint64_t rmi_off_offset(const rmi_off_model *m, uint32_t b, uint32_t host, uint64_t *next)
{
    uint64_t at = *next;
    size_t k;
    for (k = 0; k < m->n_given && m->edge[b] & (host ? 2 : 1); k++)
        if (m->given[k].buf == b && m->given[k].host == host) return m->given[k].offset;
    *next += m->room[b];
    return at;
}

/* A list for >>sequence, its homes at offsets of their own: what stays lowest, then what is there at the step's edge, inputs. */
RMI_FN rm_result rmi_off_homes(const rmi_off_model *m, rmi_arena *mem, rmi_off_list *out)
{
    const rm_graph *g = m->g;
    uint32_t b, i, pass;
    uint64_t dev = 0, host = 0;
    for (i = 0; i < m->n_given; i++)
        if (m->given[i].host) host = rmi_max(host, m->given[i].offset + m->room[m->given[i].buf]);
        else dev = rmi_max(dev, m->given[i].offset + m->room[m->given[i].buf]);
    out->homes = RMI_NEW(mem, rmi_home, 3 * (size_t)m->n_buf);
    out->n_homes = out->n_late = 0;
    if (!out->homes) return RM_ERROR_MEMORY;
    for (pass = 0; pass < 4; pass++)
        for (b = 0; b < 3 * g->n_tensors; b++) {
            rmi_buf_kind kind = rmi_low_kind(g, b, &i);
            const rmi_tensor *t = &g->tensors[i];
            const rmi_off_inst *s = m->cur[b] == RMI_NONE ? NULL : &m->inst[m->cur[b]];
            rmi_home *h = &out->homes[out->n_homes];
            uint32_t turn = 0, host_too = 0;
            if (m->root[b] != b || t->kind == RMI_ACT || rmi_low_external(g, b) || !rmi_low_bytes(g, b)) continue;
            if (kind == RMI_BUF_VALUE && t->kind == RMI_INPUT) turn = 2;
            else if (kind != RMI_BUF_VALUE && t->kind != RMI_PARAM) continue;
            else if (kind == RMI_BUF_GRAD && !(t->consumers.n && (m->waiting || rmi_low_grads_resident(m->step)))) continue;
            else if (m->mode[b]) {
                host_too = 1;
                turn = s && ((kind == RMI_BUF_VALUE && !(m->mode[b] & RMI_OFF_EDGE)) || (s->edge && m->copy[s->edge - 1].wraps)) ? 1 : 4;
            }
            if (pass == 3 ? !host_too : turn != pass) continue;
            h->buf = b;
            h->host = pass == 3;
            h->offset = rmi_off_offset(m, b, pass == 3, pass == 3 ? &host : &dev);
            out->n_homes++;
        }
    for (i = 0; i < m->n_copy; i++) { /* addresses of what the next step's first runs must not write yet */
        rmi_home *h = &out->homes[out->n_homes + out->n_late];
        b = m->inst[m->copy[i].inst].buf;
        if (m->copy[i].way == RMI_COPY_IN || m->copy[i].end <= m->ns || rmi_off_idle(m, &m->copy[i])) continue;
        h->buf = b;
        h->host = 2;
        h->offset = dev;
        h->until = out->at[rmi_off_run_at(m, m->copy[i].end - m->ns)];
        dev += m->room[b];
        out->n_late++;
    }
    return RM_OK;
}

RMI_PLAIN_END

/* --- the search: groups of equal tensors along the layers, their borders moved */

typedef struct rmi_off_item {
    uint32_t buf, stage, group;
    uint64_t key;     /* equal: the same place in an equal stage */
    uint64_t ns;      /* to make it again */
    uint8_t lasting;  /* a param, or its gradient or state */
} rmi_off_item;

typedef struct rmi_off_search {
    rmi_off_model *m;
    rmi_off_item *items;
    uint32_t n, *first; /* items of group g: first[g] ... first[g + 1] */
    uint32_t n_groups;
    uint64_t energy, best_energy, rng, price; /* price: ns for 1024 bytes too many */
    uint8_t *undo;      /* modes of the range that a move changes */
    uint8_t *was, *was_host; /* all decisions before a move that changes where updates run */
    uint32_t late_of;   /* of the decisions of now */
    uint32_t n_flips;   /* params whose update may run on either side */
    uint64_t evals;
} rmi_off_search;

RMI_FN int rmi_off_cmp_item(const void *a, const void *b, void *user)
{
    const rmi_off_item *x = (const rmi_off_item *)a, *y = (const rmi_off_item *)b;
    (void)user;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    if (x->stage != y->stage) return x->stage < y->stage ? -1 : 1;
    return x->buf < y->buf ? -1 : x->buf > y->buf;
}

RMI_FN uint32_t rmi_off_stage_of(const rmi_shape *shape, uint32_t op)
{
    uint32_t lo = 0, hi = shape->n;
    while (hi - lo > 1) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (shape->stages[mid].lo <= op) lo = mid;
        else hi = mid;
    }
    return lo;
}

RMI_FN void rmi_off_put_item(rmi_off_search *s, const rmi_shape *shape, uint32_t b, uint32_t op, uint32_t slot)
{
    const rmi_off_model *m = s->m;
    rmi_off_item *x = &s->items[s->n];
    rmi_buf_kind kind;
    uint32_t i;
    if (m->root[b] != b || m->fixed[b] == 2 || op == RMI_NONE) return;
    kind = rmi_low_kind(m->g, b, &i);
    x->buf = b;
    x->stage = rmi_off_stage_of(shape, op);
    x->key = (uint64_t)shape->stages[x->stage].cls << 40 | (uint64_t)(op - shape->stages[x->stage].lo) << 16 | slot;
    x->lasting = kind != RMI_BUF_SAVED && m->g->tensors[i].kind == RMI_PARAM;
    x->ns = x->lasting ? 0 : m->start[op];
    s->n++;
}

/* What decisions there are: values that the backward reads, and what persists. */
RMI_FN rm_result rmi_off_items(rmi_off_search *s, const rmi_shape *shape)
{
    rmi_off_model *m = s->m;
    const rm_graph *g = m->g;
    uint32_t i, k;
    uint8_t *read = m->there;
    memset(read, 0, m->n_buf);
    for (i = 0; i < m->n_order; i++) {
        const rmi_off_task *t = rmi_off_task_at(m, m->order[i]);
        for (k = 0; k < t->n_reads; k++) read[m->pool[t->read + k]] = 1;
    }
    for (i = 0; i < g->n_ops; i++) { /* start (scratch here): the time to make an op's output again, with inputs that are never kept */
        m->start[i] = m->tasks[m->fwd_at[i]].again;
        for (k = 0; k < g->ops[i].in.n; k++) {
            uint32_t t = m->root[g->ops[i].in.at[k]];
            if (t != RMI_NONE && g->tensors[t].kind == RMI_ACT && !read[t] && !m->fixed[t]) m->start[i] = rmi_add(m->start[i], m->start[g->tensors[t].maker]);
        }
    }
    for (i = 0; i < g->n_ops; i++) { /* what no backward reads is made again, if a recomputation wants it */
        for (k = 0; k < g->ops[i].out.n; k++) {
            uint32_t b = g->ops[i].out.at[k];
            if (read[b]) rmi_off_put_item(s, shape, b, i, k);
            else if (!m->fixed[b] && m->root[b] == b) m->mode[b] = RMI_OFF_AGAIN;
        }
        k = rmi_low_buf(g, RMI_BUF_SAVED, i);
        if (read[k]) rmi_off_put_item(s, shape, k, i, 0x4000);
        else if (!m->fixed[k]) m->mode[k] = RMI_OFF_AGAIN;
    }
    for (i = 0; i < g->n_tensors; i++) {
        uint32_t op = g->tensors[i].reader, slot = 0, grad = rmi_low_buf(g, RMI_BUF_GRAD, i), state = rmi_low_buf(g, RMI_BUF_STATE, i);
        if (g->tensors[i].kind == RMI_CONST || g->tensors[i].kind == RMI_ACT || op == RMI_NONE) continue;
        while (slot < g->ops[op].in.n && g->ops[op].in.at[slot] != i) slot++;
        rmi_off_put_item(s, shape, i, op, 0x5000 + slot);
        if (g->tensors[i].kind != RMI_PARAM || m->step == RM_FORWARD) continue;
        if (g->tensors[i].consumers.n) rmi_off_put_item(s, shape, grad, op, 0x6000 + slot);
        if (g->tensors[i].updates && rmi_low_has_update(m->step)) rmi_off_put_item(s, shape, state, op, 0x7000 + slot);
    }
    return RM_OK;
}

/* Groups of so few bytes that all of them together hardly matter stay on the device and are no decisions. */
RMI_FN void rmi_off_drop_small(rmi_off_search *s)
{
    const rmi_off_model *m = s->m;
    uint64_t all = 0, limit, small, bytes;
    uint32_t i, k, to, pass = 0;
    for (i = 0; i < s->n; i++) all += m->room[s->items[i].buf];
    limit = rmi_min(all, m->limit) / 400;
    for (small = limit / 4; small; small /= 2) { /* the largest size below which all together are within the limit */
        bytes = 0;
        for (pass = 0; pass < 2 && bytes <= limit; pass++)
            for (i = to = 0; i < s->n; i = k) {
                uint64_t sum = 0;
                for (k = i; k < s->n && s->items[k].key == s->items[i].key; k++) sum += m->room[s->items[k].buf];
                if (sum <= small) bytes += pass ? 0 : sum;
                else if (pass) while (i < k) s->items[to++] = s->items[i++];
            }
        if (bytes > limit) continue;
        s->n = to;
        return;
    }
}

/* May the update of tensor i run on either side? */
RMI_FN int rmi_off_two_sided(const rmi_off_model *m, uint32_t i)
{
    const rmi_tensor *t = &m->g->tensors[i];
    return t->kind == RMI_PARAM && !t->external && t->updates && rmi_low_has_update(m->step) && t->opt_host != RMI_INF && t->opt != RMI_INF && !(m->edge[i] & 1) && m->fixed[i] != 2 &&
           m->g->has_link && m->host_limit;
}

RMI_FN rm_result rmi_off_search_make(rmi_arena *mem, rmi_off_model *m, const rmi_shape *shape, rmi_off_search *s)
{
    uint64_t bytes = 0, ns = 0;
    uint32_t i;
    memset(s, 0, sizeof *s);
    s->m = m;
    s->items = RMI_NEW(mem, rmi_off_item, (size_t)m->n_buf + 1);
    s->first = RMI_NEW(mem, uint32_t, (size_t)m->n_buf + 2);
    s->undo = RMI_NEW(mem, uint8_t, (size_t)m->n_buf + 1);
    s->was = RMI_NEW(mem, uint8_t, (size_t)m->n_buf + 1);
    s->was_host = RMI_NEW(mem, uint8_t, (size_t)m->g->n_tensors + 1);
    if (!s->items || !s->first || !s->undo || !s->was || !s->was_host) return RM_ERROR_MEMORY;
    for (i = 0; i < m->g->n_tensors; i++) s->n_flips += (uint32_t)rmi_off_two_sided(m, i);
    RMI_TRY(rmi_off_items(s, shape));
    rmi_sort(s->items, s->n, sizeof(rmi_off_item), rmi_off_cmp_item, NULL);
    rmi_off_drop_small(s);
    for (i = 0; i < s->n; i++) {
        if (!i || s->items[i].key != s->items[i - 1].key) s->first[s->n_groups++] = i;
        s->items[i].group = s->n_groups - 1;
        if (s->items[i].lasting) continue;
        bytes += m->room[s->items[i].buf];
        ns += s->items[i].ns;
    }
    s->first[s->n_groups] = s->n;
    s->price = 5 * ns / ((bytes >> 10) + 1) + 1;
    return RM_OK;
}

RMI_FN uint64_t rmi_off_energy(rmi_off_search *s)
{
    rmi_off_model *m = s->m;
    uint64_t e;
    s->evals++;
    rmi_off_derive(m);
    if (!rmi_off_eval(m)) return RMI_INF;
    e = rmi_add(rmi_max(rmi_max(m->ns, m->host_ns), rmi_max(m->d2h_ns, m->h2d_ns)), m->late_ns);
    if (m->peak > m->limit) e = rmi_add(e, rmi_add(rmi_mul((m->peak - m->limit) >> 10, s->price), rmi_mul(m->over / m->n, s->price)));
    if (m->host_bytes > m->host_limit) e = rmi_add(e, rmi_mul((m->host_bytes - m->host_limit) >> 10, s->price));
    return e;
}

RMI_FN int rmi_off_fits(const rmi_off_model *m) { return m->peak <= m->limit && m->host_bytes <= m->host_limit; }

/* Is mode possible for item x? */
RMI_FN int rmi_off_may(const rmi_off_search *s, const rmi_off_item *x, uint8_t mode)
{
    const rmi_off_model *m = s->m;
    uint32_t i;
    rmi_buf_kind kind = rmi_low_kind(m->g, x->buf, &i);
    if (mode == RMI_OFF_OUT && !x->lasting) return m->g->has_link && m->host_limit;
    if (!x->lasting) return mode == RMI_OFF_KEEP || (!m->fixed[x->buf] && (kind == RMI_BUF_SAVED || m->g->tensors[i].kind == RMI_ACT));
    if (mode && (!m->g->has_link || !m->host_limit)) return 0;
    if (m->host_update[i] || m->edge[x->buf] == 2) return kind == RMI_BUF_VALUE ? mode < 4 && (mode & RMI_OFF_EDGE) != 0 : mode == RMI_OFF_HOME;
    return mode < (kind == RMI_BUF_VALUE ? 4 : 2);
}

/* One mode for items [lo, hi); what was there goes to undo. */
RMI_FN void rmi_off_set(rmi_off_search *s, uint32_t lo, uint32_t hi, uint8_t mode)
{
    uint32_t i;
    for (i = lo; i < hi; i++) {
        s->undo[i] = s->m->mode[s->items[i].buf];
        if (rmi_off_may(s, &s->items[i], mode)) s->m->mode[s->items[i].buf] = mode;
    }
}

RMI_FN uint32_t rmi_off_random(rmi_off_search *s, uint32_t n)
{
    s->rng++;
    return (uint32_t)(((rmi_mix(s->rng) >> 32) * n) >> 32);
}

/* Groups by what it costs to make a byte again, dearest first. */
RMI_FN int rmi_off_cmp_cost(const void *a, const void *b, void *user)
{
    const rmi_off_search *s = (const rmi_off_search *)user;
    const rmi_off_item *x = &s->items[s->first[*(const uint32_t *)a]], *y = &s->items[s->first[*(const uint32_t *)b]];
    uint64_t p = rmi_mul(x->ns, s->m->room[y->buf] >> 8), q = rmi_mul(y->ns, s->m->room[x->buf] >> 8);
    if (p != q) return p > q ? -1 : 1;
    return x->key < y->key ? -1 : x->key > y->key;
}

/* Everything that persists goes home (streamed), or stays. */
RMI_FN void rmi_off_stream(rmi_off_search *s, int home)
{
    uint32_t i, w;
    for (i = 0; i < s->n; i++) {
        const rmi_off_item *x = &s->items[i];
        rmi_buf_kind kind = rmi_low_kind(s->m->g, x->buf, &w);
        if (!x->lasting) continue;
        rmi_off_set(s, i, i + 1, (uint8_t)(!home ? 0 : kind == RMI_BUF_VALUE ? RMI_OFF_GAP | RMI_OFF_EDGE : RMI_OFF_HOME));
    }
}

/* A first guess (greedy solution of the linear programme): what is dearest to make again goes out, early layers first, until the
   forward's time is used up; of the rest the cheapest is made again until all fits. link 0: nothing goes out; again 0: nothing
   is made again. */
RMI_FN rm_result rmi_off_guess(rmi_off_search *s, rmi_arena *mem, int link, int again)
{
    rmi_off_model *m = s->m;
    uint32_t *by = RMI_NEW(mem, uint32_t, (size_t)s->n_groups + 1), n = 0, i, k, w;
    uint64_t time = 0, spent = 0;
    if (!by) return RM_ERROR_MEMORY;
    for (i = 0; i < m->g->n_ops; i++) time += m->tasks[m->fwd_at[i]].ns;
    for (i = 0; i < s->n_groups; i++)
        if (!s->items[s->first[i]].lasting) by[n++] = i;
    rmi_sort(by, n, sizeof(uint32_t), rmi_off_cmp_cost, s);
    for (i = 0; i < s->n; i++)
        if (!s->items[i].lasting) m->mode[s->items[i].buf] = RMI_OFF_KEEP;
    for (i = 0; i < n && link; i++)
        for (k = s->first[by[i]]; k < s->first[by[i] + 1]; k++) {
            uint32_t b = s->items[k].buf;
            rmi_off_energy(s); /* what goes out when all fits is a waste */
            if (m->peak <= m->limit) return RM_OK;
            for (w = k; w < s->first[by[i] + 1] && w < k + 4 && spent < time; w++) {
                b = s->items[w].buf;
                if (spent + m->out_ns[b] > time) break;
                rmi_off_set(s, w, w + 1, RMI_OFF_OUT);
                spent += m->out_ns[b];
            }
            if (w == k) break;
            k = w - 1;
        }
    for (i = n; i-- > 0 && again;) {
        uint32_t lo = s->first[by[i]], hi = s->first[by[i] + 1];
        for (k = hi; k-- > lo;) {
            if (m->mode[s->items[k].buf] != RMI_OFF_KEEP) continue;
            rmi_off_set(s, k, k + 1, RMI_OFF_AGAIN);
            if (k % 4 && k > lo) continue;
            rmi_off_energy(s);
            if (m->peak <= m->limit) return RM_OK;
        }
    }
    return RM_OK;
}

/* An item, one that lasts less often. */
RMI_FN uint32_t rmi_off_pick(rmi_off_search *s)
{
    uint32_t x = rmi_off_random(s, s->n), k;
    for (k = 0; k < 2 && s->items[x].lasting; k++) x = rmi_off_random(s, s->n);
    return x;
}

/* One move: a range of a group gets one mode; mostly the range ends at a border between modes. 0: nothing would change. */
RMI_FN int rmi_off_move(rmi_off_search *s, uint32_t *lo, uint32_t *hi)
{
    rmi_off_model *m = s->m;
    uint32_t x = rmi_off_pick(s), g = s->items[x].group, a = s->first[g], b = s->first[g + 1], dice = rmi_off_random(s, 8), len, i;
    uint8_t old = m->mode[s->items[x].buf], mode = (uint8_t)rmi_off_random(s, s->items[x].lasting ? 4 : 3);
    int changed = 0;
    len = 1 + rmi_off_random(s, 1 + rmi_off_random(s, dice < 2 ? b - a : 4));
    if (dice >= 3) { /* a border near x */
        uint32_t up = x;
        while (up + 1 < b && m->mode[s->items[up + 1].buf] == old) up++;
        while (x > a && m->mode[s->items[x - 1].buf] == old) x--;
        if (rmi_off_random(s, 2) && up + 1 < b) { /* the run's upper end: from either side */
            if (rmi_off_random(s, 2)) mode = m->mode[s->items[up + 1].buf], x = up + 1 > a + len ? up + 1 - len : a;
            else mode = old, x = up + 1;
        } else if (x > a) {
            if (rmi_off_random(s, 2)) mode = m->mode[s->items[x - 1].buf];
            else mode = old, x = x > a + len ? x - len : a;
        }
    }
    *lo = x;
    *hi = x + len < b ? x + len : b;
    rmi_off_set(s, *lo, *hi, mode);
    for (i = *lo; i < *hi; i++) changed |= s->undo[i] != m->mode[s->items[i].buf];
    return changed;
}

/* The update of w goes to the other side. 0: it may not. */
RMI_FN uint32_t rmi_off_flip_one(rmi_off_model *m, uint32_t w, uint8_t host)
{
    uint32_t grad = rmi_low_buf(m->g, RMI_BUF_GRAD, w);
    if (!rmi_off_two_sided(m, w) || m->host_update[w] == host) return 0;
    m->host_update[w] = host;
    if (!host && !rmi_low_grads_resident(m->step) && m->fixed[grad] != 2) m->mode[grad] = 0;
    return 1;
}

/* One move: the updates of a few equal params go to the other side, or the one that the step waits for. 0: nothing would change. */
RMI_FN int rmi_off_flip(rmi_off_search *s)
{
    rmi_off_model *m = s->m;
    uint32_t x = rmi_off_pick(s), b = s->first[s->items[x].group + 1], len = 1 + rmi_off_random(s, 1 + rmi_off_random(s, 4)), w, changed = 0;
    uint8_t host = 0;
    memcpy(s->was, m->mode, m->n_buf);
    memcpy(s->was_host, m->host_update, m->g->n_tensors);
    if (s->late_of != RMI_NONE && !rmi_off_random(s, 4)) {
        changed = rmi_off_flip_one(m, s->late_of, 0);
        len = 0;
    }
    for (; s->items[x].lasting && x < b && len; x++, len--) {
        rmi_low_kind(m->g, s->items[x].buf, &w);
        if (!changed) host = !m->host_update[w];
        changed += rmi_off_flip_one(m, w, host);
    }
    if (changed) rmi_off_settle(m);
    return changed != 0;
}

RMI_FN void rmi_off_keep_best(rmi_off_search *s)
{
    if (!rmi_off_fits(s->m) || s->energy >= s->best_energy) return;
    s->best_energy = s->energy;
    memcpy(s->m->best_mode, s->m->mode, s->m->n_buf);
    memcpy(s->m->best_host, s->m->host_update, s->m->g->n_tensors);
}

/* Back to the best, if there is one. */
RMI_FN void rmi_off_take_best(rmi_off_search *s)
{
    if (s->best_energy == RMI_INF) return;
    memcpy(s->m->mode, s->m->best_mode, s->m->n_buf);
    memcpy(s->m->host_update, s->m->best_host, s->m->g->n_tensors);
    rmi_off_settle(s->m);
}

/* Threshold accepting (Dueck and Scheuer 1990) from the decisions of now; the best that fits is kept. */
RMI_FN void rmi_off_anneal(rmi_off_search *s, uint64_t evals, uint64_t heat)
{
    rmi_off_model *m = s->m;
    uint64_t end = s->evals + evals, from = s->evals, e, allowed;
    uint32_t lo, hi, i;
    s->energy = rmi_off_energy(s);
    s->late_of = m->late_of;
    rmi_off_keep_best(s);
    while (s->evals < end && s->n) {
        uint64_t left = (end - s->evals) * 1024 / (end - from + 1);
        int flips = s->n_flips && !rmi_off_random(s, 5);
        if (!(flips ? rmi_off_flip(s) : rmi_off_move(s, &lo, &hi))) {
            s->rng++;
            from -= from > 0 && !(s->rng & 15); /* moves that change nothing cost little */
            if (!(s->rng & 63)) s->evals++;
            continue;
        }
        e = rmi_off_energy(s);
        allowed = heat * (left * left >> 10) / 1024 * rmi_off_random(s, 1024) / 1024;
        if (e <= rmi_add(s->energy, allowed)) {
            s->energy = e;
            s->late_of = m->late_of;
            rmi_off_keep_best(s);
            continue;
        }
        if (flips) {
            memcpy(m->mode, s->was, m->n_buf);
            memcpy(m->host_update, s->was_host, m->g->n_tensors);
            rmi_off_settle(m);
            continue;
        }
        for (i = lo; i < hi; i++) m->mode[s->items[i].buf] = s->undo[i];
    }
}

RMI_PLAIN_BEGIN
/* --- plain plans, and where everything starts from */

typedef enum rmi_off_recipe { RMI_OFF_ALL_KEPT, RMI_OFF_STREAMED, RMI_OFF_FREE_LINK, RMI_OFF_BLOCKS, RMI_OFF_SEARCHED } rmi_off_recipe;

/* Which updates run on the host: those that can run nowhere else, and of all that can, `permille` of the time that they take there.
   What the forward reads first is updated last and wanted first: these stay on the device. spread: it is every so-manieth instead,
   so that the link has time for the states of those that are updated on the device. */
RMI_FN void rmi_off_host_updates(rmi_off_model *m, uint32_t permille, int spread)
{
    const rm_graph *g = m->g;
    uint64_t all = 0, left;
    uint32_t i, pass;
    for (pass = 0; pass < 2; pass++) {
        left = spread ? 0 : permille == 1000 ? RMI_INF : all / 1000 * permille;
        for (i = g->n_tensors; i-- > 0;) {
            const rmi_tensor *t = &g->tensors[i];
            int can = t->kind == RMI_PARAM && !t->external && t->updates && rmi_low_has_update(m->step) && t->opt_host != RMI_INF;
            int free = rmi_off_two_sided(m, i) && (permille == 1000 || m->room[i] > m->limit >> 12);
            if (!pass) all += free ? t->opt_host : 0;
            if (!pass || !can) continue;
            if (spread && free) left += t->opt_host / 1000 * permille;
            m->host_update[i] = t->opt == RMI_INF || (free && permille && t->opt_host <= left);
            if (free && m->host_update[i]) left -= t->opt_host;
        }
    }
}

/* A state that no step of this kind touches needs no place on the device. */
RMI_FN void rmi_off_rest_states(rmi_off_model *m, int home)
{
    uint32_t i;
    for (i = 0; i < m->g->n_tensors && !rmi_low_has_update(m->step); i++) {
        uint32_t b = rmi_low_buf(m->g, RMI_BUF_STATE, i);
        if (m->g->tensors[i].kind == RMI_PARAM && !m->edge[b]) m->mode[b] = (uint8_t)(home ? RMI_OFF_HOME : 0);
    }
}

/* Modes of a recipe. ALL_KEPT: nothing moves that need not. STREAMED: what persists is at home in host memory, updates run there.
   FREE_LINK: values go out while the forward leaves the link time. BLOCKS: every stage is made again from its input, which goes
   out. SEARCHED: the guess. */
RMI_FN rm_result rmi_off_cook(rmi_off_search *s, rmi_arena *mem, const rmi_shape *shape, rmi_off_recipe recipe, int home, uint32_t host, int spread)
{
    rmi_off_model *m = s->m;
    uint32_t i, k;
    rmi_off_host_updates(m, host, spread);
    rmi_off_settle(m);
    rmi_off_rest_states(m, home);
    rmi_off_stream(s, home);
    for (i = 0; i < s->n; i++)
        if (!s->items[i].lasting) rmi_off_set(s, i, i + 1, recipe == RMI_OFF_BLOCKS ? RMI_OFF_AGAIN : RMI_OFF_KEEP);
    for (i = 0; i < shape->n && recipe == RMI_OFF_BLOCKS; i++)
        for (k = 0; k < s->n && shape->stages[i].in != RMI_NONE; k++)
            if (s->items[k].buf == m->root[shape->stages[i].in]) rmi_off_set(s, k, k + 1, RMI_OFF_OUT);
    if (recipe == RMI_OFF_FREE_LINK) {
        uint64_t limit = m->limit;
        rm_result r;
        m->limit = 0;
        r = rmi_off_guess(s, mem, 1, 0);
        m->limit = limit;
        return r;
    }
    return recipe == RMI_OFF_SEARCHED ? rmi_off_guess(s, mem, 1, 1) : RM_OK;
}

/* Starts of the search: with and without weights at home, updates on either side or on both. by: their numbers, the best first. */
#define RMI_OFF_STARTS 28u
RMI_FN rm_result rmi_off_start(rmi_off_search *s, rmi_arena *mem, const rmi_shape *shape, uint32_t which)
{
    static const uint32_t permille[] = {0, 1000, 950, 850, 700, 500, 300, 850, 800, 700, 500};
    if (which >= 22) return rmi_off_cook(s, mem, shape, RMI_OFF_BLOCKS, 1, 950 - (which - 22) * 50, 1); /* where the link has enough to do without values */
    return rmi_off_cook(s, mem, shape, RMI_OFF_SEARCHED, (int)(which & 1), permille[which >> 1], which >> 1 > 6);
}

RMI_FN rm_result rmi_off_starts(rmi_off_search *s, rmi_arena *mem, const rmi_shape *shape, uint32_t *by, uint32_t *n)
{
    uint64_t energy[RMI_OFF_STARTS];
    uint32_t i, k, most = s->n_flips ? RMI_OFF_STARTS : 2;
    for (*n = 0; *n < most; ++*n) {
        RMI_TRY(rmi_off_start(s, mem, shape, *n));
        energy[*n] = rmi_off_energy(s);
        for (k = *n; k && energy[by[k - 1]] > energy[*n]; k--) by[k] = by[k - 1];
        by[k] = *n;
    }
    for (i = k = 1; i < *n; i++) /* of those with equal energy one will do */
        if (energy[by[i]] != energy[by[k - 1]]) by[k++] = by[i];
    *n = k;
    return RM_OK;
}

RMI_PLAIN_END

RMI_SOLVERS_END
RMI_TEXT_BEGIN

/* =====================================================================================================================
   >>plan - passes of a preset, the plan and its figures
   In: graph, budget, preset. Every candidate is a list of runs; it becomes statements (>>sequence), addresses (>>place) and
   figures (>>schedule), and counts only if its arena is within the budget: the budget is the arena. The fastest wins.
   ================================================================================================================== */
static const uint32_t rmi_plan_steps[RM_STEP_KINDS] = {RM_SINGLE, RM_FIRST, RM_MIDDLE, RM_LAST, RM_FORWARD};

typedef struct rmi_plan_stage { /* for the summary: what the first program does with a stage */
    uint32_t lo, hi, cls;
    uint32_t forwards;       /* how often an op of it runs forward at most */
    uint64_t recomputed_ns;
} rmi_plan_stage;

struct rm_plan {
    rmi_arena mem;
    rm_graph *g;
    rmi_program prog[RM_STEP_KINDS];
    rm_plan_info info[RM_STEP_KINDS];
    uint32_t n, align;
    uint8_t live_only; /* no addresses: to look at, not to run */
    rm_point *curve;
    size_t n_curve;
    uint32_t lost_ppm;
    rmi_shape shape;
};

typedef struct rmi_planner {
    rm_graph *g;
    const rm_plan_desc *d;
    rm_plan *p;
    uint32_t steps, step, align;
    rm_config c;
    rmi_home *homes; /* of the current step */
    size_t n_homes, n_low, n_late; /* all; those without inputs; those of >>sequence alone, after all */
    uint64_t *offsets;     /* by buffer: of homes */
    uint64_t homes_bytes;
    rmi_seq seq;
    rmi_blk blk;
    rmi_chn_table *table;
    uint64_t base;   /* bytes beside the chain */
    rmi_program best; /* n 0: none yet */
    rmi_program tried; /* the last candidate's figures */
    uint64_t min_arena;
    rm_plan_info *info;
    rmi_stop stop;
    uint64_t end_ns;  /* of the clock; 0: no limit */
    int late;         /* the clock, not the caller, has stopped this kind of step */
    rmi_arena tries, lists; /* of one candidate, emptied for the next */
    int pruning, placing, quick; /* quick: addresses that are not found soon are not looked for */
    int lanes; /* reductions run beside the compute lane */
    int host_only; /* an update runs in host memory only: every program moves something */
    uint64_t budget; /* 0: none */
    int joint;     /* programs with copies whose ends are each other's starts */
    int apart;     /* without copies now: programs with copies come after all those without */
    const rmi_home *given; /* these */
    size_t n_given;
    rmi_ref_search *tune; /* NULL: no op has variants (or none may be chosen) */
    rmi_run *tuned;       /* room for its runs */
} rmi_planner;

#define RMI_PLAN_WORK ((uint64_t)40000000) /* of a search: about a second */
#define RMI_PLAN_BOUND_WORK ((uint64_t)20000000) /* of a lower bound: some 50 ms at most */

/* A preset is a row: which passes run, and what they need to know. The first one is the default (with host memory: offmate). */
typedef struct rmi_plan_preset {
    const char *name, *help, *kinds;
    uint32_t passes, segment;
} rmi_plan_preset;

#define RMI_PLAN_GROUP 12u    /* ops in a group, at most */
#define RMI_PLAN_GROUPED 4096u /* ops: more are not grouped */
#define RMI_PLAN_LARGE 20u    /* ops: a stage that may be worth cutting though more than one value crosses */
#define RMI_PLAN_MANY 10000u  /* ops: then this is not tried */
#define RMI_PLAN_MOVES (RM_PASS_STREAM | RM_PASS_LINK | RM_PASS_BLOCKS | RM_PASS_OFFLOAD)
#define RMI_PLAN_GELU "*gelu*,*silu*,*swiglu*"
static const rmi_plan_preset rmi_plan_presets[] = {
    {"hiremate", "rockmate, and whole-graph search from its plans: about a second", "", RM_PASS_CHAIN | RM_PASS_OPTIONS | RM_PASS_GROUPS | RM_PASS_SEARCH, 0},
    {"rockmate", "rotor, and for each stage what to keep of it (Zhao et al. 2023)", "", RM_PASS_CHAIN | RM_PASS_OPTIONS, 0},
    {"rotor", "the best checkpoints of a chain of stages, exact for every budget", "", RM_PASS_CHAIN, 0},
    {"noremat", "every op once, in the order of declaration", "", 0, 0},
    {"every-block", "a checkpoint at every cut point", "", RM_PASS_SEGMENTS, 1},
    {"sqrt", "segments of about the root of the number of stages (Chen et al. 2016)", "", RM_PASS_SEGMENTS, 0},
    {"greedy", "a checkpoint whenever enough has been kept since the last one (Chen et al. 2016)", "", RM_PASS_GREEDY, 0},
    {"llmc-1", "recompute activation functions, keep all else", RMI_PLAN_GELU, RM_PASS_KINDS, 0},
    {"llmc-2", "recompute activation functions and norms, keep all else", RMI_PLAN_GELU ",*norm*,*ln*,*rms*", RM_PASS_KINDS, 0},
    {"hilp", "groups of ops with options, and a search over the groups; no chain (HiRemate)", "", RM_PASS_GROUPS, 0},
    {"checkmate", "whole-graph search, no chain: single values, variants, any order", "", RM_PASS_SEARCH, 0},
    {"search", "rotor, and whole-graph search from its plans", "", RM_PASS_CHAIN | RM_PASS_SEARCH, 0},
    {"stream", "weights, gradients and states at home in host memory, streamed; updates there", "", RM_PASS_STREAM, 0},
    {"link", "what fits the link's free time goes to host memory; nothing is recomputed", "", RM_PASS_LINK, 0},
    {"blocks", "every stage recomputed from its input, which goes to host memory", "", RM_PASS_BLOCKS, 0},
    {"offmate", "keep, recompute or move each tensor: all that the link and host memory allow", "", RM_PASS_CHAIN | RMI_PLAN_MOVES, 0},
};

RMI_FN void rmi_plan_use_preset(const rmi_plan_preset *p, rm_config *c)
{
    memset((void *)c, 0, sizeof *c);
    memcpy(c->name, p->name, strlen(p->name));
    memcpy(c->kinds, p->kinds, strlen(p->kinds));
    c->passes = p->passes;
    c->segment = p->segment;
    c->gap_ppm = 1000;
}

/* The preset of that name (NULL: the default), or NULL. */
RMI_FN const rmi_plan_preset *rmi_plan_find_preset(const char *name)
{
    size_t i;
    for (i = 0; i < RMI_COUNT(rmi_plan_presets); i++)
        if (!name || !strcmp(rmi_plan_presets[i].name, name)) return &rmi_plan_presets[i];
    return NULL;
}

/* What is wrong with a configuration, or NULL. Lists of patterns have the letters of names, * and commas. */
RMI_FN const char *rmi_plan_config_wrong(const rm_config *c)
{
    size_t i;
    if (c->passes >> 11) return "passes has an unknown bit; take RM_PASS_CHAIN and its like";
    if (c->off >> 4) return "off has an unknown bit; take RM_NO_RECOMPUTE and its like";
    if (c->work > RMI_MAX) return "work is not below 2^62";
    for (i = 0; i < sizeof c->name && c->name[i]; i++) {}
    if (i == sizeof c->name || (i && !rmi_graph_name_ok(c->name))) return "name is no name: up to 31 of A-Z a-z 0-9 _ . / - [ ]";
    for (i = 0; i < sizeof c->kinds && c->kinds[i];) i++;
    if (i == sizeof c->kinds) return "kinds has no end within its 256 bytes";
    for (i = 0; c->kinds[i]; i++) {
        char letter[2];
        letter[0] = c->kinds[i];
        letter[1] = 0;
        if (letter[0] != '*' && letter[0] != ',' && !rmi_graph_name_ok(letter)) return "kinds has a letter that no name has; it is a list of patterns of A-Z a-z 0-9 _ . / - [ ] and *, with commas";
    }
    if (!strcmp(c->kinds, "none")) return "kinds is 'none', which no op is called; leave it empty";
    return NULL;
}

/* --- homes: what persists has one address in all programs; inputs lie above it, those that live longest lowest, and the
   gradients that accumulate above them, so that programs that do not accumulate have one piece for all else */
typedef struct rmi_plan_input {
    uint32_t buf, dies; /* dies: large if late */
} rmi_plan_input;

RMI_FN int rmi_plan_cmp_input(const void *a, const void *b, void *user)
{
    const rmi_plan_input *x = (const rmi_plan_input *)a, *y = (const rmi_plan_input *)b;
    (void)user;
    if (x->dies != y->dies) return x->dies > y->dies ? -1 : 1;
    return x->buf < y->buf ? -1 : x->buf > y->buf;
}

/* Position of the last use of each input in a step that runs everything once: forward position, or after it from the end. */
RMI_FN void rmi_plan_input_ends(const rm_graph *g, uint32_t *dies)
{
    uint32_t i, k, p;
    for (i = 0; i < g->n_ops; i++)
        for (k = 0; k < g->ops[i].in.n; k++) dies[g->tensors[g->ops[i].in.at[k]].root] = i + 1;
    for (i = g->n_ops; i-- > 0;)
        for (p = 0; p < g->ops[i].forms[0].n_parts && g->ops[i].has_bwd; p++)
            for (k = 0; k < g->ops[i].forms[0].parts[p].needs.n; k++) dies[g->tensors[g->ops[i].forms[0].parts[p].needs.at[k]].root] = 2 * g->n_ops - i;
}

/* What another plan has on the device stays where it has it. */
RMI_FN rm_result rmi_plan_layout_like(rmi_planner *w, const rmi_program *like)
{
    char name[300];
    size_t i;
    for (i = 0; i < like->n_homes; i++) {
        const rmi_home *h = &like->homes[i];
        if (h->host)
            return rmi_err_set(&w->g->last, RM_ERROR_ARGUMENT, "rm_plan_desc.like: it has %s in host memory; %s", rmi_sch_name(w->g, h->buf, name),
                               w->g->has_link ? "set rm_plan_desc.host_bytes as well" : "declare the link (rm_graph_link)");
        w->offsets[h->buf] = h->offset;
        w->homes_bytes = rmi_max(w->homes_bytes, h->offset + rmi_round_up(rmi_low_bytes(w->g, h->buf), w->align));
    }
    return RM_OK;
}

RMI_FN void rmi_plan_home(rmi_planner *w, uint32_t buf)
{
    uint64_t bytes = rmi_low_bytes(w->g, buf);
    if (!bytes || rmi_low_external(w->g, buf) || w->offsets[buf] != RMI_INF) return;
    w->offsets[buf] = w->homes_bytes;
    w->homes_bytes += rmi_round_up(bytes, w->align);
}

/* Addresses of all that any of the steps starts with. */
RMI_FN rm_result rmi_plan_layout(rmi_planner *w)
{
    const rm_graph *g = w->g;
    rmi_arena *mem = &w->p->mem;
    uint32_t i, n = 0;
    uint32_t *dies = RMI_NEW(mem, uint32_t, g->n_tensors);
    rmi_plan_input *in = RMI_NEW(mem, rmi_plan_input, g->n_tensors);
    w->offsets = RMI_NEW(mem, uint64_t, rmi_low_buffers(g));
    w->homes = RMI_NEW(mem, rmi_home, 3 * (size_t)g->n_tensors);
    if (!dies || !in || !w->offsets || !w->homes) return RM_ERROR_MEMORY;
    for (i = 0; i < rmi_low_buffers(g); i++) w->offsets[i] = RMI_INF;
    if (w->d->like && !(g->has_link && w->d->host_bytes)) RMI_TRY(rmi_plan_layout_like(w, &w->d->like->prog[0]));
    for (i = 0; i < g->n_tensors; i++)
        if (g->tensors[i].kind == RMI_PARAM || g->tensors[i].kind == RMI_CONST) rmi_plan_home(w, i);
    for (i = 0; i < g->n_tensors; i++)
        if (g->tensors[i].kind == RMI_PARAM) rmi_plan_home(w, rmi_low_buf(g, RMI_BUF_STATE, i));
    rmi_plan_input_ends(g, dies);
    for (i = 0; i < g->n_tensors; i++)
        if (g->tensors[i].kind == RMI_INPUT) {
            in[n].buf = i;
            in[n++].dies = dies[i] ? dies[i] : RMI_NONE; /* unused: stays for ever */
        }
    rmi_sort(in, n, sizeof(rmi_plan_input), rmi_plan_cmp_input, NULL);
    for (i = 0; i < n; i++) rmi_plan_home(w, in[i].buf);
    for (i = 0; i < g->n_tensors && (w->steps & (RM_FIRST | RM_MIDDLE | RM_LAST)); i++)
        if (g->tensors[i].kind == RMI_PARAM && g->tensors[i].consumers.n) rmi_plan_home(w, rmi_low_buf(g, RMI_BUF_GRAD, i));
    return w->homes_bytes > RMI_MAX ? RM_ERROR_ARGUMENT : RM_OK;
}

RMI_FN void rmi_plan_add_home(rmi_planner *w, uint32_t buf)
{
    rmi_home *h;
    if (!rmi_low_bytes(w->g, buf) || rmi_low_external(w->g, buf)) return;
    h = &w->homes[w->n_homes++];
    h->buf = buf;
    h->host = 0;
    h->offset = w->offsets[buf];
}

/* The homes of one step kind, by address. A forward between micro-steps must not disturb gradients that wait there. */
RMI_FN void rmi_plan_step_homes(rmi_planner *w)
{
    const rm_graph *g = w->g;
    uint32_t i;
    int grads = rmi_low_grads_resident(w->step) || (w->step == RM_FORWARD && (w->steps & (RM_FIRST | RM_MIDDLE | RM_LAST)));
    w->n_homes = 0;
    for (i = 0; i < g->n_tensors; i++)
        if (g->tensors[i].kind == RMI_PARAM || g->tensors[i].kind == RMI_CONST) rmi_plan_add_home(w, i);
    for (i = 0; i < g->n_tensors; i++)
        if (g->tensors[i].kind == RMI_PARAM) rmi_plan_add_home(w, rmi_low_buf(g, RMI_BUF_STATE, i));
    for (i = 0; i < g->n_tensors && grads; i++)
        if (g->tensors[i].kind == RMI_PARAM && g->tensors[i].consumers.n) rmi_plan_add_home(w, rmi_low_buf(g, RMI_BUF_GRAD, i));
    for (i = 0; i < g->n_tensors; i++)
        if (g->tensors[i].kind == RMI_INPUT) rmi_plan_add_home(w, i);
}

/* --- one candidate: runs -> program with addresses and figures */

/* Addresses of what the sequence has in host memory. */
RMI_FN rm_result rmi_plan_place_kept(const rmi_seq *q, rmi_arena *mem, uint32_t align, rmi_program *out)
{
    rmi_plc_item *items = RMI_NEW(mem, rmi_plc_item, (size_t)q->n_kept + 1);
    rmi_plc_info info;
    size_t i;
    out->host = 0;
    if (!q->n_kept) return RM_OK;
    if (!items) return RM_ERROR_MEMORY;
    for (i = 0; i < q->n_kept; i++) {
        items[i].start = q->kept[i].first;
        items[i].end = q->kept[i].end;
        items[i].size = q->kept[i].bytes;
        items[i].fixed = q->kept[i].home != 0;
        if (items[i].fixed) items[i].offset = q->homes[q->kept[i].home - 1].offset;
    }
    RMI_TRY(rmi_plc_place(mem, items, q->n_kept, align, 0, 2000000u + 400u * (uint64_t)q->n_kept, &info));
    for (i = 0; i < q->n_st; i++)
        if (q->st[i].what == RMI_OFFLOAD || q->st[i].what == RMI_MERGE) q->st[i].offset = items[q->st[i].offset].offset;
    out->host = info.height;
    return RM_OK;
}

/* Addresses of the sequence. Where lanes run beside the compute lane, time depends on who gets whose bytes: then they are those
   of the lowest arena, the same for every budget, if that is within the target. */
RMI_FN rm_result rmi_plan_place(const rmi_seq *q, rmi_arena *mem, uint32_t align, uint64_t target, int lanes, int only_quick, rmi_program *out)
{
    rmi_plc_item *items = RMI_NEW(mem, rmi_plc_item, (size_t)q->n_str + q->n_homes);
    rmi_plc_info info;
    size_t i, k, n = q->n_str;
    uint64_t quick = 2000000u + 400u * (uint64_t)q->n_str; /* steps of a few ns: training schedules need far less */
    if (!items) return RM_ERROR_MEMORY;
    for (i = 0; i < q->n_str; i++) {
        items[i].start = q->str[i].first_pos;
        items[i].end = q->str[i].end_pos;
        items[i].size = q->str[i].bytes;
        if (q->str[i].home) {
            items[i].fixed = 1;
            items[i].offset = q->homes[q->str[i].home - 1].offset;
        }
    }
    for (i = 0; i < q->n_homes; i++) { /* what the step before still copies */
        if (q->homes[i].host != 2) continue;
        for (k = 0; k < q->n_str && q->str[k].home != i + 1;) k++;
        items[n].end = k < q->n_str ? (uint32_t)rmi_min((uint64_t)q->homes[i].until + 1, q->str[k].first_pos) : 0;
        if (!items[n].end) continue;
        items[n].size = rmi_low_bytes(q->g, q->homes[i].buf);
        items[n].offset = q->homes[i].offset;
        items[n++].fixed = 1;
    }
    RMI_TRY(rmi_plc_place(mem, items, n, align, lanes ? 0 : target, quick, &info));
    if (target && info.height > target && info.bound <= target && !only_quick) RMI_TRY(rmi_plc_place(mem, items, n, align, target, 0, &info));
    for (i = 0; i < q->n_st; i++)
        if (q->st[i].what == RMI_ALLOC) q->st[i].offset = items[q->st[i].offset].offset;
    out->arena = info.height;
    return RM_OK;
}

/* Without addresses: buffers one after the other in a space that nobody has to fit into, to count live bytes. */
RMI_FN void rmi_plan_spread(const rmi_seq *q, uint64_t above, rmi_program *out)
{
    size_t i;
    for (i = 0; i < q->n_homes; i++)
        if (q->homes[i].host != 1) above = rmi_max(above, q->homes[i].offset + rmi_low_bytes(q->g, q->homes[i].buf));
    for (i = 0; i < q->n_st; i++)
        if (q->st[i].what == RMI_ALLOC && q->str[q->st[i].offset].home) q->st[i].offset = q->homes[q->str[q->st[i].offset].home - 1].offset;
        else if (q->st[i].what == RMI_ALLOC) {
            q->st[i].offset = above;
            above = rmi_add(above, q->st[i].bytes);
        }
    out->arena = above;
}

/* Can the sequence just built be no better than the best plan, or never fit? Its bytes and compute time are known before it has
   addresses, which cost the most. target 0: anything fits. */
RMI_FN rm_result rmi_plan_hopeless(const rmi_planner *w, uint64_t target, int *hopeless)
{
    const rmi_seq *q = &w->seq;
    uint64_t ns = q->ns, homes = 0, peak, end;
    uint32_t i, id;
    size_t k;
    for (i = 0; i < q->n; i++)
        if (q->runs[i].way == RMI_REDUCE) ns -= rmi_low_ns(w->g, q->runs[i], 0, 0); /* on a lane of its own */
    RMI_TRY(rmi_seq_peak(q, &peak, &end));
    for (k = 0; k < w->n_homes; k++)
        if (rmi_low_kind(w->g, w->homes[k].buf, &id) != RMI_BUF_VALUE || w->g->tensors[id].kind != RMI_INPUT) homes += rmi_round_up(rmi_low_bytes(w->g, w->homes[k].buf), w->align);
    *hopeless = (target && homes + peak > target) || (w->best.n && ns > w->best.fig.time_ns);
    return RM_OK;
}

/* Builds and checks the program of n runs in mem; when pruning, one without a chance gets no addresses and the size RMI_INF. */
RMI_FN rm_result rmi_plan_build(rmi_planner *w, rmi_arena *mem, const rmi_run *runs, size_t n, uint64_t target, rmi_program *out)
{
    rmi_seq *q = &w->seq;
    rm_result r;
    q->mem = mem;
    q->step = w->step;
    q->granule = w->align;
    q->runs = runs;
    q->n = (uint32_t)n;
    q->homes = w->homes;
    q->n_homes = w->n_homes + w->n_late;
    memset(out, 0, sizeof *out);
    RMI_TRY(rmi_seq_build(q));
    if (w->pruning) {
        int hopeless = 0;
        RMI_TRY(rmi_plan_hopeless(w, target, &hopeless));
        out->arena = out->fig.live_bytes = RMI_INF;
        if (hopeless) return RM_OK;
    }
    if (w->d->live_only) rmi_plan_spread(q, w->homes_bytes, out);
    else {
        w->placing = 1;
        r = rmi_plan_place(q, mem, w->align, target, w->lanes, w->quick, out);
        w->placing = 0;
        if (r != RM_OK) return r;
    }
    if (w->quick && target && !w->d->live_only && out->arena > target) return RM_OK;
    RMI_TRY(rmi_plan_place_kept(q, mem, w->align, out));
    out->step = w->step;
    out->st = q->st;
    out->n = q->n_st;
    out->homes = w->homes;
    out->n_homes = w->n_homes;
    return rmi_sch_check(w->g, out, &w->g->last, NULL);
}

RMI_FN rm_result rmi_plan_copy_program(rmi_arena *mem, const rmi_program *from, rmi_program *to)
{
    rmi_stmt *st = RMI_NEW(mem, rmi_stmt, from->n);
    rmi_home *homes = RMI_NEW(mem, rmi_home, from->n_homes);
    if (!st || !homes) return RM_ERROR_MEMORY;
    if (from->n) memcpy(st, from->st, from->n * sizeof(rmi_stmt));
    if (from->n_homes) memcpy(homes, from->homes, from->n_homes * sizeof(rmi_home));
    *to = *from;
    to->st = st;
    to->homes = homes;
    return RM_OK;
}

RMI_FN uint64_t rmi_plan_size(const rmi_planner *w, const rmi_program *p) { return w->d->live_only ? p->fig.live_bytes : p->arena; }

RMI_FN void rmi_plan_tell(rmi_planner *w, const char *phase)
{
    rm_progress g;
    if (!w->d->progress || w->stop.stopped) return;
    g.phase = phase;
    g.time_ns = w->best.n ? w->best.fig.time_ns : 0;
    g.bound_ns = w->info->bound_ns;
    g.arena_bytes = w->best.n ? rmi_plan_size(w, &w->best) : 0;
    w->stop.stopped = w->stop.stopped || w->d->progress(w->d->progress_user, &g);
}

/* No plan within the budget is faster than this; m: NULL, or the step's model. */
RMI_FN rm_result rmi_plan_bound(rmi_planner *w, rmi_arena *mem, const rmi_ref_model *m, uint64_t budget)
{
    rmi_ref_model own;
    uint64_t bound = 0;
    if (w->g->has_link && w->d->host_bytes) {
        if (budget == RMI_INF) return RM_OK;
        if (!m) RMI_TRY(rmi_ref_make(mem, w->g, w->step, 1, &own));
        return rmi_bnd_link_bound(mem, m ? m : &own, budget, RMI_PLAN_BOUND_WORK, &w->info->bound_ns);
    }
    if (!m) RMI_TRY(rmi_ref_make(mem, w->g, w->step, 1, &own));
    if (!m) m = &own;
    if (budget >= m->base) RMI_TRY(rmi_bnd_bound(mem, m, rmi_min(budget - m->base, RMI_MAX), RMI_PLAN_BOUND_WORK, w->c.passes & RM_PASS_SEARCH ? RMI_PLAN_BOUND_WORK : RMI_PLAN_BOUND_WORK / 8, &bound));
    w->info->bound_ns = rmi_max(w->info->bound_ns, bound);
    return RM_OK;
}

/* The solvers' question. */
RMI_FN int rmi_plan_ask(void *user)
{
    rmi_planner *w = (rmi_planner *)user;
    rmi_plan_tell(w, w->placing ? "place" : "solve");
    if (!w->stop.stopped && w->end_ns && w->best.n && rmi_now_ns() >= w->end_ns) w->stop.stopped = w->late = 1;
    return w->stop.stopped;
}

/* An arena for a pass: the graph's hooks, and the question. */
RMI_FN rmi_arena rmi_plan_arena(rmi_planner *w)
{
    rmi_arena a = rmi_arena_make(&w->g->mem.hooks);
    a.stop = &w->stop;
    return a;
}

/* Tries a candidate; it becomes the best if it fits and is faster (then smaller). *size: what it takes. */
RMI_FN rm_result rmi_plan_try(rmi_planner *w, const rmi_run *runs, size_t n, uint64_t budget, uint64_t *size)
{
    rmi_arena *tmp = &w->tries;
    rmi_program c;
    uint64_t target = budget == RMI_INF ? 0 : budget;
    rm_result r;
    rmi_stopped(&w->stop, 100 * (uint64_t)n);
    r = rmi_plan_build(w, tmp, runs, n, target, &c);
    if (r == RM_ERROR_PLAN) r = RM_ERROR_INTERNAL; /* the message is the checker's */
    if (r == RM_OK) {
        *size = rmi_plan_size(w, &c);
        w->tried = c;
        if (*size != RMI_INF && *size <= budget && c.host <= w->d->host_bytes && (!w->best.n || c.fig.time_ns < w->best.fig.time_ns || (c.fig.time_ns == w->best.fig.time_ns && *size < rmi_plan_size(w, &w->best)))) {
            int first = !w->best.n;
            r = rmi_plan_copy_program(&w->p->mem, &c, &w->best);
            rmi_plan_tell(w, first ? "first" : "solve");
        }
    }
    rmi_arena_clear(tmp);
    return r;
}

/* --- candidates */

RMI_FN size_t rmi_plan_room(const rm_graph *g, size_t stages_runs)
{
    size_t n = stages_runs + g->n_barriers + 8, i;
    for (i = 0; i < g->n_ops; i++) n += 1 + rmi_low_parts(&g->ops[i]);
    for (i = 0; i < g->n_tensors; i++) n += 3;
    return n;
}

/* Every op once, in declaration order; then every backward in reverse. */
RMI_FN rm_result rmi_plan_keep_all(rmi_planner *w, rmi_arena *mem, rmi_run **runs, size_t *n)
{
    const rm_graph *g = w->g;
    rmi_run *r = RMI_NEW(mem, rmi_run, rmi_plan_room(g, 0));
    uint32_t i;
    if (!r) return RM_ERROR_MEMORY;
    *n = 0;
    for (i = 0; i < g->n_ops; i++) r[(*n)++] = rmi_low_run(RMI_FWD, i, 0, 0);
    if (rmi_low_has_backward(w->step)) {
        *n += rmi_blk_backward(g, w->step, 0, g->n_ops, r + *n);
        *n += rmi_blk_tail(g, w->step, r + *n);
    }
    *runs = r;
    return RM_OK;
}

/* The chain solver's actions as runs. */
RMI_FN rm_result rmi_plan_expand(rmi_planner *w, rmi_arena *mem, const rmi_chn_act *acts, size_t n_acts, rmi_run **runs, size_t *n)
{
    rmi_blk *b = &w->blk;
    rmi_run *r;
    size_t i, room = 0;
    for (i = 0; i < n_acts; i++) room += b->shape->stages[acts[i].stage].hi - b->shape->stages[acts[i].stage].lo;
    r = RMI_NEW(mem, rmi_run, rmi_plan_room(w->g, room));
    if (!r) return RM_ERROR_MEMORY;
    *n = 0;
    for (i = 0; i < n_acts; i++) {
        const rmi_stage *s = &b->shape->stages[acts[i].stage];
        const rmi_chn_option *o = &b->options[acts[i].stage][acts[i].option];
        rmi_chn_option same;
        int again = (acts[i].flags & RMI_CHN_AGAIN) != 0, leaf = (acts[i].flags & RMI_CHN_LEAF) != 0;
        uint8_t bits = !again ? 0 : acts[i].what == RMI_CHN_PASS ? RMI_BLK_OUT : leaf && !o->reads_out ? RMI_BLK_KEEP : RMI_BLK_BOTH;
        if (acts[i].what == RMI_CHN_KEEP && again) rmi_blk_select(b, acts[i].stage, acts[i].option);
        if (acts[i].what == RMI_CHN_BACKWARD) *n += rmi_blk_way(b, s, rmi_blk_code_of(b, acts[i].stage, acts[i].option), &same, r + *n);
        else *n += rmi_blk_forward(b, s, acts[i].what == RMI_CHN_PASS ? NULL : rmi_blk_code_of(b, acts[i].stage, acts[i].option), bits, r + *n);
    }
    *n += rmi_blk_tail(w->g, w->step, r + *n);
    *runs = r;
    return RM_OK;
}

RMI_FN void rmi_plan_act(rmi_chn_act *a, uint32_t what, uint32_t stage, uint32_t flags)
{
    a->what = what;
    a->stage = stage;
    a->option = 0;
    a->flags = flags;
}

/* Checkpoints at the borders of segments (Chen et al. 2016): segment k is the stages [first[k], first[k + 1]). */
RMI_FN rm_result rmi_plan_segments(rmi_arena *mem, const uint32_t *first, uint32_t n_segments, rmi_chn_act **acts, size_t *n)
{
    uint32_t i, k, last = n_segments - 1;
    rmi_chn_act *a = RMI_NEW(mem, rmi_chn_act, 3 * (size_t)first[n_segments]);
    if (!a) return RM_ERROR_MEMORY;
    *n = 0;
    for (k = 0; k < last; k++)
        for (i = first[k]; i < first[k + 1]; i++) rmi_plan_act(&a[(*n)++], RMI_CHN_PASS, i, i == first[k] ? RMI_CHN_INPUT_STAYS : 0);
    for (k = n_segments; k-- > 0;) {
        for (i = first[k]; i < first[k + 1]; i++) rmi_plan_act(&a[(*n)++], RMI_CHN_KEEP, i, (k < last ? RMI_CHN_AGAIN : 0) | (i + 1 == first[k + 1] ? RMI_CHN_LEAF : 0));
        for (i = first[k + 1]; i-- > first[k];) rmi_plan_act(&a[(*n)++], RMI_CHN_BACKWARD, i, 0);
    }
    *acts = a;
    return RM_OK;
}

/* Tries a list with the fastest forms that leave its live bytes within `limit`; then, if that is too large, as it is. */
RMI_FN rm_result rmi_plan_try_tuned(rmi_planner *w, const rmi_run *runs, size_t n, uint64_t limit, uint64_t budget, uint64_t *size)
{
    *size = RMI_INF;
    if (w->tune && budget && n <= UINT32_MAX) {
        w->tune->limit = rmi_sub(limit, w->tune->m->base);
        if (rmi_ref_load_runs(w->tune, runs, (uint32_t)n, 0)) {
            if (w->pruning && w->best.n && w->tune->a->ns > w->best.fig.time_ns && !w->lanes) return RM_OK;
            RMI_TRY(rmi_plan_try(w, w->tuned, rmi_ref_runs(w->tune, w->tune->a, w->tuned), budget, size));
            if (*size <= budget) return RM_OK;
        }
    }
    return rmi_plan_try(w, runs, n, budget, size);
}

RMI_FN rm_result rmi_plan_try_acts(rmi_planner *w, rmi_arena *mem, const rmi_chn_act *acts, size_t n_acts, uint64_t budget, uint64_t *size)
{
    rmi_run *runs;
    size_t n;
    RMI_TRY(rmi_plan_expand(w, mem, acts, n_acts, &runs, &n));
    return rmi_plan_try(w, runs, n, budget, size);
}

/* No plan of these actions takes less: their runs on the compute lane. */
RMI_FN uint64_t rmi_plan_acts_ns(const rmi_planner *w, const rmi_chn_act *acts, size_t n)
{
    const rm_graph *g = w->g;
    uint64_t ns = 0, reduce = 0;
    size_t i;
    for (i = 0; i < g->n_tensors && w->lanes; i++) reduce = rmi_add(reduce, g->tensors[i].reduce == RMI_INF ? 0 : g->tensors[i].reduce);
    for (i = 0; i < n; i++) {
        const rmi_chn_stage *s = &w->blk.stages[acts[i].stage];
        const rmi_chn_option *o = &s->options[acts[i].option];
        uint32_t again = (acts[i].flags & RMI_CHN_AGAIN) != 0;
        if (acts[i].what == RMI_CHN_PASS) ns += s->pass_ns[again];
        else if (acts[i].what == RMI_CHN_BACKWARD) ns += o->bwd_ns;
        else ns += (acts[i].flags & RMI_CHN_LEAF) ? o->leaf_ns[again] : o->fwd_ns[again];
        ns = rmi_min(ns, RMI_MAX);
    }
    return rmi_sub(ns, reduce);
}

/* The chain's optimum for `bytes` bytes of chain. */
RMI_FN rm_result rmi_plan_try_chain(rmi_planner *w, uint64_t bytes, uint64_t budget, uint64_t *size)
{
    const rmi_chn_curve *c = &w->table->curve;
    rmi_chn_act *acts = NULL;
    rmi_run *runs;
    size_t n = 0;
    uint64_t ns;
    uint32_t i;
    rmi_arena_clear(&w->lists);
    *size = RMI_INF;
    RMI_TRY(rmi_chn_schedule(&w->lists, w->table, bytes, &acts, &n));
    ns = w->pruning && w->best.n ? rmi_plan_acts_ns(w, acts, n) : 0;
    if (w->tune) ns -= ns / 8; /* forms may be faster than the chain's */
    if (ns > w->best.fig.time_ns) return RM_OK;
    RMI_TRY(rmi_plan_expand(w, &w->lists, acts, n, &runs, &n));
    for (i = c->n; i-- > 1 && c->at[i].bytes > bytes;) {}
    return rmi_plan_try_tuned(w, runs, n, rmi_add(c->at[i].bytes, w->base), budget, size);
}

/* Chain points from the most that could fit downwards until the arena is within the budget; the smallest ones at last, always
   the same, so that the budget an infeasible call names is met when it is asked for. */
RMI_FN rm_result rmi_plan_descend(rmi_planner *w, uint64_t budget)
{
    const rmi_chn_curve *c = &w->table->curve;
    uint64_t chain = budget == RMI_INF ? RMI_INF : rmi_sub(budget, w->base), size = 0;
    uint32_t i, tries;
    for (tries = 0; tries < 24 && c->n && chain >= c->at[0].bytes && !w->stop.stopped; tries++) {
        RMI_TRY(rmi_plan_try_chain(w, chain, budget, &size));
        if (size <= budget) return RM_OK;
        for (i = c->n; i-- > 0 && c->at[i].bytes > chain;) {}
        chain = rmi_min(rmi_sub(chain, size - budget), i && i < c->n ? c->at[i].bytes - 1 : 0);
    }
    for (i = 0; i < 8 && i < c->n && !w->best.n && !rmi_stopped(&w->stop, RMI_STOP_EVERY); i++) {
        RMI_TRY(rmi_plan_try_chain(w, c->at[i].bytes, budget, &size));
        if (w->g->n_ops > 1000 && size >= w->min_arena) break; /* lists of millions of runs */
        w->min_arena = rmi_min(w->min_arena, size);
    }
    return RM_OK;
}

/* The least arena, where a budget was met: from the smallest points of the curve up, as long as that helps. At its smallest
   memory a chain of L stages runs L * L / 2 forwards: on long ones points that take twice as long as need be are left out. */
RMI_FN rm_result rmi_plan_least(rmi_planner *w)
{
    const rmi_chn_curve *c = &w->table->curve;
    uint64_t size = 0;
    uint32_t i, from = 0;
    while (w->g->n_ops > 1000 && from + 1 < c->n && c->at[from].ns / 2 > c->at[c->n - 1].ns) from++;
    for (i = from; i < from + (w->g->n_ops > 1000 ? 2 : 8) && i < c->n && w->best.n && size < w->min_arena && !rmi_stopped(&w->stop, 0); i++) {
        w->min_arena = rmi_min(w->min_arena, size ? size : RMI_INF);
        RMI_TRY(rmi_plan_try_chain(w, c->at[i].bytes, 0, &size)); /* nothing fits a budget of 0: it is only measured */
    }
    w->min_arena = rmi_min(w->min_arena, size ? size : RMI_INF);
    return RM_OK;
}

/* What a plan takes and lasts differs a little from its point on the curve, either way: bytes go on under other names across
   stages, lanes overlap. So further points are tried, the same for every budget: more budget is then never slower. */
#define RMI_PLAN_POINTS 128
RMI_FN rm_result rmi_plan_explore(rmi_planner *w, uint64_t budget)
{
    const rmi_chn_curve *c = &w->table->curve;
    uint32_t n = c->n < RMI_PLAN_POINTS ? c->n : RMI_PLAN_POINTS, i;
    uint64_t size;
    rm_result r = RM_OK;
    w->pruning = 1;
    for (i = n; i-- > 0 && r == RM_OK && !w->stop.stopped;)
        r = rmi_plan_try_chain(w, c->at[n > 1 ? (uint64_t)i * (c->n - 1) / (n - 1) : 0].bytes, budget, &size);
    w->pruning = 0;
    return r;
}

RMI_FN rm_result rmi_plan_curve_out(rmi_planner *w)
{
    const rmi_chn_curve *c = &w->table->curve;
    uint32_t i;
    if (w->p->n) return RM_OK; /* of the first program; the last chain pass knows most */
    w->p->curve = RMI_NEW(&w->p->mem, rm_point, (size_t)c->n + 1);
    if (!w->p->curve) return RM_ERROR_MEMORY;
    for (i = 0; i < c->n; i++) {
        w->p->curve[i].bytes = rmi_add(c->at[i].bytes, w->base);
        w->p->curve[i].ns = rmi_add(c->at[i].ns, w->blk.chain.n ? w->info->keep_all_ns - rmi_min(w->info->keep_all_ns, c->at[c->n - 1].ns) : 0);
    }
    w->p->n_curve = c->n;
    w->p->lost_ppm = w->table->lost_ppm;
    return RM_OK;
}

/* --- passes */

RMI_FN rm_result rmi_plan_try_segments(rmi_planner *w, const uint32_t *first, uint32_t n_segments, uint64_t budget)
{
    rmi_arena tmp = rmi_plan_arena(w);
    rmi_chn_act *acts;
    size_t n;
    uint64_t size;
    rm_result r = rmi_plan_segments(&tmp, first, n_segments, &acts, &n);
    if (r == RM_OK) r = rmi_plan_try_acts(w, &tmp, acts, n, budget, &size);
    if (r == RM_OK) w->min_arena = rmi_min(w->min_arena, size);
    rmi_arena_free(&tmp);
    return r;
}

RMI_FN rm_result rmi_plan_pass_segments(rmi_planner *w, rmi_arena *mem, uint64_t budget)
{
    uint32_t L = w->blk.shape->n, len = w->c.segment, i, n = 0, *first = RMI_NEW(mem, uint32_t, (size_t)L + 1);
    if (!first) return RM_ERROR_MEMORY;
    for (; !w->c.segment && (uint64_t)len * len < L;) len++;
    for (i = 0; i < L; i = (uint32_t)rmi_min(L, (uint64_t)i + len)) first[n++] = i;
    first[n] = L;
    return rmi_plan_try_segments(w, first, n, budget);
}

/* Chen's greedy: a segment ends when its stages would keep more than a threshold. Every threshold that is a power of the
   eighth root of two below what all stages keep, so that more budget has the same plans to choose from. */
RMI_FN rm_result rmi_plan_pass_greedy(rmi_planner *w, rmi_arena *mem, uint64_t budget)
{
    const rmi_chn_stage *s = w->blk.stages;
    uint32_t L = w->blk.shape->n, i, n, before = 0, eighth, *first = RMI_NEW(mem, uint32_t, (size_t)L + 1);
    uint64_t all = 0, sum, limit, octave;
    if (!first) return RM_ERROR_MEMORY;
    for (i = 0; i < L; i++) all = rmi_add(all, rmi_add(s[i].options[0].saved, s[i].out_bytes));
    for (octave = all; octave && before < L && !w->stop.stopped; octave /= 2)
        for (eighth = 0; eighth < 8 && before < L && !w->stop.stopped; eighth++) {
            static const uint32_t permille[] = {1000, 917, 841, 771, 707, 648, 595, 545};
            limit = rmi_mul(octave, permille[eighth]) / 1000;
            for (i = n = 0, sum = 0; i < L; i++) {
                sum = rmi_add(sum, rmi_add(s[i].options[0].saved, s[i].out_bytes));
                if (i && sum <= limit) continue;
                first[n++] = i;
                sum = rmi_add(s[i].options[0].saved, s[i].out_bytes);
            }
            if (n == before) continue;
            first[before = n] = L;
            RMI_TRY(rmi_plan_try_segments(w, first, n, budget));
        }
    return RM_OK;
}

/* Does the pattern, up to its comma, match all of s? Only the last * ever needs to take more. */
RMI_FN int rmi_plan_matches(const char *pattern, const char *s)
{
    const char *star = NULL, *from = s;
    while (*s) {
        if (*pattern == '*') star = ++pattern, from = s;
        else if (*pattern == *s) pattern++, s++;
        else if (star) pattern = star, s = ++from;
        else return 0;
    }
    while (*pattern == '*') pattern++;
    return !*pattern || *pattern == ',';
}

/* Is op one of those to be recomputed? A view goes with what it looks at. */
RMI_FN int rmi_plan_listed(const rm_graph *g, const char *kinds, const uint8_t *listed, const rmi_op *op)
{
    const char *word = op->name, *p;
    if (op->pinned) return 0;
    if (op->view != RMI_NONE) return g->tensors[op->view].maker != RMI_NONE && listed[g->tensors[op->view].maker];
    for (p = op->name; *p; p++)
        if (*p == '/' || *p == '.') word = p + 1;
    for (p = kinds; *p; p += *p == ',') {
        if (*p != ',' && (rmi_plan_matches(p, op->kind_name) || rmi_plan_matches(p, op->name) || rmi_plan_matches(p, word))) return 1;
        while (*p && *p != ',') p++;
    }
    return 0;
}

/* Recomputes listed op i, and before it what it reads of others; done[i]: it has been. */
RMI_FN void rmi_plan_rerun(const rm_graph *g, const uint8_t *listed, uint8_t *done, uint32_t *stack, uint32_t i, rmi_run *runs, size_t *n)
{
    uint32_t top = 0, k;
    stack[top++] = i;
    while (top) {
        const rmi_op *op = &g->ops[i = stack[top - 1]];
        for (k = 0; k < op->in.n && !done[i]; k++) {
            uint32_t m = g->tensors[op->in.at[k]].maker;
            if (m == RMI_NONE || !listed[m] || done[m]) continue;
            stack[top++] = m;
            break;
        }
        if (!done[i] && k < op->in.n) continue;
        if (!done[i]) runs[(*n)++] = rmi_low_run(RMI_FWD, i, 0, 0);
        done[i] = 1;
        top--;
    }
}

/* Everything once, but the listed ops a second time, right before the first backward that reads of them. */
RMI_FN rm_result rmi_plan_pass_kinds(rmi_planner *w, rmi_arena *mem, uint64_t budget)
{
    const rm_graph *g = w->g;
    uint8_t *listed = RMI_NEW(mem, uint8_t, g->n_ops), *done = RMI_NEW(mem, uint8_t, g->n_ops);
    rmi_run *runs = RMI_NEW(mem, rmi_run, rmi_plan_room(g, g->n_ops));
    uint32_t i, k, p, *stack = RMI_NEW(mem, uint32_t, (size_t)g->n_ops + 1);
    size_t n = 0;
    uint64_t size;
    if (!listed || !done || !runs || !stack) return RM_ERROR_MEMORY;
    for (i = 0; i < g->n_ops; i++) {
        listed[i] = (uint8_t)rmi_plan_listed(g, w->c.kinds, listed, &g->ops[i]);
        runs[n++] = rmi_low_run(RMI_FWD, i, 0, 0);
    }
    for (i = g->n_ops; i-- > 0;) {
        const rmi_form *f = &g->ops[i].forms[0];
        for (p = 0; p < f->n_parts && g->ops[i].has_bwd; p++) {
            if (!rmi_low_part_wanted(&g->ops[i], &f->parts[p])) continue;
            if (f->parts[p].needs_saved && f->saved && listed[i]) rmi_plan_rerun(g, listed, done, stack, i, runs, &n);
            for (k = 0; k < f->parts[p].needs.n; k++) {
                uint32_t m = g->tensors[f->parts[p].needs.at[k]].maker;
                if (m != RMI_NONE && listed[m]) rmi_plan_rerun(g, listed, done, stack, m, runs, &n);
            }
        }
        n += rmi_blk_backward(g, w->step, i, i + 1, runs + n);
    }
    n += rmi_blk_tail(g, w->step, runs + n);
    RMI_TRY(rmi_plan_try(w, runs, n, budget, &size));
    w->min_arena = rmi_min(w->min_arena, size);
    return RM_OK;
}

RMI_FN rm_result rmi_plan_pass_chain(rmi_planner *w, rmi_arena *mem, uint64_t budget)
{
    RMI_TRY(rmi_chn_solve(mem, &w->blk.chain, &w->table));
    RMI_TRY(rmi_plan_curve_out(w));
    RMI_TRY(rmi_plan_descend(w, budget));
    RMI_TRY(rmi_plan_explore(w, budget));
    return rmi_plan_least(w);
}

/* The chain with options: of the stages between cuts; and if one of them is large, of chains that carry what lives long. */
RMI_FN rm_result rmi_plan_pass_options(rmi_planner *w, rmi_arena *mem, uint64_t budget)
{
    static const uint32_t spans[] = {RMI_NONE, 64, 32, 16, 10, 6};
    const rmi_shape *first = &w->p->shape;
    rmi_shape *shape = RMI_NEW(&w->p->mem, rmi_shape, 1);
    uint32_t i, most = 0, stages = 0, tries = 0;
    if (!shape) return RM_ERROR_MEMORY;
    for (i = 0; i < first->n; i++) most = (uint32_t)rmi_max(most, first->stages[i].hi - first->stages[i].lo);
    for (i = 0; i < RMI_COUNT(spans) && tries < 3 && !w->stop.stopped; i++) {
        if (i && (most < RMI_PLAN_LARGE || w->g->n_ops > RMI_PLAN_MANY)) return RM_OK;
        rmi_arena_free(mem);
        RMI_TRY(rmi_shp_make(mem, w->g, spans[i], shape));
        if (i && shape->n < stages + stages / 4 + 1) continue;
        stages = shape->n;
        tries++;
        RMI_TRY(rmi_blk_make(mem, w->g, shape, w->step, w->align, w->d->tolerance_ppm ? w->d->tolerance_ppm : RMI_CHN_AUTO, 1, 1, &w->blk));
        w->base = w->homes_bytes + rmi_blk_carried(&w->blk);
        RMI_TRY(rmi_plan_pass_chain(w, mem, budget));
    }
    return RM_OK;
}

/* --- groups: the search over them, with their options as variants */

/* Runs of groups as runs of ops; backwards with their updates. *n 0: some backward or update would not run (a group without
   backwards is nowhere in a backward pass, but a weight may be read there and belong to it). */
RMI_FN rm_result rmi_plan_expand_groups(rmi_planner *w, rmi_arena *mem, rmi_blk *b, const rmi_run *coarse, uint32_t n_coarse, rmi_run **runs, size_t *n)
{
    const rm_graph *g = w->g;
    size_t room = 0, i, backwards = 0, updates = 0, wanted;
    uint8_t *ran = RMI_NEW(mem, uint8_t, g->n_ops);
    rmi_chn_option same;
    rmi_run *r;
    uint32_t k, done = RMI_NONE;
    for (i = 0; i < n_coarse; i++)
        if (coarse[i].way <= RMI_BWD) room += b->shape->stages[coarse[i].id].hi - b->shape->stages[coarse[i].id].lo;
    r = RMI_NEW(mem, rmi_run, rmi_plan_room(g, 2 * room));
    if (!r || !ran) return RM_ERROR_MEMORY;
    *runs = r;
    *n = 0;
    for (i = 0; i < n_coarse; i++) {
        const rmi_stage *s;
        const uint8_t *code;
        if (coarse[i].way > RMI_BWD) continue;
        s = &b->shape->stages[coarse[i].id];
        code = rmi_blk_code_of(b, coarse[i].id, coarse[i].form);
        if (coarse[i].way == RMI_BWD) *n += rmi_blk_way(b, s, code, &same, r + *n);
        for (k = s->lo; coarse[i].way == RMI_FWD && k < s->hi; k++)
            if (!ran[k] || !g->ops[k].pinned) r[(*n)++] = rmi_low_run(RMI_FWD, k, rmi_blk_form(b, s, code, k, ran[k]), 0), ran[k] = 1;
    }
    for (i = 0; i < *n; i++) /* ops, each once: an op's parts stand together */
        if (r[i].way == RMI_BWD && r[i].id != done) backwards++, done = r[i].id;
    for (wanted = 0, k = 0; k < g->n_ops; k++) wanted += g->ops[k].has_bwd && g->ops[k].grad_in.n;
    if (wanted == backwards) *n += rmi_blk_tail(g, w->step, r + *n);
    for (i = 0; i < *n; i++) updates += r[i].way == RMI_OPT || r[i].way == RMI_OPT_HOST;
    for (k = 0; k < g->n_tensors && rmi_low_has_update(w->step); k++) updates -= g->tensors[k].updates;
    if (wanted != backwards || updates) *n = 0;
    return RM_OK;
}

/* Reruns of which nobody reads anything before it is made anew go. */
RMI_FN rm_result rmi_plan_clean(const rm_graph *g, rmi_arena *mem, rmi_run *runs, size_t *n)
{
    uint8_t *read = RMI_NEW(mem, uint8_t, rmi_low_buffers(g)), *go = RMI_NEW(mem, uint8_t, *n + 1);
    uint32_t *times = RMI_NEW(mem, uint32_t, g->n_ops), k;
    size_t i, to = 0;
    rmi_access a;
    if (!read || !go || !times) return RM_ERROR_MEMORY;
    RMI_TRY(rmi_low_access_make(g, mem, &a));
    for (i = 0; i < *n; i++)
        if (runs[i].way == RMI_FWD) go[i] = times[runs[i].id]++ > 0;
    for (k = 0; k < g->n_tensors; k++) read[k] = g->tensors[k].is_output;
    for (i = *n; i-- > 0;) {
        rmi_low_access(g, runs[i], go[i], &a);
        for (k = 0; k < a.n_writes && go[i]; k++)
            if (read[a.writes[k]]) go[i] = 0;
        if (a.saved != RMI_NONE && read[a.saved]) go[i] = 0;
        if (go[i]) continue;
        for (k = 0; k < a.n_writes && runs[i].way == RMI_FWD; k++)
            if (g->tensors[a.writes[k]].kind == RMI_ACT) read[a.writes[k]] = 0;
        if (a.saved != RMI_NONE) read[a.saved] = 0;
        for (k = 0; k < a.n_reads; k++) {
            uint32_t t;
            read[a.reads[k]] = 1;
            if (rmi_low_kind(g, a.reads[k], &t) == RMI_BUF_VALUE) read[g->tensors[t].root] = 1;
        }
    }
    for (i = 0; i < *n; i++)
        if (!go[i]) runs[to++] = runs[i];
    *n = to;
    return RM_OK;
}

RMI_FN rm_result rmi_plan_try_groups(rmi_planner *w, rmi_blk *b, const rmi_run *coarse, uint32_t n_coarse, uint64_t budget, uint64_t *size)
{
    rmi_arena tmp = rmi_plan_arena(w);
    rmi_run *runs = NULL;
    size_t n = 0;
    rm_result r = rmi_plan_expand_groups(w, &tmp, b, coarse, n_coarse, &runs, &n);
    *size = RMI_INF;
    if (r == RM_OK && n) r = rmi_plan_clean(w->g, &tmp, runs, &n);
    if (r == RM_OK && n) r = rmi_plan_try_tuned(w, runs, n, budget, budget, size);
    if (r == RM_OK) w->min_arena = rmi_min(w->min_arena, *size);
    rmi_arena_free(&tmp);
    return r;
}

/* Searches a fixed ladder of limits, that of the budget last: each plan found counts if its arena fits. */
RMI_FN rm_result rmi_plan_pass_groups(rmi_planner *w, rmi_arena *mem, uint64_t budget)
{
    rmi_shape shape;
    rmi_blk b;
    rm_graph *v = RMI_NEW(mem, rm_graph, 1);
    rmi_ref_model m;
    rmi_ref_search s;
    rmi_run *runs;
    uint64_t size, limit = budget, before, work = rmi_min(RMI_PLAN_WORK / 40, w->c.work ? w->c.work : RMI_MAX);
    uint32_t i;
    if (!v) return RM_ERROR_MEMORY;
    if (w->g->n_ops > RMI_PLAN_GROUPED || budget == RMI_INF) return RM_OK;
    RMI_TRY(rmi_shp_groups(mem, w->g, w->c.group ? w->c.group : RMI_PLAN_GROUP, &shape));
    RMI_TRY(rmi_blk_make(mem, w->g, &shape, w->step, w->align, 0, 1, 1, &b));
    RMI_TRY(rmi_blk_coarse(&b, v));
    RMI_TRY(rmi_ref_make(mem, v, w->step, w->align, &m));
    RMI_TRY(rmi_ref_search_make(mem, &m, &s));
    runs = RMI_NEW(mem, rmi_run, s.cap);
    if (!runs) return RM_ERROR_MEMORY;
    for (i = 0; i < 6 && !w->stop.stopped; i++) {
        s.limit = rmi_sub(limit, m.base);
        s.best.n = 0;
        rmi_ref_load(&s, NULL, 0, NULL);
        RMI_TRY(rmi_ref_greedy(&s, 700, 400));
        rmi_ref_fill(&s, 400000 / m.n_tasks);
        if (s.best.n) rmi_ref_restart(&s);
        before = s.work;
        while (s.work - before < work && !w->stop.stopped) rmi_ref_improve(&s, work / 4, i);
        if (!s.best.n) { /* groups count a little too much */
            limit = rmi_add(limit, limit / 8);
            continue;
        }
        RMI_TRY(rmi_plan_try_groups(w, &b, runs, rmi_ref_runs(&s, &s.best, runs), budget, &size));
        if (size == RMI_INF) return RM_OK;
        if (size > budget) limit = rmi_sub(limit, rmi_max(size - budget, budget / 200));
        else if (budget - size > budget / 100) limit = rmi_add(limit, (budget - size) / 2);
        else return RM_OK;
    }
    return RM_OK;
}

/* What gives a list of another solver its fastest forms, if ops have some. */
RMI_FN rm_result rmi_plan_tune_make(rmi_planner *w, rmi_arena *mem)
{
    rmi_ref_model *m;
    uint32_t i, k = 0;
    for (i = 0; i < w->g->n_ops && !k; i++) k = w->g->ops[i].n_forms - 1;
    if (!k || w->g->n_ops > RMI_PLAN_MANY) return RM_OK;
    m = RMI_NEW(mem, rmi_ref_model, 1);
    w->tune = RMI_NEW(mem, rmi_ref_search, 1);
    if (!m || !w->tune) return RM_ERROR_MEMORY;
    RMI_TRY(rmi_ref_make(mem, w->g, w->step, w->align, m));
    RMI_TRY(rmi_ref_search_make(mem, m, w->tune));
    w->tuned = RMI_NEW(mem, rmi_run, w->tune->cap);
    return w->tuned ? RM_OK : RM_ERROR_MEMORY;
}

/* The passes that know stages or single ops, for a step with a backward. */
RMI_FN rm_result rmi_plan_backward_step(rmi_planner *w, uint64_t budget)
{
    rmi_arena tmp = rmi_plan_arena(w), tuner = rmi_plan_arena(w);
    uint32_t passes = w->c.passes;
    rm_result r = passes & (RM_PASS_CHAIN | RM_PASS_GROUPS) ? rmi_plan_tune_make(w, &tuner) : RM_OK;
    if (r == RM_OK && passes & (RM_PASS_SEGMENTS | RM_PASS_GREEDY | RM_PASS_CHAIN)) { /* stages keep all or nothing */
        r = rmi_blk_make(&tmp, w->g, &w->p->shape, w->step, w->align, w->d->tolerance_ppm ? w->d->tolerance_ppm : RMI_CHN_AUTO, 0, (passes & RM_PASS_CHAIN) != 0, &w->blk);
        if (r == RM_OK) w->base = w->homes_bytes + rmi_blk_carried(&w->blk);
    }
    if (r == RM_OK && passes & RM_PASS_SEGMENTS) r = rmi_plan_pass_segments(w, &tmp, budget);
    if (r == RM_OK && passes & RM_PASS_GREEDY) r = rmi_plan_pass_greedy(w, &tmp, budget);
    if (r == RM_OK && passes & RM_PASS_KINDS) r = rmi_plan_pass_kinds(w, &tmp, budget);
    if (r == RM_OK && passes & RM_PASS_CHAIN) r = rmi_plan_pass_chain(w, &tmp, budget);
    if (r == RM_OK && passes & RM_PASS_OPTIONS && !w->stop.stopped) r = rmi_plan_pass_options(w, &tmp, budget);
    rmi_arena_free(&tmp);
    if (r == RM_OK && passes & RM_PASS_GROUPS && !w->stop.stopped) r = rmi_plan_pass_groups(w, &tmp, budget);
    rmi_arena_free(&tmp);
    rmi_arena_free(&tuner);
    w->tune = NULL;
    return r == RM_ERROR_CANCELLED && w->stop.stopped ? RM_OK : r; /* with what there is */
}

/* --- whole-graph search: starts from everything once and from the chain's plans for more memory, then improves */

/* The best list so far gets addresses. If these are above the budget the limit falls, and the search goes on with what is
   above the new one. */
RMI_FN rm_result rmi_plan_search_try(rmi_planner *w, rmi_ref_search *s, rmi_run *runs, uint64_t budget)
{
    uint64_t size;
    if (!s->best.n || s->best.ns >= s->tried || (w->best.n && s->best.ns >= w->best.fig.time_ns)) return RM_OK;
    RMI_TRY(rmi_plan_try(w, runs, rmi_ref_runs(s, &s->best, runs), budget, &size));
    s->tried = s->best.ns;
    if (size <= budget) { /* another list may fit where one did not */
        s->limit += (budget - s->m->base - s->limit) / 2;
        return RM_OK;
    }
    s->tried = RMI_INF;
    s->limit = rmi_sub(s->limit, rmi_max((size - budget) / 3, budget / 400));
    rmi_ref_restart(s);
    s->best.n = 0;
    RMI_TRY(rmi_ref_greedy(s, 900, 200));
    rmi_ref_fill(s, 100000 / s->m->n_tasks);
    return RM_OK;
}

/* A first plan, as soon as can be: evictions from everything once. */
RMI_FN rm_result rmi_plan_search_first(rmi_planner *w, rmi_ref_search *s, rmi_run *runs, uint64_t budget)
{
    uint64_t limit = s->limit;
    uint32_t i;
    rmi_ref_load(s, NULL, 0, NULL);
    for (i = 0; i < 4 && !w->best.n && !w->stop.stopped; i++) {
        RMI_TRY(rmi_ref_greedy(s, 300, 400));
        rmi_ref_fill(s, 0);
        RMI_TRY(rmi_plan_search_try(w, s, runs, budget));
    }
    s->limit = limit;
    return RM_OK;
}

RMI_FN rm_result rmi_plan_search_starts(rmi_planner *w, rmi_ref_search *s, const rmi_ref_model *m, uint64_t most)
{
    static const uint32_t permille[] = {700, 900, 500}, percent[] = {100, 110, 125, 150, 180};
    rmi_arena tmp = rmi_plan_arena(w);
    rm_result r = RM_OK;
    uint32_t i, fast;
    for (i = 0; i < RMI_COUNT(permille) && r == RM_OK && s->work < most; i++) {
        rmi_ref_load(s, NULL, 0, NULL);
        r = rmi_ref_greedy(s, permille[i], 400);
        if (r == RM_OK) rmi_ref_fill(s, 400000 / m->n_tasks);
    }
    if (r == RM_OK && w->c.passes & (RM_PASS_CHAIN | RM_PASS_OPTIONS) && rmi_low_has_backward(w->step) && w->p->shape.n >= 3 && s->limit < RMI_MAX) {
        r = rmi_blk_make(&tmp, w->g, &w->p->shape, w->step, w->align, RMI_CHN_AUTO, (w->c.passes & RM_PASS_OPTIONS) != 0, 1, &w->blk);
        if (r == RM_OK) r = rmi_chn_solve(&tmp, &w->blk.chain, &w->table);
        for (i = 0; i < 2 * RMI_COUNT(percent) && r == RM_OK && s->work < most; i++) {
            uint64_t bytes = rmi_sub((s->limit + m->base) / 100 * percent[i / 2], w->homes_bytes + rmi_blk_carried(&w->blk));
            rmi_chn_act *acts = NULL;
            rmi_run *runs = NULL;
            size_t n_acts = 0, n = 0;
            fast = i & 1;
            bytes = rmi_max(bytes, w->table->curve.at[0].bytes);
            r = rmi_chn_schedule(&tmp, w->table, bytes, &acts, &n_acts);
            if (r == RM_OK) r = rmi_plan_expand(w, &tmp, acts, n_acts, &runs, &n);
            if (r != RM_OK || !rmi_ref_load_runs(s, runs, (uint32_t)n, (int)fast)) continue;
            r = rmi_ref_greedy(s, 700, 200);
            if (r == RM_OK) rmi_ref_fill(s, 400000 / m->n_tasks);
        }
    }
    rmi_arena_free(&tmp);
    return r;
}

/* Is the plan proven to be so close to the best possible that the rest of the work is not worth its time? */
RMI_FN int rmi_plan_close(const rmi_planner *w, int enough)
{
    uint64_t gap = w->best.n ? rmi_sub(w->best.fig.time_ns, w->info->bound_ns) : RMI_INF;
    return !gap || (enough && gap <= rmi_mul_div_up(w->info->bound_ns, w->c.gap_ppm, 1000000));
}

/* Nothing fits: evictions to limits of a fixed ladder, upwards. The first that can be met has a plan, whatever the budget; so the
   memory that an infeasible call names is enough. */
RMI_FN rm_result rmi_plan_search_ladder(rmi_planner *w, rmi_ref_search *s, rmi_run *runs, uint64_t budget)
{
    uint64_t limit, size;
    for (limit = w->info->min_bound_bytes; limit < w->info->keep_all_bytes && !w->stop.stopped; limit += limit / 16 + 1) {
        s->limit = rmi_sub(limit, s->m->base);
        s->best.n = 0;
        rmi_ref_load(s, NULL, 0, NULL);
        RMI_TRY(rmi_ref_greedy(s, 500, 400));
        if (!s->best.n) continue;
        RMI_TRY(rmi_plan_try(w, runs, rmi_ref_runs(s, &s->best, runs), budget, &size));
        w->min_arena = rmi_min(w->min_arena, size);
        return RM_OK;
    }
    return RM_OK;
}

RMI_FN rm_result rmi_plan_search_rounds(rmi_planner *w, rmi_arena *mem, uint64_t budget)
{
    rmi_ref_model m;
    rmi_ref_search s;
    rmi_ref_windows windows;
    uint64_t work, least;
    uint32_t round;
    rmi_run *runs;
    RMI_TRY(rmi_ref_make(mem, w->g, w->step, w->align, &m));
    RMI_TRY(rmi_ref_search_make(mem, &m, &s));
    runs = RMI_NEW(mem, rmi_run, s.cap);
    if (!runs) return RM_ERROR_MEMORY;
    least = rmi_min(RMI_PLAN_WORK, (m.n_moded ? 360000u : 90000u) * (uint64_t)m.n_tasks);
    work = w->d->work_limit ? w->d->work_limit : w->c.work ? w->c.work : w->end_ns ? RMI_MAX : least;
    least = rmi_min(least, work);
    s.limit = rmi_sub(budget, m.base);
    s.tried = RMI_INF;
    RMI_TRY(rmi_plan_search_first(w, &s, runs, budget));
    RMI_TRY(rmi_plan_bound(w, mem, &m, budget));
    if (rmi_low_has_backward(w->step) && !w->stop.stopped) RMI_TRY(rmi_plan_backward_step(w, budget));
    if (budget < w->info->min_bound_bytes) { /* no plan can fit: the question is which budget to name */
        if (w->min_arena - w->info->min_bound_bytes <= w->min_arena / 1000) return RM_OK;
        return rmi_plan_search_ladder(w, &s, runs, budget);
    }
    RMI_TRY(rmi_plan_search_starts(w, &s, &m, least / 2));
    if (s.best.n) rmi_ref_restart(&s);
    if (m.n_tasks > 400) RMI_TRY(rmi_ref_windows_make(&s, 240, &windows));
    for (round = 0; s.work < work && !w->stop.stopped && !rmi_plan_close(w, s.work > (m.n_tasks > 500 ? least / 4 : least)); round++) {
        int part = m.n_tasks > 400 && s.best.n && (m.n_tasks > 1400 || s.work > work / 2);
        if (part) rmi_ref_improve_windows(&s, &windows, least / 20, 3);
        else rmi_ref_improve(&s, least / 16, round);
        RMI_TRY(rmi_plan_search_try(w, &s, runs, budget));
    }
    for (round = 0; round < 12 && s.tried == RMI_INF && s.limit && !w->stop.stopped; round++) { /* nothing within the last limit yet */
        if (!s.best.n) rmi_ref_improve(&s, least / 8, 3);
        RMI_TRY(rmi_plan_search_try(w, &s, runs, budget));
    }
    return w->best.n || budget == RMI_INF ? RM_OK : rmi_plan_search_ladder(w, &s, runs, budget);
}

/* --- what the planner knows: programs of earlier calls for the same graph, each faster than all that are smaller. A search with
   more memory is then never slower than one before it with less. */
#define RMI_PLAN_KNOWN 16u

/* Calls whose programs fit each other; 0: none do. */
RMI_FN uint64_t rmi_plan_key(const rmi_planner *w)
{
    uint64_t key = rmi_mix(w->step ^ (uint64_t)w->steps << 8 ^ (uint64_t)w->align << 16 ^ (uint64_t)(w->d->live_only != 0) << 50);
    size_t i;
    if (w->c.off || w->d->host_bytes || w->d->like || w->joint || w->apart || w->host_only) return 0;
    for (i = 0; i < sizeof w->c.kinds && w->c.kinds[i]; i++) key = rmi_mix(key ^ (uint64_t)(unsigned char)w->c.kinds[i]);
    return rmi_mix(key ^ w->c.passes) | 1;
}

RMI_FN rm_result rmi_plan_recall(rmi_planner *w, uint64_t budget)
{
    uint64_t key = rmi_plan_key(w);
    rmi_known *k;
    for (k = w->p->g->known; k && key; k = k->next) {
        rmi_program c = *(const rmi_program *)k->program;
        if (k->key != key || k->bytes > budget) continue;
        if (rmi_sch_check(w->g, &c, &w->g->last, NULL) != RM_OK) continue; /* costs may be others now, and what is legal is not */
        if (rmi_plan_size(w, &c) > budget || (w->best.n && c.fig.time_ns >= w->best.fig.time_ns)) continue;
        RMI_TRY(rmi_plan_copy_program(&w->p->mem, &c, &w->best));
    }
    return RM_OK;
}

/* Keeps the best program; without memory for it, it is not kept. */
RMI_FN void rmi_plan_remember(rmi_planner *w)
{
    uint64_t key = rmi_plan_key(w), bytes = rmi_plan_size(w, &w->best), ns = w->best.fig.time_ns;
    rmi_known **at = &w->p->g->known, *k;
    rmi_arena mem = rmi_arena_make(&w->g->mem.hooks);
    uint32_t n = 0;
    if (!key || w->best.n > 100000) return;
    while ((k = *at) != NULL) {
        if (k->key == key && k->bytes <= bytes && k->ns <= ns) return;
        n++;
        if ((k->key == key && k->bytes >= bytes && k->ns >= ns) || n == RMI_PLAN_KNOWN) {
            rmi_arena old = k->mem;
            *at = k->next;
            rmi_arena_free(&old);
        } else at = &k->next;
    }
    k = RMI_NEW(&mem, rmi_known, 1);
    if (k) k->program = RMI_NEW(&mem, rmi_program, 1);
    if (!k || !k->program || rmi_plan_copy_program(&mem, &w->best, (rmi_program *)k->program) != RM_OK) {
        rmi_arena_free(&mem);
        return;
    }
    k->mem = mem;
    k->key = key;
    k->bytes = bytes;
    k->ns = ns;
    k->next = w->p->g->known;
    w->p->g->known = k;
}

RMI_FN rm_result rmi_plan_search(rmi_planner *w, uint64_t budget)
{
    rmi_arena mem = rmi_plan_arena(w);
    rm_result r = rmi_plan_search_rounds(w, &mem, budget);
    rmi_arena_free(&mem);
    if (r == RM_OK) r = rmi_plan_recall(w, budget);
    if (r == RM_OK && w->best.n) rmi_plan_remember(w);
    return r == RM_ERROR_CANCELLED && w->stop.stopped ? RM_OK : r;
}

/* --- plans with copies: lists of >>offload, with homes of their own */

/* The model's decisions as a candidate. */
RMI_FN rm_result rmi_plan_try_moved(rmi_planner *w, rmi_off_search *s, uint64_t budget, uint64_t *size)
{
    rmi_arena tmp = rmi_plan_arena(w);
    rmi_home *homes = w->homes;
    size_t n_homes = w->n_homes;
    rmi_off_list list;
    rm_result r;
    memset(&list, 0, sizeof list);
    rmi_off_energy(s);
    r = rmi_off_emit(s->m, &tmp, &list);
    if (r == RM_OK) r = rmi_off_homes(s->m, &tmp, &list);
    if (r == RM_OK) {
        w->homes = list.homes;
        w->n_homes = list.n_homes;
        w->n_late = list.n_late;
        r = rmi_plan_try(w, list.runs, list.n, budget, size);
    }
    w->homes = homes;
    w->n_homes = n_homes;
    w->n_late = 0;
    rmi_arena_free(&tmp);
    return r;
}

#define RMI_PLAN_MOVE_WORK ((uint64_t)40000000) /* runs that are looked at, some 40 ns each */
#define RMI_PLAN_MOVE_EVALS 12000u

/* The search, and again with a lower limit while addresses cost more than live bytes. */
RMI_FN rm_result rmi_plan_search_moved(rmi_planner *w, rmi_arena *mem, rmi_off_search *s, uint64_t budget)
{
    rmi_off_model *m = s->m;
    uint64_t size, evals, least = RMI_INF, work = w->d->work_limit ? w->d->work_limit : w->c.work ? w->c.work : RMI_PLAN_MOVE_WORK;
    uint32_t round, k, n, by[RMI_OFF_STARTS];
    uint8_t *mode = RMI_NEW(mem, uint8_t, m->n_buf), *host = RMI_NEW(mem, uint8_t, m->g->n_tensors);
    if (!mode || !host) return RM_ERROR_MEMORY;
    RMI_TRY(rmi_off_starts(s, mem, &w->p->shape, by, &n));
    RMI_TRY(rmi_off_start(s, mem, &w->p->shape, by[0]));
    rmi_off_energy(s);
    evals = rmi_min(work / ((uint64_t)m->n + m->n_order + 1), RMI_PLAN_MOVE_EVALS);
    s->best_energy = RMI_INF;
    for (k = 0; k < 4 && k < n && s->n_flips; k++) { /* where updates run is hard to change later */
        RMI_TRY(rmi_off_start(s, mem, &w->p->shape, by[k]));
        rmi_off_anneal(s, evals / 16 + 1, m->ns / 500);
        if (s->energy >= least) continue;
        least = s->energy;
        memcpy(mode, m->mode, m->n_buf);
        memcpy(host, m->host_update, m->g->n_tensors);
    }
    if (least != RMI_INF) {
        memcpy(m->mode, mode, m->n_buf);
        memcpy(m->host_update, host, m->g->n_tensors);
        rmi_off_settle(m);
    }
    for (k = 0; k < 4; k++) { /* ever cooler, from the best so far */
        rmi_off_anneal(s, evals / 8 + 1, m->ns / ((uint64_t)500 << (2 * k)) * (k < 2 ? 1u : 2u));
        if (s->best_energy <= s->energy) rmi_off_take_best(s);
        else s->price *= 2; /* it does not fit */
    }
    for (k = 0; k < 2 && s->best_energy == RMI_INF; k++) { /* or from what takes the least memory */
        RMI_TRY(rmi_off_cook(s, mem, &w->p->shape, k ? RMI_OFF_BLOCKS : RMI_OFF_SEARCHED, 1, 1000, 0));
        rmi_off_anneal(s, evals / 4 + 1, m->ns / 500);
    }
    if (s->best_energy == RMI_INF) return RM_OK;
    for (round = 0; round < 32 && !w->stop.stopped; round++) {
        rmi_off_take_best(s);
        w->quick = round < 30 || w->best.n;
        RMI_TRY(rmi_plan_try_moved(w, s, budget, &size));
        w->quick = 0;
        if (size == RMI_INF || budget == RMI_INF || (!round && size <= budget)) return RM_OK;
        if (size <= budget) {
            m->slack -= m->slack / 4;
            m->limit += (budget - m->limit) / 4;
        } else if (round % 3 < 2) m->slack += (size - budget) / 4 + m->limit / 1000;
        else m->limit -= (size - budget) / 4 + m->limit / 4000; /* it may be the turn itself that cannot be packed */
        s->best_energy = RMI_INF;
        rmi_off_anneal(s, evals / 80 + 1, m->ns / 5000);
    }
    return RM_OK;
}

/* Few values: every choice of all of them whose runs alone do not last too long, by the referee's clock. What persists stays as decided. */
#define RMI_PLAN_FEW 6u
RMI_FN rm_result rmi_plan_exhaust_moved(rmi_planner *w, rmi_off_search *s, uint64_t budget)
{
    rmi_off_model *m = s->m;
    uint32_t i, n = 0, few[RMI_PLAN_FEW], code, all = 1, c;
    uint64_t size;
    for (i = 0; i < s->n; i++)
        if (!s->items[i].lasting) {
            if (n == RMI_PLAN_FEW) return RM_OK;
            few[n++] = i, all *= 3;
        }
    for (code = 0; code < all && !w->stop.stopped; code++) {
        for (i = 0, c = code; i < n && rmi_off_may(s, &s->items[few[i]], (uint8_t)(c % 3)); i++, c /= 3) m->mode[s->items[few[i]].buf] = (uint8_t)(c % 3);
        if (i < n) continue;
        rmi_off_energy(s);
        if (!w->best.n || m->ns < w->best.fig.time_ns) RMI_TRY(rmi_plan_try_moved(w, s, budget, &size));
    }
    return RM_OK;
}

/* The plain plans. The smallest is tried even if it does not seem to fit when nothing else does: it says what does. */
RMI_FN rm_result rmi_plan_recipes(rmi_planner *w, rmi_arena *mem, rmi_off_search *s, uint64_t budget)
{
    static const uint32_t passes[] = {0, RM_PASS_STREAM, RM_PASS_STREAM, RM_PASS_LINK, RM_PASS_LINK, RM_PASS_BLOCKS, RM_PASS_BLOCKS};
    static const uint8_t recipes[] = {RMI_OFF_ALL_KEPT, RMI_OFF_ALL_KEPT, RMI_OFF_STREAMED, RMI_OFF_FREE_LINK, RMI_OFF_FREE_LINK, RMI_OFF_BLOCKS, RMI_OFF_BLOCKS};
    rmi_off_model *m = s->m;
    uint64_t size, least = RMI_INF;
    uint32_t i, best = 0;
    for (i = 0; i <= RMI_COUNT(passes) && !w->stop.stopped; i++) {
        uint32_t which = i < RMI_COUNT(passes) ? i : best;
        int home = (int)(which && !(which & 1)), last = i == RMI_COUNT(passes), yardstick = !which && (w->host_only || w->joint);
        if (last ? w->best.n != 0 || least == RMI_INF : !yardstick && !(w->c.passes & passes[which])) continue;
        RMI_TRY(rmi_off_cook(s, mem, &w->p->shape, (rmi_off_recipe)recipes[which], home, home ? 1000 : 0, 0));
        rmi_off_energy(s);
        if (m->host_bytes <= m->host_limit && m->peak < least) least = m->peak, best = which;
        if (!last && !yardstick && !rmi_off_fits(m)) continue;
        RMI_TRY(rmi_plan_try_moved(w, s, budget, &size));
        if (w->tried.host <= w->d->host_bytes) w->min_arena = rmi_min(w->min_arena, size);
        if (which || last || w->info->keep_all_ns) continue;
        w->info->keep_all_bytes = size;
        w->info->keep_all_ns = w->tried.fig.time_ns;
    }
    return RM_OK;
}

RMI_FN rm_result rmi_plan_move(rmi_planner *w, uint64_t budget)
{
    rmi_arena mem = rmi_plan_arena(w);
    rmi_off_model m;
    rmi_off_search s;
    rm_result r = rmi_off_make(&mem, w->g, w->step, w->align, 100 - w->d->link_margin_percent, &m);
    if (r == RM_OK) {
        m.limit = budget;
        m.host_limit = w->d->host_bytes;
        m.steady = w->joint;
        m.waiting = w->step == RM_FORWARD && w->steps & (RM_FIRST | RM_MIDDLE | RM_LAST);
        if (w->given) rmi_off_join(&m, w->given, w->n_given);
        r = rmi_off_search_make(&mem, &m, &w->p->shape, &s);
    }
    if (r == RM_OK) r = rmi_plan_recipes(w, &mem, &s, budget);
    if (r == RM_OK && w->c.passes & RM_PASS_OFFLOAD && !w->stop.stopped) r = rmi_plan_search_moved(w, &mem, &s, budget);
    if (r == RM_OK && w->c.passes & RM_PASS_OFFLOAD && !w->stop.stopped) r = rmi_plan_exhaust_moved(w, &s, budget);
    rmi_arena_free(&mem);
    return r == RM_ERROR_CANCELLED && w->stop.stopped ? RM_OK : r;
}

/* Host memory makes nothing slower or impossible: the search without copies is asked as well, unless a bound says that it has nothing
   better. */
RMI_FN rm_result rmi_plan_unmoved(rmi_planner *w, uint64_t budget)
{
    rmi_arena mem = rmi_plan_arena(w);
    rmi_ref_model m;
    rmi_program moved = w->best;
    uint32_t passes = w->c.passes;
    uint64_t bound = 0;
    rm_result r = RM_OK;
    if (w->best.n && rmi_plan_close(w, 1)) return RM_OK;
    if (w->best.n && budget != RMI_INF) {
        r = rmi_ref_make(&mem, w->g, w->step, 1, &m);
        if (r == RM_OK && m.base <= budget) r = rmi_bnd_bound(&mem, &m, rmi_min(budget - m.base, RMI_MAX), RMI_PLAN_BOUND_WORK, 0, &bound);
    }
    rmi_arena_free(&mem);
    if (r != RM_OK || (w->best.n && bound >= w->best.fig.time_ns)) return r;
    w->c.passes |= rmi_plan_find_preset("hiremate")->passes;
    w->best.n = 0; /* it goes its own way, as if nothing could be moved */
    r = rmi_plan_search(w, budget);
    w->c.passes = passes;
    if (moved.n && (!w->best.n || moved.fig.time_ns < w->best.fig.time_ns)) w->best = moved;
    return r;
}

/* --- one program */

RMI_FN rm_result rmi_plan_infeasible(rmi_planner *w, const rm_plan_info *worst)
{
    const char *kind = rmi_low_step_name(worst->step);
    if (worst->min_bytes == RMI_INF) { /* no budget was found that works */
        if (w->d->info) w->d->info->min_bytes = 0;
        return rmi_err_set(&w->g->last, RM_ERROR_INFEASIBLE, "host memory of %u bytes: too small for step kind '%s'; preset '%s' has no plan within it, whatever the budget%s. Set rm_plan_desc.host_bytes to more",
                           w->d->host_bytes, kind, w->c.name[0] ? w->c.name : "(a configuration)", w->d->like ? ", that is like the plan given" : "");
    }
    return rmi_err_set(&w->g->last, RM_ERROR_INFEASIBLE, "budget of %u bytes: too small for step kind '%s'; preset '%s' works with %u bytes, and no plan at all needs less than %u. Give %u, or make the largest op smaller",
                       w->d->device_bytes, kind, w->c.name[0] ? w->c.name : "(a configuration)", worst->min_bytes, worst->min_bound_bytes, worst->min_bytes);
}

RMI_FN void rmi_plan_figures_of(const rmi_program *p, rm_plan_info *f)
{
    f->arena_bytes = p->arena;
    f->live_bytes = p->fig.live_bytes;
    f->host_bytes = p->host;
    f->time_ns = p->fig.time_ns;
    f->recomputed_ns = p->fig.recomputed_ns;
    f->runs = p->fig.runs;
    f->recomputed_runs = p->fig.recomputed_runs;
    f->statements = p->n;
    f->h2d_bytes = p->fig.copied[0];
    f->d2h_bytes = p->fig.copied[1];
    memcpy(f->busy_ns, p->fig.busy, sizeof f->busy_ns);
}

/* Everything about one step kind: its figures of keep-everything and bounds, its program. */
RMI_FN rm_result rmi_plan_step(rmi_planner *w, uint32_t step)
{
    rmi_arena tmp = rmi_plan_arena(w);
    uint64_t budget = w->budget ? w->budget : RMI_INF, size = 0;
    rmi_run *runs = NULL;
    size_t n = 0;
    rm_result r;
    int plain;
    w->step = step;
    w->info = &w->p->info[w->p->n];
    w->min_arena = RMI_INF;
    memset(&w->best, 0, sizeof w->best);
    rmi_plan_step_homes(w);
    w->info->step = step;
    w->info->budget_bytes = w->d->device_bytes;
    w->info->blocks = w->p->shape.n;
    w->info->classes = w->p->shape.n_classes;
    w->info->estimated = w->g->estimated;
    r = rmi_bnd_time(&tmp, w->g, step, &w->info->bound_ns);
    if (r == RM_OK) r = rmi_bnd_bytes(&tmp, w->g, step, w->g->has_link && w->d->host_bytes, &w->info->min_bound_bytes);
    if (r == RM_OK && !(w->g->has_link && w->d->host_bytes) && w->g->n_ops < 10000) { /* it is worth its time */
        rmi_ref_model m;
        r = rmi_ref_make(&tmp, w->g, step, 1, &m);
        if (r == RM_OK) r = rmi_bnd_least_bytes(&tmp, &m, &w->info->min_bound_bytes);
    }
    plain = !w->joint && !(w->host_only && rmi_low_has_update(step));
    if (r == RM_OK && plain) r = rmi_plan_keep_all(w, &tmp, &runs, &n);
    if (r == RM_OK && plain) { /* keep everything: the yardstick, and a candidate of every preset */
        rmi_program c;
        r = rmi_plan_build(w, &tmp, runs, n, 0, &c);
        if (r == RM_ERROR_PLAN) r = RM_ERROR_INTERNAL;
        if (r == RM_OK) {
            size = rmi_plan_size(w, &c);
            w->min_arena = size;
            w->info->keep_all_bytes = size;
            w->info->keep_all_ns = c.fig.time_ns;
            if (size <= budget) r = rmi_plan_copy_program(&w->p->mem, &c, &w->best);
            if (size <= budget) rmi_plan_tell(w, "first");
        }
    }
    rmi_arena_free(&tmp);
    if (r == RM_OK && plain && rmi_low_has_backward(step) && !(w->c.passes & RM_PASS_SEARCH) && !w->stop.stopped) r = rmi_plan_backward_step(w, budget);
    if (r == RM_OK && plain && w->c.passes & RM_PASS_SEARCH && !w->stop.stopped) r = rmi_plan_search(w, budget);
    else if (r == RM_OK && !w->stop.stopped) {
        tmp = rmi_plan_arena(w);
        r = rmi_plan_bound(w, &tmp, NULL, budget);
        rmi_arena_free(&tmp);
    }
    if (r == RM_OK && (w->joint || (w->c.passes & RMI_PLAN_MOVES && !w->apart)) && w->g->has_link && w->d->host_bytes && !w->stop.stopped) r = rmi_plan_move(w, budget);
    if (r == RM_OK && plain && w->c.passes & RM_PASS_OFFLOAD && w->homes_bytes <= budget && !w->stop.stopped) r = rmi_plan_unmoved(w, budget);
    if (r != RM_OK) return r;
    w->info->min_bytes = w->best.n ? rmi_min(w->min_arena, rmi_plan_size(w, &w->best)) : w->min_arena;
    if (!w->best.n) return w->stop.stopped ? rmi_err_set(&w->g->last, RM_ERROR_CANCELLED, "the progress callback stopped the planner before any plan fitted") : RM_ERROR_INFEASIBLE;
    rmi_plan_figures_of(&w->best, w->info);
    if (w->d->live_only) w->info->arena_bytes = w->best.fig.live_bytes;
    w->p->prog[w->p->n++] = w->best;
    return RM_OK;
}

/* The configuration that d asks for. */
RMI_FN rm_result rmi_plan_config(rm_graph *g, const rm_plan_desc *d, rm_config *c)
{
    const rmi_plan_preset *p = rmi_plan_find_preset(d->preset);
    const char *wrong;
    char names[256];
    size_t i, n = 0, length;
    if (!d->preset && d->host_bytes && g->has_link) p = rmi_plan_find_preset("offmate");
    if (!d->config && p) rmi_plan_use_preset(p, c);
    if (!d->config && !p) {
        for (i = 0; i < RMI_COUNT(rmi_plan_presets) && n + 40 < sizeof names; i++, n += length) {
            length = strlen(rmi_plan_presets[i].name);
            if (i) memcpy(names + n, ", ", 2), n += 2;
            memcpy(names + n, rmi_plan_presets[i].name, length);
        }
        names[n] = 0;
        return rmi_err_set(&g->last, RM_ERROR_ARGUMENT, "rm_plan_desc.preset: '%s' is not known; take one of %s", d->preset, names);
    }
    if (d->config) *c = *d->config;
    wrong = rmi_plan_config_wrong(c);
    if (wrong) return rmi_err_set(&g->last, RM_ERROR_ARGUMENT, "rm_plan_desc.config: %s", wrong);
    if (c->off & RM_NO_RECOMPUTE) c->passes &= RM_PASS_SEARCH;
    return RM_OK;
}

RMI_FN rm_result rmi_plan_desc_ok(rm_graph *g, const rm_plan_desc *d)
{
    size_t i;
    int aligned = 1;
    if (d->steps & ~(RM_SINGLE | RM_FIRST | RM_MIDDLE | RM_LAST | RM_FORWARD)) return rmi_err_set(&g->last, RM_ERROR_ARGUMENT, "rm_plan_desc.steps: an unknown bit; take RM_SINGLE, RM_FIRST, RM_MIDDLE, RM_LAST, RM_FORWARD");
    if (d->align & (d->align - 1)) return rmi_err_set(&g->last, RM_ERROR_ARGUMENT, "rm_plan_desc.align: %u is no power of two; take 256 or leave it 0", (uint64_t)d->align);
    if (d->link_margin_percent > 90) return rmi_err_set(&g->last, RM_ERROR_ARGUMENT, "rm_plan_desc.link_margin_percent: %u; take 0 to 90", (uint64_t)d->link_margin_percent);
    for (i = 0; d->like && d->like->g == g && i < d->like->prog[0].n_homes; i++) aligned &= d->like->prog[0].homes[i].offset % (d->align ? d->align : 256) == 0;
    if (d->like && (d->like->g != g || !aligned || d->like->live_only)) return rmi_err_set(&g->last, RM_ERROR_ARGUMENT, "rm_plan_desc.like: a plan of another graph, of another alignment, or without addresses");
    if (d->device_bytes > RMI_MAX || d->host_bytes > RMI_MAX) return rmi_err_set(&g->last, RM_ERROR_ARGUMENT, "rm_plan_desc: a budget is not below 2^62 bytes");
    return RM_OK;
}

/* Updates in host memory want a link, room there, and bytes that may move. */
RMI_FN rm_result rmi_plan_updates_ok(rm_graph *g, const rm_plan_desc *d, int *host_only)
{
    uint32_t i, steps = d->steps ? d->steps : RM_SINGLE;
    *host_only = 0;
    for (i = 0; i < g->n_tensors && steps & (RM_SINGLE | RM_LAST); i++) {
        if (!g->tensors[i].updates || g->tensors[i].opt != RMI_INF) continue;
        if (g->tensors[i].external)
            return rmi_err_set(&g->last, RM_ERROR_ARGUMENT, "param %s: its update runs in host memory only, and RM_EXTERNAL memory does not move; give it an update on the device as well, or drop RM_EXTERNAL", g->tensors[i].name);
        *host_only = 1;
        if (!g->has_link || !d->host_bytes)
            return rmi_err_set(&g->last, RM_ERROR_ARGUMENT, "param %s: its update runs in host memory only; %s, or give it an update on the device as well", g->tensors[i].name,
                               !g->has_link ? "declare the link that takes it there (rm_graph_link)" : "set rm_plan_desc.host_bytes");
    }
    return RM_OK;
}

/* All wanted step kinds, each with its program. worst: of those that the budget is too small for, the one that wants most. */
RMI_FN rm_result rmi_plan_kinds_of_step(rmi_planner *w, rm_plan_info *worst)
{
    static const uint32_t decider_first[RM_STEP_KINDS] = {RM_LAST, RM_SINGLE, RM_MIDDLE, RM_FIRST, RM_FORWARD};
    uint32_t i, k;
    memset(worst, 0, sizeof *worst);
    w->p->n = 0;
    for (i = 0; i < RM_STEP_KINDS; i++) {
        rm_result r;
        uint32_t step = w->joint ? decider_first[i] : rmi_plan_steps[i];
        if (!(w->steps & step)) continue;
        if (w->late) w->stop.stopped = w->late = 0; /* each kind must have a plan */
        memset(&w->p->info[w->p->n], 0, sizeof(rm_plan_info));
        r = rmi_plan_step(w, step);
        if (r != RM_OK && r != RM_ERROR_INFEASIBLE) return r;
        if (r == RM_ERROR_INFEASIBLE && w->info->min_bytes >= worst->min_bytes) *worst = *w->info;
        if (r == RM_ERROR_INFEASIBLE) memset(w->info, 0, sizeof *w->info);
        if (r == RM_ERROR_INFEASIBLE && w->joint) return RM_OK;
        if (!w->joint || w->given) continue;
        w->given = w->p->prog[0].homes;
        w->n_given = w->p->prog[0].n_homes;
    }
    for (i = 1; i < w->p->n; i++) /* in the order of kinds, whichever came first */
        for (k = i; k > 0 && w->p->info[k].step < w->p->info[k - 1].step; k--) {
            rmi_program p = w->p->prog[k];
            rm_plan_info f = w->p->info[k];
            w->p->prog[k] = w->p->prog[k - 1], w->p->info[k] = w->p->info[k - 1];
            w->p->prog[k - 1] = p, w->p->info[k - 1] = f;
        }
    return RM_OK;
}

/* Programs with copies of all kinds, the first with copies of what persists where it likes, the others like it. If the budget is
   too small, which one would do? Each answer is for one kind only, so it is tried. */
RMI_FN rm_result rmi_plan_joint(rmi_planner *w, rm_plan_info *worst)
{
    rm_plan_info next;
    uint32_t round;
    w->joint = 1;
    w->given = w->d->like ? w->d->like->prog[0].homes : NULL;
    w->n_given = w->d->like ? w->d->like->prog[0].n_homes : 0;
    RMI_TRY(rmi_plan_kinds_of_step(w, worst));
    for (round = 0; worst->min_bytes && worst->min_bytes != RMI_INF && round < 16 && !w->stop.stopped; round++) {
        w->budget = worst->min_bytes;
        w->given = w->d->like ? w->given : NULL;
        RMI_TRY(rmi_plan_kinds_of_step(w, &next));
        w->p->n = 0;
        if (!next.min_bytes) break;
        if (next.min_bytes <= worst->min_bytes) next.min_bytes = worst->min_bytes + worst->min_bytes / 16;
        worst->min_bytes = next.min_bytes;
    }
    w->budget = w->d->device_bytes;
    return RM_OK;
}

/* Programs of several kinds share what persists. So there are two plans: one in which nothing moves, and one in which the kind
   that knows all that persists decides where it is. The faster one counts. */
RMI_FN rm_result rmi_plan_several(rmi_planner *w, rm_plan_info *worst)
{
    rm_plan first = *w->p;
    rm_plan_info worst_first;
    uint64_t before = 0, after = 0;
    uint32_t i;
    int moves = (w->c.passes & RMI_PLAN_MOVES || w->host_only || w->d->like) && w->g->has_link && w->d->host_bytes;
    memset(&worst_first, 0, sizeof worst_first);
    first.n = 0;
    if (!w->host_only && (!w->d->like || !moves)) {
        w->apart = 1;
        RMI_TRY(rmi_plan_kinds_of_step(w, worst));
        w->apart = 0;
        if (!moves || (w->stop.stopped && !worst->min_bytes)) return RM_OK;
        first = *w->p;
        worst_first = *worst;
        for (i = 0; i < first.n; i++) before += first.info[i].time_ns;
    }
    RMI_TRY(rmi_plan_joint(w, worst));
    for (i = 0; i < w->p->n; i++) after += w->p->info[i].time_ns;
    if (worst_first.min_bytes && worst->min_bytes > worst_first.min_bytes) *worst = worst_first;
    if (!first.n || worst_first.min_bytes || (!worst->min_bytes && after < before)) return RM_OK;
    memcpy(w->p->prog, first.prog, sizeof first.prog);
    memcpy(w->p->info, first.info, sizeof first.info);
    w->p->n = first.n;
    *worst = worst_first;
    return RM_OK;
}

RMI_FN rm_result rmi_plan_make(rmi_planner *w)
{
    rm_plan_info worst;
    uint32_t i;
    for (i = 0; i < w->g->n_tensors; i++) w->lanes |= w->g->tensors[i].reduce != RMI_INF && w->g->tensors[i].consumers.n;
    RMI_TRY(rmi_seq_scratch(&w->seq, w->g, &w->p->mem));
    RMI_TRY(rmi_shp_make(&w->p->mem, w->g, RMI_NONE, &w->p->shape));
    RMI_TRY(rmi_plan_layout(w));
    if (w->host_only) w->c.passes |= RM_PASS_STREAM | RM_PASS_OFFLOAD;
    if (w->d->like || w->steps & (w->steps - 1)) RMI_TRY(rmi_plan_several(w, &worst));
    else RMI_TRY(rmi_plan_kinds_of_step(w, &worst));
    if (worst.min_bytes) {
        if (w->d->info) *w->d->info = worst;
        return rmi_plan_infeasible(w, &worst);
    }
    rmi_plan_tell(w, "done");
    return RM_OK;
}

RMI_FN rm_plan *rmi_plan_new(rm_graph *g)
{
    rmi_arena mem = rmi_arena_make(&g->mem.hooks);
    rm_plan *p = RMI_NEW(&mem, rm_plan, 1);
    if (!p) {
        rmi_arena_free(&mem);
        return NULL;
    }
    p->mem = mem;
    p->g = g;
    return p;
}

RMI_FN void rmi_plan_free(rm_plan *p)
{
    rmi_arena mem;
    if (!p) return;
    mem = p->mem;
    rmi_arena_free(&mem);
}

/* The graph as the switches leave it: a copy that lacks the freedoms which are off, so that no pass need know of them. NULL:
   no memory. */
RMI_FN rm_graph *rmi_plan_ablate(rmi_arena *mem, rm_graph *g, uint32_t off)
{
    rm_graph *v = RMI_NEW(mem, rm_graph, 1);
    rmi_op *ops = RMI_NEW(mem, rmi_op, g->n_ops);
    uint32_t i, k;
    if (!v || !ops) return NULL;
    *v = *g;
    v->ops = ops;
    v->fixed_order = (off & RM_NO_REORDER) != 0;
    for (i = 0; i < g->n_ops; i++) {
        ops[i] = g->ops[i];
        if (off & RM_NO_VARIANTS) ops[i].n_forms = 1;
        if (off & RM_NO_RECOMPUTE) ops[i].pinned = 1;
        if (!(off & RM_NO_INPLACE)) continue;
        if (!(ops[i].forms = RMI_NEW(mem, rmi_form, ops[i].n_forms))) return NULL;
        for (k = 0; k < ops[i].n_forms; k++) {
            ops[i].forms[k] = g->ops[i].forms[k];
            ops[i].forms[k].inplace = RMI_NONE;
            ops[i].forms[k].n_overs = 0;
        }
    }
    return v;
}

/* Plans the copy of g that the switches leave, and has the referee look at the result with g itself. */
RMI_FN rm_result rmi_plan_make_without(rmi_planner *w, rm_graph *g)
{
    rm_result r;
    uint32_t i;
    w->g = rmi_plan_ablate(&w->p->mem, g, w->c.off);
    if (!w->g) return RM_ERROR_MEMORY;
    r = rmi_plan_make(w);
    for (i = 0; i < w->p->n && r == RM_OK; i++) r = rmi_sch_check(g, &w->p->prog[i], &w->g->last, NULL);
    if (r != RM_OK) g->last = w->g->last;
    return r == RM_ERROR_PLAN ? RM_ERROR_INTERNAL : r;
}

RMI_FN rm_result rmi_plan_create(rm_graph *g, const rm_plan_desc *d, rm_plan **out)
{
    rmi_planner w;
    rm_result r;
    memset((void *)&w, 0, sizeof w); /* in C++14 its config is no plain struct */
    rmi_err_clear(&g->last);
    RMI_TRY(rmi_graph_seal(g));
    RMI_TRY(rmi_plan_desc_ok(g, d));
    RMI_TRY(rmi_plan_config(g, d, &w.c));
    RMI_TRY(rmi_plan_updates_ok(g, d, &w.host_only));
    w.stop.ask = rmi_plan_ask;
    w.stop.user = &w;
    w.g = g;
    w.d = d;
    w.steps = d->steps ? d->steps : RM_SINGLE;
    w.budget = d->device_bytes;
    w.end_ns = d->limit_ns ? rmi_add(rmi_now_ns(), d->limit_ns) : 0;
    w.align = d->align ? d->align : d->live_only ? 1 : 256;
    w.p = rmi_plan_new(g);
    if (!w.p) return rmi_err_memory(&g->last);
    w.p->align = w.align;
    w.p->live_only = d->live_only != 0;
    w.tries = w.lists = rmi_plan_arena(&w);
    r = w.c.off ? rmi_plan_make_without(&w, g) : rmi_plan_make(&w);
    rmi_arena_free(&w.tries);
    rmi_arena_free(&w.lists);
    if (d->info && r == RM_OK) *d->info = w.p->info[0];
    if (r == RM_ERROR_MEMORY) rmi_err_memory(&g->last);
    if (r == RM_ERROR_ARGUMENT && !g->last.text[0]) rmi_err_set(&g->last, r, "rm_plan_create: all buffers together, each rounded up to %u bytes, are not below 2^62; check the unit of the largest tensors, or take a smaller rm_plan_desc.align", (uint64_t)w.align);
    if (r == RM_ERROR_INTERNAL && !g->last.text[0]) rmi_err_set(&g->last, r, "a solver made a sequence that reads what is not there: a fault of rockmate.h; please report it with the graph (rm_graph_write)");
    if (r != RM_OK) {
        g->last.result = r;
        rmi_plan_free(w.p);
        return r;
    }
    rmi_err_clear(&g->last);
    *out = w.p;
    return RM_OK;
}

/* The program for a step kind (0: the first), or NULL with a message. */
RMI_FN const rmi_program *rmi_plan_program(const rm_plan *p, uint32_t step, uint32_t *index)
{
    uint32_t i;
    for (i = 0; i < p->n; i++)
        if (!step || p->info[i].step == step) {
            if (index) *index = i;
            return &p->prog[i];
        }
    rmi_err_set(&p->g->last, RM_ERROR_ARGUMENT, "the plan has no program for this step kind; name it in rm_plan_desc.steps");
    return NULL;
}

/* =====================================================================================================================
   >>lanes - which waits between lanes a program needs, and no more
   In: what each op of a program reads and writes, as ranges of bytes, and its lane. Out: pairs (op, earlier op that it waits
   for). An op comes after the last writer of what it reads and after all users of what it writes; a lane keeps its own
   order. A vector clock for each lane knows what its next op comes after anyway: what that covers, or another wait of the same op, is
   dropped. So every wait that is left has two ops that only it puts in order. O(log n) for each range, if ranges are of like size.
   ================================================================================================================== */
typedef struct rmi_lan_use {
    uint64_t lo, hi;
    uint32_t op, write;
} rmi_lan_use;

typedef struct rmi_lan_wait {
    uint32_t op, on; /* op does not begin before `on` has ended */
} rmi_lan_wait;

typedef struct rmi_lan_prog {
    rmi_lan_use *use; /* in order of ops once prepared, lo and hi numbers of end points then */
    size_t n_use, cap_use;
    uint8_t *lane;    /* by op */
    uint32_t n;
    uint32_t joined;  /* so many first ops have ended before any other one is issued: nobody need wait for them */
    size_t *first;    /* by op: its first use */
    rmi_lan_wait *wait; /* in order of ops */
    size_t n_wait, cap_wait;
} rmi_lan_prog;

typedef struct rmi_lan_piece { /* ops count from 1 here; 0: none */
    uint32_t writer, reader[RMI_LANES];
} rmi_lan_piece;

typedef struct rmi_lan {
    uint64_t *cut;        /* sorted end points of all programs */
    size_t n_cut;
    uint64_t *head;       /* bits: a piece begins at this end point */
    rmi_lan_piece *piece; /* by end point */
    uint32_t *clock;      /* by op and lane: what has ended when this op has */
    uint8_t *lane;        /* by op */
    uint32_t known[RMI_LANES][RMI_LANES];
    uint32_t n;           /* ops so far, of both programs */
} rmi_lan;

RMI_FN rm_result rmi_lan_touch(rmi_arena *mem, rmi_lan_prog *p, uint64_t lo, uint64_t bytes, uint32_t op, int write)
{
    rmi_lan_use *u;
    if (!bytes) return RM_OK;
    if (!rmi_arena_grow(mem, (void **)&p->use, &p->cap_use, p->n_use + 1, sizeof(rmi_lan_use))) return RM_ERROR_MEMORY;
    u = &p->use[p->n_use++];
    u->lo = lo;
    u->hi = rmi_add(lo, bytes);
    u->op = op;
    u->write = (uint32_t)write;
    return RM_OK;
}

RMI_FN int rmi_lan_cmp(const void *a, const void *b, void *user)
{
    const rmi_lan_use *x = (const rmi_lan_use *)a, *y = (const rmi_lan_use *)b;
    (void)user;
    if (x->op != y->op) return x->op < y->op ? -1 : 1;
    if (x->lo != y->lo) return x->lo < y->lo ? -1 : 1;
    if (x->hi != y->hi) return x->hi < y->hi ? -1 : 1;
    return x->write < y->write ? -1 : x->write > y->write;
}

RMI_FN uint64_t rmi_lan_number(const rmi_lan *l, uint64_t at)
{
    size_t lo = 0, hi = l->n_cut;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (l->cut[mid] < at) lo = mid + 1;
        else hi = mid;
    }
    return lo;
}

/* Numbers the end points of all programs together, and sorts each one's uses by op. */
RMI_FN rm_result rmi_lan_prepare(rmi_arena *mem, rmi_lan *l, rmi_lan_prog *p, uint32_t n_prog)
{
    uint32_t i, k, most = 0, ops;
    size_t n = 0, u;
    for (i = 0; i < n_prog; i++) {
        n += 2 * p[i].n_use;
        if (p[i].n > most) most = p[i].n;
    }
    l->cut = RMI_NEW(mem, uint64_t, n);
    l->clock = RMI_NEW(mem, uint32_t, 2 * (size_t)most * RMI_LANES);
    l->lane = RMI_NEW(mem, uint8_t, 2 * (size_t)most);
    if (!l->cut || !l->clock || !l->lane) return RM_ERROR_MEMORY;
    for (i = 0; i < n_prog; i++)
        for (u = 0; u < p[i].n_use; u++) {
            l->cut[l->n_cut++] = p[i].use[u].lo;
            l->cut[l->n_cut++] = p[i].use[u].hi;
        }
    rmi_sort(l->cut, l->n_cut, sizeof(uint64_t), rmi_sch_cmp_u64, NULL);
    for (u = 0, n = 0; u < l->n_cut; u++)
        if (!n || l->cut[n - 1] != l->cut[u]) l->cut[n++] = l->cut[u];
    l->n_cut = n;
    l->head = RMI_NEW(mem, uint64_t, n / 64 + 1);
    l->piece = RMI_NEW(mem, rmi_lan_piece, n);
    if (!l->head || !l->piece) return RM_ERROR_MEMORY;
    for (i = 0; i < n_prog; i++) {
        rmi_sort(p[i].use, p[i].n_use, sizeof(rmi_lan_use), rmi_lan_cmp, NULL);
        ops = p[i].n;
        p[i].first = RMI_NEW(mem, size_t, (size_t)ops + 1);
        if (!p[i].first) return RM_ERROR_MEMORY;
        for (u = 0, k = 0; k < ops; k++) {
            p[i].first[k] = u;
            for (; u < p[i].n_use && p[i].use[u].op == k; u++) {
                p[i].use[u].lo = rmi_lan_number(l, p[i].use[u].lo);
                p[i].use[u].hi = rmi_lan_number(l, p[i].use[u].hi);
            }
        }
        p[i].first[ops] = u;
    }
    return RM_OK;
}

/* Nothing has run. */
RMI_FN void rmi_lan_reset(rmi_lan *l)
{
    memset(l->head, 0, (l->n_cut / 64 + 1) * sizeof(uint64_t));
    memset(l->known, 0, sizeof l->known);
    if (l->n_cut) memset((void *)&l->piece[0], 0, sizeof(rmi_lan_piece));
    l->head[0] = 1;
    l->n = 0;
}

RMI_FN int rmi_lan_is_head(const rmi_lan *l, uint64_t c) { return (int)(l->head[c / 64] >> (c % 64) & 1); }

/* The first piece that begins at or after c, or hi. */
RMI_FN uint64_t rmi_lan_next(const rmi_lan *l, uint64_t c, uint64_t hi)
{
    while (c < hi && !rmi_lan_is_head(l, c)) {
        if (!(l->head[c / 64] >> (c % 64))) c = (c / 64 + 1) * 64;
        else c++;
    }
    return c < hi ? c : hi;
}

/* A piece begins at c from now on. */
RMI_FN void rmi_lan_split(rmi_lan *l, uint64_t c)
{
    uint64_t from = c;
    if (c >= l->n_cut || rmi_lan_is_head(l, c)) return;
    while (!rmi_lan_is_head(l, from)) { /* the first end point is a head */
        if (!(l->head[from / 64] << (63 - from % 64))) from = from / 64 * 64 - 1;
        else from--;
    }
    l->piece[c] = l->piece[from];
    l->head[c / 64] |= (uint64_t)1 << (c % 64);
}

RMI_FN void rmi_lan_later(uint32_t *need, const uint8_t *lane, uint32_t op)
{
    if (op && need[lane[op - 1]] < op) need[lane[op - 1]] = op;
}

/* The latest op of each lane that these uses come after; then the uses are `me`'s. */
RMI_FN void rmi_lan_account(rmi_lan *l, const rmi_lan_use *use, size_t n, uint32_t me, uint32_t lane, uint32_t *need)
{
    size_t i;
    uint32_t k;
    uint64_t c;
    for (i = 0; i < n; i++) {
        rmi_lan_split(l, use[i].lo);
        rmi_lan_split(l, use[i].hi);
        for (c = use[i].lo; c < use[i].hi; c = rmi_lan_next(l, c + 1, use[i].hi)) {
            rmi_lan_later(need, l->lane, l->piece[c].writer);
            for (k = 0; k < RMI_LANES && use[i].write; k++) rmi_lan_later(need, l->lane, l->piece[c].reader[k]);
        }
    }
    for (i = 0; i < n; i++)
        for (c = use[i].lo; c < use[i].hi; c = rmi_lan_next(l, c + 1, use[i].hi)) {
            if (!use[i].write) {
                if (l->piece[c].writer != me) l->piece[c].reader[lane] = me;
                continue;
            }
            if (c > use[i].lo) { /* what one op wrote is one piece */
                l->head[c / 64] &= ~((uint64_t)1 << (c % 64));
                continue;
            }
            memset((void *)&l->piece[c], 0, sizeof(rmi_lan_piece));
            l->piece[c].writer = me;
        }
}

RMI_FN void rmi_lan_learn(rmi_lan *l, uint32_t lane, uint32_t op)
{
    uint32_t k;
    for (k = 0; k < RMI_LANES; k++)
        if (l->known[lane][k] < l->clock[(size_t)(op - 1) * RMI_LANES + k]) l->known[lane][k] = l->clock[(size_t)(op - 1) * RMI_LANES + k];
}

/* Runs p after what has run so far. The waits that p has count as said; those that it lacks go to *wait, `on` being a number among all
   ops so far (of the program before, if p's own are known). */
RMI_FN rm_result rmi_lan_run(rmi_arena *mem, rmi_lan *l, const rmi_lan_prog *p, rmi_lan_wait **wait, size_t *n_wait, size_t *cap_wait)
{
    uint32_t base = l->n, i, a, b;
    size_t w = 0;
    for (i = 0; i < p->n; i++) {
        uint32_t me = base + i + 1, lane = p->lane[i], need[RMI_LANES] = {0, 0, 0, 0, 0};
        l->lane[me - 1] = p->lane[i];
        rmi_lan_account(l, p->use + p->first[i], p->first[i + 1] - p->first[i], me, lane, need);
        for (; w < p->n_wait && p->wait[w].op == i; w++) rmi_lan_learn(l, lane, base + p->wait[w].on + 1);
        for (a = 0; a < RMI_LANES; a++)
            if (a == lane || need[a] <= l->known[lane][a]) need[a] = 0;
        for (a = 0; a < RMI_LANES; a++) {
            for (b = 0; b < RMI_LANES && need[a]; b++) /* of two that cover each other neither exists: before is a strict order */
                if (b != a && need[b] && l->clock[(size_t)(need[b] - 1) * RMI_LANES + a] >= need[a]) break;
            if (!need[a] || b < RMI_LANES) continue;
            if (!rmi_arena_grow(mem, (void **)wait, cap_wait, *n_wait + 1, sizeof(rmi_lan_wait))) return RM_ERROR_MEMORY;
            (*wait)[*n_wait].op = i;
            (*wait)[(*n_wait)++].on = need[a] - 1;
        }
        for (a = 0; a < RMI_LANES; a++)
            if (need[a]) rmi_lan_learn(l, lane, need[a]);
        l->known[lane][lane] = me;
        memcpy(l->clock + (size_t)(me - 1) * RMI_LANES, l->known[lane], sizeof l->known[lane]);
        for (a = 0; a < RMI_LANES && i < p->joined; a++) rmi_lan_learn(l, a, me);
    }
    l->n = base + p->n;
    return RM_OK;
}

/* The waits of p alone: they hold whatever ran before. */
RMI_FN rm_result rmi_lan_own(rmi_arena *mem, rmi_lan *l, rmi_lan_prog *p)
{
    rmi_lan_wait *found = NULL;
    size_t n = 0, cap = 0;
    rm_result r;
    rmi_lan_reset(l);
    p->wait = NULL;
    p->n_wait = 0;
    r = rmi_lan_run(mem, l, p, &found, &n, &cap);
    p->wait = found;
    p->n_wait = n;
    return r;
}

/* The waits that p needs besides its own when it follows `before`; `on` is an op of that one. Steps further back have ended. */
RMI_FN rm_result rmi_lan_after(rmi_arena *mem, rmi_lan *l, const rmi_lan_prog *before, const rmi_lan_prog *p, rmi_lan_wait **out, size_t *n_out)
{
    rmi_lan_wait *none = NULL;
    size_t n = 0, cap = 0, cap_out = 0;
    *out = NULL;
    *n_out = 0;
    rmi_lan_reset(l);
    RMI_TRY(rmi_lan_run(mem, l, before, &none, &n, &cap));
    return rmi_lan_run(mem, l, p, out, n_out, &cap_out);
}


/* =====================================================================================================================
   >>text - .rmg and .rmp files, the summary
   In: text of any origin, however broken. Out: a sealed graph or a checked program; and the reverse. The formats are those of
   docs/formats.md. A reader stops at the first fault, says line:column, what it found and what it expected there, and leaves
   nothing half-loaded. Writers allocate nothing and give the one canonical text: reading it gives the same object, and
   writing that again the same bytes. Linear in the text.
   ================================================================================================================== */
typedef struct rmi_txt_slice { /* a piece of the text; its column is that of its first byte */
    const char *s;
    size_t n;
} rmi_txt_slice;

typedef struct rmi_txt_place {
    uint64_t line, column;
} rmi_txt_place;

typedef struct rmi_txt {
    rmi_arena mem; /* for the time of the reading */
    rmi_error *err;
    const char *text, *end;
    const char *start, *next; /* of the current line, of the next one */
    uint64_t line, hash;      /* hash: FNV-1a of the statements so far */
    rmi_txt_slice *word;      /* of the current statement */
    size_t n, cap;
} rmi_txt;

RMI_FN rmi_txt_slice rmi_txt_cut(const char *s, const char *end)
{
    rmi_txt_slice x;
    x.s = s;
    x.n = (size_t)(end - s);
    return x;
}

RMI_FN int rmi_txt_is(rmi_txt_slice x, const char *word) { return x.n == strlen(word) && (!x.n || !memcmp(x.s, word, x.n)); }

RMI_FN const char *rmi_txt_find(rmi_txt_slice x, char c) { return x.n ? (const char *)memchr(x.s, c, x.n) : NULL; }

/* x up to the first c; rest is what follows it. Without a c: all of x, and rest.s is NULL. */
RMI_FN rmi_txt_slice rmi_txt_split(rmi_txt_slice x, char c, rmi_txt_slice *rest)
{
    const char *at = rmi_txt_find(x, c);
    rest->s = at ? at + 1 : NULL;
    rest->n = at ? (size_t)(x.s + x.n - (at + 1)) : 0;
    return at ? rmi_txt_cut(x.s, at) : x;
}

/* --- errors */
#define RMI_TXT_SHOWN 48

/* x in quotes for a message: cut after RMI_TXT_SHOWN bytes, what is not printable as \xHH. out has room for 4 * that + 8. */
RMI_FN const char *rmi_txt_show(const rmi_txt *t, rmi_txt_slice x, char *out)
{
    static const char hex[] = "0123456789ABCDEF";
    size_t i, n = 0;
    if (!x.n && x.s > t->start && strchr("=,:+@", x.s[-1])) return "nothing";
    if (!x.n) return x.s == t->end ? "the end of the text" : "the end of the statement";
    out[n++] = '\'';
    for (i = 0; i < x.n && i < RMI_TXT_SHOWN; i++) {
        unsigned char c = (unsigned char)x.s[i];
        if (c >= 0x20 && c < 0x7F) {
            out[n++] = (char)c;
            continue;
        }
        out[n++] = '\\';
        out[n++] = 'x';
        out[n++] = hex[c >> 4];
        out[n++] = hex[c & 15];
    }
    memcpy(out + n, i < x.n ? "...'" : "'", i < x.n ? 5 : 2);
    return out;
}

RMI_FN rmi_txt_place rmi_txt_at(const rmi_txt *t, rmi_txt_slice x)
{
    rmi_txt_place p;
    p.line = t->line;
    p.column = (uint64_t)(x.s - t->start) + 1;
    return p;
}

/* What was expected is said in three pieces, the middle one a name. */
RMI_FN rm_result rmi_txt_fail_about(rmi_txt *t, rmi_txt_slice x, const char *before, const char *name, const char *after)
{
    char shown[4 * RMI_TXT_SHOWN + 8];
    rmi_txt_place p = rmi_txt_at(t, x);
    return rmi_err_set(t->err, RM_ERROR_TEXT, "%u:%u: found %s, expected %s%s%s", p.line, p.column, rmi_txt_show(t, x, shown), before, name, after);
}
RMI_FN rm_result rmi_txt_fail(rmi_txt *t, rmi_txt_slice x, const char *expected) { return rmi_txt_fail_about(t, x, expected, "", ""); }

/* --- lines and words */
RMI_FN rmi_txt rmi_txt_make(const rm_allocator *hooks, rmi_error *err, const char *text, size_t n)
{
    rmi_txt t;
    memset(&t, 0, sizeof t);
    t.mem = rmi_arena_make(hooks);
    t.err = err;
    t.text = t.start = t.next = n ? text : "";
    t.end = t.text + n;
    t.hash = RMI_FNV_START;
    return t;
}

RMI_FN rm_result rmi_txt_words(rmi_txt *t, const char *p, const char *stop)
{
    while (p < stop) {
        const char *from;
        while (p < stop && (*p == ' ' || *p == '\t')) p++;
        from = p;
        while (p < stop && *p != ' ' && *p != '\t') p++;
        if (p == from) break;
        if (!rmi_arena_grow(&t->mem, (void **)&t->word, &t->cap, t->n + 1, sizeof(rmi_txt_slice))) return rmi_err_memory(t->err);
        t->word[t->n++] = rmi_txt_cut(from, p);
        /* names are C strings further down */
        if (rmi_txt_find(t->word[t->n - 1], 0)) return rmi_txt_fail(t, t->word[t->n - 1], "text without zero bytes");
    }
    return RM_OK;
}

/* The words of the next statement; t->n == 0 at the end of the text. Lines end with \n, \r\n or \r. */
RMI_FN rm_result rmi_txt_next(rmi_txt *t)
{
    size_t i;
    t->n = 0;
    while (t->next < t->end && !t->n) {
        rmi_txt_slice rest, line;
        const char *stop = t->next;
        while (stop < t->end && *stop != '\n' && *stop != '\r') stop++;
        t->start = t->next;
        t->line++;
        line = rmi_txt_split(rmi_txt_cut(t->start, stop), '#', &rest);
        t->next = stop + (stop < t->end);
        if (t->next < t->end && *stop == '\r' && *t->next == '\n') t->next++;
        RMI_TRY(rmi_txt_words(t, line.s, line.s + line.n));
    }
    for (i = 0; i < t->n; i++) {
        t->hash = rmi_fnv(t->hash, t->word[i].s, t->word[i].n);
        t->hash = rmi_fnv(t->hash, i + 1 < t->n ? " " : "\n", 1);
    }
    if (!t->n && (t->text == t->end || t->end[-1] == '\n' || t->end[-1] == '\r')) {
        t->start = t->end;
        t->line++;
    }
    return RM_OK;
}

/* Word number i of the statement, or an empty slice at its end. */
RMI_FN rmi_txt_slice rmi_txt_word(const rmi_txt *t, size_t i)
{
    rmi_txt_slice last;
    if (i < t->n) return t->word[i];
    if (!t->n) return rmi_txt_cut(t->end, t->end);
    last = t->word[t->n - 1];
    return rmi_txt_cut(last.s + last.n, last.s + last.n);
}

RMI_FN rm_result rmi_txt_no_more(rmi_txt *t, size_t from)
{
    return from < t->n ? rmi_txt_fail(t, t->word[from], "the end of the statement") : RM_OK;
}

/* The first statement: "rockmate", what, "1". */
RMI_FN rm_result rmi_txt_header(rmi_txt *t, const char *what)
{
    const char *want[3];
    size_t i;
    want[0] = "rockmate";
    want[1] = what;
    want[2] = "1";
    RMI_TRY(rmi_txt_next(t));
    for (i = 0; i < 3; i++)
        if (!rmi_txt_is(rmi_txt_word(t, i), want[i])) return rmi_txt_fail_about(t, rmi_txt_word(t, i), "the first statement 'rockmate ", what, i == 2 ? " 1': this library reads version 1" : " 1'");
    return rmi_txt_no_more(t, 3);
}

/* --- values */
RMI_FN rm_result rmi_txt_u64(rmi_txt *t, rmi_txt_slice x, uint64_t *out)
{
    uint64_t v = 0;
    size_t i;
    int ok = x.n > 0;
    for (i = 0; i < x.n && ok; i++) {
        unsigned digit = (unsigned char)x.s[i] - (unsigned)'0';
        ok = digit <= 9 && v <= (RMI_MAX - digit) / 10;
        v = v * 10 + digit;
    }
    *out = v;
    return ok ? RM_OK : rmi_txt_fail(t, x, "a decimal integer below 2^62");
}

/* A name, as a C string in out (256 bytes). */
RMI_FN rm_result rmi_txt_name(rmi_txt *t, rmi_txt_slice x, char *out)
{
    if (x.n && x.n < 256) {
        memcpy(out, x.s, x.n);
        out[x.n] = 0;
        if (rmi_graph_name_ok(out)) return RM_OK;
    }
    return rmi_txt_fail(t, x, "a name: 1 to 255 of A-Z a-z 0-9 _ . / - [ ], and neither 'none' nor 'saved'");
}

/* Items of a comma-separated list: rmi_txt_list once, then rmi_txt_item until 0. `none` alone has no items. */
RMI_FN rmi_txt_slice rmi_txt_list(rmi_txt_slice value)
{
    if (rmi_txt_is(value, "none")) value.s = NULL;
    return value;
}
RMI_FN int rmi_txt_item(rmi_txt_slice *rest, rmi_txt_slice *item)
{
    if (!rest->s) return 0;
    *item = rmi_txt_split(*rest, ',', rest);
    return 1;
}

/* How many items a list has at most. */
RMI_FN size_t rmi_txt_items(rmi_txt_slice list)
{
    size_t i, n = 1;
    for (i = 0; i < list.n; i++) n += list.s[i] == ',';
    return n;
}

/* --- key=value words and flags */
#define RMI_TXT_KEYS(X)                                                                                                         \
    X(IN, "in=") X(OUT, "out=") X(NEEDS, "needs=") X(SAVED, "saved=") X(FWD, "fwd=") X(BWD, "bwd=") X(AGAIN, "again=")             \
    X(FWD_WS, "fwd_ws=") X(BWD_WS, "bwd_ws=") X(INPLACE, "inplace=") X(INPLACE_BWD, "inplace_bwd=") X(SHARE, "share_bwd=")         \
    X(VIEW, "view=") X(MUTATES, "mutates=") X(BITS, "bits=") X(RNG, "rng") X(ONCE, "once") X(NOGRAD, "nograd")                     \
    X(EXTERNAL, "external") X(FROZEN, "frozen") X(WANT_GRAD, "grad") X(GRAD, "grad=") X(STATE, "state=") X(OPT, "opt=")            \
    X(OPT_HOST, "opt_host=") X(OPT_WS, "opt_ws=") X(REDUCE, "reduce=") X(H2D, "h2d=") X(D2H, "d2h=") X(LATENCY, "latency=")        \
    X(ADD, "add=") X(NS, "ns=") X(GRADS, "grads=")
#define RMI_TXT_KEY_ID(id, text) RMI_KEY_##id,
typedef enum rmi_txt_key { RMI_TXT_KEYS(RMI_TXT_KEY_ID) RMI_KEY_COUNT } rmi_txt_key;
#undef RMI_TXT_KEY_ID
#define RMI_TXT_KEY_TEXT(id, text) text,
static const char *const rmi_txt_key_text[] = {RMI_TXT_KEYS(RMI_TXT_KEY_TEXT) ""};
#undef RMI_TXT_KEY_TEXT

#define RMI_KEY(id) ((uint64_t)1 << RMI_KEY_##id)
#define RMI_TXT_FORM_KEYS                                                                                                     \
    (RMI_KEY(FWD) | RMI_KEY(BWD) | RMI_KEY(AGAIN) | RMI_KEY(FWD_WS) | RMI_KEY(BWD_WS) | RMI_KEY(SAVED) | RMI_KEY(NEEDS) |     \
     RMI_KEY(INPLACE) | RMI_KEY(INPLACE_BWD) | RMI_KEY(BITS))
#define RMI_TXT_OP_KEYS                                                                                                       \
    (RMI_TXT_FORM_KEYS | RMI_KEY(IN) | RMI_KEY(OUT) | RMI_KEY(SHARE) | RMI_KEY(VIEW) | RMI_KEY(MUTATES) | RMI_KEY(RNG) |      \
     RMI_KEY(ONCE) | RMI_KEY(NOGRAD) | RMI_KEY(EXTERNAL))
#define RMI_TXT_PARAM_KEYS                                                                                                    \
    (RMI_KEY(GRAD) | RMI_KEY(STATE) | RMI_KEY(OPT) | RMI_KEY(OPT_HOST) | RMI_KEY(OPT_WS) | RMI_KEY(REDUCE) |                  \
     RMI_KEY(FROZEN) | RMI_KEY(EXTERNAL))

typedef struct rmi_txt_args {
    uint64_t seen;
    rmi_txt_slice value[RMI_KEY_COUNT]; /* of those seen; the word itself for a flag */
} rmi_txt_args;

RMI_FN int rmi_txt_has(const rmi_txt_args *a, rmi_txt_key k) { return (int)((a->seen >> k) & 1); }

RMI_FN rm_result rmi_txt_unknown_key(rmi_txt *t, rmi_txt_slice word, uint64_t allowed)
{
    char list[300];
    size_t n = 0, k, len;
    list[0] = 0;
    for (k = 0; k < RMI_KEY_COUNT; k++) {
        len = strlen(rmi_txt_key_text[k]);
        if (!((allowed >> k) & 1) || n + len + 2 > sizeof list) continue;
        list[n++] = ' ';
        memcpy(list + n, rmi_txt_key_text[k], len + 1);
        n += len;
    }
    return rmi_txt_fail_about(t, word, allowed & (allowed - 1) ? "one of" : allowed ? "only" : "the end of the statement", list, "");
}

/* The words from number `from` on: keys and flags of `allowed`, each once, in any order. */
RMI_FN rm_result rmi_txt_args_read(rmi_txt *t, size_t from, uint64_t allowed, rmi_txt_args *a)
{
    size_t i;
    a->seen = 0;
    for (i = from; i < t->n; i++) {
        rmi_txt_slice w = t->word[i], value, head = rmi_txt_split(w, '=', &value);
        uint32_t k;
        if (value.s) head.n++;
        for (k = 0; k < RMI_KEY_COUNT; k++)
            if (((allowed >> k) & 1) && rmi_txt_is(head, rmi_txt_key_text[k])) break;
        if (k == RMI_KEY_COUNT) return rmi_txt_unknown_key(t, w, allowed);
        if ((a->seen >> k) & 1) return rmi_txt_fail_about(t, w, "'", rmi_txt_key_text[k], "' only once");
        a->seen |= (uint64_t)1 << k;
        a->value[k] = value.s ? value : w;
    }
    return RM_OK;
}

/* The number of a key that is there; else *out stays. */
RMI_FN rm_result rmi_txt_number(rmi_txt *t, const rmi_txt_args *a, rmi_txt_key k, uint64_t *out)
{
    return rmi_txt_has(a, k) ? rmi_txt_u64(t, a->value[k], out) : RM_OK;
}

/* --- .rmg: names of the graph */
RMI_FN rm_result rmi_txt_tensor(rmi_txt *t, const rm_graph *g, rmi_txt_slice x, uint32_t *id)
{
    *id = rmi_graph_lookup_n(g, &g->tensor_map, x.s, x.n);
    return *id == RMI_NONE ? rmi_txt_fail(t, x, "a tensor that is declared above") : RM_OK;
}

RMI_FN rm_result rmi_txt_op_named(rmi_txt *t, const rm_graph *g, rmi_txt_slice x, uint32_t *id)
{
    *id = rmi_graph_lookup_n(g, &g->op_map, x.s, x.n);
    return *id == RMI_NONE ? rmi_txt_fail(t, x, "an op that is declared above") : RM_OK;
}

RMI_FN rm_result rmi_txt_new_tensor(rmi_txt *t, rm_graph *g, rmi_txt_slice x, rmi_tensor_kind kind, uint64_t bytes, uint32_t *id)
{
    char name[256];
    RMI_TRY(rmi_txt_name(t, x, name));
    if (rmi_graph_lookup(g, &g->tensor_map, name) != RMI_NONE) return rmi_txt_fail(t, x, "a name that no tensor has yet");
    *id = rmi_graph_new_tensor(g, name, kind, bytes);
    return *id == RMI_NONE ? g->sticky.result : RM_OK;
}

/* Any tensors, as listed. */
RMI_FN rm_result rmi_txt_tensors(rmi_txt *t, rm_graph *g, rmi_txt_slice list, rmi_list *out)
{
    rmi_txt_slice item;
    uint32_t id;
    if (!rmi_graph_new_list(g, out, rmi_txt_items(list))) return g->sticky.result;
    for (list = rmi_txt_list(list); rmi_txt_item(&list, &item);) {
        RMI_TRY(rmi_txt_tensor(t, g, item, &id));
        rmi_list_put(out, id);
    }
    return RM_OK;
}

RMI_FN rm_result rmi_txt_own_tensor(rmi_txt *t, const rm_graph *g, const rmi_op *op, rmi_txt_slice x, int inputs_only, uint32_t *id)
{
    *id = rmi_graph_lookup_n(g, &g->tensor_map, x.s, x.n);
    if (*id != RMI_NONE && (rmi_list_has(&op->in, *id) || (!inputs_only && rmi_list_has(&op->out, *id)))) return RM_OK;
    return rmi_txt_fail_about(t, x, inputs_only ? "an input of op " : "an input or output of op ", op->name, "");
}

/* Tensors of the op itself, each once, in the op's order; saved: NULL where that word has no meaning. */
RMI_FN rm_result rmi_txt_own(rmi_txt *t, rm_graph *g, const rmi_op *op, rmi_txt_slice list, rmi_list *out, uint32_t *saved)
{
    rmi_list any;
    rmi_txt_slice item;
    uint32_t id, i;
    if (!rmi_graph_new_list(g, &any, rmi_txt_items(list)) || !rmi_graph_new_list(g, out, rmi_txt_items(list))) return g->sticky.result;
    if (saved) *saved = 0;
    for (list = rmi_txt_list(list); rmi_txt_item(&list, &item);) {
        if (saved && rmi_txt_is(item, "saved")) {
            *saved = 1;
            continue;
        }
        RMI_TRY(rmi_txt_own_tensor(t, g, op, item, !saved, &id));
        rmi_list_put(&any, id);
    }
    for (i = 0; i < op->in.n; i++)
        if (rmi_list_has(&any, op->in.at[i])) rmi_list_put_once(out, op->in.at[i]);
    for (i = 0; i < op->out.n; i++)
        if (rmi_list_has(&any, op->out.at[i])) rmi_list_put_once(out, op->out.at[i]);
    return RM_OK;
}

/* --- .rmg: statements */
RMI_FN rm_result rmi_txt_link(rmi_txt *t, rm_graph *g)
{
    rmi_txt_args a;
    uint32_t k;
    uint64_t rate[RMI_KEY_COUNT];
    if (g->has_link) return rmi_txt_fail(t, t->word[0], "one link only");
    RMI_TRY(rmi_txt_args_read(t, 1, RMI_KEY(H2D) | RMI_KEY(D2H) | RMI_KEY(LATENCY) | RMI_KEY(ADD), &a));
    rate[RMI_KEY_H2D] = rate[RMI_KEY_D2H] = rate[RMI_KEY_LATENCY] = 0;
    rate[RMI_KEY_ADD] = 20000000000u;
    for (k = RMI_KEY_H2D; k <= RMI_KEY_ADD; k++) {
        RMI_TRY(rmi_txt_number(t, &a, (rmi_txt_key)k, &rate[k]));
        if (!rate[k] && k != RMI_KEY_LATENCY) return rmi_txt_fail_about(t, rmi_txt_has(&a, (rmi_txt_key)k) ? a.value[k] : rmi_txt_word(t, t->n), "'", rmi_txt_key_text[k], "' above zero");
    }
    g->has_link = 1;
    g->link.h2d = rate[RMI_KEY_H2D];
    g->link.d2h = rate[RMI_KEY_D2H];
    g->link.latency = rate[RMI_KEY_LATENCY];
    g->link.add = rate[RMI_KEY_ADD];
    return RM_OK;
}

RMI_FN rm_result rmi_txt_given(rmi_txt *t, rm_graph *g)
{
    static const char *const words[] = {"input", "param", "const"};
    static const uint64_t allowed[] = {RMI_KEY(WANT_GRAD) | RMI_KEY(EXTERNAL), RMI_TXT_PARAM_KEYS, RMI_KEY(EXTERNAL)};
    rmi_txt_args a;
    rmi_tensor *x;
    char name[256];
    uint64_t bytes;
    uint32_t kind = 0, id;
    while (kind < 3 && !rmi_txt_is(rmi_txt_word(t, 2), words[kind])) kind++;
    RMI_TRY(rmi_txt_name(t, rmi_txt_word(t, 1), name));
    if (kind == 3) return rmi_txt_fail(t, rmi_txt_word(t, 2), "input, param or const");
    RMI_TRY(rmi_txt_u64(t, rmi_txt_word(t, 3), &bytes));
    RMI_TRY(rmi_txt_args_read(t, 4, allowed[kind], &a));
    RMI_TRY(rmi_txt_new_tensor(t, g, rmi_txt_word(t, 1), (rmi_tensor_kind)kind, bytes, &id));
    x = &g->tensors[id];
    x->external = (uint8_t)rmi_txt_has(&a, RMI_KEY_EXTERNAL);
    x->want_grad = (uint8_t)rmi_txt_has(&a, RMI_KEY_WANT_GRAD);
    x->frozen = (uint8_t)rmi_txt_has(&a, RMI_KEY_FROZEN);
    RMI_TRY(rmi_txt_number(t, &a, RMI_KEY_GRAD, &x->grad_bytes));
    RMI_TRY(rmi_txt_number(t, &a, RMI_KEY_STATE, &x->state_bytes));
    RMI_TRY(rmi_txt_number(t, &a, RMI_KEY_OPT, &x->opt));
    RMI_TRY(rmi_txt_number(t, &a, RMI_KEY_OPT_HOST, &x->opt_host));
    RMI_TRY(rmi_txt_number(t, &a, RMI_KEY_OPT_WS, &x->opt_ws));
    return rmi_txt_number(t, &a, RMI_KEY_REDUCE, &x->reduce);
}

RMI_FN rm_result rmi_txt_outputs(rmi_txt *t, rm_graph *g, uint32_t op_id, rmi_txt_slice list)
{
    rmi_list out;
    rmi_txt_slice item, size;
    uint32_t id;
    if (rmi_txt_is(list, "none")) return rmi_txt_fail(t, list, "at least one output");
    if (!rmi_graph_new_list(g, &out, rmi_txt_items(list))) return g->sticky.result;
    for (list = rmi_txt_list(list); rmi_txt_item(&list, &item);) {
        const rmi_list *in = &g->ops[op_id].in;
        uint64_t bytes = in->n ? g->tensors[in->at[0]].bytes : 0;
        item = rmi_txt_split(item, ':', &size);
        if (size.s) RMI_TRY(rmi_txt_u64(t, size, &bytes));
        else if (!in->n) return rmi_txt_fail(t, item, "NAME:BYTES: there is no input whose size it could have");
        RMI_TRY(rmi_txt_new_tensor(t, g, item, RMI_ACT, bytes, &id));
        g->tensors[id].maker = op_id;
        g->tensors[id].external = (g->ops[op_id].flags & RM_EXTERNAL) != 0;
        rmi_list_put(&out, id);
    }
    g->ops[op_id].out = out;
    return RM_OK;
}

/* inplace_bwd=T[:X],... */
RMI_FN rm_result rmi_txt_overs(rmi_txt *t, rm_graph *g, const rmi_op *op, rmi_txt_slice list, rmi_form *f)
{
    rmi_txt_slice item, from;
    uint32_t i;
    f->n_overs = 0;
    f->overs = RMI_NEW(&g->mem, rmi_over, rmi_txt_items(list));
    if (!f->overs) return rmi_graph_memory(g);
    for (list = rmi_txt_list(list); rmi_txt_item(&list, &item);) {
        rmi_over *o = &f->overs[f->n_overs];
        item = rmi_txt_split(item, ':', &from);
        RMI_TRY(rmi_txt_own_tensor(t, g, op, item, 1, &o->grad_of));
        for (i = 0; i < f->n_overs; i++)
            if (f->overs[i].grad_of == o->grad_of) return rmi_txt_fail(t, item, "each gradient only once in inplace_bwd");
        o->what = !from.s ? RMI_OVER_DOUT : rmi_txt_is(from, "saved") ? RMI_OVER_SAVED : RMI_OVER_TENSOR;
        o->tensor = RMI_NONE;
        if (o->what == RMI_OVER_TENSOR) RMI_TRY(rmi_txt_own_tensor(t, g, op, from, 0, &o->tensor));
        f->n_overs++;
    }
    return RM_OK;
}

/* The keys that op and variant have in common. A variant's form is a copy of its op's already. */
RMI_FN rm_result rmi_txt_form(rmi_txt *t, rm_graph *g, const rmi_op *op, const rmi_txt_args *a, rmi_form *f, int variant)
{
    char name[256];
    RMI_TRY(rmi_txt_number(t, a, RMI_KEY_FWD, &f->fwd));
    if (!variant || rmi_txt_has(a, RMI_KEY_FWD)) f->again = f->fwd;
    RMI_TRY(rmi_txt_number(t, a, RMI_KEY_AGAIN, &f->again));
    RMI_TRY(rmi_txt_number(t, a, RMI_KEY_BWD, &f->bwd));
    RMI_TRY(rmi_txt_number(t, a, RMI_KEY_FWD_WS, &f->fwd_ws));
    RMI_TRY(rmi_txt_number(t, a, RMI_KEY_BWD_WS, &f->bwd_ws));
    RMI_TRY(rmi_txt_number(t, a, RMI_KEY_SAVED, &f->saved));
    if (rmi_txt_has(a, RMI_KEY_NEEDS)) RMI_TRY(rmi_txt_own(t, g, op, a->value[RMI_KEY_NEEDS], &f->needs, &f->needs_saved));
    if (rmi_txt_has(a, RMI_KEY_INPLACE_BWD)) RMI_TRY(rmi_txt_overs(t, g, op, a->value[RMI_KEY_INPLACE_BWD], f));
    if (rmi_txt_has(a, RMI_KEY_INPLACE)) {
        if (variant && rmi_txt_is(a->value[RMI_KEY_INPLACE], "none")) f->inplace = RMI_NONE;
        else RMI_TRY(rmi_txt_own_tensor(t, g, op, a->value[RMI_KEY_INPLACE], 1, &f->inplace));
    }
    if (rmi_txt_has(a, RMI_KEY_BITS)) {
        rmi_txt_slice bits = a->value[RMI_KEY_BITS];
        if (!variant || bits.n) RMI_TRY(rmi_txt_name(t, bits, name)); /* `bits=` takes a variant out of its op's class */
        f->bits = rmi_graph_string_n(g, bits.s, bits.n, "", 0);
        if (!f->bits) return g->sticky.result;
    }
    return RM_OK;
}

/* What a backward reads that says nothing about it: everything. */
RMI_FN rm_result rmi_txt_needs_all(rm_graph *g, const rmi_op *op, rmi_form *f)
{
    uint32_t i;
    if (!rmi_graph_new_list(g, &f->needs, (size_t)op->in.n + op->out.n)) return g->sticky.result;
    for (i = 0; i < op->in.n; i++) rmi_list_put_once(&f->needs, op->in.at[i]);
    for (i = 0; i < op->out.n; i++) rmi_list_put_once(&f->needs, op->out.at[i]);
    f->needs_saved = 1;
    return RM_OK;
}

RMI_FN rm_result rmi_txt_view(rmi_txt *t, const rm_graph *g, rmi_op *op, rmi_txt_slice value)
{
    rmi_txt_slice offset;
    uint64_t bytes = g->tensors[op->out.at[0]].bytes;
    value = rmi_txt_split(value, '+', &offset);
    RMI_TRY(rmi_txt_own_tensor(t, g, op, value, 1, &op->view));
    if (offset.s) RMI_TRY(rmi_txt_u64(t, offset, &op->view_offset));
    if (op->out.n != 1) return rmi_txt_fail(t, value, "no view: a view has one output");
    if (op->view_offset + bytes > g->tensors[op->view].bytes) return rmi_txt_fail_about(t, value, "an input that holds all bytes of the view ", g->tensors[op->out.at[0]].name, "");
    return RM_OK;
}

RMI_FN rm_result rmi_txt_mutates(rmi_txt *t, rm_graph *g, rmi_op *op, rmi_txt_slice list)
{
    rmi_txt_slice item;
    uint32_t id;
    if (!rmi_graph_new_list(g, &op->mutates, rmi_txt_items(list))) return g->sticky.result;
    for (list = rmi_txt_list(list); rmi_txt_item(&list, &item);) {
        RMI_TRY(rmi_txt_tensor(t, g, item, &id));
        if (g->tensors[id].kind != RMI_CONST) return rmi_txt_fail(t, item, "a const");
        rmi_list_put_once(&op->mutates, id);
    }
    return RM_OK;
}

RMI_FN uint32_t rmi_txt_op_flags(const rmi_txt_args *a)
{
    return (rmi_txt_has(a, RMI_KEY_RNG) ? RM_RNG : 0) | (rmi_txt_has(a, RMI_KEY_ONCE) ? RM_ONCE : 0) | (rmi_txt_has(a, RMI_KEY_NOGRAD) ? RM_NOGRAD : 0) | (rmi_txt_has(a, RMI_KEY_EXTERNAL) ? RM_EXTERNAL : 0);
}

RMI_FN rm_result rmi_txt_op(rmi_txt *t, rm_graph *g)
{
    rmi_txt_args a;
    char name[256];
    uint32_t id;
    rmi_op *op;
    rmi_form *f;
    RMI_TRY(rmi_txt_name(t, rmi_txt_word(t, 1), name));
    if (rmi_graph_lookup(g, &g->op_map, name) != RMI_NONE) return rmi_txt_fail(t, rmi_txt_word(t, 1), "a name that no op has yet");
    RMI_TRY(rmi_txt_args_read(t, 2, RMI_TXT_OP_KEYS, &a));
    id = rmi_graph_new_op(g, name);
    if (id == RMI_NONE) return g->sticky.result;
    op = &g->ops[id];
    op->flags = rmi_txt_op_flags(&a);
    if (rmi_txt_has(&a, RMI_KEY_IN)) RMI_TRY(rmi_txt_tensors(t, g, a.value[RMI_KEY_IN], &op->in));
    else if (!rmi_graph_new_list(g, &op->in, 0)) return g->sticky.result;
    if (!rmi_txt_has(&a, RMI_KEY_OUT)) return rmi_txt_fail(t, rmi_txt_word(t, t->n), "out=NAME[:BYTES]");
    RMI_TRY(rmi_txt_outputs(t, g, id, a.value[RMI_KEY_OUT]));
    f = rmi_graph_new_form(g, id, "");
    if (!f) return g->sticky.result;
    f->flags = op->flags;
    RMI_TRY(rmi_txt_form(t, g, op, &a, f, 0));
    if (!rmi_txt_has(&a, RMI_KEY_NEEDS)) RMI_TRY(rmi_txt_needs_all(g, op, f));
    if (rmi_txt_has(&a, RMI_KEY_SHARE)) RMI_TRY(rmi_txt_own(t, g, op, a.value[RMI_KEY_SHARE], &op->share, NULL));
    if (rmi_txt_has(&a, RMI_KEY_MUTATES)) RMI_TRY(rmi_txt_mutates(t, g, op, a.value[RMI_KEY_MUTATES]));
    return rmi_txt_has(&a, RMI_KEY_VIEW) ? rmi_txt_view(t, g, op, a.value[RMI_KEY_VIEW]) : RM_OK;
}

RMI_FN rm_result rmi_txt_variant(rmi_txt *t, rm_graph *g)
{
    rmi_txt_args a;
    char name[256];
    uint32_t id;
    rmi_form *f;
    RMI_TRY(rmi_txt_op_named(t, g, rmi_txt_word(t, 1), &id));
    RMI_TRY(rmi_txt_name(t, rmi_txt_word(t, 2), name));
    if (rmi_graph_find_form(&g->ops[id], name, strlen(name)) != RMI_NONE) return rmi_txt_fail_about(t, rmi_txt_word(t, 2), "a name that no variant of op ", g->ops[id].name, " has yet");
    if (g->ops[id].n_forms > UINT16_MAX) return rmi_txt_fail(t, rmi_txt_word(t, 2), "at most 65535 variants of an op");
    RMI_TRY(rmi_txt_args_read(t, 3, RMI_TXT_FORM_KEYS, &a));
    f = rmi_graph_new_form(g, id, name);
    return f ? rmi_txt_form(t, g, &g->ops[id], &a, f, 1) : g->sticky.result;
}

/* Room for one part more: doubled whenever the number of parts is a power of two. */
RMI_FN rmi_part *rmi_txt_new_part(rm_graph *g, rmi_form *f, const char *name)
{
    uint32_t n = f->own_parts;
    rmi_part *parts;
    if (!(n & (n - 1))) {
        parts = RMI_NEW(&g->mem, rmi_part, n ? 2 * (size_t)n : 1);
        if (parts && n) memcpy(parts, f->parts, n * sizeof(rmi_part));
        f->parts = parts;
    }
    if (f->parts) f->parts[n].name = rmi_graph_string(g, name);
    if (!f->parts || !f->parts[n].name) {
        rmi_graph_memory(g);
        return NULL;
    }
    f->n_parts = f->own_parts = n + 1;
    return &f->parts[n];
}

/* A gradient that an earlier part gives is given already. */
RMI_FN rm_result rmi_txt_fresh_grads(rmi_txt *t, const rm_graph *g, const rmi_op *op, const rmi_form *f, rmi_txt_slice list)
{
    rmi_txt_slice item;
    uint32_t id, i;
    for (list = rmi_txt_list(list); rmi_txt_item(&list, &item);) {
        RMI_TRY(rmi_txt_own_tensor(t, g, op, item, 1, &id));
        for (i = 0; i < f->own_parts; i++)
            if (rmi_list_has(&f->parts[i].grads, id)) return rmi_txt_fail_about(t, item, "an input that part ", f->parts[i].name, " does not have already");
    }
    return RM_OK;
}

/* part OP[@VARIANT] NAME grads=... needs=... bwd= bwd_ws= */
RMI_FN rm_result rmi_txt_part(rmi_txt *t, rm_graph *g)
{
    rmi_txt_args a;
    rmi_txt_slice variant, op_name = rmi_txt_split(rmi_txt_word(t, 1), '@', &variant);
    char name[256];
    uint32_t id, form = 0, i;
    rmi_form *f;
    rmi_part *p;
    RMI_TRY(rmi_txt_op_named(t, g, op_name, &id));
    if (variant.s) form = variant.n ? rmi_graph_find_form(&g->ops[id], variant.s, variant.n) : RMI_NONE;
    if (form == RMI_NONE) return rmi_txt_fail_about(t, variant, "a variant of op ", g->ops[id].name, " that is declared above");
    f = &g->ops[id].forms[form];
    RMI_TRY(rmi_txt_name(t, rmi_txt_word(t, 2), name));
    for (i = 0; i < f->own_parts; i++)
        if (!strcmp(f->parts[i].name, name)) return rmi_txt_fail(t, rmi_txt_word(t, 2), "a name that no part of this backward has yet");
    if (f->own_parts >= UINT8_MAX) return rmi_txt_fail(t, rmi_txt_word(t, 2), "at most 255 parts of a backward");
    RMI_TRY(rmi_txt_args_read(t, 3, RMI_KEY(GRADS) | RMI_KEY(NEEDS) | RMI_KEY(BWD) | RMI_KEY(BWD_WS), &a));
    if (!rmi_txt_has(&a, RMI_KEY_GRADS)) return rmi_txt_fail(t, rmi_txt_word(t, t->n), "grads=");
    if (!rmi_txt_has(&a, RMI_KEY_NEEDS)) return rmi_txt_fail(t, rmi_txt_word(t, t->n), "needs=");
    RMI_TRY(rmi_txt_fresh_grads(t, g, &g->ops[id], f, a.value[RMI_KEY_GRADS]));
    p = rmi_txt_new_part(g, f, name);
    if (!p) return g->sticky.result;
    RMI_TRY(rmi_txt_own(t, g, &g->ops[id], a.value[RMI_KEY_GRADS], &p->grads, NULL));
    RMI_TRY(rmi_txt_own(t, g, &g->ops[id], a.value[RMI_KEY_NEEDS], &p->needs, &p->needs_saved));
    RMI_TRY(rmi_txt_number(t, &a, RMI_KEY_BWD, &p->bwd));
    return rmi_txt_number(t, &a, RMI_KEY_BWD_WS, &p->bwd_ws);
}

RMI_FN rm_result rmi_txt_activation(rmi_txt *t, const rm_graph *g, rmi_txt_slice x, uint32_t *id)
{
    RMI_TRY(rmi_txt_tensor(t, g, x, id));
    return g->tensors[*id].kind == RMI_ACT ? RM_OK : rmi_txt_fail(t, x, "an activation: what an op declared above makes");
}

RMI_FN rm_result rmi_txt_grad(rmi_txt *t, rm_graph *g)
{
    uint32_t id;
    RMI_TRY(rmi_txt_activation(t, g, rmi_txt_word(t, 1), &id));
    if (g->tensors[id].grad_sized) return rmi_txt_fail(t, rmi_txt_word(t, 1), "each gradient's size only once");
    g->tensors[id].grad_sized = 1;
    RMI_TRY(rmi_txt_u64(t, rmi_txt_word(t, 2), &g->tensors[id].grad_bytes));
    return rmi_txt_no_more(t, 3);
}

RMI_FN rm_result rmi_txt_output(rmi_txt *t, rm_graph *g)
{
    size_t i;
    uint32_t id;
    for (i = 1; i < t->n || i == 1; i++) {
        RMI_TRY(rmi_txt_activation(t, g, rmi_txt_word(t, i), &id));
        if (g->tensors[id].is_output) return rmi_txt_fail(t, t->word[i], "each output only once");
        g->tensors[id].is_output = 1;
    }
    return RM_OK;
}

RMI_FN rm_result rmi_txt_barrier(rmi_txt *t, rm_graph *g)
{
    rmi_txt_args a;
    char name[256];
    uint64_t ns = 0;
    uint32_t i;
    RMI_TRY(rmi_txt_name(t, rmi_txt_word(t, 1), name));
    for (i = 0; i < g->n_barriers; i++)
        if (!strcmp(g->barriers[i].name, name)) return rmi_txt_fail(t, rmi_txt_word(t, 1), "a name that no barrier has yet");
    RMI_TRY(rmi_txt_args_read(t, 2, RMI_KEY(NS), &a));
    RMI_TRY(rmi_txt_number(t, &a, RMI_KEY_NS, &ns));
    if (!rmi_arena_grow(&g->mem, (void **)&g->barriers, &g->cap_barriers, (size_t)g->n_barriers + 1, sizeof(rmi_barrier))) return rmi_graph_memory(g);
    g->barriers[g->n_barriers].name = rmi_graph_string(g, name);
    g->barriers[g->n_barriers].ns = ns;
    if (!g->barriers[g->n_barriers].name) return g->sticky.result;
    g->n_barriers++;
    return RM_OK;
}

/* --- .rmg: the whole */
typedef struct rmi_txt_graph { /* what the reader remembers besides the graph */
    rmi_txt_place *ops, *blocks; /* where each op, each open block was declared */
    size_t cap_ops, cap_blocks, n_blocks;
} rmi_txt_graph;

RMI_FN rm_result rmi_txt_block(rmi_txt *t, rm_graph *g, rmi_txt_graph *m)
{
    char name[256];
    RMI_TRY(rmi_txt_name(t, rmi_txt_word(t, 1), name));
    RMI_TRY(rmi_txt_no_more(t, 2));
    if (!rmi_arena_grow(&t->mem, (void **)&m->blocks, &m->cap_blocks, m->n_blocks + 1, sizeof(rmi_txt_place))) return rmi_err_memory(t->err);
    m->blocks[m->n_blocks++] = rmi_txt_at(t, t->word[0]);
    rmi_graph_begin_block(g, name); /* names of a text are whole: its prefix serves nobody */
    return g->sticky.result;
}

RMI_FN rm_result rmi_txt_end(rmi_txt *t, rm_graph *g, rmi_txt_graph *m)
{
    if (!m->n_blocks) return rmi_txt_fail(t, t->word[0], "no end: no block is open");
    RMI_TRY(rmi_txt_no_more(t, 1));
    m->n_blocks--;
    rmi_graph_end_block(g);
    return g->sticky.result;
}

RMI_FN rm_result rmi_txt_graph_statement(rmi_txt *t, rm_graph *g, rmi_txt_graph *m)
{
    rmi_txt_slice w = t->word[0];
    if (rmi_txt_is(w, "op")) {
        if (!rmi_arena_grow(&t->mem, (void **)&m->ops, &m->cap_ops, (size_t)g->n_ops + 1, sizeof(rmi_txt_place))) return rmi_err_memory(t->err);
        m->ops[g->n_ops] = rmi_txt_at(t, rmi_txt_word(t, 1));
        return rmi_txt_op(t, g);
    }
    if (rmi_txt_is(w, "tensor")) return rmi_txt_given(t, g);
    if (rmi_txt_is(w, "variant")) return rmi_txt_variant(t, g);
    if (rmi_txt_is(w, "part")) return rmi_txt_part(t, g);
    if (rmi_txt_is(w, "grad")) return rmi_txt_grad(t, g);
    if (rmi_txt_is(w, "output")) return rmi_txt_output(t, g);
    if (rmi_txt_is(w, "block")) return rmi_txt_block(t, g, m);
    if (rmi_txt_is(w, "end")) return rmi_txt_end(t, g, m);
    if (rmi_txt_is(w, "link")) return rmi_txt_link(t, g);
    if (rmi_txt_is(w, "barrier")) return rmi_txt_barrier(t, g);
    if (rmi_txt_is(w, "anyorder")) {
        g->any_order = 1;
        return rmi_txt_no_more(t, 1);
    }
    return rmi_txt_fail(t, w, "one of link tensor op variant part grad output barrier anyorder block end");
}

/* What only the whole graph shows is reported at the op that the message is about. */
RMI_FN rm_result rmi_txt_seal(rmi_txt *t, rm_graph *g, const rmi_txt_graph *m)
{
    void (*log)(void *user, rm_result result, const char *message) = g->sticky.log;
    char message[RMI_ERR_TEXT];
    rmi_txt_place at;
    rm_result r;
    uint32_t id = RMI_NONE;
    if (m->n_blocks) {
        at = m->blocks[m->n_blocks - 1];
        return rmi_err_set(t->err, RM_ERROR_TEXT, "%u:%u: found a block that is never ended, expected its 'end' before the end of the text", at.line, at.column);
    }
    if (!g->n_ops) return rmi_txt_fail(t, rmi_txt_word(t, 0), "at least one op");
    g->sticky.log = NULL; /* one message, not two */
    r = rmi_graph_seal(g);
    g->sticky.log = log;
    if (r == RM_OK || r == RM_ERROR_MEMORY) return r == RM_OK ? r : rmi_err_memory(&g->sticky);
    memcpy(message, g->sticky.text, sizeof message);
    if (!strncmp(message, "op ", 3)) id = rmi_graph_lookup_n(g, &g->op_map, message + 3, strcspn(message + 3, ":"));
    at.line = id == RMI_NONE ? t->line : m->ops[id].line;
    at.column = id == RMI_NONE ? 1 : m->ops[id].column;
    return rmi_err_set(&g->sticky, RM_ERROR_TEXT, "%u:%u: %s", at.line, at.column, message);
}

RMI_FN rm_result rmi_txt_read_statements(rmi_txt *t, rm_graph *g)
{
    rmi_txt_graph m;
    memset(&m, 0, sizeof m);
    RMI_TRY(rmi_txt_header(t, "graph"));
    for (;;) {
        RMI_TRY(rmi_txt_next(t));
        if (!t->n) break;
        RMI_TRY(rmi_txt_graph_statement(t, g, &m));
    }
    g->hash = t->hash;
    g->hashed = 1;
    return rmi_txt_seal(t, g, &m);
}

/* A whole graph into g, which is empty, sealed. After an error g holds nothing but the message. */
RMI_FN rm_result rmi_txt_read_graph(rm_graph *g, const char *text, size_t n)
{
    rmi_txt t = rmi_txt_make(&g->mem.hooks, &g->sticky, text, n);
    rm_result r = rmi_txt_read_statements(&t, g);
    rmi_arena_free(&t.mem);
    if (r != RM_OK) {
        rmi_arena mem = g->mem;
        rmi_error sticky = g->sticky, last = g->last;
        memset(g, 0, sizeof *g);
        g->mem = mem;
        g->sticky = sticky;
        g->last = last;
    }
    return r;
}

/* --- .rmg: writing */
RMI_FN void rmi_txt_put_key(rmi_sink *s, const char *key, uint64_t v, uint64_t by_default)
{
    if (v == by_default) return;
    rmi_put(s, key);
    rmi_put_u64(s, v);
}

RMI_FN void rmi_txt_put_list(rmi_sink *s, const rm_graph *g, const char *key, const rmi_list *l, int saved)
{
    uint32_t i;
    rmi_put(s, key);
    for (i = 0; i < l->n; i++) {
        if (i) rmi_put(s, ",");
        rmi_put(s, g->tensors[l->at[i]].name);
    }
    if (saved) rmi_put(s, l->n ? ",saved" : "saved");
    else if (!l->n) rmi_put(s, "none");
}

RMI_FN int rmi_txt_reads_all(const rmi_op *op, const rmi_form *f)
{
    uint32_t i;
    for (i = 0; i < op->in.n; i++)
        if (!rmi_list_has(&f->needs, op->in.at[i])) return 0;
    for (i = 0; i < op->out.n; i++)
        if (!rmi_list_has(&f->needs, op->out.at[i])) return 0;
    return f->needs_saved != 0;
}

RMI_FN int rmi_txt_same_needs(const rmi_form *a, const rmi_form *b)
{
    uint32_t i;
    if (a->needs.n != b->needs.n || a->needs_saved != b->needs_saved) return 0;
    for (i = 0; i < a->needs.n; i++)
        if (a->needs.at[i] != b->needs.at[i]) return 0;
    return 1;
}

RMI_FN int rmi_txt_same_overs(const rmi_form *a, const rmi_form *b)
{
    uint32_t i;
    if (a->n_overs != b->n_overs) return 0;
    for (i = 0; i < a->n_overs; i++)
        if (a->overs[i].grad_of != b->overs[i].grad_of || a->overs[i].what != b->overs[i].what || (a->overs[i].what == RMI_OVER_TENSOR && a->overs[i].tensor != b->overs[i].tensor)) return 0;
    return 1;
}

RMI_FN void rmi_txt_put_overs(rmi_sink *s, const rm_graph *g, const rmi_form *f)
{
    uint32_t i;
    rmi_put(s, " inplace_bwd=");
    if (!f->n_overs) rmi_put(s, "none");
    for (i = 0; i < f->n_overs; i++) {
        const rmi_over *o = &f->overs[i];
        if (i) rmi_put(s, ",");
        rmi_put(s, g->tensors[o->grad_of].name);
        if (o->what == RMI_OVER_DOUT) continue;
        rmi_put(s, ":");
        rmi_put(s, o->what == RMI_OVER_SAVED ? "saved" : g->tensors[o->tensor].name);
    }
}

/* The keys of a form that differ from what their absence means: of an op (base NULL) defaults, of a variant its op's. */
RMI_FN void rmi_txt_put_form(rmi_sink *s, const rm_graph *g, const rmi_op *op, const rmi_form *f, const rmi_form *base)
{
    rmi_form plain;
    if (!base ? !rmi_txt_reads_all(op, f) : !rmi_txt_same_needs(f, base)) rmi_txt_put_list(s, g, " needs=", &f->needs, f->needs_saved != 0);
    memset(&plain, 0, sizeof plain);
    plain.inplace = RMI_NONE;
    plain.bits = "";
    if (!base) base = &plain;
    rmi_txt_put_key(s, " saved=", f->saved, base->saved);
    rmi_txt_put_key(s, " fwd=", f->fwd, base->fwd);
    rmi_txt_put_key(s, " bwd=", f->bwd, base->bwd);
    rmi_txt_put_key(s, " again=", f->again, base == &plain || f->fwd != base->fwd ? f->fwd : base->again);
    rmi_txt_put_key(s, " fwd_ws=", f->fwd_ws, base->fwd_ws);
    rmi_txt_put_key(s, " bwd_ws=", f->bwd_ws, base->bwd_ws);
    if (f->inplace != base->inplace) {
        rmi_put(s, " inplace=");
        rmi_put(s, f->inplace == RMI_NONE ? "none" : g->tensors[f->inplace].name);
    }
    if (!rmi_txt_same_overs(f, base)) rmi_txt_put_overs(s, g, f);
    if (strcmp(f->bits, base->bits)) {
        rmi_put(s, " bits=");
        rmi_put(s, f->bits);
    }
}

/* A gradient stands in one part only: an input without one, which kinds of the builder may repeat, in the first. */
RMI_FN void rmi_txt_put_grads(rmi_sink *s, const rm_graph *g, const rmi_form *f, uint32_t part)
{
    uint32_t i, k, n = 0;
    rmi_put(s, " grads=");
    for (i = 0; i < f->parts[part].grads.n; i++) {
        uint32_t x = f->parts[part].grads.at[i];
        for (k = 0; k < part && !rmi_list_has(&f->parts[k].grads, x);) k++;
        if (k < part) continue;
        if (n++) rmi_put(s, ",");
        rmi_put(s, g->tensors[x].name);
    }
    if (!n) rmi_put(s, "none");
}

RMI_FN void rmi_txt_put_parts(rmi_sink *s, const rm_graph *g, const rmi_op *op, const rmi_form *f)
{
    uint32_t i;
    for (i = 0; i < f->own_parts; i++) {
        const rmi_part *p = &f->parts[i];
        rmi_put(s, "part ");
        rmi_put(s, op->name);
        if (f->name[0]) rmi_put(s, "@");
        rmi_put(s, f->name);
        rmi_put(s, " ");
        rmi_put(s, p->name);
        rmi_txt_put_grads(s, g, f, i);
        rmi_txt_put_list(s, g, " needs=", &p->needs, p->needs_saved != 0);
        rmi_txt_put_key(s, " bwd=", p->bwd, 0);
        rmi_txt_put_key(s, " bwd_ws=", p->bwd_ws, 0);
        rmi_put(s, "\n");
    }
}

RMI_FN void rmi_txt_put_given(rmi_sink *s, const rmi_tensor *t)
{
    rmi_put(s, "tensor ");
    rmi_put(s, t->name);
    rmi_put(s, t->kind == RMI_INPUT ? " input " : t->kind == RMI_PARAM ? " param " : " const ");
    rmi_put_u64(s, t->bytes);
    if (t->kind == RMI_PARAM) {
        rmi_txt_put_key(s, " grad=", t->grad_bytes, t->bytes);
        rmi_txt_put_key(s, " state=", t->state_bytes, 0);
        rmi_txt_put_key(s, " opt=", t->opt, RMI_INF);
        rmi_txt_put_key(s, " opt_host=", t->opt_host, RMI_INF);
        rmi_txt_put_key(s, " opt_ws=", t->opt_ws, 0);
        rmi_txt_put_key(s, " reduce=", t->reduce, RMI_INF);
        if (t->frozen) rmi_put(s, " frozen");
    }
    if (t->want_grad) rmi_put(s, " grad");
    if (t->external) rmi_put(s, " external");
    rmi_put(s, "\n");
}

RMI_FN void rmi_txt_put_op_line(rmi_sink *s, const rm_graph *g, const rmi_op *op)
{
    uint32_t i;
    rmi_put(s, "op ");
    rmi_put(s, op->name);
    if (op->in.n) rmi_txt_put_list(s, g, " in=", &op->in, 0);
    for (i = 0; i < op->out.n; i++) {
        const rmi_tensor *t = &g->tensors[op->out.at[i]];
        rmi_put(s, i ? "," : " out=");
        rmi_put(s, t->name);
        rmi_txt_put_key(s, ":", t->bytes, op->in.n ? g->tensors[op->in.at[0]].bytes : RMI_INF);
    }
    rmi_txt_put_form(s, g, op, &op->forms[0], NULL);
    if (op->share.n) rmi_txt_put_list(s, g, " share_bwd=", &op->share, 0);
    if (op->view != RMI_NONE) {
        rmi_put(s, " view=");
        rmi_put(s, g->tensors[op->view].name);
        rmi_txt_put_key(s, "+", op->view_offset, 0);
    }
    if (op->mutates.n) rmi_txt_put_list(s, g, " mutates=", &op->mutates, 0);
    if (op->flags & RM_RNG) rmi_put(s, " rng");
    if (op->flags & RM_ONCE) rmi_put(s, " once");
    if (op->flags & RM_NOGRAD) rmi_put(s, " nograd");
    if (op->flags & RM_EXTERNAL) rmi_put(s, " external");
    rmi_put(s, "\n");
}

RMI_FN void rmi_txt_put_op(rmi_sink *s, const rm_graph *g, const rmi_op *op)
{
    uint32_t i;
    rmi_txt_put_op_line(s, g, op);
    rmi_txt_put_parts(s, g, op, &op->forms[0]);
    for (i = 1; i < op->n_forms; i++) {
        rmi_put(s, "variant ");
        rmi_put(s, op->name);
        rmi_put(s, " ");
        rmi_put(s, op->forms[i].name);
        rmi_txt_put_form(s, g, op, &op->forms[i], &op->forms[0]);
        rmi_put(s, "\n");
        rmi_txt_put_parts(s, g, op, &op->forms[i]);
    }
    for (i = 0; i < op->out.n; i++) {
        const rmi_tensor *t = &g->tensors[op->out.at[i]];
        if (t->grad_bytes == t->bytes) continue;
        rmi_put(s, "grad ");
        rmi_put(s, t->name);
        rmi_txt_put_key(s, " ", t->grad_bytes, RMI_INF);
        rmi_put(s, "\n");
    }
}

/* Blocks that begin or end before op number `op`; ends: only the ends that come first. */
RMI_FN void rmi_txt_put_marks(rmi_sink *s, const rm_graph *g, uint32_t op, int ends, uint32_t *mark)
{
    for (; *mark < g->n_marks && g->marks[*mark].op == op; (*mark)++) {
        const char *name = g->marks[*mark].name;
        if (name && ends) return;
        rmi_put(s, name ? "block " : "end");
        if (name) rmi_put(s, name);
        rmi_put(s, "\n");
    }
}

RMI_FN void rmi_txt_put_tail(rmi_sink *s, const rm_graph *g)
{
    uint32_t i, n = 0;
    for (i = 0; i < g->n_barriers; i++) {
        rmi_put(s, "barrier ");
        rmi_put(s, g->barriers[i].name);
        rmi_txt_put_key(s, " ns=", g->barriers[i].ns, 0);
        rmi_put(s, "\n");
    }
    for (i = 0; i < g->n_tensors; i++) {
        if (!g->tensors[i].is_output) continue;
        rmi_put(s, n++ ? " " : "output ");
        rmi_put(s, g->tensors[i].name);
    }
    if (n) rmi_put(s, "\n");
}

/* The canonical text of a sealed graph: declarations in order, what an op makes in its line, marks of blocks around them. */
RMI_FN void rmi_txt_put_graph(const rm_graph *g, rmi_sink *s)
{
    uint32_t i, t = 0, mark = 0;
    rmi_put(s, "rockmate graph 1\n");
    if (g->has_link) {
        rmi_txt_put_key(s, "link h2d=", g->link.h2d, 0);
        rmi_txt_put_key(s, " d2h=", g->link.d2h, 0);
        rmi_txt_put_key(s, " latency=", g->link.latency, 0);
        rmi_txt_put_key(s, " add=", g->link.add, 20000000000u);
        rmi_put(s, "\n");
    }
    if (g->any_order) rmi_put(s, "anyorder\n");
    for (i = 0; i <= g->n_ops; i++) {
        rmi_txt_put_marks(s, g, i, 1, &mark);
        for (; t < g->n_tensors && (i == g->n_ops || g->tensors[t].maker != i); t++)
            if (g->tensors[t].maker == RMI_NONE) rmi_txt_put_given(s, &g->tensors[t]);
        rmi_txt_put_marks(s, g, i, 0, &mark);
        if (i < g->n_ops) rmi_txt_put_op(s, g, &g->ops[i]);
    }
    rmi_txt_put_tail(s, g);
}

/* The builder takes things that the text has no words for. */
RMI_FN rm_result rmi_txt_writable(rm_graph *g)
{
    uint32_t i, k, a, b;
    for (i = 0; i < g->n_ops; i++)
        for (k = 0; k < g->ops[i].n_forms; k++) {
            const rmi_form *f = &g->ops[i].forms[k];
            if (f->bits[0] && !rmi_graph_name_ok(f->bits)) return rmi_err_set(&g->last, RM_ERROR_GRAPH, "op %s: its bits class '%s' is not a name, and text holds names only; rename it", g->ops[i].name, f->bits);
            for (a = 0; a < f->n_overs; a++)
                for (b = 0; b < a; b++)
                    if (f->overs[a].grad_of == f->overs[b].grad_of) return rmi_err_set(&g->last, RM_ERROR_GRAPH, "op %s: the gradient of %s may go over the bytes of two others, and text holds one; leave one rm_over", g->ops[i].name, g->tensors[f->overs[a].grad_of].name);
        }
    return RM_OK;
}

RMI_FN rm_result rmi_txt_write_graph(rm_graph *g, rmi_sink *s)
{
    RMI_TRY(rmi_graph_seal(g));
    RMI_TRY(rmi_txt_writable(g));
    rmi_txt_put_graph(g, s);
    return s->failed ? rmi_err_set(&g->last, RM_ERROR_WRITE, "graph: the sink took no more text") : RM_OK;
}

RMI_FN int rmi_txt_hash_sink(void *user, const char *text, size_t n)
{
    uint64_t *h = (uint64_t *)user;
    *h = rmi_fnv(*h, text, n);
    return 0;
}

/* Of the text that a sealed graph was read from, or of its canonical one. */
RMI_FN uint64_t rmi_txt_graph_hash(const rm_graph *g)
{
    uint64_t h = RMI_FNV_START;
    rmi_sink s;
    if (g->hashed) return g->hash;
    s.write = rmi_txt_hash_sink;
    s.user = &h;
    s.failed = 0;
    rmi_txt_put_graph(g, &s);
    return h;
}

/* --- .rmp: writing */
typedef enum rmi_txt_second { RMI_TXT_ALONE, RMI_TXT_OFFSET, RMI_TXT_BUFFER } rmi_txt_second;

static const struct {
    const char *word;
    rmi_txt_second second; /* what follows the buffer */
} rmi_txt_statements[] = {/* in the order of rmi_what */
    {"alloc", RMI_TXT_OFFSET},   {"free", RMI_TXT_ALONE},      {"alias", RMI_TXT_BUFFER}, {"reuse", RMI_TXT_BUFFER},    {"run", RMI_TXT_ALONE},
    {"offload", RMI_TXT_OFFSET}, {"prefetch", RMI_TXT_ALONE}, {"merge", RMI_TXT_OFFSET}, {"drop_host", RMI_TXT_ALONE}};

RMI_FN void rmi_txt_put_buffer(rmi_sink *s, const rm_graph *g, const char *before, uint32_t b)
{
    char name[300];
    rmi_put(s, before);
    rmi_put(s, rmi_sch_name(g, b, name));
}

RMI_FN void rmi_txt_put_run(rmi_sink *s, const rm_graph *g, rmi_run r)
{
    static const char *const ways[] = {"run fwd ", "run bwd ", "run opt ", "run opt ", "run reduce ", "run barrier "}; /* rmi_way */
    rmi_put(s, ways[r.way]);
    if (r.way > RMI_BWD) {
        rmi_put(s, r.way == RMI_BARRIER ? g->barriers[r.id].name : g->tensors[r.id].name);
        rmi_put(s, r.way == RMI_OPT_HOST ? "@host\n" : "\n");
        return;
    }
    rmi_put(s, g->ops[r.id].name);
    if (r.way == RMI_BWD && rmi_low_part(g, r)->name[0]) {
        rmi_put(s, ":");
        rmi_put(s, rmi_low_part(g, r)->name);
    }
    if (r.form) rmi_put(s, "@");
    rmi_put(s, rmi_low_form(g, r)->name);
    rmi_put(s, "\n");
}

RMI_FN const char *rmi_txt_hex(uint64_t hash, char *out)
{
    int i;
    for (i = 0; i < 16; i++) out[i] = "0123456789abcdef"[(hash >> (60 - 4 * i)) & 15];
    out[16] = 0;
    return out;
}

RMI_FN void rmi_txt_put_preamble(rmi_sink *s, const rm_graph *g, const rmi_program *p)
{
    char hex[17];
    size_t i;
    rmi_put(s, "rockmate plan 1\ngraph ");
    rmi_put(s, rmi_txt_hex(rmi_txt_graph_hash(g), hex));
    rmi_put(s, "\narena ");
    rmi_put_u64(s, p->arena);
    rmi_put(s, " host ");
    rmi_put_u64(s, p->host);
    rmi_put(s, "\nstep ");
    rmi_put(s, rmi_low_step_name(p->step));
    rmi_put(s, "\n");
    for (i = 0; i < p->n_homes; i++) {
        rmi_txt_put_buffer(s, g, p->homes[i].host ? "home " : "resident ", p->homes[i].buf);
        rmi_txt_put_key(s, " ", p->homes[i].offset, RMI_INF);
        rmi_put(s, "\n");
    }
}

/* The program of a sealed graph, one statement a line. */
RMI_FN rm_result rmi_txt_write_program(const rm_graph *g, const rmi_program *p, rmi_sink *s)
{
    size_t i;
    rmi_txt_put_preamble(s, g, p);
    for (i = 0; i < p->n && !s->failed; i++) {
        const rmi_stmt *st = &p->st[i];
        if (st->what == RMI_RUN) {
            rmi_txt_put_run(s, g, st->run);
            continue;
        }
        rmi_put(s, rmi_txt_statements[st->what].word);
        rmi_txt_put_buffer(s, g, " ", st->buf);
        if (rmi_txt_statements[st->what].second == RMI_TXT_OFFSET) rmi_txt_put_key(s, " ", st->offset, RMI_INF);
        if (rmi_txt_statements[st->what].second == RMI_TXT_BUFFER) rmi_txt_put_buffer(s, g, " ", st->other);
        rmi_put(s, "\n");
    }
    return s->failed ? RM_ERROR_WRITE : RM_OK;
}

/* --- .rmp: reading */
typedef struct rmi_txt_line { /* a statement as it stands in the text, for messages */
    rmi_txt_slice text;
    uint64_t line;
} rmi_txt_line;

typedef struct rmi_txt_plan {
    const rm_graph *g;
    rmi_program p;             /* its tables in t.mem while they grow */
    rmi_txt_line *of, *of_home; /* by statement, by home */
    size_t cap_st, cap_of, cap_homes, cap_of_home;
    uint8_t has_graph, has_arena, has_step;
} rmi_txt_plan;

RMI_FN rmi_txt_line rmi_txt_this_line(const rmi_txt *t)
{
    rmi_txt_line l;
    rmi_txt_slice last = t->word[t->n - 1];
    l.text = rmi_txt_cut(t->word[0].s, last.s + last.n);
    l.line = t->line;
    return l;
}

RMI_FN rm_result rmi_txt_known(rmi_txt *t, const rm_graph *g, rmi_txt_slice x, int tensor, uint32_t *id)
{
    *id = rmi_graph_lookup_n(g, tensor ? &g->tensor_map : &g->op_map, x.s, x.n);
    return *id == RMI_NONE ? rmi_txt_fail(t, x, tensor ? "a tensor of the graph" : "an op of the graph") : RM_OK;
}
RMI_FN rm_result rmi_txt_param(rmi_txt *t, const rm_graph *g, rmi_txt_slice x, uint32_t *id)
{
    *id = rmi_graph_lookup_n(g, &g->tensor_map, x.s, x.n);
    return *id == RMI_NONE || g->tensors[*id].kind != RMI_PARAM ? rmi_txt_fail(t, x, "a param of the graph") : RM_OK;
}

/* ws:NAME is of the op if there is one of that name: rmi_txt_settle_ws corrects that when a run tells otherwise. */
RMI_FN rm_result rmi_txt_buffer(rmi_txt *t, const rm_graph *g, rmi_txt_slice x, uint32_t *b)
{
    rmi_txt_slice of, head = rmi_txt_split(x, ':', &of);
    uint32_t id = RMI_NONE;
    rmi_buf_kind k = RMI_BUF_VALUE;
    if (!of.s) RMI_TRY(rmi_txt_known(t, g, x, 1, &id));
    else if (rmi_txt_is(head, "grad")) RMI_TRY(rmi_txt_known(t, g, of, 1, &id));
    else if (rmi_txt_is(head, "state")) RMI_TRY(rmi_txt_param(t, g, of, &id));
    else if (rmi_txt_is(head, "saved")) RMI_TRY(rmi_txt_known(t, g, of, 0, &id));
    else if (!rmi_txt_is(head, "ws")) return rmi_txt_fail(t, x, "a buffer: T, grad:T, saved:OP, ws:OP, ws:PARAM or state:PARAM");
    if (of.s) k = rmi_txt_is(head, "grad") ? RMI_BUF_GRAD : rmi_txt_is(head, "state") ? RMI_BUF_STATE : rmi_txt_is(head, "saved") ? RMI_BUF_SAVED : RMI_BUF_WS;
    if (k == RMI_BUF_WS) {
        id = rmi_graph_lookup_n(g, &g->op_map, of.s, of.n);
        if (id == RMI_NONE) k = RMI_BUF_OPT_WS;
        if (id == RMI_NONE) id = rmi_graph_lookup_n(g, &g->tensor_map, of.s, of.n);
        if (id == RMI_NONE || (k == RMI_BUF_OPT_WS && g->tensors[id].kind != RMI_PARAM)) return rmi_txt_fail(t, of, "an op or a param of the graph");
    }
    *b = rmi_low_buf(g, k, id);
    return RM_OK;
}

/* The other buffer of the same name ws:NAME, if op and param share it; else b itself. */
RMI_FN uint32_t rmi_txt_other_ws(const rm_graph *g, uint32_t b)
{
    uint32_t i, id;
    rmi_buf_kind k = rmi_low_kind(g, b, &i);
    if (k != RMI_BUF_WS && k != RMI_BUF_OPT_WS) return b;
    id = k == RMI_BUF_WS ? rmi_graph_lookup(g, &g->tensor_map, g->ops[i].name) : rmi_graph_lookup(g, &g->op_map, g->tensors[i].name);
    if (id == RMI_NONE || (k == RMI_BUF_WS && g->tensors[id].kind != RMI_PARAM)) return b;
    return rmi_low_buf(g, k == RMI_BUF_WS ? RMI_BUF_OPT_WS : RMI_BUF_WS, id);
}

/* A run takes the workspace of its name that was allocated since the last run; a free, the one that was allocated last. */
RMI_FN void rmi_txt_settle_ws(rmi_txt_plan *m, rmi_stmt *now)
{
    size_t i = m->p.n;
    uint32_t mine, other;
    if (now->what != RMI_FREE && (now->what != RMI_RUN || now->run.way > RMI_OPT)) return;
    mine = now->what == RMI_FREE ? now->buf : rmi_low_buf(m->g, now->run.way == RMI_OPT ? RMI_BUF_OPT_WS : RMI_BUF_WS, now->run.id);
    other = rmi_txt_other_ws(m->g, mine);
    while (other != mine && i-- > 0) {
        rmi_stmt *s = &m->p.st[i];
        if (now->what == RMI_RUN && s->what == RMI_RUN) return;
        if (s->what != RMI_ALLOC || (s->buf != mine && s->buf != other)) continue;
        if (now->what == RMI_RUN) s->buf = mine;
        else now->buf = s->buf;
        return;
    }
}

/* fwd OP[@VARIANT], bwd OP[:PART][@VARIANT] */
RMI_FN rm_result rmi_txt_run_op(rmi_txt *t, const rm_graph *g, rmi_way way, rmi_txt_slice what, rmi_run *r)
{
    rmi_txt_slice part, variant, name;
    uint32_t id, form = 0, k = 0;
    const rmi_form *f;
    name = rmi_txt_split(what, '@', &variant);
    name = rmi_txt_split(name, ':', &part);
    RMI_TRY(rmi_txt_known(t, g, name, 0, &id));
    if (variant.s) form = variant.n ? rmi_graph_find_form(&g->ops[id], variant.s, variant.n) : RMI_NONE;
    if (form == RMI_NONE) return rmi_txt_fail_about(t, variant, "a variant of op ", g->ops[id].name, "");
    f = &g->ops[id].forms[form];
    if (way == RMI_FWD && part.s) return rmi_txt_fail(t, part, "no part: a forward has none");
    if (way == RMI_BWD) {
        if (!part.s && f->parts[0].name[0]) return rmi_txt_fail_about(t, name, "OP:PART: the backward of ", g->ops[id].name, " comes in parts");
        while (k < f->n_parts && !rmi_txt_is(part, f->parts[k].name)) k++;
        if (k == f->n_parts || (part.s && !part.n)) return rmi_txt_fail_about(t, part, "a part of the backward of ", g->ops[id].name, "");
    }
    *r = rmi_low_run(way, id, form, k);
    return RM_OK;
}

RMI_FN rm_result rmi_txt_run(rmi_txt *t, const rm_graph *g, rmi_run *r)
{
    rmi_txt_slice way = rmi_txt_word(t, 1), what = rmi_txt_word(t, 2), place, name;
    uint32_t id;
    RMI_TRY(rmi_txt_no_more(t, 3));
    if (rmi_txt_is(way, "fwd")) return rmi_txt_run_op(t, g, RMI_FWD, what, r);
    if (rmi_txt_is(way, "bwd")) return rmi_txt_run_op(t, g, RMI_BWD, what, r);
    if (rmi_txt_is(way, "opt")) {
        name = rmi_txt_split(what, '@', &place);
        RMI_TRY(rmi_txt_param(t, g, name, &id));
        if (place.s && !rmi_txt_is(place, "host")) return rmi_txt_fail(t, place, "host: an update runs on the device, or @host");
        *r = rmi_low_run(place.s ? RMI_OPT_HOST : RMI_OPT, id, 0, 0);
        return RM_OK;
    }
    if (rmi_txt_is(way, "reduce")) {
        RMI_TRY(rmi_txt_param(t, g, what, &id));
        *r = rmi_low_run(RMI_REDUCE, id, 0, 0);
        return RM_OK;
    }
    if (!rmi_txt_is(way, "barrier")) return rmi_txt_fail(t, way, "one of fwd bwd opt reduce barrier");
    for (id = 0; id < g->n_barriers && !rmi_txt_is(what, g->barriers[id].name);) id++;
    if (id == g->n_barriers) return rmi_txt_fail(t, what, "a barrier of the graph");
    *r = rmi_low_run(RMI_BARRIER, id, 0, 0);
    return RM_OK;
}

RMI_FN rm_result rmi_txt_plan_statement(rmi_txt *t, rmi_txt_plan *m)
{
    rmi_stmt *st;
    uint32_t k = 0;
    while (k < RMI_COUNT(rmi_txt_statements) && !rmi_txt_is(t->word[0], rmi_txt_statements[k].word)) k++;
    if (k == RMI_COUNT(rmi_txt_statements)) return rmi_txt_fail(t, t->word[0], "one of alloc free alias reuse run offload prefetch merge drop_host");
    if (!rmi_arena_grow(&t->mem, (void **)&m->p.st, &m->cap_st, m->p.n + 1, sizeof(rmi_stmt)) || !rmi_arena_grow(&t->mem, (void **)&m->of, &m->cap_of, m->p.n + 1, sizeof(rmi_txt_line))) return rmi_err_memory(t->err);
    st = &m->p.st[m->p.n];
    st->what = (uint8_t)k;
    if (k == RMI_RUN) {
        RMI_TRY(rmi_txt_run(t, m->g, &st->run));
    } else {
        RMI_TRY(rmi_txt_buffer(t, m->g, rmi_txt_word(t, 1), &st->buf));
        if (rmi_txt_statements[k].second == RMI_TXT_OFFSET) RMI_TRY(rmi_txt_u64(t, rmi_txt_word(t, 2), &st->offset));
        if (rmi_txt_statements[k].second == RMI_TXT_BUFFER) RMI_TRY(rmi_txt_buffer(t, m->g, rmi_txt_word(t, 2), &st->other));
        RMI_TRY(rmi_txt_no_more(t, rmi_txt_statements[k].second == RMI_TXT_ALONE ? 2 : 3));
    }
    rmi_txt_settle_ws(m, st);
    m->of[m->p.n++] = rmi_txt_this_line(t);
    return RM_OK;
}

RMI_FN rm_result rmi_txt_plan_hash(rmi_txt *t, const rm_graph *g)
{
    rmi_txt_slice x = rmi_txt_word(t, 1);
    char want[17], given[17];
    rmi_txt_place at = rmi_txt_at(t, x);
    size_t i;
    rmi_txt_hex(rmi_txt_graph_hash(g), want);
    for (i = 0; i < x.n && ((x.s[i] >= '0' && x.s[i] <= '9') || (x.s[i] >= 'a' && x.s[i] <= 'f'));) i++;
    if (x.n != 16 || i < 16) return rmi_txt_fail(t, x, "16 hexadecimal digits 0-9 a-f");
    memcpy(given, x.s, 16);
    given[16] = 0;
    if (strcmp(given, want)) return rmi_err_set(t->err, RM_ERROR_PLAN, "%u:%u: found '%s', expected '%s': the plan was made for another graph", at.line, at.column, given, want);
    return rmi_txt_no_more(t, 2);
}

/* arena BYTES [host BYTES] */
RMI_FN rm_result rmi_txt_plan_arena(rmi_txt *t, rmi_program *p)
{
    RMI_TRY(rmi_txt_u64(t, rmi_txt_word(t, 1), &p->arena));
    if (t->n == 2) return RM_OK;
    if (!rmi_txt_is(t->word[2], "host")) return rmi_txt_fail(t, t->word[2], "'host BYTES' or the end of the statement");
    RMI_TRY(rmi_txt_u64(t, rmi_txt_word(t, 3), &p->host));
    return rmi_txt_no_more(t, 4);
}

/* resident BUFFER OFFSET, home BUFFER HOSTOFFSET */
RMI_FN rm_result rmi_txt_plan_home(rmi_txt *t, rmi_txt_plan *m, uint32_t host)
{
    rmi_home *h;
    uint32_t i, b;
    rmi_buf_kind k;
    if (!m->has_arena) return rmi_txt_fail(t, t->word[0], "'arena BYTES' before what is placed in it");
    RMI_TRY(rmi_txt_buffer(t, m->g, rmi_txt_word(t, 1), &b));
    k = rmi_low_kind(m->g, b, &i);
    if (k > RMI_BUF_STATE || (k == RMI_BUF_VALUE ? m->g->tensors[i].kind == RMI_ACT : m->g->tensors[i].kind != RMI_PARAM))
        return rmi_txt_fail(t, t->word[1], "what a step starts with: an input, const or param, or state: or grad: of a param");
    if (rmi_low_external(m->g, b)) return rmi_txt_fail(t, t->word[1], "nothing external: that is the caller's memory");
    if (!rmi_arena_grow(&t->mem, (void **)&m->p.homes, &m->cap_homes, m->p.n_homes + 1, sizeof(rmi_home)) || !rmi_arena_grow(&t->mem, (void **)&m->of_home, &m->cap_of_home, m->p.n_homes + 1, sizeof(rmi_txt_line))) return rmi_err_memory(t->err);
    h = &m->p.homes[m->p.n_homes];
    h->buf = b;
    h->host = host;
    RMI_TRY(rmi_txt_u64(t, rmi_txt_word(t, 2), &h->offset));
    m->of_home[m->p.n_homes++] = rmi_txt_this_line(t);
    return rmi_txt_no_more(t, 3);
}

/* graph, arena and step stand once, and before what runs. */
RMI_FN rm_result rmi_txt_plan_preamble(rmi_txt *t, rmi_txt_plan *m, int *is_preamble)
{
    rmi_txt_slice w = t->word[0];
    uint8_t *once = rmi_txt_is(w, "graph") ? &m->has_graph : rmi_txt_is(w, "arena") ? &m->has_arena : rmi_txt_is(w, "step") ? &m->has_step : NULL;
    uint32_t k = 0;
    int host = rmi_txt_is(w, "home");
    *is_preamble = once || host || rmi_txt_is(w, "resident");
    if (!*is_preamble) return RM_OK;
    if (m->p.n) return rmi_txt_fail(t, w, "a statement of the program: what the step starts with stands before it");
    if (!once) return rmi_txt_plan_home(t, m, (uint32_t)host);
    if (*once) return rmi_txt_fail(t, w, "graph, arena and step once each");
    *once = 1;
    if (once == &m->has_graph) return rmi_txt_plan_hash(t, m->g);
    if (once == &m->has_arena) return rmi_txt_plan_arena(t, &m->p);
    while (k < RM_STEP_KINDS && !rmi_txt_is(rmi_txt_word(t, 1), rmi_low_step_name(RM_SINGLE << k))) k++;
    if (k == RM_STEP_KINDS) return rmi_txt_fail(t, rmi_txt_word(t, 1), "one of single first middle last forward");
    m->p.step = RM_SINGLE << k;
    return rmi_txt_no_more(t, 2);
}

/* The line that an offence of the checker is about; what is wrong at the start begins with the name of its buffer. */
RMI_FN rm_result rmi_txt_offence(const rmi_txt *t, const rmi_txt_plan *m, const rmi_error *fact, size_t at)
{
    char shown[4 * RMI_TXT_SHOWN + 8], name[300];
    const rmi_txt_line *l = NULL;
    rmi_txt_slice end = rmi_txt_cut(t->end, t->end);
    size_t i, n = strcspn(fact->text, " ");
    if (at < m->p.n) l = &m->of[at];
    for (i = m->p.n_homes; at > m->p.n && !l && i-- > 0;) /* of two for one buffer, the second is the fault */
        if (!strncmp(rmi_sch_name(m->g, m->p.homes[i].buf, name), fact->text, n) && !name[n]) l = &m->of_home[i];
    return rmi_err_set(t->err, RM_ERROR_PLAN, "%u:1: %s: %s", l ? l->line : t->line, rmi_txt_show(t, l ? l->text : end, shown), fact->text);
}

RMI_FN rm_result rmi_txt_plan_check(rmi_txt *t, rmi_txt_plan *m)
{
    rmi_error fact;
    size_t at = 0;
    rm_result r;
    memset(&fact, 0, sizeof fact);
    if (rmi_sch_sizes(m->g, &m->p) != RM_OK) return rmi_err_memory(t->err);
    r = rmi_sch_check(m->g, &m->p, &fact, &at);
    if (r == RM_ERROR_MEMORY) return rmi_err_memory(t->err);
    return r == RM_OK ? RM_OK : rmi_txt_offence(t, m, &fact, at);
}

RMI_FN rm_result rmi_txt_plan_read(rmi_txt *t, rmi_txt_plan *m, rmi_arena *mem, rmi_program *out)
{
    int is_preamble;
    RMI_TRY(rmi_txt_header(t, "plan"));
    for (;;) {
        RMI_TRY(rmi_txt_next(t));
        if (!t->n) break;
        RMI_TRY(rmi_txt_plan_preamble(t, m, &is_preamble));
        if (!is_preamble) RMI_TRY(rmi_txt_plan_statement(t, m));
    }
    RMI_TRY(rmi_txt_plan_check(t, m));
    *out = m->p;
    out->st = RMI_NEW(mem, rmi_stmt, m->p.n);
    out->homes = RMI_NEW(mem, rmi_home, m->p.n_homes);
    if (!out->st || !out->homes) return rmi_err_memory(t->err);
    if (m->p.n) memcpy(out->st, m->p.st, m->p.n * sizeof(rmi_stmt));
    if (m->p.n_homes) memcpy(out->homes, m->p.homes, m->p.n_homes * sizeof(rmi_home));
    return RM_OK;
}

/* A plan for the sealed graph g, checked, its figures filled; its tables are in mem. Else the message is in err: RM_ERROR_TEXT
   for what is no plan, RM_ERROR_PLAN for one of another graph or one that the checker refuses. */
RMI_FN rm_result rmi_txt_read_program(const rm_graph *g, const char *text, size_t n, rmi_arena *mem, rmi_program *out, rmi_error *err)
{
    rmi_txt t = rmi_txt_make(&g->mem.hooks, err, text, n);
    rmi_txt_plan m;
    rm_result r;
    memset(&m, 0, sizeof m);
    memset(out, 0, sizeof *out);
    m.g = g;
    m.p.step = RM_SINGLE;
    r = rmi_txt_plan_read(&t, &m, mem, out);
    if (r != RM_OK) memset(out, 0, sizeof *out);
    rmi_arena_free(&t.mem);
    return r;
}

/* A plan of one program, as read; its figures are the referee's, keep-everything is not known. */
RMI_FN rm_result rmi_txt_read_plan(rm_graph *g, const char *text, size_t n, rm_plan **out)
{
    rm_plan *p;
    rm_plan_info *f;
    rm_result r;
    rmi_err_clear(&g->last);
    RMI_TRY(rmi_graph_seal(g));
    p = rmi_plan_new(g);
    if (!p) return rmi_err_memory(&g->last);
    p->align = 16; /* an executor's memory is at least that */
    f = &p->info[0];
    r = rmi_txt_read_program(g, text, n, &p->mem, &p->prog[0], &g->last);
    if (r == RM_OK) r = rmi_bnd_time(&p->mem, g, p->prog[0].step, &f->bound_ns);
    if (r == RM_OK) r = rmi_bnd_bytes(&p->mem, g, p->prog[0].step, g->has_link && p->prog[0].host, &f->min_bound_bytes);
    if (r == RM_OK) r = rmi_shp_make(&p->mem, g, RMI_NONE, &p->shape);
    if (r == RM_ERROR_MEMORY) rmi_err_memory(&g->last);
    if (r != RM_OK) {
        rmi_plan_free(p);
        return r;
    }
    p->n = 1;
    f->step = p->prog[0].step;
    f->blocks = p->shape.n;
    f->classes = p->shape.n_classes;
    f->estimated = g->estimated;
    rmi_plan_figures_of(&p->prog[0], f);
    *out = p;
    return RM_OK;
}

/* --- configurations */
static const char *const rmi_txt_passes[] = {"segments", "greedy", "kinds", "chain", "search", "options", "stream", "link", "blocks", "offload", "groups", NULL};
static const char *const rmi_txt_switches[] = {"recompute", "variants", "reorder", "inplace", NULL};

/* A list of words of `names`, as bits. */
RMI_FN rm_result rmi_txt_bits(rmi_txt *t, rmi_txt_slice value, const char *const *names, const char *expected, uint32_t *out)
{
    rmi_txt_slice rest = rmi_txt_list(value), item;
    uint32_t i;
    *out = 0;
    while (rmi_txt_item(&rest, &item)) {
        for (i = 0; names[i] && !rmi_txt_is(item, names[i]);) i++;
        if (!names[i]) return rmi_txt_fail(t, item, expected);
        *out |= 1u << i;
    }
    return RM_OK;
}

RMI_FN rm_result rmi_txt_u32(rmi_txt *t, rmi_txt_slice value, uint32_t *out)
{
    uint64_t v;
    RMI_TRY(rmi_txt_u64(t, value, &v));
    if (v >> 32) return rmi_txt_fail(t, value, "a number below 2^32");
    *out = (uint32_t)v;
    return RM_OK;
}

/* A list that rm_config.kinds holds, or none. */
RMI_FN rm_result rmi_txt_kinds(rmi_txt *t, rmi_txt_slice value, rm_config *c)
{
    rm_config old = *c;
    memset(c->kinds, 0, sizeof c->kinds);
    if (rmi_txt_is(value, "none")) return RM_OK;
    if (value.n && value.n < sizeof c->kinds) memcpy(c->kinds, value.s, value.n);
    if (c->kinds[0] && !rmi_plan_config_wrong(c)) return RM_OK;
    *c = old;
    return rmi_txt_fail(t, value, "none, or up to 255 letters of patterns, with commas: A-Z a-z 0-9 _ . / - [ ] and * for any text");
}

/* One key=value word. seen: a bit for each key that came before. */
RMI_FN rm_result rmi_txt_setting(rmi_txt *t, rm_config *c, uint32_t *seen)
{
    static const char *const keys[] = {"preset", "name", "passes", "off", "segment", "group", "gap_ppm", "work", "kinds"};
    rmi_txt_slice value, key = rmi_txt_split(t->word[0], '=', &value);
    const rmi_plan_preset *p;
    char name[256];
    uint32_t i;
    for (i = 0; i < RMI_COUNT(keys) && !rmi_txt_is(key, keys[i]);) i++;
    if (i == RMI_COUNT(keys) || !value.s) return rmi_txt_fail(t, t->word[0], "one of preset= name= passes= off= segment= group= gap_ppm= work= kinds=");
    if (*seen >> i & 1) return rmi_txt_fail(t, t->word[0], "each key once");
    if (!i && *seen) return rmi_txt_fail(t, t->word[0], "preset= before all other keys: it sets them all");
    *seen |= 1u << i;
    RMI_TRY(rmi_txt_no_more(t, 1));
    switch (i) {
    case 0:
        p = value.n && rmi_txt_name(t, value, name) == RM_OK ? rmi_plan_find_preset(name) : NULL;
        if (!p) return rmi_txt_fail(t, value, "the name of a preset, such as rockmate");
        rmi_plan_use_preset(p, c);
        return RM_OK;
    case 1:
        RMI_TRY(rmi_txt_name(t, value, name));
        if (value.n >= sizeof c->name) return rmi_txt_fail(t, value, "a name of up to 31 letters");
        memset(c->name, 0, sizeof c->name);
        memcpy(c->name, name, value.n);
        return RM_OK;
    case 2: return rmi_txt_bits(t, value, rmi_txt_passes, "passes=none, or some of segments,greedy,kinds,chain,search,options,stream,link,blocks,offload,groups", &c->passes);
    case 3: return rmi_txt_bits(t, value, rmi_txt_switches, "off=none, or some of recompute,variants,reorder,inplace", &c->off);
    case 4: return rmi_txt_u32(t, value, &c->segment);
    case 5: return rmi_txt_u32(t, value, &c->group);
    case 6: return rmi_txt_u32(t, value, &c->gap_ppm);
    case 7: return rmi_txt_u64(t, value, &c->work);
    default: return rmi_txt_kinds(t, value, c);
    }
}

RMI_FN rm_result rmi_txt_config_read(const char *text, size_t n, rm_config *out, rmi_error *err)
{
    rmi_txt t = rmi_txt_make(NULL, err, text, n);
    rm_config c;
    uint32_t seen = 0;
    rm_result r = rmi_txt_header(&t, "config");
    memset((void *)&c, 0, sizeof c);
    while (r == RM_OK) {
        r = rmi_txt_next(&t);
        if (r != RM_OK || !t.n) break;
        r = rmi_txt_setting(&t, &c, &seen);
    }
    rmi_arena_free(&t.mem);
    if (r == RM_OK) *out = c;
    return r;
}

RMI_FN void rmi_txt_put_bits(rmi_sink *s, const char *key, uint32_t bits, const char *const *names)
{
    uint32_t i, n = 0;
    rmi_put(s, key);
    for (i = 0; names[i]; i++)
        if (bits >> i & 1) {
            if (n++) rmi_put(s, ",");
            rmi_put(s, names[i]);
        }
    rmi_put(s, n ? "\n" : "none\n");
}

RMI_FN rm_result rmi_txt_config_write(const rm_config *c, rmi_sink *s)
{
    if (rmi_plan_config_wrong(c)) return RM_ERROR_ARGUMENT;
    rmi_put(s, "rockmate config 1\n");
    if (c->name[0]) {
        rmi_put(s, "name=");
        rmi_put(s, c->name);
        rmi_put(s, "\n");
    }
    rmi_txt_put_bits(s, "passes=", c->passes, rmi_txt_passes);
    rmi_txt_put_bits(s, "off=", c->off, rmi_txt_switches);
    rmi_put(s, "segment=");
    rmi_put_u64(s, c->segment);
    rmi_put(s, "\ngroup=");
    rmi_put_u64(s, c->group);
    rmi_put(s, "\ngap_ppm=");
    rmi_put_u64(s, c->gap_ppm);
    rmi_put(s, "\nwork=");
    rmi_put_u64(s, c->work);
    rmi_put(s, "\nkinds=");
    rmi_put(s, c->kinds[0] ? c->kinds : "none");
    rmi_put(s, "\n");
    return s->failed ? RM_ERROR_WRITE : RM_OK;
}

/* --- the summary: one program for people, 100 columns, plain ASCII */
typedef struct rmi_txt_pen {
    rmi_sink *to;
    char text[256];
    size_t n;
} rmi_txt_pen;

RMI_FN void rmi_txt_say(rmi_txt_pen *l, const char *s)
{
    while (*s && l->n + 1 < sizeof l->text) l->text[l->n++] = *s++;
}
RMI_FN void rmi_txt_say_u64(rmi_txt_pen *l, uint64_t v)
{
    char t[24];
    rmi_txt_say(l, rmi_u64_text(v, t));
}
RMI_FN void rmi_txt_to_column(rmi_txt_pen *l, size_t column)
{
    while (l->n < column && l->n + 1 < sizeof l->text) l->text[l->n++] = ' ';
}
RMI_FN void rmi_txt_end_line(rmi_txt_pen *l)
{
    while (l->n && l->text[l->n - 1] == ' ') l->n--;
    l->text[l->n++] = '\n';
    rmi_put_n(l->to, l->text, l->n);
    l->n = 0;
}

/* v / unit with `places` decimals, rounded. */
RMI_FN void rmi_txt_say_ratio(rmi_txt_pen *l, uint64_t v, uint64_t unit, uint32_t places)
{
    uint64_t scale = 1, whole, part, digit;
    uint32_t i;
    for (i = 0; i < places; i++) scale *= 10;
    whole = v / unit;
    part = (v % unit) >> (unit > ((uint64_t)1 << 40) ? 20 : 0); /* keep the product within 64 bits */
    unit >>= unit > ((uint64_t)1 << 40) ? 20 : 0;
    part = (part * scale + unit / 2) / unit;
    if (part >= scale) {
        whole++;
        part -= scale;
    }
    rmi_txt_say_u64(l, whole);
    if (!places) return;
    rmi_txt_say(l, ".");
    for (digit = scale / 10; digit; digit /= 10) {
        char c[2] = {0, 0};
        c[0] = (char)('0' + (int)(part / digit % 10));
        rmi_txt_say(l, c);
    }
}

RMI_FN void rmi_txt_say_bytes(rmi_txt_pen *l, uint64_t bytes)
{
    static const char *const units[] = {" bytes", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"};
    uint64_t unit = 1;
    uint32_t i = 0;
    while (i + 1 < RMI_COUNT(units) && bytes / unit >= 1024) {
        unit *= 1024;
        i++;
    }
    rmi_txt_say_ratio(l, bytes, unit, i ? 1 : 0);
    rmi_txt_say(l, units[i]);
}

RMI_FN void rmi_txt_say_ns(rmi_txt_pen *l, uint64_t ns)
{
    if (ns < 10000) {
        rmi_txt_say_ratio(l, ns, 1000, 2);
        rmi_txt_say(l, " us");
    } else if (ns < 10000000000u) {
        rmi_txt_say_ratio(l, ns, 1000000, 2);
        rmi_txt_say(l, " ms");
    } else {
        rmi_txt_say_ratio(l, ns, 1000000000u, 2);
        rmi_txt_say(l, " s");
    }
}

/* (a - b) / b in per cent. */
RMI_FN void rmi_txt_say_over(rmi_txt_pen *l, uint64_t a, uint64_t b)
{
    rmi_txt_say(l, a >= b ? "+" : "-");
    rmi_txt_say_ratio(l, rmi_mul(a >= b ? a - b : b - a, 100), b ? b : 1, 2);
    rmi_txt_say(l, " %");
}

/* A part of the model in the table: a top-level block, or ops between blocks. */
typedef struct rmi_txt_region {
    uint32_t lo, hi;
    const char *name; /* of the block, or NULL */
    uint32_t number;  /* h[number] */
} rmi_txt_region;

RMI_FN uint32_t rmi_txt_regions(const rm_graph *g, rmi_txt_region *r)
{
    uint32_t i, depth = 0, at = 0, n = 0;
    for (i = 0; i < g->n_marks; i++) {
        const rmi_mark *m = &g->marks[i];
        if (m->name ? depth++ : --depth) continue; /* only the outermost */
        if (m->name && m->op > at) {
            r[n].lo = at;
            r[n].hi = m->op;
            r[n++].name = NULL;
        }
        if (!m->name && m->op > at) {
            r[n].lo = at;
            r[n].hi = m->op;
            r[n].name = g->marks[m->outer].name;
            r[n++].number = g->marks[m->outer].number;
        }
        at = m->op;
    }
    if (at < g->n_ops) {
        r[n].lo = at;
        r[n].hi = g->n_ops;
        r[n++].name = NULL;
    }
    return n;
}

/* May region b join the row that begins with a: a block of the same name whose ops run just as often? */
RMI_FN int rmi_txt_same_row(const rmi_txt_region *a, const rmi_txt_region *b, const uint32_t *forwards)
{
    uint32_t i;
    if (!a->name || !b->name || strcmp(a->name, b->name) || a->hi - a->lo != b->hi - b->lo) return 0;
    for (i = 0; i < a->hi - a->lo; i++)
        if (forwards[a->lo + i] != forwards[b->lo + i]) return 0;
    return 1;
}

RMI_FN const char *rmi_txt_last_part(const char *name)
{
    const char *p = strrchr(name, '/');
    return p ? p + 1 : name;
}

/* A row: which ops of [r->lo, r->hi) are recomputed, and what that costs in regions r .. r + count. */
RMI_FN void rmi_txt_row(rmi_txt_pen *l, const rm_graph *g, const rmi_txt_region *r, uint32_t count, const uint32_t *forwards)
{
    uint32_t i, k, again = 0, most = 0;
    uint64_t ns = 0;
    rmi_txt_say(l, "  ");
    if (r->name) {
        rmi_txt_say(l, r->name);
        rmi_txt_say(l, "[");
        rmi_txt_say_u64(l, r->number);
        if (count > 1) rmi_txt_say(l, "..");
        if (count > 1) rmi_txt_say_u64(l, r[count - 1].number);
        rmi_txt_say(l, "]");
    } else {
        rmi_txt_say(l, g->ops[r->lo].name);
        if (r->hi - r->lo > 1) rmi_txt_say(l, " ..");
    }
    if (l->n > 24) l->n = 24;
    for (k = 0; k < count; k++)
        for (i = r[k].lo; i < r[k].hi; i++)
            if (forwards[i] > 1) ns = rmi_add(ns, rmi_mul(forwards[i] - 1, g->ops[i].view == RMI_NONE ? g->ops[i].forms[0].again : 0));
    for (i = r->lo; i < r->hi; i++) {
        again += forwards[i] > 1;
        if (forwards[i] > most) most = forwards[i];
    }
    rmi_txt_to_column(l, 26);
    rmi_txt_say_u64(l, r->hi - r->lo);
    rmi_txt_to_column(l, 32);
    rmi_txt_say_u64(l, again);
    rmi_txt_to_column(l, 44);
    if (most > 1) rmi_txt_say_u64(l, most);
    rmi_txt_to_column(l, 51);
    if (ns) rmi_txt_say_ns(l, ns);
    rmi_txt_to_column(l, 64);
    for (i = r->lo, k = 0; i < r->hi; i++) {
        const char *name = rmi_txt_last_part(g->ops[i].name);
        if (forwards[i] < 2) continue;
        if (l->n + strlen(name) > 94) {
            rmi_txt_say(l, " ...");
            break;
        }
        if (k++) rmi_txt_say(l, " ");
        rmi_txt_say(l, name);
    }
    rmi_txt_end_line(l);
}

/* Classes of equal blocks among regions of one name: "12 h: 1 class". */
RMI_FN rm_result rmi_txt_say_blocks(rmi_txt_pen *l, rmi_arena *mem, const rm_graph *g, const rmi_txt_region *r, uint32_t n)
{
    uint32_t *range = RMI_NEW(mem, uint32_t, 2 * (size_t)n), *cls = RMI_NEW(mem, uint32_t, n), i, k, count, classes, said = 0;
    if (!range || !cls) return RM_ERROR_MEMORY;
    for (i = 0; i < n; i++) {
        if (!r[i].name || r[i].number) continue;
        for (count = 0, k = i; k < n; k++)
            if (r[k].name && !strcmp(r[k].name, r[i].name)) {
                range[2 * count] = r[k].lo;
                range[2 * count++ + 1] = r[k].hi;
            }
        RMI_TRY(rmi_shp_classes(mem, g, range, count, cls, &classes));
        if (l->n > 70) break;
        rmi_txt_say(l, said++ ? ", " : "");
        rmi_txt_say_u64(l, count);
        rmi_txt_say(l, " x ");
        rmi_txt_say(l, r[i].name);
        rmi_txt_say(l, classes == 1 ? " (1 class)" : " (");
        if (classes > 1) {
            rmi_txt_say_u64(l, classes);
            rmi_txt_say(l, " classes)");
        }
    }
    if (said) rmi_txt_say(l, "; ");
    return RM_OK;
}

RMI_FN void rmi_txt_head(rmi_txt_pen *l, const rm_plan_info *f)
{
    rmi_txt_say(l, "  memory     ");
    rmi_txt_say_bytes(l, f->arena_bytes);
    if (f->budget_bytes) {
        rmi_txt_say(l, " of a budget of ");
        rmi_txt_say_bytes(l, f->budget_bytes);
    }
    rmi_txt_say(l, "; keeping everything takes ");
    rmi_txt_say_bytes(l, f->keep_all_bytes);
    rmi_txt_end_line(l);
    rmi_txt_say(l, "  time       ");
    rmi_txt_say_ns(l, f->time_ns);
    rmi_txt_say(l, f->estimated ? " (estimated costs)" : "");
    rmi_txt_say(l, ", ");
    rmi_txt_say_over(l, f->time_ns, f->keep_all_ns);
    rmi_txt_say(l, " over keeping everything");
    rmi_txt_end_line(l);
    rmi_txt_say(l, "  proven     at most ");
    rmi_txt_say_ratio(l, rmi_mul(rmi_sub(f->time_ns, f->bound_ns), 100), f->bound_ns ? f->bound_ns : 1, 2);
    rmi_txt_say(l, " % from the best possible");
    rmi_txt_end_line(l);
    rmi_txt_say(l, "  recompute  ");
    rmi_txt_say_u64(l, f->recomputed_runs);
    rmi_txt_say(l, " of ");
    rmi_txt_say_u64(l, f->runs);
    rmi_txt_say(l, " runs, ");
    rmi_txt_say_ns(l, f->recomputed_ns);
    rmi_txt_end_line(l);
}

/* What persists, and the rest: where the arena goes. */
RMI_FN void rmi_txt_arena(rmi_txt_pen *l, const rm_graph *g, const rmi_program *p)
{
    static const char *const words[] = {"weights ", "states ", "gradients ", "consts ", "inputs "};
    uint64_t sum[5] = {0, 0, 0, 0, 0}, all = 0;
    size_t i;
    uint32_t t, k;
    for (i = 0; i < p->n_homes; i++) {
        uint64_t bytes = rmi_low_bytes(g, p->homes[i].buf);
        rmi_buf_kind kind = rmi_low_kind(g, p->homes[i].buf, &t);
        if (p->homes[i].host) continue;
        k = kind == RMI_BUF_STATE ? 1 : kind == RMI_BUF_GRAD ? 2 : g->tensors[t].kind == RMI_PARAM ? 0 : g->tensors[t].kind == RMI_CONST ? 3 : 4;
        sum[k] += bytes;
        all += bytes;
    }
    rmi_txt_say(l, "  arena      ");
    for (k = 0; k < 5; k++) {
        if (!sum[k]) continue;
        rmi_txt_say(l, words[k]);
        rmi_txt_say_bytes(l, sum[k]);
        rmi_txt_say(l, ", ");
    }
    rmi_txt_say(l, "everything else ");
    rmi_txt_say_bytes(l, rmi_sub(p->arena, all));
    rmi_txt_end_line(l);
}

RMI_FN rm_result rmi_txt_summary_of(const rm_plan *p, uint32_t index, rmi_arena *tmp, rmi_sink *to)
{
    const rm_graph *g = p->g;
    const rmi_program *prog = &p->prog[index];
    rmi_txt_region *r = RMI_NEW(tmp, rmi_txt_region, (size_t)g->n_marks + 2);
    uint32_t *forwards = RMI_NEW(tmp, uint32_t, g->n_ops), i, k, n;
    size_t s;
    rmi_txt_pen l;
    if (!r || !forwards) return RM_ERROR_MEMORY;
    l.to = to;
    l.n = 0;
    for (s = 0; s < prog->n; s++)
        if (prog->st[s].what == RMI_RUN && prog->st[s].run.way == RMI_FWD) forwards[prog->st[s].run.id]++;
    n = rmi_txt_regions(g, r);
    rmi_txt_say(&l, "plan of a step (");
    rmi_txt_say(&l, rmi_low_step_name(p->info[index].step));
    rmi_txt_say(&l, "): ");
    RMI_TRY(rmi_txt_say_blocks(&l, tmp, g, r, n));
    rmi_txt_say_u64(&l, p->info[index].blocks);
    rmi_txt_say(&l, " stages of ");
    rmi_txt_say_u64(&l, p->info[index].classes);
    rmi_txt_say(&l, p->info[index].classes == 1 ? " class" : " classes");
    rmi_txt_end_line(&l);
    rmi_txt_head(&l, &p->info[index]);
    rmi_txt_arena(&l, g, prog);
    if (!p->info[index].recomputed_runs) return RM_OK;
    rmi_txt_say(&l, "  where                   ops   recomputed  runs   cost         what");
    rmi_txt_end_line(&l);
    for (i = 0; i < n; i += k) {
        for (k = 1; i + k < n && rmi_txt_same_row(&r[i], &r[i + k], forwards);) k++;
        rmi_txt_row(&l, g, &r[i], k, forwards);
    }
    return RM_OK;
}

/* Every program of the plan. */
RMI_FN rm_result rmi_txt_summary(const rm_plan *p, rmi_sink *to)
{
    rmi_arena tmp = rmi_arena_make(&p->g->mem.hooks);
    rm_result r = RM_OK;
    uint32_t i;
    for (i = 0; i < p->n && r == RM_OK; i++) r = rmi_txt_summary_of(p, i, &tmp, to);
    rmi_arena_free(&tmp);
    if (r == RM_ERROR_MEMORY) return rmi_err_memory(&p->g->last);
    return to->failed ? rmi_err_set(&p->g->last, RM_ERROR_WRITE, "rm_plan_summary: the sink returned nonzero") : r;
}

/* =====================================================================================================================
   >>view - a plan for people to look at: why a tensor is where it is, a trace, a picture of memory
   In: a checked program and, from the simulator, when each statement ran. Out: text. A piece is one name's stay at one address;
   of the names that share bytes one is drawn at a time, so that the pieces drawn add up to what is live. O(statements), and
   for an explanation O(statements * degree).
   ================================================================================================================== */
typedef enum rmi_vue_colour { RMI_VUE_WEIGHT, RMI_VUE_STATE, RMI_VUE_INPUT, RMI_VUE_VALUE, RMI_VUE_AGAIN, RMI_VUE_GRAD, RMI_VUE_PARAM_GRAD, RMI_VUE_SAVED, RMI_VUE_WS, RMI_VUE_COLOURS } rmi_vue_colour;

typedef struct rmi_vue_piece {
    uint32_t buf, colour;
    uint32_t prev;       /* the piece before it of the same buffer, or RMI_NONE */
    uint32_t around;     /* next of the names that share its bytes now: a ring */
    uint64_t off, bytes;
    size_t from, to;     /* statements [from, to) */
    size_t drawn;        /* from which on it is the one drawn; to or later: never */
    uint64_t start, end; /* ns, of what is drawn */
    uint8_t home, open;
} rmi_vue_piece;

typedef struct rmi_vue {
    const rm_plan *p;
    const rm_graph *g;
    const rmi_program *prog;
    rmi_arena mem;
    rmi_span *span;      /* two by statement */
    rmi_vue_piece *piece;
    uint32_t n_pieces;
    uint32_t *latest;    /* by buffer: its last piece so far */
    uint32_t *before;    /* by statement, and the end: runs before it */
    uint32_t *run_at, n_runs; /* by run: its statement */
    uint8_t *again;      /* by statement: a forward that ran before in this step */
    uint64_t *live;      /* by run */
    uint64_t begin, end; /* ns: of the step that is shown */
    rmi_sink *to;
} rmi_vue;

/* --- what lies where and when */
RMI_FN uint32_t rmi_vue_kind(const rm_graph *g, uint32_t b)
{
    uint32_t i;
    switch (rmi_low_kind(g, b, &i)) {
    case RMI_BUF_VALUE: return g->tensors[i].kind == RMI_PARAM ? RMI_VUE_WEIGHT : g->tensors[i].kind == RMI_ACT ? RMI_VUE_VALUE : RMI_VUE_INPUT;
    case RMI_BUF_GRAD: return g->tensors[i].kind == RMI_PARAM ? RMI_VUE_PARAM_GRAD : RMI_VUE_GRAD;
    case RMI_BUF_STATE: return RMI_VUE_STATE;
    case RMI_BUF_SAVED: return RMI_VUE_SAVED;
    default: return RMI_VUE_WS;
    }
}

RMI_FN rmi_vue_piece *rmi_vue_open(rmi_vue *v, uint32_t buf, uint64_t off, uint64_t bytes, size_t at)
{
    rmi_vue_piece *x = &v->piece[v->n_pieces];
    x->buf = buf;
    x->colour = rmi_vue_kind(v->g, buf);
    x->prev = v->latest[buf];
    x->around = v->n_pieces;
    x->off = off;
    x->bytes = bytes;
    x->from = x->drawn = at;
    x->to = v->prog->n;
    x->open = 1;
    v->latest[buf] = v->n_pieces++;
    return x;
}

/* The name goes; if it was the one drawn, another that shares its bytes is from now on. */
RMI_FN void rmi_vue_close(rmi_vue *v, uint32_t buf, size_t at)
{
    uint32_t i = v->latest[buf], k;
    rmi_vue_piece *x;
    if (i == RMI_NONE || !v->piece[i].open) return;
    x = &v->piece[i];
    x->open = 0;
    x->to = at;
    if (x->around == i) return;
    if (x->drawn < at) v->piece[x->around].drawn = at;
    for (k = x->around; v->piece[k].around != i;) k = v->piece[k].around;
    v->piece[k].around = x->around;
}

RMI_FN void rmi_vue_rename(rmi_vue *v, const rmi_stmt *st, size_t at)
{
    uint32_t old = v->latest[st->other];
    rmi_vue_piece *x;
    if (old == RMI_NONE || !v->piece[old].open) return; /* the caller's memory, or nothing */
    if (st->what == RMI_REUSE) {
        rmi_vue_open(v, st->buf, v->piece[old].off, v->piece[old].bytes, at);
        rmi_vue_close(v, st->other, at);
        return;
    }
    x = rmi_vue_open(v, st->buf, v->piece[old].off, v->piece[old].bytes, at);
    x->drawn = SIZE_MAX;
    x->around = v->piece[old].around;
    v->piece[old].around = v->n_pieces - 1;
}

RMI_FN rm_result rmi_vue_pieces(rmi_vue *v)
{
    const rmi_program *p = v->prog;
    uint32_t k, nb = rmi_low_buffers(v->g), *ran = RMI_NEW(&v->mem, uint32_t, v->g->n_ops);
    size_t i;
    v->piece = RMI_NEW(&v->mem, rmi_vue_piece, p->n + p->n_homes);
    v->latest = RMI_NEW(&v->mem, uint32_t, nb);
    v->before = RMI_NEW(&v->mem, uint32_t, p->n + 1);
    v->run_at = RMI_NEW(&v->mem, uint32_t, p->n);
    v->again = RMI_NEW(&v->mem, uint8_t, p->n + 1);
    if (!ran || !v->piece || !v->latest || !v->before || !v->run_at || !v->again) return RM_ERROR_MEMORY;
    for (k = 0; k < nb; k++) v->latest[k] = RMI_NONE;
    for (i = 0; i < p->n_homes; i++)
        if (!p->homes[i].host) rmi_vue_open(v, p->homes[i].buf, p->homes[i].offset, rmi_low_bytes(v->g, p->homes[i].buf), 0)->home = 1;
    for (i = 0; i < p->n; i++) {
        const rmi_stmt *st = &p->st[i];
        v->before[i] = v->n_runs;
        if (st->what == RMI_ALLOC) rmi_vue_open(v, st->buf, st->offset, st->bytes, i);
        if (st->what == RMI_FREE) rmi_vue_close(v, st->buf, i);
        if (st->what == RMI_ALIAS || st->what == RMI_REUSE) rmi_vue_rename(v, st, i);
        if (st->what != RMI_RUN) continue;
        v->run_at[v->n_runs++] = (uint32_t)i;
        v->again[i] = st->run.way == RMI_FWD && ran[st->run.id]++;
    }
    v->before[p->n] = v->n_runs;
    return RM_OK;
}

/* A piece is drawn from the start of the first run or copy after it came to be to the end of the last before it went. What a
   repeated forward makes has a colour of its own. */
RMI_FN rm_result rmi_vue_times(rmi_vue *v)
{
    const rmi_program *p = v->prog;
    uint64_t *start = RMI_NEW(&v->mem, uint64_t, p->n + 1), *end = RMI_NEW(&v->mem, uint64_t, p->n + 1), now;
    uint32_t k, id;
    size_t i;
    v->live = RMI_NEW(&v->mem, uint64_t, (size_t)v->n_runs + 1);
    if (!start || !end || !v->live) return RM_ERROR_MEMORY;
    v->begin = RMI_INF;
    for (i = 0; i < 2 * p->n; i++)
        if (v->span[i].ran) {
            v->begin = rmi_min(v->begin, v->span[i].start);
            v->end = rmi_max(v->end, v->span[i].end);
        }
    v->begin = rmi_min(v->begin, v->end);
    for (i = p->n, now = v->end; start[i] = now, i-- > 0;) /* when what comes next in the program starts, on any lane that fills */
        if (v->span[2 * i].ran && (v->span[2 * i].lane == RM_LANE_COMPUTE || v->span[2 * i].lane == RM_LANE_H2D)) now = v->span[2 * i].start;
    for (i = 0, now = v->begin; i < p->n; end[++i] = now) /* when all before it has ended, on any lane that reads */
        if (v->span[2 * i].ran) now = rmi_max(now, v->span[2 * i].end);
    end[0] = v->begin;
    for (k = 0; k < v->n_pieces; k++) {
        rmi_vue_piece *x = &v->piece[k];
        uint32_t run = v->before[x->from];
        if (x->colour == RMI_VUE_VALUE && run < v->n_runs && v->again[v->run_at[run]] && rmi_low_kind(v->g, x->buf, &id) == RMI_BUF_VALUE && v->g->tensors[id].maker == p->st[v->run_at[run]].run.id) x->colour = RMI_VUE_AGAIN;
        if (x->drawn >= x->to) continue;
        x->start = x->home && !x->drawn ? v->begin : start[x->drawn];
        x->end = x->to == p->n ? v->end : rmi_max(x->start, end[x->to]);
        v->live[v->before[x->drawn]] += x->bytes;
        v->live[v->before[x->to]] -= x->bytes; /* wraps, and back */
    }
    for (k = 1; k <= v->n_runs; k++) v->live[k] += v->live[k - 1];
    return RM_OK;
}

/* --- names */
RMI_FN void rmi_vue_run_name(rmi_txt_pen *l, const rm_graph *g, rmi_run r)
{
    static const char *const ways[] = {"fwd ", "bwd ", "opt ", "opt ", "reduce ", "barrier "}; /* rmi_way */
    rmi_txt_say(l, ways[r.way]);
    rmi_txt_say(l, r.way == RMI_BARRIER ? g->barriers[r.id].name : r.way > RMI_BWD ? g->tensors[r.id].name : g->ops[r.id].name);
    if (r.way == RMI_BWD && rmi_low_part(g, r)->name[0]) {
        rmi_txt_say(l, ":");
        rmi_txt_say(l, rmi_low_part(g, r)->name);
    }
    if (r.way <= RMI_BWD && r.form) {
        rmi_txt_say(l, "@");
        rmi_txt_say(l, rmi_low_form(g, r)->name);
    }
}
RMI_FN void rmi_vue_buffer_name(rmi_txt_pen *l, const rm_graph *g, uint32_t b)
{
    char name[300];
    rmi_txt_say(l, rmi_sch_name(g, b, name));
}
RMI_FN void rmi_vue_flush(rmi_txt_pen *l)
{
    rmi_put_n(l->to, l->text, l->n);
    l->n = 0;
}
/* v thousandths with three decimals. */
RMI_FN void rmi_vue_milli(rmi_txt_pen *l, uint64_t v) { rmi_txt_say_ratio(l, v, 1000, 3); }

/* What a statement did on a lane: its name and, for colours, one of six sorts. */
RMI_FN uint32_t rmi_vue_event(const rmi_vue *v, rmi_txt_pen *l, size_t i, int host)
{
    static const char *const verbs[] = {"offload ", "prefetch ", "merge "};
    const rmi_stmt *st = &v->prog->st[i];
    if (st->what == RMI_RUN) {
        rmi_vue_run_name(l, v->g, st->run);
        return st->run.way == RMI_FWD ? (v->again[i] ? 1u : 0u) : st->run.way == RMI_BWD ? 2u : 3u;
    }
    rmi_txt_say(l, host ? "add " : verbs[st->what == RMI_OFFLOAD ? 0 : st->what == RMI_PREFETCH ? 1 : 2]);
    rmi_vue_buffer_name(l, v->g, st->buf);
    return host ? 5u : 4u;
}

/* --- the trace: Chrome's JSON, microseconds */
static const char *const rmi_vue_lanes[RMI_LANES] = {"compute", "copies to the device", "copies to host memory", "host", "reductions"};

RMI_FN void rmi_vue_trace_event(rmi_vue *v, rmi_txt_pen *l, size_t i, int host)
{
    static const char *const sorts[] = {"forward", "recompute", "backward", "update", "copy", "add"};
    static const char *const names[] = {"thread_state_running", "terrible", "rail_response", "rail_load", "rail_animation", "rail_idle"};
    const rmi_span *x = &v->span[2 * i + (size_t)host];
    uint32_t sort;
    if (!x->ran) return;
    rmi_txt_say(l, ",\n{\"ph\":\"X\",\"pid\":1,\"tid\":");
    rmi_txt_say_u64(l, x->lane + 1);
    rmi_txt_say(l, ",\"ts\":");
    rmi_vue_milli(l, x->start - v->begin);
    rmi_txt_say(l, ",\"dur\":");
    rmi_vue_milli(l, x->end - x->start);
    rmi_txt_say(l, ",\"name\":\"");
    rmi_vue_flush(l);
    sort = rmi_vue_event(v, l, i, host);
    rmi_vue_flush(l);
    rmi_txt_say(l, "\",\"cat\":\"");
    rmi_txt_say(l, sorts[sort]);
    rmi_txt_say(l, "\",\"cname\":\"");
    rmi_txt_say(l, names[sort]);
    rmi_txt_say(l, "\"}");
    rmi_vue_flush(l);
}

RMI_FN void rmi_vue_trace(rmi_vue *v, rmi_txt_pen *l)
{
    uint32_t k;
    size_t i;
    rmi_put(v->to, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":\"rockmate plan, simulated\"}}");
    for (k = 0; k < RMI_LANES; k++) {
        if (!v->prog->fig.busy[k]) continue;
        rmi_txt_say(l, ",\n{\"ph\":\"M\",\"pid\":1,\"tid\":");
        rmi_txt_say_u64(l, k + 1);
        rmi_txt_say(l, ",\"name\":\"thread_name\",\"args\":{\"name\":\"");
        rmi_txt_say(l, rmi_vue_lanes[k]);
        rmi_txt_say(l, "\"}}");
        rmi_vue_flush(l);
    }
    for (i = 0; i < v->prog->n; i++) {
        rmi_vue_trace_event(v, l, i, 0);
        rmi_vue_trace_event(v, l, i, 1);
    }
    for (k = 0; k < v->n_runs; k++) {
        rmi_txt_say(l, ",\n{\"ph\":\"C\",\"pid\":1,\"name\":\"live bytes\",\"ts\":");
        rmi_vue_milli(l, v->span[2 * v->run_at[k]].ran ? v->span[2 * v->run_at[k]].start - v->begin : 0);
        rmi_txt_say(l, ",\"args\":{\"bytes\":");
        rmi_txt_say_u64(l, v->live[k]);
        rmi_txt_say(l, "}}");
        rmi_vue_flush(l);
    }
    rmi_put(v->to, "\n]}\n");
}

/* --- the picture: lanes above, the arena below; lengths in hundredths of a pixel */
#define RMI_VUE_LEFT 8000u
#define RMI_VUE_WIDE 132000u
#define RMI_VUE_TALL 64000u
#define RMI_VUE_LANE 1800u
#define RMI_VUE_TOP 6400u

RMI_FN void rmi_vue_put_px(rmi_txt_pen *l, const char *before, uint64_t centi)
{
    rmi_txt_say(l, before);
    rmi_txt_say_ratio(l, centi, 100, 2);
}
RMI_FN uint64_t rmi_vue_x(const rmi_vue *v, uint64_t ns) { return RMI_VUE_LEFT + rmi_mul_div_up(ns - v->begin, RMI_VUE_WIDE, v->end > v->begin ? v->end - v->begin : 1); }

/* The opening of a rectangle, unless it is too thin to be seen. */
RMI_FN int rmi_vue_rect(rmi_txt_pen *l, uint64_t x, uint64_t x2, uint64_t y, uint64_t y2, char colour)
{
    char name[2] = {0, 0};
    if (x2 < x + 4 || y2 < y + 4) return 0;
    name[0] = colour;
    rmi_vue_put_px(l, "<rect x=\"", x);
    rmi_vue_put_px(l, "\" y=\"", y);
    rmi_vue_put_px(l, "\" width=\"", x2 - x);
    rmi_vue_put_px(l, "\" height=\"", y2 - y);
    rmi_txt_say(l, "\" class=\"");
    rmi_txt_say(l, name);
    if (x2 < x + 150 || y2 < y + 150) rmi_txt_say(l, " n"); /* a border would be all of it */
    rmi_txt_say(l, "\"><title>");
    rmi_vue_flush(l);
    return 1;
}

RMI_FN void rmi_vue_label(rmi_txt_pen *l, uint64_t x, uint64_t y, const char *more)
{
    rmi_vue_put_px(l, "<text x=\"", x);
    rmi_vue_put_px(l, "\" y=\"", y);
    rmi_txt_say(l, "\"");
    rmi_txt_say(l, more);
    rmi_txt_say(l, ">");
}
RMI_FN void rmi_vue_end_label(rmi_txt_pen *l)
{
    rmi_txt_say(l, "</text>\n");
    rmi_vue_flush(l);
}

/* A round number of units such that at most `most` of them fit into v: 1, 2 or 5 times a power of ten; of two for bytes. */
RMI_FN uint64_t rmi_vue_tick(uint64_t v, uint64_t most, int bytes)
{
    static const uint32_t up[] = {2, 5, 10};
    uint64_t unit = 1, tick = 1;
    uint32_t i = 0;
    while (v / tick > most) {
        tick = bytes ? tick * 2 : unit * up[i % 3];
        if (!bytes && i++ % 3 == 2) unit = tick;
    }
    return tick;
}

RMI_FN void rmi_vue_head(rmi_vue *v, rmi_txt_pen *l, uint64_t height)
{
    const rm_plan_info *f = &v->p->info[v->prog - v->p->prog];
    rmi_txt_say(l, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ");
    rmi_txt_say_u64(l, (RMI_VUE_LEFT + RMI_VUE_WIDE) / 100 + 20);
    rmi_txt_say(l, " ");
    rmi_txt_say_u64(l, height / 100);
    rmi_txt_say(l, "\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\n");
    rmi_vue_flush(l);
    rmi_put(v->to, "<style>rect{stroke:#fff;stroke-width:.3}.w{fill:#4d5a68}.s{fill:#7d8a97}.i{fill:#c9b458}.v{fill:#4c9f70}.a{fill:#e07a3f}.g{fill:#5b8fd9}.p{fill:#3559a8}"
                   ".k{fill:#9fd0b0}.t{fill:#c7c7c7}.c{fill:#8e6bbf}.x{fill:#f6f6f4;stroke:#bbb;stroke-width:.6}.n{stroke:none}.l{stroke:#bbb;stroke-width:.4}</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n");
    rmi_vue_label(l, RMI_VUE_LEFT, 2400, " font-size=\"16\" font-weight=\"bold\"");
    rmi_txt_say(l, "Step (");
    rmi_txt_say(l, rmi_low_step_name(f->step));
    rmi_txt_say(l, "): ");
    rmi_txt_say_bytes(l, f->arena_bytes);
    if (f->budget_bytes) {
        rmi_txt_say(l, " of a budget of ");
        rmi_txt_say_bytes(l, f->budget_bytes);
    }
    rmi_txt_say(l, " (keeping everything: ");
    rmi_txt_say_bytes(l, f->keep_all_bytes);
    rmi_txt_say(l, "), ");
    rmi_txt_say_ns(l, f->time_ns);
    rmi_txt_say(l, ", ");
    rmi_txt_say_over(l, f->time_ns, f->keep_all_ns);
    rmi_vue_end_label(l);
}

RMI_FN void rmi_vue_legend(rmi_txt_pen *l, uint64_t y)
{
    static const char *const words[] = {"forward, activation", "recomputed", "backward, gradient", "gradient of a weight", "weight, update", "optimizer state", "input, const", "saved for the backward", "workspace", "copy"};
    static const char colours[] = "vagpwsiktc";
    uint32_t i;
    uint64_t x = RMI_VUE_LEFT;
    for (i = 0; i < RMI_COUNT(words); i++) {
        rmi_vue_rect(l, x, x + 1200, y - 1000, y + 200, colours[i]);
        rmi_put(l->to, "</title></rect>");
        rmi_vue_label(l, x + 1700, y, "");
        rmi_txt_say(l, words[i]);
        rmi_vue_end_label(l);
        x += 3000 + 660 * strlen(words[i]);
    }
}

/* Lines and figures at round addresses and times. */
RMI_FN void rmi_vue_axes(rmi_vue *v, rmi_txt_pen *l, uint64_t y0, uint64_t arena)
{
    static const char *const units[] = {" bytes", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"};
    uint64_t tick = rmi_vue_tick(arena, 10, 1), at, y, ns = v->end - v->begin, unit = 1;
    uint32_t k = 0;
    for (; k + 1 < RMI_COUNT(units) && arena / unit >= 1024; k++) unit *= 1024;
    for (at = 0; at <= arena; at += tick) {
        y = y0 + RMI_VUE_TALL - rmi_mul_div_up(at, RMI_VUE_TALL, arena);
        rmi_vue_label(l, RMI_VUE_LEFT - 600, y + 400, " text-anchor=\"end\"");
        rmi_txt_say_ratio(l, at, unit, tick % unit ? 2 : 0);
        rmi_txt_say(l, units[k]);
        rmi_vue_end_label(l);
        rmi_vue_put_px(l, "<path class=\"l\" d=\"M", RMI_VUE_LEFT - 400);
        rmi_vue_put_px(l, " ", y);
        rmi_vue_put_px(l, "H", RMI_VUE_LEFT);
        rmi_txt_say(l, "\"/>\n");
        rmi_vue_flush(l);
    }
    tick = rmi_vue_tick(ns ? ns : 1, 12, 0);
    for (at = 0; at <= ns; at += tick) {
        rmi_vue_label(l, rmi_vue_x(v, v->begin + at), y0 + RMI_VUE_TALL + 1800, " text-anchor=\"middle\"");
        k = at < 10000000000u ? 1000000 : 1000000000; /* as rmi_txt_say_ns, but round numbers are not 200.00 */
        if (!at) rmi_txt_say(l, "0");
        else if (at % k) rmi_txt_say_ns(l, at);
        else {
            rmi_txt_say_u64(l, at / k);
            rmi_txt_say(l, k == 1000000 ? " ms" : " s");
        }
        rmi_vue_end_label(l);
    }
}

RMI_FN void rmi_vue_lane_rects(rmi_vue *v, rmi_txt_pen *l, const uint64_t *lane_y)
{
    static const char colours[] = "vagwcs";
    size_t i;
    for (i = 0; i < 2 * v->prog->n; i++) {
        const rmi_span *x = &v->span[i];
        rmi_txt_pen name;
        uint32_t sort;
        if (!x->ran) continue;
        name.n = 0;
        sort = rmi_vue_event(v, &name, i / 2, (int)(i & 1));
        name.text[name.n] = 0;
        if (!rmi_vue_rect(l, rmi_vue_x(v, x->start), rmi_vue_x(v, x->end), lane_y[x->lane], lane_y[x->lane] + RMI_VUE_LANE - 300, colours[sort])) continue;
        rmi_txt_say(l, name.text);
        rmi_vue_flush(l);
        rmi_txt_say(l, sort == 1 ? " again, " : ", ");
        rmi_txt_say_ns(l, x->end - x->start);
        rmi_txt_say(l, "</title></rect>\n");
        rmi_vue_flush(l);
    }
}

/* One piece, with its name in it if there is room. */
RMI_FN void rmi_vue_draw(const rmi_vue *v, rmi_txt_pen *l, const rmi_vue_piece *p, uint64_t y0, uint64_t arena)
{
    static const char colours[] = "wsivagpkt"; /* rmi_vue_colour */
    uint64_t x = rmi_vue_x(v, p->start), x2 = rmi_vue_x(v, p->end), floor = y0 + RMI_VUE_TALL;
    uint64_t y = floor - rmi_mul_div_up(p->off + p->bytes, RMI_VUE_TALL, arena), y2 = floor - rmi_mul_div_up(p->off, RMI_VUE_TALL, arena);
    char name[300];
    rmi_sch_name(v->g, p->buf, name);
    if (!rmi_vue_rect(l, x, x2, y, y2, colours[p->colour])) return;
    rmi_txt_say(l, name);
    rmi_vue_flush(l);
    rmi_txt_say(l, ", ");
    rmi_txt_say_bytes(l, p->bytes);
    rmi_txt_say(l, "</title></rect>\n");
    rmi_vue_flush(l);
    if (y2 - y < 1300 || x2 - x < 640 * (strlen(name) + 1)) return;
    rmi_vue_label(l, x + 400, (y + y2) / 2 + 350, " font-size=\"10\" fill=\"#fff\" pointer-events=\"none\"");
    rmi_txt_say(l, name);
    rmi_vue_end_label(l);
}

RMI_FN void rmi_vue_svg(rmi_vue *v, rmi_txt_pen *l)
{
    uint64_t lane_y[RMI_LANES], y0 = RMI_VUE_TOP, arena = v->prog->arena ? v->prog->arena : 1;
    uint32_t k;
    for (k = 0; k < RMI_LANES; k++) {
        lane_y[k] = y0;
        if (v->prog->fig.busy[k]) y0 += RMI_VUE_LANE;
    }
    y0 += 800;
    rmi_vue_head(v, l, y0 + RMI_VUE_TALL + 3000);
    rmi_vue_legend(l, 4800);
    for (k = 0; k < RMI_LANES; k++) {
        static const char *const names[] = {"compute", "to device", "to host", "host", "reduce"};
        if (!v->prog->fig.busy[k]) continue;
        rmi_vue_label(l, RMI_VUE_LEFT - 600, lane_y[k] + 1200, " text-anchor=\"end\"");
        rmi_txt_say(l, names[k]);
        rmi_vue_end_label(l);
    }
    rmi_vue_lane_rects(v, l, lane_y);
    rmi_vue_rect(l, RMI_VUE_LEFT, RMI_VUE_LEFT + RMI_VUE_WIDE, y0, y0 + RMI_VUE_TALL, 'x');
    rmi_put(v->to, "free</title></rect>\n");
    for (k = 0; k < v->n_pieces; k++) {
        const rmi_vue_piece *x = &v->piece[k];
        if (x->drawn < x->to && x->off + x->bytes <= arena) rmi_vue_draw(v, l, x, y0, arena);
    }
    rmi_vue_axes(v, l, y0, arena);
    rmi_put(v->to, "</svg>\n");
}

/* --- why a tensor is where it is */

/* Is the buffer on the device during run r? */
RMI_FN int rmi_vue_there(const rmi_vue *v, uint32_t buf, uint32_t r)
{
    uint32_t k = v->latest[buf];
    for (; k != RMI_NONE; k = v->piece[k].prev)
        if (v->before[v->piece[k].from] <= r && r < v->before[v->piece[k].to]) return 1;
    return !rmi_low_bytes(v->g, buf) || rmi_low_external(v->g, buf);
}

/* What making t again just before run r would take: its op, and those of inputs that are not there. RMI_INF: it cannot be. */
RMI_FN rm_result rmi_vue_remake(const rmi_vue *v, uint32_t t, uint32_t r, uint64_t *ns, uint32_t *ops)
{
    const rm_graph *g = v->g;
    rmi_arena tmp = rmi_arena_make(&v->mem.hooks);
    uint8_t *seen = RMI_NEW(&tmp, uint8_t, g->n_ops);
    uint32_t *stack = RMI_NEW(&tmp, uint32_t, g->n_ops), n = 0, k;
    *ns = *ops = 0;
    if (seen && stack) {
        seen[g->tensors[t].maker] = 1;
        stack[n++] = g->tensors[t].maker;
    }
    while (n) {
        const rmi_op *op = &g->ops[stack[--n]];
        if (op->pinned) *ns = RMI_INF;
        *ns = rmi_add(*ns, op->view != RMI_NONE ? 0 : op->forms[0].again);
        (*ops)++;
        for (k = 0; k < op->in.n; k++) {
            uint32_t in = op->in.at[k], maker = g->tensors[in].maker;
            if (rmi_vue_there(v, in, r)) continue;
            if (maker == RMI_NONE) *ns = RMI_INF; /* an input whose bytes are used for other things, a weight elsewhere */
            else if (!seen[maker]) seen[maker] = 1, stack[n++] = maker;
        }
    }
    n = seen && stack;
    rmi_arena_free(&tmp);
    return n ? RM_OK : RM_ERROR_MEMORY;
}

RMI_FN void rmi_vue_say_run(const rmi_vue *v, rmi_txt_pen *l, uint32_t r)
{
    rmi_txt_say_u64(l, r + 1);
    rmi_txt_say(l, " (");
    rmi_vue_run_name(l, v->g, v->prog->st[v->run_at[r]].run);
    rmi_txt_say(l, v->again[v->run_at[r]] ? ", again)" : ")");
}

/* Who else is on the device during run r, the largest first. */
RMI_FN void rmi_vue_others(const rmi_vue *v, rmi_txt_pen *l, uint32_t buf, uint32_t r)
{
    uint64_t last = RMI_INF, rest = 0, best;
    uint32_t shown, last_k = RMI_NONE, pick = RMI_NONE, k, n = 0;
    rmi_txt_say(l, "    beside it");
    for (shown = 0;; shown++) {
        for (k = 0, best = 0, pick = RMI_NONE, rest = n = 0; k < v->n_pieces; k++) {
            const rmi_vue_piece *x = &v->piece[k];
            if (x->buf == buf || x->drawn >= x->to || v->before[x->drawn] > r || r >= v->before[x->to]) continue;
            if (last_k != RMI_NONE && (x->bytes > last || (x->bytes == last && k <= last_k))) continue;
            n++;
            rest += x->bytes;
            if (pick == RMI_NONE || x->bytes > best) pick = k, best = x->bytes;
        }
        if (pick == RMI_NONE || shown == 4) break;
        rmi_txt_say(l, shown ? ", " : ": ");
        rmi_vue_buffer_name(l, v->g, v->piece[pick].buf);
        rmi_txt_say(l, " ");
        rmi_txt_say_bytes(l, best);
        last = best;
        last_k = pick;
    }
    if (n) {
        rmi_txt_say(l, ", and ");
        rmi_txt_say_u64(l, n);
        rmi_txt_say(l, " more with ");
        rmi_txt_say_bytes(l, rest);
    }
    if (!n && !shown) rmi_txt_say(l, " nothing");
    rmi_txt_end_line(l);
}

/* ns for bytes, as a price. */
RMI_FN void rmi_vue_price(rmi_txt_pen *l, uint64_t ns, uint64_t bytes)
{
    uint64_t mib = rmi_mul_div_up(ns, (uint64_t)1 << 20, bytes ? bytes : 1);
    rmi_txt_say(l, " (");
    rmi_txt_say_ns(l, mib < 1000 ? rmi_mul_div_up(ns, (uint64_t)1 << 30, bytes ? bytes : 1) : mib);
    rmi_txt_say(l, mib < 1000 ? " for each GiB)" : " for each MiB)");
}

/* Stays on the device, the oldest first. */
RMI_FN void rmi_vue_stays(const rmi_vue *v, rmi_txt_pen *l, uint32_t buf)
{
    uint32_t k, n = 0;
    for (k = 0; k < v->n_pieces; k++) {
        const rmi_vue_piece *x = &v->piece[k];
        uint32_t a = v->before[x->from], b = v->before[x->to];
        if (x->buf != buf || a >= b) continue;
        if (n++ == 8) {
            rmi_txt_say(l, "    and more often");
            rmi_txt_end_line(l);
            break;
        }
        rmi_txt_say(l, n == 1 ? "  on the device from run " : "           again from run ");
        rmi_vue_say_run(v, l, a);
        rmi_txt_say(l, " to ");
        rmi_vue_say_run(v, l, b - 1);
        if (x->drawn > x->from) rmi_txt_say(l, ", in bytes of another name");
        rmi_txt_end_line(l);
    }
    if (!n) rmi_txt_say(l, "  never on the device"), rmi_txt_end_line(l);
}

/* What is done to have it more than once: repeated runs, copies. */
RMI_FN void rmi_vue_work(const rmi_vue *v, rmi_txt_pen *l, uint32_t t)
{
    const rmi_program *p = v->prog;
    uint32_t again = 0, out = 0, back = 0;
    uint64_t ns = 0, copy_ns = 0, step = p->fig.time_ns ? p->fig.time_ns : 1;
    size_t i;
    for (i = 0; i < p->n; i++) {
        const rmi_stmt *st = &p->st[i];
        uint64_t took = v->span[2 * i].ran ? v->span[2 * i].end - v->span[2 * i].start : 0;
        if (v->again[i] && st->run.id == v->g->tensors[t].maker) again++, ns += took;
        if ((st->what == RMI_OFFLOAD || st->what == RMI_PREFETCH) && st->buf == t) copy_ns += took;
        out += st->what == RMI_OFFLOAD && st->buf == t;
        back += st->what == RMI_PREFETCH && st->buf == t;
    }
    if (again) {
        rmi_txt_say(l, "  recomputed ");
        rmi_txt_say_u64(l, again);
        rmi_txt_say(l, again == 1 ? " time: " : " times: ");
        rmi_txt_say_ns(l, ns);
        rmi_txt_say(l, " of its own op, ");
        rmi_txt_say_ratio(l, rmi_mul(ns, 100), step, 2);
        rmi_txt_say(l, " % of the step");
        rmi_txt_end_line(l);
    }
    if (out || back) {
        rmi_txt_say(l, "  copied to host memory ");
        rmi_txt_say_u64(l, out);
        rmi_txt_say(l, " and back ");
        rmi_txt_say_u64(l, back);
        rmi_txt_say(l, " times: ");
        rmi_txt_say_ns(l, copy_ns);
        rmi_txt_say(l, " on the copy lanes");
        rmi_txt_end_line(l);
    }
    if (!again && !out && !back && v->g->tensors[t].kind == RMI_ACT) rmi_txt_say(l, "  made once, never recomputed or copied"), rmi_txt_end_line(l);
}

/* The longest time that it is kept, [lo, hi) between two runs that use it, or (absent) that it is away between two stays. */
RMI_FN rm_result rmi_vue_gap(rmi_vue *v, uint32_t t, int absent, uint32_t *lo, uint32_t *hi)
{
    rmi_access a;
    uint32_t r, k, last = RMI_NONE;
    *lo = *hi = 0;
    RMI_TRY(rmi_low_access_make(v->g, &v->mem, &a));
    for (r = 0; r < v->n_runs; r++) {
        int used = 0, there;
        if (absent) used = rmi_vue_there(v, t, r);
        else {
            rmi_low_access(v->g, v->prog->st[v->run_at[r]].run, v->again[v->run_at[r]], &a);
            for (k = 0; k < a.n_reads; k++) used |= a.reads[k] == t;
            for (k = 0; k < a.n_writes; k++) used |= a.writes[k] == t;
        }
        there = absent || rmi_vue_there(v, t, r);
        if (!there) last = RMI_NONE;
        if (!used || !there) continue;
        if (last != RMI_NONE && r - last - 1 > *hi - *lo) *lo = last + 1, *hi = r;
        last = r;
    }
    return RM_OK;
}

RMI_FN uint32_t rmi_vue_fullest(const rmi_vue *v, uint32_t lo, uint32_t hi)
{
    uint32_t r, best = lo;
    for (r = lo; r < hi; r++)
        if (v->live[r] > v->live[best]) best = r;
    return best;
}

/* "at run 7 (bwd x), the fullest moment then, 3.1 MiB of a budget of 4.0 MiB are live" */
RMI_FN void rmi_vue_say_moment(const rmi_vue *v, rmi_txt_pen *l, uint32_t r)
{
    const rm_plan_info *f = &v->p->info[v->prog - v->p->prog];
    rmi_txt_say(l, "run ");
    rmi_vue_say_run(v, l, r);
    rmi_txt_say(l, ": ");
    rmi_txt_say_bytes(l, v->live[r]);
    rmi_txt_say(l, " live of ");
    rmi_txt_say(l, f->budget_bytes ? "a budget of " : "an arena of ");
    rmi_txt_say_bytes(l, f->budget_bytes ? f->budget_bytes : f->arena_bytes);
}

/* Would it pay to let go of it while nobody uses it? Was it worth letting go? */
RMI_FN rm_result rmi_vue_choices(rmi_vue *v, rmi_txt_pen *l, uint32_t t)
{
    const rm_plan_info *f = &v->p->info[v->prog - v->p->prog];
    uint64_t ns, bytes = v->g->tensors[t].bytes, most = f->budget_bytes ? f->budget_bytes : f->arena_bytes;
    uint32_t lo, hi, r, ops;
    RMI_TRY(rmi_vue_gap(v, t, 0, &lo, &hi));
    if (lo < hi) {
        r = rmi_vue_fullest(v, lo, hi);
        rmi_txt_say(l, "  kept unused for ");
        rmi_txt_say_u64(l, hi - lo);
        rmi_txt_say(l, " runs; the fullest of them, ");
        rmi_vue_say_moment(v, l, r);
        rmi_txt_end_line(l);
        rmi_vue_others(v, l, t, r);
        RMI_TRY(rmi_vue_remake(v, t, hi, &ns, &ops));
        rmi_txt_say(l, "    without it there would be ");
        rmi_txt_say_bytes(l, bytes);
        rmi_txt_say(l, " more then");
        if (ns == RMI_INF) rmi_txt_say(l, "; but nothing could make it again");
        else {
            rmi_txt_say(l, ", and before run ");
            rmi_txt_say_u64(l, hi + 1);
            rmi_txt_say(l, ops == 1 ? " its op would run again: " : " it and what it needs would be made again: ");
            rmi_txt_say_ns(l, ns);
            rmi_vue_price(l, ns, bytes);
        }
        rmi_txt_end_line(l);
    }
    RMI_TRY(rmi_vue_gap(v, t, 1, &lo, &hi));
    if (lo >= hi) return RM_OK;
    r = rmi_vue_fullest(v, lo, hi);
    rmi_txt_say(l, "  away for ");
    rmi_txt_say_u64(l, hi - lo);
    rmi_txt_say(l, " runs; the fullest of them, ");
    rmi_vue_say_moment(v, l, r);
    rmi_txt_end_line(l);
    rmi_txt_say(l, "    kept, it would ");
    if (v->live[r] + bytes > most) {
        rmi_txt_say(l, "take ");
        rmi_txt_say_bytes(l, v->live[r] + bytes - most);
        rmi_txt_say(l, " more than there are then");
    } else rmi_txt_say(l, "fit by the sum of bytes: addresses, or a plan better as a whole, spoke against it");
    rmi_txt_end_line(l);
    return RM_OK;
}

/* The price of memory in this plan as a whole: the next point of the curve. */
RMI_FN void rmi_vue_worth(const rmi_vue *v, rmi_txt_pen *l)
{
    const rm_plan *p = v->p;
    const rm_plan_info *f = &p->info[0];
    uint64_t have = f->budget_bytes ? f->budget_bytes : f->arena_bytes;
    size_t i = 0;
    rmi_txt_say(l, "  a byte more: ");
    while (i < p->n_curve && p->curve[i].bytes <= have) i++;
    if (!p->n_curve) rmi_txt_say(l, "not known, this preset has no curve");
    else if (i == p->n_curve || f->time_ns <= p->curve[p->n_curve - 1].ns) rmi_txt_say(l, "worth nothing; no plan on the curve is faster");
    else {
        while (i + 1 < p->n_curve && p->curve[i].ns >= f->time_ns) i++;
        rmi_txt_say(l, "the next faster plan on the curve takes ");
        rmi_txt_say_bytes(l, p->curve[i].bytes - have);
        rmi_txt_say(l, " above ");
        rmi_txt_say(l, f->budget_bytes ? "the budget" : "the arena");
        rmi_txt_say(l, " and saves ");
        rmi_txt_say_ns(l, rmi_sub(f->time_ns, p->curve[i].ns));
        rmi_vue_price(l, rmi_sub(f->time_ns, p->curve[i].ns), p->curve[i].bytes - have);
        if (f->host_bytes) rmi_txt_say(l, "; that curve moves nothing to host memory");
    }
    rmi_txt_end_line(l);
}

RMI_FN rm_result rmi_vue_explain(rmi_vue *v, rmi_txt_pen *l, uint32_t t)
{
    static const char *const kinds[] = {"an input", "a weight", "a const", "an activation"};
    const rm_graph *g = v->g;
    const rmi_tensor *x = &g->tensors[t];
    rmi_txt_say(l, x->name);
    rmi_txt_say(l, ": ");
    rmi_txt_say(l, kinds[x->kind]);
    rmi_txt_say(l, " of ");
    rmi_txt_say_bytes(l, x->bytes);
    if (x->maker != RMI_NONE) {
        rmi_txt_say(l, x->root != t ? ", other name of bytes of " : ", made by op ");
        rmi_txt_say(l, x->root != t ? g->tensors[x->root].name : g->ops[x->maker].name);
    }
    rmi_txt_say(l, "; the step has ");
    rmi_txt_say_u64(l, v->n_runs);
    rmi_txt_say(l, " runs");
    rmi_txt_end_line(l);
    if (rmi_low_external(g, t) || !x->bytes) {
        rmi_txt_say(l, x->bytes ? "  the caller's memory: no plan moves it" : "  of no bytes: nothing to plan");
        rmi_txt_end_line(l);
        return RM_OK;
    }
    rmi_vue_stays(v, l, t);
    rmi_vue_work(v, l, t);
    if (x->kind == RMI_ACT) RMI_TRY(rmi_vue_choices(v, l, t));
    rmi_vue_worth(v, l);
    return RM_OK;
}

/* what: 0 an explanation of tensor t, 1 a trace, 2 a picture. */
RMI_FN rm_result rmi_vue_look(const rm_plan *p, uint32_t index, rmi_sink *to, int what, uint32_t t, const char *name)
{
    rmi_vue v;
    rmi_txt_pen l;
    rmi_program copy = p->prog[index];
    rm_result r;
    memset(&v, 0, sizeof v);
    v.p = p;
    v.g = p->g;
    v.prog = &p->prog[index];
    v.mem = rmi_arena_make(&p->g->mem.hooks);
    v.to = l.to = to;
    l.n = 0;
    v.span = RMI_NEW(&v.mem, rmi_span, 2 * copy.n + 2);
    r = v.span ? rmi_sch_replay(p->g, &copy, &p->g->last, NULL, v.span) : RM_ERROR_MEMORY;
    if (r == RM_OK) r = rmi_vue_pieces(&v);
    if (r == RM_OK) r = rmi_vue_times(&v);
    if (r == RM_OK && what == 0) r = rmi_vue_explain(&v, &l, t);
    if (r == RM_OK && what == 1) rmi_vue_trace(&v, &l);
    if (r == RM_OK && what == 2) rmi_vue_svg(&v, &l);
    rmi_arena_free(&v.mem);
    if (r == RM_ERROR_MEMORY) return rmi_err_memory(&p->g->last);
    return to->failed ? rmi_err_set(&p->g->last, RM_ERROR_WRITE, "%s: the sink returned nonzero", name) : r;
}

/* =====================================================================================================================
   >>threads - the lanes of the host backend as threads
   Compiled if ROCKMATE_THREADS is defined; needs POSIX threads (no library of their own from glibc 2.34 on) or Windows. The compute
   lane is the thread that calls; the others take commands from rings that are made once. An event is a place in a lane: so many
   commands are done. One lock and one condition serve all: there are few commands, and they are long.
   ================================================================================================================== */
#if defined(ROCKMATE_THREADS)
#if defined(_WIN32)
#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <windows.h>
typedef CRITICAL_SECTION rmi_thr_lock;
typedef CONDITION_VARIABLE rmi_thr_cond;
typedef HANDLE rmi_thr_id;
#define RMI_THR_MAIN(name) static DWORD WINAPI name(LPVOID arg)
#define RMI_THR_END 0
RMI_FN int rmi_thr_open(rmi_thr_lock *l, rmi_thr_cond *c)
{
    InitializeCriticalSection(l);
    InitializeConditionVariable(c);
    return 1;
}
RMI_FN void rmi_thr_close(rmi_thr_lock *l, rmi_thr_cond *c)
{
    (void)c;
    DeleteCriticalSection(l);
}
RMI_FN void rmi_thr_enter(rmi_thr_lock *l) { EnterCriticalSection(l); }
RMI_FN void rmi_thr_leave(rmi_thr_lock *l) { LeaveCriticalSection(l); }
RMI_FN void rmi_thr_sleep(rmi_thr_cond *c, rmi_thr_lock *l) { SleepConditionVariableCS(c, l, INFINITE); }
RMI_FN void rmi_thr_wake(rmi_thr_cond *c) { WakeAllConditionVariable(c); }
RMI_FN int rmi_thr_start(rmi_thr_id *t, DWORD(WINAPI *fn)(LPVOID), void *arg) { return (*t = CreateThread(NULL, 0, fn, arg, 0, NULL)) != NULL; }
RMI_FN void rmi_thr_join(rmi_thr_id t)
{
    WaitForSingleObject(t, INFINITE);
    CloseHandle(t);
}
RMI_FN uint64_t rmi_thr_now(void) /* ns */
{
    LARGE_INTEGER n, per_s;
    QueryPerformanceCounter(&n);
    QueryPerformanceFrequency(&per_s);
    return rmi_mul_div_up((uint64_t)n.QuadPart, 1000000000u, (uint64_t)per_s.QuadPart);
}
RMI_FN void rmi_thr_pause(uint64_t ns)
{
    uint64_t end = rmi_thr_now() + ns;
    if (ns > 2000000u) Sleep((DWORD)(ns / 1000000u - 1));
    while (rmi_thr_now() < end) SwitchToThread();
}
#else
#include <pthread.h>
#include <sys/time.h>
typedef pthread_mutex_t rmi_thr_lock;
typedef pthread_cond_t rmi_thr_cond;
typedef pthread_t rmi_thr_id;
#define RMI_THR_MAIN(name) static void *name(void *arg)
#define RMI_THR_END NULL
RMI_FN int rmi_thr_open(rmi_thr_lock *l, rmi_thr_cond *c)
{
    if (pthread_mutex_init(l, NULL)) return 0;
    if (!pthread_cond_init(c, NULL)) return 1;
    pthread_mutex_destroy(l);
    return 0;
}
RMI_FN void rmi_thr_close(rmi_thr_lock *l, rmi_thr_cond *c)
{
    pthread_cond_destroy(c);
    pthread_mutex_destroy(l);
}
RMI_FN void rmi_thr_enter(rmi_thr_lock *l) { pthread_mutex_lock(l); }
RMI_FN void rmi_thr_leave(rmi_thr_lock *l) { pthread_mutex_unlock(l); }
RMI_FN void rmi_thr_sleep(rmi_thr_cond *c, rmi_thr_lock *l) { pthread_cond_wait(c, l); }
RMI_FN void rmi_thr_wake(rmi_thr_cond *c) { pthread_cond_broadcast(c); }
RMI_FN int rmi_thr_start(rmi_thr_id *t, void *(*fn)(void *), void *arg) { return !pthread_create(t, NULL, fn, arg); }
RMI_FN void rmi_thr_join(rmi_thr_id t) { pthread_join(t, NULL); }
RMI_FN uint64_t rmi_thr_now(void) /* ns */
{
    struct timeval t;
    gettimeofday(&t, NULL);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_usec * 1000u;
}
/* A wait for what nobody signals: sleeping that C99 headers know without further macros. */
RMI_FN void rmi_thr_pause(uint64_t ns)
{
    rmi_thr_lock l;
    rmi_thr_cond c;
    uint64_t end = rmi_thr_now() + ns;
    struct timespec until;
    if (!rmi_thr_open(&l, &c)) return;
    until.tv_sec = (time_t)(end / 1000000000u);
    until.tv_nsec = (long)(end % 1000000000u);
    pthread_mutex_lock(&l);
    while (pthread_cond_timedwait(&c, &l, &until) == 0) {} /* woken for no reason */
    pthread_mutex_unlock(&l);
    rmi_thr_close(&l, &c);
}
#endif

typedef struct rmi_thr_cmd { /* a copy, a call, or a wait until on_lane has done `on` */
    int (*fn)(void *arg);
    void *arg, *dst;
    const void *src;
    uint64_t bytes, on;
    uint32_t on_lane;
} rmi_thr_cmd;

typedef struct rmi_thr_lane {
    struct rmi_thr *all;
    rmi_thr_cmd *ring;
    uint64_t cap, put, done;
    uint64_t rate, latency_ns, free_at; /* of copies; rate 0: no limit */
    rmi_thr_id id;
    int runs;
} rmi_thr_lane;

typedef struct rmi_thr_event {
    uint64_t at;
    uint32_t lane;
} rmi_thr_event;

typedef struct rmi_thr {
    rmi_arena mem, rings; /* this object; what rmi_thr_reserve makes */
    rmi_thr_lock lock;
    rmi_thr_cond cond;
    rmi_thr_lane lane[RMI_LANES];
    rmi_thr_event *event; /* the caller's */
    int code, quit;       /* the first failure of a call that nobody was told of */
} rmi_thr;

RMI_FN int rmi_thr_do(rmi_thr_lane *l, const rmi_thr_cmd *c)
{
    uint64_t now;
    if (c->fn) return c->fn(c->arg);
    if (!c->dst) return 0;
    now = l->rate ? rmi_thr_now() : 0;
    memmove(c->dst, c->src, (size_t)c->bytes);
    if (!l->rate) return 0;
    l->free_at = rmi_add(rmi_max(now, l->free_at), rmi_add(l->latency_ns, rmi_mul_div_up(c->bytes, 1000000000u, l->rate)));
    now = rmi_thr_now();
    if (l->free_at > now) rmi_thr_pause(l->free_at - now);
    return 0;
}

RMI_THR_MAIN(rmi_thr_main)
{
    rmi_thr_lane *l = (rmi_thr_lane *)arg;
    rmi_thr *t = l->all;
    rmi_thr_enter(&t->lock);
    for (;;) {
        rmi_thr_cmd c;
        int code;
        while (l->put == l->done && !t->quit) rmi_thr_sleep(&t->cond, &t->lock);
        if (l->put == l->done) break;
        c = l->ring[l->done % l->cap];
        while (t->lane[c.on_lane].done < c.on) rmi_thr_sleep(&t->cond, &t->lock);
        rmi_thr_leave(&t->lock);
        code = rmi_thr_do(l, &c);
        rmi_thr_enter(&t->lock);
        if (code && !t->code) t->code = code;
        l->done++;
        rmi_thr_wake(&t->cond);
    }
    rmi_thr_leave(&t->lock);
    return RMI_THR_END;
}

RMI_FN int rmi_thr_put(rmi_thr *t, uint32_t lane, const rmi_thr_cmd *c)
{
    rmi_thr_lane *l = &t->lane[lane];
    int code;
    rmi_thr_enter(&t->lock);
    code = l->put - l->done < l->cap ? t->code : -1;
    if (!code) l->ring[l->put++ % l->cap] = *c;
    rmi_thr_wake(&t->cond);
    rmi_thr_leave(&t->lock);
    return code;
}

RMI_FN int rmi_thr_copy(rmi_thr *t, void *dst, const void *src, uint64_t bytes, uint32_t lane)
{
    rmi_thr_cmd c;
    if (lane == RM_LANE_COMPUTE || !t->lane[lane].runs) { /* of a lane that no program uses: the caller reads or writes, and nothing is at work */
        memmove(dst, src, (size_t)bytes);
        return 0;
    }
    memset(&c, 0, sizeof c);
    c.dst = dst;
    c.src = src;
    c.bytes = bytes;
    return rmi_thr_put(t, lane, &c);
}

RMI_FN int rmi_thr_call(rmi_thr *t, uint32_t lane, int (*fn)(void *arg), void *arg)
{
    rmi_thr_cmd c;
    if (lane == RM_LANE_COMPUTE) return fn(arg);
    memset((void *)&c, 0, sizeof c);
    c.fn = fn;
    c.arg = arg;
    return rmi_thr_put(t, lane, &c);
}

RMI_FN int rmi_thr_record(rmi_thr *t, uint32_t event, uint32_t lane)
{
    rmi_thr_enter(&t->lock);
    if (lane == RM_LANE_COMPUTE) t->lane[lane].put = ++t->lane[lane].done;
    t->event[event].lane = lane;
    t->event[event].at = t->lane[lane].put;
    if (lane == RM_LANE_COMPUTE) rmi_thr_wake(&t->cond);
    rmi_thr_leave(&t->lock);
    return 0;
}

RMI_FN int rmi_thr_wait(rmi_thr *t, uint32_t event, uint32_t lane)
{
    rmi_thr_event e = t->event[event];
    rmi_thr_cmd c;
    int code;
    if (lane != RM_LANE_COMPUTE && lane != RM_LANE_CALLER) {
        memset((void *)&c, 0, sizeof c);
        c.on = e.at;
        c.on_lane = e.lane;
        return rmi_thr_put(t, lane, &c);
    }
    rmi_thr_enter(&t->lock);
    while (t->lane[e.lane].done < e.at) rmi_thr_sleep(&t->cond, &t->lock);
    code = t->code;
    rmi_thr_leave(&t->lock);
    return code;
}

RMI_FN int rmi_thr_sync(rmi_thr *t)
{
    uint32_t lane;
    int code;
    rmi_thr_enter(&t->lock);
    for (lane = 0; lane < RMI_LANES; lane++)
        while (t->lane[lane].done < t->lane[lane].put) rmi_thr_sleep(&t->cond, &t->lock);
    code = t->code;
    t->code = 0;
    rmi_thr_leave(&t->lock);
    return code;
}

/* Rings and events; lanes of no calls get no thread. All lanes are idle. */
RMI_FN int rmi_thr_reserve(rmi_thr *t, uint32_t events, const uint32_t *calls)
{
    uint32_t i;
    int ok;
    rmi_thr_sync(t);
    rmi_thr_enter(&t->lock);
    rmi_arena_free(&t->rings);
    t->event = RMI_NEW(&t->rings, rmi_thr_event, events);
    ok = t->event != NULL;
    for (i = RM_LANE_COMPUTE + 1; i < RMI_LANES && ok; i++) {
        t->lane[i].put = t->lane[i].done = 0;
        t->lane[i].cap = calls[i];
        t->lane[i].ring = RMI_NEW(&t->rings, rmi_thr_cmd, calls[i]);
        ok = t->lane[i].ring != NULL;
    }
    rmi_thr_leave(&t->lock);
    for (i = RM_LANE_COMPUTE + 1; i < RMI_LANES && ok; i++) {
        t->lane[i].all = t;
        if (calls[i] && !t->lane[i].runs) ok = t->lane[i].runs = rmi_thr_start(&t->lane[i].id, rmi_thr_main, &t->lane[i]);
    }
    return !ok;
}

RMI_FN void rmi_thr_free(rmi_thr *t)
{
    rmi_arena mem;
    uint32_t i;
    if (!t) return;
    rmi_thr_enter(&t->lock);
    t->quit = 1;
    rmi_thr_wake(&t->cond);
    rmi_thr_leave(&t->lock);
    for (i = 0; i < RMI_LANES; i++)
        if (t->lane[i].runs) rmi_thr_join(t->lane[i].id);
    rmi_thr_close(&t->lock, &t->cond);
    rmi_arena_free(&t->rings);
    mem = t->mem;
    rmi_arena_free(&mem);
}

RMI_FN rmi_thr *rmi_thr_make(const rm_allocator *hooks, uint64_t h2d, uint64_t d2h, uint64_t latency_ns)
{
    rmi_arena mem = rmi_arena_make(hooks);
    rmi_thr *t = RMI_NEW(&mem, rmi_thr, 1);
    if (t && rmi_thr_open(&t->lock, &t->cond)) {
        t->mem = mem;
        t->rings = rmi_arena_make(hooks);
        t->lane[RM_LANE_H2D].rate = h2d;
        t->lane[RM_LANE_D2H].rate = d2h;
        t->lane[RM_LANE_H2D].latency_ns = t->lane[RM_LANE_D2H].latency_ns = latency_ns;
        return t;
    }
    rmi_arena_free(&mem);
    return NULL;
}
#endif

/* =====================================================================================================================
   >>exec - walks a plan through a backend; the host backend; profiling
   A program is compiled once into calls with all their pointers; a step is a walk over them that decides
   and allocates nothing. In: plan + memory + callbacks. Out: training steps.
   ================================================================================================================== */
/* INPUTS does nothing: it stands first where there are lanes, for the copies of the step's inputs, which came before. */
typedef enum rmi_exe_what { RMI_EXE_CALL, RMI_EXE_D2H, RMI_EXE_H2D, RMI_EXE_ADD, RMI_EXE_ZERO, RMI_EXE_POISON, RMI_EXE_INPUTS } rmi_exe_what;

typedef struct rmi_exe_op {
    uint8_t what, lane;
    rmi_run run;
    rm_fn fn;
    rm_call *call;         /* CALL */
    unsigned char *dst;    /* others */
    const unsigned char *src;
    uint64_t bytes;
    uint32_t buf;          /* of copies, ADD, POISON */
    uint32_t param;        /* ADD: the param; ZERO: which din of call */
    uint32_t event;        /* recorded behind it, or RMI_NONE */
    uint32_t first_wait, n_wait;
    struct rm_exec *x;     /* for the host's lanes, which get an op and nothing else */
} rmi_exe_op;

typedef struct rmi_exe_prog {
    uint32_t step;
    rmi_exe_op *op;
    size_t n;
    uint64_t *at_end;      /* by buffer: device offset after the step, or RMI_INF */
    uint64_t *host_end;    /* the same in host memory */
    uint32_t lanes;        /* bits: those that it uses */
    uint32_t *wait;        /* events that its ops wait for */
    rmi_lan_wait *after[RM_STEP_KINDS]; /* by program before: further waits; `on` is an event */
    size_t n_after[RM_STEP_KINDS];
} rmi_exe_prog;

typedef struct rmi_exe_turn { /* a lane in which the host works: it may be a step behind, and reads the values of its own step */
    rm_step values[2];
    uint32_t in, out;      /* steps that used this lane: issued; begun in it */
    const rmi_exe_op *failed;
    int code;
} rmi_exe_turn;

/* Numbers of events: ends of the last two steps by lane, one for the caller, then those of the programs. */
#define RMI_EXE_EVENT_CALLER (2u * RMI_LANES)
#define RMI_EXE_DEVICE_STEP (RMI_MAX - 2) /* where rm_backend.device_step begins in the one line of all bytes, told with the inputs */
#define RMI_EXE_EVENTS (2u * RMI_LANES + 1u)

typedef struct rmi_exe_patch { /* a pointer of a call that leads to the caller's memory */
    const void **slot;
    uint32_t buf;
    uint64_t off;
} rmi_exe_patch;

struct rm_exec {
    rmi_arena mem;         /* this object */
    rmi_arena tables;      /* what depends on the plan */
    rm_plan *p;
    rm_graph *g;
    rm_exec_desc d;
    rm_backend backend;
    rmi_error err;
    unsigned char *dev, *host;
    uint64_t dev_bytes, host_bytes;
    int own_dev, own_host;
    rmi_exe_prog prog[RM_STEP_KINDS];
    uint32_t n_prog;
    uint64_t *home;        /* by buffer: device offset of what persists, or RMI_INF */
    uint64_t *host_home;   /* the same in host memory; what has both homes is the same in both between steps */
    void **bound;          /* by buffer: the caller's memory */
    uint8_t *stale;        /* by tensor: an input that a step has used up */
    rmi_exe_patch *patches;
    size_t n_patches, cap_patches;
    rm_step now;           /* what callbacks see as c->step */
    const rmi_exe_prog *last; /* the program that finished last, or NULL */
    int adding;               /* an accumulation is under way: gradients of params hold contributions that LAST will want */
    int adrift;               /* a step that does not accumulate has used the bytes where params' gradients persist */
    int used_up;              /* no MIDDLE or LAST may add to these gradients: an update has had them, or a step failed among them */
    uint64_t touched, steps;
    int lanes;             /* the backend has lanes: what follows counts */
    rmi_exe_turn turn[RMI_LANES];
    const rmi_exe_prog *before; /* the last step, if its lanes may be at work and nobody has waited for them; else NULL */
    uint32_t joined;       /* 1: the first op of programs has bytes, of inputs or of the values of a step on the device */
    int inputs_open;       /* nothing of `before` is at work in the bytes of inputs, and they have been written */
    int rebound;           /* an address of the caller's memory has changed since programs were begun */
    uint32_t n_events, calls[RMI_LANES], most_calls, transfers;
#if defined(ROCKMATE_THREADS)
    rmi_thr *thr;          /* the host backend's lanes, or NULL */
#endif
    uint32_t ends[2];      /* by parity of the step: lanes whose end was recorded */
    uint32_t parity;
    int no_room;           /* there was none for a second arena beside this one */
    int code;              /* the backend's last failure */
    char failed[300];      /* the op or buffer at which issuing stopped */
};

/* --- the host backend */
RMI_FN int rmi_exe_host_alloc(void *user, uint64_t bytes, uint32_t host, void **out)
{
    rm_exec *x = (rm_exec *)user;
    uint64_t align = x->p->align > RMI_ALIGN ? x->p->align : RMI_ALIGN, size = rmi_add(bytes, align + sizeof(void *));
    unsigned char *raw, *p;
    (void)host;
    if (size > SIZE_MAX) return 1;
    raw = (unsigned char *)x->mem.hooks.alloc((size_t)size, x->mem.hooks.user);
    if (!raw) return 1;
    p = raw + sizeof(void *);
    p += (size_t)((align - (uint64_t)(uintptr_t)p % align) % align);
    memcpy(p - sizeof(void *), &raw, sizeof(void *)); /* for release */
    *out = p;
    return 0;
}
RMI_FN void rmi_exe_host_release(void *user, void *p, uint32_t host)
{
    rm_exec *x = (rm_exec *)user;
    void *raw;
    (void)host;
    memcpy(&raw, (unsigned char *)p - sizeof(void *), sizeof(void *));
    x->mem.hooks.free(raw, x->mem.hooks.user);
}
RMI_FN int rmi_exe_host_copy(void *user, void *dst, const void *src, uint64_t bytes, uint32_t lane)
{
    (void)user;
    (void)lane;
    memmove(dst, src, (size_t)bytes);
    return 0;
}
RMI_FN int rmi_exe_host_fill(void *user, void *dst, uint32_t byte, uint64_t bytes)
{
    (void)user;
    memset(dst, (int)byte, (size_t)bytes);
    return 0;
}
RMI_FN int rmi_exe_host_sync(void *user)
{
    (void)user;
    return 0;
}
/* A clock for profiling. */
RMI_FN uint64_t rmi_exe_host_now(void *user)
{
    (void)user;
    return rmi_now_ns();
}

#if defined(ROCKMATE_THREADS)
RMI_FN int rmi_exe_thr_copy(void *user, void *dst, const void *src, uint64_t bytes, uint32_t lane) { return rmi_thr_copy(((rm_exec *)user)->thr, dst, src, bytes, lane); }
RMI_FN int rmi_exe_thr_sync(void *user) { return rmi_thr_sync(((rm_exec *)user)->thr); }
RMI_FN int rmi_exe_thr_record(void *user, uint32_t event, uint32_t lane) { return rmi_thr_record(((rm_exec *)user)->thr, event, lane); }
RMI_FN int rmi_exe_thr_wait(void *user, uint32_t event, uint32_t lane) { return rmi_thr_wait(((rm_exec *)user)->thr, event, lane); }
RMI_FN int rmi_exe_thr_call(void *user, uint32_t lane, int (*fn)(void *arg), void *arg) { return rmi_thr_call(((rm_exec *)user)->thr, lane, fn, arg); }
RMI_FN int rmi_exe_thr_reserve(void *user, uint32_t events, uint32_t calls)
{
    (void)calls; /* by lane we know better */
    return rmi_thr_reserve(((rm_exec *)user)->thr, events, ((rm_exec *)user)->calls);
}
#endif

/* Lanes in threads, if they were asked for. */
RMI_FN rm_result rmi_exe_threads(rm_exec *x, rmi_error *err)
{
    if (!x->d.threads) return RM_OK;
#if defined(ROCKMATE_THREADS)
    x->thr = rmi_thr_make(&x->mem.hooks, x->d.h2d, x->d.d2h, x->d.latency_ns);
    if (!x->thr) return rmi_err_memory(err);
    x->lanes = 1;
    x->backend.copy = rmi_exe_thr_copy;
    x->backend.sync = rmi_exe_thr_sync;
    x->backend.record = rmi_exe_thr_record;
    x->backend.wait = rmi_exe_thr_wait;
    x->backend.host_call = rmi_exe_thr_call;
    x->backend.reserve = rmi_exe_thr_reserve;
    x->backend.call_lanes = 1u << RM_LANE_COMM;
    return RM_OK;
#else
    return rmi_err_set(err, RM_ERROR_ARGUMENT, "rm_exec_desc.threads: this implementation was compiled without threads; define ROCKMATE_THREADS before it");
#endif
}

/* --- compiling a program: where everything is when a run comes, and which pointers its callback gets */
typedef struct rmi_exe_build {
    rm_exec *x;
    const rmi_program *p;
    rmi_exe_prog *out;
    size_t cap;
    uint64_t *at, *size;   /* by buffer: device offset or RMI_INF; bytes of its stretch */
    uint64_t *host_at;
    uint32_t *holds;       /* by tensor: its gradient's buffer holds contributions */
    uint32_t *ran;         /* by op */
    uint32_t *left_by;
    uint8_t *moved;        /* by buffer: renamed or shared since its last write, so its next contribution is there already */
    uint32_t *moved_from;
    uint64_t *ext_off;     /* by buffer: offset of a view into the caller's memory */
    uint32_t *ext_of;      /* by buffer: the caller's buffer that a view lies in, or RMI_NONE */
    uint64_t *ext_base;    /* by buffer of the caller's: where its bytes begin in the one line of all bytes, arena and host memory first */
    rmi_lan_prog *uses;    /* which bytes ops use; NULL: there are no lanes */
    rmi_arena *uses_mem;
} rmi_exe_build;

RMI_FN rm_result rmi_exe_push(rmi_exe_build *b, rmi_exe_op **op)
{
    if (!rmi_arena_grow(&b->x->tables, (void **)&b->out->op, &b->cap, b->out->n + 1, sizeof(rmi_exe_op))) return RM_ERROR_MEMORY;
    *op = &b->out->op[b->out->n++];
    memset((void *)*op, 0, sizeof(rmi_exe_op));
    (*op)->x = b->x;
    (*op)->event = RMI_NONE;
    return RM_OK;
}

/* Bytes that an op uses; RMI_NONE: the op which this statement ends with. */
RMI_FN rm_result rmi_exe_uses(rmi_exe_build *b, size_t op, uint64_t at, uint64_t bytes, int write)
{
    return b->uses ? rmi_lan_touch(b->uses_mem, b->uses, at, bytes, (uint32_t)op, write) : RM_OK;
}
RMI_FN rm_result rmi_exe_uses_buf(rmi_exe_build *b, size_t op, uint32_t buf, uint64_t bytes, int write)
{
    uint32_t ext = rmi_low_external(b->x->g, buf) ? buf : b->ext_of[buf];
    if (ext != RMI_NONE) return rmi_exe_uses(b, op, b->ext_base[ext] + (ext == buf ? 0 : b->ext_off[buf]), bytes, write);
    return b->at[buf] == RMI_INF ? RM_OK : rmi_exe_uses(b, op, b->at[buf], bytes, write);
}
RMI_FN rm_result rmi_exe_uses_host(rmi_exe_build *b, size_t op, uint64_t at, uint64_t bytes, int write)
{
    return at == RMI_INF ? RM_OK : rmi_exe_uses(b, op, b->x->dev_bytes + at, bytes, write);
}

/* Puts the address of buffer buf into *slot: in the arena now, or the caller's memory once it is bound. */
RMI_FN rm_result rmi_exe_point(rmi_exe_build *b, uint32_t buf, uint64_t bytes, int write, const void **slot)
{
    rm_exec *x = b->x;
    uint32_t ext = rmi_low_external(x->g, buf) ? buf : b->ext_of[buf];
    RMI_TRY(rmi_exe_uses_buf(b, RMI_NONE, buf, bytes, write));
    if (ext != RMI_NONE && rmi_low_bytes(x->g, ext)) { /* of nothing, nothing need be bound */
        rmi_exe_patch *p;
        if (!rmi_arena_grow(&x->tables, (void **)&x->patches, &x->cap_patches, x->n_patches + 1, sizeof(rmi_exe_patch))) return RM_ERROR_MEMORY;
        p = &x->patches[x->n_patches++];
        p->slot = slot;
        p->buf = ext;
        p->off = ext == buf ? 0 : b->ext_off[buf];
        *slot = NULL;
        return RM_OK;
    }
    *slot = x->dev + (size_t)(b->at[buf] == RMI_INF ? 0 : b->at[buf]);
    return RM_OK;
}

RMI_FN rm_result rmi_exe_poison(rmi_exe_build *b, uint64_t at, uint64_t bytes)
{
    rmi_exe_op *op;
    if (!b->x->d.poison || !bytes) return RM_OK;
    RMI_TRY(rmi_exe_push(b, &op));
    op->what = RMI_EXE_POISON;
    op->dst = b->x->dev + (size_t)at;
    op->bytes = bytes;
    return rmi_exe_uses(b, b->out->n - 1, at, bytes, 1);
}

/* The parts of a call that do not depend on its phase. */
RMI_FN rm_result rmi_exe_call(rmi_exe_build *b, rmi_run r, rmi_exe_op *op, rm_call **out)
{
    rm_exec *x = b->x;
    const rm_graph *g = x->g;
    rm_call *c = RMI_NEW(&x->tables, rm_call, 1);
    if (!c) return RM_ERROR_MEMORY;
    op->what = RMI_EXE_CALL;
    op->run = r;
    op->call = c;
    op->lane = r.way == RMI_OPT_HOST ? RM_LANE_HOST : r.way == RMI_REDUCE ? RM_LANE_COMM : RM_LANE_COMPUTE;
    c->step = &x->now;
    c->device_step = x->backend.device_step;
    c->stream = op->lane == RM_LANE_COMPUTE || !x->lanes ? x->backend.stream : op->lane == RM_LANE_COMM ? x->backend.comm_stream : NULL;
    *out = c;
    if (r.way == RMI_FWD || r.way == RMI_BWD) {
        const rmi_op *o = &g->ops[r.id];
        c->seed_key = r.id;
        c->op = o->name;
        c->user = o->user;
        if (o->arg) memcpy(c->arg, o->arg, sizeof c->arg);
        if (o->farg) memcpy(c->farg, o->farg, sizeof c->farg);
    } else if (r.way != RMI_BARRIER) {
        const rmi_tensor *t = &g->tensors[r.id];
        c->op = t->name;
        c->user = t->user;
        if (t->arg) memcpy(c->arg, t->arg, sizeof c->arg);
        if (t->farg) memcpy(c->farg, t->farg, sizeof c->farg);
    } else {
        c->op = g->barriers[r.id].name;
        c->user = g->barriers[r.id].user;
    }
    return RM_OK;
}

RMI_FN rm_result rmi_exe_sizes(rmi_exe_build *b, const rmi_list *l, const uint64_t **out)
{
    uint64_t *s = RMI_NEW(&b->x->tables, uint64_t, l->n);
    uint32_t i;
    if (!s) return RM_ERROR_MEMORY;
    for (i = 0; i < l->n; i++) s[i] = b->x->g->tensors[l->at[i]].bytes;
    *out = s;
    return RM_OK;
}

/* Pointers of a list of tensors; only those in `only`, if given (then saved says nothing here). */
RMI_FN rm_result rmi_exe_values(rmi_exe_build *b, const rmi_list *l, const rmi_list *only, int write, const void *const **out)
{
    const void **v = RMI_NEW(&b->x->tables, const void *, l->n);
    uint32_t i;
    if (!v) return RM_ERROR_MEMORY;
    for (i = 0; i < l->n; i++)
        if (!only || rmi_list_has(only, l->at[i])) RMI_TRY(rmi_exe_point(b, l->at[i], b->x->g->tensors[l->at[i]].bytes, write, &v[i]));
    *out = v;
    return RM_OK;
}

RMI_FN rm_result rmi_exe_operands(rmi_exe_build *b, const rmi_op *o, const rmi_list *only, rm_call *c)
{
    const void *const *out;
    c->n_in = o->in.n;
    c->n_out = o->out.n;
    RMI_TRY(rmi_exe_sizes(b, &o->in, &c->in_bytes));
    RMI_TRY(rmi_exe_sizes(b, &o->out, &c->out_bytes));
    RMI_TRY(rmi_exe_values(b, &o->in, only, 0, &c->in));
    RMI_TRY(rmi_exe_values(b, &o->out, only, !only, &out));
    c->out = (void *const *)out;
    return RM_OK;
}

RMI_FN rm_result rmi_exe_own(rmi_exe_build *b, uint32_t buf, uint64_t bytes, int write, void **ptr, uint64_t *size)
{
    const void *p = NULL;
    if (!bytes) return RM_OK;
    RMI_TRY(rmi_exe_point(b, buf, bytes, write, &p));
    *ptr = (void *)p;
    *size = bytes;
    return RM_OK;
}

RMI_FN rm_result rmi_exe_fwd(rmi_exe_build *b, rmi_run r)
{
    const rm_graph *g = b->x->g;
    const rmi_op *o = &g->ops[r.id];
    const rmi_form *f = &o->forms[r.form];
    uint32_t saved = rmi_low_buf(g, RMI_BUF_SAVED, r.id);
    rmi_exe_op *op;
    rm_call *c;
    uint32_t i;
    RMI_TRY(rmi_exe_push(b, &op));
    RMI_TRY(rmi_exe_call(b, r, op, &c));
    op->fn = f->forward;
    c->phase = RM_PHASE_FORWARD;
    c->recompute = b->ran[r.id]++ > 0;
    RMI_TRY(rmi_exe_operands(b, o, NULL, c));
    for (i = 0; i < o->mutates.n && !c->recompute; i++) RMI_TRY(rmi_exe_uses_buf(b, RMI_NONE, o->mutates.at[i], g->tensors[o->mutates.at[i]].bytes, 1));
    if (f->saved && b->at[saved] != RMI_INF) {
        RMI_TRY(rmi_exe_own(b, saved, f->saved, 1, &c->saved, &c->saved_bytes));
        b->left_by[r.id] = r.form;
    }
    return rmi_exe_own(b, rmi_low_buf(g, RMI_BUF_WS, r.id), f->fwd_ws, 1, &c->ws, &c->ws_bytes);
}

/* Does this part's backward give the gradient of input i, which is not there under another name? */
RMI_FN int rmi_exe_given(const rmi_exe_build *b, const rmi_op *o, const rmi_part *p, uint32_t i)
{
    uint32_t t = o->in.at[i];
    return rmi_list_has(&o->grad_in, t) && rmi_list_has(&p->grads, t) && !b->moved[rmi_low_buf(b->x->g, RMI_BUF_GRAD, t)];
}

/* Is input i an earlier input once more? */
RMI_FN int rmi_exe_repeats(const rmi_op *o, uint32_t i)
{
    uint32_t k;
    for (k = 0; k < i; k++)
        if (o->in.at[k] == o->in.at[i]) return 1;
    return 0;
}

/* Gradients of a backward: which are wanted, which hold contributions already, which are there under another name. */
RMI_FN rm_result rmi_exe_targets(rmi_exe_build *b, rmi_run r, rm_call *c, uint32_t *n_calls)
{
    const rm_graph *g = b->x->g;
    const rmi_op *o = &g->ops[r.id];
    const rmi_form *f = &o->forms[r.form];
    const rmi_part *p = &f->parts[r.part];
    const void **din = RMI_NEW(&b->x->tables, const void *, o->in.n);
    uint32_t i;
    int adds = 0; /* inputs from number 31 on share an accum bit: what one of them must write is zeroed if another adds */
    if (!din) return RM_ERROR_MEMORY;
    c->din = (void *const *)(const void *)din;
    *n_calls = 0;
    for (i = 31; i < o->in.n; i++) adds |= rmi_exe_given(b, o, p, i) && (b->holds[o->in.at[i]] || rmi_exe_repeats(o, i));
    for (i = 0; i < o->in.n; i++) {
        uint32_t t = o->in.at[i];
        if (!rmi_exe_given(b, o, p, i)) continue;
        ++*n_calls;
        RMI_TRY(rmi_exe_point(b, rmi_low_buf(g, RMI_BUF_GRAD, t), g->tensors[t].grad_bytes, 1, &din[i]));
        if (b->holds[t] || rmi_exe_repeats(o, i)) c->accum |= RM_IN(i);
        else if ((f->flags & RM_ZERO_GRADS) || (adds && i >= 31)) {
            rmi_exe_op *z = &b->out->op[b->out->n - 1], call = *z; /* a fill goes before the call */
            z->what = RMI_EXE_ZERO;
            z->param = i;
            z->bytes = g->tensors[t].grad_bytes;
            RMI_TRY(rmi_exe_push(b, &z));
            *z = call;
            RMI_TRY(rmi_exe_uses_buf(b, b->out->n - 2, rmi_low_buf(g, RMI_BUF_GRAD, t), g->tensors[t].grad_bytes, 1));
            c->accum |= RM_IN(i);
        }
    }
    return RM_OK;
}

RMI_FN rm_result rmi_exe_bwd(rmi_exe_build *b, rmi_run r)
{
    const rm_graph *g = b->x->g;
    const rmi_op *o = &g->ops[r.id];
    const rmi_form *f = &o->forms[r.form];
    const rmi_part *p = &f->parts[r.part];
    const void **dout = RMI_NEW(&b->x->tables, const void *, o->out.n);
    uint32_t i, n_calls;
    rmi_exe_op *op;
    rm_call *c;
    if (!dout) return RM_ERROR_MEMORY;
    RMI_TRY(rmi_exe_push(b, &op));
    RMI_TRY(rmi_exe_call(b, r, op, &c));
    op->fn = f->backward;
    c->phase = RM_PHASE_BACKWARD;
    RMI_TRY(rmi_exe_operands(b, o, &p->needs, c));
    for (i = 0; i < o->out.n; i++)
        if (rmi_list_has(&o->grad_out, o->out.at[i])) RMI_TRY(rmi_exe_point(b, rmi_low_buf(g, RMI_BUF_GRAD, o->out.at[i]), g->tensors[o->out.at[i]].grad_bytes, 0, &dout[i]));
    c->dout = dout;
    if (p->needs_saved) RMI_TRY(rmi_exe_own(b, rmi_low_buf(g, RMI_BUF_SAVED, r.id), f->saved, 0, &c->saved, &c->saved_bytes));
    RMI_TRY(rmi_exe_own(b, rmi_low_buf(g, RMI_BUF_WS, r.id), p->bwd_ws, 1, &c->ws, &c->ws_bytes));
    RMI_TRY(rmi_exe_targets(b, r, c, &n_calls));
    if (!n_calls) b->out->n--; /* all of its gradients are there already */
    for (i = 0; i < o->grad_in.n; i++) {
        uint32_t t = o->grad_in.at[i];
        if (!rmi_list_has(&p->grads, t)) continue;
        b->holds[t] = 1;
        b->moved[rmi_low_buf(g, RMI_BUF_GRAD, t)] = 0;
    }
    return RM_OK;
}

RMI_FN rm_result rmi_exe_update(rmi_exe_build *b, rmi_run r)
{
    const rm_graph *g = b->x->g;
    const rmi_tensor *t = &g->tensors[r.id];
    const void *ptr[3] = {NULL, NULL, NULL};
    uint32_t own[3], i;
    rmi_exe_op *op;
    rm_call *c;
    own[0] = r.id;
    own[1] = rmi_low_buf(g, RMI_BUF_GRAD, r.id);
    own[2] = rmi_low_buf(g, RMI_BUF_STATE, r.id);
    RMI_TRY(rmi_exe_push(b, &op));
    RMI_TRY(rmi_exe_call(b, r, op, &c));
    op->fn = r.way == RMI_OPT ? t->update : r.way == RMI_OPT_HOST ? t->update_host : b->x->d.reduce;
    c->phase = r.way == RMI_REDUCE ? RM_PHASE_REDUCE : RM_PHASE_UPDATE;
    if (r.way == RMI_REDUCE) c->user = b->x->d.reduce_user;
    c->param_bytes = t->bytes;
    c->grad_bytes = t->grad_bytes;
    c->state_bytes = t->state_bytes;
    for (i = 0; i < 3; i++) {
        uint64_t bytes = rmi_low_bytes(g, own[i]);
        int write = r.way == RMI_REDUCE ? i == 1 : i != 1;
        if (r.way == RMI_OPT_HOST) {
            ptr[i] = b->host_at[own[i]] == RMI_INF ? NULL : b->x->host + (size_t)b->host_at[own[i]];
            RMI_TRY(rmi_exe_uses_host(b, RMI_NONE, b->host_at[own[i]], bytes, write));
        } else if ((r.way == RMI_OPT && (i < 2 || t->state_bytes)) || i == 1) {
            RMI_TRY(rmi_exe_point(b, own[i], bytes, write, (const void **)(void *)(i == 0 ? &c->param : i == 1 ? &c->grad : &c->state)));
        }
    }
    if (r.way == RMI_REDUCE && b->x->backend.device_step) RMI_TRY(rmi_exe_uses(b, RMI_NONE, RMI_EXE_DEVICE_STEP, 1, 0));
    if (r.way != RMI_REDUCE && g->n_barriers) RMI_TRY(rmi_exe_uses(b, RMI_NONE, RMI_MAX, 1, 0)); /* what the barrier found */
    if (r.way == RMI_OPT_HOST) {
        c->param = (void *)ptr[0];
        c->grad = (void *)ptr[1];
        c->state = (void *)ptr[2];
    }
    if (!t->state_bytes) c->state = NULL;
    if (r.way == RMI_REDUCE && !op->fn) b->out->n--; /* one rank */
    return r.way == RMI_OPT ? rmi_exe_own(b, rmi_low_buf(g, RMI_BUF_OPT_WS, r.id), t->opt_ws, 1, &c->ws, &c->ws_bytes) : RM_OK;
}

RMI_FN rm_result rmi_exe_barrier(rmi_exe_build *b, rmi_run r)
{
    const rm_graph *g = b->x->g;
    const void **in;
    uint64_t *sizes;
    uint32_t i, n = 0;
    rmi_exe_op *op;
    rm_call *c;
    for (i = 0; i < g->n_tensors; i++) n += g->tensors[i].kind == RMI_PARAM && g->tensors[i].consumers.n;
    in = RMI_NEW(&b->x->tables, const void *, n);
    sizes = RMI_NEW(&b->x->tables, uint64_t, n);
    if (!in || !sizes) return RM_ERROR_MEMORY;
    RMI_TRY(rmi_exe_push(b, &op));
    RMI_TRY(rmi_exe_call(b, r, op, &c));
    op->fn = g->barriers[r.id].fn;
    c->phase = RM_PHASE_BARRIER;
    c->in = in;
    c->in_bytes = sizes;
    for (i = 0; i < g->n_tensors; i++) {
        uint32_t buf = rmi_low_buf(g, RMI_BUF_GRAD, i);
        if (g->tensors[i].kind != RMI_PARAM || !g->tensors[i].consumers.n) continue;
        sizes[c->n_in] = g->tensors[i].grad_bytes;
        if (b->at[buf] == RMI_INF && b->host_at[buf] != RMI_INF) {
            in[c->n_in] = b->x->host + (size_t)b->host_at[buf];
            RMI_TRY(rmi_exe_uses_host(b, RMI_NONE, b->host_at[buf], g->tensors[i].grad_bytes, 0));
        } else {
            RMI_TRY(rmi_exe_point(b, buf, g->tensors[i].grad_bytes, 0, &in[c->n_in]));
        }
        c->n_in++;
    }
    return rmi_exe_uses(b, RMI_NONE, RMI_MAX, 1, 1);
}

/* One copy between a buffer's places on the device and at host_at. */
RMI_FN rm_result rmi_exe_copy(rmi_exe_build *b, uint32_t buf, uint64_t host_at, int to_host, uint64_t *bytes)
{
    const rm_graph *g = b->x->g;
    unsigned char *dev = b->x->dev + (size_t)b->at[buf], *host = b->x->host + (size_t)host_at;
    uint32_t id;
    rmi_buf_kind k = rmi_low_kind(g, buf, &id);
    rmi_exe_op *op;
    RMI_TRY(rmi_exe_push(b, &op));
    *bytes = k == RMI_BUF_SAVED ? g->ops[id].forms[b->left_by[id]].saved : rmi_low_bytes(g, buf);
    op->what = to_host ? RMI_EXE_D2H : RMI_EXE_H2D;
    op->lane = to_host ? RM_LANE_D2H : RM_LANE_H2D;
    op->buf = buf;
    op->bytes = *bytes;
    op->src = to_host ? dev : host;
    op->dst = to_host ? host : dev;
    RMI_TRY(rmi_exe_uses_buf(b, b->out->n - 1, buf, *bytes, !to_host));
    return rmi_exe_uses_host(b, b->out->n - 1, host_at, *bytes, to_host);
}

RMI_FN rm_result rmi_exe_move(rmi_exe_build *b, const rmi_stmt *s)
{
    uint64_t bytes;
    uint32_t id;
    rmi_buf_kind k = rmi_low_kind(b->x->g, s->buf, &id);
    rmi_exe_op *op;
    RMI_TRY(rmi_exe_copy(b, s->buf, s->what == RMI_PREFETCH ? b->host_at[s->buf] : s->offset, s->what != RMI_PREFETCH, &bytes));
    if (s->what == RMI_PREFETCH && k == RMI_BUF_GRAD) b->holds[id] = 1;
    if (s->what == RMI_OFFLOAD) b->host_at[s->buf] = s->offset;
    if (s->what != RMI_MERGE) return RM_OK;
    b->holds[id] = 0;
    RMI_TRY(rmi_exe_push(b, &op));
    op->what = RMI_EXE_ADD;
    op->lane = RM_LANE_HOST;
    op->buf = s->buf;
    op->param = id;
    op->bytes = bytes;
    op->src = b->x->host + (size_t)s->offset;
    op->dst = b->x->host + (size_t)b->host_at[s->buf];
    RMI_TRY(rmi_exe_uses_host(b, b->out->n - 1, s->offset, bytes, 0));
    return rmi_exe_uses_host(b, b->out->n - 1, b->host_at[s->buf], bytes, 1);
}

/* alias and reuse: another name for bytes that are there. */
RMI_FN void rmi_exe_rename(rmi_exe_build *b, const rmi_stmt *s)
{
    const rm_graph *g = b->x->g;
    uint32_t id, old;
    b->at[s->buf] = b->at[s->other];
    b->size[s->buf] = b->size[s->other];
    b->ext_of[s->buf] = RMI_NONE;
    if (rmi_low_kind(g, s->buf, &id) == RMI_BUF_GRAD) {
        const rmi_op *o;
        b->holds[id] = 0;
        if (rmi_low_kind(g, s->other, &old) != RMI_BUF_GRAD) return; /* over a value or what was saved: still to be written */
        o = &g->ops[g->tensors[old].maker];
        b->moved[s->buf] = (rmi_list_has(&o->share, id) || o->view == id) && g->tensors[id].grad_bytes == g->tensors[old].grad_bytes;
        return;
    }
    if (s->what == RMI_ALIAS) { /* a view */
        uint64_t off = g->ops[g->tensors[id].maker].view_offset;
        int ext = rmi_low_external(g, s->other);
        if (ext || b->ext_of[s->other] != RMI_NONE) {
            b->ext_of[s->buf] = ext ? s->other : b->ext_of[s->other];
            b->ext_off[s->buf] = off + (ext ? 0 : b->ext_off[s->other]);
        }
        if (b->at[s->buf] != RMI_INF) b->at[s->buf] += off;
    }
}

RMI_FN rm_result rmi_exe_statement(rmi_exe_build *b, const rmi_stmt *s)
{
    uint32_t id;
    switch ((rmi_what)s->what) {
    case RMI_ALLOC:
        b->at[s->buf] = s->offset;
        b->size[s->buf] = s->bytes;
        if (rmi_low_kind(b->x->g, s->buf, &id) == RMI_BUF_GRAD) b->holds[id] = 0;
        return rmi_exe_poison(b, s->offset, s->bytes);
    case RMI_FREE: b->at[s->buf] = RMI_INF; return RM_OK; /* not poisoned: another name may still be alive; fresh bytes are */
    case RMI_ALIAS:
    case RMI_REUSE: rmi_exe_rename(b, s); return RM_OK;
    case RMI_DROP_HOST: b->host_at[s->buf] = RMI_INF; return RM_OK;
    case RMI_RUN:
        if (s->run.way == RMI_FWD) return rmi_exe_fwd(b, s->run);
        if (s->run.way == RMI_BWD) return rmi_exe_bwd(b, s->run);
        return s->run.way == RMI_BARRIER ? rmi_exe_barrier(b, s->run) : rmi_exe_update(b, s->run);
    default: return rmi_exe_move(b, s);
    }
}

/* One statement; what it said of the op that it ends with is now of that op, or of none if it made none. */
RMI_FN rm_result rmi_exe_next(rmi_exe_build *b, const rmi_stmt *s)
{
    size_t n = b->out->n, from = b->uses ? b->uses->n_use : 0, i, to = from;
    RMI_TRY(rmi_exe_statement(b, s));
    for (i = from; b->uses && i < b->uses->n_use; i++) {
        rmi_lan_use u = b->uses->use[i];
        if (u.op == RMI_NONE) u.op = (uint32_t)b->out->n - 1;
        if (b->out->n > n) b->uses->use[to++] = u;
    }
    if (b->uses) b->uses->n_use = to;
    return RM_OK;
}

/* Where there are lanes the inputs of a step come first: copies in the compute lane, made before the step is known. */
RMI_FN rm_result rmi_exe_inputs(rmi_exe_build *b)
{
    const rm_graph *g = b->x->g;
    rmi_exe_op *op;
    uint32_t t;
    if (!b->uses) return RM_OK;
    RMI_TRY(rmi_exe_push(b, &op));
    op->what = RMI_EXE_INPUTS;
    for (t = 0; t < g->n_tensors; t++)
        if (g->tensors[t].kind == RMI_INPUT && b->x->home[t] != RMI_INF) {
            RMI_TRY(rmi_exe_uses(b, 0, b->x->home[t], g->tensors[t].bytes, 1));
            b->x->joined = 1;
        }
    if (!b->x->backend.device_step) return RM_OK;
    b->x->joined = 1;
    RMI_TRY(rmi_exe_uses(b, 0, RMI_EXE_DEVICE_STEP, 1, 1)); /* before begin, which brings it up to date */
    RMI_TRY(rmi_exe_push(b, &op));
    op->what = RMI_EXE_INPUTS;
    return rmi_exe_uses(b, 1, RMI_EXE_DEVICE_STEP, 1, 1); /* behind begin */
}

RMI_FN rm_result rmi_exe_build_tables(rmi_exe_build *b, rmi_arena *tmp)
{
    const rm_graph *g = b->x->g;
    size_t nb = rmi_low_buffers(g), i;
    uint64_t end = rmi_add(b->x->dev_bytes, b->x->host_bytes);
    b->at = RMI_NEW(tmp, uint64_t, nb);
    b->size = RMI_NEW(tmp, uint64_t, nb);
    b->host_at = RMI_NEW(tmp, uint64_t, nb);
    b->ext_off = RMI_NEW(tmp, uint64_t, nb);
    b->ext_of = RMI_NEW(tmp, uint32_t, nb);
    b->moved = RMI_NEW(tmp, uint8_t, nb);
    b->holds = RMI_NEW(tmp, uint32_t, g->n_tensors);
    b->ran = RMI_NEW(tmp, uint32_t, g->n_ops);
    b->left_by = RMI_NEW(tmp, uint32_t, g->n_ops);
    b->out->at_end = RMI_NEW(&b->x->tables, uint64_t, nb);
    b->out->host_end = RMI_NEW(&b->x->tables, uint64_t, nb);
    b->ext_base = RMI_NEW(tmp, uint64_t, nb);
    if (!b->out->host_end || !b->ext_base || !b->at || !b->size || !b->host_at || !b->ext_off || !b->ext_of || !b->moved || !b->holds || !b->ran || !b->left_by || !b->out->at_end) return RM_ERROR_MEMORY;
    for (i = 0; i < nb; i++) {
        b->at[i] = b->host_at[i] = RMI_INF;
        b->ext_of[i] = RMI_NONE;
        b->ext_base[i] = end;
        if (rmi_low_external(g, (uint32_t)i)) end = rmi_add(end, rmi_low_bytes(g, (uint32_t)i));
    }
    for (i = 0; i < g->n_tensors; i++) b->holds[i] = g->tensors[i].kind == RMI_PARAM && rmi_low_adds_to_earlier(b->p->step);
    for (i = 0; i < b->p->n_homes; i++) {
        const rmi_home *h = &b->p->homes[i];
        if (h->host) b->host_at[h->buf] = h->offset;
        else b->at[h->buf] = h->offset;
    }
    return RM_OK;
}

/* uses, in mem, gets what the ops use; NULL: there are no lanes. */
RMI_FN rm_result rmi_exe_compile(rm_exec *x, const rmi_program *p, rmi_exe_prog *out, rmi_arena *mem, rmi_lan_prog *uses)
{
    rmi_arena tmp = rmi_arena_make(&x->mem.hooks);
    rmi_exe_build b;
    rm_result r;
    size_t i;
    memset(&b, 0, sizeof b);
    b.x = x;
    b.p = p;
    b.out = out;
    b.uses = uses;
    b.uses_mem = mem;
    out->step = p->step;
    r = rmi_exe_build_tables(&b, &tmp);
    if (r == RM_OK) r = rmi_exe_inputs(&b);
    for (i = 0; i < p->n && r == RM_OK; i++) r = rmi_exe_next(&b, &p->st[i]);
    if (r == RM_OK) {
        memcpy(out->at_end, b.at, rmi_low_buffers(x->g) * sizeof(uint64_t));
        memcpy(out->host_end, b.host_at, rmi_low_buffers(x->g) * sizeof(uint64_t));
    }
    for (i = 0; i < out->n; i++) out->lanes |= 1u << out->op[i].lane;
    rmi_arena_free(&tmp);
    return r;
}

/* --- lanes: events for the waits that >>lanes finds */
RMI_FN void rmi_exe_number(rmi_exe_prog *prog, const rmi_lan_wait *w, size_t n, uint32_t *n_events)
{
    size_t i;
    for (i = 0; i < n; i++)
        if (prog->op[w[i].on].event == RMI_NONE) prog->op[w[i].on].event = (*n_events)++;
}

RMI_FN rm_result rmi_exe_own_waits(rm_exec *x, rmi_exe_prog *prog, const rmi_lan_prog *l)
{
    size_t i;
    rmi_exe_number(prog, l->wait, l->n_wait, &x->n_events);
    prog->wait = RMI_NEW(&x->tables, uint32_t, l->n_wait);
    if (!prog->wait) return RM_ERROR_MEMORY;
    for (i = 0; i < l->n_wait; i++) {
        rmi_exe_op *op = &prog->op[l->wait[i].op];
        if (!op->n_wait++) op->first_wait = (uint32_t)i;
        prog->wait[i] = prog->op[l->wait[i].on].event;
    }
    return RM_OK;
}

/* How many calls two steps, and the reads and writes between them, give a lane. */
RMI_FN void rmi_exe_count(rm_exec *x)
{
    uint32_t i, q, lane;
    size_t k;
    for (i = 0; i < x->n_prog; i++) {
        const rmi_exe_prog *p = &x->prog[i];
        uint32_t n[RMI_LANES] = {0, 0, 0, 0, 0}, cross = 0;
        for (k = 0; k < p->n; k++) n[p->op[k].lane] += 1 + p->op[k].n_wait;
        for (q = 0; q < x->n_prog; q++) cross = p->n_after[q] > cross ? (uint32_t)p->n_after[q] : cross;
        for (lane = 0; lane < RMI_LANES; lane++) {
            uint32_t most = n[lane] ? 2 * (n[lane] + cross) + 64 : 0;
            if (x->calls[lane] < most) x->calls[lane] = most;
            if (x->most_calls < most) x->most_calls = most;
        }
    }
}

/* Waits and events of all programs, and of each after each. */
RMI_FN rm_result rmi_exe_order(rm_exec *x, rmi_arena *mem, rmi_lan_prog *l)
{
    rmi_lan lan;
    uint32_t i, q, lanes = 0;
    size_t k;
    memset((void *)&lan, 0, sizeof lan);
    x->n_events = RMI_EXE_EVENTS;
    for (i = 0; i < x->n_prog; i++) {
        rmi_exe_prog *p = &x->prog[i];
        l[i].n = (uint32_t)p->n;
        l[i].joined = x->joined;
        l[i].lane = RMI_NEW(mem, uint8_t, p->n);
        if (!l[i].lane) return RM_ERROR_MEMORY;
        for (k = 0; k < p->n; k++) l[i].lane[k] = p->op[k].lane;
        lanes |= p->lanes;
    }
    if (lanes & ~(1u << RM_LANE_COMPUTE)) { /* else the lane's own order is all that is needed */
        RMI_TRY(rmi_lan_prepare(mem, &lan, l, x->n_prog));
        for (i = 0; i < x->n_prog; i++) {
            RMI_TRY(rmi_lan_own(mem, &lan, &l[i]));
            RMI_TRY(rmi_exe_own_waits(x, &x->prog[i], &l[i]));
        }
        for (q = 0; q < x->n_prog; q++)
            for (i = 0; i < x->n_prog; i++) {
                RMI_TRY(rmi_lan_after(&x->tables, &lan, &l[q], &l[i], &x->prog[i].after[q], &x->prog[i].n_after[q]));
                rmi_exe_number(&x->prog[q], x->prog[i].after[q], x->prog[i].n_after[q], &x->n_events);
                for (k = 0; k < x->prog[i].n_after[q]; k++) x->prog[i].after[q][k].on = x->prog[q].op[x->prog[i].after[q][k].on].event;
            }
    }
    rmi_exe_count(x);
    return RM_OK;
}

/* --- creating */

/* Every callback that the plan will call must be there: told now, by name, not in the middle of a step. */
RMI_FN rm_result rmi_exe_callbacks(const rm_exec *x, rmi_error *err)
{
    const rm_graph *g = x->g;
    uint32_t i;
    size_t k;
    for (i = 0; i < x->n_prog; i++)
        for (k = 0; k < x->prog[i].n; k++) {
            const rmi_exe_op *op = &x->prog[i].op[k];
            if (x->lanes && op->lane == RM_LANE_HOST && !x->backend.host_call) return rmi_err_set(err, RM_ERROR_ARGUMENT, "param %s: the plan works on it in the host lane; set rm_backend.host_call", g->tensors[op->run.id].name);
            if (op->what == RMI_EXE_ADD && !x->d.add) return rmi_err_set(err, RM_ERROR_ARGUMENT, "param %s: the plan adds up its gradient in host memory; set rm_exec_desc.add", g->tensors[op->param].name);
            if (op->what != RMI_EXE_CALL || op->fn) continue;
            if (op->run.way == RMI_FWD) return rmi_err_set(err, RM_ERROR_ARGUMENT, "op %s: its kind '%s' has no forward callback; set rm_kind.forward (a graph from text can be planned, not run)", g->ops[op->run.id].name, g->ops[op->run.id].kind_name);
            if (op->run.way == RMI_BWD) return rmi_err_set(err, RM_ERROR_ARGUMENT, "op %s: its kind '%s' has no backward callback; set rm_kind.backward, or RM_NOGRAD in its flags", g->ops[op->run.id].name, g->ops[op->run.id].kind_name);
            if (op->run.way == RMI_BARRIER) return rmi_err_set(err, RM_ERROR_ARGUMENT, "barrier %s: it has no callback; pass one to rm_barrier_add", g->barriers[op->run.id].name);
            return rmi_err_set(err, RM_ERROR_ARGUMENT, "param %s: it has a time for its update and no callback; set rm_param_desc.update", g->tensors[op->run.id].name);
        }
    return RM_OK;
}

/* The backend's words for a code of its own, or "". */
RMI_FN const char *rmi_exe_words(const rm_exec *x, int code)
{
    const char *text = x->backend.error_text ? x->backend.error_text(x->backend.user, code) : NULL;
    return text ? text : "";
}

RMI_FN rm_result rmi_exe_memory(rm_exec *x, rmi_error *err)
{
    uint32_t i;
    uint64_t dev = 0, host = 0;
    void *p = NULL;
    int code;
    for (i = 0; i < x->p->n; i++) {
        dev = rmi_max(dev, x->p->prog[i].arena);
        host = rmi_max(host, x->p->prog[i].host);
    }
    x->dev_bytes = dev;
    x->host_bytes = host;
    if (x->d.device_memory) {
        if (x->d.device_memory_bytes < dev || (uint64_t)(uintptr_t)x->d.device_memory % x->p->align)
            return rmi_err_set(err, RM_ERROR_ARGUMENT, "rm_exec_desc.device_memory: the plan's arena is %u bytes aligned to %u; %u bytes were given, or the address is not aligned", dev, (uint64_t)x->p->align, x->d.device_memory_bytes);
        x->dev = (unsigned char *)x->d.device_memory;
    } else {
        code = x->backend.alloc(x->backend.user, dev ? dev : 1, 0, &p);
        if (code) return rmi_err_set(err, RM_ERROR_BACKEND, "the backend gave no %u bytes for the arena; plan with a smaller budget%s%s", dev, *rmi_exe_words(x, code) ? ": " : "", rmi_exe_words(x, code));
        x->dev = (unsigned char *)p;
        x->own_dev = 1;
    }
    if (host && x->d.host_memory) {
        if (x->d.host_memory_bytes < host) return rmi_err_set(err, RM_ERROR_ARGUMENT, "rm_exec_desc.host_memory: the plan needs %u bytes, %u were given", host, x->d.host_memory_bytes);
        x->host = (unsigned char *)x->d.host_memory;
    } else if (host) {
        p = NULL;
        code = x->backend.alloc ? x->backend.alloc(x->backend.user, host, 1, &p) : 1;
        if (code) return rmi_err_set(err, RM_ERROR_BACKEND, "the backend gave no %u bytes of host memory; plan with a smaller host budget%s%s", host, *rmi_exe_words(x, code) ? ": " : "", rmi_exe_words(x, code));
        x->host = (unsigned char *)p;
        x->own_host = 1;
    }
    return RM_OK;
}

RMI_FN rm_result rmi_exe_programs(rm_exec *x, rmi_arena *mem)
{
    uint32_t i;
    size_t k, nb = rmi_low_buffers(x->g);
    rmi_lan_prog *uses = RMI_NEW(mem, rmi_lan_prog, RM_STEP_KINDS);
    x->home = RMI_NEW(&x->tables, uint64_t, nb);
    x->host_home = RMI_NEW(&x->tables, uint64_t, nb);
    if (!uses || !x->home || !x->host_home) return RM_ERROR_MEMORY;
    for (k = 0; k < nb; k++) x->home[k] = x->host_home[k] = RMI_INF;
    for (i = 0; i < x->p->n; i++)
        for (k = 0; k < x->p->prog[i].n_homes; k++) {
            const rmi_home *h = &x->p->prog[i].homes[k];
            (h->host ? x->host_home : x->home)[h->buf] = h->offset;
        }
    for (i = 0; i < x->p->n; i++) {
        RMI_TRY(rmi_exe_compile(x, &x->p->prog[i], &x->prog[i], mem, x->lanes ? &uses[i] : NULL));
        x->n_prog++;
    }
    return x->lanes ? rmi_exe_order(x, mem, uses) : RM_OK;
}

RMI_FN rm_result rmi_exe_reserve(rm_exec *x, rmi_error *err)
{
    x->rebound = 0;
    x->code = x->lanes ? x->backend.reserve(x->backend.user, x->n_events, x->most_calls) : 0;
    return x->code ? rmi_err_set(err, RM_ERROR_BACKEND, "the backend could not make %u events for its lanes%s%s", (uint64_t)x->n_events, *rmi_exe_words(x, x->code) ? ": " : "", rmi_exe_words(x, x->code)) : RM_OK;
}

/* Everything that depends on the plan: memory, programs, homes. */
RMI_FN rm_result rmi_exe_load(rm_exec *x, rmi_error *err)
{
    rmi_arena tmp = rmi_arena_make(&x->mem.hooks);
    rm_result r;
    RMI_TRY(rmi_exe_memory(x, err));
    r = rmi_exe_programs(x, &tmp);
    rmi_arena_free(&tmp);
    if (r != RM_OK) return rmi_err_memory(err);
    RMI_TRY(rmi_exe_callbacks(x, err));
    RMI_TRY(rmi_exe_reserve(x, err));
    x->code = x->dev_bytes ? x->backend.fill(x->backend.user, x->dev, 0, x->dev_bytes) : 0;
    if (x->code) return rmi_err_set(err, RM_ERROR_BACKEND, "the backend could not clear the arena%s%s", *rmi_exe_words(x, x->code) ? ": " : "", rmi_exe_words(x, x->code));
    if (x->host_bytes) memset(x->host, 0, (size_t)x->host_bytes);
    return RM_OK;
}

RMI_FN void rmi_exe_unload(rm_exec *x)
{
    if (x->lanes && (x->before || x->ends[0] || x->ends[1])) x->backend.sync(x->backend.user);
    if (x->own_dev && x->dev) x->backend.release(x->backend.user, x->dev, 0);
    if (x->own_host && x->host && x->backend.release) x->backend.release(x->backend.user, x->host, 1);
    x->dev = x->host = NULL;
    x->own_dev = x->own_host = 0;
    rmi_arena_free(&x->tables);
    x->patches = NULL;
    x->n_patches = x->cap_patches = 0;
    x->n_prog = 0;
    x->last = NULL;
    memset(x->prog, 0, sizeof x->prog);
}

RMI_FN void rmi_exe_free(rm_exec *x)
{
    rmi_arena mem;
    if (!x) return;
    rmi_exe_unload(x);
#if defined(ROCKMATE_THREADS)
    rmi_thr_free(x->thr);
#endif
    mem = x->mem;
    rmi_arena_free(&mem);
}

/* The caller's backend, copied; or the host's, with the caller's stream. x->d.backend then tells which: the copy or NULL. */
RMI_FN rm_result rmi_exe_backend(rm_exec *x, rmi_error *err)
{
    const rm_backend *b = x->d.backend;
    if (b) {
        x->backend = *b;
        x->d.backend = &x->backend;
        x->lanes = b->record != NULL;
        if (!b->record != !b->wait || !b->record != !b->reserve) return rmi_err_set(err, RM_ERROR_ARGUMENT, "rm_exec_desc.backend: reserve, record and wait go together; set all of them (lanes) or none");
        if (b->copy && b->fill && b->sync && ((b->alloc && b->release) || x->d.device_memory)) return RM_OK;
        if (b->alloc || b->release || b->copy || b->fill || b->sync || b->record) return rmi_err_set(err, RM_ERROR_ARGUMENT, "rm_exec_desc.backend: it has some functions and lacks others; set alloc, release, copy, fill and sync, or none of them for the host backend");
    }
    x->d.backend = NULL;
    x->lanes = 0;
    x->backend.user = x;
    x->backend.alloc = rmi_exe_host_alloc;
    x->backend.release = rmi_exe_host_release;
    x->backend.copy = rmi_exe_host_copy;
    x->backend.fill = rmi_exe_host_fill;
    x->backend.sync = rmi_exe_host_sync;
    x->backend.now = rmi_exe_host_now;
    return rmi_exe_threads(x, err);
}

RMI_FN rm_result rmi_exe_create(rm_plan *p, const rm_exec_desc *d, rm_exec **out)
{
    rmi_arena mem = rmi_arena_make(d && d->allocator.alloc ? &d->allocator : &p->g->mem.hooks);
    rm_exec *x;
    rm_result r;
    if (p->live_only) return rmi_err_set(&p->g->last, RM_ERROR_ARGUMENT, "rm_exec_create: the plan counts live bytes and has no addresses to run with; plan without rm_plan_desc.live_only");
    x = RMI_NEW(&mem, rm_exec, 1);
    if (!x) {
        rmi_arena_free(&mem);
        return rmi_err_memory(&p->g->last);
    }
    x->mem = mem;
    x->tables = rmi_arena_make(&mem.hooks);
    x->p = p;
    x->g = p->g;
    if (d) x->d = *d;
    x->err.log = p->g->last.log;
    x->err.log_user = p->g->last.log_user;
    x->bound = RMI_NEW(&x->mem, void *, rmi_low_buffers(x->g));
    x->stale = RMI_NEW(&x->mem, uint8_t, x->g->n_tensors);
    r = x->bound && x->stale ? rmi_exe_backend(x, &p->g->last) : rmi_err_memory(&p->g->last);
    if (r == RM_OK) r = rmi_exe_load(x, &p->g->last);
    if (r != RM_OK) {
        rmi_exe_free(x);
        return r;
    }
    *out = x;
    return RM_OK;
}

/* --- stepping */

/* Does prog use the bytes of input t for other things? */
RMI_FN int rmi_exe_uses_up(const rm_exec *x, const rmi_exe_prog *prog, uint32_t t)
{
    return (x->home[t] != RMI_INF && prog->at_end[t] == RMI_INF) || (x->host_home[t] != RMI_INF && prog->host_end[t] == RMI_INF);
}

RMI_FN rm_result rmi_exe_bound(rm_exec *x, const rmi_exe_prog *prog)
{
    uint32_t t;
    size_t i;
    char name[300];
    for (i = 0; i < x->n_patches; i++)
        if (!x->bound[x->patches[i].buf]) return rmi_err_set(&x->err, RM_ERROR_ARGUMENT, "%s is the caller's memory and not bound; call rm_exec_bind first", rmi_sch_name(x->g, x->patches[i].buf, name));
    for (t = 0; t < x->g->n_tensors; t++)
        if (x->stale[t] && rmi_exe_uses_up(x, prog, t)) return rmi_err_set(&x->err, RM_ERROR_ARGUMENT, "input %s: not written since the last step, which used its bytes for other things; rm_exec_write it before each step", x->g->tensors[t].name);
    return RM_OK;
}

/* A step that begins drops the inputs that its program frees. */
RMI_FN void rmi_exe_drop_inputs(rm_exec *x, const rmi_exe_prog *prog)
{
    uint32_t t;
    for (t = 0; t < x->g->n_tensors; t++)
        if (x->g->tensors[t].kind == RMI_INPUT && rmi_exe_uses_up(x, prog, t)) x->stale[t] = 1;
}

/* Keeps a code of the backend for the message. */
RMI_FN int rmi_exe_did(rm_exec *x, int code)
{
    if (code) x->code = code;
    return code;
}

RMI_FN rm_result rmi_exe_backend_failed(rm_exec *x, const char *what, const char *of)
{
    const char *text = x->backend.error_text ? x->backend.error_text(x->backend.user, x->code) : NULL;
    int64_t code = x->code;
    if (of != x->failed) x->failed[0] = 0;
    if (of && of != x->failed) strncat(x->failed, of, sizeof x->failed - 1);
    return rmi_err_set(&x->err, RM_ERROR_BACKEND, "the backend failed: %s%s%s: %s%scode %s%u", what, of ? " of " : "", of ? of : "", text ? text : "", text ? ", " : "", code < 0 ? "-" : "", (uint64_t)(code < 0 ? -code : code));
}

/* Everything issued has been done, or had to be given up: the next step begins clean. */
RMI_FN int rmi_exe_quiet(rm_exec *x)
{
    int code = x->backend.sync(x->backend.user);
    uint32_t lane;
    if (code && x->lanes) x->backend.sync(x->backend.user); /* the first one may only tell what failed */
    x->before = NULL;
    x->ends[0] = x->ends[1] = 0;
    x->inputs_open = 0;
    for (lane = 0; lane < RMI_LANES; lane++) x->turn[lane].in = x->turn[lane].out = 0;
    return rmi_exe_did(x, code);
}

RMI_FN rm_result rmi_exe_callback_failed(rm_exec *x, const rm_call *c, int code)
{
    static const char *const phases[] = {"", "forward", "backward", "update", "reduction", "barrier"};
    x->failed[0] = 0;
    strncat(x->failed, c->op, sizeof x->failed - 1);
    return rmi_err_set(&x->err, RM_ERROR_CALLBACK, "%s: its %s%s returned %s%u; the step was stopped there", c->op, c->recompute ? "recomputed " : "", phases[c->phase], code < 0 ? "-" : "", (uint64_t)(code < 0 ? -(int64_t)code : code));
}

/* After a failure r with lanes: all of them come to rest; if it began in a callback of a lane, that is what is told. */
RMI_FN rm_result rmi_exe_broken(rm_exec *x, rm_result r)
{
    uint32_t lane;
    if (!x->lanes || r == RM_OK) return r;
    rmi_exe_quiet(x);
    x->last = NULL;
    x->used_up = 1;
    for (lane = 0; lane < RMI_LANES; lane++) {
        const rmi_exe_op *op = x->turn[lane].failed;
        x->turn[lane].failed = NULL;
        if (op) r = rmi_exe_callback_failed(x, op->call, x->turn[lane].code);
    }
    return r;
}

/* All lanes have finished; nothing to do where there are none. */
RMI_FN rm_result rmi_exe_drain(rm_exec *x)
{
    if (!x->lanes || !rmi_exe_quiet(x)) return RM_OK;
    return rmi_exe_broken(x, rmi_exe_backend_failed(x, "waiting for its lanes", NULL));
}

RMI_FN uint64_t rmi_exe_seed(const rm_exec *x, uint32_t op) { return rm_seed(&x->now, op); }

RMI_FN rm_result rmi_exe_run_call(rm_exec *x, rmi_exe_op *op)
{
    rm_call *c = op->call;
    int code;
    if (op->run.way <= RMI_BWD) c->seed = rmi_exe_seed(x, op->run.id);
    code = op->fn(c);
    if (code) return rmi_exe_callback_failed(x, c, code);
    if (x->backend.after && rmi_exe_did(x, x->backend.after(x->backend.user, op->lane, c))) return rmi_exe_backend_failed(x, "after a callback", c->op);
    return RM_OK;
}

/* In a lane of the host, in its order. */
RMI_FN int rmi_exe_lane_begin(void *arg)
{
    ((rmi_exe_turn *)arg)->out++;
    return 0;
}
RMI_FN int rmi_exe_lane_call(void *arg)
{
    rmi_exe_op *op = (rmi_exe_op *)arg;
    rm_exec *x = op->x;
    rmi_exe_turn *turn = &x->turn[op->lane];
    rm_tensor t;
    if (turn->failed) return 0; /* told already */
    if (op->what == RMI_EXE_ADD) {
        t.id = op->param + 1;
        x->d.add(op->dst, op->src, op->bytes, t, x->d.add_user);
        return 0;
    }
    op->call->step = x->lanes ? &turn->values[(turn->out - 1) & 1] : &x->now;
    if (op->run.way <= RMI_BWD) op->call->seed = rm_seed(op->call->step, op->call->seed_key);
    turn->code = op->fn(op->call);
    if (turn->code) turn->failed = op;
    return turn->code;
}

RMI_FN rm_result rmi_exe_run_copy(rm_exec *x, const rmi_exe_op *op)
{
    char name[300];
    if (!rmi_exe_did(x, x->backend.copy(x->backend.user, op->dst, op->src, op->bytes, op->lane))) return RM_OK;
    return rmi_exe_backend_failed(x, op->lane == RM_LANE_H2D ? "copy to the device" : "copy to host memory", rmi_sch_name(x->g, op->buf, name));
}

/* Does the host do this op in a lane of its own? */
RMI_FN int rmi_exe_hosted(const rm_exec *x, const rmi_exe_op *op) { return op->lane == RM_LANE_HOST || (op->what == RMI_EXE_CALL && (x->backend.call_lanes >> op->lane & 1)); }

RMI_FN rm_result rmi_exe_run(rm_exec *x, rmi_exe_op *op)
{
    const rm_backend *b = &x->backend;
    char name[300];
    if (x->lanes && rmi_exe_hosted(x, op)) {
        if (!rmi_exe_did(x, b->host_call(b->user, op->lane, rmi_exe_lane_call, op))) return RM_OK;
        return rmi_exe_backend_failed(x, "work in a lane of the host", op->call ? op->call->op : rmi_sch_name(x->g, op->buf, name));
    }
    switch ((rmi_exe_what)op->what) {
    case RMI_EXE_CALL: return rmi_exe_run_call(x, op);
    case RMI_EXE_H2D:
    case RMI_EXE_D2H: return rmi_exe_run_copy(x, op);
    case RMI_EXE_ZERO: return rmi_exe_did(x, b->fill(b->user, op->call->din[op->param], 0, op->bytes)) ? rmi_exe_backend_failed(x, "clearing a gradient in the backward", op->call->op) : RM_OK;
    case RMI_EXE_POISON: return rmi_exe_did(x, b->fill(b->user, op->dst, 0xFF, op->bytes)) ? rmi_exe_backend_failed(x, "poisoning", NULL) : RM_OK;
    case RMI_EXE_INPUTS: return RM_OK;
    default: rmi_exe_lane_call(op); return RM_OK;
    }
}

RMI_FN const rm_plan_info *rmi_exe_info_of(const rm_exec *x, const rmi_exe_prog *prog) { return &x->p->info[prog - x->prog]; }

RMI_FN rm_result rmi_exe_wait(rm_exec *x, uint32_t event, uint32_t lane)
{
    return rmi_exe_did(x, x->backend.wait(x->backend.user, event, lane)) ? rmi_exe_backend_failed(x, "a wait between lanes", NULL) : RM_OK;
}
RMI_FN rm_result rmi_exe_record(rm_exec *x, uint32_t event, uint32_t lane)
{
    return rmi_exe_did(x, x->backend.record(x->backend.user, event, lane)) ? rmi_exe_backend_failed(x, "an event", NULL) : RM_OK;
}

/* The compute lane may write inputs: it waits for what the step before does with their bytes. That is known before the next step
   is: the waits of the first op are the same in every program. */
RMI_FN rm_result rmi_exe_open_inputs(rm_exec *x)
{
    const rmi_exe_prog *q = x->before, *p = &x->prog[0];
    size_t i, n;
    if (!q || x->inputs_open) return RM_OK;
    n = p->n_after[q - x->prog];
    for (i = 0; i < n && p->after[q - x->prog][i].op == 0; i++) RMI_TRY(rmi_exe_wait(x, p->after[q - x->prog][i].on, RM_LANE_COMPUTE));
    return RM_OK;
}

/* They are written, and whatever is issued from now on comes after that: the other ops of a program count on it. */
RMI_FN rm_result rmi_exe_close_inputs(rm_exec *x)
{
    RMI_TRY(rmi_exe_record(x, RMI_EXE_EVENT_CALLER, RM_LANE_COMPUTE));
    x->inputs_open = 1;
    return rmi_exe_wait(x, RMI_EXE_EVENT_CALLER, RM_LANE_CALLER);
}

/* Issues all of prog; joined: nothing before it is at work. The host's lanes learn that a step begins. */
RMI_FN rm_result rmi_exe_issue(rm_exec *x, rmi_exe_prog *prog, int joined)
{
    const rmi_lan_wait *cross = NULL, *end = NULL;
    uint32_t lane, w;
    size_t k;
    for (lane = 0; lane < RMI_LANES && x->lanes; lane++)
        if ((prog->lanes >> lane & 1) && (lane == RM_LANE_HOST || (x->backend.call_lanes >> lane & 1)) && rmi_exe_did(x, x->backend.host_call(x->backend.user, lane, rmi_exe_lane_begin, &x->turn[lane]))) return rmi_exe_backend_failed(x, "work in a lane of the host", NULL);
    if (x->before && !joined) {
        cross = prog->after[x->before - x->prog];
        end = cross + prog->n_after[x->before - x->prog];
        while (cross < end && cross->op == 0) cross++; /* rmi_exe_open_inputs */
    }
    for (k = 0; k < prog->n; k++) {
        rmi_exe_op *op = &prog->op[k];
        for (w = 0; w < op->n_wait; w++) RMI_TRY(rmi_exe_wait(x, prog->wait[op->first_wait + w], op->lane));
        for (; cross < end && cross->op == k; cross++) RMI_TRY(rmi_exe_wait(x, cross->on, op->lane));
        RMI_TRY(rmi_exe_run(x, op));
        if (op->event != RMI_NONE) RMI_TRY(rmi_exe_record(x, op->event, op->lane));
    }
    return RM_OK;
}

/* Room for one more step: the one before last has ended in every lane. */
RMI_FN rm_result rmi_exe_room(rm_exec *x, const rmi_exe_prog *prog)
{
    uint32_t lane;
    if (x->rebound) {
        RMI_TRY(rmi_exe_drain(x));
        RMI_TRY(rmi_exe_reserve(x, &x->err));
    }
    for (lane = 0; lane < RMI_LANES; lane++)
        if (x->ends[x->parity] >> lane & 1) RMI_TRY(rmi_exe_wait(x, x->parity * RMI_LANES + lane, RM_LANE_CALLER));
    x->ends[x->parity] = 0;
    if (x->before && x->joined && !x->inputs_open) { /* the old ones serve once more */
        RMI_TRY(rmi_exe_open_inputs(x));
        RMI_TRY(rmi_exe_close_inputs(x));
    }
    for (lane = 0; lane < RMI_LANES; lane++)
        if (prog->lanes >> lane & 1) x->turn[lane].values[x->turn[lane].in++ & 1] = x->now;
    return RM_OK;
}

/* Begin, issue, end: once more if the backend could not keep the step and has not run it. */
RMI_FN rm_result rmi_exe_walk(rm_exec *x, rmi_exe_prog *prog, uint32_t *answer)
{
    const rm_backend *b = &x->backend;
    uint32_t number = (uint32_t)(prog - x->prog), turn, asked;
    rm_result r = RM_OK;
    for (turn = 0; turn < 2; turn++) {
        *answer = RM_ISSUE;
        if (b->begin && rmi_exe_did(x, b->begin(b->user, number, &x->now, answer))) return rmi_exe_backend_failed(x, "beginning a step", NULL);
        asked = *answer;
        x->failed[0] = 0;
        if (asked != RM_REPLAY) r = rmi_exe_issue(x, prog, asked == RM_CAPTURE);
        if (b->end && rmi_exe_did(x, b->end(b->user, number, answer, r == RM_OK ? NULL : x->failed)) && r == RM_OK) r = rmi_exe_backend_failed(x, "ending a step", NULL);
        if (asked == RM_ISSUE || *answer == asked) break;
        if (x->lanes && rmi_exe_did(x, b->sync(b->user))) return rmi_exe_backend_failed(x, "waiting for its lanes", NULL);
        x->before = NULL; /* what was not kept may have recorded the events of the step before anew */
        r = RM_OK;
    }
    return r;
}

RMI_FN rm_result rmi_exe_step_lanes(rm_exec *x, rmi_exe_prog *prog)
{
    uint32_t answer, lane;
    RMI_TRY(rmi_exe_room(x, prog));
    RMI_TRY(rmi_exe_walk(x, prog, &answer));
    for (lane = 0; lane < RMI_LANES; lane++)
        if (prog->lanes >> lane & 1) RMI_TRY(rmi_exe_record(x, x->parity * RMI_LANES + lane, lane));
    x->ends[x->parity] = prog->lanes;
    x->parity ^= 1;
    x->before = answer == RM_ISSUE ? prog : NULL; /* else the lanes have been joined */
    x->inputs_open = 0;
    return RM_OK;
}

RMI_FN rm_result rmi_exe_step_plain(rm_exec *x, rmi_exe_prog *prog)
{
    uint32_t answer;
    RMI_TRY(rmi_exe_walk(x, prog, &answer));
    return rmi_exe_did(x, x->backend.sync(x->backend.user)) ? rmi_exe_backend_failed(x, "waiting for the end of the step", NULL) : RM_OK;
}

RMI_FN rm_result rmi_exe_no_program(rm_exec *x, const char *what, uint32_t kind)
{
    const char *name = rmi_low_step_name(kind);
    if (!name) return rmi_err_set(&x->err, RM_ERROR_ARGUMENT, "%s: %u is no kind of step; rm_step.kind is one of RM_SINGLE, RM_FIRST, RM_MIDDLE, RM_LAST, RM_FORWARD", what, (uint64_t)kind);
    return rmi_err_set(&x->err, RM_ERROR_ARGUMENT, "%s: the plan has no program for steps of kind '%s'; name it in rm_plan_desc.steps", what, name);
}

RMI_FN rm_result rmi_exe_step(rm_exec *x, const rm_step *s)
{
    uint32_t kind = s && s->kind ? s->kind : RM_SINGLE, i;
    rmi_exe_prog *prog = NULL;
    for (i = 0; i < x->n_prog; i++)
        if (x->prog[i].step == kind) prog = &x->prog[i];
    if (!prog) return rmi_exe_no_program(x, "rm_exec_step", kind);
    if (x->used_up && rmi_low_adds_to_earlier(kind)) return rmi_err_set(&x->err, RM_ERROR_ARGUMENT, "rm_exec_step: a step of kind '%s' adds to gradients of the steps before it, and an update has used them up, or a step failed; begin an accumulation with RM_FIRST", rmi_low_step_name(kind));
    RMI_TRY(rmi_exe_bound(x, prog));
    if (s) x->now = *s;
    else memset((void *)&x->now, 0, sizeof x->now);
    x->now.kind = kind;
    x->last = NULL;
    rmi_exe_drop_inputs(x, prog);
    if (kind != RM_FORWARD) {
        x->adrift = !rmi_low_grads_resident(kind);
        x->used_up = 1; /* until it has ended well */
    }
    RMI_TRY(x->lanes ? rmi_exe_broken(x, rmi_exe_step_lanes(x, prog)) : rmi_exe_step_plain(x, prog));
    x->last = prog;
    if (kind != RM_FORWARD) {
        x->adding = rmi_low_hands_on(kind);
        x->used_up = !x->adding;
    }
    x->touched = rmi_max(x->touched, rmi_exe_info_of(x, prog)->arena_bytes);
    x->steps++;
    return RM_OK;
}

/* --- what persists, by handle */

/* Where a view starts in the tensor that it is a view of, through other views too. */
RMI_FN uint64_t rmi_exe_view_offset(const rm_graph *g, uint32_t t)
{
    uint64_t off = 0;
    for (; g->tensors[t].root != t; t = g->ops[g->tensors[t].maker].view) off += g->ops[g->tensors[t].maker].view_offset;
    return off;
}

/* The address of a buffer between steps, or NULL with a message. write: it is about to be overwritten. */
RMI_FN unsigned char *rmi_exe_address(rm_exec *x, rm_tensor t, uint32_t what, int write, uint64_t *bytes)
{
    uint32_t b, id = t.id - 1;
    char name[300];
    int spent;
    const rmi_tensor *r;
    if (!t.id || t.id > x->g->n_tensors || what > RM_STATE) {
        rmi_err_set(&x->err, RM_ERROR_ARGUMENT, "the tensor is none or of another graph, or `what` is not RM_VALUE, RM_GRAD or RM_STATE");
        return NULL;
    }
    r = &x->g->tensors[id];
    b = rmi_low_buf(x->g, (rmi_buf_kind)what, id);
    *bytes = rmi_low_bytes(x->g, b);
    rmi_sch_name(x->g, b, name);
    if (rmi_low_external(x->g, b) && *bytes) {
        if (!x->bound[b]) rmi_err_set(&x->err, RM_ERROR_ARGUMENT, "%s is the caller's memory and not bound; call rm_exec_bind first", name);
        return (unsigned char *)x->bound[b];
    }
    if (r->kind == RMI_INPUT && what == RM_VALUE && !write) {
        rmi_err_set(&x->err, RM_ERROR_ARGUMENT, "%s is an input: its bytes are used for other things during a step; keep your own copy", name);
        return NULL;
    }
    spent = what == RM_GRAD && !write && (x->adrift || (x->last && r->updates && rmi_low_has_update(x->last->step))); /* its home holds anything */
    if ((x->home[b] != RMI_INF || x->host_home[b] != RMI_INF) && !spent) return x->home[b] != RMI_INF ? x->dev + (size_t)x->home[b] : x->host + (size_t)x->host_home[b];
    if (!*bytes && r->kind != RMI_ACT) return x->dev;
    if (write) {
        rmi_err_set(&x->err, RM_ERROR_ARGUMENT, "%s does not persist between steps: it cannot be written", name);
        return NULL;
    }
    if (!x->last) {
        rmi_err_set(&x->err, RM_ERROR_ARGUMENT, "%s: no step has been finished yet that leaves it", name);
        return NULL;
    }
    if ((what == RM_VALUE && r->is_output) || (what == RM_GRAD && rmi_seq_grad_stays(x->g, x->last->step, id)))
    {
        if (x->last->at_end[b] != RMI_INF || !*bytes) return x->dev + (size_t)(*bytes ? x->last->at_end[b] : 0);
        if (x->last->host_end[b] != RMI_INF) return x->host + (size_t)x->last->host_end[b];
    }
    if (what == RM_VALUE && r->is_output && x->bound[r->root]) return (unsigned char *)x->bound[r->root] + (size_t)rmi_exe_view_offset(x->g, id);
    rmi_err_set(&x->err, RM_ERROR_ARGUMENT, "%s is not there after this kind of step; %s", name, r->kind == RMI_INPUT ? "declare the input with RM_INPUT_GRAD" : what == RM_GRAD && r->kind != RMI_PARAM ? "only gradients of params and inputs can be read" : what == RM_GRAD ? "gradients of params that the library updates are gone then: read them from the update callback" : "declare it with rm_output_add");
    return NULL;
}

RMI_FN unsigned char *rmi_exe_range(rm_exec *x, rm_tensor t, uint32_t what, int write, uint64_t offset, uint64_t bytes)
{
    uint64_t have = 0;
    unsigned char *p = rmi_exe_address(x, t, what, write, &have);
    char name[300];
    if (!p) return NULL;
    if (rmi_add(offset, bytes) > have) {
        rmi_err_set(&x->err, RM_ERROR_ARGUMENT, "%s: bytes %u to %u were asked for; it has %u", rmi_sch_name(x->g, rmi_low_buf(x->g, (rmi_buf_kind)what, t.id - 1), name), offset, rmi_add(offset, bytes), have);
        return NULL;
    }
    return p + (size_t)offset;
}

/* --- bytes between the caller and where something is: the arena, through the backend, or host memory */
RMI_FN int rmi_exe_in_host(const rm_exec *x, const unsigned char *p) { return x->host && (uintptr_t)p >= (uintptr_t)x->host && (uintptr_t)p < (uintptr_t)x->host + (uintptr_t)x->host_bytes; }

/* A copy outside of steps; of many, no more are in flight than was said to the backend. */
RMI_FN int rmi_exe_transfer(rm_exec *x, void *to, const void *from, uint64_t bytes, uint32_t lane)
{
    if (rmi_exe_did(x, x->backend.copy(x->backend.user, to, from, bytes, lane))) return 1;
    return x->lanes && ++x->transfers % 32 == 0 && rmi_exe_did(x, x->backend.sync(x->backend.user));
}

RMI_FN int rmi_exe_put_at(rm_exec *x, unsigned char *to, const void *from, uint64_t bytes, uint32_t lane)
{
    if (!rmi_exe_in_host(x, to)) return rmi_exe_transfer(x, to, from, bytes, lane);
    memcpy(to, from, (size_t)bytes);
    return 0;
}
RMI_FN int rmi_exe_get_at(rm_exec *x, void *to, const unsigned char *from, uint64_t bytes, uint32_t lane)
{
    if (!rmi_exe_in_host(x, from)) return rmi_exe_transfer(x, to, from, bytes, lane);
    memcpy(to, from, (size_t)bytes);
    return 0;
}

/* Where buffer b persists; two places are the same. NULL: nowhere. */
RMI_FN unsigned char *rmi_exe_home(const rm_exec *x, uint32_t b)
{
    if (x->home[b] != RMI_INF) return x->dev + (size_t)x->home[b];
    return x->host_home[b] != RMI_INF ? x->host + (size_t)x->host_home[b] : NULL;
}

RMI_FN int rmi_exe_twice(const rm_exec *x, uint32_t b) { return x->home[b] != RMI_INF && x->host_home[b] != RMI_INF; }

/* Bytes of buffer b from `offset` on, to all its homes. */
RMI_FN int rmi_exe_put_home(rm_exec *x, uint32_t b, uint64_t offset, const void *from, uint64_t bytes)
{
    if (x->host_home[b] != RMI_INF) memcpy(x->host + (size_t)(x->host_home[b] + offset), from, (size_t)bytes);
    return x->home[b] != RMI_INF ? rmi_exe_put_at(x, x->dev + (size_t)(x->home[b] + offset), from, bytes, RM_LANE_H2D) : 0;
}

/* An input to the arena: in the compute lane, behind its last users there; the other lanes go on with the step before. */
RMI_FN rm_result rmi_exe_write_input(rm_exec *x, unsigned char *to, const void *from, uint64_t bytes)
{
    RMI_TRY(rmi_exe_open_inputs(x));
    if (rmi_exe_did(x, x->backend.copy(x->backend.user, to, from, bytes, RM_LANE_COMPUTE))) return rmi_exe_backend_failed(x, "writing an input", NULL);
    return rmi_exe_close_inputs(x);
}

RMI_FN rm_result rmi_exe_write(rm_exec *x, rm_tensor t, uint32_t what, uint64_t offset, unsigned char *to, const void *from, uint64_t bytes)
{
    uint32_t b = rmi_low_buf(x->g, (rmi_buf_kind)what, t.id - 1);
    if (x->lanes && what == RM_VALUE && x->g->tensors[t.id - 1].kind == RMI_INPUT && x->home[b] != RMI_INF && x->host_home[b] == RMI_INF) return rmi_exe_broken(x, rmi_exe_write_input(x, to, from, bytes));
    RMI_TRY(rmi_exe_drain(x));
    if (rmi_exe_home(x, b) ? rmi_exe_put_home(x, b, offset, from, bytes) : rmi_exe_put_at(x, to, from, bytes, RM_LANE_H2D)) return rmi_exe_backend_failed(x, "writing", x->g->tensors[t.id - 1].name);
    return rmi_exe_did(x, x->backend.sync(x->backend.user)) ? rmi_exe_backend_failed(x, "writing", x->g->tensors[t.id - 1].name) : RM_OK;
}

/* An output that the compute lane made: the other lanes go on. */
RMI_FN rm_result rmi_exe_read_output(rm_exec *x, void *to, const unsigned char *from, uint64_t bytes)
{
    if (rmi_exe_did(x, x->backend.copy(x->backend.user, to, from, bytes, RM_LANE_COMPUTE))) return rmi_exe_backend_failed(x, "reading an output", NULL);
    RMI_TRY(rmi_exe_record(x, RMI_EXE_EVENT_CALLER, RM_LANE_COMPUTE));
    return rmi_exe_wait(x, RMI_EXE_EVENT_CALLER, RM_LANE_CALLER);
}

/* Did a copy bring tensor t to the device in the last step? */
RMI_FN int rmi_exe_copied(const rm_exec *x, uint32_t t)
{
    size_t i;
    for (i = 0; x->last && i < x->last->n; i++)
        if (x->last->op[i].what == RMI_EXE_H2D && x->last->op[i].buf == t) return 1;
    return 0;
}

RMI_FN rm_result rmi_exe_read(rm_exec *x, rm_tensor t, uint32_t what, void *to, const unsigned char *from, uint64_t bytes)
{
    const rmi_tensor *r = &x->g->tensors[t.id - 1];
    if (x->lanes && what == RM_VALUE && r->kind == RMI_ACT && r->root == t.id - 1 && !r->external && !rmi_exe_copied(x, t.id - 1)) return rmi_exe_broken(x, rmi_exe_read_output(x, to, from, bytes));
    RMI_TRY(rmi_exe_drain(x));
    if (rmi_exe_get_at(x, to, from, bytes, RM_LANE_D2H)) return rmi_exe_backend_failed(x, "reading", r->name);
    return rmi_exe_did(x, x->backend.sync(x->backend.user)) ? rmi_exe_backend_failed(x, "reading", r->name) : RM_OK;
}

RMI_FN rm_result rmi_exe_bind(rm_exec *x, rm_tensor t, uint32_t what, void *memory)
{
    size_t i;
    uint32_t b;
    if (!t.id || t.id > x->g->n_tensors || what > RM_STATE || !rmi_low_external(x->g, rmi_low_buf(x->g, (rmi_buf_kind)what, t.id - 1)))
        return rmi_err_set(&x->err, RM_ERROR_ARGUMENT, "rm_exec_bind: %s was not declared RM_EXTERNAL; the plan places it", !t.id || t.id > x->g->n_tensors ? "the tensor (none)" : x->g->tensors[t.id - 1].name);
    b = rmi_low_buf(x->g, (rmi_buf_kind)what, t.id - 1);
    RMI_TRY(rmi_exe_drain(x));
    x->rebound |= x->lanes && x->bound[b] != memory;
    x->bound[b] = memory;
    for (i = 0; i < x->n_patches; i++)
        if (x->patches[i].buf == b) *x->patches[i].slot = memory ? (unsigned char *)memory + (size_t)x->patches[i].off : NULL;
    return RM_OK;
}

/* --- saving and restoring: a header, then for each buffer its name, its size and its bytes */
#define RMI_EXE_MAGIC "rockmate state 1\n"

RMI_FN int rmi_exe_saved_buffer(const rm_exec *x, uint32_t b)
{
    uint32_t i;
    rmi_buf_kind k = rmi_low_kind(x->g, b, &i);
    if (!rmi_low_bytes(x->g, b) || rmi_low_external(x->g, b)) return 0;
    if (k == RMI_BUF_VALUE) return x->g->tensors[i].kind == RMI_PARAM || x->g->tensors[i].kind == RMI_CONST;
    return k == RMI_BUF_STATE && x->g->tensors[i].kind == RMI_PARAM;
}

RMI_FN void rmi_exe_put_u64(rmi_sink *s, uint64_t v)
{
    unsigned char t[8];
    int i;
    for (i = 0; i < 8; i++) t[i] = (unsigned char)(v >> (8 * i));
    rmi_put_n(s, (const char *)t, 8);
}
RMI_FN uint64_t rmi_exe_get_u64(const unsigned char *t)
{
    uint64_t v = 0;
    int i;
    for (i = 8; i-- > 0;) v = v << 8 | t[i];
    return v;
}

/* Bytes go through the backend in pieces: a device has no pointer that a sink could read. */
RMI_FN rm_result rmi_exe_save(rm_exec *x, rmi_sink *s)
{
    unsigned char piece[4096];
    uint32_t b, nb = rmi_low_buffers(x->g);
    char name[300];
    RMI_TRY(rmi_exe_drain(x));
    rmi_put(s, RMI_EXE_MAGIC);
    for (b = 0; b < nb && !s->failed; b++) {
        uint64_t bytes = rmi_low_bytes(x->g, b), at, n;
        if (!rmi_exe_saved_buffer(x, b)) continue;
        rmi_sch_name(x->g, b, name);
        rmi_exe_put_u64(s, strlen(name));
        rmi_put(s, name);
        rmi_exe_put_u64(s, bytes);
        for (at = 0; at < bytes && !s->failed; at += n) {
            n = rmi_min(sizeof piece, bytes - at);
            if (rmi_exe_get_at(x, piece, rmi_exe_home(x, b) + (size_t)at, n, RM_LANE_D2H) || rmi_exe_did(x, x->backend.sync(x->backend.user))) return rmi_exe_backend_failed(x, "reading what persists", name);
            rmi_put_n(s, (const char *)piece, (size_t)n);
        }
    }
    return s->failed ? rmi_err_set(&x->err, RM_ERROR_WRITE, "rm_exec_save: the sink returned nonzero") : RM_OK;
}

/* Walks the saved state; apply 0 only checks it. */
RMI_FN rm_result rmi_exe_restore_walk(rm_exec *x, const unsigned char *data, size_t bytes, int apply)
{
    size_t at = strlen(RMI_EXE_MAGIC);
    uint32_t b, nb = rmi_low_buffers(x->g);
    char name[300];
    if (bytes < at || memcmp(data, RMI_EXE_MAGIC, at)) return rmi_err_set(&x->err, RM_ERROR_TEXT, "rm_exec_restore: this is not what rm_exec_save wrote (version 1)");
    for (b = 0; b < nb; b++) {
        uint64_t want = rmi_low_bytes(x->g, b), n;
        if (!rmi_exe_saved_buffer(x, b)) continue;
        rmi_sch_name(x->g, b, name);
        n = bytes - at >= 8 ? rmi_exe_get_u64(data + at) : RMI_INF;
        if (n != strlen(name) || bytes - at - 8 < n || memcmp(data + at + 8, name, (size_t)n)) return rmi_err_set(&x->err, RM_ERROR_TEXT, "rm_exec_restore: %s was expected at byte %u; the state is of another graph, or cut short", name, (uint64_t)at);
        at += 8 + (size_t)n;
        n = bytes - at >= 8 ? rmi_exe_get_u64(data + at) : RMI_INF;
        if (n != want || bytes - at - 8 < n) return rmi_err_set(&x->err, RM_ERROR_TEXT, "rm_exec_restore: %s has %u bytes in this graph; the state has another size, or is cut short", name, want);
        at += 8;
        if (apply && rmi_exe_put_home(x, b, 0, data + at, n)) return rmi_exe_backend_failed(x, "writing what persists", name);
        at += (size_t)n;
    }
    if (at != bytes) return rmi_err_set(&x->err, RM_ERROR_TEXT, "rm_exec_restore: %u bytes are left over; the state is of another graph", (uint64_t)(bytes - at));
    return apply && rmi_exe_did(x, x->backend.sync(x->backend.user)) ? rmi_exe_backend_failed(x, "writing what persists", NULL) : RM_OK;
}

/* --- another plan, the same training */
RMI_FN rm_result rmi_exe_carry_over(rm_exec *to, rm_exec *from)
{
    uint32_t b, nb = rmi_low_buffers(to->g);
    for (b = 0; b < nb; b++) {
        uint64_t bytes = rmi_low_bytes(to->g, b);
        unsigned char *src = rmi_exe_home(from, b), *dst;
        if (!src || !rmi_exe_home(to, b) || !bytes) continue;
        if (rmi_exe_in_host(from, src)) {
            if (rmi_exe_put_home(to, b, 0, src, bytes)) return RM_ERROR_BACKEND;
            continue;
        }
        if (to->host_home[b] != RMI_INF && rmi_exe_get_at(to, to->host + (size_t)to->host_home[b], src, bytes, RM_LANE_D2H)) return RM_ERROR_BACKEND;
        dst = to->home[b] != RMI_INF ? to->dev + (size_t)to->home[b] : NULL;
        if (dst && rmi_exe_transfer(to, dst, src, bytes, RM_LANE_COMPUTE)) return RM_ERROR_BACKEND;
    }
    return rmi_exe_did(to, to->backend.sync(to->backend.user)) ? RM_ERROR_BACKEND : RM_OK;
}

/* Amid an accumulation: does the new plan go on with it, and has it a place for what has been added up? */
RMI_FN rm_result rmi_exe_goes_on(rm_exec *x, const rm_plan *p)
{
    const rmi_program *to = NULL;
    char name[300];
    uint32_t i, b;
    size_t k;
    for (i = 0; i < p->n; i++)
        if (rmi_low_adds_to_earlier(p->prog[i].step)) to = &p->prog[i];
    for (i = 0; i < x->g->n_tensors && x->adding; i++) {
        const rmi_tensor *t = &x->g->tensors[i];
        b = rmi_low_buf(x->g, RMI_BUF_GRAD, i);
        if (t->kind != RMI_PARAM || !t->consumers.n || !rmi_low_bytes(x->g, b) || rmi_low_external(x->g, b)) continue;
        for (k = 0; to && k < to->n_homes && to->homes[k].buf != b;) k++;
        if (to && k < to->n_homes) continue;
        return rmi_err_set(&x->err, RM_ERROR_ARGUMENT, "rm_exec_replan: gradients are being accumulated, and the new plan has no place for %s; finish with a step of kind RM_LAST first, or plan with RM_MIDDLE | RM_LAST in rm_plan_desc.steps", rmi_sch_name(x->g, b, name));
    }
    return RM_OK;
}

/* After a move: what points into the object itself. */
RMI_FN void rmi_exe_settle(rm_exec *x)
{
    if (x->d.backend) x->d.backend = &x->backend;
    else x->backend.user = x;
}

/* The caller's memory, as it was bound, for calls that have been compiled anew. */
RMI_FN void rmi_exe_rebind(rm_exec *x)
{
    uint32_t b, nb = rmi_low_buffers(x->g);
    for (b = 0; b < nb; b++)
        if (x->bound[b]) {
            rm_tensor t;
            t.id = b % x->g->n_tensors + 1;
            rmi_exe_bind(x, t, b / x->g->n_tensors, x->bound[b]);
        }
}

RMI_FN rm_result rmi_exe_replan(rm_exec *x, rm_plan *p)
{
    rm_exec *y = NULL;
    rm_exec_desc d = x->d;
    rm_backend host;
    rm_exec swap;
    rm_result r;
    uint32_t b;
    if (p->g != x->g) return rmi_err_set(&x->err, RM_ERROR_ARGUMENT, "rm_exec_replan: the plan is of another graph; make it with the graph of this executor's plan");
    if (d.device_memory || d.host_memory) return rmi_err_set(&x->err, RM_ERROR_ARGUMENT, "rm_exec_replan: this executor runs in memory that the caller gave; save, create another one and restore");
    RMI_TRY(rmi_exe_goes_on(x, p));
    RMI_TRY(rmi_exe_drain(x));
    memset((void *)&host, 0, sizeof host);
    host.stream = x->backend.stream;
    if (!d.backend) d.backend = &host;
    r = rmi_exe_create(p, &d, &y);
    if (r == RM_OK) r = rmi_exe_carry_over(y, x);
    if (r != RM_OK) {
        if (r == RM_ERROR_BACKEND && y) {
            x->code = y->code;
            rmi_exe_backend_failed(x, "carrying over what persists", NULL);
        } else {
            rmi_err_set(&x->err, r, "%s", p->g->last.text);
        }
        x->no_room = r == RM_ERROR_BACKEND && !y && x->d.backend;
        rmi_exe_free(y);
        x->rebound = 1; /* the backend may have made the events of the other one */
        return r;
    }
    swap = *x; /* the handle stays the same: trade insides, then drop the old ones; calls point at the step values inside x */
    *x = *y;
    *y = swap;
    swap.mem = x->mem;
    x->mem = y->mem;
    y->mem = swap.mem;
    x->err = y->err;
    x->steps = y->steps;
    x->adrift = y->adrift;
    x->adding = y->adding;
    x->used_up = y->used_up;
    rmi_exe_settle(x);
    rmi_exe_settle(y);
    {
        void **bound = x->bound;
        uint8_t *stale = x->stale;
        x->bound = y->bound;
        y->bound = bound;
        x->stale = y->stale;
        y->stale = stale;
    }
    rmi_exe_free(y);
    for (b = 0; b < x->n_prog; b++) {
        size_t k;
        for (k = 0; k < x->prog[b].n; k++) {
            x->prog[b].op[k].x = x;
            if (x->prog[b].op[k].call) x->prog[b].op[k].call->step = &x->now;
        }
    }
    rmi_exe_rebind(x);
    return RM_OK;
}

/* --- profiling: medians per class of equal ops */
typedef struct rmi_exe_sample {
    uint32_t cls, slot; /* slot: 0 first forward, 1 recomputation, 2 and on parts of the backward */
    uint64_t ns;
} rmi_exe_sample;

typedef struct rmi_exe_profile {
    rm_exec *x;
    rmi_arena tmp;
    uint32_t *cls;          /* by op, then by param */
    uint32_t n_cls;
    rmi_exe_sample *sample;
    size_t n, cap;
    unsigned char *copy;    /* of all that persists, and the inputs */
    uint64_t *copy_at;      /* by buffer */
    uint8_t *stale;         /* by tensor, as in the executor */
    int adding, adrift, used_up; /* as there */
    uint64_t steps;
} rmi_exe_profile;

RMI_FN int rmi_exe_cmp_sample(const void *a, const void *b, void *user)
{
    const rmi_exe_sample *x = (const rmi_exe_sample *)a, *y = (const rmi_exe_sample *)b;
    (void)user;
    if (x->cls != y->cls) return x->cls < y->cls ? -1 : 1;
    if (x->slot != y->slot) return x->slot < y->slot ? -1 : 1;
    return x->ns < y->ns ? -1 : x->ns > y->ns;
}

RMI_FN int rmi_exe_same_op(const rmi_op *a, const rmi_op *b)
{
    return a->forms[0].forward == b->forms[0].forward && a->forms[0].backward == b->forms[0].backward && (!a->arg || !b->arg || !memcmp(a->arg, b->arg, RM_MAX_ARGS * sizeof(int64_t))) && (!a->farg || !b->farg || !memcmp(a->farg, b->farg, RM_MAX_ARGS * sizeof(double)));
}

/* Ops of one structure, one pair of callbacks and equal arguments are one class; params by sizes and callbacks. */
/* Params with equal callbacks and sizes are one class: sorted by these, equal ones are neighbours. */
RMI_FN int rmi_exe_cmp_param(const void *a, const void *b, void *user)
{
    const rm_graph *g = (const rm_graph *)user;
    uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
    const rmi_tensor *s = &g->tensors[i], *t = &g->tensors[k];
    int by_call = memcmp(&s->update, &t->update, sizeof s->update); /* functions can be told apart, not ordered */
    if (!by_call) by_call = memcmp(&s->update_host, &t->update_host, sizeof s->update_host);
    if (by_call) return by_call;
    if (s->bytes != t->bytes) return s->bytes < t->bytes ? -1 : 1;
    if (s->grad_bytes != t->grad_bytes) return s->grad_bytes < t->grad_bytes ? -1 : 1;
    if (s->state_bytes != t->state_bytes) return s->state_bytes < t->state_bytes ? -1 : 1;
    return i < k ? -1 : i > k;
}

RMI_FN rm_result rmi_exe_param_classes(rmi_exe_profile *f)
{
    const rm_graph *g = f->x->g;
    uint32_t *params = RMI_NEW(&f->tmp, uint32_t, g->n_tensors), i, n = 0, first = 0;
    if (!params) return RM_ERROR_MEMORY;
    for (i = 0; i < g->n_tensors; i++) {
        f->cls[g->n_ops + i] = f->n_cls + i;
        if (g->tensors[i].kind == RMI_PARAM) params[n++] = i;
    }
    rmi_sort(params, n, sizeof *params, rmi_exe_cmp_param, (void *)g);
    for (i = 0; i < n; i++) {
        const rmi_tensor *s = &g->tensors[params[first]], *t = &g->tensors[params[i]];
        if (s->update != t->update || s->update_host != t->update_host || s->bytes != t->bytes || s->grad_bytes != t->grad_bytes || s->state_bytes != t->state_bytes) first = i;
        f->cls[g->n_ops + params[i]] = f->n_cls + params[first];
    }
    return RM_OK;
}

RMI_FN rm_result rmi_exe_classes(rmi_exe_profile *f)
{
    const rm_graph *g = f->x->g;
    uint32_t *range = RMI_NEW(&f->tmp, uint32_t, 2 * (size_t)g->n_ops), *first, *split, i, n;
    f->cls = RMI_NEW(&f->tmp, uint32_t, (size_t)g->n_ops + g->n_tensors);
    if (!range || !f->cls) return RM_ERROR_MEMORY;
    for (i = 0; i < g->n_ops; i++) {
        range[2 * i] = i;
        range[2 * i + 1] = i + 1;
    }
    RMI_TRY(rmi_shp_classes(&f->tmp, g, range, g->n_ops, f->cls, &n));
    first = RMI_NEW(&f->tmp, uint32_t, n);     /* by structure: first class of it */
    split = RMI_NEW(&f->tmp, uint32_t, 2 * (size_t)g->n_ops); /* by class: an op of it, the next class of the same structure */
    if (!first || !split) return RM_ERROR_MEMORY;
    for (i = 0; i < g->n_ops; i++) {
        uint32_t *link = &first[f->cls[i]];
        while (*link && !rmi_exe_same_op(&g->ops[split[2 * (*link - 1)]], &g->ops[i])) link = &split[2 * (*link - 1) + 1];
        if (!*link) {
            split[2 * f->n_cls] = i;
            *link = ++f->n_cls;
        }
        f->cls[i] = *link - 1;
    }
    return rmi_exe_param_classes(f);
}

/* Copies all homes to host memory (back 0), all of them from there (1), or the inputs alone (2). */
RMI_FN rm_result rmi_exe_snapshot(rmi_exe_profile *f, int back)
{
    rm_exec *x = f->x;
    uint32_t b, nb = rmi_low_buffers(x->g);
    uint64_t total = 0;
    if (!back) {
        f->copy_at = RMI_NEW(&f->tmp, uint64_t, nb);
        if (!f->copy_at) return RM_ERROR_MEMORY;
        for (b = 0; b < nb; b++) {
            f->copy_at[b] = RMI_INF;
            if (!rmi_exe_home(x, b) && !(x->bound[b] && rmi_low_external(x->g, b))) continue;
            f->copy_at[b] = total;
            total += rmi_low_bytes(x->g, b);
        }
        if (total > SIZE_MAX / 8) return RM_ERROR_MEMORY;
        f->copy = RMI_NEW(&f->tmp, unsigned char, total);
        f->stale = RMI_NEW(&f->tmp, uint8_t, x->g->n_tensors);
        if (!f->copy || !f->stale) return RM_ERROR_MEMORY;
        f->adding = x->adding;
        f->adrift = x->adrift;
        f->used_up = x->used_up;
        f->steps = x->steps;
    }
    if (back == 1) {
        x->adding = f->adding;
        x->adrift = f->adrift;
        x->used_up = f->used_up;
        x->steps = f->steps;
    }
    memcpy(back ? x->stale : f->stale, back ? f->stale : x->stale, x->g->n_tensors);
    for (b = 0; b < nb; b++) {
        unsigned char *at = rmi_exe_home(x, b), *copy;
        uint64_t bytes = rmi_low_bytes(x->g, b);
        int failed = 0;
        if (f->copy_at[b] == RMI_INF || (!at && (!rmi_low_external(x->g, b) || !x->bound[b]))) continue;
        if (back == 2 && (b >= x->g->n_tensors || x->g->tensors[b].kind != RMI_INPUT)) continue;
        copy = f->copy + (size_t)f->copy_at[b];
        if (!at) failed = back ? rmi_exe_put_at(x, (unsigned char *)x->bound[b], copy, bytes, RM_LANE_H2D) : rmi_exe_get_at(x, copy, (unsigned char *)x->bound[b], bytes, RM_LANE_D2H);
        else failed = back ? rmi_exe_put_home(x, b, 0, copy, bytes) : rmi_exe_get_at(x, copy, at, bytes, RM_LANE_D2H);
        if (failed) return rmi_exe_backend_failed(x, "setting aside what persists", NULL);
    }
    return rmi_exe_did(x, x->backend.sync(x->backend.user)) ? rmi_exe_backend_failed(x, "setting aside what persists", NULL) : RM_OK;
}

/* The time of one op, alone, by the backend's marks (of the compute lane) or its clock. */
RMI_FN rm_result rmi_exe_timed_op(rm_exec *x, rmi_exe_op *op, uint64_t *ns)
{
    const rm_backend *b = &x->backend;
    const char *name = op->call ? op->call->op : NULL;
    int marks = b->mark && b->marked && op->lane == RM_LANE_COMPUTE;
    uint64_t begin;
    if (rmi_exe_did(x, b->sync(b->user))) return rmi_exe_backend_failed(x, "waiting before an op", name);
    begin = b->now(b->user);
    if (marks && rmi_exe_did(x, b->mark(b->user, 0))) return rmi_exe_backend_failed(x, "timing", name);
    RMI_TRY(rmi_exe_run(x, op));
    if (marks && rmi_exe_did(x, b->mark(b->user, 1))) return rmi_exe_backend_failed(x, "timing", name);
    if (rmi_exe_did(x, b->sync(b->user))) return rmi_exe_backend_failed(x, "waiting for an op", name);
    *ns = b->now(b->user) - begin;
    return marks && rmi_exe_did(x, b->marked(b->user, ns)) ? rmi_exe_backend_failed(x, "timing", name) : RM_OK;
}

RMI_FN rm_result rmi_exe_timed_step(rmi_exe_profile *f, rmi_exe_prog *prog)
{
    rm_exec *x = f->x;
    size_t k;
    uint32_t lane;
    for (lane = 0; lane < RMI_LANES; lane++) { /* lanes of the host begin by hand: one op at a time needs no waits */
        x->turn[lane].values[0] = x->now;
        x->turn[lane].in = x->turn[lane].out = 1;
    }
    if (x->backend.begin && rmi_exe_did(x, x->backend.begin(x->backend.user, (uint32_t)(prog - x->prog), &x->now, NULL))) return rmi_exe_backend_failed(x, "beginning a step", NULL);
    for (k = 0; k < prog->n; k++) {
        rmi_exe_op *op = &prog->op[k];
        rmi_exe_sample *s;
        uint64_t ns = 0;
        RMI_TRY(rmi_exe_timed_op(x, op, &ns));
        if (op->what != RMI_EXE_CALL || op->run.way == RMI_REDUCE || op->run.way == RMI_BARRIER || (op->run.way <= RMI_BWD && op->run.form)) continue;
        if (!rmi_arena_grow(&f->tmp, (void **)&f->sample, &f->cap, f->n + 1, sizeof(rmi_exe_sample))) return rmi_err_memory(&x->err);
        s = &f->sample[f->n++];
        s->cls = f->cls[op->run.way <= RMI_BWD ? op->run.id : x->g->n_ops + op->run.id];
        s->slot = op->run.way == RMI_FWD ? op->call->recompute : op->run.way == RMI_BWD ? 2u + op->run.part : op->run.way == RMI_OPT_HOST ? 1 : 0;
        s->ns = ns ? ns : 1; /* below the clock's grain: not nothing */
    }
    return RM_OK;
}

/* The median of a class and slot, or 0 if there is no sample; samples are sorted. */
RMI_FN uint64_t rmi_exe_median(const rmi_exe_profile *f, uint32_t cls, uint32_t slot)
{
    size_t lo = 0, hi = f->n, end;
    rmi_exe_sample key;
    key.cls = cls;
    key.slot = slot;
    key.ns = 0;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (rmi_exe_cmp_sample(&f->sample[mid], &key, NULL) < 0) lo = mid + 1;
        else hi = mid;
    }
    for (end = lo; end < f->n && f->sample[end].cls == cls && f->sample[end].slot == slot;) end++;
    return end > lo ? f->sample[lo + (end - lo - 1) / 2].ns : 0;
}

RMI_FN void rmi_exe_costs(const rmi_exe_profile *f)
{
    rm_graph *g = f->x->g;
    uint32_t i, p;
    for (i = 0; i < g->n_ops; i++) {
        rmi_form *form = &g->ops[i].forms[0];
        uint64_t fwd = rmi_exe_median(f, f->cls[i], 0), again = rmi_exe_median(f, f->cls[i], 1), sum = 0, seen = 0;
        if (fwd) {
            form->fwd = fwd;
            form->again = again ? again : fwd;
            form->unmeasured_fwd = form->unmeasured_again = 0;
        }
        for (p = 0; p < form->n_parts; p++) {
            uint64_t ns = rmi_exe_median(f, f->cls[i], 2 + p);
            if (ns) {
                form->parts[p].bwd = ns;
                form->parts[p].unmeasured = 0;
                seen++;
            }
            sum += form->parts[p].bwd;
        }
        if (seen || !g->ops[i].has_bwd) form->unmeasured_bwd = 0;
        if (seen && form->own_parts == 0) form->bwd = sum;
    }
    for (i = 0; i < g->n_tensors; i++) {
        rmi_tensor *t = &g->tensors[i];
        uint64_t ns = rmi_exe_median(f, f->cls[g->n_ops + i], 0);
        if (t->kind == RMI_PARAM && ns && t->opt != RMI_INF) {
            t->opt = ns;
            t->unmeasured = 0;
        }
        ns = rmi_exe_median(f, f->cls[g->n_ops + i], 1);
        if (t->kind == RMI_PARAM && ns && t->opt_host != RMI_INF) {
            t->opt_host = ns;
            t->unmeasured_host = 0;
        }
    }
    g->hashed = 0;
    rmi_graph_estimate(g);
}

RMI_FN rm_result rmi_exe_profile_steps(rmi_exe_profile *f, const rm_step *s, uint32_t repeats)
{
    rm_exec *x = f->x;
    uint32_t i, kind = s && s->kind ? s->kind : RM_SINGLE;
    rmi_exe_prog *prog = NULL;
    for (i = 0; i < x->n_prog; i++)
        if (x->prog[i].step == kind) prog = &x->prog[i];
    if (!prog) return rmi_exe_no_program(x, "rm_exec_profile", kind);
    if (!x->backend.now) return rmi_err_set(&x->err, RM_ERROR_ARGUMENT, "rm_exec_profile: the backend has no clock; set rm_backend.now");
    RMI_TRY(rmi_exe_bound(x, prog));
    if (s) x->now = *s;
    else memset((void *)&x->now, 0, sizeof x->now);
    x->now.kind = kind;
    x->last = NULL;
    for (i = 0; i < repeats; i++) {
        rm_result r = rmi_exe_broken(x, rmi_exe_timed_step(f, prog)), undo;
        undo = rmi_exe_quiet(x) ? RM_ERROR_BACKEND : rmi_exe_snapshot(f, r == RM_OK && i + 1 < repeats ? 2 : 1); /* a step uses inputs up; times do not hang on weights */
        if (r != RM_OK) return r;
        if (undo != RM_OK) return undo;
        if (i == 0 && repeats > 1) f->n = 0; /* the first step warms caches and page tables */
    }
    return RM_OK;
}

/* One update in host memory, on zeros of its own: the least of some times, or 0 if there is no room for it. */
RMI_FN rm_result rmi_exe_time_update(rm_exec *x, const rmi_tensor *t, rm_fn update, uint32_t repeats, uint64_t *ns)
{
    rmi_arena mem = rmi_arena_make(&x->mem.hooks);
    rm_call c;
    uint32_t i;
    int code = 0;
    *ns = 0;
    memset((void *)&c, 0, sizeof c);
    c.phase = RM_PHASE_UPDATE;
    c.op = t->name;
    c.user = t->user;
    c.step = &x->now;
    if (t->arg) memcpy(c.arg, t->arg, sizeof c.arg);
    if (t->farg) memcpy(c.farg, t->farg, sizeof c.farg);
    c.param_bytes = t->bytes;
    c.grad_bytes = t->grad_bytes;
    c.state_bytes = t->state_bytes;
    c.ws_bytes = update == t->update ? t->opt_ws : 0;
    if (rmi_max(rmi_max(t->bytes, t->grad_bytes), rmi_max(t->state_bytes, c.ws_bytes)) <= SIZE_MAX / 8) {
        c.param = RMI_NEW(&mem, unsigned char, t->bytes);
        c.grad = RMI_NEW(&mem, unsigned char, t->grad_bytes);
        if (t->state_bytes) c.state = RMI_NEW(&mem, unsigned char, t->state_bytes);
        if (c.ws_bytes) c.ws = RMI_NEW(&mem, unsigned char, c.ws_bytes);
    }
    for (i = 0; i < repeats && !code && c.param && c.grad && !c.state == !t->state_bytes && !c.ws == !c.ws_bytes; i++) {
        uint64_t begin = x->backend.now(x->backend.user), took;
        code = update(&c);
        took = rmi_max(1, x->backend.now(x->backend.user) - begin);
        *ns = *ns ? rmi_min(*ns, took) : took;
    }
    rmi_arena_free(&mem);
    return code ? rmi_exe_callback_failed(x, &c, code) : RM_OK;
}

/* Updates on the side on which the plan does not run them: a plan that would is not found without their times. Equal ones once.
   A device's are timed where it is the host. */
RMI_FN rm_result rmi_exe_time_updates(rmi_exe_profile *f, uint32_t repeats)
{
    rm_graph *g = f->x->g;
    uint32_t i, k, side;
    uint64_t ns;
    for (side = 0; side < 2; side++)
        for (i = 0; i < g->n_tensors; i++) {
            const rmi_tensor *t = &g->tensors[i];
            rm_fn update = side ? t->update_host : f->x->d.backend ? NULL : t->update;
            if (t->kind != RMI_PARAM || !(side ? t->unmeasured_host : t->unmeasured) || !update) continue;
            RMI_TRY(rmi_exe_time_update(f->x, t, update, repeats, &ns));
            for (k = i; k < g->n_tensors && ns; k++) {
                if (g->tensors[k].kind != RMI_PARAM || f->cls[g->n_ops + k] != f->cls[g->n_ops + i]) continue;
                *(side ? &g->tensors[k].opt_host : &g->tensors[k].opt) = ns;
                *(side ? &g->tensors[k].unmeasured_host : &g->tensors[k].unmeasured) = 0;
            }
        }
    rmi_graph_estimate(g);
    return RM_OK;
}

RMI_FN rm_result rmi_exe_profile_run(rm_exec *x, const rm_step *s, uint32_t repeats)
{
    rmi_exe_profile f;
    rm_result r;
    memset((void *)&f, 0, sizeof f);
    f.x = x;
    f.tmp = rmi_arena_make(&x->mem.hooks);
    r = rmi_exe_drain(x);
    if (r == RM_OK) r = rmi_exe_classes(&f);
    if (r == RM_OK) r = rmi_exe_snapshot(&f, 0);
    if (r == RM_ERROR_MEMORY) rmi_err_memory(&x->err);
    if (r == RM_OK) r = rmi_exe_profile_steps(&f, s, repeats ? repeats : 3);
    if (r == RM_OK) {
        rmi_sort(f.sample, f.n, sizeof(rmi_exe_sample), rmi_exe_cmp_sample, NULL);
        rmi_exe_costs(&f);
        r = rmi_exe_time_updates(&f, repeats ? repeats : 3);
        if (r == RM_OK) r = rmi_graph_check_sums(x->g);
    }
    rmi_arena_free(&f.tmp);
    return r;
}

/* --- replanning where there is no room for two arenas */

/* x with plan p, in memory of its own, what was set aside put back. */
RMI_FN rm_result rmi_exe_reload(rmi_exe_profile *f, rm_plan *p)
{
    rm_exec *x = f->x;
    rm_result r;
    rmi_exe_unload(x);
    x->p = p;
    x->before = NULL;
    x->inputs_open = 0;
    x->ends[0] = x->ends[1] = 0;
    memset((void *)x->turn, 0, sizeof x->turn);
    RMI_TRY(rmi_exe_load(x, &x->err));
    rmi_exe_rebind(x);
    if (rmi_exe_did(x, x->backend.sync(x->backend.user))) return rmi_exe_backend_failed(x, "clearing the arena", NULL);
    r = rmi_exe_snapshot(f, 1);
    if (r == RM_OK) r = rmi_exe_drain(x);
    return r;
}

/* What persists waits in the library's own memory while one arena goes and the other comes. If the new one cannot be had the old
   one comes back; if not even that is possible any more, x has no program left and says so. */
RMI_FN rm_result rmi_exe_replan_apart(rm_exec *x, rm_plan *p)
{
    rmi_exe_profile f;
    rm_plan *old = x->p;
    rmi_error why;
    rm_result r;
    uint32_t b, nb = rmi_low_buffers(x->g);
    uint64_t *none = RMI_NEW(&x->mem, uint64_t, nb);
    if (!none) return rmi_err_memory(&x->err);
    for (b = 0; b < nb; b++) none[b] = RMI_INF;
    memset((void *)&f, 0, sizeof f);
    f.x = x;
    f.tmp = rmi_arena_make(&x->mem.hooks);
    r = rmi_exe_snapshot(&f, 0);
    if (r == RM_ERROR_MEMORY) rmi_err_memory(&x->err);
    if (r == RM_OK) {
        r = rmi_exe_reload(&f, p);
        why = x->err;
        if (r != RM_OK && rmi_exe_reload(&f, old) != RM_OK) {
            rmi_exe_unload(x);
            x->home = x->host_home = none;
        }
        if (r != RM_OK) x->err = why;
    }
    rmi_arena_free(&f.tmp);
    return r;
}

RMI_FN rm_result rmi_exe_replan_anyhow(rm_exec *x, rm_plan *p)
{
    rm_result r;
    x->no_room = 0;
    r = rmi_exe_replan(x, p);
    return x->no_room ? rmi_exe_replan_apart(x, p) : r;
}

/* =====================================================================================================================
   >>check - finds wrong declarations of kinds
   In: an executor between steps. Out: the first lie, by name. The plan's runs are walked once more with a buffer of its own for
   everything. Each call is made several times in a frame: copies of its operands with guard bytes around them, over different
   poison, with one right of the executor used at a time (in place, recomputed, not wanted, added to); bits must not change.
   Then the planned step must leave the same bits, and gradients must be the slopes of the loss.
   Cost: about ten steps, and all tensors at once in host memory.
   ================================================================================================================== */
#define RMI_CHK_GUARD 64u
#define RMI_CHK_NAN 0xFFu   /* poison: NaN in every float format, -1 */
#define RMI_CHK_OTHER 0x42u /* poison: a number of a size that no addition hides (48.6 as float, 1.6e11 as double) */
#define RMI_CHK_SMALL 0x3Cu /* poison: about 0.01 as float, 1.5 as double */

typedef enum rmi_chk_role { RMI_CHK_IN, RMI_CHK_OUT, RMI_CHK_SAVED, RMI_CHK_WS, RMI_CHK_DIN, RMI_CHK_DOUT, RMI_CHK_PARAM, RMI_CHK_GRAD, RMI_CHK_STATE } rmi_chk_role;
typedef enum rmi_chk_writes { RMI_CHK_READ, RMI_CHK_RESULT, RMI_CHK_SCRATCH } rmi_chk_writes;

typedef struct rmi_chk_box { /* one buffer of the call in the frame */
    unsigned char *p;
    uint64_t bytes;
    const unsigned char *from; /* its bytes before the call; NULL: poison */
    unsigned char *result;     /* of the first run; RESULT only */
    uint32_t role, slot;       /* in[slot] ...; the first one if a tensor stands there twice */
    uint32_t tensor;           /* or RMI_NONE */
    uint8_t writes, undeclared;
    /* of the next run */
    uint32_t over;             /* the call sees the bytes of that box instead, or RMI_NONE */
    uint32_t fill;             /* a byte that replaces its content, or RMI_NONE */
    uint8_t off, loose;        /* the call sees NULL; may be written, for another box lies over it */
} rmi_chk_box;

typedef struct rmi_chk_frame {
    rm_call c;
    rm_fn fn;
    rmi_chk_box *box;
    uint32_t n;
    uint32_t *in, *out, *din, *dout, saved, ws, param, grad, state; /* boxes, or RMI_NONE */
    const void **in_ptr, **out_ptr, **din_ptr, **dout_ptr;
    uint32_t guard;       /* byte of this run */
    const uint8_t *adds;  /* by tensor: its gradient holds contributions in this run; NULL: none does */
    int zeroed, once;     /* RM_ZERO_GRADS; may give other results each time */
    int unsteady;         /* and does */
    const char *kind;
    char what[300];       /* "op h[0]/gelu: its forward" */
} rmi_chk_frame;

typedef struct rmi_chk {
    rm_exec *x;
    rm_graph *g;
    const rmi_program *p;
    rmi_exe_profile aside;  /* what persists, and the inputs */
    rmi_arena mem, tmp;     /* of the check; of one run */
    unsigned char **value, **grad, **state, **host; /* by tensor; host: gradients that wait in host memory */
    uint32_t *form_at;      /* by op: its first form in the next two */
    unsigned char **saved, **saved_too; /* what a forward left; the same with other bytes where it left none */
    uint8_t *holds, *on_host;           /* by tensor, of its gradient: contributions are there; they are complete in host memory only */
    uint8_t *ran, *seen;    /* by op: its forward; its backward */
    uint16_t *form;         /* by op: of its first forward */
    uint8_t unsteady;       /* an op that runs once gives other results each time: steps cannot be compared */
    const rm_check_desc *d; /* or NULL: no finite differences */
    struct rmi_chk_sample *sample; /* d->finite_differences for each tensor */
    uint8_t *sampled;       /* by tensor */
} rmi_chk;

RMI_FN rm_result rmi_chk_found(rmi_chk *k, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    rmi_err_vset(&k->x->err, RM_ERROR_CHECK, fmt, args);
    va_end(args);
    return RM_ERROR_CHECK;
}

/* --- frames */

/* The end of a run: its copies go. Small blocks again, for most ops need little. */
RMI_FN void rmi_chk_forget(rmi_chk *k)
{
    rmi_arena_free(&k->tmp);
    k->tmp.next_size = 4096;
}

/* Bytes with room for guards on both sides, aligned as in the arena; zeroed. */
RMI_FN unsigned char *rmi_chk_bytes(rmi_chk *k, rmi_arena *mem, uint64_t bytes)
{
    uint64_t align = k->x->p->align > RMI_ALIGN ? k->x->p->align : RMI_ALIGN, size = rmi_add(bytes, align + 2 * RMI_CHK_GUARD);
    unsigned char *p;
    if (size > SIZE_MAX / 8) return NULL;
    p = RMI_NEW(mem, unsigned char, size);
    if (!p) return NULL;
    p += RMI_CHK_GUARD;
    return p + (size_t)((align - (uint64_t)(uintptr_t)p % align) % align);
}

RMI_FN rm_result rmi_chk_add(rmi_chk *k, rmi_chk_frame *f, uint32_t role, uint32_t slot, uint32_t tensor, uint64_t bytes, const unsigned char *from, rmi_chk_writes writes, uint32_t *out)
{
    rmi_chk_box *b = &f->box[f->n];
    b->p = rmi_chk_bytes(k, &k->tmp, bytes);
    b->result = writes == RMI_CHK_RESULT ? rmi_chk_bytes(k, &k->tmp, bytes) : NULL;
    if (!b->p || (writes == RMI_CHK_RESULT && !b->result)) return RM_ERROR_MEMORY;
    b->bytes = bytes;
    b->from = from;
    b->role = role;
    b->slot = slot;
    b->tensor = tensor;
    b->writes = (uint8_t)writes;
    *out = f->n++;
    return RM_OK;
}

/* A frame for a call with so many operands, without boxes yet. */
RMI_FN rm_result rmi_chk_frame_make(rmi_chk *k, uint32_t n_in, uint32_t n_out, const char *thing, const char *name, const char *phase, rmi_chk_frame **out)
{
    rmi_chk_frame *f = RMI_NEW(&k->tmp, rmi_chk_frame, 1);
    size_t n = 2 * ((size_t)n_in + n_out), i, at = 0;
    const char *part[4];
    if (!f) return RM_ERROR_MEMORY;
    f->box = RMI_NEW(&k->tmp, rmi_chk_box, n + 5);
    f->in = RMI_NEW(&k->tmp, uint32_t, n);
    f->in_ptr = RMI_NEW(&k->tmp, const void *, n);
    if (!f->box || !f->in || !f->in_ptr) return RM_ERROR_MEMORY;
    for (i = 0; i < n; i++) f->in[i] = RMI_NONE;
    f->saved = f->ws = f->param = f->grad = f->state = RMI_NONE;
    f->din = f->in + n_in;
    f->out = f->din + n_in;
    f->dout = f->out + n_out;
    f->din_ptr = f->in_ptr + n_in;
    f->out_ptr = f->din_ptr + n_in;
    f->dout_ptr = f->out_ptr + n_out;
    f->c.n_in = n_in;
    f->c.n_out = n_out;
    f->c.op = name;
    f->c.step = &k->x->now;
    f->c.stream = k->x->backend.stream;
    part[0] = thing;
    part[1] = name;
    part[2] = ": its ";
    part[3] = phase;
    for (i = 0; i < 4; i++) {
        const char *s = part[i];
        while (*s && at + 1 < sizeof f->what) f->what[at++] = *s++;
    }
    *out = f;
    return RM_OK;
}

/* "input 0 (x)" into out, which has room for 320. */
RMI_FN const char *rmi_chk_name(const rmi_chk *k, const rmi_chk_box *b, char *out)
{
    static const char *const names[] = {"input ", "output ", "saved", "its workspace", "the gradient of input ", "dout ", "the param", "the gradient", "the state"};
    char digits[24];
    strcpy(out, names[b->role]);
    if (b->role == RMI_CHK_IN || b->role == RMI_CHK_OUT || b->role == RMI_CHK_DIN || b->role == RMI_CHK_DOUT) strcat(out, rmi_u64_text(b->slot, digits));
    if (b->role == RMI_CHK_IN || b->role == RMI_CHK_DIN) {
        strcat(out, " (");
        strncat(out, k->g->tensors[b->tensor].name, 255);
        strcat(out, ")");
    }
    return out;
}

/* Accum bits as the executor gives them, and zeros for kinds that want to add always. */
RMI_FN void rmi_chk_accum(rmi_chk_frame *f)
{
    uint32_t i;
    int late = 0; /* one of the inputs that share a bit adds */
    f->c.accum = 0;
    for (i = 31; i < f->c.n_in; i++) {
        const rmi_chk_box *b = f->din[i] == RMI_NONE ? NULL : &f->box[f->din[i]];
        late |= b && !b->off && (b->slot < i || (f->adds && f->adds[b->tensor]));
    }
    for (i = 0; i < f->c.n_in; i++) {
        rmi_chk_box *b = f->din[i] == RMI_NONE ? NULL : &f->box[f->din[i]];
        int held = b && f->adds && f->adds[b->tensor], zeroed = f->zeroed || (late && i >= 31);
        if (!b || b->off) continue;
        if (b->slot < i || zeroed || held) f->c.accum |= RM_IN(i);
        if (b->slot == i && zeroed && !held) memset(b->p, 0, (size_t)b->bytes);
    }
}

/* All boxes as the next run shall find them; the caller then changes what it wants to be different. */
RMI_FN void rmi_chk_ready(rmi_chk_frame *f, uint32_t body, uint32_t ws, uint32_t guard)
{
    uint32_t i;
    f->guard = guard;
    for (i = 0; i < f->n; i++) {
        rmi_chk_box *b = &f->box[i];
        b->over = b->fill = RMI_NONE;
        b->off = b->loose = 0;
        memset(b->p - RMI_CHK_GUARD, (int)guard, RMI_CHK_GUARD);
        memset(b->p + (size_t)b->bytes, (int)guard, RMI_CHK_GUARD);
        if (b->from) memcpy(b->p, b->from, (size_t)b->bytes);
        else memset(b->p, (int)(b->role == RMI_CHK_WS ? ws : body), (size_t)b->bytes);
    }
    rmi_chk_accum(f);
}
RMI_FN void rmi_chk_plain(rmi_chk_frame *f) { rmi_chk_ready(f, RMI_CHK_NAN, RMI_CHK_NAN, RMI_CHK_NAN); }
RMI_FN void rmi_chk_fill(rmi_chk_box *b, uint32_t byte)
{
    b->fill = byte;
    memset(b->p, (int)byte, (size_t)b->bytes);
}

RMI_FN unsigned char *rmi_chk_at(const rmi_chk_frame *f, uint32_t b)
{
    if (b == RMI_NONE || f->box[b].off) return NULL;
    return f->box[b].over != RMI_NONE ? f->box[f->box[b].over].p : f->box[b].p;
}

RMI_FN void rmi_chk_point(rmi_chk_frame *f)
{
    rm_call *c = &f->c;
    uint32_t i;
    for (i = 0; i < c->n_in; i++) {
        f->in_ptr[i] = rmi_chk_at(f, f->in[i]);
        f->din_ptr[i] = rmi_chk_at(f, f->din[i]);
    }
    for (i = 0; i < c->n_out; i++) {
        f->out_ptr[i] = rmi_chk_at(f, f->out[i]);
        f->dout_ptr[i] = rmi_chk_at(f, f->dout[i]);
    }
    c->in = f->in_ptr;
    c->out = (void *const *)f->out_ptr;
    if (c->phase == RM_PHASE_BACKWARD) {
        c->din = (void *const *)f->din_ptr;
        c->dout = f->dout_ptr;
    }
    c->saved = rmi_chk_at(f, f->saved);
    c->ws = rmi_chk_at(f, f->ws);
    c->param = rmi_chk_at(f, f->param);
    c->grad = rmi_chk_at(f, f->grad);
    c->state = rmi_chk_at(f, f->state);
    c->saved_bytes = c->saved ? f->box[f->saved].bytes : 0;
    c->ws_bytes = c->ws ? f->box[f->ws].bytes : 0;
}

/* --- after a run: guards, and what it had no right to write */
RMI_FN rm_result rmi_chk_beyond(rmi_chk *k, const rmi_chk_frame *f, const rmi_chk_box *b, const char *side)
{
    static const char *const remedy[] = {
        "inputs are read only", "write no more, or give its size in rm_op_desc.out", "write no more, or give its size in rm_op_desc.saved",
        "use no more, or give its size in rm_op_desc (fwd_ws, bwd_ws, part_ws) or rm_param_desc.update_ws", "write no more, or give its size with rm_grad_bytes or rm_param_desc.grad_bytes",
        "gradients of outputs are read only", "write no more, or give its size in rm_param_desc.bytes", "write no more, or give its size in rm_param_desc.grad_bytes", "write no more, or give its size in rm_param_desc.state_bytes"};
    char name[320];
    return rmi_chk_found(k, "%s writes %s %s, which has %u bytes; %s", f->what, side, rmi_chk_name(k, b, name), b->bytes, remedy[b->role]);
}

RMI_FN rm_result rmi_chk_touched(rmi_chk *k, const rmi_chk_frame *f, const rmi_chk_box *b, uint64_t at)
{
    char name[320];
    rmi_chk_name(k, b, name);
    if (b->role == RMI_CHK_IN && f->c.phase == RM_PHASE_FORWARD && k->g->tensors[b->tensor].kind == RMI_CONST) {
        if (f->c.recompute) return rmi_chk_found(k, "%s writes to %s in a recomputation; write only through rm_mut(c, %u), and only if it is not NULL", f->what, name, (uint64_t)b->slot);
        return rmi_chk_found(k, "%s writes to %s, which kind '%s' does not declare in mutates; add RM_IN(%u) and write through rm_mut", f->what, name, f->kind, (uint64_t)b->slot);
    }
    return rmi_chk_found(k, "%s writes to byte %u of %s, which it may only read; write to %s", f->what, at, name, f->c.phase == RM_PHASE_FORWARD ? "out[] (or declare inplace)" : f->c.phase == RM_PHASE_BACKWARD ? "din[] (or declare over)" : "what its phase owns, see rm_call");
}

RMI_FN rm_result rmi_chk_inspect(rmi_chk *k, const rmi_chk_frame *f)
{
    uint32_t i, j;
    uint64_t at;
    for (i = 0; i < f->n; i++) {
        const rmi_chk_box *b = &f->box[i];
        for (j = 0; j < RMI_CHK_GUARD; j++) {
            if (b->p[(size_t)b->bytes + j] != f->guard) return rmi_chk_beyond(k, f, b, "beyond the end of");
            if (*(b->p - 1 - j) != f->guard) return rmi_chk_beyond(k, f, b, "before the start of");
        }
    }
    for (i = 0; i < f->n; i++) {
        const rmi_chk_box *b = &f->box[i];
        if (b->writes != RMI_CHK_READ || b->loose || !b->from || (b->fill == RMI_NONE && !memcmp(b->p, b->from, (size_t)b->bytes))) continue;
        for (at = 0; at < b->bytes; at++)
            if (b->p[(size_t)at] != (b->fill != RMI_NONE ? b->fill : b->from[(size_t)at])) return rmi_chk_touched(k, f, b, at);
    }
    return RM_OK;
}

/* One run of the call with the boxes as they are. */
RMI_FN rm_result rmi_chk_go(rmi_chk *k, rmi_chk_frame *f)
{
    int code;
    rmi_chk_point(f);
    code = f->fn(&f->c);
    if (code) return rmi_err_set(&k->x->err, RM_ERROR_CALLBACK, "%s returned %s%u; the check was stopped there", f->what, code < 0 ? "-" : "", (uint64_t)(code < 0 ? -(int64_t)code : code));
    return rmi_chk_inspect(k, f);
}

RMI_FN void rmi_chk_results(rmi_chk_frame *f)
{
    uint32_t i;
    for (i = 0; i < f->n; i++)
        if (f->box[i].writes == RMI_CHK_RESULT) memcpy(f->box[i].result, f->box[i].p, (size_t)f->box[i].bytes);
}

/* The first result that is not as in the first run. What a forward leaves unwritten in saved is nobody's loss. */
RMI_FN rmi_chk_box *rmi_chk_differs(rmi_chk_frame *f, uint64_t *byte)
{
    uint32_t i;
    uint64_t at;
    for (i = 0; i < f->n; i++) {
        rmi_chk_box *b = &f->box[i];
        const unsigned char *p = rmi_chk_at(f, i);
        if (b->writes != RMI_CHK_RESULT || !p || !memcmp(p, b->result, (size_t)b->bytes)) continue;
        for (at = 0; at < b->bytes; at++) {
            if (p[(size_t)at] == b->result[(size_t)at]) continue;
            if (b->role == RMI_CHK_SAVED && b->result[(size_t)at] == RMI_CHK_NAN && p[(size_t)at] == RMI_CHK_OTHER) continue;
            *byte = at;
            return b;
        }
    }
    return NULL;
}

/* --- two runs over different poison */

/* Result b changed with the poison: is it the poison of results, of the workspace, of the guards, or no poison at all? */
RMI_FN rm_result rmi_chk_explain(rmi_chk *k, rmi_chk_frame *f, rmi_chk_box *b, uint64_t at)
{
    int unwritten = b->result[(size_t)at] == RMI_CHK_NAN && b->p[(size_t)at] == RMI_CHK_OTHER;
    const char *not_whole = b->role == RMI_CHK_DIN ? " though accum is clear; write it whole then, or declare RM_ZERO_GRADS" : "; write it whole";
    char name[320];
    uint64_t byte;
    rmi_chk_name(k, b, name);
    rmi_chk_plain(f);
    RMI_TRY(rmi_chk_go(k, f));
    if (rmi_chk_differs(f, &byte)) {
        f->unsteady = f->once;
        if (f->once) return RM_OK;
        return rmi_chk_found(k, "%s gives other bytes in %s each time it runs; take randomness from c->seed alone, keep nothing between calls, and read only what was written", f->what, name);
    }
    if (unwritten) return rmi_chk_found(k, "%s leaves byte %u of %s unwritten%s", f->what, at, name, not_whole);
    rmi_chk_ready(f, RMI_CHK_OTHER, RMI_CHK_NAN, RMI_CHK_NAN);
    RMI_TRY(rmi_chk_go(k, f));
    if (rmi_chk_differs(f, &byte)) return rmi_chk_found(k, "%s reads %s before it has written that%s", f->what, name, b->role == RMI_CHK_DIN ? ": it adds though accum is clear; ask RM_ADDS(c, i), or declare RM_ZERO_GRADS" : "; nothing of earlier runs is there");
    rmi_chk_ready(f, RMI_CHK_NAN, RMI_CHK_OTHER, RMI_CHK_NAN);
    RMI_TRY(rmi_chk_go(k, f));
    if (rmi_chk_differs(f, &byte)) return rmi_chk_found(k, "%s reads its workspace before it has written it (%s changes); clear it first: nothing survives there", f->what, name);
    return rmi_chk_found(k, "%s reads beyond the bytes of a buffer (%s changes); stay within in_bytes, out_bytes, saved_bytes and ws_bytes", f->what, name);
}

/* The first run, whose results count, and one more. */
RMI_FN rm_result rmi_chk_twice(rmi_chk *k, rmi_chk_frame *f)
{
    rmi_chk_box *b;
    uint64_t at;
    rmi_chk_plain(f);
    RMI_TRY(rmi_chk_go(k, f));
    rmi_chk_results(f);
    rmi_chk_ready(f, RMI_CHK_OTHER, RMI_CHK_OTHER, RMI_CHK_OTHER);
    RMI_TRY(rmi_chk_go(k, f));
    b = rmi_chk_differs(f, &at);
    return b ? rmi_chk_explain(k, f, b, at) : RM_OK;
}

/* --- operands of an op */
RMI_FN rm_result rmi_chk_op_sizes(rmi_chk *k, rmi_chk_frame *f, const rmi_op *op)
{
    uint64_t *s = RMI_NEW(&k->tmp, uint64_t, (size_t)op->in.n + op->out.n);
    uint32_t i;
    if (!s) return RM_ERROR_MEMORY;
    for (i = 0; i < op->in.n; i++) s[i] = k->g->tensors[op->in.at[i]].bytes;
    for (i = 0; i < op->out.n; i++) s[op->in.n + i] = k->g->tensors[op->out.at[i]].bytes;
    f->c.in_bytes = s;
    f->c.out_bytes = s + op->in.n;
    return RM_OK;
}

/* A frame for one way of op, without boxes: forward (part RMI_NONE) or one part of the backward. */
RMI_FN rm_result rmi_chk_op_call(rmi_chk *k, uint32_t id, uint32_t form, uint32_t part, rmi_chk_frame **out)
{
    const rmi_op *op = &k->g->ops[id];
    const rmi_form *fm = &op->forms[form];
    const char *part_name = part == RMI_NONE ? "" : fm->parts[part].name;
    char phase[700] = "";
    rmi_chk_frame *f;
    strcat(phase, part == RMI_NONE ? "forward" : "backward");
    if (part_name[0]) strncat(strcat(phase, ", part "), part_name, 255);
    if (fm->name[0]) strncat(strcat(phase, ", variant "), fm->name, 255);
    RMI_TRY(rmi_chk_frame_make(k, op->in.n, op->out.n, "op ", op->name, phase, &f));
    RMI_TRY(rmi_chk_op_sizes(k, f, op));
    f->kind = fm->name[0] ? fm->name : op->kind_name;
    f->fn = part == RMI_NONE ? fm->forward : fm->backward;
    f->c.phase = part == RMI_NONE ? RM_PHASE_FORWARD : RM_PHASE_BACKWARD;
    f->c.user = op->user;
    f->c.seed = rmi_exe_seed(k->x, id);
    f->c.seed_key = id;
    if (op->arg) memcpy(f->c.arg, op->arg, sizeof f->c.arg);
    if (op->farg) memcpy(f->c.farg, op->farg, sizeof f->c.farg);
    *out = f;
    return RM_OK;
}

/* The same with boxes for the inputs. */
RMI_FN rm_result rmi_chk_op_frame(rmi_chk *k, uint32_t id, uint32_t form, uint32_t part, rmi_chk_frame **out)
{
    const rmi_op *op = &k->g->ops[id];
    rmi_chk_frame *f;
    uint32_t i, j;
    RMI_TRY(rmi_chk_op_call(k, id, form, part, &f));
    for (i = 0; i < op->in.n; i++) {
        uint32_t t = op->in.at[i];
        for (j = 0; j < i; j++)
            if (op->in.at[j] == t) f->in[i] = f->in[j];
        if (f->in[i] == RMI_NONE) RMI_TRY(rmi_chk_add(k, f, RMI_CHK_IN, i, t, k->g->tensors[t].bytes, k->value[t], part == RMI_NONE && rmi_list_has(&op->mutates, t) ? RMI_CHK_RESULT : RMI_CHK_READ, &f->in[i]));
    }
    *out = f;
    return RM_OK;
}

/* --- forward */
RMI_FN rm_result rmi_chk_fwd_frame(rmi_chk *k, uint32_t id, uint32_t form, rmi_chk_frame **out)
{
    const rmi_op *op = &k->g->ops[id];
    const rmi_form *fm = &op->forms[form];
    rmi_chk_frame *f;
    uint32_t i;
    RMI_TRY(rmi_chk_op_frame(k, id, form, RMI_NONE, &f));
    for (i = 0; i < op->out.n; i++) RMI_TRY(rmi_chk_add(k, f, RMI_CHK_OUT, i, op->out.at[i], k->g->tensors[op->out.at[i]].bytes, NULL, RMI_CHK_RESULT, &f->out[i]));
    if (fm->saved) RMI_TRY(rmi_chk_add(k, f, RMI_CHK_SAVED, 0, RMI_NONE, fm->saved, NULL, RMI_CHK_RESULT, &f->saved));
    if (fm->fwd_ws) RMI_TRY(rmi_chk_add(k, f, RMI_CHK_WS, 0, RMI_NONE, fm->fwd_ws, NULL, RMI_CHK_SCRATCH, &f->ws));
    *out = f;
    return RM_OK;
}

/* Once more, with recompute and without saved as wished. */
RMI_FN rm_result rmi_chk_fwd_again(rmi_chk *k, rmi_chk_frame *f, const rmi_op *op, uint32_t recompute, int no_saved)
{
    const rmi_chk_box *b;
    char name[320];
    rm_result r;
    uint64_t at;
    uint32_t i;
    for (i = 0; i < f->n && recompute; i++) /* the second run finds the consts as the first left them, and may not change them */
        if (f->box[i].role == RMI_CHK_IN && f->box[i].writes == RMI_CHK_RESULT) {
            f->box[i].from = f->box[i].result;
            f->box[i].writes = RMI_CHK_READ;
        }
    rmi_chk_plain(f);
    f->c.recompute = recompute;
    if (no_saved && f->saved != RMI_NONE) f->box[f->saved].off = 1;
    r = rmi_chk_go(k, f);
    b = r == RM_OK ? rmi_chk_differs(f, &at) : NULL;
    if (b && recompute) r = rmi_chk_found(k, "%s gives other bytes in %s when it is recomputed (c->recompute is 1%s); %s", f->what, rmi_chk_name(k, b, name), no_saved ? ", saved is NULL" : "", op->mutates.n ? "its results must not depend on the consts that it mutates, or give it RM_ONCE" : "give the same bits each time, or give the kind RM_ONCE");
    else if (b) r = rmi_chk_found(k, "%s gives other bytes in %s when saved is NULL; skip the writing of saved then, nothing else", f->what, rmi_chk_name(k, b, name));
    for (i = 0; i < f->n && recompute; i++)
        if (f->box[i].role == RMI_CHK_IN && f->box[i].result) {
            f->box[i].from = k->value[f->box[i].tensor];
            f->box[i].writes = RMI_CHK_RESULT;
        }
    f->c.recompute = 0;
    return r;
}

RMI_FN rm_result rmi_chk_fwd_inplace(rmi_chk *k, rmi_chk_frame *f, const rmi_form *fm)
{
    const rmi_chk_box *b;
    char name[320];
    uint64_t at;
    uint32_t i;
    if (fm->inplace == RMI_NONE) return RM_OK;
    for (i = 0; f->box[f->in[i]].tensor != fm->inplace;) i++;
    if (f->box[f->out[0]].bytes > f->box[f->in[i]].bytes) return RM_OK;
    rmi_chk_plain(f);
    f->box[f->out[0]].over = f->in[i];
    f->box[f->in[i]].loose = 1;
    RMI_TRY(rmi_chk_go(k, f));
    b = rmi_chk_differs(f, &at);
    return b ? rmi_chk_found(k, "%s gives other bytes in %s when out[0] lies over in[%u], as kind '%s' declares in inplace; read each element before it is written, or drop inplace", f->what, rmi_chk_name(k, b, name), (uint64_t)i, f->kind) : RM_OK;
}

/* What the backward will get as saved; a second copy with other bytes where the forward wrote none. Frame as the second run left it. */
RMI_FN rm_result rmi_chk_fwd_saved(rmi_chk *k, const rmi_chk_frame *f, uint32_t at)
{
    const rmi_chk_box *b = &f->box[f->saved];
    k->saved[at] = rmi_chk_bytes(k, &k->mem, b->bytes);
    if (!k->saved[at]) return RM_ERROR_MEMORY;
    memcpy(k->saved[at], b->result, (size_t)b->bytes);
    if (f->unsteady || !memcmp(b->p, b->result, (size_t)b->bytes)) return RM_OK;
    k->saved_too[at] = rmi_chk_bytes(k, &k->mem, b->bytes);
    if (!k->saved_too[at]) return RM_ERROR_MEMORY;
    memcpy(k->saved_too[at], b->p, (size_t)b->bytes);
    return RM_OK;
}

RMI_FN rm_result rmi_chk_fwd_form(rmi_chk *k, uint32_t id, uint32_t form, rmi_chk_frame **out)
{
    const rmi_op *op = &k->g->ops[id];
    const rmi_form *fm = &op->forms[form];
    rmi_chk_frame *f;
    RMI_TRY(rmi_chk_fwd_frame(k, id, form, &f));
    *out = f;
    f->once = (op->flags & RM_ONCE) != 0;
    if (!f->fn) return rmi_err_set(&k->x->err, RM_ERROR_ARGUMENT, "%s has no callback in kind '%s'; set rm_kind.forward", f->what, f->kind);
    RMI_TRY(rmi_chk_twice(k, f));
    if (f->unsteady) { /* its right; but nothing after it can be compared with another step */
        k->unsteady = 1;
        return fm->saved ? rmi_chk_fwd_saved(k, f, k->form_at[id] + form) : RM_OK;
    }
    if (fm->saved) {
        RMI_TRY(rmi_chk_fwd_saved(k, f, k->form_at[id] + form));
        RMI_TRY(rmi_chk_fwd_again(k, f, op, 0, 1));
    }
    if (!op->pinned) {
        RMI_TRY(rmi_chk_fwd_again(k, f, op, 1, 0));
        if (fm->saved) RMI_TRY(rmi_chk_fwd_again(k, f, op, 1, 1));
    }
    return rmi_chk_fwd_inplace(k, f, fm);
}

/* A view has bytes of its own here: copied, and anew whenever its root may have changed. */
RMI_FN void rmi_chk_view(rmi_chk *k, uint32_t t)
{
    const rmi_tensor *x = &k->g->tensors[t];
    const rmi_op *op;
    if (x->root == t || x->maker == RMI_NONE) return;
    op = &k->g->ops[x->maker];
    rmi_chk_view(k, op->view);
    memcpy(k->value[t], k->value[op->view] + (size_t)op->view_offset, (size_t)x->bytes);
}

RMI_FN rm_result rmi_chk_forward(rmi_chk *k, rmi_run r)
{
    const rmi_op *op = &k->g->ops[r.id];
    rmi_chk_frame *first, *f;
    const rmi_chk_box *b;
    char name[320];
    uint64_t at;
    uint32_t i, j;
    if (k->ran[r.id]) return RM_OK;
    k->ran[r.id] = 1;
    k->form[r.id] = r.form;
    for (i = 0; i < op->in.n; i++) rmi_chk_view(k, op->in.at[i]);
    RMI_TRY(rmi_chk_fwd_form(k, r.id, r.form, &first));
    for (i = 0; i < op->n_forms; i++) {
        if (i == r.form || !op->forms[i].forward) continue;
        RMI_TRY(rmi_chk_fwd_form(k, r.id, i, &f));
        if (strcmp(op->forms[i].bits, op->forms[r.form].bits)) continue;
        for (j = 0; j < f->n; j++) {
            b = &f->box[j];
            if (b->writes != RMI_CHK_RESULT || b->role == RMI_CHK_SAVED) continue;
            for (at = 0; at < b->bytes; at++)
                if (b->result[(size_t)at] != first->box[j].result[(size_t)at]) return rmi_chk_found(k, "%s gives other bytes in %s than the op's other forms (first at byte %u); give variants that differ in bits different rm_op_desc.bits", f->what, rmi_chk_name(k, b, name), at);
        }
    }
    for (j = 0; j < first->n; j++)
        if (first->box[j].writes == RMI_CHK_RESULT && first->box[j].tensor != RMI_NONE) memcpy(k->value[first->box[j].tensor], first->box[j].result, (size_t)first->box[j].bytes);
    return RM_OK;
}

/* --- backward */
RMI_FN rm_result rmi_chk_bwd_frame(rmi_chk *k, rmi_run r, rmi_chk_frame **out)
{
    const rm_graph *g = k->g;
    const rmi_op *op = &g->ops[r.id];
    const rmi_form *fm = &op->forms[r.form];
    const rmi_part *p = &fm->parts[r.part];
    rmi_chk_frame *f;
    uint32_t i, j;
    RMI_TRY(rmi_chk_op_frame(k, r.id, r.form, r.part, &f));
    for (i = 0; i < f->n; i++) f->box[i].undeclared = (uint8_t)!rmi_list_has(&p->needs, f->box[i].tensor);
    for (i = 0; i < op->out.n; i++) {
        uint32_t t = op->out.at[i];
        RMI_TRY(rmi_chk_add(k, f, RMI_CHK_OUT, i, t, g->tensors[t].bytes, k->value[t], RMI_CHK_READ, &f->out[i]));
        f->box[f->out[i]].undeclared = (uint8_t)!rmi_list_has(&p->needs, t);
        if (rmi_list_has(&op->grad_out, t)) RMI_TRY(rmi_chk_add(k, f, RMI_CHK_DOUT, i, t, g->tensors[t].grad_bytes, k->grad[t], RMI_CHK_READ, &f->dout[i]));
    }
    if (fm->saved && k->saved[k->form_at[r.id] + r.form]) {
        RMI_TRY(rmi_chk_add(k, f, RMI_CHK_SAVED, 0, RMI_NONE, fm->saved, k->saved[k->form_at[r.id] + r.form], RMI_CHK_READ, &f->saved));
        f->box[f->saved].undeclared = (uint8_t)!p->needs_saved;
    }
    if (p->bwd_ws) RMI_TRY(rmi_chk_add(k, f, RMI_CHK_WS, 0, RMI_NONE, p->bwd_ws, NULL, RMI_CHK_SCRATCH, &f->ws));
    for (i = 0; i < op->in.n; i++) {
        uint32_t t = op->in.at[i];
        if (!rmi_list_has(&op->grad_in, t) || !rmi_list_has(&p->grads, t)) continue;
        for (j = 0; j < i; j++)
            if (op->in.at[j] == t) f->din[i] = f->din[j];
        if (f->din[i] == RMI_NONE) RMI_TRY(rmi_chk_add(k, f, RMI_CHK_DIN, i, t, g->tensors[t].grad_bytes, NULL, RMI_CHK_RESULT, &f->din[i]));
    }
    f->zeroed = (fm->flags & RM_ZERO_GRADS) != 0;
    *out = f;
    return RM_OK;
}

/* The byte that replaces an operand which must not be read; RMI_NONE: none this time. Zero first: it is safe as an index. */
RMI_FN uint32_t rmi_chk_poison(const rmi_chk *k, const rmi_chk_box *b, int round)
{
    uint64_t i;
    if (!b->undeclared || !b->bytes) return RMI_NONE;
    for (i = 0; i < b->bytes && !b->from[(size_t)i];) i++;
    if (round == 0) return i < b->bytes ? 0 : RMI_CHK_SMALL;
    return b->tensor != RMI_NONE && k->g->tensors[b->tensor].has_grad && i < b->bytes ? RMI_CHK_SMALL : RMI_NONE;
}

RMI_FN rm_result rmi_chk_reads(rmi_chk *k, rmi_run r, const rmi_chk_frame *f, const rmi_chk_box *b)
{
    const rmi_form *fm = &k->g->ops[r.id].forms[r.form];
    char name[320], digits[24];
    rmi_u64_text(b->slot, digits);
    rmi_chk_name(k, b, name);
    return rmi_chk_found(k, "%s reads %s, which kind '%s' does not declare in %s; add %s%s%s", f->what, name, f->kind, fm->own_parts ? "the part's needs" : "needs", b->role == RMI_CHK_SAVED ? "RM_SAVED" : b->role == RMI_CHK_IN ? "RM_IN(" : "RM_OUT(", b->role == RMI_CHK_SAVED ? "" : digits, b->role == RMI_CHK_SAVED ? "" : ")");
}

/* Reads of what was not declared: at run time there is nothing; here other bytes, all at once, then one by one. */
RMI_FN rm_result rmi_chk_bwd_undeclared(rmi_chk *k, rmi_run r, rmi_chk_frame *f)
{
    uint32_t i, only, first;
    uint64_t at;
    int round;
    for (round = 0; round < 2; round++)
        for (only = RMI_NONE, first = RMI_NONE;;) {
            rmi_chk_plain(f);
            for (i = 0; i < f->n; i++) {
                uint32_t byte = rmi_chk_poison(k, &f->box[i], round);
                if (byte == RMI_NONE || (only != RMI_NONE && i != only)) continue;
                rmi_chk_fill(&f->box[i], byte);
                if (first == RMI_NONE) first = i;
            }
            if (first == RMI_NONE) break;
            RMI_TRY(rmi_chk_go(k, f));
            if (rmi_chk_differs(f, &at)) {
                if (only != RMI_NONE) return rmi_chk_reads(k, r, f, &f->box[only]);
                only = first;
                continue;
            }
            if (only == RMI_NONE) break;
            while (++only < f->n && rmi_chk_poison(k, &f->box[only], round) == RMI_NONE) {}
            if (only >= f->n) return rmi_chk_reads(k, r, f, &f->box[first]); /* only together do they matter */
        }
    return RM_OK;
}

/* Is this 8-byte piece NaN or infinite in some format? Then adding to it shows nothing. */
RMI_FN int rmi_chk_special(const unsigned char *p, size_t n)
{
    size_t i;
    for (i = 0; i + 2 <= n; i += 2) {
        uint16_t v;
        memcpy(&v, p + i, 2);
        if ((v & 0x7C00u) == 0x7C00u) return 1;
    }
    return 0;
}

/* Is accum obeyed? Over the gradient itself a sum is twice that, over large numbers about those; writing gives the same both times. */
RMI_FN rm_result rmi_chk_bwd_accum(rmi_chk *k, rmi_chk_frame *f)
{
    uint32_t i;
    int round;
    unsigned char **over_own = RMI_NEW(&k->tmp, unsigned char *, f->n);
    uint8_t *all = RMI_NEW(&k->tmp, uint8_t, k->g->n_tensors);
    if (!over_own || !all) return RM_ERROR_MEMORY;
    memset(all, 1, k->g->n_tensors);
    for (round = 0; round < 2; round++) {
        f->adds = all;
        rmi_chk_plain(f);
        f->adds = NULL;
        for (i = 0; i < f->n; i++) {
            rmi_chk_box *b = &f->box[i];
            if (b->role != RMI_CHK_DIN) continue;
            if (round) memset(b->p, (int)RMI_CHK_OTHER, (size_t)b->bytes);
            else memcpy(b->p, b->result, (size_t)b->bytes);
        }
        RMI_TRY(rmi_chk_go(k, f));
        for (i = 0; i < f->n; i++) {
            rmi_chk_box *b = &f->box[i];
            size_t at, n;
            if (b->role != RMI_CHK_DIN) continue;
            if (!round) {
                over_own[i] = rmi_chk_bytes(k, &k->tmp, b->bytes);
                if (!over_own[i]) return RM_ERROR_MEMORY;
                memcpy(over_own[i], b->p, (size_t)b->bytes);
                continue;
            }
            for (at = 0; at < b->bytes; at += n) {
                char name[320];
                n = b->bytes - at < 8 ? (size_t)b->bytes - at : 8;
                if (rmi_chk_special(b->result + at, n) || memcmp(b->p + at, b->result + at, n) || memcmp(over_own[i] + at, b->result + at, n)) continue;
                rmi_chk_name(k, b, name);
                if (f->zeroed) return rmi_chk_found(k, "%s writes %s, though kind '%s' declares RM_ZERO_GRADS: that promises to add; add, or drop the flag (first at byte %u)", f->what, name, f->kind, (uint64_t)at);
                return rmi_chk_found(k, "%s ignores accum: what %s held is lost from byte %u on; add to din[%u] when RM_ADDS(c, %u)", f->what, name, (uint64_t)at, (uint64_t)b->slot, (uint64_t)b->slot);
            }
        }
    }
    return RM_OK;
}

/* Each gradient unwanted in turn: the others must not change. */
RMI_FN rm_result rmi_chk_bwd_unwanted(rmi_chk *k, rmi_chk_frame *f)
{
    uint32_t i, n = 0;
    uint64_t at;
    for (i = 0; i < f->n; i++) n += f->box[i].role == RMI_CHK_DIN;
    for (i = 0; i < f->n && n > 1; i++) {
        const rmi_chk_box *b;
        char name[320];
        if (f->box[i].role != RMI_CHK_DIN) continue;
        rmi_chk_plain(f);
        f->box[i].off = 1;
        rmi_chk_accum(f);
        RMI_TRY(rmi_chk_go(k, f));
        b = rmi_chk_differs(f, &at);
        if (b) return rmi_chk_found(k, "%s gives other bytes in %s when din[%u] is NULL; compute each gradient on its own", f->what, rmi_chk_name(k, b, name), (uint64_t)f->box[i].slot);
    }
    return RM_OK;
}

/* Gradients that the executor takes from dout without a call. */
RMI_FN int rmi_chk_shares(const rmi_chk *k, const rmi_op *op, uint32_t t)
{
    return (rmi_list_has(&op->share, t) || op->view == t) && rmi_list_has(&op->grad_out, op->out.at[0]) && k->g->tensors[t].grad_bytes == k->g->tensors[op->out.at[0]].grad_bytes;
}

RMI_FN rm_result rmi_chk_bwd_share(rmi_chk *k, rmi_run r, rmi_chk_frame *f)
{
    const rmi_op *op = &k->g->ops[r.id];
    uint32_t i;
    for (i = 0; i < f->n; i++) {
        const rmi_chk_box *b = &f->box[i];
        char name[320];
        if (b->role != RMI_CHK_DIN || !rmi_chk_shares(k, op, b->tensor) || !memcmp(b->result, f->box[f->dout[0]].from, (size_t)b->bytes)) continue;
        rmi_chk_name(k, b, name);
        if (op->view == b->tensor) return rmi_chk_found(k, "%s computes %s, which must equal dout[0], for kind '%s' is a view; copy dout[0]", f->what, name, f->kind);
        return rmi_chk_found(k, "%s computes %s, which is not equal to dout[0], though kind '%s' says so in share_grad; drop RM_IN(%u) from share_grad", f->what, name, f->kind, (uint64_t)b->slot);
    }
    return RM_OK;
}

RMI_FN rm_result rmi_chk_bwd_over(rmi_chk *k, rmi_run r, rmi_chk_frame *f)
{
    const rmi_form *fm = &k->g->ops[r.id].forms[r.form];
    uint32_t i, j, n;
    uint64_t at;
    for (n = 0; n < fm->n_overs && !f->zeroed; n++) {
        const rmi_over *o = &fm->overs[n];
        const rmi_chk_box *b;
        uint32_t to = RMI_NONE, from = o->what == RMI_OVER_DOUT ? f->dout[0] : o->what == RMI_OVER_SAVED ? f->saved : RMI_NONE;
        char name[320], other[320];
        for (j = 0; j < f->n; j++) {
            if (f->box[j].role == RMI_CHK_DIN && f->box[j].tensor == o->grad_of) to = j;
            if (o->what == RMI_OVER_TENSOR && f->box[j].role <= RMI_CHK_OUT && f->box[j].tensor == o->tensor) from = j;
        }
        if (to == RMI_NONE || from == RMI_NONE || f->box[from].undeclared || f->box[from].bytes < f->box[to].bytes) continue;
        rmi_chk_plain(f);
        f->box[to].over = from;
        f->box[from].loose = 1;
        RMI_TRY(rmi_chk_go(k, f));
        b = rmi_chk_differs(f, &at);
        i = f->box[to].slot;
        if (b) return rmi_chk_found(k, "%s gives other bytes in %s when din[%u] lies over the bytes of %s, as kind '%s' declares in over; read each element before it is written, or drop that entry", f->what, rmi_chk_name(k, b, name), (uint64_t)i, rmi_chk_name(k, &f->box[from], other), f->kind);
    }
    return RM_OK;
}

/* Bytes of saved that the forward left as they were: another run would find others there. */
RMI_FN rm_result rmi_chk_bwd_saved(rmi_chk *k, rmi_run r, rmi_chk_frame *f)
{
    unsigned char *too = k->saved_too[k->form_at[r.id] + r.form];
    const rmi_chk_box *b;
    const unsigned char *from;
    char name[320];
    rm_result result;
    uint64_t at;
    if (f->saved == RMI_NONE || !too || f->box[f->saved].undeclared) return RM_OK;
    from = f->box[f->saved].from;
    f->box[f->saved].from = too;
    rmi_chk_plain(f);
    result = rmi_chk_go(k, f);
    f->box[f->saved].from = from;
    if (result != RM_OK) return result;
    b = rmi_chk_differs(f, &at);
    return b ? rmi_chk_found(k, "%s reads bytes of saved that its forward leaves unwritten (%s changes); write all of saved that is read", f->what, rmi_chk_name(k, b, name)) : RM_OK;
}

/* All that can be known of one part of a backward. Its contribution, to nothing, is in the results afterwards. */
RMI_FN rm_result rmi_chk_bwd_form(rmi_chk *k, rmi_run r, rmi_chk_frame *f)
{
    RMI_TRY(rmi_chk_twice(k, f));
    RMI_TRY(rmi_chk_bwd_undeclared(k, r, f));
    RMI_TRY(rmi_chk_bwd_saved(k, r, f));
    RMI_TRY(rmi_chk_bwd_share(k, r, f));
    RMI_TRY(rmi_chk_bwd_unwanted(k, f));
    RMI_TRY(rmi_chk_bwd_accum(k, f));
    return rmi_chk_bwd_over(k, r, f);
}

/* The other forms of an op, which this plan does not use. */
RMI_FN rm_result rmi_chk_bwd_others(rmi_chk *k, rmi_run r)
{
    const rmi_op *op = &k->g->ops[r.id];
    rmi_chk_frame *f;
    uint32_t i, p;
    for (i = 0; i < op->n_forms; i++)
        for (p = 0; p < op->forms[i].n_parts; p++) {
            if (i == r.form || !op->forms[i].forward || !op->forms[i].backward || !rmi_low_part_wanted(op, &op->forms[i].parts[p])) continue;
            RMI_TRY(rmi_chk_bwd_frame(k, rmi_low_run(RMI_BWD, r.id, i, p), &f));
            RMI_TRY(rmi_chk_bwd_form(k, rmi_low_run(RMI_BWD, r.id, i, p), f));
        }
    return RM_OK;
}

/* The contributions go to the gradients: as they came if those held nothing, else by one more run that adds. */
RMI_FN rm_result rmi_chk_contribute(rmi_chk *k, rmi_run r, rmi_chk_frame *f)
{
    const rmi_op *op = &k->g->ops[r.id];
    uint32_t i;
    int adds = 0;
    for (i = 0; i < f->n; i++) adds |= f->box[i].role == RMI_CHK_DIN && k->holds[f->box[i].tensor];
    if (adds && f->fn) {
        f->adds = k->holds;
        rmi_chk_plain(f);
        for (i = 0; i < f->n; i++)
            if (f->box[i].role == RMI_CHK_DIN && k->holds[f->box[i].tensor]) memcpy(f->box[i].p, k->grad[f->box[i].tensor], (size_t)f->box[i].bytes);
        RMI_TRY(rmi_chk_go(k, f));
        rmi_chk_results(f);
    }
    for (i = 0; i < f->n; i++) {
        const rmi_chk_box *b = &f->box[i];
        if (b->role != RMI_CHK_DIN) continue;
        if (!f->fn && (k->holds[b->tensor] || !rmi_chk_shares(k, op, b->tensor))) return rmi_err_set(&k->x->err, RM_ERROR_ARGUMENT, "%s has no callback in kind '%s'; set rm_kind.backward, or RM_NOGRAD in its flags", f->what, f->kind);
        memcpy(k->grad[b->tensor], f->fn ? b->result : f->box[f->dout[0]].from, (size_t)b->bytes);
        k->holds[b->tensor] = 1;
        k->on_host[b->tensor] = 0;
    }
    return RM_OK;
}

RMI_FN rm_result rmi_chk_backward(rmi_chk *k, rmi_run r)
{
    const rmi_op *op = &k->g->ops[r.id];
    rmi_chk_frame *f;
    if (!rmi_low_part_wanted(op, rmi_low_part(k->g, r))) return RM_OK;
    RMI_TRY(rmi_chk_bwd_frame(k, r, &f));
    if (f->fn) RMI_TRY(rmi_chk_bwd_form(k, r, f));
    if (!k->seen[r.id]) RMI_TRY(rmi_chk_bwd_others(k, r));
    k->seen[r.id] = 1;
    return rmi_chk_contribute(k, r, f);
}

/* --- elements of gradients, kept for finite differences */
typedef struct rmi_chk_sample {
    uint64_t at;
    double gradient, rms; /* of the whole gradient */
    uint8_t set;
} rmi_chk_sample;

RMI_FN uint64_t rmi_chk_width(const rmi_chk *k) { return k->d->dtype == RM_F64 ? 8 : 4; }
RMI_FN double rmi_chk_load(const rmi_chk *k, const unsigned char *p, uint64_t i)
{
    double d;
    float f;
    if (k->d->dtype == RM_F64) {
        memcpy(&d, p + (size_t)i * 8, 8);
        return d;
    }
    memcpy(&f, p + (size_t)i * 4, 4);
    return (double)f;
}
RMI_FN void rmi_chk_store(const rmi_chk *k, unsigned char *p, uint64_t i, double d)
{
    float f = (float)d;
    if (k->d->dtype == RM_F64) memcpy(p + (size_t)i * 8, &d, 8);
    else memcpy(p + (size_t)i * 4, &f, 4);
}

RMI_FN double rmi_chk_abs(double d) { return d < 0 ? -d : d; }
RMI_FN double rmi_chk_sqrt(double d) /* Newton's, so that nobody has to link with the maths library */
{
    double r = d > 1 ? d : 1;
    int i;
    if (!(d > 0)) return 0;
    for (i = 0; i < 600 && r * r > d * (1 + 1e-12); i++) r = (r + d / r) / 2;
    return r;
}

/* What this micro-batch alone added to the gradient of t. */
RMI_FN double rmi_chk_slope_given(const rmi_chk *k, uint32_t t, uint64_t i)
{
    uint32_t b = rmi_low_buf(k->g, RMI_BUF_GRAD, t);
    double earlier = 0;
    if (rmi_low_adds_to_earlier(k->p->step) && k->aside.copy_at[b] != RMI_INF) earlier = rmi_chk_load(k, k->aside.copy + (size_t)k->aside.copy_at[b], i);
    return rmi_chk_load(k, k->on_host[t] ? k->host[t] : k->grad[t], i) - earlier;
}

/* Some elements of t's gradient, now that it is complete: by chance, every other one the largest of sixteen. */
RMI_FN void rmi_chk_sample_param(rmi_chk *k, uint32_t t)
{
    const rmi_tensor *x = &k->g->tensors[t];
    uint64_t n, i;
    double sum = 0;
    uint32_t j, m;
    if (!k->sample || k->sampled[t] || x->kind != RMI_PARAM || !x->consumers.n || x->grad_bytes != x->bytes || x->bytes % rmi_chk_width(k) || !x->bytes) return;
    k->sampled[t] = 1;
    n = x->bytes / rmi_chk_width(k);
    for (i = 0; i < n; i++) sum += rmi_chk_slope_given(k, t, i) * rmi_chk_slope_given(k, t, i);
    for (j = 0; j < k->d->finite_differences; j++) {
        rmi_chk_sample *s = &k->sample[(size_t)t * k->d->finite_differences + j];
        for (m = 0; m < (j % 2 ? 1u : 16u); m++) {
            i = rmi_mix(rmi_mix(t) ^ (j * 16u + m)) % n;
            if (m && rmi_chk_abs(rmi_chk_slope_given(k, t, i)) <= rmi_chk_abs(s->gradient)) continue;
            s->at = i;
            s->gradient = rmi_chk_slope_given(k, t, i);
        }
        s->rms = rmi_chk_sqrt(sum / (double)n);
        s->set = 1;
    }
}

/* --- updates, reductions, barriers */
RMI_FN rm_result rmi_chk_param_frame(rmi_chk *k, rmi_run r, rmi_chk_frame **out)
{
    const rmi_tensor *t = &k->g->tensors[r.id];
    int reduce = r.way == RMI_REDUCE, host = r.way == RMI_OPT_HOST;
    rmi_chk_frame *f;
    RMI_TRY(rmi_chk_frame_make(k, 0, 0, "param ", t->name, reduce ? "reduction" : host ? "update in host memory" : "update", &f));
    *out = f;
    f->kind = "";
    f->fn = reduce ? k->x->d.reduce : host ? t->update_host : t->update;
    f->c.phase = reduce ? RM_PHASE_REDUCE : RM_PHASE_UPDATE;
    f->c.user = reduce ? k->x->d.reduce_user : t->user;
    if (t->arg) memcpy(f->c.arg, t->arg, sizeof f->c.arg);
    if (t->farg) memcpy(f->c.farg, t->farg, sizeof f->c.farg);
    f->c.param_bytes = t->bytes;
    f->c.grad_bytes = t->grad_bytes;
    f->c.state_bytes = t->state_bytes;
    RMI_TRY(rmi_chk_add(k, f, RMI_CHK_GRAD, 0, r.id, t->grad_bytes, host && k->host[r.id] ? k->host[r.id] : k->grad[r.id], reduce ? RMI_CHK_RESULT : RMI_CHK_SCRATCH, &f->grad));
    if (reduce) return RM_OK;
    RMI_TRY(rmi_chk_add(k, f, RMI_CHK_PARAM, 0, r.id, t->bytes, k->value[r.id], RMI_CHK_RESULT, &f->param));
    if (t->state_bytes) RMI_TRY(rmi_chk_add(k, f, RMI_CHK_STATE, 0, r.id, t->state_bytes, k->state[r.id], RMI_CHK_RESULT, &f->state));
    if (t->opt_ws && !host) RMI_TRY(rmi_chk_add(k, f, RMI_CHK_WS, 0, RMI_NONE, t->opt_ws, NULL, RMI_CHK_SCRATCH, &f->ws));
    return RM_OK;
}

RMI_FN rm_result rmi_chk_update(rmi_chk *k, rmi_run r)
{
    rmi_chk_frame *f;
    rmi_chk_sample_param(k, r.id);
    if (r.way == RMI_REDUCE && !k->x->d.reduce) return RM_OK;
    RMI_TRY(rmi_chk_param_frame(k, r, &f));
    if (!f->fn) return rmi_err_set(&k->x->err, RM_ERROR_ARGUMENT, "%s has no callback; set rm_param_desc.update", f->what);
    if (r.way == RMI_REDUCE) { /* once: other ranks take part */
        rmi_chk_plain(f);
        RMI_TRY(rmi_chk_go(k, f));
        memcpy(k->grad[r.id], f->box[f->grad].p, (size_t)f->box[f->grad].bytes);
        return RM_OK;
    }
    RMI_TRY(rmi_chk_twice(k, f));
    memcpy(k->value[r.id], f->box[f->param].result, (size_t)f->box[f->param].bytes);
    if (f->state != RMI_NONE) memcpy(k->state[r.id], f->box[f->state].result, (size_t)f->box[f->state].bytes);
    return RM_OK;
}

RMI_FN rm_result rmi_chk_barrier(rmi_chk *k, uint32_t id)
{
    const rm_graph *g = k->g;
    uint32_t i, n = 0;
    rmi_chk_frame *f;
    uint64_t *sizes;
    for (i = 0; i < g->n_tensors; i++) n += g->tensors[i].kind == RMI_PARAM && g->tensors[i].consumers.n;
    RMI_TRY(rmi_chk_frame_make(k, n, 0, "barrier ", g->barriers[id].name, "callback", &f));
    sizes = RMI_NEW(&k->tmp, uint64_t, n);
    if (!sizes) return RM_ERROR_MEMORY;
    for (n = 0, i = 0; i < g->n_tensors; i++) {
        if (g->tensors[i].kind != RMI_PARAM || !g->tensors[i].consumers.n) continue;
        sizes[n] = g->tensors[i].grad_bytes;
        RMI_TRY(rmi_chk_add(k, f, RMI_CHK_IN, n, i, sizes[n], k->on_host[i] ? k->host[i] : k->grad[i], RMI_CHK_READ, &f->in[n]));
        n++;
    }
    f->kind = "";
    f->fn = g->barriers[id].fn;
    f->c.phase = RM_PHASE_BARRIER;
    f->c.user = g->barriers[id].user;
    f->c.in_bytes = sizes;
    rmi_chk_plain(f);
    return rmi_chk_go(k, f);
}

/* --- gradients that travel: in pieces if a plan merges them in host memory */
RMI_FN rm_result rmi_chk_copy(rmi_chk *k, const rmi_stmt *s, uint32_t t)
{
    uint64_t bytes = k->g->tensors[t].grad_bytes;
    rm_tensor handle;
    if (!k->host[t]) k->host[t] = rmi_chk_bytes(k, &k->mem, bytes);
    if (!k->host[t]) return RM_ERROR_MEMORY;
    switch ((rmi_what)s->what) {
    case RMI_OFFLOAD: memcpy(k->host[t], k->grad[t], (size_t)bytes); break;
    case RMI_PREFETCH:
        memcpy(k->grad[t], k->host[t], (size_t)bytes);
        k->holds[t] = 1;
        k->on_host[t] = 0;
        break;
    case RMI_MERGE:
        handle.id = t + 1;
        k->x->d.add(k->host[t], k->grad[t], bytes, handle, k->x->d.add_user);
        k->holds[t] = 0;
        k->on_host[t] = 1;
        break;
    default: break;
    }
    return RM_OK;
}

/* --- the walk */
RMI_FN rm_result rmi_chk_statement(rmi_chk *k, const rmi_stmt *s)
{
    uint32_t id;
    rmi_buf_kind kind;
    if (s->what == RMI_RUN) {
        if (s->run.way == RMI_FWD) return rmi_chk_forward(k, s->run);
        if (s->run.way == RMI_BWD) return rmi_chk_backward(k, s->run);
        return s->run.way == RMI_BARRIER ? rmi_chk_barrier(k, s->run.id) : rmi_chk_update(k, s->run);
    }
    kind = rmi_low_kind(k->g, s->buf, &id);
    if (kind == RMI_BUF_VALUE && s->what == RMI_ALIAS) rmi_chk_view(k, id);
    if (kind != RMI_BUF_GRAD) return RM_OK;
    if (s->what == RMI_ALLOC || s->what == RMI_ALIAS || s->what == RMI_REUSE) k->holds[id] = 0;
    return s->what == RMI_OFFLOAD || s->what == RMI_PREFETCH || s->what == RMI_MERGE ? rmi_chk_copy(k, s, id) : RM_OK;
}

/* A copy of buffer b as it is now, or room for it. */
RMI_FN unsigned char *rmi_chk_start(rmi_chk *k, uint32_t b)
{
    uint64_t bytes = rmi_low_bytes(k->g, b);
    unsigned char *p = rmi_chk_bytes(k, &k->mem, bytes);
    if (p && k->aside.copy_at[b] != RMI_INF) memcpy(p, k->aside.copy + (size_t)k->aside.copy_at[b], (size_t)bytes);
    return p;
}

RMI_FN rm_result rmi_chk_tables(rmi_chk *k)
{
    const rm_graph *g = k->g;
    uint32_t i, n = 0;
    k->value = RMI_NEW(&k->mem, unsigned char *, 4 * (size_t)g->n_tensors);
    k->form_at = RMI_NEW(&k->mem, uint32_t, g->n_ops);
    k->holds = RMI_NEW(&k->mem, uint8_t, 2 * (size_t)g->n_tensors);
    k->ran = RMI_NEW(&k->mem, uint8_t, 2 * (size_t)g->n_ops);
    k->form = RMI_NEW(&k->mem, uint16_t, g->n_ops);
    k->sampled = RMI_NEW(&k->mem, uint8_t, g->n_tensors);
    if (!k->value || !k->form_at || !k->holds || !k->ran || !k->form || !k->sampled) return RM_ERROR_MEMORY;
    if (k->d && !(k->sample = RMI_NEW(&k->mem, rmi_chk_sample, rmi_mul(g->n_tensors, k->d->finite_differences) > SIZE_MAX / 64 ? SIZE_MAX / 64 : rmi_mul(g->n_tensors, k->d->finite_differences)))) return RM_ERROR_MEMORY;
    k->grad = k->value + g->n_tensors;
    k->state = k->grad + g->n_tensors;
    k->host = k->state + g->n_tensors;
    k->on_host = k->holds + g->n_tensors;
    k->seen = k->ran + g->n_ops;
    for (i = 0; i < g->n_ops; i++) {
        k->form_at[i] = n;
        n += g->ops[i].n_forms;
    }
    k->saved = RMI_NEW(&k->mem, unsigned char *, 2 * (size_t)n);
    if (!k->saved) return RM_ERROR_MEMORY;
    k->saved_too = k->saved + n;
    for (i = 0; i < g->n_tensors; i++) {
        const rmi_tensor *t = &g->tensors[i];
        uint32_t grad = rmi_low_buf(g, RMI_BUF_GRAD, i);
        int earlier = t->kind == RMI_PARAM && rmi_low_adds_to_earlier(k->p->step), hosted = earlier && k->x->host_home[grad] != RMI_INF;
        k->on_host[i] = (uint8_t)(hosted && k->x->home[grad] == RMI_INF);
        k->holds[i] = (uint8_t)(earlier && !k->on_host[i]);
        if (hosted && !(k->host[i] = rmi_chk_start(k, grad))) return RM_ERROR_MEMORY;
        k->value[i] = rmi_chk_start(k, i);
        k->grad[i] = t->has_grad ? rmi_chk_start(k, grad) : NULL;
        k->state[i] = rmi_chk_start(k, rmi_low_buf(g, RMI_BUF_STATE, i));
        if (!k->value[i] || !k->state[i] || (t->has_grad && !k->grad[i])) return RM_ERROR_MEMORY;
    }
    return RM_OK;
}

RMI_FN rm_result rmi_chk_walk(rmi_chk *k)
{
    size_t i;
    RMI_TRY(rmi_chk_tables(k));
    for (i = 0; i < k->p->n; i++) {
        rm_result r = rmi_chk_statement(k, &k->p->st[i]);
        rmi_chk_forget(k);
        if (r != RM_OK) return r;
    }
    for (i = 0; i < k->g->n_tensors; i++) rmi_chk_sample_param(k, (uint32_t)i);
    return RM_OK;
}

/* --- the planned step must leave what the walk left */
RMI_FN rm_result rmi_chk_same(rmi_chk *k, uint32_t t, uint32_t what, const unsigned char *want)
{
    static const char *const names[] = {"its value", "its gradient", "its state"};
    const unsigned char *p;
    uint64_t bytes = 0, at;
    rm_tensor handle;
    handle.id = t + 1;
    if (!rmi_low_bytes(k->g, rmi_low_buf(k->g, (rmi_buf_kind)what, t))) return RM_OK;
    p = rmi_exe_address(k->x, handle, what, 0, &bytes);
    if (!p) return RM_ERROR_ARGUMENT;
    for (at = 0; at < bytes; at++)
        if (p[(size_t)at] != want[(size_t)at]) return rmi_chk_found(k, "tensor %s: %s after the planned step differs from that of a step that keeps everything, from byte %u of %u on, though each callback alone keeps its word; look for a callback that remembers something between calls, and report it if there is none", k->g->tensors[t].name, names[what], at, bytes);
    return RM_OK;
}

RMI_FN rm_result rmi_chk_compare(rmi_chk *k, const rm_step *s)
{
    const rm_graph *g = k->g;
    uint32_t i;
    rm_result r;
    if (k->unsteady) return RM_OK;
    r = rmi_exe_step(k->x, s);
    if (r == RM_OK) r = rmi_exe_drain(k->x);
    for (i = 0; i < g->n_tensors && r == RM_OK; i++) {
        const rmi_tensor *t = &g->tensors[i];
        if (t->is_output || t->kind == RMI_PARAM || t->kind == RMI_CONST) r = rmi_chk_same(k, i, RM_VALUE, k->value[i]);
        if (r == RM_OK && t->has_grad && rmi_seq_grad_stays(g, k->p->step, i)) r = rmi_chk_same(k, i, RM_GRAD, k->on_host[i] ? k->host[i] : k->grad[i]);
        if (r == RM_OK && t->kind == RMI_PARAM) r = rmi_chk_same(k, i, RM_STATE, k->state[i]);
    }
    k->x->last = NULL; /* its outputs go when all is put back */
    return r;
}

/* --- finite differences */

/* Six digits and an exponent, in every locale; out has room for 32. */
RMI_FN char *rmi_chk_number(double v, char *out)
{
    char digits[24];
    size_t n = 0;
    int e = 0;
    uint64_t d;
    if (v != v) return strcpy(out, "nan");
    if (v < 0) out[n++] = '-';
    v = rmi_chk_abs(v);
    if (v > 1e308) return strcpy(out + n, "inf"), out;
    while (v >= 10) { v /= 10; e++; }
    while (v > 0 && v < 1) { v *= 10; e--; }
    d = (uint64_t)(v * 100000 + 0.5);
    if (d >= 1000000) { d /= 10; e++; }
    rmi_u64_text(d, digits);
    out[n++] = digits[0];
    if (d) {
        out[n++] = '.';
        memcpy(out + n, digits + 1, 5);
        n += 5;
        out[n++] = 'e';
        if (e < 0) out[n++] = '-';
        rmi_u64_text((uint64_t)(e < 0 ? -e : e), digits);
        memcpy(out + n, digits, strlen(digits));
        n += strlen(digits);
    }
    out[n] = 0;
    return out;
}

/* Params and consts as they were before the step. */
RMI_FN void rmi_chk_rewind(rmi_chk *k, int params)
{
    uint32_t i;
    for (i = 0; i < k->g->n_tensors; i++) {
        const rmi_tensor *t = &k->g->tensors[i];
        if ((t->kind == RMI_CONST || (params && t->kind == RMI_PARAM)) && k->aside.copy_at[i] != RMI_INF) memcpy(k->value[i], k->aside.copy + (size_t)k->aside.copy_at[i], (size_t)t->bytes);
    }
}

/* The loss with the params as they are: forwards from op `from` on, right on the tensors of the walk. */
RMI_FN rm_result rmi_chk_loss(rmi_chk *k, uint32_t from, double *loss)
{
    const rm_graph *g = k->g;
    uint32_t i, j;
    rmi_chk_rewind(k, 0);
    for (i = from; i < g->n_ops; i++) {
        const rmi_op *op = &g->ops[i];
        rmi_chk_frame *f;
        int code;
        if (op->view != RMI_NONE) rmi_chk_view(k, op->out.at[0]);
        if (!k->ran[i]) continue;
        for (j = 0; j < op->in.n; j++) rmi_chk_view(k, op->in.at[j]);
        RMI_TRY(rmi_chk_op_call(k, i, k->form[i], RMI_NONE, &f));
        for (j = 0; j < op->in.n; j++) f->in_ptr[j] = k->value[op->in.at[j]];
        for (j = 0; j < op->out.n; j++) f->out_ptr[j] = k->value[op->out.at[j]];
        f->c.in = f->in_ptr;
        f->c.out = (void *const *)f->out_ptr;
        f->c.ws_bytes = op->forms[k->form[i]].fwd_ws;
        f->c.ws = f->c.ws_bytes ? rmi_chk_bytes(k, &k->tmp, f->c.ws_bytes) : NULL;
        if (f->c.ws_bytes && !f->c.ws) return RM_ERROR_MEMORY;
        code = f->fn(&f->c);
        rmi_chk_forget(k);
        if (code) return rmi_err_set(&k->x->err, RM_ERROR_CALLBACK, "op %s: its forward returned %s%u after a param was changed a little; the check was stopped there", op->name, code < 0 ? "-" : "", (uint64_t)(code < 0 ? -(int64_t)code : code));
    }
    *loss = rmi_chk_load(k, k->value[k->d->loss.id - 1], 0);
    return RM_OK;
}

/* Central difference at one element of t; also how much of it may be rounding of the loss. */
RMI_FN rm_result rmi_chk_slope(rmi_chk *k, uint32_t t, uint64_t at, uint32_t from, double h, double *slope, double *noise)
{
    double w = rmi_chk_load(k, k->value[t], at), up = 0, down = 0, width;
    rm_result r;
    h *= rmi_chk_abs(w) > 1 ? rmi_chk_abs(w) : 1;
    rmi_chk_store(k, k->value[t], at, w + h);
    width = rmi_chk_load(k, k->value[t], at);
    r = rmi_chk_loss(k, from, &up);
    rmi_chk_store(k, k->value[t], at, w - h);
    width -= rmi_chk_load(k, k->value[t], at);
    if (r == RM_OK) r = rmi_chk_loss(k, from, &down);
    rmi_chk_store(k, k->value[t], at, w);
    *slope = (up - down) / width;
    *noise = 4 * (k->d->dtype == RM_F64 ? 2.3e-16 : 1.2e-7) * (rmi_chk_abs(up) + rmi_chk_abs(down)) / width;
    return r;
}

RMI_FN rm_result rmi_chk_element(rmi_chk *k, uint32_t t, const rmi_chk_sample *s, uint32_t from)
{
    /* a kink or a curve wants a smaller step, rounding a larger one: a right gradient agrees with one of them */
    static const double steps[] = {1, 0.25, 4};
    const rm_graph *g = k->g;
    double eps = k->d->epsilon > 0 ? k->d->epsilon : k->d->dtype == RM_F64 ? 1e-5 : 1e-2, slope = 0, first = 0, noise = 0;
    double tol = k->d->tolerance > 0 ? k->d->tolerance : k->d->dtype == RM_F64 ? 1e-4 : 5e-2;
    char given[32], found[32], width[32], digits[24];
    double finer = 0, coarse_noise = 0;
    uint32_t i;
    for (i = 0; i < RMI_COUNT(steps); i++) {
        double most, a = rmi_chk_abs(s->gradient);
        RMI_TRY(rmi_chk_slope(k, t, s->at, from, eps * steps[i], &slope, &noise));
        if (!i) first = slope;
        if (i == 1) finer = slope;
        coarse_noise = coarse_noise > noise ? coarse_noise : noise;
        most = a > rmi_chk_abs(slope) ? a : rmi_chk_abs(slope);
        if (rmi_chk_abs(s->gradient - slope) <= tol * (most + s->rms) + noise) return RM_OK;
    }
    /* a loss that curves so much that two steps disagree says nothing of the gradient */
    if (rmi_chk_abs(first - finer) > tol * (rmi_chk_abs(first) + rmi_chk_abs(finer)) / 2 + coarse_noise) return RM_OK;
    return rmi_chk_found(k, "param %s: element %s of its gradient is %s, but the loss changes by %s for each unit of it (epsilon %s); correct the backward of op %s, or one between it and the loss", g->tensors[t].name, rmi_u64_text(s->at, digits), rmi_chk_number(s->gradient, given), rmi_chk_number(first, found), rmi_chk_number(eps, width), g->ops[g->tensors[t].consumers.at[g->tensors[t].consumers.n - 1]].name);
}

RMI_FN rm_result rmi_chk_param(rmi_chk *k, uint32_t t, int all)
{
    const rm_graph *g = k->g;
    uint32_t i, from, n = k->d->finite_differences;
    double loss;
    k->sampled[t] = 0;
    for (from = 0; !all && from < g->n_ops; from++) { /* ops before the first that sees the param need not run */
        for (i = 0; i < g->ops[from].in.n && g->tensors[g->ops[from].in.at[i]].root != t;) i++;
        if (i < g->ops[from].in.n) break;
    }
    for (i = 0; i < n; i++) RMI_TRY(rmi_chk_element(k, t, &k->sample[(size_t)t * n + i], from));
    return rmi_chk_loss(k, from, &loss);
}

/* From the loss backwards: the first param that is wrong is then the one nearest to the mistake. */
RMI_FN rm_result rmi_chk_differences(rmi_chk *k)
{
    const rm_graph *g = k->g;
    uint32_t t, j, i;
    int all = 0; /* ops that change consts must run each time, from the first values on */
    if (!k->d || k->unsteady) return RM_OK;
    rmi_chk_rewind(k, 1);
    for (t = 0; t < g->n_tensors; t++) all |= g->tensors[t].mutators.n != 0;
    for (i = g->n_ops; i-- > 0;)
        for (j = 0; j < g->ops[i].in.n; j++) {
            t = g->tensors[g->ops[i].in.at[j]].root;
            if (k->sampled[t]) RMI_TRY(rmi_chk_param(k, t, all));
        }
    return RM_OK;
}

/* Can gradients be compared with slopes as desc wants it? */
RMI_FN rm_result rmi_chk_desc(rmi_chk *k, uint32_t kind)
{
    const rm_check_desc *d = k->d;
    rmi_error *err = &k->x->err;
    if (!d) return RM_OK;
    if (kind == RM_FORWARD) return rmi_err_set(err, RM_ERROR_ARGUMENT, "rm_check_desc.finite_differences: a step of kind RM_FORWARD has no gradients; take RM_SINGLE, or 0 differences");
    if (d->dtype > RM_F64) return rmi_err_set(err, RM_ERROR_ARGUMENT, "rm_check_desc.dtype: RM_F32 and RM_F64 are known, %u is not", (uint64_t)d->dtype);
    if (!d->loss.id || d->loss.id > k->g->n_tensors || !k->g->tensors[d->loss.id - 1].is_output || k->g->tensors[d->loss.id - 1].bytes != rmi_chk_width(k))
        return rmi_err_set(err, RM_ERROR_ARGUMENT, "rm_check_desc.loss: %s is not a declared output of one element (%u bytes); pass the loss, and declare it with rm_output_add", d->loss.id && d->loss.id <= k->g->n_tensors ? k->g->tensors[d->loss.id - 1].name : "none", rmi_chk_width(k));
    return RM_OK;
}

RMI_FN rm_result rmi_chk_arguments(rmi_chk *k, const rm_step *s)
{
    rm_exec *x = k->x;
    uint32_t kind = s && s->kind ? s->kind : RM_SINGLE, i, at = 0;
    if (x->d.backend) return rmi_err_set(&x->err, RM_ERROR_ARGUMENT, "rm_exec_check: it looks at host memory; check an executor without rm_exec_desc.backend");
    for (i = 0; i < x->n_prog; i++)
        if (x->prog[i].step == kind) k->p = &x->p->prog[at = i];
    if (!k->p) return rmi_err_set(&x->err, RM_ERROR_ARGUMENT, "rm_exec_check: the plan has no program for step kind %u; name it in rm_plan_desc.steps", (uint64_t)kind);
    RMI_TRY(rmi_exe_bound(x, &x->prog[at]));
    if (s) x->now = *s;
    else memset((void *)&x->now, 0, sizeof x->now);
    x->now.kind = kind;
    return rmi_chk_desc(k, kind);
}

RMI_FN rm_result rmi_chk_run(rm_exec *x, const rm_step *s, const rm_check_desc *d)
{
    rmi_chk k;
    rm_result r;
    int set_aside = 0;
    memset((void *)&k, 0, sizeof k);
    k.x = k.aside.x = x;
    k.g = x->g;
    k.d = d && d->finite_differences ? d : NULL;
    k.mem = k.tmp = k.aside.tmp = rmi_arena_make(&x->mem.hooks);
    r = rmi_chk_arguments(&k, s);
    if (r == RM_OK) {
        r = rmi_exe_snapshot(&k.aside, 0);
        set_aside = r == RM_OK;
        x->used_up = 0; /* whatever the gradients hold is good enough to add to */
    }
    if (r == RM_OK) r = rmi_chk_walk(&k);
    if (r == RM_OK) r = rmi_chk_compare(&k, s);
    if (r == RM_OK) r = rmi_chk_differences(&k);
    if (r == RM_ERROR_MEMORY) rmi_err_memory(&x->err);
    if (set_aside && rmi_exe_snapshot(&k.aside, 1) != RM_OK && r == RM_OK) r = RM_ERROR_BACKEND;
    rmi_arena_free(&k.tmp);
    rmi_arena_free(&k.mem);
    rmi_arena_free(&k.aside.tmp);
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
    while (g->known) {
        rmi_known *k = g->known;
        g->known = k->next;
        mem = k->mem;
        rmi_arena_free(&mem);
    }
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
    static const char *const message = "rm_op_output: no op makes the tensor, or the op has no output %u; give its size in .out";
    if (!g || g->sticky.result != RM_OK) return rmi_handle(RMI_NONE);
    if (!t.id || t.id > g->n_tensors || g->tensors[t.id - 1].maker == RMI_NONE || i >= g->ops[g->tensors[t.id - 1].maker].out.n) {
        if (g->sealed) rmi_err_set(&g->last, RM_ERROR_ARGUMENT, message, (uint64_t)i); /* a question, not a mistake in building */
        else rmi_graph_fail(g, RM_ERROR_GRAPH, message, (uint64_t)i);
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
    if (!g || g->sticky.result != RM_OK) return;
    if ((g->has_link && !g->sealed) || !h2d || !d2h || h2d > RMI_MAX || d2h > RMI_MAX || latency_ns > RMI_MAX || add > RMI_MAX) {
        rmi_graph_fail(g, RM_ERROR_GRAPH, "rm_graph_link: declared twice, or a rate is zero or not below 2^62; give both rates in bytes a second");
        return;
    }
    g->has_link = 1;
    g->link.h2d = h2d;
    g->link.d2h = d2h;
    g->link.latency = latency_ns;
    g->link.add = add ? add : g->sealed && g->link.add ? g->link.add : 20000000000u;
    g->hashed = 0;
}

RMDEF size_t rm_graph_op_count(const rm_graph *g) { return g ? g->n_ops : 0; }
RMDEF size_t rm_graph_tensor_count(const rm_graph *g) { return g ? g->n_tensors : 0; }
RMDEF rm_tensor rm_graph_find(const rm_graph *g, const char *tensor_name)
{
    return rmi_handle(g && tensor_name ? rmi_graph_lookup(g, &g->tensor_map, tensor_name) : RMI_NONE);
}
RMDEF const char *rm_tensor_name(const rm_graph *g, rm_tensor t) { return g && t.id && t.id <= g->n_tensors ? g->tensors[t.id - 1].name : ""; }
RMDEF uint64_t rm_tensor_bytes(const rm_graph *g, rm_tensor t) { return g && t.id && t.id <= g->n_tensors ? g->tensors[t.id - 1].bytes : 0; }

RMDEF rm_result rm_graph_read(const char *text, size_t length, const rm_graph_desc *desc, rm_graph **out)
{
    if (!out) return RM_ERROR_ARGUMENT;
    *out = rm_graph_create(desc);
    if (!*out) return RM_ERROR_MEMORY;
    if (!text && length) return rmi_graph_fail(*out, RM_ERROR_ARGUMENT, "rm_graph_read: text is NULL; pass the bytes of a .rmg file");
    return rmi_txt_read_graph(*out, text, length);
}

RMDEF rm_result rm_graph_write(rm_graph *g, rm_write_fn write, void *user)
{
    rmi_sink s;
    if (!g) return RM_ERROR_ARGUMENT;
    if (!write) return rmi_err_set(&g->last, RM_ERROR_ARGUMENT, "rm_graph_write: write is NULL; pass a function that takes the text");
    s.write = write;
    s.user = user;
    s.failed = 0;
    return rmi_txt_write_graph(g, &s);
}

RMDEF const char *rm_preset_name(size_t i, const char **help)
{
    if (i >= RMI_COUNT(rmi_plan_presets)) return NULL;
    if (help) *help = rmi_plan_presets[i].help;
    return rmi_plan_presets[i].name;
}

RMDEF rm_result rm_config_preset(const char *name, rm_config *c)
{
    const rmi_plan_preset *p = rmi_plan_find_preset(name);
    if (!p || !c) return RM_ERROR_ARGUMENT;
    rmi_plan_use_preset(p, c);
    return RM_OK;
}

RMDEF rm_result rm_config_read(const char *text, size_t length, rm_config *c, char *message, size_t message_bytes)
{
    rmi_error err;
    rm_result r = RM_ERROR_ARGUMENT;
    size_t n;
    memset(&err, 0, sizeof err);
    if (c && (text || !length)) r = rmi_txt_config_read(text, length, c, &err);
    else rmi_err_set(&err, r, "rm_config_read: text or c is NULL");
    if (!message || !message_bytes) return r;
    n = (size_t)rmi_min(strlen(err.text), message_bytes - 1);
    memcpy(message, err.text, n);
    message[n] = 0;
    return r;
}

RMDEF rm_result rm_config_write(const rm_config *c, rm_write_fn write, void *user)
{
    rmi_sink s;
    if (!c || !write) return RM_ERROR_ARGUMENT;
    s.write = write;
    s.user = user;
    s.failed = 0;
    return rmi_txt_config_write(c, &s);
}

RMDEF rm_result rm_plan_create(rm_graph *g, const rm_plan_desc *desc, rm_plan **out)
{
    if (out) *out = NULL;
    if (!g) return RM_ERROR_MEMORY;
    if (!desc || !out) return rmi_err_set(&g->last, RM_ERROR_ARGUMENT, "rm_plan_create: desc or out is NULL");
    return rmi_plan_create(g, desc, out);
}
RMDEF void rm_plan_destroy(rm_plan *p) { rmi_plan_free(p); }

RMDEF rm_result rm_plan_get_info(const rm_plan *p, uint32_t step, rm_plan_info *info)
{
    uint32_t i;
    if (!p || !info || !rmi_plan_program(p, step, &i)) return RM_ERROR_ARGUMENT;
    *info = p->info[i];
    return RM_OK;
}

RMDEF size_t rm_plan_curve(const rm_plan *p, const rm_point **points)
{
    if (points) *points = p ? p->curve : NULL;
    return p ? p->n_curve : 0;
}
RMDEF uint32_t rm_plan_curve_lost_ppm(const rm_plan *p) { return p ? p->lost_ppm : 0; }

RMDEF rm_result rm_plan_write(const rm_plan *p, uint32_t step, rm_write_fn write, void *user)
{
    const rmi_program *prog;
    rmi_sink s;
    if (!p) return RM_ERROR_ARGUMENT;
    if (!write) return rmi_err_set(&p->g->last, RM_ERROR_ARGUMENT, "rm_plan_write: write is NULL; pass a function that takes the text");
    if (p->live_only) return rmi_err_set(&p->g->last, RM_ERROR_ARGUMENT, "rm_plan_write: the plan counts live bytes and has no addresses to write; plan without rm_plan_desc.live_only");
    prog = rmi_plan_program(p, step, NULL);
    if (!prog) return RM_ERROR_ARGUMENT;
    s.write = write;
    s.user = user;
    s.failed = 0;
    return rmi_txt_write_program(p->g, prog, &s) == RM_OK ? RM_OK : rmi_err_set(&p->g->last, RM_ERROR_WRITE, "plan: the sink took no more text");
}

RMDEF rm_result rm_plan_read(rm_graph *g, const char *text, size_t length, rm_plan **out)
{
    if (out) *out = NULL;
    if (!g) return RM_ERROR_MEMORY;
    if (!text || !out) return rmi_err_set(&g->last, RM_ERROR_ARGUMENT, "rm_plan_read: text or out is NULL");
    return rmi_txt_read_plan(g, text, length, out);
}

RMDEF rm_result rm_plan_summary(const rm_plan *p, rm_write_fn write, void *user)
{
    rmi_sink s;
    if (!p) return RM_ERROR_ARGUMENT;
    if (!write) return rmi_err_set(&p->g->last, RM_ERROR_ARGUMENT, "rm_plan_summary: write is NULL; pass a function that takes the text");
    s.write = write;
    s.user = user;
    s.failed = 0;
    return rmi_txt_summary(p, &s);
}

/* What rm_plan_explain (what 0), rm_plan_trace (1) and rm_plan_svg (2) have in common. */
RMI_FN rm_result rmi_look(const rm_plan *p, uint32_t step, rm_write_fn write, void *user, int what, rm_tensor t)
{
    static const char *const names[] = {"rm_plan_explain", "rm_plan_trace", "rm_plan_svg"};
    const rmi_program *prog;
    rmi_sink s;
    uint32_t index = 0;
    if (!p) return RM_ERROR_ARGUMENT;
    if (!write) return rmi_err_set(&p->g->last, RM_ERROR_ARGUMENT, "%s: write is NULL; pass a function that takes the text", names[what]);
    if (what && p->live_only) return rmi_err_set(&p->g->last, RM_ERROR_ARGUMENT, "%s: the plan counts live bytes and has no addresses to show; plan without rm_plan_desc.live_only", names[what]);
    if (!what && (!t.id || t.id > p->g->n_tensors)) return rmi_err_set(&p->g->last, RM_ERROR_ARGUMENT, "rm_plan_explain: the tensor is none or of another graph; rm_graph_find gives one by name");
    prog = rmi_plan_program(p, step, &index);
    if (!prog) return RM_ERROR_ARGUMENT;
    s.write = write;
    s.user = user;
    s.failed = 0;
    return rmi_vue_look(p, index, &s, what, t.id - 1, names[what]);
}
RMDEF rm_result rm_plan_explain(const rm_plan *p, rm_tensor t, rm_write_fn write, void *user) { return rmi_look(p, 0, write, user, 0, t); }
RMDEF rm_result rm_plan_trace(const rm_plan *p, uint32_t step, rm_write_fn write, void *user) { return rmi_look(p, step, write, user, 1, rmi_handle(RMI_NONE)); }
RMDEF rm_result rm_plan_svg(const rm_plan *p, uint32_t step, rm_write_fn write, void *user) { return rmi_look(p, step, write, user, 2, rmi_handle(RMI_NONE)); }

RMDEF rm_result rm_place(const rm_allocator *hooks, rm_place_item *items, size_t n, uint64_t align, uint64_t capacity, uint64_t *height, uint64_t *bound)
{
    rmi_arena mem = rmi_arena_make(hooks);
    rmi_plc_info info;
    rm_result r;
    memset(&info, 0, sizeof info);
    if ((!items && n) || n > RMI_NONE / 4) return RM_ERROR_ARGUMENT;
    r = rmi_plc_place_times(&mem, items, n, align ? align : 1, capacity, &info);
    rmi_arena_free(&mem);
    if (height) *height = info.height;
    if (bound) *bound = info.bound;
    return r;
}

RMDEF rm_result rm_exec_create(rm_plan *p, const rm_exec_desc *desc, rm_exec **out)
{
    if (out) *out = NULL;
    if (!p) return RM_ERROR_ARGUMENT;
    rmi_err_clear(&p->g->last);
    if (!out) return rmi_err_set(&p->g->last, RM_ERROR_ARGUMENT, "rm_exec_create: out is NULL");
    return rmi_exe_create(p, desc, out);
}
RMDEF void rm_exec_destroy(rm_exec *x) { rmi_exe_free(x); }
RMDEF const char *rm_exec_error(const rm_exec *x) { return x ? x->err.text : "the executor is NULL: rm_exec_create failed, see rm_graph_error"; }

RMDEF rm_result rm_exec_bind(rm_exec *x, rm_tensor t, uint32_t what, void *memory) { return x ? rmi_exe_bind(x, t, what, memory) : RM_ERROR_ARGUMENT; }

RMDEF rm_result rm_exec_write(rm_exec *x, rm_tensor t, uint32_t what, uint64_t offset, const void *src, uint64_t bytes)
{
    unsigned char *p;
    if (!x) return RM_ERROR_ARGUMENT;
    p = rmi_exe_range(x, t, what, 1, offset, bytes);
    if (!p || (bytes && !src)) return p ? rmi_err_set(&x->err, RM_ERROR_ARGUMENT, "rm_exec_write: src is NULL") : RM_ERROR_ARGUMENT;
    if (bytes) RMI_TRY(rmi_exe_write(x, t, what, offset, p, src, bytes));
    if (what == RM_VALUE) x->stale[t.id - 1] = 0;
    if (what == RM_GRAD) x->used_up = 0; /* the caller knows what they hold */
    return RM_OK;
}

RMDEF rm_result rm_exec_read(rm_exec *x, rm_tensor t, uint32_t what, uint64_t offset, void *dst, uint64_t bytes)
{
    unsigned char *p;
    if (!x) return RM_ERROR_ARGUMENT;
    p = rmi_exe_range(x, t, what, 0, offset, bytes);
    if (!p || (bytes && !dst)) return p ? rmi_err_set(&x->err, RM_ERROR_ARGUMENT, "rm_exec_read: dst is NULL") : RM_ERROR_ARGUMENT;
    if (bytes) RMI_TRY(rmi_exe_read(x, t, what, dst, p, bytes));
    return RM_OK;
}

RMDEF void *rm_exec_pointer(rm_exec *x, rm_tensor t, uint32_t what)
{
    uint64_t bytes;
    void *p;
    int input;
    if (!x) return NULL;
    input = t.id && t.id <= x->g->n_tensors && x->g->tensors[t.id - 1].kind == RMI_INPUT && what == RM_VALUE;
    if (rmi_exe_drain(x) != RM_OK) return NULL;
    p = rmi_exe_address(x, t, what, input, &bytes);
    if (p && rmi_exe_twice(x, rmi_low_buf(x->g, (rmi_buf_kind)what, t.id - 1))) {
        rmi_err_set(&x->err, RM_ERROR_ARGUMENT, "%s persists on the device and in host memory, both the same: use rm_exec_write and rm_exec_read", x->g->tensors[t.id - 1].name);
        return NULL;
    }
    if (p && input) x->stale[t.id - 1] = 0; /* it was asked for to be written */
    return p;
}

RMDEF rm_result rm_exec_wait(rm_exec *x) { return x ? rmi_exe_drain(x) : RM_ERROR_ARGUMENT; }
RMDEF rm_result rm_exec_step(rm_exec *x, const rm_step *s) { return x ? rmi_exe_step(x, s) : RM_ERROR_ARGUMENT; }

RMDEF rm_result rm_exec_save(rm_exec *x, rm_write_fn write, void *user)
{
    rmi_sink s;
    if (!x) return RM_ERROR_ARGUMENT;
    if (!write) return rmi_err_set(&x->err, RM_ERROR_ARGUMENT, "rm_exec_save: write is NULL");
    s.write = write;
    s.user = user;
    s.failed = 0;
    return rmi_exe_save(x, &s);
}

RMDEF rm_result rm_exec_restore(rm_exec *x, const void *data, size_t bytes)
{
    if (!x) return RM_ERROR_ARGUMENT;
    if (!data) return rmi_err_set(&x->err, RM_ERROR_ARGUMENT, "rm_exec_restore: data is NULL");
    RMI_TRY(rmi_exe_restore_walk(x, (const unsigned char *)data, bytes, 0));
    RMI_TRY(rmi_exe_drain(x)); /* the lanes of the last step may still read and write what is restored */
    return rmi_exe_restore_walk(x, (const unsigned char *)data, bytes, 1);
}

RMDEF rm_result rm_exec_replan(rm_exec *x, rm_plan *p)
{
    if (!x) return RM_ERROR_ARGUMENT;
    return p ? rmi_exe_replan_anyhow(x, p) : rmi_err_set(&x->err, RM_ERROR_ARGUMENT, "rm_exec_replan: the plan is NULL; rm_plan_create failed, see rm_graph_error");
}

RMDEF rm_result rm_exec_profile(rm_exec *x, const rm_step *s, uint32_t repeats) { return x ? rmi_exe_profile_run(x, s, repeats) : RM_ERROR_ARGUMENT; }

RMDEF rm_result rm_exec_check(rm_exec *x, const rm_step *s, const rm_check_desc *desc) { return x ? rmi_chk_run(x, s, desc) : RM_ERROR_ARGUMENT; }

RMDEF rm_result rm_exec_get_info(const rm_exec *x, rm_exec_info *info)
{
    if (!x || !info) return RM_ERROR_ARGUMENT;
    info->arena_bytes = x->dev_bytes;
    info->touched_bytes = x->touched;
    info->host_bytes = x->host_bytes;
    info->steps = x->steps;
    return RM_OK;
}

RMDEF void *rm_mut(const rm_call *c, uint32_t i) { return c->recompute || i >= c->n_in ? NULL : (void *)c->in[i]; }

RMI_TEXT_END

#if defined(_MSC_VER)
#pragma warning(pop)
#endif
#endif /* ROCKMATE_IMPLEMENTATION */

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
