// Copies through TMA descriptors: atoms, box, shared layout, padding, multicast.
// RUN: cuda-tile-opt %s -verify-diagnostics
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

!desc = !nv_tileas.tma_desc<!nv_tileaa.memref<?x?xf32, 1>, [8, 4]>
!shared = !nv_tileas.buffer<4x8xf32, shared>
#load = #nv_tileas.copy_atom<tma_load, bits=1024, box=[8,4]>
#add = #nv_tileaa.rmw_mode<add>

nv_tileaa.func @tmareduceop_do_not_support_scatter4_mode(%i: index, %j: index, %desc: !desc, %sm: !shared) {
  // expected-error @+1 {{'nv_tileas.async.tiled_atomic_rmw' op TmaReduceOp do not support SCATTER4 mode}}
  %r_bad = nv_tileas.async.tiled_atomic_rmw %desc[%i, %j], %sm
    {atom = #nv_tileas.copy_atom<tma_redg, bits=1024, box=[8,4], mode=scatter4>, rmw_mode = #add}
    : !desc, index, index, !shared -> !nv_tileas.async_token
  %r_good = nv_tileas.async.tiled_atomic_rmw %desc[%i, %j], %sm
    {atom = #nv_tileas.copy_atom<tma_redg, bits=1024, box=[8,4], mode=reduce>, rmw_mode = #add}
    : !desc, index, index, !shared -> !nv_tileas.async_token
  nv_tileaa.return
}

nv_tileaa.func @tma_load_atom_type(%i: index, %j: index, %mb: !nv_tileas.mbarrier, %d0: !desc, %b0: !shared) {
  // expected-error @+1 {{'nv_tileas.async.tiled_tma_load' op expect a tma_load atom type}}
  %r = nv_tileas.async.tiled_tma_load %d0[%i, %j], %b0, %mb
    {atom = #nv_tileas.copy_atom<tma_store, bits=1024, box=[8,4]>}
    : !desc, index, index, !shared, !nv_tileas.mbarrier -> !nv_tileas.async_token
  nv_tileaa.return
}

nv_tileaa.func @tma_store_atom_type(%i: index, %j: index, %desc: !desc, %sm: !shared) {
  // expected-error @+1 {{'nv_tileas.async.tiled_tma_store' op expect a tma_store atom type}}
  %r = nv_tileas.async.tiled_tma_store %desc[%i, %j], %sm {atom = #load}
    : !desc, index, index, !shared -> !nv_tileas.async_token
  nv_tileaa.return
}

nv_tileaa.func @tma_redg_atom_type(%i: index, %j: index, %desc: !desc, %sm: !shared) {
  // expected-error @+1 {{'nv_tileas.async.tiled_atomic_rmw' op expect a tma_redg atom type}}
  %r = nv_tileas.async.tiled_atomic_rmw %desc[%i, %j], %sm
    {atom = #nv_tileas.copy_atom<tma_store, bits=1024, box=[8,4]>, rmw_mode = #add}
    : !desc, index, index, !shared -> !nv_tileas.async_token
  nv_tileaa.return
}

nv_tileaa.func @tma_box_dim_copy_atom_box_dim(%i: index, %j: index, %mb: !nv_tileas.mbarrier, %d0: !desc,
    %b0: !shared) {
  // expected-error @+1 {{'nv_tileas.async.tiled_tma_load' op tma box-dim and copy atom box-dim mismatch}}
  %r = nv_tileas.async.tiled_tma_load %d0[%i, %j], %b0, %mb
    {atom = #nv_tileas.copy_atom<tma_load, bits=1024, box=[4,4]>}
    : !desc, index, index, !shared, !nv_tileas.mbarrier -> !nv_tileas.async_token
  nv_tileaa.return
}

nv_tileaa.func @tma_leading_box_dim_bit_width_not(%i: index, %j: index, %mb: !nv_tileas.mbarrier,
    %d0: !nv_tileas.tma_desc<!nv_tileaa.memref<?x?xf32, 1>, [2, 4]>, %b0: !shared) {
  // expected-error @+1 {{'nv_tileas.async.tiled_tma_load' op tma leading box-dim bit-width is not 16 bytes aligned}}
  %r = nv_tileas.async.tiled_tma_load %d0[%i, %j], %b0, %mb
    {atom = #nv_tileas.copy_atom<tma_load, bits=1024, box=[2,4]>}
    : !nv_tileas.tma_desc<!nv_tileaa.memref<?x?xf32, 1>, [2, 4]>, index, index, !shared, !nv_tileas.mbarrier
    -> !nv_tileas.async_token
  nv_tileaa.return
}

nv_tileaa.func @smem_layout_not_tma_compatible(%i: index, %j: index, %mb: !nv_tileas.mbarrier, %d0: !desc,
    %b0: !nv_tileas.buffer<4x8xf32, shared, #nv_tileas.layout<offset=[[0,2],[0,1],[0,4],[1,0],[2,0]] : 4x8>>) {
  // expected-error @+1 {{'nv_tileas.async.tiled_tma_load' op smem layout is not TMA compatible}}
  %r = nv_tileas.async.tiled_tma_load %d0[%i, %j], %b0, %mb {atom = #load}
    : !desc, index, index, !nv_tileas.buffer<4x8xf32, shared,
      #nv_tileas.layout<offset=[[0,2],[0,1],[0,4],[1,0],[2,0]] : 4x8>>, !nv_tileas.mbarrier
    -> !nv_tileas.async_token
  nv_tileaa.return
}

nv_tileaa.func @tmaload_only_support_zero_padding_now(%i: index, %j: index, %mb: !nv_tileas.mbarrier, %d0: !desc,
    %b0: !shared) {
  // expected-error @+1 {{'nv_tileas.async.tiled_tma_load' op TmaLoad only support zero padding now}}
  %r = nv_tileas.async.tiled_tma_load %d0[%i, %j], %b0, %mb
    {atom = #load, padding_value = #nv_tileaa.padding_value<nan>}
    : !desc, index, index, !shared, !nv_tileas.mbarrier -> !nv_tileas.async_token
  nv_tileaa.return
}

nv_tileaa.func @gathertmaload_only_support_zero_padding_now(%i: index, %j: index, %mb: !nv_tileas.mbarrier, %d0: !desc,
    %b0: !shared) {
  // expected-error @+1 {{'nv_tileas.async.gather_tma_load' op GatherTmaLoad only support zero padding now}}
  %r = nv_tileas.async.gather_tma_load %d0[%i, %j], %b0, %mb
    {atom = #load, padding_value = #nv_tileaa.padding_value<nan>}
    : !desc, index, index, !shared, !nv_tileas.mbarrier -> !nv_tileas.async_token
  nv_tileaa.return
}

nv_tileaa.func @missing_or_invalid_num_multicast_multicast_tma_load(%i: index, %j: index, %mb: !nv_tileas.mbarrier,
    %d0: !desc, %b0: !shared) {
  // expected-error @+1 {{'nv_tileas.async.tiled_tma_load' op missing or invalid num_multicast for a multicast TMA load}}
  %r = nv_tileas.async.tiled_tma_load %d0[%i, %j], %b0, %mb {atom = #load, multicast}
    : !desc, index, index, !shared, !nv_tileas.mbarrier -> !nv_tileas.async_token
  nv_tileaa.return
}

nv_tileaa.func @mcast_not_supported_tma_load_less_than(%i: index, %j: index, %mb: !nv_tileas.mbarrier, %d0: !desc,
    %b0: !shared) {
  // expected-error @+1 {{'nv_tileas.async.tiled_tma_load' op mcast is not supported for TMA load with less than 128bytes per atom}}
  %r = nv_tileas.async.tiled_tma_load %d0[%i, %j], %b0, %mb
    {atom = #nv_tileas.copy_atom<tma_load, bits=512, box=[8,4]>, multicast, num_multicast = 2}
    : !desc, index, index, !shared, !nv_tileas.mbarrier -> !nv_tileas.async_token
  nv_tileaa.return
}

nv_tileaa.func @num_multicast_2_return_tma_load_type_does(%i: index, %j: index, %mb: !nv_tileas.mbarrier, %d0: !desc,
    %b0: !shared) {
  // expected-error @+1 {{'nv_tileas.async.tiled_tma_load' op num_multicast is 2, but the return TMA load type does not support multicast}}
  %r = nv_tileas.async.tiled_tma_load %d0[%i, %j], %b0, %mb {atom = #load, multicast, num_multicast = 2}
    : !desc, index, index, !shared, !nv_tileas.mbarrier -> !nv_tileas.async_token
  nv_tileaa.return
}

nv_tileaa.func @right_tiled_tma_load(%i: index, %j: index, %mb: !nv_tileas.mbarrier, %d0: !desc, %b0: !shared) {
  %r = nv_tileas.async.tiled_tma_load %d0[%i, %j], %b0, %mb {atom = #load}
    : !desc, index, index, !shared, !nv_tileas.mbarrier -> !nv_tileas.async_token
  nv_tileaa.return
}

nv_tileaa.func @right_gather_tma_load(%i: index, %j: index, %mb: !nv_tileas.mbarrier, %d0: !desc, %b0: !shared) {
  %r = nv_tileas.async.gather_tma_load %d0[%i, %j], %b0, %mb
    {atom = #load, padding_value = #nv_tileaa.padding_value<zero>}
    : !desc, index, index, !shared, !nv_tileas.mbarrier -> !nv_tileas.async_token
  nv_tileaa.return
}

nv_tileaa.func @right_tiled_tma_load_multicast(%i: index, %j: index, %mb: !nv_tileas.mbarrier, %d0: !desc,
    %b0: !shared) {
  %r = nv_tileas.async.tiled_tma_load %d0[%i, %j], %b0, %mb
    {atom = #nv_tileas.copy_atom<tma_load, bits=1024, box=[8,4], multicast=2>, multicast, num_multicast = 2}
    : !desc, index, index, !shared, !nv_tileas.mbarrier -> !nv_tileas.async_token
  nv_tileaa.return
}

nv_tileaa.func @right_tiled_tma_store(%i: index, %j: index, %desc: !desc, %sm: !shared) {
  %r = nv_tileas.async.tiled_tma_store %desc[%i, %j], %sm {atom = #nv_tileas.copy_atom<tma_store, bits=1024, box=[8,4]>}
    : !desc, index, index, !shared -> !nv_tileas.async_token
  nv_tileaa.return
}

nv_tileaa.func @right_scatter_tma_store(%i: index, %j: index, %desc: !desc, %sm: !shared) {
  %r = nv_tileas.async.scatter_tma_store %desc[%i, %j], %sm
    {atom = #nv_tileas.copy_atom<tma_store, bits=1024, box=[8,4]>, delay_wait}
    : !desc, index, index, !shared -> !nv_tileas.async_token
  nv_tileaa.return
}

nv_tileaa.func @right_tiled_atomic_rmw(%i: index, %j: index, %desc: !desc, %sm: !shared) {
  %r = nv_tileas.async.tiled_atomic_rmw %desc[%i, %j], %sm
    {atom = #nv_tileas.copy_atom<tma_redg, bits=1024, box=[8,4]>, rmw_mode = #add}
    : !desc, index, index, !shared -> !nv_tileas.async_token
  nv_tileaa.return
}

// Half of a box is left over.
nv_tileaa.func @no_whole_boxes(%i: index, %desc: !desc, %half: !nv_tileas.buffer<2x8xf32, shared>) {
  // expected-error @+1 {{'nv_tileas.async.tiled_tma_store' op unable to partition input tensors for TMA}}
  %r = nv_tileas.async.tiled_tma_store %desc[%i, %i], %half {atom = #nv_tileas.copy_atom<tma_store, box=[8,4]>}
    : !desc, index, index, !nv_tileas.buffer<2x8xf32, shared> -> !nv_tileas.async_token
  nv_tileaa.return
}

// A group of no stores has no copies.
nv_tileaa.func @stores_of_a_group(%t: !nv_tileas.async_token) {
  // expected-error @+1 {{'nv_tileas.async.commit_group' op expects no tokens of copies in a group of no stores}}
  %g = nv_tileas.async.commit_group %t {stores} : !nv_tileas.async_token -> !nv_tileas.async_token
  %none = nv_tileas.async.commit_group {stores} : !nv_tileas.async_token
  nv_tileaa.return
}
