# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tokens of nv_tileaa between accesses of different alias scopes, a part of `canonicalize-tileaa`.

An access that is weak or relaxed (an atomic) does not wait for one of another scope, nor a weak load for another one,
but for what that one waits for;
whoever waits for the former waits for both. Of a token that a loop carries, or a branch gives, it is known which scopes
it may stand for: an access that none of them holds back waits for nothing. What no token holds back may then run
ahead: copies into stages of a pipeline, and loads out of loops.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.ir import Operation, SSAValue

from libtile.analysis.alias_scopes import scope_of
from libtile.analysis.tokens import before
from libtile.dialects.effect_traits import accessed, is_plain_access, only_loads
from libtile.dialects.interfaces import FreshToken, JoinsTokens, control_flow, edges, exit_of, is_token
from libtile.dialects.nv_tileaa.tokens import CreateMemTokenOp, JoinMemTokenOp
from libtile.dialects.nv_tileaa.types import MemTokenType
from libtile.ir.places import ops_of
from libtile.support import statistics

_MOST = 16
"""Tokens that are looked at to find what one access has to wait for."""
Scopes = frozenset[tuple[int | None, bool]]
"""Scopes of accesses that a token may stand for, each with whether these write; None is that of accesses without one,
and of all else."""
_ANYTHING: Scopes = frozenset({(None, True)})


def drop_order_between_scopes(function: Operation) -> bool:
    """Let accesses of one function wait for none of another alias scope; returns whether any wait for less."""
    accesses = [op for op in ops_of(function) if accessed(op) is not None]
    if len({scope_of(op) for op in accesses} - {None}) < 2:
        return False
    stands_for = _Tokens(function)
    changed = False
    for op in accesses:
        scope, waited = scope_of(op), next(filter(is_token, op.operands), None)
        if scope is None or waited is None or not is_plain_access(op):
            continue
        needed: dict[SSAValue, None] = {}
        if not stands_for.needed(waited, scope, not only_loads(op), needed):
            continue
        stands_for.wait_for(op, waited, list(needed))
        statistics.count("accesses of another alias scope that are not waited for")
        changed = True
    return changed


class _Tokens:
    """The scopes of the accesses that each token of a function may stand for."""

    def __init__(self, function: Operation):
        self.known: dict[SSAValue, Scopes] = {}
        while self._visit(function):
            pass

    def needed(self, token: SSAValue, scope: int, writes: bool, needed: dict[SSAValue, None]) -> bool:
        """Collect what an access of a scope has to wait for, of what a token stands for; whether that is less."""
        less, pending, seen = False, [token], set[SSAValue]()
        while pending:
            value = pending.pop()
            if value in seen:
                continue
            seen.add(value)
            found, maker = self.known.get(value, _ANYTHING), value.owner
            if not any(other in (None, scope) and (writes or wrote) for other, wrote in found):
                less |= bool(found)
                continue
            if len(seen) > _MOST:
                needed[value] = None
            elif isinstance(maker, Operation) and maker.has_trait(JoinsTokens):
                pending += reversed(maker.operands)
            elif isinstance(maker, Operation) and is_plain_access(maker) and self._goes_on(maker, scope, writes):
                less = True
                pending += before(value)
            else:
                needed[value] = None
        return less

    @staticmethod
    def _goes_on(maker: Operation, scope: int, writes: bool) -> bool:
        both_read = only_loads(maker) and not writes  # relaxed loads of one place see its values in their order
        return both_read or scope_of(maker) not in (None, scope)

    def _visit(self, function: Operation) -> bool:
        """Hand on what is known, once; whether more is known then."""
        grown = False
        for op in ops_of(function):
            if control_flow(op) is not None or exit_of(op) is not None:
                for number, value in edges(op):
                    grown |= self._add([value], self._of([op.operands[number]]))
                continue
            held = self._of(filter(is_token, op.operands))
            own = _ANYTHING
            if op.has_trait(FreshToken) or op.has_trait(JoinsTokens):
                own = frozenset()
            elif is_plain_access(op):
                own = frozenset({(scope_of(op), not only_loads(op))})
            if not op.regions:
                grown |= self._add(op.results, held | own)
            else:  # whatever it does
                inside = [a for region in op.regions for block in region.blocks for a in block.args]
                grown |= self._add((*op.results, *inside), _ANYTHING)
        return grown

    def _of(self, tokens: Iterable[SSAValue]) -> Scopes:
        return frozenset().union(*(self.known.get(token, frozenset()) for token in tokens))

    def _add(self, values: Sequence[SSAValue], scopes: Scopes) -> bool:
        grown = False
        for value in values:
            if is_token(value) and (value not in self.known or not scopes <= self.known[value]):
                self.known[value] = self.known.get(value, frozenset()) | scopes
                grown = True
        return grown

    def wait_for(self, op: Operation, token: SSAValue, needed: Sequence[SSAValue]) -> None:
        """Let an access wait for these tokens only, and those behind it for what it waited for as well."""
        block, own = op.parent, next(filter(is_token, op.results), None)
        assert block is not None
        if own is not None and (uses := list(own.uses)):
            both = JoinMemTokenOp.make([own, token], results=[MemTokenType()], location=op.location)
            block.insert_op_after(both, op)
            self._add(both.results, self._of((own, token)))
            for use in uses:
                use.operation.operands[use.index] = both.results[0]
        if len(needed) == 1:
            given = needed[0]
        else:
            made = JoinMemTokenOp if needed else CreateMemTokenOp
            new = made.make(*([needed] if needed else []), results=[MemTokenType()], location=op.location)
            block.insert_op_before(new, op)
            given = new.results[0]
            self.known[given] = self._of(needed)
        index = next(n for n, v in enumerate(op.operands) if is_token(v))
        op.operands[index] = given
