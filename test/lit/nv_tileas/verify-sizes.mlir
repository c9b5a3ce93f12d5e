// Storage has known sizes that can be counted, and rings have stages that memory could hold.
// RUN: cuda-tile-opt -split-input-file -verify-diagnostics %s
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

nv_tileaa.func @k() {
  // expected-error @+1 {{'nv_tileas.alloc_tensor' op expects storage of 1 to 2147483647 elements, but got !nv_tileas.buffer<?xf32, shared>}}
  %b = nv_tileas.alloc_tensor : !nv_tileas.buffer<?xf32, shared>
  nv_tileaa.return
}

// -----

nv_tileaa.func @k() {
  // expected-error @+1 {{'nv_tileas.alloc_tensor' op expects storage of 1 to 2147483647 elements, but got !nv_tileas.buffer<18446744073709551616x2xf32, global>}}
  %b = nv_tileas.alloc_tensor : !nv_tileas.buffer<18446744073709551616x2xf32, global>
  nv_tileaa.return
}

// -----

nv_tileaa.func @k() {
  // expected-error @+1 {{'nv_tileas.alloc_tensor' op expects storage of 1 to 2147483647 elements, but got !nv_tileas.buffer<4x0xf32, tmem>}}
  %b = nv_tileas.alloc_tensor : !nv_tileas.buffer<4x0xf32, tmem>
  nv_tileaa.return
}

// -----

nv_tileaa.func @k() {
  // expected-error @+1 {{'nv_tileas.alloc_tensor' op expects storage for numbers or pointers, but got !nv_tileas.buffer<4xvector<2xf32>, shared>}}
  %b = nv_tileas.alloc_tensor : !nv_tileas.buffer<4xvector<2xf32>, shared>
  nv_tileaa.return
}

// -----

nv_tileaa.func @k() {
  // expected-error @+1 {{'nv_tileas.async.pipeline.create_pipeline' op expects at most 65536 stages and consumers, but got !nv_tileas.pipeline<9223372036854775808, (tile<4xf32>)>}}
  %p = nv_tileas.async.pipeline.create_pipeline : !nv_tileas.pipeline<9223372036854775808, (tile<4xf32>)>
  nv_tileaa.return
}

// -----

nv_tileaa.func @k() {
  // expected-error @+1 {{'nv_tileas.async.pipeline.create_pipeline' op all dimensions must be positive constants, got [?]}}
  %p = nv_tileas.async.pipeline.create_pipeline : !nv_tileas.pipeline<3, (tile<?xf32>)>
  nv_tileaa.return
}

// -----

nv_tileaa.func @k() {
  // expected-error @+1 {{'nv_tileaa.create_queue' op expects depth of at most 65536, but got 4611686018427387904}}
  %q = nv_tileaa.create_queue {depth = 4611686018427387904 : i64} : !nv_tileaa.queue<(tile<4xf32>)>
  nv_tileaa.return
}

// -----

nv_tileaa.func @k() {
  // expected-error @+1 {{'nv_tileaa.create_queue' op tile would exceed the maximum of 16777216 elements}}
  %q = nv_tileaa.create_queue {depth = 2 : i64} : !nv_tileaa.queue<(tile<9223372036854775808xf32>)>
  nv_tileaa.return
}
