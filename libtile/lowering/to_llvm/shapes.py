# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Constants, shapes, layout conversions, reductions, scans and products."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from libtile.codegen import constants, conversions, mma, mma_scaled, packing, reduce, scan
from libtile.codegen import shapes as movement
from libtile.codegen.builder import Value, integer
from libtile.codegen.convert_layout import convert_layout
from libtile.codegen.llvm_types import I32
from libtile.codegen.tile import Tile, map_tiles, scalar
from libtile.dialects.cuda_tile.attributes import DenseElementsAttr
from libtile.dialects.nv_tileas.attributes import FMA
from libtile.dialects.nv_tileas.products import DotOp, ScaledDotOp
from libtile.layouts import REGISTER, LinearLayout
from libtile.lowering.to_llvm.commuting import commutes
from libtile.lowering.to_llvm.elementwise import apply
from libtile.lowering.to_llvm.emitter import Emitter, rule
from libtile.support.diagnostics import UnsupportedError


@rule("nv_tileaa.constant")
def _constant(e: Emitter, op: Operation) -> None:
    value, result = op.properties["value"], op.results[0]
    assert isinstance(value, DenseElementsAttr)
    layout, element = e.layout(result), e.element(result)
    if value.is_splat:
        e.bind(result, constants.splat(layout, element, value.raw))
        return
    from libtile.codegen.dense_constants import dense, patterns_of_bytes  # numpy, which few kernels need

    e.bind(result, dense(e.b, layout, element, patterns_of_bytes(value.raw, element).reshape(value.type.shape)))


@rule("nv_tileaa.make_range")
def _make_range(e: Emitter, op: Operation) -> None:
    result, start = op.results[0], e.attribute(op, "start", 0)
    tile = constants.iota(e.b, e.layout(result), e.element(result))
    if start:
        first = integer(tile.registers[0].type, start)
        tile = map_tiles(lambda register: e.b.add(register, first), tile)
    e.bind(result, tile)


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
    """In the layout that the result's has before, so that every thread holds whole groups."""
    if (source == "i8") == (result == "i8"):
        raise UnsupportedError(f"packs elements into i8, or unpacks them from i8, and not {source} into {result}")
    tile = e.tile(op.operands[0])
    regroup = packing.unpacked_layout if result == "i8" else packing.packed_layout
    before = regroup(e.layout(op.results[0]), source if result == "i8" else result)
    if before is not None and before != tile.layout:
        tile = convert_layout(e.b, tile, before)
    made = packing.pack(e.b, tile) if result == "i8" else packing.unpack(e.b, tile, result)
    e.bind(op.results[0], convert(e, made, op))


def converted(e: Emitter, tile: Tile, value: SSAValue) -> Tile:
    """The tile in the layout of a value."""
    wanted = e.layout(value)
    if tile.layout == wanted:
        return tile
    if not tile.layout.outs:
        return scalar(tile.registers[0], tile.element, wanted)
    return convert_layout(e.b, tile, wanted)


def convert(e: Emitter, tile: Tile, op: Operation) -> Tile:
    """The tile in the layout of an op's result."""
    return converted(e, tile, op.results[0])


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


# -- movement and collectives -----------------------------------------------------------------------------------------


@rule("nv_tileaa.cat")
def _cat(e: Emitter, op: Operation) -> None:
    lhs, rhs = (e.tile(v) for v in op.operands)
    made = movement.cat(e.b, lhs, rhs, e.attribute(op, "dim"), e.layout(op.results[0]))
    e.bind(op.results[0], convert(e, made, op))


def _indices(e: Emitter, op: Operation, first: int) -> list[Value]:
    return [e.b.cast("trunc", e.scalar(v), I32) for v in op.operands[first:]]


@rule("nv_tileaa.extract")
def _extract(e: Emitter, op: Operation) -> None:
    type_ = op.results[0].type
    assert isinstance(type_, TensorType)
    tile = e.tile(op.operands[0])
    shape = tuple(type_.get_shape())
    made = movement.extract(e.b, tile, _indices(e, op, 1), shape, e.layout(op.results[0]))
    e.bind(op.results[0], convert(e, made, op))


@rule("nv_tileaa.insert_slice")
def _insert(e: Emitter, op: Operation) -> None:
    part, tile = (e.tile(v) for v in op.operands[:2])
    e.bind(op.results[0], convert(e, movement.insert(e.b, tile, part, _indices(e, op, 2)), op))


def _body(e: Emitter, op: Operation) -> Callable[[list[Value], list[Value]], list[Value]]:
    """The function in an op's region, on single values."""
    block = op.regions[0].block

    def run(accumulated: list[Value], following: list[Value]) -> list[Value]:
        for argument, value in zip(block.args, [*accumulated, *following], strict=True):
            assert isinstance(argument.type, TensorType)
            e.bind(argument, e.as_tile(value, argument.type.element_type))
        return [e.scalar(v) for v in e.emit_block(block)]

    return run


@rule("nv_tileas.reduce")
def _reduce(e: Emitter, op: Operation) -> None:
    tiles = [e.tile(v) for v in op.operands]
    made = reduce.reduce(e.b, tiles, e.attribute(op, "dim"), _body(e, op), commutative=commutes(op))
    for result, tile in zip(op.results, made, strict=True):
        e.bind(result, converted(e, tile, result))


@rule("nv_tileas.scan")
def _scan(e: Emitter, op: Operation) -> None:
    tiles = [e.tile(v) for v in op.operands]
    reverse = bool(e.attribute(op, "reverse", False))
    made = scan.scan(e.b, tiles, e.attribute(op, "dim"), _body(e, op), reverse=reverse)
    for result, tile in zip(op.results, made, strict=True):
        e.bind(result, converted(e, tile, result))


@rule("nv_tileas.dot")
def _dot(e: Emitter, op: Operation) -> None:
    assert isinstance(op, DotOp)
    a, b, c = (e.tile(v) for v in op.operands)
    made = mma.multiply_add(e.b, a, b, c) if op.atom.kind == FMA else mma.dot(e.b, a, b, c, op.atom.instruction)
    e.bind(op.results[0], made)


@rule("nv_tileas.scaled_dot")
def _scaled_dot(e: Emitter, op: Operation) -> None:
    assert isinstance(op, ScaledDotOp)
    a, b, c, sfa, sfb = (e.tile(v) for v in op.operands)
    e.bind(op.results[0], mma_scaled.dot_scaled(e.b, a, b, c, sfa, sfb, op.atom.instruction))
