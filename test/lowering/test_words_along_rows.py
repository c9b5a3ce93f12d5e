# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operands of tf32 that are not contiguous along k: on sm_100 TMA exchanges atoms of 32 bytes, tcgen05 reads them."""

import re

import numpy as np
import pytest
from pass_checks import check_passes
from specialized_kernels import loops_of
from test_rounded_operands import as_tf32, as_truncated, rounded
from test_rounded_operands import run as run_rounded
from test_specialized import specialized
from test_transposed_operands import arguments, gemm

import libtile
from libtile.atoms import tcgen05, wgmma
from libtile.atoms.cp_async import operand_shared_layout
from libtile.layouts.row_swizzles import SWIZZLES, RowSwizzle
from libtile.simulator.tensor_descriptors import decode_shared
from libtile.targets import target

SM_100 = target("sm_100")
BY_32 = RowSwizzle(128, 32)
ORDERS = [(a, b) for a in (False, True) for b in (False, True)]


def places(layout, side):
    """The byte of each element, by (row or column of the result, k)."""
    found = np.zeros(layout.shape, np.int64)
    for index, where in layout.places().items():
        found[index] = where[0]["offset"] * 4
    return found.T if side == "b" else found


# -- descriptors ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("side", "shape"), [("a", (128, 16)), ("a", (64, 8)), ("b", (32, 64)), ("b", (16, 32))], ids=str
)
def test_a_descriptor_says_where_words_are_that_lie_along_rows(side, shape):
    m, n, k = (shape[0], 32, shape[1]) if side == "a" else (128, shape[1], shape[0])
    atom = tcgen05.find(SM_100, "tf32", "tf32", "f32", m, n, k)
    layout = operand_shared_layout(shape, "tf32", "ab".index(side), 32)
    read = tcgen05.shared_operand(layout, side, atom, 4, tcgen05.transposed_atoms(SM_100, atom))
    assert read.transposed and read.swizzle == BY_32 and read.stride == 512
    outer, at = (atom.m if side == "a" else atom.n), places(layout, side)
    for first in range(0, at.shape[0], outer):
        for step in range(0, k, atom.k):
            word = tcgen05.fields(read) | read.start(first, step) >> 4
            found = decode_shared(word, side.upper(), True, True).offsets(outer, atom.k, 32, True)
            np.testing.assert_array_equal(found, at[first : first + outer, step : step + atom.k])


def test_the_descriptor_is_that_of_the_reference_assembler():
    """Of its PTX for 128x256x64: the next 32 columns 64 rows further, the next k 4 rows; steps of 8 rows."""
    atom = tcgen05.find(SM_100, "tf32", "tf32", "f32", 128, 256, 64)
    right = tcgen05.shared_operand(operand_shared_layout((64, 256), "tf32", 1, 32), "b", atom, 4, (32,))
    assert tcgen05.fields(right) == 0x2000402002000000 and right.start(0, 8) == 1024
    assert tcgen05.instruction(tcgen05.kind(SM_100, atom), atom, (False, True)) == 0x08410910


def test_other_swizzles_are_not_read():
    atom = tcgen05.find(SM_100, "tf32", "tf32", "f32", 128, 64, 32)
    known = tcgen05.transposed_atoms(SM_100, atom)
    only = "products of tf32 and tf32 read operands that are contiguous along k only"
    layout = operand_shared_layout((32, 64), "tf32", 1)
    assert tcgen05.shared_operand(layout, "b", atom, 4, known) == f"{only}, or exchanged by 32 bytes"
    along_k = operand_shared_layout((32, 64), "tf32", 0, 32)
    assert "none that a descriptor says" in tcgen05.shared_operand(along_k, "b", atom, 4, known)
    sm_90 = target("sm_90")
    product = wgmma.find(sm_90, "tf32", "tf32", "f32", 64, 64, 32)
    words = operand_shared_layout((32, 64), "tf32", 1, 32)
    assert wgmma.shared_operand(words, "b", product, 4, wgmma.transposed_atoms(sm_90, product)) == only
    halves = wgmma.find(sm_90, "f16", "f16", "f32", 64, 64, 64)
    exchanged = wgmma.shared_operand(
        operand_shared_layout((64, 64), "f16", 1, 32), "b", halves, 2, wgmma.transposed_atoms(sm_90, halves)
    )
    assert exchanged.endswith("along k only, or exchanged by 16 bytes")


# -- kernels ----------------------------------------------------------------------------------------------------------


def run(text, tile, a, b, *, more=(16, 16, 16), order=1):
    m, n, k = (side + extra for side, extra in zip((*tile[:2], 2 * tile[2]), more))
    given, wanted = arguments("f32", m, n, k, a=a, b=b)
    libtile.run(
        libtile.parse(text), "gemm", grid=(-(-m // tile[0]), -(-n // tile[1]), 1), args=given, backend="simulator",
        gpu_name="sm_100", check="full", block_order=order,
    )  # fmt: skip
    np.testing.assert_allclose(given[2].astype(np.float64), wanted, rtol=0, atol=k * 2e-5)


def both_copied(text):
    """TMA copies both operands to where products read them, and rounds them: nobody transposes."""
    made, reason = specialized(text, "sm_100")
    assert reason is None and "mma_atom<tcgen05, " in made and "fp_to_fp" not in made
    assert re.search(r"agent_warps = \[\d, 1, 1\]", made) and len(re.findall("tma_internal_type = tf32", made)) == 2
    return made


@pytest.mark.parametrize(
    ("tile", "a", "b"),
    [
        ((64, 64, 32), True, True),
        *(
            pytest.param(tile, *order, marks=pytest.mark.slow)
            for tile in ((64, 64, 32), (128, 64, 32), (256, 128, 64), (128, 256, 64)) for order in ORDERS
        ),
    ],
)  # fmt: skip
def test_words_are_multiplied_as_they_lie(tile, a, b):
    """At edges of the matrices and with a tail along k."""
    text = gemm("f32", *tile, a=a, b=b)
    both_copied(text)
    run(text, tile, a, b)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_words_are_multiplied_in_every_schedule(seed):
    run(gemm("f32", 64, 64, 32, a=True), (64, 64, 32), True, True, order=seed, more=(16, 16, 144))


@pytest.mark.slow
@pytest.mark.parametrize(("a", "b"), ORDERS)
def test_words_are_multiplied_by_pairs(a, b):
    """Each CTA has half of the columns of B."""
    text = gemm("f32", 256, 128, 32, a=a, b=b)
    text = re.sub(r"(entry @gemm\([^)]*\)[^{]*?) \{", r"\1 optimization_hints=<default = {num_cta_in_cga = 2}> {", text)
    assert "cluster_barrier" in both_copied(text)
    run(text, (256, 128, 32), a, b)


def test_rows_that_are_shorter_than_the_swizzle_are_made_along_k():
    """16 columns of f32 have 64 bytes, which no swizzle with atoms of 32 bytes has."""
    made, reason = specialized(gemm("f32", 64, 16, 32), "sm_100")
    assert reason is None and "mma_atom<tcgen05, 64x16x8" in made and made.count("tma_internal_type = tf32") == 1


@pytest.mark.slow
@pytest.mark.parametrize("columns", [16, 32, 64])
def test_operands_that_threads_make_are_right_either_way(columns):
    """Those that are truncated, which TMA does not do, and those of short rows."""
    for rounding in ("nearest_even", "zero"):
        text = rounded(64, columns, 32, transposed=False, rounding=rounding)
        made, reason = specialized(text, "sm_100")
        assert reason is None and "mma_atom<tcgen05, " in made
        run_rounded(text, 80, columns + 16, 112, (64, columns), order=2, transposed=False,
                    truncates=rounding == "zero", gpu_name="sm_100")  # fmt: skip


@pytest.mark.slow
def test_an_operand_that_threads_make_stands_beside_one_that_lies_along_rows():
    text = rounded(64, 32, 16, transposed=False)
    assert text.count("%xr = ftof %x :") == 1
    text = text.replace("%xr = ftof %x :", "%xr = ftof %x rounding<zero> :")
    made, reason = specialized(text, "sm_100")
    assert reason is None and made.count("tma_internal_type = tf32") == 1 and "mma_atom<tcgen05, 64x32x8" in made
    m, n, k = 80, 48, 112
    given, _ = arguments("f32", m, n, k, a=False, b=True)
    libtile.run(libtile.parse(text), "gemm", grid=(2, 2, 1), args=given, backend="simulator", gpu_name="sm_100",
                check="full", block_order=1)  # fmt: skip
    wanted = as_truncated(given[0]).astype(np.float64) @ as_tf32(given[1]).astype(np.float64)
    np.testing.assert_allclose(given[2].astype(np.float64), wanted, rtol=0, atol=k * 2e-5)


@pytest.mark.slow
def test_every_pass_on_the_way_keeps_the_result():
    def given():
        return arguments("f32", 64, 32, 48, a=True, b=True)[0]

    text = gemm("f32", 64, 64, 32, a=True)
    assert check_passes(libtile.parse(text).op, "gemm", (1, 1, 1), given, gpu_name="sm_100") > 10


@pytest.mark.parametrize("gpu", ["sm_103", "sm_110"])
def test_other_targets_with_tensor_memory_do_the_same(gpu):
    made = libtile.compile(libtile.parse(gemm("f32", 128, 64, 32)), gpu_name=gpu, emit="ptx")
    assert "tcgen05.mma" in made.ptx and "mma.sync" not in made.ptx
    assert [r.swizzle for r in made.kernels["gemm"].descriptors][:2] == ["128B", BY_32.name]


@pytest.mark.parametrize("gpu", ["sm_90", "sm_120"])
def test_targets_without_it_have_no_such_swizzle(gpu):
    made = libtile.compile(libtile.parse(gemm("f32", 128, 64, 32)), gpu_name=gpu, emit="ptx")
    assert {r.swizzle for r in made.kernels["gemm"].descriptors} <= {s.name for s in SWIZZLES if s != BY_32}


# -- code -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tile", "products", "most", "boxes"),
    [((128, 256, 64), 8, 48, 10), ((256, 128, 64), 16, 65, 6), ((128, 128, 64), 8, 52, 6)],
    ids=["128x256", "256x128", "128x128"],
)
def test_code_of_words_that_lie_along_rows(tile, products, most, boxes):
    """47, 64 and 51 instructions in the loop of products. Where B lies along k it has 45, 62 and 47: descriptors of A
    and B differ in their addresses alone there. By mma.sync the first two had more than 1,000."""
    made = libtile.compile(libtile.parse(gemm("f32", *tile)), gpu_name="sm_100")
    loops = loops_of(made.cubin)
    loop = min((x for x in loops if any("UTCHMMA" in line for line in x)), key=len)
    assert sum("UTCHMMA" in line for line in loop) == products and len(loop) <= most
    loads = min((x for x in loops if any("UTMALDG" in line for line in x)), key=len)
    assert sum("UTMALDG" in line for line in loads) == boxes and len(loads) <= 75
    assert made.kernels["gemm"].spills == 0 and "HMMA.1688" not in str(loops)
    (said,) = (r.arguments for r in made.remarks if r.name == "RemarkTensorCoreMMA")
    assert said == (
        ("Instruction", "Tensor-core SM100"),
        ("Shape", f"[{min(tile[0], 128)}, {tile[1]}, 8]"),
        ("NumCTAs", "1"),
    )
