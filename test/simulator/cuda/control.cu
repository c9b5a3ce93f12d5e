// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Control flow: divergence, loops, switches, calls, recursion, function pointers, early exit.
#include "common.cuh"

extern "C" __global__ void vector_add(float *c, const float *a, const float *b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

// Indices of all three dimensions of block and grid.
extern "C" __global__ void indices3d(u32 *out) {
    u32 thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    u32 block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    out[block * blockDim.x * blockDim.y * blockDim.z + thread] =
        threadIdx.x | threadIdx.y << 4 | threadIdx.z << 8 | blockIdx.x << 12 | blockIdx.y << 16 | blockIdx.z << 20;
}

extern "C" __global__ void nested_divergence(s32 *out, const s32 *a) {
    int i = threadIdx.x, x = a[i], r = 0;
    if (x & 1) {
        if (x & 2)
            r += 3;
        else if (x & 4)
            r += 5;
        else
            r -= x;
        r *= 2;
    } else {
        if (x < 0) {
            r = -x;
            if (x & 8) r ^= 0x55;
        }
        r += 1;
    }
    if ((x ^ i) & 1) r = -r;
    out[i] = r;
}

// Trip counts differ per lane: the Collatz length.
extern "C" __global__ void divergent_loop(u32 *out, const u32 *a) {
    int i = threadIdx.x;
    u32 x = a[i], steps = 0;
    while (x != 1) {
        if (x & 1)
            x = 3 * x + 1;
        else
            x >>= 1;
        ++steps;
    }
    out[i] = steps;
}

// break and continue in nested loops.
extern "C" __global__ void loop_exits(s32 *out, const s32 *a) {
    int i = threadIdx.x, x = a[i], sum = 0;
    for (int j = 0; j < 8; ++j) {
        if (((x >> j) & 3) == 3) continue;
        for (int k = j; k < 12; ++k) {
            if (k * j > (x & 31)) break;
            sum += k ^ j;
        }
        if (sum > 200) break;
    }
    out[i] = sum;
}

// A dense switch becomes brx.idx over a branch table.
extern "C" __global__ void dense_switch(s32 *out, const s32 *a, const s32 *b) {
    int i = threadIdx.x, y = b[i], r;
    switch (a[i]) {
        case 0: r = y + 1; break;
        case 1: r = y * y; break;
        case 2: r = y / 3; break;
        case 3: r = __clz(y);  // falls through
        case 4: r = y ^ 0x1234; break;
        case 5: r = y % 7; break;
        case 6: r = y << 5; break;
        case 7: r = __popc(y); break;
        case 8: r = min(y, 11); break;
        case 9: r = ~y; break;
        default: r = -1;
    }
    out[i] = r;
}

// The same written in PTX, so that every level has a branch table.
extern "C" __global__ void branch_table(s32 *out, const s32 *a) {
    int i = threadIdx.x;
    s32 r, x = a[i];
    asm volatile(
        "{\n\t"
        "TABLE_%=: .branchtargets ZERO_%=, ONE_%=, TWO_%=, ONE_%=;\n\t"
        "brx.idx %1, TABLE_%=;\n\t"
        "ZERO_%=: mov.s32 %0, 100; bra DONE_%=;\n\t"
        "ONE_%=: mov.s32 %0, 200; bra DONE_%=;\n\t"
        "TWO_%=: mov.s32 %0, 300;\n\t"
        "DONE_%=:\n\t"
        "}"
        : "=r"(r)
        : "r"(x));
    out[i] = r;
}

__device__ __noinline__ float polynomial(float x, float3 c) { return (c.x * x + c.y) * x + c.z; }
__device__ __noinline__ float3 scaled(float3 v, float s) { return make_float3(v.x * s, v.y * s, v.z * s); }
__device__ __noinline__ void two_results(s32 x, s32 *half, s32 *rest) {
    *half = x / 2;
    *rest = x - x / 2 * 2;
}

// Scalars, aggregates and pointers to locals as parameters; aggregates as results.
extern "C" __global__ void device_calls(float *out, const float *a) {
    LANES;
    float3 v = scaled(make_float3(a[i], 2.0f, -1.0f), 0.5f);
    PUT(v.x + v.y + v.z);
    PUT(polynomial(a[i], v));
    s32 half, rest;
    two_results((s32)a[i], &half, &rest);
    PUT((float)half);
    PUT((float)rest);
}

__device__ __noinline__ u32 fibonacci(u32 n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
__device__ __noinline__ u32 ackermann(u32 m, u32 n) {
    if (m == 0) return n + 1;
    if (n == 0) return ackermann(m - 1, 1);
    return ackermann(m - 1, ackermann(m, n - 1));
}
__device__ u32 is_odd(u32 n);
__device__ __noinline__ u32 is_even(u32 n) { return n == 0 ? 1 : is_odd(n - 1); }
__device__ __noinline__ u32 is_odd(u32 n) { return n == 0 ? 0 : is_even(n - 1); }

// Each lane recurses to its own depth.
extern "C" __global__ void recursion(u32 *out) {
    LANES;
    PUT(fibonacci((u32)i % 11));
    PUT(ackermann((u32)i % 3, (u32)i % 4));
    PUT(is_even((u32)i));
}

typedef s32 (*Binary)(s32, s32);
__device__ s32 op_add(s32 a, s32 b) { return a + b; }
__device__ s32 op_sub(s32 a, s32 b) { return a - b; }
__device__ s32 op_mul(s32 a, s32 b) { return a * b; }
__device__ s32 op_max(s32 a, s32 b) { return a > b ? a : b; }
__device__ Binary operations[4] = {op_add, op_sub, op_mul, op_max};

// Indirect calls through a table of addresses; lanes of a warp call different functions.
extern "C" __global__ void function_pointers(s32 *out, const s32 *a, const s32 *b, const s32 *which) {
    int i = threadIdx.x;
    out[i] = operations[which[i]](a[i], b[i]);
}

struct Shape {
    __device__ virtual float area() const = 0;
};
struct Square : Shape {
    float side;
    __device__ Square(float s) : side(s) {}
    __device__ float area() const override { return side * side; }
};
struct Rectangle : Shape {
    float width, height;
    __device__ Rectangle(float w, float h) : width(w), height(h) {}
    __device__ float area() const override { return width * height; }
};

// Virtual functions: tables of function addresses in module memory.
extern "C" __global__ void virtual_calls(float *out, const float *a) {
    int i = threadIdx.x;
    Square square(a[i]);
    Rectangle rectangle(a[i], 3.0f);
    const Shape *shape = i & 1 ? (const Shape *)&square : (const Shape *)&rectangle;
    out[i] = shape->area();
}

// Some lanes return early, whole warps too, one by the exit instruction.
extern "C" __global__ void early_exit(u32 *out, const u32 *a) {
    int i = threadIdx.x;
    if (i >= 64) return;
    if (a[i] & 1) {
        out[i] = 0xdeadu;
        return;
    }
    u32 x = a[i];
    if (x > 1000) {
        out[i] = x;
        asm volatile("exit;");
    }
    out[i] = x + 1;
}

// Predicated instructions written by hand, both senses, and a predicate chain.
extern "C" __global__ void predication(s32 *out, const s32 *a) {
    int i = threadIdx.x;
    s32 r;
    asm volatile(
        "{ .reg .pred p, q;\n\t"
        "setp.gt.s32 p, %1, 10;\n\t"
        "setp.lt.s32 q, %1, 20;\n\t"
        "mov.s32 %0, 0;\n\t"
        "@p add.s32 %0, %0, 1;\n\t"
        "@!p sub.s32 %0, %0, 1;\n\t"
        "and.pred p, p, q;\n\t"
        "@p mul.lo.s32 %0, %0, 50;\n\t"
        "}"
        : "=&r"(r)
        : "r"(a[i]));
    out[i] = r;
}

// goto into the middle of a loop: an irreducible graph.
extern "C" __global__ void irreducible(s32 *out, const s32 *a) {
    int i = threadIdx.x, x = a[i], n = 0;
    if (x & 1) goto second;
first:
    x += 3;
    ++n;
second:
    x -= 5;
    ++n;
    if (x > 0 && (x & 2)) goto first;
    if (x > 4) goto second;
    out[i] = x * 64 + n;
}

template <int N>
__device__ s32 unrolled(const s32 *a, int i) {
    s32 sum = 0;
#pragma unroll
    for (int k = 0; k < N; ++k) sum += a[(i + k) & 31] * (k + 1);
    return sum;
}

extern "C" __global__ void __launch_bounds__(32, 4) unrolled_loops(s32 *out, const s32 *a) {
    LANES;
    PUT(unrolled<3>(a, i));
    PUT(unrolled<16>(a, i));
    s32 sum = 0;
#pragma unroll 1
    for (int k = 0; k < i; ++k) sum += a[k];
    PUT(sum);
}
