# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes random kernels in cuTile: products of tiles that blocks go through in many orders, in loops of many forms, of
operands that lie and are loaded in many manners, with what is done with the results.

A kernel is put together of texts: lines of which each that ends in a colon opens a block, in which the rest stands.
Elements are small whole numbers, so that sums are exact in any order.
"""

from __future__ import annotations

import linecache
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import cuda.tile as ct
import ml_dtypes
import numpy as np

ELEMENTS = {
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float32": np.float32,
    "int8": np.int8,
    "int32": np.int32,
}
SUMS = {"float16": "float32", "bfloat16": "float32", "float8_e4m3fn": "float32", "int8": "int32"}
ZERO = "padding_mode=ct.PaddingMode.ZERO"


def within(lines: Sequence[str], body: Sequence[str]) -> list[str]:
    """Lines, and others in all the blocks that they open."""
    made, depth = [], 0
    for line in (*lines, *body):
        made.append("    " * depth + line)
        depth += len(made) <= len(lines) and line.endswith(":")
    return made


@dataclass(frozen=True)
class Order:
    """How blocks go through tiles: lines that give `i` and `j` of one, what ends a turn, and the grid for rows, columns
    and blocks of a persistent kernel."""

    lines: tuple[str, ...]
    grid: Callable[[int, int, int], tuple[int, ...]]
    last: tuple[str, ...] = ()


def _grid(rows: int, columns: int, blocks: int) -> tuple[int, ...]:
    return rows, columns


def _flat(rows: int, columns: int, blocks: int) -> tuple[int, ...]:
    return (rows * columns,)


def _persistent(rows: int, columns: int, blocks: int) -> tuple[int, ...]:
    return (blocks,)


_TILES = "for t in range(ct.bid(0), {rows} * {columns}, ct.num_blocks(0)):"
_SWIZZLE = (
    "first = t // ({group} * {columns}) * {group}",
    "height = min({rows} - first, {group})",
    "i = first + t % ({group} * {columns}) % height",
    "j = t % ({group} * {columns}) // height",
)
_ROW_BY_ROW = "i, j = t // {columns}, t % {columns}"
ORDERS = {
    "grid": Order(("i, j = ct.bid(0), ct.bid(1)",), _grid),
    "turned grid": Order(("i, j = ct.bid(1), ct.bid(0)",), lambda rows, columns, _: (columns, rows)),
    "swizzled": Order(("t = ct.bid(0)", *_SWIZZLE), _flat),
    "persistent": Order((_TILES, _ROW_BY_ROW), _persistent),
    "persistent by columns": Order((_TILES, "i, j = t % {rows}, t // {rows}"), _persistent),
    "persistent, swizzled": Order((_TILES, *_SWIZZLE), _persistent),
    "persistent, from the end": Order((_TILES, _ROW_BY_ROW, "i = {rows} - 1 - i"), _persistent),
    "persistent, of a triangle": Order((_TILES, _ROW_BY_ROW, "if i <= j:"), _persistent),
    "persistent, whatever turns": Order(
        ("t = ct.bid(0)", "while t < {rows} * {columns}:", _ROW_BY_ROW), _persistent, ("t += ct.num_blocks(0)",)
    ),
    "loops in loops": Order(
        ("for i in range(ct.bid(0), {rows}, ct.num_blocks(0)):", "for j in range({columns}):"), _persistent
    ),
}

LOOPS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "counted": (("for k in range({turns}):",), ()),
    "from one on": (("for k in range(1, {turns}):",), ()),
    "as far as the row": (("for k in range(min(i + 1, {turns})):",), ()),
    "some turns": (("for k in range({turns}):", "if k % 2 == 0:"), ()),
    "whatever turns": (("k = 0", "while k < {turns}:"), ("k += 1",)),
}
"""Loops over the depth: their lines, and what ends a turn."""

_LOAD = "ct.load({x}, ({i}, {j}), ({h}, {w}), " + ZERO + ")"
_ACROSS = "({j} * {w} + ct.arange({w}, dtype=ct.int32))[None, :]"
_DOWN = "({i} * {h} + ct.arange({h}, dtype=ct.int32))"
OPERANDS = {
    "plain": _LOAD,
    "by threads": _LOAD.replace("ZERO)", "ZERO, allow_tma=False)"),
    "in order": _LOAD.replace("ZERO)", "ZERO, order=(1, 0))"),
    "transposed": "ct.transpose(ct.load({x}, ({j}, {i}), ({w}, {h}), " + ZERO + "))",
    "of a batch": "ct.load({x}, (1, {i}, {j}), (1, {h}, {w}), " + ZERO + ").reshape(({h}, {w}))",
    "gathered": "ct.gather({x}, (" + _DOWN + "[:, None], " + _ACROSS + "))",
    "wrapped": "ct.gather({x}, ((" + _DOWN + " % {rows})[:, None], " + _ACROSS + "))",
    "shifted": "ct.gather({x}, ((" + _DOWN + " - 1)[:, None], " + _ACROSS + "))",
    "clamped": "ct.maximum(" + _LOAD + ", 0)",
    "of two": _LOAD + " + " + _LOAD,
    "narrow": "ct.astype(" + _LOAD + ", ct.{element})",
}
TURNED = ("in order", "transposed")
COMPUTED = ("clamped", "of two")
"""What arithmetic gives, which 8-bit floats have not."""

CHANGES = {
    "nothing": "acc",
    "negated": "-acc",
    "clamped": "ct.maximum(acc, 0)",
    "told by the tile": "acc + ct.astype(i * 3 + j, acc.dtype)",
    "less its rows' least": "acc - ct.min(acc, axis=1, keepdims=True)",
    "masked": "ct.where((i * {m} + ct.arange({m}, dtype=ct.int32))[:, None] >= "
    "(j * {n} + ct.arange({n}, dtype=ct.int32))[None, :], acc, 0)",
}  # fmt: skip

STORES = {
    "plain": "ct.store({x}, (i, j), {tile})",
    "by threads": "ct.store({x}, (i, j), {tile}, allow_tma=False)",
    "in order": "ct.store({x}, (i, j), {tile}, order=(1, 0))",
    "transposed": "ct.store({x}, (j, i), ct.transpose({tile}))",
    "scattered": "ct.scatter({x}, ((i * {m} + ct.arange({m}, dtype=ct.int32))[:, None], "
    "(j * {n} + ct.arange({n}, dtype=ct.int32))[None, :]), {tile})",
    "added": "ct.store({x}, (i, j), {tile} + ct.load({x}, (i, j), ({m}, {n}), " + ZERO + "))",
    "by atomics": "ct.atomic_add({x}, ((i * {m} + ct.arange({m}, dtype=ct.int32))[:, None], "
    "(j * {n} + ct.arange({n}, dtype=ct.int32))[None, :]), acc)",
}


@dataclass(frozen=True)
class Array:
    """An array: its shape, how far apart its rows lie beyond their length, and whether it is a result."""

    name: str
    shape: tuple[int, ...]
    element: str
    apart: int
    written: bool = False

    def content(self, rng: np.random.Generator) -> np.ndarray[Any, Any]:
        whole = rng.integers(-2, 3, (*self.shape[:-1], self.shape[-1] + self.apart))
        return whole.astype(ELEMENTS[self.element])[..., : self.shape[-1]]


@dataclass
class RandomKernel:
    """The kernel of a seed."""

    seed: int
    arrays: list[Array] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = random.Random(f"cutile {self.seed}")
        self.element = self.random.choices([*SUMS], [5, 3, 2, 2])[0]
        self.sum = SUMS[self.element]
        least = 16 if self.element in ("float16", "bfloat16") else 32
        self.m, self.n = self.random.choice([16, 32, 64, 64, 128]), self.random.choice([16, 32, 64])
        self.k = self.random.choice([least, 32, 64])
        self.rows, self.columns = self.random.choice([(1, 1), (2, 1), (1, 3), (2, 2), (3, 2), (9, 2)])
        self.turns = self.random.choice([1, 2, 3, 4])
        self.sizes = [self.ragged(*of) for of in ((self.rows, self.m), (self.columns, self.n), (self.turns, self.k))]
        self.order = self.random.choice([*ORDERS])
        self.blocks = self.random.choice([1, 2, 3, 7])
        self.grid = ORDERS[self.order].grid(self.rows, self.columns, self.blocks)
        self.lines = self._lines()

    def ragged(self, count: int, tile: int) -> int:
        """The extent of so many tiles, of which the last one is whole or not."""
        return count * tile - self.random.choice([0, 0, 8, self.random.randrange(tile)])

    def number(self, value: int) -> str:
        """A number that the compiler knows, or an argument."""
        if self.random.random() < 0.5:
            return str(value)
        name = f"n{len(self.numbers)}"
        self.numbers[name] = value
        return name

    def array(self, shape: Sequence[int], element: str, written: bool = False) -> Array:
        apart = self.random.choice([0, 0, -shape[-1] % 16, 3])
        self.arrays.append(Array(f"x{len(self.arrays)}", tuple(shape), element, apart, written))
        return self.arrays[-1]

    # -- parts --------------------------------------------------------------------------------------------------------

    def operand(self, sizes: Sequence[int], tile: Sequence[int], i: str, j: str) -> str:
        """The expression of a tile of a matrix of these sizes."""
        narrow = self.element in ("int8", "float8_e4m3fn")
        manner = self.random.choice([m for m in OPERANDS if not (narrow and m in (*COMPUTED, "narrow"))])
        shape = sizes[::-1] if manner in TURNED else (2, *sizes) if manner == "of a batch" else sizes
        x = self.array(shape, "int8" if manner == "narrow" else self.element)
        return OPERANDS[manner].format(
            x=x.name, i=i, j=j, h=tile[0], w=tile[1], rows=self.number(sizes[0]), element=self.element
        )

    def store(self) -> str:
        manner = self.random.choice([*STORES])
        element = self.random.choice([self.sum, "float16"]) if self.sum == "float32" else self.sum
        if manner == "by atomics":
            element = self.sum
        shape = self.sizes[1::-1] if manner in ("in order", "transposed") else self.sizes[:2]
        x = self.array(shape, element, written=True)
        tile = f"ct.astype(acc, ct.{element})"
        return STORES[manner].format(x=x.name, tile=tile, m=self.m, n=self.n)

    def _lines(self) -> list[str]:
        height, width, depth = self.sizes
        sums = ["acc", "other"][: self.random.choice([1, 1, 2])]
        turn = []
        for total in sums:
            left = self.operand((height, depth), (self.m, self.k), "i", "k")
            right = self.operand((depth, width), (self.k, self.n), "k", "j")
            turn += [f"a, b = {left}, {right}", f"{total} = ct.mma(a, b, {total})"]
        loop, last = LOOPS[self.random.choice([*LOOPS])]
        loop = tuple(line.format(turns=self.number(self.turns)) for line in loop)
        whole = within(loop, turn)
        whole += ["    " + line for line in last]
        tile = [f"{total} = ct.zeros(({self.m}, {self.n}), dtype=ct.{self.sum})" for total in sums]
        tile += whole
        if len(sums) > 1:
            tile.append(self.random.choice(["acc = acc + other", "acc = ct.maximum(acc, other)"]))
        tile.append("acc = " + CHANGES[self.random.choice([*CHANGES])].format(m=self.m, n=self.n))
        tile += [self.store() for _ in range(self.random.choice([1, 1, 2]))]
        order = ORDERS[self.order]
        sizes = {"rows": self.number(self.rows), "columns": self.number(self.columns)}
        sizes["group"] = str(self.random.choice([1, 2, 8]))
        made = within([line.format(**sizes) for line in order.lines], tile)
        return made + ["    " + line for line in order.last]

    # -- the kernel ---------------------------------------------------------------------------------------------------

    @property
    def source(self) -> str:
        parameters = ", ".join([*(x.name for x in self.arrays), *self.numbers])
        return "\n".join([f"def kernel({parameters}):", *("    " + line for line in self.lines), ""])

    def kernel(self) -> Any:
        """The kernel, whose source cuTile reads as that of a module."""
        name = f"random-kernel-{self.seed}.py"
        linecache.cache[name] = len(self.source), None, self.source.splitlines(keepends=True), name
        names: dict[str, Any] = {"ct": ct}
        exec(compile(self.source, name, "exec"), names)
        return ct.kernel(names["kernel"])

    def arguments(self) -> list[Any]:
        """Fresh arguments, the same each time."""
        rng = np.random.default_rng(self.seed)
        return [*(x.content(rng) for x in self.arrays), *self.numbers.values()]

    def results(self, arguments: Sequence[Any]) -> dict[str, np.ndarray[Any, Any]]:
        return {x.name: a for x, a in zip(self.arrays, arguments) if x.written}
