# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Accesses to memory through pointers, memrefs and views; those of nv_tileas with an atom mean the same.

What is read where nothing is (a false mask without `other`, out of bounds without padding) is zero here; the documents
leave it open.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.ir import Operation

from libtile.dialects.nv_tileaa.types import PtrType, TiledViewType
from libtile.interpreter.alias_scopes import claim_of
from libtile.interpreter.atomics import modification, update
from libtile.interpreter.faults import Fault, FaultKind
from libtile.interpreter.formats import Array, Element, element, to_bits
from libtile.interpreter.inner_rules import Run, Site, effect, python_value
from libtile.interpreter.nv_tileaa.convolutions import Convolution
from libtile.interpreter.nv_tileaa.views import (
    Elements,
    box_of,
    element_addresses,
    geometry_of,
    merged_elements,
    sparse_index,
)
from libtile.interpreter.views import Geometry, TensorView, ViewAccess, padding_bits
from libtile.ir.tile_form import element_of, is_token

MAX_ALLOCA = 1 << 30
"""Bytes that the allocas that are alive may have together."""


def is_strong(op: Operation) -> bool:
    """Whether other tile blocks may communicate through an access: it is not weak, nor within the tile block."""
    semantic, scope = (python_value(op.properties.get(name)) for name in ("mem_semantic", "mem_scope"))
    return semantic not in (None, "weak") and scope != "tl_blk"


def _wrote(site: Site, block: Any) -> None:
    """Tell who waits for a change of memory that there may be one."""
    if site.attr("mem_semantic", "weak") != "weak":
        block.memory.version += 1


def tokens(site: Site) -> tuple[None, ...]:
    """The token that an access gives, if it does."""
    return (None,) if site.op.results and is_token(site.op.results[-1].type) else ()


Addresses = Callable[[Any, tuple, "np.ndarray | None"], np.ndarray]


def _addresses(site: Site, group: str, shape: tuple[int, ...]) -> tuple[Element, Addresses]:
    """The element type behind a base, and the function of base, indices and mask that gives each element's address."""
    type_ = site.type_of(group)
    if isinstance(element_of(type_), PtrType):
        pointee = element(type_).pointee
        assert pointee is not None  # of a pointer
        return pointee, lambda base, indices, where: np.broadcast_to(np.asarray(base), shape)
    geometry = geometry_of(type_, shape)
    if geometry.element.width == 4:
        raise Fault(FaultKind.UNSUPPORTED, f"an access to single elements of {geometry.element.name}")
    size = geometry.element.storage_bytes

    def run(base: Any, indices: tuple, where: np.ndarray | None) -> np.ndarray:
        return element_addresses(site, base, indices, size, shape, where)

    return geometry.element, run


def _where(mask: Array | None, shape: tuple[int, ...]) -> np.ndarray | None:
    return None if mask is None else np.broadcast_to(np.asarray(mask), shape)


def _chosen(addresses: np.ndarray, where: np.ndarray | None) -> np.ndarray:
    """Those of the elements that a mask leaves."""
    return addresses if where is None else np.asarray(addresses)[where]


@effect("nv_tileaa.load", "nv_tileas.load", synchronises=is_strong)
def load(site: Site) -> Run:
    shape = site.shape("value")
    elem, addresses = _addresses(site, "base", shape)
    after, claim = tokens(site), claim_of(site, elem.storage_bytes, writes=False)

    def run(
        block: Any, base: Any, indices: tuple, mask: Array | None, other: Array | None, token: None
    ) -> tuple[Any, ...]:
        where = _where(mask, shape)
        places = addresses(base, indices, where)
        claim(block, lambda: _chosen(places, where))
        loaded = block.memory.gather(places, elem, where)
        if where is not None and other is not None:
            loaded = np.where(where, loaded, other)
        return (loaded[()], *after)

    return run


@effect("nv_tileaa.store", "nv_tileas.store", synchronises=is_strong)
def store(site: Site) -> Run:
    shape = site.shape("value")
    elem, addresses = _addresses(site, "base", shape)
    after, claim = tokens(site), claim_of(site, elem.storage_bytes, writes=True)

    def run(block: Any, base: Any, value: Array, indices: tuple, mask: Array | None, token: None) -> tuple[None, ...]:
        where = _where(mask, shape)
        places = addresses(base, indices, where)
        claim(block, lambda: _chosen(places, where))
        block.memory.scatter(places, value, elem, where)
        _wrote(site, block)
        return after

    return run


def atomic(site: Site, change_of: Callable[..., Any], operands: int) -> Run:
    """An atomic access by address: `change_of(operands as flat arrays)` gives the function of (old values, which)."""
    shape = site.shape("result")
    elem, addresses = _addresses(site, "base", shape)
    after, claim = tokens(site), claim_of(site, elem.storage_bytes, writes=True)

    def run(block: Any, base: Any, *rest: Any) -> tuple[Any, ...]:
        values = [np.broadcast_to(np.asarray(v), shape).reshape(-1) for v in rest[:operands]]
        indices, mask, _ = rest[operands:]
        where = _where(mask, shape)
        old = np.array(values[0])  # what a masked-out element gives is left open
        places = addresses(base, indices, where)
        claim(block, lambda: _chosen(places, where))
        update(block, places, where, elem, change_of(*values), old)
        return (old.reshape(shape)[()], *after)

    return run


@effect("nv_tileaa.atomic_rmw", "nv_tileas.atomic_rmw", synchronises=is_strong)
def atomic_rmw(site: Site) -> Run:
    modify = modification(_mode(site), site.element("value"))
    return atomic(site, lambda operand: lambda values, i: modify(values, operand[i]), 1)


def _mode(site: Site, attribute: str = "rmw_mode") -> str:
    """The modification: `add`, `max` and `min` of floats are those of floats."""
    mode: str = site.attr(attribute)
    return "addf" if mode == "add" and site.element("value").is_float else mode


@effect("nv_tileaa.atomic_cas", "nv_tileas.atomic_cas", synchronises=is_strong)
def atomic_cas(site: Site) -> Run:
    elem = site.element("compare")

    def change_of(expected: np.ndarray, new: np.ndarray) -> Callable[..., Any]:
        def swap(values: np.ndarray, i: np.ndarray) -> np.ndarray:
            return np.where(to_bits(values, elem) == to_bits(expected[i], elem), new[i], values)

        return swap

    return atomic(site, change_of, 2)


@effect("nv_tileaa.alloca")
def alloca(site: Site) -> Run:
    pointee = element(element_of(site.type_of("result"))).pointee
    if pointee is None:
        raise TypeError("alloca gives a pointer")
    size, alignment = site.attr("count") * pointee.storage_bytes, max(site.attr("alignment", 1), 1)

    def run(block: Any) -> Array:
        if size + block.memory.temporary > MAX_ALLOCA:
            raise Fault(FaultKind.OUT_OF_BOUNDS, f"an allocation of {size} bytes cannot be satisfied")
        data = np.full(size, 0xCD, np.uint8)  # its content is arbitrary: a pattern that shows where it is used
        allocation = block.memory.allocate(data, f"an alloca of {size} bytes", alignment=alignment)
        block.memory.temporary += size
        block.allocas.append(allocation)
        return np.int64(allocation.base)

    return run


# -- tiles of views ---------------------------------------------------------------------------------------------------


def load_box(site: Site, group: str, shape: tuple[int, ...], padding: str | None) -> Callable[..., np.ndarray]:
    """The function of block, memref, indices, offsets and a tile that stands out of bounds (or None), that reads the
    tile of a view."""
    geometry = _geometry(site, group, shape)
    access, elem, elements = ViewAccess(geometry), geometry.element, _elements(site, group, geometry)
    fill = padding_bits(elem, padding or geometry.padding or "zero")
    claim = claim_of(site, elem.storage_bytes, writes=False)

    def run(block: Any, view: Any, indices: tuple, offsets: tuple, other: Array | None) -> np.ndarray:
        if isinstance(view, Convolution) or elements is not None:
            if isinstance(view, Convolution):
                addresses, inside = view.addresses(indices, shape, elem.storage_bytes)
            else:
                assert elements is not None
                addresses, inside = elements(view, indices, offsets)
                claim(block, lambda: addresses[inside])
            read = block.memory.gather(addresses, elem, inside)
            return np.where(inside, read, np.full(shape, fill, elem.dtype) if other is None else other)
        box = box_of(site, geometry, view, indices, offsets)
        tile = np.full(geometry.tile, fill, elem.dtype)
        if other is not None:
            tile[...] = np.reshape(other, geometry.tile)
        if not box.empty():
            claim(block, lambda: access.addresses(view, box))
            tile[box.valid] = access.load(block.memory, view, box)
        return tile.reshape(shape)

    return run


def _geometry(site: Site, group: str, shape: tuple[int, ...]) -> Geometry:
    """The geometry of accesses to a view or a memref; that of a convolution's activation has no use for it."""
    type_ = site.type_of(group)
    if isinstance(type_, TiledViewType) and type_.layout.leading:
        type_ = TiledViewType(type_.source, type_.shape)
    return geometry_of(type_, shape, sparse_index(site))


def _elements(site: Site, group: str, geometry: Geometry) -> Callable[[TensorView, tuple, tuple], Elements] | None:
    """The function of memref, indices and offsets that gives a tile's elements one by one, where its dimensions run
    over groups of those of the memref; None for a tile that is a box of it."""
    type_ = site.type_of(group)
    if not isinstance(type_, TiledViewType) or not type_.is_merged or type_.layout.leading:
        return None
    return lambda view, indices, offsets: merged_elements(site, type_, geometry, view, indices, offsets)


def _require_no_convolution(view: Any) -> None:
    if isinstance(view, Convolution):
        raise Fault(FaultKind.UNSUPPORTED, "a write through the view of a convolution's activation")


def store_box(site: Site, group: str, shape: tuple[int, ...]) -> Callable[..., None]:
    """The function of block, memref, indices, offsets, a tile and a mask (or None), that writes what of the tile is in
    bounds, and where the mask is true."""
    geometry = _geometry(site, group, shape)
    access, elements = ViewAccess(geometry), _elements(site, group, geometry)
    claim = claim_of(site, geometry.element.storage_bytes, writes=True)

    def run(block: Any, view: Any, indices: tuple, offsets: tuple, tile: Array, mask: Array | None = None) -> None:
        _require_no_convolution(view)
        if elements is not None:
            addresses, inside = elements(view, indices, offsets)
            chosen = inside if mask is None else inside & np.asarray(mask)
            claim(block, lambda: addresses[chosen])
            block.memory.scatter(addresses, np.reshape(tile, shape), geometry.element, chosen)
            return
        box = box_of(site, geometry, view, indices, offsets)
        if box.empty():
            return
        if mask is None:
            claim(block, lambda: access.addresses(view, box))
        values = np.reshape(tile, geometry.tile)[box.valid]
        if mask is None:
            access.store(block.memory, view, box, values)
            return
        _require_addresses(geometry, "a mask")
        where = np.broadcast_to(np.asarray(mask), shape).reshape(geometry.tile)[box.valid]
        block.memory.scatter(access.addresses(view, box).reshape(where.shape), values, geometry.element, where)

    return run


def _require_addresses(geometry: Geometry, what: str) -> None:
    if geometry.element.width == 4:
        raise Fault(FaultKind.UNSUPPORTED, f"{what} on an access to {geometry.element.name}")


def reduce_box(site: Site, group: str, shape: tuple[int, ...], mode: str) -> Callable[..., np.ndarray]:
    """The function of block, memref, indices, offsets, a tile and a mask (or None), that combines the tile into memory,
    element by element, and gives what was there before (zeros where nothing is combined)."""
    geometry = _geometry(site, group, shape)
    if geometry.element.width == 4:
        raise Fault(FaultKind.UNSUPPORTED, f"atomic access to {geometry.element.name}")
    access, modify = ViewAccess(geometry), modification(mode, geometry.element)
    elements = _elements(site, group, geometry)

    def run(
        block: Any, view: Any, indices: tuple, offsets: tuple, tile: Array, mask: Array | None = None
    ) -> np.ndarray:
        _require_no_convolution(view)
        if elements is not None:
            addresses, inside = elements(view, indices, offsets)
            kept = (inside if mask is None else inside & np.asarray(mask)).reshape(-1)
            values = np.reshape(tile, -1)
            old = np.where(kept, values, np.zeros_like(values))
            update(block, addresses.reshape(-1), kept, geometry.element, lambda now, i: modify(now, values[i]), old)
            return old.reshape(shape)
        box = box_of(site, geometry, view, indices, offsets)
        before = np.zeros(geometry.tile, geometry.element.dtype)
        if not box.empty():
            values = np.reshape(tile, geometry.tile)[box.valid].reshape(-1)
            chosen = None
            if mask is not None:
                chosen = np.broadcast_to(np.asarray(mask), shape).reshape(geometry.tile)[box.valid].reshape(-1)
            old = np.array(values) if chosen is None else np.where(chosen, values, np.zeros_like(values))
            addresses = access.addresses(view, box).reshape(-1)
            update(block, addresses, chosen, geometry.element, lambda now, i: modify(now, values[i]), old)
            before[box.valid] = old.reshape(before[box.valid].shape)
        return before.reshape(shape)

    return run


@effect("nv_tileaa.tiled_load", "nv_tileaa.gather_load", synchronises=is_strong)
def tiled_load(site: Site) -> Run:
    shape, after = site.shape("value"), tokens(site)
    read = load_box(site, "base", shape, site.attr("padding_value"))

    def run(
        block: Any, base: Any, indices: tuple, mask: Array | None, other: Array | None, token: None
    ) -> tuple[Any, ...]:
        value = read(block, base, indices, (), other)
        if mask is not None:
            value = np.where(mask, value, np.zeros((), value.dtype) if other is None else other)
        return (value[()], *after)

    return run


@effect("nv_tileaa.tiled_store", "nv_tileaa.scatter_store", synchronises=is_strong)
def tiled_store(site: Site) -> Run:
    after = tokens(site)
    write = store_box(site, "base", site.shape("value"))

    def run(block: Any, base: Any, value: Array, indices: tuple, mask: Array | None, token: None) -> tuple[None, ...]:
        write(block, base, indices, (), value, mask)
        _wrote(site, block)
        return after

    return run


@effect("nv_tileaa.tiled_atomic_rmw", synchronises=is_strong)
def tiled_atomic_rmw(site: Site) -> Run:
    after = tokens(site)
    combine = reduce_box(site, "base", site.shape("value"), _mode(site))

    def run(block: Any, base: Any, value: Array, indices: tuple, mask: Array | None, token: None) -> tuple[Any, ...]:
        return (combine(block, base, indices, (), value, mask)[()], *after)

    return run


# -- replicated memory, with one replica ------------------------------------------------------------------------------


@effect("nv_tileaa.multimem_load_reduce", "nv_tileas.multimem_load_reduce", synchronises=is_strong)
def multimem_load_reduce(site: Site) -> Run:
    after, read = tokens(site), load_box(site, "base", site.shape("value"), None)
    return lambda block, base, indices, token: (read(block, base, indices, (), None)[()], *after)


@effect("nv_tileaa.multimem_store", "nv_tileas.multimem_store", synchronises=is_strong)
def multimem_store(site: Site) -> Run:
    after, write = tokens(site), store_box(site, "base", site.shape("value"))

    def run(block: Any, base: Any, value: Array, indices: tuple, token: None) -> tuple[None, ...]:
        write(block, base, indices, (), value)
        _wrote(site, block)
        return after

    return run


@effect("nv_tileaa.multimem_reduce", "nv_tileas.multimem_reduce", synchronises=is_strong)
def multimem_reduce(site: Site) -> Run:
    after = tokens(site)
    combine = reduce_box(site, "base", site.shape("value"), _mode(site, "reduction"))

    def run(block: Any, base: Any, value: Array, indices: tuple, token: None) -> tuple[None, ...]:
        combine(block, base, indices, (), value)
        return after

    return run
