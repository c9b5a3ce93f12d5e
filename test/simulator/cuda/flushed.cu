// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compiled with -ftz=true -prec-div=false -prec-sqrt=false -fmad=false: what --use_fast_math implies for arithmetic.
#include "common.cuh"

extern "C" __global__ void fast_arith(float *out, const float *a, const float *b) {
    LANES;
    float x = a[i], y = b[i];
    PUT(x + y);
    PUT(x - y);
    PUT(x * y);
    PUT(fmaf(x, y, x));
    PUT(x * y + 1.0f);
    PUT(fminf(x, y));
    PUT(x < y ? 1.0f : 0.0f);
}

extern "C" __global__ void fast_divide(float *out, const float *a, const float *b) {
    LANES;
    float x = a[i], y = b[i];
    PUT(x / y);
    PUT(1.0f / y);
    PUT(sqrtf(fabsf(x)));
    PUT(rsqrtf(fabsf(y)));
}
