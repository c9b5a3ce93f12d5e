# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Numbers that files hold never change: opcodes, tags, enum values, flag bits, section ids."""

from __future__ import annotations

from pathlib import Path

from libtile.bytecode.container_numbers import PREVIEW_BIT, FunctionFlag, SectionId
from libtile.spec import Spec, default_spec

SNAPSHOT = Path(__file__).parent / "frozen_numbers.txt"


def lines(spec: Spec) -> list[str]:
    result = [f"section {s.name.lower()} {int(s)}" for s in SectionId]
    result += [f"function-flag {n.lower()} {v}" for n, v in vars(FunctionFlag).items() if n.isupper()]
    result.append(f"version-tag preview {PREVIEW_BIT}")
    result += [f"op {o.name} {o.opcode:#x} since {o.since}" for o in spec.ops.values()]
    result += [f"flag {o.name}.{f.name} {f.bit} since {f.since}" for o in spec.ops.values() for f in o.flags]
    result += [f"type {t.name} {t.tag} since {t.since}" for t in spec.types.values()]
    result += [f"attribute {t.name} {t.tag} since {t.since}" for t in spec.attribute_tags.values()]
    result += [f"debug {d.name} {d.tag}" for d in spec.debug.values()]
    result += [f"enum {e.name}.{c.keyword} {c.value} since {c.since}" for e in spec.enums.values() for c in e.cases]
    return sorted(result)


def test_no_number_has_changed() -> None:
    """New lines are fine: add them with `python -m bytecode.test_frozen_numbers` in the folder `test`."""
    recorded = SNAPSHOT.read_text().splitlines()
    assert lines(default_spec()) == recorded


if __name__ == "__main__":
    SNAPSHOT.write_text("\n".join(lines(default_spec())) + "\n")
