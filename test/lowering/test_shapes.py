# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Broadcast, reshape, permute, extract, insert and cat name the same elements as numpy does."""

import memory_kernels as mk
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_kernels import random_array
from movement import convert_layout, extract, layouts, move

from libtile.codegen import shapes
from libtile.codegen.builder import integer
from libtile.codegen.llvm_types import GLOBAL_POINTER, I32
from libtile.codegen.memory import load
from libtile.layouts import builders
from libtile.layouts.renaming import shrunk

ROWS = builders.blocked((16, 64), (1, 4), (2, 16), (4, 1), (1, 0))


def one(data, layout, build, gpu="sm_90"):
    (out,), done = move([("i32", data, layout)], build, gpu=gpu)
    return out, done.counters


@settings(max_examples=25, deadline=None)
@given(layouts((8, 32)))
def test_renamings_move_nothing(layout):
    data = random_array("i32", (8, 32))
    cut = data.reshape(4, 2, 32)
    for build, expected in (
        (lambda b, t: shapes.reshape(t, (4, 4, 16)), data.reshape(4, 4, 16)),
        (lambda b, t: shapes.permute(t, (1, 0)), data.T),
        (lambda b, t: shapes.expand_dims(t, 1), data[:, None]),
        (lambda b, t: shapes.permute(shapes.reshape(t, (4, 2, 32)), (2, 0, 1)), cut.transpose(2, 0, 1)),
    ):
        out, counters = one(data, layout, build)
        np.testing.assert_array_equal(out, expected)
        assert counters.shared_requests == 0


@settings(max_examples=25, deadline=None)
@given(layouts((8, 1)), layouts((8, 16)))
def test_broadcasts_repeat(layout, wanted):
    data = random_array("i32", (8, 1))
    for build in (
        lambda b, t: shapes.broadcast(t, (8, 16)),
        lambda b, t: shapes.select_registers(convert_layout(b, t, shrunk(wanted, (8, 1))), wanted),
    ):
        out, _ = one(data, layout, build)
        np.testing.assert_array_equal(out, np.broadcast_to(data, (8, 16)))


def dynamic(data, layout, build, indices):
    """Run with indices that are read from memory."""

    b, (base, places) = mk.kernel("sm_90", 128, 2)
    tile = load(b, mk.pointers(b, base, layout, "i32"), "i32")
    addresses = [b.emit(places.type, f"getelementptr i32, {places.typed}, i32 {i}") for i in range(len(indices))]
    result = build(b, tile, [b.emit(I32, f"load i32, {a.typed}") for a in addresses])
    out = np.zeros(result.shape, np.int32)
    mk.put(b, b.add_parameter(GLOBAL_POINTER), result)
    mk.run(b, data, np.array(indices, np.int32), out)
    return out


@settings(max_examples=40, deadline=None)
@given(layouts((8, 32)), st.sampled_from([(8, 4), (2, 32), (4, 8), (1, 1), (8, 32)]), st.booleans(), st.data())
def test_extract_takes_the_part_with_that_number(layout, shape, known, data):
    source = random_array("i32", (8, 32))
    wanted = data.draw(st.none() | layouts(shape))
    indices = [data.draw(st.integers(0, s // p - 1)) for s, p in zip(source.shape, shape)]
    place = tuple(slice(i * p, (i + 1) * p) for i, p in zip(indices, shape))
    if known:
        constants = [integer(I32, i) for i in indices]
        out, _ = one(source, layout, lambda b, t: extract(b, t, constants, shape, wanted))
    else:
        out = dynamic(source, layout, lambda b, t, v: extract(b, t, v, shape, wanted), indices)
    np.testing.assert_array_equal(out, source[place])


def test_a_part_that_registers_tell_apart_is_selected():
    data = random_array("i32", (16, 64))
    for i in range(2):
        indices = [integer(I32, i), integer(I32, 0)]
        out, counters = one(data, ROWS, lambda b, t, indices=indices: extract(b, t, indices, (8, 64)))
        np.testing.assert_array_equal(out, data[8 * i : 8 * i + 8])
        assert counters.shared_requests == 0


def test_parts_of_large_tiles_are_taken_with_little_shared_memory():
    layout = builders.blocked((128, 128), (1, 4), (8, 4), (4, 1), (1, 0))
    data = random_array("i32", (128, 128))
    sizes = []

    def build(b, tile, indices):
        part = extract(b, tile, indices, (32, 16))
        sizes.append(b.exchanges.most)
        return part

    out = dynamic(data, layout, build, (2, 5))
    np.testing.assert_array_equal(out, data[64:96, 80:96])
    assert sizes[0] <= 32768


@settings(max_examples=20, deadline=None)
@given(layouts((8, 32)), st.data())
def test_insert_replaces_one_part(layout, data):
    part_layout = data.draw(layouts((4, 8)))
    whole, part = random_array("i32", (8, 32)), random_array("i32", (4, 8), 1)
    row, column = data.draw(st.integers(0, 1)), data.draw(st.integers(0, 3))
    indices = [integer(I32, row), integer(I32, column)]

    def insert(b, tile, part):
        return shapes.insert(b, tile, convert_layout(b, part, shrunk(tile.layout, part.shape)), indices)

    (out,), _ = move(
        [("i32", whole, layout), ("i32", part, part_layout)],
        insert,
    )
    expected = whole.copy()
    expected[4 * row : 4 * row + 4, 8 * column : 8 * column + 8] = part
    np.testing.assert_array_equal(out, expected)


@settings(max_examples=20, deadline=None)
@given(layouts((4, 8)), layouts((4, 8)), st.integers(0, 1), st.data())
def test_cat_puts_tiles_side_by_side(first, second, dim, data):
    shape = (8, 8) if dim == 0 else (4, 16)
    wanted = data.draw(layouts(shape))
    x, y = random_array("i32", (4, 8)), random_array("i32", (4, 8), 1)

    def cat(b, lhs, rhs):
        return convert_layout(b, shapes.cat(lhs, convert_layout(b, rhs, lhs.layout), dim), wanted)

    (out,), _ = move([("i32", x, first), ("i32", y, second)], cat)
    np.testing.assert_array_equal(out, np.concatenate([x, y], dim))


def test_a_broadcast_needs_its_element_in_the_thread():
    layout = builders.blocked((16, 1), (1, 1), (16, 2), (4, 1), (1, 0))
    with pytest.raises(ValueError, match="does not hold"):
        move(
            [("i32", random_array("i32", (16, 1)), layout)],
            lambda b, t: shapes.select_registers(t, builders.blocked((16, 8), (16, 1), (1, 8), (1, 4), (0, 1))),
        )
