// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every dense mma.sync of sm_80, ldmatrix and movmatrix.
#include "mma.cuh"

MMA_F16(mma_m16n8k8_f16_f16, 2, 1, "m16n8k8.row.col.f16.f16.f16.f16")
MMA_F16(mma_m16n8k16_f16_f16, 4, 2, "m16n8k16.row.col.f16.f16.f16.f16")
MMA_F32(mma_m16n8k8_f32_f16, 2, 1, "m16n8k8.row.col.f32.f16.f16.f32")
MMA_F32(mma_m16n8k16_f32_f16, 4, 2, "m16n8k16.row.col.f32.f16.f16.f32")
MMA_F32(mma_m16n8k8_f32_bf16, 2, 1, "m16n8k8.row.col.f32.bf16.bf16.f32")
MMA_F32(mma_m16n8k16_f32_bf16, 4, 2, "m16n8k16.row.col.f32.bf16.bf16.f32")
MMA_F32(mma_m16n8k4_f32_tf32, 2, 1, "m16n8k4.row.col.f32.tf32.tf32.f32")
MMA_F32(mma_m16n8k8_f32_tf32, 4, 2, "m16n8k8.row.col.f32.tf32.tf32.f32")

MMA_KERNEL(mma_m8n8k4_f64, MMA_WIDE_INDEX, double, "d", 2, double, "d", 1, 1, "m8n8k4.row.col.f64.f64.f64.f64")

MMA_S32_8(mma_m8n8k16_s8_s8, "m8n8k16.row.col.s32.s8.s8.s32")
MMA_S32_8(mma_m8n8k16_u8_s8, "m8n8k16.row.col.satfinite.s32.u8.s8.s32")
MMA_S32(mma_m16n8k16_s8_s8, 2, 1, "m16n8k16.row.col.s32.s8.s8.s32")
MMA_S32(mma_m16n8k16_s8_u8, 2, 1, "m16n8k16.row.col.s32.s8.u8.s32")
MMA_S32(mma_m16n8k32_s8_s8, 4, 2, "m16n8k32.row.col.s32.s8.s8.s32")
MMA_S32(mma_m16n8k32_u8_u8, 4, 2, "m16n8k32.row.col.s32.u8.u8.s32")
MMA_S32(mma_m16n8k32_u8_s8, 4, 2, "m16n8k32.row.col.s32.u8.s8.s32")
MMA_S32(mma_m16n8k32_s8_s8_sat, 4, 2, "m16n8k32.row.col.satfinite.s32.s8.s8.s32")

MMA_S32_8(mma_m8n8k32_s4_s4, "m8n8k32.row.col.s32.s4.s4.s32")
MMA_S32_8(mma_m8n8k32_u4_s4, "m8n8k32.row.col.s32.u4.s4.s32")
MMA_S32(mma_m16n8k32_s4_s4, 2, 1, "m16n8k32.row.col.s32.s4.s4.s32")
MMA_S32(mma_m16n8k64_s4_s4, 4, 2, "m16n8k64.row.col.s32.s4.s4.s32")
MMA_S32(mma_m16n8k64_u4_u4, 4, 2, "m16n8k64.row.col.s32.u4.u4.s32")
MMA_S32(mma_m16n8k64_s4_u4, 4, 2, "m16n8k64.row.col.satfinite.s32.s4.u4.s32")

MMA_S32_8(mma_m8n8k128_b1_xor, "m8n8k128.row.col.s32.b1.b1.s32.xor.popc")
MMA_S32_8(mma_m8n8k128_b1_and, "m8n8k128.row.col.s32.b1.b1.s32.and.popc")
MMA_S32(mma_m16n8k128_b1_and, 2, 1, "m16n8k128.row.col.s32.b1.b1.s32.and.popc")
MMA_S32(mma_m16n8k256_b1_xor, 4, 2, "m16n8k256.row.col.s32.b1.b1.s32.xor.popc")
MMA_S32(mma_m16n8k256_b1_and, 4, 2, "m16n8k256.row.col.s32.b1.b1.s32.and.popc")

// m8n8k4 makes four products at once, one per quad pair (lanes 4q..4q+3 and 16 more): the matrices are [4][8][4] and
// [4][8][8]. A row lane % 4 + 4 (lane >= 16) and columns 0..3 by row; B the same by column.
#define QUAD_PAIR                                                             \
    const int lane = threadIdx.x, pair = lane >> 2 & 3, high = (lane >> 4) * 4; \
    const int line = pair * 8 + (lane & 3) + high;

extern "C" __global__ void mma_m8n8k4_f32_f16(float *d, const u32 *a, const u32 *b, const float *c) {
    QUAD_PAIR
    float x[8], y[8];
    int at[8];
    for (int i = 0; i < 8; ++i) {
        int row = (lane & 1) + (i & 2) + high, column = (i & 4) + (lane & 2) + (i & 1);
        at[i] = pair * 64 + row * 8 + column;
        x[i] = c[at[i]];
    }
    asm volatile(
        "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9}, {%10, %11}, "
        "{%12, %13, %14, %15, %16, %17, %18, %19};"
        : "=f"(y[0]), "=f"(y[1]), "=f"(y[2]), "=f"(y[3]), "=f"(y[4]), "=f"(y[5]), "=f"(y[6]), "=f"(y[7])
        : "r"(a[line * 2]), "r"(a[line * 2 + 1]), "r"(b[line * 2]), "r"(b[line * 2 + 1]), "f"(x[0]), "f"(x[1]),
          "f"(x[2]), "f"(x[3]), "f"(x[4]), "f"(x[5]), "f"(x[6]), "f"(x[7]));
    for (int i = 0; i < 8; ++i) d[at[i]] = y[i];
}

// A by column and B by row: a lane has one k, lane % 4, and four rows (or columns) from `high` on.
extern "C" __global__ void mma_m8n8k4_f16_f16(u32 *d, const u32 *a, const u32 *b, const u32 *c) {
    QUAD_PAIR
    int k = pair * 16 + (lane & 3) * 4 + high / 2;
    u32 y[4];
    asm volatile(
        "mma.sync.aligned.m8n8k4.col.row.f16.f16.f16.f16 {%0, %1, %2, %3}, {%4, %5}, {%6, %7}, {%8, %9, %10, %11};"
        : "=r"(y[0]), "=r"(y[1]), "=r"(y[2]), "=r"(y[3])
        : "r"(a[k]), "r"(a[k + 1]), "r"(b[k]), "r"(b[k + 1]), "r"(c[line * 4]), "r"(c[line * 4 + 1]),
          "r"(c[line * 4 + 2]), "r"(c[line * 4 + 3]));
    for (int i = 0; i < 4; ++i) d[line * 4 + i] = y[i];
}

__device__ __forceinline__ u32 shared_address(const void *p) { return (u32)__cvta_generic_to_shared(p); }

// Four 8x8 matrices of 16-bit elements in shared memory; lane l addresses row l % 8 of matrix l / 8.
extern "C" __global__ void load_matrix(u32 *out, const u32 *in) {
    LANES;
    __shared__ __align__(16) u32 tile[32 * 4];
    for (int k = 0; k < 4; ++k) tile[k * 32 + i] = in[k * 32 + i];
    __syncwarp();
    u32 at = shared_address(tile + i * 4), r0, r1, r2, r3;
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(r0) : "r"(at));
    PUT(r0);
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];" : "=r"(r0) : "r"(at));
    PUT(r0);
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(r0), "=r"(r1) : "r"(at));
    PUT(r0);
    PUT(r1);
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];" : "=r"(r0), "=r"(r1) : "r"(at));
    PUT(r0);
    PUT(r1);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3)
                 : "r"(at));
    PUT(r0);
    PUT(r1);
    PUT(r2);
    PUT(r3);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3)
                 : "r"(at));
    PUT(r0);
    PUT(r1);
    PUT(r2);
    PUT(r3);
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r1) : "r"(r0));
    PUT(r1);
}

// 32x32x32 by four m16n8k16 columns per warp, operands through swizzled shared memory and ldmatrix.
// A is [32][32] by row; B is [32][32], k by n, read transposed.
extern "C" __global__ void mma_gemm(float *c, const u16 *a, const u16 *b) {
    __shared__ __align__(16) u16 at[32 * 32], bt[32 * 32];
    int i = threadIdx.x, lane = i & 31, warp = i >> 5;
    for (int k = i; k < 128; k += 64) {
        int row = k >> 2, chunk = k & 3, to = row * 32 + (chunk ^ (row >> 1 & 3)) * 8;
        *(uint4 *)&at[to] = *(const uint4 *)&a[row * 32 + chunk * 8];
        *(uint4 *)&bt[to] = *(const uint4 *)&b[row * 32 + chunk * 8];
    }
    __syncthreads();
    float sum[4][4] = {};
    for (int k0 = 0; k0 < 32; k0 += 16) {
        u32 fa[4];
        int row = warp * 16 + (lane & 15), chunk = (k0 >> 3) + (lane >> 4);
        u32 address = shared_address(&at[row * 32 + (chunk ^ (row >> 1 & 3)) * 8]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(fa[0]), "=r"(fa[1]), "=r"(fa[2]), "=r"(fa[3])
                     : "r"(address));
        for (int n = 0; n < 4; ++n) {
            u32 fb[2];
            int line = k0 + (lane & 15);
            address = shared_address(&bt[line * 32 + (n ^ (line >> 1 & 3)) * 8]);
            asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                         : "=r"(fb[0]), "=r"(fb[1])
                         : "r"(address));
            asm volatile(
                "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                "{%0, %1, %2, %3};"
                : "+f"(sum[n][0]), "+f"(sum[n][1]), "+f"(sum[n][2]), "+f"(sum[n][3])
                : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]));
        }
    }
    for (int n = 0; n < 4; ++n)
        for (int r = 0; r < 4; ++r)
            c[(warp * 16 + (lane >> 2) + 8 * (r >> 1)) * 32 + n * 8 + 2 * (lane & 3) + (r & 1)] = sum[n][r];
}
