# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where control flow takes values: what an op's operand is elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from libtile.dialects import scf
from libtile.dialects.nv_tileas.pipeline import (
    ConsumeOneOp,
    ConsumerReadOp,
    PipelineYieldOp,
    ProduceOneOp,
    ProducerWriteOp,
)


def handed_on(op: Operation, index: int) -> Sequence[SSAValue]:
    """The values that an operand of an op is at other places of control flow."""
    parent = op.parent_op()
    match op:
        case scf.ForOp() if index >= 3:
            return op.body.block.args[index - 2], op.results[index - 3]
        case scf.WhileOp():
            return (op.before_region.block.args[index],)
        case scf.ConditionOp() if index and isinstance(parent, scf.WhileOp):
            return parent.results[index - 1], parent.after_region.block.args[index - 1]
        case scf.YieldOp():
            match parent:
                case scf.ForOp():
                    return parent.body.block.args[index + 1], parent.results[index]
                case scf.WhileOp():
                    return (parent.before_region.block.args[index],)
                case scf.IfOp():
                    return (parent.results[index],)
        case PipelineYieldOp():
            if isinstance(parent, ProduceOneOp | ConsumeOneOp):
                return (parent.results[index],)
            if isinstance(parent, ProducerWriteOp | ConsumerReadOp):
                return (parent.outputs[index],)
    return ()
