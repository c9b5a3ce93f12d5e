# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The neutral form of a module: plain slotted records, always in the newest form of the dialect.

Versions exist in the reader and the writer only. What an older file lacks is filled with its default when it is read.

Values of an op's attributes by the kind that the op's declaration gives them:

    kind                                        Python value
    an enum's name                              the case's keyword, `str`
    i32 i64 i32_nonneg i64_nonneg test_value    `int`, signed
    bool                                        `bool`
    unit                                        `True`; absent when not set
    string symbol_name symbol_ref               `str` (bytes that are not UTF-8 as surrogate escapes)
    function_type                               `Type`
    i32_array, bool_array                       `tuple` of `int`, of `bool`
    array, dict_array                           `tuple` of attribute records
    dense                                       `Dense`
    hints                                       `OptimizationHints`
    predicate                                   `DivBy`, `SameElements` or `Bounded`
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from libtile.bytecode.limits import REPR_DEPTH
from libtile.spec import OpSpec, Spec, Version, default_spec
from libtile.support.records import dataclass, field

if TYPE_CHECKING:
    from libtile.spec.model import DebugSpec, TypeSpec

# -- types and debug records ------------------------------------------------------------------------------------------


class _Interned:
    """A name and parameters, unique per value: equality is identity, so hashing never walks the structure."""

    __slots__ = ("__weakref__", "name", "names", "parameters")

    name: str
    names: tuple[str, ...]
    """The parameters' names, in the order of `parameters`."""
    parameters: tuple[Any, ...]

    def __getitem__(self, name: str) -> Any:
        """The parameter called `name`; KeyError when the declaration has none."""
        try:
            return self.parameters[self.names.index(name)]
        except ValueError:
            raise KeyError(f"{self.name} has no parameter {name!r}") from None

    def get(self, name: str, default: Any = None) -> Any:
        return self.parameters[self.names.index(name)] if name in self.names else default

    def __repr__(self) -> str:
        return self._text(REPR_DEPTH)

    def _text(self, depth: int) -> str:
        if not self.parameters:
            return self.name
        if not depth:
            return f"{self.name}(...)"
        return f"{self.name}({', '.join(f'{n}={_show(v, depth - 1)}' for n, v in zip(self.names, self.parameters))})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_intern, (type(self), self.name, self.names, self.parameters))


_DYNAMIC = -(1 << 63)
"""An extent that is known at run time only, as files have it."""


def _show(value: Any, depth: int) -> str:
    if isinstance(value, _Interned):
        return value._text(depth)
    if type(value) is tuple:
        return f"({', '.join('?' if v == _DYNAMIC else _show(v, depth) for v in value)})"
    return repr(value)


class Type(_Interned):
    """A type of the dialect, interned: two equal types are one object.

    `parameters` follow the declaration of `libtile.spec`: another Type, a tuple of int, an int, an enum's keyword, or
    None for an absent optional one. A `function` has two: the tuples of its input and result types.
    """

    __slots__ = ()


class DebugInfo(_Interned):
    """A debug-information record, interned: `di_loc`, `di_subprogram`, `call_site`... or `unknown`.

    `parameters` follow the declaration: another DebugInfo or None (the reserved index: no information), str, int.
    """

    __slots__ = ()


_interned: WeakValueDictionary[tuple[Any, ...], _Interned] = WeakValueDictionary()


def _intern(cls: type[Any], name: str, names: tuple[str, ...], parameters: tuple[Any, ...]) -> Any:
    key = (cls, name, names, parameters)
    found = _interned.get(key)
    if found is None:
        found = object.__new__(cls)
        found.name, found.names, found.parameters = name, names, parameters
        _interned[key] = found
    return found


FUNCTION_NAMES = ("inputs", "results")


def make_type(name: str, *parameters: Any, spec: Spec | None = None) -> Type:
    """The type `name` with `parameters` in the declared order; trailing optional ones may be left out.

    Raises ValueError for an unknown type or a wrong number of parameters.
    """
    declaration = (spec or default_spec()).types.get(name)
    if declaration is None:
        raise ValueError(f"unknown type {name!r}")
    return type_of(declaration, parameters)


def type_of(declaration: TypeSpec, parameters: Iterable[Any]) -> Type:
    values = [tuple(v) if isinstance(v, list) else v for v in parameters]
    if declaration.kind == "function":
        names: tuple[str, ...] = FUNCTION_NAMES
    else:
        names = tuple(p.name for p in declaration.parameters)
        values += [p.default if p.optional else _MISSING for p in declaration.parameters[len(values) :]]
    if len(values) != len(names) or _MISSING in values:
        raise ValueError(f"type {declaration.name!r} takes the parameters {', '.join(names) or '(none)'}")
    return _intern(Type, declaration.name, names, tuple(values))


_MISSING = object()


def make_debug(name: str, *fields: Any, spec: Spec | None = None) -> DebugInfo:
    """The debug record `name` with `fields` in the declared order; trailing ones with a default may be left out.

    Raises ValueError for an unknown record or a wrong number of fields.
    """
    if name == "unknown":
        return debug_of(None, ())
    declaration = (spec or default_spec()).debug.get(name)
    if declaration is None:
        raise ValueError(f"unknown debug record {name!r}")
    missing = declaration.fields[len(fields) :]
    if len(fields) > len(declaration.fields) or any(f.default is None for f in missing):
        raise ValueError(f"debug record {name!r} takes the fields {', '.join(f.name for f in declaration.fields)}")
    return debug_of(declaration, (*fields, *(f.default for f in missing)))


def debug_of(declaration: DebugSpec | None, fields: tuple[Any, ...]) -> DebugInfo:
    if declaration is None:
        return _intern(DebugInfo, "unknown", (), ())
    return _intern(DebugInfo, declaration.name, tuple(f.name for f in declaration.fields), fields)


def describe_location(location: DebugInfo | None) -> str | None:
    """`file:line:column` of a location, following a call site to its callee; None when it names no position."""
    for _ in range(1024):
        if location is None:
            return None
        if location.name == "di_loc":
            return f"{location['filename']}:{location['line']}:{location['column']}"
        if location.name != "call_site":
            return None
        location = location["callee"]
    return None


# -- attributes -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Integer:
    """An integer of a type of at most 64 bits; `value` is signed (two's complement)."""

    value: int
    type: Type


@dataclass(frozen=True, slots=True)
class Float:
    """A floating-point number by its bits. `wide`: the file holds it as a 65-bit zigzag number.

    The frontend writes negative f64 numbers so. The reference reader drops their sign: it sees `reference_bits`.
    """

    bits: int
    type: Type
    wide: bool = False

    @property
    def reference_bits(self) -> int:
        return self.bits & ~(1 << 63) if self.wide else self.bits


@dataclass(frozen=True, slots=True)
class Bool:
    value: bool


@dataclass(frozen=True, slots=True)
class TypeRef:
    type: Type


@dataclass(frozen=True, slots=True)
class String:
    value: str


@dataclass(frozen=True, slots=True)
class Array:
    elements: tuple[Attribute, ...] = ()


@dataclass(frozen=True, slots=True)
class Dense:
    """Elements of a tile in row-major order, little-endian, each in whole bytes; one element stands for all."""

    type: Type
    data: bytes


@dataclass(frozen=True, slots=True)
class DivBy:
    divisor: int
    every: int | None = None
    along: int | None = None


@dataclass(frozen=True, slots=True)
class SameElements:
    values: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Bounded:
    lower: int | None = None
    upper: int | None = None


@dataclass(frozen=True, slots=True)
class Dictionary:
    """Named attributes in the file's order; the reference's IR keeps them sorted by name."""

    items: tuple[tuple[str, Attribute], ...] = ()

    def get(self, name: str) -> Attribute | None:
        return next((v for k, v in self.items if k == name), None)


@dataclass(frozen=True, slots=True)
class OptimizationHints:
    """Hints by architecture (`sm_90`, `default`...), each a Dictionary, in the file's order."""

    items: tuple[tuple[str, Attribute], ...] = ()

    def get(self, architecture: str) -> Attribute | None:
        return next((v for k, v in self.items if k == architecture), None)


@dataclass(frozen=True, slots=True)
class TestValue:
    """The attribute of the testing versions."""

    __test__ = False
    value: int


Attribute = (
    Integer
    | Float
    | Bool
    | TypeRef
    | String
    | Array
    | Dense
    | DivBy
    | SameElements
    | Bounded
    | Dictionary
    | OptimizationHints
    | TestValue
)

# -- operations -------------------------------------------------------------------------------------------------------


class Value:
    """An SSA value: a type, and identity."""

    __slots__ = ("type",)

    def __init__(self, type: Type) -> None:
        self.type = type

    def __repr__(self) -> str:
        return f"<Value {id(self):#x}: {self.type!r}>"


class Operation:
    """One op. `operands` is flat; `segments` holds the group lengths of an op with the `operand_segments` trait."""

    __slots__ = ("attributes", "location", "operands", "regions", "results", "segments", "spec")

    def __init__(
        self,
        spec: OpSpec,
        operands: Iterable[Value] = (),
        results: Iterable[Value] = (),
        attributes: dict[str, Any] | None = None,
        regions: Iterable[Region] = (),
        location: DebugInfo | None = None,
        segments: tuple[int, ...] | None = None,
    ) -> None:
        self.spec = spec
        self.operands = operands if type(operands) is list else list(operands)
        self.results = results if type(results) is list else list(results)
        self.attributes: dict[str, Any] = {} if attributes is None else attributes
        self.regions: list[Region] = regions if type(regions) is list else list(regions)
        self.location = location
        self.segments = segments

    @property
    def name(self) -> str:
        """The op's name without dialect prefix."""
        return self.spec.name

    def group_lengths(self) -> tuple[int, ...]:
        """How many operands each declared operand stands for; ValueError when the operands do not fit."""
        declared = self.spec.operands
        if self.segments is not None:
            lengths = self.segments
        else:
            fixed = sum(v.arity == "one" for v in declared)
            lengths = tuple(1 if v.arity == "one" else len(self.operands) - fixed for v in declared)
        if len(lengths) != len(declared) or sum(lengths) != len(self.operands) or any(n < 0 for n in lengths):
            raise ValueError(f"the operands of '{self.name}' do not fit its declaration")
        return lengths

    def group(self, name: str) -> tuple[Value, ...]:
        """The operands that the declared operand `name` stands for; KeyError when there is none of that name."""
        start = 0
        for declared, length in zip(self.spec.operands, self.group_lengths()):
            if declared.name == name:
                return tuple(self.operands[start : start + length])
            start += length
        raise KeyError(f"'{self.name}' has no operand {name!r}")

    def operand(self, name: str) -> Value | None:
        """The one operand `name`, or None for an absent optional one."""
        return next(iter(self.group(name)), None)

    def walk(self) -> Iterator[Operation]:
        """This op and all ops inside of it, parents first."""
        stack = [self]
        while stack:
            op = stack.pop()
            yield op
            for region in reversed(op.regions):
                for block in reversed(region):
                    stack.extend(reversed(block.operations))

    def __repr__(self) -> str:
        return f"<Operation {self.spec.name}>"


class Block:
    """A list of ops with typed arguments."""

    __slots__ = ("arguments", "operations")

    def __init__(self, arguments: Iterable[Value] = (), operations: Iterable[Operation] = ()) -> None:
        self.arguments = list(arguments)
        self.operations = list(operations)


Region = list[Block]

# -- the module -------------------------------------------------------------------------------------------------------


class EncodedBody:
    """A function body that has not been decoded: its bytes, and what is needed to decode or copy them.

    `offset` is the body's place in the file. `locations` are the debug indices of its ops in `tables`, None when the
    file records none.
    """

    __slots__ = ("data", "decode", "locations", "offset", "tables", "version")

    def __init__(
        self,
        data: bytes,
        offset: int,
        version: Version,
        tables: Tables,
        locations: Sequence[int] | None,
        decode: Callable[..., Block],
    ) -> None:
        self.data = data
        self.offset = offset
        self.version = version
        self.tables = tables
        self.locations = locations
        self.decode = decode


class Function:
    """A function. `type` is a `function` Type; `kind` is `entry`, or `testing$func` in the testing versions.

    `hints` is None when the file had none (before 13.5; the same as empty ones). `argument_attributes` is one
    Dictionary per argument, or empty. `slot`: the debug section lists this function even without locations.
    """

    __slots__ = (
        "_body",
        "_encoded",
        "argument_attributes",
        "hints",
        "kind",
        "location",
        "name",
        "private",
        "slot",
        "type",
    )

    def __init__(
        self,
        name: str,
        type: Type,
        body: Block | EncodedBody | None = None,
        *,
        kind: str = "entry",
        private: bool = False,
        hints: OptimizationHints | None = None,
        argument_attributes: tuple[Attribute, ...] = (),
        location: DebugInfo | None = None,
        slot: bool = False,
    ) -> None:
        self.name = name
        self.type = type
        self.kind = kind
        self.private = private
        self.hints = hints
        self.argument_attributes = argument_attributes
        self.location = location
        self.slot = slot
        self._encoded = body if isinstance(body, EncodedBody) else None
        self._body = None if isinstance(body, EncodedBody) else body

    @property
    def encoded(self) -> EncodedBody | None:
        """The body's bytes while nobody has looked at the body; None afterwards."""
        return self._encoded

    @property
    def body(self) -> Block:
        """The entry block; decoded on first access, which raises BytecodeError when the bytes are bad."""
        if self._body is None:
            if self._encoded is None:
                self._body = Block([Value(t) for t in self.type["inputs"]])
            else:
                self._body = self._encoded.decode()
                self._encoded = None
        return self._body

    @body.setter
    def body(self, block: Block) -> None:
        self._body = block
        self._encoded = None

    def __repr__(self) -> str:
        return f"<Function {self.kind} @{self.name}>"


@dataclass(slots=True)
class Global:
    """A global variable; `alignment` 0 means the natural one, `visibility` is a keyword of SymbolVisibility."""

    name: str
    value: Dense
    alignment: int = 0
    constant: bool = False
    visibility: str = "public"


@dataclass(slots=True)
class Tables:
    """The file's tables in the file's order, with entries that nothing refers to.

    `constant_index` remembers which entry a (type, data) pair uses where the table holds the same bytes twice;
    `type_offsets` and `global_offsets` are the entries' places in the file, for messages.
    """

    strings: list[str] = field(default_factory=list)
    types: list[Type] = field(default_factory=list)
    constants: list[bytes] = field(default_factory=list)
    debug: list[DebugInfo] = field(default_factory=list)
    constant_index: dict[tuple[Type, bytes], int] = field(default_factory=dict)
    type_offsets: list[int] = field(default_factory=list)
    global_offsets: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class SectionLayout:
    """Where a section stood in the file: its id, its alignment (1: no alignment flag), padding bytes at its end."""

    id: int
    alignment: int
    trailing: int = 0


@dataclass(slots=True)
class Module:
    """A module in memory. `version` is what it was read from (None: made in memory), with the preview mark beside it.

    `tables` and `layout` are what is needed to write the same bytes again; None means the reference writer's order.
    `warnings` lists oddities that were accepted.
    """

    spec: Spec = field(default_factory=default_spec)
    name: str = "kernels"
    functions: list[Function] = field(default_factory=list)
    globals: list[Global] = field(default_factory=list)
    producer: str | None = None
    version: Version | None = None
    preview: bool = False
    tables: Tables | None = None
    layout: tuple[SectionLayout, ...] | None = None
    warnings: list[str] = field(default_factory=list)

    def operations(self) -> Iterator[Operation]:
        """Every op of every function, parents first."""
        for function in self.functions:
            for op in function.body.operations:
                yield from op.walk()
