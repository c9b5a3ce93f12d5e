// The worked product of the documents: two loads, a product and a store on one chain of tokens. What is around the
// fragment is a kernel whose accumulator begins as a tile of halves.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

nv_tileaa.func @product(%a_base: !nv_tileaa.ptr<f16, 1>, %b_base: !nv_tileaa.ptr<f16, 1>,
    %c_base: !nv_tileaa.ptr<f32, 1>, %off_a: index, %off_b: index, %off_c: index, %M: index, %N: index, %K: index,
    %s_a_row: index, %s_a_col: index, %s_b_row: index, %s_b_col: index, %s_c_row: index, %s_c_col: index,
    %i: index, %j: index, %k: index)
    attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>} {
  %c_in = nv_tileaa.constant {value = dense<0.5> : !cuda_tile.tile<128x128xf32>} : tile<128x128xf32>
  %t0 = nv_tileaa.create_mem_token : !nv_tileaa.mem_token
  %pa = nv_tileaa.addptr %a_base, %off_a : !nv_tileaa.ptr<f16, 1>, index -> !nv_tileaa.ptr<f16, 1>
  %pb = nv_tileaa.addptr %b_base, %off_b : !nv_tileaa.ptr<f16, 1>, index -> !nv_tileaa.ptr<f16, 1>
  %mr_a = nv_tileaa.make_memref %pa, %off_a, %M, %K, %s_a_row, %s_a_col
    : (!nv_tileaa.ptr<f16, 1>, index, index, index, index, index) -> !nv_tileaa.memref<?x?xf16, 1>
  %mr_b = nv_tileaa.make_memref %pb, %off_b, %K, %N, %s_b_row, %s_b_col
    : (!nv_tileaa.ptr<f16, 1>, index, index, index, index, index) -> !nv_tileaa.memref<?x?xf16, 1>
  %av, %t1 = nv_tileaa.tiled_load %mr_a[%i, %k], %t0
    {in_bounds = array<i1: true, true>, operandSegmentSizes = array<i32: 1, 2, 0, 0>}
    : !nv_tileaa.memref<?x?xf16, 1>, index, index, !nv_tileaa.mem_token -> tile<128x32xf16>, !nv_tileaa.mem_token
  %bv, %t2 = nv_tileaa.tiled_load %mr_b[%k, %j], %t1
    {in_bounds = array<i1: true, true>, operandSegmentSizes = array<i32: 1, 2, 0, 0>}
    : !nv_tileaa.memref<?x?xf16, 1>, index, index, !nv_tileaa.mem_token -> tile<32x128xf16>, !nv_tileaa.mem_token
  %d = nv_tileaa.dot %av, %bv, %c_in {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>}
    : tile<128x32xf16>, tile<32x128xf16>, tile<128x128xf32> -> tile<128x128xf32>
  %mr_c = nv_tileaa.make_memref %c_base, %off_c, %M, %N, %s_c_row, %s_c_col
    : (!nv_tileaa.ptr<f32, 1>, index, index, index, index, index) -> !nv_tileaa.memref<?x?xf32, 1>
  %t3 = nv_tileaa.tiled_store %mr_c[%i, %j], %d, %t2
    {in_bounds = array<i1: true, true>, operandSegmentSizes = array<i32: 1, 1, 2, 0>}
    : !nv_tileaa.memref<?x?xf32, 1>, tile<128x128xf32>, index, index, !nv_tileaa.mem_token -> !nv_tileaa.mem_token
  nv_tileaa.return
}
