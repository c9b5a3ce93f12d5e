# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products of what a stage of a pipeline holds: those that a warpgroup can compute from shared memory, so that their
results lie in whole rows of warps. Whether stages lie as its instruction reads them is seen later."""

from __future__ import annotations

from xdsl.ir import Block, Operation, Region, SSAValue

from libtile.atoms import tcgen05, wgmma
from libtile.atoms.operand_types import accumulator_type, ptx_type
from libtile.dialects import scf
from libtile.dialects.nv_tileaa.attributes import keyword_of
from libtile.dialects.nv_tileaa.collectives import DotOp
from libtile.dialects.nv_tileas.pipeline import AgentSwitchOp, ConsumerReadOp
from libtile.ir.places import ops_of
from libtile.ir.tile_form import shape_of
from libtile.lowering.agents import agent_of
from libtile.lowering.to_tileas.products import tensor_memory_atom
from libtile.lowering.to_tileas.types import element_of
from libtile.targets import Target

WARPS = (wgmma.GROUP_WARPS, 2 * wgmma.GROUP_WARPS)
"""Of agents that are one or two warpgroups."""


def products_of_stages(agent: Region, gpu: Target, warps: int) -> frozenset[Operation]:
    """The products of an agent of so many warps whose operands are what a stage holds, and that have a wgmma."""
    if not gpu.has("wgmma") or warps not in WARPS:
        return frozenset()
    return frozenset(op for op in ops_of(agent, DotOp) if all(map(_is_of_stage, (op.a, op.b))) and _fits(op, gpu))


def tensor_products_of_stages(function: Operation, gpu: Target) -> list[DotOp]:
    """The products in agents of a function whose operands are what a stage holds, that add to what a loop carries, and
    whose results may lie in tensor memory: their layouts, and who fills the stages, say the rest."""
    if not gpu.has("tcgen05"):
        return []
    return [op for op in ops_of(function, DotOp) if _may_lie_there(op, gpu)]


def _may_lie_there(op: DotOp, gpu: Target) -> bool:
    switch, number = agent_of(op)
    carried = op.c.owner.parent_op() if isinstance(op.c.owner, Block) else None
    if not isinstance(switch, AgentSwitchOp) or not isinstance(carried, scf.ForOp):
        return False
    if not all(map(_is_of_stage, (op.a, op.b))) or tensor_memory_atom(op, gpu) is None:
        return False
    return tcgen05.are_loaded_by(shape_of(op.result.type), switch.warps[number])


def _is_of_stage(value: SSAValue) -> bool:
    return isinstance(value.owner, Block) and isinstance(value.owner.parent_op(), ConsumerReadOp)


def _fits(op: DotOp, gpu: Target) -> bool:
    (*batches, m, k), (*_, n) = shape_of(op.a.type), shape_of(op.b.type)
    signs = (op.signedness_a, op.signedness_b)
    a, b = (ptx_type(element_of(v), keyword_of(s, "signed") == "signed") for v, s in zip((op.a, op.b), signs))
    return not batches and wgmma.find(gpu, a, b, accumulator_type(element_of(op.c)), m, n, k) is not None
