# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The ops of a tree, in order."""

import pytest

import libtile
from generators import growing
from libtile.dialects.cuda_tile.ops import OPS, CudaTileOp
from libtile.ir.places import ops_around, ops_in, ops_of
from libtile.passes.manager import _names_in


@pytest.mark.parametrize("text", [growing.if_nest(4), growing.tile_nest(4), growing.loop_row(3), growing.entries(2)])
def test_the_ops_of_a_place_are_what_xdsl_walks(text: str) -> None:
    op = libtile.parse(text).op
    assert ops_of(op) == list(op.walk())
    region = op.regions[0]
    assert ops_of(region) == list(region.walk())
    assert ops_of(region.block) == list(region.block.walk())


@pytest.mark.parametrize("text", [growing.if_nest(4), growing.tile_nest(4), growing.loop_row(3), growing.entries(2)])
def test_the_ops_of_a_block_and_the_names_of_ops_are_those_of_a_walk(text: str) -> None:
    root = libtile.parse(text).op
    for op in ops_of(root):
        assert _names_in(op) == {inner.name for inner in op.walk()}
        for region in op.regions:
            for block in region.blocks:
                assert ops_in(block) == list(block.ops)


@pytest.mark.parametrize("text", [growing.if_nest(4), growing.tile_nest(4), growing.loop_row(3), growing.entries(2)])
def test_the_ops_of_some_classes_are_those_of_a_walk(text: str) -> None:
    root = libtile.parse(text).op
    for op in ops_of(root):
        for place in (op, *op.regions, *(block for region in op.regions for block in region.blocks)):
            every = list(place.walk())
            assert ops_of(place) == every
            for classes in ((OPS["if"],), (OPS["constant"], OPS["yield"]), (CudaTileOp,), (OPS["mmaf"],)):
                assert ops_of(place, *classes) == [inner for inner in every if isinstance(inner, classes)]


def test_the_ops_of_a_class_are_those_before_anything_changes() -> None:
    root = libtile.parse(growing.if_nest(3)).op
    found = ops_of(root, OPS["if"])
    for op in reversed(found):
        op.detach()
        op.erase(safe_erase=False)
    assert len(found) == 3
    assert ops_of(root, OPS["if"]) == []


def test_the_ops_around_an_op_begin_with_the_innermost() -> None:
    text = """cuda_tile.module @m { entry @f() {
      %0 = constant <i32: 0> : tile<i32>
      %1 = constant <i32: 1> : tile<i32>
      for %i in (%0 to %1, step %1) : tile<i32> {
        for %j in (%0 to %i, step %1) : tile<i32> { %s = addi %i, %j : tile<i32> }
      }
      return } }"""
    module = libtile.parse(text).op
    added = next(op for op in ops_of(module) if isinstance(op, OPS["addi"]))
    inner, outer = (op for op in reversed(ops_of(module)) if isinstance(op, OPS["for"]))
    found = list(ops_around(added))
    assert found[:2] == [inner, outer] and isinstance(found[2], OPS["entry"])
    assert found[-1].parent_op() is None and list(ops_around(found[-1])) == []
