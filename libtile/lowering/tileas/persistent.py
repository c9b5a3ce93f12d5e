# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels that work through several tiles: a loop around the one with a product, which all agents go through.

    consumers   for each tile: what is in front of its steps, its steps, what is behind them
    producer    for each tile: what addresses are computed from, and the copies of its steps
    products    for each tile, where a thread of its own issues them: how many steps there are, and their products

Places in pipelines are carried from tile to tile, so that the stages of the next tile are filled while consumers
are behind the last step of this one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from xdsl.ir import Attribute, Block, Operation, SSAValue

from libtile.dialects import scf
from libtile.dialects.arith import DIVISIONS
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileaa.terminators import ReturnOp
from libtile.dialects.nv_tileaa.types import MemTokenType
from libtile.dialects.nv_tileas.pipeline import PipelineYieldOp
from libtile.lowering.tileas.ahead import closure
from libtile.lowering.tileas.materialize import Inserter
from libtile.lowering.tileas.tma_operands import Unfit

Places = Sequence[SSAValue]
Steps = Callable[[Inserter, Places], tuple[Mapping[int, SSAValue], Places]]
"""Makes the steps of a tile at an inserter, from places on: results of the loop by number, but for those that nothing
uses any more, and the places behind the steps."""
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


def hand_on(loop: scf.ForOp, ends: Mapping[int, SSAValue]) -> None:
    """Replace the results of a loop by those of its steps, by number. Of others only tokens are used: loads have ended
    before their products do, so that what they ordered is."""
    for n, result in enumerate(loop.results):
        if n in ends:
            ends[n].name_hint = result.name_hint
        result.replace_all_uses_with(ends.get(n, loop.iter_args[n]))


def move_behind(loop: Operation, block: Block) -> None:
    """Move what is behind a loop of the function to the end of an agent's block, which it ends."""
    move_on(loop.next_op, block, loop.location)


def move_on(first: Operation | None, block: Block, location: Attribute | None) -> None:
    """Move what a function does from an op on to the end of an agent's block, which it ends, at a location."""
    while first is not None and not isinstance(first, ReturnOp):
        op, first = first, first.next_op
        op.detach()
        block.add_op(op)
    Inserter(block, None, location).add(PipelineYieldOp.make())


def consume(at: Inserter, outer: scf.ForOp, loop: scf.ForOp, starts: Places, steps: Steps) -> None:
    """The loop over tiles, with steps of consumers in place of the loop over steps, from places on that are carried
    from tile to tile. The outer loop is gone then."""

    def of_tile(places: Places) -> Places:
        ends, following = steps(Inserter(outer.body.block, loop, loop.location), places)
        hand_on(loop, ends)
        loop.detach()
        loop.erase()
        return following

    consume_tiles(at, outer, starts, of_tile)


def consume_tiles(at: Inserter, outer: scf.ForOp, starts: Places, of_tile: Callable[[Places], Places]) -> None:
    """The loop over tiles, of whose body something takes the place, from places on that are carried from tile to tile:
    `of_tile` gives those behind it. The outer loop is left without a body."""
    block = outer.body.block
    places = [block.insert_arg(start.type, len(block.args)) for start in starts]
    following = of_tile(places)
    last = block.last_op
    assert last is not None
    given = [*last.operands, *following]
    last.detach()
    last.erase()
    block.add_op(scf.YieldOp(*given))
    made = scf.ForOp(outer.lb, outer.ub, outer.step, [*outer.iter_args, *starts], outer.detach_region(outer.body))
    made.attributes.update(outer.attributes)
    at.add(made, outer.location)
    for old, new in zip(outer.results, made.results):
        old.replace_all_uses_with(new)
