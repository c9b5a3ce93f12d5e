# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Remarks about products, loads and stores name what the machine code of their source lines has."""

from __future__ import annotations

from pathlib import Path

import pytest

import libtile
from lowering.sass_remarks import problems

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TARGETS = ("sm_80", "sm_89", "sm_90", "sm_100", "sm_120")
NAMES = tuple(sorted(path.stem for path in EXAMPLES.glob("*.bc")))
SAMPLE = {("gemm", "sm_80"), ("gemm", "sm_120"), ("layer_norm", "sm_90"), ("vector_add", "sm_100")}

SUNK = ["line 39: no remark about LDG.E.128"]
"""LLVM gives some of the loads of line 32, which nothing needs before, the line of the product that does."""
KNOWN = {
    **{("attention", target): SUNK for target in ("sm_80", "sm_89")},
    ("gemm", "sm_90"): ["line 32: no remark about HGMMA.64x64x16.F32"],
    ("attention", "sm_90"): [
        "line 37: no remark about HGMMA.64x32x16.F32",
        "line 37: no remark about HGMMA.64x64x16.F32",
        "line 41: no remark about HGMMA.64x32x16.F32",
        "line 41: no remark about HGMMA.64x64x16.F32",
        "line 678: no remark about HGMMA.64x32x16.F32",  # of cuTile's own file, of a function that a line calls
    ],
}
"""Of sm_90: each `wgmma` of the PTX has the line of its product; ptxas gives some that of an instruction beside it."""


def _some(pairs: list[tuple[str, str]], sample: set[tuple[str, str]]) -> list:
    return [pytest.param(*pair, marks=() if pair in sample else pytest.mark.slow) for pair in pairs]


@pytest.mark.oracle
@pytest.mark.parametrize("name, target", _some([(n, t) for n in NAMES for t in TARGETS], SAMPLE))
def test_remarks_about_an_example_are_what_its_lines_show(name: str, target: str) -> None:
    found = problems((EXAMPLES / f"{name}.bc").read_bytes(), target)
    assert sorted(set(found)) == KNOWN.get((name, target), [])


def one(element: str, count: str) -> str:
    return f"constant <{element}: {'1' if element[0] == 'i' else '1.0'}> : tile<{count}x{element}>"


def stored(element: str, m: int, n: int) -> str:
    """Stores the tile %d through a view of %q."""
    tensor = f"tensor_view<512x512x{element}, strides=[512,1]>"
    view = f"partition_view<tile=({m}x{n}), {tensor}>"
    return f"""%t = make_tensor_view %q, shape = [512, 512], strides = [512, 1] : {tensor}
      %v = make_partition_view %t : {view}
      %w = store_view_tko weak %d, %v[%i, %i] : tile<{m}x{n}x{element}>, {view}, tile<i32> -> token"""


def product(a: str, acc: str, size: tuple[int, int, int], signs: str = "") -> str:
    """A product of constant tiles of m x n x k elements."""
    m, n, k = size
    op = "mmai" if a == "i8" else "mmaf"
    return f"""cuda_tile.module @m {{ entry @k(%q: tile<ptr<{acc}>>, %i: tile<i32>) {{
      %a = {one(a, f"{m}x{k}")}
      %b = {one(a, f"{k}x{n}")}
      %c = {one(acc, f"{m}x{n}")}
      %d = {op} %a, %b, %c {signs} : tile<{m}x{k}x{a}>, tile<{k}x{n}x{a}>, tile<{m}x{n}x{acc}>
      {stored(acc, m, n)}
      return }} }}"""


def scaled(element: str, scale: str, block: int) -> str:
    """A scaled product of constant tiles."""
    tiles = [("64x64", element), ("64x64", element), ("64x64", "f32")]
    tiles += [(f"64x{64 // block}", scale), (f"{64 // block}x64", scale)]
    types = ", ".join(f"tile<{shape}x{type_}>" for shape, type_ in tiles)
    made = "\n".join(f"%o{i} = {one(type_, shape)}" for i, (shape, type_) in enumerate(tiles))
    return f"""cuda_tile.module @m {{ entry @k(%q: tile<ptr<f32>>, %i: tile<i32>) {{
      {made}
      %d = mmaf_scaled %o0, %o1, %o2, %o3, %o4 : {types}
      {stored("f32", 64, 64)}
      return }} }}"""


FULL, SMALL = (64, 64, 64), (16, 8, 4)
PRODUCTS = {
    f"{a} {acc} {size[2]}{signs}": product(a, acc, size, signs)
    for a, accumulators in {
        "f16": ("f16", "f32"), "bf16": ("f32",), "tf32": ("f32",), "f32": ("f32",), "f64": ("f64",), "i8": ("i32",),
        "f8E4M3FN": ("f16", "f32"), "f8E5M2": ("f16", "f32"),
    }.items()
    for acc in accumulators
    for size in (FULL, SMALL)
    for signs in (("signed signed", "signed unsigned", "unsigned signed", "unsigned unsigned") if a == "i8" else ("",))
}  # fmt: skip
PRODUCTS |= {
    f"scaled {element} {scale} {block}": scaled(element, scale, block)
    for element, scale, block in (
        ("f8E4M3FN", "f8E8M0FNU", 32), ("f8E5M2", "f8E8M0FNU", 32), ("f4E2M1FN", "f8E8M0FNU", 32),
        ("f4E2M1FN", "f8E8M0FNU", 16), ("f4E2M1FN", "f8E4M3FN", 16),
    )
}  # fmt: skip
PRODUCT_SAMPLE = {
    ("f16 f32 64", "sm_80"), ("f8E4M3FN f32 64", "sm_89"), ("f8E4M3FN f32 64", "sm_90"), ("f8E5M2 f16 4", "sm_100"),
    ("f64 f64 64", "sm_90"), ("f64 f64 64", "sm_100"), ("f32 f32 64", "sm_120"),
    ("scaled f4E2M1FN f8E8M0FNU 32", "sm_120"),
}  # fmt: skip


@pytest.mark.oracle
@pytest.mark.parametrize("name, target", _some([(n, t) for n in PRODUCTS for t in TARGETS], PRODUCT_SAMPLE))
def test_remarks_about_a_product_are_what_its_line_shows(name: str, target: str) -> None:
    assert problems(libtile.parse(PRODUCTS[name]), target) == []


MODELS = (
    "gqa_window", "linear_attention", "moe_gather", "w8a16", "conv", "block_fp8", "splitk", "group_gemm", "mla_decode",
    "capped_window",
)  # fmt: skip
"""Kernels as models have them, whose products and loads are shared out among agents in different ways."""


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("target", ["sm_90", "sm_100", "sm_120"])
def test_remarks_about_a_model_are_what_its_lines_show(name: str, target: str) -> None:
    pytest.importorskip("cuda.tile")
    from cutile.models.problems import FULL, PROBLEMS
    from examples.export import portable_file_names
    from libtile import cutile

    problem = PROBLEMS[name](FULL)
    with portable_file_names():
        code = cutile.bytecode_for(problem.kernel, problem.args, gpu_name=target)[0]
    # On sm_90 ptxas gives some `wgmma` the line of an instruction beside it, as in `KNOWN`.
    assert [p for p in problems(code, target) if target != "sm_90" or "GMMA." not in p] == []
