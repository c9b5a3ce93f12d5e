# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Descriptors of wgmma's operands say where their layouts have each element, for every shape and type there is."""

from functools import lru_cache

import numpy as np
import pytest

from libtile.atoms import mma_layouts, wgmma
from libtile.atoms.cp_async import operand_shared_layout
from libtile.layouts.builders import nvmma_shared, row_major
from libtile.layouts.linear import LinearLayout
from libtile.layouts.row_swizzles import RowSwizzle
from libtile.simulator.ops.wgmma import descriptor_offsets
from libtile.targets import target

SM_90 = target("sm_90")
BYTES = {"f16": 2, "bf16": 2, "tf32": 4, "e4m3": 1, "e5m2": 1, "s8": 1, "u8": 1}
PLACED = {"s8": "i8", "u8": "i8", "e4m3": "i8", "e5m2": "i8", "tf32": "tf32"}


@lru_cache(maxsize=64)
def offsets(layout):
    """Offsets in elements by index; the first one where an element lies at several."""
    assert layout.out_dims == ("dim0", "dim1") and layout.in_dims == ("offset",)
    bases = layout.basis("offset")
    places = np.zeros((1 << len(bases), 2), dtype=np.int64)
    for bit, vector in enumerate(bases):
        places[1 << bit : 2 << bit] = places[: 1 << bit] ^ np.array(vector)
    found = np.full(layout.shape, -1, dtype=np.int64)
    for offset in reversed(range(len(places))):
        found[tuple(places[offset])] = offset
    assert (found >= 0).all()
    return found


def check(layout, side, atom, size, transposed):
    """The descriptor of each part of an operand, as the simulator reads it, against the layout."""
    operand = wgmma.shared_operand(layout, side, atom, size, transposed)
    assert isinstance(operand, wgmma.SharedOperand), operand
    places = offsets(layout) * size
    if side == "b":
        places = places.T
    outer = atom.m if side == "a" else atom.n
    for first in range(0, places.shape[0], outer):
        for k in range(0, places.shape[1], atom.k):
            descriptor = operand.fields | operand.start(first, k) >> 4
            read = descriptor_offsets(descriptor, outer, atom.k, 8 * size, operand.transposed)
            np.testing.assert_array_equal(read, places[first : first + outer, k : k + atom.k])
    return operand


@pytest.mark.parametrize("family", SM_90.wgmma_families, ids=lambda f: f"{f.a}-{f.b}-{f.d}")
@pytest.mark.parametrize("contiguous", ["k", "mn"])
@pytest.mark.parametrize("side", ["a", "b"])
def test_a_descriptor_says_where_the_elements_are(family, contiguous, side):
    size = BYTES[family.a]
    for columns in (n for n in family.columns if n & (n - 1) == 0):
        for steps in (1, 2, 4, 8):
            atom = wgmma.find(SM_90, family.a, family.b, family.d, 64, columns, family.k * steps)
            assert atom is not None and (atom.m, atom.n, atom.k) == (64, columns, family.k)
            outer, depth = 128 if side == "a" else columns, family.k * steps
            shape = (outer, depth) if side == "a" else (depth, outer)
            along = 1 - "ab".index(side) if contiguous == "k" else "ab".index(side)
            layout = operand_shared_layout(shape, PLACED.get(family.a, family.a), along)
            if contiguous == "k" or family.transposed:
                operand = check(layout, side, atom, size, family.transposed)
                assert operand.transposed == (contiguous == "mn") or min(shape) * size <= 16
            elif columns * size > 16:
                assert wgmma.shared_operand(layout, side, atom, size, family.transposed) == (
                    f"products of {family.a} and {family.b} read operands that are contiguous along k only"
                )


def test_every_swizzle_is_known():
    atom = wgmma.find(SM_90, "f16", "f16", "f32", 64, 64, 64)
    for swizzle in (32, 64, 128):
        for order in ((1, 0), (0, 1)):
            operand = check(nvmma_shared((64, 64), 16, RowSwizzle(swizzle), order), "a", atom, 2, (16,))
            assert operand.swizzle == RowSwizzle(swizzle) and operand.alignment == 8 * swizzle


def test_the_fields_of_a_large_tile_are_those_of_panels():
    """128x256x64: A along k, B along its columns in panels of 64."""
    atom = wgmma.find(SM_90, "f16", "f16", "f32", 128, 256, 64)
    a = check(operand_shared_layout((128, 64), "f16", 1), "a", atom, 2, (16,))
    b = check(operand_shared_layout((64, 256), "f16", 1), "b", atom, 2, (16,))
    assert (a.transposed, a.swizzle.span, a.stride, a.start(64, 16)) == (False, 128, 1024, 8192 + 32)
    assert (b.transposed, b.swizzle.span, b.leading, b.stride, b.start(0, 16)) == (True, 128, 8192, 1024, 2048)


def test_a_layout_of_its_own_has_no_descriptor():
    atom = wgmma.find(SM_90, "f16", "f16", "f32", 64, 64, 64)
    found = wgmma.shared_operand(row_major((64, 64)), "a", atom, 2, (16,))
    assert found == "its layout in shared memory is none that a descriptor says"
    odd = LinearLayout.of({"offset": [(0, 1), (1, 0), (0, 2)]}, {"dim0": 2, "dim1": 4})
    assert wgmma.shared_operand(odd, "a", atom, 2, (16,)) == "it is smaller than the 64 x 16 of one instruction"


@pytest.mark.parametrize("shape", [(64, 8), (128, 256), (256, 64)], ids=str)
@pytest.mark.parametrize("groups", [1, 2])
def test_registers_lie_as_in_products_of_whole_rows(shape, groups):
    warps = 4 * groups
    if shape[0] < 16 * warps:
        with pytest.raises(ValueError, match="do not share"):
            wgmma.accumulator_layout(shape, warps)
        return
    operands = (shape[0], 64), (64, shape[1])
    found = mma_layouts.dot_layouts(*operands, "f16", "f16", "f32", SM_90, warps, whole_rows=True)
    assert wgmma.accumulator_layout(shape, warps) == found.c
    assert wgmma.a_layout(operands[0], warps, 16) == found.a


def test_only_documented_products_are_found():
    assert wgmma.find(SM_90, "f16", "f16", "f32", 32, 64, 64) is None
    assert wgmma.find(SM_90, "f16", "f16", "f32", 64, 4, 64) is None
    assert wgmma.find(SM_90, "f16", "bf16", "f32", 64, 64, 64) is None
    assert wgmma.find(target("sm_100"), "f16", "f16", "f32", 64, 64, 64) is None
    assert wgmma.find(SM_90, "f16", "f16", "f32", 64, 512, 64).n == 256
    assert wgmma.find(SM_90, "s8", "u8", "s32", 64, 32, 32).n == 32


def test_warpgroups_share_columns_where_there_are_not_rows_for_all_of_them():
    assert wgmma.shared_layout((128, 64), 8) == wgmma.accumulator_layout((128, 64), 8)
    shared, alone = wgmma.shared_layout((64, 64), 8), wgmma.accumulator_layout((64, 32), 4)
    for register, lane, warp in ((0, 0, 0), (5, 17, 3), (15, 31, 2)):
        row, column = alone(register=register, lane=lane, warp=warp).values()
        for group in range(2):
            found = shared(register=register, lane=lane, warp=warp + 4 * group)
            assert tuple(found.values()) == (row, column + 32 * group)
    with pytest.raises(ValueError, match="do not share"):
        wgmma.shared_layout((32, 64), 8)
