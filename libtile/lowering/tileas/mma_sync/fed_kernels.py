# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels whose products read registers (mma.sync), parted into a producer that copies and the kernel's warps: the
loops that a producer feeds (`fed_loops`), and what these need together.

Loops that stand one after the other are fed in turn. Those whose steps have tiles of the same shapes share a pipeline,
so that the tiles of the next one come in while what is between them is computed. What the producer needs is computed in
front of the agents, by all of their threads. Both agents go through loops and branches around the loops (`nests`), as
one over tiles, from one iteration of which to the next they carry where they are in the pipelines: the first tiles of
the next one come in while this one is stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from math import prod
from operator import or_

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Block, Operation, Region, SSAValue

from libtile.codegen.memory import MAX_ACCESS_BYTES
from libtile.dialects import scf
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileaa.pointers import MakeMemRefOp
from libtile.dialects.nv_tileaa.terminators import ReturnIfOp, ReturnOp
from libtile.dialects.nv_tileas.memory import TiledLoadOp
from libtile.dialects.nv_tileas.pipeline import AgentSwitchOp, CreatePipelineOp, PipelineYieldOp
from libtile.dialects.nv_tileas.products import ScaledDotOp
from libtile.ir.places import ops_in, ops_of
from libtile.ir.tile_form import element_of, erase, shape_of
from libtile.layouts.shared_access import PIECE_BYTES
from libtile.lowering.tileas.agents import nests
from libtile.lowering.tileas.agents.consumers import PRODUCER_WARPS, REGISTER_STEP, consumer_registers, tile_registers
from libtile.lowering.tileas.ahead import loads_a_number
from libtile.lowering.tileas.cleanup import drop_unused, is_pure
from libtile.lowering.tileas.copies.tma_operands import TmaOperand, Unfit
from libtile.lowering.tileas.inserter import Inserter, array_of
from libtile.lowering.tileas.memory import staging
from libtile.lowering.tileas.memory.free_stages import DRAINED
from libtile.lowering.tileas.memory.shared_memory import Exchanges, block_bytes, rings_bytes
from libtile.lowering.tileas.mma_sync.fed_loops import (
    PRODUCTS,
    FedLoop,
    Places,
    Stages,
    Values,
    conversions,
    ends,
    name,
)
from libtile.lowering.tileas.mma_sync.left_to_workers import not_left
from libtile.lowering.tileas.pipelines.schedule import (
    ACCUMULATOR,
    LOADS,
    Load,
    is_worth_it,
    raise_conversions,
    stages_wanted,
)
from libtile.lowering.to_tileas.accesses import element_bytes
from libtile.targets import Target
from libtile.targets.tensor_map import MAX_BOX

WARPS = (4, 8)
"""How many warps a kernel has whose loops are parted."""
BUDGETS = {8: ((232, 40), (240, 24))}
"""Registers of a consumer's and a producer's thread, by the number of consumer warps, where they share unequally: the
first that a consumer can do with, as 24 do not always hold what a producer's thread computes of a tile's place."""
LONE_PRODUCER = 1
"""Warps of a producer that gives no registers away."""
COPIERS = (1, 2, 4)
"""Warps of a producer that copies with cp.async."""
MOST_COPIES = 16
"""Of a thread of them, in a step of a loop."""
QUARTERS = 4
"""Of a multiprocessor, each with a quarter of the registers."""
OTHER_REGISTERS = 64
"""Of a thread, beside the tiles that live through an iteration: fragments that are read, and addresses."""
ENOUGH_STAGES = 2
"""Stages that are worth more than exchanges in few large pieces, and than tiles that come as a whole."""
PARTS = (1, 2, 4)
"""Into how many parts, one behind the other along k, the tiles of a step may be cut."""
ALIGNMENT = 1024
"""Of tiles in shared memory: where the pattern of a swizzle begins again."""


class FedKernel:
    """One kernel, and the loops that a producer feeds. Unfit where it stays as it is."""

    def __init__(self, function: FuncOp, gpu: Target, most: int, by_threads: bool):
        spec = function.kernel_spec
        assert spec is not None
        self.function, self.gpu, self.spec, self.by_threads = function, gpu, spec, by_threads
        if gpu.has("tma") and spec.num_warps not in WARPS:
            raise Unfit(f"{spec.num_warps} warps are not {' or '.join(map(str, WARPS))}")
        wanted = [
            op for op in ops_of(function, *LOADS)
            if _is_repeated(op) and is_worth_it(op) and not _is_of_factors(op)
        ]  # fmt: skip
        loads = self._loads(wanted)
        self.outer = self._outer([*loads])
        self.copiers = _copiers(loads.values(), gpu) if by_threads else 0
        self.loops = [FedLoop(function, gpu, loop, self.outer, found, self.copiers) for loop, found in loads.items()]
        fewest = 1 if len(self.loops) > 1 else 2
        if any(loop.turns is not None and loop.turns < fewest for loop in self.loops):
            raise Unfit("its loop has fewer than two turns" if fewest > 1 else "one of its loops has no turn")
        self.shared = self._needed_by_all()
        self.budget = self._budget()
        self.pipelines = self._set_stages(most)

    # -- what fits --------------------------------------------------------------------------------------------------

    def _loads(self, loads: Sequence[Load]) -> dict[scf.ForOp, list[Load]]:
        """The loads that are worth to run ahead of loops, by these: the innermost ones. What is loaded once for each
        run of such a loop stays with the kernel's warps."""
        found: dict[Operation, list[Load]] = {}
        for load in loads:
            around = load.parent_op()
            assert around is not None
            found.setdefault(around, []).append(load)
        inner: dict[scf.ForOp, list[Load]] = {}
        for loop, held in found.items():
            if any(loop.is_ancestor(other) for other in found if other is not loop):
                continue
            for load in held:
                if not isinstance(load, TiledLoadOp) and not self.by_threads:
                    raise Unfit(name(load) + "is not loaded by a view")
                if not isinstance(loop, scf.ForOp):
                    raise Unfit(name(load) + "is loaded under a condition, or in a loop that does not count")
                inner.setdefault(loop, []).append(load)
        if not inner:
            raise Unfit(
                "no operand is loaded in a loop" if self.by_threads else "no operand is loaded by a view in a loop"
            )
        return inner

    def _outer(self, loops: Sequence[scf.ForOp]) -> Operation | None:
        """The outermost loop or branch around all loops; None where they are the function's."""
        if len({loop.parent for loop in loops}) > 1:
            raise Unfit("the kernel loads operands in loops within each other")
        return nests.outermost(self.function, loops[0])

    def _share_stages(self) -> list[Stages]:
        """The pipelines, of which loops share those whose stages hold the same."""
        found: list[Stages] = []
        for loop in self.loops:
            taken: list[Stages] = []
            for ring in loop.rings:
                same = next((s for s in found if s not in taken and s.types == ring.types), None)
                if same is None:
                    found.append(ring.stages)
                else:
                    ring.stages = same
                ring.stages.loads += ring.loads
                ring.stages.parts = max(ring.stages.parts, ring.parts)
                known = ring.stages.turns, loop.turns
                ring.stages.turns = None if None in known else sum(filter(None, known))
                taken.append(ring.stages)
        return found

    def _needed_by_all(self) -> set[Operation]:
        """The ops in front of the agents that the producer and the descriptors need."""
        block = self.function.body.block
        returns = [op for op in block.ops if isinstance(op, ReturnIfOp)]
        found = self._closure([v for loop in self.loops for v in loop.outside()] + [op.condition for op in returns])
        start = self.loops[0].loop if self.outer is None else self.outer
        for op in found:
            loads = any(map(loads_a_number, ops_of(op)))
            if not nests.is_repeated(op) or (loads and not op.is_before_in_block(start)):
                raise Unfit(f"its copies need what '{op.name}' gives")
        for op in block.ops if returns else ():
            # The agents begin behind this, and what the kernel's warps do before it would be left out.
            if op is returns[-1]:
                break
            if op not in found and op not in returns and not is_pure(op) and not isinstance(op, LOADS):
                raise Unfit(f"it may return behind '{op.name}'")
        found |= set(returns)
        # The host makes tensor maps of tensors, by which results may be stored, from what stands here.
        for op in block.ops:
            more = self._closure(op.results) if isinstance(op, MakeMemRefOp) else set()
            if all(map(is_pure, more)):
                found |= more
        return found

    def _closure(self, values: Iterable[SSAValue]) -> set[Operation]:
        """The ops of the function itself that values come from."""
        found: set[Operation] = set()
        work = list(values)
        while work:
            op = work.pop().owner
            if isinstance(op, Operation) and op.parent is self.function.body.block and op not in found:
                found.add(op)
                work += [v for inner in ops_of(op) for v in inner.operands]
        return found

    def _budget(self) -> tuple[int, int] | None:
        """Registers of a thread of each agent where they do not share alike. Unfit where that is too many."""
        given = self._given_registers(self.copiers or LONE_PRODUCER)
        if self.copiers:  # which keep addresses, and give no registers away
            taken = max(map(self._registers if self.gpu.has("tma") else self._of_products, self.loops))
            if taken > given:
                raise Unfit(f"a thread has {given} registers beside warps that copy, and its products take {taken}")
            return None
        budgets, wanted = BUDGETS.get(self.spec.num_warps, ()), max(map(self._registers, self.loops))
        if not budgets or wanted <= given:
            return None
        budget = next((budget for budget in budgets if wanted <= budget[0]), budgets[-1])
        consumer_registers(self.spec, self.gpu, budget)
        return budget

    def _given_registers(self, more: int) -> int:
        """Registers of a thread that all warps of the kernel have alike, with so many beside the workers: each quarter
        of a multiprocessor has those of its own warps."""
        warps = (self.spec.num_warps + more + QUARTERS - 1) // QUARTERS * QUARTERS
        each = self.gpu.registers_per_sm // (self.spec.occupancy or 1) // (warps * self.gpu.warp_size)
        return min(each // REGISTER_STEP * REGISTER_STEP, self.gpu.registers_per_thread)

    def _of_products(self, loop: FedLoop) -> int:
        """Registers of a thread for tiles that a loop has at the same time: those that it carries, that its products
        read from before it, and that they make."""
        held: dict[SSAValue, None] = dict.fromkeys(loop.body.args)
        for op in ops_of(loop.body):
            if isinstance(op, PRODUCTS):
                held.update(dict.fromkeys(v for v in (op.a, op.b) if self._is_before(v)))
                if not any(use.operation is loop.body.last_op for use in op.result.uses):  # else it is carried
                    held[op.result] = None
        return sum(map(tile_registers, held))

    def _registers(self, loop: FedLoop) -> int:
        """Of a thread, about, in an iteration: for what the loop carries, for what it takes from before it, for the
        results of its products, and the rest."""
        gone, carried = self._not_left
        held: dict[SSAValue, None] = dict.fromkeys(arg for arg in loop.body.args if arg not in carried)
        for op in ops_of(loop.body):
            if op in gone:
                continue
            held.update(dict.fromkeys(v for v in op.operands if self._is_before(v)))
            if isinstance(op, PRODUCTS) and op.c.owner is not loop.body:
                held[op.result] = None
            if isinstance(op, ScaledDotOp):  # which reads its operands as a whole
                held.update(dict.fromkeys(op.operands))
        return OTHER_REGISTERS + sum(map(tile_registers, held))

    def _is_before(self, value: SSAValue) -> bool:
        around = [] if self.outer is None else nests.path(self.outer, self.loops[0].loop)
        blocks = [
            self.function.body.block,
            *(block for op in around for region in op.regions for block in region.blocks),
        ]
        return isinstance(value.owner, Operation) and value.owner.parent in blocks

    @property
    def _loaded(self) -> set[Operation]:
        return {load for loop in self.loops for ring in loop.rings for load in ring.loads}

    @property
    def _gone(self) -> set[Operation]:
        """Conversions on the way from loads, in place of which tiles are read from stages."""
        return {op for load in self._loaded for value in load.results[:1] for op in conversions(value)}

    @property
    def _not_left(self) -> tuple[set[Operation], set[SSAValue]]:
        """The ops and carried tiles that nothing needs but what is loaded, where threads copy that."""
        if not self.copiers:
            return set(), set()
        gone, carried = not_left(self.function, self._loaded)
        return gone | self._loaded, carried

    def _set_stages(self, most: int) -> list[Stages]:
        """The pipelines, each with as many stages as there is room for, and as hints of the loads' latency ask for:
        of the tiles of a step, or of parts of them where too few of these fit."""
        found: list[tuple[int, int]] = []
        for parts in PARTS:
            pipelines = self._parted(parts)
            count = self._stages(pipelines, most)
            found.append((parts, count))
            if count >= ENOUGH_STAGES:
                break
        enough = ENOUGH_STAGES if self.outer is not None else 1
        parts, stages = next(((n, count) for n, count in reversed(found) if count >= enough), (1, 0))
        pipelines = self._parted(parts)
        if not stages and self.outer is not None:
            what = f"{ENOUGH_STAGES} stages of {self._bytes(pipelines, 1, most)} bytes"
            raise Unfit(f"{what} do not fit shared memory beside what the loop around its loop stores")
        if not stages:
            each = self._bytes(pipelines, 1, most)
            raise Unfit(f"a stage of {each} bytes does not fit the shared memory that is free")
        for pipeline in pipelines:
            pipeline.stages = self._wanted(pipeline, stages, most)
        return pipelines

    def _parted(self, parts: int) -> list[Stages]:
        """The pipelines if the tiles of a step come in so many parts where they can."""
        for loop in self.loops:
            loop.part(parts)
        return self._share_stages()

    def _stages(self, pipelines: Sequence[Stages], most: int) -> int:
        """Stages that there is room for."""
        limit, stages, piece = block_bytes(self.gpu, self.spec), 0, PIECE_BYTES
        if self.outer is not None:
            return self._stages_beside(pipelines, limit, most)
        while stages < ENOUGH_STAGES and piece >= PIECE_BYTES // 16:
            stages = max(stages, self._stages_in(pipelines, limit - self._exchanged(piece), most))
            piece //= 2
        return stages

    def _stages_beside(self, pipelines: Sequence[Stages], limit: int, most: int) -> int:
        """Stages that there is room for beside what a loop over tiles stores or exchanges, which never drains them;
        0 where there are too few."""
        tile = self.loops[0].loop.parent
        assert tile is not None
        kept = staging.kept_beside(self.function, tile, self._gone, MAX_BOX) if self.gpu.has("tma") else []
        exchanges = Exchanges(self.function, self._gone | self._not_left[0])
        kept += [exchanges.bytes(self._loaded, (), PIECE_BYTES // n) for n in (1, 2, 4, 8, 16)]
        found = (self._stages_in(pipelines, limit - n, most) for n in kept)
        enough = max(pipeline.parts for pipeline in pipelines) + 1
        return next((n for n in found if n >= max(enough, ENOUGH_STAGES)), 0)

    @staticmethod
    def _wanted(pipeline: Stages, stages: int, most: int) -> int:
        wanted = max(stages_wanted(load, most) for load in pipeline.loads)
        return min(stages, wanted * pipeline.parts, (pipeline.turns or most) * pipeline.parts)

    def _bytes(self, pipelines: Sequence[Stages], stages: int, most: int) -> int:
        return rings_bytes((p.staged(self._wanted(p, stages, most)) for p in pipelines), ALIGNMENT)

    def _stages_in(self, pipelines: Sequence[Stages], free: int, most: int) -> int:
        return next((n for n in range(most, 0, -1) if self._bytes(pipelines, n, most) <= free), 0)

    def _exchanged(self, most: int) -> int:
        """Bytes for exchanges between the kernel's warps while copies come in: those behind the last loop take the
        place of the stages."""
        behind = {op for later in _behind(self.loops[-1].loop) for op in ops_of(later)}
        found = Exchanges(self.function, behind | self._gone | self._not_left[0])
        return found.bytes(self._loaded, (), most) if found.are_any else 0

    # -- the new code -----------------------------------------------------------------------------------------------

    def make(self) -> None:
        """Part the kernel."""
        first, block = self.loops[0].loop, self.function.body.block
        for loop in self.loops:
            for ring in loop.rings:
                for load in ring.loads if ring.slices is None else ():
                    raise_conversions(load.value)
        start = first if self.outer is None else self.outer
        for op in [op for op in _behind(start) if op in self.shared]:  # what later loops need
            op.detach()
            block.insert_op_before(op, start)
        at = Inserter(block, start, first.location)
        tiles = [t for loop in self.loops for t in loop.tiles]
        descriptors = [t.descriptor(at, n) for n, t in enumerate(tiles) if isinstance(t, TmaOperand)]
        for stages in self.pipelines:
            made = CreatePipelineOp.make(results=[stages.staged(stages.stages)], alignment=ALIGNMENT)
            if self.outer is None:
                made.attributes[DRAINED] = UnitAttr()
            stages.pipe = at.value(made)
        consumer, producer = Block(), Block()
        self._produce(Inserter(producer, None, first.location), descriptors)
        warps = self.spec.num_warps, self.copiers or (LONE_PRODUCER if self.budget is None else PRODUCER_WARPS)
        switch = AgentSwitchOp.make(
            regions=[Region(consumer), Region(producer)],
            agent_warps=array_of(*warps),
            agent_registers=None if self.budget is None else array_of(*self.budget),
            agent_elected=None if self.copiers else array_of(0, 1),
        )
        at.add(switch)
        self._consume(Inserter(consumer, None, first.location), switch)
        drop_unused(block)

    def _produce(self, at: Inserter, descriptors: Sequence[SSAValue]) -> None:
        """The loops again, with copies in place of everything else, for each tile."""
        starts = [stages.start(at) for stages in self.pipelines]

        def copies(at: Inserter, given: Sequence[SSAValue], values: Values) -> list[SSAValue]:
            places, number = dict(zip(self.pipelines, given)), 0
            for loop in self.loops:
                own = descriptors[number : number + len(loop.tiles)]
                loop.copies(at, number, own, places, values)
                number += len(loop.tiles)
            return [places[stages] for stages in self.pipelines]

        if self.outer is None:
            copies(at, starts, {})
        else:
            each = reduce(or_, (loop.each for loop in self.loops))
            nests.repeat(at, self.outer, self.loops[0].loop, each, starts, copies)
        at.add(PipelineYieldOp.make())

    def _consume(self, at: Inserter, switch: Operation) -> None:
        """Everything that only the kernel's warps need."""
        block, agents = self.function.body.block, {switch}
        agents |= {s.pipe.owner for s in self.pipelines if s.pipe is not None and isinstance(s.pipe.owner, Operation)}
        tiles = [t for loop in self.loops for t in loop.tiles]
        agents |= {use.operation for t in tiles if isinstance(t, TmaOperand) for use in t.memref.results[0].uses}
        places: Places = {}
        for op in ops_in(block):
            if op in self.shared or isinstance(op, ReturnOp) or op in agents:
                continue
            if op is (self.loops[0].loop if self.outer is None else self.outer):
                places = {stages: stages.start(at) for stages in self.pipelines}
            op.detach()
            at.block.add_op(op)
        for loop in self.loops:
            loop.read_stages()
        self._rebuild(places)
        at.add(PipelineYieldOp.make())

    def _rebuild(self, places: Places) -> None:
        """The loops again, which carry where they read as well, and so do loops and branches around them."""
        outer, order = self.outer, list(places)

        def inside(given: Sequence[SSAValue]) -> list[SSAValue]:
            reached = dict(zip(order, given))
            for loop in self.loops:
                loop.rebuild(reached)
            return [reached[stages] for stages in order]

        if outer is None:
            inside(list(places.values()))
            return
        assert outer.parent is not None
        at = Inserter(outer.parent, outer, outer.location)
        nests.carry(at, outer, self.loops[0].loop, list(places.values()), inside)
        erase(outer)


def given_beside_producer(warps: int, blocks: int, gpu: Target) -> int:
    """Registers of a thread of so many warps that multiply, beside a producer, with so many blocks of a
    multiprocessor."""
    for consumer, producer in BUDGETS.get(warps, ()):
        if (consumer * warps + producer * PRODUCER_WARPS) * blocks * gpu.warp_size <= gpu.registers_per_sm:
            return consumer
    in_quarter = -(-blocks * (warps + LONE_PRODUCER) // QUARTERS)
    each = gpu.registers_per_sm // QUARTERS // (in_quarter * gpu.warp_size)
    return min(each // REGISTER_STEP * REGISTER_STEP, gpu.registers_per_thread)


def _is_of_factors(load: Load) -> bool:
    """Whether a tile is nothing but scale factors of products, which the warps that multiply load themselves."""
    numbers = list(ends(load.value))
    return bool(numbers) and min(numbers) > ACCUMULATOR


def _copiers(loads: Iterable[Sequence[Load]], gpu: Target) -> int:
    """How many warps copy the tiles of loops: as few as have not too many copies each in a step."""
    sizes = [
        sum(prod(shape_of(load.value.type)) * element_bytes(element_of(load.value.type)) for load in held)
        for held in loads
    ]
    copies = max(sizes) // MAX_ACCESS_BYTES // gpu.warp_size
    return next((n for n in COPIERS if copies <= n * MOST_COPIES), COPIERS[-1])


def _is_repeated(op: Operation) -> bool:
    parent = op.parent_op()
    while parent is not None:
        if isinstance(parent, scf.ForOp | scf.WhileOp):
            return True
        parent = parent.parent_op()
    return False


def _behind(op: Operation) -> Iterator[Operation]:
    later = op.next_op
    while later is not None:
        yield later
        later = later.next_op
