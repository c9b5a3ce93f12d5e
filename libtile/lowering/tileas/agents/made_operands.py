# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operands of a loop's products that the loop computes, of tiles that it loads and of what is there before it: warps of
their own make them, and put them where products read them.

    producer      a                raw w, raw s     one thread, by TMA
    makers        b = f(w, s)                       a warpgroup: from a raw stage to registers, and on to b's place
    consumers     a, b                              whoever multiplies

What TMA does not copy makers load themselves: small tiles, rows that numbers choose, and what pointers address. An
operand may be such a tile as it is. Where its elements lie together in memory by 4 bytes or more, and it is known when
the kernel is compiled that they do, makers start asynchronous copies of it (cp.async), which arrive by themselves: as
many turns are under way as there are stages.

What is computed keeps its ops, and gets layouts of the makers' own: one for the operand, from which those of all that
it comes from follow (`remade`). It is the one of those tried that costs least to read and to write in shared memory.
An operand for which a maker's thread has too few registers is made part by part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from libtile.analysis.tokens import is_fresh
from libtile.atoms.cp_async import operand_shared_layout
from libtile.dialects import scf
from libtile.dialects.cuda_tile.types import NUMBER_NAMES
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileaa.pointers import BlockTileOp
from libtile.dialects.nv_tileaa.shapes import BroadcastOp, CatOp
from libtile.dialects.nv_tileaa.types import MemTokenType
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.dialects.nv_tileas.memory import LoadOp, TiledLoadOp
from libtile.dialects.nv_tileas.tiles import ConvertLayoutOp, CopyOp
from libtile.dialects.nv_tileas.types import BufferType
from libtile.ir.tile_form import shape_of, stored_element
from libtile.layouts import LinearLayout
from libtile.layouts.parts import part_layout
from libtile.lowering.tileas.agents.maker_layouts import Way, best_way, copied_way
from libtile.lowering.tileas.agents.remade import Remade, Renaming, corner, sparse_dim, whole, without_conversions
from libtile.lowering.tileas.ahead import is_unordered
from libtile.lowering.tileas.cleanup import is_pure
from libtile.lowering.tileas.copies.access_reasons import is_forbidden
from libtile.lowering.tileas.copies.tma_operands import TmaOperand, Unfit, read_operand, tma_tile
from libtile.lowering.tileas.pipelines.schedule import Load
from libtile.lowering.tileas.products.result_parts import Part, boxes
from libtile.lowering.to_tileas.assignment_rules import LEAVES
from libtile.lowering.to_tileas.elementwise import is_elementwise
from libtile.lowering.to_tileas.types import tile_shape
from libtile.support.records import dataclass
from libtile.targets import MmaAtom, Target
from libtile.transforms.effects import is_speculatable

MAKING = {4: (232, 40, 232), 8: (192, 32, 96)}
"""Registers of a consumer's, of the producer's and of a maker's thread, by the number of consumer warps."""
AT_LAUNCH = 128
"""Registers of a maker's thread at least, where those that threads have at launch are not shared anew."""
SMALL = 16
"""How many times larger an operand is than a tile that makers load by themselves."""


@dataclass(frozen=True)
class MadeOperand:
    """An operand that makers compute."""

    value: SSAValue
    """In some layout of the kernel's warps."""
    type: BufferType
    """Where products read it."""
    layout: LinearLayout
    """In which makers have it as a whole."""
    part: tuple[int, ...]
    """The shape of what is made of it at a time."""
    copied: bool
    """Whether it is a tile in memory as it is, which makers' threads copy and never have."""
    cut: bool
    """Whether the tensor's end may lie within what is copied at once."""
    tiles: tuple[TmaOperand, ...]
    """What TMA copies for it, in each step."""
    ops: frozenset[Operation]
    """Of the loop's body, that it comes from, loads included, also those that makers do themselves."""
    given: tuple[SSAValue, ...]
    """Numbers, views and pointers that ops take which makers run."""

    def make(self, remade: Remade, to: SSAValue) -> None:
        """Make it in a buffer."""
        if self.copied:
            load = without_conversions(self.value).owner
            assert isinstance(load, TiledLoadOp | LoadOp)
            remade.copy(load, self.layout, to, cut=self.cut)
            return
        layout = part_layout(self.layout, self.part)
        for first in boxes(self.type.shape, self.part):
            part = Part(first, self.part)
            tile = remade.tile(self.value, layout, part)
            remade.at.add(CopyOp.make(tile, to, offsets=corner(part, whole(self.value))))


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
    found = Traced(what, body)
    found.follow(value)
    if not found.loads:
        raise Unfit(what + "is computed of no tile that is loaded in each step")
    spec = function.kernel_spec
    assert spec is not None
    registers = AT_LAUNCH if gpu.has("tcgen05") else MAKING[spec.num_warps][2]
    types = []
    for dense in (0, 1):
        shared = operand_shared_layout(shape, NUMBER_NAMES[element], dense)
        made = BufferType(shape, element, "shared", LayoutAttr(shared))
        if not isinstance(read_operand(gpu, atom, side, made), str):
            types.append(made)
    best = _copied_whole(gpu, value, types)
    copied = cut = best is not None
    tiles = () if copied else tuple(_copied(function, what, found.loads, prod(shape)))
    if not tiles and best is None:
        best = copied_way(gpu, value, types)
        copied = best is not None
    buffers: dict[Operation, BufferType] = {tile.load: tile.type for tile in tiles}
    if best is None:
        best = best_way(gpu, value, types, buffers, body, registers)
    if best is None:
        raise Unfit(what + "is computed by ops that cannot be laid out for warps that make it")
    return MadeOperand(value, *best, copied, cut, tiles, frozenset(found.ops), tuple(dict.fromkeys(found.given)))


def _copied_whole(gpu: Target, value: SSAValue, types: Sequence[BufferType]) -> Way | None:
    """How makers copy a tile as it is through a view that is made in a loop or branch around, by as much as a copy of a
    thread has. None for another one: of a view that is made before TMA may copy more than its tiles."""
    load = value.owner
    if not isinstance(load, TiledLoadOp) or is_forbidden(load) or not is_unordered(load):
        return None
    view = load.accessed.owner
    if not isinstance(view, BlockTileOp) or sparse_dim(load) is not None:
        return None
    made = view.source.owner
    if not isinstance(made, Operation) or isinstance(made.parent_op(), FuncOp):
        return None
    return copied_way(gpu, value, types, cut=True)


def _copied(function: FuncOp, what: str, loads: Sequence[Load], elements: int) -> Iterator[TmaOperand]:
    """The tiles of loads that TMA copies. Others are loaded by makers: small ones beside an operand of so many
    elements, rows that numbers choose, and what pointers address."""
    for load in loads:
        if isinstance(load, TiledLoadOp):
            try:
                yield tma_tile(function, what, load)
                continue
            except Unfit:
                if prod(shape_of(load.value.type)) * SMALL > elements and sparse_dim(load) is None:
                    raise
        if not is_unordered(load):
            raise Unfit(what + "is loaded in order with other accesses")


class Traced:
    """What a tile comes from: `ops` and `loads` of a loop's body, and what these, and ops in front of the loop, are
    `given` that is no tile. Who `carries` tiles through the loop may take some that the loop carries."""

    def __init__(self, what: str, body: Block, *, carries: bool = False):
        self.what, self.body, self.carries = what, body, carries
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
            if not self.carries or op is not self.body:
                raise Unfit(self.what + "is computed of a tile that a loop carries")
            for given in carried_from(value):
                self.follow(given)
            return
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
        if used or op.semantic != "weak" or not all(is_fresh(t) for t in op.group("token")):
            raise Unfit(self.what + "is computed of a tile in front of the loop whose load is in order with others")


def carried_from(value: SSAValue) -> tuple[SSAValue, SSAValue]:
    """What a value that a loop carries begins with, and what the next iteration has."""
    assert isinstance(value, BlockArgument)
    loop, last = value.block.parent_op(), value.block.last_op
    assert isinstance(loop, scf.ForOp) and isinstance(last, scf.YieldOp) and value.index > 0
    return loop.iter_args[value.index - 1], last.arguments[value.index - 1]


def _can_be_remade(op: Operation) -> bool:
    """Whether the layouts of what an op takes follow from that of its one result, and it does nothing else."""
    if len(op.results) != 1 or not (is_pure(op) or is_speculatable(op)):
        return False
    return is_elementwise(op) or isinstance(op, (BroadcastOp, CatOp, ConvertLayoutOp, *LEAVES, *Renaming))
