# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operands that are permuted right behind their load, through a view that is made in a loop or branch, are loaded
through a view whose dimensions are exchanged, before layouts are chosen.

    w = block_tile m : 128x64                       w' = block_tile m : 64x128, dim_map=[1, 0]
    for ...                                   ->    for ...
      b = tiled_load w[j, k]                          b' = tiled_load w'[k, j] : 64x128
      acc = dot a, (permute b), acc                   acc = dot a, b', acc

TMA has no descriptor of such a view, as it is made before the kernel begins; threads copy its tiles to shared memory as
they are loaded, which a permutation is not. Where TMA copies a tile it renames the dimensions itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, i1, i64
from xdsl.ir import SSAValue

from libtile.dialects.nv_tileaa.attributes import TilingAttr
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileaa.memory import TiledLoadOp
from libtile.dialects.nv_tileaa.pointers import BlockTileOp, MakeMemRefOp
from libtile.dialects.nv_tileaa.shapes import PermuteOp, integers_of
from libtile.dialects.nv_tileaa.types import TiledViewType
from libtile.ir.operands import set_operand
from libtile.ir.tile_form import erase
from libtile.lowering.discardable import OUTSIDE
from libtile.lowering.tileas.inserter import Inserter
from libtile.lowering.tileas.products.product_forms import products_in_loops
from libtile.lowering.tileas.products.result_parts import is_plain_access
from libtile.lowering.to_tileas.accesses import numbers
from libtile.targets import Target

T = TypeVar("T")


def exchange_views(function: FuncOp, gpu: Target) -> None:
    """Exchange the views of permuted operands of products in a function's loops, for targets with agents."""
    if not gpu.has("tma"):
        return
    for product in products_in_loops(function):
        for operand in (product.a, product.b):
            permute = operand.owner
            if isinstance(permute, PermuteOp) and permute.parent is product.parent and operand.has_one_use():
                _exchange(function, permute)


def _exchange(function: FuncOp, permute: PermuteOp) -> None:
    load = permute.source.owner
    if not isinstance(load, TiledLoadOp) or load.parent is not permute.parent or not permute.source.has_one_use():
        return
    block = load.accessed.owner
    memref = block.source.owner if isinstance(block, BlockTileOp) else None
    if not isinstance(memref, MakeMemRefOp) or memref.parent is function.body.block or not is_plain_access(load):
        return
    assert isinstance(block, BlockTileOp)
    order = integers_of(permute.permutation)
    view = _exchanged_view(block, order)
    properties, attributes = dict(load.properties), dict(load.attributes)
    if load.in_bounds is not None:
        inside = DenseArrayBase.from_list(i1, _taken(list(load.in_bounds.get_values()), order))
        properties["in_bounds"] = inside
    if "index_divisibility" in attributes:
        divisors = _taken(numbers(load, "index_divisibility"), order)
        attributes["index_divisibility"] = DenseArrayBase.from_list(i64, divisors)
    if OUTSIDE in attributes:
        outside = numbers(load, OUTSIDE)
        places = [place for place, dim in enumerate(order) if dim in outside]
        attributes[OUTSIDE] = DenseArrayBase.from_list(i64, places)
    again = TiledLoadOp.create(
        operands=list(load.operands),
        result_types=[permute.result.type, *(r.type for r in load.results[1:])],
        properties=properties,
        attributes=attributes,
    )
    set_operand(again, "base", view)
    for number, index in enumerate(_taken(load.coordinates, order)):
        set_operand(again, "indices", index, number)
    at = load.parent
    assert at is not None
    Inserter(at, load, load.location).add(again)
    permute.result.replace_all_uses_with(again.results[0])
    for old, new in zip(load.results[1:], again.results[1:]):
        old.replace_all_uses_with(new)
    erase(permute)
    erase(load)


def _exchanged_view(block: BlockTileOp, order: Sequence[int]) -> SSAValue:
    """The view whose dimension n is dimension order[n] of another one, made beside that."""
    type_ = block.result.type
    assert isinstance(type_, TiledViewType) and block.parent is not None and block.dim_groups is not None
    tiling, shape = type_.layout, _taken(type_.shape, order)
    strides = None if tiling.traversal_strides is None else _taken(tiling.traversal_strides, order)
    map_ = TilingAttr(_taken(type_.dim_map, order), strides, padding=tiling.padding)
    result = TiledViewType(type_.source, shape, map_)
    groups = ArrayAttr(_taken(block.dim_groups.data, order))
    made = BlockTileOp.make(
        block.source, results=[result], tileSizes=DenseArrayBase.from_list(i64, shape), dimGroups=groups
    )
    return Inserter(block.parent, block, block.location).value(made)


def _taken(values: Sequence[T], order: Sequence[int]) -> list[T]:
    return [values[n] for n in order]
