# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Bounded rings of stages, which queues and pipelines are: whose turn it is at each stage, and what a stage holds.

Turn number n is at stage n modulo the number of stages. A producer may take it when all consumers have released the
turn that was there before; a consumer when it is committed. A turn that comes out of order (an iterator that was not
incremented, or twice) is a fault; one that is not there yet is waited for.
"""

from __future__ import annotations

from typing import Any

from libtile.interpreter.faults import Fault, FaultKind
from libtile.interpreter.nv_tileas.buffers import Buffer, Copy
from libtile.support.records import dataclass, field


@dataclass(eq=False)
class Stage:
    """A stage: what it holds, how many turns were taken, committed and released there, and the copies of the turn."""

    values: tuple[Any, ...] | None
    taken: int = 0
    committed: int = 0
    waited: list[int] = field(default_factory=list)
    released: list[int] = field(default_factory=list)


@dataclass(eq=False)
class Ring:
    """The stages of a queue or a pipeline, by consumers."""

    what: str
    stages: list[Stage]
    consumers: int
    commits: int = 0
    drawn: dict[int | None, int] = field(default_factory=dict)
    """How many turns were drawn, by consumers, and by producers (None)."""

    @staticmethod
    def new(what: str, count: int, consumers: int, contents: Any) -> Ring:
        """A ring of so many stages; `contents()` makes what one holds at first (None: nothing)."""
        none = [0] * consumers
        return Ring(what, [Stage(contents(), 0, 0, [*none], [*none]) for _ in range(count)], consumers)

    def _at(self, turn: int) -> tuple[Stage, int]:
        return self.stages[turn % len(self.stages)], turn // len(self.stages)

    def _fault(self, message: str) -> Fault:
        return Fault(FaultKind.PIPELINE, f"{self.what}: {message}")

    def draw(self, consumer: int | None) -> int | None:
        """The next turn of a side that nobody has drawn, once it can be taken; None by now."""
        turn = self.drawn.get(consumer, 0)
        stage, round_ = self._at(turn)
        free = stage.committed >= round_ and min(stage.released) >= round_
        if not (free if consumer is None else stage.committed > round_):
            return None
        self.drawn[consumer] = turn + 1
        return turn

    def acquire(self, turn: int) -> bool:
        """Take a turn to produce; whether it could be taken by now."""
        stage, round_ = self._at(turn)
        if stage.taken > round_:
            raise self._fault(f"turn {turn} is acquired twice")
        if stage.committed < round_ or min(stage.released) < round_:
            return False
        stage.taken = round_ + 1
        return True

    def commit(self, turn: int) -> None:
        """Publish a turn to the consumers."""
        stage, round_ = self._at(turn)
        if stage.committed > round_:
            raise self._fault(f"turn {turn} is committed twice")
        stage.committed = round_ + 1
        self.commits += 1

    def wait(self, turn: int, consumer: int) -> bool:
        """Take a turn to consume; whether it is committed by now. Copies to its buffers are done then."""
        stage, round_ = self._at(turn)
        if stage.waited[consumer] > round_:
            raise self._fault(f"consumer {consumer} waits for turn {turn} twice")
        if stage.committed <= round_:
            return False
        if stage.released[consumer] < round_:
            raise self._fault(f"consumer {consumer} waits for turn {turn} and has not released the one before it")
        stage.waited[consumer] = round_ + 1
        for value in stage.values or ():
            if isinstance(value, Buffer):
                for copy, _ in value.copies:
                    copy.finish()
        return True

    def release(self, turn: int, consumer: int) -> None:
        """Give a turn back."""
        stage, round_ = self._at(turn)
        if stage.released[consumer] > round_:
            raise self._fault(f"consumer {consumer} releases turn {turn} twice")
        stage.released[consumer] = round_ + 1

    def contents(self, turn: int) -> tuple[Any, ...]:
        """What the stage of a turn holds. A fault when it is nothing."""
        values = self._at(turn)[0].values
        if values is None:
            raise self._fault(f"the stage of turn {turn} holds nothing yet")
        return values

    def untaken(self) -> str | None:
        """What is wrong at the end of a tile block where turns were committed that no consumer has taken."""
        left = sum(stage.committed - max(stage.waited) for stage in self.stages)
        if not left:
            return None
        return f"{self.what} holds {left} {'entries' if left > 1 else 'entry'} at the end that nobody has taken"

    def under_way(self) -> str | None:
        """The same where a copy into a stage goes on without the threads, and nobody has waited for it."""
        for stage in self.stages:
            for value in stage.values or ():
                for copy, writes in value.copies if isinstance(value, Buffer) else ():
                    if writes and copy.outlives and not copy.done:
                        return f"nobody has waited for {copy.name} into a stage of {self.what} at the end"
        return None

    def fill(self, turn: int, values: tuple[Any, ...]) -> None:
        """Put values into the stage of a turn."""
        self._at(turn)[0].values = values


@dataclass(eq=False)
class Turn:
    """A token of a pipeline: ownership of a stage by a producer (`consumer` is None) or a consumer."""

    ring: Ring
    number: int
    consumer: int | None = None
    used: bool = False
    """Whether the stage was written (or read)."""
    ended: bool = False
    """Whether the turn was committed (or released)."""

    def use(self, ring: Ring, number: int) -> None:
        """The stage is written or read through an iterator. A fault when it is not this turn's."""
        word = "written" if self.consumer is None else "read"
        if self.ended:
            end = "committed" if self.consumer is None else "released"
            raise self.ring._fault(f"turn {self.number} is {word} after it was {end}")
        if ring is not self.ring:
            raise self.ring._fault(f"turn {self.number} is {word} through an iterator of another pipeline")
        if number != self.number:
            raise self.ring._fault(f"turn {self.number} is {word} through an iterator at turn {number}")
        if self.used and self.consumer is None:
            raise self.ring._fault(f"turn {self.number} is written twice")
        self.used = True


__all__ = ["Copy", "Ring", "Stage", "Turn"]
