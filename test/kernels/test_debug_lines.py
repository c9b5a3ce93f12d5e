# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every kernel of the corpus with debug information, read back: accesses lead to the lines of loads and stores.

Hours of a processor, so that all of it is slow: `pytest -m slow test/kernels/test_debug_lines.py -k sm_90`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import libtile
from libtile.dialects.cuda_tile.locations import source_location
from line_tables import lines_of

corpus = pytest.importorskip("kernels.corpus", reason="cuTile Python exports the kernels")


ACCESSES = ("load_", "store_", "atomic_")
MESSAGES = ("print_", "assert")
"""Ops that without optimization put the arguments of a message on the stack, by addresses that are generic."""


def lines(data: bytes, names: tuple[str, ...]) -> set[tuple[str, int]]:
    """(file, line) of the ops in whose names one of these is."""
    places = [
        source_location(op.location)
        for op in libtile.read(data).tile_module.walk()
        if any(name in op.name for name in names)
    ]
    return {(place.filename, place.line) for place in places if place is not None}


@pytest.mark.slow
@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize("name", list(corpus.KERNELS))
def test_accesses_of_each_kernel_lead_to_its_loads_and_stores(name: str, gpu_name: str, tmp_path: Path) -> None:
    kernel = corpus.KERNELS[name]
    data = corpus.export(kernel, kernel.versions[-1])
    expected = lines(data, ACCESSES)
    unoptimized = lines_of(libtile.compile(data, gpu_name, 0, debug=True).cubin, tmp_path)
    assert expected <= unoptimized <= expected | lines(data, MESSAGES)
    # Beside them, tables of libdevice are read, and LLVM takes the line from what it moves out of a loop.
    assert lines_of(libtile.compile(data, gpu_name, 3, line_info=True).cubin, tmp_path) >= expected


@pytest.mark.slow
@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize("level", [1, 2, 3])
@pytest.mark.parametrize("name", list(corpus.KERNELS))
def test_debug_information_of_optimized_code_leads_there_too(
    name: str, level: int, gpu_name: str, tmp_path: Path
) -> None:
    kernel = corpus.KERNELS[name]
    data = corpus.export(kernel, kernel.versions[-1])
    made = libtile.compile(data, gpu_name, level, debug=True, dopt=True)
    assert lines_of(made.cubin, tmp_path) >= lines(data, ACCESSES)
