# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Floating-point instructions on scalars (PTX ISA, "Floating Point", "Half Precision Floating Point").

Values of a type travel in generated code as: f32 float32, f64 float64, f16 float16, bf16 float32 (widened, rounded at
the end).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import fp
from ..codegen import Emitter, op
from ..ir import Instruction
from ..types import TYPES, PtxType
from . import packed
from .float_values import fma_bf16, min_max, relu, rounding


def load(cg: Emitter, operand: Any, kind: PtxType, ftz: bool = False) -> str:
    """An operand as the numpy value that computations on its type use (integers as they are)."""
    if kind.name == "bf16":
        return cg.let(f"{cg.use(fp.widen_bf16)}({cg.src(operand, kind)})")
    name = cg.src(operand, kind)
    if ftz and kind.kind == "f" and kind.name in ("f32", "f16"):
        return cg.let(f"{cg.use(fp.flush)}({name})")
    return name


def finish(cg: Emitter, ins: Instruction, kind: PtxType, expr: str) -> None:
    """Apply ftz, relu and sat to a result and assign it."""
    if "ftz" in ins.modifiers and kind.name in ("f32", "f16"):
        expr = f"{cg.use(fp.flush)}({expr})"
    if "sat" in ins.modifiers:
        expr = f"{cg.use(fp.saturate)}({expr})"
    if "relu" in ins.modifiers:
        expr = f"{cg.use(relu)}({expr})"
    if kind.name == "bf16":
        cg.dst(ins.operands[0], TYPES["b16"], f"{cg.use(fp.round_bf16)}({expr})")
    else:
        cg.dst(ins.operands[0], kind, expr)


def _mixed(ins: Instruction) -> PtxType | None:
    """The narrow type of a mixed-precision instruction such as add.f32.bf16."""
    types = [m for m in ins.modifiers if m in TYPES]
    return TYPES[types[1]] if len(types) == 2 and types[0] == "f32" and types[1] in ("f16", "bf16") else None


def _load_mixed(cg: Emitter, operand: Any, kind: PtxType) -> str:
    value = load(cg, operand, kind)
    return value if kind.name == "bf16" else cg.let(f"{value}.astype(f4)")


def emit_add_sub(cg: Emitter, ins: Instruction, kind: PtxType, symbol: str) -> None:
    """add and sub of every floating-point type."""
    if kind.name in packed.PACKED:
        packed.emit(cg, ins, kind, "add" if symbol == "+" else "sub")
        return
    narrow = _mixed(ins)
    if narrow is not None:
        a, b, kind = _load_mixed(cg, ins.operands[1], narrow), cg.src(ins.operands[2], TYPES["f32"]), TYPES["f32"]
    else:
        ftz = "ftz" in ins.modifiers
        a, b = load(cg, ins.operands[1], kind, ftz), load(cg, ins.operands[2], kind, ftz)
    mode = rounding(ins)
    negated = b if symbol == "+" else f"(-{b})"
    if kind.name == "f64":
        helper = cg.use(fp.add64)
        finish(cg, ins, kind, f"{a} {symbol} {b}" if mode == "rn" else f"{helper}({a}, {negated}, {mode!r})")
    elif mode == "rn":
        finish(cg, ins, kind, f"{cg.use(fp.canon)}({a} {symbol} {b})")
    else:
        finish(cg, ins, kind, f"{cg.use(fp.add)}({a}, {negated}, {mode!r})")


def emit_mul(cg: Emitter, ins: Instruction, kind: PtxType) -> None:
    """mul of every floating-point type."""
    if kind.name in packed.PACKED:
        packed.emit(cg, ins, kind, "mul")
        return
    ftz = "ftz" in ins.modifiers
    a, b = load(cg, ins.operands[1], kind, ftz), load(cg, ins.operands[2], kind, ftz)
    mode = rounding(ins)
    if kind.name == "f64":
        finish(cg, ins, kind, f"{a} * {b}" if mode == "rn" else f"{cg.use(fp.mul64)}({a}, {b}, {mode!r})")
    elif mode == "rn":
        finish(cg, ins, kind, f"{cg.use(fp.canon)}({a} * {b})")
    else:
        finish(cg, ins, kind, f"{cg.use(fp.mul)}({a}, {b}, {mode!r})")


def emit_fma(cg: Emitter, ins: Instruction, kind: PtxType) -> None:
    """fma, and mad of floating-point types (which is fma on every simulated target)."""
    if kind.name in packed.PACKED:
        packed.emit(cg, ins, kind, "fma")
        return
    narrow = _mixed(ins)
    if narrow is not None:
        a, b = (_load_mixed(cg, x, narrow) for x in ins.operands[1:3])
        c, kind = cg.src(ins.operands[3], TYPES["f32"]), TYPES["f32"]
    else:
        ftz = "ftz" in ins.modifiers
        a, b, c = (load(cg, x, kind, ftz) for x in ins.operands[1:4])
    mode = rounding(ins)
    if kind.name == "bf16":
        if "oob" in ins.modifiers:
            cg.fail("fma.oob is not simulated")
        finish(cg, ins, kind, f"{cg.use(fma_bf16)}({a}, {b}, {c})")
    elif kind.name == "f64":
        finish(cg, ins, kind, f"{cg.use(fp.fma64)}({a}, {b}, {c}, {mode!r})")
    elif kind.name == "f32" and mode == "rn":
        finish(cg, ins, kind, f"{cg.use(fp.fma32)}({a}, {b}, {c})")
    else:
        finish(cg, ins, kind, f"{cg.use(fp.fma)}({a}, {b}, {c}, {mode!r})")


@op("fma")
def _fma(cg: Emitter, ins: Instruction) -> None:
    kind = next(TYPES[m] for m in reversed(ins.modifiers) if m in TYPES)
    emit_fma(cg, ins, kind)


def emit_div(cg: Emitter, ins: Instruction, kind: PtxType) -> None:
    """div.rnd, div.full and div.approx. The approximate forms give the correctly rounded quotient (documented
    error: 2 ulp), but for huge divisors of div.approx.
    """
    ftz = "ftz" in ins.modifiers
    a, b = load(cg, ins.operands[1], kind, ftz), load(cg, ins.operands[2], kind, ftz)
    if "approx" in ins.modifiers:
        finish(cg, ins, kind, f"{cg.use(quotient_by_reciprocal)}({a}, {b})")
        return
    helper = fp.div64 if kind.name == "f64" else fp.div32
    finish(cg, ins, kind, f"{cg.use(helper)}({a}, {b}, {rounding(ins)!r})")


def quotient_by_reciprocal(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """div.approx.f32: a finite divisor beyond 2^126 has the reciprocal 0, and an infinity times that is NaN."""
    huge = (np.abs(b) > np.float32(2.0**126)) & np.isfinite(b)
    with np.errstate(all="ignore"):
        product = a * np.copysign(np.float32(0), b)
    return np.where(huge, fp.canon(product), fp.div32(a, b, "rn"))


def emit_min_max(cg: Emitter, ins: Instruction, kind: PtxType, name: str) -> None:
    """min and max, also of three operands."""
    if kind.name in packed.PACKED:
        packed.emit(cg, ins, kind, name)
        return
    ftz = "ftz" in ins.modifiers
    values = [load(cg, x, kind, ftz) for x in ins.operands[1:]]
    if "abs" in ins.modifiers and "xorsign" not in ins.modifiers:
        values = [f"np.abs({value})" for value in values]
    flags = f"{name == 'max'}, {'NaN' in ins.modifiers}, {'abs' in ins.modifiers and 'xorsign' in ins.modifiers}"
    helper = cg.use(min_max)
    expr = values[0]
    for value in values[1:]:
        expr = f"{helper}({expr}, {value}, {flags})"
    finish(cg, ins, kind, expr)


def emit_sign_op(cg: Emitter, ins: Instruction, kind: PtxType, name: str) -> None:
    """abs and neg work on the sign bit."""
    code = f"u{kind.bits // 8}"
    signs = {"f16": 0x8000, "bf16": 0x8000, "f16x2": 0x80008000, "bf16x2": 0x80008000, "f32": 1 << 31, "f64": 1 << 63}
    if "ftz" in ins.modifiers and kind.name in ("f32", "f16", "f16x2"):
        if kind.name == "f16x2":
            value = cg.let(f"{cg.use(packed.flush_pair)}({cg.src(ins.operands[1], kind)})")
        else:
            value = cg.let(f"{load(cg, ins.operands[1], kind, True)}.view({code})")
    else:
        value = cg.src(ins.operands[1], TYPES[f"b{kind.bits}"])
    sign = signs[kind.name]
    mask = ((1 << kind.bits) - 1) ^ sign if name == "abs" else sign
    cg.dst(ins.operands[0], TYPES[f"b{kind.bits}"], f"{value} {'&' if name == 'abs' else '^'} {cg.const(mask, code)}")


# -- single-operand functions


def truncate_low(x: np.ndarray) -> np.ndarray:
    """rcp.approx.ftz.f64 and rsqrt.approx.ftz.f64 give only the upper 32 bits of the result."""
    return (x.view(np.uint64) & np.uint64(0xFFFFFFFF00000000)).view(np.float64)


def approx64(a: np.ndarray, name: str) -> np.ndarray:
    a = fp.flush(a)
    r = 1.0 / a if name == "rcp" else 1.0 / np.sqrt(a)
    return truncate_low(fp.flush(r))


def _unary(cg: Emitter, ins: Instruction, exact32: Any, exact64: Any, name: str) -> None:
    kind = TYPES[ins.modifiers[-1]]
    a = load(cg, ins.operands[1], kind, "ftz" in ins.modifiers)
    if kind.name == "f64" and "approx" in ins.modifiers and "ftz" in ins.modifiers:
        cg.dst(ins.operands[0], kind, f"{cg.use(approx64)}({a}, {name!r})")
        return
    helper = exact64 if kind.name == "f64" else exact32
    finish(cg, ins, kind, f"{cg.use(helper)}({a}, {rounding(ins)!r})")


def rcp64(a: np.ndarray, mode: str) -> np.ndarray:
    return fp.div64(np.ones(1), a, mode)


@op("rcp")
def _rcp(cg: Emitter, ins: Instruction) -> None:
    _unary(cg, ins, fp.rcp32, rcp64, "rcp")


@op("sqrt")
def _sqrt(cg: Emitter, ins: Instruction) -> None:
    _unary(cg, ins, fp.sqrt32, fp.sqrt64, "sqrt")


def _wide(function: Any, a: np.ndarray) -> np.ndarray:
    return fp.canon(function(a.astype(np.float64)).astype(np.float32))


def rsqrt32(a: np.ndarray, mode: str) -> np.ndarray:
    return _wide(lambda x: 1.0 / np.sqrt(x), a)


def rsqrt64(a: np.ndarray, mode: str) -> np.ndarray:
    return 1.0 / np.sqrt(a)


@op("rsqrt")
def _rsqrt(cg: Emitter, ins: Instruction) -> None:
    _unary(cg, ins, rsqrt32, rsqrt64, "rsqrt")


def sin32(a: np.ndarray) -> np.ndarray:
    return _wide(np.sin, a)


def cos32(a: np.ndarray) -> np.ndarray:
    return _wide(np.cos, a)


def lg2_32(a: np.ndarray) -> np.ndarray:
    return _wide(np.log2, a)


def ex2_32(a: np.ndarray) -> np.ndarray:
    return _wide(np.exp2, a)


def tanh32(a: np.ndarray) -> np.ndarray:
    return _wide(np.tanh, a)


_FUNCTIONS = {"sin": sin32, "cos": cos32, "lg2": lg2_32, "ex2": ex2_32, "tanh": tanh32}


@op("sin", "cos", "lg2", "ex2", "tanh")
def _function(cg: Emitter, ins: Instruction) -> None:
    """sin, cos, lg2, ex2, tanh .approx: the exact function rounded, which is within every documented error bound."""
    kind = TYPES[ins.modifiers[-1]]
    helper = cg.use(_FUNCTIONS[ins.opcode])
    if kind.name in packed.PACKED:
        packed.emit_unary(cg, ins, kind, _FUNCTIONS[ins.opcode])
        return
    a = load(cg, ins.operands[1], kind, "ftz" in ins.modifiers)
    if kind.name == "f16":
        finish(cg, ins, kind, f"{cg.use(fp.canon)}({helper}({a}.astype(f4)).astype(f2))")
    else:
        finish(cg, ins, kind, f"{helper}({a})")


@op("copysign")
def _copysign(cg: Emitter, ins: Instruction) -> None:
    kind = TYPES[ins.modifiers[-1]]
    a, b = cg.src(ins.operands[1], kind), cg.src(ins.operands[2], kind)
    # PTX takes the sign of the first operand.
    cg.dst(ins.operands[0], kind, f"np.copysign({b}, {a})")


@op("testp")
def _testp(cg: Emitter, ins: Instruction) -> None:
    kind = TYPES[ins.modifiers[-1]]
    a = cg.src(ins.operands[1], kind)
    cg.dst(ins.operands[0], TYPES["pred"], f"{cg.use(test_property)}({a}, {ins.modifiers[0]!r})")


def test_property(a: np.ndarray, name: str) -> np.ndarray:
    """testp: finite, infinite, number, notanumber, normal, subnormal (zero counts as normal)."""
    tiny = np.finfo(a.dtype).tiny
    tests: dict[str, Any] = {
        "finite": np.isfinite,
        "infinite": np.isinf,
        "number": lambda x: ~np.isnan(x),
        "notanumber": np.isnan,
        "normal": lambda x: np.isfinite(x) & ((np.abs(x) >= tiny) | (x == 0)),
        "subnormal": lambda x: (np.abs(x) < tiny) & (x != 0),
    }
    return tests[name](a)
