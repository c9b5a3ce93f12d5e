# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What passes that repeat a loop's body share: a copy of an iteration, and arithmetic on the bounds of a `for`."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, Operation, Region, SSAValue

from libtile.analysis import Facts
from libtile.dialects.cuda_tile.attributes import DenseElementsAttr
from libtile.dialects.cuda_tile.ops import CudaTileOp, build
from libtile.dialects.cuda_tile.types import TileType, bit_width, i1
from libtile.dialects.interfaces import EndsIteration, body, bounds_of, exit_of
from libtile.ir.places import ops_of
from libtile.transforms.canonical_values import constant_integer, create_before


def hint(loop: Operation, name: str, otherwise: int) -> int:
    """The number of a discardable attribute of a loop; `otherwise` where there is none."""
    attr = loop.attributes.get(name)
    return attr.value.data if isinstance(attr, IntegerAttr) else otherwise


def counts_up(loop: CudaTileOp, facts: Facts) -> bool:
    """Whether the step of a `for` is positive in any case: else the loop is undefined, with or without iterations, and
    must not run where it did not."""
    step = bounds_of(loop)[2]
    number = Bounds(loop, loop).number(step)
    least = facts.of(step).lower if number is None else number
    return least is not None and least > 0


def ends_early(loop: Operation) -> bool:
    """Whether an iteration may end before the last op of the body, but not the loop: by a `continue` in a branch."""
    last = body(loop).last_op
    return any(op is not last and _continues(op, loop) for op in ops_of(loop))


def _continues(op: Operation, loop: Operation) -> bool:
    exit_ = exit_of(op)
    return isinstance(exit_, EndsIteration) and exit_.target(op) is loop


def copy_iteration(loop: CudaTileOp, place: Operation, arguments: Sequence[SSAValue]) -> list[SSAValue]:
    """Copy an iteration of a `for` in front of `place`, with these values for the body's arguments.

    Returns what it continues with. An iteration that may end early is a `loop` that runs once.
    """
    block, last = place.parent_block(), body(loop).last_op
    assert block is not None and last is not None
    mapper: dict[SSAValue, SSAValue] = dict(zip(body(loop).args, arguments, strict=True))
    if not ends_early(loop):
        copy_ops(loop, block, mapper, place)
        return [mapper.get(value, value) for value in last.operands]
    inner = Block()
    copy_ops(loop, inner, mapper)
    inner.add_op(last.clone(mapper))
    once = build("loop", {"initValues": []}, [value.type for value in last.operands], regions=[inner])
    once.location = loop.location
    block.insert_op_before(once, place)
    for op in [op for op in ops_of(once) if _continues(op, once)]:
        leave = build("break", {"operands": list(op.operands)})
        leave.location = op.location
        around = op.parent_block()
        assert around is not None
        around.insert_op_before(leave, op)
        op.detach()
        op.erase()
    return list(once.results)


def copy_ops(loop: Operation, block: Block, mapper: dict[SSAValue, SSAValue], place: Operation | None = None) -> None:
    """Copy the ops of a loop's body but the last one into a block: in front of `place`, or at the end."""
    for op in list(body(loop).ops):
        if op is body(loop).last_op:
            return
        made = op.clone(mapper)
        if place is None:
            block.add_op(made)
        else:
            block.insert_op_before(made, place)


def with_bounds(loop: CudaTileOp, bounds: Sequence[SSAValue], values: Sequence[SSAValue], region: Region) -> CudaTileOp:
    """A `for` like another one, over other bounds (the first, the end and the step)."""
    made = type(loop).create(
        operands=[*bounds, *values],
        result_types=[result.type for result in loop.results],
        properties=loop.properties.copy(),
        attributes=loop.attributes.copy(),
        regions=[region],
    )
    made.location = loop.location
    return made


class Bounds:
    """Arithmetic on the bounds of a `for`, in front of an op; what is known is computed now."""

    def __init__(self, loop: CudaTileOp, place: Operation) -> None:
        self.place = place
        self.lower, self.upper, self.step = bounds_of(loop)
        assert isinstance(self.lower.type, TileType)
        self.type = self.lower.type
        self.bits = bit_width(self.type.element_type)
        self.modulus = 1 << self.bits
        self.signedness = "unsigned" if loop.attribute_value("unsignedCmp") else "signed"

    def number(self, value: SSAValue) -> int | None:
        """The number that a constant is, as the loop compares it."""
        found = constant_integer(value)
        return None if found is None else self.as_compared(found)

    def as_compared(self, bits: int) -> int:
        """The number that bits are, as the loop compares them."""
        bits %= self.modulus
        return bits - self.modulus if self.signedness == "signed" and bits >= self.modulus >> 1 else bits

    @property
    def greatest(self) -> int:
        return (self.modulus >> (self.signedness == "signed")) - 1

    def constant(self, number: int) -> SSAValue:
        raw = (number % self.modulus).to_bytes(max(self.bits // 8, 1), "little")
        return create_before(self.place, "constant", {}, [self.type], {"value": DenseElementsAttr(self.type, raw)})

    def add(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self._made("addi", a, b)

    def subtract(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self._made("subi", a, b)

    def multiply(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self._made("muli", a, b)

    def quotient(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """Of numbers without a sign."""
        return self._made("divi", a, b, signedness="unsigned")

    def smaller_span(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """The smaller one of two numbers without a sign."""
        return self._made("mini", a, b, signedness="unsigned")

    def larger(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """The larger one, as the loop compares."""
        return self._made("maxi", a, b, signedness=self.signedness)

    def is_entered(self) -> SSAValue:
        """Whether there is an iteration."""
        type_ = TileType((), i1)
        operands = {"lhs": self.lower, "rhs": self.upper}
        settings = {"comparison_predicate": "less_than", "signedness": self.signedness}
        return create_before(self.place, "cmpi", operands, [type_], settings)

    def _made(self, name: str, a: SSAValue, b: SSAValue, **settings: str) -> SSAValue:
        known = constant_integer(a), constant_integer(b)
        if known[0] is not None and known[1] is not None:
            return self.constant(_computed(self, name, known[0], known[1]))
        if (name, known[1]) in (("addi", 0), ("subi", 0), ("muli", 1), ("divi", 1)):
            return a
        if (name, known[0]) in (("addi", 0), ("muli", 1)):
            return b
        return create_before(self.place, name, {"lhs": a, "rhs": b}, [self.type], settings)


def _computed(bounds: Bounds, name: str, a: int, b: int) -> int:
    a, b = a % bounds.modulus, b % bounds.modulus
    match name:
        case "addi":
            return a + b
        case "subi":
            return a - b
        case "muli":
            return a * b
        case "divi":
            return a // b
        case "mini":
            return min(a, b)
        case _:
            return max(a, b, key=bounds.as_compared)
