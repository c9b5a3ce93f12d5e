# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the Python source of a kernel as Python, one tile block after the other, on numpy arrays.

It checks the corpus itself: that the formulas which the expected values come from say what the kernels do, with no
Tile IR in between.  Blocks run in order and alone, so a kernel whose blocks wait for later ones would not end.
What an undetermined padding holds is NaN here, or an odd number: it must not reach a result.

The language's functions are attributes of a `Language`; a kernel runs with one in the place of its `ct`.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from types import FunctionType, SimpleNamespace
from typing import Any

import cuda.tile as ct
import ml_dtypes
import numpy as np

from kernels import numerics
from kernels.dtypes import BOOL, FLOAT8, FLOATS, INTEGERS, SCALES
from kernels.model import Kernel, Strided

_NUMPY = {dtype.tile: dtype.numpy for dtype in (INTEGERS | FLOATS | FLOAT8 | SCALES | BOOL).values()}
_NUMPY |= {ct.tfloat32: np.dtype(np.float32), ct.float4_e2m1fn: np.dtype(ml_dtypes.float4_e2m1fn)}
_NAMES = {dtype.tile: name for name, dtype in (FLOATS | FLOAT8).items()} | {ct.tfloat32: "tf32"}
_PADDINGS = {
    ct.PaddingMode.ZERO: 0.0,
    ct.PaddingMode.NEG_ZERO: -0.0,
    ct.PaddingMode.NAN: np.nan,
    ct.PaddingMode.POS_INF: np.inf,
    ct.PaddingMode.NEG_INF: -np.inf,
}


def _numpy_dtype(dtype: Any) -> np.dtype:
    return dtype if isinstance(dtype, np.dtype) else _NUMPY[dtype]


def _is_float(values: np.ndarray) -> bool:
    return values.dtype.kind not in "iub"


class Tile(np.ndarray):
    """A tile: numpy's arithmetic, the language's methods, and products that remember their factors for fusing."""

    factors: tuple[np.ndarray, np.ndarray] | None = None

    def astype(self, dtype: Any, *_: Any, rounding_mode: Any = None, **__: Any) -> Any:  # type: ignore[override]
        return _convert(self, dtype, rounding_mode)

    def reshape(self, *shape: Any, **_: Any) -> Any:  # type: ignore[override]
        return _tile(np.reshape(_plain(self), shape[0] if len(shape) == 1 else shape))

    def permute(self, axes: Sequence[int]) -> Tile:
        return _tile(np.transpose(_plain(self), axes))

    def transpose(self, *axes: int) -> Any:  # type: ignore[override]
        return Language.transpose(self, *axes)

    def extract(self, index: Sequence[int], shape: Sequence[int]) -> Tile:
        return Language.extract(self, index, shape)

    def __format__(self, spec: str) -> str:
        return str(_plain(self))

    def __mul__(self, other: Any) -> Any:
        result = _tile(_plain(self) * _plain(other))
        if _is_float(result) and result.size <= 4096:
            result.factors = np.broadcast_arrays(_plain(self), np.asarray(_plain(other), result.dtype))  # type: ignore
        return result

    __rmul__ = __mul__

    def __add__(self, other: Any) -> Any:
        for product, addend in ((self, other), (other, self)):
            if isinstance(product, Tile) and product.factors is not None:
                return _fused(product, addend, 1, 1)
        return _tile(_plain(self) + _plain(other))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        if self.factors is not None:
            return _fused(self, other, 1, -1)
        if isinstance(other, Tile) and other.factors is not None:
            return _fused(other, self, -1, 1)
        return _tile(_plain(self) - _plain(other))

    def __rsub__(self, other: Any) -> Any:
        return _fused(self, other, -1, 1) if self.factors is not None else _tile(_plain(other) - _plain(self))


def _fused(product: Tile, addend: Any, product_sign: int, addend_sign: int) -> Tile:
    """A product with a sum or difference after it, rounded once, as the frontend writes it."""
    assert product.factors is not None
    a, b = product.factors
    a, b, c = np.broadcast_arrays(a, b, np.asarray(_plain(addend), product.dtype))
    names = {dtype.numpy: name for name, dtype in FLOATS.items()}
    wide = [np.asarray(side, np.float64) for side in (a, b, c)]
    exact = numerics.elementwise(
        numerics.fma, product_sign * wide[0], wide[1], addend_sign * wide[2], format_name=names[product.dtype]
    )
    return _tile(exact.astype(product.dtype))


def _plain(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, np.ndarray) else value


def _tile(values: Any) -> Any:
    return np.asarray(values).view(Tile)


def _convert(values: Any, dtype: Any, rounding_mode: Any = None) -> Tile:
    source, target = np.asarray(_plain(values)), _numpy_dtype(dtype)
    if target.kind == "b":
        return _tile(source != 0)
    if target == ml_dtypes.float8_e8m0fnu and rounding_mode is not None:
        whole = np.floor if rounding_mode is ct.RoundingMode.RZ else np.ceil
        return _tile(np.exp2(whole(np.log2(source.astype(np.float64)))).astype(target))
    if dtype in _NAMES and _is_float(source) and (rounding_mode is not None or dtype == ct.tfloat32):
        mode = "RN" if rounding_mode is None else rounding_mode.name
        exact = numerics.elementwise(numerics.convert, source, format_name=_NAMES[dtype], mode=mode)
        return _tile(exact.astype(target))
    return _tile(source.astype(target))


class GlobalArray:
    """A global array: `data` is a view of its memory."""

    def __init__(self, data: np.ndarray, dtype: Any) -> None:
        self.data, self.dtype = data, dtype
        self.shape, self.ndim = data.shape, data.ndim
        self.strides = tuple(stride // data.itemsize for stride in data.strides)
        self.foreign_pointer = self

    @staticmethod
    def from_foreign(pointer: GlobalArray, shape: Sequence[int], strides: Sequence[int]) -> GlobalArray:
        byte_strides = [stride * pointer.data.itemsize for stride in strides]
        return GlobalArray(np.lib.stride_tricks.as_strided(pointer.data, shape, byte_strides), pointer.dtype)

    def sliced(self, axis: int, start: int, stop: int) -> GlobalArray:
        index = [slice(None)] * self.ndim
        index[axis] = slice(int(start), int(stop))
        return GlobalArray(self.data[tuple(index)], self.dtype)

    def __getattr__(self, name: str) -> Any:
        # The method is called slice, which is a type that this class uses.
        if name == "slice":
            return self.sliced
        raise AttributeError(name)

    def tiled_view(self, tile_shape: Any, *, padding_mode: Any = None, traversal_steps: Any = None) -> View:
        return View(self, tile_shape, padding_mode, steps=traversal_steps)

    def get_raw_memory(self) -> Any:
        """Element offsets from the array's start: only for arrays whose memory is contiguous."""
        flat = GlobalArray(self.data.reshape(-1), self.dtype)
        return SimpleNamespace(
            load_offset=lambda offset, **options: Language.gather(flat, offset, **options),
            store_offset=lambda offset, value, **options: Language.scatter(flat, offset, value, **options),
            **{f"{name}_offset": _on_memory(flat, getattr(Language, name)) for name in ("atomic_add", "atomic_max")},
            atomic_cas_offset=_on_memory(flat, Language.atomic_cas),
        )

    def __len__(self) -> int:
        return len(self.data)


def _on_memory(flat: GlobalArray, function: Callable[..., Tile]) -> Callable[..., Tile]:
    return lambda offset, *values, **options: function(flat, offset, *values, **options)


class View:
    """Tiles of an array: the `axes[t]`-th axis of the array goes along the t-th of a tile."""

    def __init__(
        self, array: GlobalArray, shape: Any, padding: Any = None, order: Any = "C", steps: Any = None
    ) -> None:
        self.array, self.padding = array, padding
        self.shape = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
        self.steps = self.shape if steps is None else tuple(steps)
        rank = array.ndim
        self.axes = {"C": tuple(range(rank)), "F": tuple(reversed(range(rank)))}.get(order, order)

    def num_tiles(self, axis: int) -> int:
        return -(-self.array.shape[self.axes[axis]] // self.steps[axis])

    def places(self, index: Any) -> tuple[list[np.ndarray], np.ndarray]:
        """Coordinates along each axis of the array, shaped to broadcast to the tile, and which are inside."""
        numbers = index if isinstance(index, tuple | list) else (index,)
        coordinates: list[Any] = [None] * self.array.ndim
        inside = np.ones(self.shape, bool)
        for t, (number, step, size) in enumerate(zip(numbers, self.steps, self.shape, strict=True)):
            along = [1] * len(self.shape)
            along[t] = size
            place = (int(number) * step + np.arange(size)).reshape(along)
            inside = inside & (place < self.array.shape[self.axes[t]])
            coordinates[self.axes[t]] = np.where(place < self.array.shape[self.axes[t]], place, 0)
        return coordinates, inside

    def load(self, index: Any, **_: Any) -> Tile:
        coordinates, inside = self.places(index)
        found = self.array.data[tuple(coordinates)]
        padding = _PADDINGS.get(self.padding, np.nan if _is_float(found) else 77)
        return _tile(np.where(inside, found, np.asarray(padding).astype(found.dtype)))

    def store(self, index: Any, tile: Any, **_: Any) -> None:
        coordinates, inside = self.places(index)
        values = np.broadcast_to(_plain(_convert(tile, self.array.data.dtype)), self.shape)
        places = [np.broadcast_to(c, self.shape)[inside] for c in coordinates]
        self.array.data[tuple(places)] = values[inside]

    def update(self, function: Callable[[Any, Any], Any], index: Any, update: Any) -> None:
        self.store(index, function(_plain(self.load(index)), _plain(update)))

    def __getattr__(self, name: str) -> Any:
        operation = name.removeprefix("atomic_store_")
        if operation == name:
            raise AttributeError(name)
        return lambda index, update: self.update(_UPDATES[operation], index, update)


_UPDATES: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "xchg": lambda old, new: new,
}


def _elements(array: GlobalArray, indices: Any, mask: Any, check: bool, *values: Any) -> Any:
    """Coordinates, which of them take part, and the values, all of one shape."""
    given = indices if isinstance(indices, tuple) else (indices,)
    parts = [np.asarray(_plain(part)) for part in (*given, True if mask is None else mask, *values)]
    parts = list(np.broadcast_arrays(*parts))
    places, active, rest = parts[: array.ndim], parts[array.ndim].copy(), parts[array.ndim + 1 :]
    for place, size in zip(places, array.shape, strict=True):
        inside = (place >= 0) & (place < size)
        assert not check or np.all(inside | ~active) or check == "bounds", "an unchecked access out of bounds"
        active &= inside
    return tuple(np.where(active, place, 0) for place in places), active, rest


def _atomic(array: GlobalArray, indices: Any, mask: Any, check: bool, step: Callable[..., Any], *values: Any) -> Tile:
    places, active, rest = _elements(array, indices, mask, "bounds" if check else True, *values)  # type: ignore
    old = np.zeros(active.shape, array.data.dtype)
    for at in np.ndindex(active.shape):
        if active[at]:
            place = tuple(part[at] for part in places)
            old[at] = array.data[place]
            array.data[place] = step(old[at], *(value[at] for value in rest))
    return _tile(old)


def _atomic_update(name: str) -> Callable[..., Tile]:
    def atomic(
        array: GlobalArray, indices: Any, update: Any, *, mask: Any = None, check_bounds: bool = True, **_: Any
    ) -> Tile:
        return _atomic(array, indices, mask, check_bounds, _UPDATES[name], _convert(update, array.data.dtype))

    return atomic


def _rounded(function: Callable[..., Any], exact: Callable[..., float]) -> Callable[..., Tile]:
    """An arithmetic function that takes a rounding mode and flush_to_zero."""

    def operation(*operands: Any, rounding_mode: Any = None, flush_to_zero: bool = False) -> Tile:
        tiles = list(np.broadcast_arrays(*(_plain(operand) for operand in operands)))
        result = function(*tiles)
        names = {dtype.numpy: name for name, dtype in FLOATS.items()}
        modes = ("RN", "RZ", "RM", "RP")
        if _is_float(result) and (flush_to_zero or (rounding_mode and rounding_mode.name in modes)):
            mode = rounding_mode.name if rounding_mode and rounding_mode.name in modes else "RN"
            name = names[result.dtype]
            if exact is numerics.add and getattr(operands[0], "factors", None) is not None:
                tiles, chosen = [*np.broadcast_arrays(*operands[0].factors), tiles[1]], numerics.fma
            else:
                chosen = exact
            result = numerics.elementwise(chosen, *tiles, format_name=name, mode=mode, ftz=flush_to_zero).astype(
                result.dtype
            )
        tile = _tile(result)
        if exact is numerics.mul and _is_float(tile):
            tile.factors = tuple(tiles)  # type: ignore[assignment]
        return tile

    return operation


def _wide(function: Callable[..., Any]) -> Callable[..., Tile]:
    """A function that is computed in float64 and rounded to the type of its first operand."""

    def operation(*operands: Any, flush_to_zero: bool = False, **_: Any) -> Tile:
        first = np.asarray(_plain(operands[0]))
        dtype = first.dtype if _is_float(first) else np.dtype(np.float32)
        given = [np.asarray(_plain(operand)).astype(np.float64) for operand in operands]
        least = 2.0**-126 if flush_to_zero else 0.0
        given = [np.where(np.abs(part) < least, 0, part) for part in given]
        with np.errstate(all="ignore"):
            result = function(*given)
        return _tile(np.where(np.abs(result) < least, 0, result).astype(dtype))

    return operation


def _extreme(ignoring: Any, propagating: Any) -> Callable[..., Tile]:
    def operation(x: Any, y: Any, *, propagate_nan: bool = False, flush_to_zero: bool = False) -> Tile:
        a, b = (np.asarray(_plain(side)) for side in (x, y))
        if flush_to_zero:
            a, b = (np.where(np.abs(side) < 2.0**-126, 0, side).astype(np.float32) for side in (a, b))
        return _tile((propagating if propagate_nan else ignoring)(a, b))

    return operation


def _reduction(function: Any, nan_function: Any = None) -> Callable[..., Tile]:
    def operation(x: Any, axis: Any = None, *, keepdims: bool = False, propagate_nan: bool = False, **_: Any) -> Tile:
        values = _plain(x)
        chosen = nan_function if nan_function is not None and not propagate_nan else function
        if nan_function is None and not _is_float(values):
            with np.errstate(over="ignore"):
                return _tile(chosen(values, axis=axis, keepdims=keepdims, dtype=values.dtype))
        wide = values.astype(np.float64) if _is_float(values) else values
        kind = values.dtype if nan_function is None or function in (np.max, np.min) else np.dtype(np.int32)
        return _tile(np.asarray(chosen(wide, axis=axis, keepdims=keepdims)).astype(kind))

    return operation


def _cumulative(function: Any) -> Callable[..., Tile]:
    def operation(x: Any, axis: int = 0, *, reverse: bool = False, **_: Any) -> Tile:
        values = np.flip(_plain(x), axis) if reverse else _plain(x)
        wide = values.astype(np.float64) if _is_float(values) else values
        with np.errstate(over="ignore"):
            result = function(wide, axis=axis, dtype=wide.dtype).astype(values.dtype)
        return _tile(np.flip(result, axis) if reverse else result)

    return operation


def _steps(x: Any, axis: int, func: Callable[..., Any], reverse: bool = False) -> list[tuple[Any, ...]]:
    """What a function of one's own has accumulated after each element along an axis."""
    tiles = np.broadcast_arrays(*(_plain(part) for part in (x if isinstance(x, tuple) else (x,))))
    order = range(tiles[0].shape[axis])
    states: list[tuple[Any, ...]] = []
    for i in reversed(order) if reverse else order:
        current = tuple(_tile(np.take(tile, i, axis)) for tile in tiles)
        if states:
            result = func(*states[-1], *current)
            current = result if isinstance(result, tuple) else (result,)
        states.append(current)
    return states[::-1] if reverse else states


class Language:
    """The functions of the language, for the block that is running."""

    def __init__(self, block: tuple[int, ...], grid: tuple[int, ...]) -> None:
        self.bid, self.num_blocks = block.__getitem__, grid.__getitem__

    def __getattr__(self, name: str) -> Any:
        return getattr(ct, name)

    Array = GlobalArray

    @staticmethod
    def load(
        array: GlobalArray, index: Any, shape: Any, *, order: Any = "C", padding_mode: Any = None, **_: Any
    ) -> Tile:
        return View(array, shape, padding_mode, order).load(index)

    @staticmethod
    def store(array: GlobalArray, index: Any, tile: Any, *, order: Any = "C", **_: Any) -> None:
        View(array, np.shape(tile), None, order).store(index, tile)

    @staticmethod
    def num_tiles(array: GlobalArray, axis: int, shape: Any, order: Any = "C") -> int:
        return View(array, shape, None, order).num_tiles(axis)

    @staticmethod
    def _advanced(array: GlobalArray, indices: tuple[Any, ...]) -> tuple[Any, ...]:
        parts = [_plain(p) if isinstance(p, np.ndarray) else int(p[0]) + np.arange(p[1]) for p in indices]
        return np.ix_(*parts)

    Slice = staticmethod(lambda start, length: (start, length))

    @staticmethod
    def load_advanced_indexing(array: GlobalArray, indices: Any, *, padding_mode: Any = None, **_: Any) -> Tile:
        return Language.gather(array, Language._advanced(array, indices), padding_value=_PADDINGS[padding_mode])

    @staticmethod
    def store_advanced_indexing(array: GlobalArray, indices: Any, tile: Any, **_: Any) -> None:
        Language.scatter(array, Language._advanced(array, indices), tile)

    @staticmethod
    def gather(array: GlobalArray, indices: Any, *, mask: Any = None, padding_value: Any = 0, check_bounds: bool = True,
               **_: Any) -> Tile:  # fmt: skip
        checking: Any = "bounds" if check_bounds else True
        places, active, (padding,) = _elements(array, indices, mask, checking, padding_value)
        return _tile(np.where(active, array.data[places], padding.astype(array.data.dtype)))

    @staticmethod
    def scatter(array: GlobalArray, indices: Any, value: Any, *, mask: Any = None, check_bounds: bool = True,
                **_: Any) -> None:  # fmt: skip
        checking: Any = "bounds" if check_bounds else True
        places, active, (values,) = _elements(array, indices, mask, checking, _convert(value, array.data.dtype))
        if array.ndim == 0:
            array.data[...] = values if active else array.data
        else:
            array.data[tuple(place[active] for place in places)] = values[active]

    @staticmethod
    def atomic_cas(array: GlobalArray, indices: Any, expected: Any, desired: Any, **_: Any) -> Tile:
        swap = lambda old, want, new: new if old == want else old  # noqa: E731
        return _atomic(array, indices, None, True, swap, *(_convert(v, array.data.dtype) for v in (expected, desired)))

    arange = staticmethod(
        lambda size, *, dtype, start=0, step=1: _tile((start + step * np.arange(size)).astype(_numpy_dtype(dtype)))
    )
    full = staticmethod(lambda shape, value, dtype: _tile(np.full(shape, value, _numpy_dtype(dtype))))
    zeros = staticmethod(lambda shape, dtype: _tile(np.zeros(shape, _numpy_dtype(dtype))))
    ones = staticmethod(lambda shape, dtype: _tile(np.ones(shape, _numpy_dtype(dtype))))

    @staticmethod
    def mma(x: Any, y: Any, acc: Any, **_: Any) -> Tile:
        product = _plain(x).astype(np.float64) @ _plain(y).astype(np.float64)
        return _tile((product + _plain(acc).astype(np.float64)).astype(acc.dtype))

    @staticmethod
    def matmul(x: Any, y: Any) -> Tile:
        return _tile((_plain(x).astype(np.float64) @ _plain(y).astype(np.float64)).astype(x.dtype))

    @staticmethod
    def mma_scaled(x: Any, x_scale: Any, y: Any, y_scale: Any, acc: Any) -> Tile:
        depth = x.shape[-1] // x_scale.shape[-1]
        left = _plain(x).astype(np.float64) * np.repeat(_plain(x_scale).astype(np.float64), depth, axis=-1)
        right = _plain(y).astype(np.float64) * np.repeat(_plain(y_scale).astype(np.float64), depth, axis=-2)
        return Language.mma(_tile(left), _tile(right), acc)

    expand_dims = staticmethod(lambda x, axis: _tile(np.expand_dims(_plain(x), axis)))
    cat = staticmethod(lambda tiles, axis: _tile(np.concatenate([_plain(t) for t in tiles], axis)))
    broadcast_to = staticmethod(lambda x, shape: _tile(np.broadcast_to(_plain(x), shape)))
    reshape = staticmethod(lambda x, shape: _tile(np.reshape(_plain(x), shape)))
    permute = staticmethod(lambda x, axes: _tile(np.transpose(_plain(x), axes)))

    @staticmethod
    def transpose(x: Any, axis0: int | None = None, axis1: int | None = None) -> Tile:
        return _tile(_plain(x).T if axis0 is None or axis1 is None else np.swapaxes(_plain(x), axis0, axis1))

    @staticmethod
    def extract(x: Any, index: Sequence[int], shape: Sequence[int]) -> Tile:
        window = tuple(slice(int(i) * n, int(i) * n + n) for i, n in zip(index, shape, strict=True))
        return _tile(_plain(x)[window])

    @staticmethod
    def insert(x: Any, index: Sequence[int], value: Any) -> Tile:
        result = _plain(x).copy()
        result[tuple(slice(int(i) * n, int(i) * n + n) for i, n in zip(index, value.shape, strict=True))] = value
        return _tile(result)

    bitcast = staticmethod(lambda x, dtype: _tile(_plain(x).view(_numpy_dtype(dtype))))

    @staticmethod
    def pack_to_bytes(x: Any) -> Tile:
        values = np.ascontiguousarray(_plain(x)).ravel()
        if values.dtype != ml_dtypes.float4_e2m1fn:
            return _tile(values.view(np.uint8))
        codes = values.view(np.uint8) & 15
        return _tile(codes[0::2] | codes[1::2] << 4)

    @staticmethod
    def unpack_from_bytes(x: Any, dtype: Any) -> Tile:
        if dtype != ct.float4_e2m1fn:
            return _tile(_plain(x).view(_numpy_dtype(dtype)))
        return _tile(np.stack([_plain(x) & 15, _plain(x) >> 4], axis=1).ravel().view(ml_dtypes.float4_e2m1fn))

    add = staticmethod(_rounded(np.add, numerics.add))
    sub = staticmethod(_rounded(np.subtract, numerics.sub))
    mul = staticmethod(_rounded(np.multiply, numerics.mul))
    truediv = staticmethod(_rounded(np.divide, numerics.div))
    sqrt = staticmethod(_rounded(np.sqrt, numerics.sqrt))
    minimum, maximum = (staticmethod(_extreme(*pair)) for pair in ((np.fmin, np.minimum), (np.fmax, np.maximum)))
    exp, exp2, log, log2 = (staticmethod(_wide(f)) for f in (np.exp, np.exp2, np.log, np.log2))
    sin, cos, tan = (staticmethod(_wide(f)) for f in (np.sin, np.cos, np.tan))
    sinh, cosh, tanh = (staticmethod(_wide(f)) for f in (np.sinh, np.cosh, np.tanh))
    rsqrt = staticmethod(_wide(lambda x: 1 / np.sqrt(x)))
    floor, ceil, atan2, pow = (staticmethod(_wide(f)) for f in (np.floor, np.ceil, np.arctan2, np.power))
    abs = staticmethod(lambda x: _tile(np.abs(_plain(x))))
    isnan = staticmethod(lambda x: _tile(np.isnan(_plain(x))))
    bitwise_not = staticmethod(lambda x: _tile(~_plain(x)))
    where = staticmethod(lambda cond, x, y: _tile(np.where(_plain(cond), _plain(x), _plain(y))))
    cdiv = staticmethod(lambda x, y: -(-x // y))

    sum, prod = staticmethod(_reduction(np.sum)), staticmethod(_reduction(np.prod))
    max, min = staticmethod(_reduction(np.max, np.nanmax)), staticmethod(_reduction(np.min, np.nanmin))
    argmax = staticmethod(_reduction(np.argmax, np.nanargmax))
    argmin = staticmethod(_reduction(np.argmin, np.nanargmin))
    cumsum, cumprod = staticmethod(_cumulative(np.cumsum)), staticmethod(_cumulative(np.cumprod))

    @staticmethod
    def reduce(x: Any, axis: int, func: Any, identity: Any) -> Any:
        last = _steps(x, axis, func)[-1]
        return last if isinstance(x, tuple) else last[0]

    @staticmethod
    def scan(x: Any, axis: int, func: Any, identity: Any, *, reverse: bool = False) -> Any:
        parts = zip(*_steps(x, axis, func, reverse), strict=True)
        results = tuple(_tile(np.stack([_plain(p) for p in part], axis)) for part in parts)
        return results if isinstance(x, tuple) else results[0]

    static_iter = staticmethod(iter)
    assume_divisible_by = staticmethod(lambda x, divisor: x)
    printf = staticmethod(lambda template, *values: None)
    grid_dependency_control_wait = grid_dependency_control_launch_dependents = staticmethod(lambda: None)

    @staticmethod
    def static_assert(condition: bool, message: str | None = None) -> None:
        assert condition, message

    @staticmethod
    def assert_(condition: Any, message: str | None = None) -> None:
        assert np.all(_plain(condition)), message


for _name in _UPDATES:
    setattr(Language, f"atomic_{_name}", staticmethod(_atomic_update(_name)))


def _pick(built_in: Callable[..., Any], on_tiles: Callable[..., Any]) -> Callable[..., Any]:
    """Python's min or max of scalars, the language's of tiles."""
    return lambda a, b: on_tiles(a, b) if isinstance(a, Tile) or isinstance(b, Tile) else built_in(a, b)


def run(kernel: Kernel, values: Sequence[Any], grid: tuple[int, int, int]) -> None:
    """Run a kernel on a problem's values: arrays are changed in place."""
    function = kernel.function._annotated_function.pyfunc
    names = {name: value for name, value in function.__globals__.items() if name != "ct"}
    names["max"], names["min"] = _pick(max, Language.maximum), _pick(min, Language.minimum)
    names["print"] = lambda *_: None
    for name, value in list(names.items()):
        if isinstance(value, FunctionType) and value.__module__ == function.__module__:
            names[name] = FunctionType(value.__code__, names, name, value.__defaults__)
    remaining = iter(values)
    arguments = [
        given if isinstance(given, bool | int | float) else _argument(next(remaining), given)
        for given in kernel.parameters
    ]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        # A row of nothing but padding has no maximum.
        warnings.filterwarnings("ignore", message="All-NaN")
        for block in itertools.product(*(range(size) for size in reversed(grid))):
            names["ct"] = Language(block[::-1], grid)
            FunctionType(function.__code__, names)(*arguments)


def _argument(value: Any, constraint: Any) -> Any:
    if isinstance(value, Strided):
        return GlobalArray(value.view(value.memory), constraint.dtype)
    if isinstance(value, np.ndarray):
        return GlobalArray(value, constraint.dtype)
    if isinstance(value, tuple):
        return value
    return _NUMPY[constraint.dtype].type(value)
