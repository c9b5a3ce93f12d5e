# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""LLVM debug metadata out of the locations of ops: compile units, files, subprograms, lexical blocks, inlined calls.

    debug = DebugInfo(full=False)              # line numbers only: LLVM prints `.file` and `.loc`, and no sections
    lines = debug.function(name, location)     # a kernel; None when nothing is known of its place
    builder.subprogram = lines.subprogram
    builder.set_location(lines.of(op.location))
    text = module.text(debug.text())

Every kernel gets subprograms of its own, even where two come of one source function: LLVM wants a subprogram to belong
to one function. A location whose outermost scope is not the kernel is one of the kernel, in the location's file.

A module has one compile unit, that of its first kernel, however many its sources have: PTX has one line table, and
ptxas lays sections of one name over one another ("overlapping non-identical data"), of which LLVM prints some for each
unit. Subprograms and lines keep the files that they are in.
"""

from __future__ import annotations

import os

from xdsl.dialects.builtin import ArrayAttr, CallSiteLoc, FileLineColLoc, FusedLoc, NameLoc
from xdsl.ir import Attribute

from libtile.backend.llvm_text import quoted
from libtile.diagnostics import SourceLocation
from libtile.dialects.cuda_tile.attributes import DIFileAttr, DILexicalBlockAttr, DILocAttr, DISubprogramAttr
from libtile.dialects.cuda_tile.locations import source_location

_MAX_DEPTH = 256
_PRODUCER = "libtile"


def _quoted(text: str) -> str:
    """A string of the metadata. In debug sections a NUL ends a string, and what follows would be read as data."""
    return quoted(text.replace("\0", "\\0"))


def _split(path: str) -> tuple[str, str]:
    folder, name = os.path.split(path)
    return name or "<unknown>", folder


class DebugInfo:
    """The debug metadata of one LLVM module. `full` asks for all of it, else it is for line numbers alone."""

    def __init__(self, full: bool = False):
        self.full = full
        self._nodes: list[str] = []
        self._numbers: dict[str, str] = {}
        self._unit = ""

    def add(self, text: str, distinct: bool = False) -> str:
        """A node's name, such as `!7`; equal nodes are one, except distinct ones."""
        if not distinct and text in self._numbers:
            return self._numbers[text]
        name = f"!{len(self._nodes)}"
        self._nodes.append(f"{name} = {'distinct ' if distinct else ''}!{text}")
        if not distinct:
            self._numbers[text] = name
        return name

    def file(self, name: str, directory: str) -> str:
        name = name or "<unknown>"  # LLVM drops all metadata of a module that has a file without a name
        return self.add(f"DIFile(filename: {_quoted(name)}, directory: {_quoted(directory)})")

    def unit(self, name: str, directory: str) -> str:
        """The module's compile unit; the source file is that of the first call."""
        if not self._unit:
            kind = "FullDebug" if self.full else "DebugDirectivesOnly"
            self._unit = self.add(
                f"DICompileUnit(language: DW_LANG_C, file: {self.file(name, directory)}, "
                f"producer: {_quoted(_PRODUCER)}, isOptimized: {'false' if self.full else 'true'}, "
                f"runtimeVersion: 0, emissionKind: {kind}, nameTableKind: None)",
                distinct=True,
            )
        return self._unit

    def function(self, name: str, location: Attribute) -> FunctionDebugInfo | None:
        """The debug information of the kernel `name`, which stands at `location`; None for an unknown place."""
        place = source_location(location)
        if place is None:
            return None
        return FunctionDebugInfo(self, name, _subprogram_of(location), place)

    def text(self) -> str:
        """The metadata as LLVM text; empty when there is none."""
        if not self._unit:
            return ""
        version = self.add('{i32 2, !"Debug Info Version", i32 3}')
        return "\n".join([f"!llvm.dbg.cu = !{{{self._unit}}}", f"!llvm.module.flags = !{{{version}}}", *self._nodes])


def _subprogram_of(location: Attribute) -> DISubprogramAttr | None:
    """The subprogram of the outermost scope of a location."""
    for _ in range(_MAX_DEPTH):
        match location:
            case CallSiteLoc():
                location = location.caller
            case NameLoc():
                location = location.location
            case FusedLoc(locations=ArrayAttr(data=parts)) if parts:
                location = parts[0]
            case DILocAttr():
                return _enclosing(location.scope)
            case _:
                return None
    return None


def _enclosing(scope: Attribute) -> DISubprogramAttr | None:
    for _ in range(_MAX_DEPTH):
        if isinstance(scope, DISubprogramAttr):
            return scope
        if not isinstance(scope, DILexicalBlockAttr):
            return None
        scope = scope.scope
    return None


class FunctionDebugInfo:
    """The scopes and locations of one kernel. `subprogram` is the metadata that its definition carries."""

    def __init__(self, module: DebugInfo, name: str, source: DISubprogramAttr | None, place: SourceLocation):
        self.module = module
        self.source = source
        self._subprograms: dict[DISubprogramAttr, str] = {}
        if source is not None:
            module.unit(source.compile_unit.file.file_name, source.compile_unit.file.directory)
            self.subprogram = self._subprogram(source, linkage_name=name)
        else:
            file, directory = _split(place.filename)
            self.subprogram = self._define(name, name, file, directory, place.line, place.line)
        self._known: dict[Attribute, str] = {}

    def of(self, location: Attribute | None) -> str:
        """The metadata of a location, such as `!12`; empty for an unknown one."""
        if location is None:
            return ""
        if location not in self._known:
            self._known[location] = self._location(location, "", 0)
        return self._known[location]

    def _location(self, location: Attribute, inlined_at: str, depth: int) -> str:
        if depth > _MAX_DEPTH:
            return ""
        match location:
            case CallSiteLoc():
                caller = self._location(location.caller, inlined_at, depth + 1)
                return self._location(location.callee, caller, depth + 1) if caller else ""
            case NameLoc():
                return self._location(location.location, inlined_at, depth + 1)
            case FusedLoc(locations=ArrayAttr(data=parts)):
                found = (self._location(part, inlined_at, depth + 1) for part in parts)
                return next((text for text in found if text), "")
            case DILocAttr():
                scope = self._scope(location.scope, 0) if self._belongs(location.scope, inlined_at) else ""
                return self._at(scope, source_location(location), inlined_at)
            case FileLineColLoc():
                return self._at("", source_location(location), "")
            case _:
                return self._at("", source_location(location), "")

    def _belongs(self, scope: Attribute, inlined_at: str) -> bool:
        """Whether the scope can be a location's: any can of what is inlined, else it must be in the kernel."""
        enclosing = _enclosing(scope)
        return enclosing is not None and (bool(inlined_at) or enclosing == self.source)

    def _at(self, scope: str, place: SourceLocation | None, inlined_at: str) -> str:
        if place is None:
            return ""
        if not scope:
            file = self.module.file(*_split(place.filename))
            scope = self.module.add(f"DILexicalBlockFile(scope: {self.subprogram}, file: {file}, discriminator: 0)")
            inlined_at = ""
        suffix = f", inlinedAt: {inlined_at}" if inlined_at else ""
        text = f"DILocation(line: {place.line}, column: {min(place.column, 0xFFFF)}, scope: {scope}{suffix})"
        return self.module.add(text, distinct=bool(inlined_at))

    def _scope(self, scope: Attribute, depth: int) -> str:
        if isinstance(scope, DISubprogramAttr):
            return self._subprogram(scope)
        assert isinstance(scope, DILexicalBlockAttr)  # `_belongs` has seen the whole chain
        outer = self._scope(scope.scope, depth + 1)
        file = self._file(scope.file)
        return self.module.add(
            f"DILexicalBlock(scope: {outer}, file: {file}, line: {scope.line}, column: {min(scope.column, 0xFFFF)})"
        )

    def _file(self, file: DIFileAttr) -> str:
        return self.module.file(file.file_name, file.directory)

    def _subprogram(self, source: DISubprogramAttr, linkage_name: str = "") -> str:
        if source not in self._subprograms:
            self._subprograms[source] = self._define(
                source.subprogram_name,
                linkage_name or source.linkage_name,
                source.file.file_name,
                source.file.directory,
                source.line,
                source.scope_line,
            )
        return self._subprograms[source]

    def _define(self, name: str, linkage_name: str, file: str, directory: str, line: int, scope_line: int) -> str:
        types = self.module.add("{null}")
        type_ = self.module.add(f"DISubroutineType(types: {types})")
        where = self.module.file(file, directory)
        flags = "DISPFlagDefinition" if self.module.full else "DISPFlagDefinition | DISPFlagOptimized"
        return self.module.add(
            f"DISubprogram(name: {_quoted(name)}, linkageName: {_quoted(linkage_name)}, scope: {where}, file: {where}, "
            f"line: {line}, type: {type_}, scopeLine: {scope_line}, spFlags: {flags}, "
            f"unit: {self.module.unit(file, directory)})",
            distinct=True,
        )
