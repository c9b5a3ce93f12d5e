# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention, and its gradients from what the forward pass keeps: a number for each row, of which 2 to the power of a
score less it is the score's weight, and the sum of each row's output times its gradient.
"""

from __future__ import annotations

import math

import cuda.tile as ct
import numpy as np
from perf_products import dense

from examples.signatures import scalar
from kernels.model import Kernel, Problem, Tolerance

Constant = ct.Constant[int]
LOG2_E = math.log2(math.e)


@ct.kernel
def attention(
    q, k, v, out, scale: float, tm: Constant, tn: Constant, depth: Constant, causal: ct.Constant[bool]
):  # fmt: skip
    block, head = ct.bid(0), ct.bid(1)
    queries = ct.load(q, (head, block, 0), (1, tm, depth)).reshape((tm, depth))
    top = ct.full((tm, 1), -math.inf, ct.float32)
    weight = ct.zeros((tm, 1), ct.float32)
    total = ct.zeros((tm, depth), ct.float32)
    steps = ct.num_tiles(k, 1, (1, tn, depth))
    if causal:
        steps = min(steps, ct.cdiv((block + 1) * tm, tn))
    for step in range(steps):
        keys = ct.load(k, (head, 0, step), (1, depth, tn), order=(0, 2, 1)).reshape((depth, tn))
        score = ct.mma(queries, keys, ct.zeros((tm, tn), ct.float32))
        if causal and (step + 1) * tn > block * tm:
            line = block * tm + ct.arange(tm, dtype=ct.int32)[:, None]
            place = step * tn + ct.arange(tn, dtype=ct.int32)[None, :]
            score = score + ct.where(line >= place, 0.0, -math.inf)
        score = score * (scale * LOG2_E)
        higher = max(top, ct.max(score, axis=-1, keepdims=True))
        part = ct.exp2(score - higher, flush_to_zero=True)
        fading = ct.exp2(top - higher, flush_to_zero=True)
        weight = weight * fading + ct.sum(part, axis=-1, keepdims=True)
        values = ct.load(v, (head, step, 0), (1, tn, depth)).reshape((tn, depth))
        total = ct.mma(part.astype(q.dtype), values, total * fading)
        top = higher
    total = ct.truediv(total, weight, flush_to_zero=True, rounding_mode=ct.RoundingMode.APPROX)
    ct.store(out, (head, block, 0), total.astype(out.dtype).reshape((1, tm, depth)))


@ct.kernel
def attention_dkdv(
    q, k, v, grad, peaks, sums, dk, dv, scale: float, tm: Constant, tn: Constant, depth: Constant,
    causal: ct.Constant[bool],
):  # fmt: skip
    """The gradients of keys and values: each block has tn of them, and goes through the queries."""
    block, head = ct.bid(0), ct.bid(1)
    keys = ct.load(k, (head, block, 0), (1, tn, depth)).reshape((tn, depth))
    values = ct.load(v, (head, block, 0), (1, tn, depth)).reshape((tn, depth))
    key_grad = ct.zeros((tn, depth), ct.float32)
    value_grad = ct.zeros((tn, depth), ct.float32)
    first = block * tn // tm if causal else 0
    for step in range(first, ct.num_tiles(q, 1, (1, tm, depth))):
        queries = ct.load(q, (head, 0, step), (1, depth, tm), order=(0, 2, 1)).reshape((depth, tm))
        score = ct.mma(keys, queries, ct.zeros((tn, tm), ct.float32)) * (scale * LOG2_E)
        weight = ct.exp2(score - ct.load(peaks, (head, step), (1, tm)), flush_to_zero=True)
        if causal:
            place = block * tn + ct.arange(tn, dtype=ct.int32)[:, None]
            line = step * tm + ct.arange(tm, dtype=ct.int32)[None, :]
            weight = ct.where(line >= place, weight, 0.0)
        given = ct.load(grad, (head, step, 0), (1, tm, depth)).reshape((tm, depth))
        value_grad = ct.mma(weight.astype(q.dtype), given, value_grad)
        turned = ct.load(grad, (head, 0, step), (1, depth, tm), order=(0, 2, 1)).reshape((depth, tm))
        slope = ct.mma(values, turned, ct.zeros((tn, tm), ct.float32))
        slope = weight * (slope - ct.load(sums, (head, step), (1, tm)))
        rows = ct.load(q, (head, step, 0), (1, tm, depth)).reshape((tm, depth))
        key_grad = ct.mma(slope.astype(q.dtype), rows, key_grad)
    ct.store(dk, (head, block, 0), (key_grad * scale).astype(dk.dtype).reshape((1, tn, depth)))
    ct.store(dv, (head, block, 0), value_grad.astype(dv.dtype).reshape((1, tn, depth)))


@ct.kernel
def attention_dq(
    q, k, v, grad, peaks, sums, dq, scale: float, tm: Constant, tn: Constant, depth: Constant,
    causal: ct.Constant[bool],
):  # fmt: skip
    """The gradient of queries: each block has tm of them, and goes through keys and values."""
    block, head = ct.bid(0), ct.bid(1)
    queries = ct.load(q, (head, block, 0), (1, tm, depth)).reshape((tm, depth))
    given = ct.load(grad, (head, block, 0), (1, tm, depth)).reshape((tm, depth))
    top = ct.load(peaks, (head, block), (1, tm)).reshape((tm, 1))
    less = ct.load(sums, (head, block), (1, tm)).reshape((tm, 1))
    total = ct.zeros((tm, depth), ct.float32)
    steps = ct.num_tiles(k, 1, (1, tn, depth))
    if causal:
        steps = min(steps, ct.cdiv((block + 1) * tm, tn))
    for step in range(steps):
        keys = ct.load(k, (head, 0, step), (1, depth, tn), order=(0, 2, 1)).reshape((depth, tn))
        score = ct.mma(queries, keys, ct.zeros((tm, tn), ct.float32)) * (scale * LOG2_E)
        weight = ct.exp2(score - top, flush_to_zero=True)
        if causal:
            line = block * tm + ct.arange(tm, dtype=ct.int32)[:, None]
            place = step * tn + ct.arange(tn, dtype=ct.int32)[None, :]
            weight = ct.where(line >= place, weight, 0.0)
        turned = ct.load(v, (head, 0, step), (1, depth, tn), order=(0, 2, 1)).reshape((depth, tn))
        slope = ct.mma(given, turned, ct.zeros((tm, tn), ct.float32))
        slope = weight * (slope - less)
        rows = ct.load(k, (head, step, 0), (1, tn, depth)).reshape((tn, depth))
        total = ct.mma(slope.astype(q.dtype), rows, total)
    ct.store(dq, (head, block, 0), (total * scale).astype(dq.dtype).reshape((1, tm, depth)))


def scores(q: np.ndarray, k: np.ndarray, scale: float, causal: bool) -> np.ndarray:
    """Scaled products of queries and keys (heads, rows, keys) in f64; -inf for keys behind a causal query."""
    found = np.einsum("hqd,hkd->hqk", q.astype(np.float64), k.astype(np.float64)) * scale
    lines = np.arange(q.shape[1])
    return np.where(lines[:, None] >= lines, found, -np.inf) if causal else found


def gradients(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, grad: np.ndarray, peaks: np.ndarray, sums: np.ndarray, scale: float,
    causal: bool,
) -> dict[str, np.ndarray]:  # fmt: skip
    """dq, dk and dv in f64, of what the kernels are given."""
    weight = np.exp2(scores(q, k, scale, causal) * LOG2_E - peaks.astype(np.float64)[:, :, None])
    given = grad.astype(np.float64)
    slope = weight * (np.einsum("hqd,hkd->hqk", given, v.astype(np.float64)) - sums.astype(np.float64)[:, :, None])
    return {
        "dq": np.einsum("hqk,hkd->hqd", slope, k.astype(np.float64)) * scale,
        "dk": np.einsum("hqk,hqd->hkd", slope, q.astype(np.float64)) * scale,
        "dv": np.einsum("hqk,hqd->hkd", weight, given),
    }


def _inputs(rng: np.random.Generator, count: int, depth: int) -> list[np.ndarray]:
    return [rng.standard_normal((1, 256, depth)).astype(np.float16) for _ in range(count)]


def _forward(depth: int, tile: tuple[int, int], causal: bool) -> Kernel:
    def problem(rng: np.random.Generator) -> Problem:
        out = np.zeros((1, 256, depth), np.float16)
        return Problem((256 // tile[0], 1, 1), [*_inputs(rng, 3, depth), out, depth**-0.5])

    def reference(q: np.ndarray, k: np.ndarray, v: np.ndarray, out: np.ndarray, scale: float) -> dict[str, np.ndarray]:
        score = scores(q, k, scale, causal)
        power = np.exp(score - score.max(axis=-1, keepdims=True))
        return {"out": (power / power.sum(axis=-1, keepdims=True) @ v.astype(np.float64)).astype(np.float16)}

    given = (*[dense(ct.float16, 3)] * 4, scalar(ct.float32), *tile, depth, causal)
    name = f"attention_f16_d{depth}{'_causal' * causal}"
    return Kernel(name, attention, given, problem, reference, Tolerance(4e-3, 4e-3))


def _backward(what: str, depth: int, tile: tuple[int, int], causal: bool) -> Kernel:
    names = ("dk", "dv") if what == "dkdv" else ("dq",)
    rows = 256

    def problem(rng: np.random.Generator) -> Problem:
        q, k, v, grad = _inputs(rng, 4, depth)
        score = scores(q, k, depth**-0.5, causal)
        power = np.exp(score)
        peaks = np.log2(power.sum(-1)).astype(np.float32)
        out = power / power.sum(-1, keepdims=True) @ v.astype(np.float64)
        sums = (out * grad).sum(-1).astype(np.float32)
        results = [np.zeros_like(q) for _ in names]
        grid = rows // (tile[1] if what == "dkdv" else tile[0])
        return Problem((grid, 1, 1), [q, k, v, grad, peaks, sums, *results, depth**-0.5])

    def wanted(q, k, v, grad, peaks, sums, *rest):  # type: ignore[no-untyped-def]
        found = gradients(q, k, v, grad, peaks, sums, rest[-1], causal)
        return {name: found[name].astype(np.float16) for name in names}

    given = [dense(ct.float16, 3)] * 4 + [dense(ct.float32, 2)] * 2 + [dense(ct.float16, 3)] * len(names)
    function = attention_dkdv if what == "dkdv" else attention_dq
    name = f"{what}_f16_d{depth}{'_causal' * causal}"
    return Kernel(name, function, (*given, scalar(ct.float32), *tile, depth, causal), problem, wanted,
                  Tolerance(8e-3, 8e-3))  # fmt: skip


FORWARD_TILES = {64: (128, 128), 128: (128, 128), 256: (128, 64)}
DKDV_TILES = {64: (64, 128), 128: (32, 128), 256: (32, 64)}
DQ_TILES = {64: (128, 128), 128: (128, 64), 256: (64, 32)}
"""Queries and keys of a step, by the depth of a head."""

KERNELS = (
    *(_forward(depth, tile, causal) for depth, tile in FORWARD_TILES.items() for causal in (False, True)),
    *(_backward("dkdv", depth, tile, causal) for depth, tile in DKDV_TILES.items() for causal in (False, True)),
    *(_backward("dq", depth, tile, causal) for depth, tile in DQ_TILES.items() for causal in (False, True)),
)
