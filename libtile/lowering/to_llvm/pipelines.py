# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pipelines, and above all those whose producer and consumer are the same threads, which copy with cp.async.

What those with barrier objects do is in `rings`. The stages of the others lie in shared memory; an iterator is the
number of a stage. What the operations of a turn are here:

    producer_acquire    nothing: a barrier stands where somebody may still read a stage
    producer_commit     closes a group of copies (cp.async.commit_group)
    consumer_wait       waits until this thread's copies have arrived (cp.async.wait_group, all but `pending` groups);
                        behind the next barrier those of the others have, too
    consumer_release    nothing: the next barrier says it

`tileas-insert-shared-barriers` puts the barriers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import Block, SSAValue

from libtile.atoms.cp_async import async_groups
from libtile.atoms.transposing_copies import transposition
from libtile.codegen import async_copies, memory, shared_tiles, tiled_views, transposing_copies
from libtile.codegen.builder import SharedBuffer, Value, integer
from libtile.codegen.llvm_types import I32
from libtile.codegen.shapes import embedded, part_offset
from libtile.codegen.tile import Tile
from libtile.dialects.nv_tileaa.shapes import integers_of
from libtile.dialects.nv_tileas.async_products import matrix_of
from libtile.dialects.nv_tileas.copy_atoms import access_of
from libtile.dialects.nv_tileas.pipeline import (
    ConsumeOneOp,
    ConsumerReadOp,
    ConsumerReleaseOp,
    ConsumerWaitOp,
    CreateIteratorOp,
    CreatePipelineOp,
    IncIterOp,
    ProduceOneOp,
    ProducerAcquireOp,
    ProducerCommitOp,
    ProducerWriteOp,
    RegionOp,
    TurnOp,
)
from libtile.dialects.nv_tileas.tiles import CopyOp
from libtile.dialects.nv_tileas.tma import LoadOp, TiledLoadOp
from libtile.dialects.nv_tileas.types import BufferType, PipelineIteratorType, PipelineType
from libtile.ir.tile_form import integer_of
from libtile.layouts import LinearLayout
from libtile.lowering.errors import unsupported
from libtile.lowering.tileas.copies.select_copies import vector_of
from libtile.lowering.tileas.memory.shared_memory import alignment_of, stage_offsets
from libtile.lowering.tileas.memory.storage_lives import OFFSET
from libtile.lowering.to_llvm import rings, tensor_memory
from libtile.lowering.to_llvm.emitter import Emitter, element_name, rule
from libtile.lowering.to_llvm.memory import tiled_operands
from libtile.lowering.to_llvm.storage import Buffer, Place, Ring, TensorMemory, Turn
from libtile.numerics.elements import STORAGE_BYTES, memory_bits
from libtile.support.diagnostics import UnsupportedError
from libtile.support.records import replace


def _type(value: SSAValue) -> PipelineType:
    assert isinstance(value.type, PipelineType)
    return value.type


# -- pipelines and iterators ------------------------------------------------------------------------------------------


@rule(CreatePipelineOp)
def _create_pipeline(e: Emitter, op: CreatePipelineOp) -> None:
    type_ = _type(op.pipeline)
    offsets, size = stage_offsets(type_, alignment_of(op))
    stages = rings.place(e, op, OFFSET, type_.stages * size) if size else SharedBuffer(0, 0)
    ring = Ring(stages, size, tuple(offsets), type_.stages)
    ring = replace(ring, pair=op.pair is not None)
    if op.storage:
        ring = replace(ring, results=_results(e, op))
    e.bind(op.pipeline, rings.make(e, op, ring) if type_.has_barriers else ring)


def _results(e: Emitter, op: CreatePipelineOp) -> TensorMemory:
    """The storage of a pipeline whose stages are results in tensor memory, one each."""
    held = e.held[op.storage[0]]
    if not isinstance(held, TensorMemory) or len(op.storage) > 1:
        raise unsupported(op, "has storage of its own, which is results in tensor memory only", e.b.target.name)
    return held


@rule(CreateIteratorOp)
def _create_iterator(e: Emitter, op: CreateIteratorOp) -> None:
    if op.drawn is not None:
        ring = e.held[op.pipeline]
        assert isinstance(ring, Ring)
        e.bind(op.iterator, rings.draw(e, op, ring))
        return
    zero = integer(I32, 0)
    e.bind(op.iterator, Place(zero, zero) if _type(op.pipeline).has_barriers else zero)


@rule(IncIterOp)
def _inc_iter(e: Emitter, op: IncIterOp) -> None:
    b, type_, held, within = e.b, _type_of_iterator(op.iterator), e.held[op.iterator], op.within is not None
    if isinstance(held, Place):
        hidden = rings.feeds_wgmma(op.parent, several=True)
        e.bind(op.result, rings.following(e, held, type_.stages, hidden=hidden, within=within))
        return
    stage, stages = e.scalar(op.iterator), type_.stages
    if stage.constant is not None:
        e.bind(op.result, integer(I32, (stage.constant + 1) % stages))
        return
    more = b.add(stage, integer(I32, 1))
    if within:
        e.bind(op.result, more)
        return
    e.bind(op.result, b.select(b.compare("eq", more, integer(I32, stages)), integer(I32, 0), more))


def _type_of_iterator(value: SSAValue) -> PipelineType:
    assert isinstance(value.type, PipelineIteratorType) and isinstance(value.type.pipeline, PipelineType)
    return value.type.pipeline


# -- turns ------------------------------------------------------------------------------------------------------------


def _ring(e: Emitter, value: SSAValue) -> Ring:
    held = e.held[value]
    assert isinstance(held, Ring)
    return held


def _turn(e: Emitter, value: SSAValue) -> Turn:
    held = e.held[value]
    assert isinstance(held, Turn)
    return held


@rule(ProduceOneOp, ConsumeOneOp)
def _one_turn(e: Emitter, op: TurnOp) -> None:
    _emit_region(e, op.body.block, op.outputs)


def _emit_region(e: Emitter, block: Block, results: Sequence[SSAValue]) -> None:
    """Emit a region that ends with a yield, and bind results to what that gives."""
    for result, value in zip(results, e.emit_block(block)):
        e.bind(result, e.held[value])


@rule(ProducerAcquireOp)
def _acquire(e: Emitter, op: ProducerAcquireOp) -> None:
    ring, place = _ring(e, op.pipeline), e.held[op.iterator]
    e.bind(op.token, rings.acquire(e, ring, place) if isinstance(place, Place) else Turn(ring))


@rule(ProducerWriteOp, ConsumerReadOp)
def _on_stage(e: Emitter, op: RegionOp) -> None:
    turn, place, block = _turn(e, op.token), e.held[op.iterator], op.body.block
    ring, stage = turn.ring, place.stage if isinstance(place, Place) else e.scalar(op.iterator)
    for argument, offset in zip(block.args, ring.offsets):
        if ring.results is not None:
            distance = e.b.mul(stage, integer(I32, ring.results.each))
            e.bind(argument, replace(ring.results, address=e.b.add(ring.results.address, distance)))
        elif argument.first_use is not None:
            e.bind(argument, _buffer(e, argument, ring, stage, offset))
    e.bind(op.handed_on, turn)
    _emit_region(e, block, op.outputs)


def _buffer(e: Emitter, value: SSAValue, ring: Ring, stage: Value, offset: int) -> Buffer:
    b, type_ = e.b, value.type
    if not isinstance(type_, BufferType) or type_.layout is None:
        raise UnsupportedError(f"holds a {type_}, and a stage is compiled that holds a buffer with a layout")
    part = SharedBuffer(ring.buffer.offset + offset, ring.stage_bytes)
    pointer = rings.behind(b, part, stage, ring.stage_bytes)
    barrier = rings.full(e, ring, stage) if ring.barriers is not None else None
    layout, element = type_.layout.layout, element_name(type_.element_type)
    start_of_all, moved = b.shared_pointer(part), (stage, ring.stage_bytes)
    alone = ring.stages == 1
    return Buffer(pointer, layout, element, barrier, start_of_all, moved, part.offset, ring.pair, alone)


@rule(ProducerCommitOp)
def _commit(e: Emitter, op: ProducerCommitOp) -> None:
    turn = _turn(e, op.token)
    if turn.stage is not None:
        rings.commit(e, turn.ring, turn.stage, op)
        return
    async_copies.commit_copies(e.b)


@rule(ConsumerWaitOp)
def _wait(e: Emitter, op: ConsumerWaitOp) -> None:
    place = e.held[op.iterator]
    if isinstance(place, Place):
        e.bind(op.token, rings.wait(e, _ring(e, op.pipeline), place))
        return
    async_copies.wait_copies(e.b, integer_of(op.pending))
    e.bind(op.token, Turn(_ring(e, op.pipeline)))


@rule(ConsumerReleaseOp)
def _release(e: Emitter, op: ConsumerReleaseOp) -> None:
    """Without barrier objects, the next barrier says it."""
    turn = _turn(e, op.token)
    if turn.stage is not None:
        rings.release(e, turn.ring, turn.stage, after_products=op.after_products is not None)


# -- copies -----------------------------------------------------------------------------------------------------------


def _held_buffer(e: Emitter, value: SSAValue) -> Buffer:
    held = e.held[value]
    assert isinstance(held, Buffer)
    return held


@rule(TiledLoadOp)
def _tiled_load(e: Emitter, op: TiledLoadOp) -> None:
    if op.layout is None:
        raise UnsupportedError("cannot be compiled without a layout")
    layout = op.layout.layout
    tiled, index, accesses = tiled_operands(e, op)
    vector = memory.Vector(accesses.dim, accesses.count)
    is_cut = op.cut is not None and vector.dim in accesses.masked
    if is_cut:
        accesses = replace(accesses, masked=tuple(t for t in accesses.masked if t != vector.dim))
    places = tiled_views.Places(e.b, tiled, index, layout, accesses)

    def left(register: int) -> Value:
        return places.left(register, vector.dim, vector.count)

    to = _held_buffer(e, op.buffer)
    _copy_to_stage(e, to, layout, places.address, places.mask, vector, left if is_cut else None)


@rule(LoadOp)
def _pointer_load(e: Emitter, op: LoadOp) -> None:
    pointers, to = e.tile(op.base), _held_buffer(e, op.buffer)
    mask = None if op.mask is None else e.tile(op.mask)
    _copy_to_stage(
        e, to, pointers.layout, lambda r: pointers.registers[r],
        None if mask is None else (lambda r: mask.registers[r]), vector_of(op, to.element),
    )  # fmt: skip


def _copy_to_stage(
    e: Emitter, to: Buffer, layout: LinearLayout, address: Callable[[int], Value],
    mask: Callable[[int], Value | None] | None, vector: memory.Vector, count: Callable[[int], Value] | None = None,
) -> None:  # fmt: skip
    """Asynchronous copies, so many elements at a time, of which the `count` of the first ones is there."""
    if async_groups(to.layout, layout, to.element, vector.dim, vector.count) is None:
        bits = vector.count * memory_bits(to.element)
        raise UnsupportedError(f"has an atom of {bits} bits, and no asynchronous copies of so many fit the layouts")
    async_copies.copy_to_shared_async(
        e.b, to.pointer, to.layout, layout, to.element, address, mask, dim=vector.dim, width=vector.count, count=count
    )


@rule(CopyOp)
def _copy(e: Emitter, op: CopyOp) -> None:
    """Between registers and shared or tensor memory; threads are not synchronized here."""
    source = e.held[op.source]
    if isinstance(source, TensorMemory):
        tensor_memory.load(e, op, source)
        return
    if op.destination is not None and isinstance(held := e.held[op.destination], TensorMemory):
        by_products = op.atom is not None and op.atom.kind == "tcgen05_cp"
        (tensor_memory.copy_factors if by_products else tensor_memory.store)(e, op, held)
        return
    assert op.atom is not None  # the legality table has seen to it
    access = access_of(op.atom)
    if isinstance(source, Buffer) and op.result is not None:
        layout, load = e.layout(op.result), shared_tiles.load_shared
        if op.offsets is None:
            e.bind(op.result, load(e.b, source.pointer, source.layout, layout, source.element, access))
            return
        first, part = part_offset(source.layout, integers_of(op.offsets)), embedded(layout, source.layout)
        loaded = load(e.b, source.pointer, source.layout, part, source.element, access, first=first)
        e.bind(op.result, Tile(layout, source.element, loaded.registers))
        return
    assert op.destination is not None  # as the verifier has it
    buffer = _held_buffer(e, op.destination)
    if isinstance(source, Buffer):
        size, warps = STORAGE_BYTES[source.element], e.b.threads // e.b.target.warp_size
        how = transposition(matrix_of(source.layout), matrix_of(buffer.layout), size, warps)
        if isinstance(how, str) or how.loads != access:
            raise unsupported(op, f"copies within shared memory, and its atom {op.atom} does not", e.b.target.name)
        transposing_copies.transpose(e.b, source.pointer, buffer.pointer, how, size)
        return
    tile, first = e.tile(op.source), 0
    if op.offsets is not None:
        first = part_offset(buffer.layout, integers_of(op.offsets))
        tile = Tile(embedded(tile.layout, buffer.layout), tile.element, tile.registers)
    shared_tiles.store_shared(e.b, buffer.pointer, buffer.layout, tile, access, first)
