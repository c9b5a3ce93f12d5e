// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// printf, assert, trap, clocks, sleeping, special registers.
#include <assert.h>
#include <stdio.h>

#include "common.cuh"

extern "C" __global__ void print_formats(int n, double d) {
    if (threadIdx.x == 0) {
        printf("plain\n");
        printf("int %d unsigned %u hex %x HEX %08X octal %o char %c percent %%\n", -n, 3000000000u, 255, 48879, 8, 'q');
        printf("long %lld %llu %llx\n", -(s64)n * 1000000007ll, 18446744073709551615ull, 0xfeedfacecafebeefull);
        printf("double %f %.3f %10.2f| %-10.1f| %e %g\n", d, d, d, d, d, d);
        printf("string %s %5s| %-5s| %.2s\n", "abc", "de", "fg", "hijk");
        printf("padded %5d|%-5d|%05d|%+d\n", n, n, n, n);
    }
}

// One line per thread; each CTA has one warp, so that lines of a CTA come in lane order.
extern "C" __global__ void print_lanes(const float *a) {
    printf("block %d thread %d value %.2f\n", blockIdx.x, threadIdx.x, a[threadIdx.x]);
}

extern "C" __global__ void assert_holds(s32 *out, const s32 *a) {
    int i = threadIdx.x;
    assert(a[i] >= 0 && "inputs are not negative");
    out[i] = a[i] + 1;
}

extern "C" __global__ void assert_fails(s32 *out, const s32 *a) {
    int i = threadIdx.x;
    assert(a[i] >= 0);
    out[i] = a[i] + 1;
}

extern "C" __global__ void trap_when(s32 *out, const s32 *a) {
    int i = threadIdx.x;
    if (a[i] == 13) __trap();
    out[i] = a[i];
}

extern "C" __global__ void clocks(u64 *out) {
    int i = threadIdx.x;
    u64 c0 = clock64(), g0, g1;
    u32 low0 = clock();
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(g0));
    __nanosleep(100);
    asm volatile("nanosleep.u32 20;");
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(g1));
    u32 low1 = clock();
    u64 c1 = clock64();
    out[i] = c1 - c0;
    out[blockDim.x + i] = g1 - g0;
    out[2 * blockDim.x + i] = low1 - low0;
}

// smid and warpid are the machine's choice: only their bounds are promised.
extern "C" __global__ void special_registers(u32 *out) {
    LANES;
    out += blockIdx.x * lanes * 11;
    u32 v, bound;
#define SREG(name) asm volatile("mov.u32 %0, %%" name ";" : "=r"(v))
    SREG("tid.x");
    PUT(v);
    SREG("tid.z");
    PUT(v);
    SREG("ntid.x");
    PUT(v);
    SREG("ntid.y");
    PUT(v);
    SREG("ctaid.x");
    PUT(v);
    SREG("nctaid.x");
    PUT(v);
    SREG("nctaid.z");
    PUT(v);
    SREG("laneid");
    PUT(v);
    asm volatile("mov.u32 %0, %%nsmid;" : "=r"(bound));
    SREG("smid");
    PUT(v < bound);
    asm volatile("mov.u32 %0, %%nwarpid;" : "=r"(bound));
    SREG("warpid");
    PUT(v < bound);
    SREG("total_smem_size");
    PUT(v < (1u << 20));
}
