# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where the elements of a tile lie in memory: the geometry of tiled views, memrefs and pointers.

An access through a view names a tile by an index for each of its dimensions; along the sparse dimension that is a tile
of element indices. An access to a memref itself names the first element of the box; where an index is a tile, each of
its elements names an element of its own. What of a tile lies outside of the memref is padding for a load, and left out
by a store.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from xdsl.ir import Attribute

from libtile.dialects.nv_tileaa.types import MemRefType, TiledViewType
from libtile.interpreter.faults import Fault, FaultKind
from libtile.interpreter.formats import element
from libtile.interpreter.inner_rules import Site
from libtile.interpreter.views import Box, Geometry, TensorView, check_wrapping
from libtile.ir.tile_form import TileOp, shape_of


def geometry_of(view: Attribute, tile: tuple[int, ...], sparse: int | None = None) -> Geometry:
    """The geometry of accesses to tiles of a view, or of a memref, whose boxes have the shape `tile`; a tile of indices
    of a memref may select along the dimension `sparse`."""
    if isinstance(view, MemRefType):
        if len(tile) > view.rank:
            raise Fault(FaultKind.UNSUPPORTED, f"a tile of {len(tile)} dimensions in a memref of {view.rank}")
        whole = (1,) * (view.rank - len(tile)) + tile
        return Geometry(whole, tuple(range(view.rank)), (1,) * view.rank, sparse, None, element(view.element_type))
    if not isinstance(view, TiledViewType) or not isinstance(view.source, MemRefType) or view.layout.leading:
        raise Fault(FaultKind.UNSUPPORTED, f"an access through {view}")
    layout = view.layout
    steps = view.traversal_strides
    elem = element(view.source.element_type)
    return Geometry(view.shape, view.dim_map, steps, layout.sparse_dim, layout.padding, elem)


def sparse_index(site: Site) -> int | None:
    """The dimension of a memref along which a tile of indices selects; None where all of them are scalars."""
    assert isinstance(site.op, TileOp)
    return next((n for n, value in enumerate(site.op.group("indices")) if shape_of(value.type)), None)


def tile_counts(view: TiledViewType, memref: TensorView) -> tuple[int, ...]:
    """How many tiles there are along each dimension of a view."""
    sizes = (prod(memref.shape[d] for d in group) for group in view.groups)
    return tuple(-(-size // step) for size, step in zip(sizes, view.traversal_strides))


def box_of(site: Site, geometry: Geometry, view: TensorView, indices: tuple, offsets: tuple = ()) -> Box:
    """The part of a tile that lies inside of the memref. `offsets` are added to where the indices point, in elements.

    A fault for an index outside of the index space (a check of its own: `view-range` for loads with padding,
    `load-range` for those without, `store-range` for the others) but along dimensions that are said to be `outside`,
    and for a tile that is said to be in bounds and is not.
    """
    return Box.of(geometry, view, _starts(site, geometry, [view.shape[d] for d in geometry.dims], indices, offsets))


def _starts(site: Site, geometry: Geometry, sizes: list[int], indices: tuple, offsets: tuple) -> list[Any]:
    """Where a tile starts along each of its dimensions, which have these sizes; all positions, and -1 for one outside,
    along the sparse one."""
    starts: list[Any] = []
    bounds = site.attr("in_bounds") or ()
    moved = [*(int(o) for o in offsets), *[0] * (len(indices) - len(offsets))]
    for t, (value, size) in enumerate(zip(indices, sizes, strict=True)):
        promised = t < len(bounds) and bool(bounds[t])
        if t == geometry.sparse:
            positions = _without_sign(np.asarray(value)).astype(np.int64) + moved[t]
            outside = (positions < 0) | (positions >= size)
            starts.append(np.where(outside, -1, positions))
            reaches = bool(outside.any())
        else:
            start = int(value) * geometry.steps[t] + moved[t]
            check = "load-range" if geometry.padding is None else "view-range"
            if (start < 0 or start >= size) and t not in (site.attr("outside") or ()):
                if site.on(check if site.op.name.endswith("load") else "store-range"):
                    message = f"index {int(value)} of dimension {t} is outside of {size} elements"
                    raise Fault(FaultKind.INDEX, message, (t,))
                if site.on("overflow"):
                    check_wrapping(t, start, size)
            starts.append(size if start < 0 else min(start, size))
            reaches = start + geometry.tile[t] > size
        if promised and reaches and site.on("index"):
            raise Fault(
                FaultKind.INDEX, f"the tile reaches beyond size {size} of dimension {t}, said to be in bounds", (t,)
            )
    return starts


def _without_sign(numbers: np.ndarray) -> np.ndarray:
    """Indices of a tile, which are read as unsigned: narrow ones are extended by zeros."""
    return numbers.view(f"u{numbers.itemsize}") if numbers.dtype.kind == "i" and numbers.itemsize < 8 else numbers


Elements = tuple[np.ndarray, np.ndarray]
"""The byte address of each element of a tile, and which of them are inside of what is viewed."""


def over_groups(
    groups: tuple[tuple[int, ...], ...], extents: tuple[int, ...], positions: list[np.ndarray], ends: bool = True
) -> tuple[list[np.ndarray], np.ndarray]:
    """Where elements lie along each dimension of what is viewed, for positions along the dimensions of their tile, of
    which each runs over a group of dimensions with these extents, the last one fastest; and which of them exist (all
    along a single dimension, unless that `ends` at its extent)."""
    along: list[np.ndarray] = [np.zeros((), np.int64)] * len(extents)
    inside, rank = np.ones((1,) * len(groups), bool), len(groups)
    for t, (group, position) in enumerate(zip(groups, positions, strict=True)):
        sizes = tuple(extents[d] for d in group)
        shape = [1] * rank
        shape[t] = -1
        if len(group) == 1 and not ends:
            along[group[0]] = position.reshape(shape)
            continue
        exists = (position >= 0) & (position < prod(sizes))
        inside = inside & exists.reshape(shape)
        found = np.unravel_index(np.where(exists, position, 0), sizes) if all(sizes) else [0 * position] * len(group)
        for dim, places in zip(group, found, strict=True):
            along[dim] = np.asarray(places, np.int64).reshape(shape)
    return along, inside


def merged_elements(
    site: Site, type_: TiledViewType, geometry: Geometry, view: TensorView, indices: tuple, offsets: tuple
) -> Elements:
    """The elements of a tile that runs over groups of dimensions of a memref; checked as by `box_of`."""
    if geometry.element.width == 4:
        raise Fault(FaultKind.UNSUPPORTED, f"a tile over groups of dimensions of {geometry.element.name}")
    sizes = [prod(view.shape[d] for d in group) for group in type_.groups]
    starts = _starts(site, geometry, sizes, indices, offsets)
    positions = [
        np.asarray(start) if t == geometry.sparse else start + np.arange(geometry.tile[t], dtype=np.int64)
        for t, start in enumerate(starts)
    ]
    along, inside = over_groups(type_.groups, view.shape, positions)
    total = np.zeros(type_.shape, np.int64)
    for position, stride in zip(along, view.strides, strict=True):
        total = total + position * stride
    return view.base + total * geometry.element.storage_bytes, np.broadcast_to(inside, type_.shape)


def element_addresses(
    site: Site, view: TensorView, indices: tuple, size: int, shape: tuple[int, ...], where: np.ndarray | None
) -> np.ndarray:
    """The byte address of each element that indices name in a memref: one where they are scalars and the access is of
    one element, each element of a box from there on, or one for each element of tiles of indices.

    A fault for an index outside of the memref where the access is active.
    """
    grids: list[np.ndarray] = []
    gathers = any(np.ndim(i) for i in indices)
    for dim, index in enumerate(indices):
        position = np.asarray(index).astype(np.int64)
        axis = dim - (len(indices) - len(shape))
        if not gathers and axis >= 0:
            extent = [1] * len(shape)
            extent[axis] = -1
            position = position + np.arange(shape[axis], dtype=np.int64).reshape(extent)
        bad = np.broadcast_to((position < 0) | (position >= view.shape[dim]), shape)
        bad = bad if where is None else bad & where
        if bad.any():
            first = tuple(int(i) for i in np.argwhere(bad)[0])
            message = (
                f"index {np.broadcast_to(position, shape)[first]} of dimension {dim} is not below {view.shape[dim]}"
            )
            raise Fault(FaultKind.OUT_OF_BOUNDS, message, first)
        grids.append(position * view.strides[dim])
    total = np.zeros(shape, np.int64)
    for grid in grids:
        total = total + grid
    return view.base + total * size
