# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`collapse-loops`: loops within each other that only go on adding products become one loop.

    for r in 0 to R { A(r) ; for c in 0 to C { x' = mma ..., x } }

becomes, as a producer of tiles and a consumer of them can be made of one loop,

    for t in 0 to R * C, with r = c = 0 at first {
      A(r) ; x' = mma ..., x
      c' = c + 1 < C ? c + 1 : 0 ; r' = c + 1 < C ? r : r + 1
    }

where the outer loop does nothing in front of the inner one but compute what may be computed in each iteration, and
the inner one takes up what the outer one carries and hands it on. Nests of more loops become one from the inside out.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue

from libtile.analysis import Facts
from libtile.dialects.cuda_tile.ops import CudaTileOp
from libtile.dialects.cuda_tile.types import TileType, bit_width, i1
from libtile.dialects.interfaces import StatesFact, body, bounds_of
from libtile.ir.module_pass import ModulePass
from libtile.ir.places import is_within, ops_of
from libtile.support import statistics
from libtile.support.records import dataclass
from libtile.targets import target
from libtile.transforms import reporting
from libtile.transforms.canonical_values import constant_integer, create_before, is_op, replace_op, select_before
from libtile.transforms.effects import is_speculatable
from libtile.transforms.greedy import functions_in
from libtile.transforms.loop_copies import Bounds, ends_early
from libtile.transforms.products import multiplies

_REMARK = "CollapseLoops"


@dataclass(frozen=True)
class CollapseLoopsPass(ModulePass):
    """Make one loop of several around products, for targets on which agents go through it."""

    name = "collapse-loops"

    gpu_name: str = "sm_90"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if target(self.gpu_name).has("tma"):
            collapse_loops(op)


def collapse_loops(root: Operation) -> bool:
    """Do so in every function in `root` (or in `root` itself, when it is one); returns whether anything changed."""
    changed = False
    for function in functions_in(root):
        for loops in _nests(function):
            reporting.done(loops[0], _REMARK, "Loops around a product made one", Loops=len(loops))
            statistics.count("loops collapsed", len(loops) - 1)
            _collapse(loops)
            changed = True
    return changed


def _nests(function: Operation) -> list[list[CudaTileOp]]:
    """Loops within each other that can be one, the outermost first."""
    inner = [op for op in ops_of(function, CudaTileOp) if is_op(op, "for") and multiplies(op)]
    if not any(is_op(op.parent_op(), "for") for op in inner):
        return []
    facts, found = Facts(function), []
    for loop in inner:
        nest = [loop]
        while isinstance(around := nest[0].parent_op(), CudaTileOp) and is_op(around, "for"):
            reason = _reason_against(around, nest, facts)
            if reason is not None:
                reporting.missed(around, _REMARK, "Loop stays one around a loop with a product", reason)
                break
            nest.insert(0, around)
        if len(nest) > 1:
            found.append(nest)
    return found


def _reason_against(outer: CudaTileOp, loops: list[CudaTileOp], facts: Facts) -> str | None:
    """Why loops stay apart from the one around them; None where they can be one."""
    inner = loops[0]
    carried, last = body(outer).args[1:], body(outer).last_op
    assert last is not None
    between, nest = [op for op in body(outer).ops if op is not last and op is not inner], [outer, *loops]
    counts = [bounds_of(loop)[1] for loop in nest]
    type_ = counts[0].type
    if last.prev_op is not inner:
        return "it has ops behind the loop in it"
    if any(count.type != type_ or is_within(count, outer) for count in counts):
        return "a number of iterations is worked out within it, or has another type"
    if not all(_counts_up(loop) and not ends_early(loop) for loop in (outer, inner)):
        return "a loop does not count from 0 by 1, or may end early"
    handed_on = list(inner.operand_group("initValues")) == list(carried) and list(last.operands) == list(inner.results)
    if not handed_on or not all(value.has_one_use() for value in (*carried, *inner.results)):
        return "the loop in it does not just take up what it carries and hand it on"
    if not all((is_speculatable(op) or op.has_trait(StatesFact)) and not op.regions for op in between):
        return "an op in front of the loop in it may not be done in each iteration"
    assert isinstance(type_, TileType)
    limit, bounds = 1 << (bit_width(type_.element_type) - 1), [facts.of(value) for value in counts]
    if any(fact.lower is None or fact.lower < 0 for fact in bounds):
        return "a number of iterations may be negative"
    if prod(limit - 1 if fact.upper is None else fact.upper for fact in bounds) >= limit:
        return "the product of the numbers of iterations may be too large for their type"
    return None


def _counts_up(loop: CudaTileOp) -> bool:
    """Whether a loop counts from 0 by 1, as signed numbers."""
    lower, _, step = bounds_of(loop)
    signed = not loop.attribute_value("unsignedCmp")
    return signed and constant_integer(lower) == 0 and constant_integer(step) == 1


def _collapse(loops: list[CudaTileOp]) -> None:
    outer, inner = loops[0], loops[-1]
    at = Bounds(outer, outer)
    zero, one = at.constant(0), at.constant(1)
    counts = [bounds_of(loop)[1] for loop in loops]
    carried = list(outer.operand_group("initValues"))
    types = [value.type for value in carried]
    block = Block(arg_types=[at.type, *types, *[at.type] * len(loops)])
    sums, counters = block.args[1 : 1 + len(types)], block.args[1 + len(types) :]
    mapper: dict[SSAValue, SSAValue] = {}
    for loop, counter in zip(loops, counters):
        mapper[body(loop).args[0]] = counter
        mapper |= dict(zip(body(loop).args[1:], sums))
        for op in body(loop).ops:
            if op not in loops and op is not body(loop).last_op:
                block.add_op(op.clone(mapper))
    last = body(inner).last_op
    assert last is not None
    end = last.clone(mapper)
    block.add_op(end)
    end.operands = [*end.operands, *_next(end, counters, counts, zero, one)]
    total = counts[0]
    for count in counts[1:]:
        total = at.multiply(total, count)
    made = type(inner).create(
        operands=[zero, total, one, *carried, *[zero] * len(loops)],
        result_types=[*types, *[at.type] * len(loops)],
        properties=inner.properties.copy(),
        attributes=inner.attributes.copy(),
        regions=[Region(block)],
    )
    made.location = inner.location
    around = outer.parent_block()
    assert around is not None
    around.insert_op_before(made, outer)
    replace_op(outer, made.results[: len(types)])


def _next(
    end: Operation, counters: Sequence[SSAValue], counts: Sequence[SSAValue], zero: SSAValue, one: SSAValue
) -> list[SSAValue]:
    """The counters of the next iteration, in front of the end of this one."""
    condition, found = TileType((), i1), list[SSAValue]()
    stays: SSAValue | None = None
    """Whether a loop within has another iteration."""
    for n in reversed(range(len(counters))):
        counter = counters[n]
        following = create_before(end, "addi", {"lhs": counter, "rhs": one}, [counter.type])
        if n:
            settings = {"comparison_predicate": "less_than", "signedness": "signed"}
            more = create_before(end, "cmpi", {"lhs": following, "rhs": counts[n]}, [condition], settings)
            following = select_before(end, more, following, zero)
        found.insert(0, following if stays is None else select_before(end, stays, counter, following))
        if n:
            both = {"lhs": more, "rhs": stays}
            stays = more if stays is None else create_before(end, "ori", both, [condition])
    return found
