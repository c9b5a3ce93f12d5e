# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rows of the matrix products: every combination of element types, on tiles below, at and above a fragment's size."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from libtile.dialects.cuda_tile.verify.mma import ACCUMULATORS, BLOCK_SIZES, SCALED_OPERANDS
from libtile.interpreter.formats import ELEMENTS, to_bits
from matrix.kernel import Input, Result, Row, Shape, Writer, tile

#: Batch (0: none), rows, columns and depth.
SIZES = (
    (0, 1, 1, 1),
    (0, 2, 4, 8),
    (0, 16, 8, 16),
    (0, 32, 16, 64),
    (0, 64, 64, 32),
    (0, 8, 128, 4),
    (2, 16, 8, 32),
    (4, 1, 16, 2),
)
SCALED_SIZES = ((0, 16, 8, 32), (0, 64, 32, 64), (0, 2, 4, 128), (2, 16, 16, 64))


def small(element: str, seed: int, scale: float = 1.0, low: int = -2) -> Callable[[int], np.ndarray]:
    """Whole numbers from `low` to 2, times a factor: sums of their products are exact in every accumulator."""
    elem = ELEMENTS[element]

    def numbers(count: int) -> np.ndarray:
        chosen = np.random.default_rng(seed).integers(low, 3, count) * scale
        return to_bits(chosen.astype(np.float32).astype(elem.dtype), elem)

    return numbers


def powers(element: str, seed: int, low: int, high: int) -> Callable[[int], np.ndarray]:
    """Powers of two."""
    elem = ELEMENTS[element]

    def numbers(count: int) -> np.ndarray:
        exponents = np.random.default_rng(seed).integers(low, high, count)
        return to_bits(np.exp2(exponents.astype(np.float32)).astype(elem.dtype), elem)

    return numbers


def _shapes(size: tuple[int, int, int, int]) -> tuple[Shape, Shape, Shape]:
    batch, m, n, k = size
    front = (batch,) if batch else ()
    return (*front, m, k), (*front, k, n), (*front, m, n)


def _product(
    op: str, elements: tuple[str, ...], shapes: tuple[Shape, ...], inputs: tuple[Input, ...], flags: str, name: str
) -> Row:
    def body(w: Writer, *names: str) -> list[str]:
        types = ", ".join(tile(e, s) for e, s in zip(elements, shapes))
        return [w.let(f"{op} {', '.join(names)} {flags} : {types}")]

    return Row(
        op,
        f"{' '.join(elements)} {name} {flags}",
        inputs,
        (Result(elements[2], shapes[2]),),
        body,
        elements=frozenset(elements),
    )


def floats() -> Iterator[Row]:
    for operand, accumulators in ACCUMULATORS.items():
        for acc in accumulators:
            for size in SIZES:
                shapes = _shapes(size)
                inputs = tuple(
                    Input(e, s, i, small(e, i)) for i, (e, s) in enumerate(zip((operand, operand, acc), shapes))
                )
                for flags in ("", "fast_acc") if operand.startswith("f8") else ("",):
                    yield _product("mmaf", (operand, operand, acc), shapes, inputs, flags, str(size))


def integers() -> Iterator[Row]:
    for size in SIZES:
        shapes = _shapes(size)
        elements = ("i8", "i8", "i32")
        inputs = tuple(Input(e, s, i) for i, (e, s) in enumerate(zip(elements, shapes)))
        for lhs in ("signed", "unsigned"):
            for rhs in ("signed", "unsigned"):
                yield _product("mmai", elements, shapes, inputs, f"{lhs} {rhs}", str(size))


def scaled() -> Iterator[Row]:
    for scale, operands in SCALED_OPERANDS.items():
        for operand in operands:
            for block in BLOCK_SIZES.get((operand, scale), (32,)):
                for size in SCALED_SIZES:
                    if operand == "f4E2M1FN" and size[2] % 2:
                        continue
                    yield from _scaled(operand, scale, block, size)


def _scaled(operand: str, scale: str, block: int, size: tuple[int, int, int, int]) -> Iterator[Row]:
    lhs, rhs, acc = _shapes(size)
    shapes = (lhs, rhs, acc, (*lhs[:-1], lhs[-1] // block), (*rhs[:-2], rhs[-2] // block, rhs[-1]))
    elements = (operand, operand, "f32", scale, scale)
    ranges = {"moderate": ((-3, 4), (-3, 4))}
    if scale == "f8E8M0FNU":
        # Factors beyond the range of f32 whose products are ordinary numbers, and products that overflow or underflow.
        ranges |= {"opposite": ((122, 128), (-127, -121)), "huge": ((66, 128),) * 2, "tiny": ((-127, -76),) * 2}
    for name, (left, right) in ranges.items():
        low = 0 if name == "huge" else -2  # no difference of infinities
        inputs = (
            Input(operand, lhs, 0, small(operand, 0, low=low)),
            Input(operand, rhs, 1, small(operand, 1, low=low)),
            Input("f32", acc, 2, small("f32", 2, 2.0**-6, 1 if name == "tiny" else -2)),
            Input(scale, shapes[3], 3, powers(scale, 3, *left)),
            Input(scale, shapes[4], 4, powers(scale, 4, *right)),
        )
        yield _product("mmaf_scaled", elements, shapes, inputs, "", f"{size} blocks of {block}, {name} factors")


TABLE: dict[str, Callable[[], Iterator[Row]]] = {"mmaf": floats, "mmai": integers, "mmaf_scaled": scaled}
