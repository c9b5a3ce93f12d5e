# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Steps of tiles of which fewer than three stages fit shared memory: they come in parts along k, in a stage each."""

import re

import numpy as np
import pytest
from pass_checks import check_passes
from specialized_kernels import loops_of
from test_persistent import persistent
from test_rounded_operands import rounded
from test_rounded_operands import run as run_rounded
from test_specialized import operands, specialized, tile_gemm

import libtile
from libtile.passes.pipelines import compile_pipeline

STAGES = r"!nv_tileas\.pipeline<(\d+), \(!nv_tileas\.buffer<(\d+)x(\d+)x"
DEPTHS = {"sm_90": 128, "sm_100": 256}
BLOCKS = {"sm_90": 3, "sm_100": 2}
"""Of a multiprocessor, as few as leave too little room for stages of whole steps."""
"""Of the steps of `hinted` that come in halves."""
WHOLE = compile_pipeline(3).replace("tileas-specialize", "tileas-specialize{in-parts=false}")


def stages(text: str) -> tuple[int, int]:
    """How many stages there are of what products read, and how deep their tiles are."""
    found = re.search(STAGES, text)
    return int(found[1]), int(found[3])


def hinted(occupancy: int, latency: int = 0, **options) -> str:
    """`tile_gemm` of small tiles, of which few stages fit as many blocks share a multiprocessor."""
    text = tile_gemm(**{"m": 64, "n": 32, "k": 128, "transposed": True, "hints": f"occupancy = {occupancy}", **options})
    if latency:
        hint = f" optimization_hints = <default = {{latency = {latency}}}>"
        text = text.replace("%va[%bx, %i]", f"%va[%bx, %i]{hint}").replace("%vb[%i, %by]", f"%vb[%i, %by]{hint}")
    return text


def twice(text: str) -> str:
    """A kernel whose loop has two turns."""
    text = text.replace("to %dims#1, step", "to %two, step")
    return text.replace("    %zero =", "    %two = constant <i32: 2> : tile<i32>\n    %zero =")


@pytest.mark.parametrize(
    ("text", "found", "into"),
    [
        (rounded(128, 256, 64), (4, 32), (2, 64)),  # a step has 96 KB, and two of them would fit
        (tile_gemm(128, 256, 256, transposed=True), (4, 64), (2, 128)),  # 192 KB, of which two do not fit
        (tile_gemm(128, 256, 128), (4, 64), (2, 128)),  # B is contiguous along n
    ],
)
def test_steps_come_in_parts_where_too_few_stages_fit(text, found, into):
    """Fewer than three, and on sm_100, where one thread issues all products, fewer than two."""
    for gpu_name, wanted in (("sm_90", found), ("sm_100", into)):
        made, reason = specialized(text, gpu_name)
        assert reason is None and stages(made) == wanted


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (tile_gemm(128, 256, 64, transposed=True), (4, 64)),  # four whole ones
        (rounded(128, 128, 64), (3, 64)),  # three of 64 KB
        (rounded(128, 256, 32), (4, 32)),
        (tile_gemm(256, 128, 128, element="f8E4M3FN", transposed=True), (4, 128)),  # promoted step by step
        (hinted(2, k=64), (6, 64)),
        (hinted(2, latency=3), (3, 128)),  # as many as a hint asks for
        (twice(hinted(2)), (3, 128)),
    ],
)
def test_steps_come_as_a_whole(text, found):
    made, reason = specialized(text)
    assert reason is None and stages(made) == found and "step_parts" not in made


def run(text, m, n, k, order=None, gpu_name="sm_90", blocks=None, whole=False, tile=(64, 32), transposed=True):
    """What a kernel of f16 gives."""
    a, b, c, wanted = operands(m, n, k, transposed)
    grid = (-(-m // tile[0]), -(-n // tile[1]), 1) if blocks is None else (blocks, 1, 1)
    done = libtile.run(
        libtile.parse(text), "gemm", grid=grid, args=[a, b, c, m, n, k], backend="simulator", gpu_name=gpu_name,
        check="full", block_order=order, **({"pipeline": WHOLE} if whole else {}),
    )  # fmt: skip
    np.testing.assert_allclose(c, wanted, atol=1e-3)
    assert not done.bank_conflicts
    return c


@pytest.mark.parametrize(
    ("k", "options", "gpu_name"),
    [
        (128 + 48, {}, "sm_90"),  # all of the last second part is outside of the tensors
        (256 + 144, {"transposed": False}, "sm_100"),  # some of it
        (32, {}, "sm_90"),
        pytest.param(128 * 5, {}, "sm_90", marks=pytest.mark.slow),  # more steps than stages
        pytest.param(128 * 4 + 80, {"transposed": False}, "sm_90", marks=pytest.mark.slow),
        pytest.param(256 * 4 + 16, {}, "sm_100", marks=pytest.mark.slow),
    ],
)
def test_parts_give_the_bits_of_whole_steps(k, options, gpu_name):
    text = hinted(BLOCKS[gpu_name], k=DEPTHS[gpu_name], **options)
    # Two whole steps do not fit on sm_100: there those of another depth are compared.
    other = hinted(BLOCKS[gpu_name], **options) if gpu_name == "sm_100" else text
    found = [
        run(t, 72, 48, k, 1, gpu_name, whole=t is not text or n > 0, **options) for n, t in enumerate((text, other))
    ]
    assert stages(specialized(text, gpu_name)[0]) == ((3, 64) if gpu_name == "sm_90" else (3, 128))
    np.testing.assert_array_equal(*found)


def test_no_steps_give_zeros():
    a, b, c = np.zeros((64, 1), np.float16), np.zeros((32, 1), np.float16), np.full((64, 32), 7, np.float32)
    libtile.run(libtile.parse(hinted(3)), grid=(1, 1, 1), args=[a, b, c, 64, 32, 0], backend="simulator",
                gpu_name="sm_90", check="full")  # fmt: skip
    assert not c.any()


@pytest.mark.slow
@pytest.mark.parametrize("gpu_name", ["sm_90", "sm_100"])
@pytest.mark.parametrize("seed", range(10))
def test_parts_in_every_schedule(seed, gpu_name):
    run(hinted(BLOCKS[gpu_name], k=DEPTHS[gpu_name]), 72, 48, 4 * DEPTHS[gpu_name] + 16, seed, gpu_name)


@pytest.mark.slow
def test_parts_of_large_tiles_of_tf32():
    text = rounded(128, 256, 64)
    assert stages(specialized(text)[0]) == (4, 32)
    run_rounded(text, 136, 256, 64 * 3 + 24, (128, 256), 1)


@pytest.mark.parametrize("gpu_name", [pytest.param("sm_90", marks=pytest.mark.slow), "sm_100"])
def test_parts_go_on_from_tile_to_tile(gpu_name):
    text = persistent(n=32, k=DEPTHS[gpu_name], transposed=True, hints=f"occupancy = {BLOCKS[gpu_name]}")
    assert stages(specialized(text, gpu_name)[0])[1] == DEPTHS[gpu_name] // 2
    run(text, 136, 80, 208, 1, gpu_name, blocks=2)


def test_parts_are_those_of_each_cta_of_a_cluster():
    """A part of the tile that both need is shared, too."""
    text = tile_gemm(128, 64, 128, transposed=True, hints="num_cta_in_cga = 2, occupancy = 3")
    made = specialized(text)[0]
    assert "multicast" in made and stages(made)[1] == 64
    run(text, 144, 64, 176, 1, tile=(128, 64))


def test_every_pass_keeps_parts():
    def arguments():
        rng = np.random.default_rng(1)  # integers, whose sums are exact in any order
        a, b = (rng.integers(-4, 5, (lines, 208)).astype(np.float16) for lines in (64, 32))
        return [a, b, np.full((64, 32), 7, np.float32), 64, 32, 208]

    assert check_passes(libtile.parse(hinted(3)).op, "gemm", (1, 1, 1), arguments) > 10


def test_remarks_say_in_how_many_parts_steps_come():
    for text, parts in ((hinted(3), ["2"]), (hinted(2, k=64), [])):
        made = libtile.compile(libtile.parse(text), gpu_name="sm_90", emit="llvm")
        assert [v for r in made.remarks if r.name == "RemarkTensorCoreParts" for _, v in r.arguments] == parts


@pytest.mark.parametrize(("m", "n", "most"), [(128, 256, 56), (256, 128, 75)])
def test_code_of_parts(m, n, most):
    """Both parts of a step take as many instructions as the whole does, but for a wait, a release and their fences."""
    made = libtile.compile(libtile.parse(rounded(m, n, 64)), gpu_name="sm_90")
    assert made.kernels["gemm"].spills == 0 and "(C75" not in made.log
    loop = min((x for x in loops_of(made.cubin) if any("HGMMA" in line for line in x)), key=len)
    assert sum("HGMMA" in line for line in loop) == 8 * m // 128 and len(loop) <= most
