# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The token graph of a cuda_tile function: which memory operations a token stands for, and what a token implies.

A token holds the accesses that happened before whatever takes it: those behind the op that made it, and that op itself.
Tokens come from accesses, from `join_tokens` (all that its operands hold), from `make_token` (nothing), and through
the results of `if`, the results and the carried values of loops (what the values hold that may stand there).
"""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue

from libtile.dialects.cuda_tile.ops import CudaTileOp
from libtile.dialects.cuda_tile.types import TokenType

MAX_VISITS = 128
"""Tokens that are looked at to answer one question."""


class TokenGraph:
    """What tokens come from, for the tokens of one function. Not kept up to date when the function changes."""

    def __init__(self, function: Operation) -> None:
        self._left = 0
        self._order: dict[Operation, int] = {}
        self._incoming: dict[SSAValue, list[SSAValue]] = {}
        for number, op in enumerate(function.walk()):
            if isinstance(op, CudaTileOp):
                self._add(op)
                if not op.regions:
                    self._order[op] = number

    def _add(self, op: CudaTileOp) -> None:
        name = op.spec.name
        if name == "if":
            for region in op.regions:
                last = region.blocks[0].last_op if region.blocks else None
                if last is not None and last.name == "cuda_tile.yield":
                    self._feed(op.results, last.operands)
        elif name in ("for", "loop"):
            block = op.regions[0].blocks[0]
            carried = block.args[1:] if name == "for" else block.args
            initial = op.operand_group("initValues")
            self._feed(carried, initial)
            if name == "for":
                self._feed(op.results, initial)
            for exit_ in exits(block):
                if exit_.name == "cuda_tile.continue":
                    self._feed(carried, exit_.operands)
                if exit_.name == ("cuda_tile.continue" if name == "for" else "cuda_tile.break"):
                    self._feed(op.results, exit_.operands)

    def _feed(self, targets: Iterable[SSAValue], values: Iterable[SSAValue]) -> None:
        for target, value in zip(targets, values):
            if isinstance(target.type, TokenType):
                self._incoming.setdefault(target, []).append(value)

    def sources(self, token: SSAValue) -> list[SSAValue] | None:
        """The values that may stand where the token does: of a carried value or a result; None for an op's own."""
        return self._incoming.get(token)

    def holds(self, token: SSAValue, other: SSAValue) -> bool:
        """Whether the token holds all that `other` does, in every run: then it makes `other` redundant beside it.

        False where finding out takes more than MAX_VISITS tokens.
        """
        if is_fresh(other):
            return True
        self._left = MAX_VISITS
        return self._holds(token, other, frozenset())

    def _holds(self, token: SSAValue, other: SSAValue, seen: frozenset[SSAValue]) -> bool:
        if token is other:
            return True
        if self._is_older(token, other):
            return False
        if token in seen:
            return True  # around a loop: what it holds depends on how the loop is entered, which is asked as well
        self._left -= 1
        if self._left < 0:
            return False
        seen |= {token}
        incoming = self._incoming.get(token)
        if incoming is not None:
            return all(self._holds(value, other, seen) for value in incoming)
        if isinstance(token, BlockArgument):
            return False
        return any(self._holds(value, other, seen) for value in before(token))

    def _is_older(self, token: SSAValue, other: SSAValue) -> bool:
        """Whether one op's token is there before the other op runs: then it cannot hold it."""
        if not isinstance(token, OpResult) or not isinstance(other, OpResult):
            return False
        mine, its = self._order.get(token.op), self._order.get(other.op)
        return mine is not None and its is not None and mine < its


def exits(block: Block) -> list[Operation]:
    """The `continue` and `break` ops that belong to the loop with this body."""
    found: list[Operation] = []
    for op in block.ops:
        if op.name in ("cuda_tile.continue", "cuda_tile.break"):
            found.append(op)
        elif op.name == "cuda_tile.if":
            for region in op.regions:
                for inner in region.blocks:
                    found += exits(inner)
    return found


def before(token: SSAValue) -> list[SSAValue]:
    """The tokens that the op which made a token takes."""
    owner = token.owner
    return [v for v in owner.operands if isinstance(v.type, TokenType)] if isinstance(owner, Operation) else []


def is_fresh(token: SSAValue) -> bool:
    """Whether the token holds nothing: it is of `make_token`, or a meeting of such."""
    pending, seen = [token], {token}
    while pending:
        value = pending.pop()
        if isinstance(value, OpResult) and value.op.name == "cuda_tile.make_token":
            continue
        if not isinstance(value, OpResult) or value.op.name != "cuda_tile.join_tokens" or len(seen) > MAX_VISITS:
            return False
        pending += [other for other in reversed(value.op.operands) if other not in seen]
        seen.update(value.op.operands)
    return True
