# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operands of a loop's products that the loop computes, of tiles that it loads and of what is there before it: warps of
their own make them, and put them where products read them.

    producer      a                raw w, raw s     one thread, by TMA
    makers        b = f(w, s)                       a warpgroup: from a raw stage to registers, and on to b's place
    consumers     a, b                              whoever multiplies

What TMA does not copy makers load themselves: small tiles, rows that numbers choose, and what pointers address. An
operand may be such a tile as it is.

What is computed keeps its ops, and gets layouts of the makers' own: one for the operand, from which those of all that
it comes from follow (`Remade`). It is the one of those tried that costs least to read and to write in shared memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import prod

from xdsl.ir import Block, Operation, SSAValue

from libtile.atoms import tcgen05, wgmma
from libtile.atoms.cp_async import operand_shared_layout
from libtile.atoms.shared_accesses import WORD_BYTES, accesses, reduced
from libtile.dialects.cuda_tile.types import NUMBER_NAMES
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileaa.shapes import BroadcastOp, ExpandDimsOp, PermuteOp, ViewOp
from libtile.dialects.nv_tileaa.tokens import CreateMemTokenOp
from libtile.dialects.nv_tileaa.types import MemTokenType, TiledViewType
from libtile.dialects.nv_tileas.async_products import matrix_of
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.dialects.nv_tileas.memory import LoadOp, TiledLoadOp
from libtile.dialects.nv_tileas.tiles import ConvertLayoutOp, CopyOp
from libtile.dialects.nv_tileas.types import BufferType
from libtile.ir.tile_form import element_of, shape_of, stored_element
from libtile.layouts import LANE, REGISTER, WARP, LinearLayout
from libtile.layouts.builders import dim_names
from libtile.lowering.tileas.ahead import is_unordered
from libtile.lowering.tileas.cleanup import is_pure
from libtile.lowering.tileas.materialize import Inserter
from libtile.lowering.tileas.schedule import Load
from libtile.lowering.tileas.tma_operands import TmaOperand, Unfit, can_transpose, tma_tile
from libtile.lowering.to_tileas.accesses import access, element_bytes
from libtile.lowering.to_tileas.assignment_rules import LEAVES
from libtile.lowering.to_tileas.demands import source_layout
from libtile.lowering.to_tileas.elementwise import is_elementwise
from libtile.lowering.to_tileas.shape_layouts import sliced
from libtile.lowering.to_tileas.types import tile_shape, with_layout
from libtile.numerics.elements import STORAGE_BYTES
from libtile.support.records import dataclass
from libtile.targets import MmaAtom, Target

MAKERS = 4
"""Warps that make operands: a warpgroup, which has registers of its own."""
VECTOR_BYTES = 16
"""Of an access to shared memory, at most."""
SECTOR_BYTES = 32
"""What is moved of global memory at once."""
SMALL = 16
"""How many times larger an operand is than a tile that makers load by themselves."""
Renaming = (ViewOp, ExpandDimsOp, PermuteOp)


@dataclass(frozen=True)
class MadeOperand:
    """An operand that makers compute."""

    value: SSAValue
    """In some layout of the kernel's warps."""
    type: BufferType
    """Where products read it."""
    layout: LinearLayout
    """In which makers have it."""
    tiles: tuple[TmaOperand, ...]
    """What TMA copies for it, in each step."""
    ops: frozenset[Operation]
    """Of the loop's body, that it comes from, loads included, also those that makers do themselves."""
    given: tuple[SSAValue, ...]
    """Numbers, views and pointers that ops take which makers run."""


Values = dict[SSAValue, SSAValue]


def made_operand(
    function: FuncOp, gpu: Target, atom: MmaAtom, side: str, operand: SSAValue, body: Block
) -> MadeOperand:
    """How makers compute an operand (side "a" or "b") of a product in a loop's body that reads shared memory by an
    instruction. Unfit where it is no matrix that comes from tiles that TMA copies in each step, and from what is there
    before the loop, by ops that can be laid out anew."""
    what = f"#{side.upper()} "
    value = without_conversions(operand)
    shape, element = shape_of(value.type), stored_element(value.type)
    if not isinstance(value.owner, Operation) or value.owner.parent is not body:
        raise Unfit(what + "is not computed in the loop")
    if len(shape) != 2:
        raise Unfit(what + "is no matrix")
    found = _Traced(what, body)
    found.follow(value)
    tiles = tuple(_copied(function, what, found.loads, prod(shape)))
    if not found.loads:
        raise Unfit(what + "is computed of no tile that is loaded in each step")
    best: tuple[int, BufferType, LinearLayout] | None = None
    for dense in (0, 1):
        made = BufferType(
            shape, element, "shared", LayoutAttr(operand_shared_layout(shape, NUMBER_NAMES[element], dense))
        )
        if isinstance(_read_by(gpu, atom, side, made), str):
            continue
        for layout in _layouts(shape, VECTOR_BYTES):
            cost = _cost(gpu, value, layout, made, tiles)
            if cost is not None and (best is None or cost < best[0]):
                best = cost, made, layout
    if best is None:
        raise Unfit(what + "is computed by ops that cannot be laid out for warps that make it")
    return MadeOperand(value, best[1], best[2], tiles, frozenset(found.ops), tuple(dict.fromkeys(found.given)))


def _copied(function: FuncOp, what: str, loads: Sequence[Load], elements: int) -> Iterator[TmaOperand]:
    """The tiles of loads that TMA copies. Others are loaded by makers: small ones beside an operand of so many
    elements, rows that numbers choose, and what pointers address."""
    for load in loads:
        if isinstance(load, TiledLoadOp):
            try:
                yield tma_tile(function, what, load)
                continue
            except Unfit:
                if prod(shape_of(load.value.type)) * SMALL > elements and _sparse_dim(load) is None:
                    raise
        if not is_unordered(load):
            raise Unfit(what + "is loaded in order with other accesses")


def _sparse_dim(load: Load) -> int | None:
    """The dimension along which numbers choose what a load through a view loads."""
    view = load.accessed.type
    return view.layout.sparse_dim if isinstance(view, TiledViewType) else None


def _read_by(gpu: Target, atom: MmaAtom, side: str, type_: BufferType) -> object:
    """How an instruction reads an operand, or why it does not."""
    assert type_.layout is not None
    share = tcgen05.share_of(atom) if gpu.has("tcgen05") else atom
    size = STORAGE_BYTES[NUMBER_NAMES[type_.element_type]]
    return wgmma.shared_operand(matrix_of(type_.layout.layout), side, share, size, can_transpose(gpu, atom))


def without_conversions(value: SSAValue) -> SSAValue:
    """A tile in the layout in which it was computed."""
    while isinstance(value.owner, ConvertLayoutOp):
        value = value.owner.source
    return value


class _Traced:
    """What a tile comes from: `ops` and `loads` of a loop's body, and what these, and ops in front of the loop, are
    `given` that is no tile."""

    def __init__(self, what: str, body: Block):
        self.what, self.body = what, body
        self.ops: set[Operation] = set()
        self.loads: list[Load] = []
        self.given: list[SSAValue] = []
        self._seen: set[SSAValue] = set()

    def follow(self, value: SSAValue) -> None:
        if value in self._seen:
            return
        self._seen.add(value)
        if not tile_shape(value):
            if not isinstance(value.type, MemTokenType):
                self.given.append(value)
            return
        op = value.owner
        if not isinstance(op, Operation):
            raise Unfit(self.what + "is computed of a tile that a loop carries")
        if op.parent is self.body:
            self.ops.add(op)
        if isinstance(op, TiledLoadOp | LoadOp):
            self._load(op)
        elif not _can_be_remade(op):
            raise Unfit(self.what + f"is computed by '{op.name}', which warps that make it do not run")
        for operand in op.operands:
            self.follow(operand)

    def _load(self, op: Load) -> None:
        """A load that makers repeat, or that TMA makes for them in each step."""
        if op.parent is self.body:
            self.loads.append(op)
            return
        used = op.result_token is not None and op.result_token.first_use is not None
        if used or op.semantic != "weak" or not all(isinstance(t.owner, CreateMemTokenOp) for t in op.group("token")):
            raise Unfit(self.what + "is computed of a tile in front of the loop whose load is in order with others")


def _can_be_remade(op: Operation) -> bool:
    """Whether the layouts of what an op takes follow from that of its one result, and it does nothing else."""
    if len(op.results) != 1 or not is_pure(op):
        return False
    return is_elementwise(op) or isinstance(op, (BroadcastOp, ConvertLayoutOp, *LEAVES, *Renaming))


def sources(op: Operation, layout: LinearLayout) -> Iterator[tuple[SSAValue, LinearLayout]]:
    """The tiles that an op takes, in the layouts that it wants them in for a result in a layout. Unfit where there is
    none. A load through a view takes none but the numbers of rows."""
    for operand in op.operands:
        if not tile_shape(operand):
            continue
        if isinstance(op, TiledLoadOp):
            dim = _sparse_dim(op)
            if dim is None or op.group("other"):
                raise Unfit("a load takes a tile that is no numbers of rows")
            yield operand, sliced(layout, 1 - dim)
            continue
        wanted = source_layout(op, layout) if isinstance(op, (BroadcastOp, *Renaming)) else layout
        if wanted is None:
            raise Unfit(f"'{op.name}' has no layout of its source")
        yield operand, wanted


class Remade:
    """Tiles again, in other layouts, by ops of a loop's body that are cloned in a step, and others in front of it."""

    def __init__(self, body: Block, at: Inserter, front: Inserter, buffers: dict[Operation, SSAValue], values: Values):
        self.body, self.at, self.front, self.buffers, self.values = body, at, front, buffers, values
        self._made: dict[tuple[SSAValue, LinearLayout], SSAValue] = {}

    def tile(self, value: SSAValue, layout: LinearLayout) -> SSAValue:
        """A tile in a layout."""
        value = without_conversions(value)
        key = value, layout
        if (found := self._made.get(key)) is None:
            found = self._made[key] = self._tile(value, layout)
        return found

    def _tile(self, value: SSAValue, layout: LinearLayout) -> SSAValue:
        op, type_ = value.owner, with_layout(value.type, layout)
        assert isinstance(op, Operation)
        at = self.at if op.parent is self.body else self.front
        if (buffer := self.buffers.get(op)) is not None:
            return at.value(CopyOp.make(buffer, results=[type_]), op.location)
        given = dict(sources(op, layout))
        operands = [self.tile(v, given[v]) if v in given else self.values.get(v, v) for v in op.operands]
        tokens = [r.type for r in op.results[1:]]
        made = type(op).create(
            operands=operands, result_types=[type_, *tokens], properties=dict(op.properties),
            attributes=dict(op.attributes),
        )  # fmt: skip
        return at.value(made, op.location)


# -- layouts ----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _layouts(shape: tuple[int, int], most: int) -> tuple[LinearLayout, ...]:
    """Layouts of a matrix for makers, whose threads have up to `most` neighbours along one dimension: lanes go along
    the other one first, or along this one, for so many bits; then warps, and what is left are further registers."""
    found: dict[LinearLayout, None] = {}
    for dim in (1, 0):
        bits = [[1 << i for i in range(n.bit_length() - 1)] for n in shape]
        across = [_along(1 - dim, n) for n in bits[1 - dim]]
        for vector in (n for n in (most, most // 2, most // 4) if n <= shape[dim]):
            own = vector.bit_length() - 1
            along = [_along(dim, n) for n in bits[dim]]
            for first in range(6):
                for last in (True, False):
                    found.setdefault(_layout(shape, along[:own], along[own:], across, first, last))
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


def _cost(
    gpu: Target, value: SSAValue, layout: LinearLayout, made: BufferType, tiles: Sequence[TmaOperand]
) -> int | None:
    """What it costs to read tiles as TMA has put them and to write the operand: accesses, passes over banks, and
    registers. None where a tile has no layout that leads to it."""
    assert made.layout is not None
    total = _access_cost(gpu, layout, made, storing=True)
    buffers: dict[Operation, BufferType] = {tile.load: tile.type for tile in tiles}
    work, seen = [(value, layout)], set[tuple[SSAValue, LinearLayout]]()
    while work:
        key = work.pop()
        if key in seen:
            continue
        seen.add(key)
        at, held = key
        op = at.owner
        assert isinstance(op, Operation)
        if isinstance(op, TiledLoadOp | LoadOp):
            if op in buffers:
                total += _access_cost(gpu, held, buffers[op], storing=False)
                continue
            total += _load_cost(op, held)
        try:
            work += sources(op, held)
        except Unfit:
            return None
    return total


def _access_cost(gpu: Target, layout: LinearLayout, buffer: BufferType, *, storing: bool) -> int:
    """Accesses of a thread and passes over banks of its warp, and how many registers it holds."""
    assert buffer.layout is not None
    size = STORAGE_BYTES[NUMBER_NAMES[buffer.element_type]]
    matrices = gpu.has("stmatrix" if storing else "ldmatrix")
    plain = reduced(layout, MAKERS.bit_length() - 1)
    found = accesses(plain, buffer.layout.layout, size, matrices, storing=storing)
    registers = plain.in_size(REGISTER) * size // WORD_BYTES
    return 2 * (found.instructions + found.wavefronts(size) + found.swapped) + registers


def _load_cost(load: Load, layout: LinearLayout) -> int:
    """What it costs to load a tile from global memory: instructions of a thread, and sectors that these touch in excess
    of those that hold the tile."""
    size = element_bytes(element_of(load.value.type))
    shape, fastest, vector = access(load)
    own = list(layout.basis(REGISTER))
    count = 1
    while count < vector and _along(fastest, count, len(shape)) in own:
        count *= 2
    lanes = layout.basis(LANE)
    row = size * count
    while row < SECTOR_BYTES and _along(fastest, row // size, len(shape)) in lanes:
        row *= 2
    accesses = (1 << len(own)) // count
    return 4 * accesses * max(SECTOR_BYTES // row, 1)
