// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// 8-bit floating point through CUDA's header: instructions on sm_90, bit tricks before it.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "common.cuh"

extern "C" __global__ void fp8_from_float(u32 *out, const float *a, const double *b) {
    LANES;
    PUT(__nv_cvt_float_to_fp8(a[i], __NV_SATFINITE, __NV_E4M3));
    PUT(__nv_cvt_float_to_fp8(a[i], __NV_SATFINITE, __NV_E5M2));
    PUT(__nv_cvt_float_to_fp8(a[i], __NV_NOSAT, __NV_E4M3));
    PUT(__nv_cvt_float_to_fp8(a[i], __NV_NOSAT, __NV_E5M2));
    PUT(__nv_cvt_double_to_fp8(b[i], __NV_SATFINITE, __NV_E4M3));
    PUT(__nv_cvt_float2_to_fp8x2(make_float2(a[i], -a[i]), __NV_SATFINITE, __NV_E4M3));
    PUT(__nv_cvt_halfraw_to_fp8(__half_raw(__float2half_rn(a[i])), __NV_SATFINITE, __NV_E5M2));
    PUT(__nv_cvt_bfloat16raw_to_fp8(__nv_bfloat16_raw(__float2bfloat16_rn(a[i])), __NV_SATFINITE, __NV_E4M3));
}

// All 256 codes of both formats.
extern "C" __global__ void fp8_to_float(float *out, const u8 *a) {
    LANES;
    __nv_fp8_e4m3 x;
    __nv_fp8_e5m2 y;
    x.__x = a[i];
    y.__x = a[i];
    PUT((float)x);
    PUT((float)y);
    __half2 pair = __half2(__nv_cvt_fp8x2_to_halfraw2((u16)(a[i] << 8 | 0x38), __NV_E4M3));
    PUT(__low2float(pair));
    PUT(__high2float(pair));
}
