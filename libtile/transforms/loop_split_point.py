# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where `loop-split` cuts a loop: the first value of the induction variable that is not less than a bound.

With integers of any size that is `lb + ceil((b - lb) / step) * step` for `iv >= b`, and b + 1 in b's place for
`iv > b`. In w bits each of these ops can wrap around, so the bound is clamped first where it might:

- `iv > b` is `iv >= min(b, ub - 1) + 1` for every iv of a loop that runs at all (when `ub - 1` wraps, no iv exists);
- a bound within [lb, ub] has a difference d to lb that fits w bits as an unsigned number. What is missing to a whole
  number of steps, `ceil(d / step) * step - d`, is less than a step, so that it comes out right whatever wraps. The
  point is behind the bound by as much, or it is ub where that is nearer: the number behind the last one need not fit.
  In a loop that does not run, any point gives two loops that do not run.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from libtile.dialects.cuda_tile.attributes import DenseElementsAttr
from libtile.dialects.cuda_tile.ops import CudaTileOp
from libtile.dialects.cuda_tile.types import TileType, bit_width
from libtile.dialects.interfaces import bounds_of
from libtile.transforms.canonical_values import constant_integer, create_before

Range = tuple[int, int]
"""The least and the greatest value that something may have."""


def split_point(loop: CudaTileOp, bound: SSAValue, above: bool) -> SSAValue:
    """Emit, in front of a `for`, the first value of its induction variable that is >= bound (> bound when `above`).

    `bound` has the type of the loop's bounds and is compared as these are. Beyond the ends of the loop's range the
    point may be any value on the same side.
    """
    return _Emitter(loop).point(bound, above)


class _Emitter:
    def __init__(self, loop: CudaTileOp) -> None:
        self.loop = loop
        self.lower, self.upper, self.step = bounds_of(loop)
        type_ = self.lower.type
        if not isinstance(type_, TileType):
            raise TypeError("the bounds of a 'for' are tiles")
        self.type = type_
        self.unsigned = bool(loop.attribute_value("unsignedCmp"))
        width = bit_width(type_.element_type)
        self.modulus = 1 << width
        self.least = 0 if self.unsigned else -(self.modulus >> 1)
        self.greatest = self.least + self.modulus - 1

    def point(self, bound: SSAValue, above: bool) -> SSAValue:
        point, values = bound, self.range_of(bound)
        if above:
            if values[1] == self.greatest:
                last = self.emit("subi", self.upper, self.one())
                point = self.emit("mini", point, last, signed=True)
                values = (values[0], min(values[1], self.range_of(self.upper)[1]) - 1)
            point = self.emit("addi", point, self.one())
            values = (values[0] + 1, values[1] + 1)
        if constant_integer(self.step) == 1:
            return point
        return self.aligned(point, values)

    def aligned(self, point: SSAValue, values: Range) -> SSAValue:
        """`lb + ceil((point - lb) / step) * step`, or ub where that is beyond it and may not fit."""
        exact = self.is_exact(values)
        if not exact:
            point = self.emit("maxi", point, self.lower, signed=True)
            point = self.emit("mini", point, self.upper, signed=True)
        difference = self.emit("subi", point, self.lower)
        signedness = "signed" if exact and not self.unsigned else "unsigned"
        rounding = {"signedness": signedness, "rounding": "positive_inf"}
        count = create_before(self.loop, "divi", {"lhs": difference, "rhs": self.step}, [self.type], rounding)
        whole = self.emit("muli", count, self.step)
        if exact:
            return self.emit("addi", self.lower, whole)
        missing = self.emit("subi", whole, difference)
        left = self.emit("subi", self.upper, point)
        nearer = {"lhs": missing, "rhs": left}
        return self.emit(
            "addi", point, create_before(self.loop, "mini", nearer, [self.type], {"signedness": "unsigned"})
        )

    def is_exact(self, point: Range) -> bool:
        """Whether no op of `aligned` can wrap around for a point in this range."""
        lower, step = self.range_of(self.lower), self.range_of(self.step)
        least, greatest = point[0] - lower[1], point[1] - lower[0]
        slack = step[1] - 1
        return self.least <= least and greatest + slack <= self.greatest and point[1] + slack <= self.greatest

    def range_of(self, value: SSAValue) -> Range:
        bits = constant_integer(value)
        if bits is None:
            return self.least, self.greatest
        number = bits - self.modulus if bits > self.greatest else bits
        return number, number

    def one(self) -> SSAValue:
        size = (bit_width(self.type.element_type) + 7) // 8
        value = DenseElementsAttr(self.type, (1).to_bytes(size, "little"))
        return create_before(self.loop, "constant", {}, [self.type], {"value": value})

    def emit(self, name: str, lhs: SSAValue, rhs: SSAValue, signed: bool = False) -> SSAValue:
        """An op over two values; `signed` ones compare as the loop does."""
        attributes = {"signedness": "unsigned" if self.unsigned else "signed"} if signed else None
        return create_before(self.loop, name, {"lhs": lhs, "rhs": rhs}, [self.type], attributes)
