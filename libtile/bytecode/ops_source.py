# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The source of a generated codec, and what decoders and encoders ask of an op in a version. See `ops_codec`."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.machinery import ModuleSpec
from typing import Any

from libtile.bytecode import attributes as A
from libtile.bytecode.cursor import int_array, more, put, put_int_array, zigzag
from libtile.bytecode.errors import Fault, InvalidError
from libtile.bytecode.model import Operation, Value, make_type
from libtile.spec import OpSpec, Spec, Version
from libtile.spec.model import AttributeSpec, Flag, ValueSpec

INT_BITS = {"i32": 32, "i32_nonneg": 32, "i64": 64, "i64_nonneg": 64}


class CodecSource:
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
        filename = f"{kind} {self.op.name} {self.version}"
        text = "\n".join((f"# {filename}", *self.lines, ""))
        # As of a module, so that `linecache` finds the text: to put it there takes longer than to read a kernel.
        spec = ModuleSpec(filename, _Source(text))  # type: ignore[arg-type]
        scope = {**self.names, "__name__": filename, "__spec__": spec}
        execute(text, filename, scope)
        return scope[kind]


class _Source:
    """The loader of a generated function, for those who ask for its source."""

    def __init__(self, text: str) -> None:
        self.text = text

    def get_source(self, name: str) -> str:
        return self.text


def execute(text: str, filename: str, scope: dict[str, Any]) -> None:
    """Execute a text; a tool's start puts a function here that keeps the code of texts, which name their files."""
    exec(compile(text, filename, "exec"), scope)


def bits_of(flags: Iterable[Flag], version: Version) -> dict[str, int]:
    return {f.name: 1 << f.bit for f in flags if f.since <= version}


def has_flags(op: OpSpec, version: Version) -> bool:
    return bool(op.flags) and version >= min(f.since for f in op.flags)


def split_results(op: OpSpec, version: Version) -> tuple[list[ValueSpec], list[ValueSpec]]:
    """The results that the version writes, and the newer ones, which must come last: values are numbered in order."""
    written = [r for r in op.results if r.since <= version]
    newer = [r for r in op.results if r.since > version]
    if list(op.results) != [*written, *newer]:
        raise ValueError(f"op {op.name}: a result that is newer than another one stands before it")
    return written, newer


def result_type(spec: Spec, op: OpSpec, result: ValueSpec) -> Any:
    """The type of a result that an older file does not have: its constraint must leave no choice."""
    types = spec.constraints[result.constraint].types
    if len(types) != 1 or spec.types[types[0]].parameters or spec.types[types[0]].kind == "function":
        raise ValueError(f"op {op.name}: result {result.name!r} is newer than the op, and its type is not determined")
    return make_type(types[0], spec=spec)


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


def length_of(op: OpSpec, operand: str) -> str:
    """Expression for the length of an operand group in generated code."""
    index = next(i for i, v in enumerate(op.operands) if v.name == operand)
    if op.has_segments:
        return f"segments[{index}]"
    if op.operands[index].arity == "one":
        return "1"
    return f"(len(operands) - {sum(v.arity == 'one' for v in op.operands)})"
