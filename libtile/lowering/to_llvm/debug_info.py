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

What LLVM carries as a location's column is the number of a place in a `LineTable` (see `libtile.backend.ptx_lines`).
"""

from __future__ import annotations

import posixpath

from xdsl.dialects.builtin import ArrayAttr, CallSiteLoc, FusedLoc, NameLoc
from xdsl.ir import Attribute

from libtile.codegen.line_table import Call, LineTable, Place
from libtile.codegen.llvm_text import quoted
from libtile.dialects.cuda_tile.attributes import DILexicalBlockAttr, DILocAttr, DISubprogramAttr
from libtile.dialects.cuda_tile.locations import source_line, source_location
from libtile.dialects.cuda_tile.verify.debug_info import debug_location
from libtile.support.diagnostics import LoweringError, SourceLocation
from libtile.support.records import dataclass, replace

_MAX_DEPTH = 256
"""Inlined calls and scopes around a location that are kept."""

_MAX_LINE = 0x7FFFFFFF
"""The last line that the readers of line tables show as it is."""

_MAX_COLUMN = 0xFFFF
"""LLVM's columns have 16 bits; a larger one is 0, which is DWARF's unknown one."""

_PRODUCER = "libtile"
_UNKNOWN_FILE = "<unknown>"


def _without_nul(text: str) -> str:
    """In debug sections a NUL ends a string, and what follows would be read as data."""
    return text.replace("\0", "\\0")


def _quoted(text: str) -> str:
    return quoted(_without_nul(text))


@dataclass(frozen=True)
class _File:
    """A source file; the directory is where its name starts from."""

    name: str
    directory: str

    @staticmethod
    def of(path: str) -> _File:
        directory, name = posixpath.split(path)
        return _File(name or _UNKNOWN_FILE, directory)

    def named(self, name: str) -> _File:
        """The file that a location inside of this one names: this one, by its name or its path, or another."""
        return self if name in (self.name, self.path) or not name else _File.of(name)

    @property
    def path(self) -> str:
        """The path as LLVM prints it in PTX."""
        return posixpath.join(self.directory, self.name)


@dataclass(frozen=True)
class _Spot:
    """A resolved location: the metadata of its scope and of the call it is inlined at, and where that is in words."""

    scope: str
    function: str
    file: _File
    line: int
    column: int
    inlined_at: str = ""
    calls: tuple[Call, ...] = ()


class LineError(LoweringError):
    """A line that no line table can hold: without line information the module could be compiled."""


class DebugInfo:
    """The debug metadata of one LLVM module. `full` asks for all of it, else it is for line numbers alone."""

    def __init__(self, full: bool = False):
        self.full = full
        self._nodes: list[str] = []
        self._numbers: dict[str, str] = {}
        self._unit = ""
        self.lines = LineTable()
        self.numbers: dict[str, int] = {}
        """Those of places, by the name of an instruction's location."""

    def add(self, text: str, distinct: bool = False) -> str:
        """A node's name, such as `!7`; equal nodes are one, except distinct ones."""
        if not distinct and text in self._numbers:
            return self._numbers[text]
        name = f"!{len(self._nodes)}"
        self._nodes.append(f"{name} = {'distinct ' if distinct else ''}!{text}")
        if not distinct:
            self._numbers[text] = name
        return name

    def file(self, file: _File) -> str:
        return self.add(f"DIFile(filename: {_quoted(file.name)}, directory: {_quoted(file.directory)})")

    def unit(self, file: _File) -> str:
        """The module's compile unit; the source file is that of the first call."""
        if not self._unit:
            kind = "FullDebug" if self.full else "DebugDirectivesOnly"
            self._unit = self.add(
                f"DICompileUnit(language: DW_LANG_C, file: {self.file(file)}, "
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

    def line(self, number: int, place: SourceLocation) -> int:
        """A line number that a line table can hold; LineError for a larger one."""
        if number > _MAX_LINE:
            message = f"line {number} is beyond {_MAX_LINE}, the last that debug information can hold"
            raise LineError(f"{place}: {message}", place)
        return number

    def text(self) -> str:
        """The metadata as LLVM text; empty when there is none."""
        if not self._unit:
            return ""
        version = self.add('{i32 2, !"Debug Info Version", i32 3}')
        return "\n".join([f"!llvm.dbg.cu = !{{{self._unit}}}", f"!llvm.module.flags = !{{{version}}}", *self._nodes])


def _subprogram_of(location: Attribute) -> DISubprogramAttr | None:
    """The subprogram of the outermost scope of a location."""
    found = debug_location(location)
    return _enclosing(found.scope) if found is not None else None


def _enclosing(scope: Attribute) -> DISubprogramAttr | None:
    for _ in range(_MAX_DEPTH):
        if isinstance(scope, DISubprogramAttr):
            return scope
        if not isinstance(scope, DILexicalBlockAttr):
            return None
        scope = scope.scope
    return None


def _file_of(scope: DISubprogramAttr | DILexicalBlockAttr) -> _File:
    # LLVM drops all metadata of a module that has a file without a name.
    return _File(scope.file.file_name or _UNKNOWN_FILE, scope.file.directory)


class FunctionDebugInfo:
    """The scopes and locations of one kernel. `subprogram` is the metadata that its definition carries."""

    def __init__(self, module: DebugInfo, name: str, source: DISubprogramAttr | None, place: SourceLocation):
        self.module = module
        self.source = source
        self.name = name
        self.place = place
        self._subprograms: dict[DISubprogramAttr, str] = {}
        if source is not None:
            unit = source.compile_unit.file
            module.unit(_File(unit.file_name or _UNKNOWN_FILE, unit.directory))
            self.file = _file_of(source)
            self.subprogram = self._subprogram(source, linkage_name=name)
        else:
            self.file = _File.of(place.filename)
            self.subprogram = self._define(name, name, self.file, place.line, place.line)
        self._known: dict[tuple[int, str], tuple[Attribute, str]] = {}
        self._spots: dict[str, _Spot] = {}

    def of(self, location: Attribute | None, around: str = "") -> str:
        """The metadata of a location, such as `!12`; of an unknown one, that of the location `around` it.

        Empty when neither is known. The line of the Tile IR is always the location's own.
        """
        if location is None:
            return around
        key = (id(location), around)  # a long chain of calls has no hash
        if key not in self._known:
            spot = self._resolve(location, None, 0) or self._spots.get(around)
            made = self._leaf(spot, source_line(location)) if spot is not None else around
            self._known[key] = (location, made)
        return self._known[key][1]

    def _leaf(self, spot: _Spot, source: int) -> str:
        """The metadata of an instruction's location: its column is the number of a place."""
        number = self.module.lines.number(Place(spot.column, spot.calls, source))
        made = self._node(spot, number)
        self.module.numbers[made] = number
        self._spots.setdefault(made, spot)
        return made

    def _node(self, spot: _Spot, column: int) -> str:
        suffix = f", inlinedAt: {spot.inlined_at}" if spot.inlined_at else ""
        return self.module.add(f"DILocation(line: {spot.line}, column: {column}, scope: {spot.scope}{suffix})")

    def _resolve(self, location: Attribute, call: _Spot | None, depth: int) -> _Spot | None:
        """The spot of a location that is inlined at `call`; None for an unknown one."""
        if depth > _MAX_DEPTH:
            place = source_location(location)
            return self._unscoped(place) if place is not None else None
        match location:
            case CallSiteLoc():
                caller = self._resolve(location.caller, call, depth + 1)
                return self._resolve(location.callee, caller or call, depth + 1) or caller
            case NameLoc():
                return self._resolve(location.location, call, depth + 1)
            case FusedLoc(locations=ArrayAttr(data=parts)):
                found = (self._resolve(part, call, depth + 1) for part in parts)
                return next((spot for spot in found if spot is not None), None)
        place = source_location(location)
        if place is None:
            return None
        if isinstance(location, DILocAttr) and self._belongs(location.scope, call):
            return self._scoped(location, place, call)
        return self._unscoped(place)

    def _belongs(self, scope: Attribute, call: _Spot | None) -> bool:
        """Whether the scope can be a location's: any can of what is inlined, else it must be in the kernel."""
        enclosing = _enclosing(scope)
        return enclosing is not None and (call is not None or enclosing == self.source)

    def _unscoped(self, place: SourceLocation) -> _Spot:
        """A position as one of the kernel, in whichever file."""
        file = self.file.named(place.filename)
        return self._spot(self._in_file(self.subprogram, file), self.name, file, place)

    def _scoped(self, location: DILocAttr, place: SourceLocation, call: _Spot | None) -> _Spot:
        scope, enclosing = location.scope, _enclosing(location.scope)
        assert isinstance(scope, DISubprogramAttr | DILexicalBlockAttr) and enclosing is not None
        around, metadata = _file_of(scope), self._scope(scope)
        file = around.named(location.filename)
        if file != around:
            metadata = self._in_file(metadata, file)
        spot = self._spot(metadata, enclosing.linkage_name or enclosing.subprogram_name, file, place)
        if call is None:
            return spot
        at = Call(_without_nul(spot.function), _without_nul(call.file.path), call.line, call.column)
        return replace(spot, inlined_at=self._node(call, call.column), calls=(*call.calls, at))

    def _spot(self, scope: str, function: str, file: _File, place: SourceLocation) -> _Spot:
        column = place.column if place.column <= _MAX_COLUMN else 0
        return _Spot(scope, function, file, self.module.line(place.line, place), column)

    def _in_file(self, scope: str, file: _File) -> str:
        return self.module.add(f"DILexicalBlockFile(scope: {scope}, file: {self.module.file(file)}, discriminator: 0)")

    def _scope(self, scope: Attribute) -> str:
        if isinstance(scope, DISubprogramAttr):
            return self._subprogram(scope)
        assert isinstance(scope, DILexicalBlockAttr)  # `_belongs` has seen the whole chain
        outer = self._scope(scope.scope)
        file = self.module.file(_file_of(scope))
        line = self.module.line(scope.line, self.place)
        column = scope.column if scope.column <= _MAX_COLUMN else 0
        return self.module.add(f"DILexicalBlock(scope: {outer}, file: {file}, line: {line}, column: {column})")

    def _subprogram(self, source: DISubprogramAttr, linkage_name: str = "") -> str:
        if source not in self._subprograms:
            self._subprograms[source] = self._define(
                source.subprogram_name,
                linkage_name or source.linkage_name,
                _file_of(source),
                source.line,
                source.scope_line,
            )
        return self._subprograms[source]

    def _define(self, name: str, linkage_name: str, file: _File, line: int, scope_line: int) -> str:
        type_ = self.module.add(f"DISubroutineType(types: {self.module.add('{null}')})")
        where = self.module.file(file)
        flags = "DISPFlagDefinition" if self.module.full else "DISPFlagDefinition | DISPFlagOptimized"
        line, scope_line = (self.module.line(number, self.place) for number in (line, scope_line))
        return self.module.add(
            f"DISubprogram(name: {_quoted(name)}, linkageName: {_quoted(linkage_name)}, scope: {where}, file: {where}, "
            f"line: {line}, type: {type_}, scopeLine: {scope_line}, spFlags: {flags}, unit: {self.module.unit(file)})",
            distinct=True,
        )
