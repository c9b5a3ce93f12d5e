# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`infer-assumptions`: what is known of the numbers that accesses are made of is stated by `assume`.

The dataflow of `analysis` finds divisors, bounds and equal elements, from what is assumed of parameters, from
constants, loops and tile block numbers. A consumer that does not follow a number as far (through a loop, a quotient, a
branch) sees what is stated at the number itself. Stated is

- of pointers that are accessed: what divides the first of each run of neighbours (`div_by<16, every 4 along 0>`);
- of masks: how large the boxes of equal elements are;
- of the base, the sizes and the strides of a tensor view, and of indices into its tiles: divisors and bounds.

Nothing is stated that a constant shows, or that the assumptions right before the number already imply.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, Operation, SSAValue, Use

from libtile.analysis import Facts
from libtile.analysis.dataflow import analyse_assumption
from libtile.dialects.cuda_tile.attributes import BoundedAttr, DivByAttr, SameElementsAttr
from libtile.dialects.cuda_tile.ops import CudaTileOp, build
from libtile.dialects.cuda_tile.types import PointerType, TileType, bit_width, is_integer, tile_shape
from libtile.dialects.effect_traits import accessed
from libtile.ir.facts import Fact
from libtile.ir.module_pass import ModulePass
from libtile.ir.places import ops_of
from libtile.support import statistics
from libtile.support.records import dataclass
from libtile.transforms import reporting
from libtile.transforms.canonical_values import defining, is_op
from libtile.transforms.greedy import functions_in

_REMARK = "InferAssumptions"
_LARGEST_DIVISOR = 1 << 30
"""More than any access or descriptor asks for; of zero every number is a divisor."""


@dataclass(frozen=True)
class InferAssumptionsPass(ModulePass):
    """State what is known of the numbers that accesses are made of.

    `divisors` and `bounds` choose what is stated; equal elements of masks count as divisors.
    """

    name = "infer-assumptions"

    divisors: bool = True
    bounds: bool = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        infer_assumptions(op, self.divisors, self.bounds)


def infer_assumptions(root: Operation, divisors: bool = True, bounds: bool = True) -> bool:
    """State facts in every function in `root` (or in `root` itself, when it is one); returns whether any were."""
    changed = False
    for function in functions_in(root):
        uses: dict[SSAValue, list[Use]] = {}
        for use in _uses(function):
            uses.setdefault(use.operation.operands[use.index], []).append(use)
        facts = Facts(function) if uses else None
        for value, its in uses.items():
            assert facts is not None
            changed |= _state(value, its, facts.of(value), divisors, bounds)
    return changed


def _uses(function: Operation) -> Iterator[Use]:
    """Where accesses use what facts are about."""
    for op in ops_of(function):
        if not isinstance(op, CudaTileOp):
            continue
        if is_op(op, "make_tensor_view"):
            yield from (Use(op, number) for number in range(len(op.operands)))
        elif (memory := accessed(op)) is not None:
            told = {memory} if isinstance(memory.type, TileType) else set(op.operand_group("index"))
            told |= set(op.operand_group("mask")) if any(spec.name == "mask" for spec in op.spec.operands) else set()
            yield from (Use(op, number) for number, operand in enumerate(op.operands) if operand in told)


def _state(value: SSAValue, uses: list[Use], fact: Fact, divisors: bool, bounds: bool) -> bool:
    """State what is known of a value, and is not stated yet, and let accesses use it so."""
    if defining(value, "constant") is not None or not isinstance(value.type, TileType):
        return False
    stated = _stated(value)
    found: list[Attribute] = [*(_divisor(value.type, fact, stated) if divisors else ())]
    found += _bounds(value.type, fact, stated) if bounds else ()
    place = uses[0].operation
    if not found:
        if fact == Fact.unknown(len(fact.divisor)):
            reporting.missed(
                place, _REMARK, "Nothing is known of a number that an access is made of",
                f"it comes from {_origin(value)}, of which nothing is assumed",
            )  # fmt: skip
        return False
    last = value
    for predicate in found:
        op = build("assume", {"value": last}, [value.type], {"predicate": predicate})
        op.location = place.location
        _place_behind(last, op)
        last = op.results[0]
        reporting.done(place, _REMARK, "What is known is stated", Of=_origin(value), Stated=_text(predicate))
        statistics.count("facts stated")
    for use in uses:
        use.operation.operands[use.index] = last
    return True


def _stated(value: SSAValue) -> Fact:
    """What the assumptions right before a value say of it, of which nothing else is known."""
    op = defining(value, "assume")
    if op is None:
        return Fact.unknown(len(tile_shape(value) or (1,)))
    return analyse_assumption(op, _stated(op.operand("value")))


def _divisor(type_: TileType, fact: Fact, stated: Fact) -> Iterator[Attribute]:
    if is_integer(type_.element_type) and bit_width(type_.element_type) == 1:
        boxes = [min(mine, extent) for mine, extent in zip(fact.constancy, type_.shape)]
        if boxes and any(box > known for box, known in zip(boxes, stated.constancy)):
            yield SameElementsAttr(boxes)
        return
    for dim, every in enumerate(fact.contiguity):
        divisor = min(fact.divisor[dim], _LARGEST_DIVISOR)
        if every > 1 and type_.shape and (every, divisor) != (stated.contiguity[dim], stated.divisor[dim]):
            yield DivByAttr(divisor, every, dim)
    known = min(fact.scalar_divisor, _LARGEST_DIVISOR)
    if max(fact.contiguity) == 1 and known > stated.scalar_divisor:
        yield DivByAttr(known)


def _bounds(type_: TileType, fact: Fact, stated: Fact) -> Iterator[Attribute]:
    if isinstance(type_.element_type, PointerType) or bit_width(type_.element_type) == 1:
        return
    limit = 1 << (bit_width(type_.element_type) - 1)
    lower = None if fact.lower is None or fact.lower <= -limit else fact.lower
    upper = None if fact.upper is None or fact.upper >= limit - 1 else fact.upper
    if (lower, upper) == (None, None) or (lower, upper) == (stated.lower, stated.upper):
        return
    if lower is not None and upper is not None and lower > upper:
        return  # of a loop that has no iteration: nothing is such a number
    yield BoundedAttr(lower, upper)


def _place_behind(value: SSAValue, op: Operation) -> None:
    owner = value.owner
    if isinstance(owner, Block):
        first = owner.first_op
        assert first is not None  # the terminator, at least
        owner.insert_op_before(op, first)
        return
    block = owner.parent_block()
    assert block is not None
    block.insert_op_after(op, owner)


def _origin(value: SSAValue) -> str:
    """Where a number comes from, for a reader."""
    while (op := defining(value, "assume")) is not None:
        value = op.operand("value")
    if isinstance(value.owner, CudaTileOp):
        return str(value.owner.spec.name)
    parent = value.owner.parent_op() if isinstance(value.owner, Block) else None
    return "a parameter" if isinstance(parent, CudaTileOp) and parent.spec.has_trait("function") else "a loop"


def _text(predicate: Attribute) -> str:
    assert isinstance(predicate, BoundedAttr | DivByAttr | SameElementsAttr)
    return f"{predicate.mnemonic}{predicate.body()}"
