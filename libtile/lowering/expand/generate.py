# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`generate` on whole tiles: its region runs once, on tiles of all indices, as each element is computed alone."""

from __future__ import annotations

from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType, TensorType, i64
from xdsl.ir import Attribute, Operation, SSAValue

from libtile.dialects import arith
from libtile.dialects.arith import IndexCastOp
from libtile.dialects.nv_tileaa.memory import LoadOp
from libtile.dialects.nv_tileaa.pointers import Elementwise
from libtile.dialects.nv_tileaa.shapes import ConstantOp, Generate, SplatOp
from libtile.dialects.nv_tileaa.types import MemRefType
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.dialects.nv_tileas.types import BufferType
from libtile.ir.operands import sources_of
from libtile.ir.tile_form import element_of, erase, layout_of, shape_of
from libtile.lowering.errors import unsupported
from libtile.lowering.expand.maker import Maker, with_tiles_of_one
from libtile.lowering.to_tileas.elementwise import is_elementwise


def expand(op: Generate) -> bool:
    """Put ops on tiles in place of a `generate`. LoweringError for a region with an op that is not elementwise."""
    type_ = op.result.type
    if isinstance(type_, BufferType):
        raise unsupported(op, "makes a buffer, and only tiles are generated")
    if not isinstance(type_, TensorType):
        return with_tiles_of_one(op)
    layout = layout_of(type_)
    maker = Maker(op, layout.layout if isinstance(layout, LayoutAttr) else None)
    shape = shape_of(type_)
    block = op.body.block
    tiles: dict[SSAValue, SSAValue] = {}
    for axis, argument in enumerate(block.args[: len(shape)]):
        tiles[argument] = maker.positions(shape, axis)
    for argument, value in zip(block.args[len(shape) :], op.captured, strict=True):
        tiles[argument] = maker.splat(value, shape)
    last = block.last_op
    assert last is not None
    for inner in block.ops:
        if inner is not last:
            _on_tiles(inner, op, maker, shape, tiles)
    made = _tile(sources_of(last)[0], op, maker, shape, tiles)
    if isinstance(type_.element_type, IndexType):  # an index has 64 bits, and its tiles become those of i64
        made = maker.put(IndexCastOp.create(operands=[made], result_types=[type_]))
    op.result.replace_all_uses_with(made)
    erase(op)
    return True


def _tile(
    value: SSAValue, op: Generate, maker: Maker, shape: tuple[int, ...], tiles: dict[SSAValue, SSAValue]
) -> SSAValue:
    """The tile of what a value is for each element; one from outside is the same everywhere."""
    if value not in tiles:
        if shape_of(value.type):
            raise unsupported(op, "has a region that uses a tile from outside, and works on single elements")
        tiles[value] = maker.splat(value, shape)
    return tiles[value]


def _on_tiles(
    inner: Operation, op: Generate, maker: Maker, shape: tuple[int, ...], tiles: dict[SSAValue, SSAValue]
) -> None:
    """Put an op of the region, on tiles, in front of the `generate`."""
    if isinstance(inner, arith.ConstantOp):
        element = _wide(inner.result.type)
        if isinstance(inner.value, IntegerAttr) and isinstance(element, IntegerType):
            tiles[inner.result] = maker.constant(inner.value.value.data, shape, element)
        else:
            tiles[inner.result] = maker.splat(maker.put(inner.clone()), shape)
        return
    if isinstance(inner, ConstantOp):
        constant = maker.put(ConstantOp.make(results=[inner.result.type], value=inner.value))
        tiles[inner.result] = maker.splat(constant, shape)
        return
    if isinstance(inner, SplatOp) and not shape_of(inner.result.type):
        tiles[inner.result] = _tile(inner.source, op, maker, shape, tiles)
        return
    loads = isinstance(inner, LoadOp) and inner.mask is None and inner.token is None and inner.result_token is None
    if not (is_elementwise(inner) or isinstance(inner, Elementwise) or loads) or inner.regions:
        raise unsupported(inner, f"stands in a '{op.name}', whose region can be made of elementwise ops and loads")
    if isinstance(inner, arith.IndexCastOp):
        tiles[inner.result] = maker.resized(_tile(inner.input, op, maker, shape, tiles), _wide(inner.result.type))
        return
    operands = [v if isinstance(v.type, MemRefType) else _tile(v, op, maker, shape, tiles) for v in inner.operands]
    types = [maker.type(shape, _wide(element_of(r.type))) for r in inner.results]
    made = type(inner).create(
        operands=operands, result_types=types, properties=dict(inner.properties), attributes=dict(inner.attributes)
    )
    maker.put(made)
    tiles.update(zip(inner.results, made.results, strict=True))


def _wide(element: Attribute) -> Attribute:
    """What a tile has for an element: indices are i64."""
    return i64 if isinstance(element, IndexType) else element
