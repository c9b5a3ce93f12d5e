# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Results of products that TMA stores from shared memory: what is stored, in which order, and what is checked."""

from __future__ import annotations

import numpy as np
import pytest
from test_specialized import operands, tile_gemm

import libtile
from libtile.runtime.tensor_maps import tensor_map
from libtile.simulator import EncodedTensorMap, SimulationFault, run_ptx

STORE = "%w = store_view_tko weak %r,"
"""Of `tile_gemm`."""


def stored(m=128, n=64, result="f32", **options) -> str:
    """`tile_gemm` whose result is known to be aligned, and of another type where the product is f32."""
    text = tile_gemm(m=m, n=n, **options)
    text = text.replace(
        "%tc = make_tensor_view %c0", "%c1 = assume div_by<16>, %c0 : tile<ptr<f32>>\n    %tc = make_tensor_view %c1"
    )
    if result != "f32":
        text = text.replace("%c0: tile<ptr<f32>>", f"%c0: tile<ptr<{result}>>").replace(
            "assume div_by<16>, %c0 : tile<ptr<f32>>", f"assume div_by<16>, %c0 : tile<ptr<{result}>>"
        )
        text = text.replace("tensor_view<?x?xf32", f"tensor_view<?x?x{result}")
        text = text.replace(
            "%w = store_view_tko weak %r,",
            f"%h = ftof %r : tile<{m}x{n}xf32> -> tile<{m}x{n}x{result}>\n    %w = store_view_tko weak %h,",
        ).replace(f"%vc[%bx, %by] : tile<{m}x{n}xf32>", f"%vc[%bx, %by] : tile<{m}x{n}x{result}>")
    return text


def compiled(text: str, gpu: str = "sm_90"):
    return libtile.compile(libtile.parse(text), gpu_name=gpu, launch_abi="simt", emit="ptx")


def run(text, m, n, k, tile, gpu="sm_90", order=None, result=np.float32):
    """What a kernel leaves, and the product."""
    a, b, c, wanted = operands(m, n, k, result=result)
    libtile.run(
        libtile.parse(text), "gemm", grid=(-(-m // tile[0]), -(-n // tile[1]), 1), args=[a, b, c, m, n, k],
        backend="simulator", gpu_name=gpu, check="full", block_order=order,
    )  # fmt: skip
    return c, wanted


@pytest.mark.parametrize(
    ("size", "options", "gpu", "order"),
    [
        ((144, 80, 128), {}, "sm_90", 1),
        ((130, 144, 64), {"n": 128, "result": "f16"}, "sm_90", 2),
        ((80, 48, 192), {"m": 64, "n": 32, "result": "f16"}, "sm_90", 3),
        ((144, 80, 128), {"result": "f16"}, "sm_100", 4),
    ],
    ids=["f32", "two-warpgroups", "narrow", "tensor-memory"],
)
def test_results_are_stored_by_tma(size, options, gpu, order):
    text = stored(**options)
    made = compiled(text, gpu)
    assert "cp.async.bulk.tensor.2d.global" in made.ptx and "st.global" not in made.ptx
    tile = options.get("m", 128), options.get("n", 64)
    result = np.float16 if options.get("result") == "f16" else np.float32
    c, wanted = run(text, *size, tile, gpu, order, result)
    np.testing.assert_allclose(c.astype(np.float32), wanted, atol=1e-3 if result is np.float32 else 0.1)


def test_tokens_order_what_is_loaded_and_stored_around_a_store():
    """The tile is loaded behind the store, and stored again behind that: others have to see what TMA has written."""
    view, tile = "partition_view<tile=(64x64), tensor_view<?x?xf32, strides=[?,1]>>", "tile<64x64xf32>"
    text = stored(m=64).replace(
        "return\n",
        f"""%e, %te = load_view_tko weak %vc[%bx, %by] token = %w : {view}, tile<i32>, token -> {tile}, token
    %t = permute %e [1, 0] : {tile} -> {tile}
    %s = addf %t, %r : {tile}
    %x = store_view_tko weak %s, %vc[%bx, %by] token = %te : {tile}, {view}, tile<i32>, token -> token
    return\n""",
        1,
    )
    made = compiled(text)
    assert made.ptx.count("cp.async.bulk.tensor.2d.global") == 4 and "st.global" not in made.ptx
    c, wanted = run(text, 64, 64, 128, (64, 64), order=1)
    np.testing.assert_allclose(c, wanted + wanted.T, atol=1e-3)


@pytest.mark.parametrize(
    "what", ["fence.proxy.async.shared::cta;", "cp.async.bulk.wait_group.read \t0;", "first barrier", "second barrier"]
)
def test_what_a_store_leaves_out_is_found(what):
    made = compiled(stored(m=64))
    epilogue = made.ptx.rindex("bar.sync", 0, made.ptx.index("st.shared.v2"))
    head, tail = made.ptx[:epilogue], made.ptx[epilogue:]
    store = tail.index("cp.async.bulk.tensor")
    if what.endswith("barrier"):
        at = tail.index("bar.sync") if what.startswith("first") else tail.rindex("bar.sync", 0, store)
        broken = tail[:at] + tail[tail.index(";", at) + 1 :]
    else:
        assert what in tail
        broken = tail.replace(what, "")
    a, b, c, _ = operands(64, 64, 64 * 9)
    args = [a, b, c, *(np.int32(n) for n in (64, 64, 64 * 9))]
    maps = [EncodedTensorMap(args[r.base], tensor_map(r, args, 0), 0) for r in made.kernels["gemm"].descriptors]
    run_ptx(made.ptx, "gemm", block=made.kernels["gemm"].block_dim, args=[*args, *maps])
    with pytest.raises(SimulationFault):
        for seed in range(6):
            run_ptx(head + broken, "gemm", block=made.kernels["gemm"].block_dim, args=[*args, *maps], order=seed)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("assume div_by<16>, %c0", "assume div_by<8>, %c0", "base pointer not 16-byte aligned"),
        ("%n = assume div_by<16>", "%n = assume div_by<2>", "stride not 16-byte aligned"),
        ("store_view_tko weak", "store_view_tko relaxed device", "memory semantic must be weak for TMA operations"),
    ],
)
def test_why_a_result_is_stored_by_threads(old, new, reason):
    text = stored(m=64, transposed=True)
    assert old in text
    made = libtile.compile(libtile.parse(text.replace(old, new)), launch_abi="simt", emit="llvm")
    (failed,) = [r for r in made.remarks if r.name == "RemarkMemoryTmaStoreFailed"]
    assert failed.arguments[0][1].endswith(reason)
    assert "bulk.tensor.2d.global" not in made.llvm_ir


def test_remarks_name_the_box():
    made = libtile.compile(libtile.parse(stored(n=128, result="f16")), launch_abi="simt", emit="llvm")
    (said,) = [r.arguments for r in made.remarks if r.name == "RemarkMemoryStoreInstructionSelected"]
    assert said == (("Instruction", "TMA Store instruction"), ("Shape", "[64, 128]"))
    assert made.kernels["gemm"].descriptors[2].box == (64, 64)  # a warpgroup's rows
