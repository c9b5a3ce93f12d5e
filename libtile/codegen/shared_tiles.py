# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tiles in shared memory: stores and loads through a layout of offsets, as wide as the layouts allow.

Where an element of a register lies is linear in the register's number and the thread's: `Offsets` holds that map.
From it follow

    vector accesses    the registers contain the lowest offset bits: up to 16 bytes in one ld or st
    matrix accesses    the lane and its registers are those of ldmatrix and stmatrix: 8 rows of 16 bytes, of which lane
                       l holds word l % 4 of row l / 4, or transposed (16-bit elements) column l / 4 of the rows
                       2 (l % 4) and 2 (l % 4) + 1 (PTX ISA, "Warp-level matrix load instruction: ldmatrix")

Elements take whole bytes (booleans and 4-bit types one). None of these functions contains a barrier.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from libtile.codegen.builder import KernelBuilder, Value, integer
from libtile.codegen.lanes import permute_by_thread
from libtile.codegen.llvm_types import (
    ELEMENT_TYPES,
    I32,
    SHARED,
    SHARED_POINTER,
    VOID,
    IntType,
    LlvmType,
    VectorType,
    registers_type,
)
from libtile.codegen.memory import as_integer, from_integer, from_storage, to_storage
from libtile.codegen.tile import (
    Tile,
    linear_of_bits,
    owner_predicate,
    representatives,
    unique_registers,
    warp_bits_of,
)
from libtile.layouts import LANE, OFFSET, REGISTER, WARP, LinearLayout, f2
from libtile.layouts.renaming import without_register_copies
from libtile.numerics.elements import STORAGE_BYTES
from libtile.support.diagnostics import LoweringError

MAX_BYTES = 16
WORD_BYTES = 4
SHARED_POINTER = SHARED_POINTER
LANE_BITS = 5


def normalized(layout: LinearLayout, warp_bits: int) -> LinearLayout:
    """The layout with register, lane and warp in this order, 5 lane bits and all warp bits; missing ones are copies."""
    zero = (0,) * len(layout.outs)
    bases = {
        REGISTER: layout.basis(REGISTER),
        LANE: [*layout.basis(LANE), *[zero] * (LANE_BITS - len(layout.basis(LANE)))],
        WARP: [*layout.basis(WARP), *[zero] * (warp_bits - len(layout.basis(WARP)))],
    }
    return LinearLayout.of(bases, {n: 1 << bits for n, bits in layout.outs})


@dataclass(frozen=True)
class Offsets:
    """Offsets in elements, at the bits of register, lane and warp numbers."""

    registers: tuple[int, ...]
    lanes: tuple[int, ...]
    warps: tuple[int, ...]

    @staticmethod
    @lru_cache(maxsize=1024)  # each way of access that is tried asks for them
    def of(layout: LinearLayout, shared: LinearLayout) -> Offsets:
        inverse = shared.inverse()
        names = layout.out_dims

        def offsets(in_dim: str) -> tuple[int, ...]:
            return tuple(inverse(**dict(zip(names, v)))[OFFSET] for v in layout.basis(in_dim))

        return Offsets(offsets(REGISTER), offsets(LANE), offsets(WARP))


VECTOR, MATRIX, TRANSPOSED = "vector", "matrix", "transposed"


@dataclass(frozen=True)
class SharedAccess:
    """An instruction between registers and shared memory: a vector's, or one of matrices as they are or transposed, and
    the bytes that a thread's one moves."""

    kind: str
    bytes: int


@dataclass(frozen=True)
class Access:
    """How a thread's registers are cut into accesses.

    Access number `w` covers, at the offset `starts[w]` from the thread's own, the registers `groups[w]`, in the order
    of their offsets (of words, for matrices: word by word). Registers are first permuted by the thread with `permute`.
    `lanes` and `warps` give the thread's offset; for matrices that of the row that it names.
    """

    kind: str  # "vector", "matrix" or "transposed"
    starts: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]
    lanes: tuple[int, ...]
    warps: tuple[int, ...]
    permute: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    conflicts: int = 0

    @property
    def instructions(self) -> int:
        return len(self.starts)

    def instruction(self, element_bytes: int) -> SharedAccess:
        """What one of them is."""
        return SharedAccess(self.kind, len(self.groups[0]) * element_bytes)

    def wavefronts(self, element_bytes: int) -> int:
        """Passes over the banks that all accesses of a warp take."""
        words = max(len(self.groups[0]) * element_bytes // WORD_BYTES, 1)
        return self.instructions * words * (1 + self.conflicts)


def _rest(offsets: Sequence[int], used: Sequence[int], low: int) -> list[tuple[int, int]]:
    """Register vectors that, with those in `used`, reach all registers: (register, offset), with the `low` offset
    bits (which `used[:low]` move one each) cleared."""
    found = []
    for unit in f2.complement(used, len(offsets)):
        register, offset = unit, f2.apply(offsets, unit)
        for i in range(low):
            if offset >> i & 1:
                register ^= used[i]
                offset ^= f2.apply(offsets, used[i])
        found.append((register, offset))
    return found


def _spans(vectors: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """All sums of (register, offset) vectors, the first vector fastest."""
    sums = [(0, 0)]
    for register, offset in vectors:
        sums += [(r ^ register, o ^ offset) for r, o in sums]
    return sums


def _row_conflicts(rows: Sequence[int], element_bytes: int) -> int:
    """Extra wavefronts of 8 accesses of 16 bytes whose offsets are spanned by `rows`."""
    places = {offset * element_bytes // MAX_BYTES for _, offset in _spans([(0, r) for r in rows])}
    banks = [p % 8 for p in places]
    return max(banks.count(x) for x in banks) - 1


def _vector_access(o: Offsets, element_bytes: int, most: int = MAX_BYTES) -> Access:
    low: list[int] = []
    while element_bytes << (len(low) + 1) <= most:
        combination = f2.solve(o.registers, 1 << len(low))
        if combination is None:
            break
        low.append(combination)
    mask = (1 << len(low)) - 1
    members = [f2.apply(low, x) for x in range(1 << len(low))]
    spans = _spans(_rest(o.registers, low, len(low)))
    lanes_at_once = {16: 3, 8: 4}.get(element_bytes << len(low), 5)
    words: dict[int, set[int]] = {}
    for _, offset in _spans([(0, v & ~mask) for v in o.lanes[:lanes_at_once]]):
        first = offset * element_bytes
        for byte in range(first - first % WORD_BYTES, first + (element_bytes << len(low)), WORD_BYTES):
            words.setdefault(byte // WORD_BYTES % 32, set()).add(byte // WORD_BYTES)
    return Access(
        "vector",
        tuple(offset for _, offset in spans),
        tuple(tuple(register ^ m for m in members) for register, _ in spans),
        tuple(v & ~mask for v in o.lanes),
        tuple(v & ~mask for v in o.warps),
        (tuple(f2.apply(low, v & mask) for v in o.lanes), tuple(f2.apply(low, v & mask) for v in o.warps)),
        max(map(len, words.values())) - 1,
    )


def _matrices(
    kind: str, o: Offsets, pair: Sequence[int], low: int, rows: Sequence[int], element_bytes: int
) -> Access | None:
    """Matrix accesses whose words are the registers `pair`, and whose rows differ by `rows`; `low` is the number of
    offset bits within a row. None when something else moves within rows."""
    used = list(pair)
    rest = _rest(o.registers, used, len(used) if kind == "matrix" else 0)
    mask = (1 << low) - 1
    if any(v & mask for v in [*rows, *o.warps, *(offset for _, offset in rest)]):
        return None
    count = min(len(rest), 2)
    words = [f2.apply(used, x) for x in range(1 << len(used))]
    inside = _spans(rest[:count])
    outside = _spans(rest[count:])
    groups = tuple(tuple(start ^ m ^ w for m, _ in inside for w in words) for start, _ in outside)
    lanes = [*rows, *(offset for _, offset in rest[:count]), *[0] * (2 - count)]
    conflicts = _row_conflicts(rows, element_bytes)
    return Access(kind, tuple(s for _, s in outside), groups, tuple(lanes), o.warps, conflicts=conflicts)


def _matrix_access(o: Offsets, element_bytes: int) -> Access | None:
    """ldmatrix or stmatrix as it is: a word of a row in each lane."""
    if element_bytes > WORD_BYTES or len(o.lanes) != LANE_BITS:
        return None
    pair_bits = (WORD_BYTES // element_bytes).bit_length() - 1
    pair = [f2.solve(o.registers, 1 << i) for i in range(pair_bits)]
    if None in pair or [o.lanes[0], o.lanes[1]] != [1 << pair_bits, 2 << pair_bits]:
        return None
    combinations = [p for p in pair if p is not None]
    return _matrices("matrix", o, combinations, pair_bits + 2, o.lanes[2:], element_bytes)


def _transposed_access(o: Offsets, element_bytes: int) -> Access | None:
    """ldmatrix.trans or stmatrix.trans: two rows' elements of a column in each lane; the choice without conflicts."""
    if element_bytes != 2 or list(o.lanes[2:]) != [1, 2, 4]:
        return None
    best: Access | None = None
    for i, offset in enumerate(o.registers):
        found = _matrices("transposed", o, [1 << i], 3, [offset, o.lanes[0], o.lanes[1]], element_bytes)
        if found is not None and (best is None or found.conflicts < best.conflicts):
            best = found
    return best


def accesses(
    layout: LinearLayout, shared: LinearLayout, element_bytes: int, matrices: bool, storing: bool, moved_bits: int = 0
) -> Access:
    """The best way to move registers of a (normalized) layout, none of which is a copy, to or from shared memory.

    `moved_bits` are offset bits (in elements) that change from run to run, so that no access may cover them.
    """
    o = Offsets.of(layout, shared)
    most = (moved_bits & -moved_bits or MAX_BYTES) * element_bytes
    matrices = matrices and most >= MAX_BYTES
    widths = [w for w in (16, 8, 4, 2, 1) if element_bytes <= w <= most]
    # The narrower of two equal ones is the same access: narrower ones pay where wide ones meet in banks.
    best = min((_vector_access(o, element_bytes, w) for w in widths), key=lambda a: _cost(a, element_bytes))
    if matrices and not (storing and layout.free_bits()[LANE]):
        for found in (_matrix_access(o, element_bytes), _transposed_access(o, element_bytes)):
            if found is not None and _cost(found, element_bytes) < _cost(best, element_bytes):
                best = found
    return best


def accesses_by(layout: LinearLayout, shared: LinearLayout, element_bytes: int, wanted: SharedAccess) -> Access:
    """How registers of a (normalized) layout, none of which is a copy, move by a given instruction. LoweringError where
    they cannot."""
    o = Offsets.of(layout, shared)
    found: Access | None
    if wanted.kind == VECTOR:
        found = _vector_access(o, element_bytes, wanted.bytes) if wanted.bytes >= element_bytes else None
    else:
        found = (_matrix_access if wanted.kind == MATRIX else _transposed_access)(o, element_bytes)
    if found is None or found.instruction(element_bytes) != wanted:
        raise LoweringError(f"cannot move its elements by {wanted.kind} accesses of {wanted.bytes} bytes of a thread")
    return found


def _cost(access: Access, element_bytes: int) -> int:
    return access.instructions + access.wavefronts(element_bytes)


# -- emission -------------------------------------------------------------------------------------------------------


class Addresses:
    """Byte addresses: a thread's offset, and constants that are xored to it."""

    def __init__(
        self,
        b: KernelBuilder,
        base: Value,
        lanes: Sequence[int],
        warps: Sequence[int],
        element_bytes: int,
        moved: Value | None = None,
    ):
        self.b, self.base, self.bytes = b, base, element_bytes
        lane_bytes, warp_bytes = ([v * element_bytes for v in vs] for vs in (lanes, warps))
        self.reach = 0
        for v in (*lane_bytes, *warp_bytes):
            self.reach |= v

        def make() -> Value:
            return b.xor(linear_of_bits(b, b.lane(), lane_bytes), linear_of_bits(b, b.warp(), warp_bytes))

        self.thread = b.special(f"offset {tuple(lane_bytes)} {tuple(warp_bytes)}", make)
        if moved is not None:
            self.thread = b.xor(self.thread, b.mul(moved, integer(I32, element_bytes)))
            self.reach = -1
        self.start = self._add(base, self.thread)

    def _add(self, pointer: Value, offset: Value) -> Value:
        if offset.constant == 0:
            return pointer
        return self.b.emit(SHARED_POINTER, f"getelementptr i8, {pointer.typed}, {offset.typed}")

    def at(self, start: int) -> Value:
        """The address at an offset, in elements."""
        constant = start * self.bytes
        if constant & self.reach:
            return self._add(self.base, self.b.xor(self.thread, integer(I32, constant)))
        return self._add(self.start, integer(I32, constant))


def _storage(b: KernelBuilder, tile: Tile) -> list[Value]:
    """Registers that are not copies, as integers of whole bytes."""
    registers = [tile.registers[r] for r in unique_registers(tile.layout)]
    if tile.element == "i1":
        return [to_storage(b, r, "i1") for r in registers]
    return [as_integer(b, r) for r in registers]


def _joined(b: KernelBuilder, parts: Sequence[Value], bits: int) -> list[Value]:
    """Integers side by side in integers of `bits` bits."""
    per = bits // parts[0].type.bits
    if per <= 1:
        return list(parts)
    return [b.cast("bitcast", b.vector(parts[i : i + per]), IntType(bits)) for i in range(0, len(parts), per)]


def _parted(b: KernelBuilder, values: Sequence[Value], bits: int) -> list[Value]:
    """The inverse of `_joined`."""
    per = values[0].type.bits // bits
    if per <= 1:
        return list(values)
    parts = []
    for value in values:
        vector = b.cast("bitcast", value, VectorType(per, IntType(bits)))
        parts += [b.extract(vector, i, IntType(bits)) for i in range(per)]
    return parts


def store_shared(
    b: KernelBuilder, base: Value, shared: LinearLayout, tile: Tile, chosen: SharedAccess | None = None
) -> None:
    """Store a tile, by a `chosen` instruction or the best; where threads hold copies the owner stores. `base` is
    aligned to 16 bytes. LoweringError where the instruction cannot do it."""
    layout = normalized(without_register_copies(tile.layout), warp_bits_of(b))
    size = STORAGE_BYTES[tile.element]
    if chosen is None:
        access = accesses(layout, shared, size, b.target.has("stmatrix"), storing=True)
    else:
        if chosen.kind != VECTOR and (not b.target.has("stmatrix") or layout.free_bits()[LANE]):
            raise LoweringError("cannot be stored by stmatrix, for the target's sake or that of copies in its lanes")
        access = accesses_by(layout, shared, size, chosen)
    values = permute_by_thread(b, _storage(b, tile), *access.permute)
    addresses = Addresses(b, base, access.lanes, access.warps, size)
    with b.when(owner_predicate(b, layout)):
        for start, group in zip(access.starts, access.groups):
            _store(b, access.kind, addresses.at(start), [values[r] for r in group], size)


def _store(b: KernelBuilder, kind: str, address: Value, values: Sequence[Value], size: int) -> None:
    total = size * len(values)
    parts = _joined(b, values, min(total, max(WORD_BYTES, size)) * 8)
    if kind == "vector":
        value = parts[0] if len(parts) == 1 else b.vector(parts)
        b.line(f"store {value.typed}, {address.typed}, align {total}")
        return
    trans = ".trans" if kind == "transposed" else ""
    b.call(f"llvm.nvvm.stmatrix.sync.aligned.m8n8.x{len(parts)}{trans}.b16.p{SHARED}", VOID, [address, *parts])


def load_shared(
    b: KernelBuilder,
    base: Value,
    shared: LinearLayout,
    target: LinearLayout,
    element: str,
    moved: Value | None = None,
    moved_bits: int = 0,
    chosen: SharedAccess | None = None,
) -> Tile:
    """Load a tile in a layout, by a `chosen` instruction or the best. `base` is aligned to 16 bytes; `moved` (an i32,
    in elements), of which only `moved_bits` can be set, is xored to all offsets. The target may be a part of the tile
    (not surjective). LoweringError where the instruction cannot do it."""
    layout = normalized(without_register_copies(target), warp_bits_of(b))
    size = STORAGE_BYTES[element]
    if chosen is None:
        access = accesses(layout, shared, size, b.target.has("ldmatrix"), storing=False, moved_bits=moved_bits)
    else:
        if chosen.kind != VECTOR and not b.target.has("ldmatrix"):
            raise LoweringError("cannot be loaded by ldmatrix, which the target does not have")
        access = accesses_by(layout, shared, size, chosen)
    addresses = Addresses(b, base, access.lanes, access.warps, size, moved)
    values: list[Value] = [integer(I32, 0)] * layout.in_size(REGISTER)
    for start, group in zip(access.starts, access.groups):
        for r, value in zip(group, _load(b, access.kind, addresses.at(start), len(group), size)):
            values[r] = value
    values = permute_by_thread(b, values, *access.permute)
    if element == "i1":
        made = [from_storage(b, v, "i1") for v in values]
    else:
        made = [from_integer(b, v, ELEMENT_TYPES[element]) for v in values]
    by_register = dict(zip(unique_registers(target), made))
    return Tile(target, element, tuple(by_register[r] for r in representatives(target)))


def _load(b: KernelBuilder, kind: str, address: Value, count: int, size: int) -> list[Value]:
    total = size * count
    bits = 8 * min(total, max(WORD_BYTES, size))
    words = total * 8 // bits
    type_: LlvmType
    if kind == "vector":
        type_ = IntType(bits) if words == 1 else VectorType(words, IntType(bits))
        value = b.emit(type_, f"load {type_}, {address.typed}, align {total}")
    else:
        type_ = registers_type(I32, words)
        trans = ".trans" if kind == "transposed" else ""
        name = f"llvm.nvvm.ldmatrix.sync.aligned.m8n8.x{words}{trans}.b16.p{SHARED}"
        value = b.call(name, type_, [address])
    parts = [value] if words == 1 else [b.extract(value, i, IntType(bits)) for i in range(words)]
    return _parted(b, parts, 8 * size)


load_operand_from_shared = load_shared
