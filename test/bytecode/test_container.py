# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the reader reads by itself is what the declarations of the container read, and the rest it leaves to them."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libtile.bytecode import container, container_declared, container_numbers
from libtile.bytecode.cursor import put
from libtile.bytecode.errors import BytecodeError
from patience import PATIENCE
from tools.process import ROOT


def varint(value: int) -> bytes:
    out = bytearray()
    put(out, value)
    return bytes(out)


def outcome(read, *arguments):
    """The result, or the error with its words and its place."""
    try:
        return read(*arguments)
    except BytecodeError as error:
        return str(error)


def by_declaration(construct, data, base, section, *fields):
    found, end = container_declared.parse(construct, data, base, section)
    return tuple(found[field] for field in fields), end


NUMBERS = st.integers(0, 300) | st.integers(0, 2**70 - 1)
TABLES = st.tuples(NUMBERS | st.integers(0, 6), st.binary(max_size=60)).map(lambda t: varint(t[0]) + t[1])


@given(st.sampled_from(container_numbers.TABLES), TABLES | st.binary(max_size=40))
def test_tables(kind: container_numbers.Table, data: bytes) -> None:
    construct = container_declared.TABLES[kind]
    mine = outcome(container.read_table, kind, data, 7, "Some")
    declared = outcome(by_declaration, construct, data, 7, "Some", "offsets")
    assert mine == (declared if isinstance(declared, str) else (declared[0][0], declared[1]))


@given(st.lists(st.binary(max_size=9), max_size=9), st.integers(0, 12))
def test_a_table_that_was_built_is_read(items: list[bytes], cut: int) -> None:
    data = container_declared.build_table(container_numbers.CONSTANTS, items)
    offsets, end = container.read_table(container_numbers.CONSTANTS, data, 0, "Some")
    bounds = container.entries(data[end:], offsets, end, "Some", "constant")
    assert [data[end:][a:b] for a, b in bounds] == items
    test_tables.hypothesis.inner_test(container_numbers.CONSTANTS, data[: max(0, end - cut)])


@given(TABLES, TABLES, TABLES)
def test_debug_tables(first: bytes, second: bytes, third: bytes) -> None:
    data = first + second + third

    def declared():
        found, end = container_declared.parse(container_declared.DEBUG, data, 3, "Debug")
        return (found.functions.offsets, found.indices.offsets, found.records.offsets), end

    assert outcome(container.read_debug_tables, data, 3, "Debug") == outcome(declared)


@given(st.integers(0, 255), NUMBERS, NUMBERS, st.binary(max_size=3), st.integers(0, 20))
def test_section_headers(mark: int, length: int, alignment: int, rest: bytes, cut: int) -> None:
    data = (b"12345" + bytes([mark]) + varint(length) + varint(alignment) + rest)[: 6 + cut]

    def declared():
        fields = ("id", "aligned", "length", "alignment")
        found, end = by_declaration(container_declared.SECTION, data[5:], 5, "section header", *fields)
        return container.SectionHeader(*found), 5 + end

    assert outcome(container.read_section_header, data, 5) == outcome(declared)


@pytest.mark.parametrize("size", range(8, 14))
def test_headers(size: int) -> None:
    data = (container_declared.build_header(13, 4, 0x1234) + b"more")[:size]
    declared = outcome(
        by_declaration, container_declared.HEADER, data, 0, "header", "major", "minor", "tag"
    )  # fmt: skip
    assert outcome(container.read_header, data) == declared


def test_a_regular_file_is_read_without_construct() -> None:
    code = (
        "import sys; from libtile import bytecode; m = bytecode.read(open('examples/softmax.bc', 'rb').read());"
        "assert m.functions[0].body; assert 'construct' not in sys.modules; assert bytecode.write(m);"
        "assert 'construct' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, timeout=PATIENCE)
