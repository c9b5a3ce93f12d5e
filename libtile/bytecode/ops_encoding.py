# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The generated functions that write instructions: one encoder per (op, version). See `ops_codec`."""

from __future__ import annotations

from typing import Any

from libtile.bytecode.errors import InvalidError, MigrationError
from libtile.bytecode.ops_source import (
    INT_BITS,
    AllFalse,
    CodecSource,
    default_of,
    has_flags,
    length_of,
    split_results,
)
from libtile.spec import OpSpec
from libtile.spec.model import AttributeSpec, Flag, ValueSpec


def encoder(s: CodecSource) -> None:
    op = s.op
    s.lines.append("def encode(out, op, index, types, ctx):")
    s.names.update(missing=_missing, refuse_attribute=_refuse_attribute, bad_enum=_bad_enum, fit=_fit)
    s.add("append = out.append", "operands = op.operands", "attributes = op.attributes")
    if op.has_segments:
        s.add("segments = op.group_lengths()")
    written, newer = split_results(op, s.version)
    _encode_results(s, written, newer)
    _encode_flags(s)
    for attribute in op.attributes:
        _encode_attribute(s, attribute)
    _encode_operands(s)
    if op.regions:
        s.add(f"ctx.write_regions(op, {len(op.regions)})")
    _define_results(s, written, newer)


def _encode_results(s: CodecSource, written: list[ValueSpec], newer: list[ValueSpec]) -> None:
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


def _define_results(s: CodecSource, written: list[ValueSpec], newer: list[ValueSpec]) -> None:
    if written:
        s.add("defined = ctx.defined", "for r in results:", "    index[r] = len(defined)", "    defined.append(r)")
    for i, result in enumerate(newer):
        at = len(written) + i
        s.add(f"if len(op.results) > {at}: ctx.dropped[op.results[{at}]] = (op, {s.bind(result)})")


def _encode_flags(s: CodecSource) -> None:
    op = s.op
    for flag in op.flags:
        if flag.since > s.version:
            _encode_newer_flag(s, flag)
    if not has_flags(op, s.version):
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


def _encode_newer_flag(s: CodecSource, flag: Flag) -> None:
    if flag.is_operand:
        position = next(i for i, v in enumerate(s.op.operands) if v.name == flag.name)
        s.names["refuse_operand"] = _refuse_operand
        s.add(f"if segments[{position}]: raise refuse_operand({s.bind(flag)}, ctx)")
    elif op_attribute(s.op, flag.name).is_flag:
        s.add(f"if attributes.get({flag.name!r}): raise refuse_attribute({s.bind(flag)}, ctx, True)")
    else:
        s.add(f"if attributes.get({flag.name!r}) is not None: raise refuse_attribute({s.bind(flag)}, ctx, True)")


def _encode_attribute(s: CodecSource, attribute: AttributeSpec) -> None:
    if attribute.is_flag or (attribute.optional and attribute.since > s.version):
        return
    s.add(f"a = attributes.get({attribute.name!r})")
    default = default_of(attribute)
    value = None if default is None else repr(default)
    if isinstance(default, AllFalse):
        value = f"(False,) * {length_of(s.op, default.operand)}"
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


def _encode_value(s: CodecSource, attribute: AttributeSpec) -> None:
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


def _encode_operands(s: CodecSource) -> None:
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


def _encode_operand(s: CodecSource) -> None:
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
