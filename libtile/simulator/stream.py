# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A cursor over the tokens of a PTX file, with the errors and small rules that all parsers share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from libtile.ptx.errors import PtxFormatError
from libtile.ptx.lexer import MAX_DIGITS, LineMap, Token, tokenize

from .errors import PtxError
from .ir import Location
from .limits import MAX_CONSTANT_BITS, MAX_NESTING


class TokenStream:
    """`tok` is the current token. Every failure is a PtxError that names line, column and the text of the line."""

    def __init__(self, text: str, filename: str) -> None:
        self.text = text
        self.filename = filename
        self.lines = LineMap(text)
        try:
            self.tokens = tokenize(text)
        except PtxFormatError as error:
            line, column = self.lines.position(error.offset)
            shown = self.lines.line_text(line)
            raise PtxError(str(error), line, column, shown if len(shown) <= MAX_DIGITS else "", filename) from None
        self.index = 0
        self.tok = self.tokens[0]
        self.depth = 0

    def next(self) -> Token:
        token = self.tok
        if token.kind != "eof":
            self.index += 1
            self.tok = self.tokens[self.index]
        return token

    def advance(self, wanted: str) -> Token:
        """Like next(), but the end of the file is an error."""
        if self.tok.kind == "eof":
            self.fail(f"the file ends where {wanted} should be")
        return self.next()

    def peek(self, ahead: int = 1) -> Token:
        return self.tokens[min(self.index + ahead, len(self.tokens) - 1)]

    def accept(self, text: str) -> bool:
        if self.tok.text == text and self.tok.kind != "str":
            self.next()
            return True
        return False

    def expect(self, text: str) -> Token:
        if self.tok.text != text:
            found = repr(self.tok.text) if self.tok.kind != "eof" else "the end of the file"
            self.fail(f"expected {text!r}, found {found}")
        return self.next()

    def identifier(self) -> str:
        if self.tok.kind != "id":
            self.fail(f"expected a name, found {self.tok.text!r}")
        return self.next().text

    def integer(self) -> int:
        """An integer constant with optional sign, parentheses and + - * / << operators (constant expressions)."""
        value = self._term()
        while self.tok.text in ("+", "-", "*", "<<", ">>", "/", "%", "|", "&") and self.peek().kind != "id":
            op = self.next().text
            rhs = self._term()
            if op in "/%" and rhs == 0:
                self.fail("division by zero in a constant expression")
            if op in ("<<", ">>") and not 0 <= rhs < MAX_CONSTANT_BITS:
                self.fail(f"a shift by {rhs} in a constant expression")
            value = {
                "+": lambda a, b: a + b,
                "-": lambda a, b: a - b,
                "*": lambda a, b: a * b,
                "<<": lambda a, b: a << b,
                ">>": lambda a, b: a >> b,
                "/": lambda a, b: a // b,
                "%": lambda a, b: a % b,
                "|": lambda a, b: a | b,
                "&": lambda a, b: a & b,
            }[op](value, rhs)
            if value.bit_length() > MAX_CONSTANT_BITS:
                self.fail(f"a constant of more than {MAX_CONSTANT_BITS} bits")
        return value

    def _term(self) -> int:
        if self.tok.text in ("-", "~", "+"):
            sign = self.next().text
            with self.nested():
                value = self._term()
            return -value if sign == "-" else ~value if sign == "~" else value
        if self.accept("("):
            with self.nested():
                value = self.integer()
            self.expect(")")
            return value
        if self.tok.kind != "int":
            self.fail(f"expected an integer, found {self.tok.text!r}")
        return int(self.next().value or 0)

    @contextmanager
    def nested(self) -> Iterator[None]:
        """Around what may hold the like of itself: so deep, and no deeper."""
        self.depth += 1
        if self.depth > MAX_NESTING:
            self.fail(f"nested more than {MAX_NESTING} deep")
        yield
        self.depth -= 1

    def line(self) -> int:
        return self.lines.position(self.tok.pos)[0]

    def skip_past(self, text: str) -> None:
        while self.advance(repr(text)).text != text:
            pass

    def skip_group(self) -> None:
        depth = 0
        while True:
            text = self.advance("')'").text
            depth += (text == "(") - (text == ")")
            if depth == 0:
                return

    def location(self, files: dict[int, str]) -> Location | None:
        """`.loc file line column [, function_name label [+ n], inlined_at file line column]`."""
        self.expect(".loc")
        index, line, _ = self.integer(), self.integer(), self.integer()
        caller: tuple[str, int] | None = None
        while self.tok.text == "," or (self.tok.kind == "id" and self.tok.text in ("function_name", "inlined_at")):
            self.next()
            if self.tok.text == "function_name":
                self.next()
                self.identifier()
                if self.accept("+"):
                    self.integer()
            elif self.tok.text == "inlined_at":
                self.next()
                at, caller_line, _ = self.integer(), self.integer(), self.integer()
                caller = files.get(at, f"file{at}"), caller_line
        if line == 0:
            return None
        return Location(files.get(index, f"file{index}"), line, caller)

    def fail(self, message: str, token: Token | None = None) -> NoReturn:
        line, column = self.lines.position((token or self.tok).pos)
        raise PtxError(message, line, column, self.lines.line_text(line), self.filename)
