# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The turns of a loop with a chain of products, that overlap iterations; `specialize_chains` says which loops these
are.

With L and T for leading and trailing products, and i for iterations, turns are

    L(0), wait, what is between and after
    for i from 1    load what lies in memory; issue L(i) and T(i - 1); wait for L(i), release its stages; what is
                    between; wait for T(i - 1), release its stages; what is after
    T(last), wait

Two warpgroups take turns at issuing products, so that each computes what is between its own under those of the other.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import IntegerAttr, UnitAttr
from xdsl.ir import Block, Operation, SSAValue

from libtile.atoms import wgmma
from libtile.dialects import arith, scf
from libtile.dialects.nv_tileas.tiles import HandOnTurnOp, TakeTurnOp
from libtile.lowering.tileas.agents.product_turns import Parts, pinned
from libtile.lowering.tileas.counted_loops import number_type
from libtile.lowering.tileas.inserter import Inserter

if TYPE_CHECKING:
    from libtile.lowering.tileas.wgmma.specialize_chains import Chain, Ring

TURNS = 3
"""The first named barrier of warpgroups that take turns: those of the two agents come before."""
PINNED = 1
"""Elements in a row of a tile that keeps what it was computed from in front of a wait."""

Values = dict[SSAValue, SSAValue]
Places = dict["Ring", SSAValue]


class ChainTurns:
    """The turns of one loop."""

    def __init__(self, chain: Chain, parts: Parts, count: SSAValue, starts: Places):
        self.chain, self.parts, self.count, self.starts = chain, parts, count, starts
        self.loop, self.body = chain.loop, chain.body
        by_op = {p.op: p for p in chain.products}
        self.leading, self.trailing = [by_op[p] for p in parts.leading], [by_op[p] for p in parts.trailing]
        self.own = [r for p in self.leading for r in p.moving]
        self.before = [r for p in self.trailing for r in p.moving]
        self.others = [n for n in range(len(self.loop.results)) if n not in parts.accumulators]
        self.handed: Sequence[SSAValue] = parts.handed

    def make(self, at: Inserter) -> Sequence[SSAValue]:
        """What the loop gives, which is what it begins with if it has no iteration."""
        zero = at.value(arith.ConstantOp(IntegerAttr(0, number_type(self.loop))))
        some = at.value(arith.CmpiOp(self.count, zero, "ne"))
        steps, nothing = Block(), Block()
        inner = Inserter(steps, None, self.loop.location)
        inner.add(scf.YieldOp(*self._turned(inner)))
        nothing.add_op(scf.YieldOp(*self.loop.iter_args))
        return at.add(scf.IfOp(some, [r.type for r in self.loop.results], [steps], [nothing])).results

    # -- iterations ---------------------------------------------------------------------------------------------------

    def _first(self) -> Values:
        """The values of the first iteration."""
        loop = self.loop
        return {**self.chain.tokens, self.body.args[0]: loop.lb, **dict(zip(self.body.args[1:], loop.iter_args))}

    def _iteration(self, at: Inserter, number: SSAValue) -> Values:
        """The values of an iteration by its number, but for what the loop carries."""
        step = at.value(arith.MuliOp(number, self.loop.step))
        return {**self.chain.tokens, self.body.args[0]: at.value(arith.AddiOp(self.loop.lb, step))}

    def _carried(self, given: Sequence[SSAValue]) -> Values:
        """What is carried beside the sums of trailing products."""
        return {self.body.args[1 + n]: value for n, value in zip(self.others, given, strict=True)}

    def _handed(self, values: Values) -> list[SSAValue]:
        return [values.get(v, v) for v in self.handed]

    def _in_order(self, ops: Collection[Operation]) -> list[Operation]:
        return [op for op in self.chain.ops if op in ops]

    def _pins(self) -> tuple[list[SSAValue], bool]:
        """What is computed in front of the wait for trailing products, and whether that is to be held by itself."""
        pins, row = list(self.parts.pins), pinned(self.parts, PINNED)
        if row is not None and row not in pins:
            pins.append(row)
        # ptxas would wait before the rest, and compute none of it under several products. One warpgroup by itself has
        # no registers left where it is kept from that.
        return pins, row is None and len(self.trailing) > 1 and self._groups() > 1

    def _results(self, carried: Sequence[SSAValue], old: Values) -> list[SSAValue]:
        """What the loop gives when trailing products have ended whose values are `old`."""
        sums = {n: old[p.op.result] for n, p in zip(self.parts.accumulators, self.trailing)}
        results = dict(zip(self.others, carried)) | sums
        return [results[n] for n in range(len(self.loop.results))]

    def _turned(self, inner: Inserter) -> list[SSAValue]:
        """Turns of iterations from the second on, and what is before and behind them."""
        chain, parts, loop = self.chain, self.parts, self.loop
        number, moving = number_type(loop), [*self.own, *self.before]
        one = inner.value(arith.ConstantOp(IntegerAttr(1, number)))
        # The first iteration, up to its trailing products.
        values = self._first()
        inner.clone((*parts.early, *parts.before), values)
        chain.multiply(inner, self.leading, values, self.starts)
        inner.clone(self._in_order({*parts.between, *parts.after}), values)
        following = [r.next(inner, self.starts[r]) for r in self.own]
        first = chain.carried_on(values)
        given = [
            *following, *(self.starts[r] for r in self.before), *(first[n] for n in self.others), *self._handed(values)
        ]  # fmt: skip
        # A turn: this iteration up to its trailing products, and those of the one before.
        turn = Block(arg_types=[number, *(v.type for v in given)])
        each = Inserter(turn, None, loop.location)
        places, carried, old = self._taken(turn.args[1:])
        values = self._iteration(each, turn.args[0]) | self._carried(carried)
        each.clone(parts.early, values)
        each.clone(parts.late, old)
        each.clone(parts.before, values)
        # A warpgroup whose turn it is waits for nothing.
        waited = {ring: ring.wait(each, places[ring]) for ring in (moving if self._groups() > 1 else [])}
        self._take_turn(each)
        registers = chain.registers_of(self.trailing, old)
        ours = chain.issue(each, self.leading, values, places, registers, waited=waited)
        theirs = chain.issue(each, self.trailing, old, places, fenced=True, waited=waited)
        self._hand_on_turn(each)
        chain.wait(each, self.leading, values, ours, pending=len(self.trailing))
        each.clone(parts.between, values)
        pins, held = self._pins()
        chain.wait(each, self.trailing, old, theirs, 0, pins, values, held=held)
        values |= {self.body.args[1 + n]: old[p.op.result] for n, p in zip(parts.accumulators, self.trailing)}
        each.clone(parts.after, values)
        following = [r.next(each, places[r]) for r in moving]
        after = chain.carried_on(values)
        each.add(scf.YieldOp(*following, *(after[n] for n in self.others), *self._handed(values)))
        rest = scf.ForOp(one, self.count, one, given, turn)
        rest.attributes["unsignedCmp"] = UnitAttr()
        self._hand_on_turn(inner, first=True)
        inner.add(rest)
        self._take_turn(inner, last=True)
        # The trailing products of the last iteration.
        places, carried, old = self._taken(rest.results)
        inner.clone(parts.late, old)
        chain.multiply(inner, self.trailing, old, places)
        return self._results(carried, old)

    def _taken(self, given: Sequence[SSAValue]) -> tuple[Places, list[SSAValue], Values]:
        """What turns hand on: places, what is carried beside sums, and what trailing products take."""
        moving, rest = [*self.own, *self.before], list(given)
        places, rest = dict(zip(moving, rest)), rest[len(moving) :]
        return places, rest[: len(self.others)], dict(zip(self.handed, rest[len(self.others) :]))

    # -- turns of warpgroups ------------------------------------------------------------------------------------------

    def _groups(self) -> int:
        """How many warpgroups take turns: what each computes between its products is then computed under those of the
        others. Without that there is nothing to gain."""
        groups = self.chain.spec.num_warps // wgmma.GROUP_WARPS
        return groups if groups > 1 and self.parts.between and self.chain.take_turns else 1

    def _take_turn(self, at: Inserter, *, last: bool = False) -> None:
        if (groups := self._groups()) > 1:
            at.add(TakeTurnOp.make(id=TURNS, groups=groups, last=last))

    def _hand_on_turn(self, at: Inserter, *, first: bool = False) -> None:
        if (groups := self._groups()) > 1:
            at.add(HandOnTurnOp.make(id=TURNS, groups=groups, first=first))
