# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""nv_tileas: layouts, what tiled accesses and descriptors accept. What its verifier says is in test/lit/nv_tileas."""

from __future__ import annotations

import pytest

from dialects.inner import GATHER, messages, module, round_trip
from libtile.asm import parse
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.dialects.nv_tileas.tma_rules import is_tma_layout
from libtile.layouts import LinearLayout
from libtile.layouts.builders import nvmma_shared
from libtile.layouts.row_swizzles import RowSwizzle


def test_rows_may_be_selected_by_a_tile_of_indices() -> None:
    body = f"%v = nv_tileas.tiled_load %gv[%rows, %s32] : {GATHER}, tile<4xi32>, tile<i32> -> tile<4x8xf32>"
    assert messages(module(body, rows="tile<4xi32>")) == []


def test_only_fields_that_the_device_can_replace_are_replaced() -> None:
    text = 'nv_tileas.tensormap_replace %p, %s64 {{field = "{}"{}}} : !nv_tileaa.ptr<f32, 1>, tile<i64>'
    assert messages(module(text.format("global_address", ""))) == []
    assert messages(module(text.format("dim_size", ", ordinal = 1"))) == []
    assert "expects a field that can be replaced" in messages(module(text.format("box_dim", "")))[0]
    assert "expects an ordinal" in messages(module(text.format("stride_size", "")))[0]


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
def test_layouts_that_tma_writes_are_known(swizzle: int) -> None:
    assert is_tma_layout(nvmma_shared((64, 64), 16, RowSwizzle(swizzle)), 16)
    assert is_tma_layout(nvmma_shared((64, 64), 16, RowSwizzle(swizzle), (0, 1)), 16)


def test_a_swizzle_for_another_width_is_none_of_tmas() -> None:
    assert not is_tma_layout(nvmma_shared((64, 64), 16, RowSwizzle(128)), 32)


def test_a_layout_fits_its_tile() -> None:
    layout = LayoutAttr(LinearLayout.of({"register": [1], "lane": [2]}, {"dim0": 4}))
    body = f"%r = nv_tileas.convert_layout %v4 : tile<4xf32> -> tile<4xf32, {layout}>"
    assert messages(module(body)) == []
    assert str(layout) in round_trip(module(body))
    wrong = f"%r = nv_tileas.convert_layout %v48 : tile<4x8xf32> -> tile<4x8xf32, {layout}>"
    assert "expects a layout of shape [4, 8], but got [4]" in messages(module(wrong))[0]


@pytest.mark.parametrize(
    "layout",
    [
        LinearLayout.of({"register": [], "lane": [(0,)] * 5, "warp": [(0,)]}, {"dim0": 1}),
        LinearLayout.of({"register": [], "lane": [()] * 5, "warp": []}, {}),
        LinearLayout.of({}, {}),
        LinearLayout.of({"offset": [(0, 1), (1, 1), (2, 0)]}, {"dim0": 4, "dim1": 2}),
    ],
)
def test_a_layout_reads_as_it_is_printed(layout: LinearLayout) -> None:
    shape = "".join(f"{d}x" for d in layout.shape)
    text = module("", v=f"tile<{shape}f32, {LayoutAttr(layout)}>").replace(
        "@k()", f"@k(%v: tile<{shape}f32, {LayoutAttr(layout)}>)"
    )
    assert str(LayoutAttr(layout)) in round_trip(text)


def test_a_layout_that_was_read_before_is_read_in_other_places() -> None:
    """Parameters are kept by their text; what stands behind them is still looked at."""
    layout = "#nv_tileas.layout<register=[[1]], lane=[[2],[0],[0],[0],[0]], warp=[] : 4>"
    text = module("", f"attributes {{a = {layout}, b = {layout}}}")
    function = parse(text).regions[0].block.first_op
    assert function is not None and function.attributes["a"] is function.attributes["b"]
    for end in (" : 4, 5>", " : 4", ' : 4">'):
        wrong = layout.replace(" : 4>", end)
        assert messages(module("", f"attributes {{a = {layout}, b = {wrong}}}")) != []
