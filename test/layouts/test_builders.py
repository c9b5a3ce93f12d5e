# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Builders against hand-written definitions: formulas for blocked and swizzled layouts, the PTX ISA's tables."""

import itertools

import pytest

from libtile.layouts import builders as b
from libtile.layouts.linear import LinearLayout
from libtile.layouts.row_swizzles import RowSwizzle


def index(layout: LinearLayout, **place: int) -> tuple[int, ...]:
    return tuple(layout(**place).values())


@pytest.mark.parametrize("order", [(1, 0), (0, 1)])
def test_blocked_is_the_nesting_of_registers_lanes_and_warps(order):
    shape, per_thread, lanes, warps = (64, 64), (2, 4), (4, 8), (2, 2)
    layout = b.blocked(shape, per_thread, lanes, warps, order)

    def split(value, sizes):
        first, second = order
        low = value % sizes[first]
        return {first: low, second: value // sizes[first] % sizes[second]}

    box = [p * t * w for p, t, w in zip(per_thread, lanes, warps)]
    repeats = [s // x for s, x in zip(shape, box)]
    for register, lane, warp in itertools.product(range(layout.in_size("register")), range(32), range(4)):
        r, t, w = split(register, per_thread), split(lane, lanes), split(warp, warps)
        high = register // (per_thread[0] * per_thread[1])
        rep = {1: high % repeats[1], 0: high // repeats[1]}  # repeats go over the last dimension first
        expected = tuple(r[d] + per_thread[d] * (t[d] + lanes[d] * w[d]) + box[d] * rep[d] for d in (0, 1))
        assert index(layout, register=register, lane=lane, warp=warp) == expected


def test_a_blocked_layout_larger_than_its_tile_holds_copies():
    layout = b.blocked((16,), (4,), (32,), (4,), (0,))
    assert layout.shape == (16,)
    assert layout.is_surjective
    assert layout.free_bits() == {"register": 0, "lane": 0b11100, "warp": 0b11}


def test_the_accumulator_of_m16n8_is_the_isas_table():
    layout = b.mma_accumulator()
    for lane, i in itertools.product(range(32), range(4)):
        group, thread = lane >> 2, lane % 4
        row = group if i < 2 else group + 8
        column = thread * 2 + (i & 1)
        assert index(layout, register=i, lane=lane) == (row, column)


def test_operand_a_of_m16n8k16_is_the_isas_table():
    layout = b.mma_operand_a(16)
    for lane, i in itertools.product(range(32), range(8)):
        group, thread = lane >> 2, lane % 4
        row = group if i in (0, 1, 4, 5) else group + 8
        column = thread * 2 + (i & 1) + (8 if i >= 4 else 0)
        assert index(layout, register=i, lane=lane) == (row, column)


def test_operand_b_of_m16n8k16_is_the_isas_table():
    layout = b.mma_operand_b(16)
    for lane, i in itertools.product(range(32), range(4)):
        group, thread = lane >> 2, lane % 4
        row = thread * 2 + (i & 1) + (8 if i >= 2 else 0)
        assert index(layout, register=i, lane=lane) == (row, group)


def test_operands_of_m16n8k32_are_the_isas_tables():
    a, bb = b.mma_operand_a(8), b.mma_operand_b(8)
    for lane, i in itertools.product(range(32), range(16)):
        group, thread = lane >> 2, lane % 4
        row = group if i < 4 or 8 <= i < 12 else group + 8
        column = thread * 4 + (i & 3) + (16 if i >= 8 else 0)
        assert index(a, register=i, lane=lane) == (row, column)
    for lane, i in itertools.product(range(32), range(8)):
        group, thread = lane >> 2, lane % 4
        assert index(bb, register=i, lane=lane) == (thread * 4 + (i & 3) + (16 if i >= 4 else 0), group)


def test_operands_of_m16n8k8_tf32_are_the_isas_tables():
    a, bb = b.mma_operand_a(32), b.mma_operand_b(32)
    for lane, i in itertools.product(range(32), range(4)):
        group, thread = lane >> 2, lane % 4
        assert index(a, register=i, lane=lane) == (group + 8 * (i in (1, 3)), thread + 4 * (i >= 2))
    for lane, i in itertools.product(range(32), range(2)):
        assert index(bb, register=i, lane=lane) == (lane % 4 + 4 * i, lane >> 2)


def test_fragments_of_m8n8k4_f64_are_the_isas_tables():
    for lane in range(32):
        assert index(b.mma_f64("a"), lane=lane) == (lane >> 2, lane % 4)
        assert index(b.mma_f64("b"), lane=lane) == (lane % 4, lane >> 2)
        for i in range(2):
            assert index(b.mma_f64("c"), lane=lane, register=i) == (lane >> 2, (lane % 4) * 2 + i)


def test_the_accumulator_of_wgmma_is_the_isas_table():
    layout = b.wgmma_accumulator(64)
    for warp, lane, i in itertools.product(range(4), range(32), range(32)):
        row = 16 * warp + lane // 4 + 8 * ((i // 2) % 2)
        column = 8 * (i // 4) + 2 * (lane % 4) + i % 2
        assert index(layout, register=i, lane=lane, warp=warp) == (row, column)


def test_operand_warps_of_the_other_dimension_hold_copies():
    a = b.mma_operand((64, 32), (2, 2), 16, "a")
    bb = b.mma_operand((32, 64), (2, 2), 16, "b")
    assert a.free_bits()["warp"] == 0b01
    assert bb.free_bits()["warp"] == 0b10
    c = b.mma_result((64, 64), (2, 2))
    for warp in range(4):
        rows = {index(c, register=r, lane=t, warp=warp)[0] for r in range(c.in_size("register")) for t in range(32)}
        rows_a = {index(a, register=r, lane=t, warp=warp)[0] for r in range(a.in_size("register")) for t in range(32)}
        assert rows == rows_a


@pytest.mark.parametrize(("order", "shape"), [((1, 0), (32, 64)), ((0, 1), (64, 32))])
def test_a_swizzle_is_an_xor_of_the_row(order, shape):
    swizzle = b.Swizzle(vector=8, per_phase=2, max_phase=4)
    layout = b.swizzled(shape, swizzle, order).inverse()
    row_length = shape[order[0]]
    for r, c in itertools.product(range(shape[order[1]]), range(row_length)):
        phase = (r // swizzle.per_phase) % swizzle.max_phase
        stored_column = c ^ (phase * swizzle.vector)
        place = {f"dim{order[1]}": r, f"dim{order[0]}": c}
        assert layout(**place)["offset"] == r * row_length + stored_column


@pytest.mark.parametrize("swizzle_bytes", [32, 64, 128])
def test_the_tma_swizzle_permutes_sixteen_byte_chunks_of_a_128_byte_line_by_address_bits(swizzle_bytes):
    # In bytes the mode is: address bits 4.. are xored with bits 7.., as many as the mode has chunk bits.
    layout = b.nvmma_shared((64, swizzle_bytes // 2), 16, RowSwizzle(swizzle_bytes)).inverse()
    mask = swizzle_bytes // 16 - 1
    for r, c in itertools.product(range(64), range(swizzle_bytes // 2)):
        plain = (r * (swizzle_bytes // 2) + c) * 2
        swizzled = plain ^ ((plain >> 7 & mask) << 4)
        assert layout(dim0=r, dim1=c)["offset"] * 2 == swizzled


def test_a_swizzle_by_32_bytes_permutes_them_by_the_128_byte_line_modulo_4():
    """CUTLASS's Swizzle<2,5,2>: bits 5 and 6 of the byte are xored with bits 7 and 8."""
    layout = b.nvmma_shared((16, 64), 32, RowSwizzle(128, 32)).inverse()
    for r, c in itertools.product(range(16), range(64)):
        panel, within = divmod(c, 32)
        plain = panel * 16 * 128 + r * 128 + within * 4
        assert layout(dim0=r, dim1=c)["offset"] * 4 == plain ^ (plain >> 7 & 3) << 5


def test_a_tile_wider_than_the_swizzle_is_made_of_panels():
    layout = b.nvmma_shared((8, 128), 16, RowSwizzle(128)).inverse()
    assert layout(dim0=0, dim1=64)["offset"] == 8 * 64


@pytest.mark.parametrize(
    "call",
    [
        lambda: b.nvmma_shared((8, 16), 16, RowSwizzle(128)),
        lambda: b.nvmma_shared((8, 64), 16, RowSwizzle(48)),
        lambda: b.swizzled((8, 8), b.Swizzle(8, 1, 8)),
        lambda: b.mma_f64("d"),
        lambda: b.mma_operand((16, 16), (1, 1), 16, "c"),
        lambda: LinearLayout.of({"x": [3]}, {"y": 3}),
        lambda: LinearLayout.of({"x": [4]}, {"y": 4}),
    ],
)
def test_what_does_not_fit_is_refused(call):
    with pytest.raises(ValueError, match=r"."):
        call()
