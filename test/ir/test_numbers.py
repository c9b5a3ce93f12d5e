# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attributes of numbers are those that xDSL makes, and few of them are kept."""

import pickle
import subprocess
import sys

from xdsl.dialects.builtin import DenseArrayBase, IndexType, IntegerAttr, TensorType, i1, i32, i64

from libtile.dialects.cuda_tile.types import TileType
from libtile.ir import numbers, places
from libtile.ir.numbers import integer, integers, numbers_of
from libtile.ir.tile_types import shape_of, tensor_shape
from libtile.layouts import LANE, REGISTER, WARP, LinearLayout


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
    assert type_.shape is type_.shape and type_ == TileType((4, 8), i32) and repr(type_) == repr(TileType((4, 8), i32))
    program = "import pickle, sys; t = pickle.load(sys.stdin.buffer); assert t in {type(t)(*t.data)}, t"
    subprocess.run([sys.executable, "-c", program], input=pickle.dumps(type_), check=True, timeout=120)


def test_a_layout_that_was_asked_is_equal_to_one_of_another_process() -> None:
    layout = LinearLayout.of({REGISTER: [1, 0], LANE: [2]}, {"dim0": 4})
    assert layout.free_bits() == {REGISTER: 2, LANE: 0} and layout.shape == (4,) and layout.basis(WARP) == ()
    assert hash(layout) == hash(LinearLayout(layout.bases, layout.outs))
    program = "import pickle, sys; t = pickle.load(sys.stdin.buffer); assert t in {type(t)(t.bases, t.outs)}, t"
    subprocess.run([sys.executable, "-c", program], input=pickle.dumps(layout), check=True, timeout=120)


def test_an_array_keeps_its_integers() -> None:
    array = DenseArrayBase.from_list(i64, [1, -2])
    assert numbers_of(array) is numbers_of(array) and numbers_of(array) == (1, -2)
    assert array == DenseArrayBase.from_list(i64, [1, -2]) and str(array) == str(integers([1, -2], i64))
    assert numbers_of(DenseArrayBase.from_list(i1, [1, 0])) == tuple(
        map(int, DenseArrayBase.from_list(i1, [1, 0]).get_values())
    )


def test_a_tensor_type_keeps_its_shape() -> None:
    type_ = TensorType(i32, (2, 4))
    assert tensor_shape(type_) is tensor_shape(type_) and tensor_shape(type_) == type_.get_shape() == shape_of(type_)
    assert type_ == TensorType(i32, (2, 4)) and hash(type_) == hash(TensorType(i32, (2, 4))) and shape_of(i32) == ()


def test_what_classes_are_is_kept_for_the_questions_that_code_asks() -> None:
    """Not for each module."""
    import libtile
    from generators import growing

    def compiled(depth: int) -> int:
        libtile.compile(libtile.parse(growing.if_nest(depth)), emit="llvm")
        return places._answers.cache_info().currsize

    first = compiled(2)
    assert first == compiled(3) == compiled(4)
