// Blocking of memory into tiles, and of convolutions.
// RUN: cuda-tile-opt %s -verify-diagnostics
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

!memref = !nv_tileaa.memref<?x?xf32, 1>
!view = !nv_tileaa.tiled_view<!memref, 4x8>
#params = #nv_tileaa.conv_params<pad_lower=[1], pad_upper=[1], stride=[1], dilation=[1]>

nv_tileaa.func @non_empty_tilesizes(%mr: !memref) {
  // expected-error @+1 {{'nv_tileaa.block_tile' op expects non-empty tileSizes}}
  %v_bad = nv_tileaa.block_tile %mr {dimGroups = [array<i64: 0>, array<i64: 1>]} : !memref -> !view
  %v_good = nv_tileaa.block_tile %mr {tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0>, array<i64: 1>]}
    : !memref -> !view
  nv_tileaa.return
}

nv_tileaa.func @non_empty_dimgroups(%mr: !memref) {
  // expected-error @+1 {{'nv_tileaa.block_tile' op expects non-empty dimGroups}}
  %v_bad = nv_tileaa.block_tile %mr {tileSizes = array<i64: 4, 8>} : !memref -> !view
  %v_good = nv_tileaa.block_tile %mr {tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0>, array<i64: 1>]}
    : !memref -> !view
  nv_tileaa.return
}

nv_tileaa.func @dim_being_tiled_only_one_time_0(%mr: !memref) {
  // expected-error @+1 {{'nv_tileaa.block_tile' op expects dim is being tiled only one time, but got 0}}
  %v_bad = nv_tileaa.block_tile %mr {tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0>, array<i64: 0>]}
    : !memref -> !view
  %v_good = nv_tileaa.block_tile %mr {tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0>, array<i64: 1>]}
    : !memref -> !view
  nv_tileaa.return
}

nv_tileaa.func @rank_tilesizes_equal_rank_dimgroups_2_vs(%mr: !memref) {
  // expected-error @+1 {{'nv_tileaa.block_tile' op expects rank of tileSizes be equal to rank of dimGroups, but got 2 vs 1}}
  %v_bad = nv_tileaa.block_tile %mr {tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0>]} : !memref -> !view
  %v_good = nv_tileaa.block_tile %mr {tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0>, array<i64: 1>]}
    : !memref -> !view
  nv_tileaa.return
}

nv_tileaa.func @all_tile_size_bigger_than_zero(%mr: !memref) {
  // expected-error @+1 {{'nv_tileaa.block_tile' op expects all tile size bigger than zero}}
  %v_bad = nv_tileaa.block_tile %mr {tileSizes = array<i64: 4, 0>, dimGroups = [array<i64: 0>, array<i64: 1>]}
    : !memref -> !view
  %v_good = nv_tileaa.block_tile %mr {tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0>, array<i64: 1>]}
    : !memref -> !view
  nv_tileaa.return
}

nv_tileaa.func @filter_size_must_range_1_3(%mr: !memref) {
  // expected-error @+1 {{'nv_tileaa.conv_tile' op expects filter size must be in range 1 to 3}}
  %v_bad = nv_tileaa.conv_tile %mr
    {tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0>, array<i64: 1>], filterSizes = array<i64: 4>,
      conv_params = #params, channelAxis = 1}
    : !memref -> !view
  %v_good = nv_tileaa.conv_tile %mr
    {tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0>, array<i64: 1>], filterSizes = array<i64: 3>,
      conv_params = #params, channelAxis = 1}
    : !memref -> !view
  nv_tileaa.return
}

nv_tileaa.func @conv_params_size_matched_each_other(%mr: !memref) {
  // expected-error @+1 {{'nv_tileaa.conv_tile' op expects conv params size matched with each other}}
  %v_bad = nv_tileaa.conv_tile %mr
    {tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0>, array<i64: 1>], filterSizes = array<i64: 3>,
      conv_params = #nv_tileaa.conv_params<pad_lower=[1], pad_upper=[1], stride=[1,1], dilation=[1]>, channelAxis = 1}
    : !memref -> !view
  %v_good = nv_tileaa.conv_tile %mr
    {tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0>, array<i64: 1>], filterSizes = array<i64: 3>,
      conv_params = #params, channelAxis = 1}
    : !memref -> !view
  nv_tileaa.return
}

nv_tileaa.func @channel_must_dimgroup(%mr: !memref) {
  // expected-error @+1 {{'nv_tileaa.conv_tile' op expects channel must be a dimGroup}}
  %v_bad = nv_tileaa.conv_tile %mr
    {tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0>, array<i64: 1>], filterSizes = array<i64: 3>,
      conv_params = #params, channelAxis = 2}
    : !memref -> !view
  %v_good = nv_tileaa.conv_tile %mr
    {tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0>, array<i64: 1>], filterSizes = array<i64: 3>,
      conv_params = #params, channelAxis = 1}
    : !memref -> !view
  nv_tileaa.return
}

nv_tileaa.func @channel_dimgroup_should_contain_only_channel(%mr: !memref) {
  // expected-error @+1 {{'nv_tileaa.conv_tile' op expects channel dimGroup should contain only channel}}
  %v_bad = nv_tileaa.conv_tile %mr
    {tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0, 2>, array<i64: 1>], filterSizes = array<i64: 3>,
      conv_params = #params, channelAxis = 2}
    : !memref -> !view
  %v_good = nv_tileaa.conv_tile %mr
    {tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0>, array<i64: 1>], filterSizes = array<i64: 3>,
      conv_params = #params, channelAxis = 1}
    : !memref -> !view
  nv_tileaa.return
}

nv_tileaa.func @dims_are_the_sources(%mr: !memref) {
  // expected-error @+1 {{'nv_tileaa.block_tile' op expects dims in range 0 to 1, but got 7}}
  %v_far = nv_tileaa.block_tile %mr {tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0>, array<i64: 7>]} : !memref -> !view
  // expected-error @+1 {{'nv_tileaa.block_tile' op expects dims in range 0 to 1, but got -1}}
  %v_below = nv_tileaa.block_tile %mr {tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: -1>, array<i64: 1>]} : !memref -> !view
  // expected-error @+1 {{'nv_tileaa.conv_tile' op expects dims in range 0 to 1, but got 2}}
  %v_channel = nv_tileaa.conv_tile %mr
    {tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0>, array<i64: 2>], filterSizes = array<i64: 3>,
      conv_params = #params, channelAxis = 2}
    : !memref -> !view
  nv_tileaa.return
}

nv_tileaa.func @groups_are_those_of_the_tiling(%mr: !memref, %m3: !nv_tileaa.memref<?x?x?xf32, 1>) {
  // expected-error @+1 {{'nv_tileaa.block_tile' op expects the dimGroups of the result's tiling, which are [[0], [1]], but got [[1], [0]]}}
  %v_bad = nv_tileaa.block_tile %mr {tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 1>, array<i64: 0>]} : !memref -> !view
  %v_good = nv_tileaa.block_tile %mr {tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 1>, array<i64: 0>]}
    : !memref -> !nv_tileaa.tiled_view<!memref, 4x8, #nv_tileaa.tiling<dim_map=[1,0]>>
  // expected-error @+1 {{'nv_tileaa.block_tile' op expects a dim_group for each of 2 dimensions, of all 3 dims of the source, but got [[0], [1]]}}
  %v_few = nv_tileaa.block_tile %m3 {tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0>, array<i64: 1>]} : !nv_tileaa.memref<?x?x?xf32, 1> -> !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?x?xf32, 1>, 4x8>
  %v_all = nv_tileaa.block_tile %m3 {tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0, 1>, array<i64: 2>]}
    : !nv_tileaa.memref<?x?x?xf32, 1>
    -> !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?x?xf32, 1>, 4x8, #nv_tileaa.tiling<dim_groups=[[0,1],[2]]>>
  nv_tileaa.return
}
