# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Source locations on ops: building call sites of debug locations, and the position that a diagnostic names."""

from __future__ import annotations

from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    ArrayAttr,
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    IntAttr,
    NameLoc,
    UnknownLoc,
)
from xdsl.ir import Attribute

from libtile.dialects.cuda_tile.attributes import DILocAttr, FileLineColRange
from libtile.support.diagnostics import SourceLocation

_MAX_CHAIN = 1024


def call_site_loc(callee: Attribute, caller: Attribute) -> CallSiteLoc:
    """`loc(callsite(callee at caller))` over any locations.

    xDSL's constructor takes builtin locations only; a `DILocAttr` is a location in Tile IR as well.
    """
    attr = object.__new__(CallSiteLoc)
    object.__setattr__(attr, "callee", callee)
    object.__setattr__(attr, "caller", caller)
    return attr


def source_location(location: Attribute | None) -> SourceLocation | None:
    """The file position that a diagnostic at `location` names: the callee of a call site, the first fused one.

    None when the location names no position.
    """
    for _ in range(_MAX_CHAIN):
        match location:
            case DILocAttr() | FileLineColRange():
                return SourceLocation(location.filename, location.line, location.column)
            case FileLineColLoc():
                return SourceLocation(location.filename.data, location.line.data, location.column.data)
            case CallSiteLoc():
                location = location.callee
            case NameLoc():
                location = location.location
            case FusedLoc(locations=ArrayAttr() as parts):
                found = (source_location(inner) for inner in parts)
                return next((place for place in found if place is not None), None)
            case _:
                return None
    return None


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
    "is_encodable",
    "source_line",
    "source_location",
    "with_source_line",
    "without_source_line",
]
