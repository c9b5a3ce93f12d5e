# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The position in a file that a diagnostic about an op names."""

from __future__ import annotations

from libtile.dialects.cuda_tile.forms import DILocAttr, FileLineColRange
from libtile.ir.forms import ArrayAttr, Attribute, CallSiteLoc, FileLineColLoc, FusedLoc, NameLoc
from libtile.support.diagnostics import SourceLocation

_MAX_CHAIN = 1024


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
