# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`loop-split`: a `for` whose body asks, in every iteration, on which side of a bound its induction variable is.

    for i in lb to ub step s { if i >= b { A } else { B } ; C }

becomes two loops that know the answer, with p the first value of the induction variable that is not less than b:

    for i in lb to min(p, ub) step s { B ; C }
    for i in max(p, lb) to ub step s { A ; C }

`loop_split_point` computes p without wrapping around; where constants show that the plain arithmetic cannot wrap, the
plain arithmetic is what is emitted.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue

from libtile.dialects.cuda_tile.attributes import DenseElementsAttr
from libtile.dialects.cuda_tile.ops import CudaTileOp, build
from libtile.dialects.cuda_tile.types import TileType, i1
from libtile.dialects.interfaces import bounds_of
from libtile.ir.module_pass import ModulePass
from libtile.ir.places import inner_ops
from libtile.support import statistics
from libtile.support.records import dataclass
from libtile.transforms import reporting
from libtile.transforms.canonical_values import defining, is_op, replace_op
from libtile.transforms.greedy import functions_in
from libtile.transforms.loop_split_point import split_point

THRESHOLD_ATTRIBUTE = "cuda_tile.loop_split"
"""Discardable attribute of an entry, a `for` or an `if`: its own threshold; the innermost one counts."""

_HEAVY = frozenset(
    {
        *("load_ptr_tko", "load_view_tko", "store_ptr_tko", "store_view_tko"),
        *("mmaf", "mmai", "reduce", "if", "for"),
    }
)
"""Ops that make a branch worth a loop of its own, however short it is."""

_MIRRORED = {
    "less_than": "greater_than",
    "less_than_or_equal": "greater_than_or_equal",
    "greater_than": "less_than",
    "greater_than_or_equal": "less_than_or_equal",
}


@dataclass(frozen=True)
class LoopSplitPass(ModulePass):
    """Split `for` loops at the point where an `if` inside of them changes its mind.

    `split_threshold`: the least number of ops in a branch that make a split worth while; 1 splits always, 0 never.
    """

    name = "loop-split"

    split_threshold: int = 1

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        split_loops(op, self.split_threshold)


def split_loops(root: Operation, threshold: int = 1) -> bool:
    """Split the loops of every function in `root` (or of `root`, when it is one); returns whether any was split.

    Each loop is split at most once, inner loops before those around them.
    """
    changed = False
    for function in functions_in(root):
        entry = _threshold_of(function, threshold)
        for loop in [op for op in _postorder(function) if is_op(op, "for")]:
            changed |= isinstance(loop, CudaTileOp) and _split_first(loop, _threshold_of(loop, entry))
    return changed


def _postorder(root: Operation) -> list[Operation]:
    found: list[Operation] = []

    def visit(op: Operation) -> None:
        for inner in inner_ops(op):
            visit(inner)
        found.append(op)

    visit(root)
    return found


def _threshold_of(op: Operation, inherited: int) -> int:
    attr = op.attributes.get(THRESHOLD_ATTRIBUTE)
    return attr.value.data if isinstance(attr, IntegerAttr) else inherited


def _split_first(loop: CudaTileOp, threshold: int) -> bool:
    """Split the loop at the first `if` in it that allows and deserves it."""
    for op in _postorder(loop) if _asks(loop) else ():
        if op is loop or not isinstance(op, CudaTileOp) or not is_op(op, "if"):
            continue
        split = _find_split(loop, op, _threshold_of(op, threshold))
        if split is None and op.parent_op() is loop:
            reason = "its condition does not compare the loop's counter with a bound, or its branches are too small"
            reporting.missed(op, "LoopSplit", "Loop is not split at a branch", reason)
        if split is not None:
            reporting.done(loop, "LoopSplit", "Loop split where a branch in it changes its mind")
            _perform(split)
            statistics.count("loops split")
            return True
    return False


def _asks(loop: CudaTileOp) -> bool:
    """Whether there is an `if` right in the loop's body, or one in it that asks for what is compared right there."""
    users = (use.operation for op in _body(loop).ops if is_op(op, "cmpi") for use in op.results[0].uses)
    return any(is_op(op, "if") for op in (*_body(loop).ops, *users))


@dataclass(frozen=True)
class _Split:
    """A comparison `iv predicate bound` in a loop's body, and the `if`s right in the body that it decides."""

    loop: CudaTileOp
    compare: CudaTileOp
    predicate: str
    bound: SSAValue
    branches: tuple[CudaTileOp, ...]

    @property
    def true_comes_second(self) -> bool:
        return self.predicate.startswith("greater")


def _find_split(loop: CudaTileOp, branch: CudaTileOp, threshold: int) -> _Split | None:
    compare = defining(branch.operand("condition"), "cmpi")
    if threshold == 0 or compare is None or compare.parent is not _body(loop):
        return None
    normalized = _normalized(loop, compare)
    if normalized is None:
        return None
    users = [use.operation for use in compare.results[0].uses]
    ifs = [user for user in users if isinstance(user, CudaTileOp) and is_op(user, "if")]
    inside = tuple(user for user in ifs if user.parent is _body(loop))
    if not any(_is_profitable(user, threshold) for user in ifs):
        return None
    predicate, bound = normalized
    split = _Split(loop, compare, predicate, bound, inside)
    return split if all(_can_be_chosen(region) for user in inside for region in user.regions) else None


def _body(loop: CudaTileOp) -> Block:
    return loop.regions[0].blocks[0]


def _normalized(loop: CudaTileOp, compare: CudaTileOp) -> tuple[str, SSAValue] | None:
    """Predicate and bound of the comparison as `iv predicate bound`, when the bound is the same in all iterations."""
    signedness = "unsigned" if loop.attribute_value("unsignedCmp") else "signed"
    if compare.attribute_value("signedness") != signedness:
        return None
    predicate = compare.attribute_value("comparison_predicate")
    iv = _body(loop).args[0]
    lhs, rhs = compare.operands
    if predicate not in _MIRRORED or (lhs is iv) == (rhs is iv):
        return None
    bound = rhs if lhs is iv else lhs
    return None if _is_defined_in(bound, loop) else (predicate if lhs is iv else _MIRRORED[predicate], bound)


def _is_defined_in(value: SSAValue, op: Operation) -> bool:
    owner = value.owner
    parent = owner.parent_op()
    return parent is not None and op.is_ancestor(parent)


def _is_profitable(branch: CudaTileOp, threshold: int) -> bool:
    if threshold == 1:
        return True
    for region in branch.regions:
        ops = [op for block in region.blocks for op in block.ops]
        if len(ops) - 1 >= threshold or any(is_op(op, *_HEAVY) for op in ops):
            return True
    return False


def _can_be_chosen(region: Region) -> bool:
    """Whether the branch can stand right in a loop: it yields, or continues with the next iteration."""
    return not region.blocks or is_op(region.blocks[0].last_op, "yield", "continue")


def _perform(split: _Split) -> None:
    loop = split.loop
    point = split_point(loop, split.bound, above=split.predicate in ("greater_than", "less_than_or_equal"))
    lower, upper, _ = bounds_of(loop)
    signedness = {"signedness": "unsigned" if loop.attribute_value("unsignedCmp") else "signed"}
    ends = []
    for name, limit in (("mini", upper), ("maxi", lower)):
        end = build(name, {"lhs": point, "rhs": limit}, [limit.type], signedness)
        _insert(end, loop)
        ends.append(end.results[0])
    first = _copy(split, lower, ends[0], loop.operand_group("initValues"), not split.true_comes_second)
    second = _copy(split, ends[1], upper, first.results, split.true_comes_second)
    replace_op(loop, second.results)


def _insert(op: Operation, before: Operation) -> None:
    block = before.parent_block()
    if block is None:
        raise ValueError("an op outside of a block has no place before it")
    op.location = before.location
    block.insert_op_before(op, before)


def _copy(split: _Split, lower: SSAValue, upper: SSAValue, values: Sequence[SSAValue], condition: bool) -> CudaTileOp:
    """The loop over other bounds, in front of it, with the comparison known to be `condition`."""
    loop, old = split.loop, _body(split.loop)
    body = Block(arg_types=[arg.type for arg in old.args])
    mapper: dict[SSAValue, SSAValue] = {}
    for arg, new in zip(old.args, body.args):
        mapper[arg] = new
        new.name_hint, new.location = arg.name_hint, arg.location
    copy = type(loop).create(
        operands=[lower, upper, loop.operand("step"), *values],
        result_types=[result.type for result in loop.results],
        properties=loop.properties.copy(),
        attributes=loop.attributes.copy(),
        regions=[Region(body)],
    )
    _insert(copy, loop)
    _copy_body(split, body, mapper, condition)
    return copy


def _copy_body(split: _Split, body: Block, mapper: dict[SSAValue, SSAValue], condition: bool) -> None:
    is_needed = any(use.operation not in split.branches for use in split.compare.results[0].uses)
    for op in _body(split.loop).ops:
        if op is split.compare:
            if is_needed:
                known = _known_condition(split.compare, condition)
                body.add_op(known)
                mapper[split.compare.results[0]] = known.results[0]
        elif op not in split.branches:
            body.add_op(op.clone(mapper))
        elif _copy_branch(op, op.regions[0 if condition else 1], body, mapper):
            return


def _known_condition(compare: CudaTileOp, condition: bool) -> CudaTileOp:
    type_ = TileType((), i1)
    op = build("constant", {}, [type_], {"value": DenseElementsAttr(type_, bytes([condition]))})
    op.location = compare.location
    return op


def _copy_branch(branch: Operation, region: Region, body: Block, mapper: dict[SSAValue, SSAValue]) -> bool:
    """Put the branch's ops in the `if`'s place; returns whether it ends the iteration."""
    if not region.blocks:
        return False
    for op in region.blocks[0].ops:
        if is_op(op, "yield"):
            for result, value in zip(branch.results, op.operands, strict=True):
                mapper[result] = mapper.get(value, value)
        else:
            body.add_op(op.clone(mapper))
    return is_op(body.last_op, "continue")
