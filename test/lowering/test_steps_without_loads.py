# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loops whose products read only what is there before them, and each other's results: wgmma without a producer."""

import cuda.tile as ct
import numpy as np
import pytest

import libtile
from examples.signatures import array, scalar
from kernels.corpus import run_frontend
from kernels.model import EXACT, Kernel

Constant = ct.Constant[int]


@ct.kernel
def inverse(a, x, e, steps, n: Constant):
    """Newton's iteration for the inverse of a matrix, x' = 2 x - x a x, whose numbers are kept small."""
    m = ct.bid(0)
    left = ct.load(a, (m, 0, 0), (1, n, n)).reshape((n, n)).astype(ct.tfloat32)
    state = ct.load(x, (m, 0, 0), (1, n, n)).reshape((n, n))
    for _ in range(steps):
        narrow = state.astype(ct.tfloat32)
        s = ct.mma(left, narrow, ct.zeros((n, n), ct.float32))
        s = ct.minimum(ct.maximum(s, -2.0), 2.0)
        t = ct.mma(narrow, s.astype(ct.tfloat32), ct.zeros((n, n), ct.float32))
        state = ct.minimum(ct.maximum(2.0 * state - t, -2.0), 2.0)
    ct.store(e, (m, 0, 0), state.reshape((1, n, n)))


@ct.kernel
def inverses(a, x, e, steps, n: Constant):
    """As `inverse`, in f16, of one matrix after the other, and with another sum that its loop carries."""
    for m in range(ct.bid(0), ct.num_tiles(a, 0, (1, n, n)), ct.num_blocks(0)):
        left = ct.load(a, (m, 0, 0), (1, n, n)).reshape((n, n)).astype(ct.float16)
        state = ct.load(x, (m, 0, 0), (1, n, n)).reshape((n, n))
        total = ct.zeros((n, n), ct.float32)
        for _ in range(steps):
            narrow = state.astype(ct.float16)
            s = ct.mma(left, narrow, ct.zeros((n, n), ct.float32))
            s = ct.minimum(ct.maximum(s, -2.0), 2.0).astype(ct.float16)
            total = ct.mma(left, s, total)
            t = ct.mma(narrow, s, ct.zeros((n, n), ct.float32))
            state = ct.minimum(ct.maximum(2.0 * state - t, -2.0), 2.0)
        ct.store(e, (m, 0, 0), (state + total).reshape((1, n, n)))


def _wanted(name: str, a: np.ndarray, x: np.ndarray, steps: int) -> np.ndarray:
    state, total = x.astype(np.float64), np.zeros(x.shape)
    for _ in range(steps):
        s = np.clip(a @ state, -2, 2)
        total += a @ s
        state = np.clip(2 * state - state @ s, -2, 2)
    return state + total if name == "inverses" else state


def bytecode(name: str, n: int, gpu_name: str = "sm_90") -> bytes:
    given = [array(ct.float32, 3, multiple_of=16, shape_divisible_by=(1, 16, 16))] * 3
    kernel = Kernel(name, globals()[name], (*given, scalar(ct.int32), n), None, None, EXACT)
    return run_frontend(kernel, "13.3", gpu_name)


def run(name: str, n: int, steps: int, gpu_name: str = "sm_90", order: int = 0) -> None:
    """Run a kernel for three matrices of small integers in the simulator, with all checks, and compare with numpy."""
    rng = np.random.default_rng(steps)
    a, x = (rng.integers(-1, 2, (3, n, n)).astype(np.float32) for _ in range(2))
    e = np.full((3, n, n), 7, np.float32)
    args = [v for array_ in (a, x, e) for v in (array_, 3, n, n, n * n, n, 1)]
    libtile.run(
        bytecode(name, n, gpu_name), name, grid=(3 if name == "inverse" else 2, 1, 1), args=[*args, steps],
        backend="simulator", gpu_name=gpu_name, check="full", block_order=order,
    )  # fmt: skip
    np.testing.assert_array_equal(e, _wanted(name, a, x, steps))


@pytest.mark.parametrize(
    ("name", "n", "warps"),
    [("inverse", 64, 4), ("inverses", 64, 4), pytest.param("inverses", 128, 8, marks=pytest.mark.slow)],
)
def test_a_loop_that_loads_nothing_has_no_producer(name, n, warps):
    made = libtile.compile(bytecode(name, n), gpu_name="sm_90", launch_abi="simt", keep_text=True)
    assert "nv_tileas.dot " not in made.tileas and f"agent_warps = [{warps}]" in made.tileas
    assert made.kernels[name].spills == 0 and "(C75" not in made.log
    assert made.kernels[name].block_dim == (32 * warps, 1, 1)
    run(name, n, 2, order=1)


@pytest.mark.parametrize("steps", [0, 1])
def test_no_step_and_one_step(steps):
    run("inverses", 64, steps)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(("name", "n"), [("inverse", 64), ("inverses", 64), ("inverses", 128)])
def test_every_schedule(name, n, seed):
    run(name, n, 3, order=seed)


@pytest.mark.parametrize("gpu_name", ["sm_80", pytest.param("sm_100", marks=pytest.mark.slow)])
def test_other_targets_multiply_as_before(gpu_name):
    assert "mma.sync" in libtile.compile(bytecode("inverse", 64, gpu_name), gpu_name=gpu_name).ptx
