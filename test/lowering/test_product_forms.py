# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products in another form, for instructions of 64 rows and more: transposed, or without a batch of 1."""

import numpy as np
import pytest
from pass_checks import check_passes
from specialized_kernels import loops_of
from test_specialized import operands, specialized, tile_gemm

import libtile


def run(text, m, n, k, tile, order=None, transposed=False, gpu_name="sm_90"):
    a, b, c, wanted = operands(m, n, k, transposed)
    done = libtile.run(
        libtile.parse(text), "gemm", grid=(-(-m // tile[0]), -(-n // tile[1]), 1), args=[a, b, c, m, n, k],
        backend="simulator", gpu_name=gpu_name, check="full", block_order=order,
    )  # fmt: skip
    np.testing.assert_allclose(c, wanted, atol=1e-3)
    return done


@pytest.mark.parametrize(("m", "n", "transposed"), [(32, 128, False), (16, 64, True), (8, 64, False)])
def test_few_rows_are_multiplied_as_few_columns(m, n, transposed):
    """Tiles at the edges; m64nMk16, whose operands change places."""
    text = tile_gemm(m=m, n=n, transposed=transposed)
    made, reason = specialized(text)
    assert reason is None and f"mma_atom<wgmma, 64x{m}x16" in made
    run(text, m + 8, n + 16, 64 * 3 + 16, (m, n), order=1, transposed=transposed)


@pytest.mark.parametrize(
    ("m", "n", "transposed", "gpu_name"),
    [
        (32, 128, False, "sm_100"),
        (16, 64, True, "sm_103"),
        pytest.param(32, 256, True, "sm_110", marks=pytest.mark.slow),
    ],
)
def test_few_rows_are_few_columns_of_tensor_memory(m, n, transposed, gpu_name):
    text = tile_gemm(m=m, n=n, transposed=transposed)
    made, reason = specialized(text, gpu_name)
    assert reason is None and f"mma_atom<tcgen05, {min(n, 128)}x{m}x16" in made
    run(text, m + 8, n + 16, 64 * 3 + 16, (m, n), order=1, transposed=transposed, gpu_name=gpu_name)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_few_rows_in_tensor_memory_in_every_schedule(seed):
    run(tile_gemm(m=16, n=64), 24, 64, 64 * 10 + 16, (16, 64), order=seed, gpu_name="sm_100")


def test_fewer_rows_than_tensor_memory_has_columns_for_stay_as_they_are():
    made, _ = specialized(tile_gemm(m=8, n=128, element="tf32"), "sm_100")
    assert "mma_atom<tcgen05" not in made
    assert "mma_atom<tcgen05, 128x8x16" in specialized(tile_gemm(m=8, n=128), "sm_100")[0]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_few_rows_in_every_schedule(seed):
    run(tile_gemm(m=16, n=64), 24, 64, 64 * 10 + 16, (16, 64), order=seed)


def batched(m=64, n=64, k=64) -> str:
    """`tile_gemm` whose product has a batch of 1."""
    a, b, c = (f"tile<{x}x{y}x{e}>" for x, y, e in ((m, k, "f16"), (k, n, "f16"), (m, n, "f32")))
    one_a, one_b, one_c = (t.replace("tile<", "tile<1x") for t in (a, b, c))
    text = tile_gemm(m=m, n=n, k=k)
    text = text.replace(f"-> ({c}) {{", f"-> ({one_c}) {{").replace(f"continue %d : {c}", f"continue %d : {one_c}")
    text = text.replace(f"constant <f32: 0.0> : {c}", f"constant <f32: 0.0> : {one_c}")
    text = text.replace(
        f"%d = mmaf %x, %y, %acc : {a}, {b}, {c}",
        f"%xx = reshape %x : {a} -> {one_a}\n      %yy = reshape %y : {b} -> {one_b}\n"
        f"      %d = mmaf %xx, %yy, %acc : {one_a}, {one_b}, {one_c}",
    )
    return text.replace(
        "    %w = store_view_tko weak %r,", f"    %rr = reshape %r : {one_c} -> {c}\n    %w = store_view_tko weak %rr,"
    )


@pytest.mark.slow
def test_a_batch_of_one_is_a_product_of_matrices():
    made, reason = specialized(batched())
    assert reason is None and "mma_atom<wgmma, 64x64x16" in made
    run(batched(), 72, 80, 64 * 3, (64, 64), order=2)


def test_other_forms_change_nothing():
    def arguments():
        a, b, c, _ = operands(40, 64, 80)
        return [a, b, c, 40, 64, 80]

    assert check_passes(libtile.parse(tile_gemm(m=32, n=64)).op, "gemm", (2, 1, 1), arguments) > 10


def test_code_of_few_rows():
    """Eight products of 64x32x16 in a loop of at most 60 instructions; the reference assembler has 109, by mma.sync."""
    made = libtile.compile(libtile.parse(tile_gemm(m=32, n=128)), gpu_name="sm_90")
    loop = min((x for x in loops_of(made.cubin) if any("HGMMA" in line for line in x)), key=len)
    assert sum("HGMMA.64x32x16" in line for line in loop) == 8 and len(loop) <= 60
    assert made.kernels["gemm"].spills == 0 and "(C75" not in made.log
