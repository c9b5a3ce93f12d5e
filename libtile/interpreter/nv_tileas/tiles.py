# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tiles and buffers of nv_tileas. A conversion of layouts or a shuffle leaves the elements what they are."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from libtile.interpreter.core import bytes_of, from_bytes
from libtile.interpreter.faults import Fault, FaultKind
from libtile.interpreter.formats import Array
from libtile.interpreter.inner_rules import Run, Site, pure
from libtile.interpreter.nv_tileas.buffers import Buffer
from libtile.ir.tile_form import Storage


@pure("nv_tileas.alloc_tensor")
def alloc_tensor(site: Site) -> Run:
    elem, shape = site.element("result"), site.shape("result")
    return lambda pipeline: Buffer.new(elem, shape)


@pure("nv_tileas.convert_layout", "nv_tileas.shuffle")
def rearrange(site: Site) -> Run:
    """The same tile; a buffer is read, and a buffer as result is a new one that holds it."""
    elem, shape, stored = site.element("result"), site.shape("result"), isinstance(site.type_of("result"), Storage)

    def run(source: Any) -> Any:
        value = source.read() if isinstance(source, Buffer) else source
        if not stored:
            return value[()] if isinstance(value, np.ndarray) else value
        made = Buffer.new(elem, shape)
        made.write(value)
        return made

    return run


@pure("nv_tileas.copy")
def copy(site: Site) -> Run:
    offsets = site.attr("offsets", None)

    def part(buffer: Buffer, shape: tuple[int, ...]) -> Buffer:
        return buffer.part(tuple(slice(first, first + size) for first, size in zip(offsets, shape)), shape)

    def run(source: Any, destination: Buffer | None) -> tuple[Any, ...]:
        if offsets is not None and destination is None:
            source = part(source, site.shape("result"))
        elif offsets is not None and destination is not None:
            destination = part(destination, np.shape(source))
        value = source.read() if isinstance(source, Buffer) else source
        if destination is None:
            return (value[()] if isinstance(value, np.ndarray) else value,)
        destination.write(value)
        return ()

    return run


@pure("nv_tileas.reinterpret")
def reinterpret(site: Site) -> Run:
    """The same bits, row by row, as elements of another type or shape; of a buffer the first ones that this takes."""
    source, result, shape = site.element("source"), site.element("result"), site.shape("result")
    if isinstance(site.type_of("result"), Storage) and source.dtype.itemsize != result.dtype.itemsize:
        raise Fault(FaultKind.UNSUPPORTED, f"a buffer of {source.name} as one of {result.name}, of another width")

    def run(value: Any) -> Any:
        if isinstance(value, Buffer):
            return value.seen_as(result).first(shape)
        seen = from_bytes(bytes_of(np.reshape(value, -1), source), result)
        return seen[: prod(shape)].reshape(shape)[()]  # bits fill up their last byte

    return run


def _box(site: Site, whole: tuple[int, ...], part: tuple[int, ...], indices: tuple) -> tuple[slice, ...]:
    """The box of a slice: constant offsets, and run-time ones on top. A fault when it leaves the whole."""
    offsets = site.attr("offsets")
    strides = site.attr("strides") or (1,) * len(offsets)
    moved = [int(i) for i in indices] + [0] * (len(offsets) - len(indices))
    box = []
    for dim, (offset, more, stride, size, limit) in enumerate(zip(offsets, moved, strides, part, whole)):
        start = offset + more
        if start < 0 or start + (size - 1) * stride >= limit:
            raise Fault(FaultKind.INDEX, f"the slice from {start} on leaves dimension {dim} of {limit}", (dim,))
        box.append(slice(start, start + (size - 1) * stride + 1, stride))
    return tuple(box)


@pure("nv_tileas.extract_slice")
def extract_slice(site: Site) -> Run:
    whole, shape = site.shape("source"), site.shape("result")
    part = (1,) * (len(whole) - len(shape)) + shape

    def run(source: Any, indices: tuple) -> Any:
        box = _box(site, whole, part, indices)
        return source.part(box, shape) if isinstance(source, Buffer) else np.asarray(source)[box].reshape(shape)[()]

    return run


@pure("nv_tileas.insert_slice")
def insert_slice(site: Site) -> Run:
    whole, shape = site.shape("destination"), site.shape("source")
    part = (1,) * (len(whole) - len(shape)) + shape

    def run(source: Any, destination: Any, indices: tuple) -> Any:
        box = _box(site, whole, part, indices)
        value = np.reshape(source.read() if isinstance(source, Buffer) else source, part)
        if isinstance(destination, Buffer):
            destination.write(value, box)
            return destination
        result: Array = np.array(destination)
        result[box] = value
        return result[()]

    return run


@pure("nv_tileas.barrier", "nv_tileas.cluster_barrier", "nv_tileas.take_turn", "nv_tileas.hand_on_turn")
def barrier(site: Site) -> Run:
    """An agent's threads run as one here, so that they are together at all times, and its warpgroups take no turns."""
    return lambda: ()
