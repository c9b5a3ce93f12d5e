// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// sm_100: pairs of binary32, three-operand minimum, 256-bit accesses, float reductions over a warp.
#include "common.cuh"

PTX2(add_f32x2, "add.rn.f32x2", u64, "l", u64, "l", u64, "l")
PTX2(sub_f32x2, "sub.rz.f32x2", u64, "l", u64, "l", u64, "l")
PTX2(mul_f32x2, "mul.rp.f32x2", u64, "l", u64, "l", u64, "l")
PTX3(fma_f32x2, "fma.rn.ftz.f32x2", u64, "l", u64, "l", u64, "l", u64, "l")

extern "C" __global__ void f32_pairs(u64 *out, const u64 *a, const u64 *b, const u64 *c) {
    LANES;
    PUT(add_f32x2(a[i], b[i]));
    PUT(sub_f32x2(a[i], b[i]));
    PUT(mul_f32x2(a[i], b[i]));
    PUT(fma_f32x2(a[i], b[i], c[i]));
}

PTX3(min3, "min.f32", float, "f", float, "f", float, "f", float, "f")
PTX3(max3_nan_abs, "max.NaN.abs.f32", float, "f", float, "f", float, "f", float, "f")

extern "C" __global__ void f32_min3(float *out, const float *a, const float *b, const float *c) {
    LANES;
    PUT(min3(a[i], b[i], c[i]));
    PUT(max3_nan_abs(a[i], b[i], c[i]));
}

extern "C" __global__ void wide_vectors(u32 *out, const u32 *in) {
    int i = threadIdx.x;
    u32 v[8];
    asm volatile("ld.global.v8.b32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8];"
                 : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3]), "=r"(v[4]), "=r"(v[5]), "=r"(v[6]), "=r"(v[7])
                 : "l"(in + i * 8));
    asm volatile("st.global.v8.b32 [%0], {%1, %2, %3, %4, %5, %6, %7, %8};" ::"l"(out + i * 8), "r"(v[7]), "r"(v[6]),
                 "r"(v[5]), "r"(v[4]), "r"(v[3]), "r"(v[2]), "r"(v[1]), "r"(v[0])
                 : "memory");
}

extern "C" __global__ void redux_f32(float *out, const float *a) {
    LANES;
    float d;
    asm volatile("redux.sync.min.f32 %0, %1, 0xffffffff;" : "=f"(d) : "f"(a[i]));
    PUT(d);
    asm volatile("redux.sync.max.abs.NaN.f32 %0, %1, 0xffffffff;" : "=f"(d) : "f"(a[i]));
    PUT(d);
}

// 16x16 matrices of bytes, transposed: lane l gets rows 4 (l % 4) to +3 of column l / 4 in one register, and of the
// column eight further on in the next.
extern "C" __global__ void load_bytes_transposed(u32 *out, const u32 *in) {
    LANES;
    __shared__ __align__(16) u32 tile[32 * 4];
    for (int k = 0; k < 4; ++k) tile[k * 32 + i] = in[k * 32 + i];
    __syncwarp();
    u32 at = (u32)__cvta_generic_to_shared(tile + i * 4), r0, r1, r2, r3;
    asm volatile("ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%0, %1}, [%2];" : "=r"(r0), "=r"(r1) : "r"(at) : "memory");
    PUT(r0);
    PUT(r1);
    asm volatile("ldmatrix.sync.aligned.m16n16.x2.trans.shared.b8 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3)
                 : "r"(at)
                 : "memory");
    PUT(r0);
    PUT(r1);
    PUT(r2);
    PUT(r3);
}
