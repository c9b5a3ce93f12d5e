// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// mma.sync that sm_89 and sm_90 added, and stmatrix.
#include "mma.cuh"

MMA_F32(mma_m16n8k32_f32_e4m3, 4, 2, "m16n8k32.row.col.f32.e4m3.e4m3.f32")
MMA_F32(mma_m16n8k32_f32_e5m2, 4, 2, "m16n8k32.row.col.f32.e5m2.e5m2.f32")
MMA_F32(mma_m16n8k32_f32_e4m3_e5m2, 4, 2, "m16n8k32.row.col.f32.e4m3.e5m2.f32")
MMA_F32(mma_m16n8k16_f32_e4m3, 2, 1, "m16n8k16.row.col.f32.e4m3.e4m3.f32")
MMA_F16(mma_m16n8k32_f16_e4m3, 4, 2, "m16n8k32.row.col.f16.e4m3.e4m3.f16")
MMA_F16(mma_m16n8k16_f16_e5m2, 2, 1, "m16n8k16.row.col.f16.e5m2.e5m2.f16")

MMA_KERNEL(mma_m16n8k4_f64, MMA_WIDE_INDEX, double, "d", 4, double, "d", 2, 1, "m16n8k4.row.col.f64.f64.f64.f64")
MMA_KERNEL(mma_m16n8k8_f64, MMA_WIDE_INDEX, double, "d", 4, double, "d", 4, 2, "m16n8k8.row.col.f64.f64.f64.f64")
MMA_KERNEL(mma_m16n8k16_f64, MMA_WIDE_INDEX, double, "d", 4, double, "d", 8, 4, "m16n8k16.row.col.f64.f64.f64.f64")

// Each form of stmatrix writes its own 512 bytes, which then go out as they lie in memory.
extern "C" __global__ void store_matrix(u32 *out, const u32 *in) {
    const int i = threadIdx.x;
    __shared__ __align__(16) u32 tile[6][32 * 4];
    for (int k = i; k < 6 * 128; k += 32) tile[k / 128][k % 128] = 0xffffffffu;
    __syncwarp();
    u32 r0 = in[i], r1 = in[32 + i], r2 = in[64 + i], r3 = in[96 + i];
#define AT(form) ((u32)__cvta_generic_to_shared(&tile[form][i * 4]))
    asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" ::"r"(AT(0)), "r"(r0) : "memory");
    asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(AT(1)), "r"(r0), "r"(r1) : "memory");
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(AT(2)), "r"(r0), "r"(r1),
                 "r"(r2), "r"(r3)
                 : "memory");
    asm volatile("stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%0], {%1};" ::"r"(AT(3)), "r"(r0) : "memory");
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(AT(4)), "r"(r0), "r"(r1)
                 : "memory");
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(AT(5)), "r"(r0),
                 "r"(r1), "r"(r2), "r"(r3)
                 : "memory");
    __syncwarp();
    for (int k = i; k < 6 * 128; k += 32) out[k] = tile[k / 128][k % 128];
}
