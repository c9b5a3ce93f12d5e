# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Conversion plans: executed on numbered elements, they deliver every element where it belongs, without conflicts."""

import itertools
import random

import pytest

from libtile.layouts import builders as b
from libtile.layouts.convert import Conversion, bank_conflicts, classify, is_vectorised, plan
from libtile.layouts.linear import LinearLayout


def table(layout):
    """(register, lane, warp) -> index, for every place; columns are combined once, not per call."""
    result = {}
    for warp in range(layout.in_size("warp")):
        for lane in range(layout.in_size("lane")):
            start = layout(lane=lane, warp=warp)
            for register in range(layout.in_size("register")):
                step = layout(register=register)
                result[register, lane, warp] = tuple(start[n] ^ step[n] for n in layout.out_dims)
    return result


def execute(conversion, source, target):
    """Run a plan on a tile whose elements are their own indices; returns what each target place received."""
    held = table(source)
    memory, offsets = {}, {}
    if conversion.kind is Conversion.SHARED:
        cells = {
            tuple(v.values()): k
            for k, v in ((o, conversion.shared(offset=o)) for o in range(conversion.shared.in_size("offset")))
        }
        memory = {cells[element]: element for element in held.values()}
        offsets = {place: cells[index] for place, index in table(target.transpose_outs(source.out_dims)).items()}
    received = {}
    for register, lane, warp in table(target):
        if conversion.kind in (Conversion.NONE, Conversion.REGISTERS):
            received[register, lane, warp] = held[conversion.source_register(register), lane, warp]
        elif conversion.kind is Conversion.SHUFFLE:
            step = conversion.rounds[register]
            received[step.target(lane), lane, warp] = held[step.source(lane), step.source_lane(lane), warp]
        else:
            received[register, lane, warp] = memory[offsets[register, lane, warp]]
    return received


def expected(source, target):
    return table(target.transpose_outs(source.out_dims))


ROW = b.blocked((32, 32), (1, 4), (4, 8), (4, 1), (1, 0))
COLUMN = b.blocked((32, 32), (4, 1), (8, 4), (1, 4), (0, 1))
MMA_C = b.mma_result((32, 32), (2, 2))
MMA_A = b.mma_operand((32, 32), (2, 2), 16, "a")
NAMED = {
    "row": ROW,
    "column": COLUMN,
    "mma_c": MMA_C,
    "mma_a": MMA_A,
    "mma_b": b.mma_operand((32, 32), (2, 2), 16, "b"),
}


@pytest.mark.parametrize(("source", "target"), list(itertools.permutations(NAMED, 2)) + [(n, n) for n in NAMED])
@pytest.mark.parametrize("element_bytes", [1, 2, 4])
def test_every_element_arrives(source, target, element_bytes):
    conversion = plan(NAMED[source], NAMED[target], element_bytes)
    assert execute(conversion, NAMED[source], NAMED[target]) == expected(NAMED[source], NAMED[target])
    if source == target:
        assert conversion.kind is Conversion.NONE


def test_the_accumulator_is_the_next_products_operand_without_moving_between_lanes():
    # Two chained products (attention): with one column of warps the result of the first is A of the second.
    result, operand = b.mma_result((64, 32), (4, 1)), b.mma_operand((64, 32), (4, 1), 16, "a")
    assert plan(result, operand, 2).kind is Conversion.NONE


def test_a_permutation_of_registers_and_lanes_takes_shuffles():
    a = LinearLayout.of({"register": [1, 2], "lane": [4, 8, 16, 32, 64], "warp": []}, {"x": 128})
    c = LinearLayout.of({"register": [32, 64], "lane": [1, 2, 4, 8, 16], "warp": []}, {"x": 128})
    conversion = plan(a, c, 4)
    assert conversion.kind is Conversion.SHUFFLE
    assert execute(conversion, a, c) == expected(a, c)


def test_random_permutations_of_register_and_lane_bits_are_shuffled_correctly():
    random.seed(1)
    for _ in range(30):
        bits = [1 << i for i in range(7)]
        random.shuffle(bits)
        a = LinearLayout.of({"register": bits[:2], "lane": bits[2:], "warp": []}, {"x": 128})
        random.shuffle(bits)
        c = LinearLayout.of({"register": bits[:2], "lane": bits[2:], "warp": []}, {"x": 128})
        conversion = plan(a, c, 4)
        assert conversion.kind is not Conversion.SHARED
        assert execute(conversion, a, c) == expected(a, c)


def test_lanes_that_want_the_same_element_read_it_without_a_choice_between_registers():
    # A row of an accumulator's columns, one to a lane, as the fragment has them: eight lanes want each.
    row = LinearLayout.of({"register": [], "lane": [1, 2, 4, 8, 16], "warp": []}, {"x": 32})
    columns = LinearLayout.of({"register": [1, 8, 16], "lane": [2, 4, 0, 0, 0], "warp": []}, {"x": 32})
    conversion = plan(row, columns, 4)
    assert conversion.kind is Conversion.SHUFFLE
    assert execute(conversion, row, columns) == expected(row, columns)
    assert not any(any(step.target_of_lane) for step in conversion.rounds)


def test_only_lanes_that_want_different_registers_of_one_lane_take_turns():
    # Lane bits 0 and 1 stand for the source's registers, bit 2 for nothing: the lane is told by registers.
    a = LinearLayout.of({"register": [1, 2], "lane": [4, 8, 16, 0, 0], "warp": []}, {"x": 32})
    c = LinearLayout.of({"register": [4, 8, 16], "lane": [1, 2, 0, 0, 0], "warp": []}, {"x": 32})
    conversion = plan(a, c, 4)
    assert conversion.kind is Conversion.SHUFFLE
    assert execute(conversion, a, c) == expected(a, c)
    assert [bool(column) for column in conversion.rounds[0].target_of_lane] == [True, True, False, False, False]


def test_shuffles_with_lanes_that_repeat_each_other_deliver_every_element():
    random.seed(2)
    for _ in range(60):
        bits = [1 << i for i in range(5)]
        random.shuffle(bits)
        a = LinearLayout.of({"register": bits[:1], "lane": [*bits[1:], 0], "warp": []}, {"x": 32})
        held = random.sample(range(8), 5)
        places = [1 << held.index(i) if i in held else 0 for i in range(8)]
        c = LinearLayout.of({"register": [v for v in places[:3] if v], "lane": places[3:], "warp": []}, {"x": 32})
        conversion = plan(a, c, 4)
        assert execute(conversion, a, c) == expected(a, c)


@pytest.mark.parametrize(("source", "target"), list(itertools.permutations(NAMED, 2)))
@pytest.mark.parametrize("element_bytes", [2, 4])
def test_the_round_trip_through_shared_memory_has_no_bank_conflicts(source, target, element_bytes):
    conversion = plan(NAMED[source], NAMED[target], element_bytes)
    if conversion.kind is not Conversion.SHARED:
        return
    for layout in (NAMED[source], NAMED[target]):
        assert is_vectorised(layout, conversion.shared, conversion.vector)
        assert bank_conflicts(layout, conversion.shared, element_bytes, conversion.vector) == 0


def test_a_transposition_without_swizzle_conflicts_and_with_the_plan_does_not():
    plain = b.row_major((32, 32))
    assert bank_conflicts(b.blocked((32, 32), (1, 1), (32, 1), (1, 1), (0, 1)), plain, 4) == 31
    rows, columns = (b.blocked((32, 32), (1, 1), t, (1, 1), o) for t, o in (((1, 32), (1, 0)), ((32, 1), (0, 1))))
    conversion = plan(rows, columns, 4)
    assert conversion.kind in (Conversion.SHARED, Conversion.SHUFFLE)


def test_warps_that_trade_rows_go_through_shared_memory():
    a = b.blocked((4, 32), (1, 1), (1, 32), (4, 1), (1, 0))
    c = LinearLayout.of(
        {"register": [], "lane": [(0, 1 << i) for i in range(5)], "warp": [(2, 0), (1, 0)]}, {"dim0": 4, "dim1": 32}
    )
    assert classify(c.convert_to(a)) is Conversion.SHARED
    assert execute(plan(a, c, 4), a, c) == expected(a, c)
