# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fuzzers: damaged input of each kind is read or refused, in bounded time and memory. See docs/fuzzing.md.

- `framework`: what a fuzzer is, what counts as a failure, and the runner over many seeds;
- `mutate`: damage to bytes and to text;
- `bytecode`, `text`, `compile`, `ptx`, `inner`: a fuzzer each.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fuzz.framework import Fuzzer

FUZZERS = {
    "bytecode": "BytecodeFuzzer",
    "text": "TextFuzzer",
    "compile": "CompileFuzzer",
    "ptx": "PtxFuzzer",
    "inner": "InnerFuzzer",
}
"""Each fuzzer's class, by the module that has it."""


def fuzzer(name: str) -> Fuzzer:
    """One of FUZZERS."""
    made: Fuzzer = getattr(import_module(f"fuzz.{name}"), FUZZERS[name])()
    return made
