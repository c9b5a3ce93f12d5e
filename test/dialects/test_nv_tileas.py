# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""nv_tileas: every diagnostic has an op that gives it and a twin that does not; every op reads as it is printed."""

from __future__ import annotations

import pytest

from dialects.inner import DESC, GATHER, MEMREF, PIPE, SHARED, VIEW, messages, module, round_trip
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.dialects.nv_tileas.tma_rules import is_tma_layout
from libtile.dialects.tile_form import OP_CLASSES
from libtile.layouts import LinearLayout
from libtile.layouts.builders import nvmma_shared

RELAXED = "mem_semantic = #nv_tileaa.mem_semantic<relaxed>"
GPU = "mem_scope = #nv_tileaa.mem_scope<gpu>"
ZERO = "padding_value = #nv_tileaa.padding_value<zero>"
NAN = "padding_value = #nv_tileaa.padding_value<nan>"


def semantic(keyword: str) -> str:
    return f"mem_semantic = #nv_tileaa.mem_semantic<{keyword}>, {GPU}"


def load(attributes: str = "", view: str = VIEW, result: str = "tile<4x8xf32>", base: str = "%tv") -> str:
    return f"%v = nv_tileas.tiled_load {base}[%i, %j] {{{attributes}}} : {view}, index, index -> {result}"


def store(attributes: str = "") -> str:
    return f"nv_tileas.tiled_store %tv[%i, %j], %v48 {{{attributes}}} : {VIEW}, tile<4x8xf32>, index, index"


def rmw(mode: str = "add", element: str = "f32", attributes: str = "") -> str:
    view, value = VIEW.replace("f32", element), f"tile<4x8x{element}>"
    attributes = f"rmw_mode = #nv_tileaa.rmw_mode<{mode}>, {attributes}".rstrip(", ")
    return (
        f"%a = nv_tileaa.block_tile %e {{tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0>, array<i64: 1>]}} : "
        f"{MEMREF.replace('f32', element)} -> {view}\n"
        f"%r = nv_tileas.tiled_atomic_rmw %a[%i, %j], %w {{{attributes}}} : {view}, {value}, index, index -> {value}"
    )


def atom(kind: str, box: str = "[8,4]", rest: str = "") -> str:
    return f"atom = #nv_tileas.copy_atom<{kind}, bits=1024, box={box}{rest}>"


def make_desc(attributes: str, box: str = "[8, 4]") -> str:
    return f"%d = nv_tileas.make_tiled_tma_desc %mr {{{attributes}}} : {MEMREF} -> !nv_tileas.tma_desc<{MEMREF}, {box}>"


def tma_load(attributes: str, op: str = "tiled_tma_load", desc: str = DESC, buffer: str = SHARED) -> str:
    return (
        f"%r = nv_tileas.async.{op} %d0[%i, %j], %b0, %mb {{{attributes}}} : {desc}, index, index, {buffer}, "
        "!nv_tileas.mbarrier -> !nv_tileas.async_token"
    )


def tma_store(op: str, attributes: str) -> str:
    return (
        f"%r = nv_tileas.async.{op} %desc[%i, %j], %sm {{{attributes}}} : {DESC}, index, index, {SHARED} -> "
        "!nv_tileas.async_token"
    )


GOOD_DESC = make_desc(atom("tma_load"))
GOOD_LOAD = tma_load(atom("tma_load"))
ADD = "rmw_mode = #nv_tileaa.rmw_mode<add>"
ODD_LAYOUT = LayoutAttr(LinearLayout.of({"offset": [(0, 2), (0, 1), (0, 4), (1, 0), (2, 0)]}, {"dim0": 4, "dim1": 8}))
ODD = SHARED.replace("shared", f"shared, {ODD_LAYOUT}")

CASES: dict[str, tuple[str, str]] = {
    "requires attribute 'rmw_mode'": (
        f"%r = nv_tileas.tiled_atomic_rmw %tv[%i, %j], %v48 : {VIEW}, tile<4x8xf32>, index, index -> tile<4x8xf32>",
        rmw(),
    ),
    "operand group starting at #4 requires 0 or 1 element, but found 2": (
        f"nv_tileas.tiled_store %tv[%i, %j], %v48, %t, %t {{operandSegmentSizes = array<i32: 1, 1, 2, 0, 2>}} : "
        f"{VIEW}, tile<4x8xf32>, index, index, !nv_tileaa.mem_token, !nv_tileaa.mem_token",
        f"%o = nv_tileas.tiled_store %tv[%i, %j], %v48, %t : {VIEW}, tile<4x8xf32>, index, index, "
        "!nv_tileaa.mem_token -> !nv_tileaa.mem_token",
    ),
    "result group starting at #0 requires 0 or 1 element, but found 2": (
        f"%a, %b = nv_tileas.tiled_store %tv[%i, %j], %v48 : {VIEW}, tile<4x8xf32>, index, index -> "
        "!nv_tileaa.mem_token, !nv_tileaa.mem_token",
        store(),
    ),
    "expects 2 coordinates, but got 1": (
        f"%v = nv_tileas.tiled_load %tv[%i] : {VIEW}, index -> tile<4x8xf32>",
        load(),
    ),
    "expects 3 coordinates, but got 2": (
        load(view=VIEW.replace("4x8>", "4x8, #nv_tileaa.tiling<leading=1>>"), base="%lv"),
        load(),
    ),
    "expects CoordType is same as memref index type, but got tile<i32>": (
        f"%v = nv_tileas.tiled_load %tv[%i, %s32] : {VIEW}, index, tile<i32> -> tile<4x8xf32>",
        f"%v = nv_tileas.tiled_load %tv[%s32, %s32] : {VIEW}, tile<i32>, tile<i32> -> tile<4x8xf32>",
    ),
    "requires the same size for tileSize and tensor": (load(result="tile<8x8xf32>"), load()),
    "requires the same shape for tileSize and tensor value": (load(result="tile<8x4xf32>"), load()),
    "view elementType not equal with tensor element type: f32 != f16": (load(result="tile<4x8xf16>"), load()),
    "all dimensions must be positive constants, got [0, 8]": (
        load(view=MEMREF, base="%mr", result="tile<0x8xf32>"),
        load(view=MEMREF, base="%mr", result="tile<1x8xf32>"),
    ),
    "all dimensions must be powers of two, got [3, 8]": (
        load(view=MEMREF, base="%mr", result="tile<3x8xf32>"),
        load(view=MEMREF, base="%mr", result="tile<2x8xf32>"),
    ),
    "tile would exceed the maximum of 16777216 elements": (
        load(view=MEMREF, base="%mr", result="tile<8192x4096xf32>"),
        load(view=MEMREF, base="%mr", result="tile<4096x4096xf32>"),
    ),
    "mem_scope not supported when mem_semantic is weak": (load(GPU), load(f"{RELAXED}, {GPU}")),
    "mem_scope required when mem_semantic is not weak": (store(RELAXED), store(f"{RELAXED}, {GPU}")),
    "memScope not supported when memSemantic is weak": (rmw(attributes=GPU), rmw(attributes=semantic("acq_rel"))),
    "memScope required when memSemantic is not weak": (rmw(attributes=RELAXED), rmw(attributes=semantic("acquire"))),
    "unsupported mem_semantic: acquire": (load(semantic("acquire")), load(semantic("relaxed"))),
    "unsupported mem_semantic: acq_rel": (load(semantic("acq_rel")), rmw(attributes=semantic("acq_rel"))),
    "unsupported mem_semantic: release": (store(semantic("release")), rmw(attributes=semantic("release"))),
    "incorrect number of in_bounds elements: expected 2, but found 3": (
        load("in_bounds = array<i1: true, true, true>"),
        load("in_bounds = array<i1: true, true>"),
    ),
    "inbounds must be true when paddingValue is not set": (
        store("in_bounds = array<i1: true, false>"),
        store("in_bounds = array<i1: true, true>"),
    ),
    "inbounds must be false when paddingValue is set": (
        store(f"in_bounds = array<i1: true, true>, {ZERO}"),
        store(f"in_bounds = array<i1: true, false>, {ZERO}"),
    ),
    "special padding values (nan, pos_inf, neg_inf, neg_zero) only for float-like element types": (
        f"%v = nv_tileas.tiled_load %iv[%i, %j] {{{NAN}}} : {VIEW.replace('f32', 'i32')}, index, index "
        "-> tile<4x8xi32>",
        load(NAN),
    ),
    "tiled_atomic_rmw not supported for 8-bit types": (rmw(element="i8"), rmw(element="i32")),
    "tiled_atomic_rmw not supported for 16-bit integer": (rmw(element="i16"), rmw(element="i64")),
    "tiled_atomic_rmw for 16-bit float only supports add, max, min operations": (
        rmw("xor", "bf16"),
        rmw("max", "bf16"),
    ),
    "tiled_atomic_rmw op cannot use fadd operation, please use add instead for both int and float types": (
        rmw("addf"),
        rmw("add"),
    ),
    "tiled_atomic_rmw op cannot use xchg operation": (rmw("xchg"), rmw("min")),
    "expect a ldgsts, tma_load, ldg or unknown_copy atom type": (load(atom("stg")), load(atom("ldgsts"))),
    "expect a stg, tma_store or unknown_copy atom type": (store(atom("ldg")), store(atom("stg"))),
    "expect a tma_redg atom type": (rmw(attributes=atom("stg")), rmw(attributes=atom("tma_redg"))),
    # descriptors
    "expected tma descriptor pointer to have alignment at least 128": (
        make_desc(f"{atom('tma_load')}, descriptor_alignment = 64"),
        make_desc(f"{atom('tma_load')}, descriptor_alignment = 128"),
    ),
    "tma boxDims[0] * elemTypeBitWidth is not a multiple of 16 bytes": (
        make_desc(atom("tma_load", "[2,4]"), "[2, 4]"),
        GOOD_DESC,
    ),
    "tmaBoxDim and atomBoxDim length mismatch": (make_desc(atom("tma_load", "[8]")), GOOD_DESC),
    "tmaBoxDim and atomBoxDim mismatch": (make_desc(atom("tma_load", "[8,8]")), GOOD_DESC),
    "only support element_stride = 1 tma desc": (
        make_desc(f"{atom('tma_load')}, element_strides = array<i64: 1, 2>"),
        make_desc(f"{atom('tma_load')}, element_strides = array<i64: 1, 1>"),
    ),
    "unsupported tma load mode 'scatter4'": (
        make_desc(atom("tma_load", rest=", mode=scatter4")),
        make_desc(atom("tma_load", rest=", mode=gather4")),
    ),
    "padding value is not supported for TMA load with non-zero padding value": (
        make_desc(f"{atom('tma_load')}, {NAN}"),
        make_desc(f"{atom('tma_load')}, {ZERO}"),
    ),
    "invalid TMA atom type": (make_desc(atom("ldgsts")), GOOD_DESC),
    "smem layout is not TMA compatible": (
        make_desc(f"{atom('tma_load')}, layout = {ODD_LAYOUT}"),
        make_desc(f"{atom('tma_load')}, layout = {LayoutAttr(nvmma_shared((4, 8), 32, 32))}"),
    ),
    "TmaReduceOp do not support SCATTER4 mode": (
        tma_store("tiled_atomic_rmw", f"{atom('tma_redg', rest=', mode=scatter4')}, {ADD}"),
        tma_store("tiled_atomic_rmw", f"{atom('tma_redg', rest=', mode=reduce')}, {ADD}"),
    ),
    # pipelines
    "expects regions to end with 'nv_tileas.async.pipeline.yield'": (
        f"nv_tileas.async.pipeline.produce_one %pipe, %it ({{ nv_tileaa.yield }}) : {PIPE}, "
        f"!nv_tileas.pipeline_iterator<{PIPE}>",
        f"nv_tileas.async.pipeline.produce_one %pipe, %it ({{ nv_tileas.async.pipeline.yield }}) : {PIPE}, "
        f"!nv_tileas.pipeline_iterator<{PIPE}>",
    ),
    "expects consumer_idx to identify a consumer in a group of 1, but got 1": (
        f"%taken = nv_tileas.async.pipeline.consumer_wait %pipe, %it {{consumer_idx = 1}} : {PIPE}, "
        f"!nv_tileas.pipeline_iterator<{PIPE}> -> !nv_tileas.consumer_token<(tile<4xf32>)>",
        f"%taken = nv_tileas.async.pipeline.consumer_wait %pipe, %it {{consumer_idx = 0}} : {PIPE}, "
        f"!nv_tileas.pipeline_iterator<{PIPE}> -> !nv_tileas.consumer_token<(tile<4xf32>)>",
    ),
}

WRITE = """%taken = nv_tileas.async.pipeline.producer_write %pt, %it ({{
^bb0(%x: tensor<{n}xf32>):
  nv_tileas.async.pipeline.yield{given}
}}) : !nv_tileas.producer_token<(tile<4xf32>)>, !nv_tileas.pipeline_iterator<{pipe}>
  -> !nv_tileas.producer_token<(tile<4xf32>)>"""
READ = WRITE.replace("producer_write %pt", "consumer_read %ct").replace("producer", "consumer")
YIELDED = " %x : tile<4xf32>"

for role, text in (("producer", WRITE), ("consumer", READ)):
    good = text.format(n=4, given="", pipe=PIPE)
    CASES[f"expects {role} region arguments to have the element types carried by the {role} token"] = (
        text.format(n=8, given="", pipe=PIPE),
        good,
    )
CASES["expects region result types to match the operation result types"] = (
    WRITE.format(n=4, given=YIELDED, pipe=PIPE),
    WRITE.format(n=4, given="", pipe=PIPE),
)

EXTRA = {
    "e": MEMREF,
    "w": "tile<4x8xf32>",
    "lv": VIEW.replace("4x8>", "4x8, #nv_tileaa.tiling<leading=1>>"),
    "iv": VIEW.replace("f32", "i32"),
    "d0": DESC,
    "b0": SHARED,
}


def with_types(body: str) -> str:
    """The module of a body; arguments of atomics and copies take the types that the body gives them."""
    arguments = dict(EXTRA)
    for element in ("bf16", "i8", "i16", "i32", "i64"):
        if f"tile<4x8x{element}>, index" in body:
            arguments |= {"e": MEMREF.replace("f32", element), "w": f"tile<4x8x{element}>"}
    return module(body, **arguments)


@pytest.mark.parametrize("message", CASES)
def test_a_diagnostic_is_given_where_it_belongs_only(message: str) -> None:
    bad, good = CASES[message]
    (found,) = messages(with_types(bad))
    assert found.startswith("'nv_tileas.") and found.endswith(f"' op {message}")
    text = with_types(good)
    assert messages(text) == []
    round_trip(text)


COPIES: dict[str, tuple[str, dict[str, str]]] = {
    "expect a tma_load atom type": (tma_load(atom("tma_store")), {}),
    "expect a tma_store atom type": (tma_store("tiled_tma_store", atom("tma_load")), {}),
    "expect a tma_redg atom type": (tma_store("tiled_atomic_rmw", f"{atom('tma_store')}, {ADD}"), {}),
    "tma box-dim and copy atom box-dim mismatch": (tma_load(atom("tma_load", "[4,4]")), {}),
    "tma leading box-dim bit-width is not 16 bytes aligned": (
        tma_load(atom("tma_load", "[2,4]"), desc=DESC.replace("[8, 4]", "[2, 4]")),
        {"d0": DESC.replace("[8, 4]", "[2, 4]")},
    ),
    "smem layout is not TMA compatible": (tma_load(atom("tma_load"), buffer=ODD), {"b0": ODD}),
    "TmaLoad only support zero padding now": (tma_load(f"{atom('tma_load')}, {NAN}"), {}),
    "GatherTmaLoad only support zero padding now": (tma_load(f"{atom('tma_load')}, {NAN}", "gather_tma_load"), {}),
    "missing or invalid num_multicast for a multicast TMA load": (tma_load(f"{atom('tma_load')}, multicast"), {}),
    "mcast is not supported for TMA load with less than 128bytes per atom": (
        tma_load(f"{atom('tma_load').replace('1024', '512')}, multicast, num_multicast = 2"),
        {},
    ),
    "num_multicast is 2, but the return TMA load type does not support multicast": (
        tma_load(f"{atom('tma_load')}, multicast, num_multicast = 2"),
        {},
    ),
}


@pytest.mark.parametrize("message", COPIES)
def test_a_wrong_copy_is_refused(message: str) -> None:
    body, arguments = COPIES[message]
    (found,) = messages(module(body, **{**EXTRA, **arguments}))
    assert found.endswith(f"' op {message}")


@pytest.mark.parametrize(
    "body",
    [
        GOOD_LOAD,
        tma_load(f"{atom('tma_load')}, {ZERO}", "gather_tma_load"),
        tma_load(f"{atom('tma_load', rest=', multicast=2')}, multicast, num_multicast = 2"),
        tma_store("tiled_tma_store", atom("tma_store")),
        tma_store("scatter_tma_store", f"{atom('tma_store')}, delay_wait"),
        tma_store("tiled_atomic_rmw", f"{atom('tma_redg')}, {ADD}"),
    ],
)
def test_a_right_copy_is_accepted(body: str) -> None:
    text = module(body, **EXTRA)
    assert messages(text) == []
    round_trip(text)


@pytest.mark.parametrize("op", ["tiled_load", "tiled_store", "tiled_atomic_rmw"])
def test_a_tiled_access_has_neither_regions_nor_successors(op: str) -> None:
    value = "" if op == "tiled_load" else ", %v48"
    values = "" if op == "tiled_load" else ", tensor<4x8xf32>"
    sizes = "1, 2, 0, 0, 0" if op == "tiled_load" else "1, 1, 2, 0, 0"
    mode = ", rmw_mode = #nv_tileaa.rmw_mode<add>" if op == "tiled_atomic_rmw" else ""
    results = "()" if op == "tiled_store" else "tensor<4x8xf32>"
    name = "" if op == "tiled_store" else "%r = "
    head = f'{name}"nv_tileas.{op}"(%tv{value}, %i, %j)'
    properties = f"<{{operandSegmentSizes = array<i32: {sizes}>{mode}}}>"
    types = f" : ({VIEW}{values}, index, index) -> {results}"
    assert messages(module(f"{head} {properties} ({{}}){types}")) == [f"'nv_tileas.{op}' op requires zero regions"]
    (found,) = messages(module(f"{head}[^end] {properties}{types}\n^end:"))
    assert found == f"'nv_tileas.{op}' op requires 0 successors but found 1"
    assert messages(module(f"{head} {properties}{types}")) == []


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
    assert is_tma_layout(nvmma_shared((64, 64), 16, swizzle), 16)
    assert is_tma_layout(nvmma_shared((64, 64), 16, swizzle, (0, 1)), 16)


def test_a_swizzle_for_another_width_is_none_of_tmas() -> None:
    assert not is_tma_layout(nvmma_shared((64, 64), 16, 128), 32)


def test_an_iterator_belongs_to_its_pipeline() -> None:
    other = PIPE.replace("<3", "<2")
    body = f"%x = nv_tileas.async.pipeline.create_iterator %pipe : {PIPE} -> !nv_tileas.pipeline_iterator<{other}>"
    assert "expects an iterator of" in messages(module(body))[0]
    assert messages(module(body.replace(other, PIPE))) == []


def test_both_arms_of_a_branch_yield_one_iterator_type() -> None:
    """What `scf.if` yields has the type of its result in both arms."""
    text = f"""%r = "scf.if"(%cond) ({{{{
  "scf.yield"(%it) : (!nv_tileas.pipeline_iterator<{PIPE}>) -> ()
}}}}, {{{{
  "scf.yield"(%o) : ({{}}) -> ()
}}}}) : (i1) -> !nv_tileas.pipeline_iterator<{PIPE}>"""
    same, other = (f"!nv_tileas.pipeline_iterator<{p}>" for p in (PIPE, PIPE.replace("<3", "<2")))
    assert messages(module(text.format(same), cond="i1", o=same)) == []
    (found,) = messages(module(text.format(other), cond="i1", o=other))
    assert found == (
        "'nv_tileaa.func' op expects values yielded from both arms of a branch to have the types of its results"
    )


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


def test_the_whole_roster_is_there() -> None:
    roster = [
        "tiled_load",
        "tiled_store",
        "tiled_atomic_rmw",
        "make_tiled_tma_desc",
        "copy",
        "dot",
        "load",
        "store",
        "alloc_tensor",
        "convert_layout",
        "view",
        "reinterpret",
        "extract_slice",
        "insert_slice",
        "expand_dims",
        "shuffle",
        "reduce",
        "scan",
        "generate",
        "pragma",
        "async.tiled_load",
        "async.tiled_tma_load",
        "async.tiled_tma_store",
        "async.gather_tma_load",
        "async.scatter_tma_store",
        "async.tiled_atomic_rmw",
        "async.wait",
        "async.pipeline.create_pipeline",
        "async.pipeline.create_iterator",
        "async.pipeline.inc_iter",
        "async.pipeline.produce_one",
        "async.pipeline.consume_one",
        "async.pipeline.producer_acquire",
        "async.pipeline.producer_write",
        "async.pipeline.producer_commit",
        "async.pipeline.consumer_wait",
        "async.pipeline.consumer_read",
        "async.pipeline.consumer_release",
        "async.pipeline.agent_switch",
        "async.pipeline.yield",
    ]
    assert [name for name in roster if f"nv_tileas.{name}" not in OP_CLASSES] == []
