# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What passes are told about ops."""

from __future__ import annotations

import pytest
from xdsl.ir import Operation

import libtile
from libtile.transforms.effects import has_no_effects, is_removable, is_speculatable, leaves_region

ARGUMENTS = "%c: tile<i1>, %x: tile<i32>, %f: tile<f32>, %p: tile<ptr<i32>>"


def first_op(body: str) -> Operation:
    """The first op of the body that is no constant."""
    module = libtile.parse(f"cuda_tile.module @m {{ entry @k({ARGUMENTS}) {{\n{body}\nreturn }} }}")
    libtile.verify(module)
    entry = next(op for op in module.op.walk() if op.name == "cuda_tile.entry")
    return next(op for op in entry.regions[0].block.ops if op.name != "cuda_tile.constant")


LOAD = "%v, %t = load_ptr_tko {} %p : tile<ptr<i32>> -> tile<i32>, token"
CONSTANT = "%k = constant <i32: {}> : tile<i32>\n"
FOR = "for %i in (%x to %x, step %x) : tile<i32> {{ {} }}"


@pytest.mark.parametrize(
    ("body", "no_effects", "removable", "speculatable"),
    [
        ("addi %x, %x : tile<i32>", True, True, True),
        ("addi %x, %x overflow<no_signed_wrap> : tile<i32>", True, True, False),
        ("divi %x, %x signed : tile<i32>", True, True, False),
        (CONSTANT.format(0) + "divi %x, %k unsigned : tile<i32>", True, True, False),
        (CONSTANT.format(-1) + "divi %x, %k signed : tile<i32>", True, True, False),
        (CONSTANT.format(-1) + "divi %x, %k unsigned : tile<i32>", True, True, True),
        (CONSTANT.format(3) + "remi %x, %k signed : tile<i32>", True, True, True),
        ("remi %x, %x signed : tile<i32>", True, True, False),
        ("shli %x, %x : tile<i32>", True, True, False),
        ("ftoi %f signed : tile<f32> -> tile<i32>", True, True, False),
        ("make_token : token", True, True, True),
        ("get_tile_block_id : tile<i32>", True, True, True),
        ("assume div_by<4>, %x : tile<i32>", False, True, False),
        (LOAD.format("weak"), False, True, False),
        (LOAD.format("relaxed device"), False, False, False),
        ("store_ptr_tko weak %p, %x : tile<ptr<i32>>, tile<i32> -> token", False, False, False),
        ('print_tko "" -> token', False, False, False),
        ('assert %c, "" : tile<i1>', False, False, False),
        ("if %c { addi %x, %x : tile<i32> }", True, True, False),
        ('if %c { print_tko "" -> token }', False, False, False),
        ("if %c { return }", False, False, False),
        (FOR.format("addi %i, %i : tile<i32>"), False, True, False),
        (FOR.format(LOAD.format("weak")), False, True, False),
        ("loop { break }", False, False, False),
    ],
)
def test_effects(body: str, no_effects: bool, removable: bool, speculatable: bool) -> None:
    op = first_op(body)
    assert (has_no_effects(op), is_removable(op), is_speculatable(op)) == (no_effects, removable, speculatable)


@pytest.mark.parametrize(
    ("body", "leaves"),
    [
        ("addi %x, %x : tile<i32>", False),
        ("if %c { return }", True),
        ("loop { break }", False),
        ("loop { if %c { break } continue }", False),
        ("loop { if %c { return } continue }", True),
        (FOR.format("if %c { continue }"), False),
    ],
)
def test_control_leaves_a_region(body: str, leaves: bool) -> None:
    assert leaves_region(first_op(body)) is leaves


def test_an_exit_of_the_loop_around_leaves_the_region_of_its_if() -> None:
    loop = first_op("loop { if %c { break } continue }")
    assert leaves_region(loop.regions[0].block.ops.first)  # type: ignore[arg-type]


def test_a_reduction_is_speculatable_when_its_body_is() -> None:
    text = """
        %z = constant <i32: 0> : tile<4xi32>
        %r = reduce %z dim=0 identities=[0 : i32] : tile<4xi32> -> tile<i32>
        (%a: tile<i32>, %b: tile<i32>) {{
          %s = {} %a, %b{} : tile<i32>
          yield %s : tile<i32>
        }}"""
    assert is_speculatable(first_op(text.format("addi", "")))
    assert not is_speculatable(first_op(text.format("divi", " signed")))
