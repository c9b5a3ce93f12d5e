# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loops with products that feed another one, on targets with tensor memory: attention on sm_100."""

import re

import numpy as np
import pytest
from attention_kernels import attention
from specialized_kernels import loops_of
from test_specialized_chains import run, run_with_more_scores, with_more_scores

import libtile
from libtile.backend.ptxas import assemble
from libtile.lowering.discardable import NOT_SPECIALIZED
from libtile.support.diagnostics import LoweringError
from libtile.targets import target


def lowered(text):
    """(text in nv_tileas, why products stay as they are)"""
    made = libtile.compile(
        libtile.parse(text), gpu_name="sm_100", launch_abi="simt", emit="tileas", schedule="specialized"
    )
    return made.tileas, re.findall(rf'{NOT_SPECIALIZED} = "([^"]*)"', made.tileas)


def aligned(text):
    """What is stored lies as TMA stores it: part by part, in the stages of queries that all products have read."""
    given = "%o16 = assume div_by<16>, %o0 : tile<ptr<f16>>\n    %to = make_tensor_view %o16"
    return text.replace("%to = make_tensor_view %o0", given)


@pytest.mark.parametrize(
    ("n", "d", "rows", "columns", "causal", "order"),
    [
        (64, 64, 72, 300, False, 1),  # ragged edges
        (128, 128, 128, 256, True, 3),  # all columns of tensor memory
        pytest.param(64, 64, 128, 64, False, None, marks=pytest.mark.slow),  # one iteration
        pytest.param(64, 64, 256, 256, True, 2, marks=pytest.mark.slow),
        pytest.param(128, 128, 256, 384, True, 4, marks=pytest.mark.slow),
        pytest.param(32, 128, 300, 500, False, 5, marks=pytest.mark.slow),
        pytest.param(128, 64, 128, 640, False, 6, marks=pytest.mark.slow),
    ],
)
def test_attention_gives_what_numpy_gives(n, d, rows, columns, causal, order):
    text = attention(128, n, d, causal)
    if order == 1:
        text = aligned(text)
    made, reasons = lowered(text)
    assert reasons == [] and made.count("async.dot_into") == 3  # the first one stands in front of the loop, too
    assert made.count("async.tiled_tma_store") == (2 if order == 1 else 0)
    run(text, 128, n, d, rows, columns, causal, order=order, gpu_name="sm_100")


@pytest.mark.parametrize(
    ("n", "d", "rows", "columns", "causal", "order"),
    [
        (64, 64, 72, 160, True, 1),  # ragged edges; each of the two threads with a row has 32 columns
        (32, 128, 64, 96, False, 3),  # two parts of the sums; scores of 16 columns for each thread
        pytest.param(128, 128, 128, 320, True, 2, marks=pytest.mark.slow),
        pytest.param(16, 64, 64, 40, False, 4, marks=pytest.mark.slow),
        pytest.param(128, 32, 64, 256, False, 5, marks=pytest.mark.slow),
    ],
)
def test_attention_with_64_rows_a_block(n, d, rows, columns, causal, order):
    text = aligned(attention(64, n, d, causal))
    made, reasons = lowered(text)
    assert reasons == [] and made.count("async.dot_into") == 3 and "mma_atom<tcgen05, 64x" in made
    run(text, 64, n, d, rows, columns, causal, order=order, gpu_name="sm_100")


@pytest.mark.parametrize(
    ("n", "d", "rows", "columns", "causal", "order"),
    [
        (64, 32, 200, 100, True, 1),  # ragged edges
        pytest.param(128, 64, 256, 300, False, 2, marks=pytest.mark.slow),  # all columns of tensor memory
        pytest.param(128, 64, 300, 256, True, 3, marks=pytest.mark.slow),  # the second 128 rows are beyond the end
        pytest.param(64, 128, 256, 100, False, 4, marks=pytest.mark.slow),
        pytest.param(32, 64, 256, 32, False, 5, marks=pytest.mark.slow),  # one iteration
        pytest.param(128, 128, 200, 300, True, 6, marks=pytest.mark.slow),  # what is computed goes to shared memory
    ],
)
def test_attention_with_256_rows_a_block(n, d, rows, columns, causal, order):
    """Eight warps have a row in each thread, and rescale the sums themselves."""
    text = aligned(attention(256, n, d, causal))
    made, reasons = lowered(text)
    assert reasons == [] and made.count("async.dot_into") == 3 and "agent_warps = [8, 1, 3]" in made
    run(text, 256, n, d, rows, columns, causal, order=order, gpu_name="sm_100")


@pytest.mark.slow
@pytest.mark.parametrize(("causal", "order"), [(False, 1), (True, 2)])
def test_attention_with_one_stage_of_scores_and_of_each_operand(causal, order):
    """256 columns of sums leave 128 to scores, and tiles of 64 KiB fit shared memory once."""
    text = aligned(attention(128, 128, 256, causal))
    made, reasons = lowered(text)
    assert reasons == [] and made.count("async.dot_into") == 3
    run(text, 128, 128, 256, 160, 300, causal, order=order, gpu_name="sm_100")


@pytest.mark.slow
def test_one_agent_rescales_as_well_where_blocks_share_a_multiprocessor():
    text = attention(128, 64, 64)
    shared = re.sub(r"(entry @attention\([^)]*\))", r"\1 optimization_hints = <sm_100 = {occupancy = 2}>", text)
    assert "agent_warps = [4, 4, 1, 3]" in lowered(text)[0] and "agent_warps = [4, 1, 1]" in lowered(shared)[0]
    run(shared, 128, 64, 64, 128, 128, False, order=2, gpu_name="sm_100")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 30))
@pytest.mark.parametrize("m", [64, 128, 256])
def test_attention_in_other_schedules(seed, m):
    run(attention(m, 64, 64, seed % 2 == 0), m, 64, 64, m, 192, seed % 2 == 0, order=seed, gpu_name="sm_100")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_weights_in_shared_memory_in_other_schedules(seed):
    run(attention(256, 128, 128), 256, 128, 128, 256, 384, order=seed, gpu_name="sm_100")


@pytest.mark.parametrize(
    ("m", "rows", "columns", "order", "gpu_name"),
    [
        (128, 100, 200, 1, "sm_100"),  # ragged edges
        (64, 80, 128, 2, "sm_103"),  # one iteration for the second block, two threads with a row
        pytest.param(128, 160, 400, 3, "sm_110", marks=pytest.mark.slow),
    ],
)
def test_scores_of_two_products(m, rows, columns, order, gpu_name):
    """The second one adds to the first one's result, which nothing else waits for."""
    made, reasons = lowered(with_more_scores(m, 128, 128))
    assert reasons == [] and made.count("async.dot_into") == 5
    run_with_more_scores(m, rows, columns, order, gpu_name)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_scores_of_two_products_in_other_schedules(seed):
    run_with_more_scores(128, 128, 512, seed, "sm_100")


def test_code_of_scores_of_two_products():
    made = libtile.compile(
        libtile.parse(with_more_scores(128, 128, 128)), gpu_name="sm_100", launch_abi="simt", emit="ptx"
    )
    done = assemble(made.ptx, target("sm_100").ptx_target)
    report = done.kernels["attention"]
    assert (report.spill_stores, report.spill_loads, report.stack_frame) == (0, 0, 0) and report.registers <= 168
    products = min((x for x in loops_of(done.cubin) if any("UTCHMMA" in line for line in x)), key=len)
    assert sum("UTCHMMA" in line for line in products) == 20 and len(products) <= 135


@pytest.mark.parametrize("causal", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_code_of_attention(causal):
    """Nothing is spilled, and the loop of products keeps to what the reference's takes."""
    made = libtile.compile(
        libtile.parse(attention(128, 128, 128, causal)), gpu_name="sm_100", launch_abi="simt", schedule="specialized",
        emit="ptx",
    )  # fmt: skip
    done = assemble(made.ptx, target("sm_100").ptx_target)
    report = done.kernels["attention"]
    assert (report.spill_stores, report.spill_loads, report.stack_frame) == (0, 0, 0)
    loops = loops_of(done.cubin)
    products = min((x for x in loops if any("UTCHMMA" in line for line in x)), key=len)
    assert sum("UTCHMMA" in line for line in products) == 16 and len(products) <= 109
    softmax = min((x for x in loops if sum("MUFU.EX2" in line for line in x) > 128), key=len)
    assert sum("FFMA2" in line for line in softmax) == 64 and len(softmax) <= (850 if causal else 450)
    assert report.registers <= 168
    said = [r.arguments for r in made.remarks if r.name == "RemarkTensorCoreMMA"]
    assert {arguments[0][1] for arguments in said} == {"Tensor-core SM100"}


def test_a_ring_of_one_stage_counts_with_one_of_two():
    """A round of the sums' ring ends as the operands' rings go to their other stage, so that the thread that issues
    products has no parity of its own for them: there are the next stage, its parity, and what an acquire waits for."""
    text = attention(128, 128, 128)
    made = libtile.compile(libtile.parse(text), gpu_name="sm_100", launch_abi="simt", emit="ptx").ptx
    begins = {m[1]: m.end() for m in re.finditer(r"^(\$L__BB0_\d+):", made, re.M)}
    ends = [
        (made[begins[m[1]] : m.start()])
        for m in re.finditer(r"bra(?:\.uni)? \t(\$L__BB0_\d+);", made)
        if begins[m[1]] < m.start()
    ]
    issuing = min((loop for loop in ends if "tcgen05.mma" in loop), key=len)
    assert issuing.count("xor.b32") == 3


@pytest.mark.slow
def test_code_of_attention_whose_waits_take_uniform_registers():
    """sm_107 waits at barrier objects by uniform registers, into which addresses and parities go first."""
    made = libtile.compile(libtile.parse(attention(128, 128, 128)), gpu_name="sm_107", launch_abi="simt", emit="ptx")
    done = assemble(made.ptx, target("sm_107").ptx_target)
    products = min((x for x in loops_of(done.cubin) if any("UTCHMMA" in line for line in x)), key=len)
    assert sum("UTCHMMA" in line for line in products) == 16 and len(products) <= 123


@pytest.mark.parametrize(
    ("m", "n", "d", "products", "each"),
    [
        (256, 128, 64, 24, (121, 476)),
        pytest.param(256, 64, 128, 24, (127, 321), marks=pytest.mark.slow),
        pytest.param(256, 128, 128, 32, (151, 525), marks=pytest.mark.slow),
        pytest.param(128, 128, 256, 24, (157, 433), marks=pytest.mark.slow),
    ],
)
def test_code_of_attention_with_all_columns_of_tensor_memory(m, n, d, products, each):
    """A stage of scores where there are columns for no more: nothing is spilled, in the loops of products and of the
    softmax neither."""
    made = libtile.compile(libtile.parse(attention(m, n, d)), gpu_name="sm_100", launch_abi="simt", emit="ptx")
    done = assemble(made.ptx, target("sm_100").ptx_target)
    report = done.kernels["attention"]
    assert (report.spill_stores, report.spill_loads, report.stack_frame) == (0, 0, 0) and report.registers <= 168
    loops = loops_of(done.cubin)
    # What tries again to wait stands behind the loops, and leads back into them.
    multiplies = min((x for x in loops if sum("UTCHMMA" in line for line in x) == products), key=len)
    softmax = min((x for x in loops if sum("MUFU.EX2" in line for line in x) > n), key=len)
    assert len(multiplies) <= each[0] * 1.05 and len(softmax) <= each[1] * 1.05


def test_code_of_attention_with_64_rows_a_block():
    """Two threads have a row: half as much to compute in a turn, and to load by 16 lanes twice."""
    made = libtile.compile(
        libtile.parse(attention(64, 128, 128)), gpu_name="sm_100", launch_abi="simt", schedule="specialized", emit="ptx"
    )
    done = assemble(made.ptx, target("sm_100").ptx_target)
    report = done.kernels["attention"]
    assert (report.spill_stores, report.spill_loads, report.stack_frame) == (0, 0, 0) and report.registers <= 168
    loops = loops_of(done.cubin)
    products = min((x for x in loops if any("UTCHMMA" in line for line in x)), key=len)
    assert sum("UTCHMMA" in line for line in products) == 16 and len(products) <= 112
    softmax = min((x for x in loops if sum("MUFU.EX2" in line for line in x) > 64), key=len)
    assert sum("LDTM.16dp32bit_t0_t15.x32" in line for line in softmax) == 2 and len(softmax) <= 265
    said = {r.arguments for r in made.remarks if r.name == "RemarkTensorCoreMMA"}
    assert said == {(("Instruction", "Tensor-core SM100"), ("Shape", "[64, 128, 16]"), ("NumCTAs", "1"))}


def test_only_what_takes_pairs_of_registers_may_ask_for_it():
    made, _ = lowered(attention(128, 64, 64))
    assert re.search(r"nv_tileaa.fma .*in_pairs", made) and re.search(r"nv_tileas.reduce .*in_pairs", made)
    wrong = re.sub(r"(nv_tileaa.exp2 %\S+ {flush_to_zero)", r"\1, in_pairs", made)
    assert wrong != made
    with pytest.raises(LoweringError, match="is not computed two registers at a time"):
        libtile.compile(libtile.parse(wrong), gpu_name="sm_100", emit="llvm")
    sums = made.replace("0.000000e+00 : f32], in_pairs", "0.000000e+00 : f32], in_threes")
    assert sums != made and "in_threes" in made
    with pytest.raises(LoweringError, match="does not compare three values at a time"):
        libtile.compile(libtile.parse(sums), gpu_name="sm_100", emit="llvm")


@pytest.mark.slow
def test_scores_that_do_not_fit_tensor_memory_beside_sums_are_products_step_by_step():
    """256 columns of scores and 64 of sums: sums stay in registers."""
    text = attention(128, 256, 64)
    made, reasons = lowered(text)
    assert reasons == [] and made.count("async.dot_into") == 2
    run(text, 128, 256, 64, 72, 300, False, order=1, gpu_name="sm_100")


def test_sums_that_do_not_start_with_zeros_are_products_step_by_step():
    """Products add to the number of each column's, which the warps store in tensor memory for them."""
    square = "tile<128x64xf32>"
    numbers = f"""%none0 = iota : tile<64xi32>
    %none1 = itof %none0 signed : tile<64xi32> -> tile<64xf32>
    %none2 = reshape %none1 : tile<64xf32> -> tile<1x64xf32>
    %none = broadcast %none2 : tile<1x64xf32> -> {square}"""
    text = attention(128, 64, 32).replace(f"%none = constant <f32: 0.0> : {square}", numbers)
    assert text != attention(128, 64, 32)
    made, reasons = lowered(text)
    assert reasons == [] and made.count("async.dot_into") == 2
    run(text, 128, 64, 32, 100, 128, order=3, gpu_name="sm_100", added=np.tile(np.arange(64), 2))


@pytest.mark.parametrize(("m", "n", "spills"), [(256, 64, 0), pytest.param(128, 64, 0, marks=pytest.mark.slow)])
def test_code_of_products_step_by_step(m, n, spills):
    """Eight warps take registers from the agents that copy and issue products."""
    text = attention(m, n, 64).replace("%none = constant <f32: 0.0>", "%none = constant <f32: 1.0>")
    made = libtile.compile(libtile.parse(text), gpu_name="sm_100", launch_abi="simt", emit="ptx")
    report = assemble(made.ptx, target("sm_100").ptx_target).kernels["attention"]
    assert (report.spill_stores, report.spill_loads) == (spills, spills) and "tcgen05.mma." in made.ptx
    assert ("setmaxnreg" in made.ptx) == (m == 256)
