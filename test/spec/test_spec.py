# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The declarations load, are consistent, and their derived documents are fresh."""

from pathlib import Path

import pytest

from libtile.spec import SpecError, Version, default_spec, load
from libtile.spec.reference import reference

ROOT = Path(__file__).parents[2]

OVERLAY = """
[version."99.1"]

[op.frobnicate]
opcode = 0x7000
since = "99.1"
group = "Made up"
operands = ["source: int_tile", "mask: i1_tile?"]
attributes = ["count: i32 = 3"]
results = ["result: int_tile"]
traits = ["operand_segments"]
format = "$source attr-dict `:` type($result)"

[op.addi]
extend = true
attributes = ["saturate: unit @99.1"]
"""


def test_an_overlay_adds_a_version_an_op_and_an_attribute():
    spec = load([OVERLAY])
    assert Version(99, 1) in spec.versions
    assert spec.ops["frobnicate"].since == Version(99, 1)
    assert [f.name for f in spec.ops["addi"].flags] == ["saturate"]
    assert "frobnicate" not in default_spec().ops


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ('[op.a]\nopcode = 3\nsince = "13.1"\ngroup = "x"\nformat = "custom"', "opcode 3 is used by both"),
        ('[op.a]\nopcode = 9999\nsince = "14.0"\ngroup = "x"\nformat = "custom"', "version '14.0' is not declared"),
        (
            '[op.a]\nopcode = 9999\nsince = "13.1"\ngroup = "x"\nformat = ""\nattributes = ["n: i32 @13.2"]',
            "newer than the op and has neither",
        ),
        (
            '[op.a]\nopcode = 9999\nsince = "13.1"\ngroup = "x"\nformat = ""\noperands = ["n: nonsense"]',
            "unknown constraint",
        ),
        (
            '[op.a]\nopcode = 9999\nsince = "13.1"\ngroup = "x"\nformat = ""\noperands = ["a: tile?", "b: tile*"]',
            "operand_segments",
        ),
        ("[op.addi]\nopcode = 9999", "is declared twice"),
        ("[op.addi]\nextend = true\nopcode = 9999", "may not change its opcode"),
        ('[type.x]\ntag = 3\nsince = "13.1"\nkind = "integer"\ndisplay = "X"', "type tag 3 is used by both"),
        ('[enum.E]\nattr = "e"\nsince = "13.1"\ncases = ["a = 0", "b = 0"]', "value of enum E 0 is used by both"),
        ("[nonsense.x]\ny = 1", "unknown table"),
    ],
)
def test_a_contradiction_is_refused_by_name(toml, message):
    with pytest.raises(SpecError, match=message):
        load([toml])


def test_flag_bits_go_by_version_then_attributes_then_operands():
    load_ptr = default_spec().ops["load_ptr_tko"]
    assert [f.name for f in load_ptr.flags] == ["memory_scope", "optimization_hints", "mask", "paddingValue", "token"]
    assert [f.name for f in default_spec().ops["entry"].flags] == ["res_attrs", "optimization_hints", "arg_attrs"]


def test_the_op_reference_is_fresh():
    path = ROOT / "docs" / "ops.md"
    assert path.read_text(encoding="utf-8") == reference(default_spec()), (
        "docs/ops.md is stale: run python -m libtile.spec.reference > docs/ops.md"
    )


@pytest.mark.parametrize("text", ["13", "13.x", "13.1.2.3", "-1.2", "256.0", ""])
def test_a_malformed_version_is_refused(text):
    with pytest.raises(ValueError, match="invalid version format"):
        Version.parse(text)


def test_ops_are_the_same_whether_they_are_read_on_demand_or_at_once():
    late, at_once = load(), load([""])
    assert dict(late.ops) == dict(at_once.ops)
    assert dict(late.ops_by_opcode) == dict(at_once.ops_by_opcode)
    assert late.aliases == at_once.aliases
    assert late.ops["addi"] is late.ops_by_opcode[late.ops["addi"].opcode]
    assert late.ops.get("frobnicate") is None
