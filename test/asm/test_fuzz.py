# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Mutated texts give a module or a diagnostic, and what is read prints: never another exception.

None takes longer than two seconds, or more memory than a small multiple of its size. `LIBTILE_FUZZ=50000` sets the number
of texts.
"""

# ruff: noqa: E501
from __future__ import annotations

import os
import random
import time
import tracemalloc

import pytest

from asm.test_every_op import NAMED, module
from libtile.asm import parse, print_op
from libtile.diagnostics import DiagnosticError

COUNT = int(os.environ.get("LIBTILE_FUZZ", "5000"))
BATCHES = 6
SLOWEST = 2.0

DEBUG = """\
#di_file = #cuda_tile.di_file<"a.py" in "/d">
#di_compile_unit = #cuda_tile.di_compile_unit<file = #di_file>
#di_subprogram = #cuda_tile.di_subprogram<file = #di_file, line = 1, name = "k", linkageName = "k", \
compileUnit = #di_compile_unit, scopeLine = 2>
#loc1 = loc("a.py":1:2)
#loc2 = #cuda_tile.di_loc<#loc1 in #di_subprogram>
cuda_tile.module @m {
  entry @k(%arg0: tile<i32> loc("x"(#loc1))) {
    %0 = absi %arg0 : tile<i32> loc(fused<"m">[#loc1, callsite(#loc2 at unknown)])
    %1 = "foo.op"(%0) [^bb1] <{a = [1.0 : f32, dense<[1, 2]> : !cuda_tile.tile<2xi8>]}> : (!cuda_tile.tile<i32>) -> i1
  } loc(#loc2)
}
"""
SEEDS = [*map(module, NAMED.values()), DEBUG]
PIECES = [
    *"{}()<>[]=:,@%^#!\"\\-?*", "->", "#loc", "!t", "^bb0", "%0", "loc(", "0x1p", "9" * 20, "tile<", "cuda_tile.", '"x"',
    "array<i32", "dense<", "attributes", "...", "{-#", "\n#a = [#a]\n", "builtin.module {", '"cuda_tile.if"(', "\x00", "é",
]  # fmt: skip


def mutated(rng: random.Random) -> str:
    text = rng.choice(SEEDS)
    for _ in range(rng.randint(1, 4)):
        start = rng.randrange(len(text) + 1)
        end = min(len(text), start + rng.randrange(30))
        match rng.randrange(6):
            case 0:
                text = text[:start] + text[end:]
            case 1:
                text = text[:start] + chr(rng.randrange(256)) + text[start:]
            case 2:
                text = text[:start] + rng.choice(PIECES) + text[start:]
            case 3:
                text = text[:start] + text[start:end] * rng.randrange(1, 4) + text[end:]
            case 4:
                text = text[:start]
            case _:
                other = rng.choice(SEEDS)
                cut = rng.randrange(len(other) + 1)
                text = text[:start] + other[cut : cut + rng.randrange(80)] + text[start:]
    return text


def read_and_print(text: str, allow_unregistered: bool) -> None:
    """Read a text and, if it can be read, print it in every form."""
    try:
        found = parse(text, "f", allow_unregistered=allow_unregistered)
    except DiagnosticError as refused:
        assert refused.diagnostics
        return
    for options in ({}, {"generic": True}, {"debuginfo": True}):
        assert print_op(found, **options)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_mutated_texts_are_read_or_refused(batch: int) -> None:
    rng = random.Random(batch)
    for number in range(COUNT // BATCHES):
        text = mutated(rng)
        start = time.process_time()
        try:
            read_and_print(text, allow_unregistered=number % 2 == 0)
        except Exception as error:
            raise AssertionError(f"{type(error).__name__}: {error}, for the text\n{text}") from error
        assert time.process_time() - start < SLOWEST, text


def test_memory_stays_a_small_multiple_of_the_text() -> None:
    rng = random.Random(BATCHES)
    tracemalloc.start()
    try:
        for _ in range(200):
            text = mutated(rng)
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            read_and_print(text, allow_unregistered=True)
            used = tracemalloc.get_traced_memory()[1] - before
            assert used < (64 << 20) + 20 * len(text), text
    finally:
        tracemalloc.stop()
