# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The container's numbers, which are frozen: magic, ids of sections, flags, and the kinds of tables."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from libtile.spec.model import BYTECODE_MAGIC

MAGIC = BYTECODE_MAGIC
PADDING = 0xCB
"""Fills the gaps that alignment leaves."""

PREVIEW_BIT = 1
"""Bit of the header's version tag that marks a file with preview content."""

ALIGNED = 0x80
"""Bit of a section's id byte: an alignment and padding follow."""


class SectionId(IntEnum):
    """Numbers of the sections (frozen)."""

    END = 0
    STRING = 1
    FUNC = 2
    DEBUG = 3
    CONSTANT = 4
    TYPE = 5
    GLOBAL = 6
    PRODUCER = 7

    @property
    def label(self) -> str:
        """The section's name in error paths."""
        return self.name.capitalize()


REQUIRED_ALIGNMENT = {
    SectionId.STRING: 4,
    SectionId.TYPE: 4,
    SectionId.CONSTANT: 8,
    SectionId.DEBUG: 8,
    SectionId.FUNC: 8,
}
"""A reader may map these sections' arrays in place, so that their alignment is part of the format."""


class FunctionFlag:
    """Bits of a function record's flag byte (frozen)."""

    PRIVATE = 0x01
    ENTRY = 0x02
    HINTS = 0x04
    """Before ENTRY_HINTS_MANDATORY only."""


KNOWN_SECTIONS = frozenset(int(s) for s in SectionId if s != SectionId.END)


class Table(NamedTuple):
    """A kind of table: a count, a gap, and as many offsets of `width` bytes; the entries' data follows."""

    width: int
    what: str
    """What it has, in messages."""


STRINGS = Table(4, "strings")
TYPES = Table(4, "types")
CONSTANTS = Table(8, "constants")
DEBUG_RECORDS = Table(4, "debug info attributes")
DEBUG_FUNCTIONS = Table(4, "functions with debug info")
DEBUG_INDICES = Table(8, "debug info indices")
TABLES = (STRINGS, TYPES, CONSTANTS, DEBUG_RECORDS, DEBUG_FUNCTIONS, DEBUG_INDICES)
