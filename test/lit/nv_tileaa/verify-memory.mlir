// Accesses: ordering and scope, groups of operands and results, bounds.
// RUN: cuda-tile-opt %s -verify-diagnostics
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

!view = !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xf32, 1>, 4x8>
#gpu = #nv_tileaa.mem_scope<gpu>
#relaxed = #nv_tileaa.mem_semantic<relaxed>

nv_tileaa.func @non_weak_memory_ordering_requires_explicit_scope(%pp: tile<4x!nv_tileaa.ptr<f32, 1>>) {
  // expected-error @+1 {{'nv_tileaa.load' op non-weak memory ordering requires explicit scope}}
  %v_bad = nv_tileaa.load %pp {mem_semantic = #relaxed} : tile<4x!nv_tileaa.ptr<f32, 1>> -> tile<4xf32>
  %v_good = nv_tileaa.load %pp {mem_semantic = #relaxed, mem_scope = #gpu}
    : tile<4x!nv_tileaa.ptr<f32, 1>> -> tile<4xf32>
  nv_tileaa.return
}

nv_tileaa.func @weak_memory_ordering_must_not_carry_scope(%pp: tile<4x!nv_tileaa.ptr<f32, 1>>) {
  // expected-error @+1 {{'nv_tileaa.load' op weak memory ordering must not carry a scope}}
  %v_bad = nv_tileaa.load %pp {mem_scope = #gpu} : tile<4x!nv_tileaa.ptr<f32, 1>> -> tile<4xf32>
  %v_good = nv_tileaa.load %pp {mem_semantic = #nv_tileaa.mem_semantic<weak>}
    : tile<4x!nv_tileaa.ptr<f32, 1>> -> tile<4xf32>
  nv_tileaa.return
}

nv_tileaa.func @unsupported_mem_semantic_acquire(%v4: tile<4xf32>, %pp: tile<4x!nv_tileaa.ptr<f32, 1>>) {
  // expected-error @+1 {{'nv_tileaa.store' op unsupported mem_semantic: acquire}}
  nv_tileaa.store %pp, %v4 {mem_semantic = #nv_tileaa.mem_semantic<acquire>, mem_scope = #gpu}
    : tile<4x!nv_tileaa.ptr<f32, 1>>, tile<4xf32>
  %t_good = nv_tileaa.store %pp, %v4 {mem_semantic = #nv_tileaa.mem_semantic<release>, mem_scope = #gpu}
    : tile<4x!nv_tileaa.ptr<f32, 1>>, tile<4xf32> -> !nv_tileaa.mem_token
  nv_tileaa.return
}

nv_tileaa.func @unsupported_mem_semantic_acq_rel(%v4: tile<4xf32>, %pp: tile<4x!nv_tileaa.ptr<f32, 1>>) {
  // expected-error @+1 {{'nv_tileaa.store' op unsupported mem_semantic: acq_rel}}
  nv_tileaa.store %pp, %v4 {mem_semantic = #nv_tileaa.mem_semantic<acq_rel>, mem_scope = #gpu}
    : tile<4x!nv_tileaa.ptr<f32, 1>>, tile<4xf32>
  nv_tileaa.store %pp, %v4 {mem_semantic = #relaxed, mem_scope = #gpu} : tile<4x!nv_tileaa.ptr<f32, 1>>, tile<4xf32>
  nv_tileaa.return
}

nv_tileaa.func @unsupported_mem_semantic_release(%pp: tile<4x!nv_tileaa.ptr<f32, 1>>) {
  // expected-error @+1 {{'nv_tileaa.load' op unsupported mem_semantic: release}}
  %v_bad = nv_tileaa.load %pp {mem_semantic = #nv_tileaa.mem_semantic<release>, mem_scope = #gpu}
    : tile<4x!nv_tileaa.ptr<f32, 1>> -> tile<4xf32>
  %v_good, %t_good = nv_tileaa.load %pp {mem_semantic = #nv_tileaa.mem_semantic<acquire>, mem_scope = #gpu}
    : tile<4x!nv_tileaa.ptr<f32, 1>> -> tile<4xf32>, !nv_tileaa.mem_token
  nv_tileaa.return
}

nv_tileaa.func @incorrect_number_in_bounds_elements_expected_2_found(%i: index, %j: index, %tv: !view) {
  // expected-error @+1 {{'nv_tileaa.tiled_load' op incorrect number of in_bounds elements: expected 2, but found 1}}
  %v_bad = nv_tileaa.tiled_load %tv[%i, %j] {in_bounds = array<i1: true>} : !view, index, index -> tile<4x8xf32>
  %v_good = nv_tileaa.tiled_load %tv[%i, %j] {in_bounds = array<i1: true, false>} : !view, index, index -> tile<4x8xf32>
  nv_tileaa.return
}

nv_tileaa.func @operand_group_starting_at_2_requires_0(%v4: tile<4xf32>, %m4: tile<4xi1>,
    %pp: tile<4x!nv_tileaa.ptr<f32, 1>>) {
  // expected-error @+1 {{'nv_tileaa.load' op operand group starting at #2 requires 0 or 1 element, but found 2}}
  %v_bad = nv_tileaa.load %pp, %m4, %m4, %v4 {operandSegmentSizes = array<i32: 1, 1, 2, 0, 0>}
    : tile<4x!nv_tileaa.ptr<f32, 1>>, tile<4xi1>, tile<4xi1>, tile<4xf32> -> tile<4xf32>
  %v_good = nv_tileaa.load %pp, %m4, %v4 : tile<4x!nv_tileaa.ptr<f32, 1>>, tile<4xi1>, tile<4xf32> -> tile<4xf32>
  nv_tileaa.return
}

nv_tileaa.func @result_group_starting_at_1_requires_0(%pp: tile<4x!nv_tileaa.ptr<f32, 1>>) {
  // expected-error @+1 {{'nv_tileaa.load' op result group starting at #1 requires 0 or 1 element, but found 2}}
  %v_bad, %a_bad, %b_bad = nv_tileaa.load %pp
    : tile<4x!nv_tileaa.ptr<f32, 1>> -> tile<4xf32>, !nv_tileaa.mem_token, !nv_tileaa.mem_token
  %v_good, %a_good = nv_tileaa.load %pp : tile<4x!nv_tileaa.ptr<f32, 1>> -> tile<4xf32>, !nv_tileaa.mem_token
  nv_tileaa.return
}

nv_tileaa.func @attribute_rmw_mode(%v4: tile<4xf32>, %pp: tile<4x!nv_tileaa.ptr<f32, 1>>) {
  // expected-error @+1 {{'nv_tileaa.atomic_rmw' op requires attribute 'rmw_mode'}}
  %v_bad = nv_tileaa.atomic_rmw %pp, %v4 : tile<4x!nv_tileaa.ptr<f32, 1>>, tile<4xf32> -> tile<4xf32>
  %v_good = nv_tileaa.atomic_rmw %pp, %v4 {rmw_mode = #nv_tileaa.rmw_mode<add>}
    : tile<4x!nv_tileaa.ptr<f32, 1>>, tile<4xf32> -> tile<4xf32>
  nv_tileaa.return
}
