# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# ruff: noqa: E501 - views and their types are long
"""Products of several matrices at once are products of each of them, by wgmma or tcgen05, and each has tiles of its
own."""

import re

import numpy as np
import pytest
from test_specialized import main_loop, specialized

import libtile


def text(b: int, m: int, n: int, k: int, el: str = "f16", *, turned: bool = False) -> str:
    """A product of b matrices at once; the right ones lie n x k in memory where `turned`."""
    res = "i32" if el == "i8" else "f32"
    A = f"partition_view<tile=({b}x{m}x{k}), padding_value = zero, tensor_view<?x?x?x{el}, strides=[?,?,1]>>"
    B = (
        f"partition_view<tile=({b}x{k}x{n}), padding_value = zero, tensor_view<?x?x?x{el}, strides=[?,?,1]>>"
        if not turned
        else f"partition_view<tile=({b}x{k}x{n}), padding_value = zero, tensor_view<?x?x?x{el}, strides=[?,?,1]>, dim_map=[0, 2, 1]>"
    )
    C = f"partition_view<tile=({b}x{m}x{n}), tensor_view<?x?x?x{res}, strides=[?,?,1]>>"
    zero = "0" if res == "i32" else "0.0"
    mul = "mmai %x, %y, %acc signed signed" if res == "i32" else "mmaf %x, %y, %acc"
    bs = ("%n, %k", "%k") if turned else ("%k, %n", "%n")
    return f"""cuda_tile.module @m {{
  entry @kernel(%a0: tile<ptr<{el}>>, %b0: tile<ptr<{el}>>, %c0: tile<ptr<{res}>>, %g: tile<i32>, %m0: tile<i32>, %n0: tile<i32>, %k0: tile<i32>, %mk0: tile<i32>, %kn0: tile<i32>, %mn0: tile<i32>) {{
    %a1 = assume div_by<16>, %a0 : tile<ptr<{el}>>
    %b1 = assume div_by<16>, %b0 : tile<ptr<{el}>>
    %c1 = assume div_by<16>, %c0 : tile<ptr<{res}>>
    %g1 = assume bounded<0, ?>, %g : tile<i32>
    %m = assume bounded<0, ?>, %m0 : tile<i32>
    %n1 = assume bounded<0, ?>, %n0 : tile<i32>
    %k1 = assume bounded<0, ?>, %k0 : tile<i32>
    %n = assume div_by<16>, %n1 : tile<i32>
    %k = assume div_by<16>, %k1 : tile<i32>
    %mk1 = assume bounded<0, ?>, %mk0 : tile<i32>
    %mk = assume div_by<16>, %mk1 : tile<i32>
    %kn1 = assume bounded<0, ?>, %kn0 : tile<i32>
    %kn = assume div_by<16>, %kn1 : tile<i32>
    %mn1 = assume bounded<0, ?>, %mn0 : tile<i32>
    %mn = assume div_by<16>, %mn1 : tile<i32>
    %ta = make_tensor_view %a1, shape = [%g1, %m, %k], strides = [%mk, %k, 1] : tile<i32> -> tensor_view<?x?x?x{el}, strides=[?,?,1]>
    %tb = make_tensor_view %b1, shape = [%g1, {bs[0]}], strides = [%kn, {bs[1]}, 1] : tile<i32> -> tensor_view<?x?x?x{el}, strides=[?,?,1]>
    %tc = make_tensor_view %c1, shape = [%g1, %m, %n], strides = [%mn, %n, 1] : tile<i32> -> tensor_view<?x?x?x{res}, strides=[?,?,1]>
    %va = make_partition_view %ta : {A}
    %vb = make_partition_view %tb : {B}
    %vc = make_partition_view %tc : {C}
    %bx, %by, %bz = get_tile_block_id : tile<i32>
    %dims:3 = get_index_space_shape %va : {A} -> tile<i32>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <{res}: {zero}> : tile<{b}x{m}x{n}x{res}>
    %r = for %i in (%zero to %dims#2, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<{b}x{m}x{n}x{res}>) {{
      %x, %t0 = load_view_tko weak %va[%bz, %bx, %i] : {A}, tile<i32> -> tile<{b}x{m}x{k}x{el}>, token
      %y, %t1 = load_view_tko weak %vb[%bz, %i, %by] : {B}, tile<i32> -> tile<{b}x{k}x{n}x{el}>, token
      %d = {mul} : tile<{b}x{m}x{k}x{el}>, tile<{b}x{k}x{n}x{el}>, tile<{b}x{m}x{n}x{res}>
      continue %d : tile<{b}x{m}x{n}x{res}>
    }}
    %w = store_view_tko weak %r, %vc[%bz, %bx, %by] : tile<{b}x{m}x{n}x{res}>, {C}, tile<i32> -> token
    return
  }}
}}
"""


def run(tile, g: int, m: int, n: int, k: int, el="f16", order=None, turned=False, gpu_name="sm_90") -> None:
    rng = np.random.default_rng(m + n + k)
    kind, result = (np.int8, np.int32) if el == "i8" else (np.float16, np.float32)
    a, b = rng.integers(-4, 5, (g, m, k)).astype(kind), rng.integers(-4, 5, (g, k, n)).astype(kind)
    c = np.full((g, m, n), 7, result)
    stored = np.ascontiguousarray(b.transpose(0, 2, 1)) if turned else b
    grid = -(-m // tile[1]), -(-n // tile[2]), -(-g // tile[0])
    libtile.run(
        libtile.parse(text(*tile, el, turned=turned)), "kernel", grid=grid,
        args=[a, stored, c, g, m, n, k, m * k, k * n, m * n],
        backend="simulator", gpu_name=gpu_name, check="full", block_order=order,
    )  # fmt: skip
    np.testing.assert_array_equal(c, a.astype(np.float64) @ b.astype(np.float64))


@pytest.mark.parametrize(
    ("tile", "size", "options"),
    [
        ((2, 64, 32, 32), (3, 64, 32, 80), {"order": 1}),  # the last tile has one matrix, and k a tail
        pytest.param((2, 64, 32, 32), (3, 80, 48, 112), {"order": 1}, marks=pytest.mark.slow),
        ((2, 64, 32, 64), (2, 64, 32, 0), {}),  # no step at all
        pytest.param((4, 64, 64, 64), (4, 64, 64, 208), {"order": 3, "turned": True}, marks=pytest.mark.slow),
        pytest.param((2, 128, 64, 64), (2, 144, 80, 144), {"order": 2}, marks=pytest.mark.slow),
        pytest.param((2, 64, 32, 64), (3, 80, 48, 144), {"el": "i8"}, marks=pytest.mark.slow),
    ],
)
def test_matrices_are_multiplied_one_by_one(tile, size, options):
    given = {k: v for k, v in options.items() if k in ("el", "turned")}
    made, reason = specialized(text(*tile, **given))
    assert reason is None and "mma_atom<wgmma, 64x" in made
    assert len(re.findall("tiled_tma_load ", made)) == 2 * tile[0]
    run(tile, *size, **options)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_matrices_are_right_in_every_schedule(seed):
    run((2, 64, 32, 32), 3, 80, 48, 240, order=seed)


@pytest.mark.parametrize(
    ("tile", "size", "options"),
    [
        ((2, 64, 32, 32), (3, 80, 48, 112), {"order": 1}),  # edges everywhere, and a tail along k
        ((2, 128, 64, 64), (2, 144, 80, 0), {"order": 4}),  # no step at all
        ((1, 128, 64, 32), (2, 144, 80, 64), {"order": 5}),
        pytest.param((4, 128, 128, 32), (4, 128, 112, 208), {"order": 3, "turned": True}, marks=pytest.mark.slow),
        pytest.param((2, 128, 64, 64), (3, 80, 48, 144), {"el": "i8", "gpu_name": "sm_110"}, marks=pytest.mark.slow),
        pytest.param((2, 256, 64, 32), (3, 300, 80, 144), {"order": 2, "gpu_name": "sm_103"}, marks=pytest.mark.slow),
    ],
)
def test_matrices_are_multiplied_one_by_one_into_tensor_memory(tile, size, options):
    given = {k: v for k, v in options.items() if k in ("el", "turned")}
    source, gpu_name = text(*tile, **given), options.get("gpu_name", "sm_100")
    made = libtile.compile(libtile.parse(source), gpu_name=gpu_name, emit="tileas", launch_abi="simt").tileas
    assert f"mma_atom<tcgen05, {min(tile[1], 128)}x" in made and "not_specialized" not in made
    assert len(re.findall("tiled_tma_load ", made)) == 2 * tile[0] and made.count("async.dot_into") == tile[0]
    run(tile, *size, **{"gpu_name": gpu_name, **options})


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_matrices_are_right_in_tensor_memory_in_every_schedule(seed):
    run((2, 64, 32, 32), 3, 80, 48, 240, order=seed, gpu_name="sm_100")


def test_matrices_that_tensor_memory_does_not_hold_together_are_not_multiplied_there():
    made = libtile.compile(libtile.parse(text(4, 128, 256, 32)), gpu_name="sm_100", emit="tileas", launch_abi="simt")
    assert "mma_atom<tcgen05" not in made.tileas and 'not_specialized = "#A is no matrix"' in made.tileas


def test_code_of_two_matrices():
    """2x64x64x32: 44 instructions (147 by mma.sync; NVIDIA's assembler has 124)."""
    made = libtile.compile(libtile.parse(text(2, 64, 64, 32)), gpu_name="sm_90")
    assert len(main_loop(made.cubin)) <= 50 and made.kernels["kernel"].spills == 0 and "(C75" not in made.log


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("%d = mmaf %x, %y, %acc", "%e = addf %x, %x : tile<2x64x32xf16>\n      %d = mmaf %e, %y, %acc"), "batches"),
        (("constant <f32: 0.0> :", "constant <f32: 1.0> :"), None),
    ],
)
def test_what_is_not_multiplied_one_by_one(change, reason):
    source = text(2, 64, 32, 32)
    assert change[0] in source
    said = specialized(source.replace(*change))[1]
    assert (said is None) if reason is None else reason in said
