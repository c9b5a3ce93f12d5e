# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Polynomials over a program's scalars (`analysis.affine`) as ops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import Attribute, Operation, SSAValue

from libtile.analysis.affine import Forms
from libtile.analysis.polynomials import Polynomial
from libtile.dialects.cuda_tile.attributes import DenseElementsAttr
from libtile.dialects.cuda_tile.types import NUMBER_TYPES, TileType, width_of
from libtile.transforms.canonical_values import create_before

Operands = Mapping[str, SSAValue | Sequence[SSAValue] | None]


class ScalarWriter:
    """Makes ops in front of `place`, with the location of `op`, which was there when `forms` was asked."""

    def __init__(self, op: Operation, forms: Forms, place: Operation | None = None) -> None:
        self.op = op
        self.forms = forms
        self.place = op if place is None else place

    def create(self, name: str, operands: Operands, type_: Attribute, **attributes: object) -> SSAValue:
        """Make an op; returns its first result."""
        value = create_before(self.place, name, operands, [type_], attributes)
        assert isinstance(value.owner, Operation)
        value.owner.location = self.op.location
        return value

    def bits(self, numbers: Sequence[Polynomial]) -> int:
        """32 where that is enough for all of the numbers and what they are computed of, else 64."""
        for number in numbers:
            low, high = self.forms.bounds(number)
            wide = any(width_of(self.forms.unknowns[unknown]) > 32 for unknown in number.unknowns)
            if wide or low < -(1 << 31) or high >= 1 << 31:
                return 64
        return 32

    def constant(self, number: int, bits: int) -> SSAValue:
        """A number of `bits` bits."""
        type_ = TileType((), NUMBER_TYPES[f"i{bits}"])
        raw = (number & ((1 << bits) - 1)).to_bytes(bits // 8, "little")
        return self.create("constant", {}, type_, value=DenseElementsAttr(type_, raw))

    def number(self, number: Polynomial, bits: int) -> SSAValue:
        """A polynomial as a scalar: sums on the way to it may wrap around, it does not."""
        type_ = TileType((), NUMBER_TYPES[f"i{bits}"])
        total: SSAValue | None = None
        for monomial, factor in sorted(number.terms, key=lambda term: (term[1] < 0, term)):
            value: SSAValue | None = None
            for unknown in monomial:
                scalar = self.widened(self.forms.at(unknown, self.op), bits)
                value = scalar if value is None else self.create("muli", {"lhs": value, "rhs": scalar}, type_)
            subtract = total is not None and factor < 0
            factor = -factor if subtract else factor
            if value is None:
                value = self.constant(factor, bits)
            elif factor != 1:
                value = self.create("muli", {"lhs": value, "rhs": self.constant(factor, bits)}, type_)
            name = "subi" if subtract else "addi"
            total = value if total is None else self.create(name, {"lhs": total, "rhs": value}, type_)
        return total if total is not None else self.constant(0, bits)

    def widened(self, scalar: SSAValue, bits: int) -> SSAValue:
        """A scalar as a signed number of at least as many bits."""
        if width_of(scalar) == bits:
            return scalar
        return self.create("exti", {"from": scalar}, TileType((), NUMBER_TYPES[f"i{bits}"]), signedness="signed")
