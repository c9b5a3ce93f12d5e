# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The sums of a loop in tensor memory: the agents that read them, and the one that adds to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import SSAValue

from libtile.dialects.nv_tileas.pipeline import IncIterOp
from libtile.lowering.tileas.agents import nests, persistent
from libtile.lowering.tileas.agents.fed_steps import FedSteps
from libtile.lowering.tileas.counted_loops import trips
from libtile.lowering.tileas.inserter import Inserter
from libtile.lowering.tileas.tensor_memory import tensor_products
from libtile.lowering.tileas.tensor_memory.tensor_products import Results, Steps
from libtile.support.records import dataclass

Fill = Callable[[Inserter, SSAValue, SSAValue], SSAValue]
"""Brings something to the stages of so many steps, from a place on; the place behind."""


@dataclass(frozen=True)
class Sums:
    """The sums of a loop, by the numbers of what it carries, where they lie in tensor memory, and the steps that add to
    them."""

    fed: FedSteps
    numbers: Sequence[int]
    results: Sequence[Results]
    steps: Steps

    def consume(self, at: Inserter, count: SSAValue | None, before: Fill | None = None) -> None:
        """What the kernel's warps do: they read the sums, behind so many steps (None: those of each tile of a loop over
        tiles), and go on behind the loop. In front of that they bring to the steps what `before` does."""
        loop, outer = self.fed.loop, self.fed.outer
        if outer is None:
            assert count is not None
            if before is not None:
                before(at, count, self.steps.start(at))
            for number, result in zip(self.numbers, self.results):
                result.read(at, count, loop.iter_args[number], loop.results[number])
            persistent.hand_on(loop, {})
            persistent.move_behind(loop, at.block)
            return

        def read(at: Inserter, places: persistent.Places) -> tuple[dict[int, SSAValue], persistent.Places]:
            count = trips(at, loop)
            behind = [] if before is None else [before(at, count, places[-1])]
            for number, result, place in zip(self.numbers, self.results, places):
                result.read(at, count, loop.iter_args[number], loop.results[number], place)
            following = [at.value(IncIterOp.make(p, results=[r.place])) for p, r in zip(places, self.results)]
            return {}, [*following, *behind]

        starts = [result.start(at) for result in self.results]
        persistent.consume(at, outer, loop, starts if before is None else [*starts, self.steps.start(at)], read)
        persistent.move_behind(outer, at.block)

    def multiply(self, at: Inserter, count: SSAValue | None) -> None:
        """What the thread does that issues products, for so many steps. It is made before `consume`, which takes over
        the loop over tiles."""
        loop, outer = self.fed.loop, self.fed.outer
        starts = [*(result.start(at) for result in self.results), self.steps.start(at)]
        if outer is None:
            assert count is not None
            tensor_products.multiply(at, self.results, self.steps, count, starts)
            return
        nests.repeat(
            at, outer, loop, nests.needed(outer, loop, (), ()), starts,
            lambda at, places, values: tensor_products.multiply(
                at, self.results, self.steps, trips(at, loop, values), places
            ),
        )  # fmt: skip
