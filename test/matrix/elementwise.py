# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rows of the elementwise ops, derived from the dialect's declarations.

Every op gets a row for each choice of element types and attributes that its declaration admits and the verifier
accepts. Inputs for which an op's behaviour is undefined are replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.test import TestOp

from libtile.asm.module import diagnose
from libtile.dialects.cuda_tile.ops import build
from libtile.dialects.cuda_tile.types import NUMBER_TYPES, PointerType, TileType
from libtile.interpreter.formats import ELEMENTS
from libtile.spec import OpSpec, default_spec
from lowering.elementwise import ulps, values
from matrix.kernel import Input, Result, Row, Writer, tile, within

SPEC = default_spec()
GROUPS = ("Integer", "Bitwise", "Floating Point", "Conversions")
PRODUCTS = ("mmaf", "mmai", "mmaf_scaled")
OPS = tuple(
    name
    for name, op in SPEC.ops.items()
    if (op.group in GROUPS and name not in PRODUCTS) or name in ("select", "offset")
)
"""The ops that compute each element of their result from the operands' elements at the same place."""

NUMBERS = tuple(ELEMENTS)
POINTEES = {
    "offset": ("i1", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "tf32", "f64", "f8E4M3FN", "f8E5M2"),
}
"""Pointees that matter to an op; f32 and i8 stand for all others."""


@dataclass(frozen=True)
class Choice:
    """One way to use an op: the element type of each operand and of the result, and its attributes."""

    elements: tuple[str, ...]
    result: str
    attributes: tuple[tuple[str, Any], ...]

    def __str__(self) -> str:
        given = [f"{k}={v}" if v is not True else k for k, v in self.attributes if v not in (None, False)]
        return " ".join([",".join(self.elements), "->", self.result, *given])


def element_types(op: OpSpec, constraint: str) -> tuple[str, ...]:
    """The element types that a constraint admits, pointers by their pointees."""
    allowed = SPEC.constraints[constraint].elements or (*NUMBERS, "ptr")
    names: list[str] = []
    for name in allowed:
        pointees = POINTEES.get(op.name, ("f32", "i8"))
        names += [f"ptr<{p}>" for p in pointees] if name == "ptr" else [name]
    return tuple(names)


def _type(element: str, shape: tuple[int, ...] = (8,)) -> TileType:
    if element.startswith("ptr<"):
        return TileType(shape, PointerType(NUMBER_TYPES[element[4:-1]]))
    return TileType(shape, NUMBER_TYPES[element])


def _equal_members(op: OpSpec) -> list[list[str]]:
    """Operands and results, grouped by having one type."""
    members = [v.name for v in (*op.operands, *op.results)]
    groups = [[m] for m in members]
    for trait in op.traits:
        if trait.name not in ("same_type", "same_element_type"):
            continue
        merged = [g for g in groups if set(g) & set(trait.arguments)]
        groups = [g for g in groups if g not in merged] + [[m for g in merged for m in g]]
    return groups


def _attribute_choices(op: OpSpec) -> list[list[tuple[str, Any]]]:
    choices = []
    for attribute in op.attributes:
        enum = SPEC.enums.get(attribute.kind)
        if enum is not None:
            choices.append([(attribute.name, case.keyword) for case in enum.cases])
        elif attribute.kind == "unit":
            choices.append([(attribute.name, False), (attribute.name, True)])
        else:
            raise ValueError(f"no values for attribute {attribute.name} of {op.name}")
    return choices


def _valid(op: OpSpec, choice: Choice) -> bool:
    source = TestOp(result_types=[_type(e) for e in choice.elements])
    operands = {spec.name: value for spec, value in zip(op.operands, source.results)}
    made = build(op.name, operands, [_type(choice.result)], dict(choice.attributes))
    return not diagnose(ModuleOp([source, made]))


@cache
def choices(name: str) -> tuple[Choice, ...]:
    """All ways to use an op that the verifier accepts."""
    op = SPEC.ops[name]
    groups = _equal_members(op)
    constraints = {v.name: v.constraint for v in (*op.operands, *op.results)}
    allowed = [
        [e for e in element_types(op, constraints[g[0]]) if all(e in element_types(op, constraints[m]) for m in g)]
        for g in groups
    ]
    result: list[Choice] = []
    for elements in product(*allowed):
        of = {m: e for g, e in zip(groups, elements) for m in g}
        for attributes in product(*_attribute_choices(op)):
            choice = Choice(tuple(of[v.name] for v in op.operands), of[op.results[0].name], attributes)
            if _valid(op, choice):
                result.append(choice)
    return tuple(result)


# -- text -----------------------------------------------------------------------------------------------------------


def properties(op: OpSpec, attributes: Mapping[str, Any]) -> str:
    """Attributes of an op in the generic form."""
    texts = []
    for spec in op.attributes:
        value = attributes.get(spec.name)
        if value is None or value is False:
            continue
        enum = SPEC.enums.get(spec.kind)
        texts.append(spec.name if value is True else f"{spec.name} = #cuda_tile.{enum.attr}<{value}>")  # type: ignore[union-attr]
    return f"<{{{', '.join(texts)}}}>" if texts else ""


def generic(name: str, operands: list[tuple[str, str]], result: str, attributes: Mapping[str, Any]) -> str:
    """An op in the generic form: operands are (name, type)."""
    names, types = ", ".join(n for n, _ in operands), ", ".join(t for _, t in operands)
    return f'"cuda_tile.{name}"({names}) {properties(SPEC.ops[name], attributes)} : ({types}) -> {result}'


def rows(name: str, shape: tuple[int, ...]) -> Iterator[Row]:
    """A row for each way to use an op, on tiles of one shape; tiles of f4E2M1FN have an even number of elements."""
    for choice in choices(name):
        if prod(shape) % 2 == 0 or "f4E2M1FN" not in (*choice.elements, choice.result):
            yield row(name, choice, shape)


def sign_rows(name: str) -> Iterator[Row]:
    """negf and absf change the sign bit alone, that of a NaN too: what they give is compared as integers."""
    if name not in ("negf", "absf"):
        return
    shape = (512,)
    for element in ("f16", "bf16", "f32", "f64"):
        whole = f"i{ELEMENTS[element].width}"

        def body(w: Writer, x: str, e: str = element, i: str = whole) -> list[str]:
            value = w.let(generic(name, [(x, tile(e, shape))], tile(e, shape), {}))
            return [w.let(f"bitcast {value} : {tile(e, shape)} -> {tile(i, shape)}")]

        yield Row(name, f"{element} as bits", (Input(element, shape),), (Result(whole, shape),), body,
                  elements=frozenset({element}))  # fmt: skip


def row(name: str, choice: Choice, shape: tuple[int, ...]) -> Row:
    def body(w: Writer, *names: str) -> list[str]:
        operands = [(n, tile(e, shape)) for n, e in zip(names, choice.elements)]
        return [w.let(generic(name, operands, tile(choice.result, shape), dict(choice.attributes)))]

    inputs = tuple(Input(e, shape, seed) for e, seed in zip(choice.elements, (2, 3, 4, 5)))
    result = Result(choice.result, shape, closeness(name, choice))
    names = frozenset(e.split("<")[0] for e in (*choice.elements, choice.result))
    return Row(name, str(choice), inputs, (result,), body, adjustment(name, choice), names)


# -- values for which ops are defined -------------------------------------------------------------------------------


def _signed(element: str, bits: np.ndarray) -> np.ndarray:
    width = ELEMENTS[element].width
    wide = bits.astype(object)
    return np.where(wide >= 1 << (width - 1), wide - (1 << width), wide)


def _fits(exact: np.ndarray, element: str, promise: str) -> np.ndarray:
    """Where exact results, of operands read as signed or unsigned, keep a promise not to wrap."""
    width = ELEMENTS[element].width
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if promise == "signed" else (0, (1 << width) - 1)
    return (exact >= low) & (exact <= high)


def _shift(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    return np.array([int(a) << min(int(b), 64) for a, b in zip(lhs, rhs)], object)


_EXACT: dict[str, Callable[..., np.ndarray]] = {
    "addi": lambda x, y: x + y,
    "subi": lambda x, y: x - y,
    "muli": lambda x, y: x * y,
    "negi": lambda x: -x,
    "shli": _shift,
}
_PROMISES = {
    "none": (),
    "no_signed_wrap": ("signed",),
    "no_unsigned_wrap": ("unsigned",),
    "no_wrap": ("signed", "unsigned"),
}


def _keep_promise(name: str, choice: Choice, promises: tuple[str, ...]) -> Callable[..., None]:
    element = choice.elements[0]

    def adjust(*bits: np.ndarray) -> None:
        for promise in promises:
            read = [_signed(element, b) if promise == "signed" else b.astype(object) for b in bits]
            if name == "shli":
                read[1] = bits[1].astype(object)
            bad = ~_fits(_EXACT[name](*read), element, promise).astype(bool)
            if name == "shli":
                bad |= bits[1] >= ELEMENTS[element].width
            for b in bits:
                b[bad] = 0

    return adjust


def _divisor(name: str, choice: Choice) -> Callable[..., None]:
    element, signed = choice.elements[0], dict(choice.attributes)["signedness"] == "signed"
    width = ELEMENTS[element].width

    def adjust(lhs: np.ndarray, rhs: np.ndarray) -> None:
        rhs[rhs == 0] = 1
        if signed and name == "divi":
            # The smallest integer divided by -1.
            lhs[(lhs == 1 << (width - 1)) & (rhs == (1 << width) - 1)] = 0

    return adjust


def _narrowing(choice: Choice, promises: tuple[str, ...]) -> Callable[..., None]:
    source, result = choice.elements[0], choice.result

    def adjust(bits: np.ndarray) -> None:
        kept = bits & bits.dtype.type((1 << ELEMENTS[result].width) - 1)
        sign = _signed(result, kept) == _signed(source, bits)
        for promise in promises:
            good = sign.astype(bool) if promise == "signed" else kept == bits
            bits[~good] = 0

    return adjust


def _whole(choice: Choice) -> Callable[..., None] | None:
    """Floats that an integer type holds."""
    attributes = dict(choice.attributes)
    if attributes["saturating"] or choice.result == "i1":
        return None
    width = ELEMENTS[choice.result].width
    low, high = (-(1 << (width - 1)), 1 << (width - 1)) if attributes["signedness"] == "signed" else (0, 1 << width)

    def adjust(bits: np.ndarray) -> None:
        with np.errstate(all="ignore"):
            whole = np.trunc(values(choice.elements[0], bits).astype(np.float64))
            bad = ~((whole >= low) & (whole < high))
        # Every float type has this one: zero, or in f8E8M0FNU, the power 2**0.
        bits[bad] = 127 if choice.elements[0] == "f8E8M0FNU" else 0

    return adjust


def adjustment(name: str, choice: Choice) -> Callable[..., None] | None:
    """What makes inputs of a use defined; None when all are."""
    attributes = dict(choice.attributes)
    promises = _PROMISES[attributes.get("overflow", "none")]
    if name in _EXACT and promises:
        return _keep_promise(name, choice, promises)
    if name == "trunci" and promises:
        return _narrowing(choice, promises)
    if name in ("divi", "remi"):
        return _divisor(name, choice)
    if name == "ftoi":
        return _whole(choice)
    if name == "offset":
        return _small_offset
    return None


def _small_offset(pointers: np.ndarray, offsets: np.ndarray) -> None:
    if offsets.dtype.itemsize == 8:
        offsets[:] = np.where(offsets >> np.uint64(63), ~(offsets >> np.uint64(30)), offsets >> np.uint64(30))


# -- how exact results are ------------------------------------------------------------------------------------------

#: Bounds in ulp for f32 and f64 (CUDA programming guide, mathematical functions; half an ulp more for the
#: interpreter's own rounding). f16 and bf16 results are f32 ones rounded: one step.
BOUNDS = {
    "exp": (2, 2), "exp2": (2, 2), "log": (2, 2), "log2": (2, 2), "sin": (2, 3), "cos": (2, 3), "tan": (4, 3),
    "sinh": (3, 3), "cosh": (2, 2), "tanh": (2, 2), "rsqrt": (2, 2), "pow": (4, 3), "atan2": (3, 3), "fpowi": (4, 3),
}  # fmt: skip


def closeness(name: str, choice: Choice) -> Callable[[np.ndarray, np.ndarray], np.ndarray] | None:
    """How near a result must be; None for bit for bit."""
    attributes = dict(choice.attributes)
    mode = attributes.get("rounding_mode")
    if name in ("divf", "sqrt") and mode in ("approx", "full"):
        return within("f32", 2)
    if mode == "approx" and name == "exp":
        return within("f32", 256)  # the exponent is rounded before the power: an error that grows with it
    if mode == "approx" and name == "tanh":
        return _tanh_is_close
    if name in BOUNDS:
        single, double = BOUNDS[name]
        return within(choice.result, {"f16": 1, "bf16": 1, "f32": single, "f64": double}[choice.result])
    return None


def _tanh_is_close(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """The hardware's approximation has a relative error of 2^-11 (PTX ISA, tanh)."""
    x, y = (values("f32", bits).astype(np.float64) for bits in (got, want))
    return (np.abs(x - y) <= 2.0**-10.9 * np.abs(y)) | (ulps("f32", got, want) == 0)
