# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Source locations on ops: positions in files, call sites of debug locations, lines of the text of the Tile IR."""

from __future__ import annotations

from functools import lru_cache

from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    ArrayAttr,
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    IntAttr,
    StringAttr,
    UnknownLoc,
)
from xdsl.ir import Attribute

from libtile.dialects.cuda_tile.forms import DILocAttr, FileLineColRange
from libtile.dialects.cuda_tile.source_location import source_location
from libtile.ir.xdsl_classes import attach

attach()


def call_site_loc(callee: Attribute, caller: Attribute) -> CallSiteLoc:
    """`loc(callsite(callee at caller))` over any locations.

    xDSL's constructor takes builtin locations only; a `DILocAttr` is a location in Tile IR as well.
    """
    attr = object.__new__(CallSiteLoc)
    object.__setattr__(attr, "callee", callee)
    object.__setattr__(attr, "caller", caller)
    return attr


def file_line_col(filename: str, line: int, column: int) -> FileLineColLoc:
    """`loc("file":line:column)`, made without xDSL's checks (text has one for each op)."""
    return file_line_col_of(StringAttr(filename), line, column)


def file_line_col_of(filename: StringAttr, line: int, column: int) -> FileLineColLoc:
    attr = object.__new__(FileLineColLoc)
    set_field = object.__setattr__
    set_field(attr, "filename", filename)
    set_field(attr, "line", _int_attr(line))
    set_field(attr, "column", _int_attr(column))
    return attr


@lru_cache(maxsize=4096)
def _int_attr(value: int) -> IntAttr:
    return IntAttr(value)


def with_source_line(location: Attribute, line: int) -> Attribute:
    """`loc(fused<LINE>[location])`: a location that knows the line of its op in the text of the Tile IR."""
    attr = object.__new__(FusedLoc)  # for the same reason as in `call_site_loc`
    object.__setattr__(attr, "locations", ArrayAttr([location]))
    object.__setattr__(attr, "metadata", IntAttr(line))
    return attr


def source_line(location: Attribute) -> int:
    """The line that `with_source_line` has put on a location; 0 for none."""
    match location:
        case FusedLoc(metadata=IntAttr(data=line)):
            return line
    return 0


def without_source_line(location: Attribute) -> Attribute:
    """The location before `with_source_line`."""
    match location:
        case FusedLoc(locations=ArrayAttr(data=[inner]), metadata=IntAttr()):
            return inner
    return location


def is_encodable(location: Attribute) -> bool:
    """Whether the bytecode has a record for the location, or drops it (positions without a debug scope)."""
    pending = [location]
    while pending:
        current = pending.pop()
        if isinstance(current, CallSiteLoc):
            pending += (current.callee, current.caller)
        elif not isinstance(current, DILocAttr | FileLineColLoc | FileLineColRange | UnknownLoc):
            return False
    return True


__all__ = [
    "UNKNOWN_LOC",
    "call_site_loc",
    "file_line_col",
    "file_line_col_of",
    "is_encodable",
    "source_line",
    "source_location",
    "with_source_line",
    "without_source_line",
]
