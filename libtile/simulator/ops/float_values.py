# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What instructions on scalars and on packed pairs of floats compute alike, and how they round."""

from __future__ import annotations

import numpy as np

from .. import fp
from ..ir import Instruction

ROUNDINGS = ("rn", "rz", "rm", "rp")


def rounding(ins: Instruction, default: str = "rn") -> str:
    return next((m for m in ins.modifiers if m in ROUNDINGS), default)


def relu(x: np.ndarray) -> np.ndarray:
    """Negative values become +0; NaN becomes the canonical NaN."""
    return fp.canon(np.where(x <= 0, x.dtype.type(0), x))


def fma_bf16(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """bf16 fma on widened operands; the float32 result is odd-rounded, so that one rounding to bf16 remains."""
    p = a.astype(np.float64) * b
    q = np.broadcast_to(c, p.shape).astype(np.float64)
    x = fp.add_odd(p, q)
    return fp.widen_bf16(fp.bf16_from64(x))


def min_max(a: np.ndarray, b: np.ndarray, largest: bool, nan: bool, xorsign: bool) -> np.ndarray:
    """min or max: NaN loses unless `nan`; -0 is less than +0; xorsign takes magnitudes and the xor of the signs."""
    a, b = np.broadcast_arrays(a, b)
    x, y = (np.abs(a), np.abs(b)) if xorsign else (a, b)
    first = (x > y) if largest else (x < y)
    tie = x == y
    sign_x = np.signbit(x)
    first |= tie & (~sign_x if largest else sign_x)
    r = np.where(first, x, y)
    r = np.where(np.isnan(x), y, np.where(np.isnan(y), x, r))
    bad = (np.isnan(a) | np.isnan(b)) if nan else (np.isnan(a) & np.isnan(b))
    if xorsign:
        r = np.where(np.signbit(a) ^ np.signbit(b), -np.abs(r), np.abs(r))
    if bad.any():
        r = np.where(bad, r.dtype.type(np.nan), r)
        return fp.canon(r)
    return r
