# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The layouts in which makers have an operand, and its parts: what they cost to read and to write, and what they take
of a thread's registers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from heapq import heapify, heappop, heappush
from itertools import islice

from xdsl.ir import Block, Operation, SSAValue

from libtile.atoms.cp_async import copy_width
from libtile.atoms.shared_accesses import WORD_BYTES, accesses, matrix_loads, matrix_stores, reduced
from libtile.dialects.cuda_tile.types import NUMBER_NAMES
from libtile.dialects.nv_tileaa.shapes import CatOp
from libtile.dialects.nv_tileas.memory import LoadOp, TiledLoadOp
from libtile.dialects.nv_tileas.types import BufferType
from libtile.ir.tile_form import element_of
from libtile.layouts import LANE, REGISTER, WARP, LinearLayout
from libtile.layouts.builders import dim_names
from libtile.layouts.parts import are_told_apart, part_bits, part_layout
from libtile.layouts.registers import register_groups
from libtile.lowering.tileas.agents.remade import Source, sources, whole, without_conversions
from libtile.lowering.tileas.copies.tma_operands import Unfit
from libtile.lowering.tileas.copies.view_accesses import view_access
from libtile.lowering.tileas.pipelines.schedule import Load, not_copied, not_handed_on
from libtile.lowering.tileas.products.result_parts import Part
from libtile.lowering.to_tileas.accesses import access, element_bytes, pointer_vector
from libtile.lowering.to_tileas.types import tile_shape
from libtile.numerics.elements import STORAGE_BYTES
from libtile.targets import Target

MAKERS = 4
"""Warps that make operands: a warpgroup, which has registers of its own."""
VECTOR_BYTES = 16
"""Of an access to shared memory, at most."""
SECTOR_BYTES = 32
"""What is moved of global memory at once."""
OTHER_REGISTERS = 40
"""Of a maker's thread: for what is neither a part of an operand, nor what it is made of, nor an address."""
FEWEST_REGISTERS = 16
"""Of a part of an operand: a smaller one leaves too little to do at a time."""
ADDRESS_REGISTERS = 2
TRIED = 6
"""How many of the cheapest layouts are asked for one whose parts are small enough."""

Buffers = Mapping[Operation, BufferType]
"""Where TMA puts what loads give."""
Leading = frozenset[SSAValue]
"""Tiles that are loaded, or computed of loaded ones."""
Way = tuple[BufferType, LinearLayout, tuple[int, ...]]
"""Where products read an operand, the layout in which makers have it as a whole, and the shape of what they make of it
at a time."""


def best_way(
    gpu: Target, value: SSAValue, types: Sequence[BufferType], buffers: Buffers, body: Block, registers: int
) -> Way | None:
    """The cheapest way of those that leave a thread with so many registers, or that which takes fewest, for a matrix
    that a loop's body computes and that may lie in shared memory as one of these types. None where there is none."""
    limit, leading = registers - OTHER_REGISTERS, _leading_to_loads(value)
    joins = any(isinstance(tile.owner, CatOp) for tile in leading)
    tried = ((made, layout) for made in types for layout in _layouts(made.shape, VECTOR_BYTES, joins))
    found: tuple[int, Way] | None = None
    for made, layout in islice(_cheapest(gpu, value, tried, buffers, leading), TRIED):
        part, taken = _part(value, layout, buffers, body, limit, leading)
        if found is None or taken < found[0]:
            found = taken, (made, layout, part)
        if taken <= limit:
            break
    return None if found is None else found[1]


def copied_way(gpu: Target, value: SSAValue, types: Sequence[BufferType], *, cut: bool = False) -> Way | None:
    """The cheapest way of a tile that is loaded, for copies of threads that never have it in registers. None for
    another one, and where it is not known that there are such copies. They are as wide as copies can be where the
    tensor's end may `cut` them."""
    load = value.owner
    if not isinstance(load, TiledLoadOp | LoadOp) or not gpu.has("cp_async"):
        return None
    if not_handed_on(load) is not None or not_copied(load, rows=True) is not None:
        return None
    tried = ((made, layout) for made in types for layout in _layouts(made.shape, VECTOR_BYTES))
    for made, layout in _cheapest(gpu, value, tried, {}, _leading_to_loads(value)):
        if _is_copied(load, layout, made, cut):
            return made, layout, made.shape
    return None


def _is_copied(load: Load, layout: LinearLayout, made: BufferType, cut: bool) -> bool:
    """Whether threads copy all that a load gives, in a layout, to a buffer by asynchronous copies."""
    assert made.layout is not None
    if isinstance(load, LoadOp):
        vector, element = pointer_vector(load)
        return copy_width(made.layout.layout, layout, element, vector.dim, vector.count) is not None
    view = view_access(load)
    if view is None or (dim := view.contiguous) is None:
        return False
    most = view.cut_width(layout) if cut else view.width(layout)
    width = copy_width(made.layout.layout, layout, view.element, dim, most)
    # Numbers of rows are in the layout that is given, which is that of the copies only if none is for wider ones.
    if width is None or (cut and width * STORAGE_BYTES[view.element] < VECTOR_BYTES):
        return False
    return len(register_groups(layout, dim, layout.shape[dim])[0]) <= width


def _part(
    value: SSAValue, layout: LinearLayout, buffers: Buffers, body: Block, limit: int, leading: Leading
) -> tuple[tuple[int, ...], int]:
    """What is made of a tile in a layout at a time: all of it if a thread has that, what it is made of in a step, and
    its addresses in so many registers, or else one of a number of like parts. The shape, and the registers."""
    loads = _loads(value, layout, whole(value), leading)
    addresses = sum(ADDRESS_REGISTERS * _accesses(load, held) for load, held, _ in loads if load not in buffers)
    found = whole(value)
    data = _registers(value, layout, found, body, leading)
    while data + addresses > limit and _words(value, part_layout(layout, found.shape)) > FEWEST_REGISTERS:
        halves = list(_halves(value, layout, found, body, leading))
        if not halves:
            break
        data, found = min(halves, key=lambda half: half[0])
    return found.shape, data + addresses


def _halves(
    value: SSAValue, layout: LinearLayout, part: Part, body: Block, leading: Leading
) -> Iterator[tuple[int, Part]]:
    """The halves of a part along each dimension that can be made, with the registers that they take."""
    for dim, size in enumerate(part.shape):
        shape = tuple(n // 2 if d == dim else n for d, n in enumerate(part.shape))
        if size > 1 and are_told_apart(layout, part_bits(layout, shape)):
            half = Part(part.offsets, shape)
            try:
                _loads(value, part_layout(layout, shape), half)
            except Unfit:
                continue
            yield _registers(value, part_layout(layout, shape), half, body, leading), half


def _registers(value: SSAValue, layout: LinearLayout, part: Part, body: Block, leading: Leading) -> int:
    """How many registers a part of a tile in a layout, and the tiles take that the body loads for it."""
    loads = [(load, held) for load, held, _ in _loads(value, layout, part, leading) if load.parent is body]
    taken = 0 if any(load.value is value for load, _ in loads) else _words(value, layout)
    return taken + sum(_words(load.value, held) for load, held in loads)


def _words(value: SSAValue, layout: LinearLayout) -> int:
    """The registers of a thread that a tile takes in a layout."""
    size = element_bytes(element_of(value.type))
    return reduced(layout, MAKERS.bit_length() - 1).in_size(REGISTER) * size // WORD_BYTES


def _leading_to_loads(value: SSAValue) -> Leading:
    """The tiles that are loaded, or computed of loaded ones, among those that a tile comes from: places of elements
    take many ops, whose layouts nobody has to know to find those of loads."""
    found: dict[SSAValue, bool] = {}

    def leads(value: SSAValue) -> bool:
        value = without_conversions(value)
        if value not in found:
            op = value.owner
            assert isinstance(op, Operation)
            given = [leads(v) for v in op.operands if tile_shape(v)]
            found[value] = isinstance(op, TiledLoadOp | LoadOp) or any(given)
        return found[value]

    leads(value)
    return frozenset(v for v, is_leading in found.items() if is_leading)


def _loads(
    value: SSAValue, layout: LinearLayout, part: Part, leading: Leading | None = None
) -> list[tuple[Load, LinearLayout, Part]]:
    """The loads that a part of a tile in a layout comes from, and the layouts of their parts. Unfit where a tile has no
    layout that leads to it, or, unless it is known which tiles are `leading` to loads, is made as a whole alone."""
    work, seen, found = [(value, layout, part)], set[Source](), []
    while work:
        tile, held, box = work.pop()
        key = without_conversions(tile), held, box
        if key in seen or (leading is not None and key[0] not in leading):
            continue
        seen.add(key)
        op = key[0].owner
        assert isinstance(op, Operation)
        if isinstance(op, TiledLoadOp | LoadOp):
            found.append((op, held, box))
        work += sources(op, held, box)
    return found


@lru_cache(maxsize=64)
def _layouts(shape: tuple[int, int], most: int, joins: bool = False) -> tuple[LinearLayout, ...]:
    """Layouts of a matrix for makers, whose threads have up to `most` neighbours along one dimension: lanes go along
    the other one first, or along this one, for so many bits; then warps, and what is left are further registers. For
    one that `joins` tiles, threads may have two neighbours along the other dimension as well, of one tile each."""
    found: dict[LinearLayout, None] = {}
    for dim in (1, 0):
        bits = [[1 << i for i in range(n.bit_length() - 1)] for n in shape]
        across = [_along(1 - dim, n) for n in bits[1 - dim]]
        for vector in (n for n in (most, most // 2, most // 4) if n <= shape[dim]):
            own = vector.bit_length() - 1
            along = [_along(dim, n) for n in bits[dim]]
            for first in range(6):
                for last in (True, False):
                    for more in (0, 1) if joins else (0,):
                        mine, rest = [*along[:own], *across[:more]], across[more:]
                        found.setdefault(_layout(shape, mine, along[own:], rest, first, last))
    return tuple(found)


def _along(dim: int, distance: int, rank: int = 2) -> tuple[int, ...]:
    return tuple(distance if d == dim else 0 for d in range(rank))


def _layout(
    shape: tuple[int, int], own: Sequence[tuple[int, ...]], along: Sequence[tuple[int, ...]],
    across: Sequence[tuple[int, ...]], first: int, warps_along: bool,
) -> LinearLayout:  # fmt: skip
    """A layout by the steps of a thread's `own` neighbours: so many bits of lanes go `across` first."""
    lanes = list(across[:first])
    rest = [*across[first:]]
    more = 5 - len(lanes)
    lanes += along[:more]
    others = [*along[more:], *rest] if warps_along else [*rest, *along[more:]]
    lanes += others[: 5 - len(lanes)]
    others = [v for v in others if v not in lanes]
    count = MAKERS.bit_length() - 1
    bases = {
        REGISTER: [*own, *others[count:]],
        LANE: [*lanes, *[(0, 0)] * (5 - len(lanes))],
        WARP: [*others[:count], *[(0, 0)] * (count - len(others[:count]))],
    }
    return LinearLayout.of(bases, dict(zip(dim_names(2), shape)))


def _cheapest(
    gpu: Target, value: SSAValue, tried: Iterable[tuple[BufferType, LinearLayout]], buffers: Buffers, leading: Leading
) -> Iterator[tuple[BufferType, LinearLayout]]:
    """Places of an operand and layouts in which it is written, the cheapest first, and of equal ones the first: in
    accesses, passes over banks, and registers. Without those where a tile has no layout that leads to the operand's.

    What tiles cost to read takes a way through all ops that the operand comes from, so it is asked only where what it
    costs to write the operand, which is less than all, has its turn.
    """
    ways = list(tried)
    waiting = [(_access_cost(gpu, layout, made, storing=True), n, False) for n, (made, layout) in enumerate(ways)]
    heapify(waiting)
    while waiting:
        cost, n, is_all = heappop(waiting)
        made, layout = ways[n]
        if is_all:
            yield made, layout
        elif (reading := _reading_cost(gpu, value, layout, buffers, leading)) is not None:
            heappush(waiting, (cost + reading, n, True))


def _reading_cost(gpu: Target, value: SSAValue, layout: LinearLayout, buffers: Buffers, leading: Leading) -> int | None:
    """What it costs to read tiles as TMA has put them. None where a tile has no layout that leads to the operand's."""
    try:
        loads = _loads(value, layout, whole(value), leading)
    except Unfit:
        return None
    total = 0
    for load, held, _ in loads:
        buffer = buffers.get(load)
        total += _load_cost(load, held) if buffer is None else _access_cost(gpu, held, buffer, storing=False)
    return total


def _access_cost(gpu: Target, layout: LinearLayout, buffer: BufferType, *, storing: bool) -> int:
    """Accesses of a thread and passes over banks of its warp, and how many registers it holds."""
    assert buffer.layout is not None
    size = STORAGE_BYTES[NUMBER_NAMES[buffer.element_type]]
    matrices = matrix_stores(gpu) if storing else matrix_loads(gpu)
    plain = reduced(layout, MAKERS.bit_length() - 1)
    found = accesses(plain, buffer.layout.layout, size, matrices, storing=storing)
    registers = plain.in_size(REGISTER) * size // WORD_BYTES
    return 2 * (found.instructions + found.wavefronts(size) + found.swapped) + registers


def _load_cost(load: Load, layout: LinearLayout) -> int:
    """What it costs to load a tile from global memory: instructions of a thread, and sectors that these touch in excess
    of those that hold the tile."""
    size = element_bytes(element_of(load.value.type))
    shape, fastest, _ = access(load)
    lanes = layout.basis(LANE)
    row = size * _vector(load, layout)
    while row < SECTOR_BYTES and _along(fastest, row // size, len(shape)) in lanes:
        row *= 2
    return 4 * _accesses(load, layout) * max(SECTOR_BYTES // row, 1)


def _vector(load: Load, layout: LinearLayout) -> int:
    """How many elements of a tile in a layout are loaded at once."""
    shape, fastest, vector = access(load)
    own, count = layout.basis(REGISTER), 1
    while count < vector and _along(fastest, count, len(shape)) in own:
        count *= 2
    return count


def _accesses(load: Load, layout: LinearLayout) -> int:
    """How many times a thread loads for a tile in a layout."""
    return (1 << len(layout.basis(REGISTER))) // _vector(load, layout)
