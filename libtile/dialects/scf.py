# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""scf: the loops and branches of the inner dialects. They are MLIR's ops; where control and values go is declared with
each (`interfaces`).

These are the ops that the compiler makes and knows. `foreign_ops` completes them, for text, with those of xDSL.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Self

from xdsl.dialects.builtin import IndexType, SignlessIntegerConstraint, i1
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.irdl import (
    VarConstraint,
    base,
    operand_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import (
    IsTerminator,
    OpTrait,
    Pure,
    RecursivelySpeculatable,
    RecursiveMemoryEffect,
    SingleBlockImplicitTerminator,
    ensure_terminator,
)
from xdsl.utils.exceptions import VerifyException

from libtile.dialects.interfaces import Branch, CountedLoop, Edge, EndsRegion, UncountedLoop, body
from libtile.ir.deferred_op import DeferredOp
from libtile.support.records import dataclass

if TYPE_CHECKING:
    from xdsl.parser import Parser, UnresolvedOperand
    from xdsl.printer import Printer

Value = SSAValue | Operation
Content = Region | Sequence[Operation] | Sequence[Block]
"""What is given for a region."""


@dataclass(frozen=True)
class StandsIn(OpTrait):
    """The op stands right inside of one with one of these names, where it stands in an op."""

    names: tuple[str, ...]

    def verify(self, op: Operation) -> None:
        parent = op.parent_op()
        if parent is not None and parent.name not in self.names:
            names = ", ".join(f"'{name}'" for name in self.names)
            expected = f"op {names}" if len(self.names) == 1 else f"op to be one of {names}"
            raise VerifyException(f"'{op.name}' expects parent {expected}")


class YieldOp(DeferredOp):
    """Ends a region, with values for the op around it."""

    name = "scf.yield"
    FORMAT: ClassVar[str | None] = "attr-dict ($arguments^ `:` type($arguments))?"

    arguments = var_operand_def()

    traits = traits_def(
        IsTerminator(),
        StandsIn(("scf.for", "scf.if", "scf.execute_region", "scf.while", "scf.index_switch")),
        Pure(),
        EndsRegion(),
    )

    def __init__(self, *operands: Value):
        super().__init__(operands=[operands])


class ConditionOp(DeferredOp):
    """Ends the first region of a `while`: whether the second one runs, with these values, or the loop ends so."""

    name = "scf.condition"
    FORMAT: ClassVar[str | None] = "`(` $condition `)` attr-dict ($args^ `:` type($args))?"

    condition = operand_def(i1)
    args = var_operand_def()

    traits = traits_def(StandsIn(("scf.while",)), IsTerminator(), Pure(), EndsRegion())

    def __init__(self, condition: Value, *args: Value):
        super().__init__(operands=[condition, args])


class IfOp(DeferredOp):
    """Runs one of two regions, of which the second may be absent."""

    name = "scf.if"

    output = var_result_def()
    cond = operand_def(i1)
    true_region = region_def("single_block")
    false_region = region_def()

    traits = traits_def(
        SingleBlockImplicitTerminator(YieldOp), RecursiveMemoryEffect(), RecursivelySpeculatable(), Branch()
    )

    def __init__(
        self,
        cond: Value,
        return_types: Sequence[Attribute],
        true_region: Content,
        false_region: Content | None = None,
        attr_dict: dict[str, Attribute] | None = None,
    ):
        super().__init__(
            operands=[cond],
            result_types=[return_types],
            regions=[true_region, Region() if false_region is None else false_region],
            attributes=attr_dict,
        )

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        cond = parser.parse_operand(i1)
        types: list[Attribute] = []
        if parser.parse_optional_punctuation("->"):
            types = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
        true_region = _with_yield(parser.parse_region())
        false_region = Region()
        if parser.parse_optional_keyword("else"):
            false_region = _with_yield(parser.parse_region())
        return cls(cond, types, true_region, false_region, parser.parse_optional_attr_dict())

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.cond)
        if self.output:
            printer.print_string(" -> (")
            printer.print_list(self.output.types, printer.print_attribute)
            printer.print_string(")")
        for word, region in ((" ", self.true_region), (" else ", self.false_region)):
            if region is self.true_region or region.blocks:
                printer.print_string(word)
                printer.print_region(region, print_entry_block_args=False, print_block_terminators=bool(self.output))
        if self.attributes:
            printer.print_attr_dict(self.attributes)


def _with_yield(region: Region) -> Region:
    """A region that was read, with the `yield` that need not be written."""
    block = region.blocks.last
    if block is None:
        block = Block()
        region.add_block(block)
    if block.last_op is None or not block.last_op.has_trait(IsTerminator):
        block.add_op(YieldOp())
    return region


class ForOp(DeferredOp):
    """Runs its region for each number from `lb` by `step` below `ub`, with values that go from one to the next."""

    name = "scf.for"

    T: ClassVar = VarConstraint("T", base(IndexType) | SignlessIntegerConstraint)

    lb = operand_def(T)
    ub = operand_def(T)
    step = operand_def(T)
    iter_args = var_operand_def()
    res = var_result_def()
    body = region_def("single_block")

    traits = traits_def(SingleBlockImplicitTerminator(YieldOp), RecursiveMemoryEffect(), CountedLoop())

    def __init__(
        self,
        lb: Value,
        ub: Value,
        step: Value,
        iter_args: Sequence[Value],
        body: Content | Block,
    ):
        super().__init__(
            operands=[lb, ub, step, iter_args],
            result_types=[[SSAValue.get(value).type for value in iter_args]],
            regions=[[body] if isinstance(body, Block) else body],
        )

    def verify_(self) -> None:
        block = self.body.block
        if not block.args:
            raise VerifyException("Body block must have induction var as first block arg")
        number, *carried = block.args
        if any(bound.type != number.type for bound in (self.lb, self.ub, self.step)):
            raise VerifyException("Expected induction var to be same type as bounds and step")
        count = len(self.iter_args)
        if len(carried) != count:
            raise VerifyException(
                f"Expected {count + 1} args, but got {len(carried) + 1}. "
                "Body block must have induction and loop-carried variables as args."
            )
        for index, (inside, outside) in enumerate(zip(carried, self.iter_args)):
            if inside.type != outside.type:
                raise VerifyException(
                    f"Block arg #{index + 1} expected to be {outside.type}, but got {inside.type}. "
                    "Block args after the induction variable must match the loop-carried variables."
                )
        end = block.last_op
        if not isinstance(end, YieldOp):
            return
        if len(end.arguments) != count:
            raise VerifyException(
                f"{end.name} expected {count} args, but got {len(end.arguments)}. "
                f"The {self.name} must yield its loop-carried variables."
            )
        for index, (given, outside) in enumerate(zip(end.arguments, self.iter_args)):
            if given.type != outside.type:
                raise VerifyException(
                    f"Expected yield arg #{index} to be {outside.type}, but got {given.type}. "
                    f"{end.name} of {self.name} must match loop-carried variable types."
                )

    def print(self, printer: Printer) -> None:
        number, *carried = self.body.block.args
        for word, value in ((" ", number), (" = ", self.lb), (" to ", self.ub), (" step ", self.step)):
            printer.print_string(word)
            printer.print_ssa_value(value)
        if carried:
            printer.print_string(" iter_args(")
            _print_assignments(printer, carried, self.iter_args)
            printer.print_string(") -> (")
            printer.print_list((arg.type for arg in carried), printer.print_attribute)
            printer.print_string(")")
        if not isinstance(number.type, IndexType):
            printer.print_string(" : ")
            printer.print_attribute(number.type)
        printer.print_string(" ")
        printer.print_region(
            self.body,
            print_entry_block_args=False,
            print_empty_block=False,
            print_block_terminators=bool(self.iter_args),
        )
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        number = parser.parse_argument(expect_type=False)
        parser.parse_punctuation("=")
        bounds = [parser.parse_unresolved_operand()]
        for word in ("to", "step"):
            parser.parse_keyword(word)
            bounds.append(parser.parse_unresolved_operand())
        place = parser.pos
        carried: list[tuple[Parser.UnresolvedArgument, UnresolvedOperand]] = []
        types: list[Attribute] = []
        if parser.parse_optional_keyword("iter_args"):
            carried = _assignments(parser)
            parser.parse_punctuation("->")
            types = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_attribute)
        given = parser.resolve_operands([use for _, use in carried], types, place)
        args = [arg.resolve(type_) for (arg, _), type_ in zip(carried, types)]
        number_type = parser.parse_type() if parser.parse_optional_punctuation(":") else IndexType()
        lb, ub, step = (parser.resolve_operand(use, number_type) for use in bounds)
        region = parser.parse_region((number.resolve(number_type), *args))
        attributes = parser.parse_optional_attr_dict()
        op = cls(lb, ub, step, given, region)
        op.attributes |= attributes
        if not args:
            ensure_terminator(op, SingleBlockImplicitTerminator(YieldOp))
        return op


class WhileLoop(UncountedLoop):
    """The first region ends with the condition and what the second one gets, or the results are."""

    def back(self, op: Operation, exit_: Operation) -> list[Edge]:
        if not isinstance(exit_, ConditionOp):
            return list(enumerate(body(op).args))
        after = body(op, 1).args
        return [(1 + index, value) for index, pair in enumerate(zip(after, op.results)) for value in pair]


class WhileOp(DeferredOp):
    """Runs its first region, which says whether the second one follows, from which it goes on to the first."""

    name = "scf.while"

    arguments = var_operand_def()
    res = var_result_def()
    before_region = region_def("single_block")
    after_region = region_def("single_block")

    traits = traits_def(RecursiveMemoryEffect(), WhileLoop())

    def __init__(
        self,
        arguments: Sequence[Value],
        result_types: Sequence[Attribute],
        before_region: Content,
        after_region: Content,
    ):
        super().__init__(operands=[arguments], result_types=[result_types], regions=[before_region, after_region])

    def verify_(self) -> None:
        for region, values in ((self.before_region, self.arguments), (self.after_region, self.res)):
            inside = [arg.type for arg in region.block.args]
            outside = [value.type for value in values]
            if inside != outside:
                expected, got = (", ".join(map(str, types)) for types in (outside, inside))
                raise VerifyException(f"Block arguments with wrong type, expected ({expected}), got ({got})")

    def print(self, printer: Printer) -> None:
        printer.print_string(" (")
        _print_assignments(printer, self.before_region.block.args, self.arguments)
        printer.print_string(") : ")
        printer.print_operation_type(self)
        printer.print_string(" ")
        printer.print_region(self.before_region, print_entry_block_args=False)
        printer.print_string(" do ")
        printer.print_region(self.after_region)
        if self.attributes:
            printer.print_op_attributes(self.attributes, print_keyword=True)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        given = _assignments(parser)
        parser.parse_punctuation(":")
        place = parser.pos
        type_ = parser.parse_function_type()
        types = type_.inputs.data
        if len(given) != len(types):
            parser.raise_error(
                f"Mismatch between block argument count ({len(given)}) and operand count ({len(types)})",
                place,
                parser.pos,
            )
        args = [arg.resolve(t) for (arg, _), t in zip(given, types)]
        operands = [parser.resolve_operand(use, t) for (_, use), t in zip(given, types)]
        before = parser.parse_region(args)
        parser.parse_characters("do")
        after = parser.parse_region()
        attributes = parser.parse_optional_attr_dict_with_keyword()
        op = cls(operands, type_.outputs.data, before, after)
        if attributes is not None:
            op.attributes |= attributes.data
        return op


def _assignments(parser: Parser) -> list[tuple[Parser.UnresolvedArgument, UnresolvedOperand]]:
    """`(%argument = %value, ...)`"""

    def assignment() -> tuple[Parser.UnresolvedArgument, UnresolvedOperand]:
        argument = parser.parse_argument(expect_type=False)
        parser.parse_characters("=")
        return argument, parser.parse_unresolved_operand()

    return parser.parse_comma_separated_list(parser.Delimiter.PAREN, assignment)


def _print_assignments(printer: Printer, args: Sequence[BlockArgument], values: Sequence[SSAValue]) -> None:
    def pair(both: tuple[BlockArgument, SSAValue]) -> None:
        printer.print_ssa_value(both[0])
        printer.print_string(" = ")
        printer.print_ssa_value(both[1])

    printer.print_list(zip(args, values, strict=True), pair)


OPS: Sequence[type[DeferredOp]] = (IfOp, ForOp, YieldOp, ConditionOp, WhileOp)
"""All ops of this module."""
