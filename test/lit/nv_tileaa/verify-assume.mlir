// Facts that `assume` states: each predicate checks the value and itself.
// RUN: cuda-tile-opt %s -verify-diagnostics
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

!memref = !nv_tileaa.memref<?x?xf32, 1>

nv_tileaa.func @div_by_requires_integer_pointer_or_memref_like(%s32: tile<i32>, %f: tile<f32>) {
  // expected-error @+1 {{'nv_tileaa.assume' op div_by requires an integer-, pointer-, or memref-like value}}
  %a_bad = nv_tileaa.assume %f {predicates = [#nv_tileaa.div_by<4>]} : tile<f32> -> tile<f32>
  %a_good = nv_tileaa.assume %s32 {predicates = [#nv_tileaa.div_by<4>]} : tile<i32> -> tile<i32>
  nv_tileaa.return
}

nv_tileaa.func @div_by_divisor_must_positive_power_two(%s32: tile<i32>, %p: !nv_tileaa.ptr<f32, 1>) {
  // expected-error @+1 {{'nv_tileaa.assume' op div_by divisor must be a positive power of two}}
  %a_bad = nv_tileaa.assume %s32 {predicates = [#nv_tileaa.div_by<12>]} : tile<i32> -> tile<i32>
  %a_good = nv_tileaa.assume %p {predicates = [#nv_tileaa.div_by<16>]}
    : !nv_tileaa.ptr<f32, 1> -> !nv_tileaa.ptr<f32, 1>
  nv_tileaa.return
}

nv_tileaa.func @div_by_every_along_must_appear_together(%x4: tile<4xi32>) {
  // expected-error @+1 {{'nv_tileaa.assume' op div_by every and along must appear together}}
  %a_bad = nv_tileaa.assume %x4 {predicates = [#nv_tileaa.div_by<4, every 4>]} : tile<4xi32> -> tile<4xi32>
  %a_good = nv_tileaa.assume %x4 {predicates = [#nv_tileaa.div_by<4, every 4 along 0>]} : tile<4xi32> -> tile<4xi32>
  nv_tileaa.return
}

nv_tileaa.func @div_by_every_must_positive(%x4: tile<4xi32>) {
  // expected-error @+1 {{'nv_tileaa.assume' op div_by every must be positive}}
  %a_bad = nv_tileaa.assume %x4 {predicates = [#nv_tileaa.div_by<4, every 0 along 0>]} : tile<4xi32> -> tile<4xi32>
  %a_good = nv_tileaa.assume %x4 {predicates = [#nv_tileaa.div_by<4, every 1 along 0>]} : tile<4xi32> -> tile<4xi32>
  nv_tileaa.return
}

nv_tileaa.func @div_by_along_must_reference_valid_axis(%x4: tile<4xi32>, %mr: !memref) {
  // expected-error @+1 {{'nv_tileaa.assume' op div_by along must reference a valid axis}}
  %a_bad = nv_tileaa.assume %x4 {predicates = [#nv_tileaa.div_by<4, every 4 along 1>]} : tile<4xi32> -> tile<4xi32>
  %a_good = nv_tileaa.assume %mr {predicates = [#nv_tileaa.div_by<16>]} : !memref -> !memref
  nv_tileaa.return
}

nv_tileaa.func @bounded_requires_integer_like_element_type(%i: index, %f: tile<f32>) {
  // expected-error @+1 {{'nv_tileaa.assume' op bounded requires an integer-like element type}}
  %a_bad = nv_tileaa.assume %f {predicates = [#nv_tileaa.bounded<0, 1>]} : tile<f32> -> tile<f32>
  %a_good = nv_tileaa.assume %i {predicates = [#nv_tileaa.bounded<0, 1>]} : index -> index
  nv_tileaa.return
}

nv_tileaa.func @bounded_lower_exceeds_element_s_representable_range(%s32: tile<i32>) {
  // expected-error @+1 {{'nv_tileaa.assume' op bounded lower exceeds the element's representable range}}
  %a_bad = nv_tileaa.assume %s32 {predicates = [#nv_tileaa.bounded<-2147483649, ?>]} : tile<i32> -> tile<i32>
  %a_good = nv_tileaa.assume %s32 {predicates = [#nv_tileaa.bounded<-2147483648, ?>]} : tile<i32> -> tile<i32>
  nv_tileaa.return
}

nv_tileaa.func @bounded_upper_exceeds_element_s_representable_range(%s32: tile<i32>) {
  // expected-error @+1 {{'nv_tileaa.assume' op bounded upper exceeds the element's representable range}}
  %a_bad = nv_tileaa.assume %s32 {predicates = [#nv_tileaa.bounded<?, 2147483648>]} : tile<i32> -> tile<i32>
  %a_good = nv_tileaa.assume %s32 {predicates = [#nv_tileaa.bounded<?, 2147483647>]} : tile<i32> -> tile<i32>
  nv_tileaa.return
}

nv_tileaa.func @bounded_lower_must_not_exceed_upper(%s32: tile<i32>) {
  // expected-error @+1 {{'nv_tileaa.assume' op bounded lower must not exceed upper}}
  %a_bad = nv_tileaa.assume %s32 {predicates = [#nv_tileaa.bounded<2, 1>]} : tile<i32> -> tile<i32>
  %a_good = nv_tileaa.assume %s32 {predicates = [#nv_tileaa.bounded<1, 1>]} : tile<i32> -> tile<i32>
  nv_tileaa.return
}

nv_tileaa.func @same_elements_length_must_match_constrained_value_s(%x4: tile<4xi32>) {
  // expected-error @+1 {{'nv_tileaa.assume' op same_elements length must match the constrained value's rank}}
  %a_bad = nv_tileaa.assume %x4 {predicates = [#nv_tileaa.same_elements<[1, 1]>]} : tile<4xi32> -> tile<4xi32>
  %a_good = nv_tileaa.assume %x4 {predicates = [#nv_tileaa.same_elements<[2]>]} : tile<4xi32> -> tile<4xi32>
  nv_tileaa.return
}

nv_tileaa.func @same_elements_axis_bound_out_range(%x4: tile<4xi32>) {
  // expected-error @+1 {{'nv_tileaa.assume' op same_elements axis bound is out of range}}
  %a_bad = nv_tileaa.assume %x4 {predicates = [#nv_tileaa.same_elements<[8]>]} : tile<4xi32> -> tile<4xi32>
  %a_good = nv_tileaa.assume %x4 {predicates = [#nv_tileaa.same_elements<[4]>]} : tile<4xi32> -> tile<4xi32>
  nv_tileaa.return
}

nv_tileaa.func @first_predicate_that_fails(%x: tile<i32>) {
  // expected-error @+1 {{'nv_tileaa.assume' op bounded lower must not exceed upper}}
  %a = nv_tileaa.assume %x {predicates = [#nv_tileaa.bounded<2, 1>, #nv_tileaa.div_by<3>]} : tile<i32> -> tile<i32>
  nv_tileaa.return
}
