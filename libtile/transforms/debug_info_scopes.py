# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`synthesize-debug-info-scopes`: line tables for modules whose frontend gave positions without debug scopes."""

from __future__ import annotations

import posixpath

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    IntAttr,
    ModuleOp,
    NameLoc,
    NoneAttr,
    StringAttr,
)
from xdsl.ir import Attribute, Operation

from libtile.dialects.cuda_tile.attributes import (
    DICompileUnitAttr,
    DIFileAttr,
    DILocAttr,
    DISubprogramAttr,
    FileLineColRange,
)
from libtile.dialects.cuda_tile.locations import file_line_col
from libtile.dialects.cuda_tile.ops import CudaTileOp
from libtile.ir.locations import set_location
from libtile.ir.module_pass import ModulePass
from libtile.ir.places import ops_of
from libtile.support import statistics
from libtile.support.records import dataclass
from libtile.transforms import reporting

_MAX_CHAIN = 1024
_UNKNOWN_FILE = DIFileAttr("<unknown>", "")
_REMARK = "DebugInfo"


@dataclass(frozen=True)
class SynthesizeDebugInfoScopesPass(ModulePass):
    """Give every function without a debug scope a subprogram, and every op in it a location in that scope."""

    name = "synthesize-debug-info-scopes"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        synthesize_debug_info_scopes(op)


def synthesize_debug_info_scopes(root: Operation) -> None:
    """Make scopes for the functions of every `cuda_tile.module` in `root` (or of `root`, when it is one).

    The compile unit is named by the module's location, the subprogram by the function's; a function that has a debug
    location already stays as it is.
    """
    for module in ops_of(root):
        if not isinstance(module, CudaTileOp) or module.spec.name != "module":
            continue
        place = file_location(module.location)
        unit = DICompileUnitAttr(_UNKNOWN_FILE if place is None else _file_of(place))
        for block in module.regions[0].blocks:
            for op in block.ops:
                if isinstance(op, CudaTileOp) and op.spec.has_trait("function"):
                    _synthesize_scope(op, unit)


def _synthesize_scope(function: CudaTileOp, unit: DICompileUnitAttr) -> None:
    if _has_scope(function.location):
        reason = "its location is in one already, and so those of its ops are taken as they are"
        reporting.missed(function, _REMARK, "Function gets no scope", reason)
        return
    place = file_location(function.location)
    file = unit.file if place is None else _file_of(place)
    if place is None:
        # Line 1 stands for a function of which nothing is known.
        place = FileLineColLoc(StringAttr(file.file_name), IntAttr(1), IntAttr(1))
    line = place.line.data
    name: str = function.attribute_value("sym_name")
    scope = DISubprogramAttr(file, line, name, name, unit, line)
    without = 0
    for op in ops_of(function):
        at = file_location(op.location)
        without += at is None
        at = at or place
        set_location(op, DILocAttr(scope, at.filename.data, at.line.data, at.column.data))
    reporting.done(function, _REMARK, "Function got a scope of debug information", File=file.file_name, Line=line)
    statistics.count("scopes made")
    if without:
        reason = "they have no position in a file, and get the function's"
        reporting.missed(function, _REMARK, "Ops get no line of their own", reason, Ops=without)


def file_location(location: Attribute) -> FileLineColLoc | None:
    """The file position in a location: of a name its child's, of a call site its caller's, the first one fused."""
    for _ in range(_MAX_CHAIN):
        match location:
            case FileLineColLoc():
                return location
            case FileLineColRange():
                return file_line_col(location.filename, location.line, location.column)
            case NameLoc():
                location = location.location
            case CallSiteLoc():
                location = location.caller
            case FusedLoc(locations=ArrayAttr() as parts):
                location = next((p for p in parts if isinstance(p, FileLineColLoc | FileLineColRange)), NoneAttr())
            case _:
                return None
    return None


def _has_scope(location: Attribute, depth: int = 0) -> bool:
    if depth > _MAX_CHAIN:
        return False
    parts: tuple[Attribute, ...]
    match location:
        case DILocAttr():
            return True
        case NameLoc():
            parts = (location.location,)
        case CallSiteLoc():
            parts = (location.callee, location.caller)
        case FusedLoc(locations=ArrayAttr() as fused):
            parts = tuple(fused)
        case _:
            parts = ()
    return any(_has_scope(part, depth + 1) for part in parts)


def _file_of(place: FileLineColLoc) -> DIFileAttr:
    directory, name = posixpath.split(place.filename.data)
    return DIFileAttr(name, directory)
