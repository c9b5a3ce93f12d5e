# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An annotated hex dump of a bytecode file: `python -m libtile.bytecode.annotate FILE`.

Every byte is shown once, next to what it says: container, tables, and each instruction as one piece.

`libtile_tools.annotate` is the command line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from libtile.bytecode import container_numbers as N
from libtile.bytecode.body import BodyDecoder
from libtile.bytecode.container_numbers import SectionId
from libtile.bytecode.cursor import put, varint
from libtile.bytecode.model import Block, EncodedBody, Module, Operation, Region, Value, describe_location
from libtile.bytecode.reader import read
from libtile.spec import OpSpec, Version
from libtile.support.errors import visible

WIDTH = 8
"""Bytes per line."""


class Dump:
    """Lines of a dump, and the position that they have reached."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.p = 0
        self.lines: list[str] = []

    def title(self, text: str) -> None:
        self.lines.append(f"\n{text}")

    def take(self, size: int, text: str, indent: int = 0) -> None:
        """Show the next `size` bytes with `text` beside the first line of them."""
        chunk = self.data[self.p : self.p + size]
        for at in range(0, max(len(chunk), 1), WIDTH):
            part = chunk[at : at + WIDTH]
            note = "  " * indent + visible(text) if at == 0 else ""
            self.lines.append(f"{self.p + at:08x}  {part.hex(' '):<{3 * WIDTH}} {note}".rstrip())
        self.p += size

    def varint(self, text: str, indent: int = 0) -> int:
        """Show a varint; the first `{}` in `text` stands for its value."""
        value, end = varint(self.data, self.p)
        self.take(end - self.p, text.replace("{}", str(value), 1), indent)  # names behind it may hold braces
        return value

    def until(self, end: int, text: str, indent: int = 0) -> None:
        if end > self.p:
            self.take(end - self.p, text, indent)


def annotate(data: bytes, *, allow_testing: bool = False, preview: tuple[str, ...] = ()) -> str:
    """The dump of a file. Raises BytecodeError when the file cannot be read as a module."""
    module = read(data, allow_testing=allow_testing, preview=preview)
    dump = Dump(data)
    dump.lines.append("offset    bytes                    meaning")
    dump.take(8, "magic")
    dump.take(1, f"major version {data[8]}")
    dump.take(1, f"minor version {data[9]}")
    dump.take(2, f"version tag{' (preview)' if module.preview else ''}")
    while True:
        mark = data[dump.p]
        section = SectionId(mark & ~N.ALIGNED)
        dump.title(f"section {section.label}")
        dump.take(1, f"section id {int(section)}{', aligned' if mark & N.ALIGNED else ''}")
        if section == SectionId.END:
            return "\n".join(dump.lines).lstrip("\n") + "\n"
        length = dump.varint("length {}")
        if mark & N.ALIGNED:
            alignment = dump.varint("alignment {}")
            dump.until(dump.p + -dump.p % alignment, "padding")
        start = dump.p
        _SECTIONS[section](dump, module, start)
        dump.until(start + length, "padding")


# -- tables -----------------------------------------------------------------------------------------------------------


def _table(dump: Dump, start: int, width: int, what: str, text: str = "") -> list[int]:
    count = dump.varint(f"number of {what}: {{}}")
    dump.until(dump.p + (start - dump.p) % width, "padding")
    offsets = []
    for index in range(count):
        offset = int.from_bytes(dump.data[dump.p : dump.p + width], "little")
        note = text.format(index=index, offset=offset) if text else f"{what[:-1]} {index} starts at {offset}"
        dump.take(width, note, 1)
        offsets.append(offset)
    return offsets


def _entries(dump: Dump, offsets: list[int], end: int, texts: Iterator[str]) -> None:
    base = dump.p
    for index, text in enumerate(texts):
        stop = base + offsets[index + 1] if index + 1 < len(offsets) else end
        dump.until(stop, text, 1)


def _end_of(dump: Dump, start: int) -> int:
    """The end of the section whose payload starts at `start`: the next section's header follows it."""
    for _, payload, length in sections_of(dump.data):
        if payload == start:
            return payload + length
    raise ValueError(f"no section starts at {start}")


def sections_of(data: bytes) -> list[tuple[SectionId, int, int]]:
    """The sections of a file that `read` accepts: id, offset and length of the payload."""
    result = []
    p = len(N.MAGIC) + 4
    while data[p] & ~N.ALIGNED != SectionId.END:
        mark = data[p]
        length, p = varint(data, p + 1)
        if mark & N.ALIGNED:
            alignment, p = varint(data, p)
            p += -p % alignment
        result.append((SectionId(mark & ~N.ALIGNED), p, length))
        p += length
    return result


def _strings(dump: Dump, module: Module, start: int) -> None:
    offsets = _table(dump, start, 4, "strings")
    _entries(dump, offsets, _end_of(dump, start), (f"{i}: {s!r}" for i, s in enumerate(_tables(module).strings)))


def _types(dump: Dump, module: Module, start: int) -> None:
    offsets = _table(dump, start, 4, "types")
    names = {t: i for i, t in reversed(list(enumerate(_tables(module).types)))}

    def show(value: Any) -> str:
        if isinstance(value, tuple):
            return f"[{', '.join(map(show, value))}]"
        return f"#{names[value]}" if value in names else str(value)

    texts = []
    for index, type_ in enumerate(_tables(module).types):
        fields = ", ".join(f"{n} {show(v)}" for n, v in zip(type_.names, type_.parameters) if v is not None)
        texts.append(f"#{index}: {type_.name}" + (f" ({fields})" if fields else ""))
    _entries(dump, offsets, _end_of(dump, start), iter(texts))


def _constants(dump: Dump, module: Module, start: int) -> None:
    offsets = _table(dump, start, 8, "constants")
    for index, _ in enumerate(offsets):
        size = dump.varint(f"{index}: {{}} bytes", 1)
        dump.until(dump.p + size, "elements", 2)


def _debug(dump: Dump, module: Module, start: int) -> None:
    _table(dump, start, 4, "functions")
    _table(dump, start, 8, "location indices", "location {index}: record {offset}")
    offsets = _table(dump, start, 4, "records")
    texts = []
    table = _tables(module).debug
    numbers = {d: i + 1 for i, d in reversed(list(enumerate(table)))}
    for index, info in enumerate(table):
        fields = ", ".join(
            f"{n} {'#' + str(numbers[v]) if v in numbers else repr(v)}" for n, v in zip(info.names, info.parameters)
        )
        texts.append(f"#{index + 1}: {info.name}" + (f" ({fields})" if fields else ""))
    _entries(dump, offsets, _end_of(dump, start), iter(texts))


def _producer(dump: Dump, module: Module, start: int) -> None:
    dump.varint(f"string {{}}: {module.producer!r}")


def _globals(dump: Dump, module: Module, start: int) -> None:
    dump.varint("number of globals: {}")
    extended = _version(module) >= module.spec.change("GLOBAL_VISIBILITY")
    for variable in module.globals:
        dump.varint(f"name: string {{}} {variable.name!r}", 1)
        dump.varint("type {}", 2)
        dump.varint("value: constant {}", 2)
        dump.varint("alignment {}", 2)
        if extended:
            dump.varint(f"visibility {variable.visibility}", 2)
            dump.varint(f"constant {variable.constant}", 2)


# -- functions --------------------------------------------------------------------------------------------------------


def _functions(dump: Dump, module: Module, start: int) -> None:
    dump.varint("number of functions: {}")
    for function in module.functions:
        encoded = function.encoded
        if encoded is None:
            raise ValueError("the module's bodies must not be decoded yet")
        dump.varint(f"function: name is string {{}} {function.name!r}", 1)
        dump.varint("signature: type {}", 2)
        flags = dump.data[dump.p]
        names = [n.lower() for n, bit in vars(N.FunctionFlag).items() if n.isupper() and flags & bit]
        dump.take(1, f"flags: {', '.join(names) or 'none'}", 2)
        dump.varint(f"locations: slot {{}}{_at(function.location)}", 2)
        length = bytearray()
        put(length, len(encoded.data))
        dump.until(encoded.offset - len(length), _attributes_text(module), 2)
        dump.varint("body of {} bytes", 2)
        _body(dump, encoded)


def _attributes_text(module: Module) -> str:
    if _version(module) >= module.spec.change("ARGUMENT_ATTRIBUTES"):
        return "optimization hints, argument attributes"
    return "optimization hints"


class _Tracer(BodyDecoder):
    """Notes where each op, region and block starts."""

    def __init__(self, events: list[list[Any]], *arguments: Any) -> None:
        super().__init__(*arguments)
        self.events = events

    def _operation(self, p: int, into: list[Operation]) -> int:
        event: list[Any] = [p, self.depth * 2, None]
        self.events.append(event)
        end = super()._operation(p, into)
        event[2] = into[-1]
        return end

    def regions(self, p: int, count: int, op: OpSpec) -> tuple[list[Region], int]:
        self.events.append([p, self.depth * 2 + 1, f"{count} region{'s' * (count != 1)} of {op.name}"])
        return super().regions(p, count, op)

    def _region(self, p: int) -> tuple[Region, int]:
        self.events.append([p, self.depth * 2, "region: number of blocks"])
        return super()._region(p)

    def _block(self, p: int) -> tuple[Block, int]:
        self.events.append([p, self.depth * 2, "block: arguments, number of ops"])
        return super()._block(p)


def _body(dump: Dump, encoded: EncodedBody) -> None:
    """Show each op's own bytes as one piece, and its regions indented below it."""
    events: list[list[Any]] = []
    block = encoded.decode(lambda *arguments: _Tracer(events, *arguments))
    names: dict[Value, int] = {}

    def name(value: Value) -> str:
        return f"%{names.setdefault(value, len(names))}"

    for argument in block.arguments:
        name(argument)
    ends = [p for p, _, _ in events[1:]] + [len(encoded.data)]
    for (_, depth, what), end in zip(events, ends):
        text = what if isinstance(what, str) else _op_text(what, name)
        dump.until(encoded.offset + end, text, 3 + depth)


def _op_text(op: Operation, name: Callable[[Value], str]) -> str:
    results = ", ".join(map(name, op.results))
    operands = ", ".join(map(name, op.operands))
    return f"{results + ' = ' if results else ''}{op.name} {operands}".rstrip() + _at(op.location)


def _at(location: Any) -> str:
    text = describe_location(location)
    return f"  ({text})" if text else ""


def _tables(module: Module) -> Any:
    return module.tables


def _version(module: Module) -> Version:
    return module.version or module.spec.compatibility


_SECTIONS: dict[SectionId, Callable[[Dump, Module, int], None]] = {
    SectionId.STRING: _strings,
    SectionId.FUNC: _functions,
    SectionId.DEBUG: _debug,
    SectionId.CONSTANT: _constants,
    SectionId.TYPE: _types,
    SectionId.GLOBAL: _globals,
    SectionId.PRODUCER: _producer,
}
