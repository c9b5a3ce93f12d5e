# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Each encoding, in both directions, byte by byte."""

from __future__ import annotations

import traceback
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bytecode.samples import F32, F64, I1, I32, VECTOR, tile
from libtile.bytecode import attributes, cursor
from libtile.bytecode.context import ReadContext, WriteContext
from libtile.bytecode.errors import Fault
from libtile.bytecode.model import (
    Array,
    Bool,
    Bounded,
    Dense,
    Dictionary,
    DivBy,
    Float,
    Integer,
    OptimizationHints,
    SameElements,
    String,
    Tables,
    TestValue,
    TypeRef,
    make_type,
)
from libtile.bytecode.ops_codec import Codecs
from libtile.bytecode.types_codec import encode_type, link_types, parse_type
from libtile.spec import Version, default_spec

SPEC = default_spec()
F16, TF32, F8 = make_type("f16"), make_type("tf32"), make_type("f8E5M2")
TABLES = Tables(
    strings=["", "a", "b", "sm_90"], types=[I1, I32, F32, F64, VECTOR, F16, TF32, F8], constants=[b"", bytes(16)]
)


def contexts(version: str = "13.5") -> tuple[ReadContext, WriteContext]:
    reader = ReadContext(SPEC, Version.parse(version), True, frozenset(), False)
    reader.tables = TABLES
    return reader, WriteContext(SPEC, Version.parse(version), False, TABLES)


def check_attribute(value: Any, encoded: str, version: str = "13.5") -> None:
    """`value` is written as `encoded`, and `encoded` is read as `value`."""
    reader, writer = contexts(version)
    out = bytearray()
    attributes.write_attribute(writer, out, value, "value")
    assert out.hex(" ") == encoded
    assert attributes.read_attribute(reader, bytes(out), 0) == (value, len(out))


@pytest.mark.parametrize(
    "value, encoded",
    [
        (Integer(5, I32), "01 01 05"),
        (Integer(-1, I32), "01 01 ff ff ff ff 0f"),
        (Integer(1, I1), "01 00 01"),
        (Float(0x3F800000, F32), "02 02 80 80 80 f8 07"),
        (Float(0xFF800000, F32), "02 02 80 80 80 f8 1f"),
        (Float(0xBFF0000000000000, F64), "02 03 ff ff ff ff ff ff ff 8f 80 01"),
        (Float(0xBFF0000000000000, F64, wide=True), "02 03 80 80 80 80 80 80 80 f0 ff 02"),
        (Float(0x7FF0000000000000, F64), "02 03 80 80 80 80 80 80 80 f0 ff 01"),
        (Float(0x3C00, F16), "02 05 80 f0 01"),
        (Float(0x7F, F8), "02 07 7f"),
        (Bool(True), "03 01"),
        (TypeRef(VECTOR), "04 04"),
        (String("b"), "05 02"),
        (Array(), "06 00"),
        (Array((Bool(False), String("a"))), "06 02 03 00 05 01"),
        (Dense(VECTOR, bytes(16)), "07 04 01"),
        (DivBy(16), "08 10 00"),
        (DivBy(16, 2, 1), "08 10 03 04 02"),
        (DivBy(16, None, 0), "08 10 02 00"),
        (SameElements((4, -1)), "09 02 04 00 00 00 00 00 00 00 ff ff ff ff ff ff ff ff"),
        (Dictionary((("a", Bool(True)),)), "0a 01 01 03 01"),
        (OptimizationHints((("sm_90", Dictionary()),)), "0b 01 03 0a 00"),
        (Bounded(), "0c 00"),
        (Bounded(-3, 64), "0c 03 05 80 01"),
        (Bounded(None, -(2**63)), "0c 02 ff ff ff ff ff ff ff ff ff 01"),
    ],
    ids=repr,
)
def test_attribute(value: Any, encoded: str) -> None:
    check_attribute(value, encoded)


def test_attribute_of_the_testing_versions() -> None:
    check_attribute(TestValue(-2), "c8 01 03", "250.1")


def test_a_float_in_65_bits_is_read_with_a_warning() -> None:
    reader, _ = contexts()
    value, _ = attributes.read_attribute(reader, bytes.fromhex("02 03 80 80 80 80 80 80 80 f0 ff 03"), 0)
    assert value == Float(0xFFF0000000000000, F64, wide=True)
    assert value.reference_bits == 0x7FF0000000000000
    assert len(reader.warnings) == 1


@pytest.mark.parametrize(
    "type_, version, encoded",
    [
        (I32, "13.1", "03"),
        (make_type("fnv8E5M3FNU"), "13.4", "82 01"),
        (tile(F32, 4), "13.1", "0d 02 01 04 00 00 00 00 00 00 00"),
        (make_type("ptr", F32), "13.3", "0c 02"),
        (make_type("ptr", F32), "13.4", "0c 00 02"),
        (make_type("ptr", F32, "multicast"), "13.4", "0c 01 02 02"),
        (make_type("function", (I32, F32), (VECTOR,)), "13.1", "10 02 01 02 01 04"),
    ],
    ids=repr,
)
def test_type(type_: Any, version: str, encoded: str) -> None:
    reader, writer = contexts(version)
    assert encode_type(writer, type_).hex(" ") == encoded
    raw, end = parse_type(reader, bytes.fromhex(encoded), 0)
    assert end == len(bytes.fromhex(encoded))
    types = [parse_type(reader, encode_type(writer, t), 0)[0] for t in TABLES.types if version != "13.1" or t is not F8]
    assert link_types(SPEC, [*types, raw])[-1] is type_


def test_every_partition_view_encoding() -> None:
    view = make_type("tensor_view", F32, (8,), (1,))
    old, new = contexts("13.2")[1], contexts("13.3")[1]
    view_index = old.type_index(view)
    assert view_index == new.type_index(view) == 8
    body = "01 04 00 00 00 08 01 00 00 00 00"
    for padding, before, since in ((None, "0f %s 00", "0f 00 %s"), ("nan", "0f %s 01 02", "0f 01 %s 02")):
        type_ = make_type("partition_view", (4,), view, (0,), padding)
        assert encode_type(old, type_).hex(" ") == before % body
        assert encode_type(new, type_).hex(" ") == since % body


@given(st.integers(0, 2**64 - 1))
def test_varint_round_trips(value: int) -> None:
    out = bytearray()
    cursor.put(out, value)
    assert cursor.varint(bytes(out), 0) == (value, len(out))
    assert len(out) == max(1, -(-value.bit_length() // 7))


@given(st.integers(-(2**63), 2**63 - 1))
def test_zigzag_round_trips(value: int) -> None:
    assert cursor.unzigzag(cursor.zigzag(value)) == value
    assert cursor.zigzag(value) == (2 * value if value >= 0 else -2 * value - 1)


@pytest.mark.parametrize("encoded", ["ff" * 9 + "02", "80" * 10 + "01", "80" * 11])
def test_varint_of_more_than_64_bits_is_refused(encoded: str) -> None:
    with pytest.raises(Fault):
        cursor.varint(bytes.fromhex(encoded), 0)


def test_a_longer_spelling_of_a_small_number_is_read() -> None:
    assert cursor.varint(bytes.fromhex("85 80 00"), 0) == (5, 3)


def test_a_traceback_shows_the_lines_of_a_generated_function():
    codec = Codecs(SPEC, Version.parse("13.1")).get(SPEC.ops["addi"].opcode)
    with pytest.raises(TypeError) as caught:
        codec.decode(None, 0, [], [], None)
    shown = "".join(traceback.format_exception(caught.value))
    assert 'File "decode addi 13.1", line 3' in shown
    assert "t = data[p]" in shown
