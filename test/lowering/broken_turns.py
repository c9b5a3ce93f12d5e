# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ways to break the turns of a module of pipelines: each changes one op of one side of one pipeline."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.ir import Operation, SSAValue

from libtile.dialects.nv_tileas.pipeline import (
    ConsumerReadOp,
    ConsumerReleaseOp,
    ConsumerWaitOp,
    CreateIteratorOp,
    IncIterOp,
    ProducerAcquireOp,
    ProducerCommitOp,
    ProducerWriteOp,
)
from libtile.ir.tile_form import erase
from libtile.lowering.agents import agent_of

Change = Callable[[ModuleOp], None]


def _first(module: ModuleOp, cls: type) -> Operation:
    return next(op for op in module.walk() if isinstance(op, cls))


def _again(module: ModuleOp, cls: type) -> None:
    op = _first(module, cls)
    op.parent.insert_op_after(op.clone(), op)


def _early(module: ModuleOp) -> None:
    """A stage is released before it is read."""
    read = _first(module, ConsumerReadOp)
    (release,) = (use.operation for use in read.results[0].uses)
    release.detach()
    release.operands = [read.operands[0]]
    read.parent.insert_op_before(release, read)


def _unwritten(module: ModuleOp) -> None:
    commit = _first(module, ProducerCommitOp)
    write = commit.operands[0].owner
    assert isinstance(write, ProducerWriteOp)
    commit.operands = [write.operands[0]]


def _stays(module: ModuleOp, begin: type) -> None:
    """The side whose first turn begins with an op of this class takes the same stage again."""
    iterator = _first(module, begin).operands[1]
    made = iterator.owner
    if isinstance(made, CreateIteratorOp) and made.drawn is not None:
        # It draws its turn once, where its agent begins.
        switch, number = agent_of(made)
        first = switch.regions[number].block.first_op
        made.detach()
        switch.regions[number].block.insert_op_before(made, first)
        return
    following = next(use.operation for use in iterator.uses if isinstance(use.operation, IncIterOp))
    following.results[0].replace_all_uses_with(iterator)
    erase(following)


def _start(module: ModuleOp, begin: type) -> CreateIteratorOp:
    """The iterator by which a side begins."""
    pipe = _first(module, begin).operands[0]
    starts = [use.operation for use in pipe.uses if isinstance(use.operation, CreateIteratorOp)]
    mine = [s for s in starts if any(isinstance(op, begin) for op in _reached(s.results[0]))]
    return mine[0]


def _reached(value: SSAValue) -> Iterator[Operation]:
    """The ops in the region where an iterator is made that take one of its type."""
    block = value.owner.parent if isinstance(value.owner, Operation) else None
    for op in block.walk() if block is not None else ():
        if any(operand.type == value.type for operand in op.operands):
            yield op


def _late(module: ModuleOp) -> None:
    """A consumer begins with the second stage."""
    made = _start(module, ConsumerWaitOp)
    uses = [*made.results[0].uses]
    step = IncIterOp.make(made.results[0], results=[made.results[0].type])
    made.parent.insert_op_after(step, made)
    for use in uses:
        operands = [*use.operation.operands]
        operands[use.index] = step.results[0]
        use.operation.operands = operands


def _other_iterator(module: ModuleOp) -> None:
    read = _first(module, ConsumerReadOp)
    pipe = _first(module, ConsumerWaitOp).operands[0]
    made = CreateIteratorOp.make(pipe, results=[read.operands[1].type])
    read.parent.insert_op_before(made, read)
    read.operands = [read.operands[0], made.results[0]]


def _wrong_consumer(module: ModuleOp) -> None:
    wait = _first(module, ConsumerWaitOp)
    wait.properties["consumer_idx"] = IntegerAttr(wait.operands[0].type.consumers, i64)


def _without_releases(module: ModuleOp) -> None:
    for op in [op for op in module.walk() if isinstance(op, ConsumerReleaseOp)]:
        erase(op)


def _without(cls: type) -> Change:
    return lambda module: erase(_first(module, cls))


DEADLOCK, UNORDERED = {"deadlock"}, {"race", "async", "deadlock"}
BROKEN: dict[str, tuple[Change, set[str] | str]] = {
    "missing release": (_without(ConsumerReleaseOp), DEADLOCK),
    "missing commit": (_without(ProducerCommitOp), "expects the turn to be committed, but its token goes to no commit"),
    "no releases": (_without_releases, DEADLOCK),
    "wrong phase": (_late, DEADLOCK),
    "early release": (_early, UNORDERED),
    "producer stays": (lambda m: _stays(m, ProducerAcquireOp), UNORDERED),
    "consumer stays": (lambda m: _stays(m, ConsumerWaitOp), UNORDERED),
    "commit twice": (lambda m: _again(m, ProducerCommitOp), "expects a turn to be committed once, but it is 2 times"),
    "release twice": (lambda m: _again(m, ConsumerReleaseOp), "expects a turn to be released once, but it is 2 times"),
    "commit before write": (_unwritten, "expects the token of a stage that was written"),
    "another iterator": (_other_iterator, "expects the iterator by which the stage was granted"),
    "wrong consumer": (_wrong_consumer, "expects consumer_idx to identify a consumer in a group of"),
}
"""By what is wrong: how to make it so, and the kinds of faults that schedules meet, or what is said before."""
