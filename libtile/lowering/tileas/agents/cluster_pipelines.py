# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pipelines whose stages CTAs of a cluster fill together, and where the CTAs meet for them.

Each CTA copies its share of a tile to all of them, and a stage is left when the consumers of all have left theirs. The
CTAs meet when the barrier objects are there, and before one of them ends, as others may still arrive at its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Operation, SSAValue

from libtile.dialects.nv_tileas.pipeline import CreatePipelineOp
from libtile.dialects.nv_tileas.tiles import ClusterBarrierOp
from libtile.dialects.nv_tileas.types import PipelineType
from libtile.lowering.tileas.inserter import Inserter

ALIGNMENT = 1024
"""Of operands in shared memory: where the pattern of a swizzle begins again."""


def make_pipelines(at: Inserter, kinds: Sequence[tuple[PipelineType, int]], *, pair: bool = False) -> list[SSAValue]:
    """Pipelines of these types, whose consumers wait for all that is produced, each filled by so many CTAs, or of a
    pair, which meets when its barrier objects for results are there as well."""
    made = [
        at.value(
            CreatePipelineOp.make(
                results=[type_], alignment=ALIGNMENT, drained=UnitAttr(), ctas=ctas if ctas > 1 else None, pair=pair
            )
        )
        for type_, ctas in kinds
    ]
    if any(ctas > 1 for _, ctas in kinds):
        at.add(ClusterBarrierOp.make())
    return made


def end_agents(at: Inserter, switch: Operation, kinds: Sequence[tuple[PipelineType, int]]) -> None:
    """The agents that use the pipelines, and where the CTAs meet behind them."""
    at.add(switch)
    if any(ctas > 1 for _, ctas in kinds):
        at.add(ClusterBarrierOp.make())
