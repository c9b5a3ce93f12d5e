# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Numbers that are known when a kernel is compiled."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, IntegerType
from xdsl.ir import SSAValue

from libtile.dialects import arith, tensor
from libtile.dialects.nv_tileaa.shapes import ConstantOp, ExtractOp, ExtractSliceOp
from libtile.ir.tile_form import element_of, shape_of


def constant_of(value: SSAValue) -> int | None:
    """The number that a scalar is, or the element of a tile of rank 0; None when it is of run time."""
    match value.owner:
        case arith.ConstantOp(value=IntegerAttr() as given):
            return given.value.data
        case arith.IndexCastOp(input=source) | arith.ExtSIOp(input=source) | tensor.ExtractOp(tensor=source):
            return constant_of(source)
        case arith.ExtUIOp() as op:
            number, narrow = constant_of(op.input), element_of(op.input.type)
            assert isinstance(narrow, IntegerType)
            return None if number is None else number & (1 << narrow.width.data) - 1
        case ConstantOp() as op if not shape_of(op.result.type):
            return int.from_bytes(op.value.raw, "little", signed=True)
    return None


def takes_known_part(op: ExtractOp | ExtractSliceOp) -> bool:
    """Whether it is known which part of its source an op takes."""
    return isinstance(op, ExtractSliceOp) or all(constant_of(index) is not None for index in op.indices)
