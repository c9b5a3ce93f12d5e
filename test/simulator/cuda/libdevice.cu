// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// CUDA's single precision math library, as libdevice code.
#include "common.cuh"

extern "C" __global__ void f32_exponentials(float *out, const float *a) {
    LANES;
    float x = a[i];
    PUT(expf(x));
    PUT(exp2f(x));
    PUT(exp10f(x));
    PUT(expm1f(x));
    PUT(sinhf(x));
    PUT(coshf(x));
    PUT(tanhf(x));
    PUT(__expf(x * 0.1f));
}

extern "C" __global__ void f32_logarithms(float *out, const float *a) {
    LANES;
    float x = a[i];
    PUT(logf(x));
    PUT(log2f(x));
    PUT(log10f(x));
    PUT(log1pf(x));
    PUT(cbrtf(x));
    PUT(rcbrtf(x));
    PUT(rsqrtf(x));
    PUT(sqrtf(x));
    PUT(asinhf(x));
    PUT(acoshf(x + 1.0f));
}

// Arguments up to 1e30: beyond 105615 the reduction multiplies by 192 bits of 2/pi (Payne and Hanek).
extern "C" __global__ void f32_trigonometry(float *out, const float *a) {
    LANES;
    float x = a[i], s, c;
    PUT(sinf(x));
    PUT(cosf(x));
    PUT(tanf(x));
    sincosf(x, &s, &c);
    PUT(s);
    PUT(c);
}

extern "C" __global__ void f32_inverse_trigonometry(float *out, const float *a, const float *b) {
    LANES;
    float x = a[i];
    PUT(asinf(x));
    PUT(acosf(x));
    PUT(atanf(x * 10.0f));
    PUT(atan2f(x, b[i]));
    PUT(atanhf(x * 0.99f));
    PUT(sinpif(x * 8.0f));
    PUT(cospif(x * 8.0f));
}

extern "C" __global__ void f32_power(float *out, const float *a, const float *b) {
    LANES;
    float x = a[i], y = b[i];
    PUT(powf(x, y));
    PUT(hypotf(x, y));
    PUT(rhypotf(x, y));
    PUT(norm3df(x, y, 1.0f));
}

extern "C" __global__ void f32_special_functions(float *out, const float *a) {
    LANES;
    float x = a[i];
    PUT(erff(x));
    PUT(erfcf(x));
    PUT(erfcxf(fabsf(x)));
    PUT(normcdff(x));
    PUT(tgammaf(fabsf(x) + 0.5f));
    PUT(lgammaf(fabsf(x) + 3.0f));
    PUT(erfinvf(x * 0.19f));
}

// These are exact.
extern "C" __global__ void f32_exact(float *out, const float *a, const float *b) {
    LANES;
    float x = a[i], y = b[i], whole;
    int e, q;
    PUT(fmodf(x, y));
    PUT(remainderf(x, y));
    PUT(remquof(x, y, &q));
    PUT((float)(q & 7));
    PUT(modff(x, &whole));
    PUT(whole);
    PUT(frexpf(x, &e));
    PUT((float)e);
    PUT(ldexpf(x, (int)y & 15));
    PUT(floorf(x));
    PUT(roundf(x));
    PUT(nearbyintf(x));
    PUT((float)lrintf(x));
    PUT((float)lroundf(x));
    PUT(nextafterf(x, y));
    PUT(fdimf(x, y));
    PUT(logbf(x));
    PUT((float)ilogbf(x));
    PUT(fmaf(x, y, -x));
}
