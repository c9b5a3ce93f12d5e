# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`loop-unsplit`: what `loop-split` does, undone: one loop, with a branch, of two that share their range.

    for i in lb to min(p, ub) { B ; C }                  for i in lb to ub { if i >= p { A } else { B } ; C }
    for i in max(p, lb) to ub { A ; C }         becomes

Frontends split loops (cuTile Python does so with every causal attention), and a compiler that starts the copies of the
next iterations ahead, or gives them to warps of their own, wants the one loop: its pipeline is filled and drained once,
and a warp that asks the same for all its threads loses nothing by the question.

The two bodies have to be equal but for ops without effects in one of them, behind which it goes on with another value:
with scores that are masked, say. These ops, and that value, become a branch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, IRNode, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from libtile.analysis import Facts
from libtile.dialects.cuda_tile.ops import CudaTileOp, build
from libtile.dialects.cuda_tile.types import TileType, i1
from libtile.dialects.interfaces import body, bounds_of
from libtile.ir.places import walk
from libtile.support import statistics
from libtile.support.records import dataclass
from libtile.targets import target
from libtile.transforms import reporting
from libtile.transforms.canonical_values import constant_integer, defining, is_op, replace_op
from libtile.transforms.effects import has_no_effects, is_removable
from libtile.transforms.greedy import functions_in
from libtile.transforms.products import multiplies

Pair = tuple[SSAValue, SSAValue]
"""A value of the plain body, and what the other one has in its place."""


@dataclass(frozen=True)
class LoopUnsplitPass(ModulePass):
    """Make one loop of two with products that share their range, for targets whose agents work on one loop."""

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
        for loop in [op for op in walk(function) if isinstance(op, CudaTileOp) and is_op(op, "for")]:
            first = _first_half(loop) if multiplies(loop) else None
            if first is None:
                continue
            facts = facts or Facts(function)
            joined = _Joined.of(first, loop, facts)
            if isinstance(joined, str):
                reporting.missed(loop, "LoopUnsplit", "Loop is not joined to the one before it", joined)
                continue
            reporting.done(loop, "LoopUnsplit", "Loop joined to the one before it, whose range it continues")
            joined.make()
            statistics.count("loops joined")
            changed, facts = True, None
    return changed


def _initial(loop: Operation) -> Sequence[SSAValue]:
    assert isinstance(loop, CudaTileOp)
    return loop.operand_group("initValues")


def _first_half(loop: Operation) -> CudaTileOp | None:
    """The loop in the same block that this one goes on from: all that it carries, and nothing else, is from there."""
    initial = _initial(loop)
    first = initial[0].owner if initial else None
    if not isinstance(first, CudaTileOp) or not is_op(first, "for") or first.parent is not loop.parent:
        return None
    if list(initial) != list(first.results) or not multiplies(first):
        return None
    return first


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


def _between(first: Operation, second: Operation) -> Iterator[Operation]:
    op = first.next_op
    while op is not None and op is not second:
        yield op
        op = op.next_op


class _Joined:
    """Two loops as one: which ops of their bodies go together, and which stand in the branch."""

    def __init__(self, first: CudaTileOp, second: CudaTileOp, point: SSAValue, richer: CudaTileOp):
        self.first, self.second, self.point, self.richer = first, second, point, richer
        self.plain = first if richer is second else second
        self.known: dict[SSAValue, SSAValue] = dict(zip(body(self.plain).args, body(richer).args))
        """What the other body has for a value of the plain one."""
        self.pairs: list[tuple[Operation, Operation]] = []
        self.extra: set[Operation] = set()
        self.parted: dict[Pair, Operation] = {}
        """Values that part, and the op of the plain body that uses them first."""

    @staticmethod
    def of(first: CudaTileOp, second: CudaTileOp, facts: Facts) -> _Joined | str:
        """How to join two loops; or why they are not."""
        point = _meeting_point(first, second, facts)
        if point is None:
            return "the ranges are not known to be the two parts of one, in steps of 1"
        if any(use.operation is not second for result in first.results for use in result.uses):
            return "what the first one gives has other uses"
        if not all(map(is_removable, _between(first, second))):
            return "something with effects stands between them"
        sizes = [len(list(body(loop).ops)) for loop in (first, second)]
        joined = _Joined(first, second, point, first if sizes[0] > sizes[1] else second)
        return joined if joined._match() else "their bodies differ in more than a branch"

    # -- matching ---------------------------------------------------------------------------------------------------

    def _match(self) -> bool:
        """Go through both bodies: an op of the fuller one is that of the plain one, or belongs to the branch."""
        plain = iter(body(self.plain).ops)
        wanted = next(plain, None)
        for op in body(self.richer).ops:
            if wanted is not None and self._goes_with(wanted, op):
                self.pairs.append((wanted, op))
                self.known.update(zip(wanted.results, op.results))
                wanted = next(plain, None)
            elif not op.regions and has_no_effects(op):
                self.extra.add(op)
            else:
                return False
        return wanted is None

    def _goes_with(self, plain: Operation, other: Operation) -> bool:
        """Whether the two are one op, where operands may part that the branch computes of each other."""
        if plain.name != other.name or len(plain.operands) != len(other.operands):
            return False
        if [r.type for r in plain.results] != [r.type for r in other.results]:
            return False
        parted = [pair for pair in zip(plain.operands, other.operands) if self._other(pair[0]) is not pair[1]]
        if not all(pair in self.parted or self._is_made_of(*pair) for pair in parted):
            return False
        context: dict[IRNode | SSAValue, IRNode | SSAValue] = {body(self.plain): body(self.richer)}
        context.update((*self.known.items(), *parted))
        if not plain.is_structurally_equivalent(other, context):
            return False
        for pair in parted:
            self.parted.setdefault(pair, plain)
        return True

    def _other(self, value: SSAValue) -> SSAValue:
        return self.known.get(value, value)

    def _is_made_of(self, value: SSAValue, other: SSAValue) -> bool:
        """Whether the branch computes `other` from what the plain body has as `value`."""
        source = self._other(value)
        return value.type == other.type and any(source in op.operands for op in self._branch_of(other))

    def _branch_of(self, value: SSAValue) -> list[Operation]:
        """The branch's ops that a value is computed by, in their order."""
        found: set[Operation] = set()
        work = [value]
        while work:
            op = work.pop().owner
            if isinstance(op, Operation) and op in self.extra and op not in found:
                found.add(op)
                work += op.operands
        return [op for op in body(self.richer).ops if op in found]

    # -- making -----------------------------------------------------------------------------------------------------

    def make(self) -> None:
        """Put the one loop in place of the two, where the second one stands."""
        first, second = self.first, self.second
        lower, upper, step = bounds_of(first)[0], bounds_of(second)[1], bounds_of(second)[2]
        block = Block(arg_types=[arg.type for arg in body(second).args])
        for arg, old in zip(block.args, body(second).args):
            arg.name_hint, arg.location = old.name_hint, old.location
        values: dict[SSAValue, SSAValue] = {}
        for loop in (self.plain, self.richer):
            values.update(zip(body(loop).args, block.args))
        chosen: dict[Pair, SSAValue] = {}
        condition: SSAValue | None = None
        for plain, other in self.pairs:
            for pair in [pair for pair, user in self.parted.items() if user is plain]:
                if condition is None:
                    condition = self._condition(block)
                chosen[pair] = self._branch(block, condition, pair, values)
            given = {v: chosen[v, w] for v, w in zip(plain.operands, other.operands) if (v, w) in self.parted}
            copy = plain.clone({**values, **given})
            block.add_op(copy)
            values.update(zip(other.results, copy.results))
            values.update(zip(plain.results, copy.results))
        joined = type(second).create(
            operands=[lower, upper, step, *_initial(first)],
            result_types=[result.type for result in second.results],
            properties=second.properties.copy(),
            attributes=second.attributes.copy(),
            regions=[Region(block)],
        )
        joined.location = second.location
        around = second.parent_block()
        assert around is not None
        around.insert_op_before(joined, second)
        replace_op(second, joined.results)
        replace_op(first, [None] * len(first.results))

    def _condition(self, block: Block) -> SSAValue:
        """Whether an iteration is one of those with the branch."""
        predicate = "greater_than_or_equal" if self.richer is self.second else "less_than"
        signedness = "unsigned" if self.second.attribute_value("unsignedCmp") else "signed"
        compare = build(
            "cmpi", {"lhs": block.args[0], "rhs": self.point}, [TileType((), i1)],
            {"comparison_predicate": predicate, "signedness": signedness},
        )  # fmt: skip
        compare.location = self.second.location
        block.add_op(compare)
        return compare.results[0]

    def _branch(self, block: Block, condition: SSAValue, pair: Pair, values: dict[SSAValue, SSAValue]) -> SSAValue:
        plain, other = pair
        inner = dict(values)
        then, otherwise = Block(), Block()
        for op in self._branch_of(other):
            then.add_op(op.clone(inner))
        then.add_op(build("yield", {"operands": [inner[other]]}))
        otherwise.add_op(build("yield", {"operands": [values.get(plain, plain)]}))
        owner = other.owner
        assert isinstance(owner, Operation)  # of the branch
        for side in (then, otherwise):
            assert side.last_op is not None
            side.last_op.location = owner.location
        chosen = build("if", {"condition": condition}, [plain.type], regions=[Region(then), Region(otherwise)])
        chosen.location = owner.location
        block.add_op(chosen)
        return chosen.results[0]
