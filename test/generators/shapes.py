# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Statements that move elements: shapes, parts of tiles, tiles as bytes; reductions and scans."""

from __future__ import annotations

from collections.abc import Callable

from generators.core import Generator, Scope, statement
from generators.values import FLOATS, WIDE_INTEGERS, Type, Value, exact_integers, powers, width


def _fits(type_: Type) -> bool:
    """Whether there are tiles of this type."""
    return type_.element != "f4E2M1FN" or any(n % 2 == 0 for n in type_.shape)


def moved(g: Generator, s: Scope, source: Value) -> Value:
    """The elements of a tile at other places, perhaps in another shape."""
    exponent = source.type.size.bit_length() - 1
    rank = len(source.type.shape)
    if rank >= 2 and g.chance(0.5):
        return permuted(g, s, source)
    target = source.type.shaped(powers(exponent, g.random.randint(1 if exponent else 0, g.profile.ranks), g.random))
    if not _fits(target):
        return source
    return g.let(s, f"reshape {source} : {source.type} -> {target}", target, source.bounds, source.bits, keep=False)


def permuted(g: Generator, s: Scope, source: Value, order: list[int] | None = None) -> Value:
    rank = len(source.type.shape)
    order = g.random.sample(range(rank), rank) if order is None else order
    target = source.type.shaped(tuple(source.type.shape[i] for i in order))
    return g.let(
        s, f"permute {source} {order} : {source.type} -> {target}", target, source.bounds, source.bits, keep=False
    )


def tile(g: Generator, s: Scope) -> Value:
    """Some tile that is no scalar, or a new one."""
    found = g.any(s, lambda v: bool(v.type.shape)) if g.chance(0.8) else None
    return found or g.get(s, g.pick_type())


@statement("shapes", 6)
def move(g: Generator, s: Scope) -> None:
    s.values.append(moved(g, s, tile(g, s)))


@statement("shapes", 3)
def repeat(g: Generator, s: Scope) -> None:
    type_ = g.pick_type()
    if type_.shape:
        g.broadcast(s, type_)


@statement("shapes", 3)
def concatenation(g: Generator, s: Scope) -> None:
    left = tile(g, s)
    if not left.type.shape or left.type.size >= 1 << g.profile.max_exponent:
        return
    right = g.get(s, left.type)
    dim = g.random.randrange(len(left.type.shape))
    target = left.type.shaped(tuple(n * 2 if i == dim else n for i, n in enumerate(left.type.shape)))
    bounds = None
    if left.bounds and right.bounds:
        bounds = min(left.bounds[0], right.bounds[0]), max(left.bounds[1], right.bounds[1])
    text = f"cat {left}, {right} dim = {dim} : {left.type}, {right.type} -> {target}"
    g.let(s, text, target, bounds, left.bits and right.bits)


def _part(g: Generator, whole: Type) -> tuple[Type, tuple[int, ...]] | None:
    """The type of a part of a tile, and how many of them there are along each dimension."""
    counts = tuple(g.random.choice([1, 1, min(2, n), min(4, n), n]) for n in whole.shape)
    part = whole.shaped(tuple(n // c for n, c in zip(whole.shape, counts)))
    return (part, counts) if _fits(part) else None


def _part_index(g: Generator, s: Scope, counts: tuple[int, ...]) -> str:
    return ", ".join(str(g.small(s, Type("i32"), 0, c - 1)) for c in counts)


@statement("shapes", 4)
def part(g: Generator, s: Scope) -> None:
    source = tile(g, s)
    found = _part(g, source.type)
    if found is None:
        return
    type_, counts = found
    index = _part_index(g, s, counts)
    text = f"extract {source}[{index}] : {source.type} -> {type_}"
    g.let(s, text, type_, source.bounds, source.bits)


@statement("shapes", 3)
def replaced_part(g: Generator, s: Scope) -> None:
    whole = tile(g, s)
    found = _part(g, whole.type)
    if found is None:
        return
    type_, counts = found
    source = g.get(s, type_)
    index = _part_index(g, s, counts)
    text = f"insert {source}, {whole}[{index}] : {source.type}, {whole.type}"
    g.let(s, text, whole.type, None, source.bits and whole.bits)


@statement("shapes", 3)
def counting(g: Generator, s: Scope) -> None:
    element = g.pick_element(WIDE_INTEGERS)
    exponent = g.random.randint(0, min(g.profile.max_exponent, width(element) - 1))
    type_ = Type(element, (1 << exponent,))
    g.let(s, f"iota : {type_}", type_, (0, type_.size - 1))


@statement("packing", 4)
def pack(g: Generator, s: Scope) -> None:
    """A tile as bytes, and bytes as a tile."""
    source = g.any(s, lambda v: v.bits and v.type.element not in ("i8", "tf32", "f8E4M3FN", "f8E5M2", "f8E8M0FNU"))
    if source is None or g.chance(0.4):
        bytes_ = g.any(s, lambda v: v.type.element == "i8" and v.type.size >= 8)
        if bytes_ is None:
            bytes_ = g.make(s, Type("i8", (g.random.choice([8, 32, 128]),)))
        if len(bytes_.type.shape) != 1:
            flat = bytes_.type.shaped((bytes_.type.size,))
            bytes_ = g.let(s, f"reshape {bytes_} : {bytes_.type} -> {flat}", flat)
        element = g.random.choice([e for e in (*g.elements, "i4") if e not in
                                   ("i8", "tf32", "f8E4M3FN", "f8E5M2", "f8E8M0FNU")] or ["i16"])  # fmt: skip
        target = Type(element, (bytes_.type.size * 8 // width(element),))
        if target.size > 1 << g.profile.max_exponent + 2:
            return
        g.let(s, f"unpack {bytes_} : {bytes_.type} -> {target}", target)
        return
    size = source.type.size
    if size * width(source.type.element) < 8 or size > 1024:
        return
    if len(source.type.shape) != 1:
        flat = source.type.shaped((size,))
        source = g.let(s, f"reshape {source} : {source.type} -> {flat}", flat)
    target = Type("i8", (size * width(source.type.element) // 8,))
    g.let(s, f"pack {source} : {source.type} -> {target}", target)


# -- reductions and scans ---------------------------------------------------------------------------------------------

Body = Callable[[Generator, Scope, list[Value], list[Value]], list[Value]]


def _binary(op: str, tail: str = "") -> Body:
    def write(g: Generator, s: Scope, x: list[Value], y: list[Value]) -> list[Value]:
        return [g.let(s, f"{op} {a}, {b}{tail} : {a.type}", a.type) for a, b in zip(x, y)]

    return write


def _affine(g: Generator, s: Scope, x: list[Value], y: list[Value]) -> list[Value]:
    """First x -> a x + b, then c x + d: associative, and not commutative."""
    (a, b), (c, d) = x, y
    slope = g.let(s, f"muli {a}, {c} : {a.type}", a.type)
    moved_ = g.let(s, f"muli {b}, {c} : {a.type}", a.type)
    return [slope, g.let(s, f"addi {moved_}, {d} : {a.type}", a.type)]


def _matrix(g: Generator, s: Scope, x: list[Value], y: list[Value]) -> list[Value]:
    """The product of two matrices of two rows."""
    type_ = x[0].type

    def entry(row: int, column: int) -> Value:
        first = g.let(s, f"muli {x[2 * row]}, {y[column]} : {type_}", type_)
        second = g.let(s, f"muli {x[2 * row + 1]}, {y[2 + column]} : {type_}", type_)
        return g.let(s, f"addi {first}, {second} : {type_}", type_)

    return [entry(0, 0), entry(0, 1), entry(1, 0), entry(1, 1)]


def _last_nonzero(g: Generator, s: Scope, x: list[Value], y: list[Value]) -> list[Value]:
    type_, flag = y[0].type, y[0].type.of("i1")
    zero = g.constant(s, 0, type_)
    is_set = g.let(s, f"cmpi not_equal {y[0]}, {zero}, signed : {type_} -> {flag}", flag)
    return [g.let(s, f"select {is_set}, {y[0]}, {x[0]} : {flag}, {type_}", type_)]


def _segmented(g: Generator, s: Scope, x: list[Value], y: list[Value]) -> list[Value]:
    """Sums that begin anew where the flag is set."""
    (f, v), (h, w) = x, y
    flags = g.let(s, f"ori {f}, {h} : {f.type}", f.type)
    total = g.let(s, f"addi {v}, {w} : {v.type}", v.type)
    return [flags, g.let(s, f"select {h}, {w}, {total} : {f.type}, {v.type}", v.type)]


def _place_of_largest(g: Generator, s: Scope, x: list[Value], y: list[Value]) -> list[Value]:
    """The largest number and the first place where it is: the place decides between equals."""
    (v, i), (w, j) = x, y
    flag = Type("i1")
    greater = g.let(s, f"cmpi greater_than {v}, {w}, signed : {v.type} -> {flag}", flag)
    equal = g.let(s, f"cmpi equal {v}, {w}, signed : {v.type} -> {flag}", flag)
    before = g.let(s, f"cmpi less_than {i}, {j}, unsigned : {i.type} -> {flag}", flag)
    tie = g.let(s, f"andi {equal}, {before} : {flag}", flag)
    first = g.let(s, f"ori {greater}, {tie} : {flag}", flag)
    return [g.let(s, f"select {first}, {a}, {b} : {flag}, {a.type}", a.type) for a, b in zip(x, y)]


def _together(bodies: list[Body]) -> Body:
    """Independent functions of one operand each."""

    def write(g: Generator, s: Scope, x: list[Value], y: list[Value]) -> list[Value]:
        return [r for body, a, b in zip(bodies, x, y) for r in body(g, s, [a], [b])]

    return write


def _identity(element: str, number: int | str) -> str:
    if element in (*WIDE_INTEGERS, "i1"):
        return f"{'true' if number else 'false'}" if element == "i1" else f"{number} : {element}"
    patterns = {"f16": (0x7C00, 0xFC00), "bf16": (0x7F80, 0xFF80), "f32": (0x7F800000, 0xFF800000),
                "f64": (0x7FF0000000000000, 0xFFF0000000000000)}  # fmt: skip
    if number == "inf":
        return f"0x{patterns[element][0]:X} : {element}"
    if number == "-inf":
        return f"0x{patterns[element][1]:X} : {element}"
    return f"{number}.0 : {element}"


def _fold(g: Generator, s: Scope, shape: tuple[int, ...], count: int) -> tuple[Value, Body, str]:
    """One operand with a function of it and its neutral element."""
    element = g.pick_element((*WIDE_INTEGERS, "i1", *FLOATS))
    type_ = Type(element, shape)
    if element in FLOATS:
        kind = g.random.choice(["add", "add", "extremum"])
        if kind == "extremum":
            op = g.random.choice(["minf", "maxf"])
            neutral = _identity(element, "inf" if op == "minf" else "-inf")
            # Where NaN loses, the infinity is no neutral element of NaN.
            return g.get(s, type_), _binary(op, " propagate_nan"), neutral
        limit = min(exact_integers(element) // count, 8)
        if limit >= 1:
            # Sums of whole numbers are exact in any order, but for the sign of zero.
            low = g.random.choice([0, -limit])
            return positive_zeros(g, s, g.small(s, type_, low, limit)), _binary("addf"), _identity(element, 0)
        return g.get(s, type_), _binary("maxf", " propagate_nan"), _identity(element, "-inf")
    if element == "i1":
        op, number = g.random.choice([("andi", 1), ("ori", 0), ("xori", 0)])
        return g.get(s, type_), _binary(op), _identity(element, number)
    half = 1 << width(element) - 1
    table = [("addi", "", 0), ("muli", "", 1), ("xori", "", 0), ("ori", "", 0), ("andi", "", -1),
             ("mini", " signed", half - 1), ("maxi", " signed", -half), ("maxi", " unsigned", 0),
             ("mini", " unsigned", -1)]  # fmt: skip
    op, tail, number = g.random.choice(table)
    return g.get(s, type_), _binary(op, tail), _identity(element, number)


def positive_zeros(g: Generator, s: Scope, value: Value) -> Value:
    """The numbers with +0 for -0."""
    if value.bounds is not None and value.bounds[0] > 0:
        return value
    zero = g.constant(s, 0, value.type)
    return g.let(s, f"addf {value}, {zero} : {value.type}", value.type, value.bounds, keep=False)


def _aggregate(g: Generator, s: Scope, shape: tuple[int, ...], count: int) -> tuple[list[Value], Body, list[str]]:
    """Operands, the function and its neutral elements."""
    element = g.pick_element(WIDE_INTEGERS)
    type_ = Type(element, shape)
    kind = g.random.choice(["fold"] * 5 + ["several", "affine", "matrix", "last", "segmented", "place"])
    if kind == "affine":
        return [g.get(s, type_), g.get(s, type_)], _affine, [_identity(element, 1), _identity(element, 0)]
    if kind == "matrix":
        return [g.get(s, type_) for _ in range(4)], _matrix, [_identity(element, n) for n in (1, 0, 0, 1)]
    if kind == "last":
        return [g.get(s, type_)], _last_nonzero, [_identity(element, 0)]
    if kind == "segmented":
        return [g.get(s, type_.of("i1")), g.get(s, type_)], _segmented, ["false", _identity(element, 0)]
    if kind == "place":
        place = g.get(s, type_.of("i32"))
        low = -(1 << width(element) - 1)
        return [g.get(s, type_), place], _place_of_largest, [_identity(element, low), "-1 : i32"]
    folds = [_fold(g, s, shape, count) for _ in range(2 if kind == "several" else 1)]
    return [f[0] for f in folds], _together([f[1] for f in folds]), [f[2] for f in folds]


@statement("collectives", 7)
def aggregate(g: Generator, s: Scope) -> None:
    """A reduction or a scan along one dimension, of one or more operands."""
    shape = g.pick_shape()
    if not shape:
        return
    dim = g.random.randrange(len(shape))
    scan = g.chance(0.4)
    if scan and shape[dim] > 64:
        return  # the interpreter takes one step for each element
    values, body, neutral = _aggregate(g, s, shape, shape[dim])
    result = shape if scan else (*shape[:dim], *shape[dim + 1 :])
    types = [v.type.shaped(result) for v in values]
    names = [g.name() for _ in values]
    reverse = f" reverse={g.random.choice(['true', 'false'])}" if scan else ""
    head = f"{', '.join(names)} = {'scan' if scan else 'reduce'} {', '.join(map(str, values))} dim={dim}{reverse} "
    head += f"identities=[{', '.join(neutral)}] : {', '.join(str(v.type) for v in values)} -> "
    head += ", ".join(map(str, types))
    first = [Value(g.name(), v.type.shaped(())) for v in values]
    second = [Value(g.name(), v.type.shaped(())) for v in values]
    arguments = ", ".join(f"{a}: {a.type}, {b}: {b.type}" for a, b in zip(first, second))
    g.emit(s, head)
    g.emit(s, f"({arguments}) {{")
    inner = s.inner()
    inner.values = []
    combined = body(g, inner, first, second)
    types_text = ", ".join(str(v.type) for v in combined)
    g.emit(inner, f"yield {', '.join(map(str, combined))} : {types_text}")
    s.lines += inner.lines
    g.emit(s, "}")
    for name, type_, value in zip(names, types, values):
        bits = not type_.is_float or value.bounds is not None
        s.values.append(Value(name, type_, None, bits))
