# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a lowering says when it cannot go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from libtile.support.diagnostics import LoweringError

if TYPE_CHECKING:
    from xdsl.ir import Operation


def unsupported(op: Operation, reason: str, target: str = "") -> LoweringError:
    """The error for an op: names it, its types, the target, and the position in the source."""
    from libtile.dialects.cuda_tile.locations import source_location

    place = source_location(getattr(op, "location", None))
    types = ", ".join(str(v.type) for v in (*op.operands, *op.results))
    where = f"{place}: " if place is not None else ""
    suffix = f" on {target}" if target else ""
    reason = f"'{op.name}' op {reason}{suffix}{f' (types: {types})' if types else ''}"
    return LoweringError(f"{where}{reason}", place, reason)
