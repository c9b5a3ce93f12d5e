# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels of cuTile Python on a machine with no GPU.

    import cuda.tile as ct, numpy as np
    from libtile import cutile

    cutile.launch(kernel, (4, 1, 1), (a, b, 16))                       # in the interpreter
    cutile.launch(kernel, (4, 1, 1), (a, b, 16), backend="simulator")  # as code for sm_90, in the PTX simulator

    with cutile.on_host():          # ct.launch itself runs so
        ct.launch(None, (4, 1, 1), kernel, (a, b, 16))

cuTile's own compiler makes the bytecode; what its launcher does (which facts it derives of the arguments, and how it
lays them out) is done here for arrays in host memory. Needs the package `cuda-tile` (extra `cutile`).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from libtile.cutile.launching import bytecode_for, launch
    from libtile.cutile.replacement import on_host
    from libtile.cutile.scripts import Launched, launched_kernels

__all__ = ["Launched", "bytecode_for", "launch", "launched_kernels", "on_host"]


def __getattr__(name: str) -> Any:
    """Load on first use: the pytest plugin beside this is imported by every run of pytest."""
    homes = {
        "bytecode_for": "launching",
        "launch": "launching",
        "on_host": "replacement",
        "Launched": "scripts",
        "launched_kernels": "scripts",
    }
    if name not in homes:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"libtile.cutile.{homes[name]}"), name)
