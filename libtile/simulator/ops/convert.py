# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""cvt in all its forms (PTX ISA, "cvt", "cvt.pack")."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import fp
from ..codegen import Emitter, op
from ..ir import Instruction
from ..types import TYPES, PtxType
from .float_values import relu
from .floating import load

_SMALL = ("e4m3x2", "e5m2x2", "e3m2x2", "e2m3x2", "e2m1x2", "ue8m0x2")
_INTEGRAL = {"rni": "rn", "rzi": "rz", "rmi": "rm", "rpi": "rp"}
_FLOATS = ("f16", "bf16", "f32", "f64", "tf32")
_ELEMENT_BITS = {"e4m3": 8, "e5m2": 8, "e3m2": 8, "e2m3": 8, "e2m1": 4, "ue8m0": 8}


# -- run-time helpers


def exact_parts(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A 64-bit integer as the sum of two float64."""
    low = (a & a.dtype.type(0xFFFFFFFF)).astype(np.float64)
    high = (a >> a.dtype.type(32)).astype(np.float64) * 4294967296.0
    return high, low


def int_to_float(a: np.ndarray, target: str, mode: str) -> np.ndarray:
    """Integers to f16/bf16 bits, float32 or float64, rounded once."""
    if a.dtype.itemsize < 8:
        exact = a.astype(np.float64)
    elif target == "f64":
        high, low = exact_parts(a)
        return fp.add64(high, low, mode)
    else:
        exact = fp.add_odd(*exact_parts(a))
    if target == "f64":
        return exact
    return float_from64(exact, target, mode, False)


def float_from64(x: np.ndarray, target: str, mode: str, satfinite: bool) -> np.ndarray:
    """float64, exact or rounded to odd, to float32, float16, or the bits of bf16 or tf32."""
    if target == "f64":
        return x
    if target == "f32":
        return fp.canon(fp.narrow(x, np.float32, mode))
    if target == "f16" and not satfinite:
        return fp.canon(fp.narrow(x, np.float16, mode))
    bits = fp.encode(x, fp.FORMATS[target], mode, satfinite)
    if target == "f16":
        return bits.astype(np.uint16).view(np.float16)
    if target == "tf32":
        return np.where(np.isnan(x), np.uint32(0x7FFFFFFF), bits << np.uint32(13)).astype(np.uint32)
    return bits.astype(np.uint16)


def float_to_int(x: np.ndarray, target: str, mode: str) -> np.ndarray:
    """Round to an integer and clamp; NaN gives 0, or 1 << (width-1) for f64 sources and 64-bit targets."""
    info = np.iinfo(target)
    source64 = x.dtype == np.float64
    wide = x.astype(np.float64)
    nan = np.isnan(wide)
    r = fp.round_integral(np.where(nan, 0.0, wide), mode)
    low, high = float(info.min), float(info.max)
    over, under = r >= high, r <= low
    out = np.where(over | under, 0.0, r).astype(target)
    out = np.where(over, np.array(info.max, dtype=target), out)
    out = np.where(under, np.array(info.min, dtype=target), out)
    if nan.any():
        special = (1 << (info.bits - 1)) if source64 or info.bits == 64 else 0
        if special and info.min < 0:
            special = info.min
        out = np.where(nan, np.array(special, dtype=target), out)
    return out


def int_saturate(a: np.ndarray, target: str) -> np.ndarray:
    """Clamp integers to the range of another integer type."""
    info = np.iinfo(target)
    low, high = max(info.min, np.iinfo(a.dtype).min), min(info.max, np.iinfo(a.dtype).max)
    return np.clip(a, a.dtype.type(low), a.dtype.type(high)).astype(target)


def integral(x: np.ndarray, mode: str) -> np.ndarray:
    """Round to an integral value in the same format."""
    return fp.canon(fp.round_integral(x, mode))


def to_small_pair(high: np.ndarray, low: np.ndarray, name: str, mode: str, rectify: bool) -> np.ndarray:
    """Two floats to a packed pair of a format of 8 bits or less (always satfinite); `high` goes to the upper half."""
    high, low = np.broadcast_arrays(high, low)
    bits = _ELEMENT_BITS[name]
    codes = []
    for x in (low, high):
        wide = x.astype(np.float64)
        if rectify:
            wide = np.where(wide < 0, 0.0, np.where(wide == 0, 0.0, wide))
        codes.append(encode_ue8m0(wide, mode) if name == "ue8m0" else fp.encode(wide, fp.FORMATS[name], mode, True))
    packed = codes[0] | (codes[1] << np.uint32(bits))
    return packed.astype(np.uint8 if bits == 4 else np.uint16)


def encode_ue8m0(x: np.ndarray, mode: str) -> np.ndarray:
    """Powers of two with bias 127; 0xff is NaN. Rounds toward zero or up."""
    nan = np.isnan(x)
    size = np.where(nan, 1.0, np.abs(x))
    mantissa, exponent = np.frexp(np.where(np.isinf(size) | (size == 0), 1.0, size))
    e = exponent - 1
    if mode == "rp":
        e = e + (mantissa > 0.5)
    code = np.clip(e + 127, 0, 254)
    code = np.where(np.isinf(size), 254, np.where(size == 0, 0, code))
    return np.where(nan, 255, code).astype(np.uint32)


def from_small_pair(bits: np.ndarray, name: str, target: str, rectify: bool) -> np.ndarray:
    """A packed pair of a small format to f16x2 or bf16x2 (exact)."""
    width = _ELEMENT_BITS[name]
    wide = bits.astype(np.uint32)
    mask = np.uint32((1 << width) - 1)
    table = fp.decode_table(name)
    values = np.stack([table[wide & mask], table[(wide >> np.uint32(width)) & mask]])
    if rectify:
        values = np.where(values < 0, 0.0, values)
    halves = fp.encode(values, fp.FORMATS[target], "rn").astype(np.uint32)
    return halves[0] | (halves[1] << np.uint32(16))


def float_pair(high: np.ndarray, low: np.ndarray, target: str, mode: str, satfinite: bool, rectify: bool) -> np.ndarray:
    """cvt.f16x2.f32 and cvt.bf16x2.f32."""
    high, low = np.broadcast_arrays(high, low)
    out = []
    for x in (low, high):
        if rectify:
            x = relu(x)
        if target == "bf16" and mode == "rn" and not satfinite:
            half = fp.round_bf16(np.ascontiguousarray(x))
        else:
            half = float_from64(x.astype(np.float64), target, mode, satfinite).view(np.uint16)
        out.append(half.astype(np.uint32))
    return out[0] | (out[1] << np.uint32(16))


def pack_integers(a: np.ndarray, b: np.ndarray, target: str, bits: int, c: np.ndarray | None) -> np.ndarray:
    """cvt.pack: saturate a and b; b fills the low bits, a the next, and c moves up above them."""
    signed = target[0] == "s"
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    x = np.clip(a.astype(np.int64), low, high).astype(np.uint64) & np.uint64((1 << bits) - 1)
    y = np.clip(b.astype(np.int64), low, high).astype(np.uint64) & np.uint64((1 << bits) - 1)
    packed = y | (x << np.uint64(bits))
    if c is not None:
        packed = packed | (c.astype(np.uint64) << np.uint64(2 * bits))
    return (packed & np.uint64(0xFFFFFFFF)).astype(np.uint32)


# -- generators


@op("cvt")
def _cvt(cg: Emitter, ins: Instruction) -> None:
    if "pack" in ins.modifiers:
        _cvt_pack(cg, ins)
        return
    if "rs" in ins.modifiers:
        cg.fail("stochastic rounding (.rs) is not simulated")
    types = [TYPES[m] for m in ins.modifiers if m in TYPES]
    if len(types) < 2:
        cg.fail("cvt needs two types")
    out, kind = types[0], types[1]
    if "scaled" in ins.modifiers or len(types) > 2:
        cg.fail("scaled conversions are not simulated")
    if out.name.endswith("x4") or "s2f6" in out.name + kind.name:
        cg.fail(f"conversion between .{kind.name} and .{out.name} is not simulated")
    if out.name in _SMALL or kind.name in _SMALL or out.name in ("f16x2", "bf16x2"):
        _cvt_packed(cg, ins, out, kind)
    elif out.name in _FLOATS and kind.name in _FLOATS:
        _cvt_float(cg, ins, out, kind)
    elif out.name in _FLOATS:
        _cvt_from_int(cg, ins, out, kind)
    elif kind.name in _FLOATS:
        _cvt_to_int(cg, ins, out, kind)
    else:
        _cvt_int(cg, ins, out, kind)


def _mode(ins: Instruction) -> str:
    return next((m for m in ins.modifiers if m in ("rn", "rz", "rm", "rp", "rna")), "rn")


def _cvt_int(cg: Emitter, ins: Instruction, out: PtxType, kind: PtxType) -> None:
    a = cg.src(ins.operands[1], kind)
    if "sat" in ins.modifiers:
        cg.dst(ins.operands[0], out, f"{cg.use(int_saturate)}({a}, {out.dtype.name!r})")
    elif out.code == kind.code:
        cg.dst(ins.operands[0], out, a)
    else:
        cg.dst(ins.operands[0], out, f"{a}.astype({out.code})")


def _assign_float(cg: Emitter, ins: Instruction, out: PtxType, expr: str) -> None:
    if "sat" in ins.modifiers:
        if out.name == "bf16":
            expr = f"{cg.use(fp.round_bf16)}({cg.use(fp.saturate)}({cg.use(fp.widen_bf16)}({expr})))"
        else:
            expr = f"{cg.use(fp.saturate)}({expr})"
    if "ftz" in ins.modifiers and out.name == "f32":
        expr = f"{cg.use(fp.flush)}({expr})"
    kind = TYPES["b16"] if out.name == "bf16" else TYPES["b32"] if out.name == "tf32" else out
    cg.dst(ins.operands[0], kind, expr)


def _cvt_from_int(cg: Emitter, ins: Instruction, out: PtxType, kind: PtxType) -> None:
    a = cg.src(ins.operands[1], kind)
    mode = _mode(ins)
    if out.name in ("f32", "f64") and mode == "rn":
        _assign_float(cg, ins, out, f"{a}.astype({out.code})")
    else:
        _assign_float(cg, ins, out, f"{cg.use(int_to_float)}({a}, {out.name!r}, {mode!r})")


def _cvt_to_int(cg: Emitter, ins: Instruction, out: PtxType, kind: PtxType) -> None:
    a = load(cg, ins.operands[1], kind, "ftz" in ins.modifiers)
    mode = next((_INTEGRAL[m] for m in ins.modifiers if m in _INTEGRAL), None)
    if mode is None:
        cg.fail("a conversion from floating point to integer needs .rni, .rzi, .rmi or .rpi")
    cg.dst(ins.operands[0], out, f"{cg.use(float_to_int)}({a}, {out.dtype.name!r}, {mode!r})")


def _cvt_float(cg: Emitter, ins: Instruction, out: PtxType, kind: PtxType) -> None:
    a = load(cg, ins.operands[1], kind, "ftz" in ins.modifiers)
    if "relu" in ins.modifiers:
        a = cg.let(f"{cg.use(relu)}({a})")
    whole = next((_INTEGRAL[m] for m in ins.modifiers if m in _INTEGRAL), None)
    if whole is not None:
        a = cg.let(f"{cg.use(integral)}({a}, {whole!r})")
    mode, satfinite = _mode(ins), "satfinite" in ins.modifiers
    if out.name == kind.name:
        _assign_float(cg, ins, out, a if out.name != "bf16" else f"{cg.use(fp.round_bf16)}({a})")
    elif out.name == "bf16" and kind.name == "f32" and mode == "rn" and not satfinite:
        _assign_float(cg, ins, out, f"{cg.use(fp.round_bf16)}({a})")
    elif out.bits > kind.bits:
        source = a
        widened = f"{source}.astype({out.code})" if out.name != "f32" or kind.name != "bf16" else source
        _assign_float(cg, ins, out, f"{cg.use(fp.canon)}({widened})" if out.name == "f32" else widened)
    else:
        _assign_float(cg, ins, out, f"{cg.use(float_from64)}({a}.astype(f8), {out.name!r}, {mode!r}, {satfinite})")


def _cvt_packed(cg: Emitter, ins: Instruction, out: PtxType, kind: PtxType) -> None:
    mode, rectify, satfinite = _mode(ins), "relu" in ins.modifiers, "satfinite" in ins.modifiers
    sources: list[Any] = list(ins.operands[1:])
    if out.name in ("f16x2", "bf16x2") and kind.name == "f32":
        a, b = (load(cg, x, kind) for x in sources)
        expr = f"{cg.use(float_pair)}({a}, {b}, {out.name[:-2]!r}, {mode!r}, {satfinite}, {rectify})"
        cg.dst(ins.operands[0], TYPES["b32"], expr)
    elif out.name in ("f16x2", "bf16x2"):
        bits = cg.src(sources[0], TYPES["b8" if kind.name == "e2m1x2" else "b16"])
        expr = f"{cg.use(from_small_pair)}({bits}, {kind.name[:-2]!r}, {out.name[:-2]!r}, {rectify})"
        cg.dst(ins.operands[0], TYPES["b32"], expr)
    else:
        if kind.name == "f32":
            a, b = (load(cg, x, kind) for x in sources)
        else:
            from .packed import split

            pair = cg.let(f"{cg.use(split)}({cg.src(sources[0], TYPES['b32'])}, {kind.name!r})")
            a, b = f"{pair}[1]", f"{pair}[0]"
        expr = f"{cg.use(to_small_pair)}({a}, {b}, {out.name[:-2]!r}, {mode!r}, {rectify})"
        cg.dst(ins.operands[0], TYPES["b8" if out.name == "e2m1x2" else "b16"], expr)


def _cvt_pack(cg: Emitter, ins: Instruction) -> None:
    types = [m for m in ins.modifiers if m in TYPES]
    target, source = TYPES[types[0]], TYPES[types[1]]
    a, b = (cg.src(x, source) for x in ins.operands[1:3])
    c = cg.src(ins.operands[3], TYPES["u32"]) if len(ins.operands) > 3 else "None"
    cg.dst(ins.operands[0], TYPES["b32"], f"{cg.use(pack_integers)}({a}, {b}, {target.name!r}, {target.bits}, {c})")
