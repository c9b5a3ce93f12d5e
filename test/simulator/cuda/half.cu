// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// binary16 and bfloat16, scalar and in pairs.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "common.cuh"

#define ARITH(H)                  \
    LANES;                        \
    H x = a[i], y = b[i], z = c[i]; \
    PUT(__hadd(x, y));            \
    PUT(__hsub(x, y));            \
    PUT(__hmul(x, y));            \
    PUT(__hfma(x, y, z));         \
    PUT(__hadd_sat(x, y));        \
    PUT(__hsub_sat(x, y));        \
    PUT(__hmul_sat(x, y));        \
    PUT(__hfma_sat(x, y, z));     \
    PUT(__hfma_relu(x, y, z));    \
    PUT(__hneg(x));               \
    PUT(__habs(x));               \
    PUT(__hmin(x, y));            \
    PUT(__hmax(x, y));            \
    PUT(__hmin_nan(x, y));        \
    PUT(__hmax_nan(x, y));

extern "C" __global__ void f16_arith(__half *out, const __half *a, const __half *b, const __half *c) { ARITH(__half) }

extern "C" __global__ void bf16_arith(__nv_bfloat16 *out, const __nv_bfloat16 *a, const __nv_bfloat16 *b,
                                      const __nv_bfloat16 *c) {
    ARITH(__nv_bfloat16)
}

#define PAIRS(H2)                  \
    LANES;                         \
    H2 x = a[i], y = b[i], z = c[i]; \
    PUT(__hadd2(x, y));            \
    PUT(__hsub2(x, y));            \
    PUT(__hmul2(x, y));            \
    PUT(__hfma2(x, y, z));         \
    PUT(__hadd2_sat(x, y));        \
    PUT(__hsub2_sat(x, y));        \
    PUT(__hmul2_sat(x, y));        \
    PUT(__hfma2_sat(x, y, z));     \
    PUT(__hfma2_relu(x, y, z));    \
    PUT(__hneg2(x));               \
    PUT(__habs2(x));               \
    PUT(__hmin2(x, y));            \
    PUT(__hmax2(x, y));            \
    PUT(__hmin2_nan(x, y));        \
    PUT(__hmax2_nan(x, y));

extern "C" __global__ void f16x2_arith(__half2 *out, const __half2 *a, const __half2 *b, const __half2 *c) {
    PAIRS(__half2)
}

extern "C" __global__ void bf16x2_arith(__nv_bfloat162 *out, const __nv_bfloat162 *a, const __nv_bfloat162 *b,
                                        const __nv_bfloat162 *c) {
    PAIRS(__nv_bfloat162)
}

#define COMPARE(x, y)                                                                                        \
    (u32) __heq(x, y) | (u32)__hne(x, y) << 1 | (u32)__hlt(x, y) << 2 | (u32)__hle(x, y) << 3 |              \
        (u32)__hgt(x, y) << 4 | (u32)__hge(x, y) << 5 | (u32)__hequ(x, y) << 6 | (u32)__hneu(x, y) << 7 |    \
        (u32)__hltu(x, y) << 8 | (u32)__hleu(x, y) << 9 | (u32)__hgtu(x, y) << 10 | (u32)__hgeu(x, y) << 11 | \
        (u32)__hisnan(x) << 12

extern "C" __global__ void half_compare(u32 *out, const __half *a, const __half *b, const __nv_bfloat16 *c,
                                        const __nv_bfloat16 *d) {
    LANES;
    PUT(COMPARE(a[i], b[i]));
    PUT(COMPARE(c[i], d[i]));
    __half2 p = __halves2half2(a[i], b[i]), q = __halves2half2(b[i], a[i]);
    __half2 less = __hlt2(p, q);
    PUT(*(u32 *)&less);
    PUT(__hle2_mask(p, q));
    PUT((u32)__hbeq2(p, q) | (u32)__hbneu2(p, q) << 1);
    __nv_bfloat162 r = __halves2bfloat162(c[i], d[i]), s = __halves2bfloat162(d[i], c[i]);
    __nv_bfloat162 more = __hgt2(r, s);
    PUT(*(u32 *)&more);
}

PTX2(add_ftz_f16, "add.ftz.f16", u16, "h", u16, "h", u16, "h")
PTX2(mul_ftz_f16, "mul.rn.ftz.f16", u16, "h", u16, "h", u16, "h")
PTX3(fma_ftz_f16, "fma.rn.ftz.f16", u16, "h", u16, "h", u16, "h", u16, "h")
PTX2(sub_ftz_sat_f16x2, "sub.ftz.sat.f16x2", u32, "r", u32, "r", u32, "r")
PTX1(neg_ftz_f16, "neg.ftz.f16", u16, "h", u16, "h")
PTX1(abs_ftz_f16x2, "abs.ftz.f16x2", u32, "r", u32, "r")

extern "C" __global__ void f16_ftz(u16 *out, const u16 *a, const u16 *b, const u16 *c) {
    LANES;
    PUT(add_ftz_f16(a[i], b[i]));
    PUT(mul_ftz_f16(a[i], b[i]));
    PUT(fma_ftz_f16(a[i], b[i], c[i]));
    PUT((u16)sub_ftz_sat_f16x2(a[i], b[i]));
    PUT(neg_ftz_f16(a[i]));
    PUT((u16)(abs_ftz_f16x2((u32)a[i] << 16) >> 16));
}

// Functions of the headers, each within its documented error.
extern "C" __global__ void f16_functions(__half *out, const __half *a, const __half *b) {
    LANES;
    __half x = a[i];
    PUT(__hdiv(b[i], x));
    PUT(hsqrt(x));
    PUT(hrsqrt(x));
    PUT(hrcp(x));
    PUT(hexp2(x));
    PUT(hlog2(x));
    PUT(hfloor(b[i]));
    PUT(hceil(b[i]));
    PUT(htrunc(b[i]));
    PUT(hrint(b[i]));
}

// Reordering the halves of pairs.
extern "C" __global__ void half_shuffles(u32 *out, const __half2 *a, const __half2 *b) {
    LANES;
#define BITS(v) (*(u32 *)&(v))
    __half2 v = __lows2half2(a[i], b[i]);
    PUT(BITS(v));
    v = __highs2half2(a[i], b[i]);
    PUT(BITS(v));
    v = __lowhigh2highlow(a[i]);
    PUT(BITS(v));
    v = __low2half2(b[i]);
    PUT(BITS(v));
    v = __shfl_xor_sync(0xffffffffu, a[i], 1);
    PUT(BITS(v));
}
