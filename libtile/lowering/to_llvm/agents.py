# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Agents: ranges of warps that run code of their own, and the barriers at which some warps meet.

Agents take the warps in their order. The first ones, up to the kernel's number of warps, are its workers, in whose
layouts tiles lie; behind an `agent_switch` only these go on. Barrier number n + 1 is that of agent number n, unless an
op names another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from xdsl.ir import Operation

from libtile.codegen import agents, clusters
from libtile.codegen.builder import Agent, Value, integer
from libtile.codegen.llvm_types import I32
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileaa.terminators import ReturnOp
from libtile.dialects.nv_tileas.pipeline import AgentSwitchOp
from libtile.dialects.nv_tileas.tensor_memory import DeallocTensorOp
from libtile.dialects.nv_tileas.tiles import BarrierOp, ClusterBarrierOp, HandOnTurnOp, TakeTurnOp, TurnOfGroup
from libtile.ir.places import ops_of
from libtile.lowering.errors import unsupported
from libtile.lowering.to_llvm.emitter import Emitter, rule

BARRIERS = 16
"""Of a CTA; number 0 is that of all threads."""


def total_warps(function: Operation, workers: int) -> int:
    """How many warps a kernel is launched with: its workers, and the agents beside them."""
    return max([workers, *(sum(op.warps) for op in ops_of(function, AgentSwitchOp))])


@rule(AgentSwitchOp)
def _switch(e: Emitter, op: AgentSwitchOp) -> None:
    b, name = e.b, e.b.target.name
    parent = op.parent_op()
    if not isinstance(parent, FuncOp) or b.agent is not None:
        raise unsupported(op, "stands within another op, and a function parts its agents itself", name)
    if sum(op.warps) * b.target.warp_size != b.cta_threads:
        raise unsupported(op, f"has {sum(op.warps)} warps of the kernel's {b.cta_threads // b.target.warp_size}", name)
    if len(op.warps) >= BARRIERS:
        raise unsupported(op, f"has {len(op.warps)} agents, and there are {BARRIERS - 1} barriers for them", name)
    if op.registers and not b.target.has("setmaxnreg"):
        raise unsupported(op, "has 'agent_registers', which agents of one kernel share there", name)
    shared = _sharing(op)
    rest = op.warps[shared:]
    if op.registers and (sum(rest) % agents.GROUP_WARPS or len({*op.registers[shared:]}) > 1):
        problem = f"has agents of {op.warps} warps, and registers are given to {agents.GROUP_WARPS} at a time"
        raise unsupported(op, problem, name)
    used = sum(32 * w * r for w, r in zip(op.warps, op.registers))
    if used > (launched := _launched_registers(e, parent) * b.cta_threads):  # who waits for more waits for ever
        raise unsupported(op, f"gives its agents {used} registers of {launched}, with which it is launched", name)
    end, first = b.new_block("together"), 0
    warp = agents.uniform(b, b.warp())
    for number, region in enumerate(op.regions):
        agent = Agent(first, op.warps[number], number + 1)
        first += agent.warps
        if op.registers and number == shared:
            agents.set_registers(b, op.registers[number], _launched_registers(e, parent))
        if number + 1 < len(op.regions):
            mine, others = b.new_block("agent"), b.new_block("others")
            b.conditional_branch(b.compare("ult", warp, integer(I32, first)), mine, others)
            b.start(mine)
        with b.as_agent(agent):
            if op.registers and number < shared:
                agents.set_registers(b, op.registers[number], _launched_registers(e, parent))
            with _run_by(e, op.elected[number]):
                e.emit_block(region.block, own=True)
        b.branch(end)
        if number + 1 < len(op.regions):
            b.start(others)
    b.start(end)
    if op.next_op is not None and not isinstance(op.next_op, ReturnOp | DeallocTensorOp | ClusterBarrierOp):
        raise unsupported(op, "is not the last op of its function: agents do not come together again", name)


def _sharing(op: AgentSwitchOp) -> int:
    """The number of the first agent that shares warpgroups with those behind it."""
    return next((n for n, warps in enumerate(op.warps) if warps % agents.GROUP_WARPS), len(op.warps))


def _launched_registers(e: Emitter, function: FuncOp) -> int:
    """Registers of a thread when all warps of the CTA have as many, beside as many CTAs on a multiprocessor as the
    kernel asks for: what they begin with."""
    spec = function.kernel_spec
    blocks = 1 if spec is None else spec.occupancy or 1
    each = e.b.target.registers_per_sm // blocks // e.b.cta_threads
    return min(each // agents.REGISTER_STEP * agents.REGISTER_STEP, e.b.target.registers_per_thread)


@contextmanager
def _run_by(e: Emitter, one: bool) -> Iterator[None]:
    """Emit what one thread of an agent's first warp runs, or all its threads."""
    if not one:
        yield
        return
    b = e.b
    with b.when(b.compare("eq", b.warp(), integer(I32, 0))), agents.one_thread(b):
        e.one_thread = True
        yield
        e.one_thread = False


@contextmanager
def acting_thread(e: Emitter) -> Iterator[None]:
    """Emit what one thread does for all that run this code: always the same one."""
    with nullcontext() if e.one_thread else _run_by(e, True):
        yield


@rule(ClusterBarrierOp)
def _cluster_barrier(e: Emitter, op: ClusterBarrierOp) -> None:
    if not e.b.target.has("cluster"):
        raise unsupported(op, "is of clusters", e.b.target.name)
    if e.b.agent is not None:
        raise unsupported(op, "stands in an agent, and all warps of a CTA meet there", e.b.target.name)
    clusters.meet(e.b)


@rule(BarrierOp)
def _barrier(e: Emitter, op: BarrierOp) -> None:
    number, warps = (None if a is None else a.value.data for a in (op.id, op.num_warps))
    if number is None and warps is None:
        e.b.barrier()
        return
    if number is None or warps is None or not 1 <= number < BARRIERS:
        raise unsupported(op, f"names no barrier from 1 to {BARRIERS - 1} with its number of warps", e.b.target.name)
    e.b.named_barrier(number, warps * e.b.target.warp_size)


@rule(TakeTurnOp)
def _take_turn(e: Emitter, op: TakeTurnOp) -> None:
    own, threads = _turns(e, op)
    first = e.b.compare("eq", own, integer(I32, 0))
    with nullcontext() if op.last is None else e.b.when(first):
        e.b.wait_at_barrier(e.b.add(own, integer(I32, op.id.value.data)), threads)


@rule(HandOnTurnOp)
def _hand_on_turn(e: Emitter, op: HandOnTurnOp) -> None:
    own, threads = _turns(e, op)
    is_last = e.b.compare("eq", own, integer(I32, op.groups.value.data - 1))
    following = e.b.select(is_last, integer(I32, 0), e.b.add(own, integer(I32, 1)))
    with nullcontext() if op.first is None else e.b.when(is_last):
        e.b.arrive_at_barrier(e.b.add(following, integer(I32, op.id.value.data)), threads)


def _turns(e: Emitter, op: TurnOfGroup) -> tuple[Value, int]:
    """The number of this thread's warpgroup, and the threads of the one that waits and the one that hands on."""
    groups, first = op.groups.value.data, op.id.value.data
    each = agents.GROUP_WARPS * e.b.target.warp_size
    if e.b.threads != groups * each:
        raise unsupported(op, f"is run by {e.b.threads} threads, not by {groups} warpgroups", e.b.target.name)
    if first + groups > BARRIERS:
        raise unsupported(op, f"names barriers up to {first + groups - 1}, of {BARRIERS}", e.b.target.name)
    return agents.warpgroup(e.b), 2 * each
