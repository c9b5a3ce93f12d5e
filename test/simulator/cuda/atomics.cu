// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Atomic read-modify-write in every operation, type, space, order and scope.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "common.cuh"

// Order-independent results: cells[0..] accumulate, as CUDA's atomic functions.
extern "C" __global__ void atomic_int32(u32 *cells, const u32 *a) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    u32 x = a[i];
    atomicAdd(&cells[0], x);
    atomicSub(&cells[1], x);
    atomicMin((s32 *)&cells[2], (s32)x);
    atomicMax((s32 *)&cells[3], (s32)x);
    atomicMin(&cells[4], x);
    atomicMax(&cells[5], x);
    atomicAnd(&cells[6], x | 0x00ff00ffu);
    atomicOr(&cells[7], x & 0x0f0f0f0fu);
    atomicXor(&cells[8], x);
    atomicInc(&cells[9], 12);
    atomicDec(&cells[10], 9);
    atomicAdd_block(&cells[11], 1u);
    atomicAdd_system(&cells[12], 2u);
}

extern "C" __global__ void atomic_int64(u64 *cells, const u64 *a) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    u64 x = a[i];
    atomicAdd(&cells[0], x);
    atomicMin((s64 *)&cells[1], (s64)x);
    atomicMax((s64 *)&cells[2], (s64)x);
    atomicMin(&cells[3], x);
    atomicMax(&cells[4], x);
    atomicAnd(&cells[5], x | 0xffull);
    atomicOr(&cells[6], x & 0x0f0f0f0f0f0f0f0full);
    atomicXor(&cells[7], x);
}

// Values are small integers, so that every order of addition is exact.
extern "C" __global__ void atomic_float(float *f, double *d, __half *h, __nv_bfloat16 *b, const s32 *a) {
    int i = threadIdx.x;
    float x = (float)a[i];
    atomicAdd(f, x);
    atomicAdd(d, (double)x);
    atomicAdd(h, __float2half(x));
    atomicAdd(b, __float2bfloat16(x));
    atomicAdd((__half2 *)(h + 2), __floats2half2_rn(x, -x));
    atomicAdd((__nv_bfloat162 *)(b + 2), __floats2bfloat162_rn(1.0f, -1.0f));
    asm volatile("red.global.add.noftz.f16 [%0], %1;" ::"l"(h + 4), "h"(__half_as_ushort(__float2half(x))) : "memory");
    asm volatile("red.global.add.noftz.f16x2 [%0], %1;" ::"l"(h + 6), "r"(0x3c003c00u) : "memory");
}

// Old values: what each thread got must be the running total in some order.
extern "C" __global__ void atomic_returns(u32 *cells, u32 *ticket, u32 *seen) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    ticket[i] = atomicAdd(&cells[0], 1u);
    seen[i] = atomicExch(&cells[1], (u32)i + 1);
}

// Spaces and orders spelled out. Each thread has its own cell, so every step's result is known.
extern "C" __global__ void atomic_orders(u32 *out, u32 *cell, u64 *wide) {
    LANES;
    __shared__ u32 box[32];
    box[i] = 10 + i;
    u32 old, at = (u32)__cvta_generic_to_shared(&box[i]);
    u64 old64;
    asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], 3;" : "=r"(old) : "l"(cell + i) : "memory");
    PUT(old);
    asm volatile("atom.acquire.cta.global.exch.b32 %0, [%1], 50;" : "=r"(old) : "l"(cell + i) : "memory");
    PUT(old);
    asm volatile("atom.release.sys.global.cas.b32 %0, [%1], 50, 51;" : "=r"(old) : "l"(cell + i) : "memory");
    PUT(old);
    asm volatile("atom.acq_rel.gpu.global.cas.b32 %0, [%1], 50, 99;" : "=r"(old) : "l"(cell + i) : "memory");
    PUT(old);
    asm volatile("atom.shared.add.u32 %0, [%1], 5;" : "=r"(old) : "r"(at) : "memory");
    PUT(old);
    asm volatile("atom.shared.min.s32 %0, [%1], -1;" : "=r"(old) : "r"(at) : "memory");
    PUT(old);
    asm volatile("atom.shared.cta.inc.u32 %0, [%1], 7;" : "=r"(old) : "r"(at) : "memory");
    PUT(old);
    asm volatile("atom.shared.dec.u32 %0, [%1], 7;" : "=r"(old) : "r"(at) : "memory");
    PUT(old);
    asm volatile("red.shared.or.b32 [%0], 64;" ::"r"(at) : "memory");
    PUT(box[i]);
    asm volatile("red.release.gpu.global.add.u32 [%0], 1000;" ::"l"(cell + i) : "memory");
    PUT(*(volatile u32 *)(cell + i));
    asm volatile("atom.global.exch.b64 %0, [%1], 7;" : "=l"(old64) : "l"(wide + i) : "memory");
    PUT((u32)old64);
    asm volatile("atom.global.cas.b64 %0, [%1], 7, 8;" : "=l"(old64) : "l"(wide + i) : "memory");
    PUT((u32)old64);
    asm volatile("red.relaxed.sys.global.max.u64 [%0], %1;" ::"l"(wide + i), "l"(1ull << 40) : "memory");
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
    asm volatile("fence.sc.cta;" ::: "memory");
    __threadfence();
    __threadfence_block();
    __threadfence_system();
    PUT((u32)(*(volatile u64 *)(wide + i) >> 32));
}

// Compare-and-swap loops build operations that the hardware lacks: 32-bit float max, 16-bit add.
extern "C" __global__ void atomic_cas_loops(float *best, u16 *half_cells, const float *a) {
    int i = threadIdx.x;
    u32 *word = (u32 *)best;
    u32 seen = *(volatile u32 *)word;
    while (__uint_as_float(seen) < a[i]) {
        u32 was = atomicCAS(word, seen, __float_as_uint(a[i]));
        if (was == seen) break;
        seen = was;
    }
    u16 *cell = &half_cells[i & 1];
    u16 old = *(volatile u16 *)cell, assumed;
    do {
        assumed = old;
        old = atomicCAS(cell, assumed, (u16)(assumed + 3));
    } while (old != assumed);
}

// A lock that lanes of one warp contend for needs independent progress of diverged lanes.
extern "C" __global__ void spin_lock(s32 *lock, s32 *total, const s32 *a) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    bool done = false;
    while (!done) {
        if (atomicCAS(lock, 0, 1) == 0) {
            __threadfence();
            *(volatile s32 *)total = *(volatile s32 *)total + a[i];
            __threadfence();
            atomicExch(lock, 0);
            done = true;
        }
    }
}

// The last block to arrive sums what the others published (threadFenceReduction).
__device__ u32 arrivals = 0;
extern "C" __global__ void last_block(s32 *partial, s32 *total, const s32 *a) {
    __shared__ s32 box[32];
    __shared__ bool last;
    int i = threadIdx.x;
    box[i] = a[blockIdx.x * 32 + i];
    __syncthreads();
    for (int step = 16; step; step >>= 1) {
        if (i < step) box[i] += box[i + step];
        __syncthreads();
    }
    if (i == 0) {
        partial[blockIdx.x] = box[0];
        __threadfence();
        last = atomicInc(&arrivals, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && i == 0) {
        __threadfence();
        s32 sum = 0;
        for (u32 k = 0; k < gridDim.x; ++k) sum += ((volatile s32 *)partial)[k];
        *total = sum;
    }
}

extern "C" __global__ void shared_histogram(u32 *bins, const u8 *data, int n) {
    __shared__ u32 local[64];
    if (threadIdx.x < 64) local[threadIdx.x] = 0;
    __syncthreads();
    for (int k = blockIdx.x * blockDim.x + threadIdx.x; k < n; k += gridDim.x * blockDim.x)
        atomicAdd(&local[data[k] >> 2], 1u);
    __syncthreads();
    if (threadIdx.x < 64) atomicAdd(&bins[threadIdx.x], local[threadIdx.x]);
}

// Many cells, many threads per cell, in one instruction: the old values of each cell are its running totals.
extern "C" __global__ void atomic_ranks(u32 *rank, u32 *total, u32 *cells, u32 *sums, const u32 *key, const u32 *weight) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    rank[i] = atomicAdd(&cells[key[i]], 1u);
    total[i] = atomicAdd(&sums[key[i]], weight[i]);
}

// The same for operations that are not sums: every old value is one that another thread wrote, or the first.
extern "C" __global__ void atomic_histories(s32 *lowest, u32 *wrapped, s32 *low, u32 *turn, const u32 *key, const s32 *a) {
    int i = threadIdx.x;
    lowest[i] = atomicMin(&low[key[i]], a[i]);
    wrapped[i] = atomicInc(&turn[key[i]], 4);
}
