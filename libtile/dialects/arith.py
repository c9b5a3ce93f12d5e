# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""arith: the integer arithmetic, comparisons, selects and integer conversions of the inner dialects, on scalars and
tiles. They are MLIR's ops; what passes ask of them (`interfaces`, `folding`) is declared with each.

These are the ops that the compiler makes and knows. `foreign_ops` completes them, for text, with those of xDSL.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    FloatAttr,
    IndexType,
    IndexTypeConstr,
    IntegerAttr,
    IntegerType,
    SignlessIntegerConstraint,
    TensorType,
    container_of,
    i1,
    i64,
)
from xdsl.ir import Attribute, Data, Operation, SSAValue
from xdsl.irdl import (
    AnyAttr,
    AnyOf,
    ParamAttrConstraint,
    VarConstraint,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Commutative, ConstantLike, NoMemoryEffect, Pure
from xdsl.utils.exceptions import VerifyException

from libtile.dialects.interfaces import DividesBy, Folds, MayExcludeOverflow, Partial
from libtile.ir.data_field import data_definition
from libtile.ir.deferred_op import DeferredOp
from libtile.ir.numbers import integer
from libtile.ir.plain_class import PlainClass
from libtile.ir.tile_form import element_of

if TYPE_CHECKING:
    from xdsl.parser import AttrParser, Parser
    from xdsl.printer import Printer

Value = Operation | SSAValue
"""A value, or the op whose only result it is."""


def like(type_: Attribute, element: Attribute) -> Attribute:
    """The type with the shape (and layout) of another, and elements of its own."""
    return TensorType(element, type_.shape, type_.encoding) if isinstance(type_, TensorType) else element


# -- overflow ---------------------------------------------------------------------------------------------------------


class IntegerOverflowFlag(Enum):
    """How a result does not wrap around: read as signed numbers, or as unsigned ones."""

    NSW = "nsw"
    NUW = "nuw"


@data_definition
class IntegerOverflowAttr(Data[frozenset[IntegerOverflowFlag]], metaclass=PlainClass):
    """In which ways an op says that it does not overflow."""

    name = "arith.overflow"

    def __init__(self, flags: Iterable[IntegerOverflowFlag] | Literal["none"] = "none"):
        super().__init__(frozenset() if flags == "none" else frozenset(flags))

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> frozenset[IntegerOverflowFlag]:
        known = {flag.value: flag for flag in IntegerOverflowFlag}

        def element() -> set[IntegerOverflowFlag]:
            if parser.parse_optional_keyword("none") is not None:
                return set()
            for word, flag in known.items():
                if parser.parse_optional_keyword(word) is not None:
                    return {flag}
            parser.raise_error("expected one of none, nsw, nuw")

        return frozenset().union(*parser.parse_comma_separated_list(parser.Delimiter.ANGLE, element))

    def print_parameter(self, printer: Printer) -> None:
        words = [flag.value for flag in IntegerOverflowFlag if flag in self.data]
        printer.print_string(f"<{','.join(words) or 'none'}>")


NO_FLAGS = IntegerOverflowAttr()


class HasOverflowFlags(MayExcludeOverflow):
    """Says that it does not wrap around by flags."""

    def is_defined(self, op: Operation) -> bool:
        flags = op.properties.get("overflowFlags")
        return not (isinstance(flags, IntegerOverflowAttr) and flags.data)


# -- constants --------------------------------------------------------------------------------------------------------


class ConstantOp(DeferredOp):
    """A number, or a tensor of them."""

    name = "arith.constant"
    FORMAT: ClassVar[str | None] = "attr-dict $value"

    T: ClassVar = VarConstraint("T", AnyAttr())

    result = result_def(T)
    value = prop_def(
        IntegerAttr.constr((SignlessIntegerConstraint | IndexTypeConstr) & T)
        | ParamAttrConstraint(FloatAttr, (AnyAttr(), T))
        | ParamAttrConstraint(DenseIntOrFPElementsAttr, (T, AnyAttr()))
        | ParamAttrConstraint(DenseResourceAttr, (AnyAttr(), T))
    )

    traits = traits_def(Pure(), ConstantLike())

    def __init__(self, value: Any, value_type: Attribute | None = None):
        super().__init__(
            result_types=[value.get_type() if value_type is None else value_type], properties={"value": value}
        )

    @staticmethod
    def from_int_and_width(value: int, value_type: int | IntegerType | IndexType) -> ConstantOp:
        """A constant of a type, or of the integers of a width."""
        type_ = IntegerType(value_type) if isinstance(value_type, int) else value_type
        return ConstantOp(IntegerAttr(value, type_))


# -- two integers of one type -----------------------------------------------------------------------------------------


class BinaryOp(DeferredOp):
    """Base: two operands and a result of one type, of integers or indices."""

    FORMAT: ClassVar[str | None] = "$lhs `,` $rhs attr-dict `:` type($result)"

    T: ClassVar = VarConstraint("T", container_of(AnyOf.get(IntegerType, IndexType)))

    lhs = operand_def(T)
    rhs = operand_def(T)
    result = result_def(T)

    def __init__(self, lhs: Value, rhs: Value, result_type: Attribute | None = None):
        super().__init__(operands=[lhs, rhs], result_types=[result_type or SSAValue.get(lhs).type])


class WrappingOp(BinaryOp):
    """Base: may say that it does not overflow, and is undefined then where it does."""

    FORMAT: ClassVar[str | None] = "$lhs `,` $rhs (`overflow` `` $overflowFlags^)? attr-dict `:` type($result)"

    overflow_flags = prop_def(IntegerOverflowAttr, default_value=NO_FLAGS, prop_name="overflowFlags")

    def __init__(
        self,
        lhs: Value,
        rhs: Value,
        result_type: Attribute | None = None,
        overflow: IntegerOverflowAttr = NO_FLAGS,
    ):
        DeferredOp.__init__(
            self,
            operands=[lhs, rhs],
            result_types=[result_type or SSAValue.get(lhs).type],
            properties={"overflowFlags": overflow},
        )


_SIGNED, _UNSIGNED = (("signedness", "signed"),), (("signedness", "unsigned"),)


def _division(function: str, signedness: str, rounding: str = "zero") -> Folds:
    return Folds(function, (("signedness", signedness), ("rounding", rounding)))


class AddiOp(WrappingOp):
    """lhs + rhs."""

    name = "arith.addi"
    traits = traits_def(Pure(), Commutative(), HasOverflowFlags(), Folds("add"))


class SubiOp(WrappingOp):
    """lhs - rhs."""

    name = "arith.subi"
    traits = traits_def(Pure(), HasOverflowFlags(), Folds("subtract"))


class MuliOp(WrappingOp):
    """lhs * rhs."""

    name = "arith.muli"
    traits = traits_def(Pure(), Commutative(), HasOverflowFlags(), Folds("multiply"))


class ShLIOp(WrappingOp):
    """lhs shifted left by rhs; undefined for shifts by its width or more."""

    name = "arith.shli"
    traits = traits_def(Pure(), Partial(), Folds("shift_left"))


class ShRSIOp(BinaryOp):
    """lhs shifted right by rhs, filled with copies of its sign; undefined for shifts by its width or more."""

    name = "arith.shrsi"
    traits = traits_def(Pure(), Partial(), Folds("shift_right", _SIGNED))


class ShRUIOp(BinaryOp):
    """lhs shifted right by rhs, filled with zeros; undefined for shifts by its width or more."""

    name = "arith.shrui"
    traits = traits_def(Pure(), Partial(), Folds("shift_right", _UNSIGNED))


class AndIOp(BinaryOp):
    """lhs and rhs, bit by bit."""

    name = "arith.andi"
    traits = traits_def(Pure(), Commutative(), Folds("and"))


class OrIOp(BinaryOp):
    """lhs or rhs, bit by bit."""

    name = "arith.ori"
    traits = traits_def(Pure(), Commutative(), Folds("or"))


class XOrIOp(BinaryOp):
    """Whether the bits of lhs and rhs differ, bit by bit."""

    name = "arith.xori"
    traits = traits_def(Pure(), Commutative(), Folds("xor"))


class MinSIOp(BinaryOp):
    """The smaller of two signed numbers."""

    name = "arith.minsi"
    traits = traits_def(Pure(), Folds("minimum", _SIGNED))


class MinUIOp(BinaryOp):
    """The smaller of two unsigned numbers."""

    name = "arith.minui"
    traits = traits_def(Pure(), Folds("minimum", _UNSIGNED))


class MaxSIOp(BinaryOp):
    """The larger of two signed numbers."""

    name = "arith.maxsi"
    traits = traits_def(Pure(), Folds("maximum", _SIGNED))


class MaxUIOp(BinaryOp):
    """The larger of two unsigned numbers."""

    name = "arith.maxui"
    traits = traits_def(Pure(), Folds("maximum", _UNSIGNED))


class DivSIOp(BinaryOp):
    """lhs / rhs of signed numbers, rounded towards zero."""

    name = "arith.divsi"
    traits = traits_def(NoMemoryEffect(), DividesBy(1, True), _division("divide", "signed"))


class DivUIOp(BinaryOp):
    """lhs / rhs of unsigned numbers, rounded towards zero."""

    name = "arith.divui"
    traits = traits_def(NoMemoryEffect(), DividesBy(1, False), _division("divide", "unsigned"))


class CeilDivSIOp(BinaryOp):
    """lhs / rhs of signed numbers, rounded up."""

    name = "arith.ceildivsi"
    traits = traits_def(Pure(), DividesBy(1, True), _division("divide", "signed", "positive_inf"))


class CeilDivUIOp(BinaryOp):
    """lhs / rhs of unsigned numbers, rounded up."""

    name = "arith.ceildivui"
    traits = traits_def(NoMemoryEffect(), DividesBy(1, False), _division("divide", "unsigned", "positive_inf"))


class FloorDivSIOp(BinaryOp):
    """lhs / rhs of signed numbers, rounded down."""

    name = "arith.floordivsi"
    traits = traits_def(Pure(), DividesBy(1, True), _division("divide", "signed", "negative_inf"))


class RemSIOp(BinaryOp):
    """What `divsi` leaves."""

    name = "arith.remsi"
    traits = traits_def(NoMemoryEffect(), DividesBy(1, True), _division("remainder", "signed"))


class RemUIOp(BinaryOp):
    """What `divui` leaves."""

    name = "arith.remui"
    traits = traits_def(NoMemoryEffect(), DividesBy(1, False), _division("remainder", "unsigned"))


DIVISIONS = (DivSIOp, RemSIOp, CeilDivSIOp, FloorDivSIOp, DivUIOp, RemUIOp, CeilDivUIOp)
"""Ops that are undefined for a divisor of zero."""


# -- elementwise ops of several types ---------------------------------------------------------------------------------


class ElementwiseOp(DeferredOp):
    """Base: operands and results are scalars, or tiles of one shape."""

    def verify_(self) -> None:
        shapes = {
            tuple(v.type.get_shape()) if isinstance(v.type, TensorType) else None
            for v in (*self.operands, *self.results)
        }
        if len(shapes) != 1:
            raise VerifyException(f"'{self.name}' op expects operands and results of one shape")


class _ComparisonOp(ElementwiseOp):
    """Base: a predicate, whose number is its place in `PREDICATES`, of two operands of one type."""

    PREDICATES: ClassVar[tuple[str, ...]] = ()
    INTEGERS: ClassVar[bool] = True
    """Whether integers are compared, and not floats."""

    predicate = prop_def(IntegerAttr)
    lhs = operand_def()
    rhs = operand_def()
    result = result_def()

    def __init__(self, lhs: Value, rhs: Value, predicate: int | str, **properties: Attribute | None):
        left, right = SSAValue.get(lhs), SSAValue.get(rhs)
        if left.type != right.type:
            raise TypeError(f"operands of {self.name} are of one type, but got {left.type} and {right.type}")
        if isinstance(predicate, str):
            if predicate not in self.PREDICATES:
                raise VerifyException(f"Unknown comparison mnemonic: {predicate}")
            predicate = self.PREDICATES.index(predicate)
        super().__init__(
            operands=[left, right],
            result_types=[like(left.type, i1)],
            properties={"predicate": integer(predicate, i64), **properties},
        )

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        predicate = parser.parse_identifier()
        uses = []
        for _ in range(2):
            parser.parse_punctuation(",")
            uses.append(parser.parse_unresolved_operand())
        properties = cls._parse_flags(parser)
        parser.parse_punctuation(":")
        type_ = parser.parse_type()
        lhs, rhs = (parser.resolve_operand(use, type_) for use in uses)
        return cls(lhs, rhs, predicate, **properties)

    @classmethod
    def _parse_flags(cls, parser: Parser) -> dict[str, Attribute]:
        return {}

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.PREDICATES[self.predicate.value.data]}, ")
        printer.print_operand(self.lhs)
        printer.print_string(", ")
        printer.print_operand(self.rhs)
        self._print_flags(printer)
        printer.print_string(" : ")
        printer.print_attribute(self.lhs.type)

    def _print_flags(self, printer: Printer) -> None:
        pass

    def verify_(self) -> None:
        super().verify_()
        kind = self.name.partition(".")[2]
        lhs, rhs, result = self.lhs.type, self.rhs.type, self.result.type
        if lhs != rhs or isinstance(element_of(lhs), IntegerType | IndexType) != self.INTEGERS:
            wanted = "integers" if self.INTEGERS else "floats"
            raise VerifyException(f"expects operands of {kind} to be {wanted} of one type, but got {lhs} and {rhs}")
        if result != like(lhs, i1):
            raise VerifyException(f"expects a result of i1 for each comparison, but got {result}")
        number = self.predicate.value.data
        if not 0 <= number < len(self.PREDICATES):
            raise VerifyException(
                f"expects a predicate from 0 to {len(self.PREDICATES) - 1} of {kind}, but got {number}"
            )


class CmpiOp(_ComparisonOp):
    """Whether a predicate holds of two integers."""

    name = "arith.cmpi"
    PREDICATES: ClassVar[tuple[str, ...]] = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
    traits = traits_def(Pure(), Folds("compare", (), ("predicate",)))


class CmpfOp(_ComparisonOp):
    """Whether a predicate holds of two floats: `o` where neither may be a NaN, `u` where one may."""

    name = "arith.cmpf"
    PREDICATES: ClassVar[tuple[str, ...]] = (
        "false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord",
        "ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true",
    )  # fmt: skip
    INTEGERS: ClassVar[bool] = False
    traits = traits_def(Pure())

    fastmath = opt_prop_def()
    """xDSL's `arith.fastmath`, absent for none."""

    def verify_(self) -> None:
        super().verify_()
        if self.fastmath is not None and self.fastmath.name != "arith.fastmath":
            raise VerifyException(f"'{self.name}' op expects 'fastmath' to be an 'arith.fastmath'")

    @classmethod
    def _parse_flags(cls, parser: Parser) -> dict[str, Attribute]:
        if parser.parse_optional_keyword("fastmath") is None:
            return {}
        from xdsl.dialects.arith import FastMathFlagsAttr

        return {"fastmath": FastMathFlagsAttr(FastMathFlagsAttr.parse_parameter(parser))}

    def _print_flags(self, printer: Printer) -> None:
        if isinstance(self.fastmath, Data) and self.fastmath.data:
            printer.print_string(" fastmath")
            self.fastmath.print_parameter(printer)


class SelectOp(ElementwiseOp):
    """One of two values by a condition, or by one for each element (whose type is then written first)."""

    name = "arith.select"
    traits = traits_def(Pure(), Folds("select"))

    cond = operand_def()
    lhs = operand_def()
    rhs = operand_def()
    result = result_def()

    def __init__(self, cond: Value, lhs: Value, rhs: Value):
        super().__init__(operands=[cond, lhs, rhs], result_types=[SSAValue.get(lhs).type])

    def verify_(self) -> None:
        lhs, rhs, result = self.lhs.type, self.rhs.type, self.result.type
        if lhs != rhs or lhs != result:
            raise VerifyException(f"'{self.name}' op expects operands and result of one type")
        if self.cond.type not in (i1, like(lhs, i1)):
            raise VerifyException(f"'{self.name}' op expects a condition of i1, or one for each element")

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        uses = [parser.parse_unresolved_operand()]
        for _ in range(2):
            parser.parse_punctuation(",")
            uses.append(parser.parse_unresolved_operand())
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        first = parser.parse_type()
        type_ = parser.parse_type() if parser.parse_optional_punctuation(",") else first
        types = (i1 if type_ is first else first, type_, type_)
        operands = [parser.resolve_operand(use, each) for use, each in zip(uses, types)]
        return cls.create(operands=operands, result_types=[type_], attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_ssa_value)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        if self.cond.type != i1:
            printer.print_attribute(self.cond.type)
            printer.print_string(", ")
        printer.print_attribute(self.result.type)


class CastOp(ElementwiseOp):
    """Base: the elements of the operand in another type."""

    EXPECTS: ClassVar[str] = "integers as operand and result"
    """The types that there is a cast between, in words."""

    @staticmethod
    def casts(source: Attribute, result: Attribute) -> bool:
        """Whether there is a cast between elements of these types."""
        return isinstance(source, IntegerType) and isinstance(result, IntegerType)

    def verify_(self) -> None:
        super().verify_()
        source, result = element_of(self.input.type), element_of(self.result.type)
        if not self.casts(source, result):
            raise VerifyException(f"expects {self.EXPECTS}, but got {source} and {result}")

    FORMAT: ClassVar[str | None] = "$input attr-dict `:` type($input) `to` type($result)"

    input = operand_def()
    result = result_def()

    def __init__(self, source: Value, target_type: Attribute):
        super().__init__(operands=[source], result_types=[target_type])


class ExtensionOp(CastOp):
    """Base: integers as wider ones."""

    EXPECTS: ClassVar[str] = "integers as operand and wider ones as result"

    @staticmethod
    def casts(source: Attribute, result: Attribute) -> bool:
        if not isinstance(source, IntegerType) or not isinstance(result, IntegerType):
            return False
        return source.width.data < result.width.data


class ExtSIOp(ExtensionOp):
    """Wider integers with the same signed values."""

    name = "arith.extsi"
    traits = traits_def(Pure(), Folds("extend", _SIGNED))


class ExtUIOp(ExtensionOp):
    """Wider integers with the same unsigned values."""

    name = "arith.extui"
    traits = traits_def(Pure(), Folds("extend", _UNSIGNED))


class TruncIOp(CastOp):
    """The low bits, as narrower integers; may say that they hold the whole value."""

    name = "arith.trunci"
    EXPECTS: ClassVar[str] = "integers as operand and narrower ones as result"
    FORMAT: ClassVar[str | None] = (
        "$input (`overflow` `` $overflowFlags^)? attr-dict `:` type($input) `to` type($result)"
    )

    overflow_flags = prop_def(IntegerOverflowAttr, default_value=NO_FLAGS, prop_name="overflowFlags")

    traits = traits_def(Pure(), Folds("truncate"))

    @staticmethod
    def casts(source: Attribute, result: Attribute) -> bool:
        return ExtensionOp.casts(result, source)


class IndexCastOp(CastOp):
    """Integers as indices, or indices as integers, by their signed values."""

    name = "arith.index_cast"
    EXPECTS: ClassVar[str] = "indices as operand or result, and integers as the other"
    traits = traits_def(Pure(), Folds("extend", _SIGNED))

    @staticmethod
    def casts(source: Attribute, result: Attribute) -> bool:
        kinds = {type(source), type(result)}
        return kinds == {IndexType, IntegerType}


OPS: Sequence[type[DeferredOp]] = (
    ConstantOp, AddiOp, SubiOp, MuliOp, DivUIOp, DivSIOp, FloorDivSIOp, CeilDivSIOp, CeilDivUIOp, RemUIOp, RemSIOp,
    MinSIOp, MaxSIOp, MinUIOp, MaxUIOp, CmpiOp, CmpfOp, SelectOp, AndIOp, OrIOp, XOrIOp, ShLIOp, ShRUIOp, ShRSIOp,
    IndexCastOp, TruncIOp, ExtSIOp, ExtUIOp,
)  # fmt: skip
"""All ops of this module."""
