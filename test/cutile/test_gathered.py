# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products whose operands are gathered: by computed indices, by numbers of rows, as convolutions."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from cutile.models import attention, gathered
from examples.export import portable_file_names
from kernels.broken_code import OneBlock
from libtile import cutile
from libtile.compiler import driver
from libtile.compiler.options import Options
from libtile.cutile.launching import flat_launch

Array = npt.NDArray[Any]
BF16 = ml_dtypes.bfloat16
TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120")
SCHEDULES = (None, 1, 2, 3)


@pytest.fixture(autouse=True)
def _portable():
    with portable_file_names():
        yield


def random(rng: np.random.Generator, *shape: int, dtype: Any = np.float16) -> Array:
    return (rng.standard_normal(shape) * 0.5).astype(dtype)


Problem = tuple[Any, tuple[int, ...], tuple[Any, ...], Array]
"""A kernel, its grid and arguments, of which the last array is the result, and what numpy says that it is."""


def embedding(tiles: tuple[int, int, int], dtype: Any = np.float16, index: Any = np.int32, less: int = 8) -> Problem:
    """Numbers of rows that the table has not, negative ones too, stand for rows of zeros. Rows of a multiple of 16
    elements, `less` than three tiles, are known to be such ones."""
    m, n, k = tiles
    rng = np.random.default_rng(0)
    table, w = random(rng, 50, 3 * k - less, dtype=dtype), random(rng, 3 * k - less, n + 8, dtype=dtype)
    ids = rng.integers(-3, 53, 2 * m).astype(index)
    if index is np.int64:
        ids[5] = 1 << 32  # whose low half names a row
    inside = (ids >= 0) & (ids < 50)
    wanted = np.where(inside[:, None], table[np.where(inside, ids, 0)].astype(float) @ w.astype(float), 0)
    return gathered.embedding, (2, 2), (table, ids, w, np.zeros(wanted.shape, np.float32), m, n, k), wanted


def by_pointers(tiles: tuple[int, int, int], odd: int = 0, turned: bool = False) -> Problem:
    """Rows that begin at a multiple of 16 bytes, unless their lengths are `odd`."""
    m, n, k = tiles
    rng = np.random.default_rng(1)
    a, b = random(rng, 2 * m - 8, 3 * k - 24 + odd), random(rng, 3 * k - 24 + odd, 2 * n - 8 + odd)
    wanted = a.astype(float) @ b.astype(float)
    given = np.ascontiguousarray(b.T) if turned else b
    return gathered.by_pointers, (2, 2), (a, given, np.zeros(wanted.shape, np.float32), m, n, k, turned), wanted


def dilated(tiles: tuple[int, int, int]) -> Problem:
    """Tiles reach beyond the row, and the last ones of a picture's rows beyond the picture."""
    m, n, k = tiles
    rng = np.random.default_rng(3)
    x, w = random(rng, 2, 6, m + 20, 2 * k - 8), random(rng, 3, 2, 2 * k - 8, n)
    padded = np.zeros((2, 6 + 4, 2 * m + 2, x.shape[3]))
    padded[:, :6, : m + 20] = x
    wanted = np.asarray(
        sum(
            padded[:, 2 * r : 2 * r + 6, 2 * s : 2 * s + 2 * m] @ w[r, s].astype(float)
            for r in range(3)
            for s in range(2)
        )
    )
    return gathered.dilated, (2, 6, 2), (x, w, np.zeros(wanted.shape, np.float32), m, n, k, 3, 2, 2), wanted


def apart(tiles: tuple[int, int, int]) -> Problem:
    m, n, k = tiles
    rng = np.random.default_rng(4)
    x, w = random(rng, 7, 2 * m + 1, 2 * k - 8), random(rng, 3, 2, 2 * k - 8, n)
    wanted = np.asarray(
        sum(
            x[r : r + 5 : 2, s : s + 2 * m : 2].astype(float) @ w[r, s].astype(float)
            for r in range(3)
            for s in range(2)
        )
    )
    return gathered.apart, (1, 3), (x, w, np.zeros(wanted.shape, np.float32), m, n, k, 3, 2), wanted


def padded(tiles: tuple[int, int, int], less: int = 8) -> Problem:
    m, n, k = tiles
    rng = np.random.default_rng(6)
    x, w = random(rng, 4, m + 8, 2 * k - less), random(rng, 3, 3, 2 * k - less, n)
    around = np.zeros((6, 2 * m + 2, x.shape[2]))
    around[1:5, 1 : m + 9] = x
    parts = [around[r : r + 4, s : s + 2 * m] @ w[r, s].astype(float) for r in range(3) for s in range(3)]
    wanted = np.asarray(sum(parts))
    return gathered.padded, (2, 4), (x, w, np.zeros(wanted.shape, np.float32), m, n, k, 3, 3), wanted


def images(tiles: tuple[int, int, int]) -> Problem:
    """Pictures whose rows of results are no power of two, and a tile that reaches beyond the last one."""
    m, n, k = tiles
    rng = np.random.default_rng(7)
    x, w = random(rng, 2, 10, 12, k), random(rng, 3, 3, k, n)
    around = np.pad(x.astype(float), ((0, 0), (1, 1), (1, 1), (0, 0)))
    parts = [around[:, r : r + 10 : 2, s : s + 12 : 2] @ w[r, s].astype(float) for r in range(3) for s in range(3)]
    wanted = np.asarray(sum(parts)).reshape(-1, n)
    return gathered.images, (1, 1), (x, w, np.zeros(wanted.shape, np.float32), 10, 12, m, n, k), wanted


def prefill(tiles: tuple[int, int, int], parts: int = 1) -> Problem:
    """Attention of many queries over pages that a table names, tile by tile or in parts of pages that are found by
    divisions, of sequences that end within a page."""
    queries, d, each = tiles
    page = parts * each
    rng = np.random.default_rng(5)
    q = random(rng, 3, 2, queries, d)
    k, v = (random(rng, 9, 2, page, d) for _ in range(2))
    table = rng.permutation(9).reshape(3, 3).astype(np.int32)
    lengths = np.array([page + 6, 3 * page, 1], np.int32)
    wanted = np.zeros(q.shape)
    for b, length in enumerate(lengths):
        keys, values = (x[table[b]].transpose(1, 0, 2, 3).reshape(2, -1, d)[:, :length].astype(float) for x in (k, v))
        scores = q[b].astype(float) @ keys.transpose(0, 2, 1) * 0.125
        e = np.exp(scores - scores.max(-1, keepdims=True))
        wanted[b] = e / e.sum(-1, keepdims=True) @ values
    args = (q, k, v, table, lengths, np.zeros(q.shape, np.float32), 0.125, queries, page, each, d)
    return attention.paged, (3, 2), args, wanted


PROBLEMS: dict[str, Callable[[tuple[int, int, int]], Problem]] = {
    "embedding": embedding,
    "embedding_bf16": lambda tiles: embedding(tiles, BF16),
    "embedding_i64": lambda tiles: embedding(tiles, index=np.int64),
    "embedding_copied": partial(embedding, less=16),
    "by_pointers": by_pointers,
    "odd_rows": partial(by_pointers, odd=1),
    "transposed": partial(by_pointers, turned=True),
    "dilated": dilated,
    "apart": apart,
    "padded": padded,
    "padded_copied": partial(padded, less=16),
    "prefill": prefill,
    "prefill_by_parts": partial(prefill, parts=2),
    "images": images,
}


def check(name: str, tiles: tuple[int, int, int], **options: Any) -> None:
    kernel, grid, given, wanted = PROBLEMS[name](tiles)
    args = tuple(x.copy() if isinstance(x, np.ndarray) else x for x in given)
    cutile.launch(kernel, grid, args, check="full,-view-range", **options)
    (result,) = [x for x in args if isinstance(x, np.ndarray) and x.dtype == np.float32]
    np.testing.assert_allclose(result, wanted, rtol=0.01, atol=0.05)


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_interpreter_gives_what_numpy_gives(name: str) -> None:
    check(name, (64, 64, 32), backend="interpreter")


@pytest.mark.parametrize(
    ("name", "target"),
    [
        pytest.param(name, target, marks=[] if n % len(TARGETS) == place and n < 4 else pytest.mark.slow)
        for n, name in enumerate(PROBLEMS)
        for place, target in enumerate(TARGETS)
    ],
)
def test_the_code_of_a_target_gives_what_numpy_gives(name: str, target: str) -> None:
    check(name, (64, 64, 32), backend="simulator", gpu_name=target)


@pytest.mark.slow
@pytest.mark.parametrize("order", SCHEDULES)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", PROBLEMS)
def test_tiles_of_full_size_are_right_in_several_schedules(name: str, target: str, order: int | None) -> None:
    check(name, (128, 128, 64), backend="simulator", gpu_name=target, block_order=order)


COPIED_BY_TMA = {"by_pointers": 2, "transposed": 2, "dilated": 2}
"""The kernels both of whose operands TMA copies."""


@pytest.mark.parametrize("target", TARGETS[1:])
@pytest.mark.parametrize("name", COPIED_BY_TMA)
def test_boxes_are_copied_by_a_producer(name: str, target: str) -> None:
    kernel, _, args, _ = PROBLEMS[name]((128, 128, 64))
    done = driver.compile_bytecode(cutile.bytecode_for(kernel, args)[0], Options(target, emit="tileas"))
    text = done.tileas
    assert "agent_switch" in text and "not_specialized" not in text
    assert text.count("nv_tileas.async.tiled_tma_load") >= COPIED_BY_TMA[name]


@pytest.mark.parametrize("target", ["sm_90", "sm_100"])
@pytest.mark.parametrize("name", ["embedding", "embedding_i64", "apart", "padded", "images"])
def test_what_tma_does_not_copy_is_loaded_by_warps_beside_the_producer(name: str, target: str) -> None:
    kernel, _, args, _ = PROBLEMS[name]((128, 128, 64))
    done = driver.compile_bytecode(cutile.bytecode_for(kernel, args)[0], Options(target, emit="tileas"))
    assert "agent_switch" in done.tileas and "not_specialized" not in done.tileas
    agents = {"sm_90": "[4, 4, 4]", "sm_100": "[4, 1, 1, 4]"}
    assert f"agent_warps = {agents[target]}" in done.tileas


@pytest.mark.parametrize("order", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "name",
    [
        "embedding",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("dilated", "padded", "prefill", "prefill_by_parts")),
    ],
)
@pytest.mark.parametrize("target", ["sm_90", "sm_100"])
def test_agents_are_right_in_other_schedules(name: str, target: str, order: int) -> None:
    check(name, (64, 64, 32), backend="simulator", gpu_name=target, block_order=order)


@pytest.mark.parametrize("target", TARGETS[1:])
@pytest.mark.parametrize("parts", [1, 2])
def test_the_producer_loads_the_numbers_of_pages(target: str, parts: int) -> None:
    kernel, _, args, _ = prefill((128, 128, 64), parts)
    done = driver.compile_bytecode(cutile.bytecode_for(kernel, args)[0], Options(target, emit="tileas"))
    assert "agent_switch" in done.tileas and "not_specialized" not in done.tileas


def test_decoding_of_8_queries_multiplies_128_rows_by_8_columns() -> None:
    """As the original assembler does."""
    kernel, _, args, _ = prefill((8, 128, 128), 2)
    done = driver.compile_bytecode(cutile.bytecode_for(kernel, args)[0], Options("sm_100", emit="tileas"))
    assert "not_specialized" not in done.tileas and done.tileas.count("mma_atom<tcgen05, 128x8x16") >= 2


@pytest.mark.slow
@pytest.mark.parametrize("order", SCHEDULES)
@pytest.mark.parametrize("tiles", [(8, 128, 128), (8, 64, 64)])
def test_decoding_of_8_queries_is_right(tiles: tuple[int, int, int], order: int | None) -> None:
    kernel, grid, args, wanted = prefill(tiles, 2)
    cutile.launch(
        kernel, grid, args, check="full,-view-range", backend="simulator", gpu_name="sm_100", block_order=order
    )
    np.testing.assert_allclose(args[5], wanted, rtol=0.01, atol=0.05)


@pytest.mark.parametrize("target", ["sm_90", "sm_100"])
@pytest.mark.parametrize("left_out", ["fence", "arrival"])
def test_what_is_left_out_where_warps_load_an_operand_is_found(left_out: str, target: str) -> None:
    kernel, _, given, _ = embedding((64, 64, 32))
    data, symbol, args = flat_launch(kernel, given, target)
    OneBlock(data, symbol, args, target).check_what_threads_write(left_out)


@pytest.mark.parametrize("target", ["sm_90", "sm_100"])
def test_copies_of_warps_that_products_do_not_wait_for_are_found(target: str) -> None:
    """Each thread's copies arrive when they are done, and whoever issues products has a fence of proxies."""
    kernel, _, given, _ = embedding((64, 64, 32), less=16)
    data, symbol, args = flat_launch(kernel, given, target)
    block = OneBlock(data, symbol, args, target)
    assert "cp.async.cg.shared.global" in block.ptx
    fences = list(re.finditer(r"fence\.proxy\.async[^\n]*;", block.ptx))
    assert block.fault_without(fences[-1]) == "proxy-fence"
    arrivals = list(re.finditer(r"cp\.async\.mbarrier\.arrive\.noinc\.shared\S*\s+(\[[^\]]*\]);", block.ptx))
    assert block.fault_without(arrivals[-1]) in ("deadlock", "divergent-barrier")
    early = f"{{ .reg .b64 %early; mbarrier.arrive.shared.b64 %early, {arrivals[-1][1]}; }}"
    assert block.fault_with(arrivals[-1], early) == "async"


@pytest.mark.slow
@pytest.mark.parametrize("order", range(20))
@pytest.mark.parametrize("target", ["sm_90", "sm_100"])
@pytest.mark.parametrize("name", ["embedding_copied", "padded_copied"])
def test_copies_of_warps_are_right_in_every_schedule(name: str, target: str, order: int) -> None:
    check(name, (64, 64, 32), backend="simulator", gpu_name=target, block_order=order)


@pytest.mark.parametrize("target", ["sm_90", "sm_100"])
@pytest.mark.parametrize("name", ["embedding_copied", "padded_copied"])
def test_rows_that_lie_together_are_copied_by_warps_beside_the_producer(name: str, target: str) -> None:
    kernel, _, args, _ = PROBLEMS[name]((128, 128, 64))
    done = driver.compile_bytecode(cutile.bytecode_for(kernel, args)[0], Options(target, emit="tileas"))
    copies = [line for line in done.tileas.splitlines() if "nv_tileas.async." in line and "ldgsts, bits=128" in line]
    assert copies and "not_specialized" not in done.tileas
