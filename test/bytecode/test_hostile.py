# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Files that are built to be expensive: what they cost grows with their size, not with what they claim."""

from __future__ import annotations

import time
import tracemalloc

import pytest

from bytecode.samples import F32, LOCATION, TOKEN, VECTOR, module_of, op, scope
from libtile import bytecode
from libtile.bytecode import context
from libtile.bytecode.annotate import sections_of
from libtile.bytecode.container import append_section
from libtile.bytecode.container_declared import build_header, build_table
from libtile.bytecode.container_numbers import CONSTANTS, STRINGS, TYPES, SectionId
from libtile.bytecode.cursor import put
from libtile.bytecode.limits import DEBUG_DEPTH
from libtile.bytecode.model import Dense, make_debug, make_type

FUNCTION = bytes.fromhex("10 00 00")


def varint(value: int) -> bytes:
    out = bytearray()
    put(out, value)
    return bytes(out)


def file(types: list[bytes], functions: int = 1, body: bytes = b"\x5c\0\0", constants: tuple[bytes, ...] = ()) -> bytes:
    """A file of version 13.3 with the given type entries, and as many functions."""
    out = bytearray(build_header(13, 3, 0))
    record = bytes.fromhex("00 00 02 00") + varint(len(body)) + body
    append_section(out, SectionId.FUNC, 8, varint(functions) + record * functions)
    append_section(out, SectionId.CONSTANT, 8, build_table(CONSTANTS, list(constants)))
    append_section(out, SectionId.TYPE, 4, build_table(TYPES, types))
    append_section(out, SectionId.STRING, 4, build_table(STRINGS, [b"k"]))
    return bytes(out) + b"\0"


def cost(data: bytes) -> tuple[float, int, str]:
    """Seconds, peak bytes, and what became of the file."""
    tracemalloc.start()
    start = time.process_time()
    try:
        bytecode.validate(data)
        result = "module"
    except bytecode.BytecodeError as error:
        result = error.message
    finally:
        seconds = time.process_time() - start
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return seconds, peak, result


CASES = {
    "one-type-of-many-later-types": file(
        [FUNCTION, b"\x10" + varint(20_000) + b"".join(varint(i + 2) for i in range(20_000)) + b"\0"]
        + [b"\x0d\x00" + varint(1) + i.to_bytes(8, "little") for i in range(20_000)]
    ),
    "a-shape-of-many-dimensions": file(
        [FUNCTION, b"\x03", b"\x0d\x01" + varint(60_000) + b"\xff" * 7 * 60_000 + b"\x7f" * 60_000],
        body=bytes.fromhex("10 02 00 5c 00 00"),
        constants=(b"\x04\0\0\0\0",),
    ),
    "many-functions": file([FUNCTION], functions=20_000),
    "many-tokens": file([FUNCTION, b"\x11"], body=b"\x44\x01" * 200_000 + b"\x5c\0\0"),
    "many-operands": file(
        [FUNCTION, b"\x11"], body=b"\x44\x01\x3c\x01" + varint(400_000) + bytes(400_000) + b"\x5c\0\0"
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_cost_is_bounded_by_the_size(name: str) -> None:
    data = CASES[name]
    seconds, peak, _ = cost(data)
    assert seconds < 20, "with tracing on; a quadratic step would take minutes"
    assert peak < (64 << 20) + 20 * len(data)


def test_shared_debug_records_do_not_multiply() -> None:
    """300 call sites, each of the one before twice: 2**300 paths."""
    location = scope(1)
    for _ in range(300):
        location = make_debug("call_site", location, location)
    data = bytecode.write(module_of(op("make_token", results=(TOKEN,), location=location), location=LOCATION))
    back = bytecode.read(data).functions[0].body.operations[0].location
    assert back is location
    assert len(repr(back)) < 10_000
    assert len(data) < 10_000


def test_a_chain_of_debug_records_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    location = scope(1)
    for _ in range(DEBUG_DEPTH + 1):
        location = make_debug("call_site", location, location)
    module = module_of(op("make_token", results=(TOKEN,), location=location), location=LOCATION)
    with pytest.raises(bytecode.InvalidError, match=f"nested more than {DEBUG_DEPTH} deep"):
        bytecode.write(module)
    monkeypatch.setattr(context, "DEBUG_DEPTH", 2 * DEBUG_DEPTH)  # the writer's alone
    data = bytecode.write(module)
    with pytest.raises(bytecode.MalformedError, match=f"nested more than {DEBUG_DEPTH} deep"):
        bytecode.read(data)


def test_a_chain_of_types_is_bounded() -> None:
    name = "testing$bytecode_test_evolved"
    type_ = make_type(name, F32, F32)
    for _ in range(20):
        type_ = make_type(name, type_, type_)
    value = op("make_token", results=(type_,))
    data = bytecode.write(module_of(value), "250.1", allow_testing=True)
    with pytest.raises(bytecode.MalformedError, match="types are nested more than 16 deep"):
        bytecode.read(data, allow_testing=True)


def test_a_splat_of_a_huge_tile_is_one_element() -> None:
    huge = make_type("tile", F32, (1 << 40, 1 << 40))
    module = module_of(op("constant", results=(huge,), value=Dense(huge, bytes(4))))
    back = bytecode.read(bytecode.write(module), lazy=False)
    assert back.functions[0].body.operations[0].attributes["value"] == Dense(huge, bytes(4))


def test_every_byte_of_a_length_field_is_checked() -> None:
    """Each byte of a small file, replaced by the longest varint that fits in 64 bits."""
    data = bytecode.write(module_of(op("constant", results=(VECTOR,), value=Dense(VECTOR, bytes(16)))))
    assert len(sections_of(data)) == 4
    for at in range(12, len(data)):
        damaged = data[:at] + b"\xff" * 9 + b"\x01" + data[at + 1 :]
        seconds, peak, result = cost(damaged)
        assert (seconds < 2 and peak < 1 << 20) or result == "module", at
