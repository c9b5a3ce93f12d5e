# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The turns of a chain of products where registers suffice for the results of two iterations (see `chain_turns`).

What is between then waits for no product of its own iteration, but is computed under the leading products of the next
one, too. With L, T and i as in `chain_turns`, turns are

    L(0), wait
    issue L(1); what is between(0); wait; what is after(0)
    for i from 2    issue T(i - 2); what is first between(i - 1); issue L(i); the rest of it; wait for both;
                    what is after(i - 1)
    T(last - 1), wait
    what is between(last) and after(last); T(last), wait

What is first between is all that reads the results of leading products, whose registers the next ones take. A loop of
one iteration has the first and the last line only. Warpgroups do not take turns: neither waits for its own products
long enough for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import IntegerAttr, TensorType, UnitAttr
from xdsl.ir import Block, SSAValue

from libtile.dialects import arith, scf
from libtile.dialects.nv_tileas.async_products import WaitDotOp
from libtile.ir.places import is_of_block
from libtile.lowering.tileas.agents.product_turns import Parts, pinned, readers
from libtile.lowering.tileas.counted_loops import number_type
from libtile.lowering.tileas.inserter import Inserter
from libtile.lowering.tileas.wgmma.chain_turns import PINNED, ChainTurns, Places, Values
from libtile.lowering.to_tileas.accesses import WORD_BYTES, element_bytes

if TYPE_CHECKING:
    from libtile.lowering.tileas.wgmma.specialize_chains import Chain


def is_tile_of_words(value: SSAValue) -> bool:
    """Whether a value is a tile whose elements are registers."""
    return isinstance(value.type, TensorType) and element_bytes(value.type.element_type) == WORD_BYTES


class TurnsAhead(ChainTurns):
    """The turns of one loop, whose leading products are an iteration ahead."""

    def __init__(self, chain: Chain, parts: Parts, count: SSAValue, starts: Places):
        super().__init__(chain, parts, count, starts)
        found = readers(parts)
        self.first, self.rest = found.ops, [op for op in parts.between if op not in found.ops]
        self.read_first = [v for v in found.given if is_tile_of_words(v)]
        # Left operands are narrow where the leading products have ended, so that they take fewer registers.
        self.handed = [v for v in chain.registers_of(self.trailing, {}) if is_of_block(v, self.body)]

    def _turned(self, inner: Inserter) -> list[SSAValue]:
        chain, parts = self.chain, self.parts
        values = self._first()
        inner.clone(parts.before, values)
        chain.multiply(inner, self.leading, values, self.starts)
        one = inner.value(arith.ConstantOp(IntegerAttr(1, number_type(self.loop))))
        more = inner.value(arith.CmpiOp(self.count, one, "ne"))
        several, lone = Block(), Block()
        branch = Inserter(several, None, self.loop.location)
        branch.add(scf.YieldOp(*self._several(branch, dict(values), one)))
        branch = Inserter(lone, None, self.loop.location)
        given = self._at_last(values, [self.loop.iter_args[n] for n in self.others], self._sums(values), self.starts)
        branch.add(scf.YieldOp(*given))
        last = inner.add(scf.IfOp(more, [v.type for v in given], [several], [lone])).results
        # The last iteration, whose leading products have ended.
        values = self._iteration(inner, inner.value(arith.SubiOp(self.count, one)))
        places: Places = dict(zip(self.before, last))
        rest = last[len(self.before) :]
        carried, results = rest[: len(self.others)], rest[len(self.others) :]
        values |= self._carried(carried)
        inner.clone(parts.before, values)
        values |= dict(zip([p.op.result for p in self.leading], results))
        for n, value in zip(self.parts.accumulators, results[len(self.leading) :], strict=True):
            values[self.body.args[1 + n]] = value
        inner.clone(self._in_order({*parts.early, *parts.between, *parts.after, *parts.late}), values)
        given = chain.carried_on(values)
        old = dict(zip(self.handed, self._handed(values)))
        chain.multiply(inner, self.trailing, old, places)
        return self._results([given[n] for n in self.others], old)

    def _sums(self, values: Values) -> Values:
        """The sums of trailing products as an iteration begins with them."""
        return {p.op.result: values[self.body.args[1 + n]] for n, p in zip(self.parts.accumulators, self.trailing)}

    def _at_last(self, values: Values, carried: Sequence[SSAValue], sums: Values, places: Places) -> list[SSAValue]:
        """What the last iteration takes."""
        return [
            *(places[r] for r in self.before), *carried, *(values[p.op.result] for p in self.leading),
            *(sums[p.op.result] for p in self.trailing),
        ]  # fmt: skip

    def _several(self, inner: Inserter, values: Values, one: SSAValue) -> list[SSAValue]:
        """All iterations but the last, of several."""
        parts, number, leading = self.parts, number_type(self.loop), len(self.leading)
        two = inner.value(arith.ConstantOp(IntegerAttr(2, number)))
        places = {r: self.starts[r] for r in self.before} | {r: r.next(inner, self.starts[r]) for r in self.own}
        following = self._iteration(inner, one)
        inner.clone(parts.before, following)
        given = self._turn(inner, values, following, self._sums(values), places)
        turn = Block(arg_types=[number, *(v.type for v in given)])
        each = Inserter(turn, None, self.loop.location)
        places, carried, old = self._taken(turn.args[1:-leading])
        values = self._iteration(each, each.value(arith.SubiOp(turn.args[0], one))) | self._carried(carried)
        each.clone(parts.before, values)
        values |= dict(zip([p.op.result for p in self.leading], turn.args[-leading:]))
        following = self._iteration(each, turn.args[0])
        each.clone(parts.before, following)
        each.add(scf.YieldOp(*self._turn(each, values, following, old, places, trailing=True)))
        rest = scf.ForOp(two, self.count, one, given, turn)
        rest.attributes["unsignedCmp"] = UnitAttr()
        inner.add(rest)
        # The trailing products of the last iteration but one.
        places, carried, old = self._taken(rest.results[:-leading])
        self.chain.multiply(inner, self.trailing, old, places)
        values = dict(zip([p.op.result for p in self.leading], rest.results[-leading:]))
        return self._at_last(values, carried, old, {r: r.next(inner, places[r]) for r in self.before})

    def _turn(
        self, at: Inserter, values: Values, following: Values, old: Values, places: Places, *, trailing: bool = False
    ) -> list[SSAValue]:
        """What is left of an iteration, under the `trailing` products of the one before, whose values are `old`, and
        the leading ones of the `following`; what the next turn takes."""
        chain, parts = self.chain, self.parts
        theirs = self.trailing if trailing else []
        moving = [*self.own, *(self.before if trailing else [])]
        at.clone(parts.early, values)
        waited = {ring: ring.wait(at, places[ring]) for ring in moving}
        tokens = chain.issue(at, theirs, old, places, waited=waited)
        at.clone(self.first, values)
        # What is first reads registers that the leading products take.
        ahead = [values[v] for v in self.read_first]
        tokens |= chain.issue(at, self.leading, following, places, ahead, waited=waited)
        # The assembler would part the products by what is computed, and the last of them would end late.
        at.add(WaitDotOp.make([], [], [], results=[[]], pending=len(theirs) + len(self.leading), held=True))
        at.clone(self.rest, values)
        flying = following | old
        # What leads to the numbers of rows is computed with them: more values through the wait take more registers.
        row = pinned(parts, PINNED)
        pins = parts.pins if row is None else [row]
        chain.wait(at, [*theirs, *self.leading], flying, tokens, 0, pins, values)
        following |= {p.op.result: flying[p.op.result] for p in self.leading}
        for n, product in zip(parts.accumulators, self.trailing):
            values[self.body.args[1 + n]] = flying[product.op.result]
        at.clone(self._in_order({*parts.late, *parts.after}), values)
        next_ = {ring: ring.next(at, place) if ring in moving else place for ring, place in places.items()}
        carried = chain.carried_on(values)
        return [
            *(next_[r] for r in (*self.own, *self.before)), *(carried[n] for n in self.others), *self._handed(values),
            *(following[p.op.result] for p in self.leading),
        ]  # fmt: skip
