// What cannot be read, or stands where it does not belong.
// RUN: cuda-tile-opt %s -split-input-file -verify-diagnostics
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// expected-error @+1 {{'nv_tileaa.return' op expects parent op 'nv_tileaa.func'}}
nv_tileaa.return

// -----

// expected-error @+1 {{'nv_tileaa.yield' op expects parent op 'nv_tileaa.func'}}
nv_tileaa.yield

// -----

nv_tileaa.func @unknown() {
  // expected-error @+1 {{custom op 'nv_tileaa.frobnicate' is unknown}}
  nv_tileaa.frobnicate
  nv_tileaa.return
}

// -----

nv_tileaa.func @types(%v: tile<4xf32>) {
  // expected-error @+1 {{expected 2 operand types but had 1}}
  %a = nv_tileaa.addf %v, %v : tile<4xf32> -> tile<4xf32>
  nv_tileaa.return
}

// -----

nv_tileaa.func @other_region(%n: i32) {
  // expected-note @+2 {{operand defined as a block argument (block #0 is neither in a parent nor in a child region)}}
  // expected-note @+1 {{operand defined as a block argument (block #0 is neither in a parent nor in a child region)}}
  %end = scf.while (%v = %n) : (i32) -> i32 {
    // expected-error @+1 {{operand #0 does not dominate this use}}
    %more = arith.cmpi slt, %p, %n : i32
    // expected-error @+1 {{operand #1 does not dominate this use}}
    scf.condition(%more) %p : i32
  } do {
  ^bb0(%p: i32):
    scf.yield %p : i32
  }
  nv_tileaa.return
}

// -----

nv_tileaa.func @order(%v: tile<4xf32>) {
  // expected-error @+1 {{operand #0 does not dominate this use}}
  %b = nv_tileaa.negf %a : tile<4xf32> -> tile<4xf32>
  // expected-note @+1 {{operand defined here (op in the same block)}}
  %a = nv_tileaa.negf %v : tile<4xf32> -> tile<4xf32>
  nv_tileaa.return
}

// -----

// expected-error @+1 {{parameter 'num_warps' of a kernel_spec is there twice}}
nv_tileaa.func @two_numbers_of_warps() attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_warps=8>} {
  nv_tileaa.return
}
