# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Constants, shapes, layout conversions, reductions, scans and products."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import tensor
from xdsl.dialects.builtin import IntegerAttr, TensorType
from xdsl.ir import SSAValue

from libtile.codegen import constants, conversions, mma, mma_block_scale, mma_scaled, packing, reduce, scan
from libtile.codegen import shapes as movement
from libtile.codegen.builder import Value, integer
from libtile.codegen.convert_layout import through_shared, within_warps
from libtile.codegen.llvm_types import I32
from libtile.codegen.tile import Tile, map_tiles, scalar
from libtile.dialects.nv_tileaa.collectives import Collective
from libtile.dialects.nv_tileaa.pointers import BitcastOp
from libtile.dialects.nv_tileaa.shapes import (
    BroadcastOp,
    CatOp,
    ConstantOp,
    ExpandDimsOp,
    ExtractOp,
    InsertSliceOp,
    MakeRangeOp,
    PermuteOp,
    SplatOp,
    Unary,
    ViewOp,
)
from libtile.dialects.nv_tileas.attributes import FMA
from libtile.dialects.nv_tileas.products import DotOp, ScaledDotOp
from libtile.dialects.nv_tileas.steps import StepsAttr
from libtile.dialects.nv_tileas.tiles import ConvertLayoutOp, ReduceOp, ScanOp
from libtile.ir.tile_form import integer_of
from libtile.layouts import REGISTER, LinearLayout
from libtile.layouts.convert import Conversion
from libtile.lowering.tileas.ways import STEPS_AT_ONCE, shared_ways_of, ways_of
from libtile.lowering.to_llvm.elementwise import apply, in_pairs, in_threes
from libtile.lowering.to_llvm.emitter import Emitter, rule
from libtile.support.diagnostics import UnsupportedError
from libtile.targets import MMA_BLOCK_SCALE


@rule(ConstantOp)
def _constant(e: Emitter, op: ConstantOp) -> None:
    value, result = op.value, op.result
    layout, element = e.layout(result), e.element(result)
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
    e.bind(op.result, scalar(e.scalar(op.source), e.element(op.result), e.layout(op.result)))


@rule(tensor.ExtractOp)
def _element(e: Emitter, op: tensor.ExtractOp) -> None:
    e.bind(op.result, e.scalar(op.tensor))


@rule(BitcastOp)
def _bitcast(e: Emitter, op: BitcastOp) -> None:
    source, result = e.element(op.source), e.element(op.result)
    if op.packed is not None:
        _packing(e, op, source, result)
    elif source == "ptr":
        e.bind(op.result, e.held[op.source])
    else:
        apply(e, op, conversions.bitcast, source, result)


def _packing(e: Emitter, op: BitcastOp, source: str, result: str) -> None:
    if (source == "i8") == (result == "i8"):
        raise UnsupportedError(f"packs elements into i8, or unpacks them from i8, and not {source} into {result}")
    tile = e.tile(op.source)
    e.bind(
        op.result,
        e.in_layout(packing.pack(e.b, tile) if result == "i8" else packing.unpack(e.b, tile, result), op.result),
    )


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


@rule(ViewOp, ExpandDimsOp, PermuteOp, BroadcastOp)
def _rename(e: Emitter, op: Unary) -> None:
    """The elements stay in their threads: the layouts were chosen so."""
    result, held = op.result, e.tile(op.source)
    layout = e.layout(result)
    if not held.layout.outs or not layout.outs or held.layout.out_bits == 0:
        e.bind(result, scalar(held.registers[0], held.element, layout))
    elif isinstance(op, BroadcastOp):
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


@rule(CatOp)
def _cat(e: Emitter, op: CatOp) -> None:
    e.bind(op.result, e.in_layout(movement.cat(e.tile(op.lhs), e.tile(op.rhs), op.dim.value.data), op.result))


def _indices(e: Emitter, values: Sequence[SSAValue]) -> list[Value]:
    return [e.b.cast("trunc", e.scalar(v), I32) for v in values]


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


def _body(e: Emitter, op: Collective) -> Callable[[list[Value], list[Value]], list[Value]]:
    """The function in an op's region, on single values."""
    block = op.body.block

    def run(accumulated: list[Value], following: list[Value]) -> list[Value]:
        for argument, value in zip(block.args, [*accumulated, *following], strict=True):
            assert isinstance(argument.type, TensorType)
            e.bind(argument, e.as_tile(value, argument.type.element_type))
        return [e.scalar(v) for v in e.emit_block(block)]

    return run


def _steps(op: ReduceOp | ScanOp) -> StepsAttr:
    assert op.steps is not None  # the legality table has seen to it
    return op.steps


@rule(ReduceOp)
def _reduce(e: Emitter, op: ReduceOp) -> None:
    tiles, steps = [e.tile(v) for v in op.inputs], _steps(op)
    made = reduce.reduce(
        e.b, tiles, integer_of(op.dim), steps.steps, _body(e, op), commutative=steps.commutative,
        in_pairs=in_pairs(e, op), in_threes=in_threes(e, op),
    )  # fmt: skip
    for result, tile in zip(op.outputs, made, strict=True):
        e.bind(result, tile)


@rule(ScanOp)
def _scan(e: Emitter, op: ScanOp) -> None:
    tiles, reverse = [e.tile(v) for v in op.inputs], op.reverse is not None
    made = scan.scan(e.b, tiles, integer_of(op.dim), _steps(op).steps, _body(e, op), reverse=reverse)
    for result, tile in zip(op.outputs, made, strict=True):
        e.bind(result, tile)


@rule(DotOp)
def _dot(e: Emitter, op: DotOp) -> None:
    a, b, c = (e.tile(v) for v in (op.a, op.b, op.c))
    if op.atom.kind != FMA:
        e.bind(op.result, mma.dot(e.b, a, b, c, op.atom.instruction))
        return
    steps = op.attributes.get(STEPS_AT_ONCE)
    if not isinstance(steps, IntegerAttr):
        raise UnsupportedError(f"has no '{STEPS_AT_ONCE}', which tileas-materialize-convert-layout gives it")
    e.bind(op.result, mma.multiply_add(e.b, a, b, c, shared_ways_of(op, 2), steps.value.data))


@rule(ScaledDotOp)
def _scaled_dot(e: Emitter, op: ScaledDotOp) -> None:
    a, b, c, sfa, sfb = (e.tile(v) for v in (op.a, op.b, op.c, op.sfa, op.sfb))
    by = mma_block_scale if op.atom.kind == MMA_BLOCK_SCALE else mma_scaled
    e.bind(op.result, by.dot_scaled(e.b, a, b, c, sfa, sfb, op.atom.instruction))
