# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One body for the iterations of two loops: what is computed for both, and what a condition chooses.

Ops with effects, loads and products of the two bodies go together in their order (`anchors`). What both compute of the
same stays one op; from what the bodies yield, and the anchors take, differences are followed back to where they begin:

    numbers             both are computed, and one is selected
    tiles of floats     a branch, with what each side computes of what both have
    all else            goes up to the op that uses it

so that a branch begins behind the last thing that both have, and ends at the first that can be handed on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count

from xdsl.ir import Attribute, Block, IRNode, Operation, OpResult, Region, SSAValue

from libtile.dialects.cuda_tile.ops import build
from libtile.dialects.cuda_tile.types import TileType, is_float
from libtile.dialects.interfaces import StatesFact
from libtile.ir.places import is_within, uses_of
from libtile.transforms.canonical_values import is_op, select_before
from libtile.transforms.effects import has_no_effects, is_speculatable
from libtile.transforms.products import PRODUCTS

Pair = tuple[SSAValue, SSAValue]
"""A value of the first body, and what the second one has in its place."""
Arguments = Mapping[SSAValue, Callable[["Inserted"], SSAValue]]
"""For each argument of either body what makes its value; the same maker where two arguments are one value."""


class Inserted:
    """The end of a block that grows, in which values are made once."""

    def __init__(self, block: Block, end: Operation) -> None:
        self.block, self.end = block, end
        """`end` is an op that stays behind all others until the block is whole."""
        self.once: dict[object, SSAValue] = {}

    def add(self, op: Operation) -> Operation:
        self.block.insert_op_before(op, self.end)
        return op

    def get(self, key: object, make: Callable[[], SSAValue]) -> SSAValue:
        if key not in self.once:
            self.once[key] = make()
        return self.once[key]


class _NotYet(Exception):
    """An anchor is wanted that comes later."""


def _uses(op: Operation) -> list[SSAValue]:
    """What an op takes, and what its regions take from around it."""
    if not op.regions:
        return list(op.operands)
    return [value for value in uses_of(op) if not is_within(value, op)]


def _is_anchor(op: Operation) -> bool:
    return is_op(op, *PRODUCTS) or not (has_no_effects(op) or op.has_trait(StatesFact))


def _is_number(value: SSAValue) -> bool:
    return isinstance(value.type, TileType) and not value.type.shape


def _is_floats(value: SSAValue) -> bool:
    return isinstance(value.type, TileType) and is_float(value.type.element_type)


class JoinedBodies:
    """Two bodies as one. `arguments` makes the values of their arguments, and `pairs` of what they yield go on."""

    def __init__(self, first: Block, second: Block, arguments: Arguments, yielded: Sequence[Pair]) -> None:
        self.first, self.second, self.arguments, self.yielded = first, second, arguments, yielded
        self.ops = [[op for op in block.ops if op is not block.last_op] for block in (first, second)]
        self.anchors = [[op for op in ops if _is_anchor(op)] for ops in self.ops]
        self.numbers: dict[SSAValue, object] = dict(arguments)
        """Values of the two bodies with the same number are one."""
        self.leading: dict[object, SSAValue] = {}
        """The first value of a number: of the first body where that has it."""
        self.both: set[object] = set()
        """The numbers of what ops of both bodies give."""
        self.found: dict[Pair, str] = {}
        """How two values become one: `together`, `select`, `branch`; or '' where they do not."""

    # -- what goes together ------------------------------------------------------------------------------------------

    def problem(self) -> str:
        """Why the bodies cannot be one; nothing where they can."""
        if len(self.anchors[0]) != len(self.anchors[1]) or not all(map(self._alike, *self.anchors)):
            return "their bodies load, store or multiply differently"
        self._number()
        wanted = [*self.yielded]
        for pair in zip(*self.anchors):
            wanted += zip(*map(_uses, pair))
        self._settle(wanted)
        if not all(self.found[pair] for pair in wanted):
            return "their bodies differ in more than numbers and tiles that a branch gives"
        return ""

    @staticmethod
    def _alike(a: Operation, b: Operation) -> bool:
        """Whether two ops are the same but for their operands."""
        given = [_uses(op) for op in (a, b)]
        if a.name != b.name or a.properties != b.properties or a.attributes != b.attributes:
            return False
        types = [[v.type for v in (*op.results, *uses)] for op, uses in zip((a, b), given)]
        if types[0] != types[1] or len(set(zip(*given))) != len(set(given[0])):
            return False
        context: dict[IRNode | SSAValue, IRNode | SSAValue] = dict(zip(*given))
        if a.parent is not None and b.parent is not None:
            context[a.parent] = b.parent
        return a.is_structurally_equivalent(b, context)

    def _number(self) -> None:
        fresh = count()
        for pair in zip(*self.anchors):
            for results in zip(*(op.results for op in pair)):
                number: object = next(fresh)
                self.numbers.update(dict.fromkeys(results, number))
        known: dict[tuple[str, tuple[object, ...], tuple[Attribute, ...]], list[Operation]] = {}
        for op in (*self.ops[0], *self.ops[1]):
            if _is_anchor(op):
                continue
            key = op.name, tuple(map(self._of, _uses(op))), tuple(r.type for r in op.results)
            same = next((other for other in known.get(key, ()) if self._alike(other, op)), None)
            if same is None:
                known.setdefault(key, []).append(op)
            for n, result in enumerate(op.results):
                self.numbers[result] = next(fresh) if same is None else self.numbers[same.results[n]]
        for value, number in self.numbers.items():
            self.leading.setdefault(number, value)
        sides = [{self.numbers[r] for op in ops for r in op.results} for ops in self.ops]
        self.both = sides[0] & sides[1]

    def _of(self, value: SSAValue) -> object:
        return self.numbers.get(value, value)

    def _settle(self, wanted: Iterable[Pair]) -> None:
        """Find out how pairs become one, and those behind them."""
        work = [*wanted]
        while work:
            pair = work[-1]
            if pair in self.found:
                work.pop()
                continue
            behind = self._behind(pair)
            if missing := [p for p in behind if p not in self.found]:
                work += missing
                continue
            work.pop()
            self.found[pair] = self._way(pair, behind)

    def _behind(self, pair: Pair) -> list[Pair]:
        """The pairs that two equal ops take, where the values are not one already and no numbers."""
        v, w = pair
        if self._of(v) == self._of(w) or _is_number(v):
            return []
        if not (isinstance(v, OpResult) and isinstance(w, OpResult)) or v.index != w.index:
            return []
        a, b = v.op, w.op
        if a.parent is not self.first or b.parent is not self.second:
            return []
        if _is_anchor(a) or _is_anchor(b) or not self._alike(a, b):
            return []
        return list(zip(_uses(a), _uses(b)))

    def _way(self, pair: Pair, behind: Sequence[Pair]) -> str:
        v, w = pair
        if self._of(v) == self._of(w):
            return "together"
        if v.type != w.type:
            return ""
        if _is_number(v):
            sides = [*self._cone(0, v), *self._cone(1, w)]
            return "select" if all(is_speculatable(op) or op.has_trait(StatesFact) for op in sides) else ""
        if behind and all(self.found[p] for p in behind):
            return "together"
        sides = [*self._cone(0, v), *self._cone(1, w)]
        return "branch" if _is_floats(v) and not any(op.regions for op in sides) else ""

    def _cone(self, side: int, value: SSAValue) -> list[Operation]:
        """What one body alone computes a value with, in order."""
        found: set[Operation] = set()
        work = [value]
        while work:
            value = work.pop()
            op = value.owner
            if isinstance(op, Operation) and op not in found and value in self.numbers and not self._is_shared(value):
                found.add(op)
                work += _uses(op)
        return [op for op in self.ops[side] if op in found]

    def _is_shared(self, value: SSAValue) -> bool:
        """Whether both bodies have a value: an anchor's, or one that both compute. An argument's is made anyway."""
        owner = value.owner
        if isinstance(owner, Block) or _is_anchor(owner):
            return True
        return self.numbers[value] in self.both

    # -- making ------------------------------------------------------------------------------------------------------

    def make(self, at: Inserted, condition: Callable[[], SSAValue]) -> list[SSAValue]:
        """Make the one body, where `condition` says whether an iteration is one of the second loop; what it yields."""
        self.at, self.condition = at, condition
        self.numbered: dict[object, SSAValue] = {}
        self.made: dict[Pair, SSAValue] = {}
        self.sides: list[dict[SSAValue, SSAValue]] = [{}, {}]
        wanted = self._wanted()
        anchors = dict(zip(self.anchors[0], self.anchors[1]))
        for op in self.ops[0]:
            if op in anchors:
                results = self._together(op, anchors[op])
                self.numbered.update((self.numbers[old], new) for old, new in zip(op.results, results))
                continue
            for pair in wanted.get(op, ()):
                try:
                    self._value(pair)
                except _NotYet:
                    continue
        return [self._value(pair) for pair in self.yielded]

    def _wanted(self) -> dict[Operation, list[Pair]]:
        """The pairs that are wanted of the first body's ops, but for what only one side of a branch takes."""
        wanted: dict[Operation, list[Pair]] = {}
        work = [*self.yielded, *(p for pair in zip(*self.anchors) for p in zip(*map(_uses, pair)))]
        seen = set[Pair]()
        while work:
            v, w = pair = work.pop()
            if pair in seen:
                continue
            seen.add(pair)
            if self._of(v) == self._of(w):
                # The same value of both: as the first body has it.
                v = w = self.leading.get(self._of(v), v)
            elif self.found[pair] != "together":
                taken = [u for side, value in enumerate(pair) for op in self._cone(side, value) for u in _uses(op)]
                work += [(u, u) for u in (*taken, *pair) if u in self.numbers and self._is_shared(u)]
                continue
            a, b = v.owner, w.owner
            if isinstance(a, Operation) and isinstance(b, Operation) and a.parent is self.first and not _is_anchor(a):
                wanted.setdefault(a, []).append((v, w))
                work += zip(_uses(a), _uses(b))
        return wanted

    def _value(self, pair: Pair) -> SSAValue:
        v, w = pair
        if pair not in self.made:
            if self._of(v) == self._of(w) or v is w:
                self.made[pair] = self._shared_value(v)
            elif self.found[pair] == "select":
                sides = [self._number_of(side, value) for side, value in enumerate(pair)]
                self.made[pair] = select_before(self.at.end, self.condition(), sides[1], sides[0])
            elif self.found[pair] == "branch":
                self.made[pair] = self._branch(pair)
            else:
                a, b = v.owner, w.owner
                assert isinstance(a, Operation) and isinstance(b, Operation)
                for old, other, new in zip(a.results, b.results, self._together(a, b)):
                    self.made[old, other] = new
        return self.made[pair]

    def _together(self, a: Operation, b: Operation) -> Sequence[SSAValue]:
        """One op of two, with what becomes of their operands."""
        given = {v: self._value((v, w)) for v, w in zip(_uses(a), _uses(b))}
        return self.at.add(a.clone(given)).results

    def _shared_value(self, value: SSAValue) -> SSAValue:
        """A value of both bodies, or of none of them."""
        if value not in self.numbers:
            return value
        number = self.numbers[value]
        if number in self.numbered:
            return self.numbered[number]
        if value in self.arguments:
            self.numbered[number] = made = self.arguments[value](self.at)
            return made
        leading = self.leading[number].owner
        assert isinstance(leading, Operation)
        if _is_anchor(leading):
            raise _NotYet
        copy = self.at.add(leading.clone({v: self._shared_value(v) for v in _uses(leading)}))
        self.numbered.update((self.numbers[old], new) for old, new in zip(leading.results, copy.results))
        return self.numbered[number]

    def _number_of(self, side: int, value: SSAValue) -> SSAValue:
        """A number as one body computes it, in each iteration; facts that it states hold in its own only."""
        known = self.sides[side]
        for op in self._cone(side, value):
            if op.has_trait(StatesFact):
                (stated_of,) = op.operands
                known[op.results[0]] = self._of_side(known, stated_of)
            elif op.results[0] not in known:
                given = {v: self._of_side(known, v) for v in _uses(op)}
                known.update(zip(op.results, self.at.add(op.clone(given)).results))
        return self._of_side(known, value)

    def _of_side(self, known: Mapping[SSAValue, SSAValue], value: SSAValue) -> SSAValue:
        return known[value] if value in known else self._shared_value(value)

    def _branch(self, pair: Pair) -> SSAValue:
        regions = []
        for side, value in reversed([*enumerate(pair)]):
            known, block = dict(self.sides[side]), Block()
            cone = [op for op in self._cone(side, value) if op.results[0] not in known]
            for op in cone:
                given = {v: self._of_side(known, v) for v in _uses(op)}
                copy = op.clone(given)
                block.add_op(copy)
                known.update(zip(op.results, copy.results))
            end = build("yield", {"operands": [self._of_side(known, value)]})
            end.location = next((op.location for op in reversed(cone)), self.at.end.location)
            block.add_op(end)
            regions.append(Region(block))
        chosen = build("if", {"condition": self.condition()}, [pair[0].type], regions=regions)
        owners = [v.owner for v in reversed(pair)]
        chosen.location = next((o.location for o in owners if isinstance(o, Operation)), self.at.end.location)
        return self.at.add(chosen).results[0]
