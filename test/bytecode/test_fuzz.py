# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Mutated and truncated files give a module or one BytecodeError: no other exception, no hang, no memory blow-up.

`LIBTILE_FUZZ_FILES` sets how many files, `LIBTILE_FUZZ_SEED` where the random numbers start.
"""

from __future__ import annotations

import os
import random
import time
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from bytecode.samples import VECTOR, instructions, op_module
from libtile import bytecode
from libtile.bytecode.annotate import sections_of
from libtile.bytecode.container import append_section
from libtile.bytecode.model import Dense, Global
from libtile.spec import default_spec

SPEC = default_spec()
COUNT = int(os.environ.get("LIBTILE_FUZZ_FILES", "20000"))
SEED = int(os.environ.get("LIBTILE_FUZZ_SEED", "1"))
PARTS = 8
SLOWEST = 2.0
"""Seconds per file."""

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.bc"), key=lambda p: p.stat().st_size)


def corpus() -> list[bytes]:
    """Small files: one for every op in its newest version, some in every version, the smaller examples."""
    files = [path.read_bytes() for path in EXAMPLES[:4]]
    for declared in instructions(SPEC):
        version = max(declared.since, SPEC.current)
        files.append(bytecode.write(op_module(SPEC, declared, version, full=True), version, allow_testing=True))
    for version in SPEC.released_versions:
        for name in ("print_tko", "load_view_tko", "for", "reduce", "assume"):
            module = op_module(SPEC, SPEC.ops[name], version, full=True)
            module.globals.append(Global("g", Dense(VECTOR, bytes(16)), 16))
            module.producer = "maker"
            files.append(bytecode.write(module, version))
    return files


def damage(rng: random.Random, data: bytes, other: bytes, first: int = 0) -> bytes:
    """One to four damages of some bytes, from position `first` on."""
    result = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at = rng.randrange(first, len(result)) if len(result) > first else rng.randrange(len(result) + 1)
        kind = rng.randrange(9)
        if kind == 0 and result:
            result[min(at, len(result) - 1)] ^= 1 << rng.randrange(8)
        elif kind == 1 and result:
            result[min(at, len(result) - 1)] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        elif kind == 2:
            result[at:at] = rng.randbytes(rng.randrange(1, 9))
        elif kind == 3:
            del result[at : at + rng.randrange(1, 9)]
        elif kind == 4:
            start = rng.randrange(len(other))
            result[at : at + rng.randrange(17)] = other[start : start + rng.randrange(1, 33)]
        elif kind == 5:
            del result[at:]
        elif kind == 6:  # a length or count becomes huge
            result[at : at + 1] = b"\xff" * rng.randrange(1, 12) + b"\x01"
        elif kind == 7:  # an offset of a table
            result[at : at + 4] = rng.choice((0, 1, 2**31, 2**32 - 1, len(result))).to_bytes(4, "little")
        else:  # a piece of the file again
            result[at:at] = result[at : at + rng.randrange(1, 40)] * rng.randrange(1, 4)
    return bytes(result)


def damage_section(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Damage inside of one section, in a container that is whole."""
    module = bytecode.read(data, allow_testing=True, preview=("simt",))
    alignment = {s.id: s.alignment for s in module.layout or ()}
    sections = sections_of(data)
    chosen = rng.randrange(len(sections))
    out = bytearray(data[:12])
    if rng.random() < 0.1:
        out[8:10] = bytes(rng.choice([(13, 1), (13, 2), (13, 3), (13, 4), (13, 5), (250, 0), (250, 1)]))
    for number, (section, start, length) in enumerate(sections):
        payload = data[start : start + length]
        append_section(out, section, alignment[section], damage(rng, payload, other) if number == chosen else payload)
    return bytes(out) + b"\0"


def damage_body(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Damage inside of one function's instructions, in a file that is whole."""
    module = bytecode.read(data, allow_testing=True, preview=("simt",))
    encoded = rng.choice(module.functions).encoded
    assert encoded is not None
    encoded.data = damage(rng, encoded.data, other)
    return bytecode.write(module)


def mutate(rng: random.Random, data: bytes, other: bytes) -> bytes:
    kind = rng.randrange(4)
    if kind == 0:
        return damage(rng, data, other, first=12)
    return damage_section(rng, data, other) if kind == 1 else damage_body(rng, data, other)


def mutants(count: int, part: int = 0) -> Iterator[bytes]:
    rng = random.Random(SEED * PARTS + part)
    files = corpus()
    for number in range(count):
        yield mutate(rng, files[number % len(files)], rng.choice(files))


def outcome(data: bytes) -> str:
    """What became of a file; any exception but BytecodeError is a failure of the test."""
    try:
        module = bytecode.read(data, allow_testing=True, preview=("simt",), lazy=False)
    except bytecode.BytecodeError as error:
        assert error.offset is not None and 0 <= error.offset <= len(data), (error, data.hex())
        assert error.section and "\n" not in str(error)
        return type(error).__name__
    again = bytecode.write(module, allow_testing=True)
    back = bytecode.read(again, allow_testing=True, preview=("simt",), lazy=False)
    assert bytecode.write(back, allow_testing=True) == again
    return "module"


@pytest.mark.parametrize("part", range(PARTS))
def test_mutants(part: int) -> None:
    outcomes: Counter[str] = Counter()
    for data in mutants(COUNT // PARTS, part):
        start = time.process_time()
        try:
            outcomes[outcome(data)] += 1
        except Exception as error:
            pytest.fail(f"{type(error).__name__}: {error}\n{data.hex()}")
        assert time.process_time() - start < SLOWEST, data.hex()
    # Damage of every sort must have been met, or the mutations are not what they say.
    assert set(outcomes) == {"module", "MalformedError", "InvalidError", "UnsupportedVersionError"}, outcomes


def test_every_truncation() -> None:
    for data in corpus()[4::20]:
        for length in range(len(data)):
            with pytest.raises(bytecode.BytecodeError):
                bytecode.validate(data[:length], allow_testing=True, preview=("simt",))


def test_memory_stays_a_small_multiple_of_the_file() -> None:
    """Bounds from the outside: 64 MiB and 20 times the file."""
    peak = 0
    tracemalloc.start()
    try:
        for data in mutants(min(COUNT, 500)):
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            outcome(data)
            used = tracemalloc.get_traced_memory()[1] - before
            assert used < (64 << 20) + 20 * len(data), data.hex()
            peak = max(peak, used)
    finally:
        tracemalloc.stop()
    assert peak < 8 << 20, "files of a few hundred bytes"
