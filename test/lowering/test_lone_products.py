# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products in no loop are multiplied by agents on sm_90 as well: by wgmma, of tiles that a producer copies."""

from __future__ import annotations

import numpy as np
import pytest

import libtile

SM_90 = "sm_90"


def _view(name: str, rows: int, columns: int, element: str = "f16") -> str:
    """A view of one tile of a tensor that begins at a parameter."""
    tensor = f"tensor_view<{rows}x{columns}x{element}, strides=[{columns},1]>"
    return f"""
    %{name}1 = assume div_by<16>, %{name}0 : tile<ptr<{element}>>
    %t{name} = make_tensor_view %{name}1, shape = [{rows}, {columns}], strides = [{columns}, 1] : {tensor}
    %v{name} = make_partition_view %t{name} : partition_view<tile=({rows}x{columns}), {tensor}>"""


def _load(name: str, rows: int, columns: int) -> str:
    view = f"partition_view<tile=({rows}x{columns}), tensor_view<{rows}x{columns}xf16, strides=[{columns},1]>>"
    return f"""
    %{name}, %{name}t = load_view_tko weak %v{name}[%i, %i] : {view}, tile<i32> -> tile<{rows}x{columns}xf16>, token"""


def _store(name: str, value: str, rows: int, columns: int) -> str:
    view = f"partition_view<tile=({rows}x{columns}), tensor_view<{rows}x{columns}xf32, strides=[{columns},1]>>"
    return f"""
    store_view_tko weak {value}, %v{name}[%i, %i] : tile<{rows}x{columns}xf32>, {view}, tile<i32> -> token"""


def _dot(result: str, a: str, b: str, m: int, n: int, k: int, c: str = "") -> str:
    types = f"tile<{m}x{k}xf16>, tile<{k}x{n}xf16>, tile<{m}x{n}xf32>"
    zero = f"%z{result} = constant <f32: 0.0> : tile<{m}x{n}xf32>\n    " if not c else ""
    return f"""
    {zero}%{result} = mmaf %{a}, %{b}, {c or f"%z{result}"} : {types}"""


def _kernel(parameters: str, body: str) -> str:
    return f"""cuda_tile.module @m {{
  entry @kernel({parameters}) {{
    %i = constant <i32: 0> : tile<i32>{body}
    return
  }}
}}"""


def layers(m: int, k: int, n: int, e: int) -> str:
    """y = relu(x a) b."""
    relu = f"""
    %none = constant <f32: 0.0> : tile<{m}x{n}xf32>
    %s2 = maxf %s, %none : tile<{m}x{n}xf32>
    %h = ftof %s2 : tile<{m}x{n}xf32> -> tile<{m}x{n}xf16>"""
    views = _view("x", m, k) + _view("a", k, n) + _view("b", n, e) + _view("y", m, e, "f32")
    first = _load("x", m, k) + _load("a", k, n) + _dot("s", "x", "a", m, n, k)
    second = relu + _load("b", n, e) + _dot("d", "h", "b", m, e, n) + _store("y", "%d", m, e)
    parameters = "%x0: tile<ptr<f16>>, %a0: tile<ptr<f16>>, %b0: tile<ptr<f16>>, %y0: tile<ptr<f32>>"
    return _kernel(parameters, views + first + second)


def gated(m: int, k: int, n: int) -> str:
    """y = (x a) * (x b), whose products share a tile."""
    views = _view("x", m, k) + _view("a", k, n) + _view("b", k, n) + _view("y", m, n, "f32")
    dots = _load("x", m, k) + _load("a", k, n) + _load("b", k, n)
    dots += _dot("s", "x", "a", m, n, k) + _dot("d", "x", "b", m, n, k)
    both = f"""
    %p = mulf %s, %d : tile<{m}x{n}xf32>"""
    parameters = "%x0: tile<ptr<f16>>, %a0: tile<ptr<f16>>, %b0: tile<ptr<f16>>, %y0: tile<ptr<f32>>"
    return _kernel(parameters, views + dots + both + _store("y", "%p", m, n))


def numbers(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float16)


def by_agents(text: str) -> str:
    made = libtile.compile(libtile.parse(text), gpu_name=SM_90, emit="tileas").tileas
    assert "nv_tileas.dot " not in made and "tiled_tma_load" in made and "not_specialized" not in made
    return made


def run(text: str, args: list[np.ndarray], order: int) -> None:
    libtile.run(libtile.parse(text), args=args, grid=(1, 1, 1), backend="simulator", gpu_name=SM_90, check="full",
                block_order=order)  # fmt: skip


ORDERS = [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 22))]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("shape", [(64, 32, 64, 32), pytest.param((128, 64, 128, 64), marks=pytest.mark.slow)])
def test_layers_that_are_one_tile_each(shape, order):
    m, k, n, e = shape
    text = layers(*shape)
    by_agents(text)
    x, a, b, y = numbers(1, m, k), numbers(2, k, n), numbers(3, n, e), np.full((m, e), 7, np.float32)
    run(text, [x, a, b, y], order)
    hidden = np.maximum(x.astype(np.float32) @ a.astype(np.float32), 0).astype(np.float16)
    np.testing.assert_array_equal(y, hidden.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.parametrize("order", ORDERS)
def test_products_that_share_a_tile_have_one_loop(order):
    m, k, n = 128, 64, 64
    text = gated(m, k, n)
    assert by_agents(text).count("create_pipeline") == 1
    x, a, b, y = numbers(1, m, k), numbers(2, k, n), numbers(3, k, n), np.full((m, n), 7, np.float32)
    run(text, [x, a, b, y], order)
    products = (x.astype(np.float32) @ w.astype(np.float32) for w in (a, b))
    np.testing.assert_array_equal(y, next(products) * next(products))


def test_products_of_few_rows_on_both_sides_are_mma_syncs():
    """No instruction of warpgroups has so few rows."""
    made = libtile.compile(libtile.parse(gated(32, 32, 32)), gpu_name=SM_90, emit="tileas").tileas
    assert made.count('not_specialized = "it is in no loop"') == 2
