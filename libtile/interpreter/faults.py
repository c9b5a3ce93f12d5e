# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What goes wrong while a program runs: undefined behaviour that a check found, or a program that cannot go on."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

from libtile.support.diagnostics import SourceLocation
from libtile.support.errors import LibtileError, visible

BlockId = tuple[int, int, int]
"""x, y and z of a tile block in its grid."""


class FaultKind(Enum):
    """The classes of faults; the value is how reports name them."""

    OUT_OF_BOUNDS = "out-of-bounds access"
    MISALIGNED = "misaligned access"
    READ_ONLY = "store to constant memory"
    INDEX = "index out of range"
    ASSUMPTION = "violated assumption"
    DIVISION = "undefined division"
    OVERFLOW = "integer overflow"
    CONVERSION = "value out of range"
    NAN = "NaN"
    UNINITIALISED = "use of an uninitialised element"
    RACE = "data race"
    PIPELINE = "misused pipeline"
    DEADLOCK = "deadlock"
    ASSERTION = "assertion failed"
    LOOP = "invalid loop"
    FORMAT = "invalid format string"
    STEPS = "too many steps"
    OUTPUT = "too much output"
    MEMORY = "out of memory"
    UNSUPPORTED = "unsupported operation"


class Fault(Exception):
    """Raised by an op's rule, which does not know where it stands in the program; never leaves the interpreter."""

    def __init__(self, kind: FaultKind, message: str, index: Sequence[int] | None = None):
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.index = None if index is None else tuple(int(i) for i in index)


class InterpreterFault(LibtileError):
    """A fault with all that is known about it.

    `op` is the op's name, `location` where it stands in the source (None when unknown), `block` the tile block that
    ran it (None when no single block did), `index` the element of the op's tile (None when no single element is at
    fault).
    """

    def __init__(
        self,
        kind: FaultKind,
        message: str,
        op: str | None = None,
        location: SourceLocation | None = None,
        block: BlockId | None = None,
        index: tuple[int, ...] | None = None,
    ):
        self.kind = kind
        self.message = message
        self.op = op
        self.location = location
        self.block = block
        self.index = index
        super().__init__(self.render())

    def __reduce__(self) -> tuple[Any, ...]:
        # Faults cross process boundaries when tile blocks run in several.
        return InterpreterFault, (self.kind, self.message, self.op, self.location, self.block, self.index)

    def render(self) -> str:
        """`file:line:col: error: 'op' KIND: message (tile block (x, y, z), element [i, j])`."""
        where = f"{self.location}: " if self.location is not None else ""
        op = f"'{self.op}' op " if self.op is not None else ""
        details = []
        if self.block is not None:
            details.append(f"tile block ({', '.join(map(str, self.block))})")
        if self.index:
            details.append(f"element [{', '.join(map(str, self.index))}]")
        tail = f" ({', '.join(details)})" if details else ""
        return visible(f"{where}error: {op}{self.kind.value}: {self.message}{tail}")
