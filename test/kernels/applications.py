# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whole kernels as people write them; more are in examples/.  Sizes do not divide the tiles."""

from __future__ import annotations

import math

import cuda.tile as ct
import ml_dtypes
import numpy as np

from examples.signatures import array, scalar
from kernels.dtypes import FLOAT8, FLOATS, INTEGERS, Dtype
from kernels.model import Kernel, Problem, Tolerance

ZERO = ct.PaddingMode.ZERO


@ct.kernel
def saxpy(x, y, a: float, tile: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(y, (i,), ct.load(x, (i,), (tile,)) * a + ct.load(y, (i,), (tile,)))


def saxpy_reference(x, y, a):
    exact = x.astype(np.float64) * np.float64(np.float32(a)) + y.astype(np.float64)
    return {"y": exact.astype(np.float32)}


@ct.kernel
def matmul(a, b, c, tm: ct.Constant[int], tn: ct.Constant[int], tk: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((tm, tn), c.dtype)
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        left = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO)
        right = ct.load(b, (k, j), (tk, tn), padding_mode=ZERO)
        if a.dtype == ct.float32:
            left, right = left.astype(ct.tfloat32), right.astype(ct.tfloat32)
        total = ct.mma(left, right, total)
    ct.store(c, (i, j), total)


@ct.kernel
def matmul_persistent(a, b, c, tm: ct.Constant[int], tn: ct.Constant[int], tk: ct.Constant[int]):
    rows, columns = ct.num_tiles(c, 0, (tm, tn)), ct.num_tiles(c, 1, (tm, tn))
    for index in range(ct.bid(0), rows * columns, ct.num_blocks(0)):
        i, j = index // columns, index % columns
        total = ct.zeros((tm, tn), ct.float32)
        for k in range(ct.num_tiles(a, 1, (tm, tk))):
            left = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO)
            # b is stored transposed.
            right = ct.load(b, (k, j), (tk, tn), order=(1, 0), padding_mode=ZERO)
            total = ct.mma(left, right, total)
        ct.store(c, (i, j), total.astype(c.dtype))


@ct.kernel
def matmul_batched(a, b, c, tm: ct.Constant[int], tn: ct.Constant[int], tk: ct.Constant[int]):
    batch, i, j = ct.bid(2), ct.bid(0), ct.bid(1)
    total = ct.zeros((1, tm, tn), ct.float32)
    for k in range(ct.cdiv(a.shape[2], tk)):
        left = ct.load(a, (batch, i, k), (1, tm, tk), padding_mode=ZERO)
        right = ct.load(b, (batch, k, j), (1, tk, tn), padding_mode=ZERO)
        total = ct.mma(left, right, total)
    ct.store(c, (batch, i, j), total.astype(c.dtype))


@ct.kernel
def matmul_split_k(a, b, c, tm: ct.Constant[int], tn: ct.Constant[int], tk: ct.Constant[int],
                   split: ct.Constant[int]):  # fmt: skip
    i, j, part = ct.bid(0), ct.bid(1), ct.bid(2)
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(part, ct.cdiv(a.shape[1], tk), split):
        left = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO)
        right = ct.load(b, (k, j), (tk, tn), padding_mode=ZERO)
        total = ct.mma(left, right, total)
    rows = (i * tm + ct.arange(tm, dtype=ct.int32))[:, None]
    columns = (j * tn + ct.arange(tn, dtype=ct.int32))[None, :]
    ct.atomic_add(c, (rows, columns), total, memory_order=ct.MemoryOrder.RELAXED)


@ct.kernel
def softmax_online(x, y, tile: ct.Constant[int]):
    row = ct.bid(0)
    best = ct.full((1, 1), -math.inf, ct.float32)
    total = ct.zeros((1, 1), ct.float32)
    for j in range(ct.num_tiles(x, 1, (1, tile))):
        part = ct.load(x, (row, j), (1, tile), padding_mode=ct.PaddingMode.NEG_INF).astype(ct.float32)
        higher = ct.maximum(best, ct.max(part, 1, keepdims=True))
        total = total * ct.exp(best - higher) + ct.sum(ct.exp(part - higher), 1, keepdims=True)
        best = higher
    for j in range(ct.num_tiles(x, 1, (1, tile))):
        part = ct.load(x, (row, j), (1, tile)).astype(ct.float32)
        ct.store(y, (row, j), (ct.exp(part - best) / total).astype(y.dtype))


def softmax_reference(x, y):
    powers = np.exp(x.astype(np.float64) - x.astype(np.float64).max(axis=1, keepdims=True))
    return {"y": (powers / powers.sum(axis=1, keepdims=True)).astype(y.dtype)}


@ct.kernel
def rms_norm(x, weight, y, epsilon: float, width: ct.Constant[int]):
    row = ct.bid(0)
    values = ct.load(x, (row, 0), (1, width), padding_mode=ZERO).astype(ct.float32)
    scale = ct.rsqrt(ct.sum(values * values, 1, keepdims=True) / x.shape[1] + epsilon)
    factors = ct.load(weight, (0,), (width,), padding_mode=ZERO).astype(ct.float32)
    ct.store(y, (row, 0), (values * scale * factors).astype(y.dtype))


def rms_norm_reference(x, weight, y, epsilon):
    wide = x.astype(np.float64)
    scale = 1 / np.sqrt((wide**2).mean(axis=1, keepdims=True) + epsilon)
    return {"y": (wide * scale * weight.astype(np.float64)).astype(y.dtype)}


@ct.kernel
def attention_causal(q, k, v, out, scale: float, tq: ct.Constant[int], tk: ct.Constant[int], width: ct.Constant[int]):
    # Only tiles that the diagonal crosses are masked: the scores go through an `if` between the two products.
    block, head = ct.bid(0), ct.bid(1)
    factor = scale * 1.4426950408889634
    queries = ct.load(q, (head, block, 0), (1, tq, width)).reshape((tq, width))
    best = ct.full((tq, 1), -math.inf, ct.float32)
    total = ct.zeros((tq, 1), ct.float32)
    result = ct.zeros((tq, width), ct.float32)
    for j in range(min(ct.num_tiles(k, 1, (1, tk, width)), ct.cdiv((block + 1) * tq, tk))):
        keys = ct.load(k, (head, 0, j), (1, width, tk), order=(0, 2, 1), padding_mode=ZERO).reshape((width, tk))
        scores = ct.mma(queries, keys, ct.zeros((tq, tk), ct.float32))
        if (j + 1) * tk > block * tq:
            rows = (block * tq + ct.arange(tq, dtype=ct.int32))[:, None]
            columns = (j * tk + ct.arange(tk, dtype=ct.int32))[None, :]
            scores = scores + ct.where(rows >= columns, 0.0, -math.inf)
        higher = ct.maximum(best, ct.max(scores, 1, keepdims=True) * factor)
        weights = ct.exp2(scores * factor - higher)
        correction = ct.exp2(best - higher)
        total = total * correction + ct.sum(weights, 1, keepdims=True)
        values = ct.load(v, (head, j, 0), (1, tk, width), padding_mode=ZERO).reshape((tk, width))
        result = ct.mma(weights.astype(q.dtype), values, result * correction)
        best = higher
    ct.store(out, (head, block, 0), (result / total).astype(out.dtype).reshape((1, tq, width)))


def attention_causal_reference(q, k, v, out, scale):
    queries, keys, values = (x.astype(np.float64) for x in (q, k, v))
    scores = scale * queries @ keys.transpose(0, 2, 1)
    scores[:, np.triu(np.ones(scores.shape[1:], bool), 1)] = -np.inf
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    return {"out": (weights / weights.sum(axis=2, keepdims=True) @ values).astype(out.dtype)}


def gelu(x):
    return 0.5 * x * (1.0 + ct.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


@ct.kernel
def mlp(x, w1, bias, w2, y, tm: ct.Constant[int], hidden: ct.Constant[int], width: ct.Constant[int]):
    # y = gelu(x @ w1 + bias) @ w2, the hidden layer in tiles that never reach memory.
    i = ct.bid(0)
    values = ct.load(x, (i, 0), (tm, width), padding_mode=ZERO)
    total = ct.zeros((tm, width), ct.float32)
    for j in range(ct.num_tiles(w1, 1, (width, hidden))):
        weights = ct.load(w1, (0, j), (width, hidden), padding_mode=ZERO)
        first = ct.mma(values, weights, ct.zeros((tm, hidden), ct.float32))
        active = gelu(first + ct.load(bias, (j,), (hidden,), padding_mode=ZERO))
        total = ct.mma(active.astype(ct.float16), ct.load(w2, (j, 0), (hidden, width), padding_mode=ZERO), total)
    ct.store(y, (i, 0), total)


def mlp_reference(x, w1, bias, w2, y):
    first = x.astype(np.float64) @ w1.astype(np.float64) + bias
    active = 0.5 * first * (1 + np.tanh(0.7978845608 * (first + 0.044715 * first**3)))
    return {"y": (active @ w2.astype(np.float64)).astype(np.float32)}


@ct.kernel
def convolution(image, weights, out, rows: ct.Constant[int], columns: ct.Constant[int]):
    # Each tap shifts the image by a slice; the result is as large as the image less the window.
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((rows, columns), ct.float32)
    down = (i * rows + ct.arange(rows, dtype=ct.int32))[:, None]
    across = (j * columns + ct.arange(columns, dtype=ct.int32))[None, :]
    for di in range(weights.shape[0]):
        for dj in range(weights.shape[1]):
            total += ct.gather(image, (down + di, across + dj)) * ct.gather(weights, (di, dj))
    ct.store(out, (i, j), total)


def convolution_reference(image, weights, out):
    windows = np.lib.stride_tricks.sliding_window_view(image.astype(np.float64), weights.shape)
    return {"out": np.einsum("ijab,ab->ij", windows, weights.astype(np.float64)).astype(np.float32)}


@ct.kernel
def row_argmax(x, best, position, tile: ct.Constant[int]):
    row = ct.bid(0)
    value = ct.full((1,), -math.inf, ct.float32)
    index = ct.full((1,), -1, ct.int32)
    for j in range(ct.num_tiles(x, 1, (1, tile))):
        part = ct.load(x, (row, j), (1, tile), padding_mode=ct.PaddingMode.NEG_INF)
        higher = ct.max(part, 1)
        better = higher > value
        index = ct.where(better, ct.argmax(part, 1) + j * tile, index)
        value = ct.where(better, higher, value)
    ct.store(best, (row,), value)
    ct.store(position, (row,), index)


def row_argmax_reference(x, best, position):
    return {"best": x.max(axis=1), "position": x.argmax(axis=1).astype(np.int32)}


@ct.kernel
def embedding(table, tokens, positions, out, width: ct.Constant[int]):
    where = ct.bid(0)
    token = ct.gather(tokens, where).item()
    row = ct.load(table, (token, 0), (1, width)) + ct.load(positions, (where, 0), (1, width))
    ct.store(out, (where, 0), row)


def embedding_reference(table, tokens, positions, out):
    return {"out": table[tokens] + positions[: len(tokens)]}


@ct.kernel
def cross_entropy(logits, targets, loss, width: ct.Constant[int]):
    row = ct.bid(0)
    values = ct.load(logits, (row, 0), (1, width), padding_mode=ct.PaddingMode.NEG_INF)
    best = ct.max(values, 1)
    total = ct.log(ct.sum(ct.exp(values - best[:, None]), 1)) + best
    ct.store(loss, (row,), total - ct.gather(logits, (row, ct.gather(targets, row))))


def cross_entropy_reference(logits, targets, loss):
    wide = logits.astype(np.float64)
    total = np.log(np.exp(wide - wide.max(axis=1, keepdims=True)).sum(axis=1)) + wide.max(axis=1)
    return {"loss": (total - wide[np.arange(len(targets)), targets]).astype(np.float32)}


@ct.kernel
def game_of_life(before, after, rows: ct.Constant[int], columns: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    down = (i * rows + ct.arange(rows, dtype=ct.int32))[:, None]
    across = (j * columns + ct.arange(columns, dtype=ct.int32))[None, :]
    neighbours = ct.zeros((rows, columns), ct.int32)
    for di in ct.static_iter((-1, 0, 1)):
        for dj in ct.static_iter((-1, 0, 1)):
            if di != 0 or dj != 0:
                # Cells out of bounds, before the first too, are dead.
                neighbours += ct.gather(before, (down + di, across + dj)).astype(ct.int32)
    alive = ct.gather(before, (down, across)) != 0
    ct.store(after, (i, j), ((neighbours == 3) | (alive & (neighbours == 2))).astype(ct.uint8))


def game_of_life_reference(before, after):
    padded = np.pad(before.astype(np.int32), 1)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3))
    neighbours = windows.sum(axis=(2, 3)) - before
    return {"after": ((neighbours == 3) | ((before != 0) & (neighbours == 2))).astype(np.uint8)}


@ct.kernel
def dropout(x, out, seed: int, keep: float, tile: ct.Constant[int]):
    # A counter-based generator: the bits depend on the element's index and the seed alone.
    where = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    state = where.astype(ct.uint32) * 0x9E3779B9 + ct.bitcast(ct.full((tile,), seed, ct.int32), ct.uint32)
    state = (state ^ (state >> 16)) * 0x85EBCA6B
    state = (state ^ (state >> 13)) * 0xC2B2AE35
    state = state ^ (state >> 16)
    chance = (state >> 8).astype(ct.float32) * (1.0 / (1 << 24))
    values = ct.load(x, (ct.bid(0),), (tile,))
    ct.store(out, (ct.bid(0),), ct.where(chance < keep, values / keep, 0.0))


def dropout_reference(x, out, seed, keep):
    state = np.arange(len(x), dtype=np.uint32) * np.uint32(0x9E3779B9) + np.uint32(seed)
    state = (state ^ (state >> 16)) * np.uint32(0x85EBCA6B)
    state = (state ^ (state >> 13)) * np.uint32(0xC2B2AE35)
    state ^= state >> 16
    kept = (state >> 8).astype(np.float64) / 2**24 < np.float32(keep)
    return {"out": np.where(kept, x / np.float32(keep), np.float32(0))}


def _matmul_problem(m: int, n: int, k: int, operand: Dtype, result: Dtype, tile: tuple[int, int]):
    def problem(rng: np.random.Generator) -> Problem:
        if operand.numpy.kind in "iu":
            info = np.iinfo(operand.numpy)
            a, b = (rng.integers(info.min, info.max + 1, shape).astype(operand.numpy) for shape in ((m, k), (k, n)))
        else:
            a, b = (rng.standard_normal(shape).astype(operand.numpy) for shape in ((m, k), (k, n)))
        return Problem((-(-m // tile[0]), -(-n // tile[1]), 1), [a, b, np.zeros((m, n), result.numpy)])

    return problem


def _product(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> dict[str, np.ndarray]:
    return {"c": (a.astype(np.float64) @ b.astype(np.float64)).astype(c.dtype)}


def _tf32_product(a, b, c):
    # The fraction of the operands is rounded to ten bits, to nearest even.
    narrow = []
    for side in (a, b):
        bits = side.view(np.uint32).astype(np.uint64)
        bits = (bits + 0xFFF + ((bits >> 13) & 1)) & 0xFFFFE000
        narrow.append(bits.astype(np.uint32).view(np.float32))
    return _product(*narrow, c)


def _persistent_problem(rng: np.random.Generator) -> Problem:
    a, b = rng.standard_normal((104, 72)).astype(np.float16), rng.standard_normal((88, 72)).astype(np.float16)
    return Problem((4, 1, 1), [a, b, np.zeros((104, 88), np.float16)])


def _batched_problem(rng: np.random.Generator) -> Problem:
    a, b = rng.standard_normal((3, 40, 48)), rng.standard_normal((3, 48, 72))
    kind = ml_dtypes.bfloat16
    return Problem((2, 3, 3), [a.astype(kind), b.astype(kind), np.zeros((3, 40, 72), np.float32)])


def _split_problem(rng: np.random.Generator) -> Problem:
    a, b = rng.standard_normal((40, 200)).astype(np.float16), rng.standard_normal((200, 56)).astype(np.float16)
    return Problem((2, 2, 3), [a, b, np.zeros((40, 56), np.float32)])


def _saxpy_problem(rng: np.random.Generator) -> Problem:
    x, y = rng.standard_normal((2, 1000), dtype=np.float32)
    return Problem((8, 1, 1), [x, y, 2.5])


def _rows_problem(rows: int, columns: int, dtype: type):
    def problem(rng: np.random.Generator) -> Problem:
        x: np.ndarray = (3 * rng.standard_normal((rows, columns))).astype(dtype)
        return Problem((rows, 1, 1), [x, np.zeros_like(x)])

    return problem


def _rms_problem(rng: np.random.Generator) -> Problem:
    x, weight = rng.standard_normal((9, 200)).astype(np.float16), rng.standard_normal(200).astype(np.float16)
    return Problem((9, 1, 1), [x, weight, np.zeros_like(x), 1e-6])


def _mlp_problem(rng: np.random.Generator) -> Problem:
    x = rng.standard_normal((40, 30)).astype(np.float16)
    w1, w2 = ((0.2 * rng.standard_normal(shape)).astype(np.float16) for shape in ((30, 100), (100, 30)))
    bias = rng.standard_normal(100).astype(np.float32)
    return Problem((3, 1, 1), [x, w1, bias, w2, np.zeros((40, 30), np.float32)])


def _convolution_problem(rng: np.random.Generator) -> Problem:
    image, weights = rng.standard_normal((30, 43)).astype(np.float32), rng.standard_normal((3, 5)).astype(np.float32)
    return Problem((2, 2, 1), [image, weights, np.zeros((28, 39), np.float32)])


def _argmax_problem(rng: np.random.Generator) -> Problem:
    x = rng.standard_normal((7, 300)).astype(np.float32)
    x[2, [17, 200]] = 9
    return Problem((7, 1, 1), [x, np.zeros(7, np.float32), np.zeros(7, np.int32)])


def _embedding_problem(rng: np.random.Generator) -> Problem:
    table, positions = (rng.standard_normal((rows, 64)).astype(np.float32) for rows in (50, 20))
    tokens = rng.integers(0, 50, 12, dtype=np.int32)
    return Problem((12, 1, 1), [table, tokens, positions, np.zeros((12, 64), np.float32)])


def _entropy_problem(rng: np.random.Generator) -> Problem:
    logits = (4 * rng.standard_normal((10, 100))).astype(np.float32)
    return Problem((10, 1, 1), [logits, rng.integers(0, 100, 10).astype(np.int64), np.zeros(10, np.float32)])


def _life_problem(rng: np.random.Generator) -> Problem:
    before = rng.integers(0, 2, (20, 45)).astype(np.uint8)
    return Problem((2, 2, 1), [before, np.zeros_like(before)])


def _attention_problem(rng: np.random.Generator) -> Problem:
    q, k, v = rng.standard_normal((3, 8, 88, 32)).astype(np.float16)  # every size is the multiple of 8 that is promised
    return Problem((2, 8, 1), [q, k, v, np.zeros_like(q), 32**-0.5])


def _dropout_problem(rng: np.random.Generator) -> Problem:
    return Problem((4, 1, 1), [rng.standard_normal(500).astype(np.float32), np.zeros(500, np.float32), 12345, 0.75])


def _matmul_kernels() -> list[Kernel]:
    tags = frozenset({"real", "gemm"})
    types = FLOATS | FLOAT8 | INTEGERS
    near = Tolerance(2e-5, 2e-5)
    result = []
    for operand, accumulator, tolerance in (
        ("bf16", "f32", near), ("f8e4m3fn", "f32", near), ("f8e5m2", "f32", near), ("i8", "i32", Tolerance()),
        ("u8", "i32", Tolerance()), ("f64", "f64", Tolerance(1e-13, 1e-13)),
    ):  # fmt: skip
        left, out = types[operand], types[accumulator]
        operands, output = array(left.tile, 2, multiple_of=8), array(out.tile, 2, multiple_of=8)
        result.append(Kernel(f"gemm_{operand}", matmul, (operands, operands, output, 32, 32, 32),
                             _matmul_problem(72, 40, 104, left, out, (32, 32)), _product, tolerance,
                             tags=tags))  # fmt: skip
    f32, f16, bf16 = array(ct.float32, 2), array(ct.float16, 2, multiple_of=8), array(ct.bfloat16, 3)
    single = types["f32"]
    result += [
        Kernel("gemm_tf32", matmul, (f32, f32, f32, 32, 64, 16), _matmul_problem(70, 90, 50, single, single, (32, 64)),
               _tf32_product, near, tags=tags | {"tf32"}),
        Kernel("gemm_persistent", matmul_persistent, (f16, f16, f16, 32, 32, 32), _persistent_problem,
               lambda a, b, c: _product(a, b.T, c), Tolerance(1e-3, 1e-3), tags=tags),
        Kernel("gemm_batched", matmul_batched, (bf16, bf16, array(ct.float32, 3), 32, 32, 16), _batched_problem,
               _product, near, tags=tags),
        Kernel("gemm_split_k", matmul_split_k, (f16, f16, f32, 32, 32, 32, 3), _split_problem, _product,
               Tolerance(5e-5, 5e-5), tags=tags | {"atomic"}),
    ]  # fmt: skip
    return result


def _kernels() -> list[Kernel]:
    tags = frozenset({"real"})
    f1, f2, h1, h2 = array(ct.float32), array(ct.float32, 2), array(ct.float16), array(ct.float16, 2)
    h3 = array(ct.float16, 3, multiple_of=8)
    i1, f, u2 = array(ct.int32), scalar(ct.float32), array(ct.uint8, 2)
    near = Tolerance(1e-5, 1e-5)
    return [
        Kernel("saxpy", saxpy, (f1, f1, f, 128), _saxpy_problem, saxpy_reference, Tolerance(1e-7), tags=tags),
        *_matmul_kernels(),
        Kernel("softmax_online", softmax_online, (f2, f2, 64), _rows_problem(6, 300, np.float32), softmax_reference,
               Tolerance(4e-6, 1e-9), tags=tags),
        Kernel("softmax_online_f16", softmax_online, (h2, h2, 64), _rows_problem(6, 300, np.float16),
               softmax_reference, Tolerance(1e-3, 1e-6), tags=tags),
        Kernel("rms_norm", rms_norm, (h2, h1, h2, f, 256), _rms_problem, rms_norm_reference, Tolerance(1e-3, 1e-6),
               tags=tags),
        Kernel("attention_causal", attention_causal, (h3, h3, h3, h3, f, 64, 32, 32), _attention_problem,
               attention_causal_reference, Tolerance(2e-3, 2e-3), tags=tags),
        Kernel("attention_causal_d128", attention_causal, (h3, h3, h3, h3, f, 128, 128, 128), None, None, tags=tags,
               compile_only="tiles of the size that is fast on a GPU are slow in a simulator"),
        Kernel("mlp", mlp, (h2, h2, f1, h2, f2, 16, 32, 32), _mlp_problem, mlp_reference, Tolerance(2e-3, 3e-3),
               tags=tags),
        Kernel("convolution", convolution, (f2, f2, f2, 16, 32), _convolution_problem, convolution_reference, near,
               tags=tags),
        Kernel("row_argmax", row_argmax, (f2, f1, i1, 64), _argmax_problem, row_argmax_reference, tags=tags),
        Kernel("embedding", embedding, (f2, i1, f2, f2, 64), _embedding_problem, embedding_reference, tags=tags),
        Kernel("cross_entropy", cross_entropy, (f2, array(ct.int64), f1, 128), _entropy_problem,
               cross_entropy_reference, near, tags=tags),
        Kernel("game_of_life", game_of_life, (u2, u2, 16, 32), _life_problem, game_of_life_reference, tags=tags),
        Kernel("dropout", dropout, (f1, f1, scalar(ct.int32), f, 128), _dropout_problem, dropout_reference, tags=tags),
    ]  # fmt: skip


KERNELS = _kernels()
