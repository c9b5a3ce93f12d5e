# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The generated parts of the documentation: `python -m libtile.bytecode.reference [FOLDER]` writes them into `docs/`.

`migration.md` is generated whole. `bytecode-format.md` is prose with generated blocks, each between a line
`<!-- generated: NAME -->` and a line `<!-- end -->`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from libtile.bytecode.annotate import annotate
from libtile.bytecode.attributes import camel
from libtile.bytecode.container_numbers import REQUIRED_ALIGNMENT, SectionId
from libtile.spec import Spec, Version, default_spec
from libtile.spec.model import AttributeSpec

EXAMPLE = Path("examples") / "vector_add.bc"

# -- what each version added ------------------------------------------------------------------------------------------


def migration_page(spec: Spec) -> str:
    """The page `migration.md`."""
    lines = [
        "# Versions and migration",
        "",
        "This page is generated: `python -m libtile.bytecode.reference`.",
        "",
        f"A file names its version. Known are {', '.join(map(str, spec.released_versions))}; the newest is "
        f"{spec.current}, and {spec.compatibility} is written when nothing else is asked for. In memory there is one "
        "form, the newest.",
        "",
        "- **Upgrading** always works. What an older file cannot say is filled in with its default.",
        "- **Downgrading** leaves out what has its default and refuses everything else, naming the op, the feature and "
        "the version that it needs. Nothing is ever dropped that changes what a program means.",
        "",
        "```python",
        "import libtile",
        "",
        'older = libtile.migrate(data, to="13.1")                          # or MigrationError',
        'older = libtile.migrate(data, to="13.1", for_target="sm_90")      # hints for `default` as hints for sm_90',
        'older = libtile.migrate(data, to="13.1", drop_hints=True)         # without them, and a HintsDroppedWarning',
        "```",
        "",
        "```sh",
        "cuda-tile-translate -cudatilebc-to-cudatilebc -bytecode-version=13.1 -for-target=sm_90 new.bc -o old.bc",
        "cuda-tile-translate -cudatilebc-to-cudatilebc -bytecode-version=13.1 -drop-hints new.bc -o old.bc",
        "```",
        "",
        "## Optimization hints",
        "",
        "Hints never change what a program means, and a compiler may ignore them. They are refused all the same when a "
        f"version cannot hold them, until the caller says what is to become of them. Versions before "
        f"{spec.change('DEFAULT_ARCHITECTURE')} have no hints for `default`, which cuTile Python writes:",
        "",
        "- `for_target` writes the hints for `default` as hints for one target, key by key. A key that the file has "
        "for that target itself wins, as it does when the newer file is compiled for it; a value that the target does "
        f"not take is left out. From {spec.change('DEFAULT_ARCHITECTURE')} on it changes nothing.",
        "- `drop_hints` leaves out what the version still cannot hold: hints for `default` where no target is given, "
        "and keys that are newer. What was left out is said: a warning on stderr, a `libtile.HintsDroppedWarning` for "
        "each kind of hint in Python.",
        "",
        "An upgrade of such a file gives back the program, with its hints as the older file has them.",
        "",
    ]
    for version in reversed(spec.released_versions[1:]):
        lines += _version_section(spec, version)
    lines += [
        f"## {spec.released_versions[0]}",
        "",
        "The first version: everything that is not listed above.",
        "",
    ]
    return "\n".join(lines)


def _version_section(spec: Spec, version: Version) -> Iterator[str]:
    """What `version` added, and what becomes of it in a version before it."""
    yield f"## {version}"
    yield ""
    rows = [*_format_rows(spec, version), *_type_rows(spec, version), *_op_rows(spec, version)]
    if not rows:
        yield "Nothing new."
        yield ""
        return
    yield "| Added | In an older version |"
    yield "|---|---|"
    for added, older in rows:
        yield f"| {added} | {older} |"
    yield ""


def _format_rows(spec: Spec, version: Version) -> Iterator[tuple[str, str]]:
    for change in spec.changes.values():
        if change.since == version:
            yield change.doc, change.older
    for hint in spec.hints.values():
        if hint.since == version:
            yield f"optimization hint `{hint.name}`", "refused when given"


def _type_rows(spec: Spec, version: Version) -> Iterator[tuple[str, str]]:
    for type_ in spec.types.values():
        if type_.testing:
            continue
        if type_.since == version:
            yield f"type `{type_.name}`", "refused"
            continue
        for parameter in type_.parameters:
            if parameter.since == version:
                yield f"parameter `{parameter.name}` of type `{type_.name}`", "left out when absent; refused otherwise"
    for enum in spec.enums.values():
        if enum.testing or enum.since == version:
            continue
        for case in enum.cases:
            if case.since == version:
                yield f"`{case.keyword}` of {enum.name}", "refused"
    for tag in spec.attribute_tags.values():
        if tag.since == version and not tag.testing:
            yield f"attribute {camel(tag.name)}", "refused"


def _op_rows(spec: Spec, version: Version) -> Iterator[tuple[str, str]]:
    for op in spec.ops.values():
        if spec.is_testing_op(op):
            continue
        if op.since == version:
            preview = f" (preview feature `{op.preview}`)" if op.preview else ""
            yield f"op `{op.name}`{preview}", "refused"
            continue
        if op.name in ("entry", "global", "module"):
            continue  # records of the container: their changes are listed by name
        for attribute in op.attributes:
            if attribute.since == version:
                yield f"attribute `{attribute.name}` of `{op.name}`", _attribute_rule(attribute)
        for operand in op.operands:
            if operand.since == version:
                yield f"operand `{operand.name}` of `{op.name}`", "refused when given"
        for result in op.results:
            if result.since == version:
                yield f"result `{result.name}` of `{op.name}`", "left out when unused; refused otherwise"


def _attribute_rule(attribute: AttributeSpec) -> str:
    if attribute.in_flags:
        return "refused when given"
    default = str(attribute.default)
    if default.startswith("all_false"):
        return "left out when all are false; refused otherwise"
    return f"left out when `{default}`; refused otherwise"


# -- blocks of the format page ----------------------------------------------------------------------------------------


def _sections_block(spec: Spec) -> str:
    lines = ["| id | section | alignment |", "|---|---|---|"]
    for section in SectionId:
        alignment = REQUIRED_ALIGNMENT.get(section)
        lines.append(f"| {int(section)} | {section.label} | {alignment or 'none'} |")
    return "\n".join(lines)


def _attributes_block(spec: Spec) -> str:
    lines = ["| tag | attribute | since |", "|---|---|---|"]
    lines += [f"| {t.tag} | {camel(t.name)} | {t.since} |" for t in spec.attribute_tags.values() if not t.testing]
    return "\n".join(lines)


def _types_block(spec: Spec) -> str:
    lines = ["| tag | type | since | parameters |", "|---|---|---|---|"]
    for type_ in sorted(spec.types.values(), key=lambda t: t.tag):
        if type_.testing:
            continue
        parameters = [
            f"{p.name}: {p.kind}{'?' if p.optional else ''}{f' @{p.since}' if p.since != type_.since else ''}"
            for p in type_.parameters
        ]
        text = "inputs, results" if type_.kind == "function" else ", ".join(parameters)
        lines.append(f"| {type_.tag} | `{type_.name}` | {type_.since} | {text} |")
    return "\n".join(lines)


def _debug_block(spec: Spec) -> str:
    lines = ["| tag | record | fields |", "|---|---|---|", "| 0 | unknown | |"]
    for record in spec.debug.values():
        first = spec.compatibility
        fields = ", ".join(f"{f.name}: {f.kind}{f' @{f.since}' if f.since != first else ''}" for f in record.fields)
        lines.append(f"| {record.tag} | {record.name} | {fields} |")
    return "\n".join(lines)


def _example_block(spec: Spec, root: Path) -> str:
    return "```text\n" + annotate((root / EXAMPLE).read_bytes()) + "```"


def format_page(text: str, spec: Spec, root: Path) -> str:
    """The page `bytecode-format.md` with its blocks made anew; ValueError for a block of an unknown name."""
    blocks: dict[str, Callable[[], str]] = {
        "sections": lambda: _sections_block(spec),
        "attributes": lambda: _attributes_block(spec),
        "types": lambda: _types_block(spec),
        "debug": lambda: _debug_block(spec),
        "example": lambda: _example_block(spec, root),
    }

    def made_anew(match: re.Match[str]) -> str:
        name = match[1]
        if name not in blocks:
            raise ValueError(f"unknown generated block {name!r}")
        return f"<!-- generated: {name} -->\n{blocks[name]()}\n<!-- end -->"

    return re.sub(r"<!-- generated: (\w+) -->\n.*?<!-- end -->", made_anew, text, flags=re.DOTALL)


def main(arguments: list[str]) -> int:
    """Write the pages of the checkout in the folder given (the working directory unless told)."""
    root = Path(arguments[0]) if arguments else Path()
    spec = default_spec()
    page = root / "docs" / "bytecode-format.md"
    page.write_text(format_page(page.read_text(encoding="utf-8"), spec, root), encoding="utf-8")
    (root / "docs" / "migration.md").write_text(migration_page(spec), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
