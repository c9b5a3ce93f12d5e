# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Passes keep what programs mean: memory is the same after a run, whether or not a pass has run before it."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from xdsl.traits import IsTerminator, MemoryEffect, NoMemoryEffect

import libtile
from generators.check import Outcome, check_pipeline, compare, fused, parsed, round_twice, run
from generators.core import Program
from generators.programs import program
from libtile.dialects.cuda_tile.ops import OPS
from libtile.passes.manager import PassManager
from libtile.passes.pipeline import before_pass, parse_pipeline, pipeline_text
from libtile.spec import default_spec
from libtile.spec.model import OpSpec
from libtile.transforms.effects import has_no_effects

PIPELINES = [
    "canonicalize",
    "cse",
    "dce",
    "licm",
    "sccp",
    "loop-split",
    "synthesize-debug-info-scopes",
    "simplify-integers",
    "reorder-broadcast",
    "merge-loads{adjacent=true}",
    "eliminate-redundant-tokens,loop-interchange",
    "loop-unroll{factor=3}",
    "loop-peel{front=1 back=2}",
    "strength-reduce{min-ops=1}",
    "eliminate-redundant-tokens",
    "if-to-select{max-ops=60 max-elements=100000}",
    "infer-in-bounds",
    "infer-assumptions",
    "expand-views{everywhere=true}",
    "tile-O3",
    "loop-split,canonicalize,cse,licm,dce,canonicalize",
    *(
        pytest.param(pipeline_text(before_pass(parse_pipeline(f"O{level}"), "strip-mine")), id=f"O{level}", marks=marks)
        for level, marks in (("1", pytest.mark.slow), ("2", pytest.mark.slow), ("3", ()))
    ),
]
"""Single passes, mixtures, and what compilations run on Tile IR."""

SINGLE = [
    pipeline for pipeline in PIPELINES if isinstance(pipeline, str) and "," not in pipeline and pipeline != "tile-O3"
]
"""What default runs give every other kernel to; mixtures have these passes in them, and get all."""

NOTHING_TO_DO = (
    "synthesize-debug-info-scopes",
    "infer-in-bounds",  # the profile has no views
    "infer-assumptions",  # and nothing is assumed of its pointers
    "expand-views{everywhere=true}",
    "reorder-broadcast",  # and no tiles
    "merge-loads{adjacent=true}",
    "strength-reduce{min-ops=1}",
    "if-to-select{max-ops=60 max-elements=100000}",  # and its branches hand tokens on
)
"""Pipelines that need not change one of the programs of the profile "control"."""

MORE_THAN_ROUNDING = {
    "float_arithmetic_f64": "the rounded product overflows to infinity, the fused one does not",
}
"""Kernels whose results `fuse-fma` changes beyond any tolerance, and why that is right."""


def transformed(module: libtile.Module, pipeline: str) -> libtile.Module:
    """The module itself, after the passes; verified behind each of them."""
    PassManager(parse_pipeline(pipeline)).run(module.op)
    return module


# -- random programs --------------------------------------------------------------------------------------------------


@cache
def program_and_outcomes(seed: int, profile: str) -> tuple[Program, list[Outcome]]:
    """A random program, and what runs of it with some arguments leave behind."""
    made = program(seed, profile)
    module = parsed(made)
    return made, [run(module, made, variant) for variant in range(VARIANTS[profile])]


VARIANTS = {"control": 3, "all": 1}
"""How many sets of arguments the programs of each profile are run with."""


def check_random_programs(pipeline: str, seeds: range, profile: str = "control") -> None:
    changed = 0
    for seed in seeds:
        made, expected = program_and_outcomes(seed, profile)
        try:
            changed += check_pipeline(made, pipeline, expected=expected)
        except Exception as error:
            error.add_note(f"`python -m generators {seed} --profile {profile} --print` in test/ shows the program")
            raise
    if profile == "control" and pipeline not in NOTHING_TO_DO:
        assert changed, f"{pipeline} changed none of the programs"


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_random_programs_write_the_same_memory(pipeline: str) -> None:
    check_random_programs(pipeline, range(10))


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_random_programs_over_tiles_write_the_same_memory(pipeline: str) -> None:
    check_random_programs(pipeline, range(4), "all")


@pytest.mark.slow
@pytest.mark.parametrize("pipeline", PIPELINES)
def test_many_random_programs_write_the_same_memory(pipeline: str) -> None:
    check_random_programs(pipeline, range(20, 320))
    check_random_programs(pipeline, range(4, 104), "all")


def test_random_programs_have_every_structure() -> None:
    text = "".join(program(seed, "control").text for seed in range(20))
    for op in (" if ", " for ", "for unsigned", " loop ", " break ", " continue ", " select ", "store_ptr_tko"):
        assert op in text
    assert text.count("return") > 20, "some program returns early"


@pytest.mark.parametrize("seeds", [range(4), pytest.param(range(4, 104), marks=pytest.mark.slow)], ids=["some", "many"])
def test_what_is_fused_is_a_product_and_a_sum_of_the_program(seeds: range) -> None:
    """Rounded twice again, behind `fuse-fma`, it is what it was, to the bit."""
    count = 0
    for seed in seeds:
        made, expected = program_and_outcomes(seed, "all")
        module = parsed(made)
        own = fused(module.op)
        PassManager(parse_pipeline("fuse-fma")).run(module.op)
        count += round_twice(module.op, own)
        compare(made, expected[0], run(module, made), exactly=True)
    assert count or len(seeds) < 10


def run_twice(module: libtile.Module) -> set[str]:
    """Let every op that says that it only computes run once more right before itself, and be used in part from there;
    their names. A load that ran twice would have to be waited for twice."""
    found = set()
    for op in list(module.op.walk()):
        if op.regions or not op.results or op.has_trait(IsTerminator) or not has_no_effects(op):
            continue
        first = op.clone()
        first.location = op.location
        assert op.parent is not None
        op.parent.insert_op_before(first, op)
        for old, new in zip(op.results, first.results):
            old.replace_uses_with_if(new, lambda use: use.index % 2 == 0)
        found.add(op.name)
    return found


@pytest.mark.parametrize("seeds", [range(1), pytest.param(range(64), marks=pytest.mark.slow)], ids=["some", "many"])
def test_what_has_no_effect_may_run_twice(seeds: range) -> None:
    """Every op of Tile IR that says so, in the slow test; nobody can tell from memory, or from what is printed."""
    seen = set[str]()
    for seed in seeds:
        made, expected = program_and_outcomes(seed, "all")
        module = parsed(made)
        seen |= run_twice(module)
        compare(made, expected[0], run(module, made), exactly=True)
    said = {f"cuda_tile.{name}" for name, spec in default_spec().ops.items() if _says_nothing_happens(name, spec)}
    assert seen <= said
    if len(seeds) > 10:
        assert said - seen == NOT_GENERATED


def _says_nothing_happens(name: str, spec: OpSpec) -> bool:
    effects = [trait for trait in OPS[name].traits if isinstance(trait, MemoryEffect)]
    quiet = any(isinstance(effect, NoMemoryEffect) for effect in effects)
    return quiet and not default_spec().is_testing_op(spec) and not spec.has_trait("terminator")


NOT_GENERATED: set[str] = set()
"""Ops that say that they have no effect, and are in none of these programs."""


# -- the corpus -------------------------------------------------------------------------------------------------------


def corpus() -> Any:
    pytest.importorskip("cuda.tile", reason="the corpus is exported by the cuda-tile package")
    from kernels import corpus as module

    return module


def runnable_kernels(all_: bool) -> list[Any]:
    """Kernels that can be launched: all of them, or those with interesting structure and some of the rest."""
    kernels = [kernel for kernel in corpus().KERNELS.values() if kernel.problem is not None]
    chosen = {"control", "order", "gemm", "shape", "misc", "region"}
    return [kernel for i, kernel in enumerate(kernels) if all_ or i % 12 == 0 or kernel.tags & chosen]


@cache
def outcome(name: str) -> tuple[Any, list[Any], list[Any]] | None:
    """Launch, arguments before and after; None when the inputs break what the kernel assumes."""
    from libtile.interpreter.faults import FaultKind, InterpreterFault

    kernel = corpus().KERNELS[name]
    case = corpus().case(kernel)
    args = corpus().snapshot(case.args)
    try:
        libtile.run(libtile.read(corpus().export(kernel, newest(kernel))), name, grid=case.grid, args=args)
    except InterpreterFault as fault:
        if fault.kind is FaultKind.ASSUMPTION:
            return None
        raise
    return case, corpus().snapshot(case.args), args


def newest(kernel: Any) -> str:
    return "13.3" if "13.3" in kernel.versions else str(kernel.versions[-1])


def check_corpus(pipeline: str, kernels: list[Any]) -> None:
    for kernel in kernels:
        found = outcome(kernel.name)
        if found is None:
            continue
        case, before, expected = found
        module = transformed(libtile.read(corpus().export(kernel, newest(kernel))), pipeline)
        assert str(libtile.read(libtile.write(module))) == str(module), f"{kernel.name} as it is written"
        args = corpus().snapshot(before)
        libtile.run(module, kernel.name, grid=case.grid, args=args)
        if pipeline == "fuse-fma":
            if kernel.name not in MORE_THAN_ROUNDING:
                corpus().check_case(case, before, args)
            continue
        for index, (old, new) in enumerate(zip(expected, args, strict=True)):
            if isinstance(old, np.ndarray):
                assert old.tobytes() == new.tobytes(), f"{kernel.name}, argument {index}, after {pipeline}"


@pytest.mark.parametrize("pipeline", [*PIPELINES, "fuse-fma"])
def test_kernels_write_the_same_memory(pipeline: str) -> None:
    kernels = runnable_kernels(all_=False)
    if pipeline in SINGLE:
        kernels = kernels[SINGLE.index(pipeline) % 4 :: 4]
    check_corpus(pipeline, kernels)


@pytest.mark.slow
@pytest.mark.parametrize("pipeline", [*PIPELINES, "fuse-fma"])
def test_all_kernels_write_the_same_memory(pipeline: str) -> None:
    check_corpus(pipeline, runnable_kernels(all_=True))
