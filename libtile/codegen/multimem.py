# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Accesses to multicast objects, whose addresses stand for a location on each of several devices.

PTX has reductions over the devices' copies, reductions into all of them, and stores to all of them (PTX ISA,
"multimem.ld_reduce, multimem.st, multimem.red"). 16-bit floats come in pairs only.
"""

from __future__ import annotations

from collections.abc import Sequence

from libtile.codegen.builder import KernelBuilder, Value
from libtile.codegen.llvm_types import ELEMENT_TYPES, VOID, LlvmType, registers_type
from libtile.codegen.memory import WEAK, Ordering, Words, pack_words, unpack_words
from libtile.codegen.sharing import Handed
from libtile.codegen.stored_bits import from_storage, to_storage
from libtile.codegen.tile import Tile
from libtile.codegen.tiled_views import Accesses, Places, TiledView
from libtile.codegen.views import Predicate, load_each, padding_constant, store_each
from libtile.layouts import LinearLayout
from libtile.layouts.convert import Conversion
from libtile.numerics.elements import STORAGE_BYTES
from libtile.support.diagnostics import LoweringError
from libtile.targets import Target

RELAXED = Ordering("relaxed", "device")

_INTEGER_TYPES = {"i32": ("s32", "u32"), "i64": ("s64", "u64")}


def forms(target: Target, operation: str, reduction: str, element: str) -> dict[int, str]:
    """The operation and type of an instruction, e.g. `add.u32`, by the number of elements. `operation` is one of
    `load_reduce`, `reduce` and `store`, of which the last has no reduction. LoweringError where there is none."""
    if not target.has("multimem"):
        raise LoweringError(f"multimem operations do not exist on {target.name}")
    if operation == "store":
        return _stores(element)
    found = _reductions(reduction, element)
    if operation == "reduce" and reduction != "add" and element not in _INTEGER_TYPES:
        raise LoweringError(f"multimem reduction {reduction} of {element} into memory does not exist")
    return found


def _stores(element: str) -> dict[int, str]:
    """Elements of less than 32 bits must come in words of 32."""
    bits = 8 * STORAGE_BYTES[element]
    if bits == 64:
        return {1: "f64" if element == "f64" else "b64"}
    if element == "f32":
        return {1: "f32", 2: "v2.f32", 4: "v4.f32"}
    if bits == 32:
        return {1: "b32"}
    if element in ("f16", "bf16"):
        return {n: f"{vector}{element}x2" for n, vector in ((2, ""), (4, "v2."), (8, "v4."))}
    return {32 // bits: "b32"}


def _reductions(reduction: str, element: str) -> dict[int, str]:
    if element in _INTEGER_TYPES:
        signed, unsigned = _INTEGER_TYPES[element]
        if reduction in ("and", "or", "xor"):
            return {1: f"{reduction}.b{ELEMENT_TYPES[element].bits}"}
        if reduction in ("min", "max"):
            return {1: f"{reduction}.{signed}"}
        return {1: f"{reduction.removeprefix('u')}.{unsigned}"}
    if element in ("f16", "bf16") and reduction in ("add", "min", "max"):
        pair = f"{element}x2"
        return {2: f"{reduction}.{pair}", 4: f"{reduction}.v2.{pair}", 8: f"{reduction}.v4.{pair}"}
    if element == "f32" and reduction == "add":
        return {1: "add.f32", 2: "add.v2.f32", 4: "add.v4.f32"}
    if element == "f64" and reduction == "add":
        return {1: "add.f64"}
    raise LoweringError(f"multimem reduction {reduction} of {element} does not exist")


def _words(element: str, count: int) -> tuple[Words, LlvmType]:
    """The words of an access and their registers' type: single floats are PTX floats, pairs are 32-bit words."""
    words = Words.of(STORAGE_BYTES[element], count)
    return words, ELEMENT_TYPES[element] if element in ("f32", "f64") else words.type


def multimem_load_reduce(
    b: KernelBuilder,
    reduction: str,
    tiled: TiledView,
    index: Sequence[Value | Tile],
    layout: LinearLayout,
    accesses: Accesses,
    *,
    ordering: Ordering = WEAK,
    handed: Handed = Conversion.REGISTERS,
) -> Tile:
    """Load the reduction of all devices' copies of a tile (Tile IR, "multimem_load_reduce_view_tko").

    LoweringError for a target or an element type without it. `accesses` are as wide as one of `forms`.
    """
    element = tiled.view.element
    known = forms(b.target, "load_reduce", reduction, element)
    places = Places(b, tiled, index, layout, accesses)
    padding = padding_constant(element, tiled.padding)

    def load(group: tuple[int, ...], accessed: Predicate) -> Sequence[Value]:
        predicate = accessed(group[0])
        address, form = places.address(group[0]), known[len(group)]
        bits = _load_reduce(b, form, element, address, ordering, predicate, padding, len(group))
        return [from_storage(b, x, element) for x in bits]

    return load_each(b, places, load, ordering, handed)


def _load_reduce(
    b: KernelBuilder,
    form: str,
    element: str,
    address: Value,
    ordering: Ordering,
    predicate: Value | None,
    padding: Value,
    count: int,
) -> list[Value]:
    words, type_ = _words(element, count)
    semantics = ordering.ptx or ".weak"
    text = f"multimem.ld_reduce{semantics}.global.{form} {words.operand(0)}, [${words.count}];"
    constraints, arguments = [f"={type_.constraint}"] * words.count + ["l"], [address]
    if predicate is not None:
        text = f"@${words.count + 1} {text}"
        constraints += ["b", *map(str, range(words.count))]
        filling = [b.cast("bitcast", w, type_) for w in pack_words(b, [padding] * count, words)]
        arguments += [predicate, *filling]
    result = registers_type(type_, words.count)
    loaded = b.asm(text, ",".join(constraints), result, arguments, memory=True)
    parts = [loaded] if words.count == 1 else [b.extract(loaded, i, type_) for i in range(words.count)]
    return unpack_words(b, [b.cast("bitcast", p, words.type) for p in parts], words, 8 * STORAGE_BYTES[element])


def _send(
    b: KernelBuilder, instruction: str, form: str, element: str, address: Value, bits: Sequence[Value],
    ordering: Ordering, predicate: Value | None,
) -> None:  # fmt: skip
    """`multimem.red` or `multimem.st` of neighbours, given as integers of their storage size."""
    words, type_ = _words(element, len(bits))
    parts = [b.cast("bitcast", p, type_) for p in pack_words(b, bits, words)]
    text = f"multimem.{instruction}{ordering.ptx or '.weak'}.global.{form} [$0], {words.operand(1)};"
    constraints, arguments = ["l", *[type_.constraint] * words.count], [address, *parts]
    if predicate is not None:
        text = f"@${words.count + 1} {text}"
        constraints.append("b")
        arguments.append(predicate)
    b.asm(text, ",".join(constraints), VOID, arguments, memory=True)


def _send_tile(
    b: KernelBuilder, instruction: str, known: dict[int, str], tiled: TiledView, index: Sequence[Value | Tile],
    tile: Tile, accesses: Accesses, ordering: Ordering,
) -> None:  # fmt: skip
    places = Places(b, tiled, index, tile.layout, accesses)

    def send(group: tuple[int, ...], accessed: Predicate) -> None:
        bits = [to_storage(b, tile.registers[r], tile.element) for r in group]
        predicate, address = accessed(group[0]), places.address(group[0])
        _send(b, instruction, known[len(group)], tile.element, address, bits, ordering, predicate)

    store_each(b, places, send, ordering)


def multimem_reduce(
    b: KernelBuilder,
    reduction: str,
    tiled: TiledView,
    index: Sequence[Value | Tile],
    tile: Tile,
    accesses: Accesses,
    *,
    ordering: Ordering = RELAXED,
) -> None:
    """Combine a tile into every device's copy (Tile IR, "multimem_reduce_view_tko"); errors as for the load."""
    known = forms(b.target, "reduce", reduction, tile.element)
    _send_tile(b, "red", known, tiled, index, tile, accesses, ordering)


def multimem_store(
    b: KernelBuilder,
    tiled: TiledView,
    index: Sequence[Value | Tile],
    tile: Tile,
    accesses: Accesses,
    *,
    ordering: Ordering = WEAK,
) -> None:
    """Store a tile to every device's copy (Tile IR, "multimem_store_view_tko"); errors as for the load."""
    known = forms(b.target, "store", "", tile.element)
    _send_tile(b, "st", known, tiled, index, tile, accesses, ordering)
