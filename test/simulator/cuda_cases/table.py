# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The records of the CUDA corpus: a source file, a kernel's launch, and what its memory must hold afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[Any]
#: Says what is wrong with an array that a kernel wrote, or None.
Check = Callable[[Array], str | None]


@dataclass(frozen=True)
class Source:
    """A `.cu` file: flags beyond the architecture, and the architectures it is compiled for."""

    stem: str
    flags: tuple[str, ...] = ()
    archs: tuple[str, ...] = ("sm_80", "sm_90")


@dataclass(frozen=True)
class Close:
    """`want`, within a bound.

    `ulp` counts units in the last place of `want` in the result's own format; `absolute` and `relative` are
    plain bounds. An element passes when any of the bounds given holds. NaN must meet NaN, an infinity itself.
    """

    want: Array
    ulp: float | None = None
    absolute: float | None = None
    relative: float | None = None

    def __call__(self, got: Array) -> str | None:
        got64, want64 = got.astype(np.float64).ravel(), np.asarray(self.want, np.float64).ravel()
        if got64.shape != want64.shape:
            return f"has {got64.size} elements, expected {want64.size}"
        with np.errstate(all="ignore"):
            error = np.abs(got64 - want64)
            good = (got64 == want64) | (np.isnan(got64) & np.isnan(want64))
            if self.absolute is not None:
                good |= error <= self.absolute
            if self.relative is not None:
                good |= error <= self.relative * np.abs(want64)
            if self.ulp is not None:
                good |= error <= self.ulp * unit_in_last_place(want64, got.dtype)
        return describe_difference(good, got.ravel(), want64)


#: Precision in bits and smallest normal exponent of the formats that `Close` measures ulps in.
_FORMATS = {"float16": (11, -14), "bfloat16": (8, -126), "float32": (24, -126), "float64": (53, -1022)}


def unit_in_last_place(values: Array, dtype: np.dtype[Any]) -> Array:
    """The spacing of `dtype`'s numbers around `values` (float64, any shape)."""
    precision, smallest = _FORMATS[dtype.name]
    _, exponent = np.frexp(np.where(np.isfinite(values), values, 0.0))
    return np.ldexp(1.0, np.maximum(exponent - 1, smallest) - (precision - 1))


def describe_difference(good: Array, got: Array, want: Array) -> str | None:
    """The first three elements where `good` is false, or None when there are none."""
    bad = np.flatnonzero(~good)
    if not bad.size:
        return None
    shown = "; ".join(f"[{k}] is {_show(got[k])}, expected {_show(want[k])}" for k in bad[:3])
    return f"{bad.size} of {good.size} differ: {shown}"


def _show(value: Any) -> str:
    if isinstance(value, np.integer):
        return f"{int(value)} ({int(value) & (1 << 8 * value.itemsize) - 1:#x})"
    return repr(float(value)) if np.ndim(value) == 0 else str(value)


def exactly(want: ArrayLike) -> Check:
    """Bit-for-bit equality, whatever the two arrays' types; NaNs of floating results may differ in payload."""
    expected = np.asarray(want).ravel()

    def check(got: Array) -> str | None:
        flat = got.ravel()
        if flat.nbytes != expected.nbytes:
            return f"has {flat.nbytes} bytes, expected {expected.nbytes}"
        theirs = expected.view(flat.dtype)
        same = _bits(flat) == _bits(theirs)
        if flat.dtype.kind not in "iub":
            with np.errstate(all="ignore"):
                same |= np.isnan(flat.astype(np.float64)) & np.isnan(theirs.astype(np.float64))
        return describe_difference(same, flat, theirs)

    return check


def _bits(values: Array) -> Array:
    return values.view(f"u{values.dtype.itemsize}") if values.dtype.itemsize in (1, 2, 4, 8) else values


@dataclass
class Launch:
    """Arguments in parameter order, and a check for each array that is looked at afterwards.

    `expected` maps a parameter's index to a check or to the exact array; `output` is the exact printf text;
    `fault` is the kind of fault that must stop the launch, which its case tells; `varies` marks results that the ISA
    leaves to the machine (clock values, order of atomics), which are checked but not compared bit for bit with a GPU.
    """

    args: list[Any]
    expected: dict[int, Check | Array] = field(default_factory=dict)
    output: str | None = None
    fault: str | None = None
    varies: bool = False

    def mistakes(self) -> list[str]:
        """What is wrong with the arrays, now that the kernel has run."""
        found = []
        for index, want in self.expected.items():
            check = want if callable(want) else exactly(want)
            message = check(self.args[index])
            if message:
                found.append(f"argument {index}: {message}")
        return found


@dataclass(frozen=True)
class Case:
    """One kernel of the corpus. `build` makes its arguments and expectations from a seeded generator."""

    entry: str
    source: Source
    build: Callable[[np.random.Generator], Launch]
    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (32, 1, 1)
    cluster: tuple[int, int, int] = (1, 1, 1)
    dynamic_shared: int = 0
    archs: tuple[str, ...] = ("sm_80", "sm_90")
    fault: str | None = None
    """The kind of fault that must stop it, known before a launch is made."""

    def launch(self, variant: int = 0) -> Launch:
        """Fresh arguments: the same for every call with one variant, other random numbers for another."""
        launch = self.build(np.random.default_rng([variant, *self.entry.encode()]))
        launch.fault = self.fault
        return launch


class Family:
    """Collects the cases of one source file; `add` is a decorator for the function that builds a launch."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.cases: list[Case] = []

    def add(
        self,
        *,
        block: int | tuple[int, ...] = 32,
        grid: int | tuple[int, ...] = 1,
        entry: str | None = None,
        cluster: int | tuple[int, ...] = 1,
        dynamic_shared: int = 0,
        archs: tuple[str, ...] | None = None,
        fault: str | None = None,
    ) -> Callable[[Callable[[np.random.Generator], Launch]], Callable[[np.random.Generator], Launch]]:
        """Register the decorated function as the kernel `entry` (its own name unless given)."""

        def register(build: Callable[[np.random.Generator], Launch]) -> Callable[[np.random.Generator], Launch]:
            self.cases.append(
                Case(
                    entry or build.__name__,
                    self.source,
                    build,
                    _dim3(grid),
                    _dim3(block),
                    _dim3(cluster),
                    dynamic_shared,
                    self.source.archs if archs is None else archs,
                    fault,
                )
            )
            return build

        return register


def _dim3(extent: int | tuple[int, ...]) -> tuple[int, int, int]:
    sizes = (extent,) if isinstance(extent, int) else extent
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


def per_lane(formula: Callable[..., Iterable[Any]], columns: Sequence[Array], dtype: Any) -> Array:
    """Slots of a kernel that writes out[slot * lanes + lane]: `formula` maps one lane's inputs to its slots.

    Inputs arrive as Python numbers; integer results are wrapped to `dtype`.
    """
    rows = [list(formula(*values)) for values in zip(*(column.tolist() for column in columns), strict=True)]
    kind = np.dtype(dtype)
    if kind.kind not in "iu":
        return np.array(rows, kind).T.ravel()
    mask = (1 << 8 * kind.itemsize) - 1
    unsigned = np.array([[value & mask for value in row] for row in rows], f"u{kind.itemsize}")
    return unsigned.view(kind).T.copy().ravel()


def slots(values: Sequence[ArrayLike], dtype: Any) -> Array:
    """Slots given as whole arrays, one per slot, each of one lane's length."""
    return np.concatenate([np.asarray(value).astype(dtype).ravel() for value in values])


def words(rng: np.random.Generator, count: int, dtype: Any) -> Array:
    """Random integers of every magnitude: uniform bits shifted right by a uniform amount, with the corners first."""
    kind = np.dtype(dtype)
    bits = 8 * kind.itemsize
    raw = rng.integers(0, 1 << bits, count, dtype=f"u{kind.itemsize}", endpoint=False)
    raw >>= rng.integers(0, bits, count).astype(raw.dtype)
    flip = rng.integers(0, 2, count).astype(bool)
    raw[flip] = ~raw[flip]
    corners = [0, 1, (1 << bits) - 1, 1 << (bits - 1), (1 << (bits - 1)) - 1]
    raw[: len(corners)] = corners[:count]
    return raw.view(kind)
