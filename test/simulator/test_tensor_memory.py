# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tensor memory: allocation, loads and stores of every shape, and what is wrong with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from libtile.simulator import PtxError, SimulationFault, run_ptx
from libtile.simulator.fragments import a_positions, c_positions

HEADER = (
    ".version 9.0\n.target sm_100a\n.address_size 64\n.shared .align 1024 .b8 s[32768];\n.shared .align 8 .b8 t[64];\n"
)
REGISTERS = ".reg .pred %p<8>; .reg .b32 %r<64>; .reg .b64 %rd<16>; .reg .b32 %v<128>, %w<128>;"
# %r0 thread, %r1 warp, %r2 lane, %r5 the address of the warp's lanes
START = """
    mov.u32 %r0, %tid.x; shr.u32 %r1, %r0, 5; and.b32 %r2, %r0, 31;
    ld.param.u64 %rd0, [out];
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra MINE;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [t], ALLOC;
    tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
MINE:
    bar.sync 0;
    ld.shared.b32 %r4, [t];
    shl.b32 %r5, %r1, 21; add.u32 %r5, %r4, %r5;
"""
FREE = "tcgen05.fence::before_thread_sync; bar.sync 0; @%p1 bra KEEP; tcgen05.fence::after_thread_sync;"
FREE += "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r4, ALLOC;\nKEEP:\n"
WAIT_LD, WAIT_ST = "tcgen05.wait::ld.sync.aligned;\n", "tcgen05.wait::st.sync.aligned;\n"


def kernel(body: str, columns: int = 64, start: str = START, end: str = FREE) -> str:
    text = f"{HEADER}.visible .entry k(.param .u64 out)\n{{{REGISTERS}{start}{body}{end}\nret;\n}}"
    return text.replace("ALLOC", str(columns))


def run(body: str, out: np.ndarray | None = None, *, block: int = 128, columns: int = 64, **options: Any) -> np.ndarray:
    out = np.zeros(block, dtype=np.uint32) if out is None else out
    start, end = options.pop("start", START), options.pop("end", FREE)
    run_ptx(kernel(body, columns, start, end), "k", block=block, args=[out], **options)
    return out


def fault_of(body: str, **options: Any) -> SimulationFault:
    with pytest.raises(SimulationFault) as caught:
        run(body, **options)
    return caught.value


def vector(count: int, name: str = "v") -> str:
    return "{" + ", ".join(f"%{name}{i}" for i in range(count)) + "}"


def access(kind: str, shape: str, number: int, at: str = "%r5", pack: str = "", split: int = 0) -> str:
    registers = {"16x128b": 2, "16x256b": 4}.get(shape, 1) * number
    where = f"[{at}]" + (f", {split}" if shape == "16x32bx2" else "")
    operands = (vector(registers), where) if kind == "ld" else (where, vector(registers))
    return f"tcgen05.{kind}.sync.aligned.{shape}.x{number}{pack}.b32 {', '.join(operands)};\n"


def fill(columns: int) -> str:
    """Each word of the warp's lanes is 1000 times its lane and its column."""
    body = "mul.lo.u32 %r6, %r0, 1000;" + "".join(f"add.u32 %v{i}, %r6, {i};" for i in range(columns))
    return body + access("st", "32x32b", columns) + WAIT_ST


def written(count: int) -> str:
    """Stores the first registers of each thread behind those of the threads before it."""
    return f"mul.lo.u32 %r7, %r0, {4 * count}; cvt.u64.u32 %rd2, %r7; add.u64 %rd2, %rd0, %rd2;" + "".join(
        f"st.global.b32 [%rd2+{4 * i}], %v{i};" for i in range(count)
    )


def expected(shape: str, number: int, split: int) -> tuple[np.ndarray, np.ndarray]:
    """(lanes, columns) [32, registers], from what the shapes have in common with the fragments of mma.sync."""
    lane, column = np.arange(32)[:, None], np.arange(number)[None, :]
    if shape == "32x32b":
        return np.broadcast_to(lane, (32, number)), np.broadcast_to(column, (32, number))
    if shape == "16x32bx2":
        return np.broadcast_to(lane % 16, (32, number)), column + split * (lane // 16)
    if shape == "16x64b":
        rows = np.array([[8 * (t % 2) + t // 4] * number for t in range(32)])
        return rows, np.array([[t // 2 % 2 + 2 * i for i in range(number)] for t in range(32)])
    parts = [a_positions(16, 4, 1) if shape == "16x128b" else c_positions(16, 8) for _ in range(number)]
    width = 4 if shape == "16x128b" else 8
    return (
        np.concatenate([row for row, _ in parts], axis=1),
        np.concatenate([at + width * i for i, (_, at) in enumerate(parts)], axis=1),
    )


SHAPES = [("32x32b", 1), ("32x32b", 16), ("16x64b", 4), ("16x128b", 4), ("16x256b", 2), ("16x32bx2", 8)]


@pytest.mark.parametrize(("shape", "number"), SHAPES)
def test_a_load_finds_lanes_and_columns_and_a_store_puts_them_there(shape: str, number: int) -> None:
    lane, column = expected(shape, number, 9)
    count = lane.shape[1]
    warp = 32 * np.arange(4)[:, None, None]
    found = run(
        fill(32) + access("ld", shape, number, split=9) + WAIT_LD + written(count), np.zeros((4, 32, count), "u4")
    )
    assert np.array_equal(found, 1000 * (warp + lane) + column)
    # Stored by the shape and loaded by lanes: what it does not touch stays.
    body = fill(32) + "".join(f"mad.lo.u32 %v{i}, %r0, 1000, {7_000_000 + i};" for i in range(count))
    body += access("st", shape, number, split=9) + WAIT_ST + access("ld", "32x32b", 32) + WAIT_LD + written(32)
    wanted = (1000 * (warp + np.arange(32)[:, None]) + np.arange(32)).astype("u4")
    for w in range(4):
        wanted[w, lane, column] = 7_000_000 + 1000 * (32 * w + np.arange(32)[:, None]) + np.arange(count)
    for order in (None, 1):
        assert np.array_equal(run(body, np.zeros((4, 32, 32), "u4"), order=order), wanted)


def test_the_upper_rows_of_a_warp_are_lanes_16_and_on() -> None:
    body = fill(32) + "add.u32 %r8, %r5, 0x100000;" + access("ld", "16x32bx2", 4, "%r8", split=4) + WAIT_LD + written(4)
    found = run(body, np.zeros((4, 2, 16, 4), "u4"))
    lanes = 32 * np.arange(4)[:, None] + 16 + np.arange(16)
    assert np.array_equal(found[:, 1], 1000 * lanes[..., None] + np.arange(4, 8))


@pytest.mark.parametrize("shape", ["32x32b", "16x64b", "16x256b", "16x32bx2"])
def test_halves_are_packed_into_registers_and_unpacked(shape: str) -> None:
    """A packed register has the lower halves of two columns that follow each other."""
    lane, column = expected(shape, 2, 0)
    count = lane.shape[1]
    body = fill(32) + access("ld", shape, 2, pack=".pack::16b", split=4) + WAIT_LD
    found = run(body + written(count), np.zeros((4, 32, count), "u4"))
    words = 1000 * (32 * np.arange(4)[:, None, None] + lane)
    first = 2 * column + (4 * (np.arange(32)[:, None] // 16) if shape == "16x32bx2" else 0)
    wanted = (words + first) & 0xFFFF | ((words + first + 1) & 0xFFFF) << 16
    assert np.array_equal(found, wanted.astype("u4"))
    again = body + fill(32) + "".join(f"not.b32 %v{i}, %v{i};" for i in range(32))
    again += access("st", "32x32b", 32) + WAIT_ST + body.replace(fill(32), "")  # all bits are others now
    back = again + access("st", shape, 2, pack=".unpack::16b", split=4) + WAIT_ST
    back += access("ld", shape, 2, pack=".pack::16b", split=4) + WAIT_LD + written(count)
    assert np.array_equal(run(back, np.zeros((4, 32, count), "u4")), ~wanted.astype("u4"))


def test_several_warps_allocate_and_one_waits_until_another_frees() -> None:
    start = """
    mov.u32 %r0, %tid.x; shr.u32 %r1, %r0, 5; ld.param.u64 %rd0, [out];
    shl.b32 %r2, %r1, 2; mov.u32 %r3, t; add.u32 %r3, %r3, %r2;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r3], 256;
    ld.shared.b32 %r4, [%r3];
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r4, 256;
    cvt.u64.u32 %rd2, %r2; add.u64 %rd2, %rd0, %rd2; st.global.b32 [%rd2], %r4;
    """
    for order in (None, 2):
        found = run("", np.zeros(4, "u4"), start=start, end="", order=order)
        assert set(found.tolist()) == {0, 256}


ALLOC = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [t], {};"
DEALLOC = "tcgen05.dealloc.cta_group::1.sync.aligned.b32 {}, {};"
ONLY_FIRST = "mov.u32 %r0, %tid.x; mov.u32 %r1, 0; setp.ne.u32 %p1, %r1, 0;"
WRONG = {
    "not a power of two": (ALLOC.format(96), "tensor-memory", "96 columns of tensor memory: a power of two from 32"),
    "too few": (ALLOC.format(16), "tensor-memory", "16 columns of tensor memory: a power of two from 32 to 512"),
    "never freed": (ALLOC.format(64), "tensor-memory", "has not freed the 64 columns of tensor memory"),
    "freed twice": (
        ALLOC.format(32) + "ld.shared.b32 %r4, [t];" + DEALLOC.format("%r4", 32) * 2, "tensor-memory",
        "it was freed at PTX line",
    ),
    "freed in part": (
        ALLOC.format(64) + "ld.shared.b32 %r4, [t];" + DEALLOC.format("%r4", 32), "tensor-memory",
        "the one there has 64",
    ),
    "freed elsewhere": (
        ALLOC.format(64) + "ld.shared.b32 %r4, [t]; add.u32 %r4, %r4, 32;" + DEALLOC.format("%r4", 32),
        "tensor-memory", "no allocation of 32 columns begins at address",
    ),
    "after the permit was given up": (
        "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" + ALLOC.format(64), "tensor-memory",
        "has given up its right to allocate",
    ),
    "more than there are": (
        ALLOC.format(512) + ALLOC.format(32), "deadlock",
        "waits for 32 columns of tensor memory, and nobody frees them",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("body", "kind", "message"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_allocation_is_reported(body: str, kind: str, message: str) -> None:
    found = fault_of(body, start=ONLY_FIRST, end="", block=32, checks="basic")
    assert (found.kind, message in found.message) == (kind, True), found.message


LD = access("ld", "32x32b", 4)
#: What is wrong with loads and stores, the body, the body without the mistake, kind, part of the message.
MISTAKES = {
    "another warp's lanes": (
        fill(32) + access("ld", "32x32b", 4, "%r4") + WAIT_LD, fill(32) + LD + WAIT_LD, "tensor-memory",
        "tcgen05.ld.sync.aligned.32x32b.x4.b32 of 32 lanes cannot begin at lane 0",
    ),
    "upper lanes of a whole load": (
        fill(32) + "add.u32 %r8, %r5, 0x100000;" + access("ld", "32x32b", 4, "%r8") + WAIT_LD,
        fill(32) + "add.u32 %r8, %r5, 0x100000;" + access("ld", "16x64b", 4, "%r8") + WAIT_LD, "tensor-memory",
        "of tensor memory; tcgen05.ld.sync.aligned.32x32b.x4.b32 of 32 lanes cannot begin",
    ),
    "columns not allocated": (
        "sub.u32 %r8, %r5, 32;" + access("st", "32x32b", 64, "%r8") + WAIT_ST,
        access("st", "32x32b", 64) + WAIT_ST, "tensor-memory",
        "of tensor memory is not allocated",
    ),
    "store not waited for": (
        access("st", "32x32b", 4) + LD, access("st", "32x32b", 4) + WAIT_ST + LD + WAIT_LD, "async",
        "which the tcgen05.st at PTX line",
    ),
    "load not waited for": (
        fill(32) + LD + access("st", "32x32b", 4),
        fill(32) + LD + WAIT_LD + access("st", "32x32b", 4) + WAIT_ST, "async",
        "reads, before tcgen05.wait::ld",
    ),
    "freed too early": (fill(32) + LD, fill(32) + LD + WAIT_LD, "async", "frees columns lane 0"),
}  # fmt: skip


@pytest.mark.parametrize(("bad", "good", "kind", "message"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_with_tensor_memory_is_found_and_its_clean_twin_runs(
    bad: str, good: str, kind: str, message: str
) -> None:
    for order in (None, 3):
        found = fault_of(bad, checks="basic", order=order)
        assert (found.kind, message in found.message) == (kind, True), found.message
        run(good, order=order)


def test_words_that_nothing_wrote_are_not_read() -> None:
    assert fault_of(LD + WAIT_LD).kind == "uninitialized"
    run(LD + WAIT_LD, checks="full,-uninitialized")


def test_a_load_whose_registers_are_used_is_done_where_waits_for_it_are_not_checked() -> None:
    body = fill(32) + LD + "add.u32 %v0, %v0, 1;" + access("st", "32x32b", 4) + WAIT_ST
    assert "uses %v0" in fault_of(body).message
    run(body, checks="full,-tcgen05-load")
    unused = fill(32) + LD + access("st", "32x32b", 4) + WAIT_ST
    assert "before tcgen05.wait::ld" in fault_of(unused, checks="full,-tcgen05-load").message


def test_an_address_beyond_the_columns_is_out_of_bounds_at_every_level() -> None:
    body = "mov.u32 %r8, 510; shl.b32 %r9, %r1, 21; add.u32 %r8, %r8, %r9;" + access("ld", "32x32b", 4, "%r8")
    found = fault_of(body, checks="off")
    assert (found.kind, "column 512 is outside" in found.message) == ("out-of-bounds", True)


@pytest.mark.parametrize(
    ("name", "kind", "values", "wanted"),
    [
        ("max", "f32", (1, -3, np.nan, 2), np.float32(2)), ("min", "f32", (0.0, -0.0, 5.0, 1.0), np.float32(-0.0)),
        ("max.abs", "f32", (1, -3, np.nan, 2), np.float32(3)), ("min", "s32", (4, -7, 3, 9), np.int32(-7)),
        ("min", "f32", (np.nan,) * 4, np.uint32(0x7FFFFFFF)),
        ("max.NaN", "f32", (1, np.nan, 0, 2), np.uint32(0x7FFFFFFF)),
        ("max", "u32", (4, -7, 3, 9), np.int32(-7)),
    ],
)  # fmt: skip
def test_a_load_finds_the_least_or_greatest_of_its_columns(
    name: str, kind: str, values: tuple[float, ...], wanted: np.generic
) -> None:
    words = np.array(values, np.float32 if kind == "f32" else np.int32).view(np.uint32)
    body = "".join(f"mov.b32 %v{i}, {word};" for i, word in enumerate(words.tolist()))
    body += access("st", "32x32b", 4) + WAIT_ST
    body += f"tcgen05.ld.red.sync.aligned.32x32b.x4.{name}.{kind} {vector(4)}, %v4, [%r5];" + WAIT_LD
    out = np.zeros(128 * 5, np.uint32)
    run_ptx(kernel(body + written(5)).replace("sm_100a", "sm_103a"), "k", block=128, args=[out])
    assert (out.reshape(128, 5) == [*words, wanted.view(np.uint32)]).all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tcgen05.ld.sync.aligned.32x32b.x3.b32 {%v0, %v1, %v2}, [%r5];", "tcgen05.ld.32x32b.x3 does not exist"),
        ("tcgen05.ld.sync.aligned.16x256b.x64.b32 %v0, [%r5];", "tcgen05.ld.16x256b.x64 does not exist"),
        ("tcgen05.ld.sync.aligned.32x32b.x2.b32 %v0, [%r5];", "has 2 registers, not 1"),
        ("tcgen05.ld.sync.aligned.16x32bx2.x1.b32 %v0, [%r5], %r1;", "has to be a constant"),
        ("tcgen05.ld.red.sync.aligned.32x32b.x1.max.u32 %v0, %v1, [%r5];", "has the shape"),
        ("tcgen05.ld.red.sync.aligned.32x32b.x2.max.abs.u32 {%v0, %v1}, %v2, [%r5];", "is .min or .max of"),
        ("tcgen05.shuffle.cta_group::1 [%r5];", "tcgen05.shuffle is not simulated"),
    ],
)
def test_what_is_no_instruction_is_refused(text: str, message: str) -> None:
    with pytest.raises(PtxError, match=message):
        run(text)
