# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Constant tiles, run in the simulator, hold their elements in every thread and register of a layout."""

import itertools

import numpy as np
import pytest

from libtile.codegen import constants, dense_constants
from libtile.codegen.builder import KernelBuilder, integer
from libtile.codegen.llvm_types import ELEMENT_TYPES, I32
from libtile.layouts import LinearLayout, builders
from libtile.simulator import run_ptx
from libtile.targets import target
from lowering.elementwise import POINTER, finished_ptx, patterns, store

LAYOUTS = {
    "blocked": builders.blocked((16, 64), (1, 4), (2, 16), (4, 1), (1, 0)),
    "mma": builders.mma_result((32, 32), (2, 2)),
    "small": builders.blocked((8,), (1,), (32,), (4,), (0,)),
    "xor": LinearLayout.of(
        {"register": [(1, 0)], "lane": [(0, 1), (0, 2), (2, 4), (4, 8), (8, 8 ^ 16)], "warp": [(1, 1), (0, 2)]},
        {"dim0": 16, "dim1": 32},
    ),
}
ELEMENTS = [name for name in ELEMENT_TYPES if name != "ptr"]


def held(layout, element, make, gpu="sm_80"):
    """(registers of all threads [thread, register], the kernel's LLVM IR) of a tile that `make(builder)` gives."""
    b = KernelBuilder("k", target(gpu), 128)
    out = b.add_parameter(POINTER)
    tile = make(b)
    assert tile.layout == layout
    assert tile.element == element
    count = len(tile.registers)
    for i, register in enumerate(tile.registers):
        place = b.add(b.mul(b.thread_id(), integer(I32, count)), integer(I32, i))
        store(b, out, element, place, register)
    result = np.full((128, count), 0xEE, dense_constants.pattern_dtype(element))
    text = finished_ptx(b, gpu)
    run_ptx(text, "k", grid=(1, 1, 1), block=(128, 1, 1), args=[result])
    return result, b.module_text()


def check(layout, element, values, gpu="sm_80"):
    result, text = held(layout, element, lambda b: dense_constants.dense(b, layout, element, values), gpu)
    for thread, register in itertools.product(range(128), range(result.shape[1])):
        place = tuple(layout(register=register, lane=thread % 32, warp=thread // 32).values())
        assert result[thread, register] == values[place], (thread, register)
    return text


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("name", LAYOUTS)
def test_any_constant_is_where_the_layout_says(name, element):
    layout = LAYOUTS[name]
    size = int(np.prod(layout.shape))
    values = patterns(element, max(size, 256), 2)[-size:].reshape(layout.shape)
    check(layout, element, values)


@pytest.mark.parametrize("element", ELEMENTS)
def test_a_splat_is_a_constant_in_every_register(element):
    layout = LAYOUTS["mma"]
    for pattern in patterns(element, 256, 2)[-6:]:
        text = check(layout, element, np.full(layout.shape, pattern))
        assert "libtile_constant" not in text


@pytest.mark.parametrize(
    ("element", "raw", "held_bits"),
    [
        ("f16", "003c", 0x3C00),
        ("tf32", "00fc0100", 0x3F800000),
        ("i1", "01", 1),
        ("i64", "feffffffffffffff", 2**64 - 2),
    ],
)
def test_one_element_stands_for_all(element, raw, held_bits):
    layout = LAYOUTS["blocked"]
    result, _ = held(layout, element, lambda b: constants.splat(layout, element, bytes.fromhex(raw)))
    assert (result == held_bits).all()


@pytest.mark.parametrize("element", ["i8", "i16", "i32", "i64"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_tiles_that_count_are_computed(name, element):
    layout = LAYOUTS[name]
    grid = np.indices(layout.shape)
    values = (5 + sum((7 * d + 3) * axis for d, axis in enumerate(grid))).astype(dense_constants.pattern_dtype(element))
    assert "libtile_constant" not in check(layout, element, values)
    assert "libtile_constant" not in check(layout, element, values[::-1].copy() if values.ndim == 1 else values)


def test_what_depends_on_two_thread_bits_is_selected():
    layout = LAYOUTS["blocked"]
    rows = np.arange(16)[:, None] + np.zeros((1, 64), int)
    values = np.where(rows % 2 == 1, 0x4248, 0x3C00).astype(np.uint16)
    text = check(layout, "f16", values)
    assert "libtile_constant" not in text
    assert "select" in text


def test_other_constants_are_read_from_one_read_only_array():
    layout = LAYOUTS["mma"]
    values = np.random.default_rng(1).integers(0, 2**32, layout.shape).astype(np.uint32)

    def twice(b):
        dense_constants.dense(b, layout, "f32", values)
        return dense_constants.dense(b, layout, "f32", values)

    result, text = held(layout, "f32", twice)
    assert text.count("= internal addrspace(1) constant") == 1
    assert result[0, 0] == values[0, 0]


@pytest.mark.parametrize("element", ["i1", "i8", "i16", "i32", "i64"])
@pytest.mark.parametrize("gpu", ["sm_80", "sm_120"])
def test_iota_counts(element, gpu):
    layout = builders.blocked((1024,), (4,), (32,), (2,), (0,))
    result, _ = held(layout, element, lambda b: constants.iota(b, layout, element), gpu)
    for thread, register in itertools.product(range(128), range(result.shape[1])):
        place = layout(register=register, lane=thread % 32, warp=thread // 32 % layout.in_size("warp"))["dim0"]
        mask = 1 if element == "i1" else (1 << 8 * result.dtype.itemsize) - 1
        assert result[thread, register] == place & mask


def test_patterns_of_bytes_are_those_of_tile_ir():
    assert dense_constants.patterns_of_bytes(b"\x01\x02\x03\x04", "f16").tolist() == [0x0201, 0x0403]
    one = (127 << 10).to_bytes(4, "little")
    assert dense_constants.patterns_of_bytes(one, "tf32").tolist() == [0x3F800000]


def test_wrong_constants_are_refused():
    b = KernelBuilder("k", target("sm_80"), 128)
    layout = LAYOUTS["small"]
    with pytest.raises(ValueError, match="does not fit"):
        dense_constants.dense(b, layout, "i32", np.arange(16, dtype=np.uint32))
    with pytest.raises(ValueError, match="null"):
        constants.from_bits("ptr", 5)
    with pytest.raises(ValueError, match="one dimension"):
        constants.iota(b, LAYOUTS["mma"], "i32")
    assert constants.from_bits("ptr", 0).text == "null"
