# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The pass `convert-cuda-tile-to-tileaa`."""

from __future__ import annotations

from xdsl.context import Context as XdslContext
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

import libtile.dialects.nv_tileaa  # noqa: F401  (registers its ops)
from libtile.dialects.cuda_tile.ops import OPS, CudaTileOp
from libtile.dialects.nv_tileaa.attributes import ComputeCapabilityAttr, TargetSpecAttr
from libtile.ir.module_pass import ModulePass
from libtile.ir.places import ops_in
from libtile.ir.tile_form import erase
from libtile.lowering.errors import unsupported
from libtile.lowering.legality import check
from libtile.lowering.to_tileaa import arithmetic, memory, shapes  # noqa: F401  (they register their rules)
from libtile.lowering.to_tileaa.functions import convert_entry, convert_global
from libtile.lowering.to_tileaa.legality import STAGE, TOP_LEVEL
from libtile.support.records import dataclass
from libtile.targets import Target, target


def convert_module(module: Operation, gpu: Target) -> ModuleOp:
    """A new module in nv_tileaa for a verified `cuda_tile.module`; LoweringError for what the target cannot do."""
    ops: list[Operation] = []
    for op in module.regions[0].block.ops if module.regions[0].blocks else ():
        if not isinstance(op, CudaTileOp) or not isinstance(op, TOP_LEVEL):
            raise unsupported(op, "cannot stand in a module that is compiled", gpu.name)
        check(STAGE, op, gpu.name)
        ops.append(convert_entry(op, gpu) if isinstance(op, OPS["entry"]) else convert_global(op))
    result = ModuleOp(ops)
    result.attributes["nv_tileaa.target_spec"] = TargetSpecAttr(ComputeCapabilityAttr(gpu.name))
    result.location = module.location
    return result


@dataclass(frozen=True)
class ConvertCudaTileToTileAAPass(ModulePass):
    """Converts every `cuda_tile.module` to nv_tileaa, arith, math and scf, for the target `gpu_name`."""

    name = "convert-cuda-tile-to-tileaa"
    gpu_name: str = "sm_90"

    def apply(self, ctx: XdslContext, op: ModuleOp) -> None:
        gpu = target(self.gpu_name)
        for inner in ops_in(op.body.block):
            if not isinstance(inner, OPS["module"]):
                continue
            converted = convert_module(inner, gpu)
            op.attributes.update(converted.attributes)
            for new in ops_in(converted.body.block):
                new.detach()
                op.body.block.insert_op_before(new, inner)
            erase(inner)
