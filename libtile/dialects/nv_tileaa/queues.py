# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Queues of nv_tileaa: dataflow between agents, before it becomes pipelines."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Attribute, Operation
from xdsl.irdl import (
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import IsTerminator, Pure
from xdsl.utils.exceptions import VerifyException

from libtile.dialects.effect_traits import Allocates, Observable
from libtile.dialects.interfaces import EndsRegion, MayIsolate, is_isolated
from libtile.dialects.nv_tileaa.contracts import require_at_least, require_at_most, require_no_captures
from libtile.dialects.nv_tileaa.terminators import check_region_ends, only_block, require_parent_function
from libtile.dialects.nv_tileaa.types import MAX_STAGES, QueueType
from libtile.ir.tile_form import TileOp, tile_op, type_text

QUEUE_YIELD = "nv_tileaa.queue.yield"


def queue_of(type_: Attribute) -> QueueType:
    """The queue type; VerifyException for any other."""
    if not isinstance(type_, QueueType):
        raise VerifyException(f"expects a queue, but got {type_text(type_)}")
    return type_


class OfIsolatedQueue(MayIsolate):
    """The op works on its first operand, a queue whose type says whether it is isolated."""

    def isolates(self, op: Operation) -> bool:
        return queue_of(op.operands[0].type).isolated


@tile_op
class CreateQueueOp(TileOp):
    """A queue of at most `depth` entries."""

    name = "nv_tileaa.create_queue"
    traits = traits_def(Allocates())
    queue = result_def()
    depth = prop_def(IntegerAttr)
    num_consumers = opt_prop_def(IntegerAttr)

    def check(self) -> None:
        queue_of(self.queue.type)
        if self.depth.value.data < 1:
            raise VerifyException(f"expects a depth of at least 1, but got {self.depth.value.data}")
        require_at_least(self, 1, "num_consumers")
        require_at_most(self, MAX_STAGES, "depth", "num_consumers")


@tile_op
class QueueYieldOp(TileOp):
    """Ends the region of a queue op, and hands its values on."""

    name = QUEUE_YIELD
    values = var_operand_def()
    traits = traits_def(IsTerminator(), Pure(), EndsRegion())

    def check(self) -> None:
        require_parent_function(self)


@tile_op
class QueuePutOp(TileOp):
    """Puts what the region yields into a queue."""

    name = "nv_tileaa.queue.put"
    traits = traits_def(Observable(), OfIsolatedQueue())
    queue = operand_def()
    body = region_def()

    def check(self) -> None:
        expected = queue_of(self.queue.type).result_types
        check_region_ends(self, QUEUE_YIELD)
        last = only_block(self).last_op
        if last is not None and tuple(v.type for v in last.operands) != expected:
            raise VerifyException("expects the region to yield values of the queue's types")
        if is_isolated(self):
            require_no_captures(self.body, "an isolated queue")


@tile_op
class QueueGetOp(TileOp):
    """Takes values from a queue and hands them to the region, whose yielded values are the results."""

    name = "nv_tileaa.queue.get"
    traits = traits_def(Observable(), OfIsolatedQueue())
    queue = operand_def()
    outputs = var_result_def()
    consumer_idx = opt_prop_def(IntegerAttr)
    body = region_def()

    def check(self) -> None:
        expected = queue_of(self.queue.type).result_types
        check_region_ends(self, QUEUE_YIELD)
        block = only_block(self)
        if tuple(a.type for a in block.args) != expected:
            raise VerifyException("expects region arguments of the queue's types")
        if block.last_op is not None and [v.type for v in block.last_op.operands] != [r.type for r in self.results]:
            raise VerifyException("expects the region to yield values of the op's result types")
        if is_isolated(self):
            require_no_captures(self.body, "an isolated queue")
        self._check_consumer()

    def _check_consumer(self) -> None:
        made = self.queue.owner
        count = made.num_consumers.value.data if isinstance(made, CreateQueueOp) and made.num_consumers else 1
        index = self.consumer_idx.value.data if self.consumer_idx is not None else 0
        if index < 0 or (isinstance(made, CreateQueueOp) and index >= count):
            raise VerifyException(f"expects consumer_idx to identify a consumer in a group of {count}, but got {index}")
