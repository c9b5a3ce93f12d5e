# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Values that are chosen by whether a number is more than constants, by bits of words: the arithmetic, in numbers."""

from __future__ import annotations

import random

import pytest

from libtile.codegen.builder import Value, integer
from libtile.codegen.compare import ALWAYS, NEVER, select_by_ranks
from libtile.codegen.llvm_types import I32


def wrapped(number: int) -> Value:
    """An i32, as a signed number."""
    return integer(I32, (number + (1 << 31)) % (1 << 32) - (1 << 31))


def number_of(value: Value) -> int:
    return int(value.text)


class Numbers:
    """In place of a builder: does what it is asked to emit."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def add(self, a: Value, b: Value) -> Value:
        return wrapped(number_of(a) + number_of(b))

    def and_(self, a: Value, b: Value) -> Value:
        return wrapped(number_of(a) & number_of(b))

    def binary(self, op: str, a: Value, b: Value) -> Value:
        assert op == "lshr"
        return wrapped(number_of(a) % (1 << 32) >> number_of(b))

    def call(self, name: str, type_: object, operands: list[Value]) -> Value:
        if name == "llvm.smax.i32":
            return max(operands, key=number_of)
        assert name == "llvm.nvvm.bmsk.clamp" and number_of(operands[0]) == 0
        self.done.append("word")
        return wrapped((1 << min(number_of(operands[1]) % (1 << 32), 32)) - 1)

    def asm(self, template: str, constraints: str, type_: object, operands: list[Value]) -> Value:
        assert template == "mov.b32 $0, $1;"
        return operands[0]

    def compare(self, predicate: str, a: Value, b: Value) -> bool:
        self.done.append(predicate)
        return number_of(a) > number_of(b) if predicate == "sgt" else number_of(a) != number_of(b)

    def select(self, condition: bool, a: Value, b: Value) -> Value:
        return a if condition else b


RANKS = {
    "one": [3],
    "a fragment's diagonals": [column + row for row in (0, 2) for column in range(32)],
    "all of a word": [*range(32)],
    "a row of 128": [*range(128)],
    "rows of 256, and more": [*range(260), 300],
    "few of a second word": [*range(32), 40, 62, 63],
    "only last bits of bytes": [7, 15, 23, 31, 39, 47, 55, 63],
    "a word without a first one": [*range(32, 64)],
    "some of which any number, and none, is more than": [ALWAYS, *range(16), NEVER, ALWAYS, NEVER],
}


@pytest.mark.parametrize("ranks", RANKS.values(), ids=RANKS)
def test_a_value_is_chosen_if_the_number_is_more_than_its_rank(ranks: list[int]) -> None:
    lhs, rhs = [integer(I32, i) for i in range(len(ranks))], [integer(I32, -1)] * len(ranks)
    near = {max(rank + step, 0) for rank in ranks for step in (-1, 0, 1)} - {NEVER + 1}
    for number in (*near, min(max(ranks) + 40, NEVER), (1 << 30) + 5, (1 << 31) - 1):
        got = select_by_ranks(Numbers(), integer(I32, number), ranks, lhs, rhs)  # type: ignore[arg-type]
        assert [*map(number_of, got)] == [i if number > rank else -1 for i, rank in enumerate(ranks)], number


@pytest.mark.parametrize("seed", range(20))
def test_any_ranks_will_do(seed: int) -> None:
    rng = random.Random(seed)
    ranks = [rng.randrange(rng.choice([8, 40, 70, 300])) for _ in range(rng.choice([4, 16, 64, 128]))]
    test_a_value_is_chosen_if_the_number_is_more_than_its_rank(ranks)


def test_last_bits_of_bytes_are_a_word_of_their_own_and_few_behind_a_word_follow_them() -> None:
    numbers = Numbers()
    ranks = RANKS["a fragment's diagonals"]
    select_by_ranks(numbers, integer(I32, 9), ranks, ranks, ranks)  # type: ignore[arg-type]
    assert numbers.done.count("word") == 2
    assert "sgt" not in numbers.done, "34 diagonals take five instructions of seven bits, and no comparison"
