// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels with one mistake each, made when `bad` is not zero; with zero they are clean twins.
// The comment MISTAKE stands on the line that a report must name.
#include "common.cuh"

extern "C" __global__ void past_the_end(s32 *out, int bad) {
    int i = threadIdx.x;
    out[i + (bad && i == 31 ? 1 : 0)] = i;  // MISTAKE
}

extern "C" __global__ void before_the_start(s32 *out, const s32 *in, int bad) {
    int i = threadIdx.x;
    out[i] = in[i - (bad ? 3 : 0)];  // MISTAKE
}

extern "C" __global__ void past_shared(s32 *out, int bad) {
    __shared__ s32 box[32];
    int i = threadIdx.x;
    box[i] = i;
    __syncthreads();
    s32 x = box[(i + 1) % 32 + (bad ? 4096 : 0)];  // MISTAKE
    out[i] = x;
}

extern "C" __global__ void past_dynamic_shared(s32 *out, int bad) {
    extern __shared__ s32 raw[];
    int i = threadIdx.x;
    raw[i + (bad ? 1 : 0)] = i;  // MISTAKE
    out[i] = raw[i + (bad ? 1 : 0)];
}

extern "C" __global__ void misaligned(s32 *out, const char *in, int bad) {
    int i = threadIdx.x;
    out[i] = *(const s32 *)(in + i * 4 + (bad && i == 5 ? 2 : 0));  // MISTAKE
}

extern "C" __global__ void misaligned_vector(float *out, const float *in, int bad) {
    int i = threadIdx.x;
    float4 v = *(const float4 *)(in + i * 4 + (bad ? 2 : 0));  // MISTAKE
    out[i] = v.x + v.y + v.z + v.w;
}

extern "C" __global__ void null_pointer(s32 *out, const s32 *in, int bad) {
    int i = threadIdx.x;
    const s32 *p = in + i;
    if (bad && i == 7) asm volatile("mov.u64 %0, 0;" : "=l"(p));
    out[i] = *p;  // MISTAKE
}

extern "C" __global__ void unset_shared(s32 *out, int bad) {
    __shared__ s32 box[64];
    int i = threadIdx.x;
    box[i] = i;
    __syncthreads();
    out[i] = box[bad ? i + 16 : i];  // MISTAKE
}

extern "C" __global__ void unset_global(s32 *out, s32 *scratch, int bad) {
    int i = threadIdx.x;
    if (!bad || i != 9) scratch[i] = i;
    __syncwarp();
    out[i] = scratch[i];  // MISTAKE
}

extern "C" __global__ void missing_barrier(s32 *out, const s32 *in, int bad) {
    __shared__ s32 box[64];
    int i = threadIdx.x;
    box[i] = in[i];
    if (!bad) __syncthreads();
    out[i] = box[63 - i];  // MISTAKE
}

extern "C" __global__ void missing_warp_barrier(s32 *out, const s32 *in, int bad) {
    __shared__ s32 box[32];
    int i = threadIdx.x;
    box[i] = in[i];
    if (!bad) __syncwarp();
    out[i] = box[31 - i];  // MISTAKE
}

extern "C" __global__ void two_writers(s32 *out, const s32 *in, int bad) {
    __shared__ s32 total;
    int i = threadIdx.x;
    if (bad)
        total = in[i];  // MISTAKE
    else if (i == 0)
        total = in[0];
    __syncthreads();
    out[i] = total;
}

extern "C" __global__ void overwritten_too_soon(s32 *out, const s32 *in, int bad) {
    __shared__ s32 box[64];
    int i = threadIdx.x;
    s32 sum = 0;
    for (int round = 0; round < 3; ++round) {
        box[i] = in[i] + round;  // MISTAKE
        __syncthreads();
        sum += box[63 - i];
        if (!bad) __syncthreads();
    }
    out[i] = sum;
}

extern "C" __global__ void divergent_barrier(s32 *out, int bad) {
    int i = threadIdx.x;
    if (!bad || i < 16) asm volatile("bar.sync 0;" ::: "memory");
    out[i] = i;
    asm volatile("bar.sync 0;" ::: "memory");
}

extern "C" __global__ void divergent_matrix_load(u32 *out, const u32 *in, int bad) {
    __shared__ __align__(16) u32 tile[32];
    int i = threadIdx.x;
    tile[i] = in[i];
    __syncwarp();
    u32 v = 0, at = (u32)__cvta_generic_to_shared(&tile[(i & 7) * 4]);
    if (!bad || i >= 8)
        asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(v) : "r"(at) : "memory");  // MISTAKE
    out[i] = v;
}

extern "C" __global__ void shuffle_outside_mask(u32 *out, const u32 *in, int bad) {
    int i = threadIdx.x;
    u32 mask = bad ? 0xfffffffeu : 0xffffffffu;
    u32 x = in[i];
    asm volatile("shfl.sync.bfly.b32 %0, %0, 1, 31, %1;" : "+r"(x) : "r"(mask));  // MISTAKE
    out[i] = x;
}

extern "C" __global__ void barrier_nobody_completes(s32 *out, int bad) {
    int i = threadIdx.x, count = bad ? 96 : 64;
    asm volatile("bar.sync 1, %0;" ::"r"(count) : "memory");  // MISTAKE
    out[i] = i;
}

extern "C" __global__ void crossed_barriers(s32 *out, int bad) {
    int i = threadIdx.x;
    if (i < 32) {
        asm volatile("bar.sync 1, 64;" ::: "memory");
        asm volatile("bar.sync 2, 64;" ::: "memory");
    } else if (bad) {
        asm volatile("bar.sync 2, 64;" ::: "memory");
        asm volatile("bar.sync 1, 64;" ::: "memory");
    } else {
        asm volatile("bar.sync 1, 64;" ::: "memory");
        asm volatile("bar.sync 2, 64;" ::: "memory");
    }
    out[i] = i;
}

__device__ __noinline__ u32 deeper(u32 n, u32 *where) {
    volatile u32 room[64];
    room[n & 63] = n;
    return n == 0 ? room[0] : deeper(n - 1, where) + room[n & 63];
}

extern "C" __global__ void endless_recursion(u32 *out, int bad) { out[threadIdx.x] = deeper(bad ? 100000000u : 4u, out); }

__constant__ s32 fixed_table[4] = {1, 2, 3, 4};

extern "C" __global__ void write_constant(s32 *out, int bad) {
    int i = threadIdx.x;
    s32 *p = bad ? (s32 *)fixed_table : out;
    asm volatile("st.u32 [%0], %1;" ::"l"(p + (i & 3)), "r"(i & 3) : "memory");  // MISTAKE
    __syncwarp();
    out[i] = fixed_table[i & 3];
}

extern "C" __global__ void async_copy_not_waited_for(u32 *out, const u32 *in, int bad) {
    __shared__ __align__(16) u32 box[32];
    int i = threadIdx.x;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"((u32)__cvta_generic_to_shared(&box[i])), "l"(in + i)
                 : "memory");
    if (!bad) asm volatile("cp.async.wait_all;" ::: "memory");
    __syncwarp();
    out[i] = box[i];  // MISTAKE
}

extern "C" __global__ void async_copy_past_the_end(u32 *out, const u32 *in, int bad) {
    __shared__ __align__(16) u32 box[32 * 4];
    int i = threadIdx.x;
    const u32 *from = in + i * 4 + (bad ? 4 : 0);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((u32)__cvta_generic_to_shared(&box[i * 4])), "l"(from) : "memory");  // MISTAKE
    asm volatile("cp.async.wait_all;" ::: "memory");
    out[i] = box[i * 4 + 1];
}

extern "C" __global__ void atomic_past_the_end(u32 *cells, int bad) {
    u32 *cell = &cells[threadIdx.x + (bad ? 32 : 0)];
    asm volatile("red.global.add.u32 [%0], 1;" ::"l"(cell) : "memory");  // MISTAKE
}

// Spinning on a flag that nobody sets.
extern "C" __global__ void waits_forever(u32 *flag, int bad) {
    int i = threadIdx.x;
    if (i == 32 && !bad) atomicExch(flag, 1u);
    if (i == 0)
        while (*(volatile u32 *)flag == 0) {}
    flag[1 + i] = i;
}

extern "C" __global__ void used_after_free(u32 *out, int bad) {
    int i = threadIdx.x;
    u32 *p = (u32 *)malloc(16);
    p[0] = (u32)i;
    if (bad) free(p);
    asm volatile("ld.u32 %0, [%1];" : "=r"(out[i]) : "l"(p) : "memory");  // MISTAKE
    if (!bad) free(p);
}
