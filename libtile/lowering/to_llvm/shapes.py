# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Constants and shapes: ops after which elements are in their threads as before."""

from __future__ import annotations

from math import prod

from libtile.codegen import constants, conversions
from libtile.codegen.builder import integer
from libtile.codegen.tile import Tile, map_tiles, scalar
from libtile.dialects import tensor
from libtile.dialects.nv_tileaa.pointers import BitcastOp
from libtile.dialects.nv_tileaa.shapes import (
    BroadcastOp,
    ConstantOp,
    ExpandDimsOp,
    MakeRangeOp,
    PermuteOp,
    SplatOp,
    Unary,
    ViewOp,
)
from libtile.ir.tile_form import integer_of, shape_of
from libtile.layouts import REGISTER, LinearLayout
from libtile.lowering.to_llvm.elementwise import apply
from libtile.lowering.to_llvm.emitter import Emitter, rule
from libtile.support.diagnostics import UnsupportedError


@rule(ConstantOp)
def _constant(e: Emitter, op: ConstantOp) -> None:
    value, result, element = op.value, op.result, e.element(op.result)
    if not value.type.shape:
        e.bind_one(result, constants.splat(e.scalar_layout, element, value.raw).registers[0])
        return
    layout = e.layout(result)
    if value.is_splat:
        e.bind(result, constants.splat(layout, element, value.raw))
        return
    from libtile.codegen.dense_constants import dense, patterns_of_bytes  # numpy, which few kernels need

    e.bind(result, dense(e.b, layout, element, patterns_of_bytes(value.raw, element).reshape(value.type.shape)))


@rule(MakeRangeOp)
def _make_range(e: Emitter, op: MakeRangeOp) -> None:
    result, start = op.result, integer_of(op.start)
    tile = constants.iota(e.b, e.layout(result), e.element(result))
    if start:
        first = integer(tile.registers[0].type, start)
        tile = map_tiles(lambda register: e.b.add(register, first), tile)
    e.bind(result, tile)


@rule(SplatOp)
def _splat(e: Emitter, op: SplatOp) -> None:
    _fill(e, op)


def _fill(e: Emitter, op: Unary) -> None:
    """All elements of the result are the one of the source."""
    result, one = op.result, e.scalar(op.source)
    if shape_of(result.type):
        e.bind(result, scalar(one, e.element(result), e.layout(result)))
    else:
        e.bind_one(result, one)


@rule(tensor.ExtractOp)
def _element(e: Emitter, op: tensor.ExtractOp) -> None:
    e.bind(op.result, e.scalar(op.tensor))


@rule(BitcastOp)
def _bitcast(e: Emitter, op: BitcastOp) -> None:
    source, result = e.element(op.source), e.element(op.result)
    if op.packed is not None:
        _packing(e, op, source, result)
    elif source == "ptr" and not shape_of(op.result.type):
        e.bind_one(op.result, e.scalar(op.source))
    elif source == "ptr":
        e.bind(op.result, e.held[op.source])
    else:
        apply(e, op, conversions.bitcast, source, result)


def _packing(e: Emitter, op: BitcastOp, source: str, result: str) -> None:
    from libtile.codegen import packing

    if (source == "i8") == (result == "i8"):
        raise UnsupportedError(f"packs elements into i8, or unpacks them from i8, and not {source} into {result}")
    tile = e.tile(op.source)
    e.bind(
        op.result,
        e.in_layout(packing.pack(e.b, tile) if result == "i8" else packing.unpack(e.b, tile, result), op.result),
    )


@rule(ViewOp, ExpandDimsOp, PermuteOp, BroadcastOp)
def _rename(e: Emitter, op: Unary) -> None:
    """The elements stay in their threads: the layouts were chosen so."""
    result = op.result
    if prod(shape_of(op.source.type)) == 1:
        _fill(e, op)
        return
    held, layout = e.tile(op.source), e.layout(result)
    if isinstance(op, BroadcastOp):
        e.bind(result, _repeat(held, layout))
    else:
        e.bind(result, Tile(layout, held.element, held.registers))


def _repeat(source: Tile, layout: LinearLayout) -> Tile:
    """A broadcast: each register of the result is the source's at the index with the repeated dimensions at 0."""
    places = {tuple(source.layout(register=r).values()): r for r in range(len(source.registers))}
    registers = []
    for r in range(layout.in_size(REGISTER)):
        at = tuple(i if size > 1 else 0 for i, size in zip(layout(register=r).values(), source.shape))
        registers.append(source.registers[places[at]])
    return Tile(layout, source.element, tuple(registers))
