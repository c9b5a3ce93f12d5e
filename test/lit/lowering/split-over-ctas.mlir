// RUN: cuda-tile-opt -p "split-over-ctas, canonicalize-tileaa" --split-input-file %s | FileCheck %s

// Rows of a product in halves: what both CTAs load alike says so.

// CHECK-LABEL: @product
// CHECK: num_ctas=2
// CHECK: %[[R:.*]] = nv_tileaa.get_cta_rank : index
// CHECK-DAG: tiled_load {{.*}} 64x64, {{.*}} -> tile<64x64xf16>
// CHECK-DAG: tiled_load {{.*}}same_in_cluster{{.*}} -> tile<64x64xf16>
// CHECK: nv_tileaa.dot {{.*}} : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32> -> tile<64x64xf32>
// CHECK: tiled_store {{.*}} tile<64x64xf32>
nv_tileaa.func @product(%a: !nv_tileaa.memref<256x64xf16, strides=[64,1], 1>, %b: !nv_tileaa.memref<64x64xf16, strides=[64,1], 1>,
    %c: !nv_tileaa.memref<256x64xf32, strides=[64,1], 1>)
    attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=2, target=sm_90>} {
  %z = arith.constant 0 : index
  %i = nv_tileaa.get_program_id {axis = 0} : index
  %none = nv_tileaa.constant {value = dense<0.0> : !cuda_tile.tile<128x64xf32>} : tile<128x64xf32>
  %va = nv_tileaa.block_tile %a {dimGroups = [array<i64: 0>, array<i64: 1>], tileSizes = array<i64: 128, 64>} : !nv_tileaa.memref<256x64xf16, strides=[64,1], 1> -> !nv_tileaa.tiled_view<!nv_tileaa.memref<256x64xf16, strides=[64,1], 1>, 128x64, #nv_tileaa.tiling<dim_map=[0,1]>>
  %vb = nv_tileaa.block_tile %b {dimGroups = [array<i64: 0>, array<i64: 1>], tileSizes = array<i64: 64, 64>} : !nv_tileaa.memref<64x64xf16, strides=[64,1], 1> -> !nv_tileaa.tiled_view<!nv_tileaa.memref<64x64xf16, strides=[64,1], 1>, 64x64, #nv_tileaa.tiling<dim_map=[0,1]>>
  %vc = nv_tileaa.block_tile %c {dimGroups = [array<i64: 0>, array<i64: 1>], tileSizes = array<i64: 128, 64>} : !nv_tileaa.memref<256x64xf32, strides=[64,1], 1> -> !nv_tileaa.tiled_view<!nv_tileaa.memref<256x64xf32, strides=[64,1], 1>, 128x64, #nv_tileaa.tiling<dim_map=[0,1]>>
  %x:2 = nv_tileaa.tiled_load %va[%i, %z] {mem_semantic = #nv_tileaa.mem_semantic<weak>} : !nv_tileaa.tiled_view<!nv_tileaa.memref<256x64xf16, strides=[64,1], 1>, 128x64, #nv_tileaa.tiling<dim_map=[0,1]>>, index, index -> tile<128x64xf16>, !nv_tileaa.mem_token
  %y:2 = nv_tileaa.tiled_load %vb[%z, %z] {mem_semantic = #nv_tileaa.mem_semantic<weak>} : !nv_tileaa.tiled_view<!nv_tileaa.memref<64x64xf16, strides=[64,1], 1>, 64x64, #nv_tileaa.tiling<dim_map=[0,1]>>, index, index -> tile<64x64xf16>, !nv_tileaa.mem_token
  %d = nv_tileaa.dot %x#0, %y#0, %none : tile<128x64xf16>, tile<64x64xf16>, tile<128x64xf32> -> tile<128x64xf32>
  %w = nv_tileaa.tiled_store %vc[%i, %z], %d {mem_semantic = #nv_tileaa.mem_semantic<weak>} : !nv_tileaa.tiled_view<!nv_tileaa.memref<256x64xf32, strides=[64,1], 1>, 128x64, #nv_tileaa.tiling<dim_map=[0,1]>>, tile<128x64xf32>, index, index -> !nv_tileaa.mem_token
  nv_tileaa.return
}

// -----

// CHECK-LABEL: @nothing
// CHECK: num_ctas=1
// CHECK-SAME: not_clustered = "it stores nothing"
nv_tileaa.func @nothing() attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=2, target=sm_90>} {
  nv_tileaa.return
}
