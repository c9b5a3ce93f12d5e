# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tcgen05: tensor memory, and products into it by one thread (PTX ISA, "TensorCore 5th Generation Family").

An address of tensor memory is an i32: the lane in its upper half, the column in the lower one. What is issued goes on
by itself; a barrier object that `commit` names says that it has ended.
"""

from __future__ import annotations

from collections.abc import Sequence

from libtile.codegen.builder import KernelBuilder, SharedBuffer, Value, integer
from libtile.codegen.llvm_types import I32, I64, VOID, StructType, registers_type

LANE_SHIFT = 16
"""Of the lane in an address."""
_REGISTERS_TOGETHER = 32
"""Of a thread in one load or store, as most that ptxas places well beside others."""


def allocate(b: KernelBuilder, columns: int, slot: SharedBuffer, ctas: int = 1) -> Value:
    """The first warp allocates so many columns, and all threads get the address, by way of 4 bytes of shared memory.
    All threads of the block come here; of a pair of CTAs those of both, which get the same address."""
    pointer = b.shared_pointer(slot)
    with b.when(b.compare("eq", b.warp(), integer(I32, 0))):
        b.asm(
            f"tcgen05.alloc.cta_group::{ctas}.sync.aligned.shared::cta.b32 [$0], {columns};", "r", VOID,
            [b.cast("ptrtoint", pointer, I32)], memory=True, convergent=True,
        )  # fmt: skip
        permit = f"tcgen05.relinquish_alloc_permit.cta_group::{ctas}.sync.aligned;"
        b.asm(permit, "", VOID, memory=True, convergent=True)
    fence_before(b)
    b.barrier()
    fence_after(b)
    return b.emit(I32, f"load i32, {pointer.typed}, align 4")


def deallocate(b: KernelBuilder, address: Value, columns: int, ctas: int = 1) -> None:
    """The first warp gives the columns back, when all threads of the block have come here."""
    fence_before(b)
    b.barrier()
    fence_after(b)
    with b.when(b.compare("eq", b.warp(), integer(I32, 0))):
        b.asm(
            f"tcgen05.dealloc.cta_group::{ctas}.sync.aligned.b32 $0, {columns};", "r", VOID, [address],
            memory=True, convergent=True,
        )  # fmt: skip


def fence_before(b: KernelBuilder) -> None:
    """What this thread has done with tensor memory comes before the barrier that follows."""
    b.asm("tcgen05.fence::before_thread_sync;", "", VOID, memory=True)


def fence_after(b: KernelBuilder) -> None:
    """What this thread does with tensor memory comes after the barrier before."""
    b.asm("tcgen05.fence::after_thread_sync;", "", VOID, memory=True)


def multiply(
    b: KernelBuilder, kind: str, result: Value, left: Value, right: Value, instruction: int, add: Value, ctas: int = 1
) -> None:
    """Issue one product of operands by their descriptors (i64), or of a left one by its address in tensor memory (i32):
    to the result, or in place of it where `add` (an i32) is 0. `instruction` is the instruction descriptor. One of a
    pair of CTAs multiplies for both, whose operands and results lie at the same places."""
    given, constraint = ("[$1]", "r") if left.type == I32 else ("$1", "l")
    b.asm(
        "{ .reg .pred p; setp.ne.b32 p, $4, 0; "
        f"tcgen05.mma.cta_group::{ctas}.kind::{kind} [$0], {given}, $2, $3, p; }}",
        f"r,{constraint},l,r,r", VOID, [result, left, right, integer(I32, instruction), add],
        memory=True, convergent=True,
    )  # fmt: skip


def multiply_scaled(
    b: KernelBuilder, kind: str, block: int, result: Value, operands: tuple[Value, Value],
    factors: tuple[Value, Value], instruction: int, add: Value,
) -> None:  # fmt: skip
    """Issue one product of operands by their descriptors (i64), with the factors of blocks of `block` elements along k
    at addresses in tensor memory (i32); otherwise as `multiply`."""
    b.asm(
        f"{{ .reg .pred p; setp.ne.b32 p, $6, 0; tcgen05.mma.cta_group::1.kind::{kind}.block_scale.block{block} [$0], "
        "$1, $2, $3, [$4], [$5], p; }",
        "r,l,l,r,r,r,r", VOID, [result, *operands, integer(I32, instruction), *factors, add],
        memory=True, convergent=True,
    )  # fmt: skip


def copy_factors(b: KernelBuilder, address: Value, descriptor: Value) -> None:
    """Issue the copy of 512 bytes of scale factors from shared memory, by their descriptor (i64), to four columns of
    tensor memory from an address (i32) on, for each quarter of the lanes."""
    b.asm(
        "tcgen05.cp.cta_group::1.32x128b.warpx4 [$0], $1;", "r,l", VOID, [address, descriptor],
        memory=True, convergent=True,
    )  # fmt: skip


def opaque(b: KernelBuilder, descriptor: Value) -> Value:
    """A descriptor of which nothing is known: its steps are then 64-bit additions to what stays in uniform registers,
    and none of them is kept in others across a loop."""
    return b.asm("mov.b64 $0, $1;", "=l,l", I64, [descriptor], memory=True)


def commit(b: KernelBuilder, barrier: Value, ctas: int = 1) -> None:
    """A barrier object gets one arrival when all that this thread has issued has ended; so does the one at the same
    place in the other CTA of a pair."""
    if ctas > 1:
        b.asm(
            "{ .reg .b16 m; mov.b16 m, 3; tcgen05.commit.cta_group::2.mbarrier::arrive::one"
            ".shared::cluster.multicast::cluster.b64 [$0], m; }", "r", VOID,
            [b.cast("ptrtoint", barrier, I32)], memory=True, convergent=True,
        )  # fmt: skip
        return
    b.asm(
        "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [$0];", "r", VOID,
        [b.cast("ptrtoint", barrier, I32)], memory=True, convergent=True,
    )  # fmt: skip


def load_fragments(b: KernelBuilder, address: Value, count: int) -> list[Value]:
    """Load `count` fragments of 16 lanes and 8 columns each, side by side from an address on: four i32 of a thread for
    each. They are there behind `wait_loads`; all threads of the warp come here."""
    return _load(b, "16x256b", 4, 8, address, count)


def load_rows(b: KernelBuilder, address: Value, count: int, split: int = 0) -> list[Value]:
    """Load `count` columns of a lane to each thread, from an address on, an i32 for each. Where there is a `split`, the
    rows lie in 16 lanes: threads from 16 on have every other so many columns of those of thread - 16. The columns are
    there behind `wait_loads`; all threads of the warp come here."""
    if not split:
        return _load(b, "32x32b", 1, 1, address, count)
    return _load(b, "16x32bx2", 1, 2, address, count // 2, split)


def _load(
    b: KernelBuilder, shape: str, each: int, columns: int, address: Value, count: int, split: int = 0
) -> list[Value]:
    """Loads of a shape which gives a thread `each` registers for so many columns, `count` times; with a `split`, so
    many times at a time."""
    loaded: list[Value] = []
    most, behind = split or _REGISTERS_TOGETHER // each, f", {split}" if split else ""
    for first in range(0, count, most):
        together = min(most, count - first)
        registers = each * together
        names = ", ".join(f"${i}" for i in range(registers))
        made = b.asm(
            f"tcgen05.ld.sync.aligned.{shape}.x{together}.b32 {{{names}}}, [${registers}]{behind};",
            ",".join(["=r"] * registers + ["r"]), registers_type(I32, registers),
            [b.add(address, integer(I32, columns * first))], memory=True, convergent=True,
        )  # fmt: skip
        loaded += [b.extract(made, i, I32) for i in range(registers)]
    return loaded


def store_fragments(b: KernelBuilder, address: Value, words: Sequence[Value]) -> None:
    """Store fragments of 16 lanes and 8 columns each, four i32 of a thread for each, side by side from an address on.
    They are there behind `wait_stores`; all threads of the warp come here."""
    _store(b, "16x256b", 4, 8, address, words)


def store_rows(b: KernelBuilder, address: Value, words: Sequence[Value], split: int = 0) -> None:
    """Store an i32 for each column of a lane, from an address on; with a `split` as `load_rows` has it. They are there
    behind `wait_stores`; all threads of the warp come here."""
    if not split:
        _store(b, "32x32b", 1, 1, address, words)
    else:
        _store(b, "16x32bx2", 1, 2, address, words, split)


def _store(
    b: KernelBuilder, shape: str, each: int, columns: int, address: Value, words: Sequence[Value], split: int = 0
) -> None:
    """Stores of a shape which takes `each` registers of a thread for so many columns; with a `split`, so many registers
    at a time."""
    most, halves = split or _REGISTERS_TOGETHER, f"{split}, " if split else ""
    for first in range(0, len(words), most):
        given = words[first : first + most]
        names = ", ".join(f"${i + 1}" for i in range(len(given)))
        place = b.add(address, integer(I32, first // each * columns))
        b.asm(
            f"tcgen05.st.sync.aligned.{shape}.x{len(given) // each}.b32 [$0], {halves}{{{names}}};",
            ",".join(["r"] * (len(given) + 1)), VOID, [place, *given], memory=True, convergent=True,
        )  # fmt: skip


def wait_stores(b: KernelBuilder) -> None:
    """Wait for this thread's stores: what it loads behind that is what they stored."""
    b.asm("tcgen05.wait::st.sync.aligned;", "", VOID, memory=True, convergent=True)


def wait_loads(b: KernelBuilder, values: Sequence[Value]) -> list[Value]:
    """Wait for this thread's loads. What they loaded passes through, so that no use moves before it."""
    constraints = ["=r"] * len(values) + [str(i) for i in range(len(values))]
    result = I32 if len(values) == 1 else StructType((I32,) * len(values))
    made = b.asm("tcgen05.wait::ld.sync.aligned;", ",".join(constraints), result, values, memory=True, convergent=True)
    return [made] if len(values) == 1 else [b.extract(made, i, I32) for i in range(len(values))]
