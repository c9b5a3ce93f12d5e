// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The approximate instructions, each with the error that the PTX ISA allows it.
#include "common.cuh"

PTX1(ex2_approx, "ex2.approx.f32", float, "f", float, "f")
PTX1(ex2_ftz, "ex2.approx.ftz.f32", float, "f", float, "f")
PTX1(lg2_approx, "lg2.approx.f32", float, "f", float, "f")
PTX1(lg2_ftz, "lg2.approx.ftz.f32", float, "f", float, "f")
PTX1(rcp_approx, "rcp.approx.f32", float, "f", float, "f")
PTX1(rcp_ftz, "rcp.approx.ftz.f32", float, "f", float, "f")
PTX1(sqrt_approx, "sqrt.approx.f32", float, "f", float, "f")
PTX1(sqrt_ftz, "sqrt.approx.ftz.f32", float, "f", float, "f")
PTX1(rsqrt_approx, "rsqrt.approx.f32", float, "f", float, "f")
PTX1(rsqrt_ftz, "rsqrt.approx.ftz.f32", float, "f", float, "f")
PTX1(sin_approx, "sin.approx.f32", float, "f", float, "f")
PTX1(sin_ftz, "sin.approx.ftz.f32", float, "f", float, "f")
PTX1(cos_approx, "cos.approx.f32", float, "f", float, "f")
PTX1(tanh_approx, "tanh.approx.f32", float, "f", float, "f")
PTX2(div_approx, "div.approx.f32", float, "f", float, "f", float, "f")
PTX2(div_full, "div.full.f32", float, "f", float, "f", float, "f")
PTX1(rcp64_ftz, "rcp.approx.ftz.f64", double, "d", double, "d")
PTX1(rsqrt64_ftz, "rsqrt.approx.ftz.f64", double, "d", double, "d")
PTX1(rsqrt64_approx, "rsqrt.approx.f64", double, "d", double, "d")
PTX1(tanh_f16, "tanh.approx.f16", u16, "h", u16, "h")
PTX1(tanh_f16x2, "tanh.approx.f16x2", u32, "r", u32, "r")
PTX1(ex2_f16, "ex2.approx.f16", u16, "h", u16, "h")
PTX1(ex2_f16x2, "ex2.approx.f16x2", u32, "r", u32, "r")

extern "C" __global__ void approx_exponential(float *out, const float *a) {
    LANES;
    PUT(ex2_approx(a[i]));
    PUT(exp2f(a[i]));
}
extern "C" __global__ void approx_logarithm(float *out, const float *a) {
    LANES;
    PUT(lg2_approx(a[i]));
    PUT(__log2f(a[i]));
}
extern "C" __global__ void approx_reciprocal(float *out, const float *a) {
    LANES;
    PUT(rcp_approx(a[i]));
    PUT(rcp_ftz(a[i]));
}
extern "C" __global__ void approx_roots(float *out, const float *a) {
    LANES;
    PUT(sqrt_approx(a[i]));
    PUT(rsqrt_approx(a[i]));
    PUT(rsqrt_ftz(a[i]));
}
extern "C" __global__ void approx_trigonometry(float *out, const float *a) {
    LANES;
    PUT(sin_approx(a[i]));
    PUT(cos_approx(a[i]));
    PUT(__sinf(a[i]));
}
extern "C" __global__ void approx_tanh(float *out, const float *a) {
    LANES;
    PUT(tanh_approx(a[i]));
}
extern "C" __global__ void approx_division(float *out, const float *a, const float *b) {
    LANES;
    PUT(div_approx(a[i], b[i]));
    PUT(div_full(a[i], b[i]));
    PUT(__fdividef(a[i], b[i]));
}
extern "C" __global__ void approx_f64(double *out, const double *a) {
    LANES;
    PUT(rcp64_ftz(a[i]));
    PUT(rsqrt64_ftz(a[i]));
    PUT(rsqrt64_approx(a[i]));
}
extern "C" __global__ void approx_f16(u16 *out, const u16 *a) {
    LANES;
    PUT(tanh_f16(a[i]));
    PUT((u16)(tanh_f16x2(a[i] | 0x3c000000u) & 0xffff));
    PUT(ex2_f16(a[i]));
    PUT((u16)(ex2_f16x2(a[i] << 16) >> 16));
}

// Zeros, subnormals, infinities and NaN through every approximation: exact by the ISA's tables.
extern "C" __global__ void approx_special(float *out, const float *a) {
    LANES;
    float x = a[i];
    PUT(ex2_ftz(x));
    PUT(lg2_ftz(x));
    PUT(rcp_ftz(x));
    PUT(sqrt_ftz(x));
    PUT(rsqrt_ftz(x));
    PUT(sin_ftz(x));
    PUT(tanh_approx(x));
}
