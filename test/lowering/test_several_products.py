# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loops with several products that share tiles, or sums: one ring, and one agent that issues all of them: a thread on
sm_100, warpgroups on sm_90."""

import re

import numpy as np
import pytest
from several_products import run, text
from test_specialized import main_loop, specialized

import libtile
from libtile.backend.ptxas import assemble


@pytest.mark.parametrize(
    ("options", "size", "order"),
    [
        ({}, (136, 80, 208), 3),  # ragged edges and a tail along k; a is copied once for both
        ({"kind": "apart", "m": 64}, (72, 64, 64), 1),
        ({"kind": "one"}, (128, 64, 192), 5),
        ({"persistent": True}, (264, 80, 144), 2),
        ({"apart": True, "turned": True, "n": 32}, (128, 48, 80), None),
        ({"apart": True, "begun": True}, (128, 64, 80), None),  # sums of f32 that start with ones
        ({}, (128, 64, 0), None),  # no step at all
    ],
    ids=["gated", "apart", "one-sum", "persistent", "two-results", "begun", "no-step"],
)
def test_several_products_of_a_step_are_issued_by_one_thread(options, size, order):
    source = text(**options)
    code, reason = specialized(source, "sm_100")
    kind = options.get("kind", "gated")
    assert reason is None and code.count("async.dot_into") == 2 and "nv_tileas.dot " not in code
    # A stage has each tile once.
    assert len(re.findall("tiled_tma_load ", code)) == (3 if kind == "gated" else 4)
    run(
        source, *size, (options.get("m", 128), options.get("n", 64)), kind, order=order,
        blocks=2 if options.get("persistent") else 0, apart=options.get("apart", False),
        turned=options.get("turned", False), begun=options.get("begun", False),
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("options", [{}, {"kind": "one"}, {"persistent": True}], ids=["gated", "one-sum", "persistent"])
def test_several_products_in_every_schedule(options, seed):
    blocks = 2 if options.get("persistent") else 0
    run(text(**options), 264, 80, 208, kind=options.get("kind", "gated"), order=seed, blocks=blocks)


def test_a_product_may_read_a_tile_from_both_sides():
    """x = a a^T of one load, which is permuted: copied once for each of its orders."""
    source = text(kind="one", n=128).replace("mmaf %d, %c,", "mmaf %a, %turned,")
    source = source.replace(
        "%x1 = mmaf", "%turned = permute %a [1, 0] : tile<128x64xf16> -> tile<64x128xf16>\n      %x1 = mmaf"
    )
    code, reason = specialized(source, "sm_100")
    assert reason is None and code.count("async.dot_into") == 2
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, shape).astype(np.float16) for shape in ((128, 128), (128, 128)))
    c, d = (np.zeros((128, 128), np.float16) for _ in range(2))
    e, f = (np.full((128, 128), 7, np.float32) for _ in range(2))
    libtile.run(libtile.parse(source), "kernel", grid=(1, 1, 1), args=[a, b, c, d, e, f, 128, 128, 128],
                schedule="specialized", backend="simulator", gpu_name="sm_100", check="full")  # fmt: skip
    x = a.astype(np.float32)
    np.testing.assert_array_equal(e, x @ b.astype(np.float32) + x @ x.T)


def test_code_of_a_gated_product():
    """Eight products in a loop of at most 52 instructions (NVIDIA's assembler: 87), and nothing spilled."""
    made = libtile.compile(libtile.parse(text(n=128)), gpu_name="sm_100", launch_abi="simt", emit="ptx", keep_text=True)
    built = assemble(made.ptx, "sm_100a", options=["--enable-extended-smem=true"])
    report = built.kernels["kernel"]
    assert (report.spill_stores, report.spill_loads, report.stack_frame) == (0, 0, 0)
    loop = main_loop(built.cubin, "UTCHMMA")
    assert sum("UTCHMMA" in line for line in loop) == 8 and len(loop) <= 52


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        # One that another value of the loop is made of.
        (
            ("continue %x1, %y1", "%z1 = addf %x1, %y1 : tile<128x64xf32>\n continue %z1, %y1"),
            "its result is used in the",
        ),
    ],
)
def test_what_stays_as_it_is_says_why(change, reason):
    found = re.findall(r'not_specialized = "([^"]*)', specialized(re.sub(*change, text()), "sm_100")[0])
    assert any(said.startswith(reason) for said in found)


def test_sums_have_to_fit_tensor_memory_together():
    reason = specialized(text(256, 256, apart=True), "sm_100")[1]
    assert reason == "results of 256x256 and 256x256 do not fit the 512 columns of tensor memory together"


# -- by warpgroups ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "size", "order"),
    [
        ({"n": 32}, (136, 48, 208), 3),  # ragged edges and a tail along k; a is copied once for both
        ({"kind": "one", "m": 64, "n": 32}, (64, 32, 192), 5),
        ({"persistent": True, "m": 64, "n": 32}, (136, 48, 144), 2),
        pytest.param({"kind": "apart", "m": 64}, (72, 64, 64), 1, marks=pytest.mark.slow),
        pytest.param({"apart": True, "turned": True, "n": 32}, (128, 48, 80), None, marks=pytest.mark.slow),
        ({"m": 64, "n": 32}, (64, 32, 0), None),  # no step at all
    ],
    ids=["gated", "one-sum", "persistent", "apart", "two-results", "no-step"],
)
def test_several_products_of_a_step_are_issued_by_warpgroups(options, size, order):
    source = text(**options)
    code, reason = specialized(source)
    kind = options.get("kind", "gated")
    assert reason is None and "mma_atom<wgmma" in code and "nv_tileas.dot " not in code
    assert len(re.findall("tiled_tma_load ", code)) == (3 if kind == "gated" else 4)
    assert len(re.findall("create_pipeline", code)) == 1
    run(
        source, *size, (options.get("m", 128), options.get("n", 64)), kind, order=order, gpu_name="sm_90",
        blocks=2 if options.get("persistent") else 0, apart=options.get("apart", False),
        turned=options.get("turned", False),
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("options", [{}, {"kind": "one"}, {"persistent": True}], ids=["gated", "one-sum", "persistent"])
def test_several_products_of_warpgroups_in_every_schedule(options, seed):
    blocks = 2 if options.get("persistent") else 0
    source, kind = text(m=64, n=32, **options), options.get("kind", "gated")
    run(source, 136, 48, 336, (64, 32), kind, order=seed, blocks=blocks, gpu_name="sm_90")


def test_code_of_a_gated_product_by_warpgroups():
    """128x128x64: 49 instructions and nothing spilled (NVIDIA's assembler: 277, and 512 bytes of spills)."""
    made = libtile.compile(libtile.parse(text(n=128)), gpu_name="sm_90")
    loop = main_loop(made.cubin)
    assert sum("HGMMA.64x128x16" in line for line in loop) == 8 and len(loop) <= 55
    assert made.kernels["kernel"].spills == 0 and "(C75" not in made.log


def for_one_cta(source: str) -> str:
    return re.sub(r"(entry @kernel\(.*\)) \{", r"\1 optimization_hints=<sm_90 = {num_cta_in_cga = 1}> {", source)


def test_sums_that_registers_do_not_hold_stay_with_mma_sync():
    source = for_one_cta(text(m=128, n=256))
    assert specialized(source)[1] == "its accumulator does not lie in whole rows of warps"


@pytest.mark.slow
def test_sums_that_registers_of_one_cta_do_not_hold_are_for_two():
    code, reason = specialized(text(m=128, n=256))
    assert reason is None and "mma_atom<wgmma" in code and "num_ctas=2" in code
    run(text(m=128, n=256), 136, 272, 208, (128, 256), "gated", order=1, gpu_name="sm_90")
