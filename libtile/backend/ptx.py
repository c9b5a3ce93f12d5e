# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Finishing of LLVM's PTX: the directives that a Tile IR kernel needs and LLVM does not print.

What the module declares is read as records (`libtile.ptx.reader`), and their directives are set where they stand;
instruction text is neither read nor touched.

What a kernel's launch needs (observed on the reference assembler's output, 13.5): `.language 7` makes ptxas mark the
cubin as Tile IR, so that a launch passes block (1,1,1) and the driver takes the number of threads from `.reqntid`.
With `.blocksareclusters` the grid of a launch counts clusters, which are tile blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from libtile.backend.work import EntryDirectives as EntryDirectives
from libtile.codegen import ptx_text
from libtile.codegen.symbols import LAUNCH_META_DATA
from libtile.ptx.errors import PtxFormatError as PtxFormatError
from libtile.ptx.reader import Directive, Entry, edited, outline
from libtile.targets import Target

PTX_VERSION = "9.2"
"""The first PTX version with `.language`; a target may need a later one."""

LAUNCH_META_DATA_VARIABLE = f".visible .global .align 8 .b8 {LAUNCH_META_DATA}[64];"
Edit = tuple[int, int, str]

_SET_HERE = (
    "reqntid", "maxntid", "minnctapersm", "reqnctapercluster", "explicitcluster", "blocksareclusters", "language"
)  # fmt: skip
"""Directives of an entry that are made anew."""


def _directives(text: str, entry: Entry, wanted: EntryDirectives) -> str:
    """The lines of directives between an entry's parameters and its body."""
    kept = {d.name: text[d.start : d.end] for d in entry.directives if d.name not in _SET_HERE}
    lines = [f".reqntid {wanted.threads}"]
    if wanted.min_ctas_per_sm is not None:
        lines.append(f".minnctapersm {wanted.min_ctas_per_sm}")
    if wanted.cluster is not None:
        lines += [f".reqnctapercluster {', '.join(map(str, wanted.cluster))}", ".blocksareclusters"]
    if wanted.language is not None:
        lines.append(f".language {wanted.language}")
    lines += [f".{key} {value}".rstrip() for key, value in wanted.directives.items()]
    return "\n".join([*kept.values(), *lines])


def _parameters(text: str, entry: Entry, wanted: EntryDirectives) -> Iterator[Edit]:
    """The edits that hide parameters, and add hidden ones."""
    if wanted.hidden:
        given = len(entry.parameters)
        if given < wanted.hidden:
            raise PtxFormatError(f"entry {entry.name!r} has {given} parameters, of which {wanted.hidden} are hidden")
        yield from ((start, start, ".hidden ") for start in entry.parameters[given - wanted.hidden :])
    added = [f"\t.hidden .param .align 64 .b8 {p}[128]" for p in wanted.hidden_parameters]
    if entry.opened == entry.closed:
        yield entry.closed, entry.closed, "(" + ",\n".join(added) + "\n)" if added else "()"
    elif added:
        inside = text[entry.opened + 1 : entry.closed - 1].rstrip()
        start = entry.opened + 1 + len(inside)
        yield start, entry.closed - 1, ",\n".join(["", *added] if entry.parameters else added) + "\n"


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
    module = outline(text)
    if "version" not in module.directives or not module.directives.get("target", _NONE).arguments:
        raise PtxFormatError("the text has no .version or no .target directive")
    said, named = module.directives["version"], module.directives["target"].arguments[0]
    version = max(ptx_version, target.ptx_version or "", key=_version_number)
    edits: list[Edit] = [
        (said.start, said.end, f".version {version}"),
        (named.pos, named.end, target.ptx_target),
        *((f.start, f.end, _string(text[f.start : f.end])) for f in module.files),
    ]
    for number, entry in enumerate(module.entries):
        if entry.name not in entries:
            raise PtxFormatError(f"no directives were given for entry {entry.name!r}")
        if entry.body < 0:
            raise PtxFormatError(f"entry {entry.name!r} has no body")
        if launch_meta_data and not number:
            before = len(text[: entry.start].rstrip())
            edits.append((before, entry.start, f"\n\n{LAUNCH_META_DATA_VARIABLE}\n\n"))
        edits += _parameters(text, entry, entries[entry.name])
        edits.append((entry.closed, entry.body, f"\n{_directives(text, entry, entries[entry.name])}\n"))
    missing = set(entries) - {entry.name for entry in module.entries}
    if missing:
        raise PtxFormatError(f"the text has no entry {sorted(missing)[0]!r}")
    return edited(text, edits)


_NONE = Directive("", 0, 0)


def _string(body: str) -> str:
    """What stands between the quotes of a string of LLVM's, as PTX can say it."""
    return ptx_text.string(ptx_text.bytes_of_llvm_string(body))[1:-1]
