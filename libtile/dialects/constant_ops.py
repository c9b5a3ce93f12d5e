# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ops that make constants, for types of all three dialects."""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import IndexType, IntegerType, TensorType
from xdsl.ir import Attribute, Operation

from libtile.dialects import arith
from libtile.dialects.constants import Elements, as_signed, integer_bits
from libtile.dialects.cuda_tile.attributes import DenseElementsAttr
from libtile.dialects.cuda_tile.ops import build
from libtile.dialects.cuda_tile.types import NUMBER_NAMES, TileType
from libtile.ir.numbers import integer
from libtile.spec import default_spec


def has_constants(type_: TileType) -> bool:
    """Whether cuda_tile has constants of a type: there are none of pointers and of i4."""
    return NUMBER_NAMES.get(type_.element_type) in default_spec().constraints["number_tile"].elements


def constant_op(elements: Elements, type_: Attribute) -> list[Operation]:
    """Ops that make a constant, of which the last one has it as its result; none for a type that has no constants."""
    if isinstance(type_, TileType):
        if not has_constants(type_):
            return []
        if len(elements) not in (1, prod(type_.shape)):
            raise ValueError(f"{len(elements)} elements do not fill a tile of shape {type_.shape}")
        return [build("constant", {}, [type_], {"value": _dense(elements, type_)})]
    if isinstance(type_, IntegerType | IndexType):
        return [_scalar(elements[0], type_)]
    if not isinstance(type_, TensorType) or not isinstance(type_.element_type, IntegerType):
        return []
    from libtile.dialects.nv_tileaa.shapes import ConstantOp, SplatOp  # loaded where there is such a type

    if len(elements) == 1:
        scalar = _scalar(elements[0], type_.element_type)
        return [scalar, SplatOp.make(scalar.results[0], results=[type_])]
    shape = tuple(type_.get_shape())
    return [ConstantOp.make(results=[type_], value=_dense(elements, TileType(shape, type_.element_type)))]


def _scalar(number: int, type_: IntegerType | IndexType) -> Operation:
    bits = integer_bits(type_)
    assert bits is not None  # what the type is
    return arith.ConstantOp(integer(number if bits == 1 else as_signed(number, bits), type_), type_)


def _dense(elements: Elements, type_: TileType) -> DenseElementsAttr:
    width = DenseElementsAttr(type_, b"").element_bytes
    return DenseElementsAttr(type_, b"".join(element.to_bytes(width, "little") for element in elements))
