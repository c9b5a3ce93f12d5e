# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels of the real frontend, compiled and run in the PTX simulator, give the results that numpy gives."""

from __future__ import annotations

import numpy as np
import pytest

import libtile

pytest.importorskip("cuda.tile", reason="the cuTile frontend (cuda-tile) is not installed")

from kernels import corpus

pytestmark = pytest.mark.usefixtures("verified_passes")

RUNNABLE = [k for k in corpus.KERNELS.values() if k.problem is not None]

UNSUPPORTED: dict[str, str] = {}
"""Kernels that cannot be compiled yet, by name: what the error says."""


def check_kernel(kernel: corpus.Kernel, gpu_name: str, schedule: str = "", opt_level: int = 3) -> None:
    data = corpus.export(kernel, kernel.versions[-1])
    case = corpus.case(kernel, seed=1)
    before = corpus.snapshot(case.args)
    options = {"grid": case.grid, "args": case.args, "backend": "simulator", "gpu_name": gpu_name, "check": "full"}
    options |= {"schedule": schedule, "opt_level": opt_level}
    if kernel.name in UNSUPPORTED:
        with pytest.raises(libtile.LibtileError, match=UNSUPPORTED[kernel.name]):
            libtile.run(data, kernel.name, **options)
        return
    done = libtile.run(data, kernel.name, **options)
    corpus.check_case(case, before, case.args)
    assert done.bank_conflicts == 0


@pytest.mark.parametrize("kernel", RUNNABLE, ids=lambda k: k.name)
def test_a_compiled_kernel_gives_its_result(kernel):
    check_kernel(kernel, "sm_90")


@pytest.mark.slow
@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_100", "sm_120"])
@pytest.mark.parametrize("kernel", RUNNABLE, ids=lambda k: k.name)
def test_a_compiled_kernel_gives_its_result_on_other_targets(kernel, gpu_name):
    check_kernel(kernel, gpu_name)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gpu_name", "schedule"), [("sm_90", "serial"), ("sm_90", "pipelined"), ("sm_80", "specialized")]
)
@pytest.mark.parametrize("kernel", RUNNABLE, ids=lambda k: k.name)
def test_a_compiled_kernel_gives_its_result_in_other_schedules(kernel, gpu_name, schedule):
    check_kernel(kernel, gpu_name, schedule)


@pytest.mark.parametrize("kernel", RUNNABLE[::12], ids=lambda k: k.name)
def test_a_kernel_of_level_1_gives_its_result(kernel):
    """Where instructions without effects are placed by the compiler, and LLVM runs few passes."""
    check_kernel(kernel, "sm_90", "specialized", opt_level=1)


@pytest.mark.slow
@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize("kernel", RUNNABLE, ids=lambda k: k.name)
def test_every_kernel_of_level_1_gives_its_result(kernel, gpu_name):
    check_kernel(kernel, gpu_name, "specialized" if gpu_name != "sm_80" else "", opt_level=1)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", corpus.KERNELS.values(), ids=lambda k: k.name)
def test_ptxas_takes_every_kernel(kernel):
    if kernel.name in UNSUPPORTED:
        pytest.skip(f"cannot be compiled yet: {UNSUPPORTED[kernel.name]}")
    made = libtile.compile(corpus.export(kernel, kernel.versions[-1]), gpu_name="sm_80")
    assert made.cubin.startswith(b"\x7fELF")


def test_a_list_of_arrays_is_one_argument():
    kernel = corpus.KERNELS["array_list"]
    arrays = [np.arange(16, dtype=np.float32), np.full(10, 7, dtype=np.float32)]
    out = np.full((3, 16), -1, dtype=np.float32)
    args = [arrays, len(arrays), out, *out.shape, 16, 1]
    libtile.run(
        corpus.export(kernel, "13.3"), kernel.name, args=args, backend="simulator", gpu_name="sm_80", check="full"
    )
    np.testing.assert_array_equal(out[0], arrays[0])
    np.testing.assert_array_equal(out[1], np.pad(arrays[1], (0, 6)))
    assert (out[2] == -1).all()
