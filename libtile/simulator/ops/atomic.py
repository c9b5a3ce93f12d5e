# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""atom and red (PTX ISA, "atom", "red", "red.async")."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import fp
from ..atomics import AtomicInfo, Combine
from ..codegen import Emitter, op
from ..ir import Addr, Instruction, Sink, Sym, Vec
from ..types import TYPES, PtxType
from . import packed
from .float_values import min_max
from .memory import SPACES, address, store_later, symbol_space, type_of, vector_of

_OPERATIONS = ("and", "or", "xor", "exch", "add", "inc", "dec", "min", "max", "cas")


def _cas(old: np.ndarray, b: np.ndarray, c: Any) -> np.ndarray:
    return np.where(old == b, c, old)


def _inc(old: np.ndarray, b: np.ndarray, c: Any) -> np.ndarray:
    return np.where(old >= b, old.dtype.type(0), old + old.dtype.type(1))


def _dec(old: np.ndarray, b: np.ndarray, c: Any) -> np.ndarray:
    return np.where((old == 0) | (old > b), b, old - old.dtype.type(1))


_COMBINE: dict[str, Combine] = {
    "and": lambda old, b, c: old & b,
    "or": lambda old, b, c: old | b,
    "xor": lambda old, b, c: old ^ b,
    "exch": lambda old, b, c: b,
    "min": lambda old, b, c: np.minimum(old, b),
    "max": lambda old, b, c: np.maximum(old, b),
    "cas": _cas,
    "inc": _inc,
    "dec": _dec,
}


def _half_operation(name: str, kind: str) -> Combine:
    """add, min and max of f16, bf16 and their pairs, on the bits."""

    def combine(old: np.ndarray, b: np.ndarray, c: Any) -> np.ndarray:
        if kind.endswith("x2"):
            return packed.arithmetic(kind, name, "rn", (), old, b)
        if kind == "f16":
            x, y = old.view(np.float16), b.view(np.float16)
        else:
            x, y = fp.widen_bf16(old), fp.widen_bf16(b)
        r = x + y if name == "add" else min_max(x, y, name == "max", False, False)
        return fp.canon(r).view(np.uint16) if kind == "f16" else fp.round_bf16(r)

    return combine


def _combine_for(cg: Emitter, name: str, kind: PtxType) -> Combine | None:
    if kind.name in ("f16", "bf16", "f16x2", "bf16x2"):
        if name not in ("add", "min", "max"):
            cg.fail(f".{name} of .{kind.name} does not exist")
        return _half_operation(name, kind.name)
    if name == "add":
        if kind.kind == "f":
            return lambda old, b, c: fp.canon(old + b)
        return None
    return _COMBINE[name]


# What bulk reductions do, by type (PTX ISA, "cp.reduce.async.bulk"); in tensors the map says the type.
_ADDED = frozenset({"u32", "s32", "u64", "f16", "bf16", "f32", "f32.ftz", "f64"})
_COMPARED = frozenset({"u32", "s32", "u64", "s64", "f16", "bf16"})
_BITWISE = frozenset({"u32", "s32", "u64", "s64", "b32", "b64"})
REDUCTIONS: dict[str, frozenset[str]] = {
    "add": _ADDED, "min": _COMPARED, "max": _COMPARED, "inc": frozenset({"u32"}), "dec": frozenset({"u32"}),
    "and": _BITWISE, "or": _BITWISE, "xor": _BITWISE,
}  # fmt: skip


_WORDS = frozenset({"u32"})
PLAIN_REDUCTIONS: dict[str, dict[str, frozenset[str]]] = {
    "global": {**REDUCTIONS, "add": _ADDED - {"f32.ftz"}}
    | dict.fromkeys(("and", "or", "xor"), frozenset({"b32", "b64"})),
    "shared": {
        "add": frozenset({"u32", "s32", "u64"}), "min": frozenset({"u32", "s32"}), "max": frozenset({"u32", "s32"}),
        "inc": _WORDS, "dec": _WORDS, **dict.fromkeys(("and", "or", "xor"), frozenset({"b32"})),
    },
}  # fmt: skip
"""Of those that are not of tensors, by the space of the destination."""


def reduction_for(name: str, element: str) -> Combine | None:
    """A bulk reduction of elements whose bits are held as unsigned numbers; None when there is none for the type."""
    if element not in REDUCTIONS[name]:
        return None
    if element in ("f16", "bf16"):
        return _half_operation(name, element)
    kind = TYPES[element.removesuffix(".ftz")]
    dtype = kind.dtype

    def combine(old: np.ndarray, b: np.ndarray, c: Any) -> np.ndarray:
        x, y = old.view(dtype), b.view(dtype)
        if name != "add":
            return _COMBINE[name](x, y, c).view(old.dtype)
        if element.endswith(".ftz"):
            return fp.flush(fp.canon(fp.flush(x) + fp.flush(y))).view(old.dtype)
        return (fp.canon(x + y) if kind.kind == "f" else x + y).view(old.dtype)

    return combine


def _emit(cg: Emitter, ins: Instruction, returns: bool) -> None:
    kind, vector = type_of(cg, ins), vector_of(ins)
    name = next((m for m in ins.modifiers if m in _OPERATIONS), None)
    if name is None:
        cg.fail("unknown atomic operation")
    if "async" in ins.modifiers:
        combine = reduction_for(name, kind.name) if kind.name in PLAIN_REDUCTIONS["shared"].get(name, ()) else None
        if combine is None or vector > 1:
            cg.fail(f"red.async has no .{name}.{kind.name}")
        store_later(cg, ins, kind, (ins.operands[1],), cg.use(combine))
        return
    space = next((SPACES[m] for m in ins.modifiers if m in SPACES), "generic")
    operands: list[Any] = list(ins.operands)
    target = operands.pop(0) if returns else Sink()
    code = "u2" if kind.name == "f16" else kind.code
    combine = _combine_for(cg, name, kind)
    info = AtomicInfo(ins, space, code, vector, True, "relaxed", kind=name, combine=combine, returns=returns)
    source = operands[0]
    if space == "generic" and isinstance(source, Addr) and isinstance(source.base, Sym):
        info.space = symbol_space(cg, source.base)
    where = address(cg, source)
    cg.uniform = True
    value_type = TYPES["b16"] if kind.name == "f16" else kind
    if vector > 1 and isinstance(operands[1], Vec):
        b = "(" + ", ".join(cg.src(x, value_type) for x in operands[1].items) + ")"
    else:
        b = cg.src(operands[1], value_type)
    c = cg.src(operands[2], value_type) if name == "cas" else "None"
    cg.uniform = False
    result = cg.let(f"M.atomic({cg.use(info, f'a{id(info)}')}, g, {where}, {b}, {c}, {cg.mask()})")
    if isinstance(target, Vec):
        for k, item in enumerate(target.items):
            cg.dst(item, value_type, f"{result}[{k}]")
    else:
        cg.dst(target, value_type, result)


@op("atom")
def _atom(cg: Emitter, ins: Instruction) -> None:
    _emit(cg, ins, True)


@op("red")
def emit_red(cg: Emitter, ins: Instruction) -> None:
    """A modification that gives no old value."""
    _emit(cg, ins, False)
