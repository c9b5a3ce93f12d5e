# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""LLVM and ptxas do less for functions on which they would take time that grows with the square of their size."""

import numpy as np
import pytest

import libtile
from generators import growing
from libtile.backend import effort
from libtile.backend.effort import LONGEST_CHAIN, Effort, plan
from libtile.backend.work import Made, Work
from libtile.codegen.sizes import ModuleSize
from libtile.compiler.compile import compile_module
from libtile.compiler.options import Options
from libtile.support.remarks import Kind


def size(text: str) -> ModuleSize:
    """How large a module's LLVM IR is, as the backend is told."""
    given: list[Work] = []

    def backend(work: Work) -> Made:
        given.append(work)
        return Made("")

    compile_module(libtile.parse(text), Options("sm_90", emit="ptx"), backend=backend)
    return given[0].size


def test_ordinary_functions_are_optimized_in_full() -> None:
    for text in (growing.loop_row(40), growing.scalar_chain(1000), growing.entries(300), growing.globals_(50)):
        planned = plan(size(text))
        assert not planned.excesses
        assert (planned.effort, planned.assembler_level(3)) == (Effort.FULL, 3)


LARGE = [
    (growing.loop_row(60), Effort.LIGHT, 1, "60 loops"),
    (growing.loop_row(130), Effort.LINEAR, 1, "130 loops"),
    (growing.scalar_chain(4 * LONGEST_CHAIN), Effort.PLAIN_SELECTION, 3, "dependent integer sums"),
    (growing.token_chain(1010), Effort.LIGHT, 1, " barriers, more than 1000"),
    (growing.globals_(1002), Effort.LIGHT, 1, "1002 variables in the module"),
]


@pytest.mark.parametrize("text, expected, level, what", LARGE)
def test_beyond_a_limit_passes_take_time_in_proportion(text: str, expected: Effort, level: int, what: str) -> None:
    planned = plan(size(text))
    assert planned.effort is expected
    assert [planned.assembler_level(n) for n in (0, 1, 2, 3)] == [0, 1, min(2, level), level]
    assert [(e.function, what in e.what) for e in planned.excesses] == [("k", True)]


def test_a_long_chain_keeps_passes_over_chains_from_a_large_function() -> None:
    light, chain = effort.Excess("k", "", Effort.LIGHT), effort.Excess("k", "", Effort.PLAIN_SELECTION)
    assert effort.Plan((light, chain)).effort is Effort.LINEAR


def test_ptxas_gets_the_level_and_the_user_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = growing.loop_row(3), growing.loop_row(4)
    monkeypatch.setattr(effort, "MOST_LOOPS", 3)
    for text, warned in zip(texts, (False, True)):
        made = libtile.compile(libtile.parse(text), gpu_name="sm_90", emit="ptx")
        assert [r.name for r in made.remarks if r.kind is Kind.WARNING] == ["RemarkEffortReduced"] * warned
    assert made.remarks[-1].location is not None
    assert made.remarks[-1].arguments[0][1].startswith("4 loops, more than 3: ")
    unoptimized = libtile.compile(libtile.parse(texts[1]), gpu_name="sm_90", emit="ptx", opt_level=0)
    assert not [r for r in unoptimized.remarks if r.kind is Kind.WARNING]
    small = libtile.compile(libtile.parse(texts[1]), gpu_name="sm_90")
    monkeypatch.setattr(effort, "ASSEMBLER_LEVEL_OF_LARGE", 0)
    assert libtile.compile(libtile.parse(texts[1]), gpu_name="sm_90").cubin != small.cubin


@pytest.mark.parametrize("text", [growing.loop_row(60), growing.loop_row(130), growing.scalar_chain(4 * LONGEST_CHAIN)])
def test_what_comes_of_less_effort_computes_the_same(text: str) -> None:
    results = {}
    for backend in ("interpreter", "simulator"):
        out = np.full(1, -1, np.int32)
        libtile.run(libtile.parse(text), "k", grid=1, args=[out, 5], backend=backend, gpu_name="sm_90")
        results[backend] = int(out[0])
    assert results["interpreter"] == results["simulator"] != -1
