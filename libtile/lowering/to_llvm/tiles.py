# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tiles of nv_tileas, and their storage, seen in another shape, type or place."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, Operation, SSAValue

from libtile.codegen import conversions, slices
from libtile.codegen.builder import Value, integer
from libtile.codegen.convert_layout import within_warps
from libtile.codegen.llvm_types import I32
from libtile.codegen.shapes import extract, reshape
from libtile.codegen.tile import Tile, scalar
from libtile.dialects.nv_tileaa import shapes as aa_shapes
from libtile.dialects.nv_tileaa.collectives import HistogramOp
from libtile.dialects.nv_tileaa.shapes import Unary, integers_of
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.dialects.nv_tileas.tiles import (
    ExpandDimsOp,
    ExtractSliceOp,
    InsertSliceOp,
    ReinterpretOp,
    ShuffleOp,
    ViewOp,
)
from libtile.dialects.nv_tileas.types import BufferType
from libtile.ir.operands import source_of
from libtile.ir.tile_form import shape_of
from libtile.layouts import LinearLayout
from libtile.layouts.convert import Conversion
from libtile.layouts.renaming import reshaped
from libtile.lowering.tileas.exchanges.ways import is_part, shared_ways_of, ways_of
from libtile.lowering.to_llvm import tensor_memory
from libtile.lowering.to_llvm.emitter import Emitter, element_name, rule
from libtile.lowering.to_llvm.storage import Buffer, TensorMemory
from libtile.numerics.elements import ELEMENTS
from libtile.support.diagnostics import UnsupportedError
from libtile.support.records import replace


def buffer_layout(type_: Attribute) -> LinearLayout:
    """The layout of a buffer: which element lies at each offset. UnsupportedError for a buffer without one."""
    if not isinstance(type_, BufferType) or not isinstance(type_.layout, LayoutAttr):
        raise UnsupportedError(f"sees storage as {type_}, which has no layout")
    return type_.layout.layout


def _same_storage(e: Emitter, source: Buffer, result: SSAValue) -> None:
    """A buffer in another shape, where the layouts say the same of every offset."""
    wanted = buffer_layout(result.type)
    if reshaped(source.layout, wanted.shape).transpose_outs(wanted.out_dims) != wanted:
        raise UnsupportedError("sees storage in a layout that puts its elements at other offsets")
    e.bind(result, replace(source, layout=wanted))


@rule(ViewOp, ExpandDimsOp)
def _view(e: Emitter, op: Unary) -> None:
    held = e.held[op.source]
    if isinstance(held, Buffer):
        _same_storage(e, held, op.result)
        return
    e.bind(op.result, e.in_layout(_in_shape(e, e.tile(op.source), op.result), op.result))


def _in_shape(e: Emitter, tile: Tile, result: SSAValue) -> Tile:
    """A tile in the shape of a value."""
    shape = shape_of(result.type)
    if not shape or not tile.layout.outs:
        return scalar(tile.registers[0], tile.element, e.layout(result))
    return reshape(tile, shape)


def _starts(e: Emitter, offsets: Sequence[int], indices: Sequence[SSAValue]) -> list[Value]:
    """Where a slice begins along each dimension: constants, and run-time values on top of the first ones."""
    starts = [integer(I32, offset) for offset in offsets]
    for d, value in enumerate(indices):
        starts[d] = e.b.add(e.word(value), starts[d])
    return starts


@rule(aa_shapes.ExtractSliceOp)
def _constant_slice(e: Emitter, op: aa_shapes.ExtractSliceOp) -> None:
    _slice(e, op, integers_of(op.offsets), integers_of(op.strides), ())


@rule(ExtractSliceOp)
def _extract_slice(e: Emitter, op: ExtractSliceOp) -> None:
    if isinstance(held := e.held[op.source], TensorMemory):
        tensor_memory.part(e, op, held)
        return
    _slice(e, op, integers_of(op.offsets), integers_of(op.strides), op.indices)


def _slice(
    e: Emitter, op: Operation, offsets: Sequence[int], strides: Sequence[int], indices: Sequence[SSAValue]
) -> None:
    source, result = source_of(op), op.results[0]
    if isinstance(e.held[source], Buffer):
        raise UnsupportedError("takes a part of storage: code is made for parts of tiles")
    (way,) = ways_of(op, 1)
    tile, layout = e.tile(source), e.layout(result)
    through = None if way.through is None else way.through.way
    if is_part(op):
        numbers = [integer(I32, offset // size) for offset, size in zip(offsets, layout.shape, strict=True)]
        e.bind(result, extract(e.b, tile, numbers, layout, through))
        return
    if through is None:
        raise UnsupportedError("has the way <registers>, and is no part of those that registers could tell apart")
    starts, steps = _starts(e, offsets, indices), strides or (1,) * len(offsets)
    e.bind(result, slices.extract_slice(e.b, tile, starts, steps, layout, through))


@rule(InsertSliceOp)
def _insert_slice(e: Emitter, op: InsertSliceOp) -> None:
    if any(isinstance(e.held[v], Buffer) for v in (op.source, op.destination)):
        raise UnsupportedError("replaces a part of storage: code is made for parts of tiles")
    offsets = integers_of(op.offsets)
    starts, steps = _starts(e, offsets, op.indices), integers_of(op.strides) or (1,) * len(offsets)
    (way,) = shared_ways_of(op, 1)
    tile = e.in_layout(e.tile(op.destination), op.result)
    e.bind(op.result, slices.insert_slice(e.b, tile, e.tile(op.source), starts, steps, way))


@rule(HistogramOp)
def _histogram(e: Emitter, op: HistogramOp) -> None:
    e.bind(op.result, slices.histogram(e.b, e.tile(op.source), e.layout(op.result), e.element(op.result)))


@rule(ShuffleOp)
def _shuffle(e: Emitter, op: ShuffleOp) -> None:
    tile, wanted = e.tile(op.source), e.layout(op.result)
    e.bind(op.result, tile if tile.layout == wanted else within_warps(e.b, tile, wanted, Conversion.SHUFFLE))


@rule(ReinterpretOp)
def _reinterpret(e: Emitter, op: ReinterpretOp) -> None:
    """Elements of one width stay in their threads; others would have to be parted or joined."""
    held = e.held[op.source]
    if isinstance(held, TensorMemory):
        tensor_memory.seen_as(e, op, held)
        return
    if isinstance(held, Buffer):
        type_ = op.result.type
        assert isinstance(type_, BufferType)
        element = element_name(type_.element_type)
        if ELEMENTS[element].storage_bits != ELEMENTS[held.element].storage_bits:
            raise UnsupportedError(f"sees a buffer of {held.element} as one of {element}, of another width")
        e.bind(op.result, replace(held, element=element, layout=buffer_layout(type_)))
        return
    tile = e.tile(op.source)
    source, result = e.element(op.source), e.element(op.result)
    if ELEMENTS[source].bits != ELEMENTS[result].bits:
        raise UnsupportedError(f"sees a tile of {source} as one of {result}, of another width: nv_tileaa.bitcast packs")
    made = tile
    if source != result:
        made = tile.map(lambda value: conversions.bitcast(e.b, value, source, result), result)
    made = _in_shape(e, made, op.result)
    e.bind(op.result, within_warps(e.b, made, e.layout(op.result), Conversion.REGISTERS) if made.layout.outs else made)
