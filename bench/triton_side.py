# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Triton's kernels beside ours, written as its tutorials do, with its choice of a tile. Sizes are
multiples of tiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import triton
import triton.language as tl

_LOG2_E = tl.constexpr(1.4426950408889634)
_EPSILON = 1e-5
_GROUP = 8


def _timed(call: Callable[[], Any], quantiles: Sequence[float]) -> Any:
    """What a tile is chosen by: 30 ms of launches, in place of Triton's 125."""
    return triton.testing.do_bench(call, warmup=5, rep=25, quantiles=quantiles)


def _configs(*shapes: tuple[int, int, int, int, int]) -> list[Any]:
    return [
        triton.Config({"M": m, "N": n, "K": k}, num_stages=stages, num_warps=warps) for m, n, k, stages, warps in shapes
    ]


def _pairs(*shapes: tuple[int, int, int, int]) -> list[Any]:
    return [triton.Config({"M": m, "N": n}, num_stages=stages, num_warps=warps) for m, n, stages, warps in shapes]


@triton.jit
def _place(block, m, n, M: tl.constexpr, N: tl.constexpr, GROUP: tl.constexpr):
    rows, columns = tl.cdiv(m, M), tl.cdiv(n, N)
    group = block // (GROUP * columns)
    first = group * GROUP
    size = min(rows - first, GROUP)
    return first + (block % (GROUP * columns)) % size, (block % (GROUP * columns)) // size


@triton.autotune(
    configs=_configs((128, 128, 64, 3, 4), (128, 128, 64, 4, 8), (128, 256, 64, 3, 8), (256, 128, 64, 3, 8),
                     (128, 128, 32, 3, 8), (128, 256, 128, 3, 8), (128, 128, 128, 3, 8)),
    key=["m", "n", "k", "right_row", "GATHERED", "TOTAL"], do_bench=_timed,
)  # fmt: skip
@triton.jit
def _product(a, rows, b, c, m, n, k, right_row, right_column, TOTAL: tl.constexpr, GATHERED: tl.constexpr,
             M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, GROUP: tl.constexpr):  # fmt: skip
    row, column = _place(tl.program_id(0), m, n, M, N, GROUP)
    batch = tl.program_id(1).to(tl.int64)
    lines = row * M + tl.arange(0, M)
    places = column * N + tl.arange(0, N)
    depth = tl.arange(0, K)
    given = tl.load(rows + lines) if GATHERED else lines
    left = a + batch * m * k + given[:, None] * k + depth[None, :]
    right = b + batch * k * n + depth[:, None] * right_row + places[None, :] * right_column
    total = tl.zeros((M, N), dtype=TOTAL)
    for _ in range(tl.cdiv(k, K)):
        total = tl.dot(tl.load(left), tl.load(right), total, out_dtype=TOTAL)
        left += K
        right += K * right_row
    tl.store(c + batch * m * n + lines[:, None] * n + places[None, :], total.to(c.dtype.element_ty))


@triton.jit
def _factors(pieces, line, step, across, LINES: tl.constexpr, BLOCKS: tl.constexpr):
    """Factors of LINES lines and BLOCKS blocks, which lie in pieces of 32x4x4, `across` of them beside each other."""
    m = line * (LINES // 128) + tl.arange(0, LINES // 128)[:, None, None]
    k = step * (BLOCKS // 4) + tl.arange(0, BLOCKS // 4)[None, :, None]
    found = tl.load(pieces + (m * across + k) * 512 + tl.arange(0, 512)[None, None, :])
    found = tl.reshape(found, (LINES // 128, BLOCKS // 4, 32, 4, 4))
    return tl.reshape(tl.permute(found, (0, 3, 2, 1, 4)), (LINES, BLOCKS))


@triton.autotune(configs=_configs((128, 128, 128, 3, 4), (128, 256, 128, 3, 8), (128, 256, 256, 3, 8)),
                 key=["m", "n", "k", "BLOCK", "KIND"], do_bench=_timed)  # fmt: skip
@triton.jit
def _scaled(a, a_factors, b, b_factors, c, m, n, k, BLOCK: tl.constexpr, KIND: tl.constexpr, EACH: tl.constexpr,
            M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, GROUP: tl.constexpr):  # fmt: skip
    row, column = _place(tl.program_id(0), m, n, M, N, GROUP)
    lines = row * M + tl.arange(0, M)
    places = column * N + tl.arange(0, N)
    depth = tl.arange(0, K // EACH)
    left = a + lines[:, None] * (k // EACH) + depth[None, :]
    right = b + places[None, :] * (k // EACH) + depth[:, None]
    across = k // BLOCK // 4
    total = tl.zeros((M, N), dtype=tl.float32)
    for step in range(tl.cdiv(k, K)):
        x = _factors(a_factors, row, step, across, M, K // BLOCK)
        y = _factors(b_factors, column, step, across, N, K // BLOCK)
        total = tl.dot_scaled(tl.load(left), x, KIND, tl.load(right), y, KIND, total)
        left += K // EACH
        right += K // EACH
    tl.store(c + lines[:, None] * n + places[None, :], total)


@triton.autotune(configs=_pairs((128, 64, 3, 4), (128, 64, 3, 8), (128, 128, 3, 8), (64, 32, 3, 4), (128, 32, 3, 8)),
                 key=["rows", "D", "CAUSAL"], do_bench=_timed)  # fmt: skip
@triton.jit
def _attention(q, k, v, out, scale, rows, D: tl.constexpr, CAUSAL: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    head = tl.program_id(1).to(tl.int64) * rows * D
    lines = tl.program_id(0) * M + tl.arange(0, M)
    depth = tl.arange(0, D)
    queries = tl.load(q + head + lines[:, None] * D + depth[None, :])
    top = tl.full((M,), float("-inf"), tl.float32)
    weight = tl.zeros((M,), tl.float32)
    total = tl.zeros((M, D), tl.float32)
    end = tl.minimum((tl.program_id(0) + 1) * M, rows) if CAUSAL else rows
    for start in range(0, end, N):
        places = start + tl.arange(0, N)
        keys = tl.load(k + head + places[None, :] * D + depth[:, None])
        score = tl.dot(queries, keys) * (scale * _LOG2_E)
        if CAUSAL:
            score = tl.where(lines[:, None] >= places[None, :], score, float("-inf"))
        higher = tl.maximum(top, tl.max(score, 1))
        part = tl.math.exp2(score - higher[:, None])
        fading = tl.math.exp2(top - higher)
        weight = weight * fading + tl.sum(part, 1)
        values = tl.load(v + head + places[:, None] * D + depth[None, :])
        total = tl.dot(part.to(values.dtype), values, total * fading[:, None])
        top = higher
    tl.store(out + head + lines[:, None] * D + depth[None, :], (total / weight[:, None]).to(out.dtype.element_ty))


@triton.autotune(
    configs=_pairs((32, 128, 3, 8), (64, 128, 2, 8), (32, 64, 2, 4)), key=["rows", "D", "CAUSAL"], do_bench=_timed
)
@triton.jit
def _dkdv(q, k, v, grad, peaks, sums, dk, dv, scale, rows, D: tl.constexpr, CAUSAL: tl.constexpr, M: tl.constexpr,
          N: tl.constexpr):  # fmt: skip
    head = tl.program_id(1).to(tl.int64) * rows
    places = tl.program_id(0) * N + tl.arange(0, N)
    depth = tl.arange(0, D)
    mine = (head + places[:, None]) * D + depth[None, :]
    keys, values = tl.load(k + mine), tl.load(v + mine)
    key_grad = tl.zeros((N, D), tl.float32)
    value_grad = tl.zeros((N, D), tl.float32)
    for start in range(tl.program_id(0) * N // M * M if CAUSAL else 0, rows, M):
        lines = start + tl.arange(0, M)
        queries = tl.load(q + (head + lines[None, :]) * D + depth[:, None])
        score = tl.dot(keys, queries) * (scale * _LOG2_E)
        weight = tl.math.exp2(score - tl.load(peaks + head + lines)[None, :])
        if CAUSAL:
            weight = tl.where(lines[None, :] >= places[:, None], weight, 0.0)
        given = tl.load(grad + (head + lines[:, None]) * D + depth[None, :])
        value_grad = tl.dot(weight.to(given.dtype), given, value_grad)
        slope = weight * (tl.dot(values, tl.trans(given)) - tl.load(sums + head + lines)[None, :])
        key_grad = tl.dot(slope.to(given.dtype), tl.trans(queries), key_grad)
    tl.store(dk + mine, (key_grad * scale).to(dk.dtype.element_ty))
    tl.store(dv + mine, value_grad.to(dv.dtype.element_ty))


@triton.autotune(
    configs=_pairs((128, 32, 3, 8), (128, 64, 2, 8), (64, 32, 2, 4)), key=["rows", "D", "CAUSAL"], do_bench=_timed
)
@triton.jit
def _dq(q, k, v, grad, peaks, sums, dq, scale, rows, D: tl.constexpr, CAUSAL: tl.constexpr, M: tl.constexpr,
        N: tl.constexpr):  # fmt: skip
    head = tl.program_id(1).to(tl.int64) * rows
    lines = tl.program_id(0) * M + tl.arange(0, M)
    depth = tl.arange(0, D)
    mine = (head + lines[:, None]) * D + depth[None, :]
    queries, given = tl.load(q + mine), tl.load(grad + mine)
    top, less = tl.load(peaks + head + lines)[:, None], tl.load(sums + head + lines)[:, None]
    total = tl.zeros((M, D), tl.float32)
    end = tl.minimum((tl.program_id(0) + 1) * M, rows) if CAUSAL else rows
    for start in range(0, end, N):
        places = start + tl.arange(0, N)
        keys = tl.load(k + (head + places[None, :]) * D + depth[:, None])
        weight = tl.math.exp2(tl.dot(queries, keys) * (scale * _LOG2_E) - top)
        if CAUSAL:
            weight = tl.where(lines[:, None] >= places[None, :], weight, 0.0)
        turned = tl.load(v + (head + places[None, :]) * D + depth[:, None])
        slope = weight * (tl.dot(given, turned) - less)
        total = tl.dot(slope.to(keys.dtype), tl.trans(keys), total)
    tl.store(dq + mine, (total * scale).to(dq.dtype.element_ty))


@triton.jit
def _softmax(x, y, columns: tl.constexpr):
    place = tl.program_id(0) * columns + tl.arange(0, columns)
    values = tl.load(x + place).to(tl.float32)
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(y + place, (powers / tl.sum(powers, axis=0)).to(y.dtype.element_ty))


@triton.jit
def _layer_norm(x, weight, bias, y, epsilon, columns: tl.constexpr):
    place = tl.arange(0, columns)
    row = tl.program_id(0) * columns + place
    values = tl.load(x + row).to(tl.float32)
    mean = tl.sum(values, axis=0) / columns
    rest = values - mean
    factor = tl.rsqrt(tl.sum(rest * rest, axis=0) / columns + epsilon)
    result = rest * factor * tl.load(weight + place).to(tl.float32) + tl.load(bias + place).to(tl.float32)
    tl.store(y + row, result.to(y.dtype.element_ty))


@triton.jit
def _rms_norm(x, weight, y, epsilon, columns: tl.constexpr):
    place = tl.arange(0, columns)
    row = tl.program_id(0) * columns + place
    values = tl.load(x + row).to(tl.float32)
    factor = tl.rsqrt(tl.sum(values * values, axis=0) / columns + epsilon)
    tl.store(y + row, (values * factor * tl.load(weight + place).to(tl.float32)).to(y.dtype.element_ty))


@triton.jit
def _add(a, b, c, count, SIZE: tl.constexpr):
    place = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    inside = place < count
    tl.store(c + place, tl.load(a + place, mask=inside) + tl.load(b + place, mask=inside), mask=inside)


@triton.jit
def _transpose(x, y, rows, columns, SIDE: tl.constexpr):
    line = tl.program_id(0) * SIDE + tl.arange(0, SIDE)
    place = tl.program_id(1) * SIDE + tl.arange(0, SIDE)
    values = tl.load(x + line[:, None] * columns + place[None, :])
    tl.store(y + place[:, None] * rows + line[None, :], tl.trans(values))


def product(arrays: Sequence[Any], transposed: bool = False, rows: Any = None) -> None:
    """Of matrices, or of batches of them; of the rows of a that are listed."""
    a, b, c = arrays
    (m, n), k = c.shape[-2:], a.shape[-1]
    strides = (1, k) if transposed else (n, 1)
    total = tl.int32 if a.dtype.is_signed and not a.dtype.is_floating_point else tl.float32
    batches = c.shape[0] if c.dim() == 3 else 1
    _product[lambda tile: (triton.cdiv(m, tile["M"]) * triton.cdiv(n, tile["N"]), batches)](
        a, a if rows is None else rows, b, c, m, n, k, *strides, TOTAL=total, GATHERED=rows is not None, GROUP=_GROUP
    )


def gathered(arrays: Sequence[Any]) -> None:
    a, rows, b, c = arrays
    product((a, b, c), rows=rows)


def scaled(arrays: Sequence[Any], block: int) -> None:
    import torch

    a, a_factors, b, b_factors, c = arrays
    packed = a.dtype == torch.uint8
    (m, n), k = c.shape, a.shape[1] * (2 if packed else 1)
    x, y = (f if f.dtype == torch.float8_e4m3fn else f.view(torch.uint8) for f in (a_factors, b_factors))
    _scaled[lambda tile: (triton.cdiv(m, tile["M"]) * triton.cdiv(n, tile["N"]),)](
        a, x, b, y, c, m, n, k, BLOCK=block, KIND="e2m1" if packed else "e4m3", EACH=2 if packed else 1, GROUP=_GROUP
    )


def attention(arrays: Sequence[Any], causal: bool) -> None:
    q = arrays[0]
    heads, rows, depth = q.shape
    grid = lambda tile: (triton.cdiv(rows, tile["M"]), heads)  # noqa: E731
    _attention[grid](*arrays, depth**-0.5, rows, D=depth, CAUSAL=causal)


def dkdv(arrays: Sequence[Any], causal: bool) -> None:
    heads, rows, depth = arrays[0].shape
    grid = lambda tile: (triton.cdiv(rows, tile["N"]), heads)  # noqa: E731
    _dkdv[grid](*arrays, depth**-0.5, rows, D=depth, CAUSAL=causal)


def dq(arrays: Sequence[Any], causal: bool) -> None:
    heads, rows, depth = arrays[0].shape
    grid = lambda tile: (triton.cdiv(rows, tile["M"]), heads)  # noqa: E731
    _dq[grid](*arrays, depth**-0.5, rows, D=depth, CAUSAL=causal)


def softmax(arrays: Sequence[Any]) -> None:
    x, y = arrays
    _softmax[(x.shape[0],)](x, y, x.shape[1], num_warps=8)


def layer_norm(arrays: Sequence[Any]) -> None:
    x = arrays[0]
    _layer_norm[(x.shape[0],)](*arrays, _EPSILON, x.shape[1], num_warps=8)


def rms_norm(arrays: Sequence[Any]) -> None:
    x = arrays[0]
    _rms_norm[(x.shape[0],)](*arrays, _EPSILON, x.shape[1], num_warps=8)


def add(arrays: Sequence[Any]) -> None:
    a, b, c = arrays
    _add[(triton.cdiv(a.numel(), 1024),)](a, b, c, a.numel(), SIZE=1024)


def transpose(arrays: Sequence[Any]) -> None:
    x, y = arrays
    rows, columns = x.shape
    _transpose[(triton.cdiv(rows, 64), triton.cdiv(columns, 64))](x, y, rows, columns, SIDE=64)


KERNELS: dict[str, Callable[[Sequence[Any]], None]] = {
    "product": product,
    "product_nt": lambda arrays: product(arrays, transposed=True),
    "gathered product": gathered,
    "scaled product 16": lambda arrays: scaled(arrays, 16),
    "scaled product 32": lambda arrays: scaled(arrays, 32),
    "attention": lambda arrays: attention(arrays, False),
    "causal attention": lambda arrays: attention(arrays, True),
    "attention's dk and dv": lambda arrays: dkdv(arrays, False),
    "causal attention's dk and dv": lambda arrays: dkdv(arrays, True),
    "attention's dq": lambda arrays: dq(arrays, False),
    "causal attention's dq": lambda arrays: dq(arrays, True),
    "softmax": softmax,
    "layer norm": layer_norm,
    "rms norm": rms_norm,
    "add": add,
    "transpose": transpose,
}
"""By what a launch computes."""
