# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How wide the global-memory accesses of a kernel in nv_tileas are, and the facts that narrow ones lack.

The widths are those of the functions that emit the accesses; the reason of a narrow one is the tightest of the limits
that these functions put together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import TensorType

from libtile.codegen.async_copies import copy_width, tiled_copy_width
from libtile.codegen.memory import MAX_ACCESS_BYTES, register_groups
from libtile.codegen.views import TiledView, ViewFacts, access_width, contiguous_dim, element_bits
from libtile.dialects.nv_tileaa.memory import Access
from libtile.dialects.nv_tileaa.types import PtrType
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.dialects.nv_tileas.types import BufferType
from libtile.layouts import LANE, WARP, LinearLayout
from libtile.lowering.to_llvm.fast_path import checked_facts
from libtile.lowering.to_llvm.view_facts import access_facts, described_view
from libtile.lowering.to_tileas.accesses import numbers, pointer_vector
from libtile.lowering.to_tileas.types import is_tile, layout_of, shape_of
from libtile.numerics.elements import STORAGE_BYTES
from libtile.support import remarks
from libtile.support.diagnostics import SourceLocation

MAX_BITS = 8 * MAX_ACCESS_BYTES
Limit = tuple[int, str]
"""How many elements an access can have at most, and why."""


@dataclass(frozen=True)
class Form:
    """How an access is emitted when `facts` hold: how wide, and whether as an asynchronous copy."""

    facts: ViewFacts
    bits: int
    asynchronous: bool

    @property
    def instruction(self) -> str:
        return remarks.ASYNC_COPY if self.asynchronous else remarks.GLOBAL_LOAD


def load_remarks(op: Access, function: str, place: SourceLocation | None) -> Iterator[remarks.Remark]:
    """By which instruction a load is done, and how wide it is."""
    layout = _layout(op)
    if isinstance(op.accessed.type, TensorType):
        copied = layout is not None and _pointer_copy(op, layout) is not None
        instruction = remarks.ASYNC_COPY if copied else remarks.GLOBAL_LOAD
    else:
        view, buffer = described_view(op), _buffer(op)
        if view is None or view.tiled is None or layout is None:
            instruction = remarks.GLOBAL_LOAD if buffer is None else remarks.ASYNC_COPY
        else:
            instruction = _forms(op, view.tiled, access_facts(op, view), layout)[0].instruction
    yield remarks.load_selected(function, place, instruction)
    yield from width_remarks(op, function, place)


def width_remarks(op: Access, function: str, place: SourceLocation | None) -> Iterator[remarks.Remark]:
    """What to say of the width of an access: nothing of one that is always 128 bits wide, or of a single element."""
    layout = _layout(op)
    if layout is None or not layout.out_dims:
        return
    if isinstance(op.accessed.type, TensorType):
        yield from _of_pointers(op, layout, function, place)
        return
    view = described_view(op)
    if view is None or view.tiled is None:
        return
    tiled = view.tiled
    forms = _forms(op, tiled, access_facts(op, view), layout)
    if len(forms) > 1:
        wide, narrow = forms
        _, reason = min(_limits(tiled, narrow.facts, layout), key=lambda limit: limit[0])
        otherwise = narrow.instruction if wide.asynchronous and not narrow.asynchronous else ""
        yield remarks.access_width_checked(function, place, wide.bits, narrow.bits, reason, otherwise)
    if forms[0].bits < MAX_BITS:
        _, reason = min(_limits(tiled, forms[0].facts, layout), key=lambda limit: limit[0])
        yield remarks.access_not_vectorized(function, place, forms[0].bits, reason)


def _forms(op: Access, tiled: TiledView, facts: ViewFacts, layout: LinearLayout) -> list[Form]:
    """The forms of an access through a view: one, or that behind a check at run time and then the other."""
    checked = checked_facts(tiled, layout, facts) if "mem_scope" not in op.properties else None
    return [_form(op, tiled, known, layout) for known in (checked, facts) if known is not None]


def _form(op: Access, tiled: TiledView, facts: ViewFacts, layout: LinearLayout) -> Form:
    element, buffer = tiled.view.element, _buffer(op)
    if buffer is not None:
        copied = tiled_copy_width(buffer, layout, element, tiled, facts)
        if copied is not None:
            return Form(facts, 8 * STORAGE_BYTES[element] * copied, True)
    return Form(facts, access_width(tiled, facts, layout) * element_bits(element), False)


def _buffer(op: Access) -> LinearLayout | None:
    """The layout of the shared memory that an asynchronous load fills; None for one to registers."""
    types = [v.type for v in op.operands if isinstance(v.type, BufferType)]
    return types[0].layout.layout if types and types[0].layout is not None else None


def _pointer_copy(op: Access, layout: LinearLayout) -> int | None:
    """The elements of each copy of a load by pointers; None when it is not asynchronous, or goes through registers."""
    buffer = _buffer(op)
    vector, element = pointer_vector(op)
    return None if buffer is None else copy_width(buffer, layout, element, vector.dim, vector.count)


def _layout(op: Access) -> LinearLayout | None:
    """The layout of the tile that an access moves."""
    given = op.properties.get("layout", op.attributes.get("layout"))
    if isinstance(given, LayoutAttr):
        return given.layout
    tiles = [v for v in (*op.results, *op.operands[1:2], *op.operands[:1]) if is_tile(v.type)]
    return layout_of(tiles[0]) if tiles else None


def _limits(tiled: TiledView, facts: ViewFacts, layout: LinearLayout) -> Iterator[Limit]:
    """What bounds the elements of an access through a view, each on its own (`views.access_width` is their minimum):
    first what no assumption would change."""
    bits = element_bits(tiled.view.element)
    most = MAX_BITS // bits
    t = contiguous_dim(tiled)
    if t is None:
        yield 1, "no dimension of the tile has stride 1"
        return
    if t == tiled.sparse:
        yield 1, "elements are gathered along the dimension with stride 1"
        return
    yield _share(layout)
    yield tiled.tile[t], f"the tile has {tiled.tile[t]} elements along the dimension with stride 1"
    yield facts.start(tiled, t), f"tiles are not known to start at multiples of {most} elements"
    yield max(facts.alignment * 8 // bits, 1), f"the base is not known to be aligned to {MAX_ACCESS_BYTES} bytes"
    for other in range(len(tiled.tile)):
        if other != t and not (tiled.tile[other] == 1 and tiled.size(other).constant == 1):
            reason = f"the stride of dimension {tiled.dims[other]} is not known to be a multiple of {most}"
            yield facts.stride(tiled, other), reason
    if facts.needs_mask(tiled, t):
        yield facts.size(tiled, t), f"the size of dimension {tiled.dims[t]} is not known to be a multiple of {most}"
    yield _adjacent(layout, t, most)


def _share(layout: LinearLayout) -> Limit:
    """What the tile has for each of half of the threads: wide accesses are worth it when the others have none."""
    threads = 1 << sum(len(layout.basis(name)) for name in (LANE, WARP))
    elements = prod(layout.shape)
    return max(2 * elements // threads, 1), f"the tile has only {elements} elements for {threads} threads"


def _adjacent(layout: LinearLayout, dim: int, most: int) -> Limit:
    return len(register_groups(layout, dim, most)[0]), "a thread does not hold more elements in a row"


def _of_pointers(
    op: Access, layout: LinearLayout, function: str, place: SourceLocation | None
) -> Iterator[remarks.Remark]:
    pointers = op.operands[0].type
    assert isinstance(pointers, TensorType) and isinstance(pointers.element_type, PtrType)
    vector, element = pointer_vector(op)
    size = STORAGE_BYTES[element]
    most = MAX_ACCESS_BYTES // size
    width = _pointer_copy(op, layout) or len(register_groups(layout, vector.dim, vector.count)[0])
    if width >= most:
        return
    _, reason = min(_pointer_limits(op, layout, size), key=lambda limit: limit[0])
    yield remarks.access_not_vectorized(function, place, 8 * size * width, reason)


def _pointer_limits(op: Access, layout: LinearLayout, size: int) -> Iterator[Limit]:
    most = MAX_ACCESS_BYTES // size
    contiguity, divisibility, mask = (numbers(op, n) for n in ("contiguity", "divisibility", "mask_constancy"))
    runs = contiguity or (1,) * len(shape_of(op.operands[0].type))
    dim = max(range(len(runs)), key=lambda d: (runs[d], d))
    yield _share(layout)
    yield runs[dim], "the pointers are not known to be adjacent"
    alignment = divisibility[dim] if divisibility else 1
    yield max(alignment // size, 1), f"the pointers are not known to be aligned to {MAX_ACCESS_BYTES} bytes"
    if mask:
        yield mask[dim], f"the mask is not known to be the same for {most} elements in a row"
    yield _adjacent(layout, dim, most)
