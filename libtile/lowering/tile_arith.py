# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ops of arith on tiles. xDSL's own classes of these take scalars only; MLIR's take tensors of any shape."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation
from xdsl.utils.exceptions import VerifyException


class _OnTiles:
    """Overrides the check of xDSL's class: operands and results are scalars, or tiles of one shape."""

    def verify_(self: Operation) -> None:  # type: ignore[misc]
        shapes = {
            tuple(v.type.get_shape()) if isinstance(v.type, TensorType) else None
            for v in (*self.operands, *self.results)
        }
        if len(shapes) != 1:
            raise VerifyException(f"'{self.name}' op expects operands and results of one shape")


class CmpiOp(_OnTiles, arith.CmpiOp):
    """`arith.cmpi` on scalars or tiles."""


class CmpfOp(_OnTiles, arith.CmpfOp):
    """`arith.cmpf` on scalars or tiles."""


class SelectOp(_OnTiles, arith.SelectOp):
    """`arith.select` with a condition for each element."""


class ExtSIOp(_OnTiles, arith.ExtSIOp):
    """`arith.extsi` on scalars or tiles."""


class ExtUIOp(_OnTiles, arith.ExtUIOp):
    """`arith.extui` on scalars or tiles."""


class TruncIOp(_OnTiles, arith.TruncIOp):
    """`arith.trunci` on scalars or tiles."""


__all__ = ["CmpfOp", "CmpiOp", "ExtSIOp", "ExtUIOp", "SelectOp", "TruncIOp"]
