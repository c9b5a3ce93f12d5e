# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What expansions are made with: ops in front of an op, at its place in the source."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DenseArrayBase, IndexType, IntegerAttr, IntegerType, TensorType, i64
from xdsl.ir import Attribute, Operation, SSAValue

from libtile.dialects import arith, tensor
from libtile.dialects.arith import CmpiOp, ExtSIOp, IndexCastOp, SelectOp, TruncIOp, like
from libtile.dialects.cuda_tile.attributes import DenseElementsAttr
from libtile.dialects.cuda_tile.types import TileType
from libtile.dialects.nv_tileaa.pointers import AddPtrOp
from libtile.dialects.nv_tileaa.shapes import BroadcastOp, ConstantOp, MakeRangeOp, SplatOp, ViewOp
from libtile.dialects.nv_tileaa.types import PtrType
from libtile.dialects.nv_tileas.layout import LayoutAttr, linear_layout
from libtile.ir.numbers import integers
from libtile.ir.tile_form import element_of, erase, is_token, shape_of
from libtile.layouts import LinearLayout
from libtile.layouts.renaming import reshaped, shrunk


def tile_like(shape: Sequence[int], element: Attribute, layout: LinearLayout | None = None) -> TensorType:
    """The type of a tile; with a layout one of nv_tileas."""
    return TensorType(element, list(shape)) if layout is None else TensorType(element, list(shape), LayoutAttr(layout))


class Maker:
    """Puts ops in front of an op. With a `layout`, tiles of its shape are in it, and others follow from it."""

    def __init__(self, before: Operation, layout: LinearLayout | None = None):
        self.before = before
        self.layout = layout

    def put(self, op: Operation) -> SSAValue:
        """Insert an op; its first result."""
        op.location = self.before.location
        assert self.before.parent is not None
        self.before.parent.insert_op_before(op, self.before)
        return op.results[0]

    # -- scalars ----------------------------------------------------------------------------------------------------

    def index(self, number: int) -> SSAValue:
        """A constant index."""
        return self.put(arith.ConstantOp(IntegerAttr(number, IndexType())))

    def as_index(self, value: SSAValue) -> SSAValue:
        """An integer, or the element of a tile of rank 0, as an index (it is signed)."""
        if isinstance(value.type, TensorType):
            element = value.type.element_type
            value = self.put(tensor.ExtractOp(value, [], element))
        if isinstance(value.type, IndexType):
            return value
        return self.put(IndexCastOp.create(operands=[value], result_types=[IndexType()]))

    def add(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """The sum of two values of one type."""
        return self.put(arith.AddiOp(a, b))

    def mul(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """The product of two values of one type."""
        return self.put(arith.MuliOp(a, b))

    # -- tiles ------------------------------------------------------------------------------------------------------

    def type(self, shape: Sequence[int], element: Attribute) -> TensorType:
        """The type of a tile of this shape: in the maker's layout, or what is left of it in a broadcast's source."""
        if self.layout is None:
            return tile_like(shape, element)
        same = tuple(shape) == self.layout.shape
        return tile_like(shape, element, self.layout if same else shrunk(self.layout, shape))

    def splat(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """A tile of a scalar, or of the element of a tile of rank 0; an index becomes an i64."""
        element = element_of(value.type)
        if isinstance(element, IndexType):
            value = self.put(IndexCastOp.create(operands=[value], result_types=[i64]))
            element = i64
        if isinstance(value.type, TensorType) and shape_of(value.type) == tuple(shape):
            return value
        return self.put(SplatOp.make(value, results=[self.type(shape, element)]))

    def constant(self, number: int, shape: Sequence[int], element: IntegerType = i64) -> SSAValue:
        """A tile of one number."""
        raw = (number & ((1 << element.width.data) - 1)).to_bytes(max(element.width.data // 8, 1), "little")
        value = DenseElementsAttr(TileType(shape, element), raw)
        return self.put(ConstantOp.make(results=[self.type(shape, element)], value=value))

    def positions(self, shape: Sequence[int], axis: int, element: IntegerType = i64) -> SSAValue:
        """A tile of integers in which each element is its own index along an axis."""
        ones = [size if d == axis else 1 for d, size in enumerate(shape)]
        flat = tile_like([shape[axis]], element)
        if self.layout is not None:
            flat = tile_like([shape[axis]], element, reshaped(shrunk(self.layout, ones), [shape[axis]]))
        made = self.put(MakeRangeOp.make(results=[flat]))
        if len(shape) > 1:
            made = self.put(ViewOp.make(made, results=[self.type(ones, element)]))
        return made if ones == list(shape) else self.put(BroadcastOp.make(made, results=[self.type(shape, element)]))

    def as_i64(self, tile: SSAValue) -> SSAValue:
        """A tile of integers as one of i64 (they are signed)."""
        if isinstance(element_of(tile.type), IndexType):
            return self.put(IndexCastOp.create(operands=[tile], result_types=[like(tile.type, i64)]))
        return self.resized(tile, i64)

    def resized(self, tile: SSAValue, element: Attribute) -> SSAValue:
        """A tile of integers as one of another width (they are signed)."""
        source = element_of(tile.type)
        assert isinstance(source, IntegerType) and isinstance(element, IntegerType)
        if source.width.data == element.width.data:
            return tile
        cast = ExtSIOp if source.width.data < element.width.data else TruncIOp
        return self.put(cast.create(operands=[tile], result_types=[like(tile.type, element)]))

    def compare(self, a: SSAValue, b: SSAValue, predicate: str) -> SSAValue:
        """A comparison, element by element."""
        return self.put(CmpiOp(a, b, predicate))

    def both(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """Where both of two tiles of conditions hold."""
        return self.put(arith.AndIOp(a, b))

    def select(self, condition: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
        """One of two tiles for each element."""
        return self.put(SelectOp(condition, a, b))

    def moved(self, base: SSAValue, offset: SSAValue) -> SSAValue:
        """Pointers moved by offsets in elements: a scalar by a scalar, else tiles."""
        type_ = base.type
        if not isinstance(type_, TensorType) and isinstance(offset.type, TensorType):
            type_ = tile_like(shape_of(offset.type), type_, linear_layout(offset.type))
        return self.put(AddPtrOp.make(base, offset, results=[type_]))


def array_of(numbers: Sequence[int]) -> DenseArrayBase:
    """An array attribute of i64."""
    return integers(numbers, i64)


def pointer_to(type_: Attribute) -> PtrType:
    """The pointer type among a tile's elements, or a pointer's own."""
    element = element_of(type_)
    assert isinstance(element, PtrType)
    return element


def with_tiles_of_one(op: Operation) -> bool:
    """Let an op give tiles of rank 0 in place of scalars, and take the elements out of them; whether it gave any."""
    scalars = [not isinstance(r.type, TensorType) and not is_token(r.type) for r in op.results]
    if not any(scalars):
        return False
    types = [tile_like((), r.type) if scalar else r.type for r, scalar in zip(op.results, scalars)]
    regions = [op.detach_region(region) for region in list(op.regions)]
    made = type(op).create(
        operands=list(op.operands),
        result_types=types,
        properties=dict(op.properties),
        attributes=dict(op.attributes),
        regions=regions,
    )
    maker = Maker(op)
    maker.put(made)
    for old, new, scalar in zip(op.results, made.results, scalars, strict=True):
        old.replace_all_uses_with(maker.put(tensor.ExtractOp(new, [], old.type)) if scalar else new)
    erase(op)
    return True
