# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Bulk copies and reductions of plain memory that go to other CTAs' shared memory, and multicasts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from libtile.simulator import PtxError, SimulationFault, run_ptx

from .ptx import OUT as WORDS
from .ptx import REGISTERS
from .ptx import run as run_words

HEADER = ".version 9.0\n.target sm_90a\n.address_size 64\n.shared .align 128 .b8 s[1024]; .shared .align 8 .b64 bar;\n"
# Each CTA of a cluster has an mbarrier; thread 0 of CTA 0 is %p4.
START = """
    mov.u32 %r0, %tid.x; mov.u32 %r5, %cluster_ctarank; mov.u32 %r20, bar; mov.u32 %r21, s;
    setp.eq.u32 %p1, %r0, 0; setp.eq.and.u32 %p4, %r5, 0, %p1; ld.param.u64 %rd0, [out]; ld.param.u64 %rd1, [data];
    @%p1 mbarrier.init.shared::cta.b64 [%r20], 1; @%p1 fence.mbarrier_init.release.cluster;
"""
MEET = "barrier.cluster.arrive; barrier.cluster.wait;"
WAIT = "W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r20], 0; @!%p2 bra W;"
# Out of the first 128 bytes of each CTA, and behind those of the CTAs before.
OUT = """
    shl.b32 %r2, %r0, 2; add.u32 %r3, %r21, %r2; ld.shared.u32 %r4, [%r3]; shl.b32 %r6, %r5, 7; add.u32 %r6, %r6, %r2;
    cvt.u64.u32 %rd5, %r6; add.u64 %rd5, %rd0, %rd5; st.global.u32 [%rd5], %r4;
"""


def expect(count: int) -> str:
    return f"@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r20], {count};"


def run(
    body: str, out: np.ndarray, data: np.ndarray, cluster: int = 1, target: str = "sm_90a", **options: object
) -> None:
    header = HEADER.replace("sm_90a", target)
    text = f"{header}.visible .entry k(.param .u64 out, .param .u64 data)\n{{{REGISTERS}{START}{body}{MEET}\nret;\n}}"
    run_ptx(text, "k", grid=cluster, cluster=cluster, block=32, args=[out, data], **options)  # type: ignore[arg-type]


MULTICAST = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"


def multicast(mask: int) -> str:
    return f"@%p4 {MULTICAST} [%r21], [%rd1], 128, [%r20], {mask};"


@pytest.mark.parametrize("order", [None, 1])
def test_a_multicast_fills_the_same_place_of_each_cta_of_its_mask(order: int | None) -> None:
    data, out = np.arange(32, dtype=np.uint32), np.zeros((4, 32), dtype=np.uint32)
    skip = "setp.eq.u32 %p3, %r5, 1; @%p3 bra END;"
    run(expect(128) + MEET + multicast(0b1101) + skip + WAIT + OUT + "END:", out, data, 4, order=order)
    assert (out[[0, 2, 3]] == data).all() and not out[1].any()


def test_a_multicast_goes_to_ctas_that_are_there() -> None:
    data, out = np.arange(32, dtype=np.uint32), np.zeros((2, 32), dtype=np.uint32)
    with pytest.raises(SimulationFault, match="CTA mask 0x4 goes beyond the cluster"):
        run(expect(128) + MEET + multicast(4), out, data, 2)
    with pytest.raises(PtxError, match="a multicast needs a mask of CTAs"):
        run(multicast(1).replace(", 1;", ";"), out, data, 2)


REDUCE = "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
# Each CTA adds to the first 128 bytes of CTA 0 from its own bytes behind them; those are tid, and tid + 100 * rank.
FILL = """
    shl.b32 %r2, %r0, 2; add.u32 %r3, %r21, %r2; st.shared.u32 [%r3], %r0; mad.lo.u32 %r7, %r5, 100, %r0;
    st.shared.u32 [%r3+128], %r7; fence.proxy.async.shared::cta;
    mapa.shared::cluster.u32 %r8, %r21, 0; mapa.shared::cluster.u32 %r9, %r20, 0; add.u32 %r10, %r21, 128;
"""
COPY = f"@%p1 {REDUCE}.add.u32 [%r8], [%r10], 128, [%r9];"
FIRST = "setp.ne.u32 %p3, %r5, 0; @%p3 bra END;"


@pytest.mark.parametrize(
    ("name", "kind", "combine"),
    [
        ("add", "u32", lambda old, new: old + new), ("add", "s32", lambda old, new: old + new),
        ("max", "s32", np.maximum), ("min", "u32", np.minimum), ("xor", "b32", np.bitwise_xor),
        ("inc", "u32", lambda old, new: np.where(old >= new, 0, old + 1)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("order", [None, 1])
def test_reductions_of_several_ctas_meet_in_the_shared_memory_of_one(
    name: str, kind: str, combine: Callable[[np.ndarray, np.ndarray], np.ndarray], order: int | None
) -> None:
    data, out = np.zeros(1, dtype=np.uint32), np.zeros(32, dtype=np.uint32)
    copy = COPY.replace("add.u32 [", f"{name}.{kind} [")
    count = "@%p4 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r20], 256;"
    run(FILL + count + MEET + copy + FIRST + WAIT + OUT + "END:", out, data, 2, order=order)
    values = np.arange(32, dtype=np.uint32)
    either = {tuple(combine(combine(values, values + a), values + b)) for a, b in ((0, 100), (100, 0))}
    assert tuple(out) in either


@pytest.mark.parametrize(
    ("body", "kind", "said"),
    [
        (FILL.replace("fence.proxy.async.shared::cta;", "") + expect(128) + MEET + COPY + WAIT, "proxy-fence", "reads"),
        (FILL + expect(128) + MEET + COPY + OUT + WAIT, "async", "has not completed"),
        (FILL + expect(128) + MEET + COPY + "st.shared.u32 [%r3+128], 0;" + WAIT, "async", "write to bytes that a cp"),
        (FILL.replace("st.shared.u32 [%r3], %r0;", "") + expect(128) + MEET + COPY + WAIT, "uninitialized", "written"),
        (FILL + expect(128) + MEET + COPY, "async", "may still write shared memory"),
    ],
)  # fmt: skip
def test_mistakes_with_reductions_into_shared_memory_are_found(body: str, kind: str, said: str) -> None:
    with pytest.raises(SimulationFault, match=said) as caught:
        run(body, np.zeros(32, np.uint32), np.zeros(1, np.uint32))
    assert caught.value.kind == kind


def test_source_of_a_copy_to_another_cta_is_not_written_before_it_has_arrived() -> None:
    copy = "@%p4 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r8], [%r10], 128, [%r9];"
    there = FILL.replace("%r21, 0;", "%r21, 1;").replace("%r20, 0;", "%r20, 1;") + expect(128) + MEET + copy
    skip = "setp.eq.u32 %p3, %r5, 0; @%p3 bra END;"
    out = np.zeros((2, 32), np.uint32)
    run(there + skip + WAIT + OUT + "END:", out, np.zeros(1, np.uint32), 2)
    assert np.array_equal(out[1], np.arange(32))
    with pytest.raises(SimulationFault, match=r"write to bytes that a cp\.async\.bulk reads"):
        run(there + "st.shared.u32 [%r3+128], 0;" + skip + WAIT + "END:", out, np.zeros(1, np.uint32), 2)


@pytest.mark.parametrize(
    ("copy", "said"),
    [
        (f"{REDUCE}.add.f32 [%r8], [%r10], 128, [%r9];", r"to shared memory has no \.add\.f32"),
        (f"{REDUCE}.and.b64 [%r8], [%r10], 128, [%r9];", r"has no \.and\.b64"),
        (f"{REDUCE}.add.u32 [%r8], [%r10], 128;", "lacks an operand"),
        ("cp.reduce.async.bulk.global.shared::cta.bulk_group.and.u32 [%rd1], [%r21], 128;", r"has no \.and\.u32"),
        ("cp.reduce.async.bulk.global.global.bulk_group.add.u32 [%rd1], [%rd1], 128;", "from shared memory"),
    ],
)
def test_reductions_that_ptxas_does_not_have_are_refused(copy: str, said: str) -> None:
    with pytest.raises(PtxError, match=said):
        run(copy, np.zeros(1, np.uint32), np.zeros(1, np.uint32))


def test_a_mask_chooses_bytes_of_a_copy_to_global_memory() -> None:
    body = WORDS + (
        "mov.u32 %r21, s; shl.b32 %r2, %r0, 2; add.u32 %r3, %r21, %r2; st.shared.u32 [%r3], -1; fence.proxy.async;"
        "bar.warp.sync -1; setp.eq.u32 %p1, %r0, 0; mov.u16 %h1, 0x8005;"
        "@%p1 cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%rd0], [%r21], 32, %h1;"
        "@%p1 cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group 0;"
    )
    out = np.zeros(48, np.uint8)
    run_words(body, out, prelude=".shared .align 16 .b8 s[128];")
    assert np.flatnonzero(out).tolist() == [0, 2, 15, 16, 18, 31]


@pytest.mark.parametrize(
    ("instruction", "word"),
    [
        ("fma.rn.oob.f16 %h1, %h1, %h1, %h1;", "oob"),
        ("mbarrier.test_wait.phase_type::conditional.shared::cta.b64 %p1, [%r1], %rd1;", "phase_type::conditional"),
        ("cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes.ignore_oob [%r1], [%rd1], 16, 0, 0, [%r2];",
         "ignore_oob"),
        ("fence.proxy.async::fabric;", "async::fabric"),
    ],
)  # fmt: skip
def test_modifiers_that_are_not_known_are_refused_by_name(instruction: str, word: str) -> None:
    with pytest.raises(PtxError, match=rf":\d+:\d+: error: \w+ with \.{word} is not simulated in"):
        run_words(WORDS + instruction, np.zeros(32, np.uint32))
