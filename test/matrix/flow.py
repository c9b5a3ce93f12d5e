# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rows of control flow, whose values may be tiles of any type, and of the ops that tell and order things."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod

import numpy as np

from libtile.interpreter.formats import ELEMENTS
from matrix.kernel import BLOCKS, Input, Memory, Result, Row, Shape, Writer, tile
from matrix.memory import ADDRESSED, binary, pointers, spread
from matrix.structure import ALL

SHAPES: tuple[Shape, ...] = ((), (2,), (512,), (4, 16))
INTEGERS = ("i1", "i8", "i16", "i32", "i64")
Rows = Iterator[Row]
Body = Callable[[Writer, str, str, str], str]
"""Writes a construct over two tiles of the type named last; yields the name of its result."""


def _is_odd(w: Writer, value: str) -> str:
    bit = binary(w, "andi", value, w.constant(1), "i32", ())
    return w.let(f"cmpi equal {bit}, {w.constant(1)}, signed : tile<i32> -> tile<i1>")


def branch(w: Writer, x: str, y: str, type_: str) -> str:
    return w.let(f"if {_is_odd(w, w.block)} -> ({type_}) {{ yield {x} : {type_} }} else {{ yield {y} : {type_} }}")


def counted(w: Writer, x: str, y: str, type_: str, unsigned: str = "") -> str:
    """Exchanges the tiles as often as the tile block's number says."""
    a, b, c, d, i = (w.name() for _ in range(5))
    w.lines.append(
        f"{a}, {b} = for {unsigned}{i} in ({w.zero} to {w.block}, step {w.constant(1)}) : tile<i32> "
        f"iter_values({c} = {x}, {d} = {y}) -> ({type_}, {type_}) {{ continue {d}, {c} : {type_}, {type_} }}"
    )
    return a


def until_break(w: Writer, x: str, y: str, type_: str) -> str:
    """Exchanges the tiles until a counter is at the tile block's number; every third round is left early."""
    one, three = w.constant(1), w.constant(3)
    r, n, a, b, done, m, rest, skip = (w.name() for _ in range(8))
    w.lines.append(
        f"{r} = loop iter_values({n} = {w.zero}, {a} = {x}, {b} = {y}) : tile<i32>, {type_}, {type_} -> {type_} {{\n"
        f"{done} = cmpi greater_than_or_equal {n}, {w.block}, signed : tile<i32> -> tile<i1>\n"
        f"if {done} {{ break {a} : {type_} }}\n{m} = addi {n}, {one} : tile<i32>\n"
        f"{rest} = remi {m}, {three} signed : tile<i32>\n"
        f"{skip} = cmpi equal {rest}, {w.zero}, signed : tile<i32> -> tile<i1>\n"
        f"if {skip} {{ continue {m}, {a}, {b} : tile<i32>, {type_}, {type_} }}\n"
        f"continue {m}, {b}, {a} : tile<i32>, {type_}, {type_} }}"
    )
    return r


def _flow(op: str, construct: Body, name: str = "") -> Rows:
    for element in ALL:
        for shape in SHAPES:
            if element == "f4E2M1FN" and prod(shape) % 2:
                continue
            type_ = tile(element, shape)
            yield Row(
                op,
                f"{element} {shape}{name}",
                (Input(element, shape, 2), Input(element, shape, 3)),
                (Result(element, shape),),
                lambda w, x, y, t=type_: [construct(w, x, y, t)],
                elements=frozenset({element.split("<")[0]}),
            )


def counted_loops() -> Rows:
    yield from _flow("for", counted)
    yield from _flow("for", lambda w, x, y, t: counted(w, x, y, t, "unsigned "), " unsigned")
    for element in INTEGERS[1:]:
        yield Row(
            "for",
            f"{element} as bounds",
            (Input(element, (), 2, _small_counts(element)),),
            (Result(element, ()),),
            lambda w, n, e=element: [_sum_up(w, n, e)],
            elements=frozenset({element}),
        )


def _small_counts(element: str) -> Callable[[int], np.ndarray]:
    return lambda count: (np.arange(count) % 7).astype(f"u{ELEMENTS[element].storage_bytes}")


def _sum_up(w: Writer, upper: str, element: str) -> str:
    """The sum of every other number below a bound."""
    scalar = tile(element, ())
    low, step = w.constant(1, element), w.constant(2, element)
    r, i, a, b = (w.name() for _ in range(4))
    w.lines.append(
        f"{r} = for {i} in ({low} to {upper}, step {step}) : {scalar} iter_values({a} = {low}) -> ({scalar}) {{\n"
        f"{b} = addi {a}, {i} : {scalar}\ncontinue {b} : {scalar} }}"
    )
    return r


# -- what is told ---------------------------------------------------------------------------------------------------


def _scalars(op: str, texts: dict[str, str]) -> Rows:
    for name, text in texts.items():

        def body(w: Writer, text: str = text) -> list[str]:
            x, y, z = w.name(), w.name(), w.name()
            w.lines.append(f"{x}, {y}, {z} = {text}")
            return [x, y, z]

        yield Row(op, name, (), (Result("i32", ()),) * 3, body, elements=frozenset({"i32"}))


def sizes(op: str) -> Rows:
    """The size of a tensor, and that of a view of it in tiles, as every integer type that can hold it."""
    tensor = "tensor_view<?x21xf32, strides=[21,1]>"
    view = f"partition_view<tile=(4x8), {tensor}, dim_map=[1, 0]>"
    for element in INTEGERS[1:]:
        scalar = tile(element, ())

        def body(w: Writer, base: str, scalar: str = scalar) -> list[str]:
            source = w.let(
                f"make_tensor_view {base}, shape = [{w.constant(13)}, 21], strides = [21, 1] : tile<i32> -> {tensor}"
            )
            x, y = w.name(), w.name()
            if op == "get_tensor_shape":
                w.lines.append(f"{x}, {y} = get_tensor_shape {source} : {tensor} -> {scalar}")
            else:
                parts = w.let(f"make_partition_view {source} : {view}")
                w.lines.append(f"{x}, {y} = get_index_space_shape {parts} : {view} -> {scalar}")
            return [x, y]

        yield Row(op, element, (Memory("f32", 273),), (Result(element, ()),) * 2, body, elements=frozenset({element}))


def facts() -> Rows:
    """Facts that hold of the values; what is computed with them stays right."""
    for element in ("i8", "i16", "i32", "i64"):
        for shape in ((), (64,), (4, 16)):
            predicates = ["div_by<4>", "bounded<0, 124>", "bounded<?, 124>", "bounded<0, ?>"]
            if shape:
                predicates.append(f"same_elements<{[1] * len(shape)}>")
            for predicate in predicates:

                def body(w: Writer, x: str, e: str = element, s: Shape = shape, p: str = predicate) -> list[str]:
                    known = w.let(f"assume {p}, {x} : {tile(e, s)}")
                    three = spread(w, w.constant(3, e), e, s)
                    return [binary(w, op, known, three, e, s) for op in ("muli", "andi")] + [
                        w.let(f"{op} {known}, {three} {sign} : {tile(e, s)}")
                        for op in ("divi", "remi", "shri")
                        for sign in ("signed", "unsigned")
                    ]

                def multiples(count: int, e: str = element) -> np.ndarray:
                    return (np.arange(count) * 12 % 128).astype(f"u{ELEMENTS[e].storage_bytes}")

                yield Row(
                    "assume",
                    f"{element} {shape} {predicate}",
                    (Input(element, shape, 2, multiples),),
                    (Result(element, shape),) * 8,
                    body,
                    elements=frozenset({element}),
                )


# -- memory that a program has by itself ----------------------------------------------------------------------------


def globals_() -> Rows:
    """An array of the module: each tile block reads an element of it."""
    for element in (e for e in ADDRESSED if e != "fnv8E5M3FNU"):
        words = {"i1": "true, false, true, true, false, false, true, false"}
        elem = ELEMENTS[element]
        numbers = [1, 0, 2, 4, 1, 2, 8, 1] if element == "f8E8M0FNU" else range(8)
        text = words.get(
            element, ", ".join(f"{max(n, 1) if element == 'f8E8M0FNU' else n}{'.0' * elem.is_float}" for n in numbers)
        )
        pointer = f"tile<ptr<{element}>>"

        def body(w: Writer, e: str = element, p: str = pointer) -> list[str]:
            base = w.let(f"get_global @data_{e} : {p}")
            at = w.let(f"offset {base}, {w.block} : {p}, tile<i32> -> {p}")
            return [w.first(f"load_ptr_tko weak {at} : {p} -> {tile(e, ())}, token")]

        yield Row(
            "get_global",
            element,
            (),
            (Result(element, ()),),
            body,
            elements=frozenset({element, "ptr"}),
            globals=f"global @data_{element} alignment = 16 <{element}: [{text}]> : tile<8x{element}>",
        )


def scratch() -> Rows:
    """What was stored to memory of the tile block's own, read back in another order."""
    for element in ADDRESSED:
        for shape in ((8,), (512,), (4, 16)):
            count = prod(shape)
            pointer, value = f"ptr<{element}>", tile(element, shape)

            def body(
                w: Writer, x: str, e: str = element, s: Shape = shape, n: int = count, p: str = pointer, v: str = value
            ) -> list[str]:
                base = w.let(f"alloca num_elem = {n}, alignment = 16 : tile<{p}>")
                flat = w.let(f"reshape {x} : {v} -> {tile(e, (n,))}")
                bases = spread(w, base, p, (n,))
                order = w.let(f"iota : {tile('i32', (n,))}")
                turned = binary(w, "xori", order, spread(w, w.constant(n - 1), "i32", (n,)), "i32", (n,))
                types = f"{tile(p, (n,))}, {tile('i32', (n,))} -> {tile(p, (n,))}"
                to, of = (w.let(f"offset {bases}, {index} : {types}") for index in (order, turned))
                token = w.let(f"store_ptr_tko weak {to}, {flat} : {tile(p, (n,))}, {tile(e, (n,))} -> token")
                read = w.first(f"load_ptr_tko weak {of} token = {token} : {tile(p, (n,))} -> {tile(e, (n,))}, token")
                return [w.let(f"reshape {read} : {tile(e, (n,))} -> {v}")]

            yield Row(
                "alloca",
                f"{element} {shape}",
                (Input(element, shape),),
                (Result(element, shape),),
                body,
                elements=frozenset({element, "ptr"}),
            )


_ORDERED = {
    "make_token": "{r} = make_token : token\n{t} = join_tokens {r}, {s} : token",
    "join_tokens": "{r} = make_token : token\n{t} = join_tokens {s}, {r}, {s} : token",
    "gdc_wait_tko": "{t} = gdc_wait_tko token = {s} -> token",
    "gdc_launch_dependents_tko": "{t} = gdc_launch_dependents_tko token = {s} -> token",
    "memory_fence_alias_tko": "{t} = memory_fence_alias_tko {s}",
    "print_tko": '{t} = print_tko "matrix\\0A" token={s} -> token',
    "assert": (
        '{r} = constant <i1: true> : tile<4xi1>\nassert {r}, "never" : tile<4xi1>\n{t} = join_tokens {s}, {s} : token'
    ),
}


def ordered(op: str) -> Rows:
    """A store that a token orders before a load of the same elements by other threads, past the op."""
    for shape in ((128,), (4, 64)):
        count = prod(shape)

        def body(w: Writer, base: str, x: str, s: Shape = shape, n: int = count) -> list[str]:
            at = pointers(w, base, "i32", s, True)
            stored = w.let(f"store_ptr_tko weak {at}, {x} : {tile('ptr<i32>', s)}, {tile('i32', s)} -> token")
            between, unused = w.name(), w.name()
            w.lines.append(_ORDERED[op].format(s=stored, t=between, r=unused))
            back = pointers(w, base, "i32", s, False)
            return [
                w.first(
                    f"load_ptr_tko weak {back} token = {between} : {tile('ptr<i32>', s)} -> {tile('i32', s)}, token"
                )
            ]

        yield Row(
            op, str(shape), (Memory("i32", BLOCKS * count, 5), Input("i32", shape)), (Result("i32", shape),), body
        )


TABLE: dict[str, Callable[[], Rows]] = {
    "if": lambda: _flow("if", branch),
    "for": counted_loops,
    "loop": lambda: _flow("loop", until_break),
    "get_tile_block_id": lambda: _scalars("get_tile_block_id", {"all": "get_tile_block_id : tile<i32>"}),
    "get_num_tile_blocks": lambda: _scalars("get_num_tile_blocks", {"all": "get_num_tile_blocks : tile<i32>"}),
    "get_tensor_shape": lambda: sizes("get_tensor_shape"),
    "get_index_space_shape": lambda: sizes("get_index_space_shape"),
    "assume": facts,
    "get_global": globals_,
    "alloca": scratch,
    **{op: (lambda op=op: ordered(op)) for op in _ORDERED},  # type: ignore[misc]
}
