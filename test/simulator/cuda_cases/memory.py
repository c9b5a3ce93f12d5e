# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loads, stores and address spaces, against the same moves done in numpy or in `struct`."""

from __future__ import annotations

import struct

import numpy as np

from .table import Family, Launch, Source, per_lane, slots

MEMORY = Family(Source("memory"))


def bits(rng: np.random.Generator, shape: tuple[int, ...] | int, dtype: type) -> np.ndarray:
    """Uniform integers over all of `dtype`."""
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)


@MEMORY.add(block=64)
def vector_copy(rng: np.random.Generator) -> Launch:
    f, d = rng.normal(size=(64, 4)).astype(np.float32), rng.normal(size=(64, 2))
    j, c, s, u = (bits(rng, (64, n), t) for n, t in ((2, np.int32), (4, np.uint8), (2, np.int16), (2, np.uint64)))
    moved = [f[:, ::-1], j[:, ::-1], c[:, [1, 0, 3, 2]], s[:, ::-1], d[:, ::-1], u[:, ::-1]]
    args = [array for source in (f, j, c, s, d, u) for array in (np.zeros_like(source), source)]
    return Launch(args, {2 * k: np.ascontiguousarray(want) for k, want in enumerate(moved)})


@MEMORY.add(block=96)
def narrow_types(rng: np.random.Generator) -> Launch:
    a, b, c, d = (bits(rng, 96, t) for t in (np.int8, np.uint8, np.int16, np.uint16))
    e, f = np.zeros(96, np.int8), np.zeros(96, np.uint16)
    want_e = per_lane(lambda x: [x * 3], [a], np.int8)
    want_f = per_lane(lambda x: [x + 40000], [d], np.uint16)
    return Launch(
        [np.zeros(4 * 96, np.int32), a, b, c, d, e, f], {0: slots([a, b, c, d], np.int32), 5: want_e, 6: want_f}
    )


@MEMORY.add(block=64)
def cache_operators(rng: np.random.Generator) -> Launch:
    a = bits(rng, 64, np.uint32)
    a[0] = 0xFFFFFFFF
    return Launch(
        [np.zeros(12 * 64, np.uint32), np.zeros(8 * 64, np.uint32), a],
        {0: np.tile(a, 12), 1: np.tile(a + np.uint32(1), 8)},
    )


@MEMORY.add()
def constant_memory(rng: np.random.Generator) -> Launch:
    table = [0.5, 1.5, -2.5, 3.25, 4.0, -5.0, 6.75, 7.0]
    shorts = [-1, 300, -300, 7]
    named = [(3, 0.25, 0), (-4, -8.5, 2)]
    rows = [[table[i & 7], 3.25, sum(named[i & 1][:2]), shorts[named[i & 1][2] + (i >> 1 & 1)]] for i in range(32)]
    return Launch([np.zeros(4 * 32)], {0: np.array(rows, np.float64).T.copy()})


@MEMORY.add(block=64)
def module_globals(rng: np.random.Generator) -> Launch:
    lane = np.arange(64, dtype=np.uint64)
    module_bytes = np.array([1, 2, 3, 250, 255])
    expected = slots(
        [
            np.full(64, 0xDEADBEEF), np.zeros(64), module_bytes[np.arange(64) % 5],
            np.roll(lane * np.uint64(0x100000001), -1), np.full(64, 42),
        ],
        np.uint64,
    )  # fmt: skip
    return Launch([np.zeros(5 * 64, np.uint64)], {0: expected})


@MEMORY.add()
def struct_by_value(rng: np.random.Generator) -> Launch:
    scale, shift = 1.25, (0.5, -3.0, 8.0)
    bias, weights, key = (-7, 1000, -32768), (2.5, -0.125), 0x123456789ABCDEF0
    packet = struct.pack("<b3xf3h2xQ2d", -9, scale, *bias, key, *weights)
    rows = [[-9, scale * shift[1], bias[i % 3], key >> 32, weights[i & 1] + shift[0] - shift[2]] for i in range(32)]
    expected = np.array(rows, np.float64).T.copy()
    return Launch([np.zeros(5 * 32), packet, struct.pack("<3f", *shift)], {0: expected})


@MEMORY.add(block=64)
def local_array(rng: np.random.Generator) -> Launch:
    a = bits(rng, 64, np.uint32)

    def formula(x: int) -> list[int]:
        box = [(x + k * k) & 0xFFFFFFFF for k in range(16)]
        value = 0
        for k in range(16):
            at = (x + k * 7) & 15
            value = (value * 31 + box[at]) & 0xFFFFFFFF
            box[at] ^= value
        return [value, box[x & 15]]

    return Launch([np.zeros(2 * 64, np.uint32), a], {0: per_lane(formula, [a], np.uint32)})


@MEMORY.add(block=64)
def generic_pointers(rng: np.random.Generator) -> Launch:
    a = bits(rng, 64, np.uint32)
    rows = [[i + 7 * (1 - i % 2), 5 + 7 * (i % 2), 100 + i, 0b100111, 100 + i, 100 + i] for i in range(64)]
    expected = np.array(rows, np.uint32).T.copy()
    return Launch([np.zeros(6 * 64, np.uint32), a], {0: expected, 1: a + np.uint32(3)})


@MEMORY.add()
def unaligned_copy(rng: np.random.Generator) -> Launch:
    source = bits(rng, 200, np.uint8)
    out = np.zeros(260, np.uint8)
    want = bytearray(260)
    for i in range(32):
        word = int.from_bytes(source[i * 5 + 1 : i * 5 + 5].tobytes(), "little") * 2654435761 & 0xFFFFFFFF
        want[i * 7 + 3 : i * 7 + 7] = word.to_bytes(4, "little")
        want[i * 7 + 7 : i * 7 + 10] = bytes([i] * 3)
    return Launch([out, source], {0: np.frombuffer(bytes(want), np.uint8)})


@MEMORY.add()
def struct_copy(rng: np.random.Generator) -> Launch:
    layout = np.dtype({"names": ["a", "b", "c", "d"], "formats": ["<u8", "<u8", "<u8", "u1"], "itemsize": 32})
    source = np.zeros(32, layout)
    for name in "abc":
        source[name] = bits(rng, 32, np.uint64)
    source["d"] = bits(rng, 32, np.uint8)
    order = rng.permutation(32).astype(np.uint32)
    want = source[order]
    want["a"] += want["d"]
    want["d"] = ~want["d"]

    def check(got: np.ndarray) -> str | None:
        records = got.view(layout)  # padding bytes may hold anything
        wrong = [name for name in "abcd" if not np.array_equal(records[name], want[name])]
        return f"members {wrong} differ" if wrong else None

    return Launch([np.zeros(32 * 32, np.uint8), source.view(np.uint8), order], {0: check})


@MEMORY.add()
def shared_vectors(rng: np.random.Generator) -> Launch:
    source = bits(rng, (32, 4), np.uint32)
    flipped = source[::-1]
    pairs = source.reshape(64, 2)[(np.arange(32) * 2 + 3) & 63]
    stamped = source.copy()
    stamped.view(np.uint16)[:, 1] = np.arange(32)
    expected = slots(
        [
            flipped[:, 0] + flipped[:, 3], pairs[:, 0] ^ pairs[:, 1], source.view(np.uint16)[:, 5],
            source.view(np.uint8)[:, 9], np.roll(stamped[:, 0], -5),
        ],
        np.uint32,
    )  # fmt: skip
    return Launch([np.zeros(5 * 32, np.uint32), source], {0: expected})


@MEMORY.add()
def pack_unpack(rng: np.random.Generator) -> Launch:
    a = bits(rng, 32, np.uint32)

    def formula(x: int) -> list[int]:
        packed = (x ^ 0xFFFF) << 32 | x
        bumped = packed + 1
        swapped = (x & 0xFFFF) << 16 | x >> 16
        return [packed, (bumped & 0xFFFFFFFF) << 32 | bumped >> 32, swapped, swapped]

    return Launch([np.zeros(4 * 32, np.uint64), a], {0: per_lane(formula, [a], np.uint64)})


@MEMORY.add(block=64)
def device_heap(rng: np.random.Generator) -> Launch:
    want = []
    for i in range(64):
        value = 17
        for k in range(i & 7, -1, -1):
            value = (value * 31 + i * 10 + k) & 0xFFFFFFFF
        want.append((value + i + ((i + 1) & 3)) & 0xFFFFFFFF)
    return Launch([np.zeros(64, np.uint32)], {0: np.array(want, np.uint32)})


@MEMORY.add()
def parameter_address(rng: np.random.Generator) -> Launch:
    rows = rng.integers(-50, 50, (4, 4)).astype(np.float32)
    order = rng.integers(-10, 10, 6).astype(np.int32)
    table = rows.tobytes() + order.tobytes() + bytes(8)  # the size is a multiple of float4's alignment
    v, c, s = (1.5, -2.0, 3.25, 9.0), (200, 3, 50), (-30000, 1234)
    lanes = [[rows[i & 3][0] + rows[i & 3][3] * order[i % 6], 6.25, 350.0, -31234.0] for i in range(32)]
    args = [np.zeros(4 * 32, np.float32), table, struct.pack("<4f", *v), bytes(c), struct.pack("<2h", *s)]
    return Launch(args, {0: np.array(lanes, np.float32).T.copy()})


@MEMORY.add()
def stack_allocation(rng: np.random.Generator) -> Launch:
    def formula(lane: int) -> list[int]:
        total = 0
        for k in range(9 + (lane & 3) - 1, -1, -1):
            total = total * 3 + k * lane
        return [total]

    return Launch([np.zeros(32, np.uint32), 9], {0: per_lane(formula, [np.arange(32)], np.uint32)})
