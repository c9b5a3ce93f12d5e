# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""From the bytecode's neutral records to the cuda_tile dialect: `from_bytecode`. See `to_bytecode` for the way back.

A module that goes through both is the same program with the same debug information. What the IR has no place for is
the file's layout (table order, unused entries) and its version; the writer then uses the reference writer's order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    ArrayAttr,
    DenseArrayBase,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from libtile.bytecode import model as bc
from libtile.bytecode.body import PlaceRecorder
from libtile.bytecode.errors import InvalidError
from libtile.dialects.cuda_tile import attributes as ir
from libtile.dialects.cuda_tile import types
from libtile.dialects.cuda_tile.bridge_values import (
    INTEGER_TYPES,
    TypeReader,
    attribute_from_bytecode,
    dense_from_bytecode,
    hints_from_bytecode,
)
from libtile.dialects.cuda_tile.locations import call_site_loc
from libtile.dialects.cuda_tile.ops import OPS, SEGMENTS, CudaTileOp, OpClasses
from libtile.spec import Spec, default_spec
from libtile.spec.model import AttributeSpec
from libtile.support.collector import collector_paused

_DEBUG_CLASSES: dict[str, type[ir.DebugAttr]] = {
    "di_file": ir.DIFileAttr,
    "di_compile_unit": ir.DICompileUnitAttr,
    "di_subprogram": ir.DISubprogramAttr,
    "di_lexical_block": ir.DILexicalBlockAttr,
    "di_loc": ir.DILocAttr,
}


_other_classes: list[tuple[Spec, Mapping[str, type[CudaTileOp]]]] = []


def _classes(spec: Spec) -> Mapping[str, type[CudaTileOp]]:
    """The op classes of a spec; those of the few others than the package's own are made once each."""
    if spec is default_spec():
        return OPS
    for known, classes in _other_classes:
        if known is spec:
            return classes
    _other_classes.append((spec, OpClasses(spec)))
    return _other_classes[-1][1]


# -- bytecode to IR ---------------------------------------------------------------------------------------------------


def from_bytecode(module: bc.Module) -> CudaTileOp:
    """The `cuda_tile.module` op that a bytecode module stands for; decodes every function.

    Raises BytecodeError when a function does not decode, or when something in it has no form in the dialect. The
    result is not verified.
    """
    with collector_paused():
        return FromBytecode(module).run()


class FromBytecode:
    """One conversion: the caches of types, locations and attributes, and the values seen so far."""

    def __init__(self, module: bc.Module) -> None:
        self._module = module
        self._classes = _classes(module.spec)
        self._types = TypeReader()
        self._type = self._types.convert
        self._locations: dict[bc.DebugInfo | None, Attribute] = {None: UNKNOWN_LOC}
        self._values: dict[bc.Value, SSAValue] = {}
        self._readers: dict[str, list[tuple[str, Callable[[Any], Attribute]]]] = {}
        self._source: bc.Operation | None = None
        """The op being converted."""

    def run(self) -> CudaTileOp:
        ops: list[Operation] = []
        for number, variable in enumerate(self._module.globals):
            try:
                ops.append(self._global(variable))
            except InvalidError as problem:
                self._place_in_table(problem, "Global", f"global '{variable.name}'", "global_offsets", number)
                raise
        for function in self._module.functions:
            encoded = function.encoded  # decoding it lets go of it
            try:
                ops.append(self._function(function))
            except InvalidError as problem:
                self._place_in_function(problem, function, encoded)
                raise
        properties: dict[str, Attribute] = {"sym_name": StringAttr(self._module.name)}
        if self._module.producer is not None:
            properties["producer"] = StringAttr(self._module.producer)
        return self._classes["module"](properties=properties, regions=[Region(Block(ops))])

    def _place_in_table(self, problem: InvalidError, section: str, entry: str, table: str, number: int) -> None:
        """Say where in the file something is that the dialect has no form for, unless a type is to blame."""
        invalid, tables = self._types.invalid, self._module.tables
        if problem.offset is not None or tables is None:
            return
        if invalid is not None:
            section, table, number = "Type", "type_offsets", tables.types.index(invalid)
            entry = f"entry {number}"
        problem.section = f"{section} > {entry}"
        offsets = getattr(tables, table)
        problem.offset = offsets[number] if number < len(offsets) else None

    def _place_in_function(self, problem: InvalidError, function: bc.Function, encoded: bc.EncodedBody | None) -> None:
        if self._types.invalid is not None:
            self._place_in_table(problem, "Type", "", "type_offsets", 0)
        elif problem.offset is None and encoded is not None:
            problem.section, problem.offset = f"Func > function '{function.name}'", encoded.offset
            if self._source is not None:
                problem.section += f" > {self._source.spec.name}"
                problem.offset += _place_of(self._source, function.body, encoded)

    def _global(self, record: bc.Global) -> Operation:
        properties: dict[str, Attribute] = {
            "sym_name": StringAttr(record.name),
            "value": dense_from_bytecode(record.value, self._type),
            "alignment": IntegerAttr(record.alignment - (record.alignment >> 63 << 64), 64),  # 64 bits, with a sign
            "symbol_visibility": ir.EnumAttr(self._module.spec.enums["SymbolVisibility"], record.visibility),
        }
        if record.constant:
            properties["constant"] = UnitAttr()
        return self._classes["global"](properties=properties)

    def _function(self, function: bc.Function) -> Operation:
        properties: dict[str, Attribute] = {
            "sym_name": StringAttr(function.name),
            "function_type": self._type(function.type),
        }
        if function.hints is not None:
            properties["optimization_hints"] = ir.OptimizationHintsAttr(hints_from_bytecode(function.hints, self._type))
        if function.argument_attributes:
            converted = [attribute_from_bytecode(a, self._type) for a in function.argument_attributes]
            properties["arg_attrs"] = ArrayAttr(converted)
        location = self._location(function.location)
        self._values = {}
        self._source = None
        block = self._block(function.body, location)
        op = self._classes[function.kind](properties=properties, regions=[Region(block)])
        op.location = location
        return op

    def _location(self, info: bc.DebugInfo | None) -> Any:
        known = self._locations
        if info is not None and info not in known:
            # Calls and scopes may be nested deeply: each is made when its parts are.
            pending = [info]
            while pending:
                top = pending[-1]
                parts = [p for p in top.parameters if isinstance(p, bc.DebugInfo) and p not in known]
                if parts:
                    pending += parts
                    continue
                pending.pop()
                if top not in known:
                    known[top] = self._make_location(top)
        return known[info]

    def _make_location(self, info: bc.DebugInfo) -> Attribute:
        """The location of a record whose parts are made."""
        if info.name == "unknown":
            return UNKNOWN_LOC
        if info.name == "call_site":
            return call_site_loc(self._locations[info["callee"]], self._locations[info["caller"]])
        cls = _DEBUG_CLASSES[info.name]
        fields = [self._debug_field(cls, name, value) for name, value in zip(cls.fields, info.parameters)]
        return cls(*fields)

    def _debug_field(self, cls: type[ir.DebugAttr], name: str, value: Any) -> Any:
        if isinstance(value, bc.DebugInfo):
            return self._locations[value]
        if value is None:
            raise InvalidError(f"failed to read {name.replace('_', ' ')} attribute when parsing {cls.__name__}")
        return value

    # -- bodies: every step here runs once per op

    def _start_block(self, source: bc.Block, location: Any) -> Block:
        values = self._values
        to_type = self._type
        block = Block(arg_types=[to_type(a.type) for a in source.arguments])
        for argument, value in zip(source.arguments, block.args):
            values[argument] = value
            value.location = location
        return block

    def _block(self, source: bc.Block, location: Any) -> Block:
        block = self._start_block(source, location)
        block.add_ops([self._operation(op) for op in source.operations])
        return block

    def _operation(self, source: bc.Operation) -> Operation:
        self._source = source
        spec = source.spec
        readers = self._readers.get(spec.name)
        if readers is None:
            readers = self._readers[spec.name] = [(a.name, self._reader(a)) for a in spec.attributes]
        attributes = source.attributes
        properties = {name: read(attributes[name]) for name, read in readers if name in attributes}
        if source.segments is not None:
            properties[SEGMENTS] = _segments(tuple(source.segments))
        values = self._values
        to_type = self._type
        location = self._location(source.location)
        regions = [Region([self._block(b, location) for b in region]) for region in source.regions]
        op = self._classes[spec.name](
            operands=[values[v] for v in source.operands],
            result_types=[to_type(r.type) for r in source.results],
            properties=properties,
            regions=regions,
            location=location,
        )
        for result, value in zip(source.results, op.results):
            values[result] = value
        return op

    def _reader(self, attribute: AttributeSpec) -> Callable[[Any], Attribute]:
        """How the value of a declared attribute becomes an IR attribute; equal values share one object."""
        kind = attribute.kind
        make: Callable[[Any], Attribute]
        if kind in self._module.spec.enums:
            enum = self._module.spec.enums[kind]
            make = lambda v: ir.EnumAttr(enum, v)  # noqa: E731
        elif kind in INTEGER_TYPES:
            type_ = INTEGER_TYPES[kind]
            make = lambda v: IntegerAttr(int(v), type_)  # noqa: E731
        elif kind == "unit":
            make = lambda v: UnitAttr()  # noqa: E731
        elif kind in ("string", "symbol_name"):
            make = StringAttr
        elif kind == "symbol_ref":
            make = SymbolRefAttr
        elif kind == "function_type":
            return self._type
        elif kind == "i32_array":
            make = lambda v: DenseArrayBase.from_list(types.i32, list(v))  # noqa: E731
        elif kind == "bool_array":
            make = lambda v: DenseArrayBase.from_list(types.i1, [int(b) for b in v])  # noqa: E731
        elif kind in ("array", "dict_array"):
            return lambda v: ArrayAttr([attribute_from_bytecode(e, self._type) for e in v])
        elif kind == "test_value":
            make = ir.TestValueAttr
        else:
            return lambda v: attribute_from_bytecode(v, self._type)
        return _memo(make)


def _place_of(op: bc.Operation, body: bc.Block, encoded: bc.EncodedBody) -> int:
    """The position of an op among the bytes of its function's body, which are decoded once more to find it."""
    recorders: list[PlaceRecorder] = []

    def recorder(*arguments: Any) -> PlaceRecorder:
        recorders.append(PlaceRecorder(*arguments))
        return recorders[-1]

    encoded.decode(recorder)
    return next(place for place, other in zip(recorders[0].places, _walk(body)) if other is op)


def _walk(block: bc.Block) -> Iterator[bc.Operation]:
    for op in block.operations:
        yield op
        for region in op.regions:
            for inner in region:
                yield from _walk(inner)


def _memo(make: Callable[[Any], Attribute]) -> Callable[[Any], Attribute]:
    known: dict[Any, Attribute] = {}

    def get(value: Any) -> Attribute:
        found = known.get(value)
        if found is None:
            found = known[value] = make(value)
        return found

    return get


@lru_cache(maxsize=4096)
def _segments(sizes: tuple[int, ...]) -> Attribute:
    return DenseArrayBase.from_list(types.i32, list(sizes))


# -- IR to bytecode ---------------------------------------------------------------------------------------------------
