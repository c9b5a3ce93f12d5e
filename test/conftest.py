# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Its presence here puts `test/` on the import path of every test: `import oracle`, `from kernels import corpus`."""

import gc
import os
import sys

import pytest

from libtile.compiler.stages import VERIFY_EACH

gc.set_threshold(100_000, 20, 20)
"""Python looks for cycles every 700 new objects; a tenth of the suite's time would go into looking through IR."""

# Hundreds of tests start a tool. Where Python is told to keep no compiled modules, as in many containers, each of them
# would compile hundreds of modules: two thirds of the suite's time. Tests about that variable set it themselves.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_configure(config: pytest.Config) -> None:
    """Each worker takes tests that are neighbours, so that what a file makes for its tests is made by one worker."""
    if config.getoption("dist", "no") == "load":
        config.option.dist = "worksteal"


@pytest.fixture
def verified_passes(monkeypatch):
    """Compilations of the test verify the IR after each pass."""
    monkeypatch.setenv(VERIFY_EACH, "1")
