# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A warp-specialised GEMM in PTX: TMA fills a ring of two stages, two warpgroups multiply with wgmma, TMA stores.

C [128, 64] = A [128, K] B [64, K]^T, f16 to f32. What a careless author forgets stands in PARTS, so that a test can
leave one out or replace it.
"""

from __future__ import annotations

import numpy as np

STAGE = (128 + 64) * 128  # bytes: 64 columns of f16 of 128 rows of A and 64 rows of B
COPY = "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"

PARTS = {
    "init fence": "fence.mbarrier_init.release.cluster;",
    "empty wait": "W1: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r11], %r9; @!%p1 bra W1;",
    "full wait": "W2: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r10], %r9; @!%p1 bra W2;",
    "bytes": str(STAGE),
    "fewer registers": "setmaxnreg.dec.sync.aligned.u32 40;",
    "more registers": "setmaxnreg.inc.sync.aligned.u32 232;",
    "register fence": "wgmma.fence.sync.aligned;",
    "wait for the previous group": "wgmma.wait_group.sync.aligned 1;",
    "wait for the last group": "wgmma.wait_group.sync.aligned 0;",
    "meeting of the consumers": "bar.sync 1, 256;",
    "proxy fence": "fence.proxy.async.shared::cta;",
    "operand base": "0",
}


def ring_gemm(**changes: str) -> str:
    """The module's text; `changes` replace PARTS, with underscores for spaces."""
    parts = PARTS | {name.replace("_", " "): text for name, text in changes.items()}
    assert parts.keys() == PARTS.keys()
    accumulators = ", ".join(f"%d{i}" for i in range(32))
    zero = " ".join(f"mov.f32 %d{i}, 0f00000000;" for i in range(32))
    products = "\n".join(
        f"add.s64 %rd8, %rd6, {2 * k}; add.s64 %rd9, %rd7, {2 * k};\n"
        f"wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {{{accumulators}}}, %rd8, %rd9, 1, 1, 1, 0, 0;"
        for k in range(4)
    )
    # Row lane / 4 (+ 8) of the warp's 16, columns 8 j + 2 (lane % 4) and the next: 256 bytes a row.
    stores = "\n".join(
        f"st.shared.f32 [%r20+{2048 * (i // 2 % 2) + 32 * (i // 4) + 4 * (i % 2)}], %d{i};" for i in range(32)
    )
    descriptor = (16 >> 4 << 16) | (1024 >> 4 << 32) | (1 << 62)
    return f"""
.version 8.0
.target sm_90a
.address_size 64
.shared .align 1024 .b8 ring[{2 * STAGE + 1024}];
.shared .align 8 .b64 bars[4];
.visible .entry gemm(.param .align 64 .b8 a[128], .param .align 64 .b8 b[128], .param .align 64 .b8 c[128],
                     .param .u32 steps) .reqntid 384 .minnctapersm 1
{{
    .reg .pred %p<4>; .reg .b32 %r<32>; .reg .b64 %rd<16>; .reg .f32 %d<32>;
    mov.u32 %r0, %tid.x; shr.u32 %r1, %r0, 5; mov.u32 %r2, ring; add.u32 %r2, %r2, {parts["operand base"]};
    mov.u32 %r3, bars; ld.param.u32 %r4, [steps];
    mov.b64 %rd0, a; cvta.param.u64 %rd0, %rd0; mov.b64 %rd1, b; cvta.param.u64 %rd1, %rd1;
    mov.b64 %rd2, c; cvta.param.u64 %rd2, %rd2;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra READY;
    mbarrier.init.shared::cta.b64 [%r3], 1; mbarrier.init.shared::cta.b64 [%r3+8], 1;
    mbarrier.init.shared::cta.b64 [%r3+16], 8; mbarrier.init.shared::cta.b64 [%r3+24], 8;
    {parts["init fence"]}
READY:
    bar.sync 0;
    mov.u32 %r5, 0; mov.u32 %r6, 0;
    setp.lt.u32 %p0, %r1, 8;
    @%p0 bra CONSUMERS;
    {parts["fewer registers"]}
    setp.ne.u32 %p0, %r0, 256;
    @%p0 bra END;
    mov.u32 %r9, 1;
FILL:
    mad.lo.u32 %r10, %r6, 8, %r3; add.u32 %r11, %r10, 16;
    {parts["empty wait"]}
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r10], {parts["bytes"]};
    mad.lo.u32 %r12, %r6, {STAGE}, %r2; add.u32 %r13, %r12, 16384; shl.b32 %r14, %r5, 6; mov.u32 %r15, 0;
    {COPY} [%r12], [%rd0, {{%r14, %r15}}], [%r10];
    {COPY} [%r13], [%rd1, {{%r14, %r15}}], [%r10];
    add.u32 %r5, %r5, 1; xor.b32 %r6, %r6, 1; setp.eq.u32 %p1, %r6, 0; @%p1 xor.b32 %r9, %r9, 1;
    setp.lt.u32 %p1, %r5, %r4;
    @%p1 bra FILL;
    bra END;
CONSUMERS:
    {parts["more registers"]}
    {zero}
    mov.u32 %r9, 0;
    shr.u32 %r7, %r1, 2; and.b32 %r8, %r0, 31; setp.eq.u32 %p2, %r8, 0;
    mad.lo.u32 %r16, %r7, 8192, %r2; add.u32 %r17, %r2, 16384;
    shr.u32 %r16, %r16, 4; shr.u32 %r17, %r17, 4; cvt.u64.u32 %rd3, %r16; cvt.u64.u32 %rd4, %r17;
    or.b64 %rd3, %rd3, {descriptor}; or.b64 %rd4, %rd4, {descriptor};
MULTIPLY:
    mad.lo.u32 %r10, %r6, 8, %r3;
    {parts["full wait"]}
    mul.wide.u32 %rd5, %r6, {STAGE // 16}; add.s64 %rd6, %rd3, %rd5; add.s64 %rd7, %rd4, %rd5;
    {parts["register fence"]}
    {products}
    wgmma.commit_group.sync.aligned;
    {parts["wait for the previous group"]}
    setp.ne.u32 %p1, %r5, 0; and.pred %p1, %p1, %p2;
    xor.b32 %r18, %r6, 1; mad.lo.u32 %r18, %r18, 8, %r3;
    @%p1 mbarrier.arrive.shared::cta.b64 _, [%r18+16];
    add.u32 %r5, %r5, 1; xor.b32 %r6, %r6, 1; setp.eq.u32 %p1, %r6, 0; @%p1 xor.b32 %r9, %r9, 1;
    setp.lt.u32 %p1, %r5, %r4;
    @%p1 bra MULTIPLY;
    {parts["wait for the last group"]}
    {parts["meeting of the consumers"]}
    mad.lo.u32 %r19, %r7, 16384, %r2;
    and.b32 %r20, %r1, 3; mad.lo.u32 %r20, %r20, 4096, %r19; shr.u32 %r21, %r8, 2; mad.lo.u32 %r20, %r21, 256, %r20;
    and.b32 %r21, %r8, 3; mad.lo.u32 %r20, %r21, 8, %r20;
    {stores}
    {parts["proxy fence"]}
    add.u32 %r22, %r7, 2; bar.sync %r22, 128;
    and.b32 %r23, %r0, 127; setp.ne.u32 %p1, %r23, 0;
    @%p1 bra END;
    mov.u32 %r15, 0; shl.b32 %r24, %r7, 6;
    cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd2, {{%r15, %r24}}], [%r19];
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group.read 0;
END:
    ret;
}}
"""


def ring_operands(k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A, B and C (not a number yet): small integers, so that sums are exact."""
    rng = np.random.default_rng(k)
    a, b = (rng.integers(-4, 5, (rows, k)).astype(np.float16) for rows in (128, 64))
    return a, b, np.full((128, 64), np.nan, dtype=np.float32)
