# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Queues: a put hands on what its region yields, a get runs its region on what it gets; all consumers get all entries.

The regions are run in place (`libtile.interpreter.inner_codegen`): these are what happens at their begin and end."""

from __future__ import annotations

from typing import Any

from libtile.interpreter.inner_rules import WAIT, Run, Site, effect
from libtile.interpreter.rings import Ring
from libtile.support.records import dataclass, field


@dataclass(eq=False)
class Queue:
    """A ring, and at which turn its producers and each of its consumers are."""

    ring: Ring
    puts: int = 0
    gets: list[int] = field(default_factory=list)


@effect("nv_tileaa.create_queue")
def create_queue(site: Site) -> Run:
    depth, consumers = site.attr("depth"), site.attr("num_consumers", 1)

    def run(block: Any) -> Queue:
        ring = Ring.new("the queue", depth, consumers, lambda: None)
        block.at_end.append((site.op, ring.untaken))
        return Queue(ring, 0, [0] * consumers)

    return run


def begin_put(queue: Queue) -> Any:
    """The turn that a put takes; WAIT while the queue is full."""
    if not queue.ring.acquire(queue.puts):
        return WAIT
    queue.puts += 1
    return queue.puts - 1


def end_put(queue: Queue, turn: int, values: tuple[Any, ...]) -> None:
    """Hand values on."""
    queue.ring.fill(turn, values)
    queue.ring.commit(turn)


def begin_get(queue: Queue, consumer: int) -> Any:
    """The turn that a get takes; WAIT while the queue is empty."""
    turn = queue.gets[consumer]
    if not queue.ring.wait(turn, consumer):
        return WAIT
    queue.gets[consumer] += 1
    return turn


def end_get(queue: Queue, turn: int, consumer: int) -> None:
    """Give the entry's place back."""
    queue.ring.release(turn, consumer)
