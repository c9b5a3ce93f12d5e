# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Atomic read-modify-writes: through pointer tiles and of a view's tile.

Each element's owner does the operation, and where the old value is wanted every holder of a copy gets it from the
owner. Without a wanted result the operation is a `red`, which the memory system does on its own (PTX ISA, "atom",
"red"). An f32 addition in global memory flushes subnormal numbers to zero, as PTX says; other types do not.
"""

from __future__ import annotations

from collections.abc import Sequence

from libtile.codegen.builder import KernelBuilder, Value, integer
from libtile.codegen.llvm_types import BFLOAT, DOUBLE, ELEMENT_TYPES, FLOAT, GENERIC_POINTER, I16, VOID, IntType
from libtile.codegen.memory import Ordering, Registers, Words, both, check_layouts, pack_words
from libtile.codegen.sharing import Handed, share_from_owner
from libtile.codegen.stored_bits import as_integer, from_integer, from_storage, to_storage
from libtile.codegen.tile import Tile, owner_predicate
from libtile.codegen.tiled_views import Accesses, Places, TiledView
from libtile.codegen.views import Predicate, store_each
from libtile.layouts.convert import Conversion
from libtile.layouts.registers import unique_registers
from libtile.numerics.elements import ELEMENTS, STORAGE_BYTES
from libtile.support.diagnostics import LoweringError
from libtile.targets import Target

RELAXED = Ordering("relaxed", "device")

_INTEGER_OPERATIONS = {
    "and": ("and", "b"), "or": ("or", "b"), "xor": ("xor", "b"), "add": ("add", "u"), "xchg": ("exch", "b"),
    "max": ("max", "s"), "min": ("min", "s"), "umax": ("max", "u"), "umin": ("min", "u"),
}  # fmt: skip
"""PTX's operation and kind of type for a mode on integers."""

_FLOAT_ADDITIONS = {"f16": "add.noftz.f16", "bf16": "add.noftz.bf16", "f32": "add.f32", "f64": "add.f64"}


RED, ATOM, CAS = "red", "atom", "cas"
"""How an operation on an element is done: by an instruction that gives nothing, or the old value, or by a loop of
compare-and-swaps."""


def instruction(target: Target, mode: str, element: str, *, wanted: bool, acquires: bool) -> str:
    """By what a mode on an element type is done, where the old value is `wanted` or not. A `red` is no read, and so
    cannot acquire. LoweringError for a mode that the element type does not have."""
    _operation(mode, element)
    if mode == "addf" and element == "bf16" and not target.has("atomic_bf16"):
        return CAS
    return ATOM if wanted or acquires or mode == "xchg" else RED


def _operation(mode: str, element: str) -> str:
    """PTX's operation and type for a mode on an element type. LoweringError where there is none."""
    bits = ELEMENT_TYPES[element].bits
    if mode == "addf":
        if element not in _FLOAT_ADDITIONS:
            raise LoweringError(f"atomic addition of {element} does not exist")
        return _FLOAT_ADDITIONS[element]
    if mode not in _INTEGER_OPERATIONS or bits < 32 or (mode != "xchg" and not ELEMENTS[element].is_integer):
        raise LoweringError(f"atomic {mode} of {element} does not exist")
    name, kind = _INTEGER_OPERATIONS[mode]
    return f"{name}.{kind}{bits}"


def _atom(
    b: KernelBuilder,
    text: str,
    address: Value,
    operands: Sequence[Value],
    ordering: Ordering,
    predicate: Value | None,
    default: Value | None,
) -> Value | None:
    """One `atom` that yields the old value (`default` where the predicate is false), or a `red` without a default.

    Operands are integers, or floats for a float operation; the result is of their type.
    """
    type_ = operands[0].type
    constraint = type_.constraint
    # ptxas 13.5 ends with a segmentation fault at -O0 -g where it expands a 16-bit atomic whose old value nobody uses.
    keeps = b.full_debug and type_ is I16
    returns = default is not None or keeps
    first = 1 if returns else 0
    named = "".join(f", ${first + 1 + i}" for i in range(len(operands)))
    where = f"{ordering.ptx}.global.{text}"
    template = f"atom{where} $0, [$1]{named};" if returns else f"red{where} [$0]{named};"
    constraints = ([f"={constraint}"] if returns else []) + ["l"] + [constraint] * len(operands)
    arguments = [address, *operands]
    if predicate is not None:
        template = f"@${first + 1 + len(operands)} {template}"
        constraints.append("b")
        arguments.append(predicate)
        if returns:
            constraints.append("0")
            arguments.append(operands[0] if default is None else default)
    if keeps:
        template = f"{{ .local .align 2 .b16 %kept; {template} st.local.b16 [%kept], $0; }}"
    result = b.asm(template, ",".join(constraints), type_ if returns else VOID, arguments, memory=True)
    return result if returns else None


def _operand(b: KernelBuilder, value: Value, element: str) -> Value:
    """A register as the operand of an atomic: floats of 32 and 64 bits stay, everything else is its bits."""
    return value if value.type in (FLOAT, DOUBLE) else to_storage(b, value, element)


def _add_by_loop(b: KernelBuilder, address: Value, value: Value, ordering: Ordering, predicate: Value | None) -> Value:
    """Addition of bf16 by compare-and-swap of its 16 bits; the old bits (undefined where nothing was done).

    Two bf16 add exactly enough in f32 that rounding twice is rounding once: 24 bits are more than 2 * 8 + 2.
    """
    old_slot = b.special("atomic slot i16", lambda: b.emit(GENERIC_POINTER, "alloca i16, align 2"))
    b.line(f"store i16 0, {old_slot.typed}, align 2")
    with b.when(predicate):
        start = b.emit(I16, f"load atomic i16, {address.typed} monotonic, align 2")
        header, done = b.new_block("retry"), b.new_block("swapped")
        previous, add_previous = b.phi(I16, header)
        add_previous(start, b.block)
        b.branch(header)
        b.start(header)
        wide = [b.cast("fpext", x, FLOAT) for x in (from_integer(b, previous, BFLOAT), value)]
        total = b.cast("fptrunc", b.binary("fadd", *wide), BFLOAT)
        bits = as_integer(b, total)
        seen = _atom(b, "cas.b16", address, [previous, bits], ordering, None, previous)
        if seen is None:
            raise LoweringError("a compare-and-swap yields the old value")
        add_previous(seen, b.block)
        b.conditional_branch(b.compare("eq", seen, previous), done, header)
        b.start(done)
        b.line(f"store i16 {previous.text}, {old_slot.typed}, align 2")
    return b.emit(I16, f"load i16, {old_slot.typed}, align 2")


def _modify(
    b: KernelBuilder,
    operation: str,
    by: str,
    element: str,
    address: Value,
    value: Value,
    ordering: Ordering,
    predicate: Value | None,
    wanted: bool,
    default: Value | None = None,
) -> Value | None:
    """The operation on one element, `by` an instruction or a loop; its old value as a register when that is wanted:
    where the predicate is false, the `default`, bits as they are stored."""
    if predicate is not None and predicate.constant is not None:
        predicate = None if predicate.constant else predicate
    if by == CAS:
        bits = _add_by_loop(b, address, value, ordering, predicate)
        return from_storage(b, bits, element) if wanted else None
    operand = _operand(b, value, element)
    if default is None:
        default = operand
    elif default.type != operand.type:
        default = b.cast("bitcast", default, operand.type)
    result = _atom(b, operation, address, [operand], ordering, predicate, default if by == ATOM else None)
    if result is None or not wanted:
        return None
    return result if result.type == ELEMENT_TYPES[element] else from_storage(b, result, element)


def atomic_rmw(
    b: KernelBuilder,
    mode: str,
    by: str,
    pointers: Tile,
    arg: Tile,
    *,
    mask: Tile | None = None,
    ordering: Ordering = RELAXED,
    result_used: bool = True,
    handed: Handed = Conversion.REGISTERS,
) -> Tile | None:
    """Combine each location with the argument as `mode` says, `by` what `instruction` names, where the mask is true.
    The old values, if used; where the mask is false they are unspecified (Tile IR, "atomic_rmw_tko").

    LoweringError for a mode that the element type does not have, and for a `red` whose old values are used.
    """
    check_layouts(pointers, arg, mask)
    operation = _operation(mode, arg.element)
    _check_instruction(b, mode, by, arg.element, result_used=result_used)
    owner = owner_predicate(b, arg.layout)
    result = Registers(arg.layout)
    registers = unique_registers(arg.layout)
    for r in registers:
        predicate = both(b, mask.registers[r] if mask else None, owner)
        old = _modify(
            b, operation, by, arg.element, pointers.registers[r], arg.registers[r], ordering, predicate, result_used
        )
        if old is not None:
            result.put([r], [old])
    tile = share_from_owner(b, arg.with_registers(result.all()), handed) if result_used else None
    return tile


def atomic_cas(
    b: KernelBuilder,
    pointers: Tile,
    cmp: Tile,
    val: Tile,
    *,
    mask: Tile | None = None,
    ordering: Ordering = RELAXED,
    result_used: bool = True,
    handed: Handed = Conversion.REGISTERS,
) -> Tile | None:
    """Swap in `val` where the location holds the bits of `cmp` and the mask is true; the old values if used, and `cmp`
    where the mask is false (Tile IR, "atomic_cas_tko"). 16-, 32- and 64-bit elements; LoweringError for others."""
    check_layouts(pointers, cmp, val, mask)
    size = STORAGE_BYTES[val.element]
    if size == 1:
        raise LoweringError(f"atomic compare-and-swap of {val.element} does not exist")
    owner = owner_predicate(b, val.layout)
    result = Registers(val.layout)
    registers = unique_registers(val.layout)
    for r in registers:
        predicate = both(b, mask.registers[r] if mask else None, owner)
        expected, new = (to_storage(b, t.registers[r], val.element) for t in (cmp, val))
        old = _atom(b, f"cas.b{8 * size}", pointers.registers[r], [expected, new], ordering, predicate, expected)
        if old is not None:
            result.put([r], [from_storage(b, old, val.element)])
    tile = share_from_owner(b, val.with_registers(result.all()), handed) if result_used else None
    return tile


# -- views ----------------------------------------------------------------------------------------------------------


def vector_reductions(target: Target, mode: str, element: str) -> dict[int, str]:
    """Vector forms of a float addition by the number of elements: `.v2.f32`, and pairs of 16-bit floats."""
    if mode != "addf":
        return {}
    forms: dict[int, str] = {}
    if element == "f16" or (element == "bf16" and target.has("atomic_bf16")):
        forms[2] = f"add.noftz.{element}x2"
    if target.has("atomic_vector_f32"):
        if element == "f32":
            forms |= {2: "add.v2.f32", 4: "add.v4.f32"}
        elif element in ("f16", "bf16"):
            forms |= {4: f"add.noftz.v2.{element}x2", 8: f"add.noftz.v4.{element}x2"}
    return forms


def _reduce_vector(
    b: KernelBuilder,
    text: str,
    element: str,
    address: Value,
    bits: Sequence[Value],
    ordering: Ordering,
    predicate: Value | None,
) -> None:
    """One `red` of several neighbours, given as integers of their storage size."""
    words = Words.of(bits[0].type.bits // 8, len(bits))
    parts = pack_words(b, bits, words)
    template = f"red{ordering.ptx}.global.{text} [$0], {words.operand(1)};"
    if element == "f32":
        parts = [b.cast("bitcast", p, FLOAT) for p in parts]
    constraints, arguments = ["l", *(p.type.constraint for p in parts)], [address, *parts]
    if predicate is not None:
        template = f"@${words.count + 1} {template}"
        constraints.append("b")
        arguments.append(predicate)
    b.asm(template, ",".join(constraints), VOID, arguments, memory=True)


def _check_instruction(b: KernelBuilder, mode: str, by: str, element: str, *, result_used: bool) -> None:
    """LoweringError where an instruction cannot do an operation."""
    if by == RED and (result_used or mode == "xchg"):
        raise LoweringError(f"cannot be done by red: {'its result is used' if result_used else 'it has no xchg'}")
    if (mode, element) == ("addf", "bf16"):
        if by != CAS and not b.target.has("atomic_bf16"):
            raise LoweringError(f"cannot be done by {by}, which {b.target.name} does not have for bf16")
    elif by == CAS:
        raise LoweringError(f"cannot be done by compare-and-swaps, which are for additions of bf16, not {mode}")


def reduce_tile(
    b: KernelBuilder,
    mode: str,
    by: str,
    tiled: TiledView,
    index: Sequence[Value | Tile],
    tile: Tile,
    accesses: Accesses,
    *,
    ordering: Ordering = RELAXED,
    result_used: bool = False,
    handed: Handed = Conversion.REGISTERS,
) -> Tile | None:
    """Combine a tile into the one that `index` names, each element `by` what `instruction` names; what lies beyond the
    tensor is left out (Tile IR, "atomic_red_view_tko"). The old values if used, and zeros where nothing is combined.
    Accesses of several elements are those of `vector_reductions`, which give no old values.

    LoweringError for a mode that the element type does not have.
    """
    element = tile.element
    operation = _operation(mode, element)
    _check_instruction(b, mode, by, element, result_used=result_used)
    places = Places(b, tiled, index, tile.layout, accesses)
    forms = vector_reductions(b.target, mode, element)
    zero = integer(IntType(8 * STORAGE_BYTES[element]), 0) if result_used else None
    result = Registers(tile.layout)

    def combine(group: tuple[int, ...], accessed: Predicate) -> None:
        predicate, address = accessed(group[0]), places.address(group[0])
        if len(group) == 1:
            value = tile.registers[group[0]]
            old = _modify(b, operation, by, element, address, value, ordering, predicate, result_used, zero)
            if old is not None:
                result.put(group, [old])
        else:
            bits = [to_storage(b, tile.registers[r], element) for r in group]
            _reduce_vector(b, forms[len(group)], element, address, bits, ordering, predicate)

    store_each(b, places, combine, ordering)
    return share_from_owner(b, tile.with_registers(result.all()), handed) if result_used else None
