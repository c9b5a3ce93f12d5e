# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Approximate instructions, within the error that the PTX ISA documents for each (Floating Point Instructions)."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np

from .exact import F32, flush
from .floating import spread
from .table import Array, Close, Family, Launch, Source, slots

APPROX = Family(Source("approx"))
APPROX90 = Family(Source("approx90", archs=("sm_90",)))


def wide(values: Array) -> Array:
    return values.astype(np.float64)


@APPROX.add(block=128)
def approx_exponential(rng: np.random.Generator) -> Launch:
    a = np.concatenate([rng.uniform(-20, 20, 64), rng.uniform(-140, 127, 64)]).astype(np.float32)
    # ex2.approx.f32: 2 ulp over the whole range; subnormal results are kept without .ftz.
    return Launch([np.zeros(256, np.float32), a], {0: Close(np.tile(np.exp2(wide(a)), 2), ulp=2)})


@APPROX.add(block=128)
def approx_logarithm(rng: np.random.Generator) -> Launch:
    a = np.concatenate([rng.uniform(0.5, 2, 64), np.abs(spread(rng, 64, np.float64, -126, 126))]).astype(np.float32)
    # lg2.approx.f32: absolute 2^-22 for arguments in (0.5, 2), relative 2^-22 elsewhere.
    bound = Close(np.tile(np.log2(wide(a)), 2), absolute=2.0**-22, relative=2.0**-22)
    return Launch([np.zeros(256, np.float32), a], {0: bound})


@APPROX.add(block=64)
def approx_reciprocal(rng: np.random.Generator) -> Launch:
    a = spread(rng, 64, np.float32, -60, 60)
    return Launch([np.zeros(128, np.float32), a], {0: Close(np.tile(1 / wide(a), 2), ulp=1)})


@APPROX.add(block=64)
def approx_roots(rng: np.random.Generator) -> Launch:
    a = np.abs(spread(rng, 64, np.float32, -120, 120))
    root = np.sqrt(wide(a))
    # sqrt.approx: relative 2^-23; rsqrt.approx: relative 2^-22.9.
    bound = Close(slots([root, 1 / root, 1 / root], float), relative=2.0**-22.9)
    return Launch([np.zeros(192, np.float32), a], {0: bound})


@APPROX.add(block=128)
def approx_trigonometry(rng: np.random.Generator) -> Launch:
    a = rng.uniform(-math.pi, math.pi, 128).astype(np.float32)
    sine, cosine = np.sin(wide(a)), np.cos(wide(a))
    # sin.approx and cos.approx: absolute 2^-20.5 within [-2 pi, 2 pi].
    return Launch([np.zeros(384, np.float32), a], {0: Close(slots([sine, cosine, sine], float), absolute=2.0**-20.5)})


@APPROX.add(block=64)
def approx_tanh(rng: np.random.Generator) -> Launch:
    a = np.concatenate([rng.uniform(-4, 4, 32), spread(rng, 32, np.float64, -20, 8)]).astype(np.float32)
    # tanh.approx.f32: relative 2^-11.
    return Launch([np.zeros(64, np.float32), a], {0: Close(np.tanh(wide(a)), relative=2.0**-11)})


@APPROX.add(block=64)
def approx_division(rng: np.random.Generator) -> Launch:
    a, b = spread(rng, 64, np.float32, -30, 30), spread(rng, 64, np.float32, -30, 30)
    # div.approx for divisors in [2^-126, 2^126] and div.full: 2 ulp.
    return Launch([np.zeros(192, np.float32), a, b], {0: Close(np.tile(wide(a) / wide(b), 3), ulp=2)})


@APPROX.add(block=64)
def approx_f64(rng: np.random.Generator) -> Launch:
    a = np.abs(spread(rng, 64, np.float64, -100, 100))
    root = 1 / np.sqrt(a)

    def check(got: Array) -> str | None:
        # rcp and rsqrt .approx.ftz.f64 see and make the top 32 bits only: 20 bits of significand.
        coarse = Close(slots([1 / a, root], float), relative=2.0**-18)(got[:128])
        if coarse or np.any(got[:128].view(np.uint64) & np.uint64(0xFFFFFFFF)):
            return coarse or "the low 32 bits of an .approx.ftz.f64 result are not zero"
        # CUDA's rsqrt() is this one instruction, and is within 1 ulp.
        return Close(root, ulp=2)(got[128:])

    return Launch([np.zeros(192), a], {0: check}, varies=True)


def half_values(rng: np.random.Generator, dtype: type) -> Array:
    return np.concatenate([rng.uniform(-4, 4, 48), rng.uniform(-10, 10, 16)]).astype(dtype)


@APPROX.add(block=64)
def approx_f16(rng: np.random.Generator) -> Launch:
    a = half_values(rng, np.float16)
    # tanh.approx.f16: absolute 2^-10.987; ex2.approx.f16: relative 2^-9.9 (and half a subnormal step).
    tanh = Close(np.tile(np.tanh(wide(a)), 2), absolute=2.0**-10.987)
    exponential = Close(np.tile(np.exp2(wide(a)), 2), relative=2.0**-9.9)
    return Launch([np.zeros(256, np.float16), a], {0: lambda got: tanh(got[:128]) or exponential(got[128:])})


@APPROX90.add(block=64)
def approx_bf16(rng: np.random.Generator) -> Launch:
    a = half_values(rng, ml_dtypes.bfloat16)
    # tanh.approx.bf16: absolute 2^-8; ex2.approx.ftz.bf16: relative 2^-7.
    tanh = Close(np.tile(np.tanh(wide(a)), 2), absolute=2.0**-8)
    exponential = Close(np.tile(np.exp2(wide(a)), 2), relative=2.0**-7)
    return Launch([np.zeros(256, ml_dtypes.bfloat16), a], {0: lambda got: tanh(got[:128]) or exponential(got[128:])})


@APPROX.add()
def approx_special(rng: np.random.Generator) -> Launch:
    values = [0.0, -0.0, 2.0**-140, -(2.0**-140), math.inf, -math.inf, math.nan, 1.0, 4.0, -1.0, 2.0**20, 0.25]
    a = np.resize(np.array(values, np.float32), 32)
    x = np.array([flush(v, F32) for v in a.tolist()])
    with np.errstate(all="ignore"):
        exp2, log2 = np.exp2(x), np.log2(x)
        reciprocal, root = 1 / x, np.sqrt(x)
        inverse_root = 1 / np.where(x == 0, x, root)
        sine = np.where(x == 0, x, np.nan)
        tanh = np.where(np.abs(a) < 1, a, np.sign(a)).astype(np.float64)
    exp2[x > 127] = np.inf
    nan_or_limit = ~np.isfinite(a) | (x == 0)
    known = [
        np.ones(32, bool), np.ones(32, bool), np.ones(32, bool), np.ones(32, bool), np.ones(32, bool),
        nan_or_limit, nan_or_limit & (np.abs(a) != 2.0**-140),
    ]  # fmt: skip
    want = np.concatenate([exp2, log2, reciprocal, root, inverse_root, sine, tanh])

    def check(got: Array) -> str | None:
        selected = np.concatenate(known)
        exact = np.where(selected, want, 0.0)
        shown = np.where(selected, got, np.float32(0))
        return Close(exact, ulp=2)(shown) or _zero_signs(shown, exact)

    return Launch([np.zeros(7 * 32, np.float32), a], {0: check})


def _zero_signs(got: Array, want: Array) -> str | None:
    wrong = (want == 0) & (np.signbit(got) != np.signbit(want))
    return f"zeros of the wrong sign at {np.flatnonzero(wrong)[:8].tolist()}" if wrong.any() else None
