# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Files that once were refused without a place, printed as what does not parse, or read and then not written."""

from __future__ import annotations

from pathlib import Path

import pytest

import libtile
from libtile import bytecode

ODD = Path(__file__).parent / "odd"

REFUSED = {
    "name-with-newlines": r"error at offset 124 in Func > function 'vadd_Kt1_A1f3\x16\t\x02\n\x00\x00\x1a\x1dB\t\x15ff",
    "type-that-breaks-a-rule": "error at offset 729 in Type > entry 10: all dimensions must be powers of two, got 2, 4",
    "scope-as-location": "failed to read operation location: record 3 is of another kind (expected a location)",
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_is_refused_with_a_place_on_one_line(name: str) -> None:
    with pytest.raises(bytecode.BytecodeError) as caught:
        libtile.read(ODD / f"{name}.bc")
    assert REFUSED[name] in str(caught.value) and str(caught.value).isprintable()
    assert caught.value.offset is not None and caught.value.section is not None


@pytest.mark.parametrize("name", ["hint-key-with-a-nul", "default-hints-in-13.1"])
def test_a_file_that_verifies_is_written_and_its_text_parses(name: str) -> None:
    data = (ODD / f"{name}.bc").read_bytes()
    module = libtile.read(data)
    libtile.verify(module)
    assert bytecode.write(bytecode.read(data)) == data
    text = libtile.print_module(module)
    assert libtile.print_module(libtile.read(libtile.write(module))) == text
    again = libtile.parse(text)
    libtile.verify(again)
    assert libtile.print_module(again) == text


def test_a_module_is_written_in_the_first_version_behind_its_own_that_holds_it() -> None:
    module = libtile.read(ODD / "default-hints-in-13.1.bc")
    assert str(module.version) == "13.1"
    assert str(libtile.read(libtile.write(module)).version) == "13.3"
    with pytest.raises(bytecode.MigrationError, match="'default' require"):
        libtile.write(module, "13.1")
