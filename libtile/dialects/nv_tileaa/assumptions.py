# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The predicates of `nv_tileaa.assume`: facts about a value, each with its own rules."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from xdsl.dialects.builtin import IndexType, IntegerType
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from libtile.dialects.nv_tileaa.attributes import parse_integers
from libtile.dialects.nv_tileaa.types import MemRefType, PtrType, TiledViewType
from libtile.ir.data_field import DataField, data_definition
from libtile.ir.parsed_data import ParsedData
from libtile.ir.tile_form import element_of, rank_of, shape_of

if TYPE_CHECKING:
    from xdsl.parser import AttrParser

INDEX_BITS = 64


class PredicateAttr(ParsedData):
    """A fact that `assume` can state."""

    @abstractmethod
    def check(self, type_: Attribute) -> None:
        """VerifyException when the fact cannot be stated about a value of a type."""


@data_definition
class DivByAttr(PredicateAttr):
    """`#nv_tileaa.div_by<16>`, `#nv_tileaa.div_by<4, every 8 along 1>`: elements are divisible by a power of two.

    With `every` and `along`, only each `every`-th element along an axis, with consecutive ones between.
    """

    name = "nv_tileaa.div_by"

    divisor = DataField[int](0)
    every = DataField[int | None](1)
    along = DataField[int | None](2)

    def __init__(self, divisor: int, every: int | None = None, along: int | None = None):
        super().__init__((divisor, every, along))

    def body(self) -> str:
        words = [f"every {self.every}"] if self.every is not None else []
        words += [f"along {self.along}"] if self.along is not None else []
        return f"{self.divisor}, {' '.join(words)}" if words else str(self.divisor)

    @classmethod
    def parse_body(cls, parser: AttrParser) -> Self:
        divisor = parser.parse_integer(allow_boolean=False)
        every = along = None
        if parser.parse_optional_punctuation(","):
            if parser.parse_optional_keyword("every"):
                every = parser.parse_integer(allow_boolean=False)
            if parser.parse_optional_keyword("along"):
                along = parser.parse_integer(allow_boolean=False)
        return cls(divisor, every, along)

    def check(self, type_: Attribute) -> None:
        element = element_of(type_)
        if not isinstance(element, IntegerType | IndexType | PtrType | MemRefType | TiledViewType):
            raise VerifyException("div_by requires an integer-, pointer-, or memref-like value")
        if self.divisor <= 0 or self.divisor & (self.divisor - 1):
            raise VerifyException("div_by divisor must be a positive power of two")
        if (self.every is None) != (self.along is None):
            raise VerifyException("div_by every and along must appear together")
        if self.every is None or self.along is None:
            return
        if self.every <= 0:
            raise VerifyException("div_by every must be positive")
        if not 0 <= self.along < rank_of(type_):
            raise VerifyException("div_by along must reference a valid axis")


@data_definition
class BoundedAttr(PredicateAttr):
    """`#nv_tileaa.bounded<0, ?>`: inclusive signed bounds of every element; None leaves one open."""

    name = "nv_tileaa.bounded"

    lower = DataField[int | None](0)
    upper = DataField[int | None](1)

    def __init__(self, lower: int | None, upper: int | None):
        super().__init__((lower, upper))

    def body(self) -> str:
        return ", ".join("?" if b is None else str(b) for b in self.data)

    @classmethod
    def parse_body(cls, parser: AttrParser) -> Self:
        def bound() -> int | None:
            if parser.parse_optional_punctuation("?"):
                return None
            return parser.parse_integer(allow_boolean=False)

        lower = bound()
        parser.parse_punctuation(",")
        return cls(lower, bound())

    def check(self, type_: Attribute) -> None:
        element = element_of(type_)
        if not isinstance(element, IntegerType | IndexType):
            raise VerifyException("bounded requires an integer-like element type")
        bits = element.width.data if isinstance(element, IntegerType) else INDEX_BITS
        low, high = -(1 << bits - 1), (1 << bits - 1) - 1
        if self.lower is not None and not low <= self.lower <= high:
            raise VerifyException("bounded lower exceeds the element's representable range")
        if self.upper is not None and not low <= self.upper <= high:
            raise VerifyException("bounded upper exceeds the element's representable range")
        if self.lower is not None and self.upper is not None and self.lower > self.upper:
            raise VerifyException("bounded lower must not exceed upper")


@data_definition
class SameElementsAttr(PredicateAttr):
    """`#nv_tileaa.same_elements<[1, 4]>`: the tile is made of boxes of this shape, each of one value."""

    name = "nv_tileaa.same_elements"

    def __init__(self, values: Sequence[int]):
        super().__init__(tuple(values))

    @property
    def values(self) -> tuple[int, ...]:
        return self.data

    def body(self) -> str:
        return f"[{', '.join(map(str, self.values))}]"

    @classmethod
    def parse_body(cls, parser: AttrParser) -> Self:
        return cls(parse_integers(parser))

    def check(self, type_: Attribute) -> None:
        shape = shape_of(type_)
        if len(self.values) != len(shape):
            raise VerifyException("same_elements length must match the constrained value's rank")
        if any(not 0 <= value <= size for value, size in zip(self.values, shape)):
            raise VerifyException("same_elements axis bound is out of range")


PREDICATES: tuple[type[PredicateAttr], ...] = (DivByAttr, BoundedAttr, SameElementsAttr)
