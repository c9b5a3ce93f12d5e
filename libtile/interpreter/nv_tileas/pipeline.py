# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pipelines: acquire, write, commit; wait, read, release. An iterator is a pipeline and the number of a turn.

A stage that holds buffers owns them. One that holds tiles holds what the producer's region yields, as a region cannot
write into a tile. Regions are run in place (`libtile.interpreter.inner_codegen`)."""

from __future__ import annotations

from typing import Any

from libtile.dialects.nv_tileas.pipeline import carried_types
from libtile.dialects.nv_tileas.types import BufferType, PipelineType
from libtile.interpreter.faults import Fault, FaultKind
from libtile.interpreter.formats import element
from libtile.interpreter.inner_rules import WAIT, Run, Site, effect, pure
from libtile.interpreter.nv_tileas.buffers import Buffer, Copy
from libtile.interpreter.rings import Ring, Turn

PIPELINE = "nv_tileas.async.pipeline."
Iterator = tuple[Ring, int]


@effect(PIPELINE + "create_pipeline")
def create_pipeline(site: Site) -> Run:
    type_ = site.type_of("pipeline")
    if not isinstance(type_, PipelineType):
        raise TypeError("create_pipeline makes a pipeline")
    types = type_.element_types
    buffers = [(element(t.element_type), t.shape) for t in types if isinstance(t, BufferType)]
    if buffers and len(buffers) != len(types):
        raise Fault(FaultKind.UNSUPPORTED, "a stage of buffers and of tiles")

    def contents() -> tuple[Any, ...] | None:
        return tuple(Buffer.new(*b) for b in buffers) if buffers or not types else None

    def run(block: Any, storage: tuple[Buffer, ...]) -> Ring:
        made = Ring.new("the pipeline", type_.stages, type_.consumers, contents)
        if storage:
            _place(made, storage, buffers)
        block.at_end.append((site.op, made.under_way))
        return made

    return run


def _place(ring: Ring, storage: tuple[Buffer, ...], buffers: list[tuple[Any, tuple[int, ...]]]) -> None:
    """Put the stages into storage: one buffer for each value of a stage, whose first dimension counts stages."""
    count = len(ring.stages)
    for memory, (_, shape) in zip(storage, buffers):
        if memory.data.shape != (count, *shape):
            raise Fault(FaultKind.PIPELINE, f"storage of {memory.data.shape} for {count} stages of {shape}")
    for number, stage in enumerate(ring.stages):
        stage.values = tuple(
            memory.part((slice(number, number + 1),), shape) for memory, (_, shape) in zip(storage, buffers)
        )


@effect(PIPELINE + "create_iterator", waits=True)
def create_iterator(site: Site) -> Run:
    drawn, consumer = site.attr("drawn"), site.attr("consumer_idx", None)

    def run(block: Any, pipeline: Ring) -> Any:
        turn = pipeline.draw(consumer) if drawn else 0
        return WAIT if turn is None else (pipeline, turn)

    return run


@pure(PIPELINE + "inc_iter")
def inc_iter(site: Site) -> Run:
    return lambda iterator: (iterator[0], iterator[1] + 1)


def _own(pipeline: Ring, iterator: Iterator) -> int:
    """The turn that an iterator is at. A fault when it is another pipeline's."""
    if iterator[0] is not pipeline:
        raise Fault(FaultKind.PIPELINE, "the iterator is that of another pipeline")
    return iterator[1]


@effect(PIPELINE + "producer_acquire", waits=True)
def producer_acquire(site: Site) -> Run:
    def run(block: Any, pipeline: Ring, iterator: Iterator) -> Any:
        turn = _own(pipeline, iterator)
        return Turn(pipeline, turn) if pipeline.acquire(turn) else WAIT

    return run


@pure(PIPELINE + "producer_commit")
def producer_commit(site: Site) -> Run:
    def run(token: Turn) -> tuple:
        if token.ended:
            raise Fault(FaultKind.PIPELINE, f"turn {token.number} is committed twice")
        if not token.used:
            raise Fault(FaultKind.PIPELINE, f"turn {token.number} is committed and was never written")
        token.ended = True
        token.ring.commit(token.number)
        return ()

    return run


@effect(PIPELINE + "consumer_wait", waits=True)
def consumer_wait(site: Site) -> Run:
    consumer, pending = site.attr("consumer_idx", 0), site.attr("pending", 0)

    def run(block: Any, pipeline: Ring, iterator: Iterator) -> Any:
        turn = _own(pipeline, iterator)
        if not pipeline.wait(turn, consumer):
            return WAIT
        later = pipeline.commits - turn - 1
        if later < pending:
            raise Fault(
                FaultKind.PIPELINE,
                f"a wait for turn {turn} lets {pending} later turns be under way, and {later} are committed: its own "
                "copies may be among them",
            )
        return Turn(pipeline, turn, consumer)

    return run


@pure(PIPELINE + "consumer_release")
def consumer_release(site: Site) -> Run:
    holds_values = bool(carried_types(site.type_of("token")))

    def run(token: Turn) -> tuple:
        if token.ended:
            raise Fault(FaultKind.PIPELINE, f"turn {token.number} is released twice")
        if holds_values and not token.used:
            raise Fault(FaultKind.PIPELINE, f"turn {token.number} is released and was never read")
        assert token.consumer is not None  # a consumer's token, by its type
        token.ended = True
        token.ring.release(token.number, token.consumer)
        return ()

    return run


@effect("nv_tileas.async.wait")
def wait(site: Site) -> Run:
    """Waits for the given copies, or, without any, for all groups but the last `pending`."""
    pending = site.attr("pending", 0)

    def run(block: Any, tokens: tuple[Copy, ...]) -> tuple:
        if not tokens:
            done = block.groups[: len(block.groups) - pending]
            block.groups = block.groups[len(done) :]
            tokens = tuple(done)
        elif pending:
            later = [g for g in block.groups if g not in tokens]
            behind = [g for g in later if block.groups.index(g) > max(map(block.groups.index, tokens), default=-1)]
            if len(behind) < pending:
                message = f"a wait lets {pending} later groups be under way, and {len(behind)} are: its own may be"
                raise Fault(FaultKind.PIPELINE, message)
        for token in tokens:
            token.finish()
        return ()

    return run
