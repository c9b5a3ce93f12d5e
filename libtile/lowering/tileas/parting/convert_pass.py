# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The pass `convert-tileaa-to-tileas`. What looks ahead at agents, for functions with products, is `convert`."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from libtile.dialects.nv_tileaa.collectives import DotOp, ScaledDotOp
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.ir.module_pass import ModulePass
from libtile.ir.places import ops_of
from libtile.lowering.to_tileas.conversion import convert_function, convert_module
from libtile.support.records import dataclass


@dataclass(frozen=True)
class ConvertTileAAToTileASPass(ModulePass):
    """Chooses a layout for every tile, and converts where layouts meet; products of packed operands take the bytes."""

    name = "convert-tileaa-to-tileas"
    whole_rows: bool = False
    for_agents: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        convert_module(op, self._converted)

    def _converted(self, function: FuncOp) -> FuncOp:
        if not ops_of(function, DotOp, ScaledDotOp):
            return convert_function(function)
        from libtile.lowering.tileas.parting.convert import convert_products

        return convert_products(function, whole_rows=self.whole_rows, for_agents=self.for_agents)
