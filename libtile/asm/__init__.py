# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The textual form of Tile IR: `parse` reads it, `print_op` writes it.

Syntax and diagnostics are those of the open dialect on MLIR: types and ops need no dialect prefix inside of a module,
every op may be written in the generic form, and locations and attributes may be given names (aliases).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from libtile.asm.names import suggested_names
    from libtile.asm.printer import print_op
    from libtile.asm.reading import parse

__all__ = ["parse", "print_op", "suggested_names"]

_HOMES = {
    "parse": "libtile.asm.reading",
    "print_op": "libtile.asm.printer",
    "suggested_names": "libtile.asm.names",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
