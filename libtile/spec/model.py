# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Records that the dialect's declarations are read into. All are immutable and hold no behaviour beyond look-ups."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Literal, NamedTuple

from libtile.support.records import dataclass, field

BYTECODE_MAGIC = b"\x7fTileIR\x00"
"""What every bytecode file starts with (Tile IR specification, "Bytecode": header)."""

Default = int | str | None
"""A default value: an enum's or a type's keyword, a number, or `all_false(operand)`."""


class Version(NamedTuple):
    """A bytecode version; compares as (major, minor, tag)."""

    major: int
    minor: int
    tag: int = 0

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}" + (f".{self.tag}" if self.tag else "")

    @staticmethod
    @cache
    def parse(text: str) -> Version:
        """The version that `"13.4"` or `"13.4.1"` names; ValueError when the text has another form."""
        parts = text.split(".")
        if len(parts) not in (2, 3) or not all(p.isascii() and p.isdigit() for p in parts):
            raise ValueError(f"invalid version format: {text}")
        numbers = [int(p) for p in parts]
        limits = (0xFF, 0xFF, 0xFFFF)
        if any(n > limit for n, limit in zip(numbers, limits)):
            raise ValueError(f"invalid version format: {text}")
        return Version(*numbers)


@dataclass(frozen=True)
class ValueSpec:
    """One operand or result declaration of an op."""

    name: str
    constraint: str
    arity: Literal["one", "optional", "variadic"]
    since: Version

    @property
    def is_optional(self) -> bool:
        return self.arity == "optional"

    @property
    def is_variadic(self) -> bool:
        return self.arity == "variadic"


@dataclass(frozen=True)
class AttributeSpec:
    """One attribute declaration of an op.

    `kind` is an enum's name or one of `ATTRIBUTE_KINDS`. A `unit` attribute exists only as a flag bit.
    """

    name: str
    kind: str
    optional: bool
    default: Default
    since: Version

    @property
    def is_flag(self) -> bool:
        return self.kind == "unit"

    @property
    def in_flags(self) -> bool:
        """Whether the attribute's presence is a bit of the op's flags varint."""
        return self.optional or self.is_flag


ATTRIBUTE_KINDS = frozenset(
    {
        *("unit", "i64", "i32", "i64_nonneg", "i32_nonneg", "bool", "string", "symbol_name", "symbol_ref"),
        *(
            "function_type",
            "array",
            "dict_array",
            "dense",
            "i32_array",
            "bool_array",
            "hints",
            "predicate",
            "test_value",
        ),
    }
)


@dataclass(frozen=True)
class TraitSpec:
    """A trait by name, with the operand, result or op names that it speaks of."""

    name: str
    arguments: tuple[str, ...] = ()


class Flag(NamedTuple):
    """A bit of an op's flags varint: the member whose presence it tells, and since when it is written."""

    name: str
    bit: int
    since: Version
    is_operand: bool


@dataclass(frozen=True)
class OpSpec:
    """The declaration of one op. `name` has no dialect prefix."""

    name: str
    opcode: int
    since: Version
    group: str
    operands: tuple[ValueSpec, ...]
    attributes: tuple[AttributeSpec, ...]
    results: tuple[ValueSpec, ...]
    regions: tuple[str, ...]
    traits: tuple[TraitSpec, ...]
    format: str
    aliases: tuple[str, ...]
    preview: str | None
    known: str
    summary: str
    doc: str
    flags: tuple[Flag, ...] = ()
    """Flag bits in bit order: by version, then attributes before operands, then in declaration order."""

    def has_trait(self, name: str) -> bool:
        return any(t.name == name for t in self.traits)

    def trait(self, name: str) -> TraitSpec | None:
        return next((t for t in self.traits if t.name == name), None)

    def attribute(self, name: str) -> AttributeSpec | None:
        return next((a for a in self.attributes if a.name == name), None)

    @property
    def has_segments(self) -> bool:
        """Whether operand groups are encoded one by one (rather than as one list)."""
        return self.has_trait("operand_segments")

    @property
    def counts_results(self) -> bool:
        """Whether the encoding starts with the number of results: it does when any operand or result is variadic."""
        return any(v.is_variadic for v in (*self.operands, *self.results))

    @property
    def counts_operands(self) -> bool:
        """Whether an op without segments has its operands counted."""
        return not self.has_segments and any(v.arity != "one" for v in self.operands)


@dataclass(frozen=True)
class EnumCase:
    keyword: str
    value: int
    since: Version


@dataclass(frozen=True)
class EnumSubset:
    """The cases that some ops take. Text leaves `default` out; a `strict` subset's text refuses all others."""

    name: str
    cases: tuple[str, ...]
    default: str | None
    strict: bool


@dataclass(frozen=True)
class EnumSpec:
    """An enum attribute. `attr` is its mnemonic; a `plain` enum's attribute form is an integer."""

    name: str
    attr: str
    since: Version
    cases: tuple[EnumCase, ...]
    plain: bool
    testing: bool
    doc: str
    summary: str = ""
    """How diagnostics name the enum; empty when they list its numbers."""
    by_keyword: dict[str, EnumCase] = field(default_factory=dict, compare=False, repr=False)
    by_value: dict[int, EnumCase] = field(default_factory=dict, compare=False, repr=False)
    listed: tuple[str, ...] = ()
    """All keywords in the order in which diagnostics list them."""
    subsets: dict[str, EnumSubset] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True)
class TypeParameter:
    """A parameter of a composite type; `kind` is type, i64_array, i32_array, u32 or an enum's name."""

    name: str
    kind: str
    optional: bool
    default: Default
    since: Version


@dataclass(frozen=True)
class FloatSpec:
    """The fields of a float type. `specials` is "ieee" (infinities and NaNs), "nan" (one NaN: all ones) or "none"."""

    exponent: int
    mantissa: int
    specials: str
    signed: bool


@dataclass(frozen=True)
class NumberSpec:
    """How a number type is held: `storage` bits in memory, in a register of type `llvm`; `ptx` names it or is empty.

    `padding` has the stored bits of the padding values that the format does not tell, by the enum's keyword.
    """

    storage: int
    llvm: str
    ptx: str
    float: FloatSpec | None
    padding: Mapping[str, int]


@dataclass(frozen=True)
class TypeSpec:
    """A type: `kind` is integer, float, token, function or composite; `bits` is the width of a number type."""

    name: str
    tag: int
    since: Version
    kind: str
    display: str
    bits: int
    number: NumberSpec | None
    parameters: tuple[TypeParameter, ...]
    testing: bool
    doc: str


@dataclass(frozen=True)
class ConstraintSpec:
    """What types an operand or result may have, with the wording of its diagnostic."""

    name: str
    summary: str
    elements: tuple[str, ...]
    rank: int | None
    types: tuple[str, ...]


@dataclass(frozen=True)
class AttributeTagSpec:
    """A self-contained attribute of the bytecode."""

    name: str
    tag: int
    since: Version
    predicate: bool
    testing: bool
    doc: str


@dataclass(frozen=True)
class DebugField:
    name: str
    kind: str
    default: int | None
    since: Version


@dataclass(frozen=True)
class DebugSpec:
    """A debug-information record and its fields (ref, string or varint)."""

    name: str
    tag: int
    fields: tuple[DebugField, ...]


@dataclass(frozen=True)
class HintSpec:
    """An optimization hint: its value's kind (i32 or bool), the ops that take it, and the values that it may have."""

    name: str
    kind: str
    ops: tuple[str, ...]
    since: Version
    doc: str
    least: int = 1
    most: int | None = None
    """None: every value will do."""
    powers_of_two: bool = False
    one_on: tuple[str, ...] = ()
    """The architectures that take nothing but 1."""

    def problem(self, architecture: str, value: int) -> str | None:
        """What is wrong with a value for an architecture, in the verifier's words; None when nothing is."""
        if architecture in self.one_on and value != 1:
            return "expected 1"
        if self.most is None or (self.least <= value <= self.most and not (self.powers_of_two and value & (value - 1))):
            return None
        if self.powers_of_two:
            return f"expected power-of-two ≤ {self.most}"
        return f"integer value in the range [{self.least}, {self.most}] is expected"


@dataclass(frozen=True)
class ChangeSpec:
    """A named change of the format, or of what is allowed in it. `older` says what a downgrade makes of it."""

    name: str
    since: Version
    doc: str
    older: str = "written as it is: the verifier of an older version refuses it"


@dataclass(frozen=True)
class Spec:
    """The whole dialect: everything that the reader, writer, verifier, parser, printer and docs derive from."""

    versions: tuple[Version, ...]
    testing_versions: frozenset[Version]
    current: Version
    open_dialect: Version
    compatibility: Version
    changes: Mapping[str, ChangeSpec]
    enums: Mapping[str, EnumSpec]
    enum_subsets: dict[str, str]
    """The enum of each subset, by the subset's name."""
    types: dict[str, TypeSpec]
    constraints: Mapping[str, ConstraintSpec]
    attribute_tags: dict[str, AttributeTagSpec]
    debug: Mapping[str, DebugSpec]
    hints: Mapping[str, HintSpec]
    hint_architectures: tuple[str, ...]
    ops: Mapping[str, OpSpec]
    """In the package's own declarations, each is made when it is first asked for, as others are."""
    unknown_ops: frozenset[str]
    unknown_types: frozenset[str]
    ops_by_opcode: Mapping[int, OpSpec]
    types_by_tag: dict[int, TypeSpec]
    aliases: dict[str, str]
    """Other spellings of op names, to the name declared."""

    @property
    def released_versions(self) -> tuple[Version, ...]:
        return tuple(v for v in self.versions if v not in self.testing_versions)

    @property
    def version_ranges(self) -> str:
        """The released versions as diagnostics name them: the open dialect's, in its words, then the later ones."""
        old = [v for v in self.released_versions if v <= self.open_dialect]
        new = [v for v in self.released_versions if v > self.open_dialect]
        return " and ".join(f"[{part[0]} - {part[-1]}]" for part in (old, new) if part)

    def enum_of_subset(self, name: str) -> EnumSpec | None:
        """The enum with a subset of this name; None when there is none."""
        enum = self.enum_subsets.get(name)
        return None if enum is None else self.enums[enum]

    def change(self, name: str) -> Version:
        """The version from which the named change of the format applies."""
        return self.changes[name].since

    def is_testing_op(self, op: OpSpec) -> bool:
        return op.since in self.testing_versions
