# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pipelines whose stages have barrier objects: agents hand them to each other, and each goes at its own pace.

A stage has a `full` and an `empty` barrier object. An iterator is a stage and the parity of a round, 0 of the first.

    producer_acquire    waits for the phase of `empty` before this round's: in the first round there is none to wait for
    producer_commit     arrives at `full`, whose phase also waits for the bytes of the copies that were started; where
                        one thread has started them all, it says with the same instruction how many these are
    consumer_wait       waits for this round's phase of `full`
    consumer_release    arrives at `empty`

Where CTAs of a cluster fill each other's stages, a consumer's threads arrive at the `empty` one of each of them.

One thread arrives for each warp, or for an agent whose region one thread runs; the barrier objects count these. Where
a turn may copy with cp.async, each thread arrives once more, when its copies are done. In a pair of CTAs, arrivals are
at the leader's barrier objects, of warps from both; the end of products arrives at those of both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation, SSAValue

from libtile.codegen import agents, clusters, mbarrier, tcgen05, tma
from libtile.codegen.builder import SharedBuffer, Value, integer
from libtile.codegen.llvm_types import I1, I32, StructType
from libtile.dialects import scf
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileas.pipeline import (
    AgentSwitchOp,
    ConsumerWaitOp,
    CreateIteratorOp,
    CreatePipelineOp,
    IncIterOp,
    ProducerAcquireOp,
    ProducerCommitOp,
    ProducerWriteOp,
)
from libtile.dialects.nv_tileas.tma import LoadOp, TiledLoadOp, TiledTmaLoadOp, TmaLoad, TmaOp
from libtile.dialects.nv_tileas.types import BufferType, PipelineIteratorType, PipelineType
from libtile.ir.places import walk
from libtile.ir.tile_form import integer_of
from libtile.lowering.agents import agent_of
from libtile.lowering.errors import unsupported
from libtile.lowering.tileas.shared_memory import (
    MOST_AGENTS,
    STAGE_BARRIER_BYTES,
    counter_word,
    drawing_bytes,
    drawing_word,
    drawn_sides,
    tile_bytes,
)
from libtile.lowering.tileas.storage_lives import BARRIERS, DRAWING
from libtile.lowering.to_llvm.emitter import Emitter
from libtile.lowering.to_llvm.storage import Place, Ring, Turn
from libtile.support.records import replace


def make(e: Emitter, op: CreatePipelineOp, ring: Ring) -> Ring:
    """The ring with barrier objects, which the CTA sees from here on."""
    b = e.b
    if not b.target.has("mbarrier"):
        raise unsupported(op, "has barrier objects", b.target.name)
    if op.parent_op() is not None and not isinstance(op.parent_op(), FuncOp):
        raise unsupported(op, "has barrier objects, and is not made by the function itself", b.target.name)
    _check_consumers(e, op)
    copies = any(isinstance(copy, LoadOp | TiledLoadOp) for write in _writes(op) for copy in walk(write))
    drawn, type_ = drawn_sides(op), op.pipeline.type
    assert isinstance(type_, PipelineType)
    made = replace(
        ring, barriers=place(e, op, BARRIERS, ring.stages * STAGE_BARRIER_BYTES), copies=copies,
        ctas=integer_of(op.ctas, 1), drawing=place(e, op, DRAWING, drawing_bytes(type_)) if drawn else None,
    )  # fmt: skip
    stages = [integer(I32, n) for n in range(ring.stages)]
    arriving, leaving = _arrivals(e, op, ProducerAcquireOp, copies), _arrivals(e, op, ConsumerWaitOp) * made.ctas
    barriers = [(full(e, made, s), arriving) for s in stages] + [(empty(e, made, s), leaving) for s in stages]
    mbarrier.initialize(b, barriers)
    if made.drawing is not None:
        with b.when(b.compare("eq", b.thread_id(), integer(I32, 0))):
            for side in sorted(drawn, key=counter_word):
                counter = b.shared_pointer(made.drawing, integer(I32, counter_word(side)))
                b.line(f"store i32 0, {counter.typed}, align 4")
    if b.target.has("tma"):
        tma.fence_async_shared(b)  # the stages may lie where threads have exchanged elements
    b.barrier()
    return made


def place(e: Emitter, op: Operation, attribute: str, size: int) -> SharedBuffer:
    """Bytes of shared memory of an op, which says in an attribute where they begin; LoweringError without it."""
    given = op.attributes.get(attribute)
    if not isinstance(given, IntegerAttr):
        raise unsupported(op, f"has no '{attribute}', which tileas-allocate-shared-memory gives it", e.b.target.name)
    return SharedBuffer(given.value.data, size)


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


def _check_consumers(e: Emitter, op: CreatePipelineOp) -> None:
    """LoweringError for a pipeline one of whose consumers never comes, so that no stage is ever free again."""
    waits = [use.operation for use in op.pipeline.uses if isinstance(use.operation, ConsumerWaitOp)]
    there = {integer_of(wait.consumer_idx) for wait in waits}
    assert isinstance(op.pipeline.type, PipelineType)
    missing = [str(n) for n in range(op.pipeline.type.consumers) if n not in there]
    if waits and missing:
        raise unsupported(op, f"is never read by its consumer {', '.join(missing)}", e.b.target.name)


def _writes(op: Operation) -> Iterator[Operation]:
    """The ops in whose regions the stages of a pipeline are filled."""
    for use in op.results[0].uses:
        if isinstance(use.operation, ProducerAcquireOp):
            yield from (of.operation for of in use.operation.token.uses if isinstance(of.operation, ProducerWriteOp))


def _arrivals(e: Emitter, op: Operation, begins: type[ProducerAcquireOp | ConsumerWaitOp], copies: bool = False) -> int:
    """How many times threads arrive in a turn of a side of a pipeline, whose turns begin with an op of this class: one
    of each warp, and with `copies` each thread as well. A consumer that is two consumers does it twice."""
    lanes = 1 + (e.b.target.warp_size if copies else 0)
    sides: dict[tuple[Operation | None, int, int], int] = {}
    for use in op.results[0].uses:
        turn = use.operation
        if isinstance(turn, begins):
            switch, number = agent_of(turn)
            consumer = integer_of(turn.consumer_idx) if isinstance(turn, ConsumerWaitOp) else 0
            if not isinstance(switch, AgentSwitchOp):
                sides[None, 0, consumer] = e.b.threads // e.b.target.warp_size * lanes
            else:
                # Of a pair of CTAs, the one thread of an agent acts in the leader only.
                alone, ctas = switch.elected[number], 2 if _is_of_pair(op) else 1
                sides[switch, number, consumer] = 1 + copies if alone else switch.warps[number] * lanes * ctas
    agents_ = {switch for switch, _, _ in sides}
    if len(agents_) > 1 and None in agents_:
        raise unsupported(op, "is used by agents, and outside of them on the same side", e.b.target.name)
    drawn = {side or 0 for side in drawn_sides(op) if (side is None) is (begins is ProducerAcquireOp)}
    arriving = 0
    for consumer in sorted({consumer for _, _, consumer in sides}):
        counts = [count for (_, _, of), count in sides.items() if of == consumer]
        if consumer in drawn and len({*counts}) > 1:
            what = "produced for" if begins is ProducerAcquireOp else "consumed"
            problem = f"is {what} by agents of different numbers of warps, and all turns are alike"
            raise unsupported(op, problem, e.b.target.name)
        arriving += counts[0] if consumer in drawn else sum(counts)
    return max(arriving, 1)


def _is_of_pair(op: Operation) -> bool:
    return isinstance(op, CreatePipelineOp) and op.pair is not None


def _barrier(e: Emitter, ring: Ring, number: Value) -> Value:
    assert ring.barriers is not None
    if number.constant is not None:
        offset = integer(I32, number.constant * mbarrier.BYTES)
    else:
        offset = e.b.binary("shl", number, integer(I32, mbarrier.BYTES.bit_length() - 1))
    return e.b.shared_pointer(ring.barriers, offset)


def full(e: Emitter, ring: Ring, stage: Value) -> Value:
    """The barrier object by which a stage's producer says that it has filled it."""
    return _barrier(e, ring, stage)


def empty(e: Emitter, ring: Ring, stage: Value) -> Value:
    """The barrier object by which a stage's consumers say that they have left it."""
    if stage.constant is not None:
        return _barrier(e, ring, integer(I32, stage.constant + ring.stages))
    assert ring.barriers is not None
    behind = ring.barriers.offset + ring.stages * mbarrier.BYTES
    offset = e.b.binary("shl", stage, integer(I32, mbarrier.BYTES.bit_length() - 1))
    return e.b.shared_pointer(SharedBuffer(behind, ring.stages * mbarrier.BYTES), offset)


def following(e: Emitter, place: Place, stages: int) -> Place:
    """The next stage; behind the last one the first of the next round."""
    b, one = e.b, integer(I32, 1)
    if place.stage.constant is not None and place.phase.constant is not None:
        stage = (place.stage.constant + 1) % stages
        return Place(integer(I32, stage), integer(I32, place.phase.constant ^ (stage == 0)))
    more = b.add(place.stage, one)
    if stages == 1:
        return Place(integer(I32, 0), b.xor(place.phase, one))
    wraps = b.compare("eq", more, integer(I32, stages))
    return Place(b.select(wraps, integer(I32, 0), more), b.xor(place.phase, b.cast("zext", wraps, I32)))


def bind_equal(e: Emitter, arguments: Sequence[SSAValue], given: Sequence[SSAValue], back: Sequence[SSAValue]) -> None:
    """Bind places that a loop carries to others of them, where they always are the same place, or the one behind
    it, of pipelines of as many stages: they begin so, and each turn moves on by one. `given` is what arguments
    begin with, `back` what a turn gives back."""
    known: list[tuple[int, Place, SSAValue]] = []
    for argument, first, last in zip(arguments, given, back):
        held, type_, step = e.held[first], argument.type, last.owner
        if not isinstance(held, Place) or not isinstance(type_, PipelineIteratorType):
            continue
        if not isinstance(step, IncIterOp) or step.iterator is not argument or held.stage.constant is None:
            continue
        assert isinstance(type_.pipeline, PipelineType)
        stages = type_.pipeline.stages
        for other, begin, leader in known:
            if other != stages:
                continue
            place = e.held[leader]
            assert isinstance(place, Place)
            if _is_same(begin, held):
                e.bind(argument, place)
                break
            if _is_same(following(e, begin, stages), held):
                e.bind(argument, following(e, place, stages))
                break
        else:
            known.append((stages, held, argument))


def show_uniform(e: Emitter, loop: scf.ForOp) -> None:
    """Show ptxas that all threads of a warp have the same places, which an outer loop carries: of one that it has
    carried through inner loops it does not see that, and computes addresses of stages in all threads."""
    if e.one_thread or not any(isinstance(op, scf.ForOp | scf.WhileOp) for op in walk(loop.body) if op is not loop):
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


def counted_write(load: TmaLoad) -> ProducerWriteOp | None:
    """The op in whose region a load fills a stage whose commit says how many bytes it copies, where it is one thread
    that copies and commits: the load stands in the region itself, and its turn ends in the same block."""
    write, buffer = load.parent_op(), load.group("buffer")[0]
    if not isinstance(write, ProducerWriteOp) or load.mbarrier is not None or buffer.owner is not load.parent:
        return None
    token = write.handed_on
    while token.has_one_use():
        user = next(iter(token.uses)).operation
        if user.parent is not write.parent:
            return None
        if isinstance(user, ProducerCommitOp):
            return write if user.after_products is None else None
        if not isinstance(user, ProducerWriteOp):
            return None
        token = user.handed_on
    return None


def _bytes_of_turn(op: ProducerCommitOp) -> int:
    """The bytes of all loads of a turn that its commit counts."""
    token, count = op.token, 0
    while isinstance(write := token.owner, ProducerWriteOp):
        loads = [load for load in write.body.block.ops if isinstance(load, TiledTmaLoadOp)]
        count += sum(copied_bytes(load) for load in loads if counted_write(load) is write)
        token = write.token
    return count


def copied_bytes(op: TmaOp) -> int:
    """The bytes of the tile that a copy moves."""
    type_ = op.group("buffer")[0].type
    assert isinstance(type_, BufferType)
    return tile_bytes(type_)


def commit(e: Emitter, ring: Ring, stage: Value, op: ProducerCommitOp) -> None:
    if ring.copies:
        mbarrier.arrive_with_copies(e.b, full(e, ring, stage))
    expected = _bytes_of_turn(op) if e.one_thread else 0
    _end(e, ring, full(e, ring, stage), op.after_products is not None, expected=expected)


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
