# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""PTX of kernels that copy by tensor maps: thread 0 issues copies to shared memory and all wait for an mbarrier."""

from __future__ import annotations

from typing import Any

import numpy as np

from libtile.simulator import Counters, EncodedTensorMap, Im2colTensorMap, TensorMap, run_ptx

from .ptx import REGISTERS

HEADER = (
    ".version 9.0\n.target sm_90a\n.address_size 64\n.shared .align 1024 .b8 s[65536]; .shared .align 8 .b64 bar;\n"
)
START = """
    mov.u32 %r0, %tid.x;  mov.u32 %r20, bar;  mov.u32 %r21, s;  setp.eq.u32 %p1, %r0, 0;  ld.param.u64 %rd0, [out];
    mov.b64 %rd10, a;  cvta.param.u64 %rd10, %rd10;  mov.b64 %rd11, b;  cvta.param.u64 %rd11, %rd11;
    @%p1 mbarrier.init.shared::cta.b64 [%r20], 1;  @%p1 fence.mbarrier_init.release.cluster;  bar.sync 0;
"""
WAIT = "W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r20], 0; @!%p2 bra W;"
TMA = "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"


def run(
    body: str,
    out: np.ndarray,
    *maps: TensorMap | Im2colTensorMap | EncodedTensorMap,
    block: int = 128,
    target: str = "sm_90a",
    **options: Any,
) -> Counters:
    """Runs `body` behind `START`, with the tensor maps `a` and `b` and the array `out`."""
    names = "ab"[: len(maps)]
    params = ".param .u64 out" + "".join(f", .param .align 64 .b8 {name}[128]" for name in names)
    start = START if len(maps) == 2 else START.replace("mov.b64 %rd11, b;  cvta.param.u64 %rd11, %rd11;", "")
    header = HEADER.replace("sm_90a", target)
    text = f"{header}.visible .entry k({params})\n{{{REGISTERS}.reg .f32 %d<128>;{start}{body}\nret;\n}}"
    return run_ptx(text, "k", block=block, args=[out, *maps], **options).counters


def expect(count: int) -> str:
    """The mbarrier waits for so many bytes."""
    return f"@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r20], {count};"


def load(where: int, tensor: str, x: int, y: int) -> str:
    """A copy of a box of rank 2 to `where` in shared memory."""
    return f"add.u32 %r22, %r21, {where}; @%p1 {TMA} [%r22], [{tensor}, {{{x}, {y}}}], [%r20];"


COPY_OUT = """
    mov.u32 %r1, %r0;
    L: shl.b32 %r2, %r1, 2; add.u32 %r3, %r21, %r2; ld.shared.u32 %r4, [%r3]; cvt.u64.u32 %rd1, %r2;
    add.u64 %rd1, %rd0, %rd1;
    st.global.u32 [%rd1], %r4; add.u32 %r1, %r1, 128; setp.lt.u32 %p3, %r1, {words}; @%p3 bra L;
"""  # fmt: skip

STORE = (
    "@%p1 cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd10, {4, 2}], [%r21]; "
    "@%p1 cp.async.bulk.commit_group;"
)
FILL = "shl.b32 %r2, %r0, 2; add.u32 %r3, %r21, %r2; st.shared.u32 [%r3], %r0;"
FENCED = FILL + "fence.proxy.async.shared::cta; bar.sync 0;"
