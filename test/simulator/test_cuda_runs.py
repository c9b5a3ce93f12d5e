# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The ways of running the CUDA corpus: random schedules, fewer checks, several processes, and what counters say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from libtile.simulator import run_ptx

from .cuda_cases.table import Case, Source
from .cuda_corpus import CASES

Modules = Callable[[Source, str, str], Any]

CLEAN = [case for case in CASES if case.fault is None]
MANY_CTAS = [case for case in CLEAN if np.prod(case.grid) > 1]
BY_ENTRY = {case.entry: case for case in CASES}


def check_run(case: Case, module: Any, variant: int = 0, **options: Any) -> Any:
    """Run one case with further options; its results must be the expected ones."""
    launch = case.launch(variant)
    result = run_ptx(
        module,
        case.entry,
        grid=case.grid,
        block=case.block,
        cluster=case.cluster,
        dynamic_shared=case.dynamic_shared,
        args=launch.args,
        **options,
    )
    assert not launch.mistakes()
    if launch.output is not None and "order" not in options:
        assert result.output == launch.output
    return result


@pytest.mark.parametrize("case", CLEAN, ids=lambda case: case.entry)
def test_kernel_is_right_in_a_random_schedule(case: Case, corpus_module: Modules) -> None:
    check_run(case, corpus_module(case.source, case.archs[0], "O3"), order=7)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("case", CLEAN, ids=lambda case: case.entry)
def test_kernel_is_right_in_more_random_schedules(case: Case, seed: int, corpus_module: Modules) -> None:
    check_run(case, corpus_module(case.source, case.archs[-1], "O0"), order=seed)


@pytest.mark.slow
@pytest.mark.parametrize("variant", range(1, 9))
@pytest.mark.parametrize("case", CLEAN, ids=lambda case: case.entry)
def test_kernel_is_right_on_other_random_inputs(case: Case, variant: int, corpus_module: Modules) -> None:
    check_run(case, corpus_module(case.source, case.archs[variant % len(case.archs)], "O3"), variant)


@pytest.mark.parametrize("checks", ["basic", "off"])
@pytest.mark.parametrize("case", CLEAN, ids=lambda case: case.entry)
def test_kernel_computes_the_same_with_fewer_checks(case: Case, checks: str, corpus_module: Modules) -> None:
    check_run(case, corpus_module(case.source, case.archs[0], "O3"), checks=checks)


@pytest.mark.parametrize("case", MANY_CTAS, ids=lambda case: case.entry)
def test_ctas_in_several_processes_give_the_same_memory(case: Case, corpus_module: Modules) -> None:
    check_run(case, corpus_module(case.source, case.archs[0], "O3"), processes=2)


def test_every_lane_of_a_column_read_conflicts_and_padding_removes_it(corpus_module: Modules) -> None:
    a = np.arange(32 * 32, dtype=np.float32).reshape(32, 32)
    conflicts = {}
    for entry in ("transpose_conflicts", "transpose_padded"):
        out = np.zeros_like(a)
        module = corpus_module(BY_ENTRY[entry].source, "sm_80", "O3")
        result = run_ptx(module, entry, block=(32, 8), args=[out, a, 32, 32])
        assert np.array_equal(out, a.T)
        conflicts[entry] = result.counters.bank_conflicts
    # 8 warps read 4 columns each; 32 lanes in one bank take 31 passes more than one.
    assert conflicts == {"transpose_conflicts": 8 * 4 * 31, "transpose_padded": 0}


def test_coalesced_accesses_take_four_sectors_per_warp(corpus_module: Modules) -> None:
    a, b, c = (np.ones(192, np.float32) for _ in range(3))
    module = corpus_module(BY_ENTRY["vector_add"].source, "sm_80", "O3")
    counters = run_ptx(module, "vector_add", grid=3, block=64, args=[c, a, b, 192]).counters
    warps, accesses = 6, 3
    assert counters.global_requests == warps * accesses
    assert counters.global_sectors == warps * accesses * 4


def test_instructions_and_barriers_are_counted(corpus_module: Modules) -> None:
    case = BY_ENTRY["mma_gemm"]
    result = check_run(case, corpus_module(case.source, "sm_80", "O3"))
    name = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
    # Two warps, two steps of K, four tiles of N.
    assert result.counters.instructions[name] == 2 * 2 * 4
    assert result.counters.barriers == 1
    assert name.split(".")[0] in result.summary()
