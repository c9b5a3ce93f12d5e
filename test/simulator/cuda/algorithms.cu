// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whole algorithms, the kind of code that people write: many instructions in one kernel.
#include "common.cuh"

__constant__ u32 sha256_rounds[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
    0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
    0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
    0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
    0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
    0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

__device__ __forceinline__ u32 rotate(u32 x, int n) { return __funnelshift_r(x, x, n); }

// SHA-256 of 32 messages of 55 bytes or fewer, one per lane.
extern "C" __global__ void sha256(u8 *digest, const u8 *messages, const u32 *lengths) {
    int i = threadIdx.x;
    u32 w[64];
    u32 length = lengths[i];
    for (int k = 0; k < 16; ++k) {
        u32 word = 0;
        for (int b = 0; b < 4; ++b) {
            u32 at = (u32)(k * 4 + b);
            u32 byte = at < length ? messages[i * 55 + at] : at == length ? 0x80u : 0u;
            word = word << 8 | byte;
        }
        w[k] = k == 15 ? length * 8 : word;
    }
    for (int k = 16; k < 64; ++k) {
        u32 s0 = rotate(w[k - 15], 7) ^ rotate(w[k - 15], 18) ^ w[k - 15] >> 3;
        u32 s1 = rotate(w[k - 2], 17) ^ rotate(w[k - 2], 19) ^ w[k - 2] >> 10;
        w[k] = w[k - 16] + s0 + w[k - 7] + s1;
    }
    u32 h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}, v[8];
    for (int k = 0; k < 8; ++k) v[k] = h[k];
    for (int k = 0; k < 64; ++k) {
        u32 s1 = rotate(v[4], 6) ^ rotate(v[4], 11) ^ rotate(v[4], 25);
        u32 t1 = v[7] + s1 + ((v[4] & v[5]) ^ (~v[4] & v[6])) + sha256_rounds[k] + w[k];
        u32 s0 = rotate(v[0], 2) ^ rotate(v[0], 13) ^ rotate(v[0], 22);
        u32 t2 = s0 + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
        for (int j = 7; j > 0; --j) v[j] = v[j - 1];
        v[4] += t1;
        v[0] = t1 + t2;
    }
    for (int k = 0; k < 8; ++k) {
        u32 swapped = __byte_perm(h[k] + v[k], 0, 0x0123);
        memcpy(digest + i * 32 + k * 4, &swapped, 4);
    }
}

// Philox4x32-10, the counter-based generator.
extern "C" __global__ void philox(uint4 *out, u32 key0, u32 key1) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    u32 c0 = i, c1 = 0, c2 = 0, c3 = 0;
    for (int round = 0; round < 10; ++round) {
        u64 p0 = (u64)c0 * 0xD2511F53u, p1 = (u64)c2 * 0xCD9E8D57u;
        c0 = (u32)(p1 >> 32) ^ c1 ^ key0;
        c1 = (u32)p1;
        c2 = (u32)(p0 >> 32) ^ c3 ^ key1;
        c3 = (u32)p0;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    out[i] = make_uint4(c0, c1, c2, c3);
}

// Radix-2 FFT of 128 points in shared memory.
extern "C" __global__ void fft(float2 *out, const float2 *in) {
    __shared__ float2 x[128];
    int i = threadIdx.x;
    for (int k = i; k < 128; k += 64) x[__brev((u32)k) >> 25] = in[k];
    __syncthreads();
    for (int half = 1; half < 128; half *= 2) {
        int j = i & (half - 1), a = (i - j) * 2 + j, b = a + half;
        float s, c;
        sincospif(-(float)j / (float)half, &s, &c);
        float2 p = x[a], q = x[b];
        float2 t = make_float2(q.x * c - q.y * s, q.x * s + q.y * c);
        x[a] = make_float2(p.x + t.x, p.y + t.y);
        x[b] = make_float2(p.x - t.x, p.y - t.y);
        __syncthreads();
    }
    out[i] = x[i];
    out[i + 64] = x[i + 64];
}

__device__ __forceinline__ float warp_sum(float x) {
    for (int step = 16; step; step >>= 1) x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
}
__device__ __forceinline__ float warp_max(float x) {
    for (int step = 16; step; step >>= 1) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, step));
    return x;
}

// Softmax and layer normalisation of rows of `width`, a warp per row.
extern "C" __global__ void softmax(float *out, const float *in, int width) {
    int lane = threadIdx.x & 31, row = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5);
    const float *x = in + row * width;
    float top = -INFINITY, sum = 0.0f;
    for (int k = lane; k < width; k += 32) top = fmaxf(top, x[k]);
    top = warp_max(top);
    for (int k = lane; k < width; k += 32) sum += __expf(x[k] - top);
    sum = warp_sum(sum);
    for (int k = lane; k < width; k += 32) out[row * width + k] = __expf(x[k] - top) / sum;
}
extern "C" __global__ void layer_norm(float *out, const float *in, const float *gain, int width) {
    int lane = threadIdx.x & 31, row = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5);
    const float *x = in + row * width;
    float sum = 0.0f, square = 0.0f;
    for (int k = lane; k < width; k += 32) sum += x[k];
    float mean = warp_sum(sum) / width;
    for (int k = lane; k < width; k += 32) square += (x[k] - mean) * (x[k] - mean);
    float scale = rsqrtf(warp_sum(square) / width + 1e-5f);
    for (int k = lane; k < width; k += 32) out[row * width + k] = (x[k] - mean) * scale * gain[k];
}

// Escape times: lanes leave the loop at different steps.
extern "C" __global__ void mandelbrot(u32 *out, float step, int limit) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    float cr = -2.0f + x * step, ci = -1.0f + y * step, zr = 0.0f, zi = 0.0f;
    int n = 0;
    while (n < limit && __fadd_rn(__fmul_rn(zr, zr), __fmul_rn(zi, zi)) <= 4.0f) {
        float next = __fadd_rn(__fsub_rn(__fmul_rn(zr, zr), __fmul_rn(zi, zi)), cr);
        zi = __fadd_rn(__fmul_rn(__fmul_rn(2.0f, zr), zi), ci);
        zr = next;
        ++n;
    }
    out[y * gridDim.x * blockDim.x + x] = n;
}

// One block sorts 128 keys by four passes of two bits, with ballots and shared counters.
extern "C" __global__ void radix_sort(u32 *keys) {
    __shared__ u32 buffer[2][128];
    __shared__ u32 counts[4][4], starts[4][4];
    int i = threadIdx.x, lane = i & 31, warp = i >> 5, from = 0;
    buffer[0][i] = keys[i];
    for (int shift = 0; shift < 8; shift += 2) {
        __syncthreads();
        u32 key = buffer[from][i], digit = key >> shift & 3, rank = 0;
        for (u32 d = 0; d < 4; ++d) {
            u32 same = __ballot_sync(0xffffffffu, digit == d);
            if (digit == d) rank = __popc(same & ((1u << lane) - 1));
            if (lane == 0) counts[d][warp] = __popc(same);
        }
        __syncthreads();
        if (i < 16) {
            u32 start = 0;
            for (int k = 0; k < i; ++k) start += counts[k >> 2][k & 3];
            starts[i >> 2][i & 3] = start;
        }
        __syncthreads();
        buffer[from ^ 1][starts[digit][warp] + rank] = key;
        from ^= 1;
    }
    __syncthreads();
    keys[i] = buffer[from][i];
}

// Breadth-first search of a graph in compressed rows; a block-wide queue per level.
extern "C" __global__ void breadth_first(s32 *depth, const s32 *row, const s32 *column, int nodes) {
    __shared__ s32 queue[2][128], count[2];
    int i = threadIdx.x;
    for (int k = i; k < nodes; k += blockDim.x) depth[k] = k == 0 ? 0 : -1;
    if (i == 0) {
        queue[0][0] = 0;
        count[0] = 1;
        count[1] = 0;
    }
    __syncthreads();
    for (int level = 1, now = 0; count[now] > 0; ++level, now ^= 1) {
        for (int k = i; k < count[now]; k += blockDim.x) {
            s32 node = queue[now][k];
            for (s32 e = row[node]; e < row[node + 1]; ++e)
                if (atomicCAS(&depth[column[e]], -1, level) == -1) queue[now ^ 1][atomicAdd(&count[now ^ 1], 1)] = column[e];
        }
        __syncthreads();
        if (i == 0) count[now] = 0;
        __syncthreads();
    }
}

// Conway's game of life for `steps` generations on a 32x32 torus, a bit per cell, a word per lane.
extern "C" __global__ void life(u32 *rows, int steps) {
    int lane = threadIdx.x;
    u32 x = rows[lane];
    for (int s = 0; s < steps; ++s) {
        u32 up = __shfl_sync(0xffffffffu, x, lane + 31), down = __shfl_sync(0xffffffffu, x, lane + 1);
        u32 n[8] = {up, down, rotate(x, 1), rotate(x, 31), rotate(up, 1), rotate(up, 31), rotate(down, 1), rotate(down, 31)};
        u32 one = 0, two = 0, four = 0;
        for (int k = 0; k < 8; ++k) {
            u32 carry = one & n[k];
            one ^= n[k];
            u32 carry2 = two & carry;
            two ^= carry;
            four |= carry2;
        }
        x = two & ~four & (one | x);
    }
    rows[lane] = x;
}
