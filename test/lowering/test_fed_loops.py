# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A producer agent that copies by TMA, and warps that multiply registers by mma.sync (sm_120)."""

import re

import ml_dtypes
import numpy as np
import pytest
from test_specialized import main_loop, operands, tile_gemm
from test_specialized_chains import attention
from test_specialized_chains import run as run_attention

import libtile
from libtile.lowering.tileas.schedule import NOT_SPECIALIZED


def parted(text, gpu_name="sm_120", **options):
    """(text in nv_tileas, why no producer feeds its loop or None)"""
    made = libtile.compile(libtile.parse(text), gpu_name=gpu_name, launch_abi="simt", emit="tileas", **options)
    said = re.search(rf'{NOT_SPECIALIZED} = "([^"]*)"', made.tileas)
    assert ("agent_switch" in made.tileas) == (said is None)
    return made.tileas, said[1] if said else None


def run(text, args, grid=(1, 1, 1), **options):
    libtile.run(
        libtile.parse(text), grid=grid, args=args, backend="simulator", gpu_name="sm_120", check="full", **options
    )


@pytest.mark.parametrize(
    ("m", "n", "k", "options", "order"),
    [
        (64, 32, 64 * 4, {"m": 64, "n": 32}, None),
        (72, 48, 144, {"m": 64, "n": 32}, 1),  # ragged edges and a tail along k
        (64, 64, 64, {"m": 64}, 2),  # one step
        (64, 40, 96, {"m": 64, "n": 32, "k": 32, "transposed": True}, 4),  # rows of 64 bytes
        (64, 64, 96, {"m": 64, "k": 32, "hints": "num_worker_warps = 8"}, 3),
        pytest.param(136, 264, 160, {"n": 256}, 5, marks=pytest.mark.slow),
    ],
)
def test_a_fed_loop_gives_what_numpy_gives(m, n, k, options, order):
    text = tile_gemm(**options)
    a, b, c, wanted = operands(m, n, k, options.get("transposed", False))
    grid = -(-m // options.get("m", 128)), -(-n // options.get("n", 64)), 1
    run(text, [a, b, c, m, n, k], grid, block_order=order)
    np.testing.assert_allclose(c, wanted, atol=1e-3)


def test_loops_of_no_steps_give_zeros():
    a, b, c = np.zeros((64, 1), np.float16), np.zeros((1, 64), np.float16), np.full((64, 64), 7, np.float32)
    run(tile_gemm(m=64), [a, b, c, 64, 64, 0])
    assert not c.any()


@pytest.mark.parametrize(
    ("element", "dtype", "result"), [("i8", np.int8, "i32"), ("f8E4M3FN", ml_dtypes.float8_e4m3fn, "f32")]
)
def test_bytes_are_multiplied_where_both_lie_along_k(element, dtype, result):
    text = tile_gemm(m=64, n=32, k=64, element=element, result=result, transposed=True)
    assert parted(text)[1] is None
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (lines, 160)).astype(dtype) for lines in (64, 32))
    c = np.full((64, 32), 7, np.int32 if result == "i32" else np.float32)
    run(text, [a, b, c, 64, 32, 160])
    np.testing.assert_array_equal(c, (a.astype(np.float32) @ b.astype(np.float32).T).astype(c.dtype))


@pytest.mark.parametrize(
    ("rows", "columns", "options"),
    [
        (32, 64, {}),
        (40, 40, {"order": 3}),  # the last boxes lie partly outside of the tensors
        (32, 64, {"causal": True, "order": 1}),
    ],
)
def test_attention_is_fed_by_two_rings(rows, columns, options):
    """Keys and values have pipelines of their own; the loop between them, with its reductions, stays as it is."""
    shape = 32, 32, 32
    text = attention(*shape, causal=options.get("causal", False))
    run_attention(text, *shape, rows, columns, gpu_name="sm_120", **options)
    if not options:
        made = parted(text)[0]
        assert made.count("create_pipeline") == 2 and made.count("tiled_tma_load") == 2


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("weak %va[%bx, %i]", "weak %va[%bx, %i] optimization_hints = <default = {allow_tma = false}>",
         "#A may not be copied by TMA, as a hint says"),
        ("(%zero to %dims#1, step %one)", "(%zero to %one, step %one)", "its loop has fewer than two turns"),
    ],
)  # fmt: skip
def test_why_a_loop_is_not_fed_is_said(old, new, reason):
    text = tile_gemm(m=64).replace(old, new)
    inner, said = parted(text)
    assert said == reason and ("cp.async" not in inner)


def test_code_of_a_fed_loop():
    """Two stages, no spills and a loop of at most 190 instructions; the exchange behind it is in the stages."""
    tile = "tile<128x256xf32>"
    text = tile_gemm(128, 256, 64).replace("?x?xf32", "?x?xf16").replace("ptr<f32>", "ptr<f16>")
    text = text.replace("%w =", f"%h = ftof %r : {tile} -> tile<128x256xf16>\n    %w =")
    text = text.replace(f"%r, %vc[%bx, %by] : {tile}", "%h, %vc[%bx, %by] : tile<128x256xf16>")
    made = libtile.compile(libtile.parse(text), gpu_name="sm_120")
    kernel = made.kernels["gemm"]
    assert (kernel.spills, kernel.block_dim[0]) == (0, 384) and kernel.smem <= 2 * 49152 + 64
    assert "C7506" not in made.log
    loop = main_loop(made.cubin, "HMMA")
    assert len(loop) <= 190 and sum("HMMA" in line for line in loop) == 128
    assert sum("LDSM" in line for line in loop) == 32 and not any("LDL" in line or "STL" in line for line in loop)
