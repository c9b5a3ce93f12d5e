# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Shared set-up of the test-suite.  Its presence here puts `test/` on the import path: `import oracle, kernels`."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: takes seconds per case (deselect with -m 'not slow')")
