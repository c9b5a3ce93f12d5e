# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rows of numbers beside products of agents: threads read what they need of them, ahead of the products."""

import re
from itertools import pairwise

import cuda.tile as ct
import numpy as np
import pytest

import libtile
from examples.signatures import array
from kernels.corpus import run_frontend
from kernels.model import EXACT, Kernel

Constant = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO
KEYS, DEPTH = 128, 64
ROW = (1, 16)


@ct.kernel
def weighted(k, q, g, less, out, tm: Constant, tn: Constant, depth: Constant):
    """What attention's gradients are made of: keys by queries, numbers of queries less, and by gradients."""
    keys = ct.load(k, (0, 0), (tn, depth), padding_mode=ZERO)
    total = ct.zeros((tn, depth), ct.float32)
    for step in range(ct.num_tiles(q, 0, (tm, depth))):
        queries = ct.load(q, (0, step), (depth, tm), order=(1, 0), padding_mode=ZERO)
        score = ct.mma(keys, queries, ct.zeros((tn, tm), ct.float32))
        score = score - ct.load(less, (0, step), (1, tm), padding_mode=ZERO)
        rows = ct.load(g, (step, 0), (tm, depth), padding_mode=ZERO)
        total = ct.mma(score.astype(ct.float16), rows, total)
    ct.store(out, (0, 0), total)


@ct.kernel
def twice(k, q, g, less, out, tm: Constant, tn: Constant, depth: Constant):
    """The same, and scores by two by queries as well."""
    keys = ct.load(k, (0, 0), (tn, depth), padding_mode=ZERO)
    total, other = ct.zeros((tn, depth), ct.float32), ct.zeros((tn, depth), ct.float32)
    for step in range(ct.num_tiles(q, 0, (tm, depth))):
        queries = ct.load(q, (0, step), (depth, tm), order=(1, 0), padding_mode=ZERO)
        score = ct.mma(keys, queries, ct.zeros((tn, tm), ct.float32))
        score = score - ct.load(less, (0, step), (1, tm), padding_mode=ZERO)
        rows = ct.load(g, (step, 0), (tm, depth), padding_mode=ZERO)
        total = ct.mma(score.astype(ct.float16), rows, total)
        again = ct.load(q, (step, 0), (tm, depth), padding_mode=ZERO)
        other = ct.mma((score * 2.0).astype(ct.float16), again, other)
    ct.store(out, (0, 0), total + other)


KERNELS = {"weighted": (weighted, 0), "twice": (twice, 2)}
"""By name: the function, and by how much scores are multiplied before they are multiplied by queries."""


def bytecode(queries: int, name: str = "weighted") -> bytes:
    half, single = (array(t, 2, multiple_of=16, shape_divisible_by=ROW) for t in (ct.float16, ct.float32))
    given = (half, half, half, single, single, queries, KEYS, DEPTH)
    return run_frontend(Kernel(name, KERNELS[name][0], given, None, None, EXACT), "13.3", "sm_90")


def run(queries: int, rows: int, order: int | None, name: str = "weighted") -> None:
    rng = np.random.default_rng(rows)
    k, q, g = (rng.integers(-1, 2, (n, DEPTH)).astype(np.float16) for n in (KEYS, rows, rows))
    less = rng.integers(-8, 9, (1, rows)).astype(np.float32)
    out = np.full((KEYS, DEPTH), 7, np.float32)
    args = [v for x in (k, q, g, less, out) for v in (x, *x.shape, x.shape[1], 1)]
    libtile.run(
        bytecode(queries, name), name, grid=(1, 1, 1), args=args, backend="simulator", gpu_name="sm_90", check="full",
        block_order=order,
    )  # fmt: skip
    scores = k.astype(np.float64) @ q.T - less
    np.testing.assert_array_equal(out, scores @ g + KERNELS[name][1] * scores @ q)


@pytest.mark.parametrize(("queries", "reads"), [(32, 4), (64, 8)])
def test_each_thread_reads_the_numbers_that_it_needs(queries, reads):
    ptx = libtile.compile(bytecode(queries), gpu_name="sm_90", launch_abi="simt", emit="ptx").ptx
    assert len(re.findall(r"ld\.global\.v2\.b32", ptx)) == 2 * reads  # in the first turn, and in those behind it
    assert "ld.shared" not in ptx and ptx.count("bar.sync \t1,") == 2  # both for the result


def test_loads_stand_in_front_of_products():
    ptx = libtile.compile(bytecode(64), gpu_name="sm_90", launch_abi="simt", emit="ptx").ptx
    order = re.findall(r"ld\.global|wgmma\.\w+", ptx)
    behind = [after for op, after in pairwise(order) if op == "ld.global" != after]
    assert behind == ["wgmma.fence"] * 2  # of the first turn, and of those behind it


@pytest.mark.parametrize(("name", "held"), [("weighted", 0), ("twice", 2)])
def test_what_is_computed_under_several_products_is_computed_before_the_wait_for_them(name, held):
    made = libtile.compile(bytecode(64, name), gpu_name="sm_90", launch_abi="simt", keep_text=True)
    assert (
        made.ptx.count("%clock") == len(re.findall(r"wait_dot .*\bheld\b", made.tileas)) == held
    )  # two: of the first turn, and of those behind it
    assert made.kernels[name].spills == 0 and "(C75" not in made.log
    assert libtile.compile(bytecode(32, name), gpu_name="sm_90", launch_abi="simt").kernels[name].spills == 0


def test_a_held_wait_changes_no_result():
    run(64, 112, order=2, name="twice")


def test_more_numbers_than_a_thread_reads_by_itself_are_exchanged():
    ptx = libtile.compile(bytecode(128), gpu_name="sm_90", launch_abi="simt", emit="ptx").ptx
    assert "ld.global.v2" not in ptx and "ld.shared" in ptx


@pytest.mark.parametrize(("queries", "rows"), [(32, 80), (64, 208)])
def test_what_threads_read_is_right(queries, rows):
    run(queries, rows, order=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_what_threads_read_is_right_in_every_schedule(seed):
    run(64, 16 + 48 * (seed % 5), order=seed)
