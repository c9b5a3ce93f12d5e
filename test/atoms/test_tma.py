# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The boxes of a tile put each element where its layout in shared memory has it, as the simulator copies them."""

from dataclasses import replace

import numpy as np
import pytest

from libtile.atoms import tma
from libtile.atoms.cp_async import operand_shared_layout
from libtile.layouts.builders import nvmma_shared, row_major
from libtile.layouts.linear import LinearLayout
from libtile.layouts.row_swizzles import NONE, SWIZZLES
from libtile.numerics.elements import STORAGE_BYTES
from libtile.simulator.tensor_map import DecodedMap, TensorMap


def written(shape, made, size):
    """Where the copies put each element of a tile, in bytes."""
    array = np.zeros([shape[d] for d in reversed(made.order)], dtype=f"u{size}")
    tensor = DecodedMap.decode(TensorMap(array, made.box, swizzle=made.swizzle.name).encode(0))
    places = np.full(array.size, -1, dtype=np.int64)
    for copy in made.copies:
        assert copy.offset % made.alignment == 0
        address, inside = tensor.elements([copy.corner[d] for d in made.order])
        assert inside.all()
        spots = address.view(np.int64) // size
        assert (places[spots] == -1).all()
        places[spots] = tensor.shared_offsets(copy.offset, len(address))
    return places.reshape(array.shape).transpose([list(reversed(made.order)).index(d) for d in range(len(shape))])


def check(layout, contiguous, element):
    size = STORAGE_BYTES[element]
    made = tma.boxes(layout, contiguous, size)
    assert isinstance(made, tma.Boxes), made
    expected = np.zeros(layout.shape, dtype=np.int64)
    for index, places in layout.places().items():
        expected[index] = places[0]["offset"] * size
    np.testing.assert_array_equal(written(layout.shape, made, size), expected)
    return made


@pytest.mark.parametrize("element", ["i8", "f16", "f32", "f64"])
@pytest.mark.parametrize(
    "shape", [(64, 64), (16, 256), (512, 16), (8, 128), (32,), (2, 16, 32), (2, 4, 8, 16)], ids=str
)
def test_boxes_write_the_layouts_that_products_read(element, shape):
    for contiguous in range(len(shape)):
        if shape[contiguous] * STORAGE_BYTES[element] < 16:
            continue
        layout = operand_shared_layout(shape, element, contiguous)
        size = STORAGE_BYTES[element]
        made = tma.boxes(layout, contiguous, size)
        if isinstance(made, str):
            assert "aligned" in made
            continue
        check(layout, contiguous, element)


def test_a_wide_tile_is_panels_and_a_tall_one_boxes_of_256_rows():
    made = check(operand_shared_layout((64, 256), "f16", 1), 1, "f16")
    assert (made.box, made.swizzle.span, made.order) == ((64, 64), 128, (1, 0))
    assert [c.corner for c in made.copies] == [(0, 0), (0, 64), (0, 128), (0, 192)]
    made = check(operand_shared_layout((512, 64), "f16", 1), 1, "f16")
    assert (made.box, [c.offset for c in made.copies]) == ((64, 256), [0, 32768])


@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5])
def test_rows_without_a_swizzle_are_one_box(rank):
    shape = (2, 2, 4, 4, 32)[5 - rank :]
    made = check(row_major(shape), rank - 1, "f16")
    assert made.box == tuple(reversed(shape)) and len(made.copies) == 1 and made.swizzle == NONE


@pytest.mark.parametrize("swizzle", SWIZZLES[1:], ids=lambda s: s.name)
@pytest.mark.parametrize("order", [(1, 0), (0, 1)], ids=str)
def test_each_swizzle(swizzle, order):
    assert check(nvmma_shared((128, 128), 16, swizzle, order), order[0], "f16").swizzle == swizzle


def test_layouts_that_copies_do_not_write():
    transposed = row_major((32, 32), (0, 1))
    assert tma.boxes(transposed, 1, 2) == "its layout in shared memory is none that tensor copies write"
    twice = LinearLayout.of({"offset": [(0, 1), (0, 1)]}, {"dim0": 1, "dim1": 2})
    assert tma.boxes(twice, 1, 2) == "its layout in shared memory does not give each element one place"


GOOD = tma.Tensor("f16", 16, (None, 1), (8, 1), True)


def test_a_tensor_with_aligned_rows_is_copied():
    assert tma.not_copied(GOOD, None) is None
    assert tma.not_copied(replace(GOOD, strides=(1, 64), stride_divisors=(1, 1)), "zero") is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"element": "i4"}, "tensor maps have no elements of type i4"),
        ({"strides": (1,) * 6, "stride_divisors": (1,) * 6}, "tensor maps have rank 1 to 5, not 6"),
        ({"strides": (None, None)}, "no dimension has stride 1"),
        ({"alignment": 8}, "its base address is not known to be a multiple of 16 bytes"),
        ({"stride_divisors": (4, 1)}, "the stride of dimension 0 is not known to be a multiple of 16 bytes"),
        ({"strides": (12, 1)}, "the stride of dimension 0 is not known to be a multiple of 16 bytes"),
        ({"strides": (1 << 40, 1)}, "the stride of dimension 0 is 1099511627776 elements"),
        ({"narrow": False}, "its sizes are not known to be below 2**31"),
    ],
)
def test_why_a_tensor_is_not_copied(change, reason):
    assert (tma.not_copied(replace(GOOD, **change), None) or "").startswith(reason)


def test_padding_with_anything_but_zeros_is_not_copied():
    assert tma.not_copied(GOOD, "nan") == "tensor copies pad with zeros, not with nan"
