// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Integer arithmetic and bit operations.
#include "common.cuh"

extern "C" __global__ void int32_arith(u32 *out, const u32 *a, const u32 *b) {
    LANES;
    u32 x = a[i], y = b[i];
    s32 sx = (s32)x, sy = (s32)y;
    PUT(x + y);
    PUT(x - y);
    PUT(x * y);
    PUT(0u - x);
    PUT((u32)abs(sx));
    PUT((u32)min(sx, sy));
    PUT((u32)max(sx, sy));
    PUT(min(x, y));
    PUT(max(x, y));
    PUT((u32)__mulhi(sx, sy));
    PUT(__umulhi(x, y));
    PUT((u32)__mul24(sx, sy));
    PUT(__umul24(x, y));
    PUT(__sad(sx, sy, 7u));
    PUT(__usad(x, y, 9u));
    PUT((u32)__hadd(sx, sy));
    PUT((u32)__rhadd(sx, sy));
    PUT(__uhadd(x, y));
    PUT(__urhadd(x, y));
    PUT((u32)(sx / (sy | 1)));
    PUT((u32)(sx % (sy | 1)));
    PUT(x / (y | 1));
    PUT(x % (y | 1));
    PUT(x * y + (x ^ y));
}

PTX3(mad_hi_s32, "mad.hi.s32", u32, "r", u32, "r", u32, "r", u32, "r")
PTX3(mad_hi_u32, "mad.hi.u32", u32, "r", u32, "r", u32, "r", u32, "r")
PTX3(mad_hi_sat, "mad.hi.sat.s32", u32, "r", u32, "r", u32, "r", u32, "r")
PTX3(mad24_lo, "mad24.lo.s32", u32, "r", u32, "r", u32, "r", u32, "r")
PTX3(mad24_hi, "mad24.hi.u32", u32, "r", u32, "r", u32, "r", u32, "r")
PTX2(mul24_lo_s32, "mul24.lo.s32", u32, "r", u32, "r", u32, "r")
PTX2(mul24_hi_s32, "mul24.hi.s32", u32, "r", u32, "r", u32, "r")
PTX2(mul24_lo_u32, "mul24.lo.u32", u32, "r", u32, "r", u32, "r")
PTX2(add_sat, "add.sat.s32", u32, "r", u32, "r", u32, "r")
PTX2(sub_sat, "sub.sat.s32", u32, "r", u32, "r", u32, "r")
PTX2(mul_wide_s32, "mul.wide.s32", u64, "l", u32, "r", u32, "r")
PTX2(mul_wide_u32, "mul.wide.u32", u64, "l", u32, "r", u32, "r")
PTX3(mad_wide_s32, "mad.wide.s32", u64, "l", u32, "r", u32, "r", u64, "l")
PTX3(mad_wide_u32, "mad.wide.u32", u64, "l", u32, "r", u32, "r", u64, "l")

extern "C" __global__ void int32_mad(u64 *out, const u32 *a, const u32 *b, const u32 *c) {
    LANES;
    u32 x = a[i], y = b[i], z = c[i];
    u64 w = ((u64)x << 32) | z;
    PUT(mad_hi_s32(x, y, z));
    PUT(mad_hi_u32(x, y, z));
    PUT(mad_hi_sat(x, y, z));
    PUT(mul24_lo_s32(x, y));
    PUT(mul24_hi_s32(x, y));
    PUT(mul24_lo_u32(x, y));
    PUT(mad24_lo(x, y, z));
    PUT(mad24_hi(x, y, z));
    PUT(add_sat(x, y));
    PUT(sub_sat(x, y));
    PUT(mul_wide_s32(x, y));
    PUT(mul_wide_u32(x, y));
    PUT(mad_wide_s32(x, y, w));
    PUT(mad_wide_u32(x, y, w));
}

PTX2(mul_lo_s64, "mul.lo.s64", u64, "l", u64, "l", u64, "l")
PTX3(mad_lo_s64, "mad.lo.s64", u64, "l", u64, "l", u64, "l", u64, "l")
PTX3(mad_hi_u64, "mad.hi.u64", u64, "l", u64, "l", u64, "l", u64, "l")
PTX3(sad_s64, "sad.s64", u64, "l", u64, "l", u64, "l", u64, "l")

extern "C" __global__ void int64_arith(u64 *out, const u64 *a, const u64 *b) {
    LANES;
    u64 x = a[i], y = b[i];
    s64 sx = (s64)x, sy = (s64)y;
    PUT(x + y);
    PUT(x - y);
    PUT(mul_lo_s64(x, y));
    PUT(0ull - x);
    PUT((u64)llabs(sx));
    PUT((u64)min(sx, sy));
    PUT((u64)max(sx, sy));
    PUT(min(x, y));
    PUT(max(x, y));
    PUT((u64)__mul64hi(sx, sy));
    PUT(__umul64hi(x, y));
    PUT((u64)(sx / (sy | 1)));
    PUT((u64)(sx % (sy | 1)));
    PUT(x / (y | 1));
    PUT(x % (y | 1));
    PUT(mad_lo_s64(x, y, x));
    PUT(mad_hi_u64(x, y, x));
    PUT(sad_s64(x, y, 5));
    PUT(x / 7);
    PUT((u64)(sx % 1000003));
}

PTX2(add_s16, "add.s16", s16, "h", s16, "h", s16, "h")
PTX2(sub_u16, "sub.u16", s16, "h", s16, "h", s16, "h")
PTX2(mul_lo_s16, "mul.lo.s16", s16, "h", s16, "h", s16, "h")
PTX2(mul_hi_s16, "mul.hi.s16", s16, "h", s16, "h", s16, "h")
PTX2(mul_hi_u16, "mul.hi.u16", s16, "h", s16, "h", s16, "h")
PTX2(mul_wide_s16, "mul.wide.s16", s32, "r", s16, "h", s16, "h")
PTX2(mul_wide_u16, "mul.wide.u16", s32, "r", s16, "h", s16, "h")
PTX3(mad_wide_s16, "mad.wide.s16", s32, "r", s16, "h", s16, "h", s32, "r")
PTX3(mad_lo_u16, "mad.lo.u16", s16, "h", s16, "h", s16, "h", s16, "h")
PTX2(min_s16, "min.s16", s16, "h", s16, "h", s16, "h")
PTX2(max_u16, "max.u16", s16, "h", s16, "h", s16, "h")
PTX1(abs_s16, "abs.s16", s16, "h", s16, "h")
PTX1(neg_s16, "neg.s16", s16, "h", s16, "h")
PTX1(not_b16, "not.b16", s16, "h", s16, "h")
PTX2(div_s16, "div.s16", s16, "h", s16, "h", s16, "h")
PTX2(rem_u16, "rem.u16", s16, "h", s16, "h", s16, "h")
PTX2(shl_b16, "shl.b16", s16, "h", s16, "h", u32, "r")
PTX2(shr_s16, "shr.s16", s16, "h", s16, "h", u32, "r")
PTX2(shr_u16, "shr.u16", s16, "h", s16, "h", u32, "r")

extern "C" __global__ void int16_arith(s32 *out, const s16 *a, const s16 *b) {
    LANES;
    s16 x = a[i], y = b[i], odd = (s16)(y | 1);
    PUT(add_s16(x, y));
    PUT(sub_u16(x, y));
    PUT(mul_lo_s16(x, y));
    PUT(mul_hi_s16(x, y));
    PUT(mul_hi_u16(x, y));
    PUT(mul_wide_s16(x, y));
    PUT(mul_wide_u16(x, y));
    PUT(mad_wide_s16(x, y, 100000));
    PUT(mad_lo_u16(x, y, x));
    PUT(min_s16(x, y));
    PUT(max_u16(x, y));
    PUT(abs_s16(x));
    PUT(neg_s16(x));
    PUT(not_b16(x));
    PUT(div_s16(x, odd));
    PUT(rem_u16(x, odd));
    PUT(shl_b16(x, (u32)i));
    PUT(shr_s16(x, (u32)i));
    PUT(shr_u16(x, (u32)i));
    PUT((s8)x + (s8)y);
    PUT((u8)x * (u8)y);
    PUT((s8)(x + y));
    PUT((s8)x / (s8)odd);
    PUT((u8)x % (u8)odd);
}

PTX2(shl_b32, "shl.b32", u32, "r", u32, "r", u32, "r")
PTX2(shr_u32, "shr.u32", u32, "r", u32, "r", u32, "r")
PTX2(shr_s32, "shr.s32", u32, "r", u32, "r", u32, "r")
PTX2(shl_b64, "shl.b64", u64, "l", u64, "l", u32, "r")
PTX2(shr_u64, "shr.u64", u64, "l", u64, "l", u32, "r")
PTX2(shr_s64, "shr.s64", u64, "l", u64, "l", u32, "r")
PTX3(shf_l_wrap, "shf.l.wrap.b32", u32, "r", u32, "r", u32, "r", u32, "r")
PTX3(shf_r_wrap, "shf.r.wrap.b32", u32, "r", u32, "r", u32, "r", u32, "r")
PTX3(shf_l_clamp, "shf.l.clamp.b32", u32, "r", u32, "r", u32, "r", u32, "r")
PTX3(shf_r_clamp, "shf.r.clamp.b32", u32, "r", u32, "r", u32, "r", u32, "r")

// PTX shifts clamp their amount at the width: thread i shifts by i, 0..127.
extern "C" __global__ void int_shift(u64 *out, const u64 *a) {
    LANES;
    u64 x = a[i];
    u32 lo = (u32)x, hi = (u32)(x >> 32), n = (u32)i;
    PUT(shl_b32(lo, n));
    PUT(shr_u32(lo, n));
    PUT(shr_s32(lo, n));
    PUT(shl_b64(x, n));
    PUT(shr_u64(x, n));
    PUT(shr_s64(x, n));
    PUT(shf_l_wrap(lo, hi, n));
    PUT(shf_r_wrap(lo, hi, n));
    PUT(shf_l_clamp(lo, hi, n));
    PUT(shf_r_clamp(lo, hi, n));
    PUT(__funnelshift_l(lo, hi, n));
    PUT(__funnelshift_rc(lo, hi, n));
}

PTX1(cnot_b32, "cnot.b32", u32, "r", u32, "r")
PTX1(cnot_b64, "cnot.b64", u64, "l", u64, "l")
PTX1(bfind_u32, "bfind.u32", u32, "r", u32, "r")
PTX1(bfind_s32, "bfind.s32", u32, "r", u32, "r")
PTX1(bfind_u64, "bfind.u64", u32, "r", u64, "l")
PTX1(bfind_s64, "bfind.s64", u32, "r", u64, "l")
PTX1(bfind_shift, "bfind.shiftamt.u32", u32, "r", u32, "r")
PTX1(bfind_shift64, "bfind.shiftamt.s64", u32, "r", u64, "l")
PTX3(fns_b32, "fns.b32", u32, "r", u32, "r", u32, "r", s32, "r")

extern "C" __global__ void int_count(u32 *out, const u64 *a) {
    LANES;
    u64 x = a[i];
    u32 lo = (u32)x;
    PUT(__popc(lo));
    PUT(__popcll(x));
    PUT(__clz(lo));
    PUT(__clzll(x));
    PUT(__brev(lo));
    PUT((u32)(__brevll(x) >> 32));
    PUT((u32)__brevll(x));
    PUT(__ffs(lo));
    PUT(__ffsll(x));
    PUT(cnot_b32(lo));
    PUT((u32)cnot_b64(x));
    PUT(bfind_u32(lo));
    PUT(bfind_s32(lo));
    PUT(bfind_u64(x));
    PUT(bfind_s64(x));
    PUT(bfind_shift(lo));
    PUT(bfind_shift64(x));
    PUT(fns_b32(lo, (u32)(i & 31), 1));
    PUT(fns_b32(lo, (u32)(i & 31), 3));
    PUT(fns_b32(lo, (u32)(i & 31), -2));
    PUT(fns_b32(lo, (u32)(i & 31), 0));
}

PTX3(bfe_u32, "bfe.u32", u32, "r", u32, "r", u32, "r", u32, "r")
PTX3(bfe_s32, "bfe.s32", u32, "r", u32, "r", u32, "r", u32, "r")
PTX3(bfe_u64, "bfe.u64", u64, "l", u64, "l", u32, "r", u32, "r")
PTX3(bfe_s64, "bfe.s64", u64, "l", u64, "l", u32, "r", u32, "r")
PTX2(bmsk_clamp, "bmsk.clamp.b32", u32, "r", u32, "r", u32, "r")
PTX2(bmsk_wrap, "bmsk.wrap.b32", u32, "r", u32, "r", u32, "r")
PTX2(szext_s_clamp, "szext.clamp.s32", u32, "r", u32, "r", u32, "r")
PTX2(szext_u_wrap, "szext.wrap.u32", u32, "r", u32, "r", u32, "r")

__device__ __forceinline__ u32 bfi_b32(u32 a, u32 b, u32 pos, u32 len) {
    u32 d;
    asm volatile("bfi.b32 %0, %1, %2, %3, %4;" : "=r"(d) : "r"(a), "r"(b), "r"(pos), "r"(len));
    return d;
}
__device__ __forceinline__ u64 bfi_b64(u64 a, u64 b, u32 pos, u32 len) {
    u64 d;
    asm volatile("bfi.b64 %0, %1, %2, %3, %4;" : "=l"(d) : "l"(a), "l"(b), "r"(pos), "r"(len));
    return d;
}

// pos and len run over their whole 8-bit range in `c`.
extern "C" __global__ void int_bitfield(u64 *out, const u64 *a, const u64 *b, const u16 *c) {
    LANES;
    u64 x = a[i], y = b[i];
    u32 pos = c[i] & 255, len = c[i] >> 8;
    PUT(bfe_u32((u32)x, pos, len));
    PUT(bfe_s32((u32)x, pos, len));
    PUT(bfe_u64(x, pos, len));
    PUT(bfe_s64(x, pos, len));
    PUT(bfi_b32((u32)x, (u32)y, pos, len));
    PUT(bfi_b64(x, y, pos, len));
    PUT(bmsk_clamp(pos, len));
    PUT(bmsk_wrap(pos, len));
    PUT(szext_s_clamp((u32)x, len));
    PUT(szext_u_wrap((u32)x, len));
}

#define LOP3(lut)                                                                                  \
    {                                                                                              \
        u32 d;                                                                                     \
        asm volatile("lop3.b32 %0, %1, %2, %3, " #lut ";" : "=r"(d) : "r"(x), "r"(y), "r"(z));     \
        PUT(d);                                                                                    \
    }

extern "C" __global__ void int_logic(u32 *out, const u32 *a, const u32 *b, const u32 *c) {
    LANES;
    u32 x = a[i], y = b[i], z = c[i];
    PUT(x & y);
    PUT(x | y);
    PUT(x ^ y);
    PUT(~x);
    PUT((x & y) | (~x & z));
    PUT(x ^ y ^ z);
    LOP3(0x00)
    LOP3(0x01)
    LOP3(0x80)
    LOP3(0xF0)
    LOP3(0xCC)
    LOP3(0xAA)
    LOP3(0xE8)
    LOP3(0x96)
    LOP3(0xCA)
    LOP3(0x1D)
    LOP3(0x6B)
    LOP3(0xFF)
}

PTX2(and_b64, "and.b64", u64, "l", u64, "l", u64, "l")
PTX2(or_b64, "or.b64", u64, "l", u64, "l", u64, "l")
PTX2(xor_b64, "xor.b64", u64, "l", u64, "l", u64, "l")
PTX1(not_b64, "not.b64", u64, "l", u64, "l")
PTX2(and_b16, "and.b16", u16, "h", u16, "h", u16, "h")
PTX2(or_b16, "or.b16", u16, "h", u16, "h", u16, "h")
PTX2(xor_b16, "xor.b16", u16, "h", u16, "h", u16, "h")

extern "C" __global__ void int_logic_widths(u64 *out, const u64 *a, const u64 *b) {
    LANES;
    u64 x = a[i], y = b[i];
    PUT(and_b64(x, y));
    PUT(or_b64(x, y));
    PUT(xor_b64(x, y));
    PUT(not_b64(x));
    PUT(and_b16((u16)x, (u16)y));
    PUT(or_b16((u16)x, (u16)y));
    PUT(xor_b16((u16)x, (u16)y));
}

PTX3(prmt_any, "prmt.b32", u32, "r", u32, "r", u32, "r", u32, "r")
PTX3(prmt_f4e, "prmt.b32.f4e", u32, "r", u32, "r", u32, "r", u32, "r")
PTX3(prmt_b4e, "prmt.b32.b4e", u32, "r", u32, "r", u32, "r", u32, "r")
PTX3(prmt_rc8, "prmt.b32.rc8", u32, "r", u32, "r", u32, "r", u32, "r")
PTX3(prmt_ecl, "prmt.b32.ecl", u32, "r", u32, "r", u32, "r", u32, "r")
PTX3(prmt_ecr, "prmt.b32.ecr", u32, "r", u32, "r", u32, "r", u32, "r")
PTX3(prmt_rc16, "prmt.b32.rc16", u32, "r", u32, "r", u32, "r", u32, "r")

extern "C" __global__ void int_prmt(u32 *out, const u32 *a, const u32 *b, const u32 *c) {
    LANES;
    u32 x = a[i], y = b[i], s = c[i];
    PUT(__byte_perm(x, y, s));
    PUT(prmt_any(x, y, s));
    PUT(prmt_f4e(x, y, s));
    PUT(prmt_b4e(x, y, s));
    PUT(prmt_rc8(x, y, s));
    PUT(prmt_ecl(x, y, s));
    PUT(prmt_ecr(x, y, s));
    PUT(prmt_rc16(x, y, s));
}

// The intrinsics __dp4a and __dp2a do not compile without optimisation.
PTX3(dp4a_ss, "dp4a.s32.s32", u32, "r", u32, "r", u32, "r", u32, "r")
PTX3(dp4a_uu, "dp4a.u32.u32", u32, "r", u32, "r", u32, "r", u32, "r")
PTX3(dp4a_su, "dp4a.s32.u32", u32, "r", u32, "r", u32, "r", u32, "r")
PTX3(dp4a_us, "dp4a.u32.s32", u32, "r", u32, "r", u32, "r", u32, "r")
PTX3(dp2a_lo_ss, "dp2a.lo.s32.s32", u32, "r", u32, "r", u32, "r", u32, "r")
PTX3(dp2a_lo_uu, "dp2a.lo.u32.u32", u32, "r", u32, "r", u32, "r", u32, "r")
PTX3(dp2a_hi_ss, "dp2a.hi.s32.s32", u32, "r", u32, "r", u32, "r", u32, "r")
PTX3(dp2a_hi_uu, "dp2a.hi.u32.u32", u32, "r", u32, "r", u32, "r", u32, "r")
PTX3(dp2a_lo_us, "dp2a.lo.u32.s32", u32, "r", u32, "r", u32, "r", u32, "r")
PTX3(dp2a_hi_su, "dp2a.hi.s32.u32", u32, "r", u32, "r", u32, "r", u32, "r")

extern "C" __global__ void int_dot(u32 *out, const u32 *a, const u32 *b, const u32 *c) {
    LANES;
    u32 x = a[i], y = b[i], z = c[i];
    PUT(dp4a_ss(x, y, z));
    PUT(dp4a_uu(x, y, z));
    PUT(dp4a_su(x, y, z));
    PUT(dp4a_us(x, y, z));
    PUT(dp2a_lo_ss(x, y, z));
    PUT(dp2a_lo_uu(x, y, z));
    PUT(dp2a_hi_ss(x, y, z));
    PUT(dp2a_hi_uu(x, y, z));
    PUT(dp2a_lo_us(x, y, z));
    PUT(dp2a_hi_su(x, y, z));
}

// 128-bit sum and difference by carry chains, and by the compiler's __int128.
extern "C" __global__ void int128_carry(u64 *out, const u64 *a, const u64 *b) {
    LANES;
    u64 alo = a[i], ahi = a[lanes + i], blo = b[i], bhi = b[lanes + i];
    u64 lo, hi, carry;
    asm volatile(
        "add.cc.u64 %0, %3, %5;\n\t"
        "addc.cc.u64 %1, %4, %6;\n\t"
        "addc.u64 %2, 0, 0;"
        : "=l"(lo), "=l"(hi), "=l"(carry)
        : "l"(alo), "l"(ahi), "l"(blo), "l"(bhi));
    PUT(lo);
    PUT(hi);
    PUT(carry);
    asm volatile(
        "sub.cc.u64 %0, %3, %5;\n\t"
        "subc.cc.u64 %1, %4, %6;\n\t"
        "subc.u64 %2, 0, 0;"
        : "=l"(lo), "=l"(hi), "=l"(carry)
        : "l"(alo), "l"(ahi), "l"(blo), "l"(bhi));
    PUT(lo);
    PUT(hi);
    PUT(carry);
    u32 a0 = (u32)alo, a1 = (u32)(alo >> 32), b0 = (u32)blo, b1 = (u32)(blo >> 32), r0, r1, r2, r3;
    asm volatile(
        "mul.lo.u32 %0, %4, %6;\n\t"
        "mul.hi.u32 %1, %4, %6;\n\t"
        "mad.lo.cc.u32 %1, %4, %7, %1;\n\t"
        "madc.hi.u32 %2, %4, %7, 0;\n\t"
        "mad.lo.cc.u32 %1, %5, %6, %1;\n\t"
        "madc.hi.cc.u32 %2, %5, %6, %2;\n\t"
        "addc.u32 %3, 0, 0;\n\t"
        "mad.lo.cc.u32 %2, %5, %7, %2;\n\t"
        "madc.hi.u32 %3, %5, %7, %3;"
        : "=&r"(r0), "=&r"(r1), "=&r"(r2), "=&r"(r3)
        : "r"(a0), "r"(a1), "r"(b0), "r"(b1));
    PUT(((u64)r1 << 32) | r0);
    PUT(((u64)r3 << 32) | r2);
    u32 s0, s1;
    asm volatile(
        "add.cc.s32 %0, %2, %3;\n\t"
        "addc.s32 %1, %2, %3;"
        : "=&r"(s0), "=&r"(s1)
        : "r"(a0), "r"(b0));
    PUT(((u64)s1 << 32) | s0);
    unsigned __int128 wide_a = ((unsigned __int128)ahi << 64) | alo;
    unsigned __int128 wide_b = ((unsigned __int128)bhi << 64) | blo;
    unsigned __int128 product = wide_a * wide_b, sum = wide_a + wide_b, shifted = wide_a >> (i & 127);
    PUT((u64)product);
    PUT((u64)(product >> 64));
    PUT((u64)sum);
    PUT((u64)(sum >> 64));
    PUT((u64)shifted);
    PUT((u64)(shifted >> 64));
    PUT((u64)(wide_a < wide_b));
}

#define SETP(test, type, con, p, q)                                                   \
    {                                                                                 \
        u32 d;                                                                        \
        asm volatile(                                                                 \
            "{ .reg .pred p;\n\t setp." #test "." #type " p, %1, %2;\n\t"             \
            " selp.u32 %0, 1, 0, p; }"                                                \
            : "=r"(d)                                                                 \
            : con(p), con(q));                                                        \
        bits |= d << at++;                                                            \
    }

// Every comparison, one result bit each, in source order.
extern "C" __global__ void int_compare(u32 *out, const u64 *a, const u64 *b) {
    LANES;
    u64 x = a[i], y = b[i];
    u32 x32 = (u32)x, y32 = (u32)y, bits = 0, at = 0;
    u16 x16 = (u16)x, y16 = (u16)y;
    SETP(eq, s32, "r", x32, y32)
    SETP(ne, s32, "r", x32, y32)
    SETP(lt, s32, "r", x32, y32)
    SETP(le, s32, "r", x32, y32)
    SETP(gt, s32, "r", x32, y32)
    SETP(ge, s32, "r", x32, y32)
    SETP(lo, u32, "r", x32, y32)
    SETP(ls, u32, "r", x32, y32)
    SETP(hi, u32, "r", x32, y32)
    SETP(hs, u32, "r", x32, y32)
    SETP(lt, u32, "r", x32, y32)
    SETP(ge, u32, "r", x32, y32)
    SETP(lt, s64, "l", x, y)
    SETP(le, u64, "l", x, y)
    SETP(gt, s64, "l", x, y)
    SETP(hi, u64, "l", x, y)
    SETP(eq, b64, "l", x, y)
    SETP(ne, b32, "r", x32, y32)
    SETP(lt, s16, "h", x16, y16)
    SETP(hs, u16, "h", x16, y16)
    SETP(eq, b16, "h", x16, y16)
    PUT(bits);
    u32 d, e;
    asm volatile(
        "{ .reg .pred p, q, r, s, t;\n\t"
        " setp.lt.s32 r, %2, 0;\n\t"
        " setp.gt.and.s32 p|q, %2, %3, r;\n\t"
        " selp.u32 %0, 1, 0, p;\n\t"
        " @q add.u32 %0, %0, 2;\n\t"
        " setp.gt.or.s32 p, %2, %3, !r;\n\t"
        " @p add.u32 %0, %0, 4;\n\t"
        " setp.gt.xor.u32 p, %2, %3, r;\n\t"
        " @p add.u32 %0, %0, 8;\n\t"
        " and.pred s, p, r;\n\t"
        " xor.pred t, p, r;\n\t"
        " or.pred s, s, t;\n\t"
        " not.pred t, s;\n\t"
        " @s add.u32 %0, %0, 16;\n\t"
        " @!t add.u32 %0, %0, 32;\n\t"
        " set.lt.u32.s32 %1, %2, %3; }"
        : "=&r"(d), "=&r"(e)
        : "r"(x32), "r"(y32));
    PUT(d);
    PUT(e);
    float f;
    asm volatile("set.ge.f32.u32 %0, %1, %2;" : "=f"(f) : "r"(x32), "r"(y32));
    PUT(__float_as_uint(f));
    asm volatile("slct.s32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(x32), "r"(y32), "r"((u32)(x >> 32)));
    PUT(d);
    asm volatile("slct.u32.f32 %0, %1, %2, %3;" : "=r"(d) : "r"(x32), "r"(y32), "f"(__uint_as_float((u32)y)));
    PUT(d);
}

// The SIMD-in-a-word intrinsics of CUDA: four bytes or two halfwords at a time.
extern "C" __global__ void int_simd(u32 *out, const u32 *a, const u32 *b) {
    LANES;
    u32 x = a[i], y = b[i];
    PUT(__vadd4(x, y));
    PUT(__vsub4(x, y));
    PUT(__vadd2(x, y));
    PUT(__vsub2(x, y));
    PUT(__vavgu4(x, y));
    PUT(__vabsdiffu4(x, y));
    PUT(__vabsdiffs2(x, y));
    PUT(__vmaxs4(x, y));
    PUT(__vminu4(x, y));
    PUT(__vmaxu2(x, y));
    PUT(__vmins2(x, y));
    PUT(__vsadu4(x, y));
    PUT(__vsads2(x, y));
    PUT(__vcmpgtu4(x, y));
    PUT(__vseteq4(x, y));
    PUT(__vaddss2(x, y));
    PUT(__vaddus4(x, y));
    PUT(__vsubss4(x, y));
    PUT(__vnegss2(x));
    PUT(__vabsss4(x));
    PUT(__vimax3_s32((int)x, (int)y, i));
    PUT(__vimin_s32_relu((int)x, (int)y));
    PUT(__viaddmax_s16x2(x, y, 0x00050005u));
}

// The video instructions on whole words and on two or four parts: saturation, a second operation with a third operand.
extern "C" __global__ void int_video(u32 *out, const u32 *a, const u32 *b, const u32 *c) {
    LANES;
    u32 d;
#define VIDEO(text, operands)                                                        \
    asm volatile(text operands ";" : "=r"(d) : "r"(a[i]), "r"(b[i]), "r"(c[i])); \
    PUT(d);
    VIDEO("vadd.s32.u32.s32.sat", " %0, %1, %2")
    VIDEO("vsub.u32.u32.u32.sat", " %0, %1, %2")
    VIDEO("vabsdiff.u32.s32.s32.add", " %0, %1, %2, %3")
    VIDEO("vmin.s32.s32.s32", " %0, %1, %2")
    VIDEO("vmax.u32.u32.u32.min", " %0, %1, %2, %3")
    VIDEO("vshl.u32.u32.u32.wrap", " %0, %1, %2")
    VIDEO("vshr.s32.s32.u32.clamp", " %0, %1, %2")
    VIDEO("vmad.s32.s32.s32.shr7", " %0, %1, %2, %3")
    VIDEO("vset.s32.s32.lt", " %0, %1, %2")
    VIDEO("vset.u32.u32.ge.add", " %0, %1, %2, %3")
    VIDEO("vadd2.s32.s32.s32.sat", " %0, %1, %2, %3")
    VIDEO("vsub4.u32.u32.u32", " %0, %1, %2, %3")
    VIDEO("vavrg4.u32.u32.u32", " %0, %1, %2, %3")
    VIDEO("vset4.u32.u32.gt", " %0, %1, %2, %3")
    VIDEO("vmax4.s32.s32.s32", " %0, %1, %2, %3")
    VIDEO("vabsdiff2.u32.s32.s32.add", " %0, %1, %2, %3")
}
