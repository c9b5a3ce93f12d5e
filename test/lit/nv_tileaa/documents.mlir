// The examples of the dialect's description, as they stand there, in functions that define what they use.
// RUN: cuda-tile-opt %s | FileCheck %s
// RUN: cuda-tile-opt %s | cuda-tile-opt - | FileCheck %s
// RUN: cuda-tile-opt -mlir-print-op-generic %s | cuda-tile-opt - | FileCheck %s
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// CHECK-LABEL: nv_tileaa.func @addptr
nv_tileaa.func @addptr(%p0: !nv_tileaa.ptr<f32, 1>, %off: index, %pbase: !nv_tileaa.ptr<f16, 1>, %lanes: tile<128xindex>) {
  // CHECK: nv_tileaa.addptr %{{.*}}, %{{.*}} : !nv_tileaa.ptr<f32, 1>, index -> !nv_tileaa.ptr<f32, 1>
  %p1 = nv_tileaa.addptr %p0, %off
    : !nv_tileaa.ptr<f32, 1>, index -> !nv_tileaa.ptr<f32, 1>
  // CHECK: nv_tileaa.addptr %{{.*}}, %{{.*}} : !nv_tileaa.ptr<f16, 1>, tile<128xindex> -> tile<128x!nv_tileaa.ptr<f16, 1>>
  %pp = nv_tileaa.addptr %pbase, %lanes
    : !nv_tileaa.ptr<f16, 1>, tile<128xindex>
    -> tile<128x!nv_tileaa.ptr<f16, 1>>
  nv_tileaa.return
}

// CHECK-LABEL: nv_tileaa.func @make_memref
nv_tileaa.func @make_memref(%pbase: !nv_tileaa.ptr<f32, 1>, %off: index, %sz0: index, %sz1: index, %st0: index, %st1: index) {
  // CHECK: nv_tileaa.make_memref {{.*}} {alias_scope = 7} : !nv_tileaa.ptr<f32, 1>, index, index, index, index, index -> !nv_tileaa.memref<?x?xf32, 1>
  %mr = nv_tileaa.make_memref %pbase, %off, %sz0, %sz1, %st0, %st1
    { alias_scope = 7,
      operandSegmentSizes = array<i32: 1, 1, 2, 2> }
    : (!nv_tileaa.ptr<f32, 1>, index, index, index, index, index)
    -> !nv_tileaa.memref<?x?xf32, 1>
  nv_tileaa.return
}

// CHECK-LABEL: nv_tileaa.func @gemm
nv_tileaa.func @gemm(%a_base: !nv_tileaa.ptr<f16, 1>, %b_base: !nv_tileaa.ptr<f16, 1>, %c_base: !nv_tileaa.ptr<f32, 1>,
    %off_a: index, %off_b: index, %off_c: index, %M: index, %N: index, %K: index, %s_a_row: index, %s_a_col: index,
    %s_b_row: index, %s_b_col: index, %s_c_row: index, %s_c_col: index, %i: index, %j: index, %k: index,
    %c_in: tile<128x128xf32>) {
// CHECK: %[[T0:.*]] = nv_tileaa.create_mem_token : !nv_tileaa.mem_token
%t0 = nv_tileaa.create_mem_token : !nv_tileaa.mem_token
// Compute the per-stage base pointers
%pa = nv_tileaa.addptr %a_base, %off_a
: !nv_tileaa.ptr<f16, 1>, index -> !nv_tileaa.ptr<f16, 1>
%pb = nv_tileaa.addptr %b_base, %off_b
: !nv_tileaa.ptr<f16, 1>, index -> !nv_tileaa.ptr<f16, 1>
// Wrap each pointer in a memref describing shape and stride
// CHECK: %[[A:.*]] = nv_tileaa.make_memref
%mr_a = nv_tileaa.make_memref %pa, %off_a, %M, %K, %s_a_row, %s_a_col
: (!nv_tileaa.ptr<f16, 1>, index, index, index, index, index)
-> !nv_tileaa.memref<?x?xf16, 1>
// CHECK: %[[B:.*]] = nv_tileaa.make_memref
%mr_b = nv_tileaa.make_memref %pb, %off_b, %K, %N, %s_b_row, %s_b_col
: (!nv_tileaa.ptr<f16, 1>, index, index, index, index, index)
-> !nv_tileaa.memref<?x?xf16, 1>
// Token-ordered tile loads
// CHECK: %[[L1:.*]]:2 = nv_tileaa.tiled_load %[[A]][{{.*}}], %[[T0]] {in_bounds = array<i1: true, true>} : !nv_tileaa.memref<?x?xf16, 1>, index, index, !nv_tileaa.mem_token -> tile<128x32xf16>, !nv_tileaa.mem_token
%av, %t1 = nv_tileaa.tiled_load %mr_a[%i, %k], %t0
{ in_bounds = array<i1: true, true>,
operandSegmentSizes = array<i32: 1, 2, 0, 0> }
: !nv_tileaa.memref<?x?xf16, 1>, index, index, !nv_tileaa.mem_token
-> tile<128x32xf16>, !nv_tileaa.mem_token
// CHECK: %[[L2:.*]]:2 = nv_tileaa.tiled_load %[[B]][{{.*}}], %[[L1]]#1
%bv, %t2 = nv_tileaa.tiled_load %mr_b[%k, %j], %t1
{ in_bounds = array<i1: true, true>,
operandSegmentSizes = array<i32: 1, 2, 0, 0> }
: !nv_tileaa.memref<?x?xf16, 1>, index, index, !nv_tileaa.mem_token
-> tile<32x128xf16>, !nv_tileaa.mem_token
// CHECK: %[[D:.*]] = nv_tileaa.dot %[[L1]]#0, %[[L2]]#0, %{{.*}} : tile<128x32xf16>, tile<32x128xf16>, tile<128x128xf32> -> tile<128x128xf32>
%d = nv_tileaa.dot %av, %bv, %c_in
{ operandSegmentSizes = array<i32: 1, 1, 1, 0, 0> }
: tile<128x32xf16>, tile<32x128xf16>, tile<128x128xf32>
-> tile<128x128xf32>
// Token-ordered tile store; %t3 succeeds the store in the token chain
// CHECK: %[[C:.*]] = nv_tileaa.make_memref
%mr_c = nv_tileaa.make_memref %c_base, %off_c, %M, %N, %s_c_row, %s_c_col
: (!nv_tileaa.ptr<f32, 1>, index, index, index, index, index)
-> !nv_tileaa.memref<?x?xf32, 1>
// CHECK: nv_tileaa.tiled_store %[[C]][{{.*}}], %[[D]], %[[L2]]#1 {in_bounds = array<i1: true, true>} : !nv_tileaa.memref<?x?xf32, 1>, tile<128x128xf32>, index, index, !nv_tileaa.mem_token -> !nv_tileaa.mem_token
%t3 = nv_tileaa.tiled_store %mr_c[%i, %j], %d, %t2
{ in_bounds = array<i1: true, true>,
operandSegmentSizes = array<i32: 1, 1, 2, 0> }
: !nv_tileaa.memref<?x?xf32, 1>, tile<128x128xf32>, index, index,
!nv_tileaa.mem_token
-> !nv_tileaa.mem_token
nv_tileaa.return
}

// Breaking exit from loops, in structured control flow.
// CHECK-LABEL: nv_tileaa.func @loop_with_breaking_exit
nv_tileaa.func @loop_with_breaking_exit(%lb: i32, %ub: i32, %true: i1, %one: i32) {
  // CHECK: scf.while
  %tmp, %result = scf.while (%x = %lb) : (i32) -> (i32, i32) {
    %done = arith.cmpi eq, %x, %ub : i32
    %x1 = scf.if %done -> (i32) {
      scf.yield %x : i32
    } else {
      %x2 = arith.addi %x, %one : i32
      scf.yield %x2 : i32
    }
    %not_done = arith.xori %done, %true : i1
    scf.condition(%not_done) %x1, %x : i32, i32
  } do {
    ^bb0(%arg0: i32, %arg1: i32):
    scf.yield %arg0 : i32
  }
  nv_tileaa.return
}

// A tile type is a tensor type in the ops of other dialects as well.
// CHECK-LABEL: nv_tileaa.func @tiles_elsewhere
nv_tileaa.func @tiles_elsewhere(%x: tile<4xi32>) {
  // CHECK: arith.addi %{{.*}}, %{{.*}} : tensor<4xi32>
  %a = arith.addi %x, %x : tile<4xi32>
  nv_tileaa.return
}
