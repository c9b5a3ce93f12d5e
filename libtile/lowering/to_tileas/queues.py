# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`lower-tileaa-queues`: queues become pipelines, and what runs side by side becomes agents.

    execute         agent_switch, with the warps and registers of each region
    create_queue    create_pipeline, of as many stages as the queue is deep, with barrier objects
    queue.put       produce_one: acquire, write (the region, whose values the stage then holds), commit
    queue.get       consume_one: wait, read (the region, on what the stage holds), release

Who puts into a queue, and each of those who get from it, has an iterator, which begins at the first stage where its
agent begins. A turn gives the iterator at the next stage, and `scf.for`, `scf.while` and `scf.if` with turns in them
carry it on: a turn comes in the order in which its agent comes to it, and a loop that is entered again goes on where it
was. Where several agents put into a queue, or get from it as one consumer, each of them draws the turn that it produces
or consumes, when it comes to it, and carries nothing on.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, IndexType, IntegerAttr, ModuleOp, TensorType, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from libtile.dialects import arith, scf, tensor
from libtile.dialects.cuda_tile.types import NUMBER_NAMES
from libtile.dialects.nv_tileaa.functions import RESOURCES, ExecuteOp, FuncOp
from libtile.dialects.nv_tileaa.pointers import IntToPtrOp, PtrToIntOp
from libtile.dialects.nv_tileaa.queues import CreateQueueOp, QueueGetOp, QueuePutOp, queue_of
from libtile.dialects.nv_tileaa.shapes import SplatOp, ViewOp
from libtile.dialects.nv_tileaa.types import PtrType
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
)
from libtile.dialects.nv_tileas.types import (
    MBARRIER,
    ConsumerTokenType,
    PipelineIteratorType,
    PipelineType,
    ProducerTokenType,
)
from libtile.ir.locations import set_location
from libtile.ir.module_pass import ModulePass
from libtile.ir.places import ops_in, ops_of
from libtile.ir.tile_form import element_of, erase, integer_of, shape_of
from libtile.lowering.agents import agent_of
from libtile.lowering.errors import unsupported
from libtile.lowering.to_tileas.settle_queues import settle_queues
from libtile.support import statistics
from libtile.support.records import dataclass

TURNS = (QueuePutOp, QueueGetOp)
BRANCHING = (scf.ForOp, scf.WhileOp, scf.IfOp)
"""Ops that carry iterators into their regions and out of them."""


@dataclass(frozen=True)
class LowerTileAAQueuesPass(ModulePass):
    """Make pipelines of queues, and agents of what runs side by side."""

    name = "lower-tileaa-queues"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.body.block.ops:
            if isinstance(inner, FuncOp) and inner.body.first_block is not None:
                lower_queues(inner)


def lower_queues(function: FuncOp) -> None:
    """Lower the queues and agents of one function. LoweringError, with the place, for a queue that is no pipeline."""
    _Lowering(function).run()


@dataclass(frozen=True)
class _Side:
    """Who puts into a queue (`consumer` is None), or one of those who get from it: each has an iterator of its own."""

    queue: CreateQueueOp
    consumer: int | None


_State = dict[_Side, SSAValue]
"""The iterator of each side, at some place in the code."""


class _Lowering:
    def __init__(self, function: FuncOp):
        self.function = function
        spec = function.kernel_spec
        self.target = spec.target or "" if spec is not None else ""
        self.warps = spec.num_warps if spec is not None else None
        self.pipes: dict[CreateQueueOp, SSAValue] = {}
        self.roots: dict[_Side, Region] = {}
        """The region in which a side's turns are: an agent's, or the function's."""
        self.agents: dict[_Side, dict[Region, None]] = {}
        """The agents that have turns of a side, in their order."""

    def run(self) -> None:
        settle_queues(self.function, self.target)
        queues = ops_of(self.function, CreateQueueOp)
        for op in queues:
            self._look_at(op)
        for turn in ops_of(self.function, *TURNS):
            self._look_at_turn(turn)
        for op in queues:
            self._make_pipeline(op)
        starts: dict[Region, _State] = {}
        for side, region in self.roots.items():
            if self._is_drawn(side):
                for each in self.agents[side]:
                    starts.setdefault(each, {})
                continue
            starts.setdefault(region, {})[side] = self._start(side, region)
        for region, state in starts.items():
            self._block(region.block, state)
        for execute in ops_of(self.function, ExecuteOp):
            self._make_agents(execute)
        for op in queues:
            erase(op)
        statistics.count("queues lowered", len(queues))

    # -- what fits --------------------------------------------------------------------------------------------------

    def _look_at(self, op: CreateQueueOp) -> None:
        """LoweringError for a queue that is made elsewhere than by the function, or goes elsewhere than to turns."""
        if op.parent is not self.function.body.block:
            raise unsupported(
                op, "makes a queue within another op, and pipelines are made by the function", self.target
            )
        for use in op.queue.uses:
            turn = use.operation
            if not isinstance(turn, TURNS):
                problem = f"makes a queue that '{turn.name}' op takes, and only puts and gets of one can be compiled"
                raise unsupported(op, problem, self.target)

    def _look_at_turn(self, op: QueuePutOp | QueueGetOp) -> None:
        side, (switch, number) = self._side(op), agent_of(op)
        region = self.function.body if switch is None else switch.regions[number]
        who = "puts into a queue" if side.consumer is None else f"gets from a queue as consumer {side.consumer}"
        if switch is not None:
            self.agents.setdefault(side, {})[region] = None
        root = self.roots.setdefault(side, region)
        if root is not region and self.function.body in (region, root):
            problem = f"{who}, as another agent does, and turns of a pipeline are agents' or the function's"
            raise unsupported(op, problem, self.target)
        around = op.parent_op()
        while around is not None and around is not switch and around is not self.function:
            if not isinstance(around, (*BRANCHING, *TURNS)):
                problem = f"{who} within a '{around.name}' op, which cannot hand on whose turn it is"
                raise unsupported(op, problem, self.target)
            if isinstance(around, TURNS) and self._side(around) == side:
                raise unsupported(op, f"{who} within such a turn of the same queue", self.target)
            around = around.parent_op()

    def _is_drawn(self, side: _Side) -> bool:
        """Whether several agents share a side, and draw their turns."""
        return len(self.agents.get(side, ())) > 1

    def _side(self, op: QueuePutOp | QueueGetOp) -> _Side:
        made = op.queue.owner
        if not isinstance(made, CreateQueueOp):
            raise unsupported(op, "takes a queue that the function does not make itself", self.target)
        return _Side(made, None if isinstance(op, QueuePutOp) else integer_of(op.consumer_idx))

    # -- pipelines --------------------------------------------------------------------------------------------------

    def _make_pipeline(self, op: CreateQueueOp) -> None:
        sides = {side.consumer for side in self.roots if side.queue is op}
        if not sides:
            return  # nobody uses it
        consumers = integer_of(op.num_consumers, 1)
        if missing := [str(n) for n in range(consumers) if n not in sides]:
            problem = f"makes a queue that fills up: nobody gets from it as consumer {', '.join(missing)}"
            raise unsupported(op, problem, self.target)
        elements = [self._stage_type(op, type_) for type_ in queue_of(op.queue.type).result_types]
        type_ = PipelineType(op.depth.value.data, elements, consumers, MBARRIER)
        made = CreatePipelineOp.make(results=[type_], location=op.location)
        made.pipeline.name_hint = op.queue.name_hint
        self.function.body.block.insert_op_before(made, op)
        self.pipes[op] = made.pipeline

    def _stage_type(self, op: Operation, type_: Attribute) -> Attribute:
        """What a stage holds for a value of a queue: a number stands in a tile of one, an index in one of i64; pointers
        are such numbers as well."""
        if isinstance(type_, TensorType):
            element = i64 if isinstance(type_.element_type, PtrType) else type_.element_type
            return TensorType(element, type_.get_shape() or [1])
        if isinstance(type_, IndexType | PtrType):
            return TensorType(i64, [1])
        if type_ in NUMBER_NAMES:
            return TensorType(type_, [1])
        raise unsupported(op, f"makes a queue of {type_}, and stages hold tiles, numbers and pointers", self.target)

    def _start(self, side: _Side, region: Region) -> SSAValue:
        """The iterator at the first stage, where the side's agent begins."""
        pipe = self.pipes[side.queue]
        made = CreateIteratorOp.make(pipe, results=[PipelineIteratorType(pipe.type)], location=side.queue.location)
        pipeline = pipe.owner
        assert isinstance(pipeline, Operation)
        if region is self.function.body:
            self.function.body.block.insert_op_after(made, pipeline)
        elif (first := region.block.first_op) is not None:
            region.block.insert_op_before(made, first)
        return made.iterator

    # -- turns, and the control flow around them --------------------------------------------------------------------

    def _block(self, block: Block, state: _State) -> None:
        """Lower the turns of a block in order; `state` is brought to its end."""
        for op in ops_in(block):
            if isinstance(op, TURNS):
                self._turn(op, state)
            elif isinstance(op, BRANCHING):
                if sides := self._sides_in(op, state):
                    self._branching(op, sides, state)
                    continue
                for region in op.regions:  # there may be turns in it that are drawn, and carry nothing
                    for inner in region.blocks:
                        self._block(inner, dict(state))

    def _sides_in(self, op: Operation, state: _State) -> list[_Side]:
        """The sides, of those in `state`, that have turns in the regions of an op."""
        found = {self._side(inner) for inner in ops_of(op) if inner is not op and isinstance(inner, TURNS)}
        return [side for side in state if side in found]

    def _turn(self, op: QueuePutOp | QueueGetOp, state: _State) -> None:
        side, sides, block = self._side(op), self._sides_in(op, state), op.parent
        assert block is not None
        pipe = self.pipes[side.queue]
        drawn = self._is_drawn(side)
        if drawn:
            begin = CreateIteratorOp.make(
                pipe,
                results=[PipelineIteratorType(pipe.type)],
                drawn=True,
                consumer_idx=side.consumer,
                location=op.location,
            )
            block.insert_op_before(begin, op)
            place: SSAValue = begin.iterator
        else:
            place = state[side]
        inner = dict(state)
        body = op.body.block
        self._block(body, inner)
        turn = Block()
        if isinstance(op, QueuePutOp):
            given = self._end_put(op, inner, sides, pipe.type)
            self._produce(op, turn, pipe, place, given, goes_on=not drawn)
            made: Operation = ProduceOneOp.make(
                pipe, place, results=[[v.type for v in turn.last_op.operands]] if turn.last_op else [[]],
                regions=[Region(turn)], location=op.location,
            )  # fmt: skip
            results: Sequence[SSAValue] = ()
        else:
            self._end_get(op, inner, sides, pipe.type)
            self._consume(op, turn, pipe, place, goes_on=not drawn)
            made = ConsumeOneOp.make(
                pipe, place, results=[[v.type for v in turn.last_op.operands]] if turn.last_op else [[]],
                regions=[Region(turn)], consumer_idx=side.consumer or None, location=op.location,
            )  # fmt: skip
            results = op.results
        block.insert_op_before(made, op)
        for old, new in zip(results, made.results):
            new.name_hint = old.name_hint
            old.replace_all_uses_with(new)
        moving = sides if drawn else [*sides, side]
        for moved, value in zip(moving, made.results[len(results) :], strict=True):
            state[moved] = value
        erase(op)

    def _end_put(self, op: QueuePutOp, state: _State, sides: Sequence[_Side], type_: Attribute) -> list[Attribute]:
        """End the region of a put as that of a write: with what the stage holds, and the iterators moved on in it."""
        assert isinstance(type_, PipelineType)
        body = op.body.block
        last = body.last_op
        assert last is not None
        held = [self._packed(body, last, v, t) for v, t in zip(last.operands, type_.element_types, strict=True)]
        _replace_end(body, PipelineYieldOp.make([*held, *(state[s] for s in sides)], location=last.location))
        return [*type_.element_types, *(state[s].type for s in sides)]

    def _end_get(self, op: QueueGetOp, state: _State, sides: Sequence[_Side], type_: Attribute) -> None:
        """Begin and end the region of a get as that of a read."""
        assert isinstance(type_, PipelineType)
        body = op.body.block
        for argument, held in zip(body.args, type_.element_types, strict=True):
            if argument.type != held:
                self._unpack(body, argument.index, held)
        last = body.last_op
        assert last is not None
        _replace_end(body, PipelineYieldOp.make([*last.operands, *(state[s] for s in sides)], location=last.location))

    def _packed(self, block: Block, before: Operation, value: SSAValue, held: Attribute) -> SSAValue:
        """What a stage holds for a value that is put."""
        if value.type == held:
            return value
        made: list[Operation] = []
        if isinstance(value.type, IndexType):
            made.append(arith.IndexCastOp(value, i64))
            value = made[-1].results[0]
        elif isinstance(element_of(value.type), PtrType):
            number = arith.like(value.type, i64) if isinstance(value.type, TensorType) else i64
            made.append(PtrToIntOp.make(value, results=[number]))
            value = made[-1].results[0]
        if value.type != held:
            cls = ViewOp if isinstance(value.type, TensorType) else SplatOp
            made.append(cls.make(value, results=[held]))
        for op in made:
            set_location(op, before.location)
            block.insert_op_before(op, before)
        return made[-1].results[0]

    def _unpack(self, block: Block, index: int, held: Attribute) -> None:
        """The argument at `index` becomes what a stage holds, and what was got is taken from that."""
        old = block.args[index]
        new = block.insert_arg(held, index)
        assert isinstance(held, TensorType)
        made: list[Operation] = []
        value: SSAValue = new
        if not shape_of(old.type):
            made.append(ViewOp.make(new, results=[TensorType(held.element_type, [])]))
        if not isinstance(old.type, TensorType):
            made.append(tensor.ExtractOp(made[-1].results[0], [], held.element_type))
        if made:
            value = made[-1].results[0]
        if isinstance(old.type, IndexType):
            made.append(arith.IndexCastOp(value, old.type))
        elif isinstance(element_of(old.type), PtrType):
            made.append(IntToPtrOp.make(value, results=[old.type]))
        first = block.first_op
        assert first is not None  # the region's end, at least
        for op in made:
            set_location(op, first.location)
            block.insert_op_before(op, first)
        old.replace_all_uses_with(made[-1].results[0])
        block.erase_arg(old)

    def _produce(
        self,
        op: QueuePutOp,
        turn: Block,
        pipe: SSAValue,
        place: SSAValue,
        given: Sequence[Attribute],
        *,
        goes_on: bool,
    ) -> None:
        """The ops of a producer's turn, which yields the iterators that its region moves on, and its own if it
        `goes_on` from turn to turn."""
        assert isinstance(pipe.type, PipelineType)
        at, count = op.location, len(pipe.type.element_types)
        token = ProducerTokenType(pipe.type.element_types)
        arguments = Block(arg_types=pipe.type.element_types)
        for inner in ops_in(op.body.block):
            inner.detach()
            arguments.add_op(inner)
        acquired = ProducerAcquireOp.make(pipe, place, results=[token], location=at)
        written = ProducerWriteOp.make(
            acquired.token, place, results=[token, list(given)], regions=[Region(arguments)], location=at
        )
        commit = ProducerCommitOp.make(written.written, location=at)
        turn.add_ops([acquired, written, commit])
        moved = list(written.outputs[count:])
        if goes_on:
            following = IncIterOp.make(place, results=[place.type], location=at)
            turn.add_op(following)
            moved.append(following.result)
        turn.add_op(PipelineYieldOp.make(moved, location=at))

    def _consume(self, op: QueueGetOp, turn: Block, pipe: SSAValue, place: SSAValue, *, goes_on: bool) -> None:
        """The ops of a consumer's turn, which yields what its region gives, iterators moved on last, and its own if it
        `goes_on` from turn to turn."""
        assert isinstance(pipe.type, PipelineType)
        at, consumer = op.location, integer_of(op.consumer_idx) or None
        token = ConsumerTokenType(pipe.type.element_types)
        last = op.body.block.last_op
        assert last is not None
        given = [v.type for v in last.operands]
        body = op.detach_region(op.body)
        waited = ConsumerWaitOp.make(pipe, place, results=[token], consumer_idx=consumer, location=at)
        read = ConsumerReadOp.make(waited.token, place, results=[token, given], regions=[body], location=at)
        release = ConsumerReleaseOp.make(read.consumed, location=at)
        turn.add_ops([waited, read, release])
        moved = list(read.outputs)
        if goes_on:
            following = IncIterOp.make(place, results=[place.type], location=at)
            turn.add_op(following)
            moved.append(following.result)
        turn.add_op(PipelineYieldOp.make(moved, location=at))

    def _branching(self, op: Operation, sides: Sequence[_Side], state: _State) -> None:
        """An op of scf again, carrying the iterators that move in it."""
        starts = [state[s] for s in sides]
        types = [v.type for v in starts]
        given = [*op.operands]
        regions = list(op.regions)
        if isinstance(op, scf.IfOp):
            for region in regions:
                if not region.blocks:
                    region.add_block(Block([scf.YieldOp()]))
                self._arm(region.block, dict(state), sides)
        elif isinstance(op, scf.ForOp):
            given += starts
            self._arm(op.body.block, self._inside(op.body.block, sides, types, state), sides)
        else:
            assert isinstance(op, scf.WhileOp)
            given += starts
            before, after = op.before_region.block, op.after_region.block
            self._arm(before, self._inside(before, sides, types, state), sides)
            self._arm(after, self._inside(after, sides, types, state), sides)
        for region in regions:
            op.detach_region(region)
        made = type(op).create(
            operands=given, result_types=[*(r.type for r in op.results), *types], properties=dict(op.properties),
            attributes=dict(op.attributes), regions=regions,
        )  # fmt: skip
        made.location = op.location
        block = op.parent
        assert block is not None
        block.insert_op_before(made, op)
        for old, new in zip(op.results, made.results):
            new.name_hint = old.name_hint
            old.replace_all_uses_with(new)
        state.update(zip(sides, made.results[len(op.results) :], strict=True))
        erase(op)

    def _inside(self, block: Block, sides: Sequence[_Side], types: Sequence[Attribute], state: _State) -> _State:
        """The iterators at the begin of a block that gets those of `sides` as more arguments."""
        return state | {s: block.insert_arg(type_, len(block.args)) for s, type_ in zip(sides, types)}

    def _arm(self, block: Block, state: _State, sides: Sequence[_Side]) -> None:
        """Lower a block of scf, which hands on the iterators of `sides` last."""
        self._block(block, state)
        last = block.last_op
        assert last is not None
        last.operands = [*last.operands, *(state[s] for s in sides)]

    # -- agents -----------------------------------------------------------------------------------------------------

    def _make_agents(self, op: ExecuteOp) -> None:
        if stated := [name for name in RESOURCES if name in op.properties]:
            raise unsupported(op, f"has '{stated[0]}', which nobody gives agents", self.target)
        warps = op.agent_warps
        if warps is None:
            if self.warps is None:
                raise unsupported(op, "has no 'agent_warps', and its function is no kernel with warps", self.target)
            warps = ArrayAttr([IntegerAttr(self.warps, i64) for _ in op.regions])
        regions = list(op.regions)
        for region in regions:
            op.detach_region(region)
            last = region.block.last_op
            assert last is not None
            _replace_end(region.block, PipelineYieldOp.make(location=last.location))
        made = AgentSwitchOp.make(
            regions=regions, agent_warps=warps, agent_registers=op.agent_registers, location=op.location
        )
        block = op.parent
        assert block is not None
        block.insert_op_before(made, op)
        erase(op)


def _replace_end(block: Block, end: Operation) -> None:
    """Another terminator for a block."""
    last = block.last_op
    assert last is not None
    erase(last)
    block.add_op(end)
