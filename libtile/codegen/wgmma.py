# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""wgmma: products of a warpgroup that read shared memory while the program goes on (PTX ISA, "Asynchronous warpgroup
level matrix instructions").

Between the issue of a product and a wait for it nothing may touch its accumulators, or A where it is in registers. LLVM
does not know that: `fence` and `wait` take these registers and give them again, so that no other use moves past them.
"""

from __future__ import annotations

from collections.abc import Sequence

from libtile.atoms.wgmma import SharedOperand, accumulator_registers
from libtile.codegen.builder import KernelBuilder, Value, integer
from libtile.codegen.llvm_types import FLOAT, I32, I64, VOID, LlvmType, StructType, registers_type
from libtile.support.records import dataclass
from libtile.targets import MmaAtom

_UNIT = 16
"""Bytes that a descriptor counts in."""
_ADDRESS_BITS = 0x3FFFF
"""Of a shared-memory address, what a descriptor holds; its low 4 bits are left out."""


@dataclass(frozen=True)
class Descriptor:
    """An operand in shared memory: how it lies, and the descriptor of its first element."""

    operand: SharedOperand
    start: Value
    low: Value | None = None
    """The lower word of `start`, where parts are computed of that alone."""
    opaque: bool = False
    """Whether parts are one addition each. Otherwise what lies within the alignment of the operand is set, so that the
    assembler sees that the upper word stays as it is."""

    def at(self, b: KernelBuilder, outer: int, k: int) -> Value:
        """The descriptor of the part of the tile from (outer, k) on."""
        further = self.operand.start(outer, k) // _UNIT
        if self.low is None:
            within = not self.opaque and further < self.operand.alignment // _UNIT
            return (b.or_ if within else b.add)(self.start, integer(I64, further))
        high = integer(I64, self.operand.fields >> 32 << 32)  # addresses do not reach into it
        return b.or_(b.cast("zext", b.add(self.low, integer(I32, further)), I64), high)

    def behind(self, b: KernelBuilder, count: Value, size: int, *, opaque: bool = False) -> Descriptor:
        """The descriptor of an operand that lies `count` (an i32) times so many bytes further, a multiple of its
        alignment. Of one that is `opaque` LLVM knows no bits: parts of it are then one addition each, where it would
        set bits of the lower word and have ptxas copy the upper one."""
        first, more = count.behind or (count, 0)
        moved = b.cast("zext", b.mul(first, integer(I32, size // _UNIT)), I64)
        start = b.add(self.start, moved)
        if opaque:
            start = b.asm("mov.b64 $0, $1;", "=l,l", I64, [start])
        return Descriptor(self.operand, b.add(start, integer(I64, more * (size // _UNIT))), opaque=opaque)

    def made_here(self, b: KernelBuilder) -> Descriptor:
        """The descriptor of an operand that stays where it is, with parts of which a word is computed, where they are
        used: all of them would be computed in front of a loop otherwise, and take two registers each."""
        low = b.asm("mov.b32 $0, $1;", "=r,r", I32, [b.cast("trunc", self.start, I32)], side_effects=True)
        return Descriptor(self.operand, self.start, low)


def descriptor(
    b: KernelBuilder, operand: SharedOperand, pointer: Value, moved: Value | None = None, fields: int | None = None
) -> Descriptor:
    """The descriptor of an operand at an address, `moved` (an i32) bytes further. `fields` are those beside the
    address, without them wgmma's."""
    return Descriptor(operand, described(b, pointer, operand.fields if fields is None else fields, moved))


def described(b: KernelBuilder, pointer: Value, fields: int, moved: Value | None = None) -> Value:
    """A descriptor (i64) of what lies at an address, `moved` (an i32) bytes further; `fields` are those beside it."""
    address = b.cast("ptrtoint", pointer, I32)
    if moved is not None:
        address = b.add(address, moved)
    field = b.binary("lshr", b.and_(address, integer(I32, _ADDRESS_BITS)), integer(I32, _UNIT.bit_length() - 1))
    return b.or_(b.cast("zext", field, I64), integer(I64, fields))


def accumulator_type(atom: MmaAtom) -> LlvmType:
    """The type of an accumulator's registers: f16 are two in a word."""
    return FLOAT if atom.d == "f32" else I32


def multiply(
    b: KernelBuilder,
    atom: MmaAtom,
    accumulators: Sequence[Value],
    a: Value | Sequence[Value],
    right: Value,
    *,
    transposed: tuple[bool, bool] = (False, False),
    add: bool = True,
) -> list[Value]:
    """Issue one product: accumulators (see `accumulator_type`) plus A times B, or without them unless they are to
    `add`. A is a descriptor or 4 words, B a descriptor; `transposed` says of each whether it is MN-major."""
    count = accumulator_registers(atom)
    if len(accumulators) != count:
        raise ValueError(f"{len(accumulators)} accumulators for a product with {count}")
    in_registers = not isinstance(a, Value)
    left = list(a) if not isinstance(a, Value) else [a]
    numbers = [f"${i}" for i in range(count + len(left) + 1)]
    group = "{" + ", ".join(numbers[:count]) + "}"
    first = "{" + ", ".join(numbers[count:-1]) + "}" if in_registers else numbers[count]
    scales = "" if atom.d == "s32" else ", 1, 1"
    if atom.a in ("f16", "bf16"):
        flags = transposed[1:] if in_registers else transposed
        scales += "".join(f", {int(flag)}" for flag in flags)
    elif any(transposed):
        raise ValueError(f"operands of {atom.a} are contiguous along k only")
    name = f"wgmma.mma_async.sync.aligned.m64n{atom.n}k{atom.k}.{atom.d}.{atom.a}.{atom.b}"
    # As a number, not in a register: that of a zero may be one of A's as well, which nothing else may read here.
    template = f"{{ .reg .pred p; setp.ne.b32 p, {int(add)}, 0; {name} {group}, {first}, {numbers[-1]}, p{scales}; }}"
    kind = accumulator_type(atom)
    constraints = [f"={kind.constraint}"] * count + (["r"] * 4 if in_registers else ["l"]) + ["l"]
    arguments = [*left, right, *accumulators]
    return _tied(b, template, constraints, kind, arguments, count)


def _tied(
    b: KernelBuilder, template: str, constraints: list[str], kind: LlvmType, arguments: list[Value], count: int
) -> list[Value]:
    """Inline PTX whose last `count` arguments are its results as well."""
    constraints = [*constraints, *(str(i) for i in range(count))]
    made = b.asm(
        template, ",".join(constraints), registers_type(kind, count), arguments, side_effects=True, convergent=True
    )
    return [made] if count == 1 else [b.extract(made, i, kind) for i in range(count)]


def _through(b: KernelBuilder, template: str, values: Sequence[Value], reads: Sequence[Value] = ()) -> list[Value]:
    """Inline PTX through which values pass: uses before and behind it stay there; `reads` stay as they are until then.
    All are i32 or floats."""
    types = [v.type for v in values]
    if any(v.type not in (I32, FLOAT) for v in (*values, *reads)):
        raise ValueError("registers of products hold 32 bits")
    constraints = [f"={t.constraint}" for t in types] + [str(i) for i in range(len(values))]
    text = ",".join([*constraints, *(v.type.constraint for v in reads)])
    if not values:
        b.asm(template, text, VOID, reads, memory=True, convergent=True)
        return []
    result = types[0] if len(types) == 1 else StructType(tuple(types))
    made = b.asm(template, text, result, [*values, *reads], memory=True, convergent=True)
    return [made] if len(types) == 1 else [b.extract(made, i, t) for i, t in enumerate(types)]


def fence(b: KernelBuilder, values: Sequence[Value], reads: Sequence[Value] = ()) -> list[Value]:
    """What has been written to registers and shared memory comes before the products that follow; the registers that
    they use pass through, or are `reads`."""
    return _through(b, "wgmma.fence.sync.aligned;", values, reads)


def commit(b: KernelBuilder) -> None:
    """Close a group of products."""
    b.asm("wgmma.commit_group.sync.aligned;", "", VOID, memory=True, convergent=True)


def wait(b: KernelBuilder, pending: int, values: Sequence[Value], reads: Sequence[Value] = ()) -> list[Value]:
    """Wait until at most `pending` groups are under way. All accumulators of products under way pass through, and
    whatever is to be computed before; `reads` are the registers that products under way read until here."""
    return _through(b, f"wgmma.wait_group.sync.aligned {pending};", values, reads)


def hold(b: KernelBuilder, words: Sequence[Value], *, apart: bool = False) -> None:
    """What words come from is computed in front of the next wait by the assembler, too, which would move the wait up
    otherwise: it does not move it past a store of them. That is never done, as no grid is without blocks, and is to
    their number, which takes no register of its own. `apart` from another one's the question has another form, as the
    assembler would save the answer where what lies between takes all predicates, and yet ask again."""
    blocks, asked = _blocks(b), "setp.lt.s32" if apart else "setp.eq.u32"
    for start in range(0, len(words), 4):
        part = words[start : start + 4]
        names = ", ".join(f"${i}" for i in range(1, len(part) + 1))
        store = {1: f"st.shared.b32 [$0], {names}"}.get(len(part), f"st.shared.v{len(part)}.b32 [$0], {{{names}}}")
        template = f"{{ .reg .pred p; {asked} p, $0, 0; @p {store}; }}"
        constraints = ",".join(["r", *(w.type.constraint for w in part)])
        b.asm(template, constraints, VOID, [blocks, *part], memory=True, convergent=True)


def hold_all(b: KernelBuilder) -> None:
    """As `hold`, of everything that stands in front of here: the assembler moves nothing past where the clock is read,
    if that is used."""
    template = "{ .reg .pred p; .reg .b32 c; mov.u32 c, %clock; setp.eq.u32 p, $0, 0; @p st.shared.b32 [$0], c; }"
    b.asm(template, "r", VOID, [_blocks(b)], memory=True, convergent=True)


def _blocks(b: KernelBuilder) -> Value:
    return b.call("llvm.nvvm.read.ptx.sreg.nctaid.x", I32, [])
