# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels after public reports of crashes of NVIDIA's tileiras, explained: twelve reports.

`kernels/crash_reports.py` has kernels after NVIDIA/cuda-tile #17, #19, #24, NVIDIA/cutile-python #94 to #97,
NVIDIA/cuda-samples #439 and NVIDIA/TileGym #169, which 13.5.37 compiles. It fails without a word on the forms of #94
below (rows are gathered, reduced or multiplied, and scattered to where they came from), and takes minutes over one of
#96.
NVIDIA/cutile-python #6, #54 and #72 are sums of vectors: there it was not the program.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import libtile
from libtile import cutile
from libtile.explore import explain
from libtile.explore.explain import Explanation, Weight
from libtile.explore.reference import Reference
from libtile.support.records import replace
from oracle import require_tool

ct = pytest.importorskip("cuda.tile", reason="the kernels are cuTile's (pip install cuda-tile)")

from kernels import corpus, crash_reports  # noqa: E402

pytestmark = pytest.mark.oracle

QUICK = ("scatter_to_listed_rows", "persistent_norm")


def reference(timeout: float = 120) -> Reference:
    require_tool("tileiras")
    found = Reference.find()
    assert found is not None
    return replace(found, timeout=timeout)


def wrong(told: Explanation) -> list[tuple[str, str]]:
    return [(finding.message, finding.advice) for finding in told.findings if finding.weight is Weight.WRONG]


@pytest.mark.parametrize(
    "kernel",
    [
        pytest.param(kernel, id=f"{name}-{report}", marks=[] if name in QUICK else pytest.mark.slow)
        for (name, kernel), report in zip(crash_reports.KERNELS.items(), crash_reports.REPORTS.values(), strict=True)
    ],
)  # fmt: skip
def test_what_compiles_by_now_is_compiled_by_both(kernel) -> None:
    data = corpus.run_frontend(kernel, "13.4", kernel.gpu_code)
    told = explain(data, kernel.gpu_code if kernel.gpu_code == "sm_100" else "sm_120", reference=reference(1200))
    assert not wrong(told) and told.reference is not None and list(told.reference.kernels) == [kernel.name]
    text = str(told)
    assert text.startswith(f"{kernel.name} on sm_") and "\n  by NVIDIA's tileiras: " in text
    for finding in told.findings:  # what is slow or unusual stands at a line of the kernel
        assert finding.place is None or finding.place.filename.endswith("crash_reports.py")


def sum_of_a_row(source):
    row = ct.arange(1, dtype=ct.int32)
    where = (ct.Slice(0, 1), row, ct.Slice(0, 32))
    tile = ct.load_advanced_indexing(source, where).reshape((1, 32))
    scaled = tile * ct.sum(tile, axis=1).reshape((1, 1))
    ct.store_advanced_indexing(source, where, scaled.reshape((1, 1, 32)))


def product_of_a_row(source):
    row = ct.arange(1, dtype=ct.int32)
    where = (ct.Slice(0, 1), row, ct.Slice(0, 32))
    tile = ct.load_advanced_indexing(source, where).reshape((1, 32))
    product = ct.matmul(ct.ones((1, 1), ct.float32), tile)
    ct.store_advanced_indexing(source, where, product.reshape((1, 1, 32)))


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [sum_of_a_row, product_of_a_row])
def test_the_ops_of_a_crash_are_found_by_taking_others_away(kernel) -> None:
    data, _ = cutile.bytecode_for(ct.kernel(kernel), (np.zeros((1, 4, 32), np.float32),), gpu_name="sm_120")
    ((message, advice),) = wrong(explain(data, "sm_120", reference=reference(), seconds=20))
    assert message == "NVIDIA's tileiras fails: failed to compile Tile IR program"
    enough = re.fullmatch(r"of (\d+) ops these (\d+) are enough for that: (.*)", advice)
    assert enough is not None and int(enough[2]) < int(enough[1])
    assert {"load_view_tko", "store_view_tko", "make_gather_scatter_view"} <= set(enough[3].split(", "))


def factors_of_a_block(a, n: ct.Constant[int]):
    square = ct.load(a, (0, 0), (n, n), padding_mode=ct.PaddingMode.ZERO)
    wide = ct.load(a, (0, 1), (n, 2 * n), padding_mode=ct.PaddingMode.ZERO)
    places = ct.arange(n, dtype=ct.int32)[:, None]
    for p in range(n):
        column = ct.extract(square, (0, p), shape=(n, 1)) / ct.extract(square, (p, p), shape=(1, 1))
        square = square - ct.where(places > p, column * column.transpose(0, 1), 0.0)
    for p in range(n):
        row, column = ct.extract(wide, (p, 0), shape=(1, 2 * n)), ct.extract(square, (0, p), shape=(n, 1))
        wide = wide - ct.where(places > p, column * row, 0.0)
    ct.store(a, (0, 1), wide)


@pytest.mark.slow
def test_what_takes_too_long_is_told_with_ops_that_take_long() -> None:
    arrays = (np.zeros((4, 4), np.float32), 32)
    data, _ = cutile.bytecode_for(ct.kernel(occupancy=2)(factors_of_a_block), arrays, gpu_name="sm_120")
    ((message, advice),) = wrong(explain(data, "sm_120", reference=reference(10), seconds=60))
    assert message == "NVIDIA's tileiras fails: it was not done after 10 seconds"
    enough = re.fullmatch(r"of (\d+) ops these (\d+) are enough for that it takes more than 8 seconds: (.*)", advice)
    assert enough is not None and int(enough[2]) < int(enough[1]) and "extract" in enough[3].split(", ")


def sum_of_vectors(a, b, c):
    here = ct.bid(0)
    ct.store(c, here, ct.load(a, here, (16,)) + ct.load(b, here, (16,)))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_failure_for_want_of_other_tools_is_not_put_down_to_the_program(dtype: type, tmp_path: Path) -> None:
    """By itself, without libnvvm and ptxas beside it, it says no more than that it failed, at an unknown location."""
    alone = tmp_path / "bin" / "tileiras"
    alone.parent.mkdir()
    try:
        os.link(reference().path, alone)
    except OSError:  # another file system
        shutil.copy(reference().path, alone)
    arrays = tuple(np.ones(32, dtype) for _ in range(3))
    data, _ = cutile.bytecode_for(ct.kernel(sum_of_vectors), arrays, gpu_name="sm_120")
    ((message, advice),) = wrong(explain(data, "sm_120", reference=Reference(alone)))
    assert message == "NVIDIA's tileiras fails: failed to compile Tile IR program"
    assert advice.startswith("so it does with an empty kernel: it is not this program. It needs libnvvm and ptxas")


def test_a_target_that_it_does_not_know_is_no_fault_of_the_installation(tmp_path: Path) -> None:
    older = tmp_path / "tileiras"
    older.write_text("#!/bin/sh\necho \"tileiras: Cannot find option named 'sm_90'!\" >&2\nexit 1\n")
    older.chmod(0o755)
    told = explain(libtile.parse("cuda_tile.module @m { entry @k() { return } }"), "sm_90", reference=Reference(older))
    assert [advice for _, advice in wrong(told)] == ["so it does with an empty kernel: it is not this program"]
