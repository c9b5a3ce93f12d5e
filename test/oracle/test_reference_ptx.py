# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""PTX that the reference assembler makes runs in the simulator: of an alloca, which allocates on the device's heap."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import libtile
import oracle
from libtile.simulator import run_ptx

pytestmark = pytest.mark.oracle

KEEPING = """#!/bin/sh
for argument in "$@"; do case "$argument" in *.ptx) cp "$argument" "{kept}";; esac; done
exec "{ptxas}" "$@"
"""

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


def reference_ptx(data: bytes, gpu_name: str, folder: Path) -> str:
    """The PTX that the reference assembler hands to the ptxas beside it, which is one that keeps what it is given."""
    tool, ptxas = oracle.require_tool("tileiras"), oracle.require_tool("ptxas")
    root, kept = folder / "cuda", folder / "kept.ptx"
    (root / "bin").mkdir(parents=True)
    for beside in ("nvvm", "lib"):
        (root / beside).symlink_to(tool.parents[1] / beside)
    shutil.copy(tool, root / "bin" / "tileiras")
    script = root / "bin" / "ptxas"
    script.write_text(KEEPING.format(kept=kept, ptxas=ptxas))
    script.chmod(0o755)
    (folder / "k.bc").write_bytes(data)
    command = [root / "bin" / "tileiras", f"--gpu-name={gpu_name}", folder / "k.bc", "-o", folder / "k.cubin"]
    subprocess.run(command, check=True, capture_output=True, timeout=120, env=dict(os.environ))
    return kept.read_text()


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90"])
@pytest.mark.parametrize("align", [4, 256])
def test_the_references_alloca_runs(gpu_name: str, align: int, tmp_path: Path) -> None:
    module = libtile.parse(KERNEL.replace("ALIGN", str(align)))
    ptx = reference_ptx(libtile.write(module, "13.4"), gpu_name, tmp_path)
    assert "__cuda_syscall_aligned_malloc" in ptx
    out = np.zeros(64, np.int32)
    run_ptx(ptx, "k", grid=2, block=128, args=[out])
    assert np.array_equal(out, np.arange(64))
