# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Source locations on ops: building call sites of debug locations, and the position that a diagnostic names."""

from __future__ import annotations

from xdsl.dialects.builtin import UNKNOWN_LOC, ArrayAttr, CallSiteLoc, FileLineColLoc, FusedLoc, NameLoc, UnknownLoc
from xdsl.ir import Attribute

from libtile.diagnostics import SourceLocation
from libtile.dialects.cuda_tile.attributes import DILocAttr, FileLineColRange

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


def is_encodable(location: Attribute) -> bool:
    """Whether the bytecode has a record for the location, or drops it (positions without a debug scope)."""
    if isinstance(location, CallSiteLoc):
        return is_encodable(location.caller) and is_encodable(location.callee)
    return isinstance(location, DILocAttr | FileLineColLoc | FileLineColRange | UnknownLoc)


__all__ = ["UNKNOWN_LOC", "call_site_loc", "is_encodable", "source_location"]
