# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`tileas-materialize-schedule`: a loop with a schedule becomes one whose loads come through a pipeline.

`loop_pipelines` does it, and says how; it is loaded where there is a schedule.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.ir.module_pass import ModulePass
from libtile.ir.places import ops_of
from libtile.lowering.discardable import STAGES
from libtile.support import statistics
from libtile.support.records import dataclass
from libtile.targets import Target, target


@dataclass(frozen=True)
class MaterializeSchedulePass(ModulePass):
    """Make pipelines of the loops that have a schedule."""

    name = "tileas-materialize-schedule"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.body.block.ops:
            if isinstance(inner, FuncOp) and inner.kernel_spec is not None and inner.kernel_spec.target is not None:
                materialize(inner, target(inner.kernel_spec.target))


def materialize(function: FuncOp, gpu: Target) -> None:
    """Make the pipelines of one function."""
    scheduled = [op for op in ops_of(function) if STAGES in op.attributes]
    statistics.count("pipelines made", len(scheduled))
    if not scheduled:
        return
    from libtile.lowering.tileas.cleanup import drop_unused
    from libtile.lowering.tileas.pipelines.loop_pipelines import Pipeline

    for loop in reversed(scheduled):  # inner ones first: an outer loop is made anew with them in it
        Pipeline(loop, gpu).make()
    drop_unused(function.body.block)
