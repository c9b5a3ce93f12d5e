# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Moving registers about within a warp: shuffles, and permutations of a thread's registers that depend on the thread.

Values are integers of 1 to 64 bits. Shuffles move 32-bit words, so narrow registers that travel together are packed.
"""

from __future__ import annotations

from collections.abc import Sequence

from libtile.codegen.builder import KernelBuilder, Value, integer
from libtile.codegen.llvm_types import I32, IntType, VectorType
from libtile.codegen.stored_bits import join
from libtile.codegen.tile import linear_of_bits
from libtile.layouts import LANE, REGISTER, LinearLayout, f2
from libtile.layouts.convert import ShuffleRound, shuffle_rounds

_ALL_LANES = -1
_WORD_BITS = 32


def shuffle(b: KernelBuilder, value: Value, source: Value | int) -> Value:
    """An integer of up to 64 bits from another lane: lane `source`, or for a constant the lane that differs by it."""
    bits = value.type.bits
    if bits > _WORD_BITS:
        halves = b.cast("bitcast", value, VectorType(2, I32))
        moved = b.vector([_shuffle_word(b, b.extract(halves, i, I32), source) for i in range(2)])
        return b.cast("bitcast", moved, value.type)
    word = _shuffle_word(b, b.cast("zext", value, I32), source)
    return b.cast("trunc", word, value.type)


def _shuffle_word(b: KernelBuilder, word: Value, source: Value | int) -> Value:
    mode, lane = ("bfly", integer(I32, source)) if isinstance(source, int) else ("idx", source)
    arguments = [integer(I32, _ALL_LANES), word, lane, integer(I32, 31)]
    return b.call(f"llvm.nvvm.shfl.sync.{mode}.i32", I32, arguments)


def redux(b: KernelBuilder, value: Value, name: str) -> Value:
    """A 32-bit register of all lanes of the warp combined by an instruction: LLVM's name of it behind
    `llvm.nvvm.redux.sync.`."""
    return b.call(f"llvm.nvvm.redux.sync.{name}", value.type, [value, integer(I32, _ALL_LANES)])


def parity(b: KernelBuilder, lane_mask: int, warp_mask: int = 0) -> Value:
    """Whether an odd number of the masked bits of the lane and warp numbers is set."""

    def make() -> Value:
        masked = b.and_(b.lane(), integer(I32, lane_mask)) if lane_mask else integer(I32, 0)
        if warp_mask:
            # The warp's bits go above the lane's, so that one population count serves both.
            own = b.and_(b.warp(), integer(I32, warp_mask))
            masked = b.or_(b.binary("shl", own, integer(I32, 16)) if lane_mask else own, masked)
        if (lane_mask | warp_mask << 16).bit_count() > 1:
            masked = b.and_(b.call("llvm.ctpop.i32", I32, [masked]), integer(I32, 1))
        return b.compare("ne", masked, integer(I32, 0))

    return b.special(f"parity {lane_mask} {warp_mask}", make)


def permute_by_thread(
    b: KernelBuilder, values: Sequence[Value], lane_columns: Sequence[int], warp_columns: Sequence[int] = ()
) -> list[Value]:
    """values[r xor f(thread)] for every r, where f is linear with these values at the bits of lane and warp."""
    columns = [*lane_columns, *warp_columns]
    basis = f2.independent(columns)
    current = list(values)
    for position, vector in enumerate(basis):
        uses = [f2.solve(basis, c) for c in columns]
        mask = sum(1 << i for i, u in enumerate(uses) if u is not None and u >> position & 1)
        lanes = mask & ((1 << len(lane_columns)) - 1)
        odd = parity(b, lanes, mask >> len(lane_columns))
        current = [b.select(odd, current[r ^ vector], current[r]) for r in range(len(current))]
    return current


class _Packing:
    """Which registers travel in one word: cosets of `together` in the source, of the bits `bits` in the target."""

    def __init__(self, relation: LinearLayout, bits: Sequence[int]):
        register = [v[relation.out_dims.index(REGISTER)] for v in relation.basis(REGISTER)]
        lane = [v[relation.out_dims.index(REGISTER)] for v in relation.basis(LANE)]
        self.relation = relation
        self.bits = list(bits)
        self.rest = [i for i in range(len(register)) if i not in self.bits]
        self.together = [register[i] for i in self.bits]
        others = f2.independent([*(register[i] for i in self.rest), *lane])
        self.valid = f2.rank([*self.together, *others]) == len(self.together) + len(others)
        size = relation.out_size(REGISTER).bit_length() - 1
        self.apart = [*others, *f2.complement([*self.together, *others], size)]

    def reduced(self) -> LinearLayout:
        """The relation between words instead of registers."""
        out = self.relation.out_dims
        position, lane_position = out.index(REGISTER), out.index(LANE)

        def word(vector: Sequence[int]) -> tuple[int, int]:
            found = f2.solve([*self.together, *self.apart], vector[position])
            assert found is not None  # `together` and `apart` span all registers
            return found >> len(self.together), vector[lane_position]

        bases = {
            REGISTER: [word(self.relation.basis(REGISTER)[i]) for i in self.rest],
            LANE: [word(v) for v in self.relation.basis(LANE)],
        }
        return LinearLayout.of(bases, {REGISTER: 1 << len(self.apart), LANE: self.relation.out_size(LANE)})

    def members(self, word: int) -> list[int]:
        """The source registers of a word."""
        first = f2.apply(self.apart, word)
        return [first ^ f2.apply(self.together, x) for x in range(1 << len(self.together))]

    def place(self, register: int) -> tuple[int, int]:
        """(word, position in it) of a target register."""
        word = sum((register >> bit & 1) << k for k, bit in enumerate(self.rest))
        return word, sum((register >> bit & 1) << k for k, bit in enumerate(self.bits))


def _packings(relation: LinearLayout, most: int) -> list[_Packing]:
    """Ways to pack up to 2**most registers into words, the densest first; the last packs nothing."""
    lane_position = relation.out_dims.index(LANE)
    chosen: list[int] = []
    found = [_Packing(relation, chosen)]
    for bit, vector in enumerate(relation.basis(REGISTER)):
        if len(chosen) < most and not vector[lane_position]:
            packing = _Packing(relation, [*chosen, bit])
            if packing.valid:
                chosen.append(bit)
                found.append(packing)
    return found[::-1]


def shuffle_registers(b: KernelBuilder, values: Sequence[Value], relation: LinearLayout) -> list[Value]:
    """Registers of a target layout from those of a source by shuffles.

    `relation` maps target places to source places (inputs and outputs register and lane; the warp stays), and
    `libtile.layouts.convert.shuffle_rounds` has rounds for it. No two register bits of the target repeat each other.
    """
    bits = values[0].type.bits
    most = (_WORD_BITS // bits).bit_length() - 1 if bits < _WORD_BITS else 0
    for packing in _packings(relation, most):
        rounds = shuffle_rounds(packing.reduced())
        if rounds is not None:
            break
    else:
        raise ValueError("the relation has no shuffle rounds")
    per = 1 << len(packing.together)
    words = [
        join(b, [values[m] for m in packing.members(w)], bits) if per > 1 else values[packing.members(w)[0]]
        for w in range(1 << len(packing.apart))
    ]
    moved = _run_rounds(b, words, rounds)
    result = []
    for register in range(relation.in_size(REGISTER)):
        word, position = packing.place(register)
        value = moved[word]
        if position:
            value = b.binary("lshr", value, integer(value.type, bits * position))
        result.append(b.cast("trunc", value, IntType(bits)))
    return result


def _run_rounds(b: KernelBuilder, words: Sequence[Value], rounds: Sequence[ShuffleRound]) -> list[Value]:
    """Each lane first puts what it is to send in an order in which all lanes send the same register, and at the end
    puts what it has received in its own order."""
    first = rounds[0]
    sender = _sender(first)
    outgoing = permute_by_thread(b, words, sender)
    identity = all(v == 1 << i for i, v in enumerate(first.lane_of_lane))
    own_source = None if identity else linear_of_bits(b, b.lane(), first.lane_of_lane)
    received = []
    for step in rounds:
        value = outgoing[step.base_source ^ f2.apply(sender, step.base_lane)]
        if own_source is not None:
            value = shuffle(b, value, b.xor(own_source, integer(I32, step.base_lane)))
        elif step.base_lane:
            value = shuffle(b, value, step.base_lane)
        received.append(value)
    return permute_by_thread(b, received, first.target_of_lane)


def _sender(step: ShuffleRound) -> list[int]:
    """The register that a lane sends, as a linear function of its own number."""
    lanes = list(step.lane_of_lane)
    reached = f2.independent(lanes)
    basis = [*reached, *f2.complement(reached, len(lanes))]
    values = [step.source_of_lane[lanes.index(v)] for v in reached] + [0] * (len(basis) - len(reached))
    columns = []
    for i in range(len(lanes)):
        combination = f2.solve(basis, 1 << i)
        assert combination is not None  # the basis spans all lanes
        columns.append(f2.apply(values, combination))
    return columns
