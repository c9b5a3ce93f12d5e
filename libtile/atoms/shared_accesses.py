# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Accesses between registers and shared memory: which there are, what they cost, and the layouts that suit them.

Where an element of a register lies is linear in the register's number and the thread's: `Offsets` holds that map.
From it follow

    vector accesses    the registers contain the lowest offset bits: up to 16 bytes in one ld or st
    matrix accesses    the lane and its registers are those of ldmatrix and stmatrix: 8 rows of 16 bytes, of which lane
                       l holds word l % 4 of row l / 4, or transposed (16-bit elements) column l / 4 of the rows
                       2 (l % 4) and 2 (l % 4) + 1 (PTX ISA, "Warp-level matrix load instruction: ldmatrix"); bytes are
                       transposed from 16 rows of 16, of which it has columns l / 4 and l / 4 + 8 of the rows 4 (l % 4)
                       to 4 (l % 4) + 3

Elements take whole bytes (booleans and 4-bit types one).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import combinations, permutations

from libtile.layouts import LANE, OFFSET, REGISTER, WARP, LinearLayout, f2
from libtile.layouts.convert import BANKS, conflict_free_shared, shared_for
from libtile.layouts.renaming import without_register_copies
from libtile.layouts.shared_access import MATRIX, VECTOR, Matrices, SharedAccess
from libtile.support.diagnostics import LoweringError
from libtile.support.records import dataclass
from libtile.targets import Target

MAX_BYTES = 16
WORD_BYTES = 4
WORD_BITS = WORD_BYTES.bit_length() - 1
LANE_BITS = 5
WAVE_BITS = 3
"""Lanes, as bits, whose rows of 16 bytes go over the banks together."""


def matrix_loads(gpu: Target) -> Matrices:
    """The instructions of matrices that a target loads by."""
    return Matrices(gpu.has("ldmatrix"), gpu.has("ldmatrix_bytes"))


def matrix_stores(gpu: Target) -> Matrices:
    """The instructions of matrices that a target stores by."""
    return Matrices(gpu.has("stmatrix"))


def normalized(layout: LinearLayout, warp_bits: int) -> LinearLayout:
    """The layout with register, lane and warp in this order, 5 lane bits and all warp bits; missing ones are copies."""
    zero = (0,) * len(layout.outs)
    bases = {
        REGISTER: layout.basis(REGISTER),
        LANE: [*layout.basis(LANE), *[zero] * (LANE_BITS - len(layout.basis(LANE)))],
        WARP: [*layout.basis(WARP), *[zero] * (warp_bits - len(layout.basis(WARP)))],
    }
    return LinearLayout.of(bases, {n: 1 << bits for n, bits in layout.outs})


def reduced(layout: LinearLayout, warp_bits: int) -> LinearLayout:
    """A layout without copies in registers, with all lanes and warps."""
    return normalized(without_register_copies(layout), warp_bits)


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


@dataclass(frozen=True)
class Access:
    """How a thread's registers are cut into accesses.

    Access number `w` covers, at the offset `starts[w]` from the thread's own, the registers `groups[w]`, in the order
    of their offsets (of words, for matrices: word by word). Registers are first permuted by the thread with `permute`.
    `lanes` and `warps` give the thread's offset; for matrices that of the row that it names. `swapped` registers are
    selected for the banks' sake.
    """

    kind: str  # "vector", "matrix" or "transposed"
    starts: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]
    lanes: tuple[int, ...]
    warps: tuple[int, ...]
    permute: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    conflicts: int = 0
    swapped: int = 0

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
    rest = _rest(o.registers, low, len(low))
    spans = _spans(rest)
    size = element_bytes << len(low)
    lanes = [v & ~mask for v in o.lanes]
    turned = [f2.apply(low, v & mask) for v in o.lanes]
    swapped = 0
    conflicts = _vector_conflicts(lanes, element_bytes, size)
    if conflicts:
        chosen = _spread(lanes, rest, element_bytes, size)
        moved = [v ^ offset for v, (_, offset) in zip(lanes, chosen)]
        if (left := _vector_conflicts(moved, element_bytes, size)) < conflicts:
            lanes, conflicts = moved, left
            turned = [t ^ register for t, (register, _) in zip(turned, chosen)]
            swapped = f2.rank([register for register, _ in chosen]) << len(o.registers)
    return Access(
        "vector",
        tuple(offset for _, offset in spans),
        tuple(tuple(register ^ m for m in members) for register, _ in spans),
        tuple(lanes),
        tuple(v & ~mask for v in o.warps),
        (tuple(turned), tuple(f2.apply(low, v & mask) for v in o.warps)),
        conflicts,
        swapped,
    )


def _lanes_at_once(access_bytes: int) -> int:
    """Bits of the lanes whose accesses of so many bytes go over the banks together."""
    return {16: 3, 8: 4}.get(access_bytes, LANE_BITS)


def _vector_conflicts(lanes: Sequence[int], element_bytes: int, access_bytes: int) -> int:
    """Extra wavefronts of accesses at the offsets of lanes: how many of their words lie in each bank, but for one."""
    inside = [1 << i for i in range((access_bytes // WORD_BYTES).bit_length() - 1)]
    words = [v * element_bytes // WORD_BYTES for v in lanes[: _lanes_at_once(access_bytes)]]
    return (1 << f2.rank([*inside, *words]) - f2.rank([*inside, *(w % BANKS for w in words)])) - 1


def _spread(
    lanes: Sequence[int], rest: Sequence[tuple[int, int]], element_bytes: int, access_bytes: int
) -> list[tuple[int, int]]:
    """For each bit of the lane the (register, offset) that lanes with that bit access earlier or later than others, so
    that those of one wavefront meet in fewer banks; (0, 0) for none. Products' 32-bit results are stored into the
    swizzled tiles of TMA so: rows 2n and 2n + 1 lie in the same banks there."""

    def bank(offset: int) -> int:
        return offset * element_bytes // WORD_BYTES % BANKS

    chosen = [(0, 0)] * len(lanes)
    if access_bytes < WORD_BYTES:
        return chosen
    used = f2.Basis([])
    meeting = [i for i, v in enumerate(lanes[: _lanes_at_once(access_bytes)]) if not used.insert(bank(v)) and v]
    for i in meeting:
        for register, offset in rest:
            if used.insert(bank(lanes[i] ^ offset)):
                chosen[i] = register, offset
                break
    return chosen


def _matrices(
    kind: str, o: Offsets, pair: Sequence[int], low: int, rows: Sequence[int], element_bytes: int
) -> Access | None:
    """Matrix accesses whose words are the registers `pair`, and whose rows, each of which a lane names, differ by
    `rows`; `low` is the number of offset bits within a row. None when something else moves within rows."""
    used = list(pair)
    rest = _rest(o.registers, used, len(used) if kind == "matrix" else 0)
    mask = (1 << low) - 1
    if any(v & mask for v in [*rows, *o.warps, *(offset for _, offset in rest)]):
        return None
    free = LANE_BITS - len(rows)
    count = min(len(rest), free)
    words = [f2.apply(used, x) for x in range(1 << len(used))]
    inside = _spans(rest[:count])
    outside = _spans(rest[count:])
    groups = tuple(tuple(start ^ m ^ w for m, _ in inside for w in words) for start, _ in outside)
    lanes = [*rows, *(offset for _, offset in rest[:count]), *[0] * (free - count)]
    conflicts = _row_conflicts(rows[:WAVE_BITS], element_bytes)
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
    """ldmatrix.trans or stmatrix.trans: elements of a column in each lane, of two rows, or bytes of four; the choice
    without conflicts, which bytes are not transposed with."""
    if element_bytes > 2 or list(o.lanes[2:]) != [1, 2, 4]:
        return None
    columns = [] if element_bytes == 2 else [f2.solve(o.registers, 8)]  # a lane has bytes of two
    if None in columns:
        return None
    more = [c for c in columns if c is not None]
    best: Access | None = None
    for chosen in combinations(range(len(o.registers)), 2 // element_bytes):
        used = [*(1 << i for i in chosen), *more]
        if f2.rank(used) != len(used):
            continue
        rows = [*(o.registers[i] for i in chosen), *o.lanes[:2]]
        found = _matrices("transposed", o, used, 3 + len(more), rows, element_bytes)
        if found is not None and (best is None or found.conflicts < best.conflicts):
            best = found
    return None if best is not None and best.conflicts and element_bytes == 1 else best


@lru_cache(maxsize=1024)  # many layouts are tried, by one pass after the other
def accesses(
    layout: LinearLayout,
    shared: LinearLayout,
    element_bytes: int,
    matrices: Matrices,
    storing: bool,
    moved_bits: int = 0,
) -> Access:
    """The best way to move registers of a (normalized) layout, none of which is a copy, to or from shared memory.

    `moved_bits` are offset bits (in elements) that change from run to run, so that no access may cover them.
    """
    o = Offsets.of(layout, shared)
    most = (moved_bits & -moved_bits or MAX_BYTES) * element_bytes
    narrower = best = _vector_access(o, element_bytes, min(most, MAX_BYTES))
    # The narrower of two equal ones is the same access: narrower ones pay where wide ones meet in banks.
    while (best.conflicts or best.swapped) and (bytes_ := narrower.instruction(element_bytes).bytes) > element_bytes:
        narrower = _vector_access(o, element_bytes, bytes_ // 2)
        best = min(best, narrower, key=lambda a: _cost(a, element_bytes))
    if most >= MAX_BYTES and not (storing and layout.free_bits()[LANE]):
        kinds = [_matrix_access(o, element_bytes)] if matrices.rows else []
        if matrices.bytes if element_bytes == 1 else matrices.rows:
            kinds.append(_transposed_access(o, element_bytes))
        for found in kinds:
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
    return access.instructions + access.wavefronts(element_bytes) + access.swapped


# -- layouts of shared memory ----------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def shared_between(
    source: LinearLayout, target: LinearLayout, size: int, stores: Matrices, loads: Matrices
) -> LinearLayout:
    """The shared-memory layout for a round trip of elements of `size` bytes, between layouts without register copies
    that list the same dimensions, all lanes and all warps."""
    target = target.transpose_outs(source.out_dims)
    best, _ = conflict_free_shared(source, target, size)

    def cost(shared: LinearLayout) -> tuple[int, int]:
        """In wavefronts, and in all."""
        sides = ((source, stores, True), (target, loads, False))
        found = [accesses(layout, shared, size, matrices, storing) for layout, matrices, storing in sides]
        return sum(access.wavefronts(size) for access in found), sum(_cost(access, size) for access in found)

    wavefronts, lowest = cost(best)
    candidates = _candidates(source, target, size, stores, loads)
    for candidate in sorted(candidates, key=lambda c: c.least):
        if candidate.least >= lowest:
            break
        if not candidate.whole and (candidate.wavefronts >= wavefronts or not (size > 1 or candidate.transposes)):
            continue  # fewer instructions alone are not worth the places that they have to compute, and bytes of words
            # that are loaded at once take registers: block-scaled products on sm_120 have none to spare
        shared = candidate.shared(dict(zip(source.out_dims, source.shape)), size)
        passes, found = cost(shared)
        if found < lowest and (candidate.whole or passes < wavefronts):
            best, wavefronts, lowest = shared, passes, found
    return best


@dataclass(frozen=True)
class _Side:
    """How one side of an exchange moves rows: `held` of the lowest offset bits by one access, whose places differ by
    `lanes` within a wavefront; `instructions` and `wavefronts` of a warp, where none meet in banks."""

    lanes: list[int]
    held: int
    instructions: int
    wavefronts: int


@dataclass(frozen=True)
class _Candidate:
    """The lowest bits of the offsets in shared memory, and how both sides would move them."""

    vector: list[int]
    sides: tuple[_Side, _Side]
    transposes: bool = False
    """Whether one side transposes bytes, and the other one moves words."""

    @property
    def whole(self) -> bool:
        """Whether both sides move all of these bits by one access."""
        return all(side.held == len(self.vector) for side in self.sides)

    @property
    def wavefronts(self) -> int:
        """What both take where nothing meets in banks."""
        return sum(side.wavefronts for side in self.sides)

    @property
    def least(self) -> int:
        """The cost where nothing meets in banks."""
        return sum(side.instructions for side in self.sides) + self.wavefronts

    def shared(self, outs: dict[str, int], size: int) -> LinearLayout:
        lanes, held = [side.lanes for side in self.sides], [side.held for side in self.sides]
        return shared_for(outs, self.vector, lanes, size, held)


def _candidates(
    source: LinearLayout, target: LinearLayout, size: int, stores: Matrices, loads: Matrices
) -> Iterator[_Candidate]:
    """Rows of 16 bytes that matrix accesses of a side move, or its vectors of registers. The other side moves the same
    rows by matrices, too, or as much of them as its threads hold."""
    for layout, other, matrices, others in ((target, source, loads, stores), (source, target, stores, loads)):
        for vector, rows in _rows(layout, size, matrices):
            if f2.rank(vector) == len(vector):
                matching = [r for v, r in _rows(other, size, others) if v == vector]
                side = _by_matrices(other, matching[0], vector, size) if matching else _by_vectors(other, vector, size)
                transposes = size == 1 and vector[:3] == layout.columns([LANE])[2:] and side.held >= WORD_BITS
                yield _Candidate(vector, (_by_matrices(layout, rows, vector, size), side), transposes)
        registers = layout.columns([REGISTER])
        common = f2.intersection(registers, other.columns([REGISTER]))
        wide = f2.independent([*common, *registers])[: (MAX_BYTES // size).bit_length() - 1]
        yield _Candidate(wide, (_by_vectors(layout, wide, size), _by_vectors(other, wide, size)))


def _by_matrices(layout: LinearLayout, rows: list[int], vector: Sequence[int], size: int) -> _Side:
    words = max(layout.in_size(REGISTER) * size // WORD_BYTES, 1)
    return _Side(rows, len(vector), -(-words // 4), words)


def _by_vectors(layout: LinearLayout, vector: Sequence[int], size: int) -> _Side:
    """By as many of the lowest elements as a thread's registers hold."""
    own = f2.Basis(layout.columns([REGISTER]))
    held = next((i for i, v in enumerate(vector) if v not in own), len(vector))
    accesses = layout.in_size(REGISTER) >> held
    words = max((size << held) // WORD_BYTES, 1)
    return _Side(layout.columns([LANE])[: _lanes_at_once(size << held)], held, accesses, accesses * words)


def _rows(layout: LinearLayout, size: int, matrices: Matrices) -> list[tuple[list[int], list[int]]]:
    """(vector, rows) of matrix accesses by a layout: as it is, for every choice of registers, and transposed."""
    if size > WORD_BYTES or not matrices.rows:
        return []
    lanes, registers = layout.columns([LANE]), layout.columns([REGISTER])
    words = (WORD_BYTES // size).bit_length() - 1
    found = [([*chosen, *lanes[:2]], lanes[2:]) for chosen in permutations(registers[:6], words)]
    if size == 2:
        found += [(lanes[2:], [r, *lanes[:2]]) for r in registers[:6]]
    elif size == 1 and matrices.bytes:
        for column, *rows in permutations(registers[:6], 3):
            if rows == sorted(rows, key=registers.index):
                found.append(([*lanes[2:], column], [*rows, lanes[0]]))
    return found
