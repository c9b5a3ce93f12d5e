# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes a Module as bytecode, in any version.

A module that was read keeps its file's tables and section order, so that the same version gives the same bytes, and
bodies that nobody looked at are copied. A module made in memory is written as the reference writer does: tables in
order of first use, sections Global, Func, Constant, Debug, Type, Producer, String, End.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from libtile.bytecode import container as C
from libtile.bytecode import container_numbers as N
from libtile.bytecode.attributes import write_attribute
from libtile.bytecode.body import BodyEncoder
from libtile.bytecode.container_numbers import FunctionFlag, SectionId
from libtile.bytecode.context import WriteContext
from libtile.bytecode.cursor import put
from libtile.bytecode.errors import InvalidError, MigrationError, UnsupportedVersionError
from libtile.bytecode.migration import (
    HintMigration,
    check_preview,
    downgrade_argument_attributes,
    downgrade_global,
    downgrade_producer,
    upgrade_hints,
)
from libtile.bytecode.model import Array, Function, Module, SectionLayout, describe_location
from libtile.bytecode.reader import read
from libtile.bytecode.types_codec import encode_debug, encode_type, unsupported_parameter
from libtile.spec import Spec, Version

DEFAULT_LAYOUT = tuple(
    SectionLayout(int(s), N.REQUIRED_ALIGNMENT.get(s, 1))
    for s in (
        SectionId.GLOBAL,
        SectionId.FUNC,
        SectionId.CONSTANT,
        SectionId.DEBUG,
        SectionId.TYPE,
        SectionId.PRODUCER,
        SectionId.STRING,
    )
)
"""The reference writer's order of sections."""


def write(
    module: Module,
    version: Version | str | None = None,
    *,
    allow_testing: bool = False,
    for_target: str | None = None,
    drop_hints: bool = False,
    warnings: list[str] | None = None,
) -> bytes:
    """The bytes of `module` in `version` (None: the version it was read from, or else the compatibility version).

    Optimization hints change no program. Where the version has none for `default`, `for_target` (`"sm_90"`...) is the
    architecture that they are written for; a key that the file has for it wins. `drop_hints` leaves out those that the
    version still cannot hold, and appends to `warnings` what that was.
    Raises MigrationError when the module uses what the version does not have, InvalidError when it cannot be encoded
    at all, UnsupportedVersionError for a version that is not known (or a testing one without `allow_testing`).
    """
    target = _target(module, version, allow_testing)
    if not allow_testing:
        _check_entries(module)
    check_preview(module, target)
    hints = HintMigration(module.spec, target, for_target, drop_hints, as_read=module.version == target)
    data = _FileWriter(module, target, hints).write()
    if warnings is not None:
        warnings += hints.warnings
    return data


def migrate(
    data: bytes,
    to: Version | str,
    *,
    spec: Spec | None = None,
    allow_testing: bool = False,
    preview: Collection[str] = (),
    for_target: str | None = None,
    drop_hints: bool = False,
    warnings: list[str] | None = None,
) -> bytes:
    """A file as the same program in another version. Upgrading always works; see `write` for what may be refused."""
    module = read(data, spec=spec, allow_testing=allow_testing, preview=preview)
    return write(
        module, to, allow_testing=allow_testing, for_target=for_target, drop_hints=drop_hints, warnings=warnings
    )


def _check_entries(module: Module) -> None:
    for function in module.functions:
        problem = unsupported_parameter(function.type) if function.kind == "entry" else None
        if problem is not None:
            raise InvalidError(f"function '{function.name}': {problem}")


def _target(module: Module, version: Version | str | None, allow_testing: bool) -> Version:
    spec = module.spec
    if version is None:
        return module.version or (spec.current if module.preview else spec.compatibility)
    if isinstance(version, str):
        try:
            version = Version.parse(version)
        except ValueError as error:
            raise UnsupportedVersionError(str(error)) from None
    testing = version in spec.testing_versions and not allow_testing and module.version != version
    if version not in spec.versions or testing:
        raise UnsupportedVersionError(
            f"unsupported version requested {version}, must be in range [{spec.released_versions[0]}, {spec.current}]"
        )
    return version


class _FileWriter:
    """One file being written."""

    def __init__(self, module: Module, version: Version, hints: HintMigration) -> None:
        self.module = module
        self.spec = module.spec
        self.version = version
        self.ctx = WriteContext(module.spec, version, module.preview, module.tables, hints)
        self.slots: list[Sequence[int]] = []
        """Debug indices of each function that has locations: its own, then its ops'."""

    def write(self) -> bytes:
        from libtile.bytecode.container_declared import build_table  # not needed by those that only read

        payloads: dict[SectionId, bytes] = {}
        self._announce_functions()
        if self.module.globals:
            payloads[SectionId.GLOBAL] = self._globals()
        payloads[SectionId.FUNC] = self._functions()
        kept = {s.id for s in self.module.layout or ()}
        if self.ctx.constants or SectionId.CONSTANT in kept:
            entries = [_counted(data) for data in self.ctx.constants]
            payloads[SectionId.CONSTANT] = build_table(N.CONSTANTS, entries)
        if self.slots or self.ctx.debug_list or SectionId.DEBUG in kept:
            payloads[SectionId.DEBUG] = self._debug()
        payloads[SectionId.TYPE] = build_table(N.TYPES, self._type_entries())
        producer = downgrade_producer(self.module.producer, self.spec, self.version)
        if producer is not None:
            out = bytearray()
            put(out, self.ctx.string_index(producer))
            payloads[SectionId.PRODUCER] = bytes(out)
        payloads[SectionId.STRING] = build_table(N.STRINGS, self.ctx.string_list)
        return self._assemble(payloads)

    def _assemble(self, payloads: dict[SectionId, bytes]) -> bytes:
        from libtile.bytecode.container_declared import build_header

        layout = self.module.layout or DEFAULT_LAYOUT
        missing = set(payloads) - {s.id for s in layout}
        layout += tuple(s for s in DEFAULT_LAYOUT if s.id in missing)
        tag = self.version.tag | (N.PREVIEW_BIT if self.module.preview else 0)
        out = bytearray(build_header(self.version.major, self.version.minor, tag))
        for section in layout:
            payload = payloads.get(SectionId(section.id))
            if payload is not None:
                C.append_section(out, section.id, section.alignment, payload)
        out.append(SectionId.END)
        return bytes(out)

    # -- tables -------------------------------------------------------------------------------------------------------

    def _type_entries(self) -> list[bytes]:
        entries = []
        for type_ in self.ctx.type_list:  # every type that an entry names is in the list already
            entries.append(encode_type(self.ctx, type_))
        return entries

    def _debug(self) -> bytes:
        from libtile.bytecode import container_declared as declared

        entries = [encode_debug(self.ctx, info) for info in self.ctx.debug_list]
        starts: list[int] = []
        indices: list[int] = []
        for slot in self.slots:
            starts.append(len(indices))
            indices.extend(slot)
        offsets, running = [], 0
        for entry in entries:
            offsets.append(running)
            running += len(entry)
        head = declared.DEBUG.build(
            {
                "functions": {"count": len(starts), "offsets": starts},
                "indices": {"count": len(indices), "offsets": indices},
                "records": {"count": len(entries), "offsets": offsets},
            }
        )
        return head + b"".join(entries)

    # -- globals and functions ----------------------------------------------------------------------------------------

    def _globals(self) -> bytes:
        out = bytearray()
        ctx = self.ctx
        extended = self.version >= self.spec.change("GLOBAL_VISIBILITY")
        put(out, len(self.module.globals))
        for variable in self.module.globals:
            if not extended:
                downgrade_global(variable, self.spec, self.version)
            put(out, ctx.string_index(variable.name))
            put(out, ctx.type_index(variable.value.type))
            put(out, ctx.constant_index(variable.value))
            if not 0 <= variable.alignment < 1 << 64:
                raise InvalidError(f"global `{variable.name}` has the alignment {variable.alignment}")
            put(out, variable.alignment)
            if extended:
                case = self.spec.enums["SymbolVisibility"].by_keyword.get(variable.visibility)
                if case is None:
                    raise InvalidError(f"global `{variable.name}` has the unknown visibility {variable.visibility!r}")
                put(out, case.value)
                put(out, variable.constant)
        return bytes(out)

    def _announce_functions(self) -> None:
        """Names, signatures and locations of all functions come first in the tables."""
        for function in self.module.functions:
            self.ctx.string_index(function.name)
            self.ctx.type_index(function.type)
            self.ctx.debug_index(function.location)

    def _functions(self) -> bytes:
        out = bytearray()
        put(out, len(self.module.functions))
        for function in self.module.functions:
            self._function(out, function)
        layout = next((s for s in self.module.layout or () if s.id == SectionId.FUNC), None)
        if layout is None or layout.trailing:
            out += bytes([N.PADDING]) * (-len(out) % 8)
        return bytes(out)

    def _function(self, out: bytearray, function: Function) -> None:
        put(out, self.ctx.string_index(function.name))
        put(out, self.ctx.type_index(function.type))
        flags, attributes = self._attributes(function)
        out.append(flags)
        body, locations = self._body(function)
        if function.slot or function.location is not None or any(locations):
            self.slots.append([self.ctx.debug_index(function.location), *locations])
            put(out, len(self.slots))
        else:
            out.append(0)
        out += attributes
        put(out, len(body))
        out += body

    def _attributes(self, function: Function) -> tuple[int, bytes]:
        """The flag byte, and the attributes of the record."""
        out = bytearray()
        flags = FunctionFlag.PRIVATE if function.private else 0
        mandatory = self.version >= self.spec.change("ENTRY_HINTS_MANDATORY")
        if function.kind == "entry":
            flags |= FunctionFlag.ENTRY
            hints = upgrade_hints(function.hints, self.spec, self.version)
            if hints is not None:
                flags |= 0 if mandatory else FunctionFlag.HINTS
                try:
                    write_attribute(self.ctx, out, hints, "optimization_hints")
                except MigrationError as error:
                    error.op, error.location = "cuda_tile.entry", describe_location(function.location)
                    raise
        elif function.kind not in self.spec.ops:
            raise InvalidError(f"function '{function.name}' has the unknown kind '{function.kind}'")
        else:
            problem = self.ctx.check_op(function.kind)
            if problem is not None:
                raise problem
        if self.version >= self.spec.change("ARGUMENT_ATTRIBUTES"):
            write_attribute(self.ctx, out, Array(function.argument_attributes), "arg_attrs")
        else:
            downgrade_argument_attributes(function, self.spec, self.version)
        return flags, bytes(out)

    def _body(self, function: Function) -> tuple[bytes, Sequence[int]]:
        """The bytes of the body, and the debug index of each op in order."""
        encoded = function.encoded
        if encoded is not None and encoded.version == self.version and encoded.tables is self.module.tables:
            return encoded.data, encoded.locations or ()
        encoder = BodyEncoder(self.ctx)
        body = encoder.encode(function.body)
        if not any(encoder.locations):
            return body, [0] * len(encoder.locations)
        return body, [self.ctx.debug_index(location) for location in encoder.locations]


def _counted(data: bytes) -> bytes:
    out = bytearray()
    put(out, len(data))
    return bytes(out) + data
