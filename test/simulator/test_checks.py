# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Each check has a kernel that provokes it and a twin that is clean."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from libtile.simulator import SimulationFault, Uninitialized, parse_ptx, run_ptx
from libtile.support.errors import LibtileError

from .ptx import OUT, module, run

SHARED = ".shared .align 16 .b8 s[256];"
SLOT = "mul.lo.u32 %r2, %r0, 4; mov.u32 %r3, s; add.u32 %r2, %r2, %r3;"
# Thread t writes word t, then reads word 31 - t (of 32) or 63 - t (of 64).
EXCHANGE = OUT + SLOT + "st.shared.u32 [%r2], %r0; {sync} xor.b32 %r4, %r2, {flip}; ld.shared.u32 %r1, [%r4];"


def zeros(count: int = 64) -> np.ndarray:
    return np.zeros(count, dtype=np.uint32)


def fault(body: str, *args: Any, **options: Any) -> SimulationFault:
    with pytest.raises(SimulationFault) as caught:
        run(body, *args, **options)
    return caught.value


# (kind, body that provokes it, clean twin, launch options)
MISTAKES: list[tuple[str, str, str, str, dict[str, Any]]] = [
    ("out-of-bounds", "read past the end",
     OUT + "ld.global.u32 %r1, [%rd1+256];", OUT + "ld.global.u32 %r1, [%rd1+128];", {}),
    ("out-of-bounds", "write before the start",
     OUT + "st.global.u32 [%rd1+-4], %r0;", OUT + "st.global.u32 [%rd1], %r0;", {}),
    ("out-of-bounds", "access that straddles the end", OUT + "ld.global.v2.u32 {%r1, %r2}, [%rd0+256];",
     OUT + "ld.global.v2.u32 {%r1, %r2}, [%rd0+248];", {}),
    ("out-of-bounds", "shared index past the CTA's memory", "mov.u32 %r1, s; st.shared.u32 [%r1+256], %r1;",
     "mov.u32 %r1, s; st.shared.u32 [%r1+252], %r1;", {"prelude": SHARED}),
    ("out-of-bounds", "local array index in the next array", ".local .b8 l[16]; .local .b8 m[16]; mov.u64 %rd1, l; "
     "st.local.u32 [m], 1; st.local.u32 [%rd1+16], 1;",
     ".local .b8 l[16]; .local .b8 m[16]; mov.u64 %rd1, l; st.local.u32 [%rd1+12], 1; st.local.u32 [m+12], 1;", {}),
    ("out-of-bounds", "generic read of the next array", ".local .b8 l[8]; .local .b8 m[8]; mov.u64 %rd1, l; "
     "cvta.local.u64 %rd1, %rd1; ld.u32 %r1, [%rd1+12];",
     ".local .b8 l[8]; .local .b8 m[8]; mov.u64 %rd1, l; cvta.local.u64 %rd1, %rd1; ld.u32 %r1, [%rd1+4];", {}),
    ("out-of-bounds", "local array index past the frame", ".local .b8 l[16]; mov.u64 %rd1, l; "
    "st.local.u32 [%rd1+64], 1;",
     ".local .b8 l[16]; mov.u64 %rd1, l; st.local.u32 [%rd1+12], 1;", {}),
    ("out-of-bounds", "generic address of no window", "mov.u64 %rd1, 0x123456789000; ld.u32 %r1, [%rd1];",
     "ld.param.u64 %rd1, [out]; ld.u32 %r1, [%rd1];", {}),
    ("null-access", "null pointer", "mov.u64 %rd1, 0; ld.global.u32 %r1, [%rd1+16];",
     "ld.param.u64 %rd1, [out]; ld.global.u32 %r1, [%rd1+16];", {}),
    ("misaligned", "word at an odd address",
     OUT + "ld.global.u32 %r1, [%rd1+2];", OUT + "ld.global.u16 %r1, [%rd1+2];", {}),
    ("misaligned", "vector at a word's address", OUT + "ld.global.v4.u32 {%r1,%r2,%r3,%r4}, [%rd0+8];",
     OUT + "ld.global.v4.u32 {%r1,%r2,%r3,%r4}, [%rd0+16];", {}),
    ("uninitialized", "shared word that nothing wrote", "mov.u32 %r1, s; ld.shared.u32 %r2, [%r1];",
     "mov.u32 %r1, s; st.shared.u32 [%r1], 1; ld.shared.u32 %r2, [%r1];", {"prelude": SHARED}),
    ("uninitialized", "half of a shared word", "mov.u32 %r1, s; st.shared.u16 [%r1], 1; ld.shared.u32 %r2, [%r1];",
     "mov.u32 %r1, s; st.shared.u16 [%r1], 1; ld.shared.u16 %r2, [%r1];", {"prelude": SHARED}),
    ("read-only", "write to constant memory", "mov.u64 %rd1, c; cvta.const.u64 %rd1, %rd1; st.u32 [%rd1], 1;",
     "mov.u64 %rd1, c; cvta.const.u64 %rd1, %rd1; ld.u32 %r1, [%rd1];", {"prelude": ".const .u32 c = 5;"}),
    ("race", "no barrier between write and read",
     EXCHANGE.format(sync="", flip=252), EXCHANGE.format(sync="bar.sync 0;", flip=252),
     {"prelude": SHARED, "block": 64}),
    ("race", "no warp barrier inside a warp", EXCHANGE.format(sync="", flip=124),
     EXCHANGE.format(sync="bar.warp.sync 0xffffffff;", flip=124), {"prelude": SHARED}),
    ("race", "read, then write without a barrier",
     EXCHANGE.format(sync="bar.sync 0;", flip=252) + "st.shared.u32 [%r2], 7;",
     EXCHANGE.format(sync="bar.sync 0;", flip=252) + "bar.sync 0; "
     "st.shared.u32 [%r2], 7;", {"prelude": SHARED, "block": 64}),
    ("race", "different values to one word", OUT + "mov.u32 %r2, s; st.shared.u32 [%r2], %r0;",
     OUT + "mov.u32 %r2, s; st.shared.u32 [%r2], 7;", {"prelude": SHARED, "block": 64}),
    ("divergent-barrier", "half a warp at an aligned barrier",
     OUT + "setp.lt.u32 %p1, %r0, 16; @!%p1 bra B; bar.sync 0; bra E; B: bar.sync 0; E:",
     OUT + "setp.lt.u32 %p1, %r0, 16; @!%p1 bra B; add.u32 %r1, %r0, 1; B: bar.sync 0;", {}),
    ("divergent-instruction", "shuffle that names lanes which are elsewhere",
     OUT + "setp.lt.u32 %p1, %r0, 16; @!%p1 bra B; shfl.sync.idx.b32 %r1, %r0, 0, 31, -1; B: bar.sync 0;",
     OUT + "setp.lt.u32 %p1, %r0, 16; @!%p1 bra B; shfl.sync.idx.b32 %r1, %r0, 0, 31, 0xffff; B: bar.sync 0;", {}),
    ("membermask", "lane outside of its own mask", "shfl.sync.idx.b32 %r1, %r0, 0, 31, 0xffff;",
     "shfl.sync.idx.b32 %r1, %r0, 0, 31, 0xffffffff;", {}),
    ("deadlock", "barrier that half of the warps skip",
     OUT + "setp.lt.u32 %p1, %r0, 32; @%p1 bra E; bar.sync 0, 64; E: bar.sync 1;",
     OUT + "setp.lt.u32 %p1, %r0, 32; @%p1 bra E; bar.sync 0, 32; E: bar.sync 1;", {"block": 64}),
    ("trap", "trap", OUT + "setp.eq.u32 %p1, %r0, 3; @%p1 trap;", OUT + "setp.eq.u32 %p1, %r0, 99; @%p1 trap;", {}),
    ("async", "read of what a cp.async still fills",
     OUT + "mov.u32 %r2, s; cp.async.ca.shared.global [%r2], [%rd0], 4; ld.shared.u32 %r1, [%r2];",
     OUT + "mov.u32 %r2, s; cp.async.ca.shared.global [%r2], [%rd0], 4; cp.async.wait_all; ld.shared.u32 %r1, [%r2];",
     {"prelude": SHARED, "block": 1}),
    ("illegal-instruction", "barrier count that is no multiple of the warp size",
     "bar.sync 0, 33;", "bar.sync 0, 32;", {}),
    ("illegal-instruction", "brx.idx past its table",
     OUT + "L: .branchtargets A, B; brx.idx %r0, L; A: bra B; B:",
     OUT + "L: .branchtargets A, B; and.b32 %r1, %r0, 1; brx.idx %r1, L; A: bra B; B:", {}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "what", "bad", "good", "options"), MISTAKES, ids=[m[1] for m in MISTAKES])
def test_mistake_is_found_and_its_clean_twin_runs(kind: str, what: str, bad: str, good: str, options: Any) -> None:
    assert fault(bad, zeros(), **options).kind == kind
    run(good, zeros(), **options)


#: The check that finds a kind of mistake; those that are left out are found without one.
CHECKS = {
    "out-of-bounds": "memory",
    "read-only": "memory",
    "async": "memory",
    "membermask": "convergence",
    "uninitialized": "uninitialized",
    "race": "race",
}


@pytest.mark.parametrize(("kind", "what", "bad", "good", "options"), MISTAKES, ids=[m[1] for m in MISTAKES])
def test_mistake_is_found_by_its_check_alone(kind: str, what: str, bad: str, good: str, options: Any) -> None:
    checks = CHECKS.get(kind, "off")
    assert fault(bad, zeros(), checks=checks, **options).kind == kind
    if CHECKS.get(kind) in ("memory", "convergence"):
        assert fault(bad, zeros(), checks="basic", **options).kind == kind
    run(good, zeros(), checks=checks, **options)


@pytest.mark.parametrize("kind", ["uninitialized", "race", "membermask"])
def test_a_check_can_be_switched_off_by_its_name(kind: str) -> None:
    for found, _, bad, _, options in MISTAKES:
        if found == kind:
            run(bad, zeros(), checks=f"full,-{CHECKS[kind]}", **options)


def test_basic_checks_see_an_access_that_reaches_past_the_end_by_a_byte() -> None:
    data = np.zeros(6, dtype=np.uint8)
    assert fault(OUT + "ld.global.u32 %r1, [%rd1+4];", data, block=1, checks="basic").kind == "out-of-bounds"
    assert fault(OUT + "st.global.u32 [%rd1+4], 1;", data, block=1, checks="basic").kind == "out-of-bounds"


def test_basic_checks_see_a_store_to_bytes_that_an_asynchronous_copy_fills() -> None:
    body = OUT + "mov.u32 %r2, s; cp.async.ca.shared.global [%r2], [%rd0], 4; st.shared.u32 [%r2], 1;"
    assert fault(body, zeros(), prelude=SHARED, block=1, checks="basic").kind == "async"


def test_checks_that_are_none_are_refused() -> None:
    with pytest.raises(LibtileError, match="the simulator has no check 'most': use off, basic, full, or convergence, "):
        run("", zeros(), checks="most")


def test_message_says_cta_warp_lanes_line_and_allocation() -> None:
    body = (
        OUT
        + "mov.u32 %r2, %ctaid.x;\nsetp.ne.u32 %p1, %r2, 1;\n@%p1 bra E;\n"
        + "setp.lt.u32 %p2, %r0, 62;\n@%p2 bra E;\nld.global.u32 %r1, [%rd1+8];\nE:"
    )
    found = fault(body, zeros(), block=64, grid=2)
    assert (found.ctaid, found.warp, found.lanes) == ((1, 0, 0), 1, [30, 31])
    assert found.instruction == "ld.global.u32 %r1, [%rd1+8];"
    assert module(body).splitlines()[(found.line or 0) - 1] == found.instruction
    assert "just after the end of argument 0 (256 bytes)" in found.message
    assert "CTA (1,0,0), warp 1, lanes 30-31, PTX line" in str(found)


def test_source_line_of_loc_is_in_the_fault() -> None:
    text = module(".loc 1 42 0\nmov.u64 %rd1, 0;\nld.global.u32 %r1, [%rd1];") + '.file 1 "kernel.cu"\n'
    with pytest.raises(SimulationFault, match=r"source kernel\.cu:42"):
        run_ptx(text, "k", args=[zeros()])


def test_line_0_of_loc_ends_what_is_known_of_the_source() -> None:
    text = module(".loc 1 42 0\nmov.u64 %rd1, 0;\n.loc 1 0 0\nld.global.u32 %r1, [%rd1];") + '.file 1 "kernel.cu"\n'
    with pytest.raises(SimulationFault) as caught:
        run_ptx(text, "k", args=[zeros()])
    assert caught.value.source is None


def test_global_memory_that_the_caller_left_uninitialised_is_checked() -> None:
    body = OUT + "ld.param.u64 %rd2, [p1]; ld.global.u32 %r1, [%rd2];"
    assert fault(body, zeros(), Uninitialized(zeros())).kind == "uninitialized"
    run(body, zeros(), zeros())
    written = OUT + "ld.param.u64 %rd2, [p1]; st.global.u32 [%rd2], 3; ld.global.u32 %r1, [%rd2];"
    run(written, zeros(), Uninitialized(zeros()), block=1)


HEAP = """
.extern .func (.param .b64 r) malloc (.param .b64 size);
.extern .func free (.param .b64 p);
"""
MALLOC = """
{ .param .b64 a; .param .b64 r; st.param.b64 [a], 16; call (r), malloc, (a); ld.param.b64 %rd2, [r]; }
st.u32 [%rd2], 5;
"""
FREE = "{ .param .b64 a; st.param.b64 [a], %rd2; call free, (a); }"


def test_freed_memory_and_double_free_are_reported() -> None:
    run(MALLOC + "ld.u32 %r1, [%rd2];" + FREE, zeros(), prelude=HEAP)
    assert fault(MALLOC + FREE + "ld.u32 %r1, [%rd2];", zeros(), prelude=HEAP).kind == "freed-access"
    assert fault(MALLOC + FREE + FREE, zeros(), prelude=HEAP).kind == "freed-access"
    assert fault(MALLOC + "ld.u32 %r1, [%rd2+4];", zeros(), prelude=HEAP).kind == "uninitialized"


def test_matrix_instruction_after_a_lane_has_exited_is_reported() -> None:
    body = OUT + "setp.eq.u32 %p1, %r0, 5; @%p1 exit; movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r0;"
    found = fault(body, zeros())
    assert found.kind == "divergent-instruction"
    assert "lanes 5 of the warp have exited" in found.message


def test_infinite_loop_ends_at_the_instruction_limit() -> None:
    assert fault("L: bra L;", zeros(), max_instructions=10_000).kind == "instruction-limit"


def test_endless_recursion_ends_with_stack_overflow() -> None:
    prelude = ".func f () { .local .b8 l[1024]; call f, (); ret; }"
    assert fault("call f, ();", zeros(), prelude=prelude).kind == "stack-overflow"


def test_levels_of_checks_differ_in_what_they_find() -> None:
    unset = "mov.u32 %r1, s; ld.shared.u32 %r2, [%r1];"
    past = OUT + "ld.global.u32 %r1, [%rd1+256];"
    run(unset, zeros(), prelude=SHARED, checks="basic")
    assert fault(past, zeros(), checks="basic").kind == "out-of-bounds"
    run(past, zeros(), checks="off")


def test_neighbouring_bytes_of_a_word_may_be_written_by_different_warps() -> None:
    body = OUT + "mov.u32 %r2, s; add.u32 %r2, %r2, %r0; st.shared.u8 [%r2], %r0; bar.sync 0; ld.shared.u8 %r1, [%r2];"
    run(body, zeros(), prelude=SHARED, block=64)


def test_named_barrier_orders_only_the_warps_that_use_it() -> None:
    # Warp 0 writes and arrives at barrier 1; warp 1 waits there and reads; warp 2 reads without waiting.
    body = (
        OUT
        + "shr.u32 %r5, %r0, 5; and.b32 %r6, %r0, 31; mul.lo.u32 %r6, %r6, 4; mov.u32 %r7, s; add.u32 %r6, %r6, %r7;"
        + "setp.eq.u32 %p1, %r5, 0; setp.eq.u32 %p2, %r5, 1; setp.eq.u32 %p3, %r5, 2;"
        + "@%p1 st.shared.u32 [%r6], %r0; @%p1 bar.arrive 1, 64; @%p2 bar.sync 1, 64; @%p2 ld.shared.u32 %r1, [%r6];"
    )
    run(body, zeros(96), prelude=SHARED, block=96)
    assert fault(
        body + "bar.warp.sync -1; @%p3 ld.shared.u32 %r1, [%r6];", zeros(96), prelude=SHARED, block=96
    ).kind in (
        "race",
        "uninitialized",
    )


def test_atomics_and_locks_do_not_count_as_races() -> None:
    body = (
        OUT + "mov.u32 %r2, s; @%p1 bra E; setp.eq.u32 %p1, %r0, 0; @%p1 st.shared.u32 [%r2], 0; bar.sync 0; "
        "atom.shared.add.u32 %r1, [%r2], 1; E:"
    )
    run(body, zeros(), prelude=SHARED, block=64)


def test_registers_of_the_module_are_not_shared_between_launches() -> None:
    parsed = parse_ptx(module(OUT + "add.u32 %r1, %r1, 1; st.global.u32 [%rd1], %r1;"))
    for _ in range(2):
        out = zeros(32)
        run_ptx(parsed, "k", block=32, args=[out])
        assert out.tolist() == [1] * 32


def test_arrays_of_a_function_that_is_called_are_told_apart_until_it_returns() -> None:
    array = ".local .b8 l[32]; .local .b8 m[32]; mov.u64 %a, l;"
    prelude = f".func f (.param .u32 at) {{ .reg .b64 %a; .reg .b32 %i; {array} ld.param.u32 %i, [at]; " \
        ".reg .b64 %w; cvt.u64.u32 %w, %i; add.u64 %a, %a, %w; st.local.u32 [%a], %i; ret; }" \
        " .func g () { .reg .b64 %a; .local .b8 l[256]; mov.u64 %a, l; st.local.u32 [%a+32], 1;" \
        " st.local.u32 [%a+200], 1; ret; }"  # fmt: skip
    calls = "{{ .param .u32 p; st.param.u32 [p], {at}; call f, (p); }} call g, ();"
    run(calls.format(at=28), zeros(), prelude=prelude)
    found = fault(calls.format(at=32), zeros(), prelude=prelude)
    assert found.kind == "out-of-bounds" and "between two of the frame's variables" in str(found)
