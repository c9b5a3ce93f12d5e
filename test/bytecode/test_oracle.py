# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The reference disassembler reads what the writer makes, and sees the same program after each migration."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

import oracle
from libtile import bytecode
from patience import PATIENCE

pytest.importorskip("cuda.tile", reason="the frontend is not installed (pip install cuda-tile)")

from bytecode.samples import module_of
from bytecode.test_golden import VERSIONS, exports, fresh
from kernels import corpus

pytestmark = pytest.mark.oracle

# One kernel in eight by default: a process per file and version takes its time.
SAMPLE = list(corpus.KERNELS.values())[::8]


def check(kernel: Any) -> None:
    data = exports(kernel)[-1][1]
    text = oracle.run_tileirdisasm(data)
    assert oracle.run_tileirdisasm(bytecode.write(fresh(data), "13.5")) == text
    for version in VERSIONS:
        try:
            migrated = bytecode.migrate(data, version)
        except bytecode.MigrationError:
            continue
        assert oracle.run_tileirdisasm(migrated) == text, version


@pytest.mark.parametrize("kernel", SAMPLE, ids=lambda k: k.name)
def test_reference_reads_each_version(kernel: Any) -> None:
    oracle.require_tool("tileirdisasm")
    check(kernel)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", corpus.KERNELS.values(), ids=lambda k: k.name)
def test_reference_reads_each_version_of_every_kernel(kernel: Any) -> None:
    oracle.require_tool("tileirdisasm")
    check(kernel)


def test_reference_wants_a_preview_feature_for_a_preview_file_as_we_do(tmp_path: Path) -> None:
    tool = oracle.require_tool("tileirdisasm")
    module = module_of()
    module.preview = True
    path = tmp_path / "preview.bc"
    path.write_bytes(bytecode.write(module))
    refused = subprocess.run([tool, path], capture_output=True, text=True, timeout=PATIENCE, check=False)
    with pytest.raises(bytecode.UnsupportedVersionError) as ours:
        bytecode.read(path.read_bytes())
    assert f"error at offset {ours.value.offset}: {ours.value.message}" in refused.stderr
    accepted = subprocess.run(
        [tool, "--preview=simt", path], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert accepted.returncode == 0, accepted.stderr
    assert bytecode.read(path.read_bytes(), preview=("simt",)).preview
