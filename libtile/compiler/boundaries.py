# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The legality tables between passes: what each pass of a compilation leaves may stand at the stage it is at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from libtile.dialects.cuda_tile.ops import OPS
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileaa.kernels import TILEAA, TILEAS, stage_of
from libtile.lowering import legality
from libtile.lowering.to_llvm.legality import STAGE as FOR_LLVM
from libtile.lowering.to_tileaa.legality import STAGE as TILE
from libtile.lowering.to_tileas.legality import GIVEN, PIPELINED
from libtile.lowering.to_tileas.legality import STAGE as LAID_OUT
from libtile.passes.manager import Instrument, PassRun
from libtile.support.diagnostics import LoweringError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xdsl.ir import Operation

    from libtile.lowering.legality import Stage
    from libtile.passes.pipeline import Item

STAGES: dict[str | None, Stage] = {None: TILE, TILEAA: GIVEN, TILEAS: LAID_OUT}
"""The table of each stage that a module is at between passes."""
BEHIND: dict[str, Stage] = {"lower-tileaa-queues": PIPELINED}
"""The table that holds behind a pass, up to the next stage."""


class Boundaries(Instrument):
    """Holds what passes leave against the table of the stage, its discardable attributes included.

    `made_by` are the passes that a module gets to a later stage by. LoweringError, with the name of the pass.
    """

    def __init__(self, target: str, made_by: Mapping[str, str]):
        self.target = target
        self.made_by = {name: stage for stage, name in made_by.items()}
        self.table = STAGES[None]

    def begin(self, items: Sequence[Item], op: Operation) -> None:
        stage = stage_of(op)
        # What is written by hand may be what queues become.
        self.table = PIPELINED if stage == TILEAA else STAGES[stage]

    def after(self, run: PassRun, op: Operation) -> None:
        if run.name in self.made_by:
            self.table = STAGES[self.made_by[run.name]]
        self.table = BEHIND.get(run.name, self.table)
        self._check(self.table, op, run.name)

    def emitted(self, op: Operation) -> None:
        """What LLVM IR is about to be made of."""
        self._check(FOR_LLVM, op, "the last pass")

    def _check(self, stage: Stage, root: Operation, made_by: str) -> None:
        try:
            for op in _functions(root):
                legality.check(stage, op, self.target, attributes=True)
        except LoweringError as problem:
            raise LoweringError(
                f"the compiler made IR that may not stand in {stage.name} in {made_by}:\n{problem}", problem.location
            ) from None


def _functions(root: Operation) -> list[Operation]:
    """What the tables are for: kernels, and functions and globals of Tile IR; what the host runs is none of it."""
    found: list[Operation] = []
    for op in root.regions[0].block.ops:
        if isinstance(op, OPS["module"]):
            found += [inner for region in op.regions for block in region.blocks for inner in block.ops]
        elif isinstance(op, FuncOp):
            found.append(op)
    return found
