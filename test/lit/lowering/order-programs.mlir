// RUN: cuda-tile-opt --order-programs %s | FileCheck %s
// RUN: cuda-tile-opt -p "order-programs{together=4}" %s | FileCheck --check-prefix=FOUR %s
// RUN: cuda-tile-opt -p "order-programs{heads=4}" %s | FileCheck --check-prefix=HEADS %s

!memory = !nv_tileaa.memref<256x256xf16, strides=[256,1], 1>
!tiles = !nv_tileaa.tiled_view<!nv_tileaa.memref<256x256xf16, strides=[256,1], 1>, 64x64, #nv_tileaa.tiling<dim_map=[0,1]>>

// Rows are told by the first axis, columns by the second, through what a loop carries.

// CHECK-LABEL: @product(
// CHECK-SAME: programs_together = 8
// FOUR-LABEL: @product(
// FOUR-SAME: programs_together = 4
nv_tileaa.func @product(%a: !tiles, %b: !tiles) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_90>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %x = nv_tileaa.get_program_id {axis = 0} : index
  %y = nv_tileaa.get_program_id {axis = 1} : index
  %none = nv_tileaa.constant {value = dense<0.0> : !cuda_tile.tile<64x64xf32>} : tile<64x64xf32>
  %r:3 = scf.for %k = %c0 to %c4 step %c1 iter_args(%s = %none, %row = %x, %column = %y) -> (tensor<64x64xf32>, index, index) {
    %l:2 = nv_tileaa.tiled_load %a[%row, %k] : !tiles, index, index -> tile<64x64xf16>, !nv_tileaa.mem_token
    %m:2 = nv_tileaa.tiled_load %b[%k, %column] : !tiles, index, index -> tile<64x64xf16>, !nv_tileaa.mem_token
    %d = nv_tileaa.dot %l#0, %m#0, %s : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32> -> tile<64x64xf32>
    scf.yield %d, %row, %column : tensor<64x64xf32>, index, index
  }
  nv_tileaa.return
}

// What both operands are told by, and no product at all.

// CHECK-LABEL: @both(
// CHECK-NOT: programs_together
nv_tileaa.func @both(%a: !tiles, %b: !tiles) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_90>} {
  %x = nv_tileaa.get_program_id {axis = 0} : index
  %y = nv_tileaa.get_program_id {axis = 1} : index
  %none = nv_tileaa.constant {value = dense<0.0> : !cuda_tile.tile<64x64xf32>} : tile<64x64xf32>
  %l:2 = nv_tileaa.tiled_load %a[%x, %y] : !tiles, index, index -> tile<64x64xf16>, !nv_tileaa.mem_token
  %m:2 = nv_tileaa.tiled_load %b[%x, %x] : !tiles, index, index -> tile<64x64xf16>, !nv_tileaa.mem_token
  %d = nv_tileaa.dot %l#0, %m#0, %none : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32> -> tile<64x64xf32>
  nv_tileaa.return
}

// CHECK: @none(
nv_tileaa.func @none() attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_90>} {
  nv_tileaa.return
}

// A loop has more turns along the second axis: long programs are started first, of 32 indices of the other axes at a
// time.

// CHECK-LABEL: @causal(
// CHECK-SAME: long_programs = array<i64: 1, 1>, programs_together = 32
// HEADS: long_programs = array<i64: 1, 1>, programs_together = 4
nv_tileaa.func @causal(%a: !tiles, %n: index) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_90>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %x = nv_tileaa.get_program_id {axis = 0} : index
  %y = nv_tileaa.get_program_id {axis = 1} : index
  %none = nv_tileaa.constant {value = dense<0.0> : !cuda_tile.tile<64x64xf32>} : tile<64x64xf32>
  %next = arith.addi %y, %c1 : index
  %end = arith.minsi %next, %n : index
  %r = scf.for %k = %c0 to %end step %c1 iter_args(%s = %none) -> (tensor<64x64xf32>) {
    %l:2 = nv_tileaa.tiled_load %a[%x, %k] : !tiles, index, index -> tile<64x64xf16>, !nv_tileaa.mem_token
    %d = nv_tileaa.dot %l#0, %l#0, %s : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32> -> tile<64x64xf32>
    scf.yield %d : tensor<64x64xf32>
  }
  nv_tileaa.return
}

// CHECK-NOT: long_programs
