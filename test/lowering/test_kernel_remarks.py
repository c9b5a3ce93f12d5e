# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What remarks say of a kernel: the width of its accesses and why, its loads ahead of loops, its products."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import libtile
from libtile.support.remarks import ASYNC_COPY, GLOBAL_LOAD, Category, Kind, Remark, warnings_format

ROOT = Path(__file__).resolve().parents[2]


def remarks_of(text: str, gpu: str = "sm_80") -> tuple[list[Remark], str]:
    made = libtile.compile(libtile.parse(text), gpu_name=gpu, emit="ptx")
    return made.remarks, made.ptx


def view_store(tensor: str, sizes: str, tile: str, *, assumed: str = "div_by<16>", parameters: str = "") -> str:
    """Stores a constant tile through a view."""
    kind = f"partition_view<tile=({tile}), {tensor}>"
    index = ", ".join(["%i"] * (tile.count("x") + 1))
    element = re.findall(r"x([a-z]\w*), strides", tensor)[0]
    one = f"{element}: 1.0" if element[0] == "f" else f"{element}: 1"
    return f"""cuda_tile.module @m {{ entry @k(%q: tile<ptr<{element}>>, %i: tile<i32>{parameters}) {{
      %p = assume {assumed}, %q : tile<ptr<{element}>>
      %t = make_tensor_view %p, {sizes}{tensor}
      %v = make_partition_view %t : {kind}
      %x = constant <{one}> : tile<{tile}x{element}>
      %w = store_view_tko weak %x, %v[{index}] : tile<{tile}x{element}>, {kind}, tile<i32> -> token
      return }} }}"""


STATIC = "shape = [512, 512], strides = [512, 1] : "
ONE = "%n: tile<i32>"
VIEWS = {
    "wide": (view_store("tensor_view<512x512xf32, strides=[512,1]>", STATIC, "32x32"), [], "v4"),
    "unaligned base": (
        view_store("tensor_view<512x512xf32, strides=[512,1]>", STATIC, "32x32", assumed="div_by<8>"),
        [(Kind.ANALYSIS, "128", "the base is not known to be aligned to 16 bytes")], "v4",
    ),
    "odd rows": (
        view_store("tensor_view<512x510xf32, strides=[510,1]>", "shape = [512, 510], strides = [510, 1] : ", "32x32"),
        [(Kind.MISSED, "64", "the stride of dimension 0 is not known to be a multiple of 4")], None,
    ),
    "short rows": (
        view_store("tensor_view<512x512xi8, strides=[512,1]>", STATIC, "256x8"),
        [(Kind.MISSED, "64", "the tile has 8 elements along the dimension with stride 1")], None,
    ),
    "small tile": (
        view_store("tensor_view<512x512xf32, strides=[512,1]>", STATIC, "4x32"),
        [(Kind.MISSED, "32", "the tile has only 128 elements for 128 threads")], None,
    ),
    "unknown size": (
        view_store(
            "tensor_view<?xf32, strides=[1]>", "shape = [%n], strides = [1] : tile<i32> -> ", "1024",
            parameters=f", {ONE}",
        ),
        [(Kind.ANALYSIS, "128", "the size of dimension 0 is not known to be a multiple of 4")], "v4",
    ),
    "no stride of 1": (
        view_store(
            "tensor_view<512x?xf32, strides=[512,?]>", "shape = [512, %n], strides = [512, %n] : tile<i32> -> ",
            "32x32", parameters=f", {ONE}",
        ),
        [(Kind.MISSED, "32", "no dimension of the tile has stride 1")], None,
    ),
}  # fmt: skip


def widths(made: list[Remark]) -> list[tuple[Kind, str, str]]:
    found = [(r.kind, dict(r.arguments)) for r in made if r.name == "RemarkMemoryAccessWidth"]
    return [(kind, arguments["Width"], arguments["Reason"]) for kind, arguments in found]


@pytest.mark.parametrize("name", VIEWS)
def test_an_access_that_is_not_wide_says_why(name):
    text, expected, vector = VIEWS[name]
    made, ptx = remarks_of(text)
    assert widths(made) == expected
    assert (vector is not None) == ("st.global.v4" in ptx)


def pointers(assumed: str, offsets: str = "%i", mask: str = "", element: str = "f32", count: int = 1024) -> str:
    """Loads a row of elements by pointers."""
    return f"""cuda_tile.module @m {{ entry @k(%q: tile<ptr<{element}>>, %n: tile<i32>) {{
      %p = assume {assumed}, %q : tile<ptr<{element}>>
      %i = iota : tile<{count}xi32>
      %two = constant <i32: 2> : tile<{count}xi32>
      %twice = muli %i, %two : tile<{count}xi32>
      %n1 = reshape %n : tile<i32> -> tile<1xi32>
      %n2 = broadcast %n1 : tile<1xi32> -> tile<{count}xi32>
      %inside = cmpi less_than %i, %n2, signed : tile<{count}xi32> -> tile<{count}xi1>
      %p1 = reshape %p : tile<ptr<{element}>> -> tile<1xptr<{element}>>
      %p2 = broadcast %p1 : tile<1xptr<{element}>> -> tile<{count}xptr<{element}>>
      %p3 = offset %p2, {offsets} : tile<{count}xptr<{element}>>, tile<{count}xi32> -> tile<{count}xptr<{element}>>
      %x, %t = load_ptr_tko weak %p3{mask} -> tile<{count}x{element}>, token
      print_tko "%f", %x : tile<{count}x{element}> -> token
      return }} }}"""


PLAIN = " : tile<1024xptr<f32>>"
MASKED = ", %inside : tile<1024xptr<f32>>, tile<1024xi1>"
POINTERS = {
    "wide": (pointers("div_by<16>", mask=PLAIN), []),
    "every other": (
        pointers("div_by<16>", "%twice", PLAIN),
        [(Kind.MISSED, "32", "the pointers are not known to be adjacent")],
    ),
    "unaligned": (
        pointers("div_by<8>", mask=PLAIN),
        [(Kind.MISSED, "64", "the pointers are not known to be aligned to 16 bytes")],
    ),
    "masked": (
        pointers("div_by<16>", mask=MASKED),
        [(Kind.MISSED, "32", "the mask is not known to be the same for 4 elements in a row")],
    ),
}


@pytest.mark.parametrize("name", POINTERS)
def test_an_access_by_pointers_says_why_it_is_narrow(name):
    text, expected = POINTERS[name]
    made, ptx = remarks_of(text)
    assert widths(made) == expected
    assert (not expected) == ("ld.global.v4" in ptx)
    assert [r.arguments for r in made if r.name == "RemarkMemoryLoadInstructionSelected"] == [
        (("Instruction", GLOBAL_LOAD),)
    ]


def product(a: str, b: str, acc: str, m: int, n: int, k: int, op: str = "mmaf", extra: str = "") -> str:
    def one(element: str) -> str:
        return f"<{element}: {'1' if element[0] == 'i' else '1.0'}>"

    return f"""cuda_tile.module @m {{ entry @k() {{
      %a = constant {one(a)} : tile<{m}x{k}x{a}>
      %b = constant {one(b)} : tile<{k}x{n}x{b}>
      %c = constant {one(acc)} : tile<{m}x{n}x{acc}>
      %d = {op} %a, %b, %c{extra} : tile<{m}x{k}x{a}>, tile<{k}x{n}x{b}>, tile<{m}x{n}x{acc}>
      print_tko "%f", %d : tile<{m}x{n}x{acc}> -> token
      return }} }}"""


@pytest.mark.parametrize(
    "text, expected",
    [
        (product("f16", "f16", "f32", 64, 64, 32), {}),
        (
            product("f8E4M3FN", "f8E4M3FN", "f32", 64, 64, 32),
            {"RemarkTensorCoreTypes": "sm_80 has none for f8E4M3FN and f8E4M3FN: they are converted to f16 first"},
        ),
        (
            product("f32", "f32", "f32", 64, 64, 32),
            {"RemarkTensorCoreTypes": "sm_80 has none for f32 and f32 into f32"},
        ),
        (product("f16", "f16", "f32", 16, 8, 32), {"RemarkTensorCoreWarps": "1"}),
    ],
    ids=["native", "converted", "multiply-adds", "one warp"],
)
def test_a_product_says_what_its_types_and_shape_cost(text, expected):
    ours = {r.name: r.arguments[0][1] for r in remarks_of(text)[0] if r.name.startswith("RemarkTensorCore")}
    ours.pop("RemarkTensorCoreMMA")
    assert ours == expected


def test_a_load_that_runs_ahead_is_said_once_and_is_asynchronous():
    made = libtile.compile(ROOT / "examples" / "gemm.bc", gpu_name="sm_80", emit="ptx").remarks
    loads = [r for r in made if r.name == "RemarkMemoryLoadInstructionSelected"]
    assert [dict(r.arguments)["Instruction"] for r in loads] == [ASYNC_COPY] * 2
    assert len(set(made)) == len(made)


def test_a_load_that_cannot_run_ahead_says_why():
    text = """cuda_tile.module @m { entry @k(%q: tile<ptr<f16>>, %n: tile<i32>) {
      %p = assume div_by<16>, %q : tile<ptr<f16>>
      %zero = constant <i32: 0> : tile<i32>
      %one = constant <i32: 1> : tile<i32>
      %c = constant <f32: 0.0> : tile<64x64xf32>
      %b = constant <f16: 1.0> : tile<32x64xf16>
      %t = make_tensor_view %p, shape = [64, 512], strides = [512, 1] : tensor_view<64x512xf16, strides=[512,1]>
      %v = make_partition_view %t : partition_view<tile=(64x32), padding_value = nan, tensor_view<64x512xf16, strides=[512,1]>>
      %r = for %k in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %c) -> (tile<64x64xf32>) {
        %a, %u = load_view_tko weak %v[%zero, %k] : partition_view<tile=(64x32), padding_value = nan, tensor_view<64x512xf16, strides=[512,1]>>, tile<i32> -> tile<64x32xf16>, token
        %d = mmaf %a, %b, %acc : tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32>
        continue %d : tile<64x64xf32>
      }
      print_tko "%f", %r : tile<64x64xf32> -> token
      return } }"""  # noqa: E501
    (said,) = [r for r in remarks_of(text)[0] if r.name == "RemarkMemoryLoadPipelined"]
    assert said.arguments == (("Reason", "asynchronous copies pad with zeros, not with nan"),)


TMA = {
    "aligned": ("wide", "TMA stores only what agents compute behind a loop with a product"),
    "unaligned base": ("unaligned base", "base pointer not 16-byte aligned"),
    "odd rows": ("odd rows", "stride not 16-byte aligned"),
    "short rows": ("short rows", "leading tile dimension not 16-byte aligned"),
    "unknown size": ("unknown size", "contiguous tensor extent not 16-byte aligned"),
    "no stride of 1": ("no stride of 1", "stride not 16-byte aligned"),
}


@pytest.mark.parametrize("view, reason", TMA.values(), ids=TMA)
def test_a_store_says_what_a_tensor_map_lacks(view, reason):
    text = VIEWS[view][0]
    (said,) = [r for r in remarks_of(text, "sm_90")[0] if r.name == "RemarkMemoryTmaStoreFailed"]
    place = said.location
    located = f'loc("{place.filename}":{place.line}:{place.column}): {reason}'
    assert (said.kind, said.arguments) == (Kind.FAILED, (("Reason", located),))
    assert not [r for r in remarks_of(text, "sm_80")[0] if "Tma" in r.name]


def scaled(element: str, scale: str) -> str:
    tiles = [f"tile<64x64x{element}>", f"tile<64x64x{element}>", "tile<64x64xf32>"]
    tiles += [f"tile<64x2x{scale}>", f"tile<2x64x{scale}>"]
    made = [f"%o{i} = constant <{t[5:-1].split('x')[-1]}: 1.0> : {t}" for i, t in enumerate(tiles)]
    return f"""cuda_tile.module @m {{ entry @k() {{
      {chr(10).join(made)}
      %d = mmaf_scaled %o0, %o1, %o2, %o3, %o4 : {", ".join(tiles)}
      print_tko "%f", %d : tile<64x64xf32> -> token
      return }} }}"""


F8, F4 = "f8E4M3FN and f8E4M3FN", "f4E2M1FN and f4E2M1FN"
UNUSED = "which is not generated for it"
PRODUCTS = {
    ("f8", "sm_80"): ("SM80", "[16, 8, 16]", f"sm_80 has none for {F8}"),
    ("f8", "sm_89"): ("SM89", "[16, 8, 32]", None),
    ("f8", "sm_90"): ("SM80", "[16, 8, 16]", f"sm_90 multiplies {F8} by wgmma, {UNUSED}"),
    ("f8", "sm_100"): ("SM80", "[16, 8, 16]", f"sm_100 multiplies {F8} by tcgen05.mma, {UNUSED}"),
    ("f8", "sm_120"): ("SM89", "[16, 8, 32]", None),
    ("f64", "sm_80"): ("SM80", "[8, 8, 4]", None),
    ("f64", "sm_90"): ("SM90", "[16, 8, 16]", None),
    ("f64", "sm_100"): ("SM80", "[8, 8, 4]", None),
    ("scaled f4", "sm_90"): ("SM80", "[16, 8, 16]", f"sm_90 has none for {F4} with scale factors"),
    ("scaled f4", "sm_120"): (
        "SM80", "[16, 8, 16]", f"sm_120 multiplies {F4} with scale factors by mma.sync with block_scale, {UNUSED}",
    ),
    ("scaled f8", "sm_100"): (
        "SM80", "[16, 8, 16]", f"sm_100 multiplies {F8} with scale factors by tcgen05.mma with block_scale, {UNUSED}",
    ),
}  # fmt: skip


@pytest.mark.parametrize("types, gpu", PRODUCTS)
def test_a_product_says_what_the_hardware_executes_and_what_it_could(types, gpu):
    text = {
        "f8": product("f8E4M3FN", "f8E4M3FN", "f32", 64, 64, 32),
        "f64": product("f64", "f64", "f64", 64, 64, 32),
        "scaled f4": scaled("f4E2M1FN", "f8E8M0FNU"),
        "scaled f8": scaled("f8E4M3FN", "f8E8M0FNU"),
    }[types]
    made = libtile.compile(libtile.parse(text), gpu_name=gpu, emit="llvm").remarks
    said = {r.name: dict(r.arguments) for r in made if r.name.startswith("RemarkTensorCore")}
    instruction, shape, reason = PRODUCTS[types, gpu]
    assert said["RemarkTensorCoreMMA"] == {"Instruction": f"Tensor-core {instruction}", "Shape": shape}
    reasons = {} if reason is None else {"Reason": f"{reason}: they are converted to f16 first"}
    assert said.get("RemarkTensorCoreTypes", {}) == reasons


def hinted(entry: str = "", load: str = "", store: str = "") -> str:
    """Loads and stores a tile, with hints on the kernel, the load and the store."""
    kind = "partition_view<tile=(64x64), tensor_view<512x512xf16, strides=[512,1]>>"
    at_entry = f" optimization_hints=<{entry}>" if entry else ""
    at_load, at_store = (f" optimization_hints = <{h}>" if h else "" for h in (load, store))
    return f"""cuda_tile.module @m {{ entry @k(%q: tile<ptr<f16>>){at_entry} {{
      %z = constant <i32: 0> : tile<i32>
      %t = make_tensor_view %q, shape = [512, 512], strides = [512, 1] : tensor_view<512x512xf16, strides=[512,1]>
      %v = make_partition_view %t : {kind}
      %x, %a = load_view_tko weak %v[%z, %z]{at_load} : {kind}, tile<i32> -> tile<64x64xf16>, token
      %b = store_view_tko weak %x, %v[%z, %z]{at_store} : tile<64x64xf16>, {kind}, tile<i32> -> token
      return }} }}"""


USED, DEFAULT, RANGE, IGNORED = "RemarkHint", "RemarkHintDefault", "RemarkHintOutOfRange", "RemarkHintIgnored"
NO_MAPS = "TMA copies only what the producer agent of a loop with a product loads"
HINTS = {
    "used": (hinted(entry="sm_90 = {occupancy = 2}", load="sm_90 = {latency = 3}"), "sm_90", [
        (Kind.PASSED, USED, "used occupancy", None), (Kind.PASSED, USED, "used latency", None)]),
    "default": (hinted(load="default = {latency = 3, allow_tma = false}"), "sm_90", [
        (Kind.PASSED, DEFAULT, "used default latency", None),
        (Kind.PASSED, DEFAULT, "used default allow_tma", None)]),
    "the target's wins": (hinted(load="default = {latency = 3}, sm_90 = {latency = 4}"), "sm_90", [
        (Kind.PASSED, USED, "used latency", None)]),
    "clamped": (hinted(entry="sm_90 = {occupancy = 40}", load="default = {latency = 50}"), "sm_90", [
        (Kind.MISSED, RANGE, "value out of range value 40 clamped to 32 for sm_90.occupancy", None),
        (Kind.MISSED, RANGE, "value out of range value 50 clamped to 10 for sm_90.latency", None)]),
    "no power of two": (hinted(entry="sm_90 = {num_worker_warps_per_cta = 3, num_cta_in_cga = 3}"), "sm_90", [
        (Kind.FAILED, USED, "incorrect num_worker_warps_per_cta", None),
        (Kind.FAILED, USED, "incorrect num_cta_in_cga", None)]),
    "no clusters": (hinted(entry="sm_80 = {num_cta_in_cga = 2}"), "sm_80", [
        (Kind.MISSED, RANGE, "value out of range value 2 clamped to 1 for sm_80.num_cta_in_cga", None)]),
    "not done": (
        hinted("sm_90 = {num_cta_in_cga = 2}", "sm_90 = {allow_tma = true}", "sm_90 = {allow_tma = true, latency = 2}"),
        "sm_90", [
        (Kind.MISSED, IGNORED, "ignored num_cta_in_cga",
         "it loads and stores one tensor, of which one CTA may be ahead of the other"),
        (Kind.PASSED, USED, "used allow_tma", None),
        (Kind.MISSED, IGNORED, "ignored allow_tma", NO_MAPS),
        (Kind.MISSED, IGNORED, "ignored latency", "stores are not started iterations ahead")]),
    "done where results lie in tensor memory": (hinted(load="sm_100 = {allow_tma = true}"), "sm_100", [
        (Kind.PASSED, USED, "used allow_tma", None)]),
    "not done without agents": (hinted(load="sm_80 = {allow_tma = true}"), "sm_80", [
        (Kind.MISSED, IGNORED, "ignored allow_tma", NO_MAPS)]),
    "another op's": (
        hinted(entry="sm_90 = {latency = 3}", load="sm_90 = {occupancy = 2, frobnicate = 1}"), "sm_90", [
        (Kind.MISSED, IGNORED, "ignored latency", "it is no hint of cuda_tile.entry"),
        (Kind.MISSED, IGNORED, "ignored occupancy", "it is no hint of cuda_tile.load_view_tko"),
        (Kind.MISSED, IGNORED, "ignored frobnicate", "it is not known")]),
    "elsewhere": (hinted(load="sm_100 = {latency = 3}"), "sm_90", [
        (Kind.MISSED, IGNORED, "ignored latency", "it is for sm_100, and the target is sm_90")]),
}  # fmt: skip


@pytest.mark.parametrize("text, gpu, expected", HINTS.values(), ids=HINTS)
def test_each_hint_has_a_remark_that_says_what_became_of_it(text, gpu, expected):
    made = libtile.compile(libtile.parse(text), gpu_name=gpu, emit="llvm").remarks
    said = [r for r in made if r.category is Category.HINTS]
    found = [(r.kind, r.name, r.message, dict(r.arguments).get("Reason")) for r in said]
    wanted = [(kind, name, f"OptimizationHint {what}", reason) for kind, name, what, reason in expected]
    assert sorted(found, key=str) == sorted(wanted, key=str)


def test_a_hint_out_of_range_is_clamped_as_its_remark_says():
    made = libtile.compile(libtile.parse(hinted(entry="sm_90 = {occupancy = 40}")), gpu_name="sm_90", emit="ptx")
    assert ".minnctapersm 32" in made.ptx


@pytest.mark.parametrize("m, warned", [(256, True), (128, False)])
def test_a_product_whose_accumulator_exceeds_the_registers_is_warned_of(m, warned):
    text = product("f16", "f16", "f32", m, 256, 16)
    made = libtile.compile(libtile.parse(text), gpu_name="sm_80", emit="tileas").remarks
    assert not made  # remarks belong to compiled code
    made = libtile.compile(libtile.parse(text), gpu_name="sm_80", emit="llvm").remarks
    said = [r for r in made if r.kind is Kind.WARNING]
    assert [r.name for r in said] == ["RegisterPressure"] * warned
    assert warnings_format(made).startswith("    warning[]: High register usage\n") == warned


def test_the_page_names_every_remark():
    source = (ROOT / "libtile" / "support" / "remarks.py").read_text(encoding="utf-8")
    names = set(re.findall(r'"(Remark[A-Z]\w+|RegisterPressure)"', source)) - {"RemarkId"} | {
        "RemarkMemoryLoadInstructionSelected", "RemarkMemoryStoreInstructionSelected",
        "RemarkMemoryTmaLoadFailed", "RemarkMemoryTmaStoreFailed",
    }  # fmt: skip
    page = (ROOT / "docs" / "remarks.md").read_text(encoding="utf-8")
    assert set(re.findall(r"`(Remark\w+|RegisterPressure)`", page)) == names


_VIEW = "!nv_tileaa.tiled_view<!nv_tileaa.memref<64x64xf32, strides=[64,1], 1>, 16x16>"
_MEMREF = "!nv_tileaa.memref<64x64xf32, strides=[64,1], 1>"


def test_hints_of_a_module_in_an_inner_dialect_have_remarks_too():
    """There all are for the target."""
    text = f"""module {{
nv_tileaa.func @k(%m: {_MEMREF}, %i: index)
    attributes {{kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>}} {{
  %v = nv_tileaa.block_tile %m {{tileSizes = array<i64: 16, 16>, dimGroups = [array<i64: 0>, array<i64: 1>]}}
      : {_MEMREF} -> {_VIEW}
  %x = nv_tileaa.tiled_load %v[%i, %i] {{hints = {{latency = 40 : i32, frobnicate = 1 : i32, occupancy = 2 : i32}}}}
      : {_VIEW}, index, index -> tile<16x16xf32>
  nv_tileaa.tiled_store %v[%i, %i], %x {{hints = {{latency = 3 : i32, allow_tma = "x"}}}}
      : {_VIEW}, tile<16x16xf32>, index, index
  nv_tileaa.return
}}
}}
"""
    made = libtile.compile(text.encode(), gpu_name="sm_90", emit="llvm").remarks
    found = {(r.message, dict(r.arguments).get("Reason")) for r in made if r.category is Category.HINTS}
    assert found == {
        ("OptimizationHint value out of range value 40 clamped to 10 for latency", None),
        ("OptimizationHint ignored frobnicate", "it is not known"),
        ("OptimizationHint ignored occupancy", "it is no hint of nv_tileaa.tiled_load"),
        ("OptimizationHint ignored latency", "stores are not started iterations ahead"),
        ("OptimizationHint incorrect allow_tma", None),
    }
