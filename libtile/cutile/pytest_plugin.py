# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`pytest --cutile-backend=interpreter`: a project's cuTile tests on a machine with no GPU, or on one by a driver
that knows no Tile IR.

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
        choices=("interpreter", "simulator", "gpu"),
        default=None,
        help="Run the kernels that ct.launch launches in libtile's interpreter, as PTX in its simulator, or compiled "
        "by libtile on the machine's GPU, also by a driver that knows no Tile IR; torch's CPU stands for CUDA.",
    )
    group.addoption(
        "--cutile-gpu",
        metavar="sm_NN",
        default=None,
        help="The GPU that cuTile believes to be there (sm_90; with the backend gpu, the one that is there).",
    )
    group.addoption(
        "--cutile-check",
        metavar="CHECKS",
        default=None,
        help="What is checked while a kernel runs: off, basic, full, or a list as of cuda-tile-run --check "
        "(basic,-load-range,-store-range: a tile may lie outside of its array altogether). The gpu checks nothing.",
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

    backend, check = options.cutile_backend, options.cutile_check
    try:
        if check is not None and backend == "gpu":
            raise LibtileError("the gpu checks nothing: leave --cutile-check out")
        if check is not None:
            (INTERPRETER if backend == "interpreter" else SIMULATOR).choose(check)
        gpu_name = _gpu_name(backend, options.cutile_gpu)
        modes = ExitStack()
        modes.enter_context(on_host(backend, gpu_name, check=check))
        modes.enter_context(children_on_host(backend, gpu_name, check))
    except LibtileError as error:
        raise pytest.UsageError(f"--cutile-backend: {error}") from None
    early_config.add_cleanup(modes.close)


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say in the report's head where kernels run."""
    backend = config.getoption("cutile_backend")
    if backend is None:
        return None
    return f"cuTile: libtile's {backend}, as for {_gpu_name(backend, config.getoption('cutile_gpu'))}"


def _gpu_name(backend: str, wanted: str | None) -> str:
    """The target that was asked for, or the backend's own. LibtileError for a GPU that does not load its code."""
    from libtile.cutile.launching import DEFAULT_TARGET

    if backend != "gpu":
        return wanted or DEFAULT_TARGET
    from libtile.runtime.cuda_driver import Device
    from libtile.runtime.gpu import target_name

    return target_name(Device(), wanted)
