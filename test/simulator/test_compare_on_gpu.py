# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The comparison with a GPU, tried with a simulated device in its place."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from libtile.runtime.cuda_driver import CudaError, GpuUnavailableError
from libtile.simulator import SimulationFault, run_ptx

from .compare_on_gpu import Gpu, compare, parameter_bytes, parameter_types, report
from .cuda_cases.table import Case, Launch, Source
from .cuda_corpus import CASES
from .nvcc import compile_ptx

BY_ENTRY = {case.entry: case for case in CASES}


class SimulatedDevice(Gpu):
    """A device that runs PTX on the simulator; `spoil` flips one bit of the first result."""

    def __init__(self, folder: Path, spoil: bool = False) -> None:
        self.capability = (9, 0)
        self.name = "simulated"
        self._folder = folder
        self._spoil = spoil

    def run(self, cubin: bytes, case: Case, launch: Launch, types: list[str]) -> tuple[list[Any], str]:
        assert cubin.startswith(b"\x7fELF")
        assert len(types) == len(launch.args)
        text = compile_ptx(case.source, case.archs[0], "O3", self._folder).read_text()
        try:
            result = run_ptx(text, case.entry, grid=case.grid, block=case.block, args=launch.args)
        except SimulationFault as fault:
            raise CudaError("cuCtxSynchronize", "CUDA_ERROR_LAUNCH_FAILED") from fault
        memory: list[Any] = [array.copy() if isinstance(array, np.ndarray) else None for array in launch.args]
        if self._spoil:
            memory[0].reshape(-1).view(np.uint8)[0] ^= 1
        return memory, result.output


@pytest.fixture
def folder(corpus_ptx: Callable[[Source, str, str], Path]) -> Path:
    """The directory in which the corpus keeps its PTX."""
    return corpus_ptx(BY_ENTRY["vector_add"].source, "sm_80", "O3").parent


@pytest.mark.parametrize(
    ("entry", "simulator"),
    [
        ("int32_arith", "same bits"),
        ("struct_by_value", "same bits"),
        ("approx_exponential", "in bounds"),
        ("print_lanes", "same bits"),
        ("trap_when", "faults"),
    ],
)
def test_agreement_is_reported_as_far_as_the_isa_promises_it(entry: str, simulator: str, folder: Path) -> None:
    device = SimulatedDevice(folder)
    row = compare(device, BY_ENTRY[entry], "sm_80", "O3", folder, with_simulator=True)
    assert row.good
    assert row.simulator == simulator


def test_a_wrong_bit_of_the_device_is_a_difference(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = compare(SimulatedDevice(folder, spoil=True), BY_ENTRY["int32_arith"], "sm_80", "O3", folder, True)
    assert not row.good
    assert "1 of 2304 differ" in row.expected
    assert row.simulator == "arguments [0] differ"
    report([row], verbose=False)
    assert "1 runs: 0 agree, 1 differ" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arch", "runs"), [("sm_80", True), ("sm_90", True), ("sm_90a", True), ("sm_100a", False), ("sm_80a", False)]
)
def test_a_device_runs_older_targets_and_only_its_own_specific_one(arch: str, runs: bool, tmp_path: Path) -> None:
    assert SimulatedDevice(tmp_path).runs(arch) is runs


def test_parameters_are_laid_out_by_their_declarations() -> None:
    ptx = """
    .visible .entry other(.param .u32 x) { ret; }
    .visible .entry kernel(
        .param .u64 kernel_param_0,
        .param .align 8 .b8 kernel_param_1[40],
        .param .f32 kernel_param_2,
        .param .u16 kernel_param_3
    )
    { ret; }
    """
    assert parameter_types(ptx, "kernel") == ["u64", "bytes", "f32", "u16"]
    assert parameter_bytes("u16", -2) == b"\xfe\xff"
    assert parameter_bytes("f32", np.float32(1.5)) == b"\x00\x00\xc0\x3f"
    assert parameter_bytes("f64", 1) == b"\x00\x00\x00\x00\x00\x00\xf0\x3f"
    assert parameter_bytes("bytes", b"abc") == b"abc"


def test_without_a_gpu_the_script_says_so_and_exits_with_two() -> None:
    try:
        Gpu()
    except GpuUnavailableError:
        pass
    else:
        pytest.skip("this machine has a GPU: run the script itself")
    root = Path(__file__).resolve().parents[1]
    done = subprocess.run(
        [sys.executable, "-m", "simulator.compare_on_gpu"],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("compare_on_gpu: no GPU to compare with:")
    assert len(done.stderr.splitlines()) == 1
