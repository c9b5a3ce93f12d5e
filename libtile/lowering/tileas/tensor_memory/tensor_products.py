# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Agents for products whose results lie in tensor memory (tcgen05): what `tileas-specialize` makes on such targets.

    storage in tensor memory, and a pipeline whose stages are results there
    agent_switch
      the kernel's warps   they wait for the result, store zeros there if there is no step, load it to registers, as a
                           whole or part by part (`result_parts`), and go on behind the loop
      producer, one warp   one thread copies the tiles of each step
      products, one warp   one thread waits for each step's tiles and issues the products, whose end releases the tiles;
                           behind the last step it hands the result on

Products add to what lies in tensor memory: the first ones of a result leave out what was there, which takes the place
of an accumulator of zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType, TensorType, i1
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from libtile.atoms import tcgen05, tensor_columns
from libtile.dialects import arith, scf
from libtile.dialects.nv_tileaa import shapes as aa
from libtile.dialects.nv_tileaa.attributes import KernelSpecAttr
from libtile.dialects.nv_tileaa.shapes import integers_of
from libtile.dialects.nv_tileas.attributes import TCGEN05, MmaAtomAttr
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.dialects.nv_tileas.pipeline import (
    AgentSwitchOp,
    ConsumerReadOp,
    ConsumerReleaseOp,
    ConsumerWaitOp,
    CreateIteratorOp,
    CreatePipelineOp,
    IncIterOp,
    PipelineYieldOp,
    ProducerAcquireOp,
    ProducerCommitOp,
    ProducerWriteOp,
)
from libtile.dialects.nv_tileas.products import DotOp, ScaledDotOp
from libtile.dialects.nv_tileas.tensor_memory import AsyncDotIntoOp
from libtile.dialects.nv_tileas.tiles import AllocTensorOp, CopyOp, ExtractSliceOp
from libtile.dialects.nv_tileas.types import (
    MBARRIER,
    BufferType,
    ConsumerTokenType,
    PipelineIteratorType,
    PipelineType,
    ProducerTokenType,
)
from libtile.ir.tile_form import erase, shape_of
from libtile.layouts.parts import part_layout
from libtile.lowering.tileas.agents.consumers import (
    MAX_ACCUMULATORS,
    OTHER_REGISTERS,
    check_lies,
    consumer_registers,
    sizes,
)
from libtile.lowering.tileas.agents.feeds import within_round
from libtile.lowering.tileas.copies.tma_operands import Unfit
from libtile.lowering.tileas.exchanges.ways import is_part
from libtile.lowering.tileas.inserter import Inserter, array_of
from libtile.lowering.tileas.pipelines.schedule import is_zero
from libtile.lowering.to_tileas.types import layout_of
from libtile.support.records import dataclass
from libtile.targets import Target

AGENT_WARPS = 1
"""Of the producer, and of the agent that issues products: one thread of each does everything."""
PAIR = 2
"""CTAs that share products."""
RESULTS = 2
"""Stages of the pipeline of results in a kernel that works through several tiles, where there are columns for them: the
next one is computed while one is stored."""


BUDGETS = ((2 * tcgen05.GROUP_WARPS, 1, 3), (232, 40, 40))
"""Warps of the agents of a kernel with eight, and registers of a thread of each: with equal shares of a
multiprocessor's all have 168."""


def has_budgets(spec: KernelSpecAttr) -> bool:
    """Whether a kernel's warps take registers from the agents that copy and issue products."""
    return spec.num_warps == BUDGETS[0][0] and (spec.occupancy or 1) == 1


def needs_budgets(spec: KernelSpecAttr, gpu: Target, loaded: int, around: int) -> bool:
    """Whether a kernel's warps are to take registers from other agents for results of so many registers, beside tiles
    that are carried `around` the loop."""
    share = consumer_registers(spec, gpu, None)
    return around > 0 and has_budgets(spec) and loaded + around + OTHER_REGISTERS > share


def agents(warps: int, consumer: Block, producer: Block, issuer: Block, *, budgets: bool = False) -> AgentSwitchOp:
    """The agents of a kernel with so many warps, beside one thread that copies and one that issues products; with
    `budgets` they have registers of their own."""
    counts, registers = BUDGETS if budgets else ((warps, AGENT_WARPS, AGENT_WARPS), ())
    return AgentSwitchOp.make(
        regions=[Region(consumer), Region(producer), Region(issuer)],
        agent_warps=array_of(*counts),
        agent_registers=array_of(*registers) if budgets else None,
        agent_elected=array_of(0, 1, 1),
    )


def instruction(product: DotOp, gpu: Target) -> MmaAtomAttr:
    """The widest tcgen05.mma of a product; Unfit where there is none."""
    m, n, depth = sizes(product)
    a, b, d = product.atom.types
    found = tcgen05.find(gpu, a, b, d, m, n, depth)
    if found is None:
        raise Unfit(f"tcgen05.mma does not multiply {a} and {b} into {d} in tiles of {m}x{n}x{depth}")
    return MmaAtomAttr(TCGEN05, (found.m, found.n, found.k), a, b, d)


def pair_instruction(product: DotOp, gpu: Target) -> MmaAtomAttr | None:
    """The tcgen05.mma of a pair of CTAs, each of which has the rows of a product and half of the columns of its right
    operand; None where there is none, so that each of the two multiplies for itself."""
    m, n, depth = sizes(product)
    a, b, d = product.atom.types
    found = tcgen05.find(gpu, a, b, d, m, n, depth, PAIR)
    return None if found is None else MmaAtomAttr(TCGEN05, (found.m, found.n, found.k), a, b, d)


def results_at_a_time(tiles: Sequence[Sequence[int]], spec: KernelSpecAttr, more: int = 0) -> int:
    """How many times a kernel that works through several tiles has results of these shapes in tensor memory, beside so
    many columns `more`: as often as there are columns for, which blocks on a multiprocessor share. Unfit where there
    are not even columns for several results once."""
    columns = tcgen05.COLUMNS // (spec.occupancy or 1)

    def taken(count: int) -> int:
        each = tensor_columns.together((rows, count * wide) for rows, wide in tiles)
        return tcgen05.allocated_columns((tcgen05.LANES, each + more))

    if len(tiles) > 1 and taken(1) > columns:
        shapes = " and ".join("x".join(map(str, tile)) for tile in tiles)
        raise Unfit(f"results of {shapes} do not fit the {columns} columns of tensor memory together")
    return next((n for n in range(RESULTS, 1, -1) if taken(n) <= columns), 1)


def check_sums(
    products: Sequence[DotOp | ScaledDotOp],
    initial: Sequence[SSAValue],
    results: Sequence[SSAValue],
    gpu: Target,
    spec: KernelSpecAttr,
    around: int = 0,
) -> int:
    """Unfit for sums of products that do not start with zeros, do not lie as warps load them, or whose `results` behind
    the loop take too many registers, where they are not taken part by part, beside so many for tiles `around` the loop;
    the registers of a thread that results take."""
    if not all(map(is_zero, initial)):
        raise Unfit("its accumulator does not start with zeros")
    loaded = _check_loaded(results, gpu, spec, around)
    for product in products:
        check_lies(product, tcgen05.register_layout, spec.num_warps, "as warps load it from tensor memory")
    return loaded


def _check_loaded(results: Sequence[SSAValue], gpu: Target, spec: KernelSpecAttr, around: int) -> int:
    """Unfit for results behind a loop that take too many registers together, those that are taken as a whole or a part
    of each; otherwise how many."""
    parts = [parts_taken(result) for result in results]
    shapes = [shape_of((taken[0].result if taken else result).type) for taken, result in zip(parts, results)]
    loaded = sum(m * n for m, n in shapes) // (spec.num_warps * gpu.warp_size)
    threads = (spec.num_warps + 2 * AGENT_WARPS) * gpu.warp_size
    each = min(gpu.registers_per_sm // (spec.occupancy or 1) // threads, gpu.registers_per_thread)
    if needs_budgets(spec, gpu, loaded, around):
        each = BUDGETS[1][0]
    if loaded > MAX_ACCUMULATORS or loaded + OTHER_REGISTERS + around > each:
        named = " and ".join(f"{m}x{n}" for m, n in shapes)
        raise Unfit(f"results of {named} do not fit the registers of {spec.num_warps} warps")
    return loaded


@dataclass(frozen=True)
class Results:
    """The results of a product in tensor memory: a stage's type, the storage, and the pipeline."""

    type: BufferType
    storage: SSAValue
    pipe: SSAValue

    @staticmethod
    def make(at: Inserter, tile: TensorType[Attribute], stages: int, *, pair: bool = False) -> Results:
        """Storage for so many tiles of this type, and a pipeline of them, which a pair of CTAs may have."""
        shape, element = tile.get_shape(), tile.element_type
        type_ = BufferType(shape, element, "tmem", LayoutAttr(tcgen05.memory_layout(shape)))
        storage = at.value(AllocTensorOp.make(results=[BufferType((stages, *shape), element, "tmem")], pair=pair))
        staged = PipelineType(stages, [type_], 1, MBARRIER)
        pipe = at.value(CreatePipelineOp.make([storage], results=[staged], pair=pair))
        return Results(type_, storage, pipe)

    @property
    def place(self) -> PipelineIteratorType:
        return PipelineIteratorType(self.pipe.type)

    def start(self, at: Inserter) -> SSAValue:
        return at.value(CreateIteratorOp.make(self.pipe, results=[self.place]))

    def read(
        self, at: Inserter, count: SSAValue, initial: SSAValue, whole: SSAValue, place: SSAValue | None = None
    ) -> None:
        """Wait for a result, which is `initial` where there is no step, load it to registers in place of `whole`, and
        give its storage back: part by part where parts are all that is used of it, each where it is taken. It is
        the stage at a place, or the first one."""
        held = ConsumerTokenType([self.type])
        if place is None:
            place = self.start(at)
        token = at.value(ConsumerWaitOp.make(self.pipe, place, results=[held]))
        number = count.type
        assert isinstance(number, IntegerType | IndexType)
        none = at.value(arith.CmpiOp(count, at.value(arith.ConstantOp(IntegerAttr(0, number))), "eq"))
        stage, nothing = Block(arg_types=[self.type]), Block()
        inside = Inserter(stage, None, at.location)
        instead = Inserter(nothing, None, at.location)
        instead.add(CopyOp.make(initial, stage.args[0]))
        instead.add(scf.YieldOp())
        inside.add(scf.IfOp(none, [], [nothing]))
        inside.add(PipelineYieldOp.make())
        token = at.value(ConsumerReadOp.make(token, place, results=[held, []], regions=[Region(stage)]))
        taken: list[aa.ExtractSliceOp | None] = [*parts_taken(whole)] or [None]
        for part in taken:
            here = at if part is None else Inserter(_block_of(part), part, part.location)
            stage = Block(arg_types=[self.type])
            inside = Inserter(stage, None, at.location)
            source: SSAValue = stage.args[0]
            tile = whole.type
            if part is not None:
                tile = part.result.type
                shape = shape_of(tile)
                lies = LayoutAttr(tcgen05.memory_layout(shape, self.type.shape[1]))
                box = BufferType(shape, self.type.element_type, "tmem", lies)
                source = inside.value(ExtractSliceOp.make(source, (), results=[box], offsets=part.offsets))
            inside.add(PipelineYieldOp.make([inside.value(CopyOp.make(source, results=[tile]))]))
            done = here.add(ConsumerReadOp.make(token, place, results=[held, [tile]], regions=[Region(stage)]))
            token, made = done.results
            if part is taken[-1]:
                here.add(ConsumerReleaseOp.make(token))
            if part is None:
                made.name_hint = whole.name_hint
                whole.replace_all_uses_with(made)
            else:
                part.result.replace_all_uses_with(made)
                erase(part)


def _block_of(op: Operation) -> Block:
    assert op.parent is not None
    return op.parent


def parts_taken(whole: SSAValue) -> list[aa.ExtractSliceOp]:
    """The ops that take parts of a result, in their order, where nothing else uses it and each part lies in its lanes,
    and in registers as the whole does; none otherwise."""
    parts: list[aa.ExtractSliceOp] = []
    loop, rows = whole.owner, shape_of(whole.type)[0]
    assert isinstance(loop, Operation)
    if not _is_by_rows(whole):
        rows = min(rows, tcgen05.LANES)
    for use in whole.uses:
        op = use.operation
        if not isinstance(op, aa.ExtractSliceOp) or op.parent is not _block_of(loop):
            return []
        shape, offsets = shape_of(op.result.type), integers_of(op.offsets)
        if not is_part(op) or shape[0] != rows or any(o % n for o, n in zip(offsets, shape)):
            return []
        if layout_of(op.result) != part_layout(layout_of(whole), shape):
            return []
        parts.append(op)
    return sorted(parts, key=_place)


def _is_by_rows(tile: SSAValue) -> bool:
    """Whether threads have whole rows of a tile, as they are loaded from tensor memory."""
    shape = shape_of(tile.type)
    try:
        return layout_of(tile) == tcgen05.row_layout(shape, tcgen05.row_warps(shape[0]))
    except ValueError:
        return False


def _place(op: Operation) -> int:
    """The number of an op in its block."""
    return next(n for n, other in enumerate(_block_of(op).ops) if other is op)


Issue = Callable[[Inserter, Sequence[SSAValue], Sequence[SSAValue], SSAValue], None]
"""Issues the products of a step's tiles, which add to results where the last value is true."""


def issue_of(product: DotOp, atom: MmaAtomAttr) -> Issue:
    """The products of a step by an instruction."""

    def issue(at: Inserter, tiles: Sequence[SSAValue], results: Sequence[SSAValue], more: SSAValue) -> None:
        issue_one(at, product, atom, tiles, results[0], more)

    return issue


def issue_one(
    at: Inserter, product: DotOp, atom: MmaAtomAttr, tiles: Sequence[SSAValue], result: SSAValue, more: SSAValue
) -> None:
    """A product of two tiles by an instruction, which adds to a result where `more` is true."""
    signed_a, signed_b = product.signedness_a, product.signedness_b
    at.add(
        AsyncDotIntoOp.make(*tiles, result, more, atom=atom, signedness_a=signed_a, signedness_b=signed_b),
        product.location,
    )


@dataclass(frozen=True)
class Steps:
    """The pipeline of the steps' tiles, and what issues the products of each step."""

    pipe: SSAValue
    types: Sequence[BufferType]
    issue: Issue
    consumer: int | None = None
    """Which of the pipeline's consumers the thread is that issues products."""
    parts: int = 1
    """The stages of a step, each of which holds a part of its tiles."""

    @property
    def place(self) -> PipelineIteratorType:
        return PipelineIteratorType(self.pipe.type)

    def start(self, at: Inserter) -> SSAValue:
        return at.value(CreateIteratorOp.make(self.pipe, results=[self.place]))


Fill = Callable[[Inserter, Sequence[SSAValue]], SSAValue]
"""Issues the products of results' stages, and gives the place in the steps' pipeline behind that."""


def multiply(
    at: Inserter, results: Sequence[Results], steps: Steps, trips: SSAValue, places: Sequence[SSAValue]
) -> tuple[SSAValue, ...]:
    """What one thread does for the products of results: so many steps (`trips`), from places of the results and of
    steps on; the places behind them. Where there is no step, nothing is handed on."""
    *of_results, first = places
    return hand_over(
        at, results, of_results, lambda inside, stages: multiply_steps(inside, stages, steps, trips, first)
    )


def multiply_steps(
    at: Inserter, stages: Sequence[SSAValue], steps: Steps, trips: SSAValue, first: SSAValue
) -> SSAValue:
    """The loop over so many steps (`trips`) from a place on, whose products go to results' stages: the place behind."""
    number = trips.type
    assert isinstance(number, IntegerType | IndexType)
    zero, one = (at.value(arith.ConstantOp(IntegerAttr(n, number))) for n in (0, 1))
    body = Block(arg_types=[number, steps.place])
    each = Inserter(body, None, at.location)
    step, place = body.args
    more = each.value(arith.CmpiOp(step, zero, "ne"))
    each.add(scf.YieldOp(multiply_parts(each, steps, place, stages, more)))
    return at.add(scf.ForOp(zero, trips, one, [first], body)).results[0]


def hand_over(at: Inserter, results: Sequence[Results], places: Sequence[SSAValue], fill: Fill) -> tuple[SSAValue, ...]:
    """A turn of the thread that issues products: results' stages at these places, which are handed on when the products
    that `fill` issues have ended; the places behind, and what `fill` gives."""
    stages = [Block(arg_types=[result.type]) for result in results]
    around = [at, *(Inserter(stage, None, at.location) for stage in stages)]
    taken = [
        at.value(ProducerAcquireOp.make(result.pipe, place, results=[ProducerTokenType([result.type])]))
        for result, place in zip(results, places)
    ]
    inside = around[-1]
    behind = fill(inside, [stage.args[0] for stage in stages])
    inside.add(PipelineYieldOp.make([behind]))
    for n in reversed(range(len(results))):
        outside, token = around[n], taken[n]
        written = outside.add(
            ProducerWriteOp.make(token, places[n], results=[token.type, [behind.type]], regions=[Region(stages[n])])
        )
        token, behind = written.results
        outside.add(ProducerCommitOp.make(token, after_products=True))
        if n:
            outside.add(PipelineYieldOp.make([behind]))
    following = [at.value(IncIterOp.make(p, results=[r.place])) for r, p in zip(results, places)]
    return (*following, behind)


def multiply_parts(
    at: Inserter, steps: Steps, place: SSAValue, results: Sequence[SSAValue], more: SSAValue
) -> SSAValue:
    """The products of a step, of one part of its tiles behind the other: the place of the next step. Those of the first
    part add to results where `more` is true."""
    for part in range(steps.parts):
        adds = more if part == 0 else at.value(arith.ConstantOp(IntegerAttr(1, i1)))
        place = multiply_step(at, steps, place, results, adds, part)
    return place


def multiply_step(
    at: Inserter, steps: Steps, place: SSAValue, results: Sequence[SSAValue], more: SSAValue, part: int | None = None
) -> SSAValue:
    """Wait for a step's tiles, or a part of them, and issue their products, which add to results where `more` is true,
    and whose end releases the tiles: the place of the next step or part."""
    held = ConsumerTokenType(steps.types)
    token = at.value(ConsumerWaitOp.make(steps.pipe, place, results=[held], consumer_idx=steps.consumer))
    stage = Block(arg_types=list(steps.types))
    inside = Inserter(stage, None, at.location)
    steps.issue(inside, stage.args, results, more)
    inside.add(PipelineYieldOp.make())
    token = at.value(ConsumerReadOp.make(token, place, results=[held, []], regions=[Region(stage)]))
    at.add(ConsumerReleaseOp.make(token, after_products=True))
    assert isinstance(steps.pipe.type, PipelineType)
    within = within_round(steps.pipe.type, part, steps.parts)
    return at.value(IncIterOp.make(place, results=[steps.place], within=within))
