# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A snapshot tells every change of the IR that a verifier could object to, and nothing else."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from xdsl.dialects.builtin import StringAttr, UnitAttr
from xdsl.ir import Block, Operation, Region

from libtile.asm import parse
from libtile.ir.snapshot import Snapshot

TEXT = """
cuda_tile.module @m {
  entry @k(%p: tile<i32>, %q: tile<i32>) {
    %a = addi %p, %q : tile<i32>
    %c = constant <i1: 1> : tile<i1>
    if %c {
      %b = muli %a, %p : tile<i32>
    } else {
    }
    return
  }
}
"""


def found(root: Operation, name: str) -> Operation:
    return next(op for op in root.walk() if op.name == f"cuda_tile.{name}")


def swap_operands(root: Operation) -> None:
    add = found(root, "addi")
    add.operands = tuple(reversed(add.operands))


def other_type(root: Operation) -> None:
    found(root, "addi").results[0]._type = found(root, "constant").results[0].type


def other_argument_type(root: Operation) -> None:
    found(root, "addi").operands[0]._type = found(root, "constant").results[0].type


def set_attribute(root: Operation) -> None:
    found(root, "addi").attributes["note"] = UnitAttr()


def set_property(root: Operation) -> None:
    found(root, "addi").properties["note"] = StringAttr("x")


def move_out(root: Operation) -> None:
    """The last op of a block becomes the next one behind it: the order of ops in the text is the same."""
    inner, branch = found(root, "yield"), found(root, "if")
    inner.detach()
    assert branch.parent is not None
    branch.parent.insert_op_after(inner, branch)


def erase(root: Operation) -> None:
    found(root, "muli").detach()


def add_block(root: Operation) -> None:
    found(root, "if").regions[1].add_block(Block())


def move_region(root: Operation) -> None:
    branch = found(root, "if")
    moved = branch.detach_region(branch.regions[1])
    branch.regions = (Region(), branch.detach_region(branch.regions[0]), moved)


CHANGES = (
    swap_operands, other_type, other_argument_type, set_attribute, set_property, move_out, erase, add_block,
    move_region,
)  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda c: c.__name__)
def test_a_change_is_seen(change: Callable[[Operation], None]) -> None:
    root = parse(TEXT)
    before = Snapshot(root)
    assert before.same_as(Snapshot(root))
    change(root)
    assert not before.same_as(Snapshot(root))


def test_what_is_put_back_is_the_same() -> None:
    root = parse(TEXT)
    before = Snapshot(root)
    swap_operands(root)
    swap_operands(root)
    assert before.same_as(Snapshot(root))
    assert not before.same_as(Snapshot(root.clone()))
