# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is behind a loop with a product, done part by part: stores with other tiles, and additions to memory."""

import re

import numpy as np
import pytest
from test_specialized import operands, specialized, tile_gemm

import libtile
from libtile.backend.cubin import read_cubin

TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120")


def with_epilogue(m, n, again="%bx, %by"):
    """c = relu(a @ b + bias) + c[again], in f16."""
    tile, half = f"tile<{m}x{n}xf32>", f"tile<{m}x{n}xf16>"
    view = f"partition_view<tile=({m}x{n}), tensor_view<?x?xf32, strides=[?,1]>>"
    bias = f"partition_view<tile=({n}), padding_value=zero, tensor_view<?xf32, strides=[1]>>"
    text = tile_gemm(m, n).replace("%c0: tile<ptr<f32>>", "%c0: tile<ptr<f16>>, %bias: tile<ptr<f32>>")
    text = text.replace("tensor_view<?x?xf32, strides=[?,1]>", "tensor_view<?x?xf16, strides=[?,1]>")
    view = view.replace("f32", "f16")
    head, store = text[: text.index("%w = store")], text[text.index("\n    return") :]
    line = "tensor_view<?xf32, strides=[1]>"
    return f"""{head}%tz = make_tensor_view %bias, shape = [%n], strides = [1] : tile<i32> -> {line}
    %vz = make_partition_view %tz : {bias}
    %z, %t2 = load_view_tko weak %vz[%by] : {bias}, tile<i32> -> tile<{n}xf32>, token
    %z1 = reshape %z : tile<{n}xf32> -> tile<1x{n}xf32>
    %z2 = broadcast %z1 : tile<1x{n}xf32> -> {tile}
    %old, %t3 = load_view_tko weak %vc[{again}] : {view}, tile<i32> -> {half}, token
    %old32 = ftof %old : {half} -> {tile}
    %r1 = addf %r, %z2 : {tile}
    %r2 = maxf %r1, %none : {tile}
    %r3 = addf %r2, %old32 : {tile}
    %r4 = ftof %r3 : {tile} -> {half}
    %w = store_view_tko weak %r4, %vc[%bx, %by] token=%t3 : {half}, {view}, tile<i32> -> token{store}"""


def added(m, n, order="acq_rel"):
    """Add a @ b to the elements of c that exist, each by an atomic op at its own address."""
    text = tile_gemm(m, n)
    head, behind = text[: text.index("%w = store")], text[text.index("\n    return") :]
    rows, columns, wide = f"tile<{m}x1xi64>", f"tile<1x{n}xi64>", f"tile<{m}x{n}xi64>"
    lines = [head.rstrip()]
    for name, size, block, one in (("row", m, "%bx", f"tile<{m}x1xi32>"), ("col", n, "%by", f"tile<1x{n}xi32>")):
        lines.append(f"""    %{name}0 = iota : tile<{size}xi32>
    %{name}1 = constant <i32: {size}> : tile<i32>
    %{name}2 = muli {block}, %{name}1 : tile<i32>
    %{name}3 = reshape %{name}2 : tile<i32> -> tile<1xi32>
    %{name}4 = broadcast %{name}3 : tile<1xi32> -> tile<{size}xi32>
    %{name}5 = addi %{name}0, %{name}4 : tile<{size}xi32>
    %{name}6 = reshape %{name}5 : tile<{size}xi32> -> {one}
    %{name} = exti %{name}6 signed : {one} -> {one.replace("i32", "i64")}""")
    lines.append(f"    %rows = broadcast %row : {rows} -> {wide}\n    %cols = broadcast %col : {columns} -> {wide}")
    for name, value in (("most_rows", "%m"), ("most_cols", "%n")):
        lines.append(f"""    %{name}0 = exti {value} signed : tile<i32> -> tile<i64>
    %{name}1 = reshape %{name}0 : tile<i64> -> tile<1x1xi64>
    %{name} = broadcast %{name}1 : tile<1x1xi64> -> {wide}""")
    pointers, mask = f"tile<{m}x{n}xptr<f32>>", f"tile<{m}x{n}xi1>"
    lines.append(f"""    %in_rows = cmpi less_than %rows, %most_rows, signed : {wide} -> {mask}
    %in_cols = cmpi less_than %cols, %most_cols, signed : {wide} -> {mask}
    %inside = andi %in_rows, %in_cols : {mask}
    %first = muli %rows, %most_cols : {wide}
    %offsets = addi %first, %cols : {wide}
    %base = reshape %c0 : tile<ptr<f32>> -> tile<1x1xptr<f32>>
    %bases = broadcast %base : tile<1x1xptr<f32>> -> {pointers}
    %places = offset %bases, %offsets : {pointers}, {wide} -> {pointers}
    %old, %w = atomic_rmw_tko {order} device %places, addf, %r, %inside
        : {pointers}, tile<{m}x{n}xf32>, {mask} -> tile<{m}x{n}xf32>, token{behind}""")
    return "\n".join(lines)


@pytest.mark.parametrize("gpu_name", TARGETS)
@pytest.mark.parametrize(
    ("m", "n", "rows", "columns", "k", "order"),
    [
        (128, 128, 72, 144, 80, 1),  # ragged edges, four parts
        # no step: zeros by way of tensor memory
        pytest.param(128, 256, 128, 256, 0, 2, marks=pytest.mark.slow),
        pytest.param(256, 256, 300, 272, 208, 3, marks=pytest.mark.slow),
    ],
)
def test_what_is_behind_a_loop_goes_part_by_part(gpu_name, m, n, rows, columns, k, order):
    text = with_epilogue(m, n)
    if gpu_name == "sm_100":
        parts = specialized(text, gpu_name)[0].count("tcgen05_ld")
        assert parts == m * n // (128 * (64 if n == 256 else 32))
    a, b, _, wanted = operands(rows, columns, max(k, 16))
    rng = np.random.default_rng(m)
    c, bias = rng.standard_normal((rows, columns)).astype(np.float16), rng.standard_normal(columns).astype(np.float32)
    wanted = np.maximum((wanted if k else 0) + bias, 0) + c.astype(np.float32)
    libtile.run(
        libtile.parse(text), "gemm", grid=(-(-rows // m), -(-columns // n), 1), args=[a, b, c, bias, rows, columns, k],
        backend="simulator", gpu_name=gpu_name, check="full", block_order=order,
    )  # fmt: skip
    np.testing.assert_allclose(c.astype(np.float32), wanted, atol=2e-2)


def test_a_store_behind_a_load_of_other_elements_leaves_that_whole():
    text = specialized(with_epilogue(128, 128, "%by, %bx"), "sm_100")[0]
    assert text.count("tcgen05_ld") == 4
    for bits in (128, 16):  # as what it finds out at run time asks
        assert len(re.findall(rf"nv_tileas.tiled_load.*<ldg, bits={bits},.* -> tile<128x128xf16", text)) == 1


@pytest.mark.parametrize("gpu_name", TARGETS)
def test_sums_are_added_to_memory_part_by_part(gpu_name):
    a, b, _, wanted = operands(72, 144, 80)
    before = np.random.default_rng(1).standard_normal((72, 144)).astype(np.float32)
    c = before.copy()
    libtile.run(
        libtile.parse(added(128, 128)), "gemm", grid=(1, 2, 1), args=[a, b, c, 72, 144, 80],
        backend="simulator", gpu_name=gpu_name, check="full",
    )  # fmt: skip
    np.testing.assert_allclose(c, before + wanted, atol=1e-3)


@pytest.mark.parametrize("text", [with_epilogue(128, 128), added(128, 128)], ids=["load", "atomic"])
@pytest.mark.parametrize("gpu_name", TARGETS)
def test_nothing_is_spilled_for_other_tiles_behind_a_loop(gpu_name, text):
    made = libtile.compile(libtile.parse(text), gpu_name=gpu_name)
    assert read_cubin(made.cubin).kernels["gemm"].frame == 0


@pytest.mark.parametrize(("order", "fences"), [("acq_rel", 2), ("relaxed", 0)])
def test_parts_in_a_row_have_one_fence_in_front_and_one_behind(order, fences):
    made = libtile.compile(libtile.parse(added(128, 128, order)), gpu_name="sm_90", emit="ptx")
    assert len(re.findall(r"\b(atom|red)\.", made.ptx)) == 4 * 32
    assert len(re.findall(r"fence\.acq_rel\.gpu", made.ptx)) == fences


def test_a_result_by_itself_is_stored_as_a_whole():
    assert specialized(tile_gemm(128, 128))[0].count("extract_slice") == 0


def test_an_atomic_whose_result_is_wanted_is_not_cut():
    text = added(128, 128).replace("%old, %w = atomic", "%kept, %w = atomic")
    stored = (
        "    %z = store_view_tko weak %kept, %vc[%bx, %by] : tile<128x128xf32>, "
        + re.search(r"partition_view<tile=\(128x128\), [^>]*>>", text)[0]
        + ", tile<i32> -> token\n    return"
    )
    made, _ = specialized(text.replace("    return", stored, 1))
    assert "extract_slice" not in made


@pytest.mark.parametrize("opt_level", [0, 1])
def test_parts_are_made_at_every_level(opt_level):
    made = libtile.compile(libtile.parse(added(128, 128)), gpu_name="sm_90", opt_level=opt_level, emit="tileas")
    assert made.tileas.count("nv_tileas.atomic_rmw") == 4
