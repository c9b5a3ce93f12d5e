# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What random kernels around products are written with: tiles, tensors in memory, loops.

A kernel has its sizes first (tiles, their number, turns), then lines, in the order in which parts of it are made.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from generators.core import Parameter
from generators.values import Bounds, storage, width

OPERANDS = {"f16": ("f32", "f16"), "bf16": ("f32",), "f8E4M3FN": ("f32", "f16"), "f8E5M2": ("f32",), "tf32": ("f32",),
             "i8": ("i32",), "f32": ("f32",), "f64": ("f64",)}  # fmt: skip
WEIGHTS = {"f16": 8, "bf16": 3, "f8E4M3FN": 3, "f8E5M2": 1, "tf32": 2, "i8": 2, "f32": 1, "f64": 1}
WORK = 1 << 23
"""Multiplications of a kernel at most, over its whole grid."""
TILES = 1 << 15
"""Elements of one tile at most, and twice as many of accumulators."""


@dataclass(frozen=True)
class Tile:
    """A tile in the program: its name, shape and element type."""

    name: str
    shape: tuple[int, ...]
    element: str

    def __str__(self) -> str:
        return self.name

    @property
    def type(self) -> str:
        return f"tile<{'x'.join([*map(str, self.shape), self.element])}>"

    @property
    def scalar(self) -> str:
        return f"tile<{self.element}>"


@dataclass(frozen=True)
class Tensor:
    """A tensor in memory: its view, and the type of that."""

    name: str
    type: str
    element: str


Listed = tuple[list[str], list[str]]
Turn = Callable[[Tile, list[Tile]], list[Tile]]


@dataclass
class Part:
    """Lines of the program at a depth."""

    depth: int
    lines: list[str] = field(default_factory=list)


class Kernel:
    """One kernel in the making."""

    def __init__(self, seed: int):
        self.seed = seed
        self.random = random.Random(f"tensors {seed}")
        self.parameters: list[Parameter] = []
        self.count = 0
        self.part = Part(2)
        self.features: list[str] = []
        self.pitch = 0
        """How far apart the outermost elements of the last tensor lie."""
        self.element = self.random.choices([*WEIGHTS], [*WEIGHTS.values()])[0]
        self.sum = self.random.choice(OPERANDS[self.element])
        self.plain = False
        """Whether operands are such as TMA copies."""
        self.bounds: Bounds = (-1, 1) if self.sum == "f16" else (-2, 2)
        self.m, self.n, self.k = self._tile_sizes()
        self.rows, self.columns = self.random.choice([(1, 1), (2, 1), (1, 2), (2, 2), (3, 1)])
        self.turns = self.random.choice([1, 2, 3, 4, 5, 6])
        while self.rows * self.columns * self.turns * self.m * self.n * self.k > WORK and self.turns > 2:
            self.turns -= 1
        while self.rows * self.columns * self.turns * self.m * self.n * self.k > WORK and self.rows * self.columns > 1:
            self.rows, self.columns = (self.rows, 1) if self.columns > 1 else (1, 1)
        self.persistent = self.chance(0.25)
        self.blocks = self.random.choice([1, 2, 3]) if self.persistent else self.rows * self.columns

    def _tile_sizes(self) -> tuple[int, int, int]:
        m = self.random.choice([16, 32, 64, 64, 128, 128, 128, 256])
        n = self.random.choice([8, 16, 32, 64, 64, 128, 128, 256])
        k = self.random.choice([16, 32, 64, 64, 128]) * (2 if width(self.element) == 8 else 1)
        if self.element in ("f32", "f64"):
            m, n, k = min(m, 64), min(n, 64), min(k, 32)
        while m * n > 2 * TILES:
            m //= 2
        while max(m, n) * k > TILES:
            k //= 2
        return m, n, k

    # -- writing ------------------------------------------------------------------------------------------------------

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def name(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def emit(self, text: str) -> None:
        self.part.lines.append("  " * self.part.depth + text)

    def let(self, text: str, shape: Sequence[int] = (), element: str = "i32") -> Tile:
        tile = Tile(self.name(), tuple(shape), element)
        self.emit(f"{tile} = {text}")
        return tile

    def constant(self, number: float, shape: Sequence[int] = (), element: str = "i32") -> Tile:
        shown = str(int(number)) if element.startswith("i") else f"{float(number):.6e}"
        tile = Tile("", tuple(shape), element)
        return self.let(f"constant <{element}: {shown}> : {tile.type}", shape, element)

    def scalar(self, number: int) -> Tile:
        """A number that is an argument: the compiler has to take it for any."""
        name = f"%n{len(self.parameters)}"
        self.parameters.append(Parameter(name, "i32", 0, (number, number)))
        return Tile(name, (), "i32")

    def number(self, number: int, hidden: float = 0.4) -> Tile:
        return self.scalar(number) if self.chance(hidden) else self.constant(number)

    def spread(self, tile: Tile, shape: tuple[int, ...]) -> Tile:
        if tile.shape == shape:
            return tile
        if not tile.shape:
            ones = Tile("", (1,) * len(shape), tile.element)
            tile = self.let(f"reshape {tile} : {tile.type} -> {ones.type}", ones.shape, tile.element)
        wide = Tile("", shape, tile.element)
        return self.let(f"broadcast {tile} : {tile.type} -> {wide.type}", shape, tile.element)

    # -- memory -------------------------------------------------------------------------------------------------------

    def tensor(self, element: str, sizes: Sequence[int], order: Sequence[int] | None = None,
               bounds: Bounds | None = None, written: bool = False) -> Tensor:  # fmt: skip
        """An array as a tensor; `order` are its dimensions, from the one that lies farthest apart to the dense one."""
        order = list(range(len(sizes))) if order is None else list(order)
        aligned = self.chance(0.8) or self.plain
        per_16 = 16 // storage(element).itemsize
        strides, step = [0] * len(sizes), 1
        for dim in reversed(order):
            strides[dim] = step
            step *= sizes[dim]
            if dim == order[-1]:
                step = -(-step // per_16) * per_16 if aligned else step + self.random.choice([0, 1, 3])
        self.pitch = max(strides)
        size = 1 + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
        name = f"%p{len(self.parameters)}"
        bounds = (0, 1) if written else bounds or self.bounds
        self.parameters.append(Parameter(name, element, size + self.random.choice([0, 7]), bounds, written))
        base = name
        if aligned or self.chance(0.5):
            base = str(self.let(f"assume div_by<16>, {name} : tile<ptr<{element}>>", (), f"ptr<{element}>"))
        shape, shape_types = self._extents(sizes, aligned, per_16, False)
        steps, step_types = self._extents(strides, aligned, per_16, True)
        listed = "x".join([*shape_types, element])
        type_ = f"tensor_view<{listed}, strides=[{','.join(step_types)}]>"
        dynamic = "tile<i32> -> " if "?" in (*shape_types, *step_types) else ""
        view = self.name()
        self.emit(f"{view} = make_tensor_view {base}, shape = [{', '.join(shape)}], strides = [{', '.join(steps)}] : "
                  f"{dynamic}{type_}")  # fmt: skip
        return Tensor(view, type_, element)

    def _extents(
        self, numbers: Sequence[int], aligned: bool, unit: int, keep_ones: bool
    ) -> tuple[list[str], list[str]]:
        operands, types = [], []
        hidden = self.chance(0.6)
        for number in numbers:
            if not hidden or (keep_ones and number == 1):
                operands.append(str(number))
                types.append(str(number))
                continue
            value = self.scalar(number)
            if aligned and number % unit == 0:
                value = self.let(f"assume div_by<{unit}>, {value} : tile<i32>")
            value = self.let(f"assume bounded<0, ?>, {value} : tile<i32>")
            operands.append(str(value))
            types.append("?")
        return operands, types

    def view(self, tensor: Tensor, tile: Sequence[int], padding: str = "", dims: Sequence[int] | None = None) -> Tensor:
        members = [f"tile=({'x'.join(map(str, tile))})"]
        if padding:
            members.append(f"padding_value = {padding}")
        members.append(tensor.type)
        if dims is not None and list(dims) != sorted(dims):
            members.append(f"dim_map={list(dims)}")
        type_ = f"partition_view<{', '.join(members)}>"
        name = self.name()
        self.emit(f"{name} = make_partition_view {tensor.name} : {type_}")
        return Tensor(name, type_, tensor.element)

    def load(self, view: Tensor, index: Sequence[Tile], shape: Sequence[int], token: str = "") -> Tile:
        tile = Tile(self.name(), tuple(shape), view.element)
        order = f" token = {token}" if token else ""
        hint = ""
        if self.chance(0.2):
            hint = self.random.choice(["allow_tma = false", "latency = 2", "latency = 8", "allow_tma = true"])
            target = self.random.choice(["sm_80", "sm_90", "sm_100", "sm_120"])
            hint = f" optimization_hints = <{target} = {{{hint}}}>"
        place = ", ".join(map(str, index))
        self.emit(f"{tile}, {self.name()} = load_view_tko weak {view.name}[{place}]{order}{hint} : "
                  f"{view.type}, tile<i32> -> {tile.type}, token")  # fmt: skip
        return tile

    def store(self, tile: Tile, view: Tensor, index: Sequence[Tile], token: str = "") -> str:
        made = self.name()
        order = f" token = {token}" if token else ""
        place = ", ".join(map(str, index))
        self.emit(f"{made} = store_view_tko weak {tile}, {view.name}[{place}]{order} : {tile.type}, "
                  f"{view.type}, tile<i32> -> token")  # fmt: skip
        return made

    # -- values -------------------------------------------------------------------------------------------------------

    def cast(self, tile: Tile, element: str) -> Tile:
        if tile.element == element:
            return tile
        wide = Tile("", tile.shape, element)
        whole = tile.element.startswith("i"), element.startswith("i")
        if whole == (False, False):
            return self.let(f"ftof {tile} : {tile.type} -> {wide.type}", tile.shape, element)
        if whole == (True, False):
            return self.let(f"itof {tile} signed : {tile.type} -> {wide.type}", tile.shape, element)
        if whole == (False, True):
            return self.let(f"ftoi {tile} signed : {tile.type} -> {wide.type}", tile.shape, element)
        op = "exti" if width(element) > width(tile.element) else "trunci"
        sign = " signed" if op == "exti" else ""
        return self.let(f"{op} {tile}{sign} : {tile.type} -> {wide.type}", tile.shape, element)

    def binary(self, op: str, a: Tile, b: Tile) -> Tile:
        whole = a.element.startswith("i")
        name = op + ("i" if whole else "f")
        sign = " signed" if whole and op in ("max", "min") else ""
        return self.let(f"{name} {a}, {b}{sign} : {a.type}", a.shape, a.element)

    def product(self, a: Tile, b: Tile, acc: Tile) -> Tile:
        types = f"{a.type}, {b.type}, {acc.type}"
        if a.element == "i8":
            return self.let(f"mmai {a}, {b}, {acc} signed signed : {types}", acc.shape, acc.element)
        fast = " fast_acc" if a.element.startswith("f8") and acc.element == "f32" and self.chance(0.3) else ""
        return self.let(f"mmaf {a}, {b}, {acc}{fast} : {types}", acc.shape, acc.element)

    def clamped(self, tile: Tile) -> Tile:
        """The tile within the bounds of operands."""
        low, high = (self.constant(b, tile.shape, tile.element) for b in self.bounds)
        return self.binary("max", self.binary("min", tile, high), low)

    def row_sums(self, tile: Tile) -> Tile:
        zero = "0 : i32" if tile.element == "i32" else f"0.000000e+00 : {tile.element}"
        add = "addi" if tile.element == "i32" else "addf"
        made = Tile(self.name(), tile.shape[:1], tile.element)
        self.emit(f"{made} = reduce {tile} dim=1 identities=[{zero}] : {tile.type} -> {made.type}")
        self.emit(f"(%x: {tile.scalar}, %y: {tile.scalar}) {{")
        self.emit(f"  %sum = {add} %x, %y : {tile.scalar}")
        self.emit(f"  yield %sum : {tile.scalar}")
        self.emit("}")
        return made

    def row_maxima(self, tile: Tile) -> Tile:
        """The largest of each row, as a column."""
        made = Tile(self.name(), tile.shape[:1], tile.element)
        self.emit(f"{made} = reduce {tile} dim=1 identities=[0xFF800000 : f32] : {tile.type} -> {made.type}")
        self.emit(f"(%x: {tile.scalar}, %y: {tile.scalar}) {{")
        self.emit(f"  %most = maxf %x, %y : {tile.scalar}")
        self.emit(f"  yield %most : {tile.scalar}")
        self.emit("}")
        column = Tile("", (tile.shape[0], 1), tile.element)
        return self.let(f"reshape {made} : {made.type} -> {column.type}", column.shape, tile.element)

    # -- loops --------------------------------------------------------------------------------------------------------

    def ragged(self, count: int, size: int) -> int:
        """The extent of a tensor of so many tiles: the last one whole or not."""
        extent = count * size
        return extent if self.chance(0.6) else max(extent - self.random.randint(1, size - 1), 1)

    def loop(self, turns: int, carried: list[Tile], body: Turn) -> list[Tile]:
        """A `for` over turns, which carries tiles."""
        first = self.random.choice([0, 0, 0, 1]) if turns > 1 else 0
        low, high, step = self.constant(first), self.number(turns), self.constant(1)
        if self.chance(0.08):
            return self._endless(low, high, step, carried, body)
        iv = Tile(self.name(), (), "i32")
        inner = [Tile(self.name(), t.shape, t.element) for t in carried]
        result = self.name()
        pairs = ", ".join(f"{i} = {t}" for i, t in zip(inner, carried, strict=True))
        types = ", ".join(t.type for t in carried)
        self.emit(f"{result}:{len(carried)} = for {iv} in ({low} to {high}, step {step}) : tile<i32> "
                  f"iter_values({pairs}) -> ({types}) {{")  # fmt: skip
        self.part.depth += 1
        made = body(iv, inner)
        self.emit(f"continue {', '.join(map(str, made))} : {types}")
        self.part.depth -= 1
        self.emit("}")
        return [Tile(f"{result}#{i}", t.shape, t.element) for i, t in enumerate(carried)]

    def _endless(self, low: Tile, high: Tile, step: Tile, carried: list[Tile], body: Turn) -> list[Tile]:
        """The same as a `loop` that a condition leaves."""
        self.features.append("loop")
        inner = [Tile(self.name(), t.shape, t.element) for t in (low, *carried)]
        result = self.name()
        pairs = ", ".join(f"{i} = {t}" for i, t in zip(inner, (low, *carried), strict=True))
        types = ", ".join(t.type for t in (low, *carried))
        self.emit(f"{result}:{len(inner)} = loop iter_values({pairs}) : {types} -> {types} {{")
        self.part.depth += 1
        done = self.let(f"cmpi greater_than_or_equal {inner[0]}, {high}, signed : tile<i32> -> tile<i1>", (), "i1")
        self.emit(f"if {done} {{")
        self.emit(f"  break {', '.join(map(str, inner))} : {types}")
        self.emit("}")
        made = body(inner[0], inner[1:])
        more = self.binary("add", inner[0], step)
        self.emit(f"continue {', '.join(map(str, (more, *made)))} : {types}")
        self.part.depth -= 1
        self.emit("}")
        return [Tile(f"{result}#{i + 1}", t.shape, t.element) for i, t in enumerate(carried)]

    def sums(self) -> Tile:
        return self.constant(self.random.choice([0, 0, 0, 1]), (self.m, self.n), self.sum)
