# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Data movement between registers, comparison and selection (PTX ISA, "mov", "Comparison and Selection")."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..codegen import Emitter, op
from ..ir import Imm, Instruction, Pair, Sink, Vec
from ..types import TYPES, PtxType, unsigned_code
from . import floating, packed


@op("mov")
def _mov(cg: Emitter, ins: Instruction) -> None:
    kind = TYPES.get(ins.modifiers[-1])
    if kind is None:
        cg.fail("mov needs a type")
    target, source = ins.operands
    if isinstance(source, Vec):
        _pack(cg, target, source, kind)
    elif isinstance(target, Vec):
        _unpack(cg, target, source, kind)
    else:
        cg.dst(target, kind, cg.src(source, kind))


def _pack(cg: Emitter, target: Any, source: Vec, kind: PtxType) -> None:
    """mov.b64 d, {lo, hi}: the first element is the least significant."""
    count = len(source.items)
    part = TYPES[f"b{kind.bits // count}"]
    if kind.bits == 128:
        a, b = (cg.src(x, TYPES["b64"]) for x in source.items)
        cg.dst(target, kind, f"{cg.use(join_quad)}({a}, {b})")
        return
    terms = []
    for k, item in enumerate(source.items):
        value = f"{cg.src(item, part)}.astype({kind.code})"
        terms.append(value if k == 0 else f"({value} << {cg.const(k * part.bits, kind.code)})")
    cg.dst(target, TYPES[f"b{kind.bits}"], " | ".join(terms))


def _unpack(cg: Emitter, target: Vec, source: Any, kind: PtxType) -> None:
    value = cg.src(source, TYPES[f"b{kind.bits}"])
    count = len(target.items)
    part = TYPES[f"b{kind.bits // count}"]
    for k, item in enumerate(target.items):
        if isinstance(item, Sink):
            continue
        if kind.bits == 128:
            cg.dst(item, part, f"{value}[{'hi' if k else 'lo'!r}].copy()")
            continue
        shifted = f"({value} >> {cg.const(k * part.bits, kind.code)})" if k else value
        cg.dst(item, part, f"{shifted}.astype({part.code})")


def join_quad(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Two 64-bit halves as one 128-bit value."""
    from ..types import DTYPES

    low, high = np.broadcast_arrays(low, high)
    out = np.empty(len(low), dtype=DTYPES["q"])
    out["lo"], out["hi"] = low, high
    return out


_INTEGER_COMPARE = {
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "lo": "<", "ls": "<=", "hi": ">", "hs": ">=",
}  # fmt: skip


def compare(cg: Emitter, comparison: str, kind: PtxType, a: str, b: str) -> str:
    """A boolean vector expression for one comparison, ordered or unordered."""
    if kind.kind != "f":
        if comparison not in _INTEGER_COMPARE:
            cg.fail(f".{comparison} does not compare integers")
        return f"({a} {_INTEGER_COMPARE[comparison]} {b})"
    if comparison == "num":
        return f"(({a} == {a}) & ({b} == {b}))"
    if comparison == "nan":
        return f"(({a} != {a}) | ({b} != {b}))"
    unordered = comparison.endswith("u") and comparison != "u"
    base = comparison[:-1] if unordered else comparison
    if base not in ("eq", "ne", "lt", "le", "gt", "ge"):
        cg.fail(f".{comparison} does not compare floating-point values")
    if base == "ne":
        # Python's != is true for NaN; the ordered form is not.
        return f"({a} != {b})" if unordered else f"(({a} < {b}) | ({a} > {b}))"
    if unordered:
        opposite = {"lt": ">=", "le": ">", "gt": "<=", "ge": "<"}.get(base)
        if base == "eq":
            return f"~(({a} < {b}) | ({a} > {b}))"
        return f"~({a} {opposite} {b})"
    return f"({a} {_INTEGER_COMPARE[base]} {b})"


def _combine(cg: Emitter, ins: Instruction, result: str, operand: Any) -> str:
    boolean = next((m for m in ins.modifiers if m in ("and", "or", "xor")), None)
    if boolean is None:
        return result
    symbol = {"and": "&", "or": "|", "xor": "^"}[boolean]
    return f"({result} {symbol} {cg.pred(operand)})"


@op("setp")
def _setp(cg: Emitter, ins: Instruction) -> None:
    kind = TYPES[ins.modifiers[-1]]
    if kind.name in ("f16x2", "bf16x2"):
        packed.emit_setp(cg, ins, kind)
        return
    a, b = (floating.load(cg, x, kind, "ftz" in ins.modifiers) for x in ins.operands[1:3])
    result = cg.let(compare(cg, ins.modifiers[0], kind, a, b))
    third = ins.operands[3] if len(ins.operands) > 3 else None
    target = ins.operands[0]
    pred = TYPES["pred"]
    if isinstance(target, Pair):
        # Both destinations see the sources as they were.
        first = cg.let(_combine(cg, ins, result, third))
        second = cg.let(_combine(cg, ins, f"(~{result})", third))
        cg.dst(target.first, pred, first)
        cg.dst(target.second, pred, second)
    else:
        cg.dst(target, pred, _combine(cg, ins, result, third))


@op("set")
def _set(cg: Emitter, ins: Instruction) -> None:
    types = [TYPES[m] for m in ins.modifiers if m in TYPES]
    out, kind = types[-2], types[-1]
    if kind.name in ("f16x2", "bf16x2"):
        packed.emit_set(cg, ins, out, kind)
        return
    a, b = (floating.load(cg, x, kind, "ftz" in ins.modifiers) for x in ins.operands[1:3])
    third = ins.operands[3] if len(ins.operands) > 3 else None
    result = cg.let(_combine(cg, ins, compare(cg, ins.modifiers[0], kind, a, b), third))
    if out.name == "f32":
        cg.dst(ins.operands[0], out, f"{result}.astype(f4)")
    elif out.kind == "f":
        one = {"f16": 0x3C00, "bf16": 0x3F80}[out.name]
        cg.dst(ins.operands[0], TYPES["b16"], f"np.where({result}, np.uint16({one}), np.uint16(0))")
    else:
        wide = unsigned_code(out.bits)
        cg.dst(ins.operands[0], out, f"(-{result}.astype(i{wide[1]})).view({out.code})")


@op("selp")
def _selp(cg: Emitter, ins: Instruction) -> None:
    kind = TYPES[ins.modifiers[-1]]
    a, b = cg.src(ins.operands[1], kind), cg.src(ins.operands[2], kind)
    cg.dst(ins.operands[0], kind, f"np.where({cg.pred(ins.operands[3])}, {a}, {b})")


@op("slct")
def _slct(cg: Emitter, ins: Instruction) -> None:
    kind, by = TYPES[ins.modifiers[-2]], TYPES[ins.modifiers[-1]]
    a, b = cg.src(ins.operands[1], kind), cg.src(ins.operands[2], kind)
    c = floating.load(cg, ins.operands[3], by, "ftz" in ins.modifiers)
    cg.dst(ins.operands[0], kind, f"np.where({c} >= {cg.const(0, by.code)}, {a}, {b})")


@op("cvta")
def _cvta(cg: Emitter, ins: Instruction) -> None:
    from ..memory import CONST_WINDOW, LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW

    windows = {
        "global": 0,
        "shared": SHARED_WINDOW,
        "shared::cta": SHARED_WINDOW,
        "shared::cluster": SHARED_WINDOW,
        "local": LOCAL_WINDOW,
        "param": PARAM_WINDOW,
        "param::entry": PARAM_WINDOW,
        "const": CONST_WINDOW,
    }
    space = next((m for m in ins.modifiers if m in windows), None)
    if space is None:
        cg.fail("cvta needs a state space")
    kind = TYPES["u64"]
    source = ins.operands[1]
    value = cg.src(source, kind)
    window = windows[space]
    if space.startswith("param"):
        # Symbols of entry parameters already carry the window here.
        window = 0
    if not window:
        cg.dst(ins.operands[0], kind, value)
    elif "to" in ins.modifiers:
        cg.dst(ins.operands[0], kind, f"{value} - {cg.const(window, 'u8')}")
    else:
        # Offsets above the window's size are already generic (an address that went through twice).
        cg.dst(ins.operands[0], kind, f"{value} + {cg.const(window, 'u8')}")


@op("isspacep")
def _isspacep(cg: Emitter, ins: Instruction) -> None:
    codes = {
        "global": (0x70,), "shared": (1,), "shared::cta": (1,), "shared::cluster": (1,), "local": (2,), "param": (3,),
        "param::entry": (3,), "const": (4,),
    }  # fmt: skip
    wanted = codes[ins.modifiers[0]][0]
    value = cg.src(ins.operands[1], TYPES["u64"])
    result = cg.let(f"({value} >> {cg.const(40, 'u8')}) == {cg.const(wanted, 'u8')}")
    if ins.modifiers[0] == "shared::cta":
        result = cg.let(f"{result} & (({value} & {cg.const(0xFFFFFFFF, 'u8')}) < {cg.const(1 << 24, 'u8')})")
    cg.dst(ins.operands[0], TYPES["pred"], result)


__all__ = ["Imm", "compare", "join_quad"]
