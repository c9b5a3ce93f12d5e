# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layouts of memory accesses: adjacent threads touch adjacent bytes, each as many at once as the facts allow.

All accesses of tiles of one shape share one layout as far as they agree on the fastest dimension, so that what is
computed between them need not move between threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import DenseArrayBase, TensorType
from xdsl.ir import Attribute, Operation, Region, SSAValue

from libtile.dialects.nv_tileaa import memory
from libtile.dialects.nv_tileaa.memory import Access
from libtile.dialects.nv_tileaa.pointers import FpToFpOp
from libtile.dialects.nv_tileaa.shapes import ExpandDimsOp, PermuteOp, ViewOp, integers_of
from libtile.dialects.nv_tileaa.types import DYNAMIC, MemRefType, PtrType, TiledViewType
from libtile.ir.numbers import numbers_of
from libtile.ir.places import ops_of
from libtile.ir.tile_form import shape_of
from libtile.layouts import LinearLayout
from libtile.lowering.to_tileas.shape_layouts import spread

if TYPE_CHECKING:
    from libtile.codegen.memory import Vector

VECTOR_BYTES = 16

WORD_BYTES = 4
"""What an access to a multicast object moves at least (PTX ISA, "multimem": types)."""

MULTIMEM_ACCESSES = (memory.MultimemLoadReduceOp, memory.MultimemReduceOp, memory.MultimemStoreOp)
POINTER_ACCESSES = (memory.LoadOp, memory.StoreOp, memory.AtomicRmwOp, memory.AtomicCasOp)
TILED_ACCESSES = (memory.TiledLoadOp, memory.TiledStoreOp, memory.TiledAtomicRmwOp, *MULTIMEM_ACCESSES)
ACCESSES = (*POINTER_ACCESSES, *TILED_ACCESSES)
"""The ops of nv_tileaa whose tiles lie as memory is accessed."""


def numbers(op: Operation, name: str) -> tuple[int, ...]:
    """The integers of an array attribute; none when it is absent."""
    attr = op.properties.get(name, op.attributes.get(name))
    return numbers_of(attr) if isinstance(attr, DenseArrayBase) else ()


def element_bits(type_: Attribute) -> int:
    """Bits that an element takes in memory; two of 4 bits share a byte of a tensor."""
    from libtile.dialects.cuda_tile.types import bit_width

    if isinstance(type_, PtrType):
        return 64
    bits = bit_width(type_)
    return {1: 8, 19: 32}.get(bits, bits)


def element_bytes(type_: Attribute) -> int:
    """Bytes that an element takes in memory, at least 1."""
    return max(element_bits(type_) // 8, 1)


def _pointee(type_: Attribute) -> Attribute:
    assert isinstance(type_, TensorType) and isinstance(type_.element_type, PtrType)
    return type_.element_type.pointee


def _pointer_facts(op: Access) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """For each dimension of a tile of pointers how many neighbours are known to lie side by side, as a power of two,
    and a divisor in bytes of where such a run starts, 1 where none is said."""
    contiguity, divisibility = numbers(op, "contiguity"), numbers(op, "divisibility")
    runs = tuple(1 << (max(count, 1).bit_length() - 1) for count in contiguity)
    return runs, divisibility or (1,) * len(runs)


def _pointer_access(op: Access) -> tuple[tuple[int, ...], int, int]:
    """(shape, fastest dimension, elements at once) of an access by pointers."""
    base = op.accessed.type
    assert isinstance(base, TensorType)
    shape = tuple(base.get_shape())
    contiguity, divisibility = _pointer_facts(op)
    size = element_bytes(_pointee(base))
    mask = numbers(op, "mask_constancy")
    best = (1, len(shape) - 1)
    for d in range(len(shape)):
        if d >= len(contiguity):
            break
        aligned = max(divisibility[d] // size, 1)
        count = min(contiguity[d], aligned, VECTOR_BYTES // size, shape[d])
        if mask:
            count = min(count, mask[d])
        run = contiguity[d]
        if (run, d) > (best[0], best[1]) and run > 1:
            best = (run, d)
            vector = count
    return shape, best[1], vector if best[0] > 1 else 1


def pointer_vector(op: Access) -> tuple[Vector, str]:
    """What the facts on an access by pointers say of neighbouring ones, and the element type that they point to."""
    from libtile.codegen.memory import vector_from_facts
    from libtile.dialects.cuda_tile.types import NUMBER_NAMES
    from libtile.ir.facts import Fact

    pointee = _pointee(op.accessed.type)
    element = "ptr" if isinstance(pointee, PtrType) else NUMBER_NAMES[pointee]
    (contiguity, divisibility), mask = _pointer_facts(op), numbers(op, "mask_constancy")
    ones = (1,) * len(contiguity)
    pointers = Fact(divisibility, contiguity, ones)
    return vector_from_facts(pointers, Fact(ones, ones, mask) if mask else None, element), element


def _tiled_access(op: Access) -> tuple[tuple[int, ...], int, int]:
    """(shape, fastest dimension, elements at once) of an access through a view."""
    view = op.accessed.type
    assert isinstance(view, TiledViewType)
    shape = view.shape
    memref = view.source
    fastest = len(shape) - 1
    vector = 1
    if isinstance(memref, MemRefType):
        size = element_bytes(memref.element_type)
        for tile_dim, dim in enumerate(view.dim_map):
            if memref.strides[dim] == 1 and tile_dim != view.layout.sparse_dim:
                fastest = tile_dim
                vector = min(VECTOR_BYTES // size, shape[tile_dim])
        if DYNAMIC in memref.strides and 1 not in memref.strides:
            vector = 1
    return shape, fastest, vector


def access(op: Access) -> tuple[tuple[int, ...], int, int]:
    """(shape, fastest dimension, elements at once) of a memory access."""
    return _pointer_access(op) if type(op.accessed._type) is TensorType else _tiled_access(op)


def contiguous_dim(value: SSAValue) -> int | None:
    """The dimension along which an operand is contiguous in memory, of those with more than one element; None for what
    is not a tile loaded by a view, renamed and rounded at most."""
    op, shape = value.owner, shape_of(value.type)
    if not isinstance(op, Operation):
        return None
    if isinstance(op, memory.TiledLoadOp):
        _, fastest, _ = access(op)
        return _wide(shape).index(fastest) if shape[fastest] != 1 else None
    if not isinstance(op, FpToFpOp | ViewOp | ExpandDimsOp | PermuteOp):
        return None
    dim, before = contiguous_dim(op.source), shape_of(op.source.type)
    if dim is None:
        return None
    if isinstance(op, PermuteOp):
        order = integers_of(op.permutation)
        return _wide(shape).index(order.index(_wide(before)[dim]))
    return dim if [n for n in before if n != 1] == [n for n in shape if n != 1] else None


def _wide(shape: tuple[int, ...]) -> list[int]:
    return [d for d, n in enumerate(shape) if n != 1]


def least_vector(op: Access) -> int:
    """How many elements a thread must have side by side: those of a word of a multicast object, without which there is
    no access at all, and those of a byte, half of which takes atomic changes of the word around it."""
    view = op.accessed.type
    if not isinstance(view, TiledViewType) or not isinstance(view.source, MemRefType):
        return 1
    bits = element_bits(view.source.element_type)
    if isinstance(op, MULTIMEM_ACCESSES):
        return max(8 * WORD_BYTES // bits, 1)
    return 2 if bits == 4 else 1


class AccessLayouts:
    """The layout for each shape and fastest dimension that a function, or an agent of `warps` warps, accesses. What has
    no dimension lies as in the whole kernel, of `workers` warps."""

    def __init__(self, function: Operation | Region, warps: int, workers: int | None = None):
        self.warps = warps
        self.workers = warps if workers is None else workers
        self._vectors: dict[tuple[tuple[int, ...], int], int] = {}
        self._least: dict[tuple[tuple[int, ...], int], int] = {}
        self._orders: dict[tuple[int, ...], int] = {}
        for op in ops_of(function, *ACCESSES):
            shape, fastest, vector = access(op)
            if not shape:
                continue
            key = (shape, fastest)
            self._vectors[key] = max(self._vectors.get(key, 1), vector)
            self._least[key] = max(self._least.get(key, 1), least_vector(op))
            self._orders.setdefault(shape, fastest)

    def of(self, op: Access) -> LinearLayout:
        """The layout of the tile that an access moves."""
        shape, fastest, _ = access(op)
        return self.layout(shape, fastest)

    def layout(self, shape: Sequence[int], fastest: int | None = None) -> LinearLayout:
        """The layout of tiles of a shape: that of the accesses of the shape, if there are any."""
        shape = tuple(shape)
        if not shape:
            return spread((), self.workers, 1, ())
        if fastest is None:
            fastest = self._orders.get(shape, len(shape) - 1)
        # As wide as all threads have elements of their own: what a copy holds is computed once more. A line of a larger
        # tile that is accessed lies as in that, where half of the threads have copies.
        threads = 32 * self.warps // (2 if self._is_line(shape, fastest) else 1)
        vector = min(self._vectors.get((shape, fastest), 4), prod(shape) // threads)
        vector = max(vector, self._least.get((shape, fastest), 1))
        order = [fastest, *(d for d in reversed(range(len(shape))) if d != fastest)]
        return spread(shape, self.warps, vector, order)

    def _is_line(self, shape: tuple[int, ...], fastest: int) -> bool:
        """Whether a tile that is accessed is as long as the lines of a larger one, which it is computed with."""
        if (shape, fastest) not in self._vectors:
            return False
        return any(other[dim] == shape[fastest] and prod(other) > prod(shape) for other, dim in self._vectors)
