# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loads and stores of tiles through views of tensors in memory (`libtile.codegen.tiled_views`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from libtile.codegen.builder import KernelBuilder, Value, integer
from libtile.codegen.llvm_types import IntType
from libtile.codegen.memory import NO_HINT, WEAK, CacheHint, Ordering, Registers, both, load_bits, store_bits
from libtile.codegen.sharing import Handed, share_from_owner
from libtile.codegen.stored_bits import from_storage, to_storage
from libtile.codegen.tile import Tile, owner_predicate
from libtile.codegen.tiled_views import Accesses, Places, TiledView
from libtile.layouts import LinearLayout
from libtile.layouts.convert import Conversion
from libtile.numerics.elements import ELEMENTS, PACKED, STORAGE_BYTES


def padding_constant(element: str, keyword: str | None) -> Value:
    """The stored bits that a padding keyword stands for, as an integer; zero for None and for integer elements."""
    held = ELEMENTS[element]
    return integer(IntType(8 * held.storage_bytes), 0 if keyword is None else held.padding.get(keyword, 0))


# -- accesses -------------------------------------------------------------------------------------------------------

Predicate = Callable[[int], "Value | None"]
"""Whether this thread accesses the element of a register; None when it always does."""
LoadBody = Callable[[tuple[int, ...], Predicate], Sequence[Value]]
"""One load of a group of registers: what they get."""
StoreBody = Callable[[tuple[int, ...], Predicate], None]
"""One store, or another change of memory, of a group of registers."""


def load_each(
    b: KernelBuilder,
    places: Places,
    body: LoadBody,
    ordering: Ordering,
    handed: Handed,
) -> Tile:
    """A tile of a view, one load for each group of registers.

    A strong load is done by the owner of an element, what it saw is `handed` out.
    """
    layout, groups = places.layout, places.groups()
    owner = None if ordering.weak else owner_predicate(b, layout)
    result = Registers(layout)
    for group in groups:
        result.put(group, body(group, lambda register: both(b, places.mask(register), owner)))
    tile = Tile(layout, places.tiled.view.element, tuple(result.all()))
    if owner is not None:
        tile = share_from_owner(b, tile, handed)
    return tile


def store_each(b: KernelBuilder, places: Places, body: StoreBody, ordering: Ordering) -> None:
    """Change the tile of a view, one change for each group of registers, by the owners of the elements."""
    groups = places.groups()
    owner = owner_predicate(b, places.layout)
    for group in groups:
        body(group, lambda register: both(b, places.mask(register), owner))


def load_tile(
    b: KernelBuilder,
    tiled: TiledView,
    index: Sequence[Value | Tile],
    layout: LinearLayout,
    accesses: Accesses,
    *,
    ordering: Ordering = WEAK,
    cache: CacheHint = NO_HINT,
    handed: Handed = Conversion.REGISTERS,
) -> Tile:
    """Load the tile that `index` names, in a layout. Indices are unsigned integers of any width, by tile dimension;
    that of a sparse dimension is a tile in `sparse_layout` (Tile IR, "load_view_tko")."""
    element = tiled.view.element
    places = Places(b, tiled, index, layout, accesses)
    padding = padding_constant(element, tiled.padding)

    def load(group: tuple[int, ...], accessed: Predicate) -> Sequence[Value]:
        predicate = accessed(group[0])
        if element in PACKED:
            from libtile.codegen.nibbles import load_packed

            return load_packed(b, places, group, predicate, padding, ordering, cache)
        bits = load_bits(
            b, places.address(group[0]), STORAGE_BYTES[element], len(group),
            predicate=predicate, defaults=[padding] * len(group), ordering=ordering, cache=cache,
        )  # fmt: skip
        return [from_storage(b, x, element) for x in bits]

    return load_each(b, places, load, ordering, handed)


def store_tile(
    b: KernelBuilder,
    tiled: TiledView,
    index: Sequence[Value | Tile],
    tile: Tile,
    accesses: Accesses,
    *,
    ordering: Ordering = WEAK,
    cache: CacheHint = NO_HINT,
) -> None:
    """Store a tile where `index` names it; elements beyond the tensor are left out (Tile IR, "store_view_tko")."""
    element = tiled.view.element
    places = Places(b, tiled, index, tile.layout, accesses)

    def store(group: tuple[int, ...], accessed: Predicate) -> None:
        bits = [to_storage(b, tile.registers[r], element) for r in group]
        if element in PACKED:
            from libtile.codegen.nibbles import store_packed

            store_packed(b, places, group, bits, accessed, ordering, cache)
            return
        predicate = accessed(group[0])
        store_bits(b, places.address(group[0]), bits, predicate=predicate, ordering=ordering, cache=cache)

    store_each(b, places, store, ordering)
