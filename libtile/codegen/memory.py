# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loads and stores through tiles of pointers.

The registers of a thread are cut into groups that lie next to each other in memory, as far as the caller's facts
(`Vector`) and the layout allow, and each group is one access of up to 16 bytes. A weak access without a mask is a plain
LLVM load or store; everything else is predicated PTX (PTX ISA, "ld", "st"), because LLVM has no predicated accesses,
nor PTX's scopes and cache operators.

Where several threads hold copies of an element, the owner stores it. A weak load is done by every holder, since nobody
else may write the location meanwhile; of a strong load they could see different values, so the owner loads and hands
out what it saw. An `Ordering` is that of each instruction: where the block meets, and where fences stand, the IR says.
"""

from __future__ import annotations

from collections.abc import Sequence

from libtile.codegen.builder import KernelBuilder, Value, integer
from libtile.codegen.llvm_types import (
    I32,
    VOID,
    IntType,
    VectorType,
    registers_type,
)
from libtile.codegen.sharing import Handed, share_from_owner
from libtile.codegen.stored_bits import from_storage, to_storage
from libtile.codegen.tile import Tile, owner_predicate
from libtile.ir.facts import Fact
from libtile.layouts import LinearLayout
from libtile.layouts.convert import Conversion
from libtile.layouts.registers import register_groups, representatives
from libtile.numerics.elements import STORAGE_BYTES
from libtile.support.records import dataclass, field

MAX_ACCESS_BYTES = 16

SCOPES = {"tl_blk": "cta", "device": "gpu", "sys": "sys"}
"""PTX's names of Tile IR's memory scopes."""


@dataclass(frozen=True, slots=True)
class Ordering:
    """Memory semantics and scope of an instruction, by Tile IR's keywords; a weak access has no scope."""

    semantics: str = "weak"
    scope: str | None = None

    @property
    def weak(self) -> bool:
        return self.semantics == "weak"

    @property
    def ptx_scope(self) -> str:
        return SCOPES[self.scope or "device"]

    @property
    def ptx(self) -> str:
        """The qualifiers of an instruction, e.g. `.acquire.gpu`; empty for a weak access."""
        return "" if self.weak else f".{self.semantics}.{self.ptx_scope}"


WEAK = Ordering()


@dataclass(frozen=True, slots=True)
class CacheHint:
    """PTX's cache operator (ca cg cs lu cv; wb wt for stores) or L1 eviction priority; the latter wins, as PTX has no
    instruction with both."""

    modifier: str | None = None
    eviction: str | None = None

    def ptx(self) -> str:
        if self.eviction is not None and self.eviction != "none":
            name = "no_allocate" if self.eviction == "no_allocate" else f"evict_{self.eviction}"
            return f".L1::{name}"
        return f".{self.modifier}" if self.modifier not in (None, "none") else ""


NO_HINT = CacheHint()


@dataclass(frozen=True, slots=True)
class Vector:
    """What is known of pointers along a tile dimension: in groups of `count` elements that start at multiples of
    `count`, they address consecutive elements, the first aligned to the group's size, under one mask value."""

    dim: int = 0
    count: int = 1


SINGLE = Vector()


def vector_from_facts(pointers: Fact, mask: Fact | None, element: str) -> Vector:
    """The widest groups that the analysis allows, along the dimension where that is largest.

    A pointer fact counts contiguity in elements and divisors in bytes.
    """
    size = STORAGE_BYTES[element]
    best = SINGLE
    for dim, run in enumerate(pointers.contiguity):
        count = min(run, MAX_ACCESS_BYTES // size)
        if mask is not None:
            count = min(count, mask.constancy[dim])
        # In smaller groups than the run, every start is that of the run plus a multiple of the group's size.
        while count > 1 and pointers.divisor[dim] % (count * size):
            count //= 2
        if count > best.count:
            best = Vector(dim, count)
    return best


# -- one access -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Words:
    """How a group of elements is cut into the words of one PTX access: `count` words of `bits` bits."""

    bits: int
    count: int

    @staticmethod
    def of(element_bytes: int, elements: int) -> Words:
        total = element_bytes * elements * 8
        bits = max(element_bytes * 8, min(total, 32))
        return Words(bits, total // bits)

    @property
    def type(self) -> IntType:
        """The LLVM type of an operand: an 8-bit word travels in a 16-bit register."""
        return IntType(max(self.bits, 16))

    @property
    def constraint(self) -> str:
        return self.type.constraint

    @property
    def suffix(self) -> str:
        return (f".v{self.count}" if self.count > 1 else "") + f".b{self.bits}"

    def operand(self, first: int) -> str:
        """The data operand in a template whose words are the arguments from number `first` on."""
        names = ", ".join(f"${first + i}" for i in range(self.count))
        return f"{{{names}}}" if self.count > 1 else names


def pack_words(b: KernelBuilder, values: Sequence[Value], words: Words) -> list[Value]:
    """Integers of one storage size as the words of an access."""
    bits = values[0].type.bits
    if bits >= words.bits:
        return [b.cast("zext", v, words.type) for v in values]
    per = words.bits // bits
    parts = [_in_words(b, values[i : i + per]) for i in range(0, len(values), per)]
    return [b.cast("bitcast", b.vector(part), words.type) for part in parts]


def _in_words(b: KernelBuilder, values: Sequence[Value]) -> Sequence[Value]:
    """Integers as words of 32 bits where all are pieces of such; as they are elsewhere, and where LLVM sees to it."""
    if not b.places:
        return values
    per = max(1, I32.bits // values[0].type.bits)
    words = [b.as_word(values[i : i + per]) for i in range(0, len(values), per)]
    found = [word for word in words if word is not None and word.constant is None]
    return found if len(found) == len(words) else values


def unpack_words(b: KernelBuilder, words: Sequence[Value], shape: Words, bits: int) -> list[Value]:
    """The inverse of `pack_words`: integers of `bits` bits."""
    if bits >= shape.bits:
        return [b.cast("trunc", w, IntType(bits)) for w in words]
    return [piece for word in words for piece in b.pieces(word, IntType(bits))]


def load_bits(
    b: KernelBuilder,
    address: Value,
    element_bytes: int,
    count: int,
    *,
    predicate: Value | None = None,
    defaults: Sequence[Value] | None = None,
    ordering: Ordering = WEAK,
    cache: CacheHint = NO_HINT,
) -> list[Value]:
    """One load of `count` adjacent elements as integers; `defaults` (zeros if None) where the predicate is false."""
    bits = 8 * element_bytes
    if predicate is not None and predicate.constant is not None:
        if not predicate.constant:
            return list(defaults) if defaults is not None else [integer(IntType(bits), 0)] * count
        predicate = None
    if predicate is None and ordering.weak and not cache.ptx():
        return _plain_load(b, address, element_bytes, count)
    words = Words.of(element_bytes, count)
    text = f"ld{ordering.ptx}.global{cache.ptx()}{words.suffix} {words.operand(0)}, [${words.count}];"
    outputs = ["=" + words.constraint] * words.count
    result = registers_type(words.type, words.count)
    if predicate is None:
        loaded = b.asm(text, ",".join([*outputs, "l"]), result, [address], memory=True)
    else:
        zeros = [integer(IntType(bits), 0)] * count
        tied = pack_words(b, defaults if defaults is not None else zeros, words)
        constraints = [*outputs, "l", "b", *map(str, range(words.count))]
        text = f"@${words.count + 1} {text}"
        loaded = b.asm(text, ",".join(constraints), result, [address, predicate, *tied], memory=True)
    parts = [loaded] if words.count == 1 else [b.extract(loaded, i, words.type) for i in range(words.count)]
    return unpack_words(b, parts, words, bits)


def _plain_load(b: KernelBuilder, address: Value, element_bytes: int, count: int) -> list[Value]:
    type_ = IntType(8 * element_bytes)
    align = element_bytes * count
    if count == 1:
        return [b.emit(type_, f"load {type_}, {address.typed}, align {align}")]
    vector = b.emit(VectorType(count, type_), f"load <{count} x {type_}>, {address.typed}, align {align}")
    return [b.extract(vector, i, type_) for i in range(count)]


def store_bits(
    b: KernelBuilder,
    address: Value,
    values: Sequence[Value],
    *,
    predicate: Value | None = None,
    ordering: Ordering = WEAK,
    cache: CacheHint = NO_HINT,
) -> None:
    """One store of adjacent elements, given as integers of their storage size, where the predicate holds."""
    if predicate is not None and predicate.constant is not None:
        if not predicate.constant:
            return
        predicate = None
    size, count = values[0].type.bits // 8, len(values)
    if predicate is None and ordering.weak and not cache.ptx():
        value = values[0] if count == 1 else b.vector(values)
        b.line(f"store {value.typed}, {address.typed}, align {size * count}")
        return
    words = Words.of(size, count)
    parts = pack_words(b, values, words)
    text = f"st{ordering.ptx}.global{cache.ptx()}{words.suffix} [$0], {words.operand(1)};"
    constraints = ["l", *[words.constraint] * words.count]
    arguments = [address, *parts]
    if predicate is not None:
        text = f"@${words.count + 1} {text}"
        constraints.append("b")
        arguments.append(predicate)
    b.asm(text, ",".join(constraints), VOID, arguments, memory=True)


# -- tiles ----------------------------------------------------------------------------------------------------------


def check_layouts(first: Tile, *others: Tile | None) -> None:
    """ValueError unless all tiles have the first one's layout."""
    for other in others:
        if other is not None and other.layout != first.layout:
            raise ValueError(f"layouts differ:\n{first.layout}\n\n{other.layout}")


def both(b: KernelBuilder, x: Value | None, y: Value | None) -> Value | None:
    """The conjunction of two predicates, where None is true."""
    if x is None or y is None:
        return x if y is None else y
    return b.and_(x, y)


def fence(b: KernelBuilder, ordering: Ordering) -> None:
    """A fence of each thread, in a scope."""
    b.asm(f"fence.acq_rel.{ordering.ptx_scope};", "", VOID, memory=True)


@dataclass
class Registers:
    """Collects a tile's registers group by group; copies within a thread share the value."""

    layout: LinearLayout
    found: dict[int, Value] = field(default_factory=dict)

    def put(self, registers: Sequence[int], values: Sequence[Value]) -> None:
        self.found.update(zip(registers, values))

    def all(self) -> list[Value]:
        return [self.found[r] for r in representatives(self.layout)]


def load(
    b: KernelBuilder,
    pointers: Tile,
    element: str,
    *,
    mask: Tile | None = None,
    padding: Tile | None = None,
    vector: Vector = SINGLE,
    ordering: Ordering = WEAK,
    cache: CacheHint = NO_HINT,
    handed: Handed = Conversion.REGISTERS,
) -> Tile:
    """Load the element behind each pointer; `padding` (zero without one) where the mask is false.

    Tile IR, "load_ptr_tko". What owners got by a strong load is `handed` out.
    """
    check_layouts(pointers, mask, padding)
    size = STORAGE_BYTES[element]
    owner = None if ordering.weak else owner_predicate(b, pointers.layout)
    result = Registers(pointers.layout)
    groups = register_groups(pointers.layout, vector.dim, min(vector.count, MAX_ACCESS_BYTES // size))
    for group in groups:
        predicate = both(b, mask.registers[group[0]] if mask else None, owner)
        defaults = [to_storage(b, padding.registers[r], element) for r in group] if padding and predicate else None
        bits = load_bits(
            b, pointers.registers[group[0]], size, len(group),
            predicate=predicate, defaults=defaults, ordering=ordering, cache=cache,
        )  # fmt: skip
        result.put(group, [from_storage(b, x, element) for x in bits])
    tile = pointers.with_registers(result.all(), element)
    if owner is not None:
        tile = share_from_owner(b, tile, handed)
    return tile


def store(
    b: KernelBuilder,
    pointers: Tile,
    value: Tile,
    *,
    mask: Tile | None = None,
    vector: Vector = SINGLE,
    ordering: Ordering = WEAK,
    cache: CacheHint = NO_HINT,
) -> None:
    """Store each element to the address that its pointer gives, where the mask is true (Tile IR, "store_ptr_tko")."""
    check_layouts(pointers, value, mask)
    owner = owner_predicate(b, pointers.layout)
    limit = MAX_ACCESS_BYTES // STORAGE_BYTES[value.element]
    groups = register_groups(pointers.layout, vector.dim, min(vector.count, limit))
    for group in groups:
        predicate = both(b, mask.registers[group[0]] if mask else None, owner)
        bits = [to_storage(b, value.registers[r], value.element) for r in group]
        store_bits(b, pointers.registers[group[0]], bits, predicate=predicate, ordering=ordering, cache=cache)


def offset_pointers(b: KernelBuilder, pointers: Tile, offsets: Tile, pointee: str) -> Tile:
    """Pointers moved by signed numbers of elements (Tile IR, "offset"); a 4-bit pointee counts bytes."""
    check_layouts(pointers, offsets)
    moved = [offset_pointer(b, p, o, pointee) for p, o in zip(pointers.registers, offsets.registers)]
    return pointers.with_registers(moved)


def offset_pointer(b: KernelBuilder, pointer: Value, by: Value, pointee: str) -> Value:
    """One pointer moved by a signed number of elements."""
    type_ = IntType(8 * STORAGE_BYTES[pointee])
    return b.offset(pointer, by, type_)
