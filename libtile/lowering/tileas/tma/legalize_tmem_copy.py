# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`tileas-legalize-tmem-copy`: copies that cross tensor memory become ones that hardware has.

    tensor memory -> registers        tcgen05.ld, by rows (32x32b, or 16x32bx2) or as fragments of products (16x256b)
    registers -> tensor memory        tcgen05.st
    tensor memory -> shared memory    tcgen05.ld, then stmatrix
    shared memory -> tensor memory    ldmatrix, then tcgen05.st; of scale factors tcgen05.cp, by one thread

Tensor memory has 128 rows (lanes) of 512 columns of 32 bits; warp w of a group of four reaches rows 32 w to 32 w + 31
only (PTX ISA, "Tensor Memory", access restrictions). Hence the registers on the way hold row = 32 warp + lane, and the
columns one behind the other; of a result of 64 rows a warp has 16, of which two threads share each, and of one of 256
rows eight warps have 32 each, four the first 128 and four the others.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation

from libtile.atoms import tcgen05, tcgen05_factors
from libtile.dialects.nv_tileaa.element_types import bit_width
from libtile.dialects.nv_tileas.attributes import CopyAtomAttr
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.dialects.nv_tileas.tiles import CopyOp
from libtile.dialects.nv_tileas.types import BufferType
from libtile.ir.module_pass import ModulePass
from libtile.ir.places import ops_of
from libtile.ir.tile_form import erase, layout_of, stored_element, stored_shape, tile
from libtile.layouts.linear import LANE, REGISTER, WARP, LinearLayout
from libtile.lowering.tileas.copies.common import fail
from libtile.support.records import dataclass

ROWS = 128
COLUMNS = 512
_ROWS = ((tcgen05.HALF_LANES,), (2 * tcgen05.LANES,))
"""Of results of which a thread has no whole row of one block of 128."""
MATRIX_BITS = (8, 16, 32)
"""Widths of elements that ldmatrix and stmatrix move in whole 16-byte rows of an 8x8 matrix."""


@dataclass(frozen=True)
class TileasLegalizeTmemCopyPass(ModulePass):
    """Make copies to and from tensor memory legal."""

    name = "tileas-legalize-tmem-copy"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        legalize_copies(op)


def legalize_copies(root: Operation) -> None:
    """Make the copies to and from tensor memory within an op legal."""
    for copy in ops_of(root, CopyOp):
        _legalize(copy)


def space_of(type_: Attribute) -> str:
    """The memory space of what is copied; tiles are in registers."""
    return type_.space if isinstance(type_, BufferType) else "generic"


def _legalize(op: CopyOp) -> None:
    if op.atom is not None:
        return  # already one that hardware has
    source = op.source.type
    target = op.destination.type if op.destination is not None else op.results[0].type
    spaces = (space_of(source), space_of(target))
    if spaces not in (("tmem", "generic"), ("generic", "tmem"), ("tmem", "shared"), ("shared", "tmem")):
        return
    tensor_memory, other = (source, target) if spaces[0] == "tmem" else (target, source)
    kind = "tcgen05_ld" if spaces[0] == "tmem" else "tcgen05_st"
    if "generic" in spaces and is_fragment(tensor_memory, other):
        op.properties["atom"] = CopyAtomAttr(kind, tcgen05.FRAGMENT_BITS)
        return
    if "generic" in spaces and is_left_operand(tensor_memory, other):
        op.properties["atom"] = CopyAtomAttr(kind, tcgen05.ROWS_BITS)
        return
    if spaces == ("shared", "tmem") and are_factors(source, target):
        op.properties["atom"] = CopyAtomAttr("tcgen05_cp", tcgen05_factors.ROW_BITS)
        return
    registers = register_layout(tensor_memory)
    if registers is None:
        fail(op, "failed to infer register layout from tmem layout")
    if not fits_source(other, registers):
        fail(op, "failed to infer source layout from tmem layout")
    if "generic" in spaces:
        op.properties["atom"] = CopyAtomAttr(kind, 32)
        return
    first, second = ("tcgen05_ld", "stmatrix") if spaces[0] == "tmem" else ("ldmatrix", "tcgen05_st")
    through = tile(stored_shape(source), stored_element(source), LayoutAttr(registers))
    block = op.parent
    assert block is not None and op.destination is not None  # both sides are buffers
    load = CopyOp.make(op.source, results=[through], atom=CopyAtomAttr(first), location=op.location)
    store = CopyOp.make(load.results[0], op.destination, atom=CopyAtomAttr(second), location=op.location)
    block.insert_ops_before([load, store], op)
    erase(op)


def is_fragment(tensor_memory: Attribute, registers: Attribute) -> bool:
    """Whether a tile lies in registers as fragments of what lies in tensor memory (the shape 16x256b)."""
    layout, shape = layout_of(registers), stored_shape(tensor_memory)
    if not isinstance(layout, LayoutAttr):
        return False
    if not isinstance(tensor_memory, BufferType) or tensor_memory.layout is None:
        return False
    try:
        lies, held = tcgen05.memory_layout(shape), tcgen05.register_layout(shape, 1 << len(layout.layout.basis(WARP)))
    except ValueError:
        return False
    return (tensor_memory.layout.layout, layout.layout) == (lies, held)


def is_left_operand(tensor_memory: Attribute, registers: Attribute) -> bool:
    """Whether a tile lies in registers by rows, and in tensor memory as a left operand of products."""
    layout, shape = layout_of(registers), stored_shape(tensor_memory)
    if not isinstance(tensor_memory, BufferType) or tensor_memory.layout is None or not isinstance(layout, LayoutAttr):
        return False
    try:
        lies = tcgen05.left_layout(shape, bit_width(stored_element(tensor_memory)))
        held = tcgen05.row_layout(shape, 1 << len(layout.layout.basis(WARP)))
    except ValueError:
        return False
    return (tensor_memory.layout.layout, layout.layout) == (lies, held)


def are_factors(shared: Attribute, tensor_memory: Attribute) -> bool:
    """Whether what lies in shared memory are scale factors, in pieces that become columns of tensor memory."""
    if not isinstance(shared, BufferType) or not isinstance(tensor_memory, BufferType):
        return False
    if shared.layout is None or tensor_memory.layout is None or not tcgen05_factors.fills_chunks(shared.layout.layout):
        return False
    return tensor_memory.layout.layout == tcgen05_factors.layout(shared.shape)


def register_layout(type_: Attribute) -> LinearLayout | None:
    """The layout of registers that hold a tile of tensor memory; None when the tile does not lie as rows of lanes."""
    shape, bits = stored_shape(type_), bit_width(stored_element(type_))
    if isinstance(type_, BufferType) and type_.layout is not None and shape[:1] in _ROWS:
        try:
            lies = tcgen05.memory_layout(shape, tcgen05.block_columns(type_.layout.layout))
            held = tcgen05.row_layout(shape, tcgen05.row_warps(shape[0]))
        except ValueError:
            return None
        return held if type_.layout.layout == lies else None
    if len(shape) != 2 or shape[0] != ROWS or shape[1] * bits > COLUMNS * 32 or shape[1] & (shape[1] - 1):
        return None
    if isinstance(type_, BufferType) and type_.layout is not None and not _is_row_per_lane(type_.layout.layout):
        return None
    return LinearLayout.of(
        {
            REGISTER: [(0, 1 << i) for i in range(shape[1].bit_length() - 1)],
            LANE: [(1 << i, 0) for i in range(5)],
            WARP: [(32, 0), (64, 0)],
        },
        {"dim0": shape[0], "dim1": shape[1]},
    )


def _is_row_per_lane(layout: LinearLayout) -> bool:
    """Whether row and column of tensor memory are those of the tile (dimensions `row` and `column`)."""
    row, column = layout.basis("row"), layout.basis("column")
    rows_straight = list(row) == [(1 << i, 0) for i in range(len(row))]
    return rows_straight and list(column) == [(0, 1 << i) for i in range(len(column))]


def fits_source(type_: Attribute, registers: LinearLayout) -> bool:
    """Whether the other side of a copy can be reached from those registers."""
    if isinstance(type_, BufferType):
        return bit_width(type_.element_type) in MATRIX_BITS
    layout = layout_of(type_)
    return layout is None or (isinstance(layout, LayoutAttr) and layout.layout == registers)
