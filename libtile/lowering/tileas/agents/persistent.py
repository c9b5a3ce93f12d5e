# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels that work through several tiles: loops and branches around the one with a product (`nests`), which all
agents go through.

    consumers   for each tile: what is in front of its steps, its steps, what is behind them
    producer    for each tile: what addresses are computed from, and the copies of its steps
    products    for each tile, where a thread of its own issues them: how many steps there are, and their products

Places in pipelines are carried from tile to tile, so that the stages of the next tile are filled while consumers
are behind the last step of this one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from xdsl.ir import Attribute, Block, Operation, SSAValue

from libtile.dialects import scf
from libtile.dialects.nv_tileaa.terminators import ReturnOp
from libtile.dialects.nv_tileas.pipeline import PipelineYieldOp
from libtile.lowering.tileas.agents import nests
from libtile.lowering.tileas.inserter import Inserter

Places = nests.Places
Steps = Callable[[Inserter, Places], tuple[Mapping[int, SSAValue], Places]]
"""Makes the steps of a tile at an inserter, from places on: results of the loop by number, but for those that nothing
uses any more, and the places behind the steps."""


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


def consume(at: Inserter, outer: Operation, loop: scf.ForOp, starts: Places, steps: Steps) -> None:
    """The nest with steps of consumers in place of the loop over steps, from places on that are carried from tile to
    tile. The nest is left without its outermost op's regions."""
    assert loop.parent is not None
    here = Inserter(loop.parent, loop, loop.location)

    def of_tile(places: Places) -> Places:
        ends, following = steps(here, places)
        hand_on(loop, ends)
        loop.detach()
        loop.erase()
        return following

    nests.carry(at, outer, loop, starts, of_tile)
