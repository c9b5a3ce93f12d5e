# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""That no barrier is missing where a module did not go through the passes of a level.

A pipeline of somebody's own may lack the passes that put barriers between accesses, or have passes behind them that
move or make accesses. Both passes' analyses are run again on what they left: behind a level's own they ask for nothing.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.lowering.errors import unsupported
from libtile.lowering.tileas.memory.barriers import InsertBarriersPass, places_of_barriers
from libtile.lowering.tileas.memory.shared_barriers import InsertSharedBarriersPass, places_of_shared_barriers
from libtile.targets import Target


def check_barriers(module: ModuleOp, gpu: Target) -> None:
    """LoweringError, with the op and its place, for an access that threads do without having met.

    The module is one that LLVM IR can be made of.
    """
    for function in module.body.block.ops:
        if not isinstance(function, FuncOp) or function.kernel_spec is None:
            continue
        for pass_, what, places in (
            (InsertBarriersPass, "the memory", places_of_barriers(function)),
            (InsertSharedBarriersPass, "bytes of shared memory", places_of_shared_barriers(function)),
        ):
            for op in places:
                how = f"accesses {what} that other threads have, without a barrier, which {pass_.name} puts there"
                raise unsupported(op, how, gpu.name)
