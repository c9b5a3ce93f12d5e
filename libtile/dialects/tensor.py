# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tensor: what the inner dialects take of MLIR's dialect, the element of a tile as a scalar.

`foreign_ops` completes it, for text, with the ops of xDSL.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import IndexType, TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import AnyAttr, VarConstraint, operand_def, result_def, traits_def, var_operand_def
from xdsl.traits import Pure

from libtile.dialects.interfaces import Folds, NamesMemoryOf, Partial
from libtile.ir.deferred_op import DeferredOp


class ExtractOp(DeferredOp):
    """The element of a tile at a place; undefined outside of it."""

    name = "tensor.extract"
    FORMAT: ClassVar[str | None] = "$tensor `[` $indices `]` attr-dict `:` type($tensor)"

    ELEMENT: ClassVar = VarConstraint("ELEMENT", AnyAttr())

    tensor = operand_def(TensorType.constr(ELEMENT))
    indices = var_operand_def(IndexType)
    result = result_def(ELEMENT)

    traits = traits_def(Pure(), Partial(), Folds("spread"), NamesMemoryOf("tensor", part=True))

    def __init__(self, tensor: SSAValue, indices: Sequence[SSAValue], result_type: Attribute):
        super().__init__(operands=[tensor, indices], result_types=[result_type])


OPS: Sequence[type[DeferredOp]] = (ExtractOp,)
"""All ops of this module."""
