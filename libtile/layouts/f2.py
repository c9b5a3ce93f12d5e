# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Linear algebra over F2, the field of two elements, on columns kept as Python integers (bit i is row i).

A matrix is a sequence of columns; the product with a vector is the xor of the columns whose bit is set.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def apply(columns: Sequence[int], vector: int) -> int:
    """The matrix times the vector (bits of `vector` beyond the last column are ignored)."""
    result = 0
    for i, column in enumerate(columns):
        if vector >> i & 1:
            result ^= column
    return result


def compose(outer: Sequence[int], inner: Sequence[int]) -> list[int]:
    """The matrix product `outer @ inner`: inner is applied first."""
    return [apply(outer, column) for column in inner]


class Basis:
    """An incrementally built basis in echelon form that remembers how each vector was combined."""

    def __init__(self, columns: Iterable[int] = ()):
        self._rows: list[tuple[int, int]] = []  # (vector, combination of inserted columns), by falling leading bit
        self._inserted = 0
        for column in columns:
            self.insert(column)

    def __len__(self) -> int:
        return len(self._rows)

    def reduce(self, vector: int, combination: int = 0) -> tuple[int, int]:
        """What is left of the vector modulo the basis, and the combination of inserted columns that was removed."""
        for row, combo in self._rows:
            if vector ^ row < vector:
                vector ^= row
                combination ^= combo
        return vector, combination

    def insert(self, vector: int) -> bool:
        """Add a column; False when it depends on those before."""
        rest, combination = self.reduce(vector, 1 << self._inserted)
        self._inserted += 1
        if rest == 0:
            return False
        self._rows.append((rest, combination))
        self._rows.sort(reverse=True)
        return True

    def __contains__(self, vector: int) -> bool:
        return self.reduce(vector)[0] == 0


def rank(columns: Iterable[int]) -> int:
    """The dimension of the columns' span."""
    return len(Basis(columns))


def solve(columns: Sequence[int], target: int) -> int | None:
    """A vector that the matrix maps to the target (the unused columns' bits are 0), or None when there is none."""
    rest, combination = Basis(columns).reduce(target)
    return combination if rest == 0 else None


def kernel(columns: Sequence[int]) -> list[int]:
    """A basis of the vectors that the matrix maps to zero."""
    basis = Basis()
    result = []
    for i, column in enumerate(columns):
        rest, combination = basis.reduce(column, 1 << i)
        if rest == 0:
            result.append(combination)
        basis.insert(column)
    return result


def right_inverse(columns: Sequence[int], rows: int) -> list[int]:
    """Columns X with `columns @ X` the identity of size `rows`; ValueError when the matrix is not surjective."""
    basis = Basis(columns)
    result = []
    for i in range(rows):
        rest, combination = basis.reduce(1 << i)
        if rest != 0:
            raise ValueError("the matrix is not surjective")
        result.append(combination)
    return result


def complement(columns: Iterable[int], rows: int) -> list[int]:
    """Unit vectors that, together with the columns, span all of F2^rows."""
    basis = Basis(columns)
    return [1 << i for i in range(rows) if basis.insert(1 << i)]


def intersection(a: Sequence[int], b: Sequence[int]) -> list[int]:
    """A basis of the intersection of the spans of two sets of columns."""
    independent_a = independent(a)
    relations = kernel([*independent_a, *independent(b)])
    mask = (1 << len(independent_a)) - 1
    return [apply(independent_a, relation & mask) for relation in relations]


def independent(columns: Iterable[int]) -> list[int]:
    """The columns that do not depend on those before them."""
    basis = Basis()
    return [column for column in columns if basis.insert(column)]
