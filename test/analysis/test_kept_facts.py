# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ops keep the facts that were found of them: what is found after a change is what is found of a copy, which keeps
none."""

import random
from pathlib import Path

import pytest
from xdsl.ir import Operation

import libtile
from generators.check import parsed
from generators.programs import program
from libtile.analysis import dataflow
from libtile.dialects.cuda_tile.ops import OPS, CudaTileOp, build
from libtile.ir.facts import Fact
from libtile.ir.places import ops_of
from libtile.passes.manager import PassManager
from libtile.passes.pipeline import before_pass, parse_pipeline

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def facts(function: Operation) -> list[Fact | None]:
    """Those of all values of a function, in its order."""
    found, values = dataflow.analyse(function), []
    for op in ops_of(function):
        values += [*op.results, *(a for region in op.regions for block in region.blocks for a in block.args)]
    return [found.get(value) for value in values]


def functions(root: Operation) -> list[Operation]:
    return [op for op in ops_of(root) if op.name == "cuda_tile.entry"]


def check(root: Operation) -> None:
    for function in functions(root):
        assert facts(function) == facts(function.clone())


def check_behind_passes(module: libtile.Module) -> int:
    """Check behind each pass of the way down; returns how many of the checks found a function with facts kept."""
    kept = 0

    def after(name: str, op: Operation) -> None:
        nonlocal kept
        kept += any(getattr(inner, "_found_fact", None) is not None for inner in ops_of(op))
        check(op)

    check(module.op)
    items = before_pass(parse_pipeline("O3"), "strip-mine")
    PassManager(items, verify_each=False, after=after).run(module.op)
    return kept


@pytest.mark.parametrize("name", ["gemm", "attention", "layer_norm", "prefix_sum"])
def test_facts_of_examples_are_found_anew_behind_each_pass(name: str) -> None:
    assert check_behind_passes(libtile.read(EXAMPLES / f"{name}.bc"))


@pytest.mark.parametrize("seed", range(400, 412))
@pytest.mark.parametrize("profile", ["all", "control"])
def test_facts_of_random_programs_are_found_anew_behind_each_pass(profile: str, seed: int) -> None:
    check_behind_passes(parsed(program(seed, profile)))


@pytest.mark.parametrize("seed", range(30))
def test_facts_are_found_anew_where_operands_and_attributes_change(seed: int) -> None:
    """Random edits in place, of which the ops themselves are told nothing."""
    choose = random.Random(seed)
    module = libtile.read(EXAMPLES / f"{choose.choice(['gemm', 'attention', 'softmax'])}.bc")
    function = functions(module.op)[0]
    changed = 0
    for _ in range(12):
        before = facts(function)
        ops = [op for op in ops_of(function, CudaTileOp) if dataflow._visitor(type(op)) is not None]
        op = choose.choice([op for op in ops if op._operands and op.results])
        kind = choose.randrange(3)
        if kind == 0 and op.spec.attribute("overflow"):
            op.properties.pop("overflow", None)
            other = {"overflow": choose.choice(["none", "no_wrap", "no_signed_wrap"])}
            operands = {operand.name: op.operand(operand.name) for operand in op.spec.operands}
            op.properties |= build(op.spec.name, operands, [op.results[0].type], other).properties
        elif kind == 1:
            number = choose.randrange(len(op._operands))
            type_ = op._operands[number].type
            earlier = [a for a in function.regions[0].blocks[0].args if a.type == type_]
            for inner in ops_of(function):
                if inner is op:
                    break
                if inner.parent is op.parent:
                    earlier += [r for r in inner.results if r.type == type_]
            if earlier:
                op.operands[number] = choose.choice(earlier)
        elif isinstance(op, OPS["assume"]):
            value = op.operand("value")
            op.results[0].replace_all_uses_with(value)
            op.detach()
            op.erase()
        after = facts(function)
        assert after == facts(function.clone())
        changed += before != after
    assert changed


def test_what_nothing_was_done_to_is_not_worked_out_again(monkeypatch: pytest.MonkeyPatch) -> None:
    function = functions(libtile.read(EXAMPLES / "gemm.bc").op)[0]
    first = facts(function)
    asked: list[str] = []
    by_rule = dataflow._by_rule
    monkeypatch.setattr(dataflow, "_by_rule", lambda op, state: asked.append(op.name) or by_rule(op, state))
    assert facts(function) == first and not asked
    assume = OPS["assume"]
    op = next(op for op in ops_of(function) if isinstance(op, assume) and isinstance(op.operands[0].owner, assume))
    op.operands[0] = op.operands[0].owner.operands[0]
    facts(function)
    assert op.name in asked and len(asked) < 10


EDITED = """cuda_tile.module @m { entry @k(%a: tile<i8>, %b: tile<i16>, %n: tile<i32>) {
  %wide = exti %a signed : tile<i8> -> tile<i32>
  %eight = constant <i32: 8> : tile<i32>
  %nine = constant <i32: 9> : tile<i32>
  %multiple = assume div_by<8>, %n : tile<i32>
  %other = assume bounded<0, 64>, %n : tile<i32>
  %sum = addi %other, %eight : tile<i32>
  return } }"""


def test_another_operand_of_which_as_little_is_known_is_another_operand() -> None:
    function = functions(libtile.parse(EDITED).op)[0]
    wide = next(op for op in ops_of(function) if op.name == "cuda_tile.exti")
    before = facts(function)
    wide.operands[0] = function.regions[0].blocks[0].args[1]
    assert before != facts(function) == facts(function.clone())


@pytest.mark.parametrize("name", ["constant", "assume"])
def test_another_attribute_is_another_fact(name: str) -> None:
    function = functions(libtile.parse(EDITED).op)[0]
    one, other = (op for op in ops_of(function) if op.name == f"cuda_tile.{name}")
    before = facts(function)
    one.properties, other.properties = other.properties, one.properties
    assert before != facts(function) == facts(function.clone())
    before = facts(function)
    for key in list(one.properties):  # in place
        one.properties[key], other.properties[key] = other.properties[key], one.properties[key]
    assert before != facts(function) == facts(function.clone())
