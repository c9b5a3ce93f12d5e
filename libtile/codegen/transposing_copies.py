# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Copies within shared memory that make another dimension the dense one (`libtile.atoms.transposing_copies`)."""

from __future__ import annotations

from collections.abc import Sequence

from libtile.atoms.transposing_copies import OTHER_WORD, SELECTOR, SELECTOR_BITS, Side, Transposition
from libtile.codegen.builder import KernelBuilder, Value, integer
from libtile.codegen.llvm_types import I32, SHARED, SHARED_POINTER, VOID, VectorType, registers_type
from libtile.codegen.tile import linear_of_bits
from libtile.layouts.shared_access import TRANSPOSED

_PATTERN = 1024
"""Bytes of the widest swizzle's pattern, to which places in shared memory are aligned."""
_AT_ONCE = 4
"""Instructions that load before what they gave is stored: the assembler moves no load in front of a store."""
_WORDS = 4
"""32-bit words of a chunk, and matrices of an instruction."""


def transpose(b: KernelBuilder, source: Value, destination: Value, how: Transposition, element_bytes: int) -> None:
    """Copy a tile between places in shared memory, each aligned to 1024 bytes. Threads do not meet."""
    sides = (how.source, source), (how.destination, destination)
    loads, stores = (_Chunks(b, base, side, element_bytes) for side, base in sides)
    matrices = how.loads.kind == TRANSPOSED
    load, store = (_load_bytes, _store_bytes) if matrices else (_load_words, _store_words)
    at_once = _AT_ONCE if matrices else 1
    numbers = range(len(how.source.starts))
    for first in range(0, len(numbers), at_once):
        some = numbers[first : first + at_once]
        for number, words in [(number, load(b, loads.of(number))) for number in some]:
            store(b, stores.of(number), words)


class _Chunks:
    """The addresses of a thread's chunks. What changes within the pattern of a swizzle is xored to an address that a
    loop computes anew for each stage: else what is xored would be kept in registers for all of them."""

    def __init__(self, b: KernelBuilder, base: Value, side: Side, element_bytes: int):
        self.b, self.side, self.bytes = b, side, element_bytes
        lanes, warps = ([v * element_bytes for v in vs] for vs in (side.lanes, side.warps))
        self.reach = 0
        for v in (*lanes, *warps):
            self.reach |= v

        self.base = base
        # Not at the head of the kernel, where other agents would have to hold it.
        self.thread = b.xor(linear_of_bits(b, b.lane(), lanes), linear_of_bits(b, b.warp(), warps))
        self.start = b.cast("ptrtoint", b.offset(base, self.thread), I32)
        self.within: dict[int, Value] = {}

    def of(self, number: int) -> list[Value]:
        """Of those of a block."""
        return [self._at((self.side.starts[number] ^ part) * self.bytes) for part in self.side.parts]

    def _at(self, offset: int) -> Value:
        b, low = self.b, offset % _PATTERN
        high = offset - low
        if high & self.reach:
            return b.offset(self.base, b.xor(self.thread, integer(I32, offset)))
        if low not in self.within:
            self.within[low] = b.cast("inttoptr", b.xor(self.start, integer(I32, low)), SHARED_POINTER)
        pointer = self.within[low]
        if not high:
            return pointer
        return b.offset(pointer, integer(I32, high))


def _load_bytes(b: KernelBuilder, addresses: Sequence[Value]) -> list[Value]:
    """4 matrices of 8 rows of 16 bytes, as words of neighbours along the dimension that was not the dense one."""
    name = f"llvm.nvvm.ldmatrix.sync.aligned.m8n8.x{_WORDS}.trans.b16.p{SHARED}"
    made = b.call(name, registers_type(I32, _WORDS), addresses)
    return [b.extract(made, i, I32) for i in range(_WORDS)]


def _store_bytes(b: KernelBuilder, addresses: Sequence[Value], words: Sequence[Value]) -> None:
    joined = [
        b.call("llvm.nvvm.prmt", I32, [*words[pair : pair + 2], selector])
        for pair in range(0, _WORDS, 2)
        for selector in _selectors(b)
    ]
    b.call(f"llvm.nvvm.stmatrix.sync.aligned.m8n8.x{_WORDS}.b16.p{SHARED}", VOID, [*addresses, *joined])


def _selectors(b: KernelBuilder) -> tuple[Value, Value]:
    """What `prmt` selects for the two words of a lane."""

    one = b.xor(linear_of_bits(b, b.lane(), SELECTOR_BITS), integer(I32, SELECTOR))
    return one, b.xor(one, integer(I32, OTHER_WORD))


def _load_words(b: KernelBuilder, addresses: Sequence[Value]) -> list[Value]:
    """A block of 4 x 4 words, chunk by chunk."""
    type_ = VectorType(_WORDS, I32)
    rows = [b.emit(type_, f"load {type_}, {address.typed}, align 16") for address in addresses]
    return [b.extract(row, i, I32) for row in rows for i in range(_WORDS)]


def _store_words(b: KernelBuilder, addresses: Sequence[Value], words: Sequence[Value]) -> None:
    for number, address in enumerate(addresses):
        b.line(f"store {b.vector(words[number::_WORDS]).typed}, {address.typed}, align 16")
