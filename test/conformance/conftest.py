# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`--suite PATH` (or the variable LIBTILE_SUITE): a checkout of NVIDIA/cuda-tile whose tests are run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from conformance import suite


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--suite", default=os.environ.get("LIBTILE_SUITE"), help="a checkout of NVIDIA/cuda-tile")


def _path(config: pytest.Config) -> Path | None:
    given = config.getoption("--suite", default=None) or os.environ.get("LIBTILE_SUITE")
    return Path(given) if given else None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "suite_test" not in metafunc.fixturenames:
        return
    path = _path(metafunc.config)
    if path is None:
        reason = "no suite: give --suite PATH or set LIBTILE_SUITE to a checkout of NVIDIA/cuda-tile"
        metafunc.parametrize("suite_test", [pytest.param("", marks=pytest.mark.skip(reason=reason))])
    else:
        metafunc.parametrize("suite_test", suite.names(path))


@pytest.fixture(scope="session")
def suite_results(request: pytest.FixtureRequest) -> dict[str, suite.Result]:
    """Every test of the suite, run once."""
    path = _path(request.config)
    assert path is not None
    return {result.name: result for result in suite.run(path)}
