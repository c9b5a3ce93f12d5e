# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# ruff: noqa: E501 - types are long
"""What changed modules of the inner dialects have found (`python -m fuzz inner`)."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.context import Context

import libtile
from dialects import inner_samples
from libtile.passes.manager import PassManager
from libtile.passes.pipeline import parse_pipeline
from libtile.support.diagnostics import DiagnosticError, LoweringError
from libtile.support.errors import LibtileError
from libtile.transforms.sccp import SccpPass
from lowering.inner_programs import PROGRAMS

HEAD = "attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=2>}"
RANKS = f"""
nv_tileaa.func @k(%o: !nv_tileaa.memref<?xi32, 1>) {HEAD} {{
  %r = nv_tileaa.get_cta_rank : index
  %x = nv_tileaa.constant {{value = dense<7> : !cuda_tile.tile<1xi32>}} : tile<1xi32>
  nv_tileaa.tiled_store %o[%r], %x : !nv_tileaa.memref<?xi32, 1>, tile<1xi32>, index
  nv_tileaa.return
}}
"""
"""Each CTA of a cluster writes at its number."""

ONCE = f"""
nv_tileaa.func @k(%o: !nv_tileaa.memref<?xi32, 1>) {HEAD} {{
  %0 = arith.constant 0 : index
  %v = nv_tileaa.block_tile %o {{tileSizes = array<i64: 4>, dimGroups = [array<i64: 0>]}} : !nv_tileaa.memref<?xi32, 1> -> !nv_tileaa.tiled_view<!nv_tileaa.memref<?xi32, 1>, 4>
  %x = nv_tileaa.constant {{value = dense<7> : !cuda_tile.tile<4xi32>}} : tile<4xi32>
  %a = nv_tileaa.tiled_atomic_rmw %v[%0], %x {{rmw_mode = #nv_tileaa.rmw_mode<add>, mem_semantic = #nv_tileaa.mem_semantic<relaxed>, mem_scope = #nv_tileaa.mem_scope<gpu>}} : !nv_tileaa.tiled_view<!nv_tileaa.memref<?xi32, 1>, 4>, tile<4xi32>, index -> tile<4xi32>
  nv_tileaa.return
}}
"""
"""A program for a cluster that nobody has split yet."""


def left(text: str, **options: object) -> list[int]:
    out = np.zeros(4, np.int32)
    libtile.run(libtile.parse(text, filename="k.mlir"), args=[out, 4, 1], check="full", **options)
    return out.tolist()


RUNS = [{"backend": "interpreter"}, *({"backend": "simulator", "gpu_name": gpu} for gpu in ("sm_90", "sm_100"))]


@pytest.mark.parametrize("options", RUNS)
def test_a_kernel_that_asks_for_its_rank_is_run_by_each_cta(options):
    assert left(RANKS, **options) == [7, 7, 0, 0]


@pytest.mark.parametrize("options", [*RUNS, {"backend": "simulator", "gpu_name": "sm_80"}])
def test_a_program_for_a_cluster_that_is_not_split_yet_runs_once(options):
    assert left(ONCE, **options) == [7, 7, 7, 7]


@pytest.mark.parametrize(
    ("ctas", "gpu", "said"),
    [(2, "sm_80", "and the target has no clusters on sm_80"), (4, "sm_90", "code is made for clusters of 2 on sm_90")],
)
def test_a_kernel_that_asks_for_its_rank_is_refused_where_no_such_cluster_is(ctas, gpu, said):
    text = RANKS.replace("num_ctas=2", f"num_ctas={ctas}")
    with pytest.raises(
        LoweringError, match=rf"k\.mlir:2:1: 'nv_tileaa.func' op says what each of its {ctas} CTAs does .*{said}"
    ):
        libtile.compile(libtile.parse(text, filename="k.mlir"), gpu, emit="ptx")


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90"])
def test_the_rank_of_the_only_cta_is_0(gpu):
    text = RANKS.replace("num_ctas=2", "num_ctas=1")
    assert left(text, backend="simulator", gpu_name=gpu) == left(text, backend="interpreter") == [7, 0, 0, 0]
    wide = (
        text.replace("get_cta_rank : index", "get_cta_rank : tile<i64>")
        .replace("%o[%r]", "%o[%q]")
        .replace(
            "  %x =", "  %q = arith.constant 1 : index\n  %y = nv_tileaa.splat %r : tile<i64> -> tile<1xi64>\n  %x ="
        )
    )
    assert left(wide, backend="simulator", gpu_name=gpu) == [0, 7, 0, 0]


CALLED = """
nv_tileaa.func @k(%p: !nv_tileaa.ptr<i32, 1>) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>} {
  %x = nv_tileaa.load %p : !nv_tileaa.ptr<i32, 1> -> tile<i32>
  %e = nv_tileaa.extern_elementwise %x {symbol = "__nv_exp2f", pure} : tile<i32> -> tile<i32>
  nv_tileaa.store %p, %e : !nv_tileaa.ptr<i32, 1>, tile<i32>
  nv_tileaa.return
}
"""


def test_a_function_of_a_library_is_called_by_its_own_type():
    """It was called with the bits of integers."""
    module = libtile.parse(CALLED, filename="k.mlir")
    with pytest.raises(
        LoweringError, match=r"k\.mlir:4:8: .* calls '__nv_exp2f' as i32 \(i32\), and it is float \(float\) on sm_90"
    ):
        libtile.compile(module, "sm_90", emit="ptx")
    with pytest.raises(LibtileError, match="the function '__nv_exp2f' of i32: it is one of f32"):
        libtile.run(module, args=[np.zeros(1, np.int32)])
    right = libtile.parse(CALLED.replace("i32", "f32"))
    assert "ex2.approx" in libtile.compile(right, "sm_90", emit="ptx").ptx


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("f32", "tf32", "expects #C element type to be f32, but got tf32"),
        ("f16", "i32", "expected the element types of A, B, C, and D to be either all integers or all floats."),
        ("f32", "i32", "expected the element types of A, B, C, and D to be either all integers or all floats."),
    ],
)
def test_a_convolution_is_a_product_of_elements_that_go_together(old, new, said):
    text = (
        PROGRAMS["a convolution"]
        .text()
        .replace(old, new)
        .replace("dense<0.0> : !cuda_tile.tile<1x4x8x16xi32>", "dense<0> : !cuda_tile.tile<1x4x8x16xi32>")
    )
    with pytest.raises(DiagnosticError, match=rf"k\.mlir:\d+:\d+: error: 'nv_tileaa\.conv_dot' op {said}"):
        libtile.verify(libtile.parse(text, filename="k.mlir"))


def test_a_constant_has_the_elements_of_its_value():
    """The interpreter ended in an internal error, and code had the bits of another type."""
    text = "nv_tileaa.func @k() {\n  %x = nv_tileaa.constant {value = dense<0.5> : !cuda_tile.tile<2x8xf8E4M3FN>} : tile<2x8xf32>\n  nv_tileaa.return\n}"
    with pytest.raises(
        DiagnosticError,
        match=r"k\.mlir:2:8: error: .* expects a value of the result's elements, but got .*tile<2x8xf8E4M3FN> vs",
    ):
        libtile.verify(libtile.parse(text, filename="k.mlir"))


def test_an_op_does_not_take_what_its_own_region_defines():
    """The verifier ended in an internal error."""
    text = """
nv_tileaa.func @k(%n: index) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>} {
  %0 = arith.constant 0 : index
  scf.for %i = %0 to %n step %1 {
    %1 = arith.constant 1 : index
    scf.yield
  }
  nv_tileaa.return
}
"""
    module = libtile.parse(text, filename="k.mlir")
    with pytest.raises(DiagnosticError, match=r"k\.mlir:4:3: error: .*"):
        libtile.verify(module)


def test_a_layout_holds_the_whole_tile():
    """A conversion of a tile of which no thread has half ended in an internal error."""
    text = "nv_tileaa.func @k(%x: tile<64xf32, #nv_tileas.layout<register=[], lane=[[1],[2],[4],[8],[32]], warp=[[32],[0]] : {}>>) {{\n  nv_tileaa.return\n}}"
    for shape, said in (
        (64, "expects a layout that holds the whole tile, but got "),
        (128, r"expects a layout of shape \[64\], but got \[128\]"),
    ):
        with pytest.raises(DiagnosticError, match=rf"k\.mlir:1:\d+: error: .*{said}"):
            libtile.verify(libtile.parse(text.format(shape), filename="k.mlir"))


def test_an_asynchronous_copy_to_a_buffer_says_which_dimensions_it_checks():
    """They were held against the dimensions of no tile, so that no gemm with cp.async was valid."""
    text = """
nv_tileaa.func @k(%v: !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xf32, 1>, 4x8>, %b: !nv_tileas.buffer<4x8xf32, shared>, %i: index) {
  nv_tileas.async.tiled_load %v[%i, %i], %b {masked = array<i64: DIMS>} : !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xf32, 1>, 4x8>, !nv_tileas.buffer<4x8xf32, shared>, index, index -> !nv_tileas.async_token
  nv_tileaa.return
}
"""
    libtile.verify(libtile.parse(text.replace("DIMS", "0, 1")))
    with pytest.raises(
        DiagnosticError, match="expects dimensions of the tile as 'masked', in order, but got \\[0, 2\\]"
    ):
        libtile.verify(libtile.parse(text.replace("DIMS", "0, 2")))


@pytest.mark.parametrize("dialect", ["nv_tileaa", "nv_tileas"])
def test_a_truth_value_is_no_coordinate(dialect):
    """It was 1 in the interpreter, and -1 in code."""
    layout = ", #nv_tileas.layout<register=[], lane=[[1],[2],[0],[0],[0]], warp=[[0],[0]] : 4>" * (
        dialect == "nv_tileas"
    )
    text = f"""
nv_tileaa.func @k(%m: !nv_tileaa.tiled_view<!nv_tileaa.memref<?xf32, 1>, 4>, %x: tile<4xf32{layout}>, %i: i1) {{
  {dialect}.tiled_store %m[%i], %x : !nv_tileaa.tiled_view<!nv_tileaa.memref<?xf32, 1>, 4>, tile<4xf32{layout}>, i1
  nv_tileaa.return
}}
"""
    said = "expects (indices of integers|CoordType is same as memref index type), but got i1"
    with pytest.raises(DiagnosticError, match=rf"k\.mlir:3:3: error: '{dialect}\.tiled_store' op {said}"):
        libtile.verify(libtile.parse(text, filename="k.mlir"))


def test_a_product_under_way_is_one_of_numbers():
    """The verifier ended in a KeyError."""
    sample = inner_samples.BODIES["nv_tileas.async.dot"]
    product = next(line for line in sample.split("\n") if "nv_tileas.async.dot " in line).replace(
        "64x8xf32", "64x8xindex"
    )
    a, b, c = product.partition(" : ")[2].partition(" -> ")[0].replace(">>, ", ">>|").split("|")
    text = f"nv_tileaa.func @k(%left: {a}, %right: {b}, %sum: {c}) {{\n  {product}\n  nv_tileaa.return\n}}"
    with pytest.raises(
        DiagnosticError, match=r"'nv_tileas\.async\.dot' op expects operands of numbers, but got tile<64x8xindex"
    ):
        libtile.verify(libtile.parse(text, filename="k.mlir"))


GATHER = """
nv_tileaa.func @k(%pbase: !nv_tileaa.ptr<f16, 1>, %o: !nv_tileaa.ptr<f16, 1>, %by: index) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>} {
  %lanes = nv_tileaa.make_range : tile<128xindex>
  %pp = nv_tileaa.addptr %pbase, %lanes : !nv_tileaa.ptr<f16, 1>, tile<128xindex> -> tile<128x!nv_tileaa.ptr<f16, 1>>
  %pq = nv_tileaa.addptr %pp, %by : tile<128x!nv_tileaa.ptr<f16, 1>>, index -> tile<128x!nv_tileaa.ptr<f16, 1>>
  %v = nv_tileaa.load %pq : tile<128x!nv_tileaa.ptr<f16, 1>> -> tile<128xf16>
  %op = nv_tileaa.addptr %o, %lanes : !nv_tileaa.ptr<f16, 1>, tile<128xindex> -> tile<128x!nv_tileaa.ptr<f16, 1>>
  nv_tileaa.store %op, %v : tile<128x!nv_tileaa.ptr<f16, 1>>, tile<128xf16>
  nv_tileaa.return
}
"""


@pytest.mark.parametrize("gpu", ["", "sm_80", "sm_90", "sm_100", "sm_120"])
def test_the_documents_gather_of_one_pointer_and_a_tile_of_offsets_is_compiled(gpu):
    given, out = np.arange(200, dtype=np.float16), np.zeros(128, np.float16)
    options = {"backend": "simulator", "gpu_name": gpu} if gpu else {}
    libtile.run(libtile.parse(GATHER), args=[given, out, 3], check="full", **options)
    assert np.array_equal(out, given[3:131])


def test_a_tile_is_not_held_by_more_warps_than_there_are():
    """Code left out what the warps held that are not there."""
    program = next(p for p in PROGRAMS.values() if "extract_slice" in p.text() and "warp=[[32],[0]]" in p.text())
    text = program.text().replace("num_warps=4", "num_warps=2")
    with pytest.raises(LoweringError, match=r"k\.mlir:\d+:\d+: '.*' op gives a tile that 4 warps hold, of 2 on sm_80"):
        libtile.compile(libtile.parse(text, filename="k.mlir"), "sm_80", emit="ptx")


UNSIGNED = """
nv_tileaa.func @k(%o: !nv_tileaa.ptr<i32, 1>) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>} {
  %one = arith.constant 1 : i32
  %end = arith.constant -1073741824 : i32
  %step = arith.constant 1073741824 : i32
  %zero = arith.constant 0 : i32
  %r = scf.for %i = %one to %end step %step iter_args(%n = %zero) -> (i32) : i32 {
    %k = arith.addi %n, %one : i32
    scf.yield %k : i32
  } {unsignedCmp}
  nv_tileaa.store %o, %r : !nv_tileaa.ptr<i32, 1>, i32
  nv_tileaa.return
}
"""


@pytest.mark.parametrize("options", RUNS)
def test_a_loop_over_unsigned_numbers_is_not_taken_for_one_that_never_runs(options):
    """Its bounds are constants, of which the upper one is negative as a signed number: sccp erased the loop."""
    module = libtile.parse(UNSIGNED)
    SccpPass().apply(Context(), module.op)
    out = np.zeros(1, np.int32)
    libtile.run(module, args=[out], check="full", **options)
    assert out == 3


CAST = """
nv_tileaa.func @k(%o: !nv_tileaa.ptr<i32, 1>, %c: i1) attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>} {
  %i = arith.index_cast %c : i1 to index
  %x = arith.index_cast %i : index to i32
  nv_tileaa.store %o, %x : !nv_tileaa.ptr<i32, 1>, i32
  nv_tileaa.return
}
"""


@pytest.mark.parametrize("options", RUNS)
def test_a_truth_value_as_an_index_is_negative(options):
    """By its sign, as every integer. The interpreter had 1."""
    out = np.zeros(1, np.int32)
    libtile.run(libtile.parse(CAST), args=[out, 1], check="full", **options)
    assert out == -1


@pytest.mark.parametrize(
    "facts", ["contiguity = array<i64: 3>", "contiguity = array<i64: 4>", "contiguity = array<i64: 3>, divisibility = array<i64: 16>"]
)  # fmt: skip
def test_facts_on_pointers_need_not_be_complete_nor_powers_of_two(facts):
    """A contiguity without a divisor ended in an internal error."""
    text = GATHER.replace("nv_tileaa.load %pq :", f"nv_tileaa.load %pq {{{facts}}} :")
    given, out = np.arange(200, dtype=np.float16), np.zeros(128, np.float16)
    libtile.run(libtile.parse(text), args=[given, out, 0], check="full", backend="simulator", gpu_name="sm_90")
    assert np.array_equal(out, given[:128])


@pytest.mark.parametrize("proxy", ["async", "async.shared", "async.global", "tensormap"])
def test_a_fence_of_a_proxy_is_refused_where_the_target_has_none(proxy):
    """LLVM ended the process that asked for one."""
    text = f"""nv_tileaa.func @k() attributes {{kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>}} {{
      nv_tileas.fence_proxy {{proxy = "{proxy}"}}
      nv_tileaa.return
    }}"""
    with pytest.raises(
        libtile.LibtileError, match=rf"-:2:7: 'nv_tileas.fence_proxy' op names the proxy '{proxy}'.*sm_89"
    ):
        libtile.compile(libtile.parse(text), "sm_89", emit="ptx")


def test_layout_conversions_are_looked_for_where_tiles_have_no_layouts_yet():
    """The pass of nv_tileas, before nv_tileas: what a loop does not change stays where it is."""
    text = """nv_tileaa.func @k(%p: !nv_tileaa.ptr<i32, 1>, %n: index) {
      %zero = arith.constant 0 : index
      %one = arith.constant 1 : index
      %x = nv_tileaa.splat %p : !nv_tileaa.ptr<i32, 1> -> tile<1x!nv_tileaa.ptr<i32, 1>>
      scf.for %i = %zero to %n step %one {
        %y = nv_tileaa.expand_dims %x {axes = array<i64: 0>} : tile<1x!nv_tileaa.ptr<i32, 1>> -> tile<1x1x!nv_tileaa.ptr<i32, 1>>
        nv_tileaa.print %y {format = "%p"} : tile<1x1x!nv_tileaa.ptr<i32, 1>>
      }
      nv_tileaa.return
    }"""
    module = libtile.parse(text)
    before = str(module)
    PassManager(parse_pipeline("tileas-remove-layout-conversions")).run(module.op)
    assert str(module) == before
