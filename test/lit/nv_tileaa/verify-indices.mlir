// Indices of accesses, and what is counted, are integers; tiles of indices have the shape that the access asks for.
// RUN: cuda-tile-opt -split-input-file -verify-diagnostics %s
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

!memref = !nv_tileaa.memref<?x?xf32, 1>

nv_tileaa.func @floats(%m: !memref, %i: index, %f: f32) {
  // expected-error @+1 {{'nv_tileaa.load' op expects indices of integers, but got f32}}
  %bad = nv_tileaa.load %m[%i, %f] : !memref, index, f32 -> f32
  %good = nv_tileaa.load %m[%i, %i] : !memref, index, index -> f32
  nv_tileaa.return
}

// -----

!memref = !nv_tileaa.memref<?x?xf32, 1>

nv_tileaa.func @elements(%m: !memref, %a: tensor<4xi32>, %b: tensor<8xi32>) {
  // expected-error @+1 {{'nv_tileaa.load' op expects a tile of indices for each element, but got tile<8xi32>}}
  %bad = nv_tileaa.load %m[%a, %b] : !memref, tile<4xi32>, tile<8xi32> -> tile<4xf32>
  %good = nv_tileaa.load %m[%a, %a] : !memref, tile<4xi32>, tile<4xi32> -> tile<4xf32>
  nv_tileaa.return
}

// -----

!memref = !nv_tileaa.memref<?x?xf32, 1>

nv_tileaa.func @rows(%m: !memref, %a: tensor<4xi32>, %i: index) {
  // expected-error @+1 {{'nv_tileaa.gather_load' op expects at most one tile of indices, but got 2}}
  %bad = nv_tileaa.gather_load %m[%a, %a] : !memref, tile<4xi32>, tile<4xi32> -> tile<4x8xf32>
  %good = nv_tileaa.gather_load %m[%a, %i] : !memref, tile<4xi32>, index -> tile<4x8xf32>
  nv_tileaa.return
}

// -----

nv_tileaa.func @counted(%x: tensor<4xf32>) {
  // expected-error @+1 {{'nv_tileaa.histogram' op expects tiles of integers, but got tile<4xf32>}}
  %bad = nv_tileaa.histogram %x : tile<4xf32> -> tile<8xi32>
  nv_tileaa.return
}
