/* cudart_standin.h - a test instrument: the runtime functions that rockmate_cuda.h calls, on the host, with adversarial order.
   Never linked into an example, and no substitute for a GPU: it knows what the runtime promises, not what a card does.

   Device memory is reserved address space that nobody can touch (reading it on the host is a fault); "kernels" are host
   functions that are enqueued on a stream and reach their bytes through standin_at. Nothing runs when it is enqueued: an order
   (below) decides. A vector clock per queue finds pairs of accesses that nothing orders. Capture makes a graph of what was
   enqueued, with its edges alone; a launch runs it under the same orders. Time is simulated: events measure it. */
#ifndef RMTEST_CUDART_STANDIN_H
#define RMTEST_CUDART_STANDIN_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Everything is forgotten and freed: memory, streams, graphs, counts, findings, settings. Returns how many objects the user
   had not freed. */
size_t standin_reset(void);

/* --- order. EAGER: at once. LAZY: what a synchronisation needs, when it asks. STARVE(k): the stream created as number k runs only when
   nothing else can, and at a synchronisation; the others at once. SHUFFLE(seed): any order that the edges allow, at synchronisations. */
enum { STANDIN_EAGER, STANDIN_LAZY, STANDIN_STARVE, STANDIN_SHUFFLE };
void standin_order(int order, uint64_t which);
unsigned standin_streams(void); /* created since the last reset */
void standin_races(int on);     /* the checker: 1 (default) or 0 */

/* --- device work */
typedef int (*standin_fn)(void *arg); /* nonzero: an illegal address (700) */
/* Enqueues fn with a copy of arg. It takes ns of simulated time. */
cudaError_t standin_launch(cudaStream_t stream, standin_fn fn, const void *arg, size_t arg_bytes, uint64_t ns);
/* Inside a kernel: the bytes behind a device address (pinned and other host memory: p itself). NULL: nobody's. */
void *standin_at(const void *p);
/* Inside a kernel or a host function, and on the host: these bytes are read (write 0) or written now. */
void standin_touch(const void *p, size_t bytes, int write);
void standin_name(const char *name); /* inside a kernel or a host function: its name in findings */

/* --- faults */
void standin_fail(uint64_t call, cudaError_t code, int sticky); /* the call of this number (from 1) fails; 0: none. sticky: all later ones too */
uint64_t standin_calls(void);                                   /* so far */
void standin_drop_wait(uint64_t number);                        /* the cudaStreamWaitEvent of this number (from 1) does nothing; 0: none */
uint64_t standin_waits(void);
void standin_drop_sync(uint64_t number); /* the same of cudaEventSynchronize, counted from here: the host does not wait; 0: none */
uint64_t standin_syncs(void);
const char *standin_failed_call(void);                          /* its name */
const char *standin_wait_name(void); /* streams of the wait that was dropped */

/* --- what was seen */
uint64_t standin_findings(void);     /* races, use of freed bytes, pageable copies on a stream, CUDA calls in host functions */
const char *standin_finding(void);   /* the first */
uint64_t standin_spins(void);        /* waits of the host that took a core: for a stream, or for an event without cudaEventBlockingSync */
uint64_t standin_created(void);      /* allocations, streams, events, graphs: goes up when anything is made */
uint64_t standin_live(void);         /* of them, not yet destroyed */
void standin_pageable(int allowed);  /* 1: copies from and to pageable memory are no finding (they are made at once) */

/* --- the card */
void standin_device(uint64_t total_bytes, uint64_t taken_bytes); /* what cudaMemGetInfo tells; default 64 MiB, none taken */
void standin_contend(uint32_t percent);  /* a copy takes so much longer while one goes the other way; default 0 */
void standin_host_late(uint64_t ns);     /* host functions begin so much later than they could; default 0 */
void standin_host_work(uint64_t ns, uint32_t percent); /* and last so long, so much longer while copies run either way; default 0, 0 */
/* An assumption: an event that a node of a graph records is pending from the launch on, as after cudaEventRecord, so that cudaEventSynchronize
   behind a launch waits for that launch's node. rockmate_cuda.h relies on it when it writes the values of the next step (RMC_TAKEN); tests/compile/
   cuda.c, which gpu.sh runs, asks the card. 1: it does not hold, the event becomes another one when the node runs; then replays go wrong. */
void standin_late_records(int on);
void standin_idle(int on); /* 1: copies and fills move no bytes, for dry runs: what the host reads of the device are zeros */
void standin_plain(int on); /* 1: device memory that is made from now on is memory of the host: for kernels that are compiled as host code */
void standin_graphs(uint64_t bytes);                  /* that each graph takes once it is there; default none */
void standin_pool(uint64_t bytes, uint64_t used);     /* what the memory pool holds, and how much of it is in use; default none */
void standin_devices(int more); /* besides device 0, all alike; kernels and fills need that of their stream to be current */
void standin_link(uint64_t h2d, uint64_t d2h, uint64_t latency_ns); /* default 10^10 bytes a second, 1000 ns */

#ifdef __cplusplus
}
#endif
#endif
