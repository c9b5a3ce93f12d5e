# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Constants, shapes, layout conversions, reductions, scans and products."""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation

from libtile.dialects.cuda_tile.attributes import DenseElementsAttr
from libtile.layouts import REGISTER, LinearLayout
from libtile.lowering.llvm import constants, conversions, packing
from libtile.lowering.llvm.tile import Tile, scalar
from libtile.lowering.tileas_to_llvm.elementwise import apply
from libtile.lowering.tileas_to_llvm.emitter import Emitter, rule

@rule("nv_tileaa.constant")
def _constant(e: Emitter, op: Operation) -> None:
    value, result = op.properties["value"], op.results[0]
    assert isinstance(value, DenseElementsAttr)
    patterns = constants.patterns_of_bytes(value.raw, e.element(result))
    if not value.is_splat:
        patterns = patterns.reshape(value.type.shape)
    e.bind(result, constants.dense(e.b, e.layout(result), e.element(result), patterns))


@rule("nv_tileaa.make_range")
def _make_range(e: Emitter, op: Operation) -> None:
    result = op.results[0]
    e.bind(result, constants.iota(e.b, e.layout(result), e.element(result)))


@rule("nv_tileaa.splat")
def _splat(e: Emitter, op: Operation) -> None:
    result = op.results[0]
    e.bind(result, scalar(e.scalar(op.operands[0]), e.element(result), e.layout(result)))


@rule("tensor.extract")
def _element(e: Emitter, op: Operation) -> None:
    e.bind(op.results[0], e.scalar(op.operands[0]))


@rule("nv_tileaa.bitcast")
def _bitcast(e: Emitter, op: Operation) -> None:
    source, result = e.element(op.operands[0]), e.element(op.results[0])
    if e.attribute(op, "packed"):
        _packing(e, op, source, result)
    elif source == "ptr":
        e.bind(op.results[0], e.held[op.operands[0]])
    else:
        apply(e, op, conversions.bitcast, source, result)


def _packing(e: Emitter, op: Operation, source: str, result: str) -> None:
    tile = e.tile(op.operands[0])
    made = packing.pack(e.b, tile) if result == "i8" else packing.unpack(e.b, tile, result)
    e.bind(op.results[0], convert(e, made, op))


def convert(e: Emitter, tile: Tile, op: Operation) -> Tile:
    """The tile in the layout of the op's result."""
    wanted = e.layout(op.results[0])
    if tile.layout == wanted:
        return tile
    from libtile.lowering.llvm.convert_layout import convert_layout

    return convert_layout(e.b, tile, wanted)


@rule("nv_tileas.convert_layout")
def _convert_layout(e: Emitter, op: Operation) -> None:
    e.bind(op.results[0], convert(e, e.tile(op.operands[0]), op))


@rule("nv_tileaa.view", "nv_tileaa.expand_dims", "nv_tileaa.permute", "nv_tileaa.broadcast")
def _rename(e: Emitter, op: Operation) -> None:
    """The elements stay in their threads: the layouts were chosen so."""
    result, held = op.results[0], e.tile(op.operands[0])
    type_ = result.type
    assert isinstance(type_, TensorType)
    layout = e.layout(result)
    if not held.layout.outs or not layout.outs or held.layout.out_bits == 0:
        e.bind(result, scalar(held.registers[0], held.element, layout))
    elif op.name == "nv_tileaa.broadcast":
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
