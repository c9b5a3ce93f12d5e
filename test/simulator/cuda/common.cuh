// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Helpers shared by the corpus: one output slot per expression, one lane per input element.
#pragma once

typedef unsigned char u8;
typedef signed char s8;
typedef unsigned short u16;
typedef short s16;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;
typedef long long s64;

// Thread i of one CTA writes out[slot * blockDim.x + i]; slots count up in source order.
#define LANES                         \
    const int i = threadIdx.x;        \
    const int lanes = blockDim.x;     \
    int slot = 0
#define PUT(expression) (out[(slot++) * lanes + i] = (expression))

// Wrap one PTX instruction as a device function: R, A, B, C are types, the strings constraints.
#define PTX1(name, text, R, CR, A, CA)                         \
    __device__ __forceinline__ R name(A a) {                   \
        R d;                                                   \
        asm volatile(text " %0, %1;" : "=" CR(d) : CA(a));     \
        return d;                                              \
    }
#define PTX2(name, text, R, CR, A, CA, B, CB)                                  \
    __device__ __forceinline__ R name(A a, B b) {                              \
        R d;                                                                   \
        asm volatile(text " %0, %1, %2;" : "=" CR(d) : CA(a), CB(b));          \
        return d;                                                              \
    }
#define PTX3(name, text, R, CR, A, CA, B, CB, C, CC)                                   \
    __device__ __forceinline__ R name(A a, B b, C c) {                                 \
        R d;                                                                           \
        asm volatile(text " %0, %1, %2, %3;" : "=" CR(d) : CA(a), CB(b), CC(c));       \
        return d;                                                                      \
    }
