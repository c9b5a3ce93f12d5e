# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The one `cuda_tile.module` that a file of MLIR has to hold where bytecode is made of it, or code."""

from __future__ import annotations

from typing import TypeVar, cast

from libtile.dialects.cuda_tile.source_location import source_location
from libtile.support.diagnostics import DiagnosticError, error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from libtile.ir.forms import Operation

MODULE = "cuda_tile.module"
Op = TypeVar("Op", bound="Operation")


def tile_module_in(op: Op) -> Op:
    """The `cuda_tile.module` that an op is, or holds as its only op; DiagnosticError where there is not one.

    The error stands at the module around it, or where a text has none of its own, at the first op that is too much.
    """
    if op.name == MODULE:
        return op
    place = source_location(op.location)
    if op.name != "builtin.module":
        raise DiagnosticError([error(place, f"expected a CUDA Tile IR module, but got a {op.name}")])
    inner = [o for block in op.regions[0].blocks for o in block.ops]
    modules = [o for o in inner if o.name == MODULE]
    if len(inner) == len(modules) == 1:
        return cast("Op", modules[0])
    if inner and (place is None or not place.line):
        surplus = next((o for o in inner if o not in modules[:1]), inner[0])
        place = source_location(surplus.location) or place
    raise DiagnosticError([error(place, "expected a single CUDA Tile IR module in the MLIR module")])
