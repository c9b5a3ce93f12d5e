# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Remarks of the passes that the dialects share: what was done to an op, and what was left and why."""

from __future__ import annotations

from typing import NamedTuple

from xdsl.ir import Operation

from libtile.dialects.cuda_tile.locations import source_location
from libtile.dialects.cuda_tile.ops import CudaTileOp
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.support import remarks
from libtile.support.diagnostics import SourceLocation


class Place(NamedTuple):
    """Where a remark belongs, also when its op is gone."""

    function: str
    where: SourceLocation | None


def place_of(op: Operation) -> Place | None:
    """The place of an op; None when nobody collects remarks."""
    return Place(_function(op), source_location(op.location)) if remarks.are_collected() else None


def done(op: Operation | Place | None, name: str, message: str, **arguments: object) -> None:
    """Report what a pass made of an op; `name` is the remark's, such as `RecoverViews`.

    Before the op is erased, or with the place that it had.
    """
    _report(remarks.Kind.PASSED, op, name, message, arguments)


def missed(op: Operation, name: str, message: str, reason: str, **arguments: object) -> None:
    """Report what a pass would have done to an op, and the reason why it did not."""
    _report(remarks.Kind.MISSED, op, name, message, {**arguments, "Reason": reason})


def _report(
    kind: remarks.Kind, op: Operation | Place | None, name: str, message: str, arguments: dict[str, object]
) -> None:
    place = place_of(op) if isinstance(op, Operation) else op
    if place is not None:
        pairs = tuple((argument, str(value)) for argument, value in arguments.items())
        remarks.report(remarks.Remark(remarks.Category.PASSES, kind, name, message, *place, pairs))


def _is_entry(op: Operation) -> bool:
    return isinstance(op, CudaTileOp) and op.spec.has_trait("function")


def _function(op: Operation) -> str:
    """The name of the entry, or of the function of an inner dialect, that an op is in."""
    inner: Operation | None = op
    while inner is not None and not isinstance(inner, FuncOp) and not _is_entry(inner):
        inner = inner.parent_op()
    symbol = inner.properties.get("sym_name") if inner is not None else None
    return str(getattr(symbol, "data", ""))
