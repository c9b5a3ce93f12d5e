// Products of block-scaled operands without an instruction of their own, and casts of block-scaled formats, on any target.
// RUN: cuda-tile-opt %s -verify-diagnostics
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

module attributes {nv_tileaa.target_spec = #nv_tileaa.target_spec<compute_capability=sm_80>} {
nv_tileaa.func @scaled(%a: tile<4x64xf8E4M3FN>, %b: tile<64x8xf8E4M3FN>, %c: tile<4x8xf32>, %h: tile<4x8xf16>,
    %sa: tile<4x2xf8E8M0FNU>, %sb: tile<2x8xf8E8M0FNU>, %long: tile<4x4xf8E8M0FNU>, %wide: tile<2x4xf8E8M0FNU>) {
  %good = nv_tileaa.scaled_dot %a, %b, %c, %sa, %sb : tile<4x64xf8E4M3FN>, tile<64x8xf8E4M3FN>, tile<4x8xf32>,
    tile<4x2xf8E8M0FNU>, tile<2x8xf8E8M0FNU> -> tile<4x8xf32>
  // expected-error @+1 {{'nv_tileaa.scaled_dot' op expects floats as #A and #B, and f32 as #C}}
  %half = nv_tileaa.scaled_dot %a, %b, %h, %sa, %sb : tile<4x64xf8E4M3FN>, tile<64x8xf8E4M3FN>, tile<4x8xf16>,
    tile<4x2xf8E8M0FNU>, tile<2x8xf8E8M0FNU> -> tile<4x8xf16>
  // expected-error @+1 {{'nv_tileaa.scaled_dot' op expects tiles of i8 as #A and #B that are packed}}
  %packed = nv_tileaa.scaled_dot %a, %b, %c, %sa, %sb {packed} : tile<4x64xf8E4M3FN>, tile<64x8xf8E4M3FN>,
    tile<4x8xf32>, tile<4x2xf8E8M0FNU>, tile<2x8xf8E8M0FNU> -> tile<4x8xf32>
  // expected-error @+1 {{'nv_tileaa.scaled_dot' op expects SFA of a scale type, but got f16}}
  %type = nv_tileaa.scaled_dot %a, %b, %c, %h, %sb : tile<4x64xf8E4M3FN>, tile<64x8xf8E4M3FN>, tile<4x8xf32>,
    tile<4x8xf16>, tile<2x8xf8E8M0FNU> -> tile<4x8xf32>
  // expected-error @+1 {{'nv_tileaa.scaled_dot' op expects the shape of SFB to be that of #B with one element for each block}}
  %blocks = nv_tileaa.scaled_dot %a, %b, %c, %long, %sb : tile<4x64xf8E4M3FN>, tile<64x8xf8E4M3FN>, tile<4x8xf32>,
    tile<4x4xf8E8M0FNU>, tile<2x8xf8E8M0FNU> -> tile<4x8xf32>
  // expected-error @+1 {{'nv_tileaa.scaled_dot' op expects the shape of SFA to be that of #A with one element for each block}}
  %rows = nv_tileaa.scaled_dot %a, %b, %c, %wide, %sb : tile<4x64xf8E4M3FN>, tile<64x8xf8E4M3FN>, tile<4x8xf32>,
    tile<2x4xf8E8M0FNU>, tile<2x8xf8E8M0FNU> -> tile<4x8xf32>
  nv_tileaa.return
}

nv_tileaa.func @casts(%scale: tile<4xf8E8M0FNU>, %half: tile<4xf16>) {
  %good = nv_tileaa.emulated_fp_to_fp %scale : tile<4xf8E8M0FNU> -> tile<4xf32>
  // expected-error @+1 {{'nv_tileaa.emulated_fp_to_fp' op expects floats, one of which is of a block-scaled format}}
  %bad = nv_tileaa.emulated_fp_to_fp %half : tile<4xf16> -> tile<4xf32>
  nv_tileaa.return
}
}
