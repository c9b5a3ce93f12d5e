# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""PTX that the reference assembler makes runs in the simulator: of an alloca, which allocates on the device's heap, and
of the kernels of the corpus, with the tensor maps that the reference's own host objects write.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import libtile
from libtile.simulator import run_ptx
from oracle.host_objects import launch_arguments, reference_compilation, require_host_code

pytestmark = pytest.mark.oracle

KERNEL = """cuda_tile.module @m {
  entry @k(%out: tile<ptr<i32>>) {
    %mine = alloca num_elem = 64, alignment = ALIGN : tile<ptr<i32>>
    %i = iota : tile<64xi32>
    %m1 = reshape %mine : tile<ptr<i32>> -> tile<1xptr<i32>>
    %m2 = broadcast %m1 : tile<1xptr<i32>> -> tile<64xptr<i32>>
    %m3 = offset %m2, %i : tile<64xptr<i32>>, tile<64xi32> -> tile<64xptr<i32>>
    %o1 = reshape %out : tile<ptr<i32>> -> tile<1xptr<i32>>
    %o2 = broadcast %o1 : tile<1xptr<i32>> -> tile<64xptr<i32>>
    %o3 = offset %o2, %i : tile<64xptr<i32>>, tile<64xi32> -> tile<64xptr<i32>>
    %t0 = make_token : token
    %t1 = store_ptr_tko weak %m3, %i token = %t0 : tile<64xptr<i32>>, tile<64xi32>, token -> token
    %x, %t2 = load_ptr_tko weak %m3 token = %t1 : tile<64xptr<i32>>, token -> tile<64xi32>, token
    %t3 = store_ptr_tko weak %o3, %x token = %t2 : tile<64xptr<i32>>, tile<64xi32>, token -> token
    return
  }
}
"""


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90"])
@pytest.mark.parametrize("align", [4, 256])
def test_the_references_alloca_runs(gpu_name: str, align: int, tmp_path: Path) -> None:
    module = libtile.parse(KERNEL.replace("ALIGN", str(align)))
    ptx = reference_compilation(libtile.write(module, "13.4"), gpu_name, tmp_path).ptx
    assert "__cuda_syscall_aligned_malloc" in ptx
    out = np.zeros(64, np.int32)
    run_ptx(ptx, "k", grid=2, block=128, args=[out])
    assert np.array_equal(out, np.arange(64))


SAMPLE = {
    "sm_90": ("gemm", "gemm_f64", "attention_causal", "layer_norm", "mma_tf32_tf32_f32", "spin_lock"),
    "sm_100": ("attention", "mma_chained", "mma_f8e4m3fn_f8e4m3fn_f16", "mma_i8_u8_i32"),
    "sm_120": ("gemm_persistent", "mma_scaled_f4_f8e4m3fn_16"),
}
"""Kernels that are run by default: for sm_90 maps of ranks 1 to 3 and of several types, a tile wholly outside of its
tensor, and a copy while others spin; for sm_100 products of several kinds with A in shared and in tensor memory."""


def _kernels() -> list[object]:
    corpus = pytest.importorskip("kernels.corpus", reason="the frontend is not installed (pip install cuda-tile)")
    return [
        pytest.param(gpu_name, name, marks=() if name in sample else pytest.mark.slow)
        for gpu_name, sample in SAMPLE.items()
        for name, kernel in corpus.KERNELS.items()
        # Kernels for a later target are not for this one; the others are for each.
        if kernel.problem is not None and int(kernel.gpu_code[3:]) <= int(gpu_name[3:])
    ]


@pytest.mark.parametrize(("gpu_name", "name"), _kernels())
def test_the_references_ptx_of_a_kernel_agrees_with_numpy(gpu_name: str, name: str, tmp_path: Path) -> None:
    from kernels import corpus

    require_host_code()
    kernel = corpus.KERNELS[name]
    version = max(version for version in kernel.versions if version <= "13.4")
    made = reference_compilation(corpus.export(kernel, version, gpu_name), gpu_name, tmp_path)
    case = corpus.case(kernel)
    before = corpus.snapshot(case.args)
    args = launch_arguments(made, name, case.args, gpu_name)
    assert len(args) > len(case.args) or gpu_name != "sm_90" or name not in SAMPLE[gpu_name]
    assert "tcgen05.mma" in made.ptx or gpu_name != "sm_100" or name not in SAMPLE[gpu_name]
    block, cluster = (re.search(rf"\.{directive} (\d+)", made.ptx) for directive in ("reqntid", "reqnctapercluster"))
    assert block is not None
    # Each tile block is a cluster of CTAs where the reference makes it so.
    grid = (case.grid[0] * (int(cluster[1]) if cluster else 1), *case.grid[1:])
    run_ptx(made.ptx, name, grid=grid, block=int(block[1]), args=args, checks="basic")
    corpus.check_case(case, before, case.args)
