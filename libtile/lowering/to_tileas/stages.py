# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pipelines whose stages hold tiles, as `lower-tileaa-queues` makes them: in nv_tileas a stage holds buffers instead.

A stage's buffer has the shape of the tile. What the producer's region yields is copied to it, what the consumer's gets
is copied from it. How the elements lie in the buffer `tileas-assign-stage-layouts` says later, by these copies.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from libtile.dialects.nv_tileas.pipeline import (
    AgentSwitchOp,
    ConsumeOneOp,
    ConsumerReadOp,
    ConsumerReleaseOp,
    ConsumerWaitOp,
    CreateIteratorOp,
    CreatePipelineOp,
    IncIterOp,
    PipelineYieldOp,
    ProduceOneOp,
    ProducerAcquireOp,
    ProducerCommitOp,
    ProducerWriteOp,
    carried_types,
)
from libtile.dialects.nv_tileas.types import (
    BufferType,
    ConsumerTokenType,
    PipelineIteratorType,
    PipelineType,
    ProducerTokenType,
)

IN_PLACE = (ProduceOneOp, ConsumeOneOp, ProducerWriteOp, ConsumerReadOp)
"""Ops whose region is run where they stand, and yields their results, those of a write and a read behind a token."""
WITH_REGIONS = (*IN_PLACE, AgentSwitchOp)
PIPELINE_OPS = (
    *WITH_REGIONS, CreatePipelineOp, CreateIteratorOp, IncIterOp, PipelineYieldOp,
    ProducerAcquireOp, ProducerCommitOp, ConsumerWaitOp, ConsumerReleaseOp,
)  # fmt: skip
"""The ops of nv_tileas that stand among those of nv_tileaa behind `lower-tileaa-queues`."""


def staged_type(type_: Attribute) -> Attribute:
    """The type of a pipeline, an iterator or a token with buffers in place of tiles; any other type as it is."""
    match type_:
        case PipelineType():
            elements = _buffers(type_.element_types)
            return PipelineType(type_.stages, elements, type_.consumers, type_.synchronization)
        case PipelineIteratorType():
            return PipelineIteratorType(staged_type(type_.pipeline))
        case ProducerTokenType():
            return ProducerTokenType(_buffers(type_.element_types))
        case ConsumerTokenType():
            return ConsumerTokenType(_buffers(type_.element_types))
    return type_


def staged_element(type_: Attribute) -> Attribute:
    """What a stage holds for a tile: a buffer; anything else as it is."""
    return BufferType(type_.get_shape(), type_.element_type, "shared") if isinstance(type_, TensorType) else type_


def _buffers(types: Sequence[Attribute]) -> list[Attribute]:
    return [staged_element(type_) for type_ in types]


def yielded(op: Operation, position: int) -> SSAValue | None:
    """What the region of an op of `IN_PLACE` yields for a result; None for a token."""
    first = 1 if isinstance(op, ProducerWriteOp | ConsumerReadOp) else 0
    last = op.regions[0].block.last_op
    return last.operands[position - first] if position >= first and last is not None else None


def held_tiles(op: ProducerWriteOp) -> int:
    """How many of the first values that the region of a write yields are what the stage holds from then on: all that a
    stage holds, or none where the region itself writes into its buffers."""
    types = carried_types(op.token.type) or ()
    given = tuple(r.type for r in op.outputs[: len(types)])
    return len(types) if given == types and any(isinstance(t, TensorType) for t in types) else 0
