# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The type and debug-record tables: entries parsed in table order, references between them linked afterwards.

Optional type parameters are announced in one flags varint in front of the parameters, bit i being the i-th optional
one; before UNIFIED_FLAGS each had a presence byte in place. The flags exist from the version of the first of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from libtile.bytecode.cursor import int_array, put, put_int_array, varint
from libtile.bytecode.errors import Fault, InvalidError, MigrationError, UnsupportedVersionError
from libtile.bytecode.limits import DEBUG_DEPTH, TYPE_DEPTH
from libtile.bytecode.model import DebugInfo, Type, debug_of, type_of
from libtile.spec import Spec, Version
from libtile.spec.model import EnumSpec, TypeParameter, TypeSpec

if TYPE_CHECKING:
    from libtile.bytecode.context import ReadContext, WriteContext


class Ref(NamedTuple):
    """A reference to another entry of the same table, and where it stood in its entry."""

    number: int
    offset: int


class Raw(NamedTuple):
    """An entry with unlinked references, and where it begins. `declaration` is None for an `unknown` debug record."""

    declaration: Any
    parameters: tuple[Any, ...]
    offset: int


_PLACES = ("di_loc", "call_site", "unknown")


def is_location(info: DebugInfo | None) -> bool:
    """Whether a debug record can be the location of an op or a function; None stands for an unknown one."""
    return info is None or info.name in _PLACES


# -- linking ----------------------------------------------------------------------------------------------------------


def link(
    raws: list[Raw], build: Callable[[Any, tuple[Any, ...]], Any], what: str, limit: int, reserved: int = 0
) -> list[Any]:
    """Replace references by the entries they name, children first, without recursion.

    An index below `reserved` stands for nothing (None); others count from there. Refuses bad indices, cycles, and
    nesting deeper than `limit`.
    """
    done: list[Any] = [None] * len(raws)
    depth = [0] * len(raws)  # 0: not built yet
    open_ = [False] * len(raws)  # children are being built: an ancestor of the top of the stack
    for root in range(len(raws)):
        stack = [root]
        while stack:
            index = stack[-1]
            if depth[index]:
                stack.pop()
                continue
            raw = raws[index]
            children = [c for c in _references(raw.parameters) if c.number >= reserved]
            if not open_[index]:
                open_[index] = True
                pending = [_unbuilt(c, reserved, depth, open_, what, raw.offset) for c in children]
                if any(number is not None for number in pending):
                    stack.extend(number for number in pending if number is not None)
                    continue
            depth[index] = 1 + max([depth[c.number - reserved] for c in children], default=0)
            if depth[index] > limit:
                raise Fault(raw.offset, f"{what}s are nested more than {limit} deep")
            done[index] = build(raw, _linked(raw.parameters, done, reserved))
            open_[index] = False
            stack.pop()
    return done


def _unbuilt(child: Ref, reserved: int, depth: list[int], open_: list[bool], what: str, entry: int) -> int | None:
    """The number of a child that has to be built first, or None when it is there already."""
    number = child.number - reserved
    if number >= len(depth):
        bounds = f"below {len(depth) + reserved}"
        raise Fault(entry + child.offset, f"{what} index {child.number} out of bounds", expected=bounds)
    if open_[number]:
        raise Fault(entry + child.offset, f"{what} {child.number} refers to itself", InvalidError)
    return None if depth[number] else number


def _references(parameters: tuple[Any, ...]) -> list[Ref]:
    found: list[Ref] = []
    for value in parameters:
        if type(value) is Ref:
            found.append(value)
        elif type(value) is tuple:
            found += [element for element in value if type(element) is Ref]
    return found


def _linked(parameters: tuple[Any, ...], done: list[Any], reserved: int) -> tuple[Any, ...]:
    linked: list[Any] = []
    for value in parameters:
        if type(value) is Ref:
            linked.append(done[value.number - reserved] if value.number >= reserved else None)
        elif type(value) is tuple:
            linked.append(_linked(value, done, reserved))
        else:
            linked.append(value)
    return tuple(linked)


# -- types ------------------------------------------------------------------------------------------------------------


def flags_since(spec: Spec, declaration: TypeSpec) -> Version | None:
    """The version from which the type's entry has a flags varint; None when it has no optional parameter."""
    optional = [p.since for p in declaration.parameters if p.optional]
    return max(min(optional), spec.change("UNIFIED_FLAGS")) if optional else None


def parse_type(ctx: ReadContext, data: bytes, p: int) -> tuple[Raw, int]:
    """One entry of the type table."""
    start = p
    tag, p = varint(data, p)
    declaration = ctx.spec.types_by_tag.get(tag)
    if declaration is None or (declaration.testing and not ctx.allow_testing):
        raise Fault(start, f"unknown type tag: {tag}")
    if ctx.version < declaration.since:
        raise Fault(
            start,
            f"type '{declaration.display}' requires bytecode version {declaration.since}+, "
            f"file version is {ctx.version}",
            UnsupportedVersionError,
        )
    if declaration.kind == "function":
        inputs, p = _type_list(data, p, "parameters")
        results, p = _type_list(data, p, "results")
        return Raw(declaration, (inputs, results), start), p
    since = flags_since(ctx.spec, declaration)
    flags = None
    if since is not None and ctx.version >= since:
        flags, after = varint(data, p)
        known = [x.since <= ctx.version for x in declaration.parameters if x.optional]
        if flags & ~sum(1 << bit for bit, available in enumerate(known) if available):
            raise Fault(p, f"unknown optional parameter flags {flags:#x} of type '{declaration.display}'")
        p = after
    values = []
    bit = 0
    for parameter in declaration.parameters:
        present = parameter.since <= ctx.version
        if parameter.optional:
            if flags is not None:
                present = bool(flags >> bit & 1)
            elif present:
                if data[p] > 1:
                    raise Fault(p, f"invalid presence byte for optional parameter: {data[p]}")
                present = data[p] == 1
                p += 1
            bit += 1
        if not present:
            values.append(default_parameter(ctx.spec, parameter))
            continue
        value, p = _read_parameter(ctx, parameter, data, p)
        values.append(value)
    return Raw(declaration, tuple(values), start), p


def default_parameter(spec: Spec, parameter: TypeParameter) -> Any:
    """What an entry without the parameter means."""
    if parameter.kind == "type" and parameter.default is not None:
        return type_of(spec.types[str(parameter.default)], ())
    return parameter.default


def _type_list(data: bytes, p: int, what: str) -> tuple[tuple[Ref, ...], int]:
    count, p = varint(data, p)
    if count > len(data) - p:
        raise Fault(p, f"function type with {count} {what} does not fit", expected=f"at most {len(data) - p}")
    refs = []
    for _ in range(count):
        start = p
        index, p = varint(data, p)
        refs.append(Ref(index, start))
    return tuple(refs), p


def _read_parameter(ctx: ReadContext, parameter: TypeParameter, data: bytes, p: int) -> tuple[Any, int]:
    match parameter.kind:
        case "type":
            index, after = varint(data, p)
            return Ref(index, p), after
        case "i64_array":
            return int_array(data, p, 8)
        case "i32_array":
            return int_array(data, p, 4)
        case "u32":
            value, after = varint(data, p)
            if value >> 32:
                raise Fault(p, f"{parameter.name} value {value} exceeds uint32_t range")
            return value, after
    value, after = varint(data, p)
    return enum_keyword(ctx.spec.enums[parameter.kind], value, ctx.version, p), after


def unsupported_parameter(signature: Type) -> str | None:
    """Why no entry may have this signature: a launch passes scalars, which are tiles of rank 0.

    The rank is the verifier's to check, as in the reference tools; this is the invariant that they check while reading.
    """
    for number, type_ in enumerate(signature["inputs"]):
        if type_.name != "tile":
            return (
                f"unsupported type in bytecode for entry argument #{number}: '{type_}'; "
                "expected a rank-0 !cuda_tile.tile type"
            )
    return None


def enum_keyword(enum: EnumSpec, value: int, version: Version, p: int) -> str:
    case = enum.by_value.get(value)
    if case is None:
        raise Fault(p, f"invalid integer value for enum type: {value}", InvalidError, expected=enum.name)
    if case.since > version:
        raise Fault(
            p,
            f"enum value '{case.keyword}' of {enum.name} requires bytecode version {case.since}+, "
            f"file version is {version}",
            UnsupportedVersionError,
        )
    return case.keyword


_NUMBERS = ("integer", "float")


def build_type(spec: Spec) -> Callable[[Raw, tuple[Any, ...]], Type]:
    """The linker's builder: checks which kinds of types a parameter may be, so that nesting is bounded by meaning."""

    def build(raw: Raw, parameters: tuple[Any, ...]) -> Type:
        declaration: TypeSpec = raw.declaration
        if declaration.kind == "function" and any(t.name == "function" for types in parameters for t in types):
            # Its arguments and results are values, and sharing would let a short table stand for a huge type.
            raise Fault(raw.offset, "type 'FunctionType' cannot have function as a parameter", InvalidError)
        for parameter, value in zip(declaration.parameters, parameters):
            if type(value) is Type and not _fits(spec, parameter.name, value):
                raise Fault(
                    raw.offset,
                    f"type '{declaration.display}' cannot have {value.name} as its {parameter.name}",
                    InvalidError,
                )
        return type_of(declaration, parameters)

    return build


def _fits(spec: Spec, parameter: str, value: Type) -> bool:
    kind = spec.types[value.name].kind
    match parameter:
        case "pointee":
            return kind in _NUMBERS
        case "element":
            return kind in _NUMBERS or value.name == "ptr"
        case "tensor_view":
            return value.name == "tensor_view"
    return True


def link_types(spec: Spec, raws: list[Raw]) -> list[Type]:
    return link(raws, build_type(spec), "type", TYPE_DEPTH)


def encode_type(ctx: WriteContext, type_: Type) -> bytes:
    """The entry of a type; MigrationError when the version written does not have it."""
    out = bytearray()
    declaration = ctx.spec.types[type_.name]
    check_type(ctx.spec, type_, ctx.version)
    put(out, declaration.tag)
    if declaration.kind == "function":
        for types in type_.parameters:
            put(out, len(types))
            for t in types:
                put(out, ctx.type_index(t))
        return bytes(out)
    since = flags_since(ctx.spec, declaration)
    unified = since is not None and ctx.version >= since
    pairs = list(zip(declaration.parameters, type_.parameters))
    if unified:
        optional = [value for parameter, value in pairs if parameter.optional]
        put(out, sum(1 << bit for bit, value in enumerate(optional) if value is not None))
    for parameter, value in pairs:
        if parameter.since > ctx.version:
            continue
        if parameter.optional:
            if not unified:
                out.append(value is not None)
            if value is None:
                continue
        _write_parameter(ctx, out, parameter, value)
    return bytes(out)


def _write_parameter(ctx: WriteContext, out: bytearray, parameter: TypeParameter, value: Any) -> None:
    match parameter.kind:
        case "type":
            put(out, ctx.type_index(value))
        case "i64_array":
            put_int_array(out, value, 8)
        case "i32_array":
            put_int_array(out, value, 4)
        case "u32":
            put(out, value)
        case _:
            case = ctx.spec.enums[parameter.kind].by_keyword.get(value)
            if case is None:
                raise InvalidError(f"'{value}' is not a case of {parameter.kind}")
            put(out, case.value)


def check_type(spec: Spec, type_: Type, version: Version) -> None:
    """MigrationError when `version` lacks the type, one of its parameters or an enum's value."""
    declaration = spec.types.get(type_.name)
    if declaration is None:
        raise InvalidError(f"unknown type '{type_.name}'")
    if declaration.since > version:
        raise MigrationError(
            f"type '{declaration.display}' requires bytecode version {declaration.since}+, targeting {version}",
            feature=type_.name,
            required=declaration.since,
            target=version,
        )
    for parameter, value in zip(declaration.parameters, type_.parameters):
        if parameter.since > version and value != default_parameter(spec, parameter):
            raise MigrationError(
                f"parameter '{parameter.name}' requires bytecode version {parameter.since}+, but targeting {version}",
                feature=f"{type_.name}.{parameter.name}",
                required=parameter.since,
                target=version,
            )
        case = spec.enums[parameter.kind].by_keyword.get(value) if parameter.kind in spec.enums else None
        if case is not None and case.since > version:
            raise MigrationError(
                f"enum value '{value}' for parameter '{parameter.name}' is not available in bytecode version {version}",
                feature=f"{parameter.kind}.{value}",
                required=case.since,
                target=version,
            )


# -- debug records ----------------------------------------------------------------------------------------------------

_SCOPES = frozenset({"di_subprogram", "di_lexical_block"})
_LOCATIONS = frozenset({"di_loc", "call_site", "unknown"})
_FIELD_TARGETS = {
    "file": frozenset({"di_file"}),
    "compile_unit": frozenset({"di_compile_unit"}),
    "scope": _SCOPES,
    "callee": _LOCATIONS,
    "caller": _LOCATIONS,
}
"""Which records a reference field may name."""

UNKNOWN_RECORD = 0
"""Tag of a record that says nothing; the frontend writes one where its table would be empty."""


def parse_debug(ctx: ReadContext, data: bytes, p: int) -> tuple[Raw, int]:
    """One entry of the debug table."""
    start = p
    tag, p = varint(data, p)
    if tag == UNKNOWN_RECORD:
        return Raw(None, (), start), p
    declaration = ctx.debug_tags.get(tag)
    if declaration is None:
        declaration = next((d for d in ctx.spec.debug.values() if d.tag == tag), None)
        if declaration is None:
            raise Fault(start, f"unknown debug info tag: {tag}")
        ctx.debug_tags[tag] = declaration
    values: list[Any] = []
    for field in declaration.fields:
        if field.since > ctx.version:
            values.append(field.default)
            continue
        before = p
        value, p = varint(data, p)
        if field.kind == "ref":
            values.append(Ref(value, before))
        elif field.kind == "string":
            values.append(ctx.string_at(value, before))
        else:
            values.append(value)
    return Raw(declaration, tuple(values), start), p


def _build_debug(raw: Raw, fields: tuple[Any, ...]) -> DebugInfo:
    if raw.declaration is not None:
        for field, value in zip(raw.declaration.fields, fields):
            targets = _FIELD_TARGETS.get(field.name) if field.kind == "ref" else None
            # A location may be the reserved index (no information); a scope or a file must be there.
            if targets is None or (value is None and "unknown" in targets):
                continue
            if value is None or value.name not in targets:
                raise Fault(
                    raw.offset,
                    f"failed to read {field.name.replace('_', ' ')} attribute when parsing {raw.declaration.name}",
                    InvalidError,
                    expected=" or ".join(sorted(targets)),
                )
    return debug_of(raw.declaration, fields)


def link_debug(raws: list[Raw]) -> list[DebugInfo]:
    return link(raws, _build_debug, "debug info", DEBUG_DEPTH, reserved=1)


def encode_debug(ctx: WriteContext, info: DebugInfo) -> bytes:
    """The entry of a debug record."""
    out = bytearray()
    if info.name == "unknown":
        return bytes([UNKNOWN_RECORD])
    declaration = ctx.spec.debug[info.name]
    put(out, declaration.tag)
    for field, value in zip(declaration.fields, info.parameters):
        if field.since > ctx.version:
            if value != field.default:
                raise MigrationError(
                    f"'{field.name}' of {info.name} requires bytecode version {field.since}+, "
                    f"but targeting {ctx.version}",
                    feature=f"{info.name}.{field.name}",
                    required=field.since,
                    target=ctx.version,
                )
        elif field.kind == "ref":
            put(out, ctx.debug_index(value))
        elif field.kind == "string":
            put(out, ctx.string_index(value))
        else:
            put(out, value)
    return bytes(out)
