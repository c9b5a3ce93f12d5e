# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Atomic read-modify-writes. Elements of one op that share an address are done one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from libtile.interpreter import rounding
from libtile.interpreter.accesses import Accesses, is_strong, require_active
from libtile.interpreter.faults import Fault, FaultKind
from libtile.interpreter.formats import Array, Element, to_bits
from libtile.interpreter.integer import unsigned, wrap
from libtile.interpreter.rules import Run, Site, effect
from libtile.interpreter.views import (
    Box,
    Geometry,
    TensorView,
    ViewAccess,
    index_elements,
    load_view_tko,
    store_view_tko,
)

Modify = Callable[[np.ndarray, np.ndarray], np.ndarray]


def modification(mode: str, elem: Element) -> Modify:
    """What a mode makes of the value in memory and the operand."""

    def by_unsigned(operation: Modify) -> Modify:
        return lambda x, y: wrap(operation(unsigned(x, elem), unsigned(y, elem)), elem)

    table: dict[str, Modify] = {
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
        "add": np.add,
        "addf": lambda x, y: rounding.add(x, y, elem, "nearest_even"),
        "max": np.maximum,
        "min": np.minimum,
        "umax": by_unsigned(np.maximum),
        "umin": by_unsigned(np.minimum),
        "xchg": lambda x, y: y,
    }
    return table[mode]


def _rounds(addresses: np.ndarray, where: np.ndarray | None) -> list[np.ndarray]:
    """Flat indices of the active elements, in groups without a repeated address, in row-major order for each."""
    flat = addresses.reshape(-1)
    active = np.arange(flat.size) if where is None else np.flatnonzero(where.reshape(-1))
    order = active[np.argsort(flat[active], kind="stable")]
    ordered = flat[order]
    if not ordered.size:
        return []
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    occurrence = np.arange(ordered.size) - np.repeat(starts, np.diff(np.r_[starts, ordered.size]))
    return [order[occurrence == k] for k in range(int(occurrence.max()) + 1)]


def update(block: Any, addresses: np.ndarray, where: np.ndarray | None, elem: Element,
           change: Callable[[np.ndarray, np.ndarray], np.ndarray], old: np.ndarray) -> None:  # fmt: skip
    """Read each active element into `old` (flat), and write what `change(old values, flat indices)` gives.

    Only a write of other bits is progress for those who wait: the memory's version tells.
    """
    flat = addresses.reshape(-1)
    block.memory.locate(addresses, elem.storage_bytes, where)
    for indices in _rounds(addresses, where):
        here = flat[indices]
        values = block.memory.gather(here, elem, None)
        old[indices] = values
        changed = change(values, indices)
        block.memory.scatter(here, changed, elem, None)
        if not np.array_equal(to_bits(changed, elem), to_bits(values, elem)):
            block.memory.version += 1


@effect("atomic_rmw_tko", accepts_undefined=("pointers", "arg"), synchronises=is_strong)
def atomic_rmw_tko(site: Site) -> Run:
    elem = site.element("arg")
    accesses = Accesses.of(site, elem, reads=True, writes=True)
    modify = modification(site.attr("mode"), elem)

    def run(block: Any, pointers: Array, arg: Array, mask: Array | None, token: Any,
            undefined: tuple = ()) -> tuple[Array, Any]:  # fmt: skip
        addresses = np.asarray(pointers)
        where = None if mask is None else np.asarray(mask)
        for unset in undefined:
            require_active(unset, where, "an operand")
        operand = np.asarray(arg).reshape(-1)
        # What a masked-out element gives is left to the implementation: here its operand.
        old = np.array(operand)
        update(block, addresses, where, elem, lambda values, i: modify(values, operand[i]), old)
        return old.reshape(addresses.shape)[()], accesses.ordered(block, addresses, where, token)

    return run


@effect("atomic_cas_tko", accepts_undefined=("pointers", "cmp", "val"), synchronises=is_strong)
def atomic_cas_tko(site: Site) -> Run:
    elem = site.element("val")
    accesses = Accesses.of(site, elem, reads=True, writes=True)

    def run(block: Any, pointers: Array, cmp: Array, val: Array, mask: Array | None, token: Any,
            undefined: tuple = ()) -> tuple[Array, Any]:  # fmt: skip
        addresses = np.asarray(pointers)
        where = None if mask is None else np.asarray(mask)
        for unset in undefined:
            require_active(unset, where, "an operand")
        expected, new = np.asarray(cmp).reshape(-1), np.asarray(val).reshape(-1)
        old = np.array(expected)

        def swap(values: np.ndarray, i: np.ndarray) -> np.ndarray:
            equal = to_bits(values, elem) == to_bits(expected[i], elem)
            return np.where(equal, new[i], values)

        update(block, addresses, where, elem, swap, old)
        return old.reshape(addresses.shape)[()], accesses.ordered(block, addresses, where, token)

    return run


def _reduce_into(site: Site, mode: str) -> Callable[..., Any]:
    """The function that reduces a tile into the tile of a view."""
    geometry = Geometry.of(site.type_of("view"))
    if geometry.element.width == 4:
        raise Fault(FaultKind.UNSUPPORTED, f"atomic access to {geometry.element.name}")
    access, elems = ViewAccess(geometry), index_elements(site)
    accesses = Accesses.of(site, geometry.element, reads=True, writes=True)
    modify = modification(mode, geometry.element)

    def run(block: Any, view: TensorView, index: tuple, tile: Array, token: Any, undefined: tuple = (None,)) -> Any:
        box = Box.of(geometry, view, geometry.starts(site, view, index, elems))
        if box.empty():
            return token
        if undefined[0] is not None:
            require_active(undefined[0][box.valid], None, "an operand")
        addresses = access.addresses(view, box)
        values = np.asarray(tile)[box.valid].reshape(-1)
        update(block, addresses, None, geometry.element, lambda old, i: modify(old, values[i]), np.array(values))
        return accesses.ordered(block, addresses, None, token)

    return run


@effect("atomic_red_view_tko", accepts_undefined=("value",), synchronises=is_strong)
def atomic_red_view_tko(site: Site) -> Run:
    return _reduce_into(site, site.attr("mode"))


# -- multimem: the ops on an object that several devices share, with one device in it -------------------------------


def _mode(site: Site) -> str:
    """The modification of the same name; `add` of floats is `addf`."""
    mode = site.attr("reduction")
    if mode == "add" and Geometry.of(site.type_of("view")).element.is_float:
        return "addf"
    return mode


@effect("multimem_reduce_view_tko", accepts_undefined=("tile",), synchronises=is_strong)
def multimem_reduce_view_tko(site: Site) -> Run:
    reduce = _reduce_into(site, _mode(site))
    return lambda block, view, tile, index, token, undefined=(None,): reduce(
        block, view, index, tile, token, undefined=undefined
    )


@effect("multimem_load_reduce_view_tko", yields_mask=True, synchronises=is_strong)
def multimem_load_reduce_view_tko(site: Site) -> Run:
    """The reduction over one device's copy is that copy."""
    return load_view_tko(site)


@effect("multimem_store_view_tko", accepts_undefined=("tile",), synchronises=is_strong)
def multimem_store_view_tko(site: Site) -> Run:
    """A store to one device's copy."""
    store = store_view_tko(site)
    return lambda block, view, tile, index, token, undefined=(None,): store(
        block, tile, view, index, token, undefined=undefined
    )
