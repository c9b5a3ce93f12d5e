# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`keep-tiles`: a row that several loops go through is loaded once, as far as its first tiles go."""

from __future__ import annotations

import numpy as np
import pytest

import libtile
from libtile.ir.places import ops_of
from libtile.passes.manager import PassManager
from libtile.passes.pipeline import parse_pipeline
from libtile.transforms.canonical_values import is_op

TEXT = """
cuda_tile.module @m {{
  entry @kernel(%x: tile<ptr<f16>>, %y: tile<ptr<f16>>, %columns: tile<i32>, %step: tile<i32>) {{
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %c2 = constant <i32: 2> : tile<i32>
    %zeros = constant <f32: 0.0> : tile<1x16xf32>
    %row, %b, %c = get_tile_block_id : tile<i32>
    %bound = assume bounded<0, 100000>, %columns : tile<i32>
    %in = make_tensor_view %x, shape = [2, %bound], strides = [112, 1] : tile<i32> -> {tensor}
    %out = make_tensor_view %y, shape = [2, %bound], strides = [112, 1] : tile<i32> -> {tensor}
    %v = make_partition_view %in : {view}
    %w = make_partition_view %out : {view}
    %s:2 = get_index_space_shape %v : {view} -> tile<i32>
    %n = addi %s#1, %c0 : tile<i32>
    %start = make_token : token
    %sum = for %i in ({lower} to {upper}, step {step}) : tile<i32> iter_values(%acc = %zeros) -> (tile<1x16xf32>) {{
      %t, %k = load_view_tko weak %v[%row, %i] {token} : {view}, tile<i32> -> tile<1x16xf16>, token
      %f = ftof %t : tile<1x16xf16> -> tile<1x16xf32>
      %next = fma %f, %f, %acc : tile<1x16xf32>
{inside}
      continue %next : tile<1x16xf32>
    }}
{between}
    for %i in ({lower} to {upper}, step {step}) : tile<i32> {{
      %t, %k = load_view_tko weak %v[%row, {index}] {token} : {view}, tile<i32> -> tile<1x16xf16>, token
      %f = ftof %t : tile<1x16xf16> -> tile<1x16xf32>
{beside}
      %g = addf %f, {added} : tile<1x16xf32>
      %h = ftof %g : tile<1x16xf32> -> tile<1x16xf16>
      %e = store_view_tko weak %h, %w[%row, %i] : tile<1x16xf16>, {view}, tile<i32> -> token
    }}
    return
  }}
}}
"""
TENSOR = "tensor_view<2x?xf16, strides=[112,1]>"
VIEW = f"partition_view<tile=(1x16), padding_value = zero, {TENSOR}>"


def module(**changed: str) -> libtile.Module:
    parts = {
        "view": VIEW, "tensor": TENSOR, "lower": "%c0", "upper": "%n", "step": "%c1", "index": "%i",
        "token": "", "inside": "", "between": "", "beside": "", "added": "%sum",
    }  # fmt: skip
    return libtile.parse(TEXT.format(**{**parts, **changed}))


def kept(given: libtile.Module, options: str = "turns=3") -> libtile.Module:
    PassManager(parse_pipeline(f"keep-tiles{{{options}}}"), verify_each=True).run(given.op)
    return given


def loads(given: libtile.Module) -> tuple[int, int]:
    """How many loads stand outside of loops, and in them."""
    found = [op for op in ops_of(given.op) if is_op(op, "load_view_tko")]
    inside = sum(1 for op in found if is_op(op.parent_op(), "for"))
    return len(found) - inside, inside


def _under_conditions(given: libtile.Module) -> int:
    return sum(1 for op in ops_of(given.op) if is_op(op, "load_view_tko") and is_op(op.parent_op(), "if"))


def results(given: libtile.Module, columns: int, backend: str = "interpreter") -> np.ndarray:
    x = np.random.default_rng(3).standard_normal((2, 112)).astype(np.float16)
    y = np.zeros_like(x)
    libtile.run(given, "kernel", grid=(2, 1, 1), args=[x, y, columns, 1], backend=backend, gpu_name="sm_90")
    return y


@pytest.mark.parametrize("columns", [0, 16, 24, 48, 56, 112])
def test_rows_of_any_length_have_the_same_results(columns: int) -> None:
    changed = kept(module())
    assert loads(changed) == (3, 2)
    np.testing.assert_array_equal(results(changed, columns), results(module(), columns))


def test_what_a_turn_that_there_is_not_loads_is_no_access_of_a_machine() -> None:
    np.testing.assert_array_equal(results(module(), 24, "simulator"), results(module(), 24))


@pytest.mark.parametrize(("upper", "outside"), [("%c2", 2), ("%c1", 1)])
def test_turns_that_are_known_are_under_no_condition(upper: str, outside: int) -> None:
    changed = kept(module(upper=upper))
    assert loads(changed) == (outside, 2)
    assert not any(is_op(op, "if") for op in ops_of(changed.op))
    np.testing.assert_array_equal(results(changed, 112), results(module(upper=upper), 112))


def test_turns_by_larger_steps_have_the_same_results() -> None:
    changed = kept(module(step="%c2"))
    assert loads(changed) == (3, 2)
    np.testing.assert_array_equal(results(changed, 112), results(module(step="%c2"), 112))


def test_as_many_turns_are_kept_as_fit() -> None:
    assert loads(kept(module(), "turns=4 max-bytes=64")) == (2, 2)
    assert loads(kept(module(), "turns=4 max-bytes=31")) == (0, 2)
    assert loads(kept(module(), "turns=0")) == (0, 2)


COUNTED = "%one = constant <i32: 1> : tile<1xi32>\n%at = reshape %y : tile<ptr<f16>> -> tile<1xptr<f16>>\n"
UPDATE = (
    "%p = ptr_to_ptr %at : tile<1xptr<f16>> -> tile<1xptr<i32>>\n"
    "%o, %u = atomic_rmw_tko relaxed device %p, add, %one : tile<1xptr<i32>>, tile<1xi32> -> tile<1xi32>, token"
)


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"index": "%c1"}, id="another-tile"),
        pytest.param({"step": "%step"}, id="unknown-step"),
        pytest.param({"lower": "%step"}, id="unknown-start"),
        pytest.param({"between": COUNTED + UPDATE}, id="an-update-between"),
        pytest.param({"inside": COUNTED + UPDATE}, id="an-update-in-a-turn"),
        pytest.param({"inside": '%true = constant <i1: 1> : tile<i1>\nassert %true, "no" : tile<i1>'}, id="an-assert"),
    ],
)
def test_loads_stay_where_they_may_read_something_else(changed: dict[str, str]) -> None:
    assert loads(kept(module(**changed))) == (0, 2)


def test_a_store_between_is_not_ordered_before_a_load_of_an_older_token() -> None:
    """The memory model orders accesses by tokens alone: `loads.token` is older than the store."""
    store = f"%old = store_view_tko weak %zero, %w[%row, %c0] : tile<1x16xf16>, {VIEW}, tile<i32> -> token"
    between = "%zero = constant <f16: 0.0> : tile<1x16xf16>\n" + store
    old = {"token": "token=%start", "between": between}
    assert loads(kept(module(**old))) == (3, 2)


BESIDE = f"""
      %u, %l = load_view_tko weak %v[%c1, %i] : {VIEW}, tile<i32> -> tile<1x16xf16>, token
      %d = ftof %u : tile<1x16xf16> -> tile<1x16xf32>
      %m = mulf %d, %sum : tile<1x16xf32>
"""


@pytest.mark.parametrize("columns", [0, 24, 112])
def test_what_a_later_loop_loads_beside_is_loaded_ahead_if_it_is_little(columns: int) -> None:
    changed = {"beside": BESIDE, "added": "%m"}
    ahead, late = (kept(module(**changed), f"turns=3 ahead-bytes={most}") for most in (96, 95))
    assert loads(ahead) == loads(late) == (6, 3)
    assert [_under_conditions(each) for each in (ahead, late)] == [0, 3]
    np.testing.assert_array_equal(results(ahead, columns), results(module(**changed), columns))
