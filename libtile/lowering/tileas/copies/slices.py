# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tensors that begin and end where a program finds out, as one sequence of several that lie one behind the other: how
TMA copies their tiles.

A launch makes tensor maps, and does not know such numbers. The map is that of the array of which the tensor is a slice,
with two dimensions in front, by which a copy of rows from `row` on moves (in elements, s is the stride of rows):

    element [z, y, x, ...] is at base + z * (SPAN - s) + y * s + x * s + ...
    z = LIMIT, y = start + end, x = LIMIT + row - end, for end = min(row + rows, size)

Addresses are of 64 bits, and LIMIT * SPAN elements a multiple of 2**64 bytes, so that z takes LIMIT * s away: row n of
what is copied is row start + row + n of the array. Along x the map ends at LIMIT, which is where the slice ends, so
that hardware reads zeros behind it, and writes nothing. (Triton's "ragged" descriptors are maps of this form.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType, TensorType, i64
from xdsl.ir import Attribute, SSAValue

from libtile.dialects import arith, tensor
from libtile.dialects.nv_tileaa.pointers import AddPtrOp, MakeMemRefOp
from libtile.dialects.nv_tileaa.shapes import SplatOp, ViewOp
from libtile.dialects.nv_tileaa.types import DYNAMIC, MemRefType
from libtile.ir.operands import source_of
from libtile.layouts import OFFSET, LinearLayout
from libtile.layouts.builders import dim_names
from libtile.lowering.tileas.copies.recipes import launched_number
from libtile.lowering.tileas.inserter import Inserter
from libtile.lowering.to_tileas.accesses import element_bytes, numbers
from libtile.support.diagnostics import LoweringError
from libtile.support.records import dataclass
from libtile.targets.tensor_map import MAX_RANK

LIMIT = 1 << 30
SPAN = 1 << 34
FARTHEST = (1 << 31) - 1
"""The largest coordinate."""
MORE = 2
"""Dimensions in front of those of the array."""

_SAME = (tensor.ExtractOp, arith.ExtUIOp, arith.ExtSIOp, arith.IndexCastOp, SplatOp, ViewOp)
"""Ops that give the same number in another type."""


@dataclass(frozen=True)
class Slice:
    """A tensor that is part of an array along a dimension: the array's address, where the part begins along it (a sum,
    each number with whether it has a sign), and how long it is."""

    memref: MakeMemRefOp
    base: SSAValue
    dim: int
    starts: tuple[tuple[SSAValue, bool], ...]
    size: SSAValue | int

    def descriptor_tensor(self, at: Inserter) -> MakeMemRefOp:
        """The array as its tensor map has it."""
        type_ = _type(self.memref)
        sizes, strides = _operands(self.memref)
        stride = strides[self.dim]
        if isinstance(stride, int):
            front: list[SSAValue | int] = [SPAN - stride, stride]
        else:
            span = at.value(arith.ConstantOp(IntegerAttr(SPAN, _scalar(stride.type))))
            front = [at.value(arith.SubiOp(span, stride)), stride]
        sizes[self.dim] = LIMIT
        all_sizes, all_strides = [FARTHEST, FARTHEST, *sizes], [*front, *strides]
        shape, steps = ([DYNAMIC if isinstance(n, SSAValue) else n for n in of] for of in (all_sizes, all_strides))
        base = self.base
        if isinstance(base.type, TensorType):
            base = at.value(tensor.ExtractOp(base, [], base.type.element_type))
        given = [[n for n in of if isinstance(n, SSAValue)] for of in (all_sizes, all_strides)]
        made = MakeMemRefOp.make(base, None, *given, results=[MemRefType(type_.element_type, shape, steps)])
        at.add(made)
        assert isinstance(made, MakeMemRefOp)
        return made

    def corner(self, at: Inserter, corner: Sequence[SSAValue], rows: int) -> list[SSAValue]:
        """Where a tile of so many rows is in that, whose corner is given in the tensor."""

        def number(n: int) -> SSAValue:
            return at.value(arith.ConstantOp(IntegerAttr(n, i64)))

        found = list(corner)
        # A row in front of the tensor is as far from it as one behind.
        row = at.value(arith.MinUIOp(_wide(at, corner[self.dim]), number(FARTHEST)))
        size = number(self.size) if isinstance(self.size, int) else _wide(at, self.size)
        end = at.value(arith.MinSIOp(at.value(arith.AddiOp(row, number(rows))), size))
        found[self.dim] = at.value(arith.SubiOp(at.value(arith.AddiOp(row, number(LIMIT))), end))
        place = end
        for start, signed in self.starts:
            place = at.value(arith.AddiOp(place, _wide(at, start, signed=signed)))
        return [number(LIMIT), place, *found]

    @staticmethod
    def layout(layout: LinearLayout) -> LinearLayout:
        """How a tile lies in shared memory, by the dimensions of the map."""
        names = dim_names(len(layout.shape) + MORE)
        bases = {OFFSET: [(*(0,) * MORE, *vector) for vector in layout.basis(OFFSET)]}
        return LinearLayout.of(bases, dict(zip(names, (*(1,) * MORE, *layout.shape))))


def slice_of(memref: MakeMemRefOp) -> Slice | None:
    """What a tensor is a slice of, where a launch does not know all numbers of it; None for one that it does, and where
    it is no slice that a tensor map has."""
    if is_launched(memref, memref.operands):
        return None
    sizes, strides = _operands(memref)
    if len(sizes) + MORE > MAX_RANK or memref.group("offset") or element_bytes(_type(memref).element_type) < 1:
        return None
    unknown = [d for d, n in enumerate(sizes) if isinstance(n, SSAValue) and not is_launched(memref, [n])]
    if len(unknown) > 1 or not is_launched(memref, [n for n in strides if isinstance(n, SSAValue)]):
        return None
    base = _same(memref.base)
    offset: SSAValue | None = None
    if isinstance(moved := base.owner, AddPtrOp):
        base, offset = moved.base, moved.offset
    if not is_launched(memref, [base]):
        return None
    for dim in unknown or range(len(sizes)):
        starts = [] if offset is None else _starts(memref, offset, strides[dim], signed=True)
        if starts is not None and _is_copied_along(memref, dim):
            return Slice(memref, base, dim, tuple(starts), sizes[dim])
    return None


def _is_copied_along(memref: MakeMemRefOp, dim: int) -> bool:
    """Whether a map can move along a dimension, whose stride has to be below the span."""
    stride, bounds = _type(memref).strides[dim], numbers(memref, "stride_bounds")
    most = stride if stride != DYNAMIC else bounds[dim] if bounds else -1
    return stride != 1 and 0 < most < SPAN


def _starts(
    memref: MakeMemRefOp, offset: SSAValue, stride: SSAValue | int, *, signed: bool
) -> list[tuple[SSAValue, bool]] | None:
    """The numbers of which an offset is the sum, times a stride; None where it is something else."""
    while isinstance(offset.owner, _SAME):
        signed = not isinstance(offset.owner, arith.ExtUIOp)
        offset = source_of(offset.owner)
    op = offset.owner
    if isinstance(op, arith.AddiOp):
        sides = [_starts(memref, v, stride, signed=signed) for v in op.operands]
        return None if sides[0] is None or sides[1] is None else [*sides[0], *sides[1]]
    if not isinstance(op, arith.MuliOp):
        return None
    wanted = _known(memref, stride)
    for one, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        if (found := _known(memref, other)) is not None and found == wanted:
            return [(one, signed)]
    return None


def _known(memref: MakeMemRefOp, value: SSAValue | int) -> object:
    """What a launch knows a number by; None where it does not."""
    if isinstance(value, int):
        return value
    try:
        return launched_number(memref, value)
    except LoweringError:
        return None


def is_launched(memref: MakeMemRefOp, values: Sequence[SSAValue]) -> bool:
    """Whether a launch knows all these numbers."""
    return all(_known(memref, value) is not None for value in values)


def _type(memref: MakeMemRefOp) -> MemRefType:
    type_ = memref.results[0].type
    assert isinstance(type_, MemRefType)
    return type_


def _operands(memref: MakeMemRefOp) -> tuple[list[SSAValue | int], list[SSAValue | int]]:
    """Sizes and strides, those of the type as numbers."""

    def of(known: Sequence[int], given: Iterator[SSAValue]) -> list[SSAValue | int]:
        return [next(given) if n == DYNAMIC else n for n in known]

    type_ = _type(memref)
    return of(type_.shape, iter(memref.group("sizes"))), of(type_.strides, iter(memref.group("strides")))


def _same(value: SSAValue) -> SSAValue:
    while isinstance(value.owner, _SAME):
        value = source_of(value.owner)
    return value


def _scalar(type_: Attribute) -> IndexType | IntegerType:
    assert isinstance(type_, IndexType | IntegerType)
    return type_


def _wide(at: Inserter, value: SSAValue, *, signed: bool = True) -> SSAValue:
    """A number, of 64 bits."""
    if isinstance(value.type, TensorType):
        value = at.value(tensor.ExtractOp(value, [], value.type.element_type))
    type_ = _scalar(value.type)
    if isinstance(type_, IndexType):
        return at.value(arith.IndexCastOp(value, i64))
    if type_.width.data == i64.width.data:
        return value
    return at.value((arith.ExtSIOp if signed else arith.ExtUIOp)(value, i64))
