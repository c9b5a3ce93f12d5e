// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shared memory and barriers.
#include "common.cuh"

extern "C" __global__ void block_reduce(s32 *out, const s32 *a, int n) {
    __shared__ s32 box[128];
    int i = threadIdx.x, at = blockIdx.x * 256 + i;
    box[i] = (at < n ? a[at] : 0) + (at + 128 < n ? a[at + 128] : 0);
    __syncthreads();
    for (int step = 64; step > 32; step >>= 1) {
        if (i < step) box[i] += box[i + step];
        __syncthreads();
    }
    if (i < 32) {
        s32 x = box[i] + box[i + 32];
        for (int step = 16; step; step >>= 1) x += __shfl_down_sync(0xffffffffu, x, step);
        if (i == 0) out[blockIdx.x] = x;
    }
}

// Hillis-Steele inclusive scan with two buffers.
extern "C" __global__ void block_scan(s32 *out, const s32 *a) {
    __shared__ s32 box[2][128];
    int i = threadIdx.x, from = 0;
    box[0][i] = a[i];
    __syncthreads();
    for (int step = 1; step < 128; step <<= 1) {
        box[from ^ 1][i] = box[from][i] + (i >= step ? box[from][i - step] : 0);
        from ^= 1;
        __syncthreads();
    }
    out[i] = box[from][i];
}

// Blelloch exclusive scan in place, over dynamic shared memory.
extern "C" __global__ void tree_scan(s32 *out, const s32 *a, int n) {
    extern __shared__ s32 tree[];
    int i = threadIdx.x;
    tree[2 * i] = a[2 * i];
    tree[2 * i + 1] = a[2 * i + 1];
    int offset = 1;
    for (int d = n >> 1; d > 0; d >>= 1) {
        __syncthreads();
        if (i < d) tree[offset * (2 * i + 2) - 1] += tree[offset * (2 * i + 1) - 1];
        offset *= 2;
    }
    if (i == 0) tree[n - 1] = 0;
    for (int d = 1; d < n; d *= 2) {
        offset >>= 1;
        __syncthreads();
        if (i < d) {
            int left = offset * (2 * i + 1) - 1, right = offset * (2 * i + 2) - 1;
            s32 kept = tree[left];
            tree[left] = tree[right];
            tree[right] += kept;
        }
    }
    __syncthreads();
    out[2 * i] = tree[2 * i];
    out[2 * i + 1] = tree[2 * i + 1];
}

template <int PAD>
__device__ void transpose(float *out, const float *in, int width, int height) {
    __shared__ float tile[32][32 + PAD];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += 8)
        if (x < width && y + k < height) tile[threadIdx.y + k][threadIdx.x] = in[(y + k) * width + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;
    y = blockIdx.x * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += 8)
        if (x < height && y + k < width) out[(y + k) * height + x] = tile[threadIdx.x][threadIdx.y + k];
}

// A column of an unpadded tile is in one bank; padding by a word spreads it over all of them.
extern "C" __global__ void transpose_conflicts(float *out, const float *in, int width, int height) {
    transpose<0>(out, in, width, height);
}
extern "C" __global__ void transpose_padded(float *out, const float *in, int width, int height) {
    transpose<1>(out, in, width, height);
}

// C[m][n] = A[m][k] B[k][n], 16x16 tiles; any size, the edges are zero.
extern "C" __global__ void tiled_gemm(float *c, const float *a, const float *b, int m, int n, int k) {
    __shared__ float at[16][17], bt[16][16];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
    float sum = 0.0f;
    for (int k0 = 0; k0 < k; k0 += 16) {
        at[ty][tx] = row < m && k0 + tx < k ? a[row * k + k0 + tx] : 0.0f;
        bt[ty][tx] = k0 + ty < k && col < n ? b[(k0 + ty) * n + col] : 0.0f;
        __syncthreads();
#pragma unroll
        for (int kk = 0; kk < 16; ++kk) sum += at[ty][kk] * bt[kk][tx];
        __syncthreads();
    }
    if (row < m && col < n) c[row * n + col] = sum;
}

// Two producer warps fill a buffer, two consumer warps drain it; barrier 1 says full, barrier 2 says empty.
extern "C" __global__ void named_barriers(s32 *out, const s32 *a, int rounds) {
    __shared__ s32 box[64];
    int i = threadIdx.x;
    if (i < 64) {
        for (int r = 0; r < rounds; ++r) {
            if (r) asm volatile("bar.sync 2, 128;" ::: "memory");
            box[i] = a[r * 64 + i] * 2;
            asm volatile("bar.arrive 1, 128;" ::: "memory");
        }
    } else {
        s32 sum = 0;
        for (int r = 0; r < rounds; ++r) {
            asm volatile("bar.sync 1, 128;" ::: "memory");
            sum += box[(i + r) & 63];
            if (r + 1 < rounds) asm volatile("bar.arrive 2, 128;" ::: "memory");
        }
        out[i - 64] = sum;
    }
}

extern "C" __global__ void barrier_reductions(u32 *out, const u32 *a) {
    LANES;
    u32 x = a[i];
    PUT(__syncthreads_count(x & 1));
    PUT(__syncthreads_and(x < 100));
    PUT(__syncthreads_or(x == 99));
    u32 d;
    asm volatile(
        "{ .reg .pred p;\n\t setp.lt.u32 p, %1, 50;\n\t barrier.red.popc.aligned.u32 %0, 3, 64, p; }"
        : "=r"(d)
        : "r"(x)
        : "memory");
    PUT(d);
    asm volatile("barrier.sync 4;" ::: "memory");
    asm volatile("barrier.sync.aligned 5, 64;" ::: "memory");
    asm volatile("barrier.cta.sync.aligned 6;" ::: "memory");
    asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
}

// Warps that took different branches meet at the same barrier from different program counters.
extern "C" __global__ void barrier_in_branches(s32 *out, const s32 *a) {
    __shared__ s32 box[64];
    int i = threadIdx.x;
    if (i < 32) {
        box[i] = a[i];
        asm volatile("bar.sync 0;" ::: "memory");
        out[i] = box[i + 32];
    } else {
        box[i] = -a[i];
        asm volatile("bar.sync 0;" ::: "memory");
        out[i] = box[i - 32];
    }
}

// One tile of a 2D stencil with its halo.
extern "C" __global__ void stencil(float *out, const float *in, int width) {
    __shared__ float tile[10][10];
    int tx = threadIdx.x, ty = threadIdx.y, thread = ty * 8 + tx;
    for (int k = thread; k < 100; k += 64) {
        int y = blockIdx.y * 8 + k / 10 - 1, x = blockIdx.x * 8 + k % 10 - 1;
        bool inside = x >= 0 && y >= 0 && x < width && y < width;
        tile[k / 10][k % 10] = inside ? in[y * width + x] : 0.0f;
    }
    __syncthreads();
    float sum = 4.0f * tile[ty + 1][tx + 1] - tile[ty][tx + 1] - tile[ty + 2][tx + 1] - tile[ty + 1][tx] -
                tile[ty + 1][tx + 2];
    out[(blockIdx.y * 8 + ty) * width + blockIdx.x * 8 + tx] = sum;
}

// Static, dynamic and differently typed views of shared memory in one kernel.
extern "C" __global__ void dynamic_shared(float *out, const float *a, int split) {
    extern __shared__ __align__(16) unsigned char raw[];
    __shared__ float fixed[32];
    LANES;
    float *left = (float *)raw;
    double *right = (double *)(raw + split * sizeof(float));
    left[i] = a[i];
    right[i] = 2.0 * a[i];
    fixed[i] = -a[i];
    __syncthreads();
    int j = (i + 1) & 31;
    PUT(left[j] + (float)right[j] + fixed[(j + 1) & 31]);
    u32 size;
    asm volatile("mov.u32 %0, %%dynamic_smem_size;" : "=r"(size));
    PUT((float)size);
}

// Odd-even transposition sort of 64 numbers; neighbours exchange through shared memory.
extern "C" __global__ void odd_even_sort(s32 *data) {
    __shared__ s32 box[64];
    int i = threadIdx.x;
    box[2 * i] = data[2 * i];
    box[2 * i + 1] = data[2 * i + 1];
    for (int phase = 0; phase < 64; ++phase) {
        __syncthreads();
        int at = 2 * i + (phase & 1);
        if (at + 1 < 64 && box[at] > box[at + 1]) {
            s32 kept = box[at];
            box[at] = box[at + 1];
            box[at + 1] = kept;
        }
    }
    __syncthreads();
    data[2 * i] = box[2 * i];
    data[2 * i + 1] = box[2 * i + 1];
}
