# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Conversions between element types, bit casts, and packing to bytes."""

from __future__ import annotations

from typing import Any

import cuda.tile as ct
import ml_dtypes
import numpy as np
from cuda.tile import RoundingMode

from examples.signatures import array
from kernels import numerics
from kernels.dtypes import BOOL, FLOAT8, FLOATS, INTEGERS, SCALES, Dtype, random_integers, special_floats
from kernels.model import Kernel, Problem

TILE = 128
ALL = INTEGERS | FLOATS | FLOAT8 | SCALES | BOOL

#: Source and target types of the plain conversions.
PAIRS = (
    ("f32", "f16"), ("f32", "bf16"), ("f32", "f64"), ("f64", "f32"), ("f16", "f32"), ("bf16", "f32"), ("f64", "f16"),
    ("f16", "bf16"), ("f32", "f8e4m3fn"), ("f32", "f8e5m2"), ("f8e4m3fn", "f32"), ("f8e5m2", "f16"),
    ("f16", "f8e4m3fn"), ("f32", "i8"), ("f32", "i32"), ("f32", "u32"), ("f32", "i64"), ("f64", "i64"), ("f64", "u64"),
    ("f16", "i16"), ("f16", "u8"), ("bf16", "i32"), ("i8", "f32"), ("i32", "f32"), ("u32", "f32"), ("i64", "f64"),
    ("u64", "f32"), ("i16", "f16"), ("u8", "bf16"), ("i8", "i64"), ("u8", "i32"), ("i16", "u32"), ("i64", "i8"),
    ("u32", "i16"), ("i32", "u32"), ("i1", "i32"), ("i1", "f32"), ("i32", "i1"), ("f32", "i1"),
)  # fmt: skip


@ct.kernel
def cast(x, out, tile: ct.Constant[int]):
    ct.store(out, (0,), ct.load(x, (0,), (tile,)).astype(out.dtype))


@ct.kernel
def through_tf32(x, out, tile: ct.Constant[int]):
    ct.store(out, (0,), ct.load(x, (0,), (tile,)).astype(ct.tfloat32).astype(ct.float32))


@ct.kernel
def rounded_cast(x, out, mode: ct.Constant[int], tile: ct.Constant[int]):
    values = ct.load(x, (0,), (tile,))
    if mode == 0:
        ct.store(out, (0,), values.astype(out.dtype, rounding_mode=RoundingMode.RZ))
    elif mode == 1:
        ct.store(out, (0,), values.astype(out.dtype, rounding_mode=RoundingMode.RM))
    elif mode == 2:
        ct.store(out, (0,), values.astype(out.dtype, rounding_mode=RoundingMode.RP))
    else:
        ct.store(out, (0,), values.astype(out.dtype, rounding_mode=RoundingMode.RA))


@ct.kernel
def bitcasts(x, halves, out, halves_out, tile: ct.Constant[int]):
    word = ct.bitcast(ct.load(x, (0,), (tile,)), ct.uint32)
    # Flip the sign and drop the low 13 bits of the fraction.
    ct.store(out, (0,), ct.bitcast((word ^ 0x80000000) & 0xFFFFE000, ct.float32))
    half = ct.bitcast(ct.load(halves, (0,), (tile,)), ct.int16)
    ct.store(halves_out, (0,), ct.bitcast(half, ct.bfloat16))


def bitcasts_reference(x, halves, out, halves_out):
    word = (x.view(np.uint32) ^ np.uint32(0x80000000)) & np.uint32(0xFFFFE000)
    return {"out": word.view(np.float32), "halves_out": halves.view(np.int16).view(ml_dtypes.bfloat16)}


@ct.kernel
def pack(x, out, tile: ct.Constant[int]):
    ct.store(out, (0,), ct.pack_to_bytes(ct.load(x, (0,), (tile,))))


@ct.kernel
def unpack(x, out, tile: ct.Constant[int]):
    ct.store(out, (0,), ct.unpack_from_bytes(ct.load(x, (0,), (tile * 4,)), ct.float32))


@ct.kernel
def unpack_f4(x, out, tile: ct.Constant[int]):
    narrow = ct.unpack_from_bytes(ct.load(x, (0,), (tile // 2,)), ct.float4_e2m1fn)
    ct.store(out, (0,), narrow.astype(ct.float32))


def unpack_f4_reference(x, out):
    # The element with the lower index is in the lower half of a byte.
    nibbles = np.stack([x & 15, x >> 4], axis=1).ravel()
    magnitudes = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)[nibbles & 7]
    return {"out": np.where(nibbles & 8, -magnitudes, magnitudes).astype(np.float32)}


@ct.kernel
def pack_f4(x, out, tile: ct.Constant[int]):
    ct.store(out, (0,), ct.pack_to_bytes(ct.load(x, (0,), (tile,)).astype(ct.float4_e2m1fn)))


def pack_f4_reference(x, out):
    codes = np.searchsorted(np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6]), np.abs(x)) | np.where(np.signbit(x), 8, 0)
    return {"out": (codes[0::2] | codes[1::2] << 4).astype(np.uint8)}


def _fits(values: np.ndarray, target: np.dtype) -> np.ndarray:
    """Values that the target can hold after truncation: what a conversion does with others is not defined."""
    info = np.iinfo(target)
    wide = np.where(np.isfinite(values.astype(np.float64)), values.astype(np.float64), 0)
    low = float(info.min) if info.min < 0 else 0.0
    # The largest integers are not representable in a narrow float: stay a step below.
    high = float(info.max) * (1 - 2.0**-7)
    return np.clip(wide * 50, low, high).astype(values.dtype)


def _source(rng: np.random.Generator, source: Dtype, target: Dtype) -> np.ndarray:
    if source.numpy.kind == "b":
        return rng.integers(0, 2, TILE).astype(np.bool_)
    if source.numpy.kind in "iu":
        values = random_integers(rng, source.numpy, TILE)
        values[::9] = 0
        return values
    if source in FLOAT8.values():
        return np.arange(TILE, dtype=np.uint8).view(source.numpy) if rng.integers(2) else np.arange(
            128, 128 + TILE, dtype=np.uint8).view(source.numpy)  # fmt: skip
    if target.numpy.kind in "iu":
        return _fits(rng.standard_normal(TILE).astype(source.numpy), target.numpy)
    if target in FLOAT8.values():
        return np.clip(rng.standard_normal(TILE) * 20, -400, 400).astype(source.numpy)
    return special_floats(rng, source.numpy, TILE)


def _converted(x: np.ndarray, target: Dtype, name: str, mode: str = "RN") -> np.ndarray:
    if target.numpy.kind == "b":
        return x != 0
    if target.numpy.kind in "iu":
        whole = x if x.dtype.kind in "iub" else np.trunc(x.astype(np.float64))
        return whole.astype(target.numpy)
    if x.dtype.kind in "iub":
        rounded = [numerics.round_fraction(numerics.Fraction(int(value)), name, mode) for value in x]
        return np.array(rounded, np.float64).astype(target.numpy)
    return numerics.elementwise(numerics.convert, x, format_name=name, mode=mode).astype(target.numpy)


def _cast_kernel(source_name: str, target_name: str) -> Kernel:
    source, target = ALL[source_name], ALL[target_name]

    def problem(rng: np.random.Generator) -> Problem:
        return Problem((1, 1, 1), [_source(rng, source, target), np.zeros(TILE, target.numpy)])

    def reference(x, out):
        return {"out": _converted(x, target, target_name)}

    return Kernel(f"cast_{source_name}_to_{target_name}", cast, (array(source.tile), array(target.tile), TILE), problem,
                  reference, tags=frozenset({"elementwise", "cast"}))  # fmt: skip


_MODES = ("RZ", "RM", "RP", "RA")


def _rounded_cast_kernel(source_name: str, target_name: str, mode: str) -> Kernel:
    source, target = ALL[source_name], ALL[target_name]

    def problem(rng: np.random.Generator) -> Problem:
        return Problem((1, 1, 1), [special_floats(rng, source.numpy, TILE), np.zeros(TILE, target.numpy)])

    def reference(x, out):
        return {"out": _converted(x, target, target_name, mode)}

    return Kernel(
        f"cast_{source_name}_to_{target_name}_{mode}", rounded_cast,
        (array(source.tile), array(target.tile), _MODES.index(mode), TILE), problem, reference,
        min_version="13.4", refusal="require tileiras 13.4", gpu_code="sm_100",
        tags=frozenset({"elementwise", "cast", "rounding"}),
    )  # fmt: skip


def _scale_kernel(mode: str) -> Kernel:
    """f32 to f8E8M0FNU, which has powers of two only; the rounding mode must be given."""

    def problem(rng: np.random.Generator) -> Problem:
        x = (rng.uniform(1, 2, TILE) * 2.0 ** rng.integers(-100, 100, TILE)).astype(np.float32)
        x[:4] = [1, 2, 0.5, 1.5]
        return Problem((1, 1, 1), [x, np.zeros(TILE, ml_dtypes.float8_e8m0fnu)])

    def reference(x, out):
        exponents = np.log2(x.astype(np.float64))
        whole = np.floor(exponents) if mode == "RZ" else np.ceil(exponents)
        return {"out": np.exp2(whole).astype(ml_dtypes.float8_e8m0fnu)}

    return Kernel(
        f"cast_f32_to_f8e8m0fnu_{mode}", rounded_cast,
        (array(ct.float32), array(ct.float8_e8m0fnu), _MODES.index(mode), TILE), problem, reference,
        min_version="13.3", refusal="require tileiras 13.3", gpu_code="sm_100",
        tags=frozenset({"elementwise", "cast", "rounding", "scale"}),
    )  # fmt: skip


def _scale_to_f32() -> Kernel:
    def problem(rng: np.random.Generator) -> Problem:
        x = rng.integers(1, 255, TILE).astype(np.uint8).view(ml_dtypes.float8_e8m0fnu)
        return Problem((1, 1, 1), [x, np.zeros(TILE, np.float32)])

    def reference(x, out):
        return {"out": np.exp2(x.view(np.uint8).astype(np.float64) - 127).astype(np.float32)}

    return Kernel("cast_f8e8m0fnu_to_f32", cast, (array(ct.float8_e8m0fnu), array(ct.float32), TILE), problem,
                  reference, min_version="13.2", refusal="float8_e8m0fnu requires tileiras 13.2", gpu_code="sm_100",
                  tags=frozenset({"elementwise", "cast", "scale"}))  # fmt: skip


def _floats_problem(count_out: int, dtype_out: type, size_in: int = TILE, dtype_in: type = np.float32):
    def problem(rng: np.random.Generator) -> Problem:
        if dtype_in is np.uint8:
            x = rng.integers(0, 256, size_in).astype(np.uint8)
        else:
            x = special_floats(rng, np.dtype(dtype_in), size_in)
        return Problem((1, 1, 1), [x, np.zeros(count_out, dtype_out)])

    return problem


def _bitcasts_problem(rng: np.random.Generator) -> Problem:
    x = special_floats(rng, np.dtype(np.float32), TILE)
    halves = special_floats(rng, np.dtype(np.float16), TILE)
    return Problem((1, 1, 1), [x, halves, np.zeros(TILE, np.float32), np.zeros(TILE, ml_dtypes.bfloat16)])


def _pack_f4_problem(rng: np.random.Generator) -> Problem:
    x = rng.choice([0, 0.5, 1, 1.5, 2, 3, 4, 6], TILE) * rng.choice([-1.0, 1.0], TILE)
    return Problem((1, 1, 1), [x.astype(np.float32), np.zeros(TILE // 2, np.uint8)])


def _kernels() -> list[Kernel]:
    tags = frozenset({"elementwise", "cast"})
    f32, u8 = array(ct.float32), array(ct.uint8)
    since_133: dict[str, Any] = {"min_version": "13.3", "refusal": "requires tileiras 13.3"}
    f4: dict[str, Any] = {"min_version": "13.3", "refusal": "requires tileiras 13", "gpu_code": "sm_100"}
    return [
        *(_cast_kernel(*pair) for pair in PAIRS),
        Kernel("cast_through_tf32", through_tf32, (f32, f32, TILE), _floats_problem(TILE, np.float32),
               lambda x, out: {"out": _converted(x, FLOATS["f32"], "tf32")}, tags=tags | {"tf32"}),
        Kernel("cast_f32_to_f8e5m3fnu", cast, (f32, array(ct.float8_e5m3fnu), TILE), None, None, gpu_code="sm_107",
               min_version="13.4", refusal="float8_e5m3fnu requires tileiras 13.4|require tileiras 13.4",
               compile_only="the element type has no numpy counterpart", tags=tags | {"scale"}),
        *(_rounded_cast_kernel("f64", "f32", mode) for mode in ("RZ", "RM", "RP")),
        _rounded_cast_kernel("f32", "f16", "RZ"),
        _rounded_cast_kernel("f32", "bf16", "RZ"),
        _scale_kernel("RZ"),
        _scale_kernel("RP"),
        _scale_to_f32(),
        Kernel("bitcasts", bitcasts, (f32, array(ct.float16), f32, array(ct.bfloat16), TILE), _bitcasts_problem,
               bitcasts_reference, tags=tags),
        Kernel("pack", pack, (f32, u8, TILE), _floats_problem(4 * TILE, np.uint8),
               lambda x, out: {"out": x.view(np.uint8)}, tags=tags, **since_133),
        Kernel("unpack", unpack, (u8, f32, TILE), _floats_problem(TILE, np.float32, 4 * TILE, np.uint8),
               lambda x, out: {"out": x.view(np.float32)}, tags=tags, **since_133),
        Kernel("unpack_f4", unpack_f4, (u8, f32, TILE), _floats_problem(TILE, np.float32, TILE // 2, np.uint8),
               unpack_f4_reference, tags=tags | {"f4"}, **f4),
        Kernel("pack_f4", pack_f4, (f32, u8, TILE), _pack_f4_problem, pack_f4_reference, tags=tags | {"f4"}, **f4),
    ]  # fmt: skip


KERNELS = _kernels()
