# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What it takes to compute an op's operands some iterations of a loop ahead.

An operand that depends on nothing but the loop's counter is computed from the counter of that later iteration. What
the loop carries can be had ahead, too, where one iteration computes it from the counter and other such values (a
pointer that moves on by a step): the loop then carries it a second time, so many iterations ahead. An agent that goes
through all iterations itself may also load numbers for it (of pages, of experts), and divide.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from xdsl.ir import Block, Operation, SSAValue

from libtile.analysis.tokens import is_fresh
from libtile.dialects import scf
from libtile.dialects.arith import DIVISIONS
from libtile.dialects.effect_traits import only_computes
from libtile.dialects.interfaces import JoinsTokens
from libtile.dialects.nv_tileaa.types import MemTokenType
from libtile.dialects.nv_tileas.memory import LoadOp, TiledLoadOp
from libtile.ir.places import ops_in
from libtile.ir.tile_form import shape_of
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


def computed_ahead(users: Iterable[Operation], body: Block, *, loads: bool = False) -> Ahead | None:
    """How to compute the operands (but for tokens) of ops of a body ahead; None when that takes more than pure ops, or,
    with `loads`, than divisions and loads of numbers: by who goes through the same iterations as the loop."""
    given = [v for op in users for v in op.operands if not isinstance(v.type, MemTokenType)]
    return values_ahead(given, body, loads=loads)


def values_ahead(values: Iterable[SSAValue], body: Block, *, loads: bool = False) -> Ahead | None:
    """How to compute values of a body ahead; None when that takes more than pure ops (with `loads`, as above)."""
    found = closure(values, body, loads=loads)
    if found is None:
        return None
    ops, carried = found
    last = body.last_op
    assert last is not None
    updates: set[Operation] = set()
    while True:
        more = closure([last.operands[number] for number in carried], body, loads=loads)
        if more is None or any(isinstance(op, DIVISIONS) for op in more[0]):
            return None
        updates |= more[0]
        if more[1] <= carried:
            break
        carried |= more[1]
    ordered = ops_in(body)
    return Ahead(
        tuple(op for op in ordered if op in ops), tuple(sorted(carried)), tuple(op for op in ordered if op in updates)
    )


def closure(
    values: Iterable[SSAValue], body: Block, also: tuple[type[Operation], ...] = (), *, loads: bool = False
) -> tuple[set[Operation], set[int]] | None:
    """The pure ops of a body that values come from (and ops of classes in `also`, and with `loads` divisions and loads
    of numbers), and the numbers of the carried values among what these use; None where they come from others."""
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
            same = loads and (only_computes(owner) or loads_a_number(owner))
            if not is_pure(owner) and not isinstance(owner, also) and not same:
                return None
            ops.add(owner)
            work += [v for v in owner.operands if v.owner is not body or not isinstance(v.type, MemTokenType)]
    return ops, carried


def orders_nothing_behind(load: TiledLoadOp | LoadOp) -> bool:
    """Whether a load's token goes to the end of its block alone: from one iteration to the next, and to no access."""
    work = [] if load.result_token is None else [load.result_token]
    while work:
        for use in work.pop().uses:
            op = use.operation
            if op.has_trait(JoinsTokens):
                work.append(op.results[0])
            elif not isinstance(op, scf.YieldOp) or op.parent is not load.parent:
                return False
    return True


def is_unordered(load: TiledLoadOp | LoadOp) -> bool:
    """Whether a load is in order with no other access, so that who runs ahead of a loop can do it."""
    if not orders_nothing_behind(load):
        return False
    return load.semantic == "weak" and all(is_fresh(t) for t in load.group("token"))


def loads_a_number(op: Operation) -> bool:
    """Whether an op loads one element, in order with nothing: a page's number, an expert's."""
    if not isinstance(op, TiledLoadOp | LoadOp):
        return False
    return prod(shape_of(op.value.type)) == 1 and is_unordered(op)
