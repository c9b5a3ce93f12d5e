# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What `on_gpu.py` measures: the kernels of `perf_kernels.py` at sizes for a GPU, or at any others."""

from __future__ import annotations

import math
from dataclasses import dataclass

from on_gpu_launches import Array, Launch, flat
from perf_attention import DKDV_TILES, DQ_TILES, FORWARD_TILES
from perf_kernels import kernels_for
from perf_products import KINDS
from perf_rows import EPSILON

from libtile.support.errors import LibtileError

Grid = tuple[int, int, int]


@dataclass(frozen=True)
class Sizes:
    """Of problems: sides of square products, matrices and the side of a batch of products, heads and rows of attention
    by its depth, rows and columns of norms, rows of a softmax, elements of a sum, the side of a matrix to transpose."""

    products: tuple[int, ...] = (4096, 8192)
    batch: tuple[int, int] = (16, 2048)
    attention: tuple[tuple[int, int], ...] = ((64, 1024), (32, 2048), (16, 4096), (8, 8192), (4, 16384))
    norm: tuple[int, int] = (16384, 4096)
    softmax: int = 16384
    vector: int = 1 << 26
    transposed: int = 8192


FOR_GPU = Sizes()
RATES = {
    "f16": "f16",
    "bf16": "f16",
    "tf32": "tf32",
    "fp8": "f8",
    "int8": "i8",
    "mxf8": "f8",
    "mxf4": "f4",
    "nvf4": "f4",
}
"""The kind of operands by whose rate a product is bound, by the kind in its name."""
LOG2_E = math.log2(math.e)


def launches(target: str, names: tuple[str, ...] | list[str] = (), sizes: Sizes = FOR_GPU) -> list[Launch]:
    """All problems of the kernels for a target whose names contain one of these, without their code."""
    found = [launch for name in kernels_for(target) for launch in problems(name, sizes)]
    return [x for x in found if not names or any(name in x.name for name in names)]


def problems(name: str, sizes: Sizes = FOR_GPU) -> list[Launch]:
    """The problems of a kernel. LibtileError for a kernel of which none is known."""
    first, *rest = name.split("_")
    if first in ("attention", "dkdv", "dq"):
        return [_attention(name, first, *size, int(rest[1][1:]), "causal" in rest) for size in sizes.attention]
    tile = tuple(int(n) for n in rest[-1].split("x"))
    if first in ("gemm", "persistent", "scaled", "gathered"):
        make = {"scaled": _scaled, "gathered": _gathered}.get(first, _product)
        return [make(name, rest[0], tile, side) for side in sizes.products]
    if first == "batched":
        return [_batched(name, rest[0], tile, *sizes.batch)]
    if first == "softmax":
        arrays = tuple(Array("float16", (sizes.softmax, tile[0]), written) for written in (False, True))
        return [_rows(f"{name} {sizes.softmax} rows", name, "softmax", arrays, (sizes.softmax, 1, 1))]
    if first in ("layer", "rms"):
        return [_norm(name, f"{first} norm", *sizes.norm)]
    if first == "vector":
        arrays = tuple(Array("float32", (sizes.vector,), written) for written in (False, False, True))
        return [_rows(f"{name} {sizes.vector}", name, "add", arrays, (_tiles(sizes.vector, tile[0]), 1, 1))]
    if first == "transpose":
        side = sizes.transposed
        element = {"f16": "float16", "f32": "float32"}[rest[0]]
        arrays = tuple(Array(element, (side, side), written) for written in (False, True))
        grid = (_tiles(side, tile[0]), _tiles(side, tile[1]), 1)
        return [_rows(f"{name} {side}", name, "transpose", arrays, grid)]
    raise LibtileError(f"no problem is known for the kernel '{name}'")


def _tiles(size: int, tile: int) -> int:
    return -(-size // tile)


def _rows(name: str, kernel: str, operation: str, arrays: tuple[Array, ...], grid: Grid, *scalars: float) -> Launch:
    parameters = flat(arrays, [("float", scalar) for scalar in scalars])
    return Launch(name, kernel, operation, arrays, parameters, grid, 0.0, kind="")


def _norm(name: str, operation: str, rows: int, columns: int) -> Launch:
    line = Array("float16", (columns,))
    given = (Array("float16", (rows, columns)), line, *([line] if operation == "layer norm" else []))
    arrays = (*given, Array("float16", (rows, columns), True))
    return _rows(f"{name} {rows}x{columns}", name, operation, arrays, (rows, 1, 1), EPSILON)


def _product(name: str, kind: str, tile: tuple[int, ...], side: int) -> Launch:
    operands, results = (dtype.name for dtype in KINDS[kind.removesuffix("nt")])
    arrays = Array(operands, (side, side)), Array(operands, (side, side)), Array(results, (side, side), True)
    rows, columns = _tiles(side, tile[0]), _tiles(side, tile[1])
    persistent = name.startswith("persistent")
    return Launch(
        f"{name} {side}", name, "product_nt" if kind.endswith("nt") else "product", arrays, flat(arrays),
        (rows * columns, 1, 1) if persistent else (rows, columns, 1), 2.0 * side**3,
        RATES[kind.removesuffix("nt")], persistent,
    )  # fmt: skip


def _batched(name: str, kind: str, tile: tuple[int, ...], count: int, side: int) -> Launch:
    arrays = tuple(Array("float16", (count, side, side), written) for written in (False, False, True))
    grid = (_tiles(side, tile[0]), _tiles(side, tile[1]), count)
    return Launch(f"{name} {count}x{side}", name, "product", arrays, flat(arrays), grid, 2.0 * count * side**3,
                  RATES[kind])  # fmt: skip


def _gathered(name: str, kind: str, tile: tuple[int, ...], side: int) -> Launch:
    square, rows = Array("float16", (side, side)), Array("int32", (side,), between=(0, side))
    arrays = square, rows, square, Array("float16", (side, side), True)
    grid = (_tiles(side, tile[0]), _tiles(side, tile[1]), 1)
    return Launch(f"{name} {side}", name, "gathered product", arrays, flat(arrays), grid, 2.0 * side**3, RATES[kind])


def _scaled(name: str, kind: str, tile: tuple[int, ...], side: int) -> Launch:
    block = 16 if kind == "nvf4" else 32
    operand = Array("float8_e4m3fn", (side, side)) if kind == "mxf8" else Array("uint8", (side, side // 2),
                                                                               between=(0, 256))  # fmt: skip
    # From 1/4 to 4: powers of two as exponents with a bias of 127, numbers of 8 bits by their codes.
    factors, between = ("float8_e4m3fn", (0x28, 0x48)) if kind == "nvf4" else ("float8_e8m0fnu", (125, 130))
    pieces = Array(factors, (_tiles(side, 128), _tiles(side // block, 4), 32, 16), between=between)
    arrays = operand, pieces, operand, pieces, Array("float32", (side, side), True)
    grid = (_tiles(side, tile[0]), _tiles(side, tile[1]), 1)
    return Launch(f"{name} {side}", name, f"scaled product {block}", arrays, flat(arrays), grid, 2.0 * side**3,
                  RATES[kind])  # fmt: skip


def _attention(name: str, what: str, heads: int, rows: int, depth: int, causal: bool) -> Launch:
    """Forward, or one of the two kernels of the backward pass. Scores and their slopes, which both work out, are
    counted for the first only, so that the two have the five products that the pass is said to have."""
    whole = Array("float16", (heads, rows, depth))
    written = Array("float16", (heads, rows, depth), True)
    if what == "attention":
        arrays, products = (whole, whole, whole, written), 2
        block = FORWARD_TILES[depth][0]
    else:
        # Of scores of random rows the logarithm of the sum of powers is about this.
        top = math.log2(rows) + LOG2_E / 2
        lines = (Array("float32", (heads, rows), between=(top - 0.25, top + 0.25)),
                 Array("float32", (heads, rows), between=(-0.1, 0.1)))  # fmt: skip
        results, products = ((written, written), 4) if what == "dkdv" else ((written,), 1)
        arrays = (whole, whole, whole, whole, *lines, *results)
        block = DKDV_TILES[depth][1] if what == "dkdv" else DQ_TILES[depth][0]
    operation = {"attention": "attention", "dkdv": "attention's dk and dv", "dq": "attention's dq"}[what]
    operations = 2.0 * products * heads * rows * rows * depth / (2 if causal else 1)
    return Launch(
        f"{name} {heads}x{rows}", name, f"causal {operation}" if causal else operation, arrays,
        flat(arrays, [("float", depth**-0.5)]), (_tiles(rows, block), heads, 1), operations,
        whole="" if what == "attention" else f"backward_{name.partition('_')[2]} {heads}x{rows}",
    )  # fmt: skip
