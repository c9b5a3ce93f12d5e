// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Conversions between every pair of types, in every rounding mode.
#include "common.cuh"

#define CVT(text, R, CR, C, value)                                  \
    {                                                               \
        R d;                                                        \
        asm volatile("cvt." text " %0, %1;" : "=" CR(d) : C(value)); \
        PUT(d);                                                     \
    }

// Results of 8 bits live in a 32-bit register, sign- or zero-extended.
#define TO_INT(mode, src, con, value)                 \
    CVT(mode ".s8." src, s32, "r", con, value)        \
    CVT(mode ".u8." src, u32, "r", con, value)        \
    CVT(mode ".s16." src, s16, "h", con, value)       \
    CVT(mode ".u16." src, u16, "h", con, value)       \
    CVT(mode ".s32." src, s32, "r", con, value)       \
    CVT(mode ".u32." src, u32, "r", con, value)       \
    CVT(mode ".s64." src, s64, "l", con, value)       \
    CVT(mode ".u64." src, u64, "l", con, value)

#define ALL_TO_INT(src, con, value) \
    TO_INT("rni", src, con, value)  \
    TO_INT("rzi", src, con, value)  \
    TO_INT("rmi", src, con, value)  \
    TO_INT("rpi", src, con, value)

extern "C" __global__ void f32_to_int(s64 *out, const float *a) {
    LANES;
    ALL_TO_INT("f32", "f", a[i])
}
extern "C" __global__ void f64_to_int(s64 *out, const double *a) {
    LANES;
    ALL_TO_INT("f64", "d", a[i])
}
extern "C" __global__ void f16_to_int(s64 *out, const u16 *a) {
    LANES;
    ALL_TO_INT("f16", "h", a[i])
}

#define FROM_INT(mode, dst, R, CR)                     \
    CVT(mode dst ".s8", R, CR, "r", (s32)x)            \
    CVT(mode dst ".u8", R, CR, "r", (u32)x)            \
    CVT(mode dst ".s16", R, CR, "h", (s16)x)           \
    CVT(mode dst ".u16", R, CR, "h", (u16)x)           \
    CVT(mode dst ".s32", R, CR, "r", (s32)x)           \
    CVT(mode dst ".u32", R, CR, "r", (u32)x)           \
    CVT(mode dst ".s64", R, CR, "l", (s64)x)           \
    CVT(mode dst ".u64", R, CR, "l", (u64)x)

extern "C" __global__ void int_to_f32(float *out, const u64 *a) {
    LANES;
    u64 x = a[i];
    FROM_INT("rn.", "f32", float, "f")
    FROM_INT("rz.", "f32", float, "f")
    FROM_INT("rm.", "f32", float, "f")
    FROM_INT("rp.", "f32", float, "f")
}
extern "C" __global__ void int_to_f64(double *out, const u64 *a) {
    LANES;
    u64 x = a[i];
    FROM_INT("rn.", "f64", double, "d")
    FROM_INT("rz.", "f64", double, "d")
    FROM_INT("rm.", "f64", double, "d")
    FROM_INT("rp.", "f64", double, "d")
}
extern "C" __global__ void int_to_f16(u16 *out, const u64 *a) {
    LANES;
    u64 x = a[i];
    FROM_INT("rn.", "f16", u16, "h")
    FROM_INT("rz.", "f16", u16, "h")
    FROM_INT("rm.", "f16", u16, "h")
    FROM_INT("rp.", "f16", u16, "h")
}

// Widening, narrowing and saturating between integers.
extern "C" __global__ void int_to_int(s64 *out, const u64 *a) {
    LANES;
    u64 x = a[i];
    CVT("s8.s32", s32, "r", "r", (s32)x)
    CVT("u8.s64", u32, "r", "l", x)
    CVT("s16.s8", s16, "h", "r", (s32)x)
    CVT("s64.s8", s64, "l", "r", (s32)x)
    CVT("u64.u8", u64, "l", "r", (s32)x)
    CVT("s32.u16", s32, "r", "h", (u16)x)
    CVT("u32.s16", u32, "r", "h", (u16)x)
    CVT("u64.s32", u64, "l", "r", (s32)x)
    CVT("s32.s64", s32, "r", "l", x)
    CVT("sat.s8.s32", s32, "r", "r", (s32)x)
    CVT("sat.u8.s32", u32, "r", "r", (s32)x)
    CVT("sat.s16.s64", s16, "h", "l", x)
    CVT("sat.u16.u64", u16, "h", "l", x)
    CVT("sat.s32.u32", s32, "r", "r", (s32)x)
    CVT("sat.u32.s32", u32, "r", "r", (s32)x)
    CVT("sat.s32.s64", s32, "r", "l", x)
    CVT("sat.u32.s64", u32, "r", "l", x)
    CVT("sat.s64.u64", s64, "l", "l", x)
    CVT("sat.u64.s64", u64, "l", "l", x)
}

extern "C" __global__ void f64_to_narrow(u32 *out, const double *a) {
    LANES;
    double x = a[i];
    CVT("rn.f32.f64", u32, "r", "d", x)
    CVT("rz.f32.f64", u32, "r", "d", x)
    CVT("rm.f32.f64", u32, "r", "d", x)
    CVT("rp.f32.f64", u32, "r", "d", x)
    CVT("rn.ftz.f32.f64", u32, "r", "d", x)
    CVT("rn.sat.f32.f64", u32, "r", "d", x)
    CVT("rn.f16.f64", u16, "h", "d", x)
    CVT("rz.f16.f64", u16, "h", "d", x)
    CVT("rm.f16.f64", u16, "h", "d", x)
    CVT("rp.f16.f64", u16, "h", "d", x)
}

extern "C" __global__ void f32_to_narrow(u32 *out, const float *a, const float *b) {
    LANES;
    float x = a[i], y = b[i];
    CVT("rn.f16.f32", u16, "h", "f", x)
    CVT("rz.f16.f32", u16, "h", "f", x)
    CVT("rm.f16.f32", u16, "h", "f", x)
    CVT("rp.f16.f32", u16, "h", "f", x)
    CVT("rn.sat.f16.f32", u16, "h", "f", x)
    CVT("rn.ftz.f16.f32", u16, "h", "f", x)
    CVT("rn.relu.f16.f32", u16, "h", "f", x)
    CVT("rn.bf16.f32", u16, "h", "f", x)
    CVT("rz.bf16.f32", u16, "h", "f", x)
    CVT("rn.relu.bf16.f32", u16, "h", "f", x)
    CVT("rna.tf32.f32", u32, "r", "f", x)
    u32 d;
#define CVT2(text)                                                              \
    asm volatile("cvt." text " %0, %1, %2;" : "=r"(d) : "f"(x), "f"(y)); \
    PUT(d);
    CVT2("rn.f16x2.f32")
    CVT2("rz.f16x2.f32")
    CVT2("rn.relu.f16x2.f32")
    CVT2("rn.bf16x2.f32")
    CVT2("rz.bf16x2.f32")
    CVT2("rz.relu.bf16x2.f32")
}

// Rounding to an integral value in the same format, and widening.
extern "C" __global__ void float_integral(double *out, const float *a, const u16 *h, const u16 *b) {
    LANES;
    float x = a[i];
    CVT("rni.f32.f32", float, "f", "f", x)
    CVT("rzi.f32.f32", float, "f", "f", x)
    CVT("rmi.f32.f32", float, "f", "f", x)
    CVT("rpi.f32.f32", float, "f", "f", x)
    CVT("rni.ftz.sat.f32.f32", float, "f", "f", x)
    CVT("rni.f64.f64", double, "d", "d", (double)x * 1.25)
    CVT("rmi.f64.f64", double, "d", "d", (double)x * 1.25)
    CVT("f64.f32", double, "d", "f", x)
    CVT("f64.f16", double, "d", "h", h[i])
    CVT("f32.f16", float, "f", "h", h[i])
    CVT("sat.f32.f32", float, "f", "f", x)
    CVT("ftz.f64.f32", double, "d", "f", x)
    float f;
    asm volatile("{ .reg .b32 r;\n\t mov.b32 r, {0, %1};\n\t mov.b32 %0, r; }" : "=f"(f) : "h"(b[i]));
    PUT(f);
}

extern "C" __global__ void packed_saturation(u32 *out, const s32 *a, const s32 *b, const u32 *c) {
    LANES;
    u32 d;
#define PACK2(types)                                                                       \
    asm volatile("cvt.pack.sat." types " %0, %1, %2;" : "=r"(d) : "r"(a[i]), "r"(b[i])); \
    PUT(d);
#define PACK3(types)                                                                                    \
    asm volatile("cvt.pack.sat." types ".b32 %0, %1, %2, %3;" : "=r"(d) : "r"(a[i]), "r"(b[i]), "r"(c[i])); \
    PUT(d);
    PACK2("s16.s32")
    PACK2("u16.s32")
    PACK3("s8.s32")
    PACK3("u8.s32")
    PACK3("s4.s32")
    PACK3("u4.s32")
    PACK3("s2.s32")
    PACK3("u2.s32")
}

// The C conversions, as the compiler picks the instructions.
extern "C" __global__ void c_casts(double *out, const float *a, const s64 *b) {
    LANES;
    PUT((s32)a[i]);
    PUT((u32)fabsf(a[i]));
    PUT((s64)a[i]);
    PUT((double)(s8)(s32)a[i]);
    PUT((u16)(s32)a[i]);
    PUT((float)b[i]);
    PUT((double)b[i]);
    PUT((double)(u64)b[i]);
    PUT((bool)(s32)a[i]);
    PUT(__float2int_ru(a[i]));
    PUT(__float2uint_rd(fabsf(a[i])));
    PUT(__ll2float_rz(b[i]));
    PUT(__double2float_ru((double)b[i]));
    PUT(__double_as_longlong((double)a[i]) == __double_as_longlong(__hiloint2double(
                                                  __double2hiint((double)a[i]), __double2loint((double)a[i]))));
}
