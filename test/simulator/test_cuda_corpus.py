# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The CUDA corpus on the simulator: each kernel, compiled by nvcc, must leave the expected memory behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from libtile.simulator import SimulationFault, run_ptx

from .cuda_cases.table import Case, Source
from .cuda_corpus import CASES, SOURCES
from .nvcc import CUDA_DIR, LEVELS

Modules = Callable[[Source, str, str], Any]

TOGETHER = ({"arch": "sm_80", "level": "O3"}, {"arch": "sm_90", "level": "O0"})
"""What default runs take of architectures and levels: each of both."""


def marks(case: Case, arch: str, level: str) -> tuple[pytest.MarkDecorator, ...]:
    return () if {"arch": arch, "level": level} in TOGETHER or len(case.archs) == 1 else (pytest.mark.slow,)


RUNS = [
    pytest.param(case, arch, level, id=f"{arch}-{level}-{case.entry}", marks=marks(case, arch, level))
    for case in CASES
    for arch in case.archs
    for level in LEVELS
]


@pytest.mark.parametrize(("case", "arch", "level"), RUNS)
def test_kernel_computes_the_expected_result(case: Case, arch: str, level: str, corpus_module: Modules) -> None:
    module = corpus_module(case.source, arch, level)
    launch = case.launch()

    def run() -> Any:
        return run_ptx(
            module,
            case.entry,
            grid=case.grid,
            block=case.block,
            cluster=case.cluster,
            dynamic_shared=case.dynamic_shared,
            args=launch.args,
            checks="full",
        )

    if launch.fault is not None:
        with pytest.raises(SimulationFault) as caught:
            run()
        assert caught.value.kind == launch.fault
        return
    result = run()
    assert not launch.mistakes()
    if launch.output is not None:
        assert result.output == launch.output


def test_corpus_has_at_least_sixty_kernels_each_listed_once() -> None:
    counts = Counter(case.entry for case in CASES)
    assert len(counts) >= 60
    assert [name for name, count in counts.items() if count > 1] == []


def test_every_source_file_is_in_the_table() -> None:
    assert {path.stem for path in CUDA_DIR.glob("*.cu")} == {source.stem for source in SOURCES}
