# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`lower-tma-load-store-to-async`: tiled accesses with a TMA atom become asynchronous copies.

    load:   descriptor, buffer, barrier object; arrive expecting the bytes; copy; wait; read the buffer
    store:  descriptor, buffer; write the buffer; proxy fence; barrier; copy; commit; wait

An access takes part when it allows TMA (`allow_tma`, or TILEIR_PREFER_TMA_FOR_LOAD_STORE is set) and its atom is one of
TMA; one to rows that numbers choose gets that here, where a hint asks for it (`row_copies`).
TILEIR_DELAY_TMA_STORE_WAIT lets the wait of a store move behind the next barrier.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import TYPE_CHECKING

from xdsl.context import Context
from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType, ModuleOp, UnknownLoc, i8
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from libtile.analysis.tokens import is_fresh
from libtile.atoms import tma as atoms
from libtile.dialects import arith, scf
from libtile.dialects.interfaces import first_name
from libtile.dialects.nv_tileaa.attributes import KeywordAttr, PaddingValueAttr
from libtile.dialects.nv_tileaa.element_types import bit_width, is_float
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileaa.memory import pointee_of
from libtile.dialects.nv_tileaa.tokens import CreateMemTokenOp
from libtile.dialects.nv_tileaa.types import MemTokenType, TiledViewType
from libtile.dialects.nv_tileas.attributes import CopyAtomAttr
from libtile.dialects.nv_tileas.memory import TiledAtomicRmwOp, TiledLoadOp, TiledMemOp, TiledStoreOp
from libtile.dialects.nv_tileas.pipeline import ProduceOneOp, ProducerWriteOp, WaitOp
from libtile.dialects.nv_tileas.tiles import AllocTensorOp, BarrierOp, CopyOp
from libtile.dialects.nv_tileas.tma import (
    CommitGroupOp,
    CreateMBarrierOp,
    FenceProxyOp,
    GatherTmaLoadOp,
    MakeTiledTmaDescOp,
    MBarrierArriveOp,
    MBarrierWaitOp,
    ScatterTmaStoreOp,
    TiledTmaLoadOp,
    TiledTmaStoreOp,
    TmaLoad,
    TmaStore,
)
from libtile.dialects.nv_tileas.tma import TiledAtomicRmwOp as AsyncTiledAtomicRmwOp
from libtile.dialects.nv_tileas.tma_rules import check_partition
from libtile.dialects.nv_tileas.types import AsyncTokenType, BufferType, MBarrierType, TmaDescType
from libtile.ir.grouped_op import SEGMENTS
from libtile.ir.module_pass import ModulePass
from libtile.ir.places import ops_of
from libtile.ir.tile_form import element_of, erase, shape_of
from libtile.lowering.tileas.copies.common import HOST_CODE, descriptors, fail, functions, index_of
from libtile.lowering.tileas.inserter import Inserter
from libtile.lowering.tileas.memory.free_stages import FreeStages
from libtile.lowering.tileas.memory.shared_memory import tile_bytes
from libtile.lowering.tileas.tma.row_copies import choose_row_copies
from libtile.support.environment import DELAY_WAIT, PREFER_TMA
from libtile.support.records import dataclass, field
from libtile.targets import target

if TYPE_CHECKING:
    from libtile.lowering.tileas.copies.tma_tiles import TmaTile
    from libtile.lowering.tileas.tma.staged_stores import StoredInTurns

SHARED_ALIGNMENT = 128
"""Bytes to which the shared-memory side of a copy is aligned."""


@dataclass(frozen=True)
class LowerTmaLoadStoreToAsyncPass(ModulePass):
    """Lower tiled loads and stores with a TMA atom to asynchronous ones. A switch of the environment works as well."""

    name = "lower-tma-load-store-to-async"

    prefer_tma: bool = False
    delay_store_wait: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        prefer = self.prefer_tma or PREFER_TMA.on()
        delay = self.delay_store_wait or DELAY_WAIT.on()
        for function in functions(op):
            if HOST_CODE not in function.attributes:
                spec = function.kernel_spec
                if spec is not None and spec.target is not None and (gpu := target(spec.target)).has("tma"):
                    choose_row_copies(function, gpu)
                _Lowering(function, prefer, delay).run()


@dataclass
class _Lowering:
    function: FuncOp
    prefer: bool
    delay: bool
    known: dict[tuple[SSAValue, Block | None, CopyAtomAttr], tuple[SSAValue, int]] = field(default_factory=dict)
    """Descriptors by tensor, block, atom and element type, so that accesses of one kind share one."""
    next_index: int = 0
    unwaited: dict[Block, list[SSAValue]] = field(default_factory=dict)
    """Groups of stores of which nothing but their buffers is waited for, at the end of their blocks."""
    turns: dict[Operation, StoredInTurns] = field(default_factory=dict)
    """The stores in loops over tiles."""

    def run(self) -> None:
        spec = self.function.kernel_spec
        if spec is None or not spec.is_valid:
            fail(self.function, "LowerTMALoadStoreToAsync: missing or invalid KernelSpecAttr on function")
        accesses = [op for op in ops_of(self.function, TiledMemOp) if self._takes_part(op)]
        self.free = FreeStages(self.function)
        self.next_index = 1 + max((index_of(op) or 0 for op in descriptors(self.function)), default=-1)
        tiles = {op: known_tile(self.function, op) for op in accesses}
        self.turns = _turns(tile for tile in tiles.values() if tile is not None)
        for op, tile in tiles.items():
            if tile is None:
                self._lower(op)
            elif isinstance(op, TiledLoadOp):
                self._load_tile(tile, op)
            else:
                self._store_tile(tile)
        for block, groups in self.unwaited.items():
            last = block.last_op
            assert last is not None
            _insert(WaitOp.make(groups, pending=0, read=True), last)
        _check_finished(self.function)

    def _takes_part(self, op: TiledMemOp) -> bool:
        allowed = op.allow_tma is not None or self.prefer
        return allowed and op.atom is not None and op.atom.is_tma

    def _lower(self, op: TiledMemOp) -> None:
        view = op.accessed.type
        padding = view.layout.padding if isinstance(view, TiledViewType) else None
        given = _padding(op)
        padding = given.keyword if given is not None else padding
        _check_boxes(op)
        _check_nothing_lost(op)
        sparse = isinstance(view, TiledViewType) and view.layout.sparse_dim is not None
        if isinstance(op, TiledLoadOp):
            if padding not in (None, "zero"):
                fail(op, f"{'GatherTmaLoad' if sparse else 'TmaLoad'} only support zero padding now")
            self._load(op, sparse)
        elif isinstance(op, TiledStoreOp | TiledAtomicRmwOp):
            self._store(op, sparse)

    def _descriptor(self, op: TiledMemOp) -> tuple[SSAValue, int]:
        """The descriptor that an access uses, and its index."""
        tensor, atom = op.accessed, op.atom
        assert atom is not None  # by _takes_part
        key = (tensor, op.parent, atom)
        if key not in self.known:
            memref = tensor.type.source if isinstance(tensor.type, TiledViewType) else tensor.type
            made = MakeTiledTmaDescOp.make(
                tensor,
                results=[TmaDescType(memref, atom.box)],
                atom=atom,
                tmaIdx=self.next_index,
                padding_value=_padding(op),
                tma_internal_type=_internal_type(pointee_of(tensor.type)),
            )
            _insert(made, op)
            self.known[key] = (made.result, self.next_index)
            self.next_index += 1
        return self.known[key]

    def _load(self, op: TiledLoadOp, sparse: bool) -> None:
        descriptor, index = self._descriptor(op)
        bytes_ = _bytes(op)
        (buffer,) = _insert(AllocTensorOp.make(results=[_buffer(op.value.type)], alignment=SHARED_ALIGNMENT), op)
        (barrier,) = _insert(CreateMBarrierOp.make(results=[MBarrierType()], arrivals=1), op)
        _insert(MBarrierArriveOp.make(barrier, tx_count=bytes_), op)
        copy = (GatherTmaLoadOp if sparse else TiledTmaLoadOp).make(
            descriptor,
            _coordinates(op),
            buffer,
            barrier,
            results=[AsyncTokenType()],
            atom=op.atom,
            tmaIdx=index,
            tx_count=bytes_,
            padding_value=op.padding_value,
        )
        _insert(copy, op)
        _insert(MBarrierWaitOp.make(barrier), op)
        (value,) = _insert(CopyOp.make(buffer, results=[op.value.type]), op)
        op.value.replace_all_uses_with(value)
        finish_access(op)

    def _store(self, op: TiledStoreOp | TiledAtomicRmwOp, sparse: bool) -> None:
        descriptor, index = self._descriptor(op)
        (buffer,) = _insert(AllocTensorOp.make(results=[_buffer(op.value.type)], alignment=SHARED_ALIGNMENT), op)
        _insert(CopyOp.make(op.value, buffer), op)
        _insert(FenceProxyOp.make(proxy="async.shared"), op)
        _insert(BarrierOp.make(), op)
        cls: type[TmaStore] = ScatterTmaStoreOp if sparse else TiledTmaStoreOp
        mode = None
        if isinstance(op, TiledAtomicRmwOp):
            cls, mode = AsyncTiledAtomicRmwOp, op.rmw_mode
            if list(op.result.uses):
                fail(op, "a TMA reduction does not give what was there before, but it is used")
        copy = cls.make(
            descriptor,
            _coordinates(op),
            buffer,
            results=[AsyncTokenType()],
            atom=op.atom,
            tmaIdx=index,
            tx_count=_bytes(op),
            delay_wait=self.delay,
            rmw_mode=mode,
        )
        (token,) = _insert(copy, op)
        (group,) = _insert(CommitGroupOp.make(token, results=[AsyncTokenType()]), op)
        wait = WaitOp.make(group, pending=0, location=op.location)
        _insert(wait, _behind_next_barrier(op) if self.delay else op)
        finish_access(op)

    def _known_descriptor(self, tile: TmaTile) -> tuple[SSAValue, int]:
        """The descriptor of a tile of which it is known how it lies in shared memory, and its index."""
        op = tile.access
        top = _at_top(self.function, op)
        key = (tile.memref.results[0], self.function.body.block, tile.atom)
        if key not in self.known:
            self.known[key] = (
                tile.descriptor(Inserter(self.function.body.block, top, op.location), self.next_index), self.next_index
            )  # fmt: skip
            self.next_index += 1
        return self.known[key]

    def _load_tile(self, tile: TmaTile, op: TiledLoadOp) -> None:
        """A load of which it is known how the tile lies in shared memory."""
        assert op.parent is not None
        descriptor, index = self._known_descriptor(tile)
        at, nbytes = Inserter(op.parent, op, op.location), tile_bytes(tile.type)
        buffer = at.value(AllocTensorOp.make(results=[tile.type], alignment=tile.boxes.alignment))
        barrier = at.value(CreateMBarrierOp.make(results=[MBarrierType()], arrivals=1))
        if _is_ordered(op):
            # Threads may have written the memory before.
            at.add(FenceProxyOp.make(proxy="async"))
            at.add(BarrierOp.make())
        at.add(MBarrierArriveOp.make(barrier, tx_count=nbytes))
        copy = (TiledTmaLoadOp if tile.sparse is None else GatherTmaLoadOp).make(
            descriptor,
            tile.corner(at, {}),
            buffer,
            barrier,
            results=[AsyncTokenType()],
            atom=tile.atom,
            tmaIdx=index,
            tx_count=nbytes,
            dim_map=tile.dim_map,
        )
        at.add(copy)
        at.add(MBarrierWaitOp.make(barrier))
        op.value.replace_all_uses_with(at.value(CopyOp.make(buffer, results=[op.value.type])))
        finish_access(op)

    def _store_tile(self, tile: TmaTile) -> None:
        """A store of which it is known how the tile lies in shared memory: in stages of a pipeline that are free, where
        there are any."""
        from libtile.lowering.tileas.memory.staging import loop_over_tiles, staging_of
        from libtile.lowering.tileas.tma.staged_stores import store_in_parts, store_in_turns

        op = tile.access
        assert isinstance(op, TiledStoreOp) and op.parent is not None
        descriptor, index = self._known_descriptor(tile)
        if (store := self.turns.get(op)) is not None:
            loop = loop_over_tiles(op)
            end = loop.parent.last_op if loop is not None and loop.parent is not None else None
            assert loop is not None and end is not None
            groups = store_in_turns(store, loop, descriptor, index, delay=self.delay)
            _insert(WaitOp.make(groups, pending=0, read=True), end)
            finish_access(op)
            return
        at, staging = Inserter(op.parent, op, op.location), staging_of(tile)
        stages = self.free.take(op, tile_bytes(staging.type), staging.buffers)
        within = None if stages is None else stages.pipeline
        # Others may have accessed the tile's memory before, which a token says.
        proxy = "async" if _is_ordered(op) else "async.shared"
        if len(staging.corners) > 1 and within is not None:
            parts = store_in_parts(at, tile, staging, within, descriptor, index, proxy, delay=self.delay)
            self._end_store(at, op, parts)
            return
        buffer = at.value(AllocTensorOp.make(within, results=[tile.type], alignment=tile.boxes.alignment))
        at.add(CopyOp.make(op.value, buffer))
        at.add(FenceProxyOp.make(proxy=proxy))
        at.add(BarrierOp.make())
        token = at.value(
            (TiledTmaStoreOp if tile.sparse is None else ScatterTmaStoreOp).make(
                descriptor,
                tile.corner(at, {}),
                buffer,
                results=[AsyncTokenType()],
                atom=tile.atom,
                tmaIdx=index,
                dim_map=tile.dim_map,
                delay_wait=self.delay,
            )
        )
        self._end_store(at, op, [at.value(CommitGroupOp.make(token, results=[AsyncTokenType()]))])

    def _end_store(self, at: Inserter, op: TiledStoreOp, groups: Sequence[SSAValue]) -> None:
        """What is behind the copies of a store: threads wait for them where something comes behind it."""
        if _orders(op):
            at.add(WaitOp.make(groups, pending=0))
            at.add(BarrierOp.make())
        else:
            self.unwaited.setdefault(at.block, []).extend(groups)
        finish_access(op)


def known_tile(function: FuncOp, op: TiledMemOp) -> TmaTile | None:
    """How a tile that is copied lies in shared memory, where the view and the box tell; None where they do not."""
    from libtile.lowering.tileas.copies.tma_tiles import Unfit, described_tile

    if not isinstance(op, TiledStoreOp | TiledLoadOp):
        return None
    try:
        box = op.atom.box if op.atom is not None else ()
        tile = described_tile(function, op, rows=atoms.rows_of(box), by_rows=True)
    except Unfit:
        return None
    return tile if box == tile.atom.box else None


def _turns(tiles: Iterable[TmaTile]) -> dict[Operation, StoredInTurns]:
    """The stores in the bodies of loops over tiles."""
    of_loops: dict[scf.ForOp, list[TmaTile]] = {}
    for tile in tiles:
        from libtile.lowering.tileas.memory.staging import loop_over_tiles

        loop = loop_over_tiles(tile.access)
        if isinstance(tile.access, TiledStoreOp) and tile.sparse is None and loop is not None:
            of_loops.setdefault(loop, []).append(tile)
    found: dict[Operation, StoredInTurns] = {}
    for loop, stored in of_loops.items():
        from libtile.lowering.tileas.tma.staged_stores import stored_in_turns

        found |= stored_in_turns(loop, stored)
    return found


def _at_top(function: FuncOp, op: Operation) -> Operation:
    """The op of a function's block in which an op is."""
    while op.parent is not function.body.block:
        parent = op.parent_op()
        assert parent is not None
        op = parent
    return op


def _is_ordered(op: TiledMemOp) -> bool:
    """Whether a token says that an access comes behind something."""
    return any(not is_fresh(token) for token in op.group("token"))


def _orders(op: TiledMemOp) -> bool:
    """Whether a token says that something comes behind an access."""
    last = op.results[-1] if op.results else None
    return last is not None and isinstance(last.type, MemTokenType) and last.first_use is not None


def _padding(op: TiledMemOp) -> PaddingValueAttr | None:
    """What an access itself says of what lies beyond the tensor."""
    return op.padding_value if isinstance(op, TiledLoadOp | TiledStoreOp) else None


def _insert(made: Operation, before: Operation) -> Sequence[SSAValue]:
    """Put an op in front of another, at its place in the source if it has none of its own; its results."""
    block = before.parent
    assert block is not None  # an op of a function's body
    if isinstance(made.location, UnknownLoc):
        made.location = before.location
    block.insert_op_before(made, before)
    return made.results


def _behind_next_barrier(op: Operation) -> Operation:
    """The op in front of which a wait may stand that moves behind the next barrier (or to the end of the block)."""
    at = op.next_op
    last = op
    while at is not None:
        if isinstance(last, BarrierOp):
            return at
        last, at = at, at.next_op
    return last


def _buffer(type_: Attribute) -> BufferType:
    return BufferType(shape_of(type_), element_of(type_), "shared")


def _bytes(op: TiledMemOp) -> int:
    element = pointee_of(op.accessed.type)
    atom = op.atom
    if atom is None or not atom.box or element is None:
        fail(op, "failed to get expected tx-count")
    return prod(shape_of(op.value_type)) * bit_width(element) // 8


def _check_boxes(op: TiledMemOp) -> None:
    """The tile is made of whole boxes of the atom, dimension by dimension of what is viewed; DiagnosticError."""
    view, atom = op.accessed.type, op.atom
    if atom is None or not atom.box:
        return  # the bytes of the copy are not known either, which is said when they are needed
    extents = dict(enumerate(shape_of(op.value_type)))
    if isinstance(view, TiledViewType):
        extents = dict.fromkeys(range(view.rank), 1) | dict(zip(view.dim_map, shape_of(op.value_type)))
    try:
        check_partition([extents[dim] for dim in sorted(extents, reverse=True)], atom.box)
    except VerifyException as found:
        fail(op, str(found))


_HANDED_ON = frozenset({SEGMENTS, "atom", "padding_value", "rmw_mode", "allow_tma", "hints", "vector", "in_bounds"})
"""Properties that a TMA copy takes over, or that permit or state something (TMA checks bounds anyhow)."""


def _check_nothing_lost(op: TiledMemOp) -> None:
    """The access says nothing that a TMA copy could not say; DiagnosticError."""
    view = op.accessed.type
    if isinstance(view, TiledViewType) and view.dim_map != tuple(range(view.rank)):
        fail(op, f"goes through a dim_map {list(view.dim_map)}, and a TMA copy keeps the order of dimensions")
    for name, attr in op.properties.items():
        neutral = isinstance(attr, KeywordAttr) and attr.keyword in ("none", "normal", "weak")
        ordered = (
            isinstance(op, TiledAtomicRmwOp) and name in ("mem_semantic", "mem_scope") and op.semantic == "relaxed"
        )
        if name not in _HANDED_ON and not neutral and not ordered:
            fail(op, f"has the attribute '{name}', which a TMA copy has not")
    for name in ("offsets", "other"):
        if name in dict(op.get_irdl_definition().operands) and op.group(name):
            fail(op, f"has the operand '{name}', which a TMA copy has not")


def _internal_type(element: Attribute | None) -> Attribute | None:
    """The element type inside of a descriptor, where it is not the tensor's: tensor maps have no 8-bit floats."""
    narrow = element is not None and is_float(element) and bit_width(element) == i8.width.data
    return i8 if narrow else None


def _coordinates(op: TiledMemOp) -> list[SSAValue]:
    """The coordinates in elements: tile indices times the distance of tiles."""
    view = op.accessed.type
    if not isinstance(view, TiledViewType):
        return list(op.coordinates)
    distance = dict(zip(view.dim_map, view.traversal_strides))
    found = []
    for dim, index in enumerate(op.coordinates):
        step = distance.get(dim, 1)
        if dim == view.layout.sparse_dim or step == 1:
            found.append(index)
            continue
        element = index.type
        if not isinstance(element, IndexType | IntegerType):
            fail(op, "expects scalar coordinates")
        constant = arith.ConstantOp(IntegerAttr(step, element))
        product = arith.MuliOp(index, constant.result)
        _insert(constant, op)
        _insert(product, op)
        found.append(product.result)
    return found


def finish_access(op: TiledMemOp) -> None:
    """Hand the token on (the copy has completed here, or is waited for in its group), and erase the access."""
    tokens = op.group("token")
    out = op.results[-1] if op.results and isinstance(op.results[-1].type, MemTokenType) else None
    if out is not None:
        if tokens:
            after = tokens[0]
        else:
            (after,) = _insert(CreateMemTokenOp.make(results=[MemTokenType()]), op)
        out.replace_all_uses_with(after)
    erase(op)


def _is_stage(buffer: SSAValue) -> bool:
    """Whether a buffer is in a stage that a producer fills, or such a one seen as another tile."""
    buffer = first_name(buffer)
    return isinstance(buffer, BlockArgument) and isinstance(buffer.owner.parent_op(), ProducerWriteOp | ProduceOneOp)


def _check_finished(function: FuncOp) -> None:
    """Every asynchronous load has its bytes and an initialised barrier object; that to a stage has the pipeline's."""
    for op in ops_of(function, TmaLoad):
        if _is_stage(op.group("buffer")[0]):
            continue
        barriers = op.group("mbarrier")
        if op.tx_count is None:
            fail(op, "failed to get expected tx-count")
        if not barriers:
            fail(op, "failed to get MBarrier object")
        made = barriers[0].owner
        if not isinstance(made, CreateMBarrierOp):
            fail(op, "failed to find smem buffer address for mbarrier")
        if made.arrivals is None:
            fail(op, "failed to init mbarrier")
