// A descriptor that the host is to make depends on the kernel's arguments, through ops that a host function can run.
// RUN: cuda-tile-opt --separate-host-tma %s -split-input-file -verify-diagnostics
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

!memref = !nv_tileaa.memref<?x?xf32, 1>
!desc = !nv_tileas.tma_desc<!nv_tileaa.memref<?x?xf32, 1>, [8, 4]>
!p = !nv_tileaa.ptr<f32, 1>

nv_tileaa.func @offset_from_a_loop(%p: !p, %i: index, %j: index)
    attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_90>} {
  scf.for %s = %i to %j step %j {
    %m = nv_tileaa.make_memref %p, %s, %i, %j, %i, %j : !p, index, index, index, index, index -> !memref
    // expected-error @+1 {{'nv_tileas.make_tiled_tma_desc' op expected MakeTiledTMADescOp not depends on scf}}
    %d = nv_tileas.make_tiled_tma_desc %m {atom = #nv_tileas.copy_atom<tma_load, box=[8,4]>, tmaIdx = 0}
      : !memref -> !desc
  }
  nv_tileaa.return
}

// -----

!memref = !nv_tileaa.memref<?x?xf32, 1>
!desc = !nv_tileas.tma_desc<!nv_tileaa.memref<?x?xf32, 1>, [8, 4]>
!p = !nv_tileaa.ptr<f32, 1>

nv_tileaa.func @offset_from_a_branch(%p: !p, %i: index, %j: index, %c: i1)
    attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_90>} {
  %s = scf.if %c -> (index) {
    scf.yield %i : index
  } else {
    scf.yield %j : index
  }
  %m = nv_tileaa.make_memref %p, %s, %i, %j, %i, %j : !p, index, index, index, index, index -> !memref
  // expected-error @+1 {{'nv_tileas.make_tiled_tma_desc' op expected MakeTiledTMADescOp not depends on scf}}
  %d = nv_tileas.make_tiled_tma_desc %m {atom = #nv_tileas.copy_atom<tma_load, box=[8,4]>, tmaIdx = 0}
    : !memref -> !desc
  nv_tileaa.return
}

// -----

!memref = !nv_tileaa.memref<?x?xf32, 1>
!desc = !nv_tileas.tma_desc<!nv_tileaa.memref<?x?xf32, 1>, [8, 4]>
!p = !nv_tileaa.ptr<f32, 1>

// The offset is that of before the loop in the first iteration, and that of the iteration before in the others.
nv_tileaa.func @offset_with_two_sources(%p: !p, %i: index, %j: index)
    attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_90>} {
  %r = scf.for %k = %i to %j step %j iter_args(%s = %i) -> (index) {
    %m = nv_tileaa.make_memref %p, %s, %i, %j, %i, %j : !p, index, index, index, index, index -> !memref
    // expected-error-re @+1 {{'nv_tileas.make_tiled_tma_desc' op values depended by MakeTiledTMADescOp are not supportedbecause {{.*}} matches more than 1 captured values.}}
    %d = nv_tileas.make_tiled_tma_desc %m {atom = #nv_tileas.copy_atom<tma_load, box=[8,4]>, tmaIdx = 0}
      : !memref -> !desc
    scf.yield %s : index
  }
  nv_tileaa.return
}

// -----

!memref = !nv_tileaa.memref<?x?xf32, 1>
!desc = !nv_tileas.tma_desc<!nv_tileaa.memref<?x?xf32, 1>, [8, 4]>
!p = !nv_tileaa.ptr<f32, 1>

nv_tileaa.func @offset_from_math(%p: !p, %i: index, %j: index, %n: i32)
    attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_90>} {
  %a = "math.ctpop"(%n) : (i32) -> i32
  %s = arith.index_cast %a : i32 to index
  %m = nv_tileaa.make_memref %p, %s, %i, %j, %i, %j : !p, index, index, index, index, index -> !memref
  // expected-error @+1 {{'nv_tileas.make_tiled_tma_desc' op math dialect not suppourt in separateHostTMA pass in the moment.}}
  %d = nv_tileas.make_tiled_tma_desc %m {atom = #nv_tileas.copy_atom<tma_load, box=[8,4]>, tmaIdx = 0}
    : !memref -> !desc
  nv_tileaa.return
}

// -----

!memref = !nv_tileaa.memref<?x?xf32, 1>
!desc = !nv_tileas.tma_desc<!nv_tileaa.memref<?x?xf32, 1>, [8, 4]>

nv_tileaa.func @no_index(%m: !memref)
    attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_90>} {
  // expected-error @+1 {{'nv_tileas.make_tiled_tma_desc' op not find tmaIdx.}}
  %d = nv_tileas.make_tiled_tma_desc %m {atom = #nv_tileas.copy_atom<tma_load, box=[8,4]>} : !memref -> !desc
  nv_tileaa.return
}

// -----

!memref = !nv_tileaa.memref<?x?xf32, 1>
!desc = !nv_tileas.tma_desc<!nv_tileaa.memref<?x?xf32, 1>, [8, 4]>

// Only a kernel has a host side.
nv_tileaa.func @no_kernel(%m: !memref) attributes {compute_capability = #nv_tileaa.compute_capability<sm_90>} {
  // expected-error @+1 {{'nv_tileas.make_tiled_tma_desc' op expect lower MakeTiledTMADescOp}}
  %d = nv_tileas.make_tiled_tma_desc %m {atom = #nv_tileas.copy_atom<tma_load, box=[8,4]>, tmaIdx = 0}
    : !memref -> !desc
  nv_tileaa.return
}

// -----

!memref = !nv_tileaa.memref<?x?xf32, 1>
!desc = !nv_tileas.tma_desc<!nv_tileaa.memref<?x?xf32, 1>, [8, 4]>

// expected-error @+1 {{'nv_tileaa.func' op expects a compute_capability on a kernel with host TMA descriptors}}
nv_tileaa.func @no_target(%m: !memref) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>} {
  %d = nv_tileas.make_tiled_tma_desc %m {atom = #nv_tileas.copy_atom<tma_load, box=[8,4]>, tmaIdx = 0}
    : !memref -> !desc
  nv_tileaa.return
}
