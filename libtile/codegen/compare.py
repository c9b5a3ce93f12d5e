# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Comparisons and selections on single values (Tile IR specification, cmpi, cmpf, select)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from libtile.codegen.builder import KernelBuilder, Value, integer
from libtile.codegen.integers import is_signed
from libtile.codegen.llvm_types import I1, I32

_PREDICATES = {
    "equal": "eq",
    "not_equal": "ne",
    "less_than": "lt",
    "less_than_or_equal": "le",
    "greater_than": "gt",
    "greater_than_or_equal": "ge",
}


def _predicate(keyword: str) -> str:
    if keyword not in _PREDICATES:
        raise ValueError(f"unknown comparison predicate '{keyword}'")
    return _PREDICATES[keyword]


def compare_integers(b: KernelBuilder, lhs: Value, rhs: Value, predicate: str, signedness: str) -> Value:
    """An i1: whether the predicate (a Tile IR keyword such as `less_than`) holds between integers or pointers."""
    name, signed = _predicate(predicate), is_signed(signedness)
    if name in ("eq", "ne"):
        return b.compare(name, lhs, rhs)
    return b.compare(("s" if signed else "u") + name, lhs, rhs)


def compare_floats(b: KernelBuilder, lhs: Value, rhs: Value, predicate: str, ordering: str) -> Value:
    """An i1: whether the predicate holds between floats; with a NaN, false if `ordered` and true if `unordered`."""
    name = _predicate(predicate)
    if ordering not in ("ordered", "unordered"):
        raise ValueError(f"unknown comparison ordering '{ordering}'")
    return are_floats_so(b, lhs, rhs, f"{ordering[0]}{name}")


def are_floats_so(b: KernelBuilder, lhs: Value, rhs: Value, condition: str) -> Value:
    """An i1: whether a condition of LLVM's `fcmp` (`olt`, `uno`, ...) holds between floats."""
    return b.compute(I1, f"fcmp {condition} {lhs.typed}, {rhs.text}", (lhs, rhs))


def is_nan(b: KernelBuilder, value: Value) -> Value:
    """An i1: whether a float is a NaN."""
    return are_floats_so(b, value, value, "uno")


def select(b: KernelBuilder, condition: Value, if_true: Value, if_false: Value) -> Value:
    """One of two values by an i1."""
    return b.select(condition, if_true, if_false)


WORD = 32
"""Bits of a word."""
ALWAYS, NEVER = -1, (1 << 31) - 1
"""Ranks that any number that is not negative is more than, and that none is more than."""
BYTE = 8
"""Bits of a byte, of which R2P moves all but the last."""
LEAST_BITS = 5
"""Ranks from which on a word is worth making."""
LEAST_LAST = 3
"""Last bits of bytes from which on a word of them is worth making."""


def select_by_ranks(
    b: KernelBuilder, number: Value, ranks: Sequence[int], lhs: Sequence[Value], rhs: Sequence[Value]
) -> list[Value]:
    """One of two values for each rank: the first one where a number, an i32 that is not negative, is more than it.

    Bits of words say which ranks are not reached: all from one on, by a shift of which LLVM knows nothing, as it would
    make comparisons again of shift and tests. A bit is tested in front of the values that it chooses, and they are in
    its order, so that ptxas moves seven bits to predicates at once (R2P).
    """
    bits = _bits_of(sorted({rank for rank in ranks if ALWAYS < rank < NEVER}))
    words: dict[int, Value] = {}
    reached: dict[int, Value] = {}
    chosen: dict[int, Value] = {}
    order = sorted(
        range(len(ranks)), key=lambda register: (bits.get(ranks[register], (-1,)), ranks[register], register)
    )
    for register in order:  # those without a bit compare the number, and it is done with
        rank = ranks[register]
        if not ALWAYS < rank < NEVER:
            chosen[register] = (lhs if rank <= ALWAYS else rhs)[register]
            continue
        if rank not in reached and rank not in bits:
            reached[rank] = b.compare("sgt", number, integer(I32, rank))
        elif rank not in reached:
            place, bit = bits[rank]
            if place not in words:
                words[place] = _word(b, _ones(b, number, place, bits))
            tested = b.and_(words[place], integer(I32, 1 << bit))
            reached[rank] = b.compare("ne", tested, integer(I32, 0))
        chosen[register] = b.select(reached[rank], lhs[register], rhs[register])
    return [chosen[register] for register in range(len(ranks))]


def _word(b: KernelBuilder, ones: Value) -> Value:
    """A word with so many ones. LLVM may make it in front of a loop, but is not to take the tests of its bits along."""
    word = b.call("llvm.nvvm.bmsk.clamp", I32, [integer(I32, 0), ones])
    return b.asm("mov.b32 $0, $1;", "=r,r", I32, [word])


_LAST = 1 << 20
"""In the place of a word's number: the word of the bits that are the last ones of bytes."""


def _bits_of(ranks: Sequence[int]) -> dict[int, tuple[int, int]]:
    """The number of the word and of the bit for each rank that has one, of ranks in their order."""
    counts = Counter(rank // WORD for rank in ranks)
    bits = {rank: (rank // WORD, rank % WORD) for rank in ranks if counts[rank // WORD] >= LEAST_BITS}
    last = [rank for rank in bits if rank % BYTE == BYTE - 1 and rank // BYTE < WORD]
    if len(last) < LEAST_LAST:
        return bits
    # An eighth of the number tells the last bits of bytes. The first ranks behind the words follow them.
    words = max(place for place, _ in bits.values()) + 1
    behind = {rank: rank - _ahead(words) for rank in ranks if words <= rank // WORD and rank - _ahead(words) < WORD}
    return bits | {rank: (_LAST, bit) for rank, bit in ({rank: rank // BYTE for rank in last} | behind).items()}


def _ahead(words: int) -> int:
    """The difference between a rank behind so many words and its bit behind those of their bytes."""
    return words * (WORD - WORD // BYTE)


def _ones(b: KernelBuilder, number: Value, place: int, bits: dict[int, tuple[int, int]]) -> Value:
    """How many bits of a word are set."""
    if place == _LAST:
        words = max(rank for rank, (word, _) in bits.items() if word != _LAST) // WORD + 1
        left = b.binary("lshr", number, integer(I32, BYTE.bit_length() - 1))
        if max(bit for word, bit in bits.values() if word == _LAST) < words * WORD // BYTE:
            return left
        return b.call("llvm.smax.i32", I32, [b.add(number, integer(I32, -_ahead(words))), left])
    if not place:
        return number
    return b.call("llvm.smax.i32", I32, [b.add(number, integer(I32, -place * WORD)), integer(I32, 0)])
