# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operands of words that are not contiguous along k: threads read them to registers, slice by slice, and wgmma the
other one from shared memory. Where that is the left one, the product is turned around."""

import re

import numpy as np
import pytest
from pass_checks import check_passes
from specialized_kernels import loops_of
from test_rounded_operands import arguments as unturned
from test_rounded_operands import rounded
from test_specialized import specialized
from test_transposed_operands import arguments, gemm, run

import libtile
from libtile.atoms import wgmma
from libtile.atoms.cp_async import operand_shared_layout
from libtile.layouts import LANE, OFFSET
from libtile.layouts.parts import part_layout
from libtile.runtime.tensor_maps import tensor_map
from libtile.simulator import EncodedTensorMap, SimulationFault, run_ptx

RIGHT, LEFT = {"b": True}, {"a": True, "b": False}


def compiled(tile, **options):
    return libtile.compile(libtile.parse(gemm("f32", *tile, **options)), gpu_name="sm_90")


@pytest.mark.parametrize("rows", [64, 128])
def test_threads_that_read_pairs_of_rows_do_not_meet_in_banks(rows):
    """Nor those that store the result, whose rows are columns then, from pairs."""
    a = wgmma.in_pairs(wgmma.a_layout((rows, 8), 4, 32))
    read = operand_shared_layout((rows, 8), "f32", 0).inverse()
    sums = wgmma.in_pairs(part_layout(wgmma.accumulator_layout((rows, 32), 4), (rows, 8)))
    stored = operand_shared_layout((rows, 8), "f32", 0).inverse()
    for layout, places in ((a, read), (sums, stored)):
        for half in (0, 16):
            at = [places(**layout(register=0, warp=0, **{LANE: lane}))[OFFSET] for lane in range(half, half + 16)]
            assert all(n % 2 == 0 for n in at) and len({n // 2 % 16 for n in at}) == 16


@pytest.mark.parametrize(
    ("tile", "options"),
    [
        ((64, 64, 32), RIGHT),
        ((128, 64, 32), LEFT),
        ((32, 64, 16), RIGHT),
        pytest.param((128, 128, 64), RIGHT, marks=pytest.mark.slow),
        pytest.param((64, 256, 64), RIGHT, marks=pytest.mark.slow),
        pytest.param((128, 256, 64), RIGHT, marks=pytest.mark.slow),
        pytest.param((256, 128, 64), RIGHT, marks=pytest.mark.slow),
        pytest.param((256, 128, 32), LEFT, marks=pytest.mark.slow),
    ],
)
def test_operands_are_read_to_registers_at_edges_and_with_a_tail(tile, options):
    made, reason = specialized(gemm("f32", *tile, **options))
    assert reason is None and "first_depth" in made and re.search(r"agent_warps = \[., 4\]", made)
    m, n, k = tile
    run("f32", tile, m + 16, n + 32, 3 * k + 16, order=1, **options)


def test_no_step_and_one_step():
    for k in (0, 24):
        run("f32", (64, 64, 32), 64, 64, k)


def test_a_product_behind_such_a_loop_has_rows_as_its_own_instruction_wants_them():
    """Both of its operands are computed, so that it is mma.sync's: pairs of rows are for the loop's product alone."""
    narrow = "tile<64x64xf32> -> tile<64x64xf16>"

    def squared(text: str) -> str:
        store = text.index("store_view_tko")
        line = text.rindex("\n", 0, store)
        stored = text[store:].split()[2].rstrip(",")
        behind = f"""
    %narrow = ftof {stored} : {narrow}
    %zeros = constant <f32: 0.0> : tile<64x64xf32>
    %squared = mmaf %narrow, %narrow, %zeros : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>"""
        return text[:line] + behind + text[line:].replace(f"weak {stored},", "weak %squared,")

    text = squared(gemm("f32", 64, 64, 32, **RIGHT))
    given, _ = arguments("f32", 64, 64, 40, a=False, **RIGHT)
    given[:2] = (np.round(x / 4) for x in given[:2])
    libtile.run(libtile.parse(text), "gemm", grid=(1, 1, 1), args=given, backend="simulator", gpu_name="sm_90",
                check="full")  # fmt: skip
    half = (given[0] @ given[1]).astype(np.float16).astype(np.float32)
    np.testing.assert_array_equal(given[2], half @ half)


@pytest.mark.parametrize("k", [40, pytest.param(0, marks=pytest.mark.slow), pytest.param(336, marks=pytest.mark.slow)])
def test_slices_of_steps_that_come_in_halves(k):
    made, reason = specialized(gemm("f32", 128, 256, 64))
    assert reason is None and "pipeline<4, (" in made and "step_parts = 2" in made
    run("f32", (128, 256, 64), 128, 256, k)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("tile", "options"), [((64, 64, 32), RIGHT), ((128, 64, 16), LEFT), ((64, 256, 64), RIGHT)])
def test_operands_are_read_to_registers_in_every_schedule(tile, options, seed):
    run("f32", tile, tile[0] + 16, tile[1] + 16, 6 * tile[2] + 16, order=seed, **options)


@pytest.mark.parametrize(
    ("tile", "options"), [((64, 64, 32), {"a": True, "b": True}), ((64, 64, 8), RIGHT), ((64, 32, 16), RIGHT)]
)
def test_both_operands_short_steps_and_few_columns_go_another_way(tile, options):
    made, reason = specialized(gemm("f32", *tile, **options))
    assert reason is None and "mma_atom<wgmma" in made and "first_depth" not in made


def test_tiles_that_a_block_works_through():
    """The slices of a tile's last step have been multiplied when the next one begins."""
    head, rest = rounded(64, 64, 32, transposed=False).split("    %r = for")
    loop, tail = rest.split("    %w = store")
    body = ("    %r = for" + loop + "    %w = store" + tail.split("\n    return")[0] + "\n").replace("%by", "%tile")
    text = f"""{head}    %two = constant <i32: 2> : tile<i32>
    for %tile in (%zero to %two, step %one) : tile<i32> {{
{body}    continue
    }}
    return
  }}
}}
"""
    made, reason = specialized(text)
    assert reason is None and "first_depth" in made
    given, wanted = arguments("f32", 80, 128, 112, a=False, b=True)
    done = libtile.run(
        libtile.parse(text), "gemm", grid=(2, 1, 1), args=given, backend="simulator", gpu_name="sm_90", check="full",
    )  # fmt: skip
    np.testing.assert_allclose(given[2], wanted, rtol=0, atol=112 * 2e-5)
    assert done.bank_conflicts == 0


def test_turned_products_change_nothing():
    def given():
        a, b, *rest = unturned(64, 64, 48)  # of integers, whose sums are exact in any order
        return [np.rint(4 * a), np.ascontiguousarray(np.rint(4 * b.T)), *rest]

    assert check_passes(libtile.parse(rounded(transposed=False)).op, "gemm", (1, 1, 1), given) > 10


def test_registers_that_products_still_read_are_watched():
    """Without waits a slice is read to registers that products of the step before still read."""
    made = libtile.compile(libtile.parse(gemm("f32", 64, 64, 32)), gpu_name="sm_90", launch_abi="simt", emit="ptx")
    given, _ = arguments("f32", 64, 64, 256, a=False, b=True)
    args = [x if isinstance(x, np.ndarray) else np.int32(x) for x in given]
    maps = [EncodedTensorMap(args[r.base], tensor_map(r, args, 0), 0) for r in made.kernels["gemm"].descriptors]
    block = made.kernels["gemm"].block_dim
    run_ptx(made.ptx, "gemm", block=block, args=[*args, *maps])
    assert "wgmma.wait_group.sync.aligned 2" in made.ptx
    with pytest.raises(SimulationFault) as caught:
        broken = made.ptx.replace("wait_group.sync.aligned 2", "wait_group.sync.aligned 7")
        run_ptx(broken, "gemm", block=block, args=[*args, *maps])
    assert caught.value.kind == "async"


@pytest.mark.parametrize(
    ("tile", "product", "most"),
    [
        ((128, 128, 64), "HGMMA.64x128x8", 100),
        pytest.param((128, 256, 64), "HGMMA.64x128x8", 95, marks=pytest.mark.slow),
        pytest.param((256, 128, 64), "HGMMA.64x256x8", 70, marks=pytest.mark.slow),
    ],
)
def test_code_of_operands_in_registers(tile, product, most):
    """128x128x64: 94 instructions; two warps beside the producer took 4 x 4 words of B at a time before."""
    made = compiled(tile)
    loop = min((x for x in loops_of(made.cubin) if any("GMMA" in line for line in x)), key=len)
    assert any(product in line for line in loop) and len(loop) <= most
    assert sum("LDS.64" in line for line in loop) in (16, 32) and not any(re.search(r"\bMOV R", x) for x in loop)
    assert made.kernels["gemm"].spills == 0 and "(C75" not in made.log
