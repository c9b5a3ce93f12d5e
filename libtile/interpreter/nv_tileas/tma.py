# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Asynchronous copies, descriptors and barrier objects of nv_tileas.

A copy is done when it starts, and its buffer may not be used before it has been waited for: by its token, by its group,
or at the barrier object that counts its bytes. A descriptor is the memref, the box and what is read out of bounds.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from xdsl.dialects.builtin import i64

from libtile.atoms import tma as atoms
from libtile.dialects.cuda_tile.types import NUMBER_NAMES
from libtile.dialects.nv_tileaa.types import MemRefType, TiledViewType
from libtile.dialects.nv_tileas.attributes import BY_ROWS, CopyAtomAttr
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.dialects.nv_tileas.types import TmaDescType
from libtile.interpreter.atomics import modification, update
from libtile.interpreter.faults import Fault, FaultKind
from libtile.interpreter.formats import Array, Element, element
from libtile.interpreter.inner_rules import WAIT, Run, Site, effect, pure
from libtile.interpreter.nv_tileaa.memory import load_box, tokens
from libtile.interpreter.nv_tileas.buffers import Buffer, Copy
from libtile.interpreter.views import Box, Geometry, TensorView, ViewAccess
from libtile.ir.tile_form import shape_of
from libtile.numerics import tf32
from libtile.numerics.elements import STORAGE_BYTES
from libtile.support.records import dataclass, field, replace
from libtile.targets import tensor_map


@effect("nv_tileas.async.tiled_load")
def tiled_load(site: Site) -> Run:
    after, read = tokens(site), load_box(site, "view", site.shape("buffer"), None)

    def run(block: Any, view: Any, buffer: Buffer, indices: tuple, token: None) -> tuple[Any, ...]:
        copy = Copy("an asynchronous load")
        return (buffer.start(copy, read(block, view, indices, (), None)), *after)

    return run


@effect("nv_tileas.async.load")
def load(site: Site) -> Run:
    """Where the mask is false, zeros are written."""
    after, elem, shape = tokens(site), site.element("buffer"), site.shape("buffer")

    def run(block: Any, base: Array, buffer: Buffer, mask: Array | None, token: None) -> tuple[Any, ...]:
        where = None if mask is None else np.asarray(mask)
        values = block.memory.gather(np.broadcast_to(base, shape), elem, where)
        return (buffer.start(Copy("an asynchronous load"), values), *after)

    return run


@effect("nv_tileas.async.commit_group")
def commit_group(site: Site) -> Run:
    def run(block: Any, copies: tuple[Copy, ...]) -> Copy:
        group = Copy("a group of asynchronous copies", copies)
        block.groups.append(group)
        return group

    return run


# -- descriptors ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Descriptor:
    """A TMA descriptor: the memory, and the box, outermost dimension first. One that the device makes is the hardware's
    128 bytes at an address, whose dimensions are those of the memory in `order`."""

    described: TensorView
    box: tuple[int, ...]
    address: int | None = None
    order: tuple[int, ...] = ()

    def memory(self, block: Any) -> TensorView:
        """What it says now."""
        if self.address is None:
            return self.described
        found = tensor_map.decode_tiled(_words(block, self.address).tobytes())
        size, rank = tensor_map.ELEMENTS[found.element].bits // 8, len(self.order)
        shape, strides = [0] * rank, [1] * rank
        for number, d in enumerate(self.order):
            shape[d] = found.sizes[number]
            strides[d] = found.strides[number - 1] // size if number else 1
        return TensorView(found.address, tuple(shape), tuple(strides))


ADDRESSES = 1 << 64
_WORD = element(i64)


def _places(address: int) -> np.ndarray:
    if address % tensor_map.SIZE:
        problem = f"a descriptor lies at {address:#x}, which is no multiple of {tensor_map.SIZE}"
        raise Fault(FaultKind.MISALIGNED, problem)
    return np.arange(address, address + tensor_map.SIZE, 8, dtype=np.int64)


def _words(block: Any, address: int) -> np.ndarray:
    """The 64-bit words of the descriptor at an address."""
    return np.asarray(block.memory.gather(_places(address), _WORD, None))


@effect("nv_tileas.tensormap_replace")
def tensormap_replace(site: Site) -> Run:
    field, ordinal = site.attr("field"), site.attr("ordinal", 0)

    def run(block: Any, descriptor: Any, value: Any) -> tuple:
        address = descriptor.address if isinstance(descriptor, Descriptor) else int(descriptor)
        if address is None:
            raise Fault(FaultKind.UNSUPPORTED, "a change of a descriptor of the host's, which is constant")
        found = tensor_map.decode_tiled(_words(block, address).tobytes())
        given, sizes, strides = int(value), list(found.sizes), list(found.strides)
        if field == "global_address":
            found = replace(found, address=given)
        elif field == "dim_size":
            sizes[ordinal] = given
        else:
            strides[ordinal - 1] = given
        changed = tensor_map.encode(replace(found, sizes=tuple(sizes), strides=tuple(strides)))
        _write(block, address, changed)
        return ()

    return run


def _write(block: Any, address: int, raw: bytes) -> None:
    block.memory.scatter(_places(address), np.frombuffer(raw, np.int64), _WORD, None)


def _on_device(site: Site, memref: MemRefType, box: tuple[int, ...]) -> Run:
    """The descriptor is written to memory."""
    layout, atom, name = site.attr("layout"), site.attr("atom"), NUMBER_NAMES[memref.element_type]
    inside = atoms.map_element(name, NUMBER_NAMES[site.op.properties.get("tma_internal_type", memref.element_type)])
    dense, size = atoms.contiguous_dim(memref.strides), STORAGE_BYTES[name]
    if dense is None or not isinstance(layout, LayoutAttr):
        raise Fault(FaultKind.UNSUPPORTED, "a descriptor of the device's without a layout or a dense dimension")
    by_rows = atom.mode in BY_ROWS
    find = atoms.row_boxes if by_rows else partial(atoms.boxes, rows=atoms.rows_of(box))
    boxes = find(layout.layout, dense, size)
    if isinstance(boxes, str):
        raise Fault(FaultKind.UNSUPPORTED, boxes)

    def run(block: Any, tensor: TensorView, place: Array | None) -> Descriptor:
        made = tensor_map.TiledMap(
            tensor.base,
            inside,
            tuple(tensor.shape[d] for d in boxes.order),
            tuple(tensor.strides[d] * size for d in boxes.order[1:]),
            boxes.box,
            swizzle=boxes.swizzle.name,
        )
        assert place is not None
        _write(block, int(place), tensor_map.encode(made))
        return Descriptor(tensor, tuple(reversed(box)), int(place), boxes.order)

    return run


@effect("nv_tileas.make_tiled_tma_desc")
def make_tiled_tma_desc(site: Site) -> Run:
    type_, result = site.type_of("tensor"), site.type_of("result")
    source = type_.source if isinstance(type_, TiledViewType) else type_
    if not isinstance(source, MemRefType) or not isinstance(result, TmaDescType):
        raise Fault(FaultKind.UNSUPPORTED, f"a descriptor of {type_}")
    atom = site.attr("atom")
    if isinstance(atom, CopyAtomAttr) and atom.mode not in (None, "tiled", "store", "reduce", "gather4", "scatter4"):
        raise Fault(FaultKind.UNSUPPORTED, f"a descriptor of mode '{atom.mode}'")
    if site.attr("on_device"):
        return _on_device(site, source, result.box)
    return lambda block, tensor, descriptor: Descriptor(tensor, tuple(reversed(result.box)))


def _geometry(site: Site, shape: tuple[int, ...]) -> Geometry:
    """A tile of this shape of what a descriptor describes, at coordinates in elements, outermost first; coordinates
    along one dimension may be a tile of rows."""
    descriptor = site.type_of("descriptor")
    if not isinstance(descriptor, TmaDescType) or not isinstance(descriptor.memref, MemRefType):
        raise Fault(FaultKind.UNSUPPORTED, f"a copy through {descriptor}")
    rank = descriptor.memref.rank
    assert hasattr(site.op, "group")
    rows = [n for n, v in enumerate(site.op.group("indices")) if shape_of(v.type)]
    whole = (1,) * (rank - len(shape)) + shape
    elem = element(descriptor.memref.element_type)
    return Geometry(whole, tuple(range(rank)), (1,) * rank, rows[0] if rows else None, None, elem)


def _box(geometry: Geometry, view: TensorView, indices: tuple) -> tuple[Box, tuple[int, ...]]:
    """The part of a tile in bounds, and where in the tile it begins: coordinates may be negative. Addresses are of 64
    bits, beyond which they begin anew."""
    starts: list[Any] = []
    skipped = []
    for t, value in enumerate(indices):
        size = view.shape[t]
        if t == geometry.sparse:
            rows = np.asarray(value).astype(np.int64)
            starts.append(np.where((rows < 0) | (rows >= size), -1, rows))
            skipped.append(0)
        else:
            start = int(value)
            skipped.append(min(max(-start, 0), geometry.tile[t]))
            starts.append(min(max(start, 0), size))
    tile = tuple(n - s for n, s in zip(geometry.tile, skipped))
    inner = Geometry(tile, geometry.dims, geometry.steps, geometry.sparse, None, geometry.element)
    box = Box.of(inner, view, starts)
    return replace(box, first=box.first % (ADDRESSES // geometry.element.storage_bytes)), tuple(skipped)


def _place(box: Box, skipped: tuple[int, ...]) -> tuple[Any, ...]:
    """Where the part lies in the whole tile."""
    return tuple(
        slice(part.start + s, part.stop + s) if isinstance(part, slice) and part.start is not None else part
        for part, s in zip(box.valid, skipped)
    )


def _bytes(shape: tuple[int, ...], elem: Element) -> int:
    return int(np.prod(shape)) * elem.storage_bits // 8


@effect("nv_tileas.async.tiled_tma_load", "nv_tileas.async.gather_tma_load")
def tma_load(site: Site) -> Run:
    """Out of bounds, zeros are written. The barrier object counts the bytes of the whole tile, all of which a CTA of a
    cluster copies to itself here: the others copy the same."""
    shape, elem = site.shape("buffer"), site.element("buffer")
    dims = _dims(site, shape)
    geometry = _geometry(site, tuple(shape[d] for d in np.argsort(dims)))
    access, rounds = ViewAccess(geometry), (geometry.element.name, elem.name) == ("f32", "tf32")
    count = _bytes(shape, elem)

    def run(block: Any, descriptor: Descriptor, indices: tuple, buffer: Buffer, mbarrier: MBarrier | None) -> Copy:
        memory = descriptor.memory(block)
        box, skipped = _box(geometry, memory, indices)
        tile = np.zeros(geometry.tile, elem.dtype)
        if not box.empty():
            tile[_place(box, skipped)] = access.load(block.memory, memory, box)
        if rounds:
            tile = tf32.nearest(tile.view(np.uint32)).view(np.float32)
        values = tile.reshape(np.array(shape)[np.argsort(dims)]).transpose(dims)
        copy = buffer.start(Copy("a TMA load", outlives=True), values)
        if mbarrier is not None:
            mbarrier.transfer(copy, count)
        return copy

    return run


def _dims(site: Site, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The place of each dimension of the buffer in the order of the tensor's, which may have more."""
    given = site.attr("dim_map")
    return tuple(map(int, np.argsort(np.argsort(given)))) if given is not None else tuple(range(len(shape)))


def _store(site: Site, combine: str | None) -> Run:
    shape = site.shape("buffer")
    dims = _dims(site, shape)
    geometry = _geometry(site, tuple(shape[d] for d in np.argsort(dims)))
    access, elem = ViewAccess(geometry), geometry.element
    modify = None if combine is None else modification(combine, elem)

    def run(block: Any, descriptor: Descriptor, indices: tuple, buffer: Buffer, token: None) -> Copy:
        copy = Copy("a TMA store")
        tile = buffer.start_reading(copy).transpose(np.argsort(dims)).reshape(geometry.tile)
        memory = descriptor.memory(block)
        box, skipped = _box(geometry, memory, indices)
        if box.empty():
            return copy
        part = tile[_place(box, skipped)]
        if modify is None:
            access.store(block.memory, memory, box, part)
        else:
            values = part.reshape(-1)
            addresses = access.addresses(memory, box)
            update(block, addresses, None, elem, lambda now, i: modify(now, values[i]), np.array(values))
        return copy

    return run


@effect("nv_tileas.async.tiled_tma_store", "nv_tileas.async.scatter_tma_store")
def tma_store(site: Site) -> Run:
    return _store(site, None)


@effect("nv_tileas.async.tiled_atomic_rmw")
def tma_reduce(site: Site) -> Run:
    mode = site.attr("rmw_mode")
    return _store(site, "addf" if mode == "add" and site.element("buffer").is_float else mode)


# -- barrier objects --------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class MBarrier:
    """Counts arrivals and bytes: a phase is complete when all arrivals came and all expected bytes were transferred."""

    arrivals: int
    phase: int = 0
    arrived: int = 0
    expected: int = 0
    copies: list[Copy] = field(default_factory=list)

    def arrive(self, count: int) -> None:
        self.arrived += 1
        self.expected += count
        self._advance()

    def transfer(self, copy: Copy, count: int) -> None:
        """A copy of so many bytes reports to the barrier."""
        self.copies.append(copy)
        self.expected -= count
        self._advance()

    def _advance(self) -> None:
        if self.arrived == self.arrivals and self.expected == 0:
            self.phase += 1
            self.arrived = 0

    def complete(self, parity: int) -> bool:
        """Whether the phase of this parity is complete: the one that goes on has the other parity."""
        if self.phase & 1 == parity:
            return False
        for copy in self.copies:
            copy.finish()
        self.copies.clear()
        return True


@pure("nv_tileas.create_mbarrier")
def create_mbarrier(site: Site) -> Run:
    arrivals = site.attr("arrivals", 1)
    return lambda: MBarrier(arrivals)


@pure("nv_tileas.mbarrier_arrive")
def mbarrier_arrive(site: Site) -> Run:
    count = site.attr("tx_count", 0)

    def run(mbarrier: MBarrier) -> tuple:
        mbarrier.arrive(count)
        return ()

    return run


@effect("nv_tileas.mbarrier_wait", waits=True)
def mbarrier_wait(site: Site) -> Run:
    """Without a parity, for the first phase."""

    def run(block: Any, mbarrier: MBarrier, parity: Array | None) -> Any:
        return () if mbarrier.complete(0 if parity is None else int(parity) & 1) else WAIT

    return run


@pure("nv_tileas.fence_proxy")
def fence_proxy(site: Site) -> Run:
    """All proxies see one memory here."""
    return lambda descriptor: ()


@pure("nv_tileas.invalidate_mbarrier")
def invalidate_mbarrier(site: Site) -> Run:
    """Nothing is put in its place here."""
    return lambda mbarrier: ()
