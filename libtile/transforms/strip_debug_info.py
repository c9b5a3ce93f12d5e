# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`strip-debug-info`: ops forget where they came from, and with that the module its files, scopes and subprograms."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import UNKNOWN_LOC, ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from libtile.ir.places import walk
from libtile.support import statistics
from libtile.support.records import dataclass


@dataclass(frozen=True)
class StripDebugInfoPass(ModulePass):
    """Take all locations off the ops, of any dialect."""

    name = "strip-debug-info"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        strip_debug_info(op)


def strip_debug_info(root: Operation) -> bool:
    """Take the locations off `root` and all below it; returns whether there were any."""
    changed = False
    for op in walk(root):
        if op.location != UNKNOWN_LOC:
            op.location = UNKNOWN_LOC
            statistics.count("locations stripped")
            changed = True
        for region in op.regions:
            for block in region.blocks:
                for argument in block.args:
                    argument.location = UNKNOWN_LOC
    return changed
