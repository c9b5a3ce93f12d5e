# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Instructions and forms that compiled kernels rarely have, against independent formulas."""

from __future__ import annotations

import numpy as np
import pytest

from .ptx import OUT, each_thread, run

A = "mul.lo.u32 %r10, %r0, 0x01234567; xor.b32 %r10, %r10, 0x89abcdef;"
B = "mul.lo.u32 %r11, %r0, 0x0f1e2d3c; xor.b32 %r11, %r11, 0x13579bdf;"
LANES = np.arange(32, dtype=np.uint64)
VALUES_A = ((LANES * 0x01234567) & 0xFFFFFFFF ^ 0x89ABCDEF).astype(np.uint32)
VALUES_B = ((LANES * 0x0F1E2D3C) & 0xFFFFFFFF ^ 0x13579BDF).astype(np.uint32)


def parts(value: int, count: int, signed: bool) -> list[int]:
    bits = 32 // count
    fields = [value >> (bits * i) & ((1 << bits) - 1) for i in range(count)]
    return [f - (1 << bits) if signed and f >> (bits - 1) else f for f in fields]


def joined(fields: list[int]) -> int:
    bits = 32 // len(fields)
    return sum((f & ((1 << bits) - 1)) << (bits * i) for i, f in enumerate(fields))


SIMD = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "absdiff": lambda x, y: abs(x - y),
    "min": min,
    "max": max,
    "avrg": lambda x, y: (x + y + 1) >> 1,
}


@pytest.mark.parametrize("kind", ["u32", "s32"])
@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("name", sorted(SIMD))
def test_simd_video_instruction_works_on_each_part(name: str, count: int, kind: str) -> None:
    body = f"{A}{B} v{name}{count}.{kind}.{kind}.{kind} %r1, %r10, %r11, 0;"
    signed = kind == "s32"
    want = [
        joined([SIMD[name](x, y) for x, y in zip(parts(a, count, signed), parts(b, count, signed), strict=True)])
        for a, b in zip(VALUES_A.tolist(), VALUES_B.tolist(), strict=True)
    ]
    assert each_thread(body).tolist() == want


def test_simd_video_instruction_saturates_and_accumulates() -> None:
    body = f"{A}{B} vadd4.s32.s32.s32.sat %r1, %r10, %r11, 0;"
    want = [
        joined([max(-128, min(127, x + y)) for x, y in zip(parts(a, 4, True), parts(b, 4, True), strict=True)])
        for a, b in zip(VALUES_A.tolist(), VALUES_B.tolist(), strict=True)
    ]
    assert each_thread(body).tolist() == want
    body = f"{A}{B} vabsdiff4.u32.u32.u32.add %r1, %r10, %r11, 1000;"
    want = [
        1000 + sum(abs(x - y) for x, y in zip(parts(a, 4, False), parts(b, 4, False), strict=True))
        for a, b in zip(VALUES_A.tolist(), VALUES_B.tolist(), strict=True)
    ]
    assert each_thread(body).tolist() == want


def test_scalar_video_instructions_take_a_second_operation() -> None:
    a, b = VALUES_A.view(np.int32).astype(np.int64), VALUES_B.view(np.int32).astype(np.int64)
    assert each_thread(f"{A}{B} vadd.s32.s32.s32.sat.min %r1, %r10, %r11, 5;", dtype=np.int32).tolist() == [
        min(int(np.clip(x + y, -(2**31), 2**31 - 1)), 5) for x, y in zip(a, b, strict=True)
    ]
    assert each_thread(f"{A}{B} vmad.s32.s32.s32.shr7 %r1, %r0, 300, %r11;", dtype=np.int32).tolist() == [
        int(lane) * 300 + int(y) >> 7 for lane, y in zip(LANES, b, strict=True)
    ]
    assert each_thread("vset.u32.u32.lt %r1, %r0, 7;").tolist() == [int(lane < 7) for lane in range(32)]


def test_matrix_of_bytes_is_loaded_transposed() -> None:
    # m16n16: lane l gets, of column l / 4 (and l / 4 + 8), the bytes of rows 4 (l % 4) to 4 (l % 4) + 3.
    body = OUT + (
        "mov.u32 %r9, s; mad.lo.u32 %r8, %r0, 8, %r9; shl.b32 %r7, %r0, 3; mov.u32 %r6, 0x03020100;"
        "mad.lo.u32 %r5, %r7, 0x01010101, %r6; st.shared.u32 [%r8], %r5; add.u32 %r5, %r5, 0x04040404;"
        "st.shared.u32 [%r8+4], %r5; bar.warp.sync -1; and.b32 %r4, %r0, 15; mad.lo.u32 %r4, %r4, 16, %r9;"
        "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r1, %r2}, [%r4];"
        "st.global.v2.u32 [%rd2], {%r1, %r2};"
    ).replace("st.global.v2", "add.u64 %rd2, %rd1, %rd1; sub.u64 %rd2, %rd2, %rd0; st.global.v2")
    out = np.zeros((32, 2), dtype=np.uint32)
    run(body, out, prelude=".shared .align 16 .b8 s[256];")
    matrix = np.arange(256, dtype=np.uint32).reshape(16, 16)
    for lane in range(32):
        for half in range(2):
            column = matrix[4 * (lane % 4) : 4 * (lane % 4) + 4, lane // 4 + 8 * half]
            assert out[lane, half] == joined(column.tolist())


@pytest.mark.parametrize("count", [1, 2, 4])
def test_matrix_of_bytes_is_stored_transposed(count: int) -> None:
    # m16n8: register i of lane l holds, of matrix i, rows l / 4 and l / 4 + 8 at columns 2 (l % 4) and 2 (l % 4) + 1;
    # thread t gives the address of 16 bytes, column t % 8 of matrix t / 8.
    registers = ", ".join(f"%r{20 + i}" for i in range(count))
    loads = "".join(f"ld.global.u32 %r{20 + i}, [%rd2+{128 * i}];" for i in range(count))
    body = OUT + (
        f"ld.param.u64 %rd2, [p1]; mul.wide.u32 %rd3, %r0, 4; add.u64 %rd2, %rd2, %rd3; {loads}"
        f"mov.u32 %r9, s; rem.u32 %r8, %r0, {8 * count}; mad.lo.u32 %r8, %r8, 16, %r9;"
        f"stmatrix.sync.aligned.m16n8.x{count}.trans.shared.b8 [%r8], {{{registers}}}; bar.warp.sync -1;"
        f"setp.ge.u32 %p1, %r0, {8 * count}; @%p1 ret; mul.wide.u32 %rd3, %r0, 12; add.u64 %rd1, %rd1, %rd3;"
        "ld.shared.v4.u32 {%r20, %r21, %r22, %r23}, [%r8]; st.global.v4.u32 [%rd1], {%r20, %r21, %r22, %r23};"
    )
    matrices = np.random.default_rng(count).integers(0, 256, (count, 16, 8))
    source = np.array(
        [
            [joined([int(m[lane // 4 + 8 * (e // 2), 2 * (lane % 4) + e % 2]) for e in range(4)]) for lane in range(32)]
            for m in matrices
        ],
        dtype=np.uint32,
    )
    out = np.zeros((8 * count, 16), dtype=np.uint8)
    run(body, out, source, prelude=".shared .align 16 .b8 s[512];")
    assert np.array_equal(out.reshape(count, 8, 16), matrices.transpose(0, 2, 1))


@pytest.mark.parametrize(("form", "bits"), [("b4x16_p64", 4), ("b6x16_p32", 6)])
def test_packed_narrow_elements_are_unpacked_to_bytes(form: str, bits: int) -> None:
    # Row r has 16 elements of `bits` bits at its start; lane l gets elements 4 (l % 4) to 4 (l % 4) + 3 of row l / 4.
    body = OUT + (
        "ld.param.u64 %rd2, [p1]; mul.wide.u32 %rd3, %r0, 4; add.u64 %rd2, %rd2, %rd3; ld.global.u32 %r5, [%rd2];"
        "mov.u32 %r9, s; mad.lo.u32 %r8, %r0, 4, %r9; st.shared.u32 [%r8], %r5; bar.warp.sync -1;"
        "and.b32 %r4, %r0, 7; mad.lo.u32 %r4, %r4, 16, %r9;"
        f"ldmatrix.sync.aligned.m8n16.x1.shared.b8x16.{form} {{%r1}}, [%r4]; st.global.u32 [%rd1], %r1;"
    )
    rng = np.random.default_rng(bits)
    elements = rng.integers(0, 1 << bits, (8, 16))
    rows = [sum(int(e) << (bits * i) for i, e in enumerate(row)).to_bytes(16, "little") for row in elements]
    source = np.frombuffer(b"".join(rows), dtype=np.uint32).copy()
    out = np.zeros(32, dtype=np.uint32)
    run(body, out, source, prelude=".shared .align 16 .b8 s[128];")
    assert out.tolist() == [
        joined(elements[lane // 4, 4 * (lane % 4) : 4 * (lane % 4) + 4].tolist()) for lane in range(32)
    ]


def test_generic_addresses_of_different_spaces_in_one_instruction() -> None:
    body = OUT + (
        ".local .b8 l[8]; mov.u64 %rd2, l; cvta.local.u64 %rd2, %rd2; mov.u32 %r2, s; cvt.u64.u32 %rd3, %r2;"
        "cvta.shared.u64 %rd3, %rd3; and.b32 %r3, %r0, 3; mul.wide.u32 %rd5, %r0, 4; add.u64 %rd3, %rd3, %rd5;"
        "setp.eq.u32 %p1, %r3, 0; setp.eq.u32 %p2, %r3, 1; selp.b64 %rd4, %rd2, %rd1, %p1; "
        "selp.b64 %rd4, %rd3, %rd4, %p2;"
        "st.u32 [%rd4], %r0; atom.add.u32 %r4, [%rd4], 100; ld.u32 %r1, [%rd4]; st.global.u32 [%rd1], %r1;"
        "isspacep.shared %p3, %rd4; @%p3 add.u32 %r1, %r1, 1000; isspacep.local %p3, %rd4; @%p3 add.u32 %r1, %r1, 2000;"
        "st.global.u32 [%rd1], %r1;"
    )
    out = np.zeros(32, dtype=np.uint32)
    run(body, out, prelude=".shared .align 4 .b8 s[128];")
    assert out.tolist() == [100 + t + {0: 2000, 1: 1000}.get(t % 4, 0) for t in range(32)]


def test_128_bit_registers_move_load_store_and_exchange() -> None:
    body = OUT + (
        ".reg .b128 %q<4>; mov.b64 %rd2, 0x1111111122222222; mov.b64 %rd3, 0x3333333344444444; "
        "mov.b128 %q1, {%rd2, %rd3};"
        "ld.param.u64 %rd4, [p1]; atom.global.exch.b128 %q2, [%rd4], %q1; mov.b128 {%rd5, %rd6}, %q2;"
        "ld.global.b128 %q3, [%rd4]; st.global.b128 [%rd4+16], %q3; st.global.v2.b64 [%rd4+32], {%rd5, %rd6};"
    )
    memory = np.arange(12, dtype=np.uint32)
    run(body, np.zeros(1, np.uint32), memory, block=1)
    new = [0x22222222, 0x11111111, 0x44444444, 0x33333333]
    assert memory.tolist() == [*new, *new, 0, 1, 2, 3]


def test_guarded_instruction_keeps_the_old_value_of_other_lanes() -> None:
    body = (
        "mov.u32 %r1, 7; setp.lt.u32 %p1, %r0, 5; @%p1 add.u32 %r1, %r0, 100; @!%p1 ld.param.u32 %r2, [out];"
        "@%p1 mov.u32 %r1, 1; @!%p1 bra E; add.u32 %r1, %r1, 1; E:"
    )
    assert each_thread(body).tolist() == [2] * 5 + [7] * 27


def test_predicate_logic_and_second_destinations() -> None:
    body = (
        "setp.lt.u32 %p1, %r0, 8; setp.gt.and.u32 %p2|%p3, %r0, 3, %p1; selp.u32 %r1, 1, 0, %p2; "
        "selp.u32 %r2, 2, 0, %p3;"
        "add.u32 %r1, %r1, %r2; not.pred %p4, %p1; xor.pred %p5, %p4, %p2; selp.u32 %r3, 4, 0, %p5; "
        "add.u32 %r1, %r1, %r3;"
    )
    want = [int(3 < t < 8) + 2 * int(t <= 3) + 4 * int((t >= 8) != (3 < t < 8)) for t in range(32)]
    assert each_thread(body).tolist() == want


def test_a_warp_tells_zeros_apart_by_their_sign() -> None:
    """redux: +0 is larger than -0, whichever lane has it."""
    zeros = "setp.eq.u32 %p1, %r0, {}; selp.b32 %r10, {}, {}, %p1; mov.b32 %f1, %r10;"
    for lane in (0, 9, 31):
        most = f"{zeros.format(lane, 0, 1 << 31)} redux.sync.max.f32 %f2, %f1, 0xffffffff; mov.b32 %r1, %f2;"
        least = f"{zeros.format(lane, 1 << 31, 0)} redux.sync.min.f32 %f2, %f1, 0xffffffff; mov.b32 %r1, %f2;"
        assert set(each_thread(most).tolist()) == {0}
        assert set(each_thread(least).tolist()) == {1 << 31}
