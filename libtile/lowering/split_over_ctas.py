# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`split-over-ctas`: the CTAs of a cluster compute halves of a tile block's tiles.

`tile_halves` does it, and says how; it is loaded where there is a kernel for a cluster.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.ir.module_pass import ModulePass
from libtile.support.records import dataclass


@dataclass(frozen=True)
class SplitOverCtasPass(ModulePass):
    """Halve the tiles of kernels for clusters of two CTAs, or make them kernels for one CTA."""

    name = "split-over-ctas"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.body.block.ops:
            if isinstance(inner, FuncOp) and inner.kernel_spec is not None and inner.kernel_spec.num_ctas > 1:
                from libtile.lowering.tile_halves import split

                split(inner)
