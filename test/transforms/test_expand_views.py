# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`expand-views`: which accesses become ones through pointers, and that they read and write the same memory."""

from __future__ import annotations

import random

import numpy as np
import pytest

import libtile
from libtile.passes.manager import PassManager
from libtile.passes.pipeline import parse_pipeline
from libtile.support import remarks

CHECKS = "full,-race,-load-range,-store-range,-view-range"
"""All but that there is such a tile: grids are larger than tensors."""


def transformed(text: str, pipeline: str = "expand-views") -> tuple[libtile.Module, list[remarks.Remark]]:
    module = libtile.parse(text)
    with remarks.collect() as found:
        PassManager(parse_pipeline(pipeline)).run(module.op)
    libtile.verify(module)
    return module, found


def kernel(
    size: str = "?",
    tile: int = 64,
    index: str = "%b",
    index_type: str = "i32",
    padding: str = "",
    more: str = "",
    flags: str = "",
    hints: str = "",
) -> str:
    """A copy of a tile of a vector of `size` elements, `?` for a parameter."""
    dynamic = size == "?"
    tensor = f"tensor_view<{size}xf32, strides=[1]>"
    sizes = "%n" if dynamic else size
    types = "tile<i32> -> " if dynamic else ""
    view = f"partition_view<tile=({tile}){padding and f', padding_value = {padding}'}, {tensor}>"
    return f"""
cuda_tile.module @m {{
  entry @kernel(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>, %n: tile<i32>, %wide: tile<i64>) {{
    %b, %y, %z = get_tile_block_id : tile<i32>
    %zero = constant <i32: 0> : tile<i32>
    %v = make_tensor_view %p, shape = [{sizes}], strides = [1] : {types}{tensor}
    %w = make_tensor_view %q, shape = [{sizes}], strides = [1] : {types}{tensor}
    %from = make_partition_view %v : {view}
    %to = make_partition_view %w : {view}
    %x, %t = load_view_tko weak %from[{index}] {flags} {hints}: {view}, tile<{index_type}> -> tile<{tile}xf32>, token
    {more}
    store_view_tko weak %x, %to[{index}] token=%t {flags}: tile<{tile}xf32>, {view}, tile<{index_type}> -> token
    return
  }}
}}"""


def names(module: libtile.Module) -> list[str]:
    return [op.name.removeprefix("cuda_tile.") for op in module.op.walk()]


def test_loads_and_stores_of_ragged_tiles_go_through_pointers() -> None:
    module, found = transformed(kernel())
    assert {"load_ptr_tko", "store_ptr_tko"} <= set(names(module))
    assert not {"load_view_tko", "store_view_tko"} & set(names(module))
    assert [(r.kind, dict(r.arguments)) for r in found] == [(remarks.Kind.PASSED, {"Masked": "0"})] * 2


@pytest.mark.parametrize(("type_", "compared"), [("i8", 2), ("i32", 4)])
def test_indices_so_narrow_that_no_position_wraps_around_are_not_compared(type_: str, compared: int) -> None:
    zero = "    %zero = constant <i32: 0> : tile<i32>\n"
    number = "trunci %b : tile<i32> -> tile<i8>" if type_ == "i8" else "addi %b, %n : tile<i32>"
    text = kernel(index="%i", index_type=type_).replace(zero, zero + f"    %i = {number}\n")
    module, _ = transformed(text)
    assert names(module).count("cmpi") == compared
    assert all(r.kind is remarks.Kind.PASSED for r in transformed(text, "expand-views,contract-views")[1])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (kernel("64", index="%zero"), "it is in bounds"),
        (kernel(flags="inbounds = [true]"), "it is in bounds"),
        (kernel(tile=1), "it is of one element"),
        (kernel("60", index="%zero"), "it is known which elements are outside"),
        (kernel(hints="optimization_hints = <sm_90 = {latency = 3}> "), "it has hints on how to copy a tile"),
        (kernel(more="%u = print_tko \"%d\", %n : tile<i32> -> token"), "print_tko takes whole tiles"),
        (
            kernel(more="for %i in (%zero to %n, step %n) : tile<i32> {\ncontinue\n}"),
            "there is a loop",
        ),
        (kernel().replace("load_view_tko weak", "load_view_tko relaxed device"), "the access is not weak"),
    ],
)  # fmt: skip
def test_reasons_are_said_where_an_access_stays(text: str, reason: str) -> None:
    module, found = transformed(text)
    assert "load_view_tko" in names(module)
    assert dict(found[0].arguments)["Reason"] == reason


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ("%s = sin %x : tile<64xf32>", "sin takes more instructions than accesses do"),
        ("%s = divf %x, %x : tile<64xf32>", "divf takes more instructions than accesses do"),
        (
            "store_view_tko weak %x, %to[%b] : tile<64xf32>, VIEW, tile<i32> -> token\n" * 15,
            "there are more than 16 accesses through views",
        ),
    ],
)  # fmt: skip
def test_views_stay_where_their_accesses_are_little_of_a_kernel(more: str, reason: str) -> None:
    text = kernel(more=more.replace("VIEW", "partition_view<tile=(64), tensor_view<?xf32, strides=[1]>>"))
    module, found = transformed(text)
    assert "load_ptr_tko" not in names(module) and dict(found[0].arguments)["Reason"] == reason
    module, _ = transformed(text, "expand-views{everywhere=true}")
    assert "load_view_tko" not in names(module)


def test_an_approximate_quotient_is_a_few_instructions() -> None:
    module, _ = transformed(kernel(more="%s = divf %x, %x rounding<approx> : tile<64xf32>"))
    assert "load_ptr_tko" in names(module)


def test_everywhere_takes_loops_and_whole_tiles_too() -> None:
    loop = "for %i in (%zero to %n, step %n) : tile<i32> {\ncontinue\n}"
    for more in (loop, 'print_tko "%d", %n : tile<i32> -> token'):
        module, _ = transformed(kernel(more=more), "expand-views{everywhere=true}")
        assert "load_view_tko" not in names(module)


@pytest.mark.parametrize(("tile", "compared"), [(256, 0), (512, 1)])
def test_an_index_is_compared_only_where_positions_may_wrap_around(tile: int, compared: int) -> None:
    module, _ = transformed(kernel(tile=tile), "expand-views,canonicalize,cse,dce")
    comparisons = [op for op in module.op.walk() if op.name == "cuda_tile.cmpi"]
    scalars = [op for op in comparisons if op.results[0].type.shape == ()]
    assert len(scalars) == compared and len(comparisons) == compared + 1


@pytest.mark.parametrize("index", [0, 1, 2, 3, 1 << 23, (1 << 32) - 1, (1 << 32) // 512, (1 << 32) // 512 + 1])
def test_tiles_beyond_the_tensor_are_neither_read_nor_written(index: int) -> None:
    number = index - (1 << 32) if index >= 1 << 31 else index
    text = kernel(tile=512, index="%at", padding="nan", more="").replace(
        "%zero = ", f"%at = constant <i32: {number}> : tile<i32>\n%zero = "
    )
    results = []
    for module in (libtile.parse(text), transformed(text)[0]):
        p, q = np.arange(1000, dtype=np.float32), np.full(1000, -1, np.float32)
        libtile.run(module, "kernel", grid=(1, 1, 1), args=[p, q, 1000, 0], check=f"{CHECKS},-overflow")
        results.append(q.tobytes())
    assert results[0] == results[1]


# -- random ones ------------------------------------------------------------------------------------------------------

TYPES = {"f32": np.float32, "i8": np.int8, "f16": np.float16, "i64": np.int64}


def random_kernel(rng: random.Random) -> tuple[str, tuple[int, int], int, str]:
    """A tile of a matrix is loaded and stored to another: shapes, orders, steps, widths, paddings at random."""
    element = rng.choice(list(TYPES))
    rows, columns = rng.choice([(5, 9), (16, 32), (1, 1), (13, 64), (40, 3), (33, 70)])
    lead = columns + rng.choice([0, 0, 5])
    tile = (rng.choice([1, 2, 8, 16]), rng.choice([1, 4, 32]))
    dim_map = rng.choice([[0, 1], [1, 0]])
    padding = rng.choice(["", "zero", "zero"] + ["nan", "neg_inf", "neg_zero"] * (element[0] == "f"))
    width = rng.choice(["i32", "i32", "i64", "i16"])
    index = rng.choice(["i32", "i32", "i64", "i8"])
    fixed = rng.choice([(), (0,), (1,), (0, 1)])
    sizes = [str(size) if number in fixed else "?" for number, size in enumerate((rows, columns))]
    tensor = f"tensor_view<{'x'.join(sizes)}x{element}, strides=[{rng.choice(['?', str(lead)])},1]>"
    dynamic = [f"%n{number}" for number in range(2) if number not in fixed]
    shape = ", ".join(f"%n{number}" if number not in fixed else sizes[number] for number in range(2))
    stride = "%ld" if "strides=[?" in tensor else str(lead)
    operands = f"tile<{width}> -> " if dynamic or stride == "%ld" else ""
    map_ = f", dim_map=[{dim_map[0]}, {dim_map[1]}]" if dim_map != [0, 1] else ""
    pad = f", padding_value = {padding}" if padding else ""
    kind, step = ("partition", "")
    if rng.random() < 0.3:
        kind, step = "strided", f", traversal_strides=[{rng.choice([1, 3, tile[0]])},{rng.choice([1, 2, 7])}]"
    views = f"{kind}_view<tile=({tile[0]}x{tile[1]}){step}{pad}, {tensor}{map_}>"
    shape_of_tile = f"tile<{tile[0]}x{tile[1]}x{element}>"
    parameters = ", ".join(f"{name}: tile<{width}>" for name in ("%n0", "%n1", "%ld"))
    text = f"""
cuda_tile.module @m {{
  entry @kernel(%p: tile<ptr<{element}>>, %q: tile<ptr<{element}>>, {parameters}) {{
    %bx, %by, %z = get_tile_block_id : tile<i32>
    %x = {_converted("%bx", index)}
    %y = {_converted("%by", index)}
    %v = make_tensor_view %p, shape = [{shape}], strides = [{stride}, 1] : {operands}{tensor}
    %w = make_tensor_view %q, shape = [{shape}], strides = [{stride}, 1] : {operands}{tensor}
    %from = make_{kind}_view %v : {views}
    %to = make_{kind}_view %w : {views}
    %value, %t = load_view_tko weak %from[%x, %y] : {views}, tile<{index}> -> {shape_of_tile}, token
    store_view_tko weak %value, %to[%x, %y] token=%t : {shape_of_tile}, {views}, tile<{index}> -> token
    return
  }}
}}"""
    return text, (rows, columns), lead, element


def _converted(value: str, type_: str) -> str:
    """An op that makes a block's number one of another width."""
    if type_ == "i32":
        return f"assume bounded<0, ?>, {value} : tile<i32>"
    op, how = ("exti", "unsigned ") if type_ == "i64" else ("trunci", "")
    return f"{op} {value} {how}: tile<i32> -> tile<{type_}>"


def check_random(seed: int) -> int:
    """Compare a random kernel's memory before and behind the pass; returns how many accesses it has changed."""
    rng = random.Random(seed)
    text, (rows, columns), lead, element = random_kernel(rng)
    versions = [libtile.parse(text)]
    module, found = transformed(text)
    versions += [
        module,
        transformed(text, "tile-O3")[0],
        transformed(text, "expand-views,recover-views,canonicalize")[0],
    ]
    for tidy in ("", "canonicalize,cse,licm,dce,"):
        again, said = transformed(text, f"expand-views,{tidy}contract-views")
        versions.append(again)
        came_back = [r for r in said if r.name == "ContractViews"]
        assert all(r.kind is remarks.Kind.PASSED for r in came_back), f"seed {seed}\n{came_back}\n{text}"
    memory = []
    for version in versions:
        p = np.arange(1, rows * lead + 1).astype(TYPES[element])
        q = np.full_like(p, 77)
        args = [p, q, rows, columns, lead]
        libtile.run(
            version, "kernel", grid=(4, 5, 1), args=args, check="full,-race,-store-range,-load-range,-view-range"
        )
        memory.append(q.tobytes())
    assert memory.count(memory[0]) == len(memory), f"seed {seed}\n{text}"
    return sum(r.kind is remarks.Kind.PASSED for r in found)


def test_random_accesses_do_the_same() -> None:
    assert sum(check_random(seed) for seed in range(25)) > 25


@pytest.mark.slow
def test_many_random_accesses_do_the_same() -> None:
    for seed in range(25, 400):
        check_random(seed)
