# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which ops compute each element of a tile from the elements at the same index."""

from __future__ import annotations

from typing import TypeGuard

from xdsl.ir import Operation

from libtile.dialects.nv_tileaa.arithmetic import ElementwiseOp
from libtile.dialects.nv_tileaa.pointers import AddPtrOp, BitcastOp, FloatConversion, IntToPtrOp, PtrToIntOp
from libtile.dialects.nv_tileaa.tokens import AssumeOp

_DIALECTS = ("arith", "math")
"""Dialects all of whose ops are elementwise."""
_OPS = (ElementwiseOp, FloatConversion, AddPtrOp, AssumeOp, IntToPtrOp, PtrToIntOp)


def is_elementwise(op: Operation) -> bool:
    """Whether an op computes each element of tiles of one shape from the elements at the same index."""
    return isinstance(op, _OPS) or is_plain_bitcast(op) or op.dialect_name() in _DIALECTS


def is_plain_bitcast(op: Operation) -> TypeGuard[BitcastOp]:
    """Whether an op gives each element another type, and does not regroup their bits."""
    return isinstance(op, BitcastOp) and op.packed is None
