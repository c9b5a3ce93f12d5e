# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Its presence here puts `test/` on the import path of every test: `import oracle`, `from kernels import corpus`."""

import gc
import os
import sys
from pathlib import Path

import pytest

from libtile.support.environment import VERIFY_EACH

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
    monkeypatch.setenv(VERIFY_EACH.name, "1")


UNKNOWN_LONG_CASES = pytest.StashKey[list[str]]()
"""Lines of `long_cases.txt` that name no case, where all tests were collected."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The cases of `long_cases.txt` are slow ones."""
    text = (Path(__file__).parent / "long_cases.txt").read_text(encoding="utf-8")
    named = {line for line in text.splitlines() if not line.startswith("#")}
    found = set()
    for item in items:
        if item.nodeid in named:
            found.add(item.nodeid)
            item.add_marker(pytest.mark.slow)
    everything = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    config.stash[UNKNOWN_LONG_CASES] = sorted(named - found) if everything else []
