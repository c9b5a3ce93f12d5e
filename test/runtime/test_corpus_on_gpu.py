# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every kernel of the corpus, and those of the crash reports, on this machine's GPU.

    python -m pytest -m gpu                                     # all, in both launch ABIs that the driver knows
    python -m pytest -m gpu -k "softmax or attention"

Without a driver or a device this is one skipped test that says what is missing.
"""

from __future__ import annotations

import pytest

import libtile

pytest.importorskip("cuda.tile", reason="the cuTile frontend (cuda-tile) is not installed")

from kernels import corpus, crash_reports
from kernels.model import Kernel
from libtile.runtime.cuda_driver import TILE_IR_VERSION, Device, GpuUnavailableError

try:
    DEVICE = Device()
except GpuUnavailableError as reason:
    pytest.skip(f"no GPU to run on: {reason}", allow_module_level=True)

pytestmark = pytest.mark.gpu

ABIS = ("tileir", "simt") if DEVICE.driver_version >= TILE_IR_VERSION else ("simt",)
RUNNABLE = [k for k in corpus.KERNELS.values() if k.problem is not None]


def check(kernel: Kernel, data: bytes, abi: str) -> None:
    case = corpus.case(kernel, seed=1)
    before = corpus.snapshot(case.args)
    libtile.run(data, kernel.name, grid=case.grid, args=case.args, backend="gpu", launch_abi=abi)
    corpus.check_case(case, before, case.args)


@pytest.mark.parametrize("abi", ABIS)
@pytest.mark.parametrize("kernel", RUNNABLE, ids=lambda k: k.name)
def test_a_kernel_gives_its_result(kernel, abi):
    check(kernel, corpus.export(kernel, kernel.versions[-1]), abi)


@pytest.mark.parametrize("abi", ABIS)
@pytest.mark.parametrize("kernel", crash_reports.KERNELS.values(), ids=lambda k: k.name)
def test_a_kernel_of_a_crash_report_gives_its_result(kernel, abi):
    check(kernel, corpus.run_frontend(kernel, "13.4", kernel.gpu_code), abi)
