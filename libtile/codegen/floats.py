# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Floating-point arithmetic on single values of f16, bf16, f32 and f64 (Tile IR specification, Floating Point).

Rounding modes and flush_to_zero are those of Tile IR. How the narrow types get their modes:

* nearest even: the instruction of the type where there is one. Division and square root are done in f32 and rounded
  again, which is harmless because 24 >= 2 * 11 + 2 bits (Figueroa, "When is double rounding innocuous?", 1995); f16
  and bf16 quotients and roots that are subnormal keep enough distance from the ties as well.
* zero, negative_inf, positive_inf: in f32 and then to the narrow type, both in that mode. Rounding in one direction
  to a grid and then to a coarser grid within it is rounding to the coarser one at once, overflow and underflow
  included, because the grids of f16 and bf16 lie within that of f32.

Sources: PTX ISA (add, mul, fma, div, sqrt, min, max), IEEE 754-2019.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from libtile.codegen.builder import KernelBuilder, Value
from libtile.codegen.conversions import PTX_ROUNDING, narrow
from libtile.codegen.llvm_types import BFLOAT, DOUBLE, FLOAT, HALF, FloatType, LlvmType, VectorType
from libtile.codegen.tile import Tile, map_tiles
from libtile.support.diagnostics import UnsupportedError

_PAIRS = tuple(VectorType(2, element) for element in (HALF, BFLOAT, FLOAT))
_SUMS = ("add", "sub", "mul", "fma")
PAIRED: dict[LlvmType, tuple[str, ...]] = dict.fromkeys((HALF, BFLOAT), (*_SUMS, "neg", "abs_", "max_", "min_"))
"""Functions of this module that also take vectors of two, which one instruction then computes (all targets)."""


def wide(b: KernelBuilder, value: Value) -> Value:
    """An f16 or bf16 as an f32; others as they are."""
    return b.cast("fpext", value, FLOAT) if value.type in (HALF, BFLOAT) else value


def _check(operands: Sequence[Value], mode: str, ftz: bool, modes: Sequence[str], pairs: bool = False) -> None:
    type_ = operands[0].type
    if pairs and type_ in _PAIRS and mode == "nearest_even" and not ftz:
        return
    if not isinstance(type_, FloatType):
        raise UnsupportedError(f"{type_} is not a type of this float arithmetic")
    if mode not in modes:
        raise UnsupportedError(f"{type_.suffix} arithmetic does not round to '{mode}'")
    if (ftz or mode in ("approx", "full")) and type_ is not FLOAT:
        raise UnsupportedError(f"flush_to_zero and approximate arithmetic are for f32, not {type_.suffix}")


def _arithmetic(
    b: KernelBuilder, name: str, operands: Sequence[Value], mode: str, ftz: bool, nearest: Callable[..., Value]
) -> Value:
    """One of PTX's add, mul, fma, div, sqrt in any mode; `nearest` emits the operation rounded to nearest even."""
    type_ = operands[0].type
    if mode == "nearest_even" and not ftz:
        return nearest(*operands)
    if type_ in (FLOAT, DOUBLE):
        flush = "ftz." if ftz else ""
        return b.call(f"llvm.nvvm.{name}.{PTX_ROUNDING[mode]}.{flush}{type_.constraint}", type_, list(operands))
    single = _arithmetic(b, name, [wide(b, v) for v in operands], mode, False, nearest)
    return narrow(b, single, type_.suffix, mode)


def add(b: KernelBuilder, lhs: Value, rhs: Value, mode: str = "nearest_even", ftz: bool = False) -> Value:
    """lhs + rhs, rounded once in an IEEE mode; `ftz` flushes subnormal operands and results (f32 only)."""
    _check([lhs, rhs], mode, ftz, tuple(PTX_ROUNDING), pairs=True)
    return _arithmetic(b, "add", [lhs, rhs], mode, ftz, lambda x, y: b.binary("fadd", x, y))


def sub(b: KernelBuilder, lhs: Value, rhs: Value, mode: str = "nearest_even", ftz: bool = False) -> Value:
    """lhs - rhs, rounded once in an IEEE mode."""
    _check([lhs, rhs], mode, ftz, tuple(PTX_ROUNDING), pairs=True)
    if mode == "nearest_even" and not ftz:
        return b.binary("fsub", lhs, rhs)
    return add(b, lhs, neg(b, rhs), mode, ftz)


def mul(b: KernelBuilder, lhs: Value, rhs: Value, mode: str = "nearest_even", ftz: bool = False) -> Value:
    """lhs * rhs, rounded once in an IEEE mode."""
    _check([lhs, rhs], mode, ftz, tuple(PTX_ROUNDING), pairs=True)
    return _arithmetic(b, "mul", [lhs, rhs], mode, ftz, lambda x, y: b.binary("fmul", x, y))


def fma(b: KernelBuilder, lhs: Value, rhs: Value, acc: Value, mode: str = "nearest_even", ftz: bool = False) -> Value:
    """lhs * rhs + acc, rounded once in an IEEE mode."""
    _check([lhs, rhs, acc], mode, ftz, tuple(PTX_ROUNDING), pairs=True)

    def nearest(x: Value, y: Value, z: Value) -> Value:
        return b.call(f"llvm.fma.{x.type.suffix}", x.type, [x, y, z])

    return _arithmetic(b, "fma", [lhs, rhs, acc], mode, ftz, nearest)


def div(b: KernelBuilder, lhs: Value, rhs: Value, mode: str = "nearest_even", ftz: bool = False) -> Value:
    """lhs / rhs, rounded once in an IEEE mode, or with 2 ulp by `approx` (divisors up to 2**126) or `full` (f32)."""
    _check([lhs, rhs], mode, ftz, (*PTX_ROUNDING, "approx", "full"))
    flush = ".ftz" if ftz else ""
    if mode == "full":
        return b.call(f"llvm.nvvm.div.full{flush}", FLOAT, [lhs, rhs])
    if mode == "approx":
        return b.call(f"llvm.nvvm.div.approx{flush}.f", FLOAT, [lhs, rhs])

    def nearest(x: Value, y: Value) -> Value:
        return _back(b, b.binary("fdiv", wide(b, x), wide(b, y)), x.type)

    return _arithmetic(b, "div", [lhs, rhs], mode, ftz, nearest)


def sqrt(b: KernelBuilder, source: Value, mode: str = "nearest_even", ftz: bool = False) -> Value:
    """The square root, rounded once in an IEEE mode, or with `approx` to about 1 ulp (f32)."""
    _check([source], mode, ftz, (*PTX_ROUNDING, "approx"))
    if mode == "approx":
        return b.call(f"llvm.nvvm.sqrt.approx{'.ftz' if ftz else ''}.f", FLOAT, [source])

    def nearest(x: Value) -> Value:
        value = wide(b, x)
        return _back(b, b.call(f"llvm.sqrt.{value.type.suffix}", value.type, [value]), x.type)

    return _arithmetic(b, "sqrt", [source], mode, ftz, nearest)


def _back(b: KernelBuilder, value: Value, type_: LlvmType) -> Value:
    return b.cast("fptrunc", value, type_)


def rem(b: KernelBuilder, lhs: Value, rhs: Value) -> Value:
    """lhs - trunc(lhs / rhs) * rhs, exactly, for quotients of any size (C's fmod)."""
    _check([lhs, rhs], "nearest_even", False, ("nearest_even",))
    x, y = wide(b, lhs), wide(b, rhs)
    name = "__nv_fmod" if x.type is DOUBLE else "__nv_fmodf"
    return _back(b, b.call(name, x.type, [x, y]), lhs.type)


# -- tiles ----------------------------------------------------------------------------------------------------------


def on_tiles(
    b: KernelBuilder,
    function: Callable[..., Value],
    tiles: Sequence[Tile],
    *arguments: Any,
    element: str | None = None,
) -> Tile:
    """A function of single values on tiles of one layout, two registers at a time where the target can do that.

    `arguments` are those that follow the function's operands; `element` is the result's element type, the first
    operand's when not given. Functions that are not in `PAIRED` are applied to each register. ValueError when the
    layouts differ.
    """
    count = len(tiles[0].registers)
    if (
        count < 2
        or not _takes_pairs(b, function.__name__, tiles[0].llvm_type)
        or not _is_plain(function, len(tiles), arguments)
    ):
        return map_tiles(lambda *values: function(b, *values, *arguments), *tiles, element=element)
    type_ = tiles[0].llvm_type
    if any(tile.layout != tiles[0].layout for tile in tiles):
        raise ValueError("layouts differ")
    registers = []
    for i in range(0, count, 2):
        pair = function(b, *(b.vector(tile.registers[i : i + 2]) for tile in tiles), *arguments)
        registers += [b.extract(pair, k, type_) for k in (0, 1)]
    return tiles[0].with_registers(registers)


def _is_plain(function: Callable[..., Value], operands: int, arguments: Sequence[Any]) -> bool:
    """Whether the arguments after a function's operands ask for rounding to nearest even and no flushing."""
    given = dict(zip(list(inspect.signature(function).parameters)[1 + operands :], arguments))
    return given.get("mode", "nearest_even") == "nearest_even" and not given.get("ftz", False)


def _takes_pairs(b: KernelBuilder, name: str, type_: LlvmType) -> bool:
    if type_ is FLOAT:
        return name in _SUMS and b.target.has("f32x2")
    return name in PAIRED.get(type_, ())


# -- signs, order, whole numbers ------------------------------------------------------------------------------------


def neg(b: KernelBuilder, source: Value) -> Value:
    """The number with the other sign."""
    return b.compute(source.type, f"fneg {source.typed}", (source,))


def abs_(b: KernelBuilder, source: Value) -> Value:
    """The number without its sign."""
    return b.call(f"llvm.fabs.{source.type.suffix}", source.type, [source])


def max_(b: KernelBuilder, lhs: Value, rhs: Value, propagate_nan: bool = False, ftz: bool = False) -> Value:
    """The larger number, +0 being larger than -0. A NaN loses against a number, or wins with `propagate_nan`."""
    return _extremum(b, "max", lhs, rhs, propagate_nan, ftz)


def min_(b: KernelBuilder, lhs: Value, rhs: Value, propagate_nan: bool = False, ftz: bool = False) -> Value:
    """The smaller number, -0 being smaller than +0. A NaN loses against a number, or wins with `propagate_nan`."""
    return _extremum(b, "min", lhs, rhs, propagate_nan, ftz)


def clamp(
    b: KernelBuilder, source: Value, lower: Value, upper: Value, propagate_nan: bool = False, ftz: bool = False
) -> Value:
    """min(max(source, lower), upper), with NaNs and zeros as in `max_` and `min_`."""
    return min_(b, max_(b, source, lower, propagate_nan, ftz), upper, propagate_nan, ftz)


def _extremum(b: KernelBuilder, name: str, lhs: Value, rhs: Value, propagate_nan: bool, ftz: bool) -> Value:
    _check([lhs, rhs], "nearest_even", ftz, ("nearest_even",), pairs=True)
    if ftz:
        return b.call(f"llvm.nvvm.f{name}.ftz.{'nan.' if propagate_nan else ''}f", FLOAT, [lhs, rhs])
    operation = f"{name}imum" if propagate_nan else f"{name}imumnum"
    return b.call(f"llvm.{operation}.{lhs.type.suffix}", lhs.type, [lhs, rhs])


def ceil(b: KernelBuilder, source: Value) -> Value:
    """The smallest whole number that is not less."""
    return _whole(b, "ceil", source)


def floor(b: KernelBuilder, source: Value) -> Value:
    """The largest whole number that is not greater."""
    return _whole(b, "floor", source)


def _whole(b: KernelBuilder, name: str, source: Value) -> Value:
    # bf16 has no such conversion of its own; in f32 it is exact.
    value = wide(b, source) if source.type is BFLOAT else source
    return _back(b, b.call(f"llvm.{name}.{value.type.suffix}", value.type, [value]), source.type)
