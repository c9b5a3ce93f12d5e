// Accesses to boxes of a memref go through a view with a tile at every element; single elements and views stay.
// RUN: cuda-tile-opt --view-memref-accesses %s | FileCheck %s
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

!memref = !nv_tileaa.memref<?x?xf32, 1>

// CHECK-LABEL: nv_tileaa.func @boxes
nv_tileaa.func @boxes(%m: !memref, %i: index, %j: index) {
  // CHECK: %[[V:.*]] = nv_tileaa.block_tile %{{.*}} {dimGroups = [array<i64: 0>, array<i64: 1>], tileSizes = array<i64: 4, 8>} : !nv_tileaa.memref<?x?xf32, 1> -> !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xf32, 1>, 4x8, #nv_tileaa.tiling<traversal_strides=[1,1]>>
  // CHECK-NEXT: nv_tileaa.tiled_load %[[V]][
  %x = nv_tileaa.tiled_load %m[%i, %j] : !memref, index, index -> tile<4x8xf32>
  // CHECK: %[[W:.*]] = nv_tileaa.block_tile
  // CHECK-NEXT: nv_tileaa.tiled_store %[[W]][
  nv_tileaa.tiled_store %m[%j, %i], %x : !memref, tile<4x8xf32>, index, index
  // CHECK-NOT: nv_tileaa.block_tile
  // CHECK: nv_tileaa.load %{{.*}}[%{{.*}}, %{{.*}}] : !nv_tileaa.memref<?x?xf32, 1>, index, index -> f32
  %s = nv_tileaa.load %m[%i, %j] : !memref, index, index -> f32
  nv_tileaa.print %s {format = "%f"} : f32
  nv_tileaa.return
}
