# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random arguments of an entry: arrays of small numbers, and scalars that fit what the program says of them.

What is read off the program: `assume` (bounds and divisors, followed through extensions), sizes of tensor views (some
tiles of the views that cut them, the last one perhaps only in part) and their strides (rows that do not overlap). What
is not: sizes that the program computes, tables of pointers, relations between scalars. Whether arguments are any good
shows when the program runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from xdsl.ir import BlockArgument, SSAValue

from libtile.dialects.cuda_tile.attributes import BoundedAttr, DivByAttr
from libtile.dialects.cuda_tile.ops import CudaTileOp
from libtile.dialects.cuda_tile.types import DYNAMIC, TensorViewType, TileViewType
from libtile.interpreter.formats import Element, element, to_bits
from libtile.ir.operands import source_of
from libtile.support.records import dataclass

_FOLLOWED = ("assume", "exti", "trunci")
"""Ops behind which a number is still the parameter that it came from."""

_LARGEST = 9
"""Numbers of which nothing is known are smaller than this."""

_SPECIAL = (-0.0, np.inf, -np.inf, np.nan)
_ONE_IN = 16
"""Of so many floats one is special, where some are."""


@dataclass
class _Number:
    """What a program says of an integer parameter."""

    lower: int | None = None
    upper: int | None = None
    divisor: int = 1
    tile: int = 0
    """The size of a tile along the dimension whose size it is; 0 when it is no size."""

    def drawn(self, rng: np.random.Generator) -> int:
        if self.tile:
            size = int(rng.integers(1, 3 * self.tile + 1))
            value = max(size // self.divisor, 1) * self.divisor
        else:
            value = int(rng.integers(0, _LARGEST)) * self.divisor
        return self.fitting(value)

    def fitting(self, value: int) -> int:
        """The value moved into the bounds, still a multiple of the divisor where the bounds allow it."""
        if self.lower is not None and value < self.lower:
            value = -(-self.lower // self.divisor) * self.divisor
        if self.upper is not None and value > self.upper:
            value = self.upper // self.divisor * self.divisor
        return value


def random_arguments(entry: CudaTileOp, rng: np.random.Generator, elements: int, special: bool = False) -> list[Any]:
    """Arguments for each parameter in order, arrays of so many elements for the pointers.

    `special`: among floats of arrays are zeros with a sign, infinities and NaNs.
    """
    parameters = entry.regions[0].blocks[0].args
    numbers = {arg: _Number() for arg in parameters}
    views = list(_views(entry))
    for arg in parameters:
        _collect(arg, numbers[arg])
    for view, tiles in views:
        _sizes(view, tiles, numbers)
    values: dict[BlockArgument, Any] = {}
    for arg in parameters:
        values[arg] = _argument(element(arg.type), numbers[arg], rng, elements, special)
    for view, _ in views:
        _set_strides(view, numbers, values)
    return [values[arg] for arg in parameters]


def _argument(kind: Element, number: _Number, rng: np.random.Generator, elements: int, special: bool) -> Any:
    if kind.pointee is not None:
        return _array(kind.pointee, rng, elements, special)
    if kind.is_float:
        return float(rng.integers(-16, 17)) / 4
    if kind.width == 1:
        return int(rng.integers(0, 2))
    return number.drawn(rng)


def _array(kind: Element, rng: np.random.Generator, elements: int, special: bool) -> np.ndarray:
    if kind.is_pointer:
        return np.zeros(elements, np.int64)
    if kind.width == 4:
        return rng.integers(0, 256, elements, np.uint8)
    if kind.is_float and kind.name != "f8E8M0FNU":
        numbers = rng.integers(-16, 17, elements) / 4
        if special:
            chosen = rng.integers(0, _ONE_IN, elements) == 0
            numbers[chosen] = rng.choice(_SPECIAL, np.count_nonzero(chosen))
        values = numbers.astype(kind.dtype)
    elif kind.is_float:
        values = np.exp2(rng.integers(-4, 5, elements).astype(np.float64)).astype(kind.dtype)
    else:
        values = rng.integers(0, 2 if kind.width == 1 else _LARGEST, elements).astype(kind.dtype)
    return np.ascontiguousarray(to_bits(values, kind))


# -- what the program says --------------------------------------------------------------------------------------------


def _source(value: SSAValue) -> SSAValue:
    """The value that a number came from, behind assumptions and conversions."""
    while isinstance(value.owner, CudaTileOp) and value.owner.spec.name in _FOLLOWED:
        value = source_of(value.owner)
    return value


def _collect(value: SSAValue, number: _Number) -> None:
    """Add the assumptions on a parameter, and on what it is converted to."""
    for use in value.uses:
        op = use.operation
        if not isinstance(op, CudaTileOp) or op.spec.name not in _FOLLOWED:
            continue
        match op.properties.get("predicate"):
            case BoundedAttr(lower=lower, upper=upper):
                lowers = [bound for bound in (number.lower, lower) if bound is not None]
                uppers = [bound for bound in (number.upper, upper) if bound is not None]
                number.lower, number.upper = max(lowers, default=None), min(uppers, default=None)
            case DivByAttr(divisor=divisor):
                number.divisor = max(number.divisor, divisor)
        _collect(op.results[0], number)


def _views(entry: CudaTileOp) -> Iterator[tuple[CudaTileOp, list[int]]]:
    """The tensor views that the entry makes; of each the largest tile along every dimension."""
    for op in entry.walk():
        if not isinstance(op, CudaTileOp) or op.spec.name != "make_tensor_view":
            continue
        type_ = op.results[0].type
        assert isinstance(type_, TensorViewType)  # as declared
        tiles = [1] * type_.rank
        for use in op.results[0].uses:
            for result in use.operation.results:
                cut = result.type
                if isinstance(cut, TileViewType):
                    order = getattr(cut, "dim_map", range(type_.rank))
                    for size, dim in zip(cut.tile_shape, order):
                        tiles[dim] = max(tiles[dim], size)
        yield op, tiles


def _dynamic(view: CudaTileOp) -> tuple[dict[int, SSAValue], dict[int, SSAValue]]:
    """By dimension: where sizes and strides come from that the type leaves open."""
    type_ = view.results[0].type
    assert isinstance(type_, TensorViewType)  # as declared
    open_sizes = [dim for dim, size in enumerate(type_.shape) if size == DYNAMIC]
    open_strides = [dim for dim, stride in enumerate(type_.strides) if stride == DYNAMIC]
    sizes = map(_source, view.operand_group("dynamicShape"))
    strides = map(_source, view.operand_group("dynamicStrides"))
    return dict(zip(open_sizes, sizes)), dict(zip(open_strides, strides))


def _sizes(view: CudaTileOp, tiles: list[int], numbers: dict[BlockArgument, _Number]) -> None:
    sizes, _ = _dynamic(view)
    for dim, source in sizes.items():
        if isinstance(source, BlockArgument) and source in numbers:
            number = numbers[source]
            number.tile = max(number.tile, tiles[dim])
            number.lower = max(number.lower or 0, 0)


def _set_strides(view: CudaTileOp, numbers: dict[BlockArgument, _Number], values: dict[BlockArgument, Any]) -> None:
    """Give strides that are parameters a value so large that rows do not overlap: the last dimension is the densest,
    unless another one has a stride of 1."""
    type_ = view.results[0].type
    assert isinstance(type_, TensorViewType)  # as declared
    sizes, strides = _dynamic(view)
    order = sorted(range(type_.rank), key=lambda d: (type_.strides[d] != 1, -d))
    stride = 1
    for dim in order:
        source = strides.get(dim)
        if isinstance(source, BlockArgument) and source in numbers:
            number = numbers[source]
            wanted = max(-(-stride // number.divisor), 1) * number.divisor
            if not _is_stride_already(values[source], wanted, number):
                values[source] = number.fitting(wanted)
            stride = values[source]
        elif dim not in strides:
            stride = type_.strides[dim]
        given = sizes.get(dim)
        size = values.get(given) if isinstance(given, BlockArgument) else type_.shape[dim]
        stride *= size if isinstance(size, int) and size > 0 else 1


def _is_stride_already(value: int, wanted: int, number: _Number) -> bool:
    """Whether a parameter that is a size as well, or a stride of another view, is large enough as it is."""
    return number.tile > 0 or (value >= wanted and value % number.divisor == 0 and value > _LARGEST * number.divisor)
