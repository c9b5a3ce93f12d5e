# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Launches of the kernels, with what numpy says that they give."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from cutile.models import attention, decoding, products, rows

Array = npt.NDArray[Any]
BF16, E4M3 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn
F64 = np.float64


@dataclass(frozen=True)
class Tiles:
    """Sizes of tiles: queries and keys, a head's dimension; rows, columns and depth of a product."""

    queries: int
    d: int
    m: int
    n: int
    k: int


SMALL, FULL = Tiles(64, 64, 64, 64, 32), Tiles(128, 128, 128, 128, 64)


def _whole(arg: Array | list[Array]) -> Array:
    """An argument's elements: of a list of arrays those of one after the other."""
    return np.concatenate([x.ravel() for x in arg]) if isinstance(arg, list) else arg


@dataclass(frozen=True)
class Problem:
    """A kernel, its grid and arguments, and for some arguments, by number, what they are afterwards, to a tolerance
    relative to 1 and more."""

    kernel: Any
    grid: tuple[int, ...]
    args: tuple[Any, ...]
    wanted: Mapping[int, Array]
    tolerance: float

    def error(self, args: tuple[Any, ...]) -> float:
        """How far results are from numpy's."""
        return max(
            float(np.max(np.abs(_whole(args[n]).astype(F64) - w) / (1 + np.abs(w)))) for n, w in self.wanted.items()
        )


PROBLEMS: dict[str, Callable[[Tiles], Problem]] = {}
"""By the name of the kernel."""


def _problem(make: Callable[[Tiles, np.random.Generator], Problem]) -> None:
    PROBLEMS[make.__name__] = lambda tiles: make(tiles, np.random.default_rng(0))


def _random(rng: np.random.Generator, *shape: int, dtype: Any = np.float16, scale: float = 0.5) -> Array:
    return (rng.standard_normal(shape) * scale).astype(dtype)


def _softmax(scores: Array) -> Array:
    e = np.exp(scores - scores.max(-1, keepdims=True))
    result: Array = e / e.sum(-1, keepdims=True)
    return result


def _scores(q: Array, k: Array) -> Array:
    result: Array = q.astype(F64) @ np.swapaxes(k.astype(F64), -1, -2)
    return result


@_problem
def gqa_window(t: Tiles, rng: np.random.Generator) -> Problem:
    length, window = 4 * t.queries, 100
    q, k, v = (_random(rng, heads, length, t.d) for heads in (4, 2, 2))
    s = 30 * np.tanh(_scores(q, np.repeat(k, 2, 0)) * 0.125 / 30)
    row, column = np.arange(length)[:, None], np.arange(length)[None]
    s = np.where((column <= row) & (column > row - window), s, -1e30)
    args = (q, k, v, np.zeros_like(q), 0.125, 30.0, window, 2, t.queries, t.queries, t.d)
    wanted = {3: _softmax(s) @ np.repeat(v.astype(F64), 2, 0)}
    return Problem(attention.gqa_window, (length // t.queries, 4), args, wanted, 0.01)


@_problem
def causal_prefill(t: Tiles, rng: np.random.Generator) -> Problem:
    queries, behind = 3 * t.queries, t.queries + 20
    length = queries + behind - 7
    q = _random(rng, 4, queries, t.d)
    k, v = (_random(rng, 2, length, t.d) for _ in range(2))
    s = _scores(q, np.repeat(k, 2, 0)) * 0.1 * np.log(2)
    row, column = behind + np.arange(queries)[:, None], np.arange(length)[None]
    s = np.where(column <= row, s, -np.inf)
    args = (q, k, v, np.zeros_like(q), 0.1, behind, 2, t.queries, t.queries, t.d)
    wanted = {3: _softmax(s) @ np.repeat(v.astype(F64), 2, 0)}
    return Problem(attention.causal_prefill, (3, 4), args, wanted, 0.01)


@_problem
def paged(t: Tiles, rng: np.random.Generator) -> Problem:
    page, heads = 64, 2
    q = _random(rng, 3, heads, 16, t.d)
    k, v = (_random(rng, 9, heads, page, t.d) for _ in range(2))
    table = rng.permutation(9).reshape(3, 3).astype(np.int32)
    lengths = np.array([70, 192, 1], np.int32)
    wanted = np.zeros(q.shape)
    for b, length in enumerate(lengths):
        keys, values = (
            x[table[b]].transpose(1, 0, 2, 3).reshape(heads, -1, t.d)[:, :length].astype(F64) for x in (k, v)
        )
        wanted[b] = _softmax(_scores(q[b], keys) * 0.125) @ values
    args = (q, k, v, table, lengths, np.zeros_like(q), 0.125, 16, page, page, t.d)
    return Problem(attention.paged, (3, heads), args, {5: wanted}, 0.01)


@_problem
def mla(t: Tiles, rng: np.random.Generator) -> Problem:
    length, more = 4 * t.queries, 64
    q, k, v = (_random(rng, 2, length, t.d) for _ in range(3))
    q_more, k_more = _random(rng, 2, length, more), _random(rng, length, more)
    s = (_scores(q, k) + _scores(q_more, k_more)) * 0.1 * np.log(2)
    args = (q, q_more, k, k_more, v, np.zeros_like(q), 0.1, t.queries, t.queries, t.d, more)
    return Problem(attention.mla, (length // t.queries, 2), args, {5: _softmax(s) @ v.astype(F64)}, 0.01)


@_problem
def linear_attention(t: Tiles, rng: np.random.Generator) -> Problem:
    q, k, v = (_random(rng, 2, 4 * t.queries, t.d, scale=0.2) for _ in range(3))
    wanted = np.tril(_scores(q, k)) @ v.astype(F64)
    return Problem(attention.linear_attention, (2,), (q, k, v, np.zeros_like(q), t.queries, t.d), {3: wanted}, 0.02)


@_problem
def decode_split(t: Tiles, rng: np.random.Generator) -> Problem:
    q = _random(rng, 2, 16, t.d)
    k, v = (_random(rng, 2, 512, t.d) for _ in range(2))
    s = _scores(q, k) * 0.125
    parts = [slice(0, 256), slice(256, 512)]
    out = np.stack([_softmax(s[..., p]) @ v[:, p].astype(F64) for p in parts])
    logs = np.stack([np.log(np.exp(s[..., p]).sum(-1)) for p in parts])
    args = (q, k, v, *(np.zeros(x.shape, np.float32) for x in (out, logs)), 0.125, 16, 64, t.d, 4)
    return Problem(attention.decode_split, (2, 2), args, {3: out, 4: logs}, 0.01)


def _experts(t: Tiles, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    x = _random(rng, 4 * t.m, 4 * t.k - 16, dtype=BF16)
    return x, _random(rng, 3, 4 * t.k - 16, 2 * t.n - 8, dtype=BF16), np.array([0, 2, 2, 1], np.int32)


@_problem
def moe(t: Tiles, rng: np.random.Generator) -> Problem:
    x, w, experts = _experts(t, rng)
    wanted = np.concatenate([x[i * t.m : (i + 1) * t.m].astype(F64) @ w[e].astype(F64) for i, e in enumerate(experts)])
    args = (x, w, experts, np.zeros(wanted.shape, BF16), t.m, t.n, t.k)
    return Problem(products.moe, (4, 2), args, {3: wanted}, 0.05)


@_problem
def moe_gather(t: Tiles, rng: np.random.Generator) -> Problem:
    x, w, experts = _experts(t, rng)
    tokens = rng.permutation(len(x)).astype(np.int32)
    wanted = np.zeros((len(x), w.shape[2]))
    for i, e in enumerate(experts):
        own = tokens[i * t.m : (i + 1) * t.m]
        wanted[own] = x[own].astype(F64) @ w[e].astype(F64)
    args = (x, w, tokens, experts, np.zeros(wanted.shape, BF16), t.m, t.n, t.k)
    return Problem(products.moe_gather, (4, 2), args, {4: wanted}, 0.05)


@_problem
def w8a16(t: Tiles, rng: np.random.Generator) -> Problem:
    x = _random(rng, 2 * t.m, 4 * t.k)
    w = rng.integers(-128, 128, (4 * t.k, 2 * t.n)).astype(np.int8)
    factors = np.abs(_random(rng, 4, 2 * t.n, dtype=np.float32, scale=0.01))
    wanted = x.astype(F64) @ (w * np.repeat(factors, t.k, 0)).astype(np.float16).astype(F64)
    args = (x, w, factors, np.zeros(wanted.shape, np.float16), t.m, t.n, t.k)
    return Problem(products.w8a16, (2, 2), args, {3: wanted}, 0.03)


@_problem
def w4a16(t: Tiles, rng: np.random.Generator) -> Problem:
    x, half = _random(rng, 2 * t.m, 4 * t.k), t.k // 2
    w = rng.integers(0, 256, (2 * t.k, 2 * t.n)).astype(np.uint8)
    factors = np.abs(_random(rng, 4, 2 * t.n, scale=0.01))
    whole = np.zeros((4 * t.k, 2 * t.n))
    for g in range(4):
        own = w[g * half : (g + 1) * half]
        for place, bits in enumerate((own & 15, own >> 4)):
            first = g * t.k + place * half
            whole[first : first + half] = (bits.astype(np.float16) - np.float16(8)) * factors[g]
    args = (x, w, factors, np.zeros((2 * t.m, 2 * t.n), np.float16), t.m, t.n, t.k)
    return Problem(products.w4a16, (2, 2), args, {3: x.astype(F64) @ whole}, 0.03)


@_problem
def conv(t: Tiles, rng: np.random.Generator) -> Problem:
    x = _random(rng, 5, t.m + 2, 2 * t.k - 8)
    w = _random(rng, 3, 3, x.shape[2], t.n, scale=0.2)
    wanted = sum(x[r : r + 3, s : s + t.m].astype(F64) @ w[r, s].astype(F64) for r in range(3) for s in range(3))
    args = (x, w, np.zeros((3, t.m, t.n), np.float16), t.m, t.n, t.k, 3, 3)
    return Problem(products.conv, (1, 3, 1), args, {2: np.asarray(wanted)}, 0.05)


@_problem
def splitk(t: Tiles, rng: np.random.Generator) -> Problem:
    a, b = _random(rng, 2 * t.m - 8, 8 * t.k - 8), _random(rng, 8 * t.k - 8, 2 * t.n - 8)
    wanted = a.astype(F64) @ b.astype(F64)
    args = (a, b, np.zeros(wanted.shape, np.float32), t.m, t.n, t.k, 2)
    return Problem(products.splitk, (2, 2, 2), args, {2: wanted}, 0.01)


@_problem
def swiglu(t: Tiles, rng: np.random.Generator) -> Problem:
    x = _random(rng, 2 * t.m - 8, 8 * t.k - 8)
    gate, up = (_random(rng, 8 * t.k - 8, 2 * t.n - 8, scale=0.1) for _ in range(2))
    g = x.astype(F64) @ gate.astype(F64)
    wanted = g / (1 + np.exp(-g)) * (x.astype(F64) @ up.astype(F64))
    args = (x, gate, up, np.zeros(wanted.shape, np.float16), t.m, t.n, t.k)
    return Problem(products.swiglu, (2, 2), args, {3: wanted}, 0.03)


@_problem
def block_fp8(t: Tiles, rng: np.random.Generator) -> Problem:
    depth = 128
    a, b = _random(rng, 2 * t.m, 4 * depth, dtype=E4M3), _random(rng, 2 * t.n, 4 * depth, dtype=E4M3)
    fa, fb = (np.abs(_random(rng, *shape, dtype=np.float32)) for shape in ((2 * t.m, 4), (4, 2)))
    wanted = sum(
        _scores(a[:, s], b[:, s]) * fa[:, n, None].astype(F64) * np.repeat(fb[n].astype(F64), t.n)
        for n, s in enumerate(slice(i * depth, (i + 1) * depth) for i in range(4))
    )
    args = (a, b, fa, fb, np.zeros((2 * t.m, 2 * t.n), BF16), t.m, t.n, depth)
    return Problem(products.block_fp8, (2, 2), args, {4: np.asarray(wanted)}, 0.05)


@_problem
def gelu_residual(t: Tiles, rng: np.random.Generator) -> Problem:
    m, n, k = 2 * t.m - 8, 2 * t.n - 8, 4 * t.k - 8
    a, b = _random(rng, m, k, dtype=BF16), _random(rng, k, n, dtype=BF16, scale=0.2)
    bias, residual = _random(rng, n, dtype=BF16), _random(rng, m, n, dtype=BF16)
    x = a.astype(F64) @ b.astype(F64) + bias.astype(F64)
    wanted = 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3))) + residual.astype(F64)
    args = (a, b, bias, residual, np.zeros_like(residual), t.m, t.n, t.k)
    return Problem(products.gelu_residual, (2, 2), args, {4: wanted}, 0.04)


@_problem
def batched3(t: Tiles, rng: np.random.Generator) -> Problem:
    a, b = _random(rng, 4, 2 * t.m - 8, 4 * t.k - 8), _random(rng, 4, 4 * t.k - 8, 2 * t.n - 8)
    wanted = a.astype(F64) @ b.astype(F64)
    args = (a, b, np.zeros(wanted.shape, np.float16), 2, t.m, t.n, t.k)
    return Problem(products.batched3, (2, 2, 2), args, {2: wanted}, 0.05)


@_problem
def cross_entropy(t: Tiles, rng: np.random.Generator) -> Problem:
    x, labels = _random(rng, 6, 1000, dtype=BF16, scale=2.0), rng.integers(0, 1000, 6).astype(np.int32)
    gradient = _softmax(x.astype(F64))
    loss = -np.log(gradient[np.arange(6), labels])[:, None]
    gradient[np.arange(6), labels] -= 1
    args = (x, labels, np.zeros((6, 1), np.float32), np.zeros_like(x), 256)
    return Problem(rows.cross_entropy, (6,), args, {2: loss, 3: gradient}, 0.01)


@_problem
def rope(t: Tiles, rng: np.random.Generator) -> Problem:
    x, angles = _random(rng, 64, 3, 128, dtype=BF16), _random(rng, 64, 64, dtype=np.float32)
    c, s = np.cos(angles), np.sin(angles)
    a, b = x[..., :64].astype(F64), x[..., 64:].astype(F64)
    wanted = np.concatenate([a * c[:, None] - b * s[:, None], b * c[:, None] + a * s[:, None]], -1)
    return Problem(rows.rope, (4, 3), (x, c, s, np.zeros_like(x), 16, 64), {3: wanted}, 0.01)


@_problem
def rms_backward(t: Tiles, rng: np.random.Generator) -> Problem:
    x, dy, w = _random(rng, 30, 500), _random(rng, 30, 500), _random(rng, 500)
    scale = 1 / np.sqrt((x.astype(F64) ** 2).mean(1, keepdims=True) + 1e-5)
    normal, g = x.astype(F64) * scale, dy.astype(F64) * w.astype(F64)
    wanted = {3: scale * (g - normal * (g * normal).mean(1, keepdims=True)), 4: (dy.astype(F64) * normal).sum(0)}
    args = (x, w, dy, np.zeros_like(x), np.zeros(500, np.float32), 1e-5, 512, 4)
    return Problem(rows.rms_backward, (8,), args, wanted, 0.02)


@_problem
def top_k(t: Tiles, rng: np.random.Generator) -> Problem:
    x = _random(rng, 5, 500, dtype=np.float32)
    order = np.argsort(-x, 1, kind="stable")[:, :8]
    args = (x, np.zeros((5, 8), np.float32), np.zeros((5, 8), np.int32), 512, 8)
    return Problem(rows.top_k, (5,), args, {1: np.take_along_axis(x, order, 1), 2: order}, 1e-6)


@_problem
def adam(t: Tiles, rng: np.random.Generator) -> Problem:
    p, g = (_random(rng, 1000, dtype=BF16) for _ in range(2))
    m, v = _random(rng, 1000, dtype=np.float32), np.abs(_random(rng, 1000, dtype=np.float32))
    m1, v1 = 0.9 * m.astype(F64) + 0.1 * g.astype(F64), 0.99 * v.astype(F64) + 0.01 * g.astype(F64) ** 2
    wanted = {0: p.astype(F64) - 0.01 * m1 / (np.sqrt(v1) + 1e-8), 2: m1, 3: v1}
    return Problem(rows.adam, (4,), (p, g, m, v, 0.01, 0.9, 0.99, 1e-8, 256), wanted, 0.01)


@_problem
def decode_keys_first(t: Tiles, rng: np.random.Generator) -> Problem:
    length, keys, turns = 11 * t.queries // 2 + 3, t.queries, 3
    q = _random(rng, 2, 2, 16, t.d)
    k, v = (_random(rng, 2, 2, length, t.d) for _ in range(2))
    s = _scores(q, k) * 0.1 * np.log(2)
    parts = [slice(0, turns * keys), slice(turns * keys, length)]
    out = np.stack([_softmax(s[..., p]) @ v[:, :, p].astype(F64) for p in parts], 2)
    logs = np.stack([np.log2(np.exp(s[..., p]).sum(-1)) for p in parts], 2)
    empty = (np.zeros(x.shape, np.float32) for x in (out, logs))
    args = (q, k, v, *empty, 0.1, length, 16, keys, t.d, turns)
    return Problem(decoding.decode_keys_first, (2, 2, 2), args, {3: out, 4: logs}, 0.01)


@_problem
def mla_decode(t: Tiles, rng: np.random.Generator) -> Problem:
    d, more, keys = 4 * t.d, 64, t.queries
    length = 4 * keys - 5
    q, q_more = _random(rng, 1, 32, d, scale=0.2), _random(rng, 1, 32, more)
    kv, k_more = _random(rng, 1, length, d), _random(rng, 1, length, more)
    s = (_scores(q, kv) + _scores(q_more, k_more)) * 0.1 * np.log(2)
    logs = np.log2(np.exp(s).sum(-1))
    args = (
        q,
        q_more,
        kv,
        kv,
        k_more,
        np.zeros_like(q),
        np.zeros(logs.shape, np.float32),
        0.1,
        length,
        16,
        keys,
        d,
        more,
    )
    return Problem(decoding.mla_decode, (2, 1), args, {5: _softmax(s) @ kv.astype(F64), 6: logs}, 0.01)


@_problem
def group_gemm(t: Tiles, rng: np.random.Generator) -> Problem:
    sizes = [(2 * t.m - 8, t.n + 8, 3 * t.k - 8), (t.m + 8, 2 * t.n, 2 * t.k), (24, 3 * t.n - 8, 4 * t.k)]
    a, b = [_random(rng, m, k) for m, _, k in sizes], [_random(rng, k, n) for _, n, k in sizes]
    c = [np.zeros((m, n), np.float16) for m, n, _ in sizes]
    wanted = {2: np.concatenate([(x.astype(F64) @ y.astype(F64)).ravel() for x, y in zip(a, b)])}
    return Problem(products.group_gemm, (4,), (a, b, c, t.m, t.n, t.k, 4), wanted, 0.05)


@_problem
def capped_window(t: Tiles, rng: np.random.Generator) -> Problem:
    length, window = 4 * t.queries - 24, t.queries + 30
    q, k, v = (_random(rng, heads, length, t.d) for heads in (4, 2, 2))
    s = 20 * np.tanh(_scores(q, np.repeat(k, 2, 0)) * 0.125 / 20)
    row, column = np.arange(length)[:, None], np.arange(length)[None]
    s = np.where((column <= row) & (column >= row - window), s, -1e30)
    args = (q, k, v, np.zeros_like(q), 0.125, 20.0, window, 2, t.queries, t.queries, t.d)
    wanted = {3: _softmax(s) @ np.repeat(v.astype(F64), 2, 0)}
    return Problem(attention.capped_window, (4, 4), args, wanted, 0.01)


@_problem
def ragged_prefill(t: Tiles, rng: np.random.Generator) -> Problem:
    lengths = [2 * t.queries + 9, 3, 3 * t.queries]
    starts = np.cumsum([0, *lengths]).astype(np.int32)
    q, k, v = (_random(rng, starts[-1], heads, t.d) for heads in (4, 2, 2))
    wanted = np.zeros(q.shape)
    for start, end in pairwise(starts):
        queries, keys, values = (x[start:end].swapaxes(0, 1) for x in (q, np.repeat(k, 2, 1), np.repeat(v, 2, 1)))
        s = _scores(queries, keys) * 0.1 * np.log(2)
        row, column = np.arange(end - start)[:, None], np.arange(end - start)[None]
        s = np.where(column <= row, s, -np.inf)
        wanted[start:end] = (_softmax(s) @ values.astype(F64)).swapaxes(0, 1)
    args = (q, k, v, starts, np.zeros_like(q), 0.1, 2, t.queries, t.queries, t.d)
    return Problem(attention.ragged_prefill, (3, 3, 4), args, {4: wanted}, 0.01)
