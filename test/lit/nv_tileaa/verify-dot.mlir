// Matrix products: element types, signedness, ranks, shapes, scale factors.
// RUN: cuda-tile-opt %s -verify-diagnostics
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#signed = #nv_tileaa.signedness<signed>

nv_tileaa.func @element_types_b_c_d_either_all(%h48: tile<4x8xf16>, %h84: tile<8x4xf16>, %b84: tile<8x4xi8>,
    %v44: tile<4x4xf32>) {
  // expected-error @+1 {{'nv_tileaa.dot' op expected the element types of A, B, C, and D to be either all integers or all floats.}}
  %d_bad = nv_tileaa.dot %h48, %b84, %v44 : tile<4x8xf16>, tile<8x4xi8>, tile<4x4xf32> -> tile<4x4xf32>
  %d_good = nv_tileaa.dot %h48, %h84, %v44 : tile<4x8xf16>, tile<8x4xf16>, tile<4x4xf32> -> tile<4x4xf32>
  nv_tileaa.return
}

nv_tileaa.func @b_have_same_bit_width_8_vs(%b48: tile<4x8xi8>, %b84: tile<8x4xi8>, %i484: tile<8x4xi4>,
    %x44: tile<4x4xi32>) {
  // expected-error @+1 {{'nv_tileaa.dot' op expects #A and #B have same bit width but got 8 vs 4}}
  %d_bad = nv_tileaa.dot %b48, %i484, %x44 {signedness_a = #signed, signedness_b = #signed}
    : tile<4x8xi8>, tile<8x4xi4>, tile<4x4xi32> -> tile<4x4xi32>
  %d_good = nv_tileaa.dot %b48, %b84, %x44 {signedness_a = #signed, signedness_b = #signed}
    : tile<4x8xi8>, tile<8x4xi8>, tile<4x4xi32> -> tile<4x4xi32>
  nv_tileaa.return
}

nv_tileaa.func @no_signedness_of_floats(%h48: tile<4x8xf16>, %h84: tile<8x4xf16>, %v44: tile<4x4xf32>) {
  // expected-error @+1 {{'nv_tileaa.dot' op expects no signedness of #A, whose elements are floats}}
  %d_bad = nv_tileaa.dot %h48, %h84, %v44 {signedness_a = #signed} : tile<4x8xf16>, tile<8x4xf16>, tile<4x4xf32> -> tile<4x4xf32>
  // expected-error @+1 {{'nv_tileaa.dot' op expects no signedness of #B, whose elements are floats}}
  %e_bad = nv_tileaa.dot %h48, %h84, %v44 {signedness_b = #signed} : tile<4x8xf16>, tile<8x4xf16>, tile<4x4xf32> -> tile<4x4xf32>
  nv_tileaa.return
}

nv_tileaa.func @signedness_attribute_operand(%b48: tile<4x8xi8>, %b84: tile<8x4xi8>, %x44: tile<4x4xi32>) {
  // expected-error @+1 {{'nv_tileaa.dot' op expect signedness attribute for operand A}}
  %d_bad = nv_tileaa.dot %b48, %b84, %x44 : tile<4x8xi8>, tile<8x4xi8>, tile<4x4xi32> -> tile<4x4xi32>
  %d_good = nv_tileaa.dot %b48, %b84, %x44 {signedness_a = #signed, signedness_b = #signed}
    : tile<4x8xi8>, tile<8x4xi8>, tile<4x4xi32> -> tile<4x4xi32>
  nv_tileaa.return
}

nv_tileaa.func @signedness_attribute_operand_b(%b48: tile<4x8xi8>, %b84: tile<8x4xi8>, %x44: tile<4x4xi32>) {
  // expected-error @+1 {{'nv_tileaa.dot' op expect signedness attribute for operand B}}
  %d_bad = nv_tileaa.dot %b48, %b84, %x44 {signedness_a = #signed}
    : tile<4x8xi8>, tile<8x4xi8>, tile<4x4xi32> -> tile<4x4xi32>
  %d_good = nv_tileaa.dot %b48, %b84, %x44 {signedness_a = #signed, signedness_b = #signed}
    : tile<4x8xi8>, tile<8x4xi8>, tile<4x4xi32> -> tile<4x4xi32>
  nv_tileaa.return
}

nv_tileaa.func @c_element_type_f32_bf16(%h48: tile<4x8xf16>, %h84: tile<8x4xf16>, %v44: tile<4x4xf32>,
    %b44: tile<4x4xbf16>) {
  // expected-error @+1 {{'nv_tileaa.dot' op expects #C element type to be f32, but got bf16}}
  %d_bad = nv_tileaa.dot %h48, %h84, %b44 : tile<4x8xf16>, tile<8x4xf16>, tile<4x4xbf16> -> tile<4x4xbf16>
  %d_good = nv_tileaa.dot %h48, %h84, %v44 : tile<4x8xf16>, tile<8x4xf16>, tile<4x4xf32> -> tile<4x4xf32>
  nv_tileaa.return
}

nv_tileaa.func @c_element_type_either_f32_or_f16(%fp4a: tile<4x8xf4E2M1FN>, %fp4b: tile<8x4xf4E2M1FN>,
    %b44: tile<4x4xbf16>, %h44: tile<4x4xf16>) {
  // expected-error @+1 {{'nv_tileaa.dot' op expects #C element type to be either f32 or f16, but got bf16}}
  %d_bad = nv_tileaa.dot %fp4a, %fp4b, %b44 : tile<4x8xf4E2M1FN>, tile<8x4xf4E2M1FN>, tile<4x4xbf16> -> tile<4x4xbf16>
  %d_good = nv_tileaa.dot %fp4a, %fp4b, %h44 : tile<4x8xf4E2M1FN>, tile<8x4xf4E2M1FN>, tile<4x4xf16> -> tile<4x4xf16>
  nv_tileaa.return
}

nv_tileaa.func @rank_2_or_rank_3_tensor_result(%v4: tile<4xf32>, %h48: tile<4x8xf16>, %h84: tile<8x4xf16>,
    %v44: tile<4x4xf32>) {
  // expected-error @+1 {{'nv_tileaa.dot' op expects rank-2 or rank-3 tensor for result, but got (1)}}
  %d_bad = nv_tileaa.dot %v4, %v4, %v4 : tile<4xf32>, tile<4xf32>, tile<4xf32> -> tile<4xf32>
  %d_good = nv_tileaa.dot %h48, %h84, %v44 : tile<4x8xf16>, tile<8x4xf16>, tile<4x4xf32> -> tile<4x4xf32>
  nv_tileaa.return
}

nv_tileaa.func @shape_operand_b_compatible(%h48: tile<4x8xf16>, %h84: tile<8x4xf16>, %v44: tile<4x4xf32>) {
  // expected-error @+1 {{'nv_tileaa.dot' op expects the shape of operand #A and #B to be compatible}}
  %d_bad = nv_tileaa.dot %h48, %h48, %v44 : tile<4x8xf16>, tile<4x8xf16>, tile<4x4xf32> -> tile<4x4xf32>
  %d_good = nv_tileaa.dot %h48, %h84, %v44 : tile<4x8xf16>, tile<8x4xf16>, tile<4x4xf32> -> tile<4x4xf32>
  nv_tileaa.return
}

nv_tileaa.func @shape_operand_c_compatible_operands_b(%v48: tile<4x8xf32>, %h48: tile<4x8xf16>, %h84: tile<8x4xf16>,
    %v44: tile<4x4xf32>) {
  // expected-error @+1 {{'nv_tileaa.dot' op expects the shape of operand #C is compatible with operands #A and #B}}
  %d_bad = nv_tileaa.dot %h48, %h84, %v48 : tile<4x8xf16>, tile<8x4xf16>, tile<4x8xf32> -> tile<4x8xf32>
  %d_good = nv_tileaa.dot %h48, %h84, %v44 : tile<4x8xf16>, tile<8x4xf16>, tile<4x4xf32> -> tile<4x4xf32>
  nv_tileaa.return
}

nv_tileaa.func @both_sfa_sfb_present(%v44: tile<4x4xf32>, %fp4a: tile<4x8xf4E2M1FN>, %fp4b: tile<8x4xf4E2M1FN>,
    %sa: tile<4x1xf8E8M0FNU>, %sb: tile<1x4xf8E8M0FNU>) {
  // expected-error @+1 {{'nv_tileaa.dot' op expects both SFA and SFB to be present}}
  %d_bad = nv_tileaa.dot %fp4a, %fp4b, %v44, %sa
    : tile<4x8xf4E2M1FN>, tile<8x4xf4E2M1FN>, tile<4x4xf32>, tile<4x1xf8E8M0FNU> -> tile<4x4xf32>
  %d_good = nv_tileaa.dot %fp4a, %fp4b, %v44, %sa, %sb
    : tile<4x8xf4E2M1FN>, tile<8x4xf4E2M1FN>, tile<4x4xf32>, tile<4x1xf8E8M0FNU>, tile<1x4xf8E8M0FNU> -> tile<4x4xf32>
  nv_tileaa.return
}
