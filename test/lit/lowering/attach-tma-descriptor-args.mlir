// The host's descriptors become hidden arguments in the order of their indices, and both kinds are counted.
// RUN: cuda-tile-opt --attach-tma-descriptor-args %s | FileCheck %s
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

!f32desc = !nv_tileas.tma_desc<!nv_tileaa.memref<?x?xf32, 1>, [8, 4]>
!i32desc = !nv_tileas.tma_desc<!nv_tileaa.memref<?x?xi32, 1>, [8, 4]>
!shared = !nv_tileas.buffer<4x8xf32, shared>

// CHECK-LABEL: nv_tileaa.func @k
// CHECK-SAME: %[[A:arg[0-9]+]]: !nv_tileas.tma_desc<!nv_tileaa.memref<?x?xi32, 1>, [8, 4]> {cute_nvgpu.grid_constant, nv_tileas.hidden}
// CHECK-SAME: %[[B:arg[0-9]+]]: !nv_tileas.tma_desc<!nv_tileaa.memref<?x?xf32, 1>, [8, 4]> {cute_nvgpu.grid_constant, nv_tileas.hidden}
// CHECK-SAME: "nv_tileas.num-device-tmas" = 1 : i32, "nv_tileas.num-host-tmas" = 2 : i32
// CHECK-NOT: get_tma_desc
// CHECK: nv_tileas.async.tiled_tma_store %[[B]]
nv_tileaa.func @k(%s: !shared, %m: !nv_tileaa.memref<?x?xf32, 1>, %i: index)
    attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_90>} {
  %b = nv_tileas.get_tma_desc {tmaIdx = 1} : !f32desc
  %a = nv_tileas.get_tma_desc {tmaIdx = 0} : !i32desc
  %own = nv_tileas.make_tiled_tma_desc %m {atom = #nv_tileas.copy_atom<tma_load, box=[8,4]>, on_device, tmaIdx = 0}
    : !nv_tileaa.memref<?x?xf32, 1> -> !f32desc
  %t = nv_tileas.async.tiled_tma_store %b[%i, %i], %s {atom = #nv_tileas.copy_atom<tma_store, box=[8,4]>, tmaIdx = 1}
    : !f32desc, index, index, !shared -> !nv_tileas.async_token
  nv_tileaa.return
}
