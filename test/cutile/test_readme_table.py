# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""README.md's table of what has agents, held against what kernels become. `python -m pytest -m slow` runs it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import cuda.tile as ct
import numpy as np
import pytest

import libtile
from cutile.models.problems import FULL, PROBLEMS
from libtile import cutile

README = Path(__file__).resolve().parents[2] / "README.md"
Size = ct.Constant[int]
TARGETS = ("sm_90", "sm_100", "sm_120")


@ct.kernel
def persistent(A, B, C, tm: Size, tn: Size, tk: Size):
    for tile in range(ct.bid(0), 16, ct.num_blocks(0)):
        i, j = tile // 4, tile % 4
        total = ct.zeros((tm, tn), ct.float32)
        for k in range(ct.num_tiles(A, 1, (tm, tk))):
            total = ct.mma(ct.load(A, (i, k), (tm, tk)), ct.load(B, (k, j), (tk, tn)), total)
        ct.store(C, (i, j), ct.astype(total, C.dtype))


@ct.kernel
def branch(A, B, C, tm: Size, tn: Size, tk: Size):
    i, j = ct.bid(0), ct.bid(1)
    if i <= j:
        total = ct.zeros((tm, tn), ct.float32)
        for k in range(ct.num_tiles(A, 1, (tm, tk))):
            total = ct.mma(ct.load(A, (i, k), (tm, tk)), ct.load(B, (k, j), (tk, tn)), total)
        ct.store(C, (i, j), ct.astype(total, C.dtype))


@ct.kernel
def two_loops(A, B, C, tm: Size, tn: Size, tk: Size):
    i, j = ct.bid(0), ct.bid(1)
    x, y = ct.zeros((tm, tn), ct.float32), ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(A, 1, (tm, tk))):
        x = ct.mma(ct.load(A, (i, k), (tm, tk)), ct.load(B, (k, j), (tk, tn)), x)
    for k in range(ct.num_tiles(A, 1, (tm, tk))):
        y = ct.mma(ct.load(A, (k, i), (tm, tk)), ct.load(B, (k, j), (tk, tn)), y)
    ct.store(C, (i, j), ct.astype(x * y, C.dtype))


@ct.kernel
def no_loop(A, B, C, tm: Size, tn: Size, tk: Size):
    i, j = ct.bid(0), ct.bid(1)
    left, right = ct.load(A, (i, 0), (tm, tk)), ct.load(B, (0, j), (tk, tn))
    ct.store(C, (i, j), ct.astype(ct.mma(left, right, ct.zeros((tm, tn), ct.float32)), C.dtype))


@ct.kernel
def both_gathered(A, B, C, tm: Size, tn: Size, tk: Size):
    i, j = ct.bid(0), ct.bid(1)
    rows, columns = (ct.arange(tm, dtype=ct.int32) + i) * 3 % 512, (ct.arange(tn, dtype=ct.int32) + j) * 5 % 512
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(8):
        depth = k * tk + ct.arange(tk, dtype=ct.int32)
        left, right = ct.gather(A, (rows[:, None], depth[None, :])), ct.gather(B, (depth[:, None], columns[None, :]))
        total = ct.mma(left, right, total)
    ct.store(C, (i, j), ct.astype(total, C.dtype))


def launch_of(name: str, tile: tuple[int, int, int] = (128, 128, 64)) -> tuple[Any, tuple[Any, ...]]:
    """A kernel of this file or of the models, and its arguments."""
    if name in PROBLEMS:
        problem = PROBLEMS[name](FULL)
        return problem.kernel, problem.args
    return globals()[name], (*(np.zeros((512, 512), np.float16) for _ in range(3)), *tile)


def has_agents(kernel: Any, args: tuple[Any, ...], gpu_name: str) -> bool:
    data, _ = cutile.bytecode_for(kernel, args, gpu_name=gpu_name)
    return "agent_switch" in libtile.compile(data, gpu_name, emit="tileas").tileas


ROWS: dict[str, list[Any]] = {
    "of a loop, one or several": [("persistent",), ("splitk",), ("swiglu",), ("batched3",)],
    "that feed one another, as": [("causal_prefill",), ("capped_window",)],
    "of what the loop computes": [("w8a16",), ("block_fp8",)],
    "of rows that are gathered": [("moe_gather",)],
    "of loops in branches": [("branch",), ("group_gemm",)],
    "of loops one after the other": [("two_loops",)],
    "of attention over sequences that lie": [("ragged_prefill",), ("paged",), ("decode_split",)],
    "that do not feed one another": [("persistent", (32, 32, 32))],
}
"""Kernels of a row, by how it begins."""


@pytest.mark.slow
@pytest.mark.parametrize("begin", ROWS)
def test_a_row_says_what_kernels_become(begin: str) -> None:
    (row,) = re.findall(rf"^\| {begin}.*\|$", README.read_text(encoding="utf-8"), re.MULTILINE)
    said = [cell.strip().startswith("✓") for cell in row.strip("|").split("|")[1:]]
    for kernel in ROWS[begin]:
        assert [has_agents(*launch_of(*kernel), gpu) for gpu in TARGETS] == said, kernel


@pytest.mark.slow
def test_what_has_none() -> None:
    assert [has_agents(*launch_of("both_gathered"), gpu) for gpu in TARGETS] == [False, False, False]
    assert [has_agents(*launch_of("no_loop"), gpu) for gpu in TARGETS] == [False, True, False], "one alone"
