# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Views of tensors in memory, and where the elements of their tiles lie.

A tensor view is a base pointer with sizes and strides, in elements. A tiled view lays tiles over it: the tile that an
index names starts, along each tile dimension, so many elements into the tensor, and what lies beyond the tensor's end
is padding for a load and left out of a store. Along the sparse dimension of a gather-scatter view the index is itself a
tile that holds one position per row. All three kinds of view in Tile IR are cases of `TiledView`.

The element offset of a register is the tile's start, plus what the thread's place adds, plus what the register's number
adds. The first is uniform, the second shared by the thread's registers, and the last a constant where strides are, so
that accesses differ by immediate offsets only.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence

from libtile.codegen.builder import KernelBuilder, Value, integer
from libtile.codegen.llvm_types import I32, I64, IntType
from libtile.codegen.tile import Tile, thread_part
from libtile.codegen.tile import index as index_of
from libtile.layouts import LANE, WARP, LinearLayout
from libtile.layouts.registers import register_groups
from libtile.numerics.elements import STORAGE_BYTES
from libtile.support.diagnostics import UnsupportedError
from libtile.support.records import dataclass

# -- views ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TensorView:
    """A tensor in memory: sizes and strides are i64 values or constants, in elements, one per tensor dimension."""

    base: Value
    element: str
    shape: tuple[Value, ...]
    strides: tuple[Value, ...]


@dataclass(frozen=True)
class TiledView:
    """Tiles on a tensor, by tile dimension: `steps` elements from one index to the next, along tensor dimension
    `dims[t]`. A partition steps by whole tiles, a strided view by its traversal strides, a gather-scatter view by
    single elements. `padding` is Tile IR's keyword, or None for undefined elements (which are zero here)."""

    view: TensorView
    tile: tuple[int, ...]
    steps: tuple[int, ...]
    dims: tuple[int, ...]
    sparse: int | None = None
    padding: str | None = None

    @staticmethod
    def partition(
        view: TensorView, tile: Sequence[int], dims: Sequence[int] = (), padding: str | None = None
    ) -> TiledView:
        return TiledView(view, tuple(tile), tuple(tile), tuple(dims) or tuple(range(len(tile))), None, padding)

    @staticmethod
    def strided(
        view: TensorView,
        tile: Sequence[int],
        steps: Sequence[int],
        dims: Sequence[int] = (),
        padding: str | None = None,
    ) -> TiledView:
        return TiledView(view, tuple(tile), tuple(steps), tuple(dims) or tuple(range(len(tile))), None, padding)

    @staticmethod
    def gather(view: TensorView, tile: Sequence[int], sparse: int, padding: str | None = None) -> TiledView:
        rank = len(tile)
        return TiledView(view, tuple(tile), (1,) * rank, tuple(range(rank)), sparse, padding)

    def size(self, t: int) -> Value:
        """The tensor's size along tile dimension t."""
        return self.view.shape[self.dims[t]]

    def stride(self, t: int) -> Value:
        """The tensor's stride along tile dimension t."""
        return self.view.strides[self.dims[t]]


@dataclass(frozen=True)
class Accesses:
    """How a tile is cut into accesses: `count` elements at a time, which follow each other along the tile dimension
    `dim`; `masked` are the tile dimensions along which elements may lie beyond the tensor's end, and are compared with
    it; `narrow` says that every offset and position, in elements, is below 2**31."""

    dim: int = 0
    count: int = 1
    masked: tuple[int, ...] = ()
    narrow: bool = False


def index_space(b: KernelBuilder, tiled: TiledView) -> list[Value]:
    """How many tiles there are along each tile dimension, as i64 (Tile IR, "get_index_space_shape")."""
    result = []
    for t, step in enumerate(tiled.steps):
        size = tiled.size(t)
        if size.constant is not None:
            result.append(integer(I64, -(-size.constant // step)))
            continue
        # Not (size + step - 1) / step, which could wrap around.
        whole = b.binary("udiv", size, integer(I64, step))
        rest = b.binary("urem", size, integer(I64, step))
        more = b.cast("zext", b.compare("ne", rest, integer(I64, 0)), I64)
        result.append(b.add(whole, more))
    return result


# -- where the elements are -----------------------------------------------------------------------------------------


def sparse_layout(layout: LinearLayout, dim: int) -> LinearLayout:
    """The layout of an index tile in which every thread has the positions of its own rows, register by register."""
    bases = {name: [(v[dim],) for v in layout.basis(name)] for name in layout.in_dims}
    return LinearLayout.of(bases, {"dim0": layout.shape[dim]})


class Places:
    """Offsets, addresses and bounds of the registers of one tile access."""

    def __init__(
        self,
        b: KernelBuilder,
        tiled: TiledView,
        index: Sequence[Value | Tile],
        layout: LinearLayout,
        accesses: Accesses,
    ):
        if layout.shape != tiled.tile:
            raise ValueError(f"a layout of {layout.shape} for tiles of {tiled.tile}")
        self.b, self.tiled, self.layout, self.accesses = b, tiled, layout, accesses
        self.type = I32 if accesses.narrow else I64
        self.starts: list[Value | None] = []
        self.rows: Callable[[int], Value] | None = None
        for t, number in enumerate(index):
            if t == tiled.sparse:
                if not isinstance(number, Tile):
                    raise ValueError("the index of a sparse dimension is a tile")
                self.rows = self._row_reader(number, t)
                self.starts.append(None)
            else:
                if isinstance(number, Tile):
                    number = number.registers[0]
                self.starts.append(b.mul(self._wide(number), integer(self.type, tiled.steps[t])))
        self._limits: dict[int, Value] = {}
        self._terms: dict[tuple[int, int], Value] = {}
        self._places: dict[int, tuple[int, ...]] = {}
        self._bounds: dict[tuple[int, int], Value] = {}
        self._counts: dict[int, int] = {}
        self._shared = b.by_depth(self._shared_terms())
        self._common = self._sum(term for terms in self._shared for term in terms)

    def _row_reader(self, rows: Tile, t: int) -> Callable[[int], Value]:
        wanted = sparse_layout(self.layout, t)
        if any(rows.layout.basis(d) != wanted.basis(d) for d in (LANE, WARP)):
            raise UnsupportedError("has numbers of rows whose layout does not follow that of the tile's rows")
        by_row = {rows.layout(register=r)["dim0"]: v for r, v in enumerate(rows.registers)}
        return lambda register: by_row[wanted(register=register)["dim0"]]

    def _wide(self, value: Value) -> Value:
        """A value in the type that offsets are computed in."""
        if value.type == self.type:
            return value
        return self.b.cast("zext" if value.type.bits < self.type.bits else "trunc", value, self.type)

    def _add(self, x: Value, y: Value) -> Value:
        return self.b.add(x, y)

    def _sum(self, terms: Iterable[Value]) -> Value:
        return functools.reduce(self._add, terms, integer(self.type, 0))

    def _splits(self, t: int) -> bool:
        """Whether a register's index along t is the thread's part plus a constant: they use different bits."""
        thread = registers = 0
        for name in self.layout.in_dims:
            for vector in self.layout.basis(name):
                if name in (LANE, WARP):
                    thread |= vector[t]
                else:
                    registers |= vector[t]
        return not thread & registers

    def _shared_terms(self) -> list[Value]:
        """The offset that all registers of the thread share, in parts: the tile's start and the thread's part."""
        terms: list[Value] = []
        for t, start in enumerate(self.starts):
            if start is None:
                continue
            stride = self._wide(self.tiled.stride(t))
            terms.append(self.b.mul(self._wide(start), stride))
            if self._splits(t):
                terms.append(self.b.mul(self._wide(thread_part(self.b, self.layout, t)), stride))
        return terms

    def _key(self, register: int, t: int) -> tuple[int, int]:
        place = self._places.get(register)
        if place is None:
            place = self._places[register] = tuple(self.layout(register=register).values())
        return t, place[t]

    def _term(self, register: int, t: int) -> Value:
        """What a register adds to the offset along t."""
        if t == self.tiled.sparse and self.rows is not None:
            return self.b.mul(self._wide(self.rows(register)), self._wide(self.tiled.stride(t)))
        key = self._key(register, t)
        if key not in self._terms:
            position = integer(I32, key[1]) if self._splits(t) else index_of(self.b, self.layout, register, t)
            self._terms[key] = self._constant_product(self._wide(position), self._wide(self.tiled.stride(t)))
        return self._terms[key]

    def _constant_product(self, x: Value, y: Value) -> Value:
        if x.constant is not None and y.constant is not None:
            return integer(self.type, x.constant * y.constant)
        return self.b.mul(x, y)

    def register_offset(self, register: int) -> Value:
        """What the register's number adds to the common offset, in elements."""
        total = integer(self.type, 0)
        for t in range(len(self.tiled.tile)):
            term = self._term(register, t)
            if total.constant is not None and term.constant is not None:
                total = integer(self.type, total.constant + term.constant)
            else:
                total = self._add(total, term)
        return total

    def offset(self, register: int) -> Value:
        """Element offset of a register from the view's base."""
        return self._add(self._common, self.register_offset(register))

    def address(self, register: int) -> Value:
        """Address of a register's element; not for packed elements."""
        b, base = self.b, self.tiled.view.base
        type_ = IntType(8 * STORAGE_BYTES[self.tiled.view.element])
        start = base
        for terms in self._shared:
            start = b.offset(start, b.cast("zext", self._sum(terms), I64), type_)
        own = self.register_offset(register)
        if own.constant == 0:
            return start
        own = b.cast("zext", own, I64)
        return b.offset(start, own, type_)

    def _limit(self, t: int) -> Value:
        """How many of the tile's positions along t lie within the tensor, as an i32."""
        if t not in self._limits:
            b, start, tile = self.b, self.starts[t], self.tiled.tile[t]
            if start is None:
                raise ValueError("a sparse dimension has no start")
            # Of a start in front of the tensor, which is a large number without sign, nothing is left either.
            left = b.call(f"llvm.usub.sat.{self.type}", self.type, [self._wide(self.tiled.size(t)), start])
            left = b.call(f"llvm.umin.{self.type}", self.type, [left, integer(self.type, tile)])
            self._limits[t] = b.cast("trunc", left, I32) if self.type is I64 else left
        return self._limits[t]

    def _within(self, register: int, t: int) -> Value:
        b = self.b
        if t == self.tiled.sparse and self.rows is not None:
            return b.compare("ult", b.cast("zext", self.rows(register), I64), self.tiled.size(t))
        key = self._key(register, t)
        if key not in self._bounds:
            self._bounds[key] = b.compare("ult", index_of(b, self.layout, register, t), self._limit(t))
        return self._bounds[key]

    def mask(self, register: int) -> Value | None:
        """Whether a register's element lies within the tensor; None when it always does.

        LLVM selects by the second operand of a conjunction first, which is that of the most accesses: they share it.
        """
        conditions = {self._within(register, t): self._different(t) for t in self.accesses.masked}
        joined: Value | None = None
        most = 0
        for condition in (condition for part in self.b.by_depth(conditions) for condition in part):
            if joined is None:
                joined = condition
            elif self.b.places and conditions[condition] > most:
                joined = self.b.and_(condition, joined)
            else:
                joined = self.b.and_(joined, condition)
            most = max(most, conditions[condition])
        return joined

    def _different(self, t: int) -> int:
        """How many positions along t a thread's accesses have."""
        if t not in self._counts:
            self._counts[t] = len({self._key(group[0], t) for group in self.groups()})
        return self._counts[t]

    def left(self, register: int, t: int, most: int) -> Value:
        """How many elements from a register's on lie within the tensor along t, at most so many, as an i32."""
        b = self.b
        left = b.call("llvm.usub.sat.i32", I32, [self._limit(t), index_of(b, self.layout, register, t)])
        return b.call("llvm.umin.i32", I32, [left, integer(I32, most)])

    def groups(self) -> list[tuple[int, ...]]:
        """A thread's registers by access."""
        return register_groups(self.layout, self.accesses.dim, self.accesses.count)
