# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A producer agent whose warps copy with cp.async, and warps that multiply registers by mma.sync (sm_80 to sm_89, and
sm_120 where TMA does not copy an operand).
Cases in twenty schedules each, and broken ones, are slow:

    python -m pytest -m "slow or not slow" test/lowering/test_copying_producers.py
"""

import re
from functools import partial

import ml_dtypes
import numpy as np
import pytest
from attention_kernels import attention
from broken_turns import BROKEN
from test_fed_loops import aligned
from test_persistent import persistent
from test_pipelines import CARRIED, POINTERS, arrays, module, product_text
from test_specialized import main_loop, operands, tile_gemm
from test_specialized_chains import run as run_attention
from test_worked_programs import CODE_BROKEN

import libtile
from libtile import cutile
from libtile.asm import print_op
from libtile.compiler.options import Options
from libtile.compiler.stages import lower
from libtile.lowering.discardable import NOT_SPECIALIZED
from libtile.simulator import SimulationFault, parse_ptx, run_ptx
from libtile.support.diagnostics import DiagnosticError, LoweringError

SCHEDULES = range(20)


def compiled(given, gpu_name="sm_80", **options):
    given = libtile.parse(given) if isinstance(given, str) else given
    options = {"schedule": "specialized", **options}
    return libtile.compile(given, gpu_name=gpu_name, launch_abi="simt", keep_text=True, **options)


def parted(text, gpu_name="sm_80", **options):
    """(text in nv_tileas, why no producer feeds its loop or None)"""
    made = compiled(text, gpu_name, emit="tileas", **options).tileas
    said = re.search(rf'{NOT_SPECIALIZED} = "([^"]*)"', made)
    assert ("agent_switch" in made) == (said is None)
    return made, said[1] if said else None


def launcher(given, gpu_name="sm_80"):
    """What runs a kernel with a producer, with every check on, as run(args, grid, order=...): compiled once."""
    made = compiled(given, gpu_name, emit="ptx")
    assert "agent_switch" in made.tileas and "cp.async" in made.ptx
    ((name, kernel),) = made.kernels.items()
    ptx = parse_ptx(made.ptx)

    def run(args, grid=(1, 1, 1), order=None):
        given = [np.int32(value) if isinstance(value, int) else value for value in args]
        done = run_ptx(ptx, name, grid=grid, block=kernel.block_dim, args=given, checks="full", order=order)
        assert done.counters.bank_conflicts == 0

    return run


# -- products ---------------------------------------------------------------------------------------------------------

SMALL = {"m": 64, "n": 32}
PRODUCTS = {
    "small": ((24, 28, 84), {"m": 32, "n": 32, "k": 32}, 4),  # one block, cut by all ends
    "whole": ((64, 32, 256), SMALL, 16),
    "ragged": ((72, 48, 144), SMALL, 16),  # a tail along k
    "transposed": ((64, 40, 96), SMALL | {"k": 32, "transposed": True}, 16),
    "one step": ((64, 32, 64), SMALL, 16),
    "eight warps": ((64, 64, 96), {"m": 64, "n": 64, "k": 32, "hints": "num_worker_warps = 8"}, 16),
    "8 bytes": ((72, 44, 148), SMALL, 4),  # known to be aligned
    "cut by the end": ((72, 43, 147), SMALL, 1),
    "in parts": ((72, 48, 160), SMALL | {"hints": "occupancy = 8"}, 16),  # of which there are too few stages as a whole
}
"""Sizes, options of `tile_gemm`, and what is known to divide n and k."""


def product(name, orders):
    (m, n, k), options, known = PRODUCTS[name]
    text = aligned(tile_gemm(**options))
    text = text.replace("div_by<16>, %n1", f"div_by<{known}>, %n1").replace("div_by<16>, %k1", f"div_by<{known}>, %k1")
    run = launcher(text)
    for order in orders:
        a, b, c, wanted = operands(m, n, k, options.get("transposed", False))
        run([a, b, c, m, n, k], (-(-m // options["m"]), -(-n // options["n"]), 1), order)
        np.testing.assert_allclose(c, wanted, atol=1e-3)


def test_a_fed_loop_gives_what_numpy_gives():
    product("small", [1])


@pytest.mark.slow
@pytest.mark.parametrize("name", PRODUCTS)
def test_a_fed_loop_is_right_in_every_schedule(name):
    product(name, SCHEDULES)


def test_copies_arrive_by_themselves():
    """Two warps copy, whose 64 threads arrive when their copies have, and one of each warp; four warps release."""
    made = compiled(tile_gemm(**SMALL), emit="ptx")
    assert made.kernels["gemm"].block_dim[0] == 192
    assert "cp.async.mbarrier.arrive.noinc.shared.b64" in made.ptx and "cp.async.cg" in made.ptx
    assert "setmaxnreg" not in made.ptx and "cp.async.wait_group" not in made.ptx
    assert "full_arrivals = 66 : i32" in made.tileas and "empty_arrivals = 4 : i32" in made.tileas


def test_the_default_stays_as_it_is():
    made = [compiled(tile_gemm(**SMALL), emit="ptx", schedule=schedule).ptx for schedule in ("", "pipelined")]
    assert made[0] == made[1] and "mbarrier" not in made[0] and "cp.async.wait_group" in made[0]


def test_code_of_a_fed_loop():
    """Warps that only multiply: nothing is spilled, and the loop is little more than its products."""
    made = compiled(aligned(tile_gemm(m=128, n=128)))
    kernel = made.kernels["gemm"]
    assert kernel.spills == 0 and kernel.block_dim[0] == 256
    loop = main_loop(made.cubin, "HMMA")
    assert len(loop) <= 190 and sum("HMMA" in line for line in loop) == 128
    assert not any("LDGSTS" in line for line in loop)


TYPES = {
    "f16": ("f16", "f32", np.float16, "sm_80"),
    "bf16": ("bf16", "f32", ml_dtypes.bfloat16, "sm_80"),
    "tf32": ("tf32", "f32", np.float32, "sm_80"),
    "f64": ("f64", "f64", np.float64, "sm_80"),
    "i8": ("i8", "i32", np.int8, "sm_80"),
    "i8 on sm_86": ("i8", "i32", np.int8, "sm_86"),
    "f8": ("f8E4M3FN", "f32", ml_dtypes.float8_e4m3fn, "sm_89"),
}


@pytest.mark.slow
@pytest.mark.parametrize("transposed", [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize("name", TYPES)
def test_operands_of_all_kinds_are_right_in_every_schedule(name, transposed):
    element, result, dtype, gpu_name = TYPES[name]
    run = launcher(product_text(32, 32, 64, element, result, transposed), gpu_name)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (256, 256)).astype(dtype) for _ in range(2))
    x, y = (v.astype(np.float32).T if of else v.astype(np.float32) for v, of in zip((a, b), transposed))
    for order in SCHEDULES:
        c = np.zeros((256, 256), {"i32": np.int32, "f32": np.float32, "f64": np.float64}[result])
        run([a, b, c], order=order)
        np.testing.assert_array_equal(c[:32, :32], (x[:32, :128] @ y[:128, :32]).astype(c.dtype))


# -- tiles of pointers ------------------------------------------------------------------------------------------------


def through_pointers(depth, orders, gpu_name="sm_80"):
    """Pointers and masks that the loop carries, in the layouts of other warps."""
    given = module(CARRIED, POINTERS)
    sizes = [depth, 0, -(-depth // 32), 1]
    a, b, wanted = arrays(depth)
    libtile.run(given, "k", args=[a, b, wanted, *sizes], backend="interpreter")
    run = launcher(given, gpu_name)
    for order in orders:
        a, b, c = arrays(depth)
        run([a, b, c, *sizes], order=order)
        np.testing.assert_array_equal(c, wanted)


def test_pointers_that_a_loop_carries_are_copied_under_their_masks():
    through_pointers(80, [1])


@pytest.mark.slow
@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_120"])
@pytest.mark.parametrize("depth", [32, 96, 208])
def test_pointers_are_right_in_every_schedule(depth, gpu_name):
    through_pointers(depth, SCHEDULES, gpu_name)


def test_threads_copy_beside_tma_what_that_does_not():
    """Carried pointers stay pointers where their indices may wrap around."""
    through_pointers(80, [2], "sm_120")


def test_places_that_only_copies_need_take_nothing_of_the_warps_that_multiply():
    """Tiles of pointers and masks would be 160 registers; all stages have their place beside what is exchanged."""
    made = compiled(module(CARRIED, POINTERS), "sm_120")
    (kernel,) = made.kernels.values()
    assert kernel.spills == 0 and kernel.registers <= 64
    loop = main_loop(made.cubin, "HMMA")
    assert len(loop) <= 64 and not any("LDG" in line for line in loop)


def test_rows_that_numbers_choose_are_copied_by_threads_on_sm_120():
    """TMA gathers none there. Nothing but products and what they read is left of the loop."""
    pytest.importorskip("cuda.tile")
    from cutile.models.problems import FULL, PROBLEMS

    problem = PROBLEMS["moe_gather"](FULL)
    code = cutile.bytecode_for(problem.kernel, problem.args, gpu_name="sm_120")[0]
    made = libtile.compile(code, gpu_name="sm_120", keep_text=True)
    (done,) = made.kernels.values()
    assert done.spills == 0 and done.block_dim[0] == 32 * (4 + 4) and done.registers <= 208
    loop = main_loop(made.cubin, "HMMA")
    assert len(loop) <= 200 and not any(re.search("LDG|STS", line) for line in loop)
    assert "cp.async.cg.shared.global" in made.ptx and done.smem > 3 * 2 * 2 * 128 * 64  # three stages


# -- other loops ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_persistent_kernels_are_right_in_every_schedule():
    run = launcher(persistent())
    for order in SCHEDULES:
        a, b, c, wanted = operands(136, 80, 208)
        run([a, b, c, 136, 80, 208], (2, 1, 1), order)
        np.testing.assert_allclose(c, wanted, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("d", "rows"), [(32, 40), (64, 64), (128, 64)])
def test_attention_is_right_in_every_schedule(d, rows, causal):
    shape = 32 if d == 32 else 64, 32, d
    text = attention(*shape, causal=causal)
    assert parted(text)[0].count("create_pipeline") == 2
    for order in SCHEDULES:
        run_attention(text, *shape, rows, rows, causal=causal, gpu_name="sm_80", order=order)


# -- why not ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            tile_gemm(m=64, padding="padding_value = neg_inf, "),
            "#A is not copied by threads: asynchronous copies pad with zeros, not with neg_inf",
        ),
        (
            attention(128, 64, 256),
            "a thread has 168 registers beside warps that copy, and its products take 228",
        ),
    ],
    ids=["padding", "registers"],
)
def test_why_a_loop_is_not_parted(text, reason):
    assert parted(text)[1] == reason


# -- broken -----------------------------------------------------------------------------------------------------------

SIZE = (32, 32, 32 * 7)
FEW = tile_gemm(m=32, n=32, k=32, hints="occupancy = 20")
"""A product with two stages."""


@pytest.fixture(scope="module")
def agents():
    """It in nv_tileas, as its agents are made."""
    found = []

    def keep(name, made):
        if name == "tileas-specialize":
            found.append(print_op(made))

    lower(libtile.parse(FEW).op, Options("sm_80", emit="tileas", schedule="specialized"), observer=keep)
    return found[0]


@pytest.mark.slow
@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_turn_is_found(agents, what):
    change, expected = BROKEN[what]
    made = libtile.parse(agents).op
    change(made)
    a, b, c, _ = operands(*SIZE)
    with pytest.raises((SimulationFault, DiagnosticError, LoweringError)) as caught:
        libtile.run(libtile.parse(print_op(made)), args=[a, b, c, *SIZE], backend="simulator", gpu_name="sm_80",
                    check="full", block_order=len(what))  # fmt: skip
    if isinstance(expected, str):
        assert expected in str(caught.value)
    else:
        assert isinstance(caught.value, SimulationFault) and caught.value.kind in expected


NO_END = {"deadlock", "divergent-barrier"}
ARRIVAL = r"cp\.async\.mbarrier\.arrive\S*\s+\[.*\];"
CHANGES = {**CODE_BROKEN, "copies do not arrive": (partial(re.sub, ARRIVAL, ""), NO_END)}


@pytest.mark.parametrize(
    "what", [pytest.param(what, marks=[] if what.startswith("copies") else pytest.mark.slow) for what in CHANGES]
)
def test_broken_code_is_found(what):
    made = compiled(FEW, emit="ptx")
    change, kinds = CHANGES[what]
    ptx = change(made.ptx)
    assert ptx != made.ptx
    a, b, c, _ = operands(*SIZE)
    for seed in (None, 1):
        with pytest.raises(SimulationFault) as caught:
            run_ptx(ptx, "gemm", block=made.kernels["gemm"].block_dim, args=[a, b, c, *map(np.int32, SIZE)], order=seed)
        assert caught.value.kind in kinds, str(caught.value)
