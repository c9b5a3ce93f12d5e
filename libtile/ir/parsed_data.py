# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Base of types and attributes that hold plain Python values, and whose parser makes the whole object."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar

from xdsl.ir import Attribute, Data

from libtile.ir.plain_class import PlainClass

if TYPE_CHECKING:
    from xdsl.parser import AttrParser
    from xdsl.printer import Printer


class _SameOrNew(PlainClass):
    """Calling the class with one of its objects gives that object: xDSL does so with what `parse_parameter` returns."""

    def __call__(cls, *arguments: Any, **named: Any) -> Any:
        kind = getattr(cls, "stands_for", None) or cls
        if len(arguments) == 1 and not named and isinstance(arguments[0], kind):
            return arguments[0]
        return super().__call__(*arguments, **named)


class ParsedData(Data[Any], metaclass=_SameOrNew):
    """`data` is the tuple of the parameters; `body` is their text without the angle brackets around it.

    A subclass without parameters needs neither `body` nor `parse_body`. One that is only another spelling says in
    `stands_for` of which class; its objects are of that class.
    """

    stands_for: ClassVar[type[Attribute] | None] = None
    is_element: ClassVar[bool] = False
    """Whether it is a type that tiles and memory may have elements of."""

    def problem(self) -> str | None:
        """What a type breaks of its own rules, as the verifier says it; None for nothing."""
        return None

    def body(self) -> str:
        return ""

    @classmethod
    def parse_body(cls, parser: AttrParser) -> Any:
        """The object whose parameters the parser is at, behind the opening bracket."""
        parser.raise_error(f"'{cls.name}' has no parameters")

    @classmethod
    def without_parameters(cls, parser: AttrParser) -> Any:
        """The object that stands without brackets; an error for a class that has parameters."""
        if any("parse_body" in vars(base) for base in cls.__mro__[: cls.__mro__.index(ParsedData)]):
            parser.raise_error(f"expected '<' and the parameters of '{cls.name}'")
        return cls(())

    def print_parameter(self, printer: Printer) -> None:
        body = self.body()
        if body:
            printer.print_string(f"<{body}>")

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Any:
        if parser.parse_optional_punctuation("<") is None:
            return cls.without_parameters(parser)
        plain = _PLAIN.match(parser.lexer.input.content, parser.pos)
        found = None if plain is None else _KNOWN.get((cls, plain[0]))
        if plain is None:
            found = cls.parse_body(parser)
        elif found is not None:
            parser._resume_from(plain.end())
        else:
            found = cls.parse_body(parser)
            if parser.pos == plain.end():
                if len(_KNOWN) >= _MOST_KNOWN:
                    _KNOWN.clear()
                _KNOWN[cls, plain[0]] = found
        parser.parse_punctuation(">")
        return found


_PLAIN = re.compile(r'[^<>"#!]*(?=>)')
"""Parameters that mean the same wherever they stand, without aliases; and whose end is seen, without brackets."""

_KNOWN: dict[tuple[type, str], Any] = {}
"""What was read, by class and text: a program has few layouts, and writes each of them at hundreds of values."""

_MOST_KNOWN = 4096
