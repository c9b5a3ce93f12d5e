# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tileirdisasm prints what the original prints, for every kernel of the corpus, with and without debug information."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

pytest.importorskip("cuda.tile", reason="the kernels are exported by cuTile Python (pip install cuda-tile)")

from kernels import corpus
from libtile import bytecode
from libtile.asm.disasm_names import disassembly
from libtile.asm.record_text import disassembled
from libtile.dialects.cuda_tile.bridge import from_bytecode
from oracle import require_tool, run_tileirdisasm


def check(name: str, versions: Iterable[str]) -> None:
    require_tool("tileirdisasm")
    kernel = corpus.KERNELS[name]
    for version in versions:
        data = corpus.export(kernel, version)
        op = from_bytecode(bytecode.read(data))
        for options, debuginfo in (((), False), (("-g",), True)):
            text = run_tileirdisasm(data, *options)
            assert disassembly(op, debuginfo=debuginfo) == text, (version, options)
            if not debuginfo:
                assert disassembled(bytecode.read(data)) == text, version


@pytest.mark.oracle
@pytest.mark.parametrize("name", sorted(corpus.KERNELS))
def test_text_equals_the_original(name: str) -> None:
    check(name, corpus.KERNELS[name].versions[-1:])


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(corpus.KERNELS))
def test_text_equals_the_original_in_every_version(name: str) -> None:
    check(name, corpus.KERNELS[name].versions)
