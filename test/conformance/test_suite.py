# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The open project's own tests pass with this project's tools."""

from __future__ import annotations

from conformance import suite


def test_open_suite_passes_unmodified(suite_test: str, suite_results: dict[str, suite.Result]) -> None:
    result = suite_results[suite_test]
    assert result.passed, f"{result.name}: {result.code}\n{result.output}"
