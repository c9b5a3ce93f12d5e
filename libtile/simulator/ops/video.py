# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Scalar and SIMD video instructions without operand selectors (PTX ISA, "Video Instructions")."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from ..codegen import Emitter, op
from ..ir import Instruction
from ..types import TYPES


def _lanes(x: np.ndarray, count: int, signed: bool) -> np.ndarray:
    """[n] words to [n, count] int64 elements."""
    dtype = {1: "i4", 2: "i2", 4: "i1"}[count]
    if not signed:
        dtype = "u" + dtype[1]
    return np.ascontiguousarray(x).view(dtype).reshape(-1, count).astype(np.int64)


_OPERATIONS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "absdiff": lambda a, b: np.abs(a - b),
    "min": np.minimum,
    "max": np.maximum,
    "avrg": lambda a, b: (a + b + 1) >> 1,
}
_COMPARE: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip


def video(
    name: str,
    count: int,
    types: tuple[str, str, str],
    flags: tuple[str, ...],
    a: np.ndarray,
    b: np.ndarray,
    c: np.ndarray,
) -> np.ndarray:
    """One video instruction; `c` is added when the flag "add" accumulates, or merged by min or max."""
    a, b, c = np.broadcast_arrays(a, b, c)
    out_signed = types[0][0] == "s"
    x, y = _lanes(a, count, types[1][0] == "s"), _lanes(b, count, types[2][0] == "s")
    if name in ("shl", "shr"):
        amount = np.minimum(y & (31 if "wrap" in flags else 0xFFFFFFFF), 32)
        r = x << amount if name == "shl" else x >> amount
    elif name == "set":
        comparison = next(f for f in flags if f in _COMPARE)
        r = _COMPARE[comparison](x, y).astype(np.int64)
    else:
        r = _OPERATIONS[name](x, y)
    bits = 32 // count
    if "sat" in flags:
        low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if out_signed else (0, (1 << bits) - 1)
        r = np.clip(r, low, high)
    if count > 1 and "add" in flags:
        return (r.sum(axis=1) + c.astype(np.int64)).astype(np.uint64).astype(np.uint32)
    if count == 1:
        return _second(r[:, 0], c, flags, out_signed)
    narrow = {2: np.uint16, 4: np.uint8}[count]
    return np.ascontiguousarray(r.astype(np.uint64).astype(narrow)).view(np.uint32)[:, 0]


def _second(r: np.ndarray, c: np.ndarray, flags: tuple[str, ...], signed: bool) -> np.ndarray:
    third = c.view(np.int32).astype(np.int64) if signed else c.astype(np.int64)
    if "add" in flags:
        r = r + third
    elif "min" in flags or "max" in flags:
        value = r.astype(np.uint64).astype(np.uint32)
        first = value.view(np.int32).astype(np.int64) if signed else value.astype(np.int64)
        r = (np.minimum if "min" in flags else np.maximum)(first, third)
    return r.astype(np.uint64).astype(np.uint32)


_NAMES = [f"v{n}{c}" for n in ("add", "sub", "absdiff", "min", "max", "avrg", "set") for c in ("", "2", "4")]


@op(*[n for n in _NAMES if n != "vavrg"], "vshl", "vshr")
def _video(cg: Emitter, ins: Instruction) -> None:
    match = re.fullmatch(r"v([a-z]+)([24]?)", ins.opcode)
    if match is None:
        cg.fail("unknown video instruction")
    name, count = match[1], int(match[2] or 1)
    types = [m for m in ins.modifiers if m in TYPES]
    if name == "set":
        types = ["u32", *types]
    if len(types) != 3:
        cg.fail("a video instruction needs the types of d, a and b")
    flags = tuple(m for m in ins.modifiers if m not in TYPES)
    word = TYPES["b32"]
    values = [cg.src(x, word) for x in ins.operands[1:4]]
    if len(values) == 2:
        values.append(cg.const(0, "u4"))
    call = f"{cg.use(video)}({name!r}, {count}, {tuple(types)!r}, {flags!r}, {', '.join(values)})"
    cg.dst(ins.operands[0], word, call)


@op("vmad")
def _vmad(cg: Emitter, ins: Instruction) -> None:
    types = [TYPES[m] for m in ins.modifiers if m in TYPES]
    a, b = cg.src(ins.operands[1], types[1]), cg.src(ins.operands[2], types[2])
    c = cg.src(ins.operands[3], TYPES["u32"])
    shift = next((int(m[3:]) for m in ins.modifiers if m in ("shr7", "shr15")), 0)
    if "po" in ins.modifiers or "sat" in ins.modifiers:
        cg.fail("vmad with .po or .sat is not simulated")
    signed = types[0].kind == "s"
    third = f"{c}.view(i4).astype(i8)" if signed else f"{c}.astype(i8)"
    expr = f"(({a}.astype(i8) * {b}.astype(i8) + {third}) >> {shift}).astype(u8).astype(u4)"
    cg.dst(ins.operands[0], TYPES["b32"], expr)
