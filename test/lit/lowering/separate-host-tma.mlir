// Descriptors move to a host module, with what they depend on; the kernel names them by index.
// RUN: cuda-tile-opt --separate-host-tma %s | FileCheck %s
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

!memref = !nv_tileaa.memref<?x?xf32, 1>
!desc = !nv_tileas.tma_desc<!nv_tileaa.memref<?x?xf32, 1>, [8, 4]>
!p = !nv_tileaa.ptr<f32, 1>

// CHECK-LABEL: nv_tileaa.func @k
// CHECK-NOT: make_memref
// CHECK: nv_tileas.get_tma_desc {tmaIdx = 0}
// CHECK: nv_tileas.make_tiled_tma_desc {{.*}}on_device
// CHECK-NOT: make_tiled_tma_desc
// CHECK: module @k_host attributes {"nv_tileas.host-code"}
// CHECK: nv_tileaa.func @k_descriptors
// CHECK: arith.addi
// CHECK-NEXT: nv_tileaa.make_memref
// CHECK-NEXT: nv_tileas.make_tiled_tma_desc {{.*}}tmaIdx = 0
nv_tileaa.func @k(%p: !p, %i: index, %j: index, %m: !memref)
    attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_90>} {
  %s = arith.addi %i, %j : index
  %n = nv_tileaa.make_memref %p, %s, %i, %j, %i, %j : !p, index, index, index, index, index -> !memref
  %d = nv_tileas.make_tiled_tma_desc %n {atom = #nv_tileas.copy_atom<tma_load, box=[8,4]>, tmaIdx = 0} : !memref -> !desc
  %e = nv_tileas.make_tiled_tma_desc %m {atom = #nv_tileas.copy_atom<tma_load, box=[8,4]>, on_device, tmaIdx = 0}
    : !memref -> !desc
  nv_tileaa.return
}
