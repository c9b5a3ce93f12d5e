# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the codecs of one file share: the tables and the version, for reading and for writing."""

from __future__ import annotations

from libtile.bytecode import types_codec
from libtile.bytecode.errors import Fault, InvalidError, MigrationError
from libtile.bytecode.limits import DEBUG_DEPTH, FILE_BYTES, WARNINGS
from libtile.bytecode.migration import HintMigration
from libtile.bytecode.model import DebugInfo, Dense, OptimizationHints, Tables, Type
from libtile.spec import Spec, Version
from libtile.spec.model import DebugSpec


class ReadContext:
    """The tables of the file being read. Look-ups take the position to blame."""

    def __init__(
        self, spec: Spec, version: Version, allow_testing: bool, previews: frozenset[str], is_preview: bool
    ) -> None:
        self.spec = spec
        self.version = version
        self.allow_testing = allow_testing
        self.previews = previews
        self.is_preview = is_preview
        self.tables = Tables()
        self.warnings: list[str] = []
        self.attribute_tags = {t.tag: t for t in spec.attribute_tags.values()}
        self.debug_tags: dict[int, DebugSpec] = {}
        """The declarations of debug records, by tag, that the file has."""
        self.duplicates: frozenset[bytes] = frozenset()
        """Constants that the table holds more than once."""
        self._sizes: dict[Type, tuple[int, ...]] = {}

    def warn(self, message: str) -> None:
        if message not in self.warnings and len(self.warnings) < WARNINGS:
            self.warnings.append(message)

    def string_at(self, index: int, p: int) -> str:
        if index >= len(self.tables.strings):
            raise Fault(p, f"string index {index} out of bounds", expected=f"below {len(self.tables.strings)}")
        return self.tables.strings[index]

    def type_at(self, index: int, p: int) -> Type:
        if index >= len(self.tables.types):
            raise Fault(p, f"type index {index} out of bounds", expected=f"below {len(self.tables.types)}")
        return self.tables.types[index]

    def debug_at(self, index: int, p: int) -> DebugInfo | None:
        if index > len(self.tables.debug):
            raise Fault(p, f"debug info index {index} out of bounds", expected=f"at most {len(self.tables.debug)}")
        return self.tables.debug[index - 1] if index else None

    def dense_at(self, index: int, type_: Type, p: int) -> Dense:
        """The constant `index` as elements of the tile `type_`; its size must fit the type."""
        if index >= len(self.tables.constants):
            raise Fault(p, f"constant index {index} out of bounds", expected=f"below {len(self.tables.constants)}")
        sizes = self._sizes.get(type_)
        if sizes is None:
            bits = self.spec.types[type_["element"].name].bits if type_.name == "tile" else 0
            if not bits:
                raise Fault(
                    p,
                    f"expect Cuda Tile integer or float type but got: {type_.name}",
                    InvalidError,
                    expected="a tile of numbers",
                )
            sizes = self._sizes[type_] = dense_sizes(bits, type_["shape"])
        data = self.tables.constants[index]
        if len(data) not in sizes:
            raise Fault(p, f"failed to validate buffer size and format: {len(data)} bytes", InvalidError)
        if data in self.duplicates:
            self.tables.constant_index.setdefault((type_, data), index)
        return Dense(type_, data)


def nested_types(type_: Type) -> list[Type]:
    """The types that a type names directly, in order."""
    result = []
    for parameter in type_.parameters:
        for value in parameter if type(parameter) is tuple else (parameter,):
            if type(value) is Type:
                result.append(value)
    return result


def dense_sizes(bits: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The byte counts that hold a tile of `bits`-bit elements: one element, all of them, all of them packed."""
    width = (bits + 7) // 8
    count = 1
    for extent in shape:
        count *= extent
        if count > FILE_BYTES and 0 not in shape:  # no file holds them one by one
            return (width,)
    return (width, count * width, (count * bits + 7) // 8)


class WriteContext:
    """The tables of the file being written: each look-up gives an entry its index, in order of first use."""

    def __init__(
        self, spec: Spec, version: Version, preview: bool, base: Tables | None, hints: HintMigration | None = None
    ) -> None:
        self.hints = hints or HintMigration(spec, version)
        self.spec = spec
        self.version = version
        self.preview = preview
        self.strings: dict[str, int] = {}
        self.types: dict[Type, int] = {}
        self.constants: list[bytes] = []
        self._constant_index: dict[tuple[Type, bytes], int] = {}
        self._unique: dict[bytes, int] = {}
        self.debug: dict[DebugInfo, int] = {}
        self.debug_depths: dict[DebugInfo, int] = {}
        """How many records are in one another, of those that an entry of this writer's names, and of its own."""
        self.string_list: list[bytes] = []
        self.type_list: list[Type] = []
        self.debug_list: list[DebugInfo] = []
        self.nesting = 0
        """Attributes that stand around the one that is being written."""
        if base is not None:
            self._start_from(base)

    def _start_from(self, base: Tables) -> None:
        """Keep the file's entries in their places. A type that the version lacks has none: its first use reports it."""
        for text in base.strings:
            self.strings.setdefault(text, len(self.string_list))
            self.string_list.append(text.encode("utf-8", "surrogateescape"))
        for type_ in base.types:
            if self._has(type_):
                self.types.setdefault(type_, len(self.type_list))
                self.type_list.append(type_)
        self.constants = list(base.constants)
        self._constant_index = dict(base.constant_index)
        for index, data in enumerate(self.constants):
            # An entry with the same bytes as another belongs to one type only: see Tables.constant_index.
            self._unique[data] = index if data not in self._unique else -1
        for info in base.debug:
            self.debug_list.append(info)
            self.debug.setdefault(info, len(self.debug_list))

    def _has(self, type_: Type) -> bool:
        """Whether the version has the type; the types that it names were asked for first, and are in `types`."""
        try:
            types_codec.check_type(self.spec, type_, self.version)
        except MigrationError:
            return False
        return all(t in self.types or self._has(t) for t in nested_types(type_))

    def string_index(self, text: str) -> int:
        index = self.strings.get(text)
        if index is None:
            if type(text) is not str:
                raise InvalidError(f"{text!r} is not a string")
            try:
                encoded = text.encode("utf-8", "surrogateescape")
            except UnicodeEncodeError as error:
                raise InvalidError(f"{text!r} cannot be encoded: {error.reason}") from None
            index = self.strings[text] = len(self.string_list)
            self.string_list.append(encoded)
        return index

    def type_index(self, type_: Type) -> int:
        """A type's index; the types that it names come first. MigrationError when the version lacks one of them."""
        index = self.types.get(type_)
        if index is None:
            if type(type_) is not Type:
                raise InvalidError(f"{type_!r} is not a type")
            types_codec.check_type(self.spec, type_, self.version)
            for inner in nested_types(type_):
                self.type_index(inner)
            index = self.types[type_] = len(self.type_list)
            self.type_list.append(type_)
        return index

    def constant_index(self, dense: Dense) -> int:
        key = (dense.type, dense.data)
        index = self._constant_index.get(key)
        if index is None:
            index = self._unique.get(dense.data, -1)
            if index < 0:
                index = len(self.constants)
                self.constants.append(dense.data)
            self._constant_index[key] = index
        return index

    def debug_index(self, info: DebugInfo | None) -> int:
        """A debug record's index (0: none); the records that it names come first."""
        if info is None:
            return 0
        index = self.debug.get(info)
        if index is not None:
            return index
        stack = [info]
        while stack:
            top = stack[-1]
            inner = [v for v in top.parameters if type(v) is DebugInfo]
            pending = [v for v in inner if v not in self.debug_depths]
            if pending:
                stack.append(pending[0])
                continue
            depth = self.debug_depths[top] = 1 + max((self.debug_depths[v] for v in inner), default=0)
            if depth > DEBUG_DEPTH:
                raise InvalidError(f"debug infos are nested more than {DEBUG_DEPTH} deep")
            if top not in self.debug:
                self.debug_list.append(top)
                self.debug[top] = len(self.debug_list)
            stack.pop()
        return self.debug[info]

    def checked_hints(self, hints: OptimizationHints) -> OptimizationHints:
        """The hints as the version can hold them; MigrationError when it cannot."""
        return self.hints.downgrade(hints)

    def check_op(self, name: str) -> MigrationError | None:
        """Why the version written lacks the op, or None."""
        op = self.spec.ops[name]
        if op.since > self.version:
            return MigrationError(
                f"operation 'cuda_tile.{name}' is not available in bytecode version {self.version}",
                feature=name,
                required=op.since,
                target=self.version,
            )
        if op.preview is not None and not self.preview:
            return MigrationError(
                f"operation 'cuda_tile.{name}' needs a module marked as preview ('{op.preview}')",
                feature=op.preview,
                target=self.version,
            )
        return None
