# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Damaged files through the whole compiler: each is compiled, or refused in lines of the one shape.

`fuzz/bytecode.py` does the same to the reader alone, more thoroughly; here what the reader accepts goes on to PTX.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from libtile.compiler import driver
from libtile.compiler.options import Options

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FILES = {path.stem: path.read_bytes() for path in sorted(EXAMPLES.glob("*.bc"))}
SMALL = ("vector_add", "transpose", "softmax")
HEADER = 12


def damaged(seed: int, names: tuple[str, ...]) -> bytes:
    """A file with one to four bytes changed, added or dropped, cut short, or with a piece of another one in it."""
    rng = random.Random(seed)
    data = bytearray(FILES[rng.choice(names)])
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        place = rng.randrange(HEADER, len(data))
        kind = rng.choice(["bit", "bit", "byte", "byte", "cut", "add", "drop", "piece"])
        if kind == "bit":
            data[place] ^= 1 << rng.randrange(8)
        elif kind == "byte":
            data[place] = rng.choice([0, 1, 2, 127, 128, 255, rng.randrange(256)])
        elif kind == "cut":
            del data[place:]
        elif kind == "add":
            data[place:place] = bytes([rng.randrange(256)])
        elif kind == "drop":
            del data[place]
        else:
            other = FILES[rng.choice(names)]
            start, length = rng.randrange(len(other)), rng.randrange(1, 40)
            data[place : place + length] = other[start : start + length]
        if len(data) <= HEADER:
            break
    return bytes(data)


def check(seed: int, names: tuple[str, ...], capfd: pytest.CaptureFixture[str]) -> bool:
    """Compile one; whether it was compiled."""
    options = Options("sm_90" if seed % 2 else "sm_80", emit="ptx", line_info=True)
    try:
        made = driver.compile_bytecode(damaged(seed, names), options)
    except driver.DriverError as error:
        for line in str(error).splitlines():
            assert any(word in line for word in ("error: ", "note: ", "warning: ")), (seed, line)
            assert "internal error" not in line and "LLVM refuses" not in line, (seed, line)
        return False
    finally:
        assert capfd.readouterr() == ("", ""), f"seed {seed} printed something"
    assert ".version" in made.ptx
    return True


def test_a_damaged_file_is_compiled_or_refused_in_lines(capfd):
    compiled = sum(check(seed, SMALL, capfd) for seed in range(150))
    assert 0 < compiled < 75, "the damage is too small, or too great"


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_many_damaged_files_are_compiled_or_refused_in_lines(part, capfd):
    for seed in range(1000 * (part + 1), 1000 * (part + 1) + 400):
        check(seed, tuple(FILES), capfd)
