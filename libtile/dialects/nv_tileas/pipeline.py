# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Asynchronous pipelines of nv_tileas: bounded rings of stages between producer and consumer agents.

A producer acquires a stage, writes it and commits it; a consumer waits for it, reads it and releases it. An iterator
says which stage, and in which round. `produce_one` and `consume_one` hold one such turn in a region.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, UnitAttr
from xdsl.ir import Attribute, Operation, OpResult
from xdsl.irdl import (
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_region_def,
    var_result_def,
)
from xdsl.traits import IsTerminator, Pure
from xdsl.utils.exceptions import VerifyException

from libtile.dialects.effect_traits import Allocates, MayDraw, Observable
from libtile.dialects.interfaces import EndsRegion, NamesMemoryOf
from libtile.dialects.nv_tileaa.contracts import require_arguments, require_at_least, require_yields
from libtile.dialects.nv_tileaa.terminators import (
    check_agent_entries,
    check_region_ends,
    only_block,
    require_agents,
    require_parent_function,
)
from libtile.dialects.nv_tileas.iterator_rules import check_own_iterator
from libtile.dialects.nv_tileas.tiles import check_alignment
from libtile.dialects.nv_tileas.turn_rules import (
    check_committed,
    check_once,
    check_read,
    check_same_turn,
    check_written,
)
from libtile.dialects.nv_tileas.types import (
    AsyncTokenType,
    BufferType,
    ConsumerTokenType,
    PipelineIteratorType,
    PipelineType,
    ProducerTokenType,
)
from libtile.ir.tile_form import TileOp, integer_of, tile_op, type_text

PIPELINE_YIELD = "nv_tileas.async.pipeline.yield"


def expect_type(what: str, type_: Attribute, cls: type[Attribute]) -> None:
    """VerifyException unless a type is of a class."""
    if not isinstance(type_, cls):
        raise VerifyException(f"expects {what} of type '{cls.name}', but got {type_text(type_)}")


def carried_types(type_: Attribute) -> tuple[Attribute, ...] | None:
    """What a stage of a pipeline holds, by the type of the pipeline or of a token; None for any other type."""
    if isinstance(type_, PipelineType | ProducerTokenType | ConsumerTokenType):
        return type_.element_types
    return None


def check_storage(storage: Sequence[Attribute], pipeline: PipelineType) -> None:
    """Storage for all stages: a buffer for each value of a stage, whose first dimension counts stages."""
    if not storage:
        return
    types = pipeline.element_types
    if len(storage) != len(types):
        raise VerifyException(f"expects storage for {len(types)} values of a stage, but got {len(storage)} buffers")
    for given, type_ in zip(storage, types):
        if not isinstance(given, BufferType) or not isinstance(type_, BufferType):
            raise VerifyException(f"expects a buffer for stages of buffers, but got {type_text(given)}")
        expected = (pipeline.stages, *type_.shape)
        same = given.element_type == type_.element_type and given.space == type_.space
        if given.shape != expected or not same:
            raise VerifyException(
                f"expects storage of shape {list(expected)} for {type_text(type_)}, but got {type_text(given)}"
            )


def check_iterator(iterator: Attribute, pipeline: Attribute) -> None:
    """An iterator of this pipeline; VerifyException."""
    expect_type("an iterator", iterator, PipelineIteratorType)
    if isinstance(iterator, PipelineIteratorType) and iterator.pipeline != pipeline:
        raise VerifyException(f"expects an iterator of {type_text(pipeline)}, but got {type_text(iterator)}")


@tile_op
class CreatePipelineOp(TileOp):
    """A pipeline: its type has the stages and what a stage holds; the groups name the agents on both sides.

    Each buffer of a stage has the `alignment`, in bytes. Of a `pair` of CTAs each has the pipeline, and the first one,
    the leader, alone issues products: what agents say of a stage, and the bytes that copies bring, go to the leader's
    barrier objects, the end of its products to those of both.
    """

    name = "nv_tileas.async.pipeline.create_pipeline"
    traits = traits_def(Allocates())
    storage = var_operand_def()
    pipeline = result_def()
    alignment = opt_prop_def(IntegerAttr)
    producer_group = opt_prop_def(IntegerAttr)
    consumer_group = opt_prop_def(IntegerAttr)
    ctas = opt_prop_def(IntegerAttr)
    """Of a cluster, whose copies fill the stages of all of them: each stage is left by the consumers of all."""
    pair = opt_prop_def(UnitAttr)

    def check(self) -> None:
        type_ = self.pipeline.type
        expect_type("a pipeline", type_, PipelineType)
        if self.pair is not None and isinstance(type_, PipelineType) and not type_.has_barriers:
            raise VerifyException("expects a pipeline of a pair to have barrier objects")
        check_alignment(self.alignment)
        if isinstance(type_, PipelineType):
            if type_.stages < 1 or type_.consumers < 1:
                raise VerifyException("expects a pipeline of at least one stage and one consumer")
            check_storage([v.type for v in self.storage], type_)
        for buffer in self.storage:
            if any(isinstance(u.operation, CreatePipelineOp) and u.operation is not self for u in buffer.uses):
                raise VerifyException("expects storage of its own, but another pipeline has the same buffer")
        require_at_least(self, 0, "producer_group", "consumer_group")
        require_at_least(self, 1, "ctas")


@tile_op
class CreateIteratorOp(TileOp):
    """The iterator at the first stage, in the first round; with `drawn` that of the next turn that nobody has drawn,
    when it can be produced, or consumed by the consumer `consumer_idx`: so several agents share one side of a pipeline,
    and whoever draws a turn produces or consumes it."""

    name = "nv_tileas.async.pipeline.create_iterator"
    traits = traits_def(MayDraw(), NamesMemoryOf("pipeline"))
    pipeline = operand_def()
    iterator = result_def()
    drawn = opt_prop_def(UnitAttr)
    consumer_idx = opt_prop_def(IntegerAttr)

    @property
    def side(self) -> int | None:
        """The consumer whose turns are drawn; None for those of producers."""
        return None if self.consumer_idx is None else self.consumer_idx.value.data

    def check(self) -> None:
        expect_type("a pipeline", self.pipeline.type, PipelineType)
        check_iterator(self.iterator.type, self.pipeline.type)
        check_consumer(self.consumer_idx, self.pipeline.type)
        if self.consumer_idx is not None and self.drawn is None:
            raise VerifyException("expects consumer_idx where turns are drawn only")
        for use in self.iterator.uses if self.drawn is not None else ():
            self._check_side(use.operation)
        type_ = self.pipeline.type
        if self.drawn is not None and isinstance(type_, PipelineType) and not type_.has_barriers:
            raise VerifyException("expects a pipeline with barrier objects, of which several agents may draw turns")

    def _check_side(self, turn: Operation) -> None:
        """VerifyException for a turn of another side than the one that turns are drawn of."""
        if isinstance(turn, ProducerAcquireOp | ProduceOneOp):
            taken: int | None = None
        elif isinstance(turn, ConsumerWaitOp | ConsumeOneOp):
            taken = integer_of(turn.consumer_idx)
        else:
            return
        if taken != self.side:
            names = ["producers" if side is None else f"consumer {side}" for side in (self.side, taken)]
            raise VerifyException(f"expects turns of {names[0]}, which are drawn, but got one of {names[1]}")


@tile_op
class IncIterOp(TileOp):
    """The iterator at the next stage, which is `within` the same round where the iterator is not at the last one."""

    name = "nv_tileas.async.pipeline.inc_iter"
    iterator = operand_def()
    within = opt_prop_def(UnitAttr)
    result = result_def()
    traits = traits_def(Pure(), NamesMemoryOf("iterator"))

    def check(self) -> None:
        expect_type("an iterator", self.iterator.type, PipelineIteratorType)
        if self.iterator.type != self.result.type:
            raise VerifyException("expects the result to have the iterator's type")


@tile_op
class PipelineYieldOp(TileOp):
    """Ends a region of a pipeline op, and hands its values to the op."""

    name = PIPELINE_YIELD
    values = var_operand_def()
    traits = traits_def(IsTerminator(), Pure(), EndsRegion())

    def check(self) -> None:
        require_parent_function(self)


class StageOp(TileOp):
    """Base of ops at a stage of a pipeline that give a token of one side."""

    TOKEN: ClassVar[type[Attribute]] = ProducerTokenType

    def check_token(self, token: Attribute, pipeline: Attribute) -> None:
        """A token of the side that carries the types of the pipeline's stages; VerifyException."""
        expect_type("a token", token, self.TOKEN)
        if carried_types(token) != carried_types(pipeline):
            raise VerifyException(f"expects a token with the element types of {type_text(pipeline)}")


@tile_op
class ProducerAcquireOp(StageOp):
    """Waits until the stage is free, and grants it to the producer."""

    name = "nv_tileas.async.pipeline.producer_acquire"
    traits = traits_def(Observable(), NamesMemoryOf("pipeline", part=True))
    pipeline = operand_def()
    iterator = operand_def()
    token = result_def()

    def check(self) -> None:
        expect_type("a pipeline", self.pipeline.type, PipelineType)
        check_iterator(self.iterator.type, self.pipeline.type)
        check_own_iterator(self.pipeline, self.iterator)
        self.check_token(self.token.type, self.pipeline.type)


class RegionOp(TileOp):
    """Base of ops whose region works on what a stage holds."""

    traits = traits_def(Observable(), NamesMemoryOf("token"))
    ROLE: ClassVar[str] = "producer"
    TOKEN_TYPE: ClassVar[type[Attribute]] = ProducerTokenType
    token = operand_def()
    iterator = operand_def()
    outputs = var_result_def()
    body = region_def()

    @property
    def handed_on(self) -> OpResult:
        """The token, to be committed or released."""
        return self.results[0]

    def check_body(self, token: Attribute, results: int) -> None:
        """Ends, arguments and yielded types of the region; VerifyException."""
        check_region_ends(self, PIPELINE_YIELD)
        expect_type("a token", token, self.TOKEN_TYPE)
        block = only_block(self)
        if tuple(a.type for a in block.args) != carried_types(token):
            raise VerifyException(
                f"expects {self.ROLE} region arguments to have the element types carried by the {self.ROLE} token"
            )
        last = block.last_op
        expected = [r.type for r in self.results[results:]]
        if last is not None and [v.type for v in last.operands] != expected:
            raise VerifyException("expects region result types to match the operation result types")


@tile_op
class ProducerWriteOp(RegionOp):
    """Fills a stage: the region gets what the stage holds; the first result is the token for the commit."""

    name = "nv_tileas.async.pipeline.producer_write"
    written = result_def()

    def check(self) -> None:
        if self.token.type != self.written.type:
            raise VerifyException("expects the written token to have the token's type")
        check_same_turn(self.token, self.iterator)
        self.check_body(self.token.type, 1)
        check_once(self.token, self.name, "written")
        check_committed(self.written)


@tile_op
class ProducerCommitOp(TileOp):
    """Publishes a written stage to the consumers; `after_products`, when what this thread has issued of products into
    tensor memory (`nv_tileas.async.dot_into`) has ended."""

    name = "nv_tileas.async.pipeline.producer_commit"
    traits = traits_def(Observable())
    token = operand_def()
    after_products = opt_prop_def(UnitAttr)

    def check(self) -> None:
        expect_type("a token", self.token.type, ProducerTokenType)
        check_written(self.token)
        check_once(self.token, self.name, "committed")


@tile_op
class ConsumerWaitOp(StageOp):
    """Waits until the stage is committed, and grants it to a consumer."""

    name = "nv_tileas.async.pipeline.consumer_wait"
    traits = traits_def(Observable(), NamesMemoryOf("pipeline", part=True))
    TOKEN: ClassVar[type[Attribute]] = ConsumerTokenType
    pipeline = operand_def()
    iterator = operand_def()
    token = result_def()
    consumer_idx = opt_prop_def(IntegerAttr)
    pending = opt_prop_def(IntegerAttr)
    """How many later turns the waiting agent has itself committed already, for lowerings that wait by counting."""

    def check(self) -> None:
        expect_type("a pipeline", self.pipeline.type, PipelineType)
        check_iterator(self.iterator.type, self.pipeline.type)
        check_own_iterator(self.pipeline, self.iterator)
        self.check_token(self.token.type, self.pipeline.type)
        check_consumer(self.consumer_idx, self.pipeline.type)
        stages = self.pipeline.type.stages if isinstance(self.pipeline.type, PipelineType) else 1
        if self.pending is not None and not 0 <= self.pending.value.data < stages:
            raise VerifyException(
                f"expects pending to be less than the {stages} stages, but got {self.pending.value.data}"
            )


def check_consumer(index: IntegerAttr | None, pipeline: Attribute) -> None:
    """A consumer of the pipeline's group; VerifyException."""
    count = pipeline.consumers if isinstance(pipeline, PipelineType) else 1
    if index is not None and not 0 <= index.value.data < count:
        raise VerifyException(
            f"expects consumer_idx to identify a consumer in a group of {count}, but got {index.value.data}"
        )


@tile_op
class ConsumerReadOp(RegionOp):
    """Consumes a stage: the region gets what the stage holds; the first result is the token for the release."""

    name = "nv_tileas.async.pipeline.consumer_read"
    ROLE: ClassVar[str] = "consumer"
    TOKEN_TYPE: ClassVar[type[Attribute]] = ConsumerTokenType
    consumed = result_def()

    def check(self) -> None:
        if self.token.type != self.consumed.type:
            raise VerifyException("expects the consumed token to have the token's type")
        check_same_turn(self.token, self.iterator)
        self.check_body(self.token.type, 1)


@tile_op
class ConsumerReleaseOp(TileOp):
    """Gives a stage back to the producer; `after_products`, when what this thread has issued of products into tensor
    memory (`nv_tileas.async.dot_into`) has ended, which read the stage."""

    name = "nv_tileas.async.pipeline.consumer_release"
    traits = traits_def(Observable())
    token = operand_def()
    after_products = opt_prop_def(UnitAttr)

    def check(self) -> None:
        expect_type("a token", self.token.type, ConsumerTokenType)
        check_once(self.token, self.name, "released")
        check_read(self.token)


class TurnOp(TileOp):
    """Base of one whole turn at a stage: its region does what the turn consists of, and yields the results."""

    traits = traits_def(Observable())
    TOKEN_TYPE: ClassVar[type[Attribute]] = ProducerTokenType
    pipeline = operand_def()
    iterator = operand_def()
    outputs = var_result_def()
    body = region_def()

    def check(self) -> None:
        expect_type("a pipeline", self.pipeline.type, PipelineType)
        check_iterator(self.iterator.type, self.pipeline.type)
        check_own_iterator(self.pipeline, self.iterator)
        check_region_ends(self, PIPELINE_YIELD)
        last = only_block(self).last_op
        if last is not None and [v.type for v in last.operands] != [r.type for r in self.results]:
            raise VerifyException("expects region result types to match the operation result types")


@tile_op
class ProduceOneOp(TurnOp):
    """One turn of a producer: acquire, write, commit."""

    name = "nv_tileas.async.pipeline.produce_one"


@tile_op
class ConsumeOneOp(TurnOp):
    """One turn of a consumer: wait, read, release."""

    name = "nv_tileas.async.pipeline.consume_one"
    consumer_idx = opt_prop_def(IntegerAttr)

    def check(self) -> None:
        super().check()
        check_consumer(self.consumer_idx, self.pipeline.type)
        taken = integer_of(self.consumer_idx) or 0
        for inner in only_block(self).ops:
            if isinstance(inner, ConsumerWaitOp) and inner.pipeline is self.pipeline:
                check_consumer(inner.consumer_idx, self.pipeline.type)
                if (waits := integer_of(inner.consumer_idx) or 0) != taken:
                    raise VerifyException(f"expects a turn of consumer {taken}, but got a wait of consumer {waits}")


@tile_op
class AgentSwitchOp(TileOp):
    """Runs each region by one agent: a group of warps with a register budget (entries per region).

    Agents take the warps of the CTA in the order of the regions, from warp 0 on. An agent that is `elected` (1; 0 for
    the others) has its region run by one thread of its first warp.
    """

    name = "nv_tileas.async.pipeline.agent_switch"
    traits = traits_def(Observable())
    agent_ids = opt_prop_def(ArrayAttr)
    agent_warps = prop_def(ArrayAttr)
    agent_registers = opt_prop_def(ArrayAttr)
    agent_elected = opt_prop_def(ArrayAttr)
    agents = var_region_def()

    def check(self) -> None:
        check_region_ends(self, PIPELINE_YIELD)
        check_agent_entries(self, "agent_ids", "agent_warps", "agent_registers", "agent_elected")
        require_agents(self)
        for region in self.regions:
            require_arguments(region.block, [])
        require_yields(self, [])

    @property
    def warps(self) -> list[int]:
        """How many warps each agent has."""
        return entries(self.agent_warps)

    @property
    def registers(self) -> list[int]:
        """How many registers a thread of each agent has; empty where nothing is said."""
        return entries(self.agent_registers)

    @property
    def elected(self) -> list[bool]:
        """For each agent, whether one thread runs its region."""
        return [bool(n) for n in entries(self.agent_elected)] or [False] * len(self.warps)


def entries(array: ArrayAttr | None) -> list[int]:
    """The numbers of an array of integers; none for no array."""
    return [e.value.data for e in array.data if isinstance(e, IntegerAttr)] if array is not None else []


@tile_op
class WaitOp(TileOp):
    """Waits for asynchronous operations, until at most `pending` later groups of them are under way."""

    name = "nv_tileas.async.wait"
    traits = traits_def(Observable())
    tokens = var_operand_def()
    pending = opt_prop_def(IntegerAttr)
    """How many later groups of asynchronous copies may still be under way (cp.async.wait_group)."""
    read = opt_prop_def(UnitAttr)
    """Copies to global memory need only have read their buffers."""

    def check(self) -> None:
        for token in self.tokens:
            expect_type("a token", token.type, AsyncTokenType)
        require_at_least(self, 0, "pending")
