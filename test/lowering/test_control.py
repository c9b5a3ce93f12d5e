# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loops and conditionals over tiles and scalars, run in the simulator."""

from __future__ import annotations

import re

import memory_kernels as mk
import numpy as np
import pytest

from libtile.codegen.builder import integer
from libtile.codegen.control import breaking_loop, for_loop, if_else, while_loop
from libtile.codegen.llvm_types import I32
from libtile.codegen.memory import load
from libtile.codegen.tile import Tile, map_tiles

LAYOUT = mk.LAYOUTS["mma"]
GPUS = ["sm_80", "sm_90"]


def read_scalar(b, base, position=0, type_=I32):
    place = b.emit(base.type, f"getelementptr {type_}, {base.typed}, i32 {position}")
    return b.emit(type_, f"load {type_}, {place.typed}, align {type_.bits // 8}")


def write_scalar(b, base, value, position=0):
    """By thread 0."""
    with b.when(b.compare("eq", b.thread_id(), integer(I32, 0))):
        place = b.emit(base.type, f"getelementptr {value.type}, {base.typed}, i32 {position}")
        b.line(f"store {value.typed}, {place.typed}, align {value.type.bits // 8}")


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("rotated", [False, True])
@pytest.mark.parametrize("bounds", [(0, 10, 3), (5, 5, 1), (7, 2, 1), (-4, 4, 2)])
def test_a_for_loop_carries_a_tile_and_a_scalar(gpu, bounds, rotated):
    b, (numbers, source, out, count) = mk.kernel(gpu, parameters=4)
    start = load(b, mk.pointers(b, source, LAYOUT, "i32"), "i32")
    lower, upper, step = (read_scalar(b, numbers, i) for i in range(3))

    def body(i, carried):
        tile, turns = carried
        return [tile.map(lambda x: b.add(b.mul(x, integer(I32, 3)), i)), b.add(turns, integer(I32, 1))]

    tile, turns = for_loop(b, lower, upper, step, [start, integer(I32, 0)], body, rotated=rotated)
    mk.put(b, out, tile)
    write_scalar(b, count, turns)
    data, result, total = mk.random_array("i32", LAYOUT.shape), np.zeros(LAYOUT.shape, np.int32), np.zeros(1, np.int32)
    mk.run(b, np.array(bounds, np.int32), data, result, total)
    expected = data
    for i in range(*bounds):
        expected = expected * np.int32(3) + np.int32(i)
    assert np.array_equal(result, expected)
    assert total[0] == len(range(*bounds))


@pytest.mark.parametrize("unsigned", [False, True])
def test_bounds_compare_as_signed_or_unsigned(unsigned):
    b, (numbers, out) = mk.kernel()
    lower, upper = read_scalar(b, numbers, 0), read_scalar(b, numbers, 1)
    (turns,) = for_loop(
        b, lower, upper, integer(I32, 1 << 29), [integer(I32, 0)],
        lambda i, c: [b.add(c[0], integer(I32, 1))], unsigned=unsigned,
    )  # fmt: skip
    write_scalar(b, out, turns)
    result = np.full(1, -1, np.int32)
    mk.run(b, np.array([1 << 28, -(1 << 30)], np.int32), result)
    first, last = 1 << 28, (1 << 32) - (1 << 30)
    assert result[0] == (len(range(first, last, 1 << 29)) if unsigned else 0)


@pytest.mark.parametrize("rotated", [False, True])
@pytest.mark.parametrize("step_is_constant", [False, True])
@pytest.mark.parametrize(
    ("unsigned", "lower", "upper", "step"),
    [
        (False, 2**31 - 21, 2**31 - 1, 7),
        (False, 2**31 - 22, 2**31 - 1, 7),
        (False, -(2**31), 2**31 - 1, 2**30),
        (False, -(2**31), -(2**31) + 3, 2**31 - 1),
        (False, 5, -5, 7),
        (True, 2**32 - 21, 2**32 - 1, 7),
        (True, 0, 3, 2**31),
        (True, 5, 4, 7),
    ],
)
def test_a_loop_whose_counter_would_wrap_around_ends(unsigned, lower, upper, step, step_is_constant, rotated):
    b, (numbers, out) = mk.kernel()
    bounds = [read_scalar(b, numbers, i) for i in range(3)]
    if step_is_constant:
        bounds[2] = integer(I32, step if step < 2**31 else step - 2**32)
    counted, last = for_loop(
        b, *bounds, [integer(I32, 0), integer(I32, -1)],
        lambda i, c: [b.add(c[0], integer(I32, 1)), i], unsigned=unsigned, rotated=rotated,
    )  # fmt: skip
    write_scalar(b, out, counted)
    write_scalar(b, out, last, 1)
    result = np.zeros(2, np.int32)
    mk.run(b, np.array([lower, upper, step], np.int64).astype(np.int32), result)
    wanted = range(lower, upper, step)
    assert result[0] == len(wanted)
    assert result[1] == np.int64(wanted[-1] if wanted else -1).astype(np.int32)


def test_a_rotated_loop_asks_for_another_turn_behind_each_one():
    b, (numbers, _) = mk.kernel()
    lower, upper = read_scalar(b, numbers, 0), read_scalar(b, numbers, 1)
    for_loop(b, lower, upper, integer(I32, 1), [], lambda i, c: [], rotated=True)
    text = b.module_text()
    (turn,) = re.findall(r"^(for\S*):", text, re.M)
    (last,) = re.findall(rf"^{turn}:.*?^  br (.*?)$", text, re.M | re.S)
    assert last.startswith("i1 ") and f"label %{turn}," in last


def test_a_loop_in_steps_of_one_only_compares_with_its_bound():
    b, (numbers, _) = mk.kernel()
    lower, upper = read_scalar(b, numbers, 0), read_scalar(b, numbers, 1)
    for_loop(b, lower, upper, integer(I32, 1), [], lambda i, c: [])
    assert "sub.sat" not in b.module_text()


@pytest.mark.parametrize("gpu", GPUS)
def test_a_while_loop_forwards_from_its_condition(gpu):
    b, (numbers, out) = mk.kernel(gpu)
    start = read_scalar(b, numbers)

    def before(carried):
        value, steps = carried
        return b.compare("ne", value, integer(I32, 1)), [steps, value]

    def after(carried):
        steps, value = carried
        odd = b.compare("ne", b.and_(value, integer(I32, 1)), integer(I32, 0))
        up = b.add(b.mul(value, integer(I32, 3)), integer(I32, 1))
        return [b.select(odd, up, b.binary("lshr", value, integer(I32, 1))), b.add(steps, integer(I32, 1))]

    steps, last = while_loop(b, [start, integer(I32, 0)], before, after)
    write_scalar(b, out, steps)
    write_scalar(b, out, last, 1)
    result = np.zeros(2, np.int32)
    mk.run(b, np.array([27], np.int32), result)
    assert result.tolist() == [111, 1]  # the Collatz sequence of 27


@pytest.mark.parametrize("flag", [0, 1])
def test_a_conditional_yields_the_tile_of_the_arm_that_ran(flag):
    b, (numbers, source, out) = mk.kernel(parameters=3)
    start = load(b, mk.pointers(b, source, LAYOUT, "f32"), "f32")
    condition = b.compare("ne", read_scalar(b, numbers), integer(I32, 0))
    (tile,) = if_else(
        b, condition,
        lambda: [map_tiles(lambda x: b.binary("fadd", x, x), start)],
        lambda: [map_tiles(lambda x: b.emit(x.type, f"fneg {x.typed}"), start)],
    )  # fmt: skip
    mk.put(b, out, tile)
    data, result = mk.random_array("f32", LAYOUT.shape), np.zeros(LAYOUT.shape, np.float32)
    mk.run(b, np.array([flag], np.int32), data, result)
    assert np.array_equal(result, data + data if flag else -data)


def test_a_conditional_without_results_needs_no_second_arm():
    b, (numbers, out) = mk.kernel()
    condition = b.compare("eq", read_scalar(b, numbers), integer(I32, 5))

    def then():
        write_scalar(b, out, integer(I32, 9))
        return []

    assert if_else(b, condition, then) == []
    for value, expected in ((5, 9), (4, 0)):
        result = np.zeros(1, np.int32)
        mk.run(b, np.array([value], np.int32), result)
        assert result[0] == expected


def breaking_kernel(gpu):
    """Adds 1, 2, 3, ... leaving out multiples of 3, until the sum passes a limit; a barrier stands in the body."""
    b, (numbers, out) = mk.kernel(gpu)
    limit = read_scalar(b, numbers)

    def body(carried, way_out):
        count, total = carried
        following = b.add(count, integer(I32, 1))
        b.barrier()
        rest = b.binary("urem", following, integer(I32, 3))

        def skip():
            way_out.continue_([following, total])
            return []

        if_else(b, b.compare("eq", rest, integer(I32, 0)), skip, list)
        total = b.add(total, following)

        def leave():
            way_out.break_([total, following])
            return []

        def go_on():
            way_out.continue_([following, total])
            return []

        if_else(b, b.compare("sgt", total, limit), leave, go_on)

    zero = integer(I32, 0)
    total, count = breaking_loop(b, [zero, zero], [zero, zero], body)
    write_scalar(b, out, total)
    write_scalar(b, out, count, 1)
    return b


@pytest.mark.parametrize("gpu", GPUS)
def test_a_loop_breaks_and_continues_from_within_conditionals(gpu):
    result = np.zeros(2, np.int32)
    mk.run(breaking_kernel(gpu), np.array([100], np.int32), result)
    total = count = 0
    while total <= 100:
        count += 1
        total += count if count % 3 else 0
    assert result.tolist() == [total, count]


@pytest.mark.parametrize("rotated", [False, True])
def test_nested_loops_carry_tiles_through_each_other(rotated):
    b, (source, out) = mk.kernel()
    start = load(b, mk.pointers(b, source, LAYOUT, "i32"), "i32")
    one = integer(I32, 1)

    def inner(i, carried):
        def turn(j, carried):
            return [carried[0].map(lambda x: b.add(x, j))]

        return for_loop(b, integer(I32, 0), i, one, carried, turn, rotated=rotated)

    (tile,) = for_loop(b, integer(I32, 0), integer(I32, 6), one, [start], inner, rotated=rotated)
    mk.put(b, out, tile)
    data, result = mk.random_array("i32", LAYOUT.shape), np.zeros(LAYOUT.shape, np.int32)
    mk.run(b, data, result)
    assert np.array_equal(result, data + np.int32(sum(sum(range(i)) for i in range(6))))


def test_edges_with_other_layouts_are_refused():
    b, (source, _) = mk.kernel()
    tile = load(b, mk.pointers(b, source, LAYOUT, "i32"), "i32")
    other = mk.LAYOUTS["columns"]
    condition = b.compare("eq", b.thread_id(), b.thread_id())
    with pytest.raises(ValueError, match="other types or layouts"):
        if_else(b, condition, lambda: [tile], lambda: [Tile(other, "i32", tile.registers)])


def test_a_path_that_ends_nowhere_is_refused():
    b, _ = mk.kernel()
    with pytest.raises(ValueError, match="neither break nor continue"):
        breaking_loop(b, [], [], lambda carried, way_out: None)
