# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operands that wgmma does not read as they lie in memory: warps beside the producer transpose them on their way."""

import re

import ml_dtypes
import numpy as np
import pytest
from specialized_kernels import loops_of
from test_rounded_operands import as_tf32, rounded
from test_specialized import specialized, tile_gemm

import libtile
from libtile.atoms.cp_async import operand_shared_layout
from libtile.atoms.transposing_copies import OTHER_WORD, SELECTOR, SELECTOR_BITS, transposition
from libtile.compiler.compile import compile_module
from libtile.compiler.options import Options
from libtile.layouts import OFFSET, f2
from libtile.runtime.tensor_maps import tensor_map
from libtile.simulator import EncodedTensorMap, SimulationFault, run_ptx

TYPES = {
    "i8": (np.int8, np.int32),
    "f8E4M3FN": (ml_dtypes.float8_e4m3fn, np.float32),
    "f8E5M2": (ml_dtypes.float8_e5m2, np.float32),
    "f32": (np.float32, np.float32),
}


def gemm(element: str, m: int, n: int, k: int, *, a: bool = False, b: bool = True) -> str:
    """A product whose A lies k x m in memory, or whose B lies k x n; f32 is rounded to tf32."""
    if element == "f32":
        text = rounded(m, n, k, transposed=not b)
    else:
        result = "i32" if element == "i8" else "f32"
        text = tile_gemm(m, n, k, element, result, transposed=not b)
    if not a:
        return text
    view = f"tile=({m}x{k}), tensor_view<?x?x{element}, strides=[?,1]>"
    turned = f"{view}, dim_map=[1, 0]"
    assert view in text and n != k
    return text.replace(view, turned).replace(
        "%ta = make_tensor_view %a1, shape = [%m, %k], strides = [%k, 1]",
        "%m2 = assume div_by<16>, %m : tile<i32>\n"
        "    %ta = make_tensor_view %a1, shape = [%k, %m2], strides = [%m2, 1]",
    )


def arguments(element: str, m: int, n: int, k: int, *, a: bool, b: bool) -> tuple[list, np.ndarray]:
    """A launch's arguments, and what it computes."""
    rng, (kind, result) = np.random.default_rng(m + n + k), TYPES[element]
    left, right = (rng.integers(-4, 5, shape).astype(kind) for shape in ((m, k), (k, n)))
    if element == "f32":
        left, right = (x + rng.standard_normal(x.shape).astype(np.float32) for x in (left, right))
        wanted = as_tf32(left).astype(np.float64) @ as_tf32(right).astype(np.float64)
    else:
        wanted = left.astype(np.float64) @ right.astype(np.float64)
    stored = [np.ascontiguousarray(x) for x in (left.T if a else left, right if b else right.T)]
    return [*stored, np.full((m, n), 7, result), m, n, k], wanted


def run(
    element: str, tile: tuple[int, int, int], m: int, n: int, k: int, order=None, *, a: bool = False, b: bool = True,
    change=str,
) -> None:  # fmt: skip
    given, wanted = arguments(element, m, n, k, a=a, b=b)
    libtile.run(
        libtile.parse(change(gemm(element, *tile, a=a, b=b))), "gemm", grid=(-(-m // tile[0]), -(-n // tile[1]), 1),
        args=given, backend="simulator", gpu_name="sm_90", check="full", block_order=order,
    )  # fmt: skip
    np.testing.assert_allclose(given[2].astype(np.float64), wanted, rtol=0, atol=k * 2e-5 if element == "f32" else 0)


# -- the copies ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize(("shape", "warps"), [((32, 128), 1), ((64, 64), 2), ((64, 32), 4)])
def test_every_element_goes_to_its_place_without_conflicts(size, warps, shape):
    element = "i8" if size == 1 else "f32"
    raw, shadow = (operand_shared_layout(shape, element, d) for d in (1, 0))
    how = transposition(raw, shadow, size, warps)
    assert not isinstance(how, str)
    chunk, moved = 16 // size, {}
    for warp in range(warps):
        for start, to in zip(how.source.starts, how.destination.starts):
            own = [
                [
                    f2.apply(side.lanes, lane) ^ f2.apply(side.warps, warp) ^ first ^ part
                    for lane in range(32) for part in side.parts
                ]
                for side, first in ((how.source, start), (how.destination, to))
            ]  # fmt: skip
            for places in own:
                each = len(how.source.parts)
                for wave in range(0, 32, 8):
                    for part in range(each):
                        banks = [places[(wave + i) * each + part] * size // 16 % 8 for i in range(8)]
                        assert sorted(banks) == list(range(8))
            moved |= _bytes(*own) if size == 1 else _words(*own)
    inverse = shadow.inverse()
    for at in range(raw.in_size(OFFSET)):
        place = raw(**{OFFSET: at})
        assert moved[at] == inverse(**place)[OFFSET]
    assert chunk * size == 16 and len(moved) == shape[0] * shape[1]


def _words(loads: list[int], stores: list[int]) -> dict[int, int]:
    """Where 4 x 4 words of each lane go: word s of chunk d to word d of chunk s."""
    return {loads[4 * lane + d] ^ s: stores[4 * lane + s] ^ d for lane in range(32) for s in range(4) for d in range(4)}


def _bytes(loads: list[int], stores: list[int]) -> dict[int, int]:
    """Where bytes of 4 matrices go through `ldmatrix.trans`, `prmt` and `stmatrix`."""
    moved = {}
    for lane in range(32):
        row, pair = lane // 4, lane % 4
        # Byte b of word w: of rows 2 pair and 2 pair + 1 of matrix w, two neighbours from 2 row on.
        words = [[loads[8 * w + 2 * pair + b // 2] ^ (2 * row + b % 2) for b in range(4)] for w in range(4)]
        selector = SELECTOR ^ f2.apply(SELECTOR_BITS, lane)
        for half in range(2):
            given = [*words[2 * half], *words[2 * half + 1]]
            for other in range(2):
                chosen = selector ^ (OTHER_WORD if other else 0)
                for b in range(4):
                    # `stmatrix`: word `pair` of row `row` of this matrix.
                    moved[given[chosen >> 4 * b & 15]] = stores[8 * (2 * half + other) + row] ^ (4 * pair + b)
    return moved


@pytest.mark.parametrize(
    ("shapes", "element", "size", "reason"),
    [
        (((64, 64), 1, (64, 64), 0), "f16", 2, "elements of 2 bytes are not transposed"),
        (((64, 64), 1, (64, 64), 1), "i8", 1, "not dense along different dimensions"),
        (((16, 16), 1, (16, 16), 0), "i8", 1, "too small"),
        (((32, 16), 1, (32, 16), 0), "i8", 1, "too small to be transposed by 2 warps"),
        (((16, 16), 1, (16, 16), 0), "f32", 4, "too small"),
    ],
)
def test_what_is_not_transposed_says_why(shapes, element, size, reason):
    a, b = operand_shared_layout(shapes[0], element, shapes[1]), operand_shared_layout(shapes[2], element, shapes[3])
    assert reason in str(transposition(a, b, size, 2))


# -- kernels --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("element", "tile", "options"),
    [
        ("i8", (64, 32, 64), {"a": True}),
        ("f8E4M3FN", (64, 64, 64), {}),
        ("f32", (64, 64, 32), {"a": True}),
        pytest.param("i8", (64, 32, 128), {}, marks=pytest.mark.slow),
        pytest.param("f8E4M3FN", (128, 128, 64), {}, marks=pytest.mark.slow),
        pytest.param("f8E5M2", (64, 64, 32), {"a": True, "b": False}, marks=pytest.mark.slow),
        pytest.param("f32", (128, 64, 32), {"a": True}, marks=pytest.mark.slow),
        pytest.param("f32", (64, 32, 32), {}, marks=pytest.mark.slow),
    ],
)
def test_operands_are_transposed_at_edges_and_with_a_tail(element, tile, options):
    made, reason = specialized(gemm(element, *tile, **options))
    assert reason is None and "mma_atom<wgmma, 64x" in made and re.search(r"agent_warps = \[., 2, 2\]", made)
    m, n, k = tile
    run(element, tile, m + 16, n + 32, 3 * k + 16, order=1, **options)


def test_no_step_and_one_step():
    run("i8", (64, 64, 64), 64, 64, 0)
    run("i8", (64, 64, 64), 64, 64, 48)


@pytest.mark.slow
def test_a_stage_that_is_alone_is_waited_for():
    """Two stages of f32 as they are read do not fit beside those that are transposed."""
    made, reason = specialized(gemm("f32", 128, 256, 64, a=True))
    assert reason is None and "pipeline<1, (" in made


@pytest.mark.slow
def test_a_stage_that_is_alone_is_right():
    run("f32", (128, 256, 64), 128, 256, 144, a=True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(
    ("element", "tile", "options"),
    [("i8", (64, 32, 64), {"a": True}), ("f8E4M3FN", (128, 64, 64), {}), ("f32", (64, 64, 32), {"a": True})],
)
def test_operands_are_transposed_in_every_schedule(element, tile, options, seed):
    run(element, tile, tile[0] + 16, tile[1] + 16, 6 * tile[2] + 16, order=seed, **options)


def test_tiles_that_a_block_works_through():
    """All agents go through the tiles of a loop around the steps."""

    def persistent(text: str) -> str:
        head, rest = text.split("    %r = for")
        loop, tail = rest.split("    %w = store")
        body = "    %r = for" + loop + "    %w = store" + tail.split("\n    return")[0] + "\n"
        body = body.replace("%by", "%tile")
        return f"""{head}    %two = constant <i32: 2> : tile<i32>
    for %tile in (%zero to %two, step %one) : tile<i32> {{
{body}    continue
    }}
    return
  }}
}}
"""

    given, wanted = arguments("i8", 80, 128, 144, a=False, b=True)
    text = persistent(gemm("i8", 64, 64, 64))
    made = libtile.compile(libtile.parse(text), gpu_name="sm_90", emit="tileas").tileas
    assert "agent_warps = [4, 2, 2]" in made
    libtile.run(
        libtile.parse(text), "gemm", grid=(2, 1, 1), args=given, backend="simulator", gpu_name="sm_90", check="full",
    )  # fmt: skip
    np.testing.assert_array_equal(given[2], wanted)


def test_a_fence_that_is_left_out_is_found():
    """What warps have written is read by products behind a fence of proxies only."""
    made = compile_module(libtile.parse(gemm("i8", 64, 64, 64)).op, Options("sm_90", 3, launch_abi="simt", emit="ptx"))
    given, _ = arguments("i8", 64, 64, 256, a=False, b=True)
    args = [x if isinstance(x, np.ndarray) else np.int32(x) for x in given]
    maps = [EncodedTensorMap(args[r.base], tensor_map(r, args, 0), 0) for r in made.kernels["gemm"].descriptors]
    store = re.search(r"stmatrix[^\n]*\n(?:(?!fence\.proxy)[^\n]*\n){0,40}?\s*(fence\.proxy\.async[^\n]*;)", made.ptx)
    assert store is not None
    broken = made.ptx[: store.start(1)] + made.ptx[store.end(1) :]
    run_ptx(made.ptx, "gemm", block=made.kernels["gemm"].block_dim, args=[*args, *maps])
    with pytest.raises(SimulationFault) as caught:
        run_ptx(broken, "gemm", block=made.kernels["gemm"].block_dim, args=[*args, *maps])
    assert caught.value.kind == "proxy-fence"


@pytest.mark.parametrize(
    ("element", "product", "most"), [("i8", "IGMMA.64x128x32", 45), ("f8E4M3FN", "QGMMA.64x128x32", 95)]
)
def test_code_of_transposed_operands(element, product, most):
    """128x128x64: 40 and 89 instructions; by mma.sync they were more than 900."""
    made = libtile.compile(libtile.parse(gemm(element, 128, 128, 64)), gpu_name="sm_90")
    loop = min((x for x in loops_of(made.cubin) if any("GMMA" in line for line in x)), key=len)
    assert any(product in line for line in loop) and len(loop) <= most
    assert made.kernels["gemm"].spills == 0 and "(C75" not in made.log
