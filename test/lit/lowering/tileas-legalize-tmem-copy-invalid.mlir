// Copies that no instruction on tensor memory can do are refused; the others are left to the pass's other test.
// RUN: cuda-tile-opt --tileas-legalize-tmem-copy %s -split-input-file -verify-diagnostics
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Tensor memory has 128 rows; a tile of 64 leaves lanes without one.
nv_tileaa.func @rows(%t: !nv_tileas.buffer<64x32xf32, tmem>, %s: !nv_tileas.buffer<64x32xf32, shared>) {
  // expected-error @+1 {{'nv_tileas.copy' op failed to infer register layout from tmem layout}}
  nv_tileas.copy %t, %s : !nv_tileas.buffer<64x32xf32, tmem>, !nv_tileas.buffer<64x32xf32, shared>
  nv_tileaa.return
}

// -----

// It has 512 columns of 32 bits.
nv_tileaa.func @columns(%t: !nv_tileas.buffer<128x1024xf32, tmem>, %s: !nv_tileas.buffer<128x1024xf32, shared>) {
  // expected-error @+1 {{'nv_tileas.copy' op failed to infer register layout from tmem layout}}
  nv_tileas.copy %t, %s : !nv_tileas.buffer<128x1024xf32, tmem>, !nv_tileas.buffer<128x1024xf32, shared>
  nv_tileaa.return
}

// -----

// No matrix instruction moves elements of 64 bits.
nv_tileaa.func @width(%t: !nv_tileas.buffer<128x32xf64, tmem>, %s: !nv_tileas.buffer<128x32xf64, shared>) {
  // expected-error @+1 {{'nv_tileas.copy' op failed to infer source layout from tmem layout}}
  nv_tileas.copy %t, %s : !nv_tileas.buffer<128x32xf64, tmem>, !nv_tileas.buffer<128x32xf64, shared>
  nv_tileaa.return
}
