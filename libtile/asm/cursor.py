# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The current token of a text, its diagnostics, and the small pieces that every grammar rule is made of.

Where an error is placed, and how it is worded, follows MLIR's own parser, so that tests written for it hold here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from libtile.asm.lexer import Source, error_message, next_token
from libtile.asm.recursion import MAX_NESTING
from libtile.ir.strings import unquote
from libtile.support.diagnostics import Diagnostic, Severity


class ParseError(Exception):
    """Unwinds the parser; what is wrong has been added to its diagnostics."""


class Cursor:
    """Token stream with one token of look-ahead.

    `kind` is `bare`, `percent`, `float`, `int`, `string`, `at`, `caret`, `hash`, `bang`, `eof`, `error`, or a
    punctuation's own spelling; `token` is the token's text, and `start`, `end` are its offsets. `deepest` is the most
    that `depth` has been, with the values of aliases as if they were written out.
    """

    def __init__(self, source: Source):
        self.source = source
        self.text = source.text
        self.diagnostics: list[Diagnostic] = []
        self.op_prefix = ""
        self.depth = 0
        self.deepest = 0
        self.start = 0
        self.end = 0
        self.last_end = 0
        self.kind = "eof"
        self.token = ""
        self.advance()

    # -- tokens -------------------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Go to the next token."""
        self.last_end = self.end
        match = next_token(self.text, self.end)
        assert match is not None  # the pattern ends in a branch that takes any character, or none at the end
        kind = match.lastgroup
        assert kind is not None  # every branch has a name
        self.start, self.end = match.span(kind)
        self.token = match[kind]
        self.kind = self.token if kind == "punct" else kind

    def seek(self, offset: int) -> None:
        """Make the token that starts at or after `offset` the current one."""
        self.end = offset
        self.advance()

    # -- diagnostics --------------------------------------------------------------------------------------------

    def report(self, message: str, offset: int, notes: list[tuple[int, str]] | None = None) -> ParseError:
        """Record an error at an offset; the result is to be raised (or kept, to go on with other errors)."""
        if self.kind == "error":
            # The token is what is really wrong: say that, once, and not what was expected in its place.
            message = error_message(self.text, self.start)
            offset, notes = self.start, None
            place = self.source.location(offset)
            if any(d.location == place and d.message == message for d in self.diagnostics):
                return ParseError()
        diagnostic = Diagnostic(Severity.ERROR, self.source.location(offset), message)
        for place_offset, text in notes or ():
            diagnostic.note(self.source.location(place_offset), text)
        self.diagnostics.append(diagnostic)
        return ParseError()

    def error(self, message: str, offset: int | None = None) -> ParseError:
        """An error of the op being read: inside a custom form the message names the op."""
        return self.report(self.op_prefix + message, self.start if offset is None else offset)

    def wrong_token(self, message: str) -> ParseError:
        """An error about the current token, placed behind the token before it (as a missing token is)."""
        offset = self.start
        if self.kind == "eof":
            offset = max(offset - 1, 0)
        text = self.text
        position = offset
        while True:
            while position > 0 and text[position - 1] in " \t":
                position -= 1
            if position == 0:
                return self.report(message, offset)
            if text[position - 1] not in "\r\n":
                return self.report(message, position)
            position -= 1
            line_start = max(text.rfind("\n", 0, position), text.rfind("\r", 0, position)) + 1
            comment = text.find("//", line_start, position)
            if comment >= 0:
                position = comment

    def fail(self, message: str, offset: int | None = None) -> NoReturn:
        raise self.error(message, offset)

    def nest(self) -> None:
        """Enter one level of nesting; error beyond the limit. The caller leaves with `depth -= 1`."""
        self.depth += 1
        self.nests(0)

    def nests(self, levels: int) -> None:
        """What stands here has so many levels of nesting in it; error where that is beyond the limit."""
        reached = self.depth + levels
        if reached > self.deepest:
            if reached > MAX_NESTING:
                raise self.report(f"nesting is deeper than the limit of {MAX_NESTING}", self.start)
            self.deepest = reached

    # -- punctuation and keywords -------------------------------------------------------------------------------

    def accept(self, punctuation: str) -> bool:
        """Consume a punctuation if it is the current token."""
        if self.kind == punctuation:
            self.advance()
            return True
        return False

    def expect(self, punctuation: str, context: str = "") -> None:
        """Consume a punctuation, or fail with "expected '...'"."""
        if self.kind != punctuation:
            raise self.wrong_token(f"expected '{punctuation}'{context}")
        self.advance()

    def accept_keyword(self, keyword: str) -> bool:
        if self.kind == "bare" and self.token == keyword:
            self.advance()
            return True
        return False

    def expect_keyword(self, keyword: str, context: str = "") -> None:
        if not self.accept_keyword(keyword):
            self.fail(f"expected '{keyword}'{context}")

    def keyword(self) -> str:
        """Any keyword, or fail with "expected valid keyword"."""
        if self.kind != "bare":
            self.fail("expected valid keyword")
        value = self.token
        self.advance()
        return value

    def keyword_or_string(self) -> str:
        if self.kind == "string":
            value = unquote(self.token)
            self.advance()
            return value
        if self.kind != "bare":
            self.fail("expected valid keyword or string")
        return self.keyword()

    def string(self) -> str:
        if self.kind != "string":
            self.fail("expected string")
        value = unquote(self.token)
        self.advance()
        return value

    def symbol_name(self) -> str:
        """`@name`, without the sign."""
        if self.kind != "at":
            self.fail("expected valid '@'-identifier for symbol name")
        return self.take_symbol()

    def take_symbol(self) -> str:
        name = self.token[1:]
        self.advance()
        return unquote(name) if name.startswith('"') else name

    # -- lists --------------------------------------------------------------------------------------------------

    def comma_list(self, element: Callable[[], object]) -> None:
        """One or more elements with commas between."""
        element()
        while self.kind == ",":
            self.advance()
            element()

    def bracketed(self, opening: str, closing: str, element: Callable[[], object], context: str = "") -> None:
        """Zero or more elements in brackets."""
        self.expect(opening, context)
        if self.accept(closing):
            return
        self.comma_list(element)
        self.expect(closing, context)

    # -- numbers ------------------------------------------------------------------------------------------------

    def optional_integer(self) -> int | None:
        """An integer with an optional sign; `true` and `false` count as 1 and 0. None when none starts here."""
        if self.kind == "bare" and self.token in ("true", "false"):
            value = int(self.token == "true")
            self.advance()
            return value
        if self.kind not in ("int", "-"):
            return None
        negative = self.accept("-")
        if self.kind != "int":
            raise self.wrong_token("expected integer value")
        value = integer_value(self.token)
        self.advance()
        return -value if negative else value

    def integer(self, bits: int = 64, signed: bool = True) -> int:
        """An integer of the given width, or fail with "expected integer value"."""
        start = self.start
        value = self.optional_integer()
        if value is None:
            self.fail("expected integer value", start)
        return self.check_integer(value, start, bits, signed)

    def check_integer(self, value: int, offset: int, bits: int = 64, signed: bool = True) -> int:
        low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
        if not low <= value <= high:
            self.fail("integer value too large", offset)
        return value


_DIGITS = 4000
"""More decimal digits than any integer attribute can hold, and fewer than Python refuses to convert."""


def integer_value(token: str) -> int:
    """The value of an integer token; one with thousands of digits counts as larger than any type."""
    if len(token) > _DIGITS:
        return 1 << (4 * _DIGITS)
    return int(token, 16) if token.startswith("0x") else int(token)
