# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reading a whole text: the entry point around the parser."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from libtile.asm.cursor import ParseError
from libtile.asm.lexer import Source
from libtile.asm.parser import Parser
from libtile.asm.recursion import room_for_nesting
from libtile.dialects.cuda_tile.locations import file_line_col_of
from libtile.spec import Spec
from libtile.support.collector import collector_paused
from libtile.support.diagnostics import DiagnosticError


def parse(
    text: str,
    filename: str = "-",
    *,
    implicit_module: bool = True,
    allow_unregistered: bool = False,
    spec: Spec | None = None,
    first_line: int = 1,
    reader: type[Parser] = Parser,
) -> Operation:
    """Read a module in textual form.

    With `implicit_module` the result is a `builtin.module`: the one in the text, or one around its ops; without it the
    text must hold a single top-level op, which is the result. `first_line` is the number of the text's first line;
    `reader` is the class of the parser, for texts with spellings of their own.
    The result is not verified. Raises DiagnosticError with every diagnostic when the text is malformed.
    """
    with room_for_nesting(), collector_paused():
        parser = reader(Source(text, filename, first_line), spec, allow_unregistered=allow_unregistered)
        return _parse(parser, implicit_module)


def _parse(parser: Parser, implicit_module: bool) -> Operation:
    try:
        ops = parser.top_level()
        if implicit_module:
            if len(ops) == 1 and isinstance(ops[0], ModuleOp):
                return ops[0]
            parser.nests(parser.deepest + 2)  # as it is printed: an op with a region
            module = ModuleOp(ops)
            module.location = file_line_col_of(parser.filename, 0, 0)
            return module
        if len(ops) != 1:
            raise parser.report(f"source must contain a single top-level operation, found: {len(ops)}", 0)
    except ParseError:
        raise DiagnosticError(parser.diagnostics) from None
    return ops[0]
