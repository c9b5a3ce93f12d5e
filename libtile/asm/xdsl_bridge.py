# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ops, types and attributes of other xDSL dialects inside of our text.

Such an op's own `parse` is given `BridgeParser`: xDSL's parser over the same text, which hands values, types,
attributes and regions back to ours, so that both may nest in one another. Printing goes the same way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from io import StringIO
from typing import TYPE_CHECKING, Any, NoReturn

from xdsl.context import Context
from xdsl.dialects import get_all_dialects
from xdsl.dialects.builtin import Builtin, StringAttr
from xdsl.ir import Attribute, Block, Dialect, Operation, Region, SSAValue
from xdsl.irdl import IRDLOperation
from xdsl.parser import Parser as XdslParser
from xdsl.parser import UnresolvedOperand
from xdsl.parser.generic_parser import ParserState
from xdsl.printer import Printer as XdslPrinter
from xdsl.utils.exceptions import ParseError as XdslParseError
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.lexer import Input, Span, Token
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRToken, MLIRTokenKind

from libtile.asm.op_state import Argument, Use
from libtile.ir.foreign_checks import NOT_UTF8, broken_rule
from libtile.ir.strings import quote, unquote

if TYPE_CHECKING:
    from libtile.asm.parser import Parser
    from libtile.asm.printer import Printer


def make_context(allow_unregistered: bool) -> Context:
    """A context that knows every dialect of xDSL by name, and loads it when it is met."""
    context = Context(allow_unregistered=allow_unregistered)
    context.load_dialect(Builtin)
    for name, factory in {**get_all_dialects(), **_OWN_DIALECTS}.items():
        if name not in ("builtin", "cuda_tile"):
            context.register_dialect(name, factory)
    return context


def _nv_tileaa() -> Dialect:
    from libtile.dialects.nv_tileaa import NvTileAA

    return NvTileAA


def _nv_tileas() -> Dialect:
    from libtile.dialects.nv_tileas import NvTileAS

    return NvTileAS


def _arith() -> Dialect:
    from libtile.dialects.foreign_ops import ARITH

    return ARITH


def _scf() -> Dialect:
    from libtile.dialects.foreign_ops import SCF

    return SCF


def _tensor() -> Dialect:
    from libtile.dialects.foreign_ops import TENSOR

    return TENSOR


_OWN_DIALECTS = {"arith": _arith, "nv_tileaa": _nv_tileaa, "nv_tileas": _nv_tileas, "scf": _scf, "tensor": _tensor}
"""The dialects that cuda_tile is lowered to, and those of which they have ops; loaded when they are met."""


def load_dialect(context: Context, name: str) -> bool:
    """Load a dialect by name; False when there is none."""
    if name in {d.name for d in context.loaded_dialects}:
        return True
    if name not in context.registered_dialect_names:
        return False
    context.load_registered_dialect(name)
    return True


class _Lexer(MLIRLexer):
    """xDSL's lexer, for strings of any bytes, with a pattern that does not go back and forth over an unfinished one."""

    _unescaped_characters_regex = re.compile(r'"(?:[^"\\\n\v\f]++|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"')

    def _lex_string_literal(self, start_pos: int) -> MLIRToken:
        match = self._unescaped_characters_regex.match(self.input.content, start_pos)
        if match is None:
            return super()._lex_string_literal(start_pos)  # says what is wrong
        self.pos = match.end()
        is_text = "\\" not in match[0] or unquote(match[0]).isascii()
        kind = MLIRTokenKind.STRING_LIT if is_text else MLIRTokenKind.BYTES_LIT
        return Token(kind, Span(start_pos, self.pos, self.input))

    def _lex_number(self, start_pos: int) -> MLIRToken:
        digit = self.input.content[start_pos]
        if not digit.isascii():  # as the superscripts, which Python takes for numbers but not for integers
            raise XdslParseError(Span(start_pos, start_pos + 1, self.input), f"Unexpected character: {digit}")
        return super()._lex_number(start_pos)


class BridgeParser(XdslParser):
    """xDSL's parser, in step with `owner`. Both read the same text: `_enter` and `_leave` pass the position on."""

    def __init__(self, owner: Parser):
        super().__init__(make_context(owner.allow_unregistered), "", owner.source.filename)
        lexer = _Lexer(Input(owner.text, owner.source.filename))
        lexer.pos = len(owner.text)  # making the state reads a token: none, until the parser is entered somewhere
        self._parser_state = ParserState(lexer)
        self.owner = owner

    def _enter(self) -> None:
        self._resume_from(self.owner.start)

    def _leave(self) -> None:
        self.owner.seek(self.pos)

    def _failed(self, error: Exception, start: int) -> NoReturn:
        if isinstance(error, UnicodeEncodeError):
            raise self.owner.report(NOT_UTF8, start) from None
        if isinstance(error, XdslParseError):
            message = error.msg.rstrip(".")
            raise self.owner.report(message[:1].lower() + message[1:], error.span.start) from None
        raise self.owner.report(str(error), start) from None

    @property
    def text_here(self) -> str:
        """The first few characters of what comes next."""
        return self.owner.text[self.pos : self.pos + 8]

    # -- called by our parser -----------------------------------------------------------------------------------

    def custom_operation(self, cls: type[Operation], start: int) -> Operation:
        """The custom form of an op of another dialect, behind its name."""
        try:
            self._enter()
            op = cls.parse(self)
            self._leave()
        except (XdslParseError, VerifyException, UnicodeEncodeError) as error:
            self._failed(error, start)
        return op

    def foreign(self, start: int, *, is_type: bool) -> Attribute:
        """A type or attribute that our parser does not know."""
        try:
            self._enter()
            found: Attribute | None
            if is_type:
                found = XdslParser.parse_optional_type(self)
            else:
                found = XdslParser.parse_optional_attribute(self)
            self._leave()
        except (XdslParseError, VerifyException, UnicodeEncodeError) as error:
            self._failed(error, start)
        if found is None:
            raise self.owner.wrong_token("expected non-function type" if is_type else "expected attribute value")
        return found

    # -- called by xDSL -----------------------------------------------------------------------------------------

    # What a token of a string stands for is ours to say: xDSL fails on bytes that are no UTF-8.

    def parse_optional_str_literal(self) -> str | None:
        token = self._parse_optional_token(MLIRTokenKind.STRING_LIT)
        return None if token is None else unquote(token.text)

    def parse_optional_bytes_literal(self) -> bytes | None:
        token = self._parse_optional_token(MLIRTokenKind.BYTES_LIT)
        return None if token is None else unquote(token.text).encode("utf-8", errors="surrogateescape")

    def parse_optional_symbol_name(self) -> StringAttr | None:
        token = self._parse_optional_token(MLIRTokenKind.AT_IDENT)
        if token is None:
            return None
        name = token.text[1:]
        return StringAttr(unquote(name) if name.startswith('"') else name)

    def _parse_optional_string_attr(self) -> StringAttr | None:
        text = self.parse_optional_str_literal()
        return None if text is None else StringAttr(text)

    def parse_optional_type(self) -> Any:
        self.owner.nest()
        if self.text_here.startswith("tile<"):
            from libtile.ir.tile_form import parse_type

            found: Attribute | None = parse_type(self)  # of a dialect other than cuda_tile: a tensor
        else:
            self._leave()
            found = self.owner.optional_type()
            self._enter()
        self.owner.depth -= 1
        return found

    def parse_optional_attribute(self) -> Attribute | None:
        self._leave()
        found = self.owner.optional_attribute()
        self._enter()
        return found

    def resolve_operand(self, operand: UnresolvedOperand, type: Attribute) -> Any:
        return self.owner.resolve(Use("%" + operand.operand_name, operand.index, operand.span.start), type)

    def _parse_optional_operand_without_type(self) -> SSAValue | None:
        operand = self.parse_optional_unresolved_operand()
        if operand is None:
            return None
        definition = self.owner.values.get("%" + operand.operand_name)
        value = None
        if definition is not None and operand.index < len(definition.values):
            value = definition.values[operand.index]
        if value is None:
            self.raise_error("use of undeclared SSA value name", operand.span)
        return value

    def _register_ssa_definition(self, name: str, values: Any, span: Span) -> None:
        for number, value in enumerate(values):
            self.owner.define(Use("%" + name, number, span.start), value)

    def parse_optional_region(self, arguments: Iterable[XdslParser.Argument] | None = None) -> Region | None:
        self._leave()
        if self.owner.kind != "{":
            return None
        given = None
        if arguments is not None:
            given = [Argument(Use(a.name.text, 0, a.name.start), a.type, a.location) for a in arguments]
        region = self.owner.region(given)
        if given is not None and region.first_block is None:
            region.add_block(Block())
        self._enter()
        return region

    def parse_optional_operation(self) -> Operation | None:
        self._leave()
        if self.owner.kind not in ("bare", "string", "percent"):
            return None
        op = self.owner.operation()
        self._enter()
        return op

    def parse_operation(self) -> Operation:
        self._leave()
        op = self.owner.operation()
        self._enter()
        return op

    def parse_optional_successor(self) -> Block | None:
        self._leave()
        if self.owner.kind != "caret":
            return None
        block = self.owner.successor()
        self._enter()
        return block

    def parse_optional_location(self) -> Any:
        self._leave()
        found = None
        if self.owner.kind == "bare" and self.owner.token == "loc":
            found = self.owner.location()
        self._enter()
        return found


# -- printing -----------------------------------------------------------------------------------------------------


def has_custom_form(op: Operation) -> bool:
    """Whether an op's class prints itself. Its printer relies on what its verifier checks, as in MLIR."""
    cls = type(op)
    declared = isinstance(op, IRDLOperation) and op.get_irdl_definition().assembly_format is not None
    if not declared and cls.print is Operation.print:
        return False
    return broken_rule(op) is None


class _BridgePrinter(XdslPrinter):
    """xDSL's printer, with our names, types and regions. It writes straight to our text."""

    def __init__(self, owner: Printer):
        super().__init__(stream=StringIO(), print_generic_format=False)
        self.owner = owner

    def print_string(self, text: str, *, indent: int | None = None) -> None:
        self.owner.write(text)

    def print_string_literal(self, string: str) -> None:
        self.owner.write(quote(string))

    def print_ssa_value(self, value: SSAValue) -> str:
        name = self.owner.value(value)
        self.owner.write(name)
        return name

    def print_attribute(self, attribute: Attribute) -> None:
        self.owner.write(self.owner.attribute(attribute))

    def print_region(
        self,
        region: Region,
        print_entry_block_args: bool = True,
        print_empty_block: bool = True,
        print_block_terminators: bool = True,
    ) -> None:
        self.owner.region(region, arguments=print_entry_block_args, terminators=print_block_terminators)

    def print_op(self, op: Operation) -> None:
        self.owner.operation(op)

    def print_block_name(self, block: Block) -> str:
        name = self.owner.block_name(block)
        self.owner.write(name)
        return name


def print_custom(owner: Printer, op: Operation) -> None:
    """Write an op of another dialect in its own form, name included."""
    owner.write(op.name)
    op.print(_BridgePrinter(owner))
