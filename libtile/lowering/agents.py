# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which agent an op is run by, and by how many warps."""

from __future__ import annotations

from xdsl.ir import Operation

from libtile.dialects.nv_tileaa.functions import ExecuteOp
from libtile.dialects.nv_tileas.pipeline import AgentSwitchOp
from libtile.ir.classes import is_subclass
from libtile.targets import Target


def has_agents(gpu: Target) -> bool:
    """Whether a target has what agents that `tileas-specialize` makes consist of: elsewhere kernels stay as they are,
    without a word."""
    return gpu.has("tma")


def feeds_by_threads(gpu: Target) -> bool:
    """Whether warps of a producer can copy what products of registers read: with cp.async, whose copies arrive at
    barrier objects, where nothing copies whole tiles."""
    return gpu.has("mbarrier") and gpu.has("cp_async") and not gpu.has("tma")


def agent_of(op: Operation) -> tuple[AgentSwitchOp | ExecuteOp | None, int]:
    """The op by which agents part, and the number of the one that runs an op; (None, 0) outside of agents."""
    around: Operation | None = op
    while around is not None:
        block = around.parent
        region = None if block is None else block.parent
        around = None if region is None else region.parent
        if around is not None and is_subclass(type(around), _PARTING):
            assert isinstance(around, AgentSwitchOp | ExecuteOp) and region is not None
            return around, around.regions.index(region)
    return None, 0


_PARTING = (AgentSwitchOp, ExecuteOp)


def is_elected(op: Operation) -> bool:
    """Whether one thread of an agent runs an op, which nobody else of the agent has to meet."""
    switch, number = agent_of(op)
    return isinstance(switch, AgentSwitchOp) and bool(switch.elected[number])


def warps_of(op: Operation, workers: int) -> int:
    """How many warps run an op; outside of agents it is laid out for the kernel's `workers`."""
    switch, number = agent_of(op)
    return switch.warps[number] if isinstance(switch, AgentSwitchOp) else workers
