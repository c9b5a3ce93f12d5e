# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Finishing of the line directives of LLVM's PTX: columns, inlined calls, and the lines of the Tile IR itself.

LLVM's `.loc` has a file, a line and a column; PTX's can also say which function was inlined and where (PTX 7.2), and
`.loc_intermediate` names a line of the intermediate source that a second line table leads to (PTX 9.4; observed on the
reference assembler's cubins: ptxas makes the sections `.nv.tileir.debug_line` and `.nv.tileir.debug_txt.NAME` of it).
So the column that LLVM carries along is the number of a `Place`, which knows all of that; 0 is one that LLVM made
itself, of several or of a function's beginning.
"""

from __future__ import annotations

from libtile.codegen.line_table import Call, LineTable, Place
from libtile.codegen.llvm_text import to_bytes
from libtile.codegen.ptx_text import string
from libtile.ptx.reader import directive, outline

PTX_VERSION = "9.4"
"""The first PTX version with `.loc_intermediate` and `.nv_intermediate_source_section`."""


def source_text(text: str) -> str:
    """A text as ptxas takes it for a source: printable ASCII, other bytes as `\\HH`; no line ends the source."""
    raw = to_bytes(text.rstrip("\n"))
    plain = "".join(chr(b) if 0x20 <= b < 0x7F or b == 0x0A else f"\\{b:02X}" for b in raw)
    return "\n".join(
        line.replace(".", "\\2E", 1) if line.strip() == ".source_end" else line for line in plain.split("\n")
    )


def finish_lines(text: str, table: LineTable, *, inlined: bool) -> str:
    """Finished PTX with the line directives that the table says.

    `inlined` adds inlined calls, for a module without `.debug_info`, which has them else.
    Without a `source` there are no lines of Tile IR.
    """
    return _Finisher(text, table, inlined).text()


class _Finisher:
    def __init__(self, text: str, table: LineTable, inlined: bool):
        self.lines = text.split("\n")
        self.table = table
        self.places = table.places()
        self.inlined = inlined
        module = outline(text)
        self.entries = {text.count("\n", 0, entry.named): entry.name for entry in module.entries}
        self.files = {text[file.start - 1 : file.end + 1]: file.number for file in module.files}
        self.known = len(self.files)
        self.functions: dict[str, str] = {}
        self.source = self._file_number("./" + _digest(table.source)) if table.source else 0
        self.home = 0  # the file of the kernel's beginning

    def text(self) -> str:
        out: list[str] = []
        said: dict[tuple[int, int, int], tuple[Call, ...]] = {}
        beginning = 0
        for at, line in enumerate(self.lines):
            if at in self.entries:
                said, beginning, self.home = {}, self.table.entries.get(self.entries[at], 0), 0
            if place := directive(line, "loc"):
                file, line_number, number, *_ = place.numbers()
                beginning = 0 if number else beginning
                out += self._location(file, line_number, number, said, beginning)
            else:
                out.append(line)
        return "\n".join([*out, *self._end()])

    def _location(
        self, file: int, line: int, number: int, said: dict[tuple[int, int, int], tuple[Call, ...]], beginning: int
    ) -> list[str]:
        place = self.places[number - 1] if number else Place(0, source_line=beginning)
        out = []
        suffix = ""
        self.home = self.home or file
        # ptxas takes the outermost call to be in the file of the function's beginning, whatever is said of it.
        if self.inlined and place.calls and self._file_number(place.calls[0].file) == self.home:
            for depth, call in enumerate(place.calls):
                at = (self._file_number(call.file), call.line, call.column)
                if said.get(at) != place.calls[:depth]:  # ptxas wants each call's place in a directive before
                    said[at] = place.calls[:depth]
                    out.append(f"\t.loc\t{at[0]} {at[1]} {at[2]}{suffix}")
                suffix = f", function_name {self._function(call.function)}, inlined_at {at[0]} {at[1]} {at[2]}"
        said[file, line, place.column] = place.calls
        out.append(f"\t.loc\t{file} {line} {place.column}{suffix}")
        if self.source:
            out.append(f"\t.loc_intermediate\t{self.source} {place.source_line} 0")
        return out

    def _file_number(self, path: str) -> int:
        return self.files.setdefault(string(to_bytes(path)), max(self.files.values(), default=0) + 1)

    def _function(self, name: str) -> str:
        return self.functions.setdefault(name, f"$L__function_name{len(self.functions)}")

    def _end(self) -> list[str]:
        out = [f"\t.file\t{number} {name}" for name, number in list(self.files.items())[self.known :]]
        if self.functions:
            out += ["\t.section\t.debug_str", "\t{"]
            for name, label in self.functions.items():
                out += [f"{label}:", *(f".b8 {byte}" for byte in to_bytes(name) + b"\0")]
            out.append("\t}")
        if self.source:
            out += [
                ".nv_intermediate_source_section {",
                "\t.code_block {",
                '\t\t.ir_name: "tile ir"',
                f"\t\t.sourceFileName: {self.source}",
                "\t\t.source_begin",
                source_text(self.table.source),
                "\t\t.source_end",
                "\t}",
                "}",
            ]
        return [*out, ""] if out else []


def _digest(text: str) -> str:
    import hashlib  # it loads OpenSSL, for those who ask for lines of PTX

    return hashlib.md5(to_bytes(text), usedforsecurity=False).hexdigest()
