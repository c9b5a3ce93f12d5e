# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Queues that several agents put into, and agents within loops: compiled for every target class, run in random
schedules, broken, and refused where they cannot be."""

from __future__ import annotations

import re

import numpy as np
import pytest
from shared_queues import KERNELS, several, several_case

import libtile
from generators.check import TARGETS
from libtile.simulator import SimulationFault, run_ptx
from libtile.support.diagnostics import DiagnosticError, LoweringError


def check(text: str, case, **options) -> None:
    args, written, expected = case()
    libtile.run(libtile.parse(text, filename="kernel.mlir"), args=args, **options)
    np.testing.assert_array_equal(args[written], expected)


@pytest.mark.parametrize(("name", "gpu_name"), [(n, TARGETS[i % len(TARGETS)]) for i, n in enumerate(KERNELS)])
def test_agents_share_a_queue(name, gpu_name):
    check(KERNELS[name].text, KERNELS[name].case, backend="simulator", gpu_name=gpu_name, check="full", block_order=1)


@pytest.mark.slow
@pytest.mark.parametrize("gpu_name", TARGETS)
@pytest.mark.parametrize("name", KERNELS)
def test_agents_share_a_queue_in_every_schedule(name, gpu_name):
    for seed in range(20):
        options = {"backend": "simulator", "gpu_name": gpu_name, "check": "full", "block_order": seed}
        check(KERNELS[name].text, KERNELS[name].case, **options)


DRAW = r"atom\.\S*cas\.b32\s+(%r\d+), \[[^]]*\], (%r\d+), %r\d+;"
BROKEN = {
    "nobody waits to be told": ("three-wide-producers", r"bar\.sync\s+\d+, 128;", "", ("race", "uninitialized")),
    "all draw the first turn": ("two-producers", DRAW, r"mov.b32 \1, \2;", ("async", "deadlock", "race")),
    "two get one turn": ("two-getters", DRAW, r"mov.b32 \1, \2;", ("async", "deadlock", "race")),
    "turns are drawn before they are there": (
        "more-getters-than-room", r"mbarrier\.try_wait\.parity\S+\s+(%p\d+), [^;]*;(?=(?:(?!mbarrier)[\s\S])*?\.cas)",
        r"setp.eq.u32 \1, 0, 0;", ("uninitialized", "deadlock", "race", "divergent-barrier", "async"),
    ),
    "the counter begins behind the first turn": (
        "two-producers", r"(st\.shared\.b32\s+\[[^]]*\], )0;", r"\g<1>1;",
        ("deadlock", "uninitialized", "divergent-barrier"),
    ),
    "one arrival too few": ("two-producers", r"mov\.b32\s+(%r\d+), 33;", r"mov.b32 \1, 32;", ("async", "race")),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_wrong_with_drawn_turns_is_found(name):
    kernel, pattern, replacement, kinds = BROKEN[name]
    made = libtile.compile(libtile.parse(KERNELS[kernel].text), "sm_90", emit="ptx", launch_abi="simt")
    ptx, count = re.subn(pattern, replacement, made.ptx)
    assert count, made.ptx
    seen = set()
    for seed in (None, 1, 2, 3):
        args = [np.int64(a) if isinstance(a, int) else a for a in KERNELS[kernel].case()[0]]
        try:
            run_ptx(ptx, "k", block=made.kernels["k"].block_dim, args=args, order=seed)
        except SimulationFault as fault:
            seen.add(fault.kind)
    assert seen and seen <= {*kinds}


TWO = "[1, 1, 4]"
IN_LOOPS = KERNELS["agents-in-loops"].text
REFUSED = {
    "getters of different sizes": (
        several(1, getters=2).replace("4, 4]", "4, 8]"), "is consumed by agents of different numbers of warps",
    ),
    "producers of different sizes": (several(1).replace(TWO, "[1, 2, 4]"), "agents of different numbers of warps"),
    "queues that are exchanged": (
        IN_LOOPS.replace("scf.yield %mine : !q", "scf.yield %other : !q").replace(
            "  scf.for %i", "  %other = nv_tileaa.create_queue {depth = 2} : !q\n  scf.for %i", 1
        ),
        "hands on one queue where another path hands on another one",
    ),
    "two agents get as one consumer": (
        KERNELS["two-producers"].text.replace("queue.put %q ({", "queue.get %q ({", 1), "expects region arguments"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_pipeline_can_be_is_refused_with_the_reason(name):
    text, words = REFUSED[name]
    with pytest.raises((DiagnosticError, LoweringError), match=words) as caught:
        libtile.compile(libtile.parse(text, filename="kernel.mlir"), "sm_90", emit="ptx")
    assert re.search(r"kernel\.mlir:\d+:\d+: ", str(caught.value))


def test_turns_are_drawn_when_they_are_produced():
    """One atomic for each place that puts, and none where a queue has one producer."""
    for name, count in (("two-producers", 2), ("agents-in-loops", 0)):
        ptx = libtile.compile(libtile.parse(KERNELS[name].text), "sm_90", emit="ptx").ptx
        assert len(re.findall(r"atom\.\S*shared", ptx)) == count
    made = libtile.compile(libtile.parse(several(1)), "sm_90", emit="tileas").tileas
    assert made.count("create_iterator") == 3 and made.count("{drawn}") == 2
    assert several_case()[1] == 4
