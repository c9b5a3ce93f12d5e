# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Steps whose operands the kernel's warps compute of tiles that no product reads as they are: TMA copies those to
stages, from which the warps read them."""

import cuda.tile as ct
import numpy as np
import pytest

import libtile
from examples.signatures import array
from kernels.broken_code import OneBlock
from kernels.corpus import run_frontend
from kernels.model import EXACT, Kernel

Constant = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO


@ct.kernel
def norms(a, b, e, s, n: Constant):
    """e = a b in tf32 of f16 and f32, and the squares of a's rows added up, of the same tiles."""
    row, column = ct.bid(0), ct.bid(1)
    total, squares = ct.zeros((64, n), ct.float32), ct.zeros((64,), ct.float32)
    for k in range(ct.num_tiles(a, 1, (64, 64))):
        left = ct.load(a, (row, k), (64, 64), padding_mode=ZERO)
        right = ct.load(b, (k, column), (64, n), padding_mode=ZERO)
        total = ct.mma(left.astype(ct.tfloat32), right.astype(ct.tfloat32), total)
        wide = left.astype(ct.float32)
        squares = squares + ct.sum(wide * wide, axis=1)
    ct.store(e, (row, column), total)
    ct.store(s, (row, column), squares.reshape((64, 1)))


@ct.kernel
def recurrence(a, b, e, s, n: Constant):
    """A state that each step reads, and adds to, by operands that are computed of f16 and f32."""
    column = ct.bid(1)
    state = ct.zeros((64, n), ct.float32)
    for k in range(ct.num_tiles(b, 0, (64, n))):
        left = ct.load(a, (0, k), (64, 64), padding_mode=ZERO).astype(ct.float32)
        right = ct.load(b, (k, column), (64, n), padding_mode=ZERO)
        o = ct.mma((left * 2.0).astype(ct.tfloat32), state.astype(ct.tfloat32), ct.zeros((64, n), ct.float32))
        o = ct.minimum(ct.maximum(o + right, -2.0), 2.0)
        ct.store(e, (k, column), o)
        state = ct.mma(ct.transpose(left).astype(ct.tfloat32), o.astype(ct.tfloat32), state * 0.5)
        state = ct.minimum(ct.maximum(state, -2.0), 2.0)
    ct.store(s, (0, column), ct.sum(state, axis=1).reshape((64, 1)))


def _norms(a: np.ndarray, b: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    return a @ b, np.repeat((a * a).sum(1, keepdims=True), -(-b.shape[1] // n), 1)


def _recurrence(a: np.ndarray, b: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    rows, columns = (-(-size // each) * each for size, each in zip(b.shape, (64, n)))
    left, right = np.zeros((64, rows)), np.zeros((rows, columns))
    left[:, : a.shape[1]], right[: b.shape[0], : b.shape[1]] = a, b
    state, found = np.zeros((64, columns)), np.zeros((rows, columns))
    for k in range(0, rows, 64):
        x = left[:, k : k + 64]
        o = found[k : k + 64] = np.clip(2 * x @ state + right[k : k + 64], -2, 2)
        state = np.clip(state * 0.5 + x.T @ o, -2, 2)
    return found[: b.shape[0], : b.shape[1]], state.reshape(64, -1, n).sum(2)


def bytecode(name: str, n: int, gpu_name: str = "sm_90") -> bytes:
    types = (ct.float16, ct.float32, ct.float32, ct.float32)
    given = [array(type_, 2, multiple_of=16, shape_divisible_by=(1, 1)) for type_ in types[:3]]
    sums = array(types[3], 2, multiple_of=1, shape_divisible_by=(1, 1))
    return run_frontend(Kernel(name, globals()[name], (*given, sums, n), None, None, EXACT), "13.3", gpu_name)


def arguments(name: str, n: int, columns: int, depth: int) -> tuple[list, tuple[np.ndarray, ...], tuple]:
    """A launch's arguments, its results among them, and what these are to be: of small integers, and halves."""
    rng = np.random.default_rng(depth)
    rows = 80 if name == "norms" else 64
    a = np.zeros((rows, -(-depth // 16) * 16), np.float16)
    a[:, :depth] = rng.integers(-1, 2, (rows, depth))
    b = rng.integers(-2, 3, (depth, columns)).astype(np.float32)
    made = (_norms if name == "norms" else _recurrence)(a[:, :depth].astype(np.float64), b.astype(np.float64), n)
    results = tuple(np.full(x.shape, 7, np.float32) for x in made)
    shapes = ((rows, depth), b.shape, results[0].shape, results[1].shape)
    given = zip((a, b, *results), shapes)
    return [v for x, shape in given for v in (x, *shape, x.shape[1], 1)], results, made


def run(name: str, n: int, columns: int, depth: int, order: int = 0) -> None:
    """Run a kernel in the simulator, with all checks, and compare with numpy."""
    args, results, wanted = arguments(name, n, columns, depth)
    grid = (2 if name == "norms" else 1, -(-columns // n), 1)
    libtile.run(
        bytecode(name, n), name, grid=grid, args=args, backend="simulator", gpu_name="sm_90", check="full",
        block_order=order,
    )  # fmt: skip
    for found, right in zip(results, wanted):
        np.testing.assert_array_equal(found, right)


CASES = [("norms", 32, 48, 144), ("recurrence", 64, 80, 176)]
"""Tiles' columns, those of all tiles, and how deep products are: no multiples of tiles."""


@pytest.mark.parametrize(("name", "n", "columns", "depth"), CASES)
def test_tiles_that_warps_compute_with_are_copied_by_tma(name, n, columns, depth):
    made = libtile.compile(bytecode(name, n), gpu_name="sm_90", launch_abi="simt", keep_text=True)
    assert "nv_tileas.dot " not in made.tileas and "agent_switch" in made.tileas
    assert made.ptx.count("cp.async.bulk.tensor") >= 2
    assert made.kernels[name].spills == 0 and "(C75" not in made.log
    run(name, n, columns, depth, order=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(("name", "n", "columns", "depth"), CASES)
def test_every_schedule(name, n, columns, depth, seed):
    run(name, n, columns, depth + 32 * (seed % 3), order=seed)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "n", "columns", "depth"), CASES)
def test_no_step_and_one_step(name, n, columns, depth):
    for deep in (0, 16) if name == "norms" else (16,):
        run(name, n, columns, deep)


@pytest.mark.parametrize("left_out", ["fence", "arrival"])
def test_what_is_left_out_of_a_step_is_found(left_out):
    name, n, columns, _ = CASES[1]
    given, _, _ = arguments(name, n, columns, 256)
    args = [np.int32(v) if isinstance(v, int) else v for v in given]
    OneBlock(bytecode(name, n), name, args, "sm_90").check_what_threads_write(left_out)
