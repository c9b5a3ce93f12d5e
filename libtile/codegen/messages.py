# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Output from a kernel: formatted printing and assertions, by the device's `vprintf`.

One thread prints for the tile block. A scalar prints as C's printf does, a tile as nested lists in brackets with each
element by the conversion. The elements of a tile come to the printing thread through shared memory, a chunk at a time;
since such a message takes many calls, a lock keeps the messages of different tile blocks apart.

An assertion is reported by each failing element's owner, in the words of the reference assembler, and then traps.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod

from libtile.codegen import llvm_text, symbols
from libtile.codegen.builder import KernelBuilder, Value, integer
from libtile.codegen.control import Carried, for_loop
from libtile.codegen.conversions import ftoi, itof, widen
from libtile.codegen.exchange import Exchange
from libtile.codegen.globals import trap
from libtile.codegen.limits import MAX_PRINT_WIDTH, UNKNOWN_FILE, before_nul, is_too_wide
from libtile.codegen.llvm_types import DOUBLE, GENERIC_POINTER, I1, I8, I32, I64, VOID, IntType
from libtile.codegen.sharing import flat_index
from libtile.codegen.stored_bits import from_storage, to_storage
from libtile.codegen.tile import Tile, index, owner_predicate
from libtile.layouts.registers import unique_registers
from libtile.layouts.shared_access import padded
from libtile.numerics.elements import ELEMENTS, STORAGE_BYTES
from libtile.support.diagnostics import LoweringError
from libtile.support.records import dataclass

_CHUNK = 512
"""Elements of a tile that pass through shared memory at a time."""

_MAX_ARGUMENTS = 32
"""What one call of the device's printf takes."""

_CONVERSION = r"(?s)%(?P<flags>[-+ #0]*)(?P<width>\d*)(?P<precision>\.\d*)?(?:hh|h|ll|l|j|z|t|L)?(?P<kind>.)"
_SIGNED, _UNSIGNED, _FLOATS = "di", "uoxX", "eEfFgGaA"


@dataclass(frozen=True, slots=True)
class _Conversion:
    """A conversion of a C format string without its length, which follows from the argument."""

    before: str
    kind: str

    def text(self, value: Value) -> str:
        length = "ll" if value.type is I64 and self.kind != "p" else ""
        return f"%{self.before}{length}{self.kind}"


def _split(text: str) -> list[str | _Conversion]:
    """Literal parts, ready to stand in a format, and conversions. LoweringError for other conversions than those of
    numbers and pointers. What a part has behind a NUL is not printed, as the reference gives each to a printf of its
    own."""
    parts: list[str | _Conversion] = []
    position, literal = 0, ""
    for match in re.finditer(_CONVERSION, text):
        literal += text[position : match.start()]
        position = match.end()
        kind = match["kind"]
        if kind == "%":
            literal += "%%"
        elif any(is_too_wide(match[part]) for part in ("width", "precision")):
            raise LoweringError(f"print: {match[0]!r} asks for more than {MAX_PRINT_WIDTH} characters")
        elif kind in _SIGNED + _UNSIGNED + _FLOATS + "cp":
            parts += [
                before_nul(literal),
                _Conversion(match["flags"] + match["width"] + (match["precision"] or ""), kind),
            ]
            literal = ""
        else:
            raise LoweringError(f"print: {match[0]!r} is not a conversion of an integer or a float")
    if "%" in text[position:]:
        raise LoweringError(f"print: {text!r} ends within a conversion")
    parts.append(before_nul(literal + text[position:]))
    return [p for p in parts if p != ""]


# -- arguments ------------------------------------------------------------------------------------------------------


def _integer_argument(b: KernelBuilder, value: Value, element: str, signed: bool) -> Value:
    """An integer of any width as an i32, or an i64 where it has 64 bits."""
    if element == "i64":
        return value
    if element == "i4":
        value = b.binary("shl", value, integer(I8, 4))
        value = b.binary("ashr" if signed else "lshr", value, integer(I8, 4))
    return b.cast("sext" if signed else "zext", value, I32)


def _as_double(b: KernelBuilder, value: Value, element: str) -> Value:
    if element == "f64":
        return value
    if ELEMENTS[element].is_integer:
        return itof(b, value, "f64", "unsigned" if element == "i1" else "signed")
    return b.cast("fpext", widen(b, value, element), DOUBLE)


def _argument(b: KernelBuilder, value: Value, element: str, conversion: _Conversion) -> Value:
    """A register as the argument that a conversion takes: i32, i64 or double."""
    kind = conversion.kind
    if element == "ptr":
        return b.cast("ptrtoint", value, I64)
    if kind in _FLOATS:
        return _as_double(b, value, element)
    if not ELEMENTS[element].is_integer:
        value, element = ftoi(b, _as_double(b, value, element), "f64", "i64", "signed"), "i64"
    number = _integer_argument(b, value, element, kind in _SIGNED + "c")
    if kind == "c":
        return b.and_(b.cast("trunc", number, I32), integer(I32, 0xFF))
    if kind == "p":
        return b.cast("zext", number, I64)
    return number


# -- calls ----------------------------------------------------------------------------------------------------------


def _text(b: KernelBuilder, data: bytes) -> Value:
    """A generic pointer to constant bytes."""
    name = symbols.own_name("text", b.name, len(data), _digest(data))
    place = b.add_global(name, llvm_text.byte_array(data), 1, constant=True)
    return b.emit(GENERIC_POINTER, f"addrspacecast {place.typed} to ptr")


def _digest(data: bytes) -> str:
    from hashlib import sha256

    return sha256(data).hexdigest()[:16]


def _vprintf(b: KernelBuilder, format_: Value, arguments: Sequence[Value]) -> None:
    """One call; arguments lie in a buffer with their natural alignment."""
    offsets, end = [], 0
    for argument in arguments:
        size = argument.type.storage_bytes
        end = -(-end // size) * size
        offsets.append(end)
        end += size
    buffer = Value(GENERIC_POINTER, "null")
    if arguments:
        total = max(end, 8)
        buffer = b.special(f"print buffer {total}", lambda: b.emit(GENERIC_POINTER, f"alloca [{total} x i8], align 8"))
    for argument, offset in zip(arguments, offsets):
        place = b.offset(buffer, integer(I32, offset))
        b.line(f"store {argument.typed}, {place.typed}, align {argument.type.storage_bytes}")
    b.call("vprintf", I32, [format_, buffer])


def _is_printer(b: KernelBuilder) -> Value:
    return b.special("printer", lambda: b.compare("eq", b.thread_id(), integer(I32, 0)))


def print_tile(b: KernelBuilder, format_: str, args: Sequence[Tile]) -> None:
    """Print a C format string with one tile per conversion (Tile IR, "print_tko"). All threads must come here.

    LoweringError for a format with other conversions than those of numbers, or another number of them.
    """
    parts = _split(format_)
    count = sum(isinstance(p, _Conversion) for p in parts)
    if count != len(args):
        raise LoweringError(f"print: the format takes {count} values, {len(args)} are given")
    lock = _lock(b) if any(t.shape for t in args) else None
    if lock is not None:
        _take(b, lock)
    tiles = iter(args)
    text = ""
    scalars: list[Value] = []
    for part in parts:
        if isinstance(part, str):
            text += part
            continue
        tile = next(tiles)
        if tile.shape:
            _print_line(b, text, scalars)
            text, scalars = "", []
            _print_elements(b, part, tile)
            continue
        if len(scalars) == _MAX_ARGUMENTS:
            _print_line(b, text, scalars)
            text, scalars = "", []
        scalars.append(_argument(b, tile.registers[0], tile.element, part))
        text += part.text(scalars[-1])
    _print_line(b, text, scalars)
    if lock is not None:
        _give(b, lock)


def _print_line(b: KernelBuilder, text: str, scalars: Sequence[Value]) -> None:
    if text:
        with b.when(_is_printer(b)):
            _vprintf(b, _text(b, llvm_text.to_bytes(text) + b"\0"), scalars)


def _lock(b: KernelBuilder) -> Value:
    return b.add_global(symbols.own_name("print_lock"), "i32 0", 4)


def _take(b: KernelBuilder, lock: Value) -> None:
    """The printing thread waits for its turn."""
    with b.when(_is_printer(b)):
        retry, done = b.new_block("retry"), b.new_block("locked")
        b.branch(retry)
        b.start(retry)
        held = b.asm("atom.acquire.gpu.global.exch.b32 $0, [$1], 1;", "=r,l", I32, [lock], memory=True)
        b.conditional_branch(b.compare("eq", held, integer(I32, 0)), done, retry)
        b.start(done)


def _give(b: KernelBuilder, lock: Value) -> None:
    with b.when(_is_printer(b)):
        b.asm("st.release.gpu.global.b32 [$0], 0;", "l", VOID, [lock], memory=True)


# -- elements of a tile ---------------------------------------------------------------------------------------------


def print_exchange(shape: Sequence[int], element_bytes: int) -> Exchange:
    """What printing a tile takes of shared memory, at no place yet. All meet before it where it goes on chunk by chunk,
    as each has to be printed before the next comes."""
    total = prod(shape)
    return Exchange(0, padded(min(total, _CHUNK) * element_bytes), meet=total > _CHUNK)


def _print_elements(b: KernelBuilder, conversion: _Conversion, tile: Tile) -> None:
    """The elements of a tile in row-major order, with brackets and commas."""
    size, total = STORAGE_BYTES[tile.element], prod(tile.shape)
    chunk = min(total, _CHUNK)
    place = b.exchanges.take(print_exchange(tile.shape, size).size)
    base = b.exchange_pointer(place)
    zero, one = integer(I32, 0), integer(I32, 1)

    def one_chunk(start: Value, carried: list[Carried]) -> list[Carried]:
        if place.meet:
            b.barrier()  # the chunk before has been printed
        _gather(b, tile, start, chunk, size, base)
        with b.when(_is_printer(b)):

            def one_element(i: Value, nothing: list[Carried]) -> list[Carried]:
                place = _element(b, base, i, size)
                bits = b.emit(IntType(8 * size), f"load i{8 * size}, {place.typed}, align {size}")
                value = _argument(b, from_storage(b, bits, tile.element), tile.element, conversion)
                _vprintf(b, _bracketed(b, conversion.text(value), tile.shape, b.add(start, i)), [value])
                return []

            for_loop(b, zero, integer(I32, chunk), one, [], one_element)
        return []

    for_loop(b, zero, integer(I32, total), integer(I32, chunk), [], one_chunk)


def _element(b: KernelBuilder, base: Value, position: Value, size: int) -> Value:
    return b.offset(base, b.mul(position, integer(I32, size)))


def _gather(b: KernelBuilder, tile: Tile, start: Value, chunk: int, size: int, base: Value) -> None:
    """Bring the elements from flat index `start` on into shared memory."""
    owner = owner_predicate(b, tile.layout)
    for r in unique_registers(tile.layout):
        place = b.binary("sub", flat_index(b, tile.layout, r), start)
        inside = b.compare("ult", place, integer(I32, chunk))
        with b.when(inside if owner is None else b.and_(inside, owner)):
            bits = to_storage(b, tile.registers[r], tile.element)
            where = _element(b, base, place, size)
            b.line(f"store {bits.typed}, {where.typed}, align {size}")
    b.barrier()


def _bracketed(b: KernelBuilder, conversion: str, shape: Sequence[int], position: Value) -> Value:
    """The format of the element at a flat index: as many brackets as rows begin or end with it.

    All of them lie in one table of strings of one length.
    """
    rank = len(shape)
    closings = ["]" * closed + (", " if closed < rank else "") for closed in range(rank + 1)]
    formats = ["[" * opened + conversion + closing for opened in range(rank + 1) for closing in closings]
    length = max(map(len, formats)) + 1
    table = _text(b, b"".join(f.encode().ljust(length, b"\0") for f in formats))
    extents = [prod(shape[d:]) for d in range(rank)]
    number = integer(I32, 0)
    for shift, weight in ((0, rank + 1), (1, 1)):
        moved = b.add(position, integer(I32, shift))
        for extent in extents:
            rest = b.and_(moved, integer(I32, extent - 1))  # extents are powers of two
            boundary = b.cast("zext", b.compare("eq", rest, integer(I32, 0)), I32)
            number = b.add(number, b.mul(boundary, integer(I32, weight)))
    return b.offset(table, b.mul(number, integer(I32, length)))


# -- assertions -----------------------------------------------------------------------------------------------------


def report_failures(
    b: KernelBuilder, condition: Tile, message: str, *, file: str = UNKNOWN_FILE, line: int = 0
) -> Value:
    """Print `file:line: tile block: [x, y, z], position: [i, ...]: message` for each false element; whether this
    thread holds one."""
    owner = owner_predicate(b, condition.layout)
    failing = {}
    for r in unique_registers(condition.layout):
        wrong = b.not_(condition.registers[r])
        failing[r] = wrong if owner is None else b.and_(wrong, owner)
    anything = integer(I1, 0)
    for wrong in failing.values():
        anything = b.or_(anything, wrong)
    positions = ", ".join(["%d"] * len(condition.shape))
    head = f"{file}:{line}: tile block: ".replace("%", "%%")
    text = f"{head}[%d, %d, %d], position: [{positions}]: {message.replace('%', '%%')}\n"
    block = [b.block_id(axis) for axis in "xyz"]
    with b.when(anything):
        for r, wrong in failing.items():
            with b.when(wrong):
                where = [index(b, condition.layout, r, d) for d in range(len(condition.shape))]
                _vprintf(b, _text(b, llvm_text.to_bytes(text) + b"\0"), [*block, *where])
    return anything


def assert_(b: KernelBuilder, condition: Tile, message: str, *, file: str = UNKNOWN_FILE, line: int = 0) -> None:
    """Report every false element and end the kernel with an error if there is one (Tile IR, "assert")."""
    failed = report_failures(b, condition, message, file=file, line=line)
    with b.when(failed):
        trap(b)
