# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The text of each stage, with the op of Tile IR that each of its lines was made for.

An op of Tile IR goes by the line of the text in which it is disassembled, which its location carries through every
stage (`with_source_line`): on ops of the inner dialects, through the columns of LLVM's locations (`LineTable`), as
`.loc_intermediate` in PTX. ptxas's own table leads from machine instructions to lines of PTX.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from xdsl.ir import Attribute, Data, Operation, ParametrizedAttribute

from libtile.asm.printer import LinePrinter
from libtile.codegen.line_table import LineTable
from libtile.dialects.cuda_tile.locations import source_line
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.ptx.reader import Instruction, directive, statements
from libtile.support.records import dataclass, field

_WGMMA = re.compile(r"wgmma\.mma_async\.sync\.aligned\.m(\d+)n(\d+)k(\d+)\.")

NONE = 0
"""The op of a line that was made for none."""


@dataclass
class Listing:
    """A stage's text. `ops` has the op for each of `lines`; `note` says why there is no text."""

    name: str
    lines: list[str] = field(default_factory=list)
    ops: list[int] = field(default_factory=list)
    note: str = ""

    def add(self, line: str, op: int = NONE) -> None:
        self.lines.append(line)
        self.ops.append(op)


@dataclass(frozen=True)
class Layout:
    """A layout under its short name: for each kind of bit (register, lane, warp, ...) the elements that the bits lead
    to, and the tile's shape."""

    name: str
    bases: dict[str, list[list[int]]]
    shape: tuple[int, ...]


class Layouts:
    """Short names for layouts, which each type of nv_tileas spells out."""

    def __init__(self) -> None:
        self.found: dict[LayoutAttr, Layout] = {}
        self._seen: set[Attribute] = set()

    def name(self, module: Operation) -> None:
        """Give each layout that a module has a name: `#layout0`, `#layout1`, ..., as its ops come."""
        for op in module.walk():
            self._look(op.properties)
            self._look(op.attributes)
            self._look([v.type for r in op.regions for b in r.blocks for v in b.args])
            self._look([result.type for result in op.results])

    def _look(self, value: Any) -> None:
        """Find the layouts in what attributes hold."""
        if isinstance(value, Attribute):
            if value in self._seen:
                return
            self._seen.add(value)
        match value:
            case LayoutAttr():
                bases = {kind: [list(vector) for vector in vectors] for kind, vectors in value.layout.bases}
                self.found[value] = Layout(f"#layout{len(self.found)}", bases, value.shape)
            case ParametrizedAttribute():
                self._look(value.parameters)
            case Data():
                self._look(value.data)
            case dict():
                self._look(list(value.values()))
            case list() | tuple() | frozenset():
                for part in value:
                    self._look(part)
            case _ if is_dataclass(value):
                self._look([getattr(value, f.name) for f in fields(value)])

    def shortened(self, text: str) -> str:
        """The text with names in place of layouts."""
        for attribute, layout in self.found.items():
            text = text.replace(str(attribute), layout.name)
        return text


def of_module(name: str, module: Operation, layouts: Layouts) -> tuple[Listing, dict[Operation, int]]:
    """The text of a module of any dialect, and the line of each of its ops."""
    layouts.name(module)
    printer = LinePrinter(module)
    lines = layouts.shortened(printer.text()).rstrip("\n").split("\n")
    places = printer.lines()
    listing = Listing(name, lines, [NONE] * len(lines))
    for op, line in places.items():
        listing.ops[line - 1] = source_line(op.location)
    return listing, places


def of_llvm(table: LineTable) -> Listing:
    """LLVM IR before it is optimized, without its metadata."""
    places = table.places()
    listing = Listing("llvm")
    for line, number in table.llvm:
        listing.add(line, places[number - 1].source_line if number else NONE)
    return _trimmed(listing)


def of_ptx(text: str) -> tuple[Listing, dict[int, int]]:
    """PTX without its line directives, and the op for each line of the text itself (from 1): a directive holds up to
    the next one of the function."""
    listing, by_line = Listing("ptx"), {}
    current = NONE
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if line.startswith((".nv_intermediate_source_section", "\t.section")):
            break
        if found := directive(line, "loc_intermediate"):
            current = found.numbers()[1]
        elif line.startswith((".visible", ".func", ".entry", "}")):
            current = NONE
        if line.startswith(("\t.loc", "\t.file", "$L__tmp")):
            continue
        op = current if line.startswith("\t") and any(isinstance(s, Instruction) for s in statements(line)) else NONE
        by_line[number] = op
        listing.add(line.expandtabs(4), op)
    return _trimmed(listing), by_line


def warpgroup_products(text: str, by_line: Mapping[int, int]) -> dict[str, int]:
    """The ops that products of wgmma in PTX were made for, by shape as machine code spells it (`64x128x16`).

    Shapes that several ops have are left out."""
    found: dict[str, set[int]] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if shape := _WGMMA.search(line):
            found.setdefault("x".join(shape.groups()), set()).add(by_line.get(number, NONE))
    return {shape: min(ops) for shape, ops in found.items() if len(ops) == 1}


def _trimmed(listing: Listing) -> Listing:
    """Without blank lines at the end, and with one in place of several."""
    out = Listing(listing.name, note=listing.note)
    for line, op in zip(listing.lines, listing.ops):
        if line.strip() or (out.lines and out.lines[-1]):
            out.add(line.rstrip(), op)
    while out.lines and not out.lines[-1]:
        del out.lines[-1], out.ops[-1]
    return out
