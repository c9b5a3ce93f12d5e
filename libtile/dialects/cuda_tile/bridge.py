# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""From the bytecode's neutral records to the cuda_tile dialect: `from_bytecode`. See `to_bytecode` for the way back.

A module that goes through both is the same program with the same debug information. What the IR has no place for is
the file's layout (table order, unused entries) and its version; the writer then uses the reference writer's order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from libtile.bytecode import model as bc
from libtile.bytecode.errors import InvalidError
from libtile.dialects.cuda_tile.op_forms import SEGMENTS
from libtile.dialects.cuda_tile.values_from_bytecode import (
    TypeReader,
    attribute_from_bytecode,
    dense_from_bytecode,
    hints_from_bytecode,
    value_reader,
)
from libtile.support.collector import collector_paused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType as Kit
    from typing import Any

    from libtile.bytecode.body import PlaceRecorder
    from libtile.dialects.cuda_tile import attributes as ir
    from libtile.dialects.cuda_tile.ops import CudaTileOp
    from libtile.ir.forms import Attribute, Block, Operation, SSAValue

_DEBUG_CLASSES = {
    "di_file": "DIFileAttr",
    "di_compile_unit": "DICompileUnitAttr",
    "di_subprogram": "DISubprogramAttr",
    "di_lexical_block": "DILexicalBlockAttr",
    "di_loc": "DILocAttr",
}
"""The names of the kits' classes for the records."""

# -- bytecode to IR ---------------------------------------------------------------------------------------------------


def from_bytecode(module: bc.Module) -> CudaTileOp:
    """The `cuda_tile.module` op that a bytecode module stands for; decodes every function.

    Raises BytecodeError when a function does not decode, or when something in it has no form in the dialect. The
    result is not verified.
    """
    from libtile.dialects.cuda_tile import kit_xdsl

    with collector_paused():
        return FromBytecode(module, kit_xdsl).run()


def light_ir(module: bc.Module) -> CudaTileOp:
    """The same as `light` IR, which the verifier and the printer take, and which needs nothing of xDSL."""
    from libtile.dialects.cuda_tile import kit_light

    with collector_paused():
        return FromBytecode(module, kit_light).run()


class FromBytecode:
    """One conversion: the caches of types, locations and attributes, and the values seen so far.

    `kit` is what IR is made of: the module `kit_xdsl` or `kit_light`.
    """

    def __init__(self, module: bc.Module, kit: Kit) -> None:
        self._module = module
        self.kit = kit
        self._classes = kit.op_classes(module.spec)
        self._types = TypeReader(kit)
        self._type = self._types.convert
        self._locations: dict[bc.DebugInfo | None, Attribute] = {None: kit.UNKNOWN_LOC}
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
        properties: dict[str, Attribute] = {"sym_name": self.kit.StringAttr(self._module.name)}
        if self._module.producer is not None:
            properties["producer"] = self.kit.StringAttr(self._module.producer)
        return self._classes["module"](properties=properties, regions=[self.kit.Region(self.kit.Block(ops))])

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
        kit = self.kit
        properties: dict[str, Attribute] = {
            "sym_name": kit.StringAttr(record.name),
            "value": dense_from_bytecode(record.value, self._types),
            "alignment": kit.integer(_signed(record.alignment), kit.NUMBER_TYPES["i64"]),
            "symbol_visibility": kit.EnumAttr(self._module.spec.enums["SymbolVisibility"], record.visibility),
        }
        if record.constant:
            properties["constant"] = kit.UnitAttr()
        return self._classes["global"](properties=properties)

    def _function(self, function: bc.Function) -> Operation:
        properties: dict[str, Attribute] = {
            "sym_name": self.kit.StringAttr(function.name),
            "function_type": self._type(function.type),
        }
        if function.hints is not None:
            hints = hints_from_bytecode(function.hints, self._types)
            properties["optimization_hints"] = self.kit.OptimizationHintsAttr(hints)
        if function.argument_attributes:
            converted = [attribute_from_bytecode(a, self._types) for a in function.argument_attributes]
            properties["arg_attrs"] = self.kit.ArrayAttr(converted)
        location = self._location(function.location)
        self._values = {}
        self._source = None
        block = self._block(function.body, location)
        op = self._classes[function.kind](properties=properties, regions=[self.kit.Region(block)])
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
            return self.kit.UNKNOWN_LOC
        if info.name == "call_site":
            return self.kit.call_site_loc(self._locations[info["callee"]], self._locations[info["caller"]])
        cls: type[ir.DebugAttr] = getattr(self.kit, _DEBUG_CLASSES[info.name])
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
        block = self.kit.Block(arg_types=[to_type(a.type) for a in source.arguments])
        for argument, value in zip(source.arguments, block.args):
            values[argument] = value
            value.location = location
        return block

    def _block(self, source: bc.Block, location: Any) -> Block:
        block = self._start_block(source, location)
        self.kit.put_in(block, [self._operation(op) for op in source.operations])
        return block

    def _operation(self, source: bc.Operation) -> Operation:
        self._source = source
        spec = source.spec
        readers = self._readers.get(spec.name)
        if readers is None:
            readers = self._readers[spec.name] = [
                (a.name, value_reader(a, self._module.spec, self._types)) for a in spec.attributes
            ]
        attributes = source.attributes
        properties = {name: read(attributes[name]) for name, read in readers if name in attributes}
        if source.segments is not None:
            properties[SEGMENTS] = self.kit.dense_array(self.kit.NUMBER_TYPES["i32"], tuple(source.segments))
        values = self._values
        to_type = self._type
        location = self._location(source.location)
        regions = [self.kit.Region([self._block(b, location) for b in region]) for region in source.regions]
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


def _signed(value: int) -> int:
    """A number of 64 bits as one with a sign."""
    return value - (value >> 63 << 64)


def _place_of(op: bc.Operation, body: bc.Block, encoded: bc.EncodedBody) -> int:
    """The position of an op among the bytes of its function's body, which are decoded once more to find it."""
    from libtile.bytecode.body import PlaceRecorder

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
