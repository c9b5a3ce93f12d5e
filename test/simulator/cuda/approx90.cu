// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Approximations that need sm_90: bfloat16.
#include "common.cuh"

PTX1(tanh_bf16, "tanh.approx.bf16", u16, "h", u16, "h")
PTX1(tanh_bf16x2, "tanh.approx.bf16x2", u32, "r", u32, "r")
PTX1(ex2_bf16, "ex2.approx.ftz.bf16", u16, "h", u16, "h")
PTX1(ex2_bf16x2, "ex2.approx.ftz.bf16x2", u32, "r", u32, "r")

extern "C" __global__ void approx_bf16(u16 *out, const u16 *a) {
    LANES;
    PUT(tanh_bf16(a[i]));
    PUT((u16)tanh_bf16x2(a[i]));
    PUT(ex2_bf16(a[i]));
    PUT((u16)(ex2_bf16x2(a[i] << 16) >> 16));
}
