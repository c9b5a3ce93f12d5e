# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""st.async and red.async, which signal an mbarrier of the CTA that they write to, and st.bulk."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from libtile.simulator import PtxError, SimulationFault, run_ptx

from .ptx import REGISTERS

HEADER = (
    ".version 9.0\n.target sm_100a\n.address_size 64\n"
    ".shared .align 16 .b8 s[1024]; .shared .align 8 .b64 bar;\n.visible .entry k(.param .u64 out)\n{"
)
START = """
    mov.u32 %r0, %tid.x; mov.u32 %r20, bar; mov.u32 %r21, s; setp.eq.u32 %p1, %r0, 0; ld.param.u64 %rd0, [out];
    mov.u32 %r9, %cluster_ctarank; xor.b32 %r10, %r9, 1;
    mapa.shared::cluster.u32 %r11, %r21, %r10; mapa.shared::cluster.u32 %r12, %r20, %r10;
    @%p1 mbarrier.init.shared::cta.b64 [%r20], 1; @%p1 fence.mbarrier_init.release.cluster;
    shl.b32 %r1, %r0, 2; add.u32 %r2, %r21, %r1; st.shared.u32 [%r2], 5; add.u32 %r3, %r11, %r1;
    barrier.cluster.arrive; barrier.cluster.wait;
"""
WAIT = "W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r20], 0; @!%p2 bra W;"
RESULT = """
    ld.shared.u32 %r4, [%r2]; mad.lo.u32 %r5, %r9, 128, %r1; cvt.u64.u32 %rd1, %r5; add.u64 %rd1, %rd0, %rd1;
    st.global.u32 [%rd1], %r4; barrier.cluster.arrive; barrier.cluster.wait;
"""
MECHANISM = "mbarrier::complete_tx::bytes"


def run(body: str, **options: Any) -> np.ndarray:
    """What two CTAs of a warp leave in their shared memory, of which each word was 5."""
    out = np.zeros((2, 32), np.uint32)
    text = HEADER + REGISTERS + START + body + "ret;\n}"
    run_ptx(text, "k", grid=2, block=32, cluster=2, args=[out], **options)
    return out


def expect(count: int) -> str:
    return f"@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r20], {count};"


@pytest.mark.parametrize("order", [None, 3])
def test_words_go_to_the_other_cta(order: int | None) -> None:
    store = f"mad.lo.u32 %r6, %r9, 100, %r0; st.async.shared::cluster.{MECHANISM}.b32 [%r3], %r6, [%r12];"
    out = run(expect(128) + store + WAIT + RESULT, order=order)
    assert np.array_equal(out, np.stack([np.arange(32) + 100, np.arange(32)]))


def test_vectors_are_counted_in_bytes() -> None:
    values = "{%r6, %r9, %r6, %r0}"
    store = f"mov.u32 %r6, 7; @%p1 st.async.weak.shared::cluster.{MECHANISM}.v4.b32 [%r11], {values}, [%r12];"
    out = run(expect(16) + store + WAIT + RESULT)
    assert out[0, :5].tolist() == [7, 1, 7, 0, 5] and out[1, :5].tolist() == [7, 0, 7, 0, 5]


def test_all_threads_reduce_into_one_word() -> None:
    reduce = f"red.async.relaxed.cluster.shared::cluster.{MECHANISM}.add.u32 [%r11], %r0, [%r12];"
    out = run(expect(128) + reduce + WAIT + RESULT)
    assert (out[:, 0] == 5 + sum(range(32))).all() and (out[:, 1:] == 5).all()


def test_st_bulk_writes_zeros() -> None:
    out = run("@%p1 st.bulk.weak.shared::cta [%r21], 64, 0; bar.warp.sync -1;" + RESULT)
    assert (out[:, :16] == 0).all() and (out[:, 16:] == 5).all()


@pytest.mark.parametrize(
    ("body", "kind", "text"),
    [
        ("{expect}{store} [%r3], %r0, [%r12];" + RESULT, "async", "has not completed"),
        ("{expect}{store} [%r3], %r0, [%r20];" + WAIT, "illegal-instruction", "signals an mbarrier of another"),
        ("{expect}{vector} [%r3], {{%r0, %r0}}, [%r12];" + WAIT, "misaligned", "shared address"),
        ("@%p1 st.bulk.weak.shared::cta [%r21], 12, 0;", "illegal-instruction", "a multiple of 8"),
    ],
)
def test_mistakes_are_found(body: str, kind: str, text: str) -> None:
    store = f"st.async.shared::cluster.{MECHANISM}.{{}}b32"
    body = body.format(expect=expect(128), store=store.format(""), vector=store.format("v2."))
    with pytest.raises(SimulationFault, match=text) as fault:
        run(body)
    assert fault.value.kind == kind


@pytest.mark.parametrize(
    "body",
    [
        f"red.async.relaxed.cluster.shared::cluster.{MECHANISM}.add.s64 [%r11], %rd0, [%r12];",
        f"st.async.shared::cluster.{MECHANISM}.v4.b64 [%r11], {{%rd0, %rd0, %rd0, %rd0}}, [%r12];",
        "st.bulk.weak.shared::cta [%r21], 64, 1;", "st.async.release.gpu.global.b32 [%rd0], %r0;",
    ],
)  # fmt: skip
def test_what_does_not_exist_is_refused(body: str) -> None:
    with pytest.raises(PtxError):
        run(body)
