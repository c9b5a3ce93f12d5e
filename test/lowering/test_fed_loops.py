# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A producer agent that copies by TMA, and warps that multiply registers by mma.sync (sm_120)."""

import re

import ml_dtypes
import numpy as np
import pytest
from attention_kernels import attention
from scaled_kernels import Scaled
from test_persistent import persistent
from test_rounded_operands import rounded
from test_specialized import main_loop, operands, tile_gemm
from test_specialized_chains import run as run_attention

import libtile
from libtile.lowering.discardable import NOT_SPECIALIZED

DTYPES = {"f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2}


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


def test_which_tile_may_be_a_branchs_result():
    """The producer's places come from numbers that a branch computes in front of both agents: it stays one, as it
    divides by a number that may be zero."""
    branch = """%p0, %by, %bz = get_tile_block_id : tile<i32>
    %0 = constant <i32: 0> : tile<i32>
    %first = cmpi equal %p0, %0, signed : tile<i32> -> tile<i1>
    %bx = if %first -> (tile<i32>) {
      yield %p0 : tile<i32>
    } else {
      %all = muli %p0, %n : tile<i32>
      %row = divi %all, %n signed : tile<i32>
      yield %row : tile<i32>
    }
"""
    text = tile_gemm(m=64, n=32).replace("%bx, %by, %bz = get_tile_block_id : tile<i32>\n", branch)
    made, reason = parted(text)
    assert reason is None and made.index("arith.divsi") < made.index("agent_switch")
    a, b, c, wanted = operands(136, 64, 144)
    run(text, [a, b, c, 136, 64, 144], (3, 2, 1), block_order=1)
    np.testing.assert_allclose(c, wanted, atol=1e-3)


@pytest.mark.parametrize("text", [tile_gemm(m=64), persistent()])
def test_loops_of_no_steps_give_zeros(text):
    a, b, c = np.zeros((64, 1), np.float16), np.zeros((1, 64), np.float16), np.full((64, 64), 7, np.float32)
    run(text, [a, b, c, 64, 64, 0])
    assert not c.any()


# -- steps in parts ---------------------------------------------------------------------------------------------------


def aligned(text):
    """With a result that TMA stores."""
    known = "    %c = assume div_by<16>, %c0 : tile<ptr<f32>>\n    %m = assume"
    return text.replace("    %m = assume", known, 1).replace("make_tensor_view %c0", "make_tensor_view %c")


@pytest.mark.parametrize(
    ("m", "n", "k", "options", "order"),
    [
        (72, 48, 160, {"n": 32, "hints": "occupancy = 5"}, 1),  # ragged edges, a tail along k, and two parts
        pytest.param(64, 32, 64, {"n": 32, "hints": "occupancy = 8"}, 2, marks=pytest.mark.slow),  # four of one step
        pytest.param(64, 40, 208, {"n": 32, "transposed": True, "hints": "occupancy = 5"}, 3, marks=pytest.mark.slow),
    ],
)
def test_tiles_of_which_too_few_stages_fit_come_in_parts(m, n, k, options, order):
    text = aligned(tile_gemm(m=64, **options))
    made, said = parted(text)
    parts = 2 if "5" in options["hints"] else 4
    assert (
        said is None and made.count("tiled_tma_load") == 2 * parts and f"(!nv_tileas.buffer<64x{64 // parts}x" in made
    )
    a, b, c, wanted = operands(m, n, k, options.get("transposed", False))
    run(text, [a, b, c, m, n, k], (-(-m // 64), -(-n // 32), 1), block_order=order)
    np.testing.assert_allclose(c, wanted, atol=1e-3)


@pytest.mark.parametrize(
    ("n", "hints", "buffers"),
    [(64, "occupancy = 8", 1), pytest.param(128, "occupancy = 5", 2, marks=pytest.mark.slow)],
)
def test_results_that_stages_do_not_hold_are_stored_in_parts(n, hints, buffers):
    """Through one buffer part by part, or through two that take turns."""
    text = aligned(tile_gemm(m=64, n=n, k=16, hints=hints))
    made = parted(text)[0]
    assert made.count("async.tiled_tma_store") == n // 32 and made.count("alloc_tensor") == buffers
    a, b, c, wanted = operands(72, n + 16, 48)
    run(text, [a, b, c, 72, n + 16, 48], (2, 2, 1), block_order=1)
    np.testing.assert_allclose(c, wanted, atol=1e-3)


def test_code_of_products_whose_steps_come_in_parts():
    """f32 rounded to tf32 by TMA, whose tiles of a step take all shared memory: nothing is converted or spilled."""
    made = libtile.compile(libtile.parse(aligned(rounded(128, 256, 64))), gpu_name="sm_120")
    assert made.kernels["gemm"].spills == 0 and "cvt.rna.tf32" not in made.ptx
    loop = main_loop(made.cubin, "HMMA")
    assert len(loop) <= 350 and sum("HMMA" in line for line in loop) == 256


# -- loops over tiles -------------------------------------------------------------------------------------------------


def run_persistent(text, m, n, k, blocks, order):
    a, b, c, wanted = operands(m, n, k)
    run(text, [a, b, c, m, n, k], (blocks, 1, 1), block_order=order)
    np.testing.assert_allclose(c, wanted, atol=1e-3)


@pytest.mark.parametrize(
    ("m", "n", "k", "blocks", "options"),
    [
        (136, 80, 208, 2, {}),  # more steps than stages in one tile
        (64, 144, 64, 1, {"n": 32}),  # several tiles in the stages at once
        pytest.param(136, 144, 144, 1, {"m": 128, "n": 128}, marks=pytest.mark.slow),
        pytest.param(72, 144, 144, 2, {"m": 64, "hints": "num_worker_warps = 8"}, marks=pytest.mark.slow),
    ],
)
def test_a_producer_goes_through_the_tiles_of_a_persistent_kernel(m, n, k, blocks, options):
    text = persistent(**options)
    inner, said = parted(text)
    assert said is None and inner.count("async.tiled_tma_load") == 2
    run_persistent(text, m, n, k, blocks, 1)


def test_tiles_of_a_persistent_kernel_come_in_parts():
    text = aligned(persistent(hints="occupancy = 3"))
    inner, said = parted(text)
    assert said is None and inner.count("async.tiled_tma_load") == 4 and inner.count("async.tiled_tma_store") == 2
    run_persistent(text, 64, 128, 80, 1, 1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_persistent_kernels_in_other_schedules(seed):
    run_persistent(persistent(n=32), 136, 80, 144, 1 + seed % 2, seed)


def test_what_a_loop_over_tiles_carries_stays_with_those_who_compute():
    """Each tile is the sum of all products so far: the producer needs none of it."""
    text = persistent("%total : tile<64x64xf32>")
    store = re.search(r" *%w = store_view_tko .*\n", text)[0]
    total = "      %total = addf %sum, %r : tile<64x64xf32>\n"
    text = text.replace(store, total + store.replace("%r, %vc", "%total, %vc"))
    a, b, c, wanted = operands(64, 128, 80)
    assert parted(text)[1] is None
    run(text, [a, b, c, 64, 128, 80])
    np.testing.assert_allclose(c, np.concatenate([wanted[:, :64], wanted[:, :64] + wanted[:, 64:]], axis=1), atol=1e-3)


@pytest.mark.parametrize(("n", "threads", "length"), [(128, 160, 190), (256, 384, 205)])
def test_code_of_a_persistent_kernel(n, threads, length):
    """Stages, and a buffer for what is stored: nothing is spilled, nor by who copies and computes the tiles' places."""
    tile = f"tile<128x{n}xf32>"
    text = persistent(m=128, n=n).replace("?x?xf32", "?x?xf16").replace("ptr<f32>", "ptr<f16>")
    text = text.replace("%w =", f"%h = ftof %r : {tile} -> tile<128x{n}xf16>\n    %w =")
    text = text.replace(f"%r, %vc[%bx, %by] : {tile}", f"%h, %vc[%bx, %by] : tile<128x{n}xf16>")
    made = libtile.compile(libtile.parse(text), gpu_name="sm_120")
    kernel = made.kernels["gemm"]
    assert kernel.spills == 0 and kernel.block_dim[0] == threads
    loop = main_loop(made.cubin, "HMMA")
    assert len(loop) <= length and sum("HMMA" in line for line in loop) == 128


@pytest.mark.parametrize(
    ("element", "dtype", "result"), [("i8", np.int8, "i32"), ("f8E4M3FN", ml_dtypes.float8_e4m3fn, "f32")]
)
@pytest.mark.parametrize("lies", [(1, 0), (1, 1), (0, 1)])
def test_bytes_are_multiplied_whichever_way_they_lie(element, dtype, result, lies):
    """The dimensions along which the operands are contiguous: `ldmatrix` transposes those that are not so along k."""
    m, n, k = 64, 32, 160
    text = tile_gemm(m=m, n=n, k=64, element=element, result=result, transposed=lies[1] == 0)
    if lies[0] == 0:
        view = f"tile=({m}x64), tensor_view<?x?x{element}, strides=[?,1]>"
        text = text.replace(view, f"{view}, dim_map=[1, 0]")
        text = text.replace("[%m, %k], strides = [%k", "[%k, %m], strides = [%m")
        text = text.replace("%m = assume bounded<0, ?>, %m0", "%m1 = assume bounded<0, ?>, %m0")
        text = text.replace("    %n = assume", "    %m = assume div_by<16>, %m1 : tile<i32>\n    %n = assume", 1)
    assert parted(text)[1] is None
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, shape).astype(dtype) for shape in ((m, k), (k, n)))
    c = np.full((m, n), 7, np.int32 if result == "i32" else np.float32)
    given = [np.ascontiguousarray(v if along else v.T) for v, along in zip((a, b), lies)]
    run(text, [*given, c, m, n, k], block_order=1)
    np.testing.assert_array_equal(c, (a.astype(np.float32) @ b.astype(np.float32)).astype(c.dtype))


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


def scaled_gemm(m, n, k, element="f8E4M3FN"):
    """c = (a * sa) (b * sb)^T with a factor for each 32 elements along k; the factors of a row lie side by side."""
    names = {
        "a": (element, m, k),
        "b": (element, n, k),
        "sa": ("f8E8M0FNU", m, k // 32),
        "sb": ("f8E8M0FNU", n, k // 32),
    }
    views, loads = [], []
    for name, (held, rows, columns) in names.items():
        of_b = name in ("b", "sb")
        tile = (columns, rows) if of_b else (rows, columns)
        tensor = f"tensor_view<?x?x{held}, strides=[?,1]>"
        order = ", dim_map=[1, 0]" if of_b else ""
        view = f"partition_view<tile=({tile[0]}x{tile[1]}), padding_value = zero, {tensor}{order}>"
        size, index = ("%n" if of_b else "%m"), ("%i, %by" if of_b else "%bx, %i")
        width = "%blocks" if name in ("sa", "sb") else "%k"
        views.append(f"""%{name}1 = assume div_by<16>, %{name}0 : tile<ptr<{held}>>
    %t{name} = make_tensor_view %{name}1, shape = [{size}, {width}], strides = [{width}, 1] : tile<i32> -> {tensor}
    %v{name} = make_partition_view %t{name} : {view}""")
        loads.append(f"%{name}, %w{name} = load_view_tko weak %v{name}[{index}] : {view}, tile<i32> -> "
                     f"tile<{tile[0]}x{tile[1]}x{held}>, token")  # fmt: skip
    given = ", ".join(f"%{name}0: tile<ptr<{held}>>" for name, (held, _, _) in names.items())
    types = f"tile<{m}x{k}x{element}>, tile<{k}x{n}x{element}>, tile<{m}x{n}xf32>"
    types += f", tile<{m}x{k // 32}xf8E8M0FNU>, tile<{k // 32}x{n}xf8E8M0FNU>"
    out = "tensor_view<?x?xf32, strides=[?,1]>"
    to = f"partition_view<tile=({m}x{n}), {out}>"
    head, body = "\n    ".join(views), "\n      ".join(loads)
    return f"""cuda_tile.module @kernels {{
  entry @gemm({given}, %c: tile<ptr<f32>>, %m0: tile<i32>, %n0: tile<i32>, %k0: tile<i32>, %blocks0: tile<i32>) {{
    %m = assume bounded<0, ?>, %m0 : tile<i32>
    %n = assume bounded<0, ?>, %n0 : tile<i32>
    %k1 = assume bounded<0, ?>, %k0 : tile<i32>
    %k = assume div_by<16>, %k1 : tile<i32>
    %blocks = assume bounded<0, ?>, %blocks0 : tile<i32>
    {head}
    %tc = make_tensor_view %c, shape = [%m, %n], strides = [%n, 1] : tile<i32> -> {out}
    %vc = make_partition_view %tc : {to}
    %bx, %by, %bz = get_tile_block_id : tile<i32>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %step = constant <i32: {k}> : tile<i32>
    %last = constant <i32: {k - 1}> : tile<i32>
    %more = addi %k, %last : tile<i32>
    %steps = divi %more, %step signed : tile<i32>
    %none = constant <f32: 0.0> : tile<{m}x{n}xf32>
    %r = for %i in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<{m}x{n}xf32>) {{
      {body}
      %d = mmaf_scaled %a, %b, %acc, %sa, %sb : {types}
      continue %d : tile<{m}x{n}xf32>
    }}
    %w = store_view_tko weak %r, %vc[%bx, %by] : tile<{m}x{n}xf32>, {to}, tile<i32> -> token
    return
  }}
}}
"""


@pytest.mark.parametrize(
    ("m", "n", "k", "tile", "element"),
    [
        (72, 40, 160, (64, 32, 64), "f8E4M3FN"),  # ragged edges and a tail along k
        (32, 32, 256, (32, 32, 128), "f8E5M2"),  # two slices in a step
    ],
)
def test_products_with_factors_take_them_in_the_instruction(m, n, k, tile, element):
    text, dtype = scaled_gemm(*tile, element), DTYPES[element]
    assert parted(text)[1] is None
    rng = np.random.default_rng(m)
    a, b = (rng.integers(-3, 4, (lines, k)).astype(dtype) for lines in (m, n))
    factors = [np.exp2(rng.integers(-3, 4, (lines, k // 32))).astype(ml_dtypes.float8_e8m0fnu) for lines in (m, n)]
    c = np.full((m, n), 7, np.float32)
    grid = -(-m // tile[0]), -(-n // tile[1]), 1
    run(text, [a, b, *factors, c, m, n, k, k // 32], grid, block_order=1)
    x, y = (v.astype(np.float64) * f.astype(np.float64).repeat(32, 1) for v, f in zip((a, b), factors))
    np.testing.assert_array_equal(c, (x @ y.T).astype(np.float32))


PACKED = {"element": "f4E2M1FN", "in_pieces": False, "m": 64, "n": 32}


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        ({"factors": "f8E4M3FN", "block": 16}, (72, 40, 288)),  # ragged edges and a tail along k
        pytest.param({}, (72, 40, 288), marks=pytest.mark.slow),
        pytest.param({"block": 16, "k": 256}, (64, 32, 544), marks=pytest.mark.slow),
        pytest.param({"factors": "f8E4M3FN", "block": 16, "k": 64}, (64, 32, 160), marks=pytest.mark.slow),
        pytest.param({"factors": "f8E4M3FN", "block": 16, "in_pieces": True, "m": 128, "n": 128}, (136, 72, 288),
                     marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_operands_of_4_bits_with_factors_are_multiplied_as_bytes(options, sizes):
    kernel = Scaled(**{**PACKED, **options})
    made, why = parted(kernel.text)
    assert why is None and "packed" in made and "bitcast" not in made
    args, wanted = kernel.problem(*sizes, seed=1)
    grid = -(-sizes[0] // kernel.m), -(-sizes[1] // kernel.n), 1
    run(kernel.text, args, grid, block_order=1)
    np.testing.assert_array_equal(args[4], wanted)


def test_operands_that_a_frontend_makes_flat_are_read_slice_by_slice():
    made, why = parted(Scaled(**PACKED, k=256).text)
    assert why is None and made.count("nv_tileas.scaled_dot") == 2 and "tile<16384xi8" not in made


def test_packed_operands_mean_the_same_in_every_dialect():
    kernel = Scaled(**PACKED)
    args, wanted = kernel.problem(64, 32, 256)
    made = libtile.compile(libtile.parse(kernel.text), gpu_name="sm_120", emit="tileas", schedule="serial").tileas
    assert "packed" in made
    libtile.run(libtile.parse(made), "gemm", grid=(1, 1, 1), args=args, backend="interpreter")
    np.testing.assert_array_equal(args[4], wanted)


def test_code_of_a_product_of_4_bits_with_factors():
    """Two stages and more, nothing spilled, and a loop of at most 200 instructions (an aim for 128x256x128)."""
    kernel = Scaled(**{**PACKED, "m": 128, "n": 256, "factors": "f8E4M3FN", "block": 16})
    text = kernel.text.replace("assume bounded<0, ?>, %blocks0", "assume div_by<16>, %blocks0")
    made = libtile.compile(libtile.parse(text), gpu_name="sm_120", keep_text=True)
    assert made.ptx.count("kind::mxf4nvf4.block_scale.scale_vec::4X") == 64 and "C7506" not in made.log
    assert int(re.findall(r"!nv_tileas\.pipeline<(\d+)", made.tileas)[0]) >= 2
    loop = main_loop(made.cubin, "OMMA")
    assert len(loop) <= 200 and not any("LDL" in line or "STL" in line for line in loop)


def test_code_of_a_product_with_factors():
    """Two stages and more, nothing spilled, and a loop of at most 200 instructions (an aim for 128x256x64)."""
    text = scaled_gemm(128, 256, 64).replace("assume bounded<0, ?>, %blocks0", "assume div_by<16>, %blocks0")
    made = libtile.compile(libtile.parse(text), gpu_name="sm_120", keep_text=True)
    assert made.ptx.count("block_scale") == 64 and "C7506" not in made.log
    assert int(re.findall(r"!nv_tileas\.pipeline<(\d+)", made.tileas)[0]) >= 2
    loop = main_loop(made.cubin, "MMA")
    assert len(loop) <= 200 and not any("LDL" in line or "STL" in line for line in loop)


def test_why_a_loop_is_not_fed_is_said():
    text = tile_gemm(m=64).replace("(%zero to %dims#1, step %one)", "(%zero to %one, step %one)")
    inner, said = parted(text)
    assert said == "no operand is loaded by a view in a loop" and "cp.async" not in inner


def test_tiles_that_a_hint_keeps_from_tma_are_copied_by_threads():
    text = tile_gemm(m=64).replace(
        "weak %va[%bx, %i]", "weak %va[%bx, %i] optimization_hints = <default = {allow_tma = false}>"
    )
    inner, said = parted(text)
    assert said is None and "by_threads" in inner and "tiled_tma_load" not in inner


def test_code_of_a_fed_loop_of_bytes():
    """A right operand that lies along its columns is the left one of the product's transpose: no register is moved."""
    made = libtile.compile(libtile.parse(tile_gemm(128, 128, 64, "f8E4M3FN")), gpu_name="sm_120")
    loop = main_loop(made.cubin, "QMMA")
    assert len(loop) <= 105 and sum("QMMA" in line for line in loop) == 64
    assert sum("LDSM" in line for line in loop) == 16 and sum("LDSM.8.MT1616" in line for line in loop) == 8


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
