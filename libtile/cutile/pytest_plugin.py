# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`pytest --cutile-backend=interpreter`: a project's cuTile tests on a machine with no GPU.

Registered by its entry point. Without the option it does nothing, and imports nothing.
"""

from __future__ import annotations

from contextlib import ExitStack

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of the plugin."""
    group = parser.getgroup("libtile", "cuTile kernels with no GPU")
    group.addoption(
        "--cutile-backend",
        choices=("interpreter", "simulator"),
        default=None,
        help="Run the kernels that ct.launch launches in libtile's interpreter, or as PTX in its simulator; torch's "
        "CPU stands for CUDA.",
    )
    group.addoption(
        "--cutile-gpu", metavar="sm_NN", default="sm_90", help="The GPU that cuTile believes to be there (sm_90)."
    )
    group.addoption(
        "--cutile-check",
        metavar="CHECKS",
        default="basic,-load-range,-store-range",
        help="What is checked while a kernel runs: off, basic, full, or a list as of cuda-tile-run --check "
        "(basic,-load-range,-store-range: a tile may lie outside of its array altogether).",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Take `ct.launch` over before anything of the project is imported, its conftest.py files included."""
    options = early_config.known_args_namespace
    if options.cutile_backend is None:
        return
    from libtile.cutile.processes import children_on_host
    from libtile.cutile.replacement import on_host
    from libtile.support.checks import INTERPRETER, SIMULATOR
    from libtile.support.errors import LibtileError

    try:
        (INTERPRETER if options.cutile_backend == "interpreter" else SIMULATOR).choose(options.cutile_check)
        given = (options.cutile_backend, options.cutile_gpu)
        modes = ExitStack()
        modes.enter_context(on_host(*given, check=options.cutile_check))
        modes.enter_context(children_on_host(*given, options.cutile_check))
    except LibtileError as error:
        raise pytest.UsageError(f"--cutile-backend: {error}") from None
    early_config.add_cleanup(modes.close)


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say in the report's head where kernels run."""
    backend = config.getoption("cutile_backend")
    return None if backend is None else f"cuTile: libtile's {backend}, as for {config.getoption('cutile_gpu')}"
