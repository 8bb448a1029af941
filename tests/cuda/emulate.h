/* emulate.h - a test instrument: CUDA kernels as host code (C++17), thread by thread, in an order of the test's choice

   Never linked into an example, and no substitute for a GPU: it knows what the language promises, not what a card does. The threads of a
   block are fibers. One runs until it waits for its warp (shuffles, votes, products of matrices, loads of matrices) or for its block; which
   one goes on is decided by emulated.order: forwards, backwards, or a shuffle; a warp runs as far as it can before another one does. A missing __syncthreads gives other bits in one of
   these orders; one that not all threads reach is a deadlock, which ends the test. Asynchronous copies arrive when they are waited
   for, in every other order at once. Shared memory begins as NaNs. Blocks run one after the other. Under AddressSanitizer what a kernel
   reads and writes is checked to the byte. With EMULATED_RUNTIME the types are those of cuda_runtime.h, for sources that use that
   (llmc_numbers.cpp); then threads that have ended are not waited for by their block, as CUDA has it. */
#ifndef RMTEST_EMULATE_H
#define RMTEST_EMULATE_H
#define EMULATED

#include <math.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <vector>
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#define FIBER_LEAVES(fake, bottom, bytes) __sanitizer_start_switch_fiber((fake), (bottom), (bytes))
#define FIBER_ARRIVES(fake, bottom, bytes) __sanitizer_finish_switch_fiber((fake), (bottom), (bytes))
#else
#define FIBER_LEAVES(fake, bottom, bytes) ((void)(fake), (void)(bottom), (void)(bytes))
#define FIBER_ARRIVES(fake, bottom, bytes) ((void)(fake), (void)(bottom), (void)(bytes))
#endif

/* --- the language */
#ifdef EMULATED_RUNTIME
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#undef __launch_bounds__
#undef __forceinline__
#define __forceinline__ inline
#endif
#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __launch_bounds__(...)
#define SHARED(name) uint4 *const name = (uint4 *)emulated.shared
#define LAUNCH(kernel, grid, block, shared, stream) emulated_kernel((kernel), (grid), (block), (shared), (stream))

struct bf16 {
    uint16_t bits;
};
#ifndef EMULATED_RUNTIME
struct __attribute__((may_alias, aligned(16))) uint4 {
    uint32_t x, y, z, w;
};
struct __attribute__((may_alias, aligned(16))) float4 {
    float x, y, z, w;
};
struct dim3 {
    unsigned x, y, z;
    dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};
typedef int cudaStream_t;
enum { cudaSuccess, cudaFuncAttributeMaxDynamicSharedMemorySize };
template <class F> static int cudaFuncSetAttribute(F *, int, int) { return cudaSuccess; }
#endif

/* --- blocks, warps, threads */
enum { FIBER_STACK = 256 << 10, FIBERS = 1024 };
struct meeting { /* of the threads of a warp, or of a block */
    unsigned there, number;
    int any, any_before;
    alignas(16) unsigned char left[2][32][32]; /* what each lane of a warp brought, of this meeting and the one before */
};
struct fiber {
    ucontext_t begin;
    jmp_buf at;
    char *stack;
    void *fake;
    const unsigned *wait; /* until it is not `was` any more; NULL: it may run */
    unsigned was;
    int started, ended;
    std::vector<std::pair<void *, const void *>> copies; /* under way; second NULL: zeros */
};
static struct {
    int order; /* 0: forwards; 1: backwards; more: shuffles */
    fiber fibers[FIBERS];
    meeting warps[FIBERS / 32], block;
    unsigned char *shared;
    unsigned n, now, ended;
    void (*call)(void *);
    void *argument;
    jmp_buf scheduler;
    void *fake;
    const void *bottom;
    size_t bytes;
} emulated;
static dim3 threadIdx, blockIdx, blockDim, gridDim;

static void emulated_end(const char *why)
{
    printf("emulate.h: %s, block %u %u %u\n", why, blockIdx.x, blockIdx.y, blockIdx.z);
    exit(1);
}
static void emulated_yield(const unsigned *wait)
{
    fiber &f = emulated.fibers[emulated.now];
    f.wait = wait;
    f.was = *wait;
    if (!_setjmp(f.at)) {
        FIBER_LEAVES(&f.fake, emulated.bottom, emulated.bytes);
        _longjmp(emulated.scheduler, 1);
    }
    FIBER_ARRIVES(emulated.fibers[emulated.now].fake, &emulated.bottom, &emulated.bytes);
}
static void emulated_met(meeting &m)
{
    m.there = 0;
    m.any_before = m.any;
    m.any = 0;
    m.number++;
}
/* How many of a block must come to a barrier. */
static unsigned emulated_block_of(void)
{
#ifdef EMULATED_RUNTIME
    return emulated.n - emulated.ended;
#else
    return emulated.n;
#endif
}
static void emulated_thread(void)
{
    FIBER_ARRIVES(NULL, &emulated.bottom, &emulated.bytes);
    emulated.call(emulated.argument);
    emulated.fibers[emulated.now].ended = 1;
    emulated.ended++;
    if (emulated.block.there && emulated.block.there == emulated_block_of()) emulated_met(emulated.block);
    FIBER_LEAVES(NULL, emulated.bottom, emulated.bytes);
    _longjmp(emulated.scheduler, 1);
}
/* Lets a thread run until it waits or ends. */
static void emulated_resume(unsigned i)
{
    fiber &f = emulated.fibers[i];
    emulated.now = i;
    threadIdx = dim3(i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y);
    f.wait = NULL;
    if (_setjmp(emulated.scheduler)) {
        FIBER_ARRIVES(emulated.fake, NULL, NULL);
        return;
    }
    FIBER_LEAVES(&emulated.fake, f.stack, FIBER_STACK);
    if (f.started) _longjmp(f.at, 1);
    f.started = 1;
    setcontext(&f.begin);
}
/* A warp alone, for as long as it gets on; the others stay as far behind as barriers let them. Nonzero: it got on. */
static int emulated_warp(const unsigned *turn, int *left)
{
    int ran = 0, more;
    do {
        more = 0;
        for (unsigned i = 0; i < 32; i++) {
            const fiber &f = emulated.fibers[turn[i]];
            if (f.ended || (f.wait && *f.wait == f.was)) continue;
            emulated_resume(turn[i]);
            ran = more = 1;
        }
    } while (more);
    for (unsigned i = 0; i < 32; i++) *left |= !emulated.fibers[turn[i]].ended;
    return ran;
}
static void emulated_block(size_t shared)
{
    static uint64_t random = 1;
    unsigned turn[FIBERS], warp[FIBERS / 32], i;
    int ran, left;
    std::vector<unsigned char> memory(shared + 16, 0xFF);
    emulated.shared = memory.data() + (16 - (uintptr_t)memory.data() % 16) % 16;
    memset((void *)emulated.warps, 0, sizeof emulated.warps);
    memset((void *)&emulated.block, 0, sizeof emulated.block);
    emulated.ended = 0;
    for (i = 0; i < (emulated.n + 31) / 32 * 32; i++) {
        fiber &f = emulated.fibers[i];
        turn[i] = emulated.order == 1 && emulated.n % 32 == 0 ? emulated.n - 1 - i : i;
        if (!f.stack) f.stack = (char *)malloc(FIBER_STACK), getcontext(&f.begin);
        f.begin.uc_stack.ss_sp = f.stack;
        f.begin.uc_stack.ss_size = FIBER_STACK;
        f.begin.uc_link = NULL;
        f.started = 0;
        f.ended = i >= emulated.n; /* a warp that is not whole */
        f.wait = NULL;
        makecontext(&f.begin, emulated_thread, 0);
    }
    const unsigned warps = (emulated.n + 31) / 32;
    for (i = 0; i < warps; i++) warp[i] = emulated.order == 1 ? warps - 1 - i : i;
    for (i = 32 * warps; emulated.order > 1 && i > 1; i--) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        std::swap(turn[i - 1], turn[(i - 1) / 32 * 32 + (random >> 33) % ((i - 1) % 32 + 1)]); /* within a warp */
        if (i % 32 == 0) std::swap(warp[i / 32 - 1], warp[(random >> 40) % (i / 32)]);
    }
    do {
        ran = left = 0;
        for (i = 0; i < warps; i++) ran |= emulated_warp(turn + 32 * warp[i], &left);
        if (!ran && left) emulated_end("threads wait for others that have left, or wait elsewhere");
    } while (ran);
}
template <class F> struct emulated_kernel {
    F *kernel;
    dim3 grid, block;
    size_t shared;
    emulated_kernel(F *k, dim3 g, dim3 b, size_t bytes = 0, cudaStream_t = 0) : kernel(k), grid(g), block(b), shared(bytes) {}
    template <class... A> void operator()(A... a)
    {
        auto call = [=] { kernel(a...); };
        typedef decltype(call) closure;
        emulated.call = [](void *c) { (*(closure *)c)(); };
        emulated.argument = &call;
        emulated.n = block.x * block.y * block.z;
        if (!emulated.n || emulated.n > FIBERS) emulated_end("a block of too many threads");
        blockDim = block;
        gridDim = grid;
        for (unsigned z = 0; z < grid.z; z++)
            for (unsigned y = 0; y < grid.y; y++)
                for (unsigned x = 0; x < grid.x; x++) {
                    blockIdx = dim3(x, y, z);
                    emulated_block(shared);
                }
    }
};

/* --- waiting for each other */
static void emulated_meet(meeting &m, unsigned all)
{
    if (++m.there < all) return emulated_yield(&m.number);
    emulated_met(m);
}
/* What all lanes brought. Twice as many places as meetings that a lane can be apart. */
template <class T> static T *emulated_together(const T &mine)
{
    meeting &w = emulated.warps[emulated.now / 32];
    unsigned char (*place)[32] = w.left[w.number % 2];
    static_assert(sizeof(T) <= 32, "a lane brings at most 32 bytes");
    memcpy(place[emulated.now % 32], &mine, sizeof mine);
    emulated_meet(w, 32);
    return (T *)(void *)place;
}
template <class T> static T &emulated_of(T *all, unsigned lane) { return *(T *)(void *)((unsigned char *)all + 32 * lane); }
static inline void __syncthreads(void) { emulated_meet(emulated.block, emulated_block_of()); }
static inline int __syncthreads_or(int x)
{
    emulated.block.any |= x != 0;
    emulated_meet(emulated.block, emulated_block_of());
    return emulated.block.any_before;
}
static inline void __syncwarp(void) { emulated_meet(emulated.warps[emulated.now / 32], 32); }
static inline float __shfl_xor_sync(unsigned, float x, int lanes) { return emulated_of(emulated_together(x), (emulated.now % 32) ^ (unsigned)lanes); }
static inline float __shfl_down_sync(unsigned, float x, int lanes, int width)
{
    float *all = emulated_together(x);
    const unsigned lane = emulated.now % 32, from = lane + (unsigned)lanes;
    return emulated_of(all, from / (unsigned)width == lane / (unsigned)width ? from : lane);
}
static inline unsigned __ballot_sync(unsigned, int x)
{
    int *all = emulated_together(x);
    unsigned bits = 0;
    for (unsigned i = 0; i < 32; i++) bits |= (unsigned)(emulated_of(all, i) != 0) << i;
    return bits;
}

/* --- arithmetic */
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
#define rsqrtf(x) (1 / sqrtf(x)) /* macros: some C libraries have functions of these names */
#define __expf(x) expf(x)
static inline float power_of_2(float x) { return exp2f(x); }
static inline float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
static inline uint32_t bf16_bits(float x) /* to the nearest, ties to even */
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    if (x != x) return 0x7FFF;
    return (u + 0x7FFF + (u >> 16 & 1)) >> 16;
}
#ifdef EMULATED_RUNTIME
template <class F> static inline cudaError_t cudaFuncSetAttribute(F *, cudaFuncAttribute, int) { return cudaSuccess; }
template <class T> static inline T __ldcs(const T *p) { return *p; }
template <class T> static inline void __stcs(T *p, T x) { *p = x; }
template <class T> static inline void __stcg(T *p, T x) { *p = x; }
template <class A, class B> static inline typename std::common_type<A, B>::type min(A a, B b) { return a < b ? a : b; }
template <class A, class B> static inline typename std::common_type<A, B>::type max(A a, B b) { return a > b ? a : b; }
static inline unsigned __float_as_uint(float x)
{
    unsigned bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static inline float __uint_as_float(unsigned bits) { return float_of(bits); }
static inline unsigned atomicInc(unsigned *at, unsigned most)
{
    const unsigned was = *at;
    *at = was >= most ? 0 : was + 1;
    return was;
}
/* What tests/run.sh makes of kernel<<<...>>>(...). */
template <class F> struct emulated_launcher {
    F kernel;
    dim3 grid, block;
    size_t shared;
    emulated_launcher(F f, dim3 g, dim3 b, size_t bytes = 0, cudaStream_t = 0) : kernel(f), grid(g), block(b), shared(bytes) {}
    template <class... A> void operator()(A... a)
    {
        static F *now;
        now = &kernel;
        emulated_kernel<void(A...)>([](A... b) { (*now)(b...); }, grid, block, shared)(a...);
    }
};
#endif
static inline uint32_t pack(float first, float second) { return bf16_bits(first) | bf16_bits(second) << 16; }

/* --- matrices: who holds what, as the manual of PTX has it */
static inline float emulated_half(uint32_t two, unsigned which) { return float_of(which ? two & 0xFFFF0000u : two << 16); }
static inline void multiply_add(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    struct sides {
        uint32_t a[4], b[2];
    } mine = { { a[0], a[1], a[2], a[3] }, { b0, b1 } };
    sides *all = emulated_together(mine);
    const unsigned lane = emulated.now % 32;
    for (unsigned e = 0; e < 4; e++) {
        const unsigned row = lane / 4, column = lane % 4 * 2 + e % 2;
        for (unsigned k = 0; k < 16; k++)
            c[e] += emulated_half(emulated_of(all, row * 4 + k % 8 / 2).a[e / 2 + k / 8 * 2], k % 2) * emulated_half(emulated_of(all, column * 4 + k % 8 / 2).b[k / 8], k % 2);
    }
}
static inline void emulated_matrices(uint32_t r[4], const bf16 *row, int turned)
{
    const bf16 **all = emulated_together(row);
    const unsigned lane = emulated.now % 32;
    if ((uintptr_t)row % 16) emulated_end("a row of a matrix is not aligned");
    for (unsigned i = 0; i < 4; i++) {
        uint32_t two[2];
        for (unsigned e = 0; e < 2; e++)
            two[e] = turned ? emulated_of(all, i * 8 + lane % 4 * 2 + e)[lane / 4].bits : emulated_of(all, i * 8 + lane / 4)[lane % 4 * 2 + e].bits;
        r[i] = two[0] | two[1] << 16;
    }
}
static inline void load_matrices(uint32_t r[4], const bf16 *row) { emulated_matrices(r, row, 0); }
static inline void load_turned(uint32_t r[4], const bf16 *row) { emulated_matrices(r, row, 1); }

static inline void emulated_copy(void *to, const void *from)
{
    if (from) *(uint4 *)to = *(const uint4 *)from;
    else memset(to, 0, 16);
}
static inline void copy_16(bf16 *to, const bf16 *from, int there)
{
    if (emulated.order % 2) emulated_copy(to, there ? from : NULL);
    else emulated.fibers[emulated.now].copies.push_back(std::make_pair((void *)to, there ? (const void *)from : NULL));
}
static inline void copies_sent(void) {}
static inline void copies_done(void)
{
    for (auto &c : emulated.fibers[emulated.now].copies) emulated_copy(c.first, c.second);
    emulated.fibers[emulated.now].copies.clear();
}
#endif
