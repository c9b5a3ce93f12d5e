// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// mma.sync of sm_120: 4- and 6-bit types in bytes, and block scales.
#include "mma.cuh"

MMA_F32(mma_k32_e2m1_e2m1, 4, 2, "kind::f8f6f4.m16n8k32.row.col.f32.e2m1.e2m1.f32")
MMA_F32(mma_k32_e3m2_e4m3, 4, 2, "kind::f8f6f4.m16n8k32.row.col.f32.e3m2.e4m3.f32")
MMA_F32(mma_k32_e2m3_e5m2, 4, 2, "kind::f8f6f4.m16n8k32.row.col.f32.e2m3.e5m2.f32")

// Scale bytes: row r of A has its scale factors in scale_a[r], column n of B in scale_b[n].
#define SCALED(name, text)                                                                                        \
    extern "C" __global__ void name(float *d_matrix, const u32 *a_matrix, const u32 *b_matrix,                    \
                                    const float *c_matrix, const u32 *scale_a, const u32 *scale_b) {              \
        MMA_LOAD(u32, 4, 2)                                                                                       \
        float c[4], d[4];                                                                                         \
        for (int r = 0; r < 4; ++r) c[r] = c_matrix[MMA_WIDE_INDEX(r)];                                           \
        u32 sa = thread < 2 ? scale_a[group + 8 * thread] : 0xffffffffu;                                          \
        u32 sb = thread == 0 ? scale_b[group] : 0xffffffffu;                                                      \
        asm volatile("mma.sync.aligned." text MMA_TEXT_4_4_2 ", {%14}, {0, 0}, {%15}, {0, 0};"                    \
                     : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])                                             \
                     : MMA_INPUTS_4_2("r"), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]), "r"(sa), "r"(sb));        \
        for (int r = 0; r < 4; ++r) d_matrix[MMA_WIDE_INDEX(r)] = d[r];                                           \
    }
SCALED(mma_scaled_e4m3, "m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e4m3.f32.ue8m0")
SCALED(mma_scaled_mxf4, "m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0")
SCALED(mma_scaled_nvf4, "m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3")
