// With the counts as they are recorded, each descriptor's index has to fit them.
// RUN: cuda-tile-opt --attach-tma-descriptor-args="recount=false" %s -split-input-file -verify-diagnostics
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

!memref = !nv_tileaa.memref<?x?xf32, 1>
!desc = !nv_tileas.tma_desc<!nv_tileaa.memref<?x?xf32, 1>, [8, 4]>

nv_tileaa.func @host(%m: !memref)
    attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>,
                "nv_tileas.num-device-tmas" = 0 : i32, "nv_tileas.num-host-tmas" = 1 : i32} {
  %good = nv_tileas.make_tiled_tma_desc %m {atom = #nv_tileas.copy_atom<tma_load, box=[8,4]>, tmaIdx = 0} : !memref -> !desc
  // expected-error @+1 {{'nv_tileas.make_tiled_tma_desc' op tmaIdx exceed tmaHostNum.}}
  %bad = nv_tileas.make_tiled_tma_desc %m {atom = #nv_tileas.copy_atom<tma_load, box=[8,4]>, tmaIdx = 1} : !memref -> !desc
  nv_tileaa.return
}

// -----

!memref = !nv_tileaa.memref<?x?xf32, 1>
!desc = !nv_tileas.tma_desc<!nv_tileaa.memref<?x?xf32, 1>, [8, 4]>

nv_tileaa.func @device(%m: !memref)
    attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>,
                "nv_tileas.num-device-tmas" = 1 : i32, "nv_tileas.num-host-tmas" = 0 : i32} {
  // expected-error @+1 {{'nv_tileas.make_tiled_tma_desc' op tmaIdx exceed tmaDeviceNum.}}
  %bad = nv_tileas.make_tiled_tma_desc %m {atom = #nv_tileas.copy_atom<tma_load, box=[8,4]>, on_device, tmaIdx = 1}
    : !memref -> !desc
  nv_tileaa.return
}

// -----

!memref = !nv_tileaa.memref<?x?xf32, 1>
!desc = !nv_tileas.tma_desc<!nv_tileaa.memref<?x?xf32, 1>, [8, 4]>

nv_tileaa.func @no_index(%m: !memref)
    attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>,
                "nv_tileas.num-device-tmas" = 0 : i32, "nv_tileas.num-host-tmas" = 1 : i32} {
  // expected-error @+1 {{'nv_tileas.make_tiled_tma_desc' op not find tmaIdx.}}
  %bad = nv_tileas.make_tiled_tma_desc %m {atom = #nv_tileas.copy_atom<tma_load, box=[8,4]>} : !memref -> !desc
  nv_tileaa.return
}

// -----

// expected-error @+1 {{'nv_tileaa.func' op funcOp lack tmaDeviceNum and tmaHostNum attr}}
nv_tileaa.func @no_counts() attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>} {
  nv_tileaa.return
}
