# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a lowering says when it cannot go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from libtile.errors import LibtileError

if TYPE_CHECKING:
    from xdsl.ir import Operation

    from libtile.diagnostics import SourceLocation


class LoweringError(LibtileError):
    """An op that this target or this version cannot compile: `location` is where the op stands in its source."""

    def __init__(self, message: str, location: SourceLocation | None = None):
        super().__init__(message)
        self.location = location


def unsupported(op: Operation, reason: str, target: str = "") -> LoweringError:
    """The error for an op: names it, its types, the target, and the position in the source."""
    from libtile.dialects.cuda_tile.locations import source_location

    place = source_location(getattr(op, "location", None))
    types = ", ".join(str(v.type) for v in (*op.operands, *op.results))
    where = f"{place}: " if place is not None else ""
    suffix = f" on {target}" if target else ""
    return LoweringError(f"{where}'{op.name}' op {reason}{suffix} (types: {types})", place)
