# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tiles again, in layouts that follow from one of a result, and part by part: what warps that make an operand compute.

A warpgroup beside those that multiply has few registers of a thread: an operand as a whole, what it comes from and the
addresses of both take more. Part by part, each is read, computed and written before the next one:

    %w = copy %raw                            %w0 = copy %raw {offsets = [0, 0]}
    %b = f(%w)                       ->       %b0 = f(%w0)
    copy %b, %stage                           copy %b0, %stage {offsets = [0, 0]}
                                              %w1 = copy %raw {offsets = [32, 0]}; ...

Parts are boxes that registers of the operand's layout tell apart: a thread has the same elements as of the whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd

from xdsl.dialects.builtin import DenseArrayBase, TensorType, i64
from xdsl.ir import Attribute, Block, Operation, SSAValue

from libtile.dialects.nv_tileaa.pointers import BlockTileOp
from libtile.dialects.nv_tileaa.shapes import BroadcastOp, CatOp, ExpandDimsOp, PermuteOp, ViewOp
from libtile.dialects.nv_tileaa.types import TiledViewType
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.dialects.nv_tileas.memory import LoadOp, TiledLoadOp
from libtile.dialects.nv_tileas.tiles import ConvertLayoutOp, CopyOp
from libtile.ir.tile_form import element_of, erase, shape_of
from libtile.layouts import LinearLayout
from libtile.layouts.parts import are_told_apart, part_bits, part_layout
from libtile.lowering.tileas.copies.tma_operands import Unfit
from libtile.lowering.tileas.inserter import Inserter
from libtile.lowering.tileas.pipelines.loop_pipelines import start_copy
from libtile.lowering.tileas.pipelines.schedule import Load
from libtile.lowering.tileas.products.result_parts import (
    Part,
    mark_outside,
    narrow_view,
    properties_of_part,
    source_parts,
)
from libtile.lowering.to_tileas.accesses import numbers
from libtile.lowering.to_tileas.demands import source_layout
from libtile.lowering.to_tileas.shape_layouts import sliced
from libtile.lowering.to_tileas.types import tile_shape

Renaming = (ViewOp, ExpandDimsOp, PermuteOp)
Values = dict[SSAValue, SSAValue]
Carried = dict[tuple[SSAValue, LinearLayout], SSAValue]
"""What stands for tiles that a loop carries, by their layouts."""


def without_conversions(value: SSAValue) -> SSAValue:
    """A tile in the layout in which it was computed."""
    while isinstance(value.owner, ConvertLayoutOp):
        value = value.owner.source
    return value


def sparse_dim(load: Load) -> int | None:
    """The dimension along which numbers choose what a load through a view loads."""
    view = load.accessed.type
    return view.layout.sparse_dim if isinstance(view, TiledViewType) else None


def whole(value: SSAValue) -> Part:
    """All of a tile."""
    shape = shape_of(value.type)
    return Part((0,) * len(shape), shape)


Source = tuple[SSAValue, LinearLayout, Part]
"""A tile that an op takes, the layout in which it wants a part of it, and that part."""


def sources(op: Operation, layout: LinearLayout, part: Part) -> Iterator[Source]:
    """The tiles that an op takes for a part of its result in a layout. Unfit where there is no layout of one, or the
    result is computed as a whole alone. A load through a view takes none but the numbers of rows."""
    if isinstance(op, TiledLoadOp):
        yield from _numbers_of_rows(op, layout, part)
        return
    if isinstance(op, CatOp):
        yield from _joined(op, layout, part)
        return
    parts: Sequence[Part | None] | None
    if part == whole(op.results[0]):
        parts = [whole(v) if tile_shape(v) else None for v in op.operands]
    elif isinstance(op, LoadOp):
        parts = [part if tile_shape(v) else None for v in op.operands]
    else:
        parts = source_parts(op, part)
    if parts is None and isinstance(op, ViewOp):
        box = reshaped_part(part, shape_of(op.result.type), shape_of(op.source.type))
        parts = None if box is None else [box]
    if parts is None:
        raise Unfit(f"'{op.name}' computes no part of its result")
    for operand, taken in zip(op.operands, parts):
        if taken is None or not tile_shape(operand):
            continue
        wanted = source_layout(op, layout, taken.shape) if isinstance(op, (BroadcastOp, *Renaming)) else layout
        if wanted is None:
            raise Unfit(f"'{op.name}' has no layout of its source")
        yield operand, wanted, taken


def _joined(op: CatOp, layout: LinearLayout, part: Part) -> Iterator[Source]:
    """The tiles of a cat that a part of its result lies in, which registers tell apart where these are both."""
    dim, size = op.dim.value.data, shape_of(op.lhs.type)[op.dim.value.data]
    first = part.offsets[dim]
    if part.shape[dim] <= size:
        rest = tuple(n - size * (d == dim and first >= size) for d, n in enumerate(part.offsets))
        yield (op.rhs if first >= size else op.lhs), layout, Part(rest, part.shape)
        return
    half = tuple(size if d == dim else n for d, n in enumerate(part.shape))
    if not are_told_apart(layout, part_bits(layout, half)):
        raise Unfit(f"registers do not tell apart what '{op.name}' joins")
    for tile in (op.lhs, op.rhs):
        yield tile, part_layout(layout, half), Part(part.offsets, half)


def reshaped_part(part: Part, shape: Sequence[int], other: Sequence[int]) -> Part | None:
    """The box of a tile of another shape that has the elements of a part of a tile of a shape, in the order of memory;
    None where these are no box. Sizes are powers of two, and a part begins at a multiple of its own."""
    # A part of a power of two is told by the highest bits of its index along each dimension.
    known: list[int | None] = []
    for offset, size, whole_ in zip(part.offsets, part.shape, shape):
        free, bits = size.bit_length() - 1, whole_.bit_length() - 1
        known += [offset >> n & 1 if n >= free else None for n in reversed(range(bits))]
    offsets, sizes = [], []
    for whole_ in other:
        bits = whole_.bit_length() - 1
        own, known = known[:bits], known[bits:]
        told = [bit for bit in own if bit is not None]
        if any(bit is None for bit in own[: len(told)]):
            return None
        free = bits - len(told)
        offsets.append(sum(bit << n for n, bit in zip(reversed(range(free, bits)), told)))
        sizes.append(1 << free)
    return Part(tuple(offsets), tuple(sizes))


def _numbers_of_rows(op: TiledLoadOp, layout: LinearLayout, part: Part) -> Iterator[Source]:
    view, dim = op.accessed, sparse_dim(op)
    if part != whole(op.value) and not _goes_in_parts(view):
        raise Unfit("a tile is loaded as a whole")
    for operand in op.operands:
        if not tile_shape(operand):
            continue
        if dim is None or op.group("other"):
            raise Unfit("a load takes a tile that is no numbers of rows")
        yield operand, sliced(layout, 1 - dim), part.by((dim,))


def _goes_in_parts(view: SSAValue) -> bool:
    """Whether there is a view of parts of a view's tiles, with an index for each dimension."""
    type_ = view.type
    if not isinstance(type_, TiledViewType) or not isinstance(view.owner, BlockTileOp):
        return False
    return not type_.layout.leading and type_.rank == len(type_.shape)


class Remade:
    """Tiles again, in other layouts, by ops of a loop's body that are cloned in a step, and others in front of it."""

    def __init__(
        self, body: Block, at: Inserter, front: Inserter, buffers: dict[Operation, SSAValue], values: Values,
        carried: Carried | None = None,
    ):  # fmt: skip
        self.body, self.at, self.front, self.buffers, self.values = body, at, front, buffers, values
        self.carried = carried or {}
        self._made: dict[Source, SSAValue] = {}

    def tile(self, value: SSAValue, layout: LinearLayout, part: Part) -> SSAValue:
        """A part of a tile in a layout."""
        key = without_conversions(value), layout, part
        if (found := self._made.get(key)) is None:
            found = self._made[key] = self._tile(*key)
        return found

    def copy(self, load: Load, layout: LinearLayout, buffer: SSAValue, *, cut: bool, part: Part | None = None) -> None:
        """Start copies of what a load gives, or of a part of it, to a buffer, in a layout; the tensor's end may `cut`
        one of them."""
        made = self._tile(load.value, layout, part or whole(load.value)).owner
        assert isinstance(made, TiledLoadOp | LoadOp)
        start_copy(Inserter(self.at.block, self.at.before, load.location), made, {}, buffer, layout, cut=cut)
        erase(made)

    def _tile(self, value: SSAValue, layout: LinearLayout, part: Part) -> SSAValue:
        if (there := self.carried.get((value, layout))) is not None:
            return there
        op, type_ = value.owner, TensorType(element_of(value.type), part.shape, LayoutAttr(layout))
        assert isinstance(op, Operation)
        at = self.at if op.parent is self.body else self.front
        if (buffer := self.buffers.get(op)) is not None:
            offsets = corner(part, whole(value))
            return at.value(CopyOp.make(buffer, results=[type_], offsets=offsets), op.location)
        taken = list(sources(op, layout, part))
        given = {source[0]: self.tile(*source) for source in taken}
        if isinstance(op, CatOp) and len(taken) == 1:
            return given[taken[0][0]]
        operands = [given.get(v, self.values.get(v, v)) for v in op.operands]
        attributes, properties = dict(op.attributes), properties_of_part(op, part)
        if part != whole(value):
            if isinstance(op, TiledLoadOp):
                operands = _narrow(Inserter(at.block, at.before, op.location), op, part, operands)
                attributes |= _divisors_of_part(op, part)
            elif isinstance(op, LoadOp):
                attributes |= _facts_of_part(op, part)
        made = type(op).create(
            operands=operands, result_types=[type_, *(r.type for r in op.results[1:])], properties=properties,
            attributes=attributes,
        )  # fmt: skip
        if isinstance(op, TiledLoadOp) and isinstance(made, TiledLoadOp):
            cut = (d for d, n in enumerate(part.shape) if n != shape_of(value.type)[d])
            mark_outside(made, [d for d in cut if d != sparse_dim(op)])
        return at.value(made, op.location)


def _narrow(at: Inserter, op: TiledLoadOp, part: Part, operands: Sequence[SSAValue]) -> list[SSAValue]:
    """The operands of a load of a part through a view of smaller tiles, by those of the whole."""
    indices = op.group("indices")
    first = list(op.operands).index(indices[0])
    behind = first + len(indices)
    view, moved = narrow_view(at, operands[0], operands[first:behind], part)
    return [view, *operands[1:first], *moved, *operands[behind:]]


def corner(part: Part, whole: Part) -> DenseArrayBase | None:
    """The offsets of a copy of a part; None for the whole."""
    return None if part == whole else DenseArrayBase.from_list(i64, list(part.offsets))


def _facts_of_part(op: LoadOp, part: Part) -> dict[str, Attribute]:
    """What is known of neighbouring pointers of a part."""
    found: dict[str, Attribute] = {}
    for name in ("contiguity", "mask_constancy"):
        if known := numbers(op, name):
            found[name] = DenseArrayBase.from_list(i64, [min(n, size) for n, size in zip(known, part.shape)])
    return found


def _divisors_of_part(op: TiledLoadOp, part: Part) -> dict[str, Attribute]:
    """What divides the indices of a part (`narrow_view`)."""
    known, type_ = numbers(op, "index_divisibility"), op.accessed.type
    assert isinstance(type_, TiledViewType)
    if not known:
        return {}
    found = []
    for d, (divisor, size, offset) in enumerate(zip(known, part.shape, part.offsets)):
        if type_.layout.sparse_dim is not None:
            found.append(divisor if d == type_.layout.sparse_dim else gcd(divisor, offset))
            continue
        stride = type_.traversal_strides[d]
        step = gcd(stride, size)
        found.append(gcd(divisor * (stride // step), offset // step))
    return {"index_divisibility": DenseArrayBase.from_list(i64, found)}
