# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loops with one product that add something computed of it, as fp8 GEMMs with factors for each block along k do."""

import re

import ml_dtypes
import numpy as np
import pytest
from broken_turns import BROKEN
from specialized_kernels import loops_of
from test_persistent import persistent
from test_specialized import NOT_SPECIALIZED, tile_gemm

import libtile
from libtile.asm import print_op
from libtile.backend.cubin import read_cubin
from libtile.compiler.options import Options
from libtile.compiler.stages import lower
from libtile.simulator import SimulationFault
from libtile.support.diagnostics import DiagnosticError, LoweringError

E4M3 = ml_dtypes.float8_e4m3fn


def scaled_steps(m=128, n=128, k=128, element="f8E4M3FN", **options):
    """acc += (i + 1) * (a_i @ b_i): step i of k elements counts i + 1 times."""
    text = tile_gemm(m, n, k, element=element, transposed=True, **options)
    (product,) = re.findall(r"%d = mmaf %x, %y, %acc.*", text)
    tile, row = f"tile<{m}x{n}xf32>", "tile<1x1xf32>"
    return text.replace(
        product,
        f"""{product.replace("%d =", "%p =").replace("%acc", "%none")}
      %i1 = addi %i, %one : tile<i32>
      %f0 = itof %i1 signed : tile<i32> -> tile<f32>
      %f1 = reshape %f0 : tile<f32> -> {row}
      %f2 = broadcast %f1 : {row} -> {tile}
      %q = mulf %p, %f2 : {tile}
      %d = addf %acc, %q : {tile}""",
    )


def loaded_factors(text, m=128, n=64):
    """acc += a[:, i] * (a_i @ b_i): `scaled_steps` whose factors are a column of a, loaded in each step."""
    tensor = re.search(r"%ta = make_tensor_view .*? : tile<i32> -> (.*)", text)[1]
    view = f"partition_view<tile=({m}x1), padding_value = zero, {tensor}>"
    column, tile = f"tile<{m}x1x", f"tile<{m}x{n}xf32>"
    text = text.replace("    %bx, %by, %bz =", f"    %vf = make_partition_view %ta : {view}\n    %bx, %by, %bz =", 1)
    a, b = text.index("      %i1 = addi %i, %one"), text.index("      %q = mulf")
    return f"""{text[:a]}      %f0, %ft = load_view_tko weak %vf[%bx, %i] : {view}, tile<i32> -> {column}f16>, token
      %f1 = ftof %f0 : {column}f16> -> {column}f32>
      %f2 = broadcast %f1 : {column}f32> -> {tile}
{text[b:]}"""


@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in range(2, 20))])
@pytest.mark.parametrize(
    ("k", "tiles"), [(32 * 9 + 16, 0), (32, 0), pytest.param(0, 0, marks=pytest.mark.slow), (32 * 6, 2)]
)
def test_factors_are_loaded_some_steps_ahead(k, tiles, seed):
    """More steps than that, fewer, and none, and in a loop over tiles; the last steps load no further."""
    text = loaded_factors(scaled_steps(128, 64, 32, "f16"))
    text = persistent(text=text, m=128, n=64) if tiles else text
    made = libtile.compile(libtile.parse(text), gpu_name="sm_100", launch_abi="simt", emit="tileas").tileas
    assert made.count("async.dot_into") == 1 and made.count("nv_tileas.tiled_load") == 5  # four in front of the loop
    m, n = 136, 72
    rng = np.random.default_rng(seed)
    a, b = ((rng.standard_normal(shape) / 2).astype(np.float16) for shape in ((m, k), (n, k)))
    c = np.full((m, n), 7, np.float32)
    libtile.run(
        libtile.parse(text), "gemm", grid=(tiles, 1, 1) if tiles else (2, 2, 1), args=[a, b, c, m, n, k],
        backend="simulator", gpu_name="sm_100", check="full", block_order=seed,
    )  # fmt: skip
    a, b = a.astype(np.float32), b.astype(np.float32)
    wanted = np.zeros((m, n))
    for i in range(-(-k // 32)):
        wanted += a[:, i, None] * (a[:, 32 * i : 32 * i + 32] @ b[:, 32 * i : 32 * i + 32].T)
    np.testing.assert_allclose(c, wanted, atol=1e-2)


def reason(text, gpu_name="sm_90"):
    made = libtile.compile(libtile.parse(text), gpu_name=gpu_name, launch_abi="simt", emit="tileas")
    said = re.search(rf'{NOT_SPECIALIZED} = "([^"]*)"', made.tileas)
    return said[1] if said else None


@pytest.mark.parametrize(
    ("element", "dtype", "step", "m", "n", "k", "seed"),
    [
        ("f8E4M3FN", E4M3, 128, 136, 144, 400, 1),  # ragged edges and a tail along k
        ("f16", np.float16, 64, 128, 128, 192, 2),
        pytest.param("f8E4M3FN", E4M3, 64, 72, 48, 64, 3, marks=pytest.mark.slow),  # one step
        pytest.param("f16", np.float16, 64, 128, 128, 0, 4, marks=pytest.mark.slow),  # none
    ],
)
def test_each_step_is_computed_by_itself(element, dtype, step, m, n, k, seed):
    run(element, dtype, step, m, n, k, seed, "sm_90")


def run(element, dtype, step, m, n, k, seed, gpu_name, tile=(128, 128)):
    text = scaled_steps(*tile, k=step, element=element)
    assert reason(text, gpu_name) is None
    multiply(text, dtype, step, (m, n, k), seed, gpu_name, (-(-m // tile[0]), -(-n // tile[1]), 1))


def multiply(text, dtype, step, size, seed, gpu_name, grid, more=None):
    """Run a product whose steps count i + 1 times, and that adds `more` of its left operand."""
    m, n, k = size
    rng = np.random.default_rng(seed)
    a, b = ((rng.standard_normal(shape) / 2).astype(dtype) for shape in ((m, k), (n, k)))
    c, factors = np.full((m, n), 7, np.float32), 1 + np.arange(k) // step
    libtile.run(
        libtile.parse(text), "gemm", grid=grid, args=[a, b, c, m, n, k],
        backend="simulator", gpu_name=gpu_name, check="full", block_order=seed,
    )  # fmt: skip
    a, b = (x.astype(np.float32) for x in (a, b))
    np.testing.assert_allclose(c, (a * factors) @ b.T + (0 if more is None else more(a)), atol=1e-2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_each_step_is_right_in_every_schedule(seed):
    test_each_step_is_computed_by_itself("f8E4M3FN", E4M3, 128, 136, 144, 400, seed)


@pytest.mark.parametrize(
    ("element", "dtype", "step", "size", "seed", "tile", "gpu_name"),
    [
        ("f8E4M3FN", E4M3, 128, (136, 144, 400), 1, (128, 128), "sm_100"),  # ragged edges and a tail along k
        ("f16", np.float16, 64, (72, 40, 64), 2, (64, 32), "sm_103"),  # one step for four warps
        ("f16", np.float16, 64, (128, 64, 0), 3, (128, 64), "sm_110"),  # none
        pytest.param("f8E4M3FN", E4M3, 256, (136, 144, 768), 4, (128, 128), "sm_100", marks=pytest.mark.slow),
        pytest.param("f16", np.float16, 32, (264, 72, 160), 5, (256, 64), "sm_100", marks=pytest.mark.slow),
    ],
)
def test_each_step_has_a_result_in_tensor_memory(element, dtype, step, size, seed, tile, gpu_name):
    run(element, dtype, step, *size, seed, gpu_name, tile)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_results_in_tensor_memory_in_every_schedule(seed):
    run("f8E4M3FN", E4M3, 64, 136, 72, 64 * 9, seed, "sm_100", (128, 64))


@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in range(2, 20))])
def test_results_in_tensor_memory_over_several_tiles(seed):
    """More steps than stages in a tile, tiles at the edges, and one block that has no second tile."""
    text = persistent(text=scaled_steps(128, 64, 32, "f16"), m=128, n=64)
    assert reason(text, "sm_100") is None
    multiply(text, np.float16, 32, (264, 72, 336), seed, "sm_100", (4, 1, 1))


def test_products_of_one_step_share_a_tile():
    """Each step adds (i + 1) * (a_i @ b_i) + a_i @ a_i, of which a_i is loaded once."""
    text, tile = scaled_steps(64, 64, 64, "f16"), "tile<64x64xf32>"
    text = text.replace(
        "%d = addf %acc, %q",
        f"%p2 = mmaf %x, %x, %none : tile<64x64xf16>, tile<64x64xf16>, {tile}\n"
        f"      %d2 = addf %acc, %p2 : {tile}\n      %d = addf %d2, %q",
    )
    made = libtile.compile(libtile.parse(text), gpu_name="sm_100", launch_abi="simt", emit="tileas").tileas
    assert made.count("async.dot_into") == 2 and len(re.findall("tiled_tma_load ", made)) == 2

    def squares(a):
        return sum(x @ x for x in (a[:, i : i + 64] for i in (0, 64, 128)))

    multiply(text, np.float16, 64, (64, 64, 192), 4, "sm_100", (1, 1, 1), squares)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in ("missing release", "early release") else pytest.mark.slow)
        for name in BROKEN
    ],
)
def test_broken_turns_of_results_are_found(name):
    """In the module with the pipelines of tiles and results, by the first turn of each kind."""
    found = []
    lower(
        libtile.parse(scaled_steps(64, 64, 32, "f16")).op, Options("sm_100", emit="tileas"),
        observer=lambda name, module: found.append(print_op(module)) if name == "tileas-specialize" else None,
    )  # fmt: skip
    change, expected = BROKEN[name]
    module = libtile.parse(found[0]).op
    change(module)
    for seed in (None, 1):
        with pytest.raises((SimulationFault, DiagnosticError, LoweringError)) as caught:
            multiply(print_op(module), np.float16, 32, (64, 64, 32 * 20), seed, "sm_100", (1, 1, 1))
        fault = caught.value
        if isinstance(expected, str):
            assert expected in str(fault)
        else:
            assert isinstance(fault, SimulationFault) and fault.kind in expected | {"divergent-barrier"}, str(fault)


def test_results_in_tensor_memory_take_turns():
    """Two of them, so that one is multiplied while one is read."""
    made = libtile.compile(libtile.parse(scaled_steps()), gpu_name="sm_100", emit="tileas", launch_abi="simt").tileas
    assert "buffer<2x128x128xf32, tmem>" in made and made.count("async.dot_into") == 1
    assert "agent_warps = [8, 1, 1]" in made


def test_code_of_an_fp8_product_with_factors_in_tensor_memory():
    made = libtile.compile(libtile.parse(scaled_steps()), gpu_name="sm_100")
    kernel = read_cubin(made.cubin).kernels["gemm"]
    assert kernel.frame == 0 and kernel.registers <= 168
    products = min((x for x in loops_of(made.cubin) if any("UTCQMMA" in line for line in x)), key=len)
    assert sum("UTCQMMA" in line for line in products) == 4 and len(products) <= 52


@pytest.mark.parametrize(
    ("tile", "said"),
    [
        ((128, 256), "results of 128x256 and their sums do not fit the registers of 8 warps"),
        ((32, 128), "tcgen05.mma does not multiply e4m3 and e4m3 into f32 in tiles of 32x128x128"),
    ],
)
def test_what_is_not_computed_of_tensor_memory_says_why(tile, said):
    assert reason(scaled_steps(*tile), "sm_100") == said


def test_code_of_an_fp8_product_with_factors():
    made = libtile.compile(libtile.parse(scaled_steps()), gpu_name="sm_90")
    assert "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3" in made.ptx
    kernel = read_cubin(made.cubin).kernels["gemm"]
    assert (kernel.frame, kernel.registers) == (0, 168)


@pytest.mark.parametrize(("gpu_name", "most"), [("sm_120", 250), ("sm_80", 3400)])
def test_products_beside_the_sums_that_a_loop_carries_have_eight_warps(gpu_name, most):
    """128x128 of each are 256 registers of a thread of four warps: 176 bytes of stack on sm_120, 408 on sm_80."""
    made = libtile.compile(libtile.parse(scaled_steps()), gpu_name=gpu_name)
    assert read_cubin(made.cubin).kernels["gemm"].frame == 0
    tensor = "QMMA" if gpu_name == "sm_120" else "HMMA"
    products = min((x for x in loops_of(made.cubin) if any(tensor in line for line in x)), key=len)
    assert len(products) <= most


def test_sums_of_more_than_128_products_of_8_bits_stay_in_f32():
    assert reason(scaled_steps(64, 64, 256)).endswith("for more than 128 of them")
