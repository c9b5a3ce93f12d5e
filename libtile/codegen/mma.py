# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Matrix products of tiles: mma.sync on fragments in registers, or fused multiply-adds (Tile IR, "mmaf", "mmai")."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from libtile.atoms.mma_layouts import multiplied_element, packed_elements
from libtile.codegen import conversion_plan, floats, shapes
from libtile.codegen.builder import KernelBuilder, Value, integer
from libtile.codegen.control import for_loop
from libtile.codegen.conversions import ftof_all
from libtile.codegen.convert_layout import convert_all
from libtile.codegen.exchange import padded
from libtile.codegen.lanes import parity
from libtile.codegen.llvm_types import DOUBLE, HALF, I8, I32, I64, IntType, StructType, VectorType
from libtile.codegen.memory import as_integer, from_integer
from libtile.codegen.narrow_floats import halves_of_bytes
from libtile.codegen.packing import join
from libtile.codegen.shared_tiles import (
    WORD_BYTES,
    load_shared,
    normalized,
    store_shared,
)
from libtile.codegen.tile import Tile, linear_of_bits, warp_bits_of
from libtile.layouts import LANE, OFFSET, REGISTER, WARP, LinearLayout
from libtile.layouts.convert import conflict_free_shared
from libtile.layouts.renaming import without_register_copies
from libtile.numerics.elements import STORAGE_BYTES
from libtile.targets import MmaAtom

Place = tuple[int, int, int]
"""Batch, row and column."""


def dot(b: KernelBuilder, lhs: Tile, rhs: Tile, acc: Tile, atom: MmaAtom) -> Tile:
    """lhs (m x k) times rhs (k x n) plus acc by tensor cores, in the accumulator's layout.

    The operands are in the atom's fragments (`mma_layouts.fragments`), and of its element types or of narrower floats.
    """
    lhs = in_element(b, lhs, multiplied_element(lhs.element, atom.a))
    rhs = in_element(b, rhs, multiplied_element(rhs.element, atom.b))
    return Product(b, atom, lhs, rhs, acc).run()


def in_element(b: KernelBuilder, tile: Tile, element: str) -> Tile:
    """A tile of floats in another element type that has all its values."""
    if tile.element == element:
        return tile
    return tile.with_registers(ftof_all(b, tile.registers, tile.element, element), element)


def _place(vector: Sequence[int]) -> Place:
    """An index of a tile of rank 2 or 3."""
    batch, row, column = (0, *vector) if len(vector) == 2 else vector
    return batch, row, column


def _box(shape: Sequence[int]) -> Place:
    return _place(shape) if len(shape) == 3 else (1, shape[0], shape[1])


def by_place(tile: Tile) -> dict[Place, Value]:
    """A thread's registers by what they add to the thread's own index."""
    return {_place(tuple(tile.layout(register=r).values())): v for r, v in enumerate(tile.registers)}


class BytesInWords(Mapping[Place, Value]):
    """Bytes by place that take a quarter of a register each until they are asked for."""

    def __init__(self, b: KernelBuilder, values: Mapping[Place, Value]):
        self._b = b
        self._words: dict[Place, tuple[Value, int]] = {}
        places = list(values)
        for start in range(0, len(places), WORD_BYTES):
            group = places[start : start + WORD_BYTES]
            word = b.cast("zext", join(b, [values[p] for p in group], 8), I32)
            # LLVM would see through the word and hold its bytes.
            word = b.asm("// bytes in $0", "=r,0", I32, [word])
            self._words |= {p: (word, 8 * i) for i, p in enumerate(group)}

    def __getitem__(self, place: Place) -> Value:
        word, shift = self._words[place]
        return self._b.cast("trunc", self._b.binary("lshr", word, integer(I32, shift)) if shift else word, I8)

    def halves(self, places: Sequence[Place], element: str) -> Value | None:
        """Two neighbours, which are floats, as two f16 in a word; None where they have to be taken apart for that."""
        (word, low), (other, high) = (self._words[p] for p in places)
        return halves_of_bytes(self._b, element, word, low // 8) if other is word and high == low + 8 else None

    def __iter__(self) -> Iterator[Place]:
        return iter(self._words)

    def __len__(self) -> int:
        return len(self._words)


class Product:
    """The products of the atoms of a tile, which `multiply` adds to `results`, by place in the tile.

    Floats are converted to `element`, if that is given, where they are first multiplied.
    """

    def __init__(
        self, b: KernelBuilder, atom: MmaAtom, lhs: Tile, rhs: Tile, acc: Tile, element: str | None = None
    ):  # fmt: skip
        self.b, self.atom, self.acc = b, atom, acc
        self.elements = element or lhs.element, element or rhs.element
        self.packed = packed_elements(atom.a)
        self.sides = lhs, rhs
        self.depth = lhs.shape[-1]
        self.values = self._held(0, lhs), self._held(1, rhs)
        self.results = by_place(acc)
        self.box = _box(acc.shape)
        # Lanes whose place along k lies beyond the tile's depth hold copies, which must not count.
        beyond = [self.packed << i >= self.depth for i in range(2)]
        masks = [parity(b, 1 << i) for i, out in enumerate(beyond) if out]
        self.outside = masks[0] if len(masks) == 1 else b.or_(masks[0], masks[1]) if masks else None
        self._words: dict[tuple[int, Place], Value] = {}

    def _held(self, side: int, tile: Tile) -> Mapping[Place, Value]:
        """The values of an operand. Bytes that are converted later wait in words, neighbours along k in one."""
        values = by_place(tile)
        if tile.element == self.elements[side] or STORAGE_BYTES[tile.element] != 1:
            return values
        order = sorted(values, key=lambda p: (p[0], p[1 + side], p[2 - side]))
        return BytesInWords(self.b, {place: values[place] for place in order})

    def run(self) -> Tile:
        atoms = self.atoms()
        for k in range(0, self.depth, self.atom.k):
            for place in atoms:
                self.multiply(place, k)
        return self.result()

    def atoms(self) -> list[Place]:
        """Where the atoms of a thread's part of the result are."""
        rows = {m for _, m, _ in self.results if not (m & 8 and self.atom.m == 16)}
        columns = {n for _, _, n in self.results if not n & 1}
        batches = {g for g, _, _ in self.results}
        return [(g, m, n) for g in sorted(batches) for m in sorted(rows) for n in sorted(columns)]

    def result(self) -> Tile:
        """The tile of the results."""
        order = [_place(tuple(self.acc.layout(register=r).values())) for r in range(len(self.acc.registers))]
        return self.acc.with_registers([self.results[p] for p in order])

    # -- fragments ----------------------------------------------------------------------------------------------

    def _word(self, side: int, batch: int, line: int, k: int) -> Value:
        """One register of a fragment: `packed` elements along k, of a row of a or a column of b."""
        key = side, (batch, line, k)
        if key not in self._words:
            self._words[key] = self._make_word(side, batch, line, k)
        return self._words[key]

    def _make_word(self, side: int, batch: int, line: int, k: int) -> Value:
        b, element = self.b, self.elements[side]
        depths = range(k, min(k + self.packed, self.depth))
        places = [(batch, line, i) if side == 0 else (batch, i, line) for i in depths]
        held = self.values[side]
        places = [place for place in places if place in held]
        if isinstance(held, BytesInWords) and element == "f16" and len(places) == self.packed and self.outside is None:
            word = held.halves(places, self.sides[side].element)
            if word is not None:
                return word
        values = [held[place] for place in places]
        if element != self.sides[side].element:
            values = ftof_all(b, values, self.sides[side].element, element)
        zero = integer(IntType(8 * STORAGE_BYTES[element]), 0)
        parts = [as_integer(b, v) for v in values]
        parts += [zero] * (self.packed - len(parts))
        word = parts[0] if len(parts) == 1 else b.cast("bitcast", b.vector(parts), I32)
        if self.outside is not None:
            word = b.select(self.outside, integer(word.type, 0), word)
        return from_integer(b, word, DOUBLE) if word.type is I64 else word

    def _depths(self, k: int) -> list[int]:
        """Where the registers of one atom start along k."""
        return list(range(k, k + self.atom.k, 4 * self.packed))

    def _corners(self, m: int, n: int) -> list[tuple[int, int]]:
        """Rows and columns of an accumulator's registers, folded into the tile."""
        _, rows, columns = self.box
        halves = (0, 8) if self.atom.m == 16 else (0,)
        return [((m + h) & (rows - 1) if m + h >= rows else m + h, (n + i) % columns) for h in halves for i in (0, 1)]

    def places(self, atom: Place) -> list[Place]:
        """The places of an atom's results."""
        g, m, n = atom
        return [(g, row, column) for row, column in self._corners(m, n)]

    def multiply(self, place: Place, k: int) -> None:
        """Add the product of an atom's part of the depth, which starts at `k`, to its results."""
        b, atom = self.b, self.atom
        g, m, n = place
        corners = self._corners(m, n)
        rows = [row for row, _ in corners[::2]]
        a = [self._word(0, g, row, depth) for depth in self._depths(k) for row in rows]
        right = [self._word(1, g, n, depth) for depth in self._depths(k)]
        c = [self.results[g, row, column] for row, column in corners]
        half = c[0].type is HALF
        if half:
            c = [b.cast("bitcast", b.vector(c[i : i + 2]), I32) for i in range(0, len(c), 2)]
        made = _mma(b, atom, a, right, c)
        if half:
            pairs = [b.cast("bitcast", word, VectorType(2, HALF)) for word in made]
            made = [b.extract(pair, i, HALF) for pair in pairs for i in range(2)]
        # A row or column that is folded into the tile is a copy; the first of equals is kept.
        for (row, column), value in reversed(list(zip(corners, made))):
            self.results[g, row, column] = value


def _mma(
    b: KernelBuilder,
    atom: MmaAtom,
    a: Sequence[Value],
    right: Sequence[Value],
    c: Sequence[Value],
) -> list[Value]:
    """One mma.sync (PTX ISA, "Warp-level matrix multiply-accumulate instruction: mma")."""
    operands = [*a, *right, *c]
    first = len(c)

    def group(start: int, count: int) -> str:
        return "{" + ", ".join(f"${i}" for i in range(start, start + count)) + "}"

    shape = f"m{atom.m}n{atom.n}k{atom.k}"
    text = (
        f"mma.sync.aligned.{shape}.row.col.{atom.d}.{atom.a}.{atom.b}.{atom.d} {group(0, first)}, "
        f"{group(first, len(a))}, {group(first + len(a), len(right))}, {group(0, first)};"
    )
    type_ = c[0].type
    constraints = (
        [f"={type_.constraint}"] * first + [v.type.constraint for v in (*a, *right)] + [str(i) for i in range(first)]
    )
    result = StructType((type_,) * first)
    arguments = ", ".join(v.typed for v in operands)
    made = b.emit(result, f'call {result} asm "{text}", "{",".join(constraints)}"({arguments}) convergent nounwind')
    return [b.extract(made, i, type_) for i in range(first)]


# -- fused multiply-adds --------------------------------------------------------------------------------------------

_BODY_PRODUCTS = 512
"""How many multiply-adds of a thread stand in one iteration of the loop over k, about."""


_OPERAND_BYTES = 49152
"""The most shared memory that the operands take at a time, where there is room for it."""


@dataclass(frozen=True)
class Slices:
    """How the operands of a product of single elements go to shared memory: `count` slices along k, of which each takes
    `bytes`, the right operand's from `start` on."""

    count: int
    start: int
    bytes: int


def product_slices(shapes: Sequence[Sequence[int]], element_bytes: Sequence[int], room: int) -> Slices:
    """How operands of these shapes, of elements of so many bytes, are cut along k so that a slice finds room."""
    depth = shapes[0][-1]
    sizes = [size * prod(shape) for size, shape in zip(element_bytes, shapes)]
    most = min(_OPERAND_BYTES, room)
    count = 1
    while sum(sizes) > count * most and count < depth:
        count *= 2
    start = padded(sizes[0] // count)
    return Slices(count, start, padded(start + sizes[1] // count))


def exchange_sizes(
    layouts: Sequence[LinearLayout], element_bytes: Sequence[int], warp_bits: int, room: int
) -> tuple[int, ...]:
    """The bytes of each exchange of `multiply_add` on operands in these layouts, of elements of so many bytes."""
    shapes = [layout.shape for layout in layouts]
    found = product_slices(shapes, element_bytes, room)
    sizes: tuple[int, ...] = ()
    if found.count > 1:
        for layout, size, dim in zip(layouts, element_bytes, (len(shapes[0]) - 1, len(shapes[1]) - 2)):
            cut = _sliceable_layout(layout, dim, found.count)
            sizes += conversion_plan.exchange_sizes([layout], [cut], [size], warp_bits, room)
    return (*sizes, *[found.bytes] * found.count)


def multiply_add(b: KernelBuilder, lhs: Tile, rhs: Tile, acc: Tile) -> Tile:
    """lhs (m x k) times rhs (k x n) plus acc by fused multiply-adds in the accumulator's type and layout; the operands
    may be in any layout. All threads of the block must come here: slices along k that fit go to shared memory."""
    sizes = [STORAGE_BYTES[t.element] for t in (lhs, rhs)]
    found = product_slices((lhs.shape, rhs.shape), sizes, b.exchanges.room)
    if found.count == 1:
        return _multiply_add_slice(b, lhs, rhs, acc, found)
    dims = len(lhs.shape) - 1, len(rhs.shape) - 2
    sides = [convert_all(b, [t], [_sliceable_layout(t.layout, d, found.count)])[0] for t, d in zip((lhs, rhs), dims)]
    for number in range(found.count):
        left, right = (_slice(b, t, d, found.count, number) for t, d in zip(sides, dims))
        acc = _multiply_add_slice(b, left, right, acc, found)
    return acc


def _sliceable_layout(layout: LinearLayout, dim: int, count: int) -> LinearLayout:
    """A layout near this one whose registers tell `count` slices along a dimension apart."""
    size, rank = layout.shape[dim], len(layout.shape)
    wanted = [tuple(size >> i + 1 if d == dim else 0 for d in range(rank)) for i in range(count.bit_length() - 1)]
    return shapes.in_registers(layout, wanted)


def _slice(b: KernelBuilder, tile: Tile, dim: int, count: int, number: int) -> Tile:
    shape = [s // count if d == dim else s for d, s in enumerate(tile.shape)]
    return shapes.extract(b, tile, [integer(I32, number if d == dim else 0) for d in range(len(shape))], shape)


def _multiply_add_slice(b: KernelBuilder, lhs: Tile, rhs: Tile, acc: Tile, found: Slices) -> Tile:
    """Both operands go to shared memory; each thread reads, for some steps along k at a time, its rows and columns."""
    depth = lhs.shape[-1]
    steps = max(min(depth, 4, _BODY_PRODUCTS // max(len(acc.registers), 1)), 1)
    place = b.exchange(found.bytes)
    readers: list[Callable[[Value], Tile]] = []
    for side, tile in enumerate((lhs, rhs)):
        base = b.exchange_pointer(place, found.start * side)
        readers.append(_stored(b, tile, base, _operand_part(acc.layout, tile.shape, steps, side), steps, side))
    b.barrier()

    def step(number: Value, result: Tile) -> Tile:
        parts = [by_place(in_element(b, read(number), acc.element)) for read in readers]
        places = [_place(tuple(result.layout(register=r).values())) for r in range(len(result.registers))]
        values = list(result.registers)
        for k in range(steps):
            for r, (g, m, n) in enumerate(places):
                values[r] = floats.fma(b, parts[0][g, m, k], parts[1][g, k, n], values[r])
        return result.with_registers(values)

    if steps == depth:
        result = step(integer(I32, 0), acc)
    else:
        bounds = [integer(I32, n) for n in (0, depth // steps, 1)]

        def body(number: Value, carried: list[Tile | Value]) -> list[Tile | Value]:
            (held,) = carried
            assert isinstance(held, Tile)  # what the loop carries is the accumulator
            return [step(number, held)]

        (carried,) = for_loop(b, bounds[0], bounds[1], bounds[2], [acc], body)
        assert isinstance(carried, Tile)
        result = carried
    return result


def _operand_part(c: LinearLayout, shape: Sequence[int], steps: int, side: int) -> LinearLayout:
    """What a thread reads of an operand in one iteration: `steps` elements along k of the lines that its part of the
    result needs; as a layout of the whole operand."""
    rank = len(shape)
    depth_dim, line_dim = (rank - 1, rank - 2) if side == 0 else (rank - 2, rank - 1)

    def vector(v: Sequence[int]) -> tuple[int, ...]:
        return tuple(0 if d == depth_dim else v[line_dim] if d == line_dim else v[d] for d in range(rank))

    low = [tuple(s if d == depth_dim else 0 for d in range(rank)) for s in (1, 2, 4, 8) if s < steps]
    bases = {n: [vector(v) for v in c.basis(n)] for n in (REGISTER, LANE, WARP)}
    bases[REGISTER] = [*low, *(v for v in bases[REGISTER] if any(v))]
    return LinearLayout.of(bases, dict(zip(c.out_dims, shape)))


def _stored(
    b: KernelBuilder, tile: Tile, base: Value, part: LinearLayout, steps: int, side: int
) -> Callable[[Value], Tile]:
    """Store an operand; the function returned loads the part with a number."""
    size, warps, rank = STORAGE_BYTES[tile.element], warp_bits_of(b), len(tile.shape)
    depth_dim = rank - 1 if side == 0 else rank - 2
    source = normalized(without_register_copies(tile.layout), warps)
    shared, _ = conflict_free_shared(source, normalized(without_register_copies(part), warps), size)
    store_shared(b, base, shared, tile)
    inverse = shared.inverse()
    columns = []
    distance = steps
    while distance < tile.shape[depth_dim]:
        columns.append(inverse(**{f"dim{depth_dim}": distance})[OFFSET])
        distance *= 2
    reach = 0
    for column in columns:
        reach |= column

    def read(number: Value) -> Tile:
        moved = linear_of_bits(b, number, columns) if columns else None
        return load_shared(b, base, shared, part, tile.element, moved, reach)

    return read
