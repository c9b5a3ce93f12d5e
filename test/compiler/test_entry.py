# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A module of nv_tileaa or nv_tileas enters the compilation at its own stage, and is compiled and run like any."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import libtile
from libtile.compiler import driver
from libtile.compiler.options import Options
from libtile.support.diagnostics import LoweringError
from tools.process import run

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.bc"))
STAGES = ("tileaa", "tileas")

MEMREF = "!nv_tileaa.memref<?x?xf32, 1>"
ROWS = "!nv_tileaa.memref<?x64xf32, strides=[?,1], 1>"
SPEC = "kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>"
GROUPS = "{tileSizes = array<i64: 16, 16>, dimGroups = [array<i64: 0>, array<i64: 1>]}"
SCALE = f"""
nv_tileaa.func @scale(%a: {MEMREF}, %b: {ROWS}, %i: index, %n: i32, %f: f32) attributes {{{SPEC}}} {{
  %va = nv_tileaa.block_tile %a {GROUPS} : {MEMREF} -> !nv_tileaa.tiled_view<{MEMREF}, 16x16>
  %vb = nv_tileaa.block_tile %b {GROUPS} : {ROWS} -> !nv_tileaa.tiled_view<{ROWS}, 16x16>
  %x = nv_tileaa.tiled_load %va[%i, %i] : !nv_tileaa.tiled_view<{MEMREF}, 16x16>, index, index -> tile<16x16xf32>
  %g = nv_tileaa.int_to_fp %n : i32 -> f32
  %h = nv_tileaa.addf %f, %g : f32, f32 -> f32
  %s = nv_tileaa.splat %h : f32 -> tile<16x16xf32>
  %y = nv_tileaa.mulf %x, %s : tile<16x16xf32>, tile<16x16xf32> -> tile<16x16xf32>
  nv_tileaa.tiled_store %vb[%i, %i], %y : !nv_tileaa.tiled_view<{ROWS}, 16x16>, tile<16x16xf32>, index, index
  nv_tileaa.return
}}
"""
"""A kernel with parameters of every kind: memrefs of two kinds, an index, numbers."""


SAYS_WHERE = ("checks",)
"""Kernels whose code tells where in the source something was: the text has no locations."""


def scale_arguments() -> tuple[list[object], np.ndarray]:
    """What `scale` is launched with, and what it leaves in its second array."""
    a = np.arange(40 * 48, dtype=np.float32).reshape(40, 48)
    b = np.zeros((40, 64), np.float32)
    expected = b.copy()
    expected[16:32, 16:32] = a[16:32, 16:32] * np.float32(2.5)
    return [a, 40, 48, 48, 1, b, 40, 64, 1, 2, 0.5], expected


def check_round_trip(data: bytes, gpu_name: str) -> None:
    """The text of both inner dialects compiles to the PTX that the bytecode compiles to."""
    made = libtile.compile(data, gpu_name, emit="ptx", keep_text=True)
    for stage in STAGES:
        again = libtile.compile(made.stage(stage).encode(), gpu_name, emit="ptx", keep_text=True)
        assert again.ptx == made.ptx, stage
        assert stage == "tileas" or again.tileas == made.tileas
        assert again.kernels == made.kernels, stage


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_what_is_printed_at_a_stage_compiles_to_the_same(path):
    check_round_trip(path.read_bytes(), "sm_90")


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_100", "sm_120"])
def test_what_is_printed_for_another_target_compiles_to_the_same(gpu_name):
    check_round_trip((ROOT / "examples" / "gemm.bc").read_bytes(), gpu_name)


@pytest.mark.slow
@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_100", "sm_120"])
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_what_is_printed_of_every_example_compiles_to_the_same(path, gpu_name):
    check_round_trip(path.read_bytes(), gpu_name)


@pytest.mark.parametrize(
    ("name", "gpu_name"), [("ordered_views", "sm_80"), pytest.param("mlp", "sm_120", marks=pytest.mark.slow)]
)
def test_exchanges_stay_where_they_are_printed_though_later_barriers_are_there(name, gpu_name):
    pytest.importorskip("cuda.tile", reason="the cuTile frontend (cuda-tile) is not installed")
    from kernels import corpus

    kernel = corpus.KERNELS[name]
    check_round_trip(corpus.export(kernel, kernel.versions[-1], gpu_name), gpu_name)


@pytest.mark.slow
def test_what_is_printed_of_every_kernel_compiles_to_the_same():
    pytest.importorskip("cuda.tile", reason="the cuTile frontend (cuda-tile) is not installed")
    from kernels import corpus

    for kernel in corpus.KERNELS.values():
        if kernel.name in SAYS_WHERE:
            continue
        try:
            check_round_trip(corpus.export(kernel, kernel.versions[-1]), kernel.gpu_code)
        except BaseException as error:
            error.add_note(f"kernel {kernel.name}")
            raise


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_100", "sm_120"])
def test_memrefs_are_given_as_base_sizes_and_strides(gpu_name):
    args, expected = scale_arguments()
    module = libtile.parse(SCALE)
    libtile.run(module, "scale", args=args, backend="simulator", gpu_name=gpu_name)
    assert np.array_equal(args[5], expected)
    assert str(module) == str(libtile.parse(SCALE)), "the module that is compiled is the caller's"


def test_a_module_of_nv_tileas_runs_on_the_target_that_it_states():
    text = libtile.compile(libtile.parse(SCALE), "sm_80", emit="tileas").tileas
    args, expected = scale_arguments()
    libtile.run(text.encode(), args=args, backend="simulator")
    assert np.array_equal(args[5], expected)


def test_the_driver_takes_text_and_names_its_file():
    made = driver.compile_bytecode(SCALE.encode(), Options("sm_90"), filename="scale.mlir")
    assert made.cubin.startswith(b"\x7fELF")
    assert [p.type for p in made.kernels["scale"].params] == [*["ptr", *["i64"] * 4], "ptr", *["i64"] * 3, "i32", "f32"]
    bad = SCALE.replace("%x, %s :", "%x, %t :").encode()
    with pytest.raises(driver.InputError) as caught:
        driver.compile_bytecode(bad, Options("sm_90"), filename="scale.mlir")
    assert str(caught.value).startswith('loc("scale.mlir":9:')


def test_lines_of_the_text_are_in_the_line_table():
    made = driver.compile_bytecode(SCALE.encode(), Options("sm_90", line_info=True), filename="scale.mlir")
    assert "scale.mlir" in made.ptx
    assert ".loc\t1 9 " in made.ptx


BODY = "  nv_tileaa.return\n}\n"
REFUSED = {
    "target": (
        f"nv_tileaa.func @k() attributes {{{SPEC[:-1]}, target=sm_80>}} {{\n{BODY}",
        r"^x.mlir:1:1: 'nv_tileaa.func' op is for sm_80, and code is asked for on sm_90",
    ),
    "module target": (
        "module attributes {nv_tileaa.target_spec = #nv_tileaa.target_spec<compute_capability=sm_100>} {\n"
        f"nv_tileaa.func @k() attributes {{{SPEC}}} {{\n{BODY}}}\n",
        r"^x.mlir:1:1: 'builtin.module' op is for sm_100, and code is asked for on sm_90",
    ),
    "no kernel": (
        f"nv_tileaa.func @k() attributes {{{SPEC.replace('entry, ', '')}}} {{\n{BODY}",
        r"^x.mlir:1:1: 'nv_tileaa.func' op is no kernel \(an entry by its kernel_spec\)",
    ),
    "tile": (
        f"nv_tileaa.func @k(%x: tile<4x8xf32>) attributes {{{SPEC}}} {{\n{BODY}",
        r"^x.mlir:1:1: 'nv_tileaa.func' op takes a tile<4x8xf32> \(parameter 0\), and a launch gives scalars, pointers",
    ),
    "shared memory": (
        f"nv_tileaa.func @k(%x: !nv_tileaa.ptr<f32, 3>) attributes {{{SPEC}}} {{\n{BODY}",
        r"^x.mlir:1:1: .* and a launch gives addresses of global memory on sm_90",
    ),
    "declaration": (
        f"nv_tileaa.func @k(index) attributes {{{SPEC}}}\n",
        r"^x.mlir:1:1: 'nv_tileaa.func' op is a kernel without a body",
    ),
    "name": (
        f"nv_tileaa.func @__nv_sinf() attributes {{{SPEC}}} {{\n{BODY}",
        r"^x.mlir:1:1: 'nv_tileaa.func' op has the name '__nv_sinf', which is taken",
    ),
    "layout": (
        f"nv_tileaa.func @k(%i: index) attributes {{{SPEC}}} {{\n"
        "  nv_tileas.barrier\n"
        f"  %x = nv_tileaa.make_range : tile<8xi32>\n{BODY}",
        r"^x.mlir:3:8: 'nv_tileaa.make_range' op has a tile<8xi32> without a layout, in nv_tileas",
    ),
    "called": (
        f"nv_tileaa.func @g() attributes {{{SPEC.replace('entry, ', '')}}} {{\n{BODY}"
        f"nv_tileaa.func @k() attributes {{{SPEC}}} {{\n  nv_tileas.barrier\n{BODY}",
        r"^x.mlir:1:1: 'nv_tileaa.func' op is no kernel, and functions are not called in nv_tileas",
    ),
    "beside": (
        f"nv_tileaa.func @k() attributes {{{SPEC}}} {{\n{BODY}cuda_tile.module @m {{\n}}\n",
        r"^x.mlir:4:1: 'cuda_tile.module' op cannot stand beside functions of nv_tileaa",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_enter_is_refused_with_its_place(name):
    text, message = REFUSED[name]
    with pytest.raises(LoweringError, match=message):
        libtile.compile(libtile.parse(text, filename="x.mlir"), "sm_90")


def test_a_module_that_is_past_a_stage_cannot_be_printed_at_it():
    text = libtile.compile(libtile.parse(SCALE), "sm_90", emit="tileas").tileas
    with pytest.raises(LoweringError, match="is in nv_tileas already, and cannot be emitted as nv_tileaa"):
        libtile.compile(text.encode(), "sm_90", emit="tileaa")


def test_the_tools_take_modules_of_the_inner_dialects(tmp_path):
    args, expected = scale_arguments()
    np.save(tmp_path / "a.npy", args[0])
    (tmp_path / "scale.mlir").write_text(SCALE)
    done = run("tileiras", "--gpu-name=sm_90", "--emit=tileas", "scale.mlir", "-o", "scale.tileas", cwd=tmp_path)
    assert (done.status, done.err) == (0, "")
    given = ["a.npy", "40", "48", "48", "1", "zeros:f32:40x64", "40", "64", "1", "i32:2", "f32:0.5"]
    options = [part for arg in given for part in ("--arg", arg)]
    for name in ("scale.mlir", "scale.tileas"):
        done = run("cuda_tile_run", name, "--backend=simulator", *options, "--out=5:b.npy", cwd=tmp_path)
        assert done.status == 0, done.err
        assert np.array_equal(np.load(tmp_path / "b.npy"), expected)


def test_the_parameters_of_a_kernel_are_described(tmp_path):
    (tmp_path / "scale.mlir").write_text(SCALE)
    done = run("cuda_tile_run", "scale.mlir", "--describe", cwd=tmp_path)
    assert done.out.decode().splitlines()[:4] == [
        "@scale takes 11 parameters:",
        "  0: %a !nv_tileaa.ptr<f32, 1> (an array)",
        "  1: %a_size0 index (a number)",
        "  2: %a_size1 index (a number)",
    ]
