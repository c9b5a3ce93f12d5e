// What one instruction of an access moves, and which dimensions it checks, fit the tile.
// RUN: cuda-tile-opt %s -verify-diagnostics
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

!memref = !nv_tileaa.memref<?x?xf32, 1>
!view = !nv_tileaa.tiled_view<!memref, 4x8>

nv_tileaa.func @widths(%i: index, %j: index, %tv: !view) {
  %good = nv_tileas.tiled_load %tv[%i, %j] {atom = #nv_tileas.copy_atom<ldg, bits=128, dim=1>, masked = array<i64: 0, 1>}
    : !view, index, index -> tile<4x8xf32>
  // expected-error @+1 {{'nv_tileas.tiled_load' op expects dim of the atom in range 0 to 1, but got 2}}
  %dim = nv_tileas.tiled_load %tv[%i, %j] {atom = #nv_tileas.copy_atom<ldg, bits=32, dim=2>}
    : !view, index, index -> tile<4x8xf32>
  // expected-error @+1 {{'nv_tileas.tiled_load' op expects bits of the atom for a power of two of elements of 32 bits, at most 128 bits and 8 elements, but got 256}}
  %wide = nv_tileas.tiled_load %tv[%i, %j] {atom = #nv_tileas.copy_atom<ldg, bits=256, dim=1>}
    : !view, index, index -> tile<4x8xf32>
  // expected-error @+1 {{'nv_tileas.tiled_load' op expects bits of the atom for a power of two of elements of 32 bits, at most 128 bits and 8 elements, but got 16}}
  %part = nv_tileas.tiled_load %tv[%i, %j] {atom = #nv_tileas.copy_atom<ldg, bits=16, dim=1>}
    : !view, index, index -> tile<4x8xf32>
  // expected-error @+1 {{'nv_tileas.tiled_load' op expects dimensions of the tile as 'masked', in order, but got [1, 0]}}
  %order = nv_tileas.tiled_load %tv[%i, %j] {atom = #nv_tileas.copy_atom<ldg, bits=128, dim=1>, masked = array<i64: 1, 0>}
    : !view, index, index -> tile<4x8xf32>
  // expected-error @+1 {{'nv_tileas.tiled_load' op expects dimensions of the tile as 'masked', in order, but got [2]}}
  %none = nv_tileas.tiled_load %tv[%i, %j] {atom = #nv_tileas.copy_atom<ldg, bits=128, dim=1>, masked = array<i64: 2>}
    : !view, index, index -> tile<4x8xf32>
  nv_tileaa.return
}
