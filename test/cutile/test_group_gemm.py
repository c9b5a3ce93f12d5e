# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products of matrices whose addresses and sizes are read from memory: warps that copy them find their way alone."""

import numpy as np
import pytest

from cutile.models import products
from cutile.models.problems import FULL, PROBLEMS, SMALL
from cutile.test_models import check
from examples.export import portable_file_names
from libtile import cutile
from libtile.compiler import driver
from libtile.compiler.options import Options

TARGETS = ("sm_90", "sm_100", "sm_120")


@pytest.fixture(autouse=True)
def _portable():
    with portable_file_names():
        yield


@pytest.mark.parametrize(
    ("target", "name", "warps"),
    [("sm_90", "wgmma", 4 + 4), ("sm_100", "tcgen05.mma", 4 + 1 + 4), ("sm_120", "mma.sync.aligned", 4 + 4)],
)
def test_agents_multiply_what_lists_of_matrices_hold(target, name, warps):
    """Warps that multiply, and those that copy; no thread that copies by TMA, which nothing is."""
    problem = PROBLEMS["group_gemm"](FULL)
    code = cutile.bytecode_for(problem.kernel, problem.args, gpu_name=target)[0]
    made = driver.compile_bytecode(code, Options(target))
    (kernel,) = made.kernels.values()
    assert kernel.spills == 0 and name in made.ptx
    assert ("mma.sync" in made.ptx) == (target == "sm_120")
    assert kernel.block_dim[0] == 32 * warps
    assert "cp.async.cg.shared.global" in made.ptx  # 16 bytes, also where a matrix may end in them


def groups(sizes, tiles, blocks, target, order=None, turned=False):
    """Matrices that are parts of wider ones, so that their rows end anywhere; the second ones lie n by k if turned."""
    rng = np.random.default_rng(0)

    def part(rows, columns):
        whole = rng.standard_normal((rows, columns + -columns % 8 + 8)).astype(np.float16)
        return whole[:, :columns]

    a, b = [part(m, k) for m, _, k in sizes], [part(*((n, k) if turned else (k, n))) for _, n, k in sizes]
    c = [np.full((m, n + -n % 8), 7, np.float16)[:, :n] for m, n, _ in sizes]
    kernel = products.group_gemm_nk if turned else products.group_gemm
    cutile.launch(kernel, (blocks,), (a, b, c, *tiles, blocks), backend="simulator", gpu_name=target,
                  block_order=order)  # fmt: skip
    for x, y, z in zip(a, [y.T for y in b] if turned else b, c):
        np.testing.assert_allclose(z, x.astype(np.float32) @ y.astype(np.float32), atol=0.05)


@pytest.mark.parametrize("target", TARGETS)
def test_matrices_end_anywhere(target):
    """Within what one copy moves; a group without tiles, and one without steps; a block that has no tile at all."""
    groups([(65, 77, 37), (0, 64, 32), (64, 13, 0)], (64, 64, 32), 6, target)


@pytest.mark.parametrize(("target", "name"), [("sm_90", "wgmma"), ("sm_100", "tcgen05.mma"), ("sm_120", None)])
def test_matrices_that_lie_along_k_are_copied_as_they_are(target, name):
    """A tile that is permuted behind its load is loaded through a view with dimensions exchanged: no TMA does that for
    views that are made in the loop over groups, and threads that copy never have it."""
    problem = PROBLEMS["group_gemm"](SMALL)
    args = (problem.args[0], [np.ascontiguousarray(b.T) for b in problem.args[1]], *problem.args[2:3], 64, 64, 32, 4)
    code = cutile.bytecode_for(products.group_gemm_nk, args, gpu_name=target)[0]
    made = driver.compile_bytecode(code, Options(target))
    assert ("mma.sync.aligned" in made.ptx) == (name is None) and "cp.async.cg.shared.global" in made.ptx
    assert name is None or name in made.ptx
    assert "mbarrier" in made.ptx  # of a producer


def test_matrices_that_lie_along_k_end_anywhere():
    groups([(65, 13, 37), (64, 8, 0)], (64, 64, 32), 3, "sm_100", turned=True)


def test_parts_of_steps_are_of_the_matrices_that_the_producer_found():
    """Two stages of 64 KB do not fit: threads copy halves of a step, through views made in the loop over matrices."""
    groups([(70, 77, 150), (24, 136, 20)], (128, 128, 128), 2, "sm_120", order=3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("target", TARGETS)
def test_groups_in_every_schedule(target, seed):
    if seed % 2:
        check("group_gemm", SMALL, backend="simulator", gpu_name=target, block_order=seed)
    else:
        groups([(100, 70, 333), (0, 8, 8), (130, 130, 41)], (64, 64, 32), 1 + seed % 3, target, seed, seed % 4 == 2)
