// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Conversions and arithmetic that need sm_90: fp8 pairs, bfloat16 operations, relu forms.
#include "common.cuh"

#define CVT_PAIR(text)                                                          \
    {                                                                           \
        u16 d;                                                                  \
        asm volatile("cvt." text " %0, %1, %2;" : "=h"(d) : "f"(x), "f"(y)); \
        PUT(d);                                                                 \
    }
#define CVT_FROM16X2(text, value)                                     \
    {                                                                 \
        u16 d;                                                        \
        asm volatile("cvt." text " %0, %1;" : "=h"(d) : "r"(value)); \
        PUT(d);                                                       \
    }
#define CVT_TO16X2(text, value)                                       \
    {                                                                 \
        u32 d;                                                        \
        asm volatile("cvt." text " %0, %1;" : "=r"(d) : "h"(value)); \
        PUT(d);                                                       \
    }

extern "C" __global__ void fp8_pairs(u32 *out, const float *a, const float *b, const u32 *h, const u16 *codes) {
    LANES;
    float x = a[i], y = b[i];
    CVT_PAIR("rn.satfinite.e4m3x2.f32")
    CVT_PAIR("rn.satfinite.e5m2x2.f32")
    CVT_PAIR("rn.satfinite.relu.e4m3x2.f32")
    CVT_PAIR("rn.satfinite.relu.e5m2x2.f32")
    CVT_FROM16X2("rn.satfinite.e4m3x2.f16x2", h[i])
    CVT_FROM16X2("rn.satfinite.e5m2x2.f16x2", h[i])
    CVT_TO16X2("rn.f16x2.e4m3x2", codes[i])
    CVT_TO16X2("rn.f16x2.e5m2x2", codes[i])
    CVT_TO16X2("rn.relu.f16x2.e4m3x2", codes[i])
}

extern "C" __global__ void tf32_modes(u32 *out, const float *a) {
    LANES;
    u32 d;
#define TF32(text)                                                    \
    asm volatile("cvt." text " %0, %1;" : "=r"(d) : "f"(a[i])); \
    PUT(d);
    TF32("rna.tf32.f32")
    TF32("rn.tf32.f32")
    TF32("rz.tf32.f32")
    TF32("rn.relu.tf32.f32")
}

extern "C" __global__ void bf16_conversions(u32 *out, const u16 *a, const float *x) {
    LANES;
    float f;
    u16 h;
    asm volatile("cvt.f32.bf16 %0, %1;" : "=f"(f) : "h"(a[i]));
    PUT(__float_as_uint(f));
#define INTO(text, con, dst, C, src)                                 \
    asm volatile("cvt." text " %0, %1;" : "=" con(dst) : C(src)); \
    PUT((u32)dst);
    s32 n;
    INTO("rzi.s32.bf16", "r", n, "h", a[i])
    INTO("rni.s32.bf16", "r", n, "h", a[i])
    INTO("rn.bf16.s32", "h", h, "r", (s32)x[i])
    INTO("rz.bf16.s32", "h", h, "r", (s32)x[i] * 1001)
    INTO("rni.bf16.bf16", "h", h, "h", a[i])
    INTO("rn.bf16.f16", "h", h, "h", (u16)0x3555)
    INTO("rn.f16.bf16", "h", h, "h", a[i])
    INTO("rm.bf16.f32", "h", h, "f", x[i])
    INTO("rp.bf16.f32", "h", h, "f", x[i])
}

PTX2(add_bf16, "add.rn.bf16", u16, "h", u16, "h", u16, "h")
PTX2(sub_bf16, "sub.bf16", u16, "h", u16, "h", u16, "h")
PTX2(mul_bf16, "mul.rn.bf16", u16, "h", u16, "h", u16, "h")
PTX2(add_bf16x2, "add.bf16x2", u32, "r", u32, "r", u32, "r")
PTX2(mul_bf16x2, "mul.bf16x2", u32, "r", u32, "r", u32, "r")
PTX2(min_xorsign, "min.xorsign.abs.f32", float, "f", float, "f", float, "f")
PTX2(max_xorsign_nan, "max.NaN.xorsign.abs.f16", u16, "h", u16, "h", u16, "h")

extern "C" __global__ void bf16_native(u16 *out, const u16 *a, const u16 *b) {
    LANES;
    PUT(add_bf16(a[i], b[i]));
    PUT(sub_bf16(a[i], b[i]));
    PUT(mul_bf16(a[i], b[i]));
    PUT((u16)add_bf16x2(a[i], b[i]));
    PUT((u16)(mul_bf16x2(a[i] << 16, b[i] << 16) >> 16));
}

extern "C" __global__ void xorsign(float *out, u16 *half, const float *a, const float *b, const u16 *c, const u16 *d) {
    int i = threadIdx.x;
    out[i] = min_xorsign(a[i], b[i]);
    half[i] = max_xorsign_nan(c[i], d[i]);
}

PTX2(add_u16x2, "add.u16x2", u32, "r", u32, "r", u32, "r")
PTX2(min_relu_s16x2, "min.relu.s16x2", u32, "r", u32, "r", u32, "r")
PTX2(max_u16x2, "max.u16x2", u32, "r", u32, "r", u32, "r")
PTX2(max_relu_s32, "max.relu.s32", u32, "r", u32, "r", u32, "r")

extern "C" __global__ void int16x2_native(u32 *out, const u32 *a, const u32 *b) {
    LANES;
    PUT(add_u16x2(a[i], b[i]));
    PUT(min_relu_s16x2(a[i], b[i]));
    PUT(max_u16x2(a[i], b[i]));
    PUT(max_relu_s32(a[i], b[i]));
}
