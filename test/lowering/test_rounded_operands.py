# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products of f32 that are rounded to tf32: TMA rounds them on their way to shared memory, and wgmma multiplies."""

import re

import numpy as np
import pytest
from pass_checks import check_passes
from specialized_kernels import loops_of
from test_specialized import specialized, tile_gemm

import libtile
from libtile.numerics import tf32


def rounded(m=64, n=64, k=32, transposed=True, rounding="nearest_even") -> str:
    """`tile_gemm` of f32, whose operands are rounded to tf32."""
    text = tile_gemm(m=m, n=n, k=k, element="f32", transposed=transposed)
    a, b, c = f"tile<{m}x{k}xf32>", f"tile<{k}x{n}xf32>", f"tile<{m}x{n}xf32>"
    ra, rb = a.replace("f32", "tf32"), b.replace("f32", "tf32")
    how = "" if rounding == "nearest_even" else f" rounding<{rounding}>"
    return text.replace(
        f"%d = mmaf %x, %y, %acc : {a}, {b}, {c}",
        f"%xr = ftof %x{how} : {a} -> {ra}\n      %yr = ftof %y{how} : {b} -> {rb}\n"
        f"      %d = mmaf %xr, %yr, %acc : {ra}, {rb}, {c}",
    )


def as_tf32(values: np.ndarray) -> np.ndarray:
    return tf32.nearest(values.view(np.uint32)).view(np.float32)


def arguments(m: int, n: int, k: int) -> list:
    rng = np.random.default_rng(m + n + k)
    a, b = rng.standard_normal((m, k)).astype(np.float32), rng.standard_normal((n, k)).astype(np.float32)
    return [a, b, np.full((m, n), 7, np.float32), m, n, k]


def as_truncated(values: np.ndarray) -> np.ndarray:
    return (values.view(np.uint32) & ~tf32.LOW_BITS).view(np.float32)


def run(
    text: str, m: int, n: int, k: int, tile: tuple[int, int], order=None, *, transposed=True, truncates=False,
    gpu_name="sm_90",
) -> None:  # fmt: skip
    a, b, c, *rest = arguments(m, n, k)
    given = [a, b if transposed else np.ascontiguousarray(b.T), c, *rest]
    libtile.run(
        libtile.parse(text), "gemm", grid=(-(-m // tile[0]), -(-n // tile[1]), 1), args=given, backend="simulator",
        gpu_name=gpu_name, check="full", block_order=order,
    )  # fmt: skip
    ways = (as_truncated, as_tf32) if truncates else (as_tf32, as_truncated)
    wanted, other = (how(a).astype(np.float64) @ how(b).astype(np.float64).T for how in ways)
    # Truncated, operands differ by 2**-10: sums of k products with them are farther off than this.
    np.testing.assert_allclose(c, wanted, rtol=0, atol=k * 2e-6)
    assert np.abs(other - wanted).max() > 10 * k * 2e-6


@pytest.mark.parametrize(("m", "n"), [(64, 64), (128, 32)])
def test_f32_is_rounded_by_tma(m, n):
    """Tiles at the edges, and fewer steps of k than stages."""
    made, reason = specialized(rounded(m, n))
    assert reason is None and "mma_atom<wgmma, 64x" in made
    assert re.search(r"make_tiled_tma_desc .*tma_internal_type = !?\S*tf32", made) and "fp_to_fp" not in made
    run(rounded(m, n), m + 16, n + 16, 80, (m, n), order=1)


@pytest.mark.parametrize("transposed", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_f32_is_rounded_by_tma_for_products_of_registers(transposed):
    text = rounded(64, 32, transposed=transposed)
    made = libtile.compile(libtile.parse(text), gpu_name="sm_120", launch_abi="simt", emit="tileas").tileas
    assert re.search(r"make_tiled_tma_desc .*tma_internal_type = !?\S*tf32", made) and "fp_to_fp" not in made
    run(text, 80, 48, 80, (64, 32), 1, transposed=transposed, gpu_name="sm_120")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_f32_is_rounded_by_tma_in_every_schedule(seed):
    run(rounded(), 80, 64, 32 * 6 + 16, (64, 64), order=seed)


@pytest.mark.slow
def test_what_tma_does_not_round_and_wgmma_does_not_read_warps_make_in_between():
    """Operands that are not contiguous along k, and ones that are truncated."""
    for options in ({"k": 8, "transposed": False}, {"rounding": "zero"}):
        text = rounded(**options)
        made, reason = specialized(text)
        assert reason is None and "mma_atom<wgmma, 64x" in made and "tma_internal_type = !tf32" not in made
        size = 6 * options.get("k", 32) + 4
        run(
            text, 80, 80, size, (64, 64), order=2,
            transposed=options.get("transposed", True), truncates="rounding" in options,
        )  # fmt: skip


def test_rounding_by_tma_changes_nothing():
    assert check_passes(libtile.parse(rounded()).op, "gemm", (1, 1, 1), lambda: arguments(64, 64, 48)) > 10


def test_numbers_are_rounded_to_the_nearest():
    one = np.float32(1).view(np.uint32)
    words = [one + 0xFFF, one + 0x1000, one + 0x1001, one + 0x3000, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x80000001]
    wanted = [one, one, one + 0x2000, one + 0x4000, 0x7F800000, 0x7F800000, 0xFF800000, 0x80000000]
    np.testing.assert_array_equal(tf32.nearest(np.array(words, np.uint32)), np.array(wanted, np.uint32))
    assert np.isnan(tf32.nearest(np.array([0x7F800001, 0xFFFFFFFF], np.uint32)).view(np.float32)).all()


def test_code_of_rounded_operands():
    """128x128x64: 73 instructions, none of which round; 958 by mma.sync, and the reference assembler has 96."""
    made = libtile.compile(libtile.parse(rounded(128, 128, 64)), gpu_name="sm_90")
    loop = min((x for x in loops_of(made.cubin) if any("HGMMA" in line for line in x)), key=len)
    assert sum("HGMMA.64x128x8" in line for line in loop) == 16 and len(loop) <= 80
    assert made.kernels["gemm"].spills == 0 and "(C75" not in made.log
