# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the op reference (docs/ops.md) from the declarations: `python -m libtile.spec.reference > docs/ops.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from libtile.spec import OpSpec, Spec, default_spec
from libtile.spec.model import AttributeSpec, ValueSpec, Version

HEADER = """\
# Op reference

Generated from `spec` by `python -m libtile.spec.reference`; do not edit.

Every op of Tile IR {first} to {last}, by group. *Since* is the first bytecode version that holds the op; members that
came later name their own version. In the syntax, words in quotes are literal, `$name` is an operand or attribute,
`type($name)` its type, and `( ... ^ ... )?` is present when the member marked with `^` is.
"""


def _since(member_since: Version, op: OpSpec) -> str:
    return f" *(since {member_since})*" if member_since != op.since else ""


def _value_line(spec: Spec, value: ValueSpec, op: OpSpec) -> str:
    arity = {"one": "", "optional": ", optional", "variadic": ", any number"}[value.arity]
    return f"- `{value.name}`: {spec.constraints[value.constraint].summary}{arity}{_since(value.since, op)}"


def _attribute_line(spec: Spec, attribute: AttributeSpec, op: OpSpec) -> str:
    if attribute.kind in spec.enums:
        kind = " \\| ".join(
            f"`{c.keyword}`" + (f" (since {c.since})" if c.since > spec.enums[attribute.kind].since else "")
            for c in spec.enums[attribute.kind].cases
        )
    else:
        kind = attribute.kind.replace("_nonneg", ", not negative").replace("_", " ")
    optional = ", optional" if attribute.optional else ""
    default = f", default `{attribute.default}`" if attribute.default is not None else ""
    return f"- `{attribute.name}`: {kind}{optional}{default}{_since(attribute.since, op)}"


def op_section(spec: Spec, op: OpSpec) -> Iterator[str]:
    """The lines of one op's section."""
    yield f"### `{op.name}`"
    yield ""
    if op.summary:
        yield op.summary
        yield ""
    facts = [f"opcode 0x{op.opcode:x}", f"since {op.since}"]
    if op.aliases:
        facts.append("also written " + ", ".join(f"`{a}`" for a in op.aliases))
    if op.preview:
        facts.append(f"preview feature `{op.preview}`")
    yield "*" + "; ".join(facts) + "*"
    yield ""
    if op.doc:
        yield op.doc.strip()
        yield ""
    if op.known:
        yield "What is known: " + op.known
        yield ""
    for title, lines in (
        ("Operands", [_value_line(spec, v, op) for v in op.operands]),
        ("Attributes", [_attribute_line(spec, a, op) for a in op.attributes]),
        ("Results", [_value_line(spec, v, op) for v in op.results]),
        ("Regions", [f"- `{r}`" for r in op.regions]),
    ):
        if lines:
            yield f"{title}:"
            yield ""
            yield from lines
            yield ""
    traits = [t.name.replace("_", " ") + (f" ({', '.join(t.arguments)})" if t.arguments else "") for t in op.traits]
    if traits:
        yield "Traits: " + "; ".join(traits) + "."
        yield ""
    if op.format not in ("custom", "generic"):
        yield "```"
        yield f"{op.name} {' '.join(op.format.replace('`', chr(39)).split())}"
        yield "```"
        yield ""


def reference(spec: Spec) -> str:
    """The whole reference as Markdown; the testing versions' ops are left out."""
    lines = [HEADER.format(first=spec.released_versions[0], last=spec.released_versions[-1])]
    groups: dict[str, list[OpSpec]] = {}
    for op in spec.ops.values():
        if not spec.is_testing_op(op):
            groups.setdefault(op.group, []).append(op)
    lines.append("| group | ops |")
    lines.append("|---|---|")
    for group, ops in sorted(groups.items()):
        names = ", ".join(f"[`{o.name}`](#{o.name.replace('$', '')})" for o in sorted(ops, key=lambda o: o.name))
        lines.append(f"| {group} | {names} |")
    lines.append("")
    for group, ops in sorted(groups.items()):
        lines.append(f"## {group}")
        lines.append("")
        for op in sorted(ops, key=lambda o: o.name):
            lines.extend(op_section(spec, op))
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    sys.stdout.write(reference(default_spec()))
