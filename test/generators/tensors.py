# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random kernels as people write them: products in loops over views of tensors, with what stands around them.

The other profiles put ops together at random, and tiles stay small. These kernels have the shapes that copies by TMA,
rings, agents and the tensor cores' larger instructions are made for: tiles of up to 256 x 256 with loops over K;
operands that are transposed, gathered, cast or computed; chains of two products; attention; persistent loops over
tiles; epilogues; results that are read again.

Elements are small whole numbers, so that sums are exact in any order.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from generators.core import Comparison, Parameter, Program
from generators.values import Bounds, storage, width

_OPERANDS = {"f16": ("f32", "f16"), "bf16": ("f32",), "f8E4M3FN": ("f32", "f16"), "f8E5M2": ("f32",), "tf32": ("f32",),
             "i8": ("i32",), "f32": ("f32",), "f64": ("f64",)}  # fmt: skip
_WEIGHTS = {"f16": 8, "bf16": 3, "f8E4M3FN": 3, "f8E5M2": 1, "tf32": 2, "i8": 2, "f32": 1, "f64": 1}
_CAST_FROM = {"f16": ("f32", "f8E4M3FN", "i8"), "bf16": ("f32", "f16"), "tf32": ("f32",)}
"""What an operand may be in memory, and is converted from."""
_WORK = 1 << 23
"""Multiplications of a kernel at most, over its whole grid."""
_TILES = 1 << 15
"""Elements of one tile at most, and twice as many of accumulators."""


def tensor_program(seed: int) -> Program:
    """The kernel of a seed."""
    return _Kernel(seed).program()


@dataclass(frozen=True)
class _Tile:
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
class _Tensor:
    """A tensor in memory: its view, and the type of that."""

    name: str
    type: str
    element: str


_Listed = tuple[list[str], list[str]]
_Step = Callable[[_Tile, _Tile, _Tile], _Tile]
_Store = Callable[[_Tile, _Tile, _Tile], None]
_Turn = Callable[[_Tile, list[_Tile]], list[_Tile]]
_Body = Callable[[_Tile, _Tile], None]
_Make = Callable[[], _Tile]


@dataclass
class _Part:
    """Lines of the program at a depth."""

    depth: int
    lines: list[str] = field(default_factory=list)


class _Kernel:
    """One kernel in the making."""

    def __init__(self, seed: int):
        self.seed = seed
        self.random = random.Random(f"tensors {seed}")
        self.parameters: list[Parameter] = []
        self.count = 0
        self.part = _Part(2)
        self.features: list[str] = []
        self.pitch = 0
        """How far apart the outermost elements of the last tensor lie."""
        self.element = self.random.choices([*_WEIGHTS], [*_WEIGHTS.values()])[0]
        self.sum = self.random.choice(_OPERANDS[self.element])
        self.bounds: Bounds = (-1, 1) if self.sum == "f16" else (-2, 2)
        self.m, self.n, self.k = self._tile_sizes()
        self.rows, self.columns = self.random.choice([(1, 1), (2, 1), (1, 2), (2, 2), (3, 1)])
        self.turns = self.random.choice([1, 2, 3, 4, 5, 6])
        while self.rows * self.columns * self.turns * self.m * self.n * self.k > _WORK and self.turns > 2:
            self.turns -= 1
        while self.rows * self.columns * self.turns * self.m * self.n * self.k > _WORK and self.rows * self.columns > 1:
            self.rows, self.columns = (self.rows, 1) if self.columns > 1 else (1, 1)
        self.persistent = self.chance(0.25)
        self.blocks = self.random.choice([1, 2, 3]) if self.persistent else self.rows * self.columns

    def _tile_sizes(self) -> tuple[int, int, int]:
        m = self.random.choice([16, 32, 64, 64, 128, 128, 128, 256])
        n = self.random.choice([8, 16, 32, 64, 64, 128, 128, 256])
        k = self.random.choice([16, 32, 64, 64, 128]) * (2 if width(self.element) == 8 else 1)
        if self.element in ("f32", "f64"):
            m, n, k = min(m, 64), min(n, 64), min(k, 32)
        while m * n > 2 * _TILES:
            m //= 2
        while max(m, n) * k > _TILES:
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

    def let(self, text: str, shape: Sequence[int] = (), element: str = "i32") -> _Tile:
        tile = _Tile(self.name(), tuple(shape), element)
        self.emit(f"{tile} = {text}")
        return tile

    def constant(self, number: float, shape: Sequence[int] = (), element: str = "i32") -> _Tile:
        shown = str(int(number)) if element.startswith("i") else f"{float(number):.6e}"
        tile = _Tile("", tuple(shape), element)
        return self.let(f"constant <{element}: {shown}> : {tile.type}", shape, element)

    def scalar(self, number: int) -> _Tile:
        """A number that is an argument: the compiler has to take it for any."""
        name = f"%n{len(self.parameters)}"
        self.parameters.append(Parameter(name, "i32", 0, (number, number)))
        return _Tile(name, (), "i32")

    def number(self, number: int, hidden: float = 0.4) -> _Tile:
        return self.scalar(number) if self.chance(hidden) else self.constant(number)

    def spread(self, tile: _Tile, shape: tuple[int, ...]) -> _Tile:
        if tile.shape == shape:
            return tile
        if not tile.shape:
            ones = _Tile("", (1,) * len(shape), tile.element)
            tile = self.let(f"reshape {tile} : {tile.type} -> {ones.type}", ones.shape, tile.element)
        wide = _Tile("", shape, tile.element)
        return self.let(f"broadcast {tile} : {tile.type} -> {wide.type}", shape, tile.element)

    # -- memory -------------------------------------------------------------------------------------------------------

    def tensor(self, element: str, sizes: Sequence[int], order: Sequence[int] | None = None,
               bounds: Bounds | None = None, written: bool = False) -> _Tensor:  # fmt: skip
        """An array as a tensor; `order` are its dimensions, from the one that lies farthest apart to the dense one."""
        order = list(range(len(sizes))) if order is None else list(order)
        aligned = self.chance(0.8)
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
        return _Tensor(view, type_, element)

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

    def view(
        self, tensor: _Tensor, tile: Sequence[int], padding: str = "", dims: Sequence[int] | None = None
    ) -> _Tensor:
        members = [f"tile=({'x'.join(map(str, tile))})"]
        if padding:
            members.append(f"padding_value = {padding}")
        members.append(tensor.type)
        if dims is not None and list(dims) != sorted(dims):
            members.append(f"dim_map={list(dims)}")
        type_ = f"partition_view<{', '.join(members)}>"
        name = self.name()
        self.emit(f"{name} = make_partition_view {tensor.name} : {type_}")
        return _Tensor(name, type_, tensor.element)

    def load(self, view: _Tensor, index: Sequence[_Tile], shape: Sequence[int], token: str = "") -> _Tile:
        tile = _Tile(self.name(), tuple(shape), view.element)
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

    def store(self, tile: _Tile, view: _Tensor, index: Sequence[_Tile], token: str = "") -> str:
        made = self.name()
        order = f" token = {token}" if token else ""
        place = ", ".join(map(str, index))
        self.emit(f"{made} = store_view_tko weak {tile}, {view.name}[{place}]{order} : {tile.type}, "
                  f"{view.type}, tile<i32> -> token")  # fmt: skip
        return made

    # -- values -------------------------------------------------------------------------------------------------------

    def cast(self, tile: _Tile, element: str) -> _Tile:
        if tile.element == element:
            return tile
        wide = _Tile("", tile.shape, element)
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

    def binary(self, op: str, a: _Tile, b: _Tile) -> _Tile:
        whole = a.element.startswith("i")
        name = op + ("i" if whole else "f")
        sign = " signed" if whole and op in ("max", "min") else ""
        return self.let(f"{name} {a}, {b}{sign} : {a.type}", a.shape, a.element)

    def product(self, a: _Tile, b: _Tile, acc: _Tile) -> _Tile:
        types = f"{a.type}, {b.type}, {acc.type}"
        if a.element == "i8":
            return self.let(f"mmai {a}, {b}, {acc} signed signed : {types}", acc.shape, acc.element)
        fast = " fast_acc" if a.element.startswith("f8") and acc.element == "f32" and self.chance(0.3) else ""
        return self.let(f"mmaf {a}, {b}, {acc}{fast} : {types}", acc.shape, acc.element)

    def clamped(self, tile: _Tile) -> _Tile:
        """The tile within the bounds of operands."""
        low, high = (self.constant(b, tile.shape, tile.element) for b in self.bounds)
        return self.binary("max", self.binary("min", tile, high), low)

    def row_sums(self, tile: _Tile) -> _Tile:
        zero = "0 : i32" if tile.element == "i32" else f"0.000000e+00 : {tile.element}"
        add = "addi" if tile.element == "i32" else "addf"
        made = _Tile(self.name(), tile.shape[:1], tile.element)
        self.emit(f"{made} = reduce {tile} dim=1 identities=[{zero}] : {tile.type} -> {made.type}")
        self.emit(f"(%x: {tile.scalar}, %y: {tile.scalar}) {{")
        self.emit(f"  %sum = {add} %x, %y : {tile.scalar}")
        self.emit(f"  yield %sum : {tile.scalar}")
        self.emit("}")
        return made

    def row_maxima(self, tile: _Tile) -> _Tile:
        """The largest of each row, as a column."""
        made = _Tile(self.name(), tile.shape[:1], tile.element)
        self.emit(f"{made} = reduce {tile} dim=1 identities=[0xFF800000 : f32] : {tile.type} -> {made.type}")
        self.emit(f"(%x: {tile.scalar}, %y: {tile.scalar}) {{")
        self.emit(f"  %most = maxf %x, %y : {tile.scalar}")
        self.emit(f"  yield %most : {tile.scalar}")
        self.emit("}")
        column = _Tile("", (tile.shape[0], 1), tile.element)
        return self.let(f"reshape {made} : {made.type} -> {column.type}", column.shape, tile.element)

    # -- operands -----------------------------------------------------------------------------------------------------

    def operand(self, sizes: tuple[int, int], tile: tuple[int, int]) -> _Operand:
        """A matrix of the operands' type, in memory in one of many manners."""
        element = self.element
        if element in _CAST_FROM and self.chance(0.15):
            element = self.random.choice(_CAST_FROM[element])
        manners = ["plain", "dim_map", "permute", "strides", "batch", "pointers", "gathered"]
        return _Operand(self, element, sizes, tile, self.random.choices(manners, [6, 2, 2, 2, 2, 1, 1])[0])

    # -- the kernel ---------------------------------------------------------------------------------------------------

    def program(self) -> Program:
        kinds = [_gemm, _chain, _straight, _reread, _two_sums, _parts_of_sums, _softmax, _batched]
        kind = self.random.choices(kinds, [6, 3, 1, 1, 2, 1, 2, 1])[0]
        self.features.append(kind.__name__.strip("_"))
        body = kind(self)
        bid = [self.name() for _ in range(3)]
        self.emit(f"{', '.join(bid)} = get_tile_block_id : tile<i32>")
        block = _Tile(bid[0], (), "i32")
        if self.persistent:
            self.features.append("persistent")
            total = self.number(self.rows * self.columns)
            step = self.number(self.blocks, 0.2)
            if self.chance(0.5):
                counts = [self.name() for _ in range(3)]
                self.emit(f"{', '.join(counts)} = get_num_tile_blocks : tile<i32>")
                step = _Tile(counts[0], (), "i32")
            tile = self.name()
            self.emit(f"for {tile} in ({block} to {total}, step {step}) : tile<i32> {{")
            self.part.depth += 1
            body(*self._place(_Tile(tile, (), "i32")))
            self.part.depth -= 1
            self.emit("}")
        else:
            body(*self._place(block))
        self.emit("return")
        head = ", ".join(f"{p.name}: {p.type}" for p in self.parameters)
        entry = f"  entry @kernel({head}) {self._hints()}{{"
        text = "\n".join(["cuda_tile.module @kernels {", entry, *self.part.lines, "  }", "}", ""])
        return Program(self.seed, text, self.parameters, (self.blocks, 1, 1), tuple(self.features))

    def _place(self, tile: _Tile) -> tuple[_Tile, _Tile]:
        """The row and column of a tile of the result."""
        columns = self.number(self.columns, 0.3)
        row = self.let(f"divi {tile}, {columns} signed rounding<zero> : tile<i32>")
        column = self.let(f"remi {tile}, {columns} signed : tile<i32>")
        return row, column

    def _hints(self) -> str:
        if self.chance(0.6):
            return ""
        hint = self.random.choice(["occupancy = 2", "num_worker_warps_per_cta = 4", "num_worker_warps_per_cta = 8",
                                   "num_cta_in_cga = 2", "num_cta_in_cga = 1", "num_cta_in_cga = 2"])  # fmt: skip
        target = self.random.choice(["sm_80", "sm_90", "sm_90", "sm_100", "sm_100", "sm_120"])
        self.features.append(hint)
        return f"optimization_hints=<{target} = {{{hint}}}> "

    def ragged(self, count: int, size: int) -> int:
        """The extent of a tensor of so many tiles: the last one whole or not."""
        extent = count * size
        return extent if self.chance(0.6) else max(extent - self.random.randint(1, size - 1), 1)

    def loop(self, turns: int, carried: list[_Tile], body: _Turn) -> list[_Tile]:
        """A `for` over turns, which carries tiles."""
        first = self.random.choice([0, 0, 0, 1]) if turns > 1 else 0
        low, high, step = self.constant(first), self.number(turns), self.constant(1)
        if self.chance(0.08):
            return self._endless(low, high, step, carried, body)
        iv = _Tile(self.name(), (), "i32")
        inner = [_Tile(self.name(), t.shape, t.element) for t in carried]
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
        return [_Tile(f"{result}#{i}", t.shape, t.element) for i, t in enumerate(carried)]

    def _endless(self, low: _Tile, high: _Tile, step: _Tile, carried: list[_Tile], body: _Turn) -> list[_Tile]:
        """The same as a `loop` that a condition leaves."""
        self.features.append("loop")
        inner = [_Tile(self.name(), t.shape, t.element) for t in (low, *carried)]
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
        return [_Tile(f"{result}#{i + 1}", t.shape, t.element) for i, t in enumerate(carried)]

    def sums(self) -> _Tile:
        return self.constant(self.random.choice([0, 0, 0, 1]), (self.m, self.n), self.sum)

    def epilogue(self, row: _Tile, column: _Tile, total: _Tile, results: _Results) -> None:
        """What becomes of a product, and its stores."""
        for step in results.steps:
            total = step(row, column, total)
        for store in results.stores:
            store(row, column, total)


@dataclass
class _Results:
    """What is done with a tile of the result: steps that change it, then stores."""

    steps: list[_Step]
    stores: list[_Store]


class _Operand:
    """A matrix in memory, and how a tile of it is read."""

    def __init__(self, kernel: _Kernel, element: str, sizes: tuple[int, int], tile: tuple[int, int], manner: str):
        self.kernel, self.tile, self.manner = kernel, tile, manner
        self.double = kernel.chance(0.08)
        if manner in ("dim_map", "permute"):
            self.tensor = kernel.tensor(element, sizes[::-1])
        elif manner == "strides":
            self.tensor = kernel.tensor(element, sizes, (1, 0))
        elif manner == "batch":
            self.tensor = kernel.tensor(element, (2, *sizes))
        else:
            self.tensor = kernel.tensor(element, sizes)
        if manner == "pointers":
            self.memory, self.limits = _by_pointers(kernel, element, sizes), sizes
        if manner == "gathered":
            self.rows = kernel.tensor("i32", (-(-sizes[0] // tile[0]) * tile[0],), bounds=(0, sizes[0] - 1))

    def load(self, row: _Tile, column: _Tile, token: str = "") -> _Tile:
        """The tile at a place, as an operand."""
        k, shape = self.kernel, self.tile
        if self.manner == "dim_map":
            tile = k.load(k.view(self.tensor, shape, "zero", (1, 0)), (row, column), shape, token)
        elif self.manner == "permute":
            loaded = k.load(k.view(self.tensor, shape[::-1], "zero"), (column, row), shape[::-1], token)
            turned = _Tile("", shape, loaded.element)
            tile = k.let(f"permute {loaded} [1, 0] : {loaded.type} -> {turned.type}", shape, loaded.element)
        elif self.manner == "batch":
            one = k.constant(1)
            loaded = k.load(k.view(self.tensor, (1, *shape), "zero"), (one, row, column), (1, *shape), token)
            flat = _Tile("", shape, loaded.element)
            tile = k.let(f"reshape {loaded} : {loaded.type} -> {flat.type}", shape, loaded.element)
        elif self.manner == "pointers":
            tile = self._through_pointers(row, column, token)
        elif self.manner == "gathered":
            tile = self._gathered(row, column, token)
        else:
            tile = k.load(k.view(self.tensor, shape, "zero"), (row, column), shape, token)
        tile = k.cast(tile, k.element)
        if self.double and tile.element in ("f16", "bf16", "f32", "f64"):
            tile = k.binary("max", tile, k.constant(0, shape, tile.element))
        return tile

    def _gathered(self, row: _Tile, column: _Tile, token: str) -> _Tile:
        """The rows that an array names."""
        k, shape = self.kernel, self.tile
        rows = k.load(k.view(self.rows, shape[:1], "zero"), (row,), shape[:1])
        first = k.binary("mul", column, k.constant(shape[1]))
        members = f"tile=({shape[0]}x{shape[1]}), padding_value = zero, {self.tensor.type}, sparse_dim=0"
        type_ = f"gather_scatter_view<{members}>"
        view, tile = k.name(), _Tile(k.name(), shape, self.tensor.element)
        k.emit(f"{view} = make_gather_scatter_view {self.tensor.name} : {type_}")
        order = f" token = {token}" if token else ""
        k.emit(f"{tile}, {k.name()} = load_view_tko weak {view}[{rows}, {first}]{order} : "
               f"{type_}, {rows.type}, tile<i32> -> {tile.type}, token")  # fmt: skip
        return tile

    def _through_pointers(self, row: _Tile, column: _Tile, token: str) -> _Tile:
        """By pointers that are computed of the places of elements, with a mask for what is outside."""
        k, shape = self.kernel, self.tile
        base, step = self.memory
        places, inside = [], []
        for dim, index in enumerate((row, column)):
            count = shape[dim]
            numbers = k.let(f"iota : tile<{count}xi32>", (count,))
            start = k.spread(k.binary("mul", index, k.constant(count)), (count,))
            along = (count, 1) if dim == 0 else (1, count)
            place = k.binary("add", numbers, start)
            place = k.let(f"reshape {place} : {place.type} -> {_Tile('', along, 'i32').type}", along)
            limit = k.spread(k.number(self.limits[dim]), along)
            flag = _Tile("", along, "i1")
            held = k.let(f"cmpi less_than {place}, {limit}, signed : {place.type} -> {flag.type}", along, "i1")
            places.append(place)
            inside.append(k.spread(held, shape))
        far = k.binary("mul", places[0], k.spread(step, places[0].shape))
        offsets = k.binary("add", k.spread(far, shape), k.spread(places[1], shape))
        mask = k.let(f"andi {inside[0]}, {inside[1]} : {inside[0].type}", shape, "i1")
        bases = k.spread(base, shape)
        pointers = k.let(
            f"offset {bases}, {offsets} : {bases.type}, {offsets.type} -> {bases.type}", shape, base.element
        )
        tile = _Tile(k.name(), shape, self.tensor.element)
        zeros = k.constant(0, shape, self.tensor.element)
        order = f" token={token}" if token else ""
        k.emit(f"{tile}, {k.name()} = load_ptr_tko weak {pointers}, {mask}, {zeros}{order} : "
               f"{pointers.type}, {mask.type}, {zeros.type} -> {tile.type}, token")  # fmt: skip
        return tile


def _by_pointers(k: _Kernel, element: str, sizes: tuple[int, int]) -> tuple[_Tile, _Tile]:
    """The first element of the array that was made last, and how far apart its rows lie."""
    array = next(p for p in reversed(k.parameters) if p.size)
    step = k.pitch
    base = k.let(f"assume div_by<16>, {array.name} : {array.type}", (), f"ptr<{element}>") if step % 16 == 0 else None
    count = k.scalar(step)
    if step % 16 == 0:
        count = k.let(f"assume div_by<16>, {count} : tile<i32>")
    return base or _Tile(array.name, (), f"ptr<{element}>"), count


def _results(k: _Kernel) -> _Results:
    """Steps and stores of an epilogue; its tensors are made at the start of the kernel."""
    steps: list[_Step] = []
    shape = (k.m, k.n)
    rows, columns = k.ragged(k.rows, k.m), k.ragged(k.columns, k.n)
    for _ in range(k.random.choice([0, 0, 1, 1, 2])):
        steps.append(k.random.choice([_bias, _residual, _relu, _times_row])(k, rows, columns))
    stores: list[_Store] = []
    final = k.sum
    if k.sum != "i32" and k.chance(0.5):
        final = k.random.choice(["f16", "bf16", "f32", "f8E4M3FN"] if k.sum != "f64" else ["f64"])
    stores.append(_store(k, final, (rows, columns), shape))
    if k.chance(0.2):
        stores.append(_store_sums(k, rows))
    if k.chance(0.15):
        stores.append(_store(k, k.sum, (rows, columns), shape))
    return _Results(steps, stores)


def _bias(k: _Kernel, rows: int, columns: int) -> _Step:
    tensor = k.tensor(k.sum, (1, columns))

    def step(row: _Tile, column: _Tile, tile: _Tile) -> _Tile:
        zero = k.constant(0)
        bias = k.load(k.view(tensor, (1, k.n), "zero"), (zero, column), (1, k.n))
        return k.binary("add", tile, k.spread(bias, tile.shape))

    return step


def _times_row(k: _Kernel, rows: int, columns: int) -> _Step:
    tensor = k.tensor(k.sum, (rows, 1), bounds=(-1, 1))

    def step(row: _Tile, column: _Tile, tile: _Tile) -> _Tile:
        zero = k.constant(0)
        factor = k.load(k.view(tensor, (k.m, 1), "zero"), (row, zero), (k.m, 1))
        return k.binary("mul", tile, k.spread(factor, tile.shape))

    return step


def _residual(k: _Kernel, rows: int, columns: int) -> _Step:
    element = "i32" if k.sum == "i32" else "f64" if k.sum == "f64" else k.random.choice(["f16", "f32"])
    tensor = k.tensor(element, (rows, columns))

    def step(row: _Tile, column: _Tile, tile: _Tile) -> _Tile:
        other = k.load(k.view(tensor, (k.m, k.n), "zero"), (row, column), (k.m, k.n))
        return k.binary("add", tile, k.cast(other, tile.element))

    return step


def _relu(k: _Kernel, rows: int, columns: int) -> _Step:
    return lambda row, column, tile: k.binary("max", tile, k.constant(0, tile.shape, tile.element))


def _store(k: _Kernel, element: str, sizes: tuple[int, int], shape: tuple[int, int]) -> _Store:
    manner = k.random.choice(["plain", "plain", "plain", "dim_map", "permute", "batch"])
    order = sizes[::-1] if manner in ("dim_map", "permute") else (2, *sizes) if manner == "batch" else sizes
    tensor = k.tensor(element, order, written=True)

    def store(row: _Tile, column: _Tile, tile: _Tile) -> None:
        if element.startswith("f8"):
            tile = k.clamped(tile)
        tile = k.cast(tile, element)
        if manner == "dim_map":
            k.store(tile, k.view(tensor, shape, "", (1, 0)), (row, column))
        elif manner == "permute":
            turned = _Tile("", shape[::-1], element)
            made = k.let(f"permute {tile} [1, 0] : {tile.type} -> {turned.type}", turned.shape, element)
            k.store(made, k.view(tensor, shape[::-1]), (column, row))
        elif manner == "batch":
            wide = _Tile("", (1, *shape), element)
            made = k.let(f"reshape {tile} : {tile.type} -> {wide.type}", wide.shape, element)
            k.store(made, k.view(tensor, wide.shape), (k.constant(1), row, column))
        else:
            k.store(tile, k.view(tensor, shape), (row, column))

    return store


def _store_sums(k: _Kernel, rows: int) -> _Store:
    """The sum of each row, by the first column of tiles: others write to places of their own."""
    tensor = k.tensor(k.sum, (k.columns, rows), written=True)

    def store(row: _Tile, column: _Tile, tile: _Tile) -> None:
        if tile.element == "f16":  # whose sums may round
            tile = k.clamped(tile)
        sums = k.row_sums(tile)
        flat = _Tile("", (1, k.m), sums.element)
        made = k.let(f"reshape {sums} : {sums.type} -> {flat.type}", flat.shape, sums.element)
        k.store(made, k.view(tensor, (1, k.m)), (column, row))

    return store


# -- kinds of kernels -------------------------------------------------------------------------------------------------


def _gemm(k: _Kernel) -> _Body:
    """One product in a loop, its sums changed in the loop or not."""
    depth = k.ragged(k.turns, k.k)
    a = k.operand((k.ragged(k.rows, k.m), depth), (k.m, k.k))
    b = k.operand((depth, k.ragged(k.columns, k.n)), (k.k, k.n))
    results = _results(k)
    between = k.random.choice(["", "", "", "", "negate", "condition", "row"])
    factors = k.tensor(k.sum, (k.turns, k.n), bounds=(-1, 1)) if between == "row" else None

    def body(row: _Tile, column: _Tile) -> None:
        def turn(iv: _Tile, carried: list[_Tile]) -> list[_Tile]:
            total = carried[0]
            if between == "negate":
                total = k.binary("sub", k.constant(0, total.shape, total.element), total)
            if factors is not None:
                factor = k.load(k.view(factors, (1, k.n), "zero"), (iv, k.constant(0)), (1, k.n))
                total = k.binary("mul", total, k.spread(factor, total.shape))
            if between == "condition":
                return [_conditionally(k, iv, total, lambda: k.product(a.load(row, iv), b.load(iv, column), total))]
            return [k.product(a.load(row, iv), b.load(iv, column), total)]

        k.epilogue(row, column, k.loop(k.turns, [k.sums()], turn)[0], results)

    return body


def _conditionally(k: _Kernel, iv: _Tile, otherwise: _Tile, make: _Make) -> _Tile:
    limit = k.number(k.random.randint(0, k.turns))
    holds = k.let(f"cmpi less_than {iv}, {limit}, signed : tile<i32> -> tile<i1>", (), "i1")
    result = _Tile(k.name(), otherwise.shape, otherwise.element)
    k.emit(f"{result} = if {holds} -> ({result.type}) {{")
    k.part.depth += 1
    made = make()
    k.emit(f"yield {made} : {made.type}")
    k.part.depth -= 1
    k.emit("} else {")
    k.emit(f"  yield {otherwise} : {otherwise.type}")
    k.emit("}")
    return result


def _two_sums(k: _Kernel) -> _Body:
    """Two products in a loop: of one operand with two others, or of two pairs into one sum."""
    depth = k.ragged(k.turns, k.k)
    a = k.operand((k.ragged(k.rows, k.m), depth), (k.m, k.k))
    b, c = (k.operand((depth, k.ragged(k.columns, k.n)), (k.k, k.n)) for _ in range(2))
    d = k.operand((k.ragged(k.rows, k.m), depth), (k.m, k.k)) if k.chance(0.4) else a
    one = k.chance(0.4)
    results = _results(k)

    def body(row: _Tile, column: _Tile) -> None:
        def turn(iv: _Tile, carried: list[_Tile]) -> list[_Tile]:
            left = a.load(row, iv)
            first = k.product(left, b.load(iv, column), carried[0])
            right = left if d is a else d.load(row, iv)
            second = k.product(right, c.load(iv, column), first if one else carried[1])
            return [second] if one else [first, second]

        totals = k.loop(k.turns, [k.sums()] if one else [k.sums(), k.sums()], turn)
        total = totals[0] if one else k.binary("add", totals[0], totals[1])
        k.epilogue(row, column, total, results)

    return body


def _chain(k: _Kernel) -> _Body:
    """A product of a product: the first from a tile that stays, its results the operand of the second."""
    inner = k.random.choice([16, 32, 64, 64, 128])
    while k.m * inner > _TILES or inner * max(k.k, k.n) > _TILES:
        inner //= 2
    a = k.operand((k.ragged(k.rows, k.m), k.ragged(1, k.k)), (k.m, k.k))
    b = k.operand((k.ragged(1, k.k), k.ragged(k.turns, inner)), (k.k, inner))
    c = k.operand((k.ragged(k.turns, inner), k.ragged(k.columns, k.n)), (inner, k.n))
    results = _results(k)
    maxima = k.chance(0.5)
    between = k.random.choice(["clamp", "clamp", "mask", "relu"])
    outside = k.chance(0.8)

    def scores(iv: _Tile, left: _Tile) -> _Tile:
        zero = k.constant(0, (k.m, inner), k.sum)
        made = k.product(left, b.load(k.constant(0), iv), zero)
        if between == "mask":
            made = _masked(k, iv, made)
        if between == "relu":
            made = k.binary("max", made, zero)
        return k.clamped(made)

    def body(row: _Tile, column: _Tile) -> None:
        kept = a.load(row, k.constant(0)) if outside else None

        def turn(iv: _Tile, carried: list[_Tile]) -> list[_Tile]:
            left = kept if kept is not None else a.load(row, k.constant(0))
            p = scores(iv, left)
            total = carried[0]
            sums = []
            if maxima:
                made = k.row_sums(p)
                column_ = _Tile("", (k.m, 1), p.element)
                tall = k.let(f"reshape {made} : {made.type} -> {column_.type}", (k.m, 1), p.element)
                sums.append(k.binary("max", carried[1], tall))
            return [k.product(k.cast(p, k.element), c.load(iv, column), total), *sums]

        start = [k.sums()]
        if maxima:
            start.append(k.constant(0, (k.m, 1), k.sum))
        totals = k.loop(k.turns, start, turn)
        total = totals[0]
        if maxima:
            total = k.binary("add", total, k.spread(totals[1], total.shape))
        k.epilogue(row, column, total, results)

    return body


def _masked(k: _Kernel, iv: _Tile, tile: _Tile) -> _Tile:
    """The tile with zeros above a diagonal that moves with the loop."""
    rows, columns = tile.shape
    across = k.let(f"iota : tile<{columns}xi32>", (columns,))
    down = k.let(f"iota : tile<{rows}xi32>", (rows,))
    wide = k.let(f"reshape {across} : {across.type} -> tile<1x{columns}xi32>", (1, columns))
    tall = k.let(f"reshape {down} : {down.type} -> tile<{rows}x1xi32>", (rows, 1))
    first = k.let(f"muli {iv}, {k.constant(columns)} : tile<i32>")
    place = k.binary("add", k.spread(wide, tile.shape), k.spread(first, tile.shape))
    below = k.let(f"cmpi less_than_or_equal {place}, {k.spread(tall, tile.shape)}, signed : {place.type} -> "
                  f"tile<{rows}x{columns}xi1>", tile.shape, "i1")  # fmt: skip
    zero = k.constant(0, tile.shape, tile.element)
    return k.let(f"select {below}, {tile}, {zero} : {below.type}, {tile.type}", tile.shape, tile.element)


def _straight(k: _Kernel) -> _Body:
    """Products in no loop, one after the other."""
    count = k.random.choice([1, 2, 3])
    a = k.operand((k.ragged(k.rows, k.m), k.ragged(count, k.k)), (k.m, k.k))
    b = k.operand((k.ragged(count, k.k), k.ragged(k.columns, k.n)), (k.k, k.n))
    results = _results(k)

    def body(row: _Tile, column: _Tile) -> None:
        total = k.sums()
        for i in range(count):
            at = k.constant(i)
            total = k.product(a.load(row, at), b.load(at, column), total)
        k.epilogue(row, column, total, results)

    return body


def _reread(k: _Kernel) -> _Body:
    """A product whose result is stored, read again behind its token, and multiplied once more."""
    k.n = min(k.n, 128)
    depth = k.ragged(k.turns, k.k)
    a = k.operand((k.ragged(k.rows, k.m), depth), (k.m, k.k))
    b = k.operand((depth, k.ragged(k.columns, k.n)), (k.k, k.n))
    space = k.tensor(k.element, (k.rows * k.m, k.columns * k.n), written=True)
    c = k.operand((k.n, k.n), (k.n, k.n))
    results = _results(k)

    def body(row: _Tile, column: _Tile) -> None:
        def turn(iv: _Tile, carried: list[_Tile]) -> list[_Tile]:
            return [k.product(a.load(row, iv), b.load(iv, column), carried[0])]

        total = k.clamped(k.loop(k.turns, [k.sums()], turn)[0])
        shape = (k.m, k.n)
        token = k.store(k.cast(total, k.element), k.view(space, shape), (row, column))
        again = k.load(k.view(space, shape, "zero"), (row, column), shape, token)
        zero = k.constant(0)
        k.epilogue(row, column, k.product(again, c.load(zero, zero), k.sums()), results)

    return body


def _parts_of_sums(k: _Kernel) -> _Body:
    """A product of which each block has a part of the depth, added to the result in memory."""
    k.persistent = False
    parts = k.random.choice([2, 3])
    k.blocks = k.rows * k.columns * parts
    k.columns *= parts  # places in the grid; `column` below is of both
    depth = k.turns * k.k * parts
    a = k.operand((k.ragged(k.rows, k.m), depth), (k.m, k.k))
    b = k.operand((depth, k.n * (k.columns // parts)), (k.k, k.n))
    element = k.sum
    result = k.tensor(element, (k.rows * k.m, k.n * (k.columns // parts)), written=True)
    columns, turns = k.columns // parts, k.turns
    mode = "add" if element == "i32" else "addf"

    def body(row: _Tile, place: _Tile) -> None:
        column = k.let(f"remi {place}, {k.constant(columns)} signed : tile<i32>")
        part = k.let(f"divi {place}, {k.constant(columns)} signed rounding<zero> : tile<i32>")
        first = k.binary("mul", part, k.number(turns))

        def turn(iv: _Tile, carried: list[_Tile]) -> list[_Tile]:
            at = k.binary("add", iv, first)
            return [k.product(a.load(row, at), b.load(at, column), carried[0])]

        total = k.loop(turns, [k.sums()], turn)[0]
        view = k.view(result, (k.m, k.n))
        k.emit(f"{k.name()} = atomic_red_view_tko relaxed device {view.name}[{row}, {column}], {mode}, {total} : "
               f"{total.type}, {view.type}, tile<i32> -> token")  # fmt: skip

    return body


def _softmax(k: _Kernel) -> _Body:
    """Attention: the maxima and sums of rows go along with the second product."""
    k.element, k.sum, k.bounds = k.random.choice(["f16", "bf16", "f16"]), "f32", (0, 2)
    k.m, k.n, k.k = k.random.choice([64, 128, 128]), k.random.choice([32, 64, 128]), k.random.choice([32, 64, 128])
    k.columns = 1
    k.persistent = False
    k.blocks = k.rows
    inner = k.random.choice([32, 64, 64, 128])
    causal, whole = k.chance(0.5), k.chance(0.5)
    length = k.turns * inner if whole or causal else k.ragged(k.turns, inner)
    a = k.operand((k.rows * k.m, k.k), (k.m, k.k))
    b = k.operand((k.k, length), (k.k, inner))
    c = k.operand((length, k.n), (inner, k.n))
    final = k.random.choice(["f32", k.element])
    store = _store(k, final, (k.ragged(k.rows, k.m), k.n), (k.m, k.n))
    k.parameters[-1].comparison = Comparison(relative=2e-2)
    for p in k.parameters:
        if p.written:
            p.comparison = Comparison(relative=2e-2)
    late = k.chance(0.5)

    def body(row: _Tile, column: _Tile) -> None:
        zero = k.constant(0)
        q = a.load(row, zero)
        scale = k.constant(0.125, (k.m, inner), "f32")

        def turn(iv: _Tile, carried: list[_Tile]) -> list[_Tile]:
            top, total, weight = carried
            s = k.product(q, b.load(zero, iv), k.constant(0, (k.m, inner), "f32"))
            if not late:
                s = k.binary("mul", s, scale)
            if causal:
                s = _causal(k, iv, row, s)
            highest = k.row_maxima(s)
            above = k.binary("max", top, highest)
            if late:
                s = k.binary("mul", s, scale)
                lifted = k.binary("mul", above, k.constant(0.125, (k.m, 1), "f32"))
                before = k.binary("mul", top, k.constant(0.125, (k.m, 1), "f32"))
            else:
                lifted, before = above, top
            less = k.binary("sub", s, k.spread(lifted, s.shape))
            p = k.let(f"exp2 {less} : {less.type}", s.shape, "f32")
            change = k.binary("sub", before, lifted)
            factor = k.let(f"exp2 {change} : {change.type}", (k.m, 1), "f32")
            sums = k.row_sums(p)
            tall = k.let(f"reshape {sums} : {sums.type} -> tile<{k.m}x1xf32>", (k.m, 1), "f32")
            weight = k.binary("add", k.binary("mul", weight, factor), tall)
            total = k.binary("mul", total, k.spread(factor, total.shape))
            return [above, k.product(k.cast(p, k.element), c.load(iv, zero), total), weight]

        low = k.constant(-1e30, (k.m, 1), "f32")
        start = [low, k.constant(0, (k.m, k.n), "f32"), k.constant(0, (k.m, 1), "f32")]
        _, total, weight = k.loop(k.turns, start, turn)
        store(row, zero, k.binary("div", total, k.spread(weight, total.shape)))

    return body


def _causal(k: _Kernel, iv: _Tile, row: _Tile, tile: _Tile) -> _Tile:
    """Scores that are very low where a column lies behind its row; the first column of each is left."""
    rows, columns = tile.shape
    down, across = (k.let(f"iota : tile<{n}xi32>", (n,)) for n in tile.shape)
    tall = k.let(f"reshape {down} : {down.type} -> tile<{rows}x1xi32>", (rows, 1))
    wide = k.let(f"reshape {across} : {across.type} -> tile<1x{columns}xi32>", (1, columns))
    tall = k.binary("add", tall, k.spread(k.binary("mul", row, k.constant(rows)), (rows, 1)))
    wide = k.binary("add", wide, k.spread(k.binary("mul", iv, k.constant(columns)), (1, columns)))
    a, b = k.spread(tall, tile.shape), k.spread(wide, tile.shape)
    seen = k.let(
        f"cmpi greater_than_or_equal {a}, {b}, signed : {a.type} -> tile<{rows}x{columns}xi1>", tile.shape, "i1"
    )
    low = k.constant(-1e30, tile.shape, tile.element)
    return k.let(f"select {seen}, {tile}, {low} : {seen.type}, {tile.type}", tile.shape, tile.element)


def _batched(k: _Kernel) -> _Body:
    """Products of several matrices at once, in a loop."""
    count = k.random.choice([1, 2, 2, 4])
    while count * k.m * k.n > _TILES or count * max(k.m, k.n) * k.k > _TILES:
        k.m, k.n, k.k = max(k.m // 2, 16), max(k.n // 2, 8), max(k.k // 2, 16)
    shapes = (count, k.m, k.k), (count, k.k, k.n), (count, k.m, k.n)
    depth = k.ragged(k.turns, k.k)
    batch = k.random.choice([count, count, count + 1])
    a = k.tensor(k.element, (batch, k.ragged(k.rows, k.m), depth))
    turned = k.chance(0.4)
    sizes = (depth, k.ragged(k.columns, k.n))
    b = k.tensor(k.element, (batch, *(sizes[::-1] if turned else sizes)))
    result = k.tensor(k.sum, (batch, k.rows * k.m, k.columns * k.n), written=True)

    def body(row: _Tile, column: _Tile) -> None:
        zero = k.constant(0)

        def turn(iv: _Tile, carried: list[_Tile]) -> list[_Tile]:
            left = k.load(k.view(a, shapes[0], "zero"), (zero, row, iv), shapes[0])
            right = k.load(k.view(b, shapes[1], "zero", (0, 2, 1) if turned else None), (zero, iv, column), shapes[1])
            return [k.product(left, right, carried[0])]

        start = k.constant(0, shapes[2], k.sum)
        k.store(k.loop(k.turns, [start], turn)[0], k.view(result, shapes[2]), (zero, row, column))

    return body
