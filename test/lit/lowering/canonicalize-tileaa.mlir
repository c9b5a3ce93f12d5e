// Chained pointer additions are one; shape ops of splats are splats; masks that are constant go away; joins are flat.
// RUN: cuda-tile-opt --canonicalize-tileaa %s | FileCheck %s
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

!p = !nv_tileaa.ptr<f32, 1>

// CHECK-LABEL: nv_tileaa.func @chain
nv_tileaa.func @chain(%p: !p, %i: index, %j: index) {
  // CHECK: %[[S:.*]] = arith.addi %{{.*}}, %{{.*}} : index
  // CHECK-NEXT: nv_tileaa.addptr %{{.*}}, %[[S]] : !nv_tileaa.ptr<f32, 1>, index
  // CHECK-NEXT: nv_tileaa.mark_for_reuse
  %a = nv_tileaa.addptr %p, %i : !p, index -> !p
  %b = nv_tileaa.addptr %a, %j : !p, index -> !p
  nv_tileaa.mark_for_reuse %b : !p
  nv_tileaa.return
}

// Offsets of fewer bits are added in 64, where their sum does not wrap.
// CHECK-LABEL: nv_tileaa.func @narrow_chain
nv_tileaa.func @narrow_chain(%p: !p, %i: tile<i32>, %j: tile<i32>) {
  // CHECK: %[[I:.*]] = arith.extsi %{{.*}} : tensor<i32> to tensor<i64>
  // CHECK: %[[J:.*]] = arith.extsi %{{.*}} : tensor<i32> to tensor<i64>
  // CHECK: %[[S:.*]] = arith.addi %[[I]], %[[J]] : tensor<i64>
  // CHECK-NEXT: nv_tileaa.addptr %{{.*}}, %[[S]] : !nv_tileaa.ptr<f32, 1>, tile<i64>
  %a = nv_tileaa.addptr %p, %i : !p, tile<i32> -> !p
  %b = nv_tileaa.addptr %a, %j : !p, tile<i32> -> !p
  nv_tileaa.mark_for_reuse %b : !p
  nv_tileaa.return
}

// An offset of zero goes away; an even one is none.
// CHECK-LABEL: nv_tileaa.func @offsets
nv_tileaa.func @offsets(%p: !p, %q: tile<4x!p>) {
  // CHECK: %[[FOUR:.*]] = arith.constant 4 : index
  // CHECK-NEXT: %[[A:.*]] = nv_tileaa.addptr %{{.*}}, %[[FOUR]]
  %zero = arith.constant 0 : index
  %four = arith.constant 4 : index
  %a = nv_tileaa.addptr %p, %zero : !p, index -> !p
  %b = nv_tileaa.addptr %a, %four : !p, index -> !p
  // CHECK-NEXT: %[[TWO:.*]] = nv_tileaa.constant
  // CHECK-NEXT: %[[C:.*]] = nv_tileaa.addptr %{{.*}}, %[[TWO]]
  %two = nv_tileaa.constant {value = dense<2> : !cuda_tile.tile<4xi32>} : tile<4xi32>
  %c = nv_tileaa.addptr %q, %two : tile<4x!p>, tile<4xi32> -> tile<4x!p>
  // CHECK-NEXT: nv_tileaa.mark_for_reuse %[[A]], %[[C]]
  nv_tileaa.mark_for_reuse %b, %c : !p, tile<4x!p>
  nv_tileaa.return
}

// CHECK-LABEL: nv_tileaa.func @splats
nv_tileaa.func @splats(%f: tile<f32>) {
  // CHECK: nv_tileaa.splat %{{.*}} : tile<f32> -> tile<8x4xf32>
  // CHECK-NEXT: nv_tileaa.mark_for_reuse
  %s = nv_tileaa.splat %f : tile<f32> -> tile<4xf32>
  %v = nv_tileaa.view %s : tile<4xf32> -> tile<1x4xf32>
  %b = nv_tileaa.broadcast %v : tile<1x4xf32> -> tile<8x4xf32>
  nv_tileaa.mark_for_reuse %b : tile<8x4xf32>
  nv_tileaa.return
}

// CHECK-LABEL: nv_tileaa.func @masked_off
nv_tileaa.func @masked_off(%p: tile<4x!nv_tileaa.ptr<f32, 1>>, %other: tile<4xf32>, %t: !nv_tileaa.mem_token) {
  // CHECK-NEXT: nv_tileaa.mark_for_reuse %arg1, %arg2
  %false = arith.constant false
  %m = nv_tileaa.splat %false : i1 -> tile<4xi1>
  %v, %u = nv_tileaa.load %p, %m, %other, %t : tile<4x!nv_tileaa.ptr<f32, 1>>, tile<4xi1>, tile<4xf32>, !nv_tileaa.mem_token
    -> tile<4xf32>, !nv_tileaa.mem_token
  nv_tileaa.mark_for_reuse %v, %u : tile<4xf32>, !nv_tileaa.mem_token
  nv_tileaa.return
}

// CHECK-LABEL: nv_tileaa.func @joins
nv_tileaa.func @joins(%a: !nv_tileaa.mem_token, %b: !nv_tileaa.mem_token) {
  // CHECK-NEXT: nv_tileaa.join_mem_token %arg0, %arg1
  // CHECK-NEXT: nv_tileaa.mark_for_reuse
  %new = nv_tileaa.create_mem_token : !nv_tileaa.mem_token
  %x = nv_tileaa.join_mem_token %a, %new : !nv_tileaa.mem_token, !nv_tileaa.mem_token -> !nv_tileaa.mem_token
  %y = nv_tileaa.join_mem_token %x, %b, %a : !nv_tileaa.mem_token, !nv_tileaa.mem_token, !nv_tileaa.mem_token -> !nv_tileaa.mem_token
  nv_tileaa.mark_for_reuse %y : !nv_tileaa.mem_token
  nv_tileaa.return
}

// What is added to a product is zero, or minus infinity: an addition under a condition. The product is never -0.0.
// CHECK-LABEL: nv_tileaa.func @mask
nv_tileaa.func @mask(%m: tile<16x16xi1>, %a: tile<16x16xf16>, %b: tile<16x16xf16>, %x: tile<16x16xf32>) {
  // CHECK: %[[S:.*]] = nv_tileaa.dot
  // CHECK: %[[C:.*]] = arith.select %arg0
  // CHECK-NEXT: %[[Y:.*]] = nv_tileaa.addf %[[S]], %{{.*}} {
  // CHECK-NEXT: arith.select %arg0, %[[S]], %[[Y]] : tensor<16x16xi1>, tensor<16x16xf32>
  %zero = nv_tileaa.constant {value = dense<0.0> : !cuda_tile.tile<16x16xf32>} : tile<16x16xf32>
  %least = nv_tileaa.constant {value = dense<0xFF800000> : !cuda_tile.tile<16x16xf32>} : tile<16x16xf32>
  %s = nv_tileaa.dot %a, %b, %zero : tile<16x16xf16>, tile<16x16xf16>, tile<16x16xf32> -> tile<16x16xf32>
  %c = arith.select %m, %zero, %least : tensor<16x16xi1>, tensor<16x16xf32>
  %y = nv_tileaa.addf %s, %c {rounding_mode = #nv_tileaa.rounding_mode<nearest_even>} : tile<16x16xf32>, tile<16x16xf32> -> tile<16x16xf32>
  // What may be -0.0, and is seen, keeps the addition of zero.
  // CHECK-NEXT: nv_tileaa.addf %arg3, %[[C]]
  %z = nv_tileaa.addf %x, %c {rounding_mode = #nv_tileaa.rounding_mode<nearest_even>} : tile<16x16xf32>, tile<16x16xf32> -> tile<16x16xf32>
  nv_tileaa.mark_for_reuse %y, %z : tile<16x16xf32>, tile<16x16xf32>
  nv_tileaa.return
}

// Numbers of a small tile that is loaded for them alone are loaded one by one; not those of one whose token is used.
// CHECK-LABEL: nv_tileaa.func @numbers
nv_tileaa.func @numbers(%p: !nv_tileaa.ptr<i64, 1>, %n: index, %i: index) {
  // CHECK: %[[M:.*]] = nv_tileaa.make_memref
  // CHECK: %[[COLUMN:.*]] = arith.constant 1 : index
  // CHECK: %[[V:.*]] = nv_tileaa.block_tile %[[M]] {{.*}}tileSizes = array<i64: 1, 1>}
  // CHECK: nv_tileaa.tiled_load %[[V]][%{{.*}}, %[[COLUMN]]] {{.*}} -> tile<1x1xi64>
  // CHECK: nv_tileaa.tiled_load %{{.*}} -> tile<1x8xi64>, !nv_tileaa.mem_token
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %m = nv_tileaa.make_memref %p, %n : !nv_tileaa.ptr<i64, 1>, index -> !nv_tileaa.memref<?x8xi64, strides=[8,1], 1>
  %v = nv_tileaa.block_tile %m {dimGroups = [array<i64: 0>, array<i64: 1>], tileSizes = array<i64: 1, 8>} : !nv_tileaa.memref<?x8xi64, strides=[8,1], 1> -> !nv_tileaa.tiled_view<!nv_tileaa.memref<?x8xi64, strides=[8,1], 1>, 1x8>
  %row, %t = nv_tileaa.tiled_load %v[%i, %zero] {mem_semantic = #nv_tileaa.mem_semantic<weak>} : !nv_tileaa.tiled_view<!nv_tileaa.memref<?x8xi64, strides=[8,1], 1>, 1x8>, index, index -> tile<1x8xi64>, !nv_tileaa.mem_token
  %number = nv_tileaa.extract %row[%zero, %one] : tile<1x8xi64>, index, index -> tile<1x1xi64>
  nv_tileaa.mark_for_reuse %number : tile<1x1xi64>
  %other, %u = nv_tileaa.tiled_load %v[%i, %zero] {mem_semantic = #nv_tileaa.mem_semantic<weak>} : !nv_tileaa.tiled_view<!nv_tileaa.memref<?x8xi64, strides=[8,1], 1>, 1x8>, index, index -> tile<1x8xi64>, !nv_tileaa.mem_token
  %kept = nv_tileaa.extract %other[%zero, %one] : tile<1x8xi64>, index, index -> tile<1x1xi64>
  nv_tileaa.mark_for_reuse %kept, %u : tile<1x1xi64>, !nv_tileaa.mem_token
  nv_tileaa.return
}

// What each iteration hands on as it got it is there before the loop, an inner one's too, and the result is that.
// CHECK-LABEL: nv_tileaa.func @handed_on
nv_tileaa.func @handed_on(%p: !nv_tileaa.ptr<f32, 1>, %q: !nv_tileaa.ptr<f32, 1>, %n: i32) {
  // CHECK: %[[R:.*]] = scf.for {{.*}} iter_args(%[[S:.*]] = %{{.*}}) -> (i32)
  // CHECK-NEXT: nv_tileaa.mark_for_reuse %arg0
  // CHECK-NEXT: %[[I:.*]] = scf.for {{.*}} iter_args(%{{.*}} = %[[S]]) -> (i32)
  // CHECK: scf.yield %[[I]] : i32
  // CHECK: nv_tileaa.mark_for_reuse %[[R]], %arg0, %arg1
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %r:3 = scf.for %i = %zero to %n step %one iter_args(%s = %zero, %a = %p, %b = %q) -> (i32, !nv_tileaa.ptr<f32, 1>, !nv_tileaa.ptr<f32, 1>) : i32 {
    nv_tileaa.mark_for_reuse %a : !nv_tileaa.ptr<f32, 1>
    %o:2 = scf.for %j = %zero to %n step %one iter_args(%t = %s, %c = %b) -> (i32, !nv_tileaa.ptr<f32, 1>) : i32 {
      %u = arith.addi %t, %j : i32
      scf.yield %u, %c : i32, !nv_tileaa.ptr<f32, 1>
    }
    scf.yield %o#0, %a, %o#1 : i32, !nv_tileaa.ptr<f32, 1>, !nv_tileaa.ptr<f32, 1>
  }
  nv_tileaa.mark_for_reuse %r#0, %r#1, %r#2 : i32, !nv_tileaa.ptr<f32, 1>, !nv_tileaa.ptr<f32, 1>
  nv_tileaa.return
}
