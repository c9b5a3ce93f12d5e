// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Warp-wide instructions: shuffles, votes, matches, reductions.
#include "common.cuh"

#define ALL 0xffffffffu

extern "C" __global__ void shuffles(u32 *out, const u32 *a) {
    LANES;
    u32 x = a[i];
    PUT(__shfl_sync(ALL, x, 5));
    PUT(__shfl_sync(ALL, x, (i * 7 + 3) & 63));
    PUT(__shfl_up_sync(ALL, x, 3));
    PUT(__shfl_down_sync(ALL, x, 4));
    PUT(__shfl_xor_sync(ALL, x, 9));
    PUT(__shfl_sync(ALL, x, 2, 8));
    PUT(__shfl_up_sync(ALL, x, 1, 4));
    PUT(__shfl_down_sync(ALL, x, 2, 16));
    PUT(__shfl_xor_sync(ALL, x, 3, 8));
    PUT(__shfl_xor_sync(ALL, x, 12, 8));
    u64 wide = ((u64)x << 32) | (u32)i;
    PUT((u32)(__shfl_sync(ALL, wide, 31 - (i & 31)) >> 16));
    PUT(__float_as_uint(__shfl_down_sync(ALL, __uint_as_float(x & 0x3fffffffu), 1)));
}

// The raw instruction: its predicate says whether the source lane was in range.
extern "C" __global__ void shuffle_predicate(u32 *out, const u32 *a) {
    LANES;
    u32 x = a[i], d, p;
#define SHFL(mode, b, c)                                                                          \
    asm volatile(                                                                                 \
        "{ .reg .pred q;\n\t shfl.sync." mode ".b32 %0|q, %2, %3, %4, 0xffffffff;\n\t"            \
        " selp.u32 %1, 1, 0, q; }"                                                                \
        : "=r"(d), "=r"(p)                                                                        \
        : "r"(x), "r"(b), "r"(c));                                                                \
    PUT(d);                                                                                       \
    PUT(p);
    SHFL("up", 5, 0)
    SHFL("down", 6, 0x1f)
    SHFL("bfly", 17, 0x1f)
    SHFL("idx", i & 31, 0x1f)
    SHFL("up", 2, 0x1800)
    SHFL("down", 3, 0x1807)
    SHFL("bfly", 1, 0x181f)
    SHFL("idx", 13, 0x1c03)
}

extern "C" __global__ void votes(u32 *out, const u32 *a) {
    LANES;
    u32 x = a[i];
    PUT(__any_sync(ALL, x > 90));
    PUT(__all_sync(ALL, x < 100));
    PUT(__all_sync(ALL, x < 99));
    PUT(__ballot_sync(ALL, x & 1));
    PUT(__activemask());
    PUT(__all_sync(ALL, (i >> 5) == 1));
    u32 d;
    asm volatile(
        "{ .reg .pred p, q;\n\t setp.lt.u32 p, %1, 200;\n\t"
        " vote.sync.uni.pred q, p, 0xffffffff;\n\t selp.u32 %0, 1, 0, q; }"
        : "=r"(d)
        : "r"(x));
    PUT(d);
    asm volatile(
        "{ .reg .pred p, q;\n\t setp.lt.u32 p, %1, 50;\n\t"
        " vote.sync.any.pred q, !p, 0xffffffff;\n\t selp.u32 %0, 1, 0, q; }"
        : "=r"(d)
        : "r"(x));
    PUT(d);
}

// Votes among the lanes that took a branch, named by the mask.
extern "C" __global__ void partial_votes(u32 *out, const u32 *a) {
    LANES;
    u32 odd = __ballot_sync(ALL, a[i] & 1), r = 0;
    if (a[i] & 1) {
        r = __ballot_sync(odd, a[i] > 50);
        r += __shfl_sync(odd, a[i], __ffs(odd) - 1);
        __syncwarp(odd);
    } else {
        r = __reduce_add_sync(~odd, a[i]);
    }
    __syncwarp();
    PUT(r);
}

extern "C" __global__ void matches(u32 *out, const u32 *a, const u64 *b) {
    LANES;
    int same;
    PUT(__match_any_sync(ALL, a[i]));
    PUT(__match_any_sync(ALL, b[i]));
    PUT(__match_all_sync(ALL, a[i], &same));
    PUT((u32)same);
    PUT(__match_all_sync(ALL, b[i] >> 40, &same));
    PUT((u32)same);
}

extern "C" __global__ void redux(u32 *out, const u32 *a) {
    LANES;
    u32 x = a[i];
    PUT(__reduce_add_sync(ALL, x));
    PUT((u32)__reduce_add_sync(ALL, (s32)x));
    PUT(__reduce_min_sync(ALL, x));
    PUT(__reduce_max_sync(ALL, x));
    PUT((u32)__reduce_min_sync(ALL, (s32)x));
    PUT((u32)__reduce_max_sync(ALL, (s32)x));
    PUT(__reduce_and_sync(ALL, x | 0x10u));
    PUT(__reduce_or_sync(ALL, x & 0x00ff00ffu));
    PUT(__reduce_xor_sync(ALL, x));
    u32 unsigned_sum;
    asm volatile("redux.sync.add.u32 %0, %1, 0xffffffff;" : "=r"(unsigned_sum) : "r"(x));
    PUT(unsigned_sum);
    u32 half = (i & 31) < 16 ? 0x0000ffffu : 0xffff0000u;
    if ((i & 31) < 16)
        PUT(__reduce_add_sync(half, x));
    else
        PUT(__reduce_max_sync(half, x));
}

extern "C" __global__ void warp_reduce(float *out, const float *a) {
    int i = threadIdx.x, lane = i & 31;
    float x = a[blockIdx.x * blockDim.x + i];
    for (int step = 16; step; step >>= 1) x += __shfl_xor_sync(ALL, x, step);
    __shared__ float partial[8];
    if (lane == 0) partial[i >> 5] = x;
    __syncthreads();
    if (i < 32) {
        x = lane < (int)(blockDim.x >> 5) ? partial[lane] : 0.0f;
        for (int step = 4; step; step >>= 1) x += __shfl_down_sync(ALL, x, step);
        if (lane == 0) out[blockIdx.x] = x;
    }
}

extern "C" __global__ void warp_scan(s32 *out, const s32 *a) {
    int i = threadIdx.x, lane = i & 31;
    s32 x = a[i];
    for (int step = 1; step < 32; step <<= 1) {
        s32 left = __shfl_up_sync(ALL, x, step);
        if (lane >= step) x += left;
    }
    out[i] = x;
}

extern "C" __global__ void lane_registers(u32 *out) {
    LANES;
    u32 v;
#define SREG(name)                                    \
    asm volatile("mov.u32 %0, %%" name ";" : "=r"(v)); \
    PUT(v);
    SREG("laneid")
    SREG("lanemask_eq")
    SREG("lanemask_lt")
    SREG("lanemask_le")
    SREG("lanemask_gt")
    SREG("lanemask_ge")
    PUT(warpSize);
}

// A warp-level bitonic sort: exchange by xor, keep the smaller or larger.
extern "C" __global__ void bitonic_sort(s32 *out, const s32 *a) {
    int i = threadIdx.x, lane = i & 31;
    s32 x = a[i];
    for (int size = 2; size <= 32; size <<= 1)
        for (int step = size >> 1; step; step >>= 1) {
            s32 other = __shfl_xor_sync(ALL, x, step);
            bool ascending = (lane & size) == 0, lower = (lane & step) == 0;
            x = ascending == lower ? min(x, other) : max(x, other);
        }
    out[i] = x;
}
