# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sums of products of 8-bit floats that wgmma accumulates with fewer bits than f32 has (about 14): each step's products
are summed by themselves, and then added to f32 accumulators ("promoted").

The products of a step take registers beside the accumulators, so that they are done for some of the rows that each
warpgroup has, or where it has but those of an instruction some columns, after the others:

    t = products of columns 0 to n/2, wait, accumulator 0 += t
    t = products of columns n/2 to n, wait, release the stage, accumulator 1 += t

While one warpgroup adds, the other one multiplies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import IntegerAttr, TensorType, i64
from xdsl.ir import SSAValue

from libtile.atoms import wgmma
from libtile.dialects.cuda_tile.attributes import DenseElementsAttr
from libtile.dialects.cuda_tile.types import TileType
from libtile.dialects.nv_tileaa.arithmetic import OPS
from libtile.dialects.nv_tileaa.shapes import CatOp, ConstantOp
from libtile.dialects.nv_tileas.async_products import WaitDotOp
from libtile.dialects.nv_tileas.tiles import ConvertLayoutOp
from libtile.ir.tile_form import shape_of
from libtile.layouts.parts import cat_layout
from libtile.lowering.tileas.inserter import Inserter
from libtile.lowering.tileas.pipelines.schedule import is_zero
from libtile.lowering.to_tileas.types import element_of, layout_of, with_layout
from libtile.numerics.elements import STORAGE_BYTES
from libtile.support.records import dataclass

MOST_DEPTH = 128
"""Products that are summed with fewer bits before they are promoted."""
LEAST_COLUMNS = 8
"""Of a product by wgmma."""
OTHER_REGISTERS = 40
"""Of a consumer's thread, beside its accumulators and the sums of a step: the loop carries little else."""
ROWS, COLUMNS = 0, 1
"""The dimensions of an accumulator."""


@dataclass(frozen=True)
class Parts:
    """Among how many parts of its rows, and each of these among how many of its columns, an accumulator is divided."""

    rows: int
    columns: int

    @property
    def count(self) -> int:
        return self.rows * self.columns

    def shape(self, whole: Sequence[int]) -> tuple[int, int]:
        """The shape of a part."""
        return whole[ROWS] // self.rows, whole[COLUMNS] // self.columns

    def first(self, number: int, whole: Sequence[int]) -> tuple[int, int]:
        """Where a part begins."""
        rows, columns = self.shape(whole)
        row, column = divmod(number, self.columns)
        return row * rows, column * columns


def parts_that_fit(accumulators: int, free: int, shape: Sequence[int], warps: int) -> Parts | None:
    """Among which parts a step's products are divided, so that those of one take no more than `free` registers of a
    thread beside its accumulators: first of the rows, whose products are the widest ones. None where no parts do."""
    parts, rows = 1, shape[ROWS] * wgmma.GROUP_WARPS // (wgmma.ROWS * warps)
    while accumulators // parts > free:
        parts *= 2
    found = Parts(min(parts, rows), parts // min(parts, rows))
    return found if shape[COLUMNS] % found.columns == 0 and found.shape(shape)[COLUMNS] >= LEAST_COLUMNS else None


def zeros(at: Inserter, whole: SSAValue, parts: Parts, warps: int) -> SSAValue:
    """One of the parts of an accumulator, in which nothing has been summed."""
    shape = parts.shape(shape_of(whole.type))
    assert isinstance(whole.type, TensorType)
    element = whole.type.element_type
    value = DenseElementsAttr(TileType(shape, element), bytes(STORAGE_BYTES[element_of(whole)]))
    type_ = with_layout(TensorType(element, shape), wgmma.accumulator_layout(shape, warps))
    return at.value(ConstantOp.make(results=[type_], value=value))


def add(at: Inserter, a: SSAValue, b: SSAValue) -> SSAValue:
    """The sum of two tiles of one type."""
    return at.value(OPS["addf"].make(a, b, results=[a.type], location=at.location))


def multiplied(
    at: Inserter, sums: Sequence[SSAValue], product: Callable[[int], SSAValue]
) -> tuple[list[SSAValue], SSAValue]:
    """The products of a step within the turn at its stage, each part waited for: all sums but the last one, and the
    last part's products. `product` issues those of a part."""
    done = []
    for number, before in enumerate(sums):
        issued = product(number)
        made = at.value(WaitDotOp.make([issued], results=[[issued.type]], pending=0))
        if number + 1 < len(sums):
            done.append(add(at, before, made))
    return done, made


def joined(at: Inserter, sums: Sequence[SSAValue], whole: SSAValue, parts: Parts) -> SSAValue:
    """The accumulator of its parts, added to what it is before the loop."""
    found = list(sums)
    while len(found) > 1:
        dim = COLUMNS if len(found) > parts.rows else ROWS
        found = [_beside(at, a, b, whole, dim) for a, b in zip(found[::2], found[1::2])]
    return found[0] if is_zero(whole) else add(at, found[0], whole)


def _beside(at: Inserter, a: SSAValue, b: SSAValue, whole: SSAValue, dim: int) -> SSAValue:
    shape = tuple(2 * n if d == dim else n for d, n in enumerate(shape_of(a.type)))
    assert isinstance(a.type, TensorType)
    type_ = with_layout(TensorType(a.type.element_type, shape), cat_layout(layout_of(a), dim))
    made = at.value(CatOp.make(a, b, results=[type_], dim=IntegerAttr(dim, i64)))
    same = type_ == whole.type or shape_of(type_) != shape_of(whole.type)
    return made if same else at.value(ConvertLayoutOp.make(made, results=[whole.type]))
