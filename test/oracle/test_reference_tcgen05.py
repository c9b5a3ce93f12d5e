# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products with tiles as large as tcgen05's own, which the kernels of the corpus have not: the PTX that the reference
assembler makes of them for sm_100 agrees with numpy. Pairs of CTAs, and scale factors that are copied to tensor memory.
"""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import libtile
from libtile.backend.cubin import read_cubin
from libtile.simulator import run_ptx
from libtile.targets.tensor_map import decode
from oracle.host_objects import Made, launch_arguments, reference_compilation, require_host_code

ct: Any = pytest.importorskip("cuda.tile", reason="the frontend is not installed (pip install cuda-tile)")
compilation: Any = pytest.importorskip("cuda.tile.compilation")

pytestmark = pytest.mark.oracle
E4M3, E8M0, E2M1 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu, ml_dtypes.float4_e2m1fn


def gemm(a, b, c, tm: ct.Constant[int], tn: ct.Constant[int], tk: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.full((tm, tn), 0, dtype=ct.float32)
    for k in range(ct.num_tiles(a, axis=1, shape=(tm, tk))):
        x, y = ct.load(a, index=(i, k), shape=(tm, tk)), ct.load(b, index=(k, j), shape=(tk, tn))
        acc = ct.mma(x, y, acc)
    ct.store(c, index=(i, j), tile=ct.astype(acc, c.dtype))


@ct.kernel
def gemm_tf32(
    a, b, c, tm: ct.Constant[int], tn: ct.Constant[int], tk: ct.Constant[int],
    a_rows: ct.Constant[int], b_rows: ct.Constant[int],
):  # fmt: skip
    """f32 that becomes tf32; an operand whose rows are given is contiguous along k, the other one is not."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.full((tm, tn), 0, dtype=ct.float32)
    for k in range(ct.cdiv(a.shape[1 if a_rows else 0], tk)):
        x = ct.load(a, index=(i, k), shape=(tm, tk)) if a_rows else ct.load(a, index=(k, i), shape=(tk, tm)).transpose()
        y = ct.load(b, index=(j, k), shape=(tn, tk)).transpose() if b_rows else ct.load(b, index=(k, j), shape=(tk, tn))
        acc = ct.mma(ct.astype(x, ct.tfloat32), ct.astype(y, ct.tfloat32), acc)
    ct.store(c, index=(i, j), tile=acc)


@ct.kernel
def scaled(a, a_scale, b, b_scale, c, tm: ct.Constant[int], tn: ct.Constant[int], tk: ct.Constant[int]):
    acc = ct.full((tm, tn), 0, dtype=ct.float32)
    for k in range(ct.num_tiles(a, axis=1, shape=(tm, tk))):
        x, y = ct.load(a, index=(0, k), shape=(tm, tk)), ct.load(b, index=(k, 0), shape=(tk, tn), order=(1, 0))
        x_scale = ct.load(a_scale, index=(0, k), shape=(tm, tk // 32))
        y_scale = ct.load(b_scale, index=(k, 0), shape=(tk // 32, tn), order=(1, 0))
        acc = ct.mma_scaled(x, x_scale, y, y_scale, acc)
    ct.store(c, index=(0, 0), tile=acc)


@ct.kernel
def scaled_f4(a, a_scale, b, b_scale, c, m: ct.Constant[int], n: ct.Constant[int], k: ct.Constant[int]):
    x = ct.unpack_from_bytes(ct.load(a, (0,), (m * k // 2,)), ct.float4_e2m1fn).reshape((m, k))
    y = ct.unpack_from_bytes(ct.load(b, (0,), (n * k // 2,)), ct.float4_e2m1fn).reshape((n, k)).transpose()
    x_scale, y_scale = ct.load(a_scale, (0, 0), (m, k // 16)), ct.load(b_scale, (0, 0), (k // 16, n))
    ct.store(c, (0, 0), ct.mma_scaled(x, x_scale, y, y_scale, ct.zeros((m, n), ct.float32)))


def _parameter(array: np.ndarray, element: Any) -> Any:
    rank = array.ndim
    return compilation.ArrayConstraint(
        element, rank, index_dtype=ct.int32, stride_lower_bound_incl=0, alias_groups=(), may_alias_internally=False,
        stride_constant=(None,) * (rank - 1) + (1,), stride_divisible_by=(16,) * (rank - 1) + (1,),
        shape_divisible_by=(16,) * rank, base_addr_divisible_by=16,
    )  # fmt: skip


def ptx_agrees(
    kernel: Any, arrays: list[tuple[np.ndarray, Any]], sizes: list[int], grid: tuple[int, int], folder: Path
) -> str:
    """Runs the reference's PTX for sm_100 of a kernel over arrays, of which the last is written; returns the PTX."""
    require_host_code()
    made = reference_compilation(exported(kernel, arrays, sizes), "sm_100", folder)
    args = visible(arrays)
    block, cluster = (re.search(rf"\.{directive} (\d+)", made.ptx) for directive in ("reqntid", "reqnctapercluster"))
    assert block is not None
    ctas = grid[0] * (int(cluster[1]) if cluster else 1)
    arguments = launch_arguments(made, "k", args, "sm_100")
    run_ptx(made.ptx, "k", grid=(ctas, grid[1]), block=int(block[1]), args=arguments, checks="basic")
    return made.ptx


def exported(kernel: Any, arrays: list[tuple[np.ndarray, Any]], sizes: list[int]) -> bytes:
    """Bytecode of a kernel "k" over such arrays."""
    signature = compilation.KernelSignature(
        [*(_parameter(*pair) for pair in arrays), *sizes],
        calling_convention=compilation.CallingConvention.cutile_python_v1(), symbol="k",
    )  # fmt: skip
    data = io.BytesIO()
    compilation.export_kernel(
        kernel, [signature], data, gpu_code="sm_100", output_format="tileir_bytecode", bytecode_version="13.3"
    )
    return data.getvalue()


def visible(arrays: list[tuple[np.ndarray, Any]]) -> list[Any]:
    """The arguments of such a kernel that the program has."""
    args: list[Any] = []
    for array, _ in arrays:
        strides = [np.int32(s // array.itemsize) for s in array.strides]
        args += [array, *(np.int32(s) for s in array.shape), *strides]
    return args


GEMMS = [
    (128, 128, 2), pytest.param(256, 256, 2, marks=pytest.mark.slow), pytest.param(256, 128, 2, marks=pytest.mark.slow),
    pytest.param(128, 256, 1, marks=pytest.mark.slow), pytest.param(256, 128, 1, marks=pytest.mark.slow),
]  # fmt: skip


@pytest.mark.parametrize(("tm", "tn", "ctas"), GEMMS)
def test_a_product_of_large_tiles_by_a_cta_or_a_pair(tm: int, tn: int, ctas: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(-3, 4, (2 * tm, 192)).astype("f2"), rng.integers(-3, 4, (192, 2 * tn)).astype("f2")
    c = np.zeros((2 * tm, 2 * tn), "f2")
    arrays = [(x, ct.float16) for x in (a, b, c)]
    ptx = ptx_agrees(ct.kernel(gemm, num_ctas=ctas), arrays, [tm, tn, 64], (2, 2), tmp_path)
    assert f"tcgen05.mma.cta_group::{ctas}.kind::f16" in ptx
    assert np.array_equal(c, (a.astype("f4") @ b.astype("f4")).astype("f2"))


TF32 = [
    (128, 128, True, False), *(
        pytest.param(*case, marks=pytest.mark.slow)
        for case in (
            (128, 256, True, False), (256, 128, True, False), (128, 128, True, True), (128, 128, False, True),
            (128, 128, False, False),
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize(("tm", "tn", "a_rows", "b_rows"), TF32)
def test_a_product_of_tf32_whose_operands_lie_either_way(
    tm: int, tn: int, a_rows: bool, b_rows: bool, tmp_path: Path
) -> None:
    """What is not contiguous along k lies in shared memory with atoms of 32 bytes exchanged, by TMA and for tcgen05."""
    rng = np.random.default_rng(3)
    m, n, k = tm + 16, tn - 16, 80
    a, b = (rng.integers(-64, 65, shape).astype("f4") for shape in ((m, k), (k, n)))  # sums are exact
    c = np.zeros((m, n), "f4")
    given = [np.ascontiguousarray(x) for x in (a if a_rows else a.T, b.T if b_rows else b)]
    arrays = [(x, ct.float32) for x in (*given, c)]
    ptx = ptx_agrees(gemm_tf32, arrays, [tm, tn, 64, int(a_rows), int(b_rows)], (2, 1), tmp_path)
    assert "tcgen05.mma.cta_group::1.kind::tf32" in ptx
    assert np.array_equal(c, a @ b)
    # By 32 bytes: to the next 32 elements a panel of 64 rows of 128 bytes, to the next rows along k four of them.
    by_32_bytes = 1 << 61 | 1 << 46 | 512 >> 4 << 32 | 64 * 128 >> 4 << 16
    assert (str(by_32_bytes) in ptx) == (not a_rows or not b_rows)


@pytest.mark.slow
@pytest.mark.parametrize(("tm", "tn", "a_rows", "b_rows"), [(128, 256, True, False), (128, 128, False, False)])
def test_tensor_maps_of_tf32_are_the_references(tm: int, tn: int, a_rows: bool, b_rows: bool, tmp_path: Path) -> None:
    """Bit for bit, those of the swizzle by 32 bytes included."""
    require_host_code()
    shapes = [(256, 192) if a_rows else (192, 256), (512, 192) if b_rows else (192, 512), (256, 512)]
    arrays = [(np.zeros(shape, "f4"), ct.float32) for shape in shapes]
    data = exported(gemm_tf32, arrays, [tm, tn, 64, int(a_rows), int(b_rows)])
    theirs = reference_compilation(data, "sm_100", tmp_path)
    ours = libtile.compile(data, gpu_name="sm_100")
    cubin = read_cubin(ours.cubin)
    found = [
        [argument.raw for argument in launch_arguments(made, "k", visible(arrays), "sm_100")[-3:]]
        for made in (theirs, Made(theirs.ptx, cubin.host_object))
    ]
    assert sorted(found[0]) == sorted(found[1])
    swizzles = [decode(raw).swizzle for raw in found[1]]
    assert swizzles.count("128B atom 32B") == (not a_rows) + (not b_rows)


def _codes(rng: np.random.Generator, shape: tuple[int, int], low: int, high: int) -> np.ndarray:
    return rng.integers(low, high, shape).astype(np.uint8)


def _spread(codes: np.ndarray, kind: Any, block: int) -> np.ndarray:
    return np.repeat(codes.view(kind).astype(np.float64), block, axis=1)


def test_a_product_with_a_scale_factor_for_32_elements(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-3, 4, (128, 256)).astype(E4M3) for _ in range(2))
    a_scale, b_scale = (_codes(rng, (128, 8), 124, 131) for _ in range(2))
    c = np.zeros((128, 128), "f4")
    kinds = (ct.float8_e4m3fn, ct.float8_e8m0fnu)
    arrays = [(a.view("u1"), kinds[0]), (a_scale, kinds[1]), (b.view("u1"), kinds[0]), (b_scale, kinds[1])]
    ptx = ptx_agrees(scaled, [*arrays, (c, ct.float32)], [128, 128, 128], (1, 1), tmp_path)
    assert "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.block32" in ptx
    assert "tcgen05.cp.cta_group::1.32x128b.warpx4" in ptx
    x, y = a.astype(np.float64) * _spread(a_scale, E8M0, 32), b.astype(np.float64) * _spread(b_scale, E8M0, 32)
    assert np.array_equal(c, (x @ y.T).astype("f4"))


def test_a_product_of_4_bits_with_a_scale_factor_for_16_elements(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    k = 256
    a, b = (_codes(rng, (128, k), 0, 16) for _ in range(2))
    a_scale, b_scale = _codes(rng, (128, k // 16), 0x28, 0x48), _codes(rng, (k // 16, 128), 0x28, 0x48)
    c = np.zeros((128, 128), "f4")
    packed = [(x[:, ::2] | x[:, 1::2] << 4).reshape(-1) for x in (a, b)]
    f8, bytes_ = ct.float8_e4m3fn, ct.uint8
    arrays = [(packed[0], bytes_), (a_scale, f8), (packed[1], bytes_), (b_scale, f8), (c, ct.float32)]
    ptx = ptx_agrees(scaled_f4, arrays, [128, 128, k], (1, 1), tmp_path)
    assert "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block16" in ptx
    x = a.view(E2M1).astype(np.float64) * _spread(a_scale, E4M3, 16)
    y = b.view(E2M1).astype(np.float64) * _spread(np.ascontiguousarray(b_scale.T), E4M3, 16)
    assert np.array_equal(c, (x @ y.T).astype("f4"))
