# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Files that the reference writer made, from a checkout of NVIDIA/cuda-tile that LIBTILE_SUITE names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from libtile import bytecode

SUITE = os.environ.get("LIBTILE_SUITE")
pytestmark = pytest.mark.skipif(SUITE is None, reason="set LIBTILE_SUITE to a checkout of NVIDIA/cuda-tile")
FOLDER = Path(SUITE or "") / "test" / "Bytecode"


@pytest.mark.parametrize("name", ["negi-op-13.1", "print-op-13.1"])
def test_a_module_made_in_memory_is_written_as_the_reference_does(name: str) -> None:
    data = (FOLDER / "versioning" / "Inputs" / "13.1" / f"{name}.tileirbc").read_bytes()
    module = bytecode.read(data, lazy=False)
    assert bytecode.write(module) == data
    module.tables = module.layout = None
    assert bytecode.write(module) == data


@pytest.mark.parametrize(
    "name, message",
    [
        ("invalid/invalid_magic_number.tileirbc", "invalid magic number"),
        ("invalid/invalid_section_id.tileirbc", "unknown section ID: 127"),
        ("invalid/excessive_section_length.tileirbc", "end section is not the last section"),
        (
            "invalid/unsupported_version.tileirbc",
            "unsupported Tile version 18.0.0, this reader supports versions [13.1",
        ),
        ("invalid/invalid_dense_map_value.bc", "array contains unsupported value -2147483648"),
        ("invalid/invalid_attribute_name.bc", "invalid empty attribute name for DictionaryAttr element 0"),
        (
            "versioning/Inputs/13.1/f4e2m1fn-in-13.1.tileirbc",
            "type 'Float4E2M1FN' requires bytecode version 13.3+, file version is 13.1",
        ),
    ],
)
def test_a_bad_file_has_the_reference_diagnostic(name: str, message: str) -> None:
    with pytest.raises(bytecode.BytecodeError) as caught:
        bytecode.validate((FOLDER / name).read_bytes(), allow_testing=True)
    assert message in caught.value.message
