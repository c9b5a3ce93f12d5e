# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a tool has in place of xDSL's module that finds dialects in `.irdl` files: see `libtile_tools.startup`."""

from __future__ import annotations

TYPE_CHECKING = False  # as that of `typing`, which takes a while to import
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType
    from typing import Any


def load_on_demand(module: ModuleType) -> None:
    """Stands for xDSL's module that finds dialects in `.irdl` files where Python finds no module of a name.

    It is loaded when there is such a file in a package: it imports what takes longer than reading a kernel. In the
    working directory, where it also looks, a tool has none.
    """
    import os

    class IRDLDialectFinder:
        def __init__(self, dialects: object):
            self.dialects = dialects

        def find_spec(self, name: str, path: Sequence[str] | None, target: object = None) -> Any:
            file = f"{name.rpartition('.')[2]}.irdl"
            if path is None or not any(os.path.isfile(os.path.join(folder, file)) for folder in path):
                return None
            return _loaded_from_source(module.__name__).IRDLDialectFinder(self.dialects).find_spec(name, path, target)

    module.IRDLDialectFinder = IRDLDialectFinder  # type: ignore[attr-defined]


def _loaded_from_source(name: str) -> Any:
    """A module as Python finds it, in place of what stands for it."""
    import importlib.util
    import sys
    from importlib.machinery import PathFinder

    spec = PathFinder.find_spec(name, sys.modules[name.rpartition(".")[0]].__path__)
    assert spec is not None and spec.loader is not None
    made = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made
