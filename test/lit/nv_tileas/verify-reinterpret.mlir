// What is seen of storage: all of its bits, or in shared memory the first elements of one width.
// RUN: cuda-tile-opt %s -verify-diagnostics
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

!buf = !nv_tileas.buffer<4x8xf32, shared>

nv_tileaa.func @parts(%b: !buf, %t: !nv_tileas.buffer<1x128x64xf32, tmem>) {
  %0 = nv_tileas.reinterpret %b : !buf -> !nv_tileas.buffer<32xi32, shared>
  %1 = nv_tileas.reinterpret %b : !buf -> !nv_tileas.buffer<2x4xi32, shared>
  %2 = nv_tileas.reinterpret %b : !buf -> !nv_tileas.buffer<4x16xf16, shared>
  // expected-error @+1 {{'nv_tileas.reinterpret' op expects the same number of bits, but got 1024 vs 512}}
  %3 = nv_tileas.reinterpret %b : !buf -> !nv_tileas.buffer<4x8xf16, shared>
  // expected-error @+1 {{'nv_tileas.reinterpret' op expects the same number of bits, but got 1024 vs 2048}}
  %4 = nv_tileas.reinterpret %b : !buf -> !nv_tileas.buffer<8x8xf32, shared>
  // expected-error @+1 {{'nv_tileas.reinterpret' op expects the same number of bits, but got 262144 vs 131072}}
  %5 = nv_tileas.reinterpret %t : !nv_tileas.buffer<1x128x64xf32, tmem> -> !nv_tileas.buffer<1x128x32xf32, tmem>
  nv_tileaa.return
}
