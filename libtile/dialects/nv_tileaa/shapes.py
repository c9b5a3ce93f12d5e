# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ops of nv_tileaa that make tiles and change their shape.

The bases (`View`, `ExpandDims`, `Generate`) also serve nv_tileas, where what they take may be storage of a tile too.
"""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import DenseArrayBase, IndexType, IntegerAttr, IntegerType
from xdsl.irdl import operand_def, opt_prop_def, prop_def, region_def, result_def, traits_def, var_operand_def
from xdsl.traits import ConstantLike, Pure, RecursiveMemoryEffect
from xdsl.utils.exceptions import VerifyException

from libtile.dialects.cuda_tile.attributes import DenseElementsAttr
from libtile.dialects.interfaces import Folds, NamesMemoryOf, Partial
from libtile.dialects.nv_tileaa.contracts import require_arguments
from libtile.dialects.nv_tileaa.terminators import check_region_ends, only_block
from libtile.ir.numbers import numbers_of
from libtile.ir.tile_form import TileOp, element_of, rank_of, shape_of, stored_element, stored_shape, tile_op, type_text


def require_same_element(op: TileOp) -> None:
    """The first operand and the first result have one element type."""
    source, result = op.operands[0].type, op.results[0].type
    if stored_element(source) != stored_element(result):
        raise VerifyException(
            f"expects source and result to have the same element type, but got {type_text(source)} vs "
            f"{type_text(result)}"
        )


def integers_of(attr: object) -> tuple[int, ...]:
    """The values of an array attribute of integers."""
    return numbers_of(attr) if isinstance(attr, DenseArrayBase) else ()


class Unary(TileOp):
    """Base of ops that make one value of another, `source`, and do nothing else."""

    source = operand_def()
    result = result_def()
    traits = traits_def(Pure())


@tile_op
class ConstantOp(TileOp):
    """A tile of constants: `value` holds its elements, or the one that all of them equal."""

    name = "nv_tileaa.constant"
    value = prop_def(DenseElementsAttr)
    result = result_def()
    traits = traits_def(Pure(), ConstantLike())

    def check(self) -> None:
        type_ = self.value.type
        result = self.result.type
        if tuple(type_.shape) != shape_of(result):
            raise VerifyException(f"expects a value of the result's shape, but got {type_} vs {type_text(result)}")
        if type_.element_type != element_of(result):
            raise VerifyException(f"expects a value of the result's elements, but got {type_} vs {type_text(result)}")


@tile_op
class SplatOp(Unary):
    """A tile whose elements all equal a scalar."""

    name = "nv_tileaa.splat"
    traits = traits_def(Pure(), Folds("spread"), NamesMemoryOf())

    def check(self) -> None:
        require_same_element(self)
        if prod(shape_of(self.source.type)) != 1:
            raise VerifyException(f"expects a scalar, but got {type_text(self.source.type)}")


@tile_op
class BroadcastOp(Unary):
    """Repeats the source along its axes of size one."""

    name = "nv_tileaa.broadcast"
    traits = traits_def(Pure(), Folds("spread"), NamesMemoryOf())

    def check(self) -> None:
        require_same_element(self)
        source, result = shape_of(self.source.type), shape_of(self.result.type)
        if len(source) != len(result) or any(a not in (1, b) for a, b in zip(source, result)):
            raise VerifyException(
                f"cannot broadcast {type_text(self.source.type)} to {type_text(self.result.type)}: axes must agree or "
                "be of size one"
            )


class ExpandDims(Unary):
    """Inserts axes of size one; `axes` are their positions in the result."""

    axes = prop_def(DenseArrayBase)

    def check(self) -> None:
        require_same_element(self)
        shape = list(stored_shape(self.source.type))
        for axis in sorted(integers_of(self.axes)):
            if not 0 <= axis <= len(shape):
                raise VerifyException(f"expects axis in range 0 to {len(shape)}, but got {axis}")
            shape.insert(axis, 1)
        if tuple(shape) != stored_shape(self.result.type):
            raise VerifyException(f"expects a result of shape {shape}, but got {type_text(self.result.type)}")


@tile_op
class ExpandDimsOp(ExpandDims):
    __doc__ = ExpandDims.__doc__
    name = "nv_tileaa.expand_dims"
    traits = traits_def(Pure(), Folds("same"), NamesMemoryOf())


class View(Unary):
    """The same elements, in row-major order, in another shape."""

    def check(self) -> None:
        require_same_element(self)
        if prod(stored_shape(self.source.type)) != prod(stored_shape(self.result.type)):
            raise VerifyException(
                f"expects the same number of elements, but got {type_text(self.source.type)} vs "
                f"{type_text(self.result.type)}"
            )


@tile_op
class ViewOp(View):
    __doc__ = View.__doc__
    name = "nv_tileaa.view"
    traits = traits_def(Pure(), Folds("same"), NamesMemoryOf())


@tile_op
class PermuteOp(Unary):
    """Axis i of the result is axis `permutation[i]` of the source."""

    name = "nv_tileaa.permute"
    traits = traits_def(Pure(), Folds("spread"), NamesMemoryOf())
    permutation = prop_def(DenseArrayBase)

    def check(self) -> None:
        require_same_element(self)
        shape, order = shape_of(self.source.type), integers_of(self.permutation)
        if sorted(order) != list(range(len(shape))):
            raise VerifyException(f"expects a permutation of {len(shape)} axes, but got {list(order)}")
        if tuple(shape[axis] for axis in order) != shape_of(self.result.type):
            raise VerifyException(f"expects the permuted shape, but got {type_text(self.result.type)}")


def _check_tiling(op: TileOp, whole: tuple[int, ...], part: tuple[int, ...]) -> None:
    indices = len(op.group("indices"))
    if len(part) != len(whole) or indices != len(whole):
        raise VerifyException(f"expects {len(whole)} indices and axes, but got {indices} and {len(part)}")
    if any(p < 1 or w % p for p, w in zip(part, whole)):
        raise VerifyException(f"expects a shape that divides {list(whole)}, but got {list(part)}")


@tile_op
class ExtractOp(TileOp):
    """The part of the source at an index, counted in parts: of the result's shape, which divides the source's.

    With as many indices as axes; a scalar result of rank 0 is the element at the indices.
    """

    name = "nv_tileaa.extract"
    source = operand_def()
    indices = var_operand_def()
    result = result_def()
    traits = traits_def(Pure(), Partial(), Folds("spread"), NamesMemoryOf(part=True))

    def check(self) -> None:
        require_same_element(self)
        whole, part = shape_of(self.source.type), shape_of(self.result.type)
        _check_tiling(self, whole, part or (1,) * len(whole))


@tile_op
class ExtractSliceOp(Unary):
    """The part of the source from constant `offsets` on, with constant `strides` (all 1 when absent)."""

    name = "nv_tileaa.extract_slice"
    traits = traits_def(Pure(), Partial(), Folds("spread"), NamesMemoryOf(part=True))
    offsets = prop_def(DenseArrayBase)
    strides = opt_prop_def(DenseArrayBase)

    def check(self) -> None:
        require_same_element(self)
        check_slice(self, shape_of(self.source.type), shape_of(self.result.type))


def check_slice(op: TileOp, whole: tuple[int, ...], part: tuple[int, ...]) -> None:
    """A slice with `offsets` and `strides` lies inside of the whole."""
    offsets = integers_of(op.properties.get("offsets"))
    strides = integers_of(op.properties.get("strides")) or (1,) * len(offsets)
    if not len(offsets) == len(strides) == len(whole) == len(part):
        raise VerifyException(f"expects {len(whole)} offsets and strides, but got {len(offsets)} and {len(strides)}")
    for offset, stride, size, limit in zip(offsets, strides, part, whole):
        if offset < 0 or stride < 1 or offset + (size - 1) * stride >= limit:
            raise VerifyException(f"expects a slice inside of {list(whole)}, but it leaves it")


@tile_op
class InsertSliceOp(TileOp):
    """The destination with the part at an index (counted in parts) replaced by the source."""

    name = "nv_tileaa.insert_slice"
    source = operand_def()
    destination = operand_def()
    indices = var_operand_def()
    result = result_def()
    traits = traits_def(Pure(), Partial(), Folds("together"))

    def check(self) -> None:
        require_same_element(self)
        if self.destination.type != self.result.type:
            raise VerifyException("expects the result to have the destination's type")
        whole = shape_of(self.destination.type)
        _check_tiling(self, whole, shape_of(self.source.type) or (1,) * len(whole))


@tile_op
class CatOp(TileOp):
    """Two tiles, one behind the other along `dim`."""

    name = "nv_tileaa.cat"
    lhs = operand_def()
    rhs = operand_def()
    result = result_def()
    dim = prop_def(IntegerAttr)
    traits = traits_def(Pure(), Folds("together"))

    def check(self) -> None:
        require_same_element(self)
        dim, shape = self.dim.value.data, list(shape_of(self.lhs.type))
        other = list(shape_of(self.rhs.type))
        if not 0 <= dim < len(shape) or len(other) != len(shape):
            raise VerifyException(f"expects dim to be an axis of both operands, but got {dim}")
        shape[dim] += other[dim]
        other[dim] = shape[dim]
        if shape != other or tuple(shape) != shape_of(self.result.type):
            raise VerifyException(f"expects a result of shape {shape}, but got {type_text(self.result.type)}")


@tile_op
class MakeRangeOp(TileOp):
    """The integers from `start` (0 when absent) on, in a tile of rank 1."""

    name = "nv_tileaa.make_range"
    result = result_def()
    start = opt_prop_def(IntegerAttr)
    traits = traits_def(Pure())

    def check(self) -> None:
        type_ = self.result.type
        if rank_of(type_) != 1 or not isinstance(element_of(type_), IntegerType | IndexType):
            raise VerifyException(f"expects a rank-1 tile of integers as result, but got {type_text(type_)}")


class Generate(TileOp):
    """A tile whose elements a region computes from their indices (`index` arguments, one per axis)."""

    captured = var_operand_def()
    result = result_def()
    body = region_def()
    traits = traits_def(RecursiveMemoryEffect())

    def check(self) -> None:
        check_region_ends(self)
        expected = rank_of(self.result.type) + len(self.captured)
        arguments = len(only_block(self).args)
        if arguments != expected:
            raise VerifyException(f"expects a region with {expected} arguments, but got {arguments}")
        rank, captured = rank_of(self.result.type), [v.type for v in self.captured]
        require_arguments(only_block(self), [IndexType()] * rank + captured)
        last = only_block(self).last_op
        given = [v.type for v in last.operands] if last is not None else []
        if len(given) != 1 or shape_of(given[0]) or element_of(given[0]) != stored_element(self.result.type):
            shown = ", ".join(map(type_text, given))
            raise VerifyException(f"expects a region that yields one element of the result, but got ({shown})")


@tile_op
class GenerateOp(Generate):
    __doc__ = Generate.__doc__
    name = "nv_tileaa.generate"
