/* kernels.cuh - the kernels of train_gpt.cu: attention in tiles, norms, activations, losses, AdamW

   Matrices are bf16, row after row; a row is a token. Sums are float. Threads load and store 16 bytes, eight values, at a time, so widths
   are multiples of 8 and pointers of 16 bytes. No kernel adds atomically: sums have a fixed order, so results are the same bits in
   every run. Needs a card of compute capability 8.0 or more (Ampere).

   tests/cuda/test_kernels.cpp compiles this file for the host (EMULATED, emulate.h), runs it thread by thread and compares it with
   plain references; what differs there is in >>primitives alone. In order: >>primitives, >>rows (embedding, norms, activations, loss),
   >>attention, >>adamw. Below each kernel stands the function that launches it. */
#ifndef TRAIN_GPT_KERNELS_CUH
#define TRAIN_GPT_KERNELS_CUH

#include <math.h>
#include <stdint.h>

/* =====================================================================================================================
   >>primitives
   ================================================================================================================== */

#if !defined(EMULATED)
#include <cuda_bf16.h>
typedef __nv_bfloat16 bf16;

#define LAUNCH(kernel, grid, block, shared, stream) kernel<<<(grid), (block), (shared), (stream)>>>
#define SHARED(name) extern __shared__ uint4 name[] /* what the launch asked for */

/* c[16][8] += a[16][16] b[16][8] by a warp: each lane holds 4, 8 and 4 of them, as PTX says of mma.m16n8k16. */
__device__ static inline void multiply_add(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
/* Four matrices of 8 x 8 from shared memory: lane i has the address of row i % 8 of matrix i / 8, and gets two values of row i / 4 of
   each. load_turned: of column i / 4. */
__device__ static inline void load_matrices(uint32_t r[4], const bf16 *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory");
}
__device__ static inline void load_turned(uint32_t r[4], const bf16 *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory");
}
/* 16 bytes into shared memory, zeros if they are not there; nobody waits until copies_done. */
__device__ static inline void copy_16(bf16 *to, const bf16 *from, int there)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "r"(there ? 16 : 0) : "memory");
}
__device__ static inline void copies_sent(void) { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ static inline void copies_done(void) { asm volatile("cp.async.wait_group 0;" ::: "memory"); }
__device__ static inline float power_of_2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
/* Two values in a word, the first one below. */
__device__ static inline uint32_t pack(float first, float second)
{
    const __nv_bfloat162 x = __floats2bfloat162_rn(first, second);
    return (uint32_t)__bfloat16_as_ushort(x.x) | (uint32_t)__bfloat16_as_ushort(x.y) << 16;
}
__device__ static inline float float_of(uint32_t bits) { return __uint_as_float(bits); }
#endif

__device__ static inline float low(uint32_t two) { return float_of(two << 16); }
__device__ static inline float high(uint32_t two) { return float_of(two & 0xFFFF0000u); }

typedef struct eight {
    float f[8];
} eight;
__device__ static inline eight unpack(uint4 v)
{
    eight x;
    x.f[0] = low(v.x), x.f[1] = high(v.x), x.f[2] = low(v.y), x.f[3] = high(v.y);
    x.f[4] = low(v.z), x.f[5] = high(v.z), x.f[6] = low(v.w), x.f[7] = high(v.w);
    return x;
}
__device__ static inline eight load(const bf16 *at) { return unpack(*(const uint4 *)at); }
__device__ static inline void store(bf16 *at, eight x)
{
    uint4 v;
    v.x = pack(x.f[0], x.f[1]), v.y = pack(x.f[2], x.f[3]), v.z = pack(x.f[4], x.f[5]), v.w = pack(x.f[6], x.f[7]);
    *(uint4 *)at = v;
}
/* Writes a gradient, or adds it. */
__device__ static inline void put(bf16 *at, eight x, int adds)
{
    if (adds) {
        const eight was = load(at);
        for (int j = 0; j < 8; j++) x.f[j] += was.f[j];
    }
    store(at, x);
}

/* Blocks have THREADS threads; where a warp has a row, a block has WARPS of them. */
enum { THREADS = 256, WARPS = 4, CHUNKS = 64 };

static inline unsigned blocks_for(int64_t n) { return (unsigned)((n / 8 + THREADS - 1) / THREADS); }
static inline unsigned warps_for(int64_t rows) { return (unsigned)((rows + WARPS - 1) / WARPS); }
__device__ static inline int64_t element(void) { return ((int64_t)blockIdx.x * THREADS + threadIdx.x) * 8; }

/* The sum over a warp, and over a block of THREADS threads, for all of them; in a fixed order. */
__device__ static inline float warp_sum(float x)
{
    for (int i = 16; i; i >>= 1) x += __shfl_xor_sync(0xFFFFFFFFu, x, i);
    return x;
}
__device__ static inline float block_sum(float x)
{
    __shared__ float part[THREADS / 32];
    float sum = 0;
    x = warp_sum(x);
    __syncthreads(); /* of an earlier call */
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x;
    __syncthreads();
    for (int i = 0; i < THREADS / 32; i++) sum += part[i];
    return sum;
}
__device__ static inline float block_max(float x)
{
    __shared__ float part[THREADS / 32];
    for (int i = 16; i; i >>= 1) x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFFu, x, i));
    __syncthreads();
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x;
    __syncthreads();
    x = part[0];
    for (int i = 1; i < THREADS / 32; i++) x = fmaxf(x, part[i]);
    return x;
}

/* =====================================================================================================================
   >>rows - embedding, norms, sums of columns, activations, loss
   ================================================================================================================== */

/* --- embedding: y = wte[token] (+ wpe[place]); a block a row */
__global__ static void embed_forward(bf16 *y, const int32_t *token, const bf16 *wte, const bf16 *wpe, int width, int context)
{
    const int row = (int)blockIdx.x, place = row % context;
    wte += (int64_t)token[row] * width;
    y += (int64_t)row * width;
    for (int k = (int)threadIdx.x * 8; k < width; k += WARPS * 32 * 8) {
        eight x = load(wte + k);
        if (wpe) {
            const eight p = load(wpe + (int64_t)place * width + k);
            for (int j = 0; j < 8; j++) x.f[j] += p.f[j];
        }
        store(y + k, x);
    }
}
static inline void embed(bf16 *y, const int32_t *token, const bf16 *wte, const bf16 *wpe, int64_t rows, int width, int context, cudaStream_t s)
{
    LAUNCH(embed_forward, (unsigned)rows, WARPS * 32, 0, s)(y, token, wte, wpe, width, context);
}
/* One block for each row of the table: it lists the rows with its token in their order, so the sum, kept in float, is always the same. */
enum { COLUMNS = 4 }; /* eights of a thread: rows of the table have at most THREADS * COLUMNS * 8 elements */
__global__ static void embed_backward(bf16 *dwte, const bf16 *dy, const int32_t *token, int rows, int width, int adds)
{
    const int me = (int)blockIdx.x, warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    __shared__ int list[THREADS], count[THREADS / 32];
    eight sum[COLUMNS];
    int hit = 0;
    for (int c = 0; c < COLUMNS; c++)
        for (int j = 0; j < 8; j++) sum[c].f[j] = 0;
    for (int from = 0; from < rows; from += THREADS) {
        const int row = from + (int)threadIdx.x, mine = row < rows && token[row] == me;
        const unsigned among = __ballot_sync(0xFFFFFFFFu, mine);
        int n = 0, before = 0;
        if (!__syncthreads_or(mine)) continue; /* behind it all have read what the last turn found */
        if (!lane) count[warp] = __popc(among);
        __syncthreads();
        for (int i = 0; i < THREADS / 32; i++) {
            if (i == warp) before = n;
            n += count[i];
        }
        if (mine) list[before + __popc(among & ((1u << lane) - 1))] = row;
        __syncthreads();
        hit = 1;
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) {
            const int k = ((int)threadIdx.x + c * THREADS) * 8;
            if (k >= width) break;
#pragma unroll 4
            for (int i = 0; i < n; i++) {
                const eight g = load(dy + (int64_t)list[i] * width + k);
                for (int j = 0; j < 8; j++) sum[c].f[j] += g.f[j];
            }
        }
    }
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
        const int k = ((int)threadIdx.x + c * THREADS) * 8;
        if (k < width && (hit || !adds)) put(dwte + (int64_t)me * width + k, sum[c], adds);
    }
}
static inline void embed_grad(bf16 *dwte, const bf16 *dy, const int32_t *token, int64_t rows, int tokens, int width, int adds, cudaStream_t s)
{
    LAUNCH(embed_backward, (unsigned)tokens, THREADS, 0, s)(dwte, dy, token, (int)rows, width, adds);
}
__global__ static void positions_backward(bf16 *dwpe, const bf16 *dy, int64_t rows, int width, int context, int adds)
{
    const int64_t i = element(), all = (int64_t)context * width;
    eight sum;
    if (i >= all) return;
    for (int j = 0; j < 8; j++) sum.f[j] = 0;
    for (int64_t at = i; at < rows * width; at += all) {
        const eight g = load(dy + at);
        for (int j = 0; j < 8; j++) sum.f[j] += g.f[j];
    }
    put(dwpe + i, sum, adds);
}
static inline void positions_grad(bf16 *dwpe, const bf16 *dy, int64_t rows, int width, int context, int adds, cudaStream_t s)
{
    LAUNCH(positions_backward, blocks_for((int64_t)context * width), THREADS, 0, s)(dwpe, dy, rows, width, context, adds);
}

/* --- norms: a warp a row, which is read again from the cache. statistics: mean and 1 / deviation (layernorm), or 1 / root of the mean
   square alone (b == NULL) */
__global__ static void norm_forward(bf16 *y, float *statistics, const bf16 *x, const bf16 *w, const bf16 *b, int64_t rows, int width)
{
    const int64_t row = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    const int lane = (int)threadIdx.x % 32;
    float sum = 0, square = 0, mean = 0, scale;
    if (row >= rows) return;
    x += row * width;
    y += row * width;
    for (int k = lane * 8; k < width && b; k += 256) {
        const eight v = load(x + k);
        for (int j = 0; j < 8; j++) sum += v.f[j];
    }
    if (b) mean = warp_sum(sum) / (float)width;
    for (int k = lane * 8; k < width; k += 256) {
        const eight v = load(x + k);
        for (int j = 0; j < 8; j++) square += (v.f[j] - mean) * (v.f[j] - mean);
    }
    scale = rsqrtf(warp_sum(square) / (float)width + 1e-5f);
    for (int k = lane * 8; k < width; k += 256) {
        const eight g = load(w + k);
        eight v = load(x + k);
        for (int j = 0; j < 8; j++) v.f[j] = (v.f[j] - mean) * scale * g.f[j];
        if (b) {
            const eight more = load(b + k);
            for (int j = 0; j < 8; j++) v.f[j] += more.f[j];
        }
        store(y + k, v);
    }
    if (!lane && statistics) {
        if (b) statistics[2 * row] = mean, statistics[2 * row + 1] = scale;
        else statistics[row] = scale;
    }
}
static inline void norm(bf16 *y, float *statistics, const bf16 *x, const bf16 *w, const bf16 *b, int64_t rows, int width, cudaStream_t s)
{
    LAUNCH(norm_forward, warps_for(rows), WARPS * 32, 0, s)(y, statistics, x, w, b, rows, width);
}
__global__ static void norm_backward(bf16 *dx, const bf16 *dy, const bf16 *x, const bf16 *w, const float *statistics, int64_t rows, int width, int layernorm, int adds)
{
    const int64_t row = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    const int lane = (int)threadIdx.x % 32;
    float sum = 0, product = 0, mean, scale;
    if (row >= rows) return;
    mean = layernorm ? statistics[2 * row] : 0;
    scale = layernorm ? statistics[2 * row + 1] : statistics[row];
    x += row * width;
    dy += row * width;
    for (int k = lane * 8; k < width; k += 256) {
        const eight d = load(dy + k), g = load(w + k), v = load(x + k);
        for (int j = 0; j < 8; j++) {
            sum += d.f[j] * g.f[j];
            product += d.f[j] * g.f[j] * (v.f[j] - mean) * scale;
        }
    }
    sum = layernorm ? warp_sum(sum) / (float)width : 0;
    product = warp_sum(product) / (float)width;
    for (int k = lane * 8; k < width; k += 256) {
        const eight d = load(dy + k), g = load(w + k);
        eight v = load(x + k);
        for (int j = 0; j < 8; j++) v.f[j] = (d.f[j] * g.f[j] - sum - (v.f[j] - mean) * scale * product) * scale;
        put(dx + row * width + k, v, adds);
    }
}
static inline void norm_grad(bf16 *dx, const bf16 *dy, const bf16 *x, const bf16 *w, const float *statistics, int64_t rows, int width, int layernorm, int adds, cudaStream_t s)
{
    LAUNCH(norm_backward, warps_for(rows), WARPS * 32, 0, s)(dx, dy, x, w, statistics, rows, width, layernorm, adds);
}

/* Sums of columns, of dy (bias) and of dy times the normalised x (gain; either may be NULL): over the rows of a chunk, eight lines of them
   at a time, then over lines, then over chunks. */
__global__ static void column_parts(float *gain, float *bias, const bf16 *dy, const bf16 *x, const float *statistics, int64_t rows, int width, int layernorm)
{
    __shared__ float part[8][256];
    const int lane = (int)threadIdx.x % 32, line = (int)threadIdx.x / 32, k = ((int)blockIdx.x * 32 + lane) * 8, column = (int)blockIdx.x * 256 + (int)threadIdx.x;
    const int64_t from = rows * blockIdx.y / CHUNKS, to = rows * (blockIdx.y + 1) / CHUNKS;
    eight sum, product;
    for (int j = 0; j < 8; j++) sum.f[j] = product.f[j] = 0;
    for (int64_t row = from + line; row < to && k < width; row += 8) {
        const eight g = load(dy + row * width + k);
        for (int j = 0; j < 8; j++) sum.f[j] += g.f[j];
        if (gain) {
            const float mean = layernorm ? statistics[2 * row] : 0, scale = layernorm ? statistics[2 * row + 1] : statistics[row];
            const eight v = load(x + row * width + k);
            for (int j = 0; j < 8; j++) product.f[j] += g.f[j] * (v.f[j] - mean) * scale;
        }
    }
    for (int which = 0; which < 2; which++) {
        float *out = which ? gain : bias, all = 0;
        if (!out) continue;
        __syncthreads();
        for (int j = 0; j < 8; j++) part[line][lane * 8 + j] = which ? product.f[j] : sum.f[j];
        __syncthreads();
        for (int i = 0; i < 8; i++) all += part[i][threadIdx.x];
        if (column < width) out[(int64_t)blockIdx.y * width + column] = all;
    }
}
__global__ static void column_total(bf16 *out, const float *part, int width, int adds)
{
    const int k = (int)element();
    eight sum;
    if (k >= width) return;
    for (int j = 0; j < 8; j++) sum.f[j] = 0;
    for (int i = 0; i < CHUNKS; i++) {
        const float4 *p = (const float4 *)(part + (int64_t)i * width + k), a = p[0], b = p[1];
        sum.f[0] += a.x, sum.f[1] += a.y, sum.f[2] += a.z, sum.f[3] += a.w;
        sum.f[4] += b.x, sum.f[5] += b.y, sum.f[6] += b.z, sum.f[7] += b.w;
    }
    put(out + k, sum, adds);
}
/* What the sums of columns of a width take of the workspace; both: gain and bias. */
static inline uint64_t column_bytes(int64_t width, int both) { return (uint64_t)(both ? 2 : 1) * CHUNKS * (uint64_t)width * 4; }
static inline void column_sums(bf16 *gain, int gain_adds, bf16 *bias, int bias_adds, float *ws, const bf16 *dy, const bf16 *x, const float *statistics, int64_t rows, int width, int layernorm, cudaStream_t s)
{
    float *more = ws + (gain ? (int64_t)CHUNKS * width : 0);
    if (!gain && !bias) return;
    LAUNCH(column_parts, dim3((unsigned)(width + 255) / 256, CHUNKS), 256, 0, s)(gain ? ws : NULL, bias ? more : NULL, dy, x, statistics, rows, width, layernorm);
    if (gain) LAUNCH(column_total, blocks_for(width), THREADS, 0, s)(gain, ws, width, gain_adds);
    if (bias) LAUNCH(column_total, blocks_for(width), THREADS, 0, s)(bias, more, width, bias_adds);
}

/* --- y += b, a row of it; a block a row: where the library's matrix product cannot */
__global__ static void bias_add(bf16 *y, const bf16 *b, int width)
{
    y += (int64_t)blockIdx.x * width;
    for (int k = (int)threadIdx.x * 8; k < width; k += THREADS * 8) put(y + k, load(b + k), 1);
}
static inline void add_bias(bf16 *y, const bf16 *b, int64_t rows, int width, cudaStream_t s) { LAUNCH(bias_add, (unsigned)rows, THREADS, 0, s)(y, b, width); }

__global__ static void sum_of_two(bf16 *y, const bf16 *a, const bf16 *b, int64_t n)
{
    const int64_t i = element();
    eight x, more;
    if (i >= n) return;
    x = load(a + i);
    more = load(b + i);
    for (int j = 0; j < 8; j++) x.f[j] += more.f[j];
    store(y + i, x);
}
static inline void add(bf16 *y, const bf16 *a, const bf16 *b, int64_t n, cudaStream_t s) { LAUNCH(sum_of_two, blocks_for(n), THREADS, 0, s)(y, a, b, n); }
__global__ static void pass_on(bf16 *dx, const bf16 *dy, int64_t n, int adds)
{
    const int64_t i = element();
    if (i < n) put(dx + i, load(dy + i), adds);
}
static inline void pass(bf16 *dx, const bf16 *dy, int64_t n, int adds, cudaStream_t s) { LAUNCH(pass_on, blocks_for(n), THREADS, 0, s)(dx, dy, n, adds); }

/* --- gelu, swiglu */
__global__ static void gelu_forward(bf16 *y, const bf16 *x, int64_t n)
{
    const int64_t i = element();
    eight v;
    if (i >= n) return;
    v = load(x + i);
    for (int j = 0; j < 8; j++) v.f[j] = 0.5f * v.f[j] * (1 + tanhf(0.7978845608f * (v.f[j] + 0.044715f * v.f[j] * v.f[j] * v.f[j])));
    store(y + i, v);
}
static inline void gelu(bf16 *y, const bf16 *x, int64_t n, cudaStream_t s) { LAUNCH(gelu_forward, blocks_for(n), THREADS, 0, s)(y, x, n); }
__global__ static void gelu_backward(bf16 *dx, const bf16 *dy, const bf16 *x, int64_t n, int adds)
{
    const int64_t i = element();
    eight g, v;
    if (i >= n) return;
    g = load(dy + i);
    v = load(x + i);
    for (int j = 0; j < 8; j++) {
        const float u = v.f[j], t = tanhf(0.7978845608f * (u + 0.044715f * u * u * u));
        g.f[j] *= 0.5f * (1 + t) + 0.5f * u * (1 - t * t) * 0.7978845608f * (1 + 0.134145f * u * u);
    }
    put(dx + i, g, adds);
}
/* dx may be dy. */
static inline void gelu_grad(bf16 *dx, const bf16 *dy, const bf16 *x, int64_t n, int adds, cudaStream_t s) { LAUNCH(gelu_backward, blocks_for(n), THREADS, 0, s)(dx, dy, x, n, adds); }

/* A row of x is gates, then ups; a block a row. */
__global__ static void swiglu_forward(bf16 *y, const bf16 *x, int half)
{
    x += (int64_t)blockIdx.x * 2 * half;
    y += (int64_t)blockIdx.x * half;
    for (int k = (int)threadIdx.x * 8; k < half; k += THREADS * 8) {
        const eight up = load(x + half + k);
        eight gate = load(x + k);
        for (int j = 0; j < 8; j++) gate.f[j] = gate.f[j] / (1 + __expf(-gate.f[j])) * up.f[j];
        store(y + k, gate);
    }
}
static inline void swiglu(bf16 *y, const bf16 *x, int64_t rows, int half, cudaStream_t s) { LAUNCH(swiglu_forward, (unsigned)rows, THREADS, 0, s)(y, x, half); }
__global__ static void swiglu_backward(bf16 *dx, const bf16 *dy, const bf16 *x, int half, int adds)
{
    x += (int64_t)blockIdx.x * 2 * half;
    dx += (int64_t)blockIdx.x * 2 * half;
    dy += (int64_t)blockIdx.x * half;
    for (int k = (int)threadIdx.x * 8; k < half; k += THREADS * 8) {
        const eight g = load(dy + k);
        eight gate = load(x + k), up = load(x + half + k);
        for (int j = 0; j < 8; j++) {
            const float sigmoid = 1 / (1 + __expf(-gate.f[j])), slope = sigmoid * (1 + gate.f[j] * (1 - sigmoid));
            const float to_up = g.f[j] * gate.f[j] * sigmoid;
            gate.f[j] = g.f[j] * up.f[j] * slope;
            up.f[j] = to_up;
        }
        put(dx + k, gate, adds);
        put(dx + half + k, up, adds);
    }
}
static inline void swiglu_grad(bf16 *dx, const bf16 *dy, const bf16 *x, int64_t rows, int half, int adds, cudaStream_t s) { LAUNCH(swiglu_backward, (unsigned)rows, THREADS, 0, s)(dx, dy, x, half, adds); }

/* --- rotary positions: turns the pairs (k, k + head / 2) of queries and keys, eight at a time; sign -1 turns back. y may be x. A block a row. */
__global__ static void rope(bf16 *y, const bf16 *x, int turned, int row_width, int head, int context, float sign, int adds)
{
    const int place = (int)(blockIdx.x % (unsigned)context), pieces = head / 16;
    x += (int64_t)blockIdx.x * row_width;
    y += (int64_t)blockIdx.x * row_width;
    for (int p = (int)threadIdx.x; p < row_width / 16; p += THREADS) {
        const int k = p % pieces * 8, at = p / pieces * head + k, with = at + head / 2;
        const eight a = load(x + at), b = load(x + with);
        eight first = a, second = b;
        for (int j = 0; j < 8 && at < turned; j++) {
            const float angle = (float)place * exp2f(-(float)(2 * (k + j)) / (float)head * 18.931568569f); /* 500,000 to that power */
            float c, s;
            sincosf(angle, &s, &c);
            s *= sign;
            first.f[j] = a.f[j] * c - b.f[j] * s;
            second.f[j] = a.f[j] * s + b.f[j] * c;
        }
        put(y + at, first, adds);
        put(y + with, second, adds);
    }
}
static inline void turn(bf16 *y, const bf16 *x, int64_t rows, int turned, int row_width, int head, int context, float sign, int adds, cudaStream_t s)
{
    LAUNCH(rope, (unsigned)rows, THREADS, 0, s)(y, x, turned, row_width, head, context, sign, adds);
}

/* --- cross entropy: a block a row of logits; columns from vocab on are padding. The sum goes along with the largest so far: logits are
   read once for both, and once more for their gradient, which lies over them. */
__global__ static void cross_entropy(float *loss, bf16 *logits, const int32_t *target, int vocab, int padded, float scale, int gradient)
{
    const int64_t row = blockIdx.x;
    const int aim = target[row];
    bf16 *l = logits + row * padded;
    float most = -INFINITY, sum = 0, all;
    for (int k = (int)threadIdx.x * 8; k < vocab; k += THREADS * 8) {
        const eight v = load(l + k);
        float next = most;
        for (int j = 0; j < 8; j++)
            if (k + j < vocab) next = fmaxf(next, v.f[j]);
        sum *= __expf(most - next);
        for (int j = 0; j < 8; j++)
            if (k + j < vocab) sum += __expf(v.f[j] - next);
        most = next;
    }
    all = block_max(most);
    sum = block_sum(sum * __expf(most - all));
    if (!threadIdx.x && loss) loss[row] = (logf(sum) + all - high((uint32_t)((const uint16_t *)l)[aim] << 16)) * scale;
    __syncthreads();
    for (int k = (int)threadIdx.x * 8; k < padded && gradient; k += THREADS * 8) {
        eight v = load(l + k);
        for (int j = 0; j < 8; j++) v.f[j] = k + j < vocab ? (__expf(v.f[j] - all) / sum - (float)(k + j == aim)) * scale : 0;
        store(l + k, v);
    }
}
static inline void losses(float *loss, bf16 *logits, const int32_t *target, int64_t rows, int vocab, int padded, float scale, int gradient, cudaStream_t s)
{
    LAUNCH(cross_entropy, (unsigned)rows, THREADS, 0, s)(loss, logits, target, vocab, padded, scale, gradient);
}
__global__ static void total_of(float *out, const float *part, int64_t n)
{
    float sum = 0;
    for (int64_t i = threadIdx.x; i < n; i += THREADS) sum += part[i];
    sum = block_sum(sum);
    if (!threadIdx.x) *out = sum;
}
static inline void total(float *out, const float *part, int64_t n, cudaStream_t s) { LAUNCH(total_of, 1, THREADS, 0, s)(out, part, n); }

/* =====================================================================================================================
   >>attention - causal, in tiles: no row of scores is ever in memory (Dao et al. 2022, 2023)
   A row of qkv: the queries of all heads, keys, values. Queries of a group of heads share keys and values. Saved is one float a query and
   head, the logarithm of the sum of its exponentials (lse[sequence][head][place]); the backward makes the probabilities again from it.
   A block of four warps has 64 queries, or 64 keys, 16 for each warp; tiles of the other side come by asynchronous copies, one ahead.
   The backward is two kernels, one for queries and one for keys, so that each sum is made by one warp in one order: that is seven products
   where atomic sums would want five, and no workspace but a float a query and head.
   Tiles lie in shared memory with 8 elements between rows, so that 8 rows of 16 bytes lie in different banks.
   ================================================================================================================== */

typedef struct attention {
    int sequences, context, heads, kv_heads, head; /* head: elements of one, 32, 64 or 128 */
} attention;

enum { TILE = 64, TILE_THREADS = 128 };
template <int D> struct tiles {
    enum { STRIDE = D + 8, STEP = D > 64 ? 32 : 64, WHOLE = TILE * STRIDE, PART = STEP * STRIDE }; /* STEP: rows of the other side, backward */
    enum { FORWARD_BYTES = 4 * WHOLE * 2, BACKWARD_BYTES = (2 * WHOLE + 4 * PART) * 2 + 4 * TILE * 4 };
};
#define LOG2_E 1.4426950408889634f

/* Rows first to first + ROWS of a sequence into a tile; beyond its end zeros. */
template <int D, int ROWS> __device__ static inline void load_tile(bf16 *tile, const bf16 *from, int64_t row_width, int first, int context)
{
#pragma unroll
    for (int i = (int)threadIdx.x; i < ROWS * D / 8; i += TILE_THREADS) {
        const int row = i / (D / 8), k = i % (D / 8) * 8, there = first + row < context;
        copy_16(tile + row * tiles<D>::STRIDE + k, from + (int64_t)(there ? first + row : 0) * row_width + k, there);
    }
}
/* Operands of products from a tile. left: rows row to row + 16, columns k to k + 16. right: two right sides, columns n to n + 16, of the
   turned tile; right_turned: of the tile as it lies. */
template <int D> __device__ static inline void left(uint32_t a[4], const bf16 *tile, int row, int k)
{
    const int lane = (int)threadIdx.x % 32;
    load_matrices(a, tile + (row + lane % 16) * tiles<D>::STRIDE + k + lane / 16 * 8);
}
template <int D> __device__ static inline void right(uint32_t b[4], const bf16 *tile, int n, int k)
{
    const int lane = (int)threadIdx.x % 32;
    load_matrices(b, tile + (n + lane % 8 + lane / 16 * 8) * tiles<D>::STRIDE + k + lane / 8 % 2 * 8);
}
template <int D> __device__ static inline void right_turned(uint32_t b[4], const bf16 *tile, int k, int n)
{
    const int lane = (int)threadIdx.x % 32;
    load_turned(b, tile + (k + lane % 16) * tiles<D>::STRIDE + n + lane / 16 * 8);
}
/* Two results of 16 x 8, side by side, as the left side of 16 x 16. */
__device__ static inline void left_of_results(uint32_t a[4], const float first[4], const float second[4])
{
    a[0] = pack(first[0], first[1]);
    a[1] = pack(first[2], first[3]);
    a[2] = pack(second[0], second[1]);
    a[3] = pack(second[2], second[3]);
}
/* out[16][D] += p[16][ROWS] tile[ROWS][D] */
template <int D, int ROWS> __device__ static inline void weigh_rows(float (*out)[4], const float (*p)[4], const bf16 *tile)
{
#pragma unroll
    for (int k = 0; k < ROWS / 16; k++) {
        uint32_t a[4], b[4];
        left_of_results(a, p[2 * k], p[2 * k + 1]);
#pragma unroll
        for (int n = 0; n < D / 16; n++) {
            right_turned<D>(b, tile, k * 16, n * 16);
            multiply_add(out[2 * n], a, b[0], b[1]);
            multiply_add(out[2 * n + 1], a, b[2], b[3]);
        }
    }
}
/* A warp's 16 rows of results, times a factor for each half of them, to memory by way of the warp's rows of a tile. */
template <int D> __device__ static inline void store_results(bf16 *to, int64_t row_width, int first, int context, bf16 *tile, const float (*x)[4], float upper, float lower, int adds)
{
    const int lane = (int)threadIdx.x % 32, mine = (int)threadIdx.x / 32 * 16;
#pragma unroll
    for (int n = 0; n < D / 8; n++) {
        bf16 *at = tile + (mine + lane / 4) * tiles<D>::STRIDE + n * 8 + lane % 4 * 2;
        *(uint32_t *)at = pack(x[n][0] * upper, x[n][1] * upper);
        *(uint32_t *)(at + 8 * tiles<D>::STRIDE) = pack(x[n][2] * lower, x[n][3] * lower);
    }
    __syncwarp();
#pragma unroll
    for (int i = lane; i < 16 * D / 8; i += 32) {
        const int row = mine + i / (D / 8), k = i % (D / 8) * 8;
        bf16 *at = to + (int64_t)(first + row) * row_width + k;
        if (first + row >= context) continue;
        if (adds) put(at, load(tile + row * tiles<D>::STRIDE + k), 1);
        else *(uint4 *)at = *(const uint4 *)(tile + row * tiles<D>::STRIDE + k);
    }
}
template <int N> __device__ static inline void clear(float (*x)[4])
{
#pragma unroll
    for (int n = 0; n < N; n++) x[n][0] = x[n][1] = x[n][2] = x[n][3] = 0;
}
__host__ __device__ static inline int64_t qkv_width(attention s, int head) { return (int64_t)(s.heads + 2 * s.kv_heads) * head; }
/* Of a sequence in qkv: keys of a head of keys; its values lie kv_heads * D elements further. */
__device__ static inline int64_t keys_at(attention s, int head, int kv) { return (int64_t)(s.heads + kv) * head; }

template <int D> __global__ static void __launch_bounds__(TILE_THREADS) flash_forward(bf16 *y, float *lse, const bf16 *qkv, attention s, float scale)
{
    SHARED(shared);
    bf16 *const keys = (bf16 *)shared, *const values = keys + 2 * tiles<D>::WHOLE; /* two tiles each */
    const int lane = (int)threadIdx.x % 32, mine = (int)threadIdx.x / 32 * 16;
    const int tile = (int)(gridDim.x - 1 - blockIdx.x), first = tile * TILE, head = (int)blockIdx.y, kv = head / (s.heads / s.kv_heads); /* those with most to do begin */
    const int64_t width = qkv_width(s, D);
    const bf16 *const q = qkv + (int64_t)blockIdx.z * s.context * width + head * D, *const k = q - head * D + keys_at(s, D, kv), *const v = k + (int64_t)s.kv_heads * D;
    uint32_t query[D / 16][4];
    float out[D / 8][4], most[2] = { -INFINITY, -INFINITY }, sum[2] = { 0, 0 };

    load_tile<D, TILE>(keys + tiles<D>::WHOLE, q, width, first, s.context);
    load_tile<D, TILE>(keys, k, width, 0, s.context);
    load_tile<D, TILE>(values, v, width, 0, s.context);
    copies_sent();
    copies_done();
    __syncthreads();
#pragma unroll
    for (int i = 0; i < D / 16; i++) left<D>(query[i], keys + tiles<D>::WHOLE, mine, i * 16);
    clear<D / 8>(out);

    for (int at = 0; at <= tile; at++) {
        const bf16 *const its_keys = keys + at % 2 * tiles<D>::WHOLE, *const its_values = values + at % 2 * tiles<D>::WHOLE;
        float score[TILE / 8][4];
        copies_done();
        __syncthreads(); /* this tile is there, and nobody reads the one before */
        if (at < tile) {
            load_tile<D, TILE>(keys + (at + 1) % 2 * tiles<D>::WHOLE, k, width, (at + 1) * TILE, s.context);
            load_tile<D, TILE>(values + (at + 1) % 2 * tiles<D>::WHOLE, v, width, (at + 1) * TILE, s.context);
            copies_sent();
        }
        clear<TILE / 8>(score);
#pragma unroll
        for (int i = 0; i < D / 16; i++)
#pragma unroll
            for (int n = 0; n < TILE / 16; n++) {
                uint32_t b[4];
                right<D>(b, its_keys, n * 16, i * 16);
                multiply_add(score[2 * n], query[i], b[0], b[1]);
                multiply_add(score[2 * n + 1], query[i], b[2], b[3]);
            }
#pragma unroll
        for (int h = 0; h < 2; h++) { /* the rows lane / 4 and lane / 4 + 8 of the warp's */
            float next = most[h], shrink;
#pragma unroll
            for (int n = 0; n < TILE / 8; n++)
#pragma unroll
                for (int e = 2 * h; e < 2 * h + 2; e++) {
                    if (at == tile && n * 8 + lane % 4 * 2 + e % 2 > mine + lane / 4 + 8 * h) score[n][e] = -INFINITY;
                    next = fmaxf(next, score[n][e]);
                }
            next = fmaxf(next, __shfl_xor_sync(0xFFFFFFFFu, next, 1));
            next = fmaxf(next, __shfl_xor_sync(0xFFFFFFFFu, next, 2));
            shrink = power_of_2((most[h] - next) * scale * LOG2_E);
            most[h] = next;
            sum[h] *= shrink;
#pragma unroll
            for (int n = 0; n < TILE / 8; n++)
#pragma unroll
                for (int e = 2 * h; e < 2 * h + 2; e++) {
                    score[n][e] = power_of_2((score[n][e] - next) * (scale * LOG2_E));
                    sum[h] += score[n][e];
                }
#pragma unroll
            for (int n = 0; n < D / 8; n++) out[n][2 * h] *= shrink, out[n][2 * h + 1] *= shrink;
        }
        weigh_rows<D, TILE>(out, score, its_values);
    }
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const int row = first + mine + lane / 4 + 8 * h;
        sum[h] += __shfl_xor_sync(0xFFFFFFFFu, sum[h], 1);
        sum[h] += __shfl_xor_sync(0xFFFFFFFFu, sum[h], 2);
        if (lse && lane % 4 == 0 && row < s.context) lse[((int64_t)blockIdx.z * s.heads + head) * s.context + row] = most[h] * scale + logf(sum[h]);
    }
    __syncthreads(); /* nobody reads tiles any more */
    store_results<D>(y + (int64_t)blockIdx.z * s.context * s.heads * D + head * D, (int64_t)s.heads * D, first, s.context, keys, out, 1 / sum[0], 1 / sum[1], 0);
}

/* Both products of a backward, of a warp's 16 rows from `mine` on of two tiles with STEP rows of two others: queries with keys and slopes with
   values, or turned. */
template <int D, int STEP> __device__ static void score_and_slope(float (*score)[4], float (*slope)[4], const bf16 *rows, const bf16 *slope_rows, int mine, const bf16 *columns, const bf16 *slope_columns)
{
    clear<STEP / 8>(score);
    clear<STEP / 8>(slope);
#pragma unroll
    for (int i = 0; i < D / 16; i++) {
        uint32_t a[4], c[4], b[4];
        left<D>(a, rows, mine, i * 16);
        left<D>(c, slope_rows, mine, i * 16);
#pragma unroll
        for (int n = 0; n < STEP / 16; n++) {
            right<D>(b, columns, n * 16, i * 16);
            multiply_add(score[2 * n], a, b[0], b[1]);
            multiply_add(score[2 * n + 1], a, b[2], b[3]);
            right<D>(b, slope_columns, n * 16, i * 16);
            multiply_add(slope[2 * n], c, b[0], b[1]);
            multiply_add(slope[2 * n + 1], c, b[2], b[3]);
        }
    }
}

/* The gradient of queries; and delta, for each query and head the sum of dy y, which the next kernel wants, too. */
template <int D> __global__ static void __launch_bounds__(TILE_THREADS)
    flash_backward_queries(bf16 *dqkv, float *delta, const bf16 *qkv, const bf16 *y, const bf16 *dy, const float *lse, attention s, float scale, int adds)
{
    enum { STEP = tiles<D>::STEP };
    SHARED(shared);
    bf16 *const queries = (bf16 *)shared, *const slopes = queries + tiles<D>::WHOLE, *const keys = slopes + tiles<D>::WHOLE, *const values = keys + 2 * tiles<D>::PART;
    float *const deltas = (float *)(values + 2 * tiles<D>::PART);
    const int lane = (int)threadIdx.x % 32, mine = (int)threadIdx.x / 32 * 16;
    const int first = (int)(gridDim.x - 1 - blockIdx.x) * TILE, head = (int)blockIdx.y, kv = head / (s.heads / s.kv_heads);
    const int64_t width = qkv_width(s, D), y_width = (int64_t)s.heads * D, y_at = (int64_t)blockIdx.z * s.context * y_width + head * D, of_sequence = (int64_t)blockIdx.z * s.context * width;
    const int64_t saved = ((int64_t)blockIdx.z * s.heads + head) * s.context;
    const bf16 *const k = qkv + of_sequence + keys_at(s, D, kv), *const v = k + (int64_t)s.kv_heads * D;
    const int steps = ((first + TILE < s.context ? first + TILE : s.context) + STEP - 1) / STEP;
    float out[D / 8][4], its_lse[2], its_delta[2];

    load_tile<D, TILE>(queries, qkv + of_sequence + head * D, width, first, s.context);
    load_tile<D, TILE>(slopes, dy + y_at, y_width, first, s.context);
    load_tile<D, STEP>(keys, k, width, 0, s.context);
    load_tile<D, STEP>(values, v, width, 0, s.context);
    copies_sent();
    copies_done();
    __syncthreads();
    { /* two threads a row */
        const int row = (int)threadIdx.x / 2, from = (int)threadIdx.x % 2 * (D / 2);
        float sum = 0;
        if (first + row < s.context)
#pragma unroll
            for (int i = 0; i < D / 2; i += 8) {
                const eight g = load(slopes + row * tiles<D>::STRIDE + from + i), o = load(y + y_at + (first + row) * y_width + from + i);
                for (int j = 0; j < 8; j++) sum += g.f[j] * o.f[j];
            }
        sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 1);
        if (threadIdx.x % 2 == 0) {
            deltas[row] = sum;
            if (first + row < s.context) delta[saved + first + row] = sum;
        }
    }
    __syncthreads();
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const int row = mine + lane / 4 + 8 * h;
        its_lse[h] = first + row < s.context ? lse[saved + first + row] * LOG2_E : INFINITY;
        its_delta[h] = deltas[row];
    }
    clear<D / 8>(out);

    for (int at = 0; at < steps; at++) {
        const bf16 *const its_keys = keys + at % 2 * tiles<D>::PART, *const its_values = values + at % 2 * tiles<D>::PART;
        float score[STEP / 8][4], slope[STEP / 8][4];
        copies_done();
        __syncthreads();
        if (at + 1 < steps) {
            load_tile<D, STEP>(keys + (at + 1) % 2 * tiles<D>::PART, k, width, (at + 1) * STEP, s.context);
            load_tile<D, STEP>(values + (at + 1) % 2 * tiles<D>::PART, v, width, (at + 1) * STEP, s.context);
            copies_sent();
        }
        score_and_slope<D, STEP>(score, slope, queries, slopes, mine, its_keys, its_values);
#pragma unroll
        for (int n = 0; n < STEP / 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int key = at * STEP + n * 8 + lane % 4 * 2 + e % 2, row = first + mine + lane / 4 + e / 2 * 8;
                const float p = key > row ? 0 : power_of_2(score[n][e] * (scale * LOG2_E) - its_lse[e / 2]);
                score[n][e] = p * (slope[n][e] - its_delta[e / 2]);
            }
        weigh_rows<D, STEP>(out, score, its_keys);
    }
    __syncthreads();
    store_results<D>(dqkv + of_sequence + head * D, width, first, s.context, queries, out, scale, scale, adds);
}

/* The gradients of keys and values: scores are made turned, a row for each key. */
template <int D> __global__ static void __launch_bounds__(TILE_THREADS)
    flash_backward_keys(bf16 *dqkv, const float *delta, const bf16 *qkv, const bf16 *dy, const float *lse, attention s, float scale, int adds)
{
    enum { STEP = tiles<D>::STEP };
    SHARED(shared);
    bf16 *const keys = (bf16 *)shared, *const values = keys + tiles<D>::WHOLE, *const queries = values + tiles<D>::WHOLE, *const slopes = queries + 2 * tiles<D>::PART;
    float *const logs = (float *)(slopes + 2 * tiles<D>::PART), *const deltas = logs + 2 * STEP;
    const int lane = (int)threadIdx.x % 32, mine = (int)threadIdx.x / 32 * 16, group = s.heads / s.kv_heads;
    const int first = (int)blockIdx.x * TILE, kv = (int)blockIdx.y;
    const int64_t width = qkv_width(s, D), y_width = (int64_t)s.heads * D, of_sequence = (int64_t)blockIdx.z * s.context * width, k_at = of_sequence + keys_at(s, D, kv), v_at = k_at + (int64_t)s.kv_heads * D;
    const int of_head = (s.context - first + STEP - 1) / STEP, turns = of_head * group;
    float dk[D / 8][4], dv[D / 8][4];

    load_tile<D, TILE>(keys, qkv + k_at, width, first, s.context);
    load_tile<D, TILE>(values, qkv + v_at, width, first, s.context);
    clear<D / 8>(dk);
    clear<D / 8>(dv);

    for (int turn = -1; turn < turns; turn++) {
        const int now = turn & 1, from = first + (turn < 0 ? 0 : turn % of_head) * STEP;
        const bf16 *const its_queries = queries + now * tiles<D>::PART, *const its_slopes = slopes + now * tiles<D>::PART;
        float score[STEP / 8][4], slope[STEP / 8][4];
        copies_done();
        __syncthreads();
        if (turn + 1 < turns) {
            const int head = kv * group + (turn + 1) / of_head, row = first + (turn + 1) % of_head * STEP, i = (int)threadIdx.x;
            const int64_t saved = ((int64_t)blockIdx.z * s.heads + head) * s.context + row + i;
            load_tile<D, STEP>(queries + (1 - now) * tiles<D>::PART, qkv + of_sequence + head * D, width, row, s.context);
            load_tile<D, STEP>(slopes + (1 - now) * tiles<D>::PART, dy + (int64_t)blockIdx.z * s.context * y_width + head * D, y_width, row, s.context);
            copies_sent();
            if (i < STEP) {
                logs[(1 - now) * STEP + i] = row + i < s.context ? lse[saved] * LOG2_E : INFINITY; /* beyond the end probabilities are zero */
                deltas[(1 - now) * STEP + i] = row + i < s.context ? delta[saved] : 0;
            }
        }
        if (turn < 0) continue;
        score_and_slope<D, STEP>(score, slope, keys, values, mine, its_queries, its_slopes);
#pragma unroll
        for (int n = 0; n < STEP / 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int column = n * 8 + lane % 4 * 2 + e % 2, key = first + mine + lane / 4 + e / 2 * 8;
                const float p = from + column < key ? 0 : power_of_2(score[n][e] * (scale * LOG2_E) - logs[now * STEP + column]);
                score[n][e] = p;
                slope[n][e] = p * (slope[n][e] - deltas[now * STEP + column]);
            }
        weigh_rows<D, STEP>(dv, score, its_slopes);
        weigh_rows<D, STEP>(dk, slope, its_queries);
    }
    __syncthreads();
    store_results<D>(dqkv + k_at, width, first, s.context, keys, dk, scale, scale, adds);
    store_results<D>(dqkv + v_at, width, first, s.context, values, dv, 1, 1, adds);
}

/* Nonzero: the device has not so much shared memory. */
template <int D> static int forward_of(bf16 *y, float *lse, const bf16 *qkv, attention s, cudaStream_t stream)
{
    const dim3 grid((unsigned)(s.context + TILE - 1) / TILE, (unsigned)s.heads, (unsigned)s.sequences);
    if (cudaFuncSetAttribute(flash_forward<D>, cudaFuncAttributeMaxDynamicSharedMemorySize, tiles<D>::FORWARD_BYTES) != cudaSuccess) return 1;
    LAUNCH(flash_forward<D>, grid, TILE_THREADS, tiles<D>::FORWARD_BYTES, stream)(y, lse, qkv, s, 1 / sqrtf((float)D));
    return 0;
}
template <int D> static int backward_of(bf16 *dqkv, float *delta, const bf16 *qkv, const bf16 *y, const bf16 *dy, const float *lse, attention s, int adds, cudaStream_t stream)
{
    const unsigned n = (unsigned)(s.context + TILE - 1) / TILE;
    if (cudaFuncSetAttribute(flash_backward_queries<D>, cudaFuncAttributeMaxDynamicSharedMemorySize, tiles<D>::BACKWARD_BYTES) != cudaSuccess ||
        cudaFuncSetAttribute(flash_backward_keys<D>, cudaFuncAttributeMaxDynamicSharedMemorySize, tiles<D>::BACKWARD_BYTES) != cudaSuccess) return 1;
    LAUNCH(flash_backward_queries<D>, dim3(n, (unsigned)s.heads, (unsigned)s.sequences), TILE_THREADS, tiles<D>::BACKWARD_BYTES, stream)(dqkv, delta, qkv, y, dy, lse, s, 1 / sqrtf((float)D), adds);
    LAUNCH(flash_backward_keys<D>, dim3(n, (unsigned)s.kv_heads, (unsigned)s.sequences), TILE_THREADS, tiles<D>::BACKWARD_BYTES, stream)(dqkv, delta, qkv, dy, lse, s, 1 / sqrtf((float)D), adds);
    return 0;
}
/* lse: a float a query and head, or NULL. delta: likewise, workspace. Nonzero: no such size of heads, or no such card. */
static inline int attend(bf16 *y, float *lse, const bf16 *qkv, attention s, cudaStream_t stream)
{
    return s.head == 32 ? forward_of<32>(y, lse, qkv, s, stream) : s.head == 64 ? forward_of<64>(y, lse, qkv, s, stream) : s.head == 128 ? forward_of<128>(y, lse, qkv, s, stream) : 1;
}
static inline int attend_grad(bf16 *dqkv, float *delta, const bf16 *qkv, const bf16 *y, const bf16 *dy, const float *lse, attention s, int adds, cudaStream_t stream)
{
    return s.head == 32 ? backward_of<32>(dqkv, delta, qkv, y, dy, lse, s, adds, stream) : s.head == 64 ? backward_of<64>(dqkv, delta, qkv, y, dy, lse, s, adds, stream)
         : s.head == 128 ? backward_of<128>(dqkv, delta, qkv, y, dy, lse, s, adds, stream) : 1;
}

/* =====================================================================================================================
   >>adamw - one weight, on either side of the link with the same bits: products and sums are rounded one by one (the host's compiler
   may not fuse them: -ffp-contract=off)
   ================================================================================================================== */
#if defined(__CUDA_ARCH__)
#define MUL(a, b) __fmul_rn((a), (b))
#define ADD(a, b) __fadd_rn((a), (b))
#else
#define MUL(a, b) ((a) * (b))
#define ADD(a, b) ((a) + (b))
#endif
typedef struct adam {
    float lr, decay, fix1, fix2, grad_scale;
} adam;
__host__ __device__ static inline float adam_step(adam a, float w, float grad, float *m, float *v)
{
    grad = MUL(grad, a.grad_scale);
    *m = ADD(MUL(0.9f, *m), MUL(0.1f, grad));
    *v = ADD(MUL(0.95f, *v), MUL(0.05f, MUL(grad, grad)));
    return ADD(w, -MUL(a.lr, ADD(MUL(*m, a.fix1) / ADD(sqrtf(MUL(*v, a.fix2)), 1e-8f), MUL(a.decay, w))));
}
__host__ __device__ static inline float to_float(uint16_t x)
{
    union { uint32_t u; float f; } y;
    y.u = (uint32_t)x << 16;
    return y.f;
}
/* Rounds up or down at random (bits: 16 random ones), or to the nearest if bits is 0x8000. */
__host__ __device__ static inline uint16_t to_bf16(float x, uint32_t bits)
{
    union { uint32_t u; float f; } y;
    y.f = x;
    return (uint16_t)((y.u + (bits & 0xFFFF) + (bits == 0x8000 ? 0u - !((y.u >> 16) & 1) : 0u)) >> 16);
}
__host__ __device__ static inline uint32_t random_bits(uint64_t seed, int64_t i)
{
    uint64_t x = seed + (uint64_t)i * 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return (uint32_t)(x >> 32);
}
/* The seed with which value 0 of a share gets the bits that value `first` gets with this one. */
__host__ __device__ static inline uint64_t seed_from(uint64_t seed, int64_t first) { return seed + 3 * (uint64_t)first * 0x9E3779B97F4A7C15u; }
/* A slim weight: m and v in bf16, and the weight itself rounded at random. i: its number, for the random bits. */
__host__ __device__ static inline void adam_slim(adam a, uint16_t *param, uint16_t grad, uint16_t *m, uint16_t *v, uint64_t seed, int64_t i)
{
    float mean = to_float(*m), square = to_float(*v);
    const float w = adam_step(a, to_float(*param), to_float(grad), &mean, &square);
    *param = to_bf16(w, random_bits(seed, 3 * i) >> 16);
    *m = to_bf16(mean, random_bits(seed, 3 * i + 1) >> 16);
    *v = to_bf16(square, random_bits(seed, 3 * i + 2) >> 16);
}
/* n weights from number i on, of `count`. Full states: float weights, then all m, then all v. */
__host__ __device__ static inline void adam_some(adam a, uint16_t *param, const uint16_t *grad, void *state, int64_t count, int64_t i, int n, int slim, uint64_t seed)
{
    float *f = (float *)state + i;
    uint16_t *h = (uint16_t *)state + i;
    for (int j = 0; j < n; j++)
        if (slim) adam_slim(a, param + i + j, grad[i + j], h + j, h + count + j, seed, i + j);
        else param[i + j] = to_bf16(f[j] = adam_step(a, f[j], to_float(grad[i + j]), f + count + j, f + 2 * count + j), 0x8000);
}
typedef struct eight_bits { /* as it lies in memory: 16 bytes */
    uint16_t h[8];
} eight_bits;
typedef union eight_words {
    uint4 v;
    eight_bits b;
} eight_words;
__device__ static inline eight_bits load_bits(const uint16_t *at)
{
    eight_words x;
    x.v = *(const uint4 *)at;
    return x.b;
}
__device__ static inline void store_bits(uint16_t *at, eight_bits b)
{
    eight_words x;
    x.b = b;
    *(uint4 *)at = x.v;
}
typedef union four_floats {
    float4 v;
    float f[4];
} four_floats;
__device__ static inline void adam_eight(adam a, uint16_t *param, const uint16_t *grad, void *state, int64_t count, int64_t i, int slim, uint64_t seed)
{
    eight_bits p = load_bits(param + i);
    const eight_bits g = load_bits(grad + i);
    if (slim) {
        uint16_t *h = (uint16_t *)state + i;
        eight_bits m = load_bits(h), v = load_bits(h + count);
        for (int j = 0; j < 8; j++) adam_slim(a, &p.h[j], g.h[j], &m.h[j], &v.h[j], seed, i + j);
        store_bits(h, m);
        store_bits(h + count, v);
    } else {
        for (int from = 0; from < 8; from += 4) {
            float *f = (float *)state + i + from;
            four_floats w, m, v;
            w.v = *(const float4 *)f, m.v = *(const float4 *)(f + count), v.v = *(const float4 *)(f + 2 * count);
            for (int j = 0; j < 4; j++) p.h[from + j] = to_bf16(w.f[j] = adam_step(a, w.f[j], to_float(g.h[from + j]), &m.f[j], &v.f[j]), 0x8000);
            *(float4 *)f = w.v, *(float4 *)(f + count) = m.v, *(float4 *)(f + 2 * count) = v.v;
        }
    }
    store_bits(param + i, p);
}
#endif
