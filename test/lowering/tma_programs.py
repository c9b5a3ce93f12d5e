# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels of nv_tileas, written by hand, with barrier objects, copies of chosen rows, and descriptors of their own."""

from __future__ import annotations

from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.layouts import LinearLayout
from libtile.lowering.to_tileas.shape_layouts import spread

ENTRY = "attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>}"


def body(layout: LinearLayout) -> str:
    """A layout as it is written between the brackets of its attribute."""
    return str(LayoutAttr(layout)).split("<", 1)[1].removesuffix(">")


HANDED_ON = f"""
#one = #nv_tileas.layout<register=[[1],[2]], lane=[[4],[8],[16],[32],[64]] : 128>
#four = #nv_tileas.layout<register=[[1]], lane=[[2],[4],[8],[16],[32]], warp=[[64],[0]] : 128>
!b = !nv_tileas.buffer<128xf32, shared, #nv_tileas.layout<offset=[[1],[2],[4],[8],[16],[32],[64]] : 128>>
!p = !nv_tileaa.ptr<f32, 1>
nv_tileaa.func @k(%a: !p, %o: !p) {ENTRY} {{
  %buffer = nv_tileas.alloc_tensor : !b
  %full = nv_tileas.create_mbarrier {{arrivals = 1}} : !nv_tileas.mbarrier
  %empty = nv_tileas.create_mbarrier : !nv_tileas.mbarrier
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %n = arith.constant 5 : i32
  %step = arith.constant 128 : i32
  nv_tileas.async.pipeline.agent_switch {{agent_warps = [4, 1]}} ({{
    %range = nv_tileaa.make_range {{start = 0}} : tensor<128xi32, #four>
    scf.for %i = %zero to %n step %one : i32 {{
      nv_tileas.mbarrier_wait %full, %i : !nv_tileas.mbarrier, i32
      %x = nv_tileas.copy %buffer : !b -> tensor<128xf32, #four>
      nv_tileas.mbarrier_arrive %empty : !nv_tileas.mbarrier
      %y = nv_tileaa.addf %x, %x : tensor<128xf32, #four>, tensor<128xf32, #four> -> tensor<128xf32, #four>
      %base = arith.muli %i, %step : i32
      %s = nv_tileaa.splat %base : i32 -> tensor<128xi32, #four>
      %offsets = arith.addi %s, %range : tensor<128xi32, #four>
      %pointers = nv_tileaa.splat %o : !p -> tensor<128x!nv_tileaa.ptr<f32, 1>, #four>
      %at = nv_tileaa.addptr %pointers, %offsets : tensor<128x!nv_tileaa.ptr<f32, 1>, #four>, tensor<128xi32, #four>
        -> tensor<128x!nv_tileaa.ptr<f32, 1>, #four>
      nv_tileas.store %at, %y : tensor<128x!nv_tileaa.ptr<f32, 1>, #four>, tensor<128xf32, #four>
    }}
    nv_tileas.async.pipeline.yield
  }}, {{
    %range = nv_tileaa.make_range {{start = 0}} : tensor<128xi32, #one>
    scf.for %i = %zero to %n step %one : i32 {{
      %base = arith.muli %i, %step : i32
      %s = nv_tileaa.splat %base : i32 -> tensor<128xi32, #one>
      %offsets = arith.addi %s, %range : tensor<128xi32, #one>
      %pointers = nv_tileaa.splat %a : !p -> tensor<128x!nv_tileaa.ptr<f32, 1>, #one>
      %at = nv_tileaa.addptr %pointers, %offsets : tensor<128x!nv_tileaa.ptr<f32, 1>, #one>, tensor<128xi32, #one>
        -> tensor<128x!nv_tileaa.ptr<f32, 1>, #one>
      %x = nv_tileas.load %at : tensor<128x!nv_tileaa.ptr<f32, 1>, #one> -> tensor<128xf32, #one>
      %before = arith.addi %i, %one : i32
      nv_tileas.mbarrier_wait %empty, %before : !nv_tileas.mbarrier, i32
      nv_tileas.copy %x, %buffer : tensor<128xf32, #one>, !b
      nv_tileas.mbarrier_arrive %full : !nv_tileas.mbarrier
    }}
    nv_tileas.async.pipeline.yield
  }})
  nv_tileaa.return
}}
"""
"""Five times 128 numbers through one buffer, doubled: a producer's warp and a consumer's four meet at two barrier
objects, of which the consumer's begins as if it had been left."""


TENSOR = (
    "{divisibility = array<i64: 16>, size_bounds = array<i64: 65536, 65536>, stride_divisibility = array<i64: 4, 1>}"
)
TWO_VIEWS = f"""
!t = tensor<8x32xf32, #nv_tileas.layout<{body(spread((8, 32), 4, 4, (1, 0)))}>>
!p = !nv_tileaa.ptr<f32, 1>
!m = !nv_tileaa.memref<?x?xf32, strides=[?,1], 1>
!v = !nv_tileaa.tiled_view<!m, 8x32>
nv_tileaa.func @k(%a: !p, %rows: i32, %columns: i32, %stride: i32, %o: !p) {ENTRY} {{
  %m = arith.index_cast %rows : i32 to index
  %n = arith.index_cast %columns : i32 to index
  %s = arith.index_cast %stride : i32 to index
  %from = nv_tileaa.make_memref %a, %m, %n, %s {TENSOR} : !p, index, index, index -> !m
  %to = nv_tileaa.make_memref %o, %m, %n, %s {TENSOR} : !p, index, index, index -> !m
  %v = nv_tileaa.block_tile %from {{tileSizes = array<i64: 8, 32>, dimGroups = [array<i64: 0>, array<i64: 1>]}}
    : !m -> !v
  %w = nv_tileaa.block_tile %to {{tileSizes = array<i64: 8, 32>, dimGroups = [array<i64: 0>, array<i64: 1>]}} : !m -> !v
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
"""
"""The beginning of a kernel with views in tiles of 8x32: %v of what it reads, and %w of what it writes."""
IN_LOOP = f"""{TWO_VIEWS}  %three = arith.constant 3 : i32
  scf.for %i = %zero to %three step %one : i32 {{
    %x = nv_tileas.tiled_load %v[%i, %one]
      {{allow_tma, atom = #nv_tileas.copy_atom<tma_load, box=[32,8]>}} : !v, i32, i32 -> !t
    nv_tileas.tiled_store %w[%i, %zero], %x
      {{allow_tma, atom = #nv_tileas.copy_atom<tma_store, box=[32,8]>}} : !v, !t, i32, i32
  }}
  nv_tileaa.return
}}
"""
"""Tiles of the second column of tiles go to the first one, by TMA both ways."""


def gathered(rows: int, scatters: bool = True) -> str:
    """Rows that one array of numbers names, doubled, become those that another one names."""
    tile, numbers = body(spread((rows, 64), 4, 4, (1, 0))), body(spread((rows,), 4, 1, (0,)))
    ways = {
        True: "{allow_tma, atom = #nv_tileas.copy_atom<tma_store, box=[32,1], mode=scatter4>}",
        False: "",
    }
    return f"""
#t = #nv_tileas.layout<{tile}>
#r = #nv_tileas.layout<{numbers}>
!t = tensor<{rows}x64xf32, #t>
!r = tensor<{rows}xi32, #r>
!pointers = tensor<{rows}x!nv_tileaa.ptr<i32, 1>, #r>
!p = !nv_tileaa.ptr<f32, 1>
!q = !nv_tileaa.ptr<i32, 1>
!m = !nv_tileaa.memref<?x64xf32, strides=[64,1], 1>
!v = !nv_tileaa.tiled_view<!m, {rows}x64, #nv_tileaa.tiling<sparse_dim=0>>
nv_tileaa.func @k(%a: !p, %o: !p, %from: !q, %to: !q, %n: i32) {ENTRY} {{
  %size = arith.index_cast %n : i32 to index
  %ma = nv_tileaa.make_memref %a, %size {{divisibility = array<i64: 16>, size_bounds = array<i64: 65536, 64>}}
    : !p, index -> !m
  %mo = nv_tileaa.make_memref %o, %size {{divisibility = array<i64: 16>, size_bounds = array<i64: 65536, 64>}}
    : !p, index -> !m
  %v = nv_tileaa.block_tile %ma {{tileSizes = array<i64: {rows}, 64>, dimGroups = [array<i64: 0>, array<i64: 1>]}}
    : !m -> !v
  %w = nv_tileaa.block_tile %mo {{tileSizes = array<i64: {rows}, 64>, dimGroups = [array<i64: 0>, array<i64: 1>]}}
    : !m -> !v
  %zero = arith.constant 0 : i32
  %range = nv_tileaa.make_range {{start = 0}} : !r
  %sources = nv_tileaa.splat %from : !q -> !pointers
  %source = nv_tileaa.addptr %sources, %range : !pointers, !r -> !pointers
  %rows = nv_tileas.load %source : !pointers -> !r
  %targets = nv_tileaa.splat %to : !q -> !pointers
  %target = nv_tileaa.addptr %targets, %range : !pointers, !r -> !pointers
  %places = nv_tileas.load %target : !pointers -> !r
  %x = nv_tileas.tiled_load %v[%rows, %zero]
    {{allow_tma, atom = #nv_tileas.copy_atom<tma_load, box=[32,1], mode=gather4>}} : !v, !r, i32 -> !t
  %y = nv_tileaa.addf %x, %x : !t, !t -> !t
  nv_tileas.tiled_store %w[%places, %zero], %y {ways[scatters]} : !v, !t, !r, i32
  nv_tileaa.return
}}
"""


ROWS = "#nv_tileas.layout<offset=[[0,1],[0,2],[0,4],[0,8],[0,16],[1,0],[2,0],[4,0],[8,0]] : 16x32>"
REPLACED = f"""
#layout = #nv_tileas.layout<{body(spread((16, 32), 4, 4, (1, 0)))}>
!t = tensor<16x32xf32, #layout>
!b = !nv_tileas.buffer<16x32xf32, shared, {ROWS}>
!p = !nv_tileaa.ptr<f32, 1>
!m = !nv_tileaa.memref<?x?xf32, strides=[?,1], 1>
!v = !nv_tileaa.tiled_view<!m, 16x32>
!d = !nv_tileas.tma_desc<!m, [32, 16]>
#load = #nv_tileas.copy_atom<tma_load, box=[32,16]>
nv_tileaa.func @k(%place: !p, %a: !p, %b: !p, %c: !p, %n: i64, %o: !p) {ENTRY} {{
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %three = arith.constant 3 : index
  %rows = arith.index_cast %n : i64 to index
  %memory = nv_tileaa.make_memref %a, %rows, %rows, %rows : !p, index, index, index -> !m
  %m = arith.constant 48 : index
  %k = arith.constant 40 : index
  %out = nv_tileaa.make_memref %o, %m, %k, %k : !p, index, index, index -> !m
  %view = nv_tileaa.block_tile %out {{tileSizes = array<i64: 16, 32>, dimGroups = [array<i64: 0>, array<i64: 1>]}}
    : !m -> !v
  %map = nv_tileas.make_tiled_tma_desc %memory, %place {{on_device, tmaIdx = 0, atom = #load, layout = {ROWS}}}
    : !m, !p -> !d
  %buffer = nv_tileas.alloc_tensor {{alignment = 128}} : !b
  %full = nv_tileas.create_mbarrier {{arrivals = 1}} : !nv_tileas.mbarrier
  %second = nv_tileaa.ptr_to_int %b : !p -> i64
  %third = nv_tileaa.ptr_to_int %c : !p -> i64
  %height = arith.constant 7 : i32
  %width = arith.constant 20 : i32
  %stride = arith.constant 96 : i64
  scf.for %i = %zero to %three step %one {{
    nv_tileas.mbarrier_arrive %full {{tx_count = 2048}} : !nv_tileas.mbarrier
    %token = nv_tileas.async.tiled_tma_load %map[%zero, %zero], %buffer, %full
      {{atom = #load, tmaIdx = 0, tx_count = 2048}}
      : !d, index, index, !b, !nv_tileas.mbarrier -> !nv_tileas.async_token
    nv_tileas.mbarrier_wait %full, %i : !nv_tileas.mbarrier, index
    %x = nv_tileas.copy %buffer : !b -> !t
    nv_tileas.tiled_store %view[%i, %zero], %x : !v, !t, index, index
    %first = arith.cmpi eq, %i, %zero : index
    %next = arith.select %first, %second, %third : i64
    nv_tileas.tensormap_replace %map, %next {{field = "global_address"}} : !d, i64
    nv_tileas.tensormap_replace %map, %width {{field = "dim_size", ordinal = 0}} : !d, i32
    nv_tileas.tensormap_replace %map, %height {{field = "dim_size", ordinal = 1}} : !d, i32
    nv_tileas.tensormap_replace %map, %stride {{field = "stride_size", ordinal = 1}} : !d, i64
  }}
  nv_tileaa.return
}}
"""
"""Three matrices through one descriptor in memory: of n by n, and of 7 by 20 in rows of 24."""
