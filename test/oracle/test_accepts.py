# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What libtile writes is accepted by the original tools, and is the same program."""

from __future__ import annotations

import pytest

pytest.importorskip("cuda.tile", reason="the kernels are exported by cuTile Python (pip install cuda-tile)")

import libtile
from kernels import corpus
from libtile.bytecode import MigrationError
from oracle import require_tool, run_tileirdisasm

# One kernel in five by default: every case starts processes.
KERNELS = [
    pytest.param(name, marks=[pytest.mark.slow] if index % 5 else [])
    for index, name in enumerate(sorted(corpus.KERNELS))
]


@pytest.fixture(autouse=True)
def _oracle() -> None:
    require_tool("tileirdisasm")


@pytest.mark.oracle
@pytest.mark.parametrize("name", KERNELS)
def test_module_is_the_same_program_after_the_ir(name: str) -> None:
    kernel = corpus.KERNELS[name]
    for version in sorted({kernel.versions[0], kernel.versions[-1]}):
        data = corpus.export(kernel, version)
        again = libtile.write(libtile.read(data))
        assert run_tileirdisasm(again, "-g") == run_tileirdisasm(data, "-g"), version


@pytest.mark.oracle
@pytest.mark.parametrize("name", KERNELS)
def test_text_to_bytecode_to_text_is_stable(name: str) -> None:
    kernel = corpus.KERNELS[name]
    data = corpus.export(kernel, kernel.versions[-1])
    for debuginfo in (False, True):
        text = libtile.print_module(libtile.read(data), debuginfo=debuginfo)
        module = libtile.parse(text)
        libtile.verify(module)
        written = libtile.write(module, kernel.versions[-1])
        assert libtile.print_module(libtile.read(written), debuginfo=debuginfo) == text
        assert run_tileirdisasm(written, *(["-g"] if debuginfo else [])) == run_tileirdisasm(
            data, *(["-g"] if debuginfo else [])
        )


@pytest.mark.oracle
@pytest.mark.parametrize("name", KERNELS)
def test_older_version_is_accepted_or_refused_by_name(name: str) -> None:
    kernel = corpus.KERNELS[name]
    module = libtile.read(corpus.export(kernel, kernel.versions[-1]))
    for version in corpus.VERSIONS:
        try:
            data = libtile.write(module, version)
        except MigrationError as error:
            assert error.feature and error.required is not None and str(error.required) > version
        else:
            assert run_tileirdisasm(data)
