# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The check `nan`: the op that gives the first NaN."""

from __future__ import annotations

import numpy as np
import pytest

from interpreter.programs import run_body
from libtile.interpreter import InterpreterFault
from libtile.interpreter.faults import FaultKind

LOAD = """
    %one = reshape %x : tile<ptr<f32>> -> tile<1xptr<f32>>
    %many = broadcast %one : tile<1xptr<f32>> -> tile<4xptr<f32>>
    %lane = iota : tile<4xi32>
    %at = offset %many, %lane : tile<4xptr<f32>>, tile<4xi32> -> tile<4xptr<f32>>
    %v, %loaded = load_ptr_tko weak %at : tile<4xptr<f32>> -> tile<4xf32>, token
"""
STORE = "\n    %stored = store_ptr_tko weak %at, %r token=%loaded : tile<4xptr<f32>>, tile<4xf32> -> token"


def run(ops: str, values: list[float], check: str = "off,nan") -> np.ndarray:
    """Run ops that make %r of %v, the four values."""
    array = np.array(values, np.float32)
    run_body("%x: tile<ptr<f32>>", LOAD + ops + STORE, [array], check=check)
    return array


@pytest.mark.parametrize(("ops", "values", "op", "said", "index"), [
    ("%r = subf %v, %v : tile<4xf32>", [1, 2, np.inf, 4], "subf", "of inf and inf", (2,)),
    ("%r = sqrt %v : tile<4xf32>", [1, -2, 3, 4], "sqrt", "of -2", (1,)),
    ("%r = addf %v, %v : tile<4xf32>", [1, 2, 3, np.nan], "load_ptr_tko", "it was read from memory", (3,)),
    ("%bits = constant <i32: [0, -1, 0, 0]> : tile<4xi32>\n%r = bitcast %bits : tile<4xi32> -> tile<4xf32>",
     [0] * 4, "bitcast", "none of the operands has one", (1,)),
    ("""%s = reduce %v dim=0 identities=[0.0 : f32] : tile<4xf32> -> tile<f32> (%a: tile<f32>, %b: tile<f32>) {
          %c = addf %a, %b : tile<f32>
          yield %c : tile<f32>
        }
        %w = reshape %s : tile<f32> -> tile<1xf32>
        %r = broadcast %w : tile<1xf32> -> tile<4xf32>""",
     [np.inf, -np.inf, 0, 0], "reduce", "none of the operands has one", None),
])  # fmt: skip
def test_the_first_op_that_gives_one_is_named(ops, values, op, said, index):
    with pytest.raises(InterpreterFault) as caught:
        run(ops, values)
    fault = caught.value
    assert (fault.kind, fault.op, fault.message) == (FaultKind.NAN, f"cuda_tile.{op}", said)
    assert (fault.index or None) == index


def test_one_that_a_constant_names_is_no_news():
    ops = "%n = constant <f32: 0x7FC00000> : tile<4xf32>\n%r = addf %v, %n : tile<4xf32>"
    assert np.isnan(run(ops, [1, 2, 3, 4])).all()


@pytest.mark.parametrize("check", ["full", "basic", "full,nan,-nan"])
def test_it_is_looked_for_by_its_name_alone(check):
    assert np.isnan(run("%r = sqrt %v : tile<4xf32>", [-1] * 4, check)).all()
