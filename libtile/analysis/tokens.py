# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The token graph of a function of any dialect: which memory operations a token stands for, and what a token implies.

A token holds the accesses that happened before whatever takes it: those behind the op that made it, and that op itself.
Tokens come from accesses, from joins (`JoinsTokens`: all that the operands hold), from ops that make fresh ones
(`FreshToken`: nothing), and through the results of branches, the results and the carried values of loops (what the
values hold that may stand there).
"""

from __future__ import annotations

from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from libtile.dialects.interfaces import EndsLoop, Exit, FreshToken, JoinsTokens, control_flow, edges, exit_of, is_token
from libtile.ir.places import ops_of

MAX_VISITS = 128
"""Tokens that are looked at to answer one question."""


class TokenGraph:
    """What tokens come from, for the tokens of one function. Not kept up to date when the function changes."""

    def __init__(self, function: Operation) -> None:
        self._left = 0
        self._order: dict[Operation, int] = {}
        self._incoming: dict[SSAValue, list[SSAValue]] = {}
        for number, op in enumerate(ops_of(function)):
            for operand, value in edges(op):
                if is_token(value):
                    self._incoming.setdefault(value, []).append(op.operands[operand])
            if not op.regions:
                self._order[op] = number

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


def iteration_ends(loop: Operation) -> list[Operation]:
    """The ops that end an iteration of the loop and begin the next one."""
    return [op for op, exit_ in _exits(loop) if not isinstance(exit_, EndsLoop)]


def loop_ends(loop: Operation) -> list[Operation]:
    """The ops that leave the loop and give its results."""
    return [op for op, exit_ in _exits(loop) if isinstance(exit_, EndsLoop)]


def _exits(loop: Operation) -> list[tuple[Operation, Exit]]:
    found: list[tuple[Operation, Exit]] = []
    pending = [loop]
    while pending:
        for region in pending.pop().regions:
            for op in (op for block in region.blocks for op in block.ops):
                exit_, flow = exit_of(op), control_flow(op)
                if exit_ is not None and exit_.target(op) is loop:
                    found.append((op, exit_))
                elif flow is not None and not flow.is_loop:
                    pending.append(op)
    return found


def before(token: SSAValue) -> list[SSAValue]:
    """The tokens that the op which made a token takes."""
    owner = token.owner
    return list(filter(is_token, owner.operands)) if isinstance(owner, Operation) else []


def is_fresh(token: SSAValue) -> bool:
    """Whether the token holds nothing: an op made it fresh, or it is a join of such."""
    pending, seen = [token], {token}
    while pending:
        value = pending.pop()
        if not isinstance(value, OpResult) or len(seen) > MAX_VISITS:
            return False
        if value.op.has_trait(FreshToken):
            continue
        if not value.op.has_trait(JoinsTokens):
            return False
        pending += [other for other in reversed(value.op.operands) if other not in seen]
        seen.update(value.op.operands)
    return True
