# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads a bytecode file into a Module."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Collection
from itertools import pairwise
from typing import NamedTuple

from libtile.bytecode import container as C
from libtile.bytecode import container_numbers as N
from libtile.bytecode.attributes import read_attribute
from libtile.bytecode.body import BodyChecker, BodyDecoder
from libtile.bytecode.container_numbers import FunctionFlag, SectionId
from libtile.bytecode.context import ReadContext
from libtile.bytecode.cursor import end_of_data, located, varint
from libtile.bytecode.errors import Fault, InvalidError, MalformedError, UnsupportedVersionError
from libtile.bytecode.limits import ALIGNMENT, FILE_BYTES
from libtile.bytecode.migration import upgrade_argument_attributes, upgrade_global, upgrade_hints
from libtile.bytecode.model import (
    Array,
    Block,
    Dictionary,
    EncodedBody,
    Function,
    Global,
    Module,
    OptimizationHints,
    SectionLayout,
)
from libtile.bytecode.types_codec import (
    Raw,
    enum_keyword,
    is_location,
    link_debug,
    link_types,
    parse_debug,
    parse_type,
    unsupported_parameter,
)
from libtile.spec import Spec, Version, default_spec
from libtile.support.collector import collector_paused


class _Section(NamedTuple):
    id: SectionId
    alignment: int
    base: int
    """Absolute offset of the payload."""
    data: bytes


IS_TEXT = "note: it is Tile IR as text, of which 'cuda-tile-translate -mlir-to-cudatilebc' makes bytecode"
"""What the tools that read bytecode alone say when they are given a text."""


def is_bytecode(data: bytes) -> bool:
    """Whether `data` starts as a bytecode file does."""
    return data[: len(N.MAGIC)] == N.MAGIC


def is_text(data: bytes) -> bool:
    """Whether `data`, which is no bytecode, looks like a module of Tile IR as text."""
    return b"cuda_tile.module" in data and b"\0" not in data


@collector_paused()
def read(
    data: bytes,
    *,
    spec: Spec | None = None,
    allow_testing: bool = False,
    preview: Collection[str] = (),
    lazy: bool = True,
) -> Module:
    """The module that a bytecode file holds.

    `allow_testing` lets the testing versions and ops pass (and, with a warning, entries whose parameters are no tiles,
    which the open project's tests have and the reference tools refuse), `preview` names the preview features that may
    be used, `lazy=False` decodes every function body at once. Raises BytecodeError; a lazily decoded body raises its
    own when it is first looked at.
    """
    data = bytes(data)
    spec = spec or default_spec()
    version, is_preview = _header(data, spec, allow_testing, preview)
    ctx = ReadContext(spec, version, allow_testing, frozenset(preview), is_preview)
    sections = _sections(data)
    by_id = {s.id: s for s in sections}
    for mandatory in (SectionId.STRING, SectionId.FUNC):
        if mandatory not in by_id:
            name = {SectionId.STRING: "string", SectionId.FUNC: "function"}[mandatory]
            raise MalformedError(f"{name} section is mandatory", offset=len(data), section="file")
    _strings(ctx, by_id[SectionId.STRING])
    module = Module(spec, version=version, preview=is_preview, tables=ctx.tables, warnings=ctx.warnings)
    if SectionId.PRODUCER in by_id:
        module.producer = _producer(ctx, by_id[SectionId.PRODUCER])
    if SectionId.TYPE in by_id:
        _types(ctx, by_id[SectionId.TYPE])
    if SectionId.CONSTANT in by_id:
        _constants(ctx, by_id[SectionId.CONSTANT])
    slots = _debug(ctx, by_id[SectionId.DEBUG]) if SectionId.DEBUG in by_id else _NO_SLOTS
    if SectionId.GLOBAL in by_id:
        module.globals = _globals(ctx, by_id[SectionId.GLOBAL])
    module.functions, trailing = _functions(ctx, by_id[SectionId.FUNC], slots)
    module.layout = tuple(
        SectionLayout(int(s.id), s.alignment, trailing if s.id == SectionId.FUNC else 0) for s in sections
    )
    if not lazy:
        for function in module.functions:
            _ = function.body
    return module


def validate(
    data: bytes, *, spec: Spec | None = None, allow_testing: bool = False, preview: Collection[str] = ()
) -> list[str]:
    """Decode all of a file, keeping nothing; gives the warnings. Raises BytecodeError when something is wrong."""
    module = read(data, spec=spec, allow_testing=allow_testing, preview=preview)
    for function in module.functions:
        if function.encoded is not None:
            function.encoded.decode(BodyChecker)
    return module.warnings


# -- container --------------------------------------------------------------------------------------------------------


def _header(data: bytes, spec: Spec, allow_testing: bool, previews: Collection[str]) -> tuple[Version, bool]:
    """The version, and whether the file is marked as preview."""
    if len(data) > FILE_BYTES:
        raise MalformedError(f"file of {len(data)} bytes is too long", offset=FILE_BYTES, section="header")
    for position, expected in enumerate(N.MAGIC):
        got = data[position] if position < len(data) else 0
        if got != expected:
            hint = "; it is Tile IR as text, which libtile.parse reads" if is_text(data) else ""
            raise MalformedError(
                f"invalid magic number at position {position}, got {got} expected {expected}{hint}",
                offset=position,
                section="header",
            )
    numbers, end = C.read_header(data)
    is_preview = False
    version = Version(*numbers)
    if version.tag & N.PREVIEW_BIT and version not in spec.versions:
        untagged = Version(version.major, version.minor, version.tag & ~N.PREVIEW_BIT)
        if untagged >= spec.change("PREVIEW"):
            version, is_preview = untagged, True
    if version not in spec.versions or (version in spec.testing_versions and not allow_testing):
        raise UnsupportedVersionError(
            f"unsupported Tile version {'.'.join(map(str, numbers))}, this reader supports versions "
            + spec.version_ranges,
            offset=end,
            section="header",
        )
    if is_preview and not previews:
        raise UnsupportedVersionError(
            "public-preview bytecode requires at least one enabled preview feature", offset=end, section="header"
        )
    if is_preview and version != spec.current:
        raise UnsupportedVersionError(
            f"a file that is marked as preview is only valid at version {spec.current}, file version is {version}",
            offset=end,
            section="header",
        )
    return version, is_preview


def _sections(data: bytes) -> list[_Section]:
    """The sections in file order, checked against the file's length and against each other."""
    sections: list[_Section] = []
    offset = len(N.MAGIC) + 4
    while True:
        if offset >= len(data):
            raise MalformedError(
                "unexpected end of data while reading section header",
                offset=offset,
                section="file",
                expected="a section, or the end section",
            )
        start = offset
        header, offset = C.read_section_header(data, start)
        if header.id == SectionId.END:
            if header.aligned:
                raise MalformedError("end section should not have alignment flag set", offset=start, section="file")
            if offset != len(data):
                raise MalformedError("end section is not the last section", offset=offset, section="file")
            return sections
        if header.length is None:
            raise MalformedError(f"unknown section ID: {header.id}", offset=start, section="file")
        section = SectionId(header.id)
        alignment = _alignment(header, section, start)
        offset += -offset % alignment
        if header.length > len(data) - offset:
            raise MalformedError(
                f"section length {header.length} exceeds remaining data size {max(0, len(data) - offset)}",
                offset=start,
                section=section.label,
            )
        if any(s.id == section for s in sections):
            raise MalformedError("section appears twice", offset=start, section=section.label)
        sections.append(_Section(section, alignment, offset, data[offset : offset + header.length]))
        offset += header.length


def _alignment(header: C.SectionHeader, section: SectionId, start: int) -> int:
    alignment = 1 if header.alignment is None else header.alignment
    if header.aligned and (alignment == 0 or alignment & (alignment - 1) or alignment > ALIGNMENT):
        raise MalformedError(f"invalid alignment value: {alignment}", offset=start, section=section.label)
    required = N.REQUIRED_ALIGNMENT.get(section, 1)
    if alignment % required:
        got = f"has alignment of {alignment}" if header.aligned else "has no alignment flag set"
        raise MalformedError(
            f"section {int(section)} must have alignment that is a multiple of {required} bytes, but {got}",
            offset=start,
            section=section.label,
        )
    return alignment


# -- tables -----------------------------------------------------------------------------------------------------------


def _table(kind: N.Table, section: _Section, what: str) -> list[tuple[bytes, int]]:
    """The entries of a table section, each with its absolute offset."""
    offsets, end = C.read_table(kind, section.data, section.base, section.id.label)
    data = section.data[end:]
    base = section.base + end
    bounds = C.entries(data, offsets, base, section.id.label, what)
    return [(data[start:stop], base + start) for start, stop in bounds]


def _strings(ctx: ReadContext, section: _Section) -> None:
    offsets, end = C.read_table(N.STRINGS, section.data, section.base, section.id.label)
    data = section.data[end:]
    if offsets and offsets[0] > len(data):
        # The reference reader clamps it, and reads an empty string.
        ctx.warn(f"string 0 starts at offset {offsets[0]} of {len(data)}; read as empty")
        ctx.tables.strings.append("")
        offsets = offsets[1:]
    bounds = C.entries(data, offsets, section.base + end, section.id.label, "string")
    ctx.tables.strings += [data[a:b].decode("utf-8", "surrogateescape") for a, b in bounds]


def _records(entries: list[tuple[bytes, int]], title: str, parse: Callable[[bytes, int], tuple[Raw, int]]) -> list[Raw]:
    """Parse each entry of a table; an entry ends exactly where the next one starts."""
    raws = []
    for index, (data, base) in enumerate(entries):
        try:
            raw, p = parse(data, 0)
            if p != len(data):
                raise Fault(p, f"{len(data) - p} bytes follow the entry", expected="the end of the entry")
        except (Fault, IndexError):
            with located(base, f"{title} > entry {index}", base + len(data)):
                raise
        raws.append(Raw(raw.declaration, raw.parameters, base))
    return raws


def _types(ctx: ReadContext, section: _Section) -> None:
    entries = _table(N.TYPES, section, "type")
    raws = _records(entries, section.id.label, lambda data, p: parse_type(ctx, data, p))
    with located(0, section.id.label, section.base + len(section.data)):
        ctx.tables.types = link_types(ctx.spec, raws)
    ctx.tables.type_offsets = [raw.offset for raw in raws]


def _constants(ctx: ReadContext, section: _Section) -> None:
    constants = ctx.tables.constants
    for index, (data, base) in enumerate(_table(N.CONSTANTS, section, "constant")):
        with located(base, f"{section.id.label} > entry {index}", base + len(data)):
            size, p = varint(data, 0)
            if size != len(data) - p:
                raise Fault(p, f"failed to read the raw byte data: {size} bytes", expected=f"{len(data) - p}")
            constants.append(data[p:])
    if len(set(constants)) != len(constants):
        ctx.duplicates = frozenset(data for data, count in Counter(constants).items() if count > 1)


class _Slots:
    """Locations by function: slot i (from 1) holds the indices of its function, then of the ops in order."""

    def __init__(self, starts: tuple[int, ...], indices: tuple[int, ...]) -> None:
        self.starts = (*starts, len(indices))
        self.count = len(starts)
        self.indices = memoryview(array("Q", indices))
        self.used: set[int] = set()

    def take(self, slot: int) -> memoryview:
        return self.indices[self.starts[slot - 1] : self.starts[slot]]


_NO_SLOTS = _Slots((), ())


def _debug(ctx: ReadContext, section: _Section) -> _Slots:
    title = section.id.label
    (starts, indices, records), end = C.read_debug_tables(section.data, section.base, title)
    # The gaps inside are counted from the section's start, which that of its data is.
    data, base = section.data[end:], section.base + end
    bounds = C.entries(data, records, base, title, "debug info attribute")
    raws = _records([(data[a:b], base + a) for a, b in bounds], title, lambda entry, p: parse_debug(ctx, entry, p))
    with located(0, title, section.base + len(section.data)):
        ctx.tables.debug = link_debug(raws)
    if any(a > b for a, b in pairwise((*starts, len(indices)))):
        raise MalformedError(
            "debug info index offsets are out of order or out of bounds", offset=section.base, section=title
        )
    return _Slots(starts, indices)


def _producer(ctx: ReadContext, section: _Section) -> str:
    with located(section.base, section.id.label, section.base + len(section.data)):
        index, p = varint(section.data, 0)
        producer = ctx.string_at(index, 0)
        _expect_end(section, p)
    if ctx.version < ctx.spec.change("PRODUCER_SECTION"):
        ctx.warn(f"a producer section in a file of version {ctx.version}")
    return producer


def _expect_end(section: _Section, p: int) -> None:
    if p != len(section.data):
        raise Fault(p, f"{len(section.data) - p} bytes follow the section's content")


# -- globals and functions --------------------------------------------------------------------------------------------


def _globals(ctx: ReadContext, section: _Section) -> list[Global]:
    data = section.data
    extended = ctx.version >= ctx.spec.change("GLOBAL_VISIBILITY")
    least = 6 if extended else 4
    result: list[Global] = []
    with located(section.base, section.id.label, section.base + len(data)):
        count, p = varint(data, 0)
        if count > (len(data) - p) // least:
            raise Fault(
                p,
                f"number of globals ({count}) exceeds the maximum of {(len(data) - p) // least} that can fit in the "
                f"remaining payload of {len(data) - p} bytes.",
            )
        for number in range(count):
            ctx.tables.global_offsets.append(section.base + p)
            try:
                variable, p = _global(ctx, data, p, extended)
            except Fault as fault:
                fault.path.insert(0, f"global {number}")
                raise
            result.append(variable)
        _expect_end(section, p)
    return result


def _global(ctx: ReadContext, data: bytes, p: int, extended: bool) -> tuple[Global, int]:
    start = p
    index, p = varint(data, p)
    name = ctx.string_at(index, start)
    if not name:
        raise Fault(start, f"global symbol name at index {index} is empty", InvalidError)
    start = p
    index, p = varint(data, p)
    type_ = ctx.type_at(index, start)
    start = p
    index, p = varint(data, p)
    value = ctx.dense_at(index, type_, start)
    alignment, p = varint(data, p)
    visibility, constant = upgrade_global()
    if extended:
        start = p
        number, p = varint(data, p)
        visibility = enum_keyword(ctx.spec.enums["SymbolVisibility"], number, ctx.version, start)
        number, p = varint(data, p)
        constant = number != 0
    return Global(name, value, alignment, constant, visibility), p


def _functions(ctx: ReadContext, section: _Section, slots: _Slots) -> tuple[list[Function], int]:
    """The functions, and how many padding bytes follow them."""
    data = section.data
    functions: list[Function] = []
    with located(section.base, section.id.label, section.base + len(data)):
        count, p = varint(data, 0)
        if count > len(data):
            raise Fault(p, f"number of functions ({count}) exceeds payload size ({len(data)})")
        for number in range(count):
            try:
                function, p = _function(ctx, section, p, slots)
            except Fault as fault:
                fault.path.insert(0, f"function {number}")
                raise
            except IndexError:
                raise end_of_data(data, f"function {number}") from None
            functions.append(function)
        rest = data[p:]
        if len(rest) >= 8 or rest.strip(bytes([N.PADDING])):
            raise Fault(p, f"{len(rest)} bytes follow the last function", expected="padding to a multiple of 8")
    return functions, len(rest)


def _function(ctx: ReadContext, section: _Section, p: int, slots: _Slots) -> tuple[Function, int]:
    data = section.data
    start = p
    index, p = varint(data, p)
    name_index, name_start = index, start
    name = ctx.string_at(index, start)
    start = p
    index, p = varint(data, p)
    signature = ctx.type_at(index, start)
    if signature.name != "function":
        raise Fault(
            start,
            f"function signature index {index} does not refer to a function type for function '{name}', "
            f"got type: {signature.name}",
            InvalidError,
        )
    flags = data[p]
    kind = _kind(ctx, flags, name, p)
    problem = unsupported_parameter(signature) if kind == "entry" else None
    if problem is not None and not ctx.allow_testing:
        raise Fault(start, problem, InvalidError)
    if problem is not None:
        ctx.warn(f"function '{name}': {problem}")
    start = p = p + 1
    slot, p = varint(data, p)
    if slot > slots.count or slot in slots.used:
        why = "is used twice" if slot in slots.used else "out of bounds"
        raise Fault(start, f"failed to read function location for '{name}': index {slot} {why}")
    function = Function(name, signature, kind=kind, private=bool(flags & FunctionFlag.PRIVATE), slot=slot > 0)
    p = _function_attributes(ctx, function, flags, data, p)
    if not name:
        raise Fault(name_start, f"function name at index {name_index} is empty", InvalidError)
    start = p
    length, p = varint(data, p)
    if length > len(data) - p:
        raise Fault(start, f"function body length {length} exceeds remaining bytecode data ({len(data) - p} bytes)")
    body = data[p : p + length]
    locations: memoryview | None = None
    if slot:
        slots.used.add(slot)
        indices = slots.take(slot)
        if not indices:
            raise Fault(start, f"failed to read function location for '{name}'")
        function.location = ctx.debug_at(indices[0], start)
        if not is_location(function.location):
            raise Fault(start, f"failed to read function location for '{name}'", expected="a location")
        locations = indices[1:]
    decode = _body_decoder(ctx, function, body, section.base + p, locations)
    function._encoded = EncodedBody(body, section.base + p, ctx.version, ctx.tables, locations, decode)
    return function, p + length


def _kind(ctx: ReadContext, flags: int, name: str, p: int) -> str:
    """What sort of function the flag byte makes."""
    known = FunctionFlag.PRIVATE | FunctionFlag.ENTRY
    if ctx.version < ctx.spec.change("ENTRY_HINTS_MANDATORY"):
        known |= FunctionFlag.HINTS
    if flags & ~known:
        raise Fault(p, f"unknown function flags {flags:#x}", expected=f"bits of {known:#x}")
    if flags & FunctionFlag.ENTRY:
        return "entry"
    if ctx.allow_testing and ctx.version >= ctx.spec.ops["testing$func"].since:
        return "testing$func"
    raise Fault(p, f"un-expected non-entry function '{name}'", InvalidError)


def _function_attributes(ctx: ReadContext, function: Function, flags: int, data: bytes, p: int) -> int:
    """Hints and argument attributes; gives the position behind them."""
    is_entry = function.kind == "entry"
    mandatory = ctx.version >= ctx.spec.change("ENTRY_HINTS_MANDATORY")
    if is_entry and (mandatory or flags & FunctionFlag.HINTS):
        start = p
        hints, p = read_attribute(ctx, data, p)
        if not isinstance(hints, OptimizationHints):
            raise Fault(start, f"invalid optimization hints attribute for function '{function.name}'", InvalidError)
        function.hints = hints
    elif is_entry:
        function.hints = upgrade_hints(None, ctx.spec, ctx.version)
    function.argument_attributes = upgrade_argument_attributes(function)
    if ctx.version >= ctx.spec.change("ARGUMENT_ATTRIBUTES"):
        start = p
        array, p = read_attribute(ctx, data, p)
        if not isinstance(array, Array) or not all(isinstance(a, Dictionary) for a in array.elements):
            raise Fault(start, f"invalid argument attributes for function '{function.name}'", InvalidError)
        if len(array.elements) not in (0, len(function.type["inputs"])):
            raise Fault(
                start,
                f"{len(array.elements)} argument attributes for the {len(function.type['inputs'])} arguments of "
                f"function '{function.name}'",
                InvalidError,
            )
        function.argument_attributes = array.elements
    return p


def _body_decoder(
    ctx: ReadContext, function: Function, body: bytes, base: int, locations: memoryview | None
) -> Callable[..., Block]:
    """What decodes the body on demand. It holds on to the file's tables, not to the file."""

    def decode(make: Callable[..., BodyDecoder] = BodyDecoder) -> Block:
        where = f"{SectionId.FUNC.label} > function '{function.name}'"
        try:
            with located(base, where, base + len(body)), collector_paused():
                return make(ctx, body, locations).decode(function.type["inputs"])
        except RecursionError:
            raise MalformedError(
                "the caller's stack leaves no room for nested regions", offset=base, section=where
            ) from None

    return decode
