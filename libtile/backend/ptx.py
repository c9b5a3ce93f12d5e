# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Finishing of LLVM's PTX: the directives that a Tile IR kernel needs and LLVM does not print.

The text is cut into the module's header, its entries and what lies between, by following PTX's own nesting, and the
directives of each part are set; instruction text is never touched.

What a kernel's launch needs (observed on the reference assembler's output, 13.5): `.language 7` makes ptxas mark the
cubin as Tile IR, so that a launch passes block (1,1,1) and the driver takes the number of threads from `.reqntid`.
With `.blocksareclusters` the grid of a launch counts clusters, which are tile blocks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from libtile.backend.work import EntryDirectives as EntryDirectives
from libtile.codegen import ptx_text
from libtile.codegen.symbols import LAUNCH_META_DATA
from libtile.support.errors import LibtileError
from libtile.targets import Target

PTX_VERSION = "9.2"
"""The first PTX version with `.language`; a target may need a later one."""

LAUNCH_META_DATA_VARIABLE = f".visible .global .align 8 .b8 {LAUNCH_META_DATA}[64];"

ENTRY = re.compile(r"^\s*(?:\.visible\s+|\.weak\s+)?\.entry\s+([\w$.]+)\s*", re.MULTILINE)
_VERSION = re.compile(r"^\.version\s+[\d.]+\s*$", re.MULTILINE)
_TARGET = re.compile(r"^\.target\s+(\w+)(.*)$", re.MULTILINE)
_DIRECTIVE_NAME = re.compile(r"\.(\w+)")
_FILE = re.compile(r"^(\s*\.file\b[^\"\n]*)(.*)$", re.MULTILINE)
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')


_SET_HERE = (
    "reqntid", "maxntid", "minnctapersm", "reqnctapercluster", "explicitcluster", "blocksareclusters", "language"
)  # fmt: skip
"""Directives of an entry that are made anew."""


class PtxFormatError(LibtileError):
    """LLVM's PTX is not of the form that finishing knows."""


def _closing(text: str, start: int, opening: str, closing: str) -> int:
    """Index just after the bracket that closes the one at `start`; comments and strings are skipped."""
    depth, position = 0, start
    while position < len(text):
        if text.startswith("//", position):
            position = text.find("\n", position)
            if position < 0:
                break
        elif text[position] == '"':
            position = text.find('"', position + 1)
            if position < 0:
                break
        elif text[position] == opening:
            depth += 1
        elif text[position] == closing:
            depth -= 1
            if depth == 0:
                return position + 1
        position += 1
    raise PtxFormatError(f"unbalanced {opening!r} at offset {start}")


def _header(text: str, name: str, directives: EntryDirectives) -> tuple[str, str]:
    """(parameter list with hidden parameters, directive lines) for the text between an entry's name and its body."""
    parameters = "()"
    rest = text
    stripped = text.lstrip()
    if stripped.startswith("("):
        start = text.index("(")
        end = _closing(text, start, "(", ")")
        parameters, rest = text[start:end], text[end:]
    if directives.hidden:
        pieces = parameters[1:-1].split(",")
        if len(pieces) < directives.hidden:
            raise PtxFormatError(
                f"entry {name!r} has {len(pieces)} parameters, of which {directives.hidden} are hidden"
            )
        first = len(pieces) - directives.hidden
        pieces[first:] = [p.replace(".param", ".hidden .param", 1) for p in pieces[first:]]
        parameters = f"({','.join(pieces)})"
    if directives.hidden_parameters:
        hidden = [f"\t.hidden .param .align 64 .b8 {p}[128]" for p in directives.hidden_parameters]
        inside = parameters[1:-1].rstrip()
        parameters = "(" + ",\n".join([*([inside] if inside.strip() else []), *hidden]) + "\n)"
    kept = {m[1]: line.strip() for line in rest.splitlines() if (m := _DIRECTIVE_NAME.match(line.strip()))}
    for replaced in (
        "reqntid",
        "maxntid",
        "minnctapersm",
        "reqnctapercluster",
        "explicitcluster",
        "blocksareclusters",
        "language",
    ):
        kept.pop(replaced, None)
    lines = [f".reqntid {directives.threads}"]
    if directives.min_ctas_per_sm is not None:
        lines.append(f".minnctapersm {directives.min_ctas_per_sm}")
    if directives.cluster is not None:
        lines += [f".reqnctapercluster {', '.join(map(str, directives.cluster))}", ".blocksareclusters"]
    if directives.language is not None:
        lines.append(f".language {directives.language}")
    lines += [f".{key} {value}".rstrip() for key, value in directives.directives.items()]
    return parameters, "\n".join([*kept.values(), *lines])


def _file_directive(match: re.Match[str]) -> str:
    """A `.file` directive with its name as PTX can say it."""
    string = _STRING.fullmatch(match[2])
    if string is None:
        raise PtxFormatError(f"a .file directive without a string: {match[0].strip()!r}")
    return match[1] + ptx_text.string(ptx_text.bytes_of_llvm_string(string[1]))


def _version_number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part)


def finish(
    text: str,
    target: Target,
    entries: Mapping[str, EntryDirectives],
    *,
    launch_meta_data: bool = True,
    ptx_version: str = PTX_VERSION,
) -> str:
    """LLVM's PTX with the version, target and entry directives set; `ptx_version` is the least that it says.

    Every entry in the text must be in `entries` and the other way round; PtxFormatError otherwise, or when the text is
    not PTX as LLVM prints it.
    """
    if not _VERSION.search(text) or not _TARGET.search(text):
        raise PtxFormatError("the text has no .version or no .target directive")
    version = max(ptx_version, target.ptx_version or "", key=_version_number)
    text = _VERSION.sub(f".version {version}", text, count=1)
    text = _TARGET.sub(lambda m: f".target {target.ptx_target}{m[2]}", text, count=1)
    text = _FILE.sub(_file_directive, text)
    out, position, seen = [], 0, set()
    for match in ENTRY.finditer(text):
        name = match[1]
        if name not in entries:
            raise PtxFormatError(f"no directives were given for entry {name!r}")
        seen.add(name)
        body = text.find("{", match.end())
        if body < 0:
            raise PtxFormatError(f"entry {name!r} has no body")
        parameters, lines = _header(text[match.end() : body], name, entries[name])
        if launch_meta_data and len(seen) == 1:
            out.append(text[position : match.start()].rstrip() + f"\n\n{LAUNCH_META_DATA_VARIABLE}\n\n")
            position = match.start()
            while text[position] == "\n":
                position += 1
        out.append(f"{text[position : match.end()]}{parameters}\n{lines}\n")
        position = body
    missing = set(entries) - seen
    if missing:
        raise PtxFormatError(f"the text has no entry {sorted(missing)[0]!r}")
    out.append(text[position:])
    return "".join(out)
