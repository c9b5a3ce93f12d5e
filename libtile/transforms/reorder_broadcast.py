# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`reorder-broadcast`: what is computed of spread values is computed first, and spread then.

    addi (broadcast x), (broadcast y)    becomes    broadcast (addi x, y)

for every elementwise op whose operands are the same along a dimension. Masks and addresses of tiles of two and more
dimensions are mostly made of such: a row's part and a column's. Ops that are the same along a dimension without being
made by spreading (`analysis.uniformity` finds them, also around loops) are left, with a remark.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from libtile.analysis.uniformity import Uniformity
from libtile.dialects.cuda_tile.elementwise import is_elementwise
from libtile.dialects.cuda_tile.ops import CudaTileOp
from libtile.dialects.cuda_tile.types import TileType
from libtile.dialects.cuda_tile.verify.types import verify_type
from libtile.ir.module_pass import ModulePass
from libtile.ir.places import ops_of
from libtile.support import statistics
from libtile.support.records import dataclass
from libtile.transforms import reporting
from libtile.transforms.canonical_values import constant_value, create_before, defining, is_op, replace_op
from libtile.transforms.greedy import functions_in

_REMARK = "ReorderBroadcast"
Shape = tuple[int, ...]


@dataclass(frozen=True)
class ReorderBroadcastPass(ModulePass):
    """Compute on as few elements as there are different ones, and spread the result."""

    name = "reorder-broadcast"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        reorder_broadcasts(op)


def reorder_broadcasts(root: Operation) -> bool:
    """Do so in every function in `root` (or in `root` itself, when it is one); returns whether anything changed."""
    changed = False
    for function in functions_in(root):
        uniformity = Uniformity(function)
        for op in ops_of(function):
            if isinstance(op, CudaTileOp) and len(op.results) == 1:
                changed |= _move_down(op, uniformity)
    return changed


def _move_down(op: CudaTileOp, uniformity: Uniformity) -> bool:
    """Compute the op on the shape that its operands had before they were spread."""
    type_ = op.results[0].type
    if not isinstance(type_, TileType) or type_.num_elements == 1:
        return False
    if is_op(op, "reshape", "permute"):
        return _move_over(op, type_)
    if not is_elementwise(op):
        return False
    shapes = [_narrow_shape(operand) for operand in op.operands]
    shape = tuple(map(max, zip(*shapes, strict=True)))
    if shape == type_.shape:
        alike = uniformity.of(op.results[0])
        if any(one and extent > 1 for one, extent in zip(alike, shape, strict=True)):
            reason = (
                "an operand is the same along a dimension and is not made by spreading, such as one that a loop carries"
            )
            reporting.missed(op, _REMARK, "Op is computed for equal elements", reason)
        return False
    if any(verify_type(TileType(shape, value.type.element_type)) for value in (*op.operands, op.results[0])):
        return False  # packed elements come in pairs
    operands = [_narrowed(operand, shape, op) for operand in op.operands]
    reporting.done(
        op, _REMARK, "Op is computed before its operands are spread", Shape=list(shape), Of=list(type_.shape)
    )
    _replace(op, operands, TileType(shape, type_.element_type), type_)
    statistics.count("ops computed before they are spread")
    return True


def _narrow_shape(value: SSAValue) -> Shape:
    """The smallest shape of rank as the value's that it can be had in at no cost, to be spread."""
    assert isinstance(value.type, TileType)
    attr = constant_value(value)
    if attr is not None and attr.is_splat:
        return (1,) * value.type.rank
    spread = defining(value, "broadcast")
    source = spread.operand("source").type if spread is not None else value.type
    assert isinstance(source, TileType)
    return source.shape


def _narrowed(value: SSAValue, shape: Shape, place: Operation) -> SSAValue:
    """The value in a shape that is at least its narrow one."""
    assert isinstance(value.type, TileType)
    if value.type.shape == shape:
        return value
    type_ = TileType(shape, value.type.element_type)
    attr = constant_value(value)
    if attr is not None:
        return create_before(
            place, "constant", {}, [type_], {"value": type(attr)(type_, attr.raw[: attr.element_bytes])}
        )
    spread = defining(value, "broadcast")
    assert spread is not None  # as `_narrow_shape` found
    source = spread.operand("source")
    return source if source.type == type_ else create_before(place, "broadcast", {"source": source}, [type_])


def _replace(op: CudaTileOp, operands: Sequence[SSAValue], narrow: TileType, wide: TileType) -> None:
    block = op.parent_block()
    assert block is not None
    made = type(op).create(
        operands=operands,
        result_types=[narrow],
        properties=op.properties.copy(),
        attributes=op.attributes.copy(),
    )
    made.location = op.location
    made.results[0].name_hint = op.results[0].name_hint
    block.insert_op_before(made, op)
    replace_op(op, [create_before(op, "broadcast", {"source": made.results[0]}, [wide])])


def _move_over(op: CudaTileOp, type_: TileType) -> bool:
    """`reshape` and `permute` of a spread tile: of the tile before it is spread."""
    spread = defining(op.operand("source"), "broadcast")
    if spread is None:
        return False
    source = spread.operand("source")
    assert isinstance(source.type, TileType) and isinstance(spread.results[0].type, TileType)
    shape = _moved_shape(op, source.type.shape, spread.results[0].type.shape, type_.shape)
    if shape is None or shape == type_.shape:
        return False
    _replace(op, [source], TileType(shape, type_.element_type), type_)
    statistics.count("ops computed before they are spread")
    return True


def _moved_shape(op: CudaTileOp, source: Shape, spread: Shape, shape: Shape) -> Shape | None:
    """The shape that the op gives the source, so that it can be spread to what the op gives now."""
    if is_op(op, "permute"):
        return tuple(source[number] for number in op.attribute_value("permutation"))
    if all(extent == 1 for extent in source):
        return (1,) * len(shape)
    if [extent for extent in spread if extent > 1] != [extent for extent in shape if extent > 1]:
        return None
    kept = iter(mine for mine, extent in zip(source, spread, strict=True) if extent > 1)
    return tuple(next(kept) if extent > 1 else 1 for extent in shape)
