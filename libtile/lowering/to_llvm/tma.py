# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Copies by TMA, and the fences and waits around them. A descriptor is a hidden parameter of the kernel."""

from __future__ import annotations

from contextlib import nullcontext

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation

from libtile.atoms import tma as atoms
from libtile.codegen import async_copies, clusters, mbarrier, tma
from libtile.codegen.builder import SharedBuffer, Value, integer
from libtile.codegen.llvm_types import I32, I64
from libtile.dialects.nv_tileaa.shapes import integers_of
from libtile.dialects.nv_tileaa.types import MemRefType
from libtile.dialects.nv_tileas.pipeline import WaitOp
from libtile.dialects.nv_tileas.tiles import AllocTensorOp
from libtile.dialects.nv_tileas.tma import (
    TENSORMAP,
    CommitGroupOp,
    FenceProxyOp,
    TiledAtomicRmwOp,
    TiledTmaLoadOp,
    TiledTmaStoreOp,
    TmaLoad,
    TmaOp,
    TmaStore,
)
from libtile.dialects.nv_tileas.types import BufferType
from libtile.ir.tile_form import integer_of
from libtile.lowering.clusters import CTAS
from libtile.lowering.errors import unsupported
from libtile.lowering.tileas.memory.shared_memory import tile_bytes
from libtile.lowering.tileas.memory.storage_lives import OFFSET
from libtile.lowering.tileas.pipelines.count_arrivals import COUNTED, copied_bytes
from libtile.lowering.to_llvm import tensor_memory
from libtile.lowering.to_llvm.agents import acting_thread
from libtile.lowering.to_llvm.barrier_objects import held_barrier
from libtile.lowering.to_llvm.descriptors import fence_descriptors
from libtile.lowering.to_llvm.emitter import Emitter, element_name, rule
from libtile.lowering.to_llvm.storage import Buffer, BulkToken, Descriptor
from libtile.numerics.elements import STORAGE_BYTES

_LARGEST = (1 << 31) - 1
"""The largest coordinate, which is outside of every tensor that has a descriptor here."""


@rule(AllocTensorOp)
def _alloc(e: Emitter, op: AllocTensorOp) -> None:
    type_, place = op.result.type, op.attributes.get(OFFSET)
    assert isinstance(type_, BufferType)
    if type_.space == "tmem":
        e.bind(op.result, tensor_memory.allocate(e, op))
        return
    if type_.space != "shared" or type_.layout is None or not isinstance(place, IntegerAttr):
        raise unsupported(op, "is no buffer in shared memory with a layout and a place", e.b.target.name)
    pointer = e.b.shared_pointer(SharedBuffer(place.value.data, tile_bytes(type_)))
    e.bind(op.result, Buffer(pointer, type_.layout.layout, element_name(type_.element_type)))


@rule(TiledTmaLoadOp)
def _load(e: Emitter, op: TiledTmaLoadOp) -> None:
    descriptor, boxes, buffer = copied_boxes(e, op)
    coordinates = [coordinate(e, e.scalar(v)) for v in op.group("indices")]
    barrier, nbytes = counting_barrier(e, op, buffer)
    ctas = integer_of(op.num_multicast, 1) if op.multicast is not None else 1
    with acting_thread(e):
        # An arrival at an object of the program's own says what it is to expect, and one thread's at a stage's.
        if op.mbarrier is None and COUNTED not in op.attributes:
            # In a pair the leader's barrier object counts what both CTAs copy.
            with clusters.leader(e.b) if buffer.pair else nullcontext():
                mbarrier.expect_bytes(e.b, barrier, nbytes * (2 if buffer.pair else 1))
        if ctas > 1:
            _load_share(e, op, boxes, coordinates, barrier, ctas)
        for copy in boxes.copies if ctas == 1 else ():
            corner, place = _corner(e, op, boxes, coordinates, copy), behind(e, buffer.pointer, copy.offset)
            tma.load_box(e.b, place, descriptor.pointer, corner, barrier, pair=buffer.pair)
    e.bind(op.result, None)


def _load_share(
    e: Emitter, op: TiledTmaLoadOp, boxes: atoms.Boxes, coordinates: list[Value], barrier: Value, ctas: int
) -> None:
    """This CTA's boxes of a tile, for all CTAs of the cluster. Those of a CTA lie as far behind those of the one before
    as its first does behind the first of that."""
    descriptor, buffer, copies = e.held[op.descriptor], e.held[op.buffer], boxes.copies
    assert isinstance(descriptor, Descriptor) and isinstance(buffer, Buffer)
    share = len(copies) // ctas
    if ctas != CTAS or len(copies) % ctas:
        raise unsupported(op, f"is of {len(copies)} boxes for {ctas} CTAs", e.b.target.name)
    b, (first, second) = e.b, (copies[0], copies[share])
    rank, dims = b.cta_rank(), tensor_dims(op, len(boxes.order))
    moved = list(coordinates)
    for d, (before, after) in enumerate(zip(first.corner, second.corner)):
        moved[dims[d]] = b.add(moved[dims[d]], b.mul(rank, integer(I32, after - before)))
    offset = b.mul(rank, integer(I32, second.offset - first.offset))
    place = b.offset(buffer.pointer, offset)
    for copy in copies[:share]:
        corner = _corner(e, op, boxes, moved, copy)
        tma.load_box(b, behind(e, place, copy.offset), descriptor.pointer, corner, barrier, ctas)


@rule(TiledTmaStoreOp, TiledAtomicRmwOp)
def _store(e: Emitter, op: TmaStore) -> None:
    descriptor, boxes, buffer = copied_boxes(e, op)
    coordinates = [coordinate(e, e.scalar(v)) for v in op.group("indices")]
    mode = op.rmw_mode.keyword if isinstance(op, TiledAtomicRmwOp) else None
    if mode is not None and mode not in _REDUCTIONS:
        raise unsupported(op, f"has the mode '{mode}', by which tensor copies do not reduce", e.b.target.name)
    with acting_thread(e):
        for copy in boxes.copies:
            corner = _corner(e, op, boxes, coordinates, copy)
            source = behind(e, buffer.pointer, copy.offset)
            if mode is None:
                tma.store_box(e.b, descriptor.pointer, corner, source)
            else:
                tma.reduce_box(e.b, _REDUCTIONS[mode], descriptor.pointer, corner, source)
    e.bind(op.result, BulkToken())


_REDUCTIONS = {"add": "add", "and": "and", "or": "or", "xor": "xor", "max": "max", "min": "min", "umax": "max",
               "umin": "min"}  # fmt: skip
"""Modes of updates as tensor copies name them; signs are those of the tensor map's elements."""


def counting_barrier(e: Emitter, op: TmaLoad, buffer: Buffer) -> tuple[Value, int]:
    """The barrier object that counts the bytes of a load, and how many these are."""
    barrier = buffer.barrier if op.mbarrier is None else held_barrier(e, op, op.mbarrier)
    if barrier is None:
        raise unsupported(op, "copies to a buffer that no barrier object counts for", e.b.target.name)
    nbytes = copied_bytes(op)
    if (count := integer_of(op.tx_count, nbytes)) != nbytes:
        raise unsupported(op, f"says that it copies {count} bytes, which are {nbytes}", e.b.target.name)
    return barrier, nbytes


def copied_boxes(e: Emitter, op: TmaOp, *, by_rows: bool = False) -> tuple[Descriptor, atoms.Boxes, Buffer]:
    """What a copy goes through, in which boxes (`by_rows`: those of `atoms.row_boxes`), and its buffer."""
    if not e.b.target.has("tma"):
        raise unsupported(op, "copies by TMA, which is not there", e.b.target.name)
    descriptor, buffer = e.held[op.group("descriptor")[0]], e.held[op.group("buffer")[0]]
    if not isinstance(descriptor, Descriptor) or not isinstance(buffer, Buffer):
        raise unsupported(op, "has no descriptor of the host's, or no buffer of its own", e.b.target.name)
    memref = descriptor.type.memref
    assert isinstance(memref, MemRefType)
    dense = atoms.contiguous_dim(memref.strides)
    dims = tensor_dims(op, len(buffer.layout.shape))
    if dense is None or dense not in dims:
        raise unsupported(op, "copies from a tensor of which no dimension has stride 1", e.b.target.name)
    size = STORAGE_BYTES[buffer.element]
    if by_rows:
        boxes = atoms.row_boxes(buffer.layout, dims.index(dense), size)
    else:
        boxes = atoms.boxes(buffer.layout, dims.index(dense), size, atoms.rows_of(descriptor.type.box))
    if isinstance(boxes, str):
        raise unsupported(op, f"copies a tile as no tensor copy does: {boxes}", e.b.target.name)
    box = (*boxes.box, *(1 for _ in range(memref.rank - len(dims))))
    if box != descriptor.type.box:
        both = f"{list(box)} by the layout of the buffer, and {list(descriptor.type.box)} in the descriptor"
        raise unsupported(op, f"copies boxes of {both}", e.b.target.name)
    return descriptor, boxes, buffer


def tensor_dims(op: TmaOp, rank: int) -> tuple[int, ...]:
    """The tensor's dimension for each dimension of the tile that a copy moves."""
    return integers_of(op.dim_map) or tuple(range(rank))


def coordinate(e: Emitter, given: Value) -> Value:
    """A coordinate as an i32; one that is beyond that is outside of the tensor anyhow."""
    if given.type is not I64:
        return given
    if given.constant is not None:
        return integer(I32, min(given.constant, _LARGEST))
    b, most = e.b, integer(I64, _LARGEST)
    return b.cast("trunc", b.call("llvm.umin.i64", I64, [given, most]), I32)


def _corner(e: Emitter, op: TmaOp, boxes: atoms.Boxes, coordinates: list[Value], copy: atoms.Copy) -> list[Value]:
    """The corner of a box, in the order of the tensor map's dimensions."""
    dims = tensor_dims(op, len(boxes.order))
    inside = [e.b.add(coordinates[dims[d]], integer(I32, copy.corner[d])) for d in boxes.order]
    # Dimensions that the tile has not are the outermost of a box.
    return [*inside, *(coordinates[t] for t in reversed(range(len(coordinates))) if t not in dims)]


def behind(e: Emitter, pointer: Value, offset: int) -> Value:
    if not offset:
        return pointer
    return e.b.offset(pointer, integer(I32, offset))


# -- fences and waits -------------------------------------------------------------------------------------------------


@rule(FenceProxyOp)
def _fence(e: Emitter, op: FenceProxyOp) -> None:
    proxy = op.proxy.data
    if proxy != TENSORMAP and not e.b.target.has("tma"):
        raise unsupported(op, f"names the proxy '{proxy}', by which nothing there reads memory", e.b.target.name)
    if proxy == "async.shared":
        tma.fence_async_shared(e.b)
    elif proxy == "async":
        tma.fence_async(e.b)
    elif proxy == TENSORMAP:
        fence_descriptors(e, op)
    else:
        raise unsupported(op, f"names the proxy '{proxy}', of which nothing here is", e.b.target.name)


def _bulk(e: Emitter, op: Operation) -> BulkToken | None:
    """What the tokens say where they are of copies to global memory by TMA. LoweringError where some are and others
    are not. Threads that have not started any copies have nothing to wait for."""
    held = [e.held[v] for v in op.operands]
    bulk = [token for token in held if isinstance(token, BulkToken)]
    if bulk and len(bulk) < len(held):
        raise unsupported(op, "has tokens of copies that complete in different ways", e.b.target.name)
    return BulkToken(any(token.by_all for token in bulk)) if bulk else None


@rule(CommitGroupOp)
def _commit(e: Emitter, op: CommitGroupOp) -> None:
    if op.stores is not None:
        e.bind(op.result, BulkToken())  # a wait for groups of which there are none is none
        return
    if (bulk := _bulk(e, op)) is not None:
        with nullcontext() if bulk.by_all else acting_thread(e):
            tma.commit_stores(e.b)
        e.bind(op.result, bulk)
        return
    async_copies.commit_copies(e.b)
    e.bind(op.result, None)


@rule(WaitOp)
def _wait(e: Emitter, op: WaitOp) -> None:
    pending = integer_of(op.pending)
    bulk = _bulk(e, op)
    if bulk is None:
        async_copies.wait_copies(e.b, pending)
        return
    with nullcontext() if bulk.by_all else acting_thread(e):
        tma.wait_stores(e.b, pending, read=op.read is not None)
