// Conversions between float formats, and which targets have block-scaled ones.
// RUN: cuda-tile-opt %s -verify-diagnostics
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

nv_tileaa.func @fp_to_fp_source_element_type_not_supported(%h4: tile<4xf16>, %x4: tile<4xi32>) {
  // expected-error @+1 {{'nv_tileaa.fp_to_fp' op fp_to_fp source element type is not supported}}
  %r_bad = nv_tileaa.fp_to_fp %x4 : tile<4xi32> -> tile<4xf32>
  %r_good = nv_tileaa.fp_to_fp %h4 : tile<4xf16> -> tile<4xf32>
  nv_tileaa.return
}

nv_tileaa.func @fp_to_fp_result_element_type_not_supported(%h4: tile<4xf16>) {
  // expected-error @+1 {{'nv_tileaa.fp_to_fp' op fp_to_fp result element type is not supported}}
  %r_bad = nv_tileaa.fp_to_fp %h4 : tile<4xf16> -> tile<4xi32>
  %r_good = nv_tileaa.fp_to_fp %h4 : tile<4xf16> -> tile<4xf8E4M3FN>
  nv_tileaa.return
}

#sm_90 = #nv_tileaa.compute_capability<sm_90>
#sm_100 = #nv_tileaa.compute_capability<sm_100>

nv_tileaa.func @target_without_block_scaling(%h: tile<4xf16>, %a: tile<4x8xf4E2M1FN>, %b: tile<8x4xf4E2M1FN>,
    %c: tile<4x4xf32>, %sa: tile<4x1xf8E8M0FNU>, %sb: tile<1x4xf8E8M0FNU>) attributes {compute_capability = #sm_90} {
  // expected-error @+1 {{'nv_tileaa.fp_to_fp' op fp_to_fp block-scaled format requires a target that supports block-scaled MMA}}
  %x = nv_tileaa.fp_to_fp %h : tile<4xf16> -> tile<4xf4E2M1FN>
  // expected-error @+1 {{'nv_tileaa.dot' op block-scaled MMA requires a target that supports block-scaled MMA, but got sm_90}}
  %d = nv_tileaa.dot %a, %b, %c, %sa, %sb
    : tile<4x8xf4E2M1FN>, tile<8x4xf4E2M1FN>, tile<4x4xf32>, tile<4x1xf8E8M0FNU>, tile<1x4xf8E8M0FNU> -> tile<4x4xf32>
  nv_tileaa.return
}

nv_tileaa.func @target_with_block_scaling(%h: tile<4xf16>, %a: tile<4x8xf4E2M1FN>, %b: tile<8x4xf4E2M1FN>,
    %c: tile<4x4xf32>, %sa: tile<4x1xf8E8M0FNU>, %sb: tile<1x4xf8E8M0FNU>) attributes {compute_capability = #sm_100} {
  %x = nv_tileaa.fp_to_fp %h : tile<4xf16> -> tile<4xf4E2M1FN>
  %d = nv_tileaa.dot %a, %b, %c, %sa, %sb
    : tile<4x8xf4E2M1FN>, tile<8x4xf4E2M1FN>, tile<4x4xf32>, tile<4x1xf8E8M0FNU>, tile<1x4xf8E8M0FNU> -> tile<4x4xf32>
  nv_tileaa.return
}
