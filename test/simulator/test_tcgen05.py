# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products of tcgen05 against numpy: kinds, layouts and shapes; and what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from libtile.simulator import PtxError, SimulationFault, run_ptx

from .test_tensor_memory import WAIT_LD, WAIT_ST, access

HEADER = (
    ".version 9.0\n.target sm_100a\n.address_size 64\n.shared .align 1024 .b8 s[65536];\n.shared .align 8 .b8 t[64];\n"
)
REGISTERS = ".reg .pred %p<8>; .reg .b32 %r<64>; .reg .b64 %rd<16>; .reg .b32 %v<128>;"
ALLOC = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [t], 512;\n"
SPIN = "{name}: mbarrier.try_wait.parity.shared.b64 %p3, [{at}], 0; @!%p3 bra {name};\n"

#: What a kernel around products is made of; tests take parts away. %r4 is the address of tensor memory, %r5 of the
#: warp's lanes, and thread 0 executes `issue`.
PARTS = {
    "init fence": "fence.mbarrier_init.release.cluster;\n",
    "before": "",
    "handover": "tcgen05.fence::before_thread_sync;\nbar.sync 0;\ntcgen05.fence::after_thread_sync;\n",
    "operand wait": SPIN.format(name="LOADED", at="t+16"),
    "issue": "",
    "commit": "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [t+24];\n",
    "behind the commit": "",
    "result wait": SPIN.format(name="DONE", at="t+24"),
    "fence behind the wait": "tcgen05.fence::after_thread_sync;\n",
    "load wait": WAIT_LD,
    "fence at the end": "tcgen05.fence::before_thread_sync;\n",
    "fence before the end": "tcgen05.fence::after_thread_sync;\n",
}


def kernel(size: int, columns: int, first: int, **changes: str) -> str:
    """Copies `size` bytes to shared memory, runs `before` in all threads and `issue` in one, and stores D's columns."""
    part = PARTS | {name.replace("_", " "): text for name, text in changes.items()}
    assert part.keys() == PARTS.keys()
    stores = "".join(f"st.global.b32 [%rd2+{4 * i}], %v{i};" for i in range(columns))
    return f"""{HEADER}.visible .entry k(.param .u64 image, .param .u64 out)
{{{REGISTERS}
    mov.u32 %r0, %tid.x; shr.u32 %r1, %r0, 5; setp.ne.u32 %p1, %r1, 0; setp.ne.u32 %p2, %r0, 0;
    ld.param.u64 %rd0, [out]; ld.param.u64 %rd1, [image];
    @%p1 bra MADE;
    {ALLOC}
    @%p2 bra MADE;
    mbarrier.init.shared.b64 [t+16], 1; mbarrier.init.shared.b64 [t+24], 1;
    {part["init fence"]}
MADE:
    bar.sync 0;
    ld.shared.b32 %r4, [t]; shl.b32 %r5, %r1, 21; add.u32 %r5, %r4, %r5;
    {part["before"]}
    {part["handover"]}
    @%p2 bra ISSUED;
    mbarrier.arrive.expect_tx.shared.b64 _, [t+16], {size};
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%rd1], {size}, [t+16];
    {part["operand wait"]}
    {part["issue"]}
    {part["commit"]}
    {part["behind the commit"]}
ISSUED:
    {part["result wait"]}
    {part["fence behind the wait"]}
    add.u32 %r8, %r5, {first};
    {access("ld", "32x32b", columns, "%r8")}
    {part["load wait"]}
    mul.lo.u32 %r7, %r0, {4 * columns}; cvt.u64.u32 %rd2, %r7; add.u64 %rd2, %rd0, %rd2;
    {stores}
    {part["fence at the end"]}
    bar.sync 0;
    @%p1 bra KEEP;
    {part["fence before the end"]}
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r4, 512;
KEEP:
    ret;
}}"""


def run(image: np.ndarray, columns: int, first: int = 0, **options: Any) -> np.ndarray:
    """[128 lanes, columns] of tensor memory at the end."""
    size = -(-len(image) // 16) * 16
    padded = np.zeros(size, np.uint8)
    padded[: len(image)] = image
    out = np.zeros((128, columns), np.uint32)
    changes = {name: options.pop(name) for name in list(options) if name.replace("_", " ") in PARTS}
    run_ptx(kernel(size, columns, first, **changes), "k", block=128, args=[padded, out], **options)
    return out


# -- operands in shared memory


def k_major(rows: np.ndarray) -> np.ndarray:
    """Rows of up to 128 bytes under a swizzle of 128: chunk c of row r is the (c xor r % 8)th."""
    outer, width = rows.shape
    image = np.zeros((outer, 8, 16), np.uint8)
    for r in range(outer):
        for c in range(width // 16):
            image[r, c ^ r % 8] = rows[r, 16 * c : 16 * c + 16]
    return image.reshape(-1)


def mn_major(rows: np.ndarray) -> np.ndarray:
    """A row for each k, in panels of 128 bytes, each swizzled like `k_major`."""
    return np.concatenate([k_major(rows[:, at : at + 128]) for at in range(0, rows.shape[1], 128)])


def mn_major_words(rows: np.ndarray) -> np.ndarray:
    """As `mn_major`, for elements of 32 bits: unit u of 32 bytes of row k is the (u xor k % 4)th."""
    depth, width = rows.shape
    image = np.zeros((width // 128, depth, 4, 32), np.uint8)
    for panel in range(width // 128):
        for k in range(depth):
            for u in range(4):
                at = 128 * panel + 32 * u
                image[panel, k, u ^ k % 4] = rows[k, at : at + 32]
    return image.reshape(-1)


def cores(rows: np.ndarray) -> np.ndarray:
    """Without swizzle: blocks of 8 rows by 16 bytes, those along the rows first."""
    outer, width = rows.shape
    return rows.reshape(outer // 8, 8, width // 16, 16).transpose(2, 0, 1, 3).reshape(-1)


def descriptor(start: int, leading: int, stride: int, swizzle: int) -> int:
    return start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | 1 << 46 | swizzle << 61


def instruction(m: int, n: int, a: int = 0, b: int = 0, d: int = 1, ta: int = 0, tb: int = 0, more: int = 0) -> int:
    return d << 4 | a << 7 | b << 10 | ta << 15 | tb << 16 | n >> 3 << 17 | m >> 4 << 24 | more


def issue(
    a: str, b: int, word: int, kind: str = "f16", d: str = "%r4", adds: int = 1, extra: str = "", scales: str = ""
) -> str:
    return (
        f"setp.ne.u32 %p4, {adds}, 0; mov.b64 %rd4, {b}; mov.b32 %r10, {word};\n"
        f"tcgen05.mma.cta_group::1.kind::{kind}{extra} [{d}], {a}, %rd4, %r10, {scales}%p4;\n"
    )


def in_shared(word: int) -> tuple[str, str]:
    """(instructions, operand) of A in shared memory."""
    return f"mov.b64 %rd3, {word};", "%rd3"


def zeros(columns: int, value: str = "0") -> str:
    return "".join(f"mov.b32 %v{i}, {value};" for i in range(columns)) + access("st", "32x32b", columns) + WAIT_ST


FORMATS: dict[str, Any] = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2, "s8": np.int8, "u8": np.uint8, "e2m3": ml_dtypes.float6_e2m3fn,
    "e3m2": ml_dtypes.float6_e3m2fn, "e2m1": ml_dtypes.float4_e2m1fn,
}  # fmt: skip
#: kind, number of the type, K
KINDS = {
    "f16": ("f16", 0, 16), "bf16": ("f16", 1, 16), "tf32": ("tf32", 2, 8), "e4m3": ("f8f6f4", 0, 32),
    "e5m2": ("f8f6f4", 1, 32), "e2m3": ("f8f6f4", 3, 32), "e3m2": ("f8f6f4", 4, 32), "e2m1": ("f8f6f4", 5, 32),
    "s8": ("i8", 1, 32), "u8": ("i8", 0, 32),
}  # fmt: skip


def values(kind: str, shape: tuple[int, int], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(numbers, their bytes as they lie in shared memory along the last dimension)."""
    rng = np.random.default_rng(seed)
    if kind in ("e2m3", "e3m2", "e2m1"):
        bits = 4 if kind == "e2m1" else 6
        codes = rng.integers(0, 1 << bits, shape).astype(np.uint8)
        numbers = codes.view(FORMATS[kind]).astype(np.float64)
        spread = (codes[..., None] >> np.arange(bits)) & 1
        packed = np.packbits(spread.reshape(shape[0], -1, 16 * bits), axis=-1, bitorder="little")
        padded = np.zeros((*packed.shape[:2], 16), np.uint8)
        padded[..., : 2 * bits] = packed
        return numbers, padded.reshape(shape[0], -1)
    low, high = (0, 255) if kind == "u8" else (-8, 8)
    numbers = rng.integers(low, high, shape).astype(FORMATS[kind])
    return numbers.astype(np.float64), np.ascontiguousarray(numbers).view(np.uint8).reshape(shape[0], -1)


def product(
    kind: str, m: int, n: int, ta: bool, tb: bool, d: int | None = None, build: Callable = k_major, more: int = 0
) -> tuple[np.ndarray, str, np.ndarray]:
    """(image, instructions, A B) of one product."""
    family, number, k = KINDS[kind]
    a, a_bytes = values(kind, (k, m) if ta else (m, k), 1)
    b, b_bytes = values(kind, (k, n) if tb else (n, k), 2)
    parts, words = [], []
    at = 0
    for transposed, raw in ((ta, a_bytes), (tb, b_bytes)):
        words_apart = transposed and kind == "tf32"
        image = mn_major_words(raw) if words_apart else mn_major(raw) if transposed else build(raw)
        leading = k * 128 if transposed else 16
        if build is cores and not transposed:
            words.append(descriptor(at, len(raw) * 16, 128, 0))
        elif words_apart:
            words.append(descriptor(at, leading, 512, 1))
        else:
            words.append(descriptor(at, leading, 1024, 2))
        parts.append(np.concatenate([image, np.zeros(-len(image) % 1024, np.uint8)]))
        at += len(parts[-1])
    word = instruction(m, n, number, number, (2 if family == "i8" else 1) if d is None else d, ta, tb, more)
    before, operand = in_shared(words[0])
    text = before + issue(operand, words[1], word, family)
    return np.concatenate(parts), text, (a.T if ta else a) @ (b if tb else b.T)


def of_result(words: np.ndarray, kind: str) -> np.ndarray:
    if kind == "f16":
        return words.astype(np.uint16).view(np.float16)
    return words.view(np.int32 if kind == "s32" else np.float32)


CASES = [
    ("f16", 128, 64, False, False), ("f16", 128, 64, True, True), ("bf16", 128, 32, False, True),
    ("bf16", 64, 40, False, False), ("tf32", 128, 16, False, False), ("tf32", 128, 64, True, True),
    ("tf32", 64, 32, False, True), ("e4m3", 128, 128, True, False), ("e5m2", 64, 8, False, False),
    ("e2m3", 128, 32, False, False), ("e3m2", 64, 16, False, False), ("e2m1", 128, 128, True, True),
    ("s8", 128, 32, False, False), ("u8", 64, 32, False, False),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "m", "n", "ta", "tb"), CASES)
def test_a_product_is_added_to_what_is_in_tensor_memory(kind: str, m: int, n: int, ta: bool, tb: bool) -> None:
    image, text, wanted = product(kind, m, n, ta, tb)
    start = "3" if KINDS[kind][0] == "i8" else "0f40400000"
    result = "s32" if KINDS[kind][0] == "i8" else "f32"
    columns = 1 << (n - 1).bit_length()
    found = of_result(run(image, columns, before=zeros(columns, start), issue=text), result)
    assert (found[:, n:] == 3).all()
    found = found[:, :n]
    lanes = np.arange(m) if m == 128 else 32 * (np.arange(64) // 16) + np.arange(64) % 16
    assert np.array_equal(found[lanes], (wanted + 3).astype(found.dtype))
    assert (np.delete(found, lanes, axis=0) == 3).all()


def test_without_swizzle_operands_are_core_matrices() -> None:
    image, text, wanted = product("f16", 128, 32, False, False, build=cores)
    assert np.array_equal(of_result(run(image, 32, before=zeros(32), issue=text), "f32"), wanted.astype(np.float32))


def test_sums_in_f16_have_a_column_each_and_operands_may_be_negated() -> None:
    image, text, wanted = product("f16", 128, 32, False, False, d=0, more=1 << 13)
    found = run(image, 32, before=zeros(32), issue=text)
    assert (found >> 16 == 0).all()
    assert np.array_equal(of_result(found, "f16"), -wanted.astype(np.float16))


def test_integers_saturate_where_they_are_told_to() -> None:
    image, text, wanted = product("u8", 128, 16, False, False, more=1 << 3)
    found = of_result(run(image, 16, before=zeros(16, "0x7fffffff"), issue=text), "s32")
    assert wanted.max() > 0
    assert np.array_equal(found, np.clip(wanted + 0x7FFFFFFF, None, 0x7FFFFFFF).astype(np.int32))


def test_a_is_read_from_tensor_memory() -> None:
    """Two elements of 16 bits lie in a column, the lane is the row."""
    image, text, wanted = product("f16", 128, 32, False, False)
    a = values("f16", (128, 16), 1)[0]
    rows = np.ascontiguousarray(a.astype(np.float16)).view(np.uint32)  # [128, 8]
    tail = np.concatenate([image, rows.reshape(-1).view(np.uint8)])
    load = f"mul.lo.u32 %r9, %r0, 32; cvt.u64.u32 %rd5, %r9; add.u64 %rd5, %rd1, %rd5; add.u32 %r9, %r5, 64;{zeros(32)}"
    load += "".join(f"ld.global.b32 %v{i}, [%rd5+{len(image) + 4 * i}];" for i in range(8))
    load += access("st", "32x32b", 8, "%r9") + WAIT_ST
    moved = text.replace("%rd3, %rd4", "[%r9], %rd4")
    assert moved != text
    found = run(tail, 32, before=load, issue="add.u32 %r9, %r4, 64;" + moved)
    assert np.array_equal(of_result(found, "f32"), wanted.astype(np.float32))


def test_lanes_may_be_left_as_they_are_and_d_may_be_scaled() -> None:
    image, text, wanted = product("f16", 128, 32, False, False)
    keep = text.replace("%r10, %p4", "%r10, {%r11, %r12, %r12, %r12}, %p4, 2")
    assert keep != text
    body = zeros(32, "0f40800000")
    found = of_result(run(image, 32, before=body, issue="mov.b32 %r11, 0x10; mov.b32 %r12, 0;" + keep), "f32")
    full = (wanted + 1).astype(np.float32)
    full[4] = 4
    assert np.array_equal(found, full)


def test_products_on_one_accumulator_are_in_order() -> None:
    image, text, wanted = product("f16", 128, 32, False, False)
    first = text.replace("setp.ne.u32 %p4, 1, 0", "setp.ne.u32 %p4, 0, 0")
    for order in (None, 1, 2, 3):
        found = of_result(run(image, 32, issue=first + text + text, order=order), "f32")
        assert np.array_equal(found, 3 * wanted.astype(np.float32))


# -- rows that move, and what the collector keeps

SHIFT = "tcgen05.shift.cta_group::1.down [{at}];\n"
LANES = "".join(f"mov.b32 %v{i}, %r0;" for i in range(16)) + access("st", "32x32b", 16) + WAIT_ST


@pytest.mark.parametrize("order", [None, 1])
def test_a_shift_moves_the_rows_of_a_warp_down(order: int | None) -> None:
    """8 columns of lanes 64 to 94 go to the next lane; lane 64 and all others keep what they have."""
    text = "add.u32 %r9, %r4, 0x400004;\n" + SHIFT.format(at="%r9")
    found = run(np.zeros(16, np.uint8), 16, before=LANES, issue=text, order=order)
    wanted = np.repeat(np.arange(128, dtype=np.uint32)[:, None], 16, axis=1)
    wanted[65:96, 4:12] -= 1
    assert np.array_equal(found, wanted)


def test_what_is_in_order_with_a_shift() -> None:
    """Products before and behind it, or a copy of four rows behind it; no other copy, and no second shift."""
    image, text, _ = product("f16", 128, 32, False, False)
    raw = np.random.default_rng(4).integers(0, 256, (8, 32)).astype(np.uint8)
    image = np.concatenate([image, cores(raw)])
    word = descriptor(len(image) - raw.size, 128, 128, 0)
    copy = CP.format(word=word, column=0, shape="4x256b")
    shift = SHIFT.format(at="%r4")
    found = run(image, 32, before=zeros(32), issue=shift + copy)
    assert np.array_equal(found[:4, :8], raw[:4].view(np.uint32))
    for pair in (shift + text, text + shift):
        run(image, 32, before=zeros(32), issue=pair)
    wide = CP.format(word=descriptor(0, 128 * 16, 128, 0), column=0, shape="128x128b")
    for broken, message in ((shift + wide, "tcgen05.cp writes"), (shift + shift, "tcgen05.shift")):
        with pytest.raises(SimulationFault, match=message):
            run(image, 32, before=zeros(32), issue=broken)
    with pytest.raises(SimulationFault, match="which is no multiple of 32"):
        run(image, 32, before=zeros(32), issue="add.u32 %r9, %r4, 0x100000;\n" + SHIFT.format(at="%r9"))
    with pytest.raises(PtxError, match=r"goes .down"):
        run(image, 32, issue="tcgen05.shift.cta_group::1.up [%r4];")


def test_the_collector_keeps_a_for_further_products() -> None:
    """Hints change no result; what is used from the collector has to be there."""
    image, text, wanted = product("f16", 128, 32, False, False)

    def collecting(*hints: str, last: str = text) -> str:
        issued = [text] * (len(hints) - 1) + [last]
        return "".join(t.replace("kind::f16", f"kind::f16.collector::a::{h}") for t, h in zip(issued, hints))

    for hints in (("fill", "use", "lastuse"), ("fill", "fill", "use"), ("discard", "fill", "discard")):
        found = of_result(run(image, 32, before=zeros(32), issue=collecting(*hints)), "f32")
        assert np.array_equal(found, 3 * wanted.astype(np.float32))
    other = text.replace(in_shared(descriptor(0, 16, 1024, 2))[0], in_shared(descriptor(4096, 16, 1024, 2))[0])
    assert other != text
    for broken, message in (
        (collecting("use"), "holds none"),
        (collecting("fill", "lastuse", "use"), "holds none"),
        (collecting("fill", "use", last=other), "holds another one"),
    ):
        with pytest.raises(SimulationFault, match=message):
            run(np.concatenate([image, image]), 32, before=zeros(32), issue=broken)
    with pytest.raises(PtxError, match="the use of the collector is one of"):
        run(image, 32, issue=collecting("keep"))


# -- mistakes

IMAGE, TEXT, WANTED = product("f16", 128, 32, False, False)
NEXT = TEXT.replace("[%r4]", "[%r9]")
ELSEWHERE = TEXT.replace("%rd3, %rd4", "[%r9], %rd4")
WRONG_SHARED = "st.shared.b32 [s], %r0;"
#: The parts of a kernel that are changed, the kind of the fault, a part of its message.
BROKEN: dict[str, tuple[dict[str, str], str, str]] = {
    "operands not waited for": ({"operand_wait": ""}, "async", "an asynchronous copy has not completed"),
    "result not waited for": ({"result_wait": ""}, "async", "which the tcgen05.mma at PTX line"),
    "no commit": ({"commit": ""}, "deadlock", "which misses 1 arrivals"),
    "committed too early": (
        {"issue": "", "behind_the_commit": TEXT}, "async", "writes, before the mbarrier of a tcgen05.commit was waited",
    ),
    "operand written": ({"behind_the_commit": WRONG_SHARED}, "async", "to bytes that a tcgen05 instruction reads"),
    "store to D": (
        {"result_wait": "bar.sync 0;" + access("st", "32x32b", 4)}, "async",
        "writes lane 0, column",
    ),
    "freed early": (
        {"result_wait": "@%p1 bra OVER; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r4, 512; OVER:"}, "async",
        "frees columns lane 0",
    ),
    "another shape on D": (
        {"issue": TEXT + product("f16", 128, 16, False, False)[1]}, "async", "tcgen05.mma writes lane 0",
    ),
    "A from what a product writes": (
        {"issue": TEXT + "mov.b32 %r9, %r4;" + ELSEWHERE.replace("[%r4]", "[%r11]").replace("tcgen05.mma", "add.u32 "
         "%r11, %r4, 64; tcgen05.mma")}, "async", "tcgen05.mma reads lane 0",
    ),
    "D is what a product reads": (
        {"before": zeros(64), "issue": "add.u32 %r9, %r4, 32;" + ELSEWHERE + NEXT}, "async",
        "tcgen05.mma writes lane 0",
    ),
    "columns not allocated": (
        {"issue": "add.u32 %r9, %r4, 496;" + NEXT}, "out-of-bounds", "column 512 is outside of tensor memory",
    ),
    "D at a lane": (
        {"issue": "add.u32 %r9, %r4, 0x100000;" + NEXT}, "tensor-memory", "the address of D has lane 16",
    ),
    "A at another lane": (
        {"issue": "add.u32 %r9, %r4, 0x200040;" + ELSEWHERE}, "tensor-memory", "A begins at lane 32 of tensor memory",
    ),
    "operand not aligned": (
        {"issue": TEXT.replace("mov.b64 %rd3, ", "mov.b64 %rd3, 16+")}, "misaligned",
        "has to be aligned to 1024 bytes",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "kind", "message"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_product_is_reported(changes: dict[str, str], kind: str, message: str) -> None:
    parts = {"issue": TEXT, "before": zeros(32)} | changes
    for checks in ("full,-race", "basic"):
        with pytest.raises(SimulationFault) as caught:
            run(IMAGE, 32, checks=checks, **parts)
        assert (caught.value.kind, message in caught.value.message) == (kind, True), caught.value.message


_MEET = "bar.sync 0;"
BEFORE, AFTER = "tcgen05.fence::before_thread_sync;", "tcgen05.fence::after_thread_sync;"
USED_EARLY = ("add.u32 %v3, %v3, 1;", "mov.b32 %r20, %v3; add.u32 %r21, %r20, 1;", "st.global.b32 [%rd1], %v3;")


@pytest.mark.parametrize("use", USED_EARLY)
def test_registers_of_a_load_are_not_used_before_it_is_waited_for(use: str) -> None:
    with pytest.raises(SimulationFault) as caught:
        run(IMAGE, 32, before=zeros(32), issue=TEXT, load_wait=use + WAIT_LD)
    assert caught.value.kind == "async"
    assert "which the tcgen05.ld at PTX line" in caught.value.message, caught.value.message
    for order in (None, 1):
        run(IMAGE, 32, before=zeros(32), issue=TEXT, load_wait="mov.b32 %r20, %v3;" + WAIT_LD + use, order=order)
    run(IMAGE, 32, before=zeros(32), issue=TEXT, load_wait=use + WAIT_LD, checks="full,-tcgen05-load")


#: What is missing between accesses of tensor memory by several warps.
UNORDERED: dict[str, tuple[dict[str, str], str]] = {
    "no barrier behind a store": ({"handover": BEFORE + AFTER}, "race"),
    "no fence before a barrier": ({"handover": _MEET + AFTER}, "tcgen05-fence"),
    "no fence behind a barrier": ({"handover": BEFORE + _MEET}, "tcgen05-fence"),
    "no fence behind the mbarrier of a commit": ({"fence_behind_the_wait": ""}, "tcgen05-fence"),
    "no fence before columns are freed by another warp": ({"fence_at_the_end": ""}, "tcgen05-fence"),
    "no fence behind the barrier in front of that": ({"fence_before_the_end": ""}, "tcgen05-fence"),
}


@pytest.mark.parametrize(("changes", "kind"), UNORDERED.values(), ids=UNORDERED.keys())
def test_what_orders_the_accesses_of_several_warps_is_not_forgotten(changes: dict[str, str], kind: str) -> None:
    parts = {"issue": TEXT, "before": zeros(32)} | changes
    for order in (None, 1):
        with pytest.raises(SimulationFault) as caught:
            run(IMAGE, 32, order=order, **parts)
        assert caught.value.kind == kind, caught.value.message
    if kind == "tcgen05-fence":
        run(IMAGE, 32, checks="full,-tcgen05-fence", **parts)


@pytest.mark.parametrize("order", [None, 1, 2, 3, 4])
def test_what_is_not_broken_runs_in_every_schedule(order: int | None) -> None:
    found = of_result(run(IMAGE, 32, before=zeros(32), issue=TEXT, order=order), "f32")
    assert np.array_equal(found, WANTED.astype(np.float32))


def test_operands_are_read_when_the_product_completes() -> None:
    options: dict[str, Any] = {"before": zeros(32), "issue": TEXT, "checks": "off"}
    late = run(IMAGE, 32, behind_the_commit="mov.b32 %r9, 0; st.shared.v4.b32 [s], {%r9, %r9, %r9, %r9};", **options)
    assert not np.array_equal(of_result(late, "f32"), WANTED.astype(np.float32))


def test_shared_memory_written_by_threads_needs_a_proxy_fence() -> None:
    wrong = "st.shared.b32 [s], %r0;"
    for fence, fails in (("", True), ("fence.proxy.async.shared::cta;", False)):
        if fails:
            with pytest.raises(SimulationFault) as caught:
                run(IMAGE, 32, before=zeros(32), issue=wrong + fence + TEXT)
            assert caught.value.kind == "proxy-fence"
        else:
            run(IMAGE, 32, before=zeros(32), issue=wrong + fence + TEXT)


def test_the_mbarrier_of_a_commit_has_to_be_known() -> None:
    with pytest.raises(SimulationFault) as caught:
        run(IMAGE, 32, before=zeros(32), issue=TEXT, init_fence="", operand_wait="")
    assert caught.value.kind == "mbarrier-init"


WORD = instruction(128, 32)
#: (kind, instruction descriptor, part of the message)
FIELDS = [
    ("f16", WORD | 1 << 2, "sparsity (bit 2) of the instruction descriptor"),
    ("f16", WORD | 1 << 3, "saturation (bit 3)"),
    ("f16", WORD | 1 << 5, "the type of D (bits 4-5)"),
    (
        "f16",
        WORD | 2 << 7,
        "the type of A (bits 7-9) of the instruction descriptor 0x08080110 is 2: kind::f16 has 0 (f16)",
    ),
    ("f16", WORD | 5 << 10, "the type of B (bits 10-12)"),
    ("f16", (WORD | 1 << 7) & ~0x30, "products of bf16 are summed in f32"),
    ("f16", WORD | 1 << 6, "a reserved field (bit 6)"),
    ("f16", WORD | 1 << 30, "the shift of B (bits 30-31)"),
    ("f16", instruction(192, 32), "that is M = 192, and cta_group::1 has 64 and 128"),
    ("f16", instruction(128, 24), "that is N = 24, which kind::f16 does not have for M = 128"),
    ("tf32", instruction(128, 8, a=2, b=2), "that is N = 8, which kind::tf32 does not have for M = 128"),
    ("f16", instruction(64, 264), "that is N = 264"),
    ("i8", instruction(64, 40, d=2), "that is N = 40, which kind::i8 does not have for M = 64"),
    ("i8", instruction(128, 32, d=2) | 1 << 13, "integers are not negated"),
    ("tf32", WORD, "the type of A (bits 7-9) of the instruction descriptor 0x08080010 is 0: kind::tf32 has 2 (tf32)"),
    ("f8f6f4", WORD | 2 << 7, "0 (e4m3), 1 (e5m2), 3 (e2m3), 4 (e3m2), 5 (e2m1)"),
]


@pytest.mark.parametrize(("kind", "word", "message"), FIELDS)
def test_a_wrong_field_of_an_instruction_descriptor_is_named(kind: str, word: int, message: str) -> None:
    before, operand = in_shared(descriptor(0, 16, 1024, 2))
    with pytest.raises(SimulationFault) as caught:
        run(IMAGE, 32, before=zeros(32), issue=before + issue(operand, descriptor(16384, 16, 1024, 2), word, kind))
    assert (caught.value.kind, message in caught.value.message) == ("illegal-instruction", True), caught.value.message


GOOD = descriptor(0, 16, 1024, 2)
SHARED_FIELDS = [
    (GOOD & ~(1 << 46), "the version (bits 46-48) of the descriptor"),
    (GOOD | 1 << 49, "the base offset (bits 49-51)"),
    (GOOD | 1 << 52, "the mode of the leading dimension (bits 52-52)"),
    (GOOD | 1 << 55, "a fixed field (bits 53-60)"),
    (GOOD | 1 << 15, "a reserved field (bits 14-15)"),
    (GOOD | 1 << 61, "the swizzle (bits 61-63)"),
    (descriptor(0, 16, 512, 1), "for operands that are not contiguous along k"),
]


def test_words_that_are_not_contiguous_along_k_lie_under_one_swizzle() -> None:
    for swizzle, stride in ((0, 128), (2, 1024), (4, 512), (6, 256)):
        with pytest.raises(SimulationFault, match=r"tf32 that is not contiguous along k needs 1 \(128B by 32 bytes\)"):
            word = instruction(128, 32, 2, 2, tb=1)
            before, operand = in_shared(GOOD)
            right = descriptor(16384, 1024, stride, swizzle)
            run(IMAGE, 32, before=zeros(32), issue=before + issue(operand, right, word, "tf32"))


@pytest.mark.parametrize(("word", "message"), SHARED_FIELDS)
def test_a_wrong_field_of_a_matrix_descriptor_is_named(word: int, message: str) -> None:
    for a, b, which in ((word, GOOD, "of A"), (GOOD, word, "of B")):
        before, operand = in_shared(a)
        with pytest.raises(SimulationFault) as caught:
            run(IMAGE, 32, before=zeros(32), issue=before + issue(operand, b, WORD))
        assert caught.value.kind == "illegal-instruction"
        assert message in caught.value.message, caught.value.message
        assert which in caught.value.message or "contiguous" in message


REFUSED = [
    ("tcgen05.mma.ws.cta_group::1.kind::f16 [%r4], %rd3, %rd4, %r10, %p4;", "weight-stationary tcgen05.mma"),
    ("tcgen05.mma.sp.cta_group::1.kind::f16 [%r4], %rd3, %rd4, [%r4], %r10, %p4;", "sparse tcgen05.mma"),
    ("tcgen05.mma.cta_group::1.kind::f32 [%r4], %rd3, %rd4, %r10, %p4;", "needs a kind: f16, tf32"),
    ("tcgen05.mma.cta_group::1.kind::mxf4 [%r4], %rd3, %rd4, %r10, %p4;", "needs .block_scale"),
    ("tcgen05.mma.kind::f16 [%r4], %rd3, %rd4, %r10, %p4;", "needs .cta_group::1 or .cta_group::2"),
    ("tcgen05.mma.cta_group::1.kind::f16 [%r4], %rd3, %rd4, %r10, {%r1}, %p4;", "are 4 words, not 1"),
    ("tcgen05.mma.cta_group::1.kind::i8 [%r4], %rd3, %rd4, %r10, %p4, 3;", "for kind::f16 and kind::tf32"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_what_is_not_simulated_is_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(PtxError, match=message):
        run(IMAGE, 32, issue=text)


# -- scale factors, and copies to tensor memory

#: kind, the type of A and B, K, scale factors of a row, their type, and where in their words the factors are.
SCALED = [
    ("mxf8f6f4", "e4m3", 32, 1, "ue8m0", 0, 3), ("mxf8f6f4", "e2m1", 32, 1, "ue8m0", 2, 1),
    ("mxf4", "e2m1", 64, 2, "ue8m0", 2, 0), ("mxf4nvf4", "e2m1", 64, 2, "ue8m0", 0, 2),
    ("mxf4nvf4", "e2m1", 64, 4, "ue4m3", 0, 0), ("mxf4nvf4", "e2m1", 64, 4, "ue8m0", 0, 0),
]  # fmt: skip
_SCALES: dict[str, Any] = {"ue8m0": ml_dtypes.float8_e8m0fnu, "ue4m3": ml_dtypes.float8_e4m3fn}
CP = "mov.b64 %rd6, {word}; add.u32 %r12, %r4, {column}; tcgen05.cp.cta_group::1.{shape} [%r12], %rd6;\n"


def scale_chunks(codes: np.ndarray) -> np.ndarray:
    """[rows, 4] to what is copied: for each 128 rows, 32 lanes of 4 groups of rows by 4 factors."""
    return codes.reshape(-1, 4, 32, 4).transpose(0, 2, 1, 3).reshape(-1)


@pytest.mark.parametrize(("kind", "element", "k", "count", "scale", "a_id", "b_id"), SCALED)
def test_scale_factors_are_copied_to_tensor_memory_and_multiply_blocks(
    kind: str, element: str, k: int, count: int, scale: str, a_id: int, b_id: int
) -> None:
    rng = np.random.default_rng(3)
    n = 64
    packed = kind != "mxf8f6f4"
    sides = []
    for outer, seed in ((128, 1), (n, 2)):
        numbers, raw = values(element, (outer, k), seed)
        if packed:
            codes = np.random.default_rng(seed).integers(0, 16, (outer, k)).astype(np.uint8)
            numbers, raw = codes.view(FORMATS["e2m1"]).astype(np.float64), codes[:, ::2] | codes[:, 1::2] << 4
        low, high = (120, 134) if scale == "ue8m0" else (0x28, 0x48)
        sides.append((numbers, raw, rng.integers(low, high, (128, 4)).astype(np.uint8)))
    (a, a_raw, a_scale), (b, b_raw, b_scale) = sides
    image = np.concatenate([k_major(a_raw), k_major(b_raw), scale_chunks(a_scale), scale_chunks(b_scale)])
    at = 1024 * (128 + n) // 8
    copies = "".join(
        CP.format(word=descriptor(at + 512 * i, 16, 128, 0), column=64 + 4 * i, shape="32x128b.warpx4") for i in (0, 1)
    )
    number = 1 if packed else KINDS[element][1]
    word = n >> 3 << 17 | 1 << 27 | number << 7 | number << 10 | b_id << 4 | a_id << 29 | (scale == "ue8m0") << 23
    text = copies + f"add.u32 %r13, %r4, {64 | a_id << 30}; add.u32 %r14, %r4, {68 | b_id << 30};\n"
    text += in_shared(descriptor(0, 16, 1024, 2))[0]
    vector = {1: "block32", 2: "scale_vec::2X", 4: "block16"}[count]
    text += issue(
        "%rd3",
        descriptor(128 * 128, 16, 1024, 2),
        word,
        kind,
        extra=f".block_scale.{vector}",
        scales="[%r13], [%r14], ",
    )
    for order in (None, 1):
        found = of_result(run(image, n, before=zeros(n), issue=text, order=order), "f32")
        factors = [
            np.repeat(codes[:, first : first + count].view(_SCALES[scale]).astype(np.float64), k // count, axis=1)
            for codes, first in ((a_scale, a_id), (b_scale[:n], b_id))
        ]
        assert np.array_equal(found, ((a * factors[0]) @ (b * factors[1]).T).astype(np.float32))


def test_a_wrong_field_of_a_scaled_product_is_named() -> None:
    word = 32 >> 3 << 17 | 1 << 27 | 1 << 7 | 1 << 10 | 1 << 23
    wrong = [
        ("mxf4", word | 1 << 4, "block32", "the scale's id of B (bits 4-5)"),
        ("mxf4", word & ~(1 << 23), "block32", "the scales' type (bit 23)"),
        ("mxf4", word | 1 << 31, "block32", "K = 96 is not simulated"),
        ("mxf4", word | 1 << 15, "block32", "operands of kind::mxf4 are contiguous along k"),
        ("mxf4", word & ~(1 << 7), "block32", "kind::mxf4 has 1 (e2m1)"),
        ("mxf4nvf4", word | 3 << 27, "block16", "M (bits 27-28)"),
        ("mxf8f6f4", word | 2 << 29, "block32", "bits 30-31 of the address of the scales of A are 0"),
    ]
    for kind, bad, vector, message in wrong:
        text = in_shared(GOOD)[0] + issue(
            "%rd3", GOOD, bad, kind, extra=f".block_scale.{vector}", scales="[%r4], [%r4], "
        )
        with pytest.raises(SimulationFault) as caught:
            run(IMAGE, 32, before=zeros(32), issue=text)
        assert message in caught.value.message, caught.value.message
    with pytest.raises(PtxError, match="has 2 or 4 factors a row: say which"):
        run(IMAGE, 32, issue=issue("%rd3", GOOD, word, "mxf4nvf4", extra=".block_scale", scales="[%r4], [%r4], "))


COPIES: list[tuple[str, int, int, list[list[int]]]] = [
    ("128x256b", 128, 32, [[r] for r in range(128)]),
    ("128x128b", 128, 16, [[r] for r in range(128)]),
    ("4x256b", 4, 32, [[r] for r in range(4)]),
    ("64x128b.warpx2::02_13", 64, 16, [[r, r + 64] for r in range(64)]),
    ("64x128b.warpx2::01_23", 64, 16, [[r, r + 32] if r < 32 else [r + 32, r + 64] for r in range(64)]),
    ("32x128b.warpx4", 32, 16, [[r, r + 32, r + 64, r + 96] for r in range(32)]),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "rows", "width", "lanes"), COPIES, ids=[c[0] for c in COPIES])
def test_a_copy_fills_lanes_with_rows(shape: str, rows: int, width: int, lanes: list[list[int]]) -> None:
    raw = np.random.default_rng(4).integers(0, 256, (max(rows, 8), width)).astype(np.uint8)
    word = descriptor(0, len(raw) * 16, 128, 0)
    found = run(cores(raw), 8, before=zeros(8), issue=CP.format(word=word, column=0, shape=shape))
    wanted = np.zeros((128, 8), np.uint32)
    for row, places in enumerate(lanes):
        wanted[places, : width // 4] = raw[row].view(np.uint32)
    assert np.array_equal(found, wanted)


@pytest.mark.parametrize(
    ("packed", "kind", "bits", "first"), [("b6x16_p32", "e2m3", 6, 0), ("b4x16_p64", "e2m1", 4, 2)]
)
def test_a_copy_gives_small_elements_a_byte_each(packed: str, kind: str, bits: int, first: int) -> None:
    codes = np.random.default_rng(5).integers(0, 1 << bits, (128, 16)).astype(np.uint8)
    raw = np.zeros((128, 16), np.uint8)
    raw[:, : 2 * bits] = np.packbits(
        ((codes[..., None] >> np.arange(bits)) & 1).reshape(128, -1), axis=-1, bitorder="little"
    )
    word = descriptor(0, 128 * 16, 128, 0)
    found = run(cores(raw), 4, before=zeros(4), issue=CP.format(word=word, column=0, shape=f"128x128b.b8x16.{packed}"))
    assert np.array_equal(found.view(np.uint8), codes << first)


def test_a_copy_that_is_not_waited_for_is_reported() -> None:
    word = descriptor(0, 128 * 16, 128, 0)
    copy = CP.format(word=word, column=0, shape="128x128b")
    with pytest.raises(SimulationFault) as caught:
        run(IMAGE, 4, before=zeros(4), issue=copy, result_wait="", checks="full,-race")
    assert "which the tcgen05.cp at PTX line" in caught.value.message
    with pytest.raises(SimulationFault) as caught:
        run(IMAGE, 4, before=zeros(32), issue=TEXT + copy)
    assert "tcgen05.cp writes lane 0" in caught.value.message
    with pytest.raises(PtxError, match=r"needs .warpx4"):
        run(IMAGE, 4, issue=CP.format(word=word, column=0, shape="32x128b"))
