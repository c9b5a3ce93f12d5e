# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reductions of which one instruction does all lanes of a warp: the same bits as the interpreter's, and only where the
body, the type and the target allow it."""

from __future__ import annotations

import numpy as np
import pytest

import libtile
from libtile.lowering.errors import LoweringError

INTEGERS = {
    "addi %e, %f": ("add.s32", "0"),
    "andi %e, %f": ("and.b32", "-1"),
    "ori %e, %f": ("or.b32", "0"),
    "xori %e, %f": ("xor.b32", "0"),
    "maxi %e, %f signed": ("max.s32", "-2147483648"),
    "maxi %f, %e unsigned": ("max.u32", "0"),
    "mini %e, %f signed": ("min.s32", "2147483647"),
    "mini %e, %f unsigned": ("min.u32", "-1"),
}
FLOATS = {
    "maxf %e, %f": ("max.f32", "0xFF800000"),
    "minf %e, %f": ("min.f32", "0x7F800000"),
    "maxf %e, %f propagate_nan": ("max.NaN.f32", "0xFF800000"),
}


def kernel(body: str, identity: str, element: str, rows: int = 1, columns: int = 512) -> str:
    """Rows that one program reduces, each to one element."""
    tile, row, view = f"tile<{rows}x{columns}x{element}>", f"tile<{rows}x{element}>", f"tensor_view<{rows}x{columns}x"
    return f"""cuda_tile.module @m {{
  entry @k(%x: tile<ptr<{element}>>, %y: tile<ptr<{element}>>) {{
    %0 = constant <i32: 0> : tile<i32>
    %tx = make_tensor_view %x, shape = [{rows}, {columns}], strides = [{columns}, 1] : {view}{element}, strides=[{columns},1]>
    %ty = make_tensor_view %y, shape = [{rows}], strides = [1] : tensor_view<{rows}x{element}, strides=[1]>
    %vx = make_partition_view %tx : partition_view<tile=({rows}x{columns}), {view}{element}, strides=[{columns},1]>>
    %vy = make_partition_view %ty : partition_view<tile=({rows}), tensor_view<{rows}x{element}, strides=[1]>>
    %a, %t = load_view_tko weak %vx[%0, %0] : partition_view<tile=({rows}x{columns}), {view}{element}, strides=[{columns},1]>>, tile<i32> -> {tile}, token
    %r = reduce %a dim=1 identities=[{identity} : {element}] : {tile} -> {row}
    (%e: tile<{element}>, %f: tile<{element}>) {{ %g = {body} : tile<{element}>
      yield %g : tile<{element}> }}
    %s = store_view_tko weak %r, %vy[%0] : {row}, partition_view<tile=({rows}), tensor_view<{rows}x{element}, strides=[1]>>, tile<i32> -> token
    return
  }}
}}"""  # noqa: E501


def ptx(text: str, gpu: str) -> str:
    made = libtile.compile(libtile.parse(text), gpu_name=gpu, emit="ptx", launch_abi="simt").ptx
    assert made is not None
    return made


def both(text: str, data: np.ndarray, gpu: str) -> list[np.ndarray]:
    """What the interpreter and the simulator leave."""
    found = []
    for backend in ("interpreter", "simulator"):
        out = np.zeros(data.shape[0], data.dtype)
        libtile.run(libtile.parse(text), "k", grid=(1, 1, 1), args=[data.copy(), out], backend=backend, gpu_name=gpu)
        found.append(out)
    return found


@pytest.mark.parametrize("body", INTEGERS)
def test_integers_are_combined_by_one_instruction(body):
    name, identity = INTEGERS[body]
    text = kernel(body, identity, "i32")
    code = ptx(text, "sm_80")
    assert f"redux.sync.{name}" in code and "shfl" not in code
    data = np.random.default_rng(0).integers(-(2**31), 2**31, (1, 512)).astype(np.int32)
    np.testing.assert_array_equal(*both(text, data, "sm_80"))


@pytest.mark.parametrize("body", FLOATS)
def test_floats_are_combined_by_one_instruction_where_there_is_one(body):
    name, identity = FLOATS[body]
    text = kernel(body, identity, "f32", 4)
    assert f"redux.sync.{name}" in ptx(text, "sm_100")
    assert "redux" not in ptx(text, "sm_90") and "redux" not in ptx(text, "sm_120")
    data = np.random.default_rng(0).standard_normal((4, 512)).astype(np.float32)
    data[1, 77] = np.nan
    data[2] = np.where(np.arange(512) == 300, 0.0, -0.0)
    data[3] = np.where(np.arange(512) == 300, -0.0, 0.0)
    want, got = both(text, data, "sm_100")
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got[2:]), np.signbit(want[2:]))


@pytest.mark.parametrize(
    ("body", "identity", "element"),
    [
        ("addf %e, %f rounding<nearest_even>", "0.0", "f32"),
        ("maxf %e, %f flush_to_zero", "0xFF800000", "f32"),
        ("maxf %e, %f", "0xFC00", "f16"),
        ("addi %e, %f", "0", "i64"),
        ("muli %e, %f", "1", "i32"),
    ],
)
def test_what_no_instruction_combines_is_shuffled(body, identity, element):
    assert "redux" not in ptx(kernel(body, identity, element), "sm_100")


def test_rows_within_fewer_lanes_are_shuffled():
    assert "redux" not in ptx(kernel("addi %e, %f", "0", "i32", 64, 16), "sm_100")


def test_steps_that_no_instruction_takes_are_refused():
    asked = libtile.compile(
        libtile.parse(kernel("maxf %e, %f", "0xFF800000", "f32")), gpu_name="sm_100", emit="tileas"
    ).tileas
    assert asked is not None and "redux [0,1,2,3,4]" in asked
    for old, new in (("sm_100", "sm_90"), ("maxf", "minf")):
        text = asked.replace(old, new)
        if old == "maxf":
            libtile.compile(libtile.parse(text), gpu_name="sm_100", emit="llvm")
            continue
        with pytest.raises(LoweringError, match="not computed by one instruction for all lanes"):
            libtile.compile(libtile.parse(text), gpu_name=new, emit="llvm")
