# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels that work through several tiles with a producer and consumers: places in rings go from tile to tile."""

from __future__ import annotations

import re

import numpy as np
import pytest
from specialized_kernels import loops_of
from test_specialized import operands, specialized, tile_gemm

import libtile
from libtile.backend.ptxas import assemble
from libtile.runtime.tensor_maps import tensor_map
from libtile.simulator import EncodedTensorMap, SimulationFault, run_ptx
from libtile.targets import target

TARGETS = ("sm_90", "sm_100")
NUMBERS = "    %zero = constant <i32: 0> : tile<i32>\n    %one = constant <i32: 1> : tile<i32>\n"


def persistent(carried: str = "", *, text: str = "", m: int = 64, n: int = 64, **options: object) -> str:
    """`tile_gemm`, or a text like it, whose blocks go through the tiles of c from their own number on, in steps of the
    grid. What it carries is stored behind the loop, where c has no elements."""
    tile = f"tile<{m}x{n}xf32>"
    text = text or tile_gemm(m=m, n=n, **options)
    view = re.search(r"%vc = make_partition_view .*? : (.*)", text)[1]
    begin, end = text.index("    %dims:2 ="), text.index("    return\n")
    body = text[begin:end].replace(NUMBERS, "")
    head = text[:begin].replace("%bx, %by, %bz = get_tile_block_id", "%p0, %p1, %p2 = get_tile_block_id")
    values = f"iter_values(%sum = %nothing) -> ({tile}) " if carried else ""
    last = f"    %past = store_view_tko weak %end, %vc[%tiles#0, %zero] : {tile}, {view}, tile<i32> -> token\n"
    return f"""{head}{NUMBERS}    %nothing = constant <f32: 0.0> : {tile}
    %g0, %g1, %g2 = get_num_tile_blocks : tile<i32>
    %tiles:2 = get_index_space_shape %vc : {view} -> tile<i32>
    %all = muli %tiles#0, %tiles#1 : tile<i32>
    %end{":1" if carried else ":0"} = for %tile in (%p0 to %all, step %g0) : tile<i32> {values}{{
      %bx = divi %tile, %tiles#1 signed : tile<i32>
      %by = remi %tile, %tiles#1 signed : tile<i32>
{body}      continue {carried}
    }}
{last if tile in carried else ""}{text[end:]}""".replace("    %end:0 = for", "    for")


def run(text, m, n, k, blocks, order=None, gpu_name="sm_100"):
    a, b, c, wanted = operands(m, n, k)
    libtile.run(libtile.parse(text), "gemm", grid=(blocks, 1, 1), args=[a, b, c, m, n, k], backend="simulator",
                gpu_name=gpu_name, check="full", block_order=order)  # fmt: skip
    np.testing.assert_allclose(c, wanted, atol=1e-3)


@pytest.mark.parametrize("gpu_name", TARGETS)
@pytest.mark.parametrize(("m", "n", "k", "blocks", "order"), [(136, 80, 208, 2, 1), (64, 144, 64, 1, None)])
def test_blocks_go_through_tiles_with_a_producer(m, n, k, blocks, order, gpu_name):
    """More steps than stages in one tile, and several tiles in the stages at once; tiles at the edges."""
    text = persistent()
    assert specialized(text, gpu_name)[1] is None
    run(text, m, n, k, blocks, order, gpu_name)


@pytest.mark.parametrize("gpu_name", TARGETS)
def test_tiles_without_steps(gpu_name):
    a, b, c = np.zeros((128, 1), np.float16), np.zeros((1, 64), np.float16), np.full((128, 64), 7, np.float32)
    libtile.run(libtile.parse(persistent()), "gemm", grid=(1, 1, 1), args=[a, b, c, 128, 64, 0], backend="simulator",
                gpu_name=gpu_name, check="full")  # fmt: skip
    assert not c.any()


@pytest.mark.parametrize("gpu_name", TARGETS)
def test_a_loop_over_tiles_may_carry_tiles(gpu_name):
    """Which the consumers have: here the last product, for the next tile."""
    text = persistent("%r : tile<64x64xf32>")
    assert specialized(text, gpu_name)[1] is None
    run(text, 136, 80, 80, 2, 1, gpu_name)


def test_tiles_around_a_loop_that_take_too_many_registers():
    said = specialized(persistent("%r : tile<128x256xf32>", m=128, n=256), "sm_90")[1]
    assert said == "a thread has 232 registers, of which accumulators of 128x256 take 128 and tiles around its loop 128"


# -- results in tensor memory -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("m", "n", "options", "results"),
    [
        (128, 256, {}, 2),  # all columns
        (256, 128, {}, 2),
        (256, 256, {}, 1),  # one result has all of them
        (128, 256, {"k": 32, "hints": "occupancy = 2"}, 1),  # of two blocks on a multiprocessor each has half
    ],
)
def test_the_next_result_is_computed_while_one_is_stored_where_columns_allow(m, n, options, results):
    text, reason = specialized(persistent(m=m, n=n, **options), "sm_100")
    assert reason is None
    assert f"!nv_tileas.buffer<{results}x{m}x{n}xf32, tmem>" in text


def narrow(m: int, n: int) -> str:
    """With results of f16 that TMA could store."""
    tile, known = f"tile<{m}x{n}xf32>", "    %c = assume div_by<16>, %c0 : tile<ptr<f16>>\n    %m = assume"
    text = persistent(m=m, n=n).replace("?x?xf32", "?x?xf16").replace("ptr<f32>", "ptr<f16>")
    text = text.replace("    %m = assume", known, 1).replace("make_tensor_view %c0", "make_tensor_view %c")
    text = text.replace("%w =", f"%h = ftof %r : {tile} -> tile<{m}x{n}xf16>\n    %w =")
    return text.replace(f"%r, %vc[%bx, %by] : {tile}", f"%h, %vc[%bx, %by] : tile<{m}x{n}xf16>")


def test_threads_store_what_would_leave_no_room_for_stages():
    """Buffers of 128 KiB, beside which two stages of 80 KiB do not fit."""
    text, reason = specialized(narrow(128, 512), "sm_100")
    assert reason is None and text.count("tma_load") > 0 and 'not_tma = "pipelines leave' in text
    assert re.search(r"!nv_tileas\.pipeline<(\d+), \(!nv_tileas\.buffer<128x64x", text)[1] == "2"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_large_tiles_that_threads_store(seed):
    m, n, k = 136, 528, 144
    a, b, c, wanted = operands(m, n, k, result=np.float16)
    libtile.run(libtile.parse(narrow(128, 512)), "gemm", grid=(2, 1, 1), args=[a, b, c, m, n, k], backend="simulator",
                gpu_name="sm_100", check="full", block_order=seed)  # fmt: skip
    np.testing.assert_allclose(c, wanted, rtol=2e-3, atol=2e-2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(
    ("size", "options"),
    [
        ((200, 144, 208, 2), {}),
        ((300, 272, 144, 1), {"m": 128, "n": 128}),
        ((264, 528, 80, 1), {"m": 256, "n": 256}),  # one result, which its warps give back part by part
        ((144, 528, 80, 1), {"m": 128, "n": 256, "transposed": True}),
    ],
)
def test_tiles_in_any_order_of_agents(size, options, seed):
    m, n, k, blocks = size
    a, b, c, wanted = operands(m, n, k, options.get("transposed", False))
    libtile.run(libtile.parse(persistent(**options)), "gemm", grid=(blocks, 1, 1), args=[a, b, c, m, n, k],
                backend="simulator", gpu_name="sm_100", check="full", block_order=seed)  # fmt: skip
    np.testing.assert_allclose(c, wanted, atol=1e-3)


@pytest.fixture(scope="module")
def small():
    return libtile.compile(libtile.parse(persistent()), gpu_name="sm_100", launch_abi="simt", emit="ptx")


@pytest.mark.parametrize(
    ("what", "instead", "number"),
    [
        (r"tcgen05\.wait::ld\.sync\.aligned;", "", 1),
        (r"tcgen05\.fence::before_thread_sync;", "", 1),  # a result is given back with nothing said of its loads
        (r"tcgen05\.commit\.\S+ \[%r\d+\];", "", 0),  # a result is never handed on
        (r"(mov\.b32\s+%r\d+, )4;", r"\g<1>1;", 0),  # one of four warps is enough to give it back
    ],
)
def test_code_with_a_broken_turn_of_results_is_a_fault(small, what, instead, number):
    a, b, c, _ = operands(192, 128, 64)
    args = [a, b, c, *(np.int32(n) for n in (192, 128, 64))]
    maps = [EncodedTensorMap(args[r.base], tensor_map(r, args, 0), 0) for r in small.kernels["gemm"].descriptors]
    place = list(re.finditer(what, small.ptx))[number]
    broken = small.ptx[: place.start()] + place.expand(instead) + small.ptx[place.end() :]
    with pytest.raises(SimulationFault):
        run_ptx(broken, "gemm", block=small.kernels["gemm"].block_dim, args=[*args, *maps], checks="full")


def test_code_of_large_tiles():
    """Four products in a loop of at most 42 instructions, whose turns also go on from tile to tile; nothing spilled."""
    gpu = target("sm_100")
    made = libtile.compile(libtile.parse(persistent(m=128, n=256)), gpu_name=gpu.name, launch_abi="simt", emit="ptx")
    done = assemble(made.ptx, gpu.ptx_target)
    report = done.kernels["gemm"]
    assert (report.spill_stores, report.spill_loads, report.stack_frame) == (0, 0, 0)
    assert report.registers <= 96
    loops = [loop for loop in loops_of(done.cubin) if sum("UTCHMMA" in line for line in loop) == 4]
    assert len(min(loops, key=len)) <= 42
    assert any(len(loop) <= 75 for loop in loops[1:])  # that of tiles, around it
