# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ways in which asynchronous code is wrong on hardware though it gives the right result most of the time: each mistake
is found, and its twin without it runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from libtile.simulator import SimulationFault, TensorMap, run_ptx

from .ptx import REGISTERS
from .tensor_programs import COPY_OUT, FENCED, expect, load
from .tensor_programs import run as run_with_map

HEADER = (
    ".version 9.0\n.target sm_90a\n.address_size 64\n"
    ".shared .align 1024 .b8 s[8192]; .shared .align 8 .b64 bar;\n.visible .entry k(.param .u64 out)\n{"
)
START = """
    mov.u32 %r0, %tid.x; mov.u32 %r20, bar; mov.u32 %r21, s; setp.eq.u32 %p1, %r0, 0; ld.param.u64 %rd0, [out];
    mul.wide.u32 %rd1, %r0, 4; add.u64 %rd2, %rd0, %rd1; mov.u32 %r9, %cluster_ctarank;
    xor.b32 %r10, %r9, 1; mapa.shared::cluster.u32 %r11, %r21, %r10;
"""
SYNC = "barrier.cluster.arrive; barrier.cluster.wait;"


def run(body: str, **options: Any) -> np.ndarray:
    """Runs `body` behind `START`, with an array of 256 words."""
    out = np.arange(256, dtype=np.uint32)
    options = {"grid": 1, "block": 64} | options
    run_ptx(HEADER + REGISTERS + START + body + "\nret;\n}", "k", args=[out], **options)
    return out


def found(kind: str, body: str, text: str = "", **options: Any) -> None:
    with pytest.raises(SimulationFault, match=text) as fault:
        run(body, **options)
    assert fault.value.kind == kind


BULK = "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r21], 256; @%p1 cp.async.bulk.commit_group;"
WRITTEN = "shl.b32 %r2, %r0, 2; add.u32 %r3, %r21, %r2; st.shared.u32 [%r3], 7; fence.proxy.async; bar.sync 0;"
READ_BACK = "@%p1 ld.global.u32 %r5, [%rd0]; @%p1 st.shared.u32 [%r21], %r5;"


def test_what_a_bulk_copy_writes_is_there_when_more_than_its_source_was_waited_for() -> None:
    wait = "@%p1 cp.async.bulk.wait_group{} 0;"
    found("async", WRITTEN + BULK + wait.format(".read") + READ_BACK, "has not completed")
    assert run(WRITTEN + BULK + wait.format("") + READ_BACK)[0] == 7
    # The source is free, and the copy has what was there.
    reused = run(WRITTEN + BULK + wait.format(".read") + "@%p1 st.shared.u32 [%r21], 9;")
    assert (reused[:64] == 7).all()


@pytest.mark.parametrize(("wait", "fine"), [(".read", False), ("", True)])
def test_what_a_tensor_copy_writes_is_there_when_more_than_its_source_was_waited_for(wait: str, fine: bool) -> None:
    tensor = np.zeros((8, 32), np.float32)
    body = FENCED + (
        "@%p1 cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd10, {0, 0}], [%r21];"
        "@%p1 cp.async.bulk.commit_group;"
        f"@%p1 cp.async.bulk.wait_group{wait} 0; @%p1 ld.global.u32 %r5, [%rd0+4]; @%p1 st.shared.u32 [%r21], %r5;"
    )
    if fine:
        run_with_map(body, tensor, TensorMap(tensor, box=(32, 4)))
        assert tensor.view(np.uint32)[0, 1] == 1
        return
    with pytest.raises(SimulationFault, match="has not completed") as fault:
        run_with_map(body, tensor, TensorMap(tensor, box=(32, 4)))
    assert fault.value.kind == "async"


def test_a_tile_outside_of_its_tensor_is_waited_for_as_others() -> None:
    tensor = np.zeros((8, 32), np.float32)
    body = FENCED + (
        "@%p1 cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd10, {0, 8}], [%r21];"
        "@%p1 cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group.read 0;"
    )
    run_with_map(body, tensor, TensorMap(tensor, box=(32, 4)))
    assert not tensor.any()


def arrival(arrive: str = "", wait: str = "") -> str:
    """Thread 32 writes a word and arrives; all threads wait and read it."""
    return f"""
        @%p1 mbarrier.init.shared::cta.b64 [%r20], 1; bar.sync 0; setp.eq.u32 %p3, %r0, 32;
        @%p3 st.shared.u32 [%r21], %r0; @%p3 mbarrier.arrive{arrive}.shared::cta.b64 _, [%r20];
        W: mbarrier.try_wait.parity{wait}.shared::cta.b64 %p2, [%r20], 0; @!%p2 bra W; ld.shared.u32 %r5, [%r21];
    """


@pytest.mark.parametrize(("arrive", "wait"), [(".relaxed.cta", ""), ("", ".relaxed.cta")])
def test_relaxed_arrivals_and_waits_order_nothing(arrive: str, wait: str) -> None:
    run(arrival())
    run(arrival(".release.cta", ".acquire.cta"))
    found("race", arrival(arrive, wait), "is not ordered with the write by thread 32")


def test_who_does_not_ask_again_goes_on_when_a_wait_times_out() -> None:
    tensor, out = np.arange(128, dtype=np.float32).reshape(4, 32), np.zeros(128, np.float32)
    once = "mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r20], 0;"
    copy, rest = expect(512) + load(0, "%rd10", 0, 0), COPY_OUT.format(words=128)
    kinds = set()
    for order in range(6):
        run_with_map(f"{copy} W: {once} @!%p2 bra W; {rest}", out, TensorMap(tensor, box=(32, 4)), order=order)
        assert np.array_equal(out, tensor.ravel())
        try:
            run_with_map(copy + once + rest, out, TensorMap(tensor, box=(32, 4)), order=order)
        except SimulationFault as fault:
            kinds.add(fault.kind)
    assert kinds & {"race", "async"}


def test_memory_that_is_written_is_not_read_as_memory_that_never_is() -> None:
    found("race", "st.global.u32 [%rd2], %r0; bar.sync 0; ld.global.nc.u32 %r5, [%rd0+64];", "this launch has written")
    found("race", "ld.global.nc.v2.u32 {%r4, %r5}, [%rd0]; bar.sync 0; st.global.u32 [%rd2], %r0;", "has read")
    run("ld.global.nc.u32 %r5, [%rd2]; st.global.u32 [%rd2+512], %r5;")


CLUSTER = {"grid": 2, "cluster": 2, "block": 1}


def test_a_cta_does_not_end_while_another_one_uses_its_memory() -> None:
    body = "st.shared.u32 [%r21], %r0;" + SYNC + "ld.shared::cluster.u32 %r5, [%r11];"
    found("race", body, "ends, and nothing orders that behind the use of its shared memory", **CLUSTER)
    run(body + SYNC, **CLUSTER)


def test_memory_of_a_cta_is_used_when_it_has_started() -> None:
    body = "st.shared::cluster.u32 [%r11], %r9;" + SYNC + "ld.shared.u32 %r5, [%r21];"
    found("race", body, "nothing says that it has started", **CLUSTER)
    run(SYNC + body, **CLUSTER)


def test_threads_arrive_once_at_the_cluster_barrier_and_then_wait() -> None:
    found("illegal-instruction", "barrier.cluster.arrive;" + SYNC, "arrives again", **CLUSTER)
    found("illegal-instruction", SYNC + "barrier.cluster.wait;", "waits, and has not arrived", **CLUSTER)
    run(SYNC + SYNC, **CLUSTER)


def test_values_are_exchanged_with_lanes_of_the_member_mask() -> None:
    body = "setp.lt.u32 %p3, %r0, 16; @!%p3 bra E; shfl.sync.idx.b32 %r5, %r0, {}, 0x1f, 0xffff; E:"
    found("membermask", body.format(20), "taken from lane 20", block=32)
    run(body.format(3), block=32)
