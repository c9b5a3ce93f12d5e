# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whether the body of a reduction gives the same, bit for bit, when its two arguments are exchanged.

The body is computed twice on symbols, the second time with the arguments exchanged, and equal computations get equal
numbers. Where values of the two arguments are compared, as for argmax, this is done for every way in which they can
compare, and the choices are followed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import NamedTuple

from xdsl.dialects.builtin import AnyFloat, IntegerType, TensorType
from xdsl.ir import Block, Operation, SSAValue

from libtile.dialects import arith
from libtile.dialects.nv_tileaa.arithmetic import OPS
from libtile.dialects.nv_tileaa.collectives import ReduceLike
from libtile.dialects.nv_tileaa.shapes import BroadcastOp, MakeRangeOp, ViewOp
from libtile.dialects.nv_tileas.tiles import ConvertLayoutOp, ShuffleOp
from libtile.lowering.to_tileas.types import tile_shape

_COMMUTATIVE: frozenset[type[Operation]] = frozenset(
    [arith.AddiOp, arith.MuliOp, arith.AndIOp, arith.OrIOp, arith.XOrIOp, arith.MaxSIOp, arith.MaxUIOp, arith.MinSIOp,
     arith.MinUIOp, OPS["addf"], OPS["mulf"], OPS["maxf"], OPS["minf"]]
)  # fmt: skip

_MOST_CASES = 200
"""A body that compares so many values that there are more cases than this is not looked at."""

_ORDERED, _UNORDERED = {0: 1, 1: 2, -1: 4}, 8
_FLOAT_PREDICATES = (0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 8, 15)
"""For which values each predicate of cmpf holds, by its number: equal, greater, less, and unordered ones."""


def commutes(op: ReduceLike) -> bool:
    """Whether a reduction's body may get its arguments in either order."""
    block = op.body.block
    *steps, last = block.ops
    if any(len(step.results) != 1 or step.regions for step in steps):
        return False
    dim = op.dim.value.data
    choices = [_cases(steps, block, i, _is_distinct(v, dim)) for i, v in enumerate(op.inputs)]
    if prod(map(len, choices)) > _MOST_CASES:
        return False
    return all(_same_exchanged(steps, block, last.operands, case) for case in product(*choices))


class _Case(NamedTuple):
    """How the first argument's value compares with the second's: below (-1), equal (0) or above (1), as signed and as
    unsigned numbers; whether the one or the other is NaN; and whether they are one value.

    Equal integers are one value. Equal floats need not be: 0 and -0.
    """

    signed: int
    unsigned: int
    nan: tuple[bool, bool] = (False, False)
    same: bool = False


def _cases(steps: Sequence[Operation], block: Block, i: int, distinct: bool) -> list[_Case | None]:
    """All ways in which operand i's values can compare; None alone where they are not compared."""
    arguments = {block.args[i], block.args[i + len(block.args) // 2]}
    compared = (step for step in steps if isinstance(step, arith.CmpfOp | arith.CmpiOp))
    if not any(arguments.issuperset(step.operands) for step in compared):
        return [None]
    type_ = block.args[i].type
    element = type_.element_type if isinstance(type_, TensorType) else type_
    if isinstance(element, AnyFloat):
        equal = [] if distinct else [_Case(0, 0)]
        nans = [_Case(0, 0, nan) for nan in ((True, False), (False, True), (True, True))]
        return [_Case(-1, -1), _Case(1, 1), *equal, *nans]
    if isinstance(element, IntegerType):
        equal = [] if distinct else [_Case(0, 0, same=True)]
        return [*(_Case(x, y) for x in (-1, 1) for y in (-1, 1)), *equal]
    return [None]


def _is_distinct(value: SSAValue, dim: int) -> bool:
    """Whether a tile has no element twice along a dimension: it is a range there."""
    match value.owner:
        case MakeRangeOp():
            return True
        case BroadcastOp(source=source):
            before, after = tile_shape(source), tile_shape(value)
            if not before or not after or before[dim] != after[dim]:
                return False
            return _is_distinct(source, dim)
        case ViewOp(source=source):
            before, after = tile_shape(source), tile_shape(value)
            # Only where the dimension has all elements before and after.
            if not before or not after or after[dim] != prod(after) or prod(after) not in before:
                return False
            return _is_distinct(source, before.index(prod(after)))
        case (
            ConvertLayoutOp(source=source)
            | ShuffleOp(source=source)
            | arith.ExtSIOp(input=source)
            | arith.ExtUIOp(input=source)
        ):
            return _is_distinct(source, dim)
    return False


def _same_exchanged(
    steps: Sequence[Operation], block: Block, results: Sequence[SSAValue], case: Sequence[_Case | None]
) -> bool:
    numbers = _Numbers(case)

    def run(arguments: Sequence[int]) -> list[int]:
        values: dict[SSAValue, int] = dict(zip(block.args, arguments, strict=True))
        for step in steps:
            values[step.results[0]] = numbers.of_step(step, [numbers.of(v, values) for v in step.operands])
        return [numbers.of(v, values) for v in results]

    return run([*numbers.first, *numbers.second]) == run([*numbers.second, *numbers.first])


class _Numbers:
    """The numbers of values in one case: equal ones are of the same value. 0 and 1 are the truth values."""

    def __init__(self, case: Sequence[_Case | None]):
        self.case = case
        self._known: dict[object, int] = {False: 0, True: 1}
        self.first = [self._of((0, i)) for i in range(len(case))]
        self.second = [self._of((0 if how and how.same else 1, i)) for i, how in enumerate(case)]
        self._side = {n: (i, 1) for i, n in enumerate(self.second)} | {n: (i, 0) for i, n in enumerate(self.first)}

    def _of(self, what: object) -> int:
        return self._known.setdefault(what, len(self._known))

    def of(self, value: SSAValue, values: dict[SSAValue, int]) -> int:
        """A value's number; one from outside of the body is the same on both sides."""
        return values[value] if value in values else self._of(value)

    def of_step(self, step: Operation, operands: list[int]) -> int:
        """The number of an op's result."""
        match step:
            case arith.CmpfOp() | arith.CmpiOp():
                found = self._compared(step, *operands)
                if found is not None:
                    return int(found)
            case arith.SelectOp() if operands[0] <= 1:
                return operands[1] if operands[0] else operands[2]
            case arith.AndIOp() if max(operands) <= 1:
                return operands[0] & operands[1]
            case arith.OrIOp() if max(operands) <= 1:
                return operands[0] | operands[1]
            case arith.XOrIOp() if max(operands) <= 1:
                return operands[0] ^ operands[1]
        ordered = sorted(operands) if type(step) in _COMMUTATIVE else operands
        attributes = (*sorted(step.properties.items()), *sorted(step.attributes.items()))
        return self._of((step.name, step.results[0].type, attributes, tuple(ordered)))

    def _compared(self, step: arith.CmpfOp | arith.CmpiOp, x: int, y: int) -> bool | None:
        """The outcome where both values are arguments for the same operand."""
        if x not in self._side or y not in self._side:
            return None
        (i, left), (j, right) = self._side[x], self._side[y]
        how = self.case[i]
        if i != j or how is None:
            return None
        predicate = step.predicate.value.data
        direction = right - left  # 1: as the case has it; -1: exchanged; 0: a value with itself
        if isinstance(step, arith.CmpfOp):
            unordered = how.nan[left] or how.nan[right]
            return bool(_FLOAT_PREDICATES[predicate] & (_UNORDERED if unordered else _ORDERED[direction * how.signed]))
        if predicate < 2:
            return (direction * how.signed == 0) == (predicate == 0)
        order = direction * (how.signed if predicate < 6 else how.unsigned)
        return (order < 0, order <= 0, order > 0, order >= 0)[(predicate - 2) % 4]
