# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Atoms of copies between registers and shared memory: those of vectors (`lds`, `sts`) and of matrices (`ldmatrix`,
`stmatrix`, transposed with the mode `trans`), with the bits that a thread's instruction moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from libtile.atoms.shared_accesses import accesses, matrix_loads, matrix_stores, reduced, shared_between
from libtile.dialects.cuda_tile.types import NUMBER_NAMES
from libtile.dialects.nv_tileas.async_products import matrix_of
from libtile.dialects.nv_tileas.attributes import ConversionAttr, CopyAtomAttr, ThroughShared
from libtile.dialects.nv_tileas.copy_atoms import load_atom, store_atom
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.dialects.nv_tileas.types import BufferType
from libtile.layouts import LinearLayout
from libtile.layouts.convert import Conversion
from libtile.layouts.shared_access import SharedAccess, SharedWay
from libtile.lowering.tileas.exchanges.exchange_sizes import Kernel
from libtile.numerics.elements import STORAGE_BYTES

if TYPE_CHECKING:
    from libtile.atoms.transposing_copies import Transposition


def stored_by(
    layout: LinearLayout, shared: LinearLayout, element_bytes: int, kernel: Kernel, moved: int = 0
) -> CopyAtomAttr:
    """The cheapest way to store a tile of elements of so many bytes in a layout to one in shared memory, or to a part
    of it whose offset has ones in the bits `moved` (in elements)."""
    return store_atom(_store(layout, shared, element_bytes, kernel, moved))


def loaded_by(
    layout: LinearLayout, shared: LinearLayout, element_bytes: int, kernel: Kernel, moved: int = 0
) -> CopyAtomAttr:
    """The cheapest way to load a tile of elements of so many bytes in a layout from one in shared memory, or a part of
    it whose offset has ones in the bits `moved` (in elements)."""
    return load_atom(_load(layout, shared, element_bytes, kernel, moved))


def transposed_by(source: BufferType, destination: BufferType, kernel: Kernel) -> Transposition | str:
    """How a kernel's warps copy what lies in shared memory to where another dimension is the dense one; or why they do
    not."""
    from libtile.atoms.transposing_copies import transposition

    if source.layout is None or destination.layout is None:
        return "a buffer has no layout"
    size, needed = STORAGE_BYTES[NUMBER_NAMES[source.element_type]], ("ldmatrix", "stmatrix")
    if size == 1 and not all(map(kernel.gpu.has, needed)):
        return f"bytes are transposed by {' and '.join(needed)}"
    layouts = (matrix_of(type_.layout.layout) for type_ in (source, destination) if type_.layout is not None)
    return transposition(*layouts, size, kernel.warps)


def shared_way(
    source: LinearLayout, target: LinearLayout, shared: LinearLayout, element_bytes: int, kernel: Kernel, moved: int = 0
) -> SharedWay:
    """The way of a tile of elements of so many bytes from a layout to one, or to a part of it, through one in shared
    memory, where the part's offsets change in the bits `moved` (in elements) from run to run."""
    store = _store(source, shared, element_bytes, kernel)
    return SharedWay(shared, store, _load(target, shared, element_bytes, kernel, moved))


def between(source: LinearLayout, target: LinearLayout, element_bytes: int, kernel: Kernel) -> SharedWay:
    """The cheapest way of a tile of elements of so many bytes through shared memory."""
    sides = reduced(source, kernel.warp_bits), reduced(target, kernel.warp_bits)
    features = matrix_stores(kernel.gpu), matrix_loads(kernel.gpu)
    return shared_way(source, target, shared_between(*sides, element_bytes, *features), element_bytes, kernel)


def conversion_by(way: SharedWay, pieces: int = 1) -> ConversionAttr:
    """A way as an attribute, for so many pieces."""
    through = ThroughShared(pieces, LayoutAttr(way.layout), store_atom(way.store), load_atom(way.load))
    return ConversionAttr(Conversion.SHARED.value, through)


def _store(layout: LinearLayout, shared: LinearLayout, size: int, kernel: Kernel, moved: int = 0) -> SharedAccess:
    found = accesses(
        reduced(layout, kernel.warp_bits), shared, size, matrix_stores(kernel.gpu), storing=True, moved_bits=moved
    )
    return found.instruction(size)


def _load(layout: LinearLayout, shared: LinearLayout, size: int, kernel: Kernel, moved: int = 0) -> SharedAccess:
    found = accesses(
        reduced(layout, kernel.warp_bits), shared, size, matrix_loads(kernel.gpu), storing=False, moved_bits=moved
    )
    return found.instruction(size)
