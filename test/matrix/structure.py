# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rows of the ops that make, move and combine elements: shapes, constants, packing, reductions and scans."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import permutations
from math import prod

import numpy as np

from libtile.interpreter.formats import ELEMENTS
from matrix.kernel import POOL, Input, Result, Row, Shape, Writer, pool, tile

NUMBERS = tuple(ELEMENTS)
POINTER = "ptr<f32>"
ALL = (*NUMBERS, POINTER)
MOVED: tuple[Shape, ...] = ((2,), (8,), (128,), (1024,), (4, 2), (16, 64), (2, 4, 8), (2, 2, 4, 16))
"""Shapes of tiles that are moved; f4E2M1FN tiles need an even number of elements."""

Rows = Iterator[Row]


def _covered(*elements: str) -> frozenset[str]:
    return frozenset(e.split("<")[0] for e in elements)


def moved(op: str, name: str, element: str, sources: list[Shape], result: Shape, text: Callable[..., str]) -> Row:
    """A row of an op that only moves elements: `text` gives the op from the names of its operands and of constants."""

    def body(w: Writer, *names: str) -> list[str]:
        return [w.let(text(w, *names))]

    inputs = tuple(Input(element, s, seed) for s, seed in zip(sources, (2, 3)))
    return Row(op, f"{element} {name}", inputs, (Result(element, result),), body, elements=_covered(element))


def _types(element: str, *shapes: Shape) -> str:
    return ", ".join(tile(element, s) for s in shapes)


def reshapes() -> Rows:
    targets = {
        (2,): [(1, 2), (2, 1, 1)],
        (8,): [(2, 4), (2, 2, 2)],
        (1024,): [(32, 32), (4, 16, 16)],
        (16, 64): [(1024,), (64, 16)],
    }
    for element in ALL:
        for source, shapes in targets.items():
            for result in shapes:
                yield moved(
                    "reshape",
                    f"{source} {result}",
                    element,
                    [source],
                    result,
                    lambda w, x, e=element, s=source, r=result: f"reshape {x} : {tile(e, s)} -> {tile(e, r)}",
                )
        if element != "f4E2M1FN":
            yield moved(
                "reshape",
                "() (1, 1)",
                element,
                [()],
                (1, 1),
                lambda w, x, e=element: f"reshape {x} : {tile(e, ())} -> {tile(e, (1, 1))}",
            )


def broadcasts() -> Rows:
    pairs: list[tuple[Shape, Shape]] = [
        ((2, 1), (2, 64)),
        ((1, 32), (16, 32)),
        ((1, 2, 1), (4, 2, 8)),
        ((1, 1, 4, 1), (2, 1, 4, 16)),
        ((1,), (128,)),
    ]
    for element in ALL:
        for source, result in pairs:
            if element == "f4E2M1FN" and prod(source) % 2:
                continue
            yield moved(
                "broadcast",
                f"{source} {result}",
                element,
                [source],
                result,
                lambda w, x, e=element, s=source, r=result: f"broadcast {x} : {tile(e, s)} -> {tile(e, r)}",
            )


def permutes() -> Rows:
    for element in ALL:
        for shape in ((4, 2), (16, 64), (2, 4, 8), (2, 2, 4, 16)):
            orders = list(permutations(range(len(shape))))[1:]
            for order in orders if len(orders) <= 5 else orders[::4]:
                result = tuple(shape[i] for i in order)
                yield moved(
                    "permute",
                    f"{shape} {order}",
                    element,
                    [shape],
                    result,
                    lambda w, x, e=element, s=shape, r=result, o=order: (
                        f"permute {x} {list(o)} : {tile(e, s)} -> {tile(e, r)}"
                    ),
                )


def cats() -> Rows:
    for element in ALL:
        for shape in MOVED:
            for dim in range(len(shape)):
                result = tuple(2 * n if i == dim else n for i, n in enumerate(shape))
                yield moved(
                    "cat",
                    f"{shape} {dim}",
                    element,
                    [shape, shape],
                    result,
                    lambda w, x, y, e=element, s=shape, r=result, d=dim: (
                        f"cat {x}, {y} dim = {d} : {_types(e, s, s)} -> {tile(e, r)}"
                    ),
                )


_PARTS: tuple[tuple[Shape, Shape], ...] = (
    ((8,), (4,)),
    ((1024,), (2,)),
    ((1024,), (256,)),
    ((16, 64), (16, 8)),
    ((16, 64), (4, 64)),
    ((16, 64), (2, 2)),
    ((2, 4, 8), (1, 4, 2)),
    ((2, 2, 4, 16), (1, 2, 2, 8)),
)
"""Whole tiles and parts of them."""


def _part_index(whole: Shape, part: Shape, at_run_time: bool) -> tuple[tuple[Input, ...], list[int]]:
    """Indices of a part: as inputs, or as constants."""
    counts = [w // p for w, p in zip(whole, part)]
    if not at_run_time:
        return (), [(2 * i + 1) % n for i, n in enumerate(counts)]

    def numbers(n: int) -> Callable[[int], np.ndarray]:
        return lambda count: (np.arange(count) * 3 % n).astype(np.uint32)

    return tuple(Input("i32", (), 2, numbers(n)) for n in counts), []


def parts() -> Rows:
    for element in ALL:
        for whole, part in _PARTS:
            for at_run_time in (False, True):
                given, constants = _part_index(whole, part, at_run_time)

                def index(w: Writer, names: tuple[str, ...], constants: list[int] = constants) -> str:
                    return ", ".join(names or [w.constant(c) for c in constants])

                def extract(
                    w: Writer,
                    x: str,
                    *names: str,
                    e: str = element,
                    s: Shape = whole,
                    r: Shape = part,
                    index: Callable[..., str] = index,
                ) -> list[str]:
                    return [w.let(f"extract {x}[{index(w, names)}] : {tile(e, s)} -> {tile(e, r)}")]

                def insert(
                    w: Writer,
                    x: str,
                    y: str,
                    *names: str,
                    e: str = element,
                    s: Shape = whole,
                    r: Shape = part,
                    index: Callable[..., str] = index,
                ) -> list[str]:
                    return [w.let(f"insert {y}, {x}[{index(w, names)}] : {_types(e, r, s)}")]

                name = f"{element} {whole} {part} {'runtime' if at_run_time else 'constant'}"
                covered = _covered(element)
                x, y = Input(element, whole, 2), Input(element, part, 3)
                yield Row("extract", name, (x, *given), (Result(element, part),), extract, elements=covered)
                yield Row("insert", name, (x, y, *given), (Result(element, whole),), insert, elements=covered)


def iotas() -> Rows:
    for element in ("i1", "i8", "i16", "i32", "i64"):
        for count in (1, 2, 32, 128, 1024):
            if count > 1 << ELEMENTS[element].width:
                continue
            yield Row(
                "iota",
                f"{element} {count}",
                (),
                (Result(element, (count,)),),
                lambda w, e=element, n=count: [w.let(f"iota : {tile(e, (n,))}")],
                elements=_covered(element),
            )


def constants() -> Rows:
    """Splats and lists of special values, by their bits; the values come back as they were given."""
    for element in NUMBERS:
        if element == "i4":
            continue
        for shape in ((), (2,), (64,), (4, 8), (2, 2, 4)):
            if element == "f4E2M1FN" and prod(shape) % 2:
                continue
            for splat in (True, False):
                text = _dense(element, shape, splat)
                yield Row(
                    "constant",
                    f"{element} {shape} {'splat' if splat else 'list'}",
                    (),
                    (Result(element, shape),),
                    lambda w, e=element, s=shape, t=text: [w.let(f"constant <{e}: {t}> : {tile(e, s)}")],
                    elements=_covered(element),
                )


def _dense(element: str, shape: Shape, splat: bool) -> str:
    bits = pool(element, POOL, 2)[-max(prod(shape), 2) :]
    if element == "tf32":
        words = [int(b) >> 13 for b in bits]
    else:
        words = [int(b) for b in bits]
    if element == "i1":
        texts = ["true" if w & 1 else "false" for w in words]
    elif ELEMENTS[element].is_float:
        texts = [f"0x{w:0{-(-ELEMENTS[element].width // 4)}X}" for w in words]
    else:
        width = ELEMENTS[element].width
        texts = [str(w - (1 << width) if w >> (width - 1) else w) for w in words]
    if splat or not shape:
        return texts[0]

    def nested(dims: Shape, items: list[str]) -> str:
        if not dims:
            return items[0]
        step = len(items) // dims[0]
        return "[" + ", ".join(nested(dims[1:], items[i * step : (i + 1) * step]) for i in range(dims[0])) + "]"

    return nested(shape, texts)


def packings() -> Rows:
    for element in NUMBERS:
        width = 32 if element == "tf32" else ELEMENTS[element].width
        if width == 8:
            continue
        for count in (8, 64, 1024):
            size = count * width // 8
            yield Row(
                "pack",
                f"{element} {count}",
                (Input(element, (count,)),),
                (Result("i8", (size,)),),
                lambda w, x, e=element, n=count, m=size: [w.let(f"pack {x} : {tile(e, (n,))} -> {tile('i8', (m,))}")],
                elements=_covered(element, "i8"),
            )
            yield Row(
                "unpack",
                f"{element} {count}",
                (Input("i8", (size,)),),
                (Result(element, (count,)),),
                lambda w, x, e=element, n=count, m=size: [w.let(f"unpack {x} : {tile('i8', (m,))} -> {tile(e, (n,))}")],
                elements=_covered(element, "i8"),
            )


# -- reductions -----------------------------------------------------------------------------------------------------

_REDUCED: tuple[tuple[Shape, int], ...] = (
    ((1,), 0),
    ((2,), 0),
    ((32,), 0),
    ((1024,), 0),
    ((4, 16), 0),
    ((4, 16), 1),
    ((64, 32), 0),
    ((64, 32), 1),
    ((2, 4, 8), 1),
    ((2, 1, 4, 16), 2),
)
"""Shapes, and the dimension along which they are reduced."""

_INTEGER_BODIES = {
    "addi": "0",
    "muli": "1",
    "andi": "-1",
    "ori": "0",
    "xori": "0",
    "maxi signed": "low",
    "mini unsigned": "-1",
}
_FLOAT_BODIES = {"addf": "0.0", "mulf": "1.0", "maxf": "-inf", "minf propagate_nan": "inf"}


def _identity(element: str, text: str) -> str:
    elem = ELEMENTS[element]
    if text == "low":
        text = str(elem.smallest)
    if element == "i1":
        return {"0": "false", "1": "true", "-1": "true"}[text]
    if text in ("inf", "-inf"):
        infinity = {"f16": "0x7C00", "bf16": "0x7F80", "f32": "0x7F800000", "f64": "0x7FF0000000000000"}
        negative = {"f16": "0xFC00", "bf16": "0xFF80", "f32": "0xFF800000", "f64": "0xFFF0000000000000"}
        text = (infinity if text == "inf" else negative)[element]
    return f"{text} : {element}"


def _exact_values(element: str, body: str) -> Callable[[int], np.ndarray] | None:
    """Floats whose sums and products do not depend on the order in which they are taken."""
    if body.startswith(("max", "min")) or element not in ("f16", "bf16", "f32", "f64"):
        return None
    elem = ELEMENTS[element]

    def numbers(count: int) -> np.ndarray:
        rng = np.random.default_rng(7)
        # Sums of up to 1024 of them are exact in bf16; products of signs are exact, and tell every element.
        chosen = np.where(rng.random(count) < 1 / 16, rng.choice([1.0, -1.0], count), -0.0) if body == "addf" else None
        if chosen is None:
            chosen = rng.choice([1.0, -1.0], count)
        return chosen.astype(elem.dtype).view(f"u{elem.dtype.itemsize}")

    return numbers


def _collective(op: str, element: str, body: str, identity: str, shape: Shape, dim: int, reverse: bool) -> Row:
    name, _, flags = body.partition(" ")
    result = shape if op == "scan" else shape[:dim] + shape[dim + 1 :]
    tail = f" reverse={'true' if reverse else 'false'}" if op == "scan" else ""

    def write(w: Writer, x: str) -> list[str]:
        a, b, c = w.name(), w.name(), w.name()
        scalar = tile(element, ())
        return [
            w.let(
                f"{op} {x} dim={dim}{tail} identities=[{_identity(element, identity)}] : {tile(element, shape)} -> "
                f"{tile(element, result)} ({a}: {scalar}, {b}: {scalar}) {{ {c} = {name} {a}, {b} {flags} : {scalar}\n"
                f"yield {c} : {scalar} }}"
            )
        ]

    return Row(
        op,
        f"{element} {body} {shape} {dim}{' reverse' if reverse else ''}",
        (Input(element, shape, 2, _exact_values(element, body)),),
        (Result(element, result),),
        write,
        elements=_covered(element),
    )


_WIDER = {
    "i4": ("0x0", "exti {0} unsigned", "i8", "addi {0}, {1}", "trunci {0}"),
    "tf32": ("0x7F800", "ftof {0}", "f32", "maxf {0}, {1}", "ftof {0}"),
    "f8E4M3FN": ("0xFE", "ftof {0}", "f32", "maxf {0}, {1}", "ftof {0}"),
    "f8E5M2": ("0xFB", "ftof {0}", "f32", "maxf {0}, {1}", "ftof {0}"),
    "f8E8M0FNU": ("0x00", "ftof {0}", "f32", "maxf {0}, {1}", "ftof {0} rounding<positive_inf>"),
}
"""Types without arithmetic: the identity, and how to compute in a wider type: there, its name, the op, and back."""


def _through_wider(op: str, element: str, shape: Shape, dim: int) -> Row:
    """The sum or maximum of a type without arithmetic, whose body converts to a wider type and back."""
    result = shape if op == "scan" else shape[:dim] + shape[dim + 1 :]
    identity, there, wider, combine, back = _WIDER[element]

    def write(w: Writer, x: str) -> list[str]:
        a, b, c, d, e, f = (w.name() for _ in range(6))
        scalar, wide = tile(element, ()), tile(wider, ())
        return [
            w.let(
                f"{op} {x} dim={dim}{' reverse=true' if op == 'scan' else ''} identities=[{identity} : {element}] : "
                f"{tile(element, shape)} -> {tile(element, result)} ({a}: {scalar}, {b}: {scalar}) {{\n"
                f"{c} = {there.format(a)} : {scalar} -> {wide}\n{d} = {there.format(b)} : {scalar} -> {wide}\n"
                f"{e} = {combine.format(c, d)} : {wide}\n{f} = {back.format(e)} : {wide} -> {scalar}\n"
                f"yield {f} : {scalar} }}"
            )
        ]

    return Row(
        op,
        f"{element} through {wider} {shape} {dim}",
        (Input(element, shape),),
        (Result(element, result),),
        write,
        elements=_covered(element),
    )


def _affine(op: str, element: str, shape: Shape, dim: int, reverse: bool) -> Row:
    """Composition of functions x -> a x + b: two operands together, associative, but not commutative."""
    result = shape if op == "scan" else shape[:dim] + shape[dim + 1 :]
    tail = f" reverse={'true' if reverse else 'false'}" if op == "scan" else ""

    def write(w: Writer, x: str, y: str) -> list[str]:
        s, r = tile(element, shape), tile(element, result)
        one = tile(element, ())
        a, b, c, d, e, f, g = (w.name() for _ in range(7))
        first, second = w.name(), w.name()
        w.lines.append(
            f"{first}, {second} = {op} {x}, {y} dim={dim}{tail} identities=[1 : {element}, 0 : {element}] : {s}, {s} "
            f"-> {r}, {r} ({a}: {one}, {b}: {one}, {c}: {one}, {d}: {one}) {{\n{e} = muli {a}, {b} : {one}\n"
            f"{f} = muli {c}, {b} : {one}\n{g} = addi {f}, {d} : {one}\nyield {e}, {g} : {one}, {one} }}"
        )
        return [first, second]

    return Row(
        op,
        f"{element} affine {shape} {dim}{' reverse' if reverse else ''}",
        (Input(element, shape, 2), Input(element, shape, 3)),
        (Result(element, result),) * 2,
        write,
        elements=_covered(element),
    )


def collectives(op: str) -> Rows:
    orders = (False, True) if op == "scan" else (False,)
    for shape, dim in _REDUCED:
        for reverse in orders:
            for element in ("i1", "i8", "i16", "i32", "i64"):
                for body, identity in _INTEGER_BODIES.items():
                    if element == "i1" and body.startswith(("max", "min", "mul", "add")):
                        continue
                    yield _collective(op, element, body, identity, shape, dim, reverse)
            for element in ("f16", "bf16", "f32", "f64"):
                for body, identity in _FLOAT_BODIES.items():
                    yield _collective(op, element, body, identity, shape, dim, reverse)
            yield _affine(op, "i32", shape, dim, reverse)
            yield _affine(op, "i8", shape, dim, reverse)
        for element in _WIDER:
            yield _through_wider(op, element, shape, dim)


TABLE: dict[str, Callable[[], Rows]] = {
    "reshape": reshapes,
    "broadcast": broadcasts,
    "permute": permutes,
    "cat": cats,
    "extract": lambda: (r for r in parts() if r.op == "extract"),
    "insert": lambda: (r for r in parts() if r.op == "insert"),
    "iota": iotas,
    "constant": constants,
    "pack": lambda: (r for r in packings() if r.op == "pack"),
    "unpack": lambda: (r for r in packings() if r.op == "unpack"),
    "reduce": lambda: collectives("reduce"),
    "scan": lambda: collectives("scan"),
}
