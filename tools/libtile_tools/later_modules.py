# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Modules of Python's own that `inspect` imports and then hardly asks: they are loaded when somebody does.

xDSL imports `inspect`, `dataclasses` and `typing_extensions` do, and it brings `ast` along, with a class for each kind
of node, `dis` and `tokenize`: a fortieth of a small compilation. A tool's process has modules of these names that are
empty but for what `inspect` takes from them while it is imported. Asked for anything else such a module becomes the one
that Python would have loaded: the object stays, and gets what that one has.
"""

from __future__ import annotations

import sys
from types import ModuleType

TYPE_CHECKING = False  # as that of `typing`, which takes a while to import
if TYPE_CHECKING:
    from typing import Any

    from libtile_tools.kept import Bundle

_FLAGS = "\0dis.COMPILER_FLAG_NAMES"  # begins as no code does
_ASKED_OF_ALL = ("__path__", "__file__", "__cached__", "__wrapped__")
"""What others ask each module for that there is."""


class LaterModule(ModuleType):
    """A module that is not loaded yet."""

    def __getattr__(self, name: str) -> Any:
        if name not in _ASKED_OF_ALL:
            load(self)
        return ModuleType.__getattribute__(self, name)


def load(module: ModuleType) -> None:
    """Have a module become the one that Python finds."""
    name = module.__name__
    for finder in sys.meta_path:
        spec = finder.find_spec(name, None)
        if spec is None or spec.loader is None:
            continue
        if hasattr(spec.loader, "get_code"):  # it is not the one that gave out this module
            module.__class__ = ModuleType
            module.__spec__, module.__loader__ = spec, spec.loader
            if spec.origin is not None:
                module.__file__ = spec.origin
            spec.loader.exec_module(module)
            return
    raise ModuleNotFoundError(f"No module named {name!r}", name=name)


class Visitor:
    """Stands for `ast.NodeVisitor`, of which `inspect` derives a class, for when it has a text to look through."""

    def visit(self, node: Any) -> Any:
        import ast

        return ast.NodeVisitor.visit(self, node)  # type: ignore[arg-type]

    def generic_visit(self, node: Any) -> Any:
        import ast

        return ast.NodeVisitor.generic_visit(self, node)  # type: ignore[arg-type]


def load_on_demand(module: ModuleType, kept: Bundle | None, added: dict[str, Any]) -> None:
    """Make a module that has just been made, and has nothing yet, one that is loaded later. What it has at once is in
    the bundle, or is added to it."""
    module.__class__ = LaterModule
    if module.__name__ == "ast":
        vars(module)["NodeVisitor"] = Visitor
    elif module.__name__ == "dis":  # the names are those of a version of Python, and so are kept
        flags = None if kept is None else kept.text(_FLAGS)
        if flags is None:
            flags = added[_FLAGS] = dict(module.COMPILER_FLAG_NAMES)
        else:
            vars(module)["COMPILER_FLAG_NAMES"] = flags
