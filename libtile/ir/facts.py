# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Divisibility, contiguity, constancy and ranges of integer and pointer tiles, by dataflow from what `assume` says.

A tile's elements are looked at along one dimension at a time. Along dimension d, cut into groups of

    constancy[d]    elements: each group holds one value
    contiguity[d]   elements: each group counts up by one (pointers: by the size of the pointee), and wraps around
                    where numbers of its width do

and `divisor[d]` divides the first element of each *contiguity* group. All three are powers of two, and groups start at
index 0. Scalars are treated as tiles of one dimension of one element. `lower` and `upper` bound all elements (integers
as signed numbers). An unknown value has 1 everywhere and no bounds.

These facts decide the width of memory accesses, whether TMA can be used, and which bounds checks go away, so each rule
here only ever claims what holds for every execution: a test evaluates random programs and looks for a counterexample.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from libtile.support.records import dataclass, replace

MAX_GRID = (1 << 24) - 1
"""The largest extent of a grid along one axis (Tile IR specification, get_num_tile_blocks)."""

MAX_DIVISOR = 1 << 62
"""What divides zero: as much as anybody will ask for."""


def power_of_two_factor(number: int) -> int:
    """The largest power of two that divides a number (MAX_DIVISOR for 0)."""
    return MAX_DIVISOR if number == 0 else min(number & -number, MAX_DIVISOR)


@dataclass(frozen=True, slots=True)
class Fact:
    """What is known of a tile; see the module's text. The tuples have one entry per dimension (a scalar has one)."""

    divisor: tuple[int, ...]
    contiguity: tuple[int, ...]
    constancy: tuple[int, ...]
    lower: int | None = None
    upper: int | None = None

    @staticmethod
    def unknown(rank: int) -> Fact:
        ones = (1,) * max(rank, 1)
        return Fact(ones, ones, ones)

    @staticmethod
    def constant(value: int, shape: Sequence[int]) -> Fact:
        """A tile that holds one known value."""
        dims = tuple(shape) or (1,)
        factor = power_of_two_factor(value)
        return Fact((factor,) * len(dims), (1,) * len(dims), tuple(map(power_of_two_factor, dims)), value, value)

    @property
    def value(self) -> int | None:
        """The value of every element, when that is known."""
        return self.lower if self.lower is not None and self.lower == self.upper else None

    @property
    def scalar_divisor(self) -> int:
        """What divides every element: known where no dimension counts up."""
        return min(self.divisor_at(d, 1) for d in range(len(self.divisor)))

    def divisor_at(self, dim: int, group: int) -> int:
        """What divides the elements at multiples of `group` (a power of two) along a dimension."""
        if self.contiguity[dim] <= group:
            return self.divisor[dim]
        return gcd(self.divisor[dim], group)

    def join(self, other: Fact) -> Fact:
        """What holds of a value that is one or the other."""
        contiguity = tuple(map(min, self.contiguity, other.contiguity))
        divisor = tuple(gcd(self.divisor_at(d, c), other.divisor_at(d, c)) for d, c in enumerate(contiguity))
        lower = None if self.lower is None or other.lower is None else min(self.lower, other.lower)
        upper = None if self.upper is None or other.upper is None else max(self.upper, other.upper)
        return Fact(divisor, contiguity, tuple(map(min, self.constancy, other.constancy)), lower, upper)

    def within(self, bits: int) -> Fact:
        """The same with both bounds: where there is none, numbers of `bits` bits have one of their own."""
        if self.lower is not None and self.upper is not None:
            return self
        limit = 1 << (bits - 1)
        lower = -limit if self.lower is None else self.lower
        return replace(self, lower=lower, upper=limit - 1 if self.upper is None else self.upper)

    def clamped(self, bits: int, wraps: bool = True) -> Fact:
        """The fact for arithmetic of `bits` bits. Bounds that do not fit, or of which one is missing, mean that the
        value may have wrapped to any number; or that it is the last that fits at most, where it does not wrap
        (`wraps`). Bounds that all numbers have are left out."""
        limit = 1 << (bits - 1)
        if self.lower is None or self.upper is None or (wraps and not -limit <= self.lower <= self.upper < limit):
            return replace(self, lower=None, upper=None)
        if self.lower == self.upper or -limit < self.lower <= self.upper < limit - 1:
            return self
        lower, upper = (None if self.lower <= -limit else self.lower), (None if self.upper >= limit - 1 else self.upper)
        return replace(self, lower=lower, upper=upper)


# -- transfer functions on facts ------------------------------------------------------------------------------------


def _scaled(fact: Fact, dim: int, group: int, unit: int) -> int:
    """`divisor_at` of a pointer whose elements count in steps of `unit` bytes."""
    if fact.contiguity[dim] <= group:
        return fact.divisor[dim]
    return gcd(fact.divisor[dim], group * unit)


def add(a: Fact, b: Fact, unit: int = 1) -> Fact:
    """The sum; `unit` is the size of the pointee when `a` is a tile of pointers (then `b` counts elements)."""
    contiguity, constancy, divisor = [], [], []
    for d in range(len(a.divisor)):
        counts = max(min(a.contiguity[d], b.constancy[d]), min(a.constancy[d], b.contiguity[d]))
        contiguity.append(counts)
        constancy.append(min(a.constancy[d], b.constancy[d]))
        divisor.append(gcd(_scaled(a, d, counts, unit), min(b.divisor_at(d, counts) * unit, MAX_DIVISOR)))
    lower = None if a.lower is None or b.lower is None or unit != 1 else a.lower + b.lower
    upper = None if a.upper is None or b.upper is None or unit != 1 else a.upper + b.upper
    return Fact(tuple(divisor), tuple(contiguity), tuple(constancy), lower, upper)


def negate(a: Fact) -> Fact:
    """The negative: what counts up counts down, so groups of one remain."""
    return Fact(
        tuple(a.divisor_at(d, 1) for d in range(len(a.divisor))),
        (1,) * len(a.divisor),
        a.constancy,
        None if a.upper is None else -a.upper,
        None if a.lower is None else -a.lower,
    )


def aligned_runs(a: Fact) -> Fact:
    """The same, with runs that begin at a multiple of their length: none of them goes over the end of a type's range,
    whose numbers are as many as a higher power of two."""
    runs = tuple(min(c, d) for c, d in zip(a.contiguity, a.divisor))
    return replace(a, contiguity=runs, divisor=tuple(a.divisor_at(d, c) for d, c in enumerate(runs)))


def subtract(a: Fact, b: Fact) -> Fact:
    return add(a, negate(b))


def multiply(a: Fact, b: Fact) -> Fact:
    for x, y in ((a, b), (b, a)):
        if x.value == 1:
            return y
    divisor = tuple(min(a.divisor_at(d, 1) * b.divisor_at(d, 1), MAX_DIVISOR) for d in range(len(a.divisor)))
    lower = upper = None
    if a.lower is not None and a.upper is not None and b.lower is not None and b.upper is not None:
        corners = [x * y for x in (a.lower, a.upper) for y in (b.lower, b.upper)]
        lower, upper = min(corners), max(corners)
    return Fact(divisor, (1,) * len(divisor), tuple(map(min, a.constancy, b.constancy)), lower, upper)


def divide(a: Fact, b: Fact, up: bool = False) -> Fact:
    """Division, rounded in any manner but (unless `up` is set) upward where nothing is negative.

    More than bounds remain for a known positive divisor that is a power of two.
    """
    rank = len(a.divisor)
    if b.value is None or b.value <= 0:
        flat = replace(Fact.unknown(rank), constancy=tuple(map(min, a.constancy, b.constancy)))
        if a.lower is None or a.lower < 0 or b.lower is None or b.lower < 1:
            return flat
        return replace(flat, lower=0, upper=None if a.upper is None else _quotient(a.upper, b.lower, up))
    by = b.value
    if by == 1:
        return a
    power = power_of_two_factor(by) == by
    constancy, divisor = [], []
    for d in range(rank):
        same = a.constancy[d]
        if power and not up and a.lower is not None and a.lower >= 0 and a.divisor[d] % by == 0:
            same = max(same, min(a.contiguity[d], by))  # a run that starts at a multiple of `by` has one quotient
        constancy.append(same)
        exact = a.divisor_at(d, 1)
        divisor.append(exact // by if power and exact % by == 0 else 1)
    lower = None if a.lower is None else (a.lower // by if a.lower >= 0 else -(-a.lower // by) - 1)
    upper = None if a.upper is None else (a.upper // by + 1 if a.upper >= 0 else 0)
    if a.upper is not None and a.lower is not None and a.lower >= 0:
        upper = _quotient(a.upper, by, up)
    return Fact(tuple(divisor), (1,) * rank, tuple(constancy), lower, upper)


def _quotient(number: int, by: int, up: bool) -> int:
    """The largest quotient of a number that is not negative."""
    return -(-number // by) if up else number // by


def remainder(a: Fact, b: Fact) -> Fact:
    """Remainder; more than bounds remain for a known positive number. The sign is that of the dividend."""
    rank = len(a.divisor)
    if b.value is None or b.value <= 0:
        flat = replace(Fact.unknown(rank), constancy=tuple(map(min, a.constancy, b.constancy)))
        most = None if b.upper is None or b.lower is None else max(abs(b.lower), abs(b.upper)) - 1
        if a.lower is not None and a.lower >= 0:
            return replace(flat, lower=0, upper=min((x for x in (a.upper, most) if x is not None), default=None))
        return flat if most is None else replace(flat, lower=-most, upper=most)
    by = b.value
    factor = power_of_two_factor(by)
    contiguity, divisor = [], []
    for d in range(rank):
        counts = 1
        if a.lower is not None and a.lower >= 0:
            counts = gcd(a.contiguity[d], gcd(a.divisor[d], factor)) if a.contiguity[d] > 1 else 1
        contiguity.append(counts)
        divisor.append(gcd(a.divisor_at(d, counts), factor))
    low = 0 if a.lower is not None and a.lower >= 0 else -(by - 1)
    return Fact(tuple(divisor), tuple(contiguity), a.constancy, low, by - 1)


def minimum_or_maximum(a: Fact, b: Fact, is_minimum: bool) -> Fact:
    joined = a.join(b)
    flat = replace(
        joined,
        contiguity=(1,) * len(a.divisor),
        divisor=tuple(gcd(a.divisor_at(d, 1), b.divisor_at(d, 1)) for d in range(len(a.divisor))),
    )
    choose = min if is_minimum else max
    lowers = [x for x in (a.lower, b.lower) if x is not None]
    uppers = [x for x in (a.upper, b.upper) if x is not None]
    if is_minimum:
        return replace(flat, lower=choose(lowers) if len(lowers) == 2 else None, upper=min(uppers, default=None))
    return replace(flat, lower=max(lowers, default=None), upper=choose(uppers) if len(uppers) == 2 else None)


def bitwise_and(a: Fact, b: Fact) -> Fact:
    rank = len(a.divisor)
    divisor = tuple(max(a.divisor_at(d, 1), b.divisor_at(d, 1)) for d in range(rank))
    constancy = tuple(map(min, a.constancy, b.constancy))
    bounds = [x.upper for x in (a, b) if x.lower is not None and x.lower >= 0 and x.upper is not None]
    return Fact(divisor, (1,) * rank, constancy, 0 if bounds else None, min(bounds) if bounds else None)


def shift_left(a: Fact, b: Fact, bits: int) -> Fact:
    if b.value is None or not 0 <= b.value < bits:
        return replace(Fact.unknown(len(a.divisor)), constancy=tuple(map(min, a.constancy, b.constancy)))
    by = Fact.constant(1 << b.value, (1,))
    same = (1 << 30,) * len(a.divisor)
    wide = Fact(by.divisor * len(a.divisor), (1,) * len(a.divisor), same, by.lower, by.upper)
    return multiply(a, wide)


def compare(a: Fact, b: Fact, predicate: str) -> Fact:
    """A comparison: groups in which it has one outcome, which lets a mask be tested once per access."""
    constancy = []
    for d in range(len(a.divisor)):
        same = min(a.constancy[d], b.constancy[d])
        # x < n and x >= n do not change within a group that counts up from a multiple of g, when g divides n;
        # for x <= n and x > n that would have to hold of n + 1.
        for x, n, good in (
            (a, b, ("less_than", "greater_than_or_equal")),
            (b, a, ("greater_than", "less_than_or_equal")),
        ):
            if predicate in good and n.constancy[d] >= x.contiguity[d] > 1:
                group = gcd(x.contiguity[d], gcd(x.divisor[d], n.divisor_at(d, 1)))
                same = max(same, group)
        constancy.append(same)
    rank = len(a.divisor)
    return Fact((1,) * rank, (1,) * rank, tuple(constancy))


def select(condition: Fact, a: Fact, b: Fact) -> Fact:
    joined = a.join(b)
    counts = tuple(map(min, joined.contiguity, condition.constancy))
    return replace(
        joined,
        contiguity=counts,
        divisor=tuple(gcd(a.divisor_at(d, c), b.divisor_at(d, c)) for d, c in enumerate(counts)),
        constancy=tuple(map(min, joined.constancy, condition.constancy)),
    )


# -- shapes ---------------------------------------------------------------------------------------------------------


def broadcast(a: Fact, source: Sequence[int], target: Sequence[int]) -> Fact:
    divisor, contiguity, constancy = [], [], []
    for d, (old, new) in enumerate(zip(source, target)):
        grown = old == 1 and new > 1
        divisor.append(a.divisor_at(d, 1) if grown else a.divisor[d])
        contiguity.append(1 if grown else a.contiguity[d])
        constancy.append(new if grown else a.constancy[d])
    return replace(a, divisor=tuple(divisor), contiguity=tuple(contiguity), constancy=tuple(constancy))


def reshape(a: Fact, source: Sequence[int], target: Sequence[int]) -> Fact:
    """Facts survive where only dimensions of size 1 come and go; otherwise what holds of every element does."""
    old = [d for d, size in enumerate(source) if size > 1]
    new = [d for d, size in enumerate(target) if size > 1]
    rank = max(len(target), 1)
    everywhere = a.scalar_divisor
    divisor, contiguity, constancy = [everywhere] * rank, [1] * rank, [1] * rank
    if [source[d] for d in old] == [target[d] for d in new]:
        for before, after in zip(old, new):
            divisor[after], contiguity[after] = a.divisor[before], a.contiguity[before]
            constancy[after] = a.constancy[before]
        if not old:
            divisor = [max(a.divisor)] * rank
    elif a.value is not None or all(a.constancy[d] >= source[d] for d in old):
        constancy = list(target) or [1]
    return replace(a, divisor=tuple(divisor), contiguity=tuple(contiguity), constancy=tuple(constancy))


def permute(a: Fact, permutation: Sequence[int]) -> Fact:
    return replace(
        a,
        divisor=tuple(a.divisor[p] for p in permutation),
        contiguity=tuple(a.contiguity[p] for p in permutation),
        constancy=tuple(a.constancy[p] for p in permutation),
    )


def iota(size: int) -> Fact:
    return Fact((MAX_DIVISOR,), (size,), (1,), 0, size - 1)


def of_elements(values: Sequence[int], shape: Sequence[int]) -> Fact:
    """The facts of a constant tile, by looking at its elements (row-major)."""
    dims = tuple(shape) or (1,)
    if min(values) == max(values):
        return Fact.constant(values[0], shape)
    divisor: list[int] = []
    contiguity: list[int] = []
    constancy: list[int] = []
    step = 1
    for size in reversed(dims):
        lines = [
            [values[start + i * step] for i in range(size)] for start in range(len(values)) if start // step % size == 0
        ]
        contiguity.append(_largest_group(lines, size, 1))
        constancy.append(_largest_group(lines, size, 0))
        group = contiguity[-1]
        divisor.append(gcd(*(power_of_two_factor(line[i]) for line in lines for i in range(0, size, group))))
        step *= size
    return Fact(
        tuple(reversed(divisor)), tuple(reversed(contiguity)), tuple(reversed(constancy)), min(values), max(values)
    )


def _largest_group(lines: Sequence[Sequence[int]], size: int, step: int) -> int:
    group = size
    while group > 1:
        if all(line[i + 1] - line[i] == step for line in lines for i in range(size - 1) if (i + 1) % group):
            return group
        group //= 2
    return 1
