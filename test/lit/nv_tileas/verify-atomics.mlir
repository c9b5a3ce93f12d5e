// The atom of an atomic op through pointers moves an element, and gives the old value where that is used.
// RUN: cuda-tile-opt %s -verify-diagnostics
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

!pointers = tensor<4x!nv_tileaa.ptr<f32, 1>>

nv_tileaa.func @atoms(%p: !pointers, %x: tensor<4xf32>) {
  nv_tileas.atomic_rmw %p, %x {rmw_mode = #nv_tileaa.rmw_mode<addf>, atom = #nv_tileas.copy_atom<red, bits=32>}
    : !pointers, tensor<4xf32> -> tensor<4xf32>
  %old = nv_tileas.atomic_cas %p, %x, %x {atom = #nv_tileas.copy_atom<atom, bits=32>}
    : !pointers, tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  // expected-error @+1 {{'nv_tileas.atomic_rmw' op expects an atom that gives the old value, which is used, but got red}}
  %used = nv_tileas.atomic_rmw %p, %old {rmw_mode = #nv_tileaa.rmw_mode<addf>, atom = #nv_tileas.copy_atom<red, bits=32>}
    : !pointers, tensor<4xf32> -> tensor<4xf32>
  // expected-error @+1 {{'nv_tileas.atomic_rmw' op expects an atom of 32 bits, as an element has, but got 64}}
  %wide = nv_tileas.atomic_rmw %p, %used {rmw_mode = #nv_tileaa.rmw_mode<addf>, atom = #nv_tileas.copy_atom<atom, bits=64>}
    : !pointers, tensor<4xf32> -> tensor<4xf32>
  // expected-error @+1 {{'nv_tileas.atomic_rmw' op expects an atom that is one of red, atom, cas, unknown_copy, but got stg}}
  %kind = nv_tileas.atomic_rmw %p, %wide {rmw_mode = #nv_tileaa.rmw_mode<addf>, atom = #nv_tileas.copy_atom<stg, bits=32>}
    : !pointers, tensor<4xf32> -> tensor<4xf32>
  // expected-error @+1 {{'nv_tileas.atomic_cas' op expects an atom that is one of atom, unknown_copy, but got red}}
  %swap = nv_tileas.atomic_cas %p, %kind, %x {atom = #nv_tileas.copy_atom<red, bits=32>}
    : !pointers, tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  nv_tileaa.return
}
