# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Copies from global to shared memory that run on while the thread does (PTX ISA, "cp.async")."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from libtile.layouts import LANE, OFFSET, WARP, LinearLayout
from libtile.layouts.builders import Swizzle, row_major, swizzled
from libtile.lowering.llvm.builder import KernelBuilder, Value, integer
from libtile.lowering.llvm.memory import register_groups
from libtile.lowering.llvm.tile import linear_of_bits, owner_predicate

CHUNK_BYTES = 16
PANEL_BYTES = 128


def operand_shared_layout(shape: Sequence[int], element_bytes: int, order: Sequence[int]) -> LinearLayout:
    """A matrix in shared memory, order[0] contiguous, with the 16-byte chunks of a row permuted by its number.

    Eight rows' chunks at one column then lie in different banks, which is what ldmatrix reads at once.
    """
    row_bytes = shape[order[0]] * element_bytes
    phases = min(8, row_bytes // CHUNK_BYTES)
    if phases < 2:
        return row_major(shape, order)
    per_phase = max(PANEL_BYTES // row_bytes, 1)
    return swizzled(shape, Swizzle(CHUNK_BYTES // element_bytes, per_phase, phases), order)


def _offset(shared: LinearLayout, layout: LinearLayout, vector: Sequence[int]) -> int:
    """The offset in elements of the element with an index."""
    return shared.inverse()(**dict(zip(layout.out_dims, vector)))[OFFSET]


def can_copy(shared: LinearLayout, layout: LinearLayout, dim: int, width: int) -> bool:
    """Whether a thread's groups of `width` elements along a dimension are aligned and contiguous in shared memory."""
    inverse = shared.inverse()
    units = inverse.basis(layout.out_dims[dim])[: width.bit_length() - 1]
    if any(v[0] != 1 << i for i, v in enumerate(units)):
        return False
    return all(len(group) == width for group in register_groups(layout, dim, width))


def copy_to_shared(
    b: KernelBuilder,
    base: Value,
    shared: LinearLayout,
    layout: LinearLayout,
    element_bytes: int,
    address: Callable[[int], Value],
    mask: Callable[[int], Value | None],
    dim: int,
    width: int,
) -> None:
    """Start the copies of a tile, `width` elements at once; what a mask leaves out becomes zero.

    `address` and `mask` give those of a register's element; `can_copy` must hold.
    """
    lanes = [_offset(shared, layout, v) * element_bytes for v in layout.basis(LANE)]
    warps = [_offset(shared, layout, v) * element_bytes for v in layout.basis(WARP)]
    thread = b.special(
        f"async {tuple(lanes)} {tuple(warps)}",
        lambda: b.xor(linear_of_bits(b, b.lane(), lanes), linear_of_bits(b, b.warp(), warps)),
    )
    size = width * element_bytes
    cache = "cg" if size == CHUNK_BYTES else "ca"
    with b.when(owner_predicate(b, layout)):
        for group in register_groups(layout, dim, width):
            constant = _offset(shared, layout, tuple(layout(register=group[0]).values())) * element_bytes
            place = b.emit(
                base.type, f"getelementptr i8, {base.typed}, {b.xor(thread, integer('i32', constant)).typed}"
            )
            inside = mask(group[0])
            taken = integer("i32", size)
            if inside is not None:
                taken = b.select(inside, taken, integer("i32", 0))
            where = b.cast("ptrtoint", place, "i32")
            b.asm(
                f"cp.async.{cache}.shared.global [$0], [$1], {size}, $2;",
                "r,l,r",
                "void",
                [where, address(group[0]), taken],
                side_effects=True,
                memory=True,
            )


def commit(b: KernelBuilder) -> None:
    """The copies started since the last commit are one group."""
    b.asm("cp.async.commit_group;", "", "void", side_effects=True, memory=True)


def wait(b: KernelBuilder, pending: int) -> None:
    """Wait until at most `pending` groups of this thread's copies are under way."""
    b.asm(f"cp.async.wait_group {pending};", "", "void", side_effects=True, memory=True)
