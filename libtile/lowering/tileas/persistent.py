# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels that work through several tiles: a loop around the one with a product, which all agents go through.

    consumers   for each tile: what is in front of its steps, its steps, what is behind them
    producer    for each tile: what addresses are computed from, and the copies of its steps
    products    for each tile, where a thread of its own issues them: how many steps there are, and their products

Places in pipelines are carried from tile to tile, so that the stages of the next tile are filled while consumers
are behind the last step of this one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, SSAValue

from libtile.dialects.foreign_ops import DIVISIONS
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileaa.types import MemTokenType
from libtile.lowering.tileas.ahead import closure
from libtile.lowering.tileas.materialize import Inserter
from libtile.lowering.tileas.tma_operands import Unfit

Steps = Callable[[Inserter, SSAValue], tuple[SSAValue | None, SSAValue]]
"""Makes the steps of a tile at an inserter, from a place on: the accumulator, unless everything uses it already, and
the place behind them."""
Places = Sequence[SSAValue]
Turns = Callable[[Inserter, Places, dict[SSAValue, SSAValue]], Places]
"""Makes what an agent does for a tile at an inserter, from places on, with values for some: the places behind that."""


def outer_loop(function: FuncOp, loop: scf.ForOp) -> scf.ForOp | None:
    """The loop over tiles around a loop, which carries nothing but tokens; None for a loop of the function itself.
    Unfit for one within another op."""
    if loop.parent is function.body.block:
        return None
    outer = loop.parent_op()
    if not isinstance(outer, scf.ForOp) or outer.parent is not function.body.block:
        raise Unfit("its loop is within another op")
    if not all(isinstance(v.type, MemTokenType) for v in outer.iter_args):
        raise Unfit("the loop around its loop carries more than tokens")
    return outer


def needed(
    outer: scf.ForOp, loop: scf.ForOp, users: Iterable[Operation], initial: Sequence[SSAValue]
) -> list[Operation]:
    """The ops in front of a loop over steps that its bounds, what the copies of each step begin with (`initial`), and
    the operands of ops in it come from. Unfit where they come from more than pure ops and the counter."""
    body = outer.body.block
    given = (v for op in users for v in op.operands if not isinstance(v.type, MemTokenType))
    # Divisions are computed for tiles that there are, as in the loop itself.
    found = closure([loop.lb, loop.ub, loop.step, *initial, *given], body, DIVISIONS)
    if found is None or found[1]:
        raise Unfit("an address depends on what the loop around its loop computes")
    return [op for op in body.ops if op in found[0]]


def repeat(at: Inserter, outer: scf.ForOp, ops: Sequence[Operation], starts: Places, turns: Turns) -> None:
    """The loop over tiles of an agent that computes none of them, of which it needs what `ops` give."""
    block = Block(arg_types=[outer.body.block.args[0].type, *(v.type for v in starts)])
    inner = Inserter(block, None, at.location)
    values: dict[SSAValue, SSAValue] = {outer.body.block.args[0]: block.args[0]}
    inner.clone(ops, values)
    inner.add(scf.YieldOp(*turns(inner, block.args[1:], values)))
    made = scf.ForOp(outer.lb, outer.ub, outer.step, starts, block)
    made.attributes.update(outer.attributes)
    at.add(made)


def consume(
    at: Inserter, outer: scf.ForOp, loop: scf.ForOp, carried: int, start: SSAValue, steps: Steps
) -> None:  # fmt: skip
    """The loop over tiles, with steps of consumers in place of the loop over steps, whose result number `carried` is
    the accumulator. The outer loop is gone then."""
    block = outer.body.block
    place = block.insert_arg(start.type, len(block.args))
    end, following = steps(Inserter(block, loop, loop.location), place)
    if end is not None:
        end.name_hint = loop.results[carried].name_hint
    for n, result in enumerate(loop.results):
        # Loads have ended before their products do: what tokens ordered behind them is.
        if n != carried:
            result.replace_all_uses_with(loop.iter_args[n])
        elif end is not None:
            result.replace_all_uses_with(end)
    loop.detach()
    loop.erase()
    last = block.last_op
    assert last is not None
    given = [*last.operands, following]
    last.detach()
    last.erase()
    block.add_op(scf.YieldOp(*given))
    made = scf.ForOp(outer.lb, outer.ub, outer.step, [*outer.iter_args, start], outer.detach_region(outer.body))
    made.attributes.update(outer.attributes)
    at.add(made, outer.location)
    for old, new in zip(outer.results, made.results):
        old.replace_all_uses_with(new)
