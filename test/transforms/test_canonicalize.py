# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What `canonicalize` keeps, and where it stops."""

from __future__ import annotations

import io

import pytest
from xdsl.dialects.builtin import UNKNOWN_LOC
from xdsl.ir import Operation

import libtile
from libtile.transforms.canonicalize import canonicalize
from libtile.transforms.greedy import functions_in


def parsed(body: str, arguments: str = "%c: tile<i1>, %x: tile<i32>") -> libtile.Module:
    module = libtile.parse(f"cuda_tile.module @m {{ entry @k({arguments}) {{\n{body}\nreturn }} }}", filename="k.mlir")
    libtile.verify(module)
    return module


def ops(module: libtile.Module, name: str) -> list[Operation]:
    return [op for op in module.op.walk() if op.name == f"cuda_tile.{name}"]


def test_it_reports_whether_anything_changed() -> None:
    module = parsed("%dead = addi %x, %x : tile<i32>")
    assert canonicalize(module.op)
    assert not canonicalize(module.op)


def test_a_function_alone_can_be_canonicalized() -> None:
    module = parsed("%dead = addi %x, %x : tile<i32>")
    (entry,) = functions_in(module.op)
    assert canonicalize(entry)
    assert not ops(module, "addi")


def test_the_bound_on_sweeps_leaves_valid_ir() -> None:
    body = "\n".join(["if %c {"] * 6 + ['print_tko "inner" -> token'] + ["}"] * 6)
    module = parsed(body)
    assert not canonicalize(module.op, max_iterations=0)
    canonicalize(module.op, max_iterations=1)
    libtile.verify(module)
    canonicalize(module.op, max_iterations=-1)
    libtile.verify(module)
    assert len(ops(module, "if")) == 1


def test_a_constant_that_stays_alone_in_its_block_keeps_its_location() -> None:
    module = parsed('%v = constant <i32: 3> : tile<i32>\nprint_tko "%d", %v : tile<i32> -> token')
    location = ops(module, "constant")[0].location
    canonicalize(module.op)
    assert ops(module, "constant")[0].location == location != UNKNOWN_LOC


def test_a_constant_that_stands_for_two_lines_has_neither_location() -> None:
    module = parsed("""
        %v = constant <i32: 3> : tile<i32>
        %w = constant <i32: 3> : tile<i32>
        print_tko "%d %d", %v, %w : tile<i32>, tile<i32> -> token""")
    canonicalize(module.op)
    (constant,) = ops(module, "constant")
    assert constant.location == UNKNOWN_LOC


def test_a_constant_that_leaves_a_branch_loses_its_location() -> None:
    module = parsed('if %c {\n%v = constant <i32: 3> : tile<i32>\nprint_tko "%d", %v : tile<i32> -> token\n}')
    canonicalize(module.op)
    assert ops(module, "constant")[0].location == UNKNOWN_LOC


def test_an_if_that_is_rebuilt_keeps_its_discardable_attributes() -> None:
    module = parsed('if %c {\nprint_tko "yes" -> token\n} else {\n} {cuda_tile.loop_split = 0 : i32}')
    canonicalize(module.op)
    (branch,) = ops(module, "if")
    assert not branch.regions[1].blocks
    assert "cuda_tile.loop_split" in branch.attributes


def test_a_return_can_take_the_place_of_its_if_in_a_loop() -> None:
    module = parsed("""
        %true = constant <i1: true> : tile<i1>
        loop {
          if %true {
            return
          }
          continue
        }""")
    canonicalize(module.op)
    libtile.verify(module)
    (loop,) = ops(module, "loop")
    assert [op.name for op in loop.regions[0].block.ops] == ["cuda_tile.return"]


def test_tokens_are_not_selected() -> None:
    module = parsed("""
        %a = make_token : token
        %b = print_tko "first" -> token
        %t = if %c -> (token) {
          yield %a : token
        } else {
          yield %b : token
        }
        print_tko "second" token=%t -> token""")
    canonicalize(module.op)
    assert ops(module, "if")
    assert not ops(module, "select")


def test_tiles_that_select_does_not_take_stay_in_an_if() -> None:
    module = libtile.parse("""
        cuda_tile.module @m {
          testing$func @f(%c: tile<i1>, %x: tile<4xf4E2M1FN>, %y: tile<4xf4E2M1FN>) -> tile<4xf4E2M1FN> {
            %r = if %c -> (tile<4xf4E2M1FN>) {
              yield %x : tile<4xf4E2M1FN>
            } else {
              yield %y : tile<4xf4E2M1FN>
            }
            return %r : tile<4xf4E2M1FN>
          }
        }""")
    canonicalize(module.op)
    libtile.verify(module)
    assert ops(module, "if")


@pytest.mark.parametrize("element", ["i8", "i16", "i32", "i64"])
@pytest.mark.parametrize(("if_true", "if_false"), [(1, 0), (0, 1)])
def test_a_number_made_of_a_condition_verifies_for_every_integer(element: str, if_true: int, if_false: int) -> None:
    module = libtile.parse(f"""
        cuda_tile.module @m {{
          testing$func @f(%c: tile<2xi1>) -> tile<2x{element}> {{
            %x = constant <{element}: {if_true}> : tile<2x{element}>
            %y = constant <{element}: {if_false}> : tile<2x{element}>
            %r = select %c, %x, %y : tile<2xi1>, tile<2x{element}>
            return %r : tile<2x{element}>
          }}
        }}""")
    libtile.verify(module)
    canonicalize(module.op)
    libtile.verify(module)
    assert not ops(module, "select")


@pytest.mark.parametrize("shape", ["", "1x", "2x", "2x1x4x"])
@pytest.mark.parametrize("condition", [0, 1])
def test_selected_tiles_are_those_that_the_branch_yielded(shape: str, condition: int) -> None:
    module = parsed(
        f"""
        %a = constant <i32: 5> : tile<{shape}i32>
        %b = constant <i32: 9> : tile<{shape}i32>
        %s = if %c -> (tile<{shape}i32>) {{
          yield %a : tile<{shape}i32>
        }} else {{
          yield %b : tile<{shape}i32>
        }}
        print_tko "%d", %s : tile<{shape}i32> -> token"""
    )
    outputs = []
    for _ in range(2):
        out = io.StringIO()
        libtile.run(module, "k", args=[condition, 0], out=out)
        outputs.append(out.getvalue())
        canonicalize(module.op)
        libtile.verify(module)
    assert outputs[0] == outputs[1] != ""
    assert ops(module, "select") and not ops(module, "if")
