# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Real kernels compile with debug information and with line numbers, on each class of targets."""

from __future__ import annotations

import pytest

pytest.importorskip("cuda.tile", reason="the cuTile frontend (cuda-tile) is not installed")

import libtile
from kernels import corpus
from line_tables import SOURCE, TILE_IR, rows

TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120")
MODES = [("debug", 0), *(("line_info", level) for level in (3, 0, 1, 2))]
DEFAULT = {
    ("layer_norm", "sm_90", "debug", 0),  # code of two files and compile units
    ("integer_arithmetic_i8", "sm_80", "line_info", 2),
    ("atomic_add_f16", "sm_120", "debug", 0),  # what ptxas expands there, and nobody uses
    ("atomic_add_bf16", "sm_120", "line_info", 0),
    ("scan_i32", "sm_100", "debug", 0),
    ("prints", "sm_100", "line_info", 1),
    ("mma_scaled_f8e4m3fn", "sm_120", "line_info", 3),
}
CASES = [
    pytest.param(name, gpu, option, level, marks=[] if (name, gpu, option, level) in DEFAULT else pytest.mark.slow)
    for name in corpus.KERNELS
    for gpu in TARGETS
    for option, level in MODES
]


def test_the_sample_is_of_the_corpus():
    assert {case[0] for case in DEFAULT} <= set(corpus.KERNELS)


@pytest.mark.parametrize(("name", "gpu", "option", "level"), CASES)
def test_a_kernel_compiles_and_has_lines_of_its_source_and_of_its_tile_ir(name, gpu, option, level):
    kernel = corpus.KERNELS[name]
    made = libtile.compile(corpus.export(kernel, kernel.versions[-1]), gpu, level, **{option: True})
    for table in (SOURCE, TILE_IR):
        lines = rows(made.cubin, table)
        assert set(lines) >= set(made.kernels)
        assert all(row.line > 0 for name in made.kernels for row in lines[name])
