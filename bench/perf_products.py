# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products of matrices that are compared by their speed: by type, batched, persistent, of gathered rows, with factors.

`nt` in a name says that the second matrix lies n x k in memory, which tensor cores want of all but 16-bit operands.
"""

from __future__ import annotations

import cuda.tile as ct
import ml_dtypes
import numpy as np

from examples.signatures import array
from kernels.model import Kernel, Problem, Tolerance

Constant = ct.Constant[int]
TILES = ((128, 128, 64), (128, 256, 64), (256, 128, 64))
NUMPY = {
    ct.float16: np.float16,
    ct.bfloat16: ml_dtypes.bfloat16,
    ct.float32: np.float32,
    ct.float8_e4m3fn: ml_dtypes.float8_e4m3fn,
    ct.int8: np.int8,
    ct.int32: np.int32,
}
KINDS = {
    "f16": (ct.float16, ct.float16),
    "bf16": (ct.bfloat16, ct.bfloat16),
    "tf32": (ct.float32, ct.float32),
    "fp8": (ct.float8_e4m3fn, ct.float16),
    "int8": (ct.int8, ct.int32),
}
"""The operands' type in memory and the result's, by the kind in a name."""


@ct.kernel
def gemm(a, b, c, tm: Constant, tn: Constant, tk: Constant):
    row, column = ct.bid(0), ct.bid(1)
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        left = ct.load(a, (row, k), (tm, tk), padding_mode=ct.PaddingMode.ZERO)
        right = ct.load(b, (k, column), (tk, tn), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(left, right, total)
    ct.store(c, (row, column), total.astype(c.dtype))


@ct.kernel
def gemm_persistent(a, b, c, tm: Constant, tn: Constant, tk: Constant):
    """Each block goes through the tiles from its number on, in steps of the grid."""
    columns = ct.num_tiles(c, 1, (tm, tn))
    for tile in range(ct.bid(0), ct.num_tiles(c, 0, (tm, tn)) * columns, ct.num_blocks(0)):
        row, column = tile // columns, tile % columns
        total = ct.zeros((tm, tn), ct.float32)
        for k in range(ct.num_tiles(a, 1, (tm, tk))):
            left = ct.load(a, (row, k), (tm, tk), padding_mode=ct.PaddingMode.ZERO)
            right = ct.load(b, (k, column), (tk, tn), padding_mode=ct.PaddingMode.ZERO)
            total = ct.mma(left, right, total)
        ct.store(c, (row, column), total.astype(c.dtype))


@ct.kernel
def gemm_nt(a, b, c, tm: Constant, tn: Constant, tk: Constant):
    row, column = ct.bid(0), ct.bid(1)
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        left = ct.load(a, (row, k), (tm, tk), padding_mode=ct.PaddingMode.ZERO)
        right = ct.load(b, (k, column), (tk, tn), order=(1, 0), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(left, right, total)
    ct.store(c, (row, column), total.astype(c.dtype))


@ct.kernel
def gemm_tf32_nt(a, b, c, tm: Constant, tn: Constant, tk: Constant):
    """Operands are f32 in memory, rounded to tf32."""
    row, column = ct.bid(0), ct.bid(1)
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        left = ct.load(a, (row, k), (tm, tk), padding_mode=ct.PaddingMode.ZERO)
        right = ct.load(b, (k, column), (tk, tn), order=(1, 0), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(left.astype(ct.tfloat32), right.astype(ct.tfloat32), total)
    ct.store(c, (row, column), total)


@ct.kernel
def gemm_tf32(a, b, c, tm: Constant, tn: Constant, tk: Constant):
    """As `gemm_tf32_nt`, of a second matrix that lies k x n."""
    row, column = ct.bid(0), ct.bid(1)
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        left = ct.load(a, (row, k), (tm, tk), padding_mode=ct.PaddingMode.ZERO)
        right = ct.load(b, (k, column), (tk, tn), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(left.astype(ct.tfloat32), right.astype(ct.tfloat32), total)
    ct.store(c, (row, column), total)


@ct.kernel
def gemm_int8(a, b, c, tm: Constant, tn: Constant, tk: Constant):
    row, column = ct.bid(0), ct.bid(1)
    total = ct.zeros((tm, tn), ct.int32)
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        left = ct.load(a, (row, k), (tm, tk), padding_mode=ct.PaddingMode.ZERO)
        right = ct.load(b, (k, column), (tk, tn), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(left, right, total)
    ct.store(c, (row, column), total)


@ct.kernel
def gemm_int8_nt(a, b, c, tm: Constant, tn: Constant, tk: Constant):
    row, column = ct.bid(0), ct.bid(1)
    total = ct.zeros((tm, tn), ct.int32)
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        left = ct.load(a, (row, k), (tm, tk), padding_mode=ct.PaddingMode.ZERO)
        right = ct.load(b, (k, column), (tk, tn), order=(1, 0), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(left, right, total)
    ct.store(c, (row, column), total)


@ct.kernel
def gemm_batched(a, b, c, tm: Constant, tn: Constant, tk: Constant):
    row, column, batch = ct.bid(0), ct.bid(1), ct.bid(2)
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(a, 2, (1, tm, tk))):
        left = ct.load(a, (batch, row, k), (1, tm, tk), padding_mode=ct.PaddingMode.ZERO).reshape((tm, tk))
        right = ct.load(b, (batch, k, column), (1, tk, tn), padding_mode=ct.PaddingMode.ZERO).reshape((tk, tn))
        total = ct.mma(left, right, total)
    ct.store(c, (batch, row, column), total.astype(c.dtype).reshape((1, tm, tn)))


@ct.kernel
def gemm_gathered(a, rows, b, c, tm: Constant, tn: Constant, tk: Constant):
    """The rows of a that a list names, as a mixture of experts has them."""
    row, column = ct.bid(0), ct.bid(1)
    lines = ct.load(rows, (row,), (tm,))
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        places = k * tk + ct.arange(tk, dtype=ct.int32)
        left = ct.gather(a, (lines[:, None], places[None, :]))
        right = ct.load(b, (k, column), (tk, tn), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(left, right, total)
    ct.store(c, (row, column), total.astype(c.dtype))


@ct.kernel
def gemm_scaled(a, a_factors, b, b_factors, c, tm: Constant, tn: Constant, tk: Constant, block: Constant):
    """8-bit operands with a factor for each `block` of them along k; factors lie in pieces of 32x4x4."""
    row, column = ct.bid(0), ct.bid(1)
    blocks = tk // block
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        left = ct.load(a, (row, k), (tm, tk), padding_mode=ct.PaddingMode.ZERO)
        right = ct.load(b, (column, k), (tn, tk), padding_mode=ct.PaddingMode.ZERO)
        x = ct.load(a_factors, (row, k, 0, 0), (tm // 128, blocks // 4, 32, 16))
        y = ct.load(b_factors, (column, k, 0, 0), (tn // 128, blocks // 4, 32, 16))
        x = x.reshape((tm // 128, blocks // 4, 32, 4, 4)).permute((0, 3, 2, 1, 4)).reshape((tm, blocks))
        y = y.reshape((tn // 128, blocks // 4, 32, 4, 4)).permute((0, 3, 2, 1, 4)).reshape((tn, blocks))
        total = ct.mma_scaled(left, x, right.transpose(), y.transpose(), total)
    ct.store(c, (row, column), total)


@ct.kernel
def gemm_scaled_packed(a, a_factors, b, b_factors, c, tm: Constant, tn: Constant, tk: Constant, block: Constant):
    """As `gemm_scaled`, of 4-bit operands that lie as bytes of two."""
    row, column = ct.bid(0), ct.bid(1)
    half, blocks = tk // 2, tk // block
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(a, 1, (tm, half))):
        left = ct.load(a, (row, k), (tm, half), padding_mode=ct.PaddingMode.ZERO).reshape((tm * half,))
        right = ct.load(b, (column, k), (tn, half), padding_mode=ct.PaddingMode.ZERO).reshape((tn * half,))
        left = ct.unpack_from_bytes(left, ct.float4_e2m1fn).reshape((tm, tk))
        right = ct.unpack_from_bytes(right, ct.float4_e2m1fn).reshape((tn, tk))
        x = ct.load(a_factors, (row, k, 0, 0), (tm // 128, blocks // 4, 32, 16))
        y = ct.load(b_factors, (column, k, 0, 0), (tn // 128, blocks // 4, 32, 16))
        x = x.reshape((tm // 128, blocks // 4, 32, 4, 4)).permute((0, 3, 2, 1, 4)).reshape((tm, blocks))
        y = y.reshape((tn // 128, blocks // 4, 32, 4, 4)).permute((0, 3, 2, 1, 4)).reshape((tn, blocks))
        total = ct.mma_scaled(left, x, right.transpose(), y.transpose(), total)
    ct.store(c, (row, column), total)


def dense(dtype: ct.DType, rank: int):
    """A dense array: its address, sizes and strides are multiples of 16 bytes and 16 elements."""
    return array(dtype, rank, multiple_of=16)


def tf32(values: np.ndarray) -> np.ndarray:
    """f32 rounded to tf32, halves to even, as the conversion does."""
    bits = values.view(np.uint32)
    return ((bits + 0xFFF + ((bits >> 13) & 1)) & ~np.uint32(0x1FFF)).view(np.float32)


def exact(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The product in f64, of operands in f32 as tf32 has them."""
    left, right = (tf32(x) if x.dtype == np.float32 else x for x in (a, b))
    return left.astype(np.float64) @ right.astype(np.float64)


def _numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: type) -> np.ndarray:
    return rng.integers(-3, 4, shape).astype(dtype)


def _gemm(name: str, kind: str, tile: tuple[int, int, int]) -> Kernel:
    """A product whose k ends in the middle of a tile."""
    transposed = kind.endswith("nt")
    element, result = KINDS[kind.removesuffix("nt")]
    m, n, depth = tile[0], tile[1], 2 * tile[2] + tile[2] // 2

    def problem(rng: np.random.Generator) -> Problem:
        shapes = (m, depth), (n, depth) if transposed else (depth, n)
        a, b = (_numbers(rng, shape, NUMPY[element]) for shape in shapes)
        return Problem((1, 1, 1), [a, b, np.zeros((m, n), NUMPY[result])])

    def reference(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> dict[str, np.ndarray]:
        return {"c": exact(a, b.T if transposed else b).astype(c.dtype)}

    special = {"tf32nt": gemm_tf32_nt, "int8nt": gemm_int8_nt, "tf32": gemm_tf32, "int8": gemm_int8}
    function = special.get(kind, gemm_nt if transposed else gemm)
    arrays = dense(element, 2), dense(element, 2), dense(result, 2)
    return Kernel(name, function, (*arrays, *tile), problem, reference, Tolerance())


def _half(name: str, function: object, shapes: tuple[tuple[int, ...], ...], grid: tuple[int, int, int],
          tile: tuple[int, int, int]) -> Kernel:  # fmt: skip
    """A product of f16 arrays of these shapes, of which the last is the result."""

    def problem(rng: np.random.Generator) -> Problem:
        given = [_numbers(rng, shape, np.float16) for shape in shapes[:2]]
        return Problem(grid, [*given, np.zeros(shapes[2], np.float16)])

    def reference(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> dict[str, np.ndarray]:
        return {"c": exact(a, b).astype(np.float16)}

    arrays = [dense(ct.float16, len(shapes[0]))] * 3
    return Kernel(name, function, (*arrays, *tile), problem, reference, Tolerance())


def _persistent(name: str, tile: tuple[int, int, int]) -> Kernel:
    m, n, depth = tile[0] + 16, 2 * tile[1] - 16, 2 * tile[2] + tile[2] // 2
    return _half(name, gemm_persistent, ((m, depth), (depth, n), (m, n)), (2, 1, 1), tile)


def _batched(name: str, tile: tuple[int, int, int]) -> Kernel:
    m, n, depth = tile[0] - 16, tile[1] + 16, 2 * tile[2] + tile[2] // 2
    return _half(name, gemm_batched, ((2, m, depth), (2, depth, n), (2, m, n)), (1, 2, 2), tile)


def _gathered(name: str, tile: tuple[int, int, int]) -> Kernel:
    m, n, depth, given = 2 * tile[0] - 16, tile[1] - 16, 2 * tile[2] + tile[2] // 2, 48

    def problem(rng: np.random.Generator) -> Problem:
        rows = rng.integers(0, given, m).astype(np.int32)
        values = [_numbers(rng, (given, depth), np.float16), rows, _numbers(rng, (depth, n), np.float16)]
        return Problem((2, 1, 1), [*values, np.zeros((m, n), np.float16)])

    def reference(a: np.ndarray, rows: np.ndarray, b: np.ndarray, c: np.ndarray) -> dict[str, np.ndarray]:
        return {"c": exact(a[rows], b).astype(np.float16)}

    half = dense(ct.float16, 2)
    arrays = (half, dense(ct.int32, 1), half, half)
    return Kernel(name, gemm_gathered, (*arrays, *tile), problem, reference, Tolerance())


def in_pieces(factors: np.ndarray) -> np.ndarray:
    """Factors (lines, blocks), multiples of 128 and 4, in pieces of 512 bytes: 32 rows of 4 x 4."""
    lines, blocks = factors.shape
    split = factors.reshape(lines // 128, 4, 32, blocks // 4, 4)
    return np.ascontiguousarray(split.transpose(0, 3, 2, 1, 4)).reshape(lines // 128, blocks // 4, 32, 16)


def line_by_line(pieces: np.ndarray) -> np.ndarray:
    """What `in_pieces` was given."""
    m, k = pieces.shape[:2]
    return pieces.reshape(m, k, 32, 4, 4).transpose(0, 3, 2, 1, 4).reshape(m * 128, k * 4)


def scaled_operand(stored: np.ndarray, pieces: np.ndarray, block: int) -> np.ndarray:
    """The numbers, in f64, of an operand with its factors; bytes hold two of 4 bits."""
    if stored.dtype == np.uint8:
        codes = np.stack([stored & 15, stored >> 4], -1).reshape(stored.shape[0], -1)
        stored = codes.view(ml_dtypes.float4_e2m1fn)
    factors = line_by_line(pieces).astype(np.float64).repeat(block, 1)
    return stored.astype(np.float64) * factors[: stored.shape[0], : stored.shape[1]]


def _scaled(name: str, kind: str, tile: tuple[int, int, int]) -> Kernel:
    packed, block = kind != "mxf8", 16 if kind == "nvf4" else 32
    factor = (ct.float8_e4m3fn, ml_dtypes.float8_e4m3fn) if kind == "nvf4" else (
        ct.float8_e8m0fnu, ml_dtypes.float8_e8m0fnu)  # fmt: skip
    m, n, depth = tile[0], tile[1], 2 * tile[2]

    def operand(rng: np.random.Generator, lines: int) -> list[np.ndarray]:
        if packed:
            stored = rng.integers(0, 256, (lines, depth // 2)).astype(np.uint8)
        else:
            stored = _numbers(rng, (lines, depth), ml_dtypes.float8_e4m3fn)
        return [stored, in_pieces(np.exp2(rng.integers(-2, 3, (lines, depth // block))).astype(factor[1]))]

    def problem(rng: np.random.Generator) -> Problem:
        return Problem((1, 1, 1), [*operand(rng, m), *operand(rng, n), np.zeros((m, n), np.float32)])

    def reference(
        a: np.ndarray, a_factors: np.ndarray, b: np.ndarray, b_factors: np.ndarray, c: np.ndarray
    ) -> dict[str, np.ndarray]:
        left, right = scaled_operand(a, a_factors, block), scaled_operand(b, b_factors, block)
        return {"c": (left @ right.T).astype(np.float32)}

    element = dense(ct.uint8 if packed else ct.float8_e4m3fn, 2)
    arrays = (element, dense(factor[0], 4), element, dense(factor[0], 4), dense(ct.float32, 2))
    function = gemm_scaled_packed if packed else gemm_scaled
    return Kernel(name, function, (*arrays, *tile, block), problem, reference, Tolerance(), min_version="13.3",
                  gpu_code="sm_100")  # fmt: skip


def _named(kind: str, tile: tuple[int, int, int]) -> str:
    return "{}_{}x{}x{}".format(kind, *tile)


KERNELS = (
    *(_gemm(_named(f"gemm_{kind}", tile), kind, tile) for kind in ("f16", "bf16") for tile in TILES),
    _gemm("gemm_f16nt_128x256x64", "f16nt", (128, 256, 64)),
    *(_gemm(_named(f"gemm_{kind}", tile), kind, tile) for kind in ("tf32nt", "fp8nt", "int8nt") for tile in TILES),
    _gemm("gemm_fp8nt_128x256x128", "fp8nt", (128, 256, 128)),
    *(_gemm(_named(f"gemm_{kind}", tile), kind, tile) for kind in ("tf32", "fp8", "int8") for tile in TILES),
    _gemm("gemm_fp8_128x256x128", "fp8", (128, 256, 128)),
    *(_persistent(_named("persistent_f16", tile), tile) for tile in TILES),
    _batched("batched_f16_128x256x64", (128, 256, 64)),
    _gathered("gathered_f16_128x128x64", (128, 128, 64)),
)
SCALED = (
    _scaled("scaled_mxf8_128x128x128", "mxf8", (128, 128, 128)),
    _scaled("scaled_mxf8_128x256x128", "mxf8", (128, 256, 128)),
    _scaled("scaled_mxf4_128x256x256", "mxf4", (128, 256, 256)),
    _scaled("scaled_nvf4_128x256x128", "nvf4", (128, 256, 128)),
    _scaled("scaled_nvf4_128x256x256", "nvf4", (128, 256, 256)),
)
"""Products with factors: of targets whose tensor cores take them."""
