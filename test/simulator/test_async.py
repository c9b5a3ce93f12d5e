# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""mbarrier, cp.async groups, bulk copies and proxy fences."""

from __future__ import annotations

import numpy as np
import pytest

from libtile.simulator import SimulationFault

from .ptx import OUT, run

SHARED = ".shared .align 128 .b8 s[1024]; .shared .align 8 .b64 bar;"
INIT = OUT + """
    mov.u32 %r20, bar;  mov.u32 %r21, s;  setp.eq.u32 %p1, %r0, 0;
    @%p1 mbarrier.init.shared::cta.b64 [%r20], {count}; @%p1 fence.mbarrier_init.release.cluster;
    bar.sync 0;
"""  # fmt: skip
WAIT = "W{n}: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r20], {n}; @!%p2 bra W{n};"
LOAD = "shl.b32 %r5, %r0, 2; add.u32 %r5, %r21, %r5; ld.shared.u32 %r1, [%r5]; st.global.u32 [%rd1], %r1;"


def init(count: int) -> str:
    return INIT.replace("{count}", str(count))


def wait(parity: int) -> str:
    return WAIT.replace("{n}", str(parity))


def source() -> np.ndarray:
    return np.arange(500, 564, dtype=np.uint32)


def fault(body: str, *args: np.ndarray, **options: object) -> SimulationFault:
    with pytest.raises(SimulationFault) as caught:
        run(body, *args, prelude=SHARED, **options)
    return caught.value


@pytest.mark.parametrize("order", [None, 5])
def test_mbarrier_phases_alternate_as_all_threads_arrive(order: int | None) -> None:
    step = (
        "shl.b32 %r5, %r0, 2; add.u32 %r5, %r21, %r5; st.shared.u32 [%r5], %r0; "
        "mbarrier.arrive.shared::cta.b64 %rd5, [%r20];"
    )
    swap = "xor.b32 %r6, %r0, 63; shl.b32 %r6, %r6, 2; add.u32 %r6, %r21, %r6; ld.shared.u32 %r1, [%r6];"
    again = "mbarrier.arrive.shared::cta.b64 _, [%r20];"
    out = np.zeros(64, dtype=np.uint32)
    body = init(64) + step + wait(0) + swap + again + wait(1) + "st.global.u32 [%rd1], %r1;"
    run(body, out, block=64, prelude=SHARED, order=order)
    assert out.tolist() == [63 - t for t in range(64)]


def test_test_wait_reads_the_state_token_without_blocking() -> None:
    body = init(2) + """
    mov.u32 %r1, 0;
    mbarrier.arrive.shared::cta.b64 %rd5, [%r20]; mbarrier.test_wait.shared::cta.b64 %p3, [%r20], %rd5;
    @%p3 add.u32 %r1, %r1, 1;
    mbarrier.arrive.shared::cta.b64 _, [%r20]; mbarrier.test_wait.shared::cta.b64 %p3, [%r20], %rd5;
    @%p3 add.u32 %r1, %r1, 10;
    st.global.u32 [%rd1], %r1;
    """  # fmt: skip
    out = np.zeros(1, dtype=np.uint32)
    run(body, out, block=1, prelude=SHARED)
    assert out.tolist() == [10]


BULK = (
    "@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r20], 256; ld.param.u64 %rd2, [p1];"
    "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r21], [%rd2], 256, [%r20];"
)


@pytest.mark.parametrize("order", [None, 2])
def test_bulk_copy_arrives_when_its_mbarrier_says_so(order: int | None) -> None:
    out = np.zeros(64, dtype=np.uint32)
    run(init(1) + BULK + wait(0) + LOAD, out, source(), block=64, prelude=SHARED, order=order)
    assert out.tolist() == source().tolist()


def test_bytes_of_a_bulk_copy_may_not_be_read_before_the_wait() -> None:
    assert fault(init(1) + BULK + "bar.sync 0;" + LOAD, np.zeros(64, np.uint32), source(), block=64).kind == "async"


def test_wait_for_bytes_that_never_come_is_a_deadlock_that_says_what_is_missing() -> None:
    found = fault(
        init(1) + BULK.replace("[%r20], 256;", "[%r20], 512;", 1) + wait(0), np.zeros(64, np.uint32), source()
    )
    assert found.kind == "deadlock"
    assert "misses 0 arrivals and 256 bytes" in found.message


def test_arrivals_beyond_the_count_are_an_error() -> None:
    found = fault(init(3) + "mbarrier.arrive.shared::cta.b64 _, [%r20], 4;", np.zeros(32, np.uint32), block=1)
    assert "more arrivals than the mbarrier expects (3)" in found.message


@pytest.mark.parametrize("order", [None, 2])
def test_other_warps_may_use_an_mbarrier_only_when_something_orders_that_behind_its_initialisation(order) -> None:
    """Found in runs in which it happens to be there already; those in which it is not have another fault."""
    arrive = "mbarrier.arrive.shared::cta.b64 _, [%r20];"
    out = np.zeros(64, np.uint32)
    run(init(64) + arrive + wait(0), out, block=64, prelude=SHARED, order=order)
    unordered = init(64).replace("bar.sync 0;", "bar.warp.sync -1;")
    run(unordered.replace("64;", "32;") + arrive + wait(0), out, block=32, prelude=SHARED, order=order)
    found = fault(unordered + arrive + wait(0), out, block=64)
    assert found.kind == "mbarrier-init" and found.warp == 1
    assert "a thread of another warp than thread 0 uses the mbarrier" in found.message and "(bar.sync)" in found.message
    run(unordered + arrive + wait(0), out, block=64, prelude=SHARED, checks="full,-mbarrier-init")


def test_mbarrier_must_be_initialised() -> None:
    body = OUT + "mov.u32 %r20, bar; mbarrier.arrive.shared::cta.b64 _, [%r20];"
    assert "no mbarrier is initialised" in fault(body, np.zeros(32, np.uint32)).message


FILL = "shl.b32 %r5, %r0, 2; add.u32 %r5, %r21, %r5; st.shared.u32 [%r5], %r0;"
STORE = (
    "bar.sync 0; ld.param.u64 %rd2, [p1];"
    "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r21], 256; @%p1 cp.async.bulk.commit_group;"
    "@%p1 cp.async.bulk.wait_group 0;"
)


def test_bulk_store_needs_a_proxy_fence_after_the_writes() -> None:
    target = np.zeros(64, dtype=np.uint32)
    run(
        init(1) + FILL + "fence.proxy.async.shared::cta;" + STORE,
        np.zeros(64, np.uint32),
        target,
        block=64,
        prelude=SHARED,
    )
    assert target.tolist() == list(range(64))
    found = fault(init(1) + FILL + STORE, np.zeros(64, np.uint32), target, block=64)
    assert found.kind == "proxy-fence"
    # The thread that copies may fence for all when the barrier has ordered their writes before it, not earlier.
    fence = "@%p1 fence.proxy.async.shared::cta;"
    run(init(1) + FILL + STORE.replace("bar.sync 0;", "bar.sync 0;" + fence), np.zeros(64, np.uint32), target, block=64,
        prelude=SHARED)  # fmt: skip
    assert fault(init(1) + FILL + fence + STORE, np.zeros(64, np.uint32), target, block=64).kind == "proxy-fence"


WRITTEN = """
    ld.param.u64 %rd2, [p1]; mul.wide.u32 %rd3, %r0, 4; add.u64 %rd4, %rd2, %rd3;
    st.global.u32 [%rd4], %r0;
    {writers}
    bar.sync 0;
    {copier}
    @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r20], 256;
    @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r21], [%rd2], 256, [%r20];
"""


@pytest.mark.parametrize(
    ("writers", "copier", "is_fenced"),
    [
        ("", "", False),
        ("fence.proxy.async;", "", True),
        ("fence.proxy.async.global;", "", True),
        ("fence.proxy.async.shared::cta;", "", False),  # of other memory
        ("fence.proxy.alias;", "", False),  # of another proxy
        ("", "@%p1 fence.proxy.async.global;", True),  # all writes happen before it
        ("@%p1 fence.proxy.async.global;", "", False),  # not those of other warps
    ],
)
def test_what_threads_write_to_global_memory_is_fenced_before_a_bulk_copy(writers, copier, is_fenced) -> None:
    body = init(1) + WRITTEN.replace("{writers}", writers).replace("{copier}", copier) + wait(0) + LOAD
    out, middle = np.zeros(64, np.uint32), np.full(64, 7, np.uint32)
    if not is_fenced:
        found = fault(body, out, middle, block=64)
        assert found.kind == "proxy-fence" and "the copy reads global bytes" in str(found)
        return
    run(body, out, middle, block=64, prelude=SHARED)
    assert out.tolist() == list(range(64))


def test_words_that_a_copy_writes_last_need_no_fence() -> None:
    back = "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r21], 256; @%p1 cp.async.bulk.commit_group;"
    body = (
        init(1)
        + FILL
        + "fence.proxy.async.shared::cta;"
        + WRITTEN.replace("{writers}", "").replace("{copier}", back + "@%p1 cp.async.bulk.wait_group 0;")
    )
    out = np.zeros(64, np.uint32)
    run(body + wait(0) + LOAD, out, np.zeros(64, np.uint32), block=64, prelude=SHARED)
    assert out.tolist() == list(range(64))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("@%p1 mbarrier.init.shared::cta.b64 [%r20], 0;", "1048575"),
        ("@%p1 mbarrier.init.shared::cta.b64 [%r20], 1048576;", "1048575"),
        ("@%p1 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r20], 1048576;", "the tx-count"),
        (
            "@%p1 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r20], 1048575;"
            "@%p1 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r20], 16;",
            "the tx-count",
        ),
    ],
)
def test_counts_of_an_mbarrier_are_in_their_range(body: str, message: str) -> None:
    """PTX ISA, "Contents of the mbarrier object": arrivals from 1, and bytes from both sides, to 2**20 - 1."""
    found = fault(init(1) + body, np.zeros(32, np.uint32))
    assert found.kind == "illegal-instruction" and message in str(found)


@pytest.mark.parametrize(
    ("use", "message"),
    [
        ("st.shared.u32 [%r20], 5;", "write to an mbarrier that no mbarrier.inval has ended"),
        ("st.shared.u16 [%r20+6], %h1;", "write to an mbarrier that no mbarrier.inval has ended"),
        ("atom.shared.add.u32 %r5, [%r20+4], 1;", "write to an mbarrier that no mbarrier.inval has ended"),
        ("mbarrier.init.shared::cta.b64 [%r20], 1;", "initialising another one"),
    ],
)
def test_the_place_of_an_mbarrier_is_another_s_when_it_was_invalidated(use: str, message: str) -> None:
    """PTX ISA, "mbarrier.init" and "mbarrier.inval"."""
    found = fault(init(1) + f"@%p1 {use}", np.zeros(32, np.uint32))
    assert found.kind == "mbarrier-object" and message in str(found)
    ended = init(1) + f"@%p1 mbarrier.inval.shared::cta.b64 [%r20]; @%p1 st.shared.u64 [%r20], 0; @%p1 {use}"
    run(ended, np.zeros(32, np.uint32), prelude=SHARED)


def test_nothing_is_invalidated_where_there_is_no_mbarrier() -> None:
    body = "mov.u32 %r20, bar; @!%p0 mbarrier.inval.shared::cta.b64 [%r20];"
    assert fault(body, np.zeros(32, np.uint32), source()).kind == "illegal-instruction"
    run(body, np.zeros(32, np.uint32), source(), prelude=SHARED, checks="full,-mbarrier-init")


def test_a_copy_is_waited_for_before_the_cta_ends() -> None:
    """Its bytes, and those of its mbarrier, may be another CTA's by then."""
    found = fault(init(1) + BULK, np.zeros(64, np.uint32), source(), block=64)
    assert found.kind == "async" and "may still write shared memory" in str(found)


COPY = (
    "ld.param.u64 %rd2, [p1]; mul.wide.u32 %rd3, %r0, 4; add.u64 %rd2, %rd2, %rd3; shl.b32 %r5, %r0, 2; "
    "add.u32 %r5, %r21, %r5;"
    "cp.async.ca.shared.global [%r5], [%rd2], 4;"
)


def test_wait_group_leaves_the_newest_groups_under_way() -> None:
    two = COPY + "cp.async.commit_group; cp.async.ca.shared.global [%r5+256], [%rd2], 4; cp.async.commit_group;"
    first = "cp.async.wait_group 1; ld.shared.u32 %r1, [%r5]; st.global.u32 [%rd1], %r1;"
    out = np.zeros(32, dtype=np.uint32)
    run(init(1) + two + first, out, source(), prelude=SHARED)
    assert out.tolist() == source()[:32].tolist()
    assert fault(init(1) + two + "cp.async.wait_group 1; ld.shared.u32 %r1, [%r5+256];", out, source()).kind == "async"
    assert fault(init(1) + COPY + "cp.async.wait_group 0; ld.shared.u32 %r1, [%r5];", out, source()).kind == "async"


def test_copy_is_visible_to_other_threads_only_after_a_barrier() -> None:
    swap = "xor.b32 %r6, %r5, 128; ld.shared.u32 %r1, [%r6]; st.global.u32 [%rd1], %r1;"
    out = np.zeros(64, dtype=np.uint32)
    run(init(1) + COPY + "cp.async.wait_all; bar.sync 0;" + swap, out, source(), block=64, prelude=SHARED)
    assert out.tolist() == np.roll(source(), 32).tolist()
    assert fault(init(1) + COPY + "cp.async.wait_all;" + swap, out, source(), block=64).kind == "race"


def test_threads_of_several_warps_may_copy_the_same_bytes() -> None:
    body = (
        init(64)
        + "ld.param.u64 %rd2, [p1];{}cp.async.ca.shared.global [%r21], [%rd2], 4; cp.async.wait_all; bar.sync 0;"
    )
    result = "ld.shared.u32 %r1, [%r21]; st.global.u32 [%rd1], %r1;"
    out = np.zeros(64, dtype=np.uint32)
    for order in (None, 1):
        run(body.format("") + result, out, source(), block=64, prelude=SHARED, order=order)
        assert (out == source()[0]).all()
    others = " mul.wide.u32 %rd3, %r0, 4; add.u64 %rd2, %rd2, %rd3; "
    assert fault(body.format(others) + result, out, source(), block=64, order=1).kind == "race"


def test_source_size_fills_the_rest_with_zeros() -> None:
    body = (
        init(1) + "ld.param.u64 %rd2, [p1]; mov.u32 %r6, %r0; cp.async.ca.shared.global [%r21], [%rd2], 16, 6; "
        "cp.async.wait_all;"
        + "ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [%r21]; st.global.v4.u32 [%rd1], {%r1, %r2, %r3, %r4};"
    )
    out = np.zeros(4, dtype=np.uint32)
    run(body, out, np.full(4, 0x11223344, dtype=np.uint32), block=1, prelude=SHARED)
    assert out.tolist() == [0x11223344, 0x3344, 0, 0]


def test_noinc_arrival_signals_the_mbarrier_when_the_copies_have_landed() -> None:
    body = init(64) + COPY + "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r20];" + wait(0) + LOAD
    out = np.zeros(64, dtype=np.uint32)
    run(body, out, source(), block=64, prelude=SHARED)
    assert out.tolist() == source().tolist()


def test_elect_chooses_one_leader_of_the_mask() -> None:
    body = (
        OUT + "elect.sync %r2|%p1, 0xfffffff0; mov.u32 %r1, %r2; @%p1 add.u32 %r1, %r1, 100; st.global.u32 [%rd1], %r1;"
    )
    out = np.zeros(32, dtype=np.uint32)
    run(OUT + "setp.lt.u32 %p3, %r0, 4; @%p3 exit;" + body.removeprefix(OUT), out)
    assert out.tolist() == [0] * 4 + [104] + [4] * 27


CRITICAL = """
    ld.param.u64 %rd2, [p1]; mov.u32 %r21, s; mov.u32 %r22, lock; mov.u32 %r10, bars;
    and.b32 %r11, %r0, 31; shr.u32 %r12, %r0, 5; setp.eq.u32 %p1, %r11, 0; mad.lo.u32 %r20, %r12, 8, %r10;
    @%p1 mbarrier.init.shared::cta.b64 [%r20], 1; @%p1 fence.mbarrier_init.release.cluster;
    setp.eq.u32 %p3, %r0, 0; @%p3 st.shared.u32 [%r22], 0;
    bar.sync 0;
    @!%p1 bra END;
LOCK: atom.acquire.cta.shared.cas.b32 %r13, [%r22], 0, 1; setp.ne.u32 %p2, %r13, 0; @%p2 bra LOCK;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r20], 256;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r21], [%rd2], 256, [%r20];
W0: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r20], 0; @!%p2 bra W0;
    ld.shared.u32 %r1, [%r21+4]; st.global.u32 [%rd1], %r1;
    atom.release.cta.shared.exch.b32 %r13, [%r22], 0;
END:
"""


@pytest.mark.parametrize("order", [None, 1])
def test_a_copy_completes_though_other_threads_spin_until_its_waiter_goes_on(order: int | None) -> None:
    out = np.zeros(128, dtype=np.uint32)
    prelude = ".shared .align 128 .b8 s[1024]; .shared .align 8 .b64 bars[4]; .shared .align 4 .b32 lock;"
    run(OUT + CRITICAL, out, source(), block=128, prelude=prelude, order=order, max_instructions=10**6)
    assert out[::32].tolist() == [501] * 4
