# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How a loaded tile becomes an operand of a product: by ops that a copy by TMA takes over. They move no element, and at
most round f32 to tf32, which TMA does where the tensor map says so."""

from __future__ import annotations

from collections.abc import Collection

from xdsl.ir import Attribute, Block, Operation, SSAValue

from libtile.dialects.cuda_tile.types import NUMBER_NAMES
from libtile.dialects.nv_tileaa.pointers import FpToFpOp
from libtile.dialects.nv_tileaa.shapes import ExpandDimsOp, PermuteOp, ViewOp, integers_of
from libtile.dialects.nv_tileas.memory import TiledLoadOp
from libtile.dialects.nv_tileas.tiles import ConvertLayoutOp
from libtile.ir.operands import source_of
from libtile.ir.tile_form import element_of, shape_of
from libtile.lowering.tileas.copies.tma_operands import Unfit
from libtile.lowering.tileas.pipelines.schedule import ACCUMULATOR
from libtile.support.records import dataclass

NEAREST = ("nearest_even", "nearest_away")
"""Roundings to the nearest number. Which of two equally near ones TMA takes is not published."""


@dataclass(frozen=True)
class OperandPath:
    """The load, the ops behind it up to the operand (and the load itself), the last one first, and the load's dimension
    for each of the operand's, behind those of size 1."""

    load: TiledLoadOp
    ops: tuple[Operation, ...]
    order: tuple[int, ...]
    element: Attribute
    """The type of the elements that the operand has: the load's, or tf32."""


def operand_path(
    operand: SSAValue,
    blocks: Collection[Block | None],
    what: str,
    where: str = "",
    products: Collection[Operation] = (),
    *,
    shared: bool = False,
) -> OperandPath:
    """Where an operand, which `what` calls it in reasons, comes from; Unfit where that is no load by a view in one of
    the blocks (which is `where`), or a tile that something else uses as well: something but `products`, if there are
    any that may share it, unless it may be `shared` with all."""
    value, path = operand, list[Operation]()
    steps: list[PermuteOp] = []
    rank = len([n for n in shape_of(value.type) if n != 1])
    while True:
        if not (shared or value.has_one_use() or (products and is_read_by(value, products))):
            raise Unfit(what + "is used by more than the product")
        op = value.owner
        if not isinstance(op, Operation):
            break
        path.append(op)
        if isinstance(op, PermuteOp):
            steps.append(op)
        elif not _renames(op):
            break
        value = source_of(op)
    load = value.owner
    if not isinstance(load, TiledLoadOp) or any(op.parent not in blocks for op in path):
        raise Unfit(what + "is not loaded by a view as it is" + where)
    shape = shape_of(load.value.type)
    wide = [d for d, n in enumerate(shape) if n != 1]
    if len(wide) != 2 or rank != 2:
        raise Unfit(what + "is no matrix")
    places = list(range(len(wide)))
    for permute in steps:
        places = [_without_ones(permute)[d] for d in places]
    ones = [d for d, n in enumerate(shape) if n == 1]
    return OperandPath(load, tuple(path), (*ones, *(wide[d] for d in places)), element_of(operand.type))


def _renames(op: Operation) -> bool:
    """Whether an op leaves elements where they are, or rounds them as TMA does."""
    return isinstance(op, ConvertLayoutOp | ExpandDimsOp) or _drops_ones(op) or rounds_to_tf32(op)


def is_read_by(value: SSAValue, products: Collection[Operation]) -> bool:
    """Whether products alone read a tile, and none adds to it, but for ops on its way to them."""
    for use in value.uses:
        op = use.operation
        if op in products:
            if use.index == ACCUMULATOR:
                return False
        elif not (isinstance(op, PermuteOp) or _renames(op)) or not is_read_by(op.results[0], products):
            return False
    return True


def rounds_to_tf32(op: Operation) -> bool:
    """Whether an op rounds f32 to the nearest tf32, as TMA does."""
    if not isinstance(op, FpToFpOp):
        return False
    names = [NUMBER_NAMES[element_of(v.type)] for v in (op.source, op.result)]
    return names == ["f32", "tf32"] and (op.rounding_mode is None or op.rounding_mode.keyword in NEAREST)


def _drops_ones(op: Operation) -> bool:
    """Whether an op only adds or takes away dimensions of size 1."""
    if not isinstance(op, ViewOp):
        return False
    before, after = ([n for n in shape_of(v.type) if n != 1] for v in (op.source, op.result))
    return before == after


def _without_ones(op: PermuteOp) -> list[int]:
    """The permutation of the dimensions that have more than one element."""
    shape, order = shape_of(op.source.type), integers_of(op.permutation)
    wide = [d for d, n in enumerate(shape) if n != 1]
    return [wide.index(d) for d in order if shape[d] != 1]
