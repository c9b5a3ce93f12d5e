// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Atomics that need sm_90: 128-bit exchange and compare, vector reductions, cluster scope.
#include "common.cuh"

extern "C" __global__ void atomic_b128(u64 *out, u64 *cell) {
    LANES;
    u64 lo, hi;
    u64 *mine = cell + 2 * i;
    asm volatile(
        "{ .reg .b128 d, x;\n\t mov.b128 x, {%3, %4};\n\t atom.global.exch.b128 d, [%2], x;\n\t"
        " mov.b128 {%0, %1}, d; }"
        : "=l"(lo), "=l"(hi)
        : "l"(mine), "l"((u64)i + 100), "l"(~(u64)i)
        : "memory");
    PUT(lo);
    PUT(hi);
    asm volatile(
        "{ .reg .b128 d, x, y;\n\t mov.b128 x, {%3, %4};\n\t mov.b128 y, {%5, %6};\n\t"
        " atom.relaxed.gpu.global.cas.b128 d, [%2], x, y;\n\t mov.b128 {%0, %1}, d; }"
        : "=l"(lo), "=l"(hi)
        : "l"(mine), "l"((u64)i + 100), "l"(i & 1 ? ~(u64)i : 0ull), "l"(7ull), "l"(8ull)
        : "memory");
    PUT(lo);
    PUT(hi);
}

extern "C" __global__ void red_vector(float *cells, u32 *halves, const float *a) {
    int i = threadIdx.x;
    asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(cells), "f"(a[i]), "f"(1.0f), "f"(-a[i]), "f"(2.0f)
                 : "memory");
    asm volatile("red.global.add.noftz.v2.f16x2 [%0], {%1, %2};" ::"l"(halves), "r"(0x3c004000u), "r"(0x4400bc00u)
                 : "memory");
    float x, y;
    asm volatile("atom.global.add.v2.f32 {%0, %1}, [%2], {%3, %4};"
                 : "=f"(x), "=f"(y)
                 : "l"(cells + 8 + 2 * i), "f"(a[i]), "f"(0.5f)
                 : "memory");
    cells[8 + 2 * blockDim.x + i] = x + y;
    u32 old;
    asm volatile("atom.relaxed.cluster.global.add.u32 %0, [%1], 1;" : "=r"(old) : "l"(halves + 4 + i) : "memory");
    asm volatile("fence.acq_rel.cluster;" ::: "memory");
    halves[4 + blockDim.x + i] = old;
}

// Minimum and maximum of half precision exist as vectors only.
extern "C" __global__ void red_half_vector(u16 *low, u16 *high, u16 *old, const u16 *a) {
    int i = threadIdx.x;
    u16 x = a[i], y = a[(i + 1) & 31], p, q;
    asm volatile("red.global.min.noftz.v2.f16 [%0], {%1, %2};" ::"l"(low), "h"(x), "h"(y) : "memory");
    asm volatile("red.global.max.noftz.v4.bf16 [%0], {%1, %2, %1, %2};" ::"l"(high), "h"(x), "h"(y) : "memory");
    asm volatile("atom.global.max.noftz.v2.f16 {%0, %1}, [%2], {%3, %4};"
                 : "=h"(p), "=h"(q)
                 : "l"(old + 64 + 2 * i), "h"(x), "h"(y)
                 : "memory");
    old[2 * i] = p;
    old[2 * i + 1] = q;
    asm volatile("red.global.min.noftz.v2.bf16x2 [%0], {%1, %1};" ::"l"(high + 4), "r"(x | (u32)y << 16) : "memory");
}
