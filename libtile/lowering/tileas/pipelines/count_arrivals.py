# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`tileas-count-arrivals`: how many arrivals and bytes end a phase of each barrier object of a pipeline.

    full_arrivals, empty_arrivals    on a pipeline: what ends a phase of a stage's `full` and of its `empty` object
    by_threads                       on a pipeline: threads fill its stages with cp.async, and arrive for that, too
    expected_bytes                   on a commit by one thread: the bytes of its turn's copies, told with its arrival
    counted                          on a copy whose bytes a commit tells; any other tells them itself

One thread arrives for each warp, or for an agent whose region one thread runs. Where a turn may copy with cp.async,
each thread arrives once more, when its copies are done. In a pair of CTAs, arrivals are at the leader's barrier
objects, of warps from both; where CTAs of a cluster fill each other's stages, the consumers of all leave a stage.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, UnitAttr, i32
from xdsl.ir import Operation

from libtile.dialects.interfaces import first_name
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileas.pipeline import (
    AgentSwitchOp,
    ConsumerWaitOp,
    CreatePipelineOp,
    ProducerAcquireOp,
    ProducerCommitOp,
    ProducerWriteOp,
)
from libtile.dialects.nv_tileas.tma import LoadOp, TiledLoadOp, TiledTmaLoadOp, TmaOp
from libtile.dialects.nv_tileas.types import BufferType, PipelineType
from libtile.ir.module_pass import ModulePass
from libtile.ir.places import ops_of
from libtile.ir.tile_form import integer_of
from libtile.lowering.agents import agent_of, is_elected
from libtile.lowering.errors import unsupported
from libtile.lowering.tileas.memory.shared_memory import drawn_sides, tile_bytes
from libtile.support.records import dataclass
from libtile.targets import Target, target

FULL, EMPTY, BY_THREADS = "full_arrivals", "empty_arrivals", "by_threads"
EXPECTED, COUNTED = "expected_bytes", "counted"


@dataclass(frozen=True)
class CountArrivalsPass(ModulePass):
    """Write down what ends a phase of the barrier objects of pipelines."""

    name = "tileas-count-arrivals"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.body.block.ops:
            if isinstance(inner, FuncOp) and inner.kernel_spec is not None and inner.kernel_spec.target is not None:
                count_arrivals(inner, inner.kernel_spec.num_warps, target(inner.kernel_spec.target))


def count_arrivals(function: Operation, workers: int, gpu: Target) -> None:
    """Count what arrives at the pipelines of a function with so many warps outside of agents. LoweringError for a
    pipeline whose sides cannot be counted."""
    for op in ops_of(function, CreatePipelineOp, TiledTmaLoadOp, ProducerCommitOp):
        match op:
            case CreatePipelineOp(pipeline=made) if isinstance(made.type, PipelineType) and made.type.has_barriers:
                _check_consumers(op, gpu)
                copies = any(ops_of(write, LoadOp, TiledLoadOp) for write in _writes(op))
                producing = _arrivals(op, ProducerAcquireOp, workers, gpu, copies=copies)
                consuming = _arrivals(op, ConsumerWaitOp, workers, gpu) * integer_of(op.ctas, 1)
                op.attributes |= {FULL: IntegerAttr(producing, i32), EMPTY: IntegerAttr(consuming, i32)}
                op.attributes.pop(BY_THREADS, None)
                if copies:
                    op.attributes[BY_THREADS] = UnitAttr()
            case TiledTmaLoadOp():
                op.attributes.pop(COUNTED, None)  # its turn ends behind it
            case ProducerCommitOp():
                loads = list(_counted_by(op)) if is_elected(op) else []
                op.attributes.pop(EXPECTED, None)
                if loads:
                    op.attributes[EXPECTED] = IntegerAttr(sum(map(copied_bytes, loads)), i32)
                for load in loads:
                    load.attributes[COUNTED] = UnitAttr()
            case _:
                pass


def copied_bytes(op: TmaOp) -> int:
    """The bytes of the tile that a copy moves."""
    type_ = op.group("buffer")[0].type
    assert isinstance(type_, BufferType)
    return tile_bytes(type_)


def _check_consumers(op: CreatePipelineOp, gpu: Target) -> None:
    """LoweringError for a pipeline one of whose consumers never comes, so that no stage is ever free again."""
    waits = [use.operation for use in op.pipeline.uses if isinstance(use.operation, ConsumerWaitOp)]
    there = {integer_of(wait.consumer_idx) for wait in waits}
    assert isinstance(op.pipeline.type, PipelineType)
    missing = [str(n) for n in range(op.pipeline.type.consumers) if n not in there]
    if waits and missing:
        raise unsupported(op, f"is never read by its consumer {', '.join(missing)}", gpu.name)


def _writes(op: CreatePipelineOp) -> Iterator[Operation]:
    """The ops in whose regions the stages of a pipeline are filled."""
    for use in op.pipeline.uses:
        if isinstance(use.operation, ProducerAcquireOp):
            yield from (of.operation for of in use.operation.token.uses if isinstance(of.operation, ProducerWriteOp))


def _arrivals(
    op: CreatePipelineOp, begins: type[ProducerAcquireOp | ConsumerWaitOp], workers: int, gpu: Target,
    *, copies: bool = False,
) -> int:  # fmt: skip
    """How many times threads arrive in a turn of a side of a pipeline, whose turns begin with an op of this class: one
    of each warp, and with `copies` each thread as well. A consumer that is two consumers does it twice."""
    lanes = 1 + (gpu.warp_size if copies else 0)
    sides: dict[tuple[Operation | None, int, int], int] = {}
    for use in op.pipeline.uses:
        turn = use.operation
        if isinstance(turn, begins):
            switch, number = agent_of(turn)
            consumer = integer_of(turn.consumer_idx) if isinstance(turn, ConsumerWaitOp) else 0
            if not isinstance(switch, AgentSwitchOp):
                sides[None, 0, consumer] = workers * lanes
            else:
                # Of a pair of CTAs, the one thread of an agent acts in the leader only.
                alone, ctas = switch.elected[number], 2 if op.pair is not None else 1
                sides[switch, number, consumer] = 1 + copies if alone else switch.warps[number] * lanes * ctas
    agents = {switch for switch, _, _ in sides}
    if len(agents) > 1 and None in agents:
        raise unsupported(op, "is used by agents, and outside of them on the same side", gpu.name)
    drawn = {side or 0 for side in drawn_sides(op) if (side is None) is (begins is ProducerAcquireOp)}
    arriving = 0
    for consumer in sorted({consumer for _, _, consumer in sides}):
        counts = [count for (_, _, of), count in sides.items() if of == consumer]
        if consumer in drawn and len({*counts}) > 1:
            what = "produced for" if begins is ProducerAcquireOp else "consumed"
            problem = f"is {what} by agents of different numbers of warps, and all turns are alike"
            raise unsupported(op, problem, gpu.name)
        arriving += counts[0] if consumer in drawn else sum(counts)
    return max(arriving, 1)


def _counted_by(op: ProducerCommitOp) -> Iterator[TiledTmaLoadOp]:
    """The copies of a turn that one thread does in the block in which it commits: its commit tells all their bytes."""
    if op.after_products is not None:
        return
    token = op.token
    while isinstance(write := token.owner, ProducerWriteOp) and write.parent is op.parent:
        if not write.handed_on.has_one_use():
            return
        for load in write.body.block.ops:
            counted = isinstance(load, TiledTmaLoadOp) and load.mbarrier is None
            if counted and first_name(load.buffer).owner is write.body.block:
                yield load
        token = write.token
