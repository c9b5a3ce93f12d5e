# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Types and values of a random program, and what is known about a value while the program is being written."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

import numpy as np

from libtile.interpreter.formats import ELEMENTS
from libtile.numerics.text import float_text, integer_text

INTEGERS = ("i1", "i8", "i16", "i32", "i64")
WIDE_INTEGERS = INTEGERS[1:]
FLOATS = ("f16", "bf16", "f32", "f64")
"""The float types that have arithmetic."""
NARROW_FLOATS = ("tf32", "f8E4M3FN", "f8E5M2", "f8E8M0FNU", "f4E2M1FN")
"""Those that are only converted, moved and multiplied as matrices."""
ALL = (*INTEGERS, *FLOATS, *NARROW_FLOATS)

Bounds = tuple[int, int]


@dataclass(frozen=True)
class Type:
    """A tile type: element (as `f32` or `ptr<f32>`) and shape."""

    element: str
    shape: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"tile<{'x'.join([*map(str, self.shape), self.element])}>"

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def is_integer(self) -> bool:
        return self.element in INTEGERS

    @property
    def is_float(self) -> bool:
        return self.element in ELEMENTS and ELEMENTS[self.element].is_float

    def of(self, element: str) -> Type:
        return Type(element, self.shape)

    def shaped(self, shape: tuple[int, ...]) -> Type:
        return Type(self.element, shape)


TOKEN = "token"


@dataclass(frozen=True)
class Value:
    """A name in the program.

    `bounds` are known to hold all elements: integers read as signed, floats that are then whole numbers and exact.
    `bits` tells whether every bit has one right value: the sign and the payload of a computed NaN have none.
    """

    name: str
    type: Type
    bounds: Bounds | None = None
    bits: bool = True

    def __str__(self) -> str:
        return self.name


def width(element: str) -> int:
    return ELEMENTS[element].width


def signed_range(element: str) -> Bounds:
    half = 1 << (width(element) - 1)
    return -half, half - 1


def exact_integers(element: str) -> int:
    """Whole numbers up to this magnitude are values of the float type, and so are their sums as long as they fit."""
    form = ELEMENTS[element].float
    if form is None:
        raise ValueError(f"{element} is not a float type")
    return int(min(2.0**form.precision, form.top))


def fitting(element: str, bounds: Bounds | None) -> Bounds | None:
    """The bounds if all that they hold are exact values of the type; None otherwise."""
    if bounds is None or element == "i1":
        return None
    if element in INTEGERS or element == "i4":
        low, high = signed_range(element)
    else:
        form = ELEMENTS[element].float
        high = exact_integers(element)
        low = -high if form is not None and form.signed else 1
        if element == "f8E8M0FNU":
            low, high = 1, 1
    return bounds if low <= bounds[0] and bounds[1] <= high else None


# -- data -------------------------------------------------------------------------------------------------------------


def storage(element: str) -> np.dtype:
    """The unsigned numpy type that holds one element's bits in memory; two 4-bit ones share a byte."""
    return np.dtype(f"u{max(ELEMENTS[element].storage_bits // 8, 1)}")


def random_bits(rng: np.random.Generator, element: str, count: int, bounds: Bounds | None = None) -> np.ndarray:
    """Bit patterns of `count` elements: whole numbers within the bounds, or else all kinds of values."""
    elem, dtype = ELEMENTS[element], storage(element)
    if bounds is not None:
        numbers = rng.integers(bounds[0], bounds[1], count, endpoint=True)
        return _bits_of(numbers, element)
    raw = rng.integers(0, 2**64, count, np.uint64, endpoint=False).astype(dtype)
    if element == "i1":
        return np.where(rng.random(count) < 0.9, raw & 1, raw)
    if element == "tf32":
        raw &= np.uint32(0xFFFFE000)
    if element in ("f8E4M3FN", "f8E5M2", "f8E8M0FNU"):
        return raw
    if elem.width == 4:
        return raw & 15
    if elem.is_integer:
        low, high = signed_range(element)
        special = np.array([0, 1, -1, low, high, low + 1, high - 1, 2, 3, 7, -8], dtype=object)
        chosen = np.array([int(v) & (2**elem.width - 1) for v in rng.choice(special, count)], np.uint64)
        small = rng.integers(-40, 40, count).astype(np.int64).view(np.uint64)
        kind = rng.random(count)
        return np.where(kind < 0.4, small.astype(dtype), np.where(kind < 0.6, chosen.astype(dtype), raw))
    tiny = elem.float.smallest_normal
    top = elem.float.top
    special = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, tiny, -tiny / 2, top, -top, 0.5, 1.5])
    ordinary = rng.standard_normal(count) * np.exp2(rng.integers(-4, 5, count))
    kind = rng.random(count)
    with np.errstate(over="ignore", under="ignore"):
        numbers = np.where(kind < 0.7, ordinary, np.where(kind < 0.85, np.round(ordinary), rng.choice(special, count)))
        bits = _bits_of(numbers, element)
    if element == "tf32":
        bits &= np.uint32(0xFFFFE000)
    return np.where((kind > 0.97) & (element != "tf32"), raw, bits).astype(dtype)


def _bits_of(numbers: np.ndarray, element: str) -> np.ndarray:
    elem = ELEMENTS[element]
    if elem.is_integer:
        return numbers.astype(np.int64).view(np.uint64).astype(storage(element)) & np.array(
            2**elem.width - 1, np.uint64
        ).astype(storage(element))
    return numbers.astype(elem.dtype).view(storage(element))


def packed(bits: np.ndarray, element: str) -> np.ndarray:
    """The array in memory: 4-bit elements two to a byte, the first in the lower half."""
    return bits if width(element) != 4 else (bits[::2] | bits[1::2] << 4).astype(np.uint8)


def literal(bits: int, element: str) -> str:
    """A constant's element."""
    if element in INTEGERS or element == "i4":
        return integer_text(bits & (2 ** width(element) - 1), width(element))
    if element == "tf32":
        bits >>= 13
    return float_text(bits, element)


def dense(bits: np.ndarray, element: str, shape: tuple[int, ...]) -> str:
    """Nested lists of a constant's elements."""
    if not shape:
        return literal(int(bits.reshape(-1)[0]), element)
    return "[" + ", ".join(dense(row, element, shape[1:]) for row in bits.reshape(shape)) + "]"


def powers(total: int, rank: int, rng: random.Random) -> tuple[int, ...]:
    """A random shape of `rank` dimensions with 2**total elements."""
    exponents = [0] * rank
    for _ in range(total if rank else 0):
        exponents[rng.randrange(rank)] += 1
    return tuple(1 << e for e in exponents)
