// Tiled atomics: mode, widths, ordering, atoms.
// RUN: cuda-tile-opt %s -verify-diagnostics
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

!memref = !nv_tileaa.memref<?x?xf32, 1>
!view = !nv_tileaa.tiled_view<!memref, 4x8>
#gpu = #nv_tileaa.mem_scope<gpu>
#add = #nv_tileaa.rmw_mode<add>

nv_tileaa.func @attribute_rmw_mode(%i: index, %j: index, %tv: !view, %v48: tile<4x8xf32>, %e: !memref,
    %w: tile<4x8xf32>) {
  // expected-error @+1 {{'nv_tileas.tiled_atomic_rmw' op requires attribute 'rmw_mode'}}
  %r_bad = nv_tileas.tiled_atomic_rmw %tv[%i, %j], %v48 : !view, tile<4x8xf32>, index, index -> tile<4x8xf32>
  %a_good = nv_tileaa.block_tile %e {tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0>, array<i64: 1>]}
    : !memref -> !view
  %r_good = nv_tileas.tiled_atomic_rmw %a_good[%i, %j], %w {rmw_mode = #add}
    : !view, tile<4x8xf32>, index, index -> tile<4x8xf32>
  nv_tileaa.return
}

nv_tileaa.func @memscope_not_supported_when_memsemantic_weak(%i: index, %j: index, %e: !memref, %w: tile<4x8xf32>) {
  %a_bad = nv_tileaa.block_tile %e {tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0>, array<i64: 1>]}
    : !memref -> !view
  // expected-error @+1 {{'nv_tileas.tiled_atomic_rmw' op memScope not supported when memSemantic is weak}}
  %r_bad = nv_tileas.tiled_atomic_rmw %a_bad[%i, %j], %w {rmw_mode = #add, mem_scope = #gpu}
    : !view, tile<4x8xf32>, index, index -> tile<4x8xf32>
  %a_good = nv_tileaa.block_tile %e {tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0>, array<i64: 1>]}
    : !memref -> !view
  %r_good, %t_good = nv_tileas.tiled_atomic_rmw %a_good[%i, %j], %w
    {rmw_mode = #add, mem_semantic = #nv_tileaa.mem_semantic<acq_rel>, mem_scope = #gpu}
    : !view, tile<4x8xf32>, index, index -> tile<4x8xf32>, !nv_tileaa.mem_token
  nv_tileaa.return
}

nv_tileaa.func @memscope_required_when_memsemantic_not_weak(%i: index, %j: index, %e: !memref, %w: tile<4x8xf32>) {
  %a_bad = nv_tileaa.block_tile %e {tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0>, array<i64: 1>]}
    : !memref -> !view
  // expected-error @+1 {{'nv_tileas.tiled_atomic_rmw' op memScope required when memSemantic is not weak}}
  %r_bad = nv_tileas.tiled_atomic_rmw %a_bad[%i, %j], %w
    {rmw_mode = #add, mem_semantic = #nv_tileaa.mem_semantic<relaxed>}
    : !view, tile<4x8xf32>, index, index -> tile<4x8xf32>
  %a_good = nv_tileaa.block_tile %e {tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0>, array<i64: 1>]}
    : !memref -> !view
  %r_good, %t_good = nv_tileas.tiled_atomic_rmw %a_good[%i, %j], %w
    {rmw_mode = #add, mem_semantic = #nv_tileaa.mem_semantic<acquire>, mem_scope = #gpu}
    : !view, tile<4x8xf32>, index, index -> tile<4x8xf32>, !nv_tileaa.mem_token
  nv_tileaa.return
}

nv_tileaa.func @tiled_atomic_rmw_not_supported_8_bit_types(%i: index, %j: index, %e: !nv_tileaa.memref<?x?xi8, 1>,
    %w: tile<4x8xi8>) {
  %a = nv_tileaa.block_tile %e {tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0>, array<i64: 1>]}
    : !nv_tileaa.memref<?x?xi8, 1> -> !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xi8, 1>, 4x8>
  // expected-error @+1 {{'nv_tileas.tiled_atomic_rmw' op tiled_atomic_rmw not supported for 8-bit types}}
  %r = nv_tileas.tiled_atomic_rmw %a[%i, %j], %w {rmw_mode = #add}
    : !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xi8, 1>, 4x8>, tile<4x8xi8>, index, index -> tile<4x8xi8>
  nv_tileaa.return
}

nv_tileaa.func @right_tiled_atomic_rmw_not_supported_8_bit_types(%i: index, %j: index,
    %e: !nv_tileaa.memref<?x?xi32, 1>, %w: tile<4x8xi32>) {
  %a = nv_tileaa.block_tile %e {tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0>, array<i64: 1>]}
    : !nv_tileaa.memref<?x?xi32, 1> -> !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xi32, 1>, 4x8>
  %r = nv_tileas.tiled_atomic_rmw %a[%i, %j], %w {rmw_mode = #add}
    : !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xi32, 1>, 4x8>, tile<4x8xi32>, index, index -> tile<4x8xi32>
  nv_tileaa.return
}

nv_tileaa.func @tiled_atomic_rmw_not_supported_16_bit_integer(%i: index, %j: index, %e: !nv_tileaa.memref<?x?xi16, 1>,
    %w: tile<4x8xi16>) {
  %a = nv_tileaa.block_tile %e {tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0>, array<i64: 1>]}
    : !nv_tileaa.memref<?x?xi16, 1> -> !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xi16, 1>, 4x8>
  // expected-error @+1 {{'nv_tileas.tiled_atomic_rmw' op tiled_atomic_rmw not supported for 16-bit integer}}
  %r = nv_tileas.tiled_atomic_rmw %a[%i, %j], %w {rmw_mode = #add}
    : !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xi16, 1>, 4x8>, tile<4x8xi16>, index, index -> tile<4x8xi16>
  nv_tileaa.return
}

nv_tileaa.func @right_tiled_atomic_rmw_not_supported_16_bit_integer(%i: index, %j: index,
    %e: !nv_tileaa.memref<?x?xi64, 1>, %w: tile<4x8xi64>) {
  %a = nv_tileaa.block_tile %e {tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0>, array<i64: 1>]}
    : !nv_tileaa.memref<?x?xi64, 1> -> !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xi64, 1>, 4x8>
  %r = nv_tileas.tiled_atomic_rmw %a[%i, %j], %w {rmw_mode = #add}
    : !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xi64, 1>, 4x8>, tile<4x8xi64>, index, index -> tile<4x8xi64>
  nv_tileaa.return
}

nv_tileaa.func @tiled_atomic_rmw_16_bit_float_only_supports_add(%i: index, %j: index,
    %e: !nv_tileaa.memref<?x?xbf16, 1>, %w: tile<4x8xbf16>) {
  %a_bad = nv_tileaa.block_tile %e {tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0>, array<i64: 1>]}
    : !nv_tileaa.memref<?x?xbf16, 1> -> !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xbf16, 1>, 4x8>
  // expected-error @+1 {{'nv_tileas.tiled_atomic_rmw' op tiled_atomic_rmw for 16-bit float only supports add, max, min operations}}
  %r_bad = nv_tileas.tiled_atomic_rmw %a_bad[%i, %j], %w {rmw_mode = #nv_tileaa.rmw_mode<xor>}
    : !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xbf16, 1>, 4x8>, tile<4x8xbf16>, index, index -> tile<4x8xbf16>
  %a_good = nv_tileaa.block_tile %e {tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0>, array<i64: 1>]}
    : !nv_tileaa.memref<?x?xbf16, 1> -> !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xbf16, 1>, 4x8>
  %r_good = nv_tileas.tiled_atomic_rmw %a_good[%i, %j], %w {rmw_mode = #nv_tileaa.rmw_mode<max>}
    : !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xbf16, 1>, 4x8>, tile<4x8xbf16>, index, index -> tile<4x8xbf16>
  nv_tileaa.return
}

nv_tileaa.func @tiled_atomic_rmw_cannot_use_fadd_operation_please_use(%i: index, %j: index, %e: !memref,
    %w: tile<4x8xf32>) {
  %a_bad = nv_tileaa.block_tile %e {tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0>, array<i64: 1>]}
    : !memref -> !view
  // expected-error @+1 {{'nv_tileas.tiled_atomic_rmw' op tiled_atomic_rmw op cannot use fadd operation, please use add instead for both int and float types}}
  %r_bad = nv_tileas.tiled_atomic_rmw %a_bad[%i, %j], %w {rmw_mode = #nv_tileaa.rmw_mode<addf>}
    : !view, tile<4x8xf32>, index, index -> tile<4x8xf32>
  %a_good = nv_tileaa.block_tile %e {tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0>, array<i64: 1>]}
    : !memref -> !view
  %r_good = nv_tileas.tiled_atomic_rmw %a_good[%i, %j], %w {rmw_mode = #add}
    : !view, tile<4x8xf32>, index, index -> tile<4x8xf32>
  nv_tileaa.return
}

nv_tileaa.func @tiled_atomic_rmw_cannot_use_xchg_operation(%i: index, %j: index, %e: !memref, %w: tile<4x8xf32>) {
  %a_bad = nv_tileaa.block_tile %e {tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0>, array<i64: 1>]}
    : !memref -> !view
  // expected-error @+1 {{'nv_tileas.tiled_atomic_rmw' op tiled_atomic_rmw op cannot use xchg operation}}
  %r_bad = nv_tileas.tiled_atomic_rmw %a_bad[%i, %j], %w {rmw_mode = #nv_tileaa.rmw_mode<xchg>}
    : !view, tile<4x8xf32>, index, index -> tile<4x8xf32>
  %a_good = nv_tileaa.block_tile %e {tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0>, array<i64: 1>]}
    : !memref -> !view
  %r_good = nv_tileas.tiled_atomic_rmw %a_good[%i, %j], %w {rmw_mode = #nv_tileaa.rmw_mode<min>}
    : !view, tile<4x8xf32>, index, index -> tile<4x8xf32>
  nv_tileaa.return
}

nv_tileaa.func @tma_redg_atom_type(%i: index, %j: index, %e: !memref, %w: tile<4x8xf32>) {
  %a_bad = nv_tileaa.block_tile %e {tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0>, array<i64: 1>]}
    : !memref -> !view
  // expected-error @+1 {{'nv_tileas.tiled_atomic_rmw' op expect a tma_redg atom type}}
  %r_bad = nv_tileas.tiled_atomic_rmw %a_bad[%i, %j], %w
    {rmw_mode = #add, atom = #nv_tileas.copy_atom<stg, bits=1024, box=[8,4]>}
    : !view, tile<4x8xf32>, index, index -> tile<4x8xf32>
  %a_good = nv_tileaa.block_tile %e {tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0>, array<i64: 1>]}
    : !memref -> !view
  %r_good = nv_tileas.tiled_atomic_rmw %a_good[%i, %j], %w
    {rmw_mode = #add, atom = #nv_tileas.copy_atom<tma_redg, bits=1024, box=[8,4]>}
    : !view, tile<4x8xf32>, index, index -> tile<4x8xf32>
  nv_tileaa.return
}
