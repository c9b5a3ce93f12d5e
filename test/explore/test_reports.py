# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels after public reports of crashes of NVIDIA's tileiras, explained.

NVIDIA/cutile-python #94 (rows are gathered, reduced, and scattered to where they came from) fails in 13.5.37 without a
word; #95 (an array is read by pointers and by views around a reduction) is compiled there.
"""

import re

import numpy as np
import pytest

from libtile import cutile
from libtile.explore import explain
from libtile.explore.explain import Weight
from libtile.explore.reference import Reference
from oracle import require_tool

ct = pytest.importorskip("cuda.tile", reason="the kernels are cuTile's (pip install cuda-tile)")


def report_94(source):
    row = ct.arange(1, dtype=ct.int32)
    where = (ct.Slice(0, 1), row, ct.Slice(0, 32))
    tile = ct.load_advanced_indexing(source, where).reshape((1, 32))
    scaled = tile * ct.sum(tile, axis=1).reshape((1, 1))
    ct.store_advanced_indexing(source, where, scaled.reshape((1, 1, 32)))


def report_95(matrix, rows):
    memory = matrix.get_raw_memory()
    lines = ct.arange(512, dtype=ct.int32)
    for panel in range(2):
        for j in range(2):
            column = panel * 2 + j
            ct.store(rows, (column, 0), memory.load_offset(lines * 64 + column).reshape((1, 512)))
        tile = ct.load(matrix, (0, 0, panel), (1, 512, 32)).reshape((512, 32))
        total = ct.sum(tile, axis=0).reshape((1, 32))
        ct.store(matrix, (0, 0, panel), (tile - total).reshape((1, 512, 32)))


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("kernel", "shapes", "fails"),
    [(report_94, [(1, 4, 32)], True), (report_95, [(1, 512, 64), (4, 512)], False)],
)
def test_public_reports_of_crashes_are_explained(kernel, shapes, fails):
    require_tool("tileiras")
    arrays = tuple(np.zeros(shape, np.float32) for shape in shapes)
    data, _ = cutile.bytecode_for(ct.kernel(kernel), arrays, gpu_name="sm_120")
    told = explain(data, "sm_120", reference=Reference.find(), seconds=20)
    wrong = [finding for finding in told.findings if finding.weight is Weight.WRONG]
    assert bool(wrong) == fails
    if fails:
        assert wrong[0].message == "NVIDIA's tileiras fails: failed to compile Tile IR program"
        enough = re.fullmatch(r"of (\d+) ops these (\d+) are enough for that: (.*)", wrong[0].advice)
        assert enough is not None and int(enough[2]) < int(enough[1])
        assert {"load_view_tko", "store_view_tko", "make_gather_scatter_view"} <= set(enough[3].split(", "))
