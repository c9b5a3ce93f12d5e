# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Packed tiles, run in the simulator, hold the bytes that the interpreter's pack and unpack give."""

import itertools

import numpy as np
import pytest

from libtile.codegen import packing, stored_bits
from libtile.codegen.builder import KernelBuilder, integer
from libtile.codegen.llvm_types import ELEMENT_TYPES, I8, I32
from libtile.codegen.tile import Tile, index
from libtile.layouts import LinearLayout, builders
from libtile.simulator import run_ptx
from libtile.targets import target
from lowering.elementwise import POINTER, expected, finished_ptx, load, patterns, store

ELEMENTS = [name for name in ELEMENT_TYPES if name != "ptr"]
SIZE = 1024
CONTIGUOUS = builders.blocked((SIZE,), (8,), (32,), (4,), (0,))
SWAPPED = LinearLayout.of(
    {"register": [4, 512, 1, 2], "lane": [8, 16, 32 ^ 64, 64, 128], "warp": [256, 0]}, {"dim0": SIZE}
)
SCATTERED = builders.blocked((SIZE,), (1,), (32,), (4,), (0,))


def converted(source, result, layout, bits, convert, gpu="sm_80"):
    """The elements of a 1-d tile of patterns after `convert(builder, tile)`, and the result's layout."""
    b = KernelBuilder("k", target(gpu), 128)
    data, out = b.add_parameter(POINTER), b.add_parameter(POINTER)
    registers = [load(b, data, source, index(b, layout, r, 0)) for r in range(layout.in_size("register"))]
    tile = convert(b, Tile(layout, source, tuple(registers)))
    assert tile.element == result
    for r, value in enumerate(tile.registers):
        place = b.add(b.mul(b.thread_id(), integer(I32, len(tile.registers))), integer(I32, r))
        store(b, out, result, place, value)
    raw = np.zeros((128, len(tile.registers)), f"u{max(packing.element_bits(result) // 8, 1)}")
    run_ptx(finished_ptx(b, gpu), "k", grid=(1, 1, 1), block=(128, 1, 1), args=[bits, raw])
    elements = np.zeros(tile.layout.shape, raw.dtype)
    for thread, r in itertools.product(range(128), range(raw.shape[1])):
        elements[tile.layout(register=r, lane=thread % 32, warp=thread // 32)["dim0"]] = raw[thread, r]
    return elements, tile.layout


@pytest.mark.parametrize("layout", [CONTIGUOUS, SWAPPED], ids=["contiguous", "swapped"])
@pytest.mark.parametrize("element", ELEMENTS)
def test_elements_become_bytes_and_bytes_elements(element, layout):
    bits = patterns(element, SIZE, 2)
    want = expected("pack", [(element, bits)], "i8")  # the interpreter's tf32 has no low bits
    packed, packed_layout = converted(element, "i8", layout, bits, packing.pack)
    assert packed_layout == packing.packed_layout(layout, element)
    assert packed.tolist() == want.tolist()

    def back(b, tile):
        return packing.unpack(b, tile, element)

    unpacked, unpacked_layout = converted("i8", element, packed_layout, packed, back)
    assert unpacked_layout == packing.unpacked_layout(packed_layout, element)
    mask = 0xFFFFE000 if element == "tf32" else (1 << packing.element_bits(element)) - 1
    assert (unpacked & np.array(mask, unpacked.dtype)).tolist() == (bits & np.array(mask, bits.dtype)).tolist()


def test_a_layout_whose_threads_hold_parts_of_bytes_is_told_apart():
    assert packing.packed_layout(SCATTERED, "i4") is None
    assert packing.packed_layout(SCATTERED, "f16") is not None
    assert packing.unpacked_layout(SCATTERED, "f16") is None
    assert packing.unpacked_layout(SCATTERED, "f4E2M1FN") is not None
    b = KernelBuilder("k", target("sm_80"), 128)
    tile = Tile(SCATTERED, "i4", tuple(integer(I8, 1) for _ in range(SCATTERED.in_size("register"))))
    with pytest.raises(ValueError, match="whole groups of 2 elements"):
        packing.pack(b, tile)


def test_a_layout_that_mixes_neighbours_with_lanes_is_told_apart():
    mixed = LinearLayout.of({"register": [1], "lane": [3, 4, 8, 16, 32], "warp": [2, 64]}, {"dim0": 128})
    assert packing.packed_layout(mixed, "i4") is None


def test_only_tiles_of_one_dimension_are_packed():
    with pytest.raises(ValueError, match="1-d"):
        packing.packed_layout(builders.mma_result((32, 32), (2, 2)), "f16")


def test_packing_what_was_unpacked_is_free():
    b = KernelBuilder("k", target("sm_80"), 128)
    data = b.add_parameter(POINTER)
    value = load(b, data, "i8", b.thread_id())
    store(b, data, "i8", b.thread_id(), stored_bits.join(b, stored_bits.split(b, value, 4, 2), 4))
    text = finished_ptx(b, "sm_80")
    assert not any(name in text for name in ("shl", "shr", "and.b", "or.b"))
