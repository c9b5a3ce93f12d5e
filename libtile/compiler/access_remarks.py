# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How the global-memory accesses of a kernel in nv_tileas are done, and the facts that narrow ones lack: what
`tileas-select-copies` wrote on them."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import CallSiteLoc, StringAttr
from xdsl.ir import Operation

from libtile.dialects import scf
from libtile.dialects.nv_tileas import memory, tma
from libtile.dialects.nv_tileas.attributes import CopyAtomAttr
from libtile.lowering.discardable import NOT_PIPELINED, NOT_TMA, NOT_WIDE
from libtile.lowering.tileas.copies.select_copies import CHECKS
from libtile.support import remarks
from libtile.support.diagnostics import SourceLocation

LOADS = (memory.TiledLoadOp, memory.LoadOp, tma.TiledLoadOp, tma.LoadOp)
STORES = (memory.TiledStoreOp, memory.StoreOp)
ACCESSES = (*LOADS, *STORES, memory.TiledAtomicRmwOp)


def access_remarks(
    op: Operation, function: str, place: SourceLocation | None, *, has_tma: bool
) -> Iterator[remarks.Remark]:
    """What to say of an access; nothing of the narrower form of one that a check at run time makes wider."""
    other = _other_form(op)
    if other is op:
        return
    if has_tma and (reason := _text(op, NOT_TMA)) is not None:
        store = not isinstance(op, LOADS)
        yield remarks.tma_failed(function, place, reason, store=store, inlined=isinstance(op.location, CallSiteLoc))
    if isinstance(op, LOADS):
        yield remarks.load_selected(function, place, _instruction(op))
    elif isinstance(op, STORES):
        yield remarks.store_selected(function, place)
    else:
        return
    if other is not None:
        otherwise = _instruction(other) if _instruction(other) != _instruction(op) else ""
        reason = _text(other, NOT_WIDE) or ""
        yield remarks.access_width_checked(function, place, _bits(op), _bits(other), reason, otherwise)
    if (reason := _text(op, NOT_WIDE)) is not None:
        yield remarks.access_not_vectorized(function, place, _bits(op), reason)
    if (reason := _text(op, NOT_PIPELINED)) is not None:
        yield remarks.load_not_pipelined(function, place, reason)


def _other_form(op: Operation) -> Operation | None:
    """The form of an access for what is known without a check; None where there is one form only."""
    around = op.parent_op()
    if not isinstance(around, scf.IfOp) or CHECKS not in around.attributes:
        return None
    return next(other for other in around.false_region.block.ops if isinstance(other, ACCESSES))


def _instruction(op: Operation) -> str:
    return remarks.ASYNC_COPY if _atom(op).kind == "ldgsts" else remarks.GLOBAL_LOAD


def _bits(op: Operation) -> int:
    return _atom(op).bits


def _atom(op: Operation) -> CopyAtomAttr:
    atom = op.properties["atom"]
    assert isinstance(atom, CopyAtomAttr)  # which tileas-select-copies gives it
    return atom


def _text(op: Operation, name: str) -> str | None:
    attr = op.attributes.get(name)
    return attr.data if isinstance(attr, StringAttr) else None
