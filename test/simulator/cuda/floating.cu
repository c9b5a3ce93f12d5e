// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Binary32 and binary64 arithmetic: every rounding mode, flushing, saturation, comparisons, NaN rules.
#include "common.cuh"

extern "C" __global__ void f32_round_modes(float *out, const float *a, const float *b, const float *c) {
    LANES;
    float x = a[i], y = b[i], z = c[i], p = fabsf(x);
    PUT(__fadd_rn(x, y));
    PUT(__fadd_rz(x, y));
    PUT(__fadd_ru(x, y));
    PUT(__fadd_rd(x, y));
    PUT(__fsub_rn(x, y));
    PUT(__fsub_rz(x, y));
    PUT(__fsub_ru(x, y));
    PUT(__fsub_rd(x, y));
    PUT(__fmul_rn(x, y));
    PUT(__fmul_rz(x, y));
    PUT(__fmul_ru(x, y));
    PUT(__fmul_rd(x, y));
    PUT(__fmaf_rn(x, y, z));
    PUT(__fmaf_rz(x, y, z));
    PUT(__fmaf_ru(x, y, z));
    PUT(__fmaf_rd(x, y, z));
    PUT(__fdiv_rn(x, y));
    PUT(__fdiv_rz(x, y));
    PUT(__fdiv_ru(x, y));
    PUT(__fdiv_rd(x, y));
    PUT(__frcp_rn(y));
    PUT(__frcp_rz(y));
    PUT(__frcp_ru(y));
    PUT(__frcp_rd(y));
    PUT(__fsqrt_rn(p));
    PUT(__fsqrt_rz(p));
    PUT(__fsqrt_ru(p));
    PUT(__fsqrt_rd(p));
}

extern "C" __global__ void f64_round_modes(double *out, const double *a, const double *b, const double *c) {
    LANES;
    double x = a[i], y = b[i], z = c[i], p = fabs(x);
    PUT(__dadd_rn(x, y));
    PUT(__dadd_rz(x, y));
    PUT(__dadd_ru(x, y));
    PUT(__dadd_rd(x, y));
    PUT(__dsub_rn(x, y));
    PUT(__dsub_rz(x, y));
    PUT(__dsub_ru(x, y));
    PUT(__dsub_rd(x, y));
    PUT(__dmul_rn(x, y));
    PUT(__dmul_rz(x, y));
    PUT(__dmul_ru(x, y));
    PUT(__dmul_rd(x, y));
    PUT(__fma_rn(x, y, z));
    PUT(__fma_rz(x, y, z));
    PUT(__fma_ru(x, y, z));
    PUT(__fma_rd(x, y, z));
    PUT(__ddiv_rn(x, y));
    PUT(__ddiv_rz(x, y));
    PUT(__ddiv_ru(x, y));
    PUT(__ddiv_rd(x, y));
    PUT(__drcp_rn(y));
    PUT(__drcp_rz(y));
    PUT(__drcp_ru(y));
    PUT(__drcp_rd(y));
    PUT(__dsqrt_rn(p));
    PUT(__dsqrt_rz(p));
    PUT(__dsqrt_ru(p));
    PUT(__dsqrt_rd(p));
}

PTX2(add_ftz, "add.ftz.f32", float, "f", float, "f", float, "f")
PTX2(sub_rz_ftz, "sub.rz.ftz.f32", float, "f", float, "f", float, "f")
PTX2(mul_ftz, "mul.ftz.f32", float, "f", float, "f", float, "f")
PTX2(mul_rm_ftz, "mul.rm.ftz.f32", float, "f", float, "f", float, "f")
PTX3(fma_ftz, "fma.rn.ftz.f32", float, "f", float, "f", float, "f", float, "f")
PTX3(mad_rp_ftz, "mad.rp.ftz.f32", float, "f", float, "f", float, "f", float, "f")
PTX2(div_ftz, "div.rn.ftz.f32", float, "f", float, "f", float, "f")
PTX1(rcp_ftz, "rcp.rn.ftz.f32", float, "f", float, "f")
PTX1(sqrt_ftz, "sqrt.rn.ftz.f32", float, "f", float, "f")
PTX2(min_ftz, "min.ftz.f32", float, "f", float, "f", float, "f")
PTX2(max_ftz, "max.ftz.f32", float, "f", float, "f", float, "f")
PTX1(abs_ftz, "abs.ftz.f32", float, "f", float, "f")
PTX1(neg_ftz, "neg.ftz.f32", float, "f", float, "f")

extern "C" __global__ void f32_ftz(float *out, const float *a, const float *b, const float *c) {
    LANES;
    float x = a[i], y = b[i], z = c[i];
    PUT(add_ftz(x, y));
    PUT(sub_rz_ftz(x, y));
    PUT(mul_ftz(x, y));
    PUT(mul_rm_ftz(x, y));
    PUT(fma_ftz(x, y, z));
    PUT(mad_rp_ftz(x, y, z));
    PUT(div_ftz(z, y));
    PUT(rcp_ftz(y));
    PUT(sqrt_ftz(fabsf(x)));
    PUT(min_ftz(x, y));
    PUT(max_ftz(x, y));
    PUT(abs_ftz(x));
    PUT(neg_ftz(x));
}

PTX2(add_fsat, "add.sat.f32", float, "f", float, "f", float, "f")
PTX2(sub_ftz_sat, "sub.ftz.sat.f32", float, "f", float, "f", float, "f")
PTX2(mul_rz_sat, "mul.rz.sat.f32", float, "f", float, "f", float, "f")
PTX3(fma_sat, "fma.rn.sat.f32", float, "f", float, "f", float, "f", float, "f")
PTX3(fma_ru_ftz_sat, "fma.rp.ftz.sat.f32", float, "f", float, "f", float, "f", float, "f")

extern "C" __global__ void f32_sat(float *out, const float *a, const float *b, const float *c) {
    LANES;
    float x = a[i], y = b[i], z = c[i];
    PUT(__saturatef(x));
    PUT(add_fsat(x, y));
    PUT(sub_ftz_sat(x, y));
    PUT(mul_rz_sat(x, y));
    PUT(fma_sat(x, y, z));
    PUT(fma_ru_ftz_sat(x, y, z));
}

PTX2(min_nan, "min.NaN.f32", float, "f", float, "f", float, "f")
PTX2(max_nan, "max.NaN.f32", float, "f", float, "f", float, "f")
PTX2(copysign_f32, "copysign.f32", float, "f", float, "f", float, "f")
PTX2(copysign_f64, "copysign.f64", double, "d", double, "d", double, "d")

// Pairs of every special value: zeros, subnormals, infinities, NaNs.
extern "C" __global__ void f32_special(float *out, const float *a, const float *b) {
    LANES;
    float x = a[i], y = b[i];
    PUT(x + y);
    PUT(x - y);
    PUT(x * y);
    PUT(__fdiv_rn(x, y));
    PUT(__fmaf_rn(x, y, x));
    PUT(__fsqrt_rn(x));
    PUT(fminf(x, y));
    PUT(fmaxf(x, y));
    PUT(min_nan(x, y));
    PUT(max_nan(x, y));
    PUT(fabsf(x));
    PUT(-x);
    PUT(copysignf(x, y));
    PUT(copysign_f32(x, y)); // the sign comes from the first operand
    PUT(floorf(x));
    PUT(ceilf(x));
    PUT(truncf(x));
    PUT(rintf(x));
}

extern "C" __global__ void f64_special(double *out, const double *a, const double *b) {
    LANES;
    double x = a[i], y = b[i];
    PUT(x + y);
    PUT(x * y);
    PUT(__ddiv_rn(x, y));
    PUT(__dsqrt_rn(x));
    PUT(fmin(x, y));
    PUT(fmax(x, y));
    PUT(fabs(x));
    PUT(-x);
    PUT(copysign_f64(x, y));
    PUT(floor(x));
    PUT(ceil(x));
    PUT(trunc(x));
    PUT(rint(x));
}

#define FSETP(test, type, con, p, q)                                                  \
    {                                                                                 \
        u32 d;                                                                        \
        asm volatile(                                                                 \
            "{ .reg .pred p;\n\t setp." #test "." #type " p, %1, %2;\n\t"             \
            " selp.u32 %0, 1, 0, p; }"                                                \
            : "=r"(d)                                                                 \
            : con(p), con(q));                                                        \
        bits |= d << at++;                                                            \
    }
#define TESTP(kind, type, con, p)                                                     \
    {                                                                                 \
        u32 d;                                                                        \
        asm volatile(                                                                 \
            "{ .reg .pred p;\n\t testp." #kind "." #type " p, %1;\n\t"                \
            " selp.u32 %0, 1, 0, p; }"                                                \
            : "=r"(d)                                                                 \
            : con(p));                                                                \
        bits |= d << at++;                                                            \
    }

extern "C" __global__ void float_compare(u32 *out, const float *a, const float *b) {
    LANES;
    float x = a[i], y = b[i];
    double dx = x, dy = y;
    u32 bits = 0, at = 0;
    FSETP(eq, f32, "f", x, y)
    FSETP(ne, f32, "f", x, y)
    FSETP(lt, f32, "f", x, y)
    FSETP(le, f32, "f", x, y)
    FSETP(gt, f32, "f", x, y)
    FSETP(ge, f32, "f", x, y)
    FSETP(equ, f32, "f", x, y)
    FSETP(neu, f32, "f", x, y)
    FSETP(ltu, f32, "f", x, y)
    FSETP(leu, f32, "f", x, y)
    FSETP(gtu, f32, "f", x, y)
    FSETP(geu, f32, "f", x, y)
    FSETP(num, f32, "f", x, y)
    FSETP(nan, f32, "f", x, y)
    FSETP(eq.ftz, f32, "f", x, y)
    FSETP(lt.ftz, f32, "f", x, y)
    FSETP(lt, f64, "d", dx, dy)
    FSETP(geu, f64, "d", dx, dy)
    FSETP(nan, f64, "d", dx, dy)
    TESTP(finite, f32, "f", x)
    TESTP(infinite, f32, "f", x)
    TESTP(number, f32, "f", x)
    TESTP(notanumber, f32, "f", x)
    TESTP(normal, f32, "f", x)
    TESTP(subnormal, f32, "f", x)
    TESTP(finite, f64, "d", dx)
    TESTP(normal, f64, "d", dy)
    PUT(bits);
    u32 d;
    asm volatile("set.lt.u32.f32 %0, %1, %2;" : "=r"(d) : "f"(x), "f"(y));
    PUT(d);
    float f;
    asm volatile("set.geu.f32.f32 %0, %1, %2;" : "=f"(f) : "f"(x), "f"(y));
    PUT(__float_as_uint(f));
    PUT((x < y ? 1u : 0u) | (x == y ? 2u : 0u) | (x != y ? 4u : 0u) | (x >= y ? 8u : 0u) | (isnan(x) ? 16u : 0u));
}

// Expressions that -O3 contracts into fma and -O0 must not be told apart from: only exact values.
extern "C" __global__ void f32_polynomial(float *out, const float *a) {
    LANES;
    float x = a[i], sum = 0.0f;
    for (int k = 5; k >= 0; --k) sum = sum * x + (float)(k - 2);
    PUT(sum);
    PUT(x * x + x * 3.0f - 7.0f);
    PUT(x - truncf(x * 0.25f) * 4.0f);
}
