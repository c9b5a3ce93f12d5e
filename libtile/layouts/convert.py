# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How to turn one register layout of a tile into another: nothing, register moves, shuffles, or shared memory.

All plans follow from `R = source^-1 . target`, the map from each place of the target to the place in the source that
holds its element (`target.convert_to(source)`):

    R is the identity                             nothing to do
    R keeps lane and warp                         moves between a thread's registers
    R keeps the warp                              shuffles, in rounds in which every lane sends one register
    otherwise                                     a round trip through shared memory

For shared memory a layout is computed that serves both sides without bank conflicts (section 5.4 of the paper named in
`linear.py`): elements that differ by a *segment* vector share a bank, so no two lanes of one access may differ by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from functools import lru_cache

from libtile.layouts import f2
from libtile.layouts.linear import LANE, OFFSET, REGISTER, WARP, LinearLayout
from libtile.support.records import dataclass

BANK_BYTES = 4
BANKS = 32
MAX_VECTOR_BYTES = 16


class Conversion(Enum):
    """The cheapest way to convert."""

    NONE = "none"
    REGISTERS = "registers"
    SHUFFLE = "shuffle"
    SHARED = "shared"


@dataclass(frozen=True)
class ShuffleRound:
    """One shuffle: lane l receives, for its register `target ^ select(l)`, register of lane `source_lane(l)`.

    The functions of the lane are linear; each is given by its values at the bits of the lane, and `base_*` is its value
    at lane 0.
    """

    base_target: int
    target_of_lane: tuple[int, ...]
    base_lane: int
    lane_of_lane: tuple[int, ...]
    base_source: int
    source_of_lane: tuple[int, ...]

    def target(self, lane: int) -> int:
        """The register that lane `lane` fills in this round."""
        return self.base_target ^ f2.apply(self.target_of_lane, lane)

    def source_lane(self, lane: int) -> int:
        """The lane that it reads from."""
        return self.base_lane ^ f2.apply(self.lane_of_lane, lane)

    def source(self, lane: int) -> int:
        """The register of that lane that holds the element."""
        return self.base_source ^ f2.apply(self.source_of_lane, lane)


@dataclass(frozen=True)
class Plan:
    """A conversion and what it takes: register moves, shuffle rounds, or the layout in shared memory."""

    kind: Conversion
    relation: LinearLayout
    """Target place -> source place."""
    rounds: tuple[ShuffleRound, ...] = ()
    shared: LinearLayout | None = None
    vector: int = 1
    """Elements that one shared-memory access of a thread moves."""

    def source_register(self, register: int) -> int:
        """Where a target register comes from, for plans that keep the lane."""
        return self.relation(register=register)[REGISTER]


def _columns(relation: LinearLayout, in_dim: str, out_dim: str) -> list[int]:
    position = relation.out_dims.index(out_dim)
    return [v[position] for v in relation.basis(in_dim)]


def _is_unit(columns: Sequence[int]) -> bool:
    return list(columns) == [1 << i for i in range(len(columns))]


def classify(relation: LinearLayout) -> Conversion:
    """The kind of conversion that a relation from target places to source places needs."""

    def only(in_dim: str, *out_dims: str) -> bool:
        return all(not any(_columns(relation, in_dim, o)) for o in relation.out_dims if o not in out_dims)

    warp_stays = only(REGISTER, REGISTER, LANE) and only(LANE, REGISTER, LANE) and only(WARP, WARP)
    if not (warp_stays and _is_unit(_columns(relation, WARP, WARP))):
        return Conversion.SHARED
    if not (only(REGISTER, REGISTER) and only(LANE, LANE) and _is_unit(_columns(relation, LANE, LANE))):
        return Conversion.SHUFFLE
    same = relation.in_size(REGISTER) == relation.out_size(REGISTER) and _is_unit(
        _columns(relation, REGISTER, REGISTER)
    )
    return Conversion.NONE if same else Conversion.REGISTERS


@lru_cache(maxsize=4096)
def needed(source: LinearLayout, target: LinearLayout) -> Conversion:
    """How far elements go from one register layout to another. ValueError when the layouts describe different tiles."""
    relation = target.convert_to(source)
    kind = classify(relation)
    return Conversion.SHARED if kind is Conversion.SHUFFLE and shuffle_rounds(relation) is None else kind


def shuffle_rounds(relation: LinearLayout) -> tuple[ShuffleRound, ...] | None:
    """Rounds that move every element by shuffles, or None when some lane would have to send two registers at once.

    In round k lane l fills register `k ^ A(l)`, with A chosen so that the lanes it makes all lanes read from differ,
    where they want different registers.
    """
    lane_from_register = _columns(relation, REGISTER, LANE)
    lane_from_lane = _columns(relation, LANE, LANE)
    reg_from_register = _columns(relation, REGISTER, REGISTER)
    reg_from_lane = _columns(relation, LANE, REGISTER)
    target_of_lane = _spread(list(zip(lane_from_lane, reg_from_lane)), list(zip(lane_from_register, reg_from_register)))
    lane_of_lane = tuple(
        own ^ f2.apply(lane_from_register, chosen) for own, chosen in zip(lane_from_lane, target_of_lane)
    )
    source_of_lane = tuple(
        own ^ f2.apply(reg_from_register, chosen) for own, chosen in zip(reg_from_lane, target_of_lane)
    )
    # Lanes that read from the same lane differ by the kernel; they must want the same register of it.
    if any(f2.apply(source_of_lane, vector) for vector in f2.kernel(lane_of_lane)):
        return None
    return tuple(
        ShuffleRound(
            k,
            tuple(target_of_lane),
            f2.apply(lane_from_register, k),
            lane_of_lane,
            f2.apply(reg_from_register, k),
            source_of_lane,
        )
        for k in range(relation.in_size(REGISTER))
    )


def _spread(lane_places: Sequence[tuple[int, int]], register_places: Sequence[tuple[int, int]]) -> list[int]:
    """For each lane bit a register vector A_i so that `lane_i ^ register(A_i)` are as independent as has to be. Places,
    of lane and register bits, are a lane and a register of it.

    Lanes that want the same register of one lane read it together: where they do, A would cost a choice between
    registers behind the shuffles for nothing.
    """
    lanes, places = f2.Basis(), f2.Basis()
    bits = max((register.bit_length() for _, register in (*lane_places, *register_places)), default=0)
    dependent = []
    chosen = [0] * len(lane_places)

    def insert(lane: int, register: int) -> bool:
        return lanes.insert(lane) and places.insert(lane << bits | register)

    for i, place in enumerate(lane_places):
        if not insert(*place):
            dependent.append(i)
    for i in dependent:
        lane, register = lane_places[i]
        if lane << bits | register in places:
            continue
        for bit, (of_lane, of_register) in enumerate(register_places):
            if insert(lane ^ of_lane, register ^ of_register):
                chosen[i] = 1 << bit
                break
    return chosen


def plan(source: LinearLayout, target: LinearLayout, element_bytes: int) -> Plan:
    """The cheapest conversion of a tile between two register layouts (inputs register, lane, warp).

    `element_bytes` is a power of two up to 16. ValueError when the layouts describe different tiles.
    """
    relation = target.convert_to(source)
    kind = classify(relation)
    if kind is Conversion.SHUFFLE:
        rounds = shuffle_rounds(relation)
        if rounds is not None:
            return Plan(kind, relation, rounds=rounds)
        kind = Conversion.SHARED
    if kind is Conversion.SHARED:
        shared, vector = conflict_free_shared(source, target.transpose_outs(source.out_dims), element_bytes)
        return Plan(kind, relation, shared=shared, vector=vector)
    return Plan(kind, relation)


# -- shared memory --------------------------------------------------------------------------------------------------


def lanes_at_once(vector_bytes: int) -> int:
    """Bits of the lanes that one wavefront serves: a warp's access of 8 or 16 bytes a lane takes 2 or 4 wavefronts."""
    return {16: 3, 8: 4}.get(vector_bytes, 5)


def conflict_free_shared(a: LinearLayout, b: LinearLayout, element_bytes: int) -> tuple[LinearLayout, int]:
    """A shared-memory layout (input `offset`, in elements) to write from layout `a` and read into layout `b`.

    Returns it with the number of elements that both sides can move at once. There are no bank conflicts whenever the
    tile's geometry allows it; `bank_conflicts` counts what is left.
    """
    most = max(MAX_VECTOR_BYTES // element_bytes, 1).bit_length() - 1
    vector = f2.intersection(a.columns([REGISTER]), b.columns([REGISTER]))[:most]
    vector_bytes = element_bytes << len(vector)
    at_once = lanes_at_once(vector_bytes)
    lanes = [layout.columns([LANE])[:at_once] for layout in (a, b)]
    outs = {n: a.out_size(n) for n in a.out_dims}
    return shared_for(outs, vector, lanes, element_bytes), 1 << len(vector)


def shared_for(
    outs: dict[str, int],
    vector: Sequence[int],
    lanes: Sequence[Sequence[int]],
    element_bytes: int,
    held: Sequence[int] = (),
) -> LinearLayout:
    """A shared-memory layout of a tile with output sizes `outs`, whose lowest offset bits are `vector` (flat indices).

    `lanes` lists, for each of the two kinds of access, the vectors by which the places of one wavefront differ, and
    `held` how many of the lowest bits one access covers (all of `vector`, if it says nothing); accesses of a wavefront
    meet in no bank whenever the geometry allows it.
    """
    bits = sum(size.bit_length() - 1 for size in outs.values())
    vector_bytes = element_bytes << len(vector)
    row_bits = min((BANKS * BANK_BYTES // element_bytes).bit_length() - 1, bits)
    segment_bits = bits - row_bits
    # Elements narrower than a bank share one: the vectors within a word count as part of every access.
    word_bits = max((BANK_BYTES // vector_bytes).bit_length() - 1, 0)
    candidates = [*f2.intersection(*lanes), *lanes[0], *lanes[1], *(1 << i for i in range(bits))]
    filling = f2.Basis(vector)
    word = [v for v in candidates if filling.insert(v)][:word_bits]
    lowest = [*vector, *word]
    in_word = max(BANK_BYTES // element_bytes, 1).bit_length() - 1
    covered = [lowest[: max(n, in_word)] for n in held] or [lowest] * len(lanes)
    segment = _avoid([f2.independent([*c, *ls]) for c, ls in zip(covered, lanes)], segment_bits, bits)
    filling = f2.Basis([*vector, *word, *segment])
    bank = [*word, *(v for v in [*lanes[0], *lanes[1]] if filling.insert(v))]
    bank += [1 << i for i in range(bits) if filling.insert(1 << i)]
    basis = [*vector, *bank, *segment]
    frame = LinearLayout.of({}, outs)
    return LinearLayout.of({OFFSET: [frame._unpack(v) for v in basis]}, outs)


def _avoid(spans: Sequence[Sequence[int]], count: int, bits: int) -> list[int]:
    """`count` independent vectors whose span meets each given span as little as possible.

    For two spans A and B: vectors outside of both, then sums of a vector only in A with one only in B.
    """
    a, b = spans
    chosen: list[int] = []
    avoid_a, avoid_b, own = f2.Basis(a), f2.Basis(b), f2.Basis()

    def take(vector: int) -> None:
        if len(chosen) < count and vector not in avoid_a and vector not in avoid_b and own.insert(vector):
            chosen.append(vector)
            avoid_a.insert(vector)
            avoid_b.insert(vector)

    for vector in f2.complement([*a, *b], bits):
        take(vector)
    common = f2.intersection(a, b)
    only_a = [v for v in a if v not in f2.Basis(common)]
    only_b = [v for v in b if v not in f2.Basis(common)]
    for va, vb in zip(only_a, only_b):
        take(va ^ vb)
    for va in only_a:
        for vb in only_b:
            take(va ^ vb)
    for i in range(bits):  # what is left conflicts: the geometry leaves no choice
        if len(chosen) < count and own.insert(1 << i):
            chosen.append(1 << i)
    return chosen


def bank_conflicts(registers: LinearLayout, shared: LinearLayout, element_bytes: int, vector: int = 1) -> int:
    """Extra wavefronts of a warp's access of `vector` elements a lane, at register 0 (linear: the same for all).

    0 means that the access takes no more wavefronts than its bytes need.
    """
    offsets = shared.inverse().transpose_ins(registers.out_dims)
    vector_bytes = element_bytes * vector
    lanes = min(registers.in_size(LANE), 1 << lanes_at_once(vector_bytes))
    words: dict[int, set[int]] = {}
    for lane in range(lanes):
        first = offsets(**registers(lane=lane))[OFFSET] * element_bytes
        for byte in range(first - first % BANK_BYTES, first + vector_bytes, BANK_BYTES):
            words.setdefault(byte // BANK_BYTES % BANKS, set()).add(byte // BANK_BYTES)
    return max(map(len, words.values())) - 1


def is_vectorised(registers: LinearLayout, shared: LinearLayout, vector: int) -> bool:
    """Whether each thread's registers fall into groups of `vector` that are consecutive in shared memory."""
    mine = f2.Basis(registers.columns([REGISTER]))
    ordered = shared.transpose_outs(registers.out_dims).columns([OFFSET])
    return all(column in mine for column in ordered[: vector.bit_length() - 1])
