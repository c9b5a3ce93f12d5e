# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""cuda-tile-run as its users run it."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import libtile
from patience import PATIENCE
from tools.process import ROOT, run

KERNEL = """
cuda_tile.module @m {
  entry @scale(%x: tile<ptr<f32>>, %y: tile<ptr<f32>>, %n: tile<i32>, %factor: tile<f32>) {
    %bx, %by, %bz = get_tile_block_id : tile<i32>
    %tx = make_tensor_view %x, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
    %ty = make_tensor_view %y, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
    %vx = make_partition_view %tx : partition_view<tile=(8), tensor_view<?xf32, strides=[1]>>
    %vy = make_partition_view %ty : partition_view<tile=(8), tensor_view<?xf32, strides=[1]>>
    %l, %t = load_view_tko weak %vx[%bx] : partition_view<tile=(8), tensor_view<?xf32, strides=[1]>>, tile<i32>
      -> tile<8xf32>, token
    %f1 = reshape %factor : tile<f32> -> tile<1xf32>
    %f = broadcast %f1 : tile<1xf32> -> tile<8xf32>
    %s = mulf %l, %f rounding<nearest_even> : tile<8xf32>
    %t2 = store_view_tko weak %s, %vy[%bx] : tile<8xf32>, partition_view<tile=(8), tensor_view<?xf32, strides=[1]>>,
      tile<i32> -> token
    print_tko "block %d\\n", %bx : tile<i32> -> token
    return
  }
}
"""


TWICE = """
cuda_tile.module @m {
  entry @twice(%x: tile<ptr<f32>>) {
    %i = iota : tile<4xi32>
    %x1 = reshape %x : tile<ptr<f32>> -> tile<1xptr<f32>>
    %xs = broadcast %x1 : tile<1xptr<f32>> -> tile<4xptr<f32>>
    %at = offset %xs, %i : tile<4xptr<f32>>, tile<4xi32> -> tile<4xptr<f32>>
    %v, %t = load_ptr_tko weak %at : tile<4xptr<f32>> -> tile<4xf32>, token
    %d = addf %v, %v : tile<4xf32>
    %s = store_ptr_tko weak %at, %d token=%t : tile<4xptr<f32>>, tile<4xf32> -> token
    return
  }
}
"""


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    path = tmp_path / "scale.mlir"
    path.write_text(KERNEL)
    np.save(tmp_path / "x.npy", np.arange(20, dtype=np.float32))
    return path


def arguments(kernel: Path, *more: str) -> list[str]:
    return [str(kernel), "--grid", "3", "--arg", str(kernel.parent / "x.npy"), "--arg", "zeros:f32:20", *more]


def test_a_kernel_reads_and_writes_npy_files(kernel):
    out = kernel.parent / "y.npy"
    done = run("cuda_tile_run", *arguments(kernel, "--arg", "i32:20", "--arg", "f32:2.5", "--out", f"1:{out}"))
    assert done.status == 0, done.err
    assert np.array_equal(np.load(out), np.arange(20, dtype=np.float32) * 2.5)
    assert done.text == "block 0\nblock 1\nblock 2\n"
    assert "@scale: 3 tile blocks (3 x 1 x 1)" in done.err and "80 bytes read, 80 bytes written" in done.err


def test_numbers_need_no_type_and_the_summary_may_be_left_out(kernel):
    done = run("cuda_tile_run", *arguments(kernel, "--kernel", "scale", "--arg", "20", "--arg", "0.5", "--quiet"))
    assert done.status == 0 and done.err == ""


def test_single_dash_options_are_understood(kernel):
    done = run("cuda_tile_run", str(kernel), "-describe")
    assert done.status == 0
    assert done.text.splitlines() == [
        "@scale takes 4 parameters:", "  0: %x tile<ptr<f32>> (an array)", "  1: %y tile<ptr<f32>> (an array)",
        "  2: %n tile<i32> (size 0 of parameter 0 and size 0 of parameter 1)", "  3: %factor tile<f32> (a number)",
    ]  # fmt: skip


def test_a_name_of_any_characters_stays_on_its_line_of_the_list(tmp_path):
    text = 'cuda_tile.module @m { entry @"a\\0Ab"(%x: tile<i32>) { return } }'
    (tmp_path / "k.bc").write_bytes(libtile.write(libtile.parse(text), "13.3"))
    listed = "@a\\nb takes 1 parameter:\n  0: tile<i32> (a number)\n"
    assert run("cuda_tile_run", "k.bc", "--describe", cwd=tmp_path).text == listed
    assert run("cuda_tile_run", "k.bc", cwd=tmp_path).err == f"error: 0 arguments given; {listed}"


@pytest.mark.parametrize("more, message", [
    (["--arg", "i32:20"], "argument 2 is given as i32, and parameter 3 is tile<f32>"),  # %n is derived
    ([], "2 arguments given; @scale takes 4 parameters:\n  0: %x tile<ptr<f32>> (an array)\n"),
    (["--arg", "f32:20", "--arg", "f32:1"], "argument 2 is given as f32, and parameter 2 is tile<i32>"),
    (["--arg", "i32:20", "--arg", "x.txt"], "'x.txt' is not an argument"),
    (["--arg", "i32:20", "--arg", "none.npy"], "cannot open 'none.npy'"),
    (["--arg", "i32:20", "--arg", "1", "--out", "2:y.npy"], "argument 2 is not an array"),
    (["--arg", "i32:20", "--arg", "1", "--out", "y.npy"], "'y.npy' is not an output"),
    (["--arg", "i32:20", "--arg", "1", "--kernel", "other"], "no kernel named 'other' (its kernels: scale)"),
    (["--arg", "i32:20", "--arg", "1", "--block-order", "up"], "'up' is not a block order"),
    (["--arg", "i32:20", "--arg", "1", "--trace", "--trace-limit", "-1"], "'--trace-limit -1': give 0 or more"),
    (["--arg", "i32:20", "--arg", "1", "--trace-limit", "1"], "'--trace-limit 1': there is no --trace"),
    (["--arg", "i32:20", "--arg", "1", "--launch-abi", "simt"], "ABI is the gpu's: the interpreter takes none"),
    (["--arg", "i32:20", "--arg", "1", "--gpu-name", "sm_1"], "unknown GPU name 'sm_1'"),
    (["--arg", "i32:20", "--arg", "1", "--backend", "gpu"], "error: no CUDA driver: no/libcuda.so: "),
    (["--arg", "i32:20", "--arg", "1", "--grid", "a,b"], "'a,b' is not a grid"),
    (["--arg", "zeros:f99:3"], "there is no element type 'f99'; give zeros:TYPE:SHAPE"),
])  # fmt: skip
def test_a_wrong_command_line_is_one_message_and_no_output_file(kernel, more, message, monkeypatch):
    monkeypatch.setenv("LIBTILE_CUDA_DRIVER", "no/libcuda.so")  # whatever this machine has
    done = run("cuda_tile_run", *arguments(kernel, *more), cwd=kernel.parent)
    assert done.status == 1
    assert message in done.err
    assert not (kernel.parent / "y.npy").exists()


def test_a_fault_has_the_form_of_a_diagnostic_and_leaves_no_output(kernel):
    out = kernel.parent / "y.npy"
    done = run("cuda_tile_run", *arguments(kernel, "--arg", "40", "--arg", "1", "--out", f"1:{out}", "--grid", "5"))
    assert done.status == 1
    assert f"{kernel}:9:14: error: 'cuda_tile.load_view_tko' op out-of-bounds access" in done.err
    assert "tile block (2, 0, 0), element [4]" in done.err
    assert not out.exists()


def test_a_trace_shows_each_op_with_its_results(kernel):
    done = run("cuda_tile_run", *arguments(kernel, "--arg", "20", "--arg", "2", "--trace", "--trace-limit", "9"))
    lines = [line for line in done.err.splitlines() if line.startswith("(")]
    assert len(lines) == 9
    assert lines[0] == f"(0, 0, 0) {kernel}:4:21: get_tile_block_id -> %bx: tile<i32> = 0; %by: tile<i32> = 0; " \
                       "%bz: tile<i32> = 0"  # fmt: skip
    assert lines[5].endswith("load_view_tko -> %l: tile<8xf32> in 0 .. 7; %t: token")


def test_checks_and_orders_are_options(kernel):
    good = ["--arg", "20", "--arg", "2", "--quiet"]
    for more in (
        ["--check=full"],
        ["--check=off"],
        ["--check=full,-view-range"],
        ["--block-order=reverse"],
        ["--block-order=3"],
    ):
        assert run("cuda_tile_run", *arguments(kernel, *good, *more)).status == 0


def test_a_module_comes_from_stdin():
    text = 'cuda_tile.module @m { entry @hello() { print_tko "hello\\n" -> token\n return } }'
    done = run("cuda_tile_run", "-", "--quiet", stdin=text.encode())
    assert done.text == "hello\n", done.err


def test_bf16_arrays_survive_npy_files(tmp_path):
    # numpy saves ml_dtypes' types as raw bytes: they are memory all the same.
    np.save(tmp_path / "x.npy", np.array([1.5, 2.5], ml_dtypes.bfloat16))
    (tmp_path / "k.mlir").write_text("""cuda_tile.module @m { entry @k(%x: tile<ptr<bf16>>) {
      %v, %t = load_ptr_tko weak %x : tile<ptr<bf16>> -> tile<bf16>, token
      print_tko "%f", %v : tile<bf16> -> token
      return } }""")
    done = run("cuda_tile_run", tmp_path / "k.mlir", "--arg", tmp_path / "x.npy", "--quiet")
    assert done.text == "1.500000", done.err


def test_an_exported_kernel_runs_from_its_file(tmp_path):
    sizes = 1000
    x, y = np.random.default_rng(0).random((2, sizes), dtype=np.float32)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    array = [str(sizes), "1"]
    args = [tmp_path / "x.npy", *array, tmp_path / "y.npy", *array, f"zeros:f32:{sizes}", *array]
    given = [text for a in args for text in ("--arg", a)]
    done = run("cuda_tile_run", ROOT / "examples" / "vector_add.bc", "--grid", "4", *given, "--out",
               f"6:{tmp_path / 'z.npy'}")  # fmt: skip
    assert done.status == 0, done.err
    assert np.array_equal(np.load(tmp_path / "z.npy"), x + y)


def test_the_simulator_runs_a_kernel_on_a_terminal_too(tmp_path):
    # Progress is the interpreter's: on a terminal the tool must not ask the simulator for it.
    np.save(tmp_path / "x.npy", np.arange(16, dtype=np.float32))
    (tmp_path / "twice.mlir").write_text(TWICE)
    terminal, end = pty.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "cuda_tile_run", "twice.mlir", "--backend=simulator",
             "--arg", "x.npy", "--out", "0:y.npy"],
            cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=end, timeout=PATIENCE, check=False,
        )  # fmt: skip
        shown = os.read(terminal, 10000).decode()
    finally:
        os.close(end)
        os.close(terminal)
    assert done.returncode == 0, shown
    assert "@twice: 1 tile block (1 x 1 x 1)" in shown and "warp instructions" in shown
    assert np.load(tmp_path / "y.npy").tolist() == [0.0, 2.0, 4.0, 6.0, *range(4, 16)]
