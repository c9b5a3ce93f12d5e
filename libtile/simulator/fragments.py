# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where the elements of mma operands live (PTX ISA, "Matrix Fragments for mma.m16n8k16" and its sisters).

All shapes but the oldest follow one rule. With g = lane / 4, t = lane % 4 and E elements per register of 32 bits (one
for 64-bit elements):
  A  register r, element e: row g + 8 (r % 2), column E t + e + 4 E (r / 2)       (m8 shapes have only row g)
  B  register r, element e: row E t + e + 4 E r, column g
  C  element i:             row g + 8 (i / 2), column 2 t + i % 2
"""

from __future__ import annotations

from functools import cache

import numpy as np

_LANE = np.arange(32)
_G, _T = _LANE // 4, _LANE % 4


@cache
def a_positions(m: int, k: int, per_register: int) -> tuple[np.ndarray, np.ndarray]:
    """(rows, columns) of A's elements, each [32, elements per lane]."""
    count = m * k // 32
    i = np.arange(count)
    r, e = i // per_register, i % per_register
    tall = m == 16
    row = _G[:, None] + (8 * (r % 2) if tall else 0 * r)[None, :]
    column = per_register * _T[:, None] + e + 4 * per_register * ((r // 2) if tall else r)
    return row, column


@cache
def b_positions(k: int, n: int, per_register: int) -> tuple[np.ndarray, np.ndarray]:
    """(rows, columns) of B's elements, each [32, elements per lane]."""
    count = k * n // 32
    i = np.arange(count)
    r, e = i // per_register, i % per_register
    row = per_register * _T[:, None] + e + 4 * per_register * r
    return row, np.broadcast_to(_G[:, None], row.shape)


@cache
def c_positions(m: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """(rows, columns) of the elements of C and D, each [32, elements per lane]."""
    i = np.arange(m * n // 32)
    return _G[:, None] + 8 * (i // 2)[None, :], 2 * _T[:, None] + (i % 2)[None, :]


@cache
def gather_index(rows_columns: str, *shape: int) -> np.ndarray:
    """Index into a warp's [32 * elements] fragment for each matrix element: "A", m, k, E or "B", k, n, E or
    "C", m, n.
    """
    positions = {"A": a_positions, "B": b_positions, "C": c_positions}[rows_columns](*shape)
    row, column = positions
    out = np.full(shape[:2], -1, dtype=np.int64)
    out[row, column] = np.arange(row.size).reshape(row.shape)
    return out


# -- m8n8k4 of f16: four quad pairs, each with matrices of its own


@cache
def volta_positions(operand: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(quad pair, rows, columns) for m8n8k4: operand is "A row", "A col", "B row", "B col", "C f16" or "C f32"."""
    high = (_LANE >= 16)[:, None]
    pair = np.broadcast_to(((_LANE % 16) // 4)[:, None], (32, 8 if operand[0] == "C" else 4))
    i = np.arange(pair.shape[1])[None, :]
    low = (_LANE % 4)[:, None]
    half = np.where(high, 4, 0)
    if operand in ("A row", "B col"):
        outer, inner = low + half, i + 0 * low
        row, column = (outer, inner) if operand[0] == "A" else (inner, outer)
    elif operand in ("A col", "B row"):
        outer, inner = i + half, low + 0 * i
        row, column = (outer, inner) if operand[0] == "A" else (inner, outer)
    elif operand == "C f16":
        row, column = low + half + 0 * i, i + 0 * low
    else:
        lane = _LANE[:, None]
        row = (lane & 1) + (i & 2) + half
        column = (i & 4) + (lane & 2) + (i & 1)
    return pair, np.broadcast_to(row, pair.shape), np.broadcast_to(column, pair.shape)
