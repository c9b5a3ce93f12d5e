# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products of what TMA has copied to a queue's stages, by tcgen05: a written consumer becomes two agents.

    consumer, as it is written      in place of its loop over turns it waits for the loop's result, loads it from tensor
                                    memory to its registers, and goes on
    products, one warp              one thread goes through the same loops, waits for each turn's tiles and issues their
                                    products, whose end releases the stage; behind the last turn it hands the result on

A loop fits whose turns do nothing but multiply what the stage holds into what the loop carries. The loops and
conditions around it are gone through by both agents, so that these may depend on numbers only. Where nothing fits,
consumers multiply with their own registers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, TensorType, i64
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue

from libtile.atoms import tcgen05, tensor_columns
from libtile.dialects import scf
from libtile.dialects.arith import DIVISIONS
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileas.attributes import TCGEN05
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
    entries,
)
from libtile.dialects.nv_tileas.products import DotOp
from libtile.dialects.nv_tileas.tensor_memory import DeallocTensorOp
from libtile.dialects.nv_tileas.tiles import CopyOp
from libtile.dialects.nv_tileas.types import BufferType, PipelineType
from libtile.ir.operands import set_operand
from libtile.ir.places import ops_in, ops_of
from libtile.ir.tile_form import erase, integer_of, shape_of
from libtile.lowering.agents import agent_of
from libtile.lowering.errors import unsupported
from libtile.lowering.tileas.agents.arrange_agents import arrange
from libtile.lowering.tileas.agents.consumers import MAX_ACCUMULATORS, check_lies
from libtile.lowering.tileas.cleanup import is_pure
from libtile.lowering.tileas.copies.tma_operands import Unfit, read_operand
from libtile.lowering.tileas.counted_loops import trips
from libtile.lowering.tileas.inserter import Inserter
from libtile.lowering.tileas.pipelines.iterators import retype
from libtile.lowering.tileas.pipelines.schedule import is_zero
from libtile.lowering.tileas.tensor_memory.tensor_products import (
    AGENT_WARPS,
    Results,
    Steps,
    instruction,
    issue_of,
    multiply,
    results_at_a_time,
)
from libtile.lowering.tileas.tma.stage_copies import stage_copies, written_buffers
from libtile.targets import Target

MAX_WARPS = 32
"""Of a CTA."""
Values = dict[SSAValue, SSAValue]


def products_in_tensor_memory(function: FuncOp) -> Iterator[DotOp]:
    """The products of written agents whose layouts are those of a result in tensor memory, in their order."""
    for op in ops_of(function, DotOp):
        if op.atom.kind == TCGEN05 and isinstance(agent_of(op)[0], AgentSwitchOp):
            yield op


def plan(function: FuncOp, gpu: Target) -> list[StageResult]:
    """What becomes of the products into tensor memory of a function's written agents. LoweringError where one of them
    has layouts that are of no use, because it does not fit."""
    found: list[StageResult] = []
    for product in products_in_tensor_memory(function):
        try:
            found.append(StageResult(function, gpu, product))
        except Unfit as reason:
            raise unsupported(product, f"has a result in tensor memory, and {reason}", gpu.name) from None
    return found


def columns_of(results: Sequence[StageResult]) -> int:
    """The columns of tensor memory that so many results take."""
    return tensor_columns.together((rows, made.stages * columns) for made in results for rows, columns in [made.shape])


class StageResult:
    """A product of a queue's turns, how it fits, and the agents that it becomes. Unfit where it does not."""

    def __init__(self, function: FuncOp, gpu: Target, product: DotOp):
        self.function, self.gpu, self.product = function, gpu, product
        self.atom = instruction(product, gpu)
        self.shape = shape_of(product.c.type)
        switch, number = agent_of(product)
        assert isinstance(switch, AgentSwitchOp)
        self.region: Region = switch.regions[number]
        self._check_agent(switch, number)
        self._find_turn()
        self._find_loop()
        self._check_operands()
        self.path = list(self._loops_around())
        self.needed = self._numbers()
        repeated = any(isinstance(op, scf.ForOp) for op in self.path)
        spec = function.kernel_spec
        assert spec is not None  # of a kernel with agents
        self.stages = results_at_a_time([self.shape], spec) if repeated else 1

    @property
    def _switch(self) -> AgentSwitchOp:
        """The op by which agents part, which is made anew as agents are added."""
        op = self.region.parent_op()
        assert isinstance(op, AgentSwitchOp)
        return op

    # -- what fits --------------------------------------------------------------------------------------------------

    def _check_agent(self, switch: AgentSwitchOp, number: int) -> None:
        warps, spec = switch.warps, self.function.kernel_spec
        if switch.parent is not self.function.body.block or spec is None or spec.num_ctas > 1:
            raise Unfit("its agents are not those of a kernel of one CTA")
        if switch.elected[number] or warps[number] % tcgen05.GROUP_WARPS:  # agents of whole warpgroups come first
            raise Unfit("its agent's warps are not those of whole warpgroups")
        if sum(n for n, region in zip(warps, switch.regions) if not _is_idle(region)) + AGENT_WARPS > MAX_WARPS:
            raise Unfit("there is no warp left to issue products")
        m, n = self.shape
        if m * n // (warps[number] * self.gpu.warp_size) > MAX_ACCUMULATORS:
            raise Unfit(f"results of {m}x{n} do not fit the registers of {warps[number]} warps")
        check_lies(self.product, tcgen05.register_layout, warps[number], "as warps load it from tensor memory")

    def _find_turn(self) -> None:
        """The turn in which the product is, which does nothing else."""
        read = self.product.parent_op()
        turn = read.parent_op() if read is not None else None
        if not isinstance(read, ConsumerReadOp) or not isinstance(turn, ConsumeOneOp):
            raise Unfit("it is no product of what a turn reads")
        wait = read.token.owner
        assert isinstance(wait, ConsumerWaitOp)
        self.wait, self.read, self.turn = wait, read, turn
        ops = ops_in(turn.body.block)
        if [type(op) for op in ops] != [ConsumerWaitOp, ConsumerReadOp, ConsumerReleaseOp, IncIterOp, PipelineYieldOp]:
            raise Unfit("its turn does more than to multiply, or less than to wait for a stage and to release it")
        _, _, release, following, end = ops
        assert isinstance(release, ConsumerReleaseOp) and isinstance(following, IncIterOp)
        whole = release.token is read.handed_on and following.iterator is turn.iterator
        if not whole or wait.iterator is not turn.iterator or read.iterator is not turn.iterator:
            raise Unfit("its turn is not at one stage from the wait to the release")
        if list(end.operands) != [*read.outputs, following.results[0]]:
            raise Unfit("its turn hands on something else than its sum, and the next stage")
        pipe = wait.pipeline.owner
        assert isinstance(pipe, CreatePipelineOp)
        if pipe.storage or pipe.pair is not None or pipe.ctas is not None:
            raise Unfit("its stages are not those of one CTA")
        self.pipe, self.consumer = pipe, integer_of(wait.consumer_idx)
        for use in pipe.pipeline.uses:
            other = use.operation
            same = isinstance(other, ConsumerWaitOp) and integer_of(other.consumer_idx) == self.consumer
            if same and other is not wait and agent_of(other) == agent_of(wait):
                raise Unfit("its agent has other turns of this queue")

    def _find_loop(self) -> None:
        """The loop over turns, which carries the sum and the place in the pipeline."""
        loop, product = self.turn.parent_op(), self.product
        if not isinstance(loop, scf.ForOp) or self.turn.parent is not loop.body.block:
            raise Unfit("its turn is in no loop, or under a condition in it")
        body, last = loop.body.block, loop.body.block.last_op
        assert last is not None
        if len(loop.iter_args) != 2 or any(op not in (self.turn, last) and not is_pure(op) for op in body.ops):
            raise Unfit("its loop does more than to multiply what the stages hold")
        self.loop, sum_ = loop, product.c
        if not isinstance(sum_, BlockArgument) or sum_.block is not body or not sum_.has_one_use():
            raise Unfit("it does not add to what the loop over turns carries")
        self.sum = sum_.index - 1
        end = self.read.body.block.last_op
        assert end is not None
        given = list(last.operands)[self.sum]
        handed = self.turn.body.block.last_op
        assert handed is not None
        if given.owner is not self.turn or list(end.operands) != [product.result]:
            raise Unfit("its sum is not what the loop hands on")
        if handed.operands[self.turn.results.index(given)].owner is not self.read or not given.has_one_use():
            raise Unfit("its sum is not what the loop hands on")
        place = loop.body.block.args[2 - self.sum]
        if self.turn.iterator is not place or list(last.operands) != [
            self.turn.results[n] for n in ((0, 1) if self.sum == 0 else (1, 0))
        ]:
            raise Unfit("its loop does not go on with the stage behind its turn")
        self.start = _start(loop.iter_args[1 - self.sum])
        if not is_zero(loop.iter_args[self.sum]):
            raise Unfit("its accumulator does not start with zeros")

    def _check_operands(self) -> None:
        """Both operands are at places that TMA fills, as products read them."""
        assert isinstance(self.pipe.pipeline.type, PipelineType)
        turns = [use.operation for use in self.pipe.pipeline.uses]
        places: list[int] = []
        copies: list[CopyOp] = []
        for side, value in zip("ab", (self.product.a, self.product.b)):
            copy = value.owner
            held = copy.source if isinstance(copy, CopyOp) else None
            own = isinstance(held, BlockArgument) and held.block is self.read.body.block and value.has_one_use()
            if not isinstance(copy, CopyOp) or not isinstance(held, BlockArgument) or not own:
                raise Unfit(f"#{side.upper()} is not what a stage holds")
            by_tma = stage_copies(self.function, self.gpu, written_buffers(turns, held.index))
            if not by_tma:
                raise Unfit(f"#{side.upper()} is not copied to its stages by TMA")
            self._check_read(side, by_tma[0].type)
            places.append(held.index)
            copies.append(copy)
        last = self.read.body.block.last_op
        if {*self.read.body.block.ops} != {*copies, self.product, last}:
            raise Unfit("its turn does more than to multiply")
        self.places = tuple(places)

    def _check_read(self, side: str, type_: BufferType) -> None:
        read = read_operand(self.gpu, self.atom.instruction, side, type_)
        if isinstance(read, str):
            raise Unfit(f"#{side.upper()} cannot be read from shared memory: {read}")

    def _loops_around(self) -> Iterator[scf.ForOp | scf.IfOp]:
        """The ops of scf around the loop over turns, from the inside out."""
        around = self.loop.parent_op()
        while around is not None and around.parent_region() is not self._switch.parent_region():
            if not isinstance(around, scf.ForOp | scf.IfOp):
                raise Unfit(f"its loop is within a '{around.name}' op")
            yield around
            around = around.parent_op()

    def _numbers(self) -> set[Operation]:
        """The ops of the agent that bounds and conditions come from; Unfit where these are more than pure ones."""
        loops = [self.loop, *(op for op in self.path if isinstance(op, scf.ForOp))]
        work = [v for loop in loops for v in (loop.lb, loop.ub, loop.step)]
        work += [op.cond for op in self.path if isinstance(op, scf.IfOp)]
        counters = {loop.body.block.args[0] for loop in loops}
        found: set[Operation] = set()
        while work:
            value = work.pop()
            owner = value.owner
            if owner in found or value in counters or not self._is_own(value):
                continue
            if not isinstance(owner, Operation) or not (is_pure(owner) or isinstance(owner, DIVISIONS)):
                raise Unfit("how often its loop turns depends on what its agent computes")
            found.add(owner)
            work += owner.operands
        return found

    def _is_own(self, value: SSAValue) -> bool:
        """Whether a value is made by the agent."""
        region = value.owner.parent_region() if isinstance(value.owner, Operation) else value.owner.parent
        while region is not None and region is not self.region:
            around = region.parent_op()
            region = around.parent_region() if around is not None else None
        return region is self.region

    # -- what is made -----------------------------------------------------------------------------------------------

    def make(self) -> None:
        """Part the product from its agent. The pipeline has the types of its buffers by now."""
        type_, tile = self.pipe.pipeline.type, self.product.c.type
        assert isinstance(type_, PipelineType) and isinstance(tile, TensorType)
        types = [held for held in type_.element_types if isinstance(held, BufferType)]
        at = Inserter(self.function.body.block, self._switch, self.loop.location)
        results = Results.make(at, tile, self.stages)
        issue, places = issue_of(self.product, self.atom), self.places
        steps = Steps(
            self.pipe.pipeline, types, lambda at, tiles, *more: issue(at, [tiles[n] for n in places], *more),
            self.consumer or None,
        )  # fmt: skip
        issuer = Inserter(Block(), None, self.loop.location)
        self._again(issuer, self.region.block, results, steps, {}, (results.start(issuer), steps.start(issuer)))
        issuer.add(PipelineYieldOp.make())
        self._read_result(results)
        switch = add_agent(self._switch, issuer.block)
        spec = self.function.kernel_spec
        assert spec is not None
        behind = Inserter(self.function.body.block, switch.next_op, self.loop.location)
        behind.add(DeallocTensorOp.make(results.storage))
        arrange(switch, spec.num_warps, self.gpu)

    def _again(
        self, at: Inserter, block: Block, results: Results, steps: Steps, values: Values, places: tuple[SSAValue, ...]
    ) -> tuple[SSAValue, ...]:
        """What the agent of the products does of a block of the consumer's, from places on; the places behind it."""
        for op in block.ops:
            if op is self.loop:
                places = multiply(at, [results], steps, trips(at, self.loop, values), places)
            elif op in self.path:
                places = self._around(at, op, results, steps, values, places)
            elif op in self.needed:
                at.clone([op], values)
        return places

    def _around(
        self, at: Inserter, op: Operation, results: Results, steps: Steps, values: Values, places: tuple[SSAValue, ...]
    ) -> tuple[SSAValue, ...]:
        """A loop or a condition around the loop over turns, which carries places and nothing else."""
        types, inside = [v.type for v in places], dict(values)
        if isinstance(op, scf.ForOp):
            body = op.body.block
            block = Block(arg_types=[body.args[0].type, *types])
            inside[body.args[0]] = block.args[0]
            inner = Inserter(block, None, op.location)
            inner.add(scf.YieldOp(*self._again(inner, body, results, steps, inside, tuple(block.args[1:]))))
            lower, upper, step = (_given(values, v) for v in (op.lb, op.ub, op.step))
            made: Operation = scf.ForOp(lower, upper, step, places, block)
            made.properties.update({name: value for name, value in op.properties.items() if name == "unsignedCmp"})
        else:
            assert isinstance(op, scf.IfOp)
            arms: list[Region] = []
            for region in op.regions:
                inner = Inserter(Block(), None, op.location)
                behind = places
                if region.blocks:
                    behind = self._again(inner, region.block, results, steps, dict(values), places)
                inner.add(scf.YieldOp(*behind))
                arms.append(Region(inner.block))
            made = scf.IfOp(_given(values, op.cond), types, arms[0], arms[1])
        made.attributes.update(op.attributes)
        return tuple(at.add(made, op.location).results)

    def _read_result(self, results: Results) -> None:
        """The result in place of the loop over turns. The consumer's place in the queue's pipeline becomes its place in
        that of the results: both move where the loop is."""
        loop, turns = self.loop, 1 - self.sum
        set_operand(self.start, "pipeline", results.pipe)
        of_results = results.pipe.owner
        assert isinstance(of_results, CreatePipelineOp) and isinstance(results.pipe.type, PipelineType)
        retype(of_results, results.pipe.type)
        block = loop.parent
        assert block is not None
        at = Inserter(block, loop, loop.location)
        place = loop.iter_args[turns]
        results.read(at, trips(at, loop), loop.iter_args[self.sum], loop.results[self.sum], place)
        following = at.value(IncIterOp.make(place, results=[place.type]))
        loop.results[turns].replace_all_uses_with(following)
        erase(loop)


def _given(values: Mapping[SSAValue, SSAValue], value: SSAValue) -> SSAValue:
    return values.get(value, value)


def _start(place: SSAValue) -> CreateIteratorOp:
    """The op that makes the iterator of which a loop, or those around it, carry what follows it. Unfit where it is not
    where the agent begins that they begin."""
    while isinstance(place, BlockArgument):
        loop = place.block.parent_op()
        if not isinstance(loop, scf.ForOp):
            raise Unfit("its loop is within another op than loops and conditions")
        place = loop.iter_args[place.index - 1]
    if not isinstance(place.owner, CreateIteratorOp):
        raise Unfit("its turns do not begin at the first stage")
    return place.owner


def _is_idle(region: Region) -> bool:
    """Whether an agent does nothing."""
    return region.block.first_op is region.block.last_op


def add_agent(op: AgentSwitchOp, block: Block) -> AgentSwitchOp:
    """The op with one agent more, whose block one thread of a warp runs, and without those that do nothing."""
    kept = [n for n, region in enumerate(op.regions) if not _is_idle(region)]
    warps, registers, ids, elected = op.warps, op.registers, entries(op.agent_ids), op.elected
    regions = [op.regions[n] for n in kept]
    for region in regions:
        op.detach_region(region)

    def numbers(given: Sequence[int], more: int) -> ArrayAttr[IntegerAttr] | None:
        return ArrayAttr([IntegerAttr(n, i64) for n in (*(given[n] for n in kept), more)]) if given else None

    made = AgentSwitchOp.make(
        regions=[*regions, Region(block)],
        agent_ids=numbers(ids, max(ids, default=0) + 1),
        agent_warps=numbers(warps, AGENT_WARPS),
        agent_registers=numbers(registers, min(registers, default=0)),
        agent_elected=numbers([int(e) for e in elected], 1),
        location=op.location,
    )
    made.attributes.update(op.attributes)
    assert op.parent is not None
    op.parent.insert_op_before(made, op)
    erase(op)
    return made
