# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Accesses through views, piece by piece: through views of smaller tiles.

A tile that lies in the tensor in part has pieces that do not lie in it at all. An index outside of a view's index space
is undefined behaviour, so that these are not accessed: a load gives the padding instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import TYPE_CHECKING

from xdsl.ir import Attribute, Block, Region, SSAValue

from libtile.dialects.cuda_tile.attributes import DenseElementsAttr, element_storage_bytes
from libtile.dialects.cuda_tile.ops import CudaTileOp, build
from libtile.dialects.cuda_tile.types import (
    DYNAMIC,
    NUMBER_NAMES,
    GatherScatterViewType,
    PartitionViewType,
    StridedViewType,
    TileType,
    TileViewType,
    TokenType,
    i1,
    i64,
    tile_shape,
)
from libtile.ir.operands import source_of
from libtile.numerics.elements import ELEMENTS

if TYPE_CHECKING:
    from libtile.lowering.strip_mine.loops import PieceLoop

WIDE = TileType((), i64)


class PieceViews:
    """The views of one loop's pieces, and the accesses through them."""

    def __init__(self, loop: PieceLoop):
        self.loop = loop
        self._wide: dict[SSAValue, SSAValue] = {}
        self._views: dict[tuple[SSAValue, Attribute], SSAValue] = {}
        self._spaces: dict[SSAValue, Sequence[SSAValue]] = {}

    def access(self, op: CudaTileOp, dim: int, operands: list[SSAValue], types: Sequence[Attribute]) -> list[SSAValue]:
        """The access, cut along a dimension, with its operands (views and indices those of the whole): its results."""
        view = op.operand_group("view")[0]
        smaller, scale, step = self._smaller(view, dim)
        piece_view = self._view(view, smaller)
        names = [spec.name for spec in op.spec.operands]
        first = sum(op.segment_sizes()[: names.index("index")])
        indices = operands[first : first + len(op.operand_group("index"))]
        operands[next(i for i, v in enumerate(op.operands) if v is view)] = piece_view
        if not step:
            return self.loop.copy(op, operands, types)
        indices = self._indices(indices, dim, scale, step)
        operands[first : first + len(indices)] = indices
        if _is_inside(op, view, dim):
            return self.loop.copy(op, operands, types)
        space = self._space(piece_view)[dim]
        inside = self.loop.one(
            "cmpi",
            {"lhs": indices[dim], "rhs": space},
            TileType((), i1),
            comparison_predicate="less_than",
            signedness="unsigned",
        )
        return self._guarded(inside, op, operands, types, smaller)

    def _smaller(self, view: SSAValue, dim: int) -> tuple[TileViewType, int, int]:
        """The type of the view of pieces, and the index of a piece in it: `scale` times the index, plus `step` times
        the number of the piece. The step is 0 where the index is a tile, which is cut itself."""
        type_, pieces = view.type, self.loop.pieces
        assert isinstance(type_, TileViewType)
        shape = list(type_.tile_shape)
        shape[dim] //= pieces
        match type_:
            case PartitionViewType():
                return PartitionViewType(shape, type_.tensor_view, type_.dim_map, type_.padding_value), pieces, 1
            case StridedViewType():
                strides = list(type_.traversal_strides)
                strides[dim] = gcd(strides[dim], shape[dim])
                scale, step = type_.traversal_strides[dim] // strides[dim], shape[dim] // strides[dim]
                smaller = StridedViewType(shape, strides, type_.tensor_view, type_.dim_map, type_.padding_value)
                return smaller, scale, step
            case GatherScatterViewType():
                step = 0 if dim == type_.sparse_dim else shape[dim]
                made = GatherScatterViewType(shape, type_.tensor_view, type_.sparse_dim, type_.padding_value)
                return made, 1, step
        raise AssertionError(f"a view of type {type_}")

    def _view(self, view: SSAValue, type_: TileViewType) -> SSAValue:
        maker = view.owner
        assert isinstance(maker, CudaTileOp)
        source = source_of(maker)
        if (source, type_) not in self._views:
            self._views[source, type_] = self.loop.outside(type(maker).create(operands=[source], result_types=[type_]))
        return self._views[source, type_]

    def _space(self, view: SSAValue) -> Sequence[SSAValue]:
        """How many tiles a view has along each of its dimensions."""
        if view not in self._spaces:
            assert isinstance(view.type, TileViewType)
            made = build("get_index_space_shape", {"src": view}, [WIDE] * len(view.type.tile_shape))
            self.loop.outside(made)
            self._spaces[view] = made.results
        return self._spaces[view]

    def _indices(self, indices: Sequence[SSAValue], dim: int, scale: int, step: int) -> list[SSAValue]:
        """The index of a piece, in 64 bits."""
        wide = [self._widened(v) for v in indices]
        moved, offset = self._times(wide[dim], scale), self._times(self._widened(self.loop.position), step)
        wide[dim] = self.loop.one("addi", {"lhs": moved, "rhs": offset}, WIDE)
        return wide

    def _widened(self, value: SSAValue) -> SSAValue:
        """A tile of unsigned integers in 64 bits."""
        type_ = TileType(tile_shape(value), i64)
        if value.type == type_:
            return value
        if value not in self._wide:
            self._wide[value] = self.loop.one("exti", {"from": value}, type_, signedness="unsigned")
        return self._wide[value]

    def _times(self, value: SSAValue, factor: int) -> SSAValue:
        if factor == 1:
            return value
        return self.loop.one("muli", {"lhs": value, "rhs": self.loop.constant(factor, WIDE)}, WIDE)

    def _guarded(
        self,
        inside: SSAValue,
        op: CudaTileOp,
        operands: Sequence[SSAValue],
        types: Sequence[Attribute],
        view: TileViewType,
    ) -> list[SSAValue]:
        """The access where the piece is one of the view, else padding and a token of nothing."""
        loop, then, other = self.loop, Block(), Block()
        with loop.within(then):
            loop.inside(build("yield", {"operands": loop.copy(op, operands, types)}))
        with loop.within(other):
            instead = [
                loop.one("make_token", {}, t) if isinstance(t, TokenType) else self._padding(t, view) for t in types
            ]
            loop.inside(build("yield", {"operands": instead}))
        return loop.inside(build("if", {"condition": inside}, types, regions=[Region(then), Region(other)]))

    def _padding(self, type_: Attribute, view: TileViewType) -> SSAValue:
        assert isinstance(type_, TileType)
        element = ELEMENTS[NUMBER_NAMES[type_.element_type]]
        bits = element.padding.get(view.padding_value or "zero", 0)
        if element.name == "tf32":  # a constant has its 19 bits, memory those of an f32
            bits >>= element.storage_bits - element.bits
        raw = bits.to_bytes(element_storage_bytes(type_.element_type), "little")
        return self.loop.one("constant", {}, type_, value=DenseElementsAttr(type_, raw))


def _is_inside(op: CudaTileOp, view: SSAValue, dim: int) -> bool:
    """Whether no piece of a tile of the view lies outside of the tensor."""
    type_ = view.type
    if op.attribute_value("inbounds")[dim]:
        return True
    if not isinstance(type_, PartitionViewType):
        return False
    size = type_.tensor_view.shape[type_.dim_map[dim]]
    return size != DYNAMIC and size % type_.tile_shape[dim] == 0
