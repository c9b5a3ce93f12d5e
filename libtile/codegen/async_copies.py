# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Asynchronous copies from global to shared memory, of which a pipeline keeps several stages in flight.

A thread starts copies of 4, 8 or 16 bytes (`copy_to_shared_async`), closes a group (`commit_copies`), and later waits
until at most some of its groups are pending (`wait_copies`). A barrier after the wait lets other threads read what was
copied; a barrier before the next copy into the same place lets them finish (PTX ISA, "cp.async").
"""

from __future__ import annotations

from collections.abc import Callable

from libtile.atoms.cp_async import async_groups
from libtile.atoms.shared_accesses import Offsets, normalized
from libtile.codegen.builder import KernelBuilder, Value, integer
from libtile.codegen.llvm_types import I32, VOID
from libtile.codegen.shared_tiles import Addresses
from libtile.codegen.tile import owner_predicate, warp_bits_of
from libtile.layouts import LinearLayout, f2
from libtile.numerics.elements import STORAGE_BYTES


def copy_to_shared_async(
    b: KernelBuilder,
    base: Value,
    shared: LinearLayout,
    layout: LinearLayout,
    element: str,
    address: Callable[[int], Value],
    mask: Callable[[int], Value | None] | None = None,
    *,
    dim: int,
    width: int,
    count: Callable[[int], Value] | None = None,
) -> None:
    """Start copying a tile into the buffer at `base` (aligned to 128 bytes), `width` elements at a time along `dim`.

    `address` gives the global address of a register's element, `mask` whether it is there at all, which must be the
    same for a whole group; what is not becomes zero. Of a group only so many of the first elements are copied as
    `count`, an i32, says if it is given, and the others become zero. ValueError when `async_groups` is None.
    """
    groups = async_groups(shared, layout, element, dim, width)
    if groups is None:
        raise ValueError(f"no copies of {width} elements of {element} along dimension {dim} fit these layouts")
    size = STORAGE_BYTES[element]
    offsets = Offsets.of(normalized(layout, warp_bits_of(b)), shared)
    to = Addresses(b, base, offsets.lanes, offsets.warps, size)
    with b.when(owner_predicate(b, layout)):
        for group in groups:
            place = to.at(f2.apply(offsets.registers, group[0]))
            first, bytes_ = group[0], None
            if count is not None:
                bytes_ = b.mul(count(first), integer(I32, size))
            _copy(b, place, address(first), width * size, None if mask is None else mask(first), bytes_)


def _copy(b: KernelBuilder, to: Value, source: Value, size: int, mask: Value | None, most: Value | None) -> None:
    # Copies of 16 bytes go around the first-level cache: nobody else in the block reads the same bytes.
    name = f"llvm.nvvm.cp.async.{'cg' if size == 16 else 'ca'}.shared.global.{size}"
    if mask is None and most is None:
        b.call(name, VOID, [to, source])
        return
    moved = integer(I32, size) if most is None else most
    b.call(f"{name}.s", VOID, [to, source, moved if mask is None else b.select(mask, moved, integer(I32, 0))])


def commit_copies(b: KernelBuilder) -> None:
    """Close a group of the copies that this thread has started since the last one."""
    b.call("llvm.nvvm.cp.async.commit.group", VOID, [])


def wait_copies(b: KernelBuilder, pending: int) -> None:
    """Wait until at most `pending` of the thread's most recent groups are under way."""
    b.call("llvm.nvvm.cp.async.wait.group", VOID, [integer(I32, pending)])
