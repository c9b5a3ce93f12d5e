# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Numbers are those of the reference assembler where it leaves nothing open: elementwise arithmetic is the same
instructions, by name and count, so that results are the same bits. docs/numerics.md is the page of it.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

import pytest

import libtile
from oracle.host_objects import reference_compilation

pytestmark = pytest.mark.oracle

COUNT = 128
_ARITHMETIC = re.compile(
    r"(?:@!?%\w+\s+)?((?:add|sub|mul|fma|div|sqrt|rsqrt|rcp|ex2|lg2|tanh|sin|cos|min|max|abs|neg|cvt)[.\w]*)"
)
_FLOAT = re.compile(r"\b(?:f16|bf16|f32|f64|f16x2|bf16x2|e4m3x2|e5m2x2|tf32)\b")

EXACT = {
    "mulf %x, %y rounding<nearest_even>": ("f32", "f64"),
    "addf %x, %y rounding<nearest_even>": ("f32", "f64"),
    "subf %x, %y rounding<zero>": ("f32", "f64"),
    "mulf %x, %y rounding<negative_inf>": ("f32", "f64"),
    "addf %x, %y rounding<positive_inf>": ("f32", "f64"),
    "mulf %x, %y rounding<nearest_even> flush_to_zero": ("f32",),
    "addf %x, %y rounding<nearest_even> flush_to_zero": ("f32",),
    "fma %x, %y, %x rounding<nearest_even>": ("f32", "f64"),
    "fma %x, %y, %x rounding<nearest_even> flush_to_zero": ("f32",),
    "divf %x, %y rounding<nearest_even>": ("f32", "f64"),
    "divf %x, %y rounding<approx>": ("f32",),
    "divf %x, %y rounding<full>": ("f32",),
    "divf %x, %y rounding<approx> flush_to_zero": ("f32",),
    "sqrt %x rounding<nearest_even>": ("f32", "f64"),
    "sqrt %x rounding<approx>": ("f32",),
    "sqrt %x rounding<approx> flush_to_zero": ("f32",),
    "rsqrt %x": ("f32",),
    "rsqrt %x flush_to_zero": ("f32",),
    "exp %x": ("f32",),
    "exp2 %x": ("f32",),
    "exp2 %x flush_to_zero": ("f32",),
    "log %x": ("f32",),
    "log2 %x": ("f32",),
    "sin %x": ("f32",),
    "cos %x": ("f32",),
    "tan %x": ("f32",),
    "sinh %x": ("f32",),
    "cosh %x": ("f32",),
    "tanh %x": ("f32",),
    "tanh %x rounding<approx>": ("f32",),
    "pow %x, %y": ("f32",),
    "maxf %x, %y": ("f32",),
    "maxf %x, %y propagate_nan": ("f32",),
    "minf %x, %y": ("f32",),
    "ceil %x": ("f32",),
    "floor %x": ("f32",),
    "mulf %x, %y rounding<nearest_even> : T\n    %z = addf %m, %x rounding<nearest_even>": ("f32", "f64"),
}
"""Operations on %x and %y, and the types of which the instructions are compared. The last is a product that is added:
it is rounded before."""

EXACT_CONVERSIONS = ("pow",)
"""Whether an exponent is odd is worked out by other conversions to whole numbers, which are exact: not compared."""


def program(operation: str, element: str) -> str:
    """A kernel that applies an operation to the elements of two arrays."""
    tile, pointers = f"tile<{COUNT}x{element}>", f"tile<{COUNT}xptr<{element}>>"
    result = "%m" if "%m" in operation else "%z"
    places = "".join(
        f"""    %{x}1 = reshape %{x} : tile<ptr<{element}>> -> tile<1xptr<{element}>>
    %{x}2 = broadcast %{x}1 : tile<1xptr<{element}>> -> {pointers}
    %{x}3 = offset %{x}2, %i : {pointers}, tile<{COUNT}xi32> -> {pointers}
"""
        for x in "abo"
    )
    return f"""cuda_tile.module @m {{
  entry @k(%a: tile<ptr<{element}>>, %b: tile<ptr<{element}>>, %o: tile<ptr<{element}>>) {{
    %i = iota : tile<{COUNT}xi32>
{places}    %x, %t0 = load_ptr_tko weak %a3 : {pointers} -> {tile}, token
    %y, %t1 = load_ptr_tko weak %b3 : {pointers} -> {tile}, token
    {result} = {operation} : {tile}
    %t2 = store_ptr_tko weak %o3, %z : {pointers}, {tile} -> token
    return
  }}
}}
""".replace(": T", f": {tile}")


def arithmetic(ptx: str) -> Counter[str]:
    """The arithmetic instructions on floats, with their modifiers."""
    names = (match[1] for line in ptx.splitlines() if (match := _ARITHMETIC.match(line.strip())))
    return Counter(name for name in names if _FLOAT.search(name))


def both(data: bytes, gpu_name: str, folder: Path) -> tuple[Counter[str], Counter[str]]:
    """Of a program, ours and the reference's."""
    ours = libtile.compile(data, gpu_name=gpu_name, emit="ptx").ptx
    return arithmetic(ours), arithmetic(reference_compilation(data, gpu_name, folder).ptx)


@pytest.mark.parametrize(
    ("operation", "element"),
    [
        pytest.param(operation, element, marks=() if index % 4 == 0 else pytest.mark.slow)
        for index, (operation, element) in enumerate((o, e) for o, elements in EXACT.items() for e in elements)
    ],
)
def test_arithmetic_is_the_references_instructions(operation: str, element: str, tmp_path: Path) -> None:
    data = libtile.write(libtile.parse(program(operation, element)), "13.4")
    ours, theirs = both(data, "sm_90", tmp_path)
    if operation.startswith(EXACT_CONVERSIONS):
        ours, theirs = (Counter({k: n for k, n in c.items() if not k.startswith("cvt")}) for c in (ours, theirs))
    assert ours == theirs and ours


def test_sums_of_8_bit_floats_are_promoted_as_often_as_the_references(tmp_path: Path) -> None:
    """Each step's products of 128x64 by 64x128 are summed apart, and added to f32 once for each element."""
    pytest.importorskip("cuda.tile", reason="the kernel is exported by cuTile Python (pip install cuda-tile)")
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
    import perf_kernels

    from kernels import corpus

    data = corpus.export(perf_kernels.KERNELS["gemm_fp8nt_128x128x64"], "13.4")
    ours, theirs = both(data, "sm_90", tmp_path)
    # Two of our warpgroups multiply, of 128 threads each, and one of the reference's.
    assert ours["add.rn.f32"] * 256 == 128 * 128 == theirs["add.rn.f32"] * 128


def test_f32_is_rounded_to_tf32_as_the_reference_does(tmp_path: Path) -> None:
    pytest.importorskip("cuda.tile", reason="the kernel is exported by cuTile Python (pip install cuda-tile)")
    from kernels import corpus

    data = corpus.export(corpus.KERNELS["cast_through_tf32"], "13.4")
    ours, theirs = both(data, "sm_90", tmp_path)
    assert set(ours) == set(theirs) == {"cvt.rn.tf32.f32"}
