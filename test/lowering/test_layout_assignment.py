# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which layouts real kernels get: what moves between threads, and what does not."""

from pathlib import Path

import numpy as np
import pytest
from xdsl.ir import Operation

import libtile
from libtile.dialects.nv_tileas.memory import TiledLoadOp
from libtile.dialects.nv_tileas.tiles import ConvertLayoutOp
from libtile.layouts import REGISTER
from libtile.layouts.parts import are_told_apart, part_bits
from libtile.lowering.tileas.cleanup import clean_up
from libtile.lowering.to_tileaa.conversion import convert_module as to_tileaa
from libtile.lowering.to_tileas.conversion import convert_module as to_tileas
from libtile.lowering.to_tileas.types import layout_of
from libtile.targets import target

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120")


def tileas(name: str, gpu: str) -> Operation:
    """An example's kernel in nv_tileas, before loops are pipelined."""
    inner = to_tileaa(libtile.read(EXAMPLES / f"{name}.bc").op, target(gpu))
    to_tileas(inner)
    (function,) = (op for op in inner.body.block.ops if op.name == "nv_tileaa.func")
    clean_up(function)
    return function


def the_loop(function: Operation) -> Operation:
    (loop,) = (op for op in function.walk() if op.name == "scf.for")
    return loop


def origin(op: Operation) -> str:
    """The name of the op whose result is converted, behind those that only rename elements."""
    source = op.operands[0].owner
    while isinstance(source, Operation) and source.name in ("nv_tileaa.view", "nv_tileaa.permute"):
        source = source.operands[0].owner
    return source.name if isinstance(source, Operation) else "argument"


def test_no_thread_has_copies_of_a_small_tile():
    """Of 256 elements each of 128 threads has two, which half of them would have as well for accesses of 16 bytes."""
    loads = [op for op in tileas("vector_add", "sm_90").walk() if isinstance(op, TiledLoadOp)]
    layouts = {layout_of(op.value) for op in loads}
    assert len(loads) == 2 and len(layouts) == 1
    (layout,) = layouts
    assert layout.in_size(REGISTER) == 2 and not any(layout.free_bits().values())


LINE = "partition_view<tile=(512), tensor_view<512xf16, strides=[1]>>"
ROWS = "partition_view<tile=(4x512), tensor_view<64x512xf16, strides=[512,1]>>"
WEIGHTED_ROWS = f"""cuda_tile.module @m {{
  entry @k(%p: tile<ptr<f16>>, %q: tile<ptr<f16>>) {{
    %0 = constant <i32: 0> : tile<i32>
    %l = make_tensor_view %p, shape = [512], strides = [1] : tensor_view<512xf16, strides=[1]>
    %r = make_tensor_view %q, shape = [64, 512], strides = [512, 1] : tensor_view<64x512xf16, strides=[512,1]>
    %vl = make_partition_view %l : {LINE}
    %vr = make_partition_view %r : {ROWS}
    %w, %t = load_view_tko weak %vl[%0] : {LINE}, tile<i32> -> tile<512xf16>, token
    %x, %u = load_view_tko weak %vr[%0, %0] : {ROWS}, tile<i32> -> tile<4x512xf16>, token
    %w1 = reshape %w : tile<512xf16> -> tile<1x512xf16>
    %ws = broadcast %w1 : tile<1x512xf16> -> tile<4x512xf16>
    %y = mulf %x, %ws : tile<4x512xf16>
    %s = store_view_tko weak %y, %vr[%0, %0] : tile<4x512xf16>, {ROWS}, tile<i32> -> token
    return
  }}
}}
"""


def test_a_line_of_a_larger_tile_lies_as_in_that():
    """Though half of the threads have copies of it: it is not converted."""
    made = libtile.compile(libtile.parse(WEIGHTED_ROWS), gpu_name="sm_90", emit="tileas").tileas
    assert "tiled_load" in made and "convert_layout" not in made


@pytest.mark.parametrize("gpu", TARGETS)
def test_attention_converts_only_what_it_loads(gpu):
    function = tileas("attention", gpu)
    inside = [op for op in the_loop(function).walk() if isinstance(op, ConvertLayoutOp)]
    assert [origin(op) for op in inside] == ["nv_tileas.tiled_load"] * 2, "keys and values"
    outside = [op for op in function.walk() if isinstance(op, ConvertLayoutOp) and op not in inside]
    assert len(outside) == 2, "the queries before the loop, the result after it"


@pytest.mark.parametrize("gpu", TARGETS)
def test_attention_sums_rows_within_four_lanes_and_spills_nothing(gpu):
    """On sm_100 scores come from tensor memory, where two threads share a row."""
    made = libtile.compile(EXAMPLES / "attention.bc", gpu_name=gpu)
    distances = {line.split(",")[2].strip() for line in made.ptx.splitlines() if "shfl.sync.bfly" in line}
    assert distances == ({"16"} if gpu == "sm_100" else {"1", "2"})
    assert made.kernels["attention"].spills == 0


@pytest.mark.parametrize("name", ["vector_add", "softmax", "layer_norm", "prefix_sum", "histogram"])
def test_kernels_without_products_or_transposes_convert_nothing(name):
    assert not [op for op in tileas(name, "sm_80").walk() if isinstance(op, ConvertLayoutOp)]


def products(shapes: list[tuple[int, int, int]], element: str = "f16", result: str = "f32", chain: bool = False) -> str:
    """A kernel of products m x n x k; with `chain` each adds to the result of the one before."""
    lines = []
    for i, (m, n, k) in enumerate(shapes):
        acc = f"%r{i - 1}" if chain and i else f"%c{i}"
        left, right, sum_ = f"tile<{m}x{k}x{element}>", f"tile<{k}x{n}x{element}>", f"tile<{m}x{n}x{result}>"
        lines += [
            f"%a{i} = constant <{element}: 1.0> : {left}",
            f"%b{i} = constant <{element}: 1.0> : {right}",
            f"%c{i} = constant <{result}: 0.0> : {sum_}",
            f"%r{i} = mmaf %a{i}, %b{i}, {acc} : {left}, {right}, {sum_}",
        ]
        if not chain or i == len(shapes) - 1:
            lines.append(f'print_tko "%f", %r{i} : {sum_} -> token')
    return "cuda_tile.module @m { entry @k() {\n" + "\n".join(lines) + "\nreturn\n}}"


@pytest.mark.parametrize(
    "text, warps",
    [
        (products([(128, 128, 16)]), 4),
        (products([(128, 256, 16)]), 8),
        (products([(128, 128, 16), (128, 64, 16)]), 8),
        (products([(128, 128, 16), (128, 128, 16)], chain=True), 4),
        (products([(128, 128, 16)], "f64", "f64"), 8),
    ],
    ids=["one", "one large", "two", "two into one", "f64"],
)
def test_warps_are_as_many_as_the_accumulators_need(text, warps):
    assert number_of_warps(text) == warps


def test_more_warps_have_no_more_registers_where_blocks_share_a_multiprocessor():
    """Four warps of each of two blocks have all registers that their threads can name."""
    text = products([(128, 256, 16)])
    for blocks, warps in ((1, 8), (2, 4)):
        hints = f"@k() optimization_hints = <sm_80 = {{occupancy = {blocks}}}>"
        assert number_of_warps(text.replace("@k()", hints)) == warps


def number_of_warps(text: str) -> int:
    inner = to_tileaa(libtile.parse(text).op, target("sm_80"))
    (function,) = (op for op in inner.body.block.ops if op.name == "nv_tileaa.func")
    return function.kernel_spec.num_warps


@pytest.mark.parametrize(
    "tile, warps",
    [
        ("8192xf32", 4),
        ("128x128xf32", 8),
        ("1x32768xi32", 16),
        ("512x512xf32", 16),
        ("8192xf64", 8),
        ("16384xf16", 4),
        ("32768xi8", 8),
    ],
)
def test_warps_are_as_many_as_the_largest_tile_needs(tile, warps):
    assert number_of_warps(printing(tile)) == warps


def printing(tile: str, hints: str = "") -> str:
    """A kernel that prints a tile of zeros."""
    element = tile.rsplit("x", 1)[1]
    value = "0.0" if element.startswith("f") else "0"
    body = f'%c = constant <{element}: {value}> : tile<{tile}> print_tko "%d", %c : tile<{tile}> -> token return'
    return f"cuda_tile.module @m {{ entry @k() {hints} {{ {body} }} }}"


def test_large_tiles_leave_room_for_the_blocks_that_a_hint_wants_together():
    hints = "optimization_hints = <sm_80 = {occupancy = 5}>"
    assert number_of_warps(printing("32768xf32", hints)) == 8


def _halves(distance: int) -> str:
    """Elements of a tile of 256 that are so far apart are compared, those behind the hundredth the other way round,
    as in a sorting network."""
    pairs, view = f"{128 // distance}x2x{distance}", "partition_view<tile=(256), tensor_view<256xf32, strides=[1]>>"
    half = f"{128 // distance}x1x{distance}"
    return f"""cuda_tile.module @m {{
  entry @k(%p: tile<ptr<f32>>) {{
    %0 = constant <i32: 0> : tile<i32>
    %1 = constant <i32: 1> : tile<i32>
    %l = make_tensor_view %p, shape = [256], strides = [1] : tensor_view<256xf32, strides=[1]>
    %v = make_partition_view %l : {view}
    %x, %t = load_view_tko weak %v[%0] : {view}, tile<i32> -> tile<256xf32>, token
    %y = reshape %x : tile<256xf32> -> tile<{pairs}xf32>
    %a = extract %y[%0, %0, %0] : tile<{pairs}xf32> -> tile<{half}xf32>
    %b = extract %y[%0, %1, %0] : tile<{pairs}xf32> -> tile<{half}xf32>
    %i = iota : tile<256xi32>
    %j = reshape %i : tile<256xi32> -> tile<{pairs}xi32>
    %n = extract %j[%0, %0, %0] : tile<{pairs}xi32> -> tile<{half}xi32>
    %d = constant <i32: 100> : tile<{half}xi32>
    %up = cmpi less_than %n, %d, signed : tile<{half}xi32> -> tile<{half}xi1>
    %lo = minf %a, %b : tile<{half}xf32>
    %hi = maxf %a, %b : tile<{half}xf32>
    %f = select %up, %lo, %hi : tile<{half}xi1>, tile<{half}xf32>
    %g = select %up, %hi, %lo : tile<{half}xi1>, tile<{half}xf32>
    %c = cat %f, %g dim = 1 : tile<{half}xf32>, tile<{half}xf32> -> tile<{pairs}xf32>
    %z = reshape %c : tile<{pairs}xf32> -> tile<256xf32>
    %s = store_view_tko weak %z, %v[%0] : tile<256xf32>, {view}, tile<i32> -> token
    return
  }}
}}"""


@pytest.mark.parametrize("distance", [1, 8, 32, 128])
def test_parts_of_one_tile_are_told_apart_by_one_exchange(distance):
    """What is loaded is brought once to where each thread has both halves' elements, not once for each half, and what
    is made of a range is made there."""
    inner = to_tileaa(libtile.parse(_halves(distance)).op, target("sm_90"))
    to_tileas(inner)
    (function,) = (op for op in inner.body.block.ops if op.name == "nv_tileaa.func")
    clean_up(function)
    parts = [op for op in function.walk() if op.name == "nv_tileaa.extract"]
    assert len(parts) == 3
    for op in parts:
        whole, part = layout_of(op.operands[0]), layout_of(op.results[0])
        assert are_told_apart(whole, part_bits(whole, part.shape))
    conversions = [op for op in function.walk() if isinstance(op, ConvertLayoutOp)]
    # There and back; of neighbours each thread has both from the start.
    assert [origin(op) for op in conversions] == ([] if distance == 1 else ["nv_tileas.tiled_load", "nv_tileaa.cat"])


@pytest.mark.parametrize("distance", [1, 8, 32, 128])
def test_parts_that_registers_tell_apart_are_the_right_ones(distance):
    values = np.random.default_rng(distance).permutation(256).astype(np.float32)
    expected, code = values.copy(), libtile.parse(_halves(distance))
    libtile.run(code, "k", grid=1, args=[expected])
    assert not np.array_equal(values, expected)
    libtile.run(code, "k", grid=1, args=[values], backend="simulator", gpu_name="sm_90", check="full")
    np.testing.assert_array_equal(values, expected)
