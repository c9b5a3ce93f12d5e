# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Integer arithmetic (PTX ISA, "Integer Arithmetic Instructions", "Extended-Precision Integer Arithmetic")."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..codegen import Emitter, op
from ..ir import Instruction
from ..types import TYPES, PtxType
from . import floating, packed
from .memory import type_of

# -- run-time helpers

_M32 = np.uint64(0xFFFFFFFF)


def mul_hi_u64(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Upper 64 bits of the unsigned 128-bit product, from 32-bit halves."""
    a0, a1 = a & _M32, a >> np.uint64(32)
    b0, b1 = b & _M32, b >> np.uint64(32)
    low = a0 * b0
    mid = a1 * b0 + (low >> np.uint64(32))
    cross = a0 * b1 + (mid & _M32)
    return a1 * b1 + (mid >> np.uint64(32)) + (cross >> np.uint64(32))


def mul_hi_s64(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Upper 64 bits of the signed 128-bit product."""
    high = mul_hi_u64(a.view(np.uint64), b.view(np.uint64)).view(np.int64)
    return high - np.where(a < 0, b, 0) - np.where(b < 0, a, 0)


def int_div(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Quotient toward zero; division by zero gives all ones, as the hardware does."""
    a, b = np.broadcast_arrays(a, b)
    zero = b == 0
    safe = np.where(zero, b.dtype.type(1), b)
    q = a // safe
    if a.dtype.kind == "i":
        # numpy rounds toward minus infinity.
        q = q + ((q * safe != a) & ((a < 0) != (safe < 0))).astype(a.dtype)
    return np.where(zero, a.dtype.type(-1) if a.dtype.kind == "i" else ~a.dtype.type(0), q)


def int_rem(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Remainder with the sign of the dividend; the remainder of division by zero is the dividend."""
    a, b = np.broadcast_arrays(a, b)
    safe = np.where(b == 0, b.dtype.type(1), b)
    r = a - int_div(a, safe) * safe
    return np.where(b == 0, a, r)


def dot4(a: np.ndarray, b: np.ndarray, c: np.ndarray, a_signed: bool, b_signed: bool) -> np.ndarray:
    """dp4a: dot product of four bytes plus c, modulo 2^32."""
    left = np.ascontiguousarray(a).view(np.int8 if a_signed else np.uint8).reshape(-1, 4).astype(np.int64)
    right = np.ascontiguousarray(b).view(np.int8 if b_signed else np.uint8).reshape(-1, 4).astype(np.int64)
    return ((left * right).sum(axis=1) + c).astype(np.uint64).astype(np.uint32)


def dot2(a: np.ndarray, b: np.ndarray, c: np.ndarray, a_signed: bool, b_signed: bool, high: bool) -> np.ndarray:
    """dp2a: two halves of a with the low or high two bytes of b, plus c, modulo 2^32."""
    left = np.ascontiguousarray(a).view(np.int16 if a_signed else np.uint16).reshape(-1, 2).astype(np.int64)
    right = np.ascontiguousarray(b).view(np.int8 if b_signed else np.uint8).reshape(-1, 4).astype(np.int64)
    part = right[:, 2:] if high else right[:, :2]
    return ((left * part).sum(axis=1) + c).astype(np.uint64).astype(np.uint32)


def saturating(a: np.ndarray, b: np.ndarray, c: np.ndarray, subtract: bool = False) -> np.ndarray:
    """a + b (or a - b) clamped to int32."""
    wide = a.astype(np.int64) - b if subtract else a.astype(np.int64) + b
    return np.clip(wide, -(1 << 31), (1 << 31) - 1).astype(np.int32)


def add_carry(a: np.ndarray, b: np.ndarray, carry: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sum and carry out of unsigned a + b + carry (carry is bool)."""
    s = a + b
    out = s < a
    t = s + carry.astype(s.dtype)
    return t, out | (t < s)


# -- generators


def _last_type(cg: Emitter, ins: Instruction) -> PtxType:
    kind = type_of(cg, ins)
    if kind.kind == "pred" or kind.code == "q" or kind.bits < 8:
        cg.fail(f"there is no {ins.opcode} of type .{kind.name}")
    return kind


def _integer_type(cg: Emitter, ins: Instruction) -> PtxType:
    """The type of an instruction that floats have not."""
    kind = _last_type(cg, ins)
    if kind.kind == "f":
        cg.fail(f"there is no {ins.opcode} of type .{kind.name}")
    return kind


def _signed64(cg: Emitter, expr: str, kind: PtxType) -> str:
    return cg.let(f"{expr}.astype({'i8' if kind.kind == 's' else 'u8'})")


def _arith(symbol: str) -> Callable[[Emitter, Instruction], None]:
    def emit(cg: Emitter, ins: Instruction) -> None:
        kind = _last_type(cg, ins)
        if kind.kind == "f":
            floating.emit_add_sub(cg, ins, kind, symbol)
            return
        if kind.name in ("u16x2", "s16x2"):
            packed.emit_integer(cg, ins, kind, "add" if symbol == "+" else "sub")
            return
        a, b = cg.src(ins.operands[1], kind), cg.src(ins.operands[2], kind)
        if "sat" in ins.modifiers:
            cg.dst(ins.operands[0], kind, f"{cg.use(saturating)}({a}, {b}, None, {symbol == '-'})")
        elif "cc" in ins.modifiers:
            _carry(cg, ins, kind, symbol, None)
        else:
            cg.dst(ins.operands[0], kind, f"{a} {symbol} {b}")

    return emit


op("add")(_arith("+"))
op("sub")(_arith("-"))


def _carry(cg: Emitter, ins: Instruction, kind: PtxType, symbol: str, carry: str | None) -> None:
    """add.cc and friends. The carry flag lives in the frame's hidden register `M.carry`; subtraction stores the
    borrow.
    """
    wide = TYPES[f"u{kind.bits}"]
    a, b = cg.src(ins.operands[1], wide), cg.src(ins.operands[2], wide)
    flag = carry or "np.zeros(1, dtype=bool)"
    name = cg.use(add_carry)
    if symbol == "-":
        # a - b - borrow == a + ~b + (1 - borrow), and its carry out is the inverse of the borrow.
        pair = cg.let(f"{name}({a}, ~{b}, ~({flag}))")
        out = f"~{pair}[1]"
    else:
        pair = cg.let(f"{name}({a}, {b}, {flag})")
        out = f"{pair}[1]"
    if "cc" in ins.modifiers:
        cg.emit(f"g.set_carry({out}, {cg.mask()})")
    cg.dst(ins.operands[0], wide, f"{pair}[0]")


@op("addc")
def _addc(cg: Emitter, ins: Instruction) -> None:
    _carry(cg, ins, _integer_type(cg, ins), "+", cg.let("g.carry()"))


@op("subc")
def _subc(cg: Emitter, ins: Instruction) -> None:
    _carry(cg, ins, _integer_type(cg, ins), "-", cg.let("g.carry()"))


def _product(cg: Emitter, kind: PtxType, a: str, b: str, part: str) -> tuple[str, PtxType]:
    """lo, hi or wide product as (expression, its type)."""
    sign = kind.kind if kind.kind in "us" else "u"
    if part == "lo":
        return f"({a} * {b})", kind
    if kind.bits == 64:
        if part == "wide":
            cg.fail(".wide of 64-bit operands does not exist")
        helper = mul_hi_s64 if sign == "s" else mul_hi_u64
        return f"{cg.use(helper)}({a}, {b})", kind
    wide = TYPES[f"{sign}{kind.bits * 2}"]
    full = cg.let(f"{a}.astype({wide.code}) * {b}.astype({wide.code})")
    if part == "wide":
        return full, wide
    return f"({full} >> {kind.bits}).astype({kind.code})", kind


@op("mul")
def _mul(cg: Emitter, ins: Instruction) -> None:
    kind = _last_type(cg, ins)
    if kind.kind == "f":
        floating.emit_mul(cg, ins, kind)
        return
    part = next((m for m in ins.modifiers if m in ("lo", "hi", "wide")), "lo")
    expr, out = _product(cg, kind, cg.src(ins.operands[1], kind), cg.src(ins.operands[2], kind), part)
    cg.dst(ins.operands[0], out, expr)


@op("mad")
def _mad(cg: Emitter, ins: Instruction) -> None:
    kind = _last_type(cg, ins)
    if kind.kind == "f":
        floating.emit_fma(cg, ins, kind)
        return
    part = next((m for m in ins.modifiers if m in ("lo", "hi", "wide")), "lo")
    expr, out = _product(cg, kind, cg.src(ins.operands[1], kind), cg.src(ins.operands[2], kind), part)
    c = cg.src(ins.operands[3], out)
    if "sat" in ins.modifiers:
        cg.dst(ins.operands[0], out, f"{cg.use(saturating)}({expr}, {c}, None)")
    elif "cc" in ins.modifiers:
        _mad_carry(cg, ins, out, expr, c, None)
    else:
        cg.dst(ins.operands[0], out, f"{expr} + {c}")


def _mad_carry(cg: Emitter, ins: Instruction, kind: PtxType, product: str, c: str, carry: str | None) -> None:
    wide = f"u{kind.bits // 8}"
    p = cg.let(product)
    pair = cg.let(f"{cg.use(add_carry)}({p}.view({wide}), {c}.view({wide}), {carry or 'np.zeros(1, dtype=bool)'})")
    if "cc" in ins.modifiers:
        cg.emit(f"g.set_carry({pair}[1], {cg.mask()})")
    cg.dst(ins.operands[0], TYPES[f"u{kind.bits}"], f"{pair}[0]")


@op("madc")
def _madc(cg: Emitter, ins: Instruction) -> None:
    kind = _integer_type(cg, ins)
    part = next((m for m in ins.modifiers if m in ("lo", "hi")), "lo")
    expr, out = _product(cg, kind, cg.src(ins.operands[1], kind), cg.src(ins.operands[2], kind), part)
    _mad_carry(cg, ins, out, expr, cg.src(ins.operands[3], out), cg.let("g.carry()"))


def _24bit(cg: Emitter, ins: Instruction) -> tuple[str, PtxType]:
    kind = _integer_type(cg, ins)
    wide = TYPES["s64" if kind.kind == "s" else "u64"]
    parts = []
    for operand in ins.operands[1:3]:
        value = cg.src(operand, kind)
        cut = f"(({value} << 8) >> 8)"
        parts.append(f"{cut}.astype({wide.code})")
    full = f"({parts[0]} * {parts[1]})"
    if "hi" in ins.modifiers:
        full = f"({full} >> 16)"
    return f"{full}.astype({kind.code})", kind


@op("mul24")
def _mul24(cg: Emitter, ins: Instruction) -> None:
    expr, kind = _24bit(cg, ins)
    cg.dst(ins.operands[0], kind, expr)


@op("mad24")
def _mad24(cg: Emitter, ins: Instruction) -> None:
    expr, kind = _24bit(cg, ins)
    c = cg.src(ins.operands[3], kind)
    if "sat" in ins.modifiers:
        cg.dst(ins.operands[0], kind, f"{cg.use(saturating)}({expr}, {c}, None)")
    else:
        cg.dst(ins.operands[0], kind, f"{expr} + {c}")


@op("div")
def _div(cg: Emitter, ins: Instruction) -> None:
    kind = _last_type(cg, ins)
    if kind.kind == "f":
        floating.emit_div(cg, ins, kind)
        return
    a, b = cg.src(ins.operands[1], kind), cg.src(ins.operands[2], kind)
    cg.dst(ins.operands[0], kind, f"{cg.use(int_div)}({a}, {b})")


@op("rem")
def _rem(cg: Emitter, ins: Instruction) -> None:
    kind = _integer_type(cg, ins)
    a, b = cg.src(ins.operands[1], kind), cg.src(ins.operands[2], kind)
    cg.dst(ins.operands[0], kind, f"{cg.use(int_rem)}({a}, {b})")


@op("abs")
def _abs(cg: Emitter, ins: Instruction) -> None:
    kind = _last_type(cg, ins)
    if kind.kind == "f":
        floating.emit_sign_op(cg, ins, kind, "abs")
    else:
        cg.dst(ins.operands[0], kind, f"np.abs({cg.src(ins.operands[1], kind)})")


@op("neg")
def _neg(cg: Emitter, ins: Instruction) -> None:
    kind = _last_type(cg, ins)
    if kind.kind == "f":
        floating.emit_sign_op(cg, ins, kind, "neg")
    else:
        cg.dst(ins.operands[0], kind, f"-{cg.src(ins.operands[1], kind)}")


def _min_max(name: str) -> Callable[[Emitter, Instruction], None]:
    def emit(cg: Emitter, ins: Instruction) -> None:
        kind = _last_type(cg, ins)
        if kind.kind == "f":
            floating.emit_min_max(cg, ins, kind, name)
            return
        if kind.name in ("u16x2", "s16x2"):
            packed.emit_integer(cg, ins, kind, name)
            return
        a, b = cg.src(ins.operands[1], kind), cg.src(ins.operands[2], kind)
        expr = f"np.{name}imum({a}, {b})"
        if "relu" in ins.modifiers:
            expr = f"np.maximum({expr}, {cg.const(0, kind.code)})"
        cg.dst(ins.operands[0], kind, expr)

    return emit


op("min")(_min_max("min"))
op("max")(_min_max("max"))


@op("sad")
def _sad(cg: Emitter, ins: Instruction) -> None:
    kind = _integer_type(cg, ins)
    a, b, c = (cg.src(x, kind) for x in ins.operands[1:4])
    cg.dst(ins.operands[0], kind, f"{c} + np.where({a} < {b}, {b} - {a}, {a} - {b})")


def _dot(helper: Callable, with_part: bool) -> Callable[[Emitter, Instruction], None]:
    def emit(cg: Emitter, ins: Instruction) -> None:
        kinds = [TYPES[m] for m in ins.modifiers if m in ("u32", "s32")]
        cg.uniform = True
        a, b = cg.src(ins.operands[1], TYPES["u32"]), cg.src(ins.operands[2], TYPES["u32"])
        c = cg.src(ins.operands[3], TYPES["u32"])
        signs = f"{kinds[0].kind == 's'}, {kinds[1].kind == 's'}"
        extra = f", {'hi' in ins.modifiers}" if with_part else ""
        cg.dst(ins.operands[0], TYPES["u32"], f"{cg.use(helper)}({a}, {b}, {c}, {signs}{extra})")

    return emit


op("dp4a")(_dot(dot4, False))
op("dp2a")(_dot(dot2, True))
