# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What keeps an access through a view from the tensor memory accelerator (TMA), by the facts of a tensor map.

PTX ISA, "Tensor": the base, all strides but that of the contiguous dimension, and the rows of a box are multiples of 16
bytes. The wordings are those of the reference assembler.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import CallSiteLoc, DictionaryAttr, IntegerAttr

from libtile.codegen.views import TiledView, ViewFacts, element_bits
from libtile.dialects.nv_tileaa.memory import Access
from libtile.dialects.nv_tileas.memory import TiledAtomicRmwOp
from libtile.lowering.to_llvm.view_facts import access_facts, described_view
from libtile.support import remarks
from libtile.support.diagnostics import SourceLocation

TMA_BITS = 128
REDUCTION = TiledAtomicRmwOp
"""A store that adds, whose ordering is relaxed at least, as that of TMA's reductions is."""


def tensor_map_remarks(
    op: Access, function: str, place: SourceLocation | None, *, store: bool
) -> Iterator[remarks.Remark]:
    """That an access is not done by TMA, and why. Nothing for gathers, pointers, and where a hint forbids it."""
    view = described_view(op)
    if view is None or view.tiled is None or view.tiled.sparse is not None or _is_forbidden(op):
        return
    if "mem_scope" in op.properties and not isinstance(op, REDUCTION):
        reason = "memory semantic must be weak for TMA operations"
    else:
        reason = obstacle(view.tiled, access_facts(op, view), store) or remarks.NO_TENSOR_MAPS
    yield remarks.tma_failed(function, place, reason, store=store, inlined=isinstance(op.location, CallSiteLoc))


def _is_forbidden(op: Access) -> bool:
    """Whether the program asks for an access without TMA."""
    hints = op.properties.get("hints", op.attributes.get("hints"))
    allowed = hints.data.get("allow_tma") if isinstance(hints, DictionaryAttr) else None
    return isinstance(allowed, IntegerAttr) and not allowed.value.data


def obstacle(tiled: TiledView, facts: ViewFacts, store: bool) -> str | None:
    """The first fact that a tensor map of the view lacks; None when there is none."""
    view = tiled.view
    bits = element_bits(view.element)
    if view.element == "i1":
        return "unsupported element type for TMA operations"
    if facts.alignment * 8 < TMA_BITS:
        return "base pointer not 16-byte aligned"
    rows = [t for t in range(len(tiled.tile)) if tiled.stride(t).constant == 1]
    if not rows:
        return "stride not 16-byte aligned"
    row = rows[-1]
    if any(t != row and facts.stride(tiled, t) * bits % TMA_BITS for t in range(len(tiled.tile))):
        return "stride not 16-byte aligned"
    if tiled.steps[row] * bits % TMA_BITS and tiled.steps[row] != tiled.tile[row]:
        return "contiguous striding not 16-byte aligned"
    if tiled.tile[row] * bits % TMA_BITS:
        return "leading tile dimension not 16-byte aligned"
    if store and facts.size(tiled, row) * bits % TMA_BITS:
        return "contiguous tensor extent not 16-byte aligned"
    return None
