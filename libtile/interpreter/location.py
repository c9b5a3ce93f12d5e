# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where in the source an op stands."""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, CallSiteLoc, FileLineColLoc, FusedLoc, NameLoc
from xdsl.ir import Attribute, Operation

from libtile.dialects.cuda_tile.attributes import DILocAttr, FileLineColRange
from libtile.support.diagnostics import SourceLocation


def source_location(op: Operation) -> SourceLocation | None:
    """The file, line and column of an op: of the callee of a call site, the first known part of a fused location.

    None when the op's location is unknown.
    """
    return _resolve(op.location)


def _resolve(location: Attribute | None) -> SourceLocation | None:
    match location:
        case FileLineColLoc():
            return SourceLocation(location.filename.data, location.line.data, location.column.data)
        case DILocAttr() | FileLineColRange():
            return SourceLocation(location.filename, location.line, location.column)
        case CallSiteLoc():
            return _resolve(location.callee) or _resolve(location.caller)
        case NameLoc():
            return _resolve(location.location)
        case FusedLoc(locations=ArrayAttr() as parts):
            return next(filter(None, map(_resolve, parts)), None)
    return None
