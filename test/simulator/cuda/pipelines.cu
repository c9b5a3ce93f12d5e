// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Asynchronous copies from global to shared memory.
#include "common.cuh"

__device__ __forceinline__ u32 shared_address(const void *p) { return (u32)__cvta_generic_to_shared(p); }
#define COMMIT asm volatile("cp.async.commit_group;" ::: "memory")
#define WAIT_GROUP(n) asm volatile("cp.async.wait_group " #n ";" ::: "memory")
#define WAIT_ALL asm volatile("cp.async.wait_all;" ::: "memory")
#define COPY16(to, from) \
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from) : "memory")

// 4, 8 and 16 bytes; partial sources are filled with zeros; an ignored source gives zeros.
extern "C" __global__ void async_copies(u32 *out, const u32 *in) {
    const int i = threadIdx.x;
    __shared__ __align__(16) u32 box[7][32 * 4];
    for (int k = i; k < 7 * 128; k += 32) box[k / 128][k % 128] = 0x55555555u;
    __syncwarp();
    const u32 *from = in + i * 4;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(&box[0][i * 4])), "l"(from) : "memory");
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(shared_address(&box[1][i * 4])), "l"(from) : "memory");
    asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], 16;" ::"r"(shared_address(&box[2][i * 4])), "l"(from)
                 : "memory");
    COMMIT;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(&box[3][i * 4])), "l"(from),
                 "r"(i % 17)
                 : "memory");
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(shared_address(&box[4][i * 4])), "l"(from),
                 "r"(i & 1 ? 8 : 0)
                 : "memory");
    asm volatile(
        "{ .reg .pred p;\n\t setp.ne.u32 p, %2, 0;\n\t cp.async.cg.shared.global [%0], [%1], 16, p; }" ::"r"(
            shared_address(&box[5][i * 4])),
        "l"(from), "r"(i & 1)
        : "memory");
    COMMIT;
    WAIT_GROUP(1);
    __syncwarp();
    for (int k = i; k < 3 * 128; k += 32) out[k] = box[k / 128][k % 128];
    WAIT_ALL;
    __syncwarp();
    for (int k = 3 * 128 + i; k < 7 * 128; k += 32) out[k] = box[k / 128][k % 128];
}

// Double buffering: the next tile is copied while this one is summed.
extern "C" __global__ void double_buffer(s32 *out, const s32 *in, int tiles) {
    __shared__ __align__(16) s32 box[2][256];
    const int i = threadIdx.x;
    COPY16(&box[0][i * 4], in + i * 4);
    COMMIT;
    s32 sum = 0;
    for (int t = 0; t < tiles; ++t) {
        if (t + 1 < tiles) COPY16(&box[(t + 1) & 1][i * 4], in + (t + 1) * 256 + i * 4);
        COMMIT;
        WAIT_GROUP(1);
        __syncthreads();
        for (int k = 0; k < 4; ++k) sum += box[t & 1][(i + k * 64 + t) & 255] * (k + 1);
        __syncthreads();
    }
    out[i] = sum;
}

// Four stages in flight over a ring, edges zero-filled by the source size.
extern "C" __global__ void four_stages(s32 *out, const s32 *in, int count, int tiles) {
    extern __shared__ __align__(16) s32 ring[];
    const int i = threadIdx.x;
    auto fetch = [&](int t) {
        if (t < tiles) {
            int at = t * 128 + i * 4, left = (count - at) * 4;
            u32 bytes = left <= 0 ? 0u : left >= 16 ? 16u : (u32)left;
            asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(
                             shared_address(&ring[(t & 3) * 128 + i * 4])),
                         "l"(in + (bytes ? at : 0)), "r"(bytes)
                         : "memory");
        }
        COMMIT;
    };
    for (int t = 0; t < 3; ++t) fetch(t);
    s32 sum = 0;
    for (int t = 0; t < tiles; ++t) {
        WAIT_GROUP(2);
        __syncthreads();
        fetch(t + 3);
        for (int k = 0; k < 4; ++k) sum = sum * 3 + ring[(t & 3) * 128 + ((i * 5 + k * 32) & 127)];
    }
    out[i] = sum;
}

// The Ampere GEMM: BM x BN x BK tiles, three stages of cp.async, ldmatrix, mma.sync, an epilogue in f16.
template <int M, int N, int K, int WARPS_M, int WARPS_N>
__device__ __forceinline__ void staged_gemm(u16 *c, const u16 *a, const u16 *b, int depth) {
    constexpr int STAGES = 3, THREADS = WARPS_M * WARPS_N * 32, TM = M / WARPS_M / 16, TN = N / WARPS_N / 8;
    __shared__ __align__(128) u16 at[STAGES][M * K], bt[STAGES][K * N];
    const int i = threadIdx.x, lane = i & 31, warp = i >> 5, wm = warp / WARPS_N, wn = warp % WARPS_N;
    auto fetch = [&](int step) {
        if (step * K < depth) {
            for (int e = i; e < M * K / 8; e += THREADS) {
                int row = e / (K / 8), chunk = e % (K / 8);
                COPY16(&at[step % STAGES][row * K + (chunk ^ (row & (K / 8 - 1))) * 8], a + row * depth + step * K + chunk * 8);
            }
            for (int e = i; e < K * N / 8; e += THREADS) {
                int row = e / (N / 8), chunk = e % (N / 8);
                COPY16(&bt[step % STAGES][row * N + (chunk ^ (row & 7)) * 8], b + (step * K + row) * N + chunk * 8);
            }
        }
        COMMIT;
    };
    float sum[TM][TN][4] = {};
    for (int s = 0; s < STAGES - 1; ++s) fetch(s);
    for (int step = 0; step * K < depth; ++step) {
        WAIT_GROUP(1);
        __syncthreads();
        fetch(step + STAGES - 1);
        const u16 *ta = at[step % STAGES], *tb = bt[step % STAGES];
        for (int k0 = 0; k0 < K; k0 += 16) {
            u32 fa[TM][4], fb[TN][2];
            for (int m = 0; m < TM; ++m) {
                int row = (wm * TM + m) * 16 + (lane & 15), chunk = k0 / 8 + (lane >> 4);
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                             : "=r"(fa[m][0]), "=r"(fa[m][1]), "=r"(fa[m][2]), "=r"(fa[m][3])
                             : "r"(shared_address(ta + row * K + (chunk ^ (row & (K / 8 - 1))) * 8))
                             : "memory");
            }
            for (int n = 0; n < TN; ++n) {
                int row = k0 + (lane & 15), chunk = wn * TN + n;
                asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                             : "=r"(fb[n][0]), "=r"(fb[n][1])
                             : "r"(shared_address(tb + row * N + (chunk ^ (row & 7)) * 8))
                             : "memory");
            }
            for (int m = 0; m < TM; ++m)
                for (int n = 0; n < TN; ++n)
                    asm volatile(
                        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
                        "{%8, %9}, {%0, %1, %2, %3};"
                        : "+f"(sum[m][n][0]), "+f"(sum[m][n][1]), "+f"(sum[m][n][2]), "+f"(sum[m][n][3])
                        : "r"(fa[m][0]), "r"(fa[m][1]), "r"(fa[m][2]), "r"(fa[m][3]), "r"(fb[n][0]), "r"(fb[n][1]));
        }
    }
    WAIT_ALL;
    for (int m = 0; m < TM; ++m)
        for (int n = 0; n < TN; ++n)
            for (int half = 0; half < 2; ++half) {
                int row = (wm * TM + m) * 16 + (lane >> 2) + 8 * half, column = (wn * TN + n) * 8 + 2 * (lane & 3);
                u32 pair;
                asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(sum[m][n][2 * half + 1]), "f"(sum[m][n][2 * half]));
                *(u32 *)&c[row * N + column] = pair;
            }
}

extern "C" __global__ void staged_gemm_32x64(u16 *c, const u16 *a, const u16 *b, int depth) {
    staged_gemm<32, 64, 32, 2, 1>(c, a, b, depth);
}
extern "C" __global__ void staged_gemm_128x128(u16 *c, const u16 *a, const u16 *b, int depth) {
    staged_gemm<128, 128, 32, 2, 2>(c, a, b, depth);
}
