# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ops of nv_tileaa that make tiles and change their shape. Those of nv_tileas that mean the same are here as well: what
they take may be a buffer (`libtile.interpreter.nv_tileas.buffers`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from libtile.dialects.cuda_tile.attributes import DenseElementsAttr
from libtile.interpreter.faults import Fault, FaultKind
from libtile.interpreter.formats import Array, constant_values
from libtile.interpreter.inner_rules import Run, Site, pure, same
from libtile.interpreter.integer import wrap
from libtile.interpreter.nv_tileas.buffers import Buffer

same("nv_tileaa.permute", "permute")
same("nv_tileaa.cat", "cat")


@pure("nv_tileaa.constant", elementwise=True)
def constant(site: Site) -> Run:
    dense = site.attr("value")
    assert isinstance(dense, DenseElementsAttr)  # the class declares it so
    values, shape = constant_values(dense.raw, site.element("result")), site.shape("result")
    held = (np.broadcast_to(values.reshape(()), shape) if dense.is_splat else values.reshape(shape))[()]
    return lambda: held


@pure("nv_tileaa.splat", elementwise=True)
def splat(site: Site) -> Run:
    shape = site.shape("result")
    if not shape:
        return lambda source: np.asarray(source).reshape(-1)[0] if np.size(source) == 1 else source
    return lambda source: np.broadcast_to(np.asarray(source).reshape(()), shape)


@pure("nv_tileaa.broadcast")
def broadcast(site: Site) -> Run:
    shape = site.shape("result")
    return lambda source: np.broadcast_to(source, shape)


@pure("nv_tileaa.expand_dims", "nv_tileaa.view", "nv_tileas.expand_dims", "nv_tileas.view")
def reshape(site: Site) -> Run:
    shape = site.shape("result")
    return lambda source: source.reshaped(shape) if isinstance(source, Buffer) else np.reshape(source, shape)[()]


@pure("nv_tileaa.make_range")
def make_range(site: Site) -> Run:
    (size,) = site.shape("result")
    start = site.attr("start", 0)
    value = wrap(np.arange(start, start + size), site.element("result"))
    return lambda: value


def _part(site: Site, whole: tuple[int, ...], part: tuple[int, ...], indices: tuple) -> tuple[slice, ...]:
    """The box of the part with these indices, counted in parts. A fault when there is none such."""
    starts = []
    for dim, (index, size, count) in enumerate(zip(indices, part, whole)):
        number = int(index)
        if not 0 <= number < count // size:
            if site.on("index"):
                raise Fault(
                    FaultKind.INDEX, f"index {number} of dimension {dim} is not less than {count // size}", (dim,)
                )
            number %= count // size
        starts.append(slice(number * size, (number + 1) * size))
    return tuple(starts)


@pure("nv_tileaa.extract")
def extract(site: Site) -> Run:
    whole, part = site.shape("source"), site.shape("result")
    parts = part or (1,) * len(whole)

    def run(source: Array, indices: tuple) -> Array:
        return np.asarray(source)[_part(site, whole, parts, indices)].reshape(part)[()]

    return run


@pure("nv_tileaa.insert_slice")
def insert_slice(site: Site) -> Run:
    whole = site.shape("destination")
    parts = site.shape("source") or (1,) * len(whole)

    def run(source: Array, destination: Array, indices: tuple) -> Array:
        result = np.array(destination)
        result[_part(site, whole, parts, indices)] = source
        return result[()]

    return run


@pure("nv_tileaa.extract_slice")
def extract_slice(site: Site) -> Run:
    offsets, part = site.attr("offsets"), site.shape("result")
    strides = site.attr("strides") or (1,) * len(offsets)
    box = tuple(slice(o, o + (n - 1) * s + 1, s) for o, n, s in zip(offsets, part, strides))
    return lambda source: np.asarray(source)[box]


@pure("nv_tileaa.generate", "nv_tileas.generate")
def generate(site: Site) -> Run:
    """The region is a function of the index along each axis, and then of the captured values."""
    shape, elem = site.shape("result"), site.element("result")
    rank = len(shape)

    def run(body: Run, captured: tuple[Any, ...]) -> Array:
        if site.body_is_elementwise and all(np.ndim(c) == 0 for c in captured):
            grid = np.indices(shape, np.int64)
            (value,) = body(*(grid[axis] for axis in range(rank)), *captured)
            return np.array(np.broadcast_to(value, shape))
        result = np.empty(shape, elem.dtype)
        for index in np.ndindex(shape):
            (result[index],) = body(*map(np.int64, index), *captured)
        return result

    return run
