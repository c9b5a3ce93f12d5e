# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Why an access is not wider, and not done by the tensor memory accelerator (TMA): what remarks say of it.

The reason of a narrow access is the tightest of the limits that its width is the minimum of. Those of TMA are the facts
of a tensor map (PTX ISA, "Tensor": the base, all strides but that of the contiguous dimension, and the rows of a box
are multiples of 16 bytes), in the reference assembler's words.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr
from xdsl.ir import Operation

from libtile.codegen.memory import MAX_ACCESS_BYTES
from libtile.ir.operands import source_of
from libtile.layouts import LANE, WARP, LinearLayout
from libtile.layouts.registers import register_groups
from libtile.lowering.tileas.copies.view_accesses import ViewAccess
from libtile.lowering.to_tileas.accesses import numbers
from libtile.lowering.to_tileas.types import shape_of
from libtile.support.remarks import NO_TENSOR_MAPS, NO_TMA_STORE

TMA_BITS = 128

Limit = tuple[int, str]
"""How many elements an access can have at most, and why."""


def view_reason(view: ViewAccess, layout: LinearLayout) -> str:
    """What bounds the width of an access through a view the most."""
    return min(_view_limits(view, layout), key=lambda limit: limit[0])[1]


def pointer_reason(op: Operation, layout: LinearLayout, size: int) -> str:
    """What bounds the width of an access through pointers to elements of `size` bytes the most."""
    return min(_pointer_limits(op, layout, size), key=lambda limit: limit[0])[1]


def _view_limits(view: ViewAccess, layout: LinearLayout) -> Iterator[Limit]:
    """What bounds the elements of an access, each on its own: first what no assumption would change."""
    most, t = view.widest, view.contiguous
    if t is None:
        yield 1, "no dimension of the tile has stride 1"
        return
    if t == view.sparse:
        yield 1, "elements are gathered along the dimension with stride 1"
        return
    yield _share(layout)
    yield view.tile[t], f"the tile has {view.tile[t]} elements along the dimension with stride 1"
    yield view.start_divisor(t), f"tiles are not known to start at multiples of {most} elements"
    yield max(view.alignment * 8 // view.bits, 1), f"the base is not known to be aligned to {MAX_ACCESS_BYTES} bytes"
    for other in range(len(view.tile)):
        if other != t and not (view.tile[other] == 1 and view.size(other) == 1):
            reason = f"the stride of dimension {view.dims[other]} is not known to be a multiple of {most}"
            yield view.stride_divisor(other), reason
    if view.needs_mask(t):
        yield view.size_divisor(t), f"the size of dimension {view.dims[t]} is not known to be a multiple of {most}"
    yield _adjacent(layout, t, most)


def _share(layout: LinearLayout) -> Limit:
    """What the tile has for each thread: none of them has copies of what others have, for wider accesses."""
    threads = 1 << sum(len(layout.basis(name)) for name in (LANE, WARP))
    elements = prod(layout.shape)
    return max(
        elements // threads, 1
    ), f"the tile has only {elements} element{'' if elements == 1 else 's'} for {threads} threads"


def _adjacent(layout: LinearLayout, dim: int, most: int) -> Limit:
    return len(register_groups(layout, dim, most)[0]), "a thread does not hold more elements in a row"


def _pointer_limits(op: Operation, layout: LinearLayout, size: int) -> Iterator[Limit]:
    most = MAX_ACCESS_BYTES // size
    contiguity, divisibility, mask = (numbers(op, n) for n in ("contiguity", "divisibility", "mask_constancy"))
    runs = contiguity or (1,) * len(shape_of(source_of(op).type))
    dim = max(range(len(runs)), key=lambda d: (runs[d], d))
    yield _share(layout)
    yield runs[dim], "the pointers are not known to be adjacent"
    alignment = divisibility[dim] if divisibility else 1
    yield max(alignment // size, 1), f"the pointers are not known to be aligned to {MAX_ACCESS_BYTES} bytes"
    if mask:
        yield mask[dim], f"the mask is not known to be the same for {most} elements in a row"
    yield _adjacent(layout, dim, most)


# -- TMA --------------------------------------------------------------------------------------------------------------


def tma_reason(op: Operation, view: ViewAccess, *, store: bool, adds: bool) -> str | None:
    """Why an access through a view is not done by TMA; None for gathers, and where a hint forbids it.

    A store that `adds` may be relaxed, as TMA's reductions are; any other access has to be weak.
    """
    if view.sparse is not None or is_forbidden(op):
        return None
    return tensor_map_obstacle(op, view, store=store, adds=adds) or (NO_TMA_STORE if store else NO_TENSOR_MAPS)


def tensor_map_obstacle(op: Operation, view: ViewAccess, *, store: bool, adds: bool = False) -> str | None:
    """The first fact that an access lacks for TMA to do it; None when there is none."""
    if "mem_scope" in op.properties and not adds:
        return "memory semantic must be weak for TMA operations"
    return _obstacle(view, store)


def is_forbidden(op: Operation) -> bool:
    """Whether the program asks for an access without TMA."""
    hints = op.properties.get("hints", op.attributes.get("hints"))
    allowed = hints.data.get("allow_tma") if isinstance(hints, DictionaryAttr) else None
    return isinstance(allowed, IntegerAttr) and not allowed.value.data


def _obstacle(view: ViewAccess, store: bool) -> str | None:
    """The first fact that a tensor map of the view lacks; None when there is none."""
    if view.element == "i1":
        return "unsupported element type for TMA operations"
    if view.alignment * 8 < TMA_BITS:
        return "base pointer not 16-byte aligned"
    rows = [t for t in range(len(view.tile)) if view.stride(t) == 1]
    if not rows:
        return "stride not 16-byte aligned"
    row = rows[-1]
    if any(t != row and view.stride_divisor(t) * view.bits % TMA_BITS for t in range(len(view.tile))):
        return "stride not 16-byte aligned"
    if view.steps[row] * view.bits % TMA_BITS and view.steps[row] != view.tile[row]:
        return "contiguous striding not 16-byte aligned"
    if view.tile[row] * view.bits % TMA_BITS:
        return "leading tile dimension not 16-byte aligned"
    if store and view.size_divisor(row) * view.bits % TMA_BITS:
        return "contiguous tensor extent not 16-byte aligned"
    return None
