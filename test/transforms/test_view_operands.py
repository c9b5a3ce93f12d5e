# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`view-operands` and `collapse-loops`: which loads and loops they change, and that programs do the same then."""

from __future__ import annotations

import numpy as np
import pytest

import libtile
from libtile.passes.manager import PassManager
from libtile.passes.pipeline import parse_pipeline
from libtile.support import remarks
from transforms.pointer_kernels import ASSUMED, PARAMETERS, PRODUCTS, Body, T, check_same_products, product


def transformed(text: str, pipeline: str = "view-operands") -> tuple[libtile.Module, list[remarks.Remark]]:
    """The module behind the pipeline, and the remarks about it."""
    module = libtile.parse(text, filename="kernel.mlir")
    libtile.verify(module)
    with remarks.collect() as reported:
        PassManager(parse_pipeline(pipeline)).run(module.op)
    libtile.verify(module)
    return module, [r for r in reported if r.name in ("ViewOperands", "CollapseLoops")]


def names(module: libtile.Module) -> list[str]:
    return [op.name.removeprefix("cuda_tile.") for op in module.op.walk()]


@pytest.mark.parametrize("kind", PRODUCTS)
def test_operands_are_loaded_through_views_that_give_the_same(kind: str) -> None:
    module, reported = transformed(product(kind))
    assert [r.kind for r in reported] == [remarks.Kind.PASSED] * 2
    assert names(module).count("load_view_tko") == 2 and "load_ptr_tko" not in names(module)
    check_same_products(kind, module)


@pytest.mark.parametrize("pipeline", ["view-operands{gpu-name=sm_80}", "collapse-loops{gpu-name=sm_80}"])
def test_targets_without_tma_keep_their_programs(pipeline: str) -> None:
    module, reported = transformed(product("masked"), pipeline)
    assert not reported and str(module) == str(libtile.parse(product("masked")))


def reasons(**more: object) -> list[str]:
    """Why operands of a product stay as they are whose left one is loaded in some other way."""
    body = Body(ASSUMED.split("\n"))
    carried = "iter_values(%acc = %none) -> (tile<32x32xf32>)"
    body.lines.append(f"%sum = for %i in (%zero to %k, step %c32) : tile<i32> {carried} {{")
    given: dict[str, object] = {"starts": ("%row", "%i"), "strides": ("%k", None), "sizes": ("%m", "%k"), **more}
    x = body.access("%a", "f16", T, **given)  # type: ignore[arg-type]
    sum_ = body.op(f"mmaf {x}, {x}, %acc : tile<32x32xf16>, tile<32x32xf16>, tile<32x32xf32>")
    body.lines += [f"continue {sum_} : tile<32x32xf32>", "}"]
    body.access("%c", "f32", T, ("%row", "%col"), ("%n", None), ("%m", "%n"), store="%sum")
    _, reported = transformed(body.text(PARAMETERS))
    return [str(dict(r.arguments).get("Reason", "")) for r in reported]


def test_reasons_are_said_where_an_operand_is_loaded_through_pointers() -> None:
    assert reasons() == [""]
    assert reasons(padding="1.0") == ["it is padded by what no view is padded by"]
    assert reasons(strides=("%m", None)) == ["rows are not known to begin at multiples of 16 bytes"]
    assert reasons(strides=(None, None)) == ["rows are not known to begin at multiples of 16 bytes"]
    assert reasons(predicate="not_equal") == ["the mask compares for equality"]
    assert reasons(predicate="greater_than") == ["the mask leaves out the first positions of a tile"]


GATHER = """cuda_tile.module @m {{ entry @kernel(%a0: tile<ptr<f16>>, %ids: tile<ptr<i32>>, %c: tile<ptr<f32>>,
    %n0: tile<i32>) {{
    %a = assume div_by<16>, %a0 : tile<ptr<f16>>
    %n = assume bounded<0, 1000>, %n0 : tile<i32>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %many = constant <i32: 2> : tile<i32>
    %none = constant <f32: 0.0> : tile<32x32xf32>
    %lane = iota : tile<32xi32>
    %i1 = reshape %ids : tile<ptr<i32>> -> tile<1xptr<i32>>
    %i2 = broadcast %i1 : tile<1xptr<i32>> -> tile<32xptr<i32>>
    %i3 = offset %i2, %lane : tile<32xptr<i32>>, tile<32xi32> -> tile<32xptr<i32>>
    %rows, %t0 = load_ptr_tko weak %i3 : tile<32xptr<i32>> -> tile<32xi32>, token
    %column = reshape %rows : tile<32xi32> -> tile<32x1xi32>
    %spread = broadcast %column : tile<32x1xi32> -> tile<32x32xi32>
    %wide = exti %spread signed : tile<32x32xi32> -> tile<32x32xi64>
    %d1 = reshape %lane : tile<32xi32> -> tile<1x32xi32>
    %d2 = broadcast %d1 : tile<1x32xi32> -> tile<32x32xi32>
    %n1 = reshape %n : tile<i32> -> tile<1x1xi32>
    %n2 = broadcast %n1 : tile<1x1xi32> -> tile<32x32xi32>
    %none16 = constant <f16: 0.0> : tile<32x32xf16>
    %length = constant <i64: 64> : tile<32x32xi64>
    %p1 = reshape %a : tile<ptr<f16>> -> tile<1x1xptr<f16>>
    %p2 = broadcast %p1 : tile<1x1xptr<f16>> -> tile<32x32xptr<f16>>
    %below = cmpi less_than %spread, %n2, {compare} : tile<32x32xi32> -> tile<32x32xi1>
    %sum = for %i in (%zero to %many, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<32x32xf32>) {{
      %c32 = constant <i32: 32> : tile<i32>
      %at = muli %i, %c32 : tile<i32>
      %at1 = reshape %at : tile<i32> -> tile<1x1xi32>
      %at2 = broadcast %at1 : tile<1x1xi32> -> tile<32x32xi32>
      %depth = addi %d2, %at2 : tile<32x32xi32>
      %depth64 = exti %depth signed : tile<32x32xi32> -> tile<32x32xi64>
      %down = muli %wide, %length : tile<32x32xi64>
      %distance = addi %down, %depth64 : tile<32x32xi64>
      %pointers = offset %p2, %distance : tile<32x32xptr<f16>>, tile<32x32xi64> -> tile<32x32xptr<f16>>
      %x, %t1 = load_ptr_tko weak %pointers, %below, %none16
        : tile<32x32xptr<f16>>, tile<32x32xi1>, tile<32x32xf16> -> tile<32x32xf16>, token
      %y = mmaf %x, %x, %acc : tile<32x32xf16>, tile<32x32xf16>, tile<32x32xf32>
      continue %y : tile<32x32xf32>
    }}
    %l1 = reshape %lane : tile<32xi32> -> tile<32x1xi32>
    %l2 = broadcast %l1 : tile<32x1xi32> -> tile<32x32xi32>
    %c32 = constant <i32: 32> : tile<32x32xi32>
    %l3 = muli %l2, %c32 : tile<32x32xi32>
    %l4 = addi %l3, %d2 : tile<32x32xi32>
    %q1 = reshape %c : tile<ptr<f32>> -> tile<1x1xptr<f32>>
    %q2 = broadcast %q1 : tile<1x1xptr<f32>> -> tile<32x32xptr<f32>>
    %q3 = offset %q2, %l4 : tile<32x32xptr<f32>>, tile<32x32xi32> -> tile<32x32xptr<f32>>
    %t2 = store_ptr_tko weak %q3, %sum : tile<32x32xptr<f32>>, tile<32x32xf32> -> token
    return
  }} }}"""


def test_rows_that_numbers_choose_are_those_of_a_gather_view() -> None:
    text = GATHER.format(compare="unsigned")
    module, reported = transformed(text)
    assert [r.kind for r in reported] == [remarks.Kind.PASSED] and "make_gather_scatter_view" in names(module)
    rng = np.random.default_rng(0)
    a, ids = rng.standard_normal((40, 64)).astype(np.float16), rng.integers(-4, 60, 32).astype(np.int32)
    results = []
    for version in (libtile.parse(text), module):
        c = np.zeros((32, 32), np.float32)
        libtile.run(version, "kernel", grid=(1,), args=[a, ids, c, 40], check="full")
        results.append(c)
    assert results[0].tobytes() == results[1].tobytes() and results[0].any()


def _scattered() -> str:
    """`GATHER`, whose results are those of the same rows of c."""
    first, last = GATHER.index("    %l1 = reshape"), GATHER.index("    return\n")
    return f"""{GATHER[:first]}    %width = constant <i64: 32> : tile<32x32xi64>
    %s1 = muli %wide, %width : tile<32x32xi64>
    %d64 = exti %d2 signed : tile<32x32xi32> -> tile<32x32xi64>
    %s2 = addi %s1, %d64 : tile<32x32xi64>
    %ca = assume div_by<16>, %c : tile<ptr<f32>>
    %q1 = reshape %ca : tile<ptr<f32>> -> tile<1x1xptr<f32>>
    %q2 = broadcast %q1 : tile<1x1xptr<f32>> -> tile<32x32xptr<f32>>
    %q3 = offset %q2, %s2 : tile<32x32xptr<f32>>, tile<32x32xi64> -> tile<32x32xptr<f32>>
    %t2 = store_ptr_tko weak %q3, %sum, %below
      : tile<32x32xptr<f32>>, tile<32x32xf32>, tile<32x32xi1> -> token
{GATHER[last:]}"""


def test_rows_that_numbers_choose_are_stored_through_a_scatter_view() -> None:
    text = _scattered().format(compare="unsigned")
    module, reported = transformed(text)
    assert [r.kind for r in reported] == [remarks.Kind.PASSED] * 2
    assert "store_view_tko" in names(module) and "store_ptr_tko" not in names(module)
    rng = np.random.default_rng(0)
    a, ids = rng.standard_normal((40, 64)).astype(np.float16), rng.permutation(np.arange(-4, 60))[:32].astype(np.int32)
    results = []
    for version in (libtile.parse(text), module):
        c = np.full((40, 32), 7, np.float32)
        libtile.run(version, "kernel", grid=(1,), args=[a, ids, c, 40], check="full")
        results.append(c)
    assert results[0].tobytes() == results[1].tobytes()
    written = ids[(ids >= 0) & (ids < 40)]
    assert (results[0][np.setdiff1d(np.arange(40), written)] == 7).all() and (results[0][written] != 7).any()


def test_rows_below_the_first_one_are_loaded_as_the_program_has_it() -> None:
    _, reported = transformed(GATHER.format(compare="signed"))
    assert dict(reported[0].arguments)["Reason"] == "it is not known that the numbers of rows are not negative"


# -- loops ------------------------------------------------------------------------------------------------------------

NEST = """cuda_tile.module @m {{ entry @kernel(%c: tile<ptr<f32>>, %n0: tile<i32>, %m0: tile<i32>, %k0: tile<i32>) {{
    %n = assume bounded<0, {most}>, %n0 : tile<i32>
    %m = assume bounded<0, 1000>, %m0 : tile<i32>
    %k = assume bounded<0, 1000>, %k0 : tile<i32>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<8x8xf32>
    %sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%x = %none) -> (tile<8x8xf32>) {{
      %i10 = muli %i, %k : tile<i32>
      %s1 = for %j in (%zero to {count}, step %one) : tile<i32> iter_values(%y = %x) -> (tile<8x8xf32>) {{
        %ij = addi %i10, %j : tile<i32>
        %s2 = for %l in ({first} to %k, step %one) : tile<i32> iter_values(%z = %y) -> (tile<8x8xf32>) {{
          %ijl0 = muli %ij, %m : tile<i32>
          %ijl = addi %ijl0, %l : tile<i32>
          %f = itof %ijl signed : tile<i32> -> tile<f32>
          %f1 = reshape %f : tile<f32> -> tile<1x1xf32>
          %f2 = broadcast %f1 : tile<1x1xf32> -> tile<8x8xf32>
          %g = mmaf %f2, %f2, %z : tile<8x8xf32>, tile<8x8xf32>, tile<8x8xf32>
          continue %g : tile<8x8xf32>
        }}
        continue %s2 : tile<8x8xf32>
      }}
      continue %s1 : tile<8x8xf32>
    }}
    %lane = iota : tile<8xi32>
    %l1 = reshape %lane : tile<8xi32> -> tile<8x1xi32>
    %l2 = broadcast %l1 : tile<8x1xi32> -> tile<8x8xi32>
    %eight = constant <i32: 8> : tile<8x8xi32>
    %l3 = muli %l2, %eight : tile<8x8xi32>
    %d1 = reshape %lane : tile<8xi32> -> tile<1x8xi32>
    %d2 = broadcast %d1 : tile<1x8xi32> -> tile<8x8xi32>
    %l4 = addi %l3, %d2 : tile<8x8xi32>
    %q1 = reshape %c : tile<ptr<f32>> -> tile<1x1xptr<f32>>
    %q2 = broadcast %q1 : tile<1x1xptr<f32>> -> tile<8x8xptr<f32>>
    %q3 = offset %q2, %l4 : tile<8x8xptr<f32>>, tile<8x8xi32> -> tile<8x8xptr<f32>>
    %t2 = store_ptr_tko weak %q3, %sum : tile<8x8xptr<f32>>, tile<8x8xf32> -> token
    return
  }} }}"""


@pytest.mark.parametrize("counts", [(2, 3, 4), (1, 1, 1), (3, 1, 2), (0, 2, 3), (2, 0, 3), (2, 3, 0)])
def test_loops_around_a_product_are_one_that_does_the_same(counts: tuple[int, int, int]) -> None:
    text = NEST.format(most=1000, count="%m", first="%zero")
    module, reported = transformed(text, "collapse-loops")
    assert [dict(r.arguments) for r in reported] == [{"Loops": "3"}] and names(module).count("for") == 1
    results = []
    for version in (libtile.parse(text), module):
        c = np.full((8, 8), -1.0, np.float32)
        libtile.run(version, "kernel", grid=(1,), args=[c, *counts], check="full")
        results.append(c)
    assert results[0].tobytes() == results[1].tobytes()


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ({"most": 10000}, 2),  # the outer one: 10^10 steps do not fit 32 bits
        ({"count": "%i"}, 2),  # the outer one: another count in each of its iterations
        ({"first": "%one"}, 3),  # the inner one does not count from 0
    ],
)
def test_loops_that_cannot_be_one_stay(given: dict[str, object], left: int) -> None:
    text = NEST.format(**{"most": 1000, "count": "%m", "first": "%zero", **given})
    module, _ = transformed(text, "collapse-loops")
    assert names(module).count("for") == left
