# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Stages of pipelines that nobody fills any more: where tiles lie that are stored at the end of a kernel."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Block, Operation, Region, SSAValue

from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileas.pipeline import (
    ConsumerWaitOp,
    CreatePipelineOp,
    ProducerAcquireOp,
)
from libtile.dialects.nv_tileas.types import PipelineType
from libtile.ir.places import ops_in, ops_of
from libtile.lowering.agents import agent_of
from libtile.lowering.tileas.memory.shared_memory import alignment_of, stage_offsets

DRAINED = "drained"
"""On what makes a pipeline with barrier objects: its consumer, which is one agent, waits for all that is produced."""


def stages_bytes(pipeline: Operation) -> int:
    """Bytes of all stages of a pipeline."""
    type_ = pipeline.results[0].type
    assert isinstance(type_, PipelineType)
    return type_.stages * stage_offsets(type_, alignment_of(pipeline))[1]


def room_within(pipeline: Operation, size: int) -> int:
    """The bytes that a buffer takes in the stages of a pipeline, so that the next one is aligned as stages are."""
    return -(-size // alignment_of(pipeline)) * alignment_of(pipeline)


class FreeStages:
    """The drained pipelines of a function: behind the last turns of an agent, buffers lie in their stages, side by
    side."""

    def __init__(self, function: FuncOp):
        self.left = {
            op: stages_bytes(op)
            for op in ops_in(function.body.block)
            if isinstance(op, CreatePipelineOp) and DRAINED in op.attributes
        }

    def take(self, op: Operation, size: int, buffers: int = 1) -> CreatePipelineOp | None:
        """A pipeline with room for buffers of so many bytes each, whose stages are free at an op of an agent's block:
        the fullest one. None where there is none."""
        block = op.parent
        if block is None or not _is_behind_turns(op, block):
            return None
        fit = [p for p, left in self.left.items() if buffers * room_within(p, size) <= left and _is_over(p, op, block)]
        if not fit:
            return None
        found = min(fit, key=lambda p: self.left[p])
        self.left[found] -= buffers * room_within(found, size)
        return found


def _is_behind_turns(op: Operation, block: Block) -> bool:
    """Whether all turns of the agent whose block it is have ended in front of an op, and there are any."""
    before = True
    turns = 0
    for other in ops_in(block):
        if other is op:
            before = False
        inside = len(ops_of(other, ConsumerWaitOp))
        if inside and not before:
            return False
        turns += inside
    return turns > 0


def _is_over(pipeline: CreatePipelineOp, op: Operation, block: Block) -> bool:
    """Whether the consumer of a pipeline has ended its turns in front of an op of an agent's block, all of whose turns
    have: that is the agent, or one that issues products, of which the agent has waited for the results."""
    reader = _agents(pipeline.pipeline, ConsumerWaitOp)
    if reader == {agent_of(op)}:
        return True
    waits = ops_of(block, ConsumerWaitOp)
    return any(_has_results_of(reader, wait.pipeline) for wait in waits)


Waits = dict[Region, list[ConsumerWaitOp]]
"""The waits in regions of agents, kept by who asks for those of several pipelines and changes nothing meanwhile."""


def agents_past(pipeline: Operation, known: Waits | None) -> Iterator[tuple[Operation, int, list[ConsumerWaitOp]]]:
    """The agents that are past the stages of a drained pipeline when some waits have ended: the one that reads them,
    and those that wait for results of the products for which another agent reads them. `known` is None where no
    pipeline's stages are results."""
    made = pipeline.results[0]
    waiting = [(op, agent_of(op)) for use in made.uses if isinstance(op := use.operation, ConsumerWaitOp)]
    readers: set[tuple[Operation | None, int]] = {agent for _, agent in waiting}
    for switch in dict.fromkeys(switch for _, (switch, _) in waiting):
        if switch is None:
            continue
        for number, region in enumerate(switch.regions):
            if readers == {(switch, number)}:
                yield switch, number, [op for op, _ in waiting]
            if known is None or readers == {(switch, number)}:
                continue
            waits = known.get(region)
            if waits is None:
                waits = known[region] = ops_of(region, ConsumerWaitOp)
            if any(_has_results_of(readers, op.pipeline) for op in waits):
                yield switch, number, waits


def _agents(pipeline: SSAValue, kind: type[ConsumerWaitOp | ProducerAcquireOp]) -> set[tuple[Operation | None, int]]:
    """The agents whose turns at a pipeline begin with such an op."""
    return {agent_of(use.operation) for use in pipeline.uses if isinstance(use.operation, kind)}


def _has_results_of(agents: set[tuple[Operation | None, int]], pipeline: SSAValue) -> bool:
    """Whether the stages of a pipeline are results in tensor memory of products that agents issue, which arrive when
    all of these have ended."""
    made = pipeline.owner
    return isinstance(made, CreatePipelineOp) and bool(made.storage) and _agents(pipeline, ProducerAcquireOp) == agents
