# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`strip-debug-info`: ops forget where they came from, and with that the module its files, scopes and subprograms."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import UNKNOWN_LOC, ModuleOp
from xdsl.ir import Operation

from libtile.ir.module_pass import ModulePass
from libtile.ir.places import ops_of
from libtile.support import remarks, statistics
from libtile.support.records import dataclass
from libtile.transforms import reporting
from libtile.transforms.greedy import functions_in, inner_functions_in


@dataclass(frozen=True)
class StripDebugInfoPass(ModulePass):
    """Take all locations off the ops, of any dialect."""

    name = "strip-debug-info"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        strip_debug_info(op)


def strip_debug_info(root: Operation) -> bool:
    """Take the locations off `root` and all below it; returns whether there were any."""
    changed = False
    if remarks.are_collected():
        for function in (*functions_in(root), *inner_functions_in(root)):
            if known := sum(1 for op in ops_of(function) if op.location != UNKNOWN_LOC):
                reporting.done(function, "DebugInfo", "Function forgets where its ops come from", Ops=known)
    for op in ops_of(root):
        if op.location != UNKNOWN_LOC:
            op.location = UNKNOWN_LOC
            statistics.count("locations stripped")
            changed = True
        for region in op.regions:
            for block in region.blocks:
                for argument in block.args:
                    argument.location = UNKNOWN_LOC
    return changed
