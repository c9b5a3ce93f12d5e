# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operands of products with scale factors whose results lie in tensor memory (tcgen05 with block_scale).

TMA copies the tiles of a step, and the thread that issues products has their factors copied on to tensor memory. Tiles
may be loaded in another shape than they are multiplied in, as long as TMA brings them to where products read them:
operands of 4 bits as bytes that hold two each, and factors in pieces of 512 bytes (`atoms.tcgen05_factors`), which a
frontend then permutes to lines and blocks. Where an element of an operand lies is computed through these ops.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.dialects.builtin import f32
from xdsl.ir import Attribute, Block, Operation, SSAValue

from libtile.atoms import tcgen05, tcgen05_factors
from libtile.atoms.operand_types import ptx_type
from libtile.dialects import scf
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileaa.pointers import BitcastOp
from libtile.dialects.nv_tileaa.shapes import ExpandDimsOp, PermuteOp, ViewOp, integers_of
from libtile.dialects.nv_tileas.attributes import TCGEN05, MmaAtomAttr
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.dialects.nv_tileas.memory import TiledLoadOp
from libtile.dialects.nv_tileas.products import ScaledDotOp
from libtile.dialects.nv_tileas.tensor_memory import AsyncDotIntoOp
from libtile.dialects.nv_tileas.tiles import AllocTensorOp, ConvertLayoutOp, CopyOp, ReinterpretOp
from libtile.dialects.nv_tileas.types import BufferType
from libtile.ir.tile_form import shape_of, stored_element
from libtile.layouts import LinearLayout
from libtile.layouts.builders import row_major
from libtile.layouts.renaming import halved, joined, permuted, reshaped
from libtile.lowering.tileas.copies.tma_operands import TmaOperand, Unfit, tma_operand, tma_tile
from libtile.lowering.tileas.inserter import Inserter
from libtile.lowering.tileas.tensor_memory.tensor_products import Issue
from libtile.lowering.tileas.tensor_memory.thread_factors import ThreadFactors
from libtile.lowering.to_tileas.types import element_of
from libtile.numerics.elements import ELEMENTS
from libtile.support.records import dataclass
from libtile.targets import Target

_MOVING = (ConvertLayoutOp, ViewOp, ExpandDimsOp, PermuteOp, BitcastOp)
"""Ops between a load and a product that leave elements as they are, and only say what they are called."""


@dataclass(frozen=True)
class _Loaded:
    """A tile that a load gives and ops rename: `layout` says which element of it each element of the load's tile, in
    row-major order, becomes; `halves` that these are bytes that hold two."""

    load: TiledLoadOp
    ops: tuple[Operation, ...]
    layout: LinearLayout
    halves: bool

    @staticmethod
    def of(what: str, value: SSAValue, body: Block) -> _Loaded:
        """Where a tile comes from in a loop's body; Unfit, with `what` in front of the reason, for other tiles."""
        ops: list[Operation] = []
        while isinstance(op := value.owner, _MOVING) and op.parent is body and value.has_one_use():
            ops.insert(0, op)
            value = op.source
        load = value.owner
        if not isinstance(load, TiledLoadOp) or load.parent is not body:
            raise Unfit(what + "is not loaded by a view as it is, in the loop")
        if not value.has_one_use():
            raise Unfit(what + "is used by more than the product")
        shape = shape_of(value.type)
        layout, halves = row_major(shape, list(reversed(range(len(shape))))), False
        for op in ops:
            if isinstance(op, PermuteOp):
                layout = permuted(layout, integers_of(op.permutation))
            elif isinstance(op, BitcastOp):
                parts = _bits(op.source) // _bits(op.result)
                if parts == 2 and not halves:
                    layout, halves = halved(layout), True
                elif parts != 1:
                    raise Unfit(what + f"is made of elements of {_bits(op.source)} bits")
            elif not isinstance(op, ConvertLayoutOp):
                layout = reshaped(layout, shape_of(op.results[0].type))
        return _Loaded(load, tuple(ops), layout, halves)

    def order(self, what: str) -> list[int]:
        """The dimensions of the load's tile in the order of the operand's, which are those that are not 1; Unfit where
        they are not the same rows and columns."""
        shape, layout = shape_of(self.load.value.type), self.layout
        if self.halves:
            whole = joined(layout)
            if whole is None:
                raise Unfit(what + "has bytes whose halves do not lie side by side along k")
            layout = whole
        sizes = [d for d, n in enumerate(shape) if n != 1]
        for places in ((1, 0), (0, 1)):
            straight = places == (1, 0)
            if len(sizes) == 2 and layout == row_major(layout.shape, places):
                return [*(d for d, n in enumerate(shape) if n == 1), *(sizes if straight else reversed(sizes))]
        raise Unfit(what + "is not loaded in the rows and columns in which it is multiplied")


def _in_pieces(factors: Iterable[tuple[str, SSAValue]], body: Block) -> list[tuple[str, _Loaded]] | None:
    """Where factors come from that lie in memory in the pieces that copies to tensor memory take; None for others."""
    try:
        found = [(name, _Loaded.of(name + " ", value, body)) for name, value in factors]
    except Unfit:
        return None
    layouts = (x.layout if name == "SFA" else permuted(x.layout, (1, 0)) for name, x in found)
    if any(x.halves for _, x in found) or not all(map(tcgen05_factors.fills_chunks, layouts)):
        return None
    return found


def _bits(value: SSAValue) -> int:
    return ELEMENTS[element_of(value)].bits


def instruction(product: ScaledDotOp, gpu: Target) -> MmaAtomAttr:
    """The widest tcgen05.mma of a product with factors; Unfit where there is none."""
    (m, depth), (_, n), blocks = shape_of(product.a.type), shape_of(product.b.type), shape_of(product.sfa.type)[1]
    a, b = (ptx_type(element_of(v), signed=True) for v in (product.a, product.b))
    element = element_of(product.sfa)
    found = tcgen05_factors.find(gpu, a, b, element, (m, n, depth), blocks)
    if found is None:
        what = f"{a} and {b} with factors of {element} for {depth // blocks} elements"
        raise Unfit(f"tcgen05.mma does not multiply {what} in tiles of {m}x{n}x{depth}")
    return MmaAtomAttr(TCGEN05, (found.m, found.n, found.k), a, b, found.d)


@dataclass(frozen=True)
class ScaledOperands:
    """The operands of a product with factors: tiles of A and B by TMA, and their factors by TMA or by threads."""

    product: ScaledDotOp
    atom: MmaAtomAttr
    tiles: tuple[TmaOperand, ...]
    between: frozenset[Operation]
    """The ops between the loads and the product."""
    layouts: tuple[LinearLayout, LinearLayout]
    """Of the factors in shared memory, by line and block."""
    by_threads: ThreadFactors | None = None

    @staticmethod
    def of(function: FuncOp, gpu: Target, product: ScaledDotOp, atom: MmaAtomAttr, loop: scf.ForOp) -> ScaledOperands:
        """Unfit where TMA does not copy the tiles."""
        body = loop.body.block
        tiles, between = [], set[Operation]()
        stored = tcgen05_factors.in_bytes(atom.instruction)
        for side, value in (("a", product.a), ("b", product.b)):
            what = f"#{side.upper()} "
            found = _Loaded.of(what, value, body)
            if found.halves != tcgen05_factors.shares_bytes(atom.instruction):
                raise Unfit(what + "is not loaded as bytes that hold two elements each")
            tiles.append(tma_operand(function, gpu, stored, side, found.load, found.order(what)))
            between |= set(found.ops)
        given = (("SFA", product.sfa), ("SFB", product.sfb))
        factors = _in_pieces(given, body)
        if factors is None:
            threads = ThreadFactors.of(loop, given)
            return ScaledOperands(product, atom, tuple(tiles), frozenset(between), threads.layouts, threads)
        layouts = [found.layout if name == "SFA" else permuted(found.layout, (1, 0)) for name, found in factors]
        between |= {op for _, found in factors for op in found.ops}
        for name, found in factors:
            shape = shape_of(found.load.value.type)
            shared = row_major(shape, list(reversed(range(len(shape)))))
            tiles.append(tma_tile(function, name + " ", found.load, shared=shared))
        return ScaledOperands(product, atom, tuple(tiles), frozenset(between), (layouts[0], layouts[1]))

    @property
    def types(self) -> list[BufferType]:
        """Of what a stage holds."""
        return [*(t.type for t in self.tiles), *([] if self.by_threads is None else self.by_threads.types)]

    @property
    def by_warps(self) -> list[Operation]:
        """What the kernel's warps do for factors."""
        return [] if self.by_threads is None else list(self.by_threads.ops)

    @property
    def columns(self) -> int:
        """Of tensor memory, for the factors."""
        return sum(tcgen05_factors.columns_of(*layout.shape) for layout in self.layouts)

    def allocate(self, at: Inserter) -> list[SSAValue]:
        """The factors' places in tensor memory."""
        places = []
        for layout, value in zip(self.layouts, (self.product.sfa, self.product.sfb)):
            type_ = BufferType((1, tcgen05.LANES, tcgen05_factors.columns_of(*layout.shape)), f32, "tmem")
            made = at.value(AllocTensorOp.make(results=[type_]))
            lies = LayoutAttr(tcgen05_factors.layout(layout.shape))
            seen = BufferType(layout.shape, stored_element(value.type), "tmem", lies)
            places.append(at.value(ReinterpretOp.make(made, results=[seen])))
        return places

    def issue_into(self, places: Sequence[SSAValue]) -> Issue:
        """Have the factors of a step copied to these places, and issue its products."""
        return lambda at, tiles, results, more: self._issue(at, tiles, places, results[0], more)

    def _issue(
        self, at: Inserter, buffers: Sequence[SSAValue], places: Sequence[SSAValue], result: SSAValue, more: SSAValue
    ) -> None:
        for buffer, place, layout in zip(buffers[2:], places, self.layouts):
            element = stored_element(place.type)
            seen = BufferType(layout.shape, element, "shared", LayoutAttr(layout))
            at.add(CopyOp.make(at.value(ReinterpretOp.make(buffer, results=[seen])), place))
        operands = [
            self._multiplied(at, buffer, value) for buffer, value in zip(buffers, (self.product.a, self.product.b))
        ]
        at.add(AsyncDotIntoOp.make(*operands, result, more, *places, atom=self.atom), self.product.location)

    def _multiplied(self, at: Inserter, buffer: SSAValue, value: SSAValue) -> SSAValue:
        """An operand in shared memory with the elements that are multiplied, unless they lie two to a byte."""
        type_, element = buffer.type, stored_element(value.type)
        assert isinstance(type_, BufferType)
        if type_.element_type == element or tcgen05_factors.shares_bytes(self.atom.instruction):
            return buffer
        wanted: Attribute = BufferType(type_.shape, element, type_.space, type_.layout)
        return at.value(ReinterpretOp.make(buffer, results=[wanted]))
