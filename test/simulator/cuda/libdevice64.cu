// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// CUDA's double precision math library, as libdevice code.
#include "common.cuh"

extern "C" __global__ void f64_exponentials(double *out, const double *a) {
    LANES;
    double x = a[i];
    PUT(exp(x));
    PUT(exp2(x));
    PUT(expm1(x));
    PUT(sinh(x));
    PUT(cosh(x));
    PUT(tanh(x));
}

extern "C" __global__ void f64_logarithms(double *out, const double *a) {
    LANES;
    double x = a[i];
    PUT(log(x));
    PUT(log2(x));
    PUT(log10(x));
    PUT(log1p(x));
    PUT(cbrt(x));
    PUT(rsqrt(x));
}

extern "C" __global__ void f64_trigonometry(double *out, const double *a) {
    LANES;
    double x = a[i];
    PUT(sin(x));
    PUT(cos(x));
    PUT(tan(x));
}

extern "C" __global__ void f64_inverse_trigonometry(double *out, const double *a, const double *b) {
    LANES;
    double x = a[i];
    PUT(asin(x));
    PUT(acos(x));
    PUT(atan(x * 10.0));
    PUT(atan2(x, b[i]));
}

extern "C" __global__ void f64_power(double *out, const double *a, const double *b) {
    LANES;
    PUT(pow(a[i], b[i]));
    PUT(hypot(a[i], b[i]));
    PUT(fmod(a[i], b[i]));
    PUT(remainder(a[i], b[i]));
}

extern "C" __global__ void f64_special_functions(double *out, const double *a) {
    LANES;
    double x = a[i];
    PUT(erf(x));
    PUT(erfc(x));
    PUT(tgamma(fabs(x) + 0.5));
    PUT(lgamma(fabs(x) + 3.0));
}
