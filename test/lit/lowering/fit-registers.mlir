// RUN: cuda-tile-opt -p "fit-registers, canonicalize-tileaa" --split-input-file %s | FileCheck %s

// A product of 256x256 in eight warps: 128 rows at a time.

// CHECK-LABEL: @wide
// CHECK: scf.for %[[HALF:.*]] = %{{.*}} to
// CHECK: tiled_load {{.*}} 128x32, {{.*}} -> tile<128x32xf16>
// CHECK: nv_tileaa.dot {{.*}} -> tile<128x256xf32>
// CHECK: tiled_store {{.*}} tile<128x256xf32>
nv_tileaa.func @wide(%a: !nv_tileaa.memref<512x64xf16, strides=[64,1], 1>, %b: !nv_tileaa.memref<64x256xf16, strides=[256,1], 1>,
    %c: !nv_tileaa.memref<512x256xf32, strides=[256,1], 1>)
    attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=8, num_ctas=1, target=sm_120>} {
  %z = arith.constant 0 : index
  %one = arith.constant 1 : index
  %two = arith.constant 2 : index
  %i = nv_tileaa.get_program_id {axis = 0} : index
  %none = nv_tileaa.constant {value = dense<0.0> : !cuda_tile.tile<256x256xf32>} : tile<256x256xf32>
  %va = nv_tileaa.block_tile %a {dimGroups = [array<i64: 0>, array<i64: 1>], tileSizes = array<i64: 256, 32>} : !nv_tileaa.memref<512x64xf16, strides=[64,1], 1> -> !nv_tileaa.tiled_view<!nv_tileaa.memref<512x64xf16, strides=[64,1], 1>, 256x32, #nv_tileaa.tiling<dim_map=[0,1]>>
  %vb = nv_tileaa.block_tile %b {dimGroups = [array<i64: 0>, array<i64: 1>], tileSizes = array<i64: 32, 256>} : !nv_tileaa.memref<64x256xf16, strides=[256,1], 1> -> !nv_tileaa.tiled_view<!nv_tileaa.memref<64x256xf16, strides=[256,1], 1>, 32x256, #nv_tileaa.tiling<dim_map=[0,1]>>
  %vc = nv_tileaa.block_tile %c {dimGroups = [array<i64: 0>, array<i64: 1>], tileSizes = array<i64: 256, 256>} : !nv_tileaa.memref<512x256xf32, strides=[256,1], 1> -> !nv_tileaa.tiled_view<!nv_tileaa.memref<512x256xf32, strides=[256,1], 1>, 256x256, #nv_tileaa.tiling<dim_map=[0,1]>>
  %d = scf.for %k = %z to %two step %one iter_args(%sum = %none) -> (tensor<256x256xf32>) {
    %x:2 = nv_tileaa.tiled_load %va[%i, %k] {mem_semantic = #nv_tileaa.mem_semantic<weak>} : !nv_tileaa.tiled_view<!nv_tileaa.memref<512x64xf16, strides=[64,1], 1>, 256x32, #nv_tileaa.tiling<dim_map=[0,1]>>, index, index -> tile<256x32xf16>, !nv_tileaa.mem_token
    %y:2 = nv_tileaa.tiled_load %vb[%k, %z] {mem_semantic = #nv_tileaa.mem_semantic<weak>} : !nv_tileaa.tiled_view<!nv_tileaa.memref<64x256xf16, strides=[256,1], 1>, 32x256, #nv_tileaa.tiling<dim_map=[0,1]>>, index, index -> tile<32x256xf16>, !nv_tileaa.mem_token
    %s = nv_tileaa.dot %x#0, %y#0, %sum : tile<256x32xf16>, tile<32x256xf16>, tile<256x256xf32> -> tile<256x256xf32>
    scf.yield %s : tensor<256x256xf32>
  }
  %w = nv_tileaa.tiled_store %vc[%i, %z], %d {mem_semantic = #nv_tileaa.mem_semantic<weak>} : !nv_tileaa.tiled_view<!nv_tileaa.memref<512x256xf32, strides=[256,1], 1>, 256x256, #nv_tileaa.tiling<dim_map=[0,1]>>, tile<256x256xf32>, index, index -> !nv_tileaa.mem_token
  nv_tileaa.return
}

// -----

// Two blocks of 128x256 in four warps each leave too few registers; eight warps of one block have enough.

// CHECK-LABEL: @pair
// CHECK-SAME: fewer_blocks = "tiles of a loop with products take 256 registers of a thread, of 168 that so many blocks leave"
// CHECK-SAME: num_warps=8, num_ctas=1, occupancy=1
// CHECK: nv_tileaa.dot {{.*}} -> tile<128x256xf32>
nv_tileaa.func @pair(%a: !nv_tileaa.memref<512x64xf16, strides=[64,1], 1>, %b: !nv_tileaa.memref<64x256xf16, strides=[256,1], 1>,
    %c: !nv_tileaa.memref<512x256xf32, strides=[256,1], 1>)
    attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, occupancy=2, target=sm_120>} {
  %z = arith.constant 0 : index
  %one = arith.constant 1 : index
  %two = arith.constant 2 : index
  %i = nv_tileaa.get_program_id {axis = 0} : index
  %none = nv_tileaa.constant {value = dense<0.0> : !cuda_tile.tile<128x256xf32>} : tile<128x256xf32>
  %va = nv_tileaa.block_tile %a {dimGroups = [array<i64: 0>, array<i64: 1>], tileSizes = array<i64: 128, 32>} : !nv_tileaa.memref<512x64xf16, strides=[64,1], 1> -> !nv_tileaa.tiled_view<!nv_tileaa.memref<512x64xf16, strides=[64,1], 1>, 128x32, #nv_tileaa.tiling<dim_map=[0,1]>>
  %vb = nv_tileaa.block_tile %b {dimGroups = [array<i64: 0>, array<i64: 1>], tileSizes = array<i64: 32, 256>} : !nv_tileaa.memref<64x256xf16, strides=[256,1], 1> -> !nv_tileaa.tiled_view<!nv_tileaa.memref<64x256xf16, strides=[256,1], 1>, 32x256, #nv_tileaa.tiling<dim_map=[0,1]>>
  %vc = nv_tileaa.block_tile %c {dimGroups = [array<i64: 0>, array<i64: 1>], tileSizes = array<i64: 128, 256>} : !nv_tileaa.memref<512x256xf32, strides=[256,1], 1> -> !nv_tileaa.tiled_view<!nv_tileaa.memref<512x256xf32, strides=[256,1], 1>, 128x256, #nv_tileaa.tiling<dim_map=[0,1]>>
  %d = scf.for %k = %z to %two step %one iter_args(%sum = %none) -> (tensor<128x256xf32>) {
    %x:2 = nv_tileaa.tiled_load %va[%i, %k] {mem_semantic = #nv_tileaa.mem_semantic<weak>} : !nv_tileaa.tiled_view<!nv_tileaa.memref<512x64xf16, strides=[64,1], 1>, 128x32, #nv_tileaa.tiling<dim_map=[0,1]>>, index, index -> tile<128x32xf16>, !nv_tileaa.mem_token
    %y:2 = nv_tileaa.tiled_load %vb[%k, %z] {mem_semantic = #nv_tileaa.mem_semantic<weak>} : !nv_tileaa.tiled_view<!nv_tileaa.memref<64x256xf16, strides=[256,1], 1>, 32x256, #nv_tileaa.tiling<dim_map=[0,1]>>, index, index -> tile<32x256xf16>, !nv_tileaa.mem_token
    %s = nv_tileaa.dot %x#0, %y#0, %sum : tile<128x32xf16>, tile<32x256xf16>, tile<128x256xf32> -> tile<128x256xf32>
    scf.yield %s : tensor<128x256xf32>
  }
  %w = nv_tileaa.tiled_store %vc[%i, %z], %d {mem_semantic = #nv_tileaa.mem_semantic<weak>} : !nv_tileaa.tiled_view<!nv_tileaa.memref<512x256xf32, strides=[256,1], 1>, 128x256, #nv_tileaa.tiling<dim_map=[0,1]>>, tile<128x256xf32>, index, index -> !nv_tileaa.mem_token
  nv_tileaa.return
}

// -----

// What wgmma multiplies is left to it.

// CHECK-LABEL: @shared
// CHECK: nv_tileaa.dot {{.*}} -> tile<256x256xf32>
nv_tileaa.func @shared(%a: !nv_tileaa.memref<512x64xf16, strides=[64,1], 1>, %b: !nv_tileaa.memref<64x256xf16, strides=[256,1], 1>,
    %c: !nv_tileaa.memref<512x256xf32, strides=[256,1], 1>)
    attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=8, num_ctas=1, target=sm_90>} {
  %z = arith.constant 0 : index
  %one = arith.constant 1 : index
  %two = arith.constant 2 : index
  %i = nv_tileaa.get_program_id {axis = 0} : index
  %none = nv_tileaa.constant {value = dense<0.0> : !cuda_tile.tile<256x256xf32>} : tile<256x256xf32>
  %va = nv_tileaa.block_tile %a {dimGroups = [array<i64: 0>, array<i64: 1>], tileSizes = array<i64: 256, 32>} : !nv_tileaa.memref<512x64xf16, strides=[64,1], 1> -> !nv_tileaa.tiled_view<!nv_tileaa.memref<512x64xf16, strides=[64,1], 1>, 256x32, #nv_tileaa.tiling<dim_map=[0,1]>>
  %vb = nv_tileaa.block_tile %b {dimGroups = [array<i64: 0>, array<i64: 1>], tileSizes = array<i64: 32, 256>} : !nv_tileaa.memref<64x256xf16, strides=[256,1], 1> -> !nv_tileaa.tiled_view<!nv_tileaa.memref<64x256xf16, strides=[256,1], 1>, 32x256, #nv_tileaa.tiling<dim_map=[0,1]>>
  %vc = nv_tileaa.block_tile %c {dimGroups = [array<i64: 0>, array<i64: 1>], tileSizes = array<i64: 256, 256>} : !nv_tileaa.memref<512x256xf32, strides=[256,1], 1> -> !nv_tileaa.tiled_view<!nv_tileaa.memref<512x256xf32, strides=[256,1], 1>, 256x256, #nv_tileaa.tiling<dim_map=[0,1]>>
  %d = scf.for %k = %z to %two step %one iter_args(%sum = %none) -> (tensor<256x256xf32>) {
    %x:2 = nv_tileaa.tiled_load %va[%i, %k] {mem_semantic = #nv_tileaa.mem_semantic<weak>} : !nv_tileaa.tiled_view<!nv_tileaa.memref<512x64xf16, strides=[64,1], 1>, 256x32, #nv_tileaa.tiling<dim_map=[0,1]>>, index, index -> tile<256x32xf16>, !nv_tileaa.mem_token
    %y:2 = nv_tileaa.tiled_load %vb[%k, %z] {mem_semantic = #nv_tileaa.mem_semantic<weak>} : !nv_tileaa.tiled_view<!nv_tileaa.memref<64x256xf16, strides=[256,1], 1>, 32x256, #nv_tileaa.tiling<dim_map=[0,1]>>, index, index -> tile<32x256xf16>, !nv_tileaa.mem_token
    %s = nv_tileaa.dot %x#0, %y#0, %sum : tile<256x32xf16>, tile<32x256xf16>, tile<256x256xf32> -> tile<256x256xf32>
    scf.yield %s : tensor<256x256xf32>
  }
  %w = nv_tileaa.tiled_store %vc[%i, %z], %d {mem_semantic = #nv_tileaa.mem_semantic<weak>} : !nv_tileaa.tiled_view<!nv_tileaa.memref<512x256xf32, strides=[256,1], 1>, 256x256, #nv_tileaa.tiling<dim_map=[0,1]>>, tile<256x256xf32>, index, index -> !nv_tileaa.mem_token
  nv_tileaa.return
}
