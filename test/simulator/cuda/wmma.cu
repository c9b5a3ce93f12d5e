// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// CUDA's warp matrix functions: wmma.load, wmma.mma, wmma.store in their shapes, types and layouts.
#include <mma.h>

#include "common.cuh"

using namespace nvcuda;

#define WMMA_KERNEL(name, M, N, K, IN, OUT, LA, LB, LC, acc_layout)                                    \
    extern "C" __global__ void name(OUT *d, const IN *a, const IN *b, const OUT *c, int lda, int ldb, int ldc) { \
        wmma::fragment<wmma::matrix_a, M, N, K, IN, wmma::LA> fa;                                      \
        wmma::fragment<wmma::matrix_b, M, N, K, IN, wmma::LB> fb;                                      \
        wmma::fragment<wmma::accumulator, M, N, K, OUT> fc;                                            \
        wmma::load_matrix_sync(fa, a, lda);                                                            \
        wmma::load_matrix_sync(fb, b, ldb);                                                            \
        wmma::load_matrix_sync(fc, c, ldc, wmma::acc_layout);                                          \
        wmma::mma_sync(fc, fa, fb, fc);                                                                \
        wmma::store_matrix_sync(d, fc, ldc, wmma::acc_layout);                                         \
    }
typedef signed char i8;
WMMA_KERNEL(wmma_16_16_16_f32, 16, 16, 16, __half, float, row_major, col_major, f32, mem_row_major)
WMMA_KERNEL(wmma_16_16_16_f16, 16, 16, 16, __half, __half, col_major, row_major, f16, mem_col_major)
WMMA_KERNEL(wmma_32_8_16_f32, 32, 8, 16, __half, float, row_major, row_major, f32, mem_row_major)
WMMA_KERNEL(wmma_8_32_16_f32, 8, 32, 16, __half, float, col_major, col_major, f32, mem_col_major)
WMMA_KERNEL(wmma_16_16_16_bf16, 16, 16, 16, __nv_bfloat16, float, row_major, col_major, f32, mem_row_major)
WMMA_KERNEL(wmma_16_16_16_s8, 16, 16, 16, i8, int, row_major, col_major, s32, mem_row_major)
WMMA_KERNEL(wmma_32_8_16_u8, 32, 8, 16, u8, int, col_major, row_major, s32, mem_row_major)
WMMA_KERNEL(wmma_8_8_4_f64, 8, 8, 4, double, double, row_major, col_major, f64, mem_row_major)

extern "C" __global__ void wmma_16_16_8_tf32(float *d, const float *a, const float *b, const float *c, int lda, int ldb,
                                             int ldc) {
    wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 8, float> fc;
    wmma::load_matrix_sync(fa, a, lda);
    wmma::load_matrix_sync(fb, b, ldb);
    for (int k = 0; k < fa.num_elements; ++k) fa.x[k] = wmma::__float_to_tf32(fa.x[k]);
    for (int k = 0; k < fb.num_elements; ++k) fb.x[k] = wmma::__float_to_tf32(fb.x[k]);
    wmma::load_matrix_sync(fc, c, ldc, wmma::mem_row_major);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(d, fc, ldc, wmma::mem_row_major);
}

// Sub-byte types; their leading dimensions count elements.
#define WMMA_SUB_BYTE(name, K, IN, call)                                                                       \
    extern "C" __global__ void name(int *d, const void *a, const void *b, const int *c, int lda, int ldb, int ldc) { \
        wmma::fragment<wmma::matrix_a, 8, 8, K, wmma::experimental::precision::IN, wmma::row_major> fa;        \
        wmma::fragment<wmma::matrix_b, 8, 8, K, wmma::experimental::precision::IN, wmma::col_major> fb;        \
        wmma::fragment<wmma::accumulator, 8, 8, K, int> fc;                                                    \
        wmma::load_matrix_sync(fa, (const WORD *)a, lda);                                                      \
        wmma::load_matrix_sync(fb, (const WORD *)b, ldb);                                                      \
        wmma::load_matrix_sync(fc, c, ldc, wmma::mem_row_major);                                               \
        call;                                                                                                  \
        wmma::store_matrix_sync(d, fc, ldc, wmma::mem_row_major);                                              \
    }
#define WORD int
WMMA_SUB_BYTE(wmma_8_8_32_s4, 32, s4, wmma::mma_sync(fc, fa, fb, fc))
#undef WORD
#define WORD unsigned
WMMA_SUB_BYTE(wmma_8_8_32_u4, 32, u4, wmma::mma_sync(fc, fa, fb, fc))
WMMA_SUB_BYTE(wmma_8_8_128_b1, 128, b1, wmma::bmma_sync(fc, fa, fb, fc, wmma::experimental::bmmaBitOpAND, wmma::experimental::bmmaAccumulateOpPOPC))

// alpha A B + beta C over 2x2 tiles of 16x16 per block, K in steps of 16, staged through shared memory.
extern "C" __global__ void wmma_gemm(float *c, const __half *a, const __half *b, int k, float alpha, float beta) {
    __shared__ __align__(32) __half at[32 * 24], bt[16 * 40];
    int i = threadIdx.x, warp = i >> 5, tile_m = warp >> 1, tile_n = warp & 1;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum, old;
    wmma::fill_fragment(sum, 0.0f);
    for (int k0 = 0; k0 < k; k0 += 16) {
        for (int e = i; e < 512; e += 128) {
            at[(e >> 4) * 24 + (e & 15)] = a[(e >> 4) * k + k0 + (e & 15)];
            bt[(e >> 5) * 40 + (e & 31)] = b[(k0 + (e >> 5)) * 32 + (e & 31)];
        }
        __syncthreads();
        wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> fb;
        wmma::load_matrix_sync(fa, at + tile_m * 16 * 24, 24);
        wmma::load_matrix_sync(fb, bt + tile_n * 16, 40);
        wmma::mma_sync(sum, fa, fb, sum);
        __syncthreads();
    }
    float *at_c = c + tile_m * 16 * 32 + tile_n * 16;
    wmma::load_matrix_sync(old, at_c, 32, wmma::mem_row_major);
    for (int e = 0; e < sum.num_elements; ++e) sum.x[e] = alpha * sum.x[e] + beta * old.x[e];
    wmma::store_matrix_sync(at_c, sum, 32, wmma::mem_row_major);
}
