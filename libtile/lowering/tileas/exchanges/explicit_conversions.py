# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Conversions around ops that only rename elements, so that inside of these nothing moves between threads.

Operands come in the layouts, and results leave in those, in which every thread keeps what it has; what others want is a
`nv_tileas.convert_layout` in front or behind. Parts of tiles are taken in registers where these tell parts apart, and
otherwise through shared memory, as `ways` says. What is known of a part makes it a `nv_tileas.extract_slice`. A product
by fused multiply-adds whose operands find no room becomes one of slices along K after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from math import prod

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, TensorType, i64
from xdsl.ir import Attribute, Operation, SSAValue

from libtile.codegen.sharing import Handed, hand_out_way
from libtile.dialects.cuda_tile.types import NUMBER_NAMES
from libtile.dialects.nv_tileaa import shapes as aa
from libtile.dialects.nv_tileaa.memory import AllocaOp
from libtile.dialects.nv_tileaa.pointers import BitcastOp
from libtile.dialects.nv_tileas import tiles
from libtile.dialects.nv_tileas.attributes import FMA, ConversionAttr
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.dialects.nv_tileas.products import DotOp
from libtile.ir.classes import is_subclass
from libtile.ir.operands import source_of, sources_of
from libtile.ir.tile_form import TileOp, erase, integer_of
from libtile.layouts import REGISTER, LinearLayout, parts
from libtile.layouts.builders import row_major
from libtile.layouts.convert import Conversion, conflict_free_shared
from libtile.layouts.renaming import reshaped, shrunk
from libtile.layouts.shared_access import VECTOR, SharedAccess, SharedWay, padded, piece_bytes
from libtile.lowering.constants import constant_of
from libtile.lowering.tileas.exchanges.exchange_sizes import Kernel, element_bytes, element_name
from libtile.lowering.tileas.exchanges.shared_atoms import conversion_by, shared_way
from libtile.lowering.tileas.exchanges.ways import HANDING_OUT, STEPS_AT_ONCE, WAYS, hands_out, is_part, set_ways
from libtile.lowering.to_tileas.demands import source_layout
from libtile.lowering.to_tileas.shape_layouts import scalar_layout
from libtile.lowering.to_tileas.types import layout_of, shape_of, with_layout
from libtile.numerics.elements import STORAGE_BYTES
from libtile.support.records import dataclass, field, replace

OPERAND_BYTES = 49152
"""The most shared memory that the operands of a product of single elements take at a time, where there is room."""
BODY_PRODUCTS = 512
"""How many multiply-adds of a thread stand in one turn of the loop over K, about."""
MOST_STEPS = 4
"""The most steps along K in one turn of it."""


def convert_operand(op: Operation, number: int, layout: LinearLayout) -> tiles.ConvertLayoutOp | None:
    """Let an op take an operand in a layout; the conversion in front of it, if there has to be one."""
    value = op.operands[number]
    if layout_of(value) == layout:
        return None
    made = tiles.ConvertLayoutOp.make(value, results=[with_layout(value.type, layout)], location=_location(op))
    assert op.parent is not None
    op.parent.insert_op_before(made, op)
    op.operands[number] = made.result
    return made


def convert_result(op: Operation, result: SSAValue, layout: LinearLayout) -> tiles.ConvertLayoutOp | None:
    """Let an op give a tile in a layout, and its users get that in the one that they had; the conversion in between, if
    there has to be one."""
    wanted = result.type
    if layout_of(result) == layout:
        return None
    uses = list(result.uses)
    from xdsl.rewriter import Rewriter

    given = Rewriter.replace_value_with_new_type(result, with_layout(wanted, layout))
    made = tiles.ConvertLayoutOp.make(given, results=[wanted], location=_location(op))
    for use in uses:
        use.operation.operands[use.index] = made.result
    assert op.parent is not None
    op.parent.insert_op_after(made, op)
    return made


def _location(op: Operation) -> Attribute | None:
    return op.location if isinstance(op, TileOp) else None


@dataclass
class Around:
    """An op, where it runs, how much room an exchange of it has, and what has been made around it."""

    op: Operation
    kernel: Kernel
    room: int
    made: list[tiles.ConvertLayoutOp] = field(default_factory=list)

    def operand(self, number: int, layout: LinearLayout) -> None:
        if (made := convert_operand(self.op, number, layout)) is not None:
            self.made.append(made)

    def result(self, layout: LinearLayout) -> None:
        if (made := convert_result(self.op, self.op.results[0], layout)) is not None:
            self.made.append(made)

    def insert(self, made: Operation) -> Operation:
        assert self.op.parent is not None
        self.op.parent.insert_op_before(made, self.op)
        return made

    def replace(self, value: SSAValue) -> None:
        """Have the op's users take another value, and drop the op."""
        value.name_hint = value.name_hint or self.op.results[0].name_hint
        self.op.results[0].replace_all_uses_with(value)
        erase(self.op)

    def take_place(self, made: Operation) -> None:
        """Put an op in the place of the op."""
        self.replace(self.insert(made).results[0])


@cache
def _rule(cls: type[Operation]) -> Callable[[Around], None] | None:
    """The rule of ops of a class, if there is one."""
    return next((rule for classes, rule in _RULES if issubclass(cls, classes)), None)


def has_conversions(op: Operation) -> bool:
    """Whether an op is a conversion, or of a class that may have some around it."""
    return is_subclass(type(op), (tiles.ConvertLayoutOp,)) or _rule(type(op)) is not None


def make_explicit(op: Operation, kernel: Kernel, room: int) -> list[tiles.ConvertLayoutOp]:
    """Make the conversions around an op, and say how its elements go otherwise; the conversions."""
    rule = _rule(type(op))
    if rule is None or not _are_laid_out(op):
        return []
    around = Around(op, kernel, room)
    rule(around)
    return around.made


def _are_laid_out(op: Operation) -> bool:
    """Whether an op is one on tiles with layouts: storage has none to convert, and what lacks one is refused."""
    values = [v for v in (*op.operands, *op.results) if isinstance(v.type, TensorType)]
    # Accesses have pointers and views beside their tiles.
    named = () if is_subclass(type(op), HANDING_OUT) else (*sources_of(op)[:1], *op.results[:1])
    tiles_only = all(isinstance(v.type, TensorType) for v in named)
    return tiles_only and all(
        isinstance(v.type, TensorType) and isinstance(v.type.encoding, LayoutAttr) for v in values
    )


# -- renaming ---------------------------------------------------------------------------------------------------------


def _view(a: Around) -> None:
    """The result of a change of shape is where the source is."""
    source, result = source_of(a.op), a.op.results[0]
    held, shape = layout_of(source), shape_of(result.type)
    if shape and held.outs:
        a.result(reshaped(held, shape))


def _reinterpret(a: Around) -> None:
    """Another layout, too, as long as each thread has what it says."""
    from libtile.atoms.conversions import is_kept

    source, result = source_of(a.op), a.op.results[0]
    held, shape = layout_of(source), shape_of(result.type)
    if not shape or not held.outs:
        return
    natural = reshaped(held, shape)
    if not is_kept(natural, layout_of(result), a.kernel.warp_bits):
        a.result(natural)


def _renamed(a: Around) -> None:
    """The source where the result wants it: both were laid out so, unless by hand."""
    op = a.op
    assert isinstance(op, aa.Unary)
    source, result = layout_of(op.source), layout_of(op.result)
    if not source.outs or not result.outs or not source.out_bits:
        return
    wanted = source_layout(op, result)
    if wanted is not None and wanted != source:
        a.operand(0, wanted)


def _bitcast(a: Around) -> None:
    """Numbers of one width are the same registers seen in another way. What is packed is in the layout that the
    result's has before, so that every thread holds whole groups."""
    from libtile.codegen import packing

    op = a.op
    assert isinstance(op, BitcastOp)
    if op.packed is None:
        if all(isinstance(v.type, TensorType) and v.type.element_type in NUMBER_NAMES for v in (op.source, op.result)):
            a.take_place(tiles.ReinterpretOp.make(op.source, results=[op.result.type], location=op.location))
        return
    source, result = element_name(op.source), element_name(op.result)
    if (source == "i8") == (result == "i8"):
        return  # emission refuses it
    regroup, back = packing.unpacked_layout, packing.packed_layout
    if result != "i8":
        regroup, back = back, regroup
    element = source if result == "i8" else result
    before = regroup(layout_of(op.result), element)
    if before is not None:
        a.operand(0, before)
    made = back(layout_of(op.source), element)
    if made is not None:
        a.result(made)


def _cat(a: Around) -> None:
    op = a.op
    assert isinstance(op, aa.CatOp)
    layout = layout_of(op.lhs)
    a.operand(1, layout)
    a.result(parts.cat_layout(layout, integer_of(op.dim)))


def _insert(a: Around) -> None:
    op = a.op
    assert isinstance(op, aa.InsertSliceOp)
    layout = layout_of(op.destination)
    a.operand(0, shrunk(layout, shape_of(op.source.type)))
    a.result(layout)


def _insert_anywhere(a: Around) -> None:
    """The part goes through shared memory, where each thread finds the elements that it replaces."""
    op = a.op
    assert isinstance(op, tiles.InsertSliceOp)
    _by_rows(a, op.source)
    a.result(layout_of(op.destination))


def _by_rows(a: Around, value: SSAValue) -> None:
    """A tile is stored row by row, and its elements are loaded one by one."""
    layout, size = layout_of(value), element_bytes(value)
    way = shared_way(layout, layout, row_major(layout.shape), size, a.kernel)
    set_ways(a.op, [conversion_by(replace(way, load=SharedAccess(VECTOR, size)))])


# -- parts ------------------------------------------------------------------------------------------------------------


def _extract(a: Around) -> None:
    """A part whose number is known is a slice."""
    op = a.op
    assert isinstance(op, aa.ExtractOp)
    whole, shape = shape_of(op.source.type), shape_of(op.result.type)
    if not whole:
        return
    if shape == whole:
        made = tiles.ConvertLayoutOp.make(op.source, results=[op.result.type], location=op.location)
        a.made.append(made)
        a.take_place(made)
        return
    part = shape or (1,) * len(whole)
    _take_part(a, part)
    numbers = [constant_of(v) for v in op.indices]
    known = [n for n in numbers if n is not None]
    if len(known) < len(numbers) or not shape:
        return
    # An index beyond the tile gives anything: take it modulo the number of parts.
    offsets = _integers([n % (w // p) * p for n, w, p in zip(known, whole, part)])
    slice_op = tiles.ExtractSliceOp.make(op.source, (), results=[op.result.type], offsets=offsets, location=op.location)
    slice_op.attributes[WAYS] = op.attributes[WAYS]
    a.take_place(slice_op)


@dataclass(frozen=True)
class TakenPart:
    """How a part is taken out of a tile: that comes in `source`, the part leaves in `result`; in registers, or by a
    `way` through shared memory."""

    source: LinearLayout
    result: LinearLayout
    way: SharedWay | None


def taken_part(
    layout: LinearLayout, part: Sequence[int], wanted: LinearLayout, size: int, kernel: Kernel, room: int
) -> TakenPart:
    """How to take a part of a shape, for a layout that is wanted, out of a tile of elements of `size` bytes: in
    registers where these tell parts apart, or where the tile is too large for an exchange in `room` bytes."""
    from libtile.atoms.shared_accesses import reduced
    from libtile.codegen.shapes import embedded, part_offsets

    bits = parts.part_bits(layout, part)
    if padded(size * prod(layout.shape)) > piece_bytes(room):
        layout = parts.in_registers(layout, bits)
    if parts.are_told_apart(layout, bits):
        return TakenPart(layout, parts.part_layout(layout, part), None)
    target, warps = embedded(wanted, layout), kernel.warp_bits
    shared, _ = conflict_free_shared(reduced(layout, warps), reduced(target, warps), size)
    moved = _union(part_offsets(shared, bits))
    return TakenPart(layout, wanted, shared_way(layout, target, shared, size, kernel, moved))


def _take_part(a: Around, part: tuple[int, ...]) -> None:
    """Bring the tile of an extraction to where a part of a shape is taken from, and say how."""
    source, result = source_of(a.op), a.op.results[0]
    size = element_bytes(source)
    found = taken_part(layout_of(source), part, layout_of(result), size, a.kernel, a.room)
    a.operand(0, found.source)
    if found.way is not None:
        set_ways(a.op, [conversion_by(found.way)])
        return
    a.result(found.result if shape_of(result.type) else reshaped(found.result, ()))
    set_ways(a.op, [ConversionAttr(Conversion.REGISTERS.value)])


def _slice(a: Around) -> None:
    """A part of those that the tile can be cut into, or one at any place, which is taken from rows."""
    op = a.op
    shape = shape_of(op.results[0].type)
    if is_part(op):
        _take_part(a, shape)
    else:
        _by_rows(a, source_of(op))


def _union(offsets: Sequence[int]) -> int:
    found = 0
    for offset in offsets:
        found |= offset
    return found


def _integers(values: Sequence[int]) -> DenseArrayBase:
    return DenseArrayBase.from_list(i64, list(values))


# -- products ---------------------------------------------------------------------------------------------------------


def product_slices(shapes: Sequence[Sequence[int]], element_bytes: Sequence[int], room: int) -> int:
    """How many slices along K operands of these shapes, of elements of so many bytes, are cut into, so that one finds
    room in shared memory."""
    depth = shapes[0][-1]
    sizes = [size * prod(shape) for size, shape in zip(element_bytes, shapes)]
    most, count = min(OPERAND_BYTES, room), 1
    while sum(sizes) > count * most and count < depth:
        count *= 2
    return count


def sliceable(layout: LinearLayout, dim: int, count: int) -> LinearLayout:
    """A layout near this one whose registers tell so many slices along a dimension apart."""
    size, rank = layout.shape[dim], len(layout.shape)
    wanted = [tuple(size >> i + 1 if d == dim else 0 for d in range(rank)) for i in range(count.bit_length() - 1)]
    return parts.in_registers(layout, wanted)


def _dot(a: Around) -> None:
    """Tensor cores take fragments as they are; the operands of single products are staged."""
    op = a.op
    assert isinstance(op, DotOp)
    if op.atom.kind != FMA:
        return
    operands = [op.a, op.b]
    count = product_slices([shape_of(v.type) for v in operands], [element_bytes(v) for v in operands], a.room)
    if count == 1:
        _stage(op, a.kernel)
        return
    rank = len(shape_of(op.a.type))
    dims = rank - 1, rank - 2
    for number, (value, dim) in enumerate(zip(operands, dims)):
        a.operand(number, sliceable(layout_of(value), dim, count))
    total = op.c
    for number in range(count):
        sides = [_slice_along(a, value, dim, count, number) for value, dim in zip((op.a, op.b), dims)]
        made = DotOp.create(
            operands=[*sides, total, *op.group("sfa"), *op.group("sfb")],
            result_types=[op.result.type],
            properties=dict(op.properties),
            attributes=dict(op.attributes),
        )
        made.location = op.location
        a.insert(made)
        _stage(made, a.kernel)
        total = made.result
    a.replace(total)


def _slice_along(a: Around, value: SSAValue, dim: int, count: int, number: int) -> SSAValue:
    """One of so many slices of an operand along a dimension, whose registers tell them apart."""
    shape = [s // count if d == dim else s for d, s in enumerate(shape_of(value.type))]
    layout = parts.part_layout(layout_of(value), shape)
    assert isinstance(value.type, TensorType)
    type_ = TensorType(value.type.element_type, shape, LayoutAttr(layout))
    offsets = _integers([number * s if d == dim else 0 for d, s in enumerate(shape)])
    made = tiles.ExtractSliceOp.make(value, (), results=[type_], offsets=offsets, location=_location(a.op))
    set_ways(made, [ConversionAttr(Conversion.REGISTERS.value)])
    return a.insert(made).results[0]


def staged(
    acc: LinearLayout, operands: Sequence[LinearLayout], sizes: Sequence[int], kernel: Kernel
) -> tuple[list[SharedWay], int]:
    """How the operands of a product of single elements, of so many bytes, go to shared memory and from there; and how
    many steps along K a thread reads at a time."""
    from libtile.atoms.shared_accesses import reduced
    from libtile.codegen import mma

    depth, held = operands[0].shape[-1], acc.in_size(REGISTER)
    steps = max(min(depth, MOST_STEPS, BODY_PRODUCTS // max(held, 1)), 1)
    ways = []
    for side, (layout, size) in enumerate(zip(operands, sizes)):
        part = mma.operand_part(acc, layout.shape, steps, side)
        shared, _ = conflict_free_shared(reduced(layout, kernel.warp_bits), reduced(part, kernel.warp_bits), size)
        moved = _union(mma.step_offsets(shared, layout.shape, steps, side))
        ways.append(shared_way(layout, part, shared, size, kernel, moved))
    return ways, steps


def _stage(op: DotOp, kernel: Kernel) -> None:
    operands = [op.a, op.b]
    ways, steps = staged(
        layout_of(op.c), [layout_of(v) for v in operands], [element_bytes(v) for v in operands], kernel
    )
    set_ways(op, [conversion_by(way) for way in ways])
    op.attributes[STEPS_AT_ONCE] = IntegerAttr(steps, i64)


# -- owners -----------------------------------------------------------------------------------------------------------


def handed_out(layout: LinearLayout, size: int, kernel: Kernel) -> Handed:
    """How owners hand out elements of `size` bytes to those who hold copies in a layout."""
    kind = hand_out_way(layout, kernel.warp_bits)
    return kind if kind is not Conversion.SHARED else shared_way(layout, layout, row_major(layout.shape), size, kernel)


def _owners(a: Around) -> None:
    """What owners of elements got, others hold, too."""
    if not hands_out(a.op):
        return
    value = a.op.results[0]
    if isinstance(a.op, AllocaOp):
        found = handed_out(scalar_layout(a.kernel.warps), STORAGE_BYTES["i64"], a.kernel)
    else:
        found = handed_out(layout_of(value), element_bytes(value), a.kernel)
    set_ways(a.op, [conversion_by(found) if isinstance(found, SharedWay) else ConversionAttr(found.value)])


_RULES: tuple[tuple[tuple[type[Operation], ...], Callable[[Around], None]], ...] = (
    ((tiles.ViewOp, tiles.ExpandDimsOp), _view),
    ((tiles.ReinterpretOp,), _reinterpret),
    ((aa.ViewOp, aa.ExpandDimsOp, aa.PermuteOp, aa.BroadcastOp), _renamed),
    ((BitcastOp,), _bitcast),
    ((aa.CatOp,), _cat),
    ((aa.ExtractOp,), _extract),
    ((aa.InsertSliceOp,), _insert),
    ((aa.ExtractSliceOp, tiles.ExtractSliceOp), _slice),
    ((tiles.InsertSliceOp,), _insert_anywhere),
    ((DotOp,), _dot),
    (HANDING_OUT, _owners),
)
"""What is made around the ops of which classes."""
