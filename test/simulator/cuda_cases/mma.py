# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""mma.sync in every dense shape and type, against an integer matrix product.

Operands are small integers (or halves), so that every order and width of accumulation gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from .half import bfloat16
from .memory import bits
from .table import Array, Family, Launch, Source

MMA = Family(Source("mma"))
MMA90 = Family(Source("mma90", archs=("sm_90",)))
MMA120 = Family(Source("mma120", archs=("sm_120a",)))


@dataclass(frozen=True)
class Element:
    """An operand type: the values to draw from, and how a [rows][K] matrix of them becomes fragment words."""

    draw: Callable[[np.random.Generator, tuple[int, int]], Array]
    pack: Callable[[Array], Array]


def float_element(dtype: Any, limit: int) -> Element:
    return Element(
        lambda rng, shape: rng.integers(-limit, limit + 1, shape).astype(np.float64),
        lambda values: values.astype(dtype).view(np.uint8).view(np.uint32 if dtype != np.float64 else np.float64),
    )


def integer_element(low: int, high: int, width: int) -> Element:
    """Two's complement fields of `width` bits, the first in the lowest bits of a byte."""

    def pack(values: Array) -> Array:
        per_byte = 8 // width
        fields = (values.astype(np.int64) & (1 << width) - 1).reshape(*values.shape[:-1], -1, per_byte)
        joined = (fields << width * np.arange(per_byte)).sum(axis=-1).astype(np.uint8)
        return joined.view(np.uint32)

    return Element(lambda rng, shape: rng.integers(low, high, shape, endpoint=True), pack)


def byte_float_element(dtype: Any, limit: int, shift: int = 0) -> Element:
    """A narrow float that fills a byte of its own; 4-bit codes sit `shift` bits up in it."""
    return Element(
        lambda rng, shape: rng.integers(-limit, limit + 1, shape) / 2,
        lambda values: (values.astype(dtype).view(np.uint8) << shift).astype(np.uint8).view(np.uint32),
    )


def packed_fp4() -> Element:
    def pack(values: Array) -> Array:
        codes = values.astype(ml_dtypes.float4_e2m1fn).view(np.uint8)
        return (codes[..., 0::2] | codes[..., 1::2] << 4).astype(np.uint8).view(np.uint32)

    return Element(lambda rng, shape: rng.integers(-4, 5, shape) / 2, pack)


ELEMENTS = {
    "f16": float_element(np.float16, 4),
    "bf16": float_element(bfloat16, 4),
    "tf32": float_element(np.float32, 100),
    "f64": float_element(np.float64, 100000),
    "s8": integer_element(-128, 127, 8),
    "u8": integer_element(0, 255, 8),
    "s4": integer_element(-8, 7, 4),
    "u4": integer_element(0, 15, 4),
    "b1": integer_element(0, 1, 1),
    "e4m3": byte_float_element(ml_dtypes.float8_e4m3fn, 8),
    "e5m2": byte_float_element(ml_dtypes.float8_e5m2, 8),
    "e3m2": byte_float_element(ml_dtypes.float6_e3m2fn, 8),
    "e2m3": byte_float_element(ml_dtypes.float6_e2m3fn, 8),
    "e2m1": byte_float_element(ml_dtypes.float4_e2m1fn, 4, 2),
    "packed e2m1": packed_fp4(),
}


def float_product(rng: np.random.Generator, shape: tuple[int, int, int], a_type: str, b_type: str, acc: Any) -> Launch:
    """D = A B + C in floating point; `acc` is the accumulator's type."""
    m, n, k = shape
    left, right = ELEMENTS[a_type], ELEMENTS[b_type]
    a, b = left.draw(rng, (m, k)), right.draw(rng, (n, k))
    c = rng.integers(-100, 101, (m, n)).astype(np.float64)
    want = (a @ b.T + c).astype(acc)
    return Launch([np.zeros((m, n), acc), left.pack(a), right.pack(b), c.astype(acc)], {0: want})


def integer_product(
    rng: np.random.Generator, shape: tuple[int, int, int], a_type: str, b_type: str, saturating: bool = False
) -> Launch:
    """D = A B + C in s32, wrapping or saturating. Saturating sums only grow, so that no step can come back."""
    m, n, k = shape
    left, right = ELEMENTS[a_type], ELEMENTS[b_type]
    a, b = left.draw(rng, (m, k)), right.draw(rng, (n, k))
    c = bits(rng, (m, n), np.int32)
    c[0] = 2**31 - 7
    if saturating:
        a, b = np.abs(a) % 128, np.abs(b) % 128
        if "s4" in (a_type, b_type):
            a, b = a % 8, b % 8
    total = a.astype(np.int64) @ b.astype(np.int64).T + c
    want = np.clip(total, -(2**31), 2**31 - 1) if saturating else total
    return Launch(
        [np.zeros((m, n), np.int32), left.pack(a), right.pack(b), c], {0: want.astype(np.uint64).astype(np.int32)}
    )


def bit_product(rng: np.random.Generator, shape: tuple[int, int, int], operation: str) -> Launch:
    m, n, k = shape
    a, b = ELEMENTS["b1"].draw(rng, (m, k)), ELEMENTS["b1"].draw(rng, (n, k))
    c = rng.integers(-1000, 1000, (m, n)).astype(np.int32)
    joined = a[:, None] ^ b[None] if operation == "xor" else a[:, None] & b[None]
    args = [np.zeros((m, n), np.int32), ELEMENTS["b1"].pack(a), ELEMENTS["b1"].pack(b), c]
    return Launch(args, {0: (joined.sum(axis=2) + c).astype(np.int32)})


def _float(family: Family, entry: str, shape: tuple[int, int, int], a: str, acc: Any, b: str | None = None) -> None:
    family.add(entry=entry)(lambda rng: float_product(rng, shape, a, b or a, acc))


def _integer(entry: str, shape: tuple[int, int, int], a: str, b: str, saturating: bool = False) -> None:
    MMA.add(entry=entry)(lambda rng: integer_product(rng, shape, a, b, saturating))


def _bits(entry: str, shape: tuple[int, int, int], operation: str) -> None:
    MMA.add(entry=entry)(lambda rng: bit_product(rng, shape, operation))


_float(MMA, "mma_m16n8k8_f16_f16", (16, 8, 8), "f16", np.float16)
_float(MMA, "mma_m16n8k16_f16_f16", (16, 8, 16), "f16", np.float16)
_float(MMA, "mma_m16n8k8_f32_f16", (16, 8, 8), "f16", np.float32)
_float(MMA, "mma_m16n8k16_f32_f16", (16, 8, 16), "f16", np.float32)
_float(MMA, "mma_m16n8k8_f32_bf16", (16, 8, 8), "bf16", np.float32)
_float(MMA, "mma_m16n8k16_f32_bf16", (16, 8, 16), "bf16", np.float32)
_float(MMA, "mma_m16n8k4_f32_tf32", (16, 8, 4), "tf32", np.float32)
_float(MMA, "mma_m16n8k8_f32_tf32", (16, 8, 8), "tf32", np.float32)
_float(MMA, "mma_m8n8k4_f64", (8, 8, 4), "f64", np.float64)

_integer("mma_m8n8k16_s8_s8", (8, 8, 16), "s8", "s8")
_integer("mma_m8n8k16_u8_s8", (8, 8, 16), "u8", "s8", True)
_integer("mma_m16n8k16_s8_s8", (16, 8, 16), "s8", "s8")
_integer("mma_m16n8k16_s8_u8", (16, 8, 16), "s8", "u8")
_integer("mma_m16n8k32_s8_s8", (16, 8, 32), "s8", "s8")
_integer("mma_m16n8k32_u8_u8", (16, 8, 32), "u8", "u8")
_integer("mma_m16n8k32_u8_s8", (16, 8, 32), "u8", "s8")
_integer("mma_m16n8k32_s8_s8_sat", (16, 8, 32), "s8", "s8", True)
_integer("mma_m8n8k32_s4_s4", (8, 8, 32), "s4", "s4")
_integer("mma_m8n8k32_u4_s4", (8, 8, 32), "u4", "s4")
_integer("mma_m16n8k32_s4_s4", (16, 8, 32), "s4", "s4")
_integer("mma_m16n8k64_s4_s4", (16, 8, 64), "s4", "s4")
_integer("mma_m16n8k64_u4_u4", (16, 8, 64), "u4", "u4")
_integer("mma_m16n8k64_s4_u4", (16, 8, 64), "s4", "u4", True)
_bits("mma_m8n8k128_b1_xor", (8, 8, 128), "xor")
_bits("mma_m8n8k128_b1_and", (8, 8, 128), "and")
_bits("mma_m16n8k128_b1_and", (16, 8, 128), "and")
_bits("mma_m16n8k256_b1_xor", (16, 8, 256), "xor")
_bits("mma_m16n8k256_b1_and", (16, 8, 256), "and")

_float(MMA90, "mma_m16n8k32_f32_e4m3", (16, 8, 32), "e4m3", np.float32)
_float(MMA90, "mma_m16n8k32_f32_e5m2", (16, 8, 32), "e5m2", np.float32)
_float(MMA90, "mma_m16n8k32_f32_e4m3_e5m2", (16, 8, 32), "e4m3", np.float32, "e5m2")
_float(MMA90, "mma_m16n8k16_f32_e4m3", (16, 8, 16), "e4m3", np.float32)
_float(MMA90, "mma_m16n8k32_f16_e4m3", (16, 8, 32), "e4m3", np.float16)
_float(MMA90, "mma_m16n8k16_f16_e5m2", (16, 8, 16), "e5m2", np.float16)
_float(MMA90, "mma_m16n8k4_f64", (16, 8, 4), "f64", np.float64)
_float(MMA90, "mma_m16n8k8_f64", (16, 8, 8), "f64", np.float64)
_float(MMA90, "mma_m16n8k16_f64", (16, 8, 16), "f64", np.float64)

_float(MMA120, "mma_k32_e2m1_e2m1", (16, 8, 32), "e2m1", np.float32)
_float(MMA120, "mma_k32_e3m2_e4m3", (16, 8, 32), "e3m2", np.float32, "e4m3")
_float(MMA120, "mma_k32_e2m3_e5m2", (16, 8, 32), "e2m3", np.float32, "e5m2")


def quad_pair_product(rng: np.random.Generator, acc: Any) -> tuple[Array, Array, Array, Array]:
    a, b = (rng.integers(-4, 5, (4, 8, 4)).astype(np.float16) for _ in range(2))
    c = rng.integers(-100, 101, (4, 8, 8)).astype(acc)
    product = a.astype(np.float64) @ b.astype(np.float64).transpose(0, 2, 1)
    return a, b, c, (product + c).astype(acc)


@MMA.add()
def mma_m8n8k4_f32_f16(rng: np.random.Generator) -> Launch:
    a, b, c, want = quad_pair_product(rng, np.float32)
    return Launch([np.zeros((4, 8, 8), np.float32), a, b, c], {0: want})


@MMA.add()
def mma_m8n8k4_f16_f16(rng: np.random.Generator) -> Launch:
    a, b, c, want = quad_pair_product(rng, np.float16)
    a_columns, b_rows = (np.ascontiguousarray(x.transpose(0, 2, 1)) for x in (a, b))
    return Launch([np.zeros((4, 8, 8), np.float16), a_columns, b_rows, c], {0: want})


def fragment(matrix: Array, transposed: bool = False) -> Array:
    """The words that 32 lanes hold of an 8x8 matrix of uint16: lane l has row l / 4, columns 2 (l % 4) and the next."""
    rows = matrix.T if transposed else matrix
    return np.ascontiguousarray(rows).view(np.uint32).ravel()


@MMA.add()
def load_matrix(rng: np.random.Generator) -> Launch:
    tiles = bits(rng, (4, 8, 8), np.uint16)
    plain, turned = [fragment(t) for t in tiles], [fragment(t, True) for t in tiles]
    want = [plain[0], turned[0], *plain[:2], *turned[:2], *plain, *turned]
    # movmatrix turns the first register of the last, transposed, load back.
    want.append(plain[0])
    return Launch([np.zeros(15 * 32, np.uint32), tiles.view(np.uint32)], {0: np.concatenate(want)})


@MMA90.add()
def store_matrix(rng: np.random.Generator) -> Launch:
    tiles = bits(rng, (4, 8, 8), np.uint16)
    registers = np.concatenate([fragment(t) for t in tiles])
    want = np.full((6, 128), 0xFFFFFFFF, np.uint32)
    for form, (count, transposed) in enumerate((n, t) for t in (False, True) for n in (1, 2, 4)):
        want[form, : 32 * count] = np.concatenate([fragment(t, transposed) for t in tiles[:count]])
    return Launch([np.zeros(6 * 128, np.uint32), registers], {0: want})


@MMA.add(block=64)
def mma_gemm(rng: np.random.Generator) -> Launch:
    a, b = (rng.integers(-8, 9, (32, 32)).astype(np.float16) for _ in range(2))
    want = a.astype(np.float32) @ b.astype(np.float32)
    return Launch([np.zeros((32, 32), np.float32), a, b], {0: want})


def scaled_product(
    rng: np.random.Generator, element: str, k: int, block: int, scale_codes: list[int], scale_type: Any
) -> Launch:
    """D = (A scaled) (B scaled) + C: each `block` elements along K share a scale factor, bytes of one word per line."""
    values = ELEMENTS[element]
    a, b = values.draw(rng, (16, k)), values.draw(rng, (8, k))
    c = rng.integers(-100, 101, (16, 8)).astype(np.float32)
    words, factors = [], []
    for lines in (16, 8):
        codes = np.zeros((lines, 4), np.uint8)
        codes[:, : k // block] = rng.choice(scale_codes, (lines, k // block))
        words.append(codes.view(np.uint32).ravel())
        factors.append(np.repeat(codes[:, : k // block].view(scale_type).astype(np.float64), block, axis=1))
    want = ((a * factors[0]) @ (b * factors[1]).T + c).astype(np.float32)
    args = [np.zeros((16, 8), np.float32), values.pack(a), values.pack(b), c, *words]
    return Launch(args, {0: want})


@MMA120.add()
def mma_scaled_e4m3(rng: np.random.Generator) -> Launch:
    return scaled_product(rng, "e4m3", 32, 32, [125, 126, 127, 128, 129], ml_dtypes.float8_e8m0fnu)


@MMA120.add()
def mma_scaled_mxf4(rng: np.random.Generator) -> Launch:
    return scaled_product(rng, "packed e2m1", 64, 32, [125, 126, 127, 128, 129], ml_dtypes.float8_e8m0fnu)


@MMA120.add()
def mma_scaled_nvf4(rng: np.random.Generator) -> Launch:
    return scaled_product(rng, "packed e2m1", 64, 16, [0x30, 0x38, 0x3C, 0x40], ml_dtypes.float8_e4m3fn)
