# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Launching: arguments, memory, output, counters and processes."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from libtile.simulator import LaunchError, SimulationFault, parse_ptx, run_ptx
from libtile.simulator.parallel import run_batches

from .ptx import OUT, each_thread, module, run


def scalar(kind: str, value: Any, bits: int) -> int:
    """What a kernel sees of a scalar parameter of a type."""
    out = np.zeros(1, dtype=np.uint64)
    body = (
        f"ld.param.u64 %rd0, [out]; ld.param.b{bits} {'%rd1' if bits == 64 else '%r1' if bits == 32 else '%h1'}, [v];"
    )
    source = {64: "%rd1", 32: "%r1", 16: "%h1", 8: "%h1"}[bits]
    width = {8: "u16"}.get(bits, f"u{bits}")
    convert = "" if bits == 64 else f"cvt.u64.{width} %rd1, {source};"
    text = module(f"{body} {convert} st.global.u64 [%rd0], %rd1;", params=f".param .u64 out, .param .{kind} v")
    run_ptx(text, "k", args=[out, value])
    return int(out[0])


@pytest.mark.parametrize(
    ("kind", "value", "bits", "expected"),
    [
        ("u32", -1, 32, 0xFFFFFFFF),
        ("s32", 7, 32, 7),
        ("u8", 200, 8, 200),
        ("b64", 2**63, 64, 2**63),
        ("f32", 1.5, 32, 0x3FC00000),
        ("f32", 2, 32, 0x40000000),
        ("f64", 1.5, 64, 0x3FF8000000000000),
        ("b32", 1.5, 32, 0x3FC00000),
        ("b16", np.float16(1.0), 16, 0x3C00),
        ("b32", np.float32(-0.0), 32, 0x80000000),
        ("u64", np.int64(-2), 64, 2**64 - 2),
        ("u64", np.uint32(5), 64, 5),
    ],
)
def test_scalar_arguments_take_the_width_of_the_parameter(kind: str, value: Any, bits: int, expected: int) -> None:
    assert scalar(kind, value, bits) == expected


def test_structure_is_passed_by_value_and_may_be_indexed() -> None:
    text = module(
        OUT + "mov.u64 %rd2, v; and.b32 %r2, %r0, 3; mul.wide.u32 %rd3, %r2, 4; add.u64 %rd2, %rd2, %rd3;"
        "ld.param.u32 %r1, [%rd2]; ld.param.v2.u32 {%r3, %r4}, [v+8]; add.u32 %r1, %r1, %r4; "
        "st.global.u32 [%rd1], %r1;",
        params=".param .u64 out, .param .align 8 .b8 v[16]",
    )
    out = np.zeros(8, dtype=np.uint32)
    run_ptx(text, "k", block=8, args=[out, struct.pack("<4I", 10, 20, 30, 1000)])
    assert out.tolist() == [1010, 1020, 1030, 2000] * 2


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "1 parameters, got 0 arguments"),
        ([np.zeros((4, 4))[:, 1]], "not C-contiguous"),
        (["text"], "has type str"),
        ([1.5], "is a float, but the parameter is .u64"),
        ([2**64], "does not fit in 8 bytes"),
        ([b"123"], "has 3 bytes, the parameter 8"),
    ],
)
def test_wrong_arguments_are_refused(args: list[Any], message: str) -> None:
    with pytest.raises(LaunchError) as caught:
        run_ptx(module(""), "k", args=args)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"block": 2048}, "more than 1024 threads"),
        ({"block": (0,)}, "positive numbers"),
        ({"grid": (3,), "cluster": (2,)}, "not a multiple of cluster"),
        ({"dynamic_shared": 10**6}, "do not fit"),
        ({"block": 128}, "needs a block of (64, 1, 1)"),
    ],
)
def test_wrong_configurations_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(LaunchError) as caught:
        run_ptx(module("", directives=".reqntid 64"), "k", **{"block": 64, "args": [0], **options})
    assert message in str(caught.value)


def test_unknown_entry_names_the_known_ones() -> None:
    with pytest.raises(LaunchError, match="there is no entry q; the module has: k"):
        run_ptx(module(""), "q")


def test_tile_kernels_may_be_launched_with_a_block_of_one() -> None:
    out = np.zeros(64, dtype=np.uint32)
    text = module(OUT + "st.global.u32 [%rd1], 1;", directives=".reqntid 64 .language 7")
    run_ptx(text, "k", args=[out])
    assert out.sum() == 64


def test_arrays_that_overlap_are_one_memory() -> None:
    data = np.arange(40, dtype=np.uint32)
    body = (
        OUT
        + "ld.param.u64 %rd2, [p1]; st.global.u32 [%rd1], 100; ld.global.u32 %r1, [%rd2]; st.global.u32 [%rd2+64], %r1;"
    )
    run(body, data[:32], data[4:], block=8)
    # p1 is data[4:], so it sees the store to out[4], and its element 16 is data[20].
    assert data[20] == 100


def test_read_only_and_empty_arrays_are_allowed() -> None:
    constant = np.arange(4, dtype=np.uint32)
    constant.setflags(write=False)
    run(OUT + "ld.param.u64 %rd2, [p1]; ld.global.u32 %r1, [%rd2];", np.zeros(32, np.uint32), constant)
    run("", np.zeros(0, dtype=np.float32))


def test_module_variables_have_initial_values_and_addresses_of_each_other() -> None:
    prelude = """
    .global .align 4 .u32 a[3] = {1, 2, 3};
    .global .align 8 .u64 p[2] = {a, generic(a)+8};
    .const .f32 c = 0f40000000;
    .global .align 1 .b8 bytes[4] = {0xFF(a), 7, 8};
    .visible .global .u32 zero;
    """
    body = """
    mov.u64 %rd2, p; ld.global.u64 %rd3, [%rd2+8]; ld.u32 %r1, [%rd3];
    ld.global.u64 %rd3, [%rd2]; ld.global.u32 %r2, [%rd3+4]; mad.lo.u32 %r1, %r1, 10, %r2;
    ld.const.f32 %f1, [c]; cvt.rzi.u32.f32 %r3, %f1; mad.lo.u32 %r1, %r1, 10, %r3;
    ld.global.u8 %r4, [bytes+1]; mad.lo.u32 %r1, %r1, 10, %r4; ld.global.u32 %r5, [zero]; add.u32 %r1, %r1, %r5;
    """
    assert set(each_thread(body, prelude=prelude).tolist()) == {3227}


def test_dynamic_shared_memory_lies_behind_the_static() -> None:
    prelude = ".shared .align 4 .b8 s[12]; .extern .shared .align 16 .b8 dyn[];"
    body = (
        "mov.u32 %r2, s; mov.u32 %r3, dyn; sub.u32 %r1, %r3, %r2; mov.u32 %r4, %dynamic_smem_size; "
        "add.u32 %r1, %r1, %r4; st.shared.u32 [dyn+60], 1;"
    )
    assert set(each_thread(body, prelude=prelude, dynamic_shared=64).tolist()) == {16 + 64}
    with pytest.raises(SimulationFault):
        each_thread(body, prelude=prelude, dynamic_shared=60)


def test_special_registers_of_a_three_dimensional_launch() -> None:
    body = OUT + """
    mov.u32 %r2, %ctaid.y; mov.u32 %r3, %nctaid.y; mov.u32 %r4, %tid.z; mov.u32 %r5, %ntid.x; mov.u32 %r6, %ctaid.x;
    mov.u32 %r7, %tid.y; mad.lo.u32 %r8, %r4, 2, %r7; mad.lo.u32 %r8, %r8, %r5, %r0;
    mad.lo.u32 %r9, %r2, 2, %r6; mad.lo.u32 %r8, %r9, 12, %r8;
    mul.wide.u32 %rd2, %r8, 4; add.u64 %rd2, %rd0, %rd2; mad.lo.u32 %r1, %r3, 1000, %r8; st.global.u32 [%rd2], %r1;
    """  # fmt: skip
    out = np.zeros(72, dtype=np.uint32)
    run(body, out, block=(3, 2, 2), grid=(2, 3))
    assert out.tolist() == [3000 + i for i in range(72)]


PRINTF = """
.extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);
.global .align 1 .b8 text[40] = {37,100,32,37,53,46,50,102,32,37,115,32,37,108,108,120,32,37,37,10,0};
.global .align 1 .b8 word[3] = {104,105,0};
"""


def test_printf_formats_each_kind_of_argument_in_thread_order() -> None:
    body = """
    .local .align 8 .b8 buf[32];
    mov.u32 %r0, %tid.x; mov.u64 %rd1, buf; sub.s32 %r1, %r0, 1; st.local.u32 [%rd1], %r1;
    st.local.f64 [%rd1+8], 0d3FF4000000000000; mov.u64 %rd2, word; st.local.u64 [%rd1+16], %rd2;
    mov.u64 %rd3, 0x123456789a; st.local.u64 [%rd1+24], %rd3;
    cvta.local.u64 %rd4, %rd1; mov.u64 %rd5, text;
    { .param .b64 f; .param .b64 a; .param .b32 r; st.param.b64 [f], %rd5; st.param.b64 [a], %rd4;
      call (r), vprintf, (f, a); ld.param.b32 %r1, [r]; }
    """
    result = run(body, np.zeros(1), block=2, prelude=PRINTF)
    assert result.output == "-1  1.25 hi 123456789a %\n0  1.25 hi 123456789a %\n"


def test_sectors_and_bank_conflicts_are_counted() -> None:
    coalesced = run(OUT + "ld.global.u32 %r1, [%rd1];", np.zeros(32, np.uint32)).counters
    assert (coalesced.global_requests, coalesced.global_sectors) == (1, 4)
    strided = run(
        OUT + "mul.wide.u32 %rd2, %r0, 32; add.u64 %rd2, %rd0, %rd2; ld.global.u32 %r1, [%rd2];",
        np.zeros(256, np.uint32),
    )
    assert strided.counters.global_sectors == 32
    prelude = ".shared .align 16 .b8 s[8192];"
    for stride, width, conflicts in (
        (4, 1, 0),
        (8, 1, 1),
        (128, 1, 31),
        (132, 1, 0),
        (16, 4, 0),
        (0, 1, 0),
        (32, 4, 4),
    ):
        vector = "v4.u32 [%r2], {7,7,7,7}" if width == 4 else "u32 [%r2], 7"
        body = f"mov.u32 %r0, %tid.x; mov.u32 %r2, s; mad.lo.u32 %r2, %r0, {stride}, %r2; st.shared.{vector};"
        found = run(body, np.zeros(1), prelude=prelude).counters
        assert found.bank_conflicts == conflicts, (stride, width)


def test_instructions_are_counted_by_warp_and_by_thread() -> None:
    body = OUT + "setp.lt.u32 %p1, %r0, 8; @!%p1 bra E; add.f32 %f1, %f2, %f3; add.f32 %f1, %f1, %f3; E: bar.sync 0;"
    result = run(body, np.zeros(64, np.uint32), block=64, grid=2)
    assert result.counters.instructions["add.f32"] == 4
    assert result.counters.instructions["bar.sync"] == 4
    assert result.counters.barriers == 2
    assert result.counters.ctas == 2
    assert "add.f32" in result.summary() and "active lanes per warp" in result.summary()


@pytest.mark.parametrize("processes", [1, 3])
def test_parallel_processes_give_the_same_memory_counters_and_output(processes: int) -> None:
    body = """
    mov.u32 %r0, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.u32 %r4, %r2, %r3, %r0;
    ld.param.u64 %rd0, [out]; mul.wide.u32 %rd1, %r4, 4; add.u64 %rd1, %rd0, %rd1; st.global.u32 [%rd1], %r4;
    ld.param.u64 %rd2, [p1]; red.global.add.u32 [%rd2], 1;
    """
    out, count = np.zeros(16 * 1024, dtype=np.uint32), np.zeros(1, dtype=np.uint32)
    result = run(body, out, count, block=1024, grid=16, processes=processes)
    assert out.tolist() == list(range(16 * 1024))
    assert count[0] == 16 * 1024
    assert result.counters.instructions["red.global.add.u32"] == 16 * 32
    assert result.counters.ctas == 16


@pytest.mark.parametrize(
    ("talk", "expected"),
    [("", 2), ("atom.global.add.u32 %r1, [%rd0], 1;", 1), ("ld.acquire.gpu.global.u32 %r1, [%rd0];", 1)],
    ids=["silent", "atomics", "acquire"],
)
def test_a_large_grid_runs_in_processes_unless_blocks_may_wait(
    talk: str, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[int] = []

    def counting(launch: object, batches: object, processes: int, progress: object) -> None:
        used.append(processes)
        run_batches(launch, batches, processes, progress)  # type: ignore[arg-type]

    monkeypatch.setattr("libtile.simulator.launch.run_batches", counting)
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 1})
    seen: list[tuple[int, int]] = []
    body = (
        f"ld.param.u64 %rd0, [out]; {talk} mov.u32 %r2, %ctaid.x; mul.wide.u32 %rd1, %r2, 4; add.u64 %rd1, %rd0, %rd1; "
    )
    out = np.zeros(64, np.uint32)
    result = run(
        body + "st.global.u32 [%rd1], %r2;", out, block=1024, grid=64, processes=None,
        progress=lambda done, total: seen.append((done, total)),
    )  # fmt: skip
    assert used == ([expected] if expected > 1 else [])
    assert out[1:].tolist() == list(range(1, 64)) and result.counters.ctas == 64
    assert seen == sorted(seen) and seen[-1] == (64, 64) and len(seen) == 16


def test_the_first_fault_of_worker_processes_reaches_the_caller() -> None:
    body = OUT + "mov.u32 %r2, %ctaid.x; setp.ge.u32 %p1, %r2, 13; @!%p1 bra E; ld.global.u32 %r1, [%rd1+1024000]; E:"
    with pytest.raises(SimulationFault) as caught:
        run(body, np.zeros(1024, dtype=np.uint32), block=1024, grid=16, processes=2)
    assert (caught.value.kind, caught.value.ctaid) == ("out-of-bounds", (13, 0, 0))


def test_trace_reports_each_instruction_of_each_warp_with_its_lanes() -> None:
    seen: list[tuple[Any, ...]] = []
    body = OUT + "setp.lt.u32 %p1, %r0, 4; @%p1 st.global.u32 [%rd1], 1;"
    run(
        body,
        np.zeros(64, np.uint32),
        block=64,
        trace=lambda cta, warp, mask, ins: seen.append((warp, mask, ins.opcode)),
    )
    assert [(w, m) for w, m, opcode in seen if opcode == "st"] == [(0, 0xF)]
    assert [(w, m) for w, m, opcode in seen if opcode == "setp"] == [(0, 0xFFFFFFFF), (1, 0xFFFFFFFF)]


def test_cluster_has_ranks_and_reaches_the_shared_memory_of_its_neighbours() -> None:
    body = OUT + """
    mov.u32 %r2, s; mov.u32 %r3, %cluster_ctarank; mad.lo.u32 %r4, %r3, 100, %r0; shl.b32 %r5, %r0, 2;
    add.u32 %r2, %r2, %r5;
    st.shared.u32 [%r2], %r4; barrier.cluster.arrive; barrier.cluster.wait;
    xor.b32 %r6, %r3, 1; mapa.shared::cluster.u32 %r7, %r2, %r6; ld.shared::cluster.u32 %r1, [%r7];
    mov.u32 %r8, %ctaid.x; mad.lo.u32 %r8, %r8, 32, %r0; mul.wide.u32 %rd2, %r8, 4; add.u64 %rd2, %rd0, %rd2;
    st.global.u32 [%rd2], %r1; barrier.cluster.arrive; barrier.cluster.wait;
    """  # fmt: skip
    out = np.zeros(128, dtype=np.uint32)
    run(body, out, grid=4, cluster=2, prelude=".shared .align 4 .b8 s[128];")
    assert out.reshape(4, 32)[:, 5].tolist() == [105, 5, 105, 5]


@pytest.mark.parametrize(
    ("directives", "options", "shape"),
    [
        (".reqnctapercluster 2, 3", {}, (2, 3, 1)),
        (".reqnctapercluster 2, 3", {"cluster": (2, 3)}, (2, 3, 1)),
        ("", {"cluster": (4, 1, 2)}, (4, 1, 2)),
        (".maxclusterrank 8", {"cluster": (1, 6)}, (1, 6, 1)),
        ("", {}, (1, 1, 1)),
    ],
)
def test_clusters_are_those_of_the_launch_or_of_the_kernel(
    directives: str, options: dict[str, Any], shape: tuple[int, int, int]
) -> None:
    """Each CTA says where it is: its place in its cluster, its cluster's place in the grid, and how many there are."""
    names = [f"%{what}.{d}" for what in ("cluster_ctaid", "clusterid", "cluster_nctaid", "nclusterid") for d in "xyz"]
    grid = (4, 6, 2)
    body = OUT + """
    mov.u32 %r1, %ctaid.z; mov.u32 %r2, %nctaid.y; mov.u32 %r3, %ctaid.y; mad.lo.u32 %r1, %r1, %r2, %r3;
    mov.u32 %r2, %nctaid.x; mov.u32 %r3, %ctaid.x; mad.lo.u32 %r1, %r1, %r2, %r3; mul.wide.u32 %rd2, %r1, 56;
    add.u64 %rd2, %rd0, %rd2; setp.ne.u32 %p1, %r0, 0; @%p1 exit;
    """  # fmt: skip
    names += ["%cluster_ctarank", "%cluster_nctarank"]
    body += "".join(f"mov.u32 %r4, {name}; st.global.u32 [%rd2+{4 * i}], %r4;" for i, name in enumerate(names))
    out = np.zeros((2, 6, 4, 14), dtype=np.uint32)
    run(body, out, grid=grid, directives=directives, **options)
    for z, y, x in np.ndindex(2, 6, 4):
        at = (x, y, z)
        within = [a % s for a, s in zip(at, shape, strict=True)]
        place = [a // s for a, s in zip(at, shape, strict=True)]
        rank = within[0] + shape[0] * (within[1] + shape[1] * within[2])
        counts = [g // s for g, s in zip(grid, shape, strict=True)]
        assert out[z, y, x].tolist() == [*within, *place, *shape, *counts, rank, np.prod(shape)]


@pytest.mark.parametrize(
    ("directives", "cluster", "said"),
    [
        (".reqnctapercluster 2", 4, r"needs clusters of \(2, 1, 1\) \(.reqnctapercluster\), not \(4, 1, 1\)"),
        (".maxclusterrank 4", 8, "allows clusters of 4 CTAs"),
        ("", 32, "more than 16 CTAs"),
    ],
)
def test_clusters_that_a_kernel_does_not_take_are_refused(directives: str, cluster: int, said: str) -> None:
    with pytest.raises(LaunchError, match=said):
        run("", np.zeros(1, np.uint32), grid=32, cluster=cluster, directives=directives)


def test_a_module_is_compiled_once_and_may_be_launched_often() -> None:
    parsed = parse_ptx(module(OUT + "st.global.u32 [%rd1], %r0;"))
    for block in (32, 7, 64):
        out = np.zeros(block, dtype=np.uint32)
        run_ptx(parsed, "k", block=block, args=[out])
        assert out.tolist() == list(range(block))
    assert len(parsed.cache) == 1


def test_a_list_of_arrays_is_a_table_of_addresses_sizes_and_strides():
    first, second = np.arange(6, dtype=np.int32).reshape(2, 3), np.zeros(1, dtype=np.int32)
    out = np.zeros(8, dtype=np.uint64)
    copies = " ".join(
        f"ld.global.u64 %rd2, [%rd1+{8 * i}]; st.global.u64 [%rd0+{8 * i}], %rd2;" for i in range(1, 8) if i != 5
    )
    body = f"""ld.param.u64 %rd0, [out]; ld.param.u64 %rd1, [table]; {copies}
        ld.global.u64 %rd2, [%rd1]; ld.global.u32 %r1, [%rd2+20];
        ld.global.u64 %rd3, [%rd1+40]; st.global.u32 [%rd3], %r1;"""
    run_ptx(module(body, params=".param .u64 out, .param .u64 table"), "k", args=[out, [first, second]])
    assert second[0] == 5
    assert out.tolist() == [0, 2, 3, 3, 1, 0, 1, 1]


def test_a_list_holds_arrays_only():
    text = module("", params=".param .u64 out, .param .u64 table")
    with pytest.raises(LaunchError, match=r"argument 1 is a list, which must hold arrays"):
        run_ptx(text, "k", args=[np.zeros(1), [3]])


TAKE_OVER = """
.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out)
{
    .reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %rd<8>; .reg .b128 %q<2>;
    .shared .align 16 .b8 answer[16]; .shared .align 8 .b8 bar[8];
    ld.param.u64 %rd0, [out]; mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ctaid.y; mov.u32 %r2, %nctaid.x; mov.u32 %r6, 0;
    mov.u32 %r5, 0; mbarrier.init.shared.b64 [bar], 1; fence.mbarrier_init.release.cluster;
AGAIN:
    mad.lo.u32 %r3, %r1, %r2, %r0; mul.wide.u32 %rd1, %r3, 4; add.u64 %rd1, %rd0, %rd1; add.u32 %r6, %r6, 1;
    atom.global.add.u32 %r4, [%rd1], %r6;
    mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;
    clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [answer], [bar];
WAIT:
    mbarrier.try_wait.parity.shared.b64 %p1, [bar], %r5; @!%p1 bra WAIT;
    xor.b32 %r5, %r5, 1;
    ld.shared.b128 %q0, [answer];
    clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p2, %q0;
    @!%p2 bra OVER;
    clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r0, %r1, %r7, _}, %q0;
    clusterlaunchcontrol.query_cancel.get_first_ctaid::y.b32.b128 %r1, %q0;
    fence.proxy.async.shared::cta;
    bra AGAIN;
OVER:
    ret;
}
"""


@pytest.mark.parametrize("order", [None, 1])
def test_a_cluster_takes_over_those_that_have_not_started(order: int | None) -> None:
    out = np.zeros(15, np.uint32)
    run_ptx(TAKE_OVER, "k", grid=(3, 5), block=1, args=[out], order=order)
    # Each program ran once, and says how many its cluster had run by then.
    assert (out > 0).all()
    assert sorted(out.tolist()).count(1) == 7
    assert out.max() > 1
    alone = np.zeros(1, np.uint32)
    run_ptx(TAKE_OVER, "k", grid=(1, 1), block=1, args=[alone])
    assert alone[0] == 1


def test_nothing_is_asked_for_behind_an_answer_that_there_is_nothing() -> None:
    """PTX ISA, "clusterlaunchcontrol.try_cancel": what a CTA gets that has seen a request fail is undefined."""
    again = TAKE_OVER.replace("@!%p2 bra OVER;", "@!%p2 bra AGAIN;")
    with pytest.raises(SimulationFault, match="a request behind one that was seen to fail") as caught:
        run_ptx(again, "k", grid=(3, 5), block=1, args=[np.zeros(15, np.uint32)])
    assert caught.value.kind == "illegal-instruction"


def test_an_answer_that_there_is_nothing_names_no_cta() -> None:
    blind = TAKE_OVER.replace("@!%p2 bra OVER;", "")
    with pytest.raises(SimulationFault) as caught:
        run_ptx(blind, "k", grid=(1, 1), block=1, args=[np.zeros(1, np.uint32)])
    assert caught.value.kind == "out-of-bounds"


def test_an_answer_is_not_read_before_it_is_there() -> None:
    early = TAKE_OVER.replace("@!%p1 bra WAIT;", "")
    with pytest.raises(SimulationFault, match="asynchronous copy has not completed"):
        run_ptx(
            early.replace("mbarrier.try_wait", "mbarrier.test_wait"), "k", grid=4, block=1, args=[np.zeros(4, "u4")]
        )
