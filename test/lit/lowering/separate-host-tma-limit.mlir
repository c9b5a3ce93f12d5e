// A kernel makes only so many descriptors itself: their memory is part of the launch.
// RUN: cuda-tile-opt --separate-host-tma="max-device-descriptors=1" %s -verify-diagnostics
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

!memref = !nv_tileaa.memref<?x?xf32, 1>
!desc = !nv_tileas.tma_desc<!nv_tileaa.memref<?x?xf32, 1>, [8, 4]>

// expected-error @+1 {{'nv_tileaa.func' op too many device TMA descriptors}}
nv_tileaa.func @two(%m: !memref)
    attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_90>} {
  %a = nv_tileas.make_tiled_tma_desc %m {atom = #nv_tileas.copy_atom<tma_load, box=[8,4]>, on_device, tmaIdx = 0}
    : !memref -> !desc
  %b = nv_tileas.make_tiled_tma_desc %m {atom = #nv_tileas.copy_atom<tma_load, box=[8,4]>, on_device, tmaIdx = 1}
    : !memref -> !desc
  nv_tileaa.return
}
