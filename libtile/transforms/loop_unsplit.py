# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`loop-unsplit`: one loop, with a branch, of two in which one goes on with what the other has computed.

    for i in lb to min(p, ub) { B ; C }                  for i in lb to ub { if i >= p { A } else { B } ; C }
    for i in max(p, lb) to ub { A ; C }         becomes

which `loop-split` undoes, and where the ranges are not known to meet, with n and m for the iterations of the two,

    for i in lb to ub step s { B ; C }                   for j in 0 to n + m {
    for i in from to end step s { A ; C }       becomes    i = j * s + (j >= n ? from - n * s : lb)
                                                           if j >= n { A } else { B } ; C }

Frontends split loops (cuTile Python does so with every causal attention), and so do authors of kernels. A compiler that
starts the copies of the next iterations ahead, or gives them to warps of their own, wants the one loop: its pipeline is
filled and drained once, and a warp that asks the same for all its threads loses nothing by the question.

What the bodies have to have in common is said in `joined_bodies`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue

from libtile.analysis import Facts
from libtile.dialects.cuda_tile.ops import CudaTileOp, build
from libtile.dialects.cuda_tile.types import TileType, i1
from libtile.dialects.interfaces import body, bounds_of
from libtile.ir.module_pass import ModulePass
from libtile.ir.places import is_within, ops_of
from libtile.support import statistics
from libtile.support.records import dataclass
from libtile.targets import target
from libtile.transforms import reporting
from libtile.transforms.canonical_values import (
    constant_integer,
    create_before,
    defining,
    is_op,
    replace_op,
    select_before,
)
from libtile.transforms.early_returns import early_returns
from libtile.transforms.effects import is_removable, leaves_region
from libtile.transforms.greedy import functions_in
from libtile.transforms.joined_bodies import Inserted, JoinedBodies
from libtile.transforms.loop_copies import Bounds, ends_early
from libtile.transforms.products import multiplies

Maker = Callable[[Inserted], SSAValue]
"""What makes the value of an argument of the joined bodies."""


@dataclass(frozen=True)
class LoopUnsplitPass(ModulePass):
    """Make one loop of two with products, one after the other, for targets whose agents work on one loop."""

    name = "loop-unsplit"

    gpu_name: str = "sm_90"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        gpu = target(self.gpu_name)
        if gpu.has("wgmma") or gpu.has("tcgen05"):
            unsplit_loops(op)


def unsplit_loops(root: Operation) -> bool:
    """Join what can be joined in every function in `root` (or in `root` itself); returns whether anything was."""
    changed = False
    for function in functions_in(root):
        facts = None
        for loop in [op for op in ops_of(function, CudaTileOp) if is_op(op, "for")]:
            first = _first_half(loop) if multiplies(loop) else None
            if first is None:
                continue
            facts = facts or Facts(function)
            joined = _Joined.of(first, loop, facts, early_returns(function))
            if isinstance(joined, str):
                reporting.missed(loop, "LoopUnsplit", "Loop is not joined to the one before it", joined)
                continue
            reporting.done(loop, "LoopUnsplit", "Loop joined to the one before it, whose range it continues")
            joined.make()
            statistics.count("loops joined")
            changed, facts = True, None
    return changed


def _first_half(loop: CudaTileOp) -> CudaTileOp | None:
    """The loop in the same block that this one goes on from: some of what it carries is from there."""
    for value in loop.operand_group("initValues"):
        first = value.owner
        if isinstance(first, CudaTileOp) and is_op(first, "for") and first.parent is loop.parent and multiplies(first):
            return first
    return None


def _meeting_point(first: Operation, second: Operation, facts: Facts) -> SSAValue | None:
    """p, where the loops go from lb to min(p, ub) and from max(p, lb) to ub in steps of 1; None where they do not."""
    lower, end, step = bounds_of(first)
    start, upper, other_step = bounds_of(second)
    signs = [loop.attribute_value("unsignedCmp") for loop in (first, second) if isinstance(loop, CudaTileOp)]
    if constant_integer(step) != 1 or constant_integer(other_step) != 1 or bool(signs[0]) != bool(signs[1]):
        return None
    unsigned = bool(signs[0])

    def at_most(a: SSAValue, b: SSAValue) -> bool:
        low, high = facts.of(a), facts.of(b)
        return not unsigned and low.upper is not None and high.lower is not None and low.upper <= high.lower

    for point in {end: None, start: None, **dict.fromkeys(_sides(end, "mini")), **dict.fromkeys(_sides(start, "maxi"))}:
        ends = _is_extreme(end, "mini", point, upper, unsigned) or (point is end and at_most(point, upper))
        starts = _is_extreme(start, "maxi", point, lower, unsigned) or (point is start and at_most(lower, point))
        if ends and starts:
            return point
    return None


def _sides(value: SSAValue, name: str) -> Sequence[SSAValue]:
    op = defining(value, name)
    return () if op is None else op.operands


def _is_extreme(value: SSAValue, name: str, a: SSAValue, b: SSAValue, unsigned: bool) -> bool:
    """Whether a value is the smaller (mini) or larger (maxi) one of two."""
    op = defining(value, name)
    if op is None or (op.attribute_value("signedness") == "unsigned") != unsigned:
        return False
    return list(op.operands) in ([a, b], [b, a])


def _before(op: Operation) -> Iterator[Operation]:
    """The ops in front of an op, and of those around it, in their blocks."""
    inner: Operation | None = op
    while inner is not None and inner.parent is not None:
        before = inner.prev_op
        while before is not None:
            yield before
            before = before.prev_op
        inner = inner.parent_op()


def _between(first: Operation, second: Operation) -> Iterator[Operation]:
    op = first.next_op
    while op is not None and op is not second:
        yield op
        op = op.next_op


@dataclass(frozen=True, eq=False)
class _Counted:
    """A number that a loop carries, or counts by: the body's argument, what it starts with, and what each iteration
    adds to it."""

    argument: BlockArgument
    start: SSAValue
    added: SSAValue


@dataclass(frozen=True, eq=False)
class _Counter:
    """A number of one of the loops, or one of each that are one, as they add the same."""

    first: _Counted | None
    second: _Counted | None

    @property
    def sides(self) -> list[_Counted]:
        return [side for side in (self.first, self.second) if side is not None]


class _Joined:
    """Two loops as one."""

    def __init__(self, first: CudaTileOp, second: CudaTileOp, point: SSAValue | None) -> None:
        self.first, self.second, self.point = first, second, point
        self.blocks = body(first), body(second)
        self.carried: list[tuple[int, int]] = []
        """Numbers of what the second loop goes on with, in the first and in the second one."""
        self.counters: list[_Counter] = []
        self.most = 0
        """At most so many iterations there are together, where they are counted."""
        self.late: dict[_Counter, SSAValue] = {}
        """What counters would have begun with, had the second loop been there from the first iteration on."""

    @staticmethod
    def of(first: CudaTileOp, second: CudaTileOp, facts: Facts, early: Collection[Operation]) -> _Joined | str:
        """How to join two loops; or why they are not. The program may return before them in the `early` ops."""
        if any(use.operation is not second for result in first.results for use in result.uses):
            return "what the first one gives has other uses"
        if not all(map(is_removable, _between(first, second))):
            return "something with effects stands between them"
        if ends_early(first) or ends_early(second):
            return "an iteration may end early"
        if any(leaves_region(op) for op in _before(first) if op not in early):
            return "the program may end before them, and agents work on all of it"
        joined = _Joined(first, second, _meeting_point(first, second, facts))
        return joined._problem(facts) or joined

    def _problem(self, facts: Facts) -> str:
        if not self._find_carried():
            return "they carry different things"
        if self.point is None or self.counters:
            if found := self._concatenation_problem(facts):
                return found
            self.point = None
            self._count_by_index()
        ends = [block.last_op for block in self.blocks]
        assert ends[0] is not None and ends[1] is not None
        self.yielded = [(ends[0].operands[m], ends[1].operands[n]) for m, n in self.carried]
        self.bodies = JoinedBodies(*self.blocks, self._arguments(), self.yielded)
        return self.bodies.problem()

    def _find_carried(self) -> bool:
        """Tell what goes on from one loop to the other from numbers that can be computed from an iteration's."""
        initial = self.second.operand_group("initValues")
        given: list[SSAValue] = list(self.first.results)
        used = [_used(loop) for loop in (self.first, self.second)]
        self.carried = [(given.index(initial[n]), n) for n in used[1] if initial[n] in given]
        sources = [m for m, _ in self.carried]
        alone = [
            [n for n in numbers if n not in known]
            for numbers, known in zip(used, (sources, [n for _, n in self.carried]))
        ]
        found = [{n: _counted(loop, n) for n in numbers} for loop, numbers in zip((self.first, self.second), alone)]
        if len(set(sources)) < len(sources) or any(c is None for counted in found for c in counted.values()):
            return False
        for n in sorted({*alone[0], *alone[1]}):
            self._add_counters(found[0].get(n), found[1].get(n))
        return True

    def _add_counters(self, a: _Counted | None, b: _Counted | None) -> None:
        """What the first and the second loop count, which is one where they add the same."""
        if a is not None and b is not None and a.added is b.added and a.argument.type == b.argument.type:
            self.counters.append(_Counter(a, b))
        else:
            self.counters += [c for c in (_Counter(a, None), _Counter(None, b)) if c.sides]

    def _count_by_index(self) -> None:
        loops = (self.first, self.second)
        a, b = (_Counted(body(loop).args[0], bounds_of(loop)[0], bounds_of(loop)[2]) for loop in loops)
        self._add_counters(a, b)

    def _concatenation_problem(self, facts: Facts) -> str:
        """Why iterations cannot be counted through both loops."""
        type_ = self.blocks[0].args[0].type
        counted = [side.argument for counter in self.counters for side in counter.sides]
        if any(arg.type != type_ for arg in (*counted, self.blocks[1].args[0])):
            return "they count in different types"
        self.most = 0
        for loop in (self.first, self.second):
            at, lower = Bounds(loop, self.second), facts.of(bounds_of(loop)[0])
            step = at.number(at.step)
            if step is None or step <= 0:
                return "a step is not known"
            unsigned = at.signedness == "unsigned"
            least = 0 if unsigned else -(at.modulus >> 1) if lower.lower is None else lower.lower
            self.most += -((least - at.greatest) // step)
        return "" if self.most < at.modulus else "they may have more iterations together than a number counts"

    # -- making -----------------------------------------------------------------------------------------------------

    def make(self) -> None:
        """Put the one loop in place of the two, where the second one stands."""
        first, second = self.first, self.second
        if self.point is None:
            at = Bounds(first, second)
            counts = [_trips(Bounds(loop, second)) for loop in (first, second)]
            bounds = [at.constant(0), at.add(*counts), at.constant(1)]
            self.turning, self.unsigned = counts[0], self.most > at.modulus >> 1
            for counter in self.counters:
                if (own := counter.second) is None:
                    continue
                self.late[counter] = at.subtract(own.start, at.multiply(counts[0], own.added))
                if own.argument.index > 0:
                    ended = at.add(own.start, at.multiply(counts[1], own.added))
                    second.results[own.argument.index - 1].replace_all_uses_with(ended)
        else:
            bounds = [bounds_of(first)[0], *bounds_of(second)[1:]]
            self.turning, self.unsigned = self.point, bool(second.attribute_value("unsignedCmp"))
        index, last = self.blocks[1].args[0], self.blocks[1].last_op
        names = [index, *(self.blocks[1].args[1 + n] for _, n in self.carried)]
        block = Block(arg_types=[value.type for value in names])
        for arg, old in zip(block.args, names):
            arg.name_hint, arg.location = old.name_hint, old.location
        end = build("continue", {"operands": []})
        assert last is not None
        end.location = last.location
        block.add_op(end)
        inserted = Inserted(block, end)
        end.operands = self.bodies.make(inserted, lambda: self._condition(inserted))
        initial = first.operand_group("initValues")
        given: dict[str, SSAValue | Sequence[SSAValue] | None] = dict(zip(("lowerBound", "upperBound", "step"), bounds))
        given["initValues"] = [initial[m] for m, _ in self.carried]
        types = [value.type for value in names[1:]]
        joined = build("for", given, types, {"unsignedCmp": self.unsigned}, [Region(block)])
        joined.attributes.update(second.attributes)
        joined.location = second.location
        around = second.parent_block()
        assert around is not None
        around.insert_op_before(joined, second)
        for result, (_, n) in zip(joined.results, self.carried):
            second.results[n].replace_all_uses_with(result)
        for loop in (second, first):
            replace_op(loop, [None] * len(loop.results))

    def _condition(self, at: Inserted) -> SSAValue:
        """Whether an iteration is one of the second loop."""

        def make() -> SSAValue:
            settings = {
                "comparison_predicate": "greater_than_or_equal",
                "signedness": "unsigned" if self.unsigned else "signed",
            }
            given = {"lhs": at.block.args[0], "rhs": self.turning}
            return create_before(at.end, "cmpi", given, [TileType((), i1)], settings)

        return at.get("condition", make)

    def _arguments(self) -> dict[SSAValue, Maker]:
        """What makes the values of the bodies' arguments."""
        found: dict[SSAValue, Maker] = {}
        if self.point is not None:
            found.update(dict.fromkeys([block.args[0] for block in self.blocks], _argument(0)))
        for k, (m, n) in enumerate(self.carried):
            found.update(dict.fromkeys([self.blocks[0].args[1 + m], self.blocks[1].args[1 + n]], _argument(1 + k)))
        for counter in self.counters:
            make = partial(self._count, counter)
            found.update((side.argument, make) for side in counter.sides)
        return found

    def _count(self, counter: _Counter, at: Inserted) -> SSAValue:
        """A counter in an iteration."""
        starts = [] if counter.second is None else [self.late[counter]]
        starts += [] if counter.first is None else [counter.first.start]
        start = starts[0]
        if starts[-1] is not start:
            start = select_before(at.end, self._condition(at), start, starts[-1])
        steps = Bounds(self.first, at.end)
        return steps.add(steps.multiply(at.block.args[0], counter.sides[0].added), start)


def _argument(number: int) -> Maker:
    return lambda at: at.block.args[number]


def _used(loop: CudaTileOp) -> list[int]:
    """The numbers of what a loop carries that anything but its own end uses."""
    arguments, ends = body(loop).args[1:], body(loop).last_op
    return [
        n
        for n, (argument, result) in enumerate(zip(arguments, loop.results))
        if result.first_use is not None or any((use.operation, use.index) != (ends, n) for use in argument.uses)
    ]


def _counted(loop: CudaTileOp, number: int) -> _Counted | None:
    """What a loop carries, where it adds the same to it in each iteration."""
    argument, last = body(loop).args[1 + number], body(loop).last_op
    assert last is not None
    following = defining(last.operands[number], "addi")
    if following is None or argument not in following.operands:
        return None
    sides = list(following.operands)
    added = sides[1] if sides[0] is argument else sides[0]
    if is_within(added, loop):
        return None
    return _Counted(argument, loop.operand_group("initValues")[number], added)


def _trips(at: Bounds) -> SSAValue:
    """How many iterations a loop has, as a number without a sign: a step that is begun counts."""
    span = at.subtract(at.larger(at.upper, at.lower), at.lower)
    whole = at.quotient(span, at.step)
    if at.number(at.step) == 1:
        return whole
    rest = at.subtract(span, at.multiply(whole, at.step))
    return at.add(whole, at.smaller_span(rest, at.constant(1)))
