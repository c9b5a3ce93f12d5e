# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Integer, bit and logic instructions (PTX ISA, "Integer Arithmetic", "Logic and Shift")."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..codegen import Emitter, op
from ..ir import Instruction
from ..types import TYPES, PtxType
from . import floating, packed

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


def shift_left(a: np.ndarray, n: np.ndarray) -> np.ndarray:
    """shl: amounts of the width or more give zero."""
    bits = a.dtype.itemsize * 8
    return np.where(n < bits, a << np.minimum(n, bits - 1).astype(a.dtype), a.dtype.type(0))


def shift_right(a: np.ndarray, n: np.ndarray) -> np.ndarray:
    """shr: amounts of the width or more give zero, or the sign for signed types."""
    bits = a.dtype.itemsize * 8
    clamped = np.minimum(n, bits - 1).astype(a.dtype)
    if a.dtype.kind == "i":
        return a >> clamped
    return np.where(n < bits, a >> clamped, a.dtype.type(0))


def popcount(a: np.ndarray) -> np.ndarray:
    raw = np.ascontiguousarray(a).view(np.uint8).reshape(len(a), -1)
    return np.unpackbits(raw, axis=1).sum(axis=1).astype(np.uint32)


def find_high(a: np.ndarray) -> np.ndarray:
    """Index of the highest set bit (int64), -1 for zero. `a` is unsigned."""
    high = np.zeros(a.shape, dtype=np.int64)
    rest = a.astype(np.uint64)
    for step in (32, 16, 8, 4, 2, 1):
        big = rest >= np.uint64(1 << step)
        high += np.where(big, step, 0)
        rest = np.where(big, rest >> np.uint64(step), rest)
    return np.where(a == 0, -1, high)


def count_leading_zeros(a: np.ndarray) -> np.ndarray:
    return (a.dtype.itemsize * 8 - 1 - find_high(a)).astype(np.uint32)


def bfind(a: np.ndarray, shift_amount: bool) -> np.ndarray:
    """Position of the most significant non-sign bit, or with shiftamt the left shift that brings it to the top; -1 if none."""
    bits = a.dtype.itemsize * 8
    value = a
    if a.dtype.kind == "i":
        value = np.where(a < 0, ~a, a)
    high = find_high(value.view(f"u{a.dtype.itemsize}"))
    if shift_amount:
        high = np.where(high < 0, -1, bits - 1 - high)
    return (high & 0xFFFFFFFF).astype(np.uint32)


_REVERSED_BYTES = np.array([int(f"{i:08b}"[::-1], 2) for i in range(256)], dtype=np.uint8)


def reverse_bits(a: np.ndarray) -> np.ndarray:
    raw = np.ascontiguousarray(a).view(np.uint8).reshape(len(a), -1)
    return np.ascontiguousarray(_REVERSED_BYTES[raw][:, ::-1]).view(a.dtype)[:, 0]


def bit_extract(a: np.ndarray, pos: np.ndarray, length: np.ndarray) -> np.ndarray:
    """bfe: `length` bits from `pos`; signed types repeat the field's top bit, or the operand's when the field leaves it."""
    bits = a.dtype.itemsize * 8
    unsigned = a.view(f"u{a.dtype.itemsize}").astype(np.uint64)
    p = (pos & 0xFF).astype(np.int64)
    n = (length & 0xFF).astype(np.int64)
    shifted = np.where(p < bits, unsigned >> np.minimum(p, 63).astype(np.uint64), np.uint64(0))
    kept = np.minimum(n, 64)
    mask = np.where(kept >= 64, ~np.uint64(0), (np.uint64(1) << np.minimum(kept, 63).astype(np.uint64)) - np.uint64(1))
    field = shifted & mask
    if a.dtype.kind == "i":
        top = np.minimum(p + n - 1, bits - 1)
        sign = (unsigned >> np.maximum(top, 0).astype(np.uint64)) & np.uint64(1)
        # Above the field, and above the operand, comes the sign.
        inside = np.clip(bits - p, 0, 64)
        valid = np.minimum(kept, inside)
        low = np.where(valid >= 64, ~np.uint64(0), (np.uint64(1) << np.minimum(valid, 63).astype(np.uint64)) - np.uint64(1))
        field = np.where((sign != 0) & (n != 0), field | ~low, field)
    return field.astype(f"u{a.dtype.itemsize}").view(a.dtype)


def bit_insert(a: np.ndarray, b: np.ndarray, pos: np.ndarray, length: np.ndarray) -> np.ndarray:
    """bfi: put the low `length` bits of a into b at `pos`."""
    bits = b.dtype.itemsize * 8
    p = (pos & 0xFF).astype(np.int64)
    n = np.minimum((length & 0xFF).astype(np.int64), np.maximum(bits - p, 0))
    ones = np.where(n >= 64, ~np.uint64(0), (np.uint64(1) << np.minimum(n, 63).astype(np.uint64)) - np.uint64(1))
    safe = np.minimum(p, 63).astype(np.uint64)
    mask = ones << safe
    put = (a.astype(np.uint64) << safe) & mask
    result = (b.astype(np.uint64) & ~mask) | put
    return np.where(n > 0, result, b.astype(np.uint64)).astype(b.dtype)


def funnel_shift(a: np.ndarray, b: np.ndarray, c: np.ndarray, left: bool, wrap: bool) -> np.ndarray:
    """shf: 32 bits of b:a shifted."""
    n = (c & np.uint32(31)) if wrap else np.minimum(c, np.uint32(32))
    wide = (b.astype(np.uint64) << np.uint64(32)) | a.astype(np.uint64)
    if left:
        return ((wide << n.astype(np.uint64)) >> np.uint64(32)).astype(np.uint32)
    return (wide >> n.astype(np.uint64)).astype(np.uint32)


def byte_permute(a: np.ndarray, b: np.ndarray, c: np.ndarray, mode: str) -> np.ndarray:
    """prmt: select four of the eight bytes of b:a, each optionally replaced by its sign."""
    a, b, c = np.broadcast_arrays(a, b, c)
    source = np.stack([a, b], axis=1).astype(np.uint32).view(np.uint8).reshape(len(a), 8)
    if mode:
        sel = _PRMT_MODES[mode][(c & np.uint32(3)).astype(np.int64)]
        sign = np.zeros_like(sel, dtype=bool)
    else:
        fields = (c[:, None] >> np.array([0, 4, 8, 12], dtype=np.uint32)) & np.uint32(15)
        sel = (fields & 7).astype(np.int64)
        sign = (fields & 8) != 0
    picked = np.take_along_axis(source, sel, axis=1)
    picked = np.where(sign, np.where(picked & 0x80, 0xFF, 0), picked).astype(np.uint8)
    return np.ascontiguousarray(picked).view(np.uint32)[:, 0]


# PTX ISA, "prmt": selector tables of the special modes, most significant byte last.
_PRMT_MODES: dict[str, np.ndarray] = {
    "f4e": np.array([[0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5], [3, 4, 5, 6]]),
    "b4e": np.array([[0, 7, 6, 5], [1, 0, 7, 6], [2, 1, 0, 7], [3, 2, 1, 0]]),
    "rc8": np.array([[0, 0, 0, 0], [1, 1, 1, 1], [2, 2, 2, 2], [3, 3, 3, 3]]),
    "ecl": np.array([[0, 1, 2, 3], [1, 1, 2, 3], [2, 2, 2, 3], [3, 3, 3, 3]]),
    "ecr": np.array([[0, 0, 0, 0], [0, 1, 1, 1], [0, 1, 2, 2], [0, 1, 2, 3]]),
    "rc16": np.array([[0, 1, 0, 1], [2, 3, 2, 3], [0, 1, 0, 1], [2, 3, 2, 3]]),
}


def lop3(a: np.ndarray, b: np.ndarray, c: np.ndarray, table: int) -> np.ndarray:
    """Any function of three bits, by its truth table (bit 4a+2b+c)."""
    out: Any = np.zeros(np.broadcast_shapes(a.shape, b.shape, c.shape), dtype=np.uint32)
    for index in range(8):
        if table >> index & 1:
            term = (a if index & 4 else ~a) & (b if index & 2 else ~b) & (c if index & 1 else ~c)
            out = out | term
    return out


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


def find_nth(mask: np.ndarray, base: np.ndarray, offset: np.ndarray) -> np.ndarray:
    """fns: position of the offset-th set bit at or after (or before, when negative) `base`; -1 when there is none."""
    out = np.full(len(mask), 0xFFFFFFFF, dtype=np.uint32)
    for k, (m, at, n) in enumerate(zip(mask.tolist(), base.tolist(), offset.tolist(), strict=True)):
        if n == 0:
            if m >> at & 1:
                out[k] = at
            continue
        step = 1 if n > 0 else -1
        left = abs(n)
        while 0 <= at < 32:
            left -= m >> at & 1
            if left == 0:
                out[k] = at
                break
            at += step
    return out


def add_carry(a: np.ndarray, b: np.ndarray, carry: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sum and carry out of unsigned a + b + carry (carry is bool)."""
    s = a + b
    out = s < a
    t = s + carry.astype(s.dtype)
    return t, out | (t < s)


# -- generators


def _last_type(cg: Emitter, ins: Instruction) -> PtxType:
    for name in reversed(ins.modifiers):
        if name in TYPES:
            return TYPES[name]
    cg.fail("the instruction has no type")


def _signed64(cg: Emitter, expr: str, kind: PtxType) -> str:
    return cg.let(f"{expr}.astype({'i8' if kind.kind == 's' else 'u8'})")


def _is_integer(kind: PtxType) -> bool:
    return kind.kind in "usb" and kind.name in ("u16", "s16", "u32", "s32", "u64", "s64", "b16", "b32", "b64")


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
    """add.cc and friends. The carry flag lives in the frame's hidden register `M.carry`; subtraction stores the borrow."""
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
    _carry(cg, ins, _last_type(cg, ins), "+", cg.let("g.carry()"))


@op("subc")
def _subc(cg: Emitter, ins: Instruction) -> None:
    _carry(cg, ins, _last_type(cg, ins), "-", cg.let("g.carry()"))


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
    kind = _last_type(cg, ins)
    part = next((m for m in ins.modifiers if m in ("lo", "hi")), "lo")
    expr, out = _product(cg, kind, cg.src(ins.operands[1], kind), cg.src(ins.operands[2], kind), part)
    _mad_carry(cg, ins, out, expr, cg.src(ins.operands[3], out), cg.let("g.carry()"))


def _24bit(cg: Emitter, ins: Instruction) -> tuple[str, PtxType]:
    kind = _last_type(cg, ins)
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
    kind = _last_type(cg, ins)
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
    kind = _last_type(cg, ins)
    a, b, c = (cg.src(x, kind) for x in ins.operands[1:4])
    cg.dst(ins.operands[0], kind, f"{c} + np.where({a} < {b}, {b} - {a}, {a} - {b})")


def _logic(symbol: str) -> Callable[[Emitter, Instruction], None]:
    def emit(cg: Emitter, ins: Instruction) -> None:
        kind = _last_type(cg, ins)
        cg.dst(ins.operands[0], kind, f"{cg.src(ins.operands[1], kind)} {symbol} {cg.src(ins.operands[2], kind)}")

    return emit


op("and")(_logic("&"))
op("or")(_logic("|"))
op("xor")(_logic("^"))


@op("not")
def _not(cg: Emitter, ins: Instruction) -> None:
    kind = _last_type(cg, ins)
    cg.dst(ins.operands[0], kind, f"~{cg.src(ins.operands[1], kind)}")


@op("cnot")
def _cnot(cg: Emitter, ins: Instruction) -> None:
    kind = _last_type(cg, ins)
    cg.dst(ins.operands[0], kind, f"({cg.src(ins.operands[1], kind)} == 0).astype({kind.code})")


def _shift(helper: Callable, symbol: str) -> Callable[[Emitter, Instruction], None]:
    def emit(cg: Emitter, ins: Instruction) -> None:
        kind = _last_type(cg, ins)
        a = cg.src(ins.operands[1], kind)
        amount = ins.operands[2]
        value = getattr(amount, "value", None)
        if isinstance(value, int) and 0 <= value < kind.bits:
            cg.dst(ins.operands[0], kind, f"{a} {symbol} {cg.const(value, kind.code)}")
            return
        cg.dst(ins.operands[0], kind, f"{cg.use(helper)}({a}, {cg.src(amount, TYPES['u32'])})")

    return emit


op("shl")(_shift(shift_left, "<<"))
op("shr")(_shift(shift_right, ">>"))


@op("shf")
def _shf(cg: Emitter, ins: Instruction) -> None:
    kind = TYPES["b32"]
    a, b, c = (cg.src(x, kind) for x in ins.operands[1:4])
    left, wrap = "l" in ins.modifiers, "wrap" in ins.modifiers
    cg.dst(ins.operands[0], kind, f"{cg.use(funnel_shift)}({a}, {b}, {c}, {left}, {wrap})")


@op("lop3")
def _lop3(cg: Emitter, ins: Instruction) -> None:
    kind = TYPES["b32"]
    operands = list(ins.operands)
    combine = next((m for m in ins.modifiers if m in ("or", "and")), None)
    a, b, c = (cg.src(x, kind) for x in operands[1:4])
    table = getattr(operands[4], "value", None)
    if not isinstance(table, int) or not 0 <= table <= 255:
        cg.fail("the lookup table of lop3 must be an immediate from 0 to 255")
    result = cg.let(f"{cg.use(lop3)}({a}, {b}, {c}, {table})")
    target = operands[0]
    if combine is None:
        cg.dst(target, kind, result)
        return
    q = cg.pred(operands[5])
    cg.dst(target.second, TYPES["pred"], f"({result} != 0) {'|' if combine == 'or' else '&'} {q}")
    cg.dst(target.first, kind, result)


@op("prmt")
def _prmt(cg: Emitter, ins: Instruction) -> None:
    kind = TYPES["b32"]
    a, b, c = (cg.src(x, kind) for x in ins.operands[1:4])
    mode = ins.modifiers[1] if len(ins.modifiers) > 1 else ""
    if mode and mode not in _PRMT_MODES:
        cg.fail(f"unknown mode .{mode}")
    cg.dst(ins.operands[0], kind, f"{cg.use(byte_permute)}({a}, {b}, {c}, {mode!r})")


@op("popc")
def _popc(cg: Emitter, ins: Instruction) -> None:
    cg.dst(ins.operands[0], TYPES["u32"], f"{cg.use(popcount)}({cg.src(ins.operands[1], _last_type(cg, ins))})")


@op("clz")
def _clz(cg: Emitter, ins: Instruction) -> None:
    a = cg.src(ins.operands[1], _last_type(cg, ins))
    cg.dst(ins.operands[0], TYPES["u32"], f"{cg.use(count_leading_zeros)}({a})")


@op("bfind")
def _bfind(cg: Emitter, ins: Instruction) -> None:
    a = cg.src(ins.operands[1], _last_type(cg, ins))
    cg.dst(ins.operands[0], TYPES["u32"], f"{cg.use(bfind)}({a}, {'shiftamt' in ins.modifiers})")


@op("brev")
def _brev(cg: Emitter, ins: Instruction) -> None:
    kind = _last_type(cg, ins)
    cg.dst(ins.operands[0], kind, f"{cg.use(reverse_bits)}({cg.src(ins.operands[1], kind)})")


@op("bfe")
def _bfe(cg: Emitter, ins: Instruction) -> None:
    kind, u32 = _last_type(cg, ins), TYPES["u32"]
    a, p, n = cg.src(ins.operands[1], kind), cg.src(ins.operands[2], u32), cg.src(ins.operands[3], u32)
    cg.dst(ins.operands[0], kind, f"{cg.use(bit_extract)}({a}, {p}, {n})")


@op("bfi")
def _bfi(cg: Emitter, ins: Instruction) -> None:
    kind, u32 = _last_type(cg, ins), TYPES["u32"]
    a, b = cg.src(ins.operands[1], kind), cg.src(ins.operands[2], kind)
    p, n = cg.src(ins.operands[3], u32), cg.src(ins.operands[4], u32)
    cg.dst(ins.operands[0], kind, f"{cg.use(bit_insert)}({a}, {b}, {p}, {n})")


@op("bmsk")
def _bmsk(cg: Emitter, ins: Instruction) -> None:
    u32 = TYPES["u32"]
    a, b = cg.src(ins.operands[1], u32), cg.src(ins.operands[2], u32)
    wrap = "wrap" in ins.modifiers
    cg.dst(ins.operands[0], u32, f"{cg.use(bit_mask)}({a}, {b}, {wrap})")


def bit_mask(a: np.ndarray, b: np.ndarray, wrap: bool) -> np.ndarray:
    """bmsk: b ones from bit a; clamp or wrap of both at 32."""
    if wrap:
        at, width = (a & np.uint32(31)).astype(np.uint64), (b & np.uint32(31)).astype(np.uint64)
    else:
        at, width = np.minimum(a, np.uint32(32)).astype(np.uint64), np.minimum(b, np.uint32(32)).astype(np.uint64)
    return ((((np.uint64(1) << width) - np.uint64(1)) << at) & _M32).astype(np.uint32)


@op("szext")
def _szext(cg: Emitter, ins: Instruction) -> None:
    kind = _last_type(cg, ins)
    a, b = cg.src(ins.operands[1], kind), cg.src(ins.operands[2], TYPES["u32"])
    cg.dst(ins.operands[0], kind, f"{cg.use(sign_or_zero_extend)}({a}, {b}, {'wrap' in ins.modifiers})")


def sign_or_zero_extend(a: np.ndarray, b: np.ndarray, wrap: bool) -> np.ndarray:
    """szext: keep the low b bits and extend them to 32 by the type."""
    n = (b & np.uint32(31)).astype(np.int64) if wrap else np.minimum(b, np.uint32(32)).astype(np.int64)
    drop = (64 - n).astype(np.int64)
    wide = a.view(np.uint32).astype(np.uint64) << np.minimum(drop, 63).astype(np.uint64)
    shifted = wide.view(np.int64) if a.dtype.kind == "i" else wide
    out = shifted >> np.minimum(drop, 63).astype(shifted.dtype)
    return np.where(n == 0, 0, out).astype(a.dtype)


@op("fns")
def _fns(cg: Emitter, ins: Instruction) -> None:
    u32 = TYPES["u32"]
    cg.uniform = True
    a, b, c = cg.src(ins.operands[1], u32), cg.src(ins.operands[2], u32), cg.src(ins.operands[3], TYPES["s32"])
    cg.dst(ins.operands[0], u32, f"{cg.use(find_nth)}({a}, {b}, {c})")


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
