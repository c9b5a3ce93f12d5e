# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Matrix products of tiles by mma.sync, on fragments in registers (Tile IR, "mmaf", "mmai")."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from libtile.atoms.operand_types import multiplied_element, packed_elements
from libtile.atoms.shared_accesses import WORD_BYTES
from libtile.codegen.builder import KernelBuilder, Value, integer
from libtile.codegen.conversions import ftof_all
from libtile.codegen.lanes import parity
from libtile.codegen.llvm_types import DOUBLE, HALF, I8, I32, I64, IntType, StructType, VectorType
from libtile.codegen.narrow_floats import halves_of_bytes
from libtile.codegen.places import Place, box_of, by_place, in_element, place_of
from libtile.codegen.stored_bits import as_integer, from_integer, join
from libtile.codegen.tile import Tile
from libtile.numerics.elements import STORAGE_BYTES
from libtile.targets import MmaAtom


def dot(b: KernelBuilder, lhs: Tile, rhs: Tile, acc: Tile, atom: MmaAtom) -> Tile:
    """lhs (m x k) times rhs (k x n) plus acc by tensor cores, in the accumulator's layout.

    The operands are in the atom's fragments (`mma_layouts.fragments`), and of its element types or of narrower floats.
    """
    lhs = in_element(b, lhs, multiplied_element(lhs.element, atom.a))
    rhs = in_element(b, rhs, multiplied_element(rhs.element, atom.b))
    return Product(b, atom, lhs, rhs, acc).run()


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
        self.box = box_of(acc.shape)
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
        order = [place_of(tuple(self.acc.layout(register=r).values())) for r in range(len(self.acc.registers))]
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
