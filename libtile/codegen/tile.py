# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A tile as one thread sees it: its layout, its element type, and the LLVM values in its registers.

The layout's `register` dimension numbers `registers`. Everything that depends on the thread (its lane and warp) is
computed from the layout's bases; everything that depends on the register alone is a constant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from libtile.codegen.builder import KernelBuilder, Value, integer
from libtile.codegen.llvm_types import ELEMENT_TYPES, I1, I32, LlvmType
from libtile.layouts import LANE, REGISTER, WARP, LinearLayout
from libtile.support.records import dataclass


@dataclass(frozen=True)
class Tile:
    """A tile value. `element` is the Tile IR keyword of the element type ("f32"), or "ptr"."""

    layout: LinearLayout
    element: str
    registers: tuple[Value, ...]

    def __post_init__(self) -> None:
        if len(self.registers) != self.layout.in_size(REGISTER):
            raise ValueError(f"{len(self.registers)} registers do not fit the layout's {self.layout.in_size(REGISTER)}")

    @property
    def shape(self) -> tuple[int, ...]:
        return self.layout.shape

    @property
    def llvm_type(self) -> LlvmType:
        return ELEMENT_TYPES[self.element]

    def with_registers(self, registers: Sequence[Value], element: str | None = None) -> Tile:
        """The same layout with other registers (and element type)."""
        return Tile(self.layout, element or self.element, tuple(registers))

    def map(self, function: Callable[[Value], Value], element: str | None = None) -> Tile:
        """Apply a function to every register."""
        return self.with_registers([function(r) for r in self.registers], element)


def map_tiles(function: Callable[..., Value], *tiles: Tile, element: str | None = None) -> Tile:
    """Apply a function to the registers of tiles of one layout. ValueError when the layouts differ."""
    first = tiles[0]
    for other in tiles[1:]:
        if other.layout != first.layout:
            raise ValueError(f"layouts differ:\n{first.layout}\n\n{other.layout}")
    return first.with_registers([function(*rs) for rs in zip(*(t.registers for t in tiles))], element)


def scalar(value: Value, element: str, layout: LinearLayout) -> Tile:
    """A tile that holds one value everywhere, in a layout."""
    return Tile(layout, element, (value,) * layout.in_size(REGISTER))


def linear_of_bits(b: KernelBuilder, value: Value, bases: Sequence[int]) -> Value:
    """The F2-linear function of an i32's bits with these values at single bits: the xor of the bases of its set bits.

    Runs of bits that move together by one distance are one mask and one shift.
    """
    runs: dict[int, int] = {}
    single: list[tuple[int, int]] = []
    for i, base in enumerate(bases):
        if base == 0:
            continue
        if base & (base - 1) == 0:
            shift = base.bit_length() - 1 - i
            runs[shift] = runs.get(shift, 0) | 1 << i
        else:
            single.append((i, base))
    result = integer(I32, 0)
    powers = [base for base in bases if base and base & (base - 1) == 0]
    disjoint = not single and len(set(powers)) == len(powers)
    for shift, mask in runs.items():
        part = b.and_(value, integer(I32, mask))
        if shift > 0:
            part = b.binary("shl", part, integer(I32, shift))
        elif shift < 0:
            part = b.binary("lshr", part, integer(I32, -shift))
        result = b.or_(result, part) if disjoint else b.xor(result, part)
    for i, base in single:
        if b.places:  # LLVM would know of a product only that it is below twice the base
            is_set = b.compare("ne", b.and_(value, integer(I32, 1 << i)), integer(I32, 0))
            moved = b.select(is_set, integer(I32, base), integer(I32, 0))
        else:
            bit = b.and_(b.binary("lshr", value, integer(I32, i)), integer(I32, 1))
            moved = b.mul(bit, integer(I32, base))
        result = b.xor(result, moved)
    return result


def thread_part(b: KernelBuilder, layout: LinearLayout, out_dim: int) -> Value:
    """What the thread's lane and warp contribute to the index along an output dimension (an i32)."""
    lane = [v[out_dim] for v in layout.basis(LANE)]
    warp = [v[out_dim] for v in layout.basis(WARP)]

    def make() -> Value:
        part = linear_of_bits(b, b.lane(), lane)
        return b.xor(part, linear_of_bits(b, b.warp(), warp))

    return b.thread_value(f"part {tuple(lane)} {tuple(warp)}", make)


def index(b: KernelBuilder, layout: LinearLayout, register: int, out_dim: int) -> Value:
    """The index along an output dimension of the element in a register (an i32)."""
    offset = layout(register=register)[layout.out_dims[out_dim]]
    part = thread_part(b, layout, out_dim)
    if offset == 0:
        return part
    reach = 0
    for in_dim in (LANE, WARP):
        for vector in layout.basis(in_dim):
            reach |= vector[out_dim]
    if reach & offset:
        return b.xor(part, integer(I32, offset))
    return (
        b.binary("or disjoint", part, integer(I32, offset))
        if part.constant is None
        else b.add(part, integer(I32, offset))
    )


def owner_predicate(b: KernelBuilder, layout: LinearLayout) -> Value | None:
    """Whether this thread is the one that acts for its elements, where others hold copies; None when there are none.

    Stores and atomics are done under it.
    """
    free = layout.free_bits()
    lane, warp = free.get(LANE, 0), free.get(WARP, 0)
    numbers = (1 << (b.threads // b.target.warp_size - 1).bit_length()) - 1
    warp_mask = warp | (-1 << len(layout.basis(WARP)) & numbers)  # warps that the layout does not know hold copies
    if not lane and not warp_mask:
        return None

    def make() -> Value:
        condition = integer(I1, 1)
        for value, mask in ((b.lane(), lane), (b.warp(), warp_mask)):
            if mask:
                zero = b.compare("eq", b.and_(value, integer(I32, mask)), integer(I32, 0))
                condition = b.and_(condition, zero)
        return condition

    return b.special(f"owner {lane} {warp_mask}", make)


def warp_bits_of(b: KernelBuilder) -> int:
    """How many bits the warp's number has in a kernel."""
    return max(b.threads // b.target.warp_size, 1).bit_length() - 1
