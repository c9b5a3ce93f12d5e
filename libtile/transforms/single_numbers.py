# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Numbers of a small tile that is loaded for them alone are loaded one by one, a part of `canonicalize-tileaa`.

A frontend that keeps a list of arrays in memory reads each one's pointer, sizes and strides as a row, and takes the
row apart:

    %row = tiled_load %rows[%i, %zero] : 1x8          %p = tiled_load %numbers[%i, %zero] : 1x1
    %p = extract %row[%zero, %zero] : 1x1       ->    %n = tiled_load %numbers[%i, %one] : 1x1
    %n = extract %row[%zero, %one] : 1x1

A tile lies across the threads of a block, so that to take it apart they hand its numbers on. What all threads want,
each can load; and one thread by itself can, which goes through a loop over such arrays to copy tiles of them.
"""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import DenseArrayBase, IndexType, IntegerAttr, IntegerType, i64
from xdsl.ir import Operation, SSAValue

from libtile.analysis.tokens import is_fresh
from libtile.dialects import arith
from libtile.dialects.nv_tileaa.attributes import TilingAttr
from libtile.dialects.nv_tileaa.memory import TiledLoadOp
from libtile.dialects.nv_tileaa.pointers import BlockTileOp
from libtile.dialects.nv_tileaa.shapes import ExtractOp
from libtile.dialects.nv_tileaa.types import TiledViewType
from libtile.ir.locations import set_location
from libtile.ir.tile_form import shape_of

MOST_NUMBERS = 8
"""Of a tile, that are loaded one by one."""


def load_number(op: ExtractOp) -> list[SSAValue] | bool:
    """The pattern of `canonicalize-tileaa` for `extract`."""
    load = op.source.owner
    if not isinstance(load, TiledLoadOp) or not _is_for_numbers(load):
        return False
    view, block = load.accessed.type, load.accessed.owner
    assert isinstance(view, TiledViewType) and isinstance(block, BlockTileOp)
    ones = (1,) * len(view.shape)
    single = TiledViewType(view.source, ones, TilingAttr(view.layout.dim_map, padding=view.layout.padding))
    narrow = BlockTileOp.make(
        block.source, results=[single], tileSizes=DenseArrayBase.from_list(i64, ones), dimGroups=block.dim_groups
    )
    places = zip(load.coordinates, view.traversal_strides, op.indices, strict=True)
    indices = [_place(op, first, step, within) for first, step, within in places]
    made = TiledLoadOp.make(
        _put(op, narrow), indices, None, None, load.token,
        results=[op.result.type, None if load.result_token is None else load.result_token.type],
        padding_value=load.padding_value, cache_modifier=load.cache_modifier, eviction_policy=load.eviction_policy,
        mem_semantic=load.mem_semantic, in_bounds=load.in_bounds,
    )  # fmt: skip
    return [_put(op, made)]


def _is_for_numbers(load: TiledLoadOp) -> bool:
    """Whether all that is made of a loaded tile is a few of its numbers, in the same block, and nothing is in order
    with the load."""
    view, block = load.accessed.type, load.accessed.owner
    if not isinstance(view, TiledViewType) or not isinstance(block, BlockTileOp):
        return False
    tiling, rank = view.layout, len(view.shape)
    if tiling.sparse_dim is not None or tiling.leading or view.rank != rank or view.dim_map != tuple(range(rank)):
        return False
    if load.semantic != "weak" or load.is_volatile is not None or load.group("mask") or load.group("other"):
        return False
    if load.token is not None and not is_fresh(load.token):
        return False
    if load.result_token is not None and load.result_token.first_use is not None:
        return False
    users = [use.operation for use in load.value.uses]
    return len(users) <= MOST_NUMBERS and all(
        isinstance(user, ExtractOp) and user.parent is load.parent and _is_one(user, rank) for user in users
    )


def _is_one(op: ExtractOp, rank: int) -> bool:
    shape = shape_of(op.result.type)
    return len(shape) == rank and prod(shape) == 1


def _place(op: ExtractOp, first: SSAValue, step: int, within: SSAValue) -> SSAValue:
    """step * first + within, of the type of an index."""
    type_ = first.type
    assert isinstance(type_, IndexType | IntegerType)
    if within.type != type_:
        within = _put(op, arith.IndexCastOp(within, type_))
    if step != 1:
        first = _put(op, arith.MuliOp(first, _put(op, arith.ConstantOp(IntegerAttr(step, type_)))))
    return _put(op, arith.AddiOp(first, within))


def _put(op: Operation, made: Operation) -> SSAValue:
    """Insert an op in front of another; its result."""
    assert op.parent is not None
    set_location(made, op.location)
    op.parent.insert_op_before(made, op)
    return made.results[0]
