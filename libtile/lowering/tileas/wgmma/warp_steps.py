# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The steps of consumers that multiply by wgmma: each waits for its tiles, issues products, and releases the tiles of
the step before, whose products have ended by then.

    first step            wait for tiles, issue products
    each further step     wait for tiles, issue products; wait for those before; release their tiles
    behind the last       wait for its products; release its tiles

Where there is one stage for some tiles, each step waits for its own products. 8-bit floats, whose sums have too few
bits, are promoted (`promoted`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from xdsl.dialects.builtin import IntegerAttr, UnitAttr
from xdsl.ir import Block, Operation, Region, SSAValue

from libtile.dialects import arith, scf
from libtile.dialects.nv_tileas.async_products import WaitDotOp
from libtile.dialects.nv_tileas.attributes import MmaAtomAttr
from libtile.dialects.nv_tileas.pipeline import AgentSwitchOp, ConsumerReleaseOp, PipelineYieldOp
from libtile.ir.tile_form import shape_of
from libtile.lowering.tileas.agents import nests, persistent, promoted
from libtile.lowering.tileas.agents.consumers import PRODUCER_WARPS, compiled, launched_registers
from libtile.lowering.tileas.agents.fed_steps import FedSteps
from libtile.lowering.tileas.agents.feeds import TRANSPOSERS, Feeds
from libtile.lowering.tileas.agents.made_operands import MAKING
from libtile.lowering.tileas.agents.maker_layouts import MAKERS
from libtile.lowering.tileas.agents.promoted import Parts
from libtile.lowering.tileas.copies.tma_operands import Unfit
from libtile.lowering.tileas.counted_loops import number_type, trips
from libtile.lowering.tileas.inserter import Inserter, array_of
from libtile.support.records import dataclass

BUDGETS = {8: (232, 40)}
"""Registers of a consumer's and a producer's thread, by the number of consumer warps, where they share unequally."""
TRANSPOSING = {8: (224, 56)}
"""The same, where warps beside the producer transpose tiles, if a consumer needs no more."""
COPIES = 1
"""The number of the agent that copies, behind the one that multiplies."""

Tiles = Sequence[SSAValue]
Ends = tuple[list[SSAValue], SSAValue | None]
"""The sums behind all steps, and the place behind them; None of steps that nothing comes behind."""
Issue = Callable[[Inserter, Tiles, Sequence[SSAValue]], list[SSAValue]]
"""Issues the products of a step: of its tiles, added to sums; the sums with all products in flight."""
IssuePart = Callable[[Inserter, Tiles, SSAValue, tuple[int, int]], SSAValue]
"""Issues the products of a part, which begins at a row and a column."""


Turn = Callable[[Inserter, list[SSAValue]], Sequence[SSAValue]]
"""Makes a step at an inserter, of what is carried; what is carried on."""


def counted(
    at: Inserter, loop: scf.ForOp, first: int, count: SSAValue, given: Sequence[SSAValue], turn: Turn
) -> Sequence[SSAValue]:
    """A loop over the steps of `loop`, by number, from `first` on; what it carries behind the last one."""
    number = number_type(loop)
    start, one = (at.value(arith.ConstantOp(IntegerAttr(n, number))) for n in (first, 1))
    body = Block(arg_types=[number, *(v.type for v in given)])
    each = Inserter(body, None, loop.location)
    each.add(scf.YieldOp(*turn(each, list(body.args[1:]))))
    made = scf.ForOp(start, count, one, list(given), body)
    made.attributes["unsignedCmp"] = UnitAttr()
    return at.add(made).results


@dataclass(frozen=True)
class WarpSteps:
    """The steps of a loop, and the sums that they add to, by the numbers of what the loop carries."""

    loop: scf.ForOp
    sums: Sequence[int]
    feeds: Feeds
    groups: int
    """Groups of products that a step commits."""
    reads: Tiles = ()
    """What products of all steps read from registers."""

    def overlapped(self, at: Inserter, count: SSAValue, issue: Issue, start: SSAValue | None = None) -> Ends:
        """The sums behind all steps, and the place behind them; they begin at the first stage, or at `start`."""
        if self.feeds.waits:
            return self._waiting(at, count, issue, start)
        initial = [self.loop.iter_args[number] for number in self.sums]
        feed = self.feeds.read
        steps = Block()
        inner = Inserter(steps, None, self.loop.location)
        first = feed.start(inner) if start is None else start
        token, made = feed.read(inner, first, lambda at, tiles: issue(at, tiles, initial))

        def parts(each: Inserter, given: Sequence[SSAValue], first: int) -> Sequence[SSAValue]:
            for part in range(first, feed.parts):
                place, held, *before = given
                own, issued = feed.read(each, place, partial(_issued, issue, before))
                waited = self._wait(each, issued, self.groups)
                each.add(ConsumerReleaseOp.make(held))
                given = [feed.next(each, place, part), own, *waited]
            return given

        begun = parts(inner, [feed.next(inner, first, 0), token, *made], 1)
        rest = counted(inner, self.loop, 1, count, begun, lambda each, given: parts(each, given, 0))
        ends = self._wait(inner, rest[2:], 0)
        inner.add(ConsumerReleaseOp.make(rest[1]))
        following = [] if start is None else [rest[0]]
        inner.add(scf.YieldOp(*ends, *following))
        nothing = Block()
        nothing.add_op(scf.YieldOp(*initial, *([] if start is None else [start])))
        zero = at.value(arith.ConstantOp(IntegerAttr(0, number_type(self.loop))))
        some = at.value(arith.CmpiOp(count, zero, "ne"))
        results = at.add(scf.IfOp(some, [v.type for v in (*initial, *following)], [steps], [nothing])).results
        return list(results[: len(initial)]), results[-1] if following else None

    def _waiting(self, at: Inserter, count: SSAValue, issue: Issue, start: SSAValue | None) -> Ends:
        """As `overlapped`, where each step waits for its own products."""
        initial = [self.loop.iter_args[number] for number in self.sums]
        feed = self.feeds.read

        def turn(each: Inserter, given: list[SSAValue]) -> Sequence[SSAValue]:
            place, *before = given
            token, issued = feed.read(each, place, lambda at, tiles: issue(at, tiles, before))
            waited = self._wait(each, issued, 0)
            each.add(ConsumerReleaseOp.make(token))
            return [feed.next(each, place), *waited]

        place, *ends = counted(at, self.loop, 0, count, [start or feed.start(at), *initial], turn)
        return ends, place

    def _wait(self, at: Inserter, sums: Tiles, pending: int) -> Tiles:
        """The sums when all products but those of so many groups have ended."""
        made = WaitDotOp.make(list(sums), list(self.reads), results=[[v.type for v in sums]], pending=pending)
        return at.add(made).results

    def promoted(
        self, at: Inserter, count: SSAValue, issue: IssuePart, parts: Parts, warps: int, start: SSAValue | None = None
    ) -> Ends:
        """As `overlapped`, of one sum, to whose parts each step adds its products."""
        (number,) = self.sums
        initial = self.loop.iter_args[number]
        nothing = promoted.zeros(at, initial, parts, warps)
        whole, feed = shape_of(initial.type), self.feeds.read

        def turn(each: Inserter, given: list[SSAValue]) -> Sequence[SSAValue]:
            place, *sums = given

            def read(inside: Inserter, tiles: Tiles) -> Sequence[SSAValue]:
                done, last = promoted.multiplied(
                    inside, sums, lambda part: issue(inside, tiles, nothing, parts.first(part, whole))
                )
                return [*done, last]

            token, (*added, products) = feed.read(each, place, read)
            each.add(ConsumerReleaseOp.make(token))
            following = feed.next(each, place)
            return [following, *added, promoted.add(each, sums[-1], products)]

        place, *sums = counted(at, self.loop, 0, count, [start or feed.start(at), *[nothing] * parts.count], turn)
        return [promoted.joined(at, sums, initial, parts)], place


def _issued(issue: Issue, sums: Sequence[SSAValue], at: Inserter, tiles: Tiles) -> Sequence[SSAValue]:
    return issue(at, tiles, sums)


Run = Callable[[Inserter, SSAValue, SSAValue | None], Ends]
"""Makes all steps, of which there are so many, from a place on."""


def consume(at: Inserter, steps: WarpSteps, outer: Operation | None, run: Run, count: SSAValue | None) -> None:
    """What the kernel's warps do: the steps, for each tile of a loop over tiles if there is one, and what is behind.
    `count` is the number of steps where there is none."""
    loop = steps.loop
    if outer is None:
        assert count is not None
        ends, _ = run(at, count, None)
        persistent.hand_on(loop, dict(zip(steps.sums, ends)))
        persistent.move_behind(loop, at.block)
        return

    def of_tile(at: Inserter, places: persistent.Places) -> tuple[dict[int, SSAValue], persistent.Places]:
        ends, following = run(at, trips(at, loop), places[0])
        assert following is not None  # of steps that begin at a place
        return dict(zip(steps.sums, ends)), [following]

    persistent.consume(at, outer, loop, [steps.feeds.read.start(at)], of_tile)
    persistent.move_behind(outer, at.block)


def transposer(at: Inserter, loop: scf.ForOp, outer: Operation | None, feeds: Feeds, count: SSAValue | None) -> Block:
    """The region of the warps that transpose tiles of each step."""
    starts = [feed.start(at) for feed in feeds.of_makers]

    def of_steps(at: Inserter, count: SSAValue, places: Sequence[SSAValue]) -> Sequence[SSAValue]:
        return counted(at, loop, 0, count, places, feeds.transpose)

    if outer is None:
        assert count is not None
        of_steps(at, count, starts)
    else:
        nests.repeat(
            at, outer, loop, nests.needed(outer, loop, (), ()), starts,
            lambda at, places, values: of_steps(at, trips(at, loop, values), places),
        )  # fmt: skip
    at.add(PipelineYieldOp.make())
    return at.block


def parted(
    fed: FedSteps, steps: WarpSteps, run: Run, count: SSAValue | None, descriptors: Sequence[SSAValue]
) -> list[Block]:
    """The regions of who multiplies, and of who copies, and who transposes tiles or makes operands, if there are
    any."""
    consumer, producer, outer = Block(), Block(), fed.outer
    found = [consumer]
    if steps.feeds.filled:
        fed.produce(Inserter(producer, None, steps.loop.location), steps.feeds.filled, descriptors)
        found.append(producer)
    if len(steps.feeds.of_makers) > 1 or steps.feeds.made:
        at = Inserter(Block(), None, steps.loop.location)
        if steps.feeds.made:
            found.append(fed.maker(at, steps.feeds))
        else:
            found.append(transposer(at, steps.loop, outer, steps.feeds, count))
    consume(Inserter(consumer, None, steps.loop.location), steps, outer, run, count)
    return found


def making(warps: int, *, copies: bool) -> tuple[list[int], list[int]]:
    """Warps of each agent beside makers, where so many multiply, and registers of a thread; there is one that `copies`
    where TMA copies anything."""
    counts, registers = [warps, PRODUCER_WARPS, MAKERS], list(MAKING[warps])
    if not copies:
        del counts[COPIES], registers[COPIES]
    return counts, registers


def check_makers(fed: FedSteps, registers: int) -> None:
    """Unfit where a consumer needs more registers than it has beside warps that make operands, if there are any."""
    spec = fed.function.kernel_spec
    assert spec is not None
    if not fed.made:
        return
    (counts, budget), blocks = making(spec.num_warps, copies=bool(fed.operands)), spec.occupancy or 1
    if registers > budget[0]:
        raise Unfit(f"a thread has {budget[0]} registers beside warps that make operands, and {registers} are taken")
    taken = sum(n * warps for n, warps in zip(budget, counts, strict=True))
    if taken * fed.gpu.warp_size * blocks > fed.gpu.registers_per_sm:
        raise Unfit(f"{blocks} blocks do not fit a multiprocessor with warps that make operands")


def beside_makers(fed: FedSteps, warps: int, atom: MmaAtomAttr) -> MmaAtomAttr:
    """The instruction of products, or one that ptxas compiles beside warps that make operands, if there are any."""
    if not fed.made:
        return atom
    spec = fed.function.kernel_spec
    assert spec is not None
    launched = sum(making(warps, copies=bool(fed.operands))[0])
    found = compiled(atom.instruction, fed.gpu, launched_registers(launched, spec.occupancy or 1, fed.gpu))
    return MmaAtomAttr(atom.kind, (found.m, found.n, found.k), *atom.types)


def agents_of_warps(agents: Sequence[Block], feeds: Feeds, warps: int, registers: int) -> Operation:
    """The agents of a loop: so many warps that multiply, with so many registers at least, a thread that copies, and
    warps that transpose tiles or make operands, if they have a region."""
    copies = bool(feeds.filled)
    turned, budget = len(agents) > COPIES + 1, BUDGETS.get(warps)
    if turned and warps in TRANSPOSING and registers <= TRANSPOSING[warps][0]:
        budget = TRANSPOSING[warps]
    counts = [warps, PRODUCER_WARPS - TRANSPOSERS, TRANSPOSERS] if turned else [warps, PRODUCER_WARPS]
    given = [] if budget is None else [*budget, *budget[1:][:turned]]
    if feeds.made:
        counts, given = making(warps, copies=copies)
    return AgentSwitchOp.make(
        regions=[Region(block) for block in agents],
        agent_warps=array_of(*counts),
        agent_registers=array_of(*given) if given else None,
        agent_elected=array_of(*(int(copies and n == COPIES) for n in range(len(agents)))),
    )
