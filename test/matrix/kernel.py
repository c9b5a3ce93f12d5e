# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Many small computations in one kernel, run by the interpreter and by the simulator, and compared result by result.

A `Row` is one computation: an op on tiles of some shape and element types. Each tile block loads the rows' inputs from
arrays, computes, and stores the results, each to an array of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

import libtile
from libtile.interpreter.formats import ELEMENTS
from lowering.elementwise import patterns, same, ulps, values

BLOCKS = 8
"""Tile blocks of every launch: each has other values."""

POOL = 4096
"""Values that inputs are drawn from; inputs of odd and even seeds meet in all pairs of special values."""

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Input:
    """A tile that a row reads: `seed` chooses its values, `element` may be `ptr<...>`.

    `values` gives other values than the pool's: it is called with the number of elements, and returns bit patterns.
    """

    element: str
    shape: Shape
    seed: int = 2
    values: Callable[[int], np.ndarray] | None = None


@dataclass(frozen=True)
class Memory:
    """An array that a row accesses itself: its body gets the pointer, and what it holds in the end is compared.

    The array holds elements as a tensor view has them: f4E2M1FN two in a byte.
    """

    element: str
    count: int
    seed: int = 2
    values: Callable[[int], np.ndarray] | None = None
    multicast: bool = False


@dataclass(frozen=True)
class Result:
    """A tile that a row computes. `close` says where a result is good enough (got, expected; bit patterns)."""

    element: str
    shape: Shape
    close: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None


@dataclass(frozen=True)
class Row:
    """A computation: `body` writes its ops and returns the names of its results.

    `adjust` changes the inputs' bit patterns in place, so that the computation is defined; the row's inputs are then
    not shared with other rows. `elements` are the element types that count as tested by the row.
    """

    op: str
    name: str
    inputs: tuple[Input | Memory, ...]
    results: tuple[Result, ...]
    body: Callable[..., Sequence[str]]
    adjust: Callable[..., None] | None = None
    elements: frozenset[str] = frozenset()
    globals: str = ""
    feature: str = ""
    """What a target must have to be able to compile the row (libtile.targets); any can without."""

    def __str__(self) -> str:
        return f"{self.op} {self.name}"


def within(element: str, limit: float) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Results are good within so many ulp of the element type."""
    return lambda got, want: ulps(element, got, want) <= limit


def tile(element: str, shape: Shape) -> str:
    return f"!cuda_tile.tile<{'x'.join([*map(str, shape), element])}>"


class Writer:
    """The lines of a kernel. `block` and `zero` are the tile block's number and 0, as tile<i32>."""

    block = "%block"
    zero = "%zero"

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.parameters: list[str] = []
        self.count = 0

    def name(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def let(self, text: str) -> str:
        """Write an op with one result."""
        result = self.name()
        self.lines.append(f"{result} = {text}")
        return result

    def first(self, text: str) -> str:
        """Write an op with a result and a token."""
        result, token = self.name(), self.name()
        self.lines.append(f"{result}, {token} = {text}")
        return result

    def constant(self, value: Any, element: str = "i32", shape: Shape = ()) -> str:
        return self.let(f"constant <{element}: {value}> : {tile(element, shape)}")

    def parameter(self, element: str) -> str:
        result, type_ = f"%p{len(self.parameters)}", f"!cuda_tile.tile<ptr<{element}>>"
        self.parameters.append(f"{result}: {type_}")
        return self.let(f"assume div_by<16>, {result} : {type_}")


# -- how elements lie in memory -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Storage:
    """The element that stands for another one in memory, and the ops that lead from it and to it."""

    element: str
    read: str = ""
    write: str = ""


def storage(element: str, shape: Shape) -> Storage:
    """How tiles of an element type and shape are kept in memory."""
    if element == "i4":
        return Storage("i8", "trunci", "exti_unsigned")
    if element == "f4E2M1FN" and (not shape or shape[-1] % 2):
        return Storage("f32", "ftof", "ftof")
    if element == "fnv8E5M3FNU":
        return Storage("i8", "bitcast", "bitcast")
    if element.startswith("ptr"):
        return Storage("i64", "int_to_ptr", "ptr_to_int")
    return Storage(element)


_CONVERSIONS = {
    "trunci": ('"cuda_tile.trunci"', "<{overflow = #cuda_tile.overflow<none>}>"),
    "exti_unsigned": ('"cuda_tile.exti"', "<{signedness = #cuda_tile.signedness<unsigned>}>"),
    "ftof": ('"cuda_tile.ftof"', "<{rounding_mode = #cuda_tile.rounding<nearest_even>}>"),
    "bitcast": ('"cuda_tile.bitcast"', ""),
    "int_to_ptr": ('"cuda_tile.int_to_ptr"', ""),
    "ptr_to_int": ('"cuda_tile.ptr_to_int"', ""),
}


def convert(w: Writer, how: str, value: str, source: str, result: str, shape: Shape) -> str:
    if not how:
        return value
    op, properties = _CONVERSIONS[how]
    return w.let(f"{op}({value}) {properties} : ({tile(source, shape)}) -> {tile(result, shape)}")


def view(w: Writer, base: str, element: str, shape: Shape, blocks: int = BLOCKS) -> tuple[str, str]:
    """A view of an array of `blocks` tiles, one behind the other: its name and type."""
    sizes = (blocks * shape[0], *shape[1:])
    strides = [prod(sizes[i + 1 :]) for i in range(len(sizes))]
    text = f"tensor_view<{'x'.join(map(str, sizes))}x{element}, strides=[{','.join(map(str, strides))}]>"
    tensor = w.let(f"make_tensor_view {base}, shape = {list(sizes)}, strides = {strides} : {text}")
    type_ = f"partition_view<tile=({'x'.join(map(str, shape))}), {text}>"
    return w.let(f"make_partition_view {tensor} : {type_}"), type_


def load(w: Writer, element: str, shape: Shape) -> str:
    """Load the tile block's part of a new parameter."""
    kept = storage(element, shape)
    base = w.parameter(kept.element)
    if shape:
        name, type_ = view(w, base, kept.element, shape)
        index = ", ".join([w.block, *[w.zero] * (len(shape) - 1)])
        value = w.first(
            f"load_view_tko weak {name}[{index}] : {type_}, tile<i32> -> {tile(kept.element, shape)}, token"
        )
    else:
        pointer = f"tile<ptr<{kept.element}>>"
        place = w.let(f"offset {base}, {w.block} : {pointer}, tile<i32> -> {pointer}")
        value = w.first(f"load_ptr_tko weak {place} : {pointer} -> {tile(kept.element, ())}, token")
    return convert(w, kept.read, value, kept.element, element, shape)


def store(w: Writer, value: str, element: str, shape: Shape) -> None:
    """Store the tile block's part of a new parameter."""
    kept = storage(element, shape)
    value = convert(w, kept.write, value, element, kept.element, shape)
    base = w.parameter(kept.element)
    if shape:
        name, type_ = view(w, base, kept.element, shape)
        index = ", ".join([w.block, *[w.zero] * (len(shape) - 1)])
        w.let(
            f"store_view_tko weak {value}, {name}[{index}] : {tile(kept.element, shape)}, {type_}, tile<i32> -> token"
        )
        return
    pointer = f"tile<ptr<{kept.element}>>"
    place = w.let(f"offset {base}, {w.block} : {pointer}, tile<i32> -> {pointer}")
    w.let(f"store_ptr_tko weak {place}, {value} : {pointer}, {tile(kept.element, ())} -> token")


# -- values ---------------------------------------------------------------------------------------------------------


def pool(element: str, count: int, seed: int) -> np.ndarray:
    """Bit patterns of an element: all special ones when there is room, else a choice of them and of others."""
    name = "i64" if element.startswith("ptr") else element
    if name == "i4":
        bits = patterns("i8", POOL, seed) & np.uint8(15)
    else:
        bits = patterns(name, POOL, seed)
    if name in ("f4E2M1FN",):
        bits = bits & np.uint8(15)
    if element.startswith("ptr"):
        # Addresses of arrays: sums with offsets do not overflow.
        bits = (bits >> np.uint64(24)) | np.uint64(1 << 44)
    if count >= POOL:
        return np.resize(bits, count)
    rng = np.random.default_rng(count)
    half = count - count // 2
    return np.r_[bits[rng.integers(POOL - 1024, POOL, half)], bits[rng.integers(0, POOL, count - half)]]


def to_memory(element: str, shape: Shape, bits: np.ndarray) -> np.ndarray:
    """The array that holds elements given by bit patterns."""
    kept = storage(element, shape)
    if element == "f4E2M1FN":
        if kept.read:
            return values(element, bits).astype(np.float32)
        return (bits[0::2] | (bits[1::2] << np.uint8(4))).astype(np.uint8)
    return np.ascontiguousarray(bits)


def from_memory(element: str, shape: Shape, array: np.ndarray) -> np.ndarray:
    """The bit patterns of the elements in an array of results."""
    kept = storage(element, shape)
    if element == "f4E2M1FN" and not kept.write:
        return np.stack([array & 15, array >> 4], axis=1).ravel()
    return array


def empty(element: str, shape: Shape) -> np.ndarray:
    """An array for results, full of a pattern that no test expects."""
    kept = storage(element, shape)
    count = BLOCKS * prod(shape)
    if element == "f4E2M1FN" and not kept.write:
        return np.full(count // 2, 0xA5, np.uint8)
    return np.full(count * ELEMENTS[kept.element].storage_bytes, 0xA5, np.uint8).view(
        f"u{ELEMENTS[kept.element].storage_bytes}"
    )


# -- kernels --------------------------------------------------------------------------------------------------------


@dataclass
class Program:
    """A kernel of rows: its text, its arguments, and which arguments are whose results."""

    text: str
    arguments: list[np.ndarray]
    results: list[tuple[Row, Result, int]]
    inputs: dict[int, list[tuple[str, np.ndarray]]] = field(default_factory=dict)


def build(rows: Sequence[Row]) -> Program:
    """The kernel that computes the rows, with inputs of equal element, shape and seed loaded once."""
    w = Writer()
    arguments: list[np.ndarray] = []
    results: list[tuple[Row, Result, int]] = []
    given: dict[int, list[tuple[str, np.ndarray]]] = {}
    shared: dict[Input, tuple[str, np.ndarray]] = {}
    w.lines.append(f"{w.block}, %block_y, %block_z = get_tile_block_id : tile<i32>")
    w.lines.append(f"{w.zero} = constant <i32: 0> : tile<i32>")
    for row in rows:
        bits = [_bits(i) for i in row.inputs]
        if row.adjust is not None:
            row.adjust(*bits)
        names = []
        for item, pattern in zip(row.inputs, bits):
            if isinstance(item, Memory):
                names.append(w.parameter(f"{item.element}, <multicast>" if item.multicast else item.element))
                results.append((row, Result(item.element, (item.count,)), len(arguments)))
                arguments.append(to_memory(item.element, (item.count,), pattern))
                continue
            if row.adjust is None and item in shared:
                names.append(shared[item][0])
                continue
            names.append(load(w, item.element, item.shape))
            arguments.append(to_memory(item.element, item.shape, pattern))
            if row.adjust is None:
                shared[item] = (names[-1], pattern)
        given[id(row)] = [(i.element, b) for i, b in zip(row.inputs, bits)]
        for name, result in zip(row.body(w, *names), row.results, strict=True):
            store(w, name, result.element, result.shape)
            results.append((row, result, len(arguments)))
            arguments.append(empty(result.element, result.shape))
    lines = "\n    ".join(w.lines)
    # Equal globals of several rows are one.
    globals_ = "\n  ".join(dict.fromkeys(g for row in rows for g in row.globals.splitlines()))
    text = (
        f"cuda_tile.module @matrix {{\n  {globals_}\n  entry @k({', '.join(w.parameters)}) {{\n    {lines}\n"
        "    return\n  }\n}\n"
    )
    return Program(text, arguments, results, given)


def _bits(item: Input | Memory) -> np.ndarray:
    count = item.count if isinstance(item, Memory) else BLOCKS * prod(item.shape)
    return item.values(count) if item.values is not None else pool(item.element, count, item.seed).copy()


def run(program: Program, backend: str, gpu_name: str | None = None, check: str = "basic") -> list[np.ndarray]:
    """The results of a program's rows, in order."""
    arguments = [a.copy() for a in program.arguments]
    module = libtile.parse(program.text, filename="matrix.mlir")
    libtile.run(module, "k", grid=(BLOCKS, 1, 1), args=arguments, backend=backend, gpu_name=gpu_name, check=check)
    return [from_memory(r.element, r.shape, arguments[i]) for _, r, i in program.results]


def differences(program: Program, want: Sequence[np.ndarray], got: Sequence[np.ndarray]) -> list[str]:
    """A line for each result that differs: the first element, with its operands."""
    problems = []
    for (row, result, _), w, g in zip(program.results, want, got):
        good = _agree(result, g, w)
        if not good.all():
            problems.append(_describe(program, row, result, g, w, int(np.flatnonzero(~good)[0]), int((~good).sum())))
    return problems


def _agree(result: Result, got: np.ndarray, want: np.ndarray) -> np.ndarray:
    if result.close is not None:
        return result.close(got, want)
    name = result.element if result.element in ELEMENTS else "i64"
    if name in ("f4E2M1FN", "i4"):
        return got == want
    return same(name, got, want)


def _describe(program: Program, row: Row, result: Result, got: np.ndarray, want: np.ndarray, i: int, count: int) -> str:
    operands = [
        f"{name} {int(bits[i]):#x} ({values(name, bits[i : i + 1])[0]})" if name in ELEMENTS else f"{int(bits[i]):#x}"
        for name, bits in program.inputs[id(row)]
        if bits.size == got.size
    ]
    name = result.element if result.element in ELEMENTS else "i64"
    shown = [
        f"{int(a[i]):#x} ({values(name, a[i : i + 1])[0]})" if name != "i4" else f"{int(a[i]):#x}" for a in (got, want)
    ]
    return (
        f"{row}: element {i} of {result.element}{list(result.shape)} is {shown[0]}, the interpreter has {shown[1]}; "
        f"operands {', '.join(operands)}; {count} of {got.size} differ"
    )


def problems(rows: Sequence[Row], gpu_name: str, check: str = "basic") -> list[str]:
    """What is wrong with rows on a target; where a kernel of many does not compile or run, it is split."""
    try:
        program = build(rows)
        return differences(program, run(program, "interpreter"), run(program, "simulator", gpu_name, check))
    except Exception as error:  # a traceback is a finding, too
        if len(rows) == 1:
            return [f"{rows[0]}: {type(error).__name__}: {error}"]
        middle = len(rows) // 2
        return problems(rows[:middle], gpu_name, check) + problems(rows[middle:], gpu_name, check)


__all__ = ["BLOCKS", "Input", "Memory", "Result", "Row", "Writer", "problems", "tile", "within"]
