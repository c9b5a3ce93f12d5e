// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One kernel per mma.sync instruction. Operands are dense matrices of fragment words in memory: A is [M][words of K],
// B is [N][words of K] (column-major), C and D are [M][N]. Lane (group, thread) of the fragments is the PTX ISA's
// groupID = laneid >> 2 and threadID_in_group = laneid % 4; register r of A is row group + 8 (r & 1) and word
// thread + 4 (r >> 1), register r of B is column group and word thread + 4 r, register r of C is row
// group + 8 (r >> 1) and column 2 thread + (r & 1), or packs two columns of row group + 8 r.
#pragma once
#include "common.cuh"

#define MMA_INPUTS_1_1(CA) CA(a[0]), CA(b[0])
#define MMA_INPUTS_2_1(CA) CA(a[0]), CA(a[1]), CA(b[0])
#define MMA_INPUTS_4_2(CA) CA(a[0]), CA(a[1]), CA(a[2]), CA(a[3]), CA(b[0]), CA(b[1])
#define MMA_INPUTS_8_4(CA)                                                                                   \
    CA(a[0]), CA(a[1]), CA(a[2]), CA(a[3]), CA(a[4]), CA(a[5]), CA(a[6]), CA(a[7]), CA(b[0]), CA(b[1]), CA(b[2]), \
        CA(b[3])

#define MMA_TEXT_2_1_1 " {%0, %1}, {%2}, {%3}, {%4, %5}"
#define MMA_TEXT_2_2_1 " {%0, %1}, {%2, %3}, {%4}, {%5, %6}"
#define MMA_TEXT_2_4_2 " {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%8, %9}"
#define MMA_TEXT_4_2_1 " {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10}"
#define MMA_TEXT_4_4_2 " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13}"
#define MMA_TEXT_4_8_4 \
    " {%0, %1, %2, %3}, {%4, %5, %6, %7, %8, %9, %10, %11}, {%12, %13, %14, %15}, {%16, %17, %18, %19}"

#define MMA_ASM_2(text, NA, NB, CD, CA)                         \
    asm volatile(text MMA_TEXT_2_##NA##_##NB ";"                \
                 : "=" CD(d[0]), "=" CD(d[1])                   \
                 : MMA_INPUTS_##NA##_##NB(CA), CD(c[0]), CD(c[1]))
#define MMA_ASM_4(text, NA, NB, CD, CA)                                          \
    asm volatile(text MMA_TEXT_4_##NA##_##NB ";"                                 \
                 : "=" CD(d[0]), "=" CD(d[1]), "=" CD(d[2]), "=" CD(d[3])        \
                 : MMA_INPUTS_##NA##_##NB(CA), CD(c[0]), CD(c[1]), CD(c[2]), CD(c[3]))

#define MMA_LOAD(U, NA, NB)                                                                                 \
    const int group = threadIdx.x >> 2, thread = threadIdx.x & 3;                                           \
    U a[NA], b[NB];                                                                                         \
    for (int r = 0; r < NA; ++r)                                                                            \
        a[r] = a_matrix[(group + 8 * (r & 1)) * (NA > 1 ? NA * 2 : 4) + thread + 4 * (r >> 1)];             \
    for (int r = 0; r < NB; ++r) b[r] = b_matrix[group * (NB * 4) + thread + 4 * r];

#define MMA_WIDE_INDEX(r) ((group + 8 * ((r) >> 1)) * 8 + 2 * thread + ((r) & 1))
#define MMA_PAIR_INDEX(r) ((group + 8 * (r)) * 4 + thread)

// name, accumulator type and constraint, its count of registers, fragment type and constraint, their counts
#define MMA_KERNEL(name, index, T, CD, ND, U, CA, NA, NB, text)                                               \
    extern "C" __global__ void name(T *d_matrix, const U *a_matrix, const U *b_matrix, const T *c_matrix) {   \
        MMA_LOAD(U, NA, NB)                                                                                   \
        T c[ND], d[ND];                                                                                       \
        for (int r = 0; r < ND; ++r) c[r] = c_matrix[index(r)];                                               \
        MMA_ASM_##ND("mma.sync.aligned." text, NA, NB, CD, CA);                                               \
        for (int r = 0; r < ND; ++r) d_matrix[index(r)] = d[r];                                               \
    }
#define MMA_F32(name, NA, NB, text) MMA_KERNEL(name, MMA_WIDE_INDEX, float, "f", 4, u32, "r", NA, NB, text)
#define MMA_S32(name, NA, NB, text) MMA_KERNEL(name, MMA_WIDE_INDEX, s32, "r", 4, u32, "r", NA, NB, text)
#define MMA_S32_8(name, text) MMA_KERNEL(name, MMA_WIDE_INDEX, s32, "r", 2, u32, "r", 1, 1, text)
#define MMA_F16(name, NA, NB, text) MMA_KERNEL(name, MMA_PAIR_INDEX, u32, "r", 2, u32, "r", NA, NB, text)
