# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What it takes to compute an op's operands some iterations of a loop ahead.

An operand that depends on nothing but the loop's counter is computed from the counter of that later iteration. What
the loop carries can be had ahead, too, where one iteration computes it from the counter and other such values (a
pointer that moves on by a step): the loop then carries it a second time, so many iterations ahead.
"""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.ir import Block, Operation, SSAValue

from libtile.dialects.foreign_ops import DIVISIONS
from libtile.dialects.nv_tileaa.types import MemTokenType
from libtile.lowering.tileas.cleanup import is_pure
from libtile.support.records import dataclass


@dataclass(frozen=True)
class Ahead:
    """The ops of a loop's body that operands come from, and the numbers of the values that the loop carries which they
    use; `updates` are the ops by which the body makes the next such values. Ops are in the order of the program."""

    ops: tuple[Operation, ...]
    carried: tuple[int, ...]
    updates: tuple[Operation, ...]


def is_inside(value: SSAValue, body: Block) -> bool:
    """Whether a value is made in a loop's body, or carried by the loop."""
    return value.owner is body or (isinstance(value.owner, Operation) and value.owner.parent is body)


def computed_ahead(users: Iterable[Operation], body: Block) -> Ahead | None:
    """How to compute the operands (but for tokens) of ops of a body ahead; None when that takes more than pure ops."""
    return values_ahead([v for op in users for v in op.operands if not isinstance(v.type, MemTokenType)], body)


def values_ahead(values: Iterable[SSAValue], body: Block) -> Ahead | None:
    """How to compute values of a body ahead; None when that takes more than pure ops."""
    found = closure(values, body)
    if found is None:
        return None
    ops, carried = found
    last = body.last_op
    assert last is not None
    updates: set[Operation] = set()
    while True:
        more = closure([last.operands[number] for number in carried], body)
        if more is None or any(isinstance(op, DIVISIONS) for op in more[0]):
            return None
        updates |= more[0]
        if more[1] <= carried:
            break
        carried |= more[1]
    ordered = list(body.ops)
    return Ahead(
        tuple(op for op in ordered if op in ops), tuple(sorted(carried)), tuple(op for op in ordered if op in updates)
    )


def closure(
    values: Iterable[SSAValue], body: Block, also: tuple[type[Operation], ...] = ()
) -> tuple[set[Operation], set[int]] | None:
    """The pure ops of a body that values come from (and ops of classes in `also`), and the numbers of the carried
    values among what these use; None where they come from others."""
    ops: set[Operation] = set()
    carried: set[int] = set()
    work = list(values)
    while work:
        value = work.pop()
        owner = value.owner
        if owner is body:
            if value is not body.args[0]:
                carried.add(body.args.index(value) - 1)
        elif isinstance(owner, Operation) and owner.parent is body and owner not in ops:
            if not is_pure(owner) and not isinstance(owner, also):
                return None
            ops.add(owner)
            work += owner.operands
    return ops, carried
