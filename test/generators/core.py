# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes random programs: the places of a program, the values that can be used there, memory, and the main loop.

What statements there are is in the modules beside this one: each is a function `(g, scope)` that appends ops to the
scope, registered with `@statement(feature, weight)`. A program uses a random part of the features, so that rare ones
meet. No statement has undefined behaviour: indices, shifts, divisors and promises follow from `Value.bounds`, or are
made to fit.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from generators.values import (
    ALL,
    FLOATS,
    INTEGERS,
    Bounds,
    Type,
    Value,
    dense,
    fitting,
    packed,
    powers,
    random_bits,
    signed_range,
    storage,
    width,
)

INDEX = Type("i32")
INPUT_SIZE = 1024
"""Elements of an input array; a power of two, so that a mask keeps any index inside."""
REGION = 128
"""Elements that each tile block has for itself in an array that is read and written."""


@dataclass(frozen=True)
class Comparison:
    """How results of two backends compare: `ulps` apart at most, or `relative`ly; `unordered` ones as a multiset."""

    ulps: int = 0
    relative: float = 0.0
    unordered: bool = False


@dataclass
class Parameter:
    """A parameter of the entry: an array of `size` elements, or a scalar.

    `bounds` restricts random content. `written` arrays are results, and compare as `comparison` says.
    """

    name: str
    element: str
    size: int = 0
    bounds: Bounds | None = None
    written: bool = False
    comparison: Comparison = Comparison()

    @property
    def type(self) -> Type:
        return Type(f"ptr<{self.element}>" if self.size else self.element)

    def content(self, rng: np.random.Generator) -> Any:
        """A random argument."""
        if self.size:
            return packed(random_bits(rng, self.element, self.size, self.bounds), self.element)
        bits = random_bits(rng, self.element, 1, self.bounds)
        return int(bits[0])


@dataclass
class Program:
    """A random module with one entry, and how to launch it."""

    seed: int
    text: str
    parameters: list[Parameter]
    grid: tuple[int, int, int]
    features: tuple[str, ...]

    def arguments(self, variant: int = 0) -> list[Any]:
        """Fresh arguments: other ones for each variant, the same each time."""
        rng = np.random.default_rng([self.seed, variant])
        return [p.content(rng) for p in self.parameters]


@dataclass
class Scope:
    """A place in the program: the values that can be used there, the state, and the exits that are allowed.

    The state is what every structure carries: tokens first, then values of the program's state types. `bounds` are
    what the induction variable `iv` of the innermost `for` can be compared with.
    """

    values: list[Value]
    state: list[Value]
    depth: int = 2
    loop: str = ""
    nest: int = 0
    counter: str = ""
    iv: Value | None = None
    signedness: str = ""
    bounds: list[Value] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def inner(self) -> Scope:
        return replace(
            self, values=[*self.values], state=[*self.state], depth=self.depth + 1, nest=self.nest + 1, lines=[]
        )


Statement = Callable[["Generator", Scope], None]


@dataclass(frozen=True)
class _Entry:
    feature: str
    weight: int
    write: Statement


STATEMENTS: list[_Entry] = []


def statement(feature: str, weight: int = 4) -> Callable[[Statement], Statement]:
    """Registers a function that writes a statement, or writes nothing where it does not fit."""

    def register(function: Statement) -> Statement:
        STATEMENTS.append(_Entry(feature, weight, function))
        return function

    return register


@dataclass(frozen=True)
class Profile:
    """What kind of programs: which features, how many statements, how large tiles are."""

    features: tuple[str, ...]
    always: tuple[str, ...] = ()
    statements: int = 64
    first_block: int = 10
    elements: tuple[str, ...] = ALL
    max_exponent: int = 10
    ranks: int = 4
    state: int = 3
    grid: bool = True

    def chosen(self, rng: random.Random) -> tuple[str, ...]:
        """The features of one program: some of all."""
        share = rng.choice([0.4, 0.7, 1.0])
        picked = [f for f in self.features if f in self.always or rng.random() < share]
        return tuple(picked) or self.features[:1]


class Generator:
    """One program in the making."""

    TOKENS = ("memory", "atomics")
    """What each token of the state orders."""

    def __init__(self, seed: int, profile: Profile):
        self.seed, self.profile = seed, profile
        self.random = random.Random(f"{seed} {profile.features}")
        self.numbers = np.random.default_rng(seed)
        self.count = 0
        self.features = profile.chosen(self.random)
        self.left = self.random.randint(profile.statements // 4, profile.statements)
        self.parameters: dict[str, Parameter] = {}
        self.globals: list[str] = []
        self.prologue: list[str] = []
        grids = [(1, 1, 1), (1, 1, 1), (2, 1, 1), (3, 1, 1), (2, 2, 1), (1, 2, 2)]
        self.grid = self.random.choice(grids) if profile.grid else (1, 1, 1)
        self.blocks = self.grid[0] * self.grid[1] * self.grid[2]
        self.block_number: Value | None = None
        self.fuel = 0
        self.elements = self._elements()
        self.shapes = self._shapes()
        self.state_types = [self.pick_type() if i else self._index_type() for i in range(profile.state)]

    def _elements(self) -> list[str]:
        """The element types that this program prefers."""
        some = self.random.sample(self.profile.elements, min(len(self.profile.elements), self.random.randint(2, 5)))
        base = [e for e in ("i32", "f32") if e in self.profile.elements and self.chance(0.6)]
        return [*some, *base]

    def _shapes(self) -> list[tuple[int, ...]]:
        """The shapes that this program prefers: few, so that values meet, and of few sizes."""
        if not self.profile.max_exponent:
            return [()]
        shapes: list[tuple[int, ...]] = [()]
        largest = self.profile.max_exponent + (2 if self.chance(0.08) else 0)
        for _ in range(self.random.randint(1, 2)):
            exponent = self.random.randint(0, largest)
            for _ in range(self.random.randint(1, 2)):
                shapes.append(powers(exponent, self.random.randint(1, self.profile.ranks), self.random))
        return shapes

    def _index_type(self) -> Type:
        return INDEX

    # -- chance -------------------------------------------------------------------------------------------------------

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def has(self, feature: str) -> bool:
        return feature in self.features

    def pick_element(self, among: Sequence[str] = ALL) -> str:
        """An element type among these: one that the program prefers, if there is one, more often."""
        among = [e for e in among if e in self.profile.elements]
        preferred = [e for e in self.elements if e in among]
        return self.random.choice(preferred if preferred and self.chance(0.8) else among)

    def pick_shape(self) -> tuple[int, ...]:
        return self.random.choice(self.shapes)

    def pick_type(self, among: Sequence[str] = ALL) -> Type:
        type_ = Type(self.pick_element(among), self.pick_shape())
        if type_.element == "f4E2M1FN" and type_.size == 1:
            return type_.of(self.random.choice([e for e in among if e != "f4E2M1FN"]))
        return type_

    # -- writing ------------------------------------------------------------------------------------------------------

    def name(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def emit(self, scope: Scope, text: str) -> None:
        scope.lines.append("  " * scope.depth + text)

    def let(
        self, scope: Scope, text: str, type_: Type, bounds: Bounds | None = None, bits: bool = True, keep: bool = True
    ) -> Value:
        """Write `%name = text`, of a type, and have its value."""
        value = Value(self.name(), type_, fitting(type_.element, bounds) if bounds else None, bits)
        self.emit(scope, f"{value} = {text}")
        if keep:
            scope.values.append(value)
        return value

    def constant(self, scope: Scope, number: int, type_: Type = INDEX, keep: bool = False) -> Value:
        """A splat of a whole number."""
        bits = random_bits(self.numbers, type_.element, 1, (number, number))
        bounds = None if type_.element == "i1" else (number, number)
        text = f"constant <{type_.element}: {dense(bits, type_.element, ())}> : {type_}"
        return self.let(scope, text, type_, bounds, keep=keep)

    def parameter(
        self, name: str, element: str, size: int = 0, bounds: Bounds | None = None, written: bool = False,
        comparison: Comparison = Comparison(),
    ) -> Value:  # fmt: skip
        """A parameter of the entry, added at its first use."""
        made = self.parameters.setdefault(name, Parameter(f"%{name}", element, size, bounds, written, comparison))
        return Value(made.name, made.type, bounds if not size else None)

    def result(self, element: str, size: int, comparison: Comparison = Comparison()) -> Value:
        """A new array that the program writes, each element once."""
        number = sum(name.startswith("out") for name in self.parameters)
        return self.parameter(f"out{number}", element, size, (0, 1), True, comparison)

    def at_start(self, text: str, type_: Type, bounds: Bounds | None = None) -> Value:
        """A value that the entry begins with, visible everywhere."""
        value = Value(self.name(), type_, bounds)
        self.prologue.append(f"    {value} = {text}")
        return value

    def block(self) -> Value:
        """The number of the tile block in the grid."""
        if self.block_number is None:
            x, y, z = (self.name() for _ in range(3))
            self.prologue.append(f"    {x}, {y}, {z} = get_tile_block_id : tile<i32>")
            number: Value = Value(x, INDEX)
            if self.blocks != self.grid[0]:
                sizes = [self.name() for _ in range(3)]
                self.prologue.append(f"    {', '.join(sizes)} = get_num_tile_blocks : tile<i32>")
                row = self.at_start(f"muli {z}, {sizes[1]} : tile<i32>", INDEX)
                row = self.at_start(f"addi {row}, {y} : tile<i32>", INDEX)
                first = self.at_start(f"muli {row}, {sizes[0]} : tile<i32>", INDEX)
                number = self.at_start(f"addi {first}, {x} : tile<i32>", INDEX)
            self.block_number = replace(number, bounds=(0, self.blocks - 1))
        return self.block_number

    # -- values -------------------------------------------------------------------------------------------------------

    def known(self, scope: Scope, type_: Type, bits: bool = False, bounds: Bounds | None = None) -> list[Value]:
        """The values of a type at a place, within bounds."""
        state = [v for v in scope.state if isinstance(v.type, Type)]
        found = [v for v in (*scope.values, *state) if v.type == type_ and (v.bits or not bits)]
        if bounds is None:
            return found
        return [v for v in found if v.bounds and bounds[0] <= v.bounds[0] and v.bounds[1] <= bounds[1]]

    def any(self, scope: Scope, accept: Callable[[Value], bool]) -> Value | None:
        """Some value that is acceptable, rather a recent one."""
        state = [v for v in scope.state if isinstance(v.type, Type)]
        found = [v for v in (*scope.values, *state) if accept(v)]
        if not found:
            return None
        return self.random.choice(found[-6:] if self.chance(0.6) else found)

    def get(self, scope: Scope, type_: Type, bits: bool = False) -> Value:
        """A value of the type: one that is there, or a new one."""
        found = self.known(scope, type_, bits)
        if found and self.chance(0.85):
            return self.random.choice(found[-5:] if self.chance(0.5) else found)
        return self.make(scope, type_)

    def make(self, scope: Scope, type_: Type) -> Value:
        """A new value of the type, all of whose bits have a right value."""
        if type_.element == "i4":  # which has neither constants nor memory of its own
            wide = self.get(scope, type_.of("i8"))
            return self.let(scope, f"trunci {wide} : {wide.type} -> {type_}", type_)
        ways = [self.random_constant]
        if self.fuel < 3 and self.profile.max_exponent:
            ways += [self.loaded, self.loaded, self.reshaped, self.broadcast]
        self.fuel += 1
        try:
            return self.random.choice(ways)(scope, type_)
        finally:
            self.fuel -= 1

    def random_constant(self, scope: Scope, type_: Type, bounds: Bounds | None = None) -> Value:
        """A constant: one element for all, or a value for each of few."""
        count = type_.size if type_.size <= 64 and self.chance(0.5) else 1
        if bounds is None and type_.element in INTEGERS and self.chance(0.5):
            low, high = signed_range(type_.element)
            bounds = (max(low, -9), min(high, 9)) if type_.element != "i1" else None
        bits = random_bits(self.numbers, type_.element, count, bounds)
        if type_.element == "i1":
            bits = bits & 1
        shape = type_.shape if count == type_.size else ()
        text = f"constant <{type_.element}: {dense(bits, type_.element, shape)}> : {type_}"
        return self.let(scope, text, type_, bounds)

    def loaded(self, scope: Scope, type_: Type) -> Value:
        from generators import memory

        return memory.input_tile(self, scope, type_)

    def reshaped(self, scope: Scope, type_: Type) -> Value:
        def fits(v: Value) -> bool:
            return v.type.element == type_.element and v.type.size == type_.size and v.bits

        source = self.any(scope, fits) or self.random_constant(scope, type_)
        return self.let(scope, f"reshape {source} : {source.type} -> {type_}", type_, source.bounds, source.bits)

    def broadcast(self, scope: Scope, type_: Type) -> Value:
        """A value repeated along some dimensions."""
        if type_.element == "f4E2M1FN" or not type_.shape:
            return self.random_constant(scope, type_)
        shape = tuple(n if self.chance(0.4) else 1 for n in type_.shape)
        source = self.get(scope, type_.shaped(shape), bits=True)
        if source.type == type_:
            return source
        return self.spread(scope, source, type_.shape)

    def spread(self, scope: Scope, source: Value, shape: tuple[int, ...], keep: bool = True) -> Value:
        """A scalar, or a tile of the same rank, broadcast to a shape."""
        if source.type.shape == shape:
            return source
        if not source.type.shape:
            ones = source.type.shaped((1,) * len(shape))
            source = self.let(
                scope, f"reshape {source} : {source.type} -> {ones}", ones, source.bounds, source.bits, keep=False
            )
            if ones.shape == shape:
                return source
        type_ = source.type.shaped(shape)
        text = f"broadcast {source} : {source.type} -> {type_}"
        return self.let(scope, text, type_, source.bounds, source.bits, keep)

    def small(self, scope: Scope, type_: Type, low: int, high: int) -> Value:
        """A value of an integer or float type whose elements are whole numbers from low to high."""
        found = self.known(scope, type_, bounds=(low, high))
        if found and self.chance(0.7):
            return self.random.choice(found)
        if low == high or self.chance(0.3) or type_.element == "i1":
            return self.random_constant(scope, type_, (low, high))
        if not type_.is_integer:
            bound = fitting(type_.element, (low, high))
            if self.chance(0.5) and self.profile.max_exponent and bound:
                from generators import memory

                return memory.input_tile(self, scope, type_, (low, high))
            if bound is None or type_.element == "f8E8M0FNU":
                return self.random_constant(scope, type_, (low, high))
            numbers = self.small(scope, type_.of("i32"), low, high)
            return self.let(scope, f"itof {numbers} signed : {numbers.type} -> {type_}", type_, numbers.bounds)
        # An arbitrary value, some of its low bits, moved to where the bounds begin.
        source = self.get(scope, type_)
        mask = (1 << (high - low + 1).bit_length() - 1) - 1
        bits = self.constant(scope, mask, type_)
        value = self.let(scope, f"andi {source}, {bits} : {type_}", type_, (0, mask), keep=False)
        if low:
            first = self.constant(scope, low, type_)
            value = self.let(scope, f"addi {value}, {first} : {type_}", type_, (low, low + mask), keep=False)
        scope.values.append(value)
        return value

    def to_width(self, scope: Scope, value: Value, element: str) -> Value:
        """An integer as another integer type that its bounds fit."""
        if value.type.element == element:
            return value
        target = value.type.of(element)
        op = "exti" if width(element) > width(value.type.element) else "trunci"
        sign = " signed" if op == "exti" else ""
        return self.let(scope, f"{op} {value}{sign} : {value.type} -> {target}", target, value.bounds, keep=False)

    # -- statements ---------------------------------------------------------------------------------------------------

    def write(self, scope: Scope, limit: int) -> None:
        """A block of up to `limit` statements."""
        entries = [e for e in STATEMENTS if e.feature in self.features]
        weights = [e.weight for e in entries]
        for _ in range(self.random.randint(1, limit)):
            if self.left <= 0:
                return
            self.left -= 1
            self.random.choices(entries, weights)[0].write(self, scope)

    def program(self) -> Program:
        from generators import control, memory

        tokens = [Value(f"%start{i}", "token") for i in range(len(self.TOKENS))]  # type: ignore[arg-type]
        scope = Scope([], list(tokens))
        for token in tokens:
            self.emit(scope, f"{token} = make_token : token")
        for type_ in self.state_types:
            scope.state.append(self._initial(scope, type_))
        self.write(scope, self.profile.first_block)
        while self.left > self.profile.statements // 8:
            self.write(scope, self.profile.first_block)
        memory.final_stores(self, scope)
        control.finish(self, scope, "return")
        hints = self._entry_hints()
        head = ", ".join(f"{p.name}: {p.type}" for p in self.parameters.values())
        entry = [f"  entry @kernel({head}) {hints}{{", *self.prologue, *scope.lines, "  }"]
        lines = ["cuda_tile.module @kernels {", *self.globals, *entry, "}", ""]
        return Program(self.seed, "\n".join(lines), list(self.parameters.values()), self.grid, self.features)

    def _initial(self, scope: Scope, type_: Type) -> Value:
        """What a part of the state starts as: a parameter, if it is a scalar."""
        if not type_.shape and type_.element in (*INTEGERS, *FLOATS) and type_.element != "i1":
            number = sum(name.startswith("x") for name in self.parameters)
            value = self.parameter(f"x{number}", type_.element)
        else:
            value = self.make(scope, type_)
        if value not in scope.values:
            scope.values.append(value)
        return replace(value, bounds=None)

    def _entry_hints(self) -> str:
        if not self.has("hints"):
            return ""
        choices = ["sm_90 = {occupancy = 2}", "sm_80 = {num_worker_warps_per_cta = 8}", "sm_100 = {occupancy = 4}",
                   "sm_120 = {num_worker_warps_per_cta = 4}", "sm_90 = {num_worker_warps_per_cta = 8}"]  # fmt: skip
        return f"optimization_hints=<{self.random.choice(choices)}> "


def argument_dtype(parameter: Parameter) -> np.dtype:
    return storage(parameter.element)
