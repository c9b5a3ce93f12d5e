# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whole algorithms, against hashlib, numpy.fft and plain Python."""

from __future__ import annotations

import hashlib

import numpy as np

from .memory import bits
from .table import Close, Family, Launch, Source

ALGORITHMS = Family(Source("algorithms"))

M32 = 0xFFFFFFFF


@ALGORITHMS.add()
def sha256(rng: np.random.Generator) -> Launch:
    messages = bits(rng, (32, 55), np.uint8)
    lengths = rng.integers(0, 56, 32).astype(np.uint32)
    lengths[:2] = 0, 55
    digests = [hashlib.sha256(m[:n].tobytes()).digest() for m, n in zip(messages, lengths.tolist(), strict=True)]
    want = np.frombuffer(b"".join(digests), np.uint8)
    return Launch([np.zeros(32 * 32, np.uint8), messages, lengths], {0: want})


@ALGORITHMS.add(block=64, grid=2)
def philox(rng: np.random.Generator) -> Launch:
    key = bits(rng, 2, np.uint32).tolist()

    def generate(counter: int) -> list[int]:
        c, k = [counter, 0, 0, 0], list(key)
        for _ in range(10):
            p, q = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
            c = [q >> 32 ^ c[1] ^ k[0], q & M32, p >> 32 ^ c[3] ^ k[1], p & M32]
            k = [k[0] + 0x9E3779B9 & M32, k[1] + 0xBB67AE85 & M32]
        return c

    want = np.array([generate(i) for i in range(128)], np.uint32)
    return Launch([np.zeros((128, 4), np.uint32), *key], {0: want})


@ALGORITHMS.add(block=64)
def fft(rng: np.random.Generator) -> Launch:
    x = rng.normal(size=(128, 2)).astype(np.float32)
    want = np.fft.fft(x[:, 0].astype(np.float64) + 1j * x[:, 1])
    parts = np.stack([want.real, want.imag], axis=1)
    # Seven stages, each within a few ulps of values that stay below 2^6.
    return Launch([np.zeros((128, 2), np.float32), x], {0: Close(parts, absolute=7 * 4 * 2.0**-18)})


@ALGORITHMS.add(block=64, grid=2)
def softmax(rng: np.random.Generator) -> Launch:
    x = rng.normal(0, 3, (4, 75)).astype(np.float32)
    wide = x.astype(np.float64)
    e = np.exp(wide - wide.max(axis=1, keepdims=True))
    # __expf is within 2 + 1.173 |x| ulp (CUDA C++ Programming Guide); |x| stays below 32.
    bound = Close(e / e.sum(axis=1, keepdims=True), relative=2 * 40 * 2.0**-23)
    return Launch([np.zeros((4, 75), np.float32), x, 75], {0: bound})


@ALGORITHMS.add(block=64, grid=2)
def layer_norm(rng: np.random.Generator) -> Launch:
    x, gain = rng.normal(2, 3, (4, 90)).astype(np.float32), rng.uniform(0.5, 2, 90).astype(np.float32)
    wide = x.astype(np.float64)
    centred = wide - wide.mean(axis=1, keepdims=True)
    want = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5) * gain
    return Launch([np.zeros((4, 90), np.float32), x, gain, 90], {0: Close(want, absolute=2.0**-18)})


@ALGORITHMS.add(block=(16, 4), grid=(2, 4))
def mandelbrot(rng: np.random.Generator) -> Launch:
    limit = 40
    x, y = np.meshgrid(np.arange(32, dtype=np.float32), np.arange(16, dtype=np.float32))
    # nvcc contracts the two products of the starting point, so they are made with exact steps.
    step = np.float32(0.09375)
    cr, ci = np.float32(-2) + x * step, np.float32(-1) + y * step
    zr, zi, n = np.zeros_like(cr), np.zeros_like(ci), np.zeros(cr.shape, np.uint32)
    for _ in range(limit):
        inside = zr * zr + zi * zi <= 4
        n += inside
        next_zr = zr * zr - zi * zi + cr
        zi = np.where(inside, np.float32(2) * zr * zi + ci, zi)
        zr = np.where(inside, next_zr, zr)
    return Launch([np.zeros((16, 32), np.uint32), step, limit], {0: n})


@ALGORITHMS.add(block=128)
def radix_sort(rng: np.random.Generator) -> Launch:
    keys = rng.integers(0, 256, 128).astype(np.uint32)
    return Launch([keys], {0: np.sort(keys)})


@ALGORITHMS.add(block=64)
def breadth_first(rng: np.random.Generator) -> Launch:
    nodes = 100
    edges = [sorted(set(rng.integers(0, nodes, rng.integers(0, 5)).tolist())) for _ in range(nodes)]
    row = np.cumsum([0, *map(len, edges)]).astype(np.int32)
    column = np.array([target for targets in edges for target in targets], np.int32)
    depth = [-1] * nodes
    depth[0], frontier = 0, [0]
    while frontier:
        reached = {target for node in frontier for target in edges[node] if depth[target] < 0}
        for target in reached:
            depth[target] = depth[frontier[0]] + 1
        frontier = list(reached)
    return Launch([np.zeros(nodes, np.int32), row, column, nodes], {0: np.array(depth, np.int32)})


@ALGORITHMS.add()
def life(rng: np.random.Generator) -> Launch:
    cells, steps = rng.integers(0, 2, (32, 32)), 6
    powers = 1 << np.arange(32, dtype=np.uint64)
    rows = (cells * powers).sum(axis=1).astype(np.uint32)
    for _ in range(steps):
        shifts = [(dy, dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1) if dy or dx]
        neighbours = sum(np.roll(cells, shift, (0, 1)) for shift in shifts)
        cells = ((neighbours == 3) | ((neighbours == 2) & (cells == 1))).astype(np.int64)
    return Launch([rows, steps], {0: (cells.astype(np.uint64) * powers).sum(axis=1).astype(np.uint32)})
