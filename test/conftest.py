# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Its presence here puts `test/` on the import path of every test: `import oracle`, `from kernels import corpus`."""

import pytest

from libtile.compiler.stages import VERIFY_EACH


@pytest.fixture
def verified_passes(monkeypatch):
    """Compilations of the test verify the IR after each pass."""
    monkeypatch.setenv(VERIFY_EACH, "1")
