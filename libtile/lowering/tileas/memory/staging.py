# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where tiles lie that TMA stores while their agent goes on to the next one: in storage of its own, in parts.

Behind the last turn of an agent the stages of its pipelines are free. Within a loop over tiles they are filled for the
next one already, so that a store has buffers beside them. A tile goes as a whole through one buffer, or in parts
through two that take turns: then threads write one while the other is read, and there is room for more stages. Where
that leaves too little, parts go through one buffer, one after the other.

    staging     on a store: how many buffers there are, and then the shape of what lies in one
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.ir import Block, Operation, SSAValue

from libtile.atoms import tma
from libtile.atoms.cp_async import operand_shared_layout
from libtile.dialects import scf
from libtile.dialects.cuda_tile.types import NUMBER_NAMES
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileaa.shapes import integers_of
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.dialects.nv_tileas.memory import TiledLoadOp, TiledStoreOp
from libtile.dialects.nv_tileas.pipeline import AgentSwitchOp
from libtile.dialects.nv_tileas.tiles import ConvertLayoutOp
from libtile.dialects.nv_tileas.types import BufferType
from libtile.layouts import LANE, WARP, parts
from libtile.layouts.shared_access import PIECE_BYTES
from libtile.lowering.tileas.copies.access_reasons import tensor_map_obstacle
from libtile.lowering.tileas.copies.tma_tiles import TmaTile, Unfit, described_tile
from libtile.lowering.tileas.copies.view_accesses import view_access
from libtile.lowering.tileas.memory.allocate import storages_bytes
from libtile.lowering.tileas.memory.shared_memory import Exchanges, block_bytes, tile_bytes
from libtile.lowering.to_tileas.types import layout_of
from libtile.numerics.elements import STORAGE_BYTES
from libtile.support.records import dataclass
from libtile.targets import Target

STAGING = "staging"
MIN_BYTES = 1024
"""Of a tile that is worth the way through shared memory and the wait at the end of a kernel."""
TURNS = 2
"""Buffers that take turns: of more, threads would wait for their own barriers first."""
ENOUGH_STAGES = 4
"""Stages that hide the latency of copies: a tile is stored in parts where there would be fewer."""


@dataclass(frozen=True)
class Staging:
    """How a tile is stored through shared memory: the buffer of a part, how many of them there are, and where each part
    begins in the tile."""

    type: BufferType
    buffers: int
    corners: tuple[tuple[int, ...], ...]
    alignment: int

    @property
    def bytes(self) -> int:
        return self.buffers * -(-tile_bytes(self.type) // self.alignment) * self.alignment

    @property
    def attribute(self) -> DenseArrayBase:
        return DenseArrayBase.from_list(i64, [self.buffers, *self.type.shape])


def storable_tile(function: FuncOp, op: TiledStoreOp, rows: int) -> TmaTile:
    """How TMA stores a tile in boxes of so many rows; Unfit where it does not."""
    view = view_access(op)
    if view is None:
        raise Unfit("it is not of a tiled view of a tensor")
    if (reason := tensor_map_obstacle(op, view, store=True)) is not None:
        raise Unfit(reason)
    tile = described_tile(function, op, "it ", rows=rows)
    if (size := tile_bytes(tile.type)) < MIN_BYTES:
        raise Unfit(f"a tile of {size} bytes is stored by threads")
    return tile


def ways_to_stage(tile: TmaTile) -> list[Staging]:
    """The ways in which a tile that is stored can lie in shared memory: as a whole first, and then in parts of its
    boxes that registers tell apart, of fewer and fewer bytes, at last through one buffer alone."""
    found = [staged(tile, 1, tile.type.shape)]
    shape = list(tile.type.shape)
    while (dim := _to_halve(tile, shape)) is not None:
        shape[dim] //= 2
        found.append(staged(tile, TURNS, shape))
    found.append(staged(tile, 1, shape))
    return [way for n, way in enumerate(found) if all(way.bytes < other.bytes for other in found[:n])]


def staged(tile: TmaTile, buffers: int, shape: Sequence[int]) -> Staging:
    """A tile that is stored in parts of a shape."""
    whole = tile.type
    corners: list[tuple[int, ...]] = [()]
    for extent, size in zip(whole.shape, shape, strict=True):
        corners = [(*corner, first) for corner in corners for first in range(0, extent, size)]
    type_ = whole if tuple(shape) == tuple(whole.shape) else _part_type(tile, shape)
    return Staging(type_, buffers, tuple(corners), tile.boxes.alignment)


def staging_of(tile: TmaTile) -> Staging:
    """What `staging` on a store says, and the whole tile without it."""
    given = tile.access.attributes.get(STAGING)
    if not isinstance(given, DenseArrayBase):
        return staged(tile, 1, tile.type.shape)
    buffers, *shape = integers_of(given)
    return staged(tile, buffers, shape)


def choices(ways: Sequence[Sequence[Staging]]) -> list[tuple[int, list[Staging]]]:
    """For tiles with their ways to be staged, how all of them can be, of fewer and fewer bytes, which come first."""
    count = max(map(len, ways), default=0)
    found = [[of[min(number, len(of) - 1)] for of in ways] for number in range(count)]
    return [(sum(way.bytes for way in choice), choice) for choice in found]


def loop_over_tiles(op: Operation) -> scf.ForOp | None:
    """The loop in whose body an op is, where that is an op of an agent's own block."""
    loop = op.parent_op()
    if not isinstance(loop, scf.ForOp) or not isinstance(loop.parent_op(), AgentSwitchOp):
        return None
    return loop


def room_beside_pipelines(function: FuncOp, gpu: Target, without: Collection[Operation]) -> int:
    """Bytes of shared memory that the pipelines and buffers of a function leave, and its exchanges, but for those of
    the ops in `without`."""
    taken = storages_bytes(function)
    return block_bytes(gpu, function.kernel_spec) - taken - exchange_bytes(function, without)


def exchange_bytes(function: FuncOp, without: Collection[Operation]) -> int:
    """Bytes for the exchanges of a function's threads, but for those of some ops; nothing where there are none."""
    found = Exchanges(function, without)
    return found.bytes((), (), PIECE_BYTES) if found.are_any else 0


def kept_beside(function: FuncOp, block: Block, gone: Collection[Operation], rows: int) -> list[int]:
    """Bytes of shared memory that pipelines may leave beside them for what a block in a loop over tiles stores, most
    first: those of buffers, or of exchanges where threads store. The exchanges of ops that are `gone` then are none."""
    tiles = []
    for op in block.ops:
        if isinstance(op, TiledStoreOp):
            try:
                tiles.append(storable_tile(function, op, rows))
            except Unfit:
                return [PIECE_BYTES]
    if not tiles:
        return [PIECE_BYTES]
    left = exchange_bytes(function, {*gone, *(op for tile in tiles for op in conversions_in_front(tile.access))})
    return [left + size for size, _ in choices([ways_to_stage(tile) for tile in tiles])]


def stored_by_tma(op: TiledLoadOp | TiledStoreOp) -> SSAValue:
    """What a store by TMA stores: the tile in the layout in which it was computed, where that gives each thread a part
    of its own, and else as it was converted for threads."""
    made = op.value.owner
    if not isinstance(made, ConvertLayoutOp):
        return op.value
    unused = layout_of(made.source).free_bits()
    return op.value if unused.get(LANE, 0) or unused.get(WARP, 0) else made.source


def conversions_in_front(op: TiledLoadOp | TiledStoreOp) -> list[Operation]:
    """The conversion of what is stored that is none any more once TMA stores it."""
    made = op.value.owner
    gone = stored_by_tma(op) is not op.value and op.value.has_one_use()
    return [made] if gone and isinstance(made, Operation) else []


def _to_halve(tile: TmaTile, shape: Sequence[int]) -> int | None:
    """The dimension along which parts of a shape can be halved: they stay made of the tile's boxes, and threads hold
    them in registers of their own. None where there is none."""
    layout = layout_of(stored_by_tma(tile.access))
    for dim in (*tile.boxes.order[:1], *reversed(tile.boxes.order[1:])):
        half = [n // 2 if d == dim else n for d, n in enumerate(shape)]
        if 0 in half or not parts.are_told_apart(layout, parts.part_bits(layout, half)):
            continue
        if _part_boxes(tile, half) is not None:
            return dim
    return None


def _part_type(tile: TmaTile, shape: Sequence[int]) -> BufferType:
    element = tile.type.element_type
    layout = operand_shared_layout(shape, NUMBER_NAMES[element], tile.boxes.order[0])
    return BufferType(tuple(shape), element, "shared", LayoutAttr(layout))


def _part_boxes(tile: TmaTile, shape: Sequence[int]) -> tma.Boxes | None:
    """The boxes of a part, where they are those of the tile."""
    type_, boxes = _part_type(tile, shape), tile.boxes
    assert type_.layout is not None
    size = STORAGE_BYTES[NUMBER_NAMES[type_.element_type]]
    found = tma.boxes(type_.layout.layout, boxes.order[0], size, tma.rows_of(boxes.box))
    same = isinstance(found, tma.Boxes) and (found.box, found.swizzle) == (boxes.box, boxes.swizzle)
    return found if isinstance(found, tma.Boxes) and same else None
