# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What brings elements to other threads: conversions of layouts, parts at a place that is computed."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from libtile.codegen import shapes as movement
from libtile.codegen.builder import Value
from libtile.codegen.convert_layout import through_shared, within_warps
from libtile.dialects.nv_tileaa.shapes import (
    CatOp,
    ExtractOp,
    InsertSliceOp,
)
from libtile.dialects.nv_tileas.tiles import ConvertLayoutOp
from libtile.layouts.convert import Conversion
from libtile.lowering.tileas.exchanges.ways import ways_of
from libtile.lowering.to_llvm.emitter import Emitter, rule
from libtile.support.diagnostics import UnsupportedError


@rule(ConvertLayoutOp)
def _convert_layout(e: Emitter, op: ConvertLayoutOp) -> None:
    tile, wanted, way = e.tile(op.source), e.layout(op.result), op.way
    if way is None:
        raise UnsupportedError("has no 'way', which tileas-materialize-convert-layout gives it")
    if (through := way.through) is None:
        made = within_warps(e.b, tile, wanted, Conversion(way.kind))
    else:
        made = through_shared(e.b, tile, wanted, through.way, through.pieces)
    e.bind(op.result, made)


# -- movement and collectives -----------------------------------------------------------------------------------------


@rule(CatOp)
def _cat(e: Emitter, op: CatOp) -> None:
    e.bind(op.result, e.in_layout(movement.cat(e.tile(op.lhs), e.tile(op.rhs), op.dim.value.data), op.result))


def _indices(e: Emitter, values: Sequence[SSAValue]) -> list[Value]:
    return [e.word(value) for value in values]


@rule(ExtractOp)
def _extract(e: Emitter, op: ExtractOp) -> None:
    (way,) = ways_of(op, 1)
    through = None if way.through is None else way.through.way
    tile, indices = e.tile(op.source), _indices(e, op.indices)
    e.bind(op.result, movement.extract(e.b, tile, indices, e.layout(op.result), through))


@rule(InsertSliceOp)
def _insert(e: Emitter, op: InsertSliceOp) -> None:
    tile = e.in_layout(e.tile(op.destination), op.result)
    e.bind(op.result, movement.insert(e.b, tile, e.tile(op.source), _indices(e, op.indices)))
