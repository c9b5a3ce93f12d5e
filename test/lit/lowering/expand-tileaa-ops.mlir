// Ops that have no lowering of their own become ops that have one.
// RUN: cuda-tile-opt --expand-tileaa-ops %s | FileCheck %s
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

!memref = !nv_tileaa.memref<?x?xf32, 1>

// CHECK-LABEL: nv_tileaa.func @element
nv_tileaa.func @element(%p: !nv_tileaa.ptr<f32, 1>, %n: index, %i: index) {
  %m = nv_tileaa.make_memref %p, %n, %n, %n, %n : !nv_tileaa.ptr<f32, 1>, index, index, index, index -> !memref
  // CHECK: %[[D:.*]] = arith.muli %{{.*}}, %{{.*}} : index
  // CHECK-NEXT: %[[P:.*]] = nv_tileaa.addptr %{{.*}}, %[[D]] : !nv_tileaa.ptr<f32, 1>, index
  // CHECK: %[[T:.*]] = nv_tileaa.splat %{{.*}} -> tile<!nv_tileaa.ptr<f32, 1>>
  // CHECK-NEXT: %[[V:.*]] = nv_tileaa.load %[[T]] : tile<!nv_tileaa.ptr<f32, 1>> -> tile<f32>
  // CHECK-NEXT: %{{.*}} = tensor.extract %[[V]][] : tensor<f32>
  %x = nv_tileaa.load %m[%i, %i] : !memref, index, index -> f32
  nv_tileaa.print %x {format = "%f"} : f32
  nv_tileaa.return
}

// CHECK-LABEL: nv_tileaa.func @rows
nv_tileaa.func @rows(%p: !nv_tileaa.ptr<f32, 1>, %n: index, %i: index, %r: tensor<4xi32>) {
  %m = nv_tileaa.make_memref %p, %n, %n, %n, %n : !nv_tileaa.ptr<f32, 1>, index, index, index, index -> !memref
  // CHECK: %[[W:.*]] = nv_tileaa.block_tile %{{.*}}#nv_tileaa.tiling<sparse_dim=0>>
  // CHECK-NEXT: nv_tileaa.tiled_load %[[W]][%{{.*}}, %{{.*}}]
  %x = nv_tileaa.gather_load %m[%r, %i] : !memref, tile<4xi32>, index -> tile<4x8xf32>
  nv_tileaa.print %x {format = "%f"} : tile<4x8xf32>
  nv_tileaa.return
}

// CHECK-LABEL: nv_tileaa.func @made
nv_tileaa.func @made(%n: i32) {
  // CHECK: %[[R:.*]] = nv_tileaa.make_range : tile<4xi64>
  // CHECK: %[[N:.*]] = nv_tileaa.splat %{{.*}} : i32 -> tile<4xi32>
  // CHECK: %[[C:.*]] = arith.trunci %[[R]] : tensor<4xi64> to tensor<4xi32>
  // CHECK: arith.muli %[[C]], %[[N]] : tensor<4xi32>
  %g = nv_tileaa.generate %n ({
  ^bb0(%i: index, %k: i32):
    %c = arith.index_cast %i : index to i32
    %f = arith.muli %c, %k : i32
    nv_tileaa.yield %f : i32
  }) : i32 -> tile<4xi32>
  nv_tileaa.print %g {format = "%d"} : tile<4xi32>
  nv_tileaa.return
}
