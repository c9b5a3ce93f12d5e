# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Masks that compare places in a tile, and what they add: right for all numbers, in few instructions."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest

import libtile
from libtile.lowering.tileas.tile_ops.compare_places import LEAST_RANKS, best_grid
from libtile.support import statistics

SIZE = 64
PREDICATES = {
    "less_than": np.less,
    "less_than_or_equal": np.less_equal,
    "greater_than": np.greater,
    "greater_than_or_equal": np.greater_equal,
    "equal": np.equal,
}
LEAST, GREATEST = -(1 << 31), (1 << 31) - 1
NUMBERS = [LEAST, LEAST + 64, -64 << 20, -128, -64, 0, 64, 192, 1 << 30, GREATEST - 127, GREATEST - 63]


CHOOSE = f"""%yes = constant <i32: 1> : tile<{SIZE}x{SIZE}xi32>
        %no = constant <i32: -5> : tile<{SIZE}x{SIZE}xi32>
        %e = select %m, %yes, %no : tile<{SIZE}x{SIZE}xi1>, tile<{SIZE}x{SIZE}xi32>"""
"""In place of the mask's elements themselves."""
EXTEND = "%e = exti %m unsigned : tile<64x64xi1> -> tile<64x64xi32>"


def mask(predicate: str, left: str, right: str, factor: int, then: str = EXTEND, second: str = "b") -> str:
    """A kernel that stores where, in a tile, one place is before another: `left` and `right` are `rows`, `columns` or
    `same`, a number plus the index along a dimension, or the number alone. Numbers are multiples of `factor`; the
    `second` one is %b, or %a again."""

    def side(name: str, number: str, along: str) -> str:
        line, tile = "x".join(["64", "1"][:: 1 if along == "rows" else -1]), f"tile<{SIZE}x{SIZE}xi32>"
        first = f"%{name}1 = reshape %{number} : tile<i32> -> tile<1x1xi32>\n"
        if along == "same":
            return first + f"%{name} = broadcast %{name}1 : tile<1x1xi32> -> {tile}\n"
        return (
            first
            + f"""%{name}2 = broadcast %{name}1 : tile<1x1xi32> -> tile<{line}xi32>
            %{name}3 = iota : tile<64xi32>
            %{name}4 = reshape %{name}3 : tile<64xi32> -> tile<{line}xi32>
            %{name}5 = addi %{name}4, %{name}2 : tile<{line}xi32>
            %{name} = broadcast %{name}5 : tile<{line}xi32> -> {tile}\n"""
        )

    def loaded(number: str, start: str) -> str:
        view = "tensor_view<?xi32, strides=[1]>"
        part = f"partition_view<tile=(1), {view}>"
        return f"""%{number}v = make_tensor_view %{start}, shape = [%n], strides = [1] : tile<i32> -> {view}
            %{number}p = make_partition_view %{number}v : {part}
            %{number}t, %{number}u = load_view_tko weak %{number}p[%i] token = %t
              : {part}, tile<i32> -> tile<1xi32>, token
            %{number}0 = reshape %{number}t : tile<1xi32> -> tile<i32>
            %{number}f = constant <i32: {factor}> : tile<i32>
            %{number} = muli %{number}0, %{number}f : tile<i32>\n"""

    view = "tensor_view<?x64x64xi32, strides=[4096,64,1]>"
    part = f"partition_view<tile=(1x64x64), {view}>"
    return f"""cuda_tile.module @m {{
      entry @k(%to: tile<ptr<i32>>, %as: tile<ptr<i32>>, %bs: tile<ptr<i32>>, %n: tile<i32>) {{
        %t = make_token : token
        %i, %j, %k = get_tile_block_id : tile<i32>
        {loaded("a", "as")} {loaded("b", "bs")} {side("x", "a", left)} {side("y", second, right)}
        %m = cmpi {predicate} %x, %y, signed : tile<64x64xi32> -> tile<64x64xi1>
        {then}
        %r = reshape %e : tile<64x64xi32> -> tile<1x64x64xi32>
        %v = make_tensor_view %to, shape = [%n, 64, 64], strides = [4096, 64, 1] : tile<i32> -> {view}
        %p = make_partition_view %v : {part}
        %zero = constant <i32: 0> : tile<i32>
        %w = store_view_tko weak %r, %p[%i, %zero, %zero] token=%t : tile<1x64x64xi32>, {part}, tile<i32> -> token
        return }} }}"""


def expected(predicate: str, left: str, right: str, a: int, b: int) -> np.ndarray:
    with np.errstate(over="ignore"):
        index = np.arange(SIZE, dtype=np.int32)
        places = {"rows": index[:, None], "columns": index[None, :], "same": np.zeros((1, 1), np.int32)}
        x, y = (places[along] + np.int32(number) for along, number in ((left, a), (right, b)))
        return np.broadcast_to(PREDICATES[predicate](x, y), (SIZE, SIZE)).astype(np.int32)


def check(factor: int, pairs: list[tuple[int, int]], predicate: str, left: str, right: str, then: str = EXTEND) -> None:
    text = mask(predicate, left, right, factor, then)
    numbers = np.array(pairs, np.int64).T // factor
    out = np.zeros((len(pairs), SIZE, SIZE), np.int32)
    args = [out, *(np.ascontiguousarray(n, np.int32) for n in numbers), len(pairs)]
    libtile.run(libtile.parse(text), "k", grid=len(pairs), args=args, backend="simulator", gpu_name="sm_90")
    for got, (a, b) in zip(out, pairs, strict=True):
        wanted = expected(predicate, left, right, a, b)
        np.testing.assert_array_equal(got, np.where(wanted, 1, -5) if then == CHOOSE else wanted, f"{a} and {b}")


def comparisons(text: str, what: str = "comparisons of places") -> int:
    """How many comparisons the pass has done in its way."""
    with statistics.collect() as counted:
        libtile.compile(libtile.parse(text), gpu_name="sm_90")
    return counted.get(what, 0)


SIDES = [("rows", "columns"), ("columns", "rows"), ("columns", "same"), ("same", "columns"), ("rows", "same")]


@pytest.mark.parametrize(("left", "right"), SIDES)
@pytest.mark.parametrize("predicate", PREDICATES)
def test_places_are_compared_right_however_far_apart_they_are(predicate, left, right):
    assert comparisons(mask(predicate, left, right, SIZE)) == (predicate != "equal")
    check(SIZE, [*product(NUMBERS, NUMBERS)], predicate, left, right)


@pytest.mark.parametrize(("left", "right"), SIDES[:2])  # elsewhere a thread compares with too few
@pytest.mark.parametrize("predicate", [name for name in PREDICATES if name != "equal"])
def test_elements_are_chosen_right_however_far_apart_places_are(predicate, left, right):
    assert comparisons(mask(predicate, left, right, SIZE, CHOOSE), "choices by ranks") == 1
    check(SIZE, [*product(NUMBERS, NUMBERS)], predicate, left, right, CHOOSE)


@pytest.mark.parametrize(("left", "right"), SIDES[:2])
@pytest.mark.parametrize("predicate", [name for name in PREDICATES if name != "equal"])
def test_places_of_one_number_are_compared_by_what_a_thread_is(predicate, left, right):
    text = mask(predicate, left, right, SIZE, CHOOSE, second="a")
    assert comparisons(text, "choices by ranks") == 1
    numbers = [number for number in NUMBERS if number <= GREATEST - 127]
    out = np.zeros((len(numbers), SIZE, SIZE), np.int32)
    given = np.array(numbers, np.int64) // SIZE
    args = [out, given.astype(np.int32), np.zeros_like(given, np.int32), len(numbers)]
    libtile.run(libtile.parse(text), "k", grid=len(numbers), args=args, backend="simulator", gpu_name="sm_90")
    for got in out:
        np.testing.assert_array_equal(got, np.where(expected(predicate, left, right, 0, 0), 1, -5))


SCORES = {
    "mma.sync and wgmma": ([0, 8], [column + low for column in range(0, 128, 8) for low in (0, 1)]),
    "tensor memory": ([0], range(128)),
    "queries across": ([row + high for row in range(0, 64, 16) for high in (0, 8)], [0, 1, 8, 9]),
    "pieces of rows": (range(0, 64, 8), range(4)),
}
"""Indices of a thread's elements along two dimensions."""


@pytest.mark.parametrize("scores", SCORES)
@pytest.mark.parametrize("multiple", [1, 2, 16, 128])
@pytest.mark.parametrize("numbers", [(LEAST, GREATEST), (-6, 100)])
def test_ranks_say_which_constants_a_number_reaches(scores, multiple, numbers):
    rows, columns = SCORES[scores]
    constants = {column - row for row in rows for column in columns}
    grid = best_grid(constants, multiple, numbers)
    if grid is None:
        asked = sum(numbers[0] < constant <= numbers[1] for constant in constants)
        assert multiple < 8 or scores == "pieces of rows" or asked < LEAST_RANKS
        return
    size, steps = 1 << grid.far, range(1 << grid.near)
    for number in range(max(min(constants) - 600, numbers[0]), min(max(constants) + 600, numbers[1] + 1)):
        whole, rest = divmod(number, size)
        behind = sum((rest + size - grid.first - place) >> grid.far for place in steps)
        reached = max((whole << grid.near) + behind, 0)
        for constant in constants:
            assert (reached > grid.rank(constant)) == (number >= constant)
    assert not grid.far or multiple % size == 0


@pytest.mark.parametrize("factor", [1, SIZE // 2])
def test_sums_that_may_wrap_around_are_compared_as_they_are(factor):
    assert comparisons(mask("less_than", "rows", "columns", factor)) == 0
    check(factor, [(GREATEST - 31, LEAST + 32), (0, 32)], "less_than", "rows", "columns")


def added(zero: float, other: float, then: str, flip: bool = False) -> str:
    """A kernel that adds a mask to a tile: `zero` below its diagonal and `other` above it (the other way round with
    `flip`), and then does something."""
    view, tile = "tensor_view<64x64xf32, strides=[64,1]>", "tile<64x64xf32>"
    part = f"partition_view<tile=(64x64), {view}>"
    bits = [f"0x{int(np.float32(number).view(np.uint32)):08X}" for number in (zero, other)]
    chosen = "%second, %first" if flip else "%first, %second"
    return f"""cuda_tile.module @m {{ entry @k(%from: tile<ptr<f32>>, %to: tile<ptr<f32>>) {{
        %t = make_token : token
        %zero = constant <i32: 0> : tile<i32>
        %v = make_tensor_view %from, shape = [64, 64], strides = [64, 1] : {view}
        %p = make_partition_view %v : {part}
        %x, %u = load_view_tko weak %p[%zero, %zero] token = %t : {part}, tile<i32> -> {tile}, token
        %line = iota : tile<64xi32>
        %i1 = reshape %line : tile<64xi32> -> tile<64x1xi32>
        %j1 = reshape %line : tile<64xi32> -> tile<1x64xi32>
        %i = broadcast %i1 : tile<64x1xi32> -> tile<64x64xi32>
        %j = broadcast %j1 : tile<1x64xi32> -> tile<64x64xi32>
        %m = cmpi greater_than_or_equal %i, %j, signed : tile<64x64xi32> -> tile<64x64xi1>
        %first = constant <f32: {bits[0]}> : {tile}
        %second = constant <f32: {bits[1]}> : {tile}
        %mask = select %m, {chosen} : tile<64x64xi1>, {tile}
        %y = addf %x, %mask : {tile}
        {then}
        %w = make_tensor_view %to, shape = [64, 64], strides = [64, 1] : {view}
        %q = make_partition_view %w : {part}
        %s = store_view_tko weak %r, %q[%zero, %zero] token=%u : {tile}, {part}, tile<i32> -> token
        return }} }}"""


POWERS = "%r = exp2 %y : tile<64x64xf32>"
NEGATED = "%r = negf %y : tile<64x64xf32>"
HIGHEST = """%top = reduce %y dim=1 identities=[0xFF800000 : f32] : tile<64x64xf32> -> tile<64xf32>
        (%l: tile<f32>, %h: tile<f32>) { %o = maxf %l, %h : tile<f32>
            yield %o : tile<f32> }
        %top1 = reshape %top : tile<64xf32> -> tile<64x1xf32>
        %tops = broadcast %top1 : tile<64x1xf32> -> tile<64x64xf32>
        %z = subf %y, %tops : tile<64x64xf32>
        %r = exp2 %z : tile<64x64xf32>"""


@pytest.mark.parametrize(
    ("zero", "other", "then", "flip", "rewritten"),
    [
        (0.0, -np.inf, POWERS, False, True),
        (0.0, -np.inf, POWERS, True, True),
        (0.0, -np.inf, HIGHEST, False, True),
        (0.0, 1.5, HIGHEST, True, True),
        (-0.0, -np.inf, NEGATED, False, True),  # -0.0 is the zero that changes nothing
        (0.0, -np.inf, NEGATED, False, False),  # which of two zeros it is can be seen in what is stored
        (2.0, -np.inf, POWERS, False, False),
        (0.0, -0.0, POWERS, False, False),
    ],
)
def test_an_added_mask_changes_no_bit(zero, other, then, flip, rewritten):
    text = added(zero, other, then, flip)
    x = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    x[:, ::8], x[:, 1::8], x[3], x[5, 5:20] = 0.0, -0.0, np.inf, -np.inf
    x[9, 9] = x[40, 60] = np.nan
    got, wanted = np.zeros_like(x), np.zeros_like(x)
    libtile.run(libtile.parse(text), "k", args=[x, got], backend="simulator", gpu_name="sm_90")
    libtile.run(libtile.parse(text), "k", args=[x, wanted])
    np.testing.assert_array_equal(np.isnan(got), np.isnan(wanted))
    close = np.isnan(wanted) | np.isclose(got, wanted, rtol=1e-6, atol=0)
    assert close.all() and (np.signbit(got) == np.signbit(wanted))[~np.isnan(wanted)].all()
    inner = libtile.compile(libtile.parse(text), gpu_name="sm_90", emit="tileaa").tileaa
    assert bool(re.search(r"arith.select %\S+, %\S+, %\S+ .*\n.*addf", inner)) is not rewritten


def test_a_mask_of_quotients_that_are_rounded_up_is_asked_for_each_element():
    """The first of eight numbers has another quotient than those behind it: no access of several asks once."""
    module = libtile.parse("""cuda_tile.module @m {
      entry @k(%to: tile<ptr<i32>>) {
        %start = assume div_by<16>, %to : tile<ptr<i32>>
        %i = iota : tile<256xi32>
        %eight = constant <i32: 8> : tile<256xi32>
        %two = constant <i32: 2> : tile<256xi32>
        %q = divi %i, %eight unsigned rounding<positive_inf> : tile<256xi32>
        %m = cmpi less_than %q, %two, signed : tile<256xi32> -> tile<256xi1>
        %one = reshape %start : tile<ptr<i32>> -> tile<1xptr<i32>>
        %all = broadcast %one : tile<1xptr<i32>> -> tile<256xptr<i32>>
        %at = offset %all, %i : tile<256xptr<i32>>, tile<256xi32> -> tile<256xptr<i32>>
        store_ptr_tko weak %at, %q, %m : tile<256xptr<i32>>, tile<256xi32>, tile<256xi1> -> token
        return } }""")
    memory = np.full(256, -1, np.int32)
    libtile.run(module, "k", grid=1, args=[memory], backend="simulator", gpu_name="sm_80")
    assert memory.tolist() == [0] + [1] * 8 + [-1] * 247
