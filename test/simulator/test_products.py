# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""wgmma in flight, the fences around it, and what a ring of TMA copies and products needs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from libtile.simulator import PtxError, SimulationFault, TensorMap, run_ptx

from .ptx import run as run_body
from .ring_gemm import PARTS, STAGE, ring_gemm, ring_operands


def ring(k: int = 320, changes: dict[str, str] | None = None, **options: Any) -> tuple[np.ndarray, np.ndarray]:
    """(C, what it should be) of the ring GEMM with some of its parts changed."""
    a, b, c = ring_operands(k)
    maps = (
        TensorMap(a, box=(64, 128), swizzle="128B"),
        TensorMap(b, box=(64, 64), swizzle="128B"),
        TensorMap(c, box=(64, 64)),
    )
    text = ring_gemm(**{name.replace(" ", "_"): part for name, part in (changes or {}).items()})
    run_ptx(text, "gemm", block=384, args=[*maps, np.int32(k // 64)], **options)
    return c, a.astype(np.float32) @ b.astype(np.float32).T


@pytest.mark.parametrize("order", [None, 1, 2, 3, 4, 5])
def test_a_ring_of_copies_and_products_is_right_in_every_schedule(order: int | None) -> None:
    found, wanted = ring(order=order)
    assert np.array_equal(found, wanted)


IN_USE = "write to bytes that a wgmma reads"
NOT_THERE = "read of bytes that an asynchronous copy has not completed"
NO_WAIT = "setp.eq.u32 %p1, 0, 0;"
#: What is changed in the ring, the kind of fault and a part of its message.
BROKEN = {
    "no proxy fence": ({"proxy fence": ""}, "proxy-fence", "with no fence.proxy.async after the write"),
    "consumers do not meet": ({"meeting of the consumers": ""}, "race", "is not ordered with the read"),
    "stage released early": ({"wait for the previous group": ""}, "async", IN_USE),
    "no waits": (
        {"wait for the previous group": "", "wait for the last group": ""}, "async", IN_USE,
    ),
    "too many registers": (
        {"more registers": "setmaxnreg.inc.sync.aligned.u32 256;"}, "deadlock", "wait for 256 registers a thread",
    ),
    "no register fence": ({"register fence": ""}, "wgmma-fence", "no wgmma.fence before this first wgmma"),
    "too many bytes": ({"bytes": str(STAGE + 16)}, "deadlock", "misses 0 arrivals and 16 bytes"),
    "too few bytes": ({"bytes": str(STAGE - 8192)}, "async", NOT_THERE),
    "producer does not wait": ({"empty wait": NO_WAIT}, "illegal-instruction", "more arrivals than the mbarrier"),
    "consumers do not wait": ({"full wait": NO_WAIT}, "async", NOT_THERE),
    "no mbarrier fence": ({"init fence": ""}, "mbarrier-init", "with no fence.mbarrier_init or fence.proxy.async"),
    "last wait missing": ({"wait for the last group": ""}, "async", "an accumulator of the wgmma.mma_async"),
    "stages are not aligned": ({"operand base": "128"}, "misaligned", "the matrix has to be aligned to 1024 bytes"),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "kind", "message"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_ring_is_reported(changes: dict[str, str], kind: str, message: str) -> None:
    with pytest.raises(SimulationFault) as caught:
        ring(changes=changes)
    assert caught.value.kind == kind
    assert message in caught.value.message


@pytest.mark.parametrize("what", ["stage released early", "no register fence", "last wait missing"])
def test_a_broken_ring_is_reported_in_a_random_schedule(what: str) -> None:
    changes, kind, _ = BROKEN[what]
    with pytest.raises(SimulationFault) as caught:
        ring(changes=changes, order=7)
    assert caught.value.kind == kind


def test_every_part_of_the_ring_that_can_be_forgotten_is() -> None:
    assert {name for changes, *_ in BROKEN.values() for name in changes} == PARTS.keys() - {"fewer registers"}


# -- single products: m64n8k16 on core matrices without swizzle, A and B all ones; out[thread] = %d0

HEADER = ".version 8.0\n.target sm_90a\n.address_size 64\n.shared .align 1024 .b8 s[8192];\n"
START = """
    .reg .pred %p<4>; .reg .b32 %r<16>; .reg .b32 %a<8>; .reg .b64 %rd<16>; .reg .f32 %d<8>, %e<8>, %f<4>;
    ld.param.u64 %rd0, [out]; mov.u32 %r0, %tid.x; mul.wide.u32 %rd1, %r0, 4; add.u64 %rd1, %rd0, %rd1;
    mov.u32 %r1, s; mad.lo.u32 %r2, %r0, 32, %r1; mov.u32 %r3, 0x3c003c00;
    st.shared.v4.u32 [%r2], {%r3, %r3, %r3, %r3}; st.shared.v4.u32 [%r2+16], {%r3, %r3, %r3, %r3};
    fence.proxy.async.shared::cta; bar.sync 0;
    shr.u32 %r4, %r1, 4; cvt.u64.u32 %rd2, %r4; or.b64 %rd2, %rd2, 0x800080000;
    or.b64 %rd2, %rd2, 0x80000;
    mov.b32 %a0, %r3; mov.b32 %a1, %r3; mov.b32 %a2, %r3; mov.b32 %a3, %r3;
"""
START += " ".join(f"mov.f32 %d{i}, 0f00000000; mov.f32 %e{i}, 0f00000000;" for i in range(8))
FENCE = "\nwgmma.fence.sync.aligned;\n"
COMMIT = "\nwgmma.commit_group.sync.aligned;\n"
OUT = "\nst.global.f32 [%rd1], %d0;\n"


def issue(d: str = "d", a: str = "%rd2", n: int = 8, b: str = "%rd2") -> str:
    accumulators = ", ".join(f"%{d}{i}" for i in range(n // 2))
    signs = "1, 1, 0, 0" if a.startswith("%rd") else "1, 1, 0"
    return f"\nwgmma.mma_async.sync.aligned.m64n{n}k16.f32.f16.f16 {{{accumulators}}}, {a}, {b}, 1, {signs};\n"


def wait(pending: int = 0) -> str:
    return f"\nwgmma.wait_group.sync.aligned {pending};\n"


REGISTERS = "{%a0, %a1, %a2, %a3}"
DONE = COMMIT + wait()
STORE = "\nst.shared.u32 [%r2], 0;\n"


def multiply(body: str, *, block: int = 128, **options: Any) -> np.ndarray:
    out = np.zeros(block, dtype=np.float32)
    text = f"{HEADER}.visible .entry k(.param .u64 out)\n{{{START}{body}\nret;\n}}"
    run_ptx(text, "k", block=block, args=[out], **options)
    return out


def fault_of(body: str, **options: Any) -> SimulationFault:
    with pytest.raises(SimulationFault) as caught:
        multiply(body, **options)
    return caught.value


TWO_GROUPS = FENCE + issue("d") + COMMIT + issue("e") + COMMIT
#: What is wrong, the body, the body without the mistake, kind, part of the message.
MISTAKES = [
    ("accumulator read", FENCE + issue() + COMMIT + OUT + wait(), FENCE + issue() + DONE + OUT,
     "async", "uses %d0, an accumulator of the wgmma.mma_async at PTX line"),
    ("accumulator written", FENCE + issue() + COMMIT + "mov.f32 %d1, %f0;" + wait(),
     FENCE + issue() + DONE + "mov.f32 %d1, %f0;", "async", "writes %d1, an accumulator"),
    ("A written", FENCE + issue(a=REGISTERS) + COMMIT + "mov.b32 %a2, 0;" + wait(),
     FENCE + issue(a=REGISTERS) + DONE + "mov.b32 %a2, 0;", "async", "uses %a2, part of A"),
    ("no commit", FENCE + issue() + wait() + OUT, FENCE + issue() + DONE + OUT, "async", "uses %d0"),
    ("newest group not waited for", TWO_GROUPS + wait(1) + "neg.f32 %f0, %e0;" + wait(),
     TWO_GROUPS + wait(1) + OUT + wait(), "async", "uses %e0, an accumulator"),
    ("accumulator becomes A in flight", FENCE + issue() + COMMIT + issue("e", "{%d0, %d1, %d2, %d3}") + DONE,
     FENCE + issue() + DONE + issue("e", "{%d0, %d1, %d2, %d3}") + DONE, "async", "the product reads A from %d0"),
    ("accumulator after the fence", FENCE + "neg.f32 %d3, %f0;" + issue() + DONE,
     "neg.f32 %d3, %f0;" + FENCE + issue() + DONE, "wgmma-fence", "the access of its register %d3 at PTX line"),
    ("A after the fence", FENCE + "not.b32 %a1, %r4; mov.b32 %a0, %a1;" + issue(a=REGISTERS) + DONE,
     "not.b32 %a1, %r4; mov.b32 %a0, %a1;" + FENCE + issue(a=REGISTERS) + DONE, "wgmma-fence", "its register %a0"),
    ("another shape", FENCE + issue() + issue(n=16) + DONE, FENCE + issue() + FENCE + issue(n=16) + DONE,
     "wgmma-fence", "one of another shape that accumulates in %d0"),
    ("store to an operand", FENCE + issue() + COMMIT + STORE + wait(), FENCE + issue() + DONE + "bar.sync 0;" + STORE,
     "async", "write to bytes that a wgmma reads"),
    ("cp.async to an operand", FENCE + issue() + COMMIT + "cp.async.ca.shared.global [%r2], [%rd1], 4;" + wait(),
     FENCE + issue() + DONE + "bar.sync 0; cp.async.ca.shared.global [%r2], [%rd1], 4;", "async", "write to bytes"),
]  # fmt: skip


@pytest.mark.parametrize(("bad", "good", "kind", "message"), [m[1:] for m in MISTAKES], ids=[m[0] for m in MISTAKES])
def test_a_mistake_with_products_is_found_and_its_clean_twin_runs(bad: str, good: str, kind: str, message: str) -> None:
    for checks in ("full", "basic"):
        found = fault_of(bad, checks=checks)
        assert found.kind == kind
        assert message in found.message
    multiply(good)
    multiply(good, order=3)


def test_what_is_found_names_the_instruction_and_the_warp() -> None:
    found = fault_of(FENCE + issue() + COMMIT + OUT + wait(), order=1)
    assert found.instruction.startswith("st.global.f32")
    assert found.lanes == list(range(32))


def test_products_chain_and_groups_are_waited_for_one_by_one() -> None:
    body = FENCE + issue() + issue() + COMMIT + issue("e") + COMMIT + wait(1) + OUT + wait() + "add.f32 %d0, %d0, %e0;"
    assert (multiply(body) == 32).all()
    assert (multiply(body + OUT) == 48).all()


COPIED = " ".join(f"mov.f32 %e{i}, %d{i};" for i in range(4))


@pytest.mark.parametrize("order", [None, 1, 2, 3])
def test_a_mov_of_an_accumulator_in_flight_is_a_new_name_for_it(order: int | None) -> None:
    body = FENCE + issue() + COPIED + issue("e") + COMMIT + wait() + "mov.f32 %d0, %e0;"
    assert (multiply(body + OUT, order=order) == 32).all()
    found = fault_of(FENCE + issue() + COMMIT + COPIED + "neg.f32 %f0, %e1;" + wait(), order=order)
    assert "uses %e1, an accumulator of the wgmma.mma_async" in found.message


def test_a_product_in_a_device_function_is_checked_as_well() -> None:
    function = """
    .func (.reg .f32 %result) mul(.reg .b64 %desc) {{
        .reg .f32 %d<4>;
        mov.f32 %d0, 0f00000000; mov.f32 %d1, %d0; mov.f32 %d2, %d0; mov.f32 %d3, %d0;
        wgmma.fence.sync.aligned;
        wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%d0, %d1, %d2, %d3}}, %desc, %desc, 1, 1, 1, 0, 0;
        wgmma.commit_group.sync.aligned;
        {wait}
        add.f32 %result, %d0, %d1;
        ret;
    }}
    """
    entry = f".visible .entry k(.param .u64 out)\n{{{START}\ncall (%d0), mul, (%rd2);{OUT}ret;\n}}"
    out = np.zeros(128, dtype=np.float32)
    run_ptx(HEADER + function.format(wait=wait()) + entry, "k", block=128, args=[out])
    assert (out == 32).all()
    with pytest.raises(SimulationFault, match="uses %d0, an accumulator"):
        run_ptx(HEADER + function.format(wait="") + entry, "k", block=128, args=[out])


def test_constants_may_be_put_into_accumulators_behind_the_fence() -> None:
    assert (multiply(FENCE + "mov.f32 %d0, 0f3f800000;" + issue() + DONE + OUT) == 17).all()


def test_memory_is_read_when_the_product_completes() -> None:
    late = FENCE + issue() + COMMIT + STORE + "bar.sync 0;" + wait() + OUT
    # B's first column of k is zero where a thread stored: all of the threads have, as late as a product may be.
    assert (multiply(late, checks="off") != 16).any()
    assert (multiply(FENCE + issue() + DONE + STORE + OUT, checks="off") == 16).all()


def test_registers_of_a_are_read_when_the_product_completes() -> None:
    late = FENCE + issue(a=REGISTERS) + COMMIT + "mov.b32 %a0, 0;" + wait() + OUT
    assert (multiply(late, checks="off") == 8).all()


def test_a_random_schedule_completes_products_early_or_late() -> None:
    late = FENCE + issue(a=REGISTERS) + COMMIT + "mov.b32 %a0, 0; bar.sync 0; bar.sync 0;" + wait() + OUT
    seen = {float(v) for seed in range(12) for v in multiply(late, checks="off", order=seed)}
    assert len(seen) == 2


def test_checks_of_products_can_be_switched_off() -> None:
    multiply(FENCE + issue() + COMMIT + OUT + wait(), checks="full,-wgmma")


SWIZZLES = [("128B", 1, 1024), ("64B", 2, 512), ("32B", 3, 256)]


@pytest.mark.parametrize(("name", "mode", "align"), SWIZZLES, ids=[s[0] for s in SWIZZLES])
def test_a_swizzled_operand_starts_where_its_pattern_does(name: str, mode: int, align: int) -> None:
    def at(byte: int) -> str:
        word = (byte >> 4) | (mode << 62) | (align >> 4 << 32) | (1 << 16)
        return (
            f"mov.b64 %rd3, {word}; cvt.u64.u32 %rd4, %r4; add.u64 %rd3, %rd3, %rd4;" + FENCE + issue(b="%rd3") + DONE
        )

    multiply(at(align) + OUT)
    multiply(at(align + 16) + OUT)  # a step along k, within the first row
    found = fault_of(at(align + align // 8))
    assert found.kind == "misaligned"
    assert f"{name} swizzle and base offset 0 the matrix has to be aligned to {align} bytes" in found.message


def test_a_base_offset_is_refused() -> None:
    found = fault_of("mov.b64 %rd3, 0x2000000000000; or.b64 %rd3, %rd3, %rd2;" + FENCE + issue(b="%rd3") + DONE)
    assert found.message == "the base offset 1 in the descriptor of B is not simulated"


@pytest.mark.parametrize("bit", [46, 61])
def test_what_descriptors_of_tcgen05_say_is_refused(bit: int) -> None:
    """Their version, and the swizzle by 32 bytes that wgmma has not."""
    found = fault_of(f"mov.b64 %rd3, {1 << bit}; or.b64 %rd3, %rd3, %rd2;" + FENCE + issue(b="%rd3") + DONE)
    assert found.kind == "illegal-instruction"
    assert "of B sets bits that those of wgmma have not: the version (46-48) and swizzles by 32 bytes" in found.message


# -- setmaxnreg


def limited(body: str, directives: str, block: int = 256, **options: Any) -> None:
    text = f"{HEADER}.visible .entry k(.param .u64 out) {directives}\n{{{START}{body}\nret;\n}}"
    run_ptx(text, "k", block=block, args=[np.zeros(block, dtype=np.float32)], **options)


def test_an_increase_below_what_the_launch_may_give_is_an_error_only_where_that_is_known() -> None:
    more = "setmaxnreg.inc.sync.aligned.u32 {};"
    limited(more.format(40), "", block=128)
    less = "setmaxnreg.dec.sync.aligned.u32 48;"
    for body, directives in ((more.format(40), ".maxnreg 48"), (less + more.format(40), "")):
        with pytest.raises(SimulationFault, match="cannot make them 40"):
            limited(body, directives, block=128)


HALVES = """
    setp.lt.u32 %p0, %r0, 128; @%p0 bra LESS;
    setmaxnreg.inc.sync.aligned.u32 {more}; bra JOIN;
    LESS: setmaxnreg.dec.sync.aligned.u32 {less};
    JOIN:
"""


@pytest.mark.parametrize("order", [None, 4])
def test_registers_come_from_the_pool_that_the_launch_gives(order: int | None) -> None:
    limited(HALVES.format(more=136, less=64), ".maxnreg 100", order=order)
    with pytest.raises(SimulationFault) as caught:
        limited(HALVES.format(more=144, less=64), ".maxnreg 100", order=order)
    assert caught.value.kind == "deadlock"
    assert "wait for 144 registers a thread" in caught.value.message
    assert "left of 25600" in caught.value.message


def test_ctas_of_a_multiprocessor_share_its_registers() -> None:
    limited(HALVES.format(more=200, less=56), ".minnctapersm 2")
    with pytest.raises(SimulationFault, match="left of 32768"):
        limited(HALVES.format(more=208, less=56), ".minnctapersm 2")


def test_a_whole_warpgroup_changes_its_registers() -> None:
    body = "setp.ge.u32 %p0, %r0, 32; @%p0 bra JOIN; setmaxnreg.dec.sync.aligned.u32 24; JOIN:"
    with pytest.raises(SimulationFault, match=r"warps \[1, 2, 3\] of the warpgroup did not execute setmaxnreg"):
        limited(body, ".maxnreg 64", block=128)
    with pytest.raises(SimulationFault, match="u32 cannot make them 80"):
        limited("setmaxnreg.dec.sync.aligned.u32 80;", ".maxnreg 64", block=128)


@pytest.mark.parametrize("count", [20, 16, 100, 264])
def test_counts_that_setmaxnreg_does_not_take_are_refused(count: int) -> None:
    with pytest.raises(PtxError, match="a multiple of 8 from 24 to 256"):
        limited(f"setmaxnreg.dec.sync.aligned.u32 {count};", "", block=128)


# -- initialised mbarriers

BULK = """
    mov.u32 %r20, bar; mov.u32 %r21, s; mov.u32 %r0, %tid.x; setp.eq.u32 %p1, %r0, 0; setp.eq.u32 %p3, %r0, 32;
    @%p1 mbarrier.init.shared::cta.b64 [%r20], 1;
    {own} bar.sync 0; {other} ld.param.u64 %rd2, [out];
    @%p3 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r20], 16;
    @%p3 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r21], [%rd2], 16, [%r20];
    W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r20], 0; @!%p2 bra W;
"""
BAR = ".shared .align 16 .b8 s[1024]; .shared .align 8 .b64 bar;"


@pytest.mark.parametrize(
    ("own", "other", "fine"),
    [
        ("@%p1 fence.mbarrier_init.release.cluster;", "", True),
        ("@%p1 fence.proxy.async.shared::cta;", "", True),
        ("", "@%p3 fence.proxy.async.shared::cta;", True),
        ("", "", False),
        ("", "@%p3 fence.mbarrier_init.release.cluster;", False),
        ("fence.acq_rel.cta;", "", False),
    ],
)
def test_a_copy_signals_only_an_mbarrier_whose_initialisation_is_fenced(own: str, other: str, fine: bool) -> None:
    def start(**options: Any) -> None:
        run_body(BULK.format(own=own, other=other), np.zeros(4, np.uint32), block=64, prelude=BAR, **options)

    if fine:
        start()
        return
    with pytest.raises(SimulationFault) as caught:
        start()
    assert caught.value.kind == "mbarrier-init"
    assert "which thread 0 initialised" in caught.value.message
    start(checks="full,-mbarrier-init")


REMOTE = """
    mov.u32 %r20, bar; mov.u32 %r0, %tid.x; setp.eq.u32 %p1, %r0, 0;
    @%p1 mbarrier.init.shared::cta.b64 [%r20], 1;
    {fence} barrier.cluster.arrive{relaxed}; barrier.cluster.wait;
    mov.u32 %r1, %cluster_ctarank; xor.b32 %r1, %r1, 1; mapa.shared::cluster.u32 %r2, %r20, %r1;
    @%p1 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r2];
    W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r20], 0; @!%p2 bra W;
    barrier.cluster.arrive; barrier.cluster.wait;
"""


def test_other_ctas_need_the_fence_behind_a_relaxed_arrival_only() -> None:
    def start(fence: str, relaxed: str) -> None:
        body = REMOTE.format(fence=fence, relaxed=relaxed)
        run_body(body, np.zeros(4, np.uint32), block=32, grid=2, cluster=2, prelude=BAR)

    start("", "")
    start("@%p1 fence.mbarrier_init.release.cluster;", ".relaxed")
    with pytest.raises(SimulationFault, match="mbarrier-init: a thread of another CTA uses the mbarrier"):
        start("", ".relaxed")


def test_accumulators_that_a_mov_made_of_one_register_are_their_own() -> None:
    """Four accumulators begin as copies of a register that holds 0: each gets its own element."""
    body = """
        mov.b32 %r1, 0; mov.b32 %r2, %r1; mov.b32 %r3, %r1; mov.b32 %r4, %r1; mov.b32 %r5, %r1;
        mov.u32 %r6, %tid.x; cvt.rn.f16.u32 %rs1, %r6; mov.u32 %r7, buffer; shl.b32 %r8, %r6, 1; add.u32 %r7, %r7, %r8;
        st.shared.b16 [%r7], %rs1; st.shared.b16 [%r7+256], %rs1; st.shared.b16 [%r7+512], %rs1;
        st.shared.b16 [%r7+768], %rs1; st.shared.b16 [%r7+1024], %rs1; st.shared.b16 [%r7+1280], %rs1;
        st.shared.b16 [%r7+1536], %rs1; st.shared.b16 [%r7+1792], %rs1; st.shared.b16 [%r7+2048], %rs1;
        fence.proxy.async; bar.sync 0; wgmma.fence.sync.aligned;
        mov.u32 %r9, buffer; shr.u32 %r9, %r9, 4; cvt.u64.u32 %rd1, %r9; or.b64 %rd1, %rd1, 0x0000001000080000;
        setp.eq.u32 %p1, 0, 0;
        wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%r2, %r3, %r4, %r5}, %rd1, %rd1, %p1, 1, 1, 0, 0;
        wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
        ld.param.u64 %rd2, [out]; mul.wide.u32 %rd3, %r6, 16; add.u64 %rd2, %rd2, %rd3;
        st.global.v4.b32 [%rd2], {%r2, %r3, %r4, %r5};
    """
    found = np.zeros((128, 4), np.float32)
    run_one(body, found)
    assert len({tuple(row) for row in found[:, :2].tolist()}) > 1 and (found[:, 0] != found[:, 1]).any()


def run_one(body: str, out: np.ndarray) -> None:
    """Run PTX on 128 threads with 8 KiB of shared memory, `buffer`, and an array, `out`."""
    registers = ".reg .pred %p<3>; .reg .b16 %rs<3>; .reg .b32 %r<12>; .reg .b64 %rd<4>;"
    head = ".version 8.0 .target sm_90a .address_size 64"
    text = (
        f"{head} .visible .entry k(.param .u64 out) {{ {registers} .shared .align 1024 .b8 buffer[8192]; {body} ret; }}"
    )
    run_ptx(text, "k", block=128, args=[out])
