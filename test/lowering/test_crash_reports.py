# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs that public reports say the reference assembler fails on are compiled, and give their results."""

from __future__ import annotations

import pytest

import libtile

pytest.importorskip("cuda.tile", reason="the cuTile frontend (cuda-tile) is not installed")

from kernels import corpus, crash_reports
from kernels.model import Kernel

KERNELS = [pytest.param(k, id=f"{name}-{crash_reports.REPORTS[name]}") for name, k in crash_reports.KERNELS.items()]
TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120")
LEVELS = (0, 1, 2, 3)


def exported(kernel: Kernel) -> bytes:
    return corpus.run_frontend(kernel, "13.4", kernel.gpu_code)


def check(kernel: Kernel, **options: object) -> None:
    case = corpus.case(kernel, seed=1)
    before = corpus.snapshot(case.args)
    libtile.run(exported(kernel), kernel.name, grid=case.grid, args=case.args, check="full", **options)
    corpus.check_case(case, before, case.args)


def test_every_kernel_names_its_report():
    assert set(crash_reports.REPORTS) == set(crash_reports.KERNELS)


@pytest.mark.parametrize("kernel", KERNELS)
def test_interpreter_and_simulator_give_its_result(kernel):
    check(kernel, backend="interpreter")
    check(kernel, backend="simulator", gpu_name="sm_90")


@pytest.mark.slow
@pytest.mark.parametrize("opt_level", LEVELS)
@pytest.mark.parametrize("gpu_name", TARGETS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_every_target_and_level_gives_its_result(kernel, gpu_name, opt_level):
    check(kernel, backend="simulator", gpu_name=gpu_name, opt_level=opt_level)


@pytest.mark.parametrize("kernel", KERNELS)
def test_it_becomes_a_cubin(kernel):
    """At one level for one target each, so that every level and target has its turn."""
    place = list(crash_reports.KERNELS).index(kernel.name)
    gpu_name, opt_level = TARGETS[place % 4], LEVELS[(place + place // 4) % 4]
    assert libtile.compile(exported(kernel), gpu_name, opt_level).kernels[kernel.name].registers


@pytest.mark.slow
@pytest.mark.parametrize("opt_level", LEVELS)
@pytest.mark.parametrize("gpu_name", TARGETS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_it_becomes_a_cubin_for_every_target_at_every_level(kernel, gpu_name, opt_level):
    assert libtile.compile(exported(kernel), gpu_name, opt_level).kernels[kernel.name].registers
