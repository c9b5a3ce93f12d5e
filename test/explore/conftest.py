# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The record that most tests look at, made once."""

from pathlib import Path

import pytest

from libtile.explore import Record, explore
from oracle import require_tool

ROOT = Path(__file__).resolve().parents[2]
GEMM = ROOT / "examples" / "gemm.bc"


@pytest.fixture(scope="session")
def record() -> Record:
    require_tool("nvdisasm")
    return explore(GEMM, ["sm_90", "sm_80"], source_folders=[ROOT])
