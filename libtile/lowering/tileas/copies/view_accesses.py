# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is known of an access through a view, from the ops that make the view, and how wide that lets it be."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects.builtin import DenseArrayBase
from xdsl.ir import Operation, SSAValue

from libtile.codegen.memory import MAX_ACCESS_BYTES
from libtile.dialects.cuda_tile.types import NUMBER_NAMES
from libtile.dialects.nv_tileaa.pointers import BlockTileOp, MakeMemRefOp
from libtile.dialects.nv_tileaa.types import DYNAMIC, MemRefType, PtrType, TiledViewType
from libtile.ir.facts import power_of_two_factor
from libtile.ir.operands import source_of
from libtile.layouts import LinearLayout
from libtile.layouts.registers import register_groups
from libtile.lowering.constants import constant_of
from libtile.lowering.discardable import OUTSIDE
from libtile.lowering.to_tileas.accesses import numbers
from libtile.numerics.elements import PACKED, memory_bits
from libtile.support.records import dataclass, replace


@dataclass(frozen=True)
class ViewAccess:
    """An access to a tile of a tensor; tuples of facts may be empty for nothing known.

    `steps` is how many elements there are from one tile to the next, by tile dimension, `dims` the tensor dimension of
    each. `sizes` and `strides` are in elements, by tensor dimension, None where they are of run time. `alignment`
    divides the base address, in bytes; `stride_divisors` and `size_divisors` are by tensor dimension, `index_divisors`
    by tile dimension. `inbounds` says by tile dimension that no element lies outside, `outside` along which all may.
    """

    element: str
    tile: tuple[int, ...]
    steps: tuple[int, ...]
    dims: tuple[int, ...]
    sizes: tuple[int | None, ...]
    strides: tuple[int | None, ...]
    sparse: int | None = None
    alignment: int = 1
    stride_divisors: tuple[int, ...] = ()
    size_divisors: tuple[int, ...] = ()
    index_divisors: tuple[int, ...] = ()
    inbounds: tuple[bool, ...] = ()
    outside: tuple[int, ...] = ()

    @property
    def bits(self) -> int:
        """Bits that an element takes in the tensor."""
        return memory_bits(self.element)

    @property
    def widest(self) -> int:
        """The most elements of one access."""
        return MAX_ACCESS_BYTES * 8 // self.bits

    def size(self, t: int) -> int | None:
        """The tensor's size along tile dimension t."""
        return self.sizes[self.dims[t]]

    def stride(self, t: int) -> int | None:
        """The tensor's stride along tile dimension t."""
        return self.strides[self.dims[t]]

    def size_divisor(self, t: int) -> int:
        """A power of two that divides the tensor's size along tile dimension t."""
        return _divisor(self.size_divisors, self.dims[t], self.size(t))

    def stride_divisor(self, t: int) -> int:
        """A power of two that divides the stride along tile dimension t."""
        return _divisor(self.stride_divisors, self.dims[t], self.stride(t))

    def start_divisor(self, t: int) -> int:
        """A power of two that divides the first element's position along tile dimension t."""
        return power_of_two_factor(self.steps[t]) * _divisor(self.index_divisors, t, None)

    def needs_mask(self, t: int) -> bool:
        """Whether elements of a tile can lie beyond the tensor's end along tile dimension t.

        They cannot where the size is a constant multiple of the tile and tiles start at multiples of it: an index
        outside of the index space is undefined behaviour (Tile IR, "load_view_tko"). A size of run time is compared
        with in any case: programs are launched with more tile blocks than a tensor has tiles, and rely on it.
        """
        if self.inbounds and self.inbounds[t]:
            return False
        size = self.size(t)
        if t == self.sparse or size is None or t in self.outside:
            return True
        return size % self.tile[t] != 0 or self.steps[t] % self.tile[t] != 0

    @property
    def masked(self) -> tuple[int, ...]:
        """The tile dimensions along which elements can lie beyond the tensor's end."""
        return tuple(t for t in range(len(self.tile)) if self.needs_mask(t))

    @property
    def contiguous(self) -> int | None:
        """The tile dimension along which elements follow each other in memory: that of the static stride 1."""
        for t in reversed(range(len(self.tile))):
            if self.stride(t) == 1 and self.tile[t] > 1:
                return t
        return None

    def aligned_width(self) -> int:
        """Elements along the contiguous dimension that lie in one aligned span of up to 16 bytes; 1 without such."""
        t = self.contiguous
        if t is None or t == self.sparse:
            return 1
        width = min(self.widest, self.tile[t], self.start_divisor(t), max(self.alignment * 8 // self.bits, 1))
        for other in range(len(self.tile)):
            if other != t and not (self.tile[other] == 1 and self.size(other) == 1):
                width = min(width, self.stride_divisor(other))
        return width

    def width(self, layout: LinearLayout) -> int:
        """Elements per access: the aligned width, less where the tensor's end may cut it or the layout scatters it."""
        t, width = self.contiguous, self.aligned_width()
        if t is None or width == 1:
            return 1
        if self.needs_mask(t):
            width = min(width, self.size_divisor(t))
        return len(register_groups(layout, t, width)[0])

    def cut_width(self, layout: LinearLayout) -> int:
        """Elements per asynchronous copy that the tensor's end may cut: all that are aligned together, and that the
        layout does not scatter."""
        return replace(self, inbounds=(True,) * len(self.tile)).width(layout)

    def moved_width(self, layout: LinearLayout) -> int:
        """Elements per load or store: of packed elements, two that share a byte go together even if the tensor's end
        may part them."""
        t, width = self.contiguous, self.width(layout)
        if self.element in PACKED and t is not None:
            return len(register_groups(layout, t, max(width, min(self.aligned_width(), 2)))[0])
        return width

    def checked(self, layout: LinearLayout, max_registers: int) -> ViewAccess | None:
        """What is known behind a check at run time that the tile lies inside of the tensor, and its rows are aligned.
        Rows that numbers choose may be outside of it all the same.

        None when that would make no access wider, when it is known to fail, and for tiles of more than `max_registers`
        registers of a thread.
        """
        registers = layout.in_size("register") * min(self.bits, 32) // 32
        if self.contiguous is None or self.sparse == self.contiguous or registers > max_registers:
            return None
        sizes = [self.size(t) for t in range(len(self.tile))]
        if any(size is not None and size < tile for size, tile in zip(sizes, self.tile)):
            return None
        divisors = self.stride_divisors or (1,) * len(self.strides)
        assumed = replace(
            self,
            alignment=max(self.alignment, MAX_ACCESS_BYTES),
            stride_divisors=tuple(
                divisor if stride is not None else max(divisor, self.row_width)
                for divisor, stride in zip(divisors, self.strides)
            ),
            inbounds=tuple(t != self.sparse for t in range(len(self.tile))),
        )
        return assumed if assumed.width(layout) > self.width(layout) else None

    @property
    def row_width(self) -> int:
        """The most elements of an access along the contiguous dimension."""
        t = self.contiguous
        assert t is not None
        return min(self.widest, self.tile[t])


def _divisor(known: tuple[int, ...], position: int, value: int | None) -> int:
    factor = known[position] if known else 1
    return factor if value is None else max(factor, power_of_two_factor(value))


def memref_of(op: Operation) -> MakeMemRefOp | None:
    """The op that makes the memref of an access's view; None where that is elsewhere."""
    block = source_of(op).owner
    memref = block.source.owner if isinstance(block, BlockTileOp) else None
    return memref if isinstance(memref, MakeMemRefOp) else None


def view_access(op: Operation) -> ViewAccess | None:
    """What is known of an access through a view; None when the ops that make the view are elsewhere."""
    memref, view = memref_of(op), source_of(op).type
    if memref is None or not isinstance(view, TiledViewType):
        return None
    type_, tiling = memref.result.type, view.layout
    assert isinstance(type_, MemRefType)
    element = type_.element_type
    sparse, rank = tiling.sparse_dim, len(view.shape)
    alignment, bounds = numbers(memref, "divisibility"), op.properties.get("in_bounds")
    return ViewAccess(
        element="ptr" if isinstance(element, PtrType) else NUMBER_NAMES[element],
        tile=tuple(view.shape),
        steps=tuple(view.traversal_strides),
        dims=tuple(range(rank)) if sparse is not None else tuple(view.dim_map),
        sizes=_known(type_.shape, memref.sizes),
        strides=_known(type_.strides, memref.strides),
        sparse=sparse,
        alignment=alignment[0] if alignment else 1,
        stride_divisors=numbers(memref, "stride_divisibility"),
        size_divisors=numbers(memref, "size_divisibility"),
        index_divisors=numbers(op, "index_divisibility"),
        inbounds=tuple(bool(v) for v in bounds.get_values()) if isinstance(bounds, DenseArrayBase) else (),
        outside=numbers(op, OUTSIDE),
    )


def _known(static: Iterable[int], dynamic: Iterable[SSAValue]) -> tuple[int | None, ...]:
    rest = iter(dynamic)
    return tuple(constant_of(next(rest)) if size == DYNAMIC else size for size in static)
