// Kernels take the addresses, sizes and strides of memrefs, as far as their types leave them open; functions do not.
// RUN: cuda-tile-opt --flatten-kernel-parameters %s | FileCheck %s
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// CHECK: nv_tileaa.func @k(%[[I:.*]]: index, %[[A:.*]]: !nv_tileaa.ptr<f32, 1> {nv_tileaa.note = 1}, %[[A0:.*]]: index, %[[A1:.*]]: index, %[[AS:.*]]: index, %[[B:.*]]: !nv_tileaa.ptr<f16, 1>, %[[J:.*]]: index)
nv_tileaa.func @k(%i: index, %a: !nv_tileaa.memref<?x?xf32, strides=[?,1], 1> {nv_tileaa.note = 1 : i64},
                  %b: !nv_tileaa.memref<4xf16, strides=[1], 1>, %j: index)
    attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>} {
  // CHECK-NEXT: %[[MA:.*]] = nv_tileaa.make_memref %[[A]], %[[A0]], %[[A1]], %[[AS]] : !nv_tileaa.ptr<f32, 1>, index, index, index -> !nv_tileaa.memref<?x?xf32, strides=[?,1], 1>
  // CHECK-NEXT: %[[MB:.*]] = nv_tileaa.make_memref %[[B]] : !nv_tileaa.ptr<f16, 1> -> !nv_tileaa.memref<4xf16, strides=[1], 1>
  // CHECK-NEXT: nv_tileaa.get_dim_size %[[MA]] {dim = 0}
  %s = nv_tileaa.get_dim_size %a {dim = 0} : !nv_tileaa.memref<?x?xf32, strides=[?,1], 1> -> index
  // CHECK-NEXT: nv_tileaa.get_dim_size %[[MB]]
  %t = nv_tileaa.get_dim_size %b {dim = 0} : !nv_tileaa.memref<4xf16, strides=[1], 1> -> index
  nv_tileaa.print %s, %i, %j, %t {format = "%d %d %d %d"} : index, index, index, index
  nv_tileaa.return
}

// CHECK: nv_tileaa.func @f(%{{.*}}: !nv_tileaa.memref<4xf16, strides=[1], 1>)
nv_tileaa.func @f(%b: !nv_tileaa.memref<4xf16, strides=[1], 1>)
    attributes {kernel_spec = #nv_tileaa.kernel_spec<num_warps=4, num_ctas=1>} {
  nv_tileaa.return
}
