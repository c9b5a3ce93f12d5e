# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`tileas-widen-apart`: a narrow tile that several branches make wide is held as it is, and made wide in each of them.

    x = load                                        x = load
    if a { w = fp_to_fp x : f16 -> f32 ; ... }  ->  if a { w = fp_to_fp x {apart} : f16 -> f32 ; ... }
    if b { w = fp_to_fp x : f16 -> f32 ; ... }      if b { w = fp_to_fp x {apart} : f16 -> f32 ; ... }

LLVM would do so once, in front of both: so that what lives from one to the other takes twice as many registers, which
warps of other blocks could have. The words of what is `apart` go through inline PTX, which it does not see through;
ptxas does, and has no instruction for it.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import Operation, SSAValue

from libtile.dialects import scf
from libtile.dialects.cuda_tile.types import NUMBER_NAMES
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileaa.pointers import FpToFpOp
from libtile.dialects.nv_tileaa.shapes import ConstantOp
from libtile.ir.module_pass import ModulePass
from libtile.ir.places import ops_of
from libtile.ir.tile_form import element_of
from libtile.lowering.apart import APART, fills_words
from libtile.numerics.elements import STORAGE_BYTES
from libtile.support import statistics
from libtile.support.records import dataclass


@dataclass(frozen=True)
class WidenApartPass(ModulePass):
    """Hold narrow tiles for several branches, and widen them in each."""

    name = "tileas-widen-apart"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in ops_of(op, FuncOp):
            widen_apart(function)


def widen_apart(function: FuncOp) -> bool:
    """Do so in a function; returns whether any tile is widened apart."""
    widened: dict[SSAValue, list[Operation]] = {}
    for widening in ops_of(function, FpToFpOp):
        if _is_apart(widening):
            widened.setdefault(widening.source, []).append(widening)
    changed = False
    for ops in widened.values():
        if len({op.parent for op in ops}) > 1 and all(map(fills_words, ops)):
            for op in ops:
                op.attributes[APART] = UnitAttr()
            statistics.count("tiles widened apart")
            changed = True
    return changed


def _is_apart(op: FpToFpOp) -> bool:
    """Whether an op of a branch makes a tile wide that is computed, or loaded, in front of the branch: once, as what
    a loop repeats is better made wide in front of it."""
    maker, branch = op.source.owner, op.parent_op()
    if not isinstance(maker, Operation) or isinstance(maker, ConstantOp):
        return False
    if not isinstance(branch, scf.IfOp) or branch.parent is not maker.parent:
        return False
    return _bytes(op.result) > _bytes(op.source)


def _bytes(tile: SSAValue) -> int:
    return STORAGE_BYTES[NUMBER_NAMES[element_of(tile.type)]]
