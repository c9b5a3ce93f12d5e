# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs of a persistent product go through tiles in groups of rows: what `order-programs` makes of its loop."""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerType, ModuleOp
from xdsl.ir import Operation, SSAValue

import libtile
from libtile.asm.module import load
from libtile.dialects import arith, scf, tensor
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileaa.pointers import GetDimSizeOp
from libtile.ir.places import ops_of
from libtile.lowering.constants import constant_of
from libtile.lowering.order_programs import TOGETHER, OrderProgramsPass

HALF, SINGLE = ("tensor_view<?x?xf16, strides=[?,1]>", "tensor_view<?x?xf32, strides=[?,1]>")
KERNEL = f"""cuda_tile.module @m {{{{
  entry @k(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>, %m: tile<i32>, %n: tile<i32>, %depth: tile<i32>,
           %apart: tile<i32>) {{{{
    %x, %y, %z = get_tile_block_id : tile<i32>
    %nx, %ny, %nz = get_num_tile_blocks : tile<i32>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<64x64xf32>
    %fresh = make_token : token
    %ta = make_tensor_view %a, shape = [%m, %depth], strides = [%depth, 1] : tile<i32> -> {HALF}
    %tb = make_tensor_view %b, shape = [%depth, %n], strides = [%n, 1] : tile<i32> -> {HALF}
    %tc = make_tensor_view %c, shape = [%m, %n], strides = [%apart, 1] : tile<i32> -> {SINGLE}
    %va = make_partition_view %ta : partition_view<tile=(64x64), padding_value = zero, {HALF}>
    %vb = make_partition_view %tb : partition_view<tile=(64x64), padding_value = zero, {HALF}>
    %vc = make_partition_view %tc : partition_view<tile=(64x64), {SINGLE}>
    %rows, %columns = get_index_space_shape %vc : partition_view<tile=(64x64), {SINGLE}> -> tile<i32>
    %all, %steps = get_index_space_shape %va : partition_view<tile=(64x64), padding_value = zero, {HALF}> -> tile<i32>
    %tiles = muli %rows, %columns : tile<i32>
    {{before}}
    %last = for %tile in ({{bounds}}) : tile<i32> iter_values(%order = %fresh) -> (token) {{{{
      %row = divi %tile, %columns signed rounding<negative_inf> : tile<i32>
      {{column}}
      %sum = for %k in (%zero to %steps, step %one) : tile<i32> iter_values(%s = %none) -> (tile<64x64xf32>) {{{{
        %l, %t1 = load_view_tko weak %va[{{left}}] {{after}}
                  : partition_view<tile=(64x64), padding_value = zero, {HALF}>, tile<i32> -> tile<64x64xf16>, token
        %r, %t2 = load_view_tko weak %vb[{{right}}] : partition_view<tile=(64x64), padding_value = zero, {HALF}>,
                  tile<i32> -> tile<64x64xf16>, token
        %d = mmaf %l, %r, %s : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
        continue %d : tile<64x64xf32>
      }}}}
      {{result}}
      %w = store_view_tko weak %out, %vc[{{place}}] token = %order : tile<64x64xf32>,
           partition_view<tile=(64x64), {SINGLE}>, tile<i32> -> token
      continue %w : token
    }}}}
    {{behind}}
    return
  }}}}
}}}}
"""
REMAINDER = "%column = remi %tile, %columns signed : tile<i32>"
PYTHONS = """%rest = remi %tile, %columns signed : tile<i32>
      %below = cmpi less_than %rest, %zero, signed : tile<i32> -> tile<i1>
      %negative = cmpi less_than %columns, %zero, signed : tile<i32> -> tile<i1>
      %other = xori %below, %negative : tile<i1>
      %some = cmpi not_equal %rest, %zero, signed : tile<i32> -> tile<i1>
      %moved = andi %other, %some : tile<i1>
      %sum1 = addi %rest, %columns : tile<i32>
      %column = select %moved, %sum1, %rest : tile<i1>, tile<i32>"""
ALIKE = {
    "before": "",
    "bounds": "%x to %tiles, step %nx",
    "column": REMAINDER,
    "left": "%row, %k",
    "right": "%k, %column",
    "after": "",
    "result": "%out = addf %sum, %none : tile<64x64xf32>",
    "place": "%row, %column",
    "behind": "",
}
LEAVES = """%few = constant <i32: 2> : tile<i32>
    %stop = cmpi greater_than %x, %few, signed : tile<i32> -> tile<i1>
    if %stop {
      return
    }"""
ASKS = """%number = itof %x signed : tile<i32> -> tile<f32>
      %flat = reshape %number : tile<f32> -> tile<1x1xf32>
      %all_x = broadcast %flat : tile<1x1xf32> -> tile<64x64xf32>
      %out = addf %sum, %all_x : tile<64x64xf32>"""
READS = f"""%again, %t9 = load_view_tko weak %vc[%x, %zero] token = %last : partition_view<tile=(64x64), {SINGLE}>,
                  tile<i32> -> tile<64x64xf32>, token
    %end = store_view_tko weak %again, %vc[%zero, %x] token = %t9 : tile<64x64xf32>,
           partition_view<tile=(64x64), {SINGLE}>, tile<i32> -> token"""


def _function(text: str) -> FuncOp:
    """A kernel behind the pass."""
    module = load(libtile.compile(text.encode(), gpu_name="sm_90", emit="tileaa").tileaa.encode())
    assert isinstance(module, ModuleOp)
    OrderProgramsPass().apply(Context(), module)
    module.verify()
    (function,) = (op for op in module.body.block.ops if isinstance(op, FuncOp))
    return function


def _loop(function: FuncOp) -> scf.ForOp:
    (loop,) = (op for op in function.body.block.ops if isinstance(op, scf.ForOp))
    return loop


def _ordered(loop: scf.ForOp) -> arith.SelectOp | None:
    """What selects another number for that of the loop; None where nothing does."""
    counter = loop.body.block.args[0]
    found = [op for op in loop.body.block.ops if isinstance(op, arith.SelectOp) and op.rhs is counter]
    return found[0] if found else None


@pytest.mark.parametrize(
    ("changed", "ordered"),
    [
        ({}, True),
        ({"column": PYTHONS}, True),
        ({"left": "%column, %k", "right": "%k, %row", "place": "%column, %row"}, True),
        ({"bounds": "%x to %tiles, step %ny"}, False),
        ({"bounds": "%zero to %tiles, step %nx"}, False),
        ({"bounds": "%x to %n, step %nx"}, False),
        # The tile is not told by both, or operands not by one each.
        ({"place": "%row, %zero"}, False),
        ({"place": "%row, %row"}, False),
        ({"right": "%k, %row"}, False),
        ({"left": "%tile, %k"}, False),
        # Turns need others, or which program runs them.
        ({"after": "token = %order"}, False),
        ({"result": ASKS}, False),
        ({"before": LEAVES}, False),
        ({"behind": READS}, False),
        ({"behind": 'print_tko "here\\n" -> token'}, False),
    ],
)
def test_tiles_are_ordered_where_nothing_tells_in_which_order_they_are_computed(
    changed: dict[str, str], ordered: bool
) -> None:
    assert (_ordered(_loop(_function(KERNEL.format(**(ALIKE | changed))))) is not None) == ordered


_ARITHMETIC: dict[type[Operation], Callable[..., int]] = {
    arith.DivUIOp: lambda a, b: a // b,
    arith.MuliOp: lambda a, b: a * b,
    arith.AddiOp: lambda a, b: a + b,
    arith.SubiOp: lambda a, b: a - b,
    arith.MinUIOp: min,
    arith.MaxUIOp: max,
    arith.AndIOp: lambda a, b: a & b,
    arith.SelectOp: lambda chosen, a, b: a if chosen else b,
}
_COMPARISONS: dict[str, Callable[[int, int], bool]] = {"sgt": operator.gt, "sge": operator.ge, "slt": operator.lt}


def _number(value: SSAValue, known: dict[SSAValue, int]) -> int:
    """The number that is computed of known ones, which wraps as its type does; all are below half of what wraps."""
    if value not in known:
        op = value.owner
        assert isinstance(op, Operation)
        if (number := constant_of(value)) is not None:
            known[value] = number
            return number
        operands = [_number(operand, known) for operand in op.operands]
        if isinstance(op, arith.CmpiOp):
            known[value] = int(_COMPARISONS[op.PREDICATES[op.predicate.value.data]](*operands))
        elif isinstance(op, arith.IndexCastOp | arith.ExtUIOp | arith.TruncIOp | tensor.ExtractOp):
            (known[value],) = operands
        else:
            bits = value.type.width.data if isinstance(value.type, IntegerType) else 64
            known[value] = _ARITHMETIC[type(op)](*operands) & ((1 << bits) - 1)
    return known[value]


class Ordered:
    """The kernel behind the pass, and which tiles its loop works at."""

    def __init__(self) -> None:
        self.function = _function(KERNEL.format(**ALIKE))
        self.loop = _loop(self.function)
        ordered = _ordered(self.loop)
        assert ordered is not None
        self.number = ordered.result

    def tiles(self, rows: int, columns: int, apart: int | None = None) -> list[int]:
        """Those of all turns of a matrix of so many tiles, whose rows lie so many elements apart."""
        *_, m, n, _depth, distance = self.function.body.block.args
        known: dict[SSAValue, int] = {m: 64 * rows, n: 64 * columns, distance: 64 * columns if apart is None else apart}
        for op in ops_of(self.function, GetDimSizeOp):
            known[op.result] = (rows, columns)[op.dim.value.data]
        counter = self.loop.body.block.args[0]
        return [_number(self.number, {**known, counter: turn}) for turn in range(rows * columns)]


@pytest.fixture(scope="module")
def ordered() -> Ordered:
    return Ordered()


@settings(deadline=None)
@given(rows=st.integers(1, 24), columns=st.integers(1, 12))
def test_each_tile_is_worked_at_once_and_in_groups_of_rows(ordered: Ordered, rows: int, columns: int) -> None:
    assert ordered.tiles(rows, columns) == [
        row * columns + column
        for first in range(0, rows, TOGETHER)
        for column in range(columns)
        for row in range(first, min(first + TOGETHER, rows))
    ]


def test_tiles_that_overlap_stay_in_the_order_of_the_kernel(ordered: Ordered) -> None:
    assert ordered.tiles(16, 3, apart=64 * 3 - 1) == list(range(48))


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize("grid", [1, 3, 7])
def test_products_of_many_rows_are_right(gpu_name: str, grid: int) -> None:
    rng = np.random.default_rng(0)
    m, n, depth = 10 * 64 - 8, 2 * 64 - 8, 72
    a, b = rng.standard_normal((m, depth)).astype(np.float16), rng.standard_normal((depth, n)).astype(np.float16)
    c = np.full((m, n), np.nan, np.float32)
    text = KERNEL.format(**ALIKE).encode()
    libtile.run(text, grid=grid, args=[a, b, c, m, n, depth, n], backend="simulator", gpu_name=gpu_name, check="full")
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90"])
def test_rows_that_overlap_are_what_one_program_leaves_there(gpu_name: str) -> None:
    """Rows lie 64 elements apart and are 128 long: the tile to the right of one is written over by the next row's."""
    rng = np.random.default_rng(0)
    m, n, depth, apart = 10 * 64, 128, 64, 64
    a, b = rng.standard_normal((m, depth)).astype(np.float16), rng.standard_normal((depth, n)).astype(np.float16)
    found, wanted = (np.zeros(m * apart + n, np.float32) for _ in range(2))
    text = KERNEL.format(**ALIKE).encode()
    libtile.run(text, grid=1, args=[a, b, wanted, m, n, depth, apart])
    libtile.run(text, grid=1, args=[a, b, found, m, n, depth, apart], backend="simulator", gpu_name=gpu_name)
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)


def test_programs_that_return_early_leave_out_the_tiles_that_are_theirs() -> None:
    rng = np.random.default_rng(0)
    m, n, depth = 10 * 64, 2 * 64, 64
    a, b = rng.standard_normal((m, depth)).astype(np.float16), rng.standard_normal((depth, n)).astype(np.float16)
    found, wanted = (np.zeros((m, n), np.float32) for _ in range(2))
    text = KERNEL.format(**(ALIKE | {"before": LEAVES})).encode()
    libtile.run(text, grid=7, args=[a, b, wanted, m, n, depth, n])
    libtile.run(text, grid=7, args=[a, b, found, m, n, depth, n], backend="simulator", gpu_name="sm_90")
    assert not found[:, 64:].all() and found.any()
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)
