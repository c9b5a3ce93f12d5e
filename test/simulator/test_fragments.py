# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""mma fragment maps against the formulas that the PTX ISA prints for each shape.

Each row spells out one "Matrix Fragments for ..." section: g is groupID = lane >> 2, t is threadID_in_group = lane % 4,
i the index of the element in the thread's fragment.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from libtile.simulator.fragments import a_positions, b_positions, c_positions, volta_positions

Place = Callable[[int, int, int], tuple[int, int]]

# (m, k, elements per register, elements per thread, (row, column) of element i)
A: list[tuple[str, int, int, int, int, Place]] = [
    ("m16n8k8 .f16", 16, 8, 2, 4, lambda g, t, i: (g if i < 2 else g + 8, t * 2 + (i & 1))),
    ("m16n8k16 .f16", 16, 16, 2, 8,
     lambda g, t, i: (g if 0 <= i < 2 or 4 <= i < 6 else g + 8, t * 2 + (i & 1) + (8 if i >= 4 else 0))),
    ("m16n8k4 .tf32", 16, 4, 1, 2, lambda g, t, i: (g if i == 0 else g + 8, t)),
    ("m16n8k8 .tf32", 16, 8, 1, 4, lambda g, t, i: (g if i in (0, 2) else g + 8, t if i < 2 else t + 4)),
    ("m8n8k4 .f64", 8, 4, 1, 1, lambda g, t, i: (g, t)),
    ("m16n8k4 .f64", 16, 4, 1, 2, lambda g, t, i: (g if i == 0 else g + 8, t)),
    ("m16n8k8 .f64", 16, 8, 1, 4, lambda g, t, i: (g if i in (0, 2) else g + 8, t if i in (0, 1) else t + 4)),
    ("m16n8k16 .f64", 16, 16, 1, 8,
     lambda g, t, i: (g if i % 2 == 0 else g + 8, i * 2 + t if i % 2 == 0 else i * 2 - 2 + t)),
    ("m8n8k16 .s8", 8, 16, 4, 4, lambda g, t, i: (g, t * 4 + i)),
    ("m16n8k16 .s8", 16, 16, 4, 8, lambda g, t, i: (g if i < 4 else g + 8, t * 4 + (i & 3))),
    ("m16n8k32 .s8 and 8-bit floats", 16, 32, 4, 16,
     lambda g, t, i: (g if 0 <= i < 4 or 8 <= i < 12 else g + 8, t * 4 + (i & 3) + (16 if i >= 8 else 0))),
    ("m8n8k32 .s4", 8, 32, 8, 8, lambda g, t, i: (g, t * 8 + i)),
    ("m16n8k32 .s4", 16, 32, 8, 16, lambda g, t, i: (g if i < 8 else g + 8, t * 8 + (i & 7))),
    ("m16n8k64 .s4 and .e2m1", 16, 64, 8, 32,
     lambda g, t, i: (g if 0 <= i < 8 or 16 <= i < 24 else g + 8, t * 8 + (i & 7) + (32 if i >= 16 else 0))),
    ("m8n8k128 .b1", 8, 128, 32, 32, lambda g, t, i: (g, t * 32 + i)),
    ("m16n8k128 .b1", 16, 128, 32, 64, lambda g, t, i: (g if i < 32 else g + 8, t * 32 + (i & 31))),
    ("m16n8k256 .b1", 16, 256, 32, 128,
     lambda g, t, i: (g if 0 <= i < 32 or 64 <= i < 96 else g + 8, t * 32 + (i & 31) + (128 if i >= 64 else 0))),
]  # fmt: skip

# (k, elements per register, elements per thread, (row, column) of element i)
B: list[tuple[str, int, int, int, Place]] = [
    ("m16n8k8 .f16", 8, 2, 2, lambda g, t, i: (t * 2 + i, g)),
    ("m16n8k16 .f16", 16, 2, 4, lambda g, t, i: (t * 2 + (i & 1) + (8 if i >= 2 else 0), g)),
    ("m16n8k4 .tf32", 4, 1, 1, lambda g, t, i: (t, g)),
    ("m16n8k8 .tf32", 8, 1, 2, lambda g, t, i: (t if i == 0 else t + 4, g)),
    ("m8n8k4 .f64", 4, 1, 1, lambda g, t, i: (t, g)),
    ("m16n8k8 .f64", 8, 1, 2, lambda g, t, i: (t if i == 0 else t + 4, g)),
    ("m16n8k16 .f64", 16, 1, 4, lambda g, t, i: (t + i * 4, g)),
    ("m16n8k16 .s8", 16, 4, 4, lambda g, t, i: (t * 4 + i, g)),
    ("m16n8k32 .s8", 32, 4, 8, lambda g, t, i: (t * 4 + (i & 3) + (16 if i >= 4 else 0), g)),
    ("m16n8k32 .s4", 32, 8, 8, lambda g, t, i: (t * 8 + (i & 7), g)),
    ("m16n8k64 .s4", 64, 8, 16, lambda g, t, i: (t * 8 + (i & 7) + (32 if i >= 8 else 0), g)),
    ("m16n8k128 .b1", 128, 32, 32, lambda g, t, i: (t * 32 + i, g)),
    ("m16n8k256 .b1", 256, 32, 64, lambda g, t, i: (t * 32 + (i & 31) + (128 if i >= 32 else 0), g)),
]


def check(positions: tuple[np.ndarray, np.ndarray], count: int, place: Place) -> None:
    rows, columns = positions
    assert rows.shape == (32, count)
    for lane in range(32):
        for i in range(count):
            assert (rows[lane, i], columns[lane, i]) == place(lane >> 2, lane % 4, i), (lane, i)


@pytest.mark.parametrize(("name", "m", "k", "per", "count", "place"), A, ids=[row[0] for row in A])
def test_a_fragment_is_where_the_isa_puts_it(name: str, m: int, k: int, per: int, count: int, place: Place) -> None:
    check(a_positions(m, k, per), count, place)


@pytest.mark.parametrize(("name", "k", "per", "count", "place"), B, ids=[row[0] for row in B])
def test_b_fragment_is_where_the_isa_puts_it(name: str, k: int, per: int, count: int, place: Place) -> None:
    check(b_positions(k, 8, per), count, place)


def test_accumulator_is_where_the_isa_puts_it() -> None:
    check(c_positions(16, 8), 4, lambda g, t, i: (g if i < 2 else g + 8, t * 2 + (i & 1)))
    check(c_positions(8, 8), 2, lambda g, t, i: (g, t * 2 + (i & 1)))


@pytest.mark.parametrize(
    ("operand", "place"),
    [
        ("A row", lambda lane, i: (lane % 4 + (0 if lane < 16 else 4), i)),
        ("A col", lambda lane, i: (i % 4 + (0 if lane < 16 else 4), lane % 4)),
        ("B row", lambda lane, i: (lane % 4, i + (0 if lane < 16 else 4))),
        ("B col", lambda lane, i: (i, lane % 4 + (0 if lane < 16 else 4))),
        ("C f16", lambda lane, i: (lane % 4 + (0 if lane < 16 else 4), i)),
        ("C f32", lambda lane, i: ((lane & 1) + (i & 2) + (0 if lane < 16 else 4), (i & 4) + (lane & 2) + (i & 1))),
    ],
)
def test_m8n8k4_of_f16_has_its_own_maps(operand: str, place: Callable[[int, int], tuple[int, int]]) -> None:
    pair, rows, columns = volta_positions(operand)
    for lane in range(32):
        # MMA computation 1 is done by threads 0-3 and 16-19, 2 by 4-7 and 20-23, and so on.
        assert set(pair[lane].tolist()) == {lane % 16 // 4}
        for i in range(rows.shape[1]):
            assert (rows[lane, i], columns[lane, i]) == place(lane, i)
