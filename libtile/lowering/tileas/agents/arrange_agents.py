# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`tileas-arrange-agents`: which warps agents are, so that they can be told apart and be given registers.

Agents of whole warpgroups come first, the others behind them, each in their order. Warps that a kernel has and no agent
becomes are one more agent, which does nothing. Registers are given to warpgroups: agents that share one get the most
that one of them asks for, and warps that do nothing fill the last warpgroup up. Where a target gives all threads of a
kernel the same registers, `REGISTERS_SHARED` says that what agents ask for is left aside.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, ModuleOp, StringAttr, i64
from xdsl.ir import Block, Operation, Region

from libtile.codegen.agents import GROUP_WARPS
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileas.pipeline import AgentSwitchOp, PipelineYieldOp, entries
from libtile.ir.module_pass import ModulePass
from libtile.ir.places import ops_of
from libtile.ir.tile_form import erase
from libtile.support.records import dataclass
from libtile.targets import Target, target

REGISTERS_SHARED = "registers_shared"


@dataclass(frozen=True)
class ArrangeAgentsPass(ModulePass):
    """Put agents of whole warpgroups first, and fill up what is left of the kernel's warps."""

    name = "tileas-arrange-agents"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.body.block.ops:
            if isinstance(inner, FuncOp) and inner.kernel_spec is not None and inner.kernel_spec.target is not None:
                for switch in ops_of(inner, AgentSwitchOp):
                    arrange(switch, inner.kernel_spec.num_warps, target(inner.kernel_spec.target))


def arrange(op: AgentSwitchOp, workers: int, gpu: Target) -> None:
    """Arrange the agents of one op in a kernel of so many worker warps."""
    warps, registers = op.warps, op.registers
    ids, elected = entries(op.agent_ids), entries(op.agent_elected)
    budgets = bool(registers) and gpu.has("setmaxnreg")
    order = sorted(range(len(warps)), key=lambda n: warps[n] % GROUP_WARPS != 0)
    wanted = max(workers, sum(warps))
    if budgets:
        wanted = -(-wanted // GROUP_WARPS) * GROUP_WARPS
    idle = wanted - sum(warps)
    shared = [registers[n] for n in order if warps[n] % GROUP_WARPS] if budgets else []
    given = [max(shared) if warps[n] % GROUP_WARPS else registers[n] for n in order] if budgets else []
    if order == sorted(order) and not idle and given == registers:
        return
    regions = [op.regions[n] for n in order]
    for region in regions:
        op.detach_region(region)
    if idle:
        regions.append(Region(Block([PipelineYieldOp.make(location=op.location)])))
        given += [max(shared, default=min(given))] if budgets else []

    def moved(values: Sequence[int], more: int) -> ArrayAttr[IntegerAttr] | None:
        return _numbers([*(values[n] for n in order), *([more] if idle else [])]) if values else None

    made = AgentSwitchOp.make(
        regions=regions,
        agent_ids=moved(ids, max(ids, default=0) + 1),
        agent_warps=moved(warps, idle),
        agent_registers=_numbers(given) if budgets else None,
        agent_elected=moved(elected, 0),
        location=op.location,
    )
    made.attributes.update(op.attributes)
    if registers and not budgets:
        made.attributes[REGISTERS_SHARED] = StringAttr(f"{gpu.name} gives all threads of a kernel as many")
    _replace(op, made)


def _numbers(values: Sequence[int]) -> ArrayAttr[IntegerAttr]:
    return ArrayAttr([IntegerAttr(n, i64) for n in values])


def _replace(op: Operation, made: Operation) -> None:
    block = op.parent
    assert block is not None
    block.insert_op_before(made, op)
    erase(op)
