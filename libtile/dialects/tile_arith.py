# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""arith on tiles. xDSL's classes of some of its ops take scalars only; MLIR's take tensors of any shape.

`TileArith` is xDSL's dialect with these ops in place of its own: what `arith` stands for in our text.
"""

from __future__ import annotations

from typing import Self

from xdsl.dialects import arith
from xdsl.dialects.builtin import TensorType, i1
from xdsl.ir import Attribute, Dialect, Operation, SSAValue
from xdsl.irdl import traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.rewriter import Rewriter
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException


def like(type_: Attribute, element: Attribute) -> Attribute:
    """The type with the shape (and layout) of another, and elements of its own."""
    return TensorType(element, type_.shape, type_.encoding) if isinstance(type_, TensorType) else element


class _OnTiles(Operation):
    """Overrides the checks of xDSL's class: operands and results are scalars, or tiles of one shape."""

    def verify_(self) -> None:
        shapes = {
            tuple(v.type.get_shape()) if isinstance(v.type, TensorType) else None
            for v in (*self.operands, *self.results)
        }
        if len(shapes) != 1:
            raise VerifyException(f"'{self.name}' op expects operands and results of one shape")


def _compare_tiles(op: Operation) -> None:
    """Give a comparison of tiles the tile of conditions that it has as its result; xDSL's constructor gives one."""
    type_ = op.operands[0].type
    if isinstance(type_, TensorType):
        Rewriter.replace_value_with_new_type(op.results[0], like(type_, i1))


class CmpiOp(_OnTiles, arith.CmpiOp):
    """`arith.cmpi` on scalars or tiles."""

    def __init__(self, lhs: Operation | SSAValue, rhs: Operation | SSAValue, predicate: int | str):
        super().__init__(lhs, rhs, predicate)
        _compare_tiles(self)


class CmpfOp(_OnTiles, arith.CmpfOp):
    """`arith.cmpf` on scalars or tiles."""

    def __init__(
        self,
        lhs: Operation | SSAValue,
        rhs: Operation | SSAValue,
        predicate: int | str,
        fastmath: arith.FastMathFlagsAttr | None = None,
    ):
        super().__init__(lhs, rhs, predicate, fastmath or arith.FastMathFlagsAttr("none"))
        _compare_tiles(self)


class SelectOp(_OnTiles, arith.SelectOp):
    """`arith.select` with one condition, or with a condition for each element (whose type is then written first)."""

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


class _Cast(_OnTiles):
    """`%x : TYPE to TYPE`: xDSL's own reading of it checks the types."""

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        use = parser.parse_unresolved_operand()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        operand = parser.resolve_operand(use, parser.parse_type())
        parser.parse_keyword("to")
        return cls.create(operands=[operand], result_types=[parser.parse_type()], attributes=attributes)


class ExtSIOp(_Cast, arith.ExtSIOp):
    """`arith.extsi` on scalars or tiles. xDSL's does not say that it has no effects."""

    traits = traits_def(Pure())


class ExtUIOp(_Cast, arith.ExtUIOp):
    """`arith.extui` on scalars or tiles."""


class TruncIOp(_Cast, arith.TruncIOp):
    """`arith.trunci` on scalars or tiles."""


class IndexCastOp(_Cast, arith.IndexCastOp):
    """`arith.index_cast` on scalars or tiles."""


OPS: tuple[type[Operation], ...] = (CmpiOp, CmpfOp, SelectOp, ExtSIOp, ExtUIOp, TruncIOp, IndexCastOp)
_NAMES = {op.name for op in OPS}

TileArith = Dialect(
    arith.Arith.name,
    [*OPS, *(op for op in arith.Arith.operations if op.name not in _NAMES)],
    list(arith.Arith.attributes),
)
"""arith as our parser reads it, for `xdsl.context.Context.load_dialect`."""

__all__ = ["CmpfOp", "CmpiOp", "ExtSIOp", "ExtUIOp", "IndexCastOp", "SelectOp", "TileArith", "TruncIOp", "like"]
