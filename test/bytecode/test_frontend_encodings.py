# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Each op's instruction is byte for byte what the frontend's own encoder makes, in every version that has the op.

The encoders are called with the indices of the file that libtile wrote, so that only the instruction is compared.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

from bytecode.samples import instructions, op_module
from libtile import bytecode
from libtile.bytecode.context import WriteContext
from libtile.bytecode.model import Bounded, Integer, Module, Operation, OptimizationHints, Type, make_type
from libtile.bytecode.ops_source import INT_BITS
from libtile.bytecode.types_codec import encode_type
from libtile.spec import OpSpec, Version, default_spec

frontend = pytest.importorskip(
    "cuda.tile._bytecode.encodings", reason="the frontend is not installed (pip install cuda-tile)"
)
from cuda.tile._bytecode import attribute as fa  # noqa: E402
from cuda.tile._bytecode.basic import StringId, StringTable  # noqa: E402
from cuda.tile._bytecode.code_builder import CodeBuilder, NestedBlockBuilder, Value  # noqa: E402
from cuda.tile._bytecode.constant import ConstantTable  # noqa: E402
from cuda.tile._bytecode.type import SimpleType, TypeId, TypeTable  # noqa: E402
from cuda.tile._bytecode.type_base import PaddingValue, PtrAttr  # noqa: E402
from cuda.tile._bytecode.version import BytecodeVersion  # noqa: E402

SPEC = default_spec()
ENCODERS = {
    int(re.search(r"# Opcode\n\s+encode_varint\((\d+)", inspect.getsource(function))[1]): function  # type: ignore[index]
    for name, function in vars(frontend).items()
    if name.startswith("encode_") and name.endswith("Op")
}
COVERED = [op for op in instructions(SPEC) if op.opcode in ENCODERS]


def test_the_frontend_has_an_encoder_for_every_op() -> None:
    missing = {op.name for op in instructions(SPEC) if op.opcode not in ENCODERS and not SPEC.is_testing_op(op)}
    assert not missing


class Frontend:
    """Turns values of the neutral form into the frontend's, with the indices of one file."""

    def __init__(self, module: Module) -> None:
        assert module.tables is not None and module.version is not None
        self.tables = module.tables
        version = module.version
        strings = StringTable()
        for index, text in enumerate(self.tables.strings):
            strings[text.encode("utf-8", "surrogateescape")] = StringId(index)
        constants = ConstantTable()
        for data in self.tables.constants:
            constants.dense_constant(data)
        number = version.major * 10000 + version.minor * 100
        self.builder = CodeBuilder(bytearray(), BytecodeVersion(number), strings, constants, [])

    def type(self, type_: Any) -> TypeId:
        return TypeId(self.tables.types.index(type_))

    def attribute(self, value: Any, parameter: inspect.Parameter) -> Any:
        if isinstance(value, OptimizationHints):
            entries = [
                (name, fa.Dictionary([(k, self.tagged(v)) for k, v in keys.items])) for name, keys in value.items
            ]
            return fa.OptimizationHints(entries)
        if isinstance(value, str):
            enum = re.search(r"Optional\[.*\.(\w+)\]|<enum '(\w+)'>", str(parameter.annotation))
            if enum:
                cases = getattr(frontend, enum[1] or enum[2])
                number = next(
                    c.value
                    for e in SPEC.enums.values()
                    if e.name == cases.__name__
                    for c in e.cases
                    if c.keyword == value
                )
                return next(c for c in cases if c.value == bytes([number]))
            return _String(value)
        if isinstance(value, tuple) and value and not isinstance(value[0], (int, bool)):
            return [self.tagged(v) for v in value]
        if hasattr(value, "data"):
            return value.data
        return self.tagged(value) if isinstance(value, Bounded) else value

    def tagged(self, value: Any) -> Any:
        if isinstance(value, Integer):
            return fa.Integer(self.type(value.type), 32, value.value)
        if isinstance(value, Bounded):
            return fa.Bounded(value.lower, value.upper)
        if hasattr(value, "items") and not isinstance(value, dict):
            return fa.Dictionary([(k, self.tagged(v)) for k, v in value.items])
        result = fa.Float.__new__(fa.Float)
        result.type_id, result.value_bits, result.bit_size = self.type(value.type), value.bits, 32
        return result


class _String(str):
    """A string that the frontend encodes as the bytes it stands for."""

    def encode(self, *_: Any) -> bytes:  # type: ignore[override]
        return str.encode(self, "utf-8", "surrogateescape")


def arguments(
    front: Frontend, function: Any, op: Operation, version: Version, numbers: dict[Any, int]
) -> dict[str, Any]:
    """What to call the encoder with."""
    result: dict[str, Any] = {"code_builder": front.builder}
    groups = {v.name: [Value(numbers[x]) for x in op.group(v.name)] for v in op.spec.operands}
    arity = {v.name: v.arity for v in op.spec.operands}
    types = [front.type(r.type) for r, s in zip(op.results, op.spec.results) if s.since <= version]
    for parameter in list(inspect.signature(function).parameters.values())[1:]:
        name = parameter.name.removesuffix("_")
        if name in groups:
            values = groups[name]
            result[parameter.name] = values if arity[name] == "variadic" else (values[0] if values else None)
        elif name == "result_types":
            result[parameter.name] = [front.type(r.type) for r in op.results]
        elif op.spec.attribute(name) is not None:
            value = op.attributes.get(name)
            declared = op.spec.attribute(name)
            assert declared is not None
            if declared.kind in INT_BITS:
                value &= (1 << INT_BITS[declared.kind]) - 1
            result[parameter.name] = bool(value) if declared.is_flag else front.attribute(value, parameter)
        else:
            assert name.endswith("_type"), name
            declared_name = name.removesuffix("_type")
            position = next(i for i, s in enumerate(op.spec.results) if s.name.lower() == declared_name.lower())
            result[parameter.name] = types[position] if position < len(types) else None
    return result


CASES = [
    pytest.param(op, version, full, id=f"{op.name}-{version}-{'full' if full else 'bare'}")
    for op in COVERED
    for version in SPEC.released_versions
    for full in (True, False)
    if version >= op.since
]


@pytest.mark.parametrize("declared, version, full", CASES)
def test_instruction_is_that_of_the_frontend(declared: OpSpec, version: Version, full: bool) -> None:
    data = bytecode.write(op_module(SPEC, declared, version, full), version)
    module = bytecode.read(data, preview=("simt",))
    encoded = module.functions[0].encoded
    assert encoded is not None
    ours = encoded.data
    front = Frontend(module)
    body = module.functions[0].body
    operation = body.operations[0]
    numbers = {v: i for i, v in enumerate(body.arguments)}
    front.builder.next_value_id = len(numbers)
    function = ENCODERS[declared.opcode]
    nested = function(**arguments(front, function, operation, version, numbers))
    if isinstance(nested, NestedBlockBuilder):
        for region in operation.regions:
            with nested.new_block([front.type(a.type) for a in region[0].arguments]) as inner:
                kept = region[0].operations[0].results[0].type
                value = frontend.encode_AbsFOp(front.builder, front.type(kept), inner[0])
                frontend.encode_ContinueOp(front.builder, [value])
    frontend.encode_ReturnOp(front.builder, [])
    assert front.builder.buf.hex(" ") == ours.hex(" ")


def frontend_type(table: TypeTable, type_: Type) -> TypeId:
    """The type in the frontend's table."""
    if not type_.parameters:
        name = {"token": "Token"}.get(type_.name, type_.name.upper())
        return table.simple(next(s for s in SimpleType if s.name == name))
    inner = [frontend_type(table, p) if isinstance(p, Type) else p for p in type_.parameters]
    if type_.name == "function":
        return table.function(*([frontend_type(table, t) for t in types] for types in type_.parameters))
    if type_.name in ("ptr", "tensor_view"):
        inner[-1] = PtrAttr.Missing if inner[-1] is None else PtrAttr.Default
    elif inner[-1] in SPEC.enums["PaddingValue"].by_keyword:
        inner[-1] = PaddingValue(bytes([SPEC.enums["PaddingValue"].by_keyword[inner[-1]].value]))
    elif type_.name.endswith("_view"):
        inner[-1] = PaddingValue.Missing
    method = {"ptr": "pointer"}.get(type_.name, type_.name)
    return getattr(table, method)(*inner)


def sample_types() -> list[Type]:
    number = [make_type(n) for n, t in SPEC.types.items() if t.kind in ("integer", "float", "token")]
    f32 = make_type("f32")
    view = make_type("tensor_view", f32, (-(2**63), 300), (300, 1))
    marked = make_type("tensor_view", f32, (8,), (1,), "none")
    views = [make_type("partition_view", (2, 4), view, (1, 0), padding) for padding in (None, "zero", "nan", "neg_inf")]
    views += [make_type("gather_scatter_view", (2, 4), view, 1, padding) for padding in (None, "pos_inf")]
    views += [make_type("strided_view", (2, 4), (3, 1), view, (0, 1), padding) for padding in (None, "neg_zero")]
    pointers = [make_type("ptr", f32), make_type("ptr", f32, "none")]
    tiles = [make_type("tile", pointers[0], ()), make_type("tile", f32, (1024, 2))]
    return [*number, *pointers, view, marked, *views, *tiles, make_type("function", tuple(tiles), (f32,))]


@pytest.mark.parametrize("version", SPEC.released_versions, ids=str)
def test_types_are_those_of_the_frontend(version: Version) -> None:
    table = TypeTable(BytecodeVersion(version.major * 10000 + version.minor * 100))
    writer = WriteContext(SPEC, version, False, None)
    for name in ("i1", "i32"):  # the frontend's table starts with these
        writer.type_index(make_type(name))
    written = 0
    for type_ in sample_types():
        try:
            index = writer.type_index(type_)
        except bytecode.MigrationError:
            continue
        assert frontend_type(table, type_).type_id == index
        written += 1
    entries = [encode_type(writer, t).hex(" ") for t in writer.type_list]
    assert entries == [entry.hex(" ") for entry in table]
    assert written >= 20
