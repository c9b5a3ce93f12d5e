// What cannot become an asynchronous copy is refused at the access.
// RUN: cuda-tile-opt --lower-tma-load-store-to-async %s -split-input-file -verify-diagnostics
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

!view = !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xf32, 1>, 4x8>

// expected-error @+1 {{'nv_tileaa.func' op LowerTMALoadStoreToAsync: missing or invalid KernelSpecAttr on function}}
nv_tileaa.func @no_kernel_spec(%v: !view, %i: index) {
  %x = nv_tileas.tiled_load %v[%i, %i] {allow_tma, atom = #nv_tileas.copy_atom<tma_load, box=[8,4]>}
    : !view, index, index -> tile<4x8xf32>
  nv_tileaa.return
}

// -----

!view = !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xf32, 1>, 4x8>

nv_tileaa.func @padding(%v: !view, %i: index)
    attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>} {
  // expected-error @+1 {{'nv_tileas.tiled_load' op TmaLoad only support zero padding now}}
  %x = nv_tileas.tiled_load %v[%i, %i]
    {allow_tma, atom = #nv_tileas.copy_atom<tma_load, box=[8,4]>, padding_value = #nv_tileaa.padding_value<nan>}
    : !view, index, index -> tile<4x8xf32>
  nv_tileaa.return
}

// -----

!rows = !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xf32, 1>, 4x8, #nv_tileaa.tiling<sparse_dim=0, padding=nan>>

nv_tileaa.func @padding_of_gathered_rows(%v: !rows, %i: index)
    attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>} {
  // expected-error @+1 {{'nv_tileas.tiled_load' op GatherTmaLoad only support zero padding now}}
  %x = nv_tileas.tiled_load %v[%i, %i] {allow_tma, atom = #nv_tileas.copy_atom<tma_load, box=[8,4]>}
    : !rows, index, index -> tile<4x8xf32>
  nv_tileaa.return
}

// -----

!view = !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xf32, 1>, 4x8>

nv_tileaa.func @no_box(%v: !view, %i: index)
    attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>} {
  // expected-error @+1 {{'nv_tileas.tiled_load' op failed to get expected tx-count}}
  %x = nv_tileas.tiled_load %v[%i, %i] {allow_tma, atom = #nv_tileas.copy_atom<tma_load>}
    : !view, index, index -> tile<4x8xf32>
  nv_tileaa.return
}

// -----

!view = !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xf32, 1>, 4x8>

// The tile is half a box wide.
nv_tileaa.func @no_whole_boxes(%v: !view, %i: index)
    attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>} {
  // expected-error @+1 {{'nv_tileas.tiled_load' op unable to partition input tensors for TMA}}
  %x = nv_tileas.tiled_load %v[%i, %i] {allow_tma, atom = #nv_tileas.copy_atom<tma_load, box=[16,4]>}
    : !view, index, index -> tile<4x8xf32>
  nv_tileaa.return
}

// -----

!memref = !nv_tileaa.memref<?x?xf32, 1>

// The tile's rows run along the columns of memory, which a copy into a row-major buffer cannot turn round.
nv_tileaa.func @transposed(%v: !nv_tileaa.tiled_view<!memref, 4x8, #nv_tileaa.tiling<dim_map=[1,0]>>, %i: index)
    attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>} {
  // expected-error @+1 {{'nv_tileas.tiled_load' op goes through a dim_map [1, 0], and a TMA copy keeps the order of dimensions}}
  %x = nv_tileas.tiled_load %v[%i, %i] {allow_tma, atom = #nv_tileas.copy_atom<tma_load, box=[4,8]>}
    : !nv_tileaa.tiled_view<!memref, 4x8, #nv_tileaa.tiling<dim_map=[1,0]>>, index, index -> tile<4x8xf32>
  nv_tileaa.return
}

// -----

!desc = !nv_tileas.tma_desc<!nv_tileaa.memref<?x?xf32, 1>, [8, 4]>
!shared = !nv_tileas.buffer<4x8xf32, shared>

nv_tileaa.func @no_bytes(%d: !desc, %s: !shared, %i: index)
    attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>} {
  // expected-error @+1 {{'nv_tileas.async.tiled_tma_load' op failed to get expected tx-count}}
  %t = nv_tileas.async.tiled_tma_load %d[%i, %i], %s {atom = #nv_tileas.copy_atom<tma_load, box=[8,4]>, tmaIdx = 0}
    : !desc, index, index, !shared -> !nv_tileas.async_token
  nv_tileaa.return
}

// -----

!desc = !nv_tileas.tma_desc<!nv_tileaa.memref<?x?xf32, 1>, [8, 4]>
!shared = !nv_tileas.buffer<4x8xf32, shared>

nv_tileaa.func @no_barrier_object(%d: !desc, %s: !shared, %i: index)
    attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>} {
  // expected-error @+1 {{'nv_tileas.async.tiled_tma_load' op failed to get MBarrier object}}
  %t = nv_tileas.async.tiled_tma_load %d[%i, %i], %s
    {atom = #nv_tileas.copy_atom<tma_load, box=[8,4]>, tmaIdx = 0, tx_count = 128}
    : !desc, index, index, !shared -> !nv_tileas.async_token
  nv_tileaa.return
}

// -----

!desc = !nv_tileas.tma_desc<!nv_tileaa.memref<?x?xf32, 1>, [8, 4]>
!shared = !nv_tileas.buffer<4x8xf32, shared>

// Where an argument lies in shared memory is not known.
nv_tileaa.func @barrier_object_from_elsewhere(%d: !desc, %s: !shared, %i: index, %b: !nv_tileas.mbarrier)
    attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>} {
  // expected-error @+1 {{'nv_tileas.async.tiled_tma_load' op failed to find smem buffer address for mbarrier}}
  %t = nv_tileas.async.tiled_tma_load %d[%i, %i], %s, %b
    {atom = #nv_tileas.copy_atom<tma_load, box=[8,4]>, tmaIdx = 0, tx_count = 128}
    : !desc, index, index, !shared, !nv_tileas.mbarrier -> !nv_tileas.async_token
  nv_tileaa.return
}

// -----

!desc = !nv_tileas.tma_desc<!nv_tileaa.memref<?x?xf32, 1>, [8, 4]>
!shared = !nv_tileas.buffer<4x8xf32, shared>

nv_tileaa.func @barrier_object_without_arrivals(%d: !desc, %s: !shared, %i: index)
    attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>} {
  %good = nv_tileas.create_mbarrier {arrivals = 1} : !nv_tileas.mbarrier
  %t = nv_tileas.async.tiled_tma_load %d[%i, %i], %s, %good
    {atom = #nv_tileas.copy_atom<tma_load, box=[8,4]>, tmaIdx = 0, tx_count = 128}
    : !desc, index, index, !shared, !nv_tileas.mbarrier -> !nv_tileas.async_token
  %bad = nv_tileas.create_mbarrier : !nv_tileas.mbarrier
  // expected-error @+1 {{'nv_tileas.async.tiled_tma_load' op failed to init mbarrier}}
  %u = nv_tileas.async.tiled_tma_load %d[%i, %i], %s, %bad
    {atom = #nv_tileas.copy_atom<tma_load, box=[8,4]>, tmaIdx = 0, tx_count = 128}
    : !desc, index, index, !shared, !nv_tileas.mbarrier -> !nv_tileas.async_token
  nv_tileaa.return
}

// -----

!view = !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xf32, 1>, 4x8>

nv_tileaa.func @volatile(%v: !view, %i: index)
    attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>} {
  // expected-error @+1 {{'nv_tileas.tiled_load' op has the attribute 'is_volatile', which a TMA copy has not}}
  %x = nv_tileas.tiled_load %v[%i, %i] {allow_tma, is_volatile, atom = #nv_tileas.copy_atom<tma_load, box=[8,4]>}
    : !view, index, index -> tile<4x8xf32>
  nv_tileaa.return
}

// -----

!view = !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xf32, 1>, 4x8>

nv_tileaa.func @ordered(%v: !view, %x: tile<4x8xf32>, %i: index)
    attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>} {
  // expected-error @+1 {{'nv_tileas.tiled_store' op has the attribute 'mem_semantic', which a TMA copy has not}}
  nv_tileas.tiled_store %v[%i, %i], %x
    {allow_tma, atom = #nv_tileas.copy_atom<tma_store, box=[8,4]>, mem_semantic = #nv_tileaa.mem_semantic<relaxed>,
      mem_scope = #nv_tileaa.mem_scope<gpu>}
    : !view, tile<4x8xf32>, index, index
  nv_tileaa.return
}

// -----

!view = !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xf32, 1>, 4x8>

nv_tileaa.func @offsets(%v: !view, %i: index)
    attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>} {
  // expected-error @+1 {{'nv_tileas.tiled_load' op has the operand 'offsets', which a TMA copy has not}}
  %x = nv_tileas.tiled_load %v[%i, %i], %i, %i {allow_tma, atom = #nv_tileas.copy_atom<tma_load, box=[8,4]>}
    : !view, index, index, index, index -> tile<4x8xf32>
  nv_tileaa.return
}
