# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An open CUDA Tile IR toolchain.

    import libtile
    m = libtile.read("kernel.bc")                    # bytecode -> Module
    m = libtile.parse(text, filename="kernel.mlir")  # text -> Module
    libtile.verify(m)                                # raises DiagnosticError with every diagnostic
    data = libtile.write(m, version="13.4")          # Module -> bytecode
    text = libtile.print_module(m)
    data = libtile.migrate(data, to="13.1")
    m = libtile.optimize(m, level=3)                 # Tile IR to Tile IR, before any compiler
    m = libtile.reduce(m, still_fails)               # the smallest module found for which the function says True
    libtile.diff("a.bc", "b.mlir")                   # the differences of two programs; none: they are the same
    libtile.estimate(m, grid=64, args=[x, y])        # what bounds a launch on a GPU, without one

Every error is a `LibtileError`. Names are loaded when they are first used, so that importing the package is cheap.
"""

import os
import sys

TYPE_CHECKING = False  # as that of `typing`, which takes a while to import
if TYPE_CHECKING:
    from typing import Any

    from libtile.api import compile, migrate, optimize, write
    from libtile.asm.module import Module, parse, print_module, read, verify
    from libtile.debugging.behaviour import compare_runs
    from libtile.debugging.reduction import reduce
    from libtile.debugging.structure import diff
    from libtile.interpreter.machine import RunResult
    from libtile.runtime.arguments import ArrayArgument
    from libtile.runtime.run import run as run
    from libtile.support.diagnostics import Diagnostic, DiagnosticError
    from libtile.support.errors import AttributesDroppedWarning, HintsDroppedWarning, LibtileError

__version__ = "0.1.0"

if sys.argv[:1] == ["-m"] and any(name.startswith("libtile.") for name in sys.orig_argv):
    # `python -m tileiras` and its like import this package on their way to the tool: see `entry`.
    from libtile.support.interrupts import prepare

    prepare()

if hasattr(os, "register_at_fork"):

    def _at_fork(what: str) -> None:
        from libtile.support import forks

        getattr(forks, what)()

    os.register_at_fork(
        before=lambda: _at_fork("before"),
        after_in_parent=lambda: _at_fork("after"),
        after_in_child=lambda: _at_fork("after"),
    )

_HOME = {
    "ArrayArgument": "libtile.runtime.arguments",
    "AttributesDroppedWarning": "libtile.support.errors",
    "Module": "libtile.asm.module",
    "RunResult": "libtile.interpreter.machine",
    "compare_runs": "libtile.debugging.behaviour",
    "compile": "libtile.api",
    "diff": "libtile.debugging.structure",
    "estimate": "libtile.explore.estimate",
    "migrate": "libtile.api",
    "optimize": "libtile.api",
    "parse": "libtile.asm.module",
    "print_module": "libtile.asm.module",
    "read": "libtile.asm.module",
    "reduce": "libtile.debugging.reduction",
    "verify": "libtile.asm.module",
    "write": "libtile.api",
    "run": "libtile.runtime",
    "tune": "libtile.tuning",
    "Diagnostic": "libtile.support.diagnostics",
    "DiagnosticError": "libtile.support.diagnostics",
    "HintsDroppedWarning": "libtile.support.errors",
    "LibtileError": "libtile.support.errors",
}

__all__ = [
    "ArrayArgument",
    "AttributesDroppedWarning",
    "Diagnostic",
    "DiagnosticError",
    "HintsDroppedWarning",
    "LibtileError",
    "Module",
    "RunResult",
    "__version__",
    "compare_runs",
    "compile",
    "diff",
    "estimate",
    "migrate",
    "optimize",
    "parse",
    "print_module",
    "read",
    "reduce",
    "run",
    "tune",
    "verify",
    "write",
]


def __getattr__(name: str) -> "Any":
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'libtile' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
