// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// 4- and 6-bit floating point and the power-of-two scale format, of sm_100 and sm_120.
#include "common.cuh"

#define CVT_PAIR(text)                                                          \
    {                                                                           \
        u16 d;                                                                  \
        asm volatile("cvt." text " %0, %1, %2;" : "=h"(d) : "f"(x), "f"(y)); \
        PUT(d);                                                                 \
    }
#define CVT_TO16X2(text, value)                                       \
    {                                                                 \
        u32 d;                                                        \
        asm volatile("cvt." text " %0, %1;" : "=r"(d) : "h"(value)); \
        PUT(d);                                                       \
    }

extern "C" __global__ void narrow_from_float(u32 *out, const float *a, const float *b) {
    LANES;
    float x = a[i], y = b[i];
    u32 d;
    asm volatile("{ .reg .b8 t;\n\t cvt.rn.satfinite.e2m1x2.f32 t, %1, %2;\n\t cvt.u32.u8 %0, t; }"
                 : "=r"(d)
                 : "f"(x), "f"(y));
    PUT(d);
    CVT_PAIR("rn.satfinite.e2m3x2.f32")
    CVT_PAIR("rn.satfinite.e3m2x2.f32")
    CVT_PAIR("rn.satfinite.relu.e3m2x2.f32")
    CVT_PAIR("rz.ue8m0x2.f32")
    CVT_PAIR("rp.satfinite.ue8m0x2.f32")
}

extern "C" __global__ void narrow_to_half(u32 *out, const u16 *codes) {
    LANES;
    u16 code = codes[i];
    u32 d;
    asm volatile("{ .reg .b8 t;\n\t cvt.u8.u16 t, %1;\n\t cvt.rn.f16x2.e2m1x2 %0, t; }" : "=r"(d) : "h"(code));
    PUT(d);
    CVT_TO16X2("rn.f16x2.e2m3x2", (u16)(code & 0x3f3f))
    CVT_TO16X2("rn.f16x2.e3m2x2", (u16)(code & 0x3f3f))
    CVT_TO16X2("rn.bf16x2.ue8m0x2", code)
}
