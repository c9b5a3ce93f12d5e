# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels whose loop has several products that do not feed each other: gated ones, two results, sums of two."""

from __future__ import annotations

import numpy as np

import libtile

_TURNS = {
    # x = a b, y = a c, and a gate
    "gated": ("%a, %b, %x0", "%a, %c, %y0"),
    # x = a b, y = d c
    "apart": ("%a, %b, %x0", "%d, %c, %y0"),
    # x = a b + d c
    "one": ("%a, %b, %x0", "%d, %c, %x1"),
}


def text(m=128, n=64, k=64, kind="gated", *, persistent=False, element="f16", apart=False, turned=False,
         begun=False) -> str:  # fmt: skip
    """e = silu(a b) * (a c), or e = a b * d c, or e = a b + d c, in tiles of m x n; `apart` stores both sums instead,
    `turned` has b and c n x k in memory, and `begun` sums that start with ones."""
    one = kind == "one"
    first, second = _TURNS[kind]
    tile, left, right = f"tile<{m}x{n}xf32>", f"tile<{m}x{k}x{element}>", f"tile<{k}x{n}x{element}>"
    tensor = f"tensor_view<?x?x{element}, strides=[?,1]>"
    out = "tensor_view<?x?xf32, strides=[?,1]>"
    view = f"partition_view<tile=({m}x{k}), padding_value = zero, {tensor}>"
    dims = ", dim_map=[1, 0]" if turned else ""
    across = f"partition_view<tile=({k}x{n}), padding_value = zero, {tensor}{dims}>"
    result = f"partition_view<tile=({m}x{n}), {out}>"
    right_shape, right_stride = ("[%n, %k]", "%k") if turned else ("[%k, %n]", "%n")
    tiles = "\n".join(
        f"    %t{x} = make_tensor_view %{x}1, shape = {right_shape if x in 'bc' else '[%m, %k]'}, "
        f"strides = [{right_stride if x in 'bc' else '%k'}, 1] : tile<i32> -> {tensor}\n"
        f"    %v{x} = make_partition_view %t{x} : {across if x in 'bc' else view}"
        for x in "abcd"
    )
    results = "\n".join(
        f"    %t{x} = make_tensor_view %{x}1, shape = [%m, %n], strides = [%n, 1] : tile<i32> -> {out}\n"
        f"    %v{x} = make_partition_view %t{x} : {result}"
        for x in "ef"
    )
    loads = "\n".join(
        f"      %{x}, %{x}t = load_view_tko weak %v{x}[{'%i, %by' if x in 'bc' else '%bx, %i'}] : "
        f"{across if x in 'bc' else view}, tile<i32> -> {right if x in 'bc' else left}, token"
        for x in ("abc" if kind == "gated" else "abdc")
    )
    types = f"{left}, {right}, {tile}"
    ends = "%x2" if one else "%x1, %y1"
    second_result = "%x2" if one else "%y1"
    start = "%ones" if begun else "%none"
    carried = f"%x0 = {start}" if one else f"%x0 = {start}, %y0 = {start}"
    result_types = tile if one else f"{tile}, {tile}"
    r = "%r" if one else "%r:2"
    gate = {
        "gated": f"""    %n1 = negf %r#0 : {tile}
    %n2 = exp %n1 : {tile}
    %n3 = addf %n2, %ones : {tile}
    %n4 = divf %r#0, %n3 : {tile}
    %e = mulf %n4, %r#1 : {tile}""",
        "apart": f"    %e = mulf %r#0, %r#1 : {tile}",
        "one": f"    %e = mulf %r, %ones : {tile}",
    }[kind]
    stores = f"    %w = store_view_tko weak %e, %ve[%bx, %by] : {tile}, {result}, tile<i32> -> token"
    if apart:
        gate, stores = "", "\n".join(
            f"    %w{x} = store_view_tko weak %r#{i}, %v{x}[%bx, %by] : {tile}, {result}, tile<i32> -> token"
            for i, x in enumerate("ef")
        )  # fmt: skip
    body = f"""{r} = for %i in (%zero to %dims#1, step %one) : tile<i32> iter_values({carried}) -> ({result_types}) {{
{loads}
      %x1 = mmaf {first} : {types}
      {second_result} = mmaf {second} : {types}
      continue {ends} : {result_types}
    }}
{gate}
{stores}"""
    place = "%bx, %by, %bz = get_tile_block_id : tile<i32>"
    if persistent:
        place = f"""%id, %iy, %iz = get_tile_block_id : tile<i32>
    %step, %sy, %sz = get_num_tile_blocks : tile<i32>
    %sizes:2 = get_index_space_shape %ve : {result} -> tile<i32>
    %all = muli %sizes#0, %sizes#1 : tile<i32>
    for %tile in (%id to %all, step %step) : tile<i32> {{
    %bx = divi %tile, %sizes#1 signed rounding<zero> : tile<i32>
    %by = remi %tile, %sizes#1 signed : tile<i32>"""
    pointers = "\n".join(
        f"    %{x}1 = assume div_by<16>, %{x}0 : tile<ptr<{'f32' if x in 'ef' else element}>>" for x in "abcdef"
    )
    parameters = ", ".join(f"%{x}0: tile<ptr<{'f32' if x in 'ef' else element}>>" for x in "abcdef")
    return f"""cuda_tile.module @m {{
  entry @kernel({parameters}, %m0: tile<i32>, %n0: tile<i32>, %k0: tile<i32>) {{
{pointers}
    %m = assume bounded<0, ?>, %m0 : tile<i32>
    %n_1 = assume bounded<0, ?>, %n0 : tile<i32>
    %k_1 = assume bounded<0, ?>, %k0 : tile<i32>
    %n = assume div_by<16>, %n_1 : tile<i32>
    %k = assume div_by<16>, %k_1 : tile<i32>
{tiles}
{results}
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : {tile}
    %ones = constant <f32: 1.0> : {tile}
    %dims:2 = get_index_space_shape %va : {view} -> tile<i32>
    {place}
    {body}
    {"continue }" if persistent else ""}
    return
  }}
}}
"""


def run(
    source: str, m: int, n: int, k: int, tile: tuple[int, int] = (128, 64), kind: str = "gated", *,
    gpu_name: str = "sm_100", order: int | None = None, blocks: int = 0, apart: bool = False, turned: bool = False,
    begun: bool = False, dtype: type = np.float16,
) -> None:  # fmt: skip
    """Run a kernel of `text` in the simulator, and compare with numpy; with a number of `blocks` that go through the
    tiles."""
    rng = np.random.default_rng(m + n + k)
    a, d = (rng.integers(-2, 3, (m, k)).astype(dtype) for _ in range(2))
    b, c = (rng.integers(-2, 3, (k, n)).astype(dtype) for _ in range(2))
    e, f = (np.full((m, n), 7, np.float32) for _ in range(2))
    x = a.astype(np.float32) @ b.astype(np.float32)
    y = (a if kind == "gated" else d).astype(np.float32) @ c.astype(np.float32)
    if turned:
        b, c = (np.ascontiguousarray(v.T) for v in (b, c))
    grid = (blocks, 1, 1) if blocks else (-(-m // tile[0]), -(-n // tile[1]), 1)
    libtile.run(
        libtile.parse(source), "kernel", grid=grid, args=[a, b, c, d, e, f, m, n, k], schedule="specialized",
        backend="simulator", gpu_name=gpu_name, check="full", block_order=order,
    )  # fmt: skip
    if apart:
        np.testing.assert_array_equal(e, x + begun)
        np.testing.assert_array_equal(f, y + begun)
        return
    wanted = {"gated": x / (1 + np.exp(-np.maximum(x, -80))) * y, "apart": x * y, "one": x + y}[kind]
    np.testing.assert_allclose(e, wanted, rtol=1e-5, atol=1e-4)
