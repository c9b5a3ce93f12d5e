# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every kind of bad file gives one error of the right class, with its offset. The files are in `invalid/`, as hex text.

The first lines of a file say what is wrong, which error that is, and at which offset; `#` starts a comment.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from libtile import bytecode
from libtile.bytecode import container_numbers, types_codec
from libtile.bytecode.attributes import _CODECS
from libtile.bytecode.errors import Fault

FILES = sorted((Path(__file__).parent / "invalid").glob("*.hex"))


def load(path: Path) -> tuple[bytes, str, str, int]:
    """The bytes, and the error's class, message and offset."""
    text = path.read_text()
    kind, message = re.search(r"^# error: (\w+): (.*)$", text, re.M).groups()  # type: ignore[union-attr]
    offset = int(re.search(r"^# offset: (\d+)$", text, re.M)[1])  # type: ignore[index]
    return bytes.fromhex(re.sub(r"#.*", "", text)), kind, message, offset


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem.removeprefix("invalid-"))
def test_bad_file(path: Path) -> None:
    data, kind, message, offset = load(path)
    with pytest.raises(bytecode.BytecodeError) as caught:
        bytecode.validate(data)
    error = caught.value
    assert type(error).__name__ == kind
    assert message in error.message
    assert error.offset == offset
    assert error.section
    assert f"error at offset {offset} in {error.section}: {error.message}" in str(error)
    assert error.__cause__ is None or not isinstance(error.__cause__, Fault)


def test_every_part_of_the_format_has_a_bad_file() -> None:
    parts = {path.stem.split("-")[1] for path in FILES}
    assert parts == {
        "header", "section", "string", "type", "constant", "function", "op", "attribute", "global", "producer", "debug",
    }  # fmt: skip
    assert len(FILES) >= 40
    assert len(container_numbers.SectionId) == 8 and len(_CODECS) == 13 and types_codec.UNKNOWN_RECORD == 0, (
        "add its bad files"
    )


def test_a_string_table_that_the_reference_clamps_is_read_with_a_warning() -> None:
    data, *_ = load(FILES[0].parent / "invalid-attribute-dictionary-name-empty.hex")
    # The offset of the first string, of 4 strings in the last section.
    at = data.rindex(bytes([4, 0xCB, 0xCB, 0xCB])) + 4
    data = data[:at] + (0x70000).to_bytes(4, "little") + data[at + 4 :]
    # With the first string gone, "sm_90" does not start at 0 any more.
    with pytest.raises(bytecode.MalformedError, match="string 0 does not start at offset 0"):
        bytecode.read(data)
    data = data[: at + 4] + (0).to_bytes(4, "little") + data[at + 8 :]
    with pytest.raises(bytecode.InvalidError, match="invalid empty attribute name for DictionaryAttr element 0"):
        bytecode.read(data)
