# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Linear layouts: where each element of a tile lives, as a linear map over F2.

The idea (Zhou et al., "Linear Layouts: Robust Code Generation of Efficient Tensor Computation Using F2", 2025):
all sizes are powers of two, so a place in the hardware is a string of bits (which register, which lane, which warp;
or which offset in shared memory), and so is an element's index in a tile. A layout maps the bits of the place to the
bits of the index, and every layout that matters (blocked, tensor-core fragments, swizzled shared memory) is *linear*:
`L(a xor b) = L(a) xor L(b)`. Hence a layout is known by its values at single bits, its basis:

    place  = register bits, lane bits, warp bits, ...         named input dimensions
    index  = bits of dim0, bits of dim1, ...                  named output dimensions
    L(place) = xor of basis[name][i] over the set bits i of each input dimension

Example: 8 elements of one dimension over 4 lanes with 2 consecutive elements each:

    register: [1]        bit 0 of the register index moves by 1 element
    lane:     [2, 4]     bit 0 of the lane moves by 2, bit 1 by 4

A conversion between two layouts of the same tile is then `B^-1 . A`: computed, not listed. A layout that is not
injective holds an element in several places (broadcast); one that is not surjective does not hold the whole tile.

Dimensions are ordered, the first being the fastest-moving when bits are numbered ("minor to major").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import product as cartesian_product

from libtile.layouts import f2
from libtile.layouts.dims import BLOCK as BLOCK
from libtile.layouts.dims import LANE as LANE
from libtile.layouts.dims import OFFSET as OFFSET
from libtile.layouts.dims import REGISTER as REGISTER
from libtile.layouts.dims import WARP as WARP
from libtile.support.records import dataclass


def _bits(size: int, what: str) -> int:
    if size <= 0 or size & (size - 1):
        raise ValueError(f"{what} must be a power of two, got {size}")
    return size.bit_length() - 1


@dataclass(frozen=True)
class LinearLayout:
    """A linear map from named input dimensions to named output dimensions.

    `bases[name][i]` is the output index (one integer per output dimension) of bit i of input dimension `name`;
    `outs` maps each output dimension to its number of bits. Build one with `LinearLayout.of`. What is asked of a layout
    again and again it keeps.
    """

    bases: tuple[tuple[str, tuple[tuple[int, ...], ...]], ...]
    outs: tuple[tuple[str, int], ...]

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.bases, self.outs))

    def __getstate__(self) -> dict[str, object]:
        """What is pickled: another process hashes names in its own way."""
        return {"bases": self.bases, "outs": self.outs}

    # -- making -------------------------------------------------------------------------------------------------

    @staticmethod
    def of(bases: Mapping[str, Sequence[Sequence[int] | int]], outs: Mapping[str, int]) -> LinearLayout:
        """A layout from basis vectors and output sizes (powers of two).

        A basis vector may be a bare integer when there is one output dimension. ValueError when a vector has the wrong
        length or leaves its output dimension.
        """
        out_bits = tuple((name, _bits(size, f"size of {name!r}")) for name, size in outs.items())
        rows = []
        for name, vectors in bases.items():
            row = tuple((v,) if isinstance(v, int) else tuple(v) for v in vectors)
            for vector in row:
                if len(vector) != len(out_bits):
                    raise ValueError(f"basis of {name!r} has {len(vector)} coordinates, expected {len(out_bits)}")
                for coordinate, (out, bits) in zip(vector, out_bits):
                    if not 0 <= coordinate < 1 << bits:
                        raise ValueError(f"basis of {name!r} leaves {out!r}: {coordinate} not in [0, {1 << bits})")
            rows.append((name, row))
        return LinearLayout(tuple(rows), out_bits)

    @staticmethod
    def identity(size: int, in_dim: str, out_dim: str) -> LinearLayout:
        """`in_dim` i is `out_dim` i."""
        return LinearLayout.of({in_dim: [1 << i for i in range(_bits(size, "size"))]}, {out_dim: size})

    @staticmethod
    def strided(size: int, stride: int, in_dim: str, out_dim: str) -> LinearLayout:
        """`in_dim` i is `out_dim` i * stride; the output has size * stride values."""
        _bits(stride, "stride")
        return LinearLayout.of({in_dim: [stride << i for i in range(_bits(size, "size"))]}, {out_dim: size * stride})

    @staticmethod
    def zeros(size: int, in_dim: str, out_dim: str) -> LinearLayout:
        """Every `in_dim` i is `out_dim` 0: a broadcast."""
        return LinearLayout.of({in_dim: [0] * _bits(size, "size")}, {out_dim: 1})

    @staticmethod
    def empty() -> LinearLayout:
        """The layout without dimensions: the unit of `*`."""
        return LinearLayout((), ())

    # -- looking ------------------------------------------------------------------------------------------------

    @cached_property
    def in_dims(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.bases)

    @cached_property
    def out_dims(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.outs)

    @cached_property
    def _vectors(self) -> dict[str, tuple[tuple[int, ...], ...]]:
        return dict(self.bases)

    def basis(self, in_dim: str) -> tuple[tuple[int, ...], ...]:
        """Basis vectors of an input dimension, from bit 0; empty for a dimension that the layout does not have."""
        return self._vectors.get(in_dim, ())

    def in_size(self, in_dim: str) -> int:
        return 1 << len(self.basis(in_dim))

    def out_size(self, out_dim: str) -> int:
        return 1 << dict(self.outs)[out_dim]

    @property
    def in_bits(self) -> int:
        return sum(len(vectors) for _, vectors in self.bases)

    @property
    def out_bits(self) -> int:
        return sum(bits for _, bits in self.outs)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the output dimensions."""
        return tuple(1 << bits for _, bits in self.outs)

    def columns(self, in_dims: Iterable[str] | None = None) -> list[int]:
        """The flat matrix: one integer per input bit, output dimensions packed with the first in the low bits."""
        wanted = set(self.in_dims if in_dims is None else in_dims)
        return [self._pack(v) for name, vectors in self.bases if name in wanted for v in vectors]

    def _pack(self, coordinates: Sequence[int]) -> int:
        packed, shift = 0, 0
        for coordinate, (_, bits) in zip(coordinates, self.outs):
            packed |= coordinate << shift
            shift += bits
        return packed

    def _unpack(self, packed: int) -> tuple[int, ...]:
        coordinates = []
        for _, bits in self.outs:
            coordinates.append(packed & ((1 << bits) - 1))
            packed >>= bits
        return tuple(coordinates)

    def __call__(self, **place: int) -> dict[str, int]:
        """The output index of a place; input dimensions not given are 0. KeyError for an unknown dimension."""
        coordinates = [0] * len(self.outs)
        for name, value in place.items():
            vectors = self._vectors[name]
            if not 0 <= value < 1 << len(vectors):
                raise ValueError(f"{name}={value} is outside of [0, {1 << len(vectors)})")
            while value:
                low = value & -value
                coordinates = [c ^ v for c, v in zip(coordinates, vectors[low.bit_length() - 1])]
                value ^= low
        return dict(zip(self.out_dims, coordinates))

    @property
    def is_surjective(self) -> bool:
        return f2.rank(self.columns()) == self.out_bits

    @property
    def is_injective(self) -> bool:
        return f2.rank(self.columns()) == self.in_bits

    @property
    def is_invertible(self) -> bool:
        return self.in_bits == self.out_bits and self.is_injective

    def free_bits(self) -> Mapping[str, int]:
        """For each input dimension a mask of the bits that hold no new element (they repeat what others hold)."""
        return self._free_bits

    @cached_property
    def _free_bits(self) -> Mapping[str, int]:
        basis = f2.Basis()
        masks = {}
        for name, vectors in self.bases:
            masks[name] = sum(1 << i for i, v in enumerate(vectors) if not basis.insert(self._pack(v)))
        return masks

    # -- algebra ------------------------------------------------------------------------------------------------

    def __mul__(self, other: LinearLayout) -> LinearLayout:
        """The product: `other`'s bits come above this layout's, in every dimension that both have.

        Tiling a layout over more warps or more registers is a product. Dimension order is the left operand's, then new.
        """
        out_sizes = dict(self.outs)
        for name, bits in other.outs:
            out_sizes[name] = out_sizes.get(name, 0) + bits
        shifts = dict(self.outs)

        def widen(layout: LinearLayout, vector: Sequence[int], shift: bool) -> tuple[int, ...]:
            coordinate = dict(zip(layout.out_dims, vector))
            return tuple(coordinate.get(n, 0) << (shifts.get(n, 0) if shift else 0) for n in out_sizes)

        bases: dict[str, list[tuple[int, ...]]] = {}
        for layout, shift in ((self, False), (other, True)):
            for name, vectors in layout.bases:
                bases.setdefault(name, []).extend(widen(layout, v, shift) for v in vectors)
        return LinearLayout.of(bases, {n: 1 << bits for n, bits in out_sizes.items()})

    def compose(self, outer: LinearLayout) -> LinearLayout:
        """First this layout, then `outer` (whose input dimensions are this layout's outputs)."""
        if set(outer.in_dims) != set(self.out_dims):
            raise ValueError(f"cannot compose: {self.out_dims} is not {outer.in_dims}")
        for name in self.out_dims:
            if outer.in_size(name) < self.out_size(name):
                raise ValueError(
                    f"cannot compose: {name!r} has {self.out_size(name)} values, the outer layout takes fewer"
                )
        bases = {
            name: [tuple(outer(**dict(zip(self.out_dims, v))).values()) for v in vectors]
            for name, vectors in self.bases
        }
        return LinearLayout.of(bases, {n: 1 << b for n, b in outer.outs})

    def inverse(self) -> LinearLayout:
        """The layout from outputs to inputs; for a surjective layout a right inverse (free bits are 0).

        ValueError when the layout does not reach all outputs.
        """
        solutions = f2.right_inverse(self.columns(), self.out_bits)
        ins = {name: 1 << len(vectors) for name, vectors in self.bases}
        frame = LinearLayout.of({}, ins)
        bases: dict[str, list[tuple[int, ...]]] = {}
        position = 0
        for name, bits in self.outs:
            bases[name] = [frame._unpack(s) for s in solutions[position : position + bits]]
            position += bits
        return LinearLayout.of(bases, ins)

    def convert_to(self, target: LinearLayout) -> LinearLayout:
        """Where each place of this layout finds its element in `target`: `target^-1 . self`.

        Of several places that hold the element the one whose hardware bits equal the source's is taken, bit by bit, as
        far as possible, so that what need not move does not. Both layouts must have the same outputs.
        """
        if dict(self.outs) != dict(target.outs):
            raise ValueError(f"the layouts describe different tiles: {dict(self.outs)} and {dict(target.outs)}")
        target = target.transpose_outs(self.out_dims)
        ins = {name: 1 << len(vectors) for name, vectors in target.bases}
        frame = LinearLayout.of({}, ins)
        columns = target.columns()
        free = f2.kernel(columns)
        bases: dict[str, list[tuple[int, ...]]] = {}
        for name, vectors in self.bases:
            rows = []
            for i, vector in enumerate(vectors):
                solution = f2.solve(columns, self._pack(vector))
                if solution is None:
                    raise ValueError("the target layout does not hold the whole tile")
                same = frame._pack([1 << i if n == name and 1 << i < size else 0 for n, size in ins.items()])
                rows.append(frame._unpack(_nearest(solution, same, free)))
            bases[name] = rows
        return LinearLayout.of(bases, ins)

    def quotient(self, divisor: LinearLayout) -> LinearLayout | None:
        """The layout Q with `divisor * Q == self`, or None: whether this layout is made of tiles of `divisor`."""
        outs = dict(self.outs)
        low = dict(divisor.outs)
        if any(n not in outs or bits > outs[n] for n, bits in divisor.outs):
            return None
        bases: dict[str, list[tuple[int, ...]]] = {}
        for name, vectors in self.bases:
            mine = divisor.basis(name)
            head, tail = vectors[: len(mine)], vectors[len(mine) :]
            expected = [tuple(dict(zip(divisor.out_dims, v)).get(n, 0) for n in outs) for v in mine]
            if list(head) != expected:
                return None
            for vector in tail:
                if any(c & ((1 << low.get(n, 0)) - 1) for c, n in zip(vector, outs)):
                    return None
            bases[name] = [tuple(c >> low.get(n, 0) for c, n in zip(v, outs)) for v in tail]
        if any(n not in self.in_dims for n in divisor.in_dims if divisor.basis(n)):
            return None
        return LinearLayout.of(bases, {n: 1 << (bits - low.get(n, 0)) for n, bits in outs.items()})

    def transpose_outs(self, order: Sequence[str]) -> LinearLayout:
        """The same layout with its output dimensions in another order."""
        if sorted(order) != sorted(self.out_dims):
            raise ValueError(f"{tuple(order)} is not a permutation of {self.out_dims}")
        positions = [self.out_dims.index(n) for n in order]
        outs = {n: self.out_size(n) for n in order}
        return LinearLayout.of({n: [tuple(v[p] for p in positions) for v in vs] for n, vs in self.bases}, outs)

    def transpose_ins(self, order: Sequence[str]) -> LinearLayout:
        """The same layout with its input dimensions in another order."""
        if sorted(order) != sorted(self.in_dims):
            raise ValueError(f"{tuple(order)} is not a permutation of {self.in_dims}")
        return LinearLayout(tuple((n, self.basis(n)) for n in order), self.outs)

    def rename_outs(self, names: Mapping[str, str]) -> LinearLayout:
        """The same layout with output dimensions renamed."""
        return LinearLayout(self.bases, tuple((names.get(n, n), bits) for n, bits in self.outs))

    def reshape_outs(self, outs: Mapping[str, int]) -> LinearLayout:
        """The same flat index cut into other output dimensions (first dimension fastest), of the same total size."""
        frame = LinearLayout.of({}, outs)
        if frame.out_bits != self.out_bits:
            raise ValueError(f"cannot reshape {self.shape} to {tuple(outs.values())}")
        bases = {n: [frame._unpack(self._pack(v)) for v in vs] for n, vs in self.bases}
        return LinearLayout.of(bases, outs)

    def restrict(self, in_dims: Sequence[str]) -> LinearLayout:
        """The layout of some of the input dimensions, the others held at 0."""
        return LinearLayout(tuple((n, vs) for n, vs in self.bases if n in in_dims), self.outs)

    def with_in_dim(self, in_dim: str, size: int = 1) -> LinearLayout:
        """The same layout with an input dimension added (it broadcasts) unless it is there."""
        if in_dim in self.in_dims:
            return self
        row = (in_dim, tuple((0,) * len(self.outs) for _ in range(_bits(size, "size"))))
        return LinearLayout((*self.bases, row), self.outs)

    # -- showing ------------------------------------------------------------------------------------------------

    def places(self) -> dict[tuple[int, ...], list[dict[str, int]]]:
        """Every element's index, with all places that hold it; lists the whole tile (for pictures, tests)."""
        table: dict[tuple[int, ...], list[dict[str, int]]] = {}
        ranges = [range(self.in_size(n)) for n in reversed(self.in_dims)]
        for values in cartesian_product(*ranges):
            place = dict(zip(self.in_dims, reversed(values)))
            table.setdefault(tuple(self(**place).values()), []).append(place)
        return table

    def _repr_html_(self) -> str:
        """The picture of `libtile.layouts.show.svg`, as notebooks show it; the text where a picture is too large."""
        from libtile.layouts.show import fits, svg

        return svg(self) if fits(self) else f"<pre>{self}</pre>"

    def __str__(self) -> str:
        lines = [f"{n}: {', '.join(map(str, vs)) or '(one)'}" for n, vs in self.bases]
        return "\n".join([*lines, f"-> {', '.join(f'{n}={1 << b}' for n, b in self.outs)}"])


def _nearest(solution: int, wanted: int, free: Sequence[int]) -> int:
    """The element of `solution + span(free)` that agrees with `wanted` where the free vectors allow it."""
    rest, _ = f2.Basis(free).reduce(solution ^ wanted)
    return rest ^ wanted
