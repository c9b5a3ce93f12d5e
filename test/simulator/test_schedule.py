# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Divergence, reconvergence, forward progress, barriers and schedules."""

from __future__ import annotations

import numpy as np
import pytest

from libtile.simulator import run_ptx
from libtile.simulator.cfg import _weak_topological_order

from .ptx import OUT, each_thread, module, run


def test_threads_meet_again_after_a_branch_and_after_a_loop() -> None:
    body = """
    setp.lt.u32 %p1, %r0, 10;  @%p1 bra A;  mov.u32 %r2, 1;  bra J;
    A: mov.u32 %r2, %r0;
    L: add.u32 %r2, %r2, 1;  setp.lt.u32 %p2, %r2, 12;  @%p2 bra L;
    J: activemask.b32 %r1;
    """
    assert set(each_thread(body).tolist()) == {0xFFFFFFFF}


def test_threads_that_leave_a_loop_early_wait_behind_it() -> None:
    body = """
    mov.u32 %r2, 0;
    L: setp.eq.u32 %p1, %r2, %r0;  @%p1 bra OUT;
    add.u32 %r2, %r2, 1;  setp.lt.u32 %p2, %r2, 40;  @%p2 bra L;
    OUT: activemask.b32 %r1;
    """
    assert set(each_thread(body).tolist()) == {0xFFFFFFFF}


def test_order_of_units_keeps_loops_together_with_exits_behind() -> None:
    # 0 -> 1 (loop head) -> 2 -> 1, exits from 1 and 2 to 3; 4 is not reachable.
    assert _weak_topological_order([[1], [3, 2], [3, 1], [], [3]]) == ([0, 1, 2, 3], {0: -1, 1: 1, 2: 1, 3: -1})
    # A loop of two loops: 1 { 2 self, 3 self } -> 4.
    order, loops = _weak_topological_order([[1], [2, 4], [2, 3], [3, 1], []])
    assert order == [0, 1, 2, 3, 4] and loops == {0: -1, 1: 1, 2: 2, 3: 3, 4: -1}


SPIN_LOCK = (
    OUT
    + """
    ld.param.u64 %rd2, [p1];
    L: atom.acquire.gpu.global.cas.b32 %r2, [%rd2], 0, 1;
    setp.ne.u32 %p1, %r2, 0;  @%p1 bra L;
    ld.global.u32 %r3, [%rd2+4];  add.u32 %r3, %r3, 1;  st.global.u32 [%rd2+4], %r3;
    fence.acq_rel.gpu;
    atom.release.gpu.global.exch.b32 %r4, [%rd2], 0;
    """
)


@pytest.mark.parametrize("order", [None, 0, 1])
def test_lanes_that_spin_for_a_lock_do_not_starve_its_holder(order: int | None) -> None:
    lock = np.zeros(2, dtype=np.uint32)
    run(SPIN_LOCK, np.zeros(64, dtype=np.uint32), lock, block=32, grid=2, order=order)
    assert lock.tolist() == [0, 2 * 32]


def test_a_block_that_holds_a_lock_is_soon_done_whatever_its_barriers() -> None:
    """Sixteen blocks in which one thread spins for all, as in cuTile's kernels: 17,360 warp instructions, and 327,180
    without turns that go on behind barriers and loops that count as one place."""
    body = OUT + """
    .shared .align 4 .b32 seen;
    ld.param.u64 %rd2, [p1];  setp.ne.u32 %p2, %r0, 0;
    L: bar.sync 0;  @%p2 bra W;
    atom.acquire.gpu.global.cas.b32 %r2, [%rd2], 0, 1;  st.shared.u32 [seen], %r2;
    W: bar.sync 0;  ld.shared.u32 %r3, [seen];  setp.ne.u32 %p1, %r3, 0;  @%p1 bra L;
    bar.sync 0;  ld.global.u32 %r4, [%rd2+4];  add.u32 %r4, %r4, 1;
    bar.sync 0;  @!%p2 st.global.u32 [%rd2+4], %r4;
    bar.sync 0;  @!%p2 atom.release.gpu.global.exch.b32 %r5, [%rd2], 0;
    """  # fmt: skip
    lock = np.zeros(2, dtype=np.uint32)
    result = run(body, np.zeros(1, dtype=np.uint32), lock, block=64, grid=16, max_instructions=30_000)
    assert lock.tolist() == [0, 16] and result.counters.warp_instructions < 30_000


def test_a_holder_between_two_places_that_spin_is_not_starved() -> None:
    """One thread that takes a lock twice, the others that wait for it at their first or second place."""
    take = "{n}: atom.acquire.gpu.global.exch.b32 %r1, [%rd2], 1;\nsetp.ne.u32 %p1, %r1, 0;\n@%p1 bra {n};\n"
    work = "mov.u32 %r2, 10;\n{n}: sub.u32 %r2, %r2, 1;\nsetp.ne.u32 %p1, %r2, 0;\n@%p1 bra {n};\n"
    give = "st.release.gpu.global.u32 [%rd2], 0;\n"
    body = "ld.param.u64 %rd2, [p1];\n"
    for i in range(2):
        body += take.format(n=f"TAKE{i}") + work.format(n=f"WORK{i}") + give
    out, lock = np.zeros(4, dtype=np.uint32), np.zeros(1, dtype=np.uint32)
    run(body, out, lock, block=1, grid=3, max_instructions=500_000)
    assert lock.tolist() == [0]


def test_a_warp_may_wait_for_a_flag_that_another_sets() -> None:
    body = (
        OUT
        + """
    ld.param.u64 %rd2, [p1];  setp.lt.u32 %p1, %r0, 32;  @!%p1 bra SET;
    W: ld.acquire.gpu.global.u32 %r2, [%rd2];  setp.eq.u32 %p2, %r2, 0;  @%p2 bra W;  bra E;
    SET: st.release.gpu.global.u32 [%rd2], 7;
    E: st.global.u32 [%rd1], %r2;
    """
    )
    out = np.zeros(64, dtype=np.uint32)
    run(body, out, np.zeros(1, dtype=np.uint32), block=64)
    assert out[:32].tolist() == [7] * 32


def test_lanes_of_one_warp_may_wait_for_each_other_through_nanosleep() -> None:
    body = (
        OUT
        + """
    ld.param.u64 %rd2, [p1];  setp.ne.u32 %p1, %r0, 31;  @!%p1 bra SET;
    W: nanosleep.u32 100;  ld.volatile.global.u32 %r2, [%rd2];  setp.eq.u32 %p2, %r2, 0;  @%p2 bra W;  bra E;
    SET: st.volatile.global.u32 [%rd2], 7;
    E: st.global.u32 [%rd1], 1;
    """
    )
    out = np.zeros(32, dtype=np.uint32)
    run(body, out, np.zeros(1, dtype=np.uint32))
    assert out.tolist() == [1] * 32


def test_named_barriers_make_a_producer_and_a_consumer() -> None:
    body = (
        OUT
        + """
    mov.u32 %r9, s;  and.b32 %r8, %r0, 31;  shl.b32 %r7, %r8, 2;  add.u32 %r9, %r9, %r7;  mov.u32 %r6, 0;
    mov.u32 %r1, 0;
    setp.ge.u32 %p1, %r0, 32;  @%p1 bra CONSUME;
    P: bar.sync 2, 64;  add.u32 %r5, %r6, %r8;  st.shared.u32 [%r9], %r5;  bar.arrive 1, 64;
    add.u32 %r6, %r6, 1;  setp.lt.u32 %p2, %r6, 5;  @%p2 bra P;  bra E;
    CONSUME: bar.arrive 2, 64;
    C: bar.sync 1, 64;  ld.shared.u32 %r5, [%r9];  add.u32 %r1, %r1, %r5;
    add.u32 %r6, %r6, 1;  setp.lt.u32 %p2, %r6, 5;  @!%p2 bra E;  bar.arrive 2, 64;  bra C;
    E: st.global.u32 [%rd1], %r1;
    """
    )
    for order in (None, 3, 4):
        out = np.zeros(64, dtype=np.uint32)
        run(body, out, block=64, prelude=".shared .align 4 .b8 s[128];", order=order)
        assert out[32:].tolist() == [10 + 5 * lane for lane in range(32)]


def test_barrier_reduction_gives_every_thread_the_result() -> None:
    body = """
    and.b32 %r2, %r0, 1;  setp.eq.u32 %p1, %r2, 1;
    bar.red.popc.u32 %r1, 0, %p1;
    bar.red.and.pred %p2, 0, %p1;  bar.red.or.pred %p3, 0, %p1;
    @%p2 add.u32 %r1, %r1, 1000;  @%p3 add.u32 %r1, %r1, 100;
    """
    assert set(each_thread(body, block=96).tolist()) == {148}


def test_barrier_does_not_wait_for_threads_that_exited() -> None:
    body = "setp.ge.u32 %p1, %r0, 40; @%p1 exit; bar.sync 0; mov.u32 %r1, 5;"
    assert each_thread(body, block=96).tolist() == [5] * 40 + [0] * 56


def test_block_that_is_not_whole_warps_runs_only_its_threads() -> None:
    body = "bar.sync 0; vote.sync.ballot.b32 %r1, 1, 0xff; "
    out = np.zeros(40, dtype=np.uint32)
    run(
        f"{OUT} setp.lt.u32 %p1, %r0, 32; @%p1 bra E; {body} st.global.u32 [%rd1], %r1; exit; E: bar.sync 0;",
        out,
        block=40,
    )
    assert out.tolist() == [0] * 32 + [0xFF] * 8


CALLS = """
.func (.param .b32 r) fact (.param .b32 n)
{
    .reg .pred %p; .reg .b32 %n; .reg .b32 %m;
    ld.param.u32 %n, [n];  setp.lt.u32 %p, %n, 2;  @%p bra ONE;
    sub.u32 %m, %n, 1;
    { .param .b32 a; .param .b32 v; st.param.b32 [a], %m; call (v), fact, (a); ld.param.b32 %m, [v]; }
    mul.lo.u32 %m, %m, %n;  st.param.b32 [r], %m;  ret;
    ONE: st.param.b32 [r], 1;  ret;
}
.func (.reg .b32 r) twice (.reg .b32 x) { add.u32 r, x, x; ret; }
.func (.reg .b32 r) square (.reg .b32 x) { mul.lo.u32 r, x, x; ret; }
.global .u64 table[2] = { twice, square };
"""


def test_recursion_to_a_different_depth_in_each_lane() -> None:
    body = (
        "and.b32 %r2, %r0, 7; { .param .b32 a; .param .b32 v; st.param.b32 [a], %r2; call (v), fact, (a); "
        "ld.param.b32 %r1, [v]; }"
    )
    factorials = [1, 1, 2, 6, 24, 120, 720, 5040]
    assert each_thread(body, prelude=CALLS).tolist() == factorials * 4


def test_lanes_may_call_different_functions_through_a_table() -> None:
    body = """
    and.b32 %r2, %r0, 1;  mul.wide.u32 %rd2, %r2, 8;  mov.u64 %rd3, table;  add.u64 %rd3, %rd3, %rd2;
    ld.global.u64 %rd4, [%rd3];
    PROTO: .callprototype (.reg .b32 _) _ (.reg .b32 _);
    call (%r1), %rd4, (%r0), PROTO;
    """
    assert each_thread(body, prelude=CALLS).tolist() == [t * t if t & 1 else 2 * t for t in range(32)]


def test_switch_takes_each_lane_to_its_label() -> None:
    body = """
    and.b32 %r2, %r0, 3;  T: .branchtargets A, B, C, A;  brx.idx %r2, T;
    A: mov.u32 %r1, 10; bra J;  B: mov.u32 %r1, 20; bra J;  C: mov.u32 %r1, 30; J:
    """
    assert each_thread(body).tolist() == [10, 20, 30, 10] * 8


def test_seeds_change_the_order_of_atomics_and_nothing_else() -> None:
    body = OUT + "ld.param.u64 %rd2, [p1]; atom.global.add.u32 %r1, [%rd2], 1; st.global.u32 [%rd1], %r1;"
    seen = set()
    for order in (None, 1, 2, 3):
        out, counter = np.zeros(128, dtype=np.uint32), np.zeros(1, dtype=np.uint32)
        run(body, out, counter, block=128, order=order)
        assert sorted(out.tolist()) == list(range(128))
        seen.add(tuple(out.tolist()))
    assert len(seen) > 1


def test_equal_seeds_give_equal_schedules() -> None:
    text = module(OUT + "ld.param.u64 %rd2, [p1]; atom.global.add.u32 %r1, [%rd2], 1; st.global.u32 [%rd1], %r1;",
                  params=".param .u64 out, .param .u64 p1")  # fmt: skip
    results = []
    for _ in range(2):
        out = np.zeros(128, dtype=np.uint32)
        run_ptx(text, "k", block=128, args=[out, np.zeros(1, dtype=np.uint32)], order=9)
        results.append(out.tolist())
    assert results[0] == results[1]


def test_carry_chain_survives_divergence() -> None:
    body = """
    setp.lt.u32 %p1, %r0, 16;  mov.u32 %r2, 0xffffffff;  @%p1 bra A;
    add.cc.u32 %r3, %r2, 1;  bra J;
    A: add.cc.u32 %r3, 1, 1;
    J: addc.u32 %r1, 0, 0;
    """
    assert each_thread(body).tolist() == [0] * 16 + [1] * 16
