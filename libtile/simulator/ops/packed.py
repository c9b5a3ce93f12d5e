# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Instructions on packed pairs: f16x2, bf16x2, f32x2, u16x2, s16x2. The lower half is the first element."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import fp
from ..codegen import Emitter, op
from ..ir import Instruction, Pair
from ..types import TYPES, PtxType
from .float_values import fma_bf16, min_max, relu, rounding

PACKED = ("f16x2", "bf16x2", "f32x2")


def split(bits: np.ndarray, kind: str) -> np.ndarray:
    """[n] packed -> [2, n] elements: float16, or float32 for bf16x2 and f32x2."""
    if kind == "f32x2":
        return np.ascontiguousarray(np.ascontiguousarray(bits).view(np.float32).reshape(-1, 2).T)
    halves = np.ascontiguousarray(np.ascontiguousarray(bits).view(np.uint16).reshape(-1, 2).T)
    return halves.view(np.float16) if kind == "f16x2" else fp.widen_bf16(halves)


def join(values: np.ndarray, kind: str) -> np.ndarray:
    """[2, n] elements -> [n] packed bits; bf16 elements are rounded here."""
    if kind == "f32x2":
        return np.ascontiguousarray(values.T).view(np.uint64)[:, 0]
    halves = values.view(np.uint16) if kind == "f16x2" else fp.round_bf16(values)
    return np.ascontiguousarray(halves.T).view(np.uint32)[:, 0]


def flush_pair(bits: np.ndarray) -> np.ndarray:
    return join(fp.flush(split(bits, "f16x2")), "f16x2")


def arithmetic(kind: str, name: str, mode: str, flags: tuple[str, ...], *operands: np.ndarray) -> np.ndarray:
    """One arithmetic instruction on packed pairs, element by element."""
    values = [split(x, kind) for x in np.broadcast_arrays(*operands)]
    if "ftz" in flags and kind != "bf16x2":
        values = [fp.flush(v) for v in values]
    if name == "add":
        r = fp.add(values[0], values[1], mode)
    elif name == "sub":
        r = fp.add(values[0], -values[1], mode)
    elif name == "mul":
        r = fp.mul(values[0], values[1], mode)
    elif name == "fma":
        if kind == "bf16x2":
            r = fma_bf16(*values)
        else:
            r = np.stack([fp.fma(values[0][k], values[1][k], values[2][k], mode) for k in range(2)])
    else:
        sign = "abs" in flags and "xorsign" in flags
        r = min_max(values[0], values[1], name == "max", "NaN" in flags, sign)
    if "ftz" in flags and kind != "bf16x2":
        r = fp.flush(r)
    if "sat" in flags:
        r = fp.saturate(r)
    if "relu" in flags:
        r = relu(r)
    return join(r, kind)


def emit(cg: Emitter, ins: Instruction, kind: PtxType, name: str) -> None:
    """Arithmetic on pairs."""
    values = ", ".join(cg.src(x, kind) for x in ins.operands[1:])
    helper = cg.use(arithmetic, "packed_arithmetic")
    flags = tuple(m for m in ins.modifiers if m in ("ftz", "sat", "relu", "NaN", "xorsign", "abs"))
    cg.dst(ins.operands[0], kind, f"{helper}({kind.name!r}, {name!r}, {rounding(ins)!r}, {flags!r}, {values})")


def unary(function: Any, kind: str, bits: np.ndarray) -> np.ndarray:
    values = split(bits, kind)
    r = function(values.astype(np.float32))
    return join(r.astype(np.float16) if kind == "f16x2" else r, kind)


def emit_unary(cg: Emitter, ins: Instruction, kind: PtxType, function: Any) -> None:
    """A function applied to both halves."""
    source = cg.src(ins.operands[1], kind)
    cg.dst(ins.operands[0], kind, f"{cg.use(unary, 'packed_unary')}({cg.use(function)}, {kind.name!r}, {source})")


def compare_pairs(comparison: str, kind: str, ftz: bool, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """[2, n] bool."""
    a, b = np.broadcast_arrays(a, b)
    x, y = split(a, kind), split(b, kind)
    if ftz and kind == "f16x2":
        x, y = fp.flush(x), fp.flush(y)
    unordered = np.isnan(x) | np.isnan(y)
    if comparison in ("num", "nan"):
        return ~unordered if comparison == "num" else unordered
    base = comparison[:-1] if comparison.endswith("u") else comparison
    result = {
        "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
        "gt": np.greater, "ge": np.greater_equal,
    }[base](x, y)  # fmt: skip
    return (result | unordered) if comparison.endswith("u") else (result & ~unordered)


def emit_setp(cg: Emitter, ins: Instruction, kind: PtxType) -> None:
    """setp on pairs sets one predicate per half."""
    pair = _compared(cg, ins, kind)
    third = ins.operands[3] if len(ins.operands) > 3 else None
    target, pred = ins.operands[0], TYPES["pred"]
    boolean = {"and": "&", "or": "|", "xor": "^"}.get(next((m for m in ins.modifiers if m in ("and", "or", "xor")), ""))
    tail = f" {boolean} {cg.pred(third)}" if boolean else ""
    if not isinstance(target, Pair):
        cg.fail("setp on pairs needs two predicates p|q")
    first, second = cg.let(f"{pair}[0]{tail}"), cg.let(f"{pair}[1]{tail}")
    cg.dst(target.first, pred, first)
    cg.dst(target.second, pred, second)


def _compared(cg: Emitter, ins: Instruction, kind: PtxType) -> str:
    a, b = (cg.src(x, kind) for x in ins.operands[1:3])
    ftz = "ftz" in ins.modifiers
    return cg.let(f"{cg.use(compare_pairs)}({ins.modifiers[0]!r}, {kind.name!r}, {ftz}, {a}, {b})")


def emit_set(cg: Emitter, ins: Instruction, out: PtxType, kind: PtxType) -> None:
    """set on pairs: ones of the result type, or all-ones halves."""
    pair = _compared(cg, ins, kind)
    boolean = {"and": "&", "or": "|", "xor": "^"}.get(next((m for m in ins.modifiers if m in ("and", "or", "xor")), ""))
    if boolean:
        pair = cg.let(f"{pair} {boolean} {cg.pred(ins.operands[3])}")
    one = {"f16x2": 0x3C00, "bf16x2": 0x3F80}.get(out.name, 0xFFFF)
    halves = f"np.where({pair}, np.uint16({one}), np.uint16(0))"
    cg.dst(ins.operands[0], TYPES["b32"], f"np.ascontiguousarray({halves}.T).view(u4)[:, 0]")


def integer_pairs(name: str, signed: bool, relu: bool, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """add, sub, min or max of 16-bit halves."""
    dtype = np.int16 if signed else np.uint16
    a, b = np.broadcast_arrays(a, b)
    x, y = (np.ascontiguousarray(v).view(dtype).reshape(-1, 2) for v in (a, b))
    function = {"add": np.add, "sub": np.subtract, "min": np.minimum, "max": np.maximum}[name]
    r = function(x, y)
    if relu:
        r = np.maximum(r, dtype(0))
    return np.ascontiguousarray(r).view(np.uint32)[:, 0]


def emit_integer(cg: Emitter, ins: Instruction, kind: PtxType, name: str) -> None:
    """Integer arithmetic on u16x2 and s16x2."""
    a, b = (cg.src(x, TYPES["b32"]) for x in ins.operands[1:3])
    helper = cg.use(integer_pairs)
    relu = "relu" in ins.modifiers
    cg.dst(ins.operands[0], TYPES["b32"], f"{helper}({name!r}, {kind.kind == 's'}, {relu}, {a}, {b})")


__all__ = ["PACKED", "emit", "op"]
