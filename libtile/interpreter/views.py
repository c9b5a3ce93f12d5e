# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tensor views and the tile views over them.

A tile of a view is a box of the tensor, cut off at the tensor's edges. Along tensor dimension `d` it is described by
the element indices that its positions stand for; elements that lie outside are padding for a load and left out of a
store. A tile dimension `t` runs along tensor dimension `dim_map[t]`; indices come in the order of tile dimensions.

    partition_view        index i starts at i * tile
    strided_view          index i starts at i * traversal_stride
    gather_scatter_view   the sparse dimension's index is a tile of element indices; others are first elements
"""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase

from libtile.dialects.cuda_tile.attributes import OUTSIDE_ATTRIBUTE
from libtile.dialects.cuda_tile.types import (
    DYNAMIC,
    GatherScatterViewType,
    PartitionViewType,
    StridedViewType,
    TensorViewType,
    TileViewType,
)
from libtile.interpreter.accesses import Accesses, define_bytes, is_strong, undefined_bytes
from libtile.interpreter.address_space import Memory
from libtile.interpreter.faults import Fault, FaultKind
from libtile.interpreter.formats import ELEMENTS, Array, Element, from_bits, to_bits
from libtile.interpreter.formats import element as element_of
from libtile.interpreter.integer import unsigned, wrap
from libtile.interpreter.rules import Mask, Run, Site, effect, pure
from libtile.support.records import dataclass

MAX_OFFSET = 2**63 - 1
"""Addresses are signed in numpy; nothing is mapped beyond this one."""


@dataclass(frozen=True, slots=True)
class TensorView:
    """A strided tensor in memory: address, and shape and strides in elements."""

    base: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


# -- making views ---------------------------------------------------------------------------------------------------


@pure("make_tensor_view", elementwise=False)
def make_tensor_view(site: Site) -> Run:
    type_ = site.type_of("result")
    if not isinstance(type_, TensorViewType):
        raise TypeError("make_tensor_view makes a tensor view")
    sizes, strides = type_.shape, type_.strides
    operands = site.op.operand_group("dynamicShape") or site.op.operand_group("dynamicStrides")
    elem = element_of(operands[0].type) if operands else None

    def fill(static: tuple[int, ...], dynamic: tuple) -> tuple[int, ...]:
        if elem is None:
            return static
        values = iter(dynamic)
        return tuple(s if s != DYNAMIC else int(unsigned(next(values), elem)) for s in static)

    def run(base: Array, shape: tuple, stride: tuple) -> TensorView:
        return TensorView(int(base), fill(sizes, shape), fill(strides, stride))

    return run


@pure("make_partition_view", "make_strided_view", "make_gather_scatter_view", elementwise=False)
def make_tile_view(site: Site) -> Run:
    return lambda tensor_view: tensor_view


def _as_result(site: Site, name: str) -> Any:
    elem = element_of(site.op.result_group(name)[0].type) if site.op.results else None

    def convert(sizes: tuple[int, ...]) -> tuple:
        if elem is None:
            return ()
        for dim, size in enumerate(sizes):
            if site.on("conversion") and size >> elem.width:
                raise Fault(FaultKind.CONVERSION, f"{size} does not fit {elem.name}", (dim,))
        return tuple(wrap(np.uint64(s), elem) for s in sizes)

    return convert


@pure("get_tensor_shape", elementwise=False)
def get_tensor_shape(site: Site) -> Run:
    convert = _as_result(site, "result")
    return lambda src: convert(src.shape)


@pure("get_index_space_shape", elementwise=False)
def get_index_space_shape(site: Site) -> Run:
    geometry, convert = Geometry.of(site.type_of("src")), _as_result(site, "result")
    return lambda src: convert(geometry.index_space(src))


# -- geometry -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Geometry:
    """Where the tiles of a view type lie. All are by tile dimension; `steps` is None along a sparse dimension."""

    tile: tuple[int, ...]
    dims: tuple[int, ...]
    steps: tuple[int, ...]
    sparse: int | None
    padding: str | None
    element: Element

    @staticmethod
    def of(type_: Any) -> Geometry:
        if not isinstance(type_, TileViewType):
            raise TypeError(f"{type_} is not a tile view type")
        rank = type_.tensor_view.rank
        elem = element_of(type_.tensor_view.element_type)
        if isinstance(type_, GatherScatterViewType):
            dims, steps, sparse = tuple(range(rank)), (1,) * rank, type_.sparse_dim
        else:
            assert isinstance(type_, PartitionViewType | StridedViewType)
            dims = type_.dim_map or tuple(range(rank))
            steps = type_.traversal_strides if isinstance(type_, StridedViewType) else type_.tile_shape
            sparse = None
        return Geometry(type_.tile_shape, dims, steps, sparse, type_.padding_value, elem)

    def index_space(self, view: TensorView) -> tuple[int, ...]:
        """How many tiles there are along each tile dimension."""
        return tuple(-(-view.shape[d] // step) for d, step in zip(self.dims, self.steps))

    def starts(self, site: Site, view: TensorView, index: tuple, elems: list[Element]) -> list[Any]:
        """The first element index along each tile dimension (all of them, along a sparse one, -1 for those outside)."""
        starts: list[Any] = []
        inbounds = site.attr("inbounds")
        said = site.op.attributes.get(OUTSIDE_ATTRIBUTE)
        may_leave = said.get_values() if isinstance(said, DenseArrayBase) else ()
        for t, (value, elem) in enumerate(zip(index, elems)):
            number = np.asarray(unsigned(value, elem))
            size = view.shape[self.dims[t]]
            if t == self.sparse:
                positions = number.astype(np.int64)
                outside = (number.astype(np.uint64) >= size) | (positions < 0)
                starts.append(np.where(outside, -1, positions))
                last: int = size if outside.any() else -1
            else:
                start = int(number) * self.steps[t]
                if start >= size and t not in may_leave:
                    if site.on(self.range_check(site)):
                        self.out_of_space(view, t, int(number))
                    if site.on("overflow"):
                        check_wrapping(t, start, size)
                starts.append(min(start, size))
                last = start + self.tile[t] - 1
            if site.on("index") and inbounds[t] and last >= size:
                raise Fault(
                    FaultKind.INDEX, f"the tile reaches beyond size {size} of dimension {t}, said to be in bounds", (t,)
                )
        return starts

    def range_check(self, site: Site) -> str:
        """The name of the check of an index: what is loaded may be all padding on purpose, and may be of no use, and
        what is stored may be nothing."""
        if site.op.spec.name != "load_view_tko":
            return "store-range"
        return "load-range" if self.padding is None else "view-range"

    def out_of_space(self, view: TensorView, t: int, number: int) -> None:
        count = self.index_space(view)[t]
        what = "first element" if self.sparse is not None else "index"
        raise Fault(FaultKind.INDEX, f"{what} {number} of dimension {t} is outside of the view's {count}", (t,))


def check_wrapping(t: int, start: int, size: int) -> None:
    """A fault for a tile outside of what is viewed that compiled code may find inside: where a view is known to be
    small, it counts elements in 32 bits."""
    wrapped = start % (1 << 32)
    if wrapped < size:
        message = f"the tile begins at element {start} of dimension {t}, which is {wrapped} in 32 bits"
        raise Fault(FaultKind.OVERFLOW, message, (t,))


def padding_bits(elem: Element, padding: str | None) -> Any:
    """The value that a padding keyword stands for, of the element's type. None for no keyword.

    `zero` is all bits clear, in f8E8M0FNU too, which has no zero: so it is in compiled programs.
    """
    if padding is None:
        return None
    if padding == "zero":
        return np.zeros((), elem.dtype)[()]
    number = {"zero": 0.0, "neg_zero": -0.0, "nan": np.nan, "pos_inf": np.inf, "neg_inf": -np.inf}[padding]
    if elem.float is None:
        return elem.dtype.type(0)
    if np.isinf(number) and elem.float.has_nan and not elem.float.has_infinity:
        number = np.nan
    return np.asarray(number, np.float64).astype(elem.dtype)[()]


@dataclass(frozen=True, slots=True)
class Box:
    """The part of a tile that lies within the tensor: `offsets` are element offsets from the view's base, an array
    of the part's shape, or None for the plain case where `first` and `strides` say the same.
    """

    valid: tuple[Any, ...]
    """Index of the part in the tile: slices, or arrays where a sparse dimension is cut."""
    shape: tuple[int, ...]
    first: int
    strides: tuple[int, ...]
    sparse_rows: np.ndarray | None
    sparse: int | None

    @staticmethod
    def of(geometry: Geometry, view: TensorView, starts: list[Any]) -> Box:
        valid: list[Any] = []
        shape, strides, first, rows = [], [], 0, None
        for t, d in enumerate(geometry.dims):
            stride, size = view.strides[d], view.shape[d]
            strides.append(stride)
            if t == geometry.sparse:
                kept = np.flatnonzero(starts[t] >= 0)
                rows = _scaled(starts[t][kept], stride)
                valid.append(kept if kept.size < geometry.tile[t] else slice(None))
                shape.append(kept.size)
            else:
                count = max(min(size - starts[t], geometry.tile[t]), 0)
                valid.append(slice(0, count))
                shape.append(count)
                first += starts[t] * stride
        return Box(tuple(valid), tuple(shape), first, tuple(strides), rows, geometry.sparse)

    def whole(self, tile: tuple[int, ...]) -> bool:
        return self.shape == tile

    def empty(self) -> bool:
        return 0 in self.shape

    def last(self) -> int:
        """The largest element offset of the part, which is not empty: strides are not negative."""
        rows = 0 if self.sparse_rows is None else int(self.sparse_rows.max())
        pairs = zip(self.shape, self.strides)
        return self.first + rows + sum((n - 1) * s for t, (n, s) in enumerate(pairs) if t != self.sparse)

    def offsets(self) -> np.ndarray:
        """Element offset of every element of the part."""
        total = np.full((1,) * len(self.shape), self.first, np.int64) if self.shape else np.int64(self.first)
        for t, (count, stride) in enumerate(zip(self.shape, self.strides)):
            steps = (
                self.sparse_rows
                if t == self.sparse
                else np.arange(count, dtype=np.int64) * (stride if count > 1 else 0)
            )
            if steps is None:
                raise TypeError("a sparse dimension has its rows")
            total = total + steps.reshape((-1,) + (1,) * (len(self.shape) - t - 1))
        return np.asarray(total)


def _scaled(rows: np.ndarray, stride: int) -> np.ndarray:
    """Rows times a stride. A fault for what no address can reach."""
    if rows.size and int(rows.max()) * stride > MAX_OFFSET:
        raise Fault(FaultKind.OUT_OF_BOUNDS, f"row {int(rows.max())} of stride {stride} is beyond every address")
    return rows * stride if rows.size and rows.any() else rows


class ViewAccess:
    """Reads and writes tiles of one view type in memory."""

    def __init__(self, geometry: Geometry):
        self.geometry = geometry
        self.element = geometry.element
        self.packed = geometry.element.width == 4

    def strided(self, memory: Memory, view: TensorView, box: Box) -> np.ndarray | None:
        """The part's stored bits as a strided window into an allocation: None when that takes more than one step."""
        size = self.element.storage_bytes
        if self.packed or box.sparse_rows is not None:
            return None
        allocation = memory.find(view.base)
        if allocation is None or (view.base - allocation.base) % size:
            return None
        source = allocation.typed(self.element.unsigned_dtype)
        start = (view.base - allocation.base) // size + box.first
        if start - box.first + box.last() >= source.size:
            return None
        strides = tuple(s * size if n > 1 else 0 for n, s in zip(box.shape, box.strides))
        return np.lib.stride_tricks.as_strided(source[start:], box.shape, strides, writeable=not allocation.read_only)

    def addresses(self, view: TensorView, box: Box) -> np.ndarray:
        """Byte address of every element of the part (of the byte that holds it, for 4-bit elements)."""
        size = self.element.storage_bytes
        if view.base + (box.last() + 1) * size > MAX_OFFSET:
            last = tuple(n - 1 for n in box.shape)
            message = f"element {box.last()} of the view at {view.base:#x} is beyond every address"
            raise Fault(FaultKind.OUT_OF_BOUNDS, message, last)
        offsets = box.offsets()
        return view.base + (offsets >> 1 if self.packed else offsets * self.element.storage_bytes)

    def load(self, memory: Memory, view: TensorView, box: Box) -> np.ndarray:
        window = self.strided(memory, view, box)
        if window is not None:
            memory.bytes_read += window.size * self.element.storage_bytes
            return from_bits(np.array(window), self.element)
        if not self.packed:
            return memory.gather(self.addresses(view, box), self.element, None)
        pairs = memory.gather(self.addresses(view, box), _BYTE, None).view(np.uint8)
        high = (box.offsets() & 1).astype(bool)
        return from_bits(np.where(high, pairs >> np.uint8(4), pairs & np.uint8(15)), self.element)

    def store(self, memory: Memory, view: TensorView, box: Box, values: np.ndarray) -> None:
        window = self.strided(memory, view, box)
        if window is not None and window.flags.writeable and not _overlaps(box):
            window[...] = to_bits(values, self.element)
            memory.bytes_written += window.size * self.element.storage_bytes
            return
        addresses = self.addresses(view, box)
        if not self.packed:
            memory.scatter(addresses, values, self.element, None)
            return
        nibbles = to_bits(values, self.element)
        high = (box.offsets() & 1).astype(bool)
        # One half of the bytes after the other, so that two elements of one byte do not overwrite each other.
        for half, shift, keep in ((~high, 0, 0xF0), (high, 4, 0x0F)):
            if half.any():
                old = memory.gather(addresses[half], _BYTE, None).view(np.uint8) & np.uint8(keep)
                memory.scatter(addresses[half], (old | nibbles[half] << np.uint8(shift)).view(np.int8), _BYTE, None)


def _overlaps(box: Box) -> bool:
    """Whether elements of the part may share memory: then they are written in row-major order."""
    reach = 0
    for count, stride in sorted(zip(box.shape, box.strides), key=lambda p: p[1]):
        if count > 1:
            if stride <= reach:
                return True
            reach += (count - 1) * stride
    return False


_BYTE = ELEMENTS["i8"]


# -- ops ------------------------------------------------------------------------------------------------------------


def index_elements(site: Site) -> list[Element]:
    return [element_of(v.type) for v in site.op.operand_group("index")]


@effect("load_view_tko", yields_mask=True, synchronises=is_strong)
def load_view_tko(site: Site) -> Run:
    geometry = Geometry.of(site.type_of("view"))
    access, elems = ViewAccess(geometry), index_elements(site)
    accesses = Accesses.of(site, geometry.element, reads=True)
    padding = padding_bits(geometry.element, geometry.padding)
    fill = np.zeros((), geometry.element.dtype)[()] if padding is None else padding

    def run(block: Any, view: TensorView, index: tuple, token: Any) -> tuple[Array, Any, Mask]:
        box = Box.of(geometry, view, geometry.starts(site, view, index, elems))
        missing: Mask = None
        part = None if box.empty() else access.load(block.memory, view, box)
        if site.masks or site.tokens:
            token, missing = _loaded(block, access, accesses, view, box, token, padding is None)
        if part is not None and box.whole(geometry.tile):
            return part[()], token, missing
        tile = np.full(geometry.tile, fill, geometry.element.dtype)
        if part is not None:
            tile[box.valid] = part
        return tile, token, missing

    return run


def _loaded(block: Any, access: ViewAccess, accesses: Accesses, view: TensorView, box: Box, token: Any,
            unpadded: bool) -> tuple[Any, Mask]:  # fmt: skip
    """The result token of a load, and which elements of the tile it left uninitialised."""
    tile = access.geometry.tile
    missing = np.full(tile, unpadded)
    if not box.empty():
        addresses = access.addresses(view, box)
        size = access.element.storage_bytes
        unset = undefined_bytes(block.memory, addresses, size, None) if accesses.site.masks else None
        missing[box.valid] = False if unset is None else unset
        token = accesses.ordered(block, addresses, None, token)
    return token, missing if missing.any() else None


@effect("store_view_tko", accepts_undefined=("tile",), synchronises=is_strong)
def store_view_tko(site: Site) -> Run:
    geometry = Geometry.of(site.type_of("view"))
    access, elems = ViewAccess(geometry), index_elements(site)
    accesses = Accesses.of(site, geometry.element, writes=True)

    def run(block: Any, tile: Array, view: TensorView, index: tuple, token: Any, undefined: tuple = (None,)) -> Any:
        box = Box.of(geometry, view, geometry.starts(site, view, index, elems))
        if box.empty():
            return token
        values = np.asarray(tile)
        access.store(block.memory, view, box, values[box.valid])
        if not (site.masks or site.tokens):
            return accesses.ordered(block, values, None, token)
        addresses = access.addresses(view, box)
        if site.masks:
            mask = None if undefined[0] is None else undefined[0][box.valid]
            define_bytes(block.memory, addresses, geometry.element.storage_bytes, None, mask)
        return _stored(block, access, accesses, view, box, addresses, token)

    return run


def _stored(block: Any, access: ViewAccess, accesses: Accesses, view: TensorView, box: Box, addresses: np.ndarray,
            token: Any) -> Any:  # fmt: skip
    """The result token of a store. The two halves of a byte are one access: a store writes whole bytes."""
    if access.packed:
        addresses = np.unique(addresses)
    return accesses.ordered(block, addresses, None, token)
