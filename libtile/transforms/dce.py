# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`dce`: ops gone whose results nothing needs, and with them the loop-carried values that only feed themselves.

Stays what a program can observe: stores, atomics, prints, assertions, and whatever a token of theirs waits for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, OpResult, SSAValue
from xdsl.passes import ModulePass

from libtile.dialects.cuda_tile.ops import CudaTileOp
from libtile.support import statistics
from libtile.transforms.canonical_values import is_op
from libtile.transforms.effects import is_removable
from libtile.transforms.greedy import erase_dead, functions_in, inner_functions_in


@dataclass(frozen=True)
class DcePass(ModulePass):
    """Erase dead ops and dead loop-carried values."""

    name = "dce"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        eliminate_dead_code(op)


def eliminate_dead_code(root: Operation) -> bool:
    """Erase what is dead in every function in `root` (or in `root` itself); returns whether anything was."""
    changed = False
    for function in functions_in(root):
        if _break_dead_cycles(function):
            changed = True
        changed |= erase_dead(function, _is_dead)
    for inner in inner_functions_in(root):
        changed |= erase_dead(inner, _is_dead)
    return changed


def _is_dead(op: Operation) -> bool:
    return all(result.first_use is None for result in op.results) and is_removable(op)


def _break_dead_cycles(function: CudaTileOp) -> bool:
    """Let loops carry on their initial value where nothing that matters uses what they compute for it.

    The computation in the loop is then dead by itself. Only operands change: a loop keeps its signature, so that every
    `continue` and `break` in it does, too.
    """
    loops = [op for op in function.walk() if isinstance(op, CudaTileOp) and is_op(op, "for", "loop")]
    if not any(map(_carried_arguments, loops)):
        return False
    live = _live_values(function)
    changed = False
    for loop in loops:
        for index, arg in enumerate(_carried_arguments(loop)):
            # A `for` gives what it last continued with, a `loop` only what it breaks with.
            if arg in live or (is_op(loop, "for") and loop.results[index] in live):
                continue
            for exit_ in list(_own_exits(loop, "continue")):
                if exit_.operands[index] is not arg:
                    exit_.operands[index] = arg
                    statistics.count("carried values left alone")
                    changed = True
    return changed


def _carried_arguments(loop: CudaTileOp) -> list[SSAValue]:
    args = loop.regions[0].blocks[0].args
    return list(args[1:] if is_op(loop, "for") else args)


def _own_exits(loop: Operation, *names: str) -> Iterator[Operation]:
    """The exits with these names that belong to the loop itself."""

    def inside(block: Block) -> Iterator[Operation]:
        for op in block.ops:
            if is_op(op, *names):
                yield op
            elif is_op(op, "if"):
                for region in op.regions:
                    for inner in region.blocks:
                        yield from inside(inner)

    yield from inside(loop.regions[0].blocks[0])


def _live_values(function: CudaTileOp) -> set[SSAValue]:
    """Every value that an op with an effect, or an exit that matters, may depend on."""
    live: set[SSAValue] = set()
    work: list[SSAValue] = []
    feeds = _Feeds()

    def need(values: Iterator[SSAValue] | list[SSAValue]) -> None:
        for value in values:
            if value not in live:
                live.add(value)
                work.append(value)

    for op in function.walk():
        if op is not function:
            feeds.add(op)
            need(feeds.needed_by_itself(op))
    while work:
        need(feeds.sources(work.pop()))
    return live


class _Feeds:
    """From which values the results of region ops and the arguments of loops come."""

    def __init__(self) -> None:
        self.incoming: dict[SSAValue, list[SSAValue]] = {}

    def add(self, op: Operation) -> None:
        if is_op(op, "if"):
            for region in op.regions:
                last = region.blocks[0].last_op if region.blocks else None
                if last is not None and is_op(last, "yield"):
                    self._feed(op.results, last.operands)
        elif is_op(op, "for", "loop") and isinstance(op, CudaTileOp):
            args, initial = _carried_arguments(op), op.operand_group("initValues")
            self._feed(args, initial)
            for exit_ in _own_exits(op, "continue"):
                self._feed(args, exit_.operands)
                if is_op(op, "for"):
                    self._feed(op.results, exit_.operands)
            if is_op(op, "for"):
                self._feed(op.results, initial)
            for exit_ in _own_exits(op, "break"):
                self._feed(op.results, exit_.operands)

    def _feed(self, targets: Iterable[SSAValue], values: Iterable[SSAValue]) -> None:
        for target, value in zip(targets, values):
            self.incoming.setdefault(target, []).append(value)

    def needed_by_itself(self, op: Operation) -> list[SSAValue]:
        """Operands that are needed whether or not a result of the op is."""
        if is_op(op, "yield"):
            return list(op.operands) if is_op(op.parent_op(), "reduce", "scan") else []
        if is_op(op, "continue", "break"):
            return []
        if is_op(op, "if", "for", "loop"):
            # Control decides what else runs; values that are only carried along are not needed for it.
            return list(op.operands[: {"if": 1, "for": 3}.get(op.name.removeprefix("cuda_tile."), 0)])
        return [] if is_removable(op) else list(op.operands)

    def sources(self, value: SSAValue) -> list[SSAValue]:
        """The values that a needed value is made of."""
        found = self.incoming.get(value)
        if found is not None:
            return found
        return list(value.op.operands) if isinstance(value, OpResult) else []
