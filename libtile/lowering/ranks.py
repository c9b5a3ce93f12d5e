# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`ranks`: on a select by whether a number of a thread's, the same for all of its elements, is more than constants.

The constants are those of its registers, in their order. Then bits of words say which of them the number exceeds, and
elements are chosen in the order of these bits, which is quicker than as many comparisons (`codegen.compare`).
"""

from __future__ import annotations

from xdsl.dialects.builtin import DenseArrayBase, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from libtile.codegen.compare import ALWAYS
from libtile.dialects.arith import CmpiOp, SelectOp
from libtile.dialects.nv_tileaa.shapes import integers_of
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.layouts import REGISTER

RANKS = "ranks"
_GREATER = 4
"""`sgt`, by the number of the predicate."""


def are_ranks(op: Operation, attr: Attribute) -> bool:
    """Whether an op chooses by a number that is compared with constants, and they are as many as its registers."""
    if not isinstance(op, SelectOp) or not isinstance(attr, DenseArrayBase):
        return False
    condition, ranks = op.cond.owner, integers_of(attr)
    compares = isinstance(condition, CmpiOp) and condition.predicate.value.data == _GREATER
    return compares and len(ranks) == registers_of(op.result.type) and min(ranks) >= ALWAYS


def number_and_ranks(op: SelectOp) -> tuple[SSAValue, tuple[int, ...]] | None:
    """The number that an op chooses by, and its constants, if it is to be done so."""
    condition, ranks = op.cond.owner, op.attributes.get(RANKS)
    return (condition.lhs, integers_of(ranks)) if isinstance(condition, CmpiOp) and ranks is not None else None


def registers_of(type_: Attribute) -> int:
    """Registers of a thread that a tile with a layout takes, one for each element; 0 for anything else."""
    layout = type_.encoding if isinstance(type_, TensorType) else None
    return layout.layout.in_size(REGISTER) if isinstance(layout, LayoutAttr) else 0
