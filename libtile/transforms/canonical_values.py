# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Building blocks of the canonical forms: what a constant holds, and making ops in front of another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xdsl.ir import Attribute, Operation, SSAValue

from libtile.dialects.cuda_tile.attributes import DenseElementsAttr
from libtile.dialects.cuda_tile.ops import CudaTileOp, build
from libtile.dialects.cuda_tile.types import NUMBER_TYPES, TileType, bit_width, i1, is_integer


def is_op(op: Operation | None, *names: str) -> bool:
    """Whether the op is one of the dialect's, of one of these names."""
    return isinstance(op, CudaTileOp) and op.spec.name in names


def defining(value: SSAValue, name: str) -> CudaTileOp | None:
    """The op that defines the value, when it is a `name` of the dialect."""
    owner = value.owner
    return owner if isinstance(owner, CudaTileOp) and owner.spec.name == name else None


def constant_value(value: SSAValue) -> DenseElementsAttr | None:
    """The elements of a constant."""
    op = defining(value, "constant")
    attr = op.properties.get("value") if op is not None else None
    return attr if isinstance(attr, DenseElementsAttr) else None


def constant_elements(value: SSAValue) -> frozenset[int] | None:
    """The different elements, as signed numbers, of an integer constant; i1's are 0 and -1."""
    attr = constant_value(value)
    if attr is None or not is_integer(attr.type.element_type):
        return None
    width = bit_width(attr.type.element_type)
    sign = 1 << (width - 1)
    return frozenset(((bits & (2 * sign - 1)) ^ sign) - sign for bits in set(attr.elements()))


def constant_bool(value: SSAValue) -> bool | None:
    """The one value of all elements of an i1 constant."""
    attr = constant_value(value)
    if attr is None or attr.type.element_type != i1:
        return None
    bits = _same_bits(attr)
    return None if bits is None else bool(bits & 1)


def constant_integer(value: SSAValue) -> int | None:
    """The one bit pattern of all elements of an integer constant, unsigned."""
    attr = constant_value(value)
    if attr is None or not is_integer(attr.type.element_type):
        return None
    return _same_bits(attr)


def _same_bits(attr: DenseElementsAttr) -> int | None:
    """The bits of the elements when all are the same."""
    width = attr.element_bytes
    first = attr.raw[:width]
    same = attr.is_splat or attr.raw == first * (len(attr.raw) // width)
    return int.from_bytes(first, "little") if same else None


def stripped_not(value: SSAValue) -> SSAValue | None:
    """What the value is the negation of: the left side of `xori x, true`."""
    op = defining(value, "xori")
    return op.operand("lhs") if op is not None and constant_bool(op.operand("rhs")) is True else None


def create_before(
    place: Operation,
    name: str,
    operands: Mapping[str, SSAValue | Sequence[SSAValue] | None],
    result_types: Sequence[Attribute],
    attributes: Mapping[str, Any] | None = None,
) -> SSAValue:
    """Make an op in front of another, at its location; returns the first result."""
    block = place.parent_block()
    if block is None:
        raise ValueError("an op outside of a block has no place before it")
    op = build(name, operands, result_types, attributes)
    op.location = place.location
    block.insert_op_before(op, place)
    return op.results[0]


def negated(value: SSAValue, place: Operation) -> SSAValue:
    """`xori value, true`, made in front of `place`."""
    type_ = value.type
    if not isinstance(type_, TileType):
        raise TypeError("only a tile can be negated")
    true = create_before(place, "constant", {}, [type_], {"value": DenseElementsAttr(type_, b"\1")})
    return create_before(place, "xori", {"lhs": value, "rhs": true}, [type_])


def selectable(type_: Attribute) -> bool:
    """`select` takes tiles; those of f4E2M1FN are refused by its verifier."""
    return isinstance(type_, TileType) and type_.element_type != NUMBER_TYPES["f4E2M1FN"]


def select_before(place: Operation, condition: SSAValue, if_true: SSAValue, if_false: SSAValue) -> SSAValue:
    """A select over a scalar condition, spread over the values' shape first."""
    type_ = if_true.type
    if not isinstance(type_, TileType):
        raise TypeError("only tiles can be selected")
    if type_.shape:
        ones = TileType((1,) * type_.rank, i1)
        condition = create_before(place, "reshape", {"source": condition}, [ones])
        if ones.shape != type_.shape:
            condition = create_before(place, "broadcast", {"source": condition}, [TileType(type_.shape, i1)])
    operands = {"cond": condition, "val_if_true": if_true, "val_if_false": if_false}
    return create_before(place, "select", operands, [type_])


def replace_op(op: Operation, values: Sequence[SSAValue | None]) -> None:
    """Replace every use of the op's results and erase it; None stands for a result without uses."""
    for result, value in zip(op.results, values):
        if value is not None:
            result.replace_all_uses_with(value)
    op.detach()
    op.erase()
