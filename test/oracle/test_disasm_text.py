# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tileirdisasm prints what the original prints, for every kernel of the corpus, with and without debug information."""

from __future__ import annotations

import os

import pytest

pytest.importorskip("cuda.tile", reason="the kernels are exported by cuTile Python (pip install cuda-tile)")

from kernels import corpus
from libtile.asm.disasm_names import disassembly

from libtile import bytecode
from libtile.dialects.cuda_tile.bridge import from_bytecode
from oracle import require_tool, run_tileirdisasm

ALL_VERSIONS = bool(os.environ.get("LIBTILE_SLOW_TESTS"))


def versions(kernel: corpus.Kernel) -> list[str]:
    """The kernel's first and newest version; all of them when LIBTILE_SLOW_TESTS is set."""
    found = list(kernel.versions)
    return found if ALL_VERSIONS else sorted({found[0], found[-1]})


@pytest.mark.oracle
@pytest.mark.parametrize("name", sorted(corpus.KERNELS))
def test_text_equals_the_original(name: str) -> None:
    require_tool("tileirdisasm")
    kernel = corpus.KERNELS[name]
    for version in versions(kernel):
        data = corpus.export(kernel, version)
        op = from_bytecode(bytecode.read(data))
        for options, debuginfo in (((), False), (("-g",), True)):
            assert disassembly(op, debuginfo=debuginfo) == run_tileirdisasm(data, *options), (version, options)
