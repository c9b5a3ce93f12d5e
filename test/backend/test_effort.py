# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""LLVM does less for functions on which its passes would take time that grows with the square of their size."""

import numpy as np
import pytest

import libtile
from generators import growing
from libtile.backend.effort import LONGEST_CHAIN, Effort, effort


def llvm_ir(text: str) -> str:
    return libtile.compile(libtile.parse(text), gpu_name="sm_90", emit="llvm").llvm_ir


def test_ordinary_functions_are_optimized_in_full() -> None:
    assert effort(llvm_ir(growing.loop_row(40))) is Effort.FULL
    assert effort(llvm_ir(growing.scalar_chain(1000))) is Effort.FULL
    assert effort(llvm_ir(growing.entries(300))) is Effort.FULL


def test_many_blocks_and_long_chains_take_passes_of_linear_time() -> None:
    assert effort(llvm_ir(growing.loop_row(60))) is Effort.LINEAR
    assert effort(llvm_ir(growing.scalar_chain(4 * LONGEST_CHAIN))) is Effort.PLAIN_SELECTION


@pytest.mark.parametrize("text", [growing.loop_row(60), growing.scalar_chain(4 * LONGEST_CHAIN)])
def test_what_comes_of_less_effort_computes_the_same(text: str) -> None:
    results = {}
    for backend in ("interpreter", "simulator"):
        out = np.full(1, -1, np.int32)
        libtile.run(libtile.parse(text), "k", grid=1, args=[out, 5], backend=backend, gpu_name="sm_90")
        results[backend] = int(out[0])
    assert results["interpreter"] == results["simulator"] != -1
