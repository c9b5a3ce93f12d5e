# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Element offsets are computed in 32 bits where assumed sizes and strides allow it, and a remark says where not."""

from __future__ import annotations

import re
import subprocess

import numpy as np
import pytest

import libtile
from libtile.support import remarks
from oracle import require_tool
from patience import PATIENCE

I32_MAX = (1 << 31) - 1


def kernel(
    sizes: list[int], strides: list[int], tile: list[int], element: str = "f32", integer: str = "i32", offset: int = 0
) -> str:
    """Doubles a tile in place. A negative size or stride is a parameter, at most its absolute value."""
    parameters: list[str] = []
    lines: list[str] = []

    def value(extent: int, name: str) -> str:
        if extent > 0:
            return str(extent)
        parameters.append(f"%{name}: tile<{integer}>")
        bound = "?" if -extent == I32_MAX and integer == "i32" else -extent
        lines.append(f"%{name}a = assume bounded<0, {bound}>, %{name} : tile<{integer}>")
        return f"%{name}a"

    shape = ", ".join(value(n, f"n{i}") for i, n in enumerate(sizes))
    steps = ", ".join(value(n, f"s{i}") for i, n in enumerate(strides))
    tensor = f"{'x'.join('?' if n < 0 else str(n) for n in sizes)}x{element}"
    view = f"tensor_view<{tensor}, strides=[{','.join('?' if n < 0 else str(n) for n in strides)}]>"
    shown = "x".join(map(str, tile))
    kind = f"partition_view<tile=({shown}), {view}>"
    types = f"tile<{integer}> -> {view}" if parameters else view
    indices = ", ".join(["%i"] * len(tile))
    body = f"""
    %i = constant <i32: {offset}> : tile<i32>
    %t = make_tensor_view %p, shape = [{shape}], strides = [{steps}] : {types}
    %v = make_partition_view %t : {kind}
    %x, %u = load_view_tko weak %v[{indices}] : {kind}, tile<i32> -> tile<{shown}x{element}>, token
    %y = addf %x, %x : tile<{shown}x{element}>
    %w = store_view_tko weak %y, %v[{indices}] token=%u : tile<{shown}x{element}>, {kind}, tile<i32> -> token
    return"""
    given = ", ".join([f"%p: tile<ptr<{element}>>", *parameters])
    return f"cuda_tile.module @m {{\n  entry @k({given}) {{\n" + "\n".join(lines) + body + "\n  }\n}\n"


ROWS = [
    # Of one dimension: the last tile may begin at the last element.
    ("any size", kernel([-I32_MAX], [1], [128]), 33),
    ("single elements", kernel([-I32_MAX], [1], [1]), None),
    ("just small enough", kernel([-(I32_MAX - 126)], [1], [128]), None),
    ("just too large", kernel([-(I32_MAX - 125)], [1], [128]), 33),
    ("static and too large", kernel([1 << 33], [1], [128]), 35),
    # In elements, whatever their size.
    ("just small enough, f64", kernel([-(I32_MAX - 126)], [1], [128], "f64"), None),
    # Of two dimensions: rows of the tile count by the stride.
    ("one row", kernel([-I32_MAX, -I32_MAX], [-I32_MAX, 1], [1, 32]), 63),
    ("two rows", kernel([-I32_MAX, -I32_MAX], [-I32_MAX, 1], [2, 32]), 63),
    ("four rows", kernel([-I32_MAX, -I32_MAX], [-I32_MAX, 1], [4, 32]), 64),
    ("few rows", kernel([-4096, -4096], [-I32_MAX, 1], [32, 32]), 45),
    ("static rows", kernel([-I32_MAX, 512], [512, 1], [32, 32]), 42),
    ("small", kernel([-4096, -4096], [-4096, 1], [32, 32]), None),
    ("static", kernel([32736, 65536], [65536, 1], [32, 32]), None),
    ("static, one row more", kernel([32737, 65536], [65536, 1], [32, 32]), 33),
    ("four dimensions", kernel([-I32_MAX] * 4, [-I32_MAX] * 3 + [1], [1, 1, 1, 16]), 64),
    ("bounded i64", kernel([-(1 << 40)], [1], [16], integer="i64"), 42),
]  # fmt: skip


def bits_of(made: list[remarks.Remark]) -> int | None:
    """The bits that the remark about narrowing names; None without one."""
    found = [r for r in made if r.name == "RemarkTensorViewIndexTypeNarrowing"]
    assert len(found) <= 1
    return int(re.findall(r"(\d+) bits", found[0].message)[0]) if found else None


@pytest.mark.parametrize("text, bits", [r[1:] for r in ROWS], ids=[r[0] for r in ROWS])
def test_a_remark_says_how_wide_offsets_may_get(text, bits):
    made = libtile.compile(libtile.parse(text), gpu_name="sm_80", emit="ptx")
    assert bits_of(made.remarks) == bits
    if bits is None:
        assert not re.search(r"\b(mul\.lo|min|max|sub)\.[su]64", made.ptx)


@pytest.mark.oracle
@pytest.mark.parametrize("text, bits", [r[1:] for r in ROWS], ids=[r[0] for r in ROWS])
def test_the_reference_assembler_counts_the_same_bits(text, bits, tmp_path):
    tool, source, said = require_tool("tileiras"), tmp_path / "k.bc", tmp_path / "remarks"
    source.write_bytes(libtile.write(libtile.parse(text), version="13.3"))
    options = ["--gpu-name=sm_80", "--remarks=all", "--remark-format=yaml", f"--remarks-output-file={said}"]
    subprocess.run([tool, *options, source, "-o", tmp_path / "k"], check=True, timeout=PATIENCE)
    found = re.findall(r"may require (\d+) bits", said.read_text())
    assert found == ([] if bits is None else [str(bits)])


@pytest.mark.parametrize("tile", [(16, 32), (32, 16), (4, 128)])
@pytest.mark.parametrize("gpu", ["sm_80", "sm_120"])
def test_narrow_offsets_reach_the_elements_that_wide_ones_do(tile, gpu):
    text = kernel([-4096, -4096], [-4096, 1], list(tile), offset=1)
    assert bits_of(libtile.compile(libtile.parse(text), gpu_name=gpu, emit="ptx").remarks) is None
    rng = np.random.default_rng(0)
    # The tile at (1, 1) is cut by the tensor's end.
    rows, columns, pitch = tile[0] + tile[0] // 2 + 1, tile[1] + tile[1] // 2 + 1, 2 * tile[1] + 4
    data = rng.standard_normal((rows, pitch)).astype(np.float32)
    expected = data.copy()
    expected[tile[0] :, tile[1] : columns] *= 2
    libtile.run(
        libtile.parse(text), "k", grid=(1, 1, 1), args=[data, rows, columns, pitch], backend="simulator", gpu_name=gpu
    )
    np.testing.assert_array_equal(data, expected)


def test_a_constant_index_that_is_extended_without_sign_is_known_at_every_level():
    view = "tensor_view<?x?xf32, strides=[?,1]>"
    part, tile = f"partition_view<tile=(16x64), {view}>", "tile<16x64xf32>"
    text = f"""cuda_tile.module @m {{ entry @k(%p: tile<ptr<f32>>, %n: tile<i32>) {{
        %q = assume div_by<16>, %p : tile<ptr<f32>>
        %three = constant <i32: 3> : tile<i32>
        %j = exti %three unsigned : tile<i32> -> tile<i64>
        %v = make_tensor_view %q, shape = [%n, %n], strides = [%n, 1] : tile<i32> -> {view}
        %t = make_partition_view %v : {part}
        %x, %r = load_view_tko weak %t[%j, %j] : {part}, tile<i64> -> {tile}, token
        %w = store_view_tko weak %x, %t[%j, %j] token=%r : {tile}, {part}, tile<i64> -> token
        return }} }}"""
    for level in (0, 3):
        made = libtile.compile(libtile.parse(text), gpu_name="sm_90", opt_level=level, emit="ptx")
        assert "st.global.v4.b32" in made.ptx
