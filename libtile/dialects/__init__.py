# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The dialects of the toolchain, on xDSL."""

from xdsl.printer import Printer


def _print_string_literal(self: Printer, string: str) -> None:
    self.print_bytes_literal(string.encode("utf-8", errors="surrogateescape"))


# Strings of a module are any bytes, held as surrogates where they are no UTF-8. xDSL's printer, which is what gives the
# `str` of an attribute in its own messages too, takes UTF-8 only.
Printer.print_string_literal = _print_string_literal  # type: ignore[method-assign]
