# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pipelines whose stages have barrier objects: agents hand them to each other, and each goes at its own pace.

A stage has a `full` and an `empty` barrier object. An iterator is a stage and the parity of a round, 0 of the first.

    producer_acquire    waits for the phase of `empty` before this round's: in the first round there is none to wait for
    producer_commit     arrives at `full`, whose phase also waits for the bytes of the copies that were started; where
                        one thread has started them all, it says with the same instruction how many these are
    consumer_wait       waits for this round's phase of `full`
    consumer_release    arrives at `empty`

Where CTAs of a cluster fill each other's stages, a consumer's threads arrive at the `empty` one of each of them.

Who arrives, and how often, is counted by `tileas-count-arrivals`. In a pair of CTAs, arrivals are at the leader's
barrier objects; the end of products arrives at those of both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, Operation, SSAValue

from libtile.codegen import agents, clusters, control, mbarrier, tcgen05
from libtile.codegen.builder import KernelBuilder, SharedBuffer, Value, integer
from libtile.codegen.llvm_types import I1, I32, StructType
from libtile.dialects import scf
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileas.async_products import AsyncDotOp
from libtile.dialects.nv_tileas.pipeline import (
    CreateIteratorOp,
    CreatePipelineOp,
    IncIterOp,
    ProducerCommitOp,
)
from libtile.dialects.nv_tileas.types import PipelineIteratorType, PipelineType
from libtile.ir.places import ops_in, ops_of
from libtile.ir.tile_form import integer_of
from libtile.lowering.errors import unsupported
from libtile.lowering.tileas.memory.shared_memory import (
    MOST_AGENTS,
    STAGE_BARRIER_BYTES,
    counter_word,
    drawing_bytes,
    drawing_word,
    drawn_sides,
)
from libtile.lowering.tileas.memory.storage_lives import BARRIERS, DRAWING
from libtile.lowering.tileas.pipelines.count_arrivals import BY_THREADS, EMPTY, EXPECTED, FULL
from libtile.lowering.to_llvm.emitter import Emitter
from libtile.lowering.to_llvm.storage import Place, Ring, Turn
from libtile.support.records import replace


def make(e: Emitter, op: CreatePipelineOp, ring: Ring) -> Ring:
    """The ring with barrier objects, which the CTA sees behind a barrier."""
    b = e.b
    if not b.target.has("mbarrier"):
        raise unsupported(op, "has barrier objects", b.target.name)
    if op.parent_op() is not None and not isinstance(op.parent_op(), FuncOp):
        raise unsupported(op, "has barrier objects, and is not made by the function itself", b.target.name)
    drawn, type_ = drawn_sides(op), op.pipeline.type
    assert isinstance(type_, PipelineType)
    made = replace(
        ring, barriers=place(e, op, BARRIERS, ring.stages * STAGE_BARRIER_BYTES), copies=BY_THREADS in op.attributes,
        ctas=integer_of(op.ctas, 1), drawing=place(e, op, DRAWING, drawing_bytes(type_)) if drawn else None,
    )  # fmt: skip
    stages = [integer(I32, n) for n in range(ring.stages)]
    arriving, leaving = (_counted(e, op, attribute) for attribute in (FULL, EMPTY))
    barriers = [(full(e, made, s), arriving) for s in stages] + [(empty(e, made, s), leaving) for s in stages]
    mbarrier.initialize(b, barriers)
    if made.drawing is not None:
        with b.when(b.compare("eq", b.thread_id(), integer(I32, 0))):
            for side in sorted(drawn, key=counter_word):
                counter = b.shared_pointer(made.drawing, integer(I32, counter_word(side)))
                b.line(f"store i32 0, {counter.typed}, align 4")
    return made


def place(e: Emitter, op: Operation, attribute: str, size: int) -> SharedBuffer:
    """Bytes of shared memory of an op, which says in an attribute where they begin; LoweringError without it."""
    return SharedBuffer(_given(e, op, attribute, "tileas-allocate-shared-memory"), size)


def _counted(e: Emitter, op: CreatePipelineOp, attribute: str) -> int:
    return _given(e, op, attribute, "tileas-count-arrivals")


def _given(e: Emitter, op: Operation, attribute: str, by: str) -> int:
    """What a pass has written down on an op; LoweringError where it has not."""
    given = op.attributes.get(attribute)
    if not isinstance(given, IntegerAttr):
        raise unsupported(op, f"has no '{attribute}', which {by} gives it", e.b.target.name)
    return given.value.data


def draw(e: Emitter, op: CreateIteratorOp, ring: Ring) -> Place:
    """The next turn that no agent has drawn: one thread takes it, and tells the others of its agent. Where these may
    not have read the word of the last turn yet, `tileas-insert-shared-barriers` has them meet before."""
    b = e.b
    assert ring.drawing is not None
    if e.one_thread:
        return _place_of(e, ring, _taken(e, op, ring))
    number = b.agent.barrier if b.agent is not None else 0
    if not 0 < number <= MOST_AGENTS:
        raise unsupported(op, "draws a turn outside of agents", b.target.name)
    slot = b.shared_pointer(ring.drawing, integer(I32, drawing_word(number)))
    with b.when(b.compare("eq", b.thread_id(), integer(I32, 0))):
        b.line(f"store i32 {_taken(e, op, ring).text}, {slot.typed}, align 4")
    b.barrier()
    return _place_of(e, ring, b.emit(I32, f"load i32, {slot.typed}, align 4"))


def _taken(e: Emitter, op: CreateIteratorOp, ring: Ring) -> Value:
    """The number of the turn that this thread takes, which is the next one, when its stage is free (or full).

    A phase is told by one bit. While the counter stands at a turn nobody has taken it, so that its stage has seen the
    phase before that of this turn (the turn a round before was taken when it was there) and not the one behind it: the
    bit is enough, however many agents draw, and in whatever order they end their turns. Where the counter has moved on
    since it was read, what the barrier object said of the turn does not count.
    """
    b = e.b
    assert ring.drawing is not None
    counter = b.shared_pointer(ring.drawing, integer(I32, counter_word(op.side)))
    again, there, taken = b.new_block("draw"), b.new_block("there"), b.new_block("taken")
    b.branch(again)
    b.start(again)
    turn = b.emit(I32, f"load volatile i32, {counter.typed}, align 4")
    at = _place_of(e, ring, turn)
    if op.side is None:
        ended = mbarrier.has_ended(b, empty(e, ring, at.stage), b.xor(at.phase, integer(I32, 1)))
    else:
        ended = mbarrier.has_ended(b, full(e, ring, at.stage), at.phase)
    b.conditional_branch(ended, there, again)
    b.start(there)
    following = b.add(turn, integer(I32, 1))
    swap = f'cmpxchg {counter.typed}, i32 {turn.text}, i32 {following.text} syncscope("block") monotonic monotonic'
    swapped = b.emit(StructType((I32, I1)), swap)
    b.conditional_branch(b.extract(swapped, 1, I1), taken, again)
    b.start(taken)
    return turn


def _place_of(e: Emitter, ring: Ring, turn: Value) -> Place:
    """The stage and the parity of a turn."""
    stages = integer(I32, ring.stages)
    round_ = e.b.binary("udiv", turn, stages)
    return Place(e.b.binary("urem", turn, stages), e.b.and_(round_, integer(I32, 1)))


def behind(b: KernelBuilder, buffer: SharedBuffer, count: Value, size: int) -> Value:
    """The address that lies `count` (an i32) times so many bytes behind the start of a buffer."""
    if count.constant is not None:
        return b.shared_pointer(buffer, integer(I32, count.constant * size))
    first, more = count.behind or (count, 0)
    start = b.shared_pointer(buffer, b.mul(first, integer(I32, size)))
    return b.offset(start, integer(I32, more * size)) if more else start


def _barrier(e: Emitter, ring: Ring, number: Value) -> Value:
    assert ring.barriers is not None
    return behind(e.b, ring.barriers, number, mbarrier.BYTES)


def full(e: Emitter, ring: Ring, stage: Value) -> Value:
    """The barrier object by which a stage's producer says that it has filled it."""
    return _barrier(e, ring, stage)


def empty(e: Emitter, ring: Ring, stage: Value) -> Value:
    """The barrier object by which a stage's consumers say that they have left it."""
    if stage.constant is not None:
        return _barrier(e, ring, integer(I32, stage.constant + ring.stages))
    assert ring.barriers is not None
    size = ring.stages * mbarrier.BYTES
    return behind(e.b, SharedBuffer(ring.barriers.offset + size, size), stage, mbarrier.BYTES)


def following(e: Emitter, place: Place, stages: int, *, hidden: bool = False, within: bool = False) -> Place:
    """The next stage; behind the last one the first of the next round, unless it is `within` a round for sure. Where it
    is `hidden`, LLVM does not see how few bits it has."""
    b, one = e.b, integer(I32, 1)
    if place.stage.constant is not None and place.phase.constant is not None:
        stage = (place.stage.constant + 1) % stages
        return Place(integer(I32, stage), integer(I32, place.phase.constant ^ (stage == 0)))
    if stages == 1:
        return Place(integer(I32, 0), b.xor(place.phase, one))
    more = b.add(place.stage, one)
    if within:
        first, count = place.stage.behind or (place.stage, 0)
        return Place(replace(more, behind=(first, count + 1)), place.phase)
    if stages & (stages - 1) == 0:  # its bits are those of the stage, and the one that ends a round
        if stages == 2:
            next_, ends = b.xor(place.stage, one), place.stage
        else:
            next_ = b.and_(more, integer(I32, stages - 1))
            ends = b.binary("lshr", more, integer(I32, stages.bit_length() - 1))
        return Place(control.as_it_is(b, next_) if hidden else next_, b.xor(place.phase, ends))
    wraps = b.compare("eq", more, integer(I32, stages))
    return Place(b.select(wraps, integer(I32, 0), more), b.xor(place.phase, b.cast("zext", wraps, I32)))


def feeds_wgmma(block: Block | None, *, several: bool = False) -> bool:
    """Whether wgmma reads stages in a block, in which `several` places move on if that is asked: LLVM is not to see how
    few bits these have, as it would make descriptors by multiplications in 64 bits, which take more uniform registers
    than there are."""
    if block is None or (several and sum(isinstance(op, IncIterOp) for op in ops_in(block)) < 2):
        return False
    return bool(ops_of(block, AsyncDotOp))


def bind_equal(e: Emitter, arguments: Sequence[SSAValue], given: Sequence[SSAValue], back: Sequence[SSAValue]) -> None:
    """Bind places that a loop carries to others of them, where they always are the same place, or the one behind
    it, of pipelines of as many stages: they begin so, and each turn moves on by one. `given` is what arguments
    begin with, `back` what a turn gives back."""
    owner = arguments[0].owner if arguments else None
    hidden = feeds_wgmma(owner if isinstance(owner, Block) else None)
    known: list[tuple[int, Place, SSAValue]] = []
    for stages, argument, held in _moving_on(e, arguments, given, back):
        for other, begin, leader in known:
            if other != stages:
                continue
            place = e.held[leader]
            assert isinstance(place, Place)
            if _is_same(begin, held):
                e.bind(argument, place)
                break
            if _is_same(following(e, begin, stages), held):
                e.bind(argument, following(e, place, stages, hidden=hidden))
                break
        else:
            known.append((stages, held, argument))
    _bind_phases(e, known)


def _bind_phases(e: Emitter, known: Sequence[tuple[int, Place, SSAValue]]) -> None:
    """Bind the place of a pipeline of one stage by that of one with two: each turn ends a round of the one, and goes to
    the other stage of the other, so that its phase is the number of that stage, or what the number is not."""
    two = next(((begin, leader) for stages, begin, leader in known if stages == 2), None)
    one = next(((begin, argument) for stages, begin, argument in known if stages == 1), None)
    if two is None or one is None:
        return
    place = e.held[two[1]]
    assert isinstance(place, Place) and two[0].stage.constant is not None and one[0].phase.constant is not None
    differs = integer(I32, two[0].stage.constant ^ one[0].phase.constant)
    e.bind(one[1], Place(integer(I32, 0), e.b.xor(place.stage, differs)))


def _moving_on(
    e: Emitter, arguments: Sequence[SSAValue], given: Sequence[SSAValue], back: Sequence[SSAValue]
) -> Iterator[tuple[int, SSAValue, Place]]:
    """The places that a loop carries, moves on by one each turn, and begins with known ones: the number of stages, the
    argument, and what it begins with."""
    for argument, first, last in zip(arguments, given, back):
        held, type_, step = e.held[first], argument.type, last.owner
        if not isinstance(held, Place) or not isinstance(type_, PipelineIteratorType):
            continue
        known = held.stage.constant is not None and held.phase.constant is not None
        if not known or not isinstance(step, IncIterOp) or step.iterator is not argument:
            continue
        assert isinstance(type_.pipeline, PipelineType)
        yield type_.pipeline.stages, argument, held


def show_uniform(e: Emitter, loop: scf.ForOp) -> None:
    """Show ptxas that all threads of a warp have the same places, which an outer loop carries: of one that it has
    carried through inner loops it does not see that, and computes addresses of stages in all threads."""
    if e.one_thread or not any(isinstance(op, scf.ForOp | scf.WhileOp) for op in ops_of(loop.body) if op is not loop):
        return
    for argument in loop.body.block.args:
        place = e.held.get(argument)
        if isinstance(place, Place) and place.stage.constant is None:
            e.bind(argument, Place(agents.uniform(e.b, place.stage), agents.uniform(e.b, place.phase)))


def _is_same(a: Place, b: Place) -> bool:
    return (a.stage.constant, a.phase.constant) == (b.stage.constant, b.phase.constant) and a.phase.constant is not None


def acquire(e: Emitter, ring: Ring, place: Place) -> Turn:
    mbarrier.wait(e.b, empty(e, ring, place.stage), e.b.xor(place.phase, integer(I32, 1)))
    return _begin(e, ring, place)


def wait(e: Emitter, ring: Ring, place: Place) -> Turn:
    mbarrier.wait(e.b, full(e, ring, place.stage), place.phase)
    return _begin(e, ring, place)


def _begin(e: Emitter, ring: Ring, place: Place) -> Turn:
    """What follows in a turn comes behind its barrier, in tensor memory too."""
    if ring.results is not None:
        tcgen05.fence_after(e.b)
    return Turn(ring, place.stage)


def commit(e: Emitter, ring: Ring, stage: Value, op: ProducerCommitOp) -> None:
    if ring.copies:
        mbarrier.arrive_with_copies(e.b, full(e, ring, stage))
    expected = op.attributes.get(EXPECTED)
    count = expected.value.data if isinstance(expected, IntegerAttr) else 0
    _end(e, ring, full(e, ring, stage), op.after_products is not None, expected=count)


def release(e: Emitter, ring: Ring, stage: Value, *, after_products: bool = False) -> None:
    _end(e, ring, empty(e, ring, stage), after_products, ring.ctas)


def _end(
    e: Emitter, ring: Ring, barrier: Value, after_products: bool, ctas: int = 1, *, expected: int = 0
) -> None:  # fmt: skip
    """Arrive at a barrier object, in each of so many CTAs of the cluster, or have the products arrive there that this
    thread has issued. With the arrival of one thread come the bytes that its CTA is to wait for (`expected`)."""
    if after_products:
        tcgen05.commit(e.b, barrier, 2 if ring.pair else 1)
        return
    if ring.results is not None:
        tcgen05.fence_before(e.b)
    if e.one_thread:
        # What is alone in each CTA of a pair says it once.
        with clusters.leader(e.b) if ring.pair else nullcontext():
            if expected:
                # In a pair the leader's barrier object counts what both CTAs copy.
                mbarrier.arrive_expecting(e.b, barrier, expected * (2 if ring.pair else 1))
            else:
                _arrive(e, barrier, ctas)
        return
    agents.meet_warp(e.b)
    with agents.one_thread(e.b):
        if ring.pair:
            clusters.arrive(e.b, barrier, 0)
        else:
            _arrive(e, barrier, ctas)


def _arrive(e: Emitter, barrier: Value, ctas: int) -> None:
    if ctas == 1:
        mbarrier.arrive(e.b, barrier)
    else:
        for rank in range(ctas):
            clusters.arrive(e.b, barrier, rank)
