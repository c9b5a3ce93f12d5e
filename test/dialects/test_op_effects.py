# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What every op of the inner dialects declares of its effects, against what it does in the interpreter, and every pass
that asks for effects, against programs around every op.

An op that only computes, reads or allocates may run twice, and leaves no trace when all else is gone; behind cse, licm,
dce, sccp and canonicalize-tileaa a program leaves what it left before, and all that can be observed is where it was, as
often as it was there.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.traits import IsTerminator, MemoryEffect, SymbolOpInterface, get_effects

import libtile
from dialects.inner import SPEC
from dialects.op_programs import Outcome, before, body_of, doubled, kernel_of, names, of_name, outcome, program, whole
from libtile.asm import parse
from libtile.asm.module import Module, diagnose
from libtile.dialects import arith, scf, tensor
from libtile.passes.pipeline import PassItem, make_pass
from libtile.transforms.effects import is_dead_when_unused

PASSES = ("cse", "licm", "dce", "sccp", "canonicalize-tileaa")

NOT_RUN = {
    "nv_tileaa.elementwise_inline_asm": "PTX",
    "nv_tileaa.inject_ir": "LLVM IR",
    "nv_tileaa.launch_func": "a host function's",
    "nv_tileaa.int_to_ptr": "the numbers of a sample are no addresses",
    "nv_tileas.get_tma_desc": "the host makes descriptors",
    "nv_tileas.mbarrier_wait": "nobody arrives",
    "nv_tileas.tensormap_replace": "the memory of a sample is no descriptor",
}
"""Ops whose sample the interpreter does not run, and why."""
ONCE = {
    "nv_tileaa.return_if": "ends the kernel, in no loop",
    "nv_tileas.async.scatter_tma_store": "the buffer that it stores is written before",
    "nv_tileas.async.tiled_atomic_rmw": "the buffer that it stores is written before",
    "nv_tileas.async.tiled_tma_store": "the buffer that it stores is written before",
}
"""Ops that stand once in their program, and why."""


def made(name: str) -> ModuleOp:
    """The program around an op, in a loop and twice where that can be."""
    module = program(name)
    return module if whole(name) or name in ONCE else doubled(module)


@cache
def expected(name: str) -> Outcome:
    return outcome(made(name), name)


def has_no_trace(op: Operation) -> bool:
    """Whether the op, which stands for itself, says that nobody can tell whether it ran."""
    return is_dead_when_unused(op) and not op.has_trait(IsTerminator)


def silent() -> list[str]:
    """Ops that say in their sample that they only compute, read or allocate."""
    return [name for name in names() if name not in NOT_RUN and all(map(has_no_trace, of_name(program(name), name)))]


@pytest.mark.parametrize("cls", [*arith.OPS, *tensor.OPS, *scf.OPS], ids=lambda cls: cls.name)
def test_every_op_of_other_dialects_says_what_it_does(cls: type[Operation]) -> None:
    """As every_pass has it for ours: by one trait, or it ends a region."""
    effects = [trait for trait in cls.traits if isinstance(trait, MemoryEffect)]
    assert len(effects) == 1 or any(isinstance(trait, IsTerminator) for trait in cls.traits)


@pytest.mark.parametrize("name", silent())
def test_what_has_no_effect_may_run_twice_and_leaves_no_trace(name: str) -> None:
    module = made(name)
    for op in list(of_name(module, name)):
        first = op.clone()
        first.location = op.location
        assert op.parent is not None
        op.parent.insert_op_before(first, op)
        for old, new in zip(op.results, first.results):
            new.name_hint = old.name_hint
            old.replace_uses_with_if(new, lambda use: use.index % 2 == 0)
    assert outcome(module, name) == expected(name)
    if whole(name):
        return  # within turns of others, which cannot be taken away
    module = program(name)
    for op in reversed(list(body_of(module).ops)):
        if not op.has_trait(IsTerminator) and not is_dead_when_unused(op):
            if any(result.first_use is not None for result in op.results):
                return  # the op itself stands on an effect
            op.detach()
            op.erase()
    assert any(True for _ in of_name(module, name)) or whole(name)
    assert outcome(module, name) == before(name)


def observable(module: Operation) -> list[tuple[str, int]]:
    """What can be observed, in order: names, and in how many loops each op is."""
    found = []
    for op in module.walk():
        if op.has_trait(SymbolOpInterface, value_if_unregistered=False) or op.has_trait(IsTerminator):
            continue
        if op.regions and get_effects(op) is None:
            continue
        if not is_dead_when_unused(op) and not isinstance(op, scf.ForOp | scf.IfOp | scf.WhileOp):
            depth, at = 0, op.parent_op()
            while at is not None:
                depth += isinstance(at, scf.ForOp | scf.WhileOp)
                at = at.parent_op()
            found.append((op.name, depth))
    return found


def apply(module: ModuleOp, pass_name: str) -> None:
    seen = observable(kernel_of(module))
    make_pass(PassItem(pass_name, ())).apply(Context(), module)
    assert [d.message for d in diagnose(module)] == []
    assert observable(kernel_of(module)) == seen, pass_name


@pytest.mark.parametrize("name", names())
def test_passes_keep_what_an_op_does(name: str) -> None:
    """All of them, one behind the other."""
    module = made(name)
    for pass_name in PASSES:
        apply(module, pass_name)
    if name not in NOT_RUN:
        assert outcome(module, name) == expected(name)


@pytest.mark.slow
@pytest.mark.parametrize("pass_name", PASSES)
@pytest.mark.parametrize("name", names())
def test_each_pass_alone_keeps_what_an_op_does(name: str, pass_name: str) -> None:
    module = made(name)
    apply(module, pass_name)
    if name not in NOT_RUN:
        assert outcome(module, name) == expected(name)


# -- forms of ops that no sample has ----------------------------------------------------------------------------------

BUFFER = "!nv_tileas.buffer<4x8xf32, shared>"
STORAGE = f"""nv_tileaa.func @k(%p: !nv_tileaa.ptr<f32, 1>, %q: !nv_tileaa.ptr<f32, 1>) {SPEC} {{
  %pp = nv_tileaa.splat %p : !nv_tileaa.ptr<f32, 1> -> tile<4x8x!nv_tileaa.ptr<f32, 1>>
  %zeros = nv_tileaa.constant {{value = dense<0.0> : !cuda_tile.tile<4x8xf32>}} : tile<4x8xf32>
  %ones = nv_tileaa.constant {{value = dense<1.0> : !cuda_tile.tile<4x4xf32>}} : tile<4x4xf32>
  %b = nv_tileas.alloc_tensor : {BUFFER}
  nv_tileas.copy %zeros, %b : tile<4x8xf32>, {BUFFER}
  %left = nv_tileas.insert_slice %ones, %b {{offsets = array<i64: 0, 0>}} : tile<4x4xf32>, {BUFFER} -> {BUFFER}
  %one = nv_tileas.copy %b : {BUFFER} -> tile<4x8xf32>
  nv_tileas.copy %zeros, %b : tile<4x8xf32>, {BUFFER}
  %again = nv_tileas.insert_slice %ones, %b {{offsets = array<i64: 0, 0>}} : tile<4x4xf32>, {BUFFER} -> {BUFFER}
  %two = nv_tileas.copy %again : {BUFFER} -> tile<4x8xf32>
  nv_tileaa.print %one, %two {{format = "%f %f"}} : tile<4x8xf32>, tile<4x8xf32>
  nv_tileaa.return
}}"""
RING = "!nv_tileas.pipeline<2, (!nv_tileas.buffer<4xf32, shared>), mbarrier>"
DRAWN = f"""nv_tileaa.func @k() {SPEC} {{
  %ring = nv_tileas.async.pipeline.create_pipeline : {RING}
  %i = nv_tileas.async.pipeline.create_iterator %ring {{drawn}} : {RING} -> !nv_tileas.pipeline_iterator<{RING}>
  %j = nv_tileas.async.pipeline.create_iterator %ring : {RING} -> !nv_tileas.pipeline_iterator<{RING}>
  nv_tileaa.return
}}"""
VIEW = "!nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xf32, 1>, 4x8, #nv_tileaa.tiling<padding=zero>>"
BEYOND = f"""nv_tileaa.func @k(%m: !nv_tileaa.memref<?x?xf32, 1>, %i: index) {SPEC} {{
  %v = nv_tileaa.block_tile %m {{tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0>, array<i64: 1>]}}
    : !nv_tileaa.memref<?x?xf32, 1> -> {VIEW}
  %0 = arith.constant 0 : index
  %true = arith.constant true
  %all = nv_tileaa.splat %true : i1 -> tile<4x8xi1>
  %fives = nv_tileaa.constant {{value = dense<5.0> : !cuda_tile.tile<4x8xf32>}} : tile<4x8xf32>
  %x = nv_tileaa.tiled_load %v[%0, %i], %all, %fives : {VIEW}, index, index, tile<4x8xi1>, tile<4x8xf32>
    -> tile<4x8xf32>
  nv_tileaa.print %x {{format = "%f"}} : tile<4x8xf32>
  nv_tileaa.return
}}"""


def of_text(text: str) -> ModuleOp:
    module = parse(text, "k.mlir")
    assert isinstance(module, ModuleOp) and diagnose(module) == []
    return module


@pytest.mark.parametrize("pass_name", PASSES)
def test_slices_that_are_written_to_storage_stay(pass_name: str) -> None:
    """Also if nobody uses the storage by the name that they give it."""
    module = of_text(STORAGE)
    want = outcome(of_text(STORAGE), "")
    apply(module, pass_name)
    assert len(list(of_name(module, "nv_tileas.insert_slice"))) == 2
    assert outcome(module, "") == want


def test_a_turn_that_is_drawn_is_drawn() -> None:
    """It is a turn that nobody else gets; an iterator that counts by itself is nobody's business."""
    module = of_text(DRAWN)
    apply(module, "dce")
    (left,) = of_name(module, "nv_tileas.async.pipeline.create_iterator")
    assert "drawn" in left.properties


def test_what_stands_beyond_a_view_stays_without_its_mask() -> None:
    """A mask that is true everywhere goes; `other` is also what is read outside of the view."""
    args = [np.arange(1, 41, dtype=np.float32).reshape(4, 10), 4, 10, 10, 1, 1]
    module = of_text(BEYOND)
    want = libtile.run(Module(of_text(BEYOND)), args=args).output
    assert want.count("5.000000") >= 24
    apply(module, "canonicalize-tileaa")
    (load,) = of_name(module, "nv_tileaa.tiled_load")
    assert not load.group("mask") and load.group("other")
    assert libtile.run(Module(module), args=args).output == want
