# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The reducer: that it finds what matters, in programs of every kind, and what it promises of candidates."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import DenseArrayBase, i32
from xdsl.traits import get_effects

import libtile
from generators.check import parsed, run
from generators.programs import program
from libtile.debugging.behaviour import at_most
from libtile.debugging.reduction import NotInterestingError, Progress
from libtile.dialects.cuda_tile.ops import OPS, SEGMENTS
from libtile.dialects.cuda_tile.types import TokenType

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def ops_of(module: libtile.Module) -> list[str]:
    return [op.name.partition(".")[2] for op in module.op.walk() if not op.name.endswith(".module")]


def holds(*names: str):
    """A property: the program has ops of these names."""
    return lambda module: set(names) <= set(ops_of(module))


def test_a_program_is_reduced_to_what_matters():
    """Here to whatever makes it write a certain element otherwise than a program that does nothing."""
    made = program(37, "control")

    def writes(module: libtile.Module) -> bool:
        args, _ = run(module, made, trace=at_most(20_000))
        return bool(args[-1][0] != before)

    before = made.arguments()[-1][0]
    small = libtile.reduce(parsed(made), writes)
    libtile.verify(small)
    assert ops_of(small) == ["entry", "store_ptr_tko", "return"]


@pytest.mark.parametrize("name", ["gemm", "attention", "layer_norm"])
def test_an_op_of_an_example_is_left_nearly_alone(name):
    small = libtile.reduce(EXAMPLES / f"{name}.bc", holds("reduce") if name == "layer_norm" else holds("mmaf"))
    libtile.verify(small)
    assert len(ops_of(small)) <= 6
    tiles = {str(value.type) for op in small.op.walk() for value in op.results}
    assert not any("64" in type_ or "f16" in type_ for type_ in tiles), tiles


@pytest.mark.parametrize("stage", ["tileaa", "tileas"])
def test_inner_dialects_are_reduced_as_well(stage):
    compiled = libtile.compile(EXAMPLES / "softmax.bc", "sm_90", emit=stage, keep_text=True)
    text = compiled.tileaa if stage == "tileaa" else compiled.tileas
    small = libtile.reduce(text.encode(), lambda module: "math.exp" in str(module) or "nv_tileaa.exp" in str(module))
    assert len(ops_of(small)) <= 6, str(small)
    libtile.verify(small)


def test_other_entries_and_globals_go_and_so_do_arguments():
    text = b"""
    cuda_tile.module @m {
      global @g <i32: 1> : tile<1xi32>
      entry @a(%x: tile<i32>) { return }
      entry @b(%x: tile<i32>, %y: tile<i32>, %p: tile<ptr<i64>>) optimization_hints=<sm_90 = {occupancy = 2}> {
        %s = addi %x, %y overflow<no_signed_wrap> : tile<i32>
        %t = print_tko "%d", %s : tile<i32> -> token
        return
      }
      entry @c() { return }
    }"""
    small = str(libtile.reduce(text, holds("addi")))
    assert small == (
        "cuda_tile.module @m {\n  entry @b(%arg0: tile<i32>) {\n"
        "    %0 = addi %arg0, %arg0 : tile<i32>\n    return\n  }\n}\n"
    )


LOOPS = b"""
cuda_tile.module @m {
  entry @k(%n: tile<i32>, %x: tile<f32>, %p: tile<ptr<f32>>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %a, %b, %c = for %i in (%zero to %n, step %one) : tile<i32>
        iter_values(%u = %x, %v = %x, %w = %one) -> (tile<f32>, tile<f32>, tile<i32>) {
      %s = addf %u, %v : tile<f32>
      %r = loop iter_values(%q = %s) : tile<f32> -> tile<f32> {
        %m = mulf %q, %q : tile<f32>
        %less = cmpf less_than ordered %m, %s : tile<f32> -> tile<i1>
        if %less { break %m : tile<f32> }
        continue %m : tile<f32>
      }
      continue %r, %v, %i : tile<f32>, tile<f32>, tile<i32>
    }
    %t = store_ptr_tko weak %p, %a : tile<ptr<f32>>, tile<f32> -> token
    return
  }
}"""


def test_loops_lose_what_they_carry_and_then_themselves():
    small = libtile.reduce(LOOPS, holds("for", "mulf"))
    (loop,) = [op for op in small.op.walk() if op.name == "cuda_tile.for"]
    assert not loop.results and "loop" not in ops_of(small)
    assert "for" not in ops_of(libtile.reduce(LOOPS, holds("mulf")))
    assert ops_of(libtile.reduce(LOOPS, holds("loop", "break"))).count("for") == 0


def test_candidates_verify_when_the_program_does_and_the_predicate_sees_no_others():
    seen: list[int] = []

    def verified(module: libtile.Module) -> bool:
        libtile.verify(module)
        seen.append(1)
        return "mmaf" in ops_of(module)

    libtile.reduce(EXAMPLES / "gemm.bc", verified)
    assert len(seen) > 20


def test_a_program_that_does_not_verify_is_reduced_without_verifying():
    text = b'cuda_tile.module @m { entry @k(%x: tile<f32>) { %a = "cuda_tile.negf"(%x) : (tile<f32>) -> tile<f32>\n' \
           b'%b = "cuda_tile.negi"(%x) : (tile<f32>) -> tile<f32>\nreturn } }'  # fmt: skip

    def refused(module: libtile.Module) -> bool:
        try:
            libtile.verify(module)
        except libtile.DiagnosticError as error:
            return "'cuda_tile.negi' op operand" in str(error)
        return False

    small = libtile.reduce(text, refused)
    assert ops_of(small) == ["entry", "negi", "return"]


def test_dead_code_is_kept_when_it_matters():
    text = b"""cuda_tile.module @m { entry @k(%x: tile<f32>) {
      %a = negf %x : tile<f32>\n%b = absf %a : tile<f32>\nreturn } }"""
    assert "absf" in ops_of(libtile.reduce(text, holds("absf")))


def test_a_program_without_the_property_is_refused():
    with pytest.raises(NotInterestingError, match="does not have the property"):
        libtile.reduce(LOOPS, holds("mmaf"))


def test_an_interruption_leaves_the_best_so_far():
    steps: list[tuple[Progress, libtile.Module]] = []
    calls = 0

    def interrupted(module: libtile.Module) -> bool:
        nonlocal calls
        calls += 1
        if calls == 12:
            raise KeyboardInterrupt
        return "mmaf" in ops_of(module)

    with pytest.raises(KeyboardInterrupt):
        libtile.reduce(EXAMPLES / "gemm.bc", interrupted, progress=lambda *step: steps.append(step))
    progress, best = steps[-1]
    assert progress.tried <= 12 and "mmaf" in ops_of(best)
    assert [step[0].ops for step in steps] == sorted((step[0].ops for step in steps), reverse=True)


def test_the_program_that_was_given_stays_as_it_is():
    module = libtile.parse(LOOPS.decode())
    before = str(module)
    libtile.reduce(module, holds("mulf"))
    assert str(module) == before


def test_constants_lose_what_they_hold():
    values = ", ".join(map(str, np.arange(64)))
    text = f"""cuda_tile.module @m {{ entry @k() {{
      %a = constant <i32: [{values}]> : tile<64xi32>\n%t = print_tko "%d", %a : tile<64xi32> -> token\nreturn }} }}"""
    small = str(libtile.reduce(text.encode(), holds("print_tko")))
    assert "<i32: 0> : tile<1xi32>" in small
    assert "<i32: 0> : tile<1xi32>" in str(libtile.reduce(text.encode(), holds("constant")))


@pytest.mark.parametrize("name", ["load_ptr_tko", "store_ptr_tko", "load_view_tko", "store_view_tko", "atomic_rmw_tko"])
def test_an_access_that_lost_its_operands_has_effects(name):
    """Steps take operands away, and what is dead is asked before anybody verifies."""
    none = DenseArrayBase.from_list(i32, [0] * len(OPS[name].spec.operands))
    op = OPS[name].create(operands=[], result_types=[TokenType()], properties={SEGMENTS: none})
    assert get_effects(op)
