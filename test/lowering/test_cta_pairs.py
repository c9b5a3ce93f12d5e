# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products of a pair of CTAs (tcgen05, cta_group::2): each has half of the rows, and half of the right operand, and the
first one of the two issues the products of both."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest
from specialized_kernels import loops_of
from test_persistent import persistent
from test_specialized import operands, specialized, tile_gemm

import libtile
from libtile.atoms import tcgen05
from libtile.backend.ptxas import assemble
from libtile.runtime.tensor_maps import tensor_map
from libtile.simulator import EncodedTensorMap, SimulationFault, run_ptx
from libtile.support.diagnostics import DiagnosticError
from libtile.targets import target

SM_100 = target("sm_100")


def pair(kernel=tile_gemm, **options):
    """A kernel whose tile blocks are clusters of two CTAs."""
    return kernel(hints="num_cta_in_cga = 2", **options)


def aligned(text):
    """The same with a result that TMA can store."""
    element = re.search(r"%c0: tile<ptr<(\w+)>>", text)[1]
    made = f"%c1 = assume div_by<16>, %c0 : tile<ptr<{element}>>\n    %tc = make_tensor_view %c1"
    return text.replace("%tc = make_tensor_view %c0", made)


def run(text, m, n, k, grid, order=None, transposed=False):
    a, b, c, wanted = operands(m, n, k, transposed)
    libtile.run(libtile.parse(text), "gemm", grid=grid, args=[a, b, c, m, n, k], backend="simulator",
                gpu_name="sm_100", check="full", block_order=order)  # fmt: skip
    np.testing.assert_allclose(c, wanted, atol=1e-3)


def is_of_pairs(text):
    return specialized(text, "sm_100")[0].count("cluster_barrier") == 2


@pytest.mark.parametrize(
    ("kernel", "size", "options", "order"),
    [
        (tile_gemm, (300, 80, 208), {"n": 64}, 1),  # ragged edges and a tail along k
        (tile_gemm, (256, 144, 64), {"n": 128, "transposed": True}, None),  # a right operand contiguous along k
        (persistent, (520, 80, 144), {"n": 64}, 2),  # several tiles, in two results in turns
        (persistent, (600, 64, 80), {"m": 512, "n": 32}, 3),  # each CTA has 256 rows, by two instructions
    ],
)
def test_pairs_give_what_numpy_gives(kernel, size, options, order):
    m, n, k = size
    text = pair(kernel, **{"m": 256, **options})
    assert is_of_pairs(text)
    tile = options.get("m", 256), options["n"]
    grid = (1, 1, 1) if kernel is persistent else (-(-m // tile[0]), -(-n // tile[1]), 1)
    run(text, m, n, k, grid, order, options.get("transposed", False))


def test_no_step_at_all():
    a, b, c = np.zeros((256, 1), np.float16), np.zeros((1, 64), np.float16), np.full((256, 64), 7, np.float32)
    libtile.run(libtile.parse(pair(m=256)), "gemm", grid=(1, 1, 1), args=[a, b, c, 256, 64, 0], backend="simulator",
                gpu_name="sm_100", check="full")  # fmt: skip
    assert not c.any()


@pytest.mark.slow
@pytest.mark.parametrize("order", range(20))
@pytest.mark.parametrize(
    ("text", "size", "grid"),
    [
        (pair(m=256, n=128), (400, 144, 208), (2, 2, 1)),
        (aligned(pair(m=256, n=128)), (400, 144, 208), (2, 2, 1)),
        (aligned(pair(persistent, m=256, n=128)), (600, 272, 144), (1, 1, 1)),
        (pair(persistent, m=512, n=64), (640, 144, 144), (2, 1, 1)),
    ],
)
def test_pairs_in_any_order_of_agents(text, size, grid, order):
    run(text, *size, grid, order)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("element", "dtype", "depth", "result"),
    [
        ("bf16", ml_dtypes.bfloat16, 64, np.float32),
        ("tf32", np.float32, 32, np.float32),
        ("f8E4M3FN", ml_dtypes.float8_e4m3fn, 128, np.float32),
        ("f8E5M2", ml_dtypes.float8_e5m2, 64, np.float32),
        ("f16", np.float16, 64, np.float16),
        ("i8", np.int8, 128, np.int32),
    ],
)
def test_types_of_products_of_pairs(element, dtype, depth, result):
    """Small integers, whose products and sums are exact in each type."""
    kind = {np.float16: "f16", np.int32: "i32", np.float32: "f32"}[result]
    text = pair(m=256, n=64, k=depth, element=element, result=kind, transposed=True)
    assert is_of_pairs(text)
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-4, 5, shape).astype(dtype) for shape in ((272, 144), (64, 144)))
    c = np.zeros((272, 64), result)
    libtile.run(libtile.parse(text), "gemm", grid=(2, 1, 1), args=[a, b, c, 272, 64, 144], backend="simulator",
                gpu_name="sm_100", check="full", block_order=1)  # fmt: skip
    np.testing.assert_array_equal(c, (a.astype(np.float32) @ b.astype(np.float32).T).astype(result))


def test_where_a_pair_has_no_instruction_each_cta_multiplies_for_itself():
    """Of 16 columns neither CTA could have half."""
    text = specialized(pair(m=256, n=16), "sm_100")[0]
    assert "cluster_barrier" not in text and "mma_atom<tcgen05, 128x16x16" in text
    run(pair(m=256, n=16), 272, 16, 80, (2, 1, 1), 1)


def test_tiles_without_rows_for_both_ctas_are_for_one():
    made = libtile.compile(libtile.parse(pair(m=128)), gpu_name="sm_100", launch_abi="simt", emit="ptx")
    assert made.kernels["gemm"].cluster == (1, 1, 1) and "tcgen05.mma.cta_group::1" in made.ptx
    reason = "a product of 128x64 has no halves of 128 rows, as pairs of CTAs multiply"
    assert any(reason in str(r.arguments) for r in made.remarks)


@pytest.mark.parametrize("kernel", [tile_gemm, persistent])
def test_code_of_a_pair(kernel):
    """Products of 256 x 256 x 64: four for both CTAs, in a loop of at most 42 instructions; nothing spilled."""
    made = libtile.compile(
        libtile.parse(aligned(pair(kernel, m=256, n=256))), gpu_name="sm_100", launch_abi="simt", emit="ptx"
    )
    assert made.kernels["gemm"].cluster == (2, 1, 1)
    done = assemble(made.ptx, SM_100.ptx_target)
    report = done.kernels["gemm"]
    assert (report.spill_stores, report.spill_loads, report.stack_frame) == (0, 0, 0)
    loop = min((x for x in loops_of(done.cubin) if any("UTCHMMA" in line for line in x)), key=len)
    assert sum("UTCHMMA.2CTA" in line for line in loop) == 4 and len(loop) <= 42
    assert any("UTCBAR.2CTA.MULTICAST" in line for line in loop)
    loads = min((x for x in loops_of(done.cubin) if any("UTMALDG" in line for line in x)), key=len)
    assert sum("SYNCS" in line for line in loads) == 2  # one wait, and one arrival that says all bytes
    assert len(loads) <= 52
    (said,) = (r.arguments for r in made.remarks if r.name == "RemarkTensorCoreMMA")
    assert said == (("Instruction", "Tensor-core SM100"), ("Shape", "[256, 256, 16]"), ("NumCTAs", "2"))


@pytest.fixture(scope="module")
def small():
    text = pair(persistent, m=256, n=64)
    return libtile.compile(libtile.parse(text), gpu_name="sm_100", launch_abi="simt", emit="ptx")


@pytest.mark.parametrize(
    ("what", "instead", "number"),
    [
        (r"\.multicast::cluster\.b64 \[(%r\d+)\], m;", r".b64 [\g<1>];", 0),  # the other CTA never hears of a result
        (r"\.multicast::cluster\.b64 \[(%r\d+)\], m;", r".b64 [\g<1>];", 1),  # or that its stage is free
        # Barrier objects of the other CTA may not be there yet.
        (r"barrier\.cluster\.arrive\.relaxed\.aligned;\s*barrier\.cluster\.wait\.aligned;", "", 0),
        # No bytes that both copy are waited for.
        (r"mbarrier\.arrive\.expect_tx(\.\S*\s+%rd\d+, \[%rd\d+\]), %r\d+;", r"mbarrier.arrive\g<1>;", 0),
        (
            r"mapa\.shared::cluster\.u32 (%r\d+), (%r\d+), %r\d+;",
            r"mov.u32 \g<1>, \g<2>;",
            0,
        ),  # results given back to nobody
    ],
)
def test_code_of_a_pair_that_does_not_agree_is_a_fault(small, what, instead, number):
    a, b, c, _ = operands(768, 64, 192)
    args = [a, b, c, *(np.int32(n) for n in (768, 64, 192))]
    maps = [EncodedTensorMap(args[r.base], tensor_map(r, args, 0), 0) for r in small.kernels["gemm"].descriptors]
    place = list(re.finditer(what, small.ptx))[number]
    broken = small.ptx[: place.start()] + place.expand(instead) + small.ptx[place.end() :]
    kernel = small.kernels["gemm"]
    with pytest.raises(SimulationFault):
        run_ptx(broken, "gemm", grid=(2, 1, 1), block=kernel.block_dim, cluster=kernel.cluster,
                args=[*args, *maps], checks="full")  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "columns", "found"),
    [(128, 256, (256, 256)), (256, 128, (256, 128)), (128, 32, (256, 32)), (64, 64, None), (128, 16, None)],
)
def test_instructions_of_pairs(rows, columns, found):
    """PTX ISA, "Matrix shape" of the tcgen05 family, for cta_group::2: M = 256; half of N is in each CTA."""
    atom = tcgen05.find(SM_100, "f16", "f16", "f32", rows, columns, 64, 2)
    assert (None if atom is None else (atom.m, atom.n)) == found


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("mma_atom<tcgen05, 256x64x16", "mma_atom<tcgen05, 128x64x16", "shape"),
        (r"alloc_tensor {pair", "alloc_tensor {alignment = 3", "expects an alignment that is a power of two"),
    ],
)
def test_the_verifier_refuses(old, new, message):
    text = specialized(pair(m=256), "sm_100")[0]
    assert old in text
    with pytest.raises(DiagnosticError, match=message):
        libtile.verify(libtile.parse(text.replace(old, new)))
