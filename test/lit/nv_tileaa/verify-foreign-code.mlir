// Foreign code on every element, and products of convolutions: operands and what is said of them fit together.
// RUN: cuda-tile-opt -split-input-file -verify-diagnostics %s
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

nv_tileaa.func @registers(%x: tensor<4xf16>) {
  // expected-error @+1 {{'nv_tileaa.elementwise_inline_asm' op expects constraints of 1 registers for its operands, but got 2}}
  %bad = nv_tileaa.elementwise_inline_asm %x {asm_string = "", constraints = "=r,r,r"} : tile<4xf16> -> tile<4xf16>
  %good = nv_tileaa.elementwise_inline_asm %x {asm_string = "", constraints = "=r,=r,r,r", packed_element = 4} : tile<4xf16> -> tile<4xf16>
  nv_tileaa.return
}

// -----

nv_tileaa.func @packed(%x: tensor<4xf16>) {
  // expected-error @+1 {{'nv_tileaa.elementwise_inline_asm' op expects packed_element to be a power of two, but got 3}}
  %bad = nv_tileaa.elementwise_inline_asm %x {asm_string = "", constraints = "=r,r", packed_element = 3} : tile<4xf16> -> tile<4xf16>
  nv_tileaa.return
}

// -----

nv_tileaa.func @dimensions(%m: !nv_tileaa.memref<?x?xf32, 1>) {
  // expected-error @+1 {{'nv_tileaa.conv_tile' op expects conv_params of 2 dimensions, as filterSizes has, but got 1}}
  %bad = nv_tileaa.conv_tile %m {tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0>, array<i64: 1>], filterSizes = array<i64: 3, 3>, conv_params = #nv_tileaa.conv_params<pad_lower=[1], pad_upper=[1], stride=[1], dilation=[1]>, channelAxis = 1} : !nv_tileaa.memref<?x?xf32, 1> -> !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xf32, 1>, 4x8>
  nv_tileaa.return
}

// -----

nv_tileaa.func @channels(%x: tensor<2x16x8xf16>, %f: tensor<8x4xf16>, %c: tensor<2x4x8xf32>) {
  // expected-error @+1 {{'nv_tileaa.conv_dot' op expects a filter of 16 input channels, but got a shape of [8, 4]}}
  %bad = nv_tileaa.conv_dot %x, %f, %c {activation_layout = #nv_tileaa.activation_layout<ncw>, conv_params = #nv_tileaa.conv_params<pad_lower=[1], pad_upper=[1], stride=[1], dilation=[1]>} : tile<2x16x8xf16>, tile<8x4xf16>, tile<2x4x8xf32> -> tile<2x4x8xf32>
  nv_tileaa.return
}

// -----

nv_tileaa.func @rank(%x: tensor<2x16x8xf16>, %f: tensor<8x4xf16>, %c: tensor<2x16x4xf32>) {
  // expected-error @+1 {{'nv_tileaa.conv_dot' op expects an activation of rank 2 or 4, but got 3}}
  %bad = nv_tileaa.conv_dot %x, %f, %c {activation_layout = #nv_tileaa.activation_layout<nhwc>, conv_params = #nv_tileaa.conv_params<pad_lower=[1], pad_upper=[1], stride=[1], dilation=[1]>} : tile<2x16x8xf16>, tile<8x4xf16>, tile<2x16x4xf32> -> tile<2x16x4xf32>
  nv_tileaa.return
}

// -----

nv_tileaa.func @accumulator(%x: tensor<2x16x8xf16>, %f: tensor<8x4xf16>, %c: tensor<2x16x8xf32>) {
  // expected-error @+1 {{'nv_tileaa.conv_dot' op expects an accumulator of shape [2, 16, 4], but got [2, 16, 8]}}
  %bad = nv_tileaa.conv_dot %x, %f, %c {activation_layout = #nv_tileaa.activation_layout<nwc>, conv_params = #nv_tileaa.conv_params<pad_lower=[1], pad_upper=[1], stride=[1], dilation=[1]>} : tile<2x16x8xf16>, tile<8x4xf16>, tile<2x16x8xf32> -> tile<2x16x8xf32>
  nv_tileaa.return
}
