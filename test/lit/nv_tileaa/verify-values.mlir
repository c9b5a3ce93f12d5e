// Types of tiles and memory, what loops carry, numbers that an op may have.
// RUN: cuda-tile-opt %s -verify-diagnostics
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

!memref = !nv_tileaa.memref<?x?xf32, 1>
!view = !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xf32, 1>, 4x8>

nv_tileaa.func @tiles_have_powers_of_two(%m: !nv_tileaa.memref<?xi8, 1>, %i: index) {
  // expected-error @+1 {{'nv_tileaa.tiled_load' op all dimensions must be powers of two, got [3]}}
  %three = nv_tileaa.tiled_load %m[%i] : !nv_tileaa.memref<?xi8, 1>, index -> tile<3xi8>
  // expected-error @+1 {{'nv_tileaa.tiled_load' op tile would exceed the maximum of 16777216 elements}}
  %large = nv_tileaa.tiled_load %m[%i] : !nv_tileaa.memref<?xi8, 1>, index -> tile<33554432xi8>
  // expected-error @+1 {{'nv_tileaa.tiled_load' op expects tiles of numbers, indices or pointers, but got tile<4xi7>}}
  %seven = nv_tileaa.tiled_load %m[%i] : !nv_tileaa.memref<?xi8, 1>, index -> tile<4xi7>
  // expected-error @+1 {{'nv_tileaa.tiled_load' op expects a tile of at most 1 dimensions, but got tile<2x2xi8>}}
  %rank = nv_tileaa.tiled_load %m[%i] : !nv_tileaa.memref<?xi8, 1>, index -> tile<2x2xi8>
  nv_tileaa.return
}

// expected-error @+1 {{'nv_tileaa.func' op expects memory of numbers or pointers, but got !nv_tileaa.memref<?xindex, 1>}}
nv_tileaa.func @memory_has_numbers(%m: !nv_tileaa.memref<?xindex, 1>) {
  nv_tileaa.return
}

// expected-error @+1 {{'nv_tileaa.func' op expects sizes and strides of 64 bits, but got !nv_tileaa.memref<9223372036854775808xf32, strides=[1], 1>}}
nv_tileaa.func @sizes_have_64_bits(%m: !nv_tileaa.memref<9223372036854775808xf32, strides=[1], 1>) {
  nv_tileaa.return
}

// expected-error @+1 {{'nv_tileaa.func' op expects values carried by a loop to be (tile<4xf32>), but got (tile<4xf16>)}}
nv_tileaa.func @loops_carry_one_type(%v: tile<4xf32>, %h: tile<4xf16>, %b: i1) {
  %r = scf.while (%a = %v) : (tensor<4xf32>) -> tensor<4xf32> {
    scf.condition(%b) %h : tensor<4xf16>
  } do {
  ^bb0(%a: tensor<4xf32>):
    scf.yield %a : tensor<4xf32>
  }
  nv_tileaa.return
}

nv_tileaa.func @identities_are_elements(%v: tile<4xf32>) {
  // expected-error @+1 {{'nv_tileaa.reduce' op expects an identity of the element type of tile<4xf32>, but got i32}}
  %r = nv_tileaa.reduce %v {dim = 0, identities = [0 : i32]} ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    nv_tileaa.yield %x : tile<f32>
  }) : tile<4xf32> -> tile<f32>
  nv_tileaa.return
}

nv_tileaa.func @numbers(%v: !view, %x: tile<4x8xf32>, %i: index) {
  // expected-error @+1 {{'nv_tileaa.alloca' op expects an alignment that is a power of two, but got 3}}
  %a = nv_tileaa.alloca {count = 4 : i64, alignment = 3 : i64} : tile<!nv_tileaa.ptr<f32, 1>>
  // expected-error @+1 {{'nv_tileaa.multimem_reduce' op reduction 'xor' needs integers, but got f32}}
  nv_tileaa.multimem_reduce %v[%i, %i], %x {reduction = #nv_tileaa.reduction<xor>} : !view, tile<4x8xf32>, index, index
  // expected-error @+1 {{'nv_tileaa.multimem_load_reduce' op reduction 'umin' needs integers, but got f32}}
  %m = nv_tileaa.multimem_load_reduce %v[%i, %i] {reduction = #nv_tileaa.reduction<umin>} : !view, index, index -> tile<4x8xf32>
  // expected-error @+1 {{'nv_tileaa.execute' op expects named_barriers of at most 16, but got 400}}
  nv_tileaa.execute {named_barriers = 400} ({
    nv_tileaa.yield
  })
  nv_tileaa.return
}
