# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How large what is compiled may be, and what it prints. Beyond a limit a lowering refuses, and names the place in the
source."""

from __future__ import annotations

MAX_TILE_REGISTERS = 512
"""32-bit registers that one tile may take of each thread. Every one of them is straight-line code: four times what a
thread can have still compiles in seconds, and spills."""

MAX_GLOBAL_ALIGNMENT = 1 << 16
"""Bytes. The cubin is padded to it, and the driver gives no more than some hundred bytes."""

MAX_GLOBAL_BYTES = 16 << 20
"""Initial values of a module-level variable, in bytes, unless all are zero: each is a number in the PTX. Zeros
take no room there, nor in the cubin."""

MAX_PRINT_WIDTH = 1024
"""Characters that a conversion of a print's format may ask for, as its width or its precision."""

UNKNOWN_FILE = "(unknown)"
"""What an assertion without a source location names as its file."""


def before_nul(text: str) -> str:
    """What C's printf shows of a text: a NUL ends it."""
    return text.partition("\0")[0]


def is_too_wide(digits: str | None) -> bool:
    """Whether the width of a print's conversion, or its precision with the point, is beyond the limit."""
    digits = (digits or "").lstrip(".0")
    return len(digits) > len(str(MAX_PRINT_WIDTH)) or int(digits or "0") > MAX_PRINT_WIDTH
