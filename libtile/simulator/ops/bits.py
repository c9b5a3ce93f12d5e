# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Logic, shift and bit-field instructions (PTX ISA, "Logic and Shift Instructions", "bfe", "bfi", "prmt", "popc")."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..codegen import Emitter, op
from ..ir import Instruction
from ..types import TYPES, PtxType
from .memory import type_of

_M32 = np.uint64(0xFFFFFFFF)

# -- run-time helpers


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
    """Position of the most significant non-sign bit, or with shiftamt the left shift that brings it to the top;
    -1 if none.
    """
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
    """bfe: `length` bits from `pos`; signed types repeat the field's top bit, or the operand's when the field
    leaves it.
    """
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
        low = np.where(
            valid >= 64, ~np.uint64(0), (np.uint64(1) << np.minimum(valid, 63).astype(np.uint64)) - np.uint64(1)
        )
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


# -- generators


def _last_type(cg: Emitter, ins: Instruction) -> PtxType:
    kind = type_of(cg, ins)
    if kind.kind == "f" or kind.code == "q" or 1 < kind.bits < 8:
        cg.fail(f"there is no {ins.opcode} of type .{kind.name}")
    return kind


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
