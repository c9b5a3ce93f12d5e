// Tiled accesses: coordinates, tiles, ordering, bounds, padding, atoms.
// RUN: cuda-tile-opt %s -verify-diagnostics
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

!memref = !nv_tileaa.memref<?x?xf32, 1>
!view = !nv_tileaa.tiled_view<!memref, 4x8>
#gpu = #nv_tileaa.mem_scope<gpu>
#relaxed = #nv_tileaa.mem_semantic<relaxed>

nv_tileaa.func @operand_group_starting_at_4_requires_0(%i: index, %j: index, %t: !nv_tileaa.mem_token, %tv: !view,
    %v48: tile<4x8xf32>) {
  // expected-error @+1 {{'nv_tileas.tiled_store' op operand group starting at #4 requires 0 or 1 element, but found 2}}
  nv_tileas.tiled_store %tv[%i, %j], %v48, %t, %t {operandSegmentSizes = array<i32: 1, 1, 2, 0, 2>}
    : !view, tile<4x8xf32>, index, index, !nv_tileaa.mem_token, !nv_tileaa.mem_token
  %o_good = nv_tileas.tiled_store %tv[%i, %j], %v48, %t
    : !view, tile<4x8xf32>, index, index, !nv_tileaa.mem_token -> !nv_tileaa.mem_token
  nv_tileaa.return
}

nv_tileaa.func @result_group_starting_at_0_requires_0(%i: index, %j: index, %tv: !view, %v48: tile<4x8xf32>) {
  // expected-error @+1 {{'nv_tileas.tiled_store' op result group starting at #0 requires 0 or 1 element, but found 2}}
  %a_bad, %b_bad = nv_tileas.tiled_store %tv[%i, %j], %v48
    : !view, tile<4x8xf32>, index, index -> !nv_tileaa.mem_token, !nv_tileaa.mem_token
  nv_tileas.tiled_store %tv[%i, %j], %v48 {} : !view, tile<4x8xf32>, index, index
  nv_tileaa.return
}

nv_tileaa.func @n2_coordinates_1(%i: index, %j: index, %tv: !view) {
  // expected-error @+1 {{'nv_tileas.tiled_load' op expects 2 coordinates, but got 1}}
  %v_bad = nv_tileas.tiled_load %tv[%i] : !view, index -> tile<4x8xf32>
  %v_good = nv_tileas.tiled_load %tv[%i, %j] {} : !view, index, index -> tile<4x8xf32>
  nv_tileaa.return
}

nv_tileaa.func @n3_coordinates_2(%i: index, %j: index, %tv: !view,
    %lv: !nv_tileaa.tiled_view<!memref, 4x8, #nv_tileaa.tiling<leading=1>>) {
  // expected-error @+1 {{'nv_tileas.tiled_load' op expects 3 coordinates, but got 2}}
  %v_bad = nv_tileas.tiled_load %lv[%i, %j] {}
    : !nv_tileaa.tiled_view<!memref, 4x8, #nv_tileaa.tiling<leading=1>>, index, index -> tile<4x8xf32>
  %v_good = nv_tileas.tiled_load %tv[%i, %j] {} : !view, index, index -> tile<4x8xf32>
  nv_tileaa.return
}

nv_tileaa.func @coordtype_same_as_memref_index_type_tile(%i: index, %s32: tile<i32>, %tv: !view) {
  // expected-error @+1 {{'nv_tileas.tiled_load' op expects CoordType is same as memref index type, but got tile<i32>}}
  %v_bad = nv_tileas.tiled_load %tv[%i, %s32] : !view, index, tile<i32> -> tile<4x8xf32>
  %v_good = nv_tileas.tiled_load %tv[%s32, %s32] : !view, tile<i32>, tile<i32> -> tile<4x8xf32>
  nv_tileaa.return
}

nv_tileaa.func @same_size_tilesize_tensor(%i: index, %j: index, %tv: !view) {
  // expected-error @+1 {{'nv_tileas.tiled_load' op requires the same size for tileSize and tensor}}
  %v_bad = nv_tileas.tiled_load %tv[%i, %j] {} : !view, index, index -> tile<8x8xf32>
  %v_good = nv_tileas.tiled_load %tv[%i, %j] {} : !view, index, index -> tile<4x8xf32>
  nv_tileaa.return
}

nv_tileaa.func @same_shape_tilesize_tensor_value(%i: index, %j: index, %tv: !view) {
  // expected-error @+1 {{'nv_tileas.tiled_load' op requires the same shape for tileSize and tensor value}}
  %v_bad = nv_tileas.tiled_load %tv[%i, %j] {} : !view, index, index -> tile<8x4xf32>
  %v_good = nv_tileas.tiled_load %tv[%i, %j] {} : !view, index, index -> tile<4x8xf32>
  nv_tileaa.return
}

nv_tileaa.func @view_elementtype_not_equal_tensor_element_type(%i: index, %j: index, %tv: !view) {
  // expected-error @+1 {{'nv_tileas.tiled_load' op view elementType not equal with tensor element type: f32 != f16}}
  %v_bad = nv_tileas.tiled_load %tv[%i, %j] {} : !view, index, index -> tile<4x8xf16>
  %v_good = nv_tileas.tiled_load %tv[%i, %j] {} : !view, index, index -> tile<4x8xf32>
  nv_tileaa.return
}

nv_tileaa.func @all_dimensions_must_positive_constants_0_8(%i: index, %j: index, %mr: !memref) {
  // expected-error @+1 {{'nv_tileas.tiled_load' op all dimensions must be positive constants, got [0, 8]}}
  %v_bad = nv_tileas.tiled_load %mr[%i, %j] {} : !memref, index, index -> tile<0x8xf32>
  %v_good = nv_tileas.tiled_load %mr[%i, %j] {} : !memref, index, index -> tile<1x8xf32>
  nv_tileaa.return
}

nv_tileaa.func @all_dimensions_must_powers_two_3_8(%i: index, %j: index, %mr: !memref) {
  // expected-error @+1 {{'nv_tileas.tiled_load' op all dimensions must be powers of two, got [3, 8]}}
  %v_bad = nv_tileas.tiled_load %mr[%i, %j] {} : !memref, index, index -> tile<3x8xf32>
  %v_good = nv_tileas.tiled_load %mr[%i, %j] {} : !memref, index, index -> tile<2x8xf32>
  nv_tileaa.return
}

nv_tileaa.func @tile_would_exceed_maximum_16777216_elements(%i: index, %j: index, %mr: !memref) {
  // expected-error @+1 {{'nv_tileas.tiled_load' op tile would exceed the maximum of 16777216 elements}}
  %v_bad = nv_tileas.tiled_load %mr[%i, %j] {} : !memref, index, index -> tile<8192x4096xf32>
  %v_good = nv_tileas.tiled_load %mr[%i, %j] {} : !memref, index, index -> tile<4096x4096xf32>
  nv_tileaa.return
}

nv_tileaa.func @mem_scope_not_supported_when_mem_semantic_weak(%i: index, %j: index, %tv: !view) {
  // expected-error @+1 {{'nv_tileas.tiled_load' op mem_scope not supported when mem_semantic is weak}}
  %v_bad = nv_tileas.tiled_load %tv[%i, %j] {mem_scope = #gpu} : !view, index, index -> tile<4x8xf32>
  %v_good = nv_tileas.tiled_load %tv[%i, %j] {mem_semantic = #relaxed, mem_scope = #gpu}
    : !view, index, index -> tile<4x8xf32>
  nv_tileaa.return
}

nv_tileaa.func @mem_scope_required_when_mem_semantic_not_weak(%i: index, %j: index, %tv: !view, %v48: tile<4x8xf32>) {
  // expected-error @+1 {{'nv_tileas.tiled_store' op mem_scope required when mem_semantic is not weak}}
  nv_tileas.tiled_store %tv[%i, %j], %v48 {mem_semantic = #relaxed} : !view, tile<4x8xf32>, index, index
  nv_tileas.tiled_store %tv[%i, %j], %v48 {mem_semantic = #relaxed, mem_scope = #gpu}
    : !view, tile<4x8xf32>, index, index
  nv_tileaa.return
}

nv_tileaa.func @unsupported_mem_semantic_acquire(%i: index, %j: index, %tv: !view) {
  // expected-error @+1 {{'nv_tileas.tiled_load' op unsupported mem_semantic: acquire}}
  %v_bad = nv_tileas.tiled_load %tv[%i, %j] {mem_semantic = #nv_tileaa.mem_semantic<acquire>, mem_scope = #gpu}
    : !view, index, index -> tile<4x8xf32>
  %v_good = nv_tileas.tiled_load %tv[%i, %j] {mem_semantic = #relaxed, mem_scope = #gpu}
    : !view, index, index -> tile<4x8xf32>
  nv_tileaa.return
}

nv_tileaa.func @unsupported_mem_semantic_acq_rel(%i: index, %j: index, %tv: !view, %e: !memref, %w: tile<4x8xf32>) {
  // expected-error @+1 {{'nv_tileas.tiled_load' op unsupported mem_semantic: acq_rel}}
  %v_bad = nv_tileas.tiled_load %tv[%i, %j] {mem_semantic = #nv_tileaa.mem_semantic<acq_rel>, mem_scope = #gpu}
    : !view, index, index -> tile<4x8xf32>
  %a_good = nv_tileaa.block_tile %e {tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0>, array<i64: 1>]}
    : !memref -> !view
  %r_good, %t_good = nv_tileas.tiled_atomic_rmw %a_good[%i, %j], %w
    {rmw_mode = #nv_tileaa.rmw_mode<add>, mem_semantic = #nv_tileaa.mem_semantic<acq_rel>, mem_scope = #gpu}
    : !view, tile<4x8xf32>, index, index -> tile<4x8xf32>, !nv_tileaa.mem_token
  nv_tileaa.return
}

nv_tileaa.func @unsupported_mem_semantic_release(%i: index, %j: index, %tv: !view, %v48: tile<4x8xf32>, %e: !memref,
    %w: tile<4x8xf32>) {
  // expected-error @+1 {{'nv_tileas.tiled_store' op unsupported mem_semantic: release}}
  nv_tileas.tiled_store %tv[%i, %j], %v48 {mem_semantic = #nv_tileaa.mem_semantic<release>, mem_scope = #gpu}
    : !view, tile<4x8xf32>, index, index
  %a_good = nv_tileaa.block_tile %e {tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0>, array<i64: 1>]}
    : !memref -> !view
  %r_good, %t_good = nv_tileas.tiled_atomic_rmw %a_good[%i, %j], %w
    {rmw_mode = #nv_tileaa.rmw_mode<add>, mem_semantic = #nv_tileaa.mem_semantic<release>, mem_scope = #gpu}
    : !view, tile<4x8xf32>, index, index -> tile<4x8xf32>, !nv_tileaa.mem_token
  nv_tileaa.return
}

nv_tileaa.func @incorrect_number_in_bounds_elements_expected_2_found(%i: index, %j: index, %tv: !view) {
  // expected-error @+1 {{'nv_tileas.tiled_load' op incorrect number of in_bounds elements: expected 2, but found 3}}
  %v_bad = nv_tileas.tiled_load %tv[%i, %j] {in_bounds = array<i1: true, true, true>}
    : !view, index, index -> tile<4x8xf32>
  %v_good = nv_tileas.tiled_load %tv[%i, %j] {in_bounds = array<i1: true, true>} : !view, index, index -> tile<4x8xf32>
  nv_tileaa.return
}

nv_tileaa.func @inbounds_must_true_when_paddingvalue_not_set(%i: index, %j: index, %tv: !view, %v48: tile<4x8xf32>) {
  // expected-error @+1 {{'nv_tileas.tiled_store' op inbounds must be true when paddingValue is not set}}
  nv_tileas.tiled_store %tv[%i, %j], %v48 {in_bounds = array<i1: true, false>} : !view, tile<4x8xf32>, index, index
  nv_tileas.tiled_store %tv[%i, %j], %v48 {in_bounds = array<i1: true, true>} : !view, tile<4x8xf32>, index, index
  nv_tileaa.return
}

nv_tileaa.func @inbounds_must_false_when_paddingvalue_set(%i: index, %j: index, %tv: !view, %v48: tile<4x8xf32>) {
  // expected-error @+1 {{'nv_tileas.tiled_store' op inbounds must be false when paddingValue is set}}
  nv_tileas.tiled_store %tv[%i, %j], %v48
    {in_bounds = array<i1: true, true>, padding_value = #nv_tileaa.padding_value<zero>}
    : !view, tile<4x8xf32>, index, index
  nv_tileas.tiled_store %tv[%i, %j], %v48
    {in_bounds = array<i1: true, false>, padding_value = #nv_tileaa.padding_value<zero>}
    : !view, tile<4x8xf32>, index, index
  nv_tileaa.return
}

nv_tileaa.func @special_padding_values_nan_pos_inf_neg_inf_neg_zero(%i: index, %j: index, %tv: !view,
    %iv: !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xi32, 1>, 4x8>) {
  // expected-error @+1 {{'nv_tileas.tiled_load' op special padding values (nan, pos_inf, neg_inf, neg_zero) only for float-like element types}}
  %v_bad = nv_tileas.tiled_load %iv[%i, %j] {padding_value = #nv_tileaa.padding_value<nan>}
    : !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xi32, 1>, 4x8>, index, index -> tile<4x8xi32>
  %v_good = nv_tileas.tiled_load %tv[%i, %j] {padding_value = #nv_tileaa.padding_value<nan>}
    : !view, index, index -> tile<4x8xf32>
  nv_tileaa.return
}

nv_tileaa.func @ldgsts_tma_load_ldg_or_unknown_copy_atom_type(%i: index, %j: index, %tv: !view) {
  // expected-error @+1 {{'nv_tileas.tiled_load' op expect a ldgsts, tma_load, ldg or unknown_copy atom type}}
  %v_bad = nv_tileas.tiled_load %tv[%i, %j] {atom = #nv_tileas.copy_atom<stg, bits=1024, box=[8,4]>}
    : !view, index, index -> tile<4x8xf32>
  %v_good = nv_tileas.tiled_load %tv[%i, %j] {atom = #nv_tileas.copy_atom<ldgsts, bits=1024, box=[8,4]>}
    : !view, index, index -> tile<4x8xf32>
  nv_tileaa.return
}

nv_tileaa.func @stg_tma_store_or_unknown_copy_atom_type(%i: index, %j: index, %tv: !view, %v48: tile<4x8xf32>) {
  // expected-error @+1 {{'nv_tileas.tiled_store' op expect a stg, tma_store or unknown_copy atom type}}
  nv_tileas.tiled_store %tv[%i, %j], %v48 {atom = #nv_tileas.copy_atom<ldg, bits=1024, box=[8,4]>}
    : !view, tile<4x8xf32>, index, index
  nv_tileas.tiled_store %tv[%i, %j], %v48 {atom = #nv_tileas.copy_atom<stg, bits=1024, box=[8,4]>}
    : !view, tile<4x8xf32>, index, index
  nv_tileaa.return
}

// -- structure: nothing but operands, results and attributes

nv_tileaa.func @neither_regions(%tv: !view, %i: index, %x: tensor<4x8xf32>) {
  // expected-error @+1 {{'nv_tileas.tiled_load' op requires zero regions}}
  %a = "nv_tileas.tiled_load"(%tv, %i, %i) <{operandSegmentSizes = array<i32: 1, 2, 0, 0, 0>}> ({})
    : (!view, index, index) -> tensor<4x8xf32>
  // expected-error @+1 {{'nv_tileas.tiled_store' op requires zero regions}}
  "nv_tileas.tiled_store"(%tv, %x, %i, %i) <{operandSegmentSizes = array<i32: 1, 1, 2, 0, 0>}> ({})
    : (!view, tensor<4x8xf32>, index, index) -> ()
  // expected-error @+1 {{'nv_tileas.tiled_atomic_rmw' op requires zero regions}}
  %c = "nv_tileas.tiled_atomic_rmw"(%tv, %x, %i, %i)
    <{operandSegmentSizes = array<i32: 1, 1, 2, 0, 0>, rmw_mode = #nv_tileaa.rmw_mode<add>}> ({})
    : (!view, tensor<4x8xf32>, index, index) -> tensor<4x8xf32>
  nv_tileaa.return
}

nv_tileaa.func @nor_successors_of_a_load(%tv: !view, %i: index) {
  // expected-error @+1 {{'nv_tileas.tiled_load' op requires 0 successors but found 1}}
  %a = "nv_tileas.tiled_load"(%tv, %i, %i)[^end] <{operandSegmentSizes = array<i32: 1, 2, 0, 0, 0>}>
    : (!view, index, index) -> tensor<4x8xf32>
^end:
  nv_tileaa.return
}

nv_tileaa.func @nor_of_a_store(%tv: !view, %i: index, %x: tensor<4x8xf32>) {
  // expected-error @+1 {{'nv_tileas.tiled_store' op requires 0 successors but found 1}}
  "nv_tileas.tiled_store"(%tv, %x, %i, %i)[^end] <{operandSegmentSizes = array<i32: 1, 1, 2, 0, 0>}>
    : (!view, tensor<4x8xf32>, index, index) -> ()
^end:
  nv_tileaa.return
}

nv_tileaa.func @nor_of_an_atomic(%tv: !view, %i: index, %x: tensor<4x8xf32>) {
  // expected-error @+1 {{'nv_tileas.tiled_atomic_rmw' op requires 0 successors but found 1}}
  %c = "nv_tileas.tiled_atomic_rmw"(%tv, %x, %i, %i)[^end]
    <{operandSegmentSizes = array<i32: 1, 1, 2, 0, 0>, rmw_mode = #nv_tileaa.rmw_mode<add>}>
    : (!view, tensor<4x8xf32>, index, index) -> tensor<4x8xf32>
^end:
  nv_tileaa.return
}
