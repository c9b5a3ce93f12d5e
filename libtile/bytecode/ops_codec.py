# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Instruction codecs, generated from the declarations: one decoder and one encoder per (op, version).

An instruction is: opcode, result types (counted if any operand or result is variadic), flags varint (from the version
of its first flag), attributes in order, operands (by group, or one list), regions. A generated function has no test
left in it that the declaration and the version decide, which is what makes decoding fast enough in CPython.

The source of a generated function is kept by `linecache`, so that tracebacks and profilers show it.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterable
from functools import cached_property, partial
from typing import Any

from libtile.bytecode import attributes as A
from libtile.bytecode.cursor import int_array, more, put, put_int_array, zigzag
from libtile.bytecode.errors import Fault, InvalidError, MigrationError, UnsupportedVersionError
from libtile.bytecode.model import Operation, Value, make_type
from libtile.bytecode.types_codec import enum_keyword
from libtile.spec import OpSpec, Spec, Version
from libtile.spec.model import AttributeSpec, Flag, ValueSpec

Decoder = Callable[..., tuple[Operation, int]]
Encoder = Callable[..., None]

INT_BITS = {"i32": 32, "i32_nonneg": 32, "i64": 64, "i64_nonneg": 64}
CONTAINER_OPS = frozenset({"module", "entry", "global", "testing$func"})
"""Ops that are records of the container, never instructions."""


class Codec:
    """How one op is read and written in one version; either function is made when it is first used."""

    def __init__(self, spec: Spec, op: OpSpec, version: Version) -> None:
        self.spec = op
        self.restricted = spec.is_testing_op(op) or op.preview is not None
        """The reader's and writer's options decide whether the op is allowed: a testing or a preview op."""
        self._source = partial(_Source, spec, op, version)

    @cached_property
    def decode(self) -> Decoder:
        source = self._source()
        _decoder(source)
        decode: Decoder = source.compile("decode")
        return decode

    @cached_property
    def encode(self) -> Encoder:
        source = self._source()
        _encoder(source)
        encode: Encoder = source.compile("encode")
        return encode


class Codecs:
    """The codecs of one version, each built when it is first asked for."""

    def __init__(self, spec: Spec, version: Version) -> None:
        self.spec = spec
        self.version = version
        self._built: dict[int, Codec] = {}

    def get(self, opcode: int) -> Codec | None:
        """The codec of `opcode`; None when the version has no such op, or it is not an instruction."""
        codec = self._built.get(opcode)
        if codec is None:
            op = self.spec.ops_by_opcode.get(opcode)
            if op is None or op.since > self.version or op.name in CONTAINER_OPS:
                return None
            codec = self._built[opcode] = Codec(self.spec, op, self.version)
        return codec


_codecs: dict[tuple[int, Version], Codecs] = {}


def codecs_of(spec: Spec, version: Version) -> Codecs:
    """The version's codecs, shared by all files of the same spec."""
    key = (id(spec), version)
    found = _codecs.get(key)
    if found is None or found.spec is not spec:
        if len(_codecs) > 64:
            _codecs.clear()
        found = _codecs[key] = Codecs(spec, version)
    return found


class _Source:
    """Lines of a function being generated, and the objects that it refers to."""

    def __init__(self, spec: Spec, op: OpSpec, version: Version) -> None:
        self.spec = spec
        self.op = op
        self.version = version
        self.lines: list[str] = []
        self.names: dict[str, Any] = {
            "Operation": Operation, "Value": Value, "more": more, "put": put, "zigzag": zigzag, "SPEC": op,
            "Fault": Fault, "InvalidError": InvalidError, "A": A, "int_array": int_array,
            "put_int_array": put_int_array,
        }  # fmt: skip
        self.indent = 1

    def add(self, *lines: str) -> None:
        self.lines.extend("    " * self.indent + line for line in lines)

    def varint(self, name: str) -> None:
        self.add(f"{name} = data[p]; p += 1", f"if {name} > 127: {name}, p = more(data, p, {name})")

    def put(self, expression: str) -> None:
        self.add(f"n = {expression}", "if n < 128: append(n)", "else: put(out, n)")

    def bind(self, value: Any) -> str:
        name = f"K{len(self.names)}"
        self.names[name] = value
        return name

    def compile(self, kind: str) -> Any:
        text = "\n".join(self.lines) + "\n"
        filename = f"<{kind} {self.op.name} {self.version}>"
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
        scope = dict(self.names)
        exec(compile(text, filename, "exec"), scope)
        return scope[kind]


def _bits(flags: Iterable[Flag], version: Version) -> dict[str, int]:
    return {f.name: 1 << f.bit for f in flags if f.since <= version}


def _has_flags(op: OpSpec, version: Version) -> bool:
    return bool(op.flags) and version >= min(f.since for f in op.flags)


def _split_results(op: OpSpec, version: Version) -> tuple[list[ValueSpec], list[ValueSpec]]:
    """The results that the version writes, and the newer ones, which must come last: values are numbered in order."""
    written = [r for r in op.results if r.since <= version]
    newer = [r for r in op.results if r.since > version]
    if list(op.results) != [*written, *newer]:
        raise ValueError(f"op {op.name}: a result that is newer than another one stands before it")
    return written, newer


def _result_type(spec: Spec, op: OpSpec, result: ValueSpec) -> Any:
    """The type of a result that an older file does not have: its constraint must leave no choice."""
    types = spec.constraints[result.constraint].types
    if len(types) != 1 or spec.types[types[0]].parameters or spec.types[types[0]].kind == "function":
        raise ValueError(f"op {op.name}: result {result.name!r} is newer than the op, and its type is not determined")
    return make_type(types[0], spec=spec)


# -- decoding ---------------------------------------------------------------------------------------------------------


def _decoder(s: _Source) -> None:
    op = s.op
    s.lines.append("def decode(data, p, types, values, ctx):")
    written, newer = _split_results(op, s.version)
    _decode_results(s, written)
    if _has_flags(op, s.version):
        s.varint("flags")
        known = sum(_bits(op.flags, s.version).values())
        s.names["newer_flag"] = _newer_flag
        s.add(f"if flags & {~known}: raise newer_flag(SPEC, flags, p, ctx)")
    s.add("attributes = {}")
    late = []
    for attribute in op.attributes:
        if attribute.since > s.version:
            late += _decode_default(s, attribute)
        else:
            _decode_attribute(s, attribute)
    _decode_operands(s)
    s.add(*late)
    if op.regions:
        s.add(f"regions, p = ctx.regions(p, {len(op.regions)}, SPEC)")
    s.add("values += results" if written else "")
    for result in newer:
        s.add(f"results.append(Value({s.bind(_result_type(s.spec, op, result))}))")
    regions = "regions" if op.regions else "[]"
    s.add(f"return Operation(SPEC, operands, results, attributes, {regions}, None, segments), p")


def _decode_results(s: _Source, written: list[ValueSpec]) -> None:
    op = s.op
    check = "if t >= len(types): raise Fault(p, f'failed to get result type {%s} for %s: type index {t} out of bounds')"
    if op.counts_results:
        variadic = any(r.is_variadic for r in op.results)
        s.varint("count")
        if not variadic:
            s.add(
                f"if count != {len(written)}: raise Fault(p, f'{op.name} has {{count}} results', "
                f"expected='{len(written)}')"
            )
        else:
            fixed = sum(not r.is_variadic for r in written)
            s.add(
                f"if count > len(data) - p or count < {fixed}: raise Fault(p, "
                f"f'number of results {{count}} does not fit', expected=f'{fixed} to {{len(data) - p}}')"
            )
            s.add("results = []", "for i in range(count):")
            s.indent += 1
            s.varint("t")
            s.add(check % ("i", op.name), "results.append(Value(types[t]))")
            s.indent -= 1
            return
    for i in range(len(written)):
        s.varint("t")
        s.add(check % (i, op.name), f"r{i} = Value(types[t])")
    s.add(f"results = [{', '.join(f'r{i}' for i in range(len(written)))}]")


def _newer_flag(op: OpSpec, flags: int, p: int, ctx: Any) -> Fault:
    for flag in op.flags:
        if flags >> flag.bit & 1 and flag.since > ctx.version:
            kind = "operand" if flag.is_operand else "attribute"
            return Fault(
                p,
                f"malformed bytecode: flag set for {kind} '{flag.name}' which requires {flag.since} but reading "
                f"{ctx.version} bytecode",
                UnsupportedVersionError,
            )
    return Fault(p, f"unknown flags {flags:#x} of {op.name}", expected=f"below {1 << len(op.flags):#x}")


def _decode_default(s: _Source, attribute: AttributeSpec) -> list[str]:
    """Lines that fill in an attribute which the version does not have; they run when the operands are known."""
    if attribute.optional or attribute.is_flag or attribute.default is None:
        return []
    default = default_of(attribute)
    if isinstance(default, AllFalse):
        return [f"attributes[{attribute.name!r}] = (False,) * {_length_of(s.op, default.operand)}"]
    return [f"attributes[{attribute.name!r}] = {default!r}"]


def _length_of(op: OpSpec, operand: str) -> str:
    """Expression for the length of an operand group in generated code."""
    index = next(i for i, v in enumerate(op.operands) if v.name == operand)
    if op.has_segments:
        return f"segments[{index}]"
    if op.operands[index].arity == "one":
        return "1"
    return f"(len(operands) - {sum(v.arity == 'one' for v in op.operands)})"


def _decode_attribute(s: _Source, attribute: AttributeSpec) -> None:
    bit = _bits(s.op.flags, s.version).get(attribute.name)
    target = f"attributes[{attribute.name!r}]"
    if attribute.is_flag:
        s.add(f"if flags & {bit}: {target} = True")
        return
    if attribute.optional:
        s.add(f"if flags & {bit}:")
        s.indent += 1
    _decode_value(s, attribute, target)
    if attribute.optional:
        s.indent -= 1


def _decode_value(s: _Source, attribute: AttributeSpec, target: str) -> None:
    kind = attribute.kind
    if kind in INT_BITS:
        bits = INT_BITS[kind]
        s.varint("a")
        if bits < 64:
            s.add(f"if a >> {bits}: raise Fault(p, f'value {{a}} does not fit in {bits} bits')")
        s.add(f"{target} = a - {1 << bits} if a >> {bits - 1} else a")
    elif kind == "test_value":
        s.varint("a")
        s.add(f"{target} = (a >> 1) ^ -(a & 1)")
    elif kind in ("string", "symbol_name", "symbol_ref"):
        s.varint("a")
        s.add("a = ctx.string_at(a, p)")
        if kind != "string":
            s.add("if not a: raise Fault(p, 'empty symbol reference is invalid', InvalidError)")
        s.add(f"{target} = a")
    elif kind == "function_type":
        s.varint("a")
        s.add(f"{target} = ctx.type_at(a, p)")
    elif kind == "dense":
        s.varint("a")
        s.add(f"{target} = ctx.dense_at(a, r0.type, p)")
    elif kind in _DECODE_CALLS:
        s.add(f"a, p = {_DECODE_CALLS[kind]}", f"{target} = a")
    else:
        enum = s.spec.enums[kind]
        cases = s.bind({c.value: c.keyword for c in enum.cases if c.since <= s.version})
        s.names["enum_keyword"] = enum_keyword
        s.varint("a")
        s.add(f"{target} = {cases}.get(a) or enum_keyword({s.bind(enum)}, a, ctx.version, p)")


_DECODE_CALLS = {
    "bool": "A.read_bool(ctx, data, p)",
    "array": "A.read_array(ctx, data, p)",
    "dict_array": "A.read_array(ctx, data, p)",
    "hints": "A.read_hints(ctx, data, p)",
    "predicate": "A.read_predicate(ctx, data, p)",
    "i32_array": "A.read_checked_array(data, p, 4)",
    "bool_array": "A.read_bool_array(data, p)",
}


def _decode_operands(s: _Source) -> None:
    op = s.op
    if op.has_segments:
        _decode_segments(s)
        return
    s.add("segments = None")
    if op.counts_operands:
        fixed = sum(v.arity == "one" for v in op.operands)
        most = f"{fixed + 1}" if not any(v.is_variadic for v in op.operands) else "len(data) - p"
        s.varint("count")
        s.add(
            f"if count < {fixed} or count > {most}: raise Fault(p, f'number of operands {{count}} does not fit', "
            f"expected=f'{fixed} to {{{most}}}')",
            "operands = []",
            "for i in range(count):",
        )
        s.indent += 1
        _decode_operand(s, "operands.append(values[v])", "{i}")
        s.indent -= 1
        return
    for i in range(len(op.operands)):
        _decode_operand(s, f"o{i} = values[v]", str(i))
    s.add(f"operands = [{', '.join(f'o{i}' for i in range(len(op.operands)))}]")


def _decode_operand(s: _Source, store: str, which: str) -> None:
    s.varint("v")
    s.add(
        "if v >= len(values): raise Fault(p, "
        f"f'operand index {{v}} out of bounds (size={{len(values)}}) for operand {which}')",
        store,
    )


def _decode_segments(s: _Source) -> None:
    op = s.op
    bits = _bits(op.flags, s.version)
    s.add("operands = []")
    for i, operand in enumerate(op.operands):
        where = f"{operand.name} segment, element {{i}}" if operand.is_variadic else f"{operand.name} segment"
        if operand.is_optional and operand.name not in bits:
            s.add(f"n{i} = 0")
        elif operand.is_optional:
            s.add(f"n{i} = 0", f"if flags & {bits[operand.name]}:")
            s.indent += 1
            s.add(f"n{i} = 1")
            _decode_operand(s, "operands.append(values[v])", where)
            s.indent -= 1
        elif operand.is_variadic:
            s.varint(f"n{i}")
            s.add(
                f"if n{i} > len(data) - p: raise Fault(p, f'{operand.name} segment of {{n{i}}} operands does not fit')"
            )
            s.add(f"for i in range(n{i}):")
            s.indent += 1
            _decode_operand(s, "operands.append(values[v])", where)
            s.indent -= 1
        else:
            s.add(f"n{i} = 1")
            _decode_operand(s, "operands.append(values[v])", where)
    s.add(f"segments = ({''.join(f'n{i}, ' for i in range(len(op.operands)))})")


# -- encoding ---------------------------------------------------------------------------------------------------------


class AllFalse:
    """The default `all_false(operand)`: as many false as the operand group has values."""

    def __init__(self, operand: str) -> None:
        self.operand = operand


def default_of(attribute: AttributeSpec) -> Any:
    """The value that an absent attribute stands for (see model.py for values by kind)."""
    default = attribute.default
    if isinstance(default, str) and default.startswith("all_false("):
        return AllFalse(default[len("all_false(") : -1])
    if attribute.kind == "bool" and isinstance(default, str):
        return default == "true"
    return default


def _encoder(s: _Source) -> None:
    op = s.op
    s.lines.append("def encode(out, op, index, types, ctx):")
    s.names.update(missing=_missing, refuse_attribute=_refuse_attribute, bad_enum=_bad_enum, fit=_fit)
    s.add("append = out.append", "operands = op.operands", "attributes = op.attributes")
    if op.has_segments:
        s.add("segments = op.group_lengths()")
    written, newer = _split_results(op, s.version)
    _encode_results(s, written, newer)
    _encode_flags(s)
    for attribute in op.attributes:
        _encode_attribute(s, attribute)
    _encode_operands(s)
    if op.regions:
        s.add(f"ctx.write_regions(op, {len(op.regions)})")
    _define_results(s, written, newer)


def _encode_results(s: _Source, written: list[ValueSpec], newer: list[ValueSpec]) -> None:
    op = s.op
    s.add("results = op.results")
    if newer:
        s.add(f"results = results[:{len(written)}]")
    if any(r.is_variadic for r in op.results):
        s.put("len(results)")
    else:
        s.add(
            f"if len(results) != {len(written)}: raise InvalidError(f'{op.name} has {{len(op.results)}} results', "
            f"expected='{len(op.results)}')"
        )
        if op.counts_results:
            s.put(str(len(written)))
    if not op.results:
        return
    s.add("for r in results:")
    s.indent += 1
    s.add(
        "n = types.get(r.type)",
        "if n is None: n = ctx.type_index(r.type)",
        "if n < 128: append(n)",
        "else: put(out, n)",
    )
    s.indent -= 1


def _define_results(s: _Source, written: list[ValueSpec], newer: list[ValueSpec]) -> None:
    if written:
        s.add("defined = ctx.defined", "for r in results:", "    index[r] = len(defined)", "    defined.append(r)")
    for i, result in enumerate(newer):
        at = len(written) + i
        s.add(f"if len(op.results) > {at}: ctx.dropped[op.results[{at}]] = (op, {s.bind(result)})")


def _encode_flags(s: _Source) -> None:
    op = s.op
    for flag in op.flags:
        if flag.since > s.version:
            _encode_newer_flag(s, flag)
    if not _has_flags(op, s.version):
        return
    s.add("flags = 0")
    positions = {v.name: i for i, v in enumerate(op.operands)}
    for flag in op.flags:
        if flag.since > s.version:
            continue
        if flag.is_operand:
            s.add(f"if segments[{positions[flag.name]}]: flags |= {1 << flag.bit}")
        elif op_attribute(op, flag.name).is_flag:
            s.add(f"if attributes.get({flag.name!r}): flags |= {1 << flag.bit}")
        else:
            s.add(f"if attributes.get({flag.name!r}) is not None: flags |= {1 << flag.bit}")
    s.put("flags")


def op_attribute(op: OpSpec, name: str) -> AttributeSpec:
    found = op.attribute(name)
    if found is None:
        raise KeyError(name)
    return found


def _encode_newer_flag(s: _Source, flag: Flag) -> None:
    if flag.is_operand:
        position = next(i for i, v in enumerate(s.op.operands) if v.name == flag.name)
        s.names["refuse_operand"] = _refuse_operand
        s.add(f"if segments[{position}]: raise refuse_operand({s.bind(flag)}, ctx)")
    elif op_attribute(s.op, flag.name).is_flag:
        s.add(f"if attributes.get({flag.name!r}): raise refuse_attribute({s.bind(flag)}, ctx, True)")
    else:
        s.add(f"if attributes.get({flag.name!r}) is not None: raise refuse_attribute({s.bind(flag)}, ctx, True)")


def _encode_attribute(s: _Source, attribute: AttributeSpec) -> None:
    if attribute.is_flag or (attribute.optional and attribute.since > s.version):
        return
    s.add(f"a = attributes.get({attribute.name!r})")
    default = default_of(attribute)
    value = None if default is None else repr(default)
    if isinstance(default, AllFalse):
        value = f"(False,) * {_length_of(s.op, default.operand)}"
    if attribute.since > s.version:
        s.add(f"if a is not None and a != {value}: raise refuse_attribute({s.bind(attribute)}, ctx, False)")
        return
    if attribute.optional:
        s.add("if a is not None:")
        s.indent += 1
    else:
        s.add("if a is None:", f"    a = {value}" if value else f"    raise missing(SPEC, {attribute.name!r})")
    _encode_value(s, attribute)
    if attribute.optional:
        s.indent -= 1


def _encode_value(s: _Source, attribute: AttributeSpec) -> None:
    kind, name = attribute.kind, repr(attribute.name)
    if kind in INT_BITS:
        s.put(f"fit(a, {INT_BITS[kind]}, {name})")
    elif kind == "test_value":
        s.put("zigzag(a)")
    elif kind in ("string", "symbol_name", "symbol_ref"):
        s.put("ctx.string_index(a)")
    elif kind == "function_type":
        s.put("ctx.type_index(a)")
    elif kind == "dense":
        s.put("ctx.constant_index(a)")
    elif kind in _ENCODE_CALLS:
        s.add(_ENCODE_CALLS[kind].replace("NAME", name))
    else:
        enum = s.spec.enums[kind]
        cases = s.bind({c.keyword: c.value for c in enum.cases if c.since <= s.version})
        s.add(f"n = {cases}.get(a)", f"if n is None: raise bad_enum({s.bind(enum)}, a, {name}, ctx)")
        s.put("n")


_ENCODE_CALLS = {
    "bool": "append(1 if a else 0)",
    "array": "A.write_array(ctx, out, a, NAME)",
    "dict_array": "A.write_array(ctx, out, a, NAME)",
    "hints": "A.write_hints(ctx, out, a, NAME)",
    "predicate": "A.write_attribute(ctx, out, a, NAME)",
    "i32_array": "put_int_array(out, a, 4)",
    "bool_array": "put_int_array(out, a, 1)",
}


def _encode_operands(s: _Source) -> None:
    op = s.op
    if not op.operands:
        s.add("if operands: raise InvalidError('operands do not fit the declaration')")
        return
    if op.has_segments:
        s.add("at = 0")
        for i, operand in enumerate(op.operands):
            if operand.is_variadic:
                s.put(f"segments[{i}]")
            elif operand.arity == "one":
                s.add(f"if segments[{i}] != 1: raise InvalidError('operand {operand.name} is required')")
            else:
                s.add(f"if segments[{i}] > 1: raise InvalidError('operand {operand.name} stands for one value')")
            s.add(f"for v in operands[at:at + segments[{i}]]:")
            _encode_operand(s)
            s.add(f"at += segments[{i}]")
        return
    fixed = sum(v.arity == "one" for v in op.operands)
    if op.counts_operands:
        s.add(f"if len(operands) < {fixed}: raise InvalidError('operands do not fit the declaration')")
        s.put("len(operands)")
    else:
        s.add(f"if len(operands) != {fixed}: raise InvalidError('operands do not fit the declaration')")
    s.add("for v in operands:")
    _encode_operand(s)


def _encode_operand(s: _Source) -> None:
    s.indent += 1
    s.add("n = index.get(v)", "if n is None: raise ctx.unknown_value(v)", "if n < 128: append(n)", "else: put(out, n)")
    s.indent -= 1


def _missing(op: OpSpec, name: str) -> InvalidError:
    return InvalidError(f"'cuda_tile.{op.name}' op requires attribute '{name}'")


def _fit(value: int, bits: int, name: str) -> int:
    if not -(1 << (bits - 1)) <= value < 1 << bits:
        raise InvalidError(f"attribute '{name}': value {value} does not fit in {bits} bits")
    return value & ((1 << bits) - 1)


def _refuse_attribute(attribute: AttributeSpec | Flag, ctx: Any, optional: bool) -> MigrationError:
    if optional:
        message = (
            f"optional attribute '{attribute.name}' is provided but requires bytecode version {attribute.since}, "
            f"targeting {ctx.version}"
        )
    else:
        message = (
            f"attribute '{attribute.name}' requires bytecode version {attribute.since}+, but targeting {ctx.version}"
        )
    return MigrationError(message, feature=attribute.name, required=attribute.since, target=ctx.version)


def _refuse_operand(flag: Flag, ctx: Any) -> MigrationError:
    return MigrationError(
        f"optional operand '{flag.name}' is provided but requires bytecode version {flag.since}, "
        f"targeting {ctx.version}",
        feature=flag.name,
        required=flag.since,
        target=ctx.version,
    )


def _bad_enum(enum: Any, value: Any, name: str, ctx: Any) -> InvalidError | MigrationError:
    case = enum.by_keyword.get(value)
    if case is None:
        return InvalidError(f"attribute '{name}': {value!r} is not a case of {enum.name}")
    return MigrationError(
        f"enum value for attribute '{name}' is not available in bytecode version "
        f"{ctx.version.major}.{ctx.version.minor}",
        feature=f"{name}={value}",
        required=case.since,
        target=ctx.version,
    )
