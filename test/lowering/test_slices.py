# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# ruff: noqa: E501 - types are long
"""Tiles of parts of arrays that begin and end where a program finds out: TMA copies them by the map of the array."""

from __future__ import annotations

import re
from itertools import pairwise
from string import Template

import numpy as np
import pytest
from test_specialized import specialized

import libtile
from libtile.lowering.discardable import NOT_SPECIALIZED

OFFSET = "    %oa = muli %start, %k : tile<i32>"
TEXT = """
cuda_tile.module @kernels {
  entry @product(%a0: tile<ptr<f16>>, %b0: tile<ptr<f16>>, %c0: tile<ptr<f32>>, %starts: tile<ptr<i32>>,
                 %n0: tile<i32>, %k0: tile<i32>, %by: tile<i32>) {
    %a = assume div_by<16>, %a0 : tile<ptr<f16>>
    %b = assume div_by<16>, %b0 : tile<ptr<f16>>
    %c = assume div_by<16>, %c0 : tile<ptr<f32>>
    %n1 = assume bounded<0, ?>, %n0 : tile<i32>
    %k1 = assume bounded<0, ?>, %k0 : tile<i32>
    %n = assume div_by<8>, %n1 : tile<i32>
    %k = assume div_by<8>, %k1 : tile<i32>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %width = constant <i32: 72> : tile<i32>
    %rows = constant <i32: 64> : tile<i32>
    %deep = constant <i32: 32> : tile<i32>
    %none = constant <f32: 0.0> : tile<64x64xf32>
    %bx, %sequence, %bz = get_tile_block_id : tile<i32>
    %p0 = offset %starts, %sequence : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %p1 = offset %p0, %one : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %start, %t0 = load_ptr_tko weak %p0 : tile<ptr<i32>> -> tile<i32>, token
    %end, %t1 = load_ptr_tko weak %p1 : tile<ptr<i32>> -> tile<i32>, token
    %length0 = subi %end, %start : tile<i32>
    %length = assume bounded<0, ?>, %length0 : tile<i32>
    %first = muli %bx, %rows : tile<i32>
    %done = cmpi greater_than_or_equal %first, %length, signed : tile<i32> -> tile<i1>
    if %done {
      return
    }
    %x = addi %bx, %by : tile<i32>
$offset
    %wa = exti %oa signed : tile<i32> -> tile<i64>
    %ga = offset %a, %wa : tile<ptr<f16>>, tile<i64> -> tile<ptr<f16>>
    %pa = assume div_by<16>, %ga : tile<ptr<f16>>
    %oc = muli %start, %n : tile<i32>
    %gc = offset %c, %oc : tile<ptr<f32>>, tile<i32> -> tile<ptr<f32>>
    %pc = assume div_by<16>, %gc : tile<ptr<f32>>
    %va = make_tensor_view %pa, shape = [%length, %k], strides = [$stride, 1] : tile<i32> -> tensor_view<?x?xf16, strides=[$known,1]>
    %vb = make_tensor_view %b, shape = [%k, %n], strides = [%n, 1] : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %vc = make_tensor_view %pc, shape = [%length, %n], strides = [%n, 1] : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
    %ta = make_partition_view %va : partition_view<tile=(64x32), padding_value = zero, tensor_view<?x?xf16, strides=[$known,1]>>
    %tb = make_partition_view %vb : partition_view<tile=(32x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %tc = make_partition_view %vc : partition_view<tile=(64x64), tensor_view<?x?xf32, strides=[?,1]>>
    %steps = divi %k, %deep signed rounding<positive_inf> : tile<i32>
    %r = for %i in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<64x64xf32>) {
      %l, %u = load_view_tko weak %ta[%x, %i] : partition_view<tile=(64x32), padding_value = zero, tensor_view<?x?xf16, strides=[$known,1]>>, tile<i32> -> tile<64x32xf16>, token
      %q, %w = load_view_tko weak %tb[%i, %zero] : partition_view<tile=(32x64), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<32x64xf16>, token
      %z = mmaf %l, %q, %acc : tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32>
      continue %z : tile<64x64xf32>
    }
    %s = store_view_tko weak %r, %tc[%bx, %zero] : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<?x?xf32, strides=[?,1]>>, tile<i32> -> token
    return
  }
}
"""


def text(offset: str = OFFSET, stride: str = "%k", known: str = "?") -> str:
    """The program, whose rows begin at an offset and have a stride, which the type knows or not."""
    return Template(TEXT).substitute(offset=offset, stride=stride, known=known)


TEXTS = {
    "numbers": text(),
    "constants": text(OFFSET.replace("%k", "%width"), "72", "72"),
    "sums": text("""
    %behind = addi %start, %one : tile<i32>
    %less = constant <i32: -1> : tile<i32>
    %o0 = muli %behind, %k : tile<i32>
    %o1 = muli %k, %less : tile<i32>
    %oa = addi %o0, %o1 : tile<i32>"""),
}
TARGETS = ("sm_90", "sm_100", "sm_120")
STARTS = np.array([0, 0, 70, 73, 137], np.int32)
"""Of sequences of 0, 70, 3 and 64 rows, one behind the other."""


def run(program, target, by=0, order=None, k=72):
    """What a kernel stores. Rows behind the last sequence of the array are no numbers."""
    rng = np.random.default_rng(k)
    rows = int(STARTS[-1])
    a, b = rng.standard_normal((rows + 40, k)).astype(np.float16), rng.standard_normal((k, 56)).astype(np.float16)
    a[rows:] = np.nan
    c = np.full((rows + 40, 56), 7, np.float32)
    backend = {"backend": "interpreter"} if target is None else {"backend": "simulator", "gpu_name": target}
    libtile.run(libtile.parse(program), grid=(2, len(STARTS) - 1, 1), args=[a, b, c, STARTS, 56, k, by], check="full",
                block_order=order, **backend)  # fmt: skip
    return a, b, c


CASES = [
    pytest.param(program, target, id=f"{name}-{target}", marks=() if m == n else pytest.mark.slow)
    for m, (name, program) in enumerate(TEXTS.items())
    for n, target in enumerate(TARGETS)
]


@pytest.mark.parametrize(("program", "target"), CASES)
def test_rows_of_a_sequence_end_where_it_ends(program, target):
    """Its last tile has rows of the next one behind it, which are no numbers here: it neither reads nor writes them."""
    a, b, c = run(program, target, order=2)
    rows = STARTS[-1]
    np.testing.assert_allclose(c[:rows], a[:rows].astype(np.float32) @ b.astype(np.float32), atol=1e-3)
    assert (c[rows:] == 7).all()


@pytest.mark.parametrize("by", [-1, *(pytest.param(n, marks=pytest.mark.slow) for n in (-40000000, 3, 40000000))])
def test_tiles_outside_of_a_sequence_are_zeros(by):
    """As `contract-views` may make some: where other sequences are, and where a position has more than 32 bits."""
    c = run(text(), "sm_90", by)[2]
    first = [n for start, end in pairwise(STARTS) for n in range(start, min(end, start + 64))]
    assert not c[first].any()


@pytest.mark.parametrize("target", TARGETS[:2])
def test_the_map_is_that_of_the_array(target):
    code, reason = specialized(text(), target)
    assert reason is None and "nv_tileaa.return_if" in code
    (made,) = [line for line in code.splitlines() if "make_tiled_tma_desc" in line and "tma_load, box=[32" in line]
    assert "memref<2147483647x2147483647x1073741824x?xf16, strides=[?,?,?,1], 1>" in made
    assert "box=[32,64,1,1]" in made


def test_the_interpreter_copies_by_it():
    """The code in nv_tileas, with the descriptors that its host code makes."""
    code = libtile.compile(libtile.parse(text()), gpu_name="sm_90", emit="tileas").tileas
    a, b, c = run(code, None)
    rows = STARTS[-1]
    np.testing.assert_allclose(c[:rows], a[:rows].astype(np.float32) @ b.astype(np.float32), atol=1e-3)
    assert (c[rows:] == 7).all()


def test_a_launch_makes_it_of_the_arguments():
    made = libtile.compile(libtile.parse(text()), gpu_name="sm_90", emit="ptx")
    a, b, c = made.kernels["product"].descriptors
    assert [a.base, b.base, c.base] == [0, 1, 2]
    assert (a.sizes[2], b.sizes[1:]) == ((1 << 31) - 1, (a.sizes[0],))
    span = a.strides[2]
    assert (span.number, span.below, span.of(72)) == (5, 1 << 34, (1 << 34) - 72)
    assert len(c.sizes) == 4  # what it stores is part of an array as well


@pytest.mark.parametrize(
    "program",
    [
        text(OFFSET.replace("%k", "%n")),  # of another stride
        text(OFFSET.replace("muli", "addi")),  # of no rows
        text().replace("shape = [%length, %k]", "shape = [%length, %start]"),  # of two lengths
    ],
    ids=["stride", "rows", "lengths"],
)
def test_other_parts_have_no_map(program):
    code, reason = specialized(program, "sm_90")
    assert reason is None and not re.search("tma_load.*1073741824x", code)  # threads copy them
    fed = libtile.compile(libtile.parse(program), gpu_name="sm_120", emit="tileas").tileas
    assert NOT_SPECIALIZED not in fed and "ldgsts" in fed and not re.search("tma_load.*1073741824x", fed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("target", TARGETS)
def test_sequences_in_every_schedule(target, seed):
    a, b, c = run(text(), target, order=seed, k=8 + 40 * (seed % 5))
    rows = STARTS[-1]
    np.testing.assert_allclose(c[:rows], a[:rows].astype(np.float32) @ b.astype(np.float32), atol=1e-2)
    assert (c[rows:] == 7).all()
