# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a lowering says when it cannot go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from libtile.support.diagnostics import LoweringError

if TYPE_CHECKING:
    from xdsl.ir import Operation


def unsupported(op: Operation, reason: str, target: str = "") -> LoweringError:
    """The error for an op: names it, its types, the target, and the position in the source. Without a target it is that
    of the op's function, or of the kernels of its module."""
    from libtile.dialects.cuda_tile.locations import source_location

    place = source_location(getattr(op, "location", None))
    types = ", ".join(str(v.type) for v in (*op.operands, *op.results))
    where = f"{place}: " if place is not None else ""
    target = target or target_around(op)
    suffix = f" on {target}" if target and target not in reason.split() else ""
    reason = f"'{op.name}' op {reason}{suffix}{f' (types: {types})' if types else ''}"
    return LoweringError(f"{where}{reason}", place, reason)


def target_around(op: Operation) -> str:
    """The target of the function that an op is in, or of a kernel of its module; empty where none says it."""
    at: Operation | None = op
    while at is not None:
        for function in (at, *(f for region in at.regions for block in region.blocks for f in block.ops)):
            found = getattr(getattr(function, "kernel_spec", None), "target", None)
            if found:
                return str(found)
        at = at.parent_op()
    return ""
