# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Memory that is no operand: module-level variables, allocations of a tile block; and what orders grids and aliases.

An `alloca` comes from the device heap, as with the reference assembler: its pointer is then one to global memory, which
every load, store and atomic takes, and other tile blocks may use it when it is `global`. One thread asks for the
memory, and the block traps when there is none.
"""

from __future__ import annotations

from libtile.codegen import llvm_text, symbols
from libtile.codegen.builder import KernelBuilder, Value, integer
from libtile.codegen.control import if_else
from libtile.codegen.llvm_types import GENERIC_POINTER, GLOBAL_POINTER, I32, I64, VOID
from libtile.codegen.sharing import Handed, share_from_owner
from libtile.codegen.tile import Tile
from libtile.layouts import LANE, REGISTER, WARP, LinearLayout
from libtile.numerics.elements import STORAGE_BYTES
from libtile.support.records import dataclass

_HEAP_ALIGNMENT = 16
"""What the device heap guarantees (CUDA Programming Guide, "Dynamic Global Memory Allocation")."""


def define_global(
    b: KernelBuilder,
    name: str,
    element: str,
    data: bytes | int,
    *,
    alignment: int = 0,
    constant: bool = False,
    private: bool = False,
) -> Value:
    """A module-level array in global memory, given by its bytes as they lie in memory, or the number of its
    bytes where all are zero (Tile IR, "global").

    `alignment` 0 is the element's. A private one is invisible to the host and goes away when unused; a constant one
    is never written, so that LLVM may use its values.
    """
    align = max(alignment, STORAGE_BYTES[element])
    values = f"[{data} x i8] zeroinitializer" if isinstance(data, int) else llvm_text.byte_array(data)
    return b.add_global(symbols.global_name(name), values, align, constant=constant, private=private)


def get_global(b: KernelBuilder, name: str) -> Value:
    """A pointer to the first element of a global that `define_global` made (Tile IR, "get_global")."""
    return Value(GLOBAL_POINTER, llvm_text.symbol(symbols.global_name(name)))


@dataclass(frozen=True, slots=True)
class Allocation:
    """An alloca's memory: the aligned pointer, and what the heap gave, which goes back to it."""

    pointer: Value
    block: Value


def scalar_layout(b: KernelBuilder) -> LinearLayout:
    """The layout of a rank-0 tile: every thread holds it."""
    lanes = b.target.warp_size.bit_length() - 1
    warps = (b.threads // b.target.warp_size).bit_length() - 1
    return LinearLayout.of({REGISTER: [], LANE: [()] * lanes, WARP: [()] * warps}, {})


def _is_first_thread(b: KernelBuilder) -> Value:
    return b.special("first thread", lambda: b.compare("eq", b.thread_id(), integer(I32, 0)))


def alloca(b: KernelBuilder, element: str, count: int, alignment: int, handed: Handed) -> Allocation:
    """Memory for `count` elements, for the whole tile block (Tile IR, "alloca"): `free` it where its region ends. One
    thread asks for it; its address is `handed` out.

    All threads of the block must come here.
    """
    extra = max(alignment - _HEAP_ALIGNMENT, 0)
    size = min(max(count * STORAGE_BYTES[element], 1) + extra, (1 << 63) - 1)

    def ask() -> list[Value]:
        found = b.call("malloc", GENERIC_POINTER, [integer(I64, size)])
        address = b.cast("ptrtoint", found, I64)
        with b.when(b.compare("eq", address, integer(I64, 0))):
            trap(b)
        return [address]

    (address,) = if_else(b, _is_first_thread(b), ask, lambda: [integer(I64, 0)])
    if not isinstance(address, Value):
        raise TypeError("an address is one value")
    shared = share_from_owner(b, Tile(scalar_layout(b), "i64", (address,)), handed).registers[0]
    aligned = shared
    if extra:
        # The heap aligns to 16 already, so `extra` more bytes always hold an aligned start.
        aligned = b.and_(b.add(shared, integer(I64, extra)), integer(I64, -alignment))
    return Allocation(b.cast("inttoptr", aligned, GLOBAL_POINTER), shared)


def free(b: KernelBuilder, allocation: Allocation) -> None:
    """Give an allocation back after the block's last use of it. All threads of the block must come here."""
    b.barrier()
    with b.when(_is_first_thread(b)):
        b.call("free", VOID, [b.cast("inttoptr", allocation.block, GENERIC_POINTER)])


def trap(b: KernelBuilder) -> None:
    """End the kernel with an error."""
    b.asm("trap;", "", VOID, side_effects=True, memory=True)


def gdc_launch_dependents(b: KernelBuilder) -> None:
    """Let the grids that depend on this one begin (Tile IR, "gdc_launch_dependents_tko"); nothing on older targets."""
    if b.target.has("griddepcontrol"):
        b.asm("griddepcontrol.launch_dependents;", "", VOID, memory=True)


def gdc_wait(b: KernelBuilder) -> None:
    """Wait for the grids that this one depends on, and see their writes (Tile IR, "gdc_wait_tko").

    Every thread waits for itself; nothing on older targets.
    """
    if b.target.has("griddepcontrol"):
        b.asm("griddepcontrol.wait;", "", VOID, memory=True)


def fence_alias(b: KernelBuilder) -> None:
    """Order what the block did through one virtual address before what it does through another of the same memory
    (Tile IR, "memory_fence_alias_tko"; PTX ISA, "fence.proxy.alias"): each thread fences its own accesses, then the
    block meets."""
    b.asm("fence.proxy.alias;", "", VOID, memory=True)
    b.barrier()
