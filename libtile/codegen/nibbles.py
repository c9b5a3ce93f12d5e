# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tiles of 4-bit elements, two of which share a byte in a tensor: the one at the even offset is the low half.

Where a thread's registers hold whole bytes, bytes move. A byte of which only one half lies within the tensor is read,
changed and written back by its one owner. Where the two halves of a byte may belong to different threads, as where
rows begin in the middle of one, a store clears and sets its bits atomically in the surrounding aligned 32-bit word:
PTX changes nothing smaller so. The other bits of that word, of which up to 24 are beyond the end of an array whose
size is no multiple of four bytes, stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from libtile.codegen.builder import KernelBuilder, Value, integer
from libtile.codegen.llvm_types import I8, I32, I64, VOID
from libtile.codegen.memory import CacheHint, Ordering, both, load_bits, store_bits
from libtile.codegen.stored_bits import from_storage
from libtile.codegen.tiled_views import Places

_FOUR = integer(I8, 4)


def _byte_address(b: KernelBuilder, places: Places, offset: Value) -> Value:
    """Address of the byte that holds the element at an offset."""
    base = places.tiled.view.base
    byte = b.cast("zext", b.binary("lshr", offset, integer(offset.type, 1)), I64)
    return b.offset(base, byte)


def _half_shift(b: KernelBuilder, offset: Value) -> Value:
    """The position of an element's low bit in its byte: 0 or 4, in the offset's type."""
    one = integer(offset.type, 1)
    return b.binary("shl", b.and_(offset, one), integer(offset.type, 2))


def load_packed(
    b: KernelBuilder,
    places: Places,
    group: Sequence[int],
    predicate: Value | None,
    padding: Value,
    ordering: Ordering,
    cache: CacheHint,
) -> list[Value]:
    """Load a group of registers that follow each other in memory."""
    element = places.tiled.view.element
    filling = (padding.constant or 0) & 15
    offset = places.offset(group[0])
    address = _byte_address(b, places, offset)
    count = max(len(group) // 2, 1)
    pair = [integer(I8, filling * 17)] * count
    loaded = load_bits(b, address, 1, count, predicate=predicate, defaults=pair, ordering=ordering, cache=cache)
    if len(group) == 1:
        shift = b.cast("trunc", _half_shift(b, offset), I8)
        halves = [b.binary("lshr", loaded[0], shift)]
    else:
        halves = [half for byte in loaded for half in (byte, b.binary("lshr", byte, _FOUR))]
    if len(group) == 2 and (second := places.mask(group[1])) is not None:
        # The tensor may end between the two: the byte is in memory, but its high half is padding.
        halves[1] = b.select(second, halves[1], integer(I8, filling))
    return [from_storage(b, half, element) for half in halves]


def store_packed(
    b: KernelBuilder,
    places: Places,
    group: Sequence[int],
    halves: Sequence[Value],
    accessed: Callable[[int], Value | None],
    ordering: Ordering,
    cache: CacheHint,
) -> None:
    """Store the halves of bytes that a group of registers holds, which follow each other in memory, as far as they lie
    within the tensor: `accessed` says so of a register."""
    first = accessed(group[0])
    if len(group) == 1:
        _store_half(b, places, group[0], halves[0], first, ordering)
        return
    address = _byte_address(b, places, places.offset(group[0]))
    data = [b.or_(low, b.binary("shl", high, _FOUR)) for low, high in zip(halves[::2], halves[1::2])]
    last = accessed(group[-1]) if len(group) == 2 else first
    store_bits(b, address, data, predicate=last, ordering=ordering, cache=cache)
    if len(group) == 2 and places.mask(group[1]) is not None:
        _store_low_half(b, address, halves[0], first, last, ordering, cache)


def _store_low_half(
    b: KernelBuilder,
    address: Value,
    half: Value,
    first: Value | None,
    second: Value | None,
    ordering: Ordering,
    cache: CacheHint,
) -> None:
    """Where only the first element of a byte lies within the tensor, keep the high half."""
    alone = both(b, first, b.not_(second) if second is not None else None)
    (old,) = load_bits(b, address, 1, 1, predicate=alone)
    merged = b.or_(b.and_(old, integer(I8, 0xF0)), half)
    store_bits(b, address, [merged], predicate=alone, ordering=ordering, cache=cache)


def _store_half(
    b: KernelBuilder, places: Places, register: int, half: Value, predicate: Value | None, ordering: Ordering
) -> None:
    """Clear and set four bits of the word around them. Nobody else touches these bits, so two steps do."""
    offset = places.offset(register)
    address = b.cast("ptrtoint", _byte_address(b, places, offset), I64)
    word = b.and_(address, integer(I64, -4))
    byte_shift = b.binary("shl", b.cast("trunc", b.and_(address, integer(I64, 3)), I32), integer(I32, 3))
    half_shift = b.cast("trunc", _half_shift(b, b.cast("zext", offset, I64)), I32)
    shift = b.add(byte_shift, half_shift)
    keep = b.xor(b.binary("shl", integer(I32, 15), shift), integer(I32, -1))
    bits = b.binary("shl", b.cast("zext", half, I32), shift)
    for operation, operand in (("and", keep), ("or", bits)):
        _reduce_word(b, operation, word, operand, predicate, ordering)


def _reduce_word(
    b: KernelBuilder, operation: str, address: Value, operand: Value, predicate: Value | None, ordering: Ordering
) -> None:
    strength = ordering.ptx or ".relaxed.gpu"
    text = f"red{strength}.global.{operation}.b32 [$0], $1;"
    arguments: Sequence[Value] = [address, operand]
    if predicate is None:
        b.asm(text, "l,r", VOID, arguments, memory=True)
    else:
        b.asm(f"@$2 {text}", "l,r,b", VOID, [*arguments, predicate], memory=True)
