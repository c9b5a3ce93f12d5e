# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attributes of numbers are those that xDSL makes, and few of them are kept."""

import pickle
import subprocess
import sys

from xdsl.dialects.builtin import DenseArrayBase, IndexType, IntegerAttr, i1, i32, i64

from libtile.dialects.cuda_tile.types import TileType
from libtile.ir import numbers, places
from libtile.ir.numbers import integer, integers


def test_the_attribute_of_a_number_is_xdsls_and_the_same_one_each_time() -> None:
    for value, type_ in ((1, i1), (-1, i32), (1, i64), (2**63 - 1, i64), (7, IndexType())):
        made = integer(value, type_)
        assert made == IntegerAttr(value, type_) and str(made) == str(IntegerAttr(value, type_))
        assert integer(value, type_) is made
    assert integer(1, i32) != integer(1, i64)
    assert integers([1, 2], i64) == DenseArrayBase.from_list(i64, [1, 2])
    assert integers([1, 2], i64) is integers((1, 2), i64)
    assert str(integers([True, False], i64)) == str(DenseArrayBase.from_list(i64, [1, 0]))


def test_only_the_latest_numbers_are_kept() -> None:
    for number in range(10_000):
        integer(number, i64)
        integers([number], i64)
    assert numbers.integer.cache_info().currsize <= 4096
    assert numbers._array.cache_info().currsize <= 1024


def test_a_type_that_was_hashed_is_equal_to_one_of_another_process() -> None:
    """Texts are hashed otherwise there, and a type takes nothing along of what it remembers."""
    type_ = TileType((4, 8), i32)
    assert hash(type_) == hash(TileType((4, 8), i32))
    program = "import pickle, sys; t = pickle.load(sys.stdin.buffer); assert t in {type(t)(*t.data)}, t"
    subprocess.run([sys.executable, "-c", program], input=pickle.dumps(type_), check=True, timeout=120)


def test_what_classes_are_is_kept_for_the_questions_that_code_asks() -> None:
    """Not for each module."""
    import libtile
    from generators import growing

    def compiled(depth: int) -> int:
        libtile.compile(libtile.parse(growing.if_nest(depth)), emit="llvm")
        return places._answers.cache_info().currsize

    first = compiled(2)
    assert first == compiled(3) == compiled(4)
