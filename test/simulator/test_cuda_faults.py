# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Mistakes in CUDA kernels are reported: what, which lanes, and the line of CUDA C++ where it happens.

The clean twins of these kernels run with the rest of the corpus.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from libtile.simulator import SimulationFault, Uninitialized, run_ptx

from .cuda_cases.faults import FAULTS, FAULTS90, MISTAKES, Mistake
from .cuda_cases.table import Source
from .nvcc import CUDA_DIR, LEVELS

CASES = {case.entry: case for case in FAULTS.cases + FAULTS90.cases}


@cache
def marked_lines() -> dict[str, tuple[str, int]]:
    """The file and line of each kernel's MISTAKE comment; kernels without one are not in it."""
    lines: dict[str, tuple[str, int]] = {}
    for family in (FAULTS, FAULTS90):
        name, entry = f"{family.source.stem}.cu", ""
        for number, text in enumerate((CUDA_DIR / name).read_text().splitlines(), 1):
            if 'extern "C" __global__ void ' in text:
                entry = text.split("void ")[1].split("(")[0]
            if "// MISTAKE" in text and entry:
                lines[entry] = (name, number)
    return lines


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.entry)
def test_mistake_is_reported_with_its_lanes_and_source_line(
    mistake: Mistake, level: str, corpus_module: Callable[[Source, str, str], Any]
) -> None:
    case = CASES[mistake.entry]
    args = case.launch().args
    args[-1] = 1
    if mistake.entry == "unset_global":
        args[1] = Uninitialized(args[1])
    module = corpus_module(case.source, case.archs[0], level)
    with pytest.raises(SimulationFault) as caught:
        run_ptx(
            module,
            mistake.entry,
            block=case.block,
            dynamic_shared=case.dynamic_shared,
            args=args,
            max_instructions=200_000,
        )
    fault = caught.value
    assert fault.kind in mistake.kinds
    if mistake.lanes is not None:
        assert fault.lanes == list(mistake.lanes)
    expected = marked_lines().get(mistake.entry)
    if expected is not None:
        assert fault.source is not None
        assert (fault.source[0].rsplit("/")[-1], fault.source[1]) == expected
