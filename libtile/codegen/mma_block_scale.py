# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products with scale factors by mma.sync with block_scale (PTX ISA, "mma with block scaling").

Each instruction takes the factors of its blocks from bytes of a register: four blocks' factors of a row or column stand
in one word.
"""

from __future__ import annotations

from libtile.atoms import mma_block_scale as atoms
from libtile.atoms.operand_types import multiplied_element
from libtile.codegen.builder import KernelBuilder, Value
from libtile.codegen.llvm_types import FLOAT, I32, StructType
from libtile.codegen.mma_sync import Product
from libtile.codegen.places import Place, by_place, in_element
from libtile.codegen.stored_bits import join
from libtile.codegen.tile import Tile
from libtile.targets import MmaAtom

BYTES = 4
"""Factors in a register."""


def dot(b: KernelBuilder, lhs: Tile, rhs: Tile, acc: Tile, atom: MmaAtom) -> Tile:
    """ValueError: there is no such product without factors."""
    raise ValueError(f"{atom} multiplies operands with scale factors only")


def dot_scaled(
    b: KernelBuilder, lhs: Tile, rhs: Tile, acc: Tile, lhs_scale: Tile, rhs_scale: Tile, atom: MmaAtom
) -> Tile:
    """lhs (m x k) times rhs (k x n) plus acc in f32, with factors lhs_scale (m x blocks) and rhs_scale (blocks x n).

    The operands are in the layouts that `mma_layouts.scaled_layouts` says; the result is in the accumulator's.
    """
    if not atoms.shares_bytes(atom):
        lhs = in_element(b, lhs, multiplied_element(lhs.element, atom.a))
        rhs = in_element(b, rhs, multiplied_element(rhs.element, atom.b))
    return _Scaled(b, atom, lhs, rhs, acc, lhs_scale, rhs_scale).run()


class _Scaled(Product):
    """The products of the atoms of a tile with the factors of their blocks."""

    def __init__(
        self, b: KernelBuilder, atom: MmaAtom, lhs: Tile, rhs: Tile, acc: Tile, lhs_scale: Tile, rhs_scale: Tile
    ):  # fmt: skip
        super().__init__(b, atom, lhs, rhs, acc)
        self._factors = by_place(lhs_scale), by_place(rhs_scale)
        self._blocks = lhs_scale.shape[-1]
        self._step = atoms.depth_bytes(atom)
        elements = self.depth * atom.k // self._step
        self._kind = atoms.kind(atom, elements // self._blocks, lhs_scale.element)
        self._factor_words: dict[tuple[int, int, int], Value] = {}

    def _factor(self, side: int, line: int, block: int) -> Value:
        """The word with a block's factor of this thread's row or column of an atom, whose first one is `line`."""
        first = block // BYTES * BYTES
        key = side, line, first
        if key not in self._factor_words:
            blocks = range(first, min(first + BYTES, self._blocks))
            places: list[Place] = [(0, line, i) if side == 0 else (0, i, line) for i in blocks]
            values = [self._factors[side][place] for place in places]
            word = join(self.b, values, 8)
            self._factor_words[key] = word if len(values) == BYTES else self.b.cast("zext", word, I32)
        return self._factor_words[key]

    def run(self) -> Tile:
        """The products of all steps along k, which are so many bytes."""
        parts = self.atoms()
        for k in range(0, self.depth, self._step):
            for place in parts:
                self.multiply(place, k)
        return self.result()

    def _depths(self, k: int) -> list[int]:
        return list(range(k, k + self._step, 4 * self.packed))

    def multiply(self, place: Place, k: int) -> None:
        """Add the scaled product of an atom's block, which starts at `k`, to its results."""
        b, atom = self.b, self.atom
        g, m, n = place
        places = self.places(place)
        rows = [row for _, row, _ in places[::2]]
        a = [self._word(0, g, row, depth) for depth in self._depths(k) for row in rows]
        right = [self._word(1, g, n, depth) for depth in self._depths(k)]
        block = k // self._step * self._kind.count
        factors = self._factor(0, m, block), self._factor(1, n, block)
        c = [self.results[p] for p in places]
        made = _mma(b, atom, self._kind, a, right, c, factors, block % BYTES)
        self.results |= dict(zip(places, made))


def _mma(
    b: KernelBuilder,
    atom: MmaAtom,
    kind: atoms.Kind,
    a: list[Value],
    right: list[Value],
    c: list[Value],
    factors: tuple[Value, Value],
    byte: int,
) -> list[Value]:
    count = len(c)

    def group(start: int, length: int) -> str:
        return "{" + ", ".join(f"${i}" for i in range(start, start + length)) + "}"

    behind = count + len(a) + len(right)
    text = (
        f"mma.sync.aligned.m{atom.m}n{atom.n}k{atom.k}.row.col.kind::{kind.name}.block_scale.scale_vec::{kind.count}X."
        f"{atom.d}.{atom.a}.{atom.b}.{atom.d}.{kind.factors} {group(0, count)}, {group(count, len(a))}, "
        f"{group(count + len(a), len(right))}, {group(0, count)}, "
        f"${behind}, {{{byte}, 0}}, ${behind + 1}, {{{byte}, 0}};"
    )
    operands = [*a, *right, *factors, *c]
    constraints = [f"={FLOAT.constraint}"] * count + ["r"] * (len(operands) - count) + [str(i) for i in range(count)]
    result = StructType((FLOAT,) * count)
    arguments = ", ".join(v.typed for v in operands)
    made = b.emit(result, f'call {result} asm "{text}", "{",".join(constraints)}"({arguments}) convergent nounwind')
    return [b.extract(made, i, FLOAT) for i in range(count)]
