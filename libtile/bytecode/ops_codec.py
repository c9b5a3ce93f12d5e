# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Instruction codecs, generated from the declarations: one decoder and one encoder per (op, version).

An instruction is: opcode, result types (counted if any operand or result is variadic), flags varint (from the version
of its first flag), attributes in order, operands (by group, or one list), regions. A generated function has no test
left in it that the declaration and the version decide, which is what makes decoding fast enough in CPython.

The source of a generated function can be had by `linecache`, so that tracebacks and profilers show it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

from libtile.bytecode.errors import Fault, UnsupportedVersionError
from libtile.bytecode.model import Operation
from libtile.bytecode.ops_source import (
    INT_BITS,
    AllFalse,
    CodecSource,
    bits_of,
    default_of,
    has_flags,
    length_of,
    result_type,
    split_results,
)
from libtile.bytecode.types_codec import enum_keyword
from libtile.spec import OpSpec, Spec, Version
from libtile.spec.model import AttributeSpec, ValueSpec

Decoder = Callable[..., tuple[Operation, int]]
Encoder = Callable[..., None]

CONTAINER_OPS = frozenset({"module", "entry", "global", "testing$func"})
"""Ops that are records of the container, never instructions."""


class Codec:
    """How one op is read and written in one version; either function is made when it is first used."""

    def __init__(self, spec: Spec, op: OpSpec, version: Version) -> None:
        self.spec = op
        self.restricted = spec.is_testing_op(op) or op.preview is not None
        """The reader's and writer's options decide whether the op is allowed: a testing or a preview op."""
        self._source = partial(CodecSource, spec, op, version)

    @cached_property
    def decode(self) -> Decoder:
        source = self._source()
        _decoder(source)
        decode: Decoder = source.compile("decode")
        return decode

    @cached_property
    def encode(self) -> Encoder:
        from libtile.bytecode.ops_encoding import encoder

        source = self._source()
        encoder(source)
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


# -- decoding ---------------------------------------------------------------------------------------------------------


def _decoder(s: CodecSource) -> None:
    op = s.op
    s.lines.append("def decode(data, p, types, values, ctx):")
    written, newer = split_results(op, s.version)
    _decode_results(s, written)
    if has_flags(op, s.version):
        s.varint("flags")
        known = sum(bits_of(op.flags, s.version).values())
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
        s.add(f"results.append(Value({s.bind(result_type(s.spec, op, result))}))")
    regions = "regions" if op.regions else "[]"
    s.add(f"return Operation(SPEC, operands, results, attributes, {regions}, None, segments), p")


def _decode_results(s: CodecSource, written: list[ValueSpec]) -> None:
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


def _decode_default(s: CodecSource, attribute: AttributeSpec) -> list[str]:
    """Lines that fill in an attribute which the version does not have; they run when the operands are known."""
    if attribute.optional or attribute.is_flag or attribute.default is None:
        return []
    default = default_of(attribute)
    if isinstance(default, AllFalse):
        return [f"attributes[{attribute.name!r}] = (False,) * {length_of(s.op, default.operand)}"]
    return [f"attributes[{attribute.name!r}] = {default!r}"]


def _decode_attribute(s: CodecSource, attribute: AttributeSpec) -> None:
    bit = bits_of(s.op.flags, s.version).get(attribute.name)
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


def _decode_value(s: CodecSource, attribute: AttributeSpec, target: str) -> None:
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


def _decode_operands(s: CodecSource) -> None:
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


def _decode_operand(s: CodecSource, store: str, which: str) -> None:
    s.varint("v")
    s.add(
        "if v >= len(values): raise Fault(p, "
        f"f'operand index {{v}} out of bounds (size={{len(values)}}) for operand {which}')",
        store,
    )


def _decode_segments(s: CodecSource) -> None:
    op = s.op
    bits = bits_of(op.flags, s.version)
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
