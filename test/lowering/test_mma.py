# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Matrix products in the simulator against numpy: every element type, tiles down to one element, batches."""

import ml_dtypes
import numpy as np
import pytest

import libtile
from libtile.lowering.errors import LoweringError
from libtile.lowering.llvm.mma import dot_layouts
from libtile.targets import target

DTYPES = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
    "i8": np.int8,
    "i32": np.int32,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
}


def pointers(name, base, shape, element):
    """Lines that make a tile of pointers to a row-major matrix (or batch of them)."""
    flat = int(np.prod(shape))
    dims = "x".join(map(str, shape))
    one = "x".join("1" for _ in shape)
    return f"""
    %{name}i = iota : tile<{flat}xi32>
    %{name}o = reshape %{name}i : tile<{flat}xi32> -> tile<{dims}xi32>
    %{name}1 = reshape %{base} : tile<ptr<{element}>> -> tile<{one}xptr<{element}>>
    %{name}b = broadcast %{name}1 : tile<{one}xptr<{element}>> -> tile<{dims}xptr<{element}>>
    %{name}p = offset %{name}b, %{name}o : tile<{dims}xptr<{element}>>, tile<{dims}xi32> -> tile<{dims}xptr<{element}>>
    """


def kernel(a_shape, b_shape, c_shape, element, acc, op="mmaf", signs=""):
    tiles = {"a": (a_shape, element), "b": (b_shape, element), "c": (c_shape, acc)}
    spelled = {n: f"tile<{'x'.join(map(str, s))}x{e}>" for n, (s, e) in tiles.items()}
    lines = [pointers(n, n, s, e) for n, (s, e) in tiles.items()]
    for n, (s, e) in tiles.items():
        kind = f"tile<{'x'.join(map(str, s))}xptr<{e}>>"
        lines.append(f"%{n}v, %{n}t = load_ptr_tko weak %{n}p : {kind} -> {spelled[n]}, token")
    lines.append(f"%d = {op} %av, %bv, %cv{signs} : {spelled['a']}, {spelled['b']}, {spelled['c']}")
    kind = f"tile<{'x'.join(map(str, c_shape))}xptr<{acc}>>"
    lines.append(f"%u = store_ptr_tko weak %cp, %d token=%ct : {kind}, {spelled['c']} -> token")
    parameters = ", ".join(f"%{n}: tile<ptr<{e}>>" for n, (_, e) in tiles.items())
    return f"cuda_tile.module @m {{ entry @k({parameters}) {{\n" + "\n".join(lines) + "\nreturn } }"


def run(text, a, b, c, gpu):
    libtile.run(libtile.parse(text), "k", grid=(1, 1, 1), args=[a, b, c], backend="simulator", gpu_name=gpu)
    return c


def operands(a_shape, b_shape, c_shape, element, acc):
    rng = np.random.default_rng(3)
    if element == "i8":
        a, b = (rng.integers(-128, 128, s).astype(np.int8) for s in (a_shape, b_shape))
        return a, b, rng.integers(-1000, 1000, c_shape).astype(np.int32)
    a, b = (rng.integers(-4, 5, s).astype(DTYPES[element]) for s in (a_shape, b_shape))  # sums are exact
    return a, b, rng.integers(-8, 9, c_shape).astype(DTYPES[acc])


FLOATS = [
    ("f16", "f32"),
    ("f16", "f16"),
    ("bf16", "f32"),
    ("f32", "f32"),
    ("f64", "f64"),
    ("f8E4M3FN", "f32"),
    ("f8E5M2", "f32"),
]


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize(("element", "acc"), FLOATS)
@pytest.mark.parametrize("shape", [(64, 32, 32), (16, 8, 64), (4, 2, 8), (1, 1, 1)])
def test_a_product_of_floats_is_numpys(element, acc, shape, gpu):
    m, n, k = shape
    a, b, c = operands((m, k), (k, n), (m, n), element, acc)
    expected = a.astype(np.float64) @ b.astype(np.float64) + c.astype(np.float64)
    got = run(kernel(a.shape, b.shape, c.shape, element, acc), a, b, c, gpu)
    assert np.array_equal(got.astype(np.float64), expected)


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90"])
@pytest.mark.parametrize(
    ("left", "right"), [("signed", "signed"), ("unsigned", "signed"), ("signed", "unsigned"), ("unsigned", "unsigned")]
)
@pytest.mark.parametrize("shape", [(32, 16, 32), (2, 4, 8)])
def test_a_product_of_bytes_reads_them_as_it_is_told(left, right, shape, gpu):
    m, n, k = shape
    a, b, c = operands((m, k), (k, n), (m, n), "i8", "i32")
    wide = [
        x.view(np.uint8).astype(np.int64) if s == "unsigned" else x.astype(np.int64) for x, s in ((a, left), (b, right))
    ]
    expected = wide[0] @ wide[1] + c
    got = run(kernel(a.shape, b.shape, c.shape, "i8", "i32", "mmai", f" {left} {right}"), a, b, c, gpu)
    assert np.array_equal(got, expected)


@pytest.mark.parametrize(("element", "shape"), [("f16", (4, 32, 16, 32)), ("f32", (2, 4, 8, 16))])
def test_a_product_of_batches_multiplies_each(element, shape):
    batches, m, n, k = shape
    a, b, c = operands((batches, m, k), (batches, k, n), (batches, m, n), element, "f32")
    expected = a.astype(np.float64) @ b.astype(np.float64) + c
    assert np.array_equal(run(kernel(a.shape, b.shape, c.shape, element, "f32"), a, b, c, "sm_90"), expected)


def test_layouts_use_tensor_cores_where_an_atom_divides_the_tile():
    assert dot_layouts((64, 32), (32, 64), "f16", "f16", "f32", target("sm_80"), 4).atom is not None
    assert dot_layouts((8, 8), (8, 8), "f16", "f16", "f32", target("sm_80"), 4).atom is None
    assert dot_layouts((64, 32), (32, 64), "f8E4M3FN", "f8E4M3FN", "f32", target("sm_80"), 4).atom.a == "f16"


def test_a_type_that_no_product_takes_is_refused():
    with pytest.raises(LoweringError, match="no matrix product takes elements of type i16"):
        dot_layouts((16, 16), (16, 8), "i16", "i16", "i32", target("sm_80"), 4)
