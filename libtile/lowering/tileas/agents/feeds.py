# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The pipeline that brings the tiles of a loop's steps to products, and a second one where threads take some up first.

Products of 8-bit and 32-bit elements by wgmma read tiles that are dense along k alone. A tile that lies otherwise in
memory is copied twice: by TMA to a pipeline of its own, and from there by warps to its place among those that products
read, its shadow. A stage of these is full when both have come.

    producer      a, raw b              one thread, by TMA
    transposer    raw b -> b            warps beside it
    consumers     a, b                  the kernel's warps

Operands that are computed come the same way (`made_operands`): makers take the place of who transposes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xdsl.ir import Attribute, Block, Region, SSAValue

from libtile.dialects.nv_tileas.pipeline import (
    ConsumerReadOp,
    ConsumerReleaseOp,
    ConsumerWaitOp,
    CreateIteratorOp,
    IncIterOp,
    PipelineYieldOp,
    ProducerAcquireOp,
    ProducerCommitOp,
    ProducerWriteOp,
)
from libtile.dialects.nv_tileas.tiles import CopyOp
from libtile.dialects.nv_tileas.tma import FenceProxyOp
from libtile.dialects.nv_tileas.types import (
    MBARRIER,
    BufferType,
    ConsumerTokenType,
    PipelineIteratorType,
    PipelineType,
    ProducerTokenType,
)
from libtile.lowering.tileas.agents.cluster_pipelines import ALIGNMENT
from libtile.lowering.tileas.agents.made_operands import MadeOperand
from libtile.lowering.tileas.copies.tma_operands import TmaOperand, Unfit
from libtile.lowering.tileas.inserter import Inserter
from libtile.lowering.tileas.memory.shared_memory import rings_bytes
from libtile.support.records import dataclass

TRANSPOSERS = 2
"""Warps that transpose: of a warpgroup, beside the one that copies, as many as a layout can have."""
OVERLAPPED = 2
"""Stages of a shadow, so that a step's products are issued before those of the step before have ended."""
MOST_RAW = 3
"""Stages of tiles that are to be transposed: more hide no more of the latency of TMA."""


def copied_tiles(held: Sequence[TmaOperand | MadeOperand]) -> list[TmaOperand]:
    """The tiles that TMA copies of what a stage holds, and behind them those that makers compute others of, each load's
    once."""
    direct = [operand for operand in held if isinstance(operand, TmaOperand)]
    raws = {tile.load: tile for operand in held if isinstance(operand, MadeOperand) for tile in operand.tiles}
    return [*direct, *raws.values()]


Read = Callable[[Inserter, Sequence[SSAValue]], Sequence[SSAValue]]
Fill = Callable[[Inserter, Sequence[SSAValue]], None]
Make = Callable[[Inserter, Sequence[SSAValue], Sequence[SSAValue]], None]
"""Makes operands of a stage's tiles, in buffers."""


@dataclass(eq=False)
class Feed:
    """A pipeline whose stages hold tiles."""

    types: tuple[BufferType, ...]
    copied: Mapping[int, int]
    """The tiles that TMA copies there: a stage's, by the number of the operand."""
    ctas: int = 1
    """Of a cluster, which fill its stages together."""
    stages: int = 1
    pipe: SSAValue | None = None
    consumers: int = 1
    consumer: int = 0
    """Which of the pipeline's consumers reads."""
    fenced: bool = False
    """Whether products read what makers' threads copy by themselves, which say nothing of when it is there: their
    copies arrive. Who reads then has a proxy fence."""
    more: tuple[Mapping[int, int], ...] = ()
    """What TMA copies in further turns of a step, each as `copied`."""
    parts: int = 1
    """Into how many parts the tiles of a step are cut along k, which take a turn each, one after the other."""

    @property
    def turns(self) -> tuple[Mapping[int, int], ...]:
        """What TMA copies in each turn of a step."""
        return self.copied, *self.more

    @property
    def type(self) -> PipelineType:
        return self.staged(self.stages)

    def staged(self, stages: int) -> PipelineType:
        return PipelineType(stages, self.types, self.consumers, MBARRIER)

    @property
    def place(self) -> PipelineIteratorType:
        return PipelineIteratorType(self.type)

    def start(self, at: Inserter) -> SSAValue:
        return at.value(CreateIteratorOp.make(self.pipe, results=[self.place]))

    def next(self, at: Inserter, place: SSAValue, part: int | None = None) -> SSAValue:
        """The place behind another one, or behind that of a part of a step."""
        return at.value(IncIterOp.make(place, results=[self.place], within=within_round(self.type, part, self.parts)))

    def fill(self, at: Inserter, place: SSAValue, fill: Fill) -> None:
        """A turn of who fills the stages, by what `fill` makes of the buffers of one."""
        ready = ProducerTokenType(self.types)
        token = at.value(ProducerAcquireOp.make(self.pipe, place, results=[ready]))
        stage = Block(arg_types=self.types)
        inside = Inserter(stage, None, at.location)
        fill(inside, stage.args)
        inside.add(PipelineYieldOp.make())
        token = at.value(ProducerWriteOp.make(token, place, results=[ready, []], regions=[Region(stage)]))
        at.add(ProducerCommitOp.make(token))

    def fence(self, at: Inserter) -> None:
        """What is there before products read a stage."""
        if self.fenced:
            at.add(FenceProxyOp.make(proxy="async.shared"))

    def read(self, at: Inserter, place: SSAValue, read: Read) -> tuple[SSAValue, Sequence[SSAValue]]:
        """Wait for a stage, and what `read` makes of its tiles: the token by which it is released, and what that
        gives."""
        held = ConsumerTokenType(self.types)
        consumer = self.consumer or None
        token = at.value(ConsumerWaitOp.make(self.pipe, place, results=[held], consumer_idx=consumer))
        stage = Block(arg_types=self.types)
        inside = Inserter(stage, None, at.location)
        self.fence(inside)
        given = list(read(inside, stage.args))
        inside.add(PipelineYieldOp.make(given))
        types: list[Attribute] = [v.type for v in given]
        done = at.add(ConsumerReadOp.make(token, place, results=[held, types], regions=[Region(stage)]))
        return done.results[0], done.results[1:]


def within_round(type_: PipelineType, part: int | None, parts: int) -> bool | None:
    """What `inc_iter` says behind the turn of one of so many parts of a step: all parts lie in a round where as many of
    them as there are stages are whole steps."""
    return True if part is not None and part + 1 < parts and type_.stages % parts == 0 else None


def filled_in_order(feeds: Sequence[Feed]) -> list[tuple[Feed, Mapping[int, int]]]:
    """The turns of a step in the order in which a producer takes them: first those for which a pipeline has stages as a
    step begins, then the others as their tiles are read."""
    first = [(feed, turn) for feed in feeds for turn in feed.turns[: feed.stages]]
    rest = [(feed, turn) for feed in feeds for turn in feed.turns[feed.stages :]]
    return [*first, *sorted(rest, key=lambda item: min(item[1]))]


@dataclass(frozen=True)
class Feeds:
    """The pipelines of a loop: the one that products read, and the one from which tiles are transposed, or operands are
    made."""

    read: Feed
    raw: Feed | None = None
    turned: tuple[int, ...] = ()
    """The tiles that products read of those that are transposed, in their order."""
    made: tuple[int, ...] = ()
    """The tiles that products read of those that makers make, in their order."""
    stored: bool = True
    """Whether makers store any of them, by themselves."""

    @staticmethod
    def of(held: Sequence[TmaOperand | MadeOperand], types: Sequence[BufferType]) -> Feeds:
        """The pipelines of what a stage holds: tiles of these types, or shadows, and maybe more. Tiles that TMA copies
        have their numbers in `copied_tiles`."""
        if any(isinstance(operand, MadeOperand) for operand in held):
            return Feeds._with_makers(held, types)
        operands = [operand for operand in held if isinstance(operand, TmaOperand)]
        direct = [n for n, operand in enumerate(operands) if operand.shadow is None]
        ctas = max((operands[n].ctas for n in direct), default=1)
        if len(direct) == len(operands):
            return Feeds(Feed(tuple(types), {n: n for n in direct}, ctas))
        turned = [n for n in range(len(operands)) if n not in direct]
        shadows = tuple(operand.read for operand in operands)
        raw = Feed(tuple(operands[n].type for n in turned), {n: i for i, n in enumerate(turned)})
        return Feeds(Feed(shadows, {n: n for n in direct}, ctas), raw, tuple(turned))

    @staticmethod
    def _with_makers(held: Sequence[TmaOperand | MadeOperand], types: Sequence[BufferType]) -> Feeds:
        """The pipelines where makers compute some operands."""
        places = [n for n, operand in enumerate(held) if isinstance(operand, TmaOperand)]
        copied = copied_tiles(held)
        raws = copied[len(places) :]
        if any(tile.shadow is not None or tile.ctas > 1 for tile in copied):
            raise Unfit("it computes an operand, and another one is transposed, or shared by a cluster")
        read = Feed(tuple(types), dict(enumerate(places)))
        read.fenced = any(isinstance(operand, MadeOperand) and operand.copied for operand in held)
        raw = Feed(tuple(tile.type for tile in raws), {len(places) + n: n for n in range(len(raws))}) if raws else None
        made = {n: operand for n, operand in enumerate(held) if isinstance(operand, MadeOperand)}
        return Feeds(read, raw, made=tuple(made), stored=any(not operand.copied for operand in made.values()))

    @property
    def all(self) -> list[Feed]:
        return [self.read] if self.raw is None else [self.read, self.raw]

    @property
    def of_makers(self) -> list[Feed]:
        """Those that makers, or warps that transpose, go through: what they read, if that is not all loaded by
        themselves, and what they fill."""
        return [self.read] if self.raw is None else [self.raw, self.read]

    @property
    def filled(self) -> list[Feed]:
        """Those to which TMA copies tiles."""
        return [feed for feed in self.all if feed.copied]

    def set_stages(self, free: int, most: int) -> None:
        """As many stages, at most so many, as fit so many bytes of shared memory, where tiles are transposed. Unfit
        where one of each does not."""
        assert self.raw is not None
        best = (0, 0, 0, 0)
        for raw in range(1, MOST_RAW + 1):
            for stages in range(1, most + 1):
                if rings_bytes([self.read.staged(stages), self.raw.staged(raw)], ALIGNMENT) <= free:
                    best = max(best, (min(stages, OVERLAPPED), min(raw, OVERLAPPED), stages + raw, stages))
        if best[0] == 0:
            size = rings_bytes([feed.staged(1) for feed in self.all], ALIGNMENT)
            raise Unfit(
                f"{size} bytes of tiles, some of them twice to be transposed or computed, do not fit the {free} that "
                "are free"
            )
        self.read.stages, self.raw.stages = best[3], best[2] - best[3]

    @property
    def waits(self) -> bool:
        """Whether a step's products have to end before those of the next one are issued, which find no stage before."""
        return self.raw is not None and self.read.stages < OVERLAPPED

    def make(self, at: Inserter, places: Sequence[SSAValue], make: Make) -> list[SSAValue]:
        """A turn of the makers, from places in the pipelines `of_makers` on: `make` makes the operands of a stage's
        tiles. The places behind."""
        raw, to = self.raw, places[-1]

        def turn(inside: Inserter, tiles: Sequence[SSAValue]) -> Sequence[SSAValue]:
            def fill(stage: Inserter, buffers: Sequence[SSAValue]) -> None:
                make(stage, tiles, [buffers[number] for number in self.made])
                if self.stored:
                    stage.add(FenceProxyOp.make(proxy="async.shared"))

            self.read.fill(inside, to, fill)
            return []

        if raw is None:
            turn(at, ())
        else:
            token, _ = raw.read(at, places[0], turn)
            at.add(ConsumerReleaseOp.make(token))
        return [feed.next(at, place) for feed, place in zip(self.of_makers, places)]

    def transpose(self, at: Inserter, places: Sequence[SSAValue]) -> list[SSAValue]:
        """A turn of the warps that transpose tiles, from places in the pipeline where they lie and in that where they
        are read on; the places behind."""
        raw, (place, to) = self.raw, places
        assert raw is not None

        def turn(inside: Inserter, tiles: Sequence[SSAValue]) -> Sequence[SSAValue]:
            def copy(stage: Inserter, buffers: Sequence[SSAValue]) -> None:
                for tile, number in zip(tiles, self.turned):
                    stage.add(CopyOp.make(tile, buffers[number]))
                stage.add(FenceProxyOp.make(proxy="async.shared"))

            self.read.fill(inside, to, copy)
            return []

        token, _ = raw.read(at, place, turn)
        at.add(ConsumerReleaseOp.make(token))
        return [raw.next(at, place), self.read.next(at, to)]
